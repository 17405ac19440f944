#!/usr/bin/env python3
"""switches.py: the INFER_NO_* and INFER_ONLY_* switches, each alone and each with every other one.

  python3 tests/compile/switches.py [--pairs] [FILTER]   compile without code, warnings are errors: each alone, or all pairs
  python3 tests/compile/switches.py --cover              each alone, and all pairs of on and off in a few builds of many switches
  python3 tests/compile/switches.py --table [--write]    compile each at -O2: what it costs and saves, for docs/benchmarks.md
"""
import itertools, os, re, subprocess, sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import run

DOC = os.path.join(run.ROOT, "docs", "benchmarks.md")
PARTS = tuple("ADAPTERS DESCRIBE DRAFTS EMBED EXPERTS FILL GUIDES JSON MEDIA OFFLOAD QUEUE RANGES SAVE SCORES SLICES SPLIT".split())  # seen best where nothing else is left
BEGIN, END = "<!-- switches.py --table: begin -->\n", "<!-- switches.py --table: end -->\n"
ALL = ["NO_" + m for m in run.MACROS] + ["ONLY_" + m for m in run.LISTS]
BASE = ["NO_GPU", "NO_SIMD", "NO_CHAT", "NO_GRAMMAR"]
TABLE = ([()] + [(m,) for m in ALL] + [("NO_GPU", "NO_AVX512"), ("NO_GPU", "NO_SIMD"), ("NO_GPU", "NO_CHAT", "NO_GRAMMAR"), tuple(BASE)] +
         [tuple(BASE + [m]) for m in ALL if m.startswith("ONLY_") or m[3:] in PARTS] + [tuple(ALL), ("MINIMAL",), ("MINIMAL", "NO_STDIO", "NO_THREADS")])


def flags(switches):
    return [f for m in switches for f in (run.only(m[5:]) if m.startswith("ONLY_") else ["-DINFER_" + m])]


def name(switches):
    if len(switches) == len(ALL):
        return "all of these"
    if list(switches[:len(BASE)]) == BASE and len(switches) > len(BASE):
        return "those four, `INFER_%s`" % switches[-1]
    return ", ".join("`INFER_%s`" % m for m in switches) or "none"


def cover(switches):
    """Builds in which every two switches are once both on, and each once on while the other is off: each switch is on in more than half of the builds, no two
    in the same ones (Kleitman and Spencer 1973). Both off is the build with none."""
    n = next(n for n in itertools.count(1) if sum(1 for _ in itertools.combinations(range(n), n // 2 + 1)) >= len(switches))
    on = list(itertools.combinations(range(n), n // 2 + 1))[:len(switches)]
    return [tuple(m for m, builds in zip(switches, on) if i in builds) for i in range(n)]


def check(todo):
    """Nothing is generated, so that hundreds are quick; clang says then what gcc says only after generating code."""
    failed = 0
    for switches in todo:
        p = subprocess.run([run.CLANG or run.CC, "-std=c99", "-fsyntax-only", "-DINFER_QUIET"] + run.WARN + flags(switches) + ["impl.c"],
                           cwd=run.HERE, capture_output=True, text=True, errors="replace")
        if p.returncode:
            failed += 1
            print("FAILED switches: %s\n%s" % (" ".join(flags(switches)), "\n".join(p.stderr.splitlines()[:12])), flush=True)
    print("switches: %d passed, %d failed" % (len(todo) - failed, failed))
    return 1 if failed else 0


def measure(switches, level="-O2"):
    """(KiB of text, user seconds, MiB that the compiler took) of gcc or what there is."""
    obj = os.path.join(run.OUT, "switches.o")
    child = subprocess.Popen([run.CC, "-std=c99", level] + flags(switches) + ["-c", "impl.c", "-o", obj], cwd=run.HERE)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit("switches.py: %s does not compile" % " ".join(flags(switches)))
    size = subprocess.run(["size", obj], capture_output=True, text=True, check=True).stdout.splitlines()[1].split()
    os.remove(obj)
    return int(size[0]) / 1024, used.ru_utime, used.ru_maxrss / 1024


def table(todo):
    version = subprocess.run([run.CC, "--version"], capture_output=True, text=True).stdout.splitlines()[0]
    lines = ["", "`-std=c99`, %s; text as `size` says (with constants and unwinding tables), at `-O2` and at `-Os`; user seconds and memory of the "
             "compiler at `-O2`. Lists have what `tests/compile/run.py` lists." % version, "",
             "| switches | `-O2` | `-Os` | time | memory |", "|---|---|---|---|---|"]
    for switches in todo:
        kib, seconds, mib = measure(switches)
        lines.append("| %s | %d KiB | %d KiB | %.1f s | %d MiB |" % (name(switches), kib, measure(switches, "-Os")[0], seconds, mib))
        print(lines[-1], flush=True)
    return "\n".join(lines) + "\n\n"


def main():
    args = [a for a in sys.argv[1:] if not a.startswith("--")]
    os.makedirs(run.OUT, exist_ok=True)
    if "--table" in sys.argv:
        text = table([s for s in TABLE if not args or args[0] in name(s)])
        if "--write" in sys.argv:
            with open(DOC, encoding="utf-8") as f:
                doc = f.read()
            if BEGIN not in doc or args:
                sys.exit("switches.py: %s has no place for the table, or only a part of it was made" % DOC)
            with open(DOC, "w", encoding="utf-8") as f:
                f.write(re.sub(re.escape(BEGIN) + ".*?" + re.escape(END), lambda m: BEGIN + text + END, doc, flags=re.S))
        return 0
    alone = [(m,) for m in ALL + ["MINIMAL"]]
    todo = alone + (list(itertools.combinations(ALL, 2)) if "--pairs" in sys.argv else cover(ALL) if "--cover" in sys.argv else [])
    return check([s for s in todo if not args or any(args[0] in m for m in s)])


if __name__ == "__main__":
    sys.exit(main())
