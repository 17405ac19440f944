/* forward.c: THE LOOP: one pass of a batch of rows through the layers. The first page to read.
 *
 * A batch is always n rows: a prompt, one token, several sessions are the same code with different n. Rows differ by
 * what ctx.pass says of them (id, position, sequence, page table). Ops report failure in ctx.error; it is looked at
 * once, after.
 * Nothing is allocated here.
 */
#include "model.h"

/* Mixers and FFNs: algorithms, chosen by a layer. */
typedef void (*infer__sublayer_fn)(infer_context *c, const infer__layer *l, const infer__tensor *x, infer__tensor *out);
static const infer__sublayer_fn INFER__MIXERS[] = { infer__mix_attention };
static const infer__sublayer_fn INFER__FFNS[] = { infer__ffn_dense, infer__ffn_moe };

static void infer__trace(infer_context *c, int32_t layer, const char *step, const infer__tensor *t) {
    if (!c->trace || !infer__ok(&c->ctx)) return;
    c->trace(c->trace_user, layer, step, infer__row(t, 0), (size_t)t->rows, (size_t)t->cols);
}

/* y = norm(x) with the weights in `slots` (weight, bias); without a weight a bare norm. */
static void infer__norm_to(infer_context *c, const infer__weight *slots, const infer__tensor *x,
                           const infer__tensor *y) {
    infer__norm_args a;
    memset(&a, 0, sizeof a);
    a.x = *x;
    a.y = *y;
    a.weight = infer__opt(&slots[0]);
    a.bias = infer__opt(&slots[1]);
    a.kind = c->model->hp.norm;
    a.n_groups = 1;
    a.eps = c->model->hp.eps;
    c->ctx.ops->norm(&c->ctx, &a);
}

/* x += (post-norm of) out * residual_scale */
static void infer__residual(infer_context *c, const infer__layer *l, int post_slot, const infer__tensor *out,
                            const infer__tensor *x) {
    infer__add_args a;
    infer__weight post[2];
    if (l->w[post_slot].type) {
        memset(post, 0, sizeof post);
        post[0] = l->w[post_slot];
        infer__norm_to(c, post, out, out);
    }
    a.x = *out;
    a.y = *x;
    a.scale = c->model->hp.residual_scale;
    c->ctx.ops->add(&c->ctx, &a);
}

static void infer__layer_run(infer_context *c, const infer__layer *l, infer__tensor *x, infer__tensor *xn,
                             infer__tensor *out) {
    infer__tensor *in = l->pre_norm ? xn : x;
    int own_norm = l->w[INFER__W_FFN_NORM].type != NULL || !l->parallel;
    if (l->pre_norm) infer__norm_to(c, &l->w[INFER__W_ATTN_NORM], x, xn);
    infer__trace(c, l->index, "attn_in", in);
    INFER__MIXERS[l->mixer](c, l, in, out);
    infer__trace(c, l->index, "attn_out", out);
    /* a parallel block's FFN reads what attention read, or its own norm of the same x: before x changes */
    if (l->parallel && own_norm && l->pre_norm) infer__norm_to(c, &l->w[INFER__W_FFN_NORM], x, xn);
    infer__residual(c, l, INFER__W_ATTN_POST_NORM, out, x);
    if (!l->parallel && l->pre_norm) infer__norm_to(c, &l->w[INFER__W_FFN_NORM], x, xn);
    infer__trace(c, l->index, "ffn_in", in);
    INFER__FFNS[l->ffn](c, l, in, out);
    infer__trace(c, l->index, "ffn_out", out);
    infer__residual(c, l, INFER__W_FFN_POST_NORM, out, x);
    infer__trace(c, l->index, "out", x);
}

static void infer__embed(infer_context *c, infer__tensor *x) {
    const infer_model *m = c->model;
    infer__embed_args a;
    int32_t i;
    for (i = 0; i < x->rows; i++) /* rows given as embeddings */
        if (c->row_embd[i])
            c->ctx.ops->upload(&c->ctx, x->buf, x->offset + (uint64_t)i * (uint64_t)x->stride * sizeof(float),
                               c->row_embd[i], (uint64_t)x->cols * sizeof(float));
    a.y = *x;
    a.table = &m->w[INFER__W_TOKEN_EMBD];
    a.positions = infer__opt(&m->w[INFER__W_POS_EMBD]);
    a.scale = m->hp.embed_scale;
    c->ctx.ops->embed(&c->ctx, &a);
    if (m->w[INFER__W_EMBD_NORM].type) infer__norm_to(c, &m->w[INFER__W_EMBD_NORM], x, x);
    infer__trace(c, -1, "embed", x);
}

/* Final norm and logits of the rows in pass->out. Logits go through the work area head_rows rows at a time. */
static void infer__head(infer_context *c, const infer__tensor *x) {
    const infer_model *m = c->model;
    const infer__pass *p = &c->ctx.pass;
    infer__get_rows_args rows;
    infer__matmul_args mm;
    infer__map_args map;
    uint64_t hidden = (uint64_t)m->hp.n_embd * sizeof(float), vocab = (uint64_t)m->hp.n_vocab * sizeof(float);
    int32_t i, j, n;
    if (p->n_out == 0) return;
    rows.x = *x;
    rows.y = infer__view(&c->xn, 0, p->n_out, m->hp.n_embd);
    c->ctx.ops->get_rows(&c->ctx, &rows);
    infer__norm_to(c, &m->w[INFER__W_OUT_NORM], &rows.y, &rows.y);
    infer__trace(c, -1, "hidden", &rows.y);
    for (i = 0; i < p->n_out; i++)
        if (c->out_hidden[i]) c->ctx.ops->download(&c->ctx, &c->xn, (uint64_t)i * hidden, c->out_hidden[i], hidden);
    for (i = 0; i < p->n_out; i += n) {
        n = INFER__MIN(p->n_out - i, c->plan.head_rows);
        for (j = 0; j < n && !c->out_logits[i + j]; j++) {}
        if (j == n) continue;
        memset(&mm, 0, sizeof mm);
        mm.x = infer__view(&c->xn, (uint64_t)i * (uint64_t)m->hp.n_embd, n, m->hp.n_embd);
        mm.n_w = 1;
        mm.w[0] = &m->w[INFER__W_OUTPUT];
        mm.b[0] = infer__opt(&m->w[INFER__W_OUTPUT_B]);
        mm.y[0] = infer__view(&c->work, 0, n, m->hp.n_vocab);
        c->ctx.ops->matmul(&c->ctx, &mm);
        memset(&map, 0, sizeof map);
        map.x = mm.y[0];
        map.scale = m->hp.logit_scale;
        map.cap = m->hp.final_softcap;
        if (map.scale != 1.0f || map.cap > 0) c->ctx.ops->map(&c->ctx, &map);
        infer__trace(c, -1, "logits", &mm.y[0]);
        for (j = 0; j < n; j++)
            if (c->out_logits[i + j])
                c->ctx.ops->download(&c->ctx, &c->work, (uint64_t)j * vocab, c->out_logits[i + j], vocab);
    }
}

/* After a bad result the pass is run again with `checking`: fail at the first layer whose output is not finite. */
static void infer__check_finite(infer_context *c, int32_t layer, const infer__tensor *x) {
    int32_t r, i;
    if (!c->checking || !infer__ok(&c->ctx)) return;
    for (r = 0; r < x->rows; r++)
        for (i = 0; i < x->cols; i++)
            if (!infer__finite(infer__row(x, r)[i])) {
                if (layer < 0) infer__fail(&c->ctx, INFER_ERR_STATE, "the embedding has a value that is not finite");
                else
                    infer__fail(&c->ctx, INFER_ERR_STATE, "layer %d is the first with a value that is not finite",
                                (int)layer);
                return;
            }
}

static void infer__forward(infer_context *c) {
    const infer_model *m = c->model;
    int32_t n = c->ctx.pass.n_rows, l;
    infer__tensor x = infer__view(&c->x, 0, n, m->hp.n_embd);
    infer__tensor xn = infer__view(&c->xn, 0, n, m->hp.n_embd);
    infer__tensor out = infer__view(&c->out, 0, n, m->hp.n_embd);
    infer__embed(c, &x);
    infer__check_finite(c, -1, &x);
    for (l = 0; l < m->hp.n_layer && infer__ok(&c->ctx); l++) {
        infer__layer_run(c, &m->layers[l], &x, &xn, &out);
        infer__check_finite(c, l, &x);
    }
    infer__head(c, &x);
}
