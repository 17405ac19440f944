#!/usr/bin/env python3
"""test_media.py: pictures and sounds against other decoders, and damaged files under ASan and UBSan.

  python3 tests/cli/test_media.py [build/infer]      the argument is not used

1. Pictures that Pillow writes (PNG of all modes, JPEG of all qualities and samplings, EXIF orientations) are decoded bit for bit as
   Pillow decodes them. Grey of 16 bits is compared with the high byte: Pillow's own conversion clips it.
2. PngSuite, from the PyPI package pypng (its source: code/pngsuite.py) or the folder PNGSUITE, likewise. .ci/run downloads it.
3. Each kind of PNG that the standard allows, and each mistake that this file makes in one.
4. PPM and WAV of all formats against what they were made from; the resampler against sines.
5. Every shorter beginning of small files, and files with some bytes changed, under ASan and UBSan: an error, or the whole picture.
"""
import glob, io, itertools, os, random, struct, subprocess, sys, tarfile, tempfile, zlib

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
os.chdir(ROOT)
CC = os.environ.get("CC", "cc").split()
LIBS = ["-lm", "-lpthread"] + (["-ldl"] if sys.platform.startswith("linux") else [])
NO_SKIP = os.environ.get("INFER_TEST_NO_SKIP") == "1"
passed = failed = skipped = 0


def check(ok, message):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    if not ok and failed <= 30:
        print("FAILED " + message)


def skip(what, why):
    global skipped
    print("skipped %s: %s" % (what, why))
    if NO_SKIP:
        check(False, what)
    else:
        skipped += 1


def finish():
    print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))
    sys.exit(1 if failed else 0)


try:
    import numpy as np
    import PIL
    from PIL import Image, ImageOps, features
except ImportError:
    skip("test_media", "Pillow or NumPy is not installed")
    finish()
FOLDER = tempfile.TemporaryDirectory()
D = FOLDER.name
rng = np.random.default_rng(7)


class Tool:
    """tests/media_tool.c: decodes files."""
    def __init__(self, *flags):
        self.exe = os.path.join(D, "tool%d" % len(flags))
        p = subprocess.run(CC + ["-O1", "-g1", "-w", "-DINFER_QUIET", "-Itests", *flags, "tests/media_tool.c", "-o", self.exe] + LIBS,
                           capture_output=True, text=True)
        if p.returncode:
            sys.exit("test_media.py: media_tool.c does not compile\n" + p.stderr[-2000:])
        self.p = subprocess.Popen([self.exe], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                  env=dict(os.environ, ASAN_OPTIONS="detect_leaks=1", UBSAN_OPTIONS="halt_on_error=1"))

    def ask(self, line):
        if self.p.poll() is not None:
            return "the tool has ended"
        self.p.stdin.write(line + "\n")
        self.p.stdin.flush()
        return self.p.stdout.readline().strip() or "the tool has ended"

    def image(self, path, command="I"):
        """The pixels, or the error's message."""
        words = self.ask("%s %s %s/out" % (command, path, D)).split(" ", 2)
        if words[0] != "ok":
            return " ".join(words)
        return np.fromfile(D + "/out", np.uint8).reshape(int(words[2]), int(words[1]), 3)

    def sound(self, path, rate=0):
        words = self.ask("S %d %s %s/out" % (rate, path, D)).split(" ", 2)
        return (np.fromfile(D + "/out", np.float32), int(words[2])) if words[0] == "ok" else (" ".join(words), 0)

    def end(self):
        self.p.stdin.close()
        return self.p.wait()


def save(data, name="file"):
    path = os.path.join(D, name)
    with open(path, "wb") as f:
        f.write(data)
    return path


def same(got, want, what):
    if isinstance(got, str):
        check(False, "%s: %s" % (what, got))
    elif got.shape != want.shape:
        check(False, "%s: %s pixels, want %s" % (what, got.shape, want.shape))
    else:
        check((got == want).all(), "%s: %d values differ, by up to %d" % (what, (got != want).sum(), np.abs(got.astype(int) - want).max()))


def refused(got, part, what):
    check(isinstance(got, str) and got.startswith("error -") and part in got, "%s: want an error with '%s', got %s" % (what, part, str(got)[:200]))


# ---- Pillow ---------------------------------------------------------------------------------------------------------

def picture(w, h, kind):
    y, x = np.mgrid[0:h, 0:w]
    a = [np.stack([x * 255 // max(w - 1, 1), y * 255 // max(h - 1, 1), (x + y) % 256], -1), rng.integers(0, 256, (h, w, 3)),
         np.stack([128 + 100 * np.sin(x / 7 + y / 11), 128 + 100 * np.cos(x / 5 - y / 3), 128 + 127 * np.sin(x * y / 50)], -1)][kind % 3]
    return Image.fromarray(a.astype(np.uint8))


def as_pillow(tool, path, what):
    with Image.open(path) as im:
        same(tool.image(path), np.asarray(ImageOps.exif_transpose(im).convert("RGB")), what)


def jpegs(tool):
    path, n = D + "/a.jpg", 0
    sizes = [(1, 1), (2, 1), (1, 9), (3, 3), (8, 8), (17, 5), (16, 16), (33, 31), (64, 48), (3, 70), (129, 65)]
    for (w, h), quality, sampling in itertools.product(sizes, (1, 20, 75, 90, 100), ("4:4:4", "4:2:2", "4:2:0", "4:1:1")):
        n += 1
        options = dict(quality=quality, subsampling=sampling, progressive=n % 2 == 0, optimize=n % 3 == 0)
        if n % 5 == 0:
            options["restart_marker_blocks"] = 1 + n % 7
        if n % 4 == 0:
            exif = Image.Exif()
            exif[0x112] = 1 + n // 4 % 8
            exif[0x10f] = "maker"
            options["exif"] = exif
        try:
            picture(w, h, n).save(path, **options)
        except OSError: # Pillow's buffer is too small for some
            picture(w, h, 0).save(path, **options)
        as_pillow(tool, path, "JPEG %dx%d %s" % (w, h, options))
    for mode, progressive, (w, h) in itertools.product(("L", "CMYK"), (False, True), ((1, 1), (30, 41))):
        picture(w, h, 2).convert(mode).save(path, quality=80, progressive=progressive)
        as_pillow(tool, path, "JPEG %s %dx%d" % (mode, w, h))
    picture(30, 41, 2).save(path, quality=80, keep_rgb=True)
    as_pillow(tool, path, "JPEG of RGB")
    # one component as 2x2; YCCK; sampling that Pillow does not write: other factors in its header, the same data
    picture(64, 64, 2).convert("L").save(path, quality=80)
    data = bytearray(open(path, "rb").read())
    at = data.index(b"\xff\xc0") + 11
    data[at] = 0x22
    as_pillow(tool, save(data, "b.jpg"), "JPEG grey 2x2")
    picture(32, 32, 2).convert("CMYK").save(path, quality=80)
    data = bytearray(open(path, "rb").read())
    data[data.index(b"Adobe") + 11] = 2
    as_pillow(tool, save(data, "b.jpg"), "JPEG YCCK")
    # two rows per row, and both: components are given the sampling of 1x2, 4x1, 1x1 of 2x2 with new sizes
    for factors, w, h in ((0x12, 16, 64), (0x12, 5, 61), (0x41, 90, 16), (0x24, 50, 90), (0x21, 3, 9), (0x22, 4, 4), (0x22, 3, 3)):
        fh, fv = factors >> 4, factors & 15
        data = sampled(w, h, fh, fv)
        as_pillow(tool, save(data, "b.jpg"), "JPEG sampled %dx%d, %dx%d pixels" % (fh, fv, w, h))


def sampled(w, h, fh, fv):
    """A JPEG whose second and third components have 1 / (fh fv) of the first's samples: scans of three grey ones."""
    parts, tables = [], None
    for i in range(3):
        cw, ch = (w, h) if i == 0 else (-(-w // fh), -(-h // fv))
        out = io.BytesIO()
        picture(cw, ch, 2).getchannel(i).save(out, "JPEG", quality=85)
        data = out.getvalue()
        at = data.index(b"\xff\xda")
        tables = tables or segments(data[:at], (0xdb, 0xc4))
        parts.append(b"\xff\xda\0\x08\1" + bytes([i + 1]) + b"\0\0\x3f\0" + data[at + 10:-2])
    frame = b"\xff\xc0\0\x11\x08" + struct.pack(">HHB", h, w, 3) + bytes([1, fh << 4 | fv, 0, 2, 0x11, 0, 3, 0x11, 0])
    return b"\xff\xd8" + tables + frame + b"".join(parts) + b"\xff\xd9"


def segments(data, wanted):
    at, out = 2, b""
    while at < len(data):
        n = 2 + struct.unpack(">H", data[at + 2:at + 4])[0]
        if data[at + 1] in wanted:
            out += data[at:at + n]
        at += n
    return out


def pngs_of_pillow(tool):
    path = D + "/a.png"
    for mode, (w, h), level in itertools.product(("1", "L", "LA", "P", "RGB", "RGBA"), ((1, 1), (7, 5), (33, 64), (200, 3)), (0, 1, 9)):
        im = picture(w, h, level).convert(mode)
        im.save(path, compress_level=level, **({"bits": (1, 2, 4)[level % 3]} if mode == "P" and w == 1 else {}))
        as_pillow(tool, path, "PNG %s %dx%d level %d" % (mode, w, h, level))
    for colours, transparency in itertools.product((2, 3, 16, 17, 256), (None, 1)):
        im = picture(31, 17, 2).quantize(colours)
        im.save(path, **({} if transparency is None else {"transparency": transparency}))
        as_pillow(tool, path, "PNG of %d colours" % colours)
    a = rng.integers(0, 65536, (9, 13)).astype(np.uint16)
    Image.fromarray(a).save(path)
    same(tool.image(path), np.repeat((a >> 8).astype(np.uint8)[:, :, None], 3, -1), "PNG of 16 bits")
    for k in range(1, 9):
        exif = Image.Exif()
        exif[0x112] = k
        picture(5, 3, 1).save(path, exif=exif)
        as_pillow(tool, path, "PNG, orientation %d" % k)
        with Image.open(path) as im:
            same(tool.image(path, "U"), np.asarray(im.convert("RGB")), "PNG, orientation %d ignored" % k)


def png_suite(tool):
    named = os.environ.get("PNGSUITE")
    files = {os.path.basename(p)[:-4]: open(p, "rb").read() for p in glob.glob(named + "/*.png")} if named else {}
    archives = glob.glob("build/pngsuite/pypng-*.tar.gz")
    if not files and archives:
        with tarfile.open(archives[0]) as t:
            code = t.extractfile(next(n for n in t.getnames() if n.endswith("code/pngsuite.py"))).read().decode()
        text = code[code.index("png = {"):code.index("\n}\n") + 3]
        space = {"_dehex": lambda s: bytes.fromhex(s.decode() if isinstance(s, bytes) else s)}
        exec(text, space) # a table of hexadecimal texts
        files = space["png"]
    if not files:
        skip("PngSuite", "python3 -m pip download --no-deps --no-binary :all: -d build/pngsuite pypng==0.20220715.0, or name a folder: PNGSUITE")
        return
    for name, data in sorted(files.items()):
        path = save(data, "suite.png")
        if name[0] == "x":
            refused(tool.image(path), "PNG" if name not in ("xcrn0g04", "xlfn0g04") and name[:2] != "xs" else "", "PngSuite " + name)
            continue
        with Image.open(path) as im:
            im.load()
            if im.mode.startswith("I"):
                a = np.asarray(im).astype(np.uint16)
                want = np.repeat((a >> 8).astype(np.uint8)[:, :, None], 3, -1)
            else:
                want = np.asarray(im.convert("RGB"))
        same(tool.image(path), want, "PngSuite " + name)
    print("PngSuite: %d files" % len(files))


# ---- PNG that this file writes --------------------------------------------------------------------------------------

def chunk(kind, data=b"", damage=0):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data) ^ damage)


PASSES = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))


def filtered(rows, step, chooser):
    """Rows of bytes with filters, as section 9 of the standard defines them."""
    out, above = b"", None
    for row in rows:
        row = np.frombuffer(row, np.uint8).astype(int)
        up = np.zeros_like(row) if above is None else above
        left, corner = (np.concatenate([np.zeros(step, int), a])[:len(a)] for a in (row, up))
        p = left + up - corner
        distance = np.stack([abs(p - left), abs(p - up), abs(p - corner)])
        paeth = np.choose(distance.argmin(0), [left, up, corner])
        kind = chooser()
        out += bytes([kind]) + ((row - [0 * row, left, up, (left + up) // 2, paeth][kind]) % 256).astype(np.uint8).tobytes()
        above = row
    return out


def png(w, h, colour, depth, samples, interlaced=0, palette=b"", chooser=lambda: 0, pieces=1, level=6, extra=b"", raw=None):
    """samples: h x w x channels integers."""
    channels = samples.shape[2]
    def rows(a):
        for row in a:
            v = row.reshape(-1)
            if depth == 16:
                yield v.astype(">u2").tobytes()
            elif depth == 8:
                yield v.astype(np.uint8).tobytes()
            else:
                bits = ((v[:, None] >> np.arange(depth - 1, -1, -1)) & 1).reshape(-1)
                yield np.packbits(bits.astype(np.uint8)).tobytes()
    step = max(channels * depth // 8, 1)
    if raw is None:
        raw = b""
        for x0, y0, dx, dy in PASSES if interlaced else ((0, 0, 1, 1),):
            part = samples[y0::dy, x0::dx]
            if part.size:
                raw += filtered(rows(part), step, chooser)
    z = zlib.compress(raw, level)
    cut = -(-len(z) // pieces)
    idat = b"".join(chunk(b"IDAT", z[i:i + cut]) for i in range(0, len(z), cut))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, depth, colour, 0, 0, interlaced)) + palette + extra + idat + chunk(b"IEND"))


def pngs(tool):
    kinds = [(0, d, 1) for d in (1, 2, 4, 8, 16)] + [(3, d, 1) for d in (1, 2, 4, 8)] + [(c, d, n) for c, n in ((2, 3), (4, 2), (6, 4)) for d in (8, 16)]
    for (colour, depth, channels), interlaced, (w, h) in itertools.product(kinds, (0, 1), ((1, 1), (2, 3), (5, 4), (9, 17), (40, 23))):
        a = rng.integers(0, 1 << depth, (h, w, channels))
        colours = rng.integers(0, 256, (1 << min(depth, 8), 3)).astype(np.uint8)
        data = png(w, h, colour, depth, a, interlaced, chunk(b"PLTE", colours.tobytes()) if colour == 3 else b"",
                   lambda: int(rng.integers(0, 5)), int(rng.integers(1, 9)), int(rng.integers(0, 10)), chunk(b"tEXt", b"a\0b"))
        if colour == 3:
            want = colours[a[:, :, 0]]
        else:
            v = a >> 8 if depth == 16 else a * (255 // ((1 << depth) - 1)) if depth < 8 else a
            want = np.repeat(v[:, :, :1], 3, -1) if channels < 3 else v[:, :, :3]
        same(tool.image(save(data)), want, "PNG colour %d, depth %d, interlaced %d, %dx%d" % (colour, depth, interlaced, w, h))
    g = rng.integers(0, 256, (4, 4, 1))
    good = png(4, 4, 0, 8, g)
    body = good[33:]
    head = lambda *v: good[:8] + chunk(b"IHDR", struct.pack(">IIBBBBB", *v)) + body
    for data, part in ((good[:8] + chunk(b"IHDR", good[16:29], 1) + body, "checksum of a chunk"), (head(0, 4, 8, 0, 0, 0, 0), "0x4 pixels"),
                       (head(1 << 31, 4, 8, 0, 0, 0, 0), "more than the limit"), (head(100000, 10000, 8, 0, 0, 0, 0), "more than the limit of 67108864"),
                       (head(8000, 8000, 8, 0, 0, 0, 0), "ends early"), (head(4, 4, 3, 0, 0, 0, 0), "depth"), (head(4, 4, 8, 1, 0, 0, 0), "colour type"),
                       (head(4, 4, 16, 3, 0, 0, 0), "depth"), (head(4, 4, 8, 0, 1, 0, 0), "compression"), (head(4, 4, 8, 0, 0, 1, 0), "filter"),
                       (head(4, 4, 8, 0, 0, 0, 2), "interlacing"), (head(4, 4, 8, 3, 0, 0, 0), "no palette"), (head(4, 5, 8, 0, 0, 0, 0), "less than"),
                       (head(4, 3, 8, 0, 0, 0, 0), "more compressed data"), (good[:33] + chunk(b"ABCD") + body, "chunk ABCD is not supported"),
                       (good[:33] + chunk(b"A\0cD") + body, "type of a chunk"), (good[:33] + chunk(b"PLTE", b"ab") + body, "palette"),
                       (good[:33] + chunk(b"IEND"), "no pixels"), (good[:8] + body, "no header"), (good[:33] + good[8:], "wrong place"),
                       (good[:-12], "ends early"), (good[:33] + chunk(b"IDAT", zlib.compress(b"\5" * 20)) + chunk(b"IEND"), "filter"),
                       (good[:33] + chunk(b"IDAT", zlib.compress(b"\0" * 20)[:-1] + b"x") + chunk(b"IEND"), "checksum of the pixels"),
                       (good[:33] + chunk(b"IDAT", b"x\x9d" + zlib.compress(b"\0" * 20)[2:]) + chunk(b"IEND"), "header of the compressed"),
                       (good[:33] + chunk(b"IDAT", b"\x78\x9c\x07") + chunk(b"IEND"), "kind of block"),
                       (good[:33] + chunk(b"IDAT", b"\x78\x9c\x01\4\0\0\0abcd") + chunk(b"IEND"), "stored block"),
                       (good[:33] + chunk(b"IDAT", zlib.compress(b"\0" * 20)[:-5]) + chunk(b"IEND"), "ends early"),
                       (png(4, 4, 3, 8, np.full((4, 4, 1), 3), palette=chunk(b"PLTE", b"abcabcabc")), "not in the palette"),
                       (good[:33] + chunk(b"IDAT", zlib.compress(b"\0" * 20)[:-2]) + chunk(b"tEXt", b"a\0") + chunk(b"IDAT", b"x") + chunk(b"IEND"), "ends early")):
        refused(tool.image(save(data)), part, "PNG with a mistake")
    g = rng.integers(0, 60, (40, 40, 1)) # blocks of all kinds behind each other
    raw = b"".join(b"\0" + row.astype(np.uint8).tobytes() for row in g[:, :, 0])
    for _ in range(20):
        z, at = b"\x78\x01", 0
        while at < len(raw):
            n, strategy = int(rng.integers(1, 400)), (zlib.Z_FIXED, zlib.Z_FIXED, zlib.Z_DEFAULT_STRATEGY)[rng.integers(0, 3)]
            packer = zlib.compressobj(int(rng.integers(0, 10)), zlib.DEFLATED, -15, 9, strategy)
            z += packer.compress(raw[at:at + n]) + packer.flush(zlib.Z_SYNC_FLUSH)
            at += n
        z += b"\3\0" + struct.pack(">I", zlib.adler32(raw)) # a fixed block of nothing
        same(tool.image(save(good[:8] + chunk(b"IHDR", struct.pack(">IIBBBBB", 40, 40, 8, 0, 0, 0, 0)) + chunk(b"IDAT", z) + chunk(b"IEND"))), np.repeat(g, 3, -1), "PNG of blocks of all kinds")
    bomb = good[:33] + chunk(b"IDAT", zlib.compress(bytes(50_000_000), 9)) + chunk(b"IEND")
    refused(tool.image(save(bomb)), "more compressed data", "a bomb")


# ---- other formats ----------------------------------------------------------------------------------------------------

def others(tool):
    for most, w, h, magic in itertools.product((1, 15, 255, 257, 1023, 65535), (1, 7), (1, 4), (b"P5", b"P6")):
        a = rng.integers(0, most + 1, (h, w, 1 if magic == b"P5" else 3))
        data = magic + b"\n# a comment\n%d %d # another\n%d\n" % (w, h, most) + a.astype(">u2" if most > 255 else np.uint8).tobytes()
        want = ((a * 255 + most // 2) // most).astype(np.uint8)
        path = save(data, "file.ppm")
        same(tool.image(path), np.repeat(want, 3, -1) if magic == b"P5" else want, "PPM")
        if magic == b"P6":
            as_pillow(tool, path, "PPM, Pillow")
        refused(tool.image(save(data[:-1])), "ends early", "a short PPM")
    for text, part in ((b"P6 1 1 0 abc", "maximum"), (b"P6 1 1 65536 abc", "maximum"), (b"P6 0 1 255 abc", "0x1"), (b"P6 1 1 2 \3\1\1", "above the maximum"),
                       (b"P6 -1 1 255 abc", "header"), (b"P6 99999999999999999999 1 255 abc", "header"), (b"P6 65536 65536 255 abc", "limit"), (b"P6 1 1", "header"),
                       (b"P6 8000 8000 255 a", "ends early"), (b"P3 1 1 255 1 2 3 ", "text PPM images are not supported"),
                       (b"GIF89a" + bytes(20), "GIF images are not supported"), (b"RIFF\0\0\0\0WEBPVP8 ", "WebP images"), (b"BM" + bytes(60), "BMP images"),
                       (b"\0\0\0\x18ftypheic" + bytes(9), "HEIC images"), (b"ID3\3" + bytes(20), "MP3 sounds"), (b"fLaC" + bytes(20), "FLAC sounds"),
                       (b"OggS" + bytes(20), "Ogg sounds"), (b"\0\0\0\x18ftypisom" + bytes(9), "MP4 files"), (b"hello, world, this", "68 65 6c 6c"),
                       (b"", "a file of 0 bytes"), (b"\x89PN", "a file of 3 bytes"), (wav(1, 1, 8000, 8, b"abcd"), "is a sound (WAV), not a picture")):
        refused(tool.image(save(text)), part, text[:16].decode("latin1"))
    check(tool.sound(save(png(1, 1, 0, 8, np.zeros((1, 1, 1)))))[0].endswith("is a picture (PNG), not a sound"), "PNG as a sound")
    jpeg = sampled(8, 8, 1, 1)
    at = jpeg.index(b"\xff\xc0")
    for kind, part in ((0xc3, "lossless coding is not supported"), (0xc9, "arithmetic coding is not"), (0xc5, "hierarchical")):
        refused(tool.image(save(jpeg[:at + 1] + bytes([kind]) + jpeg[at + 2:])), part, "JPEG %x" % kind)
    for offset, value, part in ((4, 12, "12 bits are not"), (6, 0, "DNL"), (9, 2, "2 components are not"), (11, 0x51, "sampling"), (12, 4, "table"), (7, 255, "early")):
        data = bytearray(jpeg)
        data[at + offset] = value
        refused(tool.image(save(data)), part, "JPEG, byte %d of the frame" % offset)
    data = bytearray(jpeg)
    data[at + 11], data[at + 14] = 0x31, 0x21
    refused(tool.image(save(data)), "sampling factors 2x1 of 3x1 are not supported", "JPEG")
    data = bytearray(jpeg)
    data[at + 5:at + 9] = b"\xff\xff\xff\xff"
    refused(tool.image(save(data)), "more than the limit", "a large JPEG")


# ---- WAV ---------------------------------------------------------------------------------------------------------------

def wav(tag, channels, rate, bits, data, extensible=False, riff=None, size=None, before=b"", name=b"RIFF"):
    width = (bits + 7) // 8
    form = struct.pack("<HHIIHH", 0xfffe if extensible else tag, channels, rate, rate * channels * width, channels * width, bits)
    if extensible:
        form += struct.pack("<HHIH", 22, bits, 3, tag) + bytes.fromhex("000000001000800000aa00389b71")
    body = b"WAVE" + before + b"fmt " + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<I", len(data) if size is None else size) + data
    return name + struct.pack("<I", len(body) if riff is None else riff) + body


def law(code, mu):
    """ITU-T G.711, as its tables 1 and 2 define the values."""
    v = code ^ (0xff if mu else 0x55)
    segment, step = v >> 4 & 7, v & 15
    if mu:
        x = ((2 * step + 33) << segment) - 33
        return (-x if v & 0x80 else x) * 4 / 32768
    x = 2 * step + 1 if segment == 0 else (2 * step + 33) << (segment - 1)
    return (x if v & 0x80 else -x) * 8 / 32768


def sounds(tool):
    n = 1000
    for channels, extensible in itertools.product((1, 2, 6), (False, True)):
        x = rng.uniform(-1, 1, (n, channels))
        for tag, bits in ((1, 8), (1, 16), (1, 24), (1, 32), (3, 32), (3, 64), (6, 8), (7, 8)):
            if tag == 3:
                data = x.astype("<f%d" % (bits // 8)).tobytes()
                want = x.astype("<f%d" % (bits // 8)).astype(np.float32)
            elif tag == 1:
                v = np.clip(np.round(x * 2.0 ** (bits - 1)), -2.0 ** (bits - 1), 2.0 ** (bits - 1) - 1).astype(np.int64)
                want = v / 2.0 ** (bits - 1)
                data = (v + 128).astype(np.uint8).tobytes() if bits == 8 else b"".join(int(i).to_bytes(bits // 8, "little", signed=True) for i in v.reshape(-1))
            else:
                codes = rng.integers(0, 256, (n, channels)).astype(np.uint8)
                data = codes.tobytes()
                want = np.vectorize(lambda c: law(int(c), tag == 7))(codes)
            want = want.astype(np.float32).astype(np.float64).mean(1).astype(np.float32)
            path = save(wav(tag, channels, 44100, bits, data, extensible, before=b"LIST\x03\0\0\0abc\0"))
            got, rate = tool.sound(path)
            what = "WAV tag %d, %d bits, %d channels" % (tag, bits, channels)
            check(rate == 44100 and len(got) == n and np.abs(got - want).max() < 1e-7, what + (": " + got if isinstance(got, str) else ""))
    data = rng.integers(-30000, 30000, 500).astype("<i2").tobytes()
    want = np.frombuffer(data, "<i2") / np.float32(32768)
    ds64 = b"ds64" + struct.pack("<IQQQI", 28, 0, len(data), 500, 0)
    for what, file in (("of unknown size", wav(1, 1, 8000, 16, data, riff=0xffffffff, size=0xffffffff)), ("of SoX's size", wav(1, 1, 8000, 16, data, size=0x7ffff000)),
                       ("with sizes of 0", wav(1, 1, 8000, 16, data, riff=0, size=0)), ("with half a frame", wav(1, 1, 8000, 16, data + b"x", size=0xffffffff)),
                       ("RF64", wav(1, 1, 8000, 16, data + b"LIST\4\0\0\0abcd", riff=0xffffffff, size=0xffffffff, before=ds64, name=b"RF64")),
                       ("BW64", wav(1, 1, 8000, 16, data, size=0xffffffff, before=ds64, name=b"BW64"))):
        got, rate = tool.sound(save(file))
        check(rate == 8000 and len(got) == 500 and (got == want).all(), "WAV %s: %s" % (what, got if isinstance(got, str) else len(got)))
    nan = np.array([0, np.nan], "<f4").tobytes()
    for file, part in ((wav(2, 1, 8000, 4, data), "MS ADPCM is not supported"), (wav(0x1234, 1, 8000, 16, data), "format 0x1234 is not"), (wav(1, 1, 8000, 16, b""), "no samples"),
                       (wav(1, 0, 8000, 16, data), "contradict"), (wav(1, 65, 8000, 8, data), "65 channels are not"), (wav(1, 1, 0, 16, data), "0 samples per second"),
                       (wav(1, 1, 8000, 16, data[:-1]), "incomplete"), (wav(1, 1, 8000, 16, data, size=2000), "ends early"), (wav(3, 1, 8000, 32, nan), "sample 1 is not a number, or not below 1000000"),
                       (wav(3, 1, 8000, 64, np.array([1e300]).tobytes()), "not a number"), (wav(3, 1, 8000, 16, data), "float of 16 bits"), (wav(1, 1, 8000, 40, data), "PCM of 40 bits"),
                       (wav(1, 1, 1000, 8, b"ab")[:36], "no samples"), (wav(1, 1, 1000, 16, bytes(2 * 3601000)), "3601.0 seconds are more than the limit of 3600"),
                       (wav(1, 1, 8000, 16, data).replace(b"fmt ", b"fmx "), "before their format"), (wav(1, 1, 8000, 16, data, before=wav(1, 1, 8000, 16, b"")[12:36]), "second format")):
        got, _ = tool.sound(save(file))
        refused(got, part, "WAV")


def resampled(tool):
    """Sines below 0.9 of both Nyquist frequencies come out as they are, those above Nyquist at -100 dB; rates with and without common divisors."""
    for a, b in ((44100, 16000), (48000, 16000), (8000, 16000), (16000, 44100), (22050, 16000), (44101, 16001), (96000, 16000), (11025, 48000), (16000, 24000), (192000, 8000)):
        n = a # one second
        for f in (0, 100, 0.45 * min(a, b) * 0.5, 0.449 * min(a, b)):
            x = np.cos(2 * np.pi * f * np.arange(n) / a)
            got, rate = tool.sound(save(wav(3, 1, a, 32, x.astype("<f4").tobytes())), b)
            if isinstance(got, str):
                check(False, got)
                continue
            want = np.cos(2 * np.pi * f * np.arange(len(got)) / b)
            edge = int(80 * b / min(a, b)) + 1
            error = np.abs(got - want)[edge:-edge].max()
            check(rate == b and len(got) == -(-n * b // a) and error < 1.2e-4, "%d to %d samples per second, %.0f Hz: error %.2g" % (a, b, f, error))
        if b < a:
            x = np.cos(2 * np.pi * (0.5 * b + 20) * np.arange(n) / a)
            got, _ = tool.sound(save(wav(3, 1, a, 32, x.astype("<f4").tobytes())), b)
            edge = 160
            check(np.abs(got[edge:-edge]).max() < 2e-5, "%d to %d, above Nyquist: %.2g" % (a, b, np.abs(got[edge:-edge]).max()))


# ---- damaged files ------------------------------------------------------------------------------------------------------

def damaged(tool):
    files = {}
    for progressive in (False, True):
        for sampling, w, h in (("4:2:0", 19, 17), ("4:4:4", 9, 8)):
            out = io.BytesIO()
            picture(w, h, 2).save(out, "JPEG", quality=60, subsampling=sampling, progressive=progressive, restart_marker_blocks=2)
            files["JPEG %s %d" % (sampling, progressive)] = out.getvalue()
    out = io.BytesIO()
    picture(17, 9, 0).convert("CMYK").save(out, "JPEG", quality=50)
    files["JPEG CMYK"] = out.getvalue()
    files["JPEG of three scans"] = sampled(20, 18, 2, 2)
    for colour, depth, channels, interlaced in ((0, 2, 1, 1), (2, 8, 3, 0), (6, 16, 4, 1), (3, 4, 1, 0)):
        a = rng.integers(0, 1 << depth, (9, 11, channels))
        files["PNG %d %d" % (colour, depth)] = png(11, 9, colour, depth, a, interlaced, chunk(b"PLTE", bytes(48)) if colour == 3 else b"", lambda: int(rng.integers(0, 5)), 3)
    flat = np.repeat(np.arange(40), 40).reshape(40, 40, 1) # dynamic codes, long matches
    files["PNG flat"] = png(40, 40, 0, 8, flat, level=9, pieces=2)
    files["PPM"] = b"P6 5 4 255\n" + bytes(60)
    files["WAV"] = wav(1, 2, 8000, 16, bytes(range(200)), True)
    files["WAV float"] = wav(3, 1, 8000, 32, np.linspace(-1, 1, 20).astype("<f4").tobytes())
    for i, (name, data) in enumerate(files.items()):
        path = save(data)
        got = tool.ask("T " + path)
        check(got.startswith("ok"), "%s, beginnings: %s" % (name, got))
        check(int(got.split()[1]) <= (2 if name.startswith("JPEG") else 0) if got.startswith("ok") else False, "%s, beginnings that are a picture: %s" % (name, got))
        got = tool.ask("F %s %d 3000" % (path, i))
        check(got.startswith("ok"), "%s, changed: %s" % (name, got))
        if name.startswith("PNG"): # checksums
            check(int(got.split()[1]) < 60, "%s, changed: %s" % (name, got))
    check(tool.end() == 0, "ASan or UBSan")


def kept(tool):
    """The files of tests/data/media: Pillow reads what tests/test_media.c says that it does."""
    for path in sorted(glob.glob("tests/data/media/*.*g")):
        as_pillow(tool, path, path)
    lines = subprocess.run([sys.executable, "tests/data/media/make.py", "--hashes"], capture_output=True, text=True).stdout.splitlines()[1:]
    with open("tests/test_media.c", encoding="utf-8") as f:
        text = f.read()
    for line in lines:
        check(line in text, "tests/test_media.c has another hash than " + line)
    check(len(lines) == 7, "tests/data/media/make.py --hashes: %d lines" % len(lines))


def main():
    print("Pillow %s, libjpeg-turbo %s, zlib %s" % (PIL.__version__, features.version("libjpeg_turbo"), features.version("zlib")))
    tool = Tool()
    jpegs(tool)
    pngs_of_pillow(tool)
    png_suite(tool)
    kept(tool)
    pngs(tool)
    others(tool)
    sounds(tool)
    resampled(tool)
    check(tool.end() == 0, "the tool's end")
    damaged(Tool("-fsanitize=address,undefined", "-fno-sanitize-recover=all"))
    finish()


main()
