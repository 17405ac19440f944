#!/usr/bin/env python3
"""What Hugging Face's tokenizers make of those reference texts where the recorded ids of llama.cpp differ from theirs:
tests/data/bert-bge.ids, a line each: flags of infer_tokenize, the text in hexadecimal, ids; `sha256` and that of the ids of
long-text.txt. Needs tokenizers (recorded with 0.23.3).

    make_bert_ids.py DATA       the references, unpacked
"""
import hashlib, json, os, struct, sys

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "cli"))
import gguf_file

DATA = sys.argv[1]
VOCAB = DATA + "/vocabs/ggml-vocab-bert-bge.gguf"
ADD, PARSE = 1, 2 # INFER_TEXT_ADD_SPECIAL, INFER_TEXT_PARSE_SPECIAL
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def word(token):
    """A token as BERT's own file has it."""
    return token if token in SPECIAL else token[1:] if token.startswith("\u2581") else "##" + token


def read(path):
    with open(path, "rb") as f:
        return f.read()


tokens = gguf_file.Gguf(VOCAB).meta["tokenizer.ggml.tokens"]
by_parse = []
for parse in (False, True):
    vocab = {}
    for number, token in enumerate(tokens):
        vocab.setdefault(word(token) if not token.startswith("[unused") else token, number)
    t = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]", max_input_chars_per_word=100))
    t.normalizer = normalizers.BertNormalizer(lowercase=True)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    if parse:
        t.add_special_tokens(SPECIAL)
    by_parse.append(t)


def ids(text, flags):
    out = by_parse[bool(flags & PARSE)].encode(text, add_special_tokens=False).ids
    return [101] + out + [102] if flags & ADD else out


def cases():
    """(text, flags, recorded ids) of all files."""
    texts = read(DATA + "/tokenizers/texts.bin").split(b"\x1e")
    lines = read(DATA + "/tokenizers/bert-bge.ids").decode().splitlines()
    for text, plain, special in zip(texts, lines[0::3], lines[2::3]):
        yield text, 0, plain.split()[1:]
        yield text, ADD | PARSE, special.split()[1:]
    texts = read(VOCAB + ".inp").split(b"\n__ggml_vocab_test__\n")
    for text, line in zip(texts, read(VOCAB + ".out").decode().splitlines()):
        yield text, 0, line.split()
    for case in json.loads(read(VOCAB + ".extra.json"))["cases"]:
        yield case["text"].encode(), case["add_special"] * ADD + case["parse_special"] * PARSE, [str(i) for i in case["ids"]]


lines = []
for text, flags, recorded in cases():
    try:
        ours = ids(text.decode(), flags)
    except UnicodeDecodeError:
        continue
    line = " ".join([str(flags), text.hex(), *(str(i) for i in ours)])
    if [str(i) for i in ours] != recorded and line not in lines:
        lines.append(line)
raw = ids(read(DATA + "/vocabs/long-text.txt").decode(), 0)
lines.append("sha256 " + hashlib.sha256(struct.pack("<%di" % len(raw), *raw)).hexdigest())
with open(os.path.join(HERE, "data", "bert-bge.ids"), "w", encoding="ascii", newline="\n") as f:
    f.writelines(line + "\n" for line in lines)
print(len(lines) - 1, "texts differ")
