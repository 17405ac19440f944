"""An independent forward pass in plain Python, for what the recorded references do not exercise.

Slow and simple on purpose: lists of floats (float64), no library, one token after the other. It reads the GGUF file
itself and knows the architectures from FAMILIES below. The conventions (names of keys and tensors, defaults of absent
keys, order of operations) are those of GGUF files as converters write them. It was checked against the recorded logits
of the test data (python3 reference.py MODEL RECORDED prints the error).

    reference.logits(path, ids, context) -> one list of vocab floats per id
"""
import math
import os
import struct
import sys
from operator import mul

from gguf_file import Gguf

# norm: 'rms' or 'layer'; rope: 'pairs', 'halves' or None; act. The rest are exceptions from the usual layer:
#   window_every N   every N-th layer sees everything, the others a sliding window (if the file has one)
#   no_rope_every N  every N-th layer is not rotated
FAMILIES = {
    'bailingmoe2': dict(norm='rms', rope='halves', act='silu', expert_weights_as_they_are=True, score=2),
    'gpt-oss': dict(norm='rms', rope='halves', act='limited', window_every=2, post_attention_is_ffn_norm=True),
    'hunyuan-moe': dict(norm='rms', rope='halves', act='silu', norm_after_rope=True),
    'arcee': dict(norm='rms', rope='pairs', act='relu2'),
    'bloom': dict(norm='layer', rope=None, act='gelu', alibi=8.0),
    'cohere2': dict(norm='layer', rope='pairs', act='silu', parallel=True, window_every=4, rope_in_window_only=True,
                    logits='times'),
    'command-r': dict(norm='layer', rope='pairs', act='silu', parallel=True, logits='times'),
    'exaone': dict(norm='rms', rope='halves', act='silu'),
    'gemma': dict(norm='rms', rope='halves', act='gelu', embed_sqrt=True),
    'gemma2': dict(norm='rms', rope='halves', act='gelu', embed_sqrt=True, window_every=2, window=4096,
                   attn_softcap=50.0, final_softcap=30.0),
    'gemma3': dict(norm='rms', rope='halves', act='gelu', embed_sqrt=True, window_every=6, window_base=10000.0,
                   window_unscaled=True),
    'gpt2': dict(norm='layer', rope=None, act='gelu'),
    'gptneox': dict(norm='layer', rope='halves', act='gelu', parallel='key'),
    'granite': dict(norm='rms', rope='pairs', act='silu', logits='over'),
    'internlm2': dict(norm='rms', rope='pairs', act='silu'),
    'llama': dict(norm='rms', rope='pairs', act='silu'),
    'minicpm': dict(norm='rms', rope='pairs', act='silu', logits='over', minicpm=True),
    'mistral3': dict(norm='rms', rope='pairs', act='silu', temperature=True),
    'mpt': dict(norm='layer', rope=None, act='gelu_erf', alibi='key', qk_norm_pair=True),
    'nemotron': dict(norm='layer', rope='halves', act='relu2'),
    'olmo': dict(norm='layer', rope='pairs', act='silu', bare_norms=True),
    'olmo2': dict(norm='rms', rope='halves', act='silu', window_every=4, window_unscaled=True),
    'orion': dict(norm='layer', rope='halves', act='silu'),
    'phi2': dict(norm='layer', rope='halves', act='gelu', parallel=True),
    'phi3': dict(norm='rms', rope='halves', act='silu'),
    'qwen2': dict(norm='rms', rope='halves', act='silu'),
    'qwen2moe': dict(norm='rms', rope='halves', act='silu', expert_weights_as_they_are=True),
    'qwen3': dict(norm='rms', rope='halves', act='silu'),
    'qwen3moe': dict(norm='rms', rope='halves', act='silu'),
    'seed_oss': dict(norm='rms', rope='halves', act='silu', post_attention_is_ffn_norm=True),
    'smollm3': dict(norm='rms', rope='pairs', act='silu', no_rope_every=4),
    'stablelm': dict(norm='layer', rope='halves', act='silu', parallel='norm'),
    'starcoder2': dict(norm='layer', rope='halves', act='gelu'),
}


def dot(a, b):
    return sum(map(mul, a, b))


def matvec(rows, x, bias=None):
    y = [dot(r, x) for r in rows]
    return [p + q for p, q in zip(y, bias)] if bias else y


def add(a, b):
    return [p + q for p, q in zip(a, b)]


ACTIVATIONS = {
    'silu': lambda v: v / (1.0 + math.exp(-v)) if v > -700 else 0.0,
    'gelu': lambda v: 0.5 * v * (1.0 + math.tanh(math.sqrt(2.0 / math.pi) * (v + 0.044715 * v ** 3))),
    'gelu_erf': lambda v: 0.5 * v * (1.0 + math.erf(v / math.sqrt(2.0))),
    'relu2': lambda v: max(v, 0.0) ** 2,
}


def softmax(x):
    top = max(x)
    e = [math.exp(v - top) for v in x]
    s = sum(e)
    return [v / s for v in e]


class Model:
    def __init__(self, path, context=None):
        g = self.g = Gguf(path)
        self.arch = g.meta['general.architecture']
        self.f = FAMILIES[self.arch]
        key = self.key
        self.width, self.n_layers = key('embedding_length'), key('block_count')
        self.heads = key('attention.head_count')
        self.kv_heads = key('attention.head_count_kv', self.heads)
        self.dim_k = key('attention.key_length', self.width // self.heads)
        self.dim_v = key('attention.value_length', self.width // self.heads)
        self.n_rot = key('rope.dimension_count', self.dim_k)
        self.eps = key('attention.layer_norm_rms_epsilon') if self.f['norm'] == 'rms' else key('attention.layer_norm_epsilon')
        self.window = key('attention.sliding_window', self.f.get('window', 0)) if 'window_every' in self.f else 0
        self.trained = key('context_length')
        self.original = key('rope.scaling.original_context_length', self.trained)
        self.context = context or min(self.trained, 4096)
        self.softcap = key('attn_logit_softcapping', self.f.get('attn_softcap', 0.0))
        self.final_softcap = key('final_logit_softcapping', self.f.get('final_softcap', 0.0))
        self.scale = key('attention.scale', 0.0) or 1.0 / math.sqrt(self.dim_k)
        self.clamp = key('attention.clamp_kqv', 0.0)
        mini = self.f.get('minicpm')
        self.embed_scale = key('embedding_scale', 12.0 if mini else 1.0)
        self.residual_scale = key('residual_scale', 1.4 / math.sqrt(self.n_layers) if mini else 1.0)
        self.logit_scale = key('logit_scale', 256.0 / self.width if mini else 0.0)
        if self.f.get('embed_sqrt'):
            self.embed_scale = math.sqrt(self.width)
        self.embedding = g.rows('token_embd.weight')
        self.output = g.rows('output.weight') if g.has('output.weight') else self.embedding
        self.positions = g.rows('position_embd.weight') if g.has('position_embd.weight') else None
        self.layers = [Layer(self, i) for i in range(self.n_layers)]

    def key(self, name, default=None):
        value = self.g.meta.get(self.arch + '.' + name, default)
        if value is None:
            raise KeyError(self.arch + '.' + name)
        return value

    def sees_window(self, index):
        """The file names the pattern (a flag per layer, or N), else the architecture does."""
        every = self.key('attention.sliding_window_pattern', self.f['window_every'])
        return bool(every[index]) if isinstance(every, list) else index % every < every - 1

    def norm(self, x, weight, bias=None, kind=None):
        n = len(x)
        if (kind or self.f['norm']) == 'layer':
            mean = sum(x) / n
            x = [v - mean for v in x]
        r = 1.0 / math.sqrt(dot(x, x) / n + self.eps)
        x = [v * r for v in x]
        if weight:
            x = [v * w for v, w in zip(x, weight)]
        return add(x, bias) if bias else x

    def slopes(self):
        """ALiBi: powers of 2^(-b/n) for the largest power of two n, then those halfway between."""
        bias = self.f.get('alibi', 0.0)
        if bias == 'key':
            bias = self.key('attention.max_alibi_bias', 0.0)
        if not bias:
            return None
        n = 1 << (self.heads.bit_length() - 1)
        return [2 ** (-bias / n * (h + 1)) if h < n else 2 ** (-bias / n / 2 * (2 * (h - n) + 1)) for h in range(self.heads)]

    def rotation(self, in_window):
        """Angle per position for every pair, and the scale of cos and sin."""
        f, g, n = self.f, self.g, self.n_rot
        base = self.key('rope.freq_base', 10000.0)
        kind = self.g.meta.get(self.arch + '.rope.scaling.type', None)
        factor = self.key('rope.scaling.factor', 0.0) or self.key('rope.scale_linear', 0.0) or 1.0
        if kind is None and factor != 1.0:
            kind = 'linear'
        magnitude = self.key('rope.scaling.attn_factor', 1.0)
        divisors = g.vector('rope_freqs.weight')
        if g.has('rope_factors_long.weight'):
            long = self.context > self.original
            divisors = g.vector('rope_factors_long.weight' if long else 'rope_factors_short.weight')
        if in_window and f.get('window_base'):
            base = self.key('rope.freq_base_swa', f['window_base'])
        if in_window and f.get('window_unscaled'):
            kind, magnitude = 'none', 1.0
        plain = [base ** (-2.0 * i / n) / (divisors[i] if divisors else 1.0) for i in range(n // 2)]
        if kind == 'linear':
            return [a / factor for a in plain], magnitude
        if kind != 'yarn':
            return plain, magnitude
        # YaRN (arXiv 2309.00071): pairs of many revolutions keep their frequency, slow ones are stretched.
        def pair(turns):
            return n * math.log(self.original / (turns * 2 * math.pi)) / (2 * math.log(base))
        fast, slow = self.key('rope.scaling.yarn_beta_fast', 32.0), self.key('rope.scaling.yarn_beta_slow', 1.0)
        low, high = max(0.0, math.floor(pair(fast))), min(n - 1.0, math.ceil(pair(slow)))
        share = self.key('rope.scaling.yarn_ext_factor', 1.0)
        whole = self.g.meta.get(self.arch + '.rope.scaling.yarn_attn_factor')
        if share < 0:  # neither was given
            share, whole = 1.0, None
        angles = []
        for i, a in enumerate(plain):
            keep = share * (1.0 - min(1.0, max(0.0, (i - low) / max(0.001, high - low))))
            angles.append(a / factor * (1 - keep) + a * keep)
        if whole or share == 0.0:
            return angles, magnitude * (whole or 1.0)
        all_dims = self.key('rope.scaling.yarn_log_multiplier', 0.0)
        return angles, magnitude * (1.0 + 0.1 * math.log(factor)) / (1.0 + 0.1 * all_dims * math.log(factor))

    def run(self, ids):
        out = []
        for position, token in enumerate(ids):
            x = [v * self.embed_scale for v in self.embedding[token]]
            if self.positions:
                x = add(x, self.positions[position])
            if self.g.has('token_embd_norm.weight'):
                x = self.norm(x, self.g.vector('token_embd_norm.weight'), self.g.vector('token_embd_norm.bias'))
            for layer in self.layers:
                x = layer.run(x, position)
            x = self.norm(x, self.g.vector('output_norm.weight'), self.g.vector('output_norm.bias'))
            y = matvec(self.output, x, self.g.vector('output.bias'))
            if self.logit_scale and self.f.get('logits') == 'times':
                y = [v * self.logit_scale for v in y]
            if self.logit_scale and self.f.get('logits') == 'over':
                y = [v / self.logit_scale for v in y]
            if self.final_softcap:
                y = [self.final_softcap * math.tanh(v / self.final_softcap) for v in y]
            out.append(y)
        return out


class Layer:
    def __init__(self, model, index):
        self.m, self.index = model, index
        f = model.f
        self.keys, self.values = [], []
        self.in_window = bool(model.window) and model.sees_window(index)
        rotated = f['rope'] is not None
        if f.get('rope_in_window_only') and not self.in_window:
            rotated = False
        rotations = model.key('attention.rope_pattern', 1)
        if not (rotations[index] if isinstance(rotations, list) else rotations):
            rotated = False
        if model.arch == 'granite' and not model.key('rope.scaling.finetuned', True):
            rotated = False
        if f.get('no_rope_every') and (index + 1) % f['no_rope_every'] == 0:
            rotated = False
        self.rope = model.rotation(self.in_window) if rotated else None
        self.slopes = model.slopes()
        g = model.g
        self.w = {}
        for name in g.tensors:
            prefix = 'blk.%d.' % index
            if name.startswith(prefix):
                rows = g.rows(name)
                self.w[name[len(prefix):]] = rows if len(g.tensors[name][0]) > 1 else rows[0]
        parallel = f.get('parallel', False)
        if parallel == 'key':
            parallel = model.key('use_parallel_residual', True)
        if parallel == 'norm':
            parallel = 'ffn_norm.weight' not in self.w
        self.parallel = parallel

    def get(self, name):
        return self.w.get(name)

    def normed(self, x, name):
        if self.m.f.get('bare_norms'):
            return self.m.norm(x, None)
        weight = self.get(name + '.weight')
        return self.m.norm(x, weight, self.get(name + '.bias')) if weight else x

    def rotate(self, head, position):
        """In place: the first n_rot entries of one head."""
        angles, magnitude = self.rope
        halves, n = self.m.f['rope'] == 'halves', len(angles)
        for i, a in enumerate(angles):
            p, q = (i, i + n) if halves else (2 * i, 2 * i + 1)
            c, s = math.cos(position * a) * magnitude, math.sin(position * a) * magnitude
            head[p], head[q] = head[p] * c - head[q] * s, head[p] * s + head[q] * c

    def project(self, x):
        m = self.m
        nq, nk, nv = m.heads * m.dim_k, m.kv_heads * m.dim_k, m.kv_heads * m.dim_v
        if self.get('attn_qkv.weight'):
            y = matvec(self.w['attn_qkv.weight'], x, self.get('attn_qkv.bias'))
            q, k, v = y[:nq], y[nq:nq + nk], y[nq + nk:nq + nk + nv]
        else:
            q, k, v = [matvec(self.w['attn_%s.weight' % s], x, self.get('attn_%s.bias' % s)) for s in 'qkv']
        if m.clamp:
            q, k, v = [[min(max(e, -m.clamp), m.clamp) for e in s] for s in (q, k, v)]
        return q, k, v

    def head_norm(self, x, name, n_heads):
        """A norm per head (one set of weights, or one per head), or over the whole row."""
        weight = self.get(name + '.weight')
        if weight is None:
            return x
        size = len(x) // n_heads
        flat = sum(weight, []) if isinstance(weight[0], list) else weight
        if len(flat) == len(x) and not isinstance(weight[0], list) and size != len(x):
            return self.m.norm(x, flat, self.get(name + '.bias'))
        out = []
        for h in range(n_heads):
            w = flat if len(flat) == size else flat[h * size:(h + 1) * size]
            out += self.m.norm(x[h * size:(h + 1) * size], w)
        return out

    def attend(self, x, position):
        m = self.m
        q, k, v = self.project(x)
        late = m.f.get('norm_after_rope')
        if not late and (not m.f.get('qk_norm_pair') or (self.get('attn_q_norm.weight') and self.get('attn_k_norm.weight'))):
            q = self.head_norm(q, 'attn_q_norm', m.heads)
            k = self.head_norm(k, 'attn_k_norm', m.kv_heads)
        qs = [q[h * m.dim_k:(h + 1) * m.dim_k] for h in range(m.heads)]
        ks = [k[h * m.dim_k:(h + 1) * m.dim_k] for h in range(m.kv_heads)]
        if self.rope:
            for head in qs + ks:
                self.rotate(head, position)
        if late:
            qs = [m.norm(head, self.get('attn_q_norm.weight')) for head in qs]
            ks = [m.norm(head, self.get('attn_k_norm.weight')) for head in ks]
        if m.f.get('temperature') and m.key('attention.temperature_scale', 0.0):
            t = math.log(math.floor(position / m.original) + 1.0) * m.key('attention.temperature_scale') + 1.0
            qs = [[e * t for e in head] for head in qs]
        self.keys.append(ks)
        self.values.append([v[h * m.dim_v:(h + 1) * m.dim_v] for h in range(m.kv_heads)])
        first = max(0, position - m.window + 1) if self.in_window else 0
        out = []
        for h in range(m.heads):
            kv = h // (m.heads // m.kv_heads)
            scores = [dot(qs[h], self.keys[j][kv]) * m.scale for j in range(first, position + 1)]
            if m.softcap:
                scores = [m.softcap * math.tanh(s / m.softcap) for s in scores]
            if self.slopes:
                scores = [s - self.slopes[h] * (position - first - j) for j, s in enumerate(scores)]
            if self.get('attn_sinks.weight'):  # a score without a value: neither scaled nor capped
                p = softmax(scores + [self.get('attn_sinks.weight')[h]])[:-1]
            else:
                p = softmax(scores)
            out += [sum(p[j] * self.values[first + j][kv][i] for j in range(len(p))) for i in range(m.dim_v)]
        return matvec(self.w['attn_output.weight'], out, self.get('attn_output.bias'))

    def dense(self, x):
        act = ACTIVATIONS[self.m.f['act']]
        up = matvec(self.w['ffn_up.weight'], x, self.get('ffn_up.bias'))
        if self.get('ffn_gate.weight'):
            gate = matvec(self.w['ffn_gate.weight'], x, self.get('ffn_gate.bias'))
            h = [act(a) * b for a, b in zip(gate, up)]
        elif len(up) == 2 * len(self.w['ffn_down.weight'][0]):
            n = len(up) // 2
            h = [act(a) * b for a, b in zip(up[:n], up[n:])]
        else:
            h = [act(a) for a in up]
        if self.get('ffn.act.scales'):
            h = [a / s for a, s in zip(h, self.get('ffn.act.scales'))]
        return matvec(self.w['ffn_down.weight'], h, self.get('ffn_down.bias'))

    def chosen(self, logits):
        """(expert, weight) of those that a row uses."""
        m = self.m
        n, used = m.key('expert_count'), m.key('expert_used_count')
        as_they_are = m.f.get('expert_weights_as_they_are')
        given = m.key('expert_gating_func', -1)
        function = given if given > 0 else m.f.get('score', 1)
        if function == 2:
            p = [1.0 / (1.0 + math.exp(-v)) for v in logits]
        elif function == 4:
            p = [math.sqrt(math.log1p(math.exp(v))) for v in logits]
        else:
            p = softmax(logits)
        value = add(p, self.get('exp_probs_b.bias')) if self.get('exp_probs_b.bias') else p
        allowed = list(range(n))
        groups = m.key('expert_group_count', 0)
        if groups > 1:
            each = n // groups
            sums = [sum(sorted(value[g * each:(g + 1) * each])[-2:]) for g in range(groups)]
            best = sorted(range(groups), key=lambda g: (-sums[g], g))[:m.key('expert_group_used_count')]
            allowed = [e for e in allowed if e // each in best]
        chosen = sorted(allowed, key=lambda e: (-value[e], e))[:used]
        divide = m.key('expert_weights_norm', not as_they_are) or function == 3 or (given == 0 and not as_they_are)
        total = sum(p[e] for e in chosen) if divide else 1.0
        total /= m.key('expert_weights_scale', 0.0) or 1.0
        return [(e, p[e] / total) for e in chosen]

    def experts(self, x):
        act = self.m.f['act']
        n = self.m.key('expert_count')
        out = [0.0] * len(x)
        if self.get('ffn_gate_up_exps.weight'):
            both = self.w['ffn_gate_up_exps.weight']
            width = len(both) // n // 2
            gates = [r for e in range(n) for r in both[2 * e * width:(2 * e + 1) * width]]
            ups = [r for e in range(n) for r in both[(2 * e + 1) * width:(2 * e + 2) * width]]
        else:
            gates, ups = [self.w['ffn_%s_exps.weight' % s] for s in ('gate', 'up')]
            width = len(gates) // n
        downs = self.w['ffn_down_exps.weight']
        biases = [self.get('ffn_%s_exps.bias' % s) for s in ('gate', 'up', 'down')]  # a row for each
        for e, weight in self.chosen(matvec(self.w['ffn_gate_inp.weight'], x, self.get('ffn_gate_inp.bias'))):
            part, outs = slice(e * width, (e + 1) * width), slice(e * len(x), (e + 1) * len(x))
            gate = matvec(gates[part], x, biases[0] and biases[0][e])
            up = matvec(ups[part], x, biases[1] and biases[1][e])
            if act == 'limited':  # gpt-oss
                gate, up = [min(v, 7.0) for v in gate], [max(-7.0, min(v, 7.0)) + 1.0 for v in up]
                h = [a / (1.0 + math.exp(-1.702 * a)) * b for a, b in zip(gate, up)]
            else:
                h = [ACTIVATIONS[act](a) * b for a, b in zip(gate, up)]
            y = matvec(downs[outs], h, biases[2] and biases[2][e])
            out = [o + weight * v for o, v in zip(out, y)]
        if self.get('ffn_up_shexp.weight'):
            h = [ACTIVATIONS[act](a) * b for a, b in zip(matvec(self.w['ffn_gate_shexp.weight'], x),
                                                         matvec(self.w['ffn_up_shexp.weight'], x))]
            y = matvec(self.w['ffn_down_shexp.weight'], h)
            gate = self.get('ffn_gate_inp_shexp.weight')
            if gate:
                s = 1.0 / (1.0 + math.exp(-dot(gate, x)))
                y = [v * s for v in y]
            out = add(out, y)
        return out

    def run(self, x, position):
        m = self.m
        normed = self.normed(x, 'attn_norm')
        attention = self.attend(normed, position)
        ffn = self.experts if self.get('ffn_gate_inp.weight') else self.dense
        ffn_norm = 'ffn_norm'
        if m.f.get('post_attention_is_ffn_norm'):
            ffn_norm = 'post_attention_norm'
        elif self.get('post_attention_norm.weight'):
            attention = m.norm(attention, self.get('post_attention_norm.weight'))
        attention = [v * m.residual_scale for v in attention]
        if self.parallel:
            y = ffn(self.normed(x, 'ffn_norm') if self.get('ffn_norm.weight') else normed)
            return add(add(x, attention), [v * m.residual_scale for v in y])
        x = add(x, attention)
        y = ffn(self.normed(x, ffn_norm))
        if self.get('post_ffw_norm.weight'):
            y = m.norm(y, self.get('post_ffw_norm.weight'))
        return add(x, [v * m.residual_scale for v in y])


def logits(path, ids, context=None):
    return Model(path, context).run(ids)


def other_ids(name):
    """{(flags, text): ids} where the ids recorded with llama.cpp are not what the model's own tokenizer gives (make_bert_ids.py)."""
    path, found = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'data', name + '.ids'), {}
    if os.path.exists(path):
        with open(path, encoding='ascii') as f:
            for flags, text, *ids in (line.split() for line in f if not line.startswith('sha256')):
                found[int(flags), bytes.fromhex(text)] = ids
    return found


def read_rows(path):
    """A .logits or .embd file: (ids, rows)."""
    with open(path, 'rb') as f:
        data = f.read()
    n, width = struct.unpack_from('<ii', data, 0)
    ids = list(struct.unpack_from('<%di' % n, data, 8))
    at = 8 + 4 * n
    if len(data) != at + 4 * n * width:
        raise ValueError('%s: wrong length' % path)
    return ids, [list(struct.unpack_from('<%df' % width, data, at + 4 * width * r)) for r in range(n)]


def nmse(got, want):
    """sum (a-b)^2 / sum b^2 over rows; 1e30 when something is not finite or the shapes differ."""
    if len(got) != len(want) or any(len(a) != len(b) for a, b in zip(got, want)):
        return 1e30
    error = sum((a - b) ** 2 for x, y in zip(got, want) for a, b in zip(x, y))
    norm = sum(b * b for y in want for b in y)
    value = error / norm if norm else error
    return value if value == value and value < 1e30 else 1e30


if __name__ == '__main__':
    if len(sys.argv) < 3:
        sys.exit('usage: reference.py MODEL.gguf RECORDED.logits [CONTEXT]')
    recorded_ids, recorded = read_rows(sys.argv[2])
    computed = logits(sys.argv[1], recorded_ids, int(sys.argv[3]) if len(sys.argv) > 3 else None)
    print('%.3g' % nmse(computed, recorded))
