#!/usr/bin/env python3
"""amalgamate.py: src/infer_all.c (the spine) and what it includes -> infer.h

  python3 amalgamate.py              write infer.h
  python3 amalgamate.py --check      exit 1 when infer.h is not what src/ gives
  python3 amalgamate.py --split DIR  write DIR/infer.h and DIR/infer.c instead
  python3 amalgamate.py --line       with #line, so that a debugger shows src/ (-o FILE: elsewhere than infer.h)

The rules, all of them:
  1. src/api.h comes first and needs nothing else. The rest stands inside #ifdef INFER_IMPLEMENTATION, once.
  2. A quoted #include is replaced by that file where it is met first; repeats are left out. So are guards INFER__*_H.
  3. A system #include is kept once; those inside an #if stay as they are.
  4. Every part stands between /*** begin PATH ***/ and /*** end PATH ***/, the latter only where no other part begins.
  5. LICENSE ends the file, as a comment. No time stamp: the same sources give the same bytes.
  6. Every file in src/ must be reached from the spine.
  7. What stands behind a line "/* ---- data: last in infer.h ---- */" comes last, before base/epilogue.h, in long lines.
     An empty line is left out where another one precedes it, or the end of a long comment, a banner, or an #if.
  8. kernels_embed.h, which tools/embed_kernels.py makes of kernels/, is a part like those in src/.
  9. For gcc the implementation begins with a #line that changes nothing: see UNINDENTED.
 10. tools/compact.py joins lines of the implementation, up to 220 columns: some tools count lines in 16 bits, so infer.h
     must have fewer than MAX_LINES. With --line it does not. src/api.h stays as it is, and so does the data.
"""
import argparse, hashlib, os, re, sys

ROOT = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(ROOT, "tools"))
from compact import compact  # noqa: E402
SPINE, API = "src/infer_all.c", "src/api.h"
QUOTED = re.compile(r'^\s*#\s*include\s+"([^"]+)"')
SYSTEM = re.compile(r'^\s*#\s*include\s+<([^>]+)>')
DATA, LAST = "/* ---- data: last in infer.h ---- */", "src/base/epilogue.h"
MAX_LINES = 65535
COLUMNS = 4000 # of a line of data (C99 promises 4095)
OPENING = re.compile(r' \*/$|/\* -{4,} .* -{4,} \*/$|\s*#\s*(?:if|else|elif|endif)') # behind which no empty line is needed: rule 7
OPENS, CLOSES = re.compile(r'^\s*#\s*if'), re.compile(r'^\s*#\s*endif')
TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|/\*|//')


def fail(message, remedy):
    sys.exit("amalgamate.py: %s. %s." % (message, remedy))


def read(path):
    try:
        with open(os.path.join(ROOT, path), encoding="utf-8", newline="\n") as f:
            return f.read()
    except FileNotFoundError:
        fail("%s is missing" % path, "Add it, or remove the #include that names it")


def code_lines(text):
    """(line, is_code) pairs: is_code is False for lines that begin inside a comment, where # means nothing."""
    inside = False
    for line in text.splitlines():
        begins_inside, at = inside, 0
        while True:
            if inside:
                end = line.find("*/", at)
                if end < 0:
                    break
                inside, at = False, end + 2
            token = TOKEN.search(line, at)
            if not token or token.group() == "//":
                break
            inside, at = token.group() == "/*", token.end()
        yield line, not begins_inside


def guard_of(text):
    """The macro of an include guard around the whole file, or None."""
    directives = [l for l, code in code_lines(text) if code and l.lstrip().startswith("#")]
    m = re.match(r"\s*#\s*ifndef\s+(\w+)", directives[0]) if directives else None
    return m and len(directives) > 1 and re.match(r"\s*#\s*define\s+%s\s*$" % m.group(1), directives[1]) and m.group(1)


def packed(data):
    """The lines of data, as many as fit side by side: nobody reads them."""
    line = ""
    for part in data.split("\n"):
        part = part.strip()
        if line and (part.startswith("#") or line.startswith("#") or len(line) + 1 + len(part) > COLUMNS):
            yield line
            line = ""
        line += (" " if line and part else "") + part
    yield line


class Amalgam:
    def __init__(self, line_directives):
        self.line_directives = line_directives
        self.done = {}      # path -> text, in order
        self.stack = []
        self.system = set() # system headers included unconditionally so far
        self.out = []
        self.last = []      # (path, data) of the parts whose data comes last

    def line(self, number, path):
        if self.line_directives:
            self.out.append('#line %d "%s"' % (number, path))

    def emit(self, path):
        text = read(path)
        self.done[path] = text
        self.stack.append(path)
        if path == LAST:
            self.data_last()
        if DATA in text: # the guard ends behind the data
            text, data = text.split(DATA)
            self.last.append((path, data.rstrip().removesuffix("#endif").strip()))
            text += "#endif\n"
        lines = list(code_lines(text))
        directives = [n for n, (line, is_code) in enumerate(lines, 1) if is_code and line.lstrip().startswith("#")]
        guard = guard_of(text)
        inner = guard and guard.startswith("INFER__")
        left_out = {directives[0], directives[1], directives[-1]} if inner else ()
        depth = -1 if guard and not inner else 0
        if self.out and self.out[-1].startswith("/*** end "):
            self.out.pop()
        self.out.append("/*** begin %s ***/" % path)
        self.line(1, path)
        for number, (line, is_code) in enumerate(lines, 1):
            quoted, system = (QUOTED.match(line), SYSTEM.match(line)) if is_code else (None, None)
            if number in left_out or (not line and (not self.out[-1] or OPENING.match(self.out[-1]))):
                self.line(number + 1, path)
                continue
            if is_code and OPENS.match(line):
                depth += 1
            elif is_code and CLOSES.match(line):
                depth -= 1
            if quoted:
                self.include(path, number, quoted.group(1))
            elif system and system.group(1) in self.system:
                self.line(number + 1, path)
            else:
                if system and depth == 0:
                    self.system.add(system.group(1))
                self.out.append(line)
        self.out.append("/*** end %s ***/" % path)
        self.stack.pop()

    def data_last(self):
        self.out.append(DATA)
        for path, data in self.last:
            self.out += ["/*** begin %s: data ***/" % path, *packed(data), "/*** end %s: data ***/" % path]
        self.out.append(DATA)

    def include(self, path, number, name):
        target = os.path.normpath(os.path.join(os.path.dirname(path), name)).replace(os.sep, "/")
        if target in self.stack:
            fail("%s:%d includes itself through %s" % (path, number, target), "Break the circle")
        if not os.path.exists(os.path.join(ROOT, target)):
            fail("%s:%d includes %s, which is missing" % (path, number, target), "Add the file or remove the line")
        if target not in self.done:
            self.emit(target)
        self.line(number + 1, path)

    def take(self):
        out, self.out = self.out, []
        return "\n".join(out) + "\n"


def unreached(done):
    found = []
    for folder, _, files in os.walk(os.path.join(ROOT, "src")):
        for f in files:
            path = os.path.relpath(os.path.join(folder, f), ROOT).replace(os.sep, "/")
            if f.endswith((".c", ".h")) and path not in done:
                found.append(path)
    return sorted(found)


def build(line_directives=False):
    """(header part, implementation, licence comment), each text that ends with a newline."""
    a = Amalgam(line_directives)
    a.emit(API)
    header = a.take()
    a.emit(SPINE)
    code, data, code_behind = a.take().split(DATA + "\n")
    if not line_directives:
        code, code_behind = compact(code), compact(code_behind)
    implementation = code + data + code_behind
    for path in unreached(a.done):
        fail("%s is not reached from %s" % (path, SPINE), "Add a line for it there, or delete it")
    version = re.search(r"#define INFER_VERSION 0x([0-9a-fA-F]{2})([0-9a-fA-F]{2})([0-9a-fA-F]{2})\b", a.done[API])
    if not version:
        fail("no #define INFER_VERSION 0xMMmmpp in " + API, "Put it back")
    licence = read("LICENSE")
    inputs = hashlib.sha256()
    for path, text in sorted(a.done.items()) + [("LICENSE", licence)]:
        inputs.update(("%s\0%s\0" % (path, text)).encode("utf-8"))
    title = "/* infer.h %d.%d.%d, sources %s. GENERATED by amalgamate.py: change src/ or kernels/, not this file. */\n" % (
        *(int(v, 16) for v in version.groups()), inputs.hexdigest()[:16])
    end = "\n/* ---- licence ----\n\n%s*/\n" % licence.replace("*/", "* /")
    return title + header, implementation, end


# gcc's -Wmisleading-indentation, which -Wall has, reads the file up to the line it looks at, again and again: ten times the
# time of everything else that it does without code. Behind any #line it looks at nothing, in the file that includes infer.h either.
UNINDENTED = """#if defined(__GNUC__) && !defined(__clang__)
#line %d /* which it is anyway: with -Wall gcc takes seconds less behind a #line */
#endif
"""
ONCE = """
#ifdef INFER_IMPLEMENTATION
#ifndef INFER_IMPLEMENTATION_DONE
#define INFER_IMPLEMENTATION_DONE
%s%s#endif /* INFER_IMPLEMENTATION_DONE */
#endif /* INFER_IMPLEMENTATION */
"""


def write(path, text):
    with open(path, "w", encoding="utf-8", newline="\n") as f:
        f.write(text)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--check", action="store_true")
    p.add_argument("--split", metavar="DIR")
    p.add_argument("--line", action="store_true")
    p.add_argument("-o", metavar="FILE", default=os.path.join(ROOT, "infer.h"))
    args = p.parse_args()
    header, implementation, licence = build(args.line)

    def unindented(before):
        return "" if args.line else UNINDENTED % (before.count("\n") + 3)  # the line behind that of #line
    whole = header + ONCE % (unindented(header + ONCE[:ONCE.index("%s")]), implementation) + licence
    if not args.line and whole.count("\n") >= MAX_LINES:
        fail("infer.h has %d lines" % whole.count("\n"), "Tools that count lines in 16 bits need fewer than %d: write less" % MAX_LINES)
    if args.check:
        if not os.path.exists(args.o) or read(os.path.relpath(args.o, ROOT)) != whole:
            fail("infer.h is not what src/ and kernels_embed.h give", "Run `make amalgamate` and commit infer.h")
    elif args.split:
        os.makedirs(args.split, exist_ok=True)
        write(os.path.join(args.split, "infer.h"), header + licence)
        title = header.split("\n", 1)[0] + '\n#include "infer.h"\n\n'
        write(os.path.join(args.split, "infer.c"), title + unindented(title) + implementation + licence)
    else:
        write(args.o, whole)


if __name__ == "__main__":
    main()
