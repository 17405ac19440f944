/* hyper_low.c: hyper-connections of a low rank (Qwen 3.8 Flash Next): several residual streams, as in hyper.c, and what
 * a sublayer reads is mixed value by value.
 *
 * With s the n streams of a token, each normalised by itself, beside each other:
 *     h = mean of the streams of s * sigmoid(Wup silu(Wdown s / n));  w = 2 sigmoid(Winject s / n)
 * The sublayer reads h, and stream i += w_i * its result. All streams start as the embedding; the head reads such an h
 * in place of a norm.
 * Owns:  the kinds "low-rank hyper-connections", before each sublayer and at the end of the last layer, and "shares of
 *        streams", after each sublayer, and at the beginning. The residual stream of the rest of the pass is 0 before a
 *        sublayer, so that afterwards it is the sublayer's result.
 * Source: llama.cpp's computation, as in the recordings.
 */
#include "../model.h"

static void infer__hyper_low_keys(infer__keys *k, infer__hparams *hp) {
    hp->n_hyper = infer__key_int(k, "hyper_connection.count", 2, INFER__MAX_STREAMS, 0, 1);
    hp->hyper_rank = infer__key_int(k, "hyper_connection.low_rank", 1, INFER__MAX_DIM, 0, 1);
    hp->out_norm_off = 1;
    if (k->failed) return;
    if ((int64_t)hp->n_hyper * hp->n_embd > INFER__MAX_DIM)
        infer__key_misfit(k, "hyper_connection.count", "too many for this embedding_length");
    hp->pass_kept = (int64_t)hp->n_hyper * hp->n_embd + infer__hyper_coefs(hp);
}

static infer_result infer__hyper_low_check(const infer_model *m, infer__layer *l, infer_error *err) {
    static const char *const of_head[] = { "norm", "down", "up" };
    int i;
    for (i = 0; i < 3 && l->index == m->hp.n_layer - 1; i++)
        if (!m->w[INFER__W_OUT_HYPER_NORM + i].type)
            return infer__error(err, INFER_ERR_FORMAT, "missing tensor output_hc_%s.weight", of_head[i]);
    return INFER_OK;
}

static int64_t infer__hyper_low_cols(const infer_model *m, const infer__layer *l) {
    (void)l;
    return 2 * (int64_t)m->hp.n_hyper * m->hp.n_embd + m->hp.hyper_rank;
}

static void infer__hyper_low_needs(const infer_model *m, const infer__layer *l, infer__needs *n) {
    infer__hyper_needs(m, l, n);
    infer__need_cols(n, m->hp.hyper_rank);
}

/* x -> h, which is kept for the sublayer, or for the head is the stream; and w. */
static void infer__hyper_low_run(infer_context *c, const infer__layer *l, infer__sublayer *s) {
    const infer__hparams *hp = &c->model->hp;
    const int32_t rows = s->x.rows, n = hp->n_hyper, width = s->x.cols, wide = n * width, head = s->part->post < 0;
    const infer__weight *w = head ? &c->model->w[INFER__W_OUT_HYPER_NORM] : &l->w[s->part->post];
    const uint64_t all = (uint64_t)rows * (uint64_t)wide;
    infer__tensor streams = infer__pass_kept(c, rows, 0, rows, wide), normed = infer__view(&c->at->work, 0, rows, wide);
    infer__tensor coef = infer__pass_kept(c, rows, wide, rows, 2 * n), gate = infer__view(&c->at->work, all,
        rows, wide);
    infer__tensor low = infer__view(&c->at->work, 2 * all, rows, hp->hyper_rank), of, *to = head ? &s->x : &s->out;
    infer__norm_args norm;
    int32_t i;
    memset(&norm, 0, sizeof norm);
    norm.x = streams;
    norm.y = normed;
    norm.weight = &w[0];
    norm.kind = hp->norm;
    norm.n_groups = n;
    norm.eps = hp->eps;
    c->ctx.ops->norm(&c->ctx, &norm);
    infer__product(c, &normed, &w[1], NULL, &low);
    infer__scale_rows(c, 1.0f / (float)n, &low);
    infer__act_rows(c, INFER__ACT_SILU, &low, &low);
    infer__product(c, &low, &w[2], NULL, &gate);
    coef = infer__columns(&coef, n, n); /* where SPREAD reads them */
    if (!head) {
        infer__product(c, &normed, &w[3], NULL, &coef);
        infer__scale_rows(c, 1.0f / (float)n, &coef);
        infer__act_rows(c, INFER__ACT_SIGMOID, &coef, &coef);
        infer__scale_rows(c, 2, &coef);
    }
    infer__gate(c, INFER__ACT_SIGMOID, &gate, &normed);
    for (i = 0; i < n; i++) {
        of = infer__columns(&normed, i * width, width);
        if (i) infer__add_to(c, &of, to);
        else infer__copy_rows(c, &of, to);
    }
    infer__scale_rows(c, 1.0f / (float)n, to);
}

static void infer__hyper_low_describe(infer__text_out *o, const infer_model *m, const infer__layer *l, const char *in) {
    const int32_t n = m->hp.n_hyper;
    (void)l;
    infer__text_add(o,
                    "    s = %s(each of %d streams); %s = mean of the streams of s * sigmoid(silu(s Wdown / %d) Wup); "
                    "w = 2 sigmoid(s Winject / %d)  # of rank %d\n", infer__norm_name(m), (int)n, in, (int)n, (int)n,
                    (int)m->hp.hyper_rank);
}

static void infer__shares_run(infer_context *c, const infer__layer *l, infer__sublayer *s) {
    const infer__hparams *hp = &c->model->hp;
    const int32_t wide = hp->n_hyper * s->x.cols;
    infer__tensor streams = infer__pass_kept(c, s->x.rows, 0, s->x.rows, wide);
    infer__tensor coef = infer__pass_kept(c, s->x.rows, wide, s->x.rows, infer__hyper_coefs(hp));
    if (l->index == 0 && s->part == l->parts) infer__hyper_start(c, &s->x, &streams);
    else infer__hyper_op(c, INFER__STREAMS_SPREAD, &s->x, &streams, &coef, NULL, NULL);
    infer__scale_rows(c, 0, &s->x);
}

static void infer__shares_describe(infer__text_out *o, const infer_model *m, const infer__layer *l, const char *in) {
    (void)l;
    infer__text_add(o, "    each of %d streams: s_i = s_i + w_i %s, or at first %s; %s = 0\n",
        (int)m->hp.n_hyper, in, in, in);
}
