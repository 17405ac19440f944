/* altup.c: alternating updates (AltUp, arXiv 2301.13310) and learned augmented residual layers (LAuReL, arXiv
 * 2411.07501), as Gemma 3n has them.
 *
 * A token has n_streams streams. Stream 0 is the residual stream x; the others are kept for the pass. A layer predicts
 * all streams (each a weighted sum of all), computes attention and FFN for stream 0, and corrects every stream by the
 * error of the prediction of stream 0. At both ends each stream goes through a matrix of its own, scaled to the length
 * of stream 0.
 * Owns:  the kinds "streams", "prediction", "low-rank residual", "correction", "mean of streams".
 * Source: transformers, modeling_gemma3n.py.
 */
#include "../model.h"

/* Streams 1.. of `rows` rows: [(n_streams - 1) * rows][width], one stream after the other. */
static infer__tensor infer__streams_rest(infer_context *c, int32_t rows) {
    const infer__hparams *hp = &c->model->hp;
    return infer__pass_kept(c, rows, hp->n_per_layer * hp->n_layer, (hp->n_streams - 1) * rows, hp->n_embd);
}

static infer__tensor infer__stream_of(const infer__tensor *rest, int32_t i, int32_t rows) {
    infer__tensor t = *rest;
    t.offset += (uint64_t)i * (uint64_t)rows * (uint64_t)rest->stride * sizeof(float);
    t.rows = rows;
    return t;
}

static const char *infer__altup_lacks(const infer__ops *ops, const infer__layer *l) {
    infer__streams_args a;
    (void)l;
    memset(&a, 0, sizeof a);
    a.kind = INFER__STREAMS_PREDICT;
    return ops->supports(INFER__OP_STREAMS, &a) ? NULL : "streams beside the residual one";
}

/* y[i] = matrix i * x[i], as long as `like`; x[i] is `x`, or stream i of it. */
static void infer__streams_through(infer_context *c, int slot, const infer__tensor *x, int many,
                                   const infer__tensor *like, const infer__tensor *y) {
    int32_t i, d = c->model->hp.n_embd, n = like->rows;
    infer__streams_args a;
    for (i = 0; i < c->model->hp.n_streams - 1; i++) {
        infer__weight w = infer__slice_rows(&c->model->w[slot], (int64_t)i * d, d);
        infer__tensor from = many ? infer__stream_of(x, i, n) : *x, to = infer__stream_of(y, i, n);
        infer__product(c, &from, &w, NULL, &to);
    }
    memset(&a, 0, sizeof a);
    a.kind = INFER__STREAMS_MATCH;
    a.n = c->model->hp.n_streams;
    a.x = *like;
    a.rest = *y;
    c->ctx.ops->streams(&c->ctx, &a);
}

static infer_result infer__streams_check(const infer_model *m, infer__layer *l, infer_error *err) {
    (void)l;
    if (!m->w[INFER__W_ALTUP_PROJ].type)
        return infer__error(err, INFER_ERR_FORMAT, "missing tensor altup_proj.weight");
    if (!m->w[INFER__W_ALTUP_UNEMBD].type)
        return infer__error(err, INFER_ERR_FORMAT, "missing tensor altup_unembd_proj.weight");
    return INFER_OK;
}

static void infer__streams_run(infer_context *c, const infer__layer *l, infer__sublayer *s) {
    infer__tensor rest = infer__streams_rest(c, s->x.rows);
    (void)l;
    infer__streams_through(c, INFER__W_ALTUP_PROJ, &s->x, 0, &s->x, &rest);
}

static void infer__streams_describe(infer__text_out *o, const infer_model *m, const infer__layer *l, const char *in) {
    (void)l;
    infer__text_add(o, "    x_1..x_%d = A_1 %s .. A_%d %s, as long as %s\n", (int)m->hp.n_streams - 1, in,
                    (int)m->hp.n_streams - 1, in, in);
}

static int64_t infer__streams_end_cols(const infer_model *m, const infer__layer *l) {
    (void)l;
    return (int64_t)(m->hp.n_streams - 1) * m->hp.n_embd;
}

/* x = the mean of all streams. */
static void infer__streams_end_run(infer_context *c, const infer__layer *l, infer__sublayer *s) {
    int32_t n = s->x.rows, many = c->model->hp.n_streams, i;
    infer__tensor rest = infer__streams_rest(c, n);
    infer__tensor y = infer__view(&c->at->work, 0, (many - 1) * n, c->model->hp.n_embd);
    (void)l;
    infer__streams_through(c, INFER__W_ALTUP_UNEMBD, &rest, 1, &s->x, &y);
    for (i = 0; i < many - 1; i++) {
        infer__tensor one = infer__stream_of(&y, i, n);
        infer__add_to(c, &one, &s->x);
    }
    infer__scale_rows(c, 1.0f / (float)many, &s->x);
}

static void infer__streams_end_describe(infer__text_out *o, const infer_model *m, const infer__layer *l,
                                        const char *in) {
    int32_t last = m->hp.n_streams - 1;
    (void)l;
    infer__text_add(o, "    x = (%s + B_1 x_1 + .. + B_%d x_%d, each as long as %s) / %d\n", in, (int)last, (int)last,
                    in, (int)last + 1);
}

/* ---- prediction and correction ----------------------------------------------------------------------------------- */

static int64_t infer__predict_cols(const infer_model *m, const infer__layer *l) {
    int64_t n = m->hp.n_streams;
    (void)l;
    return n + n * n;
}

static int64_t infer__correct_cols(const infer_model *m, const infer__layer *l) {
    return INFER__MAX(infer__predict_cols(m, l), (int64_t)m->hp.n_per_layer);
}

/* coef = W tanh(router (norm(x) * weights / width)); their place in the work area: after the router's. */
static infer__tensor infer__stream_coefs(infer_context *c, const infer__layer *l, const infer__tensor *x, int slot) {
    int32_t n = x->rows, many = c->model->hp.n_streams;
    infer__tensor xn = infer__view(&c->at->xn, 0, n, x->cols), r = infer__view(&c->at->work, 0, n, many);
    infer__tensor coef = infer__view(&c->at->work, (uint64_t)n * (uint64_t)many, n, l->w[slot].rows);
    infer__slot_norm(c, l, INFER__W_ALTUP_ROUTER_NORM, 1, x, &xn);
    infer__scale_rows(c, 1.0f / (float)x->cols, &xn);
    infer__product_act(c, &xn, INFER__ACT_TANH, &l->w[INFER__W_ALTUP_ROUTER], &r);
    infer__product(c, &r, &l->w[slot], NULL, &coef);
    return coef;
}

static void infer__streams_op(infer_context *c, const infer__layer *l, int32_t kind, const infer__tensor *x,
                              const infer__tensor *coef, const infer__tensor *scaled) {
    infer__streams_args a;
    memset(&a, 0, sizeof a);
    a.kind = kind;
    a.n = c->model->hp.n_streams;
    a.x = *x;
    a.rest = infer__streams_rest(c, x->rows);
    a.base = infer__kept(c, l, x->rows);
    a.coef = *coef;
    if (scaled) {
        a.scaled = *scaled;
        a.scale = &l->w[INFER__W_ALTUP_CORRECT_SCALE];
    }
    c->ctx.ops->streams(&c->ctx, &a);
}

static infer_result infer__predict_check(const infer_model *m, infer__layer *l, infer_error *err) {
    int s;
    infer_result r = INFER_OK;
    (void)m;
    for (s = INFER__W_ALTUP_PREDICT; s <= INFER__W_ALTUP_CORRECT_SCALE && !r; s++)
        if (l->w[s].type || s <= INFER__W_ALTUP_ROUTER_NORM) r = infer__need(l, s, err);
    return r;
}

static void infer__predict_run(infer_context *c, const infer__layer *l, infer__sublayer *s) {
    infer__tensor coef = infer__stream_coefs(c, l, &s->x, INFER__W_ALTUP_PREDICT);
    infer__streams_op(c, l, INFER__STREAMS_PREDICT, &s->x, &coef, NULL);
}

static void infer__predict_describe(infer__text_out *o, const infer_model *m, const infer__layer *l, const char *in) {
    (void)l;
    infer__text_add(o, "    c = P tanh(router (%s(%s) / %d))  # %d x %d\n    x_i = x_i + sum over all streams: c_ij x_j"
                       "  # x is x_0\n    k = x\n", infer__norm_name(m), in, (int)m->hp.n_embd, (int)m->hp.n_streams,
                    (int)m->hp.n_streams);
}

static infer_result infer__correct_check(const infer_model *m, infer__layer *l, infer_error *err) {
    infer_result r = infer__input_check(m, l, err);
    if (!r) r = infer__need(l, INFER__W_ALTUP_CORRECT, err);
    return r ? r : infer__need(l, INFER__W_ALTUP_CORRECT_SCALE, err);
}

/* Correct all streams by the results of attention and FFN for stream 0; all but that one get the layer's input
 * added. */
static void infer__correct_run(infer_context *c, const infer__layer *l, infer__sublayer *s) {
    int32_t n = s->x.rows, i;
    infer__tensor coef = infer__stream_coefs(c, l, &s->x, INFER__W_ALTUP_CORRECT);
    infer__tensor xn = infer__view(&c->at->xn, 0, n, s->x.cols), out = infer__view(&c->at->out, 0, n, s->x.cols);
    infer__tensor rest = infer__streams_rest(c, n);
    infer__streams_op(c, l, INFER__STREAMS_CORRECT, &s->x, &coef, &xn);
    infer__input_to(c, l, &xn, &out);
    if (s->part->post >= 0) infer__slot_norm(c, l, s->part->post, 1, &out, &out);
    for (i = 0; i < c->model->hp.n_streams - 1; i++) {
        infer__tensor one = infer__stream_of(&rest, i, n);
        infer__add_to(c, &out, &one);
    }
}

static void infer__correct_describe(infer__text_out *o, const infer_model *m, const infer__layer *l, const char *in) {
    infer__text_add(o, "    c = 1 + C tanh(router (%s(%s) / %d))\n    x_i = x_i + c_i (%s - k)  # x_0: k + ..\n",
                    infer__norm_name(m), in, (int)m->hp.n_embd, in);
    infer__input_describe(o, m, l, "(x * correct_scale)");
    infer__text_add(o, "    x_1.. = x_1.. + %s(e) * post_norm\n", infer__norm_name(m));
}

/* ---- low-rank residual ------------------------------------------------------------------------------------------- */

static int64_t infer__laurel_cols(const infer_model *m, const infer__layer *l) {
    (void)m;
    return l->w[INFER__W_LAUREL_L].rows;
}

static void infer__laurel_needs(const infer_model *m, const infer__layer *l, infer__needs *n) {
    (void)m;
    infer__need_cols(n, l->w[INFER__W_LAUREL_L].rows);
}

static infer_result infer__laurel_check(const infer_model *m, infer__layer *l, infer_error *err) {
    infer_result r = infer__need(l, INFER__W_LAUREL_L, err);
    (void)m;
    if (!r) r = infer__need(l, INFER__W_LAUREL_R, err);
    if (!r) r = infer__need(l, INFER__W_LAUREL_NORM, err);
    if (r || l->w[INFER__W_LAUREL_R].cols == l->w[INFER__W_LAUREL_L].rows) return r;
    return infer__error(err, INFER_ERR_FORMAT, "tensor %s has rows of %d, those of %s give %d values",
                        l->w[INFER__W_LAUREL_R].name, (int)l->w[INFER__W_LAUREL_R].cols, l->w[INFER__W_LAUREL_L].name,
                        (int)l->w[INFER__W_LAUREL_L].rows);
}

/* out = x + norm(R L x) */
static void infer__laurel_run(infer_context *c, const infer__layer *l, infer__sublayer *s) {
    infer__tensor t = infer__view(&c->at->work, 0, s->x.rows, l->w[INFER__W_LAUREL_L].rows);
    infer__sublayer_norm(c, s);
    infer__product(c, &s->x, &l->w[INFER__W_LAUREL_L], NULL, &t);
    infer__product(c, &t, &l->w[INFER__W_LAUREL_R], NULL, &s->out);
    infer__slot_norm(c, l, INFER__W_LAUREL_NORM, 1, &s->out, &s->out);
    infer__add_to(c, &s->x, &s->out);
    infer__sublayer_add(c, s);
}

static void infer__laurel_describe(infer__text_out *o, const infer_model *m, const infer__layer *l, const char *in) {
    infer__text_add(o, "    r = %s + %s(R (L %s)) * laurel_norm  # rank %d\n", in, infer__norm_name(m), in,
                    (int)l->w[INFER__W_LAUREL_L].rows);
}
