/* moe.c: mixtures of experts.
 *
 * A router picks n_used experts of each row by their scores (infer__router; Mixtral, arXiv 2401.04088; DeepSeek-V3,
 * arXiv 2412.19437); their results are weighted and added up. Every row may also use a shared expert, unscaled or
 * scaled by the sigmoid of its own score (Qwen2-MoE, arXiv 2407.10671). Router and experts may have biases (gpt-oss,
 * arXiv 2508.10925). Groups of adjacent experts may share a small ("adjugate") expert (GroveMoE, arXiv 2508.07785):
 * each chosen expert of the group adds its result, too, with the same weight times group_scale.
 */
#include "../model.h"

/* Floats a row of the work area: logits, choice, weights and the experts' gate and up, their inputs and results where
 * these are not as wide as the model (Kimi K3); then those of the shared expert,
 * its result and its score. */
static int64_t infer__ffn_moe_cols(const infer_model *m, const infer__layer *l) {
    const infer__hparams *hp = &m->hp;
    int64_t n =
        hp->n_expert + 2 * (int64_t)hp->n_used + 2 * (int64_t)hp->n_used * hp->n_ff_expert + 2 * (int64_t)hp->n_latent;
    (void)l;
    if (hp->per_group) /* and their shared experts' */
        n = hp->n_used +
            INFER__MAX(n, hp->n_expert + 2 * (int64_t)hp->n_used * (1 + (int64_t)hp->n_ff_group) + hp->n_embd);
    return INFER__MAX(n, 2 * (int64_t)hp->n_ff_shared + hp->n_embd + 1);
}

static void infer__ffn_moe_needs(const infer_model *m, const infer__layer *l, infer__needs *n) {
    const infer__hparams *hp = &m->hp;
    int32_t s;
    infer__need_cols(n, INFER__MAX(INFER__MAX(hp->n_ff_expert, hp->n_ff_shared), hp->n_latent));
    for (s = INFER__W_MOE_GATE; s <= INFER__W_MOE_DOWN; s++)
        infer__need_experts(n, &l->w[s], hp->n_expert, hp->n_used, s == INFER__W_MOE_DOWN ? infer__expert_in(hp) : 0);
    if (hp->per_group) infer__need_cols(n, hp->n_ff_group);
    for (s = INFER__W_GROUP_GATE; s <= INFER__W_GROUP_DOWN; s++)
        infer__need_experts(n, &l->w[s], hp->n_expert, hp->n_used, s == INFER__W_GROUP_DOWN ? hp->n_embd : 0);
}

static void infer__ffn_moe_dense_needs(const infer_model *m, const infer__layer *l, infer__needs *n) {
    infer__ffn_dense_needs(m, l, n);
    infer__ffn_moe_needs(m, l, n);
}

static const char *infer__ffn_moe_lacks(const infer__ops *ops, const infer__layer *l) {
    infer__moe_route_args a;
    memset(&a, 0, sizeof a);
    a.router = l->router;
    a.scales = infer__opt(&l->w[INFER__W_EXPERTS_SCALE]);
    a.table = infer__opt(&l->w[INFER__W_MOE_TABLE]);
    return ops->supports(INFER__OP_MOE_ROUTE, &a) ? infer__ffn_lacks(ops, l) : "router";
}

static int64_t infer__ffn_moe_dense_cols(const infer_model *m, const infer__layer *l) {
    return INFER__MAX(infer__ffn_moe_cols(m, l), 2 * (int64_t)l->n_ff + m->hp.n_embd);
}

/* ---- a pass ------------------------------------------------------------------------------------------------------ */

/* The args of one matrix per expert, with its bias (the slot may be absent, or -1) in *b: y rows are (token, expert
 * used) pairs, or tokens when `weights` sums them up. */
static infer__moe_matmul_args infer__experts_of(const infer__layer *l, int slot, int bias_slot, const infer__tensor *x,
                                                const infer__tensor *y, const infer__tensor *ids,
                                                const infer__tensor *weights, infer__moe_bias_args *b) {
    infer__moe_matmul_args a;
    memset(&a, 0, sizeof a);
    a.x = *x;
    a.y = *y;
    a.ids = *ids;
    if (weights) a.weights = *weights;
    a.w = &l->w[slot];
    a.rows = y->cols;
    a.n_used = l->router->n_used;
    a.per_expert_x = weights != NULL;
    if (bias_slot < 0 || !l->w[bias_slot].type) return a;
    memset(b, 0, sizeof *b);
    b->y = *y;
    b->ids = *ids;
    b->weights = a.weights;
    b->bias = &l->w[bias_slot];
    b->n_used = a.n_used;
    a.bias = b;
    return a;
}

static void infer__experts(infer_context *c, const infer__layer *l, int slot, int bias_slot, const infer__tensor *x,
                           const infer__tensor *y, const infer__tensor *ids, const infer__tensor *weights) {
    infer__moe_bias_args b;
    infer__moe_matmul_args a = infer__experts_of(l, slot, bias_slot, x, y, ids, weights, &b);
    infer__moe_products(c, &a);
}

/* Gate and up, combined: to up. */
static void infer__experts_gated(infer_context *c, const infer__layer *l, const infer__tensor *x,
                                 const infer__tensor *gate, const infer__tensor *up, const infer__tensor *ids,
                                 const infer__act_args *act) {
    infer__moe_bias_args b[2];
    infer__moe_matmul_args g = infer__experts_of(l, INFER__W_MOE_GATE, INFER__W_MOE_GATE_B, x, gate, ids, NULL, &b[0]);
    infer__moe_matmul_args a = infer__experts_of(l, INFER__W_MOE_UP, INFER__W_MOE_UP_B, x, up, ids, NULL, &b[1]);
    a.gate = &g;
    a.act = act;
    infer__moe_products(c, &a);
}

/* A dense FFN (slots of gate, up, down; with_bias as in infer__ffn_with), times the sigmoid of its score where it has
 * one, is added to out. */
static void infer__ffn_beside(infer_context *c, const infer__layer *l, const infer__tensor *x,
                              const infer__tensor *out, const int16_t slots[3], int with_bias, int32_t n_ff,
                              const infer__weight *scored) {
    uint64_t rows = (uint64_t)x->rows, at = 2 * rows * (uint64_t)n_ff;
    infer__tensor score;
    infer__sublayer s;
    infer__add_args add;
    memset(&s, 0, sizeof s);
    s.x = *x;
    s.out = infer__view(&c->at->work, at, x->rows, out->cols);
    s.add = scored ? NULL : &add;
    add.x = s.out;
    add.y = *out;
    add.scale = 1;
    infer__ffn_with(c, l, &s, slots[0], slots[1], slots[2], with_bias, n_ff);
    if (!scored) return;
    score = infer__view(&c->at->work, at + rows * (uint64_t)out->cols, x->rows, 1);
    infer__product(c, x, scored, NULL, &score);
    infer__gate(c, INFER__ACT_SIGMOID, &score, &s.out);
    infer__ops_of(&c->ctx)->add(&c->ctx, &add);
}

/* norm: makes x, which experts read, too; NULL = x exists. */
static void infer__router_logits(infer_context *c, const infer__layer *l, const infer__tensor *x,
                                 const infer__norm_args *norm, const infer__tensor *logits) {
    infer__matmul_args mm;
    memset(&mm, 0, sizeof mm);
    mm.x = *x;
    mm.norm = norm;
    mm.keep = 1;
    mm.n_w = 1;
    mm.w[0] = &l->w[INFER__W_MOE_ROUTER];
    mm.b[0] = infer__opt(&l->w[INFER__W_MOE_ROUTER_B]);
    mm.y[0] = *logits;
    infer__products(c, &mm);
    infer__trace(c, l->index, "ffn_moe_logits", logits);
}

static void infer__ffn_route(infer_context *c, const infer__layer *l, const infer__tensor *logits,
                             const infer__tensor *ids, const infer__tensor *weights, const infer__tensor *groups) {
    infer__moe_route_args route;
    memset(&route, 0, sizeof route);
    route.x = *logits;
    route.ids = *ids;
    route.weights = *weights;
    route.groups = *groups;
    route.per_group = c->model->hp.per_group;
    route.router = l->router;
    route.bias = infer__opt(&l->w[INFER__W_MOE_CHOICE_B]);
    route.scales = infer__opt(&l->w[INFER__W_EXPERTS_SCALE]);
    route.table = infer__opt(&l->w[INFER__W_MOE_TABLE]);
    infer__ops_of(&c->ctx)->moe_route(&c->ctx, &route);
    infer__trace(c, l->index, "ffn_moe_weights", weights);
}

/* W (w x) = w (W x), so multiply x by the weights and make them 1 from then on: 2 sigmoid(0). */
static void infer__weigh_before(infer_context *c, const infer__tensor *gate, const infer__tensor *up,
                                const infer__tensor *weights) {
    infer__tensor w = *weights;
    infer__act_args one;
    w.rows = up->rows;
    w.cols = w.stride = 1;
    infer__gate(c, INFER__ACT_LINEAR, &w, up);
    if (gate) infer__gate(c, INFER__ACT_LINEAR, &w, gate);
    infer__scale_rows(c, 0, weights);
    memset(&one, 0, sizeof one);
    one.x = one.y = *weights;
    one.kind = INFER__ACT_SIGMOID;
    infer__ops_of(&c->ctx)->act(&c->ctx, &one);
    infer__scale_rows(c, 2, weights);
}

/* To out, the results of the experts that groups share. ids: the groups of those chosen. at: where the work area is
 * free. */
static void infer__ffn_groups(infer_context *c, const infer__layer *l, const infer__tensor *x, const infer__tensor *ids,
                              const infer__tensor *weights, uint64_t at, const infer__tensor *out) {
    const infer__hparams *hp = &c->model->hp;
    const int32_t pairs = x->rows * ids->cols, ff = hp->n_ff_group;
    const uint64_t values = (uint64_t)pairs * (uint64_t)ff;
    infer__tensor gate = infer__view(&c->at->work, at, pairs, ff),
                  up = infer__view(&c->at->work, at + values, pairs, ff);
    infer__act_args act = infer__act_of(l, &gate, &up);
    infer__add_args add;
    memset(&add, 0, sizeof add);
    add.x = infer__view(&c->at->work, at + 2 * values, x->rows, out->cols);
    add.y = *out;
    add.scale = hp->group_scale;
    infer__experts(c, l, INFER__W_GROUP_UP, -1, x, &up, ids, NULL);
    infer__experts(c, l, INFER__W_GROUP_GATE, -1, x, &gate, ids, NULL);
    infer__act_run(c, &act);
    infer__experts(c, l, INFER__W_GROUP_DOWN, -1, &up, &add.x, ids, weights);
    infer__ops_of(&c->ctx)->add(&c->ctx, &add);
}

static void infer__ffn_moe(infer_context *c, const infer__layer *l, infer__sublayer *s) {
    static const int16_t shared[3] = { INFER__W_SHARED_GATE, INFER__W_SHARED_UP, INFER__W_SHARED_DOWN };
    const infer__hparams *hp = &c->model->hp;
    const infer__tensor *x = &s->x, *out = &s->out;
    int32_t n = x->rows, used = l->router->n_used, ff = hp->n_ff_expert;
    int fused = l->w[INFER__W_MOE_GATE_UP].type != NULL, has_gate = fused || l->w[INFER__W_MOE_GATE].type != NULL;
    uint64_t rows = (uint64_t)n, at = 0;
    infer__tensor logits, ids, groups, weights, gate, up, both, in = *x, sum = *out;
    infer__act_args act;
    infer__moe_matmul_args down;
    infer__moe_bias_args down_bias;
    const int gated = has_gate && !fused && !l->router->before && l->act != INFER__ACT_SITU;
    const int last = !hp->n_latent && !hp->per_group && !l->w[INFER__W_SHARED_UP].type;
    logits = infer__view(&c->at->work, at, n, hp->n_expert);
    ids = infer__view(&c->at->work, at += rows * (uint64_t)hp->n_expert, n, used);
    groups = infer__view(&c->at->work, at += rows * (uint64_t)used, n, used);
    if (hp->per_group) at += rows * (uint64_t)used;
    weights = infer__view(&c->at->work, at, n, used);
    gate = infer__view(&c->at->work, at += rows * (uint64_t)used, n * used, ff);
    up = infer__view(&c->at->work, at + rows * (uint64_t)used * (uint64_t)ff, n * used, ff);
    if (l->router_kept) {
        infer__sublayer_norm(c, s);
        logits = infer__kept(c, l, n);
    } else infer__router_logits(c, l, x, s->norm, &logits);
    s->norm = NULL;
    infer__ffn_route(c, l, &logits, &ids, &weights, &groups);
    if (hp->n_latent) {
        in = infer__view(&c->at->work, at + 2 * rows * (uint64_t)used * (uint64_t)ff, n, hp->n_latent);
        sum = in;
        sum.offset += rows * (uint64_t)hp->n_latent * sizeof(float);
        infer__product(c, x, &l->w[INFER__W_MOE_LATENT_IN], NULL, &in);
    }
    if (fused) { /* a row of each pair's gate is followed by that of up */
        both = infer__view(&c->at->work, at, n * used, 2 * ff);
        infer__experts(c, l, INFER__W_MOE_GATE_UP, INFER__W_MOE_GATE_UP_B, &in, &both, &ids, NULL);
        gate = up = both;
        gate.cols = up.cols = ff;
        up.offset += (uint64_t)ff * sizeof(float);
    } else if (!gated) {
        infer__experts(c, l, INFER__W_MOE_UP, INFER__W_MOE_UP_B, &in, &up, &ids, NULL);
        if (has_gate) infer__experts(c, l, INFER__W_MOE_GATE, INFER__W_MOE_GATE_B, &in, &gate, &ids, NULL);
    }
    if (l->router->before) infer__weigh_before(c, has_gate ? &gate : NULL, &up, &weights);
    act = infer__act_of(l, has_gate ? &gate : NULL, &up);
    act.limit = l->expert_limit;
    if (gated) infer__experts_gated(c, l, &in, &gate, &up, &ids, &act);
    else infer__act_run(c, &act);
    down = infer__experts_of(l, INFER__W_MOE_DOWN, INFER__W_MOE_DOWN_B, &up, &sum, &ids, &weights, &down_bias);
    if (last) down.add = s->add;
    infer__moe_products(c, &down);
    if (hp->n_latent) {
        infer__sub_norm(c, l, INFER__W_MOE_LATENT_NORM, &sum);
        infer__product(c, &sum, &l->w[INFER__W_MOE_LATENT_OUT], NULL, out);
    }
    if (hp->per_group) infer__ffn_groups(c, l, x, &groups, &weights, at, out);
    if (l->w[INFER__W_SHARED_UP].type)
        infer__ffn_beside(c, l, x, out, shared, 0, hp->n_ff_shared, infer__opt(&l->w[INFER__W_SHARED_SCORE]));
    if (!last) infer__sublayer_add(c, s);
}

/* (experts + dense FFN) * times. */
static void infer__ffn_moe_dense(infer_context *c, const infer__layer *l, infer__sublayer *s) {
    static const int16_t dense[3] = { INFER__W_FFN_GATE, INFER__W_FFN_UP, INFER__W_FFN_DOWN };
    infer__sublayer experts = *s;
    infer__map_args map;
    infer__sublayer_norm(c, s);
    experts.norm = NULL;
    experts.add = NULL;
    infer__ffn_moe(c, l, &experts);
    infer__ffn_beside(c, l, &s->x, &s->out, dense, 1, l->n_ff, NULL);
    memset(&map, 0, sizeof map);
    map.x = s->out;
    map.scale = l->ffn_times;
    if (map.scale != 1) infer__ops_of(&c->ctx)->map(&c->ctx, &map);
    infer__sublayer_add(c, s);
}

/* The logits of a router that reads the attention block's input (SmallThinker, arXiv 2507.20984). */
static void infer__router_run(infer_context *c, const infer__layer *l, infer__sublayer *s) {
    infer__router_logits(c, l, &s->x, NULL, &s->out);
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static void infer__ffn_moe_keys(infer__keys *k, infer__layer *l) { l->router = &k->m->hp.router; }

static void infer__grovemoe_keys(infer__keys *k, infer__hparams *hp) {
    uint64_t rows = infer__first_rows(k->m, "blk.%d.ffn_up_chexps.weight");
    const int32_t each = infer__key_int(k, "experts_per_group", 1, INFER__MAX_EXPERTS, 0, 1);
    hp->group_scale = infer__key_float(k, "expert_group_scale");
    if (k->failed || !hp->n_expert) return;
    if (hp->n_expert % each) infer__key_misfit(k, "experts_per_group", "does not divide expert_count");
    if (k->failed) return;
    rows /= (uint64_t)(hp->n_expert / each);
    hp->per_group = each;
    hp->n_ff_group = infer__key_int(k, "expert_chunk_feed_forward_length", 1, INFER__MAX_DIM,
                                    (int32_t)INFER__MIN(rows, INFER__MAX_DIM), 0);
}

static infer_result infer__ffn_moe_check(const infer_model *m, infer__layer *l, infer_error *err) {
    static const struct { int16_t slot, with; } pairs[] = {
        { INFER__W_SHARED_GATE, INFER__W_SHARED_UP }, { INFER__W_SHARED_DOWN, INFER__W_SHARED_UP },
        { INFER__W_SHARED_SCORE, INFER__W_SHARED_UP }, { INFER__W_MOE_GATE_B, INFER__W_MOE_GATE },
        { INFER__W_MOE_LATENT_NORM, INFER__W_MOE_LATENT_IN },
        { INFER__W_MOE_UP_B, INFER__W_MOE_UP }, { INFER__W_MOE_GATE_UP_B, INFER__W_MOE_GATE_UP } };
    const infer__weight *w = l->w;
    int fused = w[INFER__W_MOE_GATE_UP].type != NULL;
    infer_result r = INFER_OK;
    size_t i;
    int32_t s;
    for (s = INFER__W_MOE_GATE_B; s <= INFER__W_MOE_DOWN_B && l->router->before; s++)
        if (w[s].type) return infer__no_use(m, l, w[s].name, err); /* it is not weighted as the product is */
    if ((r = infer__need(l, INFER__W_MOE_ROUTER, err)) != INFER_OK) return r;
    if (m->hp.n_expert == 0) /* the rows of its tensors have been compared with 0 */
        return infer__error(err, INFER_ERR_FORMAT, "tensor %s: key %s.expert_count is missing or 0",
                            w[INFER__W_MOE_ROUTER].name, infer__arch_of(m)->name);
    if (l->index < m->hp.n_by_id) {
        if ((r = infer__need(l, INFER__W_MOE_TABLE, err)) != INFER_OK) return r;
        if (w[INFER__W_MOE_CHOICE_B].type) return infer__no_use(m, l, w[INFER__W_MOE_CHOICE_B].name, err);
    } else if (w[INFER__W_MOE_TABLE].type) return infer__no_use(m, l, w[INFER__W_MOE_TABLE].name, err);
    if (fused && (w[INFER__W_MOE_UP].type || w[INFER__W_MOE_GATE].type))
        return infer__error(err, INFER_ERR_FORMAT,
                            "layer %d has both ffn_gate_up_exps and ffn_gate_exps or ffn_up_exps", (int)l->index);
    for (s = INFER__W_MOE_LATENT_IN; s <= INFER__W_MOE_LATENT_OUT && !r;
         s += INFER__W_MOE_LATENT_OUT - INFER__W_MOE_LATENT_IN) {
        if (m->hp.n_latent) r = infer__need(l, s, err);
        else if (w[s].type) r = infer__no_use(m, l, w[s].name, err);
    }
    if (!r && l->act == INFER__ACT_SITU && !fused) r = infer__need(l, INFER__W_MOE_GATE, err);
    if (!r && l->act == INFER__ACT_SITU && w[INFER__W_SHARED_UP].type) r = infer__need(l, INFER__W_SHARED_GATE, err);
    if (!r && !fused) r = infer__need(l, INFER__W_MOE_UP, err);
    if (!r) r = infer__need(l, INFER__W_MOE_DOWN, err);
    if (!r && w[INFER__W_SHARED_UP].type) r = infer__need(l, INFER__W_SHARED_DOWN, err);
    for (s = INFER__W_GROUP_GATE; s <= INFER__W_GROUP_DOWN && !r; s++) {
        if (m->hp.per_group) r = infer__need(l, s, err);
        else if (w[s].type) r = infer__no_use(m, l, w[s].name, err);
    }
    s = w[INFER__W_SHARED_UP].rows;
    if (!r && w[INFER__W_SHARED_UP].type && s != m->hp.n_ff_shared &&
        (w[INFER__W_SHARED_GATE].type || s != 2 * (int64_t)m->hp.n_ff_shared))
        r = infer__error(err, INFER_ERR_FORMAT,
                         "tensor %s has %d rows, the model needs %d (or twice that for gate and up)",
                         w[INFER__W_SHARED_UP].name, (int)s, (int)m->hp.n_ff_shared);
    if (!r && m->hp.router.score == INFER__SCORE_SPARSEMIXER && w[INFER__W_MOE_CHOICE_B].type)
        r = infer__no_use(m, l, w[INFER__W_MOE_CHOICE_B].name, err);
    for (i = 0; i < INFER__COUNT(pairs) && !r; i++) r = infer__only_with(m, l, pairs[i].slot, pairs[i].with, err);
    return r;
}

/* Check the experts chosen by a table here, since a pass does not. */
static infer_result infer__ffn_moe_split(infer_model *m, infer__layer *l, infer_error *err) {
    const infer__weight *w = &l->w[INFER__W_MOE_TABLE];
    float ids[INFER__MAX_EXPERTS_USED];
    int32_t i, j;
    for (i = 0; w->type && w->data && i < w->rows; i++) {
        w->type->decode((const char *)w->data + (uint64_t)i * w->row_bytes, ids, w->cols);
        for (j = 0; j < w->cols; j++)
            if (!(ids[j] >= 0 && ids[j] < (float)m->hp.n_expert && ids[j] == (float)(int32_t)ids[j]))
                return infer__error(err, INFER_ERR_FORMAT, "tensor %s: %g for token %d is none of %d experts", w->name,
                                    ids[j], (int)i, (int)m->hp.n_expert);
    }
    return infer__ffn_shared_split(m, l, err);
}

static infer_result infer__ffn_moe_dense_check(const infer_model *m, infer__layer *l, infer_error *err) {
    infer_result r = infer__ffn_dense_check(m, l, err);
    return r ? r : infer__ffn_moe_check(m, l, err);
}

/* ---- as text ----------------------------------------------------------------------------------------------------- */

static void infer__ffn_moe_describe(infer__text_out *o, const infer_model *m, const infer__layer *l, const char *in) {
    static const char *const scores[] = { "softmax", "sigmoid", "sqrt(softplus)", "sparsemixer" };
    const infer__router *r = l->router;
    const infer__weight *w = l->w;
    const char *bias = w[INFER__W_MOE_GATE_B].type || w[INFER__W_MOE_GATE_UP_B].type ? " + bias" : "";
    const char *by = w[INFER__W_MOE_CHOICE_B].type ? " by p + bias" : "";
    if (l->router_kept) infer__text_add(o, "    p = %s(k)\n", scores[r->score]);
    else
        infer__text_add(o, "    p = %s(router %s%s)\n", scores[r->score], in,
                        w[INFER__W_MOE_ROUTER_B].type ? " + bias" : "");
    if (r->n_group > 1)
        infer__text_add(o, "    # of the best %d of %d groups by the sum of their best %d%s\n", (int)r->group_used,
                        (int)r->n_group, (int)r->group_best, w[INFER__W_MOE_CHOICE_B].type ? " of p + bias" : "");
    if (w[INFER__W_MOE_TABLE].type) by = " by a table of tokens";
    infer__text_add(o, "    f = sum over the best %d of %d experts%s: p_e%s", (int)r->n_used, (int)r->n_expert, by,
                    r->normalise ? " / their sum" : "");
    if (r->scale != 1) infer__text_add(o, " * %g", r->scale);
    if (r->before)
        infer__text_add(o, ": down_e(%s(p_e gate_e %s) * p_e up_e %s)", infer__act_name(l->act), in, in);
    else if (l->expert_limit > 0 && l->limit_after)
        infer__text_add(o, " * down_e(min(%s(gate_e %s), %g) * clamp(up_e %s; %g))", infer__act_name(l->act), in,
                        l->expert_limit, in, l->expert_limit);
    else if (l->expert_limit > 0)
        infer__text_add(o, " * down_e(%s(min(gate_e %s%s, %g)) * (clamp(up_e %s%s; %g) + %g)%s)",
                        infer__act_name(l->act), in, bias, l->expert_limit, in, bias, l->expert_limit, l->act_add,
                        w[INFER__W_MOE_DOWN_B].type ? " + bias" : "");
    else infer__text_add(o, " * down_e(%s(gate_e %s%s) * up_e %s%s)", infer__act_name(l->act), in, bias, in, bias);
    infer__text_add(o, "  # %d wide\n", (int)m->hp.n_ff_expert);
    if (m->hp.n_latent)
        infer__text_add(o, "    # they read a product of %s, %d wide; and of their sum%s a product is f\n", in,
                        (int)m->hp.n_latent, w[INFER__W_MOE_LATENT_NORM].type ? "'s norm" : "");
    if (m->hp.per_group)
        infer__text_add(
            o, "    f = f + %g * sum over the same: p_e * down_g(%s(gate_g %s) * up_g %s)  # g = e / %d, %d wide\n",
            m->hp.group_scale, infer__act_name(l->act), in, in, (int)m->hp.per_group, (int)m->hp.n_ff_group);
    if (w[INFER__W_SHARED_UP].type)
        infer__text_add(o, "    f = f + %sshared expert of %s  # %d wide\n",
                        w[INFER__W_SHARED_SCORE].type ? "sigmoid(score) * " : "", in, (int)m->hp.n_ff_shared);
}

static void infer__ffn_moe_dense_describe(infer__text_out *o, const infer_model *m, const infer__layer *l,
                                          const char *in) {
    infer__ffn_moe_describe(o, m, l, in);
    infer__text_add(o, "    f = f + down(%s(gate %s) * up %s)  # %d wide\n", infer__act_name(l->act), in, in,
                    (int)l->n_ff);
    if (l->ffn_times != 1) infer__text_add(o, "    f = f * %g\n", l->ffn_times);
}

/* The value kept for the experts. */
static void infer__keep_describe(infer__text_out *o, const infer_model *m, const infer__layer *l, const char *in) {
    (void)m; (void)l;
    infer__text_add(o, "    k = %s\n", in);
}

static void infer__router_describe(infer__text_out *o, const infer_model *m, const infer__layer *l, const char *in) {
    (void)m;
    infer__text_add(o, "    k = router %s%s\n", in, l->w[INFER__W_MOE_ROUTER_B].type ? " + bias" : "");
}

static const infer__label INFER__FFN_MOE_LABELS[] = {
    { INFER__W_MOE_ROUTER, "router" }, { INFER__W_MOE_GATE, "gate_e" }, { INFER__W_MOE_UP, "up_e" },
    { INFER__W_MOE_GATE_UP, "gate_e, up_e" }, { INFER__W_MOE_DOWN, "down_e" }, { INFER__W_SHARED_UP, "shared up" },
    { 0, NULL } };
