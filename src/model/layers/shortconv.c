/* shortconv.c: the short convolution mixer of LFM2 (Liquid AI, arXiv 2511.23404).
 *
 * b, c, u = x W_in; y = (c * conv(b * u)) W_out, where conv is causal, of a few taps, each column for itself. Its state
 * per session is the last taps - 1 rows of b * u, of fixed size.
 */
#include "../model.h"

enum { INFER__MAX_TAPS = 64 }; /* so that a few columns of all taps fit a worker's scratch */

static void infer__shortconv_keys(infer__keys *k, infer__layer *l) {
    l->conv_taps = infer__key_int(k, "shortconv.l_cache", 2, INFER__MAX_TAPS, 0, 1);
}

static infer_result infer__shortconv_check(const infer_model *m, infer__layer *l, infer_error *err) {
    infer_result r = infer__need(l, INFER__W_SHORTCONV_IN, err);
    (void)m;
    if (!r) r = infer__need(l, INFER__W_SHORTCONV_TAPS, err);
    return r ? r : infer__need(l, INFER__W_SHORTCONV_OUT, err);
}

static void infer__shortconv_state(infer_model *m, infer__layer *l, infer__part *p) {
    p->state[0] = infer__state_add(m, l, INFER__STATE_RECURRENT, INFER__GROUP_CELLS, l->conv_taps - 1, m->hp.n_embd);
}

/* b, c, u and what the convolution gives. */
static int64_t infer__shortconv_cols(const infer_model *m, const infer__layer *l) {
    (void)l;
    return 4 * (int64_t)m->hp.n_embd;
}

static void infer__shortconv_needs(const infer_model *m, const infer__layer *l, infer__needs *n) {
    (void)l;
    infer__need_cols(n, m->hp.n_embd);
}

static const char *infer__shortconv_lacks(const infer__ops *ops, const infer__layer *l) {
    infer__conv_args a;
    memset(&a, 0, sizeof a);
    a.w = &l->w[INFER__W_SHORTCONV_TAPS];
    return ops->supports(INFER__OP_CONV, &a) ? NULL : "short convolution";
}

static void infer__mix_shortconv(infer_context *c, const infer__layer *l, infer__sublayer *s) {
    int32_t n = s->x.rows, width = c->model->hp.n_embd;
    infer__tensor bcu = infer__view(&c->at->work, 0, n, 3 * width), part[3];
    infer__tensor y = infer__view(&c->at->work, (uint64_t)n * 3 * (uint64_t)width, n, width);
    infer__matmul_args mm;
    infer__conv_args conv;
    int i;
    memset(&mm, 0, sizeof mm);
    mm.x = s->x;
    mm.norm = s->norm;
    mm.n_w = 1;
    mm.w[0] = &l->w[INFER__W_SHORTCONV_IN];
    mm.y[0] = bcu;
    mm.next = &l->w[INFER__W_SHORTCONV_OUT];
    infer__products(c, &mm);
    for (i = 0; i < 3; i++) part[i] = infer__columns(&bcu, i * width, width);
    memset(&conv, 0, sizeof conv);
    conv.x = part[2];
    conv.gate_in = part[0];
    conv.gate_out = part[1];
    conv.y = y;
    conv.w = &l->w[INFER__W_SHORTCONV_TAPS];
    conv.taps = l->conv_taps;
    conv.state = &c->cache.bufs[s->part->state[0]].buf;
    c->ctx.ops->conv(&c->ctx, &conv);
    infer__trace(c, l->index, "conv", &y);
    infer__last_product(c, &y, &l->w[INFER__W_SHORTCONV_OUT], NULL, 1, s);
}

static void infer__shortconv_describe(infer__text_out *o, const infer_model *m, const infer__layer *l, const char *in) {
    (void)m;
    infer__text_add(o, "    b, c, u = %s Win\n    a = (c * conv(b * u)) Wout  # causal, %d taps a column\n", in,
                    (int)l->conv_taps);
}

static const infer__label INFER__SHORTCONV_LABELS[] = {
    { INFER__W_SHORTCONV_IN, "Win" }, { INFER__W_SHORTCONV_TAPS, "taps" }, { INFER__W_SHORTCONV_OUT, "Wout" },
    { 0, NULL } };
