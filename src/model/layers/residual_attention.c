/* residual_attention.c: residuals that attend to the stream's past (Kimi K3).
 *
 * Layers 0, res_every, 2 res_every, .. store their input stream, and the stream restarts with the result of their
 * attention. Every sublayer, and the head, reads a weighted sum of the stored streams and the current one: the weights
 * are the softmax of (their norms, without weights) * a vector of the sublayer (INFER__STREAMS_ATTEND). Source:
 * llama.cpp's computation, as in the recording; there is no paper.
 */
#include "../model.h"

static void infer__kimi_k3_keys(infer__keys *k, infer__hparams *hp) {
    hp->n_latent = infer__key_int(k, "expert_latent_length", 0, INFER__MAX_DIM, 0, 0);
    hp->res_every = infer__key_int(k, "attn_res.block_size", 1, INFER__MAX_LAYERS, 0, 1);
    if (k->failed) return;
    hp->pass_kept = (int64_t)((hp->n_layer - 1) / hp->res_every + 1) * hp->n_embd;
}

/* A part without a norm is the head's, at the end of the last layer. */
static infer_result infer__res_check(const infer_model *m, infer__layer *l, infer_error *err) {
    if (l->index < m->hp.n_layer - 1 || m->w[INFER__W_OUT_RES_SCORE].type) return INFER_OK;
    return infer__error(err, INFER_ERR_FORMAT, "missing tensor output_res_score.weight");
}

static void infer__res_needs(const infer_model *m, const infer__layer *l, infer__needs *n) {
    infer__need_cols(n, m->hp.n_embd + l->index / m->hp.res_every + 2);
}

/* x -> what the sublayer reads, which is kept. */
static void infer__res_run(infer_context *c, const infer__layer *l, infer__sublayer *s) {
    const infer_model *m = c->model;
    const infer__part *p = s->part;
    const int32_t every = m->hp.res_every, rows = s->x.rows, width = s->x.cols;
    const int mixer = p->norm == INFER__W_ATTN_NORM, n = (l->index + (mixer ? every - 1 : every)) / every;
    infer__streams_args a;
    infer__tensor to;
    memset(&a, 0, sizeof a);
    a.kind = INFER__STREAMS_ATTEND;
    a.n = n + 1;
    a.x = s->x;
    a.rest = infer__pass_kept(c, rows, 0, n * rows, width);
    a.base = s->out;
    a.scale = p->norm < 0 ? &m->w[INFER__W_OUT_RES_SCORE] : &l->w[p->post];
    a.cut = m->hp.eps;
    c->ctx.ops->streams(&c->ctx, &a);
    if (p->norm < 0) {
        infer__copy_rows(c, &s->out, &s->x);
        return;
    }
    infer__slot_norm(c, l, p->norm, 1, &s->out, &s->out);
    if (!mixer || l->index % every != 0) return;
    to = infer__pass_kept(c, rows, (int64_t)n * width, rows, width);
    infer__copy_rows(c, &s->x, &to);
    infer__scale_rows(c, 0, &s->x);
}

static void infer__res_describe(infer__text_out *o, const infer_model *m, const infer__layer *l, const char *in) {
    (void)l;
    infer__text_add(o, "    # %s: a sum of x and what layers 0, %d, .. kept of it, by the softmax of their scores\n",
                    in, (int)m->hp.res_every);
}
