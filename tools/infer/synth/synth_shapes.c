/* synth_shapes.c: the shapes of real models, and the keys and tensors of architectures, that `infer synth` can write.
 * To add one: rows for what is new, a row in FAMILIES, one in SHAPES. */
#include "../cli.h"
#include "synth.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- keys -------------------------------------------------------------------------------------- */

static const synth_key GENERAL[] = {
    {'u', "vocab_size", "vocab", NULL},
    {'u', "context_length", "context", NULL},
    {'u', "embedding_length", "width", NULL},
    {'u', "block_count", "layers", NULL},
    {'u', "feed_forward_length", "ffn", NULL},
    {0, NULL, NULL, NULL}};

#define HEADS \
    {'u', "attention.head_count", "heads", NULL}, {'u', "attention.head_count_kv", "kv_heads", NULL}, \
    {'u', "attention.key_length", "head_dim", NULL}, {'u', "attention.value_length", "head_dim", NULL}
#define RMS_AND_ROPE \
    {'f', "attention.layer_norm_rms_epsilon", "eps", NULL}, {'f', "rope.freq_base", "rope_base", NULL}, \
    {'u', "rope.dimension_count", "head_dim", NULL}
#define WINDOW_AND_EXPERTS \
    {'u', "attention.sliding_window", "window", "window"}, {'u', "expert_count", "experts", "experts"}, \
    {'u', "expert_used_count", "experts_used", "experts"}, {'u', "expert_feed_forward_length", "expert_ffn", "experts"}
#define KEYS_END {0, NULL, NULL, NULL}

static const synth_key USUAL_KEYS[] = {HEADS, RMS_AND_ROPE, WINDOW_AND_EXPERTS, KEYS_END};
static const synth_key GPT2_KEYS[] = {HEADS, {'f', "attention.layer_norm_epsilon", "eps", NULL}, WINDOW_AND_EXPERTS, KEYS_END};
static const synth_key GPT_OSS_KEYS[] = {HEADS,
                                         RMS_AND_ROPE,
                                         {'s', "rope.scaling.type", "yarn", NULL},
                                         {'f', "rope.scaling.factor", "32", NULL},
                                         {'u', "rope.scaling.original_context_length", "4096", NULL},
                                         WINDOW_AND_EXPERTS,
                                         KEYS_END};
#define MLA_YARN "rope_factor"
static const synth_key DEEPSEEK2_KEYS[] = {
    {'u', "attention.head_count", "heads", NULL},
    {'u', "attention.head_count_kv", "1", NULL},
    {'u', "attention.kv_lora_rank", "kv_lora", NULL},
    {'u', "attention.key_length", "kv_lora + rope_dim", NULL},
    {'u', "attention.value_length", "kv_lora", NULL},
    {'u', "attention.key_length_mla", "head_dim + rope_dim", NULL},
    {'u', "attention.value_length_mla", "head_dim", NULL},
    {'f', "attention.layer_norm_rms_epsilon", "eps", NULL},
    {'f', "rope.freq_base", "rope_base", NULL},
    {'u', "rope.dimension_count", "rope_dim", NULL},
    {'s', "rope.scaling.type", "yarn", MLA_YARN},
    {'f', "rope.scaling.factor", "rope_factor", MLA_YARN},
    {'u', "rope.scaling.original_context_length", "4096", MLA_YARN},
    {'f', "rope.scaling.yarn_log_multiplier", "yarn_log", MLA_YARN},
    {'u', "leading_dense_block_count", "dense_layers", NULL},
    {'u', "expert_shared_count", "shared", NULL},
    {'f', "expert_weights_scale", "1", NULL},
    {'u', "expert_gating_func", "1", NULL},
    WINDOW_AND_EXPERTS,
    KEYS_END};
#define LFM2_ATTENTION "(l = 2) + (l = 5) + (l = 8) + (l = 10) + (l = 12) + (l = 14)"
static const synth_key LFM2_KEYS[] = {{'u', "attention.head_count", "heads", NULL},
                                      {'U', "attention.head_count_kv", "kv_heads * (" LFM2_ATTENTION ")", NULL},
                                      RMS_AND_ROPE,
                                      {'u', "shortconv.l_cache", "conv", NULL},
                                      KEYS_END};
#define SSM_KEYS \
    {'u', "ssm.inner_size", "inner", NULL}, {'u', "ssm.conv_kernel", "conv", NULL}, {'u', "ssm.state_size", "state", NULL}, \
    {'u', "ssm.time_step_rank", "ssm_heads", NULL}, {'u', "ssm.group_count", "groups", NULL}
static const synth_key QWEN35_KEYS[] = {HEADS,
                                        {'f', "attention.layer_norm_rms_epsilon", "eps", NULL},
                                        {'f', "rope.freq_base", "rope_base", NULL},
                                        {'u', "rope.dimension_count", "rope_dim", NULL},
                                        {'I', "rope.dimension_sections", "11 11 10 0", NULL},
                                        {'u', "full_attention_interval", "every", NULL},
                                        SSM_KEYS,
                                        WINDOW_AND_EXPERTS,
                                        {'u', "expert_shared_feed_forward_length", "shared_ffn", "experts"},
                                        KEYS_END};
#define GRANITE_ATTENTION "l % 10 = 5"
static const synth_key GRANITE_HYBRID_KEYS[] = {{'u', "attention.head_count", "heads", NULL},
                                                {'U', "attention.head_count_kv", "kv_heads * (" GRANITE_ATTENTION ")", NULL},
                                                RMS_AND_ROPE,
                                                {'b', "rope.scaling.finetuned", "0", NULL},
                                                {'f', "attention.scale", "0.0078125", NULL},
                                                {'f', "embedding_scale", "12", NULL},
                                                {'f', "residual_scale", "0.22", NULL},
                                                {'f', "logit_scale", "6", NULL},
                                                SSM_KEYS,
                                                {'u', "expert_count", "experts", "experts"},
                                                {'u', "expert_used_count", "experts_used", "experts"},
                                                {'u', "expert_shared_feed_forward_length", "shared_ffn", "shared_ffn"},
                                                KEYS_END};
static const synth_key MAMBA2_KEYS[] = {{'u', "attention.head_count", "0", NULL},
                                        {'f', "attention.layer_norm_rms_epsilon", "eps", NULL},
                                        SSM_KEYS,
                                        KEYS_END};
static const synth_key RWKV7_KEYS[] = {{'u', "attention.head_count", "0", NULL},
                                       {'f', "attention.layer_norm_epsilon", "eps", NULL},
                                       {'u', "wkv.head_size", "head_dim", NULL},
                                       {'u', "attention.decay_lora_rank", "decay_rank", NULL},
                                       {'u', "attention.iclr_lora_rank", "rate_rank", NULL},
                                       {'u', "attention.value_residual_mix_lora_rank", "value_rank", NULL},
                                       {'u', "attention.gate_lora_rank", "gate_rank", NULL},
                                       KEYS_END};
static const synth_key GEMMA3N_KEYS[] = {HEADS,
                                         RMS_AND_ROPE,
                                         {'u', "attention.sliding_window", "window", NULL},
                                         {'B', "attention.sliding_window_pattern", "(l % 5 = 4) = 0", NULL},
                                         {'u', "attention.shared_kv_layers", "layers / 3", NULL},
                                         {'u', "embedding_length_per_layer_input", "layer_width", NULL},
                                         {'u', "altup.num_inputs", "streams", NULL},
                                         {'u', "altup.active_idx", "0", NULL},
                                         {'F', "activation_sparsity_scale", "1.6448536 * (l < 10)", NULL},
                                         {'f', "final_logit_softcapping", "30", NULL},
                                         KEYS_END};
#define ENCODER_KEYS \
    {'u', "attention.head_count", "heads", NULL}, {'f', "attention.layer_norm_epsilon", "eps", NULL}, \
    {'b', "attention.causal", "0", NULL}, {'u', "pooling_type", "pooling", NULL}, {'u', "tokenizer.ggml.token_type_count", "2", NULL}
static const synth_key BERT_KEYS[] = {ENCODER_KEYS, KEYS_END};
static const synth_key NOMIC_BERT_KEYS[] = {ENCODER_KEYS, {'f', "rope.freq_base", "rope_base", NULL}, KEYS_END};

/* ---- tensors ------------------------------------------------------------------------------------- */

#define TENSORS_END {NULL, 0, {NULL}, NULL}
#define QUERY "heads * head_dim"
#define KEY "kv_heads * head_dim"
static const synth_tensor FRONT[] = {{"token_embd.weight", SYNTH_EMBED, {"width", "vocab"}, NULL},
                                     {"rope_freqs.weight", SYNTH_ROPE_FREQS, {"head_dim / 2"}, "rope_factor"},
                                     TENSORS_END};
static const synth_tensor EMBEDDING[] = {{"token_embd.weight", SYNTH_EMBED, {"width", "vocab"}, NULL}, TENSORS_END};
static const synth_tensor BACK[] = {{"output_norm.weight", SYNTH_NORM, {"width"}, NULL},
                                    {"output.weight", SYNTH_MORE, {"width", "vocab"}, "tied = 0"},
                                    TENSORS_END};

static const synth_tensor ATTENTION[] = {{"attn_norm.weight", SYNTH_NORM, {"width"}, NULL},
                                         {"attn_q.weight", SYNTH_MATRIX, {"width", QUERY}, NULL},
                                         {"attn_k.weight", SYNTH_MATRIX, {"width", KEY}, NULL},
                                         {"attn_v.weight", SYNTH_MIXED, {"width", KEY}, NULL},
                                         TENSORS_END};
static const synth_tensor QKV_BIAS[] = {{"attn_q.bias", SYNTH_BIAS, {QUERY}, NULL},
                                        {"attn_k.bias", SYNTH_BIAS, {KEY}, NULL},
                                        {"attn_v.bias", SYNTH_BIAS, {KEY}, NULL},
                                        TENSORS_END};
static const synth_tensor HEAD_NORMS[] = {{"attn_q_norm.weight", SYNTH_NORM, {"head_dim"}, NULL},
                                          {"attn_k_norm.weight", SYNTH_NORM, {"head_dim"}, NULL},
                                          TENSORS_END};
static const synth_tensor ROW_NORMS[] = {{"attn_q_norm.weight", SYNTH_NORM, {QUERY}, NULL},
                                         {"attn_k_norm.weight", SYNTH_NORM, {KEY}, NULL},
                                         TENSORS_END};
static const synth_tensor ATTENTION_OUT[] = {{"attn_output.weight", SYNTH_MATRIX, {QUERY, "width"}, NULL}, TENSORS_END};
static const synth_tensor SINKS[] = {{"attn_output.bias", SYNTH_BIAS, {"width"}, NULL},
                                     {"attn_sinks.weight", SYNTH_BIAS, {"heads"}, NULL},
                                     TENSORS_END};
static const synth_tensor AFTER_ATTENTION[] = {{"post_attention_norm.weight", SYNTH_NORM, {"width"}, NULL}, TENSORS_END};
static const synth_tensor FFN_NORM[] = {{"ffn_norm.weight", SYNTH_NORM, {"width"}, NULL}, TENSORS_END};
#define EXPERTS "experts * (l < dense_layers = 0)"
static const synth_tensor FFN[] = {{"ffn_gate_inp.weight", SYNTH_FLOAT, {"width", "experts"}, EXPERTS},
                                   {"ffn_gate_exps.weight", SYNTH_MATRIX, {"width", "expert_ffn", "experts"}, EXPERTS},
                                   {"ffn_up_exps.weight", SYNTH_MATRIX, {"width", "expert_ffn", "experts"}, EXPERTS},
                                   {"ffn_down_exps.weight", SYNTH_MIXED, {"expert_ffn", "width", "experts"}, EXPERTS},
                                   {"ffn_gate.weight", SYNTH_MATRIX, {"width", "ffn"}, EXPERTS " = 0"},
                                   {"ffn_up.weight", SYNTH_MATRIX, {"width", "ffn"}, EXPERTS " = 0"},
                                   {"ffn_down.weight", SYNTH_MIXED, {"ffn", "width"}, EXPERTS " = 0"},
                                   TENSORS_END};
static const synth_tensor EXPERT_BIASES[] = {{"ffn_gate_inp.bias", SYNTH_BIAS, {"experts"}, NULL},
                                             {"ffn_gate_exps.bias", SYNTH_BIAS, {"expert_ffn", "experts"}, NULL},
                                             {"ffn_up_exps.bias", SYNTH_BIAS, {"expert_ffn", "experts"}, NULL},
                                             {"ffn_down_exps.bias", SYNTH_BIAS, {"width", "experts"}, NULL},
                                             TENSORS_END};
#define SHARED "shared_ffn * (" EXPERTS ")"
static const synth_tensor SHARED_FFN[] = {{"ffn_gate_shexp.weight", SYNTH_MATRIX, {"width", "shared_ffn"}, SHARED},
                                          {"ffn_up_shexp.weight", SYNTH_MATRIX, {"width", "shared_ffn"}, SHARED},
                                          {"ffn_down_shexp.weight", SYNTH_MIXED, {"shared_ffn", "width"}, SHARED},
                                          TENSORS_END};
static const synth_tensor SHARED_GATE[] = {{"ffn_gate_inp_shexp.weight", SYNTH_BIAS, {"width"}, SHARED}, TENSORS_END};
static const synth_tensor AFTER_FFN[] = {{"post_ffw_norm.weight", SYNTH_NORM, {"width"}, NULL}, TENSORS_END};

static const synth_tensor GPT2_FRONT[] = {{"token_embd.weight", SYNTH_EMBED, {"width", "vocab"}, NULL},
                                          {"position_embd.weight", SYNTH_BIAS, {"width", "context"}, NULL},
                                          TENSORS_END};
static const synth_tensor GPT2[] = {{"attn_norm.weight", SYNTH_NORM, {"width"}, NULL},
                                    {"attn_norm.bias", SYNTH_BIAS, {"width"}, NULL},
                                    {"attn_qkv.weight", SYNTH_MATRIX, {"width", QUERY " + 2 * " KEY}, NULL},
                                    {"attn_qkv.bias", SYNTH_BIAS, {QUERY " + 2 * " KEY}, NULL},
                                    {"attn_output.weight", SYNTH_MATRIX, {QUERY, "width"}, NULL},
                                    {"attn_output.bias", SYNTH_BIAS, {"width"}, NULL},
                                    {"ffn_norm.weight", SYNTH_NORM, {"width"}, NULL},
                                    {"ffn_norm.bias", SYNTH_BIAS, {"width"}, NULL},
                                    {"ffn_up.weight", SYNTH_MATRIX, {"width", "ffn"}, NULL},
                                    {"ffn_up.bias", SYNTH_BIAS, {"ffn"}, NULL},
                                    {"ffn_down.weight", SYNTH_MIXED, {"ffn", "width"}, NULL},
                                    {"ffn_down.bias", SYNTH_BIAS, {"width"}, NULL},
                                    TENSORS_END};
static const synth_tensor GPT2_BACK[] = {{"output_norm.weight", SYNTH_NORM, {"width"}, NULL},
                                         {"output_norm.bias", SYNTH_BIAS, {"width"}, NULL},
                                         {"output.weight", SYNTH_MORE, {"width", "vocab"}, "tied = 0"},
                                         TENSORS_END};

#define ENCODER_FRONT \
    {"token_embd.weight", SYNTH_EMBED, {"width", "vocab"}, NULL}, {"token_types.weight", SYNTH_BIAS, {"width", "2"}, NULL}, \
    {"token_embd_norm.weight", SYNTH_NORM, {"width"}, NULL}, {"token_embd_norm.bias", SYNTH_BIAS, {"width"}, NULL}
static const synth_tensor BERT_FRONT[] = {ENCODER_FRONT,
                                          {"position_embd.weight", SYNTH_BIAS, {"width", "context"}, NULL},
                                          TENSORS_END};
static const synth_tensor BERT[] = {{"attn_q.weight", SYNTH_MATRIX, {"width", "width"}, NULL},
                                    {"attn_q.bias", SYNTH_BIAS, {"width"}, NULL},
                                    {"attn_k.weight", SYNTH_MATRIX, {"width", "width"}, NULL},
                                    {"attn_k.bias", SYNTH_BIAS, {"width"}, NULL},
                                    {"attn_v.weight", SYNTH_MIXED, {"width", "width"}, NULL},
                                    {"attn_v.bias", SYNTH_BIAS, {"width"}, NULL},
                                    {"attn_output.weight", SYNTH_MATRIX, {"width", "width"}, NULL},
                                    {"attn_output.bias", SYNTH_BIAS, {"width"}, NULL},
                                    {"ffn_up.weight", SYNTH_MATRIX, {"width", "ffn"}, NULL},
                                    {"ffn_up.bias", SYNTH_BIAS, {"ffn"}, NULL},
                                    {"ffn_down.weight", SYNTH_MIXED, {"ffn", "width"}, NULL},
                                    {"ffn_down.bias", SYNTH_BIAS, {"width"}, NULL},
                                    TENSORS_END};
static const synth_tensor NOMIC_FRONT[] = {ENCODER_FRONT, TENSORS_END};
static const synth_tensor NOMIC[] = {{"attn_qkv.weight", SYNTH_MATRIX, {"width", "3 * width"}, NULL},
                                     {"attn_output.weight", SYNTH_MATRIX, {"width", "width"}, NULL},
                                     {"ffn_gate.weight", SYNTH_MATRIX, {"width", "ffn"}, NULL},
                                     {"ffn_up.weight", SYNTH_MATRIX, {"width", "ffn"}, NULL},
                                     {"ffn_down.weight", SYNTH_MIXED, {"ffn", "width"}, NULL},
                                     TENSORS_END};
static const synth_tensor NORMS_AFTER[] = {{"attn_output_norm.weight", SYNTH_NORM, {"width"}, NULL},
                                           {"attn_output_norm.bias", SYNTH_BIAS, {"width"}, NULL},
                                           {"layer_output_norm.weight", SYNTH_NORM, {"width"}, NULL},
                                           {"layer_output_norm.bias", SYNTH_BIAS, {"width"}, NULL},
                                           TENSORS_END};
static const synth_tensor NOTHING[] = {TENSORS_END};

static const synth_tensor LATENT[] = {{"attn_norm.weight", SYNTH_NORM, {"width"}, NULL},
                                      {"attn_q.weight", SYNTH_MATRIX, {"width", "heads * (head_dim + rope_dim)"}, NULL},
                                      {"attn_kv_a_mqa.weight", SYNTH_MATRIX, {"width", "kv_lora + rope_dim"}, NULL},
                                      {"attn_kv_a_norm.weight", SYNTH_NORM, {"kv_lora"}, NULL},
                                      {"attn_k_b.weight", SYNTH_MATRIX, {"head_dim", "kv_lora", "heads"}, NULL},
                                      {"attn_v_b.weight", SYNTH_MIXED, {"kv_lora", "head_dim", "heads"}, NULL},
                                      TENSORS_END};

static const synth_tensor LFM2_FRONT[] = {{"token_embd.weight", SYNTH_EMBED, {"width", "vocab"}, NULL},
                                          {"token_embd_norm.weight", SYNTH_NORM, {"width"}, NULL},
                                          TENSORS_END};
#define LFM2_CONV "(" LFM2_ATTENTION ") = 0"
static const synth_tensor LFM2[] = {{"attn_norm.weight", SYNTH_NORM, {"width"}, NULL},
                                    {"attn_q.weight", SYNTH_MATRIX, {"width", QUERY}, LFM2_ATTENTION},
                                    {"attn_k.weight", SYNTH_MATRIX, {"width", KEY}, LFM2_ATTENTION},
                                    {"attn_v.weight", SYNTH_MIXED, {"width", KEY}, LFM2_ATTENTION},
                                    {"attn_q_norm.weight", SYNTH_NORM, {"head_dim"}, LFM2_ATTENTION},
                                    {"attn_k_norm.weight", SYNTH_NORM, {"head_dim"}, LFM2_ATTENTION},
                                    {"attn_output.weight", SYNTH_MATRIX, {QUERY, "width"}, LFM2_ATTENTION},
                                    {"shortconv.in_proj.weight", SYNTH_MATRIX, {"width", "3 * width"}, LFM2_CONV},
                                    {"shortconv.conv.weight", SYNTH_FLOAT, {"conv", "width"}, LFM2_CONV},
                                    {"shortconv.out_proj.weight", SYNTH_MATRIX, {"width", "width"}, LFM2_CONV},
                                    TENSORS_END};
static const synth_tensor LFM2_BACK[] = {{"output.weight", SYNTH_MORE, {"width", "vocab"}, "tied = 0"}, TENSORS_END};

#define QWEN35_ATTENTION "l % every = every - 1"
#define DELTA "(" QWEN35_ATTENTION ") = 0"
#define DELTA_CONV "inner + 2 * groups * state"
static const synth_tensor QWEN35[] = {{"attn_norm.weight", SYNTH_NORM, {"width"}, NULL},
                                      {"attn_q.weight", SYNTH_MATRIX, {"width", "2 * " QUERY}, QWEN35_ATTENTION},
                                      {"attn_k.weight", SYNTH_MATRIX, {"width", KEY}, QWEN35_ATTENTION},
                                      {"attn_v.weight", SYNTH_MIXED, {"width", KEY}, QWEN35_ATTENTION},
                                      {"attn_q_norm.weight", SYNTH_NORM, {"head_dim"}, QWEN35_ATTENTION},
                                      {"attn_k_norm.weight", SYNTH_NORM, {"head_dim"}, QWEN35_ATTENTION},
                                      {"attn_output.weight", SYNTH_MATRIX, {QUERY, "width"}, QWEN35_ATTENTION},
                                      {"attn_qkv.weight", SYNTH_MATRIX, {"width", DELTA_CONV}, DELTA},
                                      {"attn_gate.weight", SYNTH_MATRIX, {"width", "inner"}, DELTA},
                                      {"ssm_conv1d.weight", SYNTH_FLOAT, {"conv", DELTA_CONV}, DELTA},
                                      {"ssm_dt.bias", SYNTH_BIAS, {"ssm_heads"}, DELTA},
                                      {"ssm_a", SYNTH_MINUS, {"ssm_heads"}, DELTA},
                                      {"ssm_alpha.weight", SYNTH_FLOAT, {"width", "ssm_heads"}, DELTA},
                                      {"ssm_beta.weight", SYNTH_FLOAT, {"width", "ssm_heads"}, DELTA},
                                      {"ssm_norm.weight", SYNTH_NORM, {"state"}, DELTA},
                                      {"ssm_out.weight", SYNTH_MATRIX, {"inner", "width"}, DELTA},
                                      TENSORS_END};

#define MAMBA2_CONV "inner + 2 * groups * state"
#define MAMBA2_ROWS(when) \
    {"ssm_in.weight", SYNTH_MATRIX, {"width", "inner + " MAMBA2_CONV " + ssm_heads"}, when}, \
    {"ssm_conv1d.weight", SYNTH_FLOAT, {"conv", MAMBA2_CONV}, when}, {"ssm_conv1d.bias", SYNTH_BIAS, {MAMBA2_CONV}, when}, \
    {"ssm_dt.bias", SYNTH_BIAS, {"ssm_heads"}, when}, {"ssm_a", SYNTH_MINUS, {"1", "ssm_heads"}, when}, \
    {"ssm_d", SYNTH_NORM, {"1", "ssm_heads"}, when}, {"ssm_norm.weight", SYNTH_NORM, {"inner / groups", "groups"}, when}, \
    {"ssm_out.weight", SYNTH_MATRIX, {"inner", "width"}, when}
static const synth_tensor MAMBA2[] = {{"attn_norm.weight", SYNTH_NORM, {"width"}, NULL}, MAMBA2_ROWS(NULL), TENSORS_END};
static const synth_tensor GRANITE_HYBRID[] = {{"attn_norm.weight", SYNTH_NORM, {"width"}, NULL},
                                              {"attn_q.weight", SYNTH_MATRIX, {"width", QUERY}, GRANITE_ATTENTION},
                                              {"attn_k.weight", SYNTH_MATRIX, {"width", KEY}, GRANITE_ATTENTION},
                                              {"attn_v.weight", SYNTH_MIXED, {"width", KEY}, GRANITE_ATTENTION},
                                              {"attn_output.weight", SYNTH_MATRIX, {QUERY, "width"}, GRANITE_ATTENTION},
                                              MAMBA2_ROWS("(" GRANITE_ATTENTION ") = 0"),
                                              TENSORS_END};

static const synth_tensor RWKV_FRONT[] = {{"token_embd.weight", SYNTH_EMBED, {"width", "vocab"}, NULL},
                                          {"token_embd_norm.weight", SYNTH_NORM, {"width"}, NULL},
                                          {"token_embd_norm.bias", SYNTH_BIAS, {"width"}, NULL},
                                          TENSORS_END};
#define VALUE_RANK "value_rank + (l = 0) * (rate_rank - value_rank)"
static const synth_tensor RWKV7[] = {{"attn_norm.weight", SYNTH_NORM, {"width"}, NULL},
                                     {"attn_norm.bias", SYNTH_BIAS, {"width"}, NULL},
                                     {"attn_norm_2.weight", SYNTH_NORM, {"width"}, NULL},
                                     {"attn_norm_2.bias", SYNTH_BIAS, {"width"}, NULL},
                                     {"time_mix_w0.weight", SYNTH_BIAS, {"width"}, NULL},
                                     {"time_mix_w1.weight", SYNTH_FLOAT, {"width", "decay_rank"}, NULL},
                                     {"time_mix_w2.weight", SYNTH_FLOAT, {"decay_rank", "width"}, NULL},
                                     {"time_mix_a0.weight", SYNTH_BIAS, {"width"}, NULL},
                                     {"time_mix_a1.weight", SYNTH_FLOAT, {"width", "rate_rank"}, NULL},
                                     {"time_mix_a2.weight", SYNTH_FLOAT, {"rate_rank", "width"}, NULL},
                                     {"time_mix_v0.weight", SYNTH_BIAS, {"width"}, NULL},
                                     {"time_mix_v1.weight", SYNTH_FLOAT, {"width", VALUE_RANK}, NULL},
                                     {"time_mix_v2.weight", SYNTH_FLOAT, {VALUE_RANK, "width"}, NULL},
                                     {"time_mix_g1.weight", SYNTH_FLOAT, {"width", "gate_rank"}, NULL},
                                     {"time_mix_g2.weight", SYNTH_FLOAT, {"gate_rank", "width"}, NULL},
                                     {"time_mix_lerp_fused.weight", SYNTH_BIAS, {"width", "1", "1", "6"}, NULL},
                                     {"time_mix_k_k.weight", SYNTH_NORM, {"width"}, NULL},
                                     {"time_mix_k_a.weight", SYNTH_NORM, {"width"}, NULL},
                                     {"time_mix_r_k.weight", SYNTH_BIAS, {"width"}, NULL},
                                     {"time_mix_key.weight", SYNTH_MATRIX, {"width", "width"}, NULL},
                                     {"time_mix_value.weight", SYNTH_MATRIX, {"width", "width"}, NULL},
                                     {"time_mix_receptance.weight", SYNTH_MATRIX, {"width", "width"}, NULL},
                                     {"time_mix_ln.weight", SYNTH_NORM, {"width"}, NULL},
                                     {"time_mix_ln.bias", SYNTH_BIAS, {"width"}, NULL},
                                     {"time_mix_output.weight", SYNTH_MATRIX, {"width", "width"}, NULL},
                                     {"channel_mix_lerp_k.weight", SYNTH_BIAS, {"width"}, NULL},
                                     {"channel_mix_key.weight", SYNTH_MATRIX, {"width", "ffn"}, NULL},
                                     {"channel_mix_value.weight", SYNTH_MIXED, {"ffn", "width"}, NULL},
                                     TENSORS_END};

static const synth_tensor GEMMA3N_FRONT[] = {
    {"token_embd.weight", SYNTH_EMBED, {"width", "vocab"}, NULL},
    {"altup_proj.weight", SYNTH_MATRIX, {"width", "width", "streams - 1"}, NULL},
    {"altup_unembd_proj.weight", SYNTH_MATRIX, {"width", "width", "streams - 1"}, NULL},
    {"per_layer_token_embd.weight", SYNTH_MATRIX, {"layer_width * layers", "vocab"}, NULL},
    {"per_layer_model_proj.weight", SYNTH_MATRIX, {"width", "layer_width * layers"}, NULL},
    {"per_layer_proj_norm.weight", SYNTH_NORM, {"layer_width"}, NULL},
    TENSORS_END};
static const synth_tensor GEMMA3N[] = {{"inp_gate.weight", SYNTH_MATRIX, {"width", "layer_width"}, NULL},
                                       {"proj.weight", SYNTH_MATRIX, {"layer_width", "width"}, NULL},
                                       {"post_norm.weight", SYNTH_NORM, {"width"}, NULL},
                                       {"altup_correct_coef.weight", SYNTH_FLOAT, {"streams", "streams"}, NULL},
                                       {"altup_correct_scale.weight", SYNTH_NORM, {"width"}, NULL},
                                       {"altup_predict_coef.weight", SYNTH_FLOAT, {"streams", "streams * streams"}, NULL},
                                       {"altup_router.weight", SYNTH_FLOAT, {"width", "streams"}, NULL},
                                       {"altup_router_norm.weight", SYNTH_NORM, {"width"}, NULL},
                                       {"laurel_l.weight", SYNTH_MATRIX, {"width", "64"}, NULL},
                                       {"laurel_r.weight", SYNTH_MATRIX, {"64", "width"}, NULL},
                                       {"laurel_post_norm.weight", SYNTH_NORM, {"width"}, NULL},
                                       TENSORS_END};

/* ---- architectures and shapes ---------------------------------------------------------------------- */

static const synth_family FAMILIES[] = {
    {"llama", {GENERAL, USUAL_KEYS}, FRONT, {ATTENTION, ATTENTION_OUT, FFN_NORM, FFN}, BACK},
    {"qwen2", {GENERAL, USUAL_KEYS}, FRONT, {ATTENTION, QKV_BIAS, ATTENTION_OUT, FFN_NORM, FFN}, BACK},
    {"qwen3", {GENERAL, USUAL_KEYS}, FRONT, {ATTENTION, HEAD_NORMS, ATTENTION_OUT, FFN_NORM, FFN}, BACK},
    {"qwen3moe", {GENERAL, USUAL_KEYS}, FRONT, {ATTENTION, HEAD_NORMS, ATTENTION_OUT, FFN_NORM, FFN}, BACK},
    {"olmoe", {GENERAL, USUAL_KEYS}, FRONT, {ATTENTION, ROW_NORMS, ATTENTION_OUT, FFN_NORM, FFN}, BACK},
    {"gpt-oss", {GENERAL, GPT_OSS_KEYS}, FRONT,
     {ATTENTION, QKV_BIAS, ATTENTION_OUT, SINKS, AFTER_ATTENTION, FFN, EXPERT_BIASES}, BACK},
    {"gemma3", {GENERAL, USUAL_KEYS}, FRONT,
     {ATTENTION, HEAD_NORMS, ATTENTION_OUT, AFTER_ATTENTION, FFN_NORM, FFN, AFTER_FFN}, BACK},
    {"gpt2", {GENERAL, GPT2_KEYS}, GPT2_FRONT, {GPT2}, GPT2_BACK},
    {"deepseek2", {GENERAL, DEEPSEEK2_KEYS}, EMBEDDING, {LATENT, ATTENTION_OUT, FFN_NORM, FFN, SHARED_FFN}, BACK},
    {"lfm2", {GENERAL, LFM2_KEYS}, LFM2_FRONT, {LFM2, FFN_NORM, FFN}, LFM2_BACK},
    {"qwen35", {GENERAL, QWEN35_KEYS}, EMBEDDING, {QWEN35, AFTER_ATTENTION, FFN}, BACK},
    {"qwen35moe", {GENERAL, QWEN35_KEYS}, EMBEDDING, {QWEN35, AFTER_ATTENTION, FFN, SHARED_FFN, SHARED_GATE}, BACK},
    {"granitehybrid", {GENERAL, GRANITE_HYBRID_KEYS}, EMBEDDING, {GRANITE_HYBRID, FFN_NORM, FFN, SHARED_FFN}, BACK},
    {"mamba2", {GENERAL, MAMBA2_KEYS}, EMBEDDING, {MAMBA2}, BACK},
    {"rwkv7", {GENERAL, RWKV7_KEYS}, RWKV_FRONT, {RWKV7}, GPT2_BACK},
    {"gemma3n", {GENERAL, GEMMA3N_KEYS}, GEMMA3N_FRONT,
     {ATTENTION, HEAD_NORMS, ATTENTION_OUT, AFTER_ATTENTION, FFN_NORM, FFN, AFTER_FFN, GEMMA3N}, BACK},
    {"bert", {GENERAL, BERT_KEYS}, BERT_FRONT, {BERT, NORMS_AFTER}, NOTHING},
    {"nomic-bert", {GENERAL, NOMIC_BERT_KEYS}, NOMIC_FRONT, {NOMIC, NORMS_AFTER}, NOTHING},
};
enum { N_FAMILIES = (int)(sizeof FAMILIES / sizeof FAMILIES[0]) };

/* From the models' published configurations. Without a number: kv_heads = heads, head_dim = width / heads, expert_ffn = ffn.
 * tied: the embedding is the output matrix. rope_factor: Llama 3's scaling through rope_freqs, YaRN's in deepseek2. */
static const struct {
    const char *name, *arch, *vars;
} SHAPES[] = {
    {"stories15m", "llama", "layers=6,width=288,heads=6,head_dim=48,ffn=768,vocab=32000,context=256,tied=1"},
    {"smollm2-135m", "llama",
     "layers=30,width=576,heads=9,kv_heads=3,head_dim=64,ffn=1536,vocab=49152,context=8192,tied=1,rope_base=1e5"},
    {"tinyllama-1.1b", "llama", "layers=22,width=2048,heads=32,kv_heads=4,head_dim=64,ffn=5632,vocab=32000,context=2048"},
    {"llama3.2-1b", "llama",
     "layers=16,width=2048,heads=32,kv_heads=8,head_dim=64,ffn=8192,vocab=128256,context=131072,tied=1,rope_base=5e5,rope_factor=32"},
    {"llama3.2-3b", "llama",
     "layers=28,width=3072,heads=24,kv_heads=8,head_dim=128,ffn=8192,vocab=128256,context=131072,tied=1,rope_base=5e5,rope_factor=32"},
    {"llama3.1-8b", "llama",
     "layers=32,width=4096,heads=32,kv_heads=8,head_dim=128,ffn=14336,vocab=128256,context=131072,rope_base=5e5,rope_factor=8"},
    {"mixtral-8x7b", "llama",
     "layers=32,width=4096,heads=32,kv_heads=8,head_dim=128,ffn=14336,vocab=32000,context=32768,experts=8,experts_used=2,rope_base=1e6"},
    {"qwen2.5-0.5b", "qwen2",
     "layers=24,width=896,heads=14,kv_heads=2,head_dim=64,ffn=4864,vocab=151936,context=32768,tied=1,rope_base=1e6,eps=1e-6"},
    {"qwen3-0.6b", "qwen3",
     "layers=28,width=1024,heads=16,kv_heads=8,head_dim=128,ffn=3072,vocab=151936,context=40960,tied=1,rope_base=1e6,eps=1e-6"},
    {"qwen3-4b", "qwen3",
     "layers=36,width=2560,heads=32,kv_heads=8,head_dim=128,ffn=9728,vocab=151936,context=40960,tied=1,rope_base=1e6,eps=1e-6"},
    {"qwen3-8b", "qwen3",
     "layers=36,width=4096,heads=32,kv_heads=8,head_dim=128,ffn=12288,vocab=151936,context=40960,rope_base=1e6,eps=1e-6"},
    {"qwen3-30b-a3b", "qwen3moe",
     "layers=48,width=2048,heads=32,kv_heads=4,head_dim=128,ffn=6144,vocab=151936,context=40960,experts=128,experts_used=8,"
     "expert_ffn=768,rope_base=1e6,eps=1e-6"},
    {"olmoe-1b-7b", "olmoe",
     "layers=16,width=2048,heads=16,head_dim=128,ffn=1024,vocab=50304,context=4096,experts=64,experts_used=8"},
    {"gpt-oss-20b", "gpt-oss",
     "layers=24,width=2880,heads=64,kv_heads=8,head_dim=64,ffn=2880,vocab=201088,context=131072,experts=32,experts_used=4,"
     "window=128,rope_base=1.5e5"},
    {"gemma3-270m", "gemma3",
     "layers=18,width=640,heads=4,kv_heads=1,head_dim=256,ffn=2048,vocab=262144,context=32768,tied=1,window=512,rope_base=1e6,eps=1e-6"},
    {"gemma3-1b", "gemma3",
     "layers=26,width=1152,heads=4,kv_heads=1,head_dim=256,ffn=6912,vocab=262144,context=32768,tied=1,window=512,rope_base=1e6,eps=1e-6"},
    {"gpt2", "gpt2", "layers=12,width=768,heads=12,head_dim=64,ffn=3072,vocab=50257,context=1024,tied=1"},
    {"deepseek-v2-lite", "deepseek2",
     "layers=27,width=2048,heads=16,head_dim=128,rope_dim=64,kv_lora=512,ffn=10944,vocab=102400,context=163840,experts=64,"
     "experts_used=6,expert_ffn=1408,shared=2,shared_ffn=2816,dense_layers=1,eps=1e-6,rope_factor=40,yarn_log=0.0707"},
    {"lfm2-1.2b", "lfm2",
     "layers=16,width=2048,heads=32,kv_heads=8,head_dim=64,ffn=8192,vocab=65536,context=128000,conv=3,tied=1,rope_base=1e6"},
    {"qwen3.5-0.8b", "qwen35",
     "layers=24,width=1024,heads=8,kv_heads=2,head_dim=256,rope_dim=64,ffn=3584,vocab=248320,context=262144,every=4,inner=2048,"
     "state=128,groups=16,ssm_heads=16,conv=4,tied=1,rope_base=1e7,eps=1e-6"},
    {"granite-4-h-tiny", "granitehybrid",
     "layers=40,width=1536,heads=12,kv_heads=4,head_dim=128,ffn=512,vocab=100352,context=131072,experts=64,experts_used=6,"
     "shared_ffn=1024,inner=3072,state=128,groups=1,ssm_heads=48,conv=4,tied=1"},
    {"mamba2-1.3b", "mamba2",
     "layers=48,width=2048,heads=1,ffn=0,vocab=50288,context=1048576,inner=4096,state=128,groups=1,ssm_heads=64,conv=4,tied=1"},
    {"rwkv7-1.5b", "rwkv7",
     "layers=24,width=2048,heads=32,head_dim=64,ffn=8192,vocab=65536,context=1048576,decay_rank=96,rate_rank=96,value_rank=64,"
     "gate_rank=256"},
    {"minilm-l6", "bert", "layers=6,width=384,heads=12,ffn=1536,vocab=30522,context=512,pooling=1,eps=1e-12"},
    {"bge-base", "bert", "layers=12,width=768,heads=12,ffn=3072,vocab=30522,context=512,pooling=2,eps=1e-12"},
    {"nomic-embed", "nomic-bert",
     "layers=12,width=768,heads=12,ffn=3072,vocab=30522,context=2048,pooling=1,eps=1e-12,rope_base=1000"},
    {"gemma-3n-e2b", "gemma3n",
     "layers=30,width=2048,heads=8,kv_heads=2,head_dim=256,ffn=8192,vocab=262144,context=32768,layer_width=256,streams=4,tied=1,"
     "window=512,rope_base=1e6,eps=1e-6"},
};
enum { N_SHAPES = (int)(sizeof SHAPES / sizeof SHAPES[0]) };
/* Where key=value,... starts from; these names are there for any architecture. */
static const char PLAIN[] = "layers=2,width=64,heads=4,kv_heads=0,head_dim=0,ffn=128,vocab=512,context=256,tied=0,experts=0,experts_used=0,"
                            "expert_ffn=0,window=0,rope_base=1e4,rope_factor=0,eps=1e-5";

/* ---- formulas -------------------------------------------------------------------------------------- */

double synth_get(const synth_shape *s, const char *name) {
    int i;
    for (i = 0; i < s->n_vars; i++) {
        if (strcmp(s->vars[i].name, name) == 0) return s->vars[i].value;
    }
    return 0;
}

typedef struct formula {
    const synth_shape *s;
    const char *at;
    int64_t layer;
} formula;

static double comparison(formula *f);

static char operator_at(formula *f) {
    while (*f->at == ' ') f->at++;
    return *f->at;
}

static double operand(formula *f) {
    char name[16], *end;
    size_t n = 0;
    double x;
    if (operator_at(f) == '(') {
        f->at++;
        x = comparison(f);
        f->at += operator_at(f) == ')';
        return x;
    }
    if (*f->at >= '0' && *f->at <= '9') {
        x = strtod(f->at, &end);
        f->at = end;
        return x;
    }
    while (((*f->at >= 'a' && *f->at <= 'z') || *f->at == '_') && n + 1 < sizeof name) name[n++] = *f->at++;
    name[n] = 0;
    return strcmp(name, "l") == 0 ? (double)f->layer : synth_get(f->s, name);
}

static double product(formula *f) {
    double x = operand(f), y;
    char op;
    while ((op = operator_at(f)) == '*' || op == '/' || op == '%') {
        f->at++;
        y = operand(f);
        x = op == '*' ? x * y : y == 0 ? 0 : op == '/' ? floor(x / y) : fmod(x, y);
    }
    return x;
}

static double sum(formula *f) {
    double x = product(f), y;
    char op;
    while ((op = operator_at(f)) == '+' || op == '-') {
        f->at++;
        y = product(f);
        x = op == '+' ? x + y : x - y;
    }
    return x;
}

static double comparison(formula *f) {
    double x = sum(f), y;
    char op;
    while ((op = operator_at(f)) == '=' || op == '<') {
        f->at++;
        y = sum(f);
        x = op == '=' ? x == y : x < y;
    }
    return x;
}

double synth_value(const synth_shape *s, const char *text, int64_t layer) {
    formula f;
    f.s = s;
    f.at = text;
    f.layer = layer;
    return comparison(&f);
}

/* ---- a shape from text ----------------------------------------------------------------------------- */

static synth_var *find_var(synth_shape *s, const char *name, size_t n) {
    int i;
    for (i = 0; i < s->n_vars; i++) {
        if (strlen(s->vars[i].name) == n && memcmp(s->vars[i].name, name, n) == 0) return &s->vars[i];
    }
    return NULL;
}

static const synth_family *find_family(const char *arch, size_t n) {
    int i;
    for (i = 0; i < N_FAMILIES; i++) {
        if (strlen(FAMILIES[i].arch) == n && memcmp(FAMILIES[i].arch, arch, n) == 0) return &FAMILIES[i];
    }
    return NULL;
}

/* One key=value of n bytes; add: of our own tables, which may name new numbers. Returns 0 after saying what is wrong. */
static int set_var(synth_shape *s, const char *text, size_t n, int add) {
    const char *equals = memchr(text, '=', n);
    size_t key = equals ? (size_t)(equals - text) : n;
    synth_var *var = equals ? find_var(s, text, key) : NULL;
    int fraction = equals && (strncmp(text, "rope_base=", 10) == 0 || strncmp(text, "rope_factor=", 12) == 0 ||
                              strncmp(text, "eps=", 4) == 0 || strncmp(text, "yarn_log=", 9) == 0);
    char *end;
    double x;
    if (equals && key == 4 && memcmp(text, "arch", 4) == 0) {
        const synth_family *f = find_family(equals + 1, n - key - 1);
        if (f)
            s->family = f;
        else
            cli_usage_error("synth", "there is no shape for architecture '%.*s'", (int)(n - key - 1), equals + 1);
        return f != NULL;
    }
    x = equals ? strtod(equals + 1, &end) : 0;
    if (equals == NULL || end != text + n) {
        cli_usage_error("synth", "'%.*s' is neither a shape (--list) nor key=value", (int)n, text);
        return 0;
    }
    if (!var && add && key < sizeof s->vars[0].name && s->n_vars < (int)(sizeof s->vars / sizeof s->vars[0])) {
        var = &s->vars[s->n_vars++];
        memcpy(var->name, text, key);
        var->name[key] = 0;
    }
    if (!var || !(x >= 0 && x <= (1 << 30)) || (!fraction && x != (double)(int64_t)x) ||
        (x == 0 && strncmp(text, "rope_base=", 10) == 0)) {
        cli_usage_error("synth", "'%.*s': no such key, or a value out of range", (int)n, text);
        return 0;
    }
    var->value = x;
    return 1;
}

/* key=value,...; NAME may stand first. */
static int set_vars(synth_shape *s, const char *text, int add) {
    int first = !add, i;
    while (*text) {
        const char *comma = strchr(text, ',');
        size_t n = comma ? (size_t)(comma - text) : strlen(text);
        int named = 0;
        for (i = 0; first && i < N_SHAPES; i++) {
            if (strlen(SHAPES[i].name) != n || memcmp(SHAPES[i].name, text, n) != 0) continue;
            s->name = SHAPES[i].name;
            s->family = find_family(SHAPES[i].arch, strlen(SHAPES[i].arch));
            if (!set_vars(s, SHAPES[i].vars, 1)) return 0;
            named = 1;
        }
        if (!named && !set_var(s, text, n, add)) return 0;
        first = 0;
        text += n + (comma ? 1 : 0);
    }
    return 1;
}

/* Where 0 stands for what another number says. */
static void set_default(synth_shape *s, const char *name, double value) {
    synth_var *var = find_var(s, name, strlen(name));
    if (var && var->value == 0) var->value = value;
}

int synth_parse(const char *text, synth_shape *s) {
    double heads, experts;
    memset(s, 0, sizeof *s);
    s->name = "plain";
    s->family = &FAMILIES[0];
    if (!set_vars(s, PLAIN, 1) || !set_vars(s, text, 0)) return 0;
    heads = synth_get(s, "heads");
    experts = synth_get(s, "experts");
    if (heads < 1 || synth_get(s, "width") < 1 || synth_get(s, "layers") < 1 || synth_get(s, "vocab") < 1 ||
        synth_get(s, "context") < 1) {
        cli_usage_error("synth", "layers, width, heads, vocab and context are at least 1");
        return 0;
    }
    set_default(s, "kv_heads", heads);
    set_default(s, "head_dim", floor(synth_get(s, "width") / heads));
    set_default(s, "expert_ffn", synth_get(s, "ffn"));
    if (experts > 0) set_default(s, "experts_used", experts < 2 ? experts : 2);
    if (fmod(heads, synth_get(s, "kv_heads")) != 0 || fmod(synth_get(s, "head_dim"), 2) != 0 ||
        synth_get(s, "experts_used") > experts) {
        cli_usage_error("synth", "kv_heads must divide heads, head_dim be even, experts_used be at most experts");
        return 0;
    }
    return 1;
}

void synth_list_shapes(void) {
    int i, k;
    synth_shape s;
    for (i = 0; i < N_SHAPES; i++) {
        char experts[48] = "";
        if (!synth_parse(SHAPES[i].name, &s)) continue;
        if (synth_get(&s, "experts") > 0)
            snprintf(experts, sizeof experts, ", %.0f experts of which %.0f", synth_get(&s, "experts"), synth_get(&s, "experts_used"));
        printf("%-16s %-13s %2.0f layers, width %.0f, %.0f/%.0f heads of %.0f, ffn %.0f, vocabulary %.0f%s\n", SHAPES[i].name,
               SHAPES[i].arch, synth_get(&s, "layers"), synth_get(&s, "width"), synth_get(&s, "heads"), synth_get(&s, "kv_heads"),
               synth_get(&s, "head_dim"), synth_get(&s, experts[0] ? "expert_ffn" : "ffn"), synth_get(&s, "vocab"), experts);
    }
    printf("\nkeys: arch (");
    for (i = 0; i < N_FAMILIES; i++) printf("%s%s", i ? " " : "", FAMILIES[i].arch);
    printf("),\n     ");
    if (!synth_parse("", &s)) return;
    for (k = 0; k < s.n_vars; k++) printf(" %s%s", s.vars[k].name, k + 1 < s.n_vars ? "," : "");
    printf("\n      and the numbers that a named shape has beyond these\n");
}
