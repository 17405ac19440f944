/* dense.c: plain transformers. */
#include "families.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int keys_qwen3_vl(checkpoint *c) {
    key_int(c, "n_deepstack_layers", infer_json_count(cfg(c, "vision_config.deepstack_visual_indexes")));
    return 1;
}

/* Every fourth layer has no rotation; no file can say otherwise. */
int keys_fourths(checkpoint *c) {
    const infer_json *list = cfg(c, "no_rope_layers");
    size_t i;
    for (i = 0; i < infer_json_count(list); i++)
        if ((infer_json_int(infer_json_at(list, i)) != 0) != ((i + 1) % 4 != 0))
            return cli_fail(c->command, "%s/config.json: no_rope_layers other than each fourth are not supported", c->folder) == CLI_DONE;
    return 1;
}

int keys_windows(checkpoint *c) {
    if (cfg(c, "sliding_window") == NULL) return 1;
    return cfg(c, "layer_types") == NULL || key_layers_of(c, "attention.sliding_window_pattern", "sliding_attention");
}

/* ---- rotation ----------------------------------------------------------------------------------- */

/* Llama 3.1: low frequencies are divided, those between are interpolated (in float32, as transformers computes them). */
int rest_llama3(checkpoint *c) {
    static const char ALL[] = "full_attention";
    const infer_json *type = cfg_rope(c, ALL, "rope_type|type"), *base = cfg_rope(c, ALL, "rope_theta");
    const float theta = (float)(base ? infer_json_number(base) : cfg_number(c, "rope_theta", 10000));
    const float factor = (float)infer_json_number(cfg_rope(c, ALL, "factor")), low = (float)infer_json_number(cfg_rope(c, ALL, "low_freq_factor"));
    const float high = (float)infer_json_number(cfg_rope(c, ALL, "high_freq_factor")), context = (float)infer_json_number(cfg_rope(c, ALL, "original_max_position_embeddings"));
    const uint64_t n = c->head_dim / 2;
    float *x;
    uint64_t i;
    if (!cfg_says(type, "llama3")) return 1;
    if (!(factor > 0 && low > 0 && high > low && context > 0) || n == 0 || n > 1 << 16)
        return cli_fail(c->command, "%s/config.json: the rotation of Llama 3 needs factor, low_freq_factor, high_freq_factor and original_max_position_embeddings", c->folder) == CLI_DONE;
    if (make_values(c, "rope_freqs.weight", n, &x) == NULL) return 0;
    for (i = 0; i < n; i++) {
        const float f = 1.0f / powf(theta, (float)(2 * i) / (float)c->head_dim), wave = 6.283185307179586f / f;
        const float smooth = (context / wave - low) / (high - low);
        x[i] = wave < context / high ? 1 : wave > context / low ? factor : 1 / ((1 - smooth) / factor + smooth);
    }
    return 1;
}

static int factors(checkpoint *c, const char *name, const infer_json *list, uint64_t n) {
    float *x;
    uint64_t i;
    if (infer_json_count(list) != n)
        return cli_fail(c->command, "%s/config.json: long_factor and short_factor must have %.0f numbers", c->folder, (double)n) == CLI_DONE;
    if (make_values(c, name, n, &x) == NULL) return 0;
    for (i = 0; i < n; i++) x[i] = (float)infer_json_number(infer_json_at(list, (size_t)i));
    return 1;
}

/* Hunyuan stretches the base by a fixed alpha; the context it gets by that is not in the config (the published models': 256 K). */
int keys_hunyuan(checkpoint *c) {
    const infer_json *type = cfg_rope(c, "full_attention", "rope_type|type"), *alpha = cfg_rope(c, "full_attention", "alpha"), *base = cfg_rope(c, "full_attention", "rope_theta");
    const double d = (double)c->head_dim, a = infer_json_number(alpha), theta = base ? infer_json_number(base) : cfg_number(c, "rope_theta", 10000);
    if (!cfg_says(type, "dynamic") || alpha == NULL) return 1;
    if (!(a > 0 && d > 2)) return cli_fail(c->command, "%s/config.json: the alpha of rope_scaling is %g", c->folder, a) == CLI_DONE;
    key_float(c, "rope.freq_base", theta * pow(a, d / (d - 2)));
    key_text(c, "rope.scaling.type", "none");
    key_float(c, "rope.scaling.factor", 1);
    key_int(c, "rope.scaling.original_context_length", 1 << 18);
    key_int(c, "context_length", 1 << 18);
    return 1;
}

static int keys_ministral3(checkpoint *c) {
    const infer_json *all = cfg_rope(c, "full_attention", "mscale_all_dim"), *beta = cfg_rope(c, "full_attention", "llama_4_scaling_beta");
    if (all) key_float(c, "rope.scaling.yarn_log_multiplier", infer_json_number(all));
    if (beta) key_float(c, "attention.temperature_scale", infer_json_number(beta));
    return 1;
}

static int keys_minicpm3(checkpoint *c) {
    static const key_row ROWS[] = {
        {"attention.q_lora_rank", KEY_INT, "q_lora_rank", NO_DEFAULT},
        {"attention.kv_lora_rank", KEY_INT, "kv_lora_rank", NO_DEFAULT},
        {"rope.dimension_count", KEY_INT, "qk_rope_head_dim", NO_DEFAULT},
        {"vocab_size", KEY_INT, "vocab_size", NO_DEFAULT},
        {"attention.value_length", KEY_DROP, NULL, 0},
        {"rope.freq_base", KEY_FLOAT, "rope_parameters.rope_theta|rope_theta", NO_DEFAULT},
        {"rope.scaling.type", KEY_DROP, NULL, 0}, /* the tensors of factors say it */
        {NULL, 0, NULL, 0},
    };
    key_int(c, "attention.key_length", cfg_int(c, "qk_nope_head_dim", 0) + cfg_int(c, "qk_rope_head_dim", 0));
    return keys_rows(c, ROWS);
}

static uint64_t phi3_rotated(const checkpoint *c) {
    const infer_json *part = cfg_rope(c, "full_attention", "partial_rotary_factor");
    const double share = part ? infer_json_number(part) : cfg_number(c, "partial_rotary_factor", 1);
    return c->n_head ? (uint64_t)(share * (double)c->n_embd) / c->n_head : 0;
}

/* LongRoPE (arXiv:2402.13753): a factor for each frequency, and one for attention by how much longer the context is. */
int rest_longrope(checkpoint *c) {
    const infer_json *longs = cfg_rope(c, "full_attention", "long_factor"), *shorts = cfg_rope(c, "full_attention", "short_factor");
    const double original = (double)cfg_int(c, "rope_parameters.original_max_position_embeddings|original_max_position_embeddings", 0);
    const double scale = (double)cfg_int(c, "max_position_embeddings", 0) / original;
    const uint64_t n = cfg_int(c, "qk_rope_head_dim", phi3_rotated(c)) / 2;
    if (longs == NULL) return 1;
    if (!(original > 1)) return cli_fail(c->command, "%s/config.json: original_max_position_embeddings is missing", c->folder) == CLI_DONE;
    key_float(c, "rope.scaling.attn_factor", scale > 1 ? sqrt(1 + log(scale) / log(original)) : 1);
    return factors(c, "rope_factors_long.weight", longs, n) && factors(c, "rope_factors_short.weight", shorts, n);
}

int keys_phi3(checkpoint *c) {
    static const key_row ROWS[] = {
        {"rope.scaling.original_context_length", KEY_INT, "rope_parameters.original_max_position_embeddings|original_max_position_embeddings|max_position_embeddings", NO_DEFAULT},
        {"rope.scaling.type", KEY_DROP, NULL, 0}, /* the tensors of factors say it */
        {"attention.sliding_window", KEY_INT, "sliding_window", 0},
        {NULL, 0, NULL, 0},
    };
    key_int(c, "rope.dimension_count", phi3_rotated(c));
    return keys_rows(c, ROWS);
}

/* ---- tensors of other layouts --------------------------------------------------------------------- */

/* xIELU's parameters are scalars of each layer there, and keys here. */
static int keys_apertus(checkpoint *c) {
    static const char *const NAMES[] = {"alpha_n", "alpha_p", "beta", "eps"};
    char name[128];
    size_t k;
    uint64_t i;
    for (k = 0; k < sizeof NAMES / sizeof NAMES[0]; k++) {
        snprintf(name, sizeof name, "xielu.%s", NAMES[k]);
        gguf_array(&c->keys, name, GGUF_F32, c->n_layers);
        for (i = 0; i < c->n_layers; i++) {
            unsigned char raw[4];
            const st_tensor *t;
            float x;
            uint32_t bits;
            snprintf(name, sizeof name, "model.layers.%llu.mlp.act_fn.%s", (unsigned long long)i, NAMES[k]);
            t = st_find(&c->st, name);
            if (t == NULL || t->n != 1 || (t->type != ST_F32 && t->type != ST_BF16)) return cli_fail(c->command, "tensor %s is missing, or no number", name) == CLI_DONE;
            if (!st_read(&c->st, t, 0, raw, 1)) return 0;
            bits = t->type == ST_F32 ? (uint32_t)gguf_load(raw, 4) : (uint32_t)gguf_load(raw, 2) << 16;
            memcpy(&x, &bits, 4);
            gguf_element_f32(&c->keys, (double)x);
        }
    }
    return 1;
}

/* ---- rows ------------------------------------------------------------------------------------------ */

static const key_row HALF_ROTARY[] = {ROTARY(0.5), END_KEYS};
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
    ROTARY_ALL,
    END_KEYS,
};
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
static const name_row GLM4[] = {
    {"post_self_attn_layernorm", "post_attention_norm", NAME_COPY},
    {"post_mlp_layernorm", "post_ffw_norm", NAME_COPY},
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
static const key_row JAIS2[] = {ROTARY_ALL, END_KEYS};
static const key_row BITNET[] = {
    {"vocab_size", KEY_INT, "vocab_size", NO_DEFAULT},
    {"rope.scaling.type", KEY_IS_TEXT, "linear", 0},
    {"rope.scaling.factor", KEY_IS_FLOAT, NULL, 1},
    {"hidden_activation", KEY_TEXT, "hidden_act", NO_DEFAULT},
    END_KEYS,
};
static const name_row HUNYUAN[] = {
    {"self_attn.query_layernorm", "attn_q_norm", NAME_COPY},
    {"self_attn.key_layernorm", "attn_k_norm", NAME_COPY},
    END_NAMES,
};
static const name_row MINICPM3[] = {{"self_attn.kv_b_proj", "attn_kv_b", NAME_COPY}, END_NAMES};
static const name_row ERNIE[] = {
    {"self_attn.qkv_proj", "attn_q|attn_k|attn_v", NAME_QKV},
    {"mlp.up_gate_proj", "ffn_gate|ffn_up", NAME_HALVES},
    END_NAMES,
};
static const name_row BITNET_NAMES[] = {
    {"self_attn.attn_sub_norm", "attn_sub_norm", NAME_COPY},
    {"mlp.ffn_sub_norm", "ffn_sub_norm", NAME_COPY},
    END_NAMES,
};

const family DENSE_FAMILIES[] = {
    {.classes = "LlamaForCausalLM|LLaMAForCausalLM|MistralForCausalLM|MixtralForCausalLM|LlamaModel", .arch = "llama",
     .flags = ROTARY_PAIRS, .keys = LLAMA, .own_rest = rest_llama3},
    {.classes = "ArceeForCausalLM", .arch = "arcee", .act = ACT_RELU2, .flags = ROTARY_PAIRS, .keys = LLAMA, .own_rest = rest_llama3},
    {.classes = "SmolLM3ForCausalLM", .arch = "smollm3", .flags = ROTARY_PAIRS, .keys = LLAMA, .own_keys = keys_fourths,
     .own_rest = rest_llama3},
    {.classes = "Qwen2ForCausalLM|Qwen2Model", .arch = "qwen2", .own_keys = keys_pooling},
    {.classes = "Qwen3ForCausalLM|Qwen3Model", .arch = "qwen3", .own_keys = keys_pooling},
    {.classes = "Qwen2VLForConditionalGeneration|Qwen2_5_VLForConditionalGeneration", .arch = "qwen2vl"},
    {.classes = "Qwen3VLForConditionalGeneration", .arch = "qwen3vl", .own_keys = keys_qwen3_vl},
    {.classes = "Phi3ForCausalLM", .arch = "phi3", .own_keys = keys_phi3, .own_rest = rest_longrope},
    {.classes = "Glm4ForCausalLM", .arch = "glm4", .keys = HALF_ROTARY, .names = GLM4},
    {.classes = "OlmoForCausalLM|OLMoForCausalLM", .arch = "olmo", .flags = ROTARY_PAIRS, .keys = OLMO},
    {.classes = "Olmo2ForCausalLM|Olmo3ForCausalLM", .arch = "olmo2", .keys = OLMO2, .names = AFTER,
     .own_keys = keys_windows},
    {.classes = "CohereForCausalLM", .arch = "command-r", .keys = COHERE},
    {.classes = "Cohere2ForCausalLM", .arch = "cohere2", .keys = COHERE2},
    {.classes = "ApertusForCausalLM", .arch = "apertus", .act = ACT_XIELU, .keys = LLAMA, .names = APERTUS, .own_keys = keys_apertus,
     .own_rest = rest_llama3},
    {.classes = "Exaone4ForCausalLM", .arch = "exaone4", .keys = EXAONE4, .names = AFTER, .own_keys = keys_windows,
     .own_rest = rest_llama3},
    {.classes = "GlmForCausalLM", .arch = "chatglm", .keys = HALF_ROTARY},
    {.classes = "SeedOssForCausalLM", .arch = "seed_oss", .names = AFTER, .own_rest = rest_llama3},
    {.classes = "Jais2ForCausalLM", .arch = "jais2", .act = ACT_RELU2, .keys = JAIS2},
    {.classes = "Ernie4_5ForCausalLM|Ernie4_5_ForCausalLM", .arch = "ernie4_5", .names = ERNIE},
    {.classes = "HunYuanDenseV1ForCausalLM", .arch = "hunyuan-dense", .names = HUNYUAN, .own_keys = keys_hunyuan},
    {.classes = "MiniCPM3ForCausalLM", .arch = "minicpm3", .names = MINICPM3, .own_keys = keys_minicpm3, .own_rest = rest_longrope},
    {.classes = "Ministral3ForCausalLM", .arch = "mistral3", .flags = ROTARY_PAIRS, .keys = LLAMA, .own_keys = keys_ministral3},
    {.classes = "BitNetForCausalLM|BitnetForCausalLM", .arch = "bitnet", .act = ACT_ANY, .keys = BITNET, .names = BITNET_NAMES},
    {.classes = NULL},
};
