#!/usr/bin/env python3
"""Tests of `infer template`, from outside: python3 tests/cli/test_template.py build/infer [WORD...]

Recorded references are looked for in the folder that INFER_TEST_DATA names; random templates are compared with Jinja2 where
python3-jinja2 is installed (INFER_TEMPLATES=N of them, 150 by default; INFER_SEED=S). Tests that lack what they need are
skipped by name, which INFER_TEST_NO_SKIP=1 turns into failures. The last line is "N passed, N failed, N skipped".
"""
import json
import os
import random
import subprocess
import sys
import tempfile
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, HERE)
import template_gen

INFER = None
TEMP = None
NOW = '2024-07-26 00:00:00'


class Skip(Exception):
    pass


def write(name, data):
    path = os.path.join(TEMP, name)
    with open(path, 'w', encoding='utf-8', newline='') as f:
        f.write(data)
    return path


def render(template, context, *more):
    """(exit status, stdout, stderr) of a template given as a text, with a context given as a value."""
    template, context = write('t.jinja', template), write('c.json', json.dumps(context))
    return run(template, context, *more)


def run(template, context, *more):
    p = subprocess.run([INFER, 'template', template, '--context', context, '--now', NOW] + list(more), capture_output=True, timeout=60)
    return p.returncode, p.stdout.decode(), p.stderr.decode()


def agrees(got, want):
    status, out, err = got
    if want[0] == 'text':
        return status == 0 and out == want[1]
    return status == 1 and out == '' and (want[0] == 'error' or err.endswith(': %s\n' % want[1][:480]))


def folder():
    path = os.environ.get('INFER_TEST_DATA')
    if not path or not os.path.isdir(os.path.join(path, 'chat-templates')):
        raise Skip('needs INFER_TEST_DATA: chat-templates')
    return os.path.join(path, 'chat-templates')


def lines(path):
    with open(path, encoding='utf-8') as f:
        return [json.loads(line) for line in f if line.strip()]


def test_prints_the_text_alone():
    assert render('a{{ x }}\n\n', {'x': 1}) == (0, 'a1\n', '')


def test_raised_text_is_the_error():
    status, out, err = render("{{ raise_exception('No \"tool\" role') }}", {})
    assert (status, out) == (1, '') and err == 'infer template: No "tool" role\n', err


def test_errors_have_a_place():
    status, out, err = render('a\n{{ x.y }}', {})
    assert status == 1 and 'line 2 column 5' in err and "'x' is undefined" in err, err


def test_segments():
    status, out, err = render('<s>{{ m }}{{ b }}', {'m': '<s>'}, '--json', '--trusted', write('b.json', '{"b": "</s>"}'))
    assert json.loads(out)['segments'] == [
        {'from_message': False, 'text': '<s>'}, {'from_message': True, 'text': '<s>'}, {'from_message': False, 'text': '</s>'}], out


def test_wrong_use():
    assert subprocess.run([INFER, 'template', 'x'], capture_output=True).returncode == 2
    assert run(os.path.join(TEMP, 'none'), write('c.json', '{}'))[0] == 1
    assert run(write('t.jinja', ''), write('c.json', '[1'))[0] == 1
    assert run(write('t.jinja', ''), write('c.json', '[1]'))[0] == 1
    assert subprocess.run([INFER, 'template', write('t.jinja', "{{ strftime_now('%Y') }}"), '--context', write('c.json', '{}'), '--now',
                           'today'], capture_output=True).returncode == 1


def test_hostile_templates_end():
    for text in ["{{ 'x' * 10**9 }}", '{{ range(10**9) }}', '{{ 9 ** 10**9 }}', '{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}',
                 '{% set r = range(99999) %}{% for a in r %}{% for b in r %}{% endfor %}{% endfor %}', '{{ ' + '(' * 100000]:
        status, out, err = render(text, {})
        assert (status, out) == (1, '') and err.startswith('infer template: '), (text[:60], status, err)


def test_chat_templates():
    where, n = folder(), 0
    for x in lines(os.path.join(where, 'cases.jsonl')):
        got = run(os.path.join(where, 'templates', x['template']), os.path.join(where, 'contexts', x['context'] + '.json'))
        assert agrees(got, ('text', x['expected']) if 'expected' in x else ('raised', x['error'])), (x['template'], x['context'], got)
        n += 1
    assert n > 300


def test_inline_cases():
    for x in lines(os.path.join(folder(), 'inline-cases.jsonl')):
        if 'jinja2' not in x and 'jinja2_error' not in x:
            continue  # recorded for other engines only
        want = ('text', x['jinja2']) if 'jinja2' in x else ('raised', x['jinja2_error'])
        got = render(x['template'], {k: x[k] for k in ('messages', 'add_generation_prompt', 'bos_token', 'eos_token')})
        assert agrees(got, want), (x['name'], got)


def test_language_cases():
    for x in lines(os.path.join(folder(), 'jinja-syntax.jsonl')):
        got = render(x['template'], x['context'])
        assert agrees(got, ('text', x['expected'])), (x['name'], got)


def test_random_templates():
    try:
        env = template_gen.environment()
    except ImportError:
        raise Skip('needs python3-jinja2')
    warnings.simplefilter('ignore')
    seed = int(os.environ.get('INFER_SEED', '1'))
    r, compared = random.Random(seed), 0
    for i in range(int(os.environ.get('INFER_TEMPLATES', '150'))):
        template = template_gen.case(r)
        want = template_gen.expected(env, template, template_gen.CONTEXT)
        got = render(template, template_gen.CONTEXT)
        if not template_gen.comparable(template, want, got[2] if got[0] else None):
            continue
        compared += 1
        assert agrees(got, want), 'seed %d, template %d: %r\n  infer: %r\n  Jinja2: %r' % (seed, i, template, got, want)
    assert compared > 50


def main():
    global INFER, TEMP
    INFER, words = os.path.abspath(sys.argv[1]), sys.argv[2:]
    passed = failed = skipped = 0
    with tempfile.TemporaryDirectory() as TEMP:
        for name, test in [(n, f) for n, f in globals().items() if n.startswith('test_')]:
            if words and not any(w in name for w in words):
                continue
            try:
                test()
                passed += 1
            except Skip as e:
                if os.environ.get('INFER_TEST_NO_SKIP') == '1':
                    failed += 1
                    print('FAILED %s: %s' % (name, e))
                else:
                    skipped += 1
                    print('skipped %s: %s' % (name, e))
            except Exception as e:
                failed += 1
                print('FAILED %s: %s: %s' % (name, type(e).__name__, str(e)[:1500]))
    print('%d passed, %d failed, %d skipped' % (passed, failed, skipped))
    return failed != 0


if __name__ == '__main__':
    sys.exit(main())
