#!/usr/bin/env python3
"""Small projector files with random weights, tests/data/media/gemma4a.gguf: an encoder of pictures (gemma4v) and one of sound
(gemma4a, a conformer); and gemma4ua.gguf: a matrix of samples. What llama.cpp makes of them is recorded beside them. And a tiny one for tests/fuzz. Needs numpy.

    make_conformer_model.py [LARGE]

LARGE: another file, whose encoder of sound has the shape of Gemma 4 E4B's, matrices in F16, and there is none of pictures."""
import os
import sys

import numpy as np

import make_indexer_models as base

SMALL = {"bins": 40, "width": 32, "ff": 48, "layers": 3, "heads": 2, "channels": (12, 6), "mid": 40, "out": 64}
TINY = {"bins": 8, "width": 8, "ff": 6, "layers": 1, "heads": 2, "channels": (3, 2), "mid": 5, "out": 4}
LARGE = {"bins": 128, "width": 1024, "ff": 4096, "layers": 12, "heads": 8, "channels": (128, 32), "mid": 1536, "out": 2560}
# of matrices, and of the layers where they are: lowest and highest input, lowest and highest result
RANGES = {"attn_q": (-1.5, 1.25, -3, 2.5), "attn_out": (-0.75, 1, -1, 1.5), "ffn_up": (-2, 1.75, -2.5, 3), "ffn_down": (-1, 1.5, -2, 2),
          "conv_pw1": (-1.5, 2, -2, 2.5), "conv_pw2": (-0.5, 0.75, -1, 1), "ffn_down_1": (-1, 0.875, -1.5, 1.5)}


def audio(k):
    e, ff, (c0, c1) = k["width"], k["ff"], k["channels"]
    yield from (("a.conv1d.0.weight", (c0, 1, 3, 3)), ("a.conv1d.0.norm.weight", (c0,)), ("a.conv1d.1.weight", (c1, c0, 3, 3)),
                ("a.conv1d.1.norm.weight", (c1,)), ("a.input_projection.weight", (e, k["bins"] // 4 * c1)))
    for i in range(k["layers"]):
        rows = [("ffn_norm", (e,)), ("ffn_up", (ff, e)), ("ffn_down", (e, ff)), ("ffn_post_norm", (e,)), ("attn_pre_norm", (e,)),
                ("attn_q", (e, e)), ("attn_k", (e, e)), ("attn_v", (e, e)), ("attn_k_rel", (e, e)),
                ("per_dim_scale", (e // k["heads"],)), ("attn_out", (e, e)), ("attn_post_norm", (e,)), ("conv_norm", (e,)),
                ("conv_pw1", (2 * e, e)), ("conv_dw", (e, 5)), ("norm_conv", (e,)), ("conv_pw2", (e, e)), ("ffn_norm_1", (e,)),
                ("ffn_up_1", (ff, e)), ("ffn_down_1", (e, ff)), ("ffn_post_norm_1", (e,)), ("ln2", (e,))]
        if i == 1:
            rows.append(("per_dim_k_scale", (e // k["heads"],)))
        yield from (("a.blk.%d.%s.weight" % (i, name), shape) for name, shape in rows)
    yield from (("a.pre_encode.out.weight", (k["mid"], e)), ("a.pre_encode.out.bias", (k["mid"],)),
                ("mm.a.input_projection.weight", (k["out"], k["mid"])))


def vision(k):
    e, ff, patch, dim = 32, 40, 4, 16
    yield from (("v.patch_embd.weight", (e, 3, patch, patch)), ("v.position_embd.weight", (2, 64, e)))
    rows = [("ln1", (e,)), ("ln2", (e,)), ("attn_q", (e, e)), ("attn_k", (e, e)), ("attn_v", (e, e)), ("attn_out", (e, e)),
            ("ffn_up", (ff, e)), ("ffn_gate", (ff, e)), ("ffn_down", (e, ff)), ("attn_q_norm", (dim,)), ("attn_k_norm", (dim,)),
            ("attn_post_norm", (e,)), ("ffn_post_norm", (e,))]
    yield from (("v.blk.0.%s.weight" % name, shape) for name, shape in rows)
    yield "mm.input_projection.weight", (k["out"], e)


def keys(k, both):
    t = {"general.architecture": "clip", "general.type": "mmproj", "general.name": "conformer fixture", "clip.has_audio_encoder": True,
         "clip.audio.projector_type": "gemma4a", "clip.audio.num_mel_bins": k["bins"], "clip.audio.embedding_length": k["width"],
         "clip.audio.feed_forward_length": k["ff"], "clip.audio.block_count": k["layers"],
         "clip.audio.attention.head_count": k["heads"], "clip.audio.projection_dim": k["out"],
         "clip.audio.attention.layer_norm_epsilon": 1e-5, "clip.use_silu": True}  # the epsilon is not read: it is 1e-6
    if both:
        del t["clip.use_silu"]
        v = {"image_size": 224, "patch_size": 4, "embedding_length": 32, "feed_forward_length": 40, "block_count": 1,
             "attention.head_count": 2, "projection_dim": k["out"], "attention.layer_norm_epsilon": 1e-6,
             "image_mean": [0.0] * 3, "image_std": [1.0] * 3}
        t.update({"clip.has_vision_encoder": True, "clip.vision.projector_type": "gemma4v", "clip.use_gelu": True})
        t.update({"clip.vision." + name: v[name] for name in v})
    return t


def tensors(k, both):
    rng = np.random.default_rng(81)
    for name, shape in list(audio(k)) + (list(vision(k)) if both else []):
        a, part = rng.standard_normal(shape, dtype=np.float32), name.split(".")[-2]
        if len(shape) == 1:
            yield name, 0.1 * a if name.endswith("bias") else np.log1p(np.exp(a)) if part.startswith("per_dim") else 1 + 0.1 * a
        else:
            a *= np.float32(0.5 if "position" in name else 1.2 / np.sqrt(np.prod(shape[1:])))
            # llama.cpp rounds kernels of convolutions to F16
            yield name, a.astype(np.float16) if "a.conv1d" in name else a
        if both and part in RANGES and name.startswith("a.blk") and (name[6] != "2" or part in ("ffn_up", "conv_pw1")):
            for end, v in zip(("input_min", "input_max", "output_min", "output_max"), RANGES[part]):
                yield name.replace("weight", end), np.array([v])


def raw():
    kv = keys(dict(SMALL, width=640, ff=0, layers=0, heads=0, bins=128), False)
    kv["clip.audio.projector_type"] = "gemma4ua"
    w = np.random.default_rng(82).standard_normal((SMALL["out"], 640)) / 640 ** 0.5
    return kv, [("mm.a.input_projection.weight", w)]


def main(path, kv, all_of, wide):
    base.write(path, kv, dict(all_of), lambda name, a: not wide and a.ndim == 2 and "conv_dw" not in name)


if __name__ == "__main__":
    here = os.path.join(base.HERE, "data", "media")
    if len(sys.argv) > 1:
        main(sys.argv[1], keys(LARGE, False), list(tensors(LARGE, False)), False)
    else:
        main(os.path.join(here, "gemma4a.gguf"), keys(SMALL, True), list(tensors(SMALL, True)), True)
        main(os.path.join(here, "gemma4ua.gguf"), *raw(), False)
        main(os.path.join(base.HERE, "fuzz", "corpus_model", "gemma4a.gguf"), keys(TINY, False), list(tensors(TINY, False)), True)
