#!/usr/bin/env python3
"""check_style.py: the rules of CONTRIBUTING.md that a script can check.

  python3 tools/check_style.py             check the repository: one line per violation, exit 1 when there are any
  python3 tools/check_style.py --self-test prove that every rule fires on a planted violation

Each message says where, which rule, and the remedy. To add a rule: a function in RULES and a row in PLANTED.
"""
import os, re, subprocess, sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MAX_LINES, MAX_COLUMNS, MAX_ROW = 1000, 120, 160
MAX_FILES = 25 # of a folder of src/ or tools/: more than that nobody takes in

# Which folders of src/ a part may include from: its own layer and lower ones.
LAYERS = {
    "base": {"base"},
    "quant": {"base", "quant"},
    "format": {"base", "quant", "format"},
    "text": {"base", "format", "text"},
    "compute": {"base", "quant", "compute"},
    "media": {"base", "quant", "format", "text", "media"},
    "model": {"base", "quant", "format", "text", "compute", "media", "model"},
    "api": {"base", "quant", "format", "text", "compute", "media", "model", "api"},
}
BANNED_CALLS = "exit abort _exit system printf fprintf vprintf vfprintf puts putchar sprintf vsprintf strcpy strcat gets assert atoi alloca".split()
HEAP = "malloc calloc realloc free aligned_alloc posix_memalign strdup".split()
OS_HEADERS = re.compile(r"#\s*include\s+<((?:windows|unistd|pthread|fcntl|dlfcn|sched|errno|time|signal|io|process|direct|sys/\w+|mach/[\w/]+)\.h)>")
# Asking the kernel which instructions the CPU has is not worth a detour over os.c.
OS_ALLOWED = {"src/compute/isa.c": {"sys/auxv.h", "sys/sysctl.h"}}


def strip(text, strings=True):
    """The text without comments, and without what stands in strings; line breaks stay."""
    def blank(m):
        s = m.group(0)
        if s[0] in "\"'":
            return s[0] * 2 if strings else s
        return "\n" * s.count("\n") + " "
    return re.sub(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|/\*.*?\*/', blank, text, flags=re.S)


class File:
    def __init__(self, path, text):
        self.path, self.text = path, text
        self.lines = text.split("\n")
        self.code = strip(text)                         # no comments, strings emptied
        self.code_strings = strip(text, strings=False)  # no comments
        self.is_src = path.startswith("src/")
        self.is_kernel = path.startswith("kernels/") and path.endswith((".k", ".h", ".def"))
        self.layer = path.split("/")[1] if path.count("/") >= 2 and self.is_src else ""
        self.is_table = bool(re.search(r"_tables?\.h$", path))
        self.is_c = path.endswith((".c", ".h", ".k"))

    def find(self, pattern, text=None):
        for m in re.finditer(pattern, text if text is not None else self.code, flags=re.M):
            yield (text if text is not None else self.code).count("\n", 0, m.start()) + 1, m


# ---- rules: each yields (line, message) -----------------------------------------------------------------------------

def rule_layers(f, archs):
    if f.layer in LAYERS:
        for n, m in f.find(r'^\s*#\s*include\s+"([^"]+)"', f.code_strings):
            target = os.path.normpath(os.path.join(os.path.dirname(f.path), m.group(1))).replace(os.sep, "/")
            parts = target.split("/")
            layer = parts[1] if len(parts) >= 3 else ""
            if layer and layer not in LAYERS[f.layer]:
                yield n, "%s/ may not include %s/: move the code down a layer or pass what it needs as an argument" % (f.layer, layer)
    elif f.is_src and f.path.count("/") >= 2:
        yield 1, "%s is no layer: put the file into one of %s" % (f.layer, " ".join(LAYERS))


def rule_length(f, archs):
    if not f.is_table and f.path.endswith((".c", ".h", ".k", ".def", ".py")) and len(f.lines) - 1 > MAX_LINES:
        yield len(f.lines), "longer than %d lines: split it by idea (tables go to *_tables.h)" % MAX_LINES


def column_limit(f, line):
    """Rows of tables may be longer: aligned columns read better than a limit. Kernels have none."""
    if f.is_kernel:
        return MAX_COLUMNS
    if not f.is_src or f.is_table:
        return 10000
    return MAX_ROW if re.match(r"\s*(\{|\.\w+ =|[A-Z][A-Z0-9_]*\(|/\* kind )", line) else MAX_COLUMNS


def rule_columns(f, archs):
    if f.is_c or f.is_kernel:
        for n, line in enumerate(f.lines, 1):
            if len(line) > column_limit(f, line):
                yield n, "%d columns: %sbreak the line at %d" % (len(line), "run `make format`, or " if f.is_src else "", column_limit(f, line))
            if "\t" in line:
                yield n, "a tab: use 4 spaces"
            if line.endswith((" ", "\r")):
                yield n, "space or carriage return at the end of a line: remove it"


def rule_ascii(f, archs):
    if f.is_src or f.is_kernel:
        for n, line in enumerate(f.lines, 1):
            if not line.isascii():
                yield n, "not ASCII: write an escape (\\xNN) in strings, plain words in comments"


def rule_comments(f, archs):
    if f.is_src or f.is_kernel:
        for n, m in f.find(r"//"):
            yield n, "// comment: use /* */ (the header part is read by C89 compilers; kernels look the same)"


def rule_opening(f, archs):
    if (f.is_src or f.is_kernel) and not f.text.startswith("/*"):
        yield 1, "no opening comment: say in 5 to 15 lines what the part owns, may not know, and where to start"


def rule_calls(f, archs):
    if f.is_src:
        for n, m in f.find(r"(?<![\w.>])(%s)\s*\(" % "|".join(BANNED_CALLS)):
            yield n, "%s(): the library neither ends the process nor prints: return infer__error(...), or use infer__format" % m.group(1)
        if f.path != "src/base/mem.c":
            for n, m in f.find(r"(?<![\w.>])(%s)\s*\(" % "|".join(HEAP)):
                yield n, "%s() outside base/mem.c: use infer__alloc, infer__calloc, infer__realloc, infer__free or an arena" % m.group(1)
        for n, m in f.find(r"\b(INFINITY|NAN|HUGE_VALF?|isnan|isinf|isfinite)\b"):
            yield n, "%s does not survive -ffast-math: use infer__finite, infer__bits_f32 or a large finite number" % m.group(1)


def rule_os(f, archs):
    if f.is_src and f.path != "src/base/os.c":
        for n, m in f.find(OS_HEADERS.pattern):
            if m.group(1) not in OS_ALLOWED.get(f.path, ()):
                yield n, "<%s> outside base/os.c: add a function to os.c and declare it in base.h" % m.group(1)


def rule_names(f, archs):
    if not f.is_src or f.path == "src/api.h":
        return
    code = re.sub(r"INFER__(?:TARGET|PRINTF|UNUSED|NOINLINE)\b(?:\([^()]*\))?\s*", "", f.code)
    code = re.sub(r"\\\n", "\n", code)
    for n, m in f.find(r"^((?:[A-Za-z_]\w*[\s*]+)+)([A-Za-z_]\w*)\s*\([^;{=]*?\)\s*([;{])", code):
        head, name = m.group(1), m.group(2)
        words = head.split()
        if words[0] in ("typedef", "return", "else", "case", "extern", "goto"):
            continue
        private = bool({"static", "INFER__INLINE", "INFER__FOLDED"} & set(words))
        if private and not re.match(r"infer__", name):
            yield n, "static %s: internal names begin with infer__ (every part shares one translation unit)" % name
        if not private and not re.match(r"infer_[a-z]", name):
            yield n, "%s is not static: make it static infer__*, or public infer_* in api.h" % name
    for n, m in f.find(r"^static\s+(?:const\s+)?[\w\s*]+?\b(\w+)\s*(?:\[[^\]]*\]\s*)+=", code):
        if not re.match(r"(infer__|INFER__)", m.group(1)):
            yield n, "static %s: tables are named INFER__X or infer__x" % m.group(1)
    for n, m in f.find(r"^static\s+(?!const\b|inline\b|uint|infer__once)[\w\s*]+?\b(\w+)\s*(?:\[[^\]]*\]\s*)*(?:=[^;]*)?;", code):
        if "const" not in m.group(0) and "(" not in m.group(0):
            yield n, "%s is a mutable global: put it into the object it belongs to, or behind infer__once" % m.group(1)
    for n, m in f.find(r"^\s*#\s*define\s+(\w+)"):
        name = m.group(1)
        known = name.startswith(("INFER_", "infer_")) or name in ("WIN32_LEAN_AND_MEAN", "NOMINMAX")
        if not known and not re.search(r"#\s*undef\s+%s\b" % name, f.code):
            yield n, "macro %s: name it INFER__%s, or #undef it at the end of the file" % (name, name)
    for n, m in f.find(r"(?<![.>\w])(near|far)\b"):
        yield n, "%s is an empty macro of windows.h: use another name" % m.group(1)


def rule_archs(f, archs):
    if f.layer in ("model", "api", "compute") and f.path not in ("src/model/arch.c", "src/model/needs.c", "src/model/stack/rows.c"):
        for n, m in f.find(r'"((?:\\.|[^"\\\n])*)"', f.code_strings):
            if m.group(1) in archs:
                yield n, '"%s" is an architecture: only model/arch.c and needs.c know their names; make the difference a column there' % m.group(1)


def rule_machine(f, archs):
    if f.path != ".ci/run":
        folders = "|".join(["wo" + "rk", "ro" + "ot", "ho" + "me", "tm" + "p"])
        for n, m in f.find(r"(?<![\w.<$}])/(?:%s)/\w|\.\./sha" % folders + "red", f.text):
            yield n, '"%s" names a place on one machine: use a path inside the repository, or an environment variable' % m.group(0)


# Words that are retired in the sense matched here, and the field's (CONTRIBUTING.md has a glossary). Each pattern means only that.
RETIRED = [
    (r'"(?:\\.|[^"\\\n])*\b(?:is|are) not (?:there|supported) yet\b', "not supported"),
    (r"\bturned (?:page|keys|codes|matrix|column|copy)\b|\b(?:keys|pages?|B|lies?) turned\b|\bturn(?:ed|ing) there and back\b", "transposed"),
    (r"\b[Pp]airs (?:that )?turn\b", "rotate"),
    (r"\bfrom place to place\b|\b(?:run|are) at one place\b|\b(?:layers|buffers) of one place\b|\b(?:a|every) place (?:has|gets)\b|"
     r"\bpass in two places\b", "device"),
    (r"\b(?:activations|cache) (?:is |are )?rounded\b(?! to BF16)|\brounded (?:input|cache|there, rounded)|\bx (?:is|was) rounded (?:to [8s]|once)",
     "quantised"),
    (r"\b(?:instructions?|[Rr]ules) that (?:is|are) not there\b", "not supported"),
    (r"\ba column alone\b", "GEMV"),
    (r"\b[Oo]ps? (?:with|and) (?:its |their )?neighbours\b|\bneighbours (?:are run|go along|that its ops)\b|\bneighbours apart\b",
     "fused, unfused"),
    (r"\b(?:what|[Hh]ow) x lies\b", "layout, or format"),
    (r"\bnobody has to have\b", "optional"),
]


def rule_words(f, archs):
    if f.path not in ("tools/check_style.py", "CHANGELOG.md"):
        for pattern, word in RETIRED[0 if f.is_c or f.path.endswith(".py") else 1:]:  # the first is about messages
            for n, m in f.find(pattern, f.text):
                yield n, '"%s": in this sense the word is: %s' % (m.group(0)[-60:], word)


RULES = [rule_layers, rule_length, rule_columns, rule_ascii, rule_comments, rule_opening, rule_calls, rule_os, rule_names,
         rule_archs, rule_machine, rule_words]


def check(f, archs):
    return ["%s:%d: [%s] %s" % (f.path, n, rule.__name__[5:], message) for rule in RULES for n, message in rule(f, archs)]


# ---- the repository ---------------------------------------------------------------------------------------------------

def repository_files():
    """Tracked files, and new ones that git does not ignore; without git, everything but build/."""
    try:
        names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True, text=True)
        found = names.stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        found = []
        for folder, folders, files in os.walk(ROOT):
            folders[:] = [d for d in folders if d not in ("build", ".git")]
            found += [os.path.relpath(os.path.join(folder, x), ROOT) for x in files]
    kinds = (".c", ".h", ".cpp", ".py", ".sh", ".md", ".yml", ".txt", ".k", ".def")
    skip = ("tests/data/", "infer.h", "kernels_embed.h", "tests/fuzz/corpus")
    names = {n.replace(os.sep, "/") for n in found} | {".ci/run", "Makefile"}
    return sorted(n for n in names if (n.endswith(kinds) or n in (".ci/run", "Makefile")) and not n.startswith(skip)
                  and os.path.isfile(os.path.join(ROOT, n)))


def arch_names(text):
    return set(re.findall(r'\.name\s*=\s*"([^"]+)"', text))


def crowded(names):
    """Folders of src/ with more files than a reader takes in."""
    folders = [os.path.dirname(n) for n in names if n.startswith(("src/", "tools/"))]
    return ["%s: [files] %d files: cut the folder by subject" % (d, folders.count(d)) for d in sorted(set(folders))
            if folders.count(d) > MAX_FILES]


def main():
    with open(os.path.join(ROOT, "src/model/arch.c"), encoding="utf-8") as f:
        archs = arch_names(f.read())
    if not archs:
        sys.exit("check_style.py: no architecture found in src/model/arch.c: rows must say .name = \"...\"")
    bad, n = [], 0
    for path in repository_files():
        with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace", newline="") as f:
            bad += check(File(path, f.read()), archs)
        n += 1
    bad += crowded(repository_files())
    for line in bad:
        print(line)
    print("check_style: %d files, %d violations" % (n, len(bad)))
    return 1 if bad else 0


# ---- self-test ----------------------------------------------------------------------------------------------------------

HEAD = "/* x.c: a part. */\n"
PLANTED = [  # rule, path, text that must be refused
    ("layers", "src/text/x.c", HEAD + '#include "../model/model.h"\n'),
    ("layers", "src/base/x.c", HEAD + '#include "../quant/quant_types.h"\n'),
    ("layers", "src/extra/x.c", HEAD),
    ("length", "src/base/x.c", HEAD + "\n" * 1001),
    ("length", "kernels/x.k", HEAD + "\n" * 1001),
    ("columns", "src/base/x.c", HEAD + "/* " + "x" * 120 + " */\n"),
    ("columns", "src/base/x.c", HEAD + "\tint x;\n"),
    ("columns", "src/base/x.c", HEAD + "int x; \n"),
    ("columns", "kernels/quant/x.k", HEAD + "KERNEL(x, 64)(" + "x" * 107 + "\n"),
    ("columns", "kernels/kernels.def", HEAD + "K(x,\tBASE)\n"),
    ("ascii", "src/base/x.c", HEAD + "/* caf\u00e9 */\n"),
    ("ascii", "kernels/x.k", HEAD + "/* caf\u00e9 */\n"),
    ("comments", "src/base/x.c", HEAD + "static const int infer__x = 1; // one\n"),
    ("comments", "kernels/dialect.h", HEAD + "#define ONE 1 // one\n"),
    ("opening", "src/base/x.c", "#include <math.h>\n"),
    ("opening", "kernels/x.k", "FN float x(void) { return 1.0f; }\n"),
    ("calls", "src/base/x.c", HEAD + "static void infer__x(void) { abort(); }\n"),
    ("calls", "src/base/x.c", HEAD + "static void infer__x(void) { printf(\"x\"); }\n"),
    ("calls", "src/base/x.c", HEAD + "static void infer__x(void) { assert(1); }\n"),
    ("calls", "src/base/x.c", HEAD + "static void infer__x(void *p) { free(p); }\n"),
    ("calls", "src/base/x.c", HEAD + "static float infer__x(void) { return INFINITY; }\n"),
    ("os", "src/model/x.c", HEAD + "#include <unistd.h>\n"),
    ("os", "src/model/x.c", HEAD + "#  include <sys/mman.h>\n"),
    ("names", "src/base/x.c", HEAD + "static int helper(int a) {\n    return a;\n}\n"),
    ("names", "src/base/x.c", HEAD + "int infer__x(int a) { return a; }\n"),
    ("names", "src/base/x.c", HEAD + "float *thing(int a,\n             int b) {\n}\n"),
    ("names", "src/base/x.c", HEAD + "static const int sizes[] = { 1 };\n"),
    ("names", "src/base/x.c", HEAD + "static int infer__counter;\n"),
    ("names", "src/base/x.c", HEAD + "static float infer__cache[16] = { 0 };\n"),
    ("names", "src/base/x.c", HEAD + "#define MAX(a, b) 1\n"),
    ("names", "src/base/x.c", HEAD + "static int infer__x(const char *near) { return *near; }\n"),
    ("archs", "src/model/x.c", HEAD + 'static int infer__x(const char *s) { return strcmp(s, "llama") == 0; }\n'),
    ("machine", "tools/x.py", 'open("/wo' + 'rk/main/x")\n'),
    ("machine", "tests/x.c", 'fopen("..' + '/shared/x")\n'),
    ("words", "src/model/x.c", HEAD + 'static const char infer__x[] = "attention that is not causal is not there yet";\n'),
    ("words", "src/compute/x.c", HEAD + "/* The turned page of a head. */\n"),
    ("words", "docs/x.md", "The stream goes from place to place.\n"),
    ("words", "src/compute/x.c", HEAD + "/* The op with its neighbours. */\n"),
    ("words", "kernels/x.k", HEAD + "/* how x lies in the run */\n"),
    ("words", "README.md", "A kernel that nobody has to have.\n"),
    ("words", "tests/x.c", "/* Layers that are at one place. */\n"),
    ("words", "tests/cli/x.py", "# pairs that turn often\n"),
    ("words", "tools/infer/x.c", "/* exact on the CPU, rounded there, rounded on the device */\n"),
    ("words", "tests/x.c", "/* x is rounded to 8 bits on both */\n"),
    ("words", "tests/drivers/x.md", "An instruction that is not there fails.\n"),
    ("words", "tests/x.c", "/* a column alone against many */\n"),
    ("words", "tools/x.py", 'sys.exit("type %s is not supported yet")\n'),
]
CLEAN = HEAD + '''#include "../base/base.h"
/* exit( printf( // in a comment, "llama" too */
/* a key that is not there yet, turned into text; ops in place, in one place; neighbours */
static const char *const INFER__WORDS[] = { "printf(", "// no" };
INFER__INLINE int infer__one(void) { return 1; }
INFER__TARGET("avx2") static void infer__two(float *x,
                                             int n) {
    m->a.free(m->a.user, x, (size_t)n);
}
static infer__once infer__isa_once;
INFER_API int32_t infer_three(void) { return 3; }
#define ROW(x) x
#undef ROW
'''


CLEAN_KERNEL = HEAD + '''#define TWICE(x) ((x) * 2.0f) /* sinf( "llama" // */
KERNEL(x, 64)(GBUF(const float, x, 0), GARGS(x, a, 1) GTID) {
    x[LID] = TWICE(x[LID]);
}
'''


def self_test():
    bad = 0
    for rule, path, text in PLANTED:
        found = check(File(path, text), {"llama"})
        if not any("[%s]" % rule in line for line in found):
            bad += 1
            print("self-test: rule %s did not fire on %r (got %s)" % (rule, text[-60:], found))
    for path, text in (("src/compute/x.c", CLEAN), ("kernels/x.k", CLEAN_KERNEL)):
        for line in check(File(path, text), {"llama"}):
            bad += 1
            print("self-test: clean text was refused: " + line)
    if crowded(["src/base/%d.c" % i for i in range(MAX_FILES)]) or not crowded(["src/base/%d.c" % i for i in range(MAX_FILES + 1)]):
        bad += 1
        print("self-test: the rule on crowded folders does not fire where it should")
    fired = {rule for rule, _, _ in PLANTED}
    for rule in RULES:
        if rule.__name__[5:] not in fired:
            bad += 1
            print("self-test: rule %s has no planted violation" % rule.__name__)
    print("check_style --self-test: %d passed, %d failed" % (len(PLANTED) + 2 - min(bad, len(PLANTED)), bad))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(self_test() if "--self-test" in sys.argv[1:] else main())
