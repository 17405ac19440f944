#!/usr/bin/env python3
"""Tests of `infer chat`, from outside: python3 tests/cli/test_chat.py build/infer

Small models with templates of our own; the terminal (prompt, commands, Ctrl-C) through a pseudo-terminal where the system
has them. The last line is "N passed, N failed, N skipped".
"""
import json
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, HERE)
import gguf_file

INFER = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build/infer")
PLAIN = os.path.join(os.path.dirname(HERE), "data", "models", "stories260K.F32.gguf")
TEXT = "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}"
STORY = ", there was a little girl named Lily. She loved to play outsid"
results = {"passed": 0, "failed": 0, "skipped": 0}


def check(ok, what, said=""):
    results["passed" if ok else "failed"] += 1
    if not ok:
        print("FAILED chat: %s%s" % (what, ": " + repr(said) if said else ""))


def chat(model, turns, *options):
    p = subprocess.run([INFER, "chat", model, "--temp", "0", *options], input=turns.encode(), capture_output=True, timeout=120)
    return p.returncode, p.stdout.decode("utf-8", "replace"), p.stderr.decode("utf-8", "replace")


def pipes(folder):
    code, out, err = chat(PLAIN, "Hello\n")
    check(code == 1 and not out and "--chatml" in err, "a file without a template is refused", err)
    code, out, err = chat(PLAIN, "Hello\nAnd then\n", "--chatml", "-n", "8")
    check(code == 0 and out.count("\n") >= 2, "ChatML when it is asked for", out + err)
    model = gguf_file.with_templates(PLAIN, os.path.join(folder, "text.gguf"), {"": TEXT})
    code, out, err = chat(model, "Once upon a time\n", "-n", "20")
    check(code == 0 and out.startswith(STORY), "the model's own template", out + err)
    code, again, err = chat(model, "upon a time", "-n", "20", "--system", "Once ")
    check(code == 0 and again == out, "the system message stands first", again + err)
    code, out, err = chat(model, "Once upon a time\n", "-n", "20", "--stop", "girl")
    check(code == 0 and out == ", there was a little \n", "stop strings", out + err)
    code, out, err = chat(model, "\n\nOnce upon a time\n\n", "-n", "20")
    check(code == 0 and out.startswith(STORY) and out.count("\n") == 1, "empty lines are no turns", out + err)
    code, out, err = chat(model, "Once upon a time\n", "-n", "12", "--begin", ", there was a little girl", "--lookup")
    check(code == 0 and out.startswith(STORY[25:45]), "a reply that has begun", out + err)
    code, out, err = chat(model, "Once upon a time\n", "-n", "12", "--mtp")
    check(code == 1 and "no block that predicts" in err, "a model that has no such block", out + err)
    thinks = os.path.join(folder, "thinks.jinja")
    with open(thinks, "w") as f:
        f.write("{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}<think>{% endif %}")
    code, out, err = chat(model, "Once upon a time\n", "-n", "30", "--template", thinks, "--think-tokens", "5")
    check(code == 0 and len(out) > 10 and len(err) > 5 and "think" not in out, "reasoning that is ended", out + err)
    code, out, err = chat(model, "", "-n", "20")
    check(code == 0 and out == "", "no turns, no replies", out + err)
    code, out, err = chat(model, "x\n", "--thinking", "on")
    check(code == 1 and "thinking" in err, "a switch that the template lacks", err)
    code, out, err = chat(model, "x " * 3000, "--ctx", "100")
    check(code == 1 and "does not fit" in err and "--ctx" in err, "a conversation that does not fit", err)
    code, out, err = chat(model, "Once upon a time\n" * 30, "--ctx", "64", "-n", "6", "--on-full", "drop")
    check(code == 0 and out.count("\n") == 30 and "oldest turns were dropped" in err, "the oldest turns are left out", out + err)
    check(err.count("dropped") < 15 and chat(model, "Once upon a time\n" * 30, "--ctx", "64", "-n", "6") == (code, out, err), "several at a time; by default too", err)
    code, out, err = chat(model, "Once upon a time\n" * 30, "--ctx", "64", "-n", "6", "--on-full", "stop")
    check(code == 1 and "does not fit" in err and "dropped" not in err, "unless it is told to stop", out + err)
    code, out, err = chat(model, "Once upon a time\n", "-n", "20", "--seconds", "0.000000001")
    check(code == 0 and out.strip() == "" and "the time is up" in err, "a limit of time", out + err)
    code, out, err = chat(model, "Once upon a time\n", "-n", "20", "--stop-token", "383")
    check(code == 0 and out == ",\n", "a token that ends a reply", out + err)
    grammar = os.path.join(folder, "grammar.gbnf")
    with open(grammar, "w") as f:
        f.write('root ::= "yes" | "no"')
    code, out, err = chat(model, "Once upon a time\nAnd\n", "-n", "20", "--grammar", grammar)
    check(code == 0 and set(out.split()) <= {"yes", "no"} and len(out.split()) == 2, "each reply matches the grammar", out + err)
    code, out, err = chat(model, "x\n", "--grammar", os.path.join(folder, "missing"))
    check(code == 1 and "missing" in err, "a grammar that is not there", err)
    code, out, err = chat(model, "<s></s>\n", "-n", "1")
    check(code == 0, "control tokens as text", err)
    code, out, err = chat(model, "x\n", "--template", os.path.join(folder, "missing"))
    check(code == 1 and "missing" in err, "a template that is not there", err)


def sessions(folder):
    """--session: a conversation goes on, and its files grow."""
    model = gguf_file.with_templates(PLAIN, os.path.join(folder, "session.gguf"), {"": TEXT})
    path = os.path.join(folder, "talk.jsonl")
    state, size = path + ".state", lambda name: os.path.getsize(name)
    turns = ["Once upon a time", " She was very", " Then the"]
    code, whole, err = chat(model, "\n".join(turns), "-n", "12")
    got, grown = "", []
    for turn in turns:
        before = open(state, "rb").read() if os.path.exists(state) else b""
        code, out, err = chat(model, turn, "-n", "12", "--session", path)
        got += out
        grown.append(size(state) - len(before))
        check(code == 0 and open(state, "rb").read(len(before)) == before and grown[-1] > 0, "the state is appended to", err)
    check(code == 0 and got == whole, "a conversation in three runs is that of one", got + err)
    check(grown[2] < sum(grown) / 2, "a turn costs what is new", grown)
    with open(path) as f:
        lines = [json.loads(line) for line in f]
    check([m["role"] for m in lines] == ["user", "assistant"] * 3 and lines[2]["content"] == turns[1], "messages are lines of JSON", str(lines))
    # without the state, and with one that is cut or garbled at its end, the same reply
    keep, talk = open(state, "rb").read(), open(path, "rb").read()
    want = chat(model, " Lily", "-n", "8", "--session", path)
    for what, bytes_left in (("no state", None), ("a state cut short", keep[:-5]), ("garbage behind it", keep + b"x" * 70)):
        open(path, "wb").write(talk)
        if bytes_left is None:
            os.remove(state)
        else:
            open(state, "wb").write(bytes_left)
        code, out, err = chat(model, " Lily", "-n", "8", "--session", path)
        check(code == 0 and out == want[1] and ("not a whole record" in err) == (bytes_left is not None), what, out + err)
        again = chat(model, "", "--session", path)
        check(again[0] == 0 and not again[2], what + ": whole afterwards", again[2])
    # a turn that was not written to its end is left out
    talk = open(path, "rb").read()
    open(path, "ab").write(b'{"role":"user","content":"x"}\n{"role":"assis')
    code, out, err = chat(model, "", "--session", path)
    check(code == 0 and "in the middle of a turn" in err and open(path, "rb").read() == talk, "a turn cut short", err)
    # refused by name
    code, out, err = chat(model, "x", "--session", path, "--kv", "q8_0")
    check(code == 1 and "another kv_type" in err and ".state" in err, "another cache type", err)
    code, out, err = chat(PLAIN, "x", "--session", path, "--system", "S", "--chatml")
    check(code == 1 and "began with no system message" in err, "a system message later on", err)
    open(state, "r+b").write(b"garbage")
    code, out, err = chat(model, "x", "--session", path)
    check(code == 1 and "the first record" in err, "a state that is none", err)
    other = os.path.join(folder, "other.jsonl")
    open(other, "w").write("hello\n")
    code, out, err = chat(model, "x", "--session", other)
    check(code == 1 and "is not a conversation" in err and open(other).read() == "hello\n", "a file that is none", err)
    code, out, err = chat(model, "x", "--session", os.path.join(folder, "missing", "x"))
    check(code == 1 and "cannot write" in err, "a folder that is not there", err)
    # the system message is the first line, and may be given again
    path = os.path.join(folder, "system.jsonl")
    for i in range(2):
        code, out, err = chat(model, "upon a time", "-n", "4", "--session", path, "--system", "Once ")
        check(code == 0, "the same system message", err)
    check(open(path).read().count("system") == 1 and open(path).read().count("\n") == 5, "is there once", open(path).read())
    code, out, err = chat(model, "x", "--session", path, "--system", "Twice ")
    check(code == 1 and "another system message" in err, "another one", err)
    # what does not fit is dropped from the file too, so that a run evaluates no more than is new
    path = os.path.join(folder, "full.jsonl")
    sizes, drops = [], 0
    for i in range(16):
        code, out, err = chat(model, "Once upon a time %d" % i, "-n", "6", "--ctx", "96", "--session", path, "--system", "Once ")
        with open(path) as f:
            lines = [json.loads(line) for line in f]
        check(code == 0 and lines[0]["role"] == "system" and lines[-2]["content"] == "Once upon a time %d" % i, "a turn of a full context", err)
        drops += "dropped" in err
        sizes.append(len(lines))
        check(i == 0 or (sizes[i] < sizes[i - 1] + 2) == ("dropped" in err), "the file says what was dropped", (sizes, err))
    check(2 < drops < 10 and max(sizes) < 20, "several turns at a time", (sizes, drops))
    # one question and its answer
    path = os.path.join(folder, "single.jsonl")
    for i in range(2):
        code, out, err = chat(model, "", "-n", "4", "--session", path, "-p", "Once")
        check(code == 0 and open(path).read().count("\n") == 2 * i + 2, "-p with a session", err)


def tools(folder):
    model = gguf_file.with_templates(PLAIN, os.path.join(folder, "tools.gguf"), {
        "": TEXT, "tool_use": "{{ raise_exception('tool ' + tools[0].function.name) }}"})
    path = os.path.join(folder, "tools.json")
    with open(path, "w") as f:
        json.dump([{"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}], f)
    code, out, err = chat(model, "x\n", "--tools", path)
    check(code == 1 and "tool look_up" in err, "the template for tools, and its own message", err)
    code, out, err = chat(model, "Once upon a time\n", "-n", "20")
    check(code == 0 and out.startswith(STORY), "the main one without tools", out + err)
    with open(path, "w") as f:
        f.write("{")
    code, out, err = chat(model, "x\n", "--tools", path)
    check(code == 1 and "tools: JSON, line 1" in err, "tools that are no JSON", err)
    model = gguf_file.with_templates(PLAIN, os.path.join(folder, "calls.gguf"), {"": "{% if tools %}<tool_call>{% endif %}" + TEXT})
    with open(path, "w") as f:
        json.dump([{"type": "function", "function": {"name": n, "parameters": {"type": "object", "properties": {"n": {"type": "integer", "maximum": 5}}, "required": ["n"]}}} for n in ("one", "two")], f)
    code, out, err = chat(model, "x\n{}\n", "--tools", path, "--tool-choice", "two", "--seed", "3", "--on-full", "stop", "-n", "100")
    lines = out.splitlines()
    check(code == 0 and json.loads(lines[0])["name"] == "two" and json.loads(lines[0])["arguments"]["n"] <= 5 and len(lines) > 1 and "arguments" not in lines[1], "a call that is forced, then a reply", out + err)
    code, out, err = chat(model, "x\n", "--tools", path, "--tool-choice", "required", "--seed", "3")
    check(code == 0 and all(json.loads(line)["name"] in ("one", "two") for line in out.splitlines()) and out, "calls that are forced", out + err)
    code, out, err = chat(model, "x\n", "--tools", path, "--tool-choice", "three")
    check(code == 1 and 'there is no tool "three"' in err, "a tool that is none", err)
    for more in (["--tool-choice", "one"], ["--tools", path, "--tool-choice", "one", "--json-object"]):
        code, out, err = chat(model, "x\n", *more)
        check(code == 2 and "--tool-choice" in err, "usage", err)


def terminal(folder):
    model = gguf_file.with_templates(PLAIN, os.path.join(folder, "terminal.gguf"), {"": TEXT})
    try:
        import pty
        import select
        pid, fd = pty.fork()
    except (ImportError, OSError) as e: # Windows; a root without /dev/pts
        results["failed" if os.environ.get("INFER_TEST_NO_SKIP") == "1" else "skipped"] += 1
        print("skipped chat in a terminal: no pseudo-terminals here: %s" % e)
        return
    if pid == 0:
        os.environ["TERM"] = "xterm"
        os.execv(INFER, [INFER, "chat", model, "--temp", "0", "--ctx", "60000", "--threads", "1", "--ignore-eos"])
    seen = b""

    def until(word, seconds=30):
        nonlocal seen
        end = time.time() + seconds
        while word not in seen and time.time() < end:
            if select.select([fd], [], [], 0.2)[0]:
                try:
                    more = os.read(fd, 4096)
                except OSError:
                    break
                if not more:
                    break
                seen += more
        found = word in seen
        seen = seen.split(word, 1)[1] if found else seen
        return found

    check(until(b"> "), "a prompt", seen)
    os.write(fd, b"/help\n")
    check(until(b"/clear") and until(b"> "), "/help", seen)
    os.write(fd, b"Once upon a time\n")
    check(until(b"there was a little girl"), "a reply in a terminal", seen)
    os.write(fd, b"\x03")
    check(until(b"[stopped]"), "Ctrl-C stops the reply", seen[-300:])
    check(until(b"> "), "and not the program", seen[-300:])
    os.write(fd, b"/clear\n")
    check(until(b"> "), "/clear", seen[-300:])
    os.write(fd, b"/exit\n")
    end = time.time() + 20
    done, status = 0, 1
    while done == 0 and time.time() < end:
        until(b"\0nothing", 0.2)
        done, status = os.waitpid(pid, os.WNOHANG)
    if done == 0:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    check(done == pid and status == 0, "/exit ends it", status)
    os.close(fd)


with tempfile.TemporaryDirectory() as where:
    for test in (pipes, sessions, tools, terminal):
        test(where)
print("%(passed)d passed, %(failed)d failed, %(skipped)d skipped" % results)
sys.exit(1 if results["failed"] else 0)
