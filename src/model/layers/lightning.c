/* lightning.c: lightning attention (arXiv 2401.04658; MiniMax-01, arXiv 2501.08313): linear attention with a decay a
 * head.
 *
 * q, k, v = silu(h Wqkv), those of a head together; S = exp(-slope) S + k v; y = S q (INFER__DELTA_PLAIN);
 * d = (norm(y) * sigmoid(h Wg)) Wout. The slopes are ALiBi's, 2^(-8 (i + 1) / heads), and less in later layers: times
 * 1 - l / (layers - 1) + 1e-5.
 * Also the residuals of these models: before a sublayer the stream is replaced by its norm times residual_scale.
 */
#include "../model.h"

static void infer__lightning_keys(infer__keys *k, infer__layer *l) {
    infer__ssm *s = &l->ssm;
    s->heads = s->groups = l->n_head;
    if (s->heads < 1) infer__key_misfit(k, "attention.head_count", "lightning attention needs heads");
    if (k->failed) return;
    s->dim = infer__key_int(k, "attention.value_length", 1, INFER__MAX_DELTA_STATE, k->m->hp.n_embd / s->heads, 0);
    s->state = infer__key_int(k, "attention.key_length", 1, INFER__MAX_DELTA_STATE, k->m->hp.n_embd / s->heads, 0);
    if (k->failed) return;
    if (s->dim != s->state || s->dim < 1 || s->dim > INFER__MAX_DELTA_STATE ||
        (int64_t)s->heads * s->dim > INFER__MAX_DIM / 8)
        infer__key_misfit(k, "attention.key_length", "not a width of keys and values that lightning attention has");
    if (k->failed) return;
    s->inner = s->heads * s->dim;
    s->conv = 3 * s->inner;
}

/* The logarithms of decays, in a slot without a tensor in the file. */
static infer_result infer__lightning_split(infer_model *m, infer__layer *l, infer_error *err) {
    infer__weight *w = &l->w[INFER__W_DELTA_A];
    const char *removed;
    const int32_t n = l->ssm.heads;
    int32_t i;
    const double less = 1 - l->index / (m->hp.n_layer - 1 + 1e-5) + 1e-5;
    float *p = (float *)infer__arena_alloc(&m->arena, (uint64_t)n * sizeof *p);
    if (!p) return infer__error(err, INFER_ERR_MEMORY, "no memory for the slopes of layer %d", (int)l->index);
    for (i = 0; i < n; i++) p[i] = (float)(-pow(2, -8.0 * (i + 1) / n) * less);
    w->type = infer__quant_find(0, &removed); /* F32 */
    w->rows = 1;
    w->cols = n;
    w->row_bytes = (uint64_t)n * sizeof *p;
    w->data = p;
    w->name = "slopes";
    return INFER_OK;
}

static void infer__lightning_state(infer_model *m, infer__layer *l, infer__part *p) {
    const infer__ssm *s = &l->ssm;
    p->state[0] = infer__state_add(m, l, INFER__STATE_RECURRENT, INFER__GROUP_CELLS, s->heads,
                                   s->state * infer__ssm_lanes(s->dim, 0));
}

/* q, k, v; y; the gate. */
static int64_t infer__lightning_cols(const infer_model *m, const infer__layer *l) {
    (void)m;
    return (int64_t)l->ssm.conv + 2 * (int64_t)l->ssm.inner;
}

/* ---- a pass ------------------------------------------------------------------------------------------------------ */

static void infer__mix_lightning(infer_context *c, const infer__layer *l, infer__sublayer *s) {
    const infer__ssm *d = &l->ssm;
    const int32_t n = s->x.rows;
    const uint64_t at = (uint64_t)n * (uint64_t)d->conv;
    infer__tensor qkv = infer__view(&c->at->work, 0, n, d->conv);
    infer__tensor gate = infer__view(&c->at->work, at + (uint64_t)n * (uint64_t)d->inner, n, d->inner);
    infer__act_args silu;
    infer__delta_args a;
    infer__sublayer_norm(c, s); /* two products read it */
    infer__product(c, &s->x, &l->w[INFER__W_LIGHTNING_QKV], NULL, &qkv);
    infer__product(c, &s->x, &l->w[INFER__W_LIGHTNING_GATE], NULL, &gate);
    memset(&silu, 0, sizeof silu);
    silu.x = silu.y = qkv;
    silu.kind = INFER__ACT_SILU;
    c->ctx.ops->act(&c->ctx, &silu);
    infer__trace(c, l->index, "qkv", &qkv);
    memset(&a, 0, sizeof a);
    a.kind = INFER__DELTA_PLAIN;
    a.q = qkv;
    a.k = infer__columns(&qkv, d->dim, d->conv - d->dim);
    a.v = infer__columns(&qkv, 2 * d->dim, d->conv - 2 * d->dim);
    a.y = infer__view(&c->at->work, at, n, d->inner);
    a.a = &l->w[INFER__W_DELTA_A];
    a.cells = &c->cache.bufs[s->part->state[0]].buf;
    a.heads = a.k_heads = a.run = d->heads;
    a.dim = d->dim;
    a.state = d->state;
    a.step = 3 * d->dim;
    c->ctx.ops->delta(&c->ctx, &a);
    infer__trace(c, l->index, "delta", &a.y);
    infer__slot_norm(c, l, INFER__W_LIGHTNING_NORM, 1, &a.y, &a.y);
    infer__gate(c, INFER__ACT_SIGMOID, &gate, &a.y);
    infer__last_product(c, &a.y, &l->w[INFER__W_LIGHTNING_OUT], NULL, 1, s);
}

/* x -> its norm, which is kept; and that, scaled, to the stream. */
static void infer__restart_run(infer_context *c, const infer__layer *l, infer__sublayer *s) {
    infer__slot_norm(c, l, s->part->norm, 1, &s->x, &s->out);
    infer__copy_rows(c, &s->out, &s->x);
    infer__scale_rows(c, s->part->scale, &s->x);
}

/* ---- as text ----------------------------------------------------------------------------------------------------- */

static void infer__lightning_describe(infer__text_out *o, const infer_model *m, const infer__layer *l, const char *in) {
    const infer__ssm *s = &l->ssm;
    infer__text_add(o, "    q, k, v = silu(%s Wqkv); S = g S + k v; y = S q  # %d heads of %d\n", in, (int)s->heads,
                    (int)s->dim);
    infer__text_add(o, "    d = (%s(y) * attn_norm_2 * sigmoid(%s Wg)) Wout\n", infer__norm_name(m), in);
}

static void infer__restart_describe(infer__text_out *o, const infer_model *m, const infer__layer *l, const char *in) {
    (void)l;
    infer__text_add(o, "    k = %s; x = %g k\n", in, m->hp.residual_scale);
}

static const infer__label INFER__LIGHTNING_LABELS[] = {
    {INFER__W_LIGHTNING_QKV, "Wqkv"}, {INFER__W_LIGHTNING_GATE, "Wg"}, {INFER__W_LIGHTNING_OUT, "Wout"}, {0, NULL}};
