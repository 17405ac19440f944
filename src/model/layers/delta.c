/* delta.c: gated delta nets (arXiv 2412.06464; Qwen3-Next, Qwen3.5), and Kimi delta attention (arXiv 2510.26692):
 * mixers with a state of one matrix a head.
 *
 * q, k, v = silu(conv(h Wqkv)); beta, alpha = h Wb, h Wa; y = delta rule (infer__delta_args);
 * d = (norm of heads(y) * silu(h Wz)) Wout; in some models sigmoid(h Wz).
 * Kimi's has three matrices in place of Wqkv, alphas of each key, and a sigmoid in place of silu(h Wz); Wa and Wz may
 * be products of two.
 * Its state per session: the last taps - 1 rows for the convolution, and the states of its heads.
 * infer__ssm has the sizes: heads of dim values, groups = key heads, of `state` values.
 */
#include "../model.h"

/* ---- opening ----------------------------------------------------------------------------------------------------- */

enum { INFER__MAX_DELTA_STATE = 256 }; /* so that a few prepared rows fit a worker's scratch */

static void infer__delta_keys(infer__keys *k, infer__layer *l) {
    infer__ssm *s = &l->ssm;
    l->conv_taps = infer__key_int(k, "ssm.conv_kernel", 2, INFER__MAX_TAPS, 0, 1);
    s->inner = infer__key_int(k, "ssm.inner_size", 1, INFER__MAX_DIM / 4, 0, 1);
    s->state = infer__key_int(k, "ssm.state_size", 1, INFER__MAX_DELTA_STATE, 0, 1);
    s->rank = infer__key_int(k, "ssm.time_step_rank", 1, INFER__MAX_DIM / 4, 0, 1);
    s->groups = infer__key_int(k, "ssm.group_count", 1, 1 << 16, 0, 1);
    infer__mamba_to_heads(k, s);
    s->rank = 0;
    s->tiled = (infer__arch_of(k->m)->flags & INFER__DELTA_TILED) != 0;
    s->gate = infer__arch_of(k->m)->flags & INFER__DELTA_SIGMOID ? INFER__ACT_SIGMOID : INFER__ACT_SILU;
    if (k->failed) return;
    if (s->heads % s->groups != 0)
        infer__key_misfit(k, "ssm.group_count", "does not divide the heads (ssm.time_step_rank)");
    if ((int64_t)s->groups * s->state > INFER__MAX_DIM / 8)
        infer__key_misfit(k, "ssm.group_count", "with these states too many values");
    if (!k->failed) s->conv = s->inner + 2 * s->groups * s->state;
}

/* kda.gate_lower_bound; minus infinity, which llama.cpp writes for models without one, is none. */
static float infer__kda_bound(infer__keys *k) {
    static const char NAME[] = "kda.gate_lower_bound";
    const uint64_t flags = infer__arch_of(k->m)->flags;
    const infer__kv *kv = flags & INFER__KDA_BOUND ? infer__gguf_find(k->g, infer__key_name(k, NAME)) : NULL;
    double v = kv && infer__kv_kind(kv->type) ? infer__kv_number(kv, 0) : 0;
    if (v < 0 && !infer__finite((float)v) && !(flags & INFER__KDA_A_PLUS)) return 0;
    if ((kv || (flags & INFER__KDA_A_PLUS)) && !(v < 0 && v >= -1e30))
        infer__key_misfit(k, NAME, "missing, or not a number below 0");
    return (float)v;
}

/* Files may count the heads of other layers only. */
static void infer__kda_keys(infer__keys *k, infer__layer *l) {
    infer__ssm *s = &l->ssm;
    l->conv_taps = infer__key_int(k, "ssm.conv_kernel", 2, INFER__MAX_TAPS, 0, 1);
    s->dim = s->state = infer__key_int(k, "kda.head_dim", 1, INFER__MAX_DELTA_STATE, 0, 1);
    s->heads = s->groups = l->n_head > 0 ? l->n_head : k->m->hp.n_head;
    s->kda = 1;
    s->gate = INFER__ACT_SIGMOID;
    s->bound = infer__kda_bound(k);
    if ((infer__arch_of(k->m)->flags & INFER__KDA_A_PLUS) && !infer__key_bool(k, "kda.safe_gate", 1))
        infer__key_unsupported(k, "kda.safe_gate", "decays without a bound");
    if (!k->failed && (int64_t)s->heads * s->dim > INFER__MAX_DIM / 8)
        infer__key_misfit(k, "kda.head_dim", "with these heads (attention.head_count) too many values");
    if (k->failed) return;
    s->inner = s->heads * s->dim;
    s->conv = 3 * s->inner;
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

/* A matrix of `inner` rows, or two one after the other. */
static infer_result infer__kda_pair(const infer__layer *l, int a, int b, infer_error *err) {
    const infer__weight *first = &l->w[a], *last = &l->w[b];
    if (last->type ? last->cols == first->rows : first->rows == l->ssm.inner) return INFER_OK;
    return infer__error(err, INFER_ERR_FORMAT, "tensor %s has %d rows, the model needs %d", first->name,
                        (int)first->rows, (int)(last->type ? last->cols : l->ssm.inner));
}

static infer_result infer__kda_check(const infer_model *m, infer__layer *l, infer_error *err) {
    static const int16_t all[] = {INFER__W_DELTA_BETA, INFER__W_DELTA_DT_B, INFER__W_DELTA_A, INFER__W_DELTA_NORM};
    const infer__weight *w = l->w;
    infer_result r = INFER_OK;
    size_t i;
    for (i = 0; i < INFER__COUNT(all) && !r; i++) r = infer__need(l, all[i], err);
    if (!r) r = infer__kda_pair(l, INFER__W_KDA_F_A, INFER__W_KDA_F_B, err);
    if (!r && w[INFER__W_KDA_G].type && w[INFER__W_KDA_G_A].type)
        r = infer__no_use(m, l, w[INFER__W_KDA_G_A].name, err);
    if (!r) r = infer__only_with(m, l, INFER__W_KDA_G_B, INFER__W_KDA_G_A, err);
    if (r || w[INFER__W_KDA_G].type) return r;
    r = infer__need(l, INFER__W_KDA_G_A, err);
    return r ? r : infer__kda_pair(l, INFER__W_KDA_G_A, INFER__W_KDA_G_B, err);
}

static infer_result infer__delta_split(infer_model *m, infer__layer *l, infer_error *err) {
    const uint64_t n = (uint64_t)l->ssm.heads, decays = (uint64_t)l->w[INFER__W_DELTA_DT_B].cols;
    return infer__mamba_floats(m, &l->w[INFER__W_DELTA_DT_B], decays, err) &&
                   infer__mamba_floats(m, &l->w[INFER__W_DELTA_A], n, err)
               ? INFER_OK
               : INFER_ERR_MEMORY;
}

/* The taps of q, k and v as those of one convolution; A with the sign of infer__delta_args. */
static infer_result infer__kda_split(infer_model *m, infer__layer *l, infer_error *err) {
    const infer__ssm *s = &l->ssm;
    const infer__weight *part = &l->w[INFER__W_KDA_TAPS_Q];
    infer__weight *taps = &l->w[INFER__W_DELTA_TAPS];
    const int64_t row = l->conv_taps;
    const char *removed;
    int32_t i, j;
    float *a, *p = (float *)infer__arena_alloc(&m->arena, (uint64_t)s->conv * (uint64_t)row * sizeof *p);
    if (!p) return infer__error(err, INFER_ERR_MEMORY, "no memory for %s", part->name);
    if (infer__delta_split(m, l, err)) return INFER_ERR_MEMORY;
    a = (float *)(uintptr_t)l->w[INFER__W_DELTA_A].data;
    for (i = 0; i < s->heads && a && s->bound != 0 && !(infer__arch_of(m)->flags & INFER__KDA_A_PLUS); i++)
        a[i] = -a[i];
    memset(taps, 0, sizeof *taps);
    taps->type = infer__quant_find(0, &removed); /* F32 */
    taps->rows = s->conv;
    taps->cols = l->conv_taps;
    taps->row_bytes = (uint64_t)row * sizeof *p;
    taps->name = part->name;
    if (!part->data) return INFER_OK; /* only sizes are asked for */
    for (i = 0; i < 3; i++)
        for (j = 0; j < s->inner; j++)
            part[i].type->decode((const char *)part[i].data + (uint64_t)j * part[i].row_bytes,
                                 p + ((int64_t)i * s->inner + j) * row, l->conv_taps);
    taps->data = p;
    return INFER_OK;
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

/* The same, with alphas of keys and the values between the two matrices. */
static int64_t infer__kda_cols(const infer_model *m, const infer__layer *l) {
    return infer__delta_cols(m, l) + l->ssm.inner +
           INFER__MAX(l->w[INFER__W_KDA_F_A].rows, l->w[INFER__W_KDA_G_A].rows);
}

static void infer__delta_needs(const infer_model *m, const infer__layer *l, infer__needs *n) {
    const infer__weight *w = l->w;
    (void)m;
    infer__need_cols(n, INFER__MAX(l->ssm.conv, 4 * INFER__LANES * l->ssm.state));
    infer__need_cols(n, INFER__MAX(w[INFER__W_KDA_F_A].rows, w[INFER__W_KDA_G_A].rows));
}

/* Of all that step through states of a key's and a value's length. */
static const char *infer__delta_lacks(const infer__ops *ops, const infer__layer *l) {
    infer__conv_args conv;
    infer__delta_args a;
    const int taps = l->w[INFER__W_DELTA_TAPS].type != NULL;
    memset(&conv, 0, sizeof conv);
    memset(&a, 0, sizeof a);
    conv.w = &l->w[INFER__W_DELTA_TAPS];
    a.kind = l->ssm.kda ? INFER__DELTA_KEYS : taps ? INFER__DELTA_HEADS : INFER__DELTA_PLAIN;
    a.heads = l->ssm.heads;
    a.k_heads = a.kind == INFER__DELTA_PLAIN ? a.heads : l->ssm.groups;
    a.state = l->ssm.state;
    if (taps && !ops->supports(INFER__OP_CONV, &conv)) return "short convolution";
    return ops->supports(INFER__OP_DELTA, &a) ? NULL : "delta net";
}

/* ---- a pass ------------------------------------------------------------------------------------------------------ */

/* alpha and beta: two matrices, or one in which they alternate per key head. */
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

/* y = x W, or (x Wa) Wb with the intermediate values at float `at` of the work area. */
static void infer__kda_product(infer_context *c, const infer__layer *l, const infer__tensor *x, int a, int b,
                               uint64_t at, const infer__tensor *y) {
    infer__tensor low = infer__view(&c->at->work, at, x->rows, l->w[a].rows);
    if (l->w[b].type) {
        infer__product(c, x, &l->w[a], NULL, &low);
        infer__product(c, &low, &l->w[b], NULL, y);
    } else infer__product(c, x, &l->w[a], NULL, y);
}

/* q, k, v before their convolution, z, alpha and beta. */
static void infer__kda_project(infer_context *c, const infer__layer *l, const infer__tensor *x,
                               const infer__tensor *raw, const infer__tensor *z, uint64_t at, infer__delta_args *a) {
    const infer__ssm *s = &l->ssm;
    const int g = l->w[INFER__W_KDA_G].type ? INFER__W_KDA_G : INFER__W_KDA_G_A;
    uint64_t low;
    infer__matmul_args mm;
    int32_t i;
    a->kind = INFER__DELTA_KEYS;
    a->bound = s->bound;
    a->run = a->run_step = s->heads;
    a->alpha = infer__view(&c->at->work, at, x->rows, s->inner);
    a->beta = infer__view(&c->at->work, at += (uint64_t)x->rows * (uint64_t)s->inner, x->rows, s->heads);
    low = at + (uint64_t)x->rows * (uint64_t)s->heads;
    memset(&mm, 0, sizeof mm);
    mm.x = *x;
    mm.n_w = 3;
    for (i = 0; i < 3; i++) {
        mm.w[i] = &l->w[INFER__W_KDA_Q + i];
        mm.y[i] = infer__columns(raw, i * s->inner, s->inner);
    }
    infer__products(c, &mm);
    infer__product(c, x, &l->w[INFER__W_DELTA_BETA], NULL, &a->beta);
    infer__kda_product(c, l, x, INFER__W_KDA_F_A, INFER__W_KDA_F_B, low, &a->alpha);
    infer__kda_product(c, l, x, g, INFER__W_KDA_G_B, low, z);
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
    memset(&a, 0, sizeof a);
    if (d->kda) infer__kda_project(c, l, &s->x, &raw, &z, 2 * at + rows * (uint64_t)d->inner, &a);
    else {
        infer__product(c, &s->x, &l->w[INFER__W_DELTA_QKV], NULL, &raw);
        infer__product(c, &s->x, &l->w[INFER__W_DELTA_GATE], NULL, &z);
        infer__delta_rates(c, l, &s->x, 2 * at + rows * (uint64_t)d->inner, &a);
    }
    memset(&conv, 0, sizeof conv);
    conv.x = raw;
    conv.y = conved;
    conv.w = &l->w[INFER__W_DELTA_TAPS];
    conv.silu = 1;
    conv.taps = l->conv_taps;
    conv.state = &c->cache.bufs[s->part->state[0]].buf;
    infer__ops_of(&c->ctx)->conv(&c->ctx, &conv);
    infer__trace(c, l->index, "delta_conv", &conved);
    a.q = infer__columns(&conved, 0, keys);
    a.k = infer__columns(&conved, keys, keys);
    a.v = infer__columns(&conved, 2 * keys, d->inner);
    a.y = infer__view(&c->at->work, 0, n, d->inner); /* the convolution's input is not needed any more */
    a.a = &l->w[INFER__W_DELTA_A];
    a.dt_bias = &l->w[INFER__W_DELTA_DT_B];
    a.cells = &c->cache.bufs[s->part->state[1]].buf;
    a.heads = d->heads;
    a.k_heads = d->groups;
    a.dim = d->dim;
    a.state = d->state;
    a.tiled = d->tiled;
    a.eps = d->kda ? c->model->hp.eps : 1e-6f; /* the published code's, independent of the norms' */
    infer__ops_of(&c->ctx)->delta(&c->ctx, &a);
    infer__trace(c, l->index, "delta", &a.y);
    infer__slot_norm(c, l, INFER__W_DELTA_NORM, d->heads, &a.y, &a.y);
    infer__gate(c, d->gate, &z, &a.y);
    infer__last_product(c, &a.y, &l->w[d->kda ? INFER__W_KDA_OUT : INFER__W_DELTA_OUT], NULL, 1, s);
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
    infer__text_add(o, "    d = (rms_norm(y) * ssm_norm * %s(%s Wz)) Wout  # normed per head\n",
        infer__act_name(s->gate),
                    in);
}

static void infer__kda_describe(infer__text_out *o, const infer_model *m, const infer__layer *l, const char *in) {
    const infer__ssm *s = &l->ssm;
    (void)m;
    infer__text_add(o, "    q, k, v = silu(conv(%s (Wq, Wk, Wv)))  # causal, %d taps a column\n", in,
                    (int)l->conv_taps);
    infer__text_add(o, "    q, k = q / |q| / sqrt(%d), k / |k|; b = sigmoid(%s Wb)\n", (int)s->state, in);
    if (s->bound != 0) infer__text_add(o, "    g = exp(%g sigmoid(|A| (%s Wf + bias)))  # of each key\n", s->bound, in);
    else infer__text_add(o, "    g = exp(A softplus(%s Wf + bias))  # of each key\n", in);
    infer__text_add(o, "    S = g S; S = S + k b (v - S k); y = S q  # %d heads of %d\n", (int)s->heads, (int)s->dim);
    infer__text_add(o, "    d = (rms_norm(y) * ssm_norm * sigmoid(%s Wg)) Wout  # normed per head\n", in);
}

static const infer__label INFER__KDA_LABELS[] = {
    {INFER__W_KDA_Q, "Wq"},  {INFER__W_KDA_K, "Wk"},     {INFER__W_KDA_V, "Wv"},     {INFER__W_KDA_F_A, "Wf"},
    {INFER__W_KDA_G, "Wg"},  {INFER__W_KDA_G_A, "Wg"},   {INFER__W_KDA_OUT, "Wout"}, {0, NULL}};

static const infer__label INFER__DELTA_LABELS[] = {
    {INFER__W_DELTA_QKV, "Wqkv"}, {INFER__W_DELTA_GATE, "Wz"}, {INFER__W_DELTA_OUT, "Wout"}, {0, NULL}};
