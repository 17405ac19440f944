#!/usr/bin/env python3
"""Write tests/data/tokenizer-kinds.txt: small random vocabularies, random texts, and their ids by other implementations.

Usage: python3 tests/make_tokenizer_kinds.py > tests/data/tokenizer-kinds.txt      (needs the package `tokenizers`)

WordPiece and Unigram: Hugging Face tokenizers. PLaMo-2: the table of suffixes that its authors publish, written anew
below without regard to speed. RWKV: the longest token at every place, by trying all.

Lines: `V kind key=value...` begins a vocabulary, `T type score hex` is a token as a GGUF file has it, `X hex ids...` a
text without special tokens added or parsed; `.` stands for no bytes.
"""
import math
import random
import sys

import tokenizers
from tokenizers import models, normalizers, pre_tokenizers

MARK = "\u2581"
NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = 1, 2, 3, 4, 5, 6


def hexed(data):
    return data.hex() or "."


def put(kind, options, tokens, cases):
    print(" ".join(["V", kind] + ["%s=%d" % item for item in options.items()]))
    for text, score, kind_of in tokens:
        print("T %d %s %s" % (kind_of, repr(float(score)), hexed(text if isinstance(text, bytes) else text.encode())))
    for text, ids in cases:
        print(" ".join(["X", hexed(text if isinstance(text, bytes) else text.encode())] + [str(i) for i in ids]))


def random_text(rng, alphabet, most):
    return "".join(rng.choice(alphabet) for _ in range(rng.randrange(most)))


def pieces(rng, alphabet, count, most):
    found = {}
    while len(found) < count:
        found["".join(rng.choice(alphabet) for _ in range(rng.randrange(1, most)))] = 1
    return list(found)


def wordpiece(rng, lowercase, strip):
    letters = "abcde\u00e9\u00d6\u0142\u03a3\u03c2\u0416\u0130Z"
    if lowercase:
        letters = "abcdeoslz\u0142\u03c3\u03c2\u0436i"
    begin, inside = pieces(rng, letters, 60, 4), pieces(rng, letters, 60, 4)
    inside += list(letters[:8])
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "!", ".", "\u4e16", "~", "'"] + begin
    names = list(dict.fromkeys(words)) + ["##" + p for p in dict.fromkeys(inside)]
    model = models.WordPiece({name: i for i, name in enumerate(names)}, unk_token="[UNK]",
                             max_input_chars_per_word=10000)
    t = tokenizers.Tokenizer(model)
    t.normalizer = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=True, strip_accents=strip,
                                              lowercase=lowercase)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokens = []
    for i, name in enumerate(names):
        text = name[2:] if name.startswith("##") else name if i < 5 else MARK + name
        tokens.append((text, 0, UNKNOWN if i == 1 else CONTROL if i < 5 else NORMAL))
    # U+0130 in lower case is one character for llama.cpp and two here, of which stripping leaves the first.
    dotted = ["\u0130"] if strip or not lowercase else []
    alphabet = dotted + list("abcdeosabcdABCZ") + list("    .!~'") + ["\u00e9", "\u00d6", "\u0301", "\u4e16", "\u754c", "\u03a3",
                                                              "\u0416", "\u200b", "\t", "\u3000", "\u0142"]
    cases = []
    for _ in range(60):
        text = random_text(rng, alphabet, 30)
        cases.append((text, t.encode(text, add_special_tokens=False).ids))
    put("bert", {"normalizer.lowercase": lowercase, "normalizer.strip_accents": strip, "unknown_token_id": 1}, tokens,
        cases)


def unigram(rng, alphabet, step):
    texts = [MARK] + pieces(rng, [MARK] + alphabet[1:-2], 90, 5)
    texts = list(dict.fromkeys(texts))
    vocab = [("<unk>", 0.0)] + [(s, -rng.randrange(1, 40) * step) for s in texts]
    t = tokenizers.Tokenizer(models.Unigram(vocab, unk_id=0, byte_fallback=False))
    tokens = [(s, score, UNKNOWN if i == 0 else NORMAL) for i, (s, score) in enumerate(vocab)]
    cases = []
    for _ in range(60):
        text = random_text(rng, alphabet, 40)
        rest = text.lstrip(" ")  # the mark that is added goes before the first letter, not before the text
        given = MARK * (len(text) - len(rest)) + (MARK + rest.replace(" ", MARK) if rest else "")
        cases.append((text, t.encode(given).ids))
    put("t5", {"add_space_prefix": 1, "unknown_token_id": 0}, tokens, cases)


class Plamo2:
    """As tokenization_plamo.py describes it: rows of (piece length, id, score, suffix) for every suffix."""
    UNKNOWN_SCORE, INVALID_SCORE = -10000000, -20000000

    def __init__(self, vocab):
        self.byte = {int(text[3:5], 16): i for i, (text, _, kind) in enumerate(vocab) if kind == BYTE}
        ids = {text: i for i, (text, _, kind) in enumerate(vocab) if kind != BYTE}
        scores = {text: score for text, score, kind in vocab if kind != BYTE}
        for text in list(scores):
            for i in range(1, len(text)):
                scores.setdefault(text[i:], float("nan"))
        suffixes = sorted(list(scores) + [""], key=lambda s: s[::-1])
        self.table, self.start, by_text = [], {}, {}
        for suffix in suffixes:
            by_text[suffix] = len(self.table)
            if suffix:
                self.start[(suffix[0], by_text[suffix[1:]])] = len(self.table)
            for n in range(len(suffix), 0, -1):
                piece = suffix[:n]
                if piece in scores:
                    s = scores[piece]
                    s = self.INVALID_SCORE if math.isnan(s) else round(s * 10000)
                    self.table.append([n, ids.get(piece, -1), s, piece])
            self.table.append([1, -1, self.UNKNOWN_SCORE, ""])
        for row in self.table:
            row[3] = by_text[row[3]]

    def encode(self, text):
        n = len(text)
        cost, step, row = [0] * (n + 1), [None] * (n + 1), 0
        for i in range(n - 1, -1, -1):
            p = row
            while True:
                row = self.start.get((text[i], self.table[p][3]), 0)
                if row or self.table[p][2] == self.UNKNOWN_SCORE:
                    break
                p += 1
            best, p = None, row
            while True:
                length, token, score, _ = self.table[p]
                if score > self.INVALID_SCORE and (best is None or cost[i + length] - score < best):
                    best, step[i] = cost[i + length] - score, (length, token)
                if score == self.UNKNOWN_SCORE:
                    break
                p += 1
            cost[i] = best
        ids, i = [], 0
        while i < n:
            length, token = step[i]
            ids += [token] if token >= 0 else [self.byte[b] for b in text[i].encode()]
            i += length
        return ids


def plamo2(rng, alphabet):
    vocab = [("<|plamo:unk|>", 0.0, UNKNOWN)] + [("<0x%02X>" % b, 0.0, BYTE) for b in range(256)]
    vocab += [(s, -rng.randrange(1, 30) / 4, NORMAL) for s in pieces(rng, alphabet[:-2], 70, 6)]
    oracle = Plamo2(vocab)
    texts = [random_text(rng, alphabet, 40) for _ in range(60)]
    put("plamo2", {}, vocab, [(text, oracle.encode(text)) for text in texts])


def rwkv(rng):
    alphabet = ["a", "b", "\n", "\\", "'", "\u00e9", "\u4e16", "\t", '"', "\x00"]
    raw = [bytes([b]) for b in range(256)] + [s.encode() for s in pieces(rng, alphabet, 80, 6)]
    raw += [b"\xe4\xb8", b"\xff\xfe"]
    raw = list(dict.fromkeys(raw))
    cases = []
    for _ in range(60):
        text = random_text(rng, alphabet + ["c"], 40).encode()
        if rng.randrange(3) == 0:
            text += bytes(rng.randrange(256) for _ in range(8))
        ids, at = [], 0
        while at < len(text):
            best = max((s for s in raw if text.startswith(s, at)), key=len)
            ids.append(raw.index(best) + 1)
            at += len(best)
        cases.append((text, ids))
    tokens = [("<s>", 0, CONTROL)] + [(repr(s)[2:-1], 0, NORMAL) for s in raw]
    put("rwkv", {}, tokens, cases)


def main():
    rng = random.Random(5)
    print("# Made by tests/make_tokenizer_kinds.py with tokenizers %s; its head explains the lines." % tokenizers.__version__)
    wordpiece(rng, True, True)
    wordpiece(rng, False, False)
    wordpiece(rng, True, False)
    unigram(rng, [" ", "a", "b", "c", "d", "e"], 0.25)
    unigram(rng, [" ", "a", "b", "\u00e9", "\u4e16", "\U0001f600", "x"], 0.5)
    unigram(rng, [" ", "a", "b", "c", "d"], 0.0078125)
    plamo2(rng, list("abc \n") + ["\u3042", "\u4e16", "\U0001f600", "z"])
    plamo2(rng, list("ab ") + ["\u3042", "q"])
    rwkv(rng)
    return 0


if __name__ == "__main__":
    sys.exit(main())
