/* cycles.c: two stacks of layers that alternate over the same tokens (HRM-Text; hierarchical reasoning, arXiv
 * 2506.21734).
 *
 * The low stack runs l_cycles times, then the high one once, and all of that h_cycles times. Both have a state, high:
 * the embedding at first, and low: a learnt row. A run reads high + low, and the norm of its result becomes its stack's
 * state. The head reads the high state. The file has each stack's blocks once; every run of a stack is a sequence of
 * layers here, with their own keys and values.
 * Owns:  the kind "states of two stacks", at the front of every run; which block a layer's tensors are in.
 * Source: transformers, modeling_hrm_text.py; llama.cpp agrees.
 */
#include "../model.h"

static void infer__cycles_keys(infer__keys *k, infer__hparams *hp) {
    int64_t low, n;
    hp->stack = infer__key_int(k, "hrm.layers_per_stack", 1, INFER__MAX_LAYERS, 0, 1);
    hp->low_cycles = infer__key_int(k, "hrm.l_cycles", 1, INFER__MAX_LAYERS, 0, 1);
    n = infer__key_int(k, "hrm.h_cycles", 1, INFER__MAX_LAYERS, 0, 1);
    if (k->failed) return;
    low = (int64_t)hp->stack * (hp->low_cycles + 1);
    if (low * n != hp->n_layer)
        infer__key_misfit(k, "block_count", "not layers_per_stack * h_cycles * (l_cycles + 1)");
    hp->pass_kept = 2 * (int64_t)hp->n_embd;
}

/* 1 when the layer is of the high stack. */
static int infer__cycles_high(const infer__hparams *hp, int32_t layer) {
    return layer / hp->stack % (hp->low_cycles + 1) == hp->low_cycles;
}

static int32_t infer__file_block(const infer__hparams *hp, int32_t layer) {
    if (!hp->stack) return layer < hp->n_enc ? layer : layer - hp->n_enc;
    return layer % hp->stack + (infer__cycles_high(hp, layer) ? hp->stack : 0);
}

static infer_result infer__cycles_check(const infer_model *m, infer__layer *l, infer_error *err) {
    if (l->index || m->w[INFER__W_LOW_INIT].type) return INFER_OK;
    return infer__error(err, INFER_ERR_FORMAT, "missing tensor hrm.z_l_init");
}

/* x, which the run before gave, becomes its stack's state; x = the sum of both. */
static void infer__cycles_run(infer_context *c, const infer__layer *l, infer__sublayer *s) {
    const infer_model *m = c->model;
    const int32_t rows = s->x.rows, width = s->x.cols, high = l->index == 0 || infer__cycles_high(&m->hp, l->index - 1);
    infer__tensor state[2]; /* low, high */
    infer__norm_args norm;
    state[0] = infer__pass_kept(c, rows, 0, rows, width);
    state[1] = infer__pass_kept(c, rows, width, rows, width);
    memset(&norm, 0, sizeof norm);
    norm.n_groups = 1;
    norm.eps = m->hp.eps;
    if (l->index == 0) { /* the layer norm of zeros is its bias */
        infer__copy_rows(c, &s->x, &state[1]);
        infer__scale_rows(c, 0, &s->x);
        norm.kind = INFER__NORM_LAYER;
        norm.bias = &m->w[INFER__W_LOW_INIT];
    } else norm.kind = m->hp.norm;
    norm.x = s->x;
    norm.y = state[l->index && high];
    c->ctx.ops->norm(&c->ctx, &norm);
    infer__copy_rows(c, &state[1], &s->x);
    infer__add_to(c, &state[0], &s->x);
}

static void infer__cycles_describe(infer__text_out *o, const infer_model *m, const infer__layer *l, const char *in) {
    const int high = infer__cycles_high(&m->hp, l->index);
    if (l->index == 0) infer__text_add(o, "    high = %s;  low = hrm.z_l_init\n", in);
    else
        infer__text_add(o, "    %s = %s(%s)\n", infer__cycles_high(&m->hp, l->index - 1) ? "high" : "low",
                        infer__norm_name(m), in);
    infer__text_add(o, "    %s = high + low  # the %s stack: blocks %d..%d\n", in, high ? "high" : "low",
                    high ? (int)m->hp.stack : 0, (int)m->hp.stack * (1 + high) - 1);
}
