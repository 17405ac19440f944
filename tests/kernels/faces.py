#!/usr/bin/env python3
"""faces.py: compile every program of kernels/kernels.def as every GPU language that it has to be. Needs clang 16 or later.

  python3 tests/kernels/faces.py [FILTER]      only what has FILTER in its name, "kv_f16, ptx sm_61" for instance
  python3 tests/kernels/faces.py --self-test   plant mistakes, and prove that the right faces refuse them

Faces:  words    what compilers do not see: every pointer says its address space, no words of one language only
        opencl   OpenCL C 1.2 without any extension
        ptx      CUDA by clang, for both tiers; ptxas, where it is installed, then assembles that
        embedded the PTX in kernels_embed.h, which is what CUDA drivers get, by ptxas
        gcn      HIP by clang, for a chip of each generation
        hiprtc   HIP by AMD's own compiler, a program and chip each in a child process (hiprtc.c); where its library is
        metal    Metal as C++14, with the stand-in metal/metal_stdlib; "metal spaces" once more with real address spaces
Without DEEP=1, and without a FILTER, ptx, embedded, gcn, hiprtc and metal spaces are for the programs of SPREAD, since clang made all of
kernels_embed.h's PTX and other faces have all programs; embedded is for the oldest device or the newest.
DEEP=1: all programs, gcn for one of two chips, and hiprtc for one with waves of the other size; embedded for the oldest and the
newest device, and for all devices those of SPREAD.
Programs lie in build/kernels/NAME.cl, as drivers get them: line numbers in messages count there.
"""
import concurrent.futures, os, re, shutil, subprocess, sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
OUT = os.path.join(ROOT, "build", "kernels")
NO_SKIP = os.environ.get("INFER_TEST_NO_SKIP") == "1"
DEEP = os.environ.get("DEEP") == "1"
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, "tools"))
import embed_kernels

WARN = ["-Wall", "-Wextra", "-Werror", "-Wno-unused-function"]  # no program uses all of math.k


# ---- words: rules that compilers do not know ----------------------------------------------------------------------------

TYPES = r"(?:void|(?:unsigned |signed )?(?:char|short|int|long)|uchar|ushort|uint|ulong|float|struct \w+|\w+_args)"
POINTER = re.compile(r"\b((?:GLOBAL|LOCAL|PRIVATE) +)?((?:const +)?%s(?: +const)? *\*)" % TYPES)
WORDS = [
    (r"\b(double|half|(?:u?(?:char|short|int|long)|float)(?:2|3|4|8|16))\b", "has no place in the dialect: no doubles, halves, vectors"),
    (r"\b((?!__attribute__\(\(aligned)__\w+|get_(?:local|group|global)_\w+|(?:thread|block)(?:Idx|Dim)|metal|as_\w+|INFINITY|NAN|FLT_\w+)\b",
     "belongs to one language: use a word of dialect.h, or add one to all its faces"),
]


def words(text):
    """What is wrong, a line each."""
    text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group().count("\n"), text, flags=re.S)
    bad = [(m, "has no address space: say GLOBAL, LOCAL or PRIVATE") for m in POINTER.finditer(text) if not m.group(1)]
    bad += [(m, why) for pattern, why in WORDS for m in re.finditer(pattern, text)]
    return "".join("  line %d: '%s' %s\n" % (text.count("\n", 0, m.start()) + 1, m.group(m.lastindex), why) for m, why in bad)


# ---- compilers ----------------------------------------------------------------------------------------------------------

CHIPS = ("gfx90a", "gfx1100")  # DEEP: other programs in turn; two more by AMD's own compiler, see RTC_CHIPS
MORE_CHIPS = ("gfx803", "gfx900", "gfx906", "gfx908", "gfx942", "gfx1030", "gfx1151", "gfx1201")
MATRIX_CHIPS = ("gfx908", "gfx90a", "gfx942", "gfx1100", "gfx1151", "gfx1201")  # of them
SPREAD = ("base", "kv_f16", "q4_k")
MATRIX = ("matrix_q4_k", "matrix_bf16")  # for every chip that has such units
SPECIAL = re.compile(r"_q4_k$")  # and of each kind of special kernels
RTC_CHIPS = ("gfx1030", "gfx906")  # of those that ROCm 5.2 knows, in turn as well: a program meets both sizes of waves.
                                  # For others its compiler ends the process
MORE_RTC_CHIPS = ("gfx803", "gfx90a")


def in_spread(module, kind):
    return module.name in SPREAD + MATRIX or bool(kind.form and SPECIAL.search(module.name))


class Face:
    """A way to compile. args: between the compiler and the file. needs: what clang must have been built for. then: devices
    for which ptxas assembles the result. form, tier: which special kernels it is for, see KIND in kernels.def. few: some programs,
    unless DEEP asks for all; only: these programs even then, () means all."""
    def __init__(self, name, args, needs="", then=(), form="", tier=0, few=False, only=()):
        self.name, self.args, self.needs, self.then, self.form, self.tier, self.few, self.only = name, args, needs, then, form, tier, few, only

    def takes(self, module, kind):
        return module.name in (self.only or [module.name]) and (not kind.form or (self.form == kind.form and self.tier >= kind.tier))

    def takes_now(self, module, kind):
        """Without a FILTER."""
        return DEEP or not self.few or in_spread(module, kind)


def faces():
    opencl = ["-x", "cl", "-cl-std=CL1.2", "-fsyntax-only"]
    out = [Face("opencl", opencl + ["-Xclang", "-cl-ext=-all"]),
           Face("opencl dots", ["-x", "cl", "-cl-std=CL3.0", "--target=spir64-unknown-unknown", "-fsyntax-only", "-DINFER_DOT4"], few=True)]
    # one device each: those of newer ones get the embedded texts, see EMBEDDED
    for arch, feature, then in (("sm_61", "+ptx63", ("75",)), ("sm_80", "+ptx70", ("80",))):
        # a toolkit that is there would change what clang writes
        out.append(Face("ptx " + arch, ["-x", "cuda", "--cuda-path=/nonexistent", "--cuda-device-only", "--cuda-gpu-arch=" + arch,
                                        "--cuda-feature=" + feature, "-nocudainc", "-nocudalib", "-O2", "-S"], "nvptx64", then, "PTX", int(arch[3:]), few=True))
    for arch in CHIPS + MORE_CHIPS:
        out.append(Face("gcn " + arch, ["-x", "hip", "--cuda-device-only", "-nogpulib", "-nogpuinc", "--offload-arch=" + arch, "-O2",
                                        "-ffp-contract=off", "-S"], "amdgcn", form="HIP", tier=int(arch in MATRIX_CHIPS), few=True,
                        only=() if arch in CHIPS else (SPREAD if DEEP else SPREAD[-1:]) + MATRIX))
    metal = ["-fsyntax-only", "-D__METAL_VERSION__=240", "-isystem", os.path.join(HERE, "metal"), "-Wno-unknown-attributes"]
    out.append(Face("metal", ["-x", "c++", "-std=c++14", "--target=x86_64-unknown-linux-gnu", "-nostdinc", "-nostdinc++",
                              "-Wc++20-designator", "-Wc99-extensions"] + metal, "x86-64", (), "METAL", 99))
    out.append(Face("metal spaces", ["-x", "cl", "-cl-std=clc++1.0", "-Xclang", "-cl-ext=-all,+cl_khr_fp16", "-DMETAL_SPACES"] + metal,
                    "", (), "METAL", 99, few=True))
    return out


def call(command):
    p = subprocess.run(command, capture_output=True, text=True, errors="replace")
    return p.returncode == 0, "  %s\n%s" % (" ".join(command), p.stdout + p.stderr)


def find_clang():
    """A clang of LLVM, 16 or later; Apple's count differently and lack the targets."""
    for name in ("clang-19", "clang-18", "clang-17", "clang-16", "clang"):
        m = re.search(r"(?<!Apple )clang version (\d+)", call([name, "--version"])[1]) if shutil.which(name) else None
        if m and int(m.group(1)) >= 16:
            return name


NO_CLANG = "there is no clang of 16 or later"


def find_ptxas():
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH") or "/usr/local/cuda"
    return shutil.which("ptxas") or shutil.which("ptxas", path=os.path.join(home, "bin"))


def attempt(clang, ptxas, name, face):
    """Results of one compilation of build/kernels/NAME.cl and of what follows it: [(what, passed, the compilers' text)]."""
    made = os.path.join(OUT, "%s-%s" % (name, face.name.replace(" ", "-")))
    write = [] if "-fsyntax-only" in face.args else ["-o", made + ".s"]
    out = [("%s, %s" % (name, face.name),) + call([clang] + face.args + WARN + write + [os.path.join(OUT, name + ".cl")])]
    for device in face.then if ptxas and out[0][1] else ():
        out.append(("%s, %s, ptxas sm_%s" % (name, face.name, device),) +
                   call([ptxas, "-arch=sm_" + device, made + ".s", "-o", "%s-%s.cubin" % (made, device)]))
    return out


def compile_all(clang, ptxas, programs, jobs):
    """programs: name -> text; jobs: [(name, Face)]. A list of results for each job."""
    os.makedirs(OUT, exist_ok=True)
    for name, text in programs.items():
        with open(os.path.join(OUT, name + ".cl"), "w", encoding="ascii") as f:
            f.write(text)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return list(pool.map(lambda job: attempt(clang, ptxas, *job), jobs))


EMBEDDED = ("75", "80", "86", "89", "90", "100", "120")  # devices that ptxas of CUDA 13 knows, of those that are checked


def embedded_jobs(modules, kinds, only):
    """[(name of the module, its Ptx or None, device)]. PTX of tier 90a is for that device alone."""
    texts, out = embed_kernels.embedded_ptx(), []
    for i, m in enumerate(modules):
        tier = kinds[m.kind].ptx_tier()
        if not tier:
            continue
        devices = ["90a"] if tier == "90a" else [d for d in EMBEDDED if int(d) >= int(tier)]
        if m.name not in SPREAD or not DEEP:
            devices = devices[:1] + devices[1:][-1:]
        if not DEEP and not only:
            if not in_spread(m, kinds[m.kind]):
                continue
            devices = devices[i % 2:][:1] or devices
        for device in devices:
            if only in "%s, embedded, ptxas sm_%s" % (m.name, device):
                out.append((m.name, texts.get(m.name), device))
    return out


def assemble(ptxas, name, ptx, device):
    made = os.path.join(OUT, "%s-embedded-%s" % (name, device))
    with open(made + ".ptx", "wb") as f:
        f.write(ptx.plain if ptx else b"")
    return ("%s, embedded, ptxas sm_%s" % (name, device),) + call([ptxas, "-arch=sm_" + device, made + ".ptx", "-o", made + ".cubin"])


def in_turn(module, i, chip, chips):
    return chip not in chips or module.name in SPREAD + MATRIX or (DEEP and chip == chips[i % len(chips)])


class Count:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def result(self, what, ok, text):
        self.passed, self.failed = self.passed + bool(ok), self.failed + (not ok)
        if not ok:
            print("FAILED kernels: %s\n%s" % (what, "\n".join(text.splitlines()[:25])))

    def skip(self, what, why, n=1, allowed=False):
        print("skipped %s: %s" % (what, why))
        if NO_SKIP and not allowed:
            self.failed += n
        else:
            self.skipped += n

    def end(self):
        print("kernel faces: %d passed, %d failed, %d skipped" % (self.passed, self.failed, self.skipped))
        return 0 if self.passed + self.skipped and not self.failed else 1  # nothing at all: a FILTER that fits nothing


def check(only):
    count, modules, kinds = Count(), embed_kernels.modules(), embed_kernels.kinds()
    for file in sorted({f for m in modules for f in m.files if f.endswith(".k") and not f.startswith("special/")}):
        if only in file + ", words":
            with open(os.path.join(ROOT, "kernels", file), encoding="utf-8") as f:
                bad = words(f.read())
            count.result(file + ", words", not bad, bad)
    clang, ptxas = find_clang(), find_ptxas()
    embedded = embedded_jobs(modules, kinds, only)
    if embedded and not ptxas:
        count.skip("ptxas", "not installed", allowed=True)
    os.makedirs(OUT, exist_ok=True)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for r in pool.map(lambda job: assemble(ptxas, *job), embedded if ptxas else ()):
            count.result(*r)
    if not clang:
        count.skip("kernel faces", NO_CLANG)
        return count.end()
    targets, jobs = call([clang, "--print-targets"])[1], []
    for face in faces():
        mine = [(m.name, face) for i, m in enumerate(modules)
                if face.takes(m, kinds[m.kind]) and (only or face.takes_now(m, kinds[m.kind])) and in_turn(m, i, face.name[4:], CHIPS)
                and only in "%s, %s" % (m.name, face.name)]
        if mine and face.needs and not re.search(r"\b%s\b" % face.needs, targets):
            count.skip(face.name, "%s is not made for %s" % (clang, face.needs), len(mine))
        else:
            jobs += mine
    if not ptxas and not embedded and any(face.then for _, face in jobs):
        count.skip("ptxas", "not installed", allowed=True)
    for results in compile_all(clang, ptxas, {m.name: embed_kernels.module_text(m) for m in modules}, jobs):
        for r in results:
            count.result(*r)
    hiprtc(count, [(m.name, arch) for i, m in enumerate(modules) for arch in RTC_CHIPS + (MORE_RTC_CHIPS if (DEEP or only) and m.name in SPREAD else ())
                   if not kinds[m.kind].form and in_turn(m, i, arch, RTC_CHIPS) and only in "%s, hiprtc %s" % (m.name, arch)] +
           [(name, "gfx90a") for name in MATRIX if only in name + ", hiprtc gfx90a"])
    return count.end()


def hiprtc(count, jobs):
    """build/kernels/NAME.cl by AMD's compiler, as the driver calls it."""
    exe = os.path.join(OUT, "hiprtc")
    if not jobs:
        return
    built = call([os.environ.get("CC", "cc"), "-O1", "-Wall", "-Wextra", "-Werror", os.path.join(HERE, "hiprtc.c"), "-o", exe, "-ldl"])
    if not built[0]:
        return count.result("hiprtc.c", *built)
    if subprocess.run([exe]).returncode == 77:
        return count.skip("hiprtc", "no libhiprtc or libamdhip64 (Debian: libamdhip64-5 libhiprtc-builtins5 rocm-device-libs)", len(jobs))
    broken = os.path.join(OUT, "broken.cl")
    with open(broken, "w", encoding="ascii") as f:
        f.write("int broken = no_such_name;\n")
    ok, text = call([exe, broken, RTC_CHIPS[0]])
    count.result("a mistake is refused, hiprtc", not ok and "no_such_name" in text, text)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        made = pool.map(lambda job: call([exe, os.path.join(OUT, job[0] + ".cl"), job[1]]), jobs)
    for (name, arch), r in zip(jobs, made):
        count.result("%s, hiprtc %s" % (name, arch), *r)


# ---- self-test: a kernel that every face accepts, and mistakes in it -------------------------------------------------------

SAMPLE = """\
ARGS(sample) { uint n; float by; uint pad0, pad1; };
struct sample_pair { float v[2]; };
TABLE(float, sample_table, 2) = {1.0f, 2.0f};
FN float sample_read(GLOBAL const float *x, uint i) { return x[i]; }
FN float sample_first(LOCAL const float *part) { return part[0]; }
FN void sample_step(PRIVATE float *sum, float x) { *sum += x; }
KERNEL(sample, 64)(GBUF(const float, x, 0), GBUF(float, y, 1), GARGS(sample, a, 2) GTID) {
    LOCAL_ARRAY(float, part, 64);
    LOCAL_ARRAY(struct sample_pair, pairs, 64);
    float sum = 0.0f;
    struct sample_pair pair;
    GLOBAL const float *from = x;
    pair.v[0] = pair.v[1] = from[LID];
    pairs[LID] = pair;
    part[LID] = sample_read(from, LID);
    BARRIER();
    pair = pairs[63 - LID];
    sample_step(&sum, sample_first(part) + pair.v[1]);
    y[GROUP_X * 64 + LID] = SQRT(sum) * a.by + sample_table[a.n & 1];
}
"""
PLANTED = [  # mistake, in SAMPLE this, becomes that; faces that refuse it
    ("no GLOBAL at a parameter", "read(GLOBAL const", "read(const", "words|opencl"),
    ("no LOCAL at a parameter", "first(LOCAL const", "first(const", "words|opencl"),
    ("no PRIVATE at a parameter", "step(PRIVATE float", "step(float", "words"),
    ("no GLOBAL at a variable", "GLOBAL const float *from", "const float *from", "words|opencl"),
    ("LOCAL pointer to a buffer", "GLOBAL const float *from", "LOCAL const float *from", "opencl|metal spaces"),
    ("private pointer to a buffer", "GLOBAL const float *from", "PRIVATE const float *from", "opencl|metal spaces"),
    ("cast to another space", "from = x;", "from = (GLOBAL const float *)part;", "opencl|metal spaces"),
    ("call with another space", "sample_step(&sum,", "sample_step(part,", "opencl|metal spaces"),
    ("write to a table", "pairs[LID] = pair;", "sample_table[0] = 1.0f;", "opencl|metal|metal spaces"),
    ("write to a const buffer", "BARRIER();", "BARRIER(); x[0] = 1.0f;", "opencl|metal|metal spaces|ptx sm_61|gcn gfx906"),
    ("pointer to another type", "GLOBAL const float *from = x;", "GLOBAL const uint *from = x;",
     "opencl|metal|metal spaces|ptx sm_61|gcn gfx906"),
    ("no semicolon", "BARRIER();\n", "BARRIER()\n", "opencl|metal|metal spaces|ptx sm_61|gcn gfx906"),
    ("unknown function", "SQRT(sum)", "sqrtff(sum)", "opencl|metal|metal spaces|ptx sm_61|gcn gfx906"),
    ("function of one language", "SQRT(sum)", "rsqrt(sum)", "metal|ptx sm_61|gcn gfx906"),
    ("word of one language", "LID] = pair", "get_local_id(0)] = pair", "words|metal|ptx sm_61|gcn gfx906"),
    ("vector", "float sum = 0.0f;", "float4 v; float sum = 0.0f;", "words|metal"),
    ("double", "float sum = 0.0f;", "double sum = 0.0f;", "words|opencl"),
    ("double constant", "sum = 0.0f;", "sum = 0.1;", "opencl"),
    ("LID in a function", "{ return x[i]; }", "{ return x[i + LID]; }", "metal|metal spaces"),
    ("local array in a function", "{ return x[i]; }", "{ LOCAL_ARRAY(float, t, 4); return x[i] + t[i]; }", "opencl|metal spaces"),
    ("initialiser with names", "struct sample_pair pair;", "struct sample_pair pair = {.v = {0.0f, 0.0f}};", "metal"),
    ("compound literal", "pairs[LID] = pair;", "pairs[LID] = (struct sample_pair){{0.0f, 0.0f}};", "metal"),
    ("name that is a word of Metal", "sum", "thread", "metal|metal spaces"),
    ("name that is a word of OpenCL", "sum", "kernel", "opencl|metal|metal spaces"),
    ("unused variable", "float sum = 0.0f;", "float sum = 0.0f; uint left;", "opencl|metal|metal spaces|ptx sm_61|gcn gfx906"),
    ("no instruction of PTX", "BARRIER();", '__asm__("foo.f32 %0;" : "=f"(sum));', "ptx sm_61, ptxas sm_75"),
]


def self_test():
    count, clang, ptxas = Count(), find_clang(), find_ptxas()
    if not clang:
        count.skip("kernel faces", NO_CLANG)
        return count.end()
    by_name, prelude = {f.name: f for f in faces()}, embed_kernels.module_text(embed_kernels.modules()[0])
    programs = {"sample": prelude + SAMPLE}
    wanted = [("sample", f, None) for f in by_name]  # program, face, mistake
    count.result("sample, words", not words(SAMPLE), words(SAMPLE))
    for i, (mistake, this, that, refused) in enumerate(PLANTED):
        if not DEEP:
            refused = "|".join(face for face in refused.split("|") if not face.startswith(("ptx", "gcn")) or mistake == "no semicolon")
        text, name = SAMPLE.replace(this, that), "planted%d" % i
        programs[name] = prelude + text
        for face in refused.split("|"):
            if not face:
                continue
            if text == SAMPLE or face == "words":
                count.result("planted '%s' is accepted as words" % mistake, text != SAMPLE and words(text), "")
            elif "ptxas" in face and not ptxas:
                count.skip("ptxas", "not installed", allowed=True)
            else:
                wanted.append((name, face, mistake))
    results = compile_all(clang, ptxas, programs, [(name, by_name[face.split(",")[0]]) for name, face, _ in wanted])
    for (name, face, mistake), made in zip(wanted, results):
        if mistake:
            refused = [text for what, ok, text in made if what == "%s, %s" % (name, face) and not ok]
            count.result("planted '%s' is accepted as %s" % (mistake, face), refused, "")
        for r in made if not mistake else ():
            count.result(*r)
    return count.end()


def main():
    if sys.argv[1:] in (["-h"], ["--help"]):
        return print(__doc__)
    if "--self-test" in sys.argv[1:]:
        return self_test()
    return check(" ".join(sys.argv[1:]))


if __name__ == "__main__":
    sys.exit(main())
