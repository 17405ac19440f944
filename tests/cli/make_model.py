"""Tiny random models in odd shapes, written as GGUF: what the recorded references do not exercise.

    python3 make_model.py OUT_DIR [NAME...]      write some or all of them
    make_model.MODELS                            name -> settings, see PLAIN below for what may be set

Widths are no multiples of anything convenient. Weights are drawn so that every layer matters: matrices with deviation
1/sqrt(row length), norms near 1, biases of the size of what they are added to.
"""
import math
import os
import random
import struct
import sys

import gguf_file

# What a model is made of unless its entry below says otherwise.
PLAIN = dict(arch='llama', layers=2, width=40, heads=6, kv_heads=3, head_dim=24, ffn=70, vocab=33, context=128,
             rotated=None,       # rope.dimension_count
             bias=(),            # which of q k v qkv o gate up down attn_norm ffn_norm output_norm output get a bias
             fused=(),           # 'qkv', 'gate_up'
             gate=True, tied=False, ffn_norm=True, attn_norm=True, norm_weights=True, output_norm=True,
             qk_norm=None,       # 'head', 'row', 'per_head'
             post_norms=(),      # 'attention', 'ffn'
             positions=False, embed_norm=False, experts=None,
             choice_bias=False,  # exp_probs_b
             expert_bias=False,  # of router and experts
             shared=None,        # width of a shared expert
             shared_score=False, # ffn_gate_inp_shexp
             sinks=False,        # attn_sinks: one score more for each head
             freqs=None,         # 'freqs': rope_freqs; 'long': rope_factors_long and _short
             half=False,         # matrices in F16
             meta={})            # keys without the architecture's prefix


def llama(**settings):
    return dict(PLAIN, **settings)


YARN = {'rope.scaling.type': 'yarn', 'rope.scaling.factor': 4.0, 'rope.scaling.original_context_length': 100}

MODELS = {
    # the llama layer in odd shapes
    'llama': llama(),
    'llama-half': llama(half=True, layers=3),
    'llama-one-head': llama(heads=1, kv_heads=1, head_dim=10, width=10, ffn=3, vocab=2),
    'llama-wide-group': llama(heads=12, kv_heads=1, head_dim=6),
    'llama-long-head': llama(heads=2, kv_heads=2, head_dim=130, width=36),
    'llama-bias': llama(bias=('q', 'k', 'v', 'o', 'gate', 'up', 'down'), tied=True),
    'llama-partial': llama(rotated=16),
    'llama-freqs': llama(freqs='freqs'),
    'llama-linear': llama(meta={'rope.scaling.type': 'linear', 'rope.scaling.factor': 3.5}),
    'llama-yarn': llama(meta={'rope.scaling.type': 'yarn', 'rope.scaling.factor': 8.0,
                              'rope.scaling.original_context_length': 16, 'rope.freq_base': 5000.0}),
    'llama-yarn-freqs': llama(freqs='freqs', rotated=20, context=512,
                              meta={'rope.scaling.type': 'yarn', 'rope.scaling.factor': 2.5,
                                    'rope.scaling.original_context_length': 200}),
    # each key of YaRN that moves its result; an extrapolation below 0 is one that was not given, and the 1 beside it too
    'llama-yarn-betas': llama(layers=1, context=512, meta=dict(YARN, **{'rope.scaling.yarn_beta_fast': 6.0,
                                                                        'rope.scaling.yarn_beta_slow': 0.25})),
    'llama-yarn-ext': llama(layers=1, context=512, meta=dict(YARN, **{'rope.scaling.yarn_ext_factor': 0.375})),
    'llama-yarn-linear': llama(layers=1, meta=dict(YARN, **{'rope.scaling.yarn_ext_factor': 0.0})),
    'llama-yarn-attention': llama(layers=1, meta=dict(YARN, **{'rope.scaling.yarn_attn_factor': 1.625,
                                                               'rope.scaling.yarn_log_multiplier': 0.5})),
    'llama-yarn-unset': llama(layers=1, meta=dict(YARN, **{'rope.scaling.yarn_ext_factor': -1.0,
                                                           'rope.scaling.yarn_attn_factor': 1.0})),
    'llama-sinks': llama(sinks=True),
    'llama-experts': llama(experts=(5, 2, 22), ffn=50),
    'llama-experts-all': llama(experts=(3, 3, 17)),
    'llama-experts-scaled': llama(experts=(5, 2, 22), meta={'expert_weights_scale': 2.5, 'expert_gating_func': 1}),
    'llama-experts-saved': llama(experts=(4, 2, 22), meta={'expert_weights_scale': 0.0, 'expert_gating_func': 0,
                                                           'expert_weights_norm': False}),
    'llama-experts-sigmoid': llama(experts=(5, 2, 22), meta={'expert_gating_func': 2, 'expert_weights_scale': 1.5}),
    'llama-experts-root': llama(experts=(6, 3, 19), choice_bias=True, meta={'expert_gating_func': 4,
                                                                           'expert_weights_norm': False}),
    'llama-experts-groups': llama(experts=(12, 4, 17), meta={'expert_group_count': 3, 'expert_group_used_count': 2}),
    'llama-experts-fused': llama(experts=(6, 2, 22), fused=('experts',), half=True),
    'llama-experts-one': llama(experts=(7, 1, 33), half=True),
    # other layers
    'qwen2': llama(arch='qwen2', bias=('q', 'k', 'v')),
    'qwen3': llama(arch='qwen3', qk_norm='head'),
    'qwen3-tied-half': llama(arch='qwen3', qk_norm='head', tied=True, half=True, heads=4, kv_heads=4, head_dim=14),
    'qwen3moe': llama(arch='qwen3moe', qk_norm='head', experts=(6, 3, 18)),
    'qwen3moe-undivided': llama(arch='qwen3moe', qk_norm='head', experts=(6, 3, 18),
                                meta={'expert_weights_norm': False, 'expert_weights_scale': 1.75}),
    'qwen2moe': llama(arch='qwen2moe', bias=('q', 'k', 'v'), experts=(7, 3, 18), shared=31, shared_score=True),
    'bailingmoe2-groups': llama(arch='bailingmoe2', layers=3, qk_norm='head', fused=('qkv',), experts=(20, 5, 13), shared=21,
                                choice_bias=True, meta={'expert_group_count': 5, 'expert_group_used_count': 2,
                                                        'expert_weights_norm': True, 'expert_weights_scale': 2.5,
                                                        'expert_gating_func': 2, 'expert_shared_count': 1}),
    'bailingmoe2-lone-groups': llama(arch='bailingmoe2', qk_norm='head', fused=('qkv',), experts=(6, 2, 9), shared=5,
                                     choice_bias=True, meta={'expert_group_count': 6, 'expert_group_used_count': 3}),
    'gpt-oss': llama(arch='gpt-oss', layers=4, sinks=True, expert_bias=True, experts=(9, 4, 23), ffn_norm=False,
                     post_norms=('attention',), bias=('q', 'k', 'v', 'o'), meta={'attention.sliding_window': 5}),
    'hunyuan-moe': llama(arch='hunyuan-moe', qk_norm='head', experts=(5, 1, 20), shared=24),
    'gpt2': llama(arch='gpt2', positions=True, fused=('qkv',), gate=False, head_dim=9, width=54,
                  bias=('qkv', 'o', 'up', 'down', 'attn_norm', 'ffn_norm', 'output_norm')),
    'gptneox-parallel': llama(arch='gptneox', rotated=6, fused=('qkv',), gate=False, kv_heads=6, head_dim=10, width=60,
                              bias=('qkv', 'o', 'up', 'down', 'attn_norm', 'ffn_norm', 'output_norm'),
                              meta={'use_parallel_residual': True}),
    'gptneox-serial': llama(arch='gptneox', rotated=4, fused=('qkv',), gate=False, kv_heads=6, head_dim=10, width=60,
                            bias=('qkv', 'o', 'up', 'down', 'attn_norm', 'ffn_norm', 'output_norm'),
                            meta={'use_parallel_residual': False}),
    'bloom': llama(arch='bloom', fused=('qkv',), gate=False, kv_heads=6, head_dim=10, width=60, embed_norm=True,
                   bias=('qkv', 'o', 'up', 'down', 'attn_norm', 'ffn_norm', 'output_norm')),
    'mpt-clamp': llama(arch='mpt', fused=('qkv',), gate=False, kv_heads=6, head_dim=10, width=60,
                       meta={'attention.max_alibi_bias': 4.0, 'attention.clamp_kqv': 0.7}),
    'olmo-clamp': llama(arch='olmo', norm_weights=False, meta={'attention.clamp_kqv': 0.6}),
    'olmo2': llama(arch='olmo2', qk_norm='row', attn_norm=False, ffn_norm=False, post_norms=('attention', 'ffn')),
    'gemma': llama(arch='gemma', tied=True),
    'gemma2': llama(arch='gemma2', layers=3, tied=True, post_norms=('attention', 'ffn'),
                    meta={'attention.sliding_window': 5, 'attn_logit_softcapping': 1.5, 'final_logit_softcapping': 2.0}),
    'gemma2-sinks': llama(arch='gemma2', layers=3, tied=True, post_norms=('attention', 'ffn'), sinks=True, kv_heads=1,
                          meta={'attention.sliding_window': 5, 'attn_logit_softcapping': 1.5,
                                'final_logit_softcapping': 2.0}),
    'gemma3-pattern': llama(arch='gemma3', layers=4, tied=True, qk_norm='head', post_norms=('attention', 'ffn'),
                            meta={'attention.sliding_window': 7, 'attention.sliding_window_pattern': 3}),
    'gemma3': llama(arch='gemma3', layers=7, tied=True, qk_norm='head', post_norms=('attention', 'ffn'),
                    meta={'attention.sliding_window': 7, 'rope.freq_base': 1000000.0, 'rope.scaling.type': 'linear',
                          'rope.scaling.factor': 8.0}),
    'phi3': llama(arch='phi3', fused=('qkv', 'gate_up')),
    'phi3-long': llama(arch='phi3', fused=('qkv', 'gate_up'), freqs='long', rotated=16, context=512,
                       meta={'rope.scaling.original_context_length': 64, 'rope.scaling.attn_factor': 1.2}),
    'phi3-short': llama(arch='phi3', fused=('qkv', 'gate_up'), freqs='long', rotated=16, context=64,
                        meta={'rope.scaling.original_context_length': 64, 'rope.scaling.attn_factor': 1.2}),
    'phi2': llama(arch='phi2', gate=False, ffn_norm=False, rotated=10, kv_heads=6, head_dim=14, width=84,
                  bias=('q', 'k', 'v', 'o', 'up', 'down', 'attn_norm', 'output_norm', 'output')),
    'command-r': llama(arch='command-r', ffn_norm=False, tied=True, meta={'logit_scale': 0.0625}),
    'cohere2': llama(arch='cohere2', layers=5, ffn_norm=False, tied=True,
                     meta={'logit_scale': 0.25, 'attention.sliding_window': 6}),
    'granite': llama(arch='granite', meta={'embedding_scale': 3.0, 'residual_scale': 0.4, 'attention.scale': 0.11,
                                           'logit_scale': 4.0}),
    'granite-unrotated': llama(arch='granite', meta={'logit_scale': 2.0, 'rope.scaling.finetuned': False}),
    'minicpm': llama(arch='minicpm', meta={'embedding_scale': 2.0, 'residual_scale': 0.7, 'logit_scale': 0.3}),
    'stablelm': llama(arch='stablelm', rotated=6, bias=('attn_norm', 'ffn_norm', 'output_norm', 'q', 'k', 'v')),
    'stablelm-parallel': llama(arch='stablelm', rotated=6, ffn_norm=False, qk_norm='per_head',
                               bias=('attn_norm', 'output_norm')),
    'starcoder2': llama(arch='starcoder2', gate=False, tied=True,
                        bias=('q', 'k', 'v', 'o', 'up', 'down', 'attn_norm', 'ffn_norm', 'output_norm')),
    'nemotron': llama(arch='nemotron', gate=False, rotated=12, bias=('attn_norm', 'ffn_norm', 'output_norm')),
    'arcee': llama(arch='arcee', gate=False),
    'smollm3': llama(arch='smollm3', layers=5),
    'llama-rope-pattern': llama(layers=3, meta={'attention.rope_pattern': [1, 0, 1]}),
}


class Maker:
    def __init__(self, name, settings):
        self.s = settings
        self.random = random.Random(name)
        self.tensors = []

    def floats(self, n, mean, deviation):
        return [self.random.gauss(mean, deviation) for _ in range(n)]

    def vector(self, name, n, mean, deviation=0.15):
        self.tensors.append((name, [n], gguf_file.TENSOR_F32, struct.pack('<%df' % n, *self.floats(n, mean, deviation))))

    def matrix(self, name, width, rows, experts=None, router=False):
        n = width * rows * (experts or 1)
        half = self.s['half'] and not router
        raw = struct.pack('<%d%s' % (n, 'e' if half else 'f'), *self.floats(n, 0.0, 1.3 / math.sqrt(width)))
        dims = [width, rows] + ([experts] if experts else [])
        self.tensors.append((name, dims, gguf_file.TENSOR_F16 if half else gguf_file.TENSOR_F32, raw))

    def norm(self, name, n, bias):
        if self.s['norm_weights']:
            self.vector(name + '.weight', n, 1.0)
            if bias in self.s['bias']:
                self.vector(name + '.bias', n, 0.0)

    def linear(self, name, width, rows, bias):
        self.matrix(name + '.weight', width, rows)
        if bias in self.s['bias']:
            self.vector(name + '.bias', rows, 0.0, 0.3)

    def layer(self, i):
        s, p = self.s, 'blk.%d.' % i
        w, q, k = s['width'], s['heads'] * s['head_dim'], s['kv_heads'] * s['head_dim']
        if s['attn_norm']:
            self.norm(p + 'attn_norm', w, 'attn_norm')
        if 'qkv' in s['fused']:
            self.linear(p + 'attn_qkv', w, q + 2 * k, 'qkv')
        else:
            for letter, rows in (('q', q), ('k', k), ('v', k)):
                self.linear(p + 'attn_' + letter, w, rows, letter)
        for letter, rows, heads in (('q', q, s['heads']), ('k', k, s['kv_heads'])):
            if s['qk_norm'] == 'head':
                self.vector(p + 'attn_%s_norm.weight' % letter, s['head_dim'], 1.0)
            if s['qk_norm'] == 'row':
                self.vector(p + 'attn_%s_norm.weight' % letter, rows, 1.0)
            if s['qk_norm'] == 'per_head':
                raw = struct.pack('<%df' % rows, *self.floats(rows, 1.0, 0.15))
                self.tensors.append((p + 'attn_%s_norm.weight' % letter, [s['head_dim'], heads], gguf_file.TENSOR_F32, raw))
        if s['sinks']:
            self.vector(p + 'attn_sinks.weight', s['heads'], 1.0, 2.0)
        self.linear(p + 'attn_output', q, w, 'o')
        if 'attention' in s['post_norms']:
            self.vector(p + 'post_attention_norm.weight', w, 1.0)
        if s['ffn_norm']:
            self.norm(p + 'ffn_norm', w, 'ffn_norm')
        if s['experts']:
            n, _, wide = s['experts']
            self.matrix(p + 'ffn_gate_inp.weight', w, n, router=True)
            if 'experts' in s['fused']:
                self.matrix(p + 'ffn_gate_up_exps.weight', w, 2 * wide, n)
            else:
                self.matrix(p + 'ffn_gate_exps.weight', w, wide, n)
                self.matrix(p + 'ffn_up_exps.weight', w, wide, n)
            self.matrix(p + 'ffn_down_exps.weight', wide, w, n)
            if s['choice_bias']:
                self.vector(p + 'exp_probs_b.bias', n, 0.0, 0.3)
            if s['expert_bias']:
                self.vector(p + 'ffn_gate_inp.bias', n, 0.0, 0.5)
                for letter, rows in (('gate', wide), ('up', wide), ('down', w)):
                    raw = struct.pack('<%df' % (n * rows), *self.floats(n * rows, 0.0, 0.5))
                    self.tensors.append((p + 'ffn_%s_exps.bias' % letter, [rows, n], gguf_file.TENSOR_F32, raw))
            if s['shared']:
                for letter, width, rows in (('gate', w, s['shared']), ('up', w, s['shared']), ('down', s['shared'], w)):
                    self.matrix(p + 'ffn_%s_shexp.weight' % letter, width, rows)
            if s['shared_score']:
                self.vector(p + 'ffn_gate_inp_shexp.weight', w, 0.0, 0.3)
        else:
            if s['gate'] and 'gate_up' not in s['fused']:
                self.linear(p + 'ffn_gate', w, s['ffn'], 'gate')
            self.linear(p + 'ffn_up', w, s['ffn'] * (2 if 'gate_up' in s['fused'] else 1), 'up')
            self.linear(p + 'ffn_down', s['ffn'], w, 'down')
        if 'ffn' in s['post_norms']:
            self.vector(p + 'post_ffw_norm.weight', w, 1.0)

    def divisors(self, name, n):
        values = [1.0 + 3.0 * i / n * self.random.random() for i in range(n)]
        self.tensors.append((name, [n], gguf_file.TENSOR_F32, struct.pack('<%df' % n, *values)))

    def make(self, path):
        s = self.s
        rotated = s['rotated'] or s['head_dim']
        self.matrix('token_embd.weight', s['width'], s['vocab'])
        if s['positions']:
            self.matrix('position_embd.weight', s['width'], s['context'])
        if s['embed_norm']:
            self.vector('token_embd_norm.weight', s['width'], 1.0)
            self.vector('token_embd_norm.bias', s['width'], 0.0)
        if s['freqs'] == 'freqs':
            self.divisors('rope_freqs.weight', rotated // 2)
        if s['freqs'] == 'long':
            self.divisors('rope_factors_long.weight', rotated // 2)
            self.divisors('rope_factors_short.weight', rotated // 2)
        for i in range(s['layers']):
            self.layer(i)
        if s['output_norm']:
            self.norm('output_norm', s['width'], 'output_norm')
        if not s['tied']:
            self.linear('output', s['width'], s['vocab'], 'output')
        gguf_file.write(path, self.metadata(rotated), self.tensors)

    def metadata(self, rotated):
        s = self.s
        keys = {
            'vocab_size': s['vocab'], 'context_length': s['context'], 'embedding_length': s['width'],
            'block_count': s['layers'], 'feed_forward_length': s['ffn'], 'attention.head_count': s['heads'],
            'attention.head_count_kv': s['kv_heads'], 'attention.key_length': s['head_dim'],
            'attention.value_length': s['head_dim'], 'attention.layer_norm_rms_epsilon': 1e-5,
            'attention.layer_norm_epsilon': 1e-5, 'rope.dimension_count': rotated, 'rope.freq_base': 10000.0,
        }
        if s['experts']:
            keys.update({'expert_count': s['experts'][0], 'expert_used_count': s['experts'][1],
                         'expert_feed_forward_length': s['experts'][2]})
        keys.update(s['meta'])
        meta = {'general.architecture': s['arch'], 'tokenizer.ggml.model': 'none'}
        meta.update({s['arch'] + '.' + k: v for k, v in keys.items()})
        return meta


def make(name, path):
    Maker(name, MODELS[name]).make(path)


if __name__ == '__main__':
    if len(sys.argv) < 2:
        sys.exit('usage: make_model.py OUT_DIR [NAME...]')
    for wanted in sys.argv[2:] or MODELS:
        make(wanted, os.path.join(sys.argv[1], wanted + '.gguf'))
