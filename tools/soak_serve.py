#!/usr/bin/env python3
"""soak_serve.py: mixed load on `infer serve` for minutes or hours: its memory must stay flat

  python3 tools/soak_serve.py --minutes 60 build/infer serve tests/data/models/stories260K.F32.gguf

Starts the server (on a free port, which is added) and sends it conversations, whole and streamed, completions, forced calls, forms of
replies, embeddings, counts of tokens, pages, requests that are wrong, and clients that vanish in the middle. Its resident memory is
sampled; a line of Markdown shows it every few minutes. Exit status 1: after the first tenth (--warm) it grew by more than --growth MiB,
a reply was not what such a request gets, the server died, or it does not end on SIGTERM.
"""
import argparse, collections, http.client, json, random, re, signal, socket, statistics, subprocess, sys, threading, time

WORDS = "once upon a time there was girl who liked to play with her red ball in the park and mom said yes".split()
TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {
    "a": {"type": "integer"}, "why": {"type": "string", "maxLength": 20}}, "required": ["a", "why"]}}}
SCHEMA = {"type": "object", "properties": {"age": {"type": "integer"}, "name": {"type": "string", "maxLength": 10}}, "required": ["age", "name"], "additionalProperties": False}


def resident(pid):
    """Bytes of the process that are in memory."""
    try:
        with open("/proc/%d/status" % pid) as f:
            return int(re.search(r"VmRSS:\s+(\d+) kB", f.read()).group(1)) << 10
    except OSError:
        return int(subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=True).stdout) << 10


class Load:
    """A thread that sends one request after another. `wrong` has what should not have been."""

    def __init__(self, port, seed):
        self.port, self.draw, self.wrong, self.counts = port, random.Random(seed), [], collections.Counter()
        self.stop = False
        self.kinds = [getattr(self, n) for n in dir(self) if n.startswith("do_")]
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.stop:
            kind = self.draw.choice(self.kinds)
            try:
                kind()
                self.counts[kind.__name__[3:]] += 1
            except (OSError, http.client.HTTPException, ValueError, KeyError) as e:
                self.wrong.append("%s: %r" % (kind.__name__, e))
                time.sleep(0.2)

    def text(self, n):
        return " ".join(self.draw.choice(WORDS) for _ in range(self.draw.randrange(1, n)))

    def messages(self):
        turns = self.draw.randrange(0, 3)
        return [{"role": r, "content": self.text(30)} for _ in range(turns) for r in ("user", "assistant")] + [{"role": "user", "content": self.text(40)}]

    def send(self, path, body=None, ok=(200, 429), method="POST"):
        """The body of the reply; None = the server is full."""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            c.request(method, path, body if isinstance(body, (bytes, type(None))) else json.dumps(body), {"Content-Type": "application/json"})
            r = c.getresponse()
            data = r.read()
            if r.status not in ok:
                raise ValueError("%s: status %d: %.200r" % (path, r.status, data))
            return None if r.status == 429 else data
        finally:
            c.close()

    def sampling(self):
        return {"max_tokens": self.draw.randrange(1, 60), "temperature": self.draw.choice([0, 0.7, 1.5]), "seed": self.draw.randrange(1000)}

    def do_chat(self):
        r = self.send("/v1/chat/completions", dict(messages=self.messages(), n=self.draw.choice([1, 1, 2]), **self.sampling()))
        r is None or json.loads(r)["choices"][0]["message"]["role"]

    def do_stream(self):
        r = self.send("/v1/chat/completions", dict(messages=self.messages(), stream=True, stream_options={"include_usage": True}, **self.sampling()))
        if r is not None and not r.endswith(b"data: [DONE]\n\n"):
            raise ValueError("a stream that does not end: %.200r" % r[-200:])

    def do_completion(self):
        r = self.send("/v1/completions", dict(prompt=[self.text(60)] * self.draw.choice([1, 1, 3]), logprobs=self.draw.choice([None, 2]), echo=self.draw.random() < 0.3, **self.sampling()))
        r is None or json.loads(r)["choices"][0]["text"]

    def do_call(self):
        r = self.send("/v1/chat/completions", dict(self.sampling(), messages=self.messages(), tools=[TOOL], tool_choice="required", parallel_tool_calls=False, max_tokens=300), ok=(200, 400, 429))
        if r is not None and b"tool_choice" not in r: # refused: the template has no tools
            choice = json.loads(r)["choices"][0]
            choice["finish_reason"] == "length" or json.loads(choice["message"]["tool_calls"][0]["function"]["arguments"])["why"]

    def do_form(self):
        r = self.send("/v1/chat/completions", dict(self.sampling(), messages=self.messages(), max_tokens=200, response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}))
        if r is not None and json.loads(r)["choices"][0]["finish_reason"] == "stop":
            json.loads(json.loads(r)["choices"][0]["message"]["content"])["age"]

    def do_messages(self):
        self.send("/v1/messages", dict(model="", messages=self.messages(), max_tokens=20, stream=self.draw.random() < 0.5))

    def do_responses(self):
        self.send("/v1/responses", dict(input=self.text(30), max_output_tokens=20, stream=self.draw.random() < 0.5))

    def do_embeddings(self):
        r = self.send("/v1/embeddings", dict(input=[self.text(40) for _ in range(self.draw.randrange(1, 6))]), ok=(200, 400, 429))
        r is None or b"no vectors" in r or json.loads(r)["data"][0]["embedding"]

    def do_tokens(self):
        n = json.loads(self.send("/tokenize", dict(content=self.text(100))))
        json.loads(self.send("/detokenize", dict(tokens=n["tokens"])))["content"]

    def do_pages(self):
        for path in "/", "/v1/models", "/health", "/metrics", "/props", "/slots":
            self.send(path, method="GET")

    def do_wrong(self):
        bad = self.draw.choice([b"{", b"[" * 3000, b"\xff\xfe", b"", json.dumps(dict(messages="x")).encode(), json.dumps(dict(messages=self.messages(), nonsense=1)).encode(),
                                json.dumps(dict(messages=self.messages(), grammar="root ::= (")).encode(), json.dumps(dict(messages=[dict(role="user", content="word " * 9000)])).encode()])
        self.send("/v1/chat/completions", bad, ok=(400, 404, 413, 422, 429))
        self.send("/nowhere", method="GET", ok=(404,))

    def do_vanish(self):
        """A client that goes before, or in the middle of, its reply."""
        body = json.dumps(dict(messages=self.messages(), stream=self.draw.random() < 0.7, max_tokens=1500, ignore_eos=True)).encode()
        head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0") # the connection is reset
            s.sendall((head + body)[:self.draw.choice([20, len(head), len(head) + len(body) // 2, 1 << 20])])
            s.settimeout(self.draw.choice([0.01, 0.1, 0.5]))
            try:
                s.recv(200)
            except OSError:
                pass


def start(command):
    p = subprocess.Popen(command + ["--port", "0"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace")
    for line in p.stderr:
        found = re.search(r"listening on https?://.*:(\d+)", line)
        if found:
            threading.Thread(target=lambda: [None for _ in p.stderr], daemon=True).start()
            return p, int(found.group(1))
    sys.exit("the server did not start")


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    a.add_argument("command", nargs=argparse.REMAINDER, help="the server: build/infer serve MODEL ...")
    a.add_argument("--minutes", type=float, default=60)
    a.add_argument("--clients", type=int, default=8)
    a.add_argument("--warm", type=float, help="minutes that do not count; default a tenth of all")
    a.add_argument("--growth", type=float, default=8, help="MiB that the memory may grow by afterwards")
    a.add_argument("--every", type=float, default=5, help="minutes between lines")
    a.add_argument("--seed", type=int, default=1)
    args = a.parse_args()
    if not args.command:
        a.error("no command")
    warm = 60 * (args.minutes / 10 if args.warm is None else args.warm)
    p, port = start(args.command)
    loads = [Load(port, args.seed * 1000 + i) for i in range(args.clients)]
    begin, samples, shown, rows = time.monotonic(), [], 0, []
    print("| minutes | resident memory, MiB | requests |\n|---:|---:|---:|", flush=True)
    while time.monotonic() - begin < 60 * args.minutes and p.poll() is None and sum(len(l.wrong) for l in loads) < 20:
        time.sleep(min(2, args.minutes))
        now = time.monotonic() - begin
        samples.append((now, resident(p.pid)))
        if now >= 60 * args.every * (shown + 1):
            shown += 1
            print("| %.0f | %.1f | %d |" % (now / 60, statistics.median(x for t, x in samples if t > now - 30) / 2**20, sum(sum(l.counts.values()) for l in loads)), flush=True)
    for l in loads:
        l.stop = True
    for l in loads:
        l.thread.join(150)
    wrong = [w for l in loads for w in l.wrong]
    if p.poll() is not None:
        wrong.append("the server ended with status %d" % p.returncode)
    else:
        p.send_signal(signal.SIGTERM)
        try:
            if p.wait(60) != 0:
                wrong.append("exit status %d on SIGTERM" % p.returncode)
        except subprocess.TimeoutExpired:
            wrong.append("the server does not end on SIGTERM")
            p.kill()
    after = [x for t, x in samples if t >= warm]
    part = max(1, len(after) // 10)
    grown = (statistics.median(after[-part:]) - statistics.median(after[:part])) / 2**20 if after else 0
    print("%d requests: %s" % (sum(sum(l.counts.values()) for l in loads), ", ".join("%s %d" % x for x in sorted(sum((l.counts for l in loads), collections.Counter()).items()))))
    print("grown by %.1f MiB after %.1f minutes; most %.1f MiB" % (grown, warm / 60, max((x for _, x in samples), default=0) / 2**20))
    if not after or grown > args.growth:
        wrong.append("the memory grew by more than %.0f MiB" % args.growth)
    for w in wrong[:20]:
        print("WRONG: " + w)
    sys.exit(len(wrong) > 0)


main()
