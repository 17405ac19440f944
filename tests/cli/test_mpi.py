#!/usr/bin/env python3
"""Tests of infer-mpi on this machine: python3 tests/cli/test_mpi.py build/infer [build/infer-mpi]

1 to 4 ranks beside one process: the same bytes, also with matrices in parts. Memory of ranks, refusals, ranks that die or stand still, a
slow network beside the model of tools/pipeline_model.py. Open MPI's mpirun is needed; without it everything is skipped by name.
The last line is "N passed, N failed, N skipped".
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
DATA = os.path.join(ROOT, "tests", "data")
INFER = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build/infer")
MPI = os.path.abspath(sys.argv[2] if len(sys.argv) > 2 else "build/infer-mpi")
MODEL = os.path.join(DATA, "models", "stories260K.F32.gguf") # 5 layers
SPLIT = ["--split", "2", "--split-least", "1"]
RUN = ["mpirun", "--oversubscribe", "--allow-run-as-root", "--bind-to", "none"]
ENV = dict(os.environ, OMPI_MCA_btl_base_warn_component_unused="0", OMPI_MCA_rmaps_base_oversubscribe="1")
results = {"passed": 0, "failed": 0, "skipped": 0}

sys.path.insert(0, os.path.join(ROOT, "tools"))
import pipeline_model # noqa: E402


def check(ok, what, said=""):
    results["passed" if ok else "failed"] += 1
    if not ok:
        print("FAILED mpi: %s%s" % (what, ": %r" % (said,) if said != "" else ""))


def skip(what, why):
    results["failed" if os.environ.get("INFER_TEST_NO_SKIP") == "1" else "skipped"] += 1
    print("skip %s: %s" % (what, why))


def infer(*words):
    p = subprocess.run([INFER, *words], capture_output=True, timeout=120)
    return p.returncode, p.stdout, p.stderr.decode("utf-8", "replace")


def ranks(n, *words, timeout=90):
    p = subprocess.run(RUN + ["-n", str(n), MPI, *words], capture_output=True, timeout=timeout, env=ENV)
    return p.returncode, p.stdout, p.stderr.decode("utf-8", "replace")


# ---- the same bytes ---------------------------------------------------------------------------------------------------

KINDS = ["stories260K.F32", "llama-mixtral-moe", "gemma4-sharedkv-dense", "qwen35-dense", "rwkv7-small-dense", "kimi-k3-moe", "qwen4exp-moe",
         "t5-gated-dense", "deepseek4-topk-moe", "falcon-h1-groups-dense", "gpt2-tied-dense", "graniteswitch-dense", "bert-mean"]


def path_of(name):
    return MODEL if name.startswith("stories") else os.path.join(DATA, "archs", name + ".gguf")


def layers_of(path):
    out = json.loads(infer("info", path, "--json")[1])
    return next(v for k, v in out["metadata"].items() if k.endswith(".block_count"))


def logits(folder):
    ids = os.path.join(folder, "ids")
    with open(ids, "w", encoding="utf-8") as f:
        f.write(" ".join(str(3 + i * 7 % 50) for i in range(40)))
    for i, name in enumerate(KINDS):
        want, got = os.path.join(folder, "want"), os.path.join(folder, "got")
        words = ["logits", path_of(name), "--ids", ids, "-t", "1"] + (["--encoder-ids", ids] if name.startswith("t5") else ["--embeddings"] if name.startswith("bert") else [])
        code, _, err = infer(*words, "--out", want)
        check(code == 0, "logits of %s" % name, err)
        for n in (2,) if i else (1, 2, 3, 4):
            code, _, err = ranks(n, *words, "--out", got)
            same = code == 0 and open(want, "rb").read() == open(got, "rb").read()
            check(same, "logits of %s over %d ranks" % (name, n), err[:400])
        for n in (2,) if i else (2, 4):
            code, _, err = ranks(n, *SPLIT, *words, "--out", got)
            same = code == 0 and open(want, "rb").read() == open(got, "rb").read()
            check(same, "logits of %s over %d ranks, two of them with parts of matrices" % (name, n), err[:400])


def commands(folder):
    texts = os.path.join(folder, "texts")
    with open(texts, "w", encoding="utf-8") as f:
        f.write("".join("A line about %d things, and what became of them.\n" % i for i in range(30)))
    for words in (["run", MODEL, "-p", "Once upon a time", "-n", "60", "--temp", "0.8", "--seed", "5", "--json"],
                  ["run", MODEL, "-p", "Once", "-n", "20", "--best-of", "3", "--seed", "5", "--json"],
                  ["run", MODEL, "-p", "Once", "-n", "20", "--lookup", "--temp", "0", "--json"],
                  ["embed", MODEL, "--texts", texts, "--csv"],
                  ["perplexity", MODEL, "-f", texts, "-c", "64", "--json"]):
        one = infer(*words, "-t", "1")
        for split in ([], SPLIT):
            two = ranks(2, *split, *words, "-t", "1")
            cut = [re.sub(rb'"(prompt_tps|tps|seconds|tokens_per_second)": [0-9.e+-]+', b"", x[1]).strip() for x in (one, two)]
            check(one[0] == 0 and two[0] == 0 and len(cut[0]) > 30 and cut[0] == cut[1], " ".join(words[:1] + words[2:4] + split), (cut, two[2][:300]))
    for more in ([], ["--queues", "2"]):
        code, out, err = ranks(3, "bench", MODEL, "--requests", "4", "-p", "32", "-n", "8", "-r", "1", "--json", "-t", "1", *more)
        check(code == 0 and json.loads(out)["requests"][0]["new_tps"] > 0, "bench " + " ".join(more), (out, err[:300]))
    for more in (["--queues", "1"], ["--queues", "3"]): # passes of several threads, in one order on all parts
        code, out, err = ranks(4, *SPLIT, "bench", MODEL, "--requests", "6", "-p", "24", "-n", "8", "-r", "1", "--json", "-t", "1", *more)
        check(code == 0 and json.loads(out)["requests"][0]["new_tps"] > 0, "bench, 2 x 2 ranks, " + " ".join(more), (out, err[:300]))
    code, out, err = ranks(2, "bench", MODEL, "-p", "32", "-n", "8", "-r", "1", "--json", "-t", "1")
    check(code == 0 and json.loads(out)["tps"] > 0, "bench", (out, err[:300]))
    code, out, err = ranks(2, "tokens", MODEL, "--texts", texts)
    check(code == 0 and out.strip() == infer("tokens", MODEL, "--texts", texts)[1].strip(), "a command that computes nothing", err)


def memory():
    """What ranks hold of the allocator is what is predicted of cache and the rest; weights are only those of their layers."""
    code, _, err = ranks(3, "--layers", "0-1,2-2,3-4", "run", MODEL, "-p", "Once", "-n", "4", "-t", "1", "-v")
    lines = re.findall(r"rank (\d): layers (\d) to (\d), (\d+) bytes of weights, (\d+) of cache, (\d+) of the rest; (\d+) are held", err)
    check(code == 0 and sorted((x[0], x[1], x[2]) for x in lines) == [("1", "2", "2"), ("2", "3", "4")], "layers of ranks", err[-600:])
    for rank, _, _, _, cache, rest, held in lines:
        check(int(cache) + int(rest) == int(held), "memory of rank %s" % rank, (cache, rest, held))
    weights = dict((x[0], int(x[3])) for x in lines)
    code, _, err = ranks(4, *SPLIT, "--layers", "0-1,2-4", "run", MODEL, "-p", "Once", "-n", "4", "-t", "1", "-v")
    parts = re.findall(r"rank (\d): layers (\d) to (\d), (\d+) bytes of weights, (\d+) of cache, (\d+) of the rest; (\d+) are held", err)
    check(code == 0 and sorted((x[0], x[1], x[2]) for x in parts) == [("1", "0", "1"), ("2", "2", "4"), ("3", "2", "4")], "layers of parts", err[-600:])
    for rank, _, _, _, cache, rest, held in parts:
        check(int(cache) + int(rest) == int(held), "memory of rank %s with parts" % rank, (cache, rest, held))
    of_parts = dict((x[0], int(x[3])) for x in parts)
    # 3 layers in two parts: twice the metadata (a mapped file's) and what stays whole, else what one rank has of them
    check(len(of_parts) == 3 and weights["2"] < of_parts["2"] + of_parts["3"] < 2 * weights["2"] and of_parts["2"] < 0.8 * weights["2"] * 1.5,
          "weights of parts", (of_parts, weights))
    check(len(weights) == 2 and weights["1"] < weights["2"] < os.path.getsize(MODEL) // 2 + weights["1"], "weights of ranks", weights)


def least():
    """--split where every matrix is below --split-least: nothing is cut, which a warning says; no exchanges, the same text."""
    words = ["run", MODEL, "-p", "Once", "-n", "8", "--temp", "0", "-t", "1"]
    want = infer(*words)[1].strip()
    for more, cut in ([], False), (SPLIT[2:], True):
        code, out, err = ranks(2, *SPLIT[:2], *more, *words, "-v")
        n = re.findall(r"rank 1: (\d+) exchanges", err)
        check(code == 0 and out.strip() == want and ("--split 2 cuts nothing" in err) != cut and len(n) == 1 and (int(n[0]) > 0) == cut,
              "--split 2 " + " ".join(more), (code, out, n, err[:600]))


def refusals():
    for n, words, why in ((2, ["--layers", "0-1,3-4"], "2 ranges"), (3, ["--layers", "0-1,2-4"], "3 ranges"), (2, ["--layers", "0-1,2-5"], "2 ranges"),
                          (6, [], "too few for 6 ranks")):
        code, out, err = ranks(n, *words, "run", MODEL, "-p", "Once", "-n", "4")
        check(code == 1 and why in err and not out.strip(), "refused: %d ranks %s" % (n, " ".join(words)), (code, err[:300]))
    shared = os.path.join(DATA, "archs", "gemma4-sharedkv-dense.gguf")
    last = layers_of(shared) - 1
    code, out, err = ranks(2, "--layers", "0-%d,%d-%d" % (last - 1, last, last), "run", shared, "-p", "Once", "-n", "4")
    check(code == 1 and "share keys and values" in err, "a cut between layers that share keys", (code, err[:300]))
    check(ranks(2, "run", MODEL + ".not", "-p", "x")[0] == 1, "no file")
    code, _, err = ranks(3, *SPLIT, "run", MODEL, "-p", "Once", "-n", "4")
    check(code == 2 and "3 ranks are no multiple" in err, "--split 2 over 3 ranks", (code, err[:300]))
    code, _, err = ranks(2, *SPLIT, "run", MODEL, "-p", "Once", "-n", "4", "--gpu-layers", "1")
    check(code == 1 and "a GPU, with matrices in parts" in err, "--split on GPUs", (code, err[:300]))
    for words in ([], ["--timeout", "0", "run"], ["--what", "1", "run"], ["--split", "0", "run"], ["--split", "65", "run"], ["--split", "1.5", "run"]):
        check(ranks(1, *words)[0] == 2, "usage: " + " ".join(words))
    late = '[ "$OMPI_COMM_WORLD_RANK" = 1 ] && sleep 2; exec "$0" --start 4294967297 run "$1" -p Once -n 4' # 2^32 + 1: not one second
    p = subprocess.run(RUN + ["-n", "2", "sh", "-c", late, MPI, MODEL], capture_output=True, timeout=90, env=ENV)
    check(p.returncode == 0 and p.stdout, "--start of more than 2^32 seconds", p.stderr[:300])
    code, out, _ = ranks(2, "--help")
    check(code == 0 and out.count(b"usage: mpirun") == 1, "--help", out[:200])
    code, _, err = ranks(2, "imatrix", MODEL, "-f", os.path.join(DATA, "sampler-cases.txt"), "--out", "/dev/null")
    check(code == 1 and "elsewhere" in err, "imatrix needs all layers here", err[:300])


# ---- ranks that die -----------------------------------------------------------------------------------------------------

def pid_of(rank, mark):
    for p in os.listdir("/proc"):
        try:
            if p.isdigit() and mark in open("/proc/%s/cmdline" % p, "rb").read() and \
                    b"OMPI_COMM_WORLD_RANK=%d\0" % rank in open("/proc/%s/environ" % p, "rb").read() and \
                    b"mpirun" not in open("/proc/%s/cmdline" % p, "rb").read():
                return int(p)
        except OSError:
            pass
    return None


def dies(folder):
    """Each rank, killed or stopped, while models open, in a prompt, while generating: an error within seconds, and nobody is left."""
    text = os.path.join(folder, "long")
    with open(text, "w", encoding="utf-8") as f:
        f.write("Once upon a time there was a little girl. " * 40)
    kill, stop = signal.SIGKILL, signal.SIGSTOP
    for n, phase, network, words, cases in (
            (3, "opening", ["--delay", "2000"], ["-p", "Once", "-n", "4"], ((1, kill), (2, stop))), # the order to open is on its way
            (3, "a prompt", ["--rate", "0.02"], ["-f", text, "-n", "1", "-b", "8"], ((2, kill), (1, stop))),
            (3, "generation", ["--delay", "60"], ["-p", "Once", "-n", "400"], ((0, kill), (1, kill), (2, kill), (1, stop), (0, stop))),
            (4, "generation in parts", ["--delay", "10", *SPLIT], ["-p", "Once", "-n", "400"], ((0, kill), (1, kill), (2, kill), (3, kill), (1, stop), (3, stop))),
            (2, "a prompt in parts", ["--delay", "20", *SPLIT], ["-f", text, "-n", "1", "-b", "8"], ((1, kill), (1, stop)))):
        for rank, sent in cases:
            timeout = "%.3f" % (1 + results["passed"] * 1e-3) # so that processes of this job can be told from others
            mark = b"--timeout\0" + timeout.encode()
            with open(os.path.join(folder, "err"), "w+b") as err:
                p = subprocess.Popen(RUN + ["-n", str(n), MPI, "--timeout", timeout, *network, "run", MODEL, "--temp", "0", "-t", "1", *words],
                                     stdout=subprocess.DEVNULL, stderr=err, env=ENV)
                end, pid = time.time() + 20, None
                while pid is None and time.time() < end and p.poll() is None:
                    pid = pid_of(rank, mark)
                    time.sleep(0.005)
                time.sleep(1)
                running = p.poll() is None
                begin = time.time()
                try:
                    os.kill(pid or 1 << 22, sent)
                except ProcessLookupError:
                    running = False
                try:
                    code = p.wait(20)
                except subprocess.TimeoutExpired:
                    code = 0
                    p.kill()
                took = time.time() - begin
                err.seek(0)
                said = err.read().decode("utf-8", "replace")
            what = "rank %d, %s in %s" % (rank, "killed" if sent == signal.SIGKILL else "stopped", phase)
            check(running and code != 0 and took < 10, what, (running, code, took, said[:300]))
            if sent == signal.SIGSTOP:
                check("rank %d has not been heard of" % rank in said, what + ": said", said[:300])
            left = [r for r in range(n) if pid_of(r, mark)]
            if left:
                time.sleep(1)
                left = [r for r in range(n) if pid_of(r, mark)]
            check(not left, what + ": nobody is left", left)


# ---- time ---------------------------------------------------------------------------------------------------------------

def paper():
    """The formulas beside the simulation; the table in docs/pipeline.md is what they say."""
    program = os.path.join(ROOT, "tools", "pipeline_model.py")
    check(subprocess.run([sys.executable, program, "--check"], capture_output=True).returncode == 0, "formulas and simulation")
    with open(os.path.join(ROOT, "docs", "pipeline.md"), encoding="utf-8") as f:
        docs = f.read()
    for line in subprocess.run([sys.executable, program], capture_output=True, text=True).stdout.splitlines():
        check(line in docs, "docs/pipeline.md has " + line)


def as_said(want, least, what, n, *args):
    """A busy machine is slower at times, so the best of some tries counts; no try is faster than the latency lets it be."""
    for _ in range(5):
        code, out, err = ranks(n, *args, "-p", "4", "-r", "1", "--json", "-t", "1")
        got = json.loads(out)["requests"][0]["new_tps"] if code == 0 else 0
        if code or got > least * want:
            break
    check(code == 0 and least * want < got < 1.15 * want, what, (got, want, err[:200]))


def times():
    """Tokens per second under added latency, beside the model. Passes of this model take next to nothing."""
    delay = 0.02
    for n, queues in ((2, 1), (3, 1), (4, 1), (2, 4), (3, 4)):
        more = ["--queues", str(queues)] if queues > 1 else []
        want = pipeline_model.generation(stages=[1e-4] * n, rows=1, width=64, bandwidth=1e12, latency=delay, in_flight=queues, head=0)
        as_said(want, 0.75, "%d ranks, %d requests, a network of 20 ms" % (n, queues),
                n, "--delay", str(delay * 1000), "bench", MODEL, "--requests", str(queues), "-n", "16", *more)
    delay = 0.01
    for n in (2, 4): # 5 layers of 4 exchanges; the head takes a message and an exchange
        way = {"rows": 1, "bandwidth": 1e12, "latency": delay}
        whole = pipeline_model.exchanges(parts=2, layers=5, columns=64, **way)
        want = pipeline_model.generation(stages=[2e-4 + whole / (n // 2)] * (n // 2), width=64, in_flight=1, head=2 * delay, share=delay, **way)
        as_said(want, 0.7, "%d ranks, matrices in 2 parts, a network of 10 ms" % n,
                n, *SPLIT, "--delay", str(delay * 1000), "bench", MODEL, "--requests", "1", "-n", "8")


def main():
    missing = [x for x in ("mpicc", "mpirun") if not shutil.which(x)]
    if missing:
        skip("infer-mpi", missing[0] + " is not installed")
    elif len(sys.argv) < 3 and subprocess.run(["make", "-s", "mpi"], cwd=ROOT).returncode:
        check(False, "make mpi")
    else:
        with tempfile.TemporaryDirectory() as folder:
            logits(folder)
            commands(folder)
            memory()
            least()
            refusals()
            dies(folder)
            times()
    paper()
    print("%(passed)d passed, %(failed)d failed, %(skipped)d skipped" % results)
    return 1 if results["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
