/* rwkv.c: RWKV 6 and 7 (arXiv 2404.05892, 2503.14456) and models made of others with their time mix (QRWKV6, ARWKV, arXiv
 * 2501.15570): the mixers "time mix" and the FFN "channel mix".
 *
 * Both read rows mixed with the one before (infer__shift_args). Version 6 has a recurrence whose decays depend on the
 * row, and how much is mixed does too; version 7 a generalised delta rule, and its values are mixed with those of layer
 * 0, which are kept for the pass. What a time mix keeps of a session is its last row and the states of its heads
 * (infer__wkv_args); a channel mix its last row.
 */
#include "../model.h"

enum { INFER__MAX_WKV_DIM = 256, INFER__MAX_WKV_RANK = 1 << 16 };
#define INFER__WKV_EPS 64e-5f /* of the norm of heads, in the published code */

/* ---- opening ----------------------------------------------------------------------------------------------------- */

/* Converters halve what later layers add, so that F16 did not overflow; the stream is to be halved, too. */
static void infer__rwkv6_keys(infer__keys *k, infer__hparams *hp) {
    hp->halve_every = infer__key_int(k, "rescale_every_n_layers", 0, INFER__MAX_LAYERS, 0, 0);
}

static void infer__rwkv7_keys(infer__keys *k, infer__hparams *hp) {
    (void)k;
    hp->pass_kept = hp->n_embd;
}

static void infer__time_keys(infer__keys *k, infer__layer *l) {
    const int32_t width = k->m->hp.n_embd, shifts = k->m->hp.norm == INFER__NORM_LAYER ? 2 : 1;
    infer__wkv *s = &l->wkv;
    s->dim = infer__key_int(k, "wkv.head_size", 1, INFER__MAX_WKV_DIM, 0, 1);
    infer__key_int(k, "token_shift_count", shifts, shifts, shifts, 0);
    if (k->failed) return;
    s->heads = width / s->dim;
    s->kv_heads = l->n_head_kv ? l->n_head_kv : s->heads;
    if (width % s->dim != 0) infer__key_misfit(k, "wkv.head_size", "does not divide embedding_length");
    else if (l->n_head && l->n_head != s->heads) infer__key_misfit(k, "attention.head_count", "not what wkv.head_size makes");
    else if (s->heads % s->kv_heads) infer__key_misfit(k, "attention.head_count_kv", "does not divide the heads");
}

static void infer__time_6_keys(infer__keys *k, infer__layer *l) {
    infer__time_keys(k, l);
    l->wkv.rank[INFER__D_RANK_MIX - INFER__D_RANK_DECAY] =
        infer__key_int(k, "time_mix_extra_dim", 1, INFER__MAX_WKV_RANK, 0, 1);
    l->wkv.rank[0] = infer__key_int(k, "time_decay_extra_dim", 1, INFER__MAX_WKV_RANK, 0, 1);
}

static void infer__time_7_keys(infer__keys *k, infer__layer *l) {
    static const char *const names[] = {"attention.decay_lora_rank", "attention.iclr_lora_rank",
                                        "attention.value_residual_mix_lora_rank", "attention.gate_lora_rank"};
    int32_t i;
    infer__time_keys(k, l);
    for (i = 0; i < 4; i++) l->wkv.rank[i] = infer__key_int(k, names[i], i < 3, INFER__MAX_WKV_RANK, 0, i < 3);
    if (!k->failed && l->wkv.kv_heads != l->wkv.heads)
        infer__key_misfit(k, "attention.head_count_kv", "keys and values have as many heads as there are");
}

/* Slots from..to must all be there, or with `none` none of them. */
static infer_result infer__rwkv_need(const infer_model *m, const infer__layer *l, int from, int to, int none,
                                     infer_error *err) {
    infer_result r = INFER_OK;
    for (; from <= to && !r; from++) {
        if (!none) r = infer__need(l, from, err);
        else if (l->w[from].type) r = infer__no_use(m, l, l->w[from].name, err);
    }
    return r;
}

/* What both versions have; lerps: how many rows lerp_fused has; ln: the norm of heads. */
static infer_result infer__time_check(const infer_model *m, infer__layer *l, int32_t lerps, int ln, infer_error *err) {
    const infer__weight *w = &l->w[INFER__W_TIME_LERP];
    static const int16_t all[] = {INFER__W_TIME_KEY, INFER__W_TIME_VALUE, INFER__W_TIME_R, INFER__W_TIME_OUT};
    infer_result r = infer__rwkv_need(m, l, INFER__W_TIME_LN, INFER__W_TIME_LN_B, !ln, err);
    size_t i;
    for (i = 0; i < INFER__COUNT(all) && !r; i++) r = infer__need(l, all[i], err);
    if (!r && w->type && (int64_t)w->cols != (int64_t)lerps * m->hp.n_embd)
        r = infer__error(err, INFER_ERR_FORMAT, "tensor %s has %d values, not %d rows of %d", w->name, (int)w->cols,
                         (int)lerps, (int)m->hp.n_embd);
    return r;
}

static infer_result infer__time_6_check(const infer_model *m, infer__layer *l, infer_error *err) {
    const int first = l->w[INFER__W_TIME_FIRST].type != NULL, fused = l->w[INFER__W_TIME_LERP].type != NULL;
    infer_result r = infer__time_check(m, l, 5, first, err);
    if (!r) r = infer__rwkv_need(m, l, INFER__W_TIME_LERP_W, INFER__W_TIME_LERP_G, fused, err);
    if (!r) r = infer__rwkv_need(m, l, INFER__W_TIME_GATE, INFER__W_TIME_LERP_X, 0, err);
    if (!r) r = infer__rwkv_need(m, l, INFER__W_TIME_MIX_1, INFER__W_TIME_MIX_2, 0, err);
    if (!r && m->hp.norm == INFER__NORM_LAYER) r = infer__need(l, INFER__W_TIME_FIRST, err);
    return r ? r : infer__rwkv_need(m, l, INFER__W_TIME_DECAY, INFER__W_TIME_DECAY_2, 0, err);
}

static infer_result infer__time_7_check(const infer_model *m, infer__layer *l, infer_error *err) {
    const int gate = l->w[INFER__W_TIME_G1].type != NULL || l->w[INFER__W_TIME_G2].type != NULL;
    const int ln = m->hp.norm == INFER__NORM_LAYER || l->w[INFER__W_TIME_LN].type;
    infer_result r = infer__time_check(m, l, 5 + gate, ln, err);
    if (!r) r = infer__need(l, INFER__W_TIME_LERP, err);
    if (!r) r = infer__rwkv_need(m, l, INFER__W_TIME_W0, INFER__W_TIME_A2, 0, err);
    if (!r && l->index > 0) r = infer__rwkv_need(m, l, INFER__W_TIME_V0, INFER__W_TIME_V2, 0, err);
    if (!r && gate) r = infer__rwkv_need(m, l, INFER__W_TIME_G1, INFER__W_TIME_G2, 0, err);
    return r ? r : infer__rwkv_need(m, l, INFER__W_TIME_K_K, INFER__W_TIME_R_K, 0, err);
}

/* Vectors of slots from..to (where they are there) become float32, one behind the other in slot `to_slot`. */
static infer_result infer__rwkv_join(infer_model *m, infer__layer *l, int from, int to, int to_slot, infer_error *err) {
    infer__weight w = l->w[from];
    uint64_t n = 0;
    float *p;
    int i;
    for (i = from; i <= to; i++) n += l->w[i].type ? (uint64_t)l->w[i].cols : 0;
    w.cols = (int32_t)n; /* no more than a few rows of the model */
    w.data = NULL;
    if ((p = infer__mamba_floats(m, &w, n, err)) == NULL) return INFER_ERR_MEMORY;
    for (i = from; i <= to; i++) {
        if (!l->w[i].type || !l->w[i].data) continue;
        l->w[i].type->decode(l->w[i].data, p, l->w[i].cols);
        if (i == from) w.data = p;
        p += l->w[i].cols;
    }
    l->w[to_slot] = w;
    return INFER_OK;
}

static infer_result infer__time_6_split(infer_model *m, infer__layer *l, infer_error *err) {
    const int lerp = l->w[INFER__W_TIME_LERP].type ? INFER__W_TIME_LERP : INFER__W_TIME_LERP_W;
    infer_result r = infer__rwkv_join(m, l, lerp, lerp == INFER__W_TIME_LERP ? lerp : INFER__W_TIME_LERP_G,
                                      INFER__W_TIME_LERP, err);
    if (!r) r = infer__rwkv_join(m, l, INFER__W_TIME_LERP_X, INFER__W_TIME_LERP_X, INFER__W_TIME_LERP_X, err);
    if (r || !l->w[INFER__W_TIME_FIRST].type) return r;
    return infer__rwkv_join(m, l, INFER__W_TIME_FIRST, INFER__W_TIME_FIRST, INFER__W_TIME_FIRST, err);
}

static infer_result infer__time_7_split(infer_model *m, infer__layer *l, infer_error *err) {
    infer_result r = infer__rwkv_join(m, l, INFER__W_TIME_LERP, INFER__W_TIME_LERP, INFER__W_TIME_LERP, err);
    int i;
    for (i = INFER__W_TIME_K_K; i <= INFER__W_TIME_R_K && !r; i++) r = infer__rwkv_join(m, l, i, i, i, err);
    return r;
}

static infer_result infer__channel_check(const infer_model *m, infer__layer *l, infer_error *err) {
    const int gate = l->w[INFER__W_CHANNEL_R].type || l->w[INFER__W_CHANNEL_LERP_R].type;
    infer_result r = infer__need(l, INFER__W_CHANNEL_LERP_K, err);
    if (!r) r = infer__rwkv_need(m, l, INFER__W_CHANNEL_KEY, INFER__W_CHANNEL_VALUE, 0, err);
    if (!r && gate) r = infer__need(l, INFER__W_CHANNEL_R, err);
    return r || !gate ? r : infer__need(l, INFER__W_CHANNEL_LERP_R, err);
}

static infer_result infer__channel_split(infer_model *m, infer__layer *l, infer_error *err) {
    return infer__rwkv_join(m, l, INFER__W_CHANNEL_LERP_K, INFER__W_CHANNEL_LERP_R, INFER__W_CHANNEL_LERP_K, err);
}

static void infer__channel_state(infer_model *m, infer__layer *l, infer__part *p) {
    p->state[0] = infer__state_add(m, l, INFER__STATE_RECURRENT, INFER__GROUP_CELLS, 1, m->hp.n_embd);
}

static void infer__time_state(infer_model *m, infer__layer *l, infer__part *p) {
    infer__channel_state(m, l, p);
    p->state[1] = infer__state_add(m, l, INFER__STATE_RECURRENT, INFER__GROUP_CELLS, l->wkv.heads,
                                   l->wkv.dim * infer__ssm_lanes(l->wkv.dim, 0));
}

/* The widest of what lies between two small matrices. */
static int32_t infer__time_rank(const infer__layer *l) {
    int32_t most = 5 * l->wkv.rank[INFER__D_RANK_MIX - INFER__D_RANK_DECAY], i;
    for (i = 0; i < 4; i++) most = INFER__MAX(most, l->wkv.rank[i]);
    return most;
}

/* Mixed rows, where all but decays lies later; decays, then the result; the values between two small matrices. */
static int64_t infer__time_cols(const infer_model *m, const infer__layer *l) {
    return (int64_t)l->w[INFER__W_TIME_LERP].cols + m->hp.n_embd + infer__time_rank(l);
}

static void infer__time_needs(const infer_model *m, const infer__layer *l, infer__needs *n) {
    (void)m;
    infer__need_cols(n, INFER__MAX(infer__time_rank(l), 5 * infer__ssm_lanes(l->wkv.dim, 0)));
}

static int64_t infer__channel_cols(const infer_model *m, const infer__layer *l) {
    (void)m;
    return (int64_t)l->w[INFER__W_CHANNEL_LERP_K].cols + l->n_ff;
}

static void infer__channel_needs(const infer_model *m, const infer__layer *l, infer__needs *n) {
    (void)m;
    infer__need_cols(n, l->n_ff);
}

static const char *infer__rwkv_lacks(const infer__ops *ops, const infer__layer *l) {
    (void)l;
    return ops->supports(INFER__OP_SHIFT, NULL) && ops->supports(INFER__OP_WKV, NULL) ? NULL : "RWKV";
}

/* ---- a pass ------------------------------------------------------------------------------------------------------ */

/* y = x mixed with the row before, by the weights of a slot. */
static void infer__shift(infer_context *c, const infer__layer *l, const infer__sublayer *s, int slot, int own,
                         const infer__tensor *y) {
    infer__shift_args a;
    memset(&a, 0, sizeof a);
    a.x = s->x;
    a.y = *y;
    a.w = &l->w[slot];
    a.state = &c->cache.bufs[s->part->state[0]].buf;
    a.n = l->w[slot].cols / s->x.cols;
    a.own = own;
    c->ctx.ops->shift(&c->ctx, &a);
}

/* y = act(x w), LINEAR = as it is. */
static void infer__product_act(infer_context *c, const infer__tensor *x, const infer__weight *w, int32_t kind,
                               const infer__tensor *y) {
    infer__act_args act;
    infer__product(c, x, w, NULL, y);
    memset(&act, 0, sizeof act);
    act.x = act.y = *y;
    act.kind = kind;
    if (kind != INFER__ACT_LINEAR) c->ctx.ops->act(&c->ctx, &act);
}

/* y = act(x w[0]) w[1] + bias; what lies between is behind the mixed rows and the decays. */
static void infer__low_rank(infer_context *c, const infer__layer *l, const infer__tensor *x, int slot, int bias,
                            int32_t kind, const infer__tensor *y) {
    const uint64_t at = (uint64_t)l->w[INFER__W_TIME_LERP].cols + (uint64_t)x->cols;
    infer__tensor t = infer__view(&c->at->work, (uint64_t)x->rows * at, x->rows, l->w[slot].rows);
    infer__product_act(c, x, &l->w[slot], kind, &t);
    infer__product(c, &t, &l->w[slot + 1], bias < 0 ? NULL : &l->w[bias], y);
}

/* What both versions begin and end with: rows of mixed[], each n x width, and y (decays before) behind them. */
typedef struct infer__time { infer__tensor all, mixed[6]; infer__wkv_args a; } infer__time;
static void infer__time_begin(infer_context *c, const infer__layer *l, infer__sublayer *s, infer__time *t) {
    const int32_t n = s->x.rows, width = s->x.cols, cols = l->w[INFER__W_TIME_LERP].cols;
    int32_t i;
    infer__sublayer_norm(c, s);
    memset(t, 0, sizeof *t);
    t->all = infer__view(&c->at->work, 0, n, cols);
    for (i = 0; i < cols / width; i++) t->mixed[i] = infer__columns(&t->all, i * width, width);
    t->a.w = t->a.y = infer__view(&c->at->work, (uint64_t)n * (uint64_t)cols, n, width);
    t->a.cells = &c->cache.bufs[s->part->state[1]].buf;
    t->a.heads = l->wkv.heads;
    t->a.kv_heads = l->wkv.kv_heads;
    t->a.dim = l->wkv.dim;
}

/* The recurrence, and the norm of heads. */
static void infer__time_step(infer_context *c, const infer__layer *l, infer__time *t) {
    infer__norm_args norm;
    c->ctx.ops->wkv(&c->ctx, &t->a);
    infer__trace(c, l->index, "wkv", &t->a.y);
    if (!l->w[INFER__W_TIME_LN].type) return;
    memset(&norm, 0, sizeof norm);
    norm.x = norm.y = t->a.y;
    norm.weight = &l->w[INFER__W_TIME_LN];
    norm.bias = &l->w[INFER__W_TIME_LN_B];
    norm.kind = INFER__NORM_LAYER;
    norm.n_groups = l->wkv.heads;
    norm.eps = INFER__WKV_EPS;
    c->ctx.ops->norm(&c->ctx, &norm);
}

/* What is computed lies where mixed rows were that have been read. */
static void infer__time_6(infer_context *c, const infer__layer *l, infer__sublayer *s) {
    const int32_t n = s->x.rows, width = s->x.cols, keys = l->wkv.kv_heads * l->wkv.dim;
    const int32_t rank = l->wkv.rank[INFER__D_RANK_MIX - INFER__D_RANK_DECAY];
    infer__tensor few, one;
    infer__weight w;
    infer__time t;
    int32_t i;
    infer__time_begin(c, l, s, &t);
    few = infer__view(&c->at->work, 6 * (uint64_t)n * (uint64_t)width, n, 5 * rank);
    infer__shift(c, l, s, INFER__W_TIME_LERP_X, 0, &t.a.w);
    infer__product_act(c, &t.a.w, &l->w[INFER__W_TIME_MIX_1], INFER__ACT_TANH, &few);
    for (i = 0; i < 5; i++) {
        w = infer__slice(&l->w[INFER__W_TIME_MIX_2], (int64_t)i * width, width);
        one = infer__columns(&few, i * rank, rank);
        infer__product(c, &one, &w, NULL, &t.mixed[i]);
    }
    infer__shift(c, l, s, INFER__W_TIME_LERP, 1, &t.all);
    infer__low_rank(c, l, &t.mixed[0], INFER__W_TIME_DECAY_1, INFER__W_TIME_DECAY, INFER__ACT_TANH, &t.a.w);
    t.a.k = infer__columns(&t.mixed[0], 0, keys);
    t.a.v = infer__columns(&t.mixed[1], 0, keys);
    t.a.r = t.mixed[2];
    infer__product(c, &t.mixed[1], &l->w[INFER__W_TIME_KEY], infer__opt(&l->w[INFER__W_TIME_KEY_B]), &t.a.k);
    infer__product(c, &t.mixed[2], &l->w[INFER__W_TIME_VALUE], infer__opt(&l->w[INFER__W_TIME_VALUE_B]), &t.a.v);
    infer__product(c, &t.mixed[3], &l->w[INFER__W_TIME_R], infer__opt(&l->w[INFER__W_TIME_R_B]), &t.a.r);
    infer__product(c, &t.mixed[4], &l->w[INFER__W_TIME_GATE], NULL, &t.mixed[3]);
    t.a.u = infer__opt(&l->w[INFER__W_TIME_FIRST]);
    t.a.kind = t.a.u ? INFER__WKV_6 : INFER__WKV_GATED;
    infer__time_step(c, l, &t);
    infer__gate(c, t.a.u ? INFER__ACT_SILU : INFER__ACT_SIGMOID, &t.mixed[3], &t.a.y);
    infer__last_product(c, &t.a.y, &l->w[INFER__W_TIME_OUT], NULL, 1, s);
}

static void infer__time_7(infer_context *c, const infer__layer *l, infer__sublayer *s) {
    infer__time t;
    infer__add_args add;
    infer__time_begin(c, l, s, &t);
    infer__shift(c, l, s, INFER__W_TIME_LERP, 0, &t.all);
    infer__low_rank(c, l, &t.mixed[1], INFER__W_TIME_W1, INFER__W_TIME_W0, INFER__ACT_TANH, &t.a.w);
    t.a.r = t.mixed[1];
    t.a.k = t.mixed[0];
    t.a.v = t.a.bonus = t.mixed[2];
    t.a.rate = t.mixed[4];
    t.a.first = infer__pass_kept(c, s->x.rows, 0, s->x.rows, s->x.cols);
    if (l->index == 0) t.a.v = t.a.first;
    else t.a.mix = t.mixed[3];
    infer__product(c, &t.mixed[0], &l->w[INFER__W_TIME_R], infer__opt(&l->w[INFER__W_TIME_R_B]), &t.a.r);
    infer__product(c, &t.mixed[2], &l->w[INFER__W_TIME_KEY], infer__opt(&l->w[INFER__W_TIME_KEY_B]), &t.a.k);
    infer__product(c, &t.mixed[3], &l->w[INFER__W_TIME_VALUE], infer__opt(&l->w[INFER__W_TIME_VALUE_B]), &t.a.v);
    if (l->index > 0) infer__low_rank(c, l, &t.mixed[3], INFER__W_TIME_V1, INFER__W_TIME_V0, INFER__ACT_LINEAR, &t.a.mix);
    infer__low_rank(c, l, &t.mixed[4], INFER__W_TIME_A1, INFER__W_TIME_A0, INFER__ACT_LINEAR, &t.a.rate);
    if (l->w[INFER__W_TIME_G1].type)
        infer__low_rank(c, l, &t.mixed[5], INFER__W_TIME_G1, -1, INFER__ACT_SIGMOID, &t.mixed[5]);
    t.a.kind = INFER__WKV_7;
    t.a.u = &l->w[INFER__W_TIME_R_K];
    t.a.k_k = &l->w[INFER__W_TIME_K_K];
    t.a.k_a = &l->w[INFER__W_TIME_K_A];
    infer__time_step(c, l, &t);
    add.x = t.a.bonus;
    add.y = t.a.y;
    add.scale = 1;
    c->ctx.ops->add(&c->ctx, &add);
    if (l->w[INFER__W_TIME_G1].type) infer__gate(c, INFER__ACT_LINEAR, &t.mixed[5], &t.a.y);
    infer__last_product(c, &t.a.y, &l->w[INFER__W_TIME_OUT], NULL, 1, s);
}

static void infer__channel_mix(infer_context *c, const infer__layer *l, infer__sublayer *s) {
    const int32_t n = s->x.rows, width = s->x.cols, cols = l->w[INFER__W_CHANNEL_LERP_K].cols;
    infer__tensor all = infer__view(&c->at->work, 0, n, cols), x = infer__columns(&all, 0, width), gate;
    infer__tensor k = infer__view(&c->at->work, (uint64_t)n * (uint64_t)cols, n, l->n_ff);
    infer__sublayer_norm(c, s);
    infer__shift(c, l, s, INFER__W_CHANNEL_LERP_K, 0, &all);
    infer__product_act(c, &x, &l->w[INFER__W_CHANNEL_KEY], l->act, &k);
    if (!l->w[INFER__W_CHANNEL_R].type) {
        infer__last_product(c, &k, &l->w[INFER__W_CHANNEL_VALUE], NULL, 1, s);
        return;
    }
    infer__product(c, &k, &l->w[INFER__W_CHANNEL_VALUE], NULL, &s->out);
    gate = infer__columns(&all, width, width);
    infer__product(c, &gate, &l->w[INFER__W_CHANNEL_R], NULL, &x);
    infer__gate(c, INFER__ACT_SIGMOID, &x, &s->out);
    infer__sublayer_add(c, s);
}

/* ---- as text ----------------------------------------------------------------------------------------------------- */

static void infer__time_6_describe(infer__text_out *o, const infer_model *m, const infer__layer *l, const char *in) {
    const infer__wkv *s = &l->wkv;
    const int first = l->w[INFER__W_TIME_FIRST].type != NULL;
    (void)m;
    infer__text_add(o, "    x_i = %s + (previous - %s) (lerp_i + W2_i tanh(W1 (%s + (previous - %s) lerp_x)))  # i = w k v r g\n",
                    in, in, in, in);
    infer__text_add(o, "    d = exp(-exp(decay + w2 tanh(w1 x_w))); k, v, r = x_k Wk, x_v Wv, x_r Wr\n");
    infer__text_add(o, "    %s  # %d heads of %d, %d of k and v\n",
                    first ? "y = (S + u k^T v) r; S = d S + k^T v" : "k = k (1 - d); S = d S + k^T v; y = S r / root",
                    (int)s->heads, (int)s->dim, (int)s->kv_heads);
    infer__text_add(o, "    t = (%s(x_g Wg)) Wout%s\n", first ? "layer_norm(y) ln * silu" : "y * sigmoid",
                    first ? "  # normed per head" : "");
}

static void infer__time_7_describe(infer__text_out *o, const infer_model *m, const infer__layer *l, const char *in) {
    const char *gate = l->w[INFER__W_TIME_G1].type ? " * g2 sigmoid(g1 x_g)" : "";
    (void)m;
    infer__text_add(o, "    x_i = %s + (previous - %s) lerp_i  # i = r w k v a%s\n", in, in, *gate ? " g" : "");
    infer__text_add(o, "    d = exp(-sigmoid(w0 + w2 tanh(w1 x_w)) / sqrt(e)); a = sigmoid(a0 + a2 a1 x_a); r, k, v = x_r Wr, x_k Wk, x_v Wv\n");
    if (l->index > 0) infer__text_add(o, "    v = v + (layer 0's v - v) sigmoid(v0 + v2 v1 x_v)\n");
    infer__text_add(o, "    e = unit(k k_k); k = k (1 + (a - 1) k_a); S = d S - (a e)^T (e S) + k^T v; y = S r  # %d heads of %d\n",
                    (int)l->wkv.heads, (int)l->wkv.dim);
    infer__text_add(o, "    t = ((%s + (r k r_k) v)%s) Wout  # both per head\n",
                    l->w[INFER__W_TIME_LN].type ? "layer_norm(y) ln" : "y", gate);
}

static void infer__channel_describe(infer__text_out *o, const infer_model *m, const infer__layer *l, const char *in) {
    (void)m;
    infer__text_add(o, "    x_i = %s + (previous - %s) lerp_i; f = %s(%s(x_k key) value)  # %d wide\n", in, in,
                    l->w[INFER__W_CHANNEL_R].type ? "sigmoid(x_r Wr) * " : "", infer__act_name(l->act), (int)l->n_ff);
}

static const infer__label INFER__TIME_LABELS[] = {
    {INFER__W_TIME_R, "Wr"}, {INFER__W_TIME_KEY, "Wk"}, {INFER__W_TIME_VALUE, "Wv"}, {INFER__W_TIME_OUT, "Wout"}, {0, NULL}};
static const infer__label INFER__CHANNEL_LABELS[] = {
    {INFER__W_CHANNEL_KEY, "key"}, {INFER__W_CHANNEL_VALUE, "value"}, {0, NULL}};
