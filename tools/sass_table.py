#!/usr/bin/env python3
"""sass_table.py: what ptxas makes of the embedded CUDA kernels: registers, spills, the instructions of their main loops

  python3 tools/sass_table.py [PROGRAM ...]   print the table: of Q4_K's programs and F16 caches, or of these ("all": every one)
  python3 tools/sass_table.py --check         compare with tests/sass_table.tsv; exit 1 when a kernel got worse
  python3 tools/sass_table.py --update        write tests/sass_table.tsv
  python3 tools/sass_table.py --self-test     without CUDA's programs: loops, loads under way and comparison of planted rows

Needs ptxas and nvdisasm of CUDA 12.8 or later (a toolkit, or the PyPI packages nvidia-cuda-nvcc and nvidia-cuda-nvdisasm), no GPU. A
program is assembled for the newest devices that take it: sm_90, sm_90a or sm_75.

The main loop is the one without a loop in it that multiplies most by matrix instructions, or, in a kernel without, loads most bytes from
the device's memory.
Columns, all of that loop but the first three:
  regs spill shared   registers; bytes of a work-item's spills; bytes of shared memory that the program declares
  instr               instructions, in branches too
  loads bytes         loads from the device's memory; their bytes of a work-item, of x as well as of W
  flight              loads under way at most: a load is over when something reads what it, or a later one, has loaded
  i/byte              instructions of a warp for a byte that it loads
  band                share of an H200's bandwidth (4.8 TB/s, 132 processors, 1.755 GHz) that passes at 3 instructions a cycle; of
                      prompts, which use a weight often, it says nothing
  mma tensor          matrix instructions; share of the matrix rate if each warp scheduler issues one instruction a cycle
A calculation, not a measurement: it knows neither latencies nor shared memory.
"""
import argparse, concurrent.futures, glob, os, re, shutil, subprocess, sys, tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TABLE = os.path.join(ROOT, "tests", "sass_table.tsv")
COLUMNS = "program kernel device regs spill shared instr loads bytes flight i/byte band mma tensor".split()
CHOICE = re.compile(r"(^|_)q4_k$|^kv_f16$|^(flash|flash_few)_f16$")
DEVICE = {"75": "sm_75", "90a": "sm_90a"}  # of a tier; all others: sm_90
H200 = 4.8e12 / 132 / 1.755e9  # bytes a cycle and processor
# multiplications of a cycle and warp scheduler, halves: H100 as wgmma reaches it, Turing
RATE = {"sm_90": 512, "sm_90a": 512, "sm_75": 128}
LIMIT = 2  # percent
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, "tools"))
import embed_kernels


def find(name):
    """A program of CUDA's, or None: in PATH, a toolkit, or a package of pip's."""
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH") or "/usr/local/cuda"
    places = [os.path.join(p, "nvidia", "cu1*", "bin", name) for p in sys.path]
    found = [shutil.which(name), shutil.which(name, path=os.path.join(home, "bin"))] + [f for p in places for f in glob.glob(p)]
    return next(filter(None, found), None)


def release(ptxas):
    return re.search(r"release ([\d.]+)", subprocess.run([ptxas, "--version"], capture_output=True, text=True).stdout).group(1)


# ---- SASS ------------------------------------------------------------------------------------------------------------------

INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)\s*(.*?)\s*;")
LABEL = re.compile(r"^(\.L_\w+):")
REGISTER = re.compile(r"\bR(\d+)\b")


def functions(sass):
    """kernel -> [(name, operands)], {label: index of the instruction after it}."""
    out, body, labels = {}, None, None
    for line in sass.split("\n"):
        m = re.match(r"^\.text\.k_(\w+):", line)
        if m:
            body, labels = [], {}
            out[m.group(1)] = body, labels
        elif body is not None and LABEL.match(line):
            labels[LABEL.match(line).group(1)] = len(body)
        elif body is not None and INSTRUCTION.match(line):
            body.append(INSTRUCTION.match(line).groups())
    return out


def is_load(op):
    return re.match(r"(LDG|LDGSTS|LD)\b", op.split(".")[0] + " ") is not None


def width(op):
    """Bytes of a work-item."""
    m = re.search(r"\.(128|64|[US]16|[US]8)\b", op)
    return {"128": 16, "64": 8}.get(m.group(1), int(m.group(1).strip("US")) // 8) if m else 4


def multiplications(op):
    """Of a warp, in units of halves."""
    m = re.match(r"(?:HMMA|IMMA)\.(\d{2})(\d)(\d+)\b", op)
    if m:
        return int(m.group(1)) * int(m.group(2)) * int(m.group(3)) // (2 if op[0] == "I" else 1)
    m = re.match(r"HGMMA\.(\d+)x(\d+)x(\d+)\b", op)
    return int(m.group(1)) * int(m.group(2)) * int(m.group(3)) // 4 if m else 0  # a quarter of what four warps do


def main_loop(body, labels):
    """The instructions of the main loop; all, if there is none."""
    loops = []
    for at, (op, operands) in enumerate(body):
        target = re.search(r"`\((\.L_\w+)\)", operands) if op.startswith("BRA") else None
        if target and labels.get(target.group(1), at + 1) <= at:
            loops.append((labels[target.group(1)], at + 1))
    inner = [l for l in loops if not any(o != l and l[0] <= o[0] and o[1] <= l[1] for o in loops)]
    def made(l):
        return sum(multiplications(op) for op, _ in body[l[0]:l[1]])
    def loaded(l):
        return sum(width(op) for op, _ in body[l[0]:l[1]] if is_load(op))
    if made((0, len(body))) and any(map(made, loops)):
        whole = [l for l in inner if made(l)] or [min(filter(made, loops), key=lambda l: l[1] - l[0])]
        begin, end = max(whole, key=made)
    else:
        begin, end = max(inner or [(0, len(body))], key=lambda l: (loaded(l), l[1] - l[0]))
    return body[begin:end]


def in_flight(loop):
    """Most loads under way, the loop twice: what one round asks for the next one may read. Copies to shared memory end in their
    order at LDGDEPBAR and DEPBAR, which this does not follow: of them all in a round are under way."""
    under_way, most, copies = [], 0, sum(op.startswith("LDGSTS") for op, _ in loop)
    for op, operands in loop * 2:
        registers = [int(r) for r in REGISTER.findall(operands)]
        load = is_load(op) and not op.startswith("LDGSTS")
        read = set(registers[1:] if load else registers)
        for i in reversed(range(len(under_way))):
            if read & under_way[i]:
                del under_way[:i + 1]
                break
        if load and registers:
            under_way.append(set(range(registers[0], registers[0] + max(1, width(op) // 4))))
        most = max(most, len(under_way))
    return most + copies


def row(program, kernel, device, body, labels, said):
    """A row of the table, as texts. said: what ptxas -v says of the kernel."""
    loop = main_loop(body, labels)
    loads = [op for op, _ in loop if is_load(op)]
    loaded, made = sum(map(width, loads)), sum(multiplications(op) for op, _ in loop)
    regs, spill = int(re.search(r"Used (\d+) registers", said).group(1)), int(re.search(r"(\d+) bytes spill stores", said).group(1))
    shared = re.search(r"(\d+) bytes smem", said)
    per_byte, cycles = len(loop) / (32 * loaded) if loaded else 0, made / RATE[device]
    return [program, kernel, device, str(regs), str(spill), shared.group(1) if shared else "0", str(len(loop)), str(len(loads)),
            str(loaded), str(in_flight(loop)), "%.3f" % per_byte if loaded else "-",
            "%.0f%%" % min(100, 300 / per_byte / H200) if loaded else "-", str(sum(multiplications(op) > 0 for op, _ in loop)),
            "%.0f%%" % (100 * cycles / max(cycles, len(loop))) if made else "-"]


def rows_of(tools, folder, name, ptx, tier):
    device = DEVICE.get(tier, "sm_90")
    text, cubin = os.path.join(folder, name + ".ptx"), os.path.join(folder, name + ".cubin")
    with open(text, "wb") as f:
        f.write(ptx)
    said = subprocess.run([tools[0], "-v", "-arch=" + device, text, "-o", cubin], capture_output=True, text=True)
    sass = subprocess.run([tools[1], "-c", cubin], capture_output=True, text=True) if said.returncode == 0 else said
    if sass.returncode:
        sys.exit("sass_table.py: %s: %s" % (name, (said.stderr + sass.stderr).strip()[:500]))
    of = dict(re.findall(r"Compiling entry function 'k_(\w+)'(.*?)(?=ptxas info    : Compiling|\Z)", said.stdout + said.stderr, re.S))
    return [row(name, kernel, device, *both, of[kernel]) for kernel, both in sorted(functions(sass.stdout).items())]


def table(tools, wanted):
    kinds, texts = embed_kernels.kinds(), embed_kernels.embedded_ptx()
    found = [m for m in embed_kernels.modules() if m.name in texts and (wanted == ["all"] or (m.name in wanted if wanted else CHOICE.search(m.name)))]
    missing = set(wanted) - {m.name for m in found} - {"all"}
    if missing:
        sys.exit("sass_table.py: no program has the name %s" % ", ".join(sorted(missing)))
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        made = pool.map(lambda m: rows_of(tools, folder, m.name, texts[m.name].plain, kinds[m.kind].ptx_tier()), found)
        return [r for rows in made for r in rows]


# ---- the table that is kept ------------------------------------------------------------------------------------------------

def compare(kept, made, same_release):
    """What got worse, a line each. Another release of ptxas may count otherwise: then only what spills is a fault."""
    out, before = [], {tuple(r[:3]): r for r in kept}
    at = {c: i for i, c in enumerate(COLUMNS)}
    for r in made:
        b = before.pop(tuple(r[:3]), None)
        if not b:
            out.append("%s %s is not in the table" % tuple(r[:2]))
            continue
        for column, worse in (("spill", 1), ("regs", 1), ("instr", 1), ("flight", -1)):
            old, new = int(b[at[column]]), int(r[at[column]])
            limit = old * LIMIT / 100 if column == "instr" else 0
            if (new - old) * worse > limit and (same_release or column == "spill"):
                out.append("%s %s: %s %d, it was %d" % (r[0], r[1], column, new, old))
    return out + ["%s %s is in the table alone" % k[:2] for k in before]


SAMPLE = """.text.k_sample:
.L_x_0:
        /*0010*/                   LDG.E.128 R4, desc[UR4][R2.64] ;
        /*0020*/              @!P0 LDG.E R8, desc[UR4][R2.64+0x10] ;
        /*0030*/                   FADD R9, R7, R9 ;
        /*0040*/                   LDG.E.64 R10, desc[UR4][R2.64+0x20] ;
        /*0050*/                   FADD R9, R11, R8 ;
        /*0060*/               @P1 BRA `(.L_x_0) ;
.L_x_1:
        /*0070*/                   STG.E desc[UR4][R2.64], R9 ;
        /*0080*/               @P2 BRA `(.L_x_1) ;
        /*0090*/               @P2 BRA `(.L_x_0) ;
"""


def self_test():
    body, labels = functions(SAMPLE)["sample"]
    loop = main_loop(body, labels)
    made = row("p", "sample", "sm_90", body, labels, "12 bytes spill stores\nUsed 40 registers, 8 bytes smem")
    wrong = ["%s %d" % (c, v) for c, v, want in (("instructions", len(loop), 6), ("bytes", int(made[8]), 28), ("flight", in_flight(loop), 2),
                                                 ("multiplications", multiplications("HMMA.16816.F32"), 2048)) if v != want]
    for column, value, same, bad in (("spill", "13", False, 1), ("regs", "41", True, 1), ("regs", "41", False, 0), ("instr", "7", True, 1),
                                     ("flight", "1", True, 1), ("flight", "3", True, 0), ("kernel", "other", True, 2)):
        planted = made[:]
        planted[COLUMNS.index(column)] = value
        if len(compare([made], [planted], same)) != bad:
            wrong.append("%s %s" % (column, value))
    print("sass_table.py: " + (", ".join(wrong) if wrong else "as it should be"))
    return 1 if wrong else 0


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("programs", nargs="*", metavar="PROGRAM")
    p.add_argument("--check", action="store_true")
    p.add_argument("--update", action="store_true")
    p.add_argument("--self-test", action="store_true")
    o = p.parse_args()
    if o.self_test:
        return self_test()
    tools = [find("ptxas"), find("nvdisasm")]
    missing = [n for n, t in zip(("ptxas", "nvdisasm"), tools) if not t]
    if missing:
        print("skipped what ptxas makes of CUDA's kernels: no %s (PyPI: nvidia-cuda-nvcc, nvidia-cuda-nvdisasm)" % " and no ".join(missing))
        print("0 passed, 0 failed, 1 skipped")
        return 0 if o.check else 1
    if (o.check or o.update) and o.programs:
        sys.exit("sass_table.py: the table that is kept has its own choice of programs")
    made, version = table(tools, o.programs), release(tools[0])
    if o.update:
        with open(TABLE, "w", encoding="ascii", newline="\n") as f:
            f.write("# ptxas %s\n%s\n" % (version, "\n".join("\t".join(r) for r in [COLUMNS] + made)))
    elif o.check:
        with open(TABLE, encoding="ascii") as f:
            head, _, *lines = f.read().splitlines()
        worse = compare([l.split("\t") for l in lines], made, head == "# ptxas " + version)
        print("\n".join(worse) if worse else "%d kernels as in tests/sass_table.tsv (%s; here %s)" % (len(made), head[2:], version))
        return 1 if worse else 0
    else:
        widths = [max(len(r[i]) for r in [COLUMNS] + made) for i in range(len(COLUMNS))]
        for r in [COLUMNS] + made:
            print("  ".join(c.ljust(w) if i < 3 else c.rjust(w) for i, (c, w) in enumerate(zip(r, widths))).rstrip())
    return 0


if __name__ == "__main__":
    sys.exit(main())
