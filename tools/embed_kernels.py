#!/usr/bin/env python3
"""embed_kernels.py: kernels/ -> kernels_embed.h, the GPU kernels as C tables and compressed text

  python3 tools/embed_kernels.py                write kernels_embed.h
  python3 tools/embed_kernels.py --check        exit 1 when kernels_embed.h is not what kernels/ gives
  python3 tools/embed_kernels.py --module NAME  print a program as a driver gets it: build logs count its lines
  python3 tools/embed_kernels.py --self-test    prove that every check fires on a planted mistake

kernels.def says which files make which program. What must hold is checked here: a kernel and its args look the same in every
program of a kind, args are 4-byte fields and 16 bytes or a multiple, buffers are numbered in order.

Text goes in without comments, blank lines and indentation, each file once, packed in these bytes (unpacked by gpu_kernels.c):
  0ccccccc                            the character c
  1nnnnddd dddddddd                   n < 14: n + 3 characters, the same as those that begin d + 1 back
  11110ddd dddddddd mmmmmmmm          17 + m characters from d + 1 back
  11111ddd dddddddd mmmmmmmm hhhhhhhh  4 + m characters from h * 2048 + d + 1 back
A copy may overlap what it makes. Then every 4 bytes (the first is the highest) become 5 digits to the base 85.
"""
import argparse, hashlib, os, re, sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OUT = "kernels_embed.h"
PRELUDE = ["dialect.h", "math.k"]  # begin every program
KINDS = ["BASE", "KV", "TYPE"]
C_TYPES = {"uint": "uint32_t", "int": "int32_t", "float": "float"}
# Printable characters that mean nothing to C, printf or a reader of comments: no space ! " % ' * / ? \ `
DIGITS = "".join(chr(c) for c in range(ord("#"), ord("~") + 1) if chr(c) not in "%'*/?\\`")
PIECE, LINE = 3960, 110  # characters of a string (C99 promises 4095) and of a line: multiples of 5
NEAR, FAR = 2048, 1 << 16  # how far back a short and a long copy reach

TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|/\*.*?\*/|//[^\n]*', re.S)


def fail(message, remedy):
    sys.exit("embed_kernels.py: %s. %s." % (message, remedy))


# ---- kernels/ ---------------------------------------------------------------------------------------------------------

class Module:
    """A program. files are relative to kernels/, in the order in which their texts follow each other."""
    def __init__(self, name, kind, id, files):
        self.name, self.kind, self.id, self.files = name, kind, id, files


class Kernel:
    """What a KERNEL(...) line says. buffers: the type of each; args: name of its ARGS block."""
    def __init__(self, name, group, buffers, args):
        self.name, self.group, self.buffers, self.args = name, group, buffers, args

    def signature(self):
        return self.group, self.buffers, self.args


texts = {}  # file -> as it is


def read(name):
    if name not in texts:
        try:
            with open(os.path.join(ROOT, "kernels", name), encoding="utf-8", newline="\n") as f:
                texts[name] = f.read()
        except FileNotFoundError:
            fail("kernels/%s is missing" % name, "Add it, or correct kernels/kernels.def")
    if not texts[name].isascii():
        fail("kernels/%s is not ASCII" % name, "Use plain characters, also in comments")
    return texts[name]


def stripped(name):
    """The text without comments, blank lines and indentation; a directive's further lines keep one space in front."""
    out, inside = [], False
    for line in TOKEN.sub(lambda m: " " if m.group().startswith("/") else m.group(), read(name)).split("\n"):
        line = line.strip()
        if line or inside:
            out.append((" " if inside else "") + line)
        inside = line.endswith("\\")
    return "\n".join(out) + "\n"


def definition():
    """kernels.def: (modules, [(kernel, kind)])."""
    found, kernels = [], []
    code = re.sub(r"/\*.*?\*/", " ", read("kernels.def"), flags=re.S)
    for line in filter(str.strip, code.split("\n")):
        m = re.fullmatch(r"\s*MODULE\(\s*(\w+)\s*,\s*(\w+)\s*,\s*(\d+)\s*,([^,()]*)\)\s*", line)
        k = re.fullmatch(r"\s*K\(\s*(\w+)\s*,\s*(\w+)\s*\)\s*", line)
        if not m and not k:
            fail("kernels/kernels.def: %r is neither a MODULE(name, kind, id, files) nor a K(name, kind)" % line.strip(), "Correct it")
        kind = (m or k).group(2)
        if kind not in KINDS:
            fail("kernels/kernels.def: %s has kind %s" % ((m or k).group(1), kind), "The kinds are " + " ".join(KINDS))
        if m:
            found.append(Module(m.group(1), kind, int(m.group(3)), PRELUDE + m.group(4).split()))
        else:
            kernels.append((k.group(1), kind))
    for what, names in (("module", [m.name for m in found]), ("module of kind and id", [(m.kind, m.id) for m in found]),
                        ("kernel", [k for k, _ in kernels])):
        twice = [n for n in names if names.count(n) > 1]
        if twice:
            fail("kernels/kernels.def has the %s %s twice" % (what, twice[0]), "Remove one")
    for kind in KINDS:
        if not any(m.kind == kind for m in found):
            fail("kernels/kernels.def has no module of kind " + kind, "Add one")
    return found, kernels


def modules():
    return definition()[0]


def module_text(module):
    """The program of a module as a driver gets it."""
    return "".join(stripped(f) for f in module.files)


# ---- kernels and their args ------------------------------------------------------------------------------------------------

def args_of(name, text):
    """name of each ARGS block -> its fields as (type, [names]) in order."""
    found = {}
    for m in re.finditer(r"^ARGS\((\w+)\)\s*\{(.*?)\}\s*;", text, re.S | re.M):
        where, fields = "kernels/%s: ARGS(%s)" % (name, m.group(1)), []
        for statement in filter(str.strip, m.group(2).split(";")):
            f = re.fullmatch(r"\s*(\w+)\s+(\w+(?:\s*,\s*\w+)*)\s*", statement)
            if not f or f.group(1) not in C_TYPES:
                fail("%s: %r is no list of uint, int or float fields" % (where, " ".join(statement.split())), "Use 4-byte fields only")
            fields.append((f.group(1), re.split(r"\s*,\s*", f.group(2))))
        n = sum(len(names) for _, names in fields)
        if n == 0 or n % 4:
            fail("%s has %d bytes, which is no multiple of 16" % (where, 4 * n), "Add uint pad0, ... at its end (%d)" % (-n % 4 or 4))
        if m.group(1) in found:
            fail(where + " is there twice", "Remove one")
        found[m.group(1)] = fields
    return found


def kernels_of(name, text):
    """Kernels in a file."""
    found = []
    for m in re.finditer(r"^(?!#).*?\bKERNEL\b", text, re.M):
        k = re.compile(r"KERNEL\((\w+), *(\w+)\)\s*\((.*?)\bGARGS\((\w+), *\w+, *(\w+)\)\s+GTID\)\s*\{", re.S).match(text, m.end() - 6)
        if not k or not k.group(2).isdigit():
            fail("kernels/%s: %r is not what a kernel looks like" % (name, text[m.end() - 6:].split("\n")[0]),
                 "Write KERNEL(name, number)(GBUF(type, p, 0), ..., GARGS(args, a, n) GTID) {")
        buffers = re.findall(r"GBUF\(([^,()]+), *\w+, *(\w+)\)\s*,", k.group(3))
        numbers = [b[1] for b in buffers] + [k.group(5)]
        if len(buffers) != k.group(3).count("GBUF") or numbers != [str(i) for i in range(len(numbers))]:
            fail("kernels/%s: buffers of %s are numbered %s" % (name, k.group(1), " ".join(numbers)), "Number them 0, 1, ...; GARGS comes last")
        found.append(Kernel(k.group(1), int(k.group(2)), [b[0] for b in buffers], k.group(4)))
    return found


def interface():
    """(modules, kernels in the order of kernels.def as (Kernel, kind), {name: (fields, file)} of all args), checked."""
    found, rows = definition()
    args, of_kind = {}, {kind: {} for kind in KINDS}
    for module in found:
        here, args_here = {}, set()
        for name in module.files:
            for k in kernels_of(name, stripped(name)):
                if k.name in here:
                    fail("module %s has the kernel %s twice" % (module.name, k.name), "Name one differently")
                here[k.name] = k
            for a, fields in args_of(name, stripped(name)).items():
                args_here.add(a)
                if args.setdefault(a, (fields, name))[0] != fields:
                    fail("ARGS(%s) differ in kernels/%s and kernels/%s" % (a, args[a][1], name), "Make them the same")
        for k in here.values():
            if k.args not in args_here:
                fail("kernel %s of module %s takes ARGS(%s), which is not there" % (k.name, module.name, k.args), "Add it")
        names = [n for n, kind in rows if kind == module.kind]
        for n in sorted(set(names) ^ set(here)):
            fail("module %s %s the kernel %s, kernels.def %s" % ((module.name,) + (("has", n, "does not") if n in here else
                 ("lacks", n, "has it"))), "A K(name, %s) means: every module of kind %s has it" % (module.kind, module.kind))
        for n, k in here.items():
            if of_kind[module.kind].setdefault(n, k).signature() != k.signature():
                fail("kernel %s looks different in module %s" % (n, module.name), "Kernels of a kind have the same group and parameters")
    files = [os.path.relpath(os.path.join(folder, f), os.path.join(ROOT, "kernels")).replace(os.sep, "/")
             for folder, _, names in os.walk(os.path.join(ROOT, "kernels")) for f in names if f.endswith(".k")]
    for f in sorted(set(files) - {f for m in found for f in m.files}):
        fail("kernels/%s is in no module" % f, "Name it in kernels/kernels.def, or delete it")
    return found, [(of_kind[kind][n], kind) for n, kind in rows], args


# ---- packing ---------------------------------------------------------------------------------------------------------------

def copies(data):
    """For every position the copies that could begin there: (length, distance), longer ones farther back."""
    heads, out = {}, []
    for i in range(len(data)):
        here, best = [], 2
        before = heads.setdefault(data[i:i + 3], [])
        for j in reversed(before[-256:]):
            if i - j > FAR or i + best >= len(data):
                break
            if data[j + best] == data[i + best]:
                n = 3
                while i + n < len(data) and n < 258 and data[j + n] == data[i + n]:
                    n += 1
                if n > best:
                    best = n
                    here.append((n, i - j))
        before.append(i)
        out.append(here)
    return out


def cost(length, distance):
    """Packed bytes of a copy."""
    return 4 if distance > NEAR else 2 if length <= 16 else 3


def pack(data):
    """Fewest bytes for these ASCII characters: the best choice at each position, found from the end."""
    found, best, choice = copies(data), [0] * (len(data) + 1), [None] * len(data)
    for i in range(len(data) - 1, -1, -1):
        best[i], shortest = 1 + best[i + 1], 3
        for longest, distance in found[i]:
            for n in range(shortest, longest + 1):
                price = cost(n, distance) + best[i + n] if n >= 4 or distance <= NEAR else best[i]
                if price < best[i]:
                    best[i], choice[i] = price, (n, distance)
            shortest = longest + 1
    out, i = bytearray(), 0
    while i < len(data):
        n, d = choice[i] or (1, 0)
        high, low = d - 1 >> 8 & 7, d - 1 & 255
        if d == 0:
            out.append(data[i])
        elif d > NEAR:
            out += bytes([0xf8 | high, low, n - 4, (d - 1) // NEAR])
        elif n <= 16:
            out += bytes([0x80 | n - 3 << 3 | high, low])
        else:
            out += bytes([0xf0 | high, low, n - 17])
        i += n
    return bytes(out)


def unpack(packed):
    """The inverse, as gpu_kernels.c does it."""
    out, i = bytearray(), 0
    while i < len(packed):
        c = packed[i]
        if c < 128:
            out.append(c)
            i += 1
            continue
        n, d = c >> 3 & 15, (c & 7) << 8 | packed[i + 1]
        i += 2
        if n >= 14:
            far, n = n == 15, packed[i] + (17 if n == 14 else 4)
            d += packed[i + 1] * NEAR if far else 0
            i += 2 if far else 1
        else:
            n += 3
        for _ in range(n):
            out.append(out[-d - 1])
    return bytes(out)


def digits(packed):
    packed += b"\0" * (-len(packed) % 4)
    out = []
    for i in range(0, len(packed), 4):
        u = int.from_bytes(packed[i:i + 4], "big")
        out += [DIGITS[u // 85 ** k % 85] for k in (4, 3, 2, 1, 0)]
    return "".join(out)


def fnv(data):
    """64-bit FNV-1a (Fowler, Noll, Vo)."""
    h = 0xcbf29ce484222325
    for b in data:
        h = (h ^ b) * 0x100000001b3 & (1 << 64) - 1
    return h


# ---- kernels_embed.h ---------------------------------------------------------------------------------------------------------

HEAD = """\
/* kernels_embed.h, sources %s. GENERATED by tools/embed_kernels.py: change kernels/, not this file.
 *
 * Owns:  structs of the kernels' args; the tables of kernels, modules (programs) and texts. Comes after gpu.h. The
 *        texts are those of kernels/, packed; `python3 tools/embed_kernels.py --module NAME` prints a program.
 */
#ifndef INFER__KERNELS_EMBED_H
#define INFER__KERNELS_EMBED_H
"""


def ident(name):
    return re.sub(r"\W", "_", name)


def wrapped(words, first, indent, end):
    """Words separated by commas, in lines of at most 120 columns."""
    lines, line = [], first
    for i, word in enumerate(words):
        word += end if i == len(words) - 1 else ","
        if len(line) + 1 + len(word) > 120:
            lines.append(line)
            line = indent + word
        else:
            line += word if line.endswith((" ", "{")) else " " + word
    return lines + [line]


def args_lines(args):
    for name, (fields, file) in args.items():
        yield "struct infer__k_%s { /* %s */" % (name, file)
        for kind, names in fields:
            yield from wrapped(names, "    %s " % C_TYPES[kind], "        ", ";")
        yield "};"


def text_lines(names):
    """The texts, and how many bytes they are packed and plain."""
    lines, table, sizes = [], [], [0, 0]
    for name in names:
        plain = stripped(name).encode("ascii")
        packed = pack(plain)
        if unpack(packed) != plain:
            fail("kernels/%s does not survive packing" % name, "Correct pack() or unpack()")
        coded = digits(packed)
        pieces = [coded[i:i + PIECE] for i in range(0, len(coded), PIECE)]
        lines.append("static const char *const infer__text_%s[] = {" % ident(name))
        for piece in pieces:
            parts = [piece[i:i + LINE] for i in range(0, len(piece), LINE)]
            lines += ['    "%s"%s' % (part, "," if i == len(parts) - 1 else "") for i, part in enumerate(parts)]
        lines.append("};")
        table.append('    {"%s", infer__text_%s, %d, %d, %d},' % (name, ident(name), len(pieces), len(packed), len(plain)))
        sizes = [sizes[0] + len(packed), sizes[1] + len(plain)]
    return lines + ["static const infer__kernel_text INFER__KERNEL_TEXTS[] = { /* name, pieces, n_pieces, packed, bytes */"] \
        + table + ["};"], sizes


def build():
    """(kernels_embed.h, bytes packed, bytes plain)."""
    found, kernels, args = interface()
    names = list(dict.fromkeys(f for m in found for f in m.files))
    inputs = hashlib.sha256()
    for name in sorted(names) + ["kernels.def"]:
        inputs.update(("%s\0%s\0" % (name, read(name))).encode("utf-8"))
    out = [HEAD % inputs.hexdigest()[:16]]
    out += args_lines(args)
    out.append("\nenum {")
    out += wrapped(["INFER__K_" + k.name.upper() for k, _ in kernels] + ["INFER__KERNEL_COUNT"], "    ", "    ", "")
    out.append("};\nstatic const infer__kernel_row INFER__KERNELS[] = { /* name, kind, group, buffers, args_size */")
    for k, kind in kernels:
        out.append('    {"k_%s", INFER__MODULE_%s, %d, %d, (int32_t)sizeof(struct infer__k_%s)},' % (k.name, kind, k.group, len(k.buffers), k.args))
    lines, sizes = text_lines(names)
    out += ["};\n"] + lines + [""]
    for m in found:
        out.append("static const int16_t infer__module_%s[] = {%s, -1};" % (m.name, ", ".join(str(names.index(f)) for f in m.files)))
    out.append("enum { INFER__MODULE_COUNT = %d, INFER__MODULE_FILES = %d /* of a module, at most */ };" % (len(found), max(len(m.files) for m in found)))
    out.append("static const infer__module_row INFER__MODULES[] = { /* name, kind, id, dots, files, hash of the program's text */")
    for m in found:
        text = module_text(m)
        dots = len(re.findall(r"^#define Q_DOT$", text, re.M))
        out.append('    {"%s", INFER__MODULE_%s, %d, %d, infer__module_%s, 0x%016xu},' % (m.name, m.kind, m.id, dots, m.name, fnv(text.encode("ascii"))))
    text = "\n".join(out + ["};\n", "#endif\n"])
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > 120:
            fail("%s:%d has %d columns" % (OUT, number, len(line)), "Shorten the name in it")
    return text, sizes


# ---- self-test -------------------------------------------------------------------------------------------------------------

PLANTED = [  # file, what is replaced (first occurrence), by what, the message that must come
    ("norm.k", "norm", "n\u00f6rm", "kernels/norm.k is not ASCII"),
    ("kernels.def", "MODULE(base", "MODUL(base", "is neither a MODULE"),
    ("kernels.def", "K(norm, BASE)", "K(norm, BAS)", "norm has kind BAS"),
    ("kernels.def", "K(act, BASE)", "K(norm, BASE)", "has the kernel norm twice"),
    ("kernels.def", "MODULE(f16, TYPE, 1", "MODULE(f32, TYPE, 1", "has the module f32 twice"),
    ("kernels.def", "MODULE(f16, TYPE, 1", "MODULE(f16, TYPE, 0", "has the module of kind and id ('TYPE', 0) twice"),
    ("kernels.def", "MODULE(base, BASE, 0", "MODULE(base, TYPE, 99", "has no module of kind BASE"),
    ("kernels.def", "norm.k", "norm2.k", "kernels/norm2.k is missing"),
    ("kernels.def", "moe.k", "", "module base lacks the kernel moe_route, kernels.def has it"),
    ("kernels.def", "K(norm, BASE)", "", "module base has the kernel norm, kernels.def does not"),
    ("kernels.def", "K(norm, BASE)", "K(norm, KV)", "module base has the kernel norm"),
    ("embed.k", "KERNEL(", "KERNEL(embed, 64)(GARGS(embed, a, 0) GTID) {\n}\nKERNEL(", "module f32 has the kernel embed twice"),
    ("kernels.def", "quant/bf16.k embed.k", "quant/bf16.k other_embed.k", "kernel embed looks different in module bf16"),
    ("kernels.def", "quant/bf16.k", "quant/bf16.k other_args.k", "ARGS(matvec) differ in kernels/matvec.k and kernels/other_args.k"),
    ("norm.k", "ARGS(", "ARGS(norm) { uint a, b, c, d; };\nARGS(", "ARGS(norm) is there twice"),
    ("norm.k", "float eps;", "", "ARGS(norm) has 60 bytes, which is no multiple of 16. Add uint pad0, ... at its end (1)"),
    ("norm.k", "float eps", "double eps", "'double eps' is no list of uint, int or float fields"),
    ("norm.k", "float eps", "uint eps[1]", "'uint eps[1]' is no list of uint, int or float fields"),
    ("norm.k", "ARGS(norm) {", "ARGS(norm2) {", "kernel norm of module base takes ARGS(norm), which is not there"),
    ("norm.k", "KERNEL(norm, 64)", "KERNEL(norm, SIZE)", "is not what a kernel looks like"),
    ("norm.k", " GTID) {", ") {", "is not what a kernel looks like"),
    ("norm.k", "weight, 2)", "weight, 3)", "buffers of norm are numbered 0 1 3 3 4"),
    ("norm.k", "GARGS(norm, a, 4)", "GARGS(norm, a, 5)", "buffers of norm are numbered 0 1 2 3 5"),
    ("kernels.def", "quant/bf16.k", "quant/f16.k", "kernels/quant/bf16.k is in no module"),
]


def self_test():
    bad = 0
    for file, old, new, want in PLANTED:
        texts.clear()
        texts["other_embed.k"] = read("embed.k").replace("KERNEL(embed, 64)", "KERNEL(embed, 32)")
        texts["other_args.k"] = "ARGS(matvec) { uint a, b, c, d; };\n"
        before = read(file)
        try:
            texts[file] = before.replace(old, new, 1)
            interface()
            got = "nothing" if texts[file] != before else "no %r in %s" % (old, file)
        except SystemExit as e:
            got = str(e)
        if want not in got:
            bad += 1
            print("self-test: %s, %r -> %r: want %r, got %r" % (file, old, new, want, got))
    texts.clear()
    for data in (b"", b"a", b"abcabcabc", b"x" * 1000, bytes(range(32, 127)) * 40 + b"#" * 3000 + bytes(range(32, 127)) * 40):
        if unpack(pack(data)) != data:
            bad += 1
            print("self-test: %r... does not survive packing" % data[:20])
    print("embed_kernels --self-test: %d passed, %d failed" % (len(PLANTED) + 5 - bad, bad))
    return 1 if bad else 0


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--check", action="store_true")
    p.add_argument("--module", metavar="NAME")
    p.add_argument("--self-test", action="store_true")
    args = p.parse_args()
    if args.self_test:
        sys.exit(self_test())
    path = os.path.join(ROOT, OUT)
    if args.module:
        found = [m for m in modules() if m.name == args.module]
        if not found:
            fail("there is no module %s in kernels/kernels.def" % args.module, "There are: " + " ".join(m.name for m in modules()))
        sys.stdout.write(module_text(found[0]))
        return
    text, (packed, plain) = build()
    if args.check:
        before = None
        if os.path.exists(path):
            with open(path, encoding="utf-8", newline="\n") as f:
                before = f.read()
        if before != text:
            fail("%s is not what kernels/ gives" % OUT, "Run `make amalgamate` and commit it together with infer.h")
    else:
        with open(path, "w", encoding="utf-8", newline="\n") as f:
            f.write(text)
        print("%s: %d bytes; text %d bytes, packed %d" % (OUT, len(text), plain, packed))


if __name__ == "__main__":
    main()
