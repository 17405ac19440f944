#!/usr/bin/env python3
"""Tests of `infer chat` and `infer run` as somebody at a terminal sees them: python3 tests/cli/test_terminal.py build/infer [NAME...]

Keys go into a pseudo-terminal, and what comes out of it onto the screen of an emulator (the Python package pyte), whose rows
are compared. The last line is "N passed, N failed, N skipped".
"""
import fcntl
import json
import os
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
INFER = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build/infer")
MODEL = os.path.join(os.path.dirname(HERE), "data", "models", "stories260K.F32.gguf")
results = {"passed": 0, "failed": 0, "skipped": 0}
try:
    import pty
    import pyte
    os.close(pty.openpty()[0])
    WHY_NOT = None
except (ImportError, OSError) as e:
    WHY_NOT = e
# what the model is told to write: nothing of it depends on the weights
REPLIES = 'root ::= " blue" | " green"'


class Terminal:
    """A program on a screen of its own."""

    def __init__(self, *words, columns=40, rows=12, program=None, **env):
        self.screen = pyte.HistoryScreen(columns, rows, history=500)
        self.stream = pyte.ByteStream(self.screen)
        self.raw = b""
        self.status = None
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update({"TERM": "xterm", **env})
            os.environ.pop("NO_COLOR", None) if "NO_COLOR" not in env else None
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            for number in (signal.SIGTERM, signal.SIGHUP): # whoever runs this may ignore them
                signal.signal(number, signal.SIG_DFL)
            os.execv(program or INFER, [program or INFER, *words])
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, seconds):
        if select.select([self.fd], [], [], seconds)[0]:
            try:
                more = os.read(self.fd, 65536)
            except OSError: # the program has ended
                more = b""
            self.raw += more
            self.stream.feed(more)
            return len(more) > 0
        return None

    def until(self, condition, seconds=20):
        """Reads until the condition holds and nothing more comes for a moment."""
        end = time.time() + seconds
        while time.time() < end:
            got = self.read(0.05)
            if got is None and condition(self):
                return True
            if got is False:
                break
        return condition(self)

    def shows(self, text, seconds=20):
        return self.until(lambda t: text in "\n".join(t.rows()), seconds)

    def type(self, keys):
        os.write(self.fd, keys if isinstance(keys, bytes) else keys.encode())

    def resize(self, columns, rows):
        self.screen.resize(rows, columns)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        os.kill(self.pid, signal.SIGWINCH)

    def rows(self):
        """The rows of the screen that hold something."""
        shown = [row.rstrip() for row in self.screen.display]
        while shown and not shown[-1]:
            shown.pop()
        return shown

    def cursor(self):
        return self.screen.cursor.y, self.screen.cursor.x

    def end(self, seconds=20):
        """The exit status, of a program that is about to end."""
        end = time.time() + seconds
        while time.time() < end:
            self.read(0.05)
            done, status = os.waitpid(self.pid, os.WNOHANG)
            if done:
                while self.read(0.1):
                    pass
                break
        else:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            status = -1
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status) if status >= 0 else "hangs"


def check(ok, what, said=""):
    results["passed" if ok else "failed"] += 1
    if not ok:
        print("FAILED terminal: %s%s" % (what, ": %r" % (said,) if said != "" else ""))


def chat(*words, columns=40, rows=12, **env):
    t = Terminal("chat", MODEL, "--chatml", "--temp", "0", "-t1", "-c", "1k", *words, columns=columns, rows=rows, **env)
    check(t.until(lambda t: t.rows()[-1:] == [">"]), "a prompt", t.rows())
    return t


def is_at(t, what, rows, cursor=None):
    """The last rows of the screen, soon."""
    ok = t.until(lambda t: t.rows()[-len(rows):] == rows and (cursor is None or t.cursor() == (len(t.rows()) - 1 + cursor[0], cursor[1])), 10)
    check(ok, what, (t.rows(), t.cursor()))


def editing(folder):
    t = chat("--grammar", REPLIES)
    for keys, rows, cursor in ((b"hello", ["> hello"], (0, 7)), (b"\x1b[D\x1b[D\x1b[D", ["> hello"], (0, 4)), (b"XY", ["> heXYllo"], (0, 6)),
                               (b"\x7f", ["> heXllo"], (0, 5)), (b"\x1b[3~", ["> heXlo"], (0, 5)), (b"\x01", ["> heXlo"], (0, 2)),
                               (b"\x0b", [">"], (0, 2)), (b"\x19", ["> heXlo"], (0, 7)), (b" two  words\x17", ["> heXlo two"], (0, 13)),
                               (b"\x1bb\x1bb!", ["> !heXlo two"], (0, 3)), (b"\x1b[1;5C", ["> !heXlo two"], (0, 8)), (b"\x1b[H\x15\x1b[F\x15", [">"], (0, 2)),
                               ("日本é".encode(), ["> 日本é"], (0, 7)), (b"\x1b[D\x1b[D", ["> 日本é"], (0, 4)), (b"\x7f", ["> 本é"], (0, 2)),
                               (b"\x05\x15", [">"], (0, 2)), ("e\u0301x".encode(), ["> \u00e9x"], (0, 4)), (b"\x7f\x7f", [">"], (0, 2)),
                               (b"a" * 37, ["> " + "a" * 37], (0, 39)), (b"b", ["> " + "a" * 37 + "b"], (1, 0)), (b"c", ["> " + "a" * 37 + "b", "c"], (0, 1)),
                               (b"\x7f\x7f", ["> " + "a" * 37], (0, 39)), ("日".encode(), ["> " + "a" * 37, "日"], (0, 2)), (b"\x15", [">"], (0, 2)),
                               (b"one\x1b\rtwo", ["> one", "  two"], (0, 5)), (b"\x1b[AX", ["> oneX", "  two"], (-1, 6))):
        t.type(keys)
        if cursor == (0, 7) and keys == b"hello":
            check(t.shows("hello"), "what is typed is shown once", t.rows())
        is_at(t, "after %r" % keys, rows, cursor)
    t.type(b"\x03")
    check(t.until(lambda t: t.rows()[-1] == ">" and any("^C" in r for r in t.rows())), "Ctrl-C clears the line", t.rows())
    t.type(b"\x04")
    check(t.end() == 0, "Ctrl-D ends it")


def history(folder):
    t = chat("--grammar", REPLIES)
    for turn in (b"first", b"second"):
        t.type(turn + b"\r")
        check(t.until(lambda t: t.rows()[-1] == ">"), "a reply", t.rows())
    rows = t.rows()
    check(rows[-5] == "> first" and rows[-3] == "> second" and rows[-4] in (" blue", " green") and rows[-2] in (" blue", " green"), "two turns", rows)
    for keys, shown in ((b"new", "> new"), (b"\x1b[A", "> second"), (b"\x10", "> first"), (b"\x1b[A", "> first"), (b"\x1b[B", "> second"), (b"\x1b[B", "> new")):
        t.type(keys)
        is_at(t, "history after %r" % keys, [shown])
    t.type(b"\x15/exit\r")
    check(t.end() == 0, "/exit ends it")


def pasted(folder):
    path = os.path.join(folder, "saved.json")
    t = chat("--grammar", REPLIES)
    t.type(b"say: \x1b[200~line one\r\nline\x07 two\n\tthree\x1b[201~")
    is_at(t, "a paste is shown whole", ["> say: line one", "  line two", "      three"])
    t.type(b"\r")
    check(t.until(lambda t: t.rows()[-1] == ">"), "it is one turn", t.rows())
    t.type("next \\\rline\r/save %s\r" % path)
    check(t.shows("saved to"), "/save", t.rows())
    with open(path) as f:
        said = [m["content"] for m in json.load(f) if m["role"] == "user"]
    check(said == ["say: line one\nline two\n\tthree", "next \nline"], "what the model was told", said)
    t.type(b"\x04")
    check(t.end() == 0, "Ctrl-D ends it")


def commands(folder):
    path = os.path.join(folder, "talk.json")
    t = chat("--grammar", REPLIES, "--system", "Be kind.", columns=70, rows=24)

    def saved():
        t.type("/save %s\r" % path)
        check(t.until(lambda t: t.rows()[-1] == ">" and "saved to" in t.rows()[-2]), "/save", t.rows())
        t.type(b"\x0c")
        is_at(t, "Ctrl-L clears the screen", [">"])
        with open(path) as f:
            return [(m["role"], m["content"]) for m in json.load(f)]

    t.type(b"/help\r")
    check(t.until(lambda t: all(any(c in r for r in t.rows()) for c in ("/reset", "/save", "/load", "/system", "/regen", "/undo", "/exit"))), "/help", t.rows())
    t.type(b"one\rtwo\r")
    check(t.until(lambda t: "> two" in t.rows() and t.rows()[-1] == ">"), "two turns, typed ahead", t.rows())
    first = saved()
    check([m[0] for m in first] == ["system", "user", "assistant", "user", "assistant"] and first[3][1] == "two", "what was said", first)
    t.type(b"/undo\r")
    check(saved() == first[:3], "/undo", first)
    t.type(b"/regen\r")
    again = saved()
    check(again[:2] == first[:2] and len(again) == 3 and again[2][0] == "assistant", "/regen", again)
    t.type(b"/system Be brief.\r")
    check(saved() == [("system", "Be brief.")] + again[1:], "/system")
    t.type(b"//slash\r")
    check(saved()[-2] == ("user", "/slash"), "a turn that begins with a slash")
    kept = saved()
    t.type(b"/reset\r")
    check(saved() == [("system", "Be brief.")], "/reset keeps the system message")
    with open(path, "w") as f:
        json.dump([{"role": role, "content": content} for role, content in kept], f)
    t.type(("/load %s\r" % path).encode())
    check(t.shows("loaded: 2 turns"), "/load", t.rows())
    check(saved() == kept, "/load brings it back")
    t.type(b"/undo\r/undo\r/undo\r")
    check(t.shows("nothing to undo"), "/undo of nothing", t.rows())
    with open(path, "w") as f:
        f.write("[1]")
    t.type(("/load %s\r" % path).encode())
    check(t.shows("expected a list of messages"), "/load of something else", t.rows())
    t.type(b"/regen\r")
    check(t.shows("no reply to write again"), "/regen of nothing", t.rows())
    t.type(b"/nonsense\r")
    check(t.shows("unknown command /nonsense"), "an unknown command", t.rows())
    check(saved() == [("system", "Be brief.")], "none of it changed anything")
    t.type(b"/bye\r")
    check(t.end() == 0, "/bye ends it")


def sessions(folder):
    """--session: the files hold what the conversation is, whatever commands did to it."""
    path, other = os.path.join(folder, "talk.jsonl"), os.path.join(folder, "other.json")
    words = ("--grammar", REPLIES, "--session", path, "--system", "Be \"kind\".\nAlways.")
    t = chat(*words, columns=70, rows=24)
    turns = 0

    def file():
        if not os.path.exists(path):
            return []
        with open(path) as f:
            return [(m["role"], m["content"]) for m in map(json.loads, f)]

    def does(keys):
        """Types a line, and waits for the next prompt."""
        nonlocal turns
        t.type(keys + "\r\x0c")
        turns += 1
        check(t.until(lambda t: t.rows() == [">"] and t.raw.count(b"\x1b[H\x1b[2J") == turns), "a prompt after %r" % keys, t.rows())

    system = ("system", "Be \"kind\".\nAlways.")
    does("/undo")
    check(file() == [], "nothing was said", file())
    does("one")
    does("two")
    first = file()
    check([m[0] for m in first] == ["system", "user", "assistant", "user", "assistant"] and first[0] == system and first[3][1] == "two", "two turns", first)
    does("/undo")
    check(file() == first[:3], "/undo", file())
    does("/regen")
    check(file()[:2] == first[:2] and len(file()) == 3 and file()[2][0] == "assistant", "/regen", file())
    does("three")
    check(len(file()) == 5 and file()[3] == ("user", "three"), "it grows again", file())
    does("/system Be brief.")
    brief = file()
    check(brief[0] == ("system", "Be brief.") and brief[3] == ("user", "three") and len(brief) == 5 and not os.path.exists(path + ".state"), "/system", brief)
    does("four")
    check(file()[:5] == brief and len(file()) == 7 and os.path.getsize(path + ".state") > 0, "and a turn behind it", file())
    kept = file()
    does("/reset")
    check(file() == [] and not os.path.exists(path + ".state"), "/reset", file())
    with open(other, "w") as f: # a question without an answer is none yet; members in another order
        json.dump([{"content": c, "role": r} for r, c in kept[:3] + [("developer", "D"), ("user", "x"), ("assistant", "y"), ("user", "and?")]], f)
    does("/load " + other)
    check(file() == kept[:3] + [("developer", "D"), ("user", "x"), ("assistant", "y")], "/load", file())
    does("/undo")
    does("/undo")
    check(file() == kept[:3], "/undo, of what the developer said too", file())
    does("five")
    last = file()
    check(last[:3] == kept[:3] and last[3] == ("user", "five") and len(last) == 5, "a turn behind that", last)
    t.type(b"\x04")
    check(t.end() == 0, "Ctrl-D ends it")
    check(file() == last and sorted(n for n in os.listdir(folder) if n.startswith("talk.jsonl")) == ["talk.jsonl", "talk.jsonl.state"], "and leaves the files", os.listdir(folder))
    t = chat(*words[:-2], columns=70, rows=24)
    turns = 0
    check(t.shows("talk.jsonl: 2 turns so far"), "the conversation goes on", t.rows())
    does("six")
    check(file()[:5] == last and len(file()) == 7, "with another turn", file())
    t.type(b"\x04")
    check(t.end() == 0, "Ctrl-D ends it")


def interrupts(folder):
    t = chat("--ignore-eos", "-c", "100k", columns=60)
    t.type(b"Once upon a time\r")
    check(t.until(lambda t: len(t.rows()) > 6, 2), "a long reply", t.rows())
    t.type(b"\x03")
    check(t.until(lambda t: "[stopped]" in "\n".join(t.rows()) and t.rows()[-1] == ">"), "Ctrl-C stops the reply", t.rows())
    t.type(b"half a line\x03")
    check(t.until(lambda t: t.rows()[-1] == ">" and t.rows()[-2] == "> half a line^C"), "and clears the line", t.rows())
    t.type(b"\x04")
    check(t.end() == 0, "Ctrl-D ends it")
    t = Terminal("run", MODEL, "-p", "Once", "-n", "-1", "-c", "100k", "--ignore-end", "-t1", "--temp", "0", columns=60)
    check(t.until(lambda t: len(t.rows()) > 6, 2), "run writes", t.rows())
    t.type(b"\x03")
    status = t.end()
    text = t.raw.decode("utf-8", "replace")
    check(status == 130 and "stopped by: Ctrl-C" in text and "\nload " in text, "Ctrl-C ends run with statistics and 130", (status, text[-200:]))
    t = Terminal("run", MODEL, "-p", "Once", "-n", "8", "--temp", "0", columns=200)
    status = t.end()
    check(status == 0 and t.rows()[0].startswith(" upon a time,") and t.rows()[1].startswith("load "), "statistics on a row of their own", t.rows())


def killed(folder):
    """A signal that ends the program leaves the terminal as it was."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        for what, keys in (("editing", b"half a line"), ("replying", b"Once upon a time\r")):
            script = 'ulimit -c 0; "$0" "$@"; echo "ended $?"; stty -a; sleep 1'
            t = Terminal("-c", script, INFER, "chat", MODEL, "--chatml", "--temp", "0", "-t1", "--ignore-eos", "-c", "100k",
                         columns=100, rows=40, program="/bin/sh")
            check(t.until(lambda t: t.rows()[-1:] == [">"]), "a prompt", t.rows())
            check(not termios.tcgetattr(t.fd)[3] & (termios.ECHO | termios.ICANON), "keys come one by one while it runs")
            t.type(keys)
            check(t.shows("half a line") if what == "editing" else t.until(lambda t: len(t.rows()) > 5, 2), what, t.rows())
            child = subprocess.run(["ps", "-o", "pid=", "--ppid", str(t.pid)], capture_output=True, text=True).stdout.split()
            os.kill(int(child[0]), number)
            t.until(lambda t: b"icanon" in t.raw)
            end, text = t.end(), t.raw.decode("utf-8", "replace")
            check(end == 0 and "ended %d" % (128 + number) in text, "signal %d ends it while %s" % (number, what), (end, text[-200:]))
            modes = text.split("ended ")[-1].replace(";", " ").split()
            check(all(m in modes for m in ("echo", "icanon", "isig", "iexten", "icrnl")), "with the terminal's modes", modes[-40:])
            check(t.raw.rfind(b"\x1b[?2004l") > t.raw.rfind(b"\x1b[?2004h"), "and without marks of pastes", text[-200:])


def progress(folder):
    """A bar while a long prompt is evaluated, wiped before the text; none where stderr is no terminal."""
    path = os.path.join(folder, "long.txt")
    with open(path, "w") as f:
        f.write("Once upon a time there was a little girl. " * 700)
    words = ["run", MODEL, "-f", path, "-n", "4", "-c", "100k", "-t1", "--temp", "0"]
    t = Terminal(*words, columns=100)
    status = t.end(120)
    check(status == 0 and b"\rprompt [" in t.raw and b"##" in t.raw and b"%" in t.raw, "a bar", (status, t.raw[:300]))
    check(not any("prompt [" in r for r in t.rows()), "which is gone in the end", t.rows())
    p = subprocess.run([INFER] + words, capture_output=True, timeout=120)
    check(p.returncode == 0 and b"[" not in p.stderr and b"\r" not in p.stderr, "no bar in a file", p.stderr)


def resized(folder):
    t = chat("--grammar", REPLIES)
    t.type(b"abcdefghijklmnopqrstuvwxyz")
    check(t.shows("xyz"), "a line", t.rows())
    t.resize(20, 12)
    t.type(b"!")
    check(t.until(lambda t: t.rows()[-2:] == ["> abcdefghijklmnopqr", "stuvwxyz!"]), "a narrower terminal", t.rows())
    t.resize(60, 12)
    t.type(b"?")
    check(t.until(lambda t: t.rows()[-1] == "> abcdefghijklmnopqrstuvwxyz!?"), "a wider one", t.rows())
    t.resize(20, 4)
    t.type(b"0123456789" * 9 + b"end")
    check(t.until(lambda t: t.rows()[-1] == "end" and len(t.rows()) == 4), "more rows than the screen has", t.rows())
    t.type(b"\x01")
    check(t.until(lambda t: t.rows()[0] == "> abcdefghijklmnopqr" and t.cursor() == (0, 2)), "and their first one", (t.rows(), t.cursor()))
    t.type(b"\x15\x0b\x05\x15/exit\r")
    check(t.end() == 0, "/exit ends it")


def pictures(folder):
    """/image, and what takes pictures away."""
    vision = os.path.join(os.environ.get("INFER_TEST_DATA", ""), "vision")
    one, two = (os.path.join(vision, "images", name) for name in ("text-200x120.png", "rings-64x64.ppm"))
    if not os.path.isfile(one):
        results["failed" if os.environ.get("INFER_TEST_NO_SKIP") == "1" else "skipped"] += 1
        print("skip pictures in the terminal: they need INFER_TEST_DATA")
        return
    path = os.path.join(folder, "shown.json")
    t = chat("--grammar", REPLIES, "--projector", os.path.join(vision, "models", "gemma3.gguf"), columns=120, rows=24)

    def does(line, *want):
        t.type(line + "\r")
        check(t.until(lambda t: t.rows()[-1:] == [">"] and all(any(w in r for r in t.rows()[1:]) for w in want)), line, t.rows())
        t.type(b"\x0c")
        is_at(t, "Ctrl-L clears the screen", [">"])

    def shown():
        """Of each message of the user: its pictures."""
        does("/save " + path, "saved to")
        with open(path) as f:
            talk = [m["content"] for m in json.load(f) if m["role"] == "user"]
        return [[p["path"] for p in content if "path" in p] if isinstance(content, list) else content for content in talk]

    does("/image", "usage: /image FILE")
    does("/image no/such.png", "no/such.png: no such file")
    does("/image " + one, "is for the next message")
    does("/audio " + two, "is for the next message")
    does("/undo", "rings-64x64.ppm is no longer attached")
    does("What?", "blue")
    check(shown() == [[one]], "a picture", shown())
    does("And?", "blue")
    check(shown() == [[one], "And?"], "the next message has none", shown())
    does("/undo", "the last turn was removed")
    does("/image " + two, "is for the next message")
    does("And this?", "blue")
    check(shown() == [[one], [two]], "two pictures", shown())
    does("/regen", "blue")
    with open(path) as f:
        kept = f.read()
    does("/image " + one, "is for the next message")
    does("/reset", "the conversation was reset")
    does("Nothing", "blue")
    check(shown() == ["Nothing"], "/reset drops pictures", shown())
    with open(path, "w") as f:
        f.write(kept)
    does("/load " + path, "loaded: 2 turns")
    does("Which?", "blue")
    check(shown() == [[one], [two], "Which?"], "/load brings them back", shown())
    with open(path, "w") as f:
        f.write(kept.replace(one, "no/such.png"))
    does("/load " + path, "no/such.png: no such file")
    check(shown() == [[one], [two], "Which?"], "a /load that fails changes nothing", shown())
    t.type(b"/bye\r")
    check(t.end() == 0, "/bye ends it")
    t = chat("--grammar", REPLIES, columns=120)
    does("/image " + one, "opened without a projector")
    t.type(b"/bye\r")
    t.end()


def colours(folder):
    t = chat("--grammar", REPLIES)
    check(t.screen.buffer[t.cursor()[0]][0].bold, "the prompt is bold")
    t.type(b"\x04")
    t.end()
    for words, env in (((), {"NO_COLOR": "1"}), (("--color", "off"), {})):
        t = chat("--grammar", REPLIES, *words, **env)
        check(not t.screen.buffer[t.cursor()[0]][0].bold and b"\x1b[1m" not in t.raw, "no colours with %s %s" % (words, env))
        t.type(b"x\r")
        check(t.until(lambda t: t.rows()[-1] == ">" and len(t.rows()) > 3), "but a reply", t.rows())
        t.type(b"\x04")
        t.end()
    t = Terminal("chat", MODEL, "--chatml", "--temp", "0", "-t1", TERM="dumb")
    check(t.until(lambda t: t.rows()[-1:] == [">"]), "a prompt in a dumb terminal", t.rows())
    t.type(b"\x04")
    check(t.end() == 0 and b"\x1b" not in t.raw, "which gets no escape sequences", t.raw)


if WHY_NOT:
    results["failed" if os.environ.get("INFER_TEST_NO_SKIP") == "1" else "skipped"] += 1
    print("skip the terminal: %s" % WHY_NOT)
else:
    with tempfile.TemporaryDirectory() as where:
        for test in (editing, history, pasted, commands, sessions, interrupts, killed, progress, resized, colours, pictures):
            if len(sys.argv) < 3 or test.__name__ in sys.argv[2:]:
                test(where)
print("%(passed)d passed, %(failed)d failed, %(skipped)d skipped" % results)
sys.exit(1 if results["failed"] else 0)
