/* compressed.c: attention over a window and over compressed keys (DeepSeek V4).
 *
 * All heads read one row per position, which is key and value, and whose last values are rotated:
 *     q = norm(norm(x Wqa) Wqb) of each head;  kv = norm(x Wkv);  score = rotate(q) rotate(kv)
 * A row attends to the positions of a window. In most layers it also attends to compressed entries, each made from the
 * rows of several positions (infer__compress_args), once all of these are up to its own: entries of 4 positions, which
 * overlap, as chosen by an indexer with its own entries, or all entries of 128. One softmax covers both, with a sink.
 * The heads' results are rotated back, and the output projection is a low-rank matrix per group of heads followed by
 * one for all of them. The inputs of an entry are cached by position, as float32, so rewinds, forks and saves need no
 * special handling of unfinished entries.
 * Source: llama.cpp's computation, as in the recordings.
 */
#include "../model.h"

enum { INFER__COMPRESS_FEW = 4, INFER__COMPRESS_MANY = 128 };

/* ---- opening ----------------------------------------------------------------------------------------------------- */

/* Converters write nextn_predict_layers even without a prediction block: then all blocks are layers. */
static void infer__deepseek4_keys(infer__keys *k, infer__hparams *hp) {
    char name[64];
    infer__format(name, sizeof name, "blk.%d.nextn.eh_proj.weight", (int)hp->n_layer);
    if (!infer__gguf_tensor_find(k->g, name)) hp->n_layer = hp->n_block;
    hp->n_by_id = infer__key_int(k, "hash_layer_count", 0, INFER__MAX_LAYERS, 0, 0);
    infer__hyper_mixed_keys(k, hp);
}

/* The positions of an entry: a number for each layer, and for blocks after them. */
static int32_t infer__compress_every(infer__keys *k, int32_t layer) {
    static const char NAME[] = "attention.compress_ratios";
    const infer__kv *kv = infer__gguf_find(k->g, infer__key_name(k, NAME));
    double v;
    if (!kv || kv->type != INFER__GGUF_ARRAY || !infer__kv_is_numbers(kv) || kv->n < (uint64_t)k->m->hp.n_layer) {
        infer__key_misfit(k, NAME, kv ? "not an array of a number for each layer" : "missing");
        return 0;
    }
    v = infer__kv_number(kv, (uint64_t)layer);
    if (v != 0 && v != INFER__COMPRESS_FEW && v != INFER__COMPRESS_MANY)
        infer__key_unsupported(k, NAME, "only 0, 4 and 128");
    return v == INFER__COMPRESS_FEW ? INFER__COMPRESS_FEW : v == INFER__COMPRESS_MANY ? INFER__COMPRESS_MANY : 0;
}

static void infer__compressed_indexer(infer__keys *k, infer__layer *l) {
    const int here = l->compress.every == INFER__COMPRESS_FEW;
    const int32_t heads = infer__key_int(k, "attention.indexer.head_count", 1, 1 << 16, 0, here);
    const int32_t dim = infer__key_int(k, "attention.indexer.key_length", 1, INFER__MAX_HEAD_DIM, 0, here);
    const int32_t top = infer__key_int(k, "attention.indexer.top_k", 1, 1 << 24, 0, here);
    infer__indexer *x = &l->index_of;
    if (k->failed || !here) return;
    if (dim < l->n_rot) infer__key_misfit(k, "attention.indexer.key_length", "less than what is rotated");
    if ((int64_t)heads * dim > INFER__MAX_DIM)
        infer__key_misfit(k, "attention.indexer.head_count", "too many heads of this key_length");
    x->heads = heads;
    x->dim = dim;
    x->top = top;
    x->block = x->latent = x->last = 1;
    x->rope = infer__arch_of(k->m)->index;
}

static void infer__compressed_keys(infer__keys *k, infer__layer *l) {
    const infer__hparams *hp = &k->m->hp;
    infer__compress *p = &l->compress;
    float base = infer__key_float(k, "attention.compress_rope_freq_base");
    int32_t dim_v;
    l->latent_q_rank = infer__key_int(k, "attention.q_lora_rank", 1, INFER__MAX_DIM, 0, 1);
    l->dim_k = infer__key_int(k, "attention.key_length", 1, INFER__MAX_HEAD_DIM, 0, 1);
    dim_v = infer__key_int(k, "attention.value_length", 1, INFER__MAX_HEAD_DIM, l->dim_k, 0);
    l->n_rot = infer__key_int(k, "rope.dimension_count", 2, INFER__MAX_HEAD_DIM, 0, 1);
    l->window = infer__mix_attention_window(k, l->index);
    p->groups = infer__key_int(k, "attention.output_group_count", 1, 1 << 16, 0, 1);
    p->rank = infer__key_int(k, "attention.output_lora_rank", 1, INFER__MAX_DIM, 0, 1);
    if (k->failed) return;
    p->every = infer__compress_every(k, l->index);
    p->overlap = p->every == INFER__COMPRESS_FEW;
    l->dim_v = l->dim_k;
    if (hp->window == 0) infer__key_misfit(k, "attention.sliding_window", "missing, or 0");
    if (l->window == 0)
        infer__key_unsupported(k, "attention.sliding_window_pattern", "layers without a window are not there");
    if (dim_v != l->dim_k) infer__key_misfit(k, "attention.value_length", "not attention.key_length");
    if (l->n_head_kv != 1) infer__key_misfit(k, "attention.head_count_kv", "not 1");
    if (l->n_rot % 2 || l->n_rot > l->dim_k)
        infer__key_misfit(k, "rope.dimension_count", "odd, or more than attention.key_length");
    if (l->n_head % p->groups) infer__key_misfit(k, "attention.output_group_count", "does not divide the heads");
    if ((int64_t)l->n_head * l->dim_k > INFER__MAX_DIM)
        infer__key_misfit(k, "attention.head_count", "too many heads of this key_length");
    if ((int64_t)p->groups * p->rank > INFER__MAX_DIM)
        infer__key_misfit(k, "attention.output_lora_rank", "too many for output_group_count");
    if (!(base > 1)) infer__key_misfit(k, "attention.compress_rope_freq_base", "missing, or not above 1");
    if (hp->clamp_kqv != 0) infer__key_unsupported(k, "attention.clamp_kqv", "not with compressed attention");
    infer__compressed_indexer(k, l);
    l->rope_kind = infer__key_layer(k, "attention.rope_pattern", l->index, 0, 1, 1) ? infer__arch_of(k->m)->rope
                                                                                    : INFER__ROPE_NONE;
    l->rope_base = p->every ? base : hp->rope_base_window;
    l->rope_scaled = p->every != 0;
    l->attn_scale = hp->attn_scale != 0 ? hp->attn_scale : 1.0f / sqrtf((float)l->dim_k);
}

static infer_result infer__compressed_check(const infer_model *m, infer__layer *l, infer_error *err) {
    infer_result r = INFER_OK;
    int32_t i;
    for (i = INFER__W_COMPRESS_KV; i <= INFER__W_COMPRESS_INDEX_NORM && !r; i++) {
        if (i < INFER__W_COMPRESS_INDEX_KV ? l->compress.every : l->index_of.heads) r = infer__need(l, i, err);
        else if (l->w[i].type) r = infer__no_use(m, l, l->w[i].name, err);
    }
    for (i = INFER__W_INDEX_Q_B; i <= INFER__W_INDEX_WEIGHTS && !r; i++) {
        if (l->index_of.heads && (i == INFER__W_INDEX_Q_B || i == INFER__W_INDEX_WEIGHTS)) r = infer__need(l, i, err);
        else if (l->w[i].type) r = infer__no_use(m, l, l->w[i].name, err);
    }
    return r;
}

/* Floats that the layer keeps of a position for entries, its own and the indexer's. */
static int32_t infer__compress_width(const infer__layer *l) {
    return l->compress.every ? 2 * infer__compress_values(l, l->dim_k + l->index_of.dim) : 0;
}

/* Floats a row: the query before its second matrix, the query, the key; the heads' results; the groups' results; the
 * parts of entries; the indexer's queries and weights. */
static int64_t infer__compressed_cols(const infer_model *m, const infer__layer *l) {
    (void)m;
    return (int64_t)l->latent_q_rank + 2 * (int64_t)l->n_head * l->dim_k + l->dim_k +
           (int64_t)l->compress.groups * l->compress.rank + infer__compress_width(l) +
           (int64_t)l->index_of.heads * (l->index_of.dim + 1);
}

static void infer__compressed_state(infer_model *m, infer__layer *l, infer__part *p) {
    const int32_t every = l->compress.every;
    p->state[0] = infer__state_add(m, l, INFER__STATE_KEYS, INFER__GROUP_WINDOW, 1, l->dim_k);
    if (!every) return;
    p->state[1] = infer__state_add(m, l, INFER__STATE_ROWS, INFER__GROUP_WINDOW, 1, infer__compress_width(l));
    p->state[2] = infer__state_add(m, l, INFER__STATE_VALUES, INFER__GROUP_FULL, 1, l->dim_k);
    m->states[p->state[2]].every = every;
    if (!l->index_of.heads) return;
    p->state[3] = infer__state_add(m, l, INFER__STATE_VALUES, INFER__GROUP_FULL, 1, l->index_of.dim);
    m->states[p->state[3]].every = every;
}

static void infer__compressed_needs(const infer_model *m, const infer__layer *l, infer__needs *n) {
    const int64_t ranks = (int64_t)l->compress.groups * l->compress.rank;
    (void)m;
    infer__need_attention(n, l->n_head, l->dim_k, l->dim_k);
    infer__need_cols(n, INFER__MAX(INFER__MAX(l->latent_q_rank, l->n_head * l->dim_k), (int32_t)ranks));
    if (l->compress.every) n->index_sets = INFER__MAX(n->index_sets, 1);
    if (l->index_of.heads) infer__need_attention(n, l->index_of.heads, l->index_of.dim, l->index_of.dim);
}

static const char *infer__compressed_lacks(const infer__ops *ops, const infer__layer *l) {
    infer__attention_args a;
    infer__compress_args entries;
    memset(&a, 0, sizeof a);
    memset(&entries, 0, sizeof entries);
    a.dim_k = a.dim_v = entries.dim = l->dim_k;
    if (!ops->supports(INFER__OP_ATTENTION, &a)) return "compressed attention";
    entries.place = &l->w[INFER__W_COMPRESS_KV + 2];
    if (l->compress.every && !ops->supports(INFER__OP_COMPRESS, &entries)) return "compressed keys";
    entries.dim = l->index_of.dim;
    entries.place = &l->w[INFER__W_COMPRESS_INDEX_KV + 2];
    if (l->index_of.heads && !ops->supports(INFER__OP_COMPRESS, &entries)) return "compressed keys";
    return infer__indexer_lacks(ops, l);
}

/* ---- a pass ------------------------------------------------------------------------------------------------------ */

/* The last values of heads; back: the other way. */
static void infer__compressed_rotate(infer_context *c, const infer__layer *l, const infer__tensor *t, int32_t n_head,
                                     int back) {
    infer__rope_args a;
    infer__tensor part = infer__columns(t, l->dim_k - l->n_rot, n_head * l->dim_k);
    if (!infer__rope_of(c, l, &part, n_head, &a)) return; /* the last head has only its rotated part */
    a.back = back;
    infer__ops_of(&c->ctx)->rope(&c->ctx, &a);
}

/* Entries, of this layer or its indexer: slots from `slot` on; first: of what rows hold. */
static void infer__compressed_entries(infer_context *c, const infer__layer *l, const infer__sublayer *s, int slot,
                                      int32_t state, int32_t first, int32_t dim) {
    infer__compress_args a;
    memset(&a, 0, sizeof a);
    a.rows = &c->cache.bufs[s->part->state[1]];
    a.entries = &c->cache.bufs[state];
    a.rows_group = INFER__GROUP_WINDOW;
    a.group = INFER__GROUP_FULL;
    a.n_rows = s->x.rows;
    a.width = infer__compress_width(l);
    a.first = first;
    a.dim = dim;
    a.every = l->compress.every;
    a.overlap = l->compress.overlap;
    a.place = &l->w[slot + 2];
    a.norm = &l->w[slot + 3];
    a.eps = c->model->hp.eps;
    infer__rope_of(c, l, &s->x, 1, &a.rope);
    infer__ops_of(&c->ctx)->compress(&c->ctx, &a);
}

/* rows: the values kept of each position for entries; and the entries that end in this pass. */
static void infer__compressed_keep(infer_context *c, const infer__layer *l, const infer__sublayer *s,
                                   const infer__tensor *rows) {
    const int32_t each = infer__compress_values(l, l->dim_k), index = infer__compress_values(l, l->index_of.dim);
    infer__rows_store_args store;
    infer__tensor t;
    int32_t i;
    for (i = 0; i < 4 && (i < 2 || index); i++) {
        t = infer__columns(rows, i < 2 ? i * each : 2 * each + (i - 2) * index, i < 2 ? each : index);
        infer__product(c, &s->x, &l->w[i < 2 ? INFER__W_COMPRESS_KV + i : INFER__W_COMPRESS_INDEX_KV + i - 2], NULL,
                       &t);
    }
    infer__trace(c, l->index, "compress", rows);
    store.x = *rows;
    store.rows = &c->cache.bufs[s->part->state[1]];
    store.group = INFER__GROUP_WINDOW;
    infer__ops_of(&c->ctx)->rows_store(&c->ctx, &store);
    infer__compressed_entries(c, l, s, INFER__W_COMPRESS_KV, s->part->state[2], 0, l->dim_k);
    if (index)
        infer__compressed_entries(c, l, s, INFER__W_COMPRESS_INDEX_KV, s->part->state[3], 2 * each, l->index_of.dim);
}

/* Lists of what rows read: entries, which the indexer has chosen, and then the window's positions. low: queries before
 * their second matrix; q: room for the indexer's queries and weights. */
static void infer__compressed_lists(infer_context *c, const infer__layer *l, const infer__sublayer *s,
                                    const infer__tensor *low, const infer__tensor *q, const infer__tensor *weights,
                                    infer__attention_args *att) {
    const infer__indexer *x = &l->index_of;
    const infer__pass *p = &c->ctx.pass;
    const int32_t every = l->compress.every;
    int32_t r, some = 0;
    infer__index_args a;
    memset(&a, 0, sizeof a);
    att->chosen = a.y = infer__pass_kept(c, s->x.rows, c->model->hp.pass_kept, s->x.rows,
                                         (int32_t)infer__indexer_list(l, c->plan.cells));
    att->chosen_sets = 1;
    att->more = &c->cache.bufs[s->part->state[2]];
    att->more_every = every;
    att->more_group = INFER__GROUP_FULL;
    a.block = 1;
    a.every = every;
    a.gives = INFER__INDEX_ENTRIES;
    a.window = l->window;
    for (r = 0; r < s->x.rows; r++) some |= infer__indexer_chooses(l, p->pos[r]);
    if (some) {
        infer__product(c, low, &l->w[INFER__W_INDEX_Q_B], NULL, q);
        infer__product(c, &s->x, &l->w[INFER__W_INDEX_WEIGHTS], NULL, weights);
        infer__indexer_rotate(c, l, q, x->heads);
        infer__trace(c, l->index, "index_q", q);
        a.q = *q;
        a.w = *weights;
        a.k_cache = &c->cache.bufs[s->part->state[3]];
        a.group = INFER__GROUP_FULL;
        a.heads = x->heads;
        a.dim = x->dim;
        a.top = x->top;
    }
    infer__ops_of(&c->ctx)->index(&c->ctx, &a);
}

/* y = W x of each group of heads. */
static void infer__compressed_groups(infer_context *c, const infer__layer *l, const infer__tensor *x,
                                     const infer__tensor *y) {
    const infer__weight *w = &l->w[INFER__W_COMPRESSED_OUT_A];
    const int32_t rank = l->compress.rank;
    int32_t g;
    for (g = 0; g < l->compress.groups; g++) {
        infer__weight one = infer__slice_rows(w, (int64_t)g * rank, rank);
        infer__tensor from = infer__columns(x, g * w->cols, w->cols), to = infer__columns(y, g * rank, rank);
        infer__product(c, &from, &one, NULL, &to);
    }
}

static void infer__mix_compressed(infer_context *c, const infer__layer *l, infer__sublayer *s) {
    enum { LOW, Q, KV, Y, GROUPS, ROWS, INDEX_Q, INDEX_W, AREAS };
    const infer__weight *w = l->w;
    const int32_t heads = l->n_head, dim = l->dim_k;
    int32_t cols[AREAS], i;
    infer__tensor t[AREAS];
    uint64_t at = 0;
    infer__norm_args norm;
    infer__kv_store_args store;
    infer__attention_args att;
    cols[LOW] = l->latent_q_rank;
    cols[Q] = cols[Y] = heads * dim;
    cols[KV] = dim;
    cols[GROUPS] = l->compress.groups * l->compress.rank;
    cols[ROWS] = infer__compress_width(l);
    cols[INDEX_Q] = l->index_of.heads * l->index_of.dim;
    cols[INDEX_W] = l->index_of.heads;
    for (i = 0; i < AREAS; i++) {
        t[i] = infer__view(&c->at->work, at, s->x.rows, cols[i]);
        at += (uint64_t)s->x.rows * (uint64_t)cols[i];
    }
    infer__sublayer_norm(c, s);
    infer__product(c, &s->x, &w[INFER__W_COMPRESSED_Q_A], NULL, &t[LOW]);
    infer__product(c, &s->x, &w[INFER__W_COMPRESSED_KV], NULL, &t[KV]);
    infer__sub_norm(c, l, INFER__W_COMPRESSED_Q_A_NORM, &t[LOW]);
    infer__sub_norm(c, l, INFER__W_COMPRESSED_KV_NORM, &t[KV]);
    infer__product(c, &t[LOW], &w[INFER__W_COMPRESSED_Q_B], NULL, &t[Q]);
    memset(&norm, 0, sizeof norm);
    norm.x = norm.y = t[Q];
    norm.kind = c->model->hp.norm;
    norm.n_groups = heads;
    norm.eps = c->model->hp.eps;
    infer__ops_of(&c->ctx)->norm(&c->ctx, &norm);
    infer__compressed_rotate(c, l, &t[Q], heads, 0);
    infer__compressed_rotate(c, l, &t[KV], 1, 0);
    infer__trace(c, l->index, "q", &t[Q]);
    infer__trace(c, l->index, "k", &t[KV]);

    memset(&store, 0, sizeof store);
    store.k = t[KV];
    store.k_cache = &c->cache.bufs[s->part->state[0]];
    store.group = INFER__GROUP_WINDOW;
    store.n_head = 1;
    store.dim_k = dim;
    infer__kv_store(&c->ctx, &store);

    memset(&att, 0, sizeof att);
    att.q = t[Q];
    att.y = t[Y];
    att.k_cache = att.v_cache = store.k_cache;
    att.group = store.group;
    att.n_head = heads;
    att.n_head_kv = 1;
    att.dim_k = att.dim_v = dim;
    att.sinks = &w[INFER__W_COMPRESSED_SINKS];
    att.scale = l->attn_scale;
    if (l->compress.every) {
        infer__compressed_keep(c, l, s, &t[ROWS]);
        infer__compressed_lists(c, l, s, &t[LOW], &t[INDEX_Q], &t[INDEX_W], &att);
    } else att.window = l->window;
    infer__ops_of(&c->ctx)->attention(&c->ctx, &att);
    infer__compressed_rotate(c, l, &t[Y], heads, 1);
    infer__trace(c, l->index, "attn", &t[Y]);
    infer__compressed_groups(c, l, &t[Y], &t[GROUPS]);
    infer__last_product(c, &t[GROUPS], &w[INFER__W_COMPRESSED_OUT_B], NULL, 1, s);
}

/* ---- as text ----------------------------------------------------------------------------------------------------- */

static void infer__compressed_describe(infer__text_out *o, const infer_model *m, const infer__layer *l,
                                       const char *in) {
    const char *norm = infer__norm_name(m);
    const infer__compress *p = &l->compress;
    infer__text_add(o, "    q = %s(%s(%s Wqa) Wqb)  # %d heads of %d\n", norm, norm, in, (int)l->n_head,
                    (int)l->dim_k);
    infer__text_add(o, "    k = %s(%s Wkv)  # key and value\n", norm, in);
    if (l->rope)
        infer__text_add(o, "    q, k = rotate(q, k)  # last %d of %d, pairs, base %g%s\n", (int)l->n_rot, (int)l->dim_k,
                        l->rope_base, l->rope_scaled && m->hp.rope_scaling ? ", scaled" : "");
    if (p->every)
        infer__text_add(o,
                        "    e = rotate(%s(sum over %d positions: softmax(%s Wcg + place) * %s Wc))  # an entry for "
                        "every %d\n",
                        norm, (int)infer__compress_reach(l), in, in, (int)p->every);
    if (l->index_of.heads)
        infer__text_add(o,
                        "    entries: the %d with the largest sum of (%s Wiw) max(qi ei, 0)  # %d heads of %d, entries "
                        "of their own\n",
                        (int)l->index_of.top, in, (int)l->index_of.heads, (int)l->index_of.dim);
    infer__text_add(o, "    a = softmax(q (k%s) * %g) (k%s)  # of the last %d positions, a sink beside them\n",
                    p->every ? ", e" : "", l->attn_scale, p->every ? ", e" : "", (int)l->window);
    infer__text_add(o, "    a = rotate back(a) Woa Wob  # Woa: %d groups of heads, %d values each\n", (int)p->groups,
                    (int)p->rank);
}

static const infer__label INFER__COMPRESSED_LABELS[] = {
    { INFER__W_COMPRESSED_Q_A, "Wqa" }, { INFER__W_COMPRESSED_Q_B, "Wqb" }, { INFER__W_COMPRESSED_KV, "Wkv" },
    { INFER__W_COMPRESS_KV, "Wc" }, { INFER__W_COMPRESS_GATE, "Wcg" }, { INFER__W_COMPRESSED_OUT_A, "Woa" },
    { INFER__W_COMPRESSED_OUT_B, "Wob" }, { 0, NULL } };
