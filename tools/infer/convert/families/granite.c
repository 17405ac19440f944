/* granite.c: IBM Granite, with and without experts, windows and Mamba layers; Bamba. */
#include "families.h"

#include <stdlib.h>
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
static const name_row GRANITE_SWA_NAMES[] = {
    {"block_sparse_moe.router", "ffn_gate_inp", NAME_COPY},
    {"block_sparse_moe.experts.gate_up_proj", "ffn_gate_up_exps.weight", NAME_COPY},
    {"block_sparse_moe.experts.down_proj", "ffn_down_exps.weight", NAME_COPY},
    {"block_sparse_moe.input_linear", "ffn_gate_up_exps", NAME_COPY},
    {"block_sparse_moe.output_linear", "ffn_down_exps", NAME_COPY},
    {"shared_mlp.input_linear", "ffn_up_shexp", NAME_COPY},
    {"shared_mlp.output_linear", "ffn_down_shexp", NAME_COPY},
    END_NAMES,
};
static const key_row BAMBA[] = {ROTARY(0.5), {"vocab_size", KEY_INT, "vocab_size", NO_DEFAULT}, END_KEYS};
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

/* layer_rope_theta: a base for each layer, 0 = no rotation. One for full attention and one for windows is possible. */
static int keys_granite_swa(checkpoint *c) {
    const infer_json *bases = cfg(c, "layer_rope_theta");
    double of[2] = {0, 0};
    int *windows = cli_alloc(c->command, 2 * (size_t)c->n_layers + 1, sizeof *windows), *rotated = windows + c->n_layers, all = 1, ok = windows != NULL;
    uint64_t i;
    for (i = 0; ok && i < c->n_layers; i++) {
        const char *type = cfg_layer_type(c, i);
        const double base = bases ? infer_json_number(infer_json_at(bases, (size_t)i)) : 1;
        windows[i] = type ? strcmp(type, "sliding_attention") == 0 : i % 4 != 0;
        rotated[i] = base != 0;
        all = all && rotated[i];
        if (!rotated[i] || bases == NULL) continue;
        if (of[windows[i]] == 0) of[windows[i]] = base;
        ok = of[windows[i]] == base;
    }
    if (windows && !ok) cli_fail(c->command, "%s/config.json: layer_rope_theta with several bases for one type of layers is not supported", c->folder);
    if (ok) {
        key_int(c, "attention.sliding_window", cfg_int(c, "sliding_window", 128));
        key_bools(c, "attention.sliding_window_pattern", windows, c->n_layers);
        if (!all) key_bools(c, "attention.rope_pattern", rotated, c->n_layers);
        if (of[0] != 0) key_float(c, "rope.freq_base", of[0]);
        if (of[1] != 0 && of[1] != of[0]) key_float(c, "rope.freq_base_swa", of[1]);
    }
    free(windows);
    return ok;
}

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
    {.classes = "GraniteSWAForCausalLM|GraniteMoeSWAForCausalLM", .arch = "granite_swa", .flags = ROTARY_PAIRS, .keys = GRANITE,
     .names = GRANITE_SWA_NAMES, .own_keys = keys_granite_swa, .own_rest = rest_llama3},
    {.classes = "BambaForCausalLM", .arch = "granitehybrid", .flags = ROTARY_PAIRS, .keys = BAMBA, .names = FEED_FORWARD,
     .own_keys = keys_bamba, .own_tensor = tensor_mamba2},
    {.classes = NULL},
};
