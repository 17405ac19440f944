#!/usr/bin/env python3
"""Tests of adapters on the command line: python3 tests/cli/test_adapters.py build/infer [WORD...]

The same harness as test_cli.py: a made model with an adapter against the forward pass in Python of one that has it in its weights.
"""
import os
import random
import struct
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import gguf_file
import reference
import test_cli as cli
from test_cli import check, infer


def test_lora_and_control():
    """--lora: logits of a file that has the adapter in its weights, computed here; --control and what is wrong."""
    path, ids, plain = cli.odd_model('llama')
    model, rng = gguf_file.Gguf(path), random.Random(3)
    pairs, changed = [], {}
    for name in ('blk.0.attn_q.weight', 'blk.1.ffn_down.weight', 'output.weight'):
        rows, rank = model.rows(name), 2
        a = [[rng.uniform(-1, 1) for _ in rows[0]] for _ in range(rank)]
        b = [[rng.uniform(-0.1, 0.1) for _ in range(rank)] for _ in rows]
        pairs += [(name + '.lora_a', [len(rows[0]), rank], 0, struct.pack('<%df' % (rank * len(rows[0])), *sum(a, []))),
                  (name + '.lora_b', [rank, len(rows)], 0, struct.pack('<%df' % (rank * len(rows)), *sum(b, [])))]
        a, b = ([struct.unpack('<%df' % len(r), struct.pack('<%df' % len(r), *r)) for r in m] for m in (a, b))
        # alpha / rank * scale = 4 / 2 * 0.5
        changed[name] = [[w + sum(y[k] * a[k][i] for k in range(rank)) for i, w in enumerate(row)] for row, y in zip(rows, b)]
    meta = {'general.architecture': 'llama', 'general.type': 'adapter', 'adapter.type': 'lora', 'adapter.lora.alpha': 4.0}
    lora, merged, control = cli.temp('some=1.lora.gguf'), cli.temp('merged.gguf'), cli.temp('control.gguf')
    gguf_file.write(lora, meta, pairs)
    gguf_file.write(merged, {}, [(n, d, 0, struct.pack('<%df' % sum(map(len, changed.get(n, model.rows(n)))), *sum(changed.get(n, model.rows(n)), [])))
                                 for n, (d, _, _) in model.tensors.items()], model.raw.values())
    want = reference.logits(merged, ids)
    cli.within(cli.logits(path, ids, '--exact', '--kv', 'f32', '--lora', lora + '=0.5'), want, 1e-9, 'lora')
    cli.within(cli.logits(path, ids, '--exact', '--kv', 'f32', '--lora', lora + '=0.25', '--lora=' + lora + '=0.25', '--batch', '7'), want, 1e-9, 'twice a half')
    cli.within(cli.logits(path, ids, '--exact', '--kv', 'f32', '--lora', lora + '=0.5', '--merge'), want, 1e-9, 'merged')
    check(reference.nmse(plain, want) > 1e-3, 'the adapter does nothing')
    width = model.tensors['token_embd.weight'][0][0]
    gguf_file.write(control, {'general.architecture': 'controlvector'}, [('direction.1', [width], 0, struct.pack('<%df' % width, *[0.5] * width))])
    base = cli.logits(path, ids, '--exact', '--kv', 'f32')
    check(cli.logits(path, ids, '--exact', '--kv', 'f32', '--control', control + '=0') == base, 'a strength of 0')
    steered = cli.logits(path, ids, '--exact', '--kv', 'f32', '--control', control + '=2')
    check(steered != base and cli.logits(path, ids, '--exact', '--kv', 'f32', '--control', control + '=2,1-1') == steered, 'layer 1')
    check(cli.logits(path, ids, '--exact', '--kv', 'f32', '--control', control + '=2,0-0') == steered, 'last layer 0 is the last one')
    out, words = cli.temp('never'), ('logits', path, '--ids', cli.write_ids('ad.ids', ids), '--out', cli.temp('never'))
    check('control vector' in infer(*words, '--lora', control, status=1).err, 'a control vector as an adapter')
    check('adapter' in infer(*words, '--control', lora, status=1).err, 'an adapter as a control vector')
    check('--merge needs --lora' in infer(*words, '--merge', status=1).err, 'nothing to merge')
    check('--control' not in infer(*words[:-1], cli.temp('steered'), '--lora', lora, '--merge', '--control', control).err, 'merged, and a control vector')
    infer(*words, '--lora', cli.temp('no-such-file.gguf'), status=1)
    infer(*words, '--lora', path, status=1)
    infer('bench', path, '-p', '8', '-n', '2', '-r', '1', '--lora', lora)
    infer('bench', path, '-p', '8', '-n', '2', '-r', '1', '--lora', lora, '--merge')
    check(not os.path.exists(out), 'something was written')


def all_tests():
    return cli.tests_in({n: f for n, f in globals().items() if n.startswith('test_')})


if __name__ == '__main__':
    cli.main(all_tests, __doc__)
