#!/usr/bin/env python3
"""embed_page.py: tools/infer/serve/page/ -> tools/infer/serve/page_embed.h, the chat page as C strings with its policy

  python3 tools/embed_page.py           write page_embed.h
  python3 tools/embed_page.py --check   exit 1 when page_embed.h is not what the folder gives

A line of page.html that is a file's name in a comment stands for that file. The Content-Security-Policy names the style and the script
by their SHA-256, so the browser runs these texts and no other, whatever a model says.
"""
import base64, hashlib, os, re, sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDER = os.path.join(ROOT, "tools", "infer", "serve", "page")
OUT = os.path.join(ROOT, "tools", "infer", "serve", "page_embed.h")
PIECE = 4000  # bytes of a string (C99 promises 4095)
COLUMNS = 150  # of a line of C, without indentation and quotes


def read(name):
    with open(os.path.join(FOLDER, name), encoding="utf-8", newline="") as f:
        return f.read().replace("\r\n", "\n")


def page():
    """The page as it is served."""
    return re.sub(r"(?m)^/\* ([\w.]+) \*/\n", lambda m: read(m.group(1)), read("page.html"))


def policy(text):
    """What the browser may do with the page: the value of Content-Security-Policy."""
    def hashed(tag):
        inside = re.findall("<%s>(.*?)</%s>" % (tag, tag), text, re.S)
        if len(inside) != 1:
            sys.exit("embed_page.py: %d elements <%s>, not one." % (len(inside), tag))
        return "'sha256-%s'" % base64.b64encode(hashlib.sha256(inside[0].encode("utf-8")).digest()).decode()
    return ("default-src 'none'; connect-src 'self'; img-src data:; style-src %s; script-src %s; base-uri 'none'; form-action 'none'; "
            "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'" % (hashed("style"), hashed("script")))


def quoted(data):
    """Lines of C for bytes, each as full as it can be: what is no ASCII, and ? (of trigraphs), as octal digits."""
    lines = [""]
    for c in data:
        byte = {10: "\\n", 34: '\\"', 92: "\\\\"}.get(c) or (chr(c) if 32 <= c < 127 and c != 63 else "\\%03o" % c)
        if len(lines[-1] + byte) > COLUMNS:
            lines.append("")
        lines[-1] += byte
    return "\n".join('    "%s"' % line for line in lines)


def header():
    text = page().encode("utf-8")
    return ("// page_embed.h: made by tools/embed_page.py from tools/infer/serve/page/; not to be edited\n\n"
            "#define PAGE_POLICY \\\n%s\n\n// one after the other they are the page\nstatic const char *const page_pieces[] = {\n%s};\n" %
            (quoted(policy(page()).encode("utf-8")).replace("\n", " \\\n"),
             "".join(quoted(text[i:i + PIECE]) + ",\n" for i in range(0, len(text), PIECE))))


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__)
    made = header()
    if sys.argv[1:]:
        with open(OUT, encoding="utf-8", newline="") as f:
            if f.read().replace("\r\n", "\n") != made:
                sys.exit("embed_page.py: page_embed.h is not what tools/infer/serve/page/ gives. Run python3 tools/embed_page.py.")
        return
    with open(OUT, "w", encoding="utf-8", newline="\n") as f:
        f.write(made)


if __name__ == "__main__":
    main()
