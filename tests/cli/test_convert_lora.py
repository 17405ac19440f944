#!/usr/bin/env python3
"""Tests of `infer convert` with adapters as PEFT saves them: python3 tests/cli/test_convert_lora.py build/infer [WORD...]

Adapters are made here by the standard library alone. The truth is the folder converted with W + scale * B A in place of W, so
that no code for adapters is involved. With INFER_TEST_DATA for models of many families, as transformers saved them.
"""
import json
import math
import os
import random
import re
import struct
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import gguf_file
import test_cli as cli
import test_convert as base
from test_cli import check, infer, read, temp, write
from test_convert import EMBD, F16, F32, BF16, config, folder, made, pack, safetensors

LIMIT = 1e-10
IDS = [5, 9, 200, 31, 7, 44]


# ---- adapters --------------------------------------------------------------------------------------------------------

def numbers(seed, n, scale):
    r = random.Random(seed)
    return [r.randrange(-64, 65) / 64 * scale for _ in range(n)]


def load(path):
    """The tensors of a folder with one file: name -> (dtype, shape, bytes)."""
    raw = read(os.path.join(path, 'model.safetensors'))
    n = struct.unpack('<Q', raw[:8])[0]
    return {name: (t['dtype'], tuple(t['shape']), raw[8 + n + t['data_offsets'][0]:8 + n + t['data_offsets'][1]])
            for name, t in json.loads(raw[8:8 + n]).items() if name != '__metadata__'}


def floats(t):
    dtype, shape, raw = t
    return list(struct.unpack('<%df' % (len(raw) // 4), raw)) if dtype == 'F32' else [
        struct.unpack('<f', struct.pack('<I', x << 16))[0] for x in struct.unpack('<%dH' % (len(raw) // 2), raw)] if dtype == 'BF16' else list(
            struct.unpack('<%de' % (len(raw) // 2), raw))


class Adapter:
    """Pairs of matrices for weights of a model, in PEFT's names."""
    def __init__(self, weights, rank=4, alpha=8, kind='F32', rslora=False, conv1d=(), embeddings=(), ranks=None, alphas=None, zero=(), **more):
        self.tensors, self.pairs = {}, {}
        self.config = dict({'peft_type': 'LORA', 'task_type': 'CAUSAL_LM', 'r': rank, 'lora_alpha': alpha, 'use_rslora': rslora, 'bias': 'none', 'lora_dropout': 0.1,
                            'target_modules': ['q_proj'], 'fan_in_fan_out': bool(conv1d), 'modules_to_save': None, 'use_dora': False, 'init_lora_weights': True,
                            'base_model_name_or_path': 'somebody/some-model', 'rank_pattern': ranks or {}, 'alpha_pattern': alphas or {}}, **more)
        for name, shape in weights.items():
            module = name[:-len('.weight')]
            embedding, turned = module.endswith(tuple(embeddings)) if embeddings else False, module.endswith(tuple(conv1d)) if conv1d else False
            outs, ins = (shape[1], shape[0]) if embedding or turned else shape
            its = next((r for p, r in (ranks or {}).items() if re.search('(^|[.])(%s)$' % p, module)), rank)
            scale = next((a for p, a in (alphas or {}).items() if re.search('(^|[.])(%s)$' % p, module)), alpha) / (math.sqrt(its) if rslora else its)
            a, b = pack(kind, numbers(name + 'a', its * ins, 0.5)), pack(kind, numbers(name + 'b', outs * its, 0.0 if module.endswith(tuple(zero)) and zero else 0.25))
            ends = ('.lora_embedding_A', '.lora_embedding_B') if embedding else ('.lora_A.weight', '.lora_B.weight')
            self.tensors['base_model.model.' + module + ends[0]] = (kind, (its, ins), a)
            self.tensors['base_model.model.' + module + ends[1]] = (kind, (outs, its), b)
            self.pairs[name] = (its, ins, outs, scale, embedding or turned, floats((kind, None, a)), floats((kind, None, b)))

    def merged(self, tensors):
        """W + scale * B A, in float32."""
        out = dict(tensors)
        for name, (r, ins, outs, scale, turned, a, b) in self.pairs.items():
            w = floats(tensors[name])
            rows = [a[k * ins:k * ins + ins] for k in range(r)]
            for o in range(outs):
                coefs = [scale * b[o * r + k] for k in range(r)]
                for i in range(ins):
                    at = i * outs + o if turned else o * ins + i
                    w[at] += sum(c * row[i] for c, row in zip(coefs, rows))
            out[name] = ('F32', tensors[name][1], struct.pack('<%df' % len(w), *w))
        return out

    def with_value(self, name, value):
        self.config[name] = value
        return self

    def save(self, name, shards=1):
        path = temp(name)
        base.shutil.rmtree(path, ignore_errors=True)
        os.mkdir(path)
        write(name + '/adapter_config.json', json.dumps(self.config))
        if shards == 1:
            write(name + '/adapter_model.safetensors', safetensors(self.tensors))
            return path
        names, of = sorted(self.tensors), {}
        for i in range(shards):
            file = 'adapter_model-%05d-of-%05d.safetensors' % (i + 1, shards)
            write(name + '/' + file, safetensors({n: self.tensors[n] for n in names[i::shards]}))
            of.update({n: file for n in names[i::shards]})
        write(name + '/adapter_model.safetensors.index.json', json.dumps({'weight_map': of}))
        return path


def convert(path, model, *options, name='adapter.gguf'):
    out = temp(name)
    if os.path.exists(out):
        os.remove(out)
    infer('convert', path, out, '--base', model, *options)
    return gguf_file.Gguf(out)


def copy_with(path, name, tensors):
    """A folder with other tensors."""
    out = temp(name)
    base.shutil.rmtree(out, ignore_errors=True)
    os.mkdir(out)
    for file in os.listdir(path):
        if not file.startswith('model') and os.path.isfile(os.path.join(path, file)):
            base.shutil.copy(os.path.join(path, file), out)
    write(name + '/model.safetensors', safetensors(tensors))
    return out


def compare(path, adapter, what, limit=LIMIT, by_file=True):
    """The adapter on the model against the merged folder. by_file: the base can be given as a file, too, with the same result."""
    file = temp('base.gguf')
    infer('convert', path, file, '--type', 'F32')
    convert(adapter.save('adapter'), path)
    by_folder = read(temp('adapter.gguf'))
    if by_file:
        convert(temp('adapter'), file)
        check(read(temp('adapter.gguf')) == by_folder, '%s: the adapter depends on the form of its base' % what)
    else:
        refused(temp('adapter'), file, "give the base's folder")
        convert(temp('adapter'), path)
    infer('convert', copy_with(path, 'merged', adapter.merged(load(path))), temp('merged.gguf'), '--type', 'F32')
    options = ('--exact', '--kv', 'f32')
    plain, got, want = cli.logits(file, IDS, *options), cli.logits(file, IDS, *options, '--lora', temp('adapter.gguf')), cli.logits(temp('merged.gguf'), IDS, *options)
    check(cli.reference.nmse(plain, want) > 1e-4, '%s: the adapter has no effect' % what)
    cli.within(got, want, limit, what)


def weights(tensors, *parts, but=()):
    """Matrices whose names have one of these parts."""
    return {n: t[1] for n, t in tensors.items() if len(t[1]) == 2 and n.endswith('.weight') and any(p in n for p in parts) and not any(p in n for p in but)}


LINEAR = ('_proj', 'mlp.gate.', 'block_sparse_moe', 'lm_head')


def refused(path, model, why, *options, status=1):
    """One line that says why (words separated by |: any), and no file."""
    out = temp('never.gguf')
    done = infer('convert', path, out, *(('--base', model) if model else ()), *options, status=status)
    check(any(w in done.err for w in why.split('|')), '%r does not say %r' % (done.err, why))
    check(status == 2 or sum(not line.startswith('warning: ') for line in done.err.splitlines()) == 1, done.err)
    check(not os.path.exists(out) and not [f for f in os.listdir(cli.TEMP) if '.part' in f], 'a file is left')


# ---- families --------------------------------------------------------------------------------------------------------

def test_llama():
    """Rows of Q and K change places; all types; shards; embeddings; both forms of the base; run takes the folder itself."""
    t = made()
    path = folder('llama', t)
    compare(path, Adapter(weights(t, *LINEAR)), 'all matrices')
    compare(path, Adapter(weights(t, *LINEAR, 'embed_tokens'), embeddings=['embed_tokens']), 'embeddings')
    compare(path, Adapter(weights(t, 'q_proj'), rank=1, alpha=0.5), 'rank 1')
    a = Adapter(weights(t, *LINEAR), zero=['q_proj'])
    compare(path, a, 'zeros')
    check('blk.0.attn_q.weight.lora_b' in gguf_file.Gguf(temp('adapter.gguf')).tensors, 'B without effect is left out')
    whole = read(temp('adapter.gguf'))
    convert(a.save('adapter', shards=3), path)
    check(read(temp('adapter.gguf')) == whole, 'shards give another file')
    for kind, number in (('F32', F32), ('F16', F16), ('BF16', BF16)):
        a = Adapter(weights(t, *LINEAR), kind=kind)
        g = convert(a.save('adapter'), path)
        check(all(x[1] == number for x in g.tensors.values()), 'types of ' + kind)
        check(raw(g, 'blk.1.ffn_down.weight.lora_a') == a.tensors['base_model.model.model.layers.1.mlp.down_proj.lora_A.weight'][2], 'values of ' + kind)
        compare(path, a, kind, 1e-10 if kind == 'F32' else 2e-6)
        for to, its in (('f16', F16), ('F32', F32), ('bf16', BF16)):
            check(all(x[1] == its for x in convert(temp('adapter'), path, '--type', to).tensors.values()), '--type ' + to)
    meta = g.meta
    for key, value in {'general.type': 'adapter', 'adapter.type': 'lora', 'adapter.lora.alpha': 8.0, 'general.architecture': 'llama'}.items():
        check(meta.get(key) == value, '%s is %r' % (key, meta.get(key)))
    check(g.tensors['blk.0.attn_k.weight.lora_a'][0] == [EMBD, 4] and g.tensors['blk.0.attn_k.weight.lora_b'][0] == [4, 32], 'shapes')


def raw(g, name):
    return base.raw_of(g, name)


def test_scales():
    """alpha, rank-stabilised alpha, patterns of ranks and of alphas."""
    t = made()
    path = folder('llama', t)
    w = weights(t, *LINEAR)
    compare(path, Adapter(w, alpha=3.7), 'alpha')
    compare(path, Adapter(w, rslora=True), 'use_rslora')
    compare(path, Adapter(w, ranks={'q_proj': 2, 'layers.1.mlp.down_proj': 7}), 'rank_pattern')
    compare(path, Adapter(w, ranks={'q_proj': 2, '^model.layers.1.mlp.down_proj': 7}, alphas={'k_proj': 5, 'model.layers.0.mlp.up_proj': -1.5}), 'alpha_pattern')
    compare(path, Adapter(w, ranks={'q_proj': 2}, alphas={'k_proj': 5}, rslora=True), 'patterns and use_rslora')
    a = Adapter(w, alpha=0)
    convert(a.save('adapter'), path)
    got, want = cli.logits(path, IDS, '--exact', '--lora', temp('adapter.gguf')), cli.logits(path, IDS, '--exact')
    check(got == want, 'alpha 0 has an effect')
    check(convert(Adapter(w, alora_invocation_tokens=[5, 6, 7]).save('adapter'), path).meta['adapter.alora.invocation_tokens'] == [5, 6, 7], 'invocation')


def test_experts():
    """One pair for each expert; experts without; ranks that differ."""
    t = made(experts=3)
    path = folder('moe', t, config(architectures=['MixtralForCausalLM'], num_local_experts=3, num_experts_per_tok=2))
    compare(path, Adapter(weights(t, *LINEAR)), 'all experts')
    compare(path, Adapter(weights(t, 'experts.1.', 'q_proj', but=['1.w2'])), 'one expert')
    compare(path, Adapter(weights(t, *LINEAR), ranks={'experts.1.w1': 7, 'experts.0.w2': 1}), 'ranks of experts')


def test_expert_parameters():
    """Matrices of all experts in one: target_parameters, as older and newer versions of PEFT order them."""
    experts, ff, rank = 3, base.FF, {'gate_up_proj': 6, 'down_proj': 2}
    cfg = config(architectures=['MixtralForCausalLM'], num_local_experts=experts, num_experts_per_tok=2)
    t = {n: x for n, x in made(experts=experts).items() if '.experts.' not in n}
    for i in range(2):
        for which, (outs, ins) in (('gate_up_proj', (2 * ff, EMBD)), ('down_proj', (EMBD, ff))):
            name = 'model.layers.%d.mlp.experts.%s' % (i, which)
            t[name] = ('F32', (experts, outs, ins), pack('F32', base.values(name, experts * outs * ins)))
    path = folder('parameters', t, cfg)
    for version, targets in (('0.21.2', ['mlp.experts.gate_up_proj', 'mlp.experts.down_proj']), ('0.18.1', ['down_proj', 'gate_up_proj']), (None, ['model.layers.1.mlp.experts.down_proj'])):
        old = version != '0.21.2'
        a = Adapter(weights(t, 'q_proj'), ranks={'.*\\.gate_up_proj': 6, 'experts.d.*proj': 2}, alphas={'.*\\.gate_up_proj': 5}, target_parameters=targets, peft_version=version)
        out = a.merged(t)
        for i in range(2):
            for which in rank:
                name, r = 'model.layers.%d.mlp.experts.%s' % (i, which), rank[which]
                if not any(name.endswith(target) for target in targets):
                    continue
                _, (_, outs, ins), _ = t[name]
                first, second = (outs, ins) if old else (ins, outs) # the widths of A and B
                x, y = numbers(name + 'a', experts * r * first, 0.5), numbers(name + 'b', second * r * experts, 0.25)
                module = 'base_model.model.model.layers.%d.mlp.experts.%s' % (i, 'base_layer.' if which == 'gate_up_proj' else '')
                a.tensors[module + 'lora_A.weight'] = ('F32', (experts * r, first), pack('F32', x))
                a.tensors[module + 'lora_B.weight'] = ('F32', (second, r * experts), pack('F32', y))
                w, scale = floats(t[name]), (5 if which == 'gate_up_proj' else 8) / r
                for e in range(experts):
                    for p in range(second):
                        coefs = [scale * y[p * r * experts + k * experts + e] for k in range(r)]
                        for q in range(first):
                            at = (e * outs + (q if old else p)) * ins + (p if old else q)
                            w[at] += sum(c * x[(e * r + k) * first + q] for k, c in enumerate(coefs))
                out[name] = ('F32', t[name][1], struct.pack('<%df' % len(w), *w))
        a.merged = lambda _: out
        compare(path, a, 'parameters, PEFT %s' % version)
        compare_fused(path, a, 'fused parameters, PEFT %s' % version)
    a.config['target_parameters'] = []
    refused(a.save('adapter'), path, 'experts.lora_A.weight has rank 6')


FUSED = {'attn_qkv.weight': ('attn_q.weight', 'attn_k.weight', 'attn_v.weight'), 'ffn_gate_up_exps.weight': ('ffn_gate_exps.weight', 'ffn_up_exps.weight')}


def fused(path, out):
    """The file with one tensor in place of several: rows one after the other, of each expert."""
    g, tensors = gguf_file.Gguf(path), []
    for name, (dims, kind, _) in g.tensors.items():
        start, _, end = name.rpartition('.attn_' if '.attn_' in name else '.ffn_')
        whole = next((w for w, parts in FUSED.items() if name.endswith('.' + parts[0]) and start + '.' + parts[1] in g.tensors), None)
        if any(name.endswith('.' + p) and start + '.' + parts[0] in g.tensors for parts in FUSED.values() for p in parts[1:]):
            continue
        if whole is None:
            tensors.append((name, dims, kind, raw(g, name)))
            continue
        its = [start + '.' + p for p in FUSED[whole]]
        n = dims[2] if len(dims) > 2 else 1
        data = b''.join(raw(g, p)[e * len(raw(g, p)) // n:(e + 1) * len(raw(g, p)) // n] for e in range(n) for p in its)
        tensors.append((start + '.' + whole, [dims[0], sum(g.tensors[p][0][1] for p in its)] + dims[2:], kind, data))
    gguf_file.write(temp(out), {}, tensors, g.raw.values())
    check(len(tensors) < len(g.tensors), 'nothing is fused')
    return temp(out)


def compare_fused(path, adapter, what):
    """The adapter for a file with fused tensors, against the merged folder."""
    infer('convert', path, temp('base.gguf'), '--type', 'F32')
    file = fused(temp('base.gguf'), 'fused.gguf')
    g = convert(adapter.save('adapter'), file)
    infer('convert', copy_with(path, 'merged', adapter.merged(load(path))), temp('merged.gguf'), '--type', 'F32')
    options = ('--exact', '--kv', 'f32')
    plain, got, want = cli.logits(file, IDS, *options), cli.logits(file, IDS, *options, '--lora', temp('adapter.gguf')), cli.logits(temp('merged.gguf'), IDS, *options)
    check(cli.reference.nmse(plain, want) > 1e-4, '%s: the adapter has no effect' % what)
    cli.within(got, want, LIMIT, what)
    return g


def test_fused():
    """A base whose file has Q, K and V in one tensor, or gate and up of experts, where its folder has them apart."""
    t = made()
    path = folder('llama', t)
    g = compare_fused(path, Adapter(weights(t, *LINEAR)), 'Q, K, V')
    check(g.tensors['blk.1.attn_qkv.weight.lora_a'][0] == [EMBD, 12] and g.tensors['blk.1.attn_qkv.weight.lora_b'][0] == [12, 128], 'shapes: %s' % list(g.tensors.items())[:3])
    for part in ('q_proj', 'k_proj', 'v_proj'):
        g = compare_fused(path, Adapter(weights(t, part), alpha=3), part)
        check(g.tensors['blk.1.attn_qkv.weight.lora_a'][0] == [EMBD, 4], 'the rank of one part')
    compare_fused(path, Adapter(weights(t, 'q_proj', 'v_proj'), ranks={'q_proj': 2, 'layers.1.self_attn.v_proj': 7}, alphas={'v_proj': 5}), 'ranks that differ')
    t = made(experts=3)
    path = folder('moe', t, config(architectures=['MixtralForCausalLM'], num_local_experts=3, num_experts_per_tok=2))
    compare_fused(path, Adapter(weights(t, *LINEAR)), 'gate and up of experts')
    compare_fused(path, Adapter(weights(t, 'w1.', 'k_proj'), ranks={'experts.1.w1': 7}), 'gate alone')
    compare_fused(path, Adapter(weights(t, 'experts.2.w3.')), 'up of one expert')
    g = gguf_file.Gguf(temp('fused.gguf'))
    shapes = {n: (x[0], x[1], raw(g, n)) for n, x in g.tensors.items()}
    shapes['blk.0.attn_qkv.weight'] = ([EMBD, 96], F32, shapes['blk.0.attn_qkv.weight'][2][:EMBD * 96 * 4])
    gguf_file.write(temp('odd.gguf'), {}, [(n, *x) for n, x in shapes.items()], g.raw.values())
    refused(Adapter(weights(t, 'q_proj', 'v_proj')).save('adapter'), temp('odd.gguf'), 'attn_qkv.weight')


def test_gpt2():
    """Weights stored as [inputs][outputs], Q, K and V in one."""
    shapes = {'transformer.wte.weight': (260, 32), 'transformer.wpe.weight': (64, 32), 'transformer.ln_f.weight': (32,), 'transformer.ln_f.bias': (32,)}
    for i in range(2):
        p = 'transformer.h.%d.' % i
        shapes.update({p + 'attn.c_attn.weight': (32, 96), p + 'attn.c_proj.weight': (32, 32), p + 'mlp.c_fc.weight': (32, 128), p + 'mlp.c_proj.weight': (128, 32)})
        shapes.update({p + 'attn.c_attn.bias': (96,), p + 'attn.c_proj.bias': (32,), p + 'mlp.c_fc.bias': (128,), p + 'mlp.c_proj.bias': (32,)})
        shapes.update({p + n + e: (32,) for n in ('ln_1', 'ln_2') for e in ('.weight', '.bias')})
    t = {n: ('F32', s, pack('F32', base.values(n, math.prod(s)))) for n, s in shapes.items()}
    path = folder('gpt2', t, {'architectures': ['GPT2LMHeadModel'], 'model_type': 'gpt2', 'n_embd': 32, 'n_head': 4, 'n_layer': 2, 'n_positions': 64, 'n_ctx': 64,
                              'vocab_size': 260, 'layer_norm_epsilon': 1e-5, 'tie_word_embeddings': True, 'activation_function': 'gelu_new'})
    w = weights(t, 'c_attn', 'c_proj', 'c_fc')
    compare(path, Adapter(w, conv1d=['c_attn', 'c_proj', 'c_fc']), 'gpt2')
    a = Adapter(w, conv1d=['c_attn', 'c_proj', 'c_fc'])
    a.config['fan_in_fan_out'] = False # PEFT saves what the last module was
    compare(path, a, 'gpt2 without fan_in_fan_out')


# Folders that transformers saved: what of them has adapters besides projections, and whether a GGUF file says enough to be the base.
FAMILIES = {'llama': (), 'qwen2': (), 'qwen3_moe': (), 'qwen2_moe': ('shared_expert_gate',), 'mixtral': (), 'phi3': (), 'gemma3_text': (), 'cohere2': (), 'deepseek_v3': (), 'gpt_oss': (),
            'qwen3_next': (), 'qwen3_5': (), 'mamba2': (), 'lfm2': ('.w1.', '.w2.', '.w3.'), 'glm4_moe': (), 'nemotron_h': (), 'falcon_h1': None, 'granitemoehybrid': None}


def test_families():
    """Models of many families, all of their projections."""
    root = next((os.path.join(f, 'hf') for f in cli.FOLDERS if os.path.isdir(os.path.join(f, 'hf'))), None)
    names = [n for n in FAMILIES if root and os.path.exists(os.path.join(root, n, 'hf', 'model.safetensors'))]
    if not names:
        raise cli.Skipped('needs INFER_TEST_DATA: hf')
    for name in names:
        path = os.path.join(root, name, 'hf')
        t = load(path)
        compare(path, Adapter(weights(t, *LINEAR, *(FAMILIES[name] or ('_linear.', 'router.layer.')), but=('kv_b_proj',))), name, by_file=FAMILIES[name] is not None)


# ---- the program -----------------------------------------------------------------------------------------------------

def test_folder_as_adapter():
    """--lora takes the folder; the base that the config names; hash and diff read it; nothing is written over."""
    t = made()
    path = folder('llama', t)
    a = Adapter(weights(t, *LINEAR))
    g = convert(a.save('adapter'), path)
    infer('convert', path, temp('base.gguf'))
    for model in (path, temp('base.gguf')):
        got = cli.logits(model, IDS, '--exact', '--lora', temp('adapter') + '=0.5')
        check(got == cli.logits(model, IDS, '--exact', '--lora', temp('adapter.gguf') + '=0.5'), 'the folder and its file give other logits')
    check('model' in infer('logits', path, '--ids', cli.write_ids('in.ids', IDS), '--out', temp('x'), '--lora', path, status=1).err, 'a model as an adapter')
    a.config['base_model_name_or_path'] = path
    infer('convert', a.save('named'), temp('named.gguf'))
    base.same_tensors(gguf_file.Gguf(temp('named.gguf')), g, 'the base that the config names')
    infer('diff', temp('named'), temp('named.gguf'), status=1)
    check(infer('hash', temp('named')).out, 'hash')
    infer('convert', temp('named'), path + '/model.safetensors', status=2)
    infer('convert', temp('named'), temp('named') + '/adapter_model.safetensors', status=2)
    infer('convert', path, temp('never.gguf'), '--base', path, status=2)
    for options in (('--type', 'Q8_0'), ('--type', 'attn=Q4_K'), ('--target-size', '1000'), ('--split-max-size', '1M'), ('--output-type', 'F16')):
        refused(temp('adapter'), path, 'adapter', *options, status=2)
    check({x['type'] for x in infer('convert', temp('named'), '--dry-run', '--json', '--type', 'F16').json()['tensors']} == {'F16'}, 'plan')


def test_saved_embeddings():
    """PEFT saves embeddings along that have an adapter: the base's own are left out, others refused."""
    t = made()
    path = folder('llama', t)
    a = Adapter(weights(t, 'q_proj', 'embed_tokens'), embeddings=['embed_tokens'])
    g = convert(a.save('adapter'), path, name='without.gguf')
    name = 'base_model.model.model.embed_tokens.base_layer.weight'
    a.tensors[name] = t['model.embed_tokens.weight']
    base.same_tensors(convert(a.save('adapter'), path), g, 'embeddings saved along')
    dtype, shape, bits = a.tensors[name]
    a.tensors[name] = (dtype, shape, bits[:-4] + b'\0\0\0\0')
    refused(a.save('adapter'), path, 'differs from the base')


# ---- what it refuses -------------------------------------------------------------------------------------------------

def test_other_mathematics():
    """What the config asks for and an adapter file cannot say is refused by its name."""
    t = made()
    path = folder('llama', t)
    w = weights(t, 'q_proj')
    for name, value in (('use_dora', True), ('bias', 'all'), ('bias', 'lora_only'), ('lora_bias', True), ('layer_replication', [[0, 2]]), ('modules_to_save', ['lm_head']), ('use_qalora', True),
                        ('init_lora_weights', 'pissa'), ('init_lora_weights', 'olora'), ('trainable_token_indices', [3]), ('peft_type', 'LOHA'), ('ensure_weight_tying', True), ('arrow_config', {'top_k': 1}),
                        ('some_new_key', 'x'), ('use_rslora', 1), ('some_new_key', 0.5), ('rank_pattern', {'(q|k)_proj': 4}), ('rank_pattern', {'.*.*.*.*q_proj': 4}), ('alpha_pattern', {'q|k': 4}), ('alora_invocation_tokens', [-1]), ('alora_invocation_tokens', 'x'),
                        ('r', 0), ('r', 1 << 40), ('r', 'x'), ('r', None), ('r', -3), ('lora_alpha', 'x'), ('lora_alpha', 1e300), ('rank_pattern', {'q_proj': 0}), ('rank_pattern', [1]), ('alpha_pattern', {'k_proj': 'x'})):
        refused(Adapter(w, **{name: value} if name not in ('r', 'lora_alpha') else {}).with_value(name, value).save('adapter'), path, name)
    for name, value in (('some_new_key', None), ('some_new_key', False), ('some_new_key', []), ('init_lora_weights', 'gaussian'), ('layers_to_transform', [0]), ('exclude_modules', 'x')):
        convert(Adapter(w, **{name: value}).save('adapter'), path)
    for name in ('lora_magnitude_vector', 'lora_B.bias', 'lora_C.weight', 'weight', 'modules_to_save.weight'):
        a = Adapter(w)
        a.tensors['base_model.model.model.layers.0.self_attn.q_proj.' + name] = ('F32', (64,), pack('F32', [0] * 64))
        refused(a.save('adapter'), path, 'q_proj.' + name)


def test_other_models():
    """Modules that the base does not have, other shapes, a tied head."""
    t = made()
    path = folder('llama', t)
    for name, shape, why in (('model.layers.0.self_attn.extra.weight', (64, 64), 'extra'), ('model.layers.7.self_attn.q_proj.weight', (64, 64), 'layers.7'), ('model.norm.weight', (64, 1), 'norm'),
                             ('model.layers.0.self_attn.q_proj.weight', (128, 64), 'attn_q'), ('model.layers.0.self_attn.q_proj.weight', (64, 32), 'attn_q'),
                             ('model.layers.0.self_attn.q_proj.weight', (63, 64), 'q_proj'), ('model.layers.0.mlp.up_proj.weight', (64, 96), 'ffn_up'), ('lm_head.weight', (1, 1), 'output')):
        refused(Adapter({name: shape}).save('adapter'), path, why)
    del t['lm_head.weight']
    path = folder('tied', t, config(tie_word_embeddings=True))
    infer('convert', path, temp('base.gguf'))
    for model in (path, temp('base.gguf')):
        refused(Adapter({'lm_head.weight': (260, 64)}).save('adapter'), model, 'lm_head')
    a = Adapter({'model.embed_tokens.weight': (260, 64)}, embeddings=['embed_tokens'])
    convert(a.save('adapter'), path)
    got, plain = (cli.logits(path, IDS, '--exact', *o) for o in (('--lora', temp('adapter.gguf')), ()))
    check(got != plain, 'the adapter of the embeddings has no effect')
    a = Adapter(weights(t, 'q_proj'))
    a.tensors.update(Adapter({'model.vision_tower.blocks.0.attn.weight': (8, 8)}).tensors)
    a.save('adapter')
    check('2 tensors are left out' in infer('convert', temp('adapter'), temp('adapter.gguf'), '--base', path).err, 'what is left out is not said')
    refused(Adapter({'model.vision_tower.blocks.0.attn.weight': (8, 8)}).save('adapter'), path, 'no adapter for a matrix')
    Adapter(weights(t, 'q_proj')).save('adapter')
    refused(temp('adapter'), None, '--base')
    refused(temp('adapter'), temp('adapter'), 'adapter')
    refused(temp('adapter'), temp('nowhere'), 'nowhere')


def test_damaged():
    """Files cut anywhere, halves of pairs, ranks that differ: one line, nothing written."""
    t = made()
    path = folder('llama', t)
    a = Adapter(weights(t, 'q_proj', 'down_proj'))
    q = 'base_model.model.model.layers.0.self_attn.q_proj.'
    for drop, why in (('lora_A.weight', 'no A'), ('lora_B.weight', 'no B')):
        b = Adapter(weights(t, 'q_proj'))
        del b.tensors[q + drop]
        refused(b.save('adapter'), path, why)
    for which, shape, why in (('A', (3, 64), 'ranks differ'), ('B', (64, 5), 'ranks differ'), ('A', (4, 64, 1), 'pairs of matrices'), ('A', (256,), 'pairs of matrices'), ('B', (0, 4), 'ranks differ'),
                              ('A', (0, 64), 'ranks differ')):
        b = Adapter(weights(t, 'q_proj'))
        b.tensors[q + 'lora_%s.weight' % which] = ('F32', shape, pack('F32', [0.5] * math.prod(shape)))
        refused(b.save('adapter'), path, why)
    b = Adapter(weights(t, 'q_proj'))
    for which in 'AB':
        b.tensors[q + 'lora_%s.weight' % which] = ('F32', (7, 64) if which == 'A' else (64, 7), pack('F32', [0.5] * 448))
    refused(b.save('adapter'), path, 'rank 7')
    b = Adapter(weights(t, 'q_proj'))
    b.tensors[q + 'lora_A.weight'] = ('I64', (4, 64), pack('I64', [1] * 256))
    refused(b.save('adapter'), path, 'numbers')
    refused(Adapter({}).save('adapter'), path, 'no adapter')
    a.save('adapter')
    whole = read(temp('adapter') + '/adapter_model.safetensors')
    head = 8 + struct.unpack('<Q', whole[:8])[0]
    for n in (0, 7, 8, head // 2, head, head + 99, len(whole) - 1):
        write('adapter/adapter_model.safetensors', whole[:n])
        refused(temp('adapter'), path, 'adapter_model.safetensors')
    base.changed_headers(temp('adapter'), 'adapter/adapter_model.safetensors', whole, 2, '--base', path)
    os.remove(temp('adapter') + '/adapter_model.safetensors')
    refused(temp('adapter'), path, 'there is no adapter_model.safetensors')
    write('adapter/adapter_model.bin', 'PK')
    refused(temp('adapter'), path, 'pickle')
    for text in ('{', '[]', '7', '{}'):
        write('adapter/adapter_config.json', text)
        refused(temp('adapter'), path, 'adapter_config.json')
    os.remove(temp('adapter') + '/adapter_config.json')
    refused(temp('adapter'), None, 'config.json')


def all_tests():
    return cli.tests_in(globals())


if __name__ == '__main__':
    cli.main(all_tests, __doc__)
