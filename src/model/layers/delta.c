/* delta.c: gated delta nets (arXiv 2412.06464; Qwen3-Next, Qwen3.5): a mixer with a state of one matrix a head.
 *
 * q, k, v = silu(conv(h Wqkv)); beta, alpha = h Wb, h Wa; y = delta rule (infer__delta_args);
 * d = (norm of heads(y) * silu(h Wz)) Wout.
 * What it keeps of a session is the last taps - 1 rows that the convolution reads, and the states of its heads.
 * infer__ssm has the sizes: heads of dim values, groups = key heads, of `state` values.
 */
#include "../model.h"

/* ---- opening ----------------------------------------------------------------------------------------------------- */

enum { INFER__MAX_DELTA_STATE = 256 }; /* so that what a few rows are prepared to fits a worker's scratch */

static void infer__delta_keys(infer__keys *k, infer__layer *l) {
    infer__ssm *s = &l->ssm;
    l->conv_taps = infer__key_int(k, "ssm.conv_kernel", 2, INFER__MAX_TAPS, 0, 1);
    s->inner = infer__key_int(k, "ssm.inner_size", 1, INFER__MAX_DIM / 4, 0, 1);
    s->state = infer__key_int(k, "ssm.state_size", 1, INFER__MAX_DELTA_STATE, 0, 1);
    s->rank = infer__key_int(k, "ssm.time_step_rank", 1, INFER__MAX_DIM / 4, 0, 1);
    s->groups = infer__key_int(k, "ssm.group_count", 1, 1 << 16, 0, 1);
    infer__mamba_to_heads(k, s);
    s->rank = 0;
    s->tiled = (k->m->arch->flags & INFER__DELTA_TILED) != 0;
    if (k->failed) return;
    if (s->heads % s->groups != 0)
        infer__key_misfit(k, "ssm.group_count", "does not divide the heads (ssm.time_step_rank)");
    if ((int64_t)s->groups * s->state > INFER__MAX_DIM / 8)
        infer__key_misfit(k, "ssm.group_count", "with these states too many values");
    if (!k->failed) s->conv = s->inner + 2 * s->groups * s->state;
}

static infer_result infer__delta_check(const infer_model *m, infer__layer *l, infer_error *err) {
    static const int16_t all[] = {INFER__W_DELTA_QKV, INFER__W_DELTA_GATE, INFER__W_DELTA_TAPS, INFER__W_DELTA_DT_B,
                                  INFER__W_DELTA_A,   INFER__W_DELTA_NORM, INFER__W_DELTA_OUT};
    static const int16_t apart[] = {INFER__W_DELTA_BETA, INFER__W_DELTA_ALPHA};
    const int both = l->w[INFER__W_DELTA_BOTH].type != NULL;
    infer_result r = INFER_OK;
    size_t i;
    for (i = 0; i < INFER__COUNT(all) && !r; i++) r = infer__need(l, all[i], err);
    for (i = 0; i < INFER__COUNT(apart) && !r; i++) {
        if (!both) r = infer__need(l, apart[i], err);
        else if (l->w[apart[i]].type) r = infer__no_use(m, l, l->w[apart[i]].name, err);
    }
    return r;
}

static infer_result infer__delta_split(infer_model *m, infer__layer *l, infer_error *err) {
    const uint64_t n = (uint64_t)l->ssm.heads;
    return infer__mamba_floats(m, &l->w[INFER__W_DELTA_DT_B], n, err) &&
                   infer__mamba_floats(m, &l->w[INFER__W_DELTA_A], n, err)
               ? INFER_OK
               : INFER_ERR_MEMORY;
}

static void infer__delta_state(infer_model *m, infer__layer *l, infer__part *p) {
    const infer__ssm *s = &l->ssm;
    p->state[0] = infer__state_add(m, l, INFER__STATE_RECURRENT, INFER__GROUP_CELLS, l->conv_taps - 1, s->conv);
    p->state[1] = infer__state_add(m, l, INFER__STATE_RECURRENT, INFER__GROUP_CELLS, s->heads,
                                   s->state * infer__ssm_lanes(s->dim, 0));
}

/* q, k, v before and after the convolution; z; alpha and beta. */
static int64_t infer__delta_cols(const infer_model *m, const infer__layer *l) {
    (void)m;
    return 2 * (int64_t)l->ssm.conv + l->ssm.inner + 2 * (int64_t)l->ssm.heads;
}

static void infer__delta_needs(const infer_model *m, const infer__layer *l, infer__needs *n) {
    (void)m;
    infer__need_cols(n, INFER__MAX(l->ssm.conv, 2 * INFER__LANES * l->ssm.state));
}

static const char *infer__delta_lacks(const infer__ops *ops, const infer__layer *l) {
    infer__conv_args conv;
    infer__delta_args a;
    memset(&conv, 0, sizeof conv);
    memset(&a, 0, sizeof a);
    conv.w = &l->w[INFER__W_DELTA_TAPS];
    a.state = l->ssm.state;
    return ops->supports(INFER__OP_CONV, &conv) && ops->supports(INFER__OP_DELTA, &a) ? NULL : "delta net";
}

/* ---- a pass ------------------------------------------------------------------------------------------------------ */

/* alpha and beta: two matrices, or one with those of a key head's value heads in turns. */
static void infer__delta_rates(infer_context *c, const infer__layer *l, const infer__tensor *x, uint64_t at,
                               infer__delta_args *a) {
    const infer__ssm *s = &l->ssm;
    const int32_t n = x->rows, each = s->heads / s->groups;
    infer__tensor both = infer__view(&c->at->work, at, n, 2 * s->heads);
    if (l->w[INFER__W_DELTA_BOTH].type) {
        infer__product(c, x, &l->w[INFER__W_DELTA_BOTH], NULL, &both);
        a->beta = infer__columns(&both, 0, both.cols);
        a->alpha = infer__columns(&both, each, both.cols - each);
        a->run = each;
        a->run_step = 2 * each;
        return;
    }
    a->beta = infer__view(&c->at->work, at, n, s->heads);
    a->alpha = infer__view(&c->at->work, at + (uint64_t)n * (uint64_t)s->heads, n, s->heads);
    infer__product(c, x, &l->w[INFER__W_DELTA_BETA], NULL, &a->beta);
    infer__product(c, x, &l->w[INFER__W_DELTA_ALPHA], NULL, &a->alpha);
    a->run = a->run_step = s->heads;
}

static void infer__mix_delta(infer_context *c, const infer__layer *l, infer__sublayer *s) {
    const infer__ssm *d = &l->ssm;
    const int32_t n = s->x.rows, keys = d->groups * d->state;
    const uint64_t rows = (uint64_t)n, at = rows * (uint64_t)d->conv;
    infer__tensor raw = infer__view(&c->at->work, 0, n, d->conv), conved = infer__view(&c->at->work, at, n, d->conv);
    infer__tensor z = infer__view(&c->at->work, 2 * at, n, d->inner);
    infer__conv_args conv;
    infer__delta_args a;
    infer__sublayer_norm(c, s); /* three products read it */
    infer__product(c, &s->x, &l->w[INFER__W_DELTA_QKV], NULL, &raw);
    infer__product(c, &s->x, &l->w[INFER__W_DELTA_GATE], NULL, &z);
    memset(&a, 0, sizeof a);
    infer__delta_rates(c, l, &s->x, 2 * at + rows * (uint64_t)d->inner, &a);
    memset(&conv, 0, sizeof conv);
    conv.x = raw;
    conv.y = conved;
    conv.w = &l->w[INFER__W_DELTA_TAPS];
    conv.silu = 1;
    conv.taps = l->conv_taps;
    conv.state = &c->cache.bufs[s->part->state[0]].buf;
    c->ctx.ops->conv(&c->ctx, &conv);
    infer__trace(c, l->index, "delta_conv", &conved);
    a.q = infer__columns(&conved, 0, keys);
    a.k = infer__columns(&conved, keys, keys);
    a.v = infer__columns(&conved, 2 * keys, d->inner);
    a.y = infer__view(&c->at->work, 0, n, d->inner); /* what was convolved is of no account any more */
    a.a = &l->w[INFER__W_DELTA_A];
    a.dt_bias = &l->w[INFER__W_DELTA_DT_B];
    a.cells = &c->cache.bufs[s->part->state[1]].buf;
    a.heads = d->heads;
    a.k_heads = d->groups;
    a.dim = d->dim;
    a.state = d->state;
    a.tiled = d->tiled;
    a.eps = 1e-6f; /* of the published code, whatever the norms' is */
    c->ctx.ops->delta(&c->ctx, &a);
    infer__trace(c, l->index, "delta", &a.y);
    infer__slot_norm(c, l, INFER__W_DELTA_NORM, d->heads, &a.y, &a.y);
    infer__gate(c, INFER__ACT_SILU, &z, &a.y);
    infer__last_product(c, &a.y, &l->w[INFER__W_DELTA_OUT], NULL, 1, s);
}

/* ---- as text ----------------------------------------------------------------------------------------------------- */

static void infer__delta_describe(infer__text_out *o, const infer_model *m, const infer__layer *l, const char *in) {
    const infer__ssm *s = &l->ssm;
    (void)m;
    infer__text_add(o, "    q, k, v = silu(conv(%s Wqkv))  # causal, %d taps a column\n", in, (int)l->conv_taps);
    infer__text_add(o,
                    "    q, k = q / |q| / sqrt(%d), k / |k|; b = sigmoid(%s Wb); g = exp(A softplus(%s Wa + bias))\n",
                    (int)s->state, in, in);
    infer__text_add(o, "    S = g S; S = S + k b (v - S k); y = S q  # %d heads of %d, %d key heads of %d\n",
                    (int)s->heads, (int)s->dim, (int)s->groups, (int)s->state);
    infer__text_add(o, "    d = (rms_norm(y) * ssm_norm * silu(%s Wz)) Wout  # normed per head\n", in);
}

static const infer__label INFER__DELTA_LABELS[] = {
    {INFER__W_DELTA_QKV, "Wqkv"}, {INFER__W_DELTA_GATE, "Wz"}, {INFER__W_DELTA_OUT, "Wout"}, {0, NULL}};
