/* nextn.c: the block behind the layers that predicts a further token (multi-token prediction; DeepSeek-V3, arXiv
 * 2412.19437, section 2.2): what infer_generate_params.mtp drafts with.
 *
 *     x = W [norm(embedding of the token at p); norm(hidden state at p - 1)]
 *     then a layer like the others, at position p; its norm and the head give the token at p + 1
 *
 * The hidden state is what the head reads: behind the output norm. At position 0 there is none: zeros. The block is a
 * layer of the model with an index behind the others; session/further.c runs it.
 * Source: the paper; llama.cpp's graphs of Qwen 3.5, GLM 4.5 and DeepSeek 2 agree.
 */
#include "../model.h"

/* ---- opening ----------------------------------------------------------------------------------------------------- */

/* After n_layer is what plain decoding runs. */
static void infer__nextn_keys(infer__keys *k, infer__hparams *hp) {
    char name[64];
    infer__format(name, sizeof name, "blk.%d.nextn.eh_proj.weight", (int)hp->n_layer);
    if (k->failed) return;
    k->failed = 1;
    if (hp->n_layer == hp->n_block || !infer__gguf_tensor_find(k->g, name))
        infer__error(k->err, INFER_ERR_UNSUPPORTED, "mtp: the file has no block that predicts further tokens");
    else if (!k->m->arch->predicts)
        infer__error(k->err, INFER_ERR_UNSUPPORTED,
                     "mtp: the block that predicts of architecture \"%s\" is not supported", k->m->arch->name);
    else {
        k->failed = 0;
        hp->n_predict = 1;
        hp->pass_kept = hp->n_embd;
    }
}

/* What the block reads comes before what layers do. */
static void infer__nextn_parts(infer_model *m, infer__layer *l) {
    infer__part was[INFER__MAX_PARTS];
    const int32_t n = l->n_parts;
    memcpy(was, l->parts, sizeof was);
    l->n_parts = 0;
    infer__part_stream(m, l, INFER__SUBLAYER_NEXTN);
    INFER__ASSERT(n < INFER__MAX_PARTS);
    memcpy(&l->parts[1], was, (size_t)n * sizeof *was);
    l->n_parts = n + 1;
}

static infer_result infer__nextn_check(const infer_model *m, infer__layer *l, infer_error *err) {
    infer_result r = infer__need(l, INFER__W_NEXTN_PROJ, err);
    (void)m;
    if (!r) r = infer__need(l, INFER__W_NEXTN_EMBD_NORM, err);
    if (!r) r = infer__need(l, INFER__W_NEXTN_HIDDEN_NORM, err);
    return r;
}

static int64_t infer__nextn_cols(const infer_model *m, const infer__layer *l) {
    (void)l;
    return 2 * (int64_t)m->hp.n_embd;
}

static void infer__nextn_needs(const infer_model *m, const infer__layer *l, infer__needs *n) {
    (void)l;
    infer__need_cols(n, 2 * (int64_t)m->hp.n_embd);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

/* x, embeddings of tokens, becomes what the layer reads; the hidden states before them are kept for the pass. */
static void infer__nextn_run(infer_context *c, const infer__layer *l, infer__sublayer *s) {
    const int32_t rows = s->x.rows, n = s->x.cols;
    const infer__tensor hidden = infer__pass_kept(c, rows, 0, rows, n);
    infer__tensor both = infer__view(&c->at->work, 0, rows, 2 * n), half[2];
    half[0] = infer__columns(&both, 0, n);
    half[1] = infer__columns(&both, n, n);
    infer__slot_norm(c, l, INFER__W_NEXTN_EMBD_NORM, 1, &s->x, &half[0]);
    infer__slot_norm(c, l, INFER__W_NEXTN_HIDDEN_NORM, 1, &hidden, &half[1]);
    infer__product(c, &both, &l->w[INFER__W_NEXTN_PROJ], NULL, &s->x);
}

static void infer__nextn_describe(infer__text_out *o, const infer_model *m, const infer__layer *l, const char *in) {
    (void)l;
    infer__text_add(o, "    %s = eh_proj [%s(embedding); %s(hidden state before)]\n", in, infer__norm_name(m),
                    infer__norm_name(m));
}
