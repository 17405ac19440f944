/* mix_attention.c: the attention mixer: Q, K, V, norms, rotation, cache, softmax, output projection.
 *
 * Grouped-query attention (arXiv 2305.13245) over the session's cache. What a model does not have (biases, norms of
 * heads, rotation, sinks, clamp) is absent from its layer and skipped.
 */
#include "model.h"

static infer__tensor infer__view(infer__buf *b, uint64_t first_float, int32_t rows, int32_t cols) {
    infer__tensor t;
    t.buf = b;
    t.offset = first_float * sizeof(float);
    t.rows = rows;
    t.cols = t.stride = cols;
    return t;
}

/* Floats a row of the work area: Q, K, V and the heads' results. */
static int32_t infer__mix_attention_cols(const infer__layer *l) {
    return l->n_head * l->dim_k + l->n_head_kv * (l->dim_k + l->dim_v) + l->n_head * l->dim_v;
}

static void infer__head_norm(infer_context *c, const infer__layer *l, infer__tensor *t, int slot, int32_t groups) {
    infer__norm_args a;
    if (!l->w[slot].type) return;
    memset(&a, 0, sizeof a);
    a.x = a.y = *t;
    a.weight = &l->w[slot];
    a.bias = infer__opt(&l->w[slot + 1]);
    a.kind = c->model->hp.norm;
    a.n_groups = groups;
    a.eps = c->model->hp.eps;
    c->ctx.ops->norm(&c->ctx, &a);
}

/* Fills *a, and gives it; NULL when the layer does not rotate. */
static const infer__rope_args *infer__rope_of(const infer__layer *l, const infer__tensor *t, int32_t n_head,
                                              infer__rope_args *a) {
    if (l->rope_kind == INFER__ROPE_NONE || !l->rope) return NULL;
    memset(a, 0, sizeof *a);
    a->x = *t;
    a->n_head = n_head;
    a->dim = l->dim_k;
    a->n_rot = l->n_rot;
    a->kind = l->rope_kind;
    a->freq = l->place == INFER__ON_CPU ? &l->rope->freq : &l->rope->device[l->place - INFER__ON_DEVICE];
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
    mm.n_w = 3;
    mm.next = &l->w[INFER__W_ATTN_OUT];
    for (i = 0; i < 3; i++) {
        mm.w[i] = &l->w[INFER__W_ATTN_Q + 2 * i];
        mm.b[i] = infer__opt(&l->w[INFER__W_ATTN_Q_B + 2 * i]);
        mm.y[i] = *t[i];
    }
    infer__matmul(&c->ctx, &mm);
    for (i = 0; i < 3 && c->model->hp.clamp_kqv > 0; i++) {
        memset(&clamp, 0, sizeof clamp);
        clamp.x = *t[i];
        clamp.scale = 1;
        clamp.clamp = c->model->hp.clamp_kqv;
        c->ctx.ops->map(&c->ctx, &clamp);
    }
}

static void infer__mix_attention(infer_context *c, const infer__layer *l, infer__sublayer *s) {
    const infer__hparams *hp = &c->model->hp;
    int32_t n = s->x.rows, nq = l->n_head * l->dim_k, nk = l->n_head_kv * l->dim_k, nv = l->n_head_kv * l->dim_v;
    uint64_t rows = (uint64_t)n;
    infer__tensor q = infer__view(&c->at->work, 0, n, nq);
    infer__tensor k = infer__view(&c->at->work, rows * (uint64_t)nq, n, nk);
    infer__tensor v = infer__view(&c->at->work, rows * (uint64_t)(nq + nk), n, nv);
    infer__tensor y = infer__view(&c->at->work, rows * (uint64_t)(nq + nk + nv), n, l->n_head * l->dim_v);
    infer__rope_args rope_q, rope_k;
    infer__kv_store_args store;
    infer__attention_args at;
    infer__matmul_args mm;
    infer__qkv(c, l, s, &q, &k, &v);
    infer__head_norm(c, l, &q, INFER__W_ATTN_Q_NORM, l->q_groups);
    infer__head_norm(c, l, &k, INFER__W_ATTN_K_NORM, l->k_groups);

    memset(&store, 0, sizeof store);
    store.rope_q = infer__rope_of(l, &q, l->n_head, &rope_q);
    store.rope_k = infer__rope_of(l, &k, l->n_head_kv, &rope_k);
    store.k = k;
    store.v = v;
    store.k_cache = &c->cache.k[l->index];
    store.v_cache = &c->cache.v[l->index];
    store.group = l->group;
    store.n_head = l->n_head_kv;
    store.dim_k = l->dim_k;
    store.dim_v = l->dim_v;
    infer__kv_store(&c->ctx, &store);
    infer__trace(c, l->index, "q", &q);
    infer__trace(c, l->index, "k", &k);
    infer__trace(c, l->index, "v", &v);

    memset(&at, 0, sizeof at);
    at.q = q;
    at.y = y;
    at.k_cache = store.k_cache;
    at.v_cache = store.v_cache;
    at.group = l->group;
    at.n_head = l->n_head;
    at.n_head_kv = l->n_head_kv;
    at.dim_k = l->dim_k;
    at.dim_v = l->dim_v;
    at.window = l->window;
    at.scale = l->attn_scale;
    at.softcap = hp->attn_softcap;
    at.max_bias = hp->max_bias;
    at.temp_scale = hp->temp_scale;
    at.temp_floor = hp->temp_floor;
    at.temp_offset = hp->temp_offset;
    at.sinks = infer__opt(&l->w[INFER__W_ATTN_SINKS]);
    c->ctx.ops->attention(&c->ctx, &at);
    infer__trace(c, l->index, "attn", &y);

    memset(&mm, 0, sizeof mm);
    mm.x = y;
    mm.n_w = 1;
    mm.w[0] = &l->w[INFER__W_ATTN_OUT];
    mm.b[0] = infer__opt(&l->w[INFER__W_ATTN_OUT_B]);
    mm.y[0] = s->out;
    mm.add = s->add;
    infer__matmul(&c->ctx, &mm);
}
