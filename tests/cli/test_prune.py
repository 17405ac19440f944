#!/usr/bin/env python3
"""Tests of `infer quantize --prune-layers`: python3 tests/cli/test_prune.py build/infer [WORD...]

The pruned file must be that which is made of a file whose layers were taken out here, by gguf_file.py alone. For models without keys by
layer llama-quantize (llama-cpp-python 0.3.36) writes the same keys, names and shapes. The same harness as test_cli.py.
"""
import os
import re
import struct
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import gguf_file
import test_cli as cli
import test_convert
from test_cli import check, infer, read, temp
from test_quantize import floats, made, matrix_file

BY_LAYER = ('attention.head_count', 'attention.head_count_kv', 'feed_forward_length', 'attention.sliding_window_pattern', 'attention.compress_ratios', 'swiglu_clamp_exp',
            'attention.recurrent_layers', 'xielu.alpha_n', 'xielu.alpha_p', 'xielu.beta', 'xielu.eps')
LISTS = ('attention.global_layers', 'mamba_layers')


def new_name(name, gone):
    """None: it goes."""
    found = re.match(r'blk\.(\d+)\.(.*)', name)
    if not found:
        return name
    layer = int(found[1])
    return None if layer in gone else 'blk.%d.%s' % (layer - sum(g < layer for g in gone), found[2])


def tensor_bytes(g):
    """Of each tensor; the padding after it counts as its own."""
    at = sorted([v[2] for v in g.tensors.values()] + [len(g.data) - g.start])
    return {name: g.data[g.start + v[2]:g.start + at[at.index(v[2]) + 1]] for name, v in g.tensors.items()}


def taken_out(path, out, gone):
    """The model without these layers."""
    g = gguf_file.Gguf(path)
    arch, data, raw = g.meta['general.architecture'], tensor_bytes(g), []
    n = g.meta[arch + '.block_count']
    for key, value in g.raw.items():
        name = key[len(arch) + 1:] if key.startswith(arch + '.') else key
        head, old = len(key) + 12, g.meta[key]
        if name in ('block_count', 'leading_dense_block_count', 'hash_layer_count', 'nextn_predict_layers'):
            first = n - old if name == 'nextn_predict_layers' else 0
            value = value[:head] + struct.pack('<I', old - sum(first <= x < first + old for x in gone))
        elif name in LISTS or (name in BY_LAYER and isinstance(old, list)):
            step = (len(value) - head - 12) // len(old)
            items = [value[head + 12 + i * step:head + 12 + (i + 1) * step] for i in range(len(old))]
            if name in LISTS:
                items = [struct.pack('<I' if step == 4 else '<Q', x - sum(y < x for y in gone)) for x in old if x not in gone]
            else:
                items = [x for i, x in enumerate(items) if i not in gone]
            value = value[:head + 4] + struct.pack('<Q', len(items)) + b''.join(items)
        raw.append(value)
    tensors = [(new_name(x, gone), dims, kind, data[x]) for x, (dims, kind, _) in g.tensors.items() if new_name(x, gone)]
    gguf_file.write(temp(out), {}, tensors, raw)
    return temp(out)


def with_flags(path, flags, array, period):
    """The model with a flag for each layer in the place of the key `period`, or as its last key."""
    g = gguf_file.Gguf(path)
    arch, data, raw = g.meta['general.architecture'], tensor_bytes(g), dict(g.raw)
    name = ('%s.%s' % (arch, array)).encode()
    new = struct.pack('<Q', len(name)) + name + struct.pack('<IIQ', gguf_file.ARRAY, gguf_file.BOOL, len(flags)) + bytes(flags)
    raw['%s.%s' % (arch, period)] = new
    gguf_file.write(path, {}, [(x, dims, kind, data[x]) for x, (dims, kind, _) in g.tensors.items()], raw.values())
    return path


def turning(name, n, source, keys):
    """A model of n layers, layer i with the tensors of layer source(i), that take turns by a key or as its architecture does."""
    g = gguf_file.Gguf(cli.data('archs', name + '.gguf'))
    arch, data = g.meta['general.architecture'], tensor_bytes(g)
    raw = [v for k, v in g.raw.items() if not k.endswith(('.block_count', '.recurrent_layers', '.sliding_window_pattern'))]
    tensors = [(x, dims, kind, data[x]) for x, (dims, kind, _) in g.tensors.items() if not x.startswith('blk.')]
    for i in range(n):
        tensors += [('blk.%d.%s' % (i, x.split('.', 2)[2]), dims, kind, data[x]) for x, (dims, kind, _) in g.tensors.items() if x.startswith('blk.%d.' % source(i))]
    gguf_file.write(temp(name + '.gguf'), {'%s.%s' % (arch, k): v for k, v in dict(keys, block_count=n).items()}, tensors, raw)
    return temp(name + '.gguf')


def listed(gone):
    return ','.join(str(x) for x in gone)


def test_same_file():
    """Mixtures, split output and --dry-run: byte for byte what the model gives whose layers were taken out before."""
    for shape, gone in ((0, (2, 3, 9)), (0, (0,)), (0, (15,)), (1, (0, 1, 2, 3, 4, 5, 6, 7))):
        want = taken_out(made(shape), 'want.gguf', gone)
        for recipe in ('F16', 'Q3_K_M'):
            infer('quantize', want, temp('a.gguf'), recipe)
            infer('quantize', made(shape), temp('b.gguf'), recipe, '--prune-layers', listed(gone))
            check(read(temp('a.gguf')) == read(temp('b.gguf')), '%s without %s' % (recipe, gone))
            plans = [infer('quantize', *words, recipe, '--dry-run', '--json').json() for words in ((want,), (made(shape), '--prune-layers', listed(gone)))]
            check(plans[0] == plans[1], '--dry-run')
    infer('run', temp('b.gguf'), '-p', 'a', '-n', '4', '--temp', '0')
    infer('quantize', want, temp('a'), 'Q4_0', '--split-max-tensors', '5')
    infer('quantize', made(1), temp('b'), 'Q4_0', '--split-max-tensors', '5', '--prune-layers', '7,6,5,4,3,2,1,0,0')
    parts = [sorted(read(temp(f)) for f in os.listdir(cli.TEMP) if f.startswith(x + '-000')) for x in 'ab']
    check(parts[0] == parts[1] and len(parts[0]) > 1, 'parts')
    infer('split', made(), temp('in'), '--max-tensors', '40')
    first = sorted(f for f in os.listdir(cli.TEMP) if f.startswith('in-0'))[0]
    infer('quantize', temp(first), temp('kept'), 'Q4_0', '--keep-split', '--prune-layers', '4,5,6,7,8')
    infer('merge', temp('kept' + first[2:]), temp('merged.gguf'))
    infer('quantize', made(), temp('b.gguf'), 'Q4_0', '--prune-layers', '4,5,6,7,8')
    check(read(temp('merged.gguf')) == read(temp('b.gguf')), '--keep-split')
    for f in os.listdir(cli.TEMP):
        if f.startswith(('a-', 'b-', 'in-', 'kept-')):
            os.remove(temp(f))


def test_importance():
    """Importance is of the layers that the file of importance saw: each matrix has its own."""
    gone, before, after = (1, 3, 4), [], []
    for name, (dims, _, _) in gguf_file.Gguf(made()).tensors.items():
        if len(dims) == 2 and name.startswith('blk.'):
            layer = int(name.split('.')[1])
            values = floats([1.0 if i % 16 == layer else 1e-3 for i in range(dims[0])])
            for tensors, its in ((before, name), (after, new_name(name, gone))):
                if its:
                    tensors += [(its + '.in_sum2', [dims[0], 1], 0, values), (its + '.counts', [1, 1], 0, floats([1]))]
    want = taken_out(made(), 'want.gguf', gone)
    infer('quantize', want, temp('a.gguf'), 'Q4_K_M', '--imatrix', matrix_file('after.imatrix', after))
    done = infer('quantize', made(), temp('b.gguf'), 'Q4_K_M', '--imatrix', matrix_file('before.imatrix', before), '--prune-layers', listed(gone))
    check(read(temp('a.gguf')) == read(temp('b.gguf')) and 'warning' not in done.err, 'importance: %s' % done.err)
    infer('quantize', made(), temp('b.gguf'), 'Q4_K_M', '--imatrix', temp('after.imatrix'), '--prune-layers', listed(gone))
    check(read(temp('a.gguf')) != read(temp('b.gguf')), 'importance makes no difference')


# Models with keys by layer, and layers that can go.
KEYS = (('afmoe-moe', (0,)), ('apertus-dense', (0,)), ('barbet-hybrid-dense', (5,)), ('deepseek2-yarn-moe', (0,)), ('deepseek2-yarn-moe', (2,)), ('deepseek4-topk-moe', (0,)),
        ('glm4moe-nextn-moe', (1,)), ('glm4moe-nextn-moe', (2,)), ('glm4moe-nextn-moe', (0,)), ('gemma3-real-dense', (6,)), ('gemma3-real-dense', (0, 1, 2, 3, 4, 5)),
        ('llama4-moe', (2, 3)), ('muse-glimmer-dense', (1,)), ('nemotron_h-dense', (2,)), ('qwen2vl-mrope-dense', (0,)), ('graniteswitch-dense', (1,)))
# Models whose layers take turns by their number, layers that go, and the flags of the others (windows, or recurrent layers).
WINDOWS = ('attention.sliding_window_pattern', 'attention.sliding_window_pattern')
RECURRENT = ('attention.recurrent_layers', 'full_attention_interval')
TURNS = (('cohere2-swa-dense', (3,), (1, 1, 1, 1)), ('cohere2moe-moe', (0,), (1,)), ('gemma-embedding-real-dense', (1, 2), (1, 1, 1, 0)), ('gemma2-softcap-dense', (0,), (0, 1, 0)),
         ('gemma2-real-dense', (2,), (1, 0, 0)), ('gemma3-real-dense', (0,), (1, 1, 1, 1, 0, 1)), ('gemma3-real-dense', (5,), (1, 1, 1, 1, 1, 1)), ('gpt-oss-yarn-moe', (1,), (1, 1, 0)),
         ('laguna-moe', (0,), (1,)), ('modern-bert-pooled', (0,), (1, 1, 0, 1, 1)), ('modern-bert-pooled', (2,), (0, 1, 0, 1, 1)), ('olmo2-swa-dense', (3,), (1, 1, 1, 1)),
         ('exaone-moe-moe', (0,), (1, 1, 0, 1, 1, 1, 0)), ('mellum-moe', (0, 7), (1, 1, 0, 1, 1, 1)), ('muse-glimmer-dense', (1,), (1, 1, 0, 1, 1, 1, 0)),
         ('plamo3-dense', (2,), (1, 1, 1, 1, 1, 1, 0)), ('qwen35-dense', (0,), (0, 1, 0, 1, 0)), ('qwen35moe-moe', (2, 5), (1, 0, 0, 1)), ('qwen3next-moe', (1,), (1, 1, 0, 1, 0)))
# Of these the files have two layers and an array: here eight, and none.
TWO_LAYERS = ('exaone-moe-moe', 'mellum-moe', 'muse-glimmer-dense', 'plamo3-dense')
# Those that cannot, and why.
REFUSED = (('barbet-hybrid-dense', '2,3', 'global_layers'), ('exaone4-swa-dense', '0', 'layer 1 would compute something else as layer 0'),
           ('exaone4-swa-dense', '63', 'it follows from the number of layers'), ('smallthinker-moe', '0', 'layer 1 would compute something else as layer 0'),
           ('gpt-oss-moe', '0', 'layer 1 would compute something else as layer 0'), ('llama4-moe', '1', 'interleave_moe_layer_step'), ('rwkv7-small-dense', '0', 'layer 1 would compute something else as layer 0'),
           ('rwkv6-rescale-dense', '0', 'rescale_every_n_layers'), ('gemma4-sharedkv-dense', '0', 'shared_kv_layers'), ('glm-dsa-shared-moe', '1', 'indexer.types'),
           ('minimax-01-moe', '0', 'the decay of a layer'), ('kimi-k3-moe', '0', 'attn_res.block_size'), ('hrm_text-dense', '1', 'block_count'),
           ('t5-gated-dense', '0', 'encoder'), ('qwen4exp-moe', '0', 'per_layer_input'), ('minicpm3-dense', '0', 'would compute something else as layer 0 of 1'))


def test_keys():
    """Keys by layer, counts of leading and of predicting layers, and lists of layers: the file is that of the layers taken out, and it runs."""
    with open(temp('ids'), 'w') as f:
        f.write('1 2 3 4 5 6 7 8')
    for name, gone in KEYS:
        model = cli.data('archs', name + '.gguf')
        want = taken_out(model, 'want.gguf', gone)
        infer('quantize', want, temp('a.gguf'), 'F16', '--requantize')
        infer('quantize', model, temp('b.gguf'), 'F16', '--requantize', '--prune-layers', listed(gone))
        check(read(temp('a.gguf')) == read(temp('b.gguf')), '%s without %s' % (name, gone))
        infer('logits', temp('b.gguf'), '--ids', temp('ids'), '--out', temp('logits'))
    g = gguf_file.Gguf(temp('b.gguf'))
    check(g.meta['graniteswitch.block_count'] == 1 and len(g.meta['graniteswitch.adapters.token_ids_activate']) == 2, 'keys that are not by layer')


def test_turns():
    """Layers that take turns by number keep what they compute: a flag for each stands in the file, and without layers of that file again."""
    with open(temp('ids'), 'w') as f:
        f.write(' '.join(str(1 + i % 7) for i in range(60)))
    for name, gone, flags in TURNS:
        key = RECURRENT if name.startswith('qwen') else WINDOWS
        model = cli.data('archs', name + '.gguf')
        if key == RECURRENT: # every second one has attention
            model = turning(name, 6, lambda i: i % 2, {'full_attention_interval': 2})
        elif name in TWO_LAYERS:
            model = turning(name, 8, lambda i: min(i, 1), {})
        infer('quantize', with_flags(taken_out(model, 'want.gguf', gone), flags, *key), temp('a.gguf'), 'F16', '--requantize')
        infer('quantize', model, temp('b.gguf'), 'F16', '--requantize', '--prune-layers', listed(gone))
        check(read(temp('a.gguf')) == read(temp('b.gguf')), '%s without %s' % (name, gone))
        done = infer('logits', temp('b.gguf'), '--ids', temp('ids'), '--out', temp('logits'), *(['--embeddings'] if 'bert' in name or 'embed' in name else []))
        check(not done.err, '%s: %s' % (name, done.err))
        if len(flags) > 2:
            infer('quantize', temp('b.gguf'), temp('c.gguf'), 'F16', '--requantize', '--prune-layers', '1')
            g = gguf_file.Gguf(temp('c.gguf'))
            check([int(x) for x in g.meta['%s.%s' % (g.meta['general.architecture'], key[0])]] == [x for i, x in enumerate(flags) if i != 1], '%s again' % name)
    infer('quantize', cli.data('archs', 'gemma3-real-dense.gguf'), temp('b.gguf'), 'F16', '--requantize', '--prune-layers', '6')
    check(not [k for k in gguf_file.Gguf(temp('b.gguf')).meta if k.endswith('_pattern')], 'flags that say what the number says')


def test_refused():
    """Nothing is written where a layer would compute something else, or that cannot be known."""
    for name, gone, why in REFUSED:
        done = infer('quantize', cli.data('archs', name + '.gguf'), temp('never.gguf'), 'F16', '--requantize', '--prune-layers', gone, status=1)
        check(why in done.err and len(done.err.splitlines()) == 1, '%s: %s' % (name, done.err))
    for gone, why in (('16', 'no layer 16'), ('1,99', 'no layer 99'), ('99999999999999999999999', 'no layer'), ('', 'expected numbers'), ('1,', 'expected numbers'), (',1', 'expected numbers'),
                      ('-1', 'expected numbers'), ('1 2', 'expected numbers'), (listed(range(16)), 'no layer would be left')):
        done = infer('quantize', made(), temp('never.gguf'), 'Q4_0', '--prune-layers', gone, status=1)
        check(why in done.err, '%s: %s' % (gone, done.err))
    g = gguf_file.Gguf(made())
    data = tensor_bytes(g)
    tensors = [(name, dims, kind, data[name]) for name, (dims, kind, _) in g.tensors.items()]
    for key, values, why in (('llama.attention.unheard', list(range(16)), 'unheard'), ('unheard.per_layer', list(range(16)), 'unheard.per_layer'), ('llama.unheard', 1, 'unheard')):
        gguf_file.write(temp('odd.gguf'), {key: values}, tensors, g.raw.values())
        check(why in infer('quantize', temp('odd.gguf'), temp('never.gguf'), 'Q4_0', '--prune-layers', '1', status=1).err, key)
    gguf_file.write(temp('odd.gguf'), {'general.architecture': 'unheard', 'unheard.block_count': 3}, tensors[:3])
    check('unheard' in infer('quantize', temp('odd.gguf'), temp('never.gguf'), 'F16', '--prune-layers', '1', status=1).err, 'an unknown architecture')
    check(not [f for f in os.listdir(cli.TEMP) if f.startswith('never')], 'a file is left')


def test_folder():
    """Of a Hugging Face folder: what its GGUF file gives."""
    folder = test_convert.folder('folder', test_convert.made(), shards=2)
    infer('convert', folder, temp('whole.gguf'))
    for out, source in (('a.gguf', temp('whole.gguf')), ('b.gguf', folder)):
        infer('quantize', source, temp(out), 'F16', '--prune-layers', '0')
    check(read(temp('a.gguf')) == read(temp('b.gguf')), 'a folder')


def all_tests():
    return cli.tests_in(globals())


if __name__ == '__main__':
    cli.main(all_tests, __doc__)
