#!/usr/bin/env python3
"""bench_quantize.py: KL divergence of quantised models, beside those of llama.cpp

  python3 tools/bench_quantize.py MODEL TEXT --llama-quantize PROGRAM [--types Q4_0,..] [--models 16] [--ctx 64]
  python3 tools/bench_quantize.py MODEL TEXT --ggml libggml-base.so --types IQ3_XXS,.. [--ones]

MODEL: an F32 file of the architecture llama. One model is one throw of the dice: which values share a block decides several percent. So the mean
is taken over models that compute the same as MODEL with other blocks: channels of the residual stream, of the FFN and of values in another order and
with other signs, which is exact but for rounding. The first one is MODEL itself. Printed are mean KL divergences from MODEL on TEXT, with standard
errors: of MODEL over the text's tokens, of the ratio over the models.

With --ggml the encoders alone are compared: every matrix is encoded (as rows of 256, but for types with smaller blocks)
and decoded into an F32 model. --ones gives ggml an imatrix of ones. Needs NumPy; builds infer.h as a library for that.
"""
import argparse, ctypes as C, json, math, os, subprocess, sys, tempfile
import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "cli"))
sys.dont_write_bytecode = True
import gguf_file

INFER = os.environ.get("INFER", os.path.join(ROOT, "build", "infer"))
IDS = dict(Q4_0=2, Q4_1=3, Q5_0=6, Q5_1=7, Q8_0=8, Q2_K=10, Q3_K=11, Q4_K=12, Q5_K=13, Q6_K=14, IQ2_XXS=16, IQ2_XS=17, IQ3_XXS=18, IQ1_S=19, IQ4_NL=20, IQ3_S=21,
           IQ2_S=22, IQ4_XS=23, IQ1_M=29)
SMALL = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "IQ4_NL") # blocks of 32


def read(path):
    g, tensors = gguf_file.Gguf(path), {}
    for name, (dims, kind, offset) in g.tensors.items():
        if kind != gguf_file.TENSOR_F32:
            sys.exit("%s: %s is not F32" % (path, name))
        tensors[name] = np.frombuffer(g.data, "<f4", int(np.prod(dims)), g.start + offset).reshape(dims[::-1]).copy()
    return g, tensors


def write(g, tensors, path):
    gguf_file.write(path, {}, [(n, list(a.shape[::-1]), 0, np.ascontiguousarray(a, "<f4").tobytes()) for n, a in tensors.items()], g.raw.values())
    return path


def turned(r, n):
    return r.permutation(n), r.choice([-1.0, 1.0], n).astype("f4")


def equivalent(g, tensors, seed):
    """The same function with other blocks; 0: the model itself."""
    if seed == 0:
        return tensors
    r, t = np.random.default_rng(seed), dict(tensors)
    heads, kv = g.meta["llama.attention.head_count"], g.meta["llama.attention.head_count_kv"]
    order, sign = turned(r, t["token_embd.weight"].shape[1])
    for name, a in t.items():
        part = name.split(".")[-2]
        if part.endswith("norm"):
            t[name] = a[order]
        elif part in ("attn_output", "ffn_down"):
            t[name] = a[order] * sign[:, None]
        elif part != "rope_freqs":
            t[name] = a[:, order] * sign
    for i in range(g.meta["llama.block_count"]):
        gate, up, down, values, out = ("blk.%d.%s.weight" % (i, x) for x in ("ffn_gate", "ffn_up", "ffn_down", "attn_v", "attn_output"))
        order, sign = turned(r, t[up].shape[0])
        t[gate], t[up], t[down] = t[gate][order], t[up][order] * sign[:, None], t[down][:, order] * sign
        v, o, n = t[values].copy(), t[out].copy(), t[values].shape[0] // kv
        for h in range(kv):
            order, sign = turned(r, n)
            v[h * n:(h + 1) * n] = v[h * n:(h + 1) * n][order] * sign[:, None]
            for k in range(h * heads // kv, (h + 1) * heads // kv):
                o[:, k * n:(k + 1) * n] = o[:, k * n:(k + 1) * n][:, order] * sign
        t[values], t[out] = v, o
    return t


def library(folder):
    path = os.path.join(folder, "infer.so")
    subprocess.run(["cc", "-O2", "-w", "-shared", "-fPIC", "-DINFER_IMPLEMENTATION", "-x", "c", os.path.join(ROOT, "infer.h"), "-o", path, "-lm", "-lpthread", "-ldl"], check=True)
    return C.CDLL(path)


def coded(infer, ggml, ones, kind, a):
    """A matrix encoded and decoded; ggml: by its encoder. Decoded by infer.h in either case."""
    x = np.ascontiguousarray(a, "f4")
    if kind not in SMALL:
        x = np.concatenate([x.reshape(-1), np.zeros(-x.size % 256, "f4")]).reshape(-1, 256)
    b, y, w, none = np.zeros(4 * x.size, "u1"), np.empty(x.size, "f4"), np.ones(x.shape[1], "f4"), None
    at = lambda v: v.ctypes.data_as(C.c_void_p) if v is not None else none
    if ggml:
        ggml.ggml_quantize_chunk(C.c_int(IDS[kind]), at(x), at(b), C.c_int64(0), C.c_int64(x.shape[0]), C.c_int64(x.shape[1]), at(w if ones else none))
    elif infer.infer_type_encode(C.c_int32(IDS[kind]), at(x), none, C.c_uint64(x.size), at(b), none):
        sys.exit("%s cannot be encoded" % kind)
    infer.infer_type_decode(C.c_int32(IDS[kind]), at(b), C.c_uint64(x.size), at(y), none)
    return y[:a.size].reshape(a.shape)


def files(a, g, tensors, kinds, folder, libs):
    """Of each kind two files: infer's, llama.cpp's."""
    paths = [os.path.join(folder, "%s.%s.gguf" % (kind, who)) for kind in kinds for who in ("infer", "llama")]
    whole = write(g, tensors, os.path.join(folder, "whole.gguf")) if a.llama_quantize else None
    for i, path in enumerate(paths):
        kind = kinds[i // 2]
        if whole:
            command = [INFER, "quantize", whole, path, kind, "-t", "1"] if i % 2 == 0 else [a.llama_quantize, whole, path, kind, "1"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            continue
        small = kind in SMALL
        write(g, {n: coded(libs[0], libs[1] if i % 2 else None, a.ones, kind, t) if t.ndim == 2 and (t.shape[1] % 32 == 0 if small else True) else t for n, t in tensors.items()}, path)
    return paths


def divergences(paths, reference):
    done = subprocess.run([INFER, "perplexity", *paths, "--reference", reference, "--json"], check=True, stdout=subprocess.PIPE).stdout
    return [(x["kl_mean"], x["kl_error"]) for x in json.loads(done)]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("text")
    p.add_argument("--llama-quantize")
    p.add_argument("--ggml")
    p.add_argument("--ones", action="store_true")
    p.add_argument("--types", default="Q8_0,Q4_0,Q4_1,Q5_0,Q5_1,IQ4_NL,Q4_K_M")
    p.add_argument("--models", type=int, default=16)
    p.add_argument("--ctx", default="64")
    a = p.parse_args()
    kinds, all_figures = a.types.split(","), []
    if (a.llama_quantize is None) == (a.ggml is None):
        p.error("give either --llama-quantize or --ggml")
    g, tensors = read(a.model)
    with tempfile.TemporaryDirectory() as folder:
        reference = os.path.join(folder, "reference")
        subprocess.run([INFER, "perplexity", a.model, "-f", a.text, "--ctx", a.ctx, "--save-logits", reference], check=True, stdout=subprocess.DEVNULL)
        libs = (library(folder), C.CDLL(a.ggml)) if a.ggml else None
        for seed in range(a.models):
            all_figures.append(divergences(files(a, g, equivalent(g, tensors, seed), kinds, folder, libs), reference))
    print("| type | the model itself, infer / llama.cpp | mean of %d, infer / llama.cpp | ratio |\n|---|---|---|---|" % a.models)
    for i, kind in enumerate(kinds):
        (own, own_error), (other, other_error) = all_figures[0][2 * i:2 * i + 2]
        pairs = np.array([[f[2 * i][0], f[2 * i + 1][0]] for f in all_figures])
        logs = np.log(pairs[:, 0] / pairs[:, 1])
        print("| %s | %.4g +/- %.2g / %.4g +/- %.2g | %.4g / %.4g | %.3f +/- %.3f |" % (kind, own, own_error, other, other_error, pairs[:, 0].mean(), pairs[:, 1].mean(),
                                                                              math.exp(logs.mean()), math.exp(logs.mean()) * logs.std(ddof=1) / math.sqrt(a.models)))


if __name__ == "__main__":
    main()
