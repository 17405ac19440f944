#!/usr/bin/env python3
"""Tests of `infer imatrix`: python3 tests/cli/test_imatrix.py build/infer [WORD...]

Sums and counts are compared with those that llama.cpp (build of llama-cpp-python 0.3.36, `llama-imatrix -c 64 -b 64 --no-ppl --chunks 6`) gave
for the same text and models, and with a formula. The same harness as test_cli.py.
"""
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
from test_files import limited
from test_perplexity import text

SHAPES = {
    'moe': 'qwen3-30b-a3b,layers=2,width=64,heads=2,kv_heads=1,head_dim=32,vocab=512,experts=8,experts_used=2,expert_ffn=32,context=512',
    'mamba2': 'mamba2-1.3b,layers=2,width=64,vocab=512,context=512',
    'rwkv7': 'rwkv7-1.5b,layers=2,width=64,heads=2,ffn=128,vocab=512,context=512',
    'bert': 'minilm-l6,layers=2,width=64,heads=2,ffn=96,vocab=512',
}
# tensors in the file; of some: the sum of all sums, the sum of sum i times i % 13, the counts
LLAMA = {
    'stories': (35, [('blk.1.attn_k', 42204.18, 247827.2, '384'), ('blk.1.attn_output', 2355.711, 14460.71, '384'), ('blk.1.ffn_down', 3150.614, 18332.69, '384'),
                     ('blk.4.attn_v', 35844.55, 193613.5, '384'), ('blk.4.ffn_down', 18355.62, 109515.8, '384'), ('blk.4.ffn_up', 22888.54, 125553.3, '384')]),
    'moe': (17, [('blk.1.attn_q', 24682.17, 152694.3, '384'), ('blk.1.ffn_gate_inp', 24358.55, 150378.3, '384'),
                 ('blk.1.ffn_down_exps', 9356.379, 56495.2, '30 87 242 12 201 17 53 126'), ('blk.1.ffn_gate_exps', 48717.1, 303256.2, '30 87 242 12 201 17 53 126'),
                 ('output', 24702.31, 147928.4, '384')]),
    'mamba2': (4, [('blk.1.ssm_in', 24323.37, 146018.4, '384'), ('blk.1.ssm_out', 1593817, 9354833, '384')]),
    'rwkv7': (26, [('blk.1.channel_mix_value', 72252.09, 447808.9, '384'), ('blk.1.time_mix_a2', 35768.4, 209458, '384'), ('blk.1.time_mix_g2', 28839.98, 169346.6, '384'),
                   ('blk.1.time_mix_output', 6692.329, 45950.95, '384'), ('blk.1.time_mix_w2', 14520.86, 82860.77, '384')]),
    'bert': (12, [('blk.1.attn_k', 24197.59, 136924.2, '384'), ('blk.1.attn_output', 4003.024, 22400.05, '384'), ('blk.1.ffn_down', 16724.89, 104886.8, '384')]),
}


def model(name):
    if name == 'stories':
        return cli.data('models', 'stories260K.F32.gguf')
    path = temp('model-%s.gguf' % name)
    if not os.path.exists(path):
        infer('synth', SHAPES[name], 'f32', path)
    return path


def made_text(n=400):
    return write('text%d.txt' % n, text(n))


def imatrix(name, out, *options, source=None, **more):
    infer('imatrix', model(name), '-f', source or made_text(), '--out', temp(out), '--ctx', '64', *options, **more)
    return temp(out)


def sums(path):
    """Tensor -> (sums, counts)."""
    g = gguf_file.Gguf(path)
    flat = {n: [x for row in g.rows(n) for x in row] for n in g.tensors}
    return {n[:-8]: (x, flat[n[:-8] + '.counts']) for n, x in flat.items() if n.endswith('.in_sum2')}


def floats(x):
    return struct.pack('<%df' % len(x), *x)


def old_form(name, entries, chunks=None, dataset=b'some text'):
    """A file as llama-imatrix wrote them before GGUF: entries are (name, chunks, means)."""
    raw = struct.pack('<i', len(entries))
    for tensor, calls, means in entries:
        raw += struct.pack('<i', len(tensor)) + tensor.encode() + struct.pack('<ii', calls, len(means)) + floats([x * calls for x in means])
    if chunks is not None:
        raw += struct.pack('<ii', chunks, len(dataset)) + dataset
    return write(name, raw)


# ---- values ----------------------------------------------------------------------------------------------------------

def test_recorded():
    """What llama-imatrix gives: dense, experts, recurrent layers, an encoder. The same tensors, counts, and sums within 1e-3."""
    for name, (n, rows) in LLAMA.items():
        options = ['--chunks', 6] + (['--process-output'] if name == 'moe' else [])
        got = sums(imatrix(name, 'got.gguf', *options))
        check(len(got) == n, '%s: %d tensors, not %d' % (name, len(got), n))
        for tensor, total, weighted, counts in rows:
            x, c = got[tensor + '.weight']
            check(c == [float(v) for v in counts.split()], '%s: counts of %s: %s' % (name, tensor, c))
            for have, want in ((sum(x), total), (sum(v * (i % 13) for i, v in enumerate(x)), weighted)):
                check(abs(have - want) < 1e-3 * want, '%s: %s: %.7g, not %.7g' % (name, tensor, have, want))


def test_formula():
    """The first matrix reads the normed embeddings of the tokens, BOS first in every chunk; --process-output gives the last hidden states."""
    m = model('stories')
    got = sums(imatrix('stories', 'got.gguf', '--chunks', 3, '--process-output', '--exact'))
    ids = [int(x) for x in infer('tokens', m, '--texts', made_text(), '--special').out.split()]
    width = 64
    for name in ('token_embd', 'blk.0.attn_norm'):
        infer('tensor', m, name + '.weight', '--out', temp(name))
    table, norm = (cli.f32(temp(name)) for name in ('token_embd', 'blk.0.attn_norm'))
    want, hidden = [0.0] * width, [0.0] * width
    for chunk in range(3):
        piece = [ids[0]] + ids[64 * chunk + 1:64 * chunk + 64]
        for t in piece:
            row = table[t * width:(t + 1) * width]
            scale = 1 / (sum(x * x for x in row) / width + 1e-5)
            want = [w + x * x * scale * n * n for w, x, n in zip(want, row, norm)]
        infer('logits', m, '--ids', cli.write_ids('in.ids', piece), '--out', temp('rows'), '--embeddings', '--exact')
        raw = read(temp('rows'))
        for i in range(64):
            hidden = [h + x * x for h, x in zip(hidden, struct.unpack_from('<%df' % width, raw, 8 + 4 * 64 + 4 * width * i))]
    for tensor, expected in (('blk.0.attn_q', want), ('output', hidden)):
        x, c = got[tensor + '.weight']
        check(c == [192.0] and all(abs(a - b) < 1e-4 * b for a, b in zip(x, expected)), '%s: %s, not %s' % (tensor, x[:4], expected[:4]))


def test_form():
    """Keys and order of the file; merged alone it stays the same bytes; threads and batch change nothing."""
    path = imatrix('moe', 'got.gguf', '--chunks', 2)
    g = gguf_file.Gguf(path)
    check(g.meta == {'general.type': 'imatrix', 'imatrix.datasets': [made_text()], 'imatrix.chunk_count': 2, 'imatrix.chunk_size': 64}, '%s' % g.meta)
    check(g.tensors['blk.0.ffn_down_exps.weight.in_sum2'][0] == [32, 8] and g.tensors['blk.0.ffn_down_exps.weight.counts'][0] == [1, 8], 'experts')
    check(g.tensors['blk.0.attn_q.weight.in_sum2'][0] == [64] and g.tensors['blk.0.attn_q.weight.counts'][0] == [1], 'a matrix')
    names = [n[:-8] for n in g.tensors if n.endswith('.in_sum2')]
    check(names == sorted(names) and not any('token_embd' in n or n == 'output.weight' for n in names), '%s' % names)
    infer('imatrix', '--in', path, '--out', temp('same.gguf'))
    check(read(temp('same.gguf')) == read(path), 'merged alone')
    for options in (['-t', '1'], ['-t', '3', '-b', '7'], ['--from-chunk', '0']):
        check(read(imatrix('moe', 'other.gguf', '--chunks', 2, *options)) == read(path), '%s' % options)


# ---- merging and resuming -------------------------------------------------------------------------------------------

def test_merge():
    """Files add up; a text goes on from files; the older form counts in chunks."""
    a, b = imatrix('moe', 'a.gguf', '--chunks', 2), imatrix('moe', 'b.gguf', '--chunks', 3, source=write('second.txt', text(900)[9000:]))
    infer('imatrix', '--in', a, '--in', b, '--out', temp('ab.gguf'))
    x, y, z = sums(a), sums(b), sums(temp('ab.gguf'))
    for name, (values, counts) in z.items():
        check(counts == [p + q for p, q in zip(x[name][1], y[name][1])], 'counts of ' + name)
        check(all(abs(v - p - q) <= 1e-6 * v for v, p, q in zip(values, x[name][0], y[name][0])), 'sums of ' + name)
    meta = gguf_file.Gguf(temp('ab.gguf')).meta
    check(meta['imatrix.chunk_count'] == 5 and len(meta['imatrix.datasets']) == 2, '%s' % meta)
    imatrix('moe', 'go-on.gguf', '--in', b, '--chunks', 2)
    check(sums(temp('go-on.gguf'))['blk.1.ffn_up_exps.weight'][1] == z['blk.1.ffn_up_exps.weight'][1], 'a text behind a file')
    old = old_form('old.dat', [('blk.0.attn_q.weight', 3, [0.5 * i for i in range(64)]), ('blk.1.ffn_up_exps.weight', 3, [1.0] * 512)], 3)
    infer('imatrix', '--in', old, '--out', temp('new.gguf'), '--ctx', '64')
    g = gguf_file.Gguf(temp('new.gguf'))
    values, counts = sums(temp('new.gguf'))['blk.0.attn_q.weight']
    check(g.meta['imatrix.chunk_count'] == 3 and g.meta['imatrix.datasets'] == ['some text'] and counts == [192.0] and values[10] == 5 * 192, '%s' % g.meta)
    imatrix('moe', 'both.gguf', '--in', old, '--chunks', 2)
    check(sums(temp('both.gguf'))['blk.1.ffn_up_exps.weight'][1] == [192 + c for c in x['blk.1.ffn_up_exps.weight'][1]], 'one count for all experts')


def test_resume():
    """A run that goes on from the file of its first chunks gives the same bytes: by --resume, or --in with --from-chunk."""
    whole = read(imatrix('stories', 'whole.gguf', '--chunks', 7))
    for first in (1, 4, 7):
        imatrix('stories', 'part.gguf', '--chunks', first)
        check(read(imatrix('stories', 'on.gguf', '--in', temp('part.gguf'), '--from-chunk', first, '--chunks', 7 - first or 1)) == whole or first == 7, '--in')
        check(read(imatrix('stories', 'part.gguf', '--chunks', 7, '--resume', '--save-every', 2)) == whole, '--resume after %d' % first)
    check(read(imatrix('stories', 'absent.gguf', '--chunks', 7, '--resume')) == whole, '--resume without a file')
    for options in (['--ctx', '32'], ['-f', write('other.txt', text(99))]):
        done = infer('imatrix', model('stories'), '-f', made_text(), '--out', temp('part.gguf'), '--ctx', '64', '--resume', *options, status=1)
        check('not the beginning' in done.err and read(temp('part.gguf')) == whole, done.err)


def test_interrupted():
    """Ctrl-C: status 130, OUT has whole chunks and --resume goes on; a killed run leaves what was saved last."""
    if os.name != 'posix':
        raise cli.Skipped('cpu: Ctrl-C is another thing here')
    long = made_text(4000)
    words = ['imatrix', model('stories'), '-f', long, '--out', temp('stopped.gguf'), '--ctx', '128', '-t', '1', '--save-every', '1', '--resume']
    for number in (signal.SIGINT, signal.SIGKILL):
        if os.path.exists(temp('stopped.gguf')):
            os.remove(temp('stopped.gguf'))
        p = subprocess.Popen([cli.INFER] + words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        while p.poll() is None and not os.path.exists(temp('stopped.gguf')):
            time.sleep(0.002)
        p.send_signal(number)
        err = p.communicate(timeout=60)[1].decode()
        done = gguf_file.Gguf(temp('stopped.gguf')).meta['imatrix.chunk_count']
        check(p.returncode == (130 if number == signal.SIGINT else -number), 'status %d' % p.returncode)
        check(number == signal.SIGKILL or ('%d of ' % done in err and '--resume' in err), err)
        check(number == signal.SIGKILL or not [f for f in os.listdir(cli.TEMP) if f.endswith('.part')], 'a temporary file is left')
        infer(*words, '--chunks', done + 2)
        infer('imatrix', model('stories'), '-f', long, '--out', temp('at-once.gguf'), '--ctx', '128', '--chunks', done + 2)
        check(read(temp('stopped.gguf')) == read(temp('at-once.gguf')), 'it went on differently')
    for f in os.listdir(cli.TEMP):
        if f.endswith('.part'):
            os.remove(temp(f))


# ---- used by quantize ------------------------------------------------------------------------------------------------

def test_quantize():
    """Both forms of the same importance give the same model, another than without."""
    m = cli.data('models', 'TinyStories-656K.Q8_0.gguf')
    infer('imatrix', m, '-f', made_text(), '--out', temp('tiny.gguf'), '--ctx', '64', '--chunks', '8')
    means = {n: [v / c[0] for v in x] for n, (x, c) in sums(temp('tiny.gguf')).items()}
    old = old_form('tiny.dat', [(n, 8, x) for n, x in sorted(means.items())])
    for out, options in (('none', []), ('gguf', ['--imatrix', temp('tiny.gguf')]), ('dat', ['--imatrix', old])):
        infer('quantize', m, temp('q-' + out), 'Q4_0', '--requantize', *options)
    a, b, c = (read(temp('q-' + x)) for x in ('none', 'gguf', 'dat'))
    differing = sum(x != y for x, y in zip(b, c))
    check(len(b) == len(c) and differing < len(b) // 500, 'the forms differ in %d bytes' % differing) # means are rounded to float32
    check(sum(x != y for x, y in zip(a, b)) > len(a) // 50, 'importance changes nothing')
    check('of another model' in infer('quantize', model('moe'), temp('never'), 'Q4_0', '--imatrix', write_other(), status=1).err, 'another model')


def write_other():
    gguf_file.write(temp('other.imatrix'), {'general.type': 'imatrix'}, [('x.weight.in_sum2', [64], 0, floats([1.0] * 64)), ('x.weight.counts', [1], 0, floats([1.0]))])
    return temp('other.imatrix')


# ---- what is refused ---------------------------------------------------------------------------------------------------

def test_refused():
    m, t, out = model('stories'), made_text(), temp('never.gguf')
    for words in ([m, '-f', t], [m, '--out', out], ['--out', out], ['-f', t, '--out', out], ['--in', t, '--out', out, '--resume'], ['--in', t, '--out', out, '--chunks', '2'],
                  [m, '-f', t, '--out', m], [m, '-f', t, '--out', t], [m, '-f', t, '--out', out, '--resume', '--in', t], [m, m, '-f', t, '--out', out],
                  [m, '-f', t, '--out', out, '--chunks', '0'], [m, '-f', t, '--out', out, '--save-every', '0']):
        infer('imatrix', *words, status=2)
    for words, why in (([m, '-f', write('short.txt', 'Once upon a time')], 'at least a chunk of 512'), ([m, '-f', t, '--ctx', '64', '--from-chunk', '9999'], '--from-chunk'),
                       ([m, '-f', temp('none.txt')], 'cannot open'), ([temp('none.gguf'), '-f', t], 'no such file'), (['--in', temp('none.gguf')], 'cannot open'),
                       (['--in', cli.TEMP], 'cannot open'), (['--in', m], 'no file of importance'), (['--in', t], 'no file of importance'), (['--in', write('empty', b'')], 'ends early'),
                       ([m, '-f', t, '--in', write_other()], 'no tensor x.weight'), ([m, '-f', t, '--ctx', '64', '--in', imatrix('moe', 'moe.gguf', '--chunks', '1')], 'of another model')):
        done = infer('imatrix', *words, '--out', out, status=1)
        check(why in done.err, '%s: %s' % (why, done.err))
    wide = temp('wide.gguf')
    gguf_file.write(wide, {'general.type': 'imatrix'}, [('blk.0.attn_q.weight.in_sum2', [32], 0, floats([1.0] * 32)), ('blk.0.attn_q.weight.counts', [1], 0, floats([1.0]))])
    check('64 columns' in infer('imatrix', m, '-f', t, '--in', wide, '--out', out, status=1).err, 'another width')
    check('another shape' in infer('imatrix', '--in', wide, '--in', imatrix('stories', 'one.gguf', '--chunks', '1'), '--out', out, status=1).err, 'widths of two files')
    check(not [f for f in os.listdir(cli.TEMP) if f.startswith('never')], 'a file is left')


def damaged(raw, places):
    for n in places:
        yield raw[:n]
    for i in range(0, min(len(raw), 400), 3):
        for byte in (0, 127, 255):
            yield raw[:i] + bytes([byte]) + raw[i + 1:]


def test_damaged():
    """Files of both forms that end anywhere, or have a byte changed: read, or one line that names the file."""
    tensors = [('a.weight.in_sum2', [4, 2], 0, floats([1.0] * 8)), ('a.weight.counts', [1, 2], 0, floats([2.0, 0.0]))]
    gguf_file.write(temp('good.gguf'), {'general.type': 'imatrix', 'imatrix.datasets': ['t'], 'imatrix.chunk_count': 1, 'imatrix.chunk_size': 4}, tensors)
    old_form('good.dat', [('a.weight', 3, [1.0] * 4), ('b.weight', 3, [2.0] * 6)], 3)
    refused = 0
    for name in ('good.gguf', 'good.dat'):
        raw = read(temp(name))
        for content in damaged(raw, range(0, len(raw), 11)):
            done = subprocess.run([cli.INFER, 'imatrix', '--in', write('bad', content), '--out', temp('out.gguf')], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=False)
            check(done.returncode in (0, 1), '%s: status %d' % (name, done.returncode))
            refused += done.returncode
            lines = [s for s in done.stderr.decode('utf-8', 'replace').splitlines() if not s.startswith('warning: ')]
            check(done.returncode == 0 or (len(lines) == 1 and temp('bad') in lines[0]), '%s: %r' % (name, done.stderr))
    check(refused > 100, 'only %d were refused' % refused)
    for value in (-1.0, float('nan'), float('inf')):
        old_form('bad', [('a.weight', 1, [value] * 4)])
        check('negative or not a number' in infer('imatrix', '--in', temp('bad'), '--out', temp('never.gguf'), status=1).err, '%s' % value)
    check('occurs twice' in infer('imatrix', '--in', old_form('bad', [('a', 1, [1.0]), ('a', 1, [1.0])]), '--out', temp('never.gguf'), status=1).err, 'a name twice')
    check(not os.path.exists(temp('never.gguf')), 'a file was written')


def test_full_disk():
    """A write that fails: one line, and OUT from before stays."""
    if os.name != 'posix':
        raise cli.Skipped('cpu: no limits on files')
    old = write('old.gguf', 'old')
    for size in (0, 100, 4096):
        done = limited('imatrix', model('stories'), '-f', made_text(), '--ctx', '64', '--chunks', '2', '--save-every', '1', '--out', old, size=size)
        check(done.status == 1 and done.err.count('\n') == 1 and 'cannot write' in done.err and read(old) == b'old', 'size %d: %d %r' % (size, done.status, done.err))
    check(not [f for f in os.listdir(cli.TEMP) if f.endswith('.part')], 'a temporary file is left')


def all_tests():
    return cli.tests_in(globals())


if __name__ == '__main__':
    cli.main(all_tests, __doc__)
