/* slots.h: weight slots of layers: which tensor of the file goes where, and its shape.
 *
 * Owns:  one list per kind of sublayer (those of a kind follow each other: infer__sublayer_kind has the first and the
 *        last), one of the norms around them, and the symbolic dimensions of shapes, which infer__dim (weights.c) makes
 *        numbers.
 * Rules: a tensor is bound in layers that have the kind it belongs to, and refused in others. A weight's bias is the
 *        next slot, but for those of experts. To add a kind: its list here, in INFER__LAYER_SLOTS, and a row in
 *        kinds.c.
 */
#ifndef INFER__SLOTS_H
#define INFER__SLOTS_H

enum {
    INFER__D_ONE,
    INFER__D_MODEL,
    INFER__D_QUERY,
    INFER__D_KEY,
    INFER__D_VALUE,
    INFER__D_ATT,
    INFER__D_QKV,
    INFER__D_FF,
    INFER__D_HEADS,
    INFER__D_HEADS_Q,
    INFER__D_HEADS_K, /* one set per head or shared: see infer__head_groups */
    INFER__D_VOCAB,
    INFER__D_ANY,
    INFER__D_EXPERTS,
    INFER__D_FF_EXPERT,
    INFER__D_FF_EXPERTS,
    INFER__D_FF_EXPERTS_TWO, /* gate and up of each */
    INFER__D_MODEL_EXPERTS,
    INFER__D_FF_SHARED,
    INFER__D_MODEL_3,
    INFER__D_TAPS,
    INFER__D_ONE_ROW /* of a matrix */
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
    W(EXPERTS_NORM,   "blk.%d.ffn_norm_exps.weight",       ONE,           MODEL,     0) /* of experts beside attention */ \
    W(EXPERTS_NORM_B, "blk.%d.ffn_norm_exps.bias",         ONE,           MODEL,     0) \
    W(LAYER_OUT_NORM, "blk.%d.layer_output_norm.weight",   ONE,           MODEL,     0) /* after the FFN */

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
    W(ATTN_OUT,       "blk.%d.attn_output.weight",         MODEL,         ATT,       1) \
    W(ATTN_OUT_B,     "blk.%d.attn_output.bias",           ONE,           MODEL,     0) \
    W(ATTN_GATE,      "blk.%d.attn_gate.weight",           ANY,           MODEL,     0) /* of heads or of each value */

#define INFER__DENSE_SLOTS(W) \
    W(FFN_GATE,       "blk.%d.ffn_gate.weight",            FF,            MODEL,     0) \
    W(FFN_GATE_B,     "blk.%d.ffn_gate.bias",              ONE,           FF,        0) \
    W(FFN_UP,         "blk.%d.ffn_up.weight",              ANY,           MODEL,     0) /* 2 FF rows = gate, up */ \
    W(FFN_UP_B,       "blk.%d.ffn_up.bias",                ONE,           ANY,       0) \
    W(FFN_DOWN,       "blk.%d.ffn_down.weight",            MODEL,         FF,        0) \
    W(FFN_DOWN_B,     "blk.%d.ffn_down.bias",              ONE,           MODEL,     0) \
    W(FFN_ACT_SCALES, "blk.%d.ffn.act.scales",             ONE,           FF,        0)

#define INFER__MOE_SLOTS(W) \
    W(MOE_ROUTER,     "blk.%d.ffn_gate_inp.weight",        EXPERTS,       MODEL,     0) /* present = experts */ \
    W(MOE_ROUTER_B,   "blk.%d.ffn_gate_inp.bias",          ONE,           EXPERTS,   0) \
    W(MOE_CHOICE_B,   "blk.%d.exp_probs_b.bias",           ONE,           EXPERTS,   0) /* of the choice alone */ \
    W(MOE_GATE,       "blk.%d.ffn_gate_exps.weight",       FF_EXPERTS,    MODEL,     0) \
    W(MOE_UP,         "blk.%d.ffn_up_exps.weight",         FF_EXPERTS,    MODEL,     0) \
    W(MOE_GATE_UP,    "blk.%d.ffn_gate_up_exps.weight",    FF_EXPERTS_TWO, MODEL,    0) /* in place of both */ \
    W(MOE_DOWN,       "blk.%d.ffn_down_exps.weight",       MODEL_EXPERTS, FF_EXPERT, 0) \
    W(MOE_GATE_B,     "blk.%d.ffn_gate_exps.bias",         ONE,           FF_EXPERTS, 0) \
    W(MOE_UP_B,       "blk.%d.ffn_up_exps.bias",           ONE,           FF_EXPERTS, 0) \
    W(MOE_GATE_UP_B,  "blk.%d.ffn_gate_up_exps.bias",      ONE,           FF_EXPERTS_TWO, 0) \
    W(MOE_DOWN_B,     "blk.%d.ffn_down_exps.bias",         ONE,           MODEL_EXPERTS, 0) \
    W(SHARED_GATE,    "blk.%d.ffn_gate_shexp.weight",      FF_SHARED,     MODEL,     0) \
    W(SHARED_UP,      "blk.%d.ffn_up_shexp.weight",        FF_SHARED,     MODEL,     0) \
    W(SHARED_DOWN,    "blk.%d.ffn_down_shexp.weight",      MODEL,         FF_SHARED, 0) \
    W(SHARED_SCORE,   "blk.%d.ffn_gate_inp_shexp.weight",  ONE_ROW,       MODEL,     0) /* its sigmoid scales it */

#define INFER__SHORTCONV_SLOTS(W) \
    W(SHORTCONV_IN,   "blk.%d.shortconv.in_proj.weight",   MODEL_3,       MODEL,     0) \
    W(SHORTCONV_TAPS, "blk.%d.shortconv.conv.weight",      MODEL,         TAPS,      0) \
    W(SHORTCONV_OUT,  "blk.%d.shortconv.out_proj.weight",  MODEL,         MODEL,     0)

#define INFER__LAYER_SLOTS(W) \
    INFER__NORM_SLOTS(W) INFER__ATTENTION_SLOTS(W) INFER__DENSE_SLOTS(W) INFER__MOE_SLOTS(W) INFER__SHORTCONV_SLOTS(W)

#define INFER__MODEL_SLOTS(W) \
    W(TOKEN_EMBD,   "token_embd.weight",        VOCAB, MODEL,    1) \
    W(POS_EMBD,     "position_embd.weight",     ANY,   MODEL,    0) \
    W(EMBD_NORM,    "token_embd_norm.weight",   ONE,   MODEL,    0) \
    W(EMBD_NORM_B,  "token_embd_norm.bias",     ONE,   MODEL,    0) \
    W(OUT_NORM,     "output_norm.weight",       ONE,   MODEL,    0) \
    W(OUT_NORM_B,   "output_norm.bias",         ONE,   MODEL,    0) \
    W(OUTPUT,       "output.weight",            VOCAB, MODEL,    0) /* absent: the embedding (tied) */ \
    W(OUTPUT_B,     "output.bias",              ONE,   VOCAB,    0) \
    W(ROPE_FREQS,   "rope_freqs.weight",        ONE,   ANY,      0) /* these three: infer__rope_check */ \
    W(ROPE_LONG,    "rope_factors_long.weight", ONE,   ANY,      0) \
    W(ROPE_SHORT,   "rope_factors_short.weight", ONE,  ANY,      0)

#define INFER__SLOT_ENUM(slot, name, rows, cols, need) INFER__W_##slot,
enum { INFER__LAYER_SLOTS(INFER__SLOT_ENUM) INFER__LAYER_SLOT_COUNT };
enum { INFER__MODEL_SLOTS(INFER__SLOT_ENUM) INFER__MODEL_SLOT_COUNT };
#endif
