#!/usr/bin/env python3
"""bench_serve.py: tokens per second of HTTP servers with 1 to 64 clients, and whether a server under load says what it says alone

  python3 tools/bench_serve.py infer=http://127.0.0.1:8080 llama.cpp=http://127.0.0.1:8081 --clients 1,4,16,64 --rounds 3
  python3 tools/bench_serve.py http://127.0.0.1:8080 --clients 64 --seconds 60 --same

Any server with OpenAI's /v1/completions that takes a prompt as tokens and ignore_eos. Servers are measured in turn, each alone; the
medians of all rounds are printed as a row of Markdown. Every client sends its next request when its reply has ended: greedy, streamed.
Start the servers with equal settings: as many slots as clients, the same context and threads.
"""
import argparse, json, random, selectors, socket, statistics, sys, time, urllib.parse


class Client:
    """A connection for each request, for not every server keeps them; `text` is the raw reply so far."""

    def __init__(self, url):
        self.at = urllib.parse.urlsplit(url)

    def send(self, which, prompt, new):
        body = json.dumps(dict(prompt=prompt, max_tokens=new, temperature=0, ignore_eos=True, stream=True, stream_options={"include_usage": True})).encode()
        self.which, self.text, self.first, self.start = which, bytearray(), None, time.perf_counter()
        self.socket = socket.create_connection((self.at.hostname, self.at.port))
        self.socket.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (self.at.netloc.encode(), len(body)) + body)

    def receive(self):
        """Whether the reply is complete."""
        data = self.socket.recv(1 << 16)
        if not data:
            raise OSError("the server closed the connection: %.300r" % bytes(self.text))
        self.text += data
        if self.first is None and b'"text":' in self.text:
            self.first = time.perf_counter() - self.start
        return self.text.endswith(b"\r\n0\r\n\r\n") or b"200 OK" not in self.text[:64]


def read(reply):
    """The text and the number of tokens."""
    events, at = b"", reply.find(b"\r\n\r\n") + 4
    if not reply.startswith(b"HTTP/1.1 200") or b"[DONE]" not in reply:
        sys.exit("an error: %.300r" % bytes(reply))
    while at < len(reply): # chunks
        line = reply.index(b"\r\n", at)
        n = int(reply[at:line], 16)
        events += reply[line + 2:line + 2 + n]
        at = line + 2 + n + 2
    parts = [json.loads(e[6:]) for e in events.decode("utf-8", "replace").split("\n\n") if e.startswith("data: {")]
    return "".join(c["text"] for p in parts for c in p["choices"]), next(p["usage"]["completion_tokens"] for p in parts if p.get("usage"))


def run(url, n_clients, prompts, new, requests, seconds):
    """(which, text, tokens, seconds to the first token) of each reply, and seconds of all."""
    wait, done, sent, clients = selectors.DefaultSelector(), [], 0, [Client(url) for _ in range(n_clients)]
    start = time.perf_counter()

    def ask(c):
        nonlocal sent
        if time.perf_counter() - start < seconds if seconds else sent < requests:
            c.send(sent % len(prompts), prompts[sent % len(prompts)], new)
            wait.register(c.socket, selectors.EVENT_READ, c)
            sent += 1
    for c in clients:
        ask(c)
    while len(done) < sent:
        for key, _ in wait.select():
            if key.data.receive():
                done.append((key.data.which, key.data.text, key.data.first))
                wait.unregister(key.fileobj)
                key.fileobj.close()
                ask(key.data)
    took = time.perf_counter() - start
    return [(which, *read(text), first) for which, text, first in done], took # read when the clock has stopped


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    a.add_argument("servers", nargs="+", metavar="[NAME=]URL")
    a.add_argument("--clients", default="1,4,16,64")
    a.add_argument("--prompt", type=int, default=128, help="tokens of a prompt")
    a.add_argument("--new", type=int, default=64, help="tokens of a reply")
    a.add_argument("--requests", type=int, default=2, help="of each client (at least 8 of all)")
    a.add_argument("--rounds", type=int, default=1)
    a.add_argument("--seconds", type=float, default=0, help="send requests for so long instead")
    a.add_argument("--vocabulary", type=int, default=500, help="tokens of prompts are below this")
    a.add_argument("--same", action="store_true", help="16 prompts, and every reply must be the one that a client alone got")
    args = a.parse_args()
    servers = [s.split("=", 1) if "=" in s.split("://")[0] else [s, s] for s in args.servers]
    draw, different = random.Random(time.time()), 0
    print("| server | clients | tokens/s | first token, median | p99 | replies |\n|---|---:|---:|---:|---:|---:|")
    for n in map(int, args.clients.split(",")):
        rates, firsts, counts = ({name: [] for name, _ in servers} for _ in range(3))
        for _ in range(args.rounds):
            requests = max(8, n * args.requests)
            prompts = [[draw.randrange(3, args.vocabulary) for _ in range(args.prompt)] for _ in range(16 if args.same else requests)]
            for name, url in servers:
                alone = [run(url, 1, [p], args.new, 1, 0)[0][0][1] for p in prompts] if args.same else None
                replies, took = run(url, n, prompts, args.new, requests, args.seconds)
                if any(tokens != args.new for _, _, tokens, _ in replies):
                    sys.exit("%s: a reply of another length" % name)
                different += sum(text != alone[which] for which, text, _, _ in replies) if alone else 0
                rates[name].append(len(replies) * args.new / took)
                firsts[name] += [first for _, _, _, first in replies]
                counts[name].append(len(replies))
        for name, _ in servers:
            f = sorted(firsts[name])
            print("| %s | %d | %.0f | %.3f s | %.3f s | %d |" % (name, n, statistics.median(rates[name]), statistics.median(f), f[int(len(f) * 0.99)], sum(counts[name])), flush=True)
    if args.same:
        print("replies that differ from those alone: %d" % different)
    sys.exit(different > 0)


main()
