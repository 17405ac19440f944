/* describe.c: a model's resolved layers as readable pseudo-code: what `infer info` prints, and the first thing to look
 * at when a model computes something else than expected. */
#include "../model/model.h"

typedef struct infer__text_out { char *p; size_t cap, len; } infer__text_out;

static void infer__text_add(infer__text_out *o, const char *format, ...) INFER__PRINTF(2, 3);
static void infer__text_add(infer__text_out *o, const char *format, ...) {
    char line[512];
    va_list v;
    size_t i, n;
    va_start(v, format);
    infer__format_cut(line, sizeof line, &n, format, v);
    va_end(v);
    n = strlen(line);
    for (i = 0; i < n; i++, o->len++)
        if (o->len + 1 < o->cap) o->p[o->len] = line[i];
}

static const char *infer__act_name(int32_t act) {
    static const char *const names[] = { "silu", "gelu_tanh", "gelu", "relu", "relu^2" };
    return act >= 0 && (size_t)act < INFER__COUNT(names) ? names[act] : "?";
}

static const char *infer__norm_name(const infer_model *m) {
    return m->hp.norm == INFER__NORM_RMS ? "rms_norm" : "layer_norm";
}

static void infer__describe_weight(infer__text_out *o, const char *what, const infer__weight *w) {
    if (w->type) infer__text_add(o, "    # %-12s %d x %d %s\n", what, (int)w->rows, (int)w->cols, w->type->name);
}

static void infer__describe_attention(infer__text_out *o, const infer_model *m, const infer__layer *l) {
    const infer__weight *w = l->w;
    const infer__hparams *hp = &m->hp;
    const char *in = l->pre_norm ? "h" : "x";
    if (l->pre_norm)
        infer__text_add(o, "    h = %s(x)%s\n", infer__norm_name(m), w[INFER__W_ATTN_NORM].type ? " * attn_norm" : "");
    infer__text_add(o, "    q, k, v = %s Wq, %s Wk, %s Wv%s%s  # %d heads of %d, %d K/V heads, values of %d\n", in, in,
                    in, w[INFER__W_ATTN_Q_B].type ? " + bias" : "", w[INFER__W_ATTN_QKV].type ? " (one tensor)" : "",
                    (int)l->n_head, (int)l->dim_k, (int)l->n_head_kv, (int)l->dim_v);
    if (hp->clamp_kqv > 0) infer__text_add(o, "    q, k, v = clamp(q, k, v; %g)\n", hp->clamp_kqv);
    if (w[INFER__W_ATTN_Q_NORM].type)
        infer__text_add(o, "    q, k = %s(q), %s(k)  # %s\n", infer__norm_name(m), infer__norm_name(m),
                        l->q_groups > 1 || l->n_head == 1 ? "per head" : "whole rows");
    if (l->rope_kind != INFER__ROPE_NONE && l->rope)
        infer__text_add(o, "    q, k = rotate(q, k)  # first %d of %d, %s, base %g%s\n", (int)l->n_rot, (int)l->dim_k,
                        l->rope_kind == INFER__ROPE_PAIRS ? "pairs" : "halves",
                        l->group ? hp->rope_base_window : hp->rope_base,
                        hp->rope_scaling && l->rope == &m->ropes[0] ? ", scaled" : "");
    infer__text_add(o, "    a = softmax(q k * %g", l->attn_scale);
    if (hp->attn_softcap > 0) infer__text_add(o, ", capped at %g", hp->attn_softcap);
    if (hp->max_bias > 0) infer__text_add(o, ", + ALiBi %g", hp->max_bias);
    if (l->window) infer__text_add(o, ") v  # the last %d positions\n", (int)l->window);
    else infer__text_add(o, ") v\n");
}

static void infer__describe_layer(infer__text_out *o, const infer_model *m, const infer__layer *l) {
    const infer__weight *w = l->w;
    const infer__hparams *hp = &m->hp;
    char scale[32] = "";
    const char *in = l->pre_norm ? "h" : "x";
    infer__describe_attention(o, m, l);
    if (hp->residual_scale != 1) infer__format(scale, sizeof scale, " * %g", hp->residual_scale);
    infer__text_add(o, "    a = a Wo%s\n", w[INFER__W_ATTN_OUT_B].type ? " + bias" : "");
    if (w[INFER__W_ATTN_POST_NORM].type) infer__text_add(o, "    a = %s(a) * attn_post_norm\n", infer__norm_name(m));
    if (!l->parallel) infer__text_add(o, "    x = x + a%s\n", scale);
    if (l->pre_norm && (!l->parallel || w[INFER__W_FFN_NORM].type))
        infer__text_add(o, "    h = %s(x)%s\n", infer__norm_name(m), w[INFER__W_FFN_NORM].type ? " * ffn_norm" : "");
    if (l->ffn == INFER__FFN_MOE)
        infer__text_add(o, "    f = sum over the best %d of %d experts: p_e * down_e(%s(gate_e %s) * up_e %s)%s\n",
                        (int)hp->n_used, (int)hp->n_expert, infer__act_name(l->act), in, in,
                        w[INFER__W_SHARED_UP].type ? " + shared expert" : "");
    else if (w[INFER__W_FFN_GATE].type)
        infer__text_add(o, "    f = down(%s(gate %s) * up %s)  # %d wide\n", infer__act_name(l->act), in, in,
                        (int)l->n_ff);
    else infer__text_add(o, "    f = down(%s(up %s))  # %d wide\n", infer__act_name(l->act), in, (int)l->n_ff);
    if (w[INFER__W_FFN_POST_NORM].type) infer__text_add(o, "    f = %s(f) * ffn_post_norm\n", infer__norm_name(m));
    infer__text_add(o, "    x = x + %sf%s\n", l->parallel ? "a + " : "", scale);
    infer__describe_weight(o, "Wq", &w[INFER__W_ATTN_Q]);
    infer__describe_weight(o, "Wk", &w[INFER__W_ATTN_K]);
    infer__describe_weight(o, "Wv", &w[INFER__W_ATTN_V]);
    infer__describe_weight(o, "Wo", &w[INFER__W_ATTN_OUT]);
    infer__describe_weight(o, "gate", &w[INFER__W_FFN_GATE]);
    infer__describe_weight(o, "up", &w[INFER__W_FFN_UP]);
    infer__describe_weight(o, "down", &w[INFER__W_FFN_DOWN]);
}

/* Would these two layers be described alike (but for types)? */
static int infer__layers_alike(const infer__layer *a, const infer__layer *b) {
    int i;
    for (i = 0; i < INFER__LAYER_SLOT_COUNT; i++)
        if (a->w[i].type != b->w[i].type || a->w[i].rows != b->w[i].rows || a->w[i].cols != b->w[i].cols) return 0;
    return a->window == b->window && a->rope == b->rope && a->rope_kind == b->rope_kind && a->n_head == b->n_head &&
           a->n_head_kv == b->n_head_kv && a->n_ff == b->n_ff && a->parallel == b->parallel;
}

static void infer__describe(infer__text_out *o, const infer_model *m) {
    const infer__hparams *hp = &m->hp;
    int32_t i, j;
    if (m->why_code) {
        infer__text_add(o, "sessions cannot be created: %s\n", m->why_not);
        return;
    }
    infer__text_add(o, "x = embedding[token]");
    if (hp->embed_scale != 1) infer__text_add(o, " * %g", hp->embed_scale);
    if (m->w[INFER__W_POS_EMBD].type) infer__text_add(o, " + position[pos]");
    infer__text_add(o, "  # %d tokens, width %d\n", (int)hp->n_vocab, (int)hp->n_embd);
    if (m->w[INFER__W_EMBD_NORM].type) infer__text_add(o, "x = %s(x) * embedding_norm\n", infer__norm_name(m));
    for (i = 0; i < hp->n_layer; i = j) {
        for (j = i + 1; j < hp->n_layer && infer__layers_alike(&m->layers[i], &m->layers[j]); j++) {}
        if (j == i + 1) infer__text_add(o, "layer %d:\n", (int)i);
        else infer__text_add(o, "layers %d to %d:\n", (int)i, (int)j - 1);
        infer__describe_layer(o, m, &m->layers[i]);
    }
    infer__text_add(o, "logits = %s(x)%s head", infer__norm_name(m),
                    m->w[INFER__W_OUT_NORM].type ? " * output_norm" : "");
    if (m->w[INFER__W_OUTPUT].data == m->w[INFER__W_TOKEN_EMBD].data) infer__text_add(o, " (= embedding)");
    if (m->w[INFER__W_OUTPUT_B].type) infer__text_add(o, " + bias");
    if (hp->logit_scale != 1) infer__text_add(o, " * %g", hp->logit_scale);
    if (hp->final_softcap > 0) infer__text_add(o, ", capped at %g", hp->final_softcap);
    infer__text_add(o, "\n");
}

INFER_API infer_result infer_model_describe(const infer_model *model, char *out, size_t cap, size_t *len) {
    infer__text_out o;
    if (!model || !len || (cap > 0 && !out)) return INFER_ERR_ARGUMENT;
    o.p = out;
    o.cap = cap;
    o.len = 0;
    infer__describe(&o, model);
    if (cap) out[INFER__MIN(o.len, cap - 1)] = 0;
    *len = o.len;
    return INFER_OK;
}
