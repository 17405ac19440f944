#!/usr/bin/env python3
"""Time texts as vectors: infer bench --embed beside llama.cpp (the PyPI package llama-cpp-python) on the same file, and beside ONNX
Runtime (PyPI: onnxruntime, onnx, numpy) on a BERT of the same shape and random weights, made here.

    tools/bench_embed.py minilm-l6 bge-base --types f16,q8_0 --lengths 16,128,512 -t 2 --rounds 3

Models come from `infer synth`. The programs run in turn; a table of medians follows: texts a second and ratio infer / peer. ONNX Runtime
computes F32, and its own dynamic int8 quantisation where infer has Q8_0. All take batches of 512 tokens."""
import argparse, json, os, statistics, subprocess, sys, tempfile, time

sys.dont_write_bytecode = True
import bench_peers as B

PASS = 512 # tokens of a pass: as many texts as have room
BERT = {"minilm-l6": (384, 6, 12, 1536), "bge-base": (768, 12, 12, 3072)} # width, layers, heads, feed-forward width
WORDS = 30522


def timed(once, texts, rounds):
    """Median of texts a second; the first round warms up."""
    samples = []
    for _ in range(rounds + 1):
        start = time.perf_counter()
        once()
        samples.append(texts / (time.perf_counter() - start))
    return statistics.median(samples[1:])


# ---- llama.cpp: run in a process of its own ---------------------------------------------------------------------------------------

def llama_main(model, threads, rounds, length, texts):
    L, named, loaded = B.package_open(model)
    length, texts = int(length), int(texts)
    side = max(PASS // length, 1)
    params = L.llama_context_default_params()
    params.n_ctx = params.n_batch = params.n_ubatch = side * length
    params.n_seq_max, params.n_threads, params.n_threads_batch, params.embeddings = side, int(threads), int(threads), True
    context = named("llama_init_from_model", "llama_new_context_with_model")(loaded, params)
    if not context:
        sys.exit("cannot make a context")
    batch = L.llama_batch_init(side * length, 0, 1)

    def once():
        done = 0
        while done < texts:
            n = min(side, texts - done)
            batch.n_tokens = n * length
            for i in range(n * length):
                batch.token[i], batch.pos[i], batch.n_seq_id[i] = (12345 + 7919 * (done * length + i)) % 20000 + 1000, i % length, 1
                batch.seq_id[i][0], batch.logits[i] = i // length, 1
            if L.llama_encode(context, batch):
                sys.exit("llama_encode failed")
            for s in range(n):
                L.llama_get_embeddings_seq(context, s)[0]
            done += n
    print(timed(once, texts, int(rounds)))


# ---- ONNX Runtime ------------------------------------------------------------------------------------------------------------------

def bert_graph(path, shape):
    """A BERT encoder with mean pooling as an ONNX graph: inputs ids and mask [texts, length], output [texts, width]."""
    import numpy as np
    from onnx import TensorProto as T, helper as H, numpy_helper as N, save
    width, layers, heads, wide = BERT[shape]
    random, nodes, weights = np.random.default_rng(0), [], []

    def weight(name, *dims, scale=None):
        x = random.standard_normal(dims, dtype=np.float32) * (scale if scale is not None else dims[0] ** -0.5)
        weights.append(N.from_array(x.astype(np.float32), name))
        return name

    def const(name, value, kind=np.float32):
        weights.append(N.from_array(np.array(value, dtype=kind), name))
        return name

    def op(kind, *inputs, **more):
        out = "t%d" % len(nodes)
        nodes.append(H.make_node(kind, list(inputs), [out], **more))
        return out

    def linear(x, name, n_in, n_out):
        return op("Add", op("MatMul", x, weight(name + ".w", n_in, n_out)), weight(name + ".b", n_out, scale=0.1))

    def norm(x, name):
        return op("LayerNormalization", x, const(name + ".g", np.ones(width)), const(name + ".b", np.zeros(width)), axis=-1, epsilon=1e-12)

    split, joined = const("split", [0, 0, heads, width // heads], np.int64), const("joined", [0, 0, width], np.int64)
    at = op("Gather", weight("positions", 512, width, scale=1), op("Range", const("zero", 0, np.int64), op("Squeeze", op(
        "Slice", op("Shape", "ids"), const("one", [1], np.int64), const("two", [2], np.int64))), const("step", 1, np.int64)))
    x = norm(op("Add", op("Add", op("Gather", weight("words", WORDS, width, scale=1), "ids"), weight("kind", width, scale=1)), at), "first")
    hidden = op("Mul", op("Unsqueeze", op("Sub", const("1", 1.0), "mask"), const("axes", [1, 2], np.int64)), const("low", -1e9))
    scale, half, root, unit = const("scale", (width // heads) ** -0.5), const("half", 0.5), const("root", 2 ** -0.5), const("unit", 1.0)
    for i in range(layers):
        q, k, v = (op("Transpose", op("Reshape", linear(x, "%d.%s" % (i, n), width, width), split), perm=p)
                   for n, p in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])))
        share = op("Softmax", op("Add", op("Mul", op("MatMul", q, k), scale), hidden), axis=-1)
        y = op("Reshape", op("Transpose", op("MatMul", share, v), perm=[0, 2, 1, 3]), joined)
        x = norm(op("Add", x, linear(y, "%d.o" % i, width, width)), "%d.norm1" % i)
        y = linear(x, "%d.up" % i, width, wide)
        y = op("Mul", op("Mul", y, half), op("Add", op("Erf", op("Mul", y, root)), unit))
        x = norm(op("Add", x, linear(y, "%d.down" % i, wide, width)), "%d.norm2" % i)
    m = op("Unsqueeze", "mask", const("last", [2], np.int64))
    one = const("sum_axis", [1], np.int64)
    y = op("Div", op("ReduceSum", op("Mul", x, m), one, keepdims=0), op("ReduceSum", m, one, keepdims=0))
    nodes.append(H.make_node("Identity", [y], ["vectors"]))
    graph = H.make_graph(nodes, "bert", [H.make_tensor_value_info("ids", T.INT64, ["b", "n"]), H.make_tensor_value_info("mask", T.FLOAT, ["b", "n"])],
                         [H.make_tensor_value_info("vectors", T.FLOAT, ["b", width])], weights)
    save(H.make_model(graph, opset_imports=[H.make_opsetid("", 17)], ir_version=9), path)


def onnx_main(path, threads, rounds, length, texts):
    import numpy as np, onnxruntime
    length, texts = int(length), int(texts)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(threads)
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    side = max(PASS // length, 1)
    ids = np.random.default_rng(1).integers(1000, WORDS, (texts, length))
    mask = np.ones((texts, length), np.float32)

    def once():
        for i in range(0, texts, side):
            session.run(None, {"ids": ids[i:i + side], "mask": mask[i:i + side]})
    print(timed(once, texts, int(rounds)))


# ---- the table -----------------------------------------------------------------------------------------------------------------------

def infer_once(options, model, length, texts):
    out, _, _ = B.run([options.infer, "bench", model, "--json", "-t", str(options.threads), "-r", str(options.inner), "--embed", str(length),
                       "--texts", str(texts)])
    return json.loads(out)["prompts"][0]["texts_per_s"]


def part(options, which, *words):
    """A part of this script in a process of its own."""
    out, _, _ = B.run([sys.executable, os.path.abspath(__file__), "--part", which] + [str(w) for w in words])
    return float(out)


def parse_options(argv):
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("shapes", nargs="+", help="names of infer synth --list")
    p.add_argument("--types", default="f16,q8_0")
    p.add_argument("--lengths", default="16,128,512")
    p.add_argument("--peers", default="llama,onnx")
    p.add_argument("--infer", default="build/infer")
    p.add_argument("-t", "--threads", type=int, default=os.cpu_count())
    p.add_argument("--tokens", type=int, default=8192, help="tokens of the texts of a measurement (default 8192)")
    p.add_argument("--rounds", type=int, default=3, help="rounds, the programs in turn; medians count")
    p.add_argument("--inner", type=int, default=3, help="measurements of a program in a round")
    return p.parse_args(argv)


def main(argv):
    if argv[:1] == ["--part"]:
        return {"llama": llama_main, "onnx": onnx_main}[argv[1]](*argv[2:])
    options = parse_options(argv)
    folder = tempfile.mkdtemp()
    print("| model | type | length | infer | llama.cpp | ratio | ONNX Runtime | ratio |\n|---|---|---|---|---|---|---|---|")
    for shape in options.shapes:
        for kind in options.types.split(","):
            model, graph = os.path.join(folder, "%s.%s.gguf" % (shape, kind)), os.path.join(folder, "%s.%s.onnx" % (shape, kind))
            subprocess.run([options.infer, "synth", shape, kind, model], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            peers = options.peers.split(",")
            if "onnx" in peers and shape in BERT and kind in ("f32", "q8_0"):
                bert_graph(graph, shape)
                if kind == "q8_0":
                    from onnxruntime.quantization import quantize_dynamic, QuantType
                    quantize_dynamic(graph, graph + ".int8", weight_type=QuantType.QInt8)
                    graph += ".int8"
            else:
                graph = None
            for length in (int(n) for n in options.lengths.split(",")):
                texts, got = max(options.tokens // length, 2), {"infer": [], "llama": [], "onnx": []}
                for _ in range(options.rounds):
                    got["infer"].append(infer_once(options, model, length, texts))
                    if "llama" in peers:
                        got["llama"].append(part(options, "llama", model, options.threads, options.inner, length, texts))
                    if graph:
                        got["onnx"].append(part(options, "onnx", graph, options.threads, options.inner, length, texts))
                own = statistics.median(got["infer"])
                cells = ["%s | %.2f" % (B.figure(statistics.median(x)), own / statistics.median(x)) if x else " | " for x in (got["llama"], got["onnx"])]
                print("| %s | %s | %d | %s | %s |" % (shape, kind, length, B.figure(own), " | ".join(cells)), flush=True)
            for name in os.listdir(folder):
                os.remove(os.path.join(folder, name))
    os.rmdir(folder)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except B.Failed as e:
        sys.exit("bench_embed.py: %s" % e)
