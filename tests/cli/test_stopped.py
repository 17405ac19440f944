#!/usr/bin/env python3
"""Tests of commands that are stopped while they write: python3 tests/cli/test_stopped.py build/infer [WORD...]

Every command that writes models, stopped by Ctrl-C, by a kill and by a disk that is full: what it writes is there whole or not at
all, what lay there before stays, and its input is untouched, also when it is named as the output. The same harness as test_cli.py.
"""
import hashlib
import os
import random
import signal
import struct
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import gguf_file
import test_cli as cli
import test_convert
import test_perplexity
from test_cli import check, infer, read, temp, write

SHAPE = 'arch=llama,width=1024,layers=1,heads=8,kv_heads=8,ffn=3072,vocab=512'


def model():
    """About 30 MB."""
    if not os.path.exists(temp('in.gguf')):
        infer('synth', SHAPE, 'f16', temp('in.gguf'))
    return temp('in.gguf')


def large():
    """Three tensors of 16 MB, which are holes: commands that only copy need so much to be caught at it."""
    if not os.path.exists(temp('in-large.gguf')):
        gguf_file.write(temp('in-large.gguf'), {}, [(n, [1 << 22], 0, b'') for n in 'abc'])
        g = gguf_file.Gguf(temp('in-large.gguf'))
        raw = bytearray(g.data)
        for i, n in enumerate('abc'): # the offsets: the last 8 bytes of each entry
            at = raw.index(struct.pack('<QcI', 1, n.encode(), 1)) + 25
            raw[at:at + 8] = struct.pack('<Q', i << 24)
        write('in-large.gguf', bytes(raw[:g.start]))
        os.truncate(temp('in-large.gguf'), g.start + (3 << 24))
    return temp('in-large.gguf')


def parts(whole, n):
    """The same in several files of n tensors: the first one's path."""
    prefix = whole[:-5] + '-parts'

    def found():
        return [f for f in sorted(os.listdir(cli.TEMP)) if temp(f).startswith(prefix)]
    if not found():
        infer('split', whole, prefix, '--max-tensors', n)
    return temp(found()[0])


def folder():
    """A Hugging Face folder of about 20 MB."""
    if os.path.exists(temp('in-folder')):
        return temp('in-folder')
    r, ff = random.Random(1), 1 << 16
    t = test_convert.made('F16', layers=1)
    for name, shape in (('gate_proj', (ff, 64)), ('up_proj', (ff, 64)), ('down_proj', (64, ff))):
        t['model.layers.0.mlp.%s.weight' % name] = ('F16', shape, bytes(b & 0x3b if i % 2 else b for i, b in enumerate(r.randbytes(4096))) * (ff * 128 // 4096))
    return test_convert.folder('in-folder', t, test_convert.config(num_hidden_layers=1, intermediate_size=ff))


def stories():
    return cli.data('models', 'stories260K.F32.gguf')


def text():
    return write('in-text.txt', test_perplexity.text(4000))


# What writes files; OUT stands for a name. Each takes long enough to be stopped, and more than a small disk holds.
COMMANDS = {
    'synth': lambda: ['synth', SHAPE, 'f16', 'OUT'],
    'quantize': lambda: ['quantize', model(), 'OUT', 'IQ2_XXS', '-t', '1'],
    'quantize in parts': lambda: ['quantize', model(), 'OUT', 'IQ2_XXS', '-t', '1', '--split-max-tensors', '4'],
    'quantize parts': lambda: ['quantize', parts(model(), 4), 'OUT', 'IQ2_XXS', '-t', '1', '--keep-split'],
    'convert': lambda: ['convert', folder(), 'OUT', '--type', 'IQ3_S', '-t', '1'],
    'convert in parts': lambda: ['convert', folder(), 'OUT', '--type', 'IQ3_S', '-t', '1', '--split-max-tensors', '5'],
    'perplexity': lambda: ['perplexity', stories(), '-f', text(), '--ctx', '128', '-t', '1', '--save-logits', 'OUT'],
    'imatrix': lambda: ['imatrix', stories(), '-f', text(), '--ctx', '64', '-t', '1', '--out', 'OUT'],
    'merge': lambda: ['merge', parts(large(), 1), 'OUT'],
    'split': lambda: ['split', large(), 'OUT', '--max-tensors', '1'],
    'edit': lambda: ['edit', large(), 'OUT', '--set', 'a=b'],
}


def hashes():
    """Of all files that the commands get, which are made."""
    found = {}
    for command in COMMANDS.values():
        command()
    for root, _, files in os.walk(cli.TEMP):
        for f in files:
            path = os.path.join(root, f)
            if os.path.relpath(path, cli.TEMP).startswith('in'):
                found[path] = hashlib.sha256(read(path)).hexdigest()
    return found


AGAIN = ('quantize in parts', 'merge')


def outputs(where):
    return sorted(f for f in os.listdir(where) if f.startswith('out'))


def remove_outputs(where):
    for f in outputs(where):
        os.remove(os.path.join(where, f))


def stop(command, number):
    """The exit status of a command that gets this signal while it writes, in parts the second of them; None: it was done before."""
    words = COMMANDS[command]()
    in_parts = any('split' in w for w in words)
    p = subprocess.Popen([cli.INFER] + [temp('out') if w == 'OUT' else w for w in words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while p.poll() is None and not any('.part' in f and (not in_parts or '-00002-of' in f) for f in outputs(cli.TEMP)):
        time.sleep(0.0005)
    done = p.poll() is not None
    p.send_signal(number)
    p.communicate(timeout=60)
    return None if done else p.returncode


def stopped(number, status):
    if os.name != 'posix':
        raise cli.Skipped('cpu: no signals')
    before = hashes()
    for command in COMMANDS:
        if command == 'imatrix': # it saves what it has: test_imatrix.py
            continue
        for old in (None, b'old'):
            if old:
                write('out', old)
            got = stop(command, number)
            check(got == status, '%s: status %r, not %d' % (command, got, status))
            whole = [f for f in outputs(cli.TEMP) if '.part' not in f]
            check(whole == (['out'] if old else []) and (old is None or read(temp('out')) == old), '%s: %s' % (command, whole))
            check(number == signal.SIGKILL or outputs(cli.TEMP) == whole, '%s: a temporary file is left' % command)
            if number == signal.SIGKILL and command in AGAIN and not old: # what the first run left is in nobody's way
                left = outputs(cli.TEMP)
                done = subprocess.run([cli.INFER] + [temp('out') if w == 'OUT' else w for w in COMMANDS[command]()], stdout=subprocess.DEVNULL, check=False)
                check(left and done.returncode == 0 and set(outputs(cli.TEMP)) > set(left), '%s, once more: %s' % (command, outputs(cli.TEMP)))
            remove_outputs(cli.TEMP)
    check(hashes() == before, 'an input was changed')


# ---- tests -----------------------------------------------------------------------------------------------------------

def test_interrupted():
    """Ctrl-C: status 130, and nothing is left."""
    stopped(signal.SIGINT, 130)


def test_killed():
    """No file has its name, nor has one lost its name."""
    stopped(signal.SIGKILL, -signal.SIGKILL)


def full(command, out, **more):
    """A command whose OUT does not fit: status 1, one line, nothing written, and OUT from before stays."""
    where = os.path.dirname(out)
    words = [cli.INFER] + [out if w == 'OUT' else w for w in COMMANDS[command]()]
    for old in (None, b'old'):
        if old:
            with open(out, 'wb') as f:
                f.write(old)
        done = cli.Result(subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, check=False, **more))
        lines = [line for line in done.err.splitlines() if not line.startswith('warning: ')]
        check(done.status == 1 and len(lines) == 1 and 'cannot write ' + out in lines[0], '%s: %d %r' % (command, done.status, done.err))
        check(outputs(where) == (['out'] if old else []), '%s: %s' % (command, outputs(where)))
        check(old is None or read(out) == old, '%s: the old file is gone' % command)
        remove_outputs(where)


def test_full_disk():
    """A disk of 300 kB, where we may mount one."""
    small = temp('small')
    os.mkdir(small)
    if subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=300k', 'none', small], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        raise cli.Skipped('cpu: cannot mount a small disk')
    before = hashes()
    try:
        for command in COMMANDS:
            if command == 'imatrix': # too small to fill it
                continue
            full(command, os.path.join(small, 'out'))
    finally:
        subprocess.run(['umount', small], check=True)
    check(hashes() == before, 'an input was changed')


def test_long_file():
    """A limit on the size of a file, which tells a command the same."""
    if os.name != 'posix':
        raise cli.Skipped('cpu: no limits on files')
    import resource

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    before = hashes()
    for command in COMMANDS:
        full(command, temp('out'), preexec_fn=limit)
    check(hashes() == before, 'an input was changed')


def test_onto_inputs():
    """A command does not write over what it reads: status 2, and the file stays."""
    write('in-a.gguf', read(stories()))
    a, words, ids = temp('in-a.gguf'), write('in-words.txt', test_perplexity.text(40)), write('in-ids.txt', '1 2 3')
    infer('imatrix', a, '-f', words, '--ctx', '64', '--out', temp('in-matrix.gguf'))
    infer('perplexity', a, '-f', words, '--ctx', '64', '--save-logits', temp('in-logits.kl'))
    infer('split', a, temp('in-split'), '--max-tensors', '20')
    first, second = [temp(f) for f in sorted(os.listdir(cli.TEMP)) if f.startswith('in-split')][:2]
    os.symlink(a, temp('in-link.gguf'))
    before = hashes()
    for command in (['quantize', a, a, 'Q4_0'], ['quantize', a, temp('in-link.gguf'), 'Q4_0'], ['quantize', first, second, 'Q4_0'],
                    ['quantize', a, temp('in-matrix.gguf'), 'Q4_0', '--imatrix', temp('in-matrix.gguf')], ['convert', folder(), os.path.join(folder(), 'config.json')],
                    ['imatrix', a, '-f', words, '--ctx', '64', '--out', a], ['imatrix', a, '-f', words, '--ctx', '64', '--out', words],
                    ['perplexity', a, '-f', words, '--ctx', '64', '--save-logits', a], ['perplexity', a, '-f', words, '--ctx', '64', '--save-logits', words],
                    ['perplexity', a, '--reference', temp('in-logits.kl'), '--save-logits', temp('in-logits.kl')], ['merge', first, second], ['edit', a, a, '--set', 'a=b'],
                    ['perplexity', a, '-f', words, '--ctx', '64', '--save-logits', temp('x.html'), '--report', temp('x.html')],
                    ['tensor', a, 'output.weight', '--out', a], ['logits', a, '--ids', ids, '--out', a], ['logits', a, '--ids', ids, '--out', ids],
                    ['embed', a, '--ids', ids, '--out', ids], ['embed', a, '--texts', words, '--out', a]):
        check('give another name' in infer(*command, status=2).err, ' '.join(command))
    check(hashes() == before, 'an input was changed')
    for f in os.listdir(cli.TEMP):
        if f.startswith(('in-a.', 'in-split', 'in-link')):
            os.remove(temp(f))


def all_tests():
    return cli.tests_in(globals())


if __name__ == '__main__':
    cli.main(all_tests, __doc__)
