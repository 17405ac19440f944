#!/usr/bin/env python3
"""test_compact.py: tools/compact.py joins what it says and leaves alone what it must.

  python3 tests/test_compact.py
"""
import os, sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tools"))
from compact import compact  # noqa: E402

LONG = "x" * 70
CASES = [  # (what, before, after)
    ("statements", "static int f(int a,\n             int b);\n", "static int f(int a, int b);\n"),
    ("an aligned rest", "int %s(int a,\n    int b, int %s,\n    int %s);\n" % (LONG, LONG, LONG),
     "int %s(int a, int b, int %s,\n%sint %s);\n" % (LONG, LONG, " " * (len(LONG) + 5), LONG)),
    ("functions", "static int f(int a) {\n    return a;\n}\n", "static int f(int a) { return a; }\n"),
    ("no blank behind a function", "void f(void) {\n    LONG;\n    if (a) g();\n}\n\nint b;\n\nint c;\n".replace("LONG", LONG * 4),
     "void f(void) {\n    LONG;\n    if (a) g();\n}\nint b;\n\nint c;\n".replace("LONG", LONG * 4)),
    ("bodies", "void f(void) {\n    if (a)\n        b(c);\n    d(c);\n    while (a) {\n        g(a);\n    }\n}\n",
     "void f(void) {\n    if (a) b(c);\n    d(c);\n    while (a) { g(a); }\n}\n"),
    ("no statement behind an if", "void f(void) {\n    if (a) b();\n    c();\n    if (a) b();\n    c();\n}\n", None),
    ("declarations", "void f(void) {\n    int a;\n    int b;\n    if (a) g(b);\n    for (;;) h(a);\n    return;\n}\n",
     "void f(void) {\n    int a; int b;\n    if (a) g(b);\n    for (;;) h(a);\n    return;\n}\n"),
    ("nothing behind a comment", "void f(void) {\n    a.x = 1; /* one */\n    a.y = 2;\n    if (a.y) g();\n    if (a.x) h();\n}\n", None),
    ("strings", "void f(void) {\n    g(\"/*\");\n    if (a)\n        h(\"*/ // \\\" {\", '\\'');\n    if (b) h();\n    if (c) h();\n}\n",
     "void f(void) {\n    g(\"/*\");\n    if (a) h(\"*/ // \\\" {\", '\\'');\n    if (b) h();\n    if (c) h();\n}\n"),
    ("preprocessor lines", "void f(void) {\n#if defined(A)\n    if (a)\n#endif\n        b();\n    if (c) d();\n    if (e) g();\n}\n", None),
    ("macros", "#define A(x) \\\n    do {       \\\n        if (x) \\\n            f(x); \\\n        g();   \\\n        h();   \\\n"
     "        i(1);  \\\n        if (x) j(); \\\n    } while (0)\n",
     "#define A(x)         \\\n    do {             \\\n        if (x) f(x); \\\n        g(); h();    \\\n        i(1);        \\\n"
     "        if (x) j();  \\\n    } while (0)\n"),
    ("lists in comments", "/* a\n *  1. b\n *  2. c */\nint a;\n", None),
    ("ends of comments", "/* a\n * b\n */\nint a;\n", "/* a\n * b */\nint a;\n"),
    ("enums", "enum {\n    A = 1,\n    B, /* b */\n    C,\n    D\n};\n", "enum {\n    A = 1,\n    B, /* b */\n    C, D\n};\n"),
]


def main():
    failed = 0
    for what, before, after in CASES:
        got = compact(before)
        if got != (before if after is None else after):
            failed += 1
            print("%s: got\n%s" % (what, got))
    print("test_compact: %d cases, %d failed" % (len(CASES), failed))
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
