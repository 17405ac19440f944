/* slots.h: weight slots of layers: which tensor of the file goes where, and its shape.
 *
 * Owns:  one list per kind of sublayer (those of a kind follow each other: infer__sublayer_kind has the first and the
 *        last), one of the norms around them, and the symbolic dimensions of shapes, which infer__dim (weights.c) makes
 *        numbers.
 * Rules: a tensor is bound in layers that have the kind it belongs to, and refused in others. A weight's bias is the
 *        next slot, except for those of experts. To add a kind: its list here, in INFER__LAYER_SLOTS, and a row in
 *        kinds.c.
 */
#ifndef INFER__SLOTS_H
#define INFER__SLOTS_H

enum {
    INFER__D_ONE, INFER__D_MODEL,
    INFER__D_QUERY, /* with q_gated that of the gates too */
    INFER__D_KEY, INFER__D_VALUE, INFER__D_ATT, INFER__D_QKV, INFER__D_FF, INFER__D_HEADS, INFER__D_HEADS_Q,
    INFER__D_HEADS_K, /* one set per head or shared: see infer__head_groups */
    INFER__D_VOCAB, INFER__D_ANY, INFER__D_EXPERTS,
    INFER__D_BUCKETS, /* of distances */
    INFER__D_USED, /* experts of a token */
    INFER__D_FF_EXPERT, INFER__D_FF_EXPERTS,
    INFER__D_FF_EXPERTS_TWO, /* gate and up of each */
    INFER__D_MODEL_EXPERTS, /* of each: width of its result, the model's or the latent one */
    INFER__D_EXPERT_IN, INFER__D_FF_SHARED,
    INFER__D_FF_GROUP, /* of the expert that a group shares */
    INFER__D_FF_GROUPS, INFER__D_MODEL_GROUPS, INFER__D_MODEL_2, INFER__D_MODEL_3, INFER__D_TAPS, INFER__D_SSM_INNER,
    INFER__D_SSM_PROJ, /* what ssm_in gives */
    INFER__D_SSM_CONV, /* of it, the convolution's input */
    INFER__D_SSM_X, INFER__D_SSM_RANK, INFER__D_SSM_HEADS, INFER__D_SSM_STATE, INFER__D_SSM_DIM,
    INFER__D_SSM_HEADS_TWO, INFER__D_SSM_A,
    INFER__D_SSM_DECAYS, /* of a row: of heads, or of each of their keys */
    INFER__D_LATENT, /* these: latent attention. Its rank */
    INFER__D_LATENT_CACHE, INFER__D_LATENT_ROT, INFER__D_LATENT_Q_RANK, INFER__D_LATENT_QUERY,
    INFER__D_LATENT_KEYS, /* rank of each head */
    INFER__D_LATENT_NOPE, /* of a head's key, not rotated */
    INFER__D_LATENT_VALUES,
    INFER__D_OUT_RANKS, /* these: compressed attention. Of all groups of the output */
    INFER__D_OUT_GROUP, INFER__D_EVERY,
    INFER__D_COMPRESS,       /* values of an entry, twice where they overlap */
    INFER__D_COMPRESS_INDEX, /* of an indexer's */
    INFER__D_LATENT_BOTH, /* of each head: the key's values that are not rotated, and the values */
    INFER__D_ONE_ROW, /* of a matrix */
    INFER__D_INDEX_QUERY, /* these: an indexer */
    INFER__D_INDEX_KEY, INFER__D_INDEX_HEADS, INFER__D_PER_LAYER,
    INFER__D_PER_LAYERS, /* of all layers */
    INFER__D_STREAMS, INFER__D_STREAMS_2,
    INFER__D_MODEL_STREAMS, /* of all but the first */
    INFER__D_HYPER, /* these: hyper-connections. Streams */
    INFER__D_HYPER_COEFS, /* of a sublayer, */
    INFER__D_HYPER_SCALES, /* and their scales */
    INFER__D_MODEL_HYPER, INFER__D_HYPER_RANK, INFER__D_NGRAMS, /* of n-grams: values, taps */ INFER__D_NGRAM_TAPS,
    INFER__D_INPUT_ROWS, /* of the table of inputs of layers, or of n-grams */
    INFER__D_SWITCH_RANK, /* these: adapters by token. One, then those of all */
    INFER__D_SWITCH_RANKS, INFER__D_SWITCH_QUERY, INFER__D_SWITCH_KEY, INFER__D_SWITCH_VALUE, INFER__D_SWITCH_MODEL,
    INFER__D_SWITCH_FF,
    INFER__D_MODEL_5,        /* from here on: RWKV */
    INFER__D_WKV_KEYS,
    INFER__D_RANK_W, INFER__D_RANK_A, INFER__D_RANK_V, INFER__D_RANK_G, INFER__D_RANK_X, /* as infer__wkv.rank */
    INFER__D_RANK_X_5,
    INFER__D_KERNEL /* any; of a convolution, those of all dimensions but the last */
};

/* W(slot, tensor name, rows, columns, required): %d is the layer. A vector has one row. */

/* Before and after sublayers: infer__part says which of them a layer reads. */
#define INFER__NORM_SLOTS(W) \
    W(ATTN_NORM,      "blk.%d.attn_norm.weight",           ONE,           MODEL,     0) \
    W(ATTN_NORM_B,    "blk.%d.attn_norm.bias",             ONE,           MODEL,     0) \
    W(ATTN_POST_NORM, "blk.%d.post_attention_norm.weight", ONE,           MODEL,     0) \
    W(FFN_NORM,       "blk.%d.ffn_norm.weight",            ONE,           MODEL,     0) \
    W(FFN_NORM_B,     "blk.%d.ffn_norm.bias",              ONE,           MODEL,     0) \
    W(FFN_POST_NORM,  "blk.%d.post_ffw_norm.weight",       ONE,           MODEL,     0) \
    W(ATTN_OUT_NORM,  "blk.%d.attn_output_norm.weight",    ONE,           MODEL,     0) /* before the FFN, or after */ \
    W(ATTN_OUT_NORM_B, "blk.%d.attn_output_norm.bias",     ONE,           MODEL,     0) /* attention: the row says it */ \
    W(ATTN_RES_SCORE, "blk.%d.attn_res_score.weight",      ONE,           MODEL,     0) /* residual_attention.c */ \
    W(FFN_RES_SCORE,  "blk.%d.ffn_res_score.weight",       ONE,           MODEL,     0) \
    W(EXPERTS_NORM,   "blk.%d.ffn_norm_exps.weight",       ONE,           MODEL,     0) /* of experts beside attention */ \
    W(EXPERTS_NORM_B, "blk.%d.ffn_norm_exps.bias",         ONE,           MODEL,     0) \
    W(LAYER_OUT_NORM, "blk.%d.layer_output_norm.weight",   ONE,           MODEL,     0) /* after the FFN */ \
    W(LAYER_OUT_NORM_B, "blk.%d.layer_output_norm.bias",   ONE,           MODEL,     0) \
    W(CROSS_NORM,     "blk.%d.cross_attn_norm.weight",     ONE,           MODEL,     0) \
    W(ENCODED_NORM,   "enc.output_norm.weight",            ONE,           MODEL,     0) /* of the encoder's last layer */ \
    W(ATTN_TIMES,     "blk.%d.ls1.weight",                ONE,           MODEL,     0) /* of stacks: factors of attention's */ \
    W(FFN_TIMES,      "blk.%d.ls2.weight",                ONE,           MODEL,     0) /* results, and of the FFN's */ \
    W(INPUT_POST_NORM, "blk.%d.post_norm.weight",          ONE,           MODEL,     0) /* of the layer's input */

#define INFER__ATTENTION_SLOTS(W) \
    W(ATTN_QKV,       "blk.%d.attn_qkv.weight",            QKV,           MODEL,     0) /* sliced into Q, K, V */ \
    W(ATTN_QKV_B,     "blk.%d.attn_qkv.bias",              ONE,           QKV,       0) \
    W(ATTN_Q,         "blk.%d.attn_q.weight",              QUERY,         MODEL,     0) \
    W(ATTN_Q_B,       "blk.%d.attn_q.bias",                ONE,           QUERY,     0) \
    W(ATTN_K,         "blk.%d.attn_k.weight",              KEY,           MODEL,     0) \
    W(ATTN_K_B,       "blk.%d.attn_k.bias",                ONE,           KEY,       0) \
    W(ATTN_V,         "blk.%d.attn_v.weight",              VALUE,         MODEL,     0) \
    W(ATTN_V_B,       "blk.%d.attn_v.bias",                ONE,           VALUE,     0) \
    W(ATTN_Q_NORM,    "blk.%d.attn_q_norm.weight",         ONE,           HEADS_Q,   0) /* present = QK-norm */ \
    W(ATTN_Q_NORM_B,  "blk.%d.attn_q_norm.bias",           ONE,           HEADS_Q,   0) \
    W(ATTN_K_NORM,    "blk.%d.attn_k_norm.weight",         ONE,           HEADS_K,   0) \
    W(ATTN_K_NORM_B,  "blk.%d.attn_k_norm.bias",           ONE,           HEADS_K,   0) \
    W(ATTN_SINKS,     "blk.%d.attn_sinks.weight",          ONE,           HEADS,     0) /* a score without a value */ \
    W(ATTN_NEAR,      "blk.%d.attn_rel_b.weight",          BUCKETS,       HEADS,     0) /* becomes HEADS x distances */ \
    W(ATTN_OUT,       "blk.%d.attn_output.weight",         MODEL,         ATT,       1) \
    W(ATTN_OUT_B,     "blk.%d.attn_output.bias",           ONE,           MODEL,     0) \
    W(ATTN_GATE,      "blk.%d.attn_gate.weight",           ANY,           MODEL,     0) /* of heads or of each value */ \
    W(ATTN_SUB_NORM,  "blk.%d.attn_sub_norm.weight",       ONE,           ATT,       0) /* before the output's matrix */ \
    W(Q_SCALE,        "blk.%d.attn_q.scale",               ONE,           ONE,       0) /* of a matrix: attn_scales */ \
    W(K_SCALE,        "blk.%d.attn_k.scale",               ONE,           ONE,       0) \
    W(V_SCALE,        "blk.%d.attn_v.scale",               ONE,           ONE,       0) \
    W(OUT_SCALE,      "blk.%d.attn_output.scale",          ONE,           ONE,       0) \
    W(SWITCH_Q_A,     "blk.%d.attn_q.lora_a",              SWITCH_RANKS,  MODEL,     1) /* of adapters: switched.c */ \
    W(SWITCH_Q_B,     "blk.%d.attn_q.lora_b",              SWITCH_QUERY,  SWITCH_RANK, 1) \
    W(SWITCH_K_A,     "blk.%d.attn_k.lora_a",              SWITCH_RANKS,  MODEL,     1) \
    W(SWITCH_K_B,     "blk.%d.attn_k.lora_b",              SWITCH_KEY,    SWITCH_RANK, 1) \
    W(SWITCH_V_A,     "blk.%d.attn_v.lora_a",              SWITCH_RANKS,  MODEL,     1) \
    W(SWITCH_V_B,     "blk.%d.attn_v.lora_b",              SWITCH_VALUE,  SWITCH_RANK, 1) \
    W(SWITCH_OUT_A,   "blk.%d.attn_output.lora_a",         SWITCH_RANKS,  ATT,       1) \
    W(SWITCH_OUT_B,   "blk.%d.attn_output.lora_b",         SWITCH_MODEL,  SWITCH_RANK, 1)

#define INFER__DENSE_SLOTS(W) \
    W(FFN_GATE,       "blk.%d.ffn_gate.weight",            FF,            MODEL,     0) \
    W(FFN_GATE_B,     "blk.%d.ffn_gate.bias",              ONE,           FF,        0) \
    W(FFN_UP,         "blk.%d.ffn_up.weight",              ANY,           MODEL,     0) /* 2 FF rows = gate, up */ \
    W(FFN_UP_B,       "blk.%d.ffn_up.bias",                ONE,           ANY,       0) \
    W(FFN_DOWN,       "blk.%d.ffn_down.weight",            MODEL,         FF,        0) \
    W(FFN_DOWN_B,     "blk.%d.ffn_down.bias",              ONE,           MODEL,     0) \
    W(FFN_ACT_SCALES, "blk.%d.ffn.act.scales",             ONE,           FF,        0) \
    W(FFN_SUB_NORM,   "blk.%d.ffn_sub_norm.weight",        ONE,           FF,        0) /* before down */ \
    W(GATE_SCALE,     "blk.%d.ffn_gate.scale",             ONE,           ONE,       0) /* of a matrix: ffn_scales */ \
    W(UP_SCALE,       "blk.%d.ffn_up.scale",               ONE,           ONE,       0) \
    W(DOWN_SCALE,     "blk.%d.ffn_down.scale",             ONE,           ONE,       0) \
    W(SWITCH_GATE_A,  "blk.%d.ffn_gate.lora_a",            SWITCH_RANKS,  MODEL,     1) \
    W(SWITCH_GATE_B,  "blk.%d.ffn_gate.lora_b",            SWITCH_FF,     SWITCH_RANK, 1) \
    W(SWITCH_UP_A,    "blk.%d.ffn_up.lora_a",              SWITCH_RANKS,  MODEL,     1) \
    W(SWITCH_UP_B,    "blk.%d.ffn_up.lora_b",              SWITCH_FF,     SWITCH_RANK, 1) \
    W(SWITCH_DOWN_A,  "blk.%d.ffn_down.lora_a",            SWITCH_RANKS,  FF,        1) \
    W(SWITCH_DOWN_B,  "blk.%d.ffn_down.lora_b",            SWITCH_MODEL,  SWITCH_RANK, 1)

#define INFER__MOE_SLOTS(W) \
    W(MOE_ROUTER,     "blk.%d.ffn_gate_inp.weight",        EXPERTS,       MODEL,     0) /* present = experts */ \
    W(MOE_ROUTER_B,   "blk.%d.ffn_gate_inp.bias",          ONE,           EXPERTS,   0) \
    W(MOE_CHOICE_B,   "blk.%d.exp_probs_b.bias",           ONE,           EXPERTS,   0) /* of the choice alone */ \
    W(MOE_TABLE,      "blk.%d.ffn_gate_tid2eid.weight",    VOCAB,         USED,      0) /* the choice of each id */ \
    W(MOE_GATE,       "blk.%d.ffn_gate_exps.weight",       FF_EXPERTS,    EXPERT_IN, 0) \
    W(MOE_UP,         "blk.%d.ffn_up_exps.weight",         FF_EXPERTS,    EXPERT_IN, 0) \
    W(MOE_GATE_UP,    "blk.%d.ffn_gate_up_exps.weight",    FF_EXPERTS_TWO, EXPERT_IN, 0) /* in place of both */ \
    W(MOE_DOWN,       "blk.%d.ffn_down_exps.weight",       MODEL_EXPERTS, FF_EXPERT, 0) \
    W(MOE_GATE_B,     "blk.%d.ffn_gate_exps.bias",         ONE,           FF_EXPERTS, 0) \
    W(MOE_UP_B,       "blk.%d.ffn_up_exps.bias",           ONE,           FF_EXPERTS, 0) \
    W(MOE_GATE_UP_B,  "blk.%d.ffn_gate_up_exps.bias",      ONE,           FF_EXPERTS_TWO, 0) \
    W(MOE_DOWN_B,     "blk.%d.ffn_down_exps.bias",         ONE,           MODEL_EXPERTS, 0) \
    W(MOE_LATENT_IN,  "blk.%d.ffn_routed_down.weight",     EXPERT_IN,     MODEL,     0) /* with expert_latent_length */ \
    W(MOE_LATENT_NORM, "blk.%d.ffn_routed_norm.weight",    ONE,           EXPERT_IN, 0) \
    W(MOE_LATENT_OUT, "blk.%d.ffn_routed_up.weight",       MODEL,         EXPERT_IN, 0) \
    W(GROUP_GATE,     "blk.%d.ffn_gate_chexps.weight",     FF_GROUPS,     MODEL,     0) /* of groups of experts (GroveMoE) */ \
    W(GROUP_UP,       "blk.%d.ffn_up_chexps.weight",       FF_GROUPS,     MODEL,     0) \
    W(GROUP_DOWN,     "blk.%d.ffn_down_chexps.weight",     MODEL_GROUPS,  FF_GROUP,  0) \
    W(SHARED_GATE,    "blk.%d.ffn_gate_shexp.weight",      FF_SHARED,     MODEL,     0) \
    W(SHARED_UP,      "blk.%d.ffn_up_shexp.weight",        ANY,           MODEL,     0) /* as FFN_UP */ \
    W(SHARED_DOWN,    "blk.%d.ffn_down_shexp.weight",      MODEL,         FF_SHARED, 0) \
    W(SHARED_SCORE,   "blk.%d.ffn_gate_inp_shexp.weight",  ONE_ROW,       MODEL,     0) /* its sigmoid scales it */

/* After those of dense FFNs and experts: one kind reads all three. */
#define INFER__BESIDE_SLOTS(W) \
    W(ROUTER_SCALE,   "blk.%d.ffn_gate_inp.scale",         ONE,           MODEL,     0) /* weights of its norm */ \
    W(EXPERTS_SCALE,  "blk.%d.ffn_down_exps.scale",        ONE,           EXPERTS,   0) \
    W(EXPERTS_IN_NORM, "blk.%d.pre_ffw_norm_2.weight",     ONE,           MODEL,     0) \
    W(EXPERTS_OUT_NORM, "blk.%d.post_ffw_norm_2.weight",   ONE,           MODEL,     0) \
    W(DENSE_OUT_NORM, "blk.%d.post_ffw_norm_1.weight",     ONE,           MODEL,     0)

/* Prediction has the first three, correction all but the first. */
#define INFER__ALTUP_SLOTS(W) \
    W(ALTUP_PREDICT,  "blk.%d.altup_predict_coef.weight",  STREAMS_2,     STREAMS,   0) \
    W(ALTUP_ROUTER,   "blk.%d.altup_router.weight",        STREAMS,       MODEL,     0) \
    W(ALTUP_ROUTER_NORM, "blk.%d.altup_router_norm.weight", ONE,          MODEL,     0) \
    W(ALTUP_CORRECT,  "blk.%d.altup_correct_coef.weight",  STREAMS,       STREAMS,   0) \
    W(ALTUP_CORRECT_SCALE, "blk.%d.altup_correct_scale.weight", ONE,      MODEL,     0) \
    W(INPUT_GATE,     "blk.%d.inp_gate.weight",            PER_LAYER,     MODEL,     0) /* of the layer's input */ \
    W(INPUT_PROJ,     "blk.%d.proj.weight",                MODEL,         PER_LAYER, 0)

/* Before attention and before the FFN: the matrix, the addend of its results, and their scales. */
#define INFER__HYPER_SLOTS(W) \
    W(HYPER_ATTN,     "blk.%d.hc_attn_fn.weight",          HYPER_COEFS,   MODEL_HYPER, 1) \
    W(HYPER_ATTN_BASE, "blk.%d.hc_attn_base.weight",       ONE,           HYPER_COEFS, 1) \
    W(HYPER_ATTN_SCALE, "blk.%d.hc_attn_scale.weight",     ONE,           HYPER_SCALES, 1) \
    W(HYPER_FFN,      "blk.%d.hc_ffn_fn.weight",           HYPER_COEFS,   MODEL_HYPER, 1) \
    W(HYPER_FFN_BASE, "blk.%d.hc_ffn_base.weight",         ONE,           HYPER_COEFS, 1) \
    W(HYPER_FFN_SCALE, "blk.%d.hc_ffn_scale.weight",       ONE,           HYPER_SCALES, 1)

/* Before attention and before the FFN, of a low rank; n-grams. */
#define INFER__HYPER_LOW_SLOTS(W) \
    W(HYPER_LOW_ATTN, "blk.%d.hc_attn_norm.weight",        ONE,           MODEL_HYPER, 1) \
    W(HYPER_ATTN_DOWN, "blk.%d.hc_attn_down.weight",       HYPER_RANK,    MODEL_HYPER, 1) \
    W(HYPER_ATTN_UP,  "blk.%d.hc_attn_up.weight",          MODEL_HYPER,   HYPER_RANK, 1) \
    W(HYPER_ATTN_INJECT, "blk.%d.hc_attn_inject.weight",   HYPER,         MODEL_HYPER, 1) \
    W(HYPER_LOW_FFN,  "blk.%d.hc_ffn_norm.weight",         ONE,           MODEL_HYPER, 1) \
    W(HYPER_FFN_DOWN, "blk.%d.hc_ffn_down.weight",         HYPER_RANK,    MODEL_HYPER, 1) \
    W(HYPER_FFN_UP,   "blk.%d.hc_ffn_up.weight",           MODEL_HYPER,   HYPER_RANK, 1) \
    W(HYPER_FFN_INJECT, "blk.%d.hc_ffn_inject.weight",     HYPER,         MODEL_HYPER, 1) \
    W(NGRAM_KEY,      "blk.%d.ple_key.weight",             MODEL_HYPER,   NGRAMS,    1) \
    W(NGRAM_VALUE,    "blk.%d.ple_value.weight",           MODEL,         NGRAMS,    1) \
    W(NGRAM_KEY_NORM, "blk.%d.ple_norm_key.weight",        ONE,           MODEL_HYPER, 1) \
    W(NGRAM_QUERY_NORM, "blk.%d.ple_norm_query.weight",    ONE,           MODEL_HYPER, 1) \
    W(NGRAM_CONV_NORM, "blk.%d.ple_norm_conv.weight",      ONE,           MODEL_HYPER, 1) \
    W(NGRAM_TAPS,     "blk.%d.ple_conv1d.weight",          MODEL_HYPER,   NGRAM_TAPS, 1)

#define INFER__LAUREL_SLOTS(W) \
    W(LAUREL_L,       "blk.%d.laurel_l.weight",            ANY,           MODEL,     0) \
    W(LAUREL_R,       "blk.%d.laurel_r.weight",            MODEL,         ANY,       0) \
    W(LAUREL_NORM,    "blk.%d.laurel_post_norm.weight",    ONE,           MODEL,     0)

#define INFER__SHORTCONV_SLOTS(W) \
    W(SHORTCONV_IN,   "blk.%d.shortconv.in_proj.weight",   MODEL_3,       MODEL,     0) \
    W(SHORTCONV_TAPS, "blk.%d.shortconv.conv.weight",      MODEL,         TAPS,      0) \
    W(SHORTCONV_OUT,  "blk.%d.shortconv.out_proj.weight",  MODEL,         MODEL,     0)

#define INFER__SSM_SLOTS(W) \
    W(SSM_IN,         "blk.%d.ssm_in.weight",              SSM_PROJ,      MODEL,     0) \
    W(SSM_TAPS,       "blk.%d.ssm_conv1d.weight",          SSM_CONV,      TAPS,      0) \
    W(SSM_TAPS_B,     "blk.%d.ssm_conv1d.bias",            ONE,           SSM_CONV,  0) \
    W(SSM_X,          "blk.%d.ssm_x.weight",               SSM_X,         SSM_INNER, 0) /* Mamba 1: dt, B, C of it */ \
    W(SSM_DT,         "blk.%d.ssm_dt.weight",              SSM_HEADS,     SSM_RANK,  0) \
    W(SSM_DT_B,       "blk.%d.ssm_dt.bias",                ONE,           SSM_HEADS, 0) \
    W(SSM_A,          "blk.%d.ssm_a",                      ONE,           SSM_A,     0) \
    W(SSM_D,          "blk.%d.ssm_d",                      ONE,           SSM_HEADS, 0) \
    W(SSM_DT_NORM,    "blk.%d.ssm_dt_norm.weight",         ONE,           SSM_RANK,  0) \
    W(SSM_B_NORM,     "blk.%d.ssm_b_norm.weight",          ONE,           SSM_STATE, 0) \
    W(SSM_C_NORM,     "blk.%d.ssm_c_norm.weight",          ONE,           SSM_STATE, 0) \
    W(SSM_NORM,       "blk.%d.ssm_norm.weight",            ONE,           SSM_INNER, 0) /* of groups */ \
    W(SSM_OUT,        "blk.%d.ssm_out.weight",             MODEL,         SSM_INNER, 0)

#define INFER__LATENT_SLOTS(W) \
    W(LATENT_Q,       "blk.%d.attn_q.weight",              LATENT_QUERY,  MODEL,     0) /* or these three */ \
    W(LATENT_Q_A,     "blk.%d.attn_q_a.weight",            LATENT_Q_RANK, MODEL,     0) \
    W(LATENT_Q_A_NORM, "blk.%d.attn_q_a_norm.weight",      ONE,    LATENT_Q_RANK,    0) \
    W(LATENT_Q_B,     "blk.%d.attn_q_b.weight",            LATENT_QUERY, LATENT_Q_RANK, 0) \
    W(LATENT_KV_A,    "blk.%d.attn_kv_a_mqa.weight",       LATENT_CACHE,  MODEL,     0) \
    W(LATENT_KV_A_NORM, "blk.%d.attn_kv_a_norm.weight",    ONE,           LATENT,    0) \
    W(LATENT_KV_B,    "blk.%d.attn_kv_b.weight",           LATENT_BOTH,   LATENT,    0) /* or these two */ \
    W(LATENT_K_B,     "blk.%d.attn_k_b.weight",            LATENT_KEYS,   LATENT_NOPE, 0) \
    W(LATENT_V_B,     "blk.%d.attn_v_b.weight",            LATENT_VALUES, LATENT,    0) \
    W(LATENT_K_NORM,  "blk.%d.attn_k_norm.weight",         ONE,           LATENT_ROT, 0) /* of what is rotated */ \
    W(LATENT_SINKS,   "blk.%d.attn_sinks.weight",          ONE,           HEADS,     0) \
    W(LATENT_GATE,    "blk.%d.attn_gate.weight",           ANY,           MODEL,     0) \
    W(LATENT_OUT,     "blk.%d.attn_output.weight",         MODEL,         LATENT_VALUES, 1)

/* Compressed attention: queries, the key that is also the value, the output; the parts of entries, and those of the
 * indexer, in the same order. */
#define INFER__COMPRESSED_SLOTS(W) \
    W(COMPRESSED_Q_A, "blk.%d.attn_q_a.weight",            LATENT_Q_RANK, MODEL,     1) \
    W(COMPRESSED_Q_A_NORM, "blk.%d.attn_q_a_norm.weight",  ONE,    LATENT_Q_RANK,    1) \
    W(COMPRESSED_Q_B, "blk.%d.attn_q_b.weight",            QUERY,  LATENT_Q_RANK,    1) \
    W(COMPRESSED_KV,  "blk.%d.attn_kv.weight",             KEY,           MODEL,     1) \
    W(COMPRESSED_KV_NORM, "blk.%d.attn_kv_a_norm.weight",  ONE,           KEY,       1) \
    W(COMPRESSED_SINKS, "blk.%d.attn_sinks.weight",        ONE,           HEADS,     1) \
    W(COMPRESSED_OUT_A, "blk.%d.attn_output_a.weight",     OUT_RANKS,     OUT_GROUP, 1) /* a matrix a group of heads */ \
    W(COMPRESSED_OUT_B, "blk.%d.attn_output_b.weight",     MODEL,         OUT_RANKS, 1) \
    W(COMPRESS_KV,    "blk.%d.attn_compressor_kv.weight",  COMPRESS,      MODEL,     0) \
    W(COMPRESS_GATE,  "blk.%d.attn_compressor_gate.weight", COMPRESS,     MODEL,     0) \
    W(COMPRESS_PLACE, "blk.%d.attn_compressor_ape.weight", EVERY,         COMPRESS,  0) \
    W(COMPRESS_NORM,  "blk.%d.attn_compressor_norm.weight", ONE,          KEY,       0) \
    W(COMPRESS_INDEX_KV, "blk.%d.indexer_compressor_kv.weight", COMPRESS_INDEX, MODEL, 0) \
    W(COMPRESS_INDEX_GATE, "blk.%d.indexer_compressor_gate.weight", COMPRESS_INDEX, MODEL, 0) \
    W(COMPRESS_INDEX_PLACE, "blk.%d.indexer_compressor_ape.weight", EVERY, COMPRESS_INDEX, 0) \
    W(COMPRESS_INDEX_NORM, "blk.%d.indexer_compressor_norm.weight", ONE,  INDEX_KEY, 0)

/* Of layers of attention, usual or latent, that choose positions: one of each two, and norms and weights as needed. */
#define INFER__INDEX_SLOTS(W) \
    W(INDEX_Q_B,      "blk.%d.indexer.attn_q_b.weight",    INDEX_QUERY, LATENT_Q_RANK, 0) \
    W(INDEX_Q,        "blk.%d.indexer.q_proj.weight",      INDEX_QUERY,   MODEL,     0) \
    W(INDEX_Q_NORM,   "blk.%d.indexer.q_norm.weight",      ONE,           INDEX_KEY, 0) \
    W(INDEX_K,        "blk.%d.indexer.attn_k.weight",      INDEX_KEY,     MODEL,     0) \
    W(INDEX_K_PROJ,   "blk.%d.indexer.k_proj.weight",      INDEX_KEY,     MODEL,     0) \
    W(INDEX_K_NORM,   "blk.%d.indexer.k_norm.weight",      ONE,           INDEX_KEY, 0) \
    W(INDEX_K_NORM_B, "blk.%d.indexer.k_norm.bias",        ONE,           INDEX_KEY, 0) \
    W(INDEX_WEIGHTS,  "blk.%d.indexer.proj.weight",        INDEX_HEADS,   MODEL,     0)

/* Gated delta nets: names as attention's and Mamba's, other shapes. */
#define INFER__DELTA_SLOTS(W) \
    W(DELTA_QKV,      "blk.%d.attn_qkv.weight",            SSM_CONV,      MODEL,     0) \
    W(DELTA_GATE,     "blk.%d.attn_gate.weight",           SSM_INNER,     MODEL,     0) \
    W(DELTA_BOTH,     "blk.%d.ssm_ba.weight",              SSM_HEADS_TWO, MODEL,     0) /* or ALPHA and BETA */ \
    W(DELTA_ALPHA,    "blk.%d.ssm_alpha.weight",           SSM_HEADS,     MODEL,     0) \
    W(DELTA_TAPS,     "blk.%d.ssm_conv1d.weight",          SSM_CONV,      TAPS,      0) \
    W(DELTA_OUT,      "blk.%d.ssm_out.weight",             MODEL,         SSM_INNER, 0) \
    W(DELTA_BETA,     "blk.%d.ssm_beta.weight",            SSM_HEADS,     MODEL,     0) /* from here on Kimi's, too */ \
    W(DELTA_DT_B,     "blk.%d.ssm_dt.bias",                ONE,           SSM_DECAYS, 0) \
    W(DELTA_A,        "blk.%d.ssm_a",                      ONE,           SSM_HEADS, 0) \
    W(DELTA_NORM,     "blk.%d.ssm_norm.weight",            ONE,           SSM_DIM,   0) /* of heads; to here */ \
    W(KDA_Q,          "blk.%d.attn_q.weight",              SSM_INNER,     MODEL,     1) \
    W(KDA_K,          "blk.%d.attn_k.weight",              SSM_INNER,     MODEL,     1) \
    W(KDA_V,          "blk.%d.attn_v.weight",              SSM_INNER,     MODEL,     1) \
    W(KDA_TAPS_Q,     "blk.%d.ssm_conv1d_q.weight",        SSM_INNER,     TAPS,      1) /* together DELTA_TAPS */ \
    W(KDA_TAPS_K,     "blk.%d.ssm_conv1d_k.weight",        SSM_INNER,     TAPS,      1) \
    W(KDA_TAPS_V,     "blk.%d.ssm_conv1d_v.weight",        SSM_INNER,     TAPS,      1) \
    W(KDA_F_A,        "blk.%d.ssm_f_a.weight",             ANY,           MODEL,     1) /* alone, or of two */ \
    W(KDA_F_B,        "blk.%d.ssm_f_b.weight",             SSM_INNER,     ANY,       0) \
    W(KDA_G_A,        "blk.%d.ssm_g_a.weight",             ANY,           MODEL,     0) \
    W(KDA_G_B,        "blk.%d.ssm_g_b.weight",             SSM_INNER,     ANY,       0) \
    W(KDA_G,          "blk.%d.ssm_g.weight",               SSM_INNER,     MODEL,     0) /* in place of both */ \
    W(KDA_OUT,        "blk.%d.attn_output.weight",         MODEL,         SSM_INNER, 1)

#define INFER__LIGHTNING_SLOTS(W) \
    W(LIGHTNING_QKV,  "blk.%d.attn_qkv.weight",            SSM_CONV,      MODEL,     1) \
    W(LIGHTNING_GATE, "blk.%d.attn_gate.weight",           SSM_INNER,     MODEL,     1) \
    W(LIGHTNING_NORM, "blk.%d.attn_norm_2.weight",         ONE,           SSM_INNER, 1) \
    W(LIGHTNING_OUT,  "blk.%d.attn_output.weight",         MODEL,         SSM_INNER, 1)

#define INFER__CROSS_SLOTS(W) \
    W(CROSS_Q,        "blk.%d.cross_attn_q.weight",        QUERY,         MODEL,     1) \
    W(CROSS_K,        "blk.%d.cross_attn_k.weight",        KEY,           MODEL,     1) \
    W(CROSS_V,        "blk.%d.cross_attn_v.weight",        VALUE,         MODEL,     1) \
    W(CROSS_OUT,      "blk.%d.cross_attn_o.weight",        MODEL,         ATT,       1)

#define INFER__EMBED_SKIP_SLOTS(W) \
    W(EMBED_SKIP,     "blk.%d.layer_output_scale.weight",  ONE,           ONE,       0)

/* A block that predicts a further token: nextn.c. */
#define INFER__NEXTN_SLOTS(W) \
    W(NEXTN_PROJ,     "blk.%d.nextn.eh_proj.weight",       MODEL,         MODEL_2,   0) \
    W(NEXTN_EMBD_NORM, "blk.%d.nextn.enorm.weight",        ONE,           MODEL,     0) \
    W(NEXTN_HIDDEN_NORM, "blk.%d.nextn.hnorm.weight",      ONE,           MODEL,     0) \
    W(NEXTN_EMBD,     "blk.%d.nextn.embed_tokens.weight",  VOCAB,         MODEL,     0) /* absent: the model's */ \
    W(NEXTN_HEAD_NORM, "blk.%d.nextn.shared_head_norm.weight", ONE,       MODEL,     0) /* and these */ \
    W(NEXTN_OUT_NORM, "blk.%d.layer_output_norm.weight",   ONE,           MODEL,     0) /* MiMo-V2's name of it */ \
    W(NEXTN_HEAD,     "blk.%d.nextn.shared_head_head.weight", VOCAB,      MODEL,     0)

/* RWKV's time mix: version 7 reads all up to TIME_OUT, version 6 all from TIME_KEY on; and channel mix. */
#define INFER__TIME_SLOTS(W) /* a vector and two matrices with few values in between, four times */ \
    W(TIME_W0, "blk.%d.time_mix_w0.weight", ONE, MODEL, 1)       W(TIME_W1, "blk.%d.time_mix_w1.weight", RANK_W, MODEL, 1) \
    W(TIME_W2, "blk.%d.time_mix_w2.weight", MODEL, RANK_W, 1)    W(TIME_A0, "blk.%d.time_mix_a0.weight", ONE, MODEL, 1) \
    W(TIME_A1, "blk.%d.time_mix_a1.weight", RANK_A, MODEL, 1)    W(TIME_A2, "blk.%d.time_mix_a2.weight", MODEL, RANK_A, 1) \
    W(TIME_V0, "blk.%d.time_mix_v0.weight", ONE, MODEL, 0)       W(TIME_V1, "blk.%d.time_mix_v1.weight", RANK_V, MODEL, 0) \
    W(TIME_V2, "blk.%d.time_mix_v2.weight", MODEL, RANK_V, 0)    W(TIME_G1, "blk.%d.time_mix_g1.weight", RANK_G, MODEL, 0) \
    W(TIME_G2, "blk.%d.time_mix_g2.weight", MODEL, RANK_G, 0)    W(TIME_K_K, "blk.%d.time_mix_k_k.weight", ONE, MODEL, 1) \
    W(TIME_K_A, "blk.%d.time_mix_k_a.weight", ONE, MODEL, 1)     W(TIME_R_K, "blk.%d.time_mix_r_k.weight", ONE, MODEL, 1) \
    W(TIME_KEY, "blk.%d.time_mix_key.weight", WKV_KEYS, MODEL, 1) W(TIME_KEY_B, "blk.%d.time_mix_key.bias", ONE, WKV_KEYS, 0) \
    W(TIME_VALUE, "blk.%d.time_mix_value.weight", WKV_KEYS, MODEL, 1) W(TIME_VALUE_B, "blk.%d.time_mix_value.bias", ONE, WKV_KEYS, 0) \
    W(TIME_R, "blk.%d.time_mix_receptance.weight", MODEL, MODEL, 1) W(TIME_R_B, "blk.%d.time_mix_receptance.bias", ONE, MODEL, 0) \
    W(TIME_LN, "blk.%d.time_mix_ln.weight", ONE, MODEL, 0)       W(TIME_LN_B, "blk.%d.time_mix_ln.bias", ONE, MODEL, 0) \
    W(TIME_LERP, "blk.%d.time_mix_lerp_fused.weight", ONE, ANY, 0) /* 7: r w k v a (g); 6: w k v r g */ \
    W(TIME_OUT, "blk.%d.time_mix_output.weight", MODEL, MODEL, 1) W(TIME_GATE, "blk.%d.time_mix_gate.weight", MODEL, MODEL, 1) \
    W(TIME_LERP_X, "blk.%d.time_mix_lerp_x.weight", ONE, MODEL, 1) W(TIME_LERP_W, "blk.%d.time_mix_lerp_w.weight", ONE, MODEL, 0) \
    W(TIME_LERP_K, "blk.%d.time_mix_lerp_k.weight", ONE, MODEL, 0) W(TIME_LERP_V, "blk.%d.time_mix_lerp_v.weight", ONE, MODEL, 0) \
    W(TIME_LERP_R, "blk.%d.time_mix_lerp_r.weight", ONE, MODEL, 0) W(TIME_LERP_G, "blk.%d.time_mix_lerp_g.weight", ONE, MODEL, 0) \
    W(TIME_MIX_1, "blk.%d.time_mix_w1.weight", RANK_X_5, MODEL, 1) W(TIME_MIX_2, "blk.%d.time_mix_w2.weight", MODEL_5, RANK_X, 1) \
    W(TIME_FIRST, "blk.%d.time_mix_first.weight", ONE, MODEL, 0) W(TIME_DECAY, "blk.%d.time_mix_decay.weight", ONE, MODEL, 1) \
    W(TIME_DECAY_1, "blk.%d.time_mix_decay_w1.weight", RANK_W, MODEL, 1) W(TIME_DECAY_2, "blk.%d.time_mix_decay_w2.weight", MODEL, RANK_W, 1)
#define INFER__CHANNEL_SLOTS(W) \
    W(CHANNEL_LERP_K, "blk.%d.channel_mix_lerp_k.weight",  ONE,           MODEL,     1) \
    W(CHANNEL_LERP_R, "blk.%d.channel_mix_lerp_r.weight",  ONE,           MODEL,     0) \
    W(CHANNEL_R,      "blk.%d.channel_mix_receptance.weight", MODEL,      MODEL,     0) \
    W(CHANNEL_KEY,    "blk.%d.channel_mix_key.weight",     FF,            MODEL,     1) \
    W(CHANNEL_VALUE,  "blk.%d.channel_mix_value.weight",   MODEL,         FF,        1)

/* Blocks of MobileNet V5 (stack/mobile.c): kernels, each with the norm of its result; names have the stage, then the
 * block in it. A block has the first four, or some of the next ones, or the last nine. */
#define INFER__MOBILE_CONV(W, slot, name, norm, need) \
  W(slot, "blk.%d.%d." name ".weight", ANY, KERNEL, need) W(slot##_NORM, "blk.%d.%d." norm ".weight", ONE, ANY, need)
#define INFER__MOBILE_SLOTS(W) \
    INFER__MOBILE_CONV(W, EDGE_EXP, "conv_exp", "bn1", 1) INFER__MOBILE_CONV(W, EDGE_PROJ, "conv_pwl", "bn2", 1) \
    INFER__MOBILE_CONV(W, DW_START, "dw_start.conv", "dw_start.bn", 0) INFER__MOBILE_CONV(W, PW_EXP, "pw_exp.conv", "pw_exp.bn", 1) \
    INFER__MOBILE_CONV(W, DW_MID, "dw_mid.conv", "dw_mid.bn", 0) INFER__MOBILE_CONV(W, PW_PROJ, "pw_proj.conv", "pw_proj.bn", 1) \
    INFER__MOBILE_CONV(W, QUERIES, "attn.query.proj", "norm", 1) INFER__MOBILE_CONV(W, KEYS_DOWN, "attn.key.down_conv", "attn.key.norm", 0) \
    INFER__MOBILE_CONV(W, VALUES_DOWN, "attn.value.down_conv", "attn.value.norm", 0) \
    W(QUERIES_KEYS, "blk.%d.%d.attn.key.proj.weight", ANY, KERNEL, 1) W(QUERIES_VALUES, "blk.%d.%d.attn.value.proj.weight", ANY, KERNEL, 1) \
    W(QUERIES_OUT, "blk.%d.%d.attn.output.proj.weight", ANY, KERNEL, 1) W(LAYER_SCALE, "blk.%d.%d.layer_scale.gamma", ONE, ANY, 1)

/* Steps before and after the layers of a stack, and beside them: matrices, then vectors. The stack's row has their
 * names (stack/stack.h): here they have none. */
#define INFER__STACK_M(W, slot) W(slot, "", ANY, KERNEL, 0)
#define INFER__STACK_V(W, slot) W(slot, "", ONE, ANY, 0)
#define INFER__STACK_M4(W, s) \
  INFER__STACK_M(W, s##0) INFER__STACK_M(W, s##1) INFER__STACK_M(W, s##2) INFER__STACK_M(W, s##3)
#define INFER__STACK_V4(W, s) \
  INFER__STACK_V(W, s##0) INFER__STACK_V(W, s##1) INFER__STACK_V(W, s##2) INFER__STACK_V(W, s##3)
#define INFER__STACK_SLOTS(W) \
    INFER__STACK_M4(W, STACK_IN_M) INFER__STACK_M(W, STACK_IN_MB0) INFER__STACK_V4(W, STACK_IN_V) INFER__STACK_V4(W, STACK_IN_VB) \
    INFER__STACK_V4(W, STACK_IN_VC) \
    INFER__STACK_M4(W, STACK_BESIDE_M) INFER__STACK_M4(W, STACK_BESIDE_MB) INFER__STACK_M4(W, STACK_BESIDE_MC) \
    INFER__STACK_V4(W, STACK_BESIDE_V) INFER__STACK_V4(W, STACK_BESIDE_VB) INFER__STACK_V4(W, STACK_BESIDE_VC) \
    INFER__STACK_V4(W, STACK_BESIDE_VD) INFER__STACK_V4(W, STACK_BESIDE_VE) INFER__STACK_V4(W, STACK_BESIDE_VF) \
    INFER__STACK_V4(W, STACK_BESIDE_VG) \
    INFER__STACK_M4(W, STACK_HEAD_M) INFER__STACK_M4(W, STACK_HEAD_MB) INFER__STACK_V4(W, STACK_HEAD_V) \
    INFER__STACK_V4(W, STACK_HEAD_VB) INFER__STACK_V4(W, STACK_HEAD_VC) INFER__STACK_V4(W, STACK_HEAD_VD) \
    W(STACK_END, "", ANY, ANY, 0)

#define INFER__LAYER_SLOTS(W) \
    INFER__NORM_SLOTS(W) INFER__ATTENTION_SLOTS(W) INFER__DENSE_SLOTS(W) INFER__MOE_SLOTS(W) INFER__BESIDE_SLOTS(W) \
    INFER__SHORTCONV_SLOTS(W) INFER__EMBED_SKIP_SLOTS(W) INFER__SSM_SLOTS(W) INFER__LATENT_SLOTS(W) INFER__DELTA_SLOTS(W) \
    INFER__INDEX_SLOTS(W) INFER__TIME_SLOTS(W) INFER__CHANNEL_SLOTS(W) INFER__LIGHTNING_SLOTS(W) \
    INFER__ALTUP_SLOTS(W) INFER__LAUREL_SLOTS(W) INFER__HYPER_SLOTS(W) INFER__COMPRESSED_SLOTS(W) \
    INFER__HYPER_LOW_SLOTS(W) INFER__CROSS_SLOTS(W) INFER__NEXTN_SLOTS(W) INFER__MOBILE_SLOTS(W) \
    INFER__STACK_SLOTS(W)

#define INFER__MODEL_SLOTS(W) \
    W(TOKEN_EMBD,   "token_embd.weight",        VOCAB, MODEL,    1) \
    W(POS_EMBD,     "position_embd.weight",     ANY,   MODEL,    0) \
    W(TOKEN_TYPES,  "token_types.weight",       ANY,   MODEL,    0) \
    W(EMBD_NORM,    "token_embd_norm.weight",   ONE,   MODEL,    0) \
    W(EMBD_NORM_B,  "token_embd_norm.bias",     ONE,   MODEL,    0) \
    W(OUT_NORM,     "output_norm.weight",       ONE,   MODEL,    0) \
    W(OUT_NORM_B,   "output_norm.bias",         ONE,   MODEL,    0) \
    W(OUTPUT,       "output.weight",            VOCAB, MODEL,    0) /* absent: the embedding (tied) */ \
    W(OUTPUT_B,     "output.bias",              ONE,   VOCAB,    0) \
    W(OUT_RES_SCORE, "output_res_score.weight", ONE,   MODEL,    0) \
    W(LOW_INIT,     "hrm.z_l_init",             ONE,   MODEL,    0) \
    W(OUT_HYPER,    "output_hc_fn.weight",      HYPER, MODEL_HYPER, 0) \
    W(OUT_HYPER_BASE, "output_hc_base.weight",  ONE,   HYPER,    0) \
    W(OUT_HYPER_SCALE, "output_hc_scale.weight", ONE,  ONE,      0) \
    W(OUT_HYPER_NORM, "output_hc_norm.weight",  ONE,   MODEL_HYPER, 0) \
    W(OUT_HYPER_DOWN, "output_hc_down.weight",  HYPER_RANK, MODEL_HYPER, 0) \
    W(OUT_HYPER_UP, "output_hc_up.weight",      MODEL_HYPER, HYPER_RANK, 0) \
    W(PER_LAYER_EMBD, "per_layer_token_embd.weight", INPUT_ROWS, PER_LAYERS, 0) \
    W(PER_LAYER_PROJ, "per_layer_model_proj.weight", PER_LAYERS, MODEL, 0) \
    W(PER_LAYER_NORM, "per_layer_proj_norm.weight", ONE, PER_LAYER, 0) \
    W(ALTUP_PROJ,   "altup_proj.weight",        MODEL_STREAMS, MODEL, 0) \
    W(ALTUP_UNEMBD, "altup_unembd_proj.weight", MODEL_STREAMS, MODEL, 0) \
    W(CLS,          "cls.weight",               ANY,   MODEL,    0) /* from here on: pool.c */ \
    W(CLS_B,        "cls.bias",                 ONE,   ANY,      0) \
    W(CLS_NORM,     "cls.norm.weight",          ONE,   ANY,      0) \
    W(CLS_OUT,      "cls.output.weight",        ANY,   ANY,      0) \
    W(CLS_OUT_B,    "cls.output.bias",          ONE,   ANY,      0) \
    W(DENSE_2,      "dense_2.weight",           ANY,   MODEL,    0) \
    W(DENSE_3,      "dense_3.weight",           ANY,   ANY,      0) \
    W(ROPE_FREQS,   "rope_freqs.weight",        ONE,   ANY,      0) /* these three: infer__rope_check */ \
    W(ROPE_LONG,    "rope_factors_long.weight", ONE,   ANY,      0) \
    W(ROPE_SHORT,   "rope_factors_short.weight", ONE,  ANY,      0)

#define INFER__SLOT_ENUM(slot, name, rows, cols, need) INFER__W_##slot,
enum { INFER__LAYER_SLOTS(INFER__SLOT_ENUM) INFER__LAYER_SLOT_COUNT };
enum { INFER__MODEL_SLOTS(INFER__SLOT_ENUM) INFER__MODEL_SLOT_COUNT };
#endif
