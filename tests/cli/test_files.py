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
