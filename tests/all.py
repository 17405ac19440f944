#!/usr/bin/env python3
"""all.py: run groups of tests and add up what they report. The Makefile builds; this runs.

  python3 tests/all.py GROUP...      groups: check test gpu san cross fuzz examples cli kernels; or a part: metal, faces, sources, ...

DEEP=1 (`make deep`): what takes hours in all: every kernel in every language, with all shapes on every double, under every sanitizer.
A step passes when it exits with 0; steps that print "N passed, N failed" count as that many. The totals end the output and
go to build/totals/GROUP. INFER_TEST_DATA names large reference data; without it the tests that need it are skipped by name.
"""
import glob, os, re, shlex, shutil, subprocess, sys, threading, time
import wasm_page

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
os.chdir(ROOT)
if os.path.exists("/etc/OpenCL/vendors/pocl.icd"): # the implementation that is always the same, where there are several
    os.environ.setdefault("OCL_ICD_VENDORS", "/etc/OpenCL/vendors/pocl.icd")
os.environ["XDG_CACHE_HOME"] = os.path.join(ROOT, "build", "cache") # what the program and pocl keep is not the user's
os.environ["POCL_CACHE_DIR"] = os.path.join(ROOT, "build", "cache", "pocl") # also where tests have a home of their own
PY = sys.executable
CC = os.environ.get("CC", "cc")
CXX = next((c for c in (os.environ.get("CXX"), "c++", "g++", "clang++") if c and shutil.which(c)), None)
LIBS = ["-lm", "-lpthread"] + (["-ldl"] if sys.platform.startswith("linux") else [])
MODEL = "tests/data/models/stories260K.F32.gguf"
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
COUNTS = re.compile(r"(\d+) passed, (\d+) failed(?:, (\d+) skipped)?")
DEEP = os.environ.get("DEEP") == "1"
if not DEEP: # POCL takes minutes to optimise all kernels, and tests run them on little
    os.environ.setdefault("POCL_EXTRA_BUILD_FLAGS", "-cl-opt-disable")
CLANG = next((c for c in ("clang-19", "clang-18", "clang-16", "clang", "clang-14") if shutil.which(c)), None)


def run(command, env):
    """Exit status, output, and the seconds of CPU that the program and those that it waited for took (0 where nothing tells)."""
    p = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                         errors="replace", env=env)
    with p.stdout:
        text = p.stdout.read()
    if not hasattr(os, "wait4"):
        return p.wait(), text, 0
    _, status, used = os.wait4(p.pid, 0)
    p.returncode = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    return p.returncode, text, used.ru_utime + used.ru_stime


class Totals:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.bad, self.times = [], []
        self.lock = threading.Lock()

    def step(self, name, command, env=None):
        """Run a command; then show its output behind a bar and count what it says. Steps may run side by side."""
        start = time.time()
        try:
            code, text, cpu = run(command, dict(os.environ, **(env or {})))
        except OSError as e:
            code, text, cpu = 127, str(e), 0
        with self.lock:
            print("== %s" % name)
            for line in text.splitlines():
                if "# Uses: " not in line: # libFuzzer's dictionary
                    print("| " + line)
            return self.count(name, code, text, time.time() - start, cpu)

    def count(self, name, code, text, seconds, cpu):
        counts = COUNTS.findall(text)
        passed, failed, skipped = (sum(int(c[i] or 0) for c in counts) for i in range(3))
        if code and not failed:
            failed = 1
        elif not counts:
            passed = 1
        if failed:
            lines = text.splitlines()
            said = [line for line in lines[:-8] if line.startswith(("FAIL", "  FAIL")) or re.search("ERROR: |rror: ", line)]
            self.bad.append("%s (exit status %d)" % (name, code) + "".join("\n    " + line for line in said[:20] + lines[-8:]))
        self.passed, self.failed, self.skipped = self.passed + passed, self.failed + failed, self.skipped + skipped
        self.times.append((cpu, name))
        print("   %s: %s (%.0f s, CPU %.0f s)" % (name, "FAILED" if failed else "ok", seconds, cpu), flush=True)
        return code == 0

    def skip(self, name, why):
        with self.lock:
            self.count_skip(name, why)

    def count_skip(self, name, why):
        if os.environ.get("INFER_TEST_NO_SKIP") == "1":
            self.failed += 1
            self.bad.append(name)
        else:
            self.skipped += 1
        print("skipped %s: %s" % (name, why), flush=True)


def together(t, *groups, waits=()):
    """Groups of steps that do not need each other, as many at a time as there are cores, long ones first; beside them `waits`, a group that
    waits more than it computes."""
    errors = []

    def work(todo):
        while True:
            with t.lock:
                if not todo:
                    return
                group = todo.pop(0)
            try:
                group(t)
            except Exception as e: # a mistake in this file: it must not look like a pass
                errors.append(e)
    groups = list(groups)
    threads = [threading.Thread(target=work, args=(todo,)) for todo in [groups] * min(len(groups), CORES) + [list(waits)]]
    for x in threads:
        x.start()
    for x in threads:
        x.join()
    if errors:
        raise errors[0]


def python_with(package):
    """This Python, or another that PATH has, whichever has the package; None = none."""
    for python in [PY] + [os.path.join(folder, "python3") for folder in os.environ.get("PATH", "").split(os.pathsep)]:
        if os.path.exists(python) and subprocess.run([python, "-c", "import " + package], capture_output=True).returncode == 0:
            return python
    return None


def sources(t):
    t.step("kernels_embed.h", [PY, "tools/embed_kernels.py", "--check"])
    t.step("infer.h", [PY, "amalgamate.py", "--check"])
    t.step("joined lines", [PY, "tests/test_compact.py"])
    t.step("page_embed.h", [PY, "tools/embed_page.py", "--check"])
    t.step("style", [PY, "tools/check_style.py"])
    t.step("style self-test", [PY, "tools/check_style.py", "--self-test"])
    made = [p for p in ("build/impl.o",) if os.path.exists(p) and os.path.getmtime(p) > os.path.getmtime("infer.h")]
    t.step("symbols", ["sh", "tools/symbols.sh"] + made)
    t.step("bench_peers", [PY, "tests/test_bench_peers.py"])
    pre_tokenizers(t)
    t.step("bench_count self-test", [PY, "tests/bench_count.py", "--self-test"])


def pre_tokenizers(t):
    regex = python_with("regex")
    if regex:
        t.step("pre-tokenizers against their expressions", [regex, "tests/pre_splits.py", "--check", "500"])
    else:
        t.skip("pre-tokenizers against their expressions", "the Python package regex is not installed")


def group_check(t):
    """The fast part."""
    sources(t)
    t.step("compile", [PY, "tests/compile/run.py", "--quick"])
    t.step("tests on src/", ["build/check"])


# What devices compute: kernels, wrong ones on purpose, whole models. `make gpu` has it on its doubles, but for all models of gpu_model_quants,
# whose types gpu_ops has: `make deep`. The rest is minutes of a model's life, also there.
DEVICES = "gpu_ops,gpu_few,gpu_check_wrong,gpu_check_covers,gpu_model_models,gpu_model_quants,gpu_model_sample,gpu_model_rounded"
DEVICE_LIVES = DEVICES + ",gpu_model_release,gpu_model_oom,gpu_model_state_kv"


def group_test(t):
    """infer.h, which is what src/ gives (sources checks that): the tests on src/ are those of `make check`. A few models run on OpenCL,
    all with DEEP=1; `make gpu` has more, on its doubles."""
    tests = [lambda t: t.step("tests on infer.h", ["build/check-h"], env={} if DEEP else {"CHECK_WITHOUT": DEVICE_LIVES, "CHECK_GPU_EVERY": "64"})]
    if not DEEP:
        tests.append(lambda t: t.step("GPU kernels, some shapes", ["build/check-h", "gpu_ops"], env={"CHECK_EMULATED": "1"}))
    together(t, group_cli, *tests, lambda t: t.step("compile", [PY, "tests/compile/run.py", "--native"]), builds, group_examples, sources,
             *[without_gpus] * DEEP, waits=[cli_waits])


def builds(t):
    """Build files and bindings."""
    t.step("build files, self-test", [PY, "tests/build/run.py", "--self-test"])
    t.step("build files", [PY, "tests/build/run.py"])
    t.step("declarations", [PY, "tests/test_declarations.py"])


def group_gpu(t):
    """Kernels in every language, and each driver on a stand-in for what it opens."""
    cuda = cuda_parts(t)
    together(t, hip_double, *cuda[:1], metal_and_fresh, faces, *cuda[1:])


def metal_and_fresh(t):
    metal(t)
    t.step("what differs on machines that have less", [PY, "tests/fresh.py"])


def without_gpus(t):
    exe = "build/check-nogpu"
    if t.step("compile without GPUs", [CC, "-std=c11", "-O1", "-DINFER_QUIET", "-DINFER_NO_GPU", "-DCHECK_INFER_H", "-Itests",
                                       "tests/check.c", "-o", exe] + LIBS):
        t.step("tests without GPUs", [exe], env={"CHECK_EMULATED": "1", "CHECK_WITHOUT": TEXTS})


def group_kernels(t):
    faces(t)
    for part in OCLGRIND:
        oclgrind(t, *part)


def faces(t):
    """GPU kernels in every language."""
    t.step("embed_kernels self-test", [PY, "tools/embed_kernels.py", "--self-test"])
    t.step("kernel faces, self-test", [PY, "tests/kernels/faces.py", "--self-test"])
    t.step("kernel faces", [PY, "tests/kernels/faces.py"])
    t.step("sass_table self-test", [PY, "tools/sass_table.py", "--self-test"])
    t.step("what ptxas makes of CUDA's kernels", [PY, "tools/sass_table.py", "--check"])


def oclgrind(t, name, suites, but=None, written=True):
    """Tests of GPU kernels on a machine that sees races, and reads and writes where there is nothing."""
    icd = next(iter(glob.glob("/usr/lib/oclgrind/liboclgrind-rt-icd.so") + glob.glob("/usr/lib/*/oclgrind/liboclgrind-rt-icd.so")), None)
    if not icd:
        t.skip(name + " under oclgrind", "oclgrind is not installed")
        return
    log = os.path.abspath("build/oclgrind-%s.log" % name.replace(" ", "-"))
    if os.path.exists(log):
        os.remove(log)
    t.step(name + " under oclgrind", ["build/check-h", suites],
           env=dict({"CHECK_WITHOUT": but} if but else {}, OCL_ICD_VENDORS=icd, OCLGRIND_DATA_RACES="1", OCLGRIND_CHECK_API="1",
                    OCLGRIND_LOG=log, OCLGRIND_UNINITIALIZED="01"[written], CHECK_EMULATED="1"))
    t.step("oclgrind's log of %s is empty" % name,
           ["sh", "-c", 'test -f "$1" || { echo "there is no log"; exit 1; }; head -40 "$1"; test ! -s "$1"', "sh", log])


# Tests of kernels that oclgrind runs, in parts that take some minutes each: name, tests, those of them that another part has, and whether
# memory that is read has to be written before: oclgrind 21.10 is wrong about that for what attention leaves between two launches.
# "halves" is of tensor cores and "moe_whole" of a kernel of CUDA's, which OpenCL has none of.
OCLGRIND = ((("kernels", "gpu_ops", "attention,halves,ops_check,moe_whole"), ("the check of devices", "gpu_ops_check", None, False),
             ("attention of each cache type", "gpu_ops_attention_types", None, False),
             ("attention", "gpu_ops_attention", "attention_types,halves", False)) if DEEP else
            (("kernels", "gpu_ops", "attention,halves,ops_check,moe,matmul_types,rounded,wkv,step,compress,index,store,embed,begin,delta,ssm,conv"),))


# The kernels are one text: `make deep` runs all shapes, on every double and on OpenCL.
FEW_SHAPES = {} if DEEP else {"CHECK_EMULATED": "1"}


# Whole models on the doubles: one row per kind of machinery, what a model's life is made of, and wrong kernels, which are not taken.
DOUBLE_MODELS = ("gpu_arch_llama-", "gpu_arch_gemma3-", "gpu_arch_gpt2-", "gpu_arch_qwen3moe-", "gpu_arch_qwen35-", "gpu_arch_mamba-",
                 "gpu_arch_falcon-h1-", "gpu_arch_plm-", "gpu_arch_gemma4-", "gpu_arch_kimi-linear-", "gpu_arch_rwkv7-", "gpu_arch_llama4-",
                 "gpu_arch_deepseek4-", "gpu_arch_minimax-m3-", "gpu_arch_qwen4exp-", "gpu_arch_bert-", "gpu_arch_modern-bert-", "gpu_arch_t5-",
                 "test_gpu_model", "test_gpu_adapters", "test_gpu_queue", "test_gpu_media", "test_gpu_record", "gpu_model_models/stories260K", "test_gpu_check", "test_gpu_verdict")
# Those of drivers whose kernels another one runs: their own way with memory, queues and programs.
DRIVER_MODELS = DOUBLE_MODELS if DEEP else ("gpu_arch_llama-", "gpu_arch_qwen3moe-", "gpu_arch_kimi-linear-", "gpu_arch_t5-", "test_gpu_model_state",
                                            "test_gpu_model_memory", "test_gpu_queue", "test_gpu_media", "test_gpu_record", "gpu_model_models/stories260K", "test_gpu_verdict")


def hip_double(t):
    """HIP on a double of AMD's runtime and compiler: tests/drivers/hip/README.md."""
    clang = next((c for c in ("clang++-19", "clang++-18", "clang++-17", "clang++-16") if shutil.which(c)), None)
    here, library = os.path.abspath("tests/drivers/hip"), os.path.abspath("build/drivers/hip")
    if not sys.platform.startswith("linux") or not clang:
        t.skip("HIP on its double", "Linux and a clang++ of 16 to 19 are needed")
        return
    os.makedirs(library, exist_ok=True)
    if not t.step("compile the HIP double", [CC, "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC",
                                             '-DFAKE_HIP_HERE="%s"' % here, here + "/fake_hip.c", here + "/fake_hiprtc.c",
                                             "tests/drivers/fibers.c", "-o", library + "/libamdhip64.so.7", "-ldl", "-lpthread"]):
        return
    env = {"LD_LIBRARY_PATH": library, "OCL_ICD_VENDORS": "none", "CHECK_BACKEND": "hip", "FAKE_HIP_CXX": clang}
    sampled = dict(env, CHECK_EMULATED="1")
    t.step("HIP double: ops, waves of 32", ["build/check-h", "gpu_ops" if DEEP else "gpu_ops_attention,gpu_verdict_special"], env=dict(env, **FEW_SHAPES))
    t.step("HIP double: ops, waves of 64, two devices", ["build/check-h", "gpu_ops"],
           env=dict(env, FAKE_HIP_DEVICES="2", FAKE_HIP_ARCH="gfx90a:sramecc+:xnack-", CHECK_EMULATED="1"))
    # matrix units as other generations have them: RDNA 4, and MI100 for its BF16. A chip's programs take two minutes to compile, those of a
    # Q8_0 model, whose wrong and right kernels the second test takes, a few seconds; so one chip alone, above, takes all types
    for chip in ("gfx1201", "gfx908"):
        t.step("HIP double: matrix units of " + chip, ["build/check-h", "gpu_ops_rounded,gpu_ops_moe_halves" if DEEP else "gpu_verdict_special"],
               env=dict(sampled, FAKE_HIP_ARCH=chip))
    for name in DRIVER_MODELS:
        t.step("HIP double: models, " + name, ["build/check-h", name], env=sampled)
    t.step("HIP double: calls that fail", [PY, "tests/drivers/hip/faults.py", "build/infer", library], env=env)


def metal(t):
    """The driver of Metal, and the kernels as Metal programs, on a double of Metal: see tests/drivers/metal/fake_metal.c."""
    if not any(shutil.which(c) for c in ("clang++-19", "clang++-18", "clang++-17", "clang++-16", "g++")):
        t.skip("Metal's double", "there is no clang++ of 16 or later and no g++")
        return
    os.makedirs("build/metal", exist_ok=True)
    lib, mistakes, exe, fibers = ["build/metal/" + name for name in ("libMetal.so", "fake_metal_test", "check-metal", "fibers_test")]
    strict = [CC, "-std=gnu99", "-O2", "-g", "-Wall", "-Wextra", "-Wshadow", "-Werror"]
    double = "tests/drivers/metal/fake_metal"
    if t.step("compile fibers", strict + ["tests/drivers/fibers_test.c", "tests/drivers/fibers.c", "-o", fibers, "-lpthread"]):
        t.step("fibers", [fibers])
    t.step("Metal programs for this computer, self-test", [PY, "tests/drivers/metal/msl_host.py", "--self-test"])
    if not t.step("compile Metal's double", strict + ["-shared", "-fPIC", double + ".c", "tests/drivers/fibers.c", "-o", lib, "-ldl", "-lpthread"]):
        return
    if t.step("compile planted mistakes", strict + [double + "_test.c", "-o", mistakes, "-ldl"]):
        t.step("mistakes that Metal's double sees", [mistakes, lib])
    if not t.step("compile tests on Metal's double", [CC, "-std=c11", "-O1", "-DINFER_QUIET", "-DINFER_NO_SIMD", "-Itests", "tests/check.c",
                                                      '-DINFER__METAL_LIBRARY="./%s"' % lib, "-o", exe] + LIBS):
        return
    on = {"CHECK_BACKEND": "metal"}
    t.step("Metal's driver", [exe, "test_metal"], env=on)
    t.step("kernels as Metal programs", [exe, "gpu_ops"], env=dict(on, **FEW_SHAPES))
    t.step("kernels as Metal programs, memory of its own, no matrix units", [exe, "gpu_ops" if DEEP else "gpu_ops_rounded"],
           env=dict(on, FAKE_METAL_DEVICES="d", CHECK_EMULATED="1"))
    for name in DRIVER_MODELS:
        t.step("models on Metal's double, " + name, [exe, name], env=dict(on, CHECK_EMULATED="1"))
def cuda_library(t):
    """The stand-in for libcuda, and what tests on it need to find it; None = there is none."""
    if not sys.platform.startswith("linux"):
        t.skip("the CUDA double", "it is a library of Linux")
        return None
    if not t.step("build the CUDA double", ["make", "doubles"]):
        return None
    return {"LD_LIBRARY_PATH": os.path.abspath("build/drivers/cuda"), "OCL_ICD_VENDORS": "none", "CHECK_BACKEND": "cuda"}


def cuda_double(t):
    """CUDA's driver and the shipped PTX on a stand-in for libcuda: tests/drivers/cuda/README.md."""
    for part in cuda_parts(t):
        part(t)


def cuda_parts(t):
    """The halves of cuda_double, which may run beside each other, since the library is built here; [] without it."""
    env = cuda_library(t)
    return [lambda t: cuda_models(t, env), lambda t: cuda_checks(t, env)] if env else []


def cuda_models(t, env):
    exe = "build/drivers/cuda/test_double"
    if t.step("compile its tests", [CC, "-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "tests/drivers/cuda/test_double.c", "-o", exe] + LIBS):
        t.step("the CUDA double", [exe, "build/drivers/cuda/libcuda.so.1"])
    for capability, checked in (("61", {}), ("80", {} if DEEP else {"FAKE_CUDA_CHECK": "1"})):
        t.step("CUDA double: ops on capability %s%s" % (capability, ", every access checked" if checked else ""), ["build/check-h", "gpu_ops"],
               env=dict(env, FAKE_CUDA_CAPABILITY=capability, **dict(FEW_SHAPES if capability == "61" or checked else {}, **checked)))
        for name in DOUBLE_MODELS if capability == "80" else DRIVER_MODELS if DEEP else DRIVER_MODELS[:1]:
            t.step("CUDA double: models on capability %s, %s" % (capability, name), ["build/check-h", name],
                   env=dict(env, FAKE_CUDA_CAPABILITY=capability, CHECK_EMULATED="1"))
    if DEEP:
        t.step("CUDA double: ops, every access checked", ["build/check-h", "gpu_ops"], env=dict(env, FAKE_CUDA_CHECK="1", CHECK_EMULATED="1"))


def cuda_checks(t, env):
    # every kernel beside the CPU: a launch that fails; a special program that is refused, which others stand in for; well; one that is needed is refused
    checks = [("cuLaunchKernel:3=719", 1, "FAILED"), ("cuModuleLoadDataEx:4=209", 0, "the generic program runs instead")]
    checks += [(None, 0, " ok "), ("cuModuleLoadDataEx:2=209", 1, "not built")] * DEEP
    for fail, status, want in checks:
        t.step("infer devices --check on the CUDA double%s" % (", " + fail if fail else ""),
               ["sh", "-c", 'out=$(build/infer devices --check); status=$?; echo "$out" | grep -v " ok " | head -6; echo "status $status"; '
                'test $status = %d && echo "$out" | grep -q "%s"' % (status, want)],
               env=dict(env, FAKE_CUDA_CAPABILITY="80", **({"FAKE_CUDA_FAIL": fail} if fail else {})))
    # by mma.sync; by wgmma; capability 7.5 has programs of its own
    for capability, names in (("75", ("gpu_ops_rounded", "gpu_ops_moe_halves")), ("80", ("gpu_ops_rounded", "gpu_ops_moe_halves") * DEEP + ("test_gpu_few",)), ("90", ("gpu_ops_rounded", "gpu_ops_moe_halves"))):
        for name in names:
            t.step("CUDA double: tensor cores of capability %s, every access checked, %s" % (capability, name), ["build/check-h", name],
                   env=dict(env, FAKE_CUDA_CAPABILITY=capability, FAKE_CUDA_CHECK="1", **FEW_SHAPES))


# Hosts: the headers that they need, options of the compiler, libraries, and what comes out if it is no program.
HOSTS = {"sqlite_functions": (["sqlite3.h"], [], ["-lsqlite3"], None),
         "lua_module": (["lauxlib.h"], ["-I/usr/include/lua5.4", "-shared", "-fPIC"], [], "infer.so")}


def host_lacks(name):
    """Why an example for a host cannot be built or run here; "" = it can."""
    headers, flags, _, _ = HOSTS.get(name, ([], [], [], None))
    for header in headers:
        if subprocess.run([CC, "-E"] + flags + ["-include", header, "-x", "c", os.devnull], capture_output=True).returncode:
            return "there is no %s" % header
    return "there is no lua5.4" if name == "lua_module" and not shutil.which("lua5.4") else ""


def group_examples(t):
    """Every example (ONLY=NAME: that one) compiles and runs, with the arguments that its own comment shows: ./NAME model.gguf ...
    The first is compiled as it stands, library and all; the others are linked with one build of the library."""
    os.makedirs("build/examples", exist_ok=True)
    found = [p for p in sorted(glob.glob("examples/*.c") + glob.glob("examples/*.cpp") + glob.glob("examples/host/*.c"))
             if os.environ.get("ONLY", "") in p]
    if not found:
        return
    t.step("the library for Python", [CC, "-shared", "build/impl.o", "-o", "build/examples/libinfer.so"] + LIBS)
    for path in found:
        name, kind = os.path.splitext(os.path.basename(path))
        exe = "build/examples/" + name
        with open(path, encoding="utf-8") as f:
            text = f.read()
        _, flags, libs, made = HOSTS.get(name, (None, [], [], None))
        lacks = host_lacks(name)
        if lacks:
            t.skip(path, lacks)
            continue
        if made:
            exe = "build/examples/" + made
        source = "build/examples/" + name
        if name == "hello":
            ok = t.step("compile " + path, [CC, "-std=c99", "-O0", "-DINFER_QUIET", "-Wall", "-Wextra", "-Werror", path, "-o", exe] + LIBS)
        elif kind == ".c":
            with open(source + ".c", "w", encoding="utf-8") as f:
                f.write("#line 1 \"%s\"\n" % path + re.sub("^#define INFER_IMPLEMENTATION$", "", text, flags=re.M))
            ok = t.step("compile " + path, [CC, "-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-I" + os.path.dirname(path)] + flags +
                        [source + ".c", "build/impl.o", "-o", exe] + libs + LIBS)
        else:
            if not CXX:
                t.skip(path, "there is no C++ compiler")
                continue
            ok = t.step("compile " + path, [CXX, "-O1", "-Wall", "-Wextra", "-I.", path, "build/impl.o", "-o", exe] + LIBS)
        if not ok or made:
            continue
        run = re.search(r"\./%s +(.*?) *(?:\*/.*)?$" % re.escape(name), text, re.M)
        args = shlex.split(run.group(1)) if run else ["model.gguf"]
        if args[0].endswith(".gguf") and args[0] != "model.gguf":
            continue # a model of another kind: tests/examples.sh has what can be shown without it
        t.step("run " + path, [exe] + [MODEL if a == "model.gguf" else a for a in args])
    t.step("what examples print", ["sh", "tests/examples.sh"])


WAITS = ("test_map.py", "test_mpi.py", "test_serve_page.py", "test_terminal.py") # for jobs, ranks that die, a browser, keys


def cli_steps(t, waiting):
    for path in sorted(glob.glob("tests/cli/*.py")):
        name = os.path.basename(path)
        if name.startswith(("test", "cli")) and (name in WAITS) == waiting:
            t.step(path, [PY, path, "build/infer"])


def group_cli(t):
    cli_steps(t, False)


def cli_waits(t):
    cli_steps(t, True)


def group_san(t):
    """The tests under AddressSanitizer + UndefinedBehaviorSanitizer, ThreadSanitizer, MemorySanitizer and valgrind, the GPU kernels under oclgrind."""
    tsan = {"TSAN_OPTIONS": "halt_on_error=1", "CHECK_EMULATED": "1", "CHECK_GPU_EVERY": "64", "CHECK_WITHOUT": ",".join([TEXTS, ONE_THREAD] + [DEVICES, "queue_same,cache_window,session_save,session_memory"] * (not DEEP))}
    deep = "-deep" if DEEP else "" # as the Makefile calls them
    asan = {"ASAN_OPTIONS": "detect_leaks=1:allocator_may_return_null=1", "LSAN_OPTIONS": "suppressions=" + os.path.abspath("tests/lsan.txt"), "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1"}
    few = {} if DEEP else {"CHECK_EMULATED": "1", "CHECK_GPU_EVERY": "64"}
    together(t, lambda t: t.step("ASan and UBSan", ["build/check-asan" + deep], env=dict(asan, **dict(few, CHECK_WITHOUT=",".join(["gpu"] + [SAME_READS] * (not DEEP))))),
             uninitialised,
             lambda t: t.step("ASan and UBSan, GPUs", ["build/check-asan" + deep, "gpu"],
                              env=dict(asan, **dict(few, CHECK_EMULATED="1", **({} if DEEP else {"CHECK_WITHOUT": DEVICES})))),
             lambda t: t.step("TSan", ["build/check-tsan" + deep] + [SHARED] * (not DEEP), env=tsan),
             *[lambda t, part=part: oclgrind(t, *part) for part in OCLGRIND])


def uninitialised(t):
    """Reads of memory that was never written, which ASan does not see. MSan: files, texts, models and sessions, computed in plain C
    (it does not know all vector instructions); with DEEP=1 also clang's UBSan, which sees more than gcc's, and where the memory came from.
    valgrind: the vector code, to AVX2."""
    if CLANG and sys.platform.startswith("linux"):
        exe = "build/check-msan"
        if t.step("compile for MSan", [CLANG, "-std=c11", "-g1", "-O1", *(["-fsanitize=memory,undefined", "-fsanitize-memory-track-origins=1"] if DEEP
                                       else ["-fsanitize=memory"]), "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-DINFER_QUIET", "-DINFER_NO_GPU",
                                       "-DINFER_NO_SIMD", "-Itests", "tests/check.c", "-o", exe] + LIBS):
            t.step("MSan sees a planted mistake", ["sh", "-c", '"$1" planted 2>&1 | grep use-of-uninitialized-value', "sh", exe])
            t.step("MSan", [exe], env={"CHECK_EMULATED": "1", "CHECK_WITHOUT": ",".join([TEXTS] + [SAME_READS] * (not DEEP))})
    else:
        t.skip("MSan", "clang is not installed")
    if not shutil.which("valgrind"):
        t.skip("vector code under valgrind", "valgrind is not installed")
        return
    if t.step("compile what counts instructions", ["make", "-s", "build/bench_count"]):
        t.step("instructions of products, by type", [PY, "tests/bench_count.py", "--limit", "40"])
    exe = "build/check-vectors"
    if t.step("compile vector code for valgrind", [CC, "-std=c11", "-g", "-O1", "-DINFER_QUIET", "-DINFER_NO_GPU", "-Itests",
                                                   '-DCHECK_FILE="cpu_suites.c"', "-DCHECK_SUITE=suite_cpu", "tests/check.c", "-o", exe] + LIBS):
        t.step("vector code under valgrind", ["valgrind", "-q", "--error-exitcode=9", "--undef-value-errors=yes", exe, "int8_unpack"],
               env={"CHECK_EMULATED": "1"})


# Sweeps over texts, masks and budgets, and a text of 8,300 positions, that take minutes where instructions are interpreted, and depend on none of them:
# this computer runs them, and most of them under ASan.
TEXTS = ("grammar_masks_large,grammar_hostile,kinds_hostile,pretokenizer_hostile,tokenizer_hostile,test_marks,chat_replies_by_template,test_budget,"
         "gpu_check_covers,gpu_cuda_modules,gpu_special,gpu_ptx,gpu_verdict_hostile,hostile_keys_references,"
         "arch_llama4-chunk,constrained_generate,sampler_top,hostile_keys_as_saved,hostile_keys_fine,hostile_keys_all_rows,hostile_streams,generate_stop_strings,generate_memory,host_signal_storm")


# Minutes of logic above the kernels, which is the same everywhere.
LOGIC = ("draft,nextn,adapters_every_matrix,adapters_references,adapters_merge_types,adapters_sessions,queue_same,queue_adapters,queue_life,queue_threads,"
         "slices_queue,hostile_extremes,hostile_keys,hostile_windows,hostile_numbers,cells_snapshots,cells_fork,cache_fork,fill_schedule,arch_hf/,"
         "arch_otherwise,sampler_random,sampler_stages,grammar_random,ugm_circle,vocab_cost,jinja_limits,jinja_parse_memory,needs_by_name,chat_replies")


# Where an order of bytes can be forgotten: files, types, texts, states, what devices are given; and one model of each kind of machinery.
BYTES = ("test_gguf,test_quant,test_encode,test_half,test_bfloat,test_format,test_overflow,test_round,test_vocab,test_tokenizer,test_bpe,test_spm,test_wpm,test_ugm,"
         "test_trie,test_unicode,test_utf8,test_json,test_session,test_cells,test_cache,test_adapters,test_memory,test_model,test_embed_pooled,int8_unpack,"
         "test_ops_matmul,test_ops_embed,test_math,test_gpu_list,test_gpu_places,test_gpu_text_format,arch_llama-mixtral,arch_gpt-oss,arch_gemma3,arch_qwen35,"
         "arch_rwkv7,arch_bert,arch_t5,arch_mamba,test_prepare_noise,test_prepare_mel,test_prepare_keys")
# Of those: minutes, and the same bytes.
BYTES_AGAIN = "cache_threads,cache_window,cache_kv_types,cache_fork,adapters_every_matrix,adapters_references,adapters_merge_types,adapters_sessions"


# What OpenCL computes under Wine is computed by the same library as here; its driver and the life of a model are what may differ.
KERNELS = DEVICE_LIVES + (",gpu_ops_,gpu_arch,gpu_places,gpu_upload,gpu_model_cache,gpu_model_faults,gpu_model_experts,gpu_nextn,gpu_ranges,gpu_queue,"
                          "gpu_stack,gpu_adapters,gpu_media,gpu_record")


# Tests that start no thread, or only those of OpenCL: ThreadSanitizer has nothing to see in them, and makes each of them fifteen times as slow.
ONE_THREAD = ("test_hostile_keys,gpu_upload_faults,gpu_upload_slices,gpu_places_faults,gpu_places_oom,gpu_model_oom,gpu_model_faults,gpu_verdict,gpu_check_covers,gpu_check_wrong,gpu_cuda_modules,gpu_special,gpu_ptx,gpu_text,gpu_verdict_hostile,test_chat_replies,"
              "int8_dots,int8_quantise,int8_unpack,gpu_arch_,gpu_model_quants,test_tokenizer,test_vocab,test_ugm,test_kinds,test_pretokenizer,test_gguf,test_jinja,test_json,test_schema,test_grammar,test_sampler")


# Minutes of arithmetic, and of logic, over memory that shorter tests read and write in the same places.
SAME_READS = ("int8_dots,attention_levels,attention_cases,float_levels,ops_moe_matmul,budget_operations,draft_,nextn_chain,marks_published,"
              "adapters_every_matrix,adapters_references,adapters_merge_types,queue_life,hostile_extremes,hostile_keys_were_silent,hostile_keys_all_rows,"
              "hostile_keys_references,arch_llama4-chunk,arch_hf/,grammar_masks_large,kinds_hostile_tokens,sampler_top,marks_templates,embed_odd_texts,"
              "loading_same,nextn_references,queue_same,cache_threads,generation_same,embedding_same,guide_same,best_same,slices_queue,int8_exact")


# Tests in which threads share something.
SHARED = "thread,parallel,pool,test_once,test_queue,fork,interplay,test_life,signals,test_session,test_cache,test_slices,gpu_model_state"


def group_cross(t):
    """The tests on other systems: 32 bits, Windows, ARM, big-endian; by qemu-user or Wine where they are needed. ONLY=s390x: that one."""
    wine = next((w for w in ("wine64", "/usr/lib/wine/wine64", "wine") if shutil.which(w)), "wine64")
    env = {"CHECK_EMULATED": "1", "WINEDEBUG": "-all", "WINEPREFIX": os.path.abspath("build/wine")}
    # a static program loads no drivers, but has their doubles; on Windows it does: Wine hands OpenCL through
    alone = ["-DINFER_NO_RUNTIME_LINKING", "-DINFER__GPU_DOUBLES"]

    def system(t, name, cc, flags, run, but=TEXTS, only=()):
        missing = [x for x in [cc] + run if not shutil.which(x)]
        if missing:
            t.skip("tests on " + name, "%s is not installed" % " and ".join(missing))
            return
        exe = "build/check-%s.exe" % name
        if t.step("compile for " + name, [cc, "-std=gnu99", "-O2" if run[:1] != [wine] and run else "-O1", "-static", "-DINFER_QUIET", "-Itests", "tests/check.c",
                                             "-o", exe] + flags):
            t.step("tests on " + name, run + [exe] + list(only), env=dict(env if run or not DEEP else {}, CHECK_WITHOUT=but))
    systems = [("s390x", "s390x-linux-gnu-gcc", alone + LIBS, ["qemu-s390x"], ",".join([TEXTS] + [BYTES_AGAIN] * (not DEEP)), [BYTES] * (not DEEP)),
               ("i686", "i686-linux-gnu-gcc", ["-msse2", "-mfpmath=sse"] + alone + LIBS, [], "" if DEEP else TEXTS + "," + LOGIC),
               ("Windows", "x86_64-w64-mingw32-gcc", ["-lm"], [wine], ",".join([TEXTS, KERNELS] + [LOGIC] * (not DEEP)))]
    if DEEP: # CPUS has its arithmetic
        systems.append(("aarch64", "aarch64-linux-gnu-gcc", alone + LIBS, ["qemu-aarch64"], TEXTS))
    groups = [lambda t, s=s: system(t, *s) for s in systems if os.environ.get("ONLY", s[0]) == s[0]]
    groups += [lambda t: t.step("compile for other systems", [PY, "tests/compile/run.py", "--cross"])] * ("ONLY" not in os.environ)
    groups += [lambda t, c=c: counts_elsewhere(t, *c) for c in COUNTED if os.environ.get("ONLY", c[0]) == c[0]]
    groups += [amx_twin] * (os.environ.get("ONLY", "AMX") == "AMX")
    groups += [lambda t, b=b: embedded(t, *b) for b in BOARDS if os.environ.get("ONLY", b[0]) == b[0]]
    groups += [web_page] * (os.environ.get("ONLY", "page") == "page")
    groups += [lambda t, c=c: arithmetic_elsewhere(t, *c) for c in CPUS if os.environ.get("ONLY", c[0]) == c[0]]
    together(t, *groups)


# The suites of the CPU's arithmetic alone, on CPUs with fewer or other instructions: an instruction that a level must not
# use ends the program. name, compiler and flags, programs to run it with (a name and a command each). What follows the first of a row
# differs from it in integer products; DEEP=1 runs all there too.
CPUS = (
    ("x86-64", [CC, "-static"], [("Haswell", ["qemu-x86_64", "-cpu", "Haswell"]), ("Nehalem", ["qemu-x86_64", "-cpu", "Nehalem"]),
                                 ("SSE2 only", ["qemu-x86_64", "-cpu", "qemu64"])]),
    ("ARM", ["aarch64-linux-gnu-gcc", "-static"], [("NEON", ["qemu-aarch64", "-cpu", "cortex-a57"]),
                                                   ("dotprod", ["qemu-aarch64", "-cpu", "neoverse-n1"]),
                                                   ("i8mm", ["qemu-aarch64", "-cpu", "max"])]),
    # what clang makes vectors of by itself has conversions on which qemu 7.2 ends when they begin a block of code
    ("RISC-V", ["clang-19", "--target=riscv64-linux-gnu", "-march=rv64gcv", "-static", "-fuse-ld=lld", "-fno-vectorize", "-fno-slp-vectorize"],
     [("vectors of 128 bits", ["qemu-riscv64", "-cpu", "rv64,v=true,vlen=128,vext_spec=v1.0"]),
      ("256", ["qemu-riscv64", "-cpu", "rv64,v=true,vlen=256,vext_spec=v1.0"])]),
    ("WebAssembly", ["clang-19", "--target=wasm32-wasi", "-msimd128", "-DINFER_NO_THREADS"],
     [("SIMD128", ["node", "--no-warnings", "tests/wasi.mjs"])]),
)


COUNTED = (("ARM", "aarch64", "aarch64-linux-gnu-gcc"), ("RISC-V", "riscv64", "clang-19"))


def counts_elsewhere(t, name, arch, cc):
    missing = [x for x in (cc, "qemu-" + arch) if not shutil.which(x)]
    if missing:
        t.skip("instructions of products, " + name, "%s is not installed" % " and ".join(missing))
        return
    t.step("instructions of products by type and level, " + name, [PY, "tests/bench_count.py", "--arch", arch, "--limit", "40"])


def arithmetic_elsewhere(t, name, cc, runs):
    missing = [x for x in [cc[0], runs[0][1][0]] if not shutil.which(x)]
    if missing:
        t.skip("arithmetic on " + name, "%s is not installed" % " and ".join(missing))
        return
    exe = "build/cpu-%s" % name
    flags = ["-std=gnu99", "-O2", "-DINFER_QUIET", "-DINFER_NO_RUNTIME_LINKING", "-DCHECK_FILE=\"cpu_suites.c\"",
             "-DCHECK_SUITE=suite_cpu", "-Itests", "tests/check.c", "-o", exe, "-lm"]
    if t.step("compile the arithmetic for " + name, [cc[0]] + flags + cc[1:] + ([] if "wasm" in cc[1] else ["-lpthread"])):
        for cpu, run in runs if DEEP else runs[:1] + runs[1:][-1:]: # the ends of the range
            first = run is runs[0][1]
            plain = name in ("RISC-V", "WebAssembly") # which have instructions for integer products alone
            but = {} if DEEP else {"CHECK_WITHOUT": "attention,float" if plain else "attention_levels"}
            t.step("arithmetic on %s, %s" % (name, cpu), run + [exe] + ["int8,ops_matmul"] * (not first and not DEEP), env=dict(but, CHECK_EMULATED="1"))


# examples/embedded: name, compiler and flags, the linker's script, QEMU with the program in place of %s
SEMIHOSTING = ["-nographic", "-semihosting-config", "enable=on,target=native"]
BOARDS = (
    ("Cortex-M4", ["arm-none-eabi-gcc", "-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16", "--specs=nano.specs"], "cortex_m.ld",
     ["qemu-system-arm", "-M", "mps2-an386"] + SEMIHOSTING + ["-kernel", "%s"]),
    ("RISC-V 32", ["riscv64-unknown-elf-gcc", "-march=rv32imafc", "-mabi=ilp32f", "--specs=picolibc.specs"], "riscv32.ld",
     ["qemu-system-riscv32", "-M", "virt", "-bios", "none"] + SEMIHOSTING + ["-kernel", "%s"]),
)
FLASH_STORIES = ((MODEL, "Once upon a time, there was a little girl named Lily. She loved"),
                 ("tests/data/models/TinyStories-656K.Q8_0.gguf", "Once upon a time, a little girl named Lily lived in a small house."))
SAYS = 'out=$("$@" 2>&1); status=$?; printf "%s\\n" "$out"; case $out in "$0"*) exit $status ;; esac; echo "that is not the story"; exit 1'


def embedded(t, name, cc, script, qemu):
    """Stories on boards without an operating system, from flash, in an array: the program fails when memory is not what was predicted."""
    missing = [x for x in (cc[0], qemu[0]) if not shutil.which(x)]
    if missing:
        t.skip("stories on " + name, "%s is not installed" % " and ".join(missing))
        return
    here, exe = "examples/embedded/", "build/embedded-" + script[:-3]
    flags = cc + ["-std=gnu99", "-Os", "-Wall", "-Wextra", "-Werror", "-ffunction-sections", "-fdata-sections"]
    # MODEL, as the documentation's command has it: such a name of the user's must not matter
    if not t.step("compile a story for " + name, flags + ['-DMODEL="%s"' % MODEL, "-c", here + "story.c", "-o", exe + ".o"]):
        return
    for model, begins in FLASH_STORIES:
        if t.step("link it with %s for %s" % (os.path.basename(model), name),
                  flags + ['-DMODEL="%s"' % model, exe + ".o", here + "board.c", here + "model.S", "-nostartfiles", "-Wl,--gc-sections", "-L" + here,
                           "-T" + script, "-o", exe + ".elf", "-lm"]):
            t.step("%s on %s" % (os.path.basename(model), name),
                   ["timeout", "120", "sh", "-c", SAYS, begins[len("Once upon a time"):]] + [x.replace("%s", exe + ".elf") for x in qemu])


def web_page(t):
    """examples/wasm in Chromium without a window."""
    chromium = wasm_page.chromium()
    missing = [x for x in ("clang-19", "wasm-ld-19") if not shutil.which(x)] + ["chromium"] * (not chromium)
    if missing:
        t.skip("the page of examples/wasm", "%s is not installed" % " and ".join(missing))
        return
    os.makedirs("build/wasm", exist_ok=True)
    shutil.copy("examples/wasm/index.html", "build/wasm")
    if t.step("compile examples/wasm", ["clang-19", "--target=wasm32-wasi", "-mexec-model=reactor", "-msimd128", "-O2", "-Wall", "-Wextra", "-Werror",
                                        "examples/wasm/story.c", "-o", "build/wasm/story.wasm"]):
        t.step("the page of examples/wasm", [PY, "tests/wasm_page.py", "build/wasm", chromium])


def amx_twin(t):
    """AMX's tiles in C (tests/amx_twin.h), on any CPU with AVX-512; where there is AMX, test_int8_twin compares the two."""
    exe = "build/cpu-amx-twin"
    if t.step("compile the arithmetic with tiles in C", [CC, "-std=c11", "-O2", "-DINFER_QUIET", "-DINFER_NO_GPU", "-DINFER__AMX_TWIN",
                                                         "-DCHECK_FILE=\"cpu_suites.c\"", "-DCHECK_SUITE=suite_cpu", "-Itests", "tests/check.c",
                                                         "-o", exe] + LIBS):
        t.step("arithmetic with tiles in C", [exe])


def fuzz_sources(path):
    """The program's files, for the target that reads as it does; not its main, nor the server and map, which have fuzzers of their own in tests/cli."""
    if not path.endswith("fuzz_folder.c"):
        return []
    files = glob.glob("tools/infer/*.c") + glob.glob("tools/infer/*/*.c") + glob.glob("tools/infer/*/*/*.c")
    return sorted(f for f in files if f != "tools/infer/main.c" and not f.startswith(("tools/infer/serve/", "tools/infer/map/")))


def fuzz_build(t, path, exe):
    """libFuzzer where clang has it, else our own driver (random changes to the seeds)."""
    flags = ["-g1", "-O1", "-DINFER_QUIET", "-DINFER_ASSERT(x)=((x)?(void)0:abort())", "-I.", "-Itests", "-fno-sanitize-recover=all",
             "-DINFER_NO_SIMD"] # a model of a few rows: vector code would take most of the compiler's time
    sources = [path] + fuzz_sources(path)
    if CLANG and subprocess.run([CLANG, "-fsanitize=fuzzer,address,undefined"] + flags + sources + ["-o", exe] + LIBS,
                                capture_output=True).returncode == 0:
        return "libFuzzer"
    ok = t.step("compile " + path, [CC, "-fsanitize=address,undefined"] + flags + sources + ["tests/fuzz/driver.c", "-o", exe] + LIBS)
    return "own driver" if ok else None


def group_fuzz(t):
    seconds = int(float(os.environ.get("MINUTES", "1")) * 60)
    with open("tests/fuzz/together.c", encoding="utf-8") as f: # targets that one program has
        shared = re.findall(r'#include "fuzz_(\w+)\.c"', f.read())
    names = [os.path.basename(p)[5:-2] for p in sorted(glob.glob("tests/fuzz/fuzz_*.c"))]

    def one(name):
        return lambda t: fuzz(t, name, fuzz_build(t, "tests/fuzz/fuzz_%s.c" % name, "build/fuzz/" + name))

    def in_one(t):
        how = fuzz_build(t, "tests/fuzz/together.c", "build/fuzz/together")
        for name in shared if how else ():
            shutil.copy("build/fuzz/together", "build/fuzz/" + name)
            fuzz(t, name, how)

    def fuzz(t, name, how):
        found, seeds = "build/fuzz/found_%s" % name, "tests/fuzz/corpus_%s" % name
        os.makedirs(found, exist_ok=True)
        if how:
            t.step("fuzz %s for %d s (%s)" % (name, seconds, how),
                   ["build/fuzz/" + name, "-max_total_time=%d" % seconds, "-rss_limit_mb=2048", "-malloc_limit_mb=1024", "-timeout=20", "-print_final_stats=1",
                    "-verbosity=0", "-artifact_prefix=build/fuzz/%s-" % name, found] + ([seeds] if os.path.isdir(seeds) else []))
    together(t, one("arch"), in_one, *(one(name) for name in names if name not in shared + ["arch"]))


def main():
    names = sys.argv[1:] or ["test"]
    os.makedirs("build/totals", exist_ok=True)
    os.makedirs("build/fuzz", exist_ok=True)
    all_failed = 0
    for name in names:
        t = Totals()
        start = time.time()
        (globals().get("group_" + name) or globals()[name])(t)
        for bad in t.bad:
            print("FAILED: %s" % bad)
        if len(t.times) > 10:
            print("longest: " + ", ".join("%s %.0f s" % (step, cpu) for cpu, step in sorted(t.times, reverse=True)[:10]) + " (CPU)")
        print("make %s: %d passed, %d failed, %d skipped (%.0f s)" % (name, t.passed, t.failed, t.skipped, time.time() - start))
        with open("build/totals/" + name, "w") as f:
            f.write("%d %d %d\n" % (t.passed, t.failed, t.skipped))
        with open("build/totals/%s.failed" % name, "w") as f:
            f.writelines("%s: %s\n" % (name, bad) for bad in t.bad)
        all_failed += t.failed
    return 1 if all_failed else 0


if __name__ == "__main__":
    sys.exit(main())
