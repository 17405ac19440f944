/* encoder.c: parts of encoders' layers: the stream is kept as it was, and added once more (Jina's model of code). */
#include "../model.h"

static void infer__keep_stream_run(infer_context *c, const infer__layer *l, infer__sublayer *s) {
    (void)l;
    infer__copy_rows(c, &s->x, &s->out);
}

static void infer__keep_stream_describe(infer__text_out *o, const infer_model *m, const infer__layer *l,
                                        const char *in) {
    (void)m;
    (void)l;
    infer__text_add(o, "    k = %s\n", in);
}

/* s->out is the kept stream. */
static void infer__stream_again_run(infer_context *c, const infer__layer *l, infer__sublayer *s) {
    (void)l;
    infer__add_to(c, &s->out, &s->x);
}

static void infer__stream_again_describe(infer__text_out *o, const infer_model *m, const infer__layer *l,
                                         const char *in) {
    (void)m;
    (void)l;
    infer__text_add(o, "    x = %s + k\n", in);
}
