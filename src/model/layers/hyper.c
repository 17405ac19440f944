/* hyper.c: hyper-connections (arXiv 2409.19606), as HY 4 and DeepSeek V4 have them: several residual streams in place
 * of one.
 *
 * A matrix computes the coefficients of a sublayer from all streams of a token, concatenated and normalised:
 *     in_i = sigmoid(c_i scale_0 + base_i) + eps;  out_i = times * sigmoid(c_(n+i) scale_1 + base_(n+i)) + eps
 * The sublayer reads norm(sum of in_i s_i), and s_i += out_i * its result. All streams start as the embedding; the head
 * reads such a sum, too. DeepSeek V4 (arXiv 2512.24880) has no eps in out_i, and n * n coefficients more:
 *     s_i = out_i * its result + sum of M_ji s_j, M = balance(c scale_2 + base) (infer__streams_args)
 * Owns:  the kind "hyper-connections": before each sublayer, and at the end of the last layer. The residual stream of
 *        the rest of the pass is 0 before every sublayer, so that afterwards it is the sublayer's result.
 * Source: llama.cpp's computation, as in the recordings.
 */
#include "../model.h"

static void infer__hyper_read(infer__keys *k, infer__hparams *hp) {
    hp->n_hyper = infer__key_int(k, "hyper_connection.count", 2, INFER__MAX_STREAMS, 0, 1);
    hp->hyper_eps = infer__key_float(k, "hyper_connection.epsilon");
    if (k->failed) return;
    if (hp->hyper_eps < 0) infer__key_misfit(k, "hyper_connection.epsilon", "below 0");
    if ((int64_t)hp->n_hyper * hp->n_embd > INFER__MAX_DIM)
        infer__key_misfit(k, "hyper_connection.count", "too many for this embedding_length");
    hp->pass_kept = (int64_t)hp->n_hyper * hp->n_embd + infer__hyper_coefs(hp);
}

static void infer__hyper_keys(infer__keys *k, infer__hparams *hp) {
    hp->hyper_times = infer__key_float(k, "hyper_connection.magnitude");
    infer__hyper_read(k, hp);
}

static void infer__hyper_mixed_keys(infer__keys *k, infer__hparams *hp) {
    hp->hyper_times = 2;
    hp->hyper_rounds = infer__key_int(k, "hyper_connection.sinkhorn_iterations", 1, 1 << 10, 0, 1);
    infer__hyper_read(k, hp);
}

/* A part without a norm is the head's, at the end of the last layer. */
static infer_result infer__hyper_check(const infer_model *m, infer__layer *l, infer_error *err) {
    static const char *const of_head[] = { "fn", "base", "scale" };
    int i;
    if (l->index == m->hp.n_layer - 1)
        for (i = 0; i < 3; i++)
            if (!m->w[INFER__W_OUT_HYPER + i].type)
                return infer__error(err, INFER_ERR_FORMAT, "missing tensor output_hc_%s.weight", of_head[i]);
    return INFER_OK;
}

static int64_t infer__hyper_cols(const infer_model *m, const infer__layer *l) {
    (void)l;
    return (int64_t)m->hp.n_hyper * m->hp.n_embd;
}

static void infer__hyper_needs(const infer_model *m, const infer__layer *l, infer__needs *n) {
    (void)l;
    infer__need_cols(n, m->hp.n_hyper * m->hp.n_embd);
}

static void infer__hyper_op(infer_context *c, int32_t kind, const infer__tensor *x, const infer__tensor *streams,
                            const infer__tensor *coef, const infer__tensor *to, const infer__weight *w) {
    const infer__hparams *hp = &c->model->hp;
    infer__streams_args a;
    memset(&a, 0, sizeof a);
    a.kind = kind;
    a.n = hp->n_hyper;
    a.x = *x;
    a.rest = *streams;
    a.coef = *coef;
    a.cut = hp->hyper_eps;
    a.times = hp->hyper_times;
    a.rounds = hp->hyper_rounds;
    if (to) {
        a.base = *to;
        a.offset = &w[1];
        a.scale = &w[2];
    }
    c->ctx.ops->streams(&c->ctx, &a);
}

/* All streams are x. */
static void infer__hyper_start(infer_context *c, const infer__tensor *x, const infer__tensor *streams) {
    infer__tensor of;
    int32_t i;
    for (i = 0; i < c->model->hp.n_hyper; i++) {
        of = infer__columns(streams, i * x->cols, x->cols);
        infer__copy_rows(c, x, &of);
    }
}

/* Add the previous sublayer's result to the streams; compute the next one's input from them, which is kept. */
static void infer__hyper_run(infer_context *c, const infer__layer *l, infer__sublayer *s) {
    const infer_model *m = c->model;
    const infer__part *p = s->part;
    const int32_t rows = s->x.rows, width = s->x.cols, wide = m->hp.n_hyper * width, head = p->norm < 0;
    const infer__weight *w = head ? &m->w[INFER__W_OUT_HYPER] : &l->w[p->post];
    infer__tensor streams = infer__pass_kept(c, rows, 0, rows, wide), normed = infer__view(&c->at->work, 0, rows, wide);
    infer__tensor coef = infer__pass_kept(c, rows, wide, rows, infer__hyper_coefs(&m->hp));
    infer__norm_args norm;
    if (l->index == 0 && p->norm == INFER__W_ATTN_NORM) infer__hyper_start(c, &s->x, &streams);
    else infer__hyper_op(c, INFER__STREAMS_SPREAD, &s->x, &streams, &coef, NULL, NULL);
    memset(&norm, 0, sizeof norm);
    norm.x = streams;
    norm.y = normed;
    norm.kind = m->hp.norm;
    norm.n_groups = 1;
    norm.eps = m->hp.eps;
    c->ctx.ops->norm(&c->ctx, &norm);
    coef = infer__columns(&coef, 0, w[0].rows);
    infer__product(c, &normed, &w[0], NULL, &coef);
    infer__hyper_op(c, INFER__STREAMS_JOIN, &s->x, &streams, &coef, head ? &s->x : &s->out, w);
    if (head) return;
    infer__slot_norm(c, l, p->norm, 1, &s->out, &s->out);
    infer__scale_rows(c, 0, &s->x);
}

static void infer__hyper_describe(infer__text_out *o, const infer_model *m, const infer__layer *l, const char *in) {
    (void)l;
    infer__text_add(o,
                    "    # %s: a sum of %d streams, weighted by what a matrix makes of them all; what follows goes to "
                    "each of them, weighted likewise%s\n",
                    in, (int)m->hp.n_hyper, m->hp.hyper_rounds ? ", with a share of each other" : "");
}
