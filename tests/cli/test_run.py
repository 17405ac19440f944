#!/usr/bin/env python3
"""Tests of `infer run` beyond plain text: python3 tests/cli/test_run.py build/infer [WORD...]

Biases by text, what ends a text, the best of several, guidance, logprobs. The same harness as test_cli.py.
"""
import json
import math
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import test_cli as cli
from test_cli import check, infer


def stories():
    return cli.data('models', 'stories260K.F32.gguf')


def test_run_bias_text():
    """A bias for a text is one for all tokens that spell it."""
    few = ('run', stories(), '-p', 'Once upon a time', '-n', '6', '--temp', '0', '--ignore-end', '--json')
    one = infer(*few, '--logit-bias', ' there=-inf').json()
    plain = infer(*few).json()
    check(' there' in plain['text'] and ' there' not in one['text'], 'texts: %r, %r' % (plain, one))
    ids = [i for i, t in enumerate(plain['tokens']) if t not in one['tokens']]
    check(infer(*few, '--logit-bias', '%d-inf' % plain['tokens'][ids[0]]).json()['tokens'] == one['tokens'], 'by id')
    many = infer(*few, '--logit-bias', 'a=+1000').json()['text']
    check(set(many) == {'a'}, 'a text that is always chosen: %r' % many)
    check('no token spells it, it takes' in infer(*few, '--logit-bias', ' there was=1', status=1).err, 'several tokens')


def test_run_stops():
    """Tokens and times that end a text; a context that slides."""
    few = ('run', stories(), '-p', 'Once upon a time', '--temp', '0', '--ignore-end', '--json')
    plain = infer(*few, '-n', '30').json()
    cut = infer(*few, '-n', '30', '--stop-token', '1', '--stop-token', plain['tokens'][5])
    check(cut.json()['tokens'] == plain['tokens'][:plain['tokens'].index(plain['tokens'][5])], 'tokens: %r' % cut.out)
    check('stopped by: end token' in cut.err, cut.err)
    check('one id' in infer(*few, '--stop-token', '1 2', status=1).err, 'two ids')
    check('stop_tokens[0]' in infer(*few, '--stop-token', '999999', status=1).err, 'no such token')
    late = infer(*few, '-n', '30', '--seconds', '1e-9')
    check(late.json()['tokens'] == [] and 'stopped by: time' in late.err, late.err)
    check('seconds' in infer(*few, '--seconds', '-1', status=1).err, 'a negative time')
    slid = infer(*few, '-n', '90', '--ctx', '24', '--on-full', 'slide', '--keep-first', '5').json()
    check(len(slid['tokens']) == 90, 'it does not slide: %r' % slid)
    check(len(infer(*few, '-n', '90', '--ctx', '24').json()['tokens']) == 20, 'it does not stop')
    check(infer(*few, '-n', '90', '--ctx', '24', '--on-full', 'slide', '--keep', '-1').json()['tokens'] == slid['tokens'], 'the prompt is kept')
    check('--on-full' in infer(*few, '--context-shift', status=2).err, 'a habit')


def test_run_best_of():
    """Replies of following seeds, each as alone; the likeliest is the text."""
    few = ('run', stories(), '-p', 'Once upon a time', '-n', '24', '--temp', '1.5', '--ignore-end')
    got = infer(*few, '--seed', '7', '--best-of', '4', '--json').json()
    check(len(got['replies']) == 4 and [r['seed'] for r in got['replies']] == [7, 8, 9, 10], 'replies: %r' % got)
    for one in got['replies']:
        alone = infer(*few, '--seed', one['seed'], '--json').json()
        check(alone['tokens'] == one['tokens'] and alone['text'] == one['text'], 'alone: %r, %r' % (alone, one))
    best = max(range(4), key=lambda i: got['replies'][i]['logprob'])
    check(got['best'] == best and got['text'] == got['replies'][best]['text'] and got['tokens'] == got['replies'][best]['tokens'], 'best')
    done = infer(*few, '--seed', '7', '--best-of', '4')
    check(done.out.decode('utf-8', 'replace') == got['text'] and 'the best' in done.err, 'the text alone: %r' % done.out)
    check('best' not in infer(*few, '--seed', '7', '--json').json(), 'one reply has no best')
    check('negative' in infer(*few, '--best-of', '2', '--negative-prompt', 'x', status=1).err, 'with guidance')
    for option in ('--prompt-logprobs', '--top-next'):
        check(option + ' and --best-of' in infer(*few, '--best-of', '2', option, '3', status=2).err, 'with ' + option)
    endless = infer(*few, '--seed', '7', '--best-of', '2', '-n', '-1', '--ctx', '40', '--json').json()
    check([len(r['tokens']) for r in endless['replies']] == [36, 36], 'without a limit: %r' % endless)


def test_run_guidance():
    """Scale 1 changes nothing; another does; with drafts it is refused."""
    few = ('run', stories(), '-p', 'Once upon a time', '-n', '24', '--temp', '0', '--ignore-end', '--json')
    plain = infer(*few).json()['tokens']
    negative = ('--negative-prompt', 'The dog was sad')
    check(infer(*few, *negative, '--cfg-scale', '1').json()['tokens'] == plain, 'scale 1')
    strong = infer(*few, *negative, '--cfg-scale', '3').json()['tokens']
    check(len(strong) == 24 and strong != plain, 'scale 3: %r' % strong)
    check(infer(*few, '--cfg-negative-prompt', negative[1], '--cfg-scale', '3').json()['tokens'] == strong, 'as llama.cpp spells it')
    check(infer(*few, *negative).json()['tokens'] == infer(*few, *negative, '--cfg-scale', '1.5').json()['tokens'], 'default')
    check('drafts (lookup)' in infer(*few, *negative, '--lookup', status=1).err, 'drafts')
    infer(*few, '--negative-prompt', 'x ' * 5000, status=1)


def test_run_logprobs():
    """Logprobs of a prompt and of what comes next, beside `infer logits`."""
    model = stories()
    done = infer('run', model, '-p', 'Once upon a time', '--prompt-logprobs', '3', '--top-next', '4')
    lines = [json.loads(s) for s in done.out.decode().splitlines()]
    ids = [x['token'] for x in lines[:-1]]
    check(len(lines) == 6 and [x['position'] for x in lines[:-1]] == [0, 1, 2, 3, 4], 'lines: %r' % lines)
    check(''.join(x['text'] for x in lines[1:-1]) == ' Once upon a time', 'texts')
    check(lines[0]['logprob'] is None and lines[0]['top'] == [], 'the first token')
    rows = cli.logits(model, ids)
    for i in range(1, 6):
        row = list(rows[i - 1])
        top = max(row)
        total = top + math.log(sum(math.exp(x - top) for x in row))
        order = sorted(range(len(row)), key=lambda t: (-row[t], t))
        found = lines[i]['next'] if i == 5 else lines[i]['top']
        check([x['token'] for x in found] == order[:len(found)] and len(found) == (4 if i == 5 else 3), 'order: %r' % found)
        check(all(abs(x['logprob'] - (row[x['token']] - total)) < 1e-5 for x in found), 'logprobs: %r' % found)
        check(i == 5 or abs(lines[i]['logprob'] - (row[ids[i]] - total)) < 1e-5, 'logprob: %r' % lines[i])
    alone = infer('run', model, '-p', 'Once upon a time', '--top-next', '4').out.decode().splitlines()
    check(len(alone) == 1 and json.loads(alone[0]) == lines[-1], 'next alone: %r' % alone)
    bare = infer('run', model, '-p', 'x ' * 300, '--prompt-logprobs', '0').out.decode().splitlines()
    check(len(bare) > 500 and all(json.loads(s)['top'] == [] for s in bare), 'without alternatives')
    check('vocabulary has 512' in infer('run', model, '-p', 'x', '--top-next', '513', status=1).err, 'more than there are')
    check('does not fit' in infer('run', model, '-p', 'x ' * 300, '--prompt-logprobs', '0', '--ctx', '64', status=1).err, 'too long')


def all_tests():
    return cli.tests_in(globals())


if __name__ == '__main__':
    cli.main(all_tests, __doc__)
