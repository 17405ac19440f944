/* rwkv.c: RWKV 6 and 7 (arXiv 2404.05892, 2503.14456), and models made of others with their time mix (QRWKV6; ARWKV,
 * arXiv 2501.15570): the mixer "time mix" and the FFN "channel mix".
 *
 * Both read mixtures of a row and the one before: convolutions of two taps, lerp and 1 - lerp. In version 6 decays and
 * mixtures depend on the row. Version 7 has a generalised delta rule, and mixes its values with those of layer 0, which
 * are kept for the pass. State per session: of a time mix its last input row and the states of its heads
 * (infer__wkv_args); of a channel mix its last input row.
 */
#include "../model.h"

enum { INFER__MAX_WKV_DIM = 256, INFER__MAX_WKV_RANK = 1 << 16 };

/* ---- opening ----------------------------------------------------------------------------------------------------- */

/* To fit F16, converters of RWKV 6 halve what later layers add, so the stream must be halved, too. */
static void infer__rwkv6_keys(infer__keys *k, infer__hparams *hp) {
    hp->halve_every = infer__key_int(k, "rescale_every_n_layers", 0, INFER__MAX_LAYERS, 0, 0);
}
static void infer__rwkv7_fix(infer__hparams *hp) { hp->pass_kept = hp->n_embd; }

static void infer__time_keys(infer__keys *k, infer__layer *l) {
    static const char *const both[2][5] = {
        {"time_decay_extra_dim", NULL, NULL, NULL, "time_mix_extra_dim"},
        {"attention.decay_lora_rank", "attention.iclr_lora_rank", "attention.value_residual_mix_lora_rank",
         "attention.gate_lora_rank", NULL}}, *const *names;
    const int32_t width = k->m->hp.n_embd, shifts = k->m->hp.norm == INFER__NORM_LAYER ? 2 : 1;
    infer__wkv *s = &l->wkv;
    int32_t i;
    s->seven = infer__arch_of(k->m)->mixer_else->id == INFER__SUBLAYER_TIME_MIX_7;
    names = both[s->seven];
    s->dim = infer__key_int(k, "wkv.head_size", 1, INFER__MAX_WKV_DIM, 0, 1);
    infer__key_int(k, "token_shift_count", shifts, shifts, shifts, 0);
    for (i = 0; i < 5; i++) /* the gate may be absent */
        if (names[i]) s->rank[i] = infer__key_int(k, names[i], i != 3, INFER__MAX_WKV_RANK, 0, i != 3);
    if (k->failed) return;
    s->heads = width / s->dim;
    s->kv_heads = l->n_head_kv ? l->n_head_kv : s->heads;
    if (width % s->dim) infer__key_misfit(k, "wkv.head_size", "does not divide embedding_length");
    else if (l->n_head && l->n_head != s->heads)
        infer__key_misfit(k, "attention.head_count", "wkv.head_size says another one");
    else if (s->heads % s->kv_heads || (s->seven && s->kv_heads != s->heads))
        infer__key_misfit(k, "attention.head_count_kv", "does not fit the heads, embedding_length / wkv.head_size");
}

/* Slots from..to: all of them exist, or none. */
static infer_result infer__time_need(const infer_model *m, const infer__layer *l, int from, int to, int all,
                                     infer_error *err) {
    infer_result r = INFER_OK;
    for (; from <= to && !r; from++) {
        if (all) r = infer__need(l, from, err);
        else if (l->w[from].type) r = infer__no_use(m, l, l->w[from].name, err);
    }
    return r;
}

static infer_result infer__time_check(const infer_model *m, infer__layer *l, infer_error *err) {
    const infer__weight *w = l->w, *lerp = &w[INFER__W_TIME_LERP];
    const int seven = l->wkv.seven, own = m->hp.norm == INFER__NORM_LAYER; /* not made of another model */
    const int gate = w[INFER__W_TIME_G1].type || w[INFER__W_TIME_G2].type;
    const int ln = own || w[seven ? INFER__W_TIME_LN : INFER__W_TIME_FIRST].type;
    infer_result r = infer__time_need(m, l, INFER__W_TIME_LN, INFER__W_TIME_LN_B, ln, err);
    if (!r && own && !seven) r = infer__need(l, INFER__W_TIME_FIRST, err);
    if (!r && seven && l->index) r = infer__time_need(m, l, INFER__W_TIME_V0, INFER__W_TIME_V2, 1, err);
    if (!r && gate) r = infer__time_need(m, l, INFER__W_TIME_G1, INFER__W_TIME_G2, 1, err);
    if (!r) r = infer__time_need(m, l, INFER__W_TIME_LERP_W, INFER__W_TIME_LERP_G, !seven && !lerp->type, err);
    if (!r && seven) r = infer__need(l, INFER__W_TIME_LERP, err);
    l->wkv.mixed = 5 + gate;
    if (r || !lerp->type || (int64_t)lerp->cols == (int64_t)l->wkv.mixed * m->hp.n_embd) return r;
    return infer__error(err, INFER_ERR_FORMAT, "tensor %s has %d values, not %d rows of %d", lerp->name,
                        (int)lerp->cols, (int)l->wkv.mixed, (int)m->hp.n_embd);
}

/* A slot's lerps become taps of convolutions; after x's are those of the row before minus the row. */
static infer_result infer__time_taps(infer_model *m, infer__layer *l, int slot, infer_error *err) {
    infer__weight *w = &l->w[slot];
    const int32_t n = w->cols, all = slot == INFER__W_TIME_LERP_X ? 2 * n : n;
    const char *removed;
    int32_t i;
    float *p = w->type ? (float *)infer__arena_alloc(&m->arena, 2 * (uint64_t)all * sizeof *p) : NULL;
    if (!w->type) return INFER_OK;
    if (!p) return infer__error(err, INFER_ERR_MEMORY, "no memory for %s", w->name);
    if (w->data) w->type->decode(w->data, p + n, n); /* not when only sizes are asked for */
    for (i = 0; i < n; i++) {
        p[2 * i] = w->data ? p[n + i] : 0.0f;
        p[2 * i + 1] = 1.0f - p[2 * i];
    }
    for (; i < all; i++) {
        p[2 * i] = 1.0f;
        p[2 * i + 1] = -1.0f;
    }
    w->type = infer__quant_find(0, &removed); /* F32 */
    w->rows = all;
    w->cols = 2;
    w->row_bytes = 2 * sizeof *p;
    if (w->data) w->data = p;
    return INFER_OK;
}

/* Values kept as float32, of the layer's channel mix too. */
static infer_result infer__time_split(infer_model *m, infer__layer *l, infer_error *err) {
    static const int16_t vectors[] = {INFER__W_TIME_FIRST, INFER__W_TIME_K_K, INFER__W_TIME_K_A, INFER__W_TIME_R_K};
    infer_result r = infer__time_taps(m, l, l->wkv.seven ? INFER__W_TIME_LERP : INFER__W_TIME_LERP_X, err);
    size_t i;
    if (!r) r = infer__time_taps(m, l, INFER__W_CHANNEL_LERP_K, err);
    if (!r) r = infer__time_taps(m, l, INFER__W_CHANNEL_LERP_R, err);
    for (i = 0; i < INFER__COUNT(vectors) && !r; i++)
        if (l->w[vectors[i]].type && !infer__mamba_floats(m, &l->w[vectors[i]], (uint64_t)m->hp.n_embd, err))
            r = INFER_ERR_MEMORY;
    return r;
}

static infer_result infer__channel_check(const infer_model *m, infer__layer *l, infer_error *err) {
    const int gate = l->w[INFER__W_CHANNEL_R].type || l->w[INFER__W_CHANNEL_LERP_R].type;
    return gate ? infer__time_need(m, l, INFER__W_CHANNEL_LERP_R, INFER__W_CHANNEL_R, 1, err) : INFER_OK;
}

static void infer__channel_state(infer_model *m, infer__layer *l, infer__part *p) {
    p->state[0] = infer__state_add(m, l, INFER__STATE_RECURRENT, INFER__GROUP_CELLS, 1, m->hp.n_embd);
}

static void infer__time_state(infer_model *m, infer__layer *l, infer__part *p) {
    const int32_t lanes = infer__ssm_lanes(l->wkv.dim, 0);
    infer__channel_state(m, l, p);
    p->state[1] = infer__state_add(m, l, INFER__STATE_RECURRENT, INFER__GROUP_CELLS, l->wkv.heads, lanes * lanes);
}

static int32_t infer__time_rank(const infer__layer *l) {
    int32_t most = 5 * l->wkv.rank[4], i;
    for (i = 0; i < 4; i++) most = INFER__MAX(most, l->wkv.rank[i]);
    return most;
}

/* Mixtures, later their products; decays, later the result; the values between two small matrices. */
static int64_t infer__time_cols(const infer_model *m, const infer__layer *l) {
    return (int64_t)(l->wkv.mixed + 1) * m->hp.n_embd + infer__time_rank(l);
}

static void infer__time_needs(const infer_model *m, const infer__layer *l, infer__needs *n) {
    (void)m;
    infer__need_cols(n, INFER__MAX(infer__time_rank(l), INFER__WKV_PARTS * infer__ssm_lanes(l->wkv.dim, 0)));
}

static int64_t infer__channel_cols(const infer_model *m, const infer__layer *l) {
    return 2 * (int64_t)m->hp.n_embd + l->n_ff;
}

static const char *infer__rwkv_lacks(const infer__ops *ops, const infer__layer *l) {
    infer__wkv_args a;
    memset(&a, 0, sizeof a);
    a.dim = l->wkv.dim;
    return ops->supports(INFER__OP_WKV, &a) ? NULL : "RWKV";
}

/* ---- a pass ------------------------------------------------------------------------------------------------------ */

/* y = x convolved with these taps. */
static void infer__mixture(infer_context *c, const infer__sublayer *s, infer__weight taps, const infer__tensor *y) {
    infer__conv_args a;
    memset(&a, 0, sizeof a);
    a.x = s->x;
    a.y = *y;
    a.w = &taps;
    a.taps = 2;
    a.state = &c->cache.bufs[s->part->state[0]].buf;
    infer__ops_of(&c->ctx)->conv(&c->ctx, &a);
}

/* y = act(x w) w' + bias, w' being the slot after w's. */
static void infer__low_rank(infer_context *c, const infer__layer *l, const infer__tensor *x, int32_t kind, int slot,
                            const infer__weight *bias, const infer__tensor *y) {
    const uint64_t at = (uint64_t)(l->wkv.mixed + 1) * (uint64_t)x->cols;
    infer__tensor t = infer__view(&c->at->work, (uint64_t)x->rows * at, x->rows, l->w[slot].rows);
    infer__product_act(c, x, kind, &l->w[slot], &t);
    infer__product(c, &t, &l->w[slot + 1], bias, y);
}

/* mixed[i]: columns of one area of rows; y, decays before, is behind it. */
static void infer__time_begin(infer_context *c, const infer__layer *l, infer__sublayer *s, infer__tensor *mixed,
                              infer__wkv_args *a) {
    const int32_t n = s->x.rows, width = s->x.cols, cols = l->wkv.mixed * width;
    const infer__tensor all = infer__view(&c->at->work, 0, n, cols);
    int32_t i;
    infer__sublayer_norm(c, s);
    for (i = 0; i < l->wkv.mixed; i++) mixed[i] = infer__columns(&all, i * width, width);
    memset(a, 0, sizeof *a);
    a->w = a->y = infer__view(&c->at->work, (uint64_t)n * (uint64_t)cols, n, width);
    a->cells = &c->cache.bufs[s->part->state[1]].buf;
    a->heads = l->wkv.heads;
    a->kv_heads = l->wkv.kv_heads;
    a->dim = l->wkv.dim;
}

/* The recurrence; its result is normed by heads. The epsilon is the published code's. */
static void infer__time_step(infer_context *c, const infer__layer *l, const infer__wkv_args *a) {
    infer__norm_args norm;
    infer__ops_of(&c->ctx)->wkv(&c->ctx, a);
    infer__trace(c, l->index, "wkv", &a->y);
    memset(&norm, 0, sizeof norm);
    norm.x = norm.y = a->y;
    norm.weight = &l->w[INFER__W_TIME_LN];
    norm.bias = &l->w[INFER__W_TIME_LN_B];
    norm.kind = INFER__NORM_LAYER;
    norm.n_groups = a->heads;
    norm.eps = 64e-5f;
    if (norm.weight->type) infer__ops_of(&c->ctx)->norm(&c->ctx, &norm);
}

/* y = x w + the slot after. */
static void infer__time_product(infer_context *c, const infer__layer *l, const infer__tensor *x, int slot,
                                const infer__tensor *y) {
    infer__product(c, x, &l->w[slot], infer__opt(&l->w[slot + 1]), y);
}

/* Mixture i has the lerp lerp_i + W2_i tanh(W1 x), x being a mixture, too. Results replace these. */
static void infer__time_6(infer_context *c, const infer__layer *l, infer__sublayer *s) {
    const int32_t n = s->x.rows, width = s->x.cols, keys = l->wkv.kv_heads * l->wkv.dim, rank = l->wkv.rank[4];
    infer__tensor few = infer__view(&c->at->work, 6 * (uint64_t)n * (uint64_t)width, n, 5 * rank), mixed[6], part;
    const infer__weight *fused = infer__opt(&l->w[INFER__W_TIME_LERP]);
    infer__wkv_args a;
    infer__weight w, lerp;
    int32_t i;
    infer__time_begin(c, l, s, mixed, &a);
    infer__mixture(c, s, infer__slice_rows(&l->w[INFER__W_TIME_LERP_X], 0, width), &a.w);
    infer__product_act(c, &a.w, INFER__ACT_TANH, &l->w[INFER__W_TIME_MIX_1], &few);
    infer__mixture(c, s, infer__slice_rows(&l->w[INFER__W_TIME_LERP_X], width, width), &a.w); /* the difference */
    for (i = 0; i < 5; i++) {
        part = infer__columns(&few, i * rank, rank);
        w = infer__slice_rows(&l->w[INFER__W_TIME_MIX_2], (int64_t)i * width, width);
        lerp = fused ? infer__slice(fused, (int64_t)i * width, width) : l->w[INFER__W_TIME_LERP_W + i];
        infer__product(c, &part, &w, &lerp, &mixed[i]);
        infer__gate(c, INFER__ACT_LINEAR, &a.w, &mixed[i]);
        infer__add_to(c, &s->x, &mixed[i]);
    }
    infer__low_rank(c, l, &mixed[0], INFER__ACT_TANH, INFER__W_TIME_DECAY_1, &l->w[INFER__W_TIME_DECAY], &a.w);
    a.k = infer__columns(&mixed[0], 0, keys);
    a.v = infer__columns(&mixed[1], 0, keys);
    a.r = mixed[2];
    infer__time_product(c, l, &mixed[1], INFER__W_TIME_KEY, &a.k);
    infer__time_product(c, l, &mixed[2], INFER__W_TIME_VALUE, &a.v);
    infer__time_product(c, l, &mixed[3], INFER__W_TIME_R, &a.r);
    infer__product(c, &mixed[4], &l->w[INFER__W_TIME_GATE], NULL, &mixed[3]);
    a.u = infer__opt(&l->w[INFER__W_TIME_FIRST]);
    a.kind = a.u ? INFER__WKV_6 : INFER__WKV_GATED;
    infer__time_step(c, l, &a);
    infer__gate(c, a.u ? INFER__ACT_SILU : INFER__ACT_SIGMOID, &mixed[3], &a.y);
    infer__last_product(c, &a.y, &l->w[INFER__W_TIME_OUT], NULL, 1, s);
}

static void infer__time_7(infer_context *c, const infer__layer *l, infer__sublayer *s) {
    const infer__weight *w = l->w;
    infer__tensor mixed[6];
    infer__wkv_args a;
    int32_t i;
    infer__time_begin(c, l, s, mixed, &a);
    for (i = 0; i < l->wkv.mixed; i++)
        infer__mixture(c, s, infer__slice_rows(&w[INFER__W_TIME_LERP], (int64_t)i * s->x.cols, s->x.cols), &mixed[i]);
    infer__low_rank(c, l, &mixed[1], INFER__ACT_TANH, INFER__W_TIME_W1, &w[INFER__W_TIME_W0], &a.w);
    a.kind = INFER__WKV_7;
    a.r = mixed[1];
    a.k = mixed[0];
    a.bonus = mixed[2];
    a.rate = mixed[4];
    a.first = infer__pass_kept(c, s->x.rows, 0, s->x.rows, s->x.cols);
    a.v = l->index ? mixed[2] : a.first;
    a.u = &w[INFER__W_TIME_R_K];
    a.k_k = &w[INFER__W_TIME_K_K];
    a.k_a = &w[INFER__W_TIME_K_A];
    infer__time_product(c, l, &mixed[0], INFER__W_TIME_R, &a.r);
    infer__time_product(c, l, &mixed[2], INFER__W_TIME_KEY, &a.k);
    infer__time_product(c, l, &mixed[3], INFER__W_TIME_VALUE, &a.v);
    if (l->index) a.mix = mixed[3];
    if (l->index) infer__low_rank(c, l, &mixed[3], INFER__ACT_LINEAR, INFER__W_TIME_V1, &w[INFER__W_TIME_V0], &a.mix);
    infer__low_rank(c, l, &mixed[4], INFER__ACT_LINEAR, INFER__W_TIME_A1, &w[INFER__W_TIME_A0], &a.rate);
    if (l->wkv.mixed > 5) infer__low_rank(c, l, &mixed[5], INFER__ACT_SIGMOID, INFER__W_TIME_G1, NULL, &mixed[5]);
    infer__time_step(c, l, &a);
    infer__add_to(c, &a.bonus, &a.y);
    if (l->wkv.mixed > 5) infer__gate(c, INFER__ACT_LINEAR, &mixed[5], &a.y);
    infer__last_product(c, &a.y, &w[INFER__W_TIME_OUT], NULL, 1, s);
}

static void infer__channel_mix(infer_context *c, const infer__layer *l, infer__sublayer *s) {
    const int32_t n = s->x.rows, width = s->x.cols;
    const uint64_t at = (uint64_t)n * (uint64_t)width;
    infer__tensor x = infer__view(&c->at->work, 0, n, width), r = infer__view(&c->at->work, at, n, width);
    infer__tensor k = infer__view(&c->at->work, 2 * at, n, l->n_ff);
    const infer__add_args *add = s->add;
    infer__sublayer_norm(c, s);
    infer__mixture(c, s, l->w[INFER__W_CHANNEL_LERP_K], &x);
    infer__product_act(c, &x, l->act, &l->w[INFER__W_CHANNEL_KEY], &k);
    if (l->w[INFER__W_CHANNEL_R].type) s->add = NULL;
    infer__last_product(c, &k, &l->w[INFER__W_CHANNEL_VALUE], NULL, 1, s);
    s->add = add;
    if (!l->w[INFER__W_CHANNEL_R].type) return;
    infer__mixture(c, s, l->w[INFER__W_CHANNEL_LERP_R], &x);
    infer__product(c, &x, &l->w[INFER__W_CHANNEL_R], NULL, &r);
    infer__gate(c, INFER__ACT_SIGMOID, &r, &s->out);
    infer__sublayer_add(c, s);
}

/* ---- as text ----------------------------------------------------------------------------------------------------- */

static void infer__time_describe(infer__text_out *o, const infer_model *m, const infer__layer *l, const char *in) {
    const infer__wkv *s = &l->wkv;
    const int first = l->w[INFER__W_TIME_FIRST].type != NULL, ln = l->w[INFER__W_TIME_LN].type != NULL;
    const char *gate = !s->seven ? first ? " * silu(x_g Wg)" : " * sigmoid(x_g Wg)"
                                 : s->mixed > 5 ? " * g2 sigmoid(g1 x_g)" : "";
    (void)m;
    infer__text_add(o, "    x_i = %s + (previous %s - %s) %s\n", in, in, in,
                    s->seven ? "lerp_i" : "(lerp_i + w2_i tanh(w1 x_x))");
    infer__text_add(o, "    r, k, v = x_r Wr, x_k Wk, x_v Wv  # %d heads of %d, %d of k and v\n", (int)s->heads,
                    (int)s->dim, (int)s->kv_heads);
    infer__text_add(o, "    d = exp(-%s + w2 tanh(w1 x_w))%s)\n", s->seven ? "sigmoid(w0" : "exp(decay",
                    s->seven ? " / sqrt(e)" : "");
    if (s->seven) infer__text_add(o, "    a = sigmoid(a0 + a2 a1 x_a); e = unit(k k_k); k = k (1 + (a - 1) k_a)\n");
    if (s->seven && l->index) infer__text_add(o, "    v = v + (layer 0's v - v) sigmoid(v0 + v2 v1 x_v)\n");
    infer__text_add(o, "    %s\n", s->seven ? "S = d S - (a e)^T (e S) + k^T v; y = S r"
                                   : first  ? "y = (S + first k^T v) r; S = d S + k^T v"
                                            : "S = d S + ((1 - d) k)^T v; y = S r / sqrt(width of a head)");
    infer__text_add(o, "    t = (%s%s)%s Wout\n", ln ? "layer_norm(y) * ln" : "y", s->seven ? " + (k r_k r) v" : "",
                    gate);
}

static void infer__channel_describe(infer__text_out *o, const infer_model *m, const infer__layer *l, const char *in) {
    (void)m;
    infer__text_add(o, "    x_i = %s + (previous %s - %s) lerp_i; f = %svalue(%s(key x_k))  # %d wide\n", in, in, in,
                    l->w[INFER__W_CHANNEL_R].type ? "sigmoid(Wr x_r) * " : "", infer__act_name(l->act), (int)l->n_ff);
}

static const infer__label INFER__TIME_LABELS[] = {{INFER__W_TIME_R, "Wr"},
                                                  {INFER__W_TIME_KEY, "Wk"},
                                                  {INFER__W_TIME_VALUE, "Wv"},
                                                  {INFER__W_TIME_OUT, "Wout"},
                                                  {0, NULL}};
static const infer__label INFER__CHANNEL_LABELS[] = {
    {INFER__W_CHANNEL_KEY, "key"}, {INFER__W_CHANNEL_VALUE, "value"}, {0, NULL}};
