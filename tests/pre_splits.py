#!/usr/bin/env python3
"""The pre-tokenizers' regular expressions, run by Python's `regex` module: what src/text/token/token_pre*.c must equal.

    python3 tests/pre_splits.py --record              write tests/data/pre-splits.txt
    python3 tests/pre_splits.py --check N [--seed S]  compare with the C matchers on N random texts for every row

Needs: pip install regex (any Unicode version: characters whose category it sees differently from the tables are left
out), a C compiler for --check. The expressions are those of the models' tokenizer files. Written differently here,
with the same meaning: \\s as \\p{White_Space}, \\d as \\p{Nd}, \\b behind a digit as "no letter, mark, digit or
connector follows" (Oniguruma's \\w), && by a lookahead, $ as the end of the piece.

pre-splits.txt: "T HEX" a text; "P NAME" a pre-tokenizer, then for every text in order the lengths of its words in bytes.
"""
import argparse
import os
import random
import subprocess
import sys
import tempfile

import regex

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
LINES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
NO_HAN_UPPER, NO_HAN_LOWER = r"(?:(?!\p{Han})%s)" % UPPER, r"(?:(?!\p{Han})%s)" % LOWER


def words(digits, tail=r"[\r\n]*", short=SHORT + "|", letters=r"\p{L}+", other=r"[^\s\p{L}\p{N}]+"):
    return short + r"[^\r\n\p{L}\p{N}]?" + letters + r"|\p{N}" + digits + r"| ?" + other + tail + "|" + LINES


def cased(digits, short, tail=r"[\r\n/]*", upper=UPPER, lower=LOWER):
    first = r"[^\r\n\p{L}\p{N}]?" + upper
    return (first + "*" + lower + "+" + short + "|" + first + "+" + lower + "*" + short + r"|\p{N}" + digits +
            r"| ?[^\s\p{L}\p{N}]+" + tail + "|" + LINES)


LLAMA3, QWEN2, O200K = words("{1,3}"), words(""), cased("{1,3}", SHORT + "?")
DEEPSEEK_MARKS = (r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"""
                  r""" ?[\p{P}\p{S}]+[\r\n]*|""" + LINES)
SPARK_MARKS = (r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"""
               r""" ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+""")
KANA = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
CJK = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
JAIS2 = LLAMA3[:LLAMA3.index(r"|\s+(?!\S)")] + "".join(
    r"|\s{%d}(?!\S)" % n for n in (512, 256, 128, 64, 32, 16, 8, 4)) + r"|\s{1,2}(?!\S)|\s{1}"
DEEPSEEK_LETTERS = (
    "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373\u0376\u0377"
    "\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556"
    "\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a"
    "\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4"
    "\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc"
    "\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f"
    "\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b"
    "\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a"
    "\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2"
    "\U000118a0-\U000118df\U0001e900-\U0001e943")
DEEPSEEK_STOPS = "!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002"
AFMOE = ("[\u4e00-\u9fff\u3400-\u4dbf\u8c48-\ufaff\u3040-\u309f\u30a0-\u30ff\uff65-\uff9f\u2f00-\u2fdf\u0e40-\u0e7f"
         "\u0e80-\u0eff\u1780-\u17ff\u1000-\u109f\uaa60-\uaa7f\ua9e0-\ua9ff\uac00-\ud7af\u1100-\u11ff]+")
YOUTU = ("[\uac00-\ud7a3\u3131-\u318e]+|[\uff01\u2026\u201c\u201d\u2018\u2019\u2014\uff1a\uff1b\uff0c\u3001-\u303f"
         "\ufe30-\ufe4f]+|[\u3105-\u312f]+|" + KANA)
BLOOM = " ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"
ROWS = {  # the first name of a row of INFER__PRETOKENIZERS: its expressions, each inside the pieces of the one before
    "default": [r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"],
    "gpt-2": [GPT2],
    "jina-v2-es": [GPT2],
    "llama3": [LLAMA3],
    "dbrx": [LLAMA3],
    "glm4": [LLAMA3],
    "jais-2": [JAIS2],
    "qwen2": [QWEN2],
    "qwen35": [words("", letters=r"[\p{L}\p{M}]+", other=r"[^\s\p{L}\p{M}\p{N}]+")],
    "seed-coder": [words("{1}", tail="", other=r"[^\s\p{L}\p{N}\r\n]+")],
    "ufakzeka": [words("", short="")],
    "laguna": [r"[^\n]+|[\n]+", QWEN2],
    "minicpm5": [r"\p{N}{1,3}", words("+")],
    "exaone-moe": [words("", tail=r"[\r\n/]?", letters=r"(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+").replace("[\\r\\n]+", "[\\r\\n]")],
    "tekken": [cased("", "")],
    "gpt-4o": [O200K],
    "granite-embed-multi-97m": [O200K],
    "tiny_aya": [r"\d{1,3}(?=(?:\d{3})*\b)", O200K],
    "kimi-k2": [r"[\p{Han}]+|" + cased("{1,3}", SHORT + "?", r"[\r\n]*", NO_HAN_UPPER, NO_HAN_LOWER)],
    "youtu": [YOUTU, cased("", SHORT + "?")],
    "deepseek-llm": [r"[\r\n]", r"\s?[" + DEEPSEEK_LETTERS + "]+", r"\s?[" + DEEPSEEK_STOPS + "]+", r"\s+$", CJK, r"\p{N}+"],
    "deepseek-coder": [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", CJK, r"\p{N}"],
    "deepseek-v3": [r"\p{N}{1,3}", KANA, DEEPSEEK_MARKS],
    "spark2_5": [r"\p{N}{1,3}", KANA, SPARK_MARKS, r"\p{N}"],
    "afmoe": [r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))", AFMOE, DEEPSEEK_MARKS],
    "falcon": [r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"],
    "starcoder": [r"\p{N}", GPT2],
    "poro-chat": [BLOOM],
    "viking": [BLOOM, r"\p{N}"],
    "superbpe": [r"\p{N}+", r"(?=(\d{3})+(?!\d))"],
    "chameleon": ["<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", "([\t\n]|    |  )", r"\p{N}",
                  r"[\p{P}!-/:-@\[-`{-~]", GPT2],
    "gemma4": [r"[^\n]+|[\n]+"],
    "sarvam-moe": [r"[^\n]+|[\n]+"],
    "whitespace": [r"\S+"],
}
NASTY = (" \u00a0\u3000\u2003\t\n\r\v\f\x85\u2028" " \n\n  \r" "aAzZsStTlLdDmMvVrReE" "''\u2019" "0123456789" "!?.,:;-_/\\|$+<=>^~`\"#()[]{}@&*%"
         "\u00e9\u00c9\u00df\u00aa\u00ba\u01c5\u017f\u0130\u0131\u01bb\u02b0\u0294\u0421\u0441\u03a9\u03c9\u1fbc\u10d0\u1c90\u13a0\uab70"
         "\u0301\u0323\u0903\u093f\u20dd\u0e34\u17b6\u0f71\u05b0\u064e"
         "\u0e01\u0e40\u0e94\u1780\u1000\u0915\u0e50\u0661\u06f5\u0967\uff11\U0001d7d8\u00b2\u00bd\u2160\u2167\u2460\u3007\u3021\u00bc"
         "\u4e2d\u6587\u9fa5\u9fff\u3400\u3005\u303b\uf900\ufa6d\U00020000\u2e80\u2f00\u3042\u30a2\u30fc\uff71\u3105\u312f\uac00\ud55c\u1100\u3131\ud7a3\ud7b0"
         "\u3001\u3002\u2026\uff0c\uff01\uff1a\u201c\u2018\u2014\u0964\u06d4\u060c\ufe30\u20ac\u00a3\u2260\u2192\u00d7\u203f"
         "\U0001f600\U0001f468\u200d\ufe0f\U0001f3fb\u200b\ufeff\x00\x01\x7f\u00ad\ue000\ufffd\U000e0101\U0001f1e9")
PARTS = ["'s", "'S", "'ll", "'LL", "'\u017f", "'re", "'Ve", "'d", "don't", " the", "The", "HTTPServer", "McDonald", "123", "1234", "1234567",
         "12\u00b23456", "123abc", "3.14", "0x1F", "   ", "    ", "\n\n", "\r\n", " \n ", "  \n\n  ", "\t\t", "...", "!!\n", "//\n", "?/\r\n", "#include",
         "<sentinel:12>", "<sentinel:>", "IMGIMGABZ", "IMGIMGABCDEZ", "IMGIMGZ", "IMG", "e\u0301\u0323", "\u4e2d\u6587ABC", "\u65e5\u672c\u8a9e", "\ud55c\uad6d\uc5b4",
         "\u0939\u093f\u0928\u094d\u0926\u0940", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35", "\u0645\u0631\u062d\u0628\u0627", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "a b c", "\u1794\u17c3"]


def translate(pattern):
    """Python's \\s, \\d and \\b are not those of the tokenizers' regular expressions."""
    out, inside, i = "", False, 0
    while i < len(pattern):
        two = pattern[i:i + 2]
        if two == "\\S":
            out += r"\P{White_Space}"
        elif two == "\\s":
            out += r"\p{White_Space}"
        elif two == "\\d":
            out += r"\p{Nd}"
        elif two == "\\b" and not inside:
            out += r"(?![\p{L}\p{M}\p{Nd}\p{Pc}])"
        elif two[0] == "\\":
            out += two
        else:
            if two[0] == "[":
                inside = True
                out += "["
            elif two[0] == "]":
                inside = False
                out += "]"
            elif two[0] == "$" and not inside and i == len(pattern) - 1:
                out += r"\Z"
            elif two[0] in "[~&|-" and inside and two[0] == two[1:2]:
                out += "\\" + two[0]
            else:
                out += two[0]
            i += 1
            continue
        i += 2
    return regex.compile(out, regex.V0)


def split(patterns, text):
    pieces = [text]
    for pattern in patterns:
        cut = []
        for piece in pieces:
            at = 0
            for m in pattern.finditer(piece):
                cut += [piece[at:m.start()], piece[m.start():m.end()]]
                at = m.end()
            cut.append(piece[at:])
        pieces = [piece for piece in cut if piece]
    assert "".join(pieces) == text
    return [len(piece.encode("utf-8", "surrogatepass")) for piece in pieces]


def alphabet():
    try:
        import unicodedata2 as unicodedata
    except ImportError:
        import unicodedata
    def same(c):
        category = unicodedata.category(c)
        return category != "Cs" and regex.match(r"\p{%s}" % category, c) is not None
    rest = [chr(cp) for cp in range(0x80, 0x32000) if not 0xd800 <= cp < 0xe000 and unicodedata.category(chr(cp)) != "Cn"]
    return [c for c in NASTY if same(c)], [c for c in rest if same(c)]


def texts(count, seed):
    rng = random.Random(seed)
    nasty, rest = alphabet()
    for _ in range(count):
        own = [rng.choice(nasty) for _ in range(rng.randint(1, 7))]
        if rng.random() < 0.3:
            own += [rng.choice(rest) for _ in range(3)]
        text = ""
        for _ in range(rng.randint(1, 9)):
            if rng.random() < 0.25:
                text += rng.choice(PARTS)
            else:
                text += rng.choice(own) * (rng.randint(1, 9) if rng.random() < 0.2 else 1)
        yield text


def record():
    patterns = {name: [translate(p) for p in row] for name, row in ROWS.items()}
    made = ["Hello, World! It's 2024 and I'LL pay $1,234,567.89 \u2014 don't you?\n\n\tdef f(x):\n        return x**2  # ok\r\n",
            " " * 5 + "x" + " " * 37 + "y" + " " * 600 + "z" + " " * 70] + list(texts(58, 20))
    out = ["# Splits by the pre-tokenizers' regular expressions, made by tests/pre_splits.py --record, which says how.\n"]
    out += ["T %s\n" % t.encode("utf-8").hex() for t in made]
    for name in ROWS:
        out.append("P %s\n" % name)
        out += [" ".join(map(str, split(patterns[name], t))) + "\n" for t in made]
    with open(os.path.join(ROOT, "tests", "data", "pre-splits.txt"), "w", encoding="ascii", newline="\n") as f:
        f.writelines(out)
    return 0


def check(count, seed, only):
    patterns = {name: [translate(p) for p in row] for name, row in ROWS.items() if not only or name in only}
    made = list(texts(count, seed))
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "pre_split")
        subprocess.run([os.environ.get("CC", "cc"), "-O1", "-w", "-I" + os.path.join(ROOT, "tests"),
                        os.path.join(ROOT, "tests", "pre_split.c"), "-o", program, "-lm", "-lpthread", "-ldl"], check=True)
        failed = 0
        for name in patterns:
            lines = "".join("%s %s\n" % (name, t.encode("utf-8").hex()) for t in made)
            got = subprocess.run([program], input=lines, capture_output=True, text=True, check=True).stdout.split("\n")
            wrong = 0
            for text, line in zip(made, got):
                want = split(patterns[name], text)
                if line.split() != [str(n) for n in want]:
                    wrong += 1
                    if wrong <= 3:
                        print("%s: %s\n  want %s\n  got  %s" % (name, ascii(text), want, line))
            print("%-24s %d texts, %d differ" % (name, count, wrong))
            sys.stdout.flush()
            failed += wrong
    return failed != 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--check", type=int, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    if args.record:
        return record()
    return check(args.check or 1000, args.seed, args.names)


if __name__ == "__main__":
    sys.exit(main())
