/* weights.c: tensors of the file -> weight slots of the layers.
 *
 * Owns:  the use of the slot tables in model.h: names, shapes, fused tensors cut into parts, what is required.
 * Rules: every tensor of the file is bound or listed by the row as ignored: an unread tensor means computing the wrong
 *        model, so it is an error that names it. After binding, names and file offsets are not used again. Weights are
 *        not copied: on the CPU a slot points into the mapped file.
 */
#include "model.h"

/* Slots that layers of this build may have. The others have no name: their tensors are refused. */
#define INFER__SLOT_FROM_TO(s, first, last) ((s) >= INFER__W_##first && (s) <= INFER__W_##last)
#define INFER__LAYER_SLOT_HERE(s)                                                                                \
    (INFER__HAS_VARIANTS || (s) == INFER__W_ATTN_NORM || (s) == INFER__W_FFN_NORM ||                             \
     INFER__SLOT_FROM_TO(s, ATTN_QKV, ATTN_V_B) || INFER__SLOT_FROM_TO(s, ATTN_OUT, ATTN_OUT_B) ||                \
     INFER__SLOT_FROM_TO(s, FFN_GATE, FFN_DOWN_B) || (s) == INFER__W_MOE_ROUTER ||                                \
     (INFER__HAS_EXPERTS && INFER__SLOT_FROM_TO(s, MOE_ROUTER_B, SHARED_SCORE)))
#define INFER__MODEL_SLOT_HERE(s)                                                                                \
    (INFER__HAS_VARIANTS || (s) == INFER__W_TOKEN_EMBD || (s) == INFER__W_OUT_NORM || (s) == INFER__W_OUTPUT ||  \
     (INFER__HAS_EMBED && INFER__SLOT_FROM_TO(s, CLS, DENSE_3)) || INFER__SLOT_FROM_TO(s, ROPE_FREQS, ROPE_SHORT))
#define INFER__SLOT_ROW(slot, name, rows, cols, need) \
    { INFER__LAYER_SLOT_HERE(INFER__W_##slot) ? name : NULL, INFER__D_##rows, INFER__D_##cols, need },
#define INFER__MODEL_SLOT_ROW(slot, name, rows, cols, need) \
    { INFER__MODEL_SLOT_HERE(INFER__W_##slot) ? name : NULL, INFER__D_##rows, INFER__D_##cols, need },
static const infer__tensor_slot INFER__LAYER_SLOT_TABLE[] = { INFER__LAYER_SLOTS(INFER__SLOT_ROW) };
static const infer__tensor_slot INFER__MODEL_SLOT_TABLE[] = { INFER__MODEL_SLOTS(INFER__MODEL_SLOT_ROW) };

static const infer__weight *infer__opt(const infer__weight *w) { return w->type ? w : NULL; }

/* A symbolic dimension as a number; l is NULL for tensors outside layers. 0 where a key is missing (no tensor has that
 * size), and for INFER__D_ANY, which is not compared. */
static uint64_t infer__dim(const infer_model *m, const infer__layer *l, int dim) {
    const infer__hparams *hp = &m->hp;
    uint64_t ff_expert = (uint64_t)hp->n_ff_expert, n_expert = (uint64_t)hp->n_expert;
    uint64_t pairs = (uint64_t)hp->switches.n + 1, q = 0, k = 0, v = 0;
    if (l) {
        q = (uint64_t)l->n_head * (uint64_t)l->dim_k;
        k = (uint64_t)l->n_head_kv * (uint64_t)l->dim_k;
        v = (uint64_t)l->n_head_kv * (uint64_t)l->dim_v;
    }
    switch (dim) {
    case INFER__D_ONE: return 1;
    case INFER__D_MODEL: return (uint64_t)hp->n_embd;
    case INFER__D_QUERY: return l && l->q_gated ? 2 * q : q;
    case INFER__D_KEY: return k;
    case INFER__D_VALUE: return v;
    case INFER__D_FF: return l ? (uint64_t)l->n_ff : 0;
    case INFER__D_ATT: return l ? (uint64_t)l->n_head * (uint64_t)l->dim_v : 0;
    case INFER__D_VOCAB: return (uint64_t)hp->n_vocab;
    case INFER__D_QKV: return infer__arch_of(m)->flags & INFER__QKV_WIDE ? 3 * q : q + k + v;
    }
    if (!INFER__HAS_VARIANTS && !INFER__HAS_EXPERTS) return 0;
    switch (dim) {
    case INFER__D_SWITCH_RANK: return (uint64_t)hp->switches.rank;
    case INFER__D_SWITCH_RANKS: return pairs * (uint64_t)hp->switches.rank;
    case INFER__D_SWITCH_QUERY: return pairs * q;
    case INFER__D_SWITCH_KEY: return pairs * k;
    case INFER__D_SWITCH_VALUE: return pairs * v;
    case INFER__D_SWITCH_MODEL: return pairs * (uint64_t)hp->n_embd;
    case INFER__D_SWITCH_FF: return l ? pairs * (uint64_t)l->n_ff : 0;
    case INFER__D_HEADS: return l ? (uint64_t)l->n_head : 0;
    case INFER__D_HEADS_Q: return q;
    case INFER__D_HEADS_K: return k;
    case INFER__D_EXPERTS: return n_expert;
    case INFER__D_BUCKETS: return (uint64_t)hp->n_buckets;
    case INFER__D_USED: return (uint64_t)hp->n_used;
    case INFER__D_FF_EXPERT: return ff_expert;
    case INFER__D_FF_EXPERTS: return ff_expert * n_expert;
    case INFER__D_MODEL_EXPERTS: return (uint64_t)infer__expert_in(hp) * n_expert;
    case INFER__D_EXPERT_IN: return (uint64_t)infer__expert_in(hp);
    case INFER__D_FF_EXPERTS_TWO: return 2 * ff_expert * n_expert;
    case INFER__D_FF_GROUP: return (uint64_t)hp->n_ff_group;
    case INFER__D_FF_GROUPS: return (uint64_t)hp->n_ff_group * (uint64_t)infer__expert_groups(hp);
    case INFER__D_MODEL_GROUPS: return (uint64_t)hp->n_embd * (uint64_t)infer__expert_groups(hp);
    case INFER__D_FF_SHARED: return (uint64_t)hp->n_ff_shared;
    case INFER__D_MODEL_2: return 2 * (uint64_t)hp->n_embd;
    case INFER__D_MODEL_3: return 3 * (uint64_t)hp->n_embd;
    case INFER__D_TAPS: return l ? (uint64_t)l->conv_taps : 0;
    case INFER__D_LATENT: return l ? (uint64_t)l->latent_rank : 0;
    case INFER__D_LATENT_CACHE: return l ? (uint64_t)l->latent_rank + (uint64_t)l->n_rot : 0;
    case INFER__D_LATENT_Q_RANK: return l ? (uint64_t)l->latent_q_rank : 0;
    case INFER__D_LATENT_QUERY: return l ? (uint64_t)l->n_head * (uint64_t)l->latent_k : 0;
    case INFER__D_LATENT_KEYS: return l ? (uint64_t)l->n_head * (uint64_t)l->latent_rank : 0;
    case INFER__D_LATENT_NOPE: return l ? (uint64_t)(l->latent_k - l->n_rot) : 0;
    case INFER__D_LATENT_VALUES: return l ? (uint64_t)l->n_head * (uint64_t)l->latent_v : 0;
    case INFER__D_LATENT_BOTH: return l ? (uint64_t)l->n_head * (uint64_t)(l->latent_k - l->n_rot + l->latent_v) : 0;
    case INFER__D_OUT_RANKS: return l ? (uint64_t)l->compress.groups * (uint64_t)l->compress.rank : 0;
    case INFER__D_OUT_GROUP: return l && l->compress.groups ? q / (uint64_t)l->compress.groups : 0;
    case INFER__D_EVERY: return l ? (uint64_t)l->compress.every : 0;
    case INFER__D_COMPRESS: return l ? (uint64_t)infer__compress_values(l, l->dim_k) : 0;
    case INFER__D_COMPRESS_INDEX: return l ? (uint64_t)infer__compress_values(l, l->index_of.dim) : 0;
    case INFER__D_ONE_ROW: return 1;
    case INFER__D_SSM_INNER: return l ? (uint64_t)l->ssm.inner : 0;
    case INFER__D_SSM_PROJ: return l ? (uint64_t)l->ssm.proj : 0;
    case INFER__D_SSM_CONV: return l ? (uint64_t)l->ssm.conv : 0;
    case INFER__D_SSM_X: return l ? (uint64_t)l->ssm.rank + 2 * (uint64_t)l->ssm.state : 0;
    case INFER__D_SSM_RANK: return l ? (uint64_t)l->ssm.rank : 0;
    case INFER__D_SSM_HEADS: return l ? (uint64_t)l->ssm.heads : 0;
    case INFER__D_SSM_DIM: return l ? (uint64_t)l->ssm.dim : 0;
    case INFER__D_SSM_HEADS_TWO: return l ? 2 * (uint64_t)l->ssm.heads : 0;
    case INFER__D_SSM_STATE: return l ? (uint64_t)l->ssm.state : 0;
    case INFER__D_SSM_A: return l ? (uint64_t)l->ssm.heads * (l->ssm.own_a ? (uint64_t)l->ssm.state : 1) : 0;
    case INFER__D_LATENT_ROT: return l ? (uint64_t)l->n_rot : 0;
    case INFER__D_INDEX_QUERY: return l ? (uint64_t)l->index_of.heads * (uint64_t)l->index_of.dim : 0;
    case INFER__D_INDEX_KEY: return l ? (uint64_t)l->index_of.dim : 0;
    case INFER__D_INDEX_HEADS: return l ? (uint64_t)l->index_of.heads : 0;
    case INFER__D_SSM_DECAYS: return l ? (uint64_t)l->ssm.heads * (l->ssm.kda ? (uint64_t)l->ssm.state : 1) : 0;
    case INFER__D_PER_LAYER: return (uint64_t)hp->n_per_layer;
    case INFER__D_PER_LAYERS: return (uint64_t)hp->n_per_layer * (hp->ngrams.size ? 1 : (uint64_t)hp->n_layer);
    case INFER__D_INPUT_ROWS: /* there may be more for n-grams */
        return hp->ngrams.size ? INFER__MAX(hp->ngrams.rows, infer__shape_of(m, "per_layer_token_embd.weight", 1))
                               : (uint64_t)hp->n_vocab;
    case INFER__D_NGRAMS: return (uint64_t)hp->ngrams.heads * (uint64_t)hp->n_per_layer;
    case INFER__D_NGRAM_TAPS: return (uint64_t)hp->ngrams.taps;
    case INFER__D_HYPER_RANK: return (uint64_t)hp->hyper_rank;
    case INFER__D_STREAMS: return (uint64_t)hp->n_streams;
    case INFER__D_STREAMS_2: return (uint64_t)hp->n_streams * (uint64_t)hp->n_streams;
    case INFER__D_HYPER: return (uint64_t)hp->n_hyper;
    case INFER__D_HYPER_COEFS: return (uint64_t)infer__hyper_coefs(hp);
    case INFER__D_HYPER_SCALES: return hp->hyper_rounds ? 3 : 2;
    case INFER__D_MODEL_HYPER: return (uint64_t)hp->n_hyper * (uint64_t)hp->n_embd;
    case INFER__D_MODEL_5: return 5 * (uint64_t)hp->n_embd;
    case INFER__D_WKV_KEYS: return l ? (uint64_t)l->wkv.kv_heads * (uint64_t)l->wkv.dim : 0;
    case INFER__D_RANK_W: case INFER__D_RANK_A: case INFER__D_RANK_V: case INFER__D_RANK_G: case INFER__D_RANK_X:
        return l ? (uint64_t)l->wkv.rank[dim - INFER__D_RANK_W] : 0;
    case INFER__D_RANK_X_5: return l ? 5 * (uint64_t)l->wkv.rank[INFER__D_RANK_X - INFER__D_RANK_W] : 0;
    case INFER__D_MODEL_STREAMS: return hp->n_streams ? (uint64_t)(hp->n_streams - 1) * (uint64_t)hp->n_embd : 0;
    default: return 0;
    }
}

/* The name of a slot's tensor. */
static void infer__slot_name(const infer__layer *l, const infer__tensor_slot *s, char name[96]) {
    const size_t n = INFER__HAS_VARIANTS && l && l->stack && strncmp(s->name, "blk.", 4) == 0
                         ? infer__format(name, 96, "%s.", l->stack)
                         : 0;
    infer__format(name + n, 96 - n, s->name, l ? (int)l->block : 0, l ? (int)l->sub : 0);
    if (n && !l->stack[1]) infer__stack_rename(name, 96); /* names of steps are the file's */
}

/* The tensor of a slot, NULL when absent. */
static infer__gguf_tensor *infer__slot_tensor(const infer_model *m, const infer__layer *l,
                                              const infer__tensor_slot *s) {
    infer__gguf_tensor *t;
    char name[96], *end;
    if (!l) return infer__gguf_tensor_find(&m->gguf, s->name);
    if (!s->name[0]) return NULL; /* a step that the stack has not */
    infer__slot_name(l, s, name);
    t = infer__gguf_tensor_find(&m->gguf, name);
    if (t || infer__stack_row_of(m)) return t;
    if (!INFER__HAS_VARIANTS && !INFER__HAS_EXPERTS) return NULL;
    if (l->stack && s == &INFER__LAYER_SLOT_TABLE[INFER__W_ATTN_OUT]) {
        memcpy(strstr(name, "attn_output"), "attn_o.weight", sizeof "attn_o.weight");
        return infer__gguf_tensor_find(&m->gguf, name);
    }
    if (l->stack && s == &INFER__LAYER_SLOT_TABLE[INFER__W_ATTN_NEAR]) { /* the first layer's is all layers' */
        infer__format(name, sizeof name, "%s.blk.0.attn_rel_b.weight", l->stack);
        return infer__gguf_tensor_find(&m->gguf, name);
    }
    end = strstr(name, "_norm.weight"); /* PLaMo 2 and 3 and Falcon-H1 name some norms without ".weight" */
    if (end && (strstr(name, ".post_") || strstr(name, ".ssm_") || strstr(name, ".ffn_norm.")))
        end[strlen("_norm")] = 0;
    else if (s == &INFER__LAYER_SLOT_TABLE[INFER__W_MOE_CHOICE_B])
        name[strlen(name) - strlen(".bias")] = 0; /* as some converters write it */
    else return NULL;
    return infer__gguf_tensor_find(&m->gguf, name);
}

/* The slot of a post-norm's bias, -1 = it has none. */
static int infer__post_bias(int post) {
    return post == INFER__W_ATTN_NORM || post == INFER__W_FFN_NORM ? post + 1 : -1;
}

/* 1 when a part of the layer reads the slot. The purpose of a norm's tensor depends on the parts around it. */
static int infer__slot_read(const infer__layer *l, int slot) {
    int32_t i;
    for (i = 0; i < l->n_parts; i++) {
        const infer__part *p = &l->parts[i];
        if (slot >= p->kind->slots && slot < p->kind->slots_end) return 1;
        if (slot >= p->kind->more && slot < p->kind->more_end) return 1;
        if ((p->reads == INFER__READS_NORM || p->reads == INFER__READS_BOTH) &&
            (slot == p->norm || slot == p->norm + 1))
            return 1;
        if (slot == p->post || slot == p->times || slot == infer__post_bias(p->post) ||
            (p->after >= 0 && (slot == p->after || slot == p->after + 1)))
            return 1;
    }
    return 0;
}

/* The table row of a layer's slot, NULL where the architecture has no such role: in some the tensor called
 * post_attention_norm is the norm before the FFN, in some attn_norm is when there is an attn_norm_2. */
static const infer__tensor_slot *infer__layer_slot(const infer_model *m, const infer__layer *l, int s) {
    static const infer__tensor_slot second[] = { /* in the order of ATTN_NORM, ATTN_NORM_B */
        { "blk.%d.attn_norm_2.weight", INFER__D_ONE, INFER__D_MODEL, 0 },
        { "blk.%d.attn_norm_2.bias", INFER__D_ONE, INFER__D_MODEL, 0 } };
    int scale = (s >= INFER__W_Q_SCALE && s <= INFER__W_OUT_SCALE) ||
                (s >= INFER__W_GATE_SCALE && s <= INFER__W_DOWN_SCALE);
    int low = (s >= INFER__W_SWITCH_Q_A && s <= INFER__W_SWITCH_OUT_B) ||
              (s >= INFER__W_SWITCH_GATE_A && s <= INFER__W_SWITCH_DOWN_B);
    if (!INFER__LAYER_SLOT_HERE(s)) return NULL;
    if (s >= INFER__W_STACK_IN_M0)
        return infer__stack_row_of(m) && infer__slot_read(l, s) ? infer__stack_slot(m, s) : NULL;
    if (scale && !(infer__arch_of(m)->flags & INFER__MATRIX_SCALES)) return NULL;
    if (low && !m->hp.switches.n) return NULL;
    if (s == INFER__W_ATTN_NEAR && !m->hp.n_buckets) return NULL;
    if (s == INFER__W_ENCODED_NORM && l->index != infer__n_enc(&m->hp) - 1) return NULL;
    if ((infer__arch_of(m)->flags & INFER__ATTN_NORM_2) && infer__slot_tensor(m, l, &second[0])) {
        if (s == INFER__W_ATTN_NORM || s == INFER__W_ATTN_NORM_B) return &second[s - INFER__W_ATTN_NORM];
        if (s == INFER__W_FFN_NORM || s == INFER__W_FFN_NORM_B) s += INFER__W_ATTN_NORM - INFER__W_FFN_NORM;
    }
    if ((infer__arch_of(m)->flags & INFER__FFN_NORM_2) && (s == INFER__W_FFN_NORM || s == INFER__W_FFN_NORM_B))
        return &second[s - INFER__W_FFN_NORM];
    if (infer__arch_of(m)->flags & INFER__POST_ATTN_IS_FFN) {
        if (s == INFER__W_ATTN_POST_NORM) return NULL;
        if (s == INFER__W_FFN_NORM) s = INFER__W_ATTN_POST_NORM;
    }
    return &INFER__LAYER_SLOT_TABLE[s];
}

/* And of a slot outside layers: in some the tensor called token_embd_norm is the norm before the head, some
    have none. */
static const infer__tensor_slot *infer__model_slot(const infer_model *m, int s) {
    static const infer__tensor_slot decoder = { "dec.output_norm.weight", INFER__D_ONE, INFER__D_MODEL, 0 };
    static const infer__tensor_slot encoder = { "enc.output_norm.weight", INFER__D_ONE, INFER__D_MODEL, 0 };
    if (!INFER__MODEL_SLOT_HERE(s)) return NULL;
    if (infer__stack_row_of(m)) return NULL; /* theirs are those of their first and last layers */
    if (m->hp.out_norm_off && (s == INFER__W_OUT_NORM || s == INFER__W_OUT_NORM_B)) return NULL;
    if (s >= INFER__W_CLS && s <= INFER__W_DENSE_3 && !infer__encoder(&m->hp) && m->hp.pooling != INFER_POOL_RANK)
        return NULL;
    if (s == INFER__W_OUT_NORM && (infer__arch_of(m)->flags & INFER__OUT_NORM_ENC)) return &encoder;
    if (s == INFER__W_OUT_NORM && infer__n_enc(&m->hp)) return &decoder;
    if (infer__arch_of(m)->flags & INFER__EMBD_NORM_IS_OUT) {
        if (s == INFER__W_EMBD_NORM || s == INFER__W_EMBD_NORM_B) return NULL;
        if (s == INFER__W_OUT_NORM) s = INFER__W_EMBD_NORM;
    }
    return &INFER__MODEL_SLOT_TABLE[s];
}

static infer_result infer__missing(const infer__layer *l, const infer__tensor_slot *slot, infer_error *err) {
    char name[96];
    infer__slot_name(l, slot, name);
    return infer__error(err, INFER_ERR_FORMAT, "missing tensor %s", name);
}

/* Check the shape of a slot's tensor and fill everything but its data. */
static infer_result infer__bind(infer_model *m, infer__layer *l, const infer__tensor_slot *s, infer__weight *w,
                                uint8_t *bound, infer_error *err) {
    infer__gguf_tensor *t = infer__slot_tensor(m, l, s);
    uint64_t rows = infer__dim(m, l, s->rows), cols = infer__dim(m, l, s->cols), n, head = l ? (uint64_t)l->dim_k : 0;
    int per_head = s->cols == INFER__D_HEADS_Q || s->cols == INFER__D_HEADS_K;
    int any_rows = s->rows == INFER__D_ANY, any_cols = s->cols == INFER__D_ANY || s->cols == INFER__D_KERNEL;
    if (!t) return s->need ? infer__missing(l, s, err) : INFER_OK;
    bound[t - m->gguf.tensors] = 1;
    n = t->rows * t->dims[0]; /* checked against the file by the format layer */
    w->rows = (int32_t)INFER__MIN(t->rows, INT32_MAX);
    w->cols = (int32_t)INFER__MIN(t->dims[0], INT32_MAX);
    if (s->cols == INFER__D_KERNEL && t->n_dims > 2) {
        if (t->type->values != 1)
            return infer__error(err, INFER_ERR_FORMAT, "tensor %s: a convolution stored as %s", t->name, t->type->name);
        w->rows = (int32_t)INFER__MIN(t->dims[t->n_dims - 1], INT32_MAX);
        w->cols = (int32_t)INFER__MIN(n / INFER__MAX(t->dims[t->n_dims - 1], 1), INT32_MAX);
    }
    if (s->rows == INFER__D_ONE) { /* a vector, whatever its dims; norms of heads may be shared by all heads */
        w->rows = 1;
        w->cols = (int32_t)INFER__MIN(n, INT32_MAX);
        if (per_head && n == head) cols = head; /* see infer__check_head_norm */
        if (s->cols == INFER__D_HEADS_Q && (infer__arch_of(m)->flags & INFER__Q_NORM_HEADS)) cols = (uint64_t)l->n_head;
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
    if (s->cols == INFER__D_KERNEL && t->n_dims > 2) w->row_bytes = (uint64_t)w->cols * (uint64_t)t->type->bytes;
    w->name = t->name;
    w->tensor = 1 + (int32_t)(t - m->gguf.tensors);
    return INFER_OK;
}

static int infer__layer_has(const infer_model *m, const infer__layer *l, int slot) {
    const infer__tensor_slot *s = infer__layer_slot(m, l, slot);
    return s && infer__slot_tensor(m, l, s) != NULL;
}

static infer_result infer__need(const infer__layer *l, int slot, infer_error *err) {
    return l->w[slot].type ? INFER_OK : infer__missing(l, &INFER__LAYER_SLOT_TABLE[slot], err);
}

static infer_result infer__no_use(const infer_model *m, const infer__layer *l, const char *name, infer_error *err) {
    return infer__error(err, INFER_ERR_UNSUPPORTED, "tensor %s: architecture \"%s\" has no use for it in layer %d",
                        name, infer__arch_of(m)->name, (int)l->index);
}

static infer_result infer__only_with(const infer_model *m, const infer__layer *l, int slot, int with,
                                     infer_error *err) {
    return !l->w[slot].type || l->w[with].type ? INFER_OK : infer__no_use(m, l, l->w[slot].name, err);
}

/* Check for required tensors that are missing, and for tensors that the layer's sublayers would not read. */
static infer_result infer__check_layer(const infer_model *m, infer__layer *l, infer_error *err) {
    infer_result r = INFER_OK;
    int32_t i;
    for (i = 0; i < l->n_parts && !r; i++) {
        const infer__part *p = &l->parts[i];
        if (p->reads == INFER__READS_NORM && !(infer__arch_of(m)->flags & INFER__NORM_BARE))
            r = infer__need(l, p->norm, err);
        if (!r && p->post >= 0) r = infer__need(l, p->post, err);
        if (!r && p->after >= 0) r = infer__need(l, p->after, err);
        if (!r && p->kind->check) r = p->kind->check(m, l, err);
    }
    return r ? r : infer__only_with(m, l, INFER__W_FFN_NORM_B, INFER__W_FFN_NORM, err);
}

/* 1 when a part of a row's list of tensors (NULL: none) occurs in a name, or the name is listed after a '='. */
static int infer__listed(const char *p, const char *name) {
    while (p && *p) {
        size_t n = strcspn(p, " ");
        char part[96];
        if (n < sizeof part) {
            memcpy(part, p, n);
            part[n] = 0;
            if (n && (part[0] == '=' ? strcmp(name, part + 1) == 0 : strstr(name, part) != NULL)) return 1;
        }
        p += n;
        p += strspn(p, " ");
    }
    return 0;
}

/* Q/K norms that count only as a pair, and are none. */
static int infer__lone_qk_norm(const infer_model *m, const infer__layer *l, int slot) {
    return slot >= INFER__W_ATTN_Q_NORM && slot <= INFER__W_ATTN_K_NORM_B &&
           (infer__arch_of(m)->flags & INFER__QK_NORM_PAIR) &&
           !(infer__layer_has(m, l, INFER__W_ATTN_Q_NORM) && infer__layer_has(m, l, INFER__W_ATTN_K_NORM));
}

/* K and V of a layer that reads those of another one: files may have them. llama.cpp does not add the bias of such a
 * layer's Q either; no published model has one. */
static int infer__unread_kv(const infer__layer *l, int slot) {
    return l->kv_from && ((slot >= INFER__W_ATTN_Q_B && slot <= INFER__W_ATTN_V_B) || slot == INFER__W_ATTN_K_NORM ||
                          slot == INFER__W_ATTN_K_NORM_B);
}

static infer_result infer__bind_layer(infer_model *m, infer__layer *l, uint8_t *bound, infer_error *err) {
    infer_result r = INFER_OK;
    int32_t s;
    for (s = 0; s < INFER__LAYER_SLOT_COUNT && !r; s++) {
        const infer__tensor_slot *slot = infer__layer_slot(m, l, s);
        infer__gguf_tensor *t = slot ? infer__slot_tensor(m, l, slot) : NULL;
        if (!slot) continue;
        if (infer__lone_qk_norm(m, l, s) || infer__unread_kv(l, s) ||
            (t && infer__listed(infer__arch_of(m)->drop, t->name))) {
            if (t) bound[t - m->gguf.tensors] = 1;
        } else if (infer__slot_read(l, s)) {
            r = infer__bind(m, l, slot, &l->w[s], bound, err);
        }
    }
    if (!r) r = infer__check_layer(m, l, err);
    for (s = 0; s < INFER__LAYER_SLOT_COUNT && !r; s++) {
        const infer__tensor_slot *slot = infer__layer_slot(m, l, s);
        infer__gguf_tensor *t = slot && !infer__slot_read(l, s) ? infer__slot_tensor(m, l, slot) : NULL;
        if (!t || bound[t - m->gguf.tensors]) continue; /* a kind that the layer has reads it as another slot */
        if (!infer__listed(infer__arch_of(m)->ignore, t->name)) r = infer__no_use(m, l, t->name, err);
    }
    return r;
}

/* 1 when a tensor belongs to a multi-token prediction block, after the layers. */
static int infer__beyond_layers(const infer_model *m, const char *name) {
    int32_t block = 0;
    if (infer__stack_row_of(m) && name[0] == m->layers[0].stack[0] && name[1] == '.') name += 2;
    if (strncmp(name, "blk.", 4) != 0) return 0;
    for (name += 4; *name >= '0' && *name <= '9' && block <= INFER__MAX_LAYERS; name++)
        block = 10 * block + (*name - '0');
    return *name == '.' && block >= m->hp.n_layer && block < m->hp.n_block;
}

static infer_result infer__weights_bind(infer_model *m, infer_error *err) {
    infer_result r = INFER_OK;
    int32_t i, s;
    uint8_t *bound = (uint8_t *)infer__calloc(&m->mem, (uint64_t)m->gguf.n_tensors + 1, 1);
    if (!bound) return infer__error(err, INFER_ERR_MEMORY, "no memory for %d tensors", (int)m->gguf.n_tensors);
    for (s = 0; s < INFER__MODEL_SLOT_COUNT && !r; s++) {
        const infer__tensor_slot *slot = infer__model_slot(m, s);
        infer__gguf_tensor *t = slot ? infer__slot_tensor(m, NULL, slot) : NULL;
        if (t && infer__listed(infer__arch_of(m)->drop, t->name)) bound[t - m->gguf.tensors] = 1;
        else if (slot) r = infer__bind(m, NULL, slot, &m->w[s], bound, err);
    }
    for (i = 0; i < infer__n_all(&m->hp) && !r; i++) r = infer__bind_layer(m, &m->layers[i], bound, err);
    if (!r && !m->w[INFER__W_OUT_NORM].type && !(infer__arch_of(m)->flags & INFER__NORM_BARE) && !m->hp.out_norm_off)
        r = infer__error(err, INFER_ERR_FORMAT, "missing tensor %s", infer__model_slot(m, INFER__W_OUT_NORM)->name);
    if (INFER__HAS_VARIANTS && !r && m->w[INFER__W_EMBD_NORM_B].type && !m->w[INFER__W_EMBD_NORM].type)
        r = infer__error(err, INFER_ERR_FORMAT, "missing tensor token_embd_norm.weight: there is a bias for it");
    if (!r) r = infer__rope_check(m, err);
    for (i = 0; i < m->gguf.n_tensors && !r; i++)
        if (!bound[i] && !infer__listed(infer__arch_of(m)->ignore, m->gguf.tensors[i].name) &&
            !infer__beyond_layers(m, m->gguf.tensors[i].name) &&
            !(infer__stack_row_of(m) && (infer__stack_other(m, m->gguf.tensors[i].name) ||
                                         infer__stack_range(m, m->gguf.tensors[i].name)))) {
            if (m->params.allow_unknown)
                infer__log(&m->report, 2, "tensor %s: ignored, the model may compute something else",
                           m->gguf.tensors[i].name);
            else
                r = infer__error(err, INFER_ERR_UNSUPPORTED, "tensor %s: architecture \"%s\" has no use for it here",
                                 m->gguf.tensors[i].name, infer__arch_of(m)->name);
        }
    infer__free(&m->mem, bound);
    return r;
}

static infer__weight infer__slice_rows(const infer__weight *w, int64_t first, int32_t n) {
    infer__weight s = *w;
    if (INFER__HAS_RANGES && w->each) return infer__cut_slice(w, (int32_t)first, n);
    s.rows = n;
    s.first += (int32_t)first;
    if (w->data) s.data = (const char *)w->data + first * (int64_t)w->row_bytes; /* NULL: only sizes are asked for */
    if (w->buf) s.offset += (uint64_t)first * w->row_bytes;
    return s;
}

static infer__weight infer__slice(const infer__weight *w, int64_t first, int32_t n) {
    infer__weight s = *w;
    if (w->rows != 1 || w->type->values != 1) return infer__slice_rows(w, first, n);
    s.cols = n;
    s.row_bytes = (uint64_t)n * (uint64_t)w->type->bytes;
    if (w->data) s.data = (const char *)w->data + first * w->type->bytes;
    if (w->buf) s.offset += (uint64_t)first * sizeof(float); /* where vectors are float32 */
    return s;
}

static float infer__slot_float(const infer__layer *l, int slot, float absent) {
    if (l->w[slot].type && l->w[slot].data) l->w[slot].type->decode(l->w[slot].data, &absent, 1);
    return absent;
}

/* Split fused tensors into views, so that a pass sees only the parts. */
static infer_result infer__split_fused(infer_model *m, infer__layer *l, infer_error *err) {
    infer_result r = INFER_OK;
    int32_t i;
    if (INFER__HAS_MEDIA && m->stack.ranged) r = infer__stack_ranges(m, l, err);
    for (i = 0; i < l->n_parts && !r; i++) {
        if (l->parts[i].kind->split) r = l->parts[i].kind->split(m, l, err);
        if (!r && l->parts[i].times >= 0) r = infer__weight_inverse(m, &l->w[l->parts[i].times], err);
    }
    return r;
}

static infer_result infer__load_slot(infer_model *m, const infer__layer *l, const infer__tensor_slot *s,
                                     infer__weight *w, infer__load *x, infer__budget *budget, infer_error *err) {
    infer__gguf_tensor *t = m->sizes_only ? NULL : infer__slot_tensor(m, l, s);
    infer_result r = t ? infer__gguf_load_some(&m->gguf, t, &x->done, budget, err) : INFER_OK;
    if (t && !r) {
        w->data = t->data;
        if (INFER__HAS_RANGES) infer__cut_loaded(t, w);
    }
    return r;
}

static int32_t infer__load_steps(const infer_model *m) {
    return m->hp.n_layer + m->device_layers + (m->params.preload ? m->hp.n_layer : 0);
}

static infer_result infer__load_progress(infer_model *m, double done, infer_error *err) {
    const int32_t all = infer__load_steps(m);
    if (m->sizes_only || !m->params.progress) return INFER_OK;
    if (!m->params.progress(m->params.progress_user, (float)(done / (double)all))) return INFER_OK;
    return infer__error(err, INFER_CANCELLED, "cancelled while %s layer %d of %d",
                        done < m->hp.n_layer                       ? "loading"
                        : done < m->hp.n_layer + m->device_layers ? "uploading"
                                                                  : "reading",
                        (int)((int32_t)done % m->hp.n_layer),
                        (int)m->hp.n_layer);
}

/* Ids without logits are masked by the head's bias, on every backend. */
static infer_result infer__mute(infer_model *m, infer_error *err) {
    infer__weight *b = &m->w[INFER__W_OUTPUT_B];
    const char *removed;
    float *x;
    int32_t i;
    if (!INFER__HAS_VARIANTS || !m->hp.mute[1]) return INFER_OK;
    if (b->type)
        return infer__error(err, INFER_ERR_UNSUPPORTED, "tensor %s: architecture \"%s\" has no use for it", b->name,
                            infer__arch_of(m)->name);
    x = (float *)infer__arena_alloc(&m->arena, (uint64_t)m->hp.n_vocab * sizeof *x);
    if (!x) return infer__error(err, INFER_ERR_MEMORY, "no memory for %d logits", (int)m->hp.n_vocab);
    for (i = 0; i < m->hp.n_vocab; i++) x[i] = i >= m->hp.mute[0] && i < m->hp.mute[1] ? -FLT_MAX : 0.0f;
    b->type = infer__quant_find(0, &removed); /* F32 */
    b->data = m->sizes_only ? NULL : x;
    b->rows = 1;
    b->cols = m->hp.n_vocab;
    b->row_bytes = (uint64_t)m->hp.n_vocab * sizeof *x;
    b->name = "ids without logits";
    return INFER_OK;
}

/* The slots of a layer from x->slot on. */
static infer_result infer__load_layer(infer_model *m, int32_t i, infer__load *x, infer__budget *budget,
                                      infer_error *err) {
    infer__layer *l = &m->layers[i];
    infer_result r;
    if (x->slot == 0 && x->done == 0 &&
        (r = infer__load_progress(m, INFER__MIN(i, m->hp.n_layer - 1), err)) != INFER_OK)
        return r;
    for (; x->slot < INFER__LAYER_SLOT_COUNT; x->slot++) {
        infer__weight *w = &l->w[x->slot];
        uint64_t bytes = w->row_bytes * (uint64_t)infer__weight_held(w);
        if (!w->type) continue;
        r = infer__load_slot(m, l, infer__layer_slot(m, l, x->slot), w, x, budget, err);
        if (r) return r;
        if (INFER__HAS_EXPERTS && x->slot >= INFER__W_MOE_GATE &&
            x->slot <= INFER__W_MOE_DOWN) /* of experts only those that are used */
            bytes = bytes / (uint64_t)m->hp.n_expert * (uint64_t)m->hp.n_used;
        if (i < m->hp.n_layer) m->token_bytes += bytes;
    }
    return infer__here(m, i) ? infer__split_fused(m, l, err) : INFER_OK;
}

static infer_result infer__weights_load(infer_model *m, infer__load *x, infer__budget *budget, infer_error *err) {
    infer_result r;
    int32_t s;
    for (; x->group == 0 && x->slot < INFER__MODEL_SLOT_COUNT; x->slot++) {
        infer__weight *w = &m->w[x->slot];
        if (w->type && (r = infer__load_slot(m, NULL, infer__model_slot(m, x->slot), w, x, budget, err)) != INFER_OK)
            return r;
    }
    if (x->group == 0) {
        x->group = 1;
        x->slot = 0;
    }
    while (x->group <= infer__n_all(&m->hp)) {
        if ((r = infer__load_layer(m, x->group - 1, x, budget, err)) != INFER_OK) return r;
        x->group++;
        x->slot = 0;
        if (infer__budget_over(budget, 4 * INFER__LAYER_SLOT_COUNT)) return INFER_MORE;
    }
    if ((r = infer__mute(m, err)) != INFER_OK) return r;
    if (!m->w[INFER__W_OUTPUT].type && !infer__encoder(&m->hp)) m->w[INFER__W_OUTPUT] = m->w[INFER__W_TOKEN_EMBD];
    if (INFER__HAS_RANGES) infer__parts_head_tied(m);
    m->token_bytes += m->w[INFER__W_OUTPUT].row_bytes * (uint64_t)infer__weight_held(&m->w[INFER__W_OUTPUT]);
    for (s = INFER__W_PER_LAYER_PROJ; s <= INFER__W_ALTUP_UNEMBD; s++)
        m->token_bytes += m->w[s].row_bytes * (uint64_t)m->w[s].rows;
    return INFER_OK;
}

/* ---- which weights these are ------------------------------------------------------------------------------------ */

/* Tensors of the same names and shapes may come from different training, so hash some of their bytes, too. */
static infer_result infer__weights_sample(infer_model *m, infer_error *err) {
    enum { SAMPLES = 16, BYTES = 64 };
    uint8_t bytes[BYTES];
    infer_result r = INFER_OK;
    const int32_t n = m->gguf.n_tensors;
    int32_t i, k;
    if (!INFER__HAS_SAVE && !INFER__HAS_RANGES && !INFER__HAS_ADAPTERS) return INFER_OK; /* nothing is compared */
    m->weights_print = INFER__FNV;
    for (i = 0; i < n; i++) {
        const infer__gguf_tensor *t = &m->gguf.tensors[i];
        m->weights_print = infer__fnv(m->weights_print, t->name, strlen(t->name));
        m->weights_print = infer__fnv(m->weights_print, &t->bytes, sizeof t->bytes);
    }
    for (k = 0; k < SAMPLES && n > 0 && !r; k++) {
        const infer__gguf_tensor *t = &m->gguf.tensors[(int64_t)k * (n - 1) / (SAMPLES - 1)];
        const uint64_t some = INFER__MIN(t->bytes, (uint64_t)BYTES);
        r = infer__source_read(&m->gguf.sources[t->shard], t->offset + (t->bytes - some) / 2, bytes, some, err);
        if (!r) m->weights_print = infer__fnv(m->weights_print, bytes, some);
    }
    return r;
}

/* ---- before they are needed ------------------------------------------------------------------------------------- */

/* A byte of every page from x->done on: they are read from the file, and mapped. */
static infer_result infer__weight_touch(infer_model *m, const infer__weight *w, infer__load *x, infer__budget *budget,
                                        infer_error *err) {
    const uint64_t all = w->row_bytes * (uint64_t)infer__weight_held(w);
    const uint64_t run = w->each ? w->row_bytes * (uint64_t)w->held : all, step = w->row_bytes * (uint64_t)w->step;
    const uint8_t *p = (const uint8_t *)w->data;
    uint8_t sum = 0;
    while (p && w->type && x->done < all) {
        const uint64_t n = infer__budget_bytes(budget, INFER__MIN(all - x->done, run - x->done % run));
        const uint64_t end = x->done + n, skipped = x->done / run * (step - run); /* of each expert's */
        const infer_result r = infer__gguf_whole(&m->gguf, err);
        if (r) return r;
        for (; x->done < end; x->done += 4096)
            sum = (uint8_t)(sum + *(const volatile uint8_t *)(p + (w->each ? skipped : 0) + x->done));
        x->done = end;
        if (infer__budget_over(budget, n / INFER__BUDGET_BYTES) && end < all) return INFER_MORE;
    }
    x->done = 0;
    return INFER_OK;
}

/* preload 2: lock the files' pages in memory; x->group is the file. */
static infer_result infer__preload_lock(infer_model *m, infer__load *x, infer__budget *budget, infer_error *err) {
    for (; x->group < m->gguf.n_sources; x->group++, x->done = 0) {
        const infer__file *f = &m->gguf.sources[x->group].file;
        if (!f->map) return infer__error(err, INFER_ERR_UNSUPPORTED, "preload 2: the file is not mapped");
        while (x->done < f->size) {
            const uint64_t n = infer__budget_bytes(budget, f->size - x->done);
            if (!infer__file_lock(f, x->done, n))
                return infer__error(err, INFER_ERR_MEMORY,
                                    "preload 2: the system does not lock %llu bytes in memory (its limit: ulimit -l)",
                                    (unsigned long long)f->size);
            x->done += n;
            if (infer__budget_over(budget, n / INFER__BUDGET_BYTES)) return INFER_MORE;
        }
    }
    return INFER_OK;
}

static infer_result infer__preload_some(infer_model *m, infer__load *x, infer__budget *budget, infer_error *err) {
    const int32_t before = m->hp.n_layer + m->device_layers, all = infer__n_all(&m->hp);
    infer_result r;
    if (!x->locked && m->params.preload == 2 && (r = infer__preload_lock(m, x, budget, err)) != INFER_OK) return r;
    if (!x->locked) {
        memset(x, 0, sizeof *x);
        x->locked = 1;
    }
    for (; x->group <= all; x->group++, x->slot = 0) { /* the last group is the model's own weights */
        const infer__layer *l = x->group < all ? &m->layers[x->group] : NULL;
        const int32_t n = !l ? INFER__MODEL_SLOT_COUNT : l->place == INFER__ON_CPU ? INFER__LAYER_SLOT_COUNT : 0;
        if (l && x->slot == 0 && x->done == 0) {
            r = infer__load_progress(m, before + INFER__MIN(x->group, m->hp.n_layer - 1), err);
            if (!r) r = infer__gguf_whole(&m->gguf, err);
            if (r) return r;
        }
        for (; x->slot < n; x->slot++)
            if ((r = infer__weight_touch(m, l ? &l->w[x->slot] : &m->w[x->slot], x, budget, err)) != INFER_OK) return r;
        if (infer__budget_over(budget, INFER__LAYER_SLOT_COUNT)) {
            x->group++;
            x->slot = 0;
            return INFER_MORE;
        }
    }
    return INFER_OK;
}

static infer_result infer__preload(infer_model *m, infer_error *err) {
    infer__load x;
    memset(&x, 0, sizeof x);
    return infer__preload_some(m, &x, NULL, err);
}
