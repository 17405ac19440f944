#!/usr/bin/env python3
"""Tests of `infer bench`: python3 tests/cli/test_bench.py build/infer [WORD...]

The same harness as test_cli.py. Rates are looked at for what they have to agree with, not for how high they are.
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import test_cli as cli
from test_cli import check, data, infer, temp

BENCH_KEYS = ('model type backend threads prompt_tokens new_tokens prompt_tps tps gbs bandwidth_gbs bandwidth_share '
              'load_s first_token_s peak_rss_bytes cpu_share '
              'depth cache_gbs int8_gops bf16_gflops f32_gflops int8_by bf16_by f32_by prompt_gops prompt_peak '
              'prompt_peak_share prompts')


def test_bench():
    model = temp('bench.gguf')
    infer('synth', 'layers=2,width=128,heads=4,vocab=512', 'q8_0', model)
    done = infer('bench', model, '-p', '20', '-n', '5', '-r', '3', '-t', '2', '--json').json()
    check(sorted(done) == sorted(BENCH_KEYS.split()), 'keys: %s' % sorted(done))
    check(done['threads'] == 2 and done['prompt_tokens'] == 20 and done['new_tokens'] == 5, 'numbers given')
    check(done['model'] == 'bench.gguf' and done['type'] == 'Q8_0' and done['backend'] == 'cpu', 'names')
    for key in 'prompt_tps tps gbs bandwidth_gbs bandwidth_share load_s first_token_s peak_rss_bytes'.split():
        check(done[key] > 0, '%s is %r' % (key, done[key]))
    check(0 <= done['cpu_share'] <= 1 and done['bandwidth_gbs'] < 10000, 'shares')
    text = infer('bench', model, '-p', '8', '-n', '2', '-r', '1', '--profile').out.decode()
    check('operation' in text and 'rest' in text and 'matmul' in text, '--profile')
    rows = infer('bench', model, '-p', '8', '-n', '2', '-r', '1', '--profile', '--json').json()['profile']
    check(rows[-1]['op'] == 'rest' and all(r['seconds'] >= 0 for r in rows[:-1]), 'profile as JSON')
    infer('bench', model, '-p', '0', '-n', '3', '-r', '1', '--preload')
    infer('bench', model, '-p', '5', '-n', '0', '-r', '1')


def test_bench_embed():
    """Texts packed side by side: rates of tokens and of texts, for each length."""
    model = temp('bench.gguf')
    infer('synth', 'minilm-l6,layers=1,vocab=600', 'q8_0', model)
    done = infer('bench', model, '--embed', '3,40', '--texts', '9', '-r', '3', '--json').json()
    check([r['tokens'] for r in done['prompts']] == [3, 40] and done['new_tokens'] == 0, 'lengths: %s' % done)
    for r in done['prompts']:
        check(r['tps'] > 0 and abs(r['texts_per_s'] * r['tokens'] / r['tps'] - 1) < 1e-3, 'rates: %s' % r)
    read = [next(p['bytes'] for p in infer('bench', model, '--embed', '40', '--texts', n, '-r', '1', '--profile', '--json').json()['profile']
                 if p['op'] == 'embed') for n in (9, 18)] # rows of the embedding: of all texts
    check(read[0] > 0 and read[1] == 2 * read[0], 'bytes of embeddings: %s' % read)
    pooled = data('archs', 'gemma-embedding-real-dense.gguf') # its vectors are not as wide as its rows
    infer('bench', pooled, '--embed', '5', '--texts', '3', '-r', '1')
    text = infer('bench', model, '--embed', '3', '--texts', '9', '-r', '1', '--profile').out.decode()
    check('9 texts of 3 tokens' in text and 'attention' in text and 'generation' not in text, text)
    infer('bench', model, '--embed', '513', '-r', '1', status=1)
    infer('bench', model, '--embed', '3,x', status=2)
    for other in ('-d', '-p', '-n'):
        infer('bench', model, '--embed', '3', other, '5', status=2)
    infer('bench', model, '--texts', '3', status=2)


def test_bench_requests():
    """Many requests at a time, through a queue."""
    model = temp('bench.gguf')
    infer('synth', 'layers=2,width=64,heads=4,kv_heads=2,ffn=96,vocab=300', 'q8_0', model)
    done = infer('bench', model, '--requests', '1,5', '-p', '20', '-n', '7', '-r', '2', '--json').json()
    check([r['requests'] for r in done['requests']] == [1, 5] and done['prompt_tokens'] == 20, 'requests: %s' % done)
    for r in done['requests']:
        check(0 < r['first_token_s'] < r['seconds'] and abs(r['new_tps'] * 27 / 7 / r['tps'] - 1) < 1e-3, 'rates: %s' % r)
    check('5 of 128 + 2 tokens' in infer('bench', model, '--requests', '5', '-n', '2', '-r', '1').out.decode(), 'text')
    for wrong in (['0'], ['2', '-p', '3,4'], ['2', '-n', '0'], ['2', '-d', '3'], ['2', '--embed', '3'], ['x']):
        infer('bench', model, '--requests', *wrong, status=2)


def test_bench_peaks():
    """What a prompt is measured against: operations counted from the file, by the peak of its type and level."""
    model = temp('bench.gguf')
    shape = 'layers=2,width=128,heads=4,kv_heads=2,ffn=256,vocab=512,tied=1'
    macs, head = 2 * (2 * 128 * 128 + 2 * 128 * 64 + 3 * 128 * 256), 128 * 512
    for kind, extra, peak in (('q8_0', [], 'int8'), ('f16', [], 'f32'), ('f32', [], 'f32'), ('q4_0', ['--exact'], 'f32'),
                              ('bf16', ['--cpu-level', 'scalar'], 'f32'), ('bf16', [], None)):
        infer('synth', shape, kind, model)
        done = infer('bench', model, '-p', '6,20', '-n', '2', '-r', '1', '-t', '1', '-d', '33', '--json', *extra).json()
        rows = done['prompts']
        check([r['tokens'] for r in rows] == [6, 20] and done['depth'] == 33 and done['cache_gbs'] > 0, 'lengths: %s' % done)
        check(done['prompt_tps'] == rows[1]['tps'] and done['prompt_gops'] == rows[1]['gops'], 'the last length')
        for r in rows:
            want = 2e-9 * (macs * r['tokens'] + head) * r['tps'] / r['tokens']
            check(abs(r['gops'] / want - 1) < 0.01, '%d tokens: %g G operations/s, not %g' % (r['tokens'], r['gops'], want))
        check(done['int8_gops'] > 0 and done['f32_gflops'] > 0 and done['int8_by'] and done['f32_by'], 'peaks: %s' % done)
        check((done['bf16_gflops'] > 0) == (done['bf16_by'] != ''), 'bf16: %s' % done)
        check(done['prompt_peak'] == (peak or ('bf16' if done['bf16_gflops'] > 0 else 'f32')), '%s: %s' % (kind, done))
        limit = done[{'int8': 'int8_gops', 'bf16': 'bf16_gflops', 'f32': 'f32_gflops'}[done['prompt_peak']]]
        off = 0.003 + 0.005 / limit # the peak is printed with two decimals, and is small where others have the processor
        check(abs(done['prompt_peak_share'] - done['prompt_gops'] / limit) < off * max(1, done['prompt_peak_share']), 'share of the peak: %s' % done)
        if extra[:1] == ['--cpu-level']:
            check(done['int8_by'] == done['f32_by'] == 'plain C' and done['bf16_gflops'] == 0, 'scalar: %s' % done)
    infer('synth', 'arch=qwen3moe,layers=1,width=64,heads=2,ffn=64,expert_ffn=32,experts=4,experts_used=2,vocab=300,tied=1', 'f32', model)
    done = infer('bench', model, '-p', '10', '-n', '0', '-r', '1', '-t', '1', '--json').json()
    want = 2e-9 * ((4 * 64 * 64 + 4 * 64 + 2 * 3 * 64 * 32) * 10 + 64 * 300) * done['prompt_tps'] / 10
    check(abs(done['prompt_gops'] / want - 1) < 0.01, 'experts: %g, not %g' % (done['prompt_gops'], want))
    for words in (['-p', ''], ['-p', '4,'], ['-p', '4,x'], ['-p', '-1'], ['-p', ','.join('1' * 17)], ['-d', '-1']):
        infer('bench', model, '-n', '0', *words, status=2)


def test_bench_drafts():
    """A generation with drafts beside one without: the same tokens, how many were right."""
    model, text = data('models', 'stories260K.F32.gguf'), temp('text')
    with open(text, 'w') as f:
        f.write('One day, a cat and a dog went to the park. ' * 6)
    for drafts in (['--lookup'], ['--draft', model], ['--lookup', '--draft', model]):
        done = infer('bench', model, *drafts, '--text', text, '-n', '40', '-r', '2', '--json').json()
        check(done['same'] and done['new_tokens'] == 40 and done['prompt_tokens'] > 60, 'generation: %s' % done)
        check(0 < done['accepted'] <= done['drafted'] and abs(done['accepted_length'] * (40 - done['accepted']) - 40) < 1e-2, 'drafts: %s' % done)
        check(abs(done['gain'] * done['tps'] / done['draft_tps'] - 1) < 1e-2, 'rates: %s' % done)
    check('the same tokens' in infer('bench', model, '--lookup', '-p', '64', '-n', '20', '-r', '1').out.decode(), 'text')
    for wrong in (['--text', text], ['--lookup', '-p', '3,4'], ['--lookup', '-n', '0'], ['--lookup', '-d', '3'], ['--lookup', '--requests', '2']):
        infer('bench', model, *wrong, status=2)
    infer('bench', model, '--draft', temp('none'), status=1)
    predicts = data('archs', 'glm4moe-nextn-moe.gguf')
    done = infer('bench', predicts, '--mtp', '-p', '20', '-n', '30', '-r', '1', '--exact', '--json').json()
    check(done['same'] and done['new_tokens'] == 30 and done['drafted'] > 5, 'the block of the model: %s' % done)
    failed = infer('bench', model, '--mtp', '-p', '20', '-n', '5', status=1)
    check('no block that predicts' in failed.err, 'a model without: %s' % failed.err)
    failed = infer('run', model, '-p', 'Once', '--mtp', status=1)
    check('no block that predicts' in failed.err, 'run: %s' % failed.err)


if __name__ == '__main__':
    cli.main(lambda: cli.tests_in(globals()), __doc__)
