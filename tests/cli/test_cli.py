#!/usr/bin/env python3
"""Tests of the command-line program, from outside: python3 tests/cli/test_cli.py build/infer [WORD...]

Only tests whose name contains one of the WORDs run (all without any). Standard library only. Recorded references are
looked for in the folder that INFER_TEST_DATA names and in tests/data; tests that find none are skipped by name, which
INFER_TEST_NO_SKIP=1 turns into failures (but for what the CPU lacks). The last line is "N passed, N failed, N skipped".
"""
import ctypes
import inspect
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, HERE)
import gguf_file
import make_model
import reference

INFER = None
FOLDERS = [f for f in (os.environ.get('INFER_TEST_DATA'), os.path.join(os.path.dirname(HERE), 'data')) if f]
TEMP = None
COMMANDS = 'run chat tokens detok logits embed rerank classify template tensor info devices bench synth hash diff edit split merge convert imatrix quantize perplexity grammar serve map'
REQUIRED_VOCABULARIES = 'baichuan gpt-2 gpt-neox llama-bpe llama-spm phi-3 qwen2'.split()
REQUIRED_ARCHS = ('arcee bloom cohere2 command-r exaone gemma gemma2 gemma3 gpt2 gptneox granite internlm2 lfm2 llama minicpm '
                  'mistral3 mpt nemotron olmo olmo2 orion phi2 phi3 qwen2 qwen3 seed_oss smollm3 stablelm starcoder2')


# ---- harness ---------------------------------------------------------------------------------------------------------

class Failed(Exception):
    pass


class Skipped(Exception):
    pass


def check(condition, message):
    if not condition:
        raise Failed(message)


def find(*parts):
    """A recorded reference, or None. tests/data holds some of them, a few without their folder."""
    for folder in FOLDERS:
        for path in (os.path.join(folder, *parts), os.path.join(folder, parts[-1])):
            if os.path.isfile(path):
                return path
    return None


def data(*parts):
    """The same; the test is skipped when it is not there."""
    path = find(*parts)
    if path is None:
        raise Skipped('needs INFER_TEST_DATA: ' + '/'.join(parts))
    return path


def names_in(folder, ending):
    """Names of the recorded references with this ending, without it; the test is skipped when there are none."""
    names = set()
    for root in FOLDERS:
        path = os.path.join(root, folder)
        if os.path.isdir(path):
            names.update(f[:-len(ending)] for f in os.listdir(path) if f.endswith(ending))
    if not names:
        raise Skipped('needs INFER_TEST_DATA: ' + folder)
    return sorted(names)


def temp(name):
    return os.path.join(TEMP, name)


class Result:
    def __init__(self, done):
        self.status, self.out, self.err = done.returncode, done.stdout, done.stderr.decode('utf-8', 'replace')

    def json(self):
        return json.loads(self.out.decode('utf-8'))


def infer(*args, stdin=b'', status=0, **env):
    """Run the program and check its exit status; a failure must be one line on stderr and nothing else."""
    words = [str(a) for a in args]
    done = Result(subprocess.run([INFER] + words, input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 env=dict(os.environ, **env), timeout=600))
    shown = 'infer ' + ' '.join(words)
    check(done.status == status, '%s: exit status %d, not %d: %s' % (shown, done.status, status, done.err.strip()[-300:]))
    if status == 1:
        lines = [s for s in done.err.splitlines() if not s.startswith('warning: ')]
        check(len(lines) == 1 and lines[0].startswith('infer '), '%s: not one line of error: %r' % (shown, done.err))
    return done


def write(name, content):
    path = temp(name)
    with open(path, 'wb') as f:
        f.write(content if isinstance(content, bytes) else content.encode('utf-8'))
    return path


def read(path):
    with open(path, 'rb') as f:
        return f.read()


def write_ids(name, ids):
    return write(name, ' '.join(map(str, ids)) + '\n')


def logits(model, ids, *options):
    """Rows of `infer logits`, after checking the head of its file."""
    out = temp('out.logits')
    infer('logits', model, '--ids', write_ids('in.ids', ids), '--out', out, *options)
    got_ids, rows = reference.read_rows(out)
    check(got_ids == list(ids), 'ids in the file are not those given')
    return rows


def within(got, want, limit, what):
    error = reference.nmse(got, want)
    check(error <= limit, '%s: NMSE %.3g is above %.3g' % (what, error, limit))


def supported():
    return [a['name'] for a in infer('info', '--archs', '--json').json()]


def f32(path):
    raw = read(path)
    return struct.unpack('<%df' % (len(raw) // 4), raw)


# ---- the program as such ---------------------------------------------------------------------------------------------

def test_help():
    """--help of the program and of every command is on stdout; every command is listed."""
    text = infer('--help').out.decode()
    for command in COMMANDS.split():
        check('\n  %s ' % command in text, '--help does not list %s' % command)
        check('usage: infer %s' % command in infer(command, '--help').out.decode(), '%s --help' % command)


def test_wrong_usage():
    model = 'none.gguf'
    for words in ([], ['nonsense'], ['run'], ['run', model], ['run', model, '-p', 'x', '-f', 'y'], ['run', model, '--nope'],
                  ['run', model, '-p', 'x', '--temp', 'warm'], ['run', model, '-p', 'x', '-n', '0'],
                  ['run', model, '-p', 'x', '--kv', 'f12'], ['run', model, '-p'], ['run', model, 'two', '-p', 'x'],
                  ['logits', model], ['logits', model, '--ids', 'x'], ['tokens', model], ['detok', model],
                  ['tensor', model, 'x'], ['tensor', model], ['info'], ['info', model, '--archs'], ['bench'],
                  ['bench', model, '-p', '0', '-n', '0'], ['synth', 'x'], ['synth', 'nonsense', 'f32', 'x'],
                  ['synth', 'llama3.2-1b', 'f31', 'x'], ['synth', 'width=0', 'f32', 'x'], ['devices', 'x'],
                  ['devices', '--json=1'], ['embed', model], ['run', model, '-p', 'x', '-t', '999'],
                  ['run', model, '-p', 'x', '--samplers', 'top_k;nope'], ['run', model, '-p', 'x', '--logit-bias', '5'],
                  ['run', model, '-p', 'x', '--mirostat', '3'], ['run', model, '-p', 'x', '--logit-bias', '5+x'],
                  ['run', model, '-p', 'x', '--logit-bias', '=1'], ['run', model, '-p', 'x', '--logit-bias', 'a=b'],
                  ['run', model, '-p', 'x', '--best-of', '0'], ['run', model, '-p', 'x', '--top-next', '0'],
                  ['run', model, '-p', 'x', '--prompt-logprobs', '-1'], ['run', model, '-p', 'x', '--on-full', 'ask']):
        done = infer(*words, status=2)
        check(done.out == b'', '%r writes to stdout' % words)
        check(done.err.strip() != '', '%r says nothing' % words)


def test_option_forms():
    """--name=value, options before the model, and -- work alike."""
    make_model.make('llama', temp('forms.gguf'))
    ids, results = write_ids('forms.ids', [1, 2, 3]), []
    for i, words in enumerate((['--ids', ids, '--out', temp('0.logits'), temp('forms.gguf')],
                               [temp('forms.gguf'), '--ids=' + ids, '--out=' + temp('1.logits')],
                               ['--ids=' + ids, '--out', temp('2.logits'), '--', temp('forms.gguf')])):
        infer('logits', *words)
        results.append(read(temp('%d.logits' % i)))
    check(results[0] == results[1] == results[2], 'the forms differ')


def test_failures():
    """Missing and damaged files are one line on stderr and exit status 1; no output file is left behind."""
    make_model.make('llama', temp('good.gguf'))
    good, ids = read(temp('good.gguf')), write_ids('few.ids', [1, 2])
    cut, text = write('cut.gguf', good[:len(good) // 2]), write('text.gguf', 'this is no model\n' * 10)
    empty = write('empty.gguf', b'')
    for model in (temp('missing.gguf'), cut, text, empty, TEMP):
        for words in (['run', model, '-p', 'x'], ['info', model], ['info', model, '--check'], ['bench', model],
                      ['logits', model, '--ids', ids, '--out', temp('never')], ['tokens', model, '--texts', ids],
                      ['detok', model, '--ids', ids], ['tensor', model, 'output.weight', '--out', temp('never')],
                      ['embed', model, '--texts', ids]):
            done = infer(*words, status=1)
            check(done.out == b'', '%s writes to stdout' % words[0])
            check(os.path.basename(model) in done.err or model in done.err, 'the file is not named: ' + done.err)
    model = temp('good.gguf')
    infer('tensor', model, 'no.such.tensor', '--out', temp('never'), status=1)
    infer('logits', model, '--ids', temp('missing.ids'), '--out', temp('never'), status=1)
    infer('logits', model, '--ids', write('bad.ids', '1 2 x'), '--out', temp('never'), status=1)
    infer('logits', model, '--ids', write('neg.ids', '-1'), '--out', temp('never'), status=1)
    infer('logits', model, '--ids', write('none.ids', ' \n'), '--out', temp('never'), status=1)
    infer('logits', model, '--ids', write('big.ids', '1 33'), '--out', temp('never'), status=1)
    infer('logits', model, '--ids', ids, '--out', temp('never'), '--ctx', '1', status=1)
    infer('logits', model, '--ids', ids, '--out', os.path.join(TEMP, 'no', 'such', 'folder'), status=1)
    infer('run', model, '-p', 'x', '--cpu-level', 'abacus', status=1)
    check(not os.path.exists(temp('never')), 'a failed command left its output file')


def test_max_memory():
    make_model.make('llama', temp('limit.gguf'))
    infer('logits', temp('limit.gguf'), '--ids', write_ids('limit.ids', [1]), '--out', temp('limit.out'), '--max-memory',
          '1000', status=1)
    infer('logits', temp('limit.gguf'), '--ids', temp('limit.ids'), '--out', temp('limit.out'), '--max-memory', '1000000000')


def test_allow_unknown():
    """A key that nobody knows is refused by its name; --allow-unknown goes on and says so, and nothing else changes."""
    plain, path, ids = temp('known.gguf'), temp('unknown_key.gguf'), write_ids('unknown.ids', [1, 2, 3])
    make_model.make('llama', plain)
    known = gguf_file.Gguf(plain)
    settings = dict(make_model.MODELS['llama'], meta={'attention.of_tomorrow': 2})
    make_model.Maker('llama', settings).make(path)
    refused = infer('logits', path, '--ids', ids, '--out', temp('unknown.out'), status=1)
    check('llama.attention.of_tomorrow is 2' in refused.err, refused.err)
    check('llama.attention.of_tomorrow' in infer('info', path, '--json').json()['why_not'], 'why_not')
    check('llama.attention.of_tomorrow' not in known.meta, 'the plain model has it')
    done = infer('logits', path, '--ids', ids, '--out', temp('unknown.out'), '--allow-unknown')
    check('llama.attention.of_tomorrow' in done.err and 'ignored' in done.err, done.err)
    infer('logits', plain, '--ids', ids, '--out', temp('known.out'))
    check(read(temp('known.out')) == read(temp('unknown.out')), 'it changes the result')


def test_unknown_architecture():
    """info, tensor, tokens and detok open it; what computes refuses it by name."""
    path = temp('unknown.gguf')
    gguf_file.write(path, {'general.architecture': 'perceptron1958', 'tokenizer.ggml.model': 'none'},
                    [('w', [3, 2], 0, struct.pack('<6f', *range(6)))])
    check('perceptron1958' in infer('info', path).out.decode(), 'info does not name it')
    done = infer('info', path, '--json').json()
    check(done['computes'] is False and 'perceptron1958' in done['why_not'], 'why_not')
    infer('info', path, '--check')
    infer('tensor', path, 'w', '--out', temp('w'))
    check(f32(temp('w')) == (0, 1, 2, 3, 4, 5), 'the tensor is wrong')
    ids = write_ids('unknown.ids', [0])
    for words in (['run', path, '-p', 'x'], ['bench', path], ['logits', path, '--ids', ids, '--out', temp('x')]):
        check('perceptron1958' in infer(*words, status=1).err or words[0] == 'run', '%s does not name it' % words[0])


def test_metadata_only():
    """A file with no tensors and no hyper-parameters opens too."""
    path = temp('bare.gguf')
    gguf_file.write(path, {'general.architecture': 'llama', 'a.flag': True, 'a.text': 'x"y\n\\', 'a.list': [1, 2, 3],
                           'a.words': ['p', 'q'], 'a.number': 1.5, 'a.long': list(range(100))}, [])
    meta = infer('info', path, '--json').json()['metadata']
    check(meta['a.flag'] is True and meta['a.text'] == 'x"y\n\\' and meta['a.list'] == [1, 2, 3] and
          meta['a.words'] == ['p', 'q'] and meta['a.number'] == 1.5, 'metadata: %r' % meta)
    check(meta['a.long'] == {'n': 100, 'first': list(range(8))}, 'long array')
    check(infer('info', path, '--json', '--full').json()['metadata']['a.long'] == list(range(100)), '--full')
    infer('info', path)
    infer('info', path, '--check')


# ---- info, devices, tensor -------------------------------------------------------------------------------------------

def test_info():
    make_model.make('llama', temp('info.gguf'))
    done = infer('info', temp('info.gguf'), '--json', '--ctx', '77', '--kv', 'f32').json()
    check(done['arch'] == 'llama' and done['vocab'] == 33 and done['n_layers'] == 2 and done['width'] == 40, 'summary')
    check(done['computes'] is True and done['type'] == 'F32', 'computes')
    names = {t['name']: t for t in done['tensors']}
    check(len(names) == 21 and names['blk.1.ffn_down.weight']['dims'] == [70, 40], 'tensors')
    check(done['memory']['context'] == 77 and done['memory']['cache'] >= 77 * 2 * 2 * 72 * 4, 'memory')
    check('rms' in done['layers'], 'layers')
    text = infer('info', temp('info.gguf')).out.decode()
    for word in ('llama.embedding_length', 'blk.1.ffn_down.weight', 'F32', 'layers', 'memory for a context'):
        check(word in text, 'info does not show ' + word)


def test_info_lists():
    archs = infer('info', '--archs', '--json').json()
    lacking = set(REQUIRED_ARCHS.split()) - set(a['name'] for a in archs)
    check(not lacking and all(set(a) == {'name', 'layers', 'devices_lack', 'reference'} for a in archs), 'archs: %s' % lacking)
    rows = dict((a['name'], a) for a in archs)
    check(all(a['devices_lack'] == '' for a in archs), 'what devices lack')
    check(rows['qwen35moe']['layers'] == 'attention, experts, gated delta net', 'kinds of layers')
    types = {t['name']: t for t in infer('info', '--types', '--json').json()}
    for name, values, size in (('F32', 1, 4), ('Q4_0', 32, 18), ('Q4_K', 256, 144), ('IQ1_M', 256, 56)):
        check((types[name]['values'], types[name]['bytes']) == (values, size), 'type ' + name)
    check('llama' in infer('info', '--archs').out.decode() and 'Q4_0' in infer('info', '--types').out.decode(), 'as text')


def test_info_check():
    """--check passes on a good file and fails on values that are not finite and on tensors that overlap."""
    path = temp('check.gguf')
    make_model.make('llama', path)
    check(infer('info', path, '--check').out.startswith(b'ok'), 'a good file')
    check(infer('info', path, '--check', '--json').json()['ok'] is True, 'as JSON')
    raw = bytearray(read(path))
    raw[-64:-60] = struct.pack('<f', float('nan'))
    err = infer('info', write('nan.gguf', bytes(raw)), '--check', status=1).err
    check('output.weight' in err, 'the tensor is not named: ' + err)
    raw[-64:-60] = struct.pack('<f', float('-inf'))
    infer('info', write('inf.gguf', bytes(raw)), '--check', status=1)
    infer('info', write('short.gguf', read(path)[:-100]), '--check', status=1)
    at = read(path).index(b'blk.0.ffn_up.weight') + len('blk.0.ffn_up.weight') + 4 + 16 + 4
    raw = bytearray(read(path))
    offset = struct.unpack_from('<Q', raw, at)[0]
    struct.pack_into('<Q', raw, at, offset - 32)
    infer('info', write('overlap.gguf', bytes(raw)), '--check', status=1)


def test_devices():
    text = infer('devices').out.decode()
    check('scalar' in text and '<- auto' in text and 'cpu' in text, text)
    done = infer('devices', '--json').json()
    check(done['devices'][0]['api'] == 'cpu' and done['devices'][0]['device'] == 0, 'the CPU is device 0')
    check(sum(d['auto'] for d in done['devices']) == 1 and sum(l['auto'] for l in done['cpu_levels']) == 1, 'auto')


def without_amx(answer):
    """For preexec_fn: asking Linux for AMX's tiles (arch_prctl 158, ARCH_REQ_XCOMP_PERM) is answered by this seccomp action."""
    libc = ctypes.CDLL(None, use_errno=True)
    #         code, if true, if false: load a word of the call; equal?; return
    steps = ((0x20, 0, 0, 0), (0x15, 0, 3, 158), (0x20, 0, 0, 16), (0x15, 0, 1, 0x1023), (0x06, 0, 0, answer), (0x06, 0, 0, 0x7fff0000))
    code = ctypes.create_string_buffer(b''.join(struct.pack('<HBBI', *step) for step in steps))
    n = ctypes.c_ulong

    def run():
        program = ctypes.create_string_buffer(struct.pack('<H6xQ', len(steps), ctypes.addressof(code)))
        if libc.prctl(38, n(1), n(0), n(0), n(0)) or libc.prctl(22, n(2), program, n(0), n(0)): # PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP
            os._exit(99)
    return run


def test_devices_amx():
    """A system that refuses tiles leaves the levels below, with their results; a lower level never asks for them."""
    if 'amxbf16      usable' not in infer('devices').out.decode():
        raise Skipped('cpu: no AMX')
    def run(answer, *words):
        return subprocess.run([INFER, *words], preexec_fn=without_amx(answer), stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    refused, killed = 0x00050001, 0x80000000 # EPERM; the end of the process
    model = temp('amx.gguf')
    infer('synth', 'vocab=600,context=64', 'bf16', model)
    text = run(refused, 'devices').stdout.decode()
    check(text.count('not permitted by the system') == 2 and 'avx512bf16   usable  <- auto' in text, text)
    words = ('logits', model, '--ids', write_ids('amx.ids', range(5, 40)), '--out', temp('amx.logits'))

    def rows(answer, *level):
        done = run(answer, *words, *level)
        check(done.returncode == 0, 'answer %x, %s: %d %s' % (answer, level, done.returncode, done.stderr))
        return read(temp('amx.logits'))
    infer(*words, '--cpu-level', 'avx512bf16')
    want = read(temp('amx.logits'))
    infer(*words)
    check(read(temp('amx.logits')) != want, 'tiles change no bit: nothing can be seen here')
    check(rows(refused) == want and rows(refused, '--cpu-level', 'amxbf16') == want, 'refused, other results')
    check(rows(killed, '--cpu-level', 'avx512bf16') == want, 'a lower level, other results')
    check(run(killed, *words).returncode < 0, 'the filter sees nothing')


def test_tensor():
    path = temp('tensor.gguf')
    make_model.make('llama-half', path)
    g = gguf_file.Gguf(path)
    for name in ('blk.2.ffn_down.weight', 'output_norm.weight', 'token_embd.weight'):
        infer('tensor', path, name, '--out', temp('t'))
        check(f32(temp('t')) == tuple(v for row in g.rows(name) for v in row), name)
    out = infer('tensor', path, 'output_norm.weight', '--out', '-').out
    check(len(out) == 4 * 40, 'to stdout')


def test_tensor_types():
    """Every storage type, against recorded values, bit for bit (5e-7 where the arithmetic may differ)."""
    path = data('quants', 'quant-vectors.gguf')
    names = [t['name'] for t in infer('info', path, '--json').json()['tensors']]
    types = [n for n in names if '.' not in n]
    check(len(types) >= 27, 'only %d types' % len(types))
    for name in types:
        infer('tensor', path, name, '--out', temp('got'))
        infer('tensor', path, name + '.dequantized', '--out', temp('want'))
        if read(temp('got')) != read(temp('want')):
            worst = max(abs(a - b) / (abs(b) + 1e-12) for a, b in zip(f32(temp('got')), f32(temp('want'))))
            check(worst < 5e-7, '%s: relative error %.3g' % (name, worst))


# ---- text ------------------------------------------------------------------------------------------------------------

def synth_vocabulary():
    path = temp('vocabulary.gguf')
    if not os.path.exists(path):
        infer('synth', 'vocab=3000,layers=1', 'f16', path)
    return path


def test_tokens_records():
    """One line per record, an empty line for none; detok gives the records back byte for byte."""
    model = synth_vocabulary()
    texts = [b'', b'hello world', b' two  spaces ', b'line\nbreak\ttab', 'caf\u00e9 \u4e2d\u6587 \U0001f600'.encode(), b'',
             b'</s>']
    out = infer('tokens', model, '--texts', write('texts', b'\x1e'.join(texts))).out
    lines = out.split(b'\n')
    check(lines[-1] == b'' and len(lines) == len(texts) + 1, 'lines: %r' % out)
    check(lines[0] == b'' and lines[5] == b'' and lines[1] != b'', 'empty records')
    back = infer('detok', model, '--ids', write('ids', out)).out.split(b'\x1e')
    check(len(back) == len(texts), '%d records came back' % len(back))
    for got, want in zip(back, texts):
        check(got == want or got == b' ' + want, '%r came back as %r' % (want, got))
    check(infer('tokens', model, '--texts', '-', stdin=b'').out == b'\n', 'an empty file is one empty record')
    check(infer('detok', model, '--ids', '-', stdin=b'').out == b'', 'no lines, no records')
    check(infer('detok', model, '--ids', '-', stdin=b'\n\n').out == b'\x1e', 'two empty lines')


def test_grammar():
    """Exit status and the first byte that is not allowed; broken grammars say where; run under a grammar."""
    grammar = write('list.gbnf', b'root ::= "[" item ("," item)* "]" # items\nitem ::= [0-9]{1,3} | "\\u00e9"\n')
    check(infer('grammar', grammar, '--text', '[1,22,333]').out == b'accepted\n', 'accepted')
    check(infer('grammar', grammar, '-f', '-', stdin='[\u00e9]'.encode()).out == b'accepted\n', 'from stdin')
    check('byte 3 is' in infer('grammar', grammar, '--text', '[1,x]', status=1).err, 'the byte that is not allowed')
    check('too early, at byte 3' in infer('grammar', grammar, '--text', '[1,', status=1).err, 'an early end')
    check(json.loads(infer('grammar', grammar, '--text', '[1,', '--json', status=1).out) == {'accepted': False, 'bytes': 3}, 'json')
    broken = write('broken.gbnf', b'root ::= "a"\nx ::= y')
    check('line 2 column 7' in infer('grammar', broken, '--text', 'a', status=1).err, 'where it is broken')
    infer('grammar', grammar, status=2)
    model = find('models', 'stories260K.F32.gguf')
    for seed in '123':
        out = infer('run', model, '-p', 'Once', '--grammar', grammar, '--seed', seed, '-n', '40').out
        check(len(out) > 2 and out[:1] == b'[', 'run under a grammar: %r' % out)
    out = infer('run', model, '-p', 'Once', '--json-object', '--seed', '1', '-n', '300', '--temp', '0').out
    check(out[:1] == b'{', 'run with --json-object: %r' % out)
    infer('run', model, '-p', 'Once', '--json-object', '--grammar', grammar, status=1)


def test_tokens_special():
    model = synth_vocabulary()
    check(infer('tokens', model, '--texts', '-', '--special', stdin=b'</s>').out == b'1 2\n', 'begin, then the parsed end')
    check(infer('tokens', model, '-p', '</s>').out.split()[0] != b'1', 'without --special nothing is added')
    check(infer('detok', model, '--ids', '-', stdin=b'1 2\n').out == b'<s></s>', 'special tokens are written out')
    infer('detok', model, '--ids', '-', stdin=b'1 3000\n', status=1)
    infer('detok', model, '--ids', '-', stdin=b'1 x\n', status=1)


def test_default_pre():
    """A vocabulary that names no pre-tokenizer gets the default one, with a warning; --pre chooses another."""
    letters = [chr(c) for c in range(33, 127)] + ['\u0120', 'ab']
    path = temp('nopre.gguf')
    gguf_file.write(path, {'general.architecture': 'gpt2', 'tokenizer.ggml.model': 'gpt2', 'tokenizer.ggml.tokens': letters,
                           'tokenizer.ggml.merges': ['a b'], 'tokenizer.ggml.token_type': [1] * len(letters)}, [])
    done = infer('tokens', path, '-p', 'ab c')
    check('pre' in done.err and done.err.startswith('warning: '), 'no warning: %r' % done.err)
    check(infer('tokens', path, '-p', 'ab c', '--pre', 'gpt-2').err == '', '--pre still warns')
    infer('tokens', path, '-p', 'ab c', '--pre', 'nonsense', status=1)


def test_recorded_tokens():
    """tokenizers/*.ids: ids with and without special tokens, and the text they turn back into."""
    texts = data('tokenizers', 'texts.bin')
    refused, wrong = [], []
    for name in names_in('tokenizers', '.ids'):
        lines = read(data('tokenizers', name + '.ids')).decode().split('\n')
        want = {key: [l[len(key) + 1:].strip() for l in lines if l.startswith(key + ':')]
                for key in ('plain', 'text', 'special')}
        model = data('vocabs', 'ggml-vocab-%s.gguf' % name)
        if name not in REQUIRED_VOCABULARIES:
            try:
                infer('tokens', model, '-p', '')
            except Failed:
                refused.append(name)
                continue
        others, right = reference.other_ids(name), {'plain': [], 'special': []}
        for at, text in enumerate(read(texts).split(b'\x1e')):
            for key, flags in (('plain', 0), ('special', 3)):
                right[key].append(' '.join(others.get((flags, text), want[key][at].split())))
        plain = infer('tokens', model, '--texts', texts).out.decode().split('\n')[:-1]
        special = infer('tokens', model, '--texts', texts, '--special').out.decode().split('\n')[:-1]
        back = infer('detok', model, '--ids', write('plain.ids', '\n'.join(want['plain']) + '\n')).out.split(b'\x1e')
        bad = [sum(a != b for a, b in zip(plain, right['plain'])) + abs(len(plain) - len(want['plain'])),
               sum(a != b for a, b in zip(special, right['special'])),
               sum(a.hex() != b for a, b in zip(back, want['text']))]
        if any(bad):
            wrong.append('%s: %d plain, %d special, %d back' % ((name,) + tuple(bad)))
    check(not wrong, '; '.join(wrong))
    if refused:
        print('note recorded_tokens: vocabularies that this build refuses: ' + ', '.join(refused))


# ---- run -------------------------------------------------------------------------------------------------------------

def test_run():
    """The continuation alone on stdout; --json; the same seed gives the same text."""
    model = temp('run.gguf')
    infer('synth', 'vocab=600,context=64', 'f16', model)
    done = infer('run', model, '-p', 'abc', '-n', '9', '--seed', '3', '--ignore-end')
    check('seed 3' in done.err and 'tokens/s' in done.err, 'statistics: ' + done.err)
    again = infer('run', model, '-p', 'abc', '-n', '9', '--seed', '3', '--ignore-end', '--json').json()
    check(sorted(again) == sorted(['text', 'tokens', 'prompt_tokens', 'prompt_tps', 'tps']), 'keys: %r' % sorted(again))
    check(len(again['tokens']) == 9 and again['prompt_tokens'][0] == 1, 'tokens: %r' % again)
    check(again['text'] == done.out.decode('utf-8', 'replace'), 'the text differs')
    other = infer('run', model, '-p', 'abc', '-n', '9', '--seed', '4', '--ignore-end', '--json').json()
    check(other['tokens'] != again['tokens'], 'another seed, the same tokens')
    check(again['prompt_tps'] > 0 and again['tps'] > 0, 'rates')


def with_keys(path, data, keys):
    """The file `data` to path, with (name, type, bytes) in front of its keys, and where its tensors lie as aligned as before."""
    def key(name, kind, value):
        return struct.pack('<Q', len(name)) + name + struct.pack('<I', kind) + value
    text = b''.join(key(*k) for k in keys)
    fill = -(len(text) + 8 + 10 + 4 + 8) % 32
    text += key(b'zzz.filler', gguf_file.STRING, struct.pack('<Q', fill) + b' ' * fill)
    with open(path, 'wb') as f:
        f.write(data[:16] + struct.pack('<Q', struct.unpack_from('<Q', data, 16)[0] + len(keys) + 1) + text + data[24:])


def masked_model(path):
    """A model that fills in masked tokens: one of `infer synth` under another name, with a mask token."""
    infer('synth', 'vocab=600,context=64', 'f16', path)
    data = read(path).replace(b'\x05\0\0\0\0\0\0\0llama', b'\x05\0\0\0\0\0\0\0llada', 1).replace(b'llama.', b'llada.')
    with_keys(path, data, [(b'tokenizer.ggml.mask_token_id', gguf_file.U32, struct.pack('<I', 599)),
                           (b'diffusion.shift_logits', gguf_file.BOOL, b'\0')])


def test_run_fim():
    """A gap between the prompt and a file: the vocabulary's marks around both."""
    model, behind = temp('fim.gguf'), temp('behind')
    with open(behind, 'w') as f:
        f.write('xyz')
    infer('synth', 'vocab=600,context=64', 'f16', model)
    check('no token for the prefix' in infer('run', model, '-p', 'abc', '--fim', behind, status=1).err, 'no marks')
    with_keys(model, read(model), [(b'tokenizer.ggml.fim_%s_token_id' % name, gguf_file.U32, struct.pack('<I', 590 + i))
                                   for i, name in enumerate((b'pre', b'suf', b'mid'))])
    done = infer('run', model, '-p', 'abc', '--fim', behind, '-n', '4', '--seed', '3', '--ignore-end', '--json').json()
    ids = done['prompt_tokens']
    check(ids[0] == 1 and ids[1] == 590 and ids[-1] == 592 and 591 in ids and len(done['tokens']) == 4, 'tokens: %r' % done)
    short = infer('run', model, '-p', 'abc' * 9, '--fim', behind, '-n', '4', '--ctx', '16', '--seed', '3', '--ignore-end', '--json').json()
    check(len(short['prompt_tokens']) == 12, 'what is next to the gap: %r' % short['prompt_tokens'])
    infer('run', model, '-p', 'abc', '--fim', temp('none'), status=1)


def test_run_masked():
    """Models that fill in masked tokens: the text, deterministic for a seed; steps, blocks and orders."""
    model = temp('masked.gguf')
    masked_model(model)
    few = ('run', model, '-p', 'abc', '-n', '9', '--seed', '3', '--ignore-end')
    got = infer(*few, '--json').json()
    check(len(got['tokens']) == 9 and 599 not in got['tokens'], 'tokens: %r' % got)
    check(infer(*few).out.decode('utf-8', 'replace') == got['text'], 'the text differs')
    seen = {tuple(got['tokens'])}
    for more in (('--steps', '1'), ('--steps', '3'), ('--block', '3'), ('--order', 'entropy'), ('--order', 'margin'), ('--order', 'random'),
                 ('--order', 'left'), ('--seed', '4')):
        again = infer(*few, *more, '--json').json()
        check(len(again['tokens']) == 9 and 599 not in again['tokens'], '%r: %r' % (more, again))
        seen.add(tuple(again['tokens']))
    check(len(seen) > 5, 'the options change little: %r' % seen)
    check('context of 64' in infer('run', model, '-p', 'abc', '-n', '99', status=1).err, 'too many tokens')
    infer(*few, '--order', 'backwards', status=2)


def test_run_samplers():
    model = temp('samplers.gguf')
    infer('synth', 'vocab=600,context=64', 'f16', model)

    def tokens(*options):
        return infer('run', model, '-p', 'abc', '-n', '6', '--ignore-end', '--json', *options).json()['tokens']
    greedy = tokens('--temp', '0')
    check(tokens('--temp', '0', '--seed', '9') == greedy, 'greedy depends on the seed')
    check(tokens('--temp', '5', '--top-k', '1', '--seed', '9') == greedy, 'top-k 1 is greedy')
    check(tokens('--temp', '5', '--top-k', '0', '--top-p', '0.000001', '--min-p', '0') == greedy, 'a tiny top-p is greedy')
    check(tokens('--temp', '5', '--top-k', '0', '--top-p', '1', '--min-p', '1') == greedy, 'min-p 1 is greedy')
    check(tokens('--temp', '100', '--top-k', '0', '--top-p', '1', '--min-p', '0', '--seed', '1') != greedy, 'hot')
    punished = tokens('--temp', '0', '--repeat-penalty', '1e9', '--repeat-last-n', '-1', '-n', '20')
    check(len(set(punished)) == len(punished), 'a huge penalty still repeats: %r' % punished)
    hot = ['--temp', '5', '--top-k', '0', '--top-p', '1', '--min-p', '0', '--seed', '9']
    check(tokens(*hot, '--top-n-sigma', '0.000001') == greedy, 'a tiny top-n-sigma is greedy')
    check(tokens('--mirostat', '2', '--mirostat-tau', '0', '--seed', '9') == greedy, 'mirostat without surprise is greedy')
    check(tokens('--samplers', 'temperature;top-k', '--top-k', '1', '--temp', '9') == greedy, 'an order of stages')
    check(tokens(*hot, '--typical', '0.2') != tokens(*hot), 'typical')
    check(tokens('--temp', '0', '--xtc-probability', '1', '--xtc-threshold', '0')[0] != greedy[0], 'XTC drops the best')
    other = tokens('--temp', '0', '--logit-bias', '%d-inf' % greedy[0], '--logit-bias', '7+1000')
    check(other == [7] * len(other), 'biases: %r' % other)
    calm = tokens('--temp', '0', '--logit-bias', '7+1000', '--dry-multiplier', '1e6', '--dry-allowed-length', '0')
    check(calm[0] == 7 and calm != [7] * len(calm), 'DRY: %r' % calm)
    ignored = infer('run', model, '-p', 'abc', '-n', '2', '--mirostat', '1', '--top-k', '3').err
    check('--top-k is not used' in ignored, 'what is not used is not said: ' + ignored)


def test_run_stop():
    """--stop ends the text before the stop string; -f reads the prompt; a full context ends it too."""
    model = temp('stop.gguf')
    infer('synth', 'vocab=600,context=64', 'f16', model)
    options = ['-n', '12', '--temp', '0', '--ignore-end', '--json']
    text = infer('run', model, '-p', 'abc', *options).json()['text']
    check(len(text) > 4, 'too short to test: %r' % text)
    stop = text[2:4]
    cut = infer('run', model, '-p', 'abc', '--stop', 'never there', '--stop', stop, *options).json()['text']
    check(cut == text[:text.index(stop)], '%r was cut to %r by %r' % (text, cut, stop))
    path = write('prompt', 'abc')
    check(infer('run', model, '-f', path, *options).json()['text'] == text, '-f differs from -p')
    check(infer('run', model, '-f', '-', *options, stdin=b'abc').json()['text'] == text, '-f - differs')
    full = infer('run', model, '-p', 'abc', '-n', '100', '--temp', '0', '--ignore-end', '--ctx', '20')
    check('context full' in full.err, 'it did not stop: ' + full.err)
    full = infer('run', model, '-p', 'abc', '-n', '100', '--temp', '0', '--ignore-end', '--ctx', '20', '--json').json()
    long = infer('run', model, '-p', 'abc', '-n', '100', '--temp', '0', '--ignore-end', '--ctx', '40', '--json').json()
    n = 20 - len(full['prompt_tokens']) + 1  # the last token needs no place
    check(full['tokens'] == long['tokens'][:n], 'a full context gives %d tokens, not %d' % (len(full['tokens']), n))
    check(long['text'].startswith(full['text']), '%r is no beginning of %r' % (full['text'], long['text']))
    infer('run', model, '-p', 'abc ' * 50, '--ctx', '20', status=1)


# ---- logits against the reference in Python --------------------------------------------------------------------------

def odd_model(name):
    """A made model and its results, computed here. `limit` is for F32 arithmetic against float64."""
    path = temp(name + '.gguf')
    settings = make_model.MODELS[name]
    if not os.path.exists(path):
        make_model.make(name, path)
    rng = random.Random(name)
    ids = [rng.randrange(settings['vocab']) for _ in range(37)]
    return path, ids, reference.logits(path, ids)


def make_odd_test(name):
    def test():
        path, ids, want = odd_model(name)
        within(logits(path, ids, '--exact', '--kv', 'f32'), want, 1e-9, 'exact')
        within(logits(path, ids, '--exact', '--kv', 'f32', '--batch', '7'), want, 1e-9, 'exact, 7 at a time')
        within(logits(path, ids, '--exact', '--kv', 'f32', '--batch', '1'), want, 1e-9, 'exact, one by one')
        within(logits(path, ids, '--kv', 'f32'), want, 1e-6, 'usual')
        if not make_model.MODELS[name]['experts']:  # rounding the cache may change which expert is chosen
            within(logits(path, ids), want, 1e-5, 'usual, F16 cache')
    test.__doc__ = 'made model %s: all at once, in pieces, one by one' % name
    return test


def test_exact_levels():
    """Every CPU level gives the same numbers, and none depends on the number of threads."""
    path, ids, want = odd_model('llama-half')
    for level in infer('devices', '--json').json()['cpu_levels']:
        if level['usable']:
            within(logits(path, ids, '--exact', '--kv', 'f32', '--cpu-level', level['name']), want, 1e-9, level['name'])
            within(logits(path, ids, '--kv', 'f32', '--cpu-level', level['name']), want, 1e-6, level['name'] + ' usual')
    one = logits(path, ids, '-t', '1')
    for threads in (2, 3, 7):
        check(logits(path, ids, '-t', threads) == one, '%d threads differ from one' % threads)


def test_embeddings():
    """--embeddings: the state after the last norm; times the output matrix it gives the logits."""
    path, ids, want = odd_model('llama')
    states = logits(path, ids, '--embeddings', '--exact', '--kv', 'f32')
    check(len(states[0]) == 40, 'width')
    rows = gguf_file.Gguf(path).rows('output.weight')
    within([reference.matvec(rows, s) for s in states], want, 1e-9, 'states x output')


def test_long_context():
    """More ids than the default context: it grows on its own."""
    path = temp('long.gguf')
    make_model.Maker('long', dict(make_model.PLAIN, context=64)).make(path)
    check(len(logits(path, [i % 33 for i in range(5000)])) == 5000, 'rows')


# ---- recorded results ------------------------------------------------------------------------------------------------

# Every recording is tested by build/check arch_; here it is that the command line gives the same.
RECORDED = ('llama', 'gemma3', 'phi3', 'qwen3', 'lfm2')


def architecture(path):
    with open(path, 'rb') as f:
        head = f.read(4096)
    at = head.index(b'general.architecture') + len('general.architecture') + 4
    n = struct.unpack_from('<Q', head, at)[0]
    return head[at + 8:at + 8 + n].decode()


def make_recorded_test(arch):
    def test():
        """archs/: the typical error is 2e-7 (F16 activations there, F32 here), the largest allowed 2e-6."""
        seen = 0
        for name in names_in('archs', '.gguf'):
            model = data('archs', name + '.gguf')
            if architecture(model) != arch:
                continue
            for ending, options in (('.logits', []), ('.embd', ['--embeddings'])):
                if find('archs', name + ending) is None:
                    continue
                ids, want = reference.read_rows(data('archs', name + ending))
                # longrope depends on the size of the context, which was 256 in the recording
                ctx = ['--ctx', '256'] if 'longrope' in name else []
                within(logits(model, ids, '--kv', 'f32', *ctx, *options), want, 2e-6, name)
                within(logits(model, ids, '--kv', 'f32', '--batch', '7', *ctx, *options), want, 2e-6, name + ', 7 at a time')
                seen += 1
        if not seen:
            raise Skipped('no recorded results for ' + arch)
    test.__doc__ = 'recorded results of ' + arch
    return test


def test_recorded_exact():
    """quants/llama256-*: --exact against the float64 truth."""
    worst = []
    for name in names_in('quants', '.exact'):
        ids, want = reference.read_rows(data('quants', name + '.exact'))
        got = logits(data('quants', name + '.gguf'), ids, '--exact', '--kv', 'f32')
        error = reference.nmse(got, want)
        if error > 1e-9:
            worst.append('%s %.3g' % (name, error))
    check(not worst, 'above 1e-9: ' + ', '.join(worst))


def test_recorded_usual():
    """quants/llama256-*: the usual path is no further from the truth than 1.2 times what llama.cpp is."""
    worst = []
    for name in names_in('quants', '.exact'):
        ids, want = reference.read_rows(data('quants', name + '.exact'))
        _, theirs = reference.read_rows(data('quants', name + '.logits'))
        got = logits(data('quants', name + '.gguf'), ids, '--kv', 'f32')
        error, limit = reference.nmse(got, want), max(1.2 * reference.nmse(theirs, want), 1e-9)
        if error > limit:
            worst.append('%s %.3g > %.3g' % (name, error, limit))
    check(not worst, '; '.join(worst))


def gap(step):
    return step[0][1] - step[1][1]


def make_model_test(name):
    limit = 1e-6 if name.endswith(('F32', 'F16')) else 5e-3

    def test():
        model = data('models', name + '.gguf')
        with open(data('models', name + '.ref.json'), encoding='utf-8') as f:
            recorded = json.load(f)
        for case in recorded['cases']:
            ids = case['prompt_tokens']
            rows = logits(model, ids, '--kv', 'f32')
            within([rows[-1]], [case['logits_after_prompt']], limit, 'logits after the prompt')
            if 'logits_per_prompt_position' in case:
                within(rows, case['logits_per_prompt_position'], limit, 'logits per position')
            if case.get('prompt') is None:
                continue
            n = len(case['greedy_tokens'])
            done = infer('run', model, '-p', case['prompt'], '-n', n, '--temp', '0', '--json', '--kv', 'f32').json()
            check(done['prompt_tokens'] == ids, 'ids of the prompt %r' % case['prompt'])
            # Up to the first near tie another correct implementation must choose the same tokens.
            sure = n
            for i, step in enumerate(case['top5_per_step']):
                if len(step) > 1 and gap(step) < (1e-3 if limit < 1e-5 else 1.0):
                    sure = i
                    break
            want = case['greedy_tokens'][:sure]
            if case['greedy_ended_with_eog'] and sure == n:
                want = want[:-1] if done['tokens'] == want[:-1] else want
            got = done['tokens'][:len(want)]
            check(got == want, 'greedy tokens of %r: %r, not %r' % (case['prompt'], got, want))
            if sure == n and not case['greedy_ended_with_eog']:
                check(done['text'].strip() == case['greedy_text'].strip(), 'greedy text: %r' % done['text'])
    test.__doc__ = 'recorded model ' + name
    return test


MODELS = [('TinyStories-656K.' + t, 'llama') for t in ('F32', 'F16', 'Q8_0', 'Q4_0', 'Q4_K_M', 'Q5_1', 'IQ4_NL')] + [
    ('gpt-nano-sort.F32', 'gpt2'), ('stories260K.F32', 'llama'), ('stories260K.Q8_0', 'llama'), ('tiny-rwkv7-834K.F32', 'rwkv7')]


# ---- embed, bench, synth ---------------------------------------------------------------------------------------------

def test_embed():
    model = temp('embed.gguf')
    infer('synth', 'vocab=600,context=64', 'f16', model)
    texts = write('embed.texts', b'abc\x1exyz\x1eabc')
    infer('embed', model, '--texts', texts, '--separator', '0x1e', '--out', temp('embd'))
    numbers, rows = reference.read_rows(temp('embd'))
    check(numbers == [0, 1, 2] and len(rows[0]) == 64, 'shape')
    check(rows[0] == rows[2] and rows[0] != rows[1], 'the same text gives the same vector')
    check(all(abs(reference.dot(r, r) - 1) < 1e-5 for r in rows), 'length 1')
    lines = infer('embed', model, '--texts', texts, '--separator', '0x1e').out.decode().splitlines()
    check(len(lines) == 3 and len(lines[0].split()) == 64, 'as text')


def test_encoder_ids():
    """T5: the encoder's ids and the decoder's."""
    for name, scale in (('t5-gated-dense', 1), ('t5-dense', 64 ** -0.5)): # llama.cpp leaves the latter's out (docs/architectures.md)
        model, source = data('archs', name + '.gguf'), data('archs', name + '.enc.ids')
        ids, want = reference.read_rows(data('archs', name + '.logits'))
        want = [[x * scale for x in row] for row in want]
        within(logits(model, ids, '--encoder-ids', source, '--kv', 'f32'), want, 2e-6, name)
        within(logits(model, ids, '--encoder-ids', source, '--kv', 'f32', '--batch', '1'), want, 2e-6, name + ', one by one')
        infer('logits', model, '--ids', write_ids('in.ids', ids), '--out', temp('out.logits'), status=1)
    plain = temp('plain.gguf')
    infer('synth', 'vocab=300', 'f16', plain)
    infer('logits', plain, '--ids', write_ids('in.ids', [1]), '--encoder-ids', temp('in.ids'), '--out', temp('out.logits'), status=1)


def test_synth():
    """Deterministic for a seed, sound, and of every type."""
    a, b = temp('a.gguf'), temp('b.gguf')
    for kind in ('f32', 'f16', 'bf16', 'q8_0', 'Q4_0', 'q4_k', 'q6_k'):
        shape = 'vocab=400,width=%d,ffn=256' % (256 if kind.endswith('k') else 64)
        infer('synth', shape, kind, a)
        infer('synth', shape, kind, b, '--seed', '0')
        check(read(a) == read(b), kind + ': the same seed, another file')
        infer('synth', shape, kind, b, '--seed', '1')
        check(len(read(a)) == len(read(b)) and read(a) != read(b), kind + ': another seed')
        infer('info', a, '--check')
        check(infer('info', a, '--json').json()['type'] == kind.upper(), kind)
        infer('tensor', a, 'blk.0.ffn_up.weight', '--out', temp('values'))
        x = f32(temp('values'))
        deviation = (sum(v * v for v in x) / len(x)) ** 0.5
        wanted = 0.0625 if kind.endswith('k') else 0.125
        check(0.88 < deviation / wanted < 1.12 and abs(sum(x) / len(x)) < wanted / 12, '%s: deviation %.4f of %g' % (kind, deviation, wanted))
        within(logits(a, [1, 2, 3, 4], '--exact', '--kv', 'f32'), logits(a, [1, 2, 3, 4], '--kv', 'f32'), 1e-2, kind)


def test_synth_mixture():
    """Q4_K_M: Q6_K where it is wanted."""
    path = temp('mixture.gguf')
    infer('synth', 'vocab=400,width=256,ffn=512,layers=16', 'q4_k_m', path)
    found = {t['name']: t['type'] for t in infer('info', path, '--json').json()['tensors']}
    for l in range(16):
        more = 'Q6_K' if l < 2 or l >= 14 or l % 3 == 1 else 'Q4_K'
        for name, want in (('attn_v', more), ('ffn_down', more), ('attn_q', 'Q4_K'), ('ffn_up', 'Q4_K')):
            check(found['blk.%d.%s.weight' % (l, name)] == want, 'layer %d, %s: %s' % (l, name, found['blk.%d.%s.weight' % (l, name)]))
    check(found['output.weight'] == 'Q6_K' and found['token_embd.weight'] == 'Q4_K', 'head and embedding')


def test_synth_shapes():
    """Every listed shape, cut down to one layer and a small vocabulary, opens and computes."""
    names = [l.split() for l in infer('synth', '--list').out.decode().splitlines() if ' layers, width ' in l]
    for wanted in 'smollm2-135m qwen3-0.6b llama3.2-1b llama3.2-3b llama3.1-8b qwen3-30b-a3b'.split():
        check(any(n[0] == wanted for n in names), 'the list lacks ' + wanted)
    known, path = supported(), temp('shape.gguf')
    for name, arch in (n[:2] for n in names):
        small = ',experts=4,experts_used=2,expert_ffn=64' if name in ('qwen3-30b-a3b', 'mixtral-8x7b', 'deepseek-v2-lite', 'granite-4-h-tiny') else ''
        small += '' if name.startswith('mamba') else ',ffn=256'
        layers = {'lfm2': 3, 'qwen35': 4, 'deepseek2': 2, 'granitehybrid': 6, 'gemma3n': 10}.get(arch, 1) # one of each kind
        infer('synth', '%s,layers=%d,vocab=300%s' % (name, layers, small), 'q4_0', path)
        check(infer('info', path, '--json').json()['arch'] == arch, name)
        if arch in known:
            rows = logits(path, [5, 6, 7], '--ctx', '64', *(['--embeddings'] if 'bert' in arch else []))
            check(len(rows) == 3 and all(x == x and abs(x) < 1e30 for row in rows for x in row), name)
            check(len(rows[0]) == 300 or 'bert' in arch, name)
    os.remove(path)


def test_synth_small_vocabulary():
    """Too small for text: ids still work."""
    infer('synth', 'vocab=17,width=24,heads=3,kv_heads=1,head_dim=6,ffn=10', 'q8_0', temp('small.gguf'))
    check(len(logits(temp('small.gguf'), [16, 0, 3])[0]) == 17, 'logits')


# ---- main ------------------------------------------------------------------------------------------------------------

def tests_in(names):
    tests = [(n[5:], f) for n, f in names.items() if n.startswith('test_') and inspect.isfunction(f)]
    return sorted(tests, key=lambda t: t[1].__code__.co_firstlineno)


def all_tests():
    tests, known = tests_in(globals()), supported()
    tests += [('made.' + n, make_odd_test(n)) for n, s in make_model.MODELS.items() if s['arch'] in known]
    tests += [('recorded.' + arch, make_recorded_test(arch)) for arch in RECORDED if arch in known]
    tests += [('model.' + name, make_model_test(name)) for name, arch in MODELS if arch in known]
    return tests


def main(tests=all_tests, manual=__doc__):
    """Run tests() and count; test_gpu.py and test_run.py come here with theirs."""
    global INFER, TEMP
    if len(sys.argv) < 2:
        sys.exit(manual)
    INFER = os.path.abspath(sys.argv[1])
    if not os.path.exists(INFER):
        sys.exit('%s: there is no %s' % (os.path.basename(sys.argv[0]), INFER))
    TEMP = tempfile.mkdtemp(prefix='infer-cli-')
    os.environ['XDG_CACHE_HOME'] = os.environ['LOCALAPPDATA'] = os.environ['HOME'] = os.path.join(TEMP, 'caches')
    os.mkdir(os.environ['HOME'])
    passed, failed, skipped = 0, 0, 0
    try:
        for name, test in tests():
            if len(sys.argv) > 2 and not any(word in name for word in sys.argv[2:]):
                continue
            try:
                test()
                passed += 1
            except Skipped as e:
                if os.environ.get('INFER_TEST_NO_SKIP') == '1' and not str(e).startswith('cpu:'): # as in tests/check.h
                    failed += 1
                    print('FAIL %s: skipped: %s' % (name, e))
                else:
                    skipped += 1
                    print('skip %s: %s' % (name, e))
            except (Failed, OSError, ValueError, KeyError, IndexError, TypeError, subprocess.SubprocessError) as e:
                failed += 1
                print('FAIL %s: %s%s' % (name, '' if isinstance(e, Failed) else type(e).__name__ + ': ', e))
            sys.stdout.flush()
    finally:
        shutil.rmtree(TEMP, ignore_errors=True)
    print('%d passed, %d failed, %d skipped' % (passed, failed, skipped))
    sys.exit(1 if failed else 0)


if __name__ == '__main__':
    main()
