#!/usr/bin/env python3
"""run.py: the recipes of docs/building.md work as they stand there, and so do `make install`, `make dist` and examples/host/cmake.

  python3 tests/build/run.py [FILTER]     FILTER: a part of a recipe's name
  python3 tests/build/run.py --self-test  reading the page, and that failures are seen

A block of the page whose first line is ```LANGUAGE FILE... is a file, ```sh run TOOL... a recipe: it runs in a folder of its own with all
files, and the story must come out of each command that is given the prompt. Without a TOOL it is skipped by name. Every other block of
commands must stand under words that say "not run". `-O2` becomes `-O0`, without parts that a story needs not, since each compilation would take half a minute.
"""
import os, re, shutil, subprocess, sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OUT = os.path.join(ROOT, "build", "builds")
PREFIX = os.path.join(OUT, "prefix")
STORY = ", there was a little girl named Lily. She loved to play outside"
PROMPT = "Once upon a time"
FAST = "-O0 -DINFER_QUIET " + " ".join("-DINFER_NO_" + x for x in "SIMD GPU CHAT QUEUE EMBED ADAPTERS DRAFTS".split())
NO_SKIP = os.environ.get("INFER_TEST_NO_SKIP") == "1"
PATH = os.environ.get("PATH", "") + os.pathsep + "/usr/lib/wine" # where Debian has wine64 alone
BLOCK = re.compile(r"^```(\w+)((?: \S+)*)\n(.*?)^```$", re.M | re.S)


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def page(text):
    """{file: text}, [(name, tools, commands)] and the blocks that are neither and do not say so."""
    files, recipes, silent = {}, [], []
    for m in BLOCK.finditer(text):
        words = m.group(2).split()
        heading = re.findall(r"^## (.*)$", text[:m.start()], flags=re.M)[-1:] or [""]
        if words[:1] == ["run"]:
            name = "%s %d" % (heading[0], 1 + sum(r[0].startswith(heading[0] + " ") for r in recipes))
            recipes.append((name, words[1:], m.group(3)))
        elif words:
            files.update({w: m.group(3) for w in words})
        elif "not run" not in text[:m.start()].rstrip().rsplit("\n\n", 1)[-1] + heading[0]:
            silent.append(m.group(3))
    return files, recipes, silent


def missing(tools):
    def there(tool):
        if tool == "linux":
            return sys.platform.startswith("linux")
        names = {"wine": ("wine", "wine64"), "ninja": ("ninja", "ninja-build")}.get(tool, (tool,))
        return any(shutil.which(n, path=PATH) for n in names)
    return [t for t in tools if not there(t)]


def environment():
    flags = {"CFLAGS": FAST, "CXXFLAGS": "-O0"} # what CMake and Meson begin with
    return dict(os.environ, PATH=PATH, PKG_CONFIG_PATH=os.path.join(PREFIX, "lib", "pkgconfig"), WINEDEBUG="-all",
                WINEPREFIX=os.path.join(ROOT, "build", "wine"), **flags)


def run(commands, folder):
    """Exit status and output of commands, which end at the first that fails."""
    p = subprocess.run(["sh", "-e", "-c", commands], cwd=folder, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, text=True, errors="replace")
    return p.returncode, p.stdout


def lay_out(folder, files):
    """A fresh folder with the files of the page, infer.h, a model, and what a user's copy of the repository has for build systems."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, text in files.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
    for copy in ("infer", "subprojects/infer"):
        os.makedirs(os.path.join(folder, copy))
        for name in ("infer.h", "CMakeLists.txt", "meson.build"):
            shutil.copy(os.path.join(ROOT, name), os.path.join(folder, copy, name))
    shutil.copy(os.path.join(ROOT, "infer.h"), folder)
    shutil.copy(os.path.join(ROOT, "tests", "wasi.mjs"), os.path.join(folder, "run.mjs"))
    shutil.copy(os.path.join(ROOT, "tests", "data", "models", "stories260K.F32.gguf"), os.path.join(folder, "model.gguf"))


def recipe(commands, folder, files):
    """None, or what went wrong."""
    lay_out(folder, files)
    if not shutil.which("wine", path=PATH):
        commands = re.sub(r"^wine ", "wine64 ", commands, flags=re.M)
    # with quotes around them the flags are those of a file, else of a command
    code, text = run(re.sub(r"-O2\b", FAST, commands), folder)
    stories, wanted = text.count(STORY), commands.count(PROMPT)
    if code or stories != wanted or not wanted:
        return "exit status %d, %d stories of %d\n%s" % (code, stories, wanted, "\n".join(text.splitlines()[-15:]))
    return None


# ---- what is not a recipe: each returns None, or what went wrong ---------------------------------------------------------

def install():
    shutil.rmtree(PREFIX, ignore_errors=True)
    # with the flags of any other make, since it is the program of the other tests
    code, text = run('unset CFLAGS CXXFLAGS; "${MAKE:-make}" install PREFIX="%s"' % PREFIX, ROOT)
    found = sorted(os.path.relpath(os.path.join(d, f), PREFIX).replace(os.sep, "/") for d, _, names in os.walk(PREFIX) for f in names)
    want = ["bin/infer", "include/infer.h", "lib/libinfer.a", "lib/pkgconfig/infer.pc"]
    if code or found != want:
        return "exit status %d, installed %s\n%s" % (code, found, text[-1000:])
    return None


def dist():
    first, second = os.path.join(OUT, "dist"), os.path.join(OUT, "dist again")
    for folder in (first, second):
        shutil.rmtree(folder, ignore_errors=True)
        code, text = run('"%s" tools/dist.py "%s"' % (sys.executable, folder), ROOT)
        if code:
            return text
    code, text = run('for f in *; do cmp "$f" "../dist again/$f"; done; sha256sum -c --ignore-missing SHA256SUMS\n'
                     'tar xzf infer-*.tar.gz; sha256sum -c SHA256SUMS; ls infer-*/; cmp infer-*/infer.h "%s/infer.h"' % ROOT, first)
    if code or text.split()[-2:] != ["LICENSE", "infer.h"] or text.count(": OK") != 4:
        return "exit status %d\n%s" % (code, text)
    return None


def versions():
    want = re.search(r"#define INFER_VERSION 0x(..)(..)(..)", read("src/api.h")).groups()
    want = ".".join(str(int(v, 16)) for v in want)
    found = {"infer.h": re.match(r"/\* infer\.h ([\d.]+),", read("infer.h")).group(1),
             "meson.build": re.search(r"version: '([\d.]+)'", read("meson.build")).group(1),
             "infer.pc": re.search(r"Version: (\S*)", open(PREFIX + "/lib/pkgconfig/infer.pc").read()).group(1)}
    bad = {k: v for k, v in found.items() if v != want}
    return "src/api.h has %s, others %s" % (want, bad) if bad else None


def example():
    folder = os.path.join(OUT, "example")
    shutil.rmtree(folder, ignore_errors=True)
    lines = sum(read("examples/host/cmake/" + n).count("\n") for n in ("CMakeLists.txt", "story.cpp"))
    code, text = run('cmake -S "%s/examples/host/cmake" -B . -DINFER_CFLAGS="%s"; cmake --build .; '
                     './story "%s/tests/data/models/stories260K.F32.gguf" "%s"' % (ROOT, FAST, ROOT, PROMPT), folder_made(folder))
    if code or STORY not in text or lines > 60:
        return "exit status %d, %d lines (at most 60)\n%s" % (code, lines, text[-1000:])
    return None


def optimised():
    """What projects get that ask for nothing: the implementation is optimised in debug builds, and not built unless it is linked."""
    folder = folder_made(os.path.join(OUT, "debug"))
    code, text = run('cmake -S "%s" -B . -DCMAKE_BUILD_TYPE=Debug; cmake --build .; find . -name "*.o" -o -name "*.a"; '
                     'grep -h C_FLAGS CMakeFiles/infer_static.dir/flags.make' % ROOT, folder)
    if code or not re.search(r"-g.* -O2", text) or "libinfer.a" in text or "infer.c.o" in text:
        return "exit status %d\n%s" % (code, text)
    return None


def folder_made(folder):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    return folder


# ---- running ---------------------------------------------------------------------------------------------------------------

def self_test():
    files, recipes, silent = page("## A\n```c a.c b.c\nint x;\n```\n\n```sh run tool\ntrue\n```\n```sh run\nfalse\n```\n\n"
                                  "text (not run):\n\n```sh\nx\n```\n\n```sh\nsilent\n```\n")
    checks = {"files": files == {"a.c": "int x;\n", "b.c": "int x;\n"},
              "recipes": recipes == [("A 1", ["tool"], "true\n"), ("A 2", [], "false\n")],
              "silent blocks": silent == ["silent\n"],
              "missing tools": missing(["no-such-tool", "sh"]) == ["no-such-tool"]}
    scratch = os.path.join(OUT, "self-test")
    checks["a failure is seen"] = "exit status 1" in (recipe("false; echo '%s'" % PROMPT, scratch, {}) or "")
    checks["a missing story is seen"] = "0 stories of 1" in (recipe("echo '%s'" % PROMPT, scratch, {}) or "")
    checks["no story wanted is seen"] = recipe("true", scratch, {}) is not None
    checks["a story is seen"] = recipe("echo '%s%s'" % (PROMPT, STORY), scratch, {}) is None
    for name, ok in checks.items():
        if not ok:
            print("FAILED build self-test: " + name)
    bad = list(checks.values()).count(False)
    print("build self-test: %d passed, %d failed" % (len(checks) - bad, bad))
    return 1 if bad else 0


def main():
    if "--self-test" in sys.argv:
        return self_test()
    chosen = sys.argv[1] if len(sys.argv) > 1 else ""
    os.makedirs(OUT, exist_ok=True)
    files, recipes, silent = page(read("docs/building.md"))
    steps = [("make install", ["make"], install), ("versions", ["make"], versions), ("make dist", ["tar", "sha256sum"], dist),
             ("examples/host/cmake", ["cmake", "c++"], example), ("debug builds", ["cmake", "make"], optimised)]
    for name, tools, commands in recipes:
        folder = os.path.join(OUT, re.sub(r"\W+", "-", name.lower()))
        steps.append((name, tools, lambda c=commands, f=folder: recipe(c, f, files)))
    passed = failed = skipped = 0
    for block in silent:
        failed += 1
        print("FAILED build: a block of docs/building.md is neither run nor says that it is not run:\n" + block)
    for name, tools, step in steps:
        if chosen not in name and not (chosen == "pkg-config" and name == "make install"):
            continue
        lacks = missing(tools)
        if lacks and not NO_SKIP:
            skipped += 1
            print("skipped build: %s: %s not installed" % (name, ", ".join(lacks)))
            continue
        wrong = "%s not installed" % ", ".join(lacks) if lacks else step()
        passed, failed = passed + (wrong is None), failed + (wrong is not None)
        print("FAILED build: %s: %s" % (name, wrong) if wrong else "ok %s" % name, flush=True)
    print("build: %d passed, %d failed, %d skipped" % (passed, failed, skipped))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
