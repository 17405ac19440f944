#!/usr/bin/env python3
"""fresh.py: the tests on machines that have less than this one.

  python3 tests/fresh.py [NAME...]           what differs there, on all machines below or on these
  python3 tests/fresh.py NAME -- COMMAND     run a command there, `make test` for instance

A machine is a folder in build/fresh: links to the sources, a build/ of its own and no .git; PATH has the programs that
PROGRAMS and the machine's row name; libraries of GPUs and Python packages are there but broken, and INFER_TEST_DATA is not
set. Steps must pass. What they skip must be what their row says: a skip that no pattern fits is a failure, and so is a
pattern that fits no skip.
"""
import os, re, shutil, subprocess, sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FRESH = os.path.join(ROOT, "build", "fresh")
PROGRAMS = ("sh env make as ld ld.bfd ar nm awk cat cp rm mv mkdir rmdir ls ln chmod touch head tail grep sed sort tr wc cut test printf echo "
            "true false uname dirname basename find xargs cmp diff date expr id").split()
PACKAGES = ("numpy", "jinja2", "jsonschema", "regex", "selenium")
LIBRARIES = ("libOpenCL.so.1", "libOpenCL.so", "libcuda.so.1", "libamdhip64.so", "libhiprtc.so") + tuple(
    "%s.so.%d" % (name, n) for name in ("libamdhip64", "libhiprtc") for n in (5, 6, 7))
GPP = {"g++": "g++", "c++": "g++"}
CLANG14 = {"clang": "clang-14", "clang-14": "clang-14", "clang++": "clang++-14", "clang++-14": "clang++-14"}
CLANG19 = {"clang-19": "clang-19", "clang++-19": "clang++-19"}
GCC = {"cc": "gcc", "gcc": "gcc"}

ALL = ["python3", "tests/all.py"]
COMPILE = ["python3", "tests/compile/run.py"]
NO_DEVICE = [r"test_gpu_\w+: no OpenCL device", r"test_gpu_(media|stack|model)\w*.*: .*INFER_TEST_DATA.*"]
OTHERS = [r"compile: (musl-gcc|musl|tcc|mingw|i686|aarch64|s390x|size) is not installed: .*"]
NO_CLANG19 = r"compile: clang-19 is not installed: clang for MSVC, .*"
FACES = ("kernels in every language", ["python3", "tests/kernels/faces.py"],
         ["ptxas: not installed", "kernel faces: there is no clang of 16 or later"])
HIP = ("the HIP double", ALL + ["hip_double"], ["HIP on its double: Linux and a clang.. of 16 to 19 are needed"])
SELF_TEST = ["python3", "tests/drivers/metal/msl_host.py", "--self-test"]
METAL = ["env", "CHECK_BACKEND=metal", "build/metal/check-metal"]

# name, programs: {there: here}, steps: (name, command, patterns of what is skipped)
MACHINES = (
    ("cc", dict(GCC), [
        ("what cannot be compiled", COMPILE + ["--list"], OTHERS + [NO_CLANG19, r"compile: clang is not installed: .*",
         r"compile: g\+\+ is not installed: .*C\+\+ calls the C implementation", r"compile: clang\+\+ is not installed: .*"]),
        FACES, HIP,
        ("Metal's double", ALL + ["metal"], [r"Metal's double: there is no clang\+\+ of 16 or later and no g\+\+"]),
        ("style without git", ["python3", "tools/check_style.py"], []),
        ("pre-tokenizers without regex", ALL + ["pre_tokenizers"],
         ["pre-tokenizers against their expressions: the Python package regex is not installed"]),
        ("examples without C++", ["env", "ONLY=cpp_host"] + ALL + ["examples"],
         [r"examples/cpp_host.cpp: there is no C\+\+ compiler", ".*: build/examples/.* is not there", "describe, transcribe: .*INFER_TEST_DATA.*"]),
        ("tests of GPUs", ["build/check-h", "test_gpu"], NO_DEVICE),
        ("the program's GPUs", ["python3", "tests/cli/test_gpu.py", "build/infer"], [".*: no (two )?OpenCL devices?"]),
        ("templates without jinja2", ["python3", "tests/cli/test_template.py", "build/infer"], [".*jinja2.*", ".*INFER_TEST_DATA.*"]),
        ("schemas without jsonschema", ["python3", "tests/cli/test_schema.py", "build/infer"],
         ["test_schema: python3-jsonschema is not installed"]),
        ("layers over MPI without mpicc", ["python3", "tests/cli/test_mpi.py", "build/infer"], ["infer-mpi: mpicc is not installed"]),
        ("many machines", ["python3", "tests/cli/test_map.py", "build/infer", "spark", "parallel", "slurm"],
         ["map_spark: pyspark or java is not installed", "map_parallel: GNU parallel is not installed", "map_slurm: there is no bash"]),
        ("the chat page without selenium", ["python3", "tests/cli/test_serve_page.py", "build/infer"], [".*: the Python package selenium is not installed"]),
    ]),
    ("g++", dict(GCC, **GPP), [
        ("C++", COMPILE + ["g++ declarations"], [r"compile: clang\+\+ is not installed: .*"]),
        ("Metal programs by g++, self-test", SELF_TEST,
         [".*: address spaces are not looked at without clang"]),
        ("kernels as Metal programs, by g++", METAL + ["gpu_ops" if os.environ.get("DEEP") == "1" else "gpu_ops_norm"], []),
        ("a model on Metal's double, by g++", METAL + ["gpu_model_models/stories260K"],
         [".*stories260K.*: needs INFER_TEST_DATA"]),
    ]),
    ("clang-14", dict(GCC, **dict(GPP, **CLANG14)), [
        ("what cannot be compiled", COMPILE + ["--list"], OTHERS + [NO_CLANG19]),
        ("C by clang", COMPILE + ["clang -std=c"], []),
        ("C++ by clang", COMPILE + ["clang++ declarations"], []),
        FACES, HIP,
        ("Metal programs by g++ and clang 14, self-test", SELF_TEST, []),
    ]),
    ("clang-14 alone", dict(CLANG14, cc="clang-14"), [
        ("two units and --split", COMPILE + ["two"], []),
        ("Metal's double", ALL + ["metal"], [r"Metal's double: there is no clang\+\+ of 16 or later and no g\+\+"]),
    ]),
    ("clang-19", dict(GCC, **dict(GPP, **CLANG19)), [
        ("HIP's own compiler", ["python3", "tests/kernels/faces.py", "base, hiprtc"], ["hiprtc: no libhiprtc or libamdhip64 .*"]),
        ("Metal programs by clang 19, self-test", SELF_TEST, []),
        ("tests of GPUs", ["build/check-h", "test_gpu"], NO_DEVICE),
    ]),
)
BUILT = ("infer", "check-h", "metal/check-metal", "impl.o", "metal/libMetal.so")  # taken over from build/, made by the same cc


def make_machine(name, programs, built):
    """The folder, and the environment in which commands run there."""
    there = os.path.join(FRESH, name.replace(" ", "-"))
    if built:
        shutil.rmtree(there, ignore_errors=True)
    for folder in ("bin", "lib", "packages", "build/tool", "build/metal", "home"):
        os.makedirs(os.path.join(there, folder), exist_ok=True)

    def link(at, target):
        at = os.path.join(there, at)
        if os.path.lexists(at):
            os.remove(at)
        os.symlink(target, at)
    for entry in os.listdir(ROOT):
        if entry not in (".git", "build"):
            link(entry, os.path.join(ROOT, entry))
    link("bin/python3", os.path.realpath(sys.executable))
    for at, program in list(programs.items()) + [(p, p) for p in PROGRAMS]:
        found = shutil.which(program)
        if found:
            link("bin/" + at, os.path.realpath(found) if at in programs else found)
    for library in LIBRARIES:
        open(os.path.join(there, "lib", library), "w").close()  # the loader finds it and cannot use it
    for package in PACKAGES:
        with open(os.path.join(there, "packages", package + ".py"), "w") as f:
            f.write("raise ImportError('hidden')\n")
    for product in BUILT if built else ():
        if os.path.exists(os.path.join(ROOT, "build", product)):
            shutil.copy2(os.path.join(ROOT, "build", product), os.path.join(there, "build", product))
    env = {"PATH": os.path.join(there, "bin"), "LD_LIBRARY_PATH": os.path.join(there, "lib"), "HOME": os.path.join(there, "home"),
           "PYTHONPATH": os.path.join(there, "packages"), "PYTHONDONTWRITEBYTECODE": "1", "LC_ALL": "C.UTF-8", "CUDA_HOME": os.path.join(there, "lib")}
    return there, env


def step(where, name, command, skips, env, there):
    """1 when it passed."""
    p = subprocess.run([os.path.join(there, "bin", command[0]) if "/" not in command[0] else command[0]] + command[1:], cwd=there, env=env,
                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    found = re.findall(r"^(?:\| )*skip(?:ped)? (.*)", p.stdout, re.M)
    bad = ["exit status %d" % p.returncode] if p.returncode else []
    bad += ["skipped, and not expected: " + s for s in found if not any(re.fullmatch(e, s) for e in skips)]
    bad += ["expected to be skipped, and was not: " + e for e in skips if not any(re.fullmatch(e, s) for s in found)]
    for line in bad[:10]:
        print("FAILED %s, %s: %s" % (where, name, line))
    if p.returncode:
        print("\n".join("    " + line for line in p.stdout.splitlines()[-25:]))
    if not bad:
        print("%s, %s: %d skips as expected" % (where, name, len(found)))
    sys.stdout.flush()
    return not bad


def main():
    words = sys.argv[1:]
    command = words[words.index("--") + 1:] if "--" in words else []
    names = words[:words.index("--")] if "--" in words else words
    unknown = [n for n in names if n not in [m[0] for m in MACHINES]]
    if unknown or (command and len(names) != 1):
        sys.exit("fresh.py: one of these is needed: " + ", ".join(m[0] for m in MACHINES))
    passed, failed, skipped = 0, 0, 0
    for name, programs, steps in MACHINES:
        if names and name not in names:
            continue
        missing = sorted(p for p in set(programs.values()) if not shutil.which(p))
        if missing:
            print("skipped the machine '%s': %s is not installed" % (name, " and ".join(missing)))
            if os.environ.get("INFER_TEST_NO_SKIP") == "1":
                failed += 1
            else:
                skipped += 1
            continue
        there, env = make_machine(name, programs, not command)
        if command:
            return subprocess.run(["env"] + command, cwd=there, env=env).returncode
        for title, argv, skips in steps:
            ok = step(name, title, argv, skips, env, there)
            passed, failed = passed + ok, failed + (not ok)
    print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
