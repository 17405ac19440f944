#!/usr/bin/env python3
"""embed_kernels.py: kernels/ -> kernels_embed.h, the GPU kernels as C tables and compressed text

  python3 tools/embed_kernels.py                write kernels_embed.h
  python3 tools/embed_kernels.py --check        exit 1 when kernels_embed.h is not what kernels/ gives
  python3 tools/embed_kernels.py --module NAME  print a program as a driver gets it: build logs count its lines
  python3 tools/embed_kernels.py --ptx NAME     print the embedded PTX of a program: what the CUDA driver gets
  python3 tools/embed_kernels.py --self-test    prove that every check fires on a planted mistake

kernels.def says which files make which program. What must hold is checked here: a kernel and its args look the same in every
program of a kind, args are 4-byte fields and 16 bytes or a multiple, buffers are numbered in order.

Text goes in without comments, blank lines and indentation, each file once, packed by LZMA; then every 4 bytes (the first is the
highest) become 5 digits to the base 85. In PTX, ranks stand for the numbers of registers and labels first, which makes it a fifth as
large. src/compute/gpu/gpu_unpack.c is the other way, and describes both. What is embedded already stays as it is when it
gives the same text: versions of the packer differ.
"""
import argparse, concurrent.futures, functools, hashlib, lzma, os, re, shutil, subprocess, sys, textwrap

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OUT = "kernels_embed.h"
PRELUDE = ["dialect.h", "math.k"]  # begin every program
KINDS = ["BASE", "KV", "TYPE"]  # generic: programs for every API
FORMS = ["PTX", "METAL", "HIP"]  # of special kinds: programs for one API only
# tier of devices -> version of PTX, and of CUDA whose drivers take it first. 61: the generic programs.
PTX = {"61": (60, 9000), "70": (60, 9000), "75": (65, 10020), "80": (70, 11000), "86": (71, 11010), "89": (78, 11080), "90": (78, 11080),
       "90a": (80, 12000)}
PTX_FLAGS = ["-x", "cuda", "--cuda-path=/nonexistent", "--cuda-device-only", "-nocudainc", "-nocudalib", "-O2", "-S", "-o", "-", "-"]
C_TYPES = {"uint": "uint32_t", "int": "int32_t", "float": "float"}
# Printable characters that mean nothing to C, printf or a reader of comments: no space ! " % ' * / ? \ `
DIGITS = "".join(chr(c) for c in range(ord("#"), ord("~") + 1) if chr(c) not in "%'*/?\\`")
PIECE = 3960  # characters of a string of packed text, a line that nobody reads (C99 promises 4095): a multiple of 5

BLOCK = 16  # programs that are packed together: a large block packs better, and unpacking its last program takes longer

TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|/\*.*?\*/|//[^\n]*', re.S)


def fail(message, remedy):
    sys.exit("embed_kernels.py: %s. %s." % (message, remedy))


# ---- kernels/ ---------------------------------------------------------------------------------------------------------

class Kind:
    """A KIND row: programs of one API only, for devices of a tier and above, or for that one alone (exact: "90a", "=75"). They are
    loaded along with the generic program of kind `of` that has the same id. A generic kind has no form."""
    def __init__(self, name, form, tier, of):
        self.name, self.form, self.of = name, form, of
        self.tier, self.exact, self.name_of_tier = int(tier.strip("=a")), tier != tier.strip("=a"), tier.lstrip("=")

    def ptx_tier(self):
        """Tier of its PTX, None when it has none."""
        return {None: "61", "PTX": self.name_of_tier}.get(self.form)


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
    """kernels.def: (modules, [(kernel, kind, shared bytes, early)], {name: Kind} with the generic ones first)."""
    found, kernels = [], []
    kinds = {name: Kind(name, None, "0", name) for name in KINDS}
    plain = re.sub(r"/\*.*?\*/", " ", read("kernels.def"), flags=re.S)
    plain = re.sub(r"\([^()]*\)", lambda m: " ".join(m.group().split()), plain)  # a row may take several lines
    lines = list(filter(str.strip, plain.split("\n")))
    for line in lines:
        t = re.fullmatch(r"\s*KIND\(\s*([A-Z]\w*)\s*,\s*(\w+)\s*,\s*(=?\d+a?)\s*(?:,\s*(KV|TYPE)\s*)?\)\s*", line)
        if t and t.group(2) not in FORMS:
            fail("kernels/kernels.def: kind %s has form %s" % t.group(1, 2), "The forms are " + " ".join(FORMS))
        if t and t.group(1) in kinds:
            fail("kernels/kernels.def has the kind %s twice" % t.group(1), "Remove one")
        if t and t.group(2) == "PTX" and t.group(3).lstrip("=") not in PTX:
            fail("kernels/kernels.def: kind %s has tier %s" % t.group(1, 3), "The tiers of PTX are " + " ".join(PTX))
        if t:
            kinds[t.group(1)] = Kind(t.group(1), t.group(2), t.group(3), t.group(4) or "TYPE")
    for line in lines:
        m = re.fullmatch(r"\s*MODULE\(\s*(\w+)\s*,\s*(\w+)\s*,\s*(\d+)\s*,([^,()]*)\)\s*", line)
        k = re.fullmatch(r"\s*K\(\s*(\w+)\s*,\s*(\w+)\s*(?:,\s*(\d+)\s*)?(,\s*EARLY\s*)?\)\s*", line)
        t = re.match(r"\s*KIND\(\s*(\w+)", line)
        if t and t.group(1) in kinds:
            continue
        if not m and not k:
            fail("kernels/kernels.def: %r is no MODULE(name, kind, id, files), K(name, kind) or KIND(NAME, form, tier)" % line.strip(), "Correct it")
        kind = (m or k).group(2)
        if kind not in kinds:
            fail("kernels/kernels.def: %s has kind %s" % ((m or k).group(1), kind), "The kinds are " + " ".join(kinds))
        if m:
            found.append(Module(m.group(1), kind, int(m.group(3)), PRELUDE + m.group(4).split()))
        else:
            kernels.append((k.group(1), kind, int(k.group(3) or 0), int(bool(k.group(4)))))
    for what, names in (("module", [m.name for m in found]), ("module of kind and id", [(m.kind, m.id) for m in found]),
                        ("kernel", [k[0] for k in kernels])):
        twice = [n for n in names if names.count(n) > 1]
        if twice:
            fail("kernels/kernels.def has the %s %s twice" % (what, twice[0]), "Remove one")
    for kind in kinds:
        if not any(m.kind == kind for m in found):
            fail("kernels/kernels.def has no module of kind " + kind, "Add one")
    for m in found:
        special = [f for f in m.files if f.startswith("special/")]
        if special and not kinds[m.kind].form:
            fail("module %s of kind %s has %s" % (m.name, m.kind, special[0]), "Files of special/ are for special kinds: see KIND")
        if not any((n.kind, n.id) == (kinds[m.kind].of, m.id) for n in found):
            fail("module %s goes with no module of kind %s and id %d" % (m.name, kinds[m.kind].of, m.id), "Correct the id")
    return found, kernels, kinds


def modules():
    return definition()[0]


def kinds():
    return definition()[2]


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
    """(modules, kernels in the order of kernels.def as (Kernel, kind, shared bytes, early), {name: (fields, file)} of all args, kinds), checked."""
    found, rows, kinds = definition()
    args, of_kind = {}, {kind: {} for kind in kinds}
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
        names = [n for n, kind, _, _ in rows if kind == module.kind]
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
    return found, [(of_kind[kind][n], kind, shared, early) for n, kind, shared, early in rows], args, kinds


# ---- packing ---------------------------------------------------------------------------------------------------------------

LZMA = [{"id": lzma.FILTER_LZMA1, "preset": 9 | lzma.PRESET_EXTREME, "lc": 3, "lp": 0, "pb": 0}]  # it looks back 64 MB


def pack(data):
    return lzma.compress(data, lzma.FORMAT_RAW, filters=LZMA)


def unpack(packed):
    return lzma.decompress(packed, lzma.FORMAT_RAW, filters=LZMA)


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


def undigits(coded, n):
    out, value = bytearray(), {c: i for i, c in enumerate(DIGITS)}
    for i in range(0, len(coded), 5):
        u = 0
        for c in coded[i:i + 5]:
            u = u * 85 + value[c]
        out += u.to_bytes(4, "big")
    return bytes(out[:n])


# ---- PTX -------------------------------------------------------------------------------------------------------------------

NAME = re.compile(rb"(^\.visible)|(%(?:rd|rs|[rfp])|\$L__BB\d+_)(\d+)", re.M)  # a function begins; a register or a label
CODED = re.compile(rb"\xff|([prfds_])(?:\xfe(.)(.)|([\x80-\xfd]))", re.S)
NEW, LATELY, LONG_AGO, NONE, NAMES = 0x80, 0x81, 0xfe, 0xff, 8192  # infer__ptx_names in gpu_unpack.c


def in_order(plain):
    """PTX whose registers and labels are numbered from 1 in the order in which a function mentions them."""
    numbers = {}
    def name(m):
        if m.group(1):
            numbers.clear()
            return m.group()
        of = numbers.setdefault(m.group(2), {})
        return m.group(2) + b"%d" % of.setdefault(m.group(3), len(of) + 1)
    return NAME.sub(name, plain)


def ranked(plain):
    """PTX as it is packed: ranks stand for numbers."""
    used = {}
    def name(m):
        if m.group(1):
            used.clear()
            return bytes([NONE]) + m.group()
        of, number = used.setdefault(m.group(2)[-1:], []), int(m.group(3))
        if number == len(of) + 1 < NAMES:
            of.append(number)
            return m.group(2) + bytes([NEW])
        if number not in of:
            fail("PTX has the name %s before others of its kind" % m.group().decode(), "Correct in_order")
        rank = of[::-1].index(number)
        of.append(of.pop(-1 - rank))
        return m.group(2) + (bytes([LATELY + rank]) if LATELY + rank < LONG_AGO else bytes([LONG_AGO, rank >> 7, rank & 127]))
    return NAME.sub(name, plain)


def named(coded):
    """The PTX that ranked made this of."""
    used = {}
    def name(m):
        if not m.group(1):
            used.clear()
            return b""
        of = used.setdefault(m.group(1), [])
        if m.group(4) == bytes([NEW]):
            of.append(len(of) + 1)
        else:
            rank = m.group(4)[0] - LATELY if m.group(4) else m.group(2)[0] << 7 | m.group(3)[0]
            of.append(of.pop(-1 - rank) if rank < len(of) else 0)
        return m.group(1) + b"%d" % of[-1]
    return CODED.sub(name, coded)


class Ptx:
    """The PTX of a module, made of the text or of what is packed. inputs: hash of what it was made of; hash: of the text; plain: the text;
    coded: as it is packed. Each of the last three takes a tenth of a second: when somebody asks for it."""
    def __init__(self, name, inputs, plain=None, coded=None):
        self.name, self.inputs = name, inputs
        if plain is not None:
            self.plain = plain
        if coded is not None:
            self.coded = coded

    @functools.cached_property
    def plain(self):
        return named(self.coded)

    @functools.cached_property
    def coded(self):
        return ranked(self.plain)

    @functools.cached_property
    def hash(self):
        return "%016x" % fnv(self.plain)


class Block:
    """Programs of a kind that are packed as one text, since they have much in common. ptx: in their order."""
    def __init__(self, name, ptx, packed, coded):
        self.name, self.ptx, self.packed, self.coded = name, ptx, packed, coded


TEXT_BLOCK = re.compile(r"const infer__text_(\w+)\[\] = \{\s((?: *\"[^\"]*\"(?:,|\};)\n)+)")
TEXT_ROW = re.compile(r'\{"([^"]+)", infer__text_(\w+), \d+, (\d+), \d+\}')
PTX_BLOCK = re.compile(r"((?:/\* ptx [^\n]*\*/\n)+)static const char \*const infer__ptx_(\w+)\[\] = \{ /\* (\d+) bytes \*/\s((?: *\"[^\"]*\"(?:,|\};)\n)+)")
PTX_ROW = re.compile(r"/\* ptx (\w+): of (\w{16}), (\d+) bytes \*/")


def embedded():
    """The kernels_embed.h that is there."""
    try:
        with open(os.path.join(ROOT, OUT), encoding="utf-8") as f:
            return f.read()
    except FileNotFoundError:
        return ""


def unpacked(packed):
    """unpack, None when it is not packed in this way."""
    try:
        return unpack(packed)
    except lzma.LZMAError:
        return None


def embedded_texts():
    """file -> (packed, coded) of the kernels_embed.h that is there."""
    text = embedded()
    coded = {m.group(1): "".join(re.findall(r'"([^"]*)"', m.group(2))) for m in TEXT_BLOCK.finditer(text)}
    return {m.group(1): (undigits(coded[m.group(2)], int(m.group(3))), coded[m.group(2)]) for m in TEXT_ROW.finditer(text)
            if m.group(2) in coded}


@functools.lru_cache(1)
def blocks_in(text):
    """name -> Block of a kernels_embed.h; one that is damaged is left out."""
    out = {}
    for m in PTX_BLOCK.finditer(text):
        coded, ptx, at = "".join(re.findall(r'"([^"]*)"', m.group(4))), [], 0
        packed = undigits(coded, int(m.group(3)))
        all = unpacked(packed) or b""
        for name, inputs, n in PTX_ROW.findall(m.group(1)):
            ptx.append(Ptx(name, inputs, coded=all[at:at + int(n)]))
            at += int(n)
        if at == len(all):
            out[m.group(2)] = Block(m.group(2), ptx, packed, coded)
    return out


def embedded_blocks():
    return blocks_in(embedded())


def embedded_ptx():
    """module -> Ptx of the kernels_embed.h that is there."""
    return {p.name: p for b in embedded_blocks().values() for p in b.ptx}


def ptx_flags(tier):
    return ["--cuda-gpu-arch=sm_" + tier, "--cuda-feature=+ptx%d" % PTX[tier][0]] + PTX_FLAGS


def ptx_inputs(module, tier):
    return hashlib.sha256(("clang 19, in order\0%s\0%s" % (" ".join(ptx_flags(tier)), module_text(module))).encode("ascii")).hexdigest()[:16]


def find_clang():
    """clang 19, or None. Another one writes other PTX."""
    for name in filter(shutil.which, ("clang-19", "clang")):
        if re.search(r"(?<!Apple )clang version 19\.", subprocess.run([name, "--version"], capture_output=True, text=True).stdout):
            return name


def ptx_of(clang, module, tier, inputs):
    """Compile a module. Comments, indentation, blank lines and the numbers in names mean nothing."""
    p = subprocess.run([clang] + ptx_flags(tier), input=module_text(module), capture_output=True, text=True)
    if p.returncode or not p.stdout.isascii():
        fail("module %s gives no PTX:\n%s" % (module.name, p.stderr), "Correct the kernel: tests/kernels/faces.py %s" % module.name)
    lines = [" ".join(re.sub(r"//.*", "", line).split()) for line in p.stdout.split("\n")]
    return Ptx(module.name, inputs, in_order("".join(line + "\n" for line in lines if line).encode("ascii")))


def ptx_texts(found, kinds):
    """module -> Ptx for all that have one: those that are embedded, unless what they were made of has changed."""
    known, out, jobs = embedded_ptx(), {}, []
    for m in found:
        tier = kinds[m.kind].ptx_tier()
        if not tier:
            continue
        inputs = ptx_inputs(m, tier)
        if m.name in known and known[m.name].inputs == inputs:
            out[m.name] = known[m.name]
        else:
            jobs.append((m, tier, inputs))
    clang = find_clang() if jobs else None
    if jobs and not clang:
        fail("%s has no PTX of %s as the kernels are now, and there is no clang 19 to make it" % (OUT, " ".join(m.name for m, _, _ in jobs)),
             "Install clang-19, then run `make amalgamate`")
    with concurrent.futures.ProcessPoolExecutor(min(4, os.cpu_count() or 1)) if len(jobs) > 1 else concurrent.futures.ThreadPoolExecutor(1) as pool:
        made = pool.map(ptx_of, *zip(*[(clang,) + job for job in jobs])) if jobs else ()
        out.update((p.name, p) for p in made)
    return out


def blocks_of(found, ptx):
    """The Blocks of all modules: up to BLOCK of a kind each, packed anew unless they are there as they are."""
    known, groups, wanted = embedded_blocks(), {}, []
    for m in found:
        if m.name in ptx:
            groups.setdefault(m.kind, []).append(ptx[m.name])
    for kind, members in groups.items():
        wanted += [("%s_%d" % (kind.lower(), i // BLOCK), members[i:i + BLOCK]) for i in range(0, len(members), BLOCK)]
    coded = {name: b"".join(p.coded for p in members) for name, members in wanted}
    jobs = [n for n, members in wanted if n not in known or b"".join(p.coded for p in known[n].ptx) != coded[n]]
    with concurrent.futures.ProcessPoolExecutor(min(4, os.cpu_count() or 1)) if len(jobs) > 1 else concurrent.futures.ThreadPoolExecutor(1) as pool:
        packed = dict(zip(jobs, pool.map(pack, [coded[n] for n in jobs])))
    return [Block(n, members, packed[n], digits(packed[n])) if n in packed else Block(n, members, known[n].packed, known[n].coded)
            for n, members in wanted]


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
# What follows is data; it stands at the end of infer.h, where nobody reads and lines need no debug information.
LAST = """
/* Rows of the tables below, and texts: of sources, and of blocks of PTX. */
static const infer__module_row *infer__module_at(int32_t module);
#ifndef INFER__NO_GPU_SOURCES
static const infer__kernel_text *infer__kernel_file(int32_t file);
#endif
#ifndef INFER_NO_CUDA
static const infer__kernel_text *infer__ptx_block(int32_t block);
static const infer__ptx_row *infer__ptx_at(int32_t module);
#endif

/* ---- data: last in infer.h ---- */
#ifndef INFER_NO_GPU"""
ROWS = """
static const infer__module_row *infer__module_at(int32_t module) { return &INFER__MODULES[module]; }
#ifndef INFER__NO_GPU_SOURCES
static const infer__kernel_text *infer__kernel_file(int32_t file) { return &INFER__KERNEL_TEXTS[file]; }
#endif
#ifndef INFER_NO_CUDA
static const infer__kernel_text *infer__ptx_block(int32_t block) { return &INFER__PTX_BLOCKS[block]; }
static const infer__ptx_row *infer__ptx_at(int32_t module) { return &INFER__PTX[module]; }
#endif
#endif /* INFER_NO_GPU */
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
        text = " ".join("%s %s;" % (C_TYPES[kind], ", ".join(names)) for kind, names in fields)
        yield from textwrap.wrap("struct infer__k_%s { /* %s */ %s };" % (name, file, text), 120, subsequent_indent="    ",
                                 break_long_words=False, break_on_hyphens=False)


def piece_lines(head, coded):
    """The head stands in the first line."""
    for i in range(0, len(coded), PIECE):
        yield '%s "%s"%s' % ("   " if i else head, coded[i:i + PIECE], "," if i + PIECE < len(coded) else "};")


def ptx_array(b):
    rows = ["/* ptx %s: of %s, %d bytes */" % (p.name, p.inputs, len(p.coded)) for p in b.ptx]
    yield from (" ".join(rows[i:i + 2]) for i in range(0, len(rows), 2))
    yield from piece_lines("static const char *const infer__ptx_%s[] = { /* %d bytes */" % (b.name, len(b.packed)), b.coded)


def ptx_lines(found, blocks):
    """The blocks of PTX, and where the modules are in them, in their order."""
    at = {}  # module -> number of its block, where it begins there, its bytes there and as PTX
    for i, b in enumerate(blocks):
        n = 0
        for p in b.ptx:
            at[p.name] = (i, n, len(p.coded), len(p.plain))
            n += len(p.coded)
    yield "#ifndef INFER_NO_CUDA /* PTX that clang 19 made of inputs with this hash */"
    for b in blocks:
        yield from ptx_array(b)
    yield "static const infer__kernel_text INFER__PTX_BLOCKS[] = { /* name, pieces, n_pieces, packed, bytes */"
    for b in blocks:
        yield '    {"%s.ptx", infer__ptx_%s, %d, %d, %d},' % (
            b.name, b.name, -(-len(b.coded) // PIECE), len(b.packed), sum(len(p.coded) for p in b.ptx))
    yield "};"
    yield "static const infer__ptx_row INFER__PTX[] = { /* of each module: block, where in it, bytes there, bytes of PTX */"
    yield from wrapped(["{%d, %d, %d, %d}" % at.get(m.name, (0, 0, 0, 0)) for m in found], "    ", "    ", "")
    yield "};"
    yield "#endif"


def text_lines(names):
    """The texts, and how many bytes they are packed and plain."""
    lines, table, sizes, known = [], [], [0, 0], embedded_texts()
    for name in names:
        plain = stripped(name).encode("ascii")
        packed, coded = known.get(name, (b"", ""))
        if not coded or unpacked(packed) != plain:
            packed = pack(plain)
            coded = digits(packed)
        lines += list(piece_lines("static const char *const infer__text_%s[] = {" % ident(name), coded))
        table.append('{"%s", infer__text_%s, %d, %d, %d}' % (name, ident(name), -(-len(coded) // PIECE), len(packed), len(plain)))
        sizes = [sizes[0] + len(packed), sizes[1] + len(plain)]
    return ["#ifndef INFER__NO_GPU_SOURCES"] + lines + ["static const infer__kernel_text INFER__KERNEL_TEXTS[] = { /* name, pieces, n_pieces, packed, bytes */"] \
        + wrapped(table, "    ", "    ", "") + ["};", "#endif"], sizes


def kind_lines(kinds):
    special = [k for k in kinds.values() if k.form]
    numbers = ["INFER__MODULE_%s = %d" % (k.name, len(KINDS) + i) for i, k in enumerate(special)]
    yield "\nenum {"
    yield from wrapped(numbers + ["INFER__KIND_COUNT = %d" % len(kinds)], "    ", "    ", "")
    yield "};\nstatic const infer__kind_row INFER__KINDS[] = { /* form, tier, exact, of */"
    for k in kinds.values():
        yield "    {INFER__FORM_%s, %d, %d, INFER__MODULE_%s}, /* %s */" % (k.form or "SOURCE", k.tier, k.exact, k.of, k.name)
    yield "};"


def build():
    """(kernels_embed.h, bytes packed and plain of sources, of PTX)."""
    found, kernels, args, kinds = interface()
    of_source = [m for m in found if kinds[m.kind].form != "PTX"]  # the others are there as PTX only
    names = list(dict.fromkeys(f for m in of_source for f in m.files))
    ptx = ptx_texts(found, kinds)
    blocks = blocks_of(found, ptx)
    inputs = hashlib.sha256()
    for name in sorted({f for m in found for f in m.files}) + ["kernels.def"]:
        inputs.update(("%s\0%s\0" % (name, read(name))).encode("utf-8"))
    out = [HEAD % inputs.hexdigest()[:16]]
    out += args_lines(args)
    out += kind_lines(kinds)
    out.append("\nenum {")
    out += wrapped(["INFER__K_" + k.name.upper() for k, _, _, _ in kernels] + ["INFER__KERNEL_COUNT"], "    ", "    ", "")
    out += ["};", "#define INFER__K(name, kind, group, buffers, args, shared, early) \\",
            '    { "k_" #name, INFER__MODULE_##kind, group, buffers, (int32_t)sizeof(struct infer__k_##args), shared, early }',
            "static const infer__kernel_row INFER__KERNELS[] = {"]
    out += wrapped(["INFER__K(%s, %s, %d, %d, %s, %d, %d)" % (k.name, kind, k.group, len(k.buffers), k.args, shared, early)
                    for k, kind, shared, early in kernels], "    ", "    ", "")
    lines, sizes = text_lines(names)
    out += ["};", "#undef INFER__K\n"]
    out.append("enum { INFER__MODULE_COUNT = %d, INFER__MODULE_FILES = %d /* of a module, at most */ };" % (len(found), max(len(m.files) for m in found)))
    out.append("enum { INFER__PTX_CUDA = %d }; /* version of CUDA whose drivers take the PTX of generic programs first */" % PTX["61"][1])
    out += [LAST] + lines + list(ptx_lines(found, blocks)) + [""]
    out.append("static const int16_t infer__module_files[] = { /* of the modules, those that are there as source; the first has none */")
    first, lists = {}, ["-1"]  # module -> where its list begins
    for m in of_source:
        first[m.name] = len(lists)
        lists += ["%d" % names.index(f) for f in m.files] + ["-1"]
    out += wrapped(lists, "    ", "    ", "") + ["};"]
    out.append("static const infer__module_row INFER__MODULES[] = { /* name, kind, id, dots, files, hash of the source, of the PTX */")
    for m in found:
        hashes = (fnv(module_text(m).encode("ascii")) if m in of_source else 0, int(ptx[m.name].hash, 16) if m.name in ptx else 0)
        dots = len(re.findall(r"^#define Q_DOT$", module_text(m), re.M))
        out.append('    {"%s", INFER__MODULE_%s, %d, %d, infer__module_files + %d, 0x%016xu, 0x%016xu},'
                   % ((m.name, m.kind, m.id, dots, first.get(m.name, 0)) + hashes))
    text = "\n".join(out + ["};", ROWS, "#endif\n"])
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > 120 and '"' not in line:
            fail("%s:%d has %d columns: %s" % (OUT, number, len(line), line[:90]), "Shorten the name in it")
    return text, sizes + [sum(len(b.packed) for b in blocks), sum(len(p.plain) for p in ptx.values())]


# ---- self-test -------------------------------------------------------------------------------------------------------------

PLANTED = [  # file, what is replaced (first occurrence), by what, the message that must come
    ("norm.k", "norm", "n\u00f6rm", "kernels/norm.k is not ASCII"),
    ("kernels.def", "MODULE(base", "MODUL(base", "is no MODULE"),
    ("kernels.def", "MODULE(base", "KIND(UNIT, PTX, x80)\nMODULE(base", "is no MODULE"),
    ("kernels.def", "MODULE(base", "KIND(UNIT, SPIRV, 80)\nMODULE(base", "kind UNIT has form SPIRV"),
    ("kernels.def", "MODULE(base", "KIND(UNIT, PTX, 80, OTHER_MACRO)\nMODULE(base", "is no MODULE"),
    ("kernels.def", "K(act, BASE)", "K(act, BASE, many)", "is no MODULE"),
    ("kernels.def", "K(act, BASE)", "K(act, BASE, 1024)", "nothing"),
    ("kernels.def", "MODULE(base", "KIND(KV, PTX, 80)\nMODULE(base", "has the kind KV twice"),
    ("kernels.def", "MODULE(base", "KIND(UNIT, PTX, 80)\nMODULE(base", "has no module of kind UNIT"),
    ("kernels.def", "MODULE(base", "KIND(UNIT, PTX, 90a)\nMODULE(x, UNIT, 99, special.k)\nMODULE(base", "goes with no module of kind TYPE and id 99"),
    ("kernels.def", "MODULE(base", "KIND(UNIT, PTX, 80, KV)\nMODULE(x, UNIT, 0, special.k)\nMODULE(base", "goes with no module of kind KV and id 0"),
    ("kernels.def", "MODULE(base", "KIND(UNIT, PTX, 80)\nMODULE(x, UNIT, 0, special.k)\nMODULE(base", "module x has the kernel special, kernels.def does not"),
    ("kernels.def", "MODULE(base", "KIND(UNIT, PTX, 80)\nMODULE(x, UNIT, 0, special.k)\nK(special, UNIT)\nMODULE(base", "nothing"),
    ("kernels.def", "norm.k", "norm.k special/x.k", "module base of kind BASE has special/x.k"),
    ("kernels.def", "K(norm, BASE)", "K(norm, BAS)", "norm has kind BAS"),
    ("kernels.def", "K(act, BASE)", "K(norm, BASE)", "has the kernel norm twice"),
    ("kernels.def", "MODULE(f16, TYPE, 1", "MODULE(f32, TYPE, 1", "has the module f32 twice"),
    ("kernels.def", "MODULE(f16, TYPE, 1", "MODULE(f16, TYPE, 0", "has the module of kind and id ('TYPE', 0) twice"),
    ("kernels.def", "MODULE(base, BASE, 0", "MODULE(base, TYPE, 99", "has no module of kind BASE"),
    ("kernels.def", "norm.k", "norm2.k", "kernels/norm2.k is missing"),
    ("kernels.def", "moe.k", "", "module base lacks the kernel moe_"),
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
    ("kernels.def", "quant/q1_0.k", "quant/f16.k", "kernels/quant/q1_0.k is in no module"),
]


def self_test():
    bad = 0
    for file, old, new, want in PLANTED:
        texts.clear()
        texts["other_embed.k"] = read("embed.k").replace("KERNEL(embed, 64)", "KERNEL(embed, 32)")
        texts["other_args.k"] = "ARGS(matvec) { uint a, b, c, d; };\n"
        texts["special.k"] = "ARGS(special) { uint a, b, c, d; };\nKERNEL(special, 32)(GARGS(special, a, 0) GTID) {\n}\n"
        before = read(file)
        try:
            texts[file] = before.replace(old, new, -1 if want.endswith("is in no module") else 1)
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
    lines = b"".join(b"add.s32 %%r%d, %%r%d, %%rd%d;\n" % (7 * i % 300, 11 * i % 300, i % 5) for i in range(600))
    ptx = b".visible .entry a(\n%s$L__BB0_9:\n.visible .entry b(\nbra $L__BB1_4;\n%s" % (lines, lines)
    if named(ranked(in_order(ptx))) != in_order(ptx) or in_order(in_order(ptx)) != in_order(ptx):
        bad += 1
        print("self-test: names of PTX do not survive their ranks")
    print("embed_kernels --self-test: %d passed, %d failed" % (len(PLANTED) + 6 - bad, bad))
    return 1 if bad else 0


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--check", action="store_true")
    p.add_argument("--module", metavar="NAME")
    p.add_argument("--ptx", metavar="NAME")
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
    if args.ptx:
        ptx = embedded_ptx()
        if args.ptx not in ptx:
            fail("%s has no PTX of %s" % (OUT, args.ptx), "It has: " + " ".join(ptx))
        sys.stdout.write(ptx[args.ptx].plain.decode("ascii"))
        return
    text, sizes = build()
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
        print("%s: %d bytes; sources packed %d of %d bytes, PTX %d of %d" % ((OUT, len(text)) + tuple(sizes)))


if __name__ == "__main__":
    main()
