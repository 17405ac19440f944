#!/usr/bin/env python3
"""test_declarations.py: what tools/declarations.py says of infer.h is enough for a binding, and what a C compiler says.

  python3 tests/test_declarations.py [CC]     needs build/impl.o and build/infer, as `make test` has them

A ctypes binding is made of the JSON alone and writes a story; sizes, offsets, enumerators and symbols are compared with the compiler's.
"""
import ctypes, json, os, subprocess, sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OUT = os.path.join(ROOT, "build", "declarations")
CC = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("CC", "cc")
MODEL, PROMPT = "tests/data/models/stories260K.F32.gguf", "Once upon a time"
LIBS = ["-lm", "-lpthread"] + (["-ldl"] if sys.platform.startswith("linux") else [])
PLAIN = {"void": None, "char": ctypes.c_char, "int": ctypes.c_int, "float": ctypes.c_float, "double": ctypes.c_double, "size_t": ctypes.c_size_t,
         **{n + "_t": getattr(ctypes, "c_" + n) for n in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")}}


class Binding:
    """Everything in the JSON as attributes, without the prefix: types, constants and functions."""
    def __init__(self, said, library):
        self.types, self.opaque = dict(PLAIN), set()
        for t in said["types"]:
            if t["is"] == "opaque":
                self.opaque.add(t["name"])
            else:
                self.types[t["name"]] = self.types[t["is"]]
        for e in said["enums"]:
            if e["name"]:
                self.types[e["name"]] = {4: ctypes.c_int32}[said["enum_bytes"]]
            for v in e["values"]:
                setattr(self, v["name"][6:], v["value"])
        for m in said["macros"]:
            if "parameters" not in m:
                setattr(self, m["name"][6:], m["value"])
        # a callback may name structs, and structs have callbacks: the former wait, as pointers to nothing known
        structs = {s["name"]: type(s["name"], (ctypes.Structure,), {}) for s in said["structs"]}
        self.types.update(structs)
        for c in said["callbacks"]:
            self.types[c["name"]] = self.function(c)
        for s in said["structs"]:
            structs[s["name"]]._fields_ = [(f["name"], self.type(f["type"])) for f in s["fields"]]
        for name, t in self.types.items():
            setattr(self, name[6:] if name.startswith("infer_") else name, t)
        for f in said["functions"]:
            symbol = getattr(library, f["name"])
            symbol.restype, symbol.argtypes = self.type(f["returns"]), [self.type(p["type"]) for p in f["parameters"]]
            setattr(self, f["name"][6:], symbol)

    def function(self, f):
        # texts that callbacks receive have a length and no zero: pointers, not Python's texts
        return ctypes.CFUNCTYPE(self.type(f["returns"]), *[self.type(p["type"], texts=False) for p in f["parameters"]])

    def type(self, t, texts=True):
        if "array" in t:
            return self.type(t["of"]) * t["array"]
        if "pointer" not in t:
            return self.types[t["name"]]
        to = t["pointer"]
        if "function" in to:
            return self.function(to["function"])
        if to.get("name") == "void" or to.get("name") in self.opaque:
            return ctypes.c_void_p
        if texts and to.get("name") == "char" and to.get("const"):
            return ctypes.c_char_p
        return ctypes.POINTER(self.type(to, texts))


def story(b):
    """What the binding writes after the prompt."""
    error, model, session, pieces = b.error(), ctypes.c_void_p(), ctypes.c_void_p(), []
    if b.model_open(ctypes.byref(model), MODEL.encode(), None, ctypes.byref(error)):
        return error.message.decode()
    if b.session_create(ctypes.byref(session), model, None, ctypes.byref(error)):
        return error.message.decode()
    params = b.generate_params(max_tokens=64)
    params.text = b.text_fn(lambda user, text, n: pieces.append(ctypes.string_at(text, n)) or 0)
    info = b.generate_info()
    result = b.generate(session, None, PROMPT.encode(), ctypes.byref(params), ctypes.byref(info))
    if result != b.OK or info.stop_reason != b.STOP_LIMIT or info.new_tokens != 64:
        return "result %d, stop_reason %d, %d tokens" % (result, info.stop_reason, info.new_tokens)
    if b.session_destroy(session) != b.OK or b.model_close(model) != b.OK:
        return "something is still in use"
    return b"".join(pieces).decode()


def compilers_view(said):
    """Lines 'name value' as a C program prints them: sizes, offsets, enumerators, macros."""
    lines = []
    def show(name, value):
        lines.append('    printf("%%s %%ld\\n", "%s", (long)%s);' % (name, value))
    for s in said["structs"]:
        show(s["name"], "sizeof(%s)" % s["name"])
        for f in s["fields"]:
            show("%s.%s" % (s["name"], f["name"]), "offsetof(%s, %s)" % (s["name"], f["name"]))
    for e in said["enums"]:
        if e["name"]:
            show(e["name"], "sizeof(%s)" % e["name"])
        for v in e["values"]:
            show(v["name"], v["name"])
    for m in said["macros"]:
        if isinstance(m["value"], str) and "parameters" not in m:
            lines.append('    printf("%%s %%s\\n", "%s", %s);' % (m["name"], m["name"]))
        elif "parameters" not in m:
            show(m["name"], m["name"])
    source, exe = os.path.join(OUT, "layout.c"), os.path.join(OUT, "layout")
    with open(source, "w", encoding="utf-8") as f:
        f.write('#include "infer.h"\n#include <stdio.h>\nint main(void) {\n%s\n    return 0;\n}\n' % "\n".join(lines))
    subprocess.run([CC, "-std=c99", "-Wall", "-Werror", "-I" + ROOT, source, "-o", exe], check=True)
    return subprocess.run([exe], check=True, capture_output=True, text=True).stdout.splitlines()


def bindings_view(said, b):
    lines = []
    for s in said["structs"]:
        t = b.types[s["name"]]
        lines.append("%s %d" % (s["name"], ctypes.sizeof(t)))
        lines += ["%s.%s %d" % (s["name"], f["name"], getattr(t, f["name"]).offset) for f in s["fields"]]
    for e in said["enums"]:
        lines += ["%s %d" % (e["name"], ctypes.sizeof(b.types[e["name"]]))] if e["name"] else []
        lines += ["%s %d" % (v["name"], v["value"]) for v in e["values"]]
    return lines + ["%s %s" % (m["name"], m["value"]) for m in said["macros"] if "parameters" not in m]


# ---- the reader ------------------------------------------------------------------------------------------------------------

def said_of(declarations):
    """What the tool makes of a header with these declarations, or its error."""
    path = os.path.join(OUT, "planted.h")
    with open(path, "w", encoding="utf-8") as f:
        f.write("/* a manual: int x; */\n#ifndef INFER_H\n#define INFER_H\n/* The version. */\n#define INFER_VERSION 0x010203\n%s\n#endif /* INFER_H */\nint y;\n"
                % declarations)
    p = subprocess.run([sys.executable, "tools/declarations.py", path], cwd=ROOT, capture_output=True, text=True)
    return json.loads(p.stdout) if p.returncode == 0 else p.stderr


def reader_cases():
    char = {"pointer": {"name": "char", "const": True}}
    said = said_of("""
/* ---- one ---- */

/* Behind a line: nobody's. */

/* What it is.
 * It is owned by the caller. It lives. */
typedef struct infer_a {
    int32_t x, y; /* both */
    /* before */
    const char *const *names; /* and
                               * behind */
    int (*f)(void *user, const char *text); float p[INFER_N];
} infer_a;
enum { INFER_N = 3, INFER_M, /* four */
       INFER_L = -1 };
typedef struct infer_b infer_b; /* hidden */
/* Makes one. */
INFER_API infer_result infer_b_create(infer_b **out);
INFER_API infer_result infer_b_close(infer_b *b);

INFER_API void infer_alone(void);
#ifdef OTHER
INFER_API void infer_conditional(void);
#endif
""".replace("p[INFER_N]", "p[2]"))
    if not isinstance(said, dict):
        return {"the planted header is read: " + said: False}
    a, functions = said["structs"][0], {f["name"]: f for f in said["functions"]}
    fields = {f["name"]: f for f in a["fields"]}
    return {
        "version": said["version"] == "1.2.3",
        "comment of a struct": a["comment"] == "What it is. It is owned by the caller. It lives." and a["section"] == "one",
        "sentences on ownership": a["ownership"] == ["It is owned by the caller."],
        "two fields of a declaration": fields["x"]["comment"] == fields["y"]["comment"] == "both",
        "comments before and behind": fields["names"]["comment"] == "before and behind",
        "pointers to const pointers": fields["names"]["type"] == {"pointer": dict(char, const=True)},
        "function pointers": fields["f"]["type"]["pointer"]["function"]["parameters"][1] == {"name": "text", "type": char},
        "arrays": fields["p"]["type"] == {"array": 2, "of": {"name": "float"}},
        "enumerators": [(v["value"], v["comment"]) for v in said["enums"][0]["values"]] == [(3, None), (4, "four"), (-1, None)],
        "opaque types": said["types"][0]["is"] == "opaque" and said["types"][0]["comment"] == "hidden",
        "functions": sorted(functions) == ["infer_alone", "infer_b_close", "infer_b_create"],
        "below another": functions["infer_b_close"]["below"] == "infer_b_create" and "below" not in functions["infer_alone"],
        "objects": said["objects"] == [{"name": "infer_b", "created_by": [{"function": "infer_b_create", "parameter": "out"}],
                                        "released_by": "infer_b_close"}],
        "unsigned int is refused": "fixed width" in said_of("INFER_API unsigned int infer_x(void);"),
        "bit fields are refused": "expected" in said_of("typedef struct infer_a { int32_t x : 3; } infer_a;"),
        "expressions are refused": "only constants" in said_of("enum { INFER_A = 1 << 2 };"),
        "an unknown size is refused": "no constant" in said_of("typedef struct infer_a { int32_t x[N]; } infer_a;"),
        "variables are refused": "unknown kind" in said_of("extern int infer_x;"),
        "unions are refused": "neither" in said_of("typedef union infer_u { int32_t a; } infer_u;"),
    }


OLD = """
enum { INFER_A = 1, INFER_COUNT = 2 };
typedef struct infer_s { int32_t x; } infer_s;
typedef int (*infer_f)(void *user);
INFER_API void infer_g(int32_t a);
"""
CHANGES = ( # what becomes what, the version that it needs, what is said of it
    ("", "", "patch", "0 changes"),
    ("int32_t a", "int32_t other", "patch", "0 changes"),
    ("int32_t x;", "int32_t x; /* said */", "patch", "0 changes"),
    ("int32_t x;", "int32_t x; float y;", "minor", "infer_s has more fields: y"),
    ("int32_t x;", "float y; int32_t x;", "major", "infer_s has other fields"),
    ("int32_t x;", "int32_t y;", "major", "infer_s has other fields"),
    ("INFER_A = 1, INFER_COUNT = 2", "INFER_A = 1, INFER_B = 2, INFER_COUNT = 3", "minor", "INFER_B is new"),
    ("INFER_A = 1", "INFER_A = 3", "major", "INFER_A is different"),
    ("INFER_A = 1, ", "", "major", "INFER_A is gone"),
    ("int32_t a", "int64_t a", "major", "infer_g is different"),
    ("INFER_API void infer_g(int32_t a);", "", "major", "infer_g is gone"),
    ("INFER_API", "INFER_API void infer_h(void);\nINFER_API", "minor", "infer_h is new"),
    ("void *user", "const void *user", "major", "infer_f is different"),
)
VERSIONS = {"patch": "0x010204", "minor": "0x010300", "major": "0x020000"}


def compare_cases():
    old, new, cases = os.path.join(OUT, "old.json"), os.path.join(OUT, "new.h"), {}
    with open(old, "w", encoding="utf-8") as f:
        json.dump(said_of(OLD), f)
    for before, after, needs, what in CHANGES:
        for level in VERSIONS:
            with open(new, "w", encoding="utf-8") as f:
                f.write("#ifndef INFER_H\n#define INFER_H\n#define INFER_VERSION %s\n%s#endif /* INFER_H */\n" % (VERSIONS[level], OLD.replace(before, after, 1)))
            p = subprocess.run([sys.executable, "tools/declarations.py", "--compare", old, new], capture_output=True, text=True)
            enough = list(VERSIONS).index(level) >= list(VERSIONS).index(needs)
            ok = p.returncode == (0 if enough else 1) and what in p.stdout and ("raise INFER_VERSION" in p.stdout) != enough
            cases["%s -> %s in a %s version: %s" % (before, after, level, p.stdout + p.stderr)] = ok
    return cases


def library_cases(said):
    library = os.path.join(OUT, "libinfer.so")
    subprocess.run([CC, "-shared", os.path.join(ROOT, "build", "impl.o"), "-o", library] + LIBS, check=True)
    b = Binding(said, ctypes.CDLL(library))
    compiler, binding = compilers_view(said), bindings_view(said, b)
    for want, got in zip(compiler, binding):
        if want != got:
            print("  the compiler says %s, the binding %s" % (want, got))
    want = subprocess.run(["build/infer", "run", MODEL, "-p", PROMPT, "-n", "64", "--temp", "0"], cwd=ROOT, check=True, capture_output=True, text=True)
    got = story(b)
    if got.rstrip("\n") != want.stdout.rstrip("\n"):
        print("  the program says %r, the binding %r" % (want.stdout, got))
    nm = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    exported = {line.split()[-1] for line in nm.splitlines() if line.split()[-1].startswith("infer_")}
    declared = {f["name"] for f in said["functions"]}
    if exported != declared:
        print("  exported or declared alone: %s" % sorted(exported ^ declared))
    return {"%d sizes, offsets and values are the compiler's" % len(compiler): compiler == binding and len(compiler) > 500,
            "the binding writes what the program writes": len(got) > 100 and got.rstrip("\n") == want.stdout.rstrip("\n"),
            "%d functions, all that the library exports" % len(declared): exported == declared}


def main():
    os.chdir(ROOT)
    os.makedirs(OUT, exist_ok=True)
    cases = dict(reader_cases(), **compare_cases())
    said = json.loads(subprocess.run([sys.executable, "tools/declarations.py"], check=True, capture_output=True, text=True).stdout)
    skipped = 0
    if sys.platform.startswith("linux"):
        cases.update(library_cases(said))
    else:
        skipped = 1
        print("skipped declarations: the binding: the test builds a shared library of Linux")
    for name, ok in cases.items():
        if not ok:
            print("FAILED declarations: " + name)
    bad = list(cases.values()).count(False)
    print("declarations: %d passed, %d failed, %d skipped" % (len(cases) - bad, bad, skipped))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
