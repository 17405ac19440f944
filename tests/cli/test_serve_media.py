#!/usr/bin/env python3
"""Tests of pictures and sound in `infer serve`: python3 tests/cli/test_serve_media.py build/infer [PROGRAM]

The projectors, text models, pictures and sounds of the recorded references ($INFER_TEST_DATA/vision), whose logits are llama.cpp's; the
makers' own clients, openai and anthropic, where they are installed. PROGRAM: another build of the program for the server, with
sanitizers for instance. FUZZ=N: random requests (300). The last line is "N passed, N failed, N skipped".
"""
import base64
import json
import math
import os
import random
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import zlib

sys.dont_write_bytecode = True
from serve_process import HERE, INFER, PLAIN, Server, check, end, events, model, need_server, skip

PROGRAM = os.path.abspath(sys.argv[2]) if len(sys.argv) > 2 else None
DATA = os.path.join(os.environ.get("INFER_TEST_DATA", "nowhere"), "vision")
ROLES = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}[assistant]"
RAW = "{% for m in messages %}{{ m.content }}{% endfor %}"
EXACT = ("--kv", "f32", "--exact")


def of(kind, name):
    return os.path.join(DATA, kind, name)


def read(path):
    with open(path, "rb") as f:
        return f.read()


def server(text, projector, *options, template=ROLES, **rest):
    return Server(of("text", text + ".gguf"), *(("--projector", of("models", projector + ".gguf")) if projector else ()), "--template", template, *EXACT, *options, program=PROGRAM, **rest)


def finish(s, what):
    status = s.stop()
    check(status == 0 and "ERROR: " not in s.log and "runtime error" not in s.log, "%s: the server ends with 0" % what, (status, s.log[-3000:]))


def b64(data):
    return base64.b64encode(data).decode()


def image(data):
    return {"type": "image_url", "image_url": {"url": "data:image/png;base64," + b64(data)}}


def picture(name):
    return read(of("images", name + ".png")) if os.path.exists(of("images", name + ".png")) else read(of("images", name + ".ppm"))


def wav(samples):
    return b"RIFF" + struct.pack("<I", 36 + len(samples)) + b"WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, 16000, 32000, 2, 16) + b"data" + struct.pack("<I", len(samples)) + samples


def sound(data):
    return {"type": "input_audio", "input_audio": {"data": b64(data), "format": "wav"}}


def text(s):
    return {"type": "text", "text": s}


def user(*parts):
    return [{"role": "user", "content": list(parts)}]


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width, height, data=None):
    rows = b"".join(b"\0" + os.urandom(3 * width) for _ in range(height)) if data is None else data
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b"")


def best(r):
    """The likeliest first tokens of a reply, with their logarithms."""
    return [(t["bytes"], round(t["logprob"], 4)) for t in r["choices"][0]["logprobs"]["content"][0]["top_logprobs"]]


# ---- what the model sees ---------------------------------------------------------------------------------------------

CASES = ("gemma3_text-200x120", "gemma3_gradient-64x48+checker-20x20", "qwen2vl_text-200x120+gradient-64x48", "idefics3_noise-37x91", "ultravox_sweep-40000", "qwen2a_tones-56123")


def as_recorded(case):
    """The probabilities of the first token are those of llama.cpp's logits, and the prompt has as many positions."""
    about = json.loads(read(of("cases", case + ".json")))
    logits = read(of("cases", case + ".logits"))
    width = struct.unpack_from("<i", logits, 4)[0]
    last = struct.unpack("<%df" % width, logits[-4 * width:])
    total = math.log(sum(math.exp(v - max(last)) for v in last)) + max(last)
    want = sorted((v - total for v in last), reverse=True)[:10]
    parts = []
    for i, words in enumerate(about["prompt"].split("<__media__>")):
        if i:
            name = about["media"][i - 1]
            parts.append(sound(wav(read(of("audio", name + ".s16")))) if os.path.exists(of("audio", name + ".s16")) else image(picture(name)))
        if words:
            parts.append(text(words))
    s = server(about["text_model"], about["model"], template=RAW)
    status, r = s.post("/v1/chat/completions", messages=user(*parts), max_tokens=1, temperature=0, logprobs=True, top_logprobs=10, ignore_eos=True)
    if check(status == 200, case, r):
        got = [x for _, x in best(r)]
        check(max(abs(a - b) for a, b in zip(got, want)) < 2e-3, "%s: probabilities" % case, (got, want))
        positions = sum(len(c["ids"]) if "ids" in c else c["n_tokens"] for c in about["chunks"])
        check(r["usage"]["prompt_tokens"] == positions, "%s: media are counted as tokens" % case, (r["usage"], positions))
        kind = "sounds" if sound(b"")["type"] in (p["type"] for p in parts) else "images"
        check(s.metric(kind + "_total") == len(about["media"]) and s.metric("media_tokens_total") > 0, "%s: counted" % case)
    finish(s, case)


def clients(s):
    """The same picture by each maker's client, also streamed, and by infer chat."""
    data, question = picture("text-200x120"), "What?"
    chat = subprocess.run([INFER, "chat", of("text", "gemma3.gguf"), "--projector", of("models", "gemma3.gguf"), "--template", ROLES, *EXACT, "--backend", "cpu", "-p", question,
                           "--image", of("images", "text-200x120.png"), "--temp", "0", "--repeat-penalty", "1.5", "-n", "12", "--ignore-eos"], capture_output=True).stdout.decode("utf-8", "replace").rstrip("\n")
    same = dict(max_tokens=12, temperature=0)
    more = dict(ignore_eos=True, repeat_penalty=1.5)
    messages = user(image(data), text(question))
    status, r = s.post("/v1/chat/completions", messages=messages, **same, **more)
    said = r["choices"][0]["message"]["content"] if check(status == 200, "a picture", r) else None
    check(said == chat and len(said) > 5, "the same reply as infer chat", (said, chat))
    status, r = s.post("/v1/chat/completions", messages=messages, **same, **more)
    check(r["choices"][0]["message"]["content"] == said and r["usage"]["prompt_tokens_details"]["cached_tokens"] == r["usage"]["prompt_tokens"] - 1, "evaluated once", r)
    other = s.post("/v1/chat/completions", messages=user(image(picture("rings-64x64")), text(question)), logprobs=True, top_logprobs=10, temperature=0, ignore_eos=True, max_tokens=1)[1]
    first = s.post("/v1/chat/completions", messages=messages, logprobs=True, top_logprobs=10, temperature=0, ignore_eos=True, max_tokens=1)[1]
    check(best(other) != best(first) and other["usage"]["prompt_tokens_details"]["cached_tokens"] < 10, "another picture", (best(other)[:2], other["usage"]))
    two = user(image(data), text("and"), image(picture("rings-64x64")), text("?"))
    back = user(image(picture("rings-64x64")), text("and"), image(data), text("?"))
    a, b = (s.post("/v1/chat/completions", messages=m, logprobs=True, top_logprobs=10, temperature=0, ignore_eos=True, max_tokens=1)[1] for m in (two, back))
    check(best(a) != best(b) and a["usage"]["prompt_tokens"] == b["usage"]["prompt_tokens"], "two, in their order", (a["usage"], b["usage"]))
    then = messages + [{"role": "assistant", "content": "x"}, {"role": "user", "content": "And now?"}]
    r = s.post("/v1/chat/completions", messages=then, max_tokens=2)[1]
    check(r["usage"]["prompt_tokens_details"]["cached_tokens"] > 30, "the next turn goes on from the picture", r)
    r = s.post("/v1/chat/completions", messages=messages, n=2, max_tokens=3, seed=1)[1]
    check(len(r["choices"]) == 2, "two replies", r)
    answers = []
    crowd = [threading.Thread(target=lambda i=i: answers.append(s.post("/v1/chat/completions", messages=user(image(png(20 + i, 30))), max_tokens=2)[0])) for i in range(12)]
    for t in crowd:
        t.start()
    for t in crowd:
        t.join()
    check(answers == [200] * 12, "twelve at a time", answers)
    try:
        import openai
        o = openai.OpenAI(base_url=s.url + "/v1", api_key="none", max_retries=0)
        parts = list(o.chat.completions.create(model="gemma3", messages=messages, stream=True, extra_body=more, **same))
        check("".join(p.choices[0].delta.content or "" for p in parts if p.choices) == said, "openai: a stream")
        r = o.responses.create(model="gemma3", input=[{"role": "user", "content": [{"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64," + b64(data)},
                                                                                  {"type": "input_text", "text": question}]}], max_output_tokens=12, temperature=0, extra_body=more)
        check(r.output_text == said, "openai: responses", r.output_text)
        call = [{"role": "user", "content": "x"}, {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64," + b64(data)}]}]
        check(o.responses.create(model="gemma3", input=call, max_output_tokens=2).usage.input_tokens > 16, "openai: a tool's picture")
        try:
            o.chat.completions.create(model="gemma3", messages=user(image(data[:100])), max_tokens=2)
            check(False, "openai: half a picture")
        except openai.BadRequestError as e:
            check(e.code == "invalid_image" and e.param == "messages" and "messages[0].content[0]" in e.message, "openai: half a picture", e)
    except ImportError:
        skip("openai", "the Python package is not installed")
    try:
        import anthropic
        a = anthropic.Anthropic(base_url=s.url, api_key="none", max_retries=0)
        block = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": b64(data)}}
        both = [{"role": "user", "content": [block, text(question)]}]
        r = a.messages.create(model="gemma3", messages=both, max_tokens=4, extra_body={"temperature": 0})
        want = s.post("/v1/chat/completions", messages=messages, max_tokens=4, temperature=0)[1]
        check(r.content[0].text == want["choices"][0]["message"]["content"] and r.usage.input_tokens == want["usage"]["prompt_tokens"], "anthropic", r)
        check(a.messages.count_tokens(model="gemma3", messages=both).input_tokens == r.usage.input_tokens, "anthropic: counted")
        tool = [{"role": "user", "content": "x"}, {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "look", "input": {}}]}, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [block]}, block]}]
        check(a.messages.create(model="gemma3", messages=tool, max_tokens=2).usage.input_tokens > 32, "anthropic: a tool's picture")
        for source in ({"type": "url", "url": "https://example.org/x.png"}, {"type": "base64", "media_type": "image/png", "data": b64(data[:99])}):
            try:
                a.messages.create(model="gemma3", messages=[{"role": "user", "content": [{"type": "image", "source": source}]}], max_tokens=2)
                check(False, "anthropic: refused")
            except anthropic.BadRequestError as e:
                check(e.body["error"]["type"] == "invalid_request_error" and e.body["error"]["message"], "anthropic: refused", e)
    except ImportError:
        skip("anthropic", "the Python package is not installed")


# ---- what is refused -------------------------------------------------------------------------------------------------

def refused(s):
    good = picture("text-200x120")
    url = lambda u: {"type": "image_url", "image_url": {"url": u}}
    huge = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 40000, 25000, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(bytes(100)))
    for what, part, words in (("half a PNG", image(good[:len(good) // 2]), "PNG"), ("nothing", image(b""), "no data"), ("no picture", image(b"hello, world, this is text"), "messages[0].content[0]"),
                              ("10^9 pixels", image(huge), "pixels"), ("no base64", url("data:image/png;base64,iVBO*w0KGgo="), "base64 (at character 4)"), ("base64 that is cut", url("data:image/png;base64,iVBOR"), "base64"),
                              ("a data: URL without base64", url("data:image/png,%89PNG"), "must have base64"), ("an empty URL", url(""), "data:"), ("http", url("http://127.0.0.1:1/x.png"), "network"),
                              ("https", url("https://example.org/x.png"), "network"), ("a file", url("file:///etc/passwd"), "no files"), ("a path", url("/etc/passwd"), "must begin with data:"),
                              ("a URL that is none", {"type": "image_url", "image_url": {"url": 5}}, "must be a string"), ("no URL", {"type": "image_url"}, "must be a string"), ("a text for it", {"type": "image_url", "image_url": "data:"}, "must be a string"),
                              ("a sound", sound(wav(bytes(3200))), "no sound"), ("a video", {"type": "video_url", "video_url": {"url": "data:"}}, "'video_url'"), ("a part of templates", {"type": "image"}, "'image'")):
        status, r = s.post("/v1/chat/completions", messages=user(text("x"), part) if what == "a sound" else user(part, text("x")), max_tokens=2)
        check(status == 400 and words in r["error"]["message"], what, r)
    for what, messages, words in (("the marker in a text", user(image(good), text("a <__media__> b")), "<__media__>"), ("the marker in another message", [{"role": "system", "content": "<__media__>"}] + user(image(good)), "<__media__>"),
                                  ("an assistant's picture", [{"role": "assistant", "content": [image(good)]}] + user(text("x")), "'image_url'"), ("more than fit", user(*[image(png(8, 8))] * 250), "positions")):
        status, r = s.post("/v1/chat/completions", messages=messages, max_tokens=2)
        check(status == 400 and words in r["error"]["message"], what, r)
    check(s.post("/v1/chat/completions", messages=user(text("a <__media__> b")), max_tokens=2)[0] == 200, "the marker alone is text")
    status, r = s.post("/v1/responses", input=[{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}])
    check(status == 400 and "input_image" in r["error"]["message"], "a file's id", r)
    shown = {"type": "input_image", "image_url": "data:image/png;base64," + b64(good)}
    status, r = s.post("/v1/responses", input=[{"type": "reasoning", "content": [shown]}, {"role": "user", "content": "x"}], max_output_tokens=2)
    check(status == 400 and "reasoning" in r["error"]["message"], "a picture in reasoning", r)
    noise = png(1900, 1800)
    check(len(noise) > 10e6 and s.post("/v1/chat/completions", messages=user(image(noise)), max_tokens=1)[0] == 200, "a picture of 10 MB", len(noise))
    check(s.get("/v1/models")[1]["data"][0]["capabilities"] == ["completion", "multimodal"] and s.get("/props")[1]["modalities"] == {"vision": True, "audio": False}, "what it can do")
    check(s.alive(), "the server lives")


def files(folder):
    """--media-path: what is below, and nothing else."""
    below, beside = os.path.join(folder, "media"), os.path.join(folder, "secret.png")
    os.makedirs(os.path.join(below, "sub dir"))
    good = picture("text-200x120")
    for path in (os.path.join(below, "a.png"), os.path.join(below, "sub dir", "b.png"), beside):
        with open(path, "wb") as f:
            f.write(good)
    os.symlink(beside, os.path.join(below, "link.png"))
    os.symlink(folder, os.path.join(below, "up"))
    os.mkfifo(os.path.join(below, "pipe"))
    with open(os.path.join(below, "big.png"), "wb") as f:
        f.truncate(1 << 30)
    s = server("gemma3", "gemma3", "--media-path", below)
    first = lambda part: s.post("/v1/chat/completions", messages=user(part), max_tokens=1, logprobs=True, top_logprobs=5, temperature=0, ignore_eos=True)
    ask = lambda u: first({"type": "image_url", "image_url": {"url": u}})
    want = best(first(image(good))[1])
    for u in ("file://a.png", "file:///a.png", "file://" + below + "/a.png", "file://sub%20dir/b.png", "file://sub dir//b.png", "file://./a.png"):
        status, r = ask(u)
        check(status == 200 and best(r) == want, u, r)
    for u in ("file://" + beside, "file://../secret.png", "file://sub dir/../../secret.png", "file://%2e%2e/secret.png", "file://" + below + "/../secret.png", "file://link.png", "file://up/secret.png", "file:///etc/passwd", "file://",
              "file://sub dir", "file://pipe", "file://none.png", "file://a.png/", "file://a.png%00.png", "file://big.png", "file://" + "a" * 5000, "file://" + "a/" * 400):
        status, r = ask(u)
        check(status == 400 and "passwd" not in r["error"]["message"] and folder not in r["error"]["message"], u[:60], r)
    finish(s, "files")
    p = subprocess.run([INFER, "serve", PLAIN, "--media-path", os.path.join(folder, "nowhere"), "--port", "0"], capture_output=True, text=True)
    check(p.returncode == 1 and "--media-path" in p.stderr and p.stderr.count("\n") == 1, "no such folder", p.stderr)


def without(folder):
    """No projector; one beside the model; a folder of models; limits."""
    s = Server(model(folder), program=PROGRAM)
    status, r = s.post("/v1/chat/completions", messages=user(image(picture("text-200x120"))))
    check(status == 400 and "takes no pictures" in r["error"]["message"] and "--projector" in r["error"]["message"], "no projector", r)
    check(s.get("/v1/models")[1]["data"][0]["capabilities"] == ["completion"] and not s.get("/props")[1]["modalities"]["vision"], "what it cannot do")
    finish(s, "no projector")
    place = os.path.join(folder, "models")
    os.mkdir(place)
    for source, name in ((of("text", "gemma3.gguf"), "gem-Q8_0.gguf"), (of("models", "gemma3.gguf"), "mmproj-gem-F16.gguf")):
        shutil.copy(source, os.path.join(place, name))
    good = user(image(picture("text-200x120")))
    for options, want in (((), 200), (("--no-projector",), 400), (("--max-image-pixels", "23999"), 400), (("--max-image-pixels", "24000"), 200)):
        s = Server(os.path.join(place, "gem-Q8_0.gguf"), "--template", ROLES, *options, program=PROGRAM)
        status, r = s.post("/v1/chat/completions", messages=good, max_tokens=1)
        check(status == want, "beside the model %s" % (options,), r)
        finish(s, "beside")
    shutil.copy(model(folder), os.path.join(place, "plain.gguf"))
    os.rename(os.path.join(place, "mmproj-gem-F16.gguf"), os.path.join(place, "MMPROJ-gem-F16.gguf"))
    s = Server("--models", place, "--template", ROLES, program=PROGRAM)
    check([m["id"] for m in s.get("/v1/models")[1]["data"]] == ["gem-Q8_0", "plain"], "projectors are no models")
    check([s.post("/v1/chat/completions", model=name, messages=good, max_tokens=1)[0] for name in ("gem-Q8_0", "plain")] == [200, 400], "the projector of a name")
    finish(s, "a folder")
    for options in (("--projector", "x", "--no-projector"), ):
        p = subprocess.run([INFER, "serve", PLAIN, *options], capture_output=True, text=True)
        check(p.returncode == 2 and p.stderr.count("\n") == 1, "both", p.stderr)


def sounds():
    s = server("llama", "ultravox", "--max-audio-seconds", "60")
    data = read(of("audio", "tones-56123.s16"))
    status, r = s.post("/v1/chat/completions", messages=user(sound(wav(data)), text("?")), max_tokens=1, logprobs=True, top_logprobs=5)
    check(status == 200 and r["usage"]["prompt_tokens"] > 20, "a sound", r)
    again = s.post("/v1/responses", input=[{"role": "user", "content": [{"type": "input_audio", "input_audio": sound(wav(data))["input_audio"]}, {"type": "input_text", "text": "?"}]}], max_output_tokens=1)
    check(again[0] == 200 and again[1]["usage"]["input_tokens"] == r["usage"]["prompt_tokens"] and again[1]["usage"]["input_tokens_details"]["cached_tokens"] > 20, "the same in responses", again)
    for what, part, words in (("half a head", sound(wav(data)[:30]), "WAV"), ("MP3", sound(b"ID3\4" + bytes(40)), "MP3"), ("no data", {"type": "input_audio", "input_audio": {"format": "wav"}}, "must be a string"), ("a picture", image(picture("text-200x120")), "no pictures"),
                              ("62 s", sound(wav(bytes(2 * 16000 * 62))), "seconds")):
        status, r = s.post("/v1/chat/completions", messages=user(part), max_tokens=2)
        check(status == 400 and words in r["error"]["message"], what, r)
    check(s.get("/props")[1]["modalities"] == {"vision": False, "audio": True}, "it hears")
    finish(s, "sounds")


def vanish(s):
    """Clients that go while their pictures are read: the next ones wait for nobody."""
    body = json.dumps(dict(messages=user(*[image(png(900, 1000)) for _ in range(3)]), max_tokens=1)).encode()
    for _ in range(6):
        c = socket.create_connection(("127.0.0.1", s.port), timeout=20)
        c.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        c.close()
    status, r = s.post("/v1/chat/completions", messages=user(image(picture("text-200x120"))), max_tokens=1)
    check(status == 200, "after clients that vanished", r)


def fuzz(s, n, seed):
    """Random parts, nearly right, in each interface; bytes of pictures that are changed."""
    r = random.Random(seed)
    names = ["text-200x120", "gradient-64x48"]
    whole = [picture(name) for name in names] + [read(os.path.join(HERE, "..", "data", "media", name)) for name in ("baseline-420.jpg", "progressive-422-exif.jpg", "rgba-exif.png", "palette.png", "cmyk.jpg")] + [wav(bytes(640))]

    def data():
        d = bytearray(r.choice(whole))
        for _ in range(r.choice((0, 0, 1, 5))):
            d[r.randrange(len(d))] = r.randrange(256)
        if r.randrange(4) == 0:
            del d[r.randrange(len(d)):]
        s64 = b64(bytes(d))
        return s64 if r.randrange(6) else s64[:r.randrange(len(s64) + 1)] + r.choice(("=", "==", "\0", "-", "\u00e9", ""))

    def link():
        return r.choice(("data:image/png;base64,", "data:;base64,", "data:a,b;base64,", "data:", "file://", "http://", "")) * r.choice((1, 1, 1, 2)) + data()

    def part():
        kind = r.choice(("image_url", "input_audio", "input_image", "image", "text"))
        p = {"type": kind, "image_url": link() if kind == "input_image" else {"url": link()}, "input_audio": {"data": data(), "format": "wav"}, "source": {"type": r.choice(("base64", "url")), "data": data(), "url": link()}, "text": r.choice(("x", "<__media__>", ""))}
        for name in list(p)[1:]:
            if name != kind and not (name == "image_url" and kind == "input_image") and not (name == "source" and kind == "image") or r.randrange(12) == 0:
                p[name] = r.choice((None, 1, [], {}, "x")) if r.randrange(8) == 0 else None
        return {k: v for k, v in p.items() if v is not None}
    counts, odd = {}, []
    for _ in range(n):
        parts = [part() for _ in range(r.randrange(1, 4))]
        messages = [{"role": r.choice(("user", "user", "user", "assistant", "system", "tool")), "content": parts}] + ([{"role": "user", "content": "x"}] if r.randrange(3) == 0 else [])
        path, body = r.choice((("/v1/chat/completions", dict(messages=messages, max_tokens=1)), ("/v1/responses", dict(input=messages, max_output_tokens=1)), ("/v1/messages", dict(messages=messages, max_tokens=1)),
                               ("/v1/messages/count_tokens", dict(messages=messages)), ("/apply-template", dict(messages=messages))))
        try:
            status, answer = s.post(path, **body)
        except OSError as e:
            odd.append((path, repr(e)))
            break
        counts[status] = counts.get(status, 0) + 1
        if status not in (200, 400) or status == 400 and not answer["error"]["message"]:
            odd.append((path, body, status, answer))
    check(not odd and s.alive(), "%d random requests" % n, str(odd[:2])[:1500])
    check(counts.get(200, 0) > n / 20 and counts.get(400, 0) > n / 10, "they are answered, and refused", counts)


def main():
    need_server()
    if not os.path.isdir(DATA):
        skip("pictures and sound", "INFER_TEST_DATA has no vision/")
        end()
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            as_recorded(case)
        s = server("gemma3", "gemma3")
        clients(s)
        refused(s)
        vanish(s)
        fuzz(s, int(os.environ.get("FUZZ", "300")), int(os.environ.get("SEED", "1")))
        finish(s, "pictures")
        files(folder)
        without(folder)
        sounds()
    end()


if __name__ == "__main__":
    main()
