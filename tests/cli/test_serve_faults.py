#!/usr/bin/env python3
"""What `infer serve` endures: python3 tests/cli/test_serve_faults.py build/infer [PROGRAM]

Who may ask, limits, clients that vanish, dawdle or send nonsense, many of them at a time, several models, the end by a signal.
PROGRAM: another build of the program for the server, with sanitizers for instance. FUZZ=N: random requests (500).
The last line is "N passed, N failed, N skipped".
"""
import http.client
import json
import os
import random
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
import serve_process
from serve_process import PLAIN, Server, check, end, events, model, need_server, skip

PROGRAM = os.path.abspath(sys.argv[2]) if len(sys.argv) > 2 else None
ONCE = [{"role": "user", "content": "Once upon a time"}]
LONG = dict(messages=ONCE, max_tokens=1900, ignore_eos=True, temperature=0)


def server(*options, **rest):
    return Server(*options, program=PROGRAM, **rest)


def until(what, seconds=10):
    """Waits for a condition."""
    last = time.time() + seconds
    while time.time() < last:
        if what():
            return True
        time.sleep(0.02)
    return bool(what())


def idle(s):
    return until(lambda: s.get("/slots")[1] == [])


def finish(s, what):
    status = s.stop()
    check(status == 0 and "ERROR: " not in s.log and "runtime error" not in s.log, "%s: the server ends with 0" % what, (status, s.log[-3000:]))


def infer(*words, env=None):
    p = subprocess.run([PROGRAM or serve_process.INFER, "serve", *words, "--backend", "cpu"], capture_output=True, text=True, timeout=60, env=dict(os.environ, **(env or {})))
    return p.returncode, p.stderr


# ---- who may ask -----------------------------------------------------------------------------------------------------

def access(path):
    code, err = infer(path, "--host", "0.0.0.0")
    check(code == 2 and "--api-key" in err and err.count("\n") == 1, "other machines need a key", err)
    code, err = infer(path, "--api-key", "a", "--no-auth")
    check(code == 2 and "exclude" in err, "a key and none", err)
    code, err = infer()
    check(code == 2 and "--models" in err, "no model", err)
    code, err = infer("nothing.gguf")
    check(code == 1 and "nothing.gguf" in err and err.count("\n") == 1, "a model that is not there", err)
    code, err = infer(path, "--tls-cert", "x")
    check(code == 2 and "--tls-key" in err, "a certificate without its key", err)
    s = server(path, "--api-key", "sesame", "--api-key", "other", "--host", "0.0.0.0", "--cors", "https://a.example")
    code, err = infer(path, "--port", str(s.port))
    check(code == 1 and "cannot listen" in err and err.count("\n") == 1, "a port that is taken", err)
    body = dict(messages=ONCE, max_tokens=1)
    for headers, status in (({}, 401), ({"Authorization": "Bearer wrong"}, 401), ({"Authorization": "Bearer sesam"}, 401), ({"Authorization": "Bearer sesame2"}, 401), ({"Authorization": "sesame"}, 401),
                            ({"Authorization": "Bearer "}, 401), ({"Authorization": "Bearer sesame"}, 200), ({"x-api-key": "other"}, 200)):
        got, answer, text = s.send("POST", "/v1/chat/completions", body, headers)
        check(got == status and (status == 200 or json.loads(text)["error"]["code"] == "invalid_api_key" and answer["WWW-Authenticate"] == "Bearer"), "a key: %s" % headers, text)
    got, _, text = s.send("POST", "/v1/messages", body)
    check(got == 401 and json.loads(text)["error"]["type"] == "authentication_error", "Anthropic's form", text)
    check(s.send("GET", "/health")[0] == 200 and s.send("GET", "/")[0] == 200 and s.send("GET", "/v1/models")[0] == 401 and s.send("GET", "/metrics")[0] == 401, "what needs no key")
    key = {"Authorization": "Bearer sesame"}
    got, headers, _ = s.send("POST", "/v1/chat/completions", body, dict(key, Origin="https://a.example"))
    check(got == 200 and headers["Access-Control-Allow-Origin"] == "https://a.example", "an origin that is allowed", headers)
    got, headers, text = s.send("POST", "/v1/chat/completions", body, dict(key, Origin="https://b.example"))
    check(got == 403 and "Access-Control-Allow-Origin" not in headers, "another origin", text)
    got, headers, _ = s.send("OPTIONS", "/v1/chat/completions", None, {"Origin": "https://a.example", "Access-Control-Request-Headers": "authorization"})
    check(got == 204 and headers["Access-Control-Allow-Headers"] == "authorization", "what a browser asks before", headers)
    check(s.send("OPTIONS", "/v1/chat/completions", None, {"Origin": "https://b.example"})[0] == 403, "and is refused")
    finish(s, "keys")
    check("sesame" not in s.log and "Once" not in s.log, "neither keys nor prompts are logged", s.log)
    s = server(path, "-v", env={"INFER_API_KEY": "from-env"})
    check(s.send("GET", "/v1/models")[0] == 401 and s.send("GET", "/v1/models", None, {"Authorization": "Bearer from-env"})[0] == 200, "a key from the environment")
    finish(s, "a key from the environment")
    check("/v1/models 401" in s.log and "from-env" not in s.log, "a line for each request", s.log[-300:])
    for option in "-v", "--log-prompts":
        s = server(path, option)
        s.send("POST", "/v1/chat/completions", body)
        s.send("POST", "/v1/embeddings", dict(input="Once upon a time"))
        finish(s, option)
        check("/v1/embeddings 200" in s.log and s.log.count("Once upon a time") == (2 if option == "--log-prompts" else 0), "%s: prompts are logged only when that is asked for" % option, s.log)
    s = server(path)
    check(s.send("POST", "/v1/chat/completions", body, {"Origin": "http://evil.example"})[0] == 403, "another site's page")
    check(s.send("POST", "/v1/chat/completions", body, {"Host": "evil.example"})[0] == 403, "a name of another site's for this machine")
    check(s.send("POST", "/v1/chat/completions", body, {"Origin": "http://127.0.0.1:%d" % s.port})[0] == 200, "the page of this server")
    finish(s, "no key")


def tls(path, folder):
    if shutil.which("openssl") is None:
        skip("TLS", "there is no openssl to make a certificate")
        return
    cert, key = os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-keyout", key, "-out", cert, "-days", "2"], capture_output=True, check=True)
    s = server(path, "--tls-cert", cert, "--tls-key", key)
    context = ssl.create_default_context(cafile=cert)
    context.check_hostname = False
    c = http.client.HTTPSConnection("127.0.0.1", s.port, context=context, timeout=30)
    c.request("POST", "/v1/chat/completions", json.dumps(dict(messages=ONCE, max_tokens=3, stream=True)))
    check(c.getresponse().read().endswith(b"[DONE]\n\n") and "https://" in s.log, "TLS", s.log)
    c.close()
    finish(s, "TLS")
    code, err = infer(path, "--tls-cert", key, "--tls-key", cert)
    check(code == 1 and "certificate" in err, "a certificate that is none", err)


# ---- limits ----------------------------------------------------------------------------------------------------------

def raw(s, data=b"", timeout=20):
    c = socket.create_connection(("127.0.0.1", s.port), timeout=timeout)
    c.sendall(data)
    return c


def received(c):
    data = b""
    try:
        while True:
            more = c.recv(65536)
            if not more:
                return data
            data += more
    except OSError:
        return data


def limits(path):
    s = server(path, "--max-body", "100k", "--timeout", "2", "--connections", "20", "--parallel", "2", "--queue", "2", "--max-tokens", "40", "--cache", "8k")
    got, _, text = s.send("POST", "/v1/chat/completions", dict(messages=ONCE))
    check(got == 200 and json.loads(text)["usage"]["completion_tokens"] <= 40, "--max-tokens", text)
    for what, head in (("a length of 100 MB", b"Content-Length: 104857600\r\n\r\n"), ("100 MB without a length", b"Transfer-Encoding: chunked\r\n\r\n")):
        c = raw(s, b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n" + head)
        sent = 0
        try:
            block = b"x" * 65536
            while sent < 100 << 20:
                c.sendall((b"10000\r\n" + block + b"\r\n") if b"chunked" in head else block)
                sent += len(block)
            if b"chunked" in head:
                c.sendall(b"0\r\n\r\n")
        except OSError:
            pass
        answer = received(c)
        check(b" 413 " in answer or sent < 100 << 20, what, (answer, sent))
        c.close()
    check(s.memory() < 300 << 20, "memory after large bodies", s.memory())
    got, _, text = s.send("POST", "/v1/chat/completions", b"x" * 150000)
    check(got == 413 and json.loads(text)["error"]["code"] == "request_too_large", "a body that is too large", text)
    c = raw(s, b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 200000)
    check(b" 431 " in received(c), "a head that is too large")
    c.close()
    # dawdlers are ended: a byte now and then, half of a head, half of a body, nothing
    start = time.time()
    slow = [raw(s, b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{"), raw(s, b"GET /hea"), raw(s)]
    drip = raw(s, b"GET /health HTTP/1.1\r\nHost: localhost\r\n")
    try:
        for _ in range(40):
            drip.sendall(b"A: b\r\n")
            time.sleep(0.2)
        check(False, "a byte now and then")
    except OSError:
        check(time.time() - start < 40, "a byte now and then", time.time() - start)
    check(all(received(c) == b"" for c in slow) and time.time() - start < 60, "half a request", time.time() - start)
    for c in slow + [drip]:
        c.close()
    # more connections than there may be wait or are closed; then all is well
    many = []
    for _ in range(60):
        try:
            many.append(raw(s))
        except OSError:
            pass
    for c in many:
        c.close()
    check(until(lambda: s.alive()), "too many connections")
    # the queue: 2 run, 2 wait, the rest is refused
    body = dict(messages=ONCE, max_tokens=40, ignore_eos=True, temperature=0, n=1)
    answers = []

    def ask():
        answers.append(s.send("POST", "/v1/completions", dict(prompt="Once upon a time", max_tokens=40, ignore_eos=True, n=1)))
    for _ in range(5):
        answers.clear()
        threads = [threading.Thread(target=ask) for _ in range(18)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        refused = [a for a in answers if a[0] == 429]
        if refused:
            break
    check(all(a[0] in (200, 429) for a in answers) and any(a[0] == 200 for a in answers), "a full queue", [a[0] for a in answers])
    check(bool(refused) and all(a[1]["Retry-After"] == "1" and json.loads(a[2])["error"]["type"] == "rate_limit_error" for a in refused), "429 with Retry-After", len(refused))
    got, headers, text = s.send("POST", "/v1/completions", dict(prompt=["x"] * 5, max_tokens=40, ignore_eos=True))
    check(got in (200, 429), "several prompts are as many requests", text)
    check(idle(s), "all have ended")
    finish(s, "limits")


# ---- clients that vanish ---------------------------------------------------------------------------------------------

def begun(s, stream, n=1, **more):
    """A request that runs, on a socket of its own."""
    body = json.dumps(dict(LONG, stream=stream, n=n, **more)).encode()
    c = raw(s, b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    if stream:
        c.recv(1000)
    return c


def vanish(path):
    s = server(path, "--kv", "f32", "--exact") # as slow as it gets
    for stream in (True, False):
        before = s.metric("requests_cancelled_total")
        for _ in range(3):
            c = begun(s, stream, 8)
            until(lambda: s.get("/slots")[1], 2)
            c.close()
            check(idle(s), "a client that closes: stream %s" % stream)
        check(s.metric("requests_cancelled_total") > before, "its requests are cancelled", s.metric("requests_cancelled_total"))
    # processes that are killed in the middle
    code = "import socket,sys\nc=socket.create_connection(('127.0.0.1',%d))\nb=sys.argv[1].encode()\nc.sendall(b'POST /v1/chat/completions HTTP/1.1\\r\\nHost: localhost\\r\\nContent-Length: %%d\\r\\n\\r\\n'%%len(b)+b)\nc.recv(100)\nprint(1,flush=True)\nwhile 1: c.recv(1)" % s.port
    killed = [subprocess.Popen([sys.executable, "-c", code, json.dumps(dict(LONG, stream=True, n=4))], stdout=subprocess.PIPE) for _ in range(4)]
    for p in killed:
        p.stdout.readline()
        p.kill()
        p.wait()
        p.stdout.close()
    check(idle(s) and s.alive(), "clients that are killed")
    # one that does not read: its reply ends, and the others do not wait for it
    c = begun(s, True, 8)
    got, _, text = s.send("POST", "/v1/chat/completions", dict(messages=ONCE, max_tokens=5))
    check(got == 200, "others beside one that does not read", text)
    c.close()
    check(idle(s), "one that did not read")
    finish(s, "vanished clients")
    # one whose reply would be more than what waits for it
    s = server(path, "--cache", "64k", "--parallel", "32")
    c = begun(s, True, 32, logprobs=True, top_logprobs=20)
    slots = []
    check(until(lambda: slots.clear() or slots.extend(s.get("/slots")[1]) or len(slots) == 32 and all(x["state"] == "ended" for x in slots), 40) and
          0 < sum(x["new_tokens"] for x in slots) < 32 * 1900, "a reader that is too slow is cancelled", slots)
    check(b"[DONE]" not in received(c) and until(lambda: s.metric("requests_cancelled_total") == 1), "and its reply is cut")
    c.close()
    finish(s, "a slow reader")
    # --seconds ends a reply, whatever it may still say
    s = server(path, "--seconds", "1", "--exact", "--parallel", "32", "--cache", "64k")
    got, _, text = s.send("POST", "/v1/chat/completions", dict(LONG, n=32))
    ends = json.loads(text)["choices"]
    check(got == 200 and {e["finish_reason"] for e in ends} == {"length"} and json.loads(text)["usage"]["completion_tokens"] < 32 * 1900, "--seconds", text[-300:])
    finish(s, "--seconds")


# ---- nonsense --------------------------------------------------------------------------------------------------------

def nonsense(s):
    deep = b"[" * 100000
    for what, body in (("deep JSON", deep), ("a deep member", b'{"messages":' + deep), ("nothing", b""), ("zeros", b"\0" * 100), ("not UTF-8", b'{"prompt": "\xff\xfe\x80", "max_tokens": 1}'), ("a lone surrogate", b'{"prompt": "\\ud800", "max_tokens": 1}'),
                       ("a zero in a name", b'{"mod\\u0000el": 1}'), ("a huge number", b'{"prompt": "x", "max_tokens": 1e999}'), ("many members", b"{" + b",".join(b'"a%d":1' % i for i in range(20000)) + b"}")):
        got, _, text = s.send("POST", "/v1/completions", body)
        check(got in (200, 400) and json.loads(text), what, (got, text[:200]))
    schema = {"type": "string"}
    for _ in range(80):
        schema = {"type": "object", "properties": {"a": schema, "b": {"type": "string"}}}
    for what, schema in (("a deep schema", schema), ("a pattern that is slow", {"type": "string", "pattern": "(a+)+" * 200}), ("a schema of itself", {"$ref": "#"})):
        got, _, text = s.send("POST", "/v1/completions", dict(prompt="x", max_tokens=2, response_format={"type": "json_schema", "json_schema": {"schema": schema}}))
        check(got in (200, 400), what, (got, text[:200]))
    for what, data in (("no HTTP", b"nonsense\r\n\r\n"), ("an old version", b"GET /health HTTP/0.9\r\n\r\n"), ("no host", b"GET /health HTTP/1.1\r\n\r\n"), ("a bad length", b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n"),
                       ("two lengths", b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 500\r\n\r\n{}   "), ("a path outside", b"GET /../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n"),
                       ("an escaped path", b"GET /v1/models/%00%2e%2e%2fx HTTP/1.1\r\nHost: localhost\r\n\r\n"), ("a long path", b"GET /" + b"a" * 5000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"), ("bytes", bytes(range(256)) * 20)):
        c = raw(s, data, 5)
        c.shutdown(socket.SHUT_WR)
        answer = received(c)
        c.close()
        check(b"root:" not in answer, what, answer[:100])
    check(s.alive(), "the server lives")


def fuzz(s, n, seed):
    """Random requests made of parts that are nearly right."""
    r = random.Random(seed)
    words = ["model", "Once upon a time", "", "auto", "required", "json_schema", "function", "user", "assistant", "tool", "\u00e9\u4e2d\U0001f600", "\0", "a" * 300, "<tool_call>", "{", "add"]
    names = ["model", "messages", "prompt", "input", "max_tokens", "max_output_tokens", "n", "stop", "seed", "stream", "stream_options", "logprobs", "top_logprobs", "logit_bias", "tools", "tool_choice", "response_format", "temperature", "top_k",
             "top_p", "min_p", "echo", "suffix", "best_of", "grammar", "chat_template_kwargs", "parallel_tool_calls", "text", "reasoning", "instructions", "system", "thinking", "stop_sequences", "query", "documents", "top_n", "content",
             "tokens", "dimensions", "encoding_format", "ignore_eos", "stop_token_ids", "repeat_penalty", "nonsense", "output_config", "truncation"]

    def value(depth=0):
        kind = r.randrange(12 if depth < 4 else 7)
        if kind < 2:
            return r.choice(words)
        if kind < 4:
            return r.choice([0, 1, -1, 2, 5, 0.5, 1e300, -1e300, 2 ** 63, 10 ** 30, 383])
        if kind < 6:
            return r.choice([True, False, None])
        if kind < 8:
            return [value(depth + 1) for _ in range(r.randrange(4))]
        if kind == 8:
            return [{"role": r.choice(words), "content": value(depth + 1), "tool_calls": value(depth + 1)}]
        if kind == 9:
            return {"type": r.choice(words), "function": {"name": r.choice(words), "parameters": value(depth + 1)}, "name": r.choice(words), "text": r.choice(words), "json_schema": {"schema": value(depth + 1)}}
        return {r.choice(words + names): value(depth + 1) for _ in range(r.randrange(4))}
    good = {"/v1/chat/completions": dict(messages=ONCE, max_tokens=3), "/v1/completions": dict(prompt="Once", max_tokens=3), "/v1/responses": dict(input="Once", max_output_tokens=3), "/v1/messages": dict(messages=ONCE, max_tokens=3),
            "/v1/messages/count_tokens": dict(messages=ONCE), "/v1/embeddings": dict(input="x"), "/v1/rerank": dict(query="x", documents=["y"]), "/tokenize": dict(content="x"), "/detokenize": dict(tokens=[1]), "/apply-template": dict(messages=ONCE)}
    odd, counts = [], {}
    c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=60)
    for i in range(n):
        path = r.choice(list(good))
        body = dict(good[path])
        for _ in range(r.randrange(3)):
            body[r.choice(names)] = value()
        if isinstance(body.get("max_tokens"), (int, float)) and body["max_tokens"] > 20 or "max_tokens" in good[path] and not isinstance(body.get("max_tokens"), int):
            body["max_tokens"] = 3
        text = json.dumps(body).encode()
        if r.randrange(5) == 0: # bytes that are wrong
            text = bytearray(text)
            for _ in range(r.randrange(1, 4)):
                text[r.randrange(len(text))] = r.randrange(256)
            text = bytes(text)
        try:
            c.request("POST", path, text)
            answer = c.getresponse()
            data = answer.read()
        except (OSError, http.client.HTTPException) as e:
            odd.append((path, text, repr(e)))
            c.close()
            c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=60)
            if s.p.poll() is not None:
                break
            continue
        counts[answer.status] = counts.get(answer.status, 0) + 1
        if answer.status not in (200, 400, 404) or answer.status != 200 and "error" not in json.loads(data):
            odd.append((path, text, answer.status, data[:200]))
    c.close()
    check(not odd and s.alive(), "%d random requests" % n, odd[:3])
    check(counts.get(200, 0) > n / 50 and counts.get(400, 0) > n / 10, "they are answered, and refused", counts)


# ---- load ------------------------------------------------------------------------------------------------------------

def load(path):
    """Many clients: every reply is the one that a client alone gets."""
    s = server(path, "--parallel", "32", "--queue", "256", "--cache", "16k", "--connections", "200")
    prompts = ["Once upon a time", "There was a", "Lily had a red ball and", "The dog ran"]
    alone = [s.post("/v1/completions", prompt=p, max_tokens=24, temperature=0)[1]["choices"][0]["text"] for p in prompts]
    drawn = [s.post("/v1/completions", prompt=p, max_tokens=24, temperature=1, seed=i)[1]["choices"][0]["text"] for i, p in enumerate(prompts)]
    wrong, firsts = [], []

    def client(k):
        c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=120)
        for i in range(4):
            which = (k + i) % 4
            greedy = (k + i // 2) % 2 == 0
            start = time.time()
            c.request("POST", "/v1/completions", json.dumps(dict(prompt=prompts[which], max_tokens=24, temperature=0 if greedy else 1, seed=which, stream=i % 2 == 0)))
            answer = c.getresponse()
            head = answer.read(1)
            firsts.append(time.time() - start)
            data = (head + answer.read()).decode()
            text = "".join(e[1]["choices"][0]["text"] for e in events(data)[:-1]) if i % 2 == 0 else json.loads(data)["choices"][0]["text"]
            if answer.status != 200 or text != (alone if greedy else drawn)[which]:
                wrong.append((answer.status, text))
        c.close()
    threads = [threading.Thread(target=client, args=(k,)) for k in range(64)]
    start = time.time()
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    check(not wrong and len(firsts) == 256, "64 clients get what each gets alone", wrong[:2])
    print("64 clients, 256 replies: %.1f s; first byte after %.3f s at p99" % (time.time() - start, sorted(firsts)[int(len(firsts) * 0.99)]))
    # the same again leaves memory as it was
    before = s.memory()
    for _ in range(2):
        threads = [threading.Thread(target=client, args=(k,)) for k in range(32)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    check(PROGRAM or not before or s.memory() < before + (24 << 20), "memory stays", (before, s.memory()))
    finish(s, "load")


# ---- several models --------------------------------------------------------------------------------------------------

def several(folder):
    models = os.path.join(folder, "models")
    os.mkdir(models)
    for name in ("a.gguf", "b.gguf", "c.gguf"):
        model(models, name)
    with open(os.path.join(models, "broken.gguf"), "wb") as f:
        f.write(b"GGUF" + b"\xff" * 100)
    s = server("--models", models, "--max-memory", "8M", "--ctx", "512", "--cache", "1k", "--parallel", "4", "--alias", "best=b")
    status, r = s.get("/v1/models")
    check([m["id"] for m in r["data"]] == ["a", "b", "broken", "c", "best"], "a folder's models", r)
    texts = [s.post("/v1/chat/completions", model=m, messages=ONCE, max_tokens=8, temperature=0) for m in ("a", "b", "c", "best", "a")]
    check(all(t[0] == 200 for t in texts) and len({t[1]["choices"][0]["message"]["content"] for t in texts}) == 1 and [t[1]["model"] for t in texts] == ["a", "b", "c", "b", "a"], "loaded on first use", texts)
    status, r = s.post("/v1/chat/completions", model="broken", messages=ONCE, max_tokens=8)
    check(status == 500 and r["error"]["code"] == "model_not_loaded" and models not in r["error"]["message"], "one that cannot be loaded", r)
    status, r = s.post("/v1/chat/completions", messages=ONCE, max_tokens=8)
    check(status == 400 and r["error"]["param"] == "model", "no name", r)
    status, r = s.post("/v1/chat/completions", model="../a", messages=ONCE, max_tokens=8)
    check(status == 404, "a path is no name", r)
    loaded = s.send("GET", "/metrics")[2].count("infer_queue_running{")
    check(0 < loaded < 3, "within --max-memory", loaded)
    for used in "abca", "acb", "bcab":
        for m in used:
            s.post("/v1/chat/completions", model=m, messages=ONCE, max_tokens=1)
        loaded = re.findall(r'infer_queue_running{model="(\w+)"', s.send("GET", "/metrics")[2])
        check(loaded and set(loaded) == set(list(dict.fromkeys(reversed(used)))[:len(loaded)]), "what was used longest ago is unloaded", (used, loaded))
    wrong = []

    def client(k):
        for i in range(6):
            status, r = s.post("/v1/chat/completions", model="abc"[(k + i) % 3], messages=ONCE, max_tokens=8, temperature=0)
            if status not in (200, 503) or status == 200 and r["choices"][0]["message"] != texts[0][1]["choices"][0]["message"]:
                wrong.append((status, r))
    threads = [threading.Thread(target=client, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    check(not wrong, "models by turns", wrong[:2])
    finish(s, "several models")
    s = server("--models", models, "--max-memory", "1M")
    status, r = s.post("/v1/chat/completions", model="a", messages=ONCE, max_tokens=8)
    check(status == 500 and "--max-memory" in r["error"]["message"], "a model that is too large", r)
    finish(s, "too little memory")
    code, err = infer("--models", os.path.join(folder, "none"))
    check(code == 1 and "no such folder" in err, "a folder that is not there", err)


# ---- the end ---------------------------------------------------------------------------------------------------------

def the_end(path):
    for how in (signal.SIGTERM, signal.SIGINT):
        s = server(path)
        c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=60)
        c.request("POST", "/v1/chat/completions", json.dumps(dict(messages=ONCE, max_tokens=400, ignore_eos=True, temperature=0, stream=True)))
        answer = c.getresponse()
        answer.read(1)
        s.p.send_signal(how)
        data = answer.read()
        check(data.endswith(b"data: [DONE]\n\n"), "a running reply ends", data[-200:])
        c.close()
        check(s.stop() == 0, "then the server", s.log)
    s = server(path, "--grace", "0", "--exact")
    c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=60)
    c.request("POST", "/v1/chat/completions", json.dumps(dict(LONG, n=16, stream=True)))
    answer = c.getresponse()
    answer.read(1)
    start = time.time()
    s.p.send_signal(signal.SIGTERM)
    try:
        data = answer.read()
    except (OSError, http.client.HTTPException) as e:
        data = repr(e).encode()
    check(s.stop() == 0 and time.time() - start < 60 and not data.endswith(b"[DONE]\n\n"), "at the deadline replies are ended", (time.time() - start, data[-200:]))
    c.close()


def main():
    need_server()
    with tempfile.TemporaryDirectory() as folder:
        path = model(folder)
        if os.environ.get("ONLY"): # while working on one
            globals()[os.environ["ONLY"]](path)
            end()
        access(path)
        tls(path, folder)
        limits(path)
        vanish(path)
        s = server(path, "--max-tokens", "30")
        nonsense(s)
        fuzz(s, int(os.environ.get("FUZZ", "500")), int(os.environ.get("SEED", "1")))
        finish(s, "nonsense")
        load(path)
        several(folder)
        the_end(path)
    end()


main()
