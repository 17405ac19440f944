/* families.c: a row for each class of model that config.json may name. Facts: the models' own code in transformers, and the tensors
 * and keys of the files that llama.cpp's converter makes of them (docs/architectures.md). */
#include "families.h"

#include <string.h>

#define END_KEYS {NULL, 0, NULL, 0}
#define END_NAMES {NULL, NULL, 0}

#define ROTARY(share) {"rope.dimension_count", KEY_ROTARY, "partial_rotary_factor|rotary_pct|rope_parameters.partial_rotary_factor", share}

static const key_row VOCAB[] = {{"vocab_size", KEY_INT, "vocab_size", NO_DEFAULT}, END_KEYS};
static const key_row LLAMA[] = {{"vocab_size", KEY_INT, "vocab_size", NO_DEFAULT}, ROTARY(1), END_KEYS};
static const key_row HALF_ROTARY[] = {ROTARY(0.5), END_KEYS};
static const key_row QWEN_MOE[] = {
    {"expert_feed_forward_length", KEY_INT, "moe_intermediate_size", NO_DEFAULT},
    {"expert_shared_feed_forward_length", KEY_INT, "shared_expert_intermediate_size", NO_DEFAULT},
    END_KEYS,
};
static const key_row GEMMA2[] = {
    {"attn_logit_softcapping", KEY_FLOAT, "attn_logit_softcapping", NO_DEFAULT},
    {"final_logit_softcapping", KEY_FLOAT, "final_logit_softcapping", NO_DEFAULT},
    {"attention.sliding_window", KEY_INT, "sliding_window", NO_DEFAULT},
    END_KEYS,
};
/* A config of a model with images leaves out what transformers has as defaults. */
static const key_row GEMMA3[] = {
    {"context_length", KEY_INT, "max_position_embeddings", 131072},
    {"attention.head_count", KEY_INT, "num_attention_heads", 8},
    {"attention.head_count_kv", KEY_INT, "num_key_value_heads", 4},
    {"attention.key_length", KEY_INT, "head_dim", 256},
    {"attention.value_length", KEY_INT, "head_dim", 256},
    {"attention.layer_norm_rms_epsilon", KEY_FLOAT, "rms_norm_eps", 1e-6},
    {"rope.freq_base", KEY_FLOAT, "rope_parameters.full_attention.rope_theta|rope_parameters.rope_theta|rope_theta", 1e6},
    {"final_logit_softcapping", KEY_FLOAT, "final_logit_softcapping", NO_DEFAULT},
    {"attention.sliding_window", KEY_INT, "sliding_window", NO_DEFAULT},
    END_KEYS,
};
static const key_row GPT_OSS[] = {
    {"attention.sliding_window", KEY_INT, "sliding_window", NO_DEFAULT},
    {"expert_feed_forward_length", KEY_INT, "intermediate_size", NO_DEFAULT},
    END_KEYS,
};
static const key_row GRANITE[] = {
    ROTARY(1),
    {"vocab_size", KEY_INT, "vocab_size", NO_DEFAULT},
    {"attention.scale", KEY_FLOAT, "attention_multiplier", NO_DEFAULT},
    {"embedding_scale", KEY_FLOAT, "embedding_multiplier", NO_DEFAULT},
    {"residual_scale", KEY_FLOAT, "residual_multiplier", NO_DEFAULT},
    {"logit_scale", KEY_FLOAT, "logits_scaling", NO_DEFAULT},
    {"expert_shared_feed_forward_length", KEY_INT, "shared_intermediate_size", NO_DEFAULT},
    END_KEYS,
};
static const key_row COHERE[] = {
    {"logit_scale", KEY_FLOAT, "logit_scale", NO_DEFAULT},
    {"rope.scaling.type", KEY_IS_TEXT, "none", 0},
    END_KEYS,
};
static const key_row COHERE2[] = {
    {"logit_scale", KEY_FLOAT, "logit_scale", NO_DEFAULT},
    {"attention.sliding_window", KEY_INT, "sliding_window", NO_DEFAULT},
    {"vocab_size", KEY_INT, "vocab_size", NO_DEFAULT},
    {"rope.scaling.type", KEY_IS_TEXT, "none", 0},
    ROTARY(1),
    END_KEYS,
};
static const key_row NEOX[] = {ROTARY(0.25), {"use_parallel_residual", KEY_BOOL, "use_parallel_residual", 1}, END_KEYS};
static const key_row OLMO[] = {
    {"attention.layer_norm_epsilon", KEY_IS_FLOAT, NULL, 1e-5},
    {"attention.clamp_kqv", KEY_FLOAT, "clip_qkv", NO_DEFAULT},
    END_KEYS,
};
static const key_row OLMO2[] = {{"attention.sliding_window", KEY_INT, "sliding_window", NO_DEFAULT}, END_KEYS};
static const key_row EXAONE4[] = {
    {"vocab_size", KEY_INT, "vocab_size", NO_DEFAULT},
    {"attention.sliding_window", KEY_INT, "sliding_window", NO_DEFAULT},
    END_KEYS,
};
static const key_row LFM2_MOE[] = {
    {"expert_feed_forward_length", KEY_INT, "moe_intermediate_size", NO_DEFAULT},
    {"leading_dense_block_count", KEY_INT, "num_dense_layers", NO_DEFAULT},
    {"expert_gating_func", KEY_IS_INT, NULL, 2},
    END_KEYS,
};
static const key_row MINIMAX_M2[] = {
    {"expert_feed_forward_length", KEY_INT, "intermediate_size", NO_DEFAULT},
    {"rope.dimension_count", KEY_INT, "rotary_dim", NO_DEFAULT},
    END_KEYS,
};
static const key_row MINIMAX[] = {
    {"residual_scale", KEY_FLOAT, "layernorm_full_attention_alpha|full_attn_alpha_factor", NO_DEFAULT},
    {"rope.dimension_count", KEY_INT, "rotary_dim", NO_DEFAULT},
    END_KEYS,
};
static const key_row T5[] = {
    {"context_length", KEY_INT, "n_positions", 512},
    {"decoder_block_count", KEY_INT, "num_decoder_layers", NO_DEFAULT},
    {"attention.key_length", KEY_INT, "d_kv", NO_DEFAULT},
    {"attention.value_length", KEY_INT, "d_kv", NO_DEFAULT},
    {"attention.relative_buckets_count", KEY_INT, "relative_attention_num_buckets", NO_DEFAULT},
    {"attention.layer_norm_rms_epsilon", KEY_FLOAT, "layer_norm_epsilon", NO_DEFAULT},
    {"decoder_start_token_id", KEY_INT, "decoder_start_token_id", NO_DEFAULT},
    END_KEYS,
};
static const key_row T5_ENCODER[] = {
    {"context_length", KEY_INT, "n_positions", 512},
    {"attention.key_length", KEY_INT, "d_kv", NO_DEFAULT},
    {"attention.value_length", KEY_INT, "d_kv", NO_DEFAULT},
    {"attention.relative_buckets_count", KEY_INT, "relative_attention_num_buckets", NO_DEFAULT},
    {"attention.layer_norm_rms_epsilon", KEY_FLOAT, "layer_norm_epsilon", NO_DEFAULT},
    END_KEYS,
};
static const key_row DISTILBERT[] = {{"attention.layer_norm_epsilon", KEY_IS_FLOAT, NULL, 1e-12}, END_KEYS};
static const key_row GPT2[] = {{"context_length", KEY_INT, "n_ctx|n_positions", NO_DEFAULT}, END_KEYS};

/* Norms behind the sublayers, as Gemma 2 has them. */
static const name_row AFTER[] = {{"post_attention_layernorm", "post_attention_norm", NAME_PLUS_1}, END_NAMES};
static const name_row GLM4[] = {
    {"post_self_attn_layernorm", "post_attention_norm", NAME_COPY},
    {"post_mlp_layernorm", "post_ffw_norm", NAME_COPY},
    END_NAMES,
};
static const name_row LFM2[] = {
    {"/embedding_norm", "token_embd_norm", NAME_COPY},
    {"operator_norm", "attn_norm", NAME_COPY},
    {"ffn_norm", "ffn_norm", NAME_COPY},
    {"conv.conv", "shortconv.conv", NAME_SQUEEZED},
    {"conv.in_proj", "shortconv.in_proj", NAME_COPY},
    {"conv.out_proj", "shortconv.out_proj", NAME_COPY},
    {"self_attn.q_layernorm", "attn_q_norm", NAME_COPY},
    {"self_attn.k_layernorm", "attn_k_norm", NAME_COPY},
    {"self_attn.out_proj", "attn_output", NAME_COPY},
    {"feed_forward.w1", "ffn_gate", NAME_COPY},
    {"feed_forward.w2", "ffn_down", NAME_COPY},
    {"feed_forward.w3", "ffn_up", NAME_COPY},
    {"feed_forward.gate", "ffn_gate_inp", NAME_COPY},
    {"feed_forward.expert_bias", "exp_probs_b.bias", NAME_COPY},
    {"feed_forward.experts.#.w1", "ffn_gate_exps", NAME_EXPERTS},
    {"feed_forward.experts.#.w2", "ffn_down_exps", NAME_EXPERTS},
    {"feed_forward.experts.#.w3", "ffn_up_exps", NAME_EXPERTS},
    {"feed_forward.experts.gate_up_proj", "ffn_gate_exps.weight|ffn_up_exps.weight", NAME_HALVES},
    {"feed_forward.experts.down_proj", "ffn_down_exps.weight", NAME_COPY},
    END_NAMES,
};
static const name_row GRANITE_DENSE[] = {
    {"shared_mlp.input_linear", "ffn_gate|ffn_up", NAME_HALVES},
    {"shared_mlp.output_linear", "ffn_down", NAME_COPY},
    END_NAMES,
};
static const name_row GRANITE_MOE[] = {
    {"block_sparse_moe.router.layer", "ffn_gate_inp", NAME_COPY},
    {"block_sparse_moe.input_linear", "ffn_gate_exps|ffn_up_exps", NAME_HALVES},
    {"block_sparse_moe.output_linear", "ffn_down_exps", NAME_COPY},
    {"shared_mlp.input_linear", "ffn_gate_shexp|ffn_up_shexp", NAME_HALVES},
    {"shared_mlp.output_linear", "ffn_down_shexp", NAME_COPY},
    END_NAMES,
};
static const name_row FEED_FORWARD[] = {
    {"pre_ff_layernorm", "ffn_norm", NAME_COPY},
    {"feed_forward.gate_proj", "ffn_gate", NAME_COPY},
    {"feed_forward.up_proj", "ffn_up", NAME_COPY},
    {"feed_forward.down_proj", "ffn_down", NAME_COPY},
    {"feed_forward.router", "ffn_gate_inp", NAME_COPY},
    {"feed_forward.shared_expert.gate_proj", "ffn_gate_shexp", NAME_COPY},
    {"feed_forward.shared_expert.up_proj", "ffn_up_shexp", NAME_COPY},
    {"feed_forward.shared_expert.down_proj", "ffn_down_shexp", NAME_COPY},
    {"feed_forward.experts.#.gate_proj", "ffn_gate_exps", NAME_EXPERTS},
    {"feed_forward.experts.#.up_proj", "ffn_up_exps", NAME_EXPERTS},
    {"feed_forward.experts.#.down_proj", "ffn_down_exps", NAME_EXPERTS},
    END_NAMES,
};
static const name_row MAMBA[] = {{"norm", "attn_norm", NAME_COPY}, END_NAMES};
static const name_row NEMOTRON_H[] = {
    {"norm", "attn_norm", NAME_COPY},
    {"mamba.q_proj", "attn_q", NAME_ROTARY_Q},
    {"mamba.k_proj", "attn_k", NAME_ROTARY_K},
    {"mamba.v_proj", "attn_v", NAME_COPY},
    {"mamba.o_proj", "attn_output", NAME_COPY},
    {"mamba.up_proj", "ffn_up", NAME_COPY},
    {"mamba.down_proj", "ffn_down", NAME_COPY},
    END_NAMES,
};
static const name_row STARCODER2[] = {
    {"mlp.c_fc", "ffn_up", NAME_COPY},
    {"mlp.c_proj", "ffn_down", NAME_COPY},
    END_NAMES,
};
static const name_row GPT2_NAMES[] = {
    {"/wte", "token_embd", NAME_COPY},
    {"/wpe", "position_embd", NAME_COPY},
    {"/ln_f", "output_norm", NAME_COPY},
    {"ln_1", "attn_norm", NAME_COPY},
    {"ln_2", "ffn_norm", NAME_COPY},
    {"attn.c_attn", "attn_qkv", NAME_TRANSPOSED},
    {"attn.c_proj", "attn_output", NAME_TRANSPOSED},
    {"mlp.c_fc", "ffn_up", NAME_TRANSPOSED},
    {"mlp.c_proj", "ffn_down", NAME_TRANSPOSED},
    {"attn", "", NAME_DROPPED}, /* attn.bias: the causal mask */
    END_NAMES,
};
static const name_row NEOX_NAMES[] = {
    {"/embed_in", "token_embd", NAME_COPY},
    {"/embed_out", "output", NAME_COPY},
    {"/final_layer_norm", "output_norm", NAME_COPY},
    {"attention.dense", "attn_output", NAME_COPY},
    {"mlp.dense_h_to_4h", "ffn_up", NAME_COPY},
    {"mlp.dense_4h_to_h", "ffn_down", NAME_COPY},
    {"attention", "", NAME_DROPPED}, /* attention.bias: the causal mask */
    END_NAMES,
};
static const name_row APERTUS[] = {
    {"mlp.act_fn.alpha_n", "", NAME_DROPPED}, /* keys */
    {"mlp.act_fn.alpha_p", "", NAME_DROPPED},
    {"mlp.act_fn.beta", "", NAME_DROPPED},
    {"mlp.act_fn.eps", "", NAME_DROPPED},
    {"attention_layernorm", "attn_norm", NAME_COPY},
    {"feedforward_layernorm", "ffn_norm", NAME_COPY},
    END_NAMES,
};
static const name_row QWEN_LINEAR[] = {
    {"post_attention_layernorm", "post_attention_norm", NAME_PLUS_1},
    {"linear_attn.norm", "ssm_norm", NAME_COPY},
    {"linear_attn.out_proj", "ssm_out", NAME_COPY},
    {"linear_attn.in_proj_ba", "ssm_ba", NAME_COPY},
    {"linear_attn.in_proj_a", "ssm_alpha", NAME_COPY},
    {"linear_attn.in_proj_b", "ssm_beta", NAME_COPY},
    {"linear_attn.in_proj_qkv", "attn_qkv", NAME_COPY},
    {"linear_attn.in_proj_z", "attn_gate", NAME_COPY},
    {"linear_attn.conv1d", "ssm_conv1d", NAME_SQUEEZED},
    {"linear_attn.dt_bias", "ssm_dt.bias", NAME_COPY},
    {"linear_attn.A_log", "ssm_a", NAME_NEG_EXP},
    END_NAMES,
};
static const name_row GEMMA4[] = {
    {"/embed_tokens_per_layer", "per_layer_token_embd", NAME_COPY},
    {"/per_layer_model_projection", "per_layer_model_proj", NAME_COPY},
    {"/per_layer_projection_norm", "per_layer_proj_norm", NAME_COPY},
    {"post_attention_layernorm", "post_attention_norm", NAME_COPY},
    {"per_layer_input_gate", "inp_gate", NAME_COPY},
    {"per_layer_projection", "proj", NAME_COPY},
    {"post_per_layer_input_norm", "post_norm", NAME_COPY},
    {"layer_scalar", "layer_output_scale.weight", NAME_COPY},
    {"router.proj", "ffn_gate_inp", NAME_COPY},
    {"router.scale", "ffn_gate_inp.scale", NAME_COPY},
    {"router.per_expert_scale", "ffn_down_exps.scale", NAME_COPY},
    {"experts.gate_up_proj", "ffn_gate_up_exps.weight", NAME_COPY},
    {"experts.down_proj", "ffn_down_exps.weight", NAME_COPY},
    {"pre_feedforward_layernorm_2", "pre_ffw_norm_2", NAME_COPY},
    {"post_feedforward_layernorm_1", "post_ffw_norm_1", NAME_COPY},
    {"post_feedforward_layernorm_2", "post_ffw_norm_2", NAME_COPY},
    {"altup.correct_output_scale", "altup_correct_scale.weight", NAME_COPY},
    {"altup.correction_coefs", "altup_correct_coef", NAME_COPY},
    {"altup.prediction_coefs", "altup_predict_coef", NAME_COPY},
    {"altup.modality_router", "altup_router", NAME_COPY},
    {"altup.router_norm", "altup_router_norm", NAME_COPY},
    {"laurel.linear_left", "laurel_l", NAME_COPY},
    {"laurel.linear_right", "laurel_r", NAME_COPY},
    {"laurel.post_laurel_norm", "laurel_post_norm", NAME_COPY},
    END_NAMES,
};
static const name_row MINIMAX_NAMES[] = {
    {"self_attn.norm", "attn_norm_2", NAME_COPY},
    {"self_attn.output_gate", "attn_gate", NAME_COPY},
    {"self_attn.out_proj", "attn_output", NAME_COPY},
    END_NAMES,
};
static const name_row BERT[] = {
    {"/embeddings.word_embeddings", "token_embd", NAME_COPY},
    {"/embeddings.token_type_embeddings", "token_types", NAME_COPY},
    {"/embeddings.LayerNorm", "token_embd_norm", NAME_COPY},
    {"/pooler.dense", "", NAME_DROPPED},
    {"/classifier.dense", "cls", NAME_COPY},
    {"/classifier.out_proj", "cls.output", NAME_COPY},
    {"/classifier", "cls.output", NAME_COPY},
    {"attention.self.query", "attn_q", NAME_COPY},
    {"attention.self.key", "attn_k", NAME_COPY},
    {"attention.self.value", "attn_v", NAME_COPY},
    {"attention.output.dense", "attn_output", NAME_COPY},
    {"attention.output.LayerNorm", "attn_output_norm", NAME_COPY},
    {"intermediate.dense", "ffn_up", NAME_COPY},
    {"output.dense", "ffn_down", NAME_COPY},
    {"output.LayerNorm", "layer_output_norm", NAME_COPY},
    {"attention.q_lin", "attn_q", NAME_COPY}, /* DistilBERT */
    {"attention.k_lin", "attn_k", NAME_COPY},
    {"attention.v_lin", "attn_v", NAME_COPY},
    {"attention.out_lin", "attn_output", NAME_COPY},
    {"sa_layer_norm", "attn_output_norm", NAME_COPY},
    {"ffn.lin1", "ffn_up", NAME_COPY},
    {"ffn.lin2", "ffn_down", NAME_COPY},
    {"output_layer_norm", "layer_output_norm", NAME_COPY},
    END_NAMES,
};
static const name_row NOMIC[] = {
    {"/embeddings.word_embeddings", "token_embd", NAME_COPY},
    {"/embeddings.token_type_embeddings", "token_types", NAME_COPY},
    {"/emb_ln", "token_embd_norm", NAME_COPY},
    {"attn.Wqkv", "attn_qkv", NAME_COPY},
    {"attn.out_proj", "attn_output", NAME_COPY},
    {"norm1", "attn_output_norm", NAME_COPY},
    {"norm2", "layer_output_norm", NAME_COPY},
    {"mlp.fc11", "ffn_up", NAME_COPY},
    {"mlp.fc12", "ffn_gate", NAME_COPY},
    {"mlp.fc1", "ffn_up", NAME_COPY},
    {"mlp.fc2", "ffn_down", NAME_COPY},
    {"mlp.router.layer", "ffn_gate_inp", NAME_COPY},
    END_NAMES,
};
static const name_row MODERNBERT[] = {
    {"/embeddings.tok_embeddings", "token_embd", NAME_COPY},
    {"/embeddings.norm", "token_embd_norm", NAME_COPY},
    {"/final_norm", "output_norm", NAME_COPY},
    {"/head.dense", "cls", NAME_COPY},
    {"/head.norm", "cls.norm", NAME_COPY},
    {"/classifier", "cls.output", NAME_COPY},
    {"attn_norm", "attn_norm", NAME_COPY},
    {"mlp_norm", "ffn_norm", NAME_COPY},
    {"attn.Wqkv", "attn_qkv", NAME_COPY},
    {"attn.Wo", "attn_output", NAME_COPY},
    {"mlp.Wi", "ffn_up", NAME_COPY},
    {"mlp.Wo", "ffn_down", NAME_COPY},
    END_NAMES,
};

static int has_experts(checkpoint *c) { return cfg_int(c, "num_local_experts|num_experts", 0) > 0; }
static int has_mamba_layers(checkpoint *c) {
    uint64_t i;
    for (i = 0; i < c->n_layers; i++) {
        const char *type = cfg_layer_type(c, i);
        if (type && strcmp(type, "mamba") == 0) return 1;
    }
    return 0;
}
static int is_moe_hybrid(checkpoint *c) { return has_experts(c) && has_mamba_layers(c); }
static int is_nomic_moe(checkpoint *c) { return cfg_int(c, "moe_every_n_layers", 0) > 0; }

static const family FAMILIES[] = {
    {"LlamaForCausalLM|LLaMAForCausalLM|MistralForCausalLM|MixtralForCausalLM|LlamaModel", "llama", NULL, ROTARY_PAIRS, LLAMA, NULL, NULL, NULL, rest_llama3},
    {"ArceeForCausalLM", "arcee", NULL, ROTARY_PAIRS, LLAMA, NULL, NULL, NULL, rest_llama3},
    {"SmolLM3ForCausalLM", "smollm3", NULL, ROTARY_PAIRS, LLAMA, NULL, keys_smollm3, NULL, rest_llama3},
    {"Qwen2ForCausalLM|Qwen2Model", "qwen2", NULL, 0, NULL, NULL, keys_pooling, NULL, NULL},
    {"Qwen3ForCausalLM|Qwen3Model", "qwen3", NULL, 0, NULL, NULL, keys_pooling, NULL, NULL},
    {"Qwen3VLForConditionalGeneration", "qwen3vl", NULL, 0, NULL, NULL, keys_qwen3_vl, NULL, NULL},
    {"Qwen2MoeForCausalLM", "qwen2moe", NULL, 0, QWEN_MOE, NULL, NULL, NULL, NULL},
    {"Qwen3MoeForCausalLM", "qwen3moe", NULL, 0, QWEN_MOE, NULL, NULL, NULL, NULL},
    {"Qwen3NextForCausalLM", "qwen3next", NULL, NORMS_PLUS_1 | NEXT_BLOCKS, QWEN_MOE, QWEN_LINEAR, keys_qwen_linear, tensor_qwen_linear, NULL},
    {"Qwen3_5ForCausalLM|Qwen3_5ForConditionalGeneration", "qwen35", NULL, NORMS_PLUS_1 | NEXT_BLOCKS | V_TILED, NULL, QWEN_LINEAR, keys_qwen_linear, tensor_qwen_linear, NULL},
    {"Qwen3_5MoeForCausalLM|Qwen3_5MoeForConditionalGeneration", "qwen35moe", NULL, NORMS_PLUS_1 | NEXT_BLOCKS | V_TILED, QWEN_MOE, QWEN_LINEAR, keys_qwen_linear, tensor_qwen_linear, NULL},
    {"GemmaForCausalLM", "gemma", NULL, NORMS_PLUS_1, NULL, NULL, NULL, NULL, NULL},
    {"Gemma2ForCausalLM", "gemma2", NULL, NORMS_PLUS_1, GEMMA2, AFTER, NULL, NULL, NULL},
    {"Gemma3ForCausalLM|Gemma3ForConditionalGeneration", "gemma3", NULL, NORMS_PLUS_1, GEMMA3, AFTER, NULL, NULL, NULL},
    {"Gemma3TextModel", "gemma-embedding", NULL, NORMS_PLUS_1, GEMMA3, AFTER, keys_pooling, NULL, NULL},
    {"Gemma3nForCausalLM|Gemma3nForConditionalGeneration", "gemma3n", NULL, 0, GEMMA3, GEMMA4, keys_gemma3n, tensor_gemma3n, rest_gemma3n},
    {"Gemma4ForCausalLM|Gemma4ForConditionalGeneration", "gemma4", NULL, 0, GEMMA3, GEMMA4, keys_gemma4, NULL, rest_gemma4},
    {"Phi3ForCausalLM", "phi3", NULL, 0, NULL, NULL, keys_phi3, NULL, rest_longrope},
    {"GptOssForCausalLM", "gpt-oss", NULL, 0, GPT_OSS, AFTER, NULL, tensor_gpt_oss, NULL},
    {"DeepseekV2ForCausalLM|DeepseekV3ForCausalLM", "deepseek2", NULL, 0, NULL, NULL, keys_deepseek2, tensor_deepseek2, NULL},
    {"Glm4ForCausalLM", "glm4", NULL, 0, HALF_ROTARY, GLM4, NULL, NULL, NULL},
    {"Glm4MoeForCausalLM", "glm4moe", NULL, NEXT_BLOCKS, NULL, AFTER, keys_glm4moe, NULL, NULL},
    {"Lfm2ForCausalLM", "lfm2", NULL, 0, NULL, LFM2, keys_lfm2, NULL, NULL},
    {"Lfm2MoeForCausalLM", "lfm2moe", NULL, 0, LFM2_MOE, LFM2, keys_lfm2, NULL, NULL},
    {"GraniteForCausalLM", "granite", NULL, ROTARY_PAIRS, GRANITE, NULL, NULL, NULL, rest_llama3},
    {"GraniteMoeForCausalLM|GraniteMoeSharedForCausalLM", "granitemoe", NULL, ROTARY_PAIRS, GRANITE, GRANITE_MOE, NULL, NULL, rest_llama3},
    {"GraniteMoeHybridForCausalLM", "granitehybrid", is_moe_hybrid, ROTARY_PAIRS, GRANITE, GRANITE_MOE, keys_granite_hybrid, tensor_mamba2, NULL},
    {"GraniteMoeHybridForCausalLM", "granitehybrid", has_mamba_layers, ROTARY_PAIRS, GRANITE, GRANITE_DENSE, keys_granite_hybrid, tensor_mamba2, NULL},
    {"GraniteMoeHybridForCausalLM", "granitemoe", has_experts, ROTARY_PAIRS, GRANITE, GRANITE_MOE, NULL, NULL, rest_llama3},
    {"GraniteMoeHybridForCausalLM", "granite", NULL, ROTARY_PAIRS, GRANITE, GRANITE_DENSE, NULL, NULL, rest_llama3},
    {"FalconH1ForCausalLM", "falcon-h1", NULL, 0, VOCAB, FEED_FORWARD, keys_falcon_h1, tensor_falcon_h1, NULL},
    {"Mamba2ForCausalLM", "mamba2", NULL, 0, NULL, MAMBA, keys_mamba2, tensor_mamba2, NULL},
    {"MambaForCausalLM|MambaLMHeadModel|FalconMambaForCausalLM", "mamba", NULL, 0, NULL, MAMBA, keys_mamba, NULL, NULL},
    {"JambaForCausalLM", "jamba", NULL, 0, NULL, FEED_FORWARD, keys_jamba, NULL, NULL},
    {"NemotronHForCausalLM", "nemotron_h", NULL, ROTARY_PAIRS, LLAMA, NEMOTRON_H, keys_nemotron_h, tensor_mamba2, NULL},
    {"OlmoForCausalLM|OLMoForCausalLM", "olmo", NULL, ROTARY_PAIRS, OLMO, NULL, NULL, NULL, NULL},
    {"Olmo2ForCausalLM|Olmo3ForCausalLM", "olmo2", NULL, 0, OLMO2, AFTER, keys_windows, NULL, NULL},
    {"OlmoeForCausalLM", "olmoe", NULL, 0, NULL, NULL, NULL, NULL, NULL},
    {"CohereForCausalLM", "command-r", NULL, 0, COHERE, NULL, NULL, NULL, NULL},
    {"Cohere2ForCausalLM", "cohere2", NULL, 0, COHERE2, NULL, NULL, NULL, NULL},
    {"Starcoder2ForCausalLM", "starcoder2", NULL, 0, NULL, STARCODER2, NULL, NULL, NULL},
    {"GPT2LMHeadModel", "gpt2", NULL, 0, GPT2, GPT2_NAMES, keys_gpt2, NULL, NULL},
    {"GPTNeoXForCausalLM", "gptneox", NULL, 0, NEOX, NEOX_NAMES, NULL, tensor_gptneox, NULL},
    {"ApertusForCausalLM", "apertus", NULL, 0, LLAMA, APERTUS, keys_apertus, NULL, rest_llama3},
    {"Exaone4ForCausalLM", "exaone4", NULL, 0, EXAONE4, AFTER, keys_windows, NULL, rest_llama3},
    {"Llama4ForCausalLM|Llama4ForConditionalGeneration", "llama4", NULL, 0, LLAMA, FEED_FORWARD, keys_llama4, tensor_llama4, rest_llama3},
    {"MiniMaxM2ForCausalLM", "minimax-m2", NULL, 0, MINIMAX_M2, NULL, NULL, NULL, NULL},
    {"MiniMaxText01ForCausalLM|MiniMaxM1ForCausalLM|MiniMaxForCausalLM", "minimax-01", NULL, 0, MINIMAX, MINIMAX_NAMES, NULL, NULL, NULL},
    {"BertModel|BertForMaskedLM|BertForSequenceClassification|CamembertModel", "bert", NULL, ENCODER, NULL, BERT, keys_bert, tensor_bert, NULL},
    {"DistilBertModel|DistilBertForMaskedLM|DistilBertForSequenceClassification", "bert", NULL, ENCODER, DISTILBERT, BERT, keys_bert, tensor_bert, NULL},
    {"RobertaModel|RobertaForSequenceClassification|XLMRobertaModel|XLMRobertaForSequenceClassification", "bert", NULL, ENCODER, NULL, BERT, keys_bert, tensor_bert, NULL},
    {"NomicBertModel", "nomic-bert-moe", is_nomic_moe, ENCODER, NULL, NOMIC, keys_nomic, tensor_nomic, NULL},
    {"NomicBertModel", "nomic-bert", NULL, ENCODER, NULL, NOMIC, keys_nomic, tensor_nomic, NULL},
    {"ModernBertModel|ModernBertForMaskedLM|ModernBertForSequenceClassification", "modern-bert", NULL, ENCODER, NULL, MODERNBERT, keys_modernbert, NULL, NULL},
    {"T5ForConditionalGeneration|T5WithLMHeadModel|MT5ForConditionalGeneration|UMT5ForConditionalGeneration|UMT5Model", "t5", NULL, 0, T5, NULL, NULL, tensor_t5, NULL},
    {"T5EncoderModel", "t5encoder", NULL, 0, T5_ENCODER, NULL, NULL, tensor_t5, NULL},
};

/* Is it one of the words, which | separates? */
static int is_word(const char *words, const char *name) {
    const size_t n = strlen(name);
    while (*words) {
        const size_t k = strcspn(words, "|");
        if (k == n && memcmp(words, name, n) == 0) return 1;
        words += k + (words[k] == '|');
    }
    return 0;
}

const family *family_of(checkpoint *c) {
    const infer_json *list = cfg(c, "architectures");
    const char *name = infer_json_string(infer_json_at(list, 0), NULL);
    size_t i;
    if (name == NULL) {
        cli_fail(c->command, "%s/config.json: \"architectures\" is missing: what kind of model is it?", c->folder);
        return NULL;
    }
    for (i = 0; i < sizeof FAMILIES / sizeof FAMILIES[0]; i++)
        if (is_word(FAMILIES[i].classes, name) && (FAMILIES[i].fits == NULL || FAMILIES[i].fits(c))) return &FAMILIES[i];
    cli_fail(c->command, "%s/config.json: models of the class %.80s cannot be converted", c->folder, name);
    return NULL;
}
