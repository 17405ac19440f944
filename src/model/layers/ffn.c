/* ffn.c: dense feed-forward sublayers: down(act(gate x) * up x), or down(act(up x)) without a gate (GLU variants: arXiv
 * 2002.05202).
 */
#include "../model.h"

/* Floats a row of the work area. */
static int64_t infer__ffn_dense_cols(const infer_model *m, const infer__layer *l) {
    (void)m;
    return 2 * (int64_t)l->n_ff;
}

static void infer__ffn_dense_needs(const infer_model *m, const infer__layer *l, infer__needs *n) {
    infer__need_cols(n, l->n_ff);
    infer__switch_needs(m, l, INFER__W_SWITCH_GATE_A, 3, n);
}

static const char *infer__ffn_lacks(const infer__ops *ops, const infer__layer *l) {
    infer__streams_args cut;
    infer__act_args a;
    memset(&a, 0, sizeof a);
    memset(&cut, 0, sizeof cut);
    cut.kind = INFER__STREAMS_CUT;
    if (INFER__HAS_SPARSE && l->act_sparse && !ops->supports(INFER__OP_STREAMS, &cut)) return "sparse activation";
    a.kind = l->act == INFER__ACT_SITU ? INFER__ACT_SIGMOID : l->act; /* and map: infer__act_run */
    return ops->supports(INFER__OP_ACT, &a) ? NULL : "activation";
}

/* up = act(gate) * up, or act(up) when there is no gate. */
static infer__act_args infer__act_of(const infer__layer *l, const infer__tensor *gate, const infer__tensor *up) {
    infer__act_args a;
    memset(&a, 0, sizeof a);
    a.x = gate ? *gate : *up;
    if (gate) a.up = *up;
    a.y = *up;
    a.kind = INFER__HAS_ACTS ? l->act : INFER__ACT_SILU;
    if (!INFER__HAS_VARIANTS) return a;
    a.divide = infer__opt(&l->w[INFER__W_FFN_ACT_SCALES]);
    a.limit = l->act_limit;
    a.limit_after = l->limit_after;
    a.up_add = l->act_add;
    memcpy(a.xielu, l->xielu, sizeof a.xielu);
    return a;
}

/* The activation by itself. situ (Kimi K3), with beta and beta' in xielu: beta tanh(gate / beta) sigmoid(gate) *
 * beta' tanh(up / beta'), or * up where beta' is 0. */
static void infer__act_run(infer_context *c, const infer__act_args *a) {
    infer__map_args cap;
    if (!INFER__HAS_VARIANTS || a->kind != INFER__ACT_SITU) {
        infer__ops_of(&c->ctx)->act(&c->ctx, a);
        return;
    }
    memset(&cap, 0, sizeof cap);
    cap.x = a->y;
    cap.scale = 1;
    cap.cap = a->xielu[1];
    if (cap.cap > 0) infer__ops_of(&c->ctx)->map(&c->ctx, &cap);
    infer__gate(c, INFER__ACT_SIGMOID, &a->x, &a->y);
    cap.x = a->x;
    cap.cap = a->xielu[0];
    infer__ops_of(&c->ctx)->map(&c->ctx, &cap);
    infer__gate(c, INFER__ACT_LINEAR, &a->x, &a->y);
}

/* Keep only the gates far above the mean. */
static void infer__act_cut(infer_context *c, const infer__layer *l, const infer__tensor *gate) {
    infer__streams_args a;
    memset(&a, 0, sizeof a);
    a.kind = INFER__STREAMS_CUT;
    a.x = *gate;
    a.cut = l->act_cut;
    infer__ops_of(&c->ctx)->streams(&c->ctx, &a);
}

/* The dense form with any three slots; their biases are the next slots when with_bias. gate may be absent. */
static void infer__ffn_with(infer_context *c, const infer__layer *l, const infer__sublayer *s, int gate_slot,
                            int up_slot, int down_slot, int with_bias, int32_t n_ff) {
    infer__tensor gate = infer__view(&c->at->work, 0, s->x.rows, n_ff);
    infer__tensor up = infer__view(&c->at->work, (uint64_t)s->x.rows * (uint64_t)n_ff, s->x.rows, n_ff);
    infer__act_args act = infer__act_of(l, l->w[gate_slot].type ? &gate : NULL, &up);
    int slots[3], has_gate = l->w[gate_slot].type != NULL, i;
    int apart = INFER__VARIANT(l->ffn_scales[0] != 1 || l->ffn_scales[1] != 1 || l->act_sparse ||
                               l->act == INFER__ACT_SITU); /* needs the results of gate and up */
    infer__matmul_args mm;
    memset(&mm, 0, sizeof mm);
    slots[0] = up_slot;
    slots[1] = gate_slot;
    mm.x = s->x;
    mm.norm = s->norm;
    mm.act = apart ? NULL : &act;
    mm.n_w = has_gate ? 2 : 1;
    for (i = 0; i < mm.n_w; i++) {
        mm.w[i] = &l->w[slots[i]];
        if (with_bias) mm.b[i] = infer__opt(&l->w[slots[i] + 1]);
        mm.y[i] = i ? gate : up;
    }
    infer__products(c, &mm);
    if (apart) {
        if (has_gate) infer__scale_rows(c, l->ffn_scales[0], &gate);
        infer__scale_rows(c, l->ffn_scales[1], &up);
        if (INFER__HAS_SPARSE && l->act_sparse) infer__act_cut(c, l, has_gate ? &gate : &up);
        infer__act_run(c, &act);
    }
    infer__trace(c, l->index, "ffn_act", &up);
    if (with_bias) infer__sub_norm(c, l, INFER__W_FFN_SUB_NORM, &up);
    infer__last_product(c, &up, &l->w[down_slot], with_bias ? infer__opt(&l->w[down_slot + 1]) : NULL,
                        INFER__HAS_VARIANTS ? l->ffn_scales[2] : 1, s);
}

static void infer__ffn_dense(infer_context *c, const infer__layer *l, infer__sublayer *s) {
    infer__ffn_with(c, l, s, INFER__W_FFN_GATE, INFER__W_FFN_UP, INFER__W_FFN_DOWN, 1, l->n_ff);
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static infer_result infer__ffn_dense_check(const infer_model *m, infer__layer *l, infer_error *err) {
    const infer__weight *w = l->w;
    infer_result r = infer__need(l, INFER__W_FFN_UP, err);
    if (!r) r = infer__need(l, INFER__W_FFN_DOWN, err);
    if (INFER__HAS_VARIANTS && !r && l->act == INFER__ACT_SITU) r = infer__need(l, INFER__W_FFN_GATE, err);
    if (!r && w[INFER__W_FFN_UP].rows != l->n_ff &&
        (w[INFER__W_FFN_GATE].type || w[INFER__W_FFN_UP].rows != 2 * l->n_ff))
        r = infer__error(err, INFER_ERR_FORMAT,
                         "tensor %s has %d rows, the model needs %d (or twice that for gate and up)",
                         w[INFER__W_FFN_UP].name, (int)w[INFER__W_FFN_UP].rows, (int)l->n_ff);
    if (!r && w[INFER__W_FFN_UP_B].type && w[INFER__W_FFN_UP_B].cols != w[INFER__W_FFN_UP].rows)
        r = infer__error(err, INFER_ERR_FORMAT, "tensor %s has %d values for %d rows", w[INFER__W_FFN_UP_B].name,
                         (int)w[INFER__W_FFN_UP_B].cols, (int)w[INFER__W_FFN_UP].rows);
    if (!r) r = infer__only_with(m, l, INFER__W_FFN_GATE_B, INFER__W_FFN_GATE, err);
    if (INFER__HAS_VARIANTS && !r) r = infer__only_with(m, l, INFER__W_GATE_SCALE, INFER__W_FFN_GATE, err);
    return r ? r : infer__check_scales(l, INFER__W_GATE_SCALE, INFER__W_FFN_GATE_B, 3, err);
}

/* Gate and up in one tensor become two slices: those of a shared expert, too. */
static infer_result infer__ffn_shared_split(infer_model *m, infer__layer *l, infer_error *err) {
    infer__weight *gate = &l->w[INFER__W_SHARED_GATE], *both = &l->w[INFER__W_SHARED_UP];
    const int32_t n = m->hp.n_ff_shared;
    (void)err;
    if (!both->type || gate->type || both->rows == n) return INFER_OK;
    *gate = infer__slice(both, 0, n);
    *both = infer__slice(both, n, n);
    return INFER_OK;
}

static infer_result infer__ffn_dense_split(infer_model *m, infer__layer *l, infer_error *err) {
    infer__weight *w = l->w, up;
    const int both = !w[INFER__W_FFN_GATE].type && w[INFER__W_FFN_UP].rows == 2 * l->n_ff;
    int32_t i;
    if (INFER__HAS_EXPERTS) infer__ffn_shared_split(m, l, err);
    for (i = 0; INFER__HAS_VARIANTS && i < 3; i++) l->ffn_scales[i] = infer__slot_float(l, INFER__W_GATE_SCALE + i, 1);
    for (i = 0; i < 2 && both; i++) {
        up = w[INFER__W_FFN_UP + i];
        if (!up.type) continue;
        w[INFER__W_FFN_GATE + i] = infer__slice(&up, 0, l->n_ff);
        w[INFER__W_FFN_UP + i] = infer__slice(&up, l->n_ff, l->n_ff);
    }
    infer__switch_set(m, l, INFER__W_FFN_GATE, 2, 3, INFER__W_SWITCH_GATE_A);
    return INFER_OK;
}

/* ---- as text ----------------------------------------------------------------------------------------------------- */

static void infer__ffn_dense_describe(infer__text_out *o, const infer_model *m, const infer__layer *l, const char *in) {
    if (l->w[INFER__W_FFN_GATE].type)
        infer__text_add(o, "    f = down(%s(gate %s) * up %s)  # %d wide\n", infer__act_name(l->act), in, in,
                        (int)l->n_ff);
    else infer__text_add(o, "    f = down(%s(up %s))  # %d wide\n", infer__act_name(l->act), in, (int)l->n_ff);
    if (l->act_limit > 0)
        infer__text_add(o, "    # %s at most %g, up within %g\n", l->limit_after ? infer__act_name(l->act) : "gate",
                        l->act_limit, l->act_limit);
    if (INFER__HAS_SPARSE && l->act_sparse)
        infer__text_add(o, "    # gate becomes max(gate - (its mean + %g deviations), 0)\n", l->act_cut);
    if (l->w[INFER__W_FFN_SUB_NORM].type)
        infer__text_add(o, "    # down reads %s(...) * ffn_sub_norm\n", infer__norm_name(m));
    infer__switch_describe(o, m, l, INFER__W_FFN_UP, "gate, up, down");
}

static const infer__label INFER__FFN_DENSE_LABELS[] = {
    { INFER__W_FFN_GATE, "gate" }, { INFER__W_FFN_UP, "up" }, { INFER__W_FFN_DOWN, "down" }, { 0, NULL } };
