/* embed_skip.c: the tokens' embeddings once more, which a layer adds to the stream times a number of its own (Talkie).
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
        if (l->parts[i].kind == infer__sublayer_kind_of(INFER__SUBLAYER_EMBED_SKIP))
            l->parts[i].scale = infer__slot_float(l, INFER__W_EMBED_SKIP, 0);
    return INFER_OK;
}

/* The table is where layer 0 is, and its place alone reads it. */
static const char *infer__embed_skip_lacks(const infer__ops *ops, const infer__layer *l) {
    (void)ops;
    (void)l;
    return "embeddings in every layer";
}

/* They are looked up again: the residual stream is all that goes from layer to layer. */
static void infer__embed_skip(infer_context *c, const infer__layer *l, infer__sublayer *s) {
    (void)l;
    infer__embed_rows(c, &s->out);
    infer__sublayer_add(c, s);
}

static void infer__embed_skip_describe(infer__text_out *o, const infer_model *m, const infer__layer *l,
                                       const char *in) {
    (void)m;
    (void)l;
    (void)in;
    infer__text_add(o, "    e = embeddings\n");
}
