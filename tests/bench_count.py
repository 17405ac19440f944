#!/usr/bin/env python3
"""bench_count.py: instructions of matrix products per storage type, against tests/bench_count.tsv.

  make bench-count                count, compare; fails when a type needs more than 2% more than the table says
  make bench-count UPDATE=1       count, write the table
  make bench-count TYPES=Q4_0,Q6_K     only these
  make bench-count ARCH=aarch64   the ARM levels, against tests/bench_count_aarch64.tsv: rows TYPE/LEVEL
  make bench-count ARCH=riscv64   RISC-V's vectors, by clang-19
  python3 tests/bench_count.py --limit 40 [--arch aarch64]   fails at 40 %: what the tests run, to see that no type
                                  has lost its kernel, whatever the version of the compiler

Counts do not depend on what else the machine does, so they show changes that timings on a shared machine hide. They are no
times: a count says nothing of memory and of instructions that take longer than others. On this machine callgrind counts;
valgrind has no AVX-512, so that is the AVX2 path (the column "level" of the table's head). For other machines a plugin of
qemu counts (tests/qemu_count.c), on the CPU models of MACHINES. Both count with one thread. Another compiler makes
other counts: the table names the one it was made with.
"""
import argparse, concurrent.futures, os, re, shutil, subprocess, sys, tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MACHINES = {  # compiler, and for each level a CPU model of qemu that has no more
    "aarch64": ("aarch64-linux-gnu-gcc", {"neon": "cortex-a57", "dotprod": "neoverse-n1", "i8mm": "max"}),
    "riscv64": ("clang-19", {"rvv": "rv64,v=true,vlen=128,vext_spec=v1.0"}),
}
OP = "infer__cpu_matmul"  # counted: this function and what it calls
LIMIT = 2 # percent
COLUMNS = "type\tweights\tprompt of 16\tone token"


def output(*command):
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True).stdout


class Callgrind:
    """This machine's own path."""
    suffix = ""

    def __init__(self):
        self.program = os.path.join(ROOT, "build", "bench_count")
        if not shutil.which("valgrind"):
            sys.exit("bench_count.py: valgrind is not installed (apt-get install valgrind)")

    def rows(self, types):
        return types

    def tools(self):
        return [os.environ.get("CC", "cc"), "valgrind"]

    def types(self):
        return output(self.program, "--list").split()

    def count(self, name):
        """(level, weights, instructions of the prompt, of the single token)"""
        return callgrind(self.program, name)


class Qemu:
    """The levels of another machine: a row is TYPE/LEVEL."""

    def __init__(self, arch):
        self.compiler, self.levels = MACHINES[arch]
        self.suffix, self.qemu = "_" + arch, "qemu-" + arch
        self.program = os.path.join(ROOT, "build", "bench_count_" + arch)
        self.plugin = os.path.join(ROOT, "build", "qemu_count.so")
        missing = [tool for tool in self.tools() if not shutil.which(tool)]
        if missing:
            print("skipped, not installed: " + ", ".join(missing))
            sys.exit(0)
        subprocess.run([os.environ.get("MAKE", "make"), "-s", "-C", ROOT, "build/bench_count" + self.suffix, "build/qemu_count.so"], check=True)
        at = {line.split()[2]: line.split()[0] for line in output("nm", self.program).splitlines()
              if len(line.split()) == 3}
        missing = [name for name in (OP, "count_prompt", "count_one") if name not in at]
        if missing:
            sys.exit("bench_count.py: there is no function " + " ".join(missing))
        self.arguments = "%s,in=0x%s,part=0x%s,part=0x%s" % (self.plugin, at[OP], at["count_prompt"], at["count_one"])

    def rows(self, types):
        return [name + "/" + level for name in types for level in self.levels]

    def tools(self):
        return [self.compiler, self.qemu]

    def types(self):
        return output(self.qemu, "-cpu", list(self.levels.values())[-1], self.program, "--list").split()

    def count(self, name):
        name, level = name.split("/")
        done = subprocess.run([self.qemu, "-cpu", self.levels[level], "-plugin", self.arguments, self.program, name],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
        counts = [int(n) for n in re.findall(r"^counted (\d+)$", done.stderr, re.M)]
        if done.returncode or len(counts) != 2:
            sys.exit("bench_count.py: %s: %s" % (name, done.stderr.strip()[-500:]))
        ran, weights = done.stdout.split()
        if ran != level or not all(counts):
            sys.exit("bench_count.py: %s: counted %s on level %s, expected level %s" % (name, counts, ran, level))
        return level, int(weights), counts[0], counts[1]


def callgrind(program, name):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out")
        done = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=" + out, "--toggle-collect=" + OP,
                               "--dump-before=count_prompt", "--dump-before=count_one", program, name],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode:
            sys.exit("bench_count.py: %s: %s" % (name, done.stderr.strip()[-500:]))
        counts = []
        for path in (out + ".2", out):  # .1 is what came before count_prompt
            with open(path) as f:
                counts.append(int(re.search(r"^totals: (\d+)", f.read(), re.M).group(1)))
    if not all(counts):
        sys.exit("bench_count.py: %s: nothing was counted: is there still a function %s?" % (name, OP))
    level, weights = done.stdout.split()
    return level, int(weights), counts[0], counts[1]


def read_table(text):
    """(the lines of the head, {type: [weights, prompt, one]})"""
    lines = text.splitlines()
    rows = [line.split("\t") for line in lines if line and not line.startswith("#") and line != COLUMNS]
    return [line for line in lines if line.startswith("#")], {r[0]: [int(x) for x in r[1:]] for r in rows}


def write_table(head, rows):
    return "\n".join(head + [COLUMNS] + ["\t".join([name] + [str(x) for x in row]) for name, row in rows.items()]) + "\n"


def compare(old, new, limit=LIMIT):
    """(lines to print, how many counts got worse by more than `limit` percent): {type: [weights, prompt, one]} of the table and of now."""
    lines, worse = [], 0
    for name, row in new.items():
        if name not in old or old[name][0] != row[0]:
            lines.append("%-15s prompt %12d %6.2f a product   one %12d %6.2f a product   not in the table like this: UPDATE=1" % (
                name, row[1], row[1] / row[0] / 16, row[2], row[2] / row[0]))
            worse += 1
            continue
        cells, marks = [], []
        for what, tokens, a, b in (("prompt", 16, old[name][1], row[1]), ("one", 1, old[name][2], row[2])):
            cells.append("%s %12d %+6.1f%% %6.2f a product" % (what, b, 100 * (b / a - 1), b / row[0] / tokens))
            if abs(b - a) > limit / 100 * a + 1e-6:
                marks.append("%s %s" % (what, "WORSE" if b > a else "better"))
                worse += b > a
        lines.append("%-15s %s%s" % (name, "   ".join(cells), "   " + ", ".join(marks) if marks else ""))
    return lines, worse


def self_test():
    head, rows = read_table(write_table(["# a"], {"Q": [100, 1000, 200], "R": [1, 2, 3]}))
    assert head == ["# a"] and rows == {"Q": [100, 1000, 200], "R": [1, 2, 3]}, rows
    for new, worse, mark in (([100, 1020, 204], 0, ""), ([100, 1021, 200], 1, "prompt WORSE"), ([100, 1000, 205], 1, "one WORSE"),
                             ([100, 900, 300], 1, "prompt better, one WORSE"), ([100, 1, 1], 0, "prompt better, one better"),
                             ([101, 1000, 200], 1, "UPDATE=1")):
        lines, n = compare(rows, {"Q": new})
        assert n == worse and lines[0].endswith(mark) and ("WORSE" in lines[0]) == ("WORSE" in mark), (new, lines)
    assert compare(rows, {"S": [1, 1, 1]})[1] == 1, "a type that is not in the table"
    assert [compare(rows, {"Q": [100, 1000, one]}, 40)[1] for one in (280, 281)] == [0, 1], "another limit"
    print("1 passed, 0 failed")


def main():
    a = argparse.ArgumentParser(description="instructions of matrix products per storage type")
    a.add_argument("--update", action="store_true", help="write the table")
    a.add_argument("--types", default="", help="only these, separated by commas")
    a.add_argument("--arch", default="", help="aarch64, riscv64, or this machine's own")
    a.add_argument("--limit", type=float, default=LIMIT, help="percent that a count may be worse")
    a.add_argument("--self-test", action="store_true")
    options = a.parse_args()
    if options.self_test:
        return self_test()
    if options.arch and options.arch not in MACHINES:
        sys.exit("bench_count.py: there is no ARCH %s; there are %s, and without ARCH this machine's own" % (options.arch, " and ".join(MACHINES)))
    counter = Qemu(options.arch) if options.arch else Callgrind()
    table = os.path.join(ROOT, "tests", "bench_count%s.tsv" % counter.suffix)
    types = counter.types()
    every = counter.rows(types)
    names = counter.rows([n for n in types if not options.types or n in options.types.upper().split(",")])
    if not names:
        sys.exit("bench_count.py: there is no such type; there are: " + " ".join(types))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        found = dict(zip(names, pool.map(counter.count, names)))
    new = {name: list(row[1:]) for name, row in found.items()}
    levels = sorted({row[0] for row in found.values()})
    make = "make bench-count" + (" ARCH=" + options.arch if options.arch else "")
    versions = [output(tool, "--version").splitlines()[0] for tool in counter.tools()]
    head = ["# Instructions of the matrix products of one layer; %s compares, %s UPDATE=1 rewrites." % (make, make),
            "# level: %s; %s -O2; %s" % (" ".join(levels), versions[0], versions[1])]
    old_head, old = [], {}
    if os.path.exists(table):
        with open(table) as f:
            old_head, old = read_table(f.read())
    lines, worse = compare(old, new, options.limit)
    print("\n".join(lines))
    if options.update:
        with open(table, "w") as f:
            f.write(write_table(head, {name: new.get(name) or old[name] for name in every if name in new or name in old}))
        print("%s written" % os.path.relpath(table, ROOT))
        return 0
    if old_head[1:] != head[1:]:
        print("note: the table was made with other tools\n  table %s\n  now   %s" % (old_head[1:], head[1:]))
    gone = [name for name in old if name not in every]
    print("%d counts are worse by more than %.0f%%%s" % (worse, options.limit, "; in the table, but no type: " + " ".join(gone) if gone else ""))
    return worse > 0


if __name__ == "__main__":
    sys.exit(main())
