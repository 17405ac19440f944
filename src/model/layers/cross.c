/* cross.c: cross attention: a decoder's rows attend to the keys and values of the session's encoded input (source.c),
 * which the encoder's pass computes for every decoder layer at its end.
 */
#include "../model.h"

/* Q, the source's K and V, the heads' results. */
static int64_t infer__cross_cols(const infer_model *m, const infer__layer *l) {
    (void)m;
    return (int64_t)(l->n_head + l->n_head_kv) * (l->dim_k + l->dim_v);
}

static void infer__cross_needs(const infer_model *m, const infer__layer *l, infer__needs *n) {
    (void)m;
    infer__need_attention(n, l->n_head, l->dim_k, l->dim_v);
}

/* In pages of the source. */
static void infer__cross_state(infer_model *m, infer__layer *l, infer__part *p) {
    int i;
    for (i = 0; i < 2; i++) {
        p->state[i] = infer__state_add(m, l, i ? INFER__STATE_VALUES : INFER__STATE_KEYS, INFER__GROUP_FULL,
                                       l->n_head_kv, i ? l->dim_v : l->dim_k);
        m->states[p->state[i]].source = 1;
    }
}

static void infer__cross_of(const infer__layer *l, infer__attention_args *a) {
    infer__attention_of(l, a);
    a->bias = NULL; /* of distances: there are none between two texts */
    a->source = 1;
    a->group = INFER__GROUP_WINDOW; /* where a pass has the source's pages */
}

static const char *infer__cross_lacks(const infer__ops *ops, const infer__layer *l) {
    infer__attention_args a;
    infer__cross_of(l, &a);
    return ops->supports(INFER__OP_ATTENTION, &a) ? NULL : "cross attention";
}

static void infer__cross_store(infer_context *c, const infer__layer *l, const infer__part *p, const infer__tensor *x) {
    const int32_t n = x->rows, nk = l->n_head_kv * l->dim_k, nv = l->n_head_kv * l->dim_v;
    infer__kv_store_args store;
    memset(&store, 0, sizeof store);
    store.k = infer__view(&c->at->work, 0, n, nk);
    store.v = infer__view(&c->at->work, (uint64_t)n * (uint64_t)nk, n, nv);
    infer__product(c, x, &l->w[INFER__W_CROSS_K], NULL, &store.k);
    infer__product(c, x, &l->w[INFER__W_CROSS_V], NULL, &store.v);
    store.k_cache = &c->cache.bufs[p->state[0]];
    store.v_cache = &c->cache.bufs[p->state[1]];
    store.group = c->model->states[p->state[0]].group;
    store.n_head = l->n_head_kv;
    store.dim_k = l->dim_k;
    store.dim_v = l->dim_v;
    infer__kv_store(&c->ctx, &store);
    infer__trace(c, l->index, "cross_k", &store.k);
    infer__trace(c, l->index, "cross_v", &store.v);
}

static void infer__mix_cross(infer_context *c, const infer__layer *l, infer__sublayer *s) {
    const int32_t n = s->x.rows, nq = l->n_head * l->dim_k;
    infer__tensor q = infer__view(&c->at->work, 0, n, nq);
    infer__tensor y = infer__view(&c->at->work, (uint64_t)n * (uint64_t)nq, n, l->n_head * l->dim_v);
    infer__attention_args a;
    infer__sublayer_norm(c, s);
    infer__product(c, &s->x, &l->w[INFER__W_CROSS_Q], NULL, &q);
    infer__cross_of(l, &a);
    a.q = q;
    a.y = y;
    a.k_cache = &c->cache.bufs[s->part->state[0]];
    a.v_cache = &c->cache.bufs[s->part->state[1]];
    c->ctx.ops->attention(&c->ctx, &a);
    infer__trace(c, l->index, "cross", &y);
    infer__last_product(c, &y, &l->w[INFER__W_CROSS_OUT], NULL, 1, s);
}

static void infer__cross_describe(infer__text_out *o, const infer_model *m, const infer__layer *l, const char *in) {
    (void)m;
    infer__text_add(o, "    c = softmax(%s Wq k * %g) v Wo  # k, v: of all of the source, %d heads of %d\n", in,
                    l->attn_scale, (int)l->n_head, (int)l->dim_k);
}

static const infer__label INFER__CROSS_LABELS[] = {
    { INFER__W_CROSS_Q, "cross Wq" }, { INFER__W_CROSS_K, "cross Wk" }, { INFER__W_CROSS_V, "cross Wv" },
    { INFER__W_CROSS_OUT, "cross Wo" }, { 0, NULL } };
