/* kinds.c: INFER__SUBLAYER_KINDS: one row per kind of mixer and FFN; and the kinds that a layer has.
 *
 * Owns:  the list of sublayers of each layer (infer__layer.parts), resolved while a model opens.
 * Rules: a kind is a row here, a file in this folder, its weight slots in ../slots.h, and an op where it is hot. Other
 *        code does not depend on a part's kind, except where two kinds share something. To add one: see
 *        CONTRIBUTING.md.
 */
#include "../model.h"

#if INFER__HAS_GPU
#  define INFER__KIND_LACKS(f) f
#else
#  define INFER__KIND_LACKS(f) NULL
#endif
#if INFER__HAS_DESCRIBE
#  define INFER__KIND_DESCRIBES(x) x
#else
#  define INFER__KIND_DESCRIBES(x) NULL
#endif
#define INFER__KIND(kind, ...) \
    static const infer__sublayer_kind INFER__KIND_##kind = {.id = INFER__SUBLAYER_##kind, __VA_ARGS__};
/* Kinds with experts: without them opening says so. */
#if INFER__HAS_EXPERTS
#  define INFER__KIND_EXPERTS(kind, ...) INFER__KIND(kind, __VA_ARGS__)
#else
#  define INFER__KIND_EXPERTS(kind, ...) INFER__KIND(kind, .name = "experts", .keys = infer__experts_left_out)
static void infer__experts_left_out(infer__keys *k, infer__layer *l) {
    (void)l;
    if (!k->failed) infer__left_out(k->err, "experts", "INFER_NO_EXPERTS");
    k->failed = 1;
}
#endif
INFER__KIND(ATTENTION,
    .name = "attention", .in = "attn_in", .out = "attn_out", .result = "a", .slots = INFER__W_ATTN_QKV,
    .slots_end = INFER__W_SWITCH_OUT_B + 1, .more = INFER__W_INDEX_Q_B, .more_end = INFER__W_INDEX_WEIGHTS + 1,
    .keys = infer__mix_attention_keys, .check = infer__mix_attention_check, .split = infer__mix_attention_split,
    .state = infer__mix_attention_state, .cols = infer__mix_attention_cols, .needs = infer__mix_attention_needs,
    .lacks = INFER__KIND_LACKS(infer__mix_attention_lacks), .run = infer__mix_attention,
    .describe = INFER__KIND_DESCRIBES(infer__mix_attention_describe),
    .labels = INFER__KIND_DESCRIBES(INFER__MIX_ATTENTION_LABELS))
INFER__KIND(DENSE,
    .name = "dense FFN", .in = "ffn_in", .out = "ffn_out", .result = "f", .slots = INFER__W_FFN_GATE,
    .slots_end = INFER__W_SWITCH_DOWN_B + 1, .check = infer__ffn_dense_check, .split = infer__ffn_dense_split,
    .cols = infer__ffn_dense_cols, .needs = infer__ffn_dense_needs, .lacks = INFER__KIND_LACKS(infer__ffn_lacks),
    .run = infer__ffn_dense, .describe = INFER__KIND_DESCRIBES(infer__ffn_dense_describe),
    .labels = INFER__KIND_DESCRIBES(INFER__FFN_DENSE_LABELS))
INFER__KIND_EXPERTS(MOE,
    .name = "experts", .in = "ffn_in", .out = "ffn_out", .result = "f", .slots = INFER__W_MOE_ROUTER,
    .slots_end = INFER__W_SHARED_SCORE + 1, .keys = infer__ffn_moe_keys, .check = infer__ffn_moe_check,
    .split = infer__ffn_moe_split, .cols = infer__ffn_moe_cols, .needs = infer__ffn_moe_needs,
    .lacks = INFER__KIND_LACKS(infer__ffn_moe_lacks), .run = infer__ffn_moe,
    .describe = INFER__KIND_DESCRIBES(infer__ffn_moe_describe),
    .labels = INFER__KIND_DESCRIBES(INFER__FFN_MOE_LABELS))
INFER__KIND(SHORTCONV,
    .name = "short convolution", .in = "conv_in", .out = "conv_out", .result = "a",
    .slots = INFER__W_SHORTCONV_IN, .slots_end = INFER__W_SHORTCONV_OUT + 1, .keys = infer__shortconv_keys,
    .check = infer__shortconv_check, .state = infer__shortconv_state, .cols = infer__shortconv_cols,
    .needs = infer__shortconv_needs, .lacks = INFER__KIND_LACKS(infer__shortconv_lacks), .run = infer__mix_shortconv,
    .describe = INFER__KIND_DESCRIBES(infer__shortconv_describe),
    .labels = INFER__KIND_DESCRIBES(INFER__SHORTCONV_LABELS))
INFER__KIND_EXPERTS(MOE_DENSE,
    .name = "experts and dense FFN", .in = "ffn_in", .out = "ffn_out", .result = "f", .slots = INFER__W_FFN_GATE,
    .slots_end = INFER__W_SHARED_SCORE + 1, .keys = infer__ffn_moe_keys, .check = infer__ffn_moe_dense_check,
    .split = infer__ffn_dense_split, .cols = infer__ffn_moe_dense_cols, .needs = infer__ffn_moe_dense_needs,
    .lacks = INFER__KIND_LACKS(infer__ffn_moe_lacks), .run = infer__ffn_moe_dense,
    .describe = INFER__KIND_DESCRIBES(infer__ffn_moe_dense_describe),
    .labels = INFER__KIND_DESCRIBES(INFER__FFN_DENSE_LABELS))
INFER__KIND(KEEP,
    .name = "kept norm", .describe = INFER__KIND_DESCRIBES(infer__keep_describe))
INFER__KIND_EXPERTS(ROUTER,
    .name = "router",
    .slots = INFER__W_MOE_ROUTER,
    .slots_end = INFER__W_MOE_ROUTER_B + 1,
    .run = infer__router_run,
    .describe = INFER__KIND_DESCRIBES(infer__router_describe))
INFER__KIND(EMBED_SKIP,
    .name = "embeddings", .in = "skip_in", .out = "skip_out", .result = "e",
    .slots = INFER__W_EMBED_SKIP, .slots_end = INFER__W_EMBED_SKIP + 1, .check = infer__embed_skip_check,
    .split = infer__embed_skip_split, .run = infer__embed_skip,
    .describe = INFER__KIND_DESCRIBES(infer__embed_skip_describe))
#define INFER__MAMBA_KIND(kind, title, its_keys)                                                                    \
  INFER__KIND(kind, .name = title, .in = "ssm_in", .out = "ssm_out", .result = "s", .slots = INFER__W_SSM_IN,       \
              .slots_end = INFER__W_SSM_OUT + 1, .keys = its_keys, .check = infer__mamba_check,                     \
              .split = infer__mamba_split, .state = infer__mamba_state, .cols = infer__mamba_cols,                  \
              .needs = infer__mamba_needs, .lacks = INFER__KIND_LACKS(infer__mamba_lacks), .run = infer__mix_mamba, \
              .describe = INFER__KIND_DESCRIBES(infer__mamba_describe),                                             \
              .labels = INFER__KIND_DESCRIBES(INFER__MAMBA_LABELS))
INFER__MAMBA_KIND(MAMBA, "Mamba", infer__mamba_keys)
INFER__MAMBA_KIND(MAMBA_2, "Mamba 2", infer__mamba_2_keys)
INFER__MAMBA_KIND(MAMBA_HEADS, "Mamba with heads", infer__mamba_heads_keys)
#undef INFER__MAMBA_KIND
INFER__KIND(LATENT,
    .name = "latent attention", .in = "attn_in", .out = "attn_out", .result = "a",
    .slots = INFER__W_LATENT_Q, .slots_end = INFER__W_LATENT_OUT + 1,
    .more = INFER__W_INDEX_Q_B, .more_end = INFER__W_INDEX_WEIGHTS + 1, .keys = infer__latent_keys,
    .check = infer__latent_check, .split = infer__latent_split, .state = infer__latent_state,
    .cols = infer__latent_cols, .needs = infer__latent_needs, .lacks = INFER__KIND_LACKS(infer__latent_lacks),
    .run = infer__mix_latent, .describe = INFER__KIND_DESCRIBES(infer__latent_describe),
    .labels = INFER__KIND_DESCRIBES(INFER__LATENT_LABELS))
INFER__KIND(DELTA,
    .name = "gated delta net", .in = "delta_in", .out = "delta_out", .result = "d", .slots = INFER__W_DELTA_QKV,
    .slots_end = INFER__W_DELTA_NORM + 1, .keys = infer__delta_keys, .check = infer__delta_check,
    .split = infer__delta_split, .state = infer__delta_state, .cols = infer__delta_cols,
    .needs = infer__delta_needs, .lacks = INFER__KIND_LACKS(infer__delta_lacks), .run = infer__mix_delta,
    .describe = INFER__KIND_DESCRIBES(infer__delta_describe), .labels = INFER__KIND_DESCRIBES(INFER__DELTA_LABELS))
INFER__KIND(KDA,
    .name = "Kimi delta attention", .in = "delta_in", .out = "delta_out", .result = "d",
    .slots = INFER__W_DELTA_BETA, .slots_end = INFER__W_KDA_OUT + 1, .keys = infer__kda_keys,
    .check = infer__kda_check, .split = infer__kda_split, .state = infer__delta_state, .cols = infer__kda_cols,
    .needs = infer__delta_needs, .lacks = INFER__KIND_LACKS(infer__delta_lacks), .run = infer__mix_delta,
    .describe = INFER__KIND_DESCRIBES(infer__kda_describe), .labels = INFER__KIND_DESCRIBES(INFER__KDA_LABELS))
INFER__KIND(LIGHTNING,
    .name = "lightning attention", .in = "delta_in", .out = "delta_out", .result = "d",
    .slots = INFER__W_LIGHTNING_QKV, .slots_end = INFER__W_LIGHTNING_OUT + 1, .keys = infer__lightning_keys,
    .split = infer__lightning_split, .state = infer__lightning_state, .cols = infer__lightning_cols,
    .needs = infer__delta_needs, .lacks = INFER__KIND_LACKS(infer__delta_lacks), .run = infer__mix_lightning,
    .describe = INFER__KIND_DESCRIBES(infer__lightning_describe),
    .labels = INFER__KIND_DESCRIBES(INFER__LIGHTNING_LABELS))
INFER__KIND(RESTART,
    .name = "norm", .run = infer__restart_run, .describe = INFER__KIND_DESCRIBES(infer__restart_describe))
INFER__KIND(RES_ATTENTION,
    .name = "residual attention", .check = infer__res_check, .needs = infer__res_needs,
    .run = infer__res_run, .describe = INFER__KIND_DESCRIBES(infer__res_describe))
INFER__KIND(HYPER,
    .name = "hyper-connections", .slots = INFER__W_HYPER_ATTN, .slots_end = INFER__W_HYPER_FFN_SCALE + 1,
    .check = infer__hyper_check, .cols = infer__hyper_cols, .needs = infer__hyper_needs,
    .run = infer__hyper_run, .describe = INFER__KIND_DESCRIBES(infer__hyper_describe))
INFER__KIND(CYCLES,
    .name = "states of two stacks", .check = infer__cycles_check,
    .run = infer__cycles_run, .describe = INFER__KIND_DESCRIBES(infer__cycles_describe))
INFER__KIND(INPUTS,
    .name = "inputs of layers", .check = infer__inputs_check, .cols = infer__inputs_cols,
    .needs = infer__inputs_needs, .run = infer__inputs_run,
    .describe = INFER__KIND_DESCRIBES(infer__inputs_describe))
INFER__KIND(INPUT,
    .name = "input of the layer", .in = "input_in", .out = "input_out", .result = "e",
    .slots = INFER__W_INPUT_GATE, .slots_end = INFER__W_INPUT_PROJ + 1, .check = infer__input_check,
    .cols = infer__input_cols, .run = infer__input_run,
    .describe = INFER__KIND_DESCRIBES(infer__input_describe), .labels = INFER__KIND_DESCRIBES(INFER__INPUT_LABELS))
INFER__KIND(SCALE,
    .name = "scale", .run = infer__out_scale_run, .describe = INFER__KIND_DESCRIBES(infer__out_scale_describe))
INFER__KIND(OUT_SCALE,
    .name = "output scale", .slots = INFER__W_EMBED_SKIP, .slots_end = INFER__W_EMBED_SKIP + 1,
    .check = infer__embed_skip_check, .split = infer__out_scale_split, .run = infer__out_scale_run,
    .describe = INFER__KIND_DESCRIBES(infer__out_scale_describe))
INFER__KIND_EXPERTS(BESIDE,
    .name = "experts beside a dense FFN", .in = "ffn_in", .out = "ffn_out", .result = "f",
    .slots = INFER__W_FFN_GATE, .slots_end = INFER__W_DENSE_OUT_NORM + 1, .keys = infer__ffn_moe_keys,
    .check = infer__beside_check, .split = infer__ffn_dense_split, .cols = infer__ffn_moe_dense_cols,
    .needs = infer__ffn_moe_dense_needs, .lacks = INFER__KIND_LACKS(infer__ffn_moe_lacks), .run = infer__beside_run,
    .describe = INFER__KIND_DESCRIBES(infer__beside_describe),
    .labels = INFER__KIND_DESCRIBES(INFER__FFN_DENSE_LABELS))
INFER__KIND(STREAMS,
    .name = "streams", .check = infer__streams_check, .lacks = INFER__KIND_LACKS(infer__altup_lacks), .run = infer__streams_run,
    .describe = INFER__KIND_DESCRIBES(infer__streams_describe))
INFER__KIND(STREAMS_END,
    .name = "mean of streams", .cols = infer__streams_end_cols, .lacks = INFER__KIND_LACKS(infer__altup_lacks),
    .run = infer__streams_end_run, .describe = INFER__KIND_DESCRIBES(infer__streams_end_describe))
INFER__KIND(PREDICT,
    .name = "prediction", .slots = INFER__W_ALTUP_PREDICT, .slots_end = INFER__W_ALTUP_ROUTER_NORM + 1,
    .check = infer__predict_check, .cols = infer__predict_cols, .lacks = INFER__KIND_LACKS(infer__altup_lacks),
    .run = infer__predict_run, .describe = INFER__KIND_DESCRIBES(infer__predict_describe))
INFER__KIND(CORRECT,
    .name = "correction", .slots = INFER__W_ALTUP_ROUTER, .slots_end = INFER__W_INPUT_PROJ + 1,
    .check = infer__correct_check, .cols = infer__correct_cols, .lacks = INFER__KIND_LACKS(infer__altup_lacks),
    .run = infer__correct_run, .describe = INFER__KIND_DESCRIBES(infer__correct_describe),
    .labels = INFER__KIND_DESCRIBES(INFER__INPUT_LABELS))
INFER__KIND(LAUREL,
    .name = "low-rank residual", .in = "laurel_in", .out = "laurel_out", .result = "r",
    .slots = INFER__W_LAUREL_L, .slots_end = INFER__W_LAUREL_NORM + 1, .check = infer__laurel_check,
    .cols = infer__laurel_cols, .needs = infer__laurel_needs, .lacks = INFER__KIND_LACKS(infer__altup_lacks),
    .run = infer__laurel_run, .describe = INFER__KIND_DESCRIBES(infer__laurel_describe))
#define INFER__TIME_KIND(kind, title, first, last, its_run)                                                            \
  INFER__KIND(kind, .name = title, .in = "time_in", .out = "time_out", .result = "t", .slots = first,                  \
              .slots_end = last + 1, .keys = infer__time_keys, .check = infer__time_check, .split = infer__time_split, \
              .state = infer__time_state, .cols = infer__time_cols, .needs = infer__time_needs,                        \
              .lacks = INFER__KIND_LACKS(infer__rwkv_lacks), .run = its_run,                                           \
              .describe = INFER__KIND_DESCRIBES(infer__time_describe),                                                 \
              .labels = INFER__KIND_DESCRIBES(INFER__TIME_LABELS))
INFER__TIME_KIND(TIME_MIX_6, "time mix 6", INFER__W_TIME_KEY, INFER__W_TIME_DECAY_2, infer__time_6)
INFER__TIME_KIND(TIME_MIX_7, "time mix 7", INFER__W_TIME_W0, INFER__W_TIME_OUT, infer__time_7)
#undef INFER__TIME_KIND
INFER__KIND(CHANNEL_MIX,
    .name = "channel mix", .in = "ffn_in", .out = "ffn_out", .result = "f", .slots = INFER__W_CHANNEL_LERP_K,
    .slots_end = INFER__W_CHANNEL_VALUE + 1, .check = infer__channel_check, .state = infer__channel_state,
    .cols = infer__channel_cols, .needs = infer__ffn_dense_needs, .lacks = INFER__KIND_LACKS(infer__rwkv_lacks),
    .run = infer__channel_mix, .describe = INFER__KIND_DESCRIBES(infer__channel_describe),
    .labels = INFER__KIND_DESCRIBES(INFER__CHANNEL_LABELS))
INFER__KIND(COMPRESSED,
    .name = "compressed attention", .in = "attn_in", .out = "attn_out", .result = "a",
    .slots = INFER__W_COMPRESSED_Q_A, .slots_end = INFER__W_COMPRESS_INDEX_NORM + 1,
    .more = INFER__W_INDEX_Q_B, .more_end = INFER__W_INDEX_WEIGHTS + 1, .keys = infer__compressed_keys,
    .check = infer__compressed_check, .state = infer__compressed_state, .cols = infer__compressed_cols,
    .needs = infer__compressed_needs, .lacks = INFER__KIND_LACKS(infer__compressed_lacks), .run = infer__mix_compressed,
    .describe = INFER__KIND_DESCRIBES(infer__compressed_describe),
    .labels = INFER__KIND_DESCRIBES(INFER__COMPRESSED_LABELS))
INFER__KIND(HYPER_LOW,
    .name = "low-rank hyper-connections", .slots = INFER__W_HYPER_LOW_ATTN, .slots_end = INFER__W_HYPER_FFN_INJECT + 1,
    .check = infer__hyper_low_check, .cols = infer__hyper_low_cols, .needs = infer__hyper_low_needs,
    .run = infer__hyper_low_run, .describe = INFER__KIND_DESCRIBES(infer__hyper_low_describe))
INFER__KIND(SHARES,
    .name = "shares of streams", .run = infer__shares_run,
    .describe = INFER__KIND_DESCRIBES(infer__shares_describe))
INFER__KIND(NGRAMS,
    .name = "n-grams", .slots = INFER__W_NGRAM_KEY, .slots_end = INFER__W_NGRAM_TAPS + 1,
    .check = infer__ngrams_check, .state = infer__ngrams_state, .cols = infer__ngrams_cols,
    .needs = infer__ngrams_needs, .lacks = INFER__KIND_LACKS(infer__ngrams_lacks), .run = infer__ngrams_run,
    .describe = INFER__KIND_DESCRIBES(infer__ngrams_describe), .labels = INFER__KIND_DESCRIBES(INFER__NGRAM_LABELS))
INFER__KIND(CROSS,
    .name = "cross attention", .in = "cross_in", .out = "cross_out", .result = "c", .slots = INFER__W_CROSS_Q,
    .slots_end = INFER__W_CROSS_OUT + 1, .state = infer__cross_state, .cols = infer__cross_cols,
    .needs = infer__cross_needs, .lacks = INFER__KIND_LACKS(infer__cross_lacks), .run = infer__mix_cross,
    .describe = INFER__KIND_DESCRIBES(infer__cross_describe), .labels = INFER__KIND_DESCRIBES(INFER__CROSS_LABELS))
INFER__KIND(KEEP_STREAM,
    .name = "kept stream", .run = infer__keep_stream_run,
    .describe = INFER__KIND_DESCRIBES(infer__keep_stream_describe))
INFER__KIND(STREAM_AGAIN,
    .name = "kept stream again", .run = infer__stream_again_run,
    .describe = INFER__KIND_DESCRIBES(infer__stream_again_describe))
INFER__KIND(NEXTN,
    .name = "further token", .slots = INFER__W_NEXTN_PROJ, .slots_end = INFER__W_NEXTN_HEAD + 1,
    .check = infer__nextn_check, .cols = infer__nextn_cols, .needs = infer__nextn_needs, .run = infer__nextn_run,
    .describe = INFER__KIND_DESCRIBES(infer__nextn_describe))
#define INFER__STEPS_KIND(kind, title, first, last, which, more)                                                       \
  INFER__KIND(kind, .name = title, .slots = first, .slots_end = last, .check = infer__steps_check_##which,             \
              .split = infer__steps_split_##which, .cols = infer__steps_cols_##which, .state = more,                   \
              .needs = infer__steps_needs_##which, .lacks = INFER__KIND_LACKS(infer__steps_lacks),                     \
              .run = infer__steps_run_##which,                                                                         \
              .describe = INFER__KIND_DESCRIBES(infer__steps_describe_##which))
INFER__STEPS_KIND(STACK_IN, "patches", INFER__W_STACK_IN_M0, INFER__W_STACK_BESIDE_M0, in, NULL)
INFER__STEPS_KIND(STACK_BESIDE, "kept beside", INFER__W_STACK_BESIDE_M0, INFER__W_STACK_HEAD_M0, beside, NULL)
INFER__STEPS_KIND(STACK_HEAD, "projector", INFER__W_STACK_HEAD_M0, INFER__W_STACK_END, head, infer__steps_state_head)
#undef INFER__STEPS_KIND
#define INFER__MOBILE_KIND(kind, title, first, last, which)                                                            \
  INFER__KIND(kind, .name = title, .slots = first, .slots_end = last + 1, .more = INFER__W_LAYER_SCALE,                \
              .more_end = INFER__W_LAYER_SCALE + (first != INFER__W_EDGE_EXP), .check = infer__block_##which##_check,  \
              .split = infer__block_split, .needs = infer__block_needs,                                              \
              .lacks = INFER__KIND_LACKS(infer__steps_lacks), .run = infer__block_##which##_run,                     \
              .describe = INFER__KIND_DESCRIBES(infer__block_describe))
INFER__MOBILE_KIND(MOBILE_EDGE, "convolutions", INFER__W_EDGE_EXP, INFER__W_EDGE_PROJ_NORM, convs)
INFER__MOBILE_KIND(MOBILE_INVERTED, "inverted convolutions", INFER__W_DW_START, INFER__W_PW_PROJ_NORM, convs)
INFER__MOBILE_KIND(MOBILE_QUERIES, "attention to positions", INFER__W_QUERIES, INFER__W_QUERIES_OUT, queries)
#undef INFER__MOBILE_KIND
#undef INFER__KIND
#undef INFER__KIND_EXPERTS
#undef INFER__KIND_LACKS
#undef INFER__KIND_DESCRIBES

static infer__part *infer__part_add(const infer_model *m, infer__layer *l, const infer__sublayer_kind *kind, int norm,
                                    int post) {
    infer__part *p = &l->parts[l->n_parts++];
    INFER__ASSERT(l->n_parts <= INFER__MAX_PARTS);
    memset(p, 0, sizeof *p);
    p->kind = kind;
    p->norm = (int16_t)norm;
    p->after = p->times = -1;
    p->post = (int16_t)(post >= 0 && infer__layer_has(m, l, post) ? post : -1);
    p->reads = INFER__READS_NORM;
    p->scale = m->hp.residual_scale;
    p->state[0] = p->state[1] = p->state[2] = p->state[3] = -1;
    if (!(infer__arch_of(m)->flags & INFER__NO_PRE_NORM)) return p;
    p->reads = INFER__READS_STREAM;
    p->norm = -1;
    return p;
}

static void infer__layer_parts(infer_model *m, infer__layer *l) {
    const infer__arch *a = infer__arch_of(m);
    const infer__sublayer_kind *mixer = l->n_head > 0 && l->n_head_kv > 0 ? &INFER__KIND_ATTENTION : a->mixer_else;
    const infer__sublayer_kind *ffn =
        infer__layer_has(m, l, INFER__W_MOE_ROUTER) ? &INFER__KIND_MOE : &INFER__KIND_DENSE;
    int has_norm = infer__layer_has(m, l, INFER__W_FFN_NORM);
    infer__part *p;
    infer__part_add(m, l, mixer, INFER__W_ATTN_NORM, INFER__W_ATTN_POST_NORM);
    p = infer__part_add(m, l, ffn, INFER__W_FFN_NORM, INFER__W_FFN_POST_NORM);
    p->beside = m->hp.block == INFER__BLOCK_PARALLEL || ((a->flags & INFER__PARALLEL_BY_NORM) && !has_norm);
    if (p->beside && p->reads == INFER__READS_NORM && !has_norm) p->reads = INFER__READS_SAME;
    if (a->parts) a->parts(m, l);
}
