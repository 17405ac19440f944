"""What the tests of `infer serve` share: a server as a process, models with templates of our own, counting."""
import atexit
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import gguf_file

INFER = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build/infer")
PLAIN = os.path.join(os.path.dirname(HERE), "data", "models", "stories260K.F32.gguf")
# A conversation is its messages one after the other, so the story goes on; reasoning and calls as Hermes writes them.
TEMPLATE = ("{{ bos_token }}{% if tools %}{% for t in tools %}{{ t.function.name }} {% endfor %}<tool_call>{% endif %}"
            "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}{% endfor %}"
            "{% if enable_thinking %}<think>{% endif %}")
results = {"passed": 0, "failed": 0, "skipped": 0}
NAME = os.path.basename(sys.argv[0])[5:-3]


def check(ok, what, said=""):
    results["passed" if ok else "failed"] += 1
    if not ok:
        print("FAILED %s: %s%s" % (NAME, what, ": %.600r" % (said,) if said != "" else ""), flush=True)
    return ok


def skip(what, why):
    results["failed" if os.environ.get("INFER_TEST_NO_SKIP") == "1" else "skipped"] += 1
    print("skip %s: %s" % (what, why))


def missing():
    """Why there is no server to test, or None."""
    p = subprocess.run([INFER, "serve", PLAIN, "--port", "0", "--host", "nowhere.invalid", "--no-auth"], capture_output=True, text=True)
    return p.stderr.strip() if "libmicrohttpd" in p.stderr else None


def need_server():
    """Ends the suite when there is no server to test."""
    why = missing()
    if why:
        skip("infer serve", why)
        end()


def end():
    print("%(passed)d passed, %(failed)d failed, %(skipped)d skipped" % results)
    sys.exit(results["failed"] > 0)


def model(folder, name="model.gguf", template=TEMPLATE):
    return gguf_file.with_templates(PLAIN, os.path.join(folder, name), {"": template})


class Server:
    """`infer serve` with these options, on a free port; `log` is its stderr so far."""

    def __init__(self, *options, program=None, env=None, seconds=60):
        self.p = subprocess.Popen([program or INFER, "serve", *options, "--backend", "cpu", "--port", "0"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                  env=dict(os.environ, **(env or {})), errors="replace")
        atexit.register(self.p.kill) # a test that ends early leaves no server behind
        self.log, self.port = "", None
        ready = threading.Event()

        def read():
            for line in self.p.stderr:
                self.log += line
                found = re.search(r"listening on https?://.*:(\d+)", line)
                if found:
                    self.port = int(found.group(1))
                    ready.set()
            ready.set()
        self.reader = threading.Thread(target=read, daemon=True)
        self.reader.start()
        ready.wait(seconds)
        if self.port is None:
            self.p.kill()
            raise RuntimeError("the server did not start: " + self.log)
        self.url = "http://127.0.0.1:%d" % self.port

    def send(self, method, path, body=None, headers=None, timeout=60):
        """Status, headers, text."""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            c.request(method, path, body if body is None or isinstance(body, (bytes, str)) else json.dumps(body), headers or {})
            r = c.getresponse()
            return r.status, dict(r.getheaders()), r.read().decode("utf-8", "replace")
        finally:
            c.close()

    def post(self, path, **body):
        """Status and JSON."""
        status, _, text = self.send("POST", path, body)
        return status, json.loads(text)

    def get(self, path):
        status, _, text = self.send("GET", path)
        return status, json.loads(text)

    def metric(self, name):
        return float(re.search(r"(?m)^infer_%s(?:\{[^}]*\})? (\S+)$" % name, self.send("GET", "/metrics")[2]).group(1))

    def memory(self):
        """Resident bytes; 0 where /proc does not tell."""
        try:
            with open("/proc/%d/status" % self.p.pid) as f:
                return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1)) * 1024
        except OSError:
            return 0

    def alive(self):
        try:
            return self.p.poll() is None and self.send("GET", "/health")[0] == 200
        except OSError:
            return False

    def stop(self, how=signal.SIGTERM, seconds=30):
        """The exit status."""
        if self.p.poll() is None:
            self.p.send_signal(how)
        try:
            status = self.p.wait(seconds)
        except subprocess.TimeoutExpired:
            self.p.kill()
            status = "killed"
        self.reader.join(5)
        self.p.stderr.close()
        return status


def events(text):
    """The events of a stream: (name or None, data or text)."""
    out = []
    for block in text.split("\n\n"):
        name = data = None
        for line in block.splitlines():
            if line.startswith("event: "):
                name = line[7:]
            elif line.startswith("data: "):
                data = line[6:]
        if data is not None:
            out.append((name, data if data == "[DONE]" else json.loads(data)))
    return out
