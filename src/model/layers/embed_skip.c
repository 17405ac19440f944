/* embed_skip.c: the tokens' embeddings, which each layer adds to the stream again, times its own factor (Talkie).
 */
#include "../model.h"

static infer_result infer__embed_skip_check(const infer_model *m, infer__layer *l, infer_error *err) {
    (void)m;
    return infer__need(l, INFER__W_EMBED_SKIP, err);
}

static infer_result infer__embed_skip_split(infer_model *m, infer__layer *l, infer_error *err) {
    int32_t i;
    (void)m;
    (void)err;
    for (i = 0; i < l->n_parts; i++)
        if (l->parts[i].kind->id == INFER__SUBLAYER_EMBED_SKIP)
            l->parts[i].scale = infer__slot_float(l, INFER__W_EMBED_SKIP, 0);
    return INFER_OK;
}

static void infer__talkie_keys(infer__keys *k, infer__hparams *hp) {
    (void)k;
    hp->pass_kept = hp->n_embd;
}

/* x is the embeddings: they are kept for the pass. */
static void infer__embed_keep(infer_context *c, const infer__tensor *x) {
    infer__tensor kept;
    if (!infer__layer_part(&c->model->layers[0], INFER__SUBLAYER_EMBED_SKIP)) return;
    kept = infer__pass_kept(c, x->rows, 0, x->rows, x->cols);
    infer__copy_rows(c, x, &kept);
}

static void infer__embed_skip(infer_context *c, const infer__layer *l, infer__sublayer *s) {
    infer__tensor kept = infer__pass_kept(c, s->x.rows, 0, s->x.rows, s->x.cols);
    (void)l;
    infer__copy_rows(c, &kept, &s->out);
    infer__sublayer_add(c, s);
}

static void infer__embed_skip_describe(infer__text_out *o, const infer_model *m, const infer__layer *l,
                                       const char *in) {
    (void)m;
    (void)l;
    (void)in;
    infer__text_add(o, "    e = embeddings\n");
}
