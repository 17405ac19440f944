#!/usr/bin/env python3
"""Small models of rows that nobody has recorded, and their logits in float64: tests/data/archs/chameleon-swin-dense and
chameleon-small-dense (arXiv 2405.09818 and the published code: layer norms of heads, ids of pictures without logits; in the
larger model norms come after sublayers), barbet-hybrid-dense (OpenFormosa's description: attention with and without a window,
Mamba-2; arXiv 2405.21060). Needs numpy.

    make_unrecorded_models.py
"""
import os

import numpy as np

import make_indexer_models as base

FLT_MAX = float(np.finfo(np.float32).max)
CHAMELEON = {"vocab_size": 40, "context_length": 256, "embedding_length": 32, "block_count": 2, "feed_forward_length": 48,
             "attention.head_count": 4, "attention.head_count_kv": 2, "attention.layer_norm_rms_epsilon": 1e-5,
             "rope.freq_base": 10000.0, "rope.dimension_count": 8}
SWIN = dict(CHAMELEON, **{"vocab_size": 8208, "embedding_length": 16, "block_count": 3, "feed_forward_length": 24,
                          "attention.head_count_kv": 4, "rope.dimension_count": 4, "swin_norm": True})
BARBET = {"vocab_size": 96, "context_length": 256, "embedding_length": 56, "block_count": 6, "feed_forward_length": 72,
          "attention.head_count": 4, "attention.head_count_kv": [2, 2, 2, 0, 2, 0], "attention.key_length": 16,
          "attention.value_length": 16, "attention.layer_norm_rms_epsilon": 1e-6, "attention.sliding_window": 7,
          "attention.global_layers": [0, 4], "mamba_layers": [3, 5], "attention.qk_norm": True, "rope.dimension_count": 16,
          "rope.freq_base": 1e7, "ssm.conv_kernel": 4, "ssm.inner_size": 96, "ssm.state_size": 12, "ssm.time_step_rank": 6,
          "ssm.group_count": 2}


def attention(k, w, b, h, norm, pairs, window=None):
    """Heads whose queries and keys are normalised; each token sees the last `window` ones."""
    n, heads, kv = len(h), k["attention.head_count"], len(w[b + "attn_k.weight"]) // k["rope.dimension_count"]
    rot = k["rope.dimension_count"]

    def turned(name, of):
        x = norm((h @ w[b + "attn_%s.weight" % name].T).reshape(n, of, rot), w, b + "attn_%s_norm" % name)
        return base.rotate(x, rot, pairs, k["rope.freq_base"])

    q, key, each = turned("q", heads), turned("k", kv).repeat(heads // kv, 1), heads // kv
    v = (h @ w[b + "attn_v.weight"].T).reshape(n, kv, -1).repeat(each, 1)
    kept = np.tril(np.ones((n, n), bool)) & ~np.tril(np.ones((n, n), bool), -(window or n))
    p = base.softmax(np.where(kept, np.einsum("thd,shd->hts", q, key) / np.sqrt(rot), -np.inf))
    return np.einsum("hts,shd->thd", p, v).reshape(n, -1) @ w[b + "attn_output.weight"].T


def mamba2(k, w, b, h):
    inner, state, heads, groups = (k["ssm." + x] for x in ("inner_size", "state_size", "time_step_rank", "group_count"))
    dim, each, taps = inner // heads, heads // groups, w[b + "ssm_conv1d.weight"]
    both = h @ w[b + "ssm_in.weight"].T
    z, conv, dt = np.split(both, [inner, 2 * inner + 2 * groups * state], -1)
    padded = np.concatenate([np.zeros((taps.shape[1] - 1, conv.shape[1])), conv])
    conv = np.stack([(padded[t:t + taps.shape[1]].T * taps).sum(1) for t in range(len(h))]) + w[b + "ssm_conv1d.bias"]
    conv = conv * base.sigmoid(conv)
    x, B, C = np.split(conv, [inner, inner + groups * state], -1)
    dt = np.log1p(np.exp(dt + w[b + "ssm_dt.bias"]))
    s, rows = np.zeros((heads, dim, state)), []
    for t in range(len(h)):
        xt, Bt, Ct = x[t].reshape(heads, dim), B[t].reshape(groups, state).repeat(each, 0), C[t].reshape(groups, state).repeat(each, 0)
        s = s * np.exp(dt[t] * w[b + "ssm_a"][:, 0])[:, None, None] + (dt[t][:, None] * xt)[..., None] * Bt[:, None]
        rows.append(((s * Ct[:, None]).sum(-1) + w[b + "ssm_d"] * xt).reshape(-1))
    y = np.stack(rows) * z * base.sigmoid(z)
    y = base.rms(y.reshape(len(h), groups, -1), w[b + "ssm_norm.weight"], k["attention.layer_norm_rms_epsilon"])
    return y.reshape(len(h), -1) @ w[b + "ssm_out.weight"].T


def head_layer_norm(x, w, name):
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w[name + ".weight"] + w.get(name + ".bias", 0)


def logits(arch, k, w, ids):
    x, eps = w["token_embd.weight"][ids], k["attention.layer_norm_rms_epsilon"]
    for i in range(k["block_count"]):
        b = "blk.%d." % i
        if arch == "chameleon":
            def mix(h):
                return attention(k, w, b, h, head_layer_norm, True)
        elif not k["attention.head_count_kv"][i]:
            def mix(h):
                return mamba2(k, w, b, h)
        else:
            def mix(h):
                return attention(k, w, b, h, lambda x, w, name: base.rms(x, w[name + ".weight"], eps), False,
                                 k["attention.sliding_window"] if i % 4 else None)
        for of, norm in ((mix, "attn_norm"), (lambda h: base.silu(h @ w[b + "ffn_gate.weight"].T, h @ w[b + "ffn_up.weight"].T)
                                              @ w[b + "ffn_down.weight"].T, "ffn_norm")):
            weight = w[b + norm + ".weight"]
            x = x + (base.rms(of(x), weight, eps) if k.get("swin_norm") else of(base.rms(x, weight, eps)))
    y = base.rms(x, w["output_norm.weight"], eps) @ w["output.weight" if "output.weight" in w else "token_embd.weight"].T
    if arch == "chameleon":
        y[:, 4:8196] = -FLT_MAX
    return y


def shapes(arch, k):
    e, v, ff, heads = (k[x] for x in ("embedding_length", "vocab_size", "feed_forward_length", "attention.head_count"))
    dim = k["rope.dimension_count"]
    yield from (("token_embd.weight", (v, e)), ("output_norm.weight", (e,)))
    if arch == "chameleon":
        yield "output.weight", (v, e)
    for i in range(k["block_count"]):
        kv = k["attention.head_count_kv"] if arch == "chameleon" else k["attention.head_count_kv"][i]
        rows = [("attn_norm.weight", (e,)), ("ffn_norm.weight", (e,)), ("ffn_gate.weight", (ff, e)), ("ffn_up.weight", (ff, e)),
                ("ffn_down.weight", (e, ff))]
        if kv:
            rows += [("attn_q.weight", (heads * dim, e)), ("attn_k.weight", (kv * dim, e)), ("attn_v.weight", (kv * dim, e)),
                     ("attn_output.weight", (e, heads * dim))]
            for name, n in (("q", heads), ("k", kv)):
                rows += [("attn_%s_norm.weight" % name, (n, dim) if arch == "chameleon" else (dim,))]
                rows += [("attn_%s_norm.bias" % name, (n, dim))] if arch == "chameleon" and not k.get("swin_norm") else []
        else:
            inner, state, n, groups = (k["ssm." + x] for x in ("inner_size", "state_size", "time_step_rank", "group_count"))
            conv = inner + 2 * groups * state
            rows += [("ssm_in.weight", (inner + conv + n, e)), ("ssm_conv1d.weight", (conv, k["ssm.conv_kernel"])),
                     ("ssm_conv1d.bias", (conv,)), ("ssm_dt.bias", (n,)), ("ssm_a", (n, 1)), ("ssm_d", (n, 1)),
                     ("ssm_norm.weight", (groups, inner // groups)), ("ssm_out.weight", (e, inner))]
        yield from (("blk.%d.%s" % (i, name), shape) for name, shape in rows)


def make(name, arch, k, seed, n):
    rng, path, tensors = np.random.default_rng(seed), os.path.join(base.HERE, "data", "archs", name), {}
    for tensor, shape in shapes(arch, k):
        a = rng.standard_normal(shape)
        if tensor.endswith("norm.weight") or tensor.endswith("ssm_d"):
            tensors[tensor] = 1 + 0.1 * a
        elif tensor.endswith("ssm_a"):
            tensors[tensor] = -np.exp(0.5 * a)
        elif tensor.endswith("bias"):
            tensors[tensor] = 0.1 * a
        else:
            tensors[tensor] = a if tensor == "token_embd.weight" else a * 1.5 / np.sqrt(shape[-1])
    base.save(path + ".gguf", arch, k, tensors, small=("norm", "ssm_a", "ssm_d", "bias", "conv1d"))
    ids = rng.integers(0, k["vocab_size"], n)
    x = logits(*base.load(path + ".gguf"), ids)
    with open(path + ".logits", "wb") as f:
        f.write(np.array(x.shape, "<i4").tobytes() + ids.astype("<i4").tobytes() + x.astype("<f4").tobytes())


if __name__ == "__main__":
    make("chameleon-small-dense", "chameleon", CHAMELEON, 71, 40)
    make("chameleon-swin-dense", "chameleon", SWIN, 72, 9)
    make("barbet-hybrid-dense", "barbet", BARBET, 73, 48)
