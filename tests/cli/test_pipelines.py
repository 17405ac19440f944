#!/usr/bin/env python3
"""test_pipelines.py: from text to vectors with each tokenizer that encoders use, against NumPy.

  INFER_TEST_DATA=DIR python3 tests/cli/test_pipelines.py [build/infer]

A vocabulary of the references, whose ids of 50 texts are recorded, gets a small encoder with weights of its own (float32,
random); its vectors are computed here in float64 from the recorded ids, and by `infer embed` from the texts.
"""
import math, os, subprocess, sys, unicodedata

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
os.chdir(ROOT)
sys.path.insert(0, os.path.join(ROOT, 'tests', 'cli'))
import gguf_file, reference

INFER = sys.argv[1] if len(sys.argv) > 1 else 'build/infer'
DATA, BUILD = os.environ.get('INFER_TEST_DATA'), 'build/pipelines'
WIDTH, LAYERS, HEADS, KV_HEADS, FFN, CONTEXT, N_TEXTS = 32, 2, 4, 2, 48, 640, 50
NO_POOL, MEAN, FIRST, LAST = range(4)
# vocabulary, how it cuts texts, architecture, pooling
KINDS = (('bert-bge', 'WordPiece', 'bert', FIRST), ('nomic-bert-moe', 'Unigram', 'bert', MEAN),
         ('llama-bpe', 'byte-level BPE', 'eurobert', LAST), ('llama-spm', 'SentencePiece', 'llama-embed', MEAN))


def skip(why):
    print('skipped test_pipelines: ' + why)
    print('0 passed, 0 failed, %d skipped' % len(KINDS))
    sys.exit(0)


try:
    import numpy as np
except ImportError:
    skip('needs the Python package numpy')


def script(text):
    """The writing of a text's first letter: LATIN, CJK, ..."""
    return next((unicodedata.name(c, '?').split()[0] for c in text if c.isalpha()), '')


def recorded(name):
    """(text, ids with the special tokens) of the references that are a line of their own and hold no special token's text."""
    with open(DATA + '/tokenizers/texts.bin', 'rb') as f:
        texts = f.read().split(b'\x1e')
    with open(DATA + '/tokenizers/%s.ids' % name, encoding='ascii') as f:
        lines = [line.split(':')[1].split() for line in f]
    others = reference.other_ids(name)
    for text, plain, special in zip(texts, lines[0::3], lines[2::3]):
        plain, special = others.get((0, text), plain), others.get((3, text), special)
        try:
            text = text.decode('utf-8')
        except UnicodeDecodeError:
            continue
        inner = ' '.join(plain) in ' '.join(special) and len(special) - len(plain) <= 2
        if script(text) and inner and len(special) < CONTEXT and not any(unicodedata.category(c) == 'Cc' for c in text):
            yield text, [int(i) for i in special]


def chosen(cases):
    """N_TEXTS of them: one of each script in turn."""
    by, out = {}, []
    for case in cases:
        by.setdefault(script(case[0]), []).append(case)
    while len(out) < N_TEXTS and any(by.values()):
        out += [cases.pop(0) for cases in by.values() if cases]
    return out[:N_TEXTS], len(by)


def norm(x, weight, bias=None):
    """Layer norm, or without a bias that of root mean square."""
    if bias is None:
        return x / np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-5) * weight
    x = x - x.mean(axis=1, keepdims=True)
    return x / np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-5) * weight + bias


def attention(q, k, v):
    """Every token sees every token; K/V heads are shared by neighbouring heads."""
    n, width = len(q), WIDTH // HEADS
    out = np.empty((n, WIDTH))
    for h in range(HEADS):
        at = h * (k.shape[1] // width) // HEADS * width
        score = q[:, h * width:(h + 1) * width] @ k[:, at:at + width].T / np.sqrt(width)
        weight = np.exp(score - score.max(axis=1, keepdims=True))
        out[:, h * width:(h + 1) * width] = weight / weight.sum(axis=1, keepdims=True) @ v[:, at:at + width]
    return out


def rotated(x, pairs):
    """RoPE with base 10,000: neighbours are a pair (`pairs`), or a value and that of half a head later."""
    width = WIDTH // HEADS
    angle = np.arange(len(x))[:, None] * 10000.0 ** (-np.arange(0, width, 2) / width)
    y = x.reshape(len(x), -1, width).copy()
    first, second = (np.s_[:, :, 0::2], np.s_[:, :, 1::2]) if pairs else (np.s_[:, :, :width // 2], np.s_[:, :, width // 2:])
    a, b, c, s = y[first].copy(), y[second].copy(), np.cos(angle)[:, None], np.sin(angle)[:, None]
    y[first], y[second] = a * c - b * s, a * s + b * c
    return y.reshape(x.shape)


def gelu(x):
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / np.sqrt(2)))


def bert(w, ids):
    """Devlin et al. 2018: learned positions, the norm after each sum."""
    x = w['token_embd'][ids] + w['position_embd'][:len(ids)] + w['token_types'][0]
    x = norm(x, w['token_embd_norm'], w['token_embd_norm.bias'])
    for i in range(LAYERS):
        def linear(x, name):
            return x @ w['blk.%d.%s' % (i, name)].T + w['blk.%d.%s.bias' % (i, name)]

        def normed(x, name):
            return norm(x, w['blk.%d.%s' % (i, name)], w['blk.%d.%s.bias' % (i, name)])
        a = attention(linear(x, 'attn_q'), linear(x, 'attn_k'), linear(x, 'attn_v'))
        x = normed(x + linear(a, 'attn_output'), 'attn_output_norm')
        x = normed(x + linear(gelu(linear(x, 'ffn_up')), 'ffn_down'), 'layer_output_norm')
    return x


def llama(w, ids, pairs):
    """Touvron et al. 2023, without a mask: what EuroBERT and embedders made of Llama compute."""
    x = w['token_embd'][ids]
    for i in range(LAYERS):
        def m(name):
            return w['blk.%d.%s' % (i, name)]
        h = norm(x, m('attn_norm'))
        x = x + attention(rotated(h @ m('attn_q').T, pairs), rotated(h @ m('attn_k').T, pairs), h @ m('attn_v').T) @ m('attn_output').T
        h = norm(x, m('ffn_norm'))
        gate = h @ m('ffn_gate').T
        x = x + (gate / (1 + np.exp(-gate)) * (h @ m('ffn_up').T)) @ m('ffn_down').T
    return norm(x, w['output_norm'])


COMPUTE = {'bert': bert, 'eurobert': lambda w, ids: llama(w, ids, False), 'llama-embed': lambda w, ids: llama(w, ids, True)}


def shapes(arch, n_vocab):
    """name -> dimensions, rows first; those that end in .bias are biases of the one before."""
    kv = WIDTH if arch == 'bert' else WIDTH // HEADS * KV_HEADS
    layer = {'attn_q': (WIDTH, WIDTH), 'attn_k': (kv, WIDTH), 'attn_v': (kv, WIDTH), 'attn_output': (WIDTH, WIDTH),
             'ffn_up': (FFN, WIDTH), 'ffn_down': (WIDTH, FFN)}
    front = {'token_embd': (n_vocab, WIDTH)}
    if arch == 'bert':
        front.update({'position_embd': (CONTEXT, WIDTH), 'token_types': (2, WIDTH), 'token_embd_norm': (WIDTH,),
                      'token_embd_norm.bias': (WIDTH,)})
        layer.update({'attn_output_norm': (WIDTH,), 'layer_output_norm': (WIDTH,)})
        layer.update({name + '.bias': shape[:1] for name, shape in list(layer.items())})
    else:
        front['output_norm'] = (WIDTH,)
        layer.update({'attn_norm': (WIDTH,), 'ffn_norm': (WIDTH,), 'ffn_gate': (FFN, WIDTH)})
    return dict(front, **{'blk.%d.%s' % (i, name): shape for i in range(LAYERS) for name, shape in layer.items()})


def model(name, arch, pooling):
    """Writes BUILD/NAME.gguf; returns its weights as float64."""
    vocab = gguf_file.Gguf(DATA + '/vocabs/ggml-vocab-%s.gguf' % name)
    n_vocab = len(vocab.meta['tokenizer.ggml.tokens'])
    random, w = np.random.default_rng(len(name)), {}
    for key, shape in shapes(arch, n_vocab).items():
        about = 1 if key.endswith('norm') else 0
        w[key] = (about + random.standard_normal(shape) * (0.3 if len(shape) > 1 else 0.1)).astype('<f4')
    meta = {'general.architecture': arch}
    for key, value in (('vocab_size', n_vocab), ('context_length', CONTEXT), ('embedding_length', WIDTH), ('block_count', LAYERS),
                       ('feed_forward_length', FFN), ('attention.head_count', HEADS), ('attention.causal', False),
                       ('pooling_type', pooling)):
        meta['%s.%s' % (arch, key)] = value
    if arch == 'bert':
        meta['bert.attention.layer_norm_epsilon'] = 1e-5
    else:
        meta.update({arch + '.attention.head_count_kv': KV_HEADS, arch + '.attention.layer_norm_rms_epsilon': 1e-5,
                     arch + '.rope.freq_base': 10000.0, arch + '.rope.dimension_count': WIDTH // HEADS})
    gguf_file.write('%s/%s.gguf' % (BUILD, name), meta,
                    [(key if key.endswith('.bias') else key + '.weight', x.shape[::-1], gguf_file.TENSOR_F32, x.tobytes())
                     for key, x in w.items()],
                    [raw for key, raw in vocab.raw.items() if key.startswith('tokenizer.')])
    return {key: x.astype('f8') for key, x in w.items()}


def vector(w, arch, pooling, ids):
    x = COMPUTE[arch](w, ids)
    x = {MEAN: x.mean(axis=0), FIRST: x[0], LAST: x[-1]}[pooling]
    return x / np.sqrt((x * x).sum())


def main():
    passed = failed = 0
    os.makedirs(BUILD, exist_ok=True)
    for name, how, arch, pooling in KINDS:
        cases, n_scripts = chosen(recorded(name))
        w = model(name, arch, pooling)
        with open(BUILD + '/texts.txt', 'w', encoding='utf-8', newline='') as f:
            f.writelines(text + '\n' for text, _ in cases)
        bad = ['' if len(cases) == N_TEXTS and n_scripts >= 10 else '%d texts in %d scripts' % (len(cases), n_scripts)]
        want = [vector(w, arch, pooling, ids) for _, ids in cases]
        for options, limit in ([], 1e-7), (['--exact'], 1e-11): # tiles of bfloat16, where the CPU has them, are right to 1e-8
            done = subprocess.run([INFER, 'embed', '%s/%s.gguf' % (BUILD, name), '--texts', BUILD + '/texts.txt',
                                   '--out', BUILD + '/out', *options], check=False, stderr=subprocess.PIPE)
            if done.returncode:
                bad.append(done.stderr.decode('utf-8', 'replace'))
                continue
            _, rows = reference.read_rows(BUILD + '/out')
            errors = [reference.nmse([a], [b]) for a, b in zip(rows, want)]
            bad.append('' if len(rows) == len(cases) else '%d vectors' % len(rows))
            bad += ['NMSE %.3g of %r' % (e, text) for e, (text, _) in zip(errors, cases) if e > limit]
            print('%s, %s: %d texts in %d scripts, largest NMSE %.2g' % (how, ' '.join([arch] + options), len(rows), n_scripts, max(errors)))
        bad = [b for b in bad if b]
        for b in bad:
            print('FAILED %s: %s' % (how, b))
        passed, failed = passed + (not bad), failed + bool(bad)
        os.remove('%s/%s.gguf' % (BUILD, name))
    print('%d passed, %d failed, 0 skipped' % (passed, failed))
    sys.exit(1 if failed else 0)


if not DATA:
    skip('needs INFER_TEST_DATA')
main()
