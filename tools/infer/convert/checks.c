/* checks.c: what config.json may ask for and a GGUF file of the architecture cannot say. Such a model is refused, by the name in the config. */
#include "convert.h"

#include <stdlib.h>
#include <string.h>

/* ---- values --------------------------------------------------------------------------------------- */

/* Of models of these architectures ("!a|b": of all but these) what these names have, or each element of it, is one of these values. */
static const struct {
    const char *archs, *names, *fine;
} ROWS[] = {
    /* activations; that of the feed-forward network is the family's */
    {"nemotron_h|nemotron_h_moe", "mamba_hidden_act", "silu|swish"},
    {"gpt-oss", "swiglu_limit", "7"},
    {"gpt-oss", "swiglu_alpha", "1.702"},
    /* rotation */
    {"gpt-oss", "rope_parameters.truncate|rope_scaling.truncate", "false"},
    {"!gpt-oss", "rope_parameters.truncate|rope_scaling.truncate", "true"},
    {"deepseek2", "rope_interleave", "true"},
    {"falcon", "alibi", "false"},
    {"bert", "position_embedding_type", "absolute"},
    {"command-r|cohere2", "position_embedding_type", "rope_gptj"},
    {"t5|t5encoder", "relative_attention_max_distance", "128"},
    /* which positions are seen */
    {"qwen2|qwen3|qwen2vl|qwen2moe|qwen3moe|smollm3", "use_sliding_window", "false"},
    {"gemma|gemma2|gemma3", "use_bidirectional_attention", "false"},
    {"gemma4", "use_bidirectional_attention", "false|vision"},
    {"gemma-embedding", "use_bidirectional_attention", "true"},
    {"mpt", "attn_config.prefix_lm", "false"},
    {"llama4", "attention_chunk_size", "8192"},
    {"gemma3|gemma-embedding", "sliding_window_pattern|_sliding_window_pattern", "6"},
    {"cohere2", "sliding_window_pattern", "4"},
    {"afmoe", "global_attn_every_n_layers", "4"},
    {"bert", "is_decoder", "false"},
    {"bert|gpt2|starcoder", "add_cross_attention", "false"},
    /* scores and logits */
    {"gemma3|gemma3n|gemma4|gemma-embedding", "attn_logit_softcapping", "0"},
    {"gemma|gemma-embedding", "final_logit_softcapping", "0"},
    {"gpt2", "scale_attn_by_inverse_layer_idx", "false"},
    {"gpt2|starcoder", "scale_attn_weights", "true"},
    {"mpt", "attn_config.softmax_scale", "0"},
    {"mpt", "logit_scale", "0"},
    {"llama4", "floor_scale", "8192"},
    {"llama4", "attn_scale", "0.1"},
    {"minicpm3", "scale_emb", "12"},
    {"minicpm3", "scale_depth", "1.4"},
    {"minicpm3", "dim_model_base", "256"},
    /* blocks */
    {"bloom", "apply_residual_connection_post_layernorm", "false"},
    {"mpt", "attn_config.attn_type", "multihead_attention|grouped_query_attention|multiquery_attention"},
    {"mpt", "norm_type", "low_precision_layernorm|layernorm"},
    {"command-r|cohere2", "use_parallel_block", "true"},
    {"command-r|cohere2", "use_gated_activation", "true"},
    {"gemma3n", "altup_correct_scale", "true"},
    {"qwen3next|qwen35|qwen35moe", "attn_output_gate", "true"},
    {"hunyuan-dense|hunyuan-moe", "use_cla", "false"},
    {"ernie4_5|ernie4_5-moe", "use_bias", "false"}, /* biases that the engines leave out */
    {"falcon-h1", "attention_bias", "false"},
    {"minimax-01", "layernorm_full_attention_beta|full_attn_beta_factor", "1"},
    {"minimax-01", "layernorm_linear_attention_beta|linear_attn_beta_factor", "1"},
    {"minimax-01", "layernorm_mlp_beta|mlp_beta_factor", "1"},
    /* experts */
    {"lfm2moe|minimax-m2|minimax-01|hunyuan-moe", "norm_topk_prob", "true"},
    {"lfm2moe", "routed_scaling_factor", "1"},
    {"afmoe", "route_norm", "true"},
    {"afmoe", "mup_enabled", "true"},
    {"laguna", "moe_apply_router_weight_on_input", "false"},
    {"laguna", "moe_router_logit_softcapping", "0"},
    {"cohere2moe", "shared_expert_combination_strategy", "average"},
    {"dbrx", "ffn_config.moe_normalize_expert_weights", "1"},
    {"deepseek2", "moe_layer_freq", "1"},
    {"deepseek2", "topk_method", "noaux_tc|greedy|group_limited_greedy"},
};

/* A number, a word, true or false: is it one of these? */
static int is_value(const infer_json *v, const char *list) {
    const int32_t kind = infer_json_kind(v);
    const double x = infer_json_number(v);
    const char *s = kind == INFER_JSON_TRUE ? "true" : kind == INFER_JSON_FALSE ? "false" : kind == INFER_JSON_STRING ? infer_json_string(v, NULL) : NULL;
    if (s) return cfg_is_word(list, s);
    if (kind != INFER_JSON_INT && kind != INFER_JSON_FLOAT) return 0;
    for (;; list += strcspn(list, "|") + 1) {
        char *end;
        if (strtod(list, &end) == x && end != list) return 1;
        if (list[strcspn(list, "|")] == 0) return 0;
    }
}

static int is_fine(const infer_json *v, const char *fine) {
    size_t i;
    if (infer_json_kind(v) != INFER_JSON_ARRAY) return is_value(v, fine);
    for (i = 0; i < infer_json_count(v); i++)
        if (!is_fine(infer_json_at(v, i), fine)) return 0;
    return 1;
}

/* What these names have is one of these values. */
static int check_value(const checkpoint *c, const char *names, const char *fine) {
    const infer_json *v = cfg(c, names);
    if (v == NULL || is_fine(v, fine)) return 1;
    return cli_fail(c->command, "%s/config.json: %s must be %s: models of the architecture %s cannot have another one", c->folder, names, fine, c->arch) == CLI_DONE;
}

int check_config(const checkpoint *c) {
    const char *const *act = c->family->act;
    size_t i;
    if (act[0] == NULL && !check_value(c, "hidden_act|hidden_activation", "silu|swish")) return 0;
    if (act[0] && act[0][0] && !check_value(c, act[0], act[1])) return 0;
    for (i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        const char *archs = ROWS[i].archs;
        if (*archs == '!' ? cfg_is_word(archs + 1, c->arch) : !cfg_is_word(archs, c->arch)) continue;
        if (!check_value(c, ROWS[i].names, ROWS[i].fine)) return 0;
    }
    return 1;
}

/* ---- what must have become of the config ------------------------------------------------------------ */

static const file_key *key_named(const checkpoint *c, const char *key) {
    char name[128];
    snprintf(name, sizeof name, "%s.%s", c->arch, key);
    return file_find_key(c->m, name);
}

static int has_layers_of(const checkpoint *c, const char *type) {
    uint64_t i;
    for (i = 0; i < c->n_layers; i++)
        if (cfg_is_type(c, i, type)) return 1;
    return 0;
}

/* Is it a class with a head? A base model, or an encoder, has none. */
static int has_head(const checkpoint *c) {
    const char *name = infer_json_string(infer_json_at(cfg(c, "architectures"), 0), NULL);
    return name && (strstr(name, "ForCausalLM") || strstr(name, "LMHead") || strstr(name, "ForConditionalGeneration"));
}

static int refuse(const checkpoint *c, const char *what) {
    return cli_fail(c->command, "%s/config.json: %s is not supported in models of the architecture %s", c->folder, what, c->arch) == CLI_DONE;
}

/* Mistral's and StarCoder2's windows, which llama.cpp's converter leaves out, too: its rows for them have none. */
static void tell_window(const checkpoint *c) {
    const uint64_t window = cfg_int(c, "sliding_window", 0), context = cfg_int(c, "max_position_embeddings", 0);
    if (window == 0 || window >= context || !cfg_true(c, "use_sliding_window", 1) || key_named(c, "attention.sliding_window")) return;
    fprintf(stderr, "warning: %s/config.json: sliding_window is left out, as llama.cpp's converter does: longer texts than %lu tokens are seen whole\n", c->folder, (unsigned long)window);
}

int check_made(const checkpoint *c) {
    const infer_json *type = cfg_rope(c, "full_attention", "rope_type|type");
    const file_key *rotated = key_named(c, "rope.dimension_count");
    if (cfg_says(type, "llama3") && !file_find_tensor(c->m, "rope_freqs.weight")) return refuse(c, "rotation scaled by llama3");
    if ((cfg_says(type, "longrope") || cfg_says(type, "su")) && !file_find_tensor(c->m, "rope_factors_long.weight")) return refuse(c, "rotation scaled by longrope");
    if (cfg_rotated(c, c->head_dim, 1) != c->head_dim && (rotated == NULL || gguf_load(rotated->value, 4) == c->head_dim)) return refuse(c, "partial_rotary_factor");
    if (has_layers_of(c, "sliding_attention") && key_named(c, "attention.sliding_window") == NULL) return refuse(c, "layer_types with sliding_attention");
    if (cfg_tied(c) == 0 && has_head(c) && !file_find_tensor(c->m, "output.weight"))
        return cli_fail(c->command, "%s: tensor lm_head.weight is missing: config.json says that tie_word_embeddings is false", c->folder) == CLI_DONE;
    tell_window(c);
    return 1;
}
