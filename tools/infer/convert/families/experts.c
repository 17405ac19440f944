/* experts.c: DeepSeek, GLM 4.5, gpt-oss, Llama 4. */
#include "families.h"

#include <stdlib.h>
#include <string.h>

static const key_row EXPERTS[] = {
    {"expert_feed_forward_length", KEY_INT, "moe_intermediate_size|intermediate_size", NO_DEFAULT},
    {"expert_count", KEY_INT, "n_routed_experts", NO_DEFAULT},
    {"expert_shared_count", KEY_INT, "n_shared_experts", 0},
    {"expert_weights_scale", KEY_FLOAT, "routed_scaling_factor", NO_DEFAULT},
    {"leading_dense_block_count", KEY_INT, "first_k_dense_replace", NO_DEFAULT},
    {NULL, 0, NULL, 0},
};

/* ---- DeepSeek V2, V3 ------------------------------------------------------------------------------ */

static int keys_deepseek2(checkpoint *c) {
    static const key_row ROWS[] = {
        {"attention.layer_norm_rms_epsilon", KEY_FLOAT, "rms_norm_eps", 1e-6},
        {"vocab_size", KEY_INT, "vocab_size", NO_DEFAULT},
        {"attention.q_lora_rank", KEY_INT, "q_lora_rank", NO_DEFAULT},
        {"attention.value_length_mla", KEY_INT, "v_head_dim", NO_DEFAULT},
        {"rope.dimension_count", KEY_INT, "qk_rope_head_dim", NO_DEFAULT},
        {NULL, 0, NULL, 0},
    };
    const uint64_t rank = cfg_int(c, "kv_lora_rank", 512), rotated = cfg_int(c, "qk_rope_head_dim", 0), nope = cfg_int(c, "qk_nope_head_dim", 0);
    const infer_json *all = cfg_rope(c, "full_attention", "mscale_all_dim");
    key_int(c, "attention.head_count_kv", 1);
    key_int(c, "attention.kv_lora_rank", rank);
    key_int(c, "attention.key_length", rank + rotated);
    key_int(c, "attention.value_length", rank);
    key_int(c, "attention.key_length_mla", nope + rotated);
    if (cfg_true(c, "norm_topk_prob", 0)) key_bool(c, "expert_weights_norm", 1);
    if (all) key_float(c, "rope.scaling.yarn_log_multiplier", 0.1 * infer_json_number(all));
    return keys_rows(c, ROWS) && keys_rows(c, EXPERTS);
}

/* kv_b_proj: for each head what makes K (nope rows) and what makes V; K's is stored transposed, to be multiplied with Q. */
static int tensor_deepseek2(checkpoint *c, st_tensor *t, int64_t layer, const char *rest) {
    const uint64_t nope = cfg_int(c, "qk_nope_head_dim", 0), value = cfg_int(c, "v_head_dim", 0), rank = t->n_dims == 2 ? t->dims[1] : 0, heads = c->n_head;
    const uint64_t k_dims[3] = {nope, rank, heads}, v_dims[3] = {rank, value, heads};
    char name[128];
    view *k, *v;
    if (strcmp(rest, "self_attn.kv_b_proj.weight") != 0) return 0;
    if (nope > 1 << 20 || value > 1 << 20 || rank == 0 || t->dims[0] != heads * (nope + value))
        return cli_fail(c->command, "tensor %s has not the shape that config.json asks for", t->name) == CLI_DONE ? 1 : -1;
    k = make_view(c, make(c, name_in(name, layer, "attn_k_b.weight"), 3, k_dims), t, 0);
    view_loop(k, heads, (nope + value) * rank);
    view_loop(k, rank, 1);
    view_loop(k, nope, rank);
    v = make_view(c, make(c, name_in(name, layer, "attn_v_b.weight"), 3, v_dims), t, nope * rank);
    view_loop(v, heads, (nope + value) * rank);
    view_loop(v, value * rank, 1);
    return k && v ? 1 : -1;
}

/* ---- GLM 4.5 -------------------------------------------------------------------------------------- */

static int keys_experts(checkpoint *c) { return keys_rows(c, EXPERTS); }
static int keys_glm4moe(checkpoint *c) {
    static const key_row ROWS[] = {
        {"nextn_predict_layers", KEY_INT, "num_nextn_predict_layers", NO_DEFAULT},
        {"expert_weights_norm", KEY_BOOL, "norm_topk_prob", NO_DEFAULT},
        {NULL, 0, NULL, 0},
    };
    return keys_rows(c, ROWS) && keys_rows(c, EXPERTS);
}

/* ---- ERNIE 4.5 ------------------------------------------------------------------------------------- */

static int keys_ernie_moe(checkpoint *c) {
    static const key_row ROWS[] = {
        {"interleave_moe_layer_step", KEY_INT, "moe_layer_interval", 1},
        {"leading_dense_block_count", KEY_INT, "moe_layer_start_index", 1},
        {"expert_feed_forward_length", KEY_INT, "moe_intermediate_size", NO_DEFAULT},
        {"expert_shared_count", KEY_INT, "moe_num_shared_experts", NO_DEFAULT},
        {NULL, 0, NULL, 0},
    };
    const uint64_t shared = cfg_int(c, "moe_num_shared_experts", 0);
    if (shared) key_int(c, "expert_shared_feed_forward_length", shared * cfg_int(c, "moe_intermediate_size", 0));
    return keys_rows(c, ROWS);
}

/* The bias of the choice has a row for each of several kinds of tokens; text is one. */
static int tensor_ernie_moe(checkpoint *c, st_tensor *t, int64_t layer, const char *rest) {
    char name[128];
    if (strcmp(rest, "mlp.moe_statics.e_score_correction_bias") != 0) return 0;
    return make_whole(c, name_in(name, layer, "exp_probs_b.bias"), t, 0) ? 1 : -1;
}

/* ---- DBRX ----------------------------------------------------------------------------------------- */

/* Experts' matrices are one below the other; the second of each is stored transposed. */
static int tensor_dbrx(checkpoint *c, st_tensor *t, int64_t layer, const char *rest) {
    static const char *const NAMES[][2] = {{"w1", "ffn_gate_exps.weight"}, {"v1", "ffn_up_exps.weight"}, {"w2", "ffn_down_exps.weight"}};
    const char *what = rest + 16;
    size_t i;
    if (strncmp(rest, "ffn.experts.mlp.", 16) != 0) return 0;
    for (i = 0; i < 3; i++)
        if (strcmp(what, NAMES[i][0]) == 0) return experts_below(c, t, layer, NAMES[i][1], cfg_int(c, "ffn_config.moe_num_experts", 0), i == 2);
    return 0;
}

/* ---- gpt-oss -------------------------------------------------------------------------------------- */

/* A view of [experts][rows][cols] where every second row, or column, is the gate's, and the others are the linear part's. */
static int oss_half(checkpoint *c, st_tensor *t, const char *name, uint64_t half) {
    const uint64_t e = t->dims[0], a = t->dims[1], b = t->n_dims > 2 ? t->dims[2] : 0;
    made *m;
    view *v;
    if (t->n_dims == 2) { /* biases */
        const uint64_t dims[2] = {a / 2, e};
        v = make_view(c, make(c, name, 2, dims), t, half);
        view_loop(v, e, a);
        view_loop(v, a / 2, 2);
    } else if (t->n_dims == 3) { /* stored as [inputs][outputs] */
        const uint64_t dims[3] = {a, b / 2, e};
        v = make_view(c, make(c, name, 3, dims), t, half);
        view_loop(v, e, a * b);
        view_loop(v, b / 2, 2);
        view_loop(v, a, b);
    } else { /* blocks of MXFP4: [outputs][blocks][16 bytes] */
        const uint64_t dims[3] = {b * 32, a / 2, e};
        m = make(c, name, 3, dims);
        v = make_view(c, m, t, half * b);
        view_loop(v, e, a * b);
        view_loop(v, a / 2, 2 * b);
        view_loop(v, b, 1);
        if (m) m->op = MADE_MXFP4;
    }
    return v != NULL;
}

/* Sets the scales of the tensors made since `first`. */
static int oss_scales(checkpoint *c, const st_tensor *blocks, size_t first) {
    char name[256];
    st_tensor *scales;
    size_t i, k;
    snprintf(name, sizeof name, "%.*sscales", (int)(strlen(blocks->name) - 6), blocks->name);
    scales = st_find(&c->st, name);
    if (blocks->n_dims != 4 || blocks->dims[3] != 16 || blocks->type != ST_U8 || scales == NULL || scales->type != ST_U8 || scales->n != blocks->n / 16)
        return cli_fail(c->command, "tensor %s: its blocks of MXFP4 or their scales are not as they should be", blocks->name) == CLI_DONE;
    scales->used = 1;
    for (i = first; i < c->m->n_tensors; i++)
        for (k = 0; k < c->made[i].n_views; k++) c->made[i].views[k].scales = scales;
    return 1;
}

static int tensor_gpt_oss(checkpoint *c, st_tensor *t, int64_t layer, const char *rest) {
    const size_t first = c->m->n_tensors;
    char a[128], b[128];
    const char *what = rest + 12;
    int ok;
    if (strncmp(rest, "mlp.experts.", 12) != 0) return 0;
    if (strstr(what, "_scales")) return 1; /* with the blocks */
    if (t->n_dims < 2 || t->n_dims > 4) return 0;
    if (strncmp(what, "gate_up_proj", 12) == 0) {
        const char *end = strcmp(what, "gate_up_proj_bias") == 0 ? "bias" : "weight";
        snprintf(a, sizeof a, "blk.%lld.ffn_gate_exps.%s", (long long)layer, end);
        snprintf(b, sizeof b, "blk.%lld.ffn_up_exps.%s", (long long)layer, end);
        ok = oss_half(c, t, a, 0) && oss_half(c, t, b, 1);
    } else if (strcmp(what, "down_proj_bias") == 0) return make_whole(c, name_in(a, layer, "ffn_down_exps.bias"), t, 0) ? 1 : -1;
    else if (strcmp(what, "down_proj_blocks") == 0 && t->n_dims == 4) {
        const uint64_t dims[3] = {t->dims[2] * 32, t->dims[1], t->dims[0]};
        made *m = make(c, name_in(a, layer, "ffn_down_exps.weight"), 3, dims);
        view *v = make_view(c, m, t, 0);
        view_loop(v, t->n / 16, 1);
        if (m) m->op = MADE_MXFP4;
        ok = v != NULL;
    } else return name_by_rows(c, t, layer, strcmp(what, "down_proj") == 0 ? "mlp.experts.down_transposed" : rest) ? 1 : -1;
    if (ok && strstr(what, "_blocks")) ok = oss_scales(c, t, first);
    return ok ? 1 : -1;
}

/* ---- Llama 4 -------------------------------------------------------------------------------------- */

static int keys_llama4(checkpoint *c) {
    static const key_row ROWS[] = {
        {"interleave_moe_layer_step", KEY_INT, "interleave_moe_layer_step", NO_DEFAULT},
        {"expert_feed_forward_length", KEY_INT, "intermediate_size", NO_DEFAULT},
        {"feed_forward_length", KEY_INT, "intermediate_size_mlp", NO_DEFAULT},
        {NULL, 0, NULL, 0},
    };
    return keys_rows(c, ROWS);
}

/* Experts are stored as [inputs][outputs], gate and up side by side. */
static int tensor_llama4(checkpoint *c, st_tensor *t, int64_t layer, const char *rest) {
    static const char *const NAMES[] = {"ffn_gate_exps.weight", "ffn_up_exps.weight"};
    char name[128];
    uint64_t i;
    if (strcmp(rest, "feed_forward.experts.down_proj") == 0) return name_by_rows(c, t, layer, "mlp.experts.down_transposed") ? 1 : -1;
    if (strcmp(rest, "feed_forward.experts.gate_up_proj") != 0 || t->n_dims != 3) return 0;
    for (i = 0; i < 2; i++) {
        const uint64_t in = t->dims[1], both = t->dims[2], dims[3] = {in, both / 2, t->dims[0]};
        view *v = make_view(c, make(c, name_in(name, layer, NAMES[i]), 3, dims), t, i * (both / 2));
        view_loop(v, t->dims[0], in * both);
        view_loop(v, both / 2, 1);
        view_loop(v, in, both);
        if (v == NULL) return -1;
    }
    return 1;
}

/* ---- rows ------------------------------------------------------------------------------------------ */

static const key_row GPT_OSS[] = {
    {"attention.sliding_window", KEY_INT, "sliding_window", NO_DEFAULT},
    {"expert_feed_forward_length", KEY_INT, "intermediate_size", NO_DEFAULT},
    END_KEYS,
};
static const key_row MINIMAX_M2[] = {
    {"expert_feed_forward_length", KEY_INT, "intermediate_size", NO_DEFAULT},
    {"rope.dimension_count", KEY_INT, "rotary_dim", NO_DEFAULT},
    END_KEYS,
};
static const key_row GLM4MOE[] = {ROTARY(0.5), END_KEYS};
static const key_row SOLAR[] = {ROTARY(1), END_KEYS};
static const key_row WEIGHTS_NORM[] = {{"expert_weights_norm", KEY_BOOL, "norm_topk_prob", NO_DEFAULT}, END_KEYS};
static const key_row DBRX[] = {
    {"feed_forward_length", KEY_INT, "ffn_config.ffn_hidden_size", NO_DEFAULT},
    {"attention.layer_norm_epsilon", KEY_IS_FLOAT, NULL, 1e-5},
    {"attention.clamp_kqv", KEY_FLOAT, "attn_config.clip_qkv", NO_DEFAULT},
    {"rope.freq_base", KEY_FLOAT, "attn_config.rope_theta|rope_theta", 10000},
    {"expert_count", KEY_INT, "ffn_config.moe_num_experts", NO_DEFAULT},
    {"expert_used_count", KEY_INT, "ffn_config.moe_top_k", NO_DEFAULT},
    END_KEYS,
};
static const name_row DBRX_NAMES[] = {
    {"norm_attn_norm.norm_1", "attn_norm", NAME_COPY},
    {"norm_attn_norm.norm_2", "attn_output_norm", NAME_COPY},
    {"norm_attn_norm.attn.Wqkv", "attn_qkv", NAME_COPY},
    {"norm_attn_norm.attn.out_proj", "attn_output", NAME_COPY},
    {"ffn.router.layer", "ffn_gate_inp", NAME_COPY},
    END_NAMES,
};

const family EXPERTS_FAMILIES[] = {
    {.classes = "Qwen2MoeForCausalLM", .arch = "qwen2moe", .keys = QWEN_MOE},
    {.classes = "Qwen3MoeForCausalLM", .arch = "qwen3moe", .keys = QWEN_MOE},
    {.classes = "GptOssForCausalLM", .arch = "gpt-oss", .keys = GPT_OSS, .names = AFTER, .own_tensor = tensor_gpt_oss},
    {.classes = "DeepseekV3ForCausalLM|Glm4MoeLiteForCausalLM", .arch = "deepseek2", .flags = ROUTES_SIGMOID,
     .own_keys = keys_deepseek2, .own_tensor = tensor_deepseek2},
    {.classes = "DeepseekV2ForCausalLM", .arch = "deepseek2", .own_keys = keys_deepseek2,
     .own_tensor = tensor_deepseek2},
    {.classes = "Glm4MoeForCausalLM", .arch = "glm4moe", .flags = NEXT_BLOCKS | ROUTES_SIGMOID, .keys = GLM4MOE, .names = AFTER, .own_keys = keys_glm4moe},
    {.classes = "OlmoeForCausalLM", .arch = "olmoe"},
    {.classes = "Llama4ForCausalLM|Llama4ForConditionalGeneration", .arch = "llama4", .keys = LLAMA, .names = FEED_FORWARD,
     .own_keys = keys_llama4, .own_tensor = tensor_llama4, .own_rest = rest_llama3},
    {.classes = "MiniMaxM2ForCausalLM", .arch = "minimax-m2", .keys = MINIMAX_M2},
    {.classes = "SolarOpenForCausalLM", .arch = "glm4moe", .flags = NEXT_BLOCKS | ROUTES_SIGMOID, .keys = SOLAR, .names = AFTER,
     .own_keys = keys_glm4moe},
    {.classes = "Dots1ForCausalLM", .arch = "dots1", .flags = ROUTES_SIGMOID, .keys = WEIGHTS_NORM, .own_keys = keys_experts},
    {.classes = "Ernie4_5_MoeForCausalLM", .arch = "ernie4_5-moe", .own_keys = keys_ernie_moe, .own_tensor = tensor_ernie_moe},
    {.classes = "DbrxForCausalLM", .arch = "dbrx", .keys = DBRX, .names = DBRX_NAMES, .own_tensor = tensor_dbrx},
    {.classes = NULL},
};
