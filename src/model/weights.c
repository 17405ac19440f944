/* weights.c: tensors of the file -> weight slots of the layers.
 *
 * Owns:  the use of the slot tables in model.h: names, shapes, fused tensors cut into parts, what is required.
 * Rules: every tensor of the file is bound or listed by the row as ignored: a tensor that nobody reads means computing
 *        the wrong model, so it is an error that names it. After binding nothing looks at names or file offsets again.
 *        Weights stay where they are: on the CPU a slot points into the mapped file.
 */
#include "model.h"

typedef struct infer__tensor_slot { const char *name; uint8_t rows, cols, need; } infer__tensor_slot;
#define INFER__SLOT_ROW(slot, name, rows, cols, need) { name, INFER__D_##rows, INFER__D_##cols, need },
static const infer__tensor_slot INFER__LAYER_SLOT_TABLE[] = { INFER__LAYER_SLOTS(INFER__SLOT_ROW) };
static const infer__tensor_slot INFER__MODEL_SLOT_TABLE[] = { INFER__MODEL_SLOTS(INFER__SLOT_ROW) };

static const infer__weight *infer__opt(const infer__weight *w) { return w->type ? w : NULL; }

/* A symbolic dimension as a number; l is NULL for tensors outside layers. 0 where a key is missing (no tensor has that
 * size), and for INFER__D_ANY, which is not compared. */
static uint64_t infer__dim(const infer_model *m, const infer__layer *l, int dim) {
    const infer__hparams *hp = &m->hp;
    uint64_t ff_expert = (uint64_t)hp->n_ff_expert, n_expert = (uint64_t)hp->n_expert;
    uint64_t q = 0, k = 0, v = 0;
    if (l) {
        q = (uint64_t)l->n_head * (uint64_t)l->dim_k;
        k = (uint64_t)l->n_head_kv * (uint64_t)l->dim_k;
        v = (uint64_t)l->n_head_kv * (uint64_t)l->dim_v;
    }
    switch (dim) {
    case INFER__D_ONE: return 1;
    case INFER__D_MODEL: return (uint64_t)hp->n_embd;
    case INFER__D_QUERY: return q;
    case INFER__D_KEY: return k;
    case INFER__D_VALUE: return v;
    case INFER__D_QKV: return q + k + v;
    case INFER__D_ATT: return l ? (uint64_t)l->n_head * (uint64_t)l->dim_v : 0;
    case INFER__D_FF: return l ? (uint64_t)l->n_ff : 0;
    case INFER__D_HEADS: return l ? (uint64_t)l->n_head : 0;
    case INFER__D_HEADS_Q: return q;
    case INFER__D_HEADS_K: return k;
    case INFER__D_VOCAB: return (uint64_t)hp->n_vocab;
    case INFER__D_EXPERTS: return n_expert;
    case INFER__D_FF_EXPERT: return ff_expert;
    case INFER__D_FF_EXPERTS: return ff_expert * n_expert;
    case INFER__D_MODEL_EXPERTS: return (uint64_t)hp->n_embd * n_expert;
    case INFER__D_FF_SHARED: return (uint64_t)hp->n_ff_shared;
    default: return 0;
    }
}

/* The table row of a layer's slot, NULL where the architecture has no such role: in some the tensor called
 * post_attention_norm is the norm before the FFN. */
static const infer__tensor_slot *infer__layer_slot(const infer_model *m, int s) {
    if (m->arch->flags & INFER__POST_ATTN_IS_FFN) {
        if (s == INFER__W_ATTN_POST_NORM) return NULL;
        if (s == INFER__W_FFN_NORM) s = INFER__W_ATTN_POST_NORM;
    }
    return &INFER__LAYER_SLOT_TABLE[s];
}

/* The tensor of a slot, NULL when absent. */
static infer__gguf_tensor *infer__slot_tensor(const infer_model *m, const infer__layer *l,
                                              const infer__tensor_slot *s) {
    char name[96];
    if (!l) return infer__gguf_tensor_find(&m->gguf, s->name);
    infer__format(name, sizeof name, s->name, (int)l->index);
    return infer__gguf_tensor_find(&m->gguf, name);
}

/* Check the shape of a slot's tensor and fill everything but its data. */
static infer_result infer__bind(infer_model *m, infer__layer *l, const infer__tensor_slot *s, infer__weight *w,
                                uint8_t *bound, infer_error *err) {
    infer__gguf_tensor *t = infer__slot_tensor(m, l, s);
    uint64_t rows = infer__dim(m, l, s->rows), cols = infer__dim(m, l, s->cols), n, head = l ? (uint64_t)l->dim_k : 0;
    int per_head = s->cols == INFER__D_HEADS_Q || s->cols == INFER__D_HEADS_K;
    int any_rows = s->rows == INFER__D_ANY, any_cols = s->cols == INFER__D_ANY;
    if (!t) {
        char name[96];
        if (!s->need) return INFER_OK;
        infer__format(name, sizeof name, s->name, l ? (int)l->index : 0);
        return infer__error(err, INFER_ERR_FORMAT, "missing tensor %s", name);
    }
    bound[t - m->gguf.tensors] = 1;
    n = t->rows * t->dims[0]; /* checked against the file by the format layer */
    w->rows = (int32_t)INFER__MIN(t->rows, INT32_MAX);
    w->cols = (int32_t)INFER__MIN(t->dims[0], INT32_MAX);
    if (s->rows == INFER__D_ONE) { /* a vector, whatever its dims; norms of heads may be shared by all heads */
        w->rows = 1;
        w->cols = (int32_t)INFER__MIN(n, INT32_MAX);
        if (per_head && n == head) cols = head; /* see infer__check_head_norm */
        if (t->type->values != 1)
            return infer__error(err, INFER_ERR_FORMAT, "tensor %s: a vector stored as %s", t->name, t->type->name);
    }
    if ((!any_rows && (uint64_t)w->rows != rows) || (!any_cols && (uint64_t)w->cols != cols) ||
        w->cols > INFER__MAX_DIM)
        return infer__error(err, INFER_ERR_FORMAT, "tensor %s has %llu rows of %llu, the model needs %llu of %llu%s",
                            t->name, (unsigned long long)t->rows, (unsigned long long)t->dims[0],
                            (unsigned long long)rows, (unsigned long long)cols,
                            (any_rows || rows) && (any_cols || cols) ? "" : " (0: the key of this size is missing)");
    if (!t->type->storable && t->type->values != 1)
        return infer__error(err, INFER_ERR_UNSUPPORTED, "tensor %s: type %s is for activations", t->name,
                            t->type->name);
    w->type = t->type;
    w->row_bytes = w->rows == 1 ? t->bytes : t->row_bytes;
    w->name = t->name;
    return INFER_OK;
}

/* The groups of a row that a norm's weight or bias is for: each head, with one set of values for all of them or a set
 * of its own ([n_head][dim]), or 1: the whole row. 0 when it is shaped otherwise. */
static int32_t infer__head_groups(const infer_model *m, const infer__layer *l, const infer__weight *w, int32_t n_head) {
    const infer__gguf_tensor *t = infer__gguf_tensor_find(&m->gguf, w->name);
    if (w->cols == l->dim_k || t->dims[0] == (uint64_t)l->dim_k) return n_head;
    return t->rows == 1 ? 1 : 0;
}

/* Weight and bias of a norm of heads must cut the row alike: the op reads both by the groups of the weight. */
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

static infer_result infer__need(const infer__layer *l, const infer__weight *w, const char *what, infer_error *err) {
    if (w->type) return INFER_OK;
    return infer__error(err, INFER_ERR_FORMAT, "missing tensor blk.%d.%s", (int)l->index, what);
}

/* Slots that every layer of this kind must have, roles that the row changes, and the kind of FFN. */
static infer_result infer__check_layer(infer_model *m, infer__layer *l, infer_error *err) {
    const uint32_t flags = m->arch->flags;
    infer__weight *w = l->w;
    infer_result r = INFER_OK;
    if ((flags & INFER__PARALLEL_BY_NORM) && !w[INFER__W_FFN_NORM].type) l->parallel = 1;
    if (!w[INFER__W_ATTN_QKV].type) {
        r = infer__need(l, &w[INFER__W_ATTN_Q], "attn_q.weight", err);
        if (!r) r = infer__need(l, &w[INFER__W_ATTN_K], "attn_k.weight", err);
        if (!r) r = infer__need(l, &w[INFER__W_ATTN_V], "attn_v.weight", err);
    } else if (w[INFER__W_ATTN_Q].type || w[INFER__W_ATTN_K].type || w[INFER__W_ATTN_V].type)
        return infer__error(err, INFER_ERR_FORMAT, "layer %d has both attn_qkv and attn_q, attn_k or attn_v",
                            (int)l->index);
    if (!r && l->pre_norm && !(flags & INFER__NORM_BARE)) {
        r = infer__need(l, &w[INFER__W_ATTN_NORM], "attn_norm.weight", err);
        if (!r && !l->parallel) r = infer__need(l, &w[INFER__W_FFN_NORM], "ffn_norm.weight", err);
    }
    if (!r) r = infer__check_head_norm(m, l, INFER__W_ATTN_Q_NORM, l->n_head, &l->q_groups, err);
    if (!r) r = infer__check_head_norm(m, l, INFER__W_ATTN_K_NORM, l->n_head_kv, &l->k_groups, err);
    if (r) return r;
    l->mixer = INFER__MIX_ATTENTION;
    l->ffn = w[INFER__W_MOE_ROUTER].type ? INFER__FFN_MOE : INFER__FFN_DENSE;
    if (l->ffn == INFER__FFN_MOE) {
        r = infer__need(l, &w[INFER__W_MOE_UP], "ffn_up_exps.weight", err);
        if (!r) r = infer__need(l, &w[INFER__W_MOE_DOWN], "ffn_down_exps.weight", err);
        if (!r && w[INFER__W_SHARED_UP].type)
            r = infer__need(l, &w[INFER__W_SHARED_DOWN], "ffn_down_shexp.weight", err);
        return r;
    }
    r = infer__need(l, &w[INFER__W_FFN_UP], "ffn_up.weight", err);
    if (!r) r = infer__need(l, &w[INFER__W_FFN_DOWN], "ffn_down.weight", err);
    if (!r && w[INFER__W_FFN_UP].rows != l->n_ff &&
        (w[INFER__W_FFN_GATE].type || w[INFER__W_FFN_UP].rows != 2 * l->n_ff))
        r = infer__error(err, INFER_ERR_FORMAT,
                         "tensor %s has %d rows, the model needs %d (or twice that for gate and up)",
                         w[INFER__W_FFN_UP].name, (int)w[INFER__W_FFN_UP].rows, (int)l->n_ff);
    if (!r && w[INFER__W_FFN_UP_B].type && w[INFER__W_FFN_UP_B].cols != w[INFER__W_FFN_UP].rows)
        r = infer__error(err, INFER_ERR_FORMAT, "tensor %s has %d values for %d rows", w[INFER__W_FFN_UP_B].name,
                         (int)w[INFER__W_FFN_UP_B].cols, (int)w[INFER__W_FFN_UP].rows);
    return r;
}

/* Bound tensors that this kind of layer would not read are an error, like those without a slot. */
static infer_result infer__check_unused(const infer_model *m, const infer__layer *l, infer_error *err) {
    static const struct { int16_t slot, with; } pairs[] = { /* `slot` is read only where `with` is there */
        { INFER__W_ATTN_QKV_B, INFER__W_ATTN_QKV },     { INFER__W_ATTN_Q_NORM_B, INFER__W_ATTN_Q_NORM },
        { INFER__W_ATTN_K_NORM_B, INFER__W_ATTN_K_NORM }, { INFER__W_FFN_NORM_B, INFER__W_FFN_NORM },
        { INFER__W_FFN_GATE_B, INFER__W_FFN_GATE },     { INFER__W_SHARED_GATE, INFER__W_SHARED_UP },
        { INFER__W_SHARED_DOWN, INFER__W_SHARED_UP } };
    const infer__weight *w = l->w;
    int s, bad = -1, moe = l->ffn == INFER__FFN_MOE;
    for (s = INFER__W_FFN_GATE; s <= INFER__W_FFN_ACT_SCALES; s++)
        if (moe && w[s].type) bad = s;
    for (s = INFER__W_MOE_GATE; s <= INFER__W_SHARED_DOWN; s++)
        if (!moe && w[s].type) bad = s;
    for (s = INFER__W_ATTN_NORM; s <= INFER__W_ATTN_NORM_B && !l->pre_norm; s++)
        if (w[s].type) bad = s;
    if (!l->pre_norm && w[INFER__W_FFN_NORM].type) bad = INFER__W_FFN_NORM;
    for (s = 0; s < (int)INFER__COUNT(pairs); s++)
        if (w[pairs[s].slot].type && !w[pairs[s].with].type) bad = pairs[s].slot;
    for (s = INFER__W_ATTN_Q_B; s <= INFER__W_ATTN_V_B; s += 2)
        if (w[s].type && w[INFER__W_ATTN_QKV_B].type) bad = s;
    if (bad < 0) return INFER_OK;
    return infer__error(err, INFER_ERR_UNSUPPORTED, "tensor %s: architecture \"%s\" has no use for it in layer %d",
                        w[bad].name, m->arch->name, (int)l->index);
}

/* 1 when the row says that the model's own code does not use this tensor: a listed part occurs in its name. */
static int infer__ignored(const infer__arch *a, const char *name) {
    const char *p = a->ignore;
    while (p && *p) {
        size_t n = strcspn(p, " ");
        char part[96];
        if (n < sizeof part) {
            memcpy(part, p, n);
            part[n] = 0;
            if (n && strstr(name, part)) return 1;
        }
        p += n;
        p += strspn(p, " ");
    }
    return 0;
}

static infer_result infer__weights_bind(infer_model *m, infer_error *err) {
    infer_result r = INFER_OK;
    int32_t i, s;
    uint8_t *bound = (uint8_t *)infer__calloc(&m->mem, (uint64_t)m->gguf.n_tensors, 1);
    if (!bound) return infer__error(err, INFER_ERR_MEMORY, "no memory for %d tensors", (int)m->gguf.n_tensors);
    for (s = 0; s < INFER__MODEL_SLOT_COUNT && !r; s++)
        r = infer__bind(m, NULL, &INFER__MODEL_SLOT_TABLE[s], &m->w[s], bound, err);
    for (i = 0; i < m->hp.n_layer && !r; i++) {
        infer__layer *l = &m->layers[i];
        for (s = 0; s < INFER__LAYER_SLOT_COUNT && !r; s++) {
            int qk = s >= INFER__W_ATTN_Q_NORM && s <= INFER__W_ATTN_K_NORM_B;
            if (qk && (m->arch->flags & INFER__QK_NORM_PAIR) &&
                (!infer__slot_tensor(m, l, &INFER__LAYER_SLOT_TABLE[INFER__W_ATTN_Q_NORM]) ||
                 !infer__slot_tensor(m, l, &INFER__LAYER_SLOT_TABLE[INFER__W_ATTN_K_NORM]))) {
                infer__gguf_tensor *t = infer__slot_tensor(m, l, &INFER__LAYER_SLOT_TABLE[s]);
                if (t) bound[t - m->gguf.tensors] = 1;
                continue;
            }
            if (infer__layer_slot(m, s)) r = infer__bind(m, l, infer__layer_slot(m, s), &l->w[s], bound, err);
        }
        if (!r) r = infer__check_layer(m, l, err);
        if (!r) r = infer__check_unused(m, l, err);
    }
    if (!r && !m->w[INFER__W_OUT_NORM].type && !(m->arch->flags & INFER__NORM_BARE))
        r = infer__error(err, INFER_ERR_FORMAT, "missing tensor output_norm.weight");
    if (!r && m->w[INFER__W_EMBD_NORM_B].type && !m->w[INFER__W_EMBD_NORM].type)
        r = infer__error(err, INFER_ERR_FORMAT, "missing tensor token_embd_norm.weight: there is a bias for it");
    if (!r) r = infer__rope_check(m, err);
    for (i = 0; i < m->gguf.n_tensors && !r; i++)
        if (!bound[i] && !infer__ignored(m->arch, m->gguf.tensors[i].name)) {
            if (m->params.allow_unknown)
                infer__log(&m->report, 2, "tensor %s: ignored, the model may compute something else",
                           m->gguf.tensors[i].name);
            else
                r = infer__error(err, INFER_ERR_UNSUPPORTED, "tensor %s: architecture \"%s\" has no use for it here",
                                 m->gguf.tensors[i].name, m->arch->name);
        }
    infer__free(&m->mem, bound);
    return r;
}

/* Rows [first, first + n) of a matrix, or values of a vector. */
static infer__weight infer__slice(const infer__weight *w, int64_t first, int32_t n) {
    infer__weight s = *w;
    if (w->rows == 1 && w->type->values == 1) {
        first *= w->type->bytes;
        s.cols = n;
        s.row_bytes = (uint64_t)n * (uint64_t)w->type->bytes;
    } else {
        first *= (int64_t)w->row_bytes;
        s.rows = n;
    }
    if (w->data) s.data = (const char *)w->data + first; /* not when only sizes are asked for */
    return s;
}

/* Cut fused tensors, so that the forward pass sees Q, K, V and gate, up only. */
static void infer__split_fused(infer__layer *l) {
    infer__weight *w = l->w, up;
    int32_t q = l->n_head * l->dim_k, k = l->n_head_kv * l->dim_k, v = l->n_head_kv * l->dim_v, i;
    for (i = 0; i < 2; i++) { /* weights, then biases: slots are neighbours */
        if (!w[INFER__W_ATTN_QKV + i].type) continue;
        w[INFER__W_ATTN_Q + i] = infer__slice(&w[INFER__W_ATTN_QKV + i], 0, q);
        w[INFER__W_ATTN_K + i] = infer__slice(&w[INFER__W_ATTN_QKV + i], q, k);
        w[INFER__W_ATTN_V + i] = infer__slice(&w[INFER__W_ATTN_QKV + i], (int64_t)q + k, v);
    }
    if (l->ffn != INFER__FFN_DENSE || w[INFER__W_FFN_GATE].type || w[INFER__W_FFN_UP].rows != 2 * l->n_ff) return;
    for (i = 0; i < 2; i++) {
        up = w[INFER__W_FFN_UP + i];
        if (!up.type) continue;
        w[INFER__W_FFN_GATE + i] = infer__slice(&up, 0, l->n_ff);
        w[INFER__W_FFN_UP + i] = infer__slice(&up, l->n_ff, l->n_ff);
    }
}

static infer_result infer__load_slot(infer_model *m, const infer__layer *l, const infer__tensor_slot *s,
                                     infer__weight *w, infer_error *err) {
    infer__gguf_tensor *t = m->sizes_only ? NULL : infer__slot_tensor(m, l, s);
    infer_result r = t ? infer__gguf_load(&m->gguf, t, err) : INFER_OK;
    if (t && !r) w->data = t->data;
    return r;
}

static infer_result infer__load_progress(infer_model *m, double done, infer_error *err) {
    int32_t all = m->hp.n_layer + m->device_layers;
    if (m->sizes_only || !m->params.progress) return INFER_OK;
    if (!m->params.progress(m->params.progress_user, (float)(done / (double)all))) return INFER_OK;
    return infer__error(err, INFER_CANCELLED, "cancelled while %s layer %d of %d",
                        done < m->hp.n_layer ? "loading" : "uploading", (int)done % m->hp.n_layer,
                        (int)m->hp.n_layer);
}

static infer_result infer__weights_load(infer_model *m, infer_error *err) {
    infer_result r = INFER_OK;
    int32_t i, s;
    for (s = 0; s < INFER__MODEL_SLOT_COUNT && !r; s++)
        if (m->w[s].type) r = infer__load_slot(m, NULL, &INFER__MODEL_SLOT_TABLE[s], &m->w[s], err);
    for (i = 0; i < m->hp.n_layer && !r; i++) {
        infer__layer *l = &m->layers[i];
        if ((r = infer__load_progress(m, i, err)) != INFER_OK) return r;
        for (s = 0; s < INFER__LAYER_SLOT_COUNT && !r; s++) {
            uint64_t bytes = l->w[s].row_bytes * (uint64_t)l->w[s].rows;
            if (!l->w[s].type) continue;
            r = infer__load_slot(m, l, infer__layer_slot(m, s), &l->w[s], err);
            if (s >= INFER__W_MOE_GATE && s <= INFER__W_MOE_DOWN) /* of experts only those that are used */
                bytes = bytes / (uint64_t)m->hp.n_expert * (uint64_t)m->hp.n_used;
            m->token_bytes += bytes;
        }
        if (!r) infer__split_fused(l);
    }
    if (!r) {
        if (!m->w[INFER__W_OUTPUT].type) m->w[INFER__W_OUTPUT] = m->w[INFER__W_TOKEN_EMBD];
        m->token_bytes += m->w[INFER__W_OUTPUT].row_bytes * (uint64_t)m->w[INFER__W_OUTPUT].rows;
    }
    return r;
}
