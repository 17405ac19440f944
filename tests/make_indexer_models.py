#!/usr/bin/env python3
"""Small models whose attention reads chosen positions, and their logits in float64: tests/data/archs/glm-dsa-shared-moe
(latent attention; of three layers the second shares the first one's choice), dots3note-pairs-moe (latent attention with
windows and gates) and minimax-m3-blocks-moe (blocks of keys, for each K/V head). Written from the formulas: arXiv 2405.04434
(latent attention), the DeepSeek-V3.2-Exp report (indexer), Hugging Face transformers 5.23 (blocks, gates). Needs numpy.

    make_indexer_models.py                    writes them
    make_indexer_models.py FILE.gguf LOGITS   compares a file of these architectures (F32, F16) with recorded logits, and
                                              counts the rows whose indexer chooses among equals
"""
import os
import struct
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
COMMON = {"vocab_size": 128, "context_length": 256, "embedding_length": 64, "block_count": 3, "feed_forward_length": 96,
          "leading_dense_block_count": 1, "expert_feed_forward_length": 32, "expert_count": 4, "expert_used_count": 2,
          "expert_shared_count": 1, "expert_gating_func": 2, "expert_weights_norm": True, "expert_weights_scale": 1.5,
          "attention.head_count": 4, "attention.layer_norm_rms_epsilon": 1e-5, "rope.freq_base": 10000.0}
GLM = dict(COMMON, **{
    "attention.head_count_kv": 1, "attention.key_length": 40, "attention.value_length": 32, "attention.q_lora_rank": 24,
    "attention.kv_lora_rank": 32, "attention.key_length_mla": 24, "attention.value_length_mla": 16,
    "rope.dimension_count": 8, "attention.indexer.head_count": 4, "attention.indexer.key_length": 64,
    "attention.indexer.top_k": 6, "attention.indexer.types": [1, 0, 1]})
DOTS = dict(GLM, **{
    "block_count": 4, "embedding_length": 56, "attention.head_count": [3, 2, 3, 2], "rope.freq_base_swa": 5000.0,
    "attention.sliding_window": 9, "attention.sliding_window_pattern": [0, 1, 1, 0], "attention.indexer.types": [1, 0, 0, 1],
    "attention.kv_lora_rank_swa": 40, "attention.key_length_mla_swa": 32, "attention.value_length_mla_swa": 20,
    "attention.key_length_swa": 48, "attention.value_length_swa": 40})
MINIMAX = dict(COMMON, **{
    "attention.head_count_kv": 2, "attention.key_length": 16, "attention.value_length": 16, "rope.dimension_count": 8,
    "attention.indexer.head_count": 2, "attention.indexer.key_length": 16, "attention.indexer.top_k": 4,
    "attention.indexer.block_size": 3, "attention.indexer.local_blocks": 2})


# ---- files ----------------------------------------------------------------------------------------------------------

def text(s):
    return struct.pack("<Q", len(s)) + s.encode()


def value(v):
    if isinstance(v, bool):
        return struct.pack("<IB", 7, v)
    if isinstance(v, int):
        return struct.pack("<II", 4, v)
    if isinstance(v, float):
        return struct.pack("<If", 6, v)
    if isinstance(v, str):
        return struct.pack("<I", 8) + text(v)
    kind, form = (6, "f") if isinstance(v[0], float) else (4, "I")
    return struct.pack("<IIQ", 9, kind, len(v)) + struct.pack("<%d%s" % (len(v), form), *v)


def write(path, keys, tensors, half):
    """tensors: name -> float array; F16 where half(name, array), else F32."""
    kinds = ["<f2" if half(name, a) else "<f4" for name, a in tensors.items()]
    head, at = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)), 0
    for k, v in keys.items():
        head += text(k) + value(v)
    for (name, a), kind in zip(tensors.items(), kinds):
        head += text(name) + struct.pack("<I", a.ndim) + struct.pack("<%dQ" % a.ndim, *a.shape[::-1])
        head += struct.pack("<IQ", 1 if kind == "<f2" else 0, at)
        at += -(-a.size * int(kind[2]) // 32) * 32
    with open(path, "wb") as f:
        f.write(head + bytes(-len(head) % 32))
        for a, kind in zip(tensors.values(), kinds):
            data = a.astype(kind).tobytes()
            f.write(data + bytes(-len(data) % 32))


def save(path, arch, keys, tensors, small=()):
    """tensors: name -> float array; those of one dimension are F32, and those whose names have a part that is in `small`, the
    others F16."""
    kv = {"general.architecture": arch, "tokenizer.ggml.model": "none", **{"%s.%s" % (arch, k): v for k, v in keys.items()}}
    write(path, kv, tensors, lambda name, a: a.ndim > 1 and not any(part in name for part in small))


def load(path):
    with open(path, "rb") as f:
        d = f.read()
    at = 4

    def number(t):
        nonlocal at
        v = struct.unpack_from("<" + t, d, at)[0]
        at += struct.calcsize(t)
        return v

    def string():
        nonlocal at
        n = number("Q")
        at += n
        return d[at - n:at].decode()

    def read(t):
        if t == 8:
            return string()
        if t == 9:
            t, n = number("I"), number("Q")
            return [read(t) for _ in range(n)]
        return number({0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "B", 10: "Q", 11: "q", 12: "d"}[t])

    number("I")
    n_tensors, n_kv = number("Q"), number("Q")
    kv, rows = {}, []
    for _ in range(n_kv):
        k = string()
        kv[k] = read(number("I"))
    for _ in range(n_tensors):
        name = string()
        dims = [number("Q") for _ in range(number("I"))]
        rows.append((name, dims, number("I"), number("Q")))
    arch, base = kv["general.architecture"], -(-at // 32) * 32
    w = {n: np.frombuffer(d, ("<f4", "<f2")[t], int(np.prod(s)), base + o).astype("f8").reshape(s[::-1])
         for n, s, t, o in rows}
    return arch, {k[len(arch) + 1:]: v for k, v in kv.items() if k.startswith(arch + ".")}, w


def load_logits(path):
    d = np.fromfile(path, "<i4")
    n, width = d[:2]
    return d[2:2 + n], d[2 + n:].view("<f4").reshape(n, width).astype("f8")


# ---- formulas: rows of a text are the first dimension ----------------------------------------------------------------

def rms(x, w, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w


def layer_norm(x, w, b):
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * w + b


def rotate(x, n, pairs, base):
    """The first n values of heads, x: [rows][heads][dim]."""
    half, y = n // 2, x.copy()
    a = np.arange(len(x))[:, None] * base ** (-2.0 * np.arange(half) / n)
    c, s = np.cos(a)[:, None], np.sin(a)[:, None]
    i, j = (slice(0, n, 2), slice(1, n, 2)) if pairs else (slice(0, half), slice(half, n))
    y[..., i], y[..., j] = x[..., i] * c - x[..., j] * s, x[..., i] * s + x[..., j] * c
    return y


def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def silu(gate, up):
    return gate * sigmoid(gate) * up


def swiglu_oai(gate, up):
    gate = np.minimum(gate, 7)
    return gate * sigmoid(1.702 * gate) * (np.clip(up, -7, 7) + 1)


def best(scores, n):
    return np.argsort(-scores, kind="stable")[:n]


def ffn(k, w, b, h, act):
    if b + "ffn_gate_inp.weight" not in w:
        return act(h @ w[b + "ffn_gate.weight"].T, h @ w[b + "ffn_up.weight"].T) @ w[b + "ffn_down.weight"].T
    score = sigmoid(h @ w[b + "ffn_gate_inp.weight"].T)
    y = act(h @ w[b + "ffn_gate_shexp.weight"].T, h @ w[b + "ffn_up_shexp.weight"].T) @ w[b + "ffn_down_shexp.weight"].T
    for t, x in enumerate(h):
        ids = best(score[t] + w[b + "exp_probs_b.bias"], k["expert_used_count"])
        share = score[t][ids] / (score[t][ids].sum() if k.get("expert_weights_norm") else 1)
        for e, s in zip(ids, share * k.get("expert_weights_scale", 1.0)):
            y[t] += s * (w[b + "ffn_down_exps.weight"][e] @
                         act(w[b + "ffn_gate_exps.weight"][e] @ x, w[b + "ffn_up_exps.weight"][e] @ x))
    return y


def of_layer(k, i):
    """The keys of a layer: of those with one number a layer its own, and what sizes windows have."""
    window = k.get("attention.sliding_window_pattern", [0] * (i + 1))[i]
    k = {x: v[i] if isinstance(v, list) else v for x, v in k.items()}
    if window:
        k.update({x: k[x + "_swa"] for x in list(k) if x + "_swa" in k})
    return k, k["attention.sliding_window"] if window else None


equals = set()


def latent(k, w, b, h, kept, window, pairs):
    n, heads, rank = len(h), k["attention.head_count"], k["attention.kv_lora_rank"]
    rot, dim, eps = k["rope.dimension_count"], k["attention.key_length_mla"], k["attention.layer_norm_rms_epsilon"]
    base, nope, shared = k["rope.freq_base"], dim - rot, not k.get("attention.indexer.types", 1)
    low = rms(h @ w[b + "attn_q_a.weight"].T, w[b + "attn_q_a_norm.weight"], eps)
    q = (low @ w[b + "attn_q_b.weight"].T).reshape(n, heads, dim)
    kv = h @ w[b + "attn_kv_a_mqa.weight"].T
    c, key = rms(kv[:, :rank], w[b + "attn_kv_a_norm.weight"], eps), kv[:, rank:]
    if b + "attn_k_norm.weight" in w:
        key = rms(key, w[b + "attn_k_norm.weight"], eps)
    turned = rotate(key[:, None], rot, True, base)[:, 0]
    q_low = np.einsum("thd,hrd->thr", q[..., :nope], w[b + "attn_k_b.weight"])
    score = np.einsum("thr,sr->hts", q_low, c) + np.einsum("thd,sd->hts", rotate(q[..., nope:], rot, True, base), turned)
    if window:
        kept = np.tril(np.ones((n, n), bool)) & ~np.tril(np.ones((n, n), bool), -window)
    elif not shared:
        ih, idim = k["attention.indexer.head_count"], k["attention.indexer.key_length"]
        iq = rotate((low @ w[b + "indexer.attn_q_b.weight"].T).reshape(n, ih, idim), rot, pairs, base)
        ik = layer_norm(h @ w[b + "indexer.attn_k.weight"].T, w[b + "indexer.k_norm.weight"], w[b + "indexer.k_norm.bias"])
        ik = rotate(ik[:, None], rot, pairs, base)[:, 0]
        of = np.einsum("th,hts->ts", h @ w[b + "indexer.proj.weight"].T,
                       np.maximum(np.einsum("thd,sd->hts", iq, ik), 0))
        kept[:] = False
        for t in range(n):
            top = k["attention.indexer.top_k"]
            order = best(of[t, :t + 1], t + 1)
            kept[t, order[:top]] = True
            if t >= top and of[t, order[top - 1]] == of[t, order[top]]:
                equals.add(t)
    p = softmax(np.where(kept, score / np.sqrt(dim), -np.inf))
    y = np.einsum("thr,hvr->thv", np.einsum("hts,sr->thr", p, c), w[b + "attn_v_b.weight"])
    if b + "attn_gate.weight" in w:
        y = y * sigmoid(h @ w[b + "attn_gate.weight"].T)[:, :, None]
    return y.reshape(n, -1) @ w[b + "attn_output.weight"].T


def grouped(k, w, b, h):
    n, heads, kv_heads = len(h), k["attention.head_count"], k["attention.head_count_kv"]
    dim, rot, eps = k["attention.key_length"], k["rope.dimension_count"], k["attention.layer_norm_rms_epsilon"]
    base = k["rope.freq_base"]

    def normed(name, norm, of):
        x = (h @ w[b + name].T).reshape(n, of, -1)
        return rotate(rms(x, w[b + norm], eps), rot, False, base)

    q, key = normed("attn_q.weight", "attn_q_norm.weight", heads), normed("attn_k.weight", "attn_k_norm.weight", kv_heads)
    v = (h @ w[b + "attn_v.weight"].T).reshape(n, kv_heads, dim)
    kept = np.tril(np.ones((n, n), bool))[None].repeat(kv_heads, 0)
    if b + "indexer.q_proj.weight" in w:
        block, local = k["attention.indexer.block_size"], k["attention.indexer.local_blocks"]
        iq = normed("indexer.q_proj.weight", "indexer.q_norm.weight", kv_heads)
        ik = normed("indexer.k_proj.weight", "indexer.k_norm.weight", 1)[:, 0]
        of = np.einsum("tgd,sd->gts", iq, ik)
        for g in range(kv_heads):
            for t in range(n):
                most = np.array([of[g, t, i:min(i + block, t + 1)].max() for i in range(0, t + 1, block)])
                most[max(len(most) - local, 0):] = np.inf
                of_block = np.zeros(len(most), bool)
                of_block[best(most, k["attention.indexer.top_k"])] = True
                kept[g, t, :t + 1] = of_block.repeat(block)[:t + 1]
    each = heads // kv_heads
    score = np.einsum("thd,shd->hts", q, key.repeat(each, 1)) / np.sqrt(dim)
    p = softmax(np.where(kept.repeat(each, 0), score, -np.inf))
    return np.einsum("hts,shd->thd", p, v.repeat(each, 1)).reshape(n, -1) @ w[b + "attn_output.weight"].T


def logits(arch, k, w, ids):
    x, eps, kept = w["token_embd.weight"][ids], k["attention.layer_norm_rms_epsilon"], np.zeros((len(ids),) * 2, bool)
    for i in range(k["block_count"]):
        b = "blk.%d." % i
        h = rms(x, w[b + "attn_norm.weight"], eps)
        if arch == "minimax-m3":
            x = x + grouped(k, w, b, h)
        else:
            own, window = of_layer(k, i)
            x = x + latent(own, w, b, h, kept, window, arch != "deepseek32")
        x = x + ffn(k, w, b, rms(x, w[b + "ffn_norm.weight"], eps), swiglu_oai if arch == "minimax-m3" else silu)
    return rms(x, w["output_norm.weight"], eps) @ w["output.weight"].T


# ---- models ---------------------------------------------------------------------------------------------------------

def shapes(arch, k):
    e, v, ff, fe, n = (k[x] for x in ("embedding_length", "vocab_size", "feed_forward_length",
                                      "expert_feed_forward_length", "expert_count"))
    ih, idim, every = k["attention.indexer.head_count"], k["attention.indexer.key_length"], k
    yield from (("token_embd.weight", (v, e)), ("output_norm.weight", (e,)), ("output.weight", (v, e)))
    for i in range(k["block_count"]):
        sparse, rows = i >= k["leading_dense_block_count"], [("attn_norm.weight", (e,)), ("ffn_norm.weight", (e,))]
        k = of_layer(every, i)[0]
        heads = k["attention.head_count"]
        if arch != "minimax-m3":
            low, rank, dim = k["attention.q_lora_rank"], k["attention.kv_lora_rank"], k["attention.key_length_mla"]
            rot, dv = k["rope.dimension_count"], k["attention.value_length_mla"]
            rows += [("attn_q_a.weight", (low, e)), ("attn_q_a_norm.weight", (low,)),
                     ("attn_q_b.weight", (heads * dim, low)), ("attn_kv_a_mqa.weight", (rank + rot, e)),
                     ("attn_kv_a_norm.weight", (rank,)), ("attn_k_b.weight", (heads, rank, dim - rot)),
                     ("attn_v_b.weight", (heads, dv, rank)), ("attn_output.weight", (e, heads * dv))]
            if arch == "dots3note":
                rows += [("attn_k_norm.weight", (rot,)), ("attn_gate.weight", (heads, e))]
            if k["attention.indexer.types"]:
                rows += [("indexer.attn_q_b.weight", (ih * idim, low)), ("indexer.attn_k.weight", (idim, e)),
                         ("indexer.k_norm.weight", (idim,)), ("indexer.k_norm.bias", (idim,)),
                         ("indexer.proj.weight", (ih, e))]
        else:
            dim, kv = k["attention.key_length"], k["attention.head_count_kv"]
            rows += [("attn_q.weight", (heads * dim, e)), ("attn_k.weight", (kv * dim, e)),
                     ("attn_v.weight", (kv * dim, e)), ("attn_output.weight", (e, heads * dim)),
                     ("attn_q_norm.weight", (dim,)), ("attn_k_norm.weight", (dim,))]
            if sparse:
                rows += [("indexer.q_proj.weight", (ih * idim, e)), ("indexer.k_proj.weight", (idim, e)),
                         ("indexer.q_norm.weight", (idim,)), ("indexer.k_norm.weight", (idim,))]
        if sparse:
            rows += [("ffn_gate_inp.weight", (n, e)), ("exp_probs_b.bias", (n,))]
            rows += [("ffn_%s_exps.weight" % x, (n, fe, e)) for x in ("gate", "up")] + [("ffn_down_exps.weight", (n, e, fe))]
            rows += [("ffn_%s_shexp.weight" % x, (fe, e)) for x in ("gate", "up")] + [("ffn_down_shexp.weight", (e, fe))]
        else:
            rows += [("ffn_%s.weight" % x, (ff, e)) for x in ("gate", "up")] + [("ffn_down.weight", (e, ff))]
        yield from (("blk.%d.%s" % (i, name), shape) for name, shape in rows)


def make(name, arch, k, seed):
    rng, path = np.random.default_rng(seed), os.path.join(HERE, "data", "archs", name)
    tensors = {}
    for tensor, shape in shapes(arch, k):
        a = rng.standard_normal(shape)
        if tensor.endswith("norm.weight"):
            tensors[tensor] = 1 + 0.1 * a
        elif len(shape) == 1:
            tensors[tensor] = 0.1 * a
        else:
            tensors[tensor] = a if tensor == "token_embd.weight" else a * 1.5 / np.sqrt(shape[-1])
    save(path + ".gguf", arch, k, tensors)
    ids = rng.integers(0, k["vocab_size"], 48)
    x = logits(*load(path + ".gguf"), ids)
    with open(path + ".logits", "wb") as f:
        f.write(np.array(x.shape, "<i4").tobytes() + ids.astype("<i4").tobytes() + x.astype("<f4").tobytes())


if __name__ == "__main__" and len(sys.argv) == 3:
    of, want = load_logits(sys.argv[2])
    got = logits(*load(sys.argv[1]), of)
    print("NMSE %.3g, %d of %d rows choose among equals" % (((got - want) ** 2).sum() / (want ** 2).sum(), len(equals), len(of)))
elif __name__ == "__main__":
    make("glm-dsa-shared-moe", "glm-dsa", GLM, 10)
    make("dots3note-pairs-moe", "dots3note", DOTS, 3)
    make("minimax-m3-blocks-moe", "minimax-m3", MINIMAX, 2)
