#!/usr/bin/env python3
"""format.py [FILE or FOLDER...]: break the lines of src/ that are longer than check_style.py allows; touch nothing else.

Comments are reflowed within their paragraph; code goes to clang-format (when it is installed), only the lines in question:
formatting whole files would destroy hand-aligned tables.
"""
import os, re, shutil, subprocess, sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import check_style
from check_style import File, MAX_COLUMNS, ROOT, column_limit

def too_long(f):
    return [n for n, line in enumerate(f.lines) if len(line) > column_limit(f, line)]


def wrap_comment(lines, n):
    """Break comment line n; the rest joins the next line when that goes on with the same indentation."""
    line = lines[n]
    if line.endswith("--- */"):
        lines[n] = line.rstrip("-/* ") + " " + "-" * (MAX_COLUMNS - 4 - len(line.rstrip("-/* "))) + " */"
        return len(lines[n]) < len(line)
    cut = line.rfind(" ", 0, MAX_COLUMNS + 1)
    prefix = re.match(r"^(\s*)(/\*|\*)?(\s*)([A-Z]\w+: +)?", line)
    if line[cut:].strip() == "*/":
        cut = line.rfind(" ", 0, cut)
    if cut <= len(prefix.group(0)):
        return False
    star = " *" if prefix.group(2) == "/*" else (prefix.group(2) or "")
    label = " " * len(prefix.group(4)) if prefix.group(4) and prefix.group(2) == "*" else ""
    head = prefix.group(1) + star + prefix.group(3) + label
    column = re.match(r".{%d}\S+(?: \S+)*? {2,}(?=\S)" % len(prefix.group(0)), line[:cut])
    if column: # a row of two columns: the rest goes under the second, and no row is joined with the next
        head += " " * (len(column.group(0)) - len(head))
    lines[n], rest = line[:cut].rstrip(), line[cut + 1:]
    following = lines[n + 1] if n + 1 < len(lines) else ""
    if not column and "*/" not in rest and following.startswith(head) and re.match(r"[a-z(`0-9]", following[len(head):]):
        lines[n + 1] = head + rest + " " + following[len(head):]
    else:
        lines.insert(n + 1, head + rest)
    return True


def comment_lines(text):
    """Numbers of lines that are comment from their first to their last character."""
    blank = check_style.strip(text).split("\n")
    return {n for n, line in enumerate(text.split("\n")) if line.strip() and not blank[n].strip()} if \
        len(blank) == len(text.split("\n")) else set()


def main():
    clang_format, left = shutil.which("clang-format"), 0
    for path in check_style.repository_files():
        full = os.path.join(ROOT, path)
        with open(full, encoding="utf-8", newline="") as fh:
            before = fh.read()
        f = File(path, before)
        if not f.is_src or not too_long(f) or not path.startswith(tuple(sys.argv[1:]) or ""):
            continue
        for _ in range(1000):
            comments = comment_lines("\n".join(f.lines))
            n = next((n for n in too_long(f) if n in comments and wrap_comment(f.lines, n)), None)
            if n is None:
                break
        text = "\n".join(f.lines)
        if text != before:
            with open(full, "w", encoding="utf-8", newline="") as fh:
                fh.write(text)
        ranges = ["--lines=%d:%d" % (n + 1, n + 1) for n in too_long(f)]
        if ranges and clang_format:
            subprocess.run([clang_format, "-i", "--style=file"] + ranges + [full], check=True, cwd=ROOT)
        with open(full, encoding="utf-8", newline="") as fh:
            rest = too_long(File(path, fh.read()))
        left += len(rest)
        print("%s: %s" % (path, "lines still too long: %s" % [n + 1 for n in rest] if rest else "done"))
    if left and not clang_format:
        print("clang-format is not installed (pip install clang-format): code was left as it is")


if __name__ == "__main__":
    main()
