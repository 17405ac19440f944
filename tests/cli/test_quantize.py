#!/usr/bin/env python3
"""Tests of `infer quantize`: python3 tests/cli/test_quantize.py build/infer [WORD...]

The types that a recipe gives are those of llama.cpp's llama-quantize (llama-cpp-python 0.3.36), recorded as hashes of "NAME TYPE"
lines; WITH: given a file of importance that names every matrix. The same harness as test_cli.py.
"""
import hashlib
import math
import os
import signal
import struct
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import gguf_file
import test_cli as cli
from test_cli import check, infer, read, temp, write

SHAPES = ('arch=llama,width=256,layers=16,heads=8,kv_heads=2,ffn=512,vocab=512', 'arch=llama,width=256,layers=9,heads=4,kv_heads=2,ffn=320,vocab=512')
LLAMA = {
    'Q8_0': 'de4dc24f4604 6ace5c9a3407', 'Q4_0': '963a54d81a04 8dfa14ec143f', 'Q4_1': '517fc23d8cb6 a764ea2eaffe', 'Q5_0': '92d3fd960de8 b86e6010f638',
    'Q5_1': '8107f3c57ab7 4b94ca886524', 'Q2_K': 'f161e0d4646a 74f05e039bb0', 'Q3_K_S': 'a5899e36a6e1 5e822d6a70ea',
    'Q3_K_M': '97006364d628 6ebd7d634f61', 'Q3_K_L': 'c810a718c7e6 575e999923ac', 'Q4_K_S': '807cdcc20b12 4d2be641b16d',
    'Q4_K_M': '2ac04ae47e56 e17cbca67a3f', 'Q5_K_S': 'b52c05bb250f d441087ee335', 'Q5_K_M': 'cec1436eb787 3fca43f5ce41',
    'Q6_K': 'f6163487c8f9 9eff5219b7a1', 'IQ4_NL': '4a8e2ab25031 5d1bbad4bf72', 'IQ4_XS': '9c9f0a7b1aaf 5393c981d023',
    'TQ1_0': 'ad5e4a4dd0d8 f142d5aaf95d', 'TQ2_0': '6123e247048a 4ba89a9eb01c', 'BF16': 'b9f29385acfd 2685d1eaeb06',
}
WITH = {
    'IQ1_S': '29e6ca799f12 555eda4fa3e0', 'IQ1_M': 'ea1de2650bec ab98ed7fcf26', 'IQ2_XXS': 'cb58684d5f44 8a3a826ff636',
    'IQ2_XS': '239a7fee29ad cf2114f7d955', 'IQ2_S': 'be75f8792eaa 667dac11be0a', 'IQ2_M': '00927525aec9 99830cb681f4',
    'IQ3_XXS': '5e5fd922a79a e7004dfff71c', 'IQ3_XS': '9c93280a1a40 54b450a6d081', 'IQ3_S': '1378876d8a16 2ac43ef03f57',
    'IQ3_M': '6af27520f058 c349801e333d', 'Q4_0': '9d80aacd2447 a7c29f52572c', 'Q5_0': '801e2b3388d8 418a30d76e1f',
    'IQ4_NL': 'bc345c1f063a 0435b847b97f', 'IQ4_XS': 'e0f8bf190a4f 24e894ece5e9',
}
FILE_TYPES = {'F32': 0, 'F16': 1, 'Q4_0': 2, 'Q4_K_M': 15, 'q4_k': 15, 'Q6_K': 18, 'IQ4_XS': 30, 'BF16': 32, 'MXFP4_MOE': 38, 'IQ1_S': 24, 'IQ1_M': 31,
              'IQ2_XXS': 19, 'IQ2_XS': 20, 'IQ2_S': 28, 'IQ2_M': 29, 'IQ3_XXS': 23, 'IQ3_XS': 22, 'IQ3_S': 26, 'IQ3_M': 27}


def stories():
    return cli.data('models', 'stories260K.F32.gguf')


def plan(model, recipe, *options):
    return infer('quantize', model, recipe, '--dry-run', '--json', *options).json()


def types_of(done):
    return {t['name']: t['type'] for t in done['tensors']}


def made(shape=0):
    path = temp('made%d.gguf' % shape)
    if not os.path.exists(path):
        infer('synth', SHAPES[shape], 'f16', path)
    return path


class Numbers:
    """Sums of uniform numbers; some columns are larger."""
    def __init__(self, seed):
        self.state = seed

    def next(self):
        self.state = (self.state * 1664525 + 1013904223) % 2**32
        return (self.state >> 8) / 2**24 - 0.5

    def row(self, n):
        return [self.next() + self.next() + self.next() for _ in range(n)]


def small(name='small.gguf', **change):
    """Two matrices of 256 columns, one with three experts, and a vector. The second has a few very large values in each row."""
    r = Numbers(1)
    a = [x for _ in range(8) for x in r.row(256)]
    b = [x * (12 if i % 256 < 4 else 1) for i, x in enumerate(x for _ in range(8) for x in r.row(256))]
    e = [x for _ in range(6) for x in r.row(256)]
    tensors = [('blk.0.attn_q.weight', [256, 8], 0, struct.pack('<2048f', *a)), ('blk.0.ffn_up.weight', [256, 8], 0, struct.pack('<2048f', *b)),
               ('blk.0.ffn_up_exps.weight', [256, 2, 3], 0, struct.pack('<1536f', *e)), ('blk.0.attn_norm.weight', [256], 0, struct.pack('<256f', *r.row(256)))]
    for i, (tensor, dims, kind, data) in enumerate(tensors):
        if tensor in change:
            tensors[i] = (tensor, dims, kind, change[tensor])
    gguf_file.write(temp(name), {'general.architecture': 'made', 'a.key': 'kept', 'general.file_type': 0}, tensors)
    return temp(name)


def values(path, name):
    infer('tensor', path, name, '--out', temp('values.f32'))
    data = read(temp('values.f32'))
    return struct.unpack('<%df' % (len(data) // 4), data)


def test_recipes():
    """Types as llama-quantize gives them, where rows fit and where they do not; --help names each recipe."""
    words = infer('quantize', '--help').out.decode().replace('.', ' ').replace(':', ' ').split()
    for recipe, hashes, weighted in [(*x, False) for x in LLAMA.items()] + [(*x, True) for x in WITH.items()]:
        check(recipe in words, '--help does not name ' + recipe)
        for shape, want in enumerate(hashes.split()):
            done = plan(made(shape), recipe, *(('--imatrix', importance_of(made(shape), 'made%d.imatrix' % shape)) if weighted else ()))
            text = ''.join('%s %s\n' % x for x in sorted(types_of(done).items()))
            check(hashlib.sha256(text.encode()).hexdigest()[:12] == want, '%s of shape %d: %s' % (recipe, shape, text[:200]))


def test_written():
    """What is written is what was planned, says what it is, keeps other keys and tensors bit for bit, and is evaluated."""
    for recipe, number in FILE_TYPES.items():
        out = temp('out.gguf')
        done = plan(stories(), recipe)
        check(infer('quantize', stories(), out, recipe, '--json').json() == done, 'what is said of what is written')
        check(os.path.getsize(out) == done['bytes'], '%s: %d bytes, not %d' % (recipe, os.path.getsize(out), done['bytes']))
        g, before = gguf_file.Gguf(out), gguf_file.Gguf(stories())
        check(g.meta['general.file_type'] == number and g.meta['general.quantization_version'] == 2, '%s: file type' % recipe)
        check(all(g.raw[k] == v for k, v in before.raw.items() if k not in ('general.file_type', 'general.quantization_version')), 'keys')
        info = {t['name']: t['type'] for t in infer('info', out, '--json', '--full').json()['tensors']}
        check(info == types_of(done), recipe)
        check(values(out, 'output_norm.weight') == values(stories(), 'output_norm.weight'), 'a vector')
        infer('run', out, '-p', 'Once upon a time', '-n', '8', '--temp', '0')


def test_evaluated():
    """Models whose files have unusual tensors are evaluated when they are quantised: norms of several rows, convolutions, small pairs."""
    for name in ('qwen4exp-moe', 'gemma3n-dense', 'rwkv7-dense', 'mamba-plain-dense', 'deepseek4-topk-moe', 'kimi-linear-moe', 'lfm2-real-dense'):
        for recipe in ('Q8_0', 'Q4_K_M'):
            infer('quantize', cli.data('archs', name + '.gguf'), temp('out.gguf'), recipe, '--requantize')
            infer('logits', temp('out.gguf'), '--ids', cli.write_ids('ids', [1, 2, 3]), '--out', temp('logits'))


def test_errors():
    """--errors says the error that the values have, and more bits have less."""
    last = 1
    for recipe in ('Q2_K', 'Q3_K_S', 'Q4_K_S', 'Q5_K_S', 'Q6_K', 'Q8_0'):
        done = infer('quantize', small(), temp('out.gguf'), recipe, '--errors', '--json').json()
        for t in done['tensors']:
            if t['from'] == t['type']:
                check('error' not in t, '%s' % t)
                continue
            a, b = values(small(), t['name']), values(temp('out.gguf'), t['name'])
            want = sum((x - y)**2 for x, y in zip(a, b)) / sum(x * x for x in a)
            check(abs(t['error'] - want) < 1e-4 * want, '%s %s: %g, not %g' % (recipe, t['name'], t['error'], want))
        error = next(t['error'] for t in done['tensors'] if t['name'] == 'blk.0.attn_q.weight')
        check(0 < error < last, '%s: %g after %g' % (recipe, error, last))
        last = error / 1.5
    check(plan(small(), 'Q4_K', '--errors') == infer('quantize', small(), temp('out.gguf'), 'Q4_K', '--errors', '--json').json(), '--dry-run')


# Of the trained model in tests/data, its matrices of 4096 values and more as rows of 256: squared errors over squared values of ggml_quantize_chunk of
# llama-cpp-python 0.3.36, with equal weights (the lower of no imatrix, where it does without, and one of ones), and with weights().
GGML = {
    'IQ1_S': (0.2514, 0.1913), 'IQ1_M': (0.2016, 0.1341), 'IQ2_XXS': (0.1145, 0.07491), 'IQ2_XS': (0.0887, 0.05645), 'IQ2_S': (0.06311, 0.04638),
    'IQ3_XXS': (0.03477, 0.02022), 'IQ3_S': (0.01926, 0.01276),
}


def weights():
    """Of 256 columns, as tests/test_encode.c has them: its generator has made 4 numbers for each of 65,536 values before."""
    r = Numbers(1)
    for _ in range(4 << 16):
        r.next()
    return [(r.next() + 0.5)**4 + 0.01 for _ in range(256)]


def test_trained():
    """The types of code books lose less of trained weights than ggml's encoders, with importance and without."""
    g = gguf_file.Gguf(stories())
    data = b''
    for name, (dims, kind, at) in g.tensors.items():
        n = math.prod(dims)
        if len(dims) > 1 and n >= 4096:
            data += g.data[g.start + at:g.start + at + n // 256 * 1024]
    gguf_file.write(temp('trained.gguf'), {'general.architecture': 'made'}, [('blk.0.ffn_up.weight', [256, len(data) // 1024], 0, data)])
    m = matrix_file('trained.imatrix', [('blk.0.ffn_up.weight.in_sum2', [256, 1], 0, floats(weights())), ('blk.0.ffn_up.weight.counts', [1, 1], 0, floats([1]))])
    for name, limits in GGML.items():
        for limit, options in zip(limits, ((), ('--imatrix', m))):
            done = plan(temp('trained.gguf'), 'Q8_0', '--type', 'ffn_up=' + name, '--errors', *options)
            error = done['tensors'][0]['error']
            check(0.5 * limit < error < 0.97 * limit, '%s %s: %g, ggml has %g' % (name, options, error, limit))


def test_few_bits():
    """Without importance they are written, with a warning; --target-size takes them where a file must be smaller than Q2_K."""
    done = infer('quantize', small(), temp('out.gguf'), 'IQ2_XS')
    check(done.err.count('warning: ') == 1 and '3 matrices become IQ2_XS' in done.err and '--imatrix' in done.err, done.err)
    check('warning' not in infer('quantize', small(), temp('out.gguf'), 'IQ2_XS', '--imatrix', importance_of(small(), 'all.imatrix')).err, 'with importance')
    check('warning' not in infer('quantize', small(), temp('out.gguf'), 'IQ3_S').err, 'a type that does well without')
    least = plan(made(), 'Q2_K', '--output-type', 'q2_k', '--type', 'blk=q2_k')['bytes']
    done = plan(made(), 'Q2_K', '--target-size', least * 4 // 5)
    check(done['bytes'] <= least * 4 // 5 and any(t.startswith(('IQ1', 'IQ2')) for t in types_of(done).values()), '%s' % types_of(done))


def test_threads():
    """The bytes do not depend on threads, or on how the input is split."""
    infer('quantize', made(), temp('one.gguf'), 'Q4_K_M', '-t', '1')
    infer('quantize', made(), temp('three.gguf'), 'Q4_K_M', '-t', '3')
    check(read(temp('one.gguf')) == read(temp('three.gguf')), 'threads')
    infer('quantize', made(), temp('few.gguf'), 'IQ3_XXS', '-t', '1')
    infer('quantize', made(), temp('three.gguf'), 'IQ3_XXS', '-t', '3')
    check(read(temp('few.gguf')) == read(temp('three.gguf')), 'threads')
    infer('split', made(), temp('part'), '--max-tensors', '40')
    first = next(f for f in sorted(os.listdir(cli.TEMP)) if f.startswith('part-00001'))
    infer('quantize', temp(first), temp('three.gguf'), 'Q4_K_M')
    check(read(temp('one.gguf')) == read(temp('three.gguf')), 'a split model')


def test_choices():
    """--type, --keep, --output-type and --embedding-type."""
    types = types_of(plan(made(), 'Q4_K_M', '--type', 'ffn_*=q8_0', '--type', 'blk.3.ffn_up=f16', '--keep', 'attn_q', '--output-type', 'bf16', '--embedding-type', 'q5_0'))
    check(types['blk.0.ffn_down.weight'] == 'Q8_0' and types['blk.3.ffn_up.weight'] == 'F16' and types['blk.5.attn_q.weight'] == 'F16', '%s' % types)
    check(types['output.weight'] == 'BF16' and types['token_embd.weight'] == 'Q5_0' and types['blk.5.attn_k.weight'] == 'Q4_K', '%s' % types)
    check(types['output_norm.weight'] == 'F32', 'a vector')
    check(types_of(plan(made(), 'Q4_0', '--type', 'output_norm=f16'))['output_norm.weight'] == 'F16', 'a vector that was asked for')
    experts = cli.data('archs', 'llama-mixtral-moe.gguf')
    before = types_of(plan(experts, 'F16'))
    for pattern, takes in (('ffn_*', ('ffn_gate_exps', 'ffn_up_exps', 'ffn_down_exps')), ('blk.0.ffn_gate_inp.weight', ('blk.0.ffn_gate_inp',)), ('norm', ()), ('blk.0.ffn_norm.weight', ())):
        done = infer('quantize', experts, temp('out.gguf'), 'F16', '--type', pattern + '=q8_0')
        found = {t['name'] for t in infer('info', temp('out.gguf'), '--json', '--full').json()['tensors'] if t['type'] == 'Q8_0'}
        check(found == {x for x in before if any(w in x for w in takes)}, '--type %s: %s' % (pattern, found))
        check(('no such matrix' in done.err) == (not takes), '--type %s: %s' % (pattern, done.err))
        infer('logits', temp('out.gguf'), '--ids', cli.write_ids('ids', [1, 2, 3]), '--out', temp('logits'))
    done = infer('quantize', made(), temp('out.gguf'), 'Q4_0', '--type', 'attn_w=q8_0', '--keep', 'nothing', '--keep', 'attn_q')
    check('--type attn_w=q8_0: there is no such matrix' in done.err and '--keep nothing: there is no such tensor' in done.err and 'attn_q' not in done.err, done.err)


def test_target():
    """--target-size: no larger, nearly as large, and less error than one type for all at the same size."""
    g = made()
    flat = plan(g, 'Q4_0', '--errors', '--output-type', 'q4_0')
    for size in (flat['bytes'], flat['bytes'] * 3 // 4, flat['bytes'] * 3 // 2):
        done = plan(g, 'Q4_K', '--target-size', size, '--errors')
        check(done['bytes'] <= size and done['bytes'] > 0.93 * size, '%d of %d' % (done['bytes'], size))
        infer('quantize', g, temp('out.gguf'), 'Q4_K', '--target-size', size)
        check(os.path.getsize(temp('out.gguf')) == done['bytes'], 'the file')
    done = plan(g, 'Q4_K', '--target-size', flat['bytes'], '--errors')

    def total(plan_):
        return sum(t.get('error', 0) * count[t['name']] for t in plan_['tensors'])
    count = {name: math.prod(dims) for name, (dims, _, _) in gguf_file.Gguf(g).tensors.items()}
    check(total(done) < total(flat), '%g, not less than %g' % (total(done), total(flat)))
    mixed = types_of(plan(small(), 'Q4_K', '--target-size', os.path.getsize(small()) // 6))
    check(mixed['blk.0.attn_norm.weight'] == 'F32', '%s' % mixed)
    check('smallest types' in infer('quantize', g, 'Q4_K', '--dry-run', '--target-size', '1M', status=1).err, 'too small')
    check(plan(g, 'Q4_K', '--target-size', '4.2G') == plan(g, 'Q4_K', '--target-size', str(int(4.2 * 2**30))), 'a size that is no whole number of bytes')
    check("a size such as 800K, 500M or 4.2G, got 'much'" in infer('quantize', g, 'Q4_K', '--dry-run', '--target-size', 'much', status=2).err, 'no size')
    check('already' in infer('quantize', small(), 'Q4_K', '--dry-run', '--target-size', '100', status=1).err, 'less than nothing')


def matrix_file(name, tensors):
    gguf_file.write(temp(name), {'general.type': 'imatrix', 'imatrix.chunk_count': 1, 'imatrix.chunk_size': 512}, tensors)
    return temp(name)


def importance_of(model, name):
    """A file that says of every matrix, but the two that usually have none, that its columns count alike."""
    tensors = []
    for tensor, (dims, _, _) in gguf_file.Gguf(model).tensors.items():
        if len(dims) < 2 or tensor in ('token_embd.weight', 'output.weight'):
            continue
        n = dims[2] if len(dims) > 2 else 1
        tensors += [(tensor + '.in_sum2', [dims[0], n], 0, floats([1.0] * dims[0] * n)), (tensor + '.counts', [1, n], 0, floats([1] * n))]
    return matrix_file(name, tensors)


def floats(x):
    return struct.pack('<%df' % len(x), *x)


def test_importance():
    """Columns that count more lose less; experts have their own; a matrix that the file does not name is as without it."""
    count = [1.0 if i % 8 == 0 else 1e-3 for i in range(256)]
    experts = [1.0 if i % 5 == 0 else 1e-3 for i in range(768)]
    m = matrix_file('some.imatrix', [('blk.0.attn_q.weight.in_sum2', [256, 1], 0, floats([10 * x for x in count])), ('blk.0.attn_q.weight.counts', [1, 1], 0, floats([10])),
                                     ('blk.0.ffn_up_exps.weight.in_sum2', [256, 3], 0, floats(experts)), ('blk.0.ffn_up_exps.weight.counts', [1, 3], 0, floats([1, 0, 1]))])
    for recipe in ('Q2_K', 'Q4_0', 'Q4_K', 'Q6_K', 'IQ4_XS', 'IQ1_S', 'IQ1_M', 'IQ2_XXS', 'IQ2_XS', 'IQ3_XXS', 'IQ3_S'):
        infer('quantize', small(), temp('with.gguf'), recipe, '--imatrix', m, '--type', 'exps=' + recipe)
        infer('quantize', small(), temp('without.gguf'), recipe, '--type', 'exps=' + recipe)

        def error(path, name, some):
            a, b = values(small(), name), values(path, name)
            return sum((x - y)**2 for i, (x, y) in enumerate(zip(a, b)) if some(i))
        for name, some in (('blk.0.attn_q.weight', lambda i: i % 8 == 0), ('blk.0.ffn_up_exps.weight', lambda i: i // 512 != 1 and (i % 256 + i // 512 * 256) % 5 == 0)):
            with_, without = error(temp('with.gguf'), name, some), error(temp('without.gguf'), name, some)
            check(with_ < 0.9 * without, '%s, %s: %g, not less than %g' % (recipe, name, with_, without))
        check(values(temp('with.gguf'), 'blk.0.ffn_up.weight') == values(temp('without.gguf'), 'blk.0.ffn_up.weight'), 'a matrix without importance')
        never = slice(512, 1024) # of the expert that no input has seen
        check(values(temp('with.gguf'), 'blk.0.ffn_up_exps.weight')[never] == values(temp('without.gguf'), 'blk.0.ffn_up_exps.weight')[never], 'an expert without importance')


def test_bad_importance():
    good = [('blk.0.attn_q.weight.in_sum2', [256, 1], 0, floats([1.0] * 256)), ('blk.0.attn_q.weight.counts', [1, 1], 0, floats([1]))]
    for change, why in (([('blk.0.attn_q.weight.in_sum2', [128, 1], 0, floats([1.0] * 128)), good[1]], 'another shape'),
                        ([('blk.0.attn_q.weight.in_sum2', [256, 2], 0, floats([1.0] * 512)), ('blk.0.attn_q.weight.counts', [1, 2], 0, floats([1, 1]))], 'another shape'),
                        ([good[0], ('blk.0.attn_q.weight.counts', [1, 2], 0, floats([1, 1]))], 'another shape'),
                        ([('blk.0.attn_q.weight.in_sum2', [256, 1], 0, floats([-1.0] * 256)), good[1]], 'negative'),
                        ([('blk.0.attn_q.weight.in_sum2', [256, 1], 0, floats([float('nan')] * 256)), good[1]], 'not a number'),
                        ([('blk.0.attn_q.weight.in_sum2', [256, 1], 1, struct.pack('<256e', *[1.0] * 256)), good[1]], 'another type')):
        done = infer('quantize', small(), temp('never.gguf'), 'Q4_K', '--imatrix', matrix_file('bad.imatrix', change), status=1)
        check(why in done.err and not [f for f in os.listdir(cli.TEMP) if f.startswith('never')], '%s: %s' % (why, done.err))
    infer('quantize', small(), temp('out.gguf'), 'Q4_K', '--imatrix', write('text', 'no file of importance'), status=1)
    infer('quantize', small(), temp('out.gguf'), 'Q4_K', '--imatrix', temp('none'), status=1)


def test_refused():
    infer('quantize', small(), temp('q4.gguf'), 'Q4_0')
    check('--requantize' in infer('quantize', temp('q4.gguf'), temp('twice.gguf'), 'Q2_K', status=1).err, 'twice')
    infer('quantize', temp('q4.gguf'), temp('twice.gguf'), 'Q2_K', '--requantize')
    infer('quantize', temp('q4.gguf'), temp('twice.gguf'), 'F32', '--requantize')
    check(values(temp('twice.gguf'), 'blk.0.attn_q.weight') == values(temp('q4.gguf'), 'blk.0.attn_q.weight'), 'back to F32')
    for words in ([small(), temp('x'), 'Q9_Z'], [small(), temp('x'), 'Q8_1'], [small(), 'Q4_0'], [small()], [small(), small(), 'Q4_0'],
                  [small(), temp('x'), 'Q4_0', '--type', 'x=nope'], [small(), temp('x'), 'Q4_0', '--type', 'q4_0'], [small(), temp('x'), 'Q4_0', '--type', '=q4_0'],
                  [small(), temp('x'), 'Q4_0', '--output-type', 'q8_1'], [small(), temp('x'), 'Q4_0', '-t', '0']):
        infer('quantize', *words, status=2)
    infer('quantize', temp('none.gguf'), temp('x'), 'Q4_0', status=1)
    infer('quantize', small(), os.path.join(temp('nofolder'), 'x'), 'Q4_0', status=1)
    infer('quantize', small(), '-', 'Q4_0', status=1)
    check(not os.path.exists(temp('x')), 'a file was written')


def left(prefix):
    """The files that begin so, in order; they are removed."""
    found = {f: read(temp(f)) for f in sorted(os.listdir(cli.TEMP)) if f.startswith(prefix)}
    for f in found:
        os.remove(temp(f))
    return list(found), list(found.values())


def test_split():
    """Parts are those of `infer split` of the whole file, byte for byte, whose limits hold; --dry-run knows their number and sizes."""
    infer('quantize', made(), temp('whole.gguf'), 'Q4_K_M')
    for limit, value in (('max-size', '700k'), ('max-tensors', '30'), ('max-size', '1T')):
        infer('split', temp('whole.gguf'), temp('want'), '--' + limit, value)
        names, want = left('want-')
        for out in ('parts', 'parts.gguf'):
            done = infer('quantize', made(), temp(out), 'Q4_K_M', '--split-' + limit, value, '--errors', '--json').json()
            if value == '700k':
                infer('run', temp('parts-00001-of-%05d.gguf' % len(want)), '-p', 'a', '-n', '2', '--temp', '0')
            found, got = left('parts')
            check(found == [n.replace('want', 'parts') for n in names] and got == want, '%s %s: %s' % (limit, value, found))
            check((done['files'], done['bytes']) == (len(want), sum(map(len, want))), '%d files, %d bytes' % (done['files'], done['bytes']))
        dry = infer('quantize', made(), 'Q4_K_M', '--dry-run', '--split-' + limit, value).out.decode()
        check('in %d files' % len(want) in dry.splitlines(), dry[-100:])
    check(len(want) == 1, 'one part')


def test_keep_split():
    """Of a split model: the same tensors in the same parts, also in those that have none."""
    big = str(max(x['bytes'] for x in plan(made(), 'F16')['tensors']) + 1000)
    for options in (('--max-tensors', '40'), ('--max-size', big)):
        infer('split', made(), temp('in'), *options)
        first = sorted(f for f in os.listdir(cli.TEMP) if f.startswith('in-'))[0]
        infer('quantize', temp(first), temp('out'), 'Q4_0', '--keep-split')
        infer('merge', temp('out' + first[2:]), temp('merged.gguf'))
        before, after = [{f[-20:]: list(gguf_file.Gguf(temp(f)).tensors) for f in os.listdir(cli.TEMP) if f.startswith(p + '-')} for p in ('in', 'out')]
        check(before == after and len(before) > 2, '%s, not %s' % (after, before))
        infer('quantize', made(), temp('whole.gguf'), 'Q4_0')
        check(read(temp('merged.gguf')) == read(temp('whole.gguf')), 'merged')
        left('in-'), left('out-')
    infer('split', made(), temp('in'), '--max-tensors', '40')
    inputs = sorted(f for f in os.listdir(cli.TEMP) if f.startswith('in-'))
    hashes = [read(temp(f)) for f in inputs]
    check('file of the input' in infer('quantize', temp(inputs[0]), temp('in.gguf'), 'Q4_0', '--keep-split', status=1).err, 'its own parts')
    check('already where' in infer('quantize', temp(inputs[0]), temp('x'), 'Q4_0', '--keep-split', '--split-max-size', '1M', status=2).err, 'both')
    check([read(temp(f)) for f in inputs] == hashes, 'the input was changed')
    check('is not split' in infer('quantize', made(), temp('x'), 'Q4_0', '--keep-split', status=2).err, 'one file')
    check('the metadata takes' in infer('quantize', made(), temp('x'), 'Q4_0', '--split-max-size', '1k', status=1).err, 'metadata')
    check('tensor token_embd.weight takes' in infer('quantize', small_head(), temp('x'), 'F16', '--split-max-size', '1k', status=1).err, 'a tensor')
    os.mkdir(temp('x-00002-of-00002.gguf'))
    check('a folder' in infer('quantize', made(), temp('x'), 'Q4_0', '--split-max-tensors', '100', status=1).err, 'a folder')
    os.rmdir(temp('x-00002-of-00002.gguf'))
    check(not left('x')[0], 'a file is left')


def small_head():
    gguf_file.write(temp('head.gguf'), {'general.architecture': 'made'}, [('token_embd.weight', [256, 8], 0, bytes(8192))])
    return temp('head.gguf')


def test_not_numbers():
    """NaN and infinities are named, nothing is written."""
    for bad in (float('nan'), float('inf'), float('-inf')):
        x = [0.25] * 2048
        x[700] = bad
        path = small('nan.gguf', **{'blk.0.ffn_up.weight': floats(x)})
        done = infer('quantize', path, temp('never.gguf'), 'Q4_K', status=1)
        check('blk.0.ffn_up.weight: row 2: value 188 is not a number' in done.err, done.err)
        path = small('nan.gguf', **{'blk.0.attn_norm.weight': floats([0.25] * 200 + [bad] + [0.25] * 55)}) # a vector, and a matrix, that stay as they are
        done = infer('quantize', path, temp('never.gguf'), 'Q4_K', status=1)
        check('blk.0.attn_norm.weight: row 0: value 200 is not a number' in done.err, done.err)
        done = infer('quantize', small('nan.gguf', **{'blk.0.ffn_up.weight': floats(x)}), temp('never.gguf'), 'Q4_K', '--keep', 'ffn_up', status=1)
        check('blk.0.ffn_up.weight: row 2' in done.err, done.err)
        check(not [f for f in os.listdir(cli.TEMP) if f.startswith('never')], 'a file is left')


def test_interrupted():
    """Ctrl-C leaves no file."""
    if os.name == 'nt':
        raise cli.Skipped('cpu: Ctrl-C is another thing here')
    big = temp('big.gguf')
    infer('synth', 'smollm2-135m,layers=6', 'f16', big)
    p = subprocess.Popen([cli.INFER, 'quantize', big, temp('stopped.gguf'), 'IQ4_XS', '-t', '1'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(200):
        if [f for f in os.listdir(cli.TEMP) if f.startswith('stopped.gguf')]:
            break
        time.sleep(0.05)
    p.send_signal(signal.SIGINT)
    check(p.wait(60) == 130, 'exit status %d' % p.returncode)
    check(not [f for f in os.listdir(cli.TEMP) if f.startswith('stopped')], 'a file is left')
    os.remove(big)


def all_tests():
    return cli.tests_in(globals())


if __name__ == '__main__':
    cli.main(all_tests, __doc__)
