#!/usr/bin/env python3
"""Tests of `infer map`: python3 tests/cli/test_map.py build/infer [WORD...]

Lines answered as by `infer run` and `chat`, their order, every kind of bad line, runs that are killed and resumed, memory, vectors; and the
scripts of examples/cluster under Spark (local mode) and GNU parallel, with a process killed. The same harness as test_cli.py.
"""
import glob
import importlib.util
import json
import os
import random
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import gguf_file
import serve_process
import test_cli as cli
from test_cli import check, infer, temp, write

CLUSTER = os.path.join(os.path.dirname(cli.HERE), os.pardir, 'examples', 'cluster')
TEMPLATE = '{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}'
NUMBERS = {'type': 'object', 'properties': {'n': {'type': 'integer', 'minimum': 0, 'maximum': 99}}, 'required': ['n'], 'additionalProperties': False}


def stories():
    return cli.data('models', 'stories260K.F32.gguf')


def chatting():
    path = temp('chatting.gguf')
    return path if os.path.exists(path) else gguf_file.with_templates(stories(), path, {'': TEMPLATE})


def lines_of(records):
    return ''.join((r if isinstance(r, str) else json.dumps(r)) + '\n' for r in records).encode()


def parse(data):
    check(data == b'' or data.endswith(b'\n'), 'the last line has no end: %r' % data[-80:])
    return [json.loads(line) for line in data.decode().split('\n')[:-1]]


def mapped(records, *options, model=None, status=0):
    """The replies to these records, and the counts that are said at the end."""
    done = infer('map', model or stories(), *options, stdin=lines_of(records), status=status)
    return parse(done.out), counts(done.err)


def counts(err):
    found = re.search(r'infer map: (.*; )?(\d+) lines: (\d+) answered, (\d+) failed, (\d+) written before', err)
    check(found, 'no counts: %r' % err)
    return tuple(int(found.group(i)) for i in range(2, 6))


def stories_of(n, tokens=20, first=0):
    """Requests of many lengths; those of one seed differ."""
    return [{'id': 'line %d' % i, 'prompt': ('Once upon a time', 'Lily', 'The dog ran and', 'One day, a big red')[i % 4], 'max_tokens': 1 + i * 7 % tokens,
             'temperature': (0, 0.9)[i % 2], 'seed': i} for i in range(first, first + n)]


# ---- what lines give -------------------------------------------------------------------------------------------------

def test_map_same():
    """Each line as `infer run` gives it alone, greedy and seeded, and as `infer chat` replies."""
    cases = [({'prompt': 'Once upon a time', 'max_tokens': 24, 'temperature': 0}, ['-n', '24', '--temp', '0']),
             ({'prompt': 'Lily and Tom', 'max_tokens': 30, 'temperature': 0.9, 'seed': 7}, ['-n', '30', '--temp', '0.9', '--seed', '7']),
             ({'prompt': 'Lily and Tom', 'max_tokens': 30, 'temperature': 1.3, 'top_p': 0.8, 'top_k': 20, 'min_p': 0.02, 'seed': 8},
              ['-n', '30', '--temp', '1.3', '--top-p', '0.8', '--top-k', '20', '--min-p', '0.02', '--seed', '8']),
             ({'prompt': 'Once upon a time', 'temperature': 0, 'stop': [' park', '\n']}, ['--temp', '0', '--stop', ' park', '--stop', '\n']),
             ({'prompt': 'A', 'max_tokens': 20, 'temperature': 0, 'schema': NUMBERS}, ['-n', '20', '--temp', '0', '--schema', json.dumps(NUMBERS)]),
             ({'prompt': 'A', 'max_tokens': 9, 'temperature': 0, 'grammar': 'root ::= [a-c]+'}, ['-n', '9', '--temp', '0', '--grammar', 'root ::= [a-c]+']),
             ({'prompt': 'One', 'temperature': 0, 'max_tokens': 12, 'repeat_penalty': 1.4, 'logit_bias': {'432': -100}, 'ignore_eos': True},
              ['--temp', '0', '-n', '12', '--repeat-penalty', '1.4', '--logit-bias', '432-inf', '--ignore-eos']),
             ({'prompt': 'The end.', 'temperature': 0, 'max_tokens': 300}, ['--temp', '0', '-n', '300'])]
    for name in ('stories260K.F32', 'TinyStories-656K.Q8_0'):
        model = cli.data('models', name + '.gguf')
        got, count = mapped([dict(c, id=i) for i, (c, _) in enumerate(cases) if not {'logit_bias', 'schema'} & set(c) or 'stories260K' in name], model=model)
        check(count[2] == 0 and len(got) >= 6, 'counts: %r' % (count,))
        for g in got:
            case, options = cases[g['id']]
            alone = infer('run', model, '-p', case['prompt'], '--json', *options)
            want = alone.json()
            check(g['text'] == want['text'] and g['tokens'] == want['tokens'], '%s, %r: %r, not %r' % (name, case, g, want))
            check(g['usage']['prompt_tokens'] == len(want['prompt_tokens']), 'prompt: %r' % g)
            check(g['finish_reason'] == ('length' if 'stopped by: limit' in alone.err else 'stop'), '%r: %s' % (g, alone.err))
    ids = infer('run', stories(), '-p', 'Lily', '-n', '1', '--json').json()['prompt_tokens']
    check(mapped([{'prompt': ids, 'temperature': 0}, {'prompt': 'Lily', 'temperature': 0}])[0][0]['text'] ==
          infer('run', stories(), '-p', 'Lily', '--temp', '0').out.decode(), 'a prompt of tokens, and the usual number of tokens')
    talk = ('Hello', 'What is it?', 'Tell me')
    got, _ = mapped([{'messages': [{'role': 'system', 'content': 'Be kind.'}, {'role': 'user', 'content': t}], 'max_tokens': 16, 'temperature': 0, 'seed': 1}
                     for t in talk], model=chatting())
    for g, t in zip(got, talk):
        want = infer('chat', chatting(), '--system', 'Be kind.', '-p', t, '-n', '16', '--temp', '0').out.decode().rstrip('\n')
        check(g['text'].rstrip() == want.rstrip() and want, 'chat: %r, not %r' % (g, want))
    got, _ = mapped([{'messages': [{'role': 'user', 'content': 'x'}], 'temperature': 0.9, 'seed': s, 'response_format': {'type': 'json_schema',
                      'json_schema': {'name': 'n', 'schema': NUMBERS}}} for s in range(6)], model=chatting())
    check(all(set(json.loads(g['text'])) == {'n'} for g in got), 'a given form: %r' % got)


def test_map_calls():
    """Tool calls and reasoning are apart from the text, as in the server."""
    model = serve_process.model(cli.TEMP, 'calling.gguf')
    talk = {'messages': [{'role': 'user', 'content': 'Once upon a time'}], 'temperature': 0.9, 'tools': [{'type': 'function', 'function': {'name': 'count', 'parameters': NUMBERS}}]}
    got, _ = mapped([dict(talk, seed=s, tool_choice='required', parallel_tool_calls=False, reasoning_effort='none') for s in range(4)], model=model)
    for g in got:
        call = g['tool_calls'][0]
        check(len(g['tool_calls']) == 1 and call['function']['name'] == 'count' and call['id'] and set(json.loads(call['function']['arguments'])) == {'n'}, 'a call: %r' % g)
        check(g['finish_reason'] == 'tool_calls' and g['text'].strip() == '' and g['tokens'], 'and nothing else: %r' % g)
    del talk['tools']
    got, _ = mapped([dict(talk, max_tokens=20, temperature=0, chat_template_kwargs={'enable_thinking': True}), dict(talk, max_tokens=20, temperature=0)], model=model)
    check(got[0]['reasoning'] and got[0]['text'] == '' and 'reasoning' not in got[1] and got[1]['text'], 'reasoning: %r' % got)


def test_map_defaults():
    """Options are the defaults of lines; a grammar is everybody's."""
    records = [{'prompt': 'Once upon a time'}, {'prompt': 'Once upon a time', 'temperature': 0, 'max_tokens': 3}]
    got, _ = mapped(records, '-n', '9', '--temp', '0.9', '--seed', '3')
    check(got[0]['text'] == infer('run', stories(), '-p', 'Once upon a time', '-n', '9', '--temp', '0.9', '--seed', '3').out.decode(), 'options: %r' % got)
    check(len(got[1]['tokens']) == 3, 'the line: %r' % got)
    got, _ = mapped([{'prompt': 'x', 'seed': s, 'temperature': 0.9} for s in range(5)] + [{'prompt': 'x', 'grammar': 'root ::= "yes"'}], '--schema', json.dumps(NUMBERS))
    check(all(set(json.loads(g['text'])) == {'n'} for g in got[:5]) and got[5]['text'] == 'yes', 'the grammar of all: %r' % got)
    check('give one of' in infer('map', stories(), '--json-object', '--grammar', 'root ::= "a"', status=1).err, 'two grammars')
    check('--resume needs --out' in infer('map', stories(), '--resume', status=2).err, 'where to resume')
    check('another file' in infer('map', stories(), '--out', stories(), status=2).err, 'the output is the model')
    check('cannot read' in infer('map', stories(), '--in', temp('none'), status=1).err, 'no input')
    for part in ('2/2', '1', 'a/2', '1/0', '-1/2', '0/2x'):
        check('--part' in infer('map', stories(), '--part', part, status=2).err, part)
    check('none.gguf' in infer('map', temp('none.gguf'), '--out', write('kept', 'x'), status=1).err and cli.read(temp('kept')) == b'x', 'no model: the output is as it was')


def test_map_order():
    """The order of lines, or as replies come; the same ones, whatever runs beside them."""
    records = [{'id': 0, 'prompt': 'Once upon a time', 'max_tokens': 400, 'temperature': 0, 'ignore_eos': True}] + stories_of(60)
    want, _ = mapped(records)
    check([g['id'] for g in want] == [r['id'] for r in records], 'the order')
    check(mapped(records, '--parallel', '1')[0] == want, 'one at a time')
    check(mapped(records, '--parallel', '7', '--cache', '600', '--ctx', '512', '--lookup')[0] == want, 'few cells')
    free, count = mapped(records, '--unordered')
    check(count == (61, 61, 0, 0) and free[0]['id'] != 0 and free != want, 'as they come: %r' % [g['id'] for g in free])
    check(sorted(free, key=str) == sorted(want, key=str), 'the same replies')
    parts = [mapped(records, '--part', '%d/3' % k)[0] for k in range(3)]
    check([parts[i % 3][i // 3] for i in range(61)] == want, 'parts')
    named = mapped([dict(r, id=None) for r in records], '--part', '1/3')[0]
    check([g['id'] for g in named] == list(range(2, 62, 3)), 'ids of parts are numbers in the whole: %r' % [g['id'] for g in named])


BAD = [('', 'nothing'), ('{', 'column'), ('nonsense', 'column'), ('[1]', 'object'), ('3', 'object'), ('{"id": 1', 'column'), ('{"prompt": "a"} x', 'column'),
       ('{"prompt": "\\ud800\\q"}', 'column'), ('\x00', 'column'), ({'id': 1.5, 'prompt': 'x'}, "'id' must be"), ({'id': [], 'prompt': 'x'}, "'id' must be"),
       ({'id': True, 'prompt': 'x'}, "'id' must be"), ({}, "one of 'prompt' and 'messages'"), ({'prompt': 'x', 'messages': []}, "one of 'prompt'"),
       ({'prompt': 5}, "'prompt' must be"), ({'prompt': []}, "'prompt' is empty"), ({'prompt': ['a', 'b']}, "'prompt' must be a text or a list of tokens"), ({'prompt': [1, 99999999]}, "'prompt' must be"),
       ({'prompt': 'x', 'maxtokens': 5}, "unsupported parameter: 'maxtokens'"), ({'prompt': 'x', 'max_tokens': 0}, "'max_tokens'"),
       ({'prompt': 'x', 'max_tokens': 'many'}, "'max_tokens'"), ({'prompt': 'x', 'top_p': 'a'}, "'top_p'"),
       ({'prompt': 'x', 'seed': 1.5}, "'seed'"), ({'prompt': 'x', 'stop': ['']}, "'stop'"), ({'prompt': 'x', 'stop': 5}, "'stop'"), ({'prompt': 'x', 'stop': {'a': 'x'}}, "'stop'"), ({'prompt': 'x', 'n': 2}, "'n' can only be 1"),
       ({'prompt': 'x', 'stream': True}, "'stream' can only be false"), ({'prompt': 'x', 'schema': 5}, "'schema'"), ({'prompt': 'x', 'schema': {'type': 'thing'}}, "'schema'"),
       ({'prompt': 'x', 'schema': NUMBERS, 'grammar': 'root ::= "a"'}, 'another form'), ({'prompt': 'x', 'grammar': 'root ::= ('}, "'grammar'"),
       ({'prompt': 'x', 'response_format': {'type': 'xml'}}, "'response_format'"), ({'prompt': 'x', 'tools': []}, "'tools' needs 'messages'"),
       ({'prompt': 'word ' * 3000}, 'positions'), ({'messages': [{'role': 'user', 'content': 'x'}]}, 'chat template'), ({'messages': 'x'}, "'messages' must be"),
       ({'prompt': 'x', 'logit_bias': {'a': 1}}, "'logit_bias'"), ({'prompt': 'x', 'stop_token_ids': [99999999]}, "'stop_token_ids'"), ('[' * 5000, 'column'),
       ({'id': 'big', 'prompt': 'x' * 70000}, '--max-line')]


def test_map_bad_lines():
    """One bad line is one error, and nothing else."""
    good = {'prompt': 'Once', 'max_tokens': 3, 'temperature': 0}
    records = []
    for i, (bad, _) in enumerate(BAD):
        records += [bad, dict(good, id='good %d' % i)]
    got, count = mapped(records, '--max-line', '64k', status=1)
    check(count == (2 * len(BAD) - 1, len(BAD), len(BAD) - 1, 0), 'counts: %r' % (count,))
    check([g['id'] for g in got if 'error' not in g] == ['good %d' % i for i in range(len(BAD))], 'good lines')
    errors = {g['line']: g for g in got if 'error' in g}
    for i, (bad, why) in enumerate(BAD[1:], 1):
        g = errors[2 * i + 1]
        check(why in g['error'] and set(g) == {'id', 'line', 'error'}, '%.60r: %r, not %r' % (bad, g, why))
        known = isinstance(bad, dict) and len(str(bad)) < 60000 and "'id'" not in why
        check(g['id'] == (2 * i + 1 if known else None), '%.60r: the id %r' % (bad, g['id']))
    check(mapped(records, '--allow-failed', '--max-line', '64k')[0] == got, 'exit status 0 on demand')
    got, count = mapped([dict(good, id=1), dict(good, id='1'), dict(good, id=1), dict(good), dict(good, id=4), dict(good, id='a'), dict(good, id='\u0061')], status=1)
    check([g['id'] for g in got] == [1, '1', None, 4, None, 'a', None] and count == (7, 4, 3, 0), 'ids that come twice: %r' % got)
    check(got[2]['line'] == 3 and 'the id 1' in got[2]['error'] and 'the id "a"' in got[6]['error'], 'and what is said: %r' % got)
    raw = b'\xef\xbb\xbf{"id": "bom", "prompt": "Once", "max_tokens": 1}\r\n\r\n \t\n{"id": "\xff", "prompt": "x"}\n{"id": "last", "prompt": "Once", "max_tokens": 1}'
    done = infer('map', stories(), stdin=raw, status=1)
    check([g['id'] for g in parse(done.out)] == ['bom', None, 'last'] and counts(done.err) == (3, 2, 1, 0), 'bytes: %r' % done.out)
    check(infer('map', stories()).out == b'' and counts(infer('map', stories()).err) == (0, 0, 0, 0), 'no lines')


def test_map_random_lines():
    """Lines with random damage: one line out for each that is not blank, in order."""
    rng = random.Random(int(os.environ.get('SEED', '1')))
    seeds = [json.dumps(r).encode() for r in stories_of(40, 4) + [b for b, _ in BAD if isinstance(b, dict) and len(str(b)) < 500]] + \
        [json.dumps({'id': 'c', 'messages': [{'role': 'user', 'content': [{'type': 'text', 'text': 'x'}, {'type': 'image_url', 'image_url': {'url': 'data:image/png;base64,AAAA'}}]}],
                     'max_tokens': 2, 'chat_template_kwargs': {'a': 1}, 'tools': [{'type': 'function', 'function': {'name': 'f', 'parameters': NUMBERS}}]}).encode()]
    lines = []
    for i in range(int(os.environ.get('LINES', '1500'))):
        line = bytearray(rng.choice(seeds))
        for _ in range(rng.choice((0, 1, 1, 2, 5))):
            at = rng.randrange(len(line) + 1)
            kind = rng.randrange(4)
            if kind == 0:
                line[at:at + 1] = bytes([rng.randrange(256)])
            elif kind == 1:
                del line[at:at + rng.randrange(1, 9)]
            elif kind == 2:
                line[at:at] = rng.choice((b'"', b'{', b']', b'\\u', b'-1e999', b'null', b'\0', b'99999999999999999999'))
            else:
                other = rng.choice(seeds)
                line[at:] = other[rng.randrange(len(other)):]
        lines.append(bytes(line).replace(b'\n', b' '))
    write('random.jsonl', b'\n'.join(lines) + b'\n')
    done = infer('map', chatting(), '--in', temp('random.jsonl'), '--allow-failed', '-n', '3')
    got = parse(done.out)
    count = counts(done.err)
    there = [i + 1 for i, line in enumerate(lines) if line.strip(b' \t\r')]
    check(len(got) == len(there) == count[0] and count[1] > 50 and count[2] > 50, '%d lines, not %d: %r' % (len(got), len(there), count))
    check([g['line'] for g in got if 'line' in g] == [n for n, g in zip(there, got) if 'line' in g], 'the order')
    free = parse(infer('map', chatting(), '--in', temp('random.jsonl'), '--allow-failed', '-n', '3', '--unordered').out)
    check(len(free) == len(got) and sorted(g['line'] for g in free if 'line' in g) == sorted(g['line'] for g in got if 'line' in g), 'without an order')


# ---- runs that end early ---------------------------------------------------------------------------------------------

def start(*options, **how):
    return subprocess.Popen([cli.INFER, 'map', stories()] + [str(o) for o in options], stderr=subprocess.PIPE, **how)


def kill_after(out, size, process, how):
    """Sends the signal when the file has this size."""
    until = time.time() + 60
    while process.poll() is None and time.time() < until and (os.path.getsize(out) if os.path.exists(out) else 0) < size:
        time.sleep(0.002)
    process.send_signal(how)
    err = process.communicate()[1].decode()
    return process.returncode, err


def test_map_resume():
    """Killed at random moments and resumed: the same bytes as without; and a last line cut at any byte."""
    rng = random.Random(int(os.environ.get('SEED', '1')))
    records = stories_of(220, 30) + ['bad', {'id': 'x', 'prompt': 5}, {'prompt': 'Once', 'max_tokens': 4, 'temperature': 0}, {'id': 'line 3', 'prompt': 'twice'}]
    source, whole, out = write('resume.jsonl', lines_of(records)), temp('whole.jsonl'), temp('resumed.jsonl')
    check(counts(infer('map', stories(), '--in', source, '--out', whole, status=1).err) == (224, 221, 3, 0), 'the whole')
    want = cli.read(whole)
    check([g['id'] for g in parse(want)][-4:] == [None, 'x', 223, None], 'its end')
    kills = 0
    for _ in range(40):
        have = os.path.getsize(out) if os.path.exists(out) else 0
        p = start('--in', source, '--out', out, '--resume')
        if kill_after(out, have + rng.randrange(1, len(want) // 5), p, signal.SIGKILL)[0] >= 0:
            break
        kills += 1
        check(want.startswith(cli.read(out)[:cli.read(out).rfind(b'\n') + 1]), 'kill %d: not a beginning' % kills)
        if rng.random() < 0.5: # as if the last write had been cut
            os.truncate(out, max(os.path.getsize(out) - rng.randrange(3), 0))
    check(kills >= 3, 'only %d kills' % kills)
    check(cli.read(out) == want, 'the bytes after %d kills' % kills)
    done = infer('map', stories(), '--in', source, '--out', out, '--resume', status=1)
    check(counts(done.err) == (224, 0, 0, 224) and '(3 of them failed)' in done.err and cli.read(out) == want, 'nothing is left: %s' % done.err)
    ends = [i + 1 for i, c in enumerate(want) if c == 10]
    for cut in [0, 1, ends[3] - 1, ends[3], ends[3] + 1, ends[-2], ends[-1] - 1] + [rng.randrange(len(want)) for _ in range(4)]:
        write('resumed.jsonl', want[:cut])
        done = infer('map', stories(), '--in', source, '--out', out, '--resume', status=1)
        check(cli.read(out) == want and counts(done.err)[3] == want[:cut].count(b'\n'), 'cut at %d: %s' % (cut, done.err))
    free = parse(want)
    rng.shuffle(free)
    write('resumed.jsonl', lines_of(free[:100]))
    infer('map', stories(), '--in', source, '--out', out, '--resume', '--unordered', status=1)
    check(sorted(map(str, parse(cli.read(out)))) == sorted(map(str, parse(want))), 'whatever the order')
    for wrong in (b'nonsense\n', b'{"id": 1.5}\n', b'{}\n', b'\n', b'{"id": null, "line": "a"}\n'):
        write('resumed.jsonl', lines_of(free[:2]) + wrong + lines_of(free[2:4]))
        before = cli.read(out)
        check('line 3 of' in infer('map', stories(), '--in', source, '--out', out, '--resume', status=1).err and cli.read(out) == before, 'no output of ours: %r' % wrong)


def test_map_signals():
    """SIGTERM and Ctrl-C: whole lines, in order, and the rest by --resume; a second signal ends replies that run."""
    records = stories_of(400, 30)
    source, out = write('signals.jsonl', lines_of(records)), temp('signals.out')
    want = infer('map', stories(), '--in', source).out
    for how in (signal.SIGTERM, signal.SIGINT):
        if os.path.exists(out):
            os.remove(out)
        p = start('--in', source, '--out', out)
        status, err = kill_after(out, 3000, p, how)
        check(status == 130 and 'interrupted; ' in err and len(err.splitlines()) == 1, '%d: %s' % (status, err))
        part = cli.read(out)
        check(want.startswith(part) and 0 < counts(err)[0] == part.count(b'\n') < 400, 'a beginning of whole lines: %s' % err)
        infer('map', stories(), '--in', source, '--out', out, '--resume')
        check(cli.read(out) == want, 'resumed')
    endless = lines_of([{'id': i, 'prompt': 'Once', 'ignore_eos': True, 'max_tokens': 1900, 'logit_bias': {'1': -100}} for i in range(64)])
    p = start('--grace', '60', stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    p.stdin.write(endless) # the input stays open: the thread that reads waits
    p.stdin.flush()
    time.sleep(0.3)
    began = time.time()
    p.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    p.send_signal(signal.SIGTERM)
    data, err = p.stdout.read(), p.stderr.read().decode()
    check(p.wait() == 130 and time.time() - began < 20 and 'interrupted' in err, 'at once: %s' % err)
    parse(data)
    p.stdin.close()
    p = start('--grace', '0', stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    p.stdin.write(endless)
    p.stdin.flush()
    time.sleep(0.3)
    p.send_signal(signal.SIGTERM)
    check(p.wait(20) == 130, 'no grace')
    p.stdin.close()
    p.stdout.close()
    p.stderr.close()


def test_map_flow():
    """A reply is there when its line is complete, before the next line; a reader that has gone is an error."""
    p = start(stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    for i in range(3):
        p.stdin.write(lines_of([{'id': i, 'prompt': 'Once', 'max_tokens': 2}]))
        p.stdin.flush()
        check(json.loads(p.stdout.readline())['id'] == i, 'reply %d' % i)
    p.stdin.close()
    check(p.wait(20) == 0 and p.stdout.read() == b'', 'the end')
    p.stdout.close()
    p.stderr.close()
    source = write('gone.jsonl', lines_of(stories_of(3000, 5)))
    p = start('--in', source, stdout=subprocess.PIPE)
    p.stdout.readline()
    p.stdout.close()
    err = p.stderr.read().decode()
    check(p.wait(30) == 1 and 'cannot write to stdout' in err and len(err.splitlines()) == 1, 'SIGPIPE: %d, %r' % (p.returncode, err))
    p.stderr.close()
    if os.path.exists('/dev/full'):
        check('cannot write /dev/full' in infer('map', stories(), '--in', source, '--out', '/dev/full', status=1).err, 'a full disk')
    check('to its end' in infer('map', stories(), '--in', cli.TEMP, status=1).err, 'a folder')


def peak(process):
    with open('/proc/%d/status' % process.pid) as f:
        return int(re.search(r'VmHWM:\s+(\d+)', f.read()).group(1)) * 1024


def test_map_memory():
    """10^5 lines in bounded memory; without a reader the writer waits; long lines are not kept."""
    if not os.path.exists('/proc/self/status'):
        raise cli.Skipped('there is no /proc')
    p = start('--allow-failed', stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    peaks = []

    def feed():
        for i in range(100000):
            record = {'id': i, 'prompt' if i % 16 == 0 else 'prompts': 'Once', 'max_tokens': 2, 'user': 'x' * 1500}
            p.stdin.write((json.dumps(record) + '\n').encode())
            if i in (10000, 99999):
                peaks.append(peak(p))
        p.stdin.close()
    thread = threading.Thread(target=feed)
    thread.start()
    got = sum(json.loads(line)['id'] == i for i, line in enumerate(p.stdout))
    thread.join()
    err = p.stderr.read().decode()
    check(p.wait(30) == 0 and got == 100000 and counts(err) == (100000, 6250, 93750, 0), 'lines: %d, %s' % (got, err))
    check(peaks[1] - peaks[0] < 20 << 20 and peaks[1] < 250 << 20, 'bytes at the beginning and at the end: %r' % peaks)
    p.stdout.close()
    p.stderr.close()

    p = start('--max-line', '1M', stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    os.set_blocking(p.stdin.fileno(), False)
    line, sent, last = (json.dumps({'prompt': 'Once', 'max_tokens': 60, 'temperature': 0, 'user': 'x' * 20000}) + '\n').encode(), 0, time.time()
    while time.time() - last < 1.5: # nobody reads the replies
        try:
            k = os.write(p.stdin.fileno(), line[sent % len(line):])
            sent, last = sent + k, time.time() if k else last
        except BlockingIOError:
            time.sleep(0.01)
        check(sent < 16 << 20, 'it reads on without a reader: %d' % sent)
    check(sent > 1 << 20 and peak(p) < 250 << 20, 'bytes taken: %d' % sent)
    p.kill()
    p.communicate()

    p = start('--max-line', '1M', '--allow-failed', stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    for _ in range(200):
        p.stdin.write(b'x' * (1 << 20))
    p.stdin.write(b'\n' + lines_of([{'id': 'after', 'prompt': 'Once', 'max_tokens': 1}]))
    p.stdin.flush()
    check('--max-line' in json.loads(p.stdout.readline())['error'] and json.loads(p.stdout.readline())['id'] == 'after', 'a line of 200 MB')
    check(peak(p) < 150 << 20, 'its memory: %d' % peak(p))
    p.communicate()


# ---- vectors ---------------------------------------------------------------------------------------------------------

def test_map_embed():
    """The vectors of `infer embed`, resumed too."""
    texts = ['Once upon a time', 'Lily', 'a b c', 'word ' * 40] * 30
    source = write('texts.jsonl', lines_of([{'id': 't%d' % i, 'text': t} for i, t in enumerate(texts)]))
    want = [json.loads(line)['embedding'] for line in
            infer('embed', stories(), '--jsonl', '--texts', write('texts.txt', '\n'.join(texts[:4]) + '\n')).out.decode().splitlines()]
    out = temp('vectors.jsonl')
    done = infer('map', stories(), '--embed', '--in', source, '--out', out)
    got = parse(cli.read(out))
    check(counts(done.err) == (120, 120, 0, 0) and [g['id'] for g in got] == ['t%d' % i for i in range(120)], 'order: %s' % done.err)
    check(all(g['embedding'] == want[i % 4] for i, g in enumerate(got)), 'vectors')
    whole = cli.read(out)
    write('vectors.jsonl', whole[:len(whole) // 2])
    infer('map', stories(), '--embed', '--in', source, '--out', out, '--resume')
    check(cli.read(out) == whole, 'resumed')
    got, count = mapped([{'text': 'x'}, {'text': 5}, {'id': 'p', 'prompt': 'x'}, 'bad', {}, {'id': 'long', 'text': 'word ' * 9000}, {'text': 'x'}], '--embed', status=1)
    check([g.get('error', '')[:16] for g in got] == ['', "'text' must be a", "unsupported para", 'JSON, line 1 col', "'text' is missin", got[5]['error'][:16], ''], 'errors: %r' % got)
    check(got[5]['id'] == 'long' and got[5]['error'].startswith('the text has') and count == (7, 2, 5, 0), 'a long text: %r' % got[5])
    check(got[0]['embedding'] == got[6]['embedding'] and got[0]['usage'] == {'prompt_tokens': 3}, 'beside errors')


# ---- on many machines ------------------------------------------------------------------------------------------------

KILLER = '''#!%s
"""In place of infer: the first of these processes, and of those for part 1 if there are parts, is killed after some replies."""
import os, subprocess, sys
args, mark, infer = sys.argv[1:], os.environ['KILL_MARK'], os.environ['KILL_INFER']
part = args[args.index('--part') + 1] if '--part' in args else '1/'
try:
    victim = part.startswith('1/') and os.open(mark, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
except FileExistsError:
    victim = None
if not victim:
    os.execv(infer, [infer] + args)
out = args[args.index('--out') + 1] if '--out' in args else None
p = subprocess.Popen([infer] + args, stdout=subprocess.PIPE)
for i, line in enumerate(p.stdout if out is None else iter(lambda: open(out, 'rb').read() if os.path.exists(out) else b'', None)):
    if out is None:
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
    if p.poll() is not None or (i >= 3 if out is None else line.count(b'\\n') >= 3):
        break
early = p.poll() is None
p.kill()
p.wait()
os.write(victim, b'killed' if early else b'late')
sys.exit(137)
'''


def killer(name):
    """The environment of a script whose infer is killed once."""
    path = write(name + '-killer.py', KILLER % sys.executable)
    os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
    return dict(os.environ, INFER=path, KILL_INFER=cli.INFER, KILL_MARK=temp(name + '-mark'))


def each_once(name, records, data):
    """Every id once, with the replies of a single process; a process was killed meanwhile."""
    check(cli.read(temp(name + '-mark')) == b'killed', 'nothing was killed: %r' % cli.read(temp(name + '-mark')))
    want = {g['id']: g for g in mapped(records)[0]}
    got = parse(data)
    ids = [g['id'] for g in got]
    check(len(ids) == len(set(ids)) and set(ids) == set(want), '%d ids, %d of them different, of %d' % (len(ids), len(set(ids)), len(want)))
    check(all(g == want[g['id']] for g in got), 'other replies')


def test_map_spark():
    """Spark in local mode, 4 tasks, one of which dies."""
    if importlib.util.find_spec('pyspark') is None or not shutil.which('java'):
        raise cli.Skipped('pyspark or java is not installed')
    records = stories_of(800, 40)
    env = killer('spark')
    env.update(PYSPARK_SUBMIT_ARGS='--master local[4,3] --conf spark.ui.enabled=false --driver-memory 512m pyspark-shell', SPARK_LOCAL_IP='127.0.0.1',
               PYSPARK_PYTHON=sys.executable, PYTHONDONTWRITEBYTECODE='1')
    done = subprocess.run([sys.executable, os.path.join(CLUSTER, 'spark_map.py'), stories(), write('spark.jsonl', lines_of(records)), temp('spark-out'), '4', '-t', '1'],
                          env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=cli.TEMP, timeout=300)
    check(done.returncode == 0 and os.path.exists(temp('spark-out/_SUCCESS')), 'Spark: %s' % done.stdout.decode()[-1500:])
    parts = sorted(glob.glob(temp('spark-out/part-*')))
    check(len(parts) == 4 and all(os.path.getsize(p) for p in parts), 'parts: %r' % parts)
    each_once('spark', records, b''.join(cli.read(p) for p in parts))


def test_map_parallel():
    """GNU parallel, 4 processes, one of which dies and is tried again."""
    if not shutil.which('parallel'):
        raise cli.Skipped('GNU parallel is not installed')
    records = stories_of(400, 40)
    env = killer('parallel')
    env['PARALLEL_HOME'] = temp('parallel-home')
    done = subprocess.run(['sh', os.path.join(CLUSTER, 'parallel.sh'), stories(), write('parallel.jsonl', lines_of(records)), temp('parallel'), '4', '-j', '4', '--will-cite'],
                          env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
    check(done.returncode == 0, 'parallel: %s' % done.stderr.decode()[-600:])
    each_once('parallel', records, b''.join(cli.read(temp('parallel.%d.jsonl' % k)) for k in range(4)))


def test_map_slurm():
    """The script of array tasks, as Slurm starts it; one is killed and requeued."""
    if not shutil.which('bash'):
        raise cli.Skipped('there is no bash')
    records = stories_of(200, 40)
    env = dict(killer('slurm'), MODEL=stories(), IN=write('slurm.jsonl', lines_of(records)), OUT=temp('slurm'), SLURM_ARRAY_TASK_COUNT='3', SLURM_CPUS_PER_TASK='1')
    codes = [subprocess.run(['bash', os.path.join(CLUSTER, 'slurm.sh')], env=dict(env, SLURM_ARRAY_TASK_ID=str(k)), stderr=subprocess.PIPE).returncode
             for k in (0, 1, 2, 1)]
    check(codes == [0, 137, 0, 0], 'exit status: %r' % codes)
    each_once('slurm', records, b''.join(cli.read(temp('slurm.%d.jsonl' % k)) for k in range(3)))
    with open(os.path.join(CLUSTER, 'kubernetes.yaml')) as f: # and the options of the other scripts are there
        command = re.search(r'command: \[infer, (map.*?)\]\n', f.read(), re.S).group(1)
    words = [w.strip().strip('"') for w in command.replace('$(JOB_COMPLETION_INDEX)', '0').split(',')]
    there = {'/data/model.gguf': stories(), '/data/in.jsonl': env['IN'], '/data/out.0.jsonl': temp('out.0.jsonl')}
    words = [there.get(w, w) for w in words]
    check(counts(infer(*words).err) == (25, 25, 0, 0), 'the command of kubernetes.yaml')


def all_tests():
    return cli.tests_in(globals())


if __name__ == '__main__':
    cli.main(all_tests, __doc__)
