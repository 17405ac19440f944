#!/usr/bin/env python3
"""msl_host.py: compile a program in the Metal Shading Language as a library for this computer.

  python3 msl_host.py [--fast] [--folder DIR] < PROGRAM     prints the library's path; with exit 1 what is wrong, by line
  python3 msl_host.py --self-test                           plant mistakes, and prove that they are refused

Steps:  macros are expanded; arrays of a threadgroup become memory that fibers.h gives; every kernel gets a function that
        takes what is bound by index; clang++ of 16 or later (before, it has no _Float16 for this computer) or g++ compiles
        that with msl_host.h. Before that clang, where it is there, looks at address spaces: as C++ for OpenCL with
        tests/kernels/metal/metal_stdlib, as faces.py does.
Lines in messages are those of the program. --fast: what fastMathEnabled would do. Libraries are kept by the hash of all
that they come from. FAKE_METAL_CXX: the compiler.
"""
import hashlib, os, re, shutil, subprocess, sys, tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
STUB = os.path.join(ROOT, "tests", "kernels", "metal")
VERSION = "-D__METAL_VERSION__=240"
HOST = ["-x", "c++", "-std=c++17", "-O2", "-march=native", "-fPIC", "-shared", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror",
        "-Wno-unused-function", "-Wno-unused-parameter", "-Wno-unused-variable",
        "-Wno-unknown-warning-option", "-Wno-invalid-feature-combination"]  # what some clangs say of -march=native
SPACES = ["-x", "cl", "-cl-std=clc++1.0", "-Xclang", "-cl-ext=-all,+cl_khr_fp16", "-DMETAL_SPACES", VERSION, "-fsyntax-only", "-isystem",
          STUB, "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-Wno-unknown-attributes"]
POSITIONS = {"thread_position_in_threadgroup": "me->local", "threadgroup_position_in_grid": "me->group",
             "threads_per_threadgroup": "me->size", "threadgroups_per_grid": "me->groups"}
NUMBERS = {"thread_index_in_threadgroup": "me->index", "thread_index_in_simdgroup": "me->lane",
           "simdgroup_index_in_threadgroup": "me->wave", "simdgroups_per_threadgroup": "me->waves", "threads_per_simdgroup": "32"}


class Refused(Exception):
    pass


def call(command, text):
    p = subprocess.run(command, input=text, capture_output=True, text=True, errors="replace")
    return p.returncode == 0, p.stdout, p.stderr


def find(names):
    return next((n for n in names if n and shutil.which(n)), None)


def compilers():
    """The one that makes the library, and a clang for address spaces (None: that step is left out)."""
    cxx = find([os.environ.get("FAKE_METAL_CXX"), "clang++-19", "clang++-18", "clang++-17", "clang++-16", "g++"])
    if not cxx:
        raise Refused("no clang++ of 16 or later and no g++ is there to compile programs with")
    return cxx, find(["clang-19", "clang-18", "clang-17", "clang-16", "clang-15", "clang-14"])


def without_includes(text):
    return re.sub(r"^[ \t]*#[ \t]*include[ \t]*<metal\w*>", "", text, flags=re.M)


def split_params(text):
    parts, depth, last = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "([<") - (c in ")]>")
        if c == "," and depth == 0:
            parts.append(text[last:i])
            last = i + 1
    parts.append(text[last:])
    return [p.strip() for p in parts if p.strip()]


def parameter(text, name):
    """What the wrapper passes for it, and (index, bytes) when it is bound."""
    m = re.fullmatch(r"(.*?)(\w+)\s*\[\[\s*(\w+)\s*(?:\(\s*(\d+)\s*\))?\s*\]\]", text, flags=re.S)
    if not m:
        raise Refused("error: a parameter of %s without an attribute: %s" % (name, text))
    kind, what, index = m.group(1).strip(), m.group(3), m.group(4)
    if what == "buffer":
        space = re.search(r"\b(device|constant)\b", kind)
        if not space or int(index) > 30:
            raise Refused("error: %s: a buffer is device or constant and has an index up to 30: %s" % (name, text))
        if kind.endswith("*"):
            return "(%s)args[%s]" % (kind, index), (index, "0")
        if kind.endswith("&"):
            return "*(%s *)args[%s]" % (kind[:-1], index), (index, "sizeof(%s)" % kind[:-1])
    if what in POSITIONS:
        return "msl_position<%s>(%s)" % (kind, POSITIONS[what]), None
    if what in NUMBERS:
        return "(%s)(%s)" % (kind, NUMBERS[what]), None
    raise Refused("error: %s: a parameter that this double does not know: %s" % (name, text))


def wrappers(text):
    """C++ for the kernels of a program whose macros are expanded."""
    out, rows = [], []
    pattern = r"(?:\[\[\s*max_total_threads_per_threadgroup\s*\(\s*(\w+)\s*\)\s*\]\]\s*)?\bkernel\s+void\s+(\w+)\s*\("
    for m in re.finditer(pattern, text):
        depth, end = 1, m.end()
        while depth and end < len(text):
            depth += (text[end] == "(") - (text[end] == ")")
            end += 1
        plain = re.sub(r"^#.*$", "", text[m.end():end - 1], flags=re.M)
        params = [parameter(p, m.group(2)) for p in split_params(plain)]
        bound = ["{%s, %s}" % b for _, b in params if b]
        out.append("static void msl_run_%s(void *const *args, const fibers_item *me) { (void)args; (void)me; %s(%s); }\n"
                   % (m.group(2), m.group(2), ", ".join(p for p, _ in params)))
        rows.append('    {"%s", msl_run_%s, %s, %d, {%s}},\n'
                    % (m.group(2), m.group(2), m.group(1) or "1024", len(bound), ", ".join(bound) or "{0, 0}"))
    if not rows:
        raise Refused("error: the program has no kernel")
    return ('\n# 1 "kernels_of_program"\n' + "".join(out) + 'extern "C" { const fibers_calls *msl_calls; extern const msl_entry msl_entries[];'
            '\nconst msl_entry msl_entries[] = {\n' + "".join(rows) + "    {0, 0, 0, 0, {{0, 0}}}};\n}\n")


def arrays(text):
    """Arrays of a threadgroup: memory of the group, by a key of their own."""
    text = re.sub(r"\bthreadgroup\s+((?:struct\s+)?[\w ]+?)\s+(\w+)\s*((?:\[(?!\[)[^\]]*\])+)\s*;",
                  r"static const char msl_key_\2 = 0; \1 (&\2)\3 = *(\1 (*)\3)msl_calls->local(&msl_key_\2, sizeof(\1\3));", text)
    return re.sub(r"\bthreadgroup\b", "", text)


def translate(text, cxx):
    ok, expanded, err = call([cxx, "-x", "c++", "-std=c++17", "-E", "-undef", VERSION, "-"], '# 1 "program_source"\n' + without_includes(text))
    if not ok:
        raise Refused(err)
    made = wrappers(expanded)
    expanded = re.sub(r"^#pragma unroll( \d+)? *$", "", expanded, flags=re.M)  # a hint; g++ does not know it
    return '#include "%s"\n' % os.path.join(HERE, "msl_host.h") + re.sub(r"\[\[[^\]]*\]\]", "", arrays(expanded)) + made


def build(text, fast, folder):
    """Path of the library."""
    cxx, clang = compilers()
    parts = [text, cxx, str(clang), str(fast), " ".join(HOST + SPACES)]
    for f in (__file__, os.path.join(HERE, "msl_host.h"), os.path.join(HERE, "..", "fibers.h"), os.path.join(STUB, "metal_stdlib")):
        with open(f, encoding="utf-8") as source:
            parts.append(source.read())
    path = os.path.join(folder, hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24] + ".so")
    if os.path.exists(path):
        return path
    if clang:
        ok, _, err = call([clang] + SPACES + ["-"], '# 1 "program_source"\n' + text)
        if not ok:
            raise Refused(err)
    os.makedirs(folder, exist_ok=True)
    program = translate(text, cxx)
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        made = os.path.join(temporary, "program.so")
        ok, _, err = call([cxx] + HOST + (["-ffast-math"] if fast else []) + ["-", "-o", made], program)
        if not ok:
            raise Refused(err)
        os.rename(made, path)
    return path


# ---- self-test --------------------------------------------------------------------------------------------------------

SAMPLE = """\
#include <metal_stdlib>
using namespace metal;
struct sample_args { uint n; float by; };
constant float levels[2] = {1.0f, 2.0f};
static inline float first(threadgroup const float *part) { return part[0]; }
[[max_total_threads_per_threadgroup(64)]] kernel void sample(device const float *x [[buffer(0)]], device float *y [[buffer(1)]],
    constant sample_args &a [[buffer(2)]], uint3 at [[thread_position_in_threadgroup]]) {
    threadgroup float part[64];
    part[at.x] = x[at.x] * a.by + levels[a.n & 1];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    y[at.x] = part[63 - at.x] + first(part);
}
"""
PLANTED = [  # mistake, in SAMPLE this, becomes that; words of the message
    ("threadgroup pointer to a buffer", "part[at.x] = x", "threadgroup const float *p = x; part[at.x] = p", "program_source:9"),
    ("a table is written", "part[at.x] = x", "levels[0] = 1.0f; part[at.x] = x", "program_source:9"),
    ("unknown function", "x[at.x] * a.by", "rsqrtt(x[at.x])", "rsqrtt"),
    ("parameter without an attribute", " [[buffer(1)]]", "", "without an attribute"),
    ("an index that cannot be", "[[buffer(1)]]", "[[buffer(31)]]", "up to 30"),
    ("unknown position", "thread_position_in_threadgroup", "thread_position_on_table", "does not know"),
    ("no kernel", "kernel void", "void", "error"),
    ("syntax", "first(part);", "first(part)", "error"),
]


def self_test():
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        path = build(SAMPLE, False, folder)
        if build(SAMPLE, False, folder) != path or build(SAMPLE, True, folder) == path:
            print("FAILED: a library is kept, and not taken for one of other options")
            failed += 1
        for mistake, this, that, words in PLANTED:
            if words.startswith("program_source") and not compilers()[1]:
                print("skipped '%s': address spaces are not looked at without clang" % mistake)
                continue
            try:
                build(SAMPLE.replace(this, that), False, folder)
                message = "accepted"
            except Refused as e:
                message = str(e)
            if words not in message or SAMPLE.replace(this, that) == SAMPLE:
                print("FAILED planted '%s': %s" % (mistake, message))
                failed += 1
    print("msl_host: %d mistakes planted, %d failures" % (len(PLANTED), failed))
    return failed != 0


def main():
    args = sys.argv[1:]
    if "--self-test" in args:
        return self_test()
    folder = args[args.index("--folder") + 1] if "--folder" in args else os.path.join(ROOT, "build", "metal")
    try:
        print(build(sys.stdin.read(), "--fast" in args, folder))
    except Refused as e:
        print(e)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
