/* keys.c: config.json to the keys of a GGUF file (ggml's docs/gguf.md). */
#include "convert.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- writing ------------------------------------------------------------------------------------ */

static const char *full(const checkpoint *c, const char *key, char *out) {
    snprintf(out, 128, "%s.%s", c->arch, key);
    return out;
}
void key_int(checkpoint *c, const char *key, uint64_t x) {
    char name[128];
    gguf_u32(&c->keys, full(c, key, name), (uint32_t)x);
}
void key_float(checkpoint *c, const char *key, double x) {
    char name[128];
    gguf_f32(&c->keys, full(c, key, name), x);
}
void key_bool(checkpoint *c, const char *key, int x) {
    char name[128];
    gguf_bool(&c->keys, full(c, key, name), x);
}
void key_text(checkpoint *c, const char *key, const char *x) {
    char name[128];
    gguf_string(&c->keys, full(c, key, name), x);
}
void key_ints(checkpoint *c, const char *key, const uint64_t *x, uint64_t n) {
    char name[128];
    uint64_t i;
    gguf_array(&c->keys, full(c, key, name), GGUF_I32, n);
    for (i = 0; i < n; i++) gguf_element_i32(&c->keys, (int32_t)x[i]);
}
void key_bools(checkpoint *c, const char *key, const int *x, uint64_t n) {
    char name[128];
    uint64_t i;
    gguf_array(&c->keys, full(c, key, name), GGUF_BOOL, n);
    for (i = 0; i < n; i++) gguf_element_bool(&c->keys, x[i]);
}

int key_layers_of(checkpoint *c, const char *key, const char *type) {
    int *flags = cli_alloc(c->command, (size_t)c->n_layers + 1, sizeof *flags);
    uint64_t i;
    if (flags == NULL) return 0;
    for (i = 0; i < c->n_layers; i++) flags[i] = cfg_is_type(c, i, type);
    key_bools(c, key, flags, c->n_layers);
    free(flags);
    return 1;
}

/* ---- rows --------------------------------------------------------------------------------------- */

static int key_of_row(checkpoint *c, const key_row *r) {
    const infer_json *v = r->from && r->kind != KEY_IS_TEXT ? cfg(c, r->from) : NULL;
    const int32_t kind = infer_json_kind(v);
    const int is_number = kind == INFER_JSON_INT || kind == INFER_JSON_FLOAT;
    const double x = is_number ? infer_json_number(v) : r->is;
    char name[128];
    if (!is_number && kind != INFER_JSON_NULL && (r->kind == KEY_INT || r->kind == KEY_FLOAT))
        return cli_fail(c->command, "%s/config.json: %s is no number", c->folder, r->from) == CLI_DONE;
    switch (r->kind) {
    case KEY_INT:
        if (x == NO_DEFAULT) break;
        if (!(x >= 0 && x <= UINT32_MAX)) return cli_fail(c->command, "%s/config.json: %s is %g", c->folder, r->from, x) == CLI_DONE;
        key_int(c, r->key, (uint64_t)x);
        break;
    case KEY_FLOAT:
        if (x != NO_DEFAULT) key_float(c, r->key, x);
        break;
    case KEY_BOOL:
        if (kind == INFER_JSON_TRUE || kind == INFER_JSON_FALSE) key_bool(c, r->key, kind == INFER_JSON_TRUE);
        else if (r->is != NO_DEFAULT) key_bool(c, r->key, r->is != 0);
        break;
    case KEY_TEXT:
        if (kind == INFER_JSON_STRING) key_text(c, r->key, infer_json_string(v, NULL));
        break;
    case KEY_IS_INT: key_int(c, r->key, (uint64_t)r->is); break;
    case KEY_IS_FLOAT: key_float(c, r->key, r->is); break;
    case KEY_IS_BOOL: key_bool(c, r->key, r->is != 0); break;
    case KEY_IS_TEXT: key_text(c, r->key, r->from); break;
    case KEY_HEAD: key_int(c, r->key, c->head_dim); break;
    case KEY_ROTARY: key_int(c, r->key, cfg_rotated(c, c->head_dim, r->is)); break;
    default: gguf_raw(&c->keys, full(c, r->key, name), GGUF_N_TYPES, "", 0); break;
    }
    return 1;
}

int keys_rows(checkpoint *c, const key_row *rows) {
    for (; rows && rows->key; rows++)
        if (!key_of_row(c, rows)) return 0;
    return 1;
}

/* ---- what all models have -------------------------------------------------------------------------- */

const key_row KEYS_COMMON[] = {
    {"context_length", KEY_INT, "max_position_embeddings|n_ctx|n_positions|max_length|max_sequence_length|model_max_length|max_seq_len|seq_length", NO_DEFAULT},
    {"attention.layer_norm_rms_epsilon", KEY_FLOAT, "rms_norm_eps|norm_eps", NO_DEFAULT},
    {"attention.layer_norm_epsilon", KEY_FLOAT, "layer_norm_eps|layer_norm_epsilon|norm_epsilon", NO_DEFAULT},
    {"expert_count", KEY_INT, CFG_EXPERTS, NO_DEFAULT},
    {"expert_used_count", KEY_INT, "num_experts_per_tok|num_experts_per_token|top_k_experts|moe_k", NO_DEFAULT},
    {"expert_group_count", KEY_INT, "n_group", NO_DEFAULT},
    {"expert_group_used_count", KEY_INT, "topk_group", NO_DEFAULT},
    {"attention.key_length", KEY_INT, "head_dim", NO_DEFAULT},
    {"attention.value_length", KEY_INT, "head_dim", NO_DEFAULT},
    {NULL, 0, NULL, 0},
};

static int routing(checkpoint *c) {
    static const char *const NAMES[] = {"softmax", "sigmoid", NULL, "sqrtsoftplus"}; /* from 1 on */
    const infer_json *v = cfg(c, "score_function|scoring_func|score_func|moe_router_activation|moe_router_activation_func|expert_selection_fn");
    size_t i;
    if (v == NULL) {
        if (c->family->flags & ROUTES_SIGMOID) key_int(c, "expert_gating_func", 2);
        return 1;
    }
    for (i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++)
        if (NAMES[i] && cfg_says(v, NAMES[i])) {
            key_int(c, "expert_gating_func", i + 1);
            return 1;
        }
    return cli_fail(c->command, "%s/config.json: scores of experts by this function are not supported: %.40s", c->folder, infer_json_string(v, NULL) ? infer_json_string(v, NULL) : "?") == CLI_DONE;
}

/* rope.*: rope_parameters of newer configs, rope_scaling and rope_theta of older ones. */
static int rotation(checkpoint *c) {
    static const char KIND[] = "full_attention";
    static const struct {
        const char *key, *from;
    } YARN[] = {{"rope.scaling.original_context_length", "original_max_position_embeddings"}, {"rope.scaling.yarn_ext_factor", "extrapolation_factor"},
                {"rope.scaling.yarn_attn_factor", "attention_factor|attn_factor"}, {"rope.scaling.yarn_beta_fast", "beta_fast"}, {"rope.scaling.yarn_beta_slow", "beta_slow"}};
    static const char *const NO_KEYS[] = {"default", "llama3", "dynamic", "proportional", "mrope"}; /* the last: sections say it */
    const infer_json *type = cfg_rope(c, KIND, "rope_type|type"), *factor = cfg_rope(c, KIND, "factor"), *v = cfg_rope(c, KIND, "rope_theta"), *sections = cfg_rope(c, KIND, "mrope_section");
    const char *name = infer_json_string(type, NULL);
    char key[128];
    size_t i;
    if (v == NULL) v = cfg(c, "rope_theta|global_rope_theta|rotary_emb_base|rope_base");
    if (v) key_float(c, "rope.freq_base", infer_json_number(v));
    v = infer_json_get(infer_json_get(cfg(c, "rope_parameters|rope_scaling"), "sliding_attention"), "rope_theta");
    if (infer_json_kind(v) == INFER_JSON_NULL) v = cfg(c, "rope_local_base_freq|local_rope_theta");
    if (v) key_float(c, "rope.freq_base_swa", infer_json_number(v));
    if (infer_json_kind(sections) == INFER_JSON_ARRAY) {
        gguf_array(&c->keys, full(c, "rope.dimension_sections", key), GGUF_I32, 4);
        for (i = 0; i < 4; i++) gguf_element_i32(&c->keys, (int32_t)infer_json_int(infer_json_at(sections, i)));
    }
    if (name == NULL) return 1;
    for (i = 0; i < sizeof NO_KEYS / sizeof NO_KEYS[0]; i++)
        if (strcmp(name, NO_KEYS[i]) == 0) return 1;
    if (strcmp(name, "longrope") == 0 || strcmp(name, "su") == 0) {
        key_text(c, "rope.scaling.type", "longrope");
        return 1;
    }
    if ((strcmp(name, "linear") != 0 && strcmp(name, "yarn") != 0) || factor == NULL)
        return cli_fail(c->command, "%s/config.json: rotation scaled by %.40s is not supported", c->folder, name) == CLI_DONE;
    key_text(c, "rope.scaling.type", name);
    key_float(c, "rope.scaling.factor", infer_json_number(factor));
    for (i = 0; name[0] == 'y' && i < sizeof YARN / sizeof YARN[0]; i++) {
        v = cfg_rope(c, KIND, YARN[i].from);
        if (v && i == 0) key_int(c, YARN[i].key, (uint64_t)infer_json_int(v));
        else if (v) key_float(c, YARN[i].key, infer_json_number(v));
    }
    return 1;
}

/* Layers with windows, where they are not those that engines take for models of the architecture: each `every`-th has none, or the first of
 * `every`. Other architectures' families always write it. */
static int windows(checkpoint *c) {
    static const struct {
        const char *arch;
        uint64_t every, first;
    } ROWS[] = {{"gemma2", 2, 0}, {"gemma3", 6, 0}, {"gemma-embedding", 6, 0}, {"gpt-oss", 2, 0}, {"cohere2", 4, 0}, {"afmoe", 4, 0}, {"laguna", 4, 1}};
    uint64_t k;
    size_t i;
    for (i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++)
        for (k = 0; strcmp(ROWS[i].arch, c->arch) == 0 && cfg_layer_type(c, 0) && k < c->n_layers; k++)
            if (cfg_is_type(c, k, "full_attention") != (k % ROWS[i].every == (ROWS[i].first ? 0 : ROWS[i].every - 1)))
                return key_layers_of(c, "attention.sliding_window_pattern", "sliding_attention");
    return 1;
}

int keys_common(checkpoint *c) {
    const infer_json *ff = cfg(c, "prefix_dense_intermediate_size|dense_intermediate_size|intermediate_size|n_inner|hidden_dim|d_ff");
    key_int(c, "block_count", c->n_layers + c->n_next);
    if (c->n_next) key_int(c, "nextn_predict_layers", c->n_next);
    if (c->n_embd) key_int(c, "embedding_length", c->n_embd);
    if (infer_json_kind(ff) == INFER_JSON_INT) key_int(c, "feed_forward_length", (uint64_t)infer_json_int(ff));
    else if (infer_json_kind(ff) == INFER_JSON_ARRAY) {
        char key[128];
        size_t i;
        gguf_array(&c->keys, full(c, "feed_forward_length", key), GGUF_I32, infer_json_count(ff));
        for (i = 0; i < infer_json_count(ff); i++) gguf_element_i32(&c->keys, (int32_t)infer_json_int(infer_json_at(ff, i)));
    }
    if (c->n_head) key_int(c, "attention.head_count", c->n_head);
    if (infer_json_kind(cfg(c, CFG_HEADS_KV)) == INFER_JSON_INT) key_int(c, "attention.head_count_kv", c->n_head_kv);
    if (c->family->flags & ENCODER || cfg_true(c, "is_causal", 1) == 0) key_bool(c, "attention.causal", 0);
    return keys_rows(c, KEYS_COMMON) && routing(c) && rotation(c) && windows(c);
}
