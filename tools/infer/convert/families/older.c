/* older.c: models with layer norms, most of them from before Llama. */
#include "families.h"

#include <stdlib.h>
#include <string.h>

static int keys_gpt2(checkpoint *c) {
    if (cfg(c, "n_inner") == NULL) key_int(c, "feed_forward_length", 4 * c->n_embd);
    return 1;
}

static int is_fused(const char *rest, const char *fused) { return strncmp(rest, fused, strlen(fused)) == 0 && rest[strlen(fused)] == '.'; }

/* Q, K and V in one: for each group of heads the Q of all of them, then K and V. To all Q, all K, all V. */
static int by_groups(checkpoint *c, st_tensor *t, int64_t layer, const char *rest, const char *fused, uint64_t groups) {
    const uint64_t cols = t->n_dims == 2 ? t->dims[1] : 1, d = c->head_dim, each = groups ? c->n_head / groups : 0;
    const uint64_t rows = (each + 2) * d * groups, dims[2] = {t->n_dims == 2 ? cols : rows, rows};
    const size_t n = strlen(fused);
    char name[128], what[32];
    uint64_t i;
    made *m;
    if (!is_fused(rest, fused)) return 0;
    if (groups == 0 || c->n_head % groups != 0 || t->n_dims > 2 || t->dims[0] != rows)
        return cli_fail(c->command, "tensor %s has not the shape that config.json asks for", t->name) == CLI_DONE ? 1 : -1;
    snprintf(what, sizeof what, "attn_qkv%.16s", rest + n);
    m = make(c, name_in(name, layer, what), t->n_dims, dims);
    for (i = 0; m && i < 3; i++) {
        view *v = make_view(c, m, t, (i ? each + i - 1 : 0) * d * cols);
        view_loop(v, groups, (each + 2) * d * cols);
        view_loop(v, (i ? 1 : each) * d * cols, 1);
        if (v == NULL) return -1;
    }
    return m ? 1 : -1;
}

static int tensor_gptneox(checkpoint *c, st_tensor *t, int64_t layer, const char *rest) {
    return by_groups(c, t, layer, rest, "attention.query_key_value", c->n_head);
}
static int tensor_bloom(checkpoint *c, st_tensor *t, int64_t layer, const char *rest) {
    return by_groups(c, t, layer, rest, "self_attention.query_key_value", c->n_head);
}
/* With one head of K and V all of Q comes first, as it should. */
static int tensor_bigcode(checkpoint *c, st_tensor *t, int64_t layer, const char *rest) {
    return !is_fused(rest, "attn.c_attn") || cfg_true(c, "multi_query", 1) ? 0 : by_groups(c, t, layer, rest, "attn.c_attn", c->n_head);
}

/* ---- Falcon --------------------------------------------------------------------------------------- */

static uint64_t falcon_groups(const checkpoint *c) {
    return cfg_true(c, "multi_query", 1) && !cfg_true(c, "new_decoder_architecture", 0) ? 1 : c->n_head_kv;
}
static int tensor_falcon(checkpoint *c, st_tensor *t, int64_t layer, const char *rest) {
    static const char FUSED[] = "self_attention.query_key_value";
    return is_fused(rest, FUSED) ? by_groups(c, t, layer, rest, FUSED, falcon_groups(c)) : 0;
}
static int keys_falcon(checkpoint *c) {
    if (!cfg_true(c, "parallel_attn", 1) && !cfg_true(c, "new_decoder_architecture", 0))
        return cli_fail(c->command, "%s/config.json: parallel_attn must be true", c->folder) == CLI_DONE;
    key_int(c, "attention.head_count_kv", falcon_groups(c));
    key_int(c, "feed_forward_length", cfg_int(c, "ffn_hidden_size", 4 * c->n_embd));
    key_text(c, "tensor_data_layout", "jploski"); /* so llama.cpp calls the order of Q, K and V */
    return 1;
}

/* ---- BLOOM, MPT, StarCoder ------------------------------------------------------------------------- */

static int keys_bloom(checkpoint *c) {
    key_int(c, "attention.head_count_kv", c->n_head);
    key_int(c, "feed_forward_length", 4 * c->n_embd);
    return 1;
}
static int keys_mpt(checkpoint *c) {
    const double ratio = cfg_number(c, "expansion_ratio", 4);
    if (!(ratio > 0 && ratio <= 1024)) return cli_fail(c->command, "%s/config.json: expansion_ratio is %g", c->folder, ratio) == CLI_DONE;
    key_int(c, "feed_forward_length", (uint64_t)(ratio * (double)c->n_embd));
    key_float(c, "attention.max_alibi_bias", cfg_true(c, "attn_config.alibi", 1) ? cfg_number(c, "attn_config.alibi_bias_max", 8) : 0);
    return 1;
}
static int keys_bigcode(checkpoint *c) {
    key_int(c, "attention.head_count_kv", cfg_true(c, "multi_query", 1) ? 1 : c->n_head);
    return keys_gpt2(c);
}

/* ---- rows ------------------------------------------------------------------------------------------ */

static const key_row NEOX[] = {ROTARY(0.25), {"use_parallel_residual", KEY_BOOL, "use_parallel_residual", 1}, END_KEYS};
static const key_row GPT2[] = {{"context_length", KEY_INT, "n_ctx|n_positions", NO_DEFAULT}, END_KEYS};
static const name_row STARCODER2[] = {
    {"mlp.c_fc", "ffn_up", NAME_COPY},
    {"mlp.c_proj", "ffn_down", NAME_COPY},
    END_NAMES,
};
static const name_row GPT2_NAMES[] = {
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
static const key_row BLOOM[] = {{"context_length", KEY_INT, "seq_length", 2048}, END_KEYS}; /* no limit, as ALiBi has none: what it was trained with */
static const key_row FALCON[] = {{"context_length", KEY_INT, "max_position_embeddings", 2048}, END_KEYS};
static const key_row MPT[] = {
    {"attention.layer_norm_epsilon", KEY_IS_FLOAT, NULL, 1e-5},
    {"attention.clamp_kqv", KEY_FLOAT, "attn_config.clip_qkv", NO_DEFAULT},
    END_KEYS,
};
static const key_row STABLELM[] = {ROTARY(0.25), {"use_parallel_residual", KEY_BOOL, "use_parallel_residual", 1}, END_KEYS};
static const key_row PHI2[] = {ROTARY(0.5), END_KEYS};
static const key_row NEMOTRON[] = {
    ROTARY(0.5),
    {"vocab_size", KEY_INT, "vocab_size", NO_DEFAULT},
    {"attention.layer_norm_epsilon", KEY_FLOAT, "norm_eps|layer_norm_eps", 1e-5},
    {"rope.scaling.type", KEY_IS_TEXT, "none", 0},
    END_KEYS,
};
/* BLOOM, Falcon */
static const name_row BLOOM_NAMES[] = {
    {"/word_embeddings_layernorm", "token_embd_norm", NAME_COPY},
    {"self_attention.dense", "attn_output", NAME_COPY},
    {"mlp.dense_h_to_4h", "ffn_up", NAME_COPY},
    {"mlp.dense_4h_to_h", "ffn_down", NAME_COPY},
    {"ln_attn", "attn_norm_2", NAME_COPY},
    {"ln_mlp", "attn_norm", NAME_COPY},
    END_NAMES,
};
static const name_row MPT_NAMES[] = {
    {"norm_1", "attn_norm", NAME_COPY},
    {"norm_2", "ffn_norm", NAME_COPY},
    {"attn.Wqkv", "attn_qkv", NAME_COPY},
    {"attn.q_ln", "attn_q_norm", NAME_COPY},
    {"attn.k_ln", "attn_k_norm", NAME_COPY},
    {"attn.out_proj", "attn_output", NAME_COPY},
    {"ffn.up_proj", "ffn_up", NAME_COPY},
    {"ffn.down_proj", "ffn_down", NAME_COPY},
    END_NAMES,
};
static const name_row BIGCODE_NAMES[] = {
    {"ln_1", "attn_norm", NAME_COPY},
    {"ln_2", "ffn_norm", NAME_COPY},
    {"attn.c_attn", "attn_qkv", NAME_COPY},
    {"attn.c_proj", "attn_output", NAME_COPY},
    {"mlp.c_fc", "ffn_up", NAME_COPY},
    {"mlp.c_proj", "ffn_down", NAME_COPY},
    {"attn", "", NAME_DROPPED}, /* attn.bias: the causal mask */
    END_NAMES,
};
static const name_row PHI2_NAMES[] = {
    {"self_attn.dense", "attn_output", NAME_COPY},
    {"mlp.fc1", "ffn_up", NAME_COPY},
    {"mlp.fc2", "ffn_down", NAME_COPY},
    END_NAMES,
};
static const name_row STABLELM_NAMES[] = {
    {"self_attn.q_layernorm.norms.#", "attn_q_norm", NAME_HEADS},
    {"self_attn.k_layernorm.norms.#", "attn_k_norm", NAME_HEADS_KV},
    END_NAMES,
};

const family OLDER_FAMILIES[] = {
    {.classes = "BloomForCausalLM|BloomModel", .arch = "bloom", .keys = BLOOM, .names = BLOOM_NAMES, .own_keys = keys_bloom,
     .own_tensor = tensor_bloom},
    {.classes = "FalconForCausalLM|RWForCausalLM", .arch = "falcon", .act = ACT_FALCON, .keys = FALCON, .names = BLOOM_NAMES,
     .own_keys = keys_falcon, .own_tensor = tensor_falcon},
    {.classes = "MPTForCausalLM|MptForCausalLM", .arch = "mpt", .keys = MPT, .names = MPT_NAMES, .own_keys = keys_mpt},
    {.classes = "GPTBigCodeForCausalLM", .arch = "starcoder", .act = ACT_GELU_TANH, .keys = GPT2, .names = BIGCODE_NAMES, .own_keys = keys_bigcode,
     .own_tensor = tensor_bigcode},
    {.classes = "PhiForCausalLM", .arch = "phi2", .act = ACT_GELU_TANH, .keys = PHI2, .names = PHI2_NAMES},
    {.classes = "StableLmForCausalLM|StableLMEpochForCausalLM", .arch = "stablelm", .keys = STABLELM, .names = STABLELM_NAMES},
    {.classes = "NemotronForCausalLM", .arch = "nemotron", .act = ACT_RELU2, .flags = NORMS_PLUS_1, .keys = NEMOTRON},
    {.classes = "Starcoder2ForCausalLM", .arch = "starcoder2", .act = ACT_GELU_TANH, .names = STARCODER2},
    {.classes = "GPT2LMHeadModel", .arch = "gpt2", .act = ACT_GELU_TANH, .keys = GPT2, .names = GPT2_NAMES, .own_keys = keys_gpt2},
    {.classes = "GPTNeoXForCausalLM", .arch = "gptneox", .act = ACT_GELU_TANH, .keys = NEOX, .names = NEOX_NAMES, .own_tensor = tensor_gptneox},
    {.classes = NULL},
};
