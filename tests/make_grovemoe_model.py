#!/usr/bin/env python3
"""A small GroveMoE model (arXiv 2508.07785) and its logits in float64: tests/data/archs/grovemoe-groups-moe. Written from the
paper and the published code: experts are chosen and weighted as Qwen3-MoE's are. Every three of them (two in the published
models) share a small one, which reads what they read; its result counts once for each that is chosen, by the same weight,
times expert_group_scale. Needs numpy.

    make_grovemoe_model.py                    writes it
    make_grovemoe_model.py FILE.gguf LOGITS   compares a file of that architecture with recorded logits
"""
import os
import sys

import numpy as np

import make_indexer_models as base

KEYS = {"vocab_size": 96, "context_length": 256, "embedding_length": 56, "block_count": 3, "feed_forward_length": 96,
        "expert_feed_forward_length": 24, "expert_count": 6, "expert_used_count": 3, "expert_chunk_feed_forward_length": 10,
        "experts_per_group": 3, "expert_group_scale": 0.75, "attention.head_count": 4, "attention.head_count_kv": 2,
        "attention.key_length": 16, "attention.value_length": 16, "attention.layer_norm_rms_epsilon": 1e-6,
        "rope.dimension_count": 16, "rope.freq_base": 10000.0}


def experts(k, w, b, h):
    y = np.zeros_like(h)

    def of(kind, e, x):
        return w[b + "ffn_down_%s.weight" % kind][e] @ base.silu(w[b + "ffn_gate_%s.weight" % kind][e] @ x,
                                                                 w[b + "ffn_up_%s.weight" % kind][e] @ x)
    for t, x in enumerate(h):
        p = base.softmax(w[b + "ffn_gate_inp.weight"] @ x)
        ids = base.best(p, k["expert_used_count"])
        for e, s in zip(ids, p[ids] / p[ids].sum()):
            y[t] += s * (of("exps", e, x) + k["expert_group_scale"] * of("chexps", e // k["experts_per_group"], x))
    return y


def logits(arch, k, w, ids):
    x, eps = w["token_embd.weight"][ids], k["attention.layer_norm_rms_epsilon"]
    for i in range(k["block_count"]):
        b = "blk.%d." % i
        x = x + base.grouped(k, w, b, base.rms(x, w[b + "attn_norm.weight"], eps))
        x = x + experts(k, w, b, base.rms(x, w[b + "ffn_norm.weight"], eps))
    return base.rms(x, w["output_norm.weight"], eps) @ w["output.weight"].T


def shapes(k):
    e, v, fe, fg, n = (k[x] for x in ("embedding_length", "vocab_size", "expert_feed_forward_length",
                                      "expert_chunk_feed_forward_length", "expert_count"))
    heads, kv, dim, groups = k["attention.head_count"], k["attention.head_count_kv"], k["attention.key_length"], n // k["experts_per_group"]
    yield from (("token_embd.weight", (v, e)), ("output_norm.weight", (e,)), ("output.weight", (v, e)))
    for i in range(k["block_count"]):
        rows = [("attn_norm.weight", (e,)), ("ffn_norm.weight", (e,)), ("attn_q.weight", (heads * dim, e)),
                ("attn_k.weight", (kv * dim, e)), ("attn_v.weight", (kv * dim, e)), ("attn_output.weight", (e, heads * dim)),
                ("attn_q_norm.weight", (dim,)), ("attn_k_norm.weight", (dim,)), ("ffn_gate_inp.weight", (n, e))]
        for kind, count, width in (("exps", n, fe), ("chexps", groups, fg)):
            rows += [("ffn_%s_%s.weight" % (x, kind), (count, width, e)) for x in ("gate", "up")]
            rows += [("ffn_down_%s.weight" % kind, (count, e, width))]
        yield from (("blk.%d.%s" % (i, name), shape) for name, shape in rows)


def main():
    if len(sys.argv) == 3:
        ids, want = base.load_logits(sys.argv[2])
        got = logits(*base.load(sys.argv[1]), ids)
        print("NMSE %.3g" % (((got - want) ** 2).sum() / (want ** 2).sum()))
        return
    rng, path = np.random.default_rng(4), os.path.join(base.HERE, "data", "archs", "grovemoe-groups-moe")
    tensors = {}
    for name, shape in shapes(KEYS):
        a = rng.standard_normal(shape)
        tensors[name] = 1 + 0.1 * a if len(shape) == 1 else a if name == "token_embd.weight" else a * 1.5 / np.sqrt(shape[-1])
    base.save(path + ".gguf", "grovemoe", KEYS, tensors)
    ids = rng.integers(0, KEYS["vocab_size"], 48)
    x = logits(*base.load(path + ".gguf"), ids)
    with open(path + ".logits", "wb") as f:
        f.write(np.array(x.shape, "<i4").tobytes() + ids.astype("<i4").tobytes() + x.astype("<f4").tobytes())


main()
