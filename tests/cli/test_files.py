#!/usr/bin/env python3
"""Tests of the commands that work on files: python3 tests/cli/test_files.py build/infer [WORD...]

hash, diff, edit, split, merge: what they write is read by gguf_file.py and opened by the library. The same harness as
test_cli.py.
"""
import hashlib
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
    infer('edit', a, temp('typed.gguf'), '--set', 'a.number:u32=1069547520') # the bits of 1.5
    keys = differences(a, temp('typed.gguf'))[0]
    check(list(keys) == ['a.number'] and keys['a.number']['b'] == {'type': 'u32', 'value': 1069547520}, 'the same bits in another type: %r' % keys)


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
            ('nan', [2], 0, floats(1, 2)), ('sign', [1], 0, floats(0.0)), ('more', [2], 0, floats(1, 2))]
    rows[1] = (0.25, [7] + list(range(1, 32)))
    new = [('nan', [2], 0, floats(1, float('nan'))), ('zero', [2], 0, floats(0, 1)), base[0], ('shape', [8], 0, floats(*range(8))),
           ('type', [32, 2], 0, floats(*plain)), ('values', [32, 2], 8, q8_0(rows)), ('off', [32, 2], 0, floats(*off)), ('new', [1], 0, floats(1)),
           ('sign', [1], 0, floats(-0.0)), ('more', [2, 1], 0, floats(1, 2))]
    a, b = make('a.gguf', META, base), make('b.gguf', META, new)
    keys, found = differences(a, b)
    check(keys == {} and set(found) == {'gone', 'new', 'shape', 'type', 'values', 'off', 'zero', 'nan', 'sign', 'more'}, 'which: %r' % sorted(found))
    check(found['gone']['b'] is None and found['gone']['a'] == {'type': 'F32', 'dims': [4]} and found['new']['a'] is None, 'gone and new')
    check('nmse' not in found['shape'] and found['shape']['b']['dims'] == [8], 'shape: %r' % found['shape'])
    squares = sum(x * x for x in plain)
    for name, largest, nmse, n in (('type', 0, 0, 0), ('values', 1.75, 1.75 ** 2 / squares, 1), ('off', 3, 10 / squares, 2), ('zero', 1, None, 1),
                                   ('nan', None, None, 1), ('sign', 0, 0, 1), ('more', 0, 0, 0)):
        t = found[name]
        check(t['largest'] == largest and t['differing'] == n and (t['nmse'] == nmse or abs(t['nmse'] - nmse) < 1e-7 * nmse), '%s: %r' % (name, t))
    done = infer('diff', a, b, status=1)
    lines = done.out.decode().splitlines()
    check('~ tensor type  Q8_0 32 x 2 -> F32 32 x 2; largest difference 0, NMSE 0, 0 of 64 values differ' in lines, lines)
    check('- tensor gone  F32 4' in lines and '+ tensor new  F32 1' in lines and '~ tensor shape  F32 4 x 2 -> F32 8' in lines, lines)
    check('0 keys, 10 tensors' in done.err and len(lines) == 10, done.err)
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


def parts():
    """Files that are not complete yet, or that were left."""
    return [f for f in os.listdir(cli.TEMP) if '.part' in f]


# ---- edit ------------------------------------------------------------------------------------------------------------

def edited(path, *options):
    """The metadata of an edited copy, whose tensors are those of the file."""
    before, out = read(path), temp('edited.gguf')
    infer('edit', path, out, *options)
    check(read(path) == before, 'the input was changed')
    check(data_of(out) == data_of(path), 'the tensors were changed')
    check(not parts(), 'a temporary file is left')
    return gguf_file.Gguf(out)


def kinds(g):
    """key -> GGUF type, and of an array the elements' too."""
    found = {}
    for key, raw in g.raw.items():
        kind = struct.unpack_from('<I', raw, 8 + len(key.encode()))[0]
        found[key] = (kind, struct.unpack_from('<I', raw, 12 + len(key.encode()))[0]) if kind == 9 else kind
    return found


def test_edit():
    """Keys are removed, renamed and set; the rest stays as it is, in its order."""
    a = make('a.gguf')
    g = edited(a, '--set', 'a.number=0.1', '--remove', 'a.list', '--rename', 'a.flag=z.flag', '--set', 'b.new=a=b', '--set', 'a.negative:i64=-5',
               '--remove', 'a.words', '--set', 'a.list:u8=200')
    want = {k: v for k, v in META.items() if k not in ('a.list', 'a.flag', 'a.words')}
    want.update({'a.number': struct.unpack('<f', floats(0.1))[0], 'z.flag': True, 'b.new': 'a=b', 'a.negative': -5, 'a.list': 200})
    check(g.meta == want, 'metadata: %r' % g.meta)
    check(list(g.meta) == ['general.architecture', 'z.flag', 'a.text', 'a.number', 'a.negative', 'a.long', 'b.new', 'a.list'], 'order: %r' % list(g.meta))
    check([kinds(g)[k] for k in ('a.number', 'z.flag', 'b.new', 'a.negative', 'a.list')] == [6, 7, 8, 11, 0], 'types: %r' % kinds(g))
    g = edited(a, '--remove', 'a.text', '--rename', 'a.flag=a.text', '--rename', 'a.text=a.flag', '--set', 'a.flag=false', '--set', 'a.flag=1')
    check(g.meta['a.flag'] is True and 'a.text' not in g.meta, 'one after the other')
    infer('edit', a, temp('b.gguf'), '--set', 'a.text=' + META['a.text'])
    check(read(temp('b.gguf')) == read(a), 'an edit that changes nothing')


def test_edit_values():
    """Every type at its limits, arrays, and texts from files."""
    a = make('a.gguf')
    ints = {'u8': (0, 255), 'i8': (-128, 127), 'u16': (0, 65535), 'i16': (-32768, 32767), 'u32': (0, 2 ** 32 - 1), 'i32': (-2 ** 31, 2 ** 31 - 1),
            'u64': (0, 2 ** 64 - 1), 'i64': (-2 ** 63, 2 ** 63 - 1)}
    for number, (name, ends) in zip((0, 1, 2, 3, 4, 5, 10, 11), ints.items()):
        for x in ends:
            g = edited(a, '--set', 'n:%s=%d' % (name, x), '--set', 'l:%s[]=%d,%d' % (name, x, ends[0]))
            check(g.meta['n'] == x and kinds(g)['n'] == number and g.meta['l'] == [x, ends[0]] and kinds(g)['l'] == (9, number), '%s: %r' % (name, g.meta['n']))
        for x in (ends[0] - 1, ends[1] + 1, '1.5', '', ' 1', '1x', '0x1', '+1', '-'):
            err = infer('edit', a, temp('never.gguf'), '--set', 'n:%s=%s' % (name, x), status=1).err
            check("n: '%s' is no %s" % (x, name) in err, err)
    g = edited(a, '--set', 'f:f64=0.1', '--set', 'g:f32=3.4028234e38', '--set', 'h:f64[]=[1e308, -2.5]', '--set', 'none:i32[]=', '--set', 'no:f32[]=[]',
               '--set', 'b:bool[]=true, false,1', '--set', 's:string[]=[ "a, \\"b\\"", c d ,"\\n\\t\\\\", ""]', '--set', 'at=@@x', '--set', 'empty=', '--set', 'a:b:string=c',
               '--set', 'text=@' + write('text', 'one\ntwo\xe9'), '--set', 'a.list=4,5')
    check(g.meta['f'] == 0.1 and g.meta['g'] == struct.unpack('<f', floats(3.4028234e38))[0] and g.meta['h'] == [1e308, -2.5], 'floats: %r' % g.meta)
    check((g.meta['none'], g.meta['no'], kinds(g)['none'], kinds(g)['no']) == ([], [], (9, 5), (9, 6)), 'empty arrays')
    check(g.meta['b'] == [True, False, True] and g.meta['s'] == ['a, "b"', 'c d', '\n\t\\', ''], 'arrays: %r' % g.meta['s'])
    check((g.meta['at'], g.meta['empty'], g.meta['a:b'], g.meta['text']) == ('@x', '', 'c', 'one\ntwo\xe9'), 'strings: %r' % g.meta)
    check(g.meta['a.list'] == [4, 5] and kinds(g)['a.list'] == (9, 4), 'an array keeps its type')
    for value in ('f:f32=3.41e38', 'f:f32=nan', 'f:f64=inf', 'f:f32=', 'f:f64=1,5', 'b:bool=yes', 'l:u8[]=1,2,', 'l:u8[]=[1,2', 'l:u8[]=1,,2', 'l:u8[]=[1]2', 'l:u8[]=1 2',
                  's:string[]="a', 's:string[]="a\\q"', 's:string[]="a"b', 's=@' + temp('no_such_text')):
        infer('edit', a, temp('never.gguf'), '--set', value, status=1)
    check(not os.path.exists(temp('never.gguf')), 'a refused edit wrote its file')


def test_edit_alignment():
    """general.alignment moves the tensors."""
    for alignment in (8, 1024, 65536):
        g = edited(make('a.gguf', alignment=64), '--set', 'general.alignment=%d' % alignment)
        check(all(t[2] % alignment == 0 for t in g.tensors.values()) and len({t[2] for t in g.tensors.values()}) == 3, 'offsets: %r' % g.tensors)
        check(g.start % alignment == 0 and len(g.data) % alignment == 0, 'padding')
        infer('info', temp('edited.gguf'), '--check')
    g = edited(make('a.gguf', alignment=64), '--remove', 'general.alignment')
    check(g.tensors['two'][2] == 32, 'without it it is 32: %r' % g.tensors)
    for value in ('12', '0', '-8', '2097152'):
        infer('edit', make('a.gguf', alignment=64), temp('never.gguf'), '--set', 'general.alignment:i32=' + value, status=1)
    check(not os.path.exists(temp('never.gguf')), 'a refused edit wrote its file')


def test_edit_real():
    """A real model computes what it computed; the library opens a file again that an edit repaired."""
    out = temp('real.gguf')
    infer('edit', stories(), out, '--set', 'general.name=Stories', '--rename', 'tokenizer.ggml.seperator_token_id=tokenizer.ggml.separator_token_id')
    info = infer('info', out, '--json').json()
    check(info['name'] == 'Stories' and info['metadata']['tokenizer.ggml.separator_token_id'] == 4294967295, 'info')
    words = ('-p', 'Once', '-n', '8', '--temp', '0')
    check(infer('run', out, *words).out == infer('run', stories(), *words).out, 'another text')
    check(hashes_of(out)['(tensors)'] == hashes_of(stories())['(tensors)'], 'other tensors')
    broken = temp('broken.gguf')
    infer('edit', stories(), broken, '--set', 'tokenizer.ggml.model:u32=3')
    infer('run', broken, *words, status=1)
    infer('edit', broken, out, '--set', 'tokenizer.ggml.model:string=llama')
    check(infer('run', out, *words).out == infer('run', stories(), *words).out, 'the repaired file')


def test_edit_refused():
    """Each mistake is one line that names it, and there is no OUT."""
    a, out = make('a.gguf'), temp('never.gguf')
    for options, reason in ((('--remove', 'no.key'), 'has no key no.key'), (('--rename', 'no.key=x'), 'has no key no.key'), (('--rename', 'a.flag=a.text'), 'already has a key a.text'),
                            (('--rename', 'a.flag'), 'expected OLD=NEW'), (('--set', 'a.flag'), 'expected KEY=VALUE'), (('--set', '=x'), '1 to 65535 bytes'), (('--set', ':u8=1'), 'name of the key'),
                            (('--set', 'x:u128=1'), "no type 'u128'"), (('--set', 'x:array=1'), "no type 'array'"), (('--set', 'split.count:u16=3'), 'infer split'), (('--rename', 'a.flag=split.no'), 'infer split'),
                            (('--remove', 'a.flag', '--set', 'a.number=x'), "a.number: 'x' is no f32"), (('--set', 'a.flag=2'), "'2' is no bool")):
        err = infer('edit', a, out, *options, status=1).err
        check(reason in err, '%s: %s' % (options, err))
    change = ('--set', 'a.flag=true')
    infer('edit', a, out, status=2)
    infer('edit', a, *change, status=2)
    os.symlink(a, temp('link.gguf'))
    os.link(a, temp('hard.gguf'))
    before = read(a)
    for name in (a, temp('link.gguf'), temp('hard.gguf'), os.path.join(cli.TEMP, '.', 'a.gguf')):
        check('OUT is IN' in infer('edit', a, name, *change, status=2).err, name)
    check(read(a) == before, 'the input was changed')
    infer('edit', write('cut.gguf', before[:-40]), out, *change, status=1)
    infer('edit', temp('missing.gguf'), out, *change, status=1)
    check('a folder' in infer('edit', a, cli.TEMP, *change, status=1).err, 'a folder')
    if os.name == 'posix': # a pipe stands for devices, which a mistake here would replace
        os.mkfifo(temp('pipe'))
        check('not an ordinary file' in infer('edit', a, temp('pipe'), *change, status=1).err and not os.path.isfile(temp('pipe')), 'a pipe')
    infer('edit', a, os.path.join(cli.TEMP, 'no', 'such', 'folder'), *change, status=1)
    infer('edit', a, '-', *change, status=1)
    check(not os.path.exists(out) and not parts(), 'a file is left: %r' % os.listdir(cli.TEMP))


# ---- split and merge -------------------------------------------------------------------------------------------------

def split(path, prefix, *options):
    """The files of a split, after checking their names and keys."""
    before = read(path)
    infer('split', path, temp(prefix), *options)
    check(read(path) == before and not parts(), 'the input was changed, or a temporary file is left')
    names = sorted(f for f in os.listdir(cli.TEMP) if f.startswith(prefix + '-'))
    check(names == ['%s-%05d-of-%05d.gguf' % (prefix, i + 1, len(names)) for i in range(len(names))], 'names: %r' % names)
    files = [temp(f) for f in names]
    total = sum(len(gguf_file.Gguf(f).tensors) for f in files)
    for i, f in enumerate(files):
        g = gguf_file.Gguf(f)
        check({k: (v, kinds(g)[k]) for k, v in g.meta.items() if k.startswith('split.')} ==
              {'split.no': (i, 2), 'split.count': (len(files), 2), 'split.tensors.count': (total, 5)}, 'keys of %s: %r' % (f, g.meta))
        check(i == 0 or len(g.meta) == 3, 'metadata in part %d' % i)
    return files


def remove(files):
    for f in files:
        os.remove(f)


def test_split_merge():
    """By number or by size: the same tensors in the same order, the library reads them, and merging gives the file back."""
    for path in (stories(), tiny_stories()):
        names, size = list(gguf_file.Gguf(path).tensors), os.path.getsize(path)
        for options, n in ((('--max-tensors', '1'), len(names)), (('--max-tensors', '7'), -(-len(names) // 7)), (('--max-tensors', '1000'), 1), (('--max-size', '1T'), 1),
                           (('--max-size', '300k'), None), (('--max-size', str(size // 2 + 1000), '--max-tensors', '10'), None)):
            files = split(path, 'part', *options)
            check(n is None and len(files) > 1 or len(files) == n, '%s: %d files' % (options, len(files)))
            check([t for f in files for t in gguf_file.Gguf(f).tensors] == names, 'tensors of %s' % (options,))
            if options[0] == '--max-size' and n is None:
                limit = 300 * 1024 if options[1] == '300k' else size // 2 + 1000
                check(max(map(os.path.getsize, files)) <= limit, 'sizes: %r' % [os.path.getsize(f) for f in files])
            check(hashes_of(files[0]) == hashes_of(path), 'the hash of the parts')
            check(infer('diff', files[0], path).out == b'', 'a difference')
            infer('merge', files[0], temp('merged.gguf'))
            check(read(temp('merged.gguf')) == read(path), 'the merged file')
            words = ('-p', 'Once', '-n', '5', '--temp', '0')
            check(infer('run', files[0], *words).out == infer('run', path, *words).out, 'another text')
            remove(files)


def test_split_again():
    """A split model is split again, by the size of files to the byte; alignment is the first file's."""
    a = make('a.gguf', alignment=256)
    first = split(a, 'one', '--max-tensors', '1')
    check(len(first) == 3 and gguf_file.Gguf(first[0]).meta['general.alignment'] == 256, 'three')
    whole = split(first[0], 'two', '--max-size', '1M')
    check(len(whole) == 1, 'one again')
    size = os.path.getsize(whole[0])
    remove(whole)
    check(len(split(first[0], 'three', '--max-size', str(size))) == 1 and len(split(first[0], 'four', '--max-size', str(size - 1))) == 2, 'a byte less')
    infer('merge', temp('four-00001-of-00002.gguf'), temp('merged.gguf'))
    check(read(temp('merged.gguf')) == read(a), 'the merged file')
    infer('merge', temp('three-00001-of-00001.gguf'), temp('merged.gguf'))
    check(read(temp('merged.gguf')) == read(a), 'a part alone')
    infer('edit', temp('three-00001-of-00001.gguf'), temp('edited.gguf'), '--set', 'a.flag=false')
    alone = split(make('none.gguf', tensors_=[]), 'none', '--max-tensors', '1')
    check(len(alone) == 1, 'no tensors')
    many = [('x', [1000], 0, floats(*range(1000))), ('y', [1000], 0, floats(*range(1000)))]
    files = split(make('many.gguf', dict(META, **{'a.text': 'x' * 4000}), many), 'many', '--max-size', '5000')
    check([len(gguf_file.Gguf(f).tensors) for f in files] == [0, 1, 1], 'metadata alone in the first file')
    infer('info', files[0], '--check')


def test_split_refused():
    """Each mistake is one line, and no file is left."""
    a = make('a.gguf')
    infer('split', a, temp('never'), status=2)
    infer('split', a, '--max-tensors', '1', status=2)
    infer('split', a, temp('never'), '--max-tensors', '0', status=2)
    check('the metadata takes' in infer('split', a, temp('never'), '--max-size', '500', status=1).err, 'metadata')
    check('tensor token_embd.weight takes 131072 bytes' in infer('split', stories(), temp('never'), '--max-size', '50k', status=1).err, 'a tensor')
    os.mkdir(temp('never-00002-of-00003.gguf'))
    check('a folder' in infer('split', a, temp('never'), '--max-tensors', '1', status=1).err, 'a folder')
    os.rmdir(temp('never-00002-of-00003.gguf'))
    infer('split', temp('missing.gguf'), temp('never'), '--max-tensors', '1', status=1)
    infer('split', a, os.path.join(cli.TEMP, 'no', 'folder'), '--max-tensors', '1', status=1)
    files = split(a, 'again', '--max-tensors', '1')
    check('of the input' in infer('split', files[0], temp('again'), '--max-tensors', '1', status=1).err, 'its own files')
    if os.name == 'posix': # there is room for the first file, but not for the second
        big = [('small', [8], 0, floats(*range(8))), ('big', [4096], 0, floats(*range(4096)))]
        done = limited('split', make('uneven.gguf', {}, big), temp('never'), '--max-tensors', '1', size=8192)
        check(done.status == 1 and 'never-00002-of-00002.gguf' in done.err, done.err)
    check(not [f for f in os.listdir(cli.TEMP) if f.startswith('never')], 'a file is left: %r' % os.listdir(cli.TEMP))


def test_merge_refused():
    """Parts that are missing, damaged, of another model, or not in their place."""
    a, out = make('a.gguf'), temp('never.gguf')
    check('is not split' in infer('merge', a, out, status=1).err, 'not split')
    files = split(a, 'broken', '--max-tensors', '1')
    others = split(make('b.gguf', tensors_=tensors()[:2]), 'other', '--max-tensors', '1')
    good = [read(f) for f in files]
    check('name the first part' in infer('merge', files[1], out, status=1).err, 'the second')
    for f in (files[0], files[2], os.path.join(cli.TEMP, '.', os.path.basename(files[1]))):
        check('file of the input' in infer('merge', files[0], f, status=2).err, f)
    for i, content, reason in ((1, None, 'cannot open %s, part 2 of 3' % files[1]), (2, good[2][:-20], 'is the file complete?'), (1, good[2], 'it says that it is part 3 of 3, not 2 of 3'),
                               (1, read(others[1]), 'part 2 of 2, not 2 of 3'), (2, b'', 'not a GGUF file'), (1, read(a), 'part 1 of 1, not 2 of 3')):
        if content is None:
            os.remove(files[i])
        else:
            write(os.path.basename(files[i]), content)
        for words in (('merge', files[0], out), ('hash', files[0]), ('diff', files[0], a), ('split', files[0], temp('never'), '--max-size', '1G')):
            err = infer(*words, status=1).err
            check(reason in err and os.path.basename(files[i]) in err, '%s: %s' % (words[0], err))
        write(os.path.basename(files[i]), good[i])
    g = gguf_file.Gguf(files[1])
    gguf_file.write(files[1], {'extra': 1, 'a.text': 'x', 'general.alignment': 8}, [tensors()[1]], [g.raw[k] for k in g.raw])
    infer('merge', files[0], temp('merged.gguf'))
    check(read(temp('merged.gguf')) == read(a), 'keys of other parts than the first do not count')
    gguf_file.write(files[1], {}, [('more', [1], 0, floats(1))] + [(n, d, k, b) for n, (d, k, b) in data_of(files[1]).items()], [g.raw[k] for k in g.raw])
    check('split.tensors.count is 3, but the 3 parts have 4' in infer('merge', files[0], out, status=1).err, 'too many tensors')
    gguf_file.write(files[1], {}, [('one', [3, 2], 0, floats(*range(6)))], [g.raw[k] for k in g.raw])
    check('one occurs twice' in infer('merge', files[0], out, status=1).err, 'a tensor twice')
    write(os.path.basename(files[1]), good[1])
    renamed = write('renamed.gguf', good[0])
    check('does not end in -00001-of-00003.gguf' in infer('merge', renamed, out, status=1).err, 'another name')
    check('merge them first' in infer('edit', files[0], out, '--set', 'a=b', status=1).err, 'edit')
    check(not os.path.exists(out) and not parts(), 'a file is left')
    infer('merge', files[0], out)
    check(read(out) == read(a), 'the parts as they were')
    os.remove(out)


# ---- what stops a command --------------------------------------------------------------------------------------------

def big_file():
    """A file with a tensor of 256 MB, which is a hole."""
    path = make('big.gguf', tensors_=[('x', [1 << 20, 64], 0, b'')])
    os.truncate(path, os.path.getsize(path) + (256 << 20))
    return path


def limited(*words, size):
    """The program with a limit on the size of files: what a full disk is to it."""
    import resource

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    return cli.Result(subprocess.run([cli.INFER, *words], preexec_fn=limit, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=False))


def test_full_disk():
    """A write that fails: one line, no OUT, and an OUT from before stays."""
    if os.name != 'posix':
        raise cli.Skipped('no limits on files')
    for size in (0, 100, 4096, 100000):
        done = limited('edit', stories(), temp('never.gguf'), '--set', 'a=b', size=size)
        check(done.status == 1 and done.err.count('\n') == 1 and 'cannot write' in done.err and 'never.gguf' in done.err, 'size %d: %d %r' % (size, done.status, done.err))
        old = write('old.gguf', 'old')
        check(limited('edit', stories(), old, '--set', 'a=b', size=size).status == 1 and read(old) == b'old', 'the old file is gone')
    check(not os.path.exists(temp('never.gguf')) and not parts(), 'files are left: %r' % os.listdir(cli.TEMP))


def test_interrupted():
    """Ctrl-C: status 130 and nothing left; a killed one leaves no OUT."""
    if os.name != 'posix':
        raise cli.Skipped('no signals')
    path, out = big_file(), temp('stopped.gguf')
    for number, status in ((signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)):
        p = subprocess.Popen([cli.INFER, 'edit', path, out, '--set', 'a=b'], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        while p.poll() is None and not parts():
            time.sleep(0.001)
        p.send_signal(number)
        p.communicate(timeout=60)
        check(p.returncode == status, 'status %d' % p.returncode)
        check(not os.path.exists(out), 'half a file is left')
        check(number == signal.SIGKILL or not parts(), 'a temporary file is left')
        for f in parts():
            os.remove(temp(f))
    os.remove(path)


# ---- damaged files ---------------------------------------------------------------------------------------------------

def test_cut_files():
    """A file that ends anywhere is one line of error; so is one with any byte changed, or it is read."""
    raw = read(make('whole.gguf', dict(list(META.items())[:5]), tensors()))
    for n in list(range(0, len(raw) - 16, 7)) + [len(raw) - 17]: # the last tensor is followed by 16 bytes of padding
        infer('hash', write('cut.gguf', raw[:n]), status=1)
    for at in range(0, len(raw), 5):
        path = write('flip.gguf', raw[:at] + bytes([raw[at] ^ 0xff]) + raw[at + 1:])
        done = cli.Result(subprocess.run([cli.INFER, 'hash', path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60))
        check(done.status in (0, 1) and done.err.count('\n') == done.status, 'byte %d: status %d, %r' % (at, done.status, done.err))


def raw_key(name, kind, value):
    """A file whose only key is of this type and has these bytes."""
    gguf_file.write(temp(name), {}, tensors(), [struct.pack('<Q', 1) + b'k' + struct.pack('<I', kind) + value])
    return temp(name)


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
                         (raw_key('bool.gguf', 7, b'\2'), 'neither 0 nor 1'), (raw_key('bools.gguf', 9, struct.pack('<IQ', 7, 2) + b'\1\2'), 'neither 0 nor 1'),
                         (raw_key('kind.gguf', 13, b'1234'), 'unknown type of a value'), (raw_key('kinds.gguf', 9, struct.pack('<IQ', 13, 0)), 'unknown type of array'),
                         (raw_key('nested.gguf', 9, struct.pack('<IQ', 9, 0)), 'arrays of arrays'), # 2^61 + 1 elements of 8 bytes are 8 bytes, modulo 2^64
                         (raw_key('long.gguf', 9, struct.pack('<IQQ', 10, (1 << 61) + 1, 0)), 'past the end'), (raw_key('texts.gguf', 9, struct.pack('<IQQ', 8, 1 << 61, 0)), 'past the end'),
                         (make('align.gguf', dict(META, **{'general.alignment': 12})), 'multiple of 8'),
                         (make('text_align.gguf', dict(META, **{'general.alignment': 'x'})), 'general.alignment must be a whole number')):
        err = infer('hash', path, status=1).err
        check(reason in err and os.path.basename(path) in err, '%s: %s' % (path, err))


def all_tests():
    return cli.tests_in(globals())


if __name__ == '__main__':
    cli.main(all_tests, __doc__)
