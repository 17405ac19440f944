#!/usr/bin/env python3
"""embed_page.py PAGE OUT: the page of `infer serve` as C: its bytes, and a Content-Security-Policy that lets browsers run its own
scripts, known by their hashes, and nothing else."""
import base64, hashlib, os, re, sys


def main():
    page, out = sys.argv[1:3]
    with open(page, "rb") as f:
        data = f.read()
    text = data.decode("utf-8")
    scripts = re.findall(r"<script[^>]*>(.*?)</script>", text, re.S)
    rest = re.sub(r"<(script|style)[^>]*>.*?</\1>", "", text, flags=re.S)
    handler = re.search(r"<[^>]*\s(on[a-z]+)\s*=", rest)
    if handler:
        sys.exit("%s: the attribute %s would not run under the page's policy: use addEventListener" % (page, handler.group(1)))
    outside = re.search(r"""<[^>]*\s(?:src|href)\s*=\s*["']?(?!["']?(?:#|data:))([^"'\s>]+)""", rest)
    if outside:
        sys.exit("%s: %s lies outside the page" % (page, outside.group(1)))
    hashes = " ".join("'sha256-%s'" % base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts)
    policy = ("default-src 'none'; script-src %s; style-src 'unsafe-inline'; img-src data:; connect-src 'self'; base-uri 'none'; "
              "form-action 'none'; frame-ancestors 'none'" % (hashes or "'none'"))
    with open(out + ".new", "w") as f:
        f.write('#define SERVE_PAGE_POLICY "%s"\nstatic const unsigned char serve_page[] = {' % policy)
        for i in range(0, len(data), 32):
            f.write("\n" + ",".join(str(b) for b in data[i:i + 32]) + ",")
        f.write("\n};\n")
    os.replace(out + ".new", out)


main()
