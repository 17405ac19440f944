#!/usr/bin/env python3
"""Tests of `infer convert` and of folders in place of files: python3 tests/cli/test_convert.py build/infer [WORD...]

Folders are made here by the standard library alone; with INFER_TEST_DATA those that transformers saved are converted too,
and compared with the files that llama.cpp's converter made of them and with transformers' logits. The same harness as
test_cli.py; tokenizers are in test_convert_tokenizers.py.
"""
import json
import math
import os
import random
import shutil
import struct
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import gguf_file
import reference
import test_cli as cli
from test_cli import check, infer, read, temp, write

F32, F16, BF16, Q8_0, MXFP4 = 0, 1, 30, 8, 39
SIZES = {F32: (1, 4), F16: (1, 2), BF16: (1, 2), Q8_0: (32, 34), MXFP4: (32, 17)}
EMBD, HEADS, KV, DIM, FF, VOCAB = 64, 4, 2, 16, 96, 260


# ---- folders ---------------------------------------------------------------------------------------------------------

def bf16(x):
    return struct.unpack('<I', struct.pack('<f', x))[0] >> 16


def pack(kind, values):
    if kind == 'BF16':
        return struct.pack('<%dH' % len(values), *(bf16(x) for x in values))
    return struct.pack('<%d%s' % (len(values), {'F32': 'f', 'F16': 'e', 'F64': 'd', 'U8': 'B', 'F8_E4M3': 'B', 'I64': 'q'}[kind]), *values)


def safetensors(tensors):
    """tensors: name -> (dtype, shape, bytes)"""
    header, data = {'__metadata__': {'format': 'pt'}}, b''
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {'dtype': dtype, 'shape': list(shape), 'data_offsets': [len(data), len(data) + len(raw)]}
        data += raw
    head = json.dumps(header).encode()
    head += b' ' * (-len(head) % 8)
    return struct.pack('<Q', len(head)) + head + data


def tokenizer():
    """The 256 bytes as GPT-2 writes them, and four tokens."""
    letters = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or b >= 174]
    names = {b: chr(b) for b in letters}
    names.update({b: chr(256 + i) for i, b in enumerate(b for b in range(256) if b not in letters)})
    vocab = {names[b]: b for b in range(256)}
    vocab.update({'th': 256, 'he': 257})
    added = [{'id': 258 + i, 'content': s, 'special': True, 'single_word': False, 'lstrip': False, 'rstrip': False, 'normalized': False}
             for i, s in enumerate(('<s>', '</s>'))]
    return {'version': '1.0', 'added_tokens': added, 'normalizer': None,
            'pre_tokenizer': {'type': 'ByteLevel', 'add_prefix_space': False, 'trim_offsets': True, 'use_regex': True},
            'decoder': {'type': 'ByteLevel'}, 'post_processor': None,
            'model': {'type': 'BPE', 'dropout': None, 'unk_token': None, 'vocab': vocab, 'merges': ['t h', 'h e']}}


def config(**more):
    c = {'architectures': ['LlamaForCausalLM'], 'model_type': 'llama', 'hidden_size': EMBD, 'intermediate_size': FF, 'num_attention_heads': HEADS,
         'num_key_value_heads': KV, 'head_dim': DIM, 'num_hidden_layers': 2, 'vocab_size': VOCAB, 'max_position_embeddings': 128, 'rms_norm_eps': 1e-5,
         'rope_theta': 10000.0, 'tie_word_embeddings': False, 'bos_token_id': 258, 'eos_token_id': 259, 'hidden_act': 'silu'}
    c.update(more)
    return {k: v for k, v in c.items() if v is not None}


def values(name, n):
    """Numbers that BF16 and F16 hold exactly."""
    r = random.Random(name)
    return [r.randrange(-64, 65) / 256 + (1 if 'norm' in name else 0) for _ in range(n)]


def shapes(layers=2, experts=0):
    """The tensors of a Llama, or a Mixtral, by their names in a checkpoint."""
    s = {'model.embed_tokens.weight': (VOCAB, EMBD), 'model.norm.weight': (EMBD,), 'lm_head.weight': (VOCAB, EMBD)}
    for i in range(layers):
        p = 'model.layers.%d.' % i
        s.update({p + 'input_layernorm.weight': (EMBD,), p + 'post_attention_layernorm.weight': (EMBD,), p + 'self_attn.q_proj.weight': (HEADS * DIM, EMBD),
                  p + 'self_attn.k_proj.weight': (KV * DIM, EMBD), p + 'self_attn.v_proj.weight': (KV * DIM, EMBD), p + 'self_attn.o_proj.weight': (EMBD, HEADS * DIM)})
        if not experts:
            s.update({p + 'mlp.gate_proj.weight': (FF, EMBD), p + 'mlp.up_proj.weight': (FF, EMBD), p + 'mlp.down_proj.weight': (EMBD, FF)})
        else:
            s[p + 'block_sparse_moe.gate.weight'] = (experts, EMBD)
            for e in range(experts):
                x = p + 'block_sparse_moe.experts.%d.' % e
                s.update({x + 'w1.weight': (FF, EMBD), x + 'w3.weight': (FF, EMBD), x + 'w2.weight': (EMBD, FF)})
    return s


def made(kind='F32', **more):
    return {name: (kind, shape, pack(kind, values(name, math.prod(shape)))) for name, shape in shapes(**more).items()}


def folder(name, tensors, cfg=None, shards=1, tok=None):
    path = temp(name)
    shutil.rmtree(path, ignore_errors=True)
    os.mkdir(path)
    write(name + '/config.json', json.dumps(config() if cfg is None else cfg))
    write(name + '/tokenizer.json', json.dumps(tokenizer() if tok is None else tok))
    if shards == 1:
        write(name + '/model.safetensors', safetensors(tensors))
        return path
    names, of = sorted(tensors), {}
    for i in range(shards):
        file = 'model-%05d-of-%05d.safetensors' % (i + 1, shards)
        write(name + '/' + file, safetensors({n: tensors[n] for n in names[i::shards]}))
        of.update({n: file for n in names[i::shards]})
    write(name + '/model.safetensors.index.json', json.dumps({'metadata': {}, 'weight_map': of}))
    return path


def convert(path, *options, name='made.gguf'):
    out = temp(name)
    if os.path.exists(out):
        os.remove(out)
    infer('convert', path, out, *options)
    return gguf_file.Gguf(out)


def raw_of(g, name):
    dims, kind, offset = g.tensors[name]
    block, size = SIZES[kind]
    return g.data[g.start + offset:g.start + offset + math.prod(dims) // block * size]


def same_tensors(a, b, what):
    check(set(a.tensors) == set(b.tensors), '%s: tensors %s' % (what, sorted(set(a.tensors) ^ set(b.tensors))[:5]))
    for n in a.tensors:
        check(a.tensors[n][:2] == b.tensors[n][:2], '%s: %s is %s, not %s' % (what, n, a.tensors[n][:2], b.tensors[n][:2]))
        check(raw_of(a, n) == raw_of(b, n), '%s: values of %s' % (what, n))


# ---- what it writes --------------------------------------------------------------------------------------------------

def test_llama():
    """Names, shapes, types, permuted rows and keys; sharded as from one file; the folder itself gives the file's logits."""
    for kind, number in (('F32', F32), ('F16', F16), ('BF16', BF16)):
        g = convert(folder('llama-' + kind, made(kind)))
        check(len(g.tensors) == len(shapes()), 'number of tensors')
        check(g.tensors['token_embd.weight'][:2] == ([EMBD, VOCAB], number) and g.tensors['blk.1.attn_norm.weight'][:2] == ([EMBD], F32), 'types')
        for ours, theirs in (('token_embd', 'model.embed_tokens'), ('blk.1.ffn_down', 'model.layers.1.mlp.down_proj'), ('blk.0.attn_v', 'model.layers.0.self_attn.v_proj')):
            check(raw_of(g, ours + '.weight') == made(kind)[theirs + '.weight'][2], 'values of ' + ours)
        size = SIZES[number][1] * EMBD
        q = made(kind)['model.layers.0.self_attn.q_proj.weight'][2]
        rows = [q[i * size:i * size + size] for i in range(HEADS * DIM)]
        want = b''.join(rows[h * DIM + j + DIM // 2 * half] for h in range(HEADS) for j in range(DIM // 2) for half in range(2))
        check(raw_of(g, 'blk.0.attn_q.weight') == want, 'rows of Q')
        check(g.meta['general.file_type'] == {'F32': 0, 'F16': 1, 'BF16': 32}[kind], 'file type')
    meta = g.meta
    for key, value in {'general.architecture': 'llama', 'llama.block_count': 2, 'llama.embedding_length': EMBD, 'llama.attention.head_count_kv': KV,
                       'llama.rope.dimension_count': DIM, 'llama.vocab_size': VOCAB, 'tokenizer.ggml.model': 'gpt2', 'tokenizer.ggml.bos_token_id': 258}.items():
        check(meta.get(key) == value, '%s is %r' % (key, meta.get(key)))
    same_tensors(convert(folder('sharded', made('BF16'), shards=3), name='sharded.gguf'), g, 'shards')
    ids = [5, 9, 200, 31, 7]
    a, b = cli.logits(temp('sharded'), ids, '--exact'), cli.logits(temp('made.gguf'), ids, '--exact')
    check(a == b, 'logits of the folder differ from those of the file')
    one = infer('hash', folder('same', made('BF16'))).out
    check(infer('hash', folder('same', made('BF16'), shards=4)).out == one, 'the hash of a folder depends on its files')
    check(infer('hash', folder('same', made('F16'))).out != one, 'other values have the same hash')
    check(infer('diff', temp('sharded'), temp('sharded.gguf'), status=1).out.count(b'tensor') == 0, 'the folder and its file have other tensors')
    tied = made()
    del tied['lm_head.weight']
    g = convert(folder('tied', tied, config(tie_word_embeddings=True)))
    check('output.weight' not in g.tensors, 'a tied head is stored twice')
    cli.logits(temp('made.gguf'), ids)


def test_types():
    """--type gives what quantize makes of the converted file, byte for byte; patterns; --dry-run writes nothing."""
    path = folder('types', made('BF16'))
    convert(path, name='plain.gguf')
    for t in ('Q8_0', 'Q4_0', 'F16', 'F32'):
        g = convert(path, '--type', t)
        infer('quantize', temp('plain.gguf'), temp('two.gguf'), t)
        check(g.data == read(temp('two.gguf')), '--type %s differs from quantize' % t)
    g = convert(path, '--type', 'Q8_0', '--type', 'ffn_down=F16')
    check(g.tensors['blk.0.ffn_down.weight'][1] == F16 and g.tensors['blk.0.ffn_up.weight'][1] == Q8_0, 'patterns')
    infer('quantize', path, temp('three.gguf'), 'Q4_0')
    plan = infer('convert', path, '--type', 'Q8_0', '--dry-run', '--json').json()
    check({t['type'] for t in plan['tensors']} == {'F32', 'Q8_0'}, 'plan')
    infer('convert', path, temp('never.gguf'), '--type', 'Q9', status=2)
    check(not os.path.exists(temp('never.gguf')), 'a file was written')


def test_split():
    """Parts are those of `infer split` of the whole file; what is no complete model leaves none."""
    path = folder('split', made())
    convert(path)
    for limit, value in (('max-size', '70k'), ('max-tensors', '5')):
        infer('split', temp('made.gguf'), temp('want'), '--' + limit, value)
        infer('convert', path, temp('parts.gguf'), '--split-' + limit, value)
        want, got = [[(f[-20:], read(temp(f))) for f in sorted(os.listdir(cli.TEMP)) if f.startswith(p)] for p in ('want-', 'parts')]
        check(got == want and len(want) > 2, '%s: %s' % (limit, [f for f, _ in got]))
        for f in os.listdir(cli.TEMP):
            if f.startswith(('want-', 'parts')):
                os.remove(temp(f))
    check(infer('info', path, '--json').json()['memory']['weights'] > 0, 'the memory of a folder')
    t = made()
    del t['model.layers.1.mlp.up_proj.weight']
    infer('convert', folder('split', t), temp('parts.gguf'), '--split-max-tensors', '5', status=1)
    check(not [f for f in os.listdir(cli.TEMP) if f.startswith('parts')], 'a file is left')


def test_pre():
    """Rules that no pre-tokenizer has are an error that prints them; --pre names one."""
    t = tokenizer()
    t['pre_tokenizer'] = {'type': 'Split', 'pattern': {'Regex': 'a+b'}, 'behavior': 'Isolated', 'invert': False}
    path = folder('rules', made(), tok=t)
    done = infer('convert', path, temp('never.gguf'), status=1, )
    check('a+b' in done.err and '--pre' in done.err, done.err)
    check(convert(path, '--pre', 'gpt-2').meta['tokenizer.ggml.pre'] == 'gpt-2', '--pre')
    infer('run', path, '-p', 'the', '-n', '2', '--pre', 'gpt-2')
    done = infer('convert', path, temp('never.gguf'), '--pre', 'unheard', status=1)
    check('unheard' in done.err and not os.path.exists(temp('never.gguf')), '--pre with a name that nobody knows: %s' % done.err)


def test_experts():
    """One tensor for each expert, in one shard or several, and all of them in one: the same file."""
    cfg = config(architectures=['MixtralForCausalLM'], num_local_experts=3, num_experts_per_tok=2)
    a = convert(folder('moe', made(experts=3), cfg), name='moe.gguf')
    same_tensors(convert(folder('moe-shards', made(experts=3), cfg, shards=4)), a, 'shards')
    fused = {n: t for n, t in made(experts=3).items() if '.experts.' not in n}
    for i in range(2):
        raw = {n: t[2] for n, t in made(experts=3).items()}
        x = 'model.layers.%d.block_sparse_moe.experts.%d.w%d.weight'
        fused['model.layers.%d.mlp.experts.gate_up_proj' % i] = ('F32', (3, 2 * FF, EMBD), b''.join(raw[x % (i, e, w)] for e in range(3) for w in (1, 3)))
        fused['model.layers.%d.mlp.experts.down_proj' % i] = ('F32', (3, EMBD, FF), b''.join(raw[x % (i, e, 2)] for e in range(3)))
    same_tensors(convert(folder('moe-fused', fused, cfg)), a, 'fused')
    check(a.tensors['blk.1.ffn_up_exps.weight'][0] == [EMBD, FF, 3], 'shape of experts')
    few = made(experts=3)
    del few['model.layers.1.block_sparse_moe.experts.2.w2.weight']
    refused(folder('moe-few', few, cfg), 'experts.2.w2.weight is missing')


def e4m3(code):
    e, m, sign = code >> 3 & 15, code & 7, -1 if code & 128 else 1
    return sign * (m * 2.0 ** -9 if e == 0 else (8 + m) * 2.0 ** (e - 10))


def test_f8():
    """F8 weights with factors of blocks, rows and all of it: exact in float32, rounded to BF16 where no type is asked for."""
    r = random.Random(8)
    name = 'model.layers.0.mlp.down_proj.weight'
    rows, cols = shapes()[name]
    codes = bytes(r.choice([c for c in range(256) if c & 127 != 127]) for _ in range(rows * cols))
    for scales, shape, block in ((24, (4, 6), (16, 16)), (rows, (rows, 1), (1, cols)), (1, (), (rows, cols))):
        factors = [r.randrange(1, 64) / 32 for _ in range(scales)]
        t = made()
        t[name] = ('F8_E4M3', (rows, cols), codes)
        t[name + ('_scale' if shape == (rows, 1) else '_scale_inv')] = ('F32', shape, pack('F32', factors))
        across = -(-cols // block[1])
        want = [e4m3(codes[i * cols + k]) * factors[i // block[0] * across + k // block[1]] for i in range(rows) for k in range(cols)]
        path = folder('f8', t, config(quantization_config={'quant_method': 'fp8', 'weight_block_size': [16, 16]}))
        g = convert(path, '--type', 'F32')
        check(raw_of(g, 'blk.0.ffn_down.weight') == pack('F32', want), 'values in float32, factors %r' % (shape,))
        g = convert(path)
        check(g.tensors['blk.0.ffn_down.weight'][1] == BF16, 'type')
        got = struct.unpack('<%dH' % len(want), raw_of(g, 'blk.0.ffn_down.weight'))
        for x, y in zip(got, want):
            x = struct.unpack('<f', struct.pack('<I', x << 16))[0]
            check(abs(x - y) <= abs(y) / 256, '%g became %g' % (y, x))
    del t[name + '_scale_inv']
    refused(folder('f8', t), 'factors')


def test_quietly_nothing():
    """What belongs to no tensor of the model is refused by name; what other parts of a model have is left out."""
    t = made()
    t['model.layers.0.self_attn.extra.weight'] = ('F32', (4,), pack('F32', [1, 2, 3, 4]))
    refused(folder('extra', t), 'self_attn.extra.weight is not known')
    t = made()
    for name in ('model.layers.0.self_attn.rotary_emb.inv_freq', 'vision_tower.blocks.0.weight', 'model.visual.patch.weight', 'multi_modal_projector.linear.weight'):
        t[name] = ('F32', (8,), pack('F32', [0] * 8))
    same_tensors(convert(folder('parts', t), name='parts.gguf'), convert(folder('plain', made())), 'other parts')
    warned = infer('convert', temp('parts'), temp('parts.gguf')).err
    check('3 tensors are left out' in warned, 'what is left out is not said: %r' % warned)
    check('left out' not in infer('convert', temp('plain'), temp('plain.gguf')).err, 'nothing is left out')
    refused(folder('fewer', made(), config(num_hidden_layers=1)), 'by config.json there are 1 layers')
    predicting = dict(made(), **{'model.layers.2.eh_proj.weight': ('F32', (4,), pack('F32', [0] * 4))})
    check('1 tensors are left out' in infer('convert', folder('predicting', predicting), temp('plain.gguf')).err, 'a layer that predicts further tokens')
    packed = dict(made(), **{'model.layers.0.self_attn.q_proj.qweight': ('I32', (4,), pack('F32', [0] * 4))})
    refused(folder('packed', packed, config(quantization_config={'quant_method': 'gptq', 'bits': 4})), 'quantised by gptq')
    for name in ('model.norm.weight', 'model.layers.1.mlp.up_proj.weight', 'model.embed_tokens.weight'):
        t = made()
        del t[name]
        refused(folder('without', t), 'no complete model|no embeddings|no model')


# ---- what it refuses -------------------------------------------------------------------------------------------------

def refused(path, why, *options):
    """One line that says why (words separated by |: any), and no file."""
    out = temp('never.gguf')
    for command in (['convert', path, out], ['quantize', path, out, 'Q8_0']):
        if command[0] == 'convert' or not options:
            done = infer(*command, *options, status=1)
            check(any(w in done.err for w in why.split('|')), '%r does not say %r' % (done.err, why))
    check(not os.path.exists(out) and not [f for f in os.listdir(cli.TEMP) if '.part' in f], 'a file is left')


def test_bad_folders():
    """Missing and damaged files, pickles, paths that lead out, shapes and types that do not fit."""
    good = made()
    path = folder('bad', good)
    os.remove(path + '/config.json')
    refused(path, 'config.json')
    for text, why in (('{', 'JSON'), ('[]', 'architectures'), ('{"architectures": ["NoSuchModel"]}', 'NoSuchModel'), ('{"architectures": ["LlamaForCausalLM"]}', 'not possible')):
        write('bad/config.json', text)
        refused(path, why)
    for name, value, why in (('num_hidden_layers', 70000, 'not possible'), ('num_attention_heads', 3, 'heads'), ('hidden_size', 65, 'shape|not possible|complete|model'),
                             ('head_dim', 32, 'heads|shape|complete'), ('rope_scaling', {'rope_type': 'spiral'}, 'spiral'), ('num_hidden_layers', -1, 'not possible'),
                             ('rms_norm_eps', 'x', 'no number'), ('num_key_value_heads', 4, 'heads|shape|complete')):
        refused(folder('bad', good, config(**{name: value})), why)
    path = folder('bad', good)
    os.remove(path + '/model.safetensors')
    refused(path, 'there is no model.safetensors')
    write('bad/pytorch_model.bin', 'PK')
    refused(path, 'pickle')
    for file, why in (('../model.safetensors', 'none'), ('a/b', 'none'), ('..', 'none'), ('missing.safetensors', 'cannot open'), (7, 'none')):
        write('bad/model.safetensors.index.json', json.dumps({'weight_map': {'x': file}}))
        refused(path, why)
    write('bad/model.safetensors.index.json', '{}')
    refused(path, 'weight_map')
    path = folder('shards', good, shards=3)
    os.remove(path + '/model-00002-of-00003.safetensors')
    refused(path, 'model-00002-of-00003')
    path = folder('bad', good)
    os.remove(path + '/tokenizer.json')
    refused(path, 'tokenizer')
    t = dict(good)
    t['model.norm.weight'] = ('I64', (EMBD,), pack('I64', [1] * EMBD))
    refused(folder('bad', t), 'norm.weight')
    t['model.norm.weight'] = ('F32', (EMBD,), pack('F32', [math.nan] * EMBD))
    refused(folder('bad', t), 'output_norm.weight: row 0: value 0 is not a number')
    for kind in ('F32', 'F16', 'BF16'):
        t = made(kind)
        name = 'model.layers.0.mlp.up_proj.weight'
        t[name] = (kind, (FF, EMBD), t[name][2][:-4] + pack('F32', [math.inf]) if kind == 'F32' else t[name][2][:-2] + struct.pack('<H', 0x7c00 if kind == 'F16' else 0x7f80))
        for options in ((), ('--type', 'Q8_0')):
            refused(folder('bad', t), 'ffn_up.weight: row 95: value 63 is not a number', *options)
    path = folder('bad', good)
    refused_over = infer('convert', path, path + '/model.safetensors', status=2)
    check('input' in refused_over.err and read(path + '/model.safetensors') == safetensors(good), 'the input was written over')


def test_other_mathematics():
    """What config.json asks for and the architecture cannot compute is refused by its name."""
    good = made()
    for name, value in (('hidden_act', 'gelu'), ('partial_rotary_factor', 0.5), ('layer_types', ['full_attention', 'sliding_attention']),
                        ('rope_scaling', {'rope_type': 'longrope', 'long_factor': [1.0], 'short_factor': [1.0]}), ('rope_scaling', {'rope_type': 'yarn', 'factor': 2.0, 'truncate': False})):
        refused(folder('bad', good, config(**{name: value})), '%s|longrope|truncate' % name)
    folder('good', good)
    write('good/generation_config.json', '[]')
    refused(temp('good'), 'generation_config.json')
    llama3 = {'rope_type': 'llama3', 'factor': 8.0, 'low_freq_factor': 1.0, 'high_freq_factor': 4.0, 'original_max_position_embeddings': 64}
    infer('convert', folder('good', good, config(rope_scaling=llama3)), temp('llama3.gguf'))
    qwen = {'architectures': ['Qwen2ForCausalLM'], 'model_type': 'qwen2'}
    infer('convert', folder('good', good, config(use_sliding_window=False, hidden_act='swish', **qwen)), temp('qwen2.gguf'))
    refused(folder('bad', good, config(rope_scaling=llama3, **qwen)), 'llama3')
    for more, told in ((dict(sliding_window=8), True), (dict(sliding_window=None), False), (dict(sliding_window=1 << 20), False), (dict(sliding_window=8, use_sliding_window=False), False)):
        err = infer('convert', folder('window', made(), config(**more)), temp('window.gguf')).err
        check(('sliding_window is left out' in err and 'than 8 tokens' in err) == told and err.count('\n') == told, '%s: %s' % (more, err))
    refused(folder('bad', good, config(use_sliding_window=True, **qwen)), 'use_sliding_window')
    headless = {k: v for k, v in good.items() if k != 'lm_head.weight'}
    refused(folder('bad', headless), 'lm_head.weight')
    infer('convert', folder('good', headless, config(tie_word_embeddings=True)), temp('tied.gguf'))
    stray = dict(good)
    stray['model.layers.1.self_attn.q_proj.qweight'] = ('U8', (4,), pack('U8', [1] * 4))
    refused(folder('bad', stray), 'qweight')


def changed_headers(path, name, raw, seed, *options):
    """Random changes to the header of a file of tensors: one line of error, or what it converts to."""
    r = random.Random(seed)
    head = 8 + struct.unpack('<Q', raw[:8])[0]
    for _ in range(60):
        text = bytearray(raw[8:head])
        for _ in range(r.randrange(1, 4)):
            text[r.randrange(len(text))] = r.randrange(256)
        write(name, raw[:8] + bytes(text) + raw[head:])
        done = cli.Result(subprocess.run([cli.INFER, 'convert', path, temp('cut.gguf'), *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60))
        check(done.status in (0, 1) and (done.status == 0 or done.err.count('\n') == 1), 'status %d, %r' % (done.status, done.err))


def test_damaged_safetensors():
    """A file cut anywhere, a changed header: one line of error, or a model; never anything else."""
    path = folder('cut', made())
    raw = read(path + '/model.safetensors')
    head = 8 + struct.unpack('<Q', raw[:8])[0]
    for n in (0, 1, 7, 8, 9, head // 2, head - 1, head, head + 1000, len(raw) - 1):
        write('cut/model.safetensors', raw[:n])
        refused(path, 'model.safetensors')
    for length in (0, 1, head - 9, 1 << 31, 1 << 40, (1 << 64) - 1):
        write('cut/model.safetensors', struct.pack('<Q', length) + raw[8:])
        refused(path, 'safetensors')
    for old, new in (('"F32"', '"F33"'), ('"F32"', '"F16"'), ('[64]', '[65]'), ('[64]', '[-1]'), ('[64]', '[18446744073709551616]'), ('[64]', '[4294967296, 4294967296]'),
                     ('[64]', '"x"'), ('"dtype"', '"type"'), ('"data_offsets": [0', '"data_offsets": [-1'), ('"shape"', '"form"'), ('[64]', '[1,1,1,1,1,1,64]')):
        text = raw[8:head].replace(old.encode(), new.encode(), 1)
        write('cut/model.safetensors', struct.pack('<Q', len(text)) + text + raw[head:])
        refused(path, 'tensor|JSON')
    changed_headers(path, 'cut/model.safetensors', raw, 1)


# ---- what transformers saved -----------------------------------------------------------------------------------------

# Keys that say the same in other words: the pre-tokenizer (the reference's toy tokenizers all say gpt-2), defaults written out, a quantile
# that torch computes in float32.
SAME = {'general.name', 'general.size_label', 'tokenizer.ggml.pre', 'tokenizer.ggml.remove_extra_whitespaces', 'gemma3n.activation_sparsity_scale',
        'glm4moe.nextn_predict_layers'}

def close(a, b):
    x, y = struct.unpack('<%df' % (len(a) // 4), a), struct.unpack('<%df' % (len(b) // 4), b)
    top = max(map(abs, y))
    return max(abs(p - q) for p, q in zip(x, y)) <= 2e-7 * top


def test_references():
    """Each folder: tensors and keys of llama.cpp's converter (exp and powers within a rounding), logits of transformers."""
    root = next((os.path.join(f, 'hf') for f in cli.FOLDERS if os.path.isdir(os.path.join(f, 'hf'))), None)
    names = sorted(n for n in os.listdir(root) if os.path.isdir(os.path.join(root, n, 'hf'))) if root else []
    if not names:
        raise cli.Skipped('needs INFER_TEST_DATA: hf')
    for name in names:
        a, b = convert(os.path.join(root, name, 'hf')), gguf_file.Gguf(os.path.join(root, name, 'model.gguf'))
        check(set(a.tensors) == set(b.tensors), '%s: tensors %s' % (name, sorted(set(a.tensors) ^ set(b.tensors))[:5]))
        for n in a.tensors:
            check(a.tensors[n][:2] == b.tensors[n][:2], '%s: %s is %s, not %s' % (name, n, a.tensors[n][:2], b.tensors[n][:2]))
            x, y = raw_of(a, n), raw_of(b, n)
            check(x == y or ((n.endswith('ssm_a') or n == 'rope_freqs.weight') and close(x, y)), '%s: values of %s' % (name, n))
        keys = [k for k in set(a.meta) | set(b.meta) if k not in SAME and a.meta.get(k) != b.meta.get(k)]
        check(not keys, '%s: %s' % (name, ', '.join('%s is %r, not %r' % (k, a.meta.get(k), b.meta.get(k)) for k in keys[:3])))
        file = os.path.join(root, name, name + '.logits')
        if os.path.exists(file): # encoders have none: their tensors are equal
            ids, want = reference.read_rows(file)
            encoder = ('--encoder-ids', file[:-len('logits')] + 'enc') if os.path.exists(file[:-len('logits')] + 'enc') else ()
            cli.within(cli.logits(os.path.join(root, name, 'hf'), ids, '--exact', '--kv', 'f32', *encoder), want, 1e-6, name)


def test_groups():
    """DeepSeek-V2's groups of experts are chosen by their best one, DeepSeek-V3's by the best two."""
    root = next((os.path.join(f, 'hf') for f in cli.FOLDERS if os.path.isdir(os.path.join(f, 'hf', 'deepseek_v2_lite'))), None)
    if root is None:
        raise cli.Skipped('needs INFER_TEST_DATA: hf')
    for name, best, more in (('deepseek_v2_lite', 1, {'topk_method': 'group_limited_greedy', 'n_group': 4, 'topk_group': 2}), ('deepseek_v3', 2, {})):
        path = temp(name)
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(os.path.join(root, name, 'hf'), path)
        write(name + '/config.json', json.dumps(dict(json.loads(read(path + '/config.json')), **more)))
        infer('convert', path, temp('groups.gguf'))
        check('of 4 groups by the sum of their best %d' % best in infer('info', temp('groups.gguf')).out.decode(), name)
    write('deepseek_v3/config.json', json.dumps(dict(json.loads(read(path + '/config.json')), topk_method='group_limited_greedy')))
    refused(path, 'group_limited_greedy')


def all_tests():
    return cli.tests_in(globals())


if __name__ == '__main__':
    cli.main(all_tests, __doc__)
