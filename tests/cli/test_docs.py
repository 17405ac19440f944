#!/usr/bin/env python3
"""test_docs.py: what the documents promise: the README's program and the manual's compile and run, `make run` tells the story,
the commands, targets and files that the documents name are there, and the README's lists are the build's own.

  python3 tests/cli/test_docs.py build/infer
"""
import glob, os, re, subprocess, sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
os.chdir(ROOT)
INFER = sys.argv[1] if len(sys.argv) > 1 else "build/infer"
CC = os.environ.get("CC", "cc")
LIBS = ["-lm", "-lpthread"] + (["-ldl"] if sys.platform.startswith("linux") else [])
OUT = "build/docs"
MODEL = "tests/data/models/stories260K.F32.gguf"
STORY = (", there was a little girl named Lily. She loved to play outside in the park. One day, she saw a big, red ball. "
         "She wanted to play with it,")
results = {True: 0, False: 0}


def check(ok, what):
    results[bool(ok)] += 1
    if not ok:
        print("FAILED docs: %s" % what)


def run(*command):
    p = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return p.returncode, p.stdout, p.stderr


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def build(name, source, *flags):
    with open("%s/%s.c" % (OUT, name), "w", encoding="utf-8") as f:
        f.write(source)
    code, _, err = run(CC, "-O0", "-DINFER_QUIET", "-Wall", "-Werror", "-I.", *flags, "%s/%s.c" % (OUT, name), "-o", "%s/%s" % (OUT, name), *LIBS)
    check(code == 0, "the program of %s does not compile: %s" % (name, err[:300]))
    return code == 0


def main():
    os.makedirs(OUT, exist_ok=True)
    readme, manual, contributing = read("README.md"), read("infer.h"), read("CONTRIBUTING.md")

    # the README's whole program, as written
    program = re.search(r"```c\n(.*?)```", readme, re.S).group(1)
    if build("readme", program):
        code, out, err = run(OUT + "/readme", MODEL, "Once upon a time")
        check(code == 0 and out.startswith(STORY), "the README's program prints %r %s" % (out[:80], err))
        check(run(OUT + "/readme", "no such file", "x")[0] == 1, "the README's program takes a missing file")

    # section 5 of the manual: each entry has a test that bears its name, and no test bears another
    part = manual[manual.index("5. In a host\n---"):manual.index("6. Evaluating: steps, passes, results\n---")]
    entries = set(re.findall(r"(?m)^    (\S(?:\S| (?! ))*?)  +\S", part.split("\n\n")[2]))
    marks = set()
    for pattern in ("tests/*.c", "tests/compile/*.c*"):
        for path in glob.glob(pattern):
            marks.update(m for m in re.findall(r"host: ([a-z ]+)[.)]", read(path)))
    check(len(entries) > 8 and entries == marks, "section 5 of the manual and tests differ: %s" % sorted(entries ^ marks))

    # the manual's first lines, with the two functions that they leave to the reader
    part = manual[manual.index("1. In short\n---"):manual.index("2. Building\n---")]
    lines = [l[4:] for l in part.splitlines() if l.startswith("    ")]
    body = "\n".join(re.sub(r"\(your function.*\)$", "", l) for l in lines[3:])
    source = ("#include <stdio.h>\n%s\n%s\n"
              "static int show(void *u, const char *t, size_t n) { (void)u; return fwrite(t, 1, n, stdout) != n; }\n"
              "#define fail(m) return fprintf(stderr, \"%%s\\n\", m)\n"
              "int main(int argc, char **argv) {\n%s\nreturn argc > 9 && argv; }\n" % (lines[0], lines[1], body))
    if build("manual", source.replace('"model.gguf"', '"%s"' % MODEL)):
        code, out, err = run(OUT + "/manual")
        check(code == 0 and out.startswith(STORY), "the manual's program prints %r %s" % (out[:80], err))

    # make run
    code, out, err = run("make", "-s", "run")
    check(code == 0 and out.startswith("Once upon a time" + STORY), "make run prints %r %s" % (out[:120], err[-200:]))

    # lists and names
    archs = [l.split()[0] for l in run(INFER, "info", "--archs")[1].splitlines()]
    listed = re.search(r"\| Architectures \| (.*?)\. \[", readme).group(1)
    listed = [re.sub(r" \(.*\)$", "", name) for name in re.split(r", |; [\w ]+: ", listed)]
    for name in set(listed) - set(archs):
        check(False, "the README lists %s, `info --archs` does not" % name)
    check(set(archs) <= set(listed), "the README does not list %s" % ", ".join(sorted(set(archs) - set(listed))))
    for name in archs:
        check(re.search(r"\b%s\b" % re.escape(name), readme), "`info --archs` lists %s, the README does not" % name)
    targets = set(re.findall(r"^([a-z]+):", read("Makefile"), re.M))
    for text in (readme, contributing):
        for name in re.findall(r"(?:^|`)\s*make ([a-z]+)(?![\w/])", text, re.M):
            check(name in targets, "`make %s` is no target" % name)
        for path in set(re.findall(r"`((?:src|kernels|tests|tools|docs|examples)/[\w./-]+)`", text)):
            check("NAME" in path or os.path.exists(path.rstrip("/")), "%s does not exist" % path)
    for name in re.findall(r"build/infer ([a-z|]+)", readme):
        for command in name.split("|"):
            check(run(INFER, command, "--help")[0] == 0, "`infer %s --help` fails" % command)
    print("%d passed, %d failed" % (results[True], results[False]))
    return 1 if results[False] else 0


if __name__ == "__main__":
    sys.exit(main())
