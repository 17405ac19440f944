#!/usr/bin/env python3
"""bench_map.py: lines per second of `infer map`, of `infer serve` with as many clients, and of `infer run` for one line after the other

  python3 tools/bench_map.py MODEL [--lines 64] [--prompt 128] [--new 64] [--parallel 16] [--rounds 3] [-- OPTION...]

The same lines for all: prompts of random tokens, greedy, no end token. `run` gets --alone of them (8). OPTIONs go to all three. The figures
have the time that programs take to open the model, but not the server's. Medians of all rounds are printed, as a row of Markdown.
"""
import argparse, concurrent.futures, http.client, json, os, random, re, statistics, subprocess, sys, tempfile, time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
INFER = os.environ.get("INFER", os.path.join(ROOT, "build", "infer"))


def by_map(a, path):
    start = time.perf_counter()
    done = subprocess.run([INFER, "map", a.model, "--in", path, "--parallel", str(a.parallel)] + a.options, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True)
    replies = {r["id"]: r["text"] for r in map(json.loads, done.stdout.splitlines())}
    return replies, time.perf_counter() - start


def by_server(a, records):
    p = subprocess.Popen([INFER, "serve", a.model, "--port", "0", "--parallel", str(a.parallel)] + a.options, stderr=subprocess.PIPE, text=True)
    port = next(int(m.group(1)) for m in (re.search(r"listening on .*:(\d+)", line) for line in p.stderr) if m)

    def ask(record):
        c = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
        c.request("POST", "/v1/completions", json.dumps({k: v for k, v in record.items() if k != "id"}))
        return record["id"], json.loads(c.getresponse().read())["choices"][0]["text"]
    start = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(a.parallel) as pool:
        replies = dict(pool.map(ask, records))
    seconds = time.perf_counter() - start
    p.terminate()
    p.wait()
    return replies, seconds


def by_run(a, records):
    start = time.perf_counter()
    for r in records:
        subprocess.run([INFER, "run", a.model, "-p", r["prompt"], "-n", str(a.new), "--temp", "0", "--ignore-eos"] + a.options, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, check=True)
    return None, time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    for name, usual in (("lines", 64), ("prompt", 128), ("new", 64), ("parallel", 16), ("rounds", 3), ("alone", 8)):
        parser.add_argument("--" + name, type=int, default=usual)
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    a = parser.parse_args(words[:cut])
    a.options = words[cut + 1:]
    rng = random.Random(1)
    with open(os.path.join(ROOT, "docs", "matmul.md"), encoding="ascii", errors="ignore") as f: # words that no two prompts have in the same order
        vocabulary = sorted(set(re.findall(r"[a-z]{2,9}", f.read())))
    records = [dict(id=i, prompt=" ".join(rng.choice(vocabulary) for _ in range(a.prompt * 2 // 3)), max_tokens=a.new, temperature=0, ignore_eos=True) for i in range(a.lines)]
    rates = {"map": [], "serve": [], "run": []}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "lines.jsonl")
        with open(path, "w") as f:
            f.writelines(json.dumps(r) + "\n" for r in records)
        for _ in range(a.rounds):
            mapped, seconds = by_map(a, path)
            rates["map"].append(a.lines / seconds)
            served, seconds = by_server(a, records)
            rates["serve"].append(a.lines / seconds)
            if mapped != served:
                sys.exit("the server's replies differ")
            rates["run"].append(a.alone / by_run(a, records[:a.alone])[1])
    m, s, r = (statistics.median(rates[k]) for k in ("map", "serve", "run"))
    print("| %s | %d | %.2f | %.2f | %.2f | %.2f | %.2f |" % (os.path.basename(a.model), a.parallel, m, s, r, m / s, m / r))


if __name__ == "__main__":
    main()
