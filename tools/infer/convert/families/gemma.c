/* gemma.c: Gemma 3n and Gemma 4. */
#include "families.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Gemma 3n ----------------------------------------------------------------------------------- */

/* The x below which a share p of a normal distribution lies; -inf for 0. Newton's method on the error function. */
static double normal_quantile(double p) {
    double x = 0;
    int i;
    if (p <= 0) return -INFINITY;
    if (p >= 1) return INFINITY;
    for (i = 0; i < 100; i++) {
        const double step = (0.5 * erfc(-x / 1.4142135623730951) - p) / (0.3989422804014327 * exp(-0.5 * x * x));
        x -= step > 1 ? 1 : step < -1 ? -1 : step;
        if (fabs(step) < 1e-15) break;
    }
    return x;
}

/* Gemma 2 and 3: scores are divided by the root of query_pre_attn_scalar. No key says it where it is what engines take: the width of a head,
 * or, in the 27B's 46 and 62 layers, all heads' share of the model's width. */
static int keys_gemma2(checkpoint *c) {
    const double scalar = cfg_number(c, "query_pre_attn_scalar", 256), usual = c->n_layers == 46 || c->n_layers == 62 ? (double)(c->n_embd / (c->n_head ? c->n_head : 1)) : (double)cfg_int(c, "head_dim", 256);
    if (!(scalar > 0)) return cli_fail(c->command, "%s/config.json: query_pre_attn_scalar is %g", c->folder, scalar) == CLI_DONE;
    if (scalar != usual) key_float(c, "attention.scale", 1 / sqrt(scalar));
    return 1;
}
static int keys_gemma_embedding(checkpoint *c) { return keys_gemma2(c) && keys_pooling(c); }

static int keys_gemma3n(checkpoint *c) {
    static const key_row ROWS[] = {
        {"altup.active_idx", KEY_INT, "altup_active_idx", NO_DEFAULT},
        {"altup.num_inputs", KEY_INT, "altup_num_inputs", NO_DEFAULT},
        {"embedding_length_per_layer_input", KEY_INT, "hidden_size_per_layer_input", NO_DEFAULT},
        {"attention.shared_kv_layers", KEY_INT, "num_kv_shared_layers", NO_DEFAULT},
        {NULL, 0, NULL, 0},
    };
    const infer_json *pattern = cfg(c, "activation_sparsity_pattern");
    char key[64];
    size_t i;
    snprintf(key, sizeof key, "%s.activation_sparsity_scale", c->arch);
    gguf_array(&c->keys, key, GGUF_F32, infer_json_count(pattern));
    for (i = 0; i < infer_json_count(pattern); i++) gguf_element_f32(&c->keys, normal_quantile((double)(float)infer_json_number(infer_json_at(pattern, i))));
    return keys_rows(c, ROWS) && key_layers_of(c, "attention.sliding_window_pattern", "sliding_attention");
}

/* Embeddings may have fewer rows than the vocabulary has tokens: the others are zeros. */
static int padded(checkpoint *c, const char *name, st_tensor *t) {
    const uint64_t n = c->n_vocab > t->dims[0] ? c->n_vocab : t->dims[0], cols = t->dims[1], dims[2] = {cols, n};
    made *m = make(c, name, 2, dims);
    view *v = make_view(c, m, t, 0);
    view_loop(v, t->n, 1);
    if (v && n > t->dims[0]) {
        v = make_view(c, m, t, 0);
        view_loop(v, (n - t->dims[0]) * cols, 1);
        if (v) v->zeros = 1;
    }
    return v ? 1 : -1;
}

static int tensor_gemma3n(checkpoint *c, st_tensor *t, int64_t layer, const char *rest) {
    if (layer >= 0) return 0;
    if (t->n_dims == 2 && strcmp(rest, "embed_tokens.weight") == 0) return padded(c, "token_embd.weight", t);
    if (t->n_dims == 2 && strcmp(rest, "embed_tokens_per_layer.weight") == 0) return padded(c, "per_layer_token_embd.weight", t);
    return strncmp(rest, "altup_projections.", 18) == 0 || strncmp(rest, "altup_unembed_projections.", 26) == 0; /* below */
}

/* Matrices of numbered modules, put together. */
static int stacked(checkpoint *c, const char *name, const char *from) {
    const uint64_t n = cfg_int(c, "altup_num_inputs", 4) - 1;
    uint64_t dims[3] = {c->n_embd, c->n_embd, n}, i;
    made *m = make(c, name, 3, dims);
    for (i = 0; m && i < n && i < 64; i++) {
        static const char *const BEFORE[] = {"model.", "model.language_model.", "language_model.model.", "language_model.", ""};
        char its[128];
        st_tensor *t = NULL;
        view *v;
        size_t k;
        for (k = 0; t == NULL && k < sizeof BEFORE / sizeof BEFORE[0]; k++) {
            snprintf(its, sizeof its, "%s%s.%llu.weight", BEFORE[k], from, (unsigned long long)i);
            t = st_find(&c->st, its);
        }
        if (t == NULL) return cli_fail(c->command, "tensor %s is missing", its) == CLI_DONE;
        v = make_view(c, m, t, 0);
        view_loop(v, t->n, 1);
        if (v == NULL) return 0;
    }
    return m != NULL;
}

static int rest_gemma3n(checkpoint *c) {
    return stacked(c, "altup_proj.weight", "altup_projections") && stacked(c, "altup_unembd_proj.weight", "altup_unembed_projections");
}

/* ---- Gemma 4 ------------------------------------------------------------------------------------ */

/* A value of the layers with full attention: named, or in per_layer_config; 0 = none. */
static uint64_t of_full_layers(const checkpoint *c, const char *named, const char *member) {
    const infer_json *each = cfg(c, "per_layer_config");
    const uint64_t x = cfg_int(c, named, 0);
    size_t i;
    for (i = 0; x == 0 && i < infer_json_count(each); i++) {
        const uint64_t layer = (uint64_t)atol(infer_json_name(each, i, NULL));
        const infer_json *v = infer_json_get(infer_json_at(each, i), member);
        if (cfg_is_type(c, layer, "full_attention") && infer_json_kind(v) == INFER_JSON_INT && infer_json_int(v) > 0) return (uint64_t)infer_json_int(v);
    }
    return x;
}

static int keys_gemma4(checkpoint *c) {
    static const key_row ROWS[] = {
        {"attention.shared_kv_layers", KEY_INT, "num_kv_shared_layers", 0},
        {"embedding_length_per_layer_input", KEY_INT, "hidden_size_per_layer_input", 0},
        {"expert_feed_forward_length", KEY_INT, "expert_intermediate_size|moe_intermediate_size", NO_DEFAULT},
        {NULL, 0, NULL, 0},
    };
    const infer_json *part = cfg_rope(c, "sliding_attention", "partial_rotary_factor");
    const uint64_t full = of_full_layers(c, "global_head_dim", "head_dim"), kv = of_full_layers(c, "num_global_key_value_heads", "num_key_value_heads");
    const uint64_t shared = cfg_int(c, "num_kv_shared_layers", 0), ff = cfg_int(c, "intermediate_size", 0);
    uint64_t *list = cli_alloc(c->command, (size_t)c->n_layers + 1, sizeof *list), i;
    int ok = list != NULL;
    if (ok && full == 0) ok = cli_fail(c->command, "%s/config.json: global_head_dim is missing", c->folder) == CLI_DONE;
    if (ok) {
        key_int(c, "attention.key_length", full);
        key_int(c, "attention.value_length", full);
        key_int(c, "attention.key_length_swa", c->head_dim);
        key_int(c, "attention.value_length_swa", c->head_dim);
        key_int(c, "rope.dimension_count", full);
        key_int(c, "rope.dimension_count_swa", part ? (uint64_t)((double)c->head_dim * infer_json_number(part)) : c->head_dim);
        if (cfg_true(c, "use_double_wide_mlp", 0)) {
            for (i = 0; i < c->n_layers; i++) list[i] = i + shared < c->n_layers ? ff : 2 * ff;
            key_ints(c, "feed_forward_length", list, c->n_layers);
        }
        if (kv) {
            for (i = 0; i < c->n_layers; i++) list[i] = cfg_is_type(c, i, "full_attention") ? kv : c->n_head_kv;
            key_ints(c, "attention.head_count_kv", list, c->n_layers);
        }
        ok = keys_rows(c, ROWS) && key_layers_of(c, "attention.sliding_window_pattern", "sliding_attention");
    }
    free(list);
    return ok;
}

/* "Proportional" rotation of full attention: the first part of the frequencies of a whole head; the others are made to be none. */
static int rest_gemma4(checkpoint *c) {
    const infer_json *its = cfg(c, "rope_parameters.full_attention");
    const uint64_t full = of_full_layers(c, "global_head_dim", "head_dim"), n = full / 2;
    const double part = infer_json_number(infer_json_get(its, "partial_rotary_factor"));
    float *x;
    uint64_t i;
    if (!cfg_says(infer_json_get(its, "rope_type"), "proportional") || !(part > 0 && part <= 1))
        return cli_fail(c->command, "%s/config.json: rope_parameters.full_attention must be proportional, with a partial_rotary_factor", c->folder) == CLI_DONE;
    if (make_values(c, "rope_freqs.weight", n, &x) == NULL) return 0;
    for (i = 0; i < n; i++) x[i] = i < (uint64_t)((double)full * part / 2) ? 1.0f : 1e30f;
    return 1;
}

/* ---- rows ------------------------------------------------------------------------------------------ */

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

const family GEMMA_FAMILIES[] = {
    {.classes = "GemmaForCausalLM", .arch = "gemma", .act = ACT_GEMMA, .flags = NORMS_PLUS_1},
    {.classes = "Gemma2ForCausalLM", .arch = "gemma2", .act = ACT_GEMMA2, .flags = NORMS_PLUS_1, .keys = GEMMA2, .names = AFTER, .own_keys = keys_gemma2},
    {.classes = "Gemma3ForCausalLM|Gemma3ForConditionalGeneration", .arch = "gemma3", .act = ACT_GEMMA2, .flags = NORMS_PLUS_1, .keys = GEMMA3,
     .names = AFTER},
    {.classes = "Gemma3TextModel", .arch = "gemma-embedding", .act = ACT_GEMMA2, .flags = NORMS_PLUS_1, .keys = GEMMA3, .names = AFTER,
     .own_keys = keys_gemma_embedding},
    {.classes = "Gemma3nForCausalLM|Gemma3nForConditionalGeneration", .arch = "gemma3n", .act = ACT_GEMMA2, .keys = GEMMA3, .names = GEMMA4,
     .own_keys = keys_gemma3n, .own_tensor = tensor_gemma3n, .own_rest = rest_gemma3n},
    {.classes = "Gemma4ForCausalLM|Gemma4ForConditionalGeneration", .arch = "gemma4", .act = ACT_GEMMA2, .keys = GEMMA3, .names = GEMMA4,
     .own_keys = keys_gemma4, .own_rest = rest_gemma4},
    {.classes = NULL},
};
