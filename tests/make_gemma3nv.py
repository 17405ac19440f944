#!/usr/bin/env python3
"""Small projectors of Gemma 3n (gemma3nv, MobileNet V5) and their embeddings in float64: tests/data/media/gemma3nv*. Written from
arXiv 2404.10518 (blocks, attention with one pair of keys and values) and timm's published code (padding, fusion). Needs numpy.

    make_gemma3nv.py                 writes them: NAME.gguf, and NAME.N.exact of picture N; and a tiny one for tests/fuzz
    make_gemma3nv.py --full FILE     a file of the real model's shape (768 x 768, 300 million values) with random weights
    make_gemma3nv.py --pre FOLDER    what a recorder reads: NAME.N.pre, rows of pixels
    make_gemma3nv.py --recorded      how much what was recorded with llama.cpp, NAME.N.embd, differs
"""
import os
import struct
import sys

import numpy as np

import make_indexer_models as base

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "media")
# a block: e (expansion), or i(kernel before, expansion in quarters, kernel after), or a(heads, dim, downsampled)
SMALL = {"image": 64, "patch": 4, "stem": 8, "width": 32, "out": 32, "stages": (
    (16, ["e", "e"]), (24, ["i 3 24 5", "i 5 16 0"]), (32, ["i 5 24 5", "a 4 16 1", "i 0 8 3"]), (40, ["i 0 16 5", "a 3 32 0"]))}
POOLED = {"image": 512, "patch": 2, "stem": 8, "width": 40, "out": 40, "f16": True, "stages": (
    (8, ["e", "e", "e"]), (24, ["i 3 12 3"]), (40, ["i 5 8 5", "a 2 8 1", "i 0 8 0"]), (56, ["i 0 8 5", "a 3 16 0"]))}
ODD = {"image": 75, "patch": 3, "stem": 9, "width": 20, "out": 12, "f16": True, "stages": (
    (7, ["e", "e"]), (13, ["i 0 8 5", "i 7 4 0"]), (22, ["i 5 8 3", "a 2 6 1"]), (30, ["i 3 8 5", "a 3 10 0"]))}
TINY = {"image": 16, "patch": 16, "stem": 3, "width": 5, "out": 4, "f16": True, "stages": (
    (4, ["e"]), (3, ["i 3 4 3"]), (5, ["i 0 8 3", "a 2 3 1"]), (4, ["i 0 4 3", "a 1 4 0"]))}
REAL = {"image": 768, "patch": 3, "stem": 64, "width": 2048, "out": 2048, "f16": True, "stages": (
    (128, ["e"] * 3), (256, ["i 3 24 5"] + ["i 5 16 0", "i 3 16 0"] * 2),
    (640, ["i 5 24 5"] + ["i 5 16 0"] * 7 + ["i 0 4 0"] + ["a 12 64 1", "i 0 8 0"] * 14),
    (1280, ["i 5 24 5"] + ["a 16 96 0", "i 0 8 0"] * 19))}


def shapes(k):
    """Names of tensors and their shapes, as numpy has them; of vectors, and of factors of results."""
    cols = k["stem"]
    yield from (("v.conv_stem.conv.weight", (cols, 3, 3, 3)), ("v.conv_stem.conv.bias", (1, cols, 1, 1)), ("v.conv_stem.bn.weight", (cols,)))
    for stage, (out, blocks) in enumerate(k["stages"]):
        for i, text in enumerate(blocks):
            b, (kind, *n) = "v.blk.%d.%d." % (stage, i), text.split()
            n = [int(x) for x in n]
            if kind == "e":
                yield from ((b + "conv_exp.weight", (4 * cols, cols, 3, 3)), (b + "bn1.weight", (4 * cols,)),
                            (b + "conv_pwl.weight", (out, 4 * cols, 1, 1)), (b + "bn2.weight", (out,)))
            elif kind == "i":
                wide = cols * n[1] // 4
                for name, size, at in (("dw_start", n[0], cols), ("dw_mid", n[2], wide)):
                    if size:
                        yield from ((b + name + ".conv.weight", (at, 1, size, size)), (b + name + ".bn.weight", (at,)))
                yield from ((b + "pw_exp.conv.weight", (wide, cols, 1, 1)), (b + "pw_exp.bn.weight", (wide,)),
                            (b + "pw_proj.conv.weight", (out, wide, 1, 1)), (b + "pw_proj.bn.weight", (out,)))
            else:
                yield from ((b + "norm.weight", (cols,)), (b + "attn.query.proj.weight", (n[0] * n[1], cols, 1, 1)),
                            (b + "attn.output.proj.weight", (out, n[0] * n[1], 1, 1)))
                for name in ("key", "value"):
                    yield b + "attn.%s.proj.weight" % name, (n[1], cols, 1, 1)
                    if n[2]:
                        yield from ((b + "attn.%s.down_conv.weight" % name, (cols, 1, 3, 3)), (b + "attn.%s.norm.weight" % name, (cols,)))
            if kind != "e":
                yield b + "layer_scale.gamma", (1, out, 1, 1)
            cols = out
    two, width = k["stages"][2][0] + cols, k["width"]
    yield from (("v.msfa.ffn.pw_exp.conv.weight", (2 * two, two, 1, 1)), ("v.msfa.ffn.pw_exp.bn.weight", (2 * two,)),
                ("v.msfa.ffn.pw_proj.conv.weight", (width, 2 * two, 1, 1)), ("v.msfa.ffn.pw_proj.bn.weight", (width,)),
                ("v.msfa.norm.weight", (width,)), ("mm.soft_emb_norm.weight", (width,)), ("mm.input_projection.weight", (k["out"], width)),
                ("mm.embedding.weight", (4, width)), ("mm.hard_emb_norm.weight", (width,)))


def make(path, k, seed):
    r, tensors = np.random.default_rng(seed), {}
    for name, shape in shapes(k):
        if len(shape) > 1 and "bias" not in name and "gamma" not in name:
            a = r.standard_normal(shape, "f4") / np.sqrt(np.prod(shape[1:]))
            if len(shape) > 2 and shape[1] == 1: # else sums of alike neighbours cancel, and what is left is noise of F16
                a[:, 0, shape[2] // 2, shape[3] // 2] += 1
        else:
            a = r.standard_normal(shape, "f4") * 0.2 * (0.25 if "gamma" in name else 1) + (0 if "bias" in name else 0.2 if "gamma" in name else 1)
        tensors[name] = a.astype("f4")
    keys = {"clip.has_vision_encoder": True, "clip.vision.projector_type": "gemma3nv", "clip.vision.image_size": k["image"],
            "clip.vision.patch_size": k["patch"], "clip.vision.embedding_length": k["width"], "clip.vision.feed_forward_length": 4 * k["width"],
            "clip.vision.block_count": 128, "clip.vision.attention.head_count": 8, "clip.vision.projection_dim": k["out"],
            "clip.vision.attention.layer_norm_epsilon": 1e-6, "clip.vision.image_mean": [0.0] * 3, "clip.vision.image_std": [1.0] * 3}
    kv = {"general.architecture": "clip", "general.type": "mmproj", **keys}

    def half(name, a): # kernels of columns in any case: llama.cpp computes no others
        return a.ndim > 1 and "stem" not in name and "gamma" not in name and (k.get("f16") or (a.ndim > 2 and a.shape[1] == 1))

    base.write(path, kv, tensors, half)


# ---- formulas: x is [high][wide][columns] ------------------------------------------------------------------------------

def rms(x, w):
    return base.rms(x, w, 1e-6)


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))


def conv(x, w, step=1):
    """Kernels [out][in][k][k]; in = 1: one for each column. Zeros around x, the smaller half before it."""
    k, (high, wide) = w.shape[-1], x.shape[:2]
    out = [-(-n // step) for n in (high, wide)]
    pad = [max((o - 1) * step + k - n, 0) for o, n in zip(out, (high, wide))]
    x = np.pad(x, [(p // 2, p - p // 2) for p in pad] + [(0, 0)])
    y = 0
    for j in range(k):
        for i in range(k):
            at = x[j:j + out[0] * step:step, i:i + out[1] * step:step][:out[0], :out[1]]
            y = y + (at * w[:, 0, j, i] if w.shape[1] == 1 and x.shape[2] > 1 else at @ w[:, :, j, i].T)
    return y


def block(w, b, x, step):
    def has(name):
        return b + name + ".weight" in w

    def of(name, norm, x, step=1):
        return rms(conv(x, w[b + name + ".weight"], step), w[b + norm + ".weight"])

    gamma = w.get(b + "layer_scale.gamma", np.ones(1)).reshape(-1)
    if has("conv_exp"):
        y = of("conv_pwl", "bn2", gelu(of("conv_exp", "bn1", x, step)))
    elif has("attn.query.proj"):
        h = rms(x, w[b + "norm.weight"])
        k, v = (of("attn.%s.down_conv" % n, "attn.%s.norm" % n, h, 2) if has("attn.%s.down_conv" % n) else h for n in ("key", "value"))
        k, v = (conv(at, w[b + "attn.%s.proj.weight" % n]).reshape(-1, w[b + "attn.%s.proj.weight" % n].shape[0])
                for at, n in ((k, "key"), (v, "value")))
        q = conv(h, w[b + "attn.query.proj.weight"])
        y = base.softmax(q.reshape(-1, k.shape[1]) @ k.T / np.sqrt(k.shape[1])) @ v
        y = conv(y.reshape(q.shape), w[b + "attn.output.proj.weight"])
    else:
        y = of("dw_start.conv", "dw_start.bn", x) if has("dw_start.conv") else x
        y = gelu(of("pw_exp.conv", "pw_exp.bn", y))
        if has("dw_mid.conv"):
            y = gelu(of("dw_mid.conv", "dw_mid.bn", y, step))
        y = of("pw_proj.conv", "pw_proj.bn", y)
    return y * gamma + (x if step == 1 and x.shape == y.shape else 0)


def embeddings(w, x):
    x = gelu(rms(conv(x, w["v.conv_stem.conv.weight"], 2) + w["v.conv_stem.conv.bias"].reshape(-1), w["v.conv_stem.bn.weight"]))
    ends = []
    for stage in range(4):
        i = 0
        while any(n.startswith("v.blk.%d.%d." % (stage, i)) for n in w):
            x = block(w, "v.blk.%d.%d." % (stage, i), x, 1 if i else 2)
            i += 1
        ends.append(x)
    first, last = ends[2:]
    at = np.arange(len(first)) * len(last) // len(first)
    x = np.concatenate([first, last[at][:, at]], -1)
    for name in ("pw_exp", "pw_proj"):
        x = rms(conv(x, w["v.msfa.ffn.%s.conv.weight" % name]), w["v.msfa.ffn.%s.bn.weight" % name])
        x = gelu(x) if name == "pw_exp" else x
    side = min(len(x), 16)
    x = x.reshape(side, len(x) // side, side, len(x) // side, -1).mean((1, 3))
    x = rms(x, w["v.msfa.norm.weight"]).reshape(side * side, -1)
    x = rms(x * np.sqrt(x.shape[-1]), w["mm.soft_emb_norm.weight"]) @ w["mm.input_projection.weight"].T
    return rms(x, 1)


def picture(side, n):
    """The n-th one: what a preprocessed picture has, values of 0 to 255 over 255."""
    y, x, c = np.meshgrid(np.arange(side), np.arange(side), np.arange(3), indexing="ij")
    v = [(x * 5 + y * 3 + c * 40 + x * y // 7) % 256, ((x - side // 3) ** 2 + (y - side // 2) ** 2) // 8 * (4 + c) % 256,
         ((x // 8 + y // 8) % 2 * 200 + 20 * c), ((x * 7919 + y * 104729 + c * 31) * 2654435761 >> 7) % 256][n]
    return v.astype("u1").astype("f4") / np.float32(255)


def save_rows(path, a):
    a = np.asarray(a, "f4").reshape(len(a), -1)
    with open(path, "wb") as f:
        f.write(struct.pack("<ii", *a.shape) + np.arange(len(a), dtype="<i4").tobytes() + a.astype("<f4").tobytes())


def main(args):
    if args[:1] == ["--full"]:
        return make(args[1], REAL, 1)
    if not args:
        make(os.path.join(HERE, "..", "..", "fuzz", "corpus_model", "gemma3nv.gguf"), TINY, 6)
    for n, (name, k) in enumerate((("gemma3nv", SMALL), ("gemma3nv-pooled", POOLED), ("gemma3nv-odd", ODD))):
        path = os.path.join(HERE, name)
        if not args:
            make(path + ".gguf", k, 7 + n)
            w = base.load(path + ".gguf")[2]
        for i in range(2 if k is POOLED else 4):
            at = "%s.%d" % (path, i)
            if not args:
                save_rows(at + ".exact", embeddings(w, picture(k["image"], i).astype("f8")))
            elif args[0] == "--pre":
                save_rows(os.path.join(args[1], os.path.basename(at) + ".pre"), picture(k["image"], i))
            elif os.path.exists(at + ".embd"):
                got, want = base.load_logits(at + ".embd")[1], base.load_logits(at + ".exact")[1]
                print("%s nmse %.3g" % (os.path.basename(at), ((got - want) ** 2).sum() / (want ** 2).sum()))
    return None


if __name__ == "__main__":
    main(sys.argv[1:])
