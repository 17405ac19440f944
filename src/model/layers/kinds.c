/* kinds.c: INFER__SUBLAYER_KINDS: one row per kind of mixer and FFN; and which of them a layer has.
 *
 * Owns:  the list of sublayers of each layer (infer__layer.parts), resolved while a model opens.
 * Rules: a kind is a row here, a file beside this one, its weight slots in slots.h, and an op where it is hot. Nothing
 *        outside asks which kind a part is, but for what two kinds share.
 * To add one: see CONTRIBUTING.md.
 */
#include "../model.h"

static const infer__sublayer_kind INFER__SUBLAYER_KINDS[INFER__SUBLAYER_COUNT] = {
    {.name = NULL}, /* INFER__SUBLAYER_NONE */
    {.name = "attention",
     .in = "attn_in",
     .out = "attn_out",
     .result = "a",
     .slots = INFER__W_ATTN_QKV,
     .slots_end = INFER__W_ATTN_GATE + 1,
     .keys = infer__mix_attention_keys,
     .check = infer__mix_attention_check,
     .split = infer__mix_attention_split,
     .state = infer__mix_attention_state,
     .cols = infer__mix_attention_cols, .needs = infer__mix_attention_needs, .lacks = infer__mix_attention_lacks,
     .run = infer__mix_attention,
     .describe = infer__mix_attention_describe,
     .labels = INFER__MIX_ATTENTION_LABELS},
    {.name = "dense FFN",
     .in = "ffn_in",
     .out = "ffn_out",
     .result = "f",
     .slots = INFER__W_FFN_GATE,
     .slots_end = INFER__W_FFN_ACT_SCALES + 1,
     .check = infer__ffn_dense_check,
     .split = infer__ffn_dense_split,
     .cols = infer__ffn_dense_cols, .needs = infer__ffn_dense_needs,
     .run = infer__ffn_dense,
     .describe = infer__ffn_dense_describe,
     .labels = INFER__FFN_DENSE_LABELS},
    {.name = "experts",
     .in = "ffn_in",
     .out = "ffn_out",
     .result = "f",
     .slots = INFER__W_MOE_ROUTER,
     .slots_end = INFER__W_SHARED_SCORE + 1,
     .keys = infer__ffn_moe_keys,
     .check = infer__ffn_moe_check,
     .cols = infer__ffn_moe_cols, .needs = infer__ffn_moe_needs, .lacks = infer__ffn_moe_lacks,
     .run = infer__ffn_moe,
     .describe = infer__ffn_moe_describe,
     .labels = INFER__FFN_MOE_LABELS},
    { .name = "short convolution", .in = "conv_in", .out = "conv_out", .result = "a",
      .slots = INFER__W_SHORTCONV_IN, .slots_end = INFER__W_SHORTCONV_OUT + 1, .keys = infer__shortconv_keys,
      .check = infer__shortconv_check, .state = infer__shortconv_state, .cols = infer__shortconv_cols,
      .needs = infer__shortconv_needs, .lacks = infer__shortconv_lacks, .run = infer__mix_shortconv,
      .describe = infer__shortconv_describe, .labels = INFER__SHORTCONV_LABELS },
    {.name = "experts and dense FFN",
     .in = "ffn_in",
     .out = "ffn_out",
     .result = "f",
     .slots = INFER__W_FFN_GATE,
     .slots_end = INFER__W_SHARED_SCORE + 1,
     .keys = infer__ffn_moe_keys,
     .check = infer__ffn_moe_dense_check,
     .split = infer__ffn_dense_split,
     .cols = infer__ffn_moe_dense_cols, .needs = infer__ffn_moe_dense_needs, .lacks = infer__ffn_moe_lacks,
     .run = infer__ffn_moe_dense,
     .describe = infer__ffn_moe_dense_describe,
     .labels = INFER__FFN_DENSE_LABELS},
    {.name = "kept norm", .describe = infer__keep_describe},
    {.name = "router",
     .slots = INFER__W_MOE_ROUTER,
     .slots_end = INFER__W_MOE_ROUTER_B + 1,
     .run = infer__router_run,
     .describe = infer__router_describe},
};

static const infer__sublayer_kind *infer__sublayer_kind_of(int32_t kind) {
    return kind > INFER__SUBLAYER_NONE && kind < INFER__SUBLAYER_COUNT ? &INFER__SUBLAYER_KINDS[kind] : NULL;
}

static infer__part *infer__part_add(const infer_model *m, infer__layer *l, int32_t kind, int norm, int post) {
    infer__part *p = &l->parts[l->n_parts++];
    INFER__ASSERT(l->n_parts <= INFER__MAX_PARTS);
    memset(p, 0, sizeof *p);
    p->kind = infer__sublayer_kind_of(kind);
    p->norm = (int16_t)norm;
    p->post = (int16_t)(post >= 0 && infer__layer_has(m, l, post) ? post : -1);
    p->reads = INFER__READS_NORM;
    p->scale = m->hp.residual_scale;
    p->state[0] = p->state[1] = -1;
    if (!(m->arch->flags & INFER__NO_PRE_NORM)) return p;
    p->reads = INFER__READS_STREAM;
    p->norm = -1;
    return p;
}

static void infer__layer_parts(infer_model *m, infer__layer *l) {
    const infer__arch *a = m->arch;
    int32_t mixer = l->n_head > 0 && l->n_head_kv > 0 ? INFER__SUBLAYER_ATTENTION : a->mixer_else;
    int32_t ffn = infer__layer_has(m, l, INFER__W_MOE_ROUTER) ? INFER__SUBLAYER_MOE : INFER__SUBLAYER_DENSE;
    int has_norm = infer__layer_has(m, l, INFER__W_FFN_NORM);
    infer__part *p;
    infer__part_add(m, l, mixer, INFER__W_ATTN_NORM, INFER__W_ATTN_POST_NORM);
    p = infer__part_add(m, l, ffn, INFER__W_FFN_NORM, INFER__W_FFN_POST_NORM);
    p->beside = m->hp.block == INFER__BLOCK_PARALLEL || ((a->flags & INFER__PARALLEL_BY_NORM) && !has_norm);
    if (p->beside && p->reads == INFER__READS_NORM && !has_norm) p->reads = INFER__READS_SAME;
    if (a->parts) a->parts(m, l);
}
