#!/usr/bin/env python3
"""Tests of the commands that work on files: python3 tests/cli/test_files.py build/infer [WORD...]

hash, diff, edit, split, merge: what they write is read by gguf_file.py and opened by the library. The same harness as
test_cli.py.
"""
import hashlib
import os
import struct
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import gguf_file
import test_cli as cli
from test_cli import check, infer, read, temp, write

BLOCKS = {0: (1, 4), 1: (1, 2), 8: (32, 34)} # type -> values and bytes of a block
META = {'general.architecture': 'made', 'a.flag': True, 'a.text': 'x"y\n\\', 'a.list': [1, 2, 3], 'a.words': ['p', 'q'],
        'a.number': 1.5, 'a.negative': -7, 'a.long': list(range(100))}


def stories():
    return cli.data('models', 'stories260K.F32.gguf')


def tiny_stories():
    return cli.data('models', 'TinyStories-656K.Q8_0.gguf')


def floats(*x):
    return struct.pack('<%df' % len(x), *x)


def tensors():
    return [('one', [3, 2], 0, floats(*range(6))), ('two', [5], 0, floats(1, 2, 3, 4, 5)), ('half', [4, 2, 1], 1, struct.pack('<8e', *range(8)))]


def make(name, meta=None, tensors_=None, alignment=32):
    """A small file; returns its path."""
    meta = dict(META if meta is None else meta)
    if alignment != 32:
        meta['general.alignment'] = alignment
    before, gguf_file.ALIGNMENT = gguf_file.ALIGNMENT, alignment
    try:
        gguf_file.write(temp(name), meta, tensors() if tensors_ is None else tensors_)
    finally:
        gguf_file.ALIGNMENT = before
    return temp(name)


def data_of(path):
    """name -> (dims, type, bytes) of the tensors of a file."""
    g, found = gguf_file.Gguf(path), {}
    for name, (dims, kind, offset) in g.tensors.items():
        values, size = BLOCKS[kind]
        n = 1
        for d in dims:
            n *= d
        n = n // values * size
        found[name] = (dims, kind, g.data[g.start + offset:g.start + offset + n])
        check(len(found[name][2]) == n, '%s: tensor %s is cut' % (path, name))
    return found


def sha(*parts):
    return hashlib.sha256(b''.join(parts))


def expected_hashes(path):
    """By name, as the help of `infer hash` defines them."""
    g, all_of = gguf_file.Gguf(path), []
    hashes = {}
    for name, (dims, kind, data) in sorted(data_of(path).items()):
        text = name.encode()
        hashes[name] = sha(data).hexdigest()
        all_of.append(struct.pack('<Q', len(text)) + text + struct.pack('<I%dQI' % len(dims), len(dims), *dims, kind) + sha(data).digest())
    keys = [g.raw[k] for k in sorted(g.raw) if k != 'general.alignment' and not k.startswith('split.')]
    metadata, tensors_ = sha(*keys), sha(*all_of)
    hashes.update({'(metadata)': metadata.hexdigest(), '(tensors)': tensors_.hexdigest(), '(model)': sha(metadata.digest(), tensors_.digest()).hexdigest()})
    return hashes


def hashes_of(path):
    return dict(line.split('  ')[::-1] for line in infer('hash', path).out.decode().splitlines())


def model_hash(path):
    return hashes_of(path)['(model)']


# ---- hash ------------------------------------------------------------------------------------------------------------

def test_hash():
    """Every hash is what Python computes from the definition in the help, also as JSON."""
    for path in (stories(), tiny_stories(), make('hash.gguf'), make('none.gguf', tensors_=[]), make('bare.gguf', {}, [])):
        want, got = expected_hashes(path), hashes_of(path)
        check(got == want, '%s: %s' % (path, sorted(set(got.items()) ^ set(want.items()))[:3]))
        done = infer('hash', path, '--json').json()
        check(done['sha256'] == {k: want['(%s)' % k] for k in ('model', 'metadata', 'tensors')}, 'JSON: %r' % done['sha256'])
        check({t['name']: (t['dims'], t['sha256'], t['bytes']) for t in done['tensors']} ==
              {n: (d, want[n], len(b)) for n, (d, _, b) in data_of(path).items()}, 'JSON of tensors')


def test_hash_lengths():
    """Data of any length around a block of SHA-256 and around a chunk."""
    for n in (1, 13, 14, 15, 16, 17, 27, 28, 29, 30, 31, 32, (1 << 18) - 1, 1 << 18, (1 << 18) + 1):
        path = make('length.gguf', tensors_=[('x', [n], 0, floats(*(i % 251 for i in range(n))))])
        check(hashes_of(path)['x'] == expected_hashes(path)['x'], '%d floats' % n)


def test_hash_order():
    """Order and alignment change no hash; a byte of data, a value and a type change the right ones."""
    base = hashes_of(make('a.gguf'))
    check(hashes_of(make('b.gguf', dict(reversed(list(META.items()))), tensors()[::-1], 128)) == base, 'another order')
    more = dict(META, **{'split.no': 0, 'split.count': 1, 'split.tensors.count': 3})
    check(hashes_of(make('split.gguf', more)) == base, 'keys of a split')

    def differing(path):
        got = hashes_of(path)
        return {k for k in set(base) | set(got) if base.get(k) != got.get(k)}
    check(differing(make('c.gguf', dict(META, **{'a.number': 1.25}))) == {'(metadata)', '(model)'}, 'a value')
    check(differing(make('c.gguf', dict(META, **{'a.number': 1}))) == {'(metadata)', '(model)'}, 'a type of a value')
    changed = tensors()
    changed[1] = ('two', [5], 0, floats(1, 2, 3, 4, 6))
    check(differing(make('c.gguf', tensors_=changed)) == {'two', '(tensors)', '(model)'}, 'data')
    changed[1] = ('two', [5, 1], 0, floats(1, 2, 3, 4, 5))
    check(differing(make('c.gguf', tensors_=changed)) == {'(tensors)', '(model)'}, 'a shape')


# ---- diff ------------------------------------------------------------------------------------------------------------

def differences(a, b, *options):
    """The keys and the tensors that differ, by name."""
    done = infer('diff', a, b, '--json', *options, status=1).json()
    check(done['same'] is False and done['a'] == a and done['b'] == b, 'the head: %r' % done)
    return {k['key']: k for k in done['keys']}, {t['name']: t for t in done['tensors']}


def test_diff_same():
    """Nothing is printed, and the status is 0, when the hashes are the same."""
    a = make('a.gguf')
    for b in (a, make('b.gguf', dict(reversed(list(META.items()))), tensors()[::-1], 64), make('c.gguf', dict(META, **{'split.count': 1}))):
        done = infer('diff', a, b)
        check(done.out == b'' and done.err == '', 'says something: %r %r' % (done.out, done.err))
        check(infer('diff', a, b, '--json').json() == {'a': a, 'b': b, 'same': True, 'keys': [], 'tensors': []}, 'JSON')
    check(infer('diff', stories(), stories()).out == b'', 'a real model')


def test_diff_keys():
    """Keys of each kind of difference, with both values; long arrays are cut, and the first difference is named."""
    long = list(range(100))
    long[57], long[60] = 999, 1000
    other = dict(META, **{'a.number': 1.25, 'a.list': [1, 2], 'a.text': 7, 'a.long': long, 'b.new': 'new', 'a.words': ['p', 'qq']})
    del other['a.flag']
    a, b = make('a.gguf'), make('b.gguf', other)
    keys, none = differences(a, b)
    check(none == {} and set(keys) == {'a.flag', 'a.number', 'a.list', 'a.text', 'a.long', 'b.new', 'a.words'}, 'which: %r' % keys)
    check(keys['a.flag'] == {'key': 'a.flag', 'a': {'type': 'bool', 'value': True}, 'b': None}, 'removed: %r' % keys['a.flag'])
    check(keys['b.new'] == {'key': 'b.new', 'a': None, 'b': {'type': 'string', 'value': 'new'}}, 'added')
    check((keys['a.text']['a'], keys['a.text']['b']) == ({'type': 'string', 'value': META['a.text']}, {'type': 'u32', 'value': 7}), 'another type')
    check(keys['a.list']['b'] == {'type': 'u32[]', 'value': [1, 2]} and 'differing' not in keys['a.list'], 'another length')
    check(keys['a.words']['differing'] == 1 and keys['a.words']['first'] == 1, 'words: %r' % keys['a.words'])
    check(keys['a.long']['a']['value'] == {'n': 100, 'first': list(range(8))} and keys['a.long']['differing'] == 2 and keys['a.long']['first'] == 57, 'long')
    check(differences(a, b, '--full')[0]['a.long']['b']['value'] == long, '--full')
    done = infer('diff', a, b, status=1)
    lines = done.out.decode().splitlines()
    for line in ('- key a.flag  bool = true', '+ key b.new  string = "new"', '~ key a.number  f32 = 1.5 -> 1.25', '~ key a.list  u32[] = [1, 2, 3] -> [1, 2]',
                 '~ key a.text  string = "x"y\\n\\" -> u32 = 7'):
        check(line in lines, 'no line %r in %r' % (line, lines))
    check(any(line.endswith('2 of 100 elements differ, the first is 57: 57 -> 999') for line in lines), 'the first element: %r' % lines)
    check('7 keys, 0 tensors' in done.err, done.err)


def q8_0(rows):
    """Rows of 32 whole numbers, and a scale each."""
    return b''.join(struct.pack('<e32b', scale, *values) for scale, values in rows)


def test_diff_tensors():
    """Tensors of each kind of difference, with the largest and NMSE of the decoded values."""
    rows = [(0.5, range(-16, 16)), (0.25, range(32))]
    plain = [scale * v for scale, values in rows for v in values]
    off = list(plain)
    off[40] += 3.0
    off[5] -= 1.0
    base = [('same', [4], 0, floats(1, 2, 3, 4)), ('gone', [4], 0, floats(1, 2, 3, 4)), ('shape', [4, 2], 0, floats(*range(8))),
            ('type', [32, 2], 8, q8_0(rows)), ('values', [32, 2], 8, q8_0(rows)), ('off', [32, 2], 8, q8_0(rows)), ('zero', [2], 0, floats(0, 0)),
            ('nan', [2], 0, floats(1, 2)), ('sign', [1], 0, floats(0.0))]
    rows[1] = (0.25, [7] + list(range(1, 32)))
    new = [('nan', [2], 0, floats(1, float('nan'))), ('zero', [2], 0, floats(0, 1)), base[0], ('shape', [8], 0, floats(*range(8))),
           ('type', [32, 2], 0, floats(*plain)), ('values', [32, 2], 8, q8_0(rows)), ('off', [32, 2], 0, floats(*off)), ('new', [1], 0, floats(1)),
           ('sign', [1], 0, floats(-0.0))]
    a, b = make('a.gguf', META, base), make('b.gguf', META, new)
    keys, found = differences(a, b)
    check(keys == {} and set(found) == {'gone', 'new', 'shape', 'type', 'values', 'off', 'zero', 'nan', 'sign'}, 'which: %r' % sorted(found))
    check(found['gone']['b'] is None and found['gone']['a'] == {'type': 'F32', 'dims': [4]} and found['new']['a'] is None, 'gone and new')
    check('nmse' not in found['shape'] and found['shape']['b']['dims'] == [8], 'shape: %r' % found['shape'])
    squares = sum(x * x for x in plain)
    for name, largest, nmse, n in (('type', 0, 0, 0), ('values', 1.75, 1.75 ** 2 / squares, 1), ('off', 3, 10 / squares, 2), ('zero', 1, None, 1),
                                   ('nan', None, None, 1), ('sign', 0, 0, 1)):
        t = found[name]
        check(t['largest'] == largest and t['differing'] == n and (t['nmse'] == nmse or abs(t['nmse'] - nmse) < 1e-7 * nmse), '%s: %r' % (name, t))
    done = infer('diff', a, b, status=1)
    lines = done.out.decode().splitlines()
    check('~ tensor type  Q8_0 32 x 2 -> F32 32 x 2; largest difference 0, NMSE 0, 0 of 64 values differ' in lines, lines)
    check('- tensor gone  F32 4' in lines and '+ tensor new  F32 1' in lines and '~ tensor shape  F32 4 x 2 -> F32 8' in lines, lines)
    check('0 keys, 9 tensors' in done.err and len(lines) == 9, done.err)
    for file, name in ((stories(), 'output_norm.weight'), (tiny_stories(), 'token_embd.weight')):
        raw = bytearray(read(file))
        g = gguf_file.Gguf(file)
        raw[g.start + g.tensors[name][2] + 4] ^= 1 # the lowest bit of an F32, of an 8-bit code
        found = differences(file, write('bit.gguf', bytes(raw)))
        check(found[0] == {} and list(found[1]) == [name] and found[1][name]['differing'] == 1 and found[1][name]['largest'] > 0, 'a bit: %r' % (found,))


def test_diff_failures():
    """A file that cannot be read: nothing on stdout."""
    good = make('good.gguf')
    cut = write('cut.gguf', read(good)[:-40])
    for a, b, named in ((good, cut, 'cut.gguf'), (cut, good, 'cut.gguf'), (good, temp('missing.gguf'), 'missing.gguf'), (cli.TEMP, good, 'cannot open')):
        done = infer('diff', a, b, status=1)
        check(done.out == b'' and named in done.err, done.err)
    infer('diff', good, status=2)
    infer('diff', good, good, good, status=2)


# ---- damaged files ---------------------------------------------------------------------------------------------------

def test_cut_files():
    """A file that ends anywhere is one line of error; so is one with any byte changed, or it is read."""
    raw = read(make('whole.gguf', dict(list(META.items())[:5]), tensors()))
    for n in list(range(0, len(raw) - 16, 7)) + [len(raw) - 17]: # the last tensor is followed by 16 bytes of padding
        infer('hash', write('cut.gguf', raw[:n]), status=1)
    for at in range(0, len(raw), 5):
        path = write('flip.gguf', raw[:at] + bytes([raw[at] ^ 0xff]) + raw[at + 1:])
        done = cli.Result(cli.subprocess.run([cli.INFER, 'hash', path], stdout=cli.subprocess.PIPE, stderr=cli.subprocess.PIPE, timeout=60))
        check(done.status in (0, 1) and done.err.count('\n') == done.status, 'byte %d: status %d, %r' % (at, done.status, done.err))


def test_refused_files():
    """What cannot be read is refused with its reason."""
    raw = read(make('good.gguf'))
    twice = make('twice.gguf', tensors_=[tensors()[0]] * 2)
    big = write('big.gguf', b'GGUF' + struct.pack('>IQQ', 3, 0, 0))
    for path, reason in ((write('v1.gguf', raw[:4] + struct.pack('<I', 1) + raw[8:]), 'version 1'), (big, 'big-endian'), (twice, 'one occurs twice'),
                         (write('text.gguf', 'this is no model at all'), 'not a GGUF file'), (temp('missing.gguf'), 'cannot open'), (cli.TEMP, 'cannot open'),
                         (make('type.gguf', tensors_=[('x', [4], 99, b'1234')]), 'x: unknown type 99'),
                         (make('shape.gguf', tensors_=[('x', [33], 8, b'1' * 68)]), 'x: Q8_0 cannot have this shape'),
                         (make('huge.gguf', tensors_=[('x', [1 << 40, 1 << 40], 0, b'1234')]), 'x: F32 cannot have this shape'),
                         (make('empty.gguf', tensors_=[('x', [0], 0, b'')]), 'x: F32 cannot have this shape'),
                         (make('align.gguf', dict(META, **{'general.alignment': 12})), 'multiple of 8'),
                         (make('text_align.gguf', dict(META, **{'general.alignment': 'x'})), 'general.alignment must be a whole number')):
        err = infer('hash', path, status=1).err
        check(reason in err and os.path.basename(path) in err, '%s: %s' % (path, err))


def all_tests():
    return cli.tests_in(globals())


if __name__ == '__main__':
    cli.main(all_tests, __doc__)
