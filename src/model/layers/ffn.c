/* ffn.c: feed-forward sublayers: dense, and mixtures of experts with an optional shared expert.
 *
 * Dense: down(act(gate x) * up x), or down(act(up x)) without a gate (GLU variants: arXiv 2002.05202).
 * Experts: the router's softmax picks n_used experts, weights divided by their sum (Mixtral, arXiv 2401.04088), or not,
 * and scaled, where keys say so.
 */
#include "../model.h"

/* Floats a row of the work area. */
static int64_t infer__ffn_dense_cols(const infer_model *m, const infer__layer *l) {
    (void)m;
    return 2 * (int64_t)l->n_ff;
}

static int64_t infer__ffn_moe_cols(const infer_model *m, const infer__layer *l) {
    const infer__hparams *hp = &m->hp;
    int64_t n = hp->n_expert + 2 * (int64_t)hp->n_used + 2 * (int64_t)hp->n_used * hp->n_ff_expert;
    (void)l;
    return INFER__MAX(n, 2 * (int64_t)hp->n_ff_shared + hp->n_embd);
}

static void infer__ffn_dense_needs(const infer_model *m, const infer__layer *l, infer__needs *n) {
    (void)m;
    infer__need_cols(n, l->n_ff);
}

static void infer__ffn_moe_needs(const infer_model *m, const infer__layer *l, infer__needs *n) {
    const infer__hparams *hp = &m->hp;
    int32_t s;
    infer__need_cols(n, INFER__MAX(hp->n_ff_expert, hp->n_ff_shared));
    for (s = INFER__W_MOE_GATE; s <= INFER__W_MOE_DOWN; s++)
        infer__need_experts(n, &l->w[s], hp->n_expert, hp->n_used, s == INFER__W_MOE_DOWN ? hp->n_embd : 0);
}

/* up = act(gate) * up, or act(up) when there is no gate. */
static infer__act_args infer__act_of(const infer__layer *l, const infer__tensor *gate, const infer__tensor *up) {
    infer__act_args a;
    memset(&a, 0, sizeof a);
    a.x = gate ? *gate : *up;
    if (gate) a.up = *up;
    a.y = *up;
    a.divide = infer__opt(&l->w[INFER__W_FFN_ACT_SCALES]);
    a.kind = l->act;
    return a;
}

/* The dense form with any three slots; their biases are the next slots when with_bias. gate may be absent. */
static void infer__ffn_with(infer_context *c, const infer__layer *l, const infer__sublayer *s, int gate_slot,
                            int up_slot, int down_slot, int with_bias, int32_t n_ff) {
    infer__tensor gate = infer__view(&c->at->work, 0, s->x.rows, n_ff);
    infer__tensor up = infer__view(&c->at->work, (uint64_t)s->x.rows * (uint64_t)n_ff, s->x.rows, n_ff);
    infer__act_args act = infer__act_of(l, l->w[gate_slot].type ? &gate : NULL, &up);
    int slots[3], has_gate = l->w[gate_slot].type != NULL, i;
    infer__matmul_args mm;
    memset(&mm, 0, sizeof mm);
    slots[0] = up_slot;
    slots[1] = gate_slot;
    mm.x = s->x;
    mm.norm = s->norm;
    mm.act = &act;
    mm.n_w = has_gate ? 2 : 1;
    for (i = 0; i < mm.n_w; i++) {
        mm.w[i] = &l->w[slots[i]];
        if (with_bias) mm.b[i] = infer__opt(&l->w[slots[i] + 1]);
        mm.y[i] = i ? gate : up;
    }
    infer__matmul(&c->ctx, &mm);
    infer__trace(c, l->index, "ffn_act", &up);
    memset(&mm, 0, sizeof mm);
    mm.x = up;
    mm.n_w = 1;
    mm.w[0] = &l->w[down_slot];
    if (with_bias) mm.b[0] = infer__opt(&l->w[down_slot + 1]);
    mm.y[0] = s->out;
    mm.add = s->add;
    infer__matmul(&c->ctx, &mm);
}

static void infer__ffn_dense(infer_context *c, const infer__layer *l, infer__sublayer *s) {
    infer__ffn_with(c, l, s, INFER__W_FFN_GATE, INFER__W_FFN_UP, INFER__W_FFN_DOWN, 1, l->n_ff);
}

/* One matrix per expert: y rows are (token, expert used) pairs, or tokens when `weights` sums them up. */
static void infer__experts(infer_context *c, const infer__layer *l, int slot, const infer__tensor *x,
                           const infer__tensor *y, const infer__tensor *ids, const infer__tensor *weights,
                           int32_t rows) {
    infer__moe_matmul_args a;
    memset(&a, 0, sizeof a);
    a.x = *x;
    a.y = *y;
    a.ids = *ids;
    if (weights) a.weights = *weights;
    a.w = &l->w[slot];
    a.rows = rows;
    a.n_used = c->model->hp.n_used;
    a.per_expert_x = weights != NULL;
    c->ctx.ops->moe_matmul(&c->ctx, &a);
}

static void infer__ffn_moe(infer_context *c, const infer__layer *l, infer__sublayer *s) {
    const infer__hparams *hp = &c->model->hp;
    const infer__tensor *x = &s->x, *out = &s->out;
    int32_t n = x->rows, used = hp->n_used, ff = hp->n_ff_expert, has_gate = l->w[INFER__W_MOE_GATE].type != NULL;
    uint64_t rows = (uint64_t)n, at = 0;
    infer__tensor logits, ids, weights, gate, up;
    infer__sublayer shared;
    infer__matmul_args mm;
    infer__moe_route_args route;
    infer__act_args act;
    infer__add_args add;
    infer__sublayer_norm(c, s); /* router and experts read it */
    logits = infer__view(&c->at->work, at, n, hp->n_expert);
    ids = infer__view(&c->at->work, at += rows * (uint64_t)hp->n_expert, n, used);
    weights = infer__view(&c->at->work, at += rows * (uint64_t)used, n, used);
    gate = infer__view(&c->at->work, at += rows * (uint64_t)used, n * used, ff);
    up = infer__view(&c->at->work, at + rows * (uint64_t)used * (uint64_t)ff, n * used, ff);

    memset(&mm, 0, sizeof mm);
    mm.x = *x;
    mm.n_w = 1;
    mm.w[0] = &l->w[INFER__W_MOE_ROUTER];
    mm.y[0] = logits;
    infer__matmul(&c->ctx, &mm);
    memset(&route, 0, sizeof route);
    route.x = logits;
    route.ids = ids;
    route.weights = weights;
    route.n_expert = hp->n_expert;
    route.n_used = used;
    route.normalise = hp->expert_norm;
    route.scale = hp->expert_scale;
    c->ctx.ops->moe_route(&c->ctx, &route);

    infer__experts(c, l, INFER__W_MOE_UP, x, &up, &ids, NULL, ff);
    if (has_gate) infer__experts(c, l, INFER__W_MOE_GATE, x, &gate, &ids, NULL, ff);
    act = infer__act_of(l, has_gate ? &gate : NULL, &up);
    c->ctx.ops->act(&c->ctx, &act);
    infer__experts(c, l, INFER__W_MOE_DOWN, &up, out, &ids, &weights, hp->n_embd);
    if (l->w[INFER__W_SHARED_UP].type) {
        shared.part = s->part;
        shared.x = *x;
        shared.out = infer__view(&c->at->work, 2 * rows * (uint64_t)hp->n_ff_shared, n, hp->n_embd);
        add.x = shared.out;
        add.y = *out;
        add.scale = 1;
        shared.norm = NULL;
        shared.add = &add;
        infer__ffn_with(c, l, &shared, INFER__W_SHARED_GATE, INFER__W_SHARED_UP, INFER__W_SHARED_DOWN, 0,
                        hp->n_ff_shared);
    }
    infer__sublayer_add(c, s);
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static infer_result infer__ffn_dense_check(const infer_model *m, infer__layer *l, infer_error *err) {
    const infer__weight *w = l->w;
    infer_result r = infer__need(l, INFER__W_FFN_UP, err);
    if (!r) r = infer__need(l, INFER__W_FFN_DOWN, err);
    if (!r && w[INFER__W_FFN_UP].rows != l->n_ff &&
        (w[INFER__W_FFN_GATE].type || w[INFER__W_FFN_UP].rows != 2 * l->n_ff))
        r = infer__error(err, INFER_ERR_FORMAT,
                         "tensor %s has %d rows, the model needs %d (or twice that for gate and up)",
                         w[INFER__W_FFN_UP].name, (int)w[INFER__W_FFN_UP].rows, (int)l->n_ff);
    if (!r && w[INFER__W_FFN_UP_B].type && w[INFER__W_FFN_UP_B].cols != w[INFER__W_FFN_UP].rows)
        r = infer__error(err, INFER_ERR_FORMAT, "tensor %s has %d values for %d rows", w[INFER__W_FFN_UP_B].name,
                         (int)w[INFER__W_FFN_UP_B].cols, (int)w[INFER__W_FFN_UP].rows);
    if (!r) r = infer__only_with(m, l, INFER__W_FFN_GATE_B, INFER__W_FFN_GATE, err);
    return r;
}

/* Gate and up in one tensor become two slices. */
static void infer__ffn_dense_split(infer__layer *l) {
    infer__weight *w = l->w, up;
    int32_t i;
    if (w[INFER__W_FFN_GATE].type || w[INFER__W_FFN_UP].rows != 2 * l->n_ff) return;
    for (i = 0; i < 2; i++) {
        up = w[INFER__W_FFN_UP + i];
        if (!up.type) continue;
        w[INFER__W_FFN_GATE + i] = infer__slice(&up, 0, l->n_ff);
        w[INFER__W_FFN_UP + i] = infer__slice(&up, l->n_ff, l->n_ff);
    }
}

static infer_result infer__ffn_moe_check(const infer_model *m, infer__layer *l, infer_error *err) {
    infer_result r = infer__need(l, INFER__W_MOE_UP, err);
    if (!r) r = infer__need(l, INFER__W_MOE_DOWN, err);
    if (!r && l->w[INFER__W_SHARED_UP].type) r = infer__need(l, INFER__W_SHARED_DOWN, err);
    if (!r) r = infer__only_with(m, l, INFER__W_SHARED_GATE, INFER__W_SHARED_UP, err);
    if (!r) r = infer__only_with(m, l, INFER__W_SHARED_DOWN, INFER__W_SHARED_UP, err);
    return r;
}

/* ---- as text ----------------------------------------------------------------------------------------------------- */

static void infer__ffn_dense_describe(infer__text_out *o, const infer_model *m, const infer__layer *l, const char *in) {
    (void)m;
    if (l->w[INFER__W_FFN_GATE].type)
        infer__text_add(o, "    f = down(%s(gate %s) * up %s)  # %d wide\n", infer__act_name(l->act), in, in,
                        (int)l->n_ff);
    else infer__text_add(o, "    f = down(%s(up %s))  # %d wide\n", infer__act_name(l->act), in, (int)l->n_ff);
}

static void infer__ffn_moe_describe(infer__text_out *o, const infer_model *m, const infer__layer *l, const char *in) {
    infer__text_add(o, "    f = sum over the best %d of %d experts: p_e * down_e(%s(gate_e %s) * up_e %s)%s\n",
                    (int)m->hp.n_used, (int)m->hp.n_expert, infer__act_name(l->act), in, in,
                    l->w[INFER__W_SHARED_UP].type ? " + shared expert" : "");
}

static const infer__label INFER__FFN_DENSE_LABELS[] = {
    { INFER__W_FFN_GATE, "gate" }, { INFER__W_FFN_UP, "up" }, { INFER__W_FFN_DOWN, "down" }, { 0, NULL } };
