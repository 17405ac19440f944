#!/usr/bin/env python3
"""bench_text.py: how fast texts become ids, beside other tokenizers on the same vocabularies, and what opening costs.

  python3 tools/bench_text.py [VOCABULARY.gguf ...] [--text FILE] [--peer NAME ...] [--python PYTHON] [--cpus 2] [--rounds 3]

Builds tests/bench_tokenize.c (then tests/bench_sample.c and tests/bench_mask.c) and runs it in turn with the
peers that are installed: llama_cpp (pip install llama-cpp-python; it opens the same file), tokenizers and tiktoken (made
from the file's tokens and merges and the model's regular expression, PATTERNS). Nothing is downloaded. PYTHON is the one
whose packages count, this one unless said otherwise; --peer limits them. Without files: those of $INFER_TEST_DATA/vocabs
that are named in PATTERNS, and its long-text.txt.

Every program has one core and the text repeated to 10 MB; a round runs each once, a figure is the best of all rounds. Ids
are compared: a peer whose ids are others is marked. The output is Markdown for docs/benchmarks.md.
"""
import argparse
import json
import os
import struct
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SIZE = 10000000
SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
END = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
# tokenizer.ggml.pre: its regular expression, and whether a word that is a token is that token whatever the merges say
PATTERNS = {
    "gpt-2": (r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+", False),
    "llama-bpe": (SHORT + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|" + END, True),
    "qwen2": (SHORT + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|" + END, False),
    "gpt-4o": ("|".join(r"[^\r\n\p{L}\p{N}]?%s%s%s%s%s?" % (UPPER, a, LOWER, b, SHORT) for a, b in ("*+", "+*")) +
               r"|\p{N}{1,3}|" + END.replace(r"[\r\n]*", r"[\r\n/]*"), False),
}


# ---- the file ------------------------------------------------------------------------------------------------------------

def metadata(path):
    """The metadata of a GGUF file, texts as bytes."""
    with open(path, "rb") as f:
        data = f.read()
    at, kinds = 24, {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 8: "s", 9: "a", 10: "Q", 11: "q", 12: "d"}

    def number(form):
        nonlocal at
        value = struct.unpack_from("<" + form, data, at)[0]
        at += struct.calcsize("<" + form)
        return value

    def text():
        nonlocal at
        n = number("Q")
        at += n
        return data[at - n:at]

    def value(kind):
        if kinds[kind] == "s":
            return text()
        if kinds[kind] == "a":
            of, n = number("I"), number("Q")
            return [value(of) for _ in range(n)]
        return number(kinds[kind])

    if data[:4] != b"GGUF":
        sys.exit("bench_text: %s is no GGUF file" % path)
    return {text().decode(): value(number("I")) for _ in range(struct.unpack_from("<Q", data, 16)[0])}


def alphabet():
    """GPT-2's characters for bytes, and back."""
    own = [b for b in range(256) if 0x21 <= b <= 0x7e or 0xa1 <= b <= 0xac or b >= 0xae]
    chars = {b: chr(b) for b in own}
    chars.update({b: chr(256 + i) for i, b in enumerate(b for b in range(256) if b not in own)})
    return {c: b for b, c in chars.items()}


def repeated(path):
    with open(path, "rb") as f:
        unit = f.read()
    text = (unit * (SIZE // len(unit) + 1))[:SIZE]
    return text.decode("utf-8", "ignore")


def fnv(ids):
    h = 0xcbf29ce484222325
    for b in struct.pack("<%di" % len(ids), *ids):
        h = (h ^ b) * 0x100000001b3 & 0xffffffffffffffff
    return "%016x" % h


# ---- peers: text -> ids, made from a file -------------------------------------------------------------------------------

def peer_llama_cpp(path, text):
    import llama_cpp as L
    if hasattr(L, "llama_log_callback"):
        peer_llama_cpp.quiet = L.llama_log_callback(lambda level, line, user: None) # kept: C calls it later
        L.llama_log_set(peer_llama_cpp.quiet, None)
    L.llama_backend_init()
    params = L.llama_model_default_params()
    params.vocab_only = True
    start = time.perf_counter()
    model = L.llama_model_load_from_file(path.encode(), params)
    opened = time.perf_counter() - start
    if not model:
        sys.exit("llama_cpp cannot load " + path)
    vocab, data = L.llama_model_get_vocab(model), text.encode()
    out = (L.llama_token * len(data))()

    def ids():
        return L.llama_tokenize(vocab, data, len(data), out, len(data), False, False)
    return ids, lambda n: out[:n], opened, getattr(L, "__version__", "")


def peer_tokenizers(path, text):
    import tokenizers as T
    meta = metadata(path)
    pattern, whole = PATTERNS[meta["tokenizer.ggml.pre"].decode()]
    names = [t.decode() for t in meta["tokenizer.ggml.tokens"]]
    merges = [tuple(m.decode().split(" ", 1)) for m in meta["tokenizer.ggml.merges"]]
    start = time.perf_counter()
    made = T.Tokenizer(T.models.BPE({t: i for i, t in enumerate(names)}, merges, ignore_merges=whole))
    made.pre_tokenizer = T.pre_tokenizers.Sequence([T.pre_tokenizers.Split(T.Regex(pattern), "isolated"),
                                                    T.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    opened = time.perf_counter() - start
    fast = getattr(made, "encode_batch_fast", made.encode_batch)
    return (lambda: fast([text], add_special_tokens=False)[0]), (lambda e: e.ids), opened, T.__version__


def peer_tiktoken(path, text):
    import tiktoken
    meta, back = metadata(path), alphabet()
    pattern = PATTERNS[meta["tokenizer.ggml.pre"].decode()][0]
    types = meta.get("tokenizer.ggml.token_type", [])
    ranks = {}
    for i, t in enumerate(meta["tokenizer.ggml.tokens"]):
        if not types or types[i] == 1:
            ranks[bytes(back[c] for c in t.decode())] = i
    start = time.perf_counter()
    made = tiktoken.Encoding(os.path.basename(path), pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    opened = time.perf_counter() - start
    return (lambda: made.encode_ordinary(text)), (lambda e: e), opened, tiktoken.__version__


PEERS = {"llama_cpp": peer_llama_cpp, "tokenizers": peer_tokenizers, "tiktoken": peer_tiktoken}


def run_peer(name, path, text_path):
    """In a process of its own: one JSON line."""
    text = repeated(text_path)
    encode, listed, opened, version = PEERS[name](path, text)
    best = 1e9
    for _ in range(2):
        start = time.perf_counter()
        result = encode()
        best = min(best, time.perf_counter() - start)
    ids = listed(result)
    print(json.dumps({"speed": len(text.encode()) / 1e6 / best, "ids": len(ids), "hash": fnv(ids), "open": opened, "version": version}))
    return 0


# ---- measuring --------------------------------------------------------------------------------------------------------------

def build(folder, name):
    program = os.path.join(folder, name)
    subprocess.run([os.environ.get("CC", "cc"), "-O2", "-w", "-I" + os.path.join(ROOT, "tests"), os.path.join(ROOT, "tests", name + ".c"),
                    "-o", program, "-lm", "-lpthread"] + (["-ldl"] if sys.platform.startswith("linux") else []), check=True)
    return program


def output(command, cpus):
    def pin():
        os.sched_setaffinity(0, cpus)
    env = dict(os.environ, RAYON_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false", OMP_NUM_THREADS="1")
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env,
                          preexec_fn=pin if cpus else None)
    if done.returncode:
        raise RuntimeError("%s: exit status %d: %s" % (" ".join(command[:4]), done.returncode, done.stderr.strip()[-300:]))
    return done.stdout


def installed(names, python):
    found = []
    for name in names:
        if subprocess.run([python, "-c", "import " + name], capture_output=True).returncode == 0:
            found.append(name)
        else:
            print("not installed, left out: %s" % name, file=sys.stderr)
    return found


def own_figures(out):
    """{file: {"text": (MB/s, ids, hash), "open": .., "views": .., "hostile": [(seconds, ids, what)]}}"""
    figures = {}
    for line in out.splitlines():
        kind, name, *rest = line.split("\t")
        at = figures.setdefault(name, {"hostile": []})
        if kind == "hostile":
            at["hostile"].append((float(rest[0]), int(rest[1]), rest[2]))
        else:
            at[kind] = rest
    return figures


def better(old, new):
    """The best of two rounds of bench_tokenize."""
    for name, at in new.items():
        was = old.setdefault(name, at)
        if was is at:
            continue
        if float(at["text"][0]) > float(was["text"][0]):
            was["text"] = at["text"]
        if float(at["open"][0]) < float(was["open"][0]):
            was["open"] = at["open"]
        was["hostile"] = [min(a, b) for a, b in zip(was["hostile"], at["hostile"])]
    return old


def report(names, own, peers, results):
    print("| vocabulary | infer MB/s | " + "".join("%s | ratio | " % p for p in peers))
    print("|---" * (2 + 2 * len(peers)) + "|")
    for name in names:
        speed, ids, digest = own[name]["text"]
        row = "| %s | %.1f | " % (name, float(speed))
        for p in peers:
            r = results.get((p, name))
            row += "– | – | " if not r else "%.2f%s | %.0f | " % (r["speed"], "" if r["hash"] == digest else " (other ids)", float(speed) / r["speed"])
        print(row)
    print()
    print("| vocabulary | open, ms | kept, MB | of the file's tokens and merges | with the parser's views | slowest of 1 MB of one thing, s |")
    print("|---|---|---|---|---|---|")
    for name in names:
        seconds, kept, size = own[name]["open"]
        views = own[name]["views"][0]
        worst = max(own[name]["hostile"])
        print("| %s | %.1f | %.1f | %.2f | %.2f | %.2f (%s) |" % (name, 1e3 * float(seconds), float(kept) / 1e6, float(kept) / float(size),
                                                         (float(kept) + float(views)) / float(size), worst[0], worst[2]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vocabularies", nargs="*")
    parser.add_argument("--text")
    parser.add_argument("--peer", action="append", choices=sorted(PEERS))
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--cpus", default="")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--run", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.run:
        return run_peer(*args.run)
    data = os.environ.get("INFER_TEST_DATA", "")
    text = args.text or os.path.join(data, "vocabs", "long-text.txt")
    files = args.vocabularies or [os.path.join(data, "vocabs", "ggml-vocab-%s.gguf" % n) for n in PATTERNS]
    if not os.path.exists(text) or not all(os.path.exists(f) for f in files):
        sys.exit("bench_text: name vocabularies and --text, or set INFER_TEST_DATA to a folder with vocabs/")
    cpus = [int(c) for c in args.cpus.split(",") if c]
    peers, own, results, names = installed(args.peer or list(PEERS), args.python), {}, {}, [os.path.basename(f) for f in files]
    with tempfile.TemporaryDirectory() as folder:
        program = build(folder, "bench_tokenize")
        for _ in range(args.rounds):
            own = better(own, own_figures(output([program, text] + files, cpus)))
            for p in peers:
                for path, name in zip(files, names):
                    try:
                        r = json.loads(output([args.python, os.path.abspath(__file__), "--run", p, path, text], cpus).splitlines()[-1])
                    except RuntimeError as e: # a vocabulary that this peer cannot be made from
                        print(e, file=sys.stderr)
                        continue
                    if (p, name) not in results or r["speed"] > results[p, name]["speed"]:
                        results[p, name] = r
        report(names, own, peers, results)
        versions = sorted({"%s %s" % (p, r["version"]) for (p, _), r in results.items()})
        print("\nText: %s repeated to 10 MB; one core%s; best of %d rounds. %s" % (
            os.path.basename(text), " (CPU %s)" % args.cpus if args.cpus else "", args.rounds, ", ".join(versions)))
        large = next((f for f in files if "llama-bpe" in f), files[0])
        print("\n" + output([build(folder, "bench_sample")], cpus))
        print("\n" + output([build(folder, "bench_mask"), large], cpus))
    return 0


if __name__ == "__main__":
    sys.exit(main())
