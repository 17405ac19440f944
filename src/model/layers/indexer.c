/* indexer.c: choosing the positions that a layer's attention reads: a stage of usual or latent attention, with its own
 * keys.
 *
 * Latent attention (DeepSeek Sparse Attention: the DeepSeek-V3.2-Exp report):
 *     q = norm(x Wqa) Wiq; k = layer_norm(x Wik); w = x Wiw; score = sum over heads of w max(rotate(q) rotate(k), 0)
 * and the `top` positions with the largest are chosen, for all heads alike. The published code multiplies q and k by a
 * Hadamard matrix, for its 8-bit products, which does not change scores, and scales w, which does not change their
 * order. Usual attention (MiniMax M3): q, k = norm(x Wiq), norm(x Wik); score = rotate(q) rotate(k), for each K/V head
 * by itself, and blocks are chosen (infer__index_args).
 * By means (Qwen 3.8 Flash Next): an entry is made of a fixed number of positions (compressed.c says how they are
 * kept),
 *     q = norm(x Wiq); entry = rotate(norm(mean of x Wik)); score = sum over heads of max(rotate(q) entry, 0)
 * and the positions of those with the largest scores are read, with those that are not part of an entry yet.
 * A layer with a shared indexer uses the choice of the last layer with its own, which is kept for the pass.
 */
#include "../model.h"

/* ---- opening ----------------------------------------------------------------------------------------------------- */

enum { INFER__MAX_CHOSEN = 1 << 24, INFER__MAX_INDEX_SETS = 64 };

/* Which layers have their own: a flag for each of them. GLM-DSA files from before the key are told apart as llama.cpp
 * does: with a context of 2^20 the first three, and then every fourth, else all. */
static int infer__indexer_is_shared(infer__keys *k, int32_t layer) {
    const int all = k->m->hp.n_ctx < 1 << 20 || layer < 3 || layer % 4 == 2;
    return (infer__arch_of(k->m)->flags & INFER__INDEX_SHARED) &&
           !infer__key_layer(k, "attention.indexer.types", layer, 0, 1, all);
}

/* After the layer's own: heads, ranks and rotation are known. latent: of latent attention. */
static void infer__indexer_keys(infer__keys *k, infer__layer *l, int latent) {
    const infer__arch *a = infer__arch_of(k->m);
    infer__indexer *x = &l->index_of;
    int32_t i = l->index;
    if (!INFER__HAS_INDEX) return;
    if (k->failed || !a->index) return;
    if (l->window) {
        if ((a->flags & INFER__INDEX_SHARED) && i < k->m->hp.n_layer &&
            infer__key_layer(k, "attention.indexer.types", i, 0, 1, 0))
            infer__key_misfit(k, "attention.indexer.types", "a layer with a window has no indexer");
        return;
    }
    if (!latent && !infer__layer_has(k->m, l, INFER__W_INDEX_Q)) return;
    x->heads = infer__key_int(k, "attention.indexer.head_count", 1, 1 << 16, 0, 1);
    x->dim = infer__key_int(k, "attention.indexer.key_length", 1, INFER__MAX_HEAD_DIM, 0, 1);
    x->top = infer__key_int(k, "attention.indexer.top_k", 1, INFER__MAX_CHOSEN, 0, 1);
    x->block = 1;
    x->rope = a->index;
    x->latent = latent;
    x->last = (a->flags & INFER__INDEX_LAST) != 0;
    if (a->flags & INFER__INDEX_MEANS) {
        x->every = infer__key_layer(k, "attention.compress_ratios", i, 0, 64, 0);
        x->top = x->every ? x->top / x->every : 0;
        if (x->every < 2 || (x->every & (x->every - 1)))
            infer__key_unsupported(k, "attention.compress_ratios", "with an indexer only 2, 4, 8, 16, 32 and 64");
        else if (x->top == 0) infer__key_misfit(k, "attention.indexer.top_k", "less than attention.compress_ratios");
    } else if (!latent) {
        x->block = infer__key_int(k, "attention.indexer.block_size", 1, INFER__MAX_CHOSEN, 0, 1);
        x->local = infer__key_int(k, "attention.indexer.local_blocks", 0, INFER__MAX_CHOSEN, 0, 1);
    } else x->shared = infer__indexer_is_shared(k, i);
    if (k->failed) return;
    if (x->local > x->top) infer__key_misfit(k, "attention.indexer.local_blocks", "more than top_k");
    if ((int64_t)x->top * x->block > INFER__MAX_CHOSEN)
        infer__key_misfit(k, "attention.indexer.block_size", "top_k blocks of it are too many positions");
    if (!latent && !x->every && (x->heads != l->n_head_kv || x->heads > INFER__MAX_INDEX_SETS))
        infer__key_misfit(k, "attention.indexer.head_count", "not the number of K/V heads, or more than 64");
    if (x->dim < l->n_rot) infer__key_misfit(k, "attention.indexer.key_length", "less than what is rotated");
    if ((int64_t)x->heads * x->dim > INFER__MAX_DIM)
        infer__key_misfit(k, "attention.indexer.head_count", "too many heads of this key_length");
    while (x->shared && i > 0 && !k->m->layers[i - 1].index_of.heads) i--;
    if (x->shared && i == 0)
        infer__key_misfit(k, "attention.indexer.types", "no layer before the first one has what it shares");
}

static infer_result infer__indexer_check(const infer_model *m, const infer__layer *l, infer_error *err) {
    /* needed by: 1 latent attention, 2 the usual; 3 both, 4 may be there in the first */
    static const uint8_t with[] = { 1, 2, 2, 1, 2, 3, 4, 1 };
    const infer__indexer *x = &l->index_of;
    const int of = x->heads ? x->latent ? 1 : 2 : 0;
    infer_result r = INFER_OK;
    int i;
    if (!INFER__HAS_VARIANTS) return r; /* there are no such tensors */
    for (i = 0; i <= INFER__W_INDEX_WEIGHTS - INFER__W_INDEX_Q_B && !r; i++) {
        const infer__weight *w = &l->w[INFER__W_INDEX_Q_B + i];
        if (with[i] & of && !x->shared) r = infer__need(l, INFER__W_INDEX_Q_B + i, err);
        else if (w->type && !(with[i] & of) && !(with[i] == 4 && of == 1)) r = infer__no_use(m, l, w->name, err);
    }
    if (!r && of == 1 && !l->latent_q_rank)
        r = infer__error(err, INFER_ERR_FORMAT, "key %s.attention.q_lora_rank is missing: the indexer reads queries of "
                         "that rank", infer__arch_of(m)->name);
    return r;
}

static void infer__indexer_state(infer_model *m, const infer__layer *l, infer__part *p) {
    if (!INFER__HAS_INDEX) return;
    if (l->index_of.every) {
        p->state[2] = infer__state_add(m, l, INFER__STATE_ROWS, INFER__GROUP_FULL, 1, l->index_of.dim);
        p->state[3] = infer__state_add(m, l, INFER__STATE_VALUES, INFER__GROUP_FULL, 1, l->index_of.dim);
        m->states[p->state[3]].every = l->index_of.every;
    } else if (l->index_of.heads && !l->index_of.shared)
        p->state[2] = infer__state_add(m, l, INFER__STATE_KEYS, INFER__GROUP_FULL, 1, l->index_of.dim);
}

static int infer__indexer_chooses(const infer__layer *l, int32_t pos) {
    const infer__indexer *x = &l->index_of;
    if (!INFER__HAS_INDEX) return 0;
    if (!x->heads) return 0;
    if (x->every || l->compress.every)
        return infer__rows_before(x->every ? x->every : l->compress.every, pos + 1) > x->top;
    return pos / x->block >= x->top;
}

static const char *infer__indexer_lacks(const infer__ops *ops, const infer__layer *l) {
    infer__index_args a;
    infer__compress_args entries;
    if (!INFER__HAS_INDEX) return NULL;
    memset(&a, 0, sizeof a);
    memset(&entries, 0, sizeof entries);
    a.dim = entries.dim = l->index_of.dim;
    if (!l->index_of.heads) return NULL;
    if (l->index_of.every && !ops->supports(INFER__OP_COMPRESS, &entries)) return "means of keys";
    return ops->supports(INFER__OP_INDEX, &a) ? NULL : "chosen positions";
}

static int32_t infer__indexer_sets(const infer__indexer *x) { return x->latent || x->every ? 1 : x->heads; }

static int64_t infer__indexer_list(const infer__layer *l, int32_t cells) {
    const infer__indexer *x = &l->index_of;
    if (!INFER__HAS_INDEX) return 0;
    if (l->compress.every) { /* entries, and the window's positions */
        const int64_t all = cells / l->compress.every;
        return 1 + (x->heads ? INFER__MIN(all, x->top) : all) + INFER__MIN(l->window, cells);
    }
    if (x->every) return 1 + INFER__MIN(((int64_t)x->top + 1) * x->every - 1, cells);
    return x->heads ? infer__indexer_sets(x) * (1 + INFER__MIN((int64_t)x->top * x->block, cells)) : 0;
}

/* Queries, the key, weights. */
static int64_t infer__indexer_cols(const infer__layer *l) {
    const infer__indexer *x = &l->index_of;
    if (!INFER__HAS_INDEX) return 0;
    return (int64_t)x->heads * x->dim + x->dim + (x->latent ? x->heads : 0);
}

static void infer__indexer_needs(const infer__layer *l, infer__needs *n) {
    const infer__indexer *x = &l->index_of;
    if (!INFER__HAS_INDEX) return;
    if (!x->heads) return;
    infer__need_attention(n, x->heads, x->dim, x->dim);
    n->index_sets = INFER__MAX(n->index_sets, infer__indexer_sets(x));
}

/* ---- a pass ------------------------------------------------------------------------------------------------------ */

/* Of kind NONE where the layer does not rotate. */
static infer__rope_args infer__indexer_rope(const infer__layer *l, const infer__tensor *t, int32_t n_head) {
    infer__rope_args a;
    memset(&a, 0, sizeof a);
    if (!l->rope) return a;
    /* the last head has only its rotated part */
    a.x = infer__columns(t, l->index_of.last ? l->index_of.dim - l->n_rot : 0, t->cols);
    a.n_head = n_head;
    a.dim = l->index_of.dim;
    a.n_rot = l->n_rot;
    a.kind = l->index_of.rope;
    a.freq = infer__rope_freq(l);
    a.scale = l->rope->scale;
    return a;
}

static void infer__indexer_rotate(infer_context *c, const infer__layer *l, const infer__tensor *t, int32_t n_head) {
    const infer__rope_args a = infer__indexer_rope(l, t, n_head);
    if (a.kind != INFER__ROPE_NONE) infer__ops_of(&c->ctx)->rope(&c->ctx, &a);
}

/* k of each row, to the cache, and the entries that end in this pass. */
static void infer__indexer_means(infer_context *c, const infer__layer *l, const infer__sublayer *s,
                                 const infer__tensor *k) {
    infer__rows_store_args store;
    infer__compress_args a;
    infer__product(c, &s->x, &l->w[INFER__W_INDEX_K_PROJ], NULL, k);
    store.x = *k;
    store.rows = &c->cache.bufs[s->part->state[2]];
    store.group = INFER__GROUP_FULL;
    infer__ops_of(&c->ctx)->rows_store(&c->ctx, &store);
    memset(&a, 0, sizeof a);
    a.rows = store.rows;
    a.entries = &c->cache.bufs[s->part->state[3]];
    a.rows_group = a.group = INFER__GROUP_FULL;
    a.n_rows = k->rows;
    a.width = a.dim = l->index_of.dim;
    a.every = l->index_of.every;
    a.norm = &l->w[INFER__W_INDEX_K_NORM];
    a.eps = c->model->hp.eps;
    a.rope = infer__indexer_rope(l, k, 1);
    infer__ops_of(&c->ctx)->compress(&c->ctx, &a);
}

/* The key of each row, to the cache. */
static void infer__indexer_key(infer_context *c, const infer__layer *l, const infer__sublayer *s,
                               const infer__tensor *k) {
    infer__kv_store_args store;
    infer__norm_args norm;
    infer__product(c, &s->x, &l->w[l->index_of.latent ? INFER__W_INDEX_K : INFER__W_INDEX_K_PROJ], NULL, k);
    memset(&norm, 0, sizeof norm);
    norm.x = norm.y = *k;
    norm.weight = &l->w[INFER__W_INDEX_K_NORM];
    norm.bias = infer__opt(&l->w[INFER__W_INDEX_K_NORM_B]);
    norm.kind = l->index_of.latent ? INFER__NORM_LAYER : c->model->hp.norm;
    norm.n_groups = 1;
    norm.eps = l->index_of.latent && !l->index_of.last
                   ? 1e-6f
                   : c->model->hp.eps; /* the published code's, independent of the norms' */
    infer__ops_of(&c->ctx)->norm(&c->ctx, &norm);
    infer__indexer_rotate(c, l, k, 1);
    memset(&store, 0, sizeof store);
    store.k = *k;
    store.k_cache = &c->cache.bufs[s->part->state[2]];
    store.group = INFER__GROUP_FULL;
    store.n_head = 1;
    store.dim_k = l->index_of.dim;
    infer__kv_store(&c->ctx, &store);
    infer__trace(c, l->index, "index_k", k);
}

/* Set att's list of positions (buf NULL: all). The sublayer's norm has been computed; low: queries before their second
 * matrix, in latent attention. The work area is the end of the sublayer's. */
static void infer__indexer_run(infer_context *c, const infer__layer *l, const infer__sublayer *s,
                               const infer__tensor *low, infer__attention_args *att) {
    const infer__indexer *x = &l->index_of;
    const int32_t n = s->x.rows, wide = x->heads * x->dim;
    const uint64_t at = (uint64_t)n * (uint64_t)(s->part->kind->cols(c->model, l) - infer__indexer_cols(l));
    infer__tensor q = infer__view(&c->at->work, at, n, wide);
    infer__tensor k = infer__view(&c->at->work, at + (uint64_t)n * (uint64_t)wide, n, x->dim);
    infer__index_args a;
    int32_t r, some = 0;
    if (!INFER__HAS_INDEX) return;
    if (!x->heads) return;
    if (x->every) infer__indexer_means(c, l, s, &k);
    else if (!x->shared) infer__indexer_key(c, l, s, &k);
    for (r = 0; r < n; r++) some |= infer__indexer_chooses(l, c->ctx.pass.pos[r]);
    if (!some) return;
    memset(&a, 0, sizeof a);
    a.y = infer__pass_kept(c, n, c->model->hp.pass_kept, n, (int32_t)infer__indexer_list(l, c->plan.cells));
    att->chosen = a.y;
    att->chosen_sets = infer__indexer_sets(x);
    if (x->shared) return;
    infer__product(c, x->latent ? low : &s->x, &l->w[x->latent ? INFER__W_INDEX_Q_B : INFER__W_INDEX_Q], NULL, &q);
    if (x->latent) {
        a.w = infer__view(&c->at->work, at + (uint64_t)n * (uint64_t)(wide + x->dim), n, x->heads);
        infer__product(c, &s->x, &l->w[INFER__W_INDEX_WEIGHTS], NULL, &a.w);
    } else infer__slot_norm(c, l, INFER__W_INDEX_Q_NORM, x->heads, &q, &q);
    infer__indexer_rotate(c, l, &q, x->heads);
    infer__trace(c, l->index, "index_q", &q);
    a.q = q;
    a.k_cache = &c->cache.bufs[s->part->state[x->every ? 3 : 2]];
    a.group = INFER__GROUP_FULL;
    a.heads = x->heads;
    a.dim = x->dim;
    a.top = x->top;
    a.block = x->block;
    a.local = x->local;
    a.every = x->every;
    a.sum = x->every > 0;
    a.gives = x->every ? INFER__INDEX_RUNS : INFER__INDEX_POSITIONS;
    infer__ops_of(&c->ctx)->index(&c->ctx, &a);
}

/* ---- as text ----------------------------------------------------------------------------------------------------- */

static void infer__indexer_describe(infer__text_out *o, const infer__layer *l, const char *in) {
    const infer__indexer *x = &l->index_of;
    if (!INFER__HAS_INDEX) return;
    if (!x->heads) return;
    if (x->shared) infer__text_add(o, "    positions: those that the last indexer before this layer chose\n");
    else if (x->latent)
        infer__text_add(o, "    positions: the %d with the largest sum of (%s Wiw) max(qi ki, 0)  # %d heads of %d\n",
                        (int)x->top, in, (int)x->heads, (int)x->dim);
    else if (x->every)
        infer__text_add(o,
                        "    positions: of the %d runs of %d whose mean key ei has the largest sum of max(qi ei, 0), "
                        "and "
                        "the last ones  # %d heads of %d\n", (int)x->top, (int)x->every, (int)x->heads, (int)x->dim);
    else
        infer__text_add(o, "    positions: of each K/V head the %d blocks of %d with the largest qi ki, with the last "
                        "%d  # heads of %d\n", (int)x->top, (int)x->block, (int)x->local, (int)x->dim);
}
