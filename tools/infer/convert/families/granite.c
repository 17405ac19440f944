/* granite.c: IBM Granite, with and without experts, windows and Mamba layers; Bamba. */
#include "families.h"

#include <string.h>

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
static const name_row GRANITE_MOE[] = {
    {"block_sparse_moe.router.layer", "ffn_gate_inp", NAME_COPY},
    {"block_sparse_moe.input_linear", "ffn_gate_exps|ffn_up_exps", NAME_HALVES},
    {"block_sparse_moe.output_linear", "ffn_down_exps", NAME_COPY},
    {"shared_mlp.input_linear", "ffn_gate_shexp|ffn_up_shexp", NAME_HALVES},
    {"shared_mlp.output_linear", "ffn_down_shexp", NAME_COPY},
    END_NAMES,
};
static const name_row GRANITE_DENSE[] = {
    {"shared_mlp.input_linear", "ffn_gate|ffn_up", NAME_HALVES},
    {"shared_mlp.output_linear", "ffn_down", NAME_COPY},
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

const family GRANITE_FAMILIES[] = {
    {.classes = "GraniteForCausalLM", .arch = "granite", .flags = ROTARY_PAIRS, .keys = GRANITE, .own_rest = rest_llama3},
    {.classes = "GraniteMoeForCausalLM|GraniteMoeSharedForCausalLM", .arch = "granitemoe", .flags = ROTARY_PAIRS,
     .keys = GRANITE, .names = GRANITE_MOE, .own_rest = rest_llama3},
    {.classes = "GraniteMoeHybridForCausalLM", .arch = "granitehybrid", .fits = is_moe_hybrid, .flags = ROTARY_PAIRS,
     .keys = GRANITE, .names = GRANITE_MOE, .own_keys = keys_granite_hybrid, .own_tensor = tensor_mamba2},
    {.classes = "GraniteMoeHybridForCausalLM", .arch = "granitehybrid", .fits = has_mamba_layers, .flags = ROTARY_PAIRS,
     .keys = GRANITE, .names = GRANITE_DENSE, .own_keys = keys_granite_hybrid, .own_tensor = tensor_mamba2},
    {.classes = "GraniteMoeHybridForCausalLM", .arch = "granitemoe", .fits = has_experts, .flags = ROTARY_PAIRS,
     .keys = GRANITE, .names = GRANITE_MOE, .own_rest = rest_llama3},
    {.classes = "GraniteMoeHybridForCausalLM", .arch = "granite", .flags = ROTARY_PAIRS, .keys = GRANITE,
     .names = GRANITE_DENSE, .own_rest = rest_llama3},
    {.classes = NULL},
};
