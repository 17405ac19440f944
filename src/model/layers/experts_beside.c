/* experts_beside.c: a dense FFN and experts that both read the stream, each with norms of its own (Gemma 4's mixture of
 * experts). The router reads a third norm, without weights, scaled by a number for each value.
 */
#include "../model.h"

static void infer__beside_run(infer_context *c, const infer__layer *l, infer__sublayer *s) {
    const infer__hparams *hp = &c->model->hp;
    int32_t n = s->x.rows;
    infer__tensor xn = infer__view(&c->at->xn, 0, n, hp->n_embd), logits = infer__kept(c, l, n);
    infer__sublayer part;
    infer__slot_norm(c, l, INFER__W_ROUTER_SCALE, 1, &s->x, &xn);
    infer__scale_rows(c, 1.0f / sqrtf((float)hp->n_embd), &xn);
    infer__router_logits(c, l, &xn, NULL, &logits); /* kept: see infer__layer.router_kept */
    memset(&part, 0, sizeof part);
    part.part = s->part;
    part.x = xn;
    part.out = s->out;
    infer__slot_norm(c, l, INFER__W_EXPERTS_IN_NORM, 1, &s->x, &xn);
    infer__ffn_moe(c, l, &part);
    infer__slot_norm(c, l, INFER__W_EXPERTS_OUT_NORM, 1, &s->out, &s->out);
    infer__slot_norm(c, l, INFER__W_FFN_NORM, 1, &s->x, &xn);
    part.out = infer__view(&c->at->work, 2 * (uint64_t)n * (uint64_t)l->n_ff, n, hp->n_embd);
    infer__ffn_dense(c, l, &part);
    infer__slot_norm(c, l, INFER__W_DENSE_OUT_NORM, 1, &part.out, &part.out);
    infer__add_to(c, &part.out, &s->out);
    infer__sublayer_add(c, s);
}

static infer_result infer__beside_check(const infer_model *m, infer__layer *l, infer_error *err) {
    static const int16_t need[] = { INFER__W_FFN_NORM, INFER__W_ROUTER_SCALE, INFER__W_EXPERTS_IN_NORM,
                                    INFER__W_EXPERTS_OUT_NORM, INFER__W_DENSE_OUT_NORM };
    infer_result r = infer__ffn_moe_dense_check(m, l, err);
    size_t i;
    for (i = 0; i < INFER__COUNT(need) && !r; i++) r = infer__need(l, need[i], err);
    return r;
}

static void infer__beside_describe(infer__text_out *o, const infer_model *m, const infer__layer *l, const char *in) {
    const char *norm = infer__norm_name(m);
    infer__text_add(o, "    k = router (%s(%s) * router_scale / %g)\n    n = %s(%s) * experts_norm\n", norm, in,
                    sqrt((double)m->hp.n_embd), norm, in);
    infer__ffn_moe_describe(o, m, l, "n");
    if (l->w[INFER__W_EXPERTS_SCALE].type) infer__text_add(o, "    # each p_e * a number of the expert's own\n");
    infer__text_add(o, "    d = %s(%s) * ffn_norm\n    d = down(%s(gate d) * up d)  # %d wide\n", norm, in,
                    infer__act_name(l->act), (int)l->n_ff);
    infer__text_add(o, "    f = %s(f) * experts_out_norm + %s(d) * dense_out_norm\n", norm, norm);
}
