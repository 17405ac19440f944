/* attention.c: the attention mixer: Q, K, V, norms, rotation, cache, softmax, output projection.
 *
 * Grouped-query attention (arXiv 2305.13245) over the session's cache. Optional parts (biases, norms of heads,
 * rotation, sinks, clamp, a gate of the heads' results: arXiv 2505.06708) are skipped if the layer does not have them.
 */
#include "../model.h"

/* ---- opening ----------------------------------------------------------------------------------------------------- */

enum { INFER__NEAR = 128 }; /* keys at a larger distance have the bias of this one */

/* The window of a layer, 0 = it sees everything. The file may say which layers have one: a flag for each, or N for all
 * but every N-th (0: all). */
static int32_t infer__mix_attention_window(infer__keys *k, int32_t layer) {
    static const char NAME[] = "attention.sliding_window_pattern";
    const infer__hparams *hp = &k->m->hp;
    const infer__kv *pattern;
    int32_t every = infer__arch_of(k->m)->window_every;
    if ((every == 0 && !(infer__arch_of(k->m)->flags & INFER__WINDOW_ALL)) || hp->window == 0) return 0;
    pattern = infer__gguf_find(k->g, infer__key_name(k, NAME));
    if (pattern && pattern->type == INFER__GGUF_ARRAY && layer >= hp->n_layer && (uint64_t)layer >= pattern->n &&
        (infer__arch_of(k->m)->predicts & INFER__PREDICTS_WINDOW))
        return hp->window;
    if (pattern && pattern->type == INFER__GGUF_ARRAY)
        return infer__key_layer(k, NAME, layer, 0, 1, 0) ? hp->window : 0;
    every = infer__key_int(k, NAME, 0, INFER__MAX_LAYERS, every, every == INFER__WINDOW_BY_FILE);
    if (every && (infer__arch_of(k->m)->flags & INFER__WINDOW_FULL_FIRST)) return layer % every ? hp->window : 0;
    return every == 0 || layer % every < every - 1 ? hp->window : 0;
}

/* Room for hp->axes, unless it is there. */
static int infer__axes_make(infer__keys *k) {
    infer__hparams *hp = &k->m->hp;
    if (!hp->axes) hp->axes = (uint8_t *)infer__arena_alloc(&k->m->arena, INFER__MAX_HEAD_DIM / 2);
    if (hp->axes) return 1;
    k->failed = 1;
    infer__error(k->err, INFER_ERR_MEMORY, "no memory for the axes of rotated pairs");
    return 0;
}

/* M-RoPE (Qwen2-VL, arXiv 2409.12191) splits the pairs into sections for time, height and width, each with its own
 * position: sections one after the other, or alternating pairs (Qwen3-VL, arXiv 2511.21631), where what is left over is
 * time's. In text all three are equal, which gives the usual rotation. A fourth section has no position in text, so its
 * pairs would not be rotated. Returns 1 when there are sections; hp->axes has those of the pairs. */
static int infer__mix_attention_sections(infer__keys *k, int32_t n_rot) {
    static const char NAME[] = "rope.dimension_sections";
    infer__hparams *hp = &k->m->hp;
    const infer__kv *kv;
    double three = 0, v;
    int32_t of[3];
    uint64_t i;
    if (k->failed || !(infer__arch_of(k->m)->flags & INFER__ROPE_SECTIONS)) return 0;
    kv = infer__gguf_find(k->g, infer__key_name(k, NAME));
    if (!kv || infer__idle_is(k->m, kv, 0)) return 0; /* llama.cpp writes zeros where a model has none */
    if (kv->type != INFER__GGUF_ARRAY || !infer__kv_is_numbers(kv) || kv->n < 3 || kv->n > 4) {
        k->failed = 1;
        infer__error(k->err, INFER_ERR_FORMAT, "key %s: not an array of 3 or 4 numbers", k->key);
        return 0;
    }
    for (i = 0; i < kv->n; i++) {
        v = infer__kv_number(kv, i);
        if (!(v >= 0 && v <= INFER__MAX_HEAD_DIM)) {
            k->failed = 1;
            infer__error(k->err, INFER_ERR_FORMAT, "key %s: %g is outside 0..%d", k->key, v, (int)INFER__MAX_HEAD_DIM);
            return 0;
        }
        if (i < 3) three += of[i] = (int32_t)v;
        else if (v > 0 && three < n_rot / 2)
            infer__key_unsupported(k, NAME, "a fourth section of rotated pairs is not supported");
    }
    if (three > 0 && !hp->axes) {
        if (!infer__axes_make(k)) return 0;
        for (i = 0; i < INFER__MAX_HEAD_DIM / 2; i++)
            hp->axes[i] = infer__arch_of(k->m)->flags & INFER__SECTIONS_MIXED
                              ? (uint8_t)(i % 3 && i < (uint64_t)3 * (uint64_t)of[i % 3] ? i % 3 : 0)
                              : (uint8_t)(i < (uint64_t)of[0] ? 0 : i < (uint64_t)of[0] + (uint64_t)of[1] ? 1 : 2);
    }
    return three > 0;
}

/* The last layers read the keys and values of the nearest earlier layer that has its own and the same window. */
static void infer__mix_attention_kv_from(infer__keys *k, infer__layer *l) {
    const infer__hparams *hp = &k->m->hp;
    infer__layer *from;
    int32_t j = hp->n_kv_layer - 1;
    if (!INFER__HAS_VARIANTS || k->failed || hp->n_kv_layer == 0 || l->index < hp->n_kv_layer) return;
    while (j >= 0 && (!k->m->layers[j].window != !l->window || k->m->layers[j].dim_k == 0)) j--;
    from = j >= 0 ? &k->m->layers[j] : NULL;
    if (from && from->n_head_kv == l->n_head_kv && from->dim_k == l->dim_k && from->dim_v == l->dim_v) {
        l->kv_from = j + 1;
        from->kv_read = 1;
        return;
    }
    k->failed = 1;
    infer__error(k->err, INFER_ERR_FORMAT,
                 "key %s.attention.shared_kv_layers: by %s.attention.sliding_window_pattern layer %d has no earlier "
                 "layer %s",
                 k->prefix, k->prefix, (int)l->index,
                 from ? "with the same K/V heads" : "that sees as much and has keys of its own");
}

/* Widths, window and rotation; the heads are counted already. */
static void infer__mix_attention_keys(infer__keys *k, infer__layer *l) {
    const infer__hparams *hp = &k->m->hp;
    const infer__arch *a = infer__arch_of(k->m);
    int32_t head_default = hp->n_embd / l->n_head, i = l->index, p;
    l->dim_k = infer__key_int(k, "attention.key_length", 1, INFER__MAX_HEAD_DIM, head_default, 0);
    l->dim_v = infer__key_int(k, "attention.value_length", 1, INFER__MAX_HEAD_DIM, head_default, 0);
    l->n_rot = infer__key_int(k, "rope.dimension_count", 0, INFER__MAX_HEAD_DIM, l->dim_k, 0);
    if (k->failed) return;
    l->rope_kind = a->rope;
    if (infer__mix_attention_sections(k, l->n_rot) && (a->flags & INFER__SECTIONS_HALVES))
        l->rope_kind = INFER__ROPE_HALVES;
    l->window = infer__mix_attention_window(k, i);
    if (a->chunk) l->chunk = l->window;
    l->not_causal = INFER__VARIANT(hp->not_causal || i < hp->n_enc);
    l->spans_causal = (a->flags & INFER__SPANS_WINDOW) && !l->window;
    if (INFER__VARIANT(l->window)) {
        l->dim_k = infer__key_int(k, "attention.key_length_swa", 1, INFER__MAX_HEAD_DIM, l->dim_k, 0);
        l->dim_v = infer__key_int(k, "attention.value_length_swa", 1, INFER__MAX_HEAD_DIM, l->dim_v, 0);
    } else if (a->flags & INFER__ROPE_HALF) l->n_rot /= 2;
    if (INFER__VARIANT(l->window))
        l->n_rot = infer__key_int(k, "rope.dimension_count_swa", 0, INFER__MAX_HEAD_DIM, l->n_rot, 0);
    if (!infer__key_layer(k, "attention.rope_pattern", i, 0, 1, 1) || hp->rope_off) l->rope_kind = INFER__ROPE_NONE;
    if (k->failed) return;
    if (a->no_rope_every && (i + 1) % a->no_rope_every == 0) l->rope_kind = INFER__ROPE_NONE;
    if ((a->flags & INFER__WINDOW_ROPE_ONLY) && !l->window && (hp->window || !(a->flags & INFER__ROPE_NO_WINDOW)) &&
        !((a->flags & INFER__ROPE_LEADING) && i < hp->leading_dense) &&
        !((a->predicts & INFER__PREDICTS_ROTATED) && i >= hp->n_layer))
        l->rope_kind = INFER__ROPE_NONE;
    l->qk_norm_rotated = (a->flags & INFER__QK_NORM_ROTATED) != 0;
    l->q_norm_bare = INFER__VARIANT(hp->qk_norm_bare) && l->rope_kind != INFER__ROPE_NONE;
    l->k_norm_bare = (a->flags & INFER__Q_NORM_HEADS) || l->q_norm_bare;
    l->v_norm_bare = (a->flags & INFER__V_NORM_BARE) != 0;
    infer__mix_attention_kv_from(k, l);
    l->gate = a->gate;
    l->q_gated = (a->flags & INFER__Q_GATED) != 0;
    if (INFER__VARIANT(l->q_gated) && l->dim_k != l->dim_v) {
        infer__key_unsupported(k, "attention.value_length", "gates beside queries are as wide as values");
        return;
    }
    if (a->flags & INFER__ATTN_OUT_TIMES) {
        float times = infer__key_float(k, "attention.value_scale"); /* 0: not given */
        for (p = 0; p < l->n_parts && times != 0; p++)
            if (l->parts[p].kind->keys == infer__mix_attention_keys) l->parts[p].scale *= times;
    }
    if (infer__stack_row_of(k->m)) infer__stack_turn(k, l);
    if (l->n_rot == 0) l->rope_kind = INFER__ROPE_NONE;
    l->rope_base = INFER__VARIANT(l->window) ? hp->rope_base_window : hp->rope_base;
    if (INFER__VARIANT(hp->rope_alpha) > 0 && l->dim_k > 2) /* NTK-aware scaling: Hunyuan's configuration has alpha */
        l->rope_base = (float)(l->rope_base * pow(hp->rope_alpha, (double)l->dim_k / (l->dim_k - 2)));
    l->rope_scaled = !(l->window && (a->flags & INFER__WINDOW_ROPE_PLAIN)); /* window layers of some models are not */
    l->attn_scale = 1.0f / (a->flags & INFER__SCORES_OVER_DIM ? (float)l->dim_k : sqrtf((float)l->dim_k));
    if (hp->attn_scale != 0) l->attn_scale = hp->attn_scale;
    l->attn_softcap = hp->attn_softcap;
    l->max_bias = hp->max_bias;
    l->clamp_kqv = hp->clamp_kqv;
    l->temp_scale = (a->flags & INFER__TEMP_NO_ROPE) && l->rope_kind != INFER__ROPE_NONE ? 0 : hp->temp_scale;
    l->temp_floor = hp->temp_floor;
    l->temp_offset = hp->temp_offset;
    if (l->dim_k > INFER__MAX_HEAD_DIM || l->dim_v > INFER__MAX_HEAD_DIM) { /* where no key says it: width / heads */
        k->failed = 1;
        infer__error(k->err, INFER_ERR_UNSUPPORTED, "%s: layer %d: heads of %d values: at most %d are supported",
                     k->prefix, (int)i, (int)INFER__MAX(l->dim_k, l->dim_v), (int)INFER__MAX_HEAD_DIM);
        return;
    }
    if (l->n_head % l->n_head_kv != 0 ||
        (l->rope_kind != INFER__ROPE_NONE && (l->n_rot % 2 != 0 || l->n_rot > l->dim_k)) ||
        ((a->flags & INFER__QKV_WIDE) && l->dim_v > l->dim_k) || (int64_t)l->n_head * l->dim_k > INFER__MAX_DIM ||
        (int64_t)l->n_head * l->dim_v > INFER__MAX_DIM || l->dim_k < 1 || l->dim_v < 1) {
        k->failed = 1;
        infer__error(k->err, INFER_ERR_FORMAT,
                     "%s: layer %d: %d heads of %d, %d K/V heads, %d rotated do not fit together", k->prefix, (int)i,
                     (int)l->n_head, (int)l->dim_k, (int)l->n_head_kv, (int)l->n_rot);
    }
    infer__indexer_keys(k, l, 0);
}

/* The number of groups that a norm's weight or bias applies to: heads, with one set of values for all or one per head
 * ([n_head][dim]), or 1: the whole row. 0 for any other shape. */
static int32_t infer__head_groups(const infer_model *m, const infer__layer *l, const infer__weight *w, int32_t n_head) {
    const infer__gguf_tensor *t = infer__gguf_tensor_find(&m->gguf, w->name);
    if (w->cols == l->dim_k || t->dims[0] == (uint64_t)l->dim_k) return n_head;
    return t->rows == 1 ? 1 : 0;
}

/* Weight and bias of a norm of heads must have the same groups: the op uses those of the weight for both. */
static infer_result infer__check_head_norm(const infer_model *m, const infer__layer *l, int slot, int32_t n_head,
                                           int32_t *groups, infer_error *err) {
    const infer__weight *w = &l->w[slot], *b = &l->w[slot + 1];
    if (!w->type) return INFER_OK; /* a bias alone is refused as unused */
    *groups = infer__head_groups(m, l, w, n_head);
    if (*groups == 0)
        return infer__error(err, INFER_ERR_FORMAT,
                            "tensor %s: its %d values are neither rows of %d (a head's) nor one row", w->name,
                            (int)w->cols, (int)l->dim_k);
    if (!b->type || (b->cols == w->cols && infer__head_groups(m, l, b, n_head) == *groups)) return INFER_OK;
    return infer__error(err, INFER_ERR_FORMAT, "tensors %s (%d values) and %s (%d values) do not have the same shape",
                        w->name, (int)w->cols, b->name, (int)b->cols);
}

/* A gate, of this slot, has a value for each head, or for each of its values. */
static infer_result infer__check_gate(const infer_model *m, const infer__layer *l, int slot, int32_t dim,
                                      infer_error *err) {
    const infer__weight *w = &l->w[slot];
    if (!INFER__HAS_VARIANTS) return INFER_OK;
    if (!w->type) return infer__arch_of(m)->flags & INFER__GATE_NEEDED ? infer__need(l, slot, err) : INFER_OK;
    if (!l->gate || l->q_gated) return infer__no_use(m, l, w->name, err);
    if (w->rows == l->n_head || w->rows == l->n_head * dim) return INFER_OK;
    return infer__error(err, INFER_ERR_FORMAT, "tensor %s has %d rows, the model needs %d or %d", w->name, (int)w->rows,
                        (int)l->n_head, (int)(l->n_head * dim));
}

/* Norms of heads; in some models Q's is a number a head, which infer__mix_attention_split makes a row of weights. */
static infer_result infer__check_head_norms(const infer_model *m, infer__layer *l, infer_error *err) {
    infer_result r = INFER_OK;
    int slot;
    if (!INFER__HAS_VARIANTS) return INFER_OK;
    if (l->q_norm_bare) {
        l->q_groups = l->n_head;
        l->k_groups = l->n_head_kv;
        for (slot = INFER__W_ATTN_Q_NORM; slot <= INFER__W_ATTN_K_NORM_B && !r; slot++)
            if (l->w[slot].type) r = infer__no_use(m, l, l->w[slot].name, err);
        return r;
    }
    if (infer__arch_of(m)->flags & INFER__Q_NORM_HEADS) {
        r = infer__need(l, INFER__W_ATTN_Q_NORM, err);
        l->q_groups = l->n_head;
        l->k_groups = l->n_head_kv;
        if (!r && l->w[INFER__W_ATTN_Q_NORM_B].type) r = infer__no_use(m, l, l->w[INFER__W_ATTN_Q_NORM_B].name, err);
        if (!r && l->w[INFER__W_ATTN_K_NORM].type) r = infer__no_use(m, l, l->w[INFER__W_ATTN_K_NORM].name, err);
    } else {
        r = infer__check_head_norm(m, l, INFER__W_ATTN_Q_NORM, l->n_head, &l->q_groups, err);
        if (!r) r = infer__check_head_norm(m, l, INFER__W_ATTN_K_NORM, l->n_head_kv, &l->k_groups, err);
    }
    if (!r && l->q_gated) r = infer__need(l, INFER__W_ATTN_Q_NORM, err);
    if (!r && l->q_gated && l->w[INFER__W_ATTN_Q_NORM].cols != l->dim_k)
        r = infer__error(err, INFER_ERR_FORMAT, "tensor %s: its %d values are not a head's %d",
                         l->w[INFER__W_ATTN_Q_NORM].name, (int)l->w[INFER__W_ATTN_Q_NORM].cols, (int)l->dim_k);
    if (!r) r = infer__only_with(m, l, INFER__W_ATTN_Q_NORM_B, INFER__W_ATTN_Q_NORM, err);
    return r ? r : infer__only_with(m, l, INFER__W_ATTN_K_NORM_B, INFER__W_ATTN_K_NORM, err);
}

/* A scale of a matrix with a bias would be ambiguous: check the slots of n scales and those of the biases, two slots
 * apart. */
static infer_result infer__check_scales(const infer__layer *l, int scale, int bias, int n, infer_error *err) {
    int i;
    for (i = 0; INFER__HAS_VARIANTS && i < n; i++)
        if (l->w[scale + i].type && l->w[bias + 2 * i].type)
            return infer__error(err, INFER_ERR_UNSUPPORTED, "tensor %s: the matrix has a bias, too",
                                l->w[scale + i].name);
    return INFER_OK;
}

static infer_result infer__mix_attention_check(const infer_model *m, infer__layer *l, infer_error *err) {
    infer__weight *w = l->w;
    infer_result r = infer__indexer_check(m, l, err);
    int s;
    if (!w[INFER__W_ATTN_QKV].type) {
        if (!r) r = infer__need(l, INFER__W_ATTN_Q, err);
        if (!r && !INFER__VARIANT(l->kv_from)) r = infer__need(l, INFER__W_ATTN_K, err);
        if (!r && !INFER__VARIANT(l->kv_from) && !(infer__arch_of(m)->flags & INFER__V_MAY_BE_K))
            r = infer__need(l, INFER__W_ATTN_V, err);
        if (!r) r = infer__only_with(m, l, INFER__W_ATTN_V_B, INFER__W_ATTN_V, err);
        if (INFER__HAS_VARIANTS && !r && !l->kv_from && !w[INFER__W_ATTN_V].type && l->dim_v != l->dim_k)
            r = infer__need(l, INFER__W_ATTN_V, err);
    } else if (INFER__VARIANT(l->kv_from)) {
        return infer__no_use(m, l, w[INFER__W_ATTN_QKV].name, err);
    } else if (w[INFER__W_ATTN_Q].type || w[INFER__W_ATTN_K].type || w[INFER__W_ATTN_V].type)
        return infer__error(err, INFER_ERR_FORMAT, "layer %d has both attn_qkv and attn_q, attn_k or attn_v",
                            (int)l->index);
    if (INFER__HAS_VARIANTS && !r && m->hp.n_buckets) r = infer__need(l, INFER__W_ATTN_NEAR, err);
    if (!r) r = infer__check_head_norms(m, l, err);
    if (!r) r = infer__only_with(m, l, INFER__W_ATTN_QKV_B, INFER__W_ATTN_QKV, err);
    if (!r) r = infer__check_scales(l, INFER__W_Q_SCALE, INFER__W_ATTN_Q_B, 3, err);
    if (!r) r = infer__check_scales(l, INFER__W_OUT_SCALE, INFER__W_ATTN_OUT_B, 1, err);
    for (s = INFER__W_ATTN_Q_B; s <= INFER__W_ATTN_V_B && !r; s += 2)
        if (w[INFER__W_ATTN_QKV_B].type) r = infer__only_with(m, l, s, INFER__W_ATTN_Q, err); /* there is no Q alone */
    return r ? r : infer__check_gate(m, l, INFER__W_ATTN_GATE, l->dim_v, err);
}

/* Q's norm, a number a head in the file, as a row of weights. */
static infer_result infer__widen_q_norm(infer_model *m, infer__layer *l, infer_error *err) {
    infer__weight *q = &l->w[INFER__W_ATTN_Q_NORM];
    const char *removed;
    float *all, *heads;
    int32_t i, j;
    if (!(infer__arch_of(m)->flags & INFER__Q_NORM_HEADS) || !q->type || !q->data) return INFER_OK;
    all = (float *)infer__arena_alloc(&m->arena, (uint64_t)l->n_head * ((uint64_t)l->dim_k + 1) * sizeof *all);
    if (!all) return infer__error(err, INFER_ERR_MEMORY, "no memory for %s", q->name);
    heads = all + l->n_head * l->dim_k;
    q->type->decode(q->data, heads, l->n_head);
    for (i = 0; i < l->n_head; i++)
        for (j = 0; j < l->dim_k; j++) all[i * l->dim_k + j] = heads[i];
    q->type = infer__quant_find(0, &removed); /* F32 */
    q->data = all;
    q->cols = l->n_head * l->dim_k;
    q->row_bytes = (uint64_t)q->cols * sizeof *all;
    return INFER_OK;
}

/* The bucket of a key by its distance ahead (T5, arXiv 1910.10683, and its code): half of the buckets are single
 * distances, the others growing ranges up to NEAR; separately for each direction if keys are on both sides. */
static int32_t infer__near_bucket(int32_t ahead, int32_t n, int both) {
    const int32_t half = both ? n / 2 : n, exact = half / 2, away = ahead < 0 ? -ahead : both ? ahead : 0;
    int32_t bucket = away;
    if (away >= exact && away > 0)
        bucket = exact + (int32_t)(log((double)away / exact) / log((double)INFER__NEAR / exact) * (half - exact) +
                                   1e-6);
    return INFER__MIN(bucket, half - 1) + (both && ahead > 0 ? half : 0);
}

/* [bucket][head] becomes [head][distance]. */
static infer_result infer__near_table(infer_model *m, infer__layer *l, infer_error *err) {
    infer__weight *w = &l->w[INFER__W_ATTN_NEAR];
    const int32_t cols = 2 * INFER__NEAR + 1;
    const uint64_t values = (uint64_t)m->hp.n_buckets * (uint64_t)l->n_head;
    const char *removed;
    float *table, *all;
    int32_t h, i;
    if (!w->type) return INFER_OK;
    table = (float *)infer__arena_alloc(&m->arena, ((uint64_t)l->n_head * (uint64_t)cols + values) * sizeof *table);
    if (!table) return infer__error(err, INFER_ERR_MEMORY, "no memory for %s", w->name);
    all = table + (int64_t)l->n_head * cols;
    for (i = 0; w->data && i < m->hp.n_buckets; i++)
        w->type->decode((const char *)w->data + (uint64_t)i * w->row_bytes, all + (int64_t)i * l->n_head, l->n_head);
    for (h = 0; w->data && h < l->n_head; h++)
        for (i = 0; i < cols; i++)
            table[(int64_t)h * cols + i] =
                all[(int64_t)infer__near_bucket(i - INFER__NEAR, m->hp.n_buckets, l->not_causal) * l->n_head + h];
    w->data = w->data ? table : NULL;
    w->type = infer__quant_find(0, &removed); /* F32 */
    w->rows = l->n_head;
    w->cols = cols;
    w->row_bytes = (uint64_t)cols * sizeof *table;
    return INFER_OK;
}

/* Split fused weights, then biases, into slices: their slots are adjacent. */
static infer_result infer__mix_attention_split(infer_model *m, infer__layer *l, infer_error *err) {
    infer__weight *w = l->w;
    int32_t q = l->n_head * l->dim_k, k = l->n_head_kv * l->dim_k, v = l->n_head_kv * l->dim_v, i;
    int64_t at_v = infer__arch_of(m)->flags & INFER__QKV_THIRDS ? 2 * (int64_t)q : (int64_t)q + k;
    for (i = 0; i < 2; i++) {
        if (!w[INFER__W_ATTN_QKV + i].type) continue;
        w[INFER__W_ATTN_Q + i] = infer__slice(&w[INFER__W_ATTN_QKV + i], 0, q);
        w[INFER__W_ATTN_K + i] = infer__slice(&w[INFER__W_ATTN_QKV + i], q, k);
        w[INFER__W_ATTN_V + i] = infer__slice(&w[INFER__W_ATTN_QKV + i], at_v, v);
    }
    for (i = 0; INFER__HAS_VARIANTS && i < 4; i++) l->attn_scales[i] = infer__slot_float(l, INFER__W_Q_SCALE + i, 1);
    infer__switch_set(m, l, INFER__W_ATTN_Q, 2, 3, INFER__W_SWITCH_Q_A);
    infer__switch_set(m, l, INFER__W_ATTN_OUT, 0, 1, INFER__W_SWITCH_OUT_A);
    if (!INFER__HAS_VARIANTS) return INFER_OK;
    return l->w[INFER__W_ATTN_NEAR].type ? infer__near_table(m, l, err) : infer__widen_q_norm(m, l, err);
}

/* Floats a row of the work area: Q, K, V, the heads' results and their gate. */
static int64_t infer__mix_attention_cols(const infer_model *m, const infer__layer *l) {
    (void)m;
    return (int64_t)l->n_head * (l->dim_k + l->dim_v) + (int64_t)l->n_head_kv * (l->dim_k + l->dim_v) +
           INFER__VARIANT(l->q_gated ? 2 * (int64_t)l->n_head * l->dim_k : l->w[INFER__W_ATTN_GATE].rows) +
           infer__indexer_cols(l);
}

/* Keys and values; those of a window in separate pages, which are freed as the window moves. */
static void infer__mix_attention_state(infer_model *m, infer__layer *l, infer__part *p) {
    int32_t group = INFER__VARIANT(l->window && !infer__encoder(&m->hp)) ? INFER__GROUP_WINDOW : INFER__GROUP_FULL;
    if (INFER__VARIANT(l->kv_from)) {
        const infer__part *from = infer__layer_part(&m->layers[l->kv_from - 1], INFER__SUBLAYER_ATTENTION);
        p->state[0] = from->state[0];
        p->state[1] = from->state[1];
        return;
    }
    p->state[0] = infer__state_add(m, l, INFER__STATE_KEYS, group, l->n_head_kv, l->dim_k);
    p->state[1] = infer__state_add(m, l, INFER__STATE_VALUES, group, l->n_head_kv, l->dim_v);
    infer__indexer_state(m, l, p);
}

/* The attention args of the layer, without buffers. */
static void infer__attention_of(const infer__layer *l, infer__attention_args *a) {
    memset(a, 0, sizeof *a);
    a->n_head = l->n_head;
    a->n_head_kv = l->n_head_kv;
    a->dim_k = l->dim_k;
    a->dim_v = l->dim_v;
    a->scale = l->attn_scale;
    if (!INFER__HAS_VARIANTS) return;
    a->window = l->window;
    a->chunk = l->chunk;
    a->around = l->not_causal;
    a->causal = l->spans_causal;
    a->softcap = l->attn_softcap;
    a->max_bias = l->max_bias;
    a->temp_scale = l->temp_scale;
    a->temp_floor = l->temp_floor;
    a->temp_offset = l->temp_offset;
    a->sinks = infer__opt(&l->w[INFER__W_ATTN_SINKS]);
    a->bias = infer__opt(&l->w[INFER__W_ATTN_NEAR]);
    a->reach = INFER__NEAR;
}

/* ---- a pass ------------------------------------------------------------------------------------------------------ */

static void infer__mix_attention_needs(const infer_model *m, const infer__layer *l, infer__needs *n) {
    infer__need_attention(n, l->n_head, l->dim_k, l->dim_v);
    infer__indexer_needs(l, n);
    infer__switch_needs(m, l, INFER__W_SWITCH_Q_A, 4, n);
}

static const char *infer__mix_attention_lacks(const infer__ops *ops, const infer__layer *l) {
    infer__attention_args a;
    infer__attention_of(l, &a);
    return ops->supports(INFER__OP_ATTENTION, &a) ? infer__indexer_lacks(ops, l) : "attention";
}

/* Fills and returns *a; NULL when the layer has no such norm. */
static const infer__norm_args *infer__head_norm(infer_context *c, const infer__layer *l, const infer__tensor *t,
                                                int slot, int32_t groups, infer__norm_args *a) {
    const infer__hparams *hp = &c->model->hp;
    if (!INFER__HAS_VARIANTS) return NULL;
    if (!l->w[slot].type && !(slot == INFER__W_ATTN_K_NORM ? l->k_norm_bare : l->q_norm_bare)) return NULL;
    memset(a, 0, sizeof *a);
    a->x = a->y = *t;
    a->weight = infer__opt(&l->w[slot]);
    a->bias = infer__opt(&l->w[slot + 1]);
    a->kind = hp->qk_eps > 0 ? hp->qk_norm : hp->norm;
    a->n_groups = groups;
    a->eps = hp->qk_eps > 0 ? hp->qk_eps : hp->eps;
    return a;
}

/* Fills and returns *a; NULL when the layer does not rotate. */
static const infer__buf *infer__rope_freq(const infer__layer *l) {
    return l->place == INFER__ON_CPU ? &l->rope->freq : &l->rope->device[l->place - INFER__ON_DEVICE];
}

static const infer__rope_args *infer__rope_of(const infer_context *c, const infer__layer *l, const infer__tensor *t,
                                              int32_t n_head, infer__rope_args *a) {
    if (l->rope_kind == INFER__ROPE_NONE || !l->rope) return NULL;
    memset(a, 0, sizeof *a);
    a->x = *t;
    if (INFER__HAS_VARIANTS) a->x.offset += (uint64_t)l->rope_first * sizeof(float); /* of every head */
    a->blocks = INFER__VARIANT(l->rope_blocks);
    a->n_head = n_head;
    a->dim = l->dim_k;
    a->n_rot = l->n_rot;
    a->kind = l->rope_kind;
    a->freq = infer__rope_freq(l);
    a->axes = INFER__HAS_VARIANTS && c->ctx.pass.axis[0] ? c->model->hp.axes : NULL;
    a->scale = l->rope->scale;
    return a;
}

static void infer__qkv(infer_context *c, const infer__layer *l, const infer__sublayer *s, infer__tensor *q,
                       infer__tensor *k, infer__tensor *v) {
    infer__matmul_args mm;
    infer__map_args clamp;
    infer__tensor *t[3];
    int i;
    t[0] = q;
    t[1] = k;
    t[2] = v;
    memset(&mm, 0, sizeof mm);
    mm.x = s->x;
    mm.norm = s->norm;
    mm.n_w = !INFER__HAS_VARIANTS ? 3 : l->kv_from ? 1 : l->w[INFER__W_ATTN_V].type ? 3 : 2;
    mm.next = &l->w[INFER__W_ATTN_OUT];
    for (i = 0; i < mm.n_w; i++) {
        mm.w[i] = &l->w[INFER__W_ATTN_Q + 2 * i];
        mm.b[i] = infer__opt(&l->w[INFER__W_ATTN_Q_B + 2 * i]);
        mm.y[i] = *t[i];
    }
    infer__products(c, &mm);
    for (i = 0; INFER__HAS_VARIANTS && i < mm.n_w; i++) infer__scale_rows(c, l->attn_scales[i], t[i]);
    for (i = 0; i < mm.n_w && INFER__VARIANT(l->clamp_kqv) > 0; i++) {
        memset(&clamp, 0, sizeof clamp);
        clamp.x = *t[i];
        clamp.scale = 1;
        clamp.clamp = l->clamp_kqv;
        infer__ops_of(&c->ctx)->map(&c->ctx, &clamp);
    }
}

/* V's norm has no weights; without a V, it is made from K before K's own norm. */
static void infer__value_norm(infer_context *c, const infer__layer *l, const infer__tensor *k, const infer__tensor *v) {
    infer__norm_args a;
    if (!INFER__HAS_VARIANTS || !l->v_norm_bare || l->kv_from) return;
    memset(&a, 0, sizeof a);
    a.x = l->w[INFER__W_ATTN_V].type ? *v : *k;
    a.y = *v;
    a.kind = c->model->hp.norm;
    a.n_groups = l->n_head_kv;
    a.eps = c->model->hp.eps;
    infer__ops_of(&c->ctx)->norm(&c->ctx, &a);
}

static void infer__rope_run(infer_context *c, const infer__rope_args *a) {
    if (a) infer__ops_of(&c->ctx)->rope(&c->ctx, a);
}

/* From rows [head][query, gate]: write the normed queries to q; *gate is a view of the gates, a row per head. */
static void infer__query_gated(infer_context *c, const infer__layer *l, const infer__tensor *both,
                               const infer__tensor *q, infer__tensor *gate) {
    infer__norm_args a;
    memset(&a, 0, sizeof a);
    a.x = *both;
    a.y = *q;
    a.x.rows = a.y.rows = both->rows * l->n_head;
    a.x.cols = a.y.cols = a.y.stride = l->dim_k;
    a.x.stride = 2 * l->dim_k;
    a.weight = &l->w[INFER__W_ATTN_Q_NORM];
    a.bias = infer__opt(&l->w[INFER__W_ATTN_Q_NORM_B]);
    a.kind = c->model->hp.norm;
    a.n_groups = 1;
    a.eps = c->model->hp.eps;
    infer__ops_of(&c->ctx)->norm(&c->ctx, &a);
    *gate = a.x;
    gate->offset += (uint64_t)l->dim_k * sizeof(float);
}

static void infer__mix_attention(infer_context *c, const infer__layer *l, infer__sublayer *s) {
    int32_t n = s->x.rows, nq = l->n_head * l->dim_k, nk = l->n_head_kv * l->dim_k, nv = l->n_head_kv * l->dim_v;
    uint64_t rows = (uint64_t)n;
    infer__tensor q = infer__view(&c->at->work, 0, n, nq);
    infer__tensor k = infer__view(&c->at->work, rows * (uint64_t)nq, n, nk);
    infer__tensor v = infer__view(&c->at->work, rows * (uint64_t)(nq + nk), n, nv);
    infer__tensor y = infer__view(&c->at->work, rows * (uint64_t)(nq + nk + nv), n, l->n_head * l->dim_v);
    infer__rope_args rope_q, rope_k;
    infer__norm_args norm_q, norm_k;
    infer__kv_store_args store;
    infer__attention_args at;
    infer__tensor gate = infer__view(&c->at->work, rows * (uint64_t)(nq + nk + nv + l->n_head * l->dim_v), n,
                                     INFER__VARIANT(l->q_gated ? 2 * nq : l->w[INFER__W_ATTN_GATE].rows));
    infer__tensor both = gate, heads = y; /* heads: y, a row a head */
    const int gated = INFER__VARIANT(l->w[INFER__W_ATTN_GATE].type != NULL), q_gated = INFER__VARIANT(l->q_gated);
    const int kv_from = INFER__VARIANT(l->kv_from);
    if (gated || (INFER__HAS_INDEX && l->index_of.heads)) infer__sublayer_norm(c, s);
    if (gated) {
        infer__product(c, &s->x, &l->w[INFER__W_ATTN_GATE], NULL, &gate); /* x is not needed afterwards */
    }
    infer__qkv(c, l, s, q_gated ? &both : &q, &k, &v);
    memset(&store, 0, sizeof store);
    store.rope_q = infer__rope_of(c, l, &q, l->n_head, &rope_q);
    store.rope_k = kv_from ? NULL : infer__rope_of(c, l, &k, l->n_head_kv, &rope_k);
    infer__value_norm(c, l, &k, &v);
    if (INFER__VARIANT(l->qk_norm_rotated)) { /* the cache gets normed rotated keys */
        infer__rope_run(c, store.rope_q);
        infer__rope_run(c, store.rope_k);
        store.rope_q = store.rope_k = NULL;
    }
    if (q_gated) infer__query_gated(c, l, &both, &q, &gate);
    else store.norm_q = infer__head_norm(c, l, &q, INFER__W_ATTN_Q_NORM, l->q_groups, &norm_q);
    store.norm_k = kv_from ? NULL : infer__head_norm(c, l, &k, INFER__W_ATTN_K_NORM, l->k_groups, &norm_k);
    store.k = k;
    store.v = v;
    store.k_cache = &c->cache.bufs[s->part->state[0]];
    store.v_cache = &c->cache.bufs[s->part->state[1]];
    store.group = c->model->states[s->part->state[0]].group;
    store.n_head = l->n_head_kv;
    store.dim_k = l->dim_k;
    store.dim_v = l->dim_v;
    if (kv_from) {
        if (store.norm_q) infer__ops_of(&c->ctx)->norm(&c->ctx, store.norm_q);
        infer__rope_run(c, store.rope_q);
    } else infer__kv_store(&c->ctx, &store);
    infer__trace(c, l->index, "q", &q);
    if (!kv_from) {
        infer__trace(c, l->index, "k", &k);
        infer__trace(c, l->index, "v", &v);
    }

    infer__attention_of(l, &at);
    at.q = q;
    at.y = y;
    at.k_cache = store.k_cache;
    at.v_cache = store.v_cache;
    at.group = store.group;
    infer__indexer_run(c, l, s, NULL, &at);
    if (INFER__VARIANT(l->listed)) {
        at.chosen = infer__pass_kept(c, n, 0, n, c->model->stack.list);
        at.chosen_sets = 1;
    }
    infer__ops_of(&c->ctx)->attention(&c->ctx, &at);
    if (q_gated) {
        heads.rows = n * l->n_head;
        heads.cols = heads.stride = l->dim_v;
    }
    if (gated || q_gated) infer__gate(c, l->gate, &gate, &heads);
    infer__trace(c, l->index, "attn", &y);
    infer__sub_norm(c, l, INFER__W_ATTN_SUB_NORM, &y);
    infer__last_product(c, &y, &l->w[INFER__W_ATTN_OUT], infer__opt(&l->w[INFER__W_ATTN_OUT_B]),
                        INFER__HAS_VARIANTS ? l->attn_scales[3] : 1, s);
}

/* ---- as text ----------------------------------------------------------------------------------------------------- */

static void infer__mix_attention_describe(infer__text_out *o, const infer_model *m, const infer__layer *l,
                                          const char *in) {
    const infer__weight *w = l->w;
    const infer__hparams *hp = &m->hp;
    const char *of_heads = hp->qk_eps > 0 && hp->qk_norm == INFER__NORM_LAYER ? "layer_norm" : infer__norm_name(m);
    if (l->kv_from)
        infer__text_add(o, "    q = %s Wq%s; k, v of layer %d  # %d heads of %d, %d K/V heads\n", in,
                        w[INFER__W_ATTN_Q_B].type ? " + bias" : "", (int)l->kv_from - 1, (int)l->n_head, (int)l->dim_k,
                        (int)l->n_head_kv);
    else
        infer__text_add(o, "    q, k, v = %s Wq, %s Wk, %s %s%s%s  # %d heads of %d, %d K/V heads, values of %d\n", in,
                        in, in, w[INFER__W_ATTN_V].type ? "Wv" : "Wk", w[INFER__W_ATTN_Q_B].type ? " + bias" : "",
                        w[INFER__W_ATTN_QKV].type ? " (one tensor)" : "", (int)l->n_head, (int)l->dim_k,
                        (int)l->n_head_kv, (int)l->dim_v);
    if (l->clamp_kqv > 0) infer__text_add(o, "    q, k, v = clamp(q, k, v; %g)\n", l->clamp_kqv);
    if (w[INFER__W_ATTN_Q_NORM].type)
        infer__text_add(o, "    q, k = %s(q), %s(k)  # %s%s\n", of_heads, of_heads,
                        l->q_groups > 1 || l->n_head == 1 ? "per head" : "whole rows",
                        l->qk_norm_rotated ? ", after the rotation" : "");
    else if (l->q_norm_bare)
        infer__text_add(o, "    q, k = %s(q), %s(k)  # per head, no weights%s\n", infer__norm_name(m),
                        infer__norm_name(m), l->qk_norm_rotated ? ", after the rotation" : "");
    if (l->v_norm_bare && !l->kv_from) infer__text_add(o, "    v = %s(v)  # per head\n", infer__norm_name(m));
    if (l->rope_kind != INFER__ROPE_NONE && l->rope)
        infer__text_add(o, "    q, k = rotate(q, k)  # first %d of %d, %s, base %g%s\n", (int)l->n_rot, (int)l->dim_k,
                        l->rope_kind == INFER__ROPE_PAIRS ? "pairs" : "halves",
                        l->rope_base, hp->rope_scaling && l->rope_scaled ? ", scaled" : "");
    infer__indexer_describe(o, l, in);
    infer__text_add(o, "    a = softmax(q k * %g", l->attn_scale);
    if (l->attn_softcap > 0) infer__text_add(o, ", capped at %g", l->attn_softcap);
    if (w[INFER__W_ATTN_NEAR].type) infer__text_add(o, ", + a bias of each distance up to %d", (int)INFER__NEAR);
    if (l->max_bias > 0) infer__text_add(o, ", + ALiBi %g%s", l->max_bias, l->not_causal ? " on both sides" : "");
    if (l->temp_scale != 0)
        infer__text_add(o, ", * (1 + %g ln(1 + floor((position + %g) / %g)))", l->temp_scale, l->temp_offset,
                        l->temp_floor);
    if (l->chunk) infer__text_add(o, ") v  # the positions of its own chunk of %d\n", (int)l->chunk);
    else if (l->window && l->not_causal)
        infer__text_add(o, ") v  # %d positions on either side\n", (int)l->window / 2);
    else if (l->window) infer__text_add(o, ") v  # the last %d positions\n", (int)l->window);
    else infer__text_add(o, l->not_causal ? ") v  # of an eval also later positions\n" : ") v\n");
    if (l->q_gated) infer__text_add(o, "    a = a * %s(g)  # g: beside q in Wq\n", infer__act_name(l->gate));
    if (w[INFER__W_ATTN_GATE].type)
        infer__text_add(o, "    a = a * %s(gate %s)  # %s\n", infer__act_name(l->gate), in,
                        w[INFER__W_ATTN_GATE].rows == l->n_head ? "per head" : "each value");
    if (w[INFER__W_ATTN_SUB_NORM].type) infer__text_add(o, "    a = %s(a) * attn_sub_norm\n", infer__norm_name(m));
    infer__text_add(o, "    a = a Wo%s\n", w[INFER__W_ATTN_OUT_B].type ? " + bias" : "");
    infer__switch_describe(o, m, l, INFER__W_ATTN_Q, "Wq, Wk, Wv, Wo");
}

static const infer__label INFER__MIX_ATTENTION_LABELS[] = {
    { INFER__W_ATTN_Q, "Wq" }, { INFER__W_ATTN_K, "Wk" }, { INFER__W_ATTN_V, "Wv" }, { INFER__W_ATTN_OUT, "Wo" },
    { 0, NULL } };
