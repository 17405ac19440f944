/* nextn.c: multi-token prediction blocks, which follow the layers (DeepSeek-V3, arXiv 2412.19437, section 2.2):
 * infer_generate_params.mtp drafts with them.
 *
 *     x = W [norm(embedding of the token at p); norm(hidden state before p)]
 *     then a layer like the others, at position p; its norm and the head give the token at p + 1
 *
 * Block 0 reads the layers' hidden state of p - 1. Of several, block i gives the (i + 1)-th token after one that the
 * model chose, and reads
 *     in a chain (the paper; Step-3.5)  what block i - 1 gave at p - 1
 *     beside each other (MiMo-V2)       the layers' of p - 1 - i: at p the model has not seen the i tokens before it
 * With INFER__PREDICTS_BARE the hidden state is the one before the head's norm, else the one after it; at position 0 it
 * is zeros. A block is a layer of the model with an index after the others; session/further.c runs it.
 * Sources: the paper; llama.cpp's graphs. Step-3.5: vLLM's step3p5_mtp.py, and SGLang's worker for several blocks,
 *          which passes on "hidden states before norm" for it and the target's to each block of MiMo-V2, one token
 *          further in every step; MiMo-V2's norm before the head (final_layernorm) is the file's layer_output_norm.
 */
#include "../model.h"

enum { INFER__NEXTN_MOST = 16 }; /* blocks: a session keeps hidden states for each */

/* ---- opening ----------------------------------------------------------------------------------------------------- */

/* After n_layer has been reduced to the layers of plain decoding. */
static void infer__nextn_keys(infer__keys *k, infer__hparams *hp) {
    const int32_t blocks = hp->n_block - hp->n_layer;
    char name[64];
    int32_t i;
    if (k->failed) return;
    k->failed = 1;
    if (!INFER__HAS_DRAFTS) {
        infer__left_out(k->err, "mtp: drafts", "INFER_NO_DRAFTS");
        return;
    }
    infer__format(name, sizeof name, "blk.%d.nextn.eh_proj.weight", (int)hp->n_layer);
    if (blocks == 0 || !infer__gguf_tensor_find(k->g, name)) {
        infer__error(k->err, INFER_ERR_UNSUPPORTED, "mtp: the file has no block that predicts further tokens");
        return;
    }
    if (!infer__arch_of(k->m)->predicts) {
        infer__error(k->err, INFER_ERR_UNSUPPORTED,
                     "mtp: blocks that predict of architecture \"%s\" are not supported: docs/architectures.md",
                     infer__arch_of(k->m)->name);
        return;
    }
    if (blocks > INFER__NEXTN_MOST) {
        infer__error(k->err, INFER_ERR_UNSUPPORTED, "mtp: the file has %d blocks that predict, more than %d",
                     (int)blocks, (int)INFER__NEXTN_MOST);
        return;
    }
    for (i = 1; i < blocks; i++) {
        infer__format(name, sizeof name, "blk.%d.nextn.eh_proj.weight", (int)(hp->n_layer + i));
        if (infer__gguf_tensor_find(k->g, name)) continue;
        infer__error(k->err, INFER_ERR_FORMAT, "mtp: missing tensor %s: nextn_predict_layers is %d", name, (int)blocks);
        return;
    }
    k->failed = 0;
    hp->n_predict = blocks;
    hp->predicts = infer__arch_of(k->m)->predicts;
    hp->pass_kept = hp->n_embd;
}

/* The part that makes a block's input comes before the usual parts. */
static void infer__nextn_parts(infer_model *m, infer__layer *l) {
    infer__part was[INFER__MAX_PARTS];
    const int32_t n = l->n_parts;
    if (!INFER__HAS_DRAFTS) return;
    memcpy(was, l->parts, sizeof was);
    l->n_parts = 0;
    infer__part_stream(m, l, &INFER__KIND_NEXTN);
    INFER__ASSERT(n < INFER__MAX_PARTS);
    memcpy(&l->parts[1], was, (size_t)n * sizeof *was);
    l->n_parts = n + 1;
}

static infer_result infer__nextn_check(const infer_model *m, infer__layer *l, infer_error *err) {
    infer_result r = infer__need(l, INFER__W_NEXTN_PROJ, err);
    (void)m;
    if (!r) r = infer__need(l, INFER__W_NEXTN_EMBD_NORM, err);
    if (!r) r = infer__need(l, INFER__W_NEXTN_HIDDEN_NORM, err);
    if (!r && l->w[INFER__W_NEXTN_HEAD_NORM].type && l->w[INFER__W_NEXTN_OUT_NORM].type)
        return infer__error(err, INFER_ERR_UNSUPPORTED,
                            "blk.%d has both nextn.shared_head_norm and layer_output_norm before the head",
                            (int)l->block);
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

/* Turn x, the tokens' embeddings, into the layer's input; the preceding hidden states are kept for the pass. */
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
    const int32_t i = l->index - m->hp.n_layer;
    const char *norm = infer__norm_name(m);
    infer__text_add(o, "    %s = eh_proj [%s(embedding); %s(hidden state%s %d before%s)]\n", in, norm, norm,
                    i == 0 || (m->hp.predicts & INFER__PREDICTS_BESIDE) ? "" : " of the block before,",
                    m->hp.predicts & INFER__PREDICTS_BESIDE ? (int)i + 1 : 1,
                    m->hp.predicts & INFER__PREDICTS_BARE ? ", not normed" : "");
}
