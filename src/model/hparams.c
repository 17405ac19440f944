/* hparams.c: metadata keys -> hparams and layers.
 *
 * Owns:  which keys are read, their ranges, their defaults; look-ups of a kind of sublayer are in its file (layers/).
 * Rules: a key is looked up only where its value is used: keys.c refuses models with keys that were not looked up. Keys
 *        are untrusted: every number is range checked here, once, so that later code can multiply them in 64 bits
 *        without overflow. A key of the wrong type or range is an error that names it.
 *        Absent floats are 0 until the row's fixup has run; defaults come last.
 * Keys:  the GGUF specification (ggml, docs/gguf.md), "Standardized key-value pairs".
 */
#include "model.h"

static const char *infer__key_name(infer__keys *k, const char *name) {
    infer__format(k->key, sizeof k->key, "%.64s.%.64s", k->prefix, name);
    return k->key;
}

/* An integer in lo..hi, `absent` when there is none (need = it must be there). */
static int32_t infer__key_int(infer__keys *k, const char *name, int32_t lo, int32_t hi, int32_t absent, int need) {
    uint32_t v = 0;
    int r;
    if (k->failed) return absent;
    r = infer__gguf_u32(k->g, infer__key_name(k, name), &v, k->err);
    if (r == 0 && !need) return absent;
    if (r > 0 && v <= INT32_MAX && (int32_t)v >= lo && (int32_t)v <= hi) return (int32_t)v;
    k->failed = 1;
    if (r == 0) infer__error(k->err, INFER_ERR_FORMAT, "missing key %s", k->key);
    if (r > 0)
        infer__error(k->err, INFER_ERR_FORMAT, "key %s is %u, outside %d..%d", k->key, (unsigned)v, (int)lo, (int)hi);
    return absent;
}

/* A finite float, 0 when absent. */
static float infer__key_float(infer__keys *k, const char *name) {
    float v = 0;
    int r;
    if (k->failed) return 0;
    r = infer__gguf_f32(k->g, infer__key_name(k, name), &v, k->err);
    if (r == 0) return 0;
    if (r > 0 && infer__finite(v)) return v;
    k->failed = 1;
    if (r > 0) infer__error(k->err, INFER_ERR_FORMAT, "key %s is not a finite number", k->key);
    return 0;
}

/* A positive float, `absent` when there is none. */
static float infer__key_positive(infer__keys *k, const char *name, float absent) {
    float v = infer__key_float(k, name);
    if (k->failed || v > 0) return v;
    if (!infer__gguf_peek(k->g, k->key)) return absent;
    k->failed = 1;
    infer__error(k->err, INFER_ERR_FORMAT, "key %s is %g, not positive", k->key, (double)v);
    return absent;
}

/* 1 or 0, `absent` when there is none. */
static int infer__key_bool(infer__keys *k, const char *name, int absent) {
    int v = absent;
    if (!k->failed && infer__gguf_bool(k->g, infer__key_name(k, name), &v, k->err) < 0) k->failed = 1;
    return v;
}

static void infer__key_misfit(infer__keys *k, const char *name, const char *why) {
    if (k->failed) return;
    k->failed = 1;
    infer__error(k->err, INFER_ERR_FORMAT, "key %s: %s", infer__key_name(k, name), why);
}

static void infer__key_unsupported(infer__keys *k, const char *name, const char *why) {
    if (!k->failed && infer__key_refuse(k->m, infer__key_name(k, name), why, k->err) != INFER_OK) k->failed = 1;
}

/* Of all blocks, or of those that plain decoding runs. */
static int infer__key_per_layer(const infer__keys *k, const infer__kv *kv) {
    return infer__kv_is_numbers(kv) && (kv->n == (uint64_t)k->m->hp.n_block || kv->n == (uint64_t)k->m->hp.n_layer);
}

/* An array may cover the layers only: 1 and an error when it has no number for this prediction block. */
static int infer__key_ends(infer__keys *k, const infer__kv *kv, int32_t layer) {
    if (!INFER__HAS_DRAFTS || (uint64_t)layer < kv->n) return 0;
    k->failed = 1;
    infer__error(k->err, INFER_ERR_UNSUPPORTED,
                 "mtp: key %s: an array of %llu, which does not say it of block %d, which predicts", k->key,
                 (unsigned long long)kv->n, (int)layer);
    return 1;
}

/* A number per layer: the key may be one number or an array of n_layer. */
static int32_t infer__key_layer(infer__keys *k, const char *name, int32_t layer, int32_t lo, int32_t hi,
                                int32_t absent) {
    const infer__kv *kv;
    double v;
    if (k->failed) return absent;
    kv = infer__gguf_find(k->g, infer__key_name(k, name));
    if (!kv) return absent;
    if (kv->type != INFER__GGUF_ARRAY) return infer__key_int(k, name, lo, hi, absent, 0);
    if (!infer__key_per_layer(k, kv)) {
        k->failed = 1;
        infer__error(k->err, INFER_ERR_FORMAT, "key %s: an array of %llu, not of %d numbers, one for each layer",
                     k->key, (unsigned long long)kv->n, (int)k->m->hp.n_block);
        return absent;
    }
    if (infer__key_ends(k, kv, layer)) return absent;
    v = infer__kv_number(kv, (uint64_t)layer);
    if (v >= lo && v <= hi && v == (double)(int32_t)v) return (int32_t)v;
    k->failed = 1;
    infer__error(k->err, INFER_ERR_FORMAT, "key %s: %g for layer %d is outside %d..%d", k->key, v, (int)layer, (int)lo,
                 (int)hi);
    return absent;
}

static float infer__key_layer_float(infer__keys *k, const char *name, int32_t layer, float absent) {
    const infer__kv *kv;
    double v;
    if (k->failed) return absent;
    kv = infer__gguf_find(k->g, infer__key_name(k, name));
    if (!kv) return absent;
    if (kv->type != INFER__GGUF_ARRAY) return infer__key_float(k, name);
    if (!infer__key_per_layer(k, kv)) {
        k->failed = 1;
        infer__error(k->err, INFER_ERR_FORMAT, "key %s: an array of %llu, not of %d numbers, one for each layer",
                     k->key, (unsigned long long)kv->n, (int)k->m->hp.n_block);
        return absent;
    }
    if (infer__key_ends(k, kv, layer)) return absent;
    v = infer__kv_number(kv, (uint64_t)layer);
    if (infer__finite((float)v)) return (float)v;
    k->failed = 1;
    infer__error(k->err, INFER_ERR_FORMAT, "key %s: a number that is not finite, for layer %d", k->key, (int)layer);
    return absent;
}

/* A number that all layers share, even if the file repeats it for each. */
static int32_t infer__key_same(infer__keys *k, const char *name, int32_t lo, int32_t hi, int32_t absent) {
    int32_t first = infer__key_layer(k, name, 0, lo, hi, absent), i;
    for (i = 1; i < k->m->hp.n_layer && !k->failed; i++)
        if (infer__key_layer(k, name, i, lo, hi, absent) != first) {
            k->failed = 1;
            infer__error(k->err, INFER_ERR_UNSUPPORTED,
                         "key %s: values that differ from layer to layer are not supported", k->key);
        }
    return first;
}

/* Row length (dim 0) or rows (dim 1) of a tensor, 0 when it is absent. */
static uint64_t infer__shape_of(const infer_model *m, const char *name, int dim) {
    const infer__gguf_tensor *t = infer__gguf_tensor_find(&m->gguf, name);
    return !t ? 0 : dim == 0 ? t->dims[0] : t->rows;
}

/* Rows of the first layer's tensor of this name (%d: the layer), 0 when there is none. */
static uint64_t infer__first_rows(const infer_model *m, const char *format) {
    char name[64];
    uint64_t rows = 0;
    int32_t i;
    for (i = 0; rows == 0 && i < m->hp.n_layer; i++) {
        infer__format(name, sizeof name, format, (int)i);
        rows = infer__shape_of(m, name, 1);
    }
    return rows;
}

/* yarn_attn_factor is the whole scale of cos and sin, as Hugging Face's attention_factor, which converters write there.
 * A negative yarn_ext_factor means that neither was given: llama.cpp writes -1 and 1 for every model that it saves. */
static void infer__read_yarn(infer__keys *k, infer__hparams *hp) {
    const infer__kv *ext = infer__gguf_find(k->g, infer__key_name(k, "rope.scaling.yarn_ext_factor"));
    float given = infer__key_float(k, "rope.scaling.yarn_ext_factor");
    hp->rope_log_mul = infer__key_float(k, "rope.scaling.yarn_log_multiplier");
    hp->yarn_fast = infer__key_positive(k, "rope.scaling.yarn_beta_fast", 32);
    hp->yarn_slow = infer__key_positive(k, "rope.scaling.yarn_beta_slow", 1);
    hp->yarn_ext = ext && given >= 0 ? given : 1;
    hp->yarn_attn = infer__key_positive(k, "rope.scaling.yarn_attn_factor", 0);
    if (given < 0 && hp->yarn_attn == 1) hp->yarn_attn = 0;
    if (!k->failed && (given > 1 || hp->rope_log_mul < 0)) {
        k->failed = 1;
        infer__error(k->err, INFER_ERR_FORMAT, "key %s.rope.scaling.%s is %g", k->prefix,
                     given > 1 ? "yarn_ext_factor" : "yarn_log_multiplier",
                     (double)(given > 1 ? given : hp->rope_log_mul));
    }
}

/* Rows whose layers may have windows. */
static int infer__has_windows(const infer__arch *a) { return a->window_every || (a->flags & INFER__WINDOW_ALL); }

static void infer__read_rope(infer__keys *k, infer__hparams *hp) {
    infer__str s = { "", 0 };
    int r = infer__gguf_str(k->g, infer__key_name(k, "rope.scaling.type"), &s, k->err);
    if (r < 0) k->failed = 1;
    hp->rope_base = infer__key_float(k, "rope.freq_base");
    if (infer__has_windows(infer__arch_of(k->m))) hp->rope_base_window = infer__key_float(k, "rope.freq_base_swa");
    hp->rope_factor = infer__key_float(k, "rope.scaling.factor");
    if (hp->rope_factor == 0) hp->rope_factor = infer__key_float(k, "rope.scale_linear"); /* its older name */
    hp->rope_attn_factor = infer__key_float(k, "rope.scaling.attn_factor");
    if (infer__arch_of(k->m)->flags & INFER__ROPE_ALPHA) hp->rope_alpha = infer__key_float(k, "rope.scaling.alpha");
    hp->rope_off =
        (infer__arch_of(k->m)->flags & INFER__ROPE_BY_KEY) && !infer__key_bool(k, "rope.scaling.finetuned", 1);
    hp->rope_ctx = infer__key_int(k, "rope.scaling.original_context_length", 1, 1 << 30, hp->n_ctx, 0);
    if (r > 0) {
        static const struct { const char *name; int32_t kind; } kinds[] = {
            { "none", INFER__SCALING_NONE }, { "linear", INFER__SCALING_LINEAR }, { "yarn", INFER__SCALING_YARN },
            { "longrope", INFER__SCALING_LONGROPE }, { "su", INFER__SCALING_LONGROPE } };
        size_t i;
        for (i = 0; i < INFER__COUNT(kinds); i++)
            if (s.n == strlen(kinds[i].name) && memcmp(s.s, kinds[i].name, (size_t)s.n) == 0) break;
        if (i == INFER__COUNT(kinds)) {
            if (!k->failed)
                infer__error(k->err, INFER_ERR_UNSUPPORTED, "key %s.rope.scaling.type: \"%.*s\" is not supported",
                             k->prefix, (int)INFER__MIN(s.n, 40), s.s);
            k->failed = 1;
            return;
        }
        hp->rope_scaling = kinds[i].kind;
    } else if (hp->rope_factor != 0) { /* files from before rope.scaling.type: a factor means linear */
        hp->rope_scaling = INFER__SCALING_LINEAR;
    }
    if (hp->rope_scaling == INFER__SCALING_YARN) infer__read_yarn(k, hp);
    if (hp->rope_scaling == INFER__SCALING_LONGROPE && hp->rope_factor != 0 && hp->rope_factor != 1)
        infer__key_unsupported(k, "rope.scaling.factor", "with longrope only 0 and 1");
    if (hp->rope_factor < 0 || hp->rope_base < 0 || hp->rope_base_window < 0 || hp->rope_attn_factor < 0 ||
        hp->rope_alpha < 0) {
        if (!k->failed) infer__error(k->err, INFER_ERR_FORMAT, "a %s.rope.* key is negative", k->prefix);
        k->failed = 1;
    }
}

static void infer__read_scales(infer__keys *k, infer__hparams *hp) {
    const uint64_t flags = infer__arch_of(k->m)->flags;
    hp->embed_scale = infer__key_float(k, "embedding_scale");
    hp->residual_scale = infer__key_float(k, "residual_scale");
    hp->attn_scale = infer__key_float(k, flags & INFER__ATTN_SCALE_OUT ? "attention.output_scale" : "attention.scale");
    hp->clamp_kqv = infer__key_float(k, "attention.clamp_kqv");
    if (!INFER__HAS_VARIANTS && hp->clamp_kqv != 0)
        infer__key_unsupported(k, "attention.clamp_kqv", "only 0" INFER__OR_VARIANTS);
    if (flags & (INFER__LOGITS_TIMES | INFER__LOGITS_OVER)) hp->logit_scale = infer__key_float(k, "logit_scale");
    if (flags & INFER__ATTN_CAP) hp->attn_softcap = infer__key_float(k, "attn_logit_softcapping");
    if (flags & INFER__FINAL_CAP) hp->final_softcap = infer__key_float(k, "final_logit_softcapping");
    if (flags & INFER__ALIBI) hp->max_bias = infer__key_float(k, "attention.max_alibi_bias");
    if (flags & INFER__ATTN_TEMPERATURE) hp->temp_scale = infer__key_float(k, "attention.temperature_scale");
}

/* Groups of experts: 0 and 1 are none. */
static void infer__read_groups(infer__keys *k, infer__router *r) {
    r->n_group = infer__key_int(k, "expert_group_count", 0, INFER__MAX_EXPERT_GROUPS, 0, 0);
    if (k->failed || r->n_group <= 1) return;
    r->group_used = infer__key_int(k, "expert_group_used_count", 1, r->n_group, 0, 0);
    r->group_best = INFER__MIN(2, r->n_expert / r->n_group);
    if (k->failed || (r->group_used > 0 && r->n_expert % r->n_group == 0 &&
                      r->n_used <= r->n_expert / r->n_group * r->group_used))
        return;
    k->failed = 1;
    infer__error(k->err, INFER_ERR_FORMAT,
                 "key %s.expert_group_count is %d: %d of %d experts cannot come from %d of these groups "
                 "(expert_group_used_count)",
                 k->prefix, (int)r->n_group, (int)r->n_used, (int)r->n_expert, (int)r->group_used);
}

/* The scores of experts are those that the row names where no key does. Their weights are divided by their sum unless
 * the row or a key says otherwise. llama.cpp writes false for every model that it saves, beside a function of 0: then
 * neither was given. Softmax over the experts used is the usual one after the division. The floor is that of the
 * published code of DeepSeek-V3 (1e-20 is added there). */
static void infer__read_router(infer__keys *k, infer__hparams *hp) {
    static const uint8_t scores[] = { 0, INFER__SCORE_SOFTMAX, INFER__SCORE_SIGMOID, INFER__SCORE_SOFTMAX,
                                      INFER__SCORE_SQRT_SOFTPLUS };
    int raw = (infer__arch_of(k->m)->experts & INFER__EXPERTS_RAW) != 0;
    infer__router *r = &hp->router;
    int32_t function = 0;
    int given = infer__gguf_peek(k->g, infer__key_name(k, "expert_gating_func")) != NULL;
    const int normalise = infer__key_bool(k, "expert_weights_norm", !raw);
    r->scale = infer__key_float(k, "expert_weights_scale");
    if (!INFER__HAS_EXPERTS) return; /* these are in files without experts, too */
    if (hp->n_expert) function = infer__key_int(k, "expert_gating_func", 0, INFER__GATING_SQRT_SOFTPLUS, 0, 0);
    r->n_expert = hp->n_expert;
    r->n_used = hp->n_used;
    r->before = (infer__arch_of(k->m)->experts & INFER__EXPERTS_BEFORE) != 0;
    r->score = function == INFER__GATING_NONE ? infer__arch_of(k->m)->score : scores[function];
    r->normalise = normalise || (infer__arch_of(k->m)->experts & INFER__EXPERTS_SUM) ||
                   (!raw && given && function == INFER__GATING_NONE) || function == INFER__GATING_SOFTMAX_USED;
    r->floor = 1e-20f;
    if (r->scale == 0) r->scale = 1;
    if (function == INFER__GATING_SOFTMAX_USED && infer__first_rows(k->m, "blk.%d.exp_probs_b.bias"))
        infer__key_unsupported(k, "expert_gating_func", "with a bias of the choice only 0, 1, 2 and 4");
    if (hp->n_expert) infer__read_groups(k, r);
    if (r->score == INFER__SCORE_SPARSEMIXER && r->n_group > 1)
        infer__key_unsupported(k, "expert_group_count", "SparseMixer has no groups");
    if (infer__arch_of(k->m)->experts & INFER__EXPERTS_STEP) {
        hp->moe_step = infer__key_int(k, "interleave_moe_layer_step", 0, INFER__MAX_LAYERS, 0, 0);
        hp->leading_dense = infer__key_int(k, "leading_dense_block_count", 0, INFER__MAX_LAYERS, 0, 0);
        if (hp->n_expert == 0) hp->moe_step = 0;
    }
}

/* How a text's hidden states become one vector; llama.cpp writes -1 where a model does not say. */
static int32_t infer__read_pooling(infer__keys *k, const char *name) {
    const infer__kv *kv = infer__gguf_find(k->g, infer__key_name(k, name));
    const int32_t of[] = { INFER_POOL_NONE, INFER_POOL_MEAN, INFER_POOL_FIRST, INFER_POOL_LAST, INFER_POOL_RANK };
    int32_t n;
    if (kv && (infer__kv_number(kv, 0) == -1 || infer__kv_number(kv, 0) == (double)UINT32_MAX)) kv = NULL;
    n = kv ? infer__key_int(k, name, 0, 4, 0, 0) : -1;
    return n < 0 ? INFER_POOL_DEFAULT : of[n];
}

/* xIELU's four numbers of a layer: arrays with one for each layer, or one for all. The alphas are softplus of what is
 * stored (Apertus, arXiv 2509.14233). These keys have no prefix. */
static void infer__read_xielu(infer__keys *k, infer__layer *l) {
    static const char *const names[] = { "xielu.alpha_p", "xielu.alpha_n", "xielu.beta", "xielu.eps" };
    double v[4] = { 0 };
    float one = 0;
    int i, r = 1;
    for (i = 0; i < 4 && !k->failed; i++) {
        const infer__kv *kv = infer__gguf_find(k->g, names[i]);
        if (kv && infer__kv_is_numbers(kv) && kv->n == (uint64_t)k->m->hp.n_block) {
            v[i] = infer__kv_number(kv, (uint64_t)l->index);
        } else if (kv && kv->type != INFER__GGUF_ARRAY) {
            r = infer__gguf_f32(k->g, names[i], &one, k->err);
            v[i] = one;
        } else {
            infer__error(k->err, INFER_ERR_FORMAT, "key %s: %s", names[i],
                         kv ? "an array that has not a number for each layer" : "missing");
            r = -1;
        }
        if (r > 0 && !infer__finite((float)v[i]))
            r = infer__error(k->err, INFER_ERR_FORMAT, "key %s: a number that is not finite", names[i]);
        k->failed = r < 0;
    }
    if (k->failed) return;
    for (i = 0; i < 2; i++) v[i] = v[i] > 30 ? v[i] : log(1 + exp(v[i]));
    l->xielu[0] = (float)v[0];
    l->xielu[1] = (float)(v[1] + v[2]);
    l->xielu[2] = (float)v[2];
    l->xielu[3] = (float)v[3];
}

/* Activation limits of experts and of other FFNs. */
static void infer__read_clamps(infer__keys *k, infer__layer *l) {
    const uint64_t flags = infer__arch_of(k->m)->flags;
    if (!(flags & (INFER__CLAMPS | INFER__CLAMPS_BEFORE))) return;
    l->expert_limit = infer__key_layer_float(k, "swiglu_clamp_exp", l->index, 0);
    if (flags & INFER__CLAMPS) l->act_limit = infer__key_layer_float(k, "swiglu_clamp_shexp", l->index, 0);
    if (flags & INFER__CLAMPS_ALL)
        l->act_limit = infer__key_layer_float(k, "swiglu_clamp_shexp", l->index, l->expert_limit);
    l->limit_after = (flags & INFER__CLAMPS) != 0;
    if (k->failed || (l->expert_limit >= 0 && l->act_limit >= 0)) return;
    k->failed = 1;
    infer__error(k->err, INFER_ERR_FORMAT, "key %s.swiglu_clamp_%s is %g for layer %d", k->prefix,
                 l->expert_limit < 0 ? "exp" : "shexp", (double)INFER__MIN(l->expert_limit, l->act_limit),
                 (int)l->index);
}

/* activation_sparsity_scale: deviations above the mean, for each layer, minus infinity (or as far below) for none.
 * Without it the first ten layers keep 5 % of normally distributed gates (the published Gemma 3n). */
static void infer__read_sparsity(infer__keys *k, infer__layer *l) {
    static const char NAME[] = "activation_sparsity_scale";
    const infer__kv *kv = infer__gguf_find(k->g, infer__key_name(k, NAME));
    const double none = -1e30;
    double v = l->index < 10 ? 1.6448535919189453 : 2 * none;
    if (k->failed) return;
    if (kv && (kv->type != INFER__GGUF_ARRAY || !infer__kv_is_numbers(kv) || kv->n != (uint64_t)k->m->hp.n_block)) {
        k->failed = 1;
        infer__error(k->err, INFER_ERR_FORMAT, "key %s: not an array of %d numbers, one for each layer", k->key,
                     (int)k->m->hp.n_block);
        return;
    }
    if (kv) v = infer__kv_number(kv, (uint64_t)l->index);
    l->act_sparse = !(v < none);
    l->act_cut = l->act_sparse ? (float)v : 0;
    if (l->act_sparse && !infer__finite((float)v)) {
        k->failed = 1;
        infer__error(k->err, INFER_ERR_FORMAT, "key %s: %g for layer %d", k->key, v, (int)l->index);
    }
}

/* The activation where the file may name it. */
static int32_t infer__read_act(infer__keys *k, int32_t act) {
    static const struct { const char *name; int32_t act; } names[] = {
        { "silu", INFER__ACT_SILU }, { "relu2", INFER__ACT_RELU2 }, { "relu", INFER__ACT_RELU },
        { "gelu", INFER__ACT_GELU_ERF }, { "gelu_new", INFER__ACT_GELU_TANH },
        { "gelu_pytorch_tanh", INFER__ACT_GELU_TANH } };
    infer__str s = { "", 0 };
    size_t i;
    int r;
    if (k->failed || !infer__arch_of(k->m)->act_by_key) return act;
    r = infer__gguf_str(k->g, infer__key_name(k, "hidden_activation"), &s, k->err);
    if (r < 0) k->failed = 1;
    if (r <= 0) return act;
    for (i = 0; i < INFER__COUNT(names); i++)
        if (s.n == strlen(names[i].name) && memcmp(s.s, names[i].name, (size_t)s.n) == 0) return names[i].act;
    infer__key_unsupported(k, "hidden_activation", "an activation of this name is not known");
    return act;
}

/* Properties of the whole model. */
static void infer__read_globals(infer_model *m, infer__keys *k) {
    infer__hparams *hp = &m->hp;
    const infer__arch *a = infer__arch_of(m);
    hp->n_embd = infer__key_int(k, "embedding_length", 1, INFER__MAX_DIM, 0, 1);
    hp->n_layer = hp->n_block =
        infer__key_int(k, "block_count", infer__stack_row_of(m) ? 0 : 1, INFER__MAX_LAYERS, 0, 1);
    if (a->flags & INFER__ROPE_LEADING)
        hp->leading_dense = infer__key_int(k, "leading_dense_block_count", 0, INFER__MAX_LAYERS, 0, 0);
    if (a->flags & INFER__NEXTN) hp->n_layer -= infer__key_int(k, "nextn_predict_layers", 0, hp->n_layer - 1, 0, 0);
    hp->n_ctx = infer__key_int(k, "context_length", 1, 1 << 30, 4096, 0);
    hp->n_expert = infer__key_int(k, "expert_count", 0, INFER__MAX_EXPERTS, 0, 0);
    if (k->failed) return;
    hp->n_used = infer__key_same(k, "expert_used_count", 0, INFER__MAX_EXPERTS_USED, 0);
    hp->n_ff_expert = infer__key_same(k, "expert_feed_forward_length", 0, INFER__MAX_DIM, 0);
    hp->n_ff_shared = infer__key_int(k, "expert_shared_feed_forward_length", 0, INFER__MAX_DIM, 0, 0);
    hp->pooling = infer__read_pooling(k, "pooling_type");
    hp->encoder = a->encoder;
    hp->label_pooling = a->label_pooling ? a->label_pooling : a->encoder ? INFER_POOL_FIRST : INFER_POOL_LAST;
    if (a->encoder || (INFER__HAS_EMBED && hp->pooling == INFER_POOL_RANK)) {
        const int32_t labels = infer__read_pooling(k, "classifier.pooling_type");
        if (labels == INFER_POOL_NONE || labels == INFER_POOL_RANK)
            infer__key_misfit(k, "classifier.pooling_type", "not 1 to 3: what a classifier reads is one vector");
        else if (labels != INFER_POOL_DEFAULT) hp->label_pooling = labels;
    }
    if (infer__has_windows(a)) {
        hp->window = infer__key_int(k, "attention.sliding_window", 0, 1 << 30, 0, 0);
        hp->window_pattern = infer__gguf_peek(k->g, infer__key_name(k, "attention.sliding_window_pattern")) != NULL;
    }
    if (a->chunk && hp->window == 0) {
        if (infer__gguf_peek(k->g, infer__key_name(k, "attention.sliding_window")))
            infer__key_unsupported(k, "attention.sliding_window", "layers that see everything only are not there");
        hp->window = a->chunk;
    }
    hp->norm = a->norm;
    if ((a->flags & INFER__NORM_BY_KEY) &&
        infer__gguf_peek(k->g, infer__key_name(k, "attention.layer_norm_rms_epsilon")))
        hp->norm = INFER__NORM_RMS;
    hp->eps = infer__key_float(k, hp->norm == INFER__NORM_RMS ? "attention.layer_norm_rms_epsilon"
                                                              : "attention.layer_norm_epsilon");
    if (hp->eps == 0 && (a->flags & INFER__EPS_EITHER)) hp->eps = infer__key_float(k, "attention.layer_norm_epsilon");
    if (hp->eps == 0 && (a->flags & INFER__EPS_DEFAULT) && !infer__gguf_peek(k->g, k->key)) hp->eps = 1e-30f;
    if (!k->failed && !(hp->eps > 0)) {
        k->failed = 1;
        infer__error(k->err, INFER_ERR_FORMAT, "key %s is missing or not positive", k->key);
    }
    infer__read_rope(k, hp);
    infer__read_scales(k, hp);
    hp->act = infer__read_act(k, a->act);
    hp->embed_norm_bare = (a->flags & INFER__EMBED_NORM_BARE) != 0;
    hp->block = a->block;
    hp->not_causal = (a->flags & INFER__NOT_CAUSAL) || a->encoder || !infer__key_bool(k, "attention.causal", 1);
    if (!INFER__HAS_VARIANTS && hp->not_causal)
        infer__key_unsupported(k, "attention.causal", "only true" INFER__OR_VARIANTS);
    if (a->encoder) infer__key_bool(k, "attention.causal", 0); /* llama.cpp writes true when it saves one */
    hp->qk_norm_bare = (a->flags & INFER__QK_NORM_BARE) != 0;
    if (INFER__HAS_VARIANTS && hp->not_causal && !a->encoder && (a->mixer_else || hp->window || a->index))
        infer__key_unsupported(k, "attention.causal", "layers with windows or states are causal");
    if (a->flags & INFER__PARALLEL_BY_KEY)
        hp->block = infer__key_bool(k, "use_parallel_residual", 1) ? INFER__BLOCK_PARALLEL : INFER__BLOCK_SERIAL;
    if (hp->n_expert && !hp->n_used) hp->n_used = INFER__MIN(hp->n_expert, 2);
    if (INFER__HAS_EXPERTS && !k->failed && hp->n_used > hp->n_expert) {
        k->failed = 1;
        infer__error(k->err, INFER_ERR_FORMAT, "key %s.expert_used_count is above expert_count", k->prefix);
    }
    if (!infer__first_rows(m, "blk.%d.ffn_gate_inp.weight")) /* dense, whatever keys say */
        hp->n_expert = hp->n_used = 0;
    if (!k->failed) infer__read_router(k, hp);
    if (!k->failed && a->keys) a->keys(k, hp);
    if (k->m->params.mtp) infer__nextn_keys(k, hp);
}

/* interleave_moe_layer_step and leading_dense_block_count, where the architecture has them, against the tensors. */
static void infer__check_moe_step(infer__keys *k, const infer__layer *l) {
    const infer__hparams *hp = &k->m->hp;
    int experts = infer__layer_has(k->m, l, INFER__W_MOE_ROUTER);
    if (!INFER__HAS_EXPERTS || k->failed || hp->moe_step == 0) return;
    if (experts == (l->index >= hp->leading_dense && (l->index + 1) % hp->moe_step == 0)) return;
    k->failed = 1;
    infer__error(k->err, INFER_ERR_FORMAT,
                 "key %s.interleave_moe_layer_step is %d, leading_dense_block_count %d, but layer %d has %s", k->prefix,
                 (int)hp->moe_step, (int)hp->leading_dense, (int)l->index, experts ? "experts" : "none");
}

/* 1 when a layer has the row's other mixer: the file says of which layers, or that every N-th one has attention. */
static int infer__read_recurrent(infer__keys *k, int32_t layer) {
    const int32_t every = infer__key_int(k, "full_attention_interval", 1, INFER__MAX_LAYERS,
                                        infer__arch_of(k->m)->full_every, 0);
    return infer__key_layer(k, "attention.recurrent_layers", layer, 0, 1, !k->failed && (layer + 1) % every != 0);
}

/* Heads and FFN width say which sublayers a layer has; their kinds look up the rest. */
static void infer__read_layer(infer_model *m, infer__keys *k, infer__layer *l) {
    const infer__arch *a = infer__arch_of(m);
    int32_t i = l->index, least = a->mixer_else || (infer__stack_row_of(m) && !m->hp.n_block) ? 0 : 1, p;
    l->n_head = infer__key_layer(k, "attention.head_count", i, least, 1 << 16, 0);
    if (!k->failed && l->n_head == 0 && least) {
        k->failed = 1;
        infer__error(k->err, INFER_ERR_FORMAT, "missing key %s.attention.head_count", k->prefix);
    }
    l->n_head_kv = infer__key_layer(k, "attention.head_count_kv", i, least, 1 << 16, l->n_head);
    if (a->full_every && i < m->hp.n_layer && infer__read_recurrent(k, i)) l->n_head_kv = 0;
    l->n_ff = infer__key_layer(k, "feed_forward_length", i, 0, INFER__MAX_DIM, 0);
    if (!k->failed && (a->flags & INFER__FF_TWICE) && l->n_ff % 2 != 0) {
        k->failed = 1;
        infer__error(k->err, INFER_ERR_FORMAT, "key %s: %d is odd, but counts the rows of gate and up", k->key,
                     (int)l->n_ff);
    }
    if (k->failed) return;
    if (a->flags & INFER__FF_TWICE) l->n_ff /= 2;
    l->act = m->hp.act;
    if (INFER__HAS_VARIANTS && l->act == INFER__ACT_XIELU) infer__read_xielu(k, l);
    if (INFER__HAS_VARIANTS && l->act == INFER__ACT_SITU) {
        l->xielu[0] = infer__key_positive(k, "activation.situ_beta", 1);
        l->xielu[1] = infer__key_float(k, "activation.situ_linear_beta");
    }
    l->ffn_times = 1;
    for (p = 0; p < 4; p++) l->attn_scales[p] = 1;
    for (p = 0; p < 3; p++) l->ffn_scales[p] = 1;
    l->act_limit = l->expert_limit = a->act_limit;
    l->act_add = a->act_add;
    infer__read_clamps(k, l);
    if (INFER__HAS_SPARSE && (a->flags & INFER__SPARSE)) infer__read_sparsity(k, l);
    infer__layer_parts(m, l);
    if (i >= m->hp.n_layer) infer__nextn_parts(m, l);
    for (p = 0; p < l->n_parts && !k->failed; p++)
        if (l->parts[p].kind->keys) l->parts[p].kind->keys(k, l);
    infer__check_moe_step(k, l);
}

/* Widths of experts. Without a key, an expert's width follows from the shape of its tensors. The shared experts are one
 * tensor: the key may give the width of one of them, or of all. */
static void infer__read_expert_widths(infer_model *m, infer__keys *k) {
    infer__hparams *hp = &m->hp;
    uint64_t rows, fused;
    int32_t one = hp->n_ff_shared, n;
    if (!INFER__HAS_EXPERTS || hp->n_expert == 0) return;
    if (hp->n_ff_expert == 0) {
        rows = infer__first_rows(m, "blk.%d.ffn_up_exps.weight") / (uint64_t)hp->n_expert;
        fused = infer__first_rows(m, "blk.%d.ffn_gate_up_exps.weight") / (uint64_t)hp->n_expert / 2;
        if (rows == 0) rows = fused;
        if (rows <= INFER__MAX_DIM) hp->n_ff_expert = (int32_t)rows;
    }
    n = infer__key_int(k, "expert_shared_count", 0, INFER__MAX_EXPERTS, 1, 0);
    rows = infer__first_rows(m, "blk.%d.ffn_up_shexp.weight");
    if (k->failed || rows == 0 || rows > INFER__MAX_DIM) return;
    if (one == 0 || (n > 1 && rows == (uint64_t)one * (uint64_t)n)) hp->n_ff_shared = (int32_t)rows;
}

static infer_result infer__hparams_read(infer_model *m, infer_error *err) {
    infer__hparams *hp = &m->hp;
    infer__keys k;
    int32_t i, n;
    uint64_t v = infer__shape_of(m, "token_embd.weight", 1);
    memset(&k, 0, sizeof k);
    k.m = m;
    k.g = &m->gguf;
    k.prefix = infer__stack_row_of(m) ? infer__stack_prefix(m) : infer__arch_of(m)->name;
    k.err = err;
    infer__error_clear(err);
    if (infer__stack_row_of(m)) v = 1;
    if (v == 0)
        return infer__error(err, INFER_ERR_FORMAT, "the file has no tensor token_embd.weight: nothing to compute with");
    if (v > INFER__MAX_DIM)
        return infer__error(err, INFER_ERR_FORMAT, "token_embd.weight has %llu rows", (unsigned long long)v);
    infer__read_globals(m, &k);
    if (k.failed) return err && err->code ? err->code : INFER_ERR_FORMAT;
    hp->n_vocab = (int32_t)v;
    if (hp->decoder_start >= hp->n_vocab) infer__key_misfit(&k, "decoder_start_token_id", "there is no such token");
    if (k.failed) return err && err->code ? err->code : INFER_ERR_FORMAT;
    infer__read_expert_widths(m, &k);
    if (k.failed) return err && err->code ? err->code : INFER_ERR_FORMAT;
    hp->n_head = INFER__MAX(infer__key_layer(&k, "attention.head_count", 0, 0, 1 << 16, 1), 1);
    if (infer__arch_of(m)->fixup) infer__arch_of(m)->fixup(hp);
    if (hp->embed_scale == 0)
        hp->embed_scale = infer__arch_of(m)->flags & INFER__EMBED_SQRT_WIDTH ? sqrtf((float)hp->n_embd) : 1.0f;
    if (hp->residual_scale == 0) hp->residual_scale = 1.0f;
    if (hp->post_eps == 0) hp->post_eps = hp->eps;
    if (hp->logit_scale == 0) hp->logit_scale = 1.0f;
    if (infer__arch_of(m)->flags & INFER__LOGITS_OVER) hp->logit_scale = 1.0f / hp->logit_scale;
    if (hp->rope_base == 0) hp->rope_base = 10000.0f;
    if (hp->rope_base_window == 0) hp->rope_base_window = hp->rope_base;
    if (hp->rope_attn_factor == 0) hp->rope_attn_factor = 1.0f;
    if (hp->rope_factor == 0) hp->rope_factor = 1.0f;
    n = infer__n_all(hp);
    m->layers = (infer__layer *)infer__arena_alloc(&m->arena, (uint64_t)n * sizeof *m->layers);
    m->max_states = 4 * INFER__MAX_PARTS * n;
    m->states = (infer__state *)infer__arena_alloc(&m->arena, (uint64_t)m->max_states * sizeof *m->states);
    if (!m->layers || !m->states)
        return infer__error(err, INFER_ERR_MEMORY, "no memory for %d layers", (int)n);
    for (i = 0; i < n && !k.failed; i++) {
        m->layers[i].index = i;
        m->layers[i].block = infer__file_block(hp, i);
        m->layers[i].stack = infer__stack_row_of(m) ? m->stack.kind == INFER__STACK_VISION ? "v" : "a"
                             : !hp->n_buckets       ? NULL
                             : hp->encoder || i < hp->n_enc ? "enc" : "dec";
        infer__read_layer(m, &k, &m->layers[i]);
    }
    if (k.failed) return err && err->code ? err->code : INFER_ERR_FORMAT;
    for (i = 0; i < n; i++) {
        infer__layer *l = &m->layers[i];
        int32_t p;
        for (p = 0; p < l->n_parts; p++)
            if (l->parts[p].kind->state) l->parts[p].kind->state(m, l, &l->parts[p]);
    }
    return infer__rope_choose(m, err);
}
