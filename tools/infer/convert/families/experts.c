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
    const infer_json *all = cfg_rope(c, "full_attention", "mscale_all_dim"), *one = cfg_rope(c, "full_attention", "mscale");
    if (all && infer_json_number(one) != infer_json_number(all) && one)
        return cli_fail(c->command, "%s/config.json: mscale and mscale_all_dim that differ are not supported", c->folder) == CLI_DONE;
    if (cfg_says(cfg(c, "topk_method"), "greedy") && cfg_int(c, "n_group", 1) > 1) { /* groups are not used */
        key_int(c, "expert_group_count", 1);
        key_int(c, "expert_group_used_count", 1);
    }
    if (cfg_says(cfg(c, "topk_method"), "group_limited_greedy") && c->family->flags & ROUTES_SIGMOID)
        return cli_fail(c->command, "%s/config.json: topk_method group_limited_greedy is not supported with scores that are sigmoids", c->folder) == CLI_DONE;
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
    const int own = strcmp(rest, "self_attn.kv_b_proj.weight") == 0;
    const uint64_t nope = own ? cfg_int(c, "qk_nope_head_dim", 0) : 0, value = own ? cfg_int(c, "v_head_dim", 0) : 0, rank = t->n_dims == 2 ? t->dims[1] : 0, heads = c->n_head;
    const uint64_t k_dims[3] = {nope, rank, heads}, v_dims[3] = {rank, value, heads};
    char name[128];
    view *k, *v;
    if (!own) return 0;
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

/* Weights of experts: divided by their sum or not. No key says it where it is what engines take. */
static int weights_norm(checkpoint *c, int usual) {
    const int norm = cfg_true(c, "norm_topk_prob", usual);
    if (norm != usual) key_bool(c, "expert_weights_norm", norm);
    return 1;
}
int keys_weights_normed(checkpoint *c) { return weights_norm(c, 1); }
static int keys_weights_raw(checkpoint *c) { return weights_norm(c, 0); }

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
    if (cfg_true(c, "use_qk_norm", 1) != (cfg_int(c, CFG_EXPERTS, 0) != 128))
        return cli_fail(c->command, "%s/config.json: use_qk_norm must be true unless there are 128 experts: no key can say it", c->folder) == CLI_DONE;
    return keys_fourths(c) && keys_rows(c, ROWS);
}

/* Experts stored as [inputs][outputs], gate and up side by side. */
static int side_by_side(checkpoint *c, st_tensor *t, int64_t layer) {
    static const char *const NAMES[] = {"ffn_gate_exps.weight", "ffn_up_exps.weight"};
    char name[128];
    uint64_t i;
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

static int tensor_llama4(checkpoint *c, st_tensor *t, int64_t layer, const char *rest) {
    if (strcmp(rest, "feed_forward.experts.down_proj") == 0) return name_by_rows(c, t, layer, "mlp.experts.down_transposed") ? 1 : -1;
    return strcmp(rest, "feed_forward.experts.gate_up_proj") == 0 && t->n_dims == 3 ? side_by_side(c, t, layer) : 0;
}

/* ---- Qwen3-VL with experts -------------------------------------------------------------------------- */

/* Published models store experts as [inputs][outputs], transformers saves them the other way round. The second matrix shows which it is:
 * it has as many inputs as an expert is wide. */
static int tensor_qwen3_vl_moe(checkpoint *c, st_tensor *t, int64_t layer, const char *rest) {
    const int down = strcmp(rest, "mlp.experts.down_proj") == 0;
    const st_tensor *second = t;
    char name[512];
    if ((!down && strcmp(rest, "mlp.experts.gate_up_proj") != 0) || t->n_dims != 3) return 0;
    if (!down) {
        snprintf(name, sizeof name, "%.*sdown_proj", (int)(strlen(t->name) - strlen("gate_up_proj")), t->name);
        second = st_find(&c->st, name);
    }
    if (second == NULL && c->partial) return cli_fail(c->command, "tensor %s: its order cannot be told without down_proj's", t->name) == CLI_DONE ? 1 : -1;
    if (second == NULL || second->n_dims != 3 || second->dims[1] != cfg_int(c, "moe_intermediate_size", 0)) return 0;
    return down ? (name_by_rows(c, t, layer, "mlp.experts.down_transposed") ? 1 : -1) : side_by_side(c, t, layer);
}

/* ---- Hunyuan --------------------------------------------------------------------------------------- */

/* A number, or a list with one for each layer, which must be the same. */
static int key_of_all(checkpoint *c, const char *key, const char *from) {
    const infer_json *v = cfg(c, from), *first = infer_json_kind(v) == INFER_JSON_ARRAY ? infer_json_at(v, 0) : v;
    size_t i;
    if (v == NULL) return 1;
    for (i = 1; i < infer_json_count(v); i++)
        if (infer_json_int(infer_json_at(v, i)) != infer_json_int(first))
            return cli_fail(c->command, "%s/config.json: %s that differ from layer to layer are not supported", c->folder, from) == CLI_DONE;
    if (infer_json_kind(first) != INFER_JSON_INT || infer_json_int(first) < 0) return cli_fail(c->command, "%s/config.json: %s is no number", c->folder, from) == CLI_DONE;
    key_int(c, key, (uint64_t)infer_json_int(first));
    return 1;
}
static int keys_hunyuan_moe(checkpoint *c) {
    key_int(c, "expert_shared_feed_forward_length", cfg_int(c, "intermediate_size", 0));
    return keys_hunyuan(c) && key_of_all(c, "expert_feed_forward_length", cfg(c, "moe_intermediate_size") ? "moe_intermediate_size" : "intermediate_size") &&
           key_of_all(c, "expert_used_count", "moe_topk") && key_of_all(c, "expert_shared_count", cfg(c, "num_shared_expert") ? "num_shared_expert" : "num_shared_experts");
}

/* ---- Laguna ---------------------------------------------------------------------------------------- */

/* How many layers before the first with experts. */
static uint64_t leading_dense(const checkpoint *c) {
    const infer_json *types = cfg(c, "mlp_layer_types");
    uint64_t n = 0;
    if (infer_json_kind(types) != INFER_JSON_ARRAY) return cfg_int(c, "first_k_dense_replace", 0);
    while (n < infer_json_count(types) && cfg_says(infer_json_at(types, (size_t)n), "dense")) n++;
    return n;
}

static int keys_laguna(checkpoint *c) {
    static const key_row ROWS[] = {
        {"expert_shared_feed_forward_length", KEY_INT, "shared_expert_intermediate_size", NO_DEFAULT},
        {"expert_weights_scale", KEY_FLOAT, "moe_routed_scaling_factor", 1},
        {"expert_weights_norm", KEY_IS_BOOL, NULL, 1},
        {NULL, 0, NULL, 0},
    };
    const infer_json *heads = cfg(c, "num_attention_heads_per_layer"), *part = cfg_rope(c, "sliding_attention", "partial_rotary_factor");
    uint64_t *list = cli_alloc(c->command, (size_t)c->n_layers + 1, sizeof *list), i;
    if (list == NULL) return 0;
    for (i = 0; i < c->n_layers; i++) {
        const int64_t n = infer_json_int(infer_json_at(heads, (size_t)i));
        list[i] = n > 0 && n <= 1 << 16 ? (uint64_t)n : c->n_head;
    }
    if (infer_json_count(heads) == c->n_layers) key_ints(c, "attention.head_count", list, c->n_layers);
    free(list);
    key_int(c, "leading_dense_block_count", leading_dense(c));
    key_int(c, "rope.dimension_count_swa", part ? (uint64_t)(infer_json_number(part) * (double)c->head_dim) : c->head_dim);
    return keys_rows(c, ROWS);
}

static int keys_cohere2_moe(checkpoint *c) {
    static const key_row ROWS[] = {
        {"expert_feed_forward_length", KEY_INT, "intermediate_size", NO_DEFAULT},
        {"expert_shared_count", KEY_INT, "num_shared_experts", NO_DEFAULT},
        {"expert_weights_norm", KEY_BOOL, "norm_topk_prob", 0},
        {"logit_scale", KEY_FLOAT, "logit_scale", NO_DEFAULT},
        {"rope.scaling.type", KEY_IS_TEXT, "none", 0},
        {NULL, 0, NULL, 0},
    };
    static const key_row NO_DENSE[] = {{"feed_forward_length", KEY_DROP, NULL, 0}, {NULL, 0, NULL, 0}};
    const uint64_t shared = cfg_int(c, "num_shared_experts", 0);
    if (shared) key_int(c, "expert_shared_feed_forward_length", shared * cfg_int(c, "intermediate_size", 0));
    key_int(c, "leading_dense_block_count", leading_dense(c));
    return keys_rows(c, ROWS) && (cfg(c, "prefix_dense_intermediate_size") || keys_rows(c, NO_DENSE)) && keys_windows(c);
}

static int keys_hy_v3(checkpoint *c) {
    const uint64_t shared = cfg_int(c, "num_shared_experts", 1);
    key_int(c, "expert_shared_feed_forward_length", shared * cfg_int(c, "moe_intermediate_size", 0));
    return 1;
}
static int keys_mellum(checkpoint *c) { return keys_weights_normed(c) && keys_windows(c); }
static int keys_qwen3_vl_moe(checkpoint *c) { return keys_weights_normed(c) && keys_qwen3_vl(c); }

static int keys_exaone_moe(checkpoint *c) {
    if (!keys_hy_v3(c)) return 0;
    key_int(c, "leading_dense_block_count", leading_dense(c));
    return keys_windows(c);
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
static const key_row OLMOE[] = {{"attention.clamp_kqv", KEY_FLOAT, "clip_qkv", NO_DEFAULT}, END_KEYS};
static const key_row AFMOE[] = {
    ROTARY_ALL,
    {"vocab_size", KEY_INT, "vocab_size", NO_DEFAULT},
    {"attention.sliding_window", KEY_INT, "sliding_window", NO_DEFAULT},
    {"leading_dense_block_count", KEY_INT, "num_dense_layers", NO_DEFAULT},
    {"expert_feed_forward_length", KEY_INT, "moe_intermediate_size", NO_DEFAULT},
    {"expert_shared_count", KEY_INT, "num_shared_experts", NO_DEFAULT},
    {"expert_weights_norm", KEY_IS_BOOL, NULL, 1},
    {"expert_weights_scale", KEY_FLOAT, "route_scale", NO_DEFAULT},
    END_KEYS,
};
static const name_row AFMOE_NAMES[] = {
    {"post_attention_layernorm", "post_attention_norm", NAME_COPY},
    {"pre_mlp_layernorm", "ffn_norm", NAME_COPY},
    {"post_mlp_layernorm", "post_ffw_norm", NAME_COPY},
    {"self_attn.gate_proj", "attn_gate", NAME_COPY},
    {"mlp.router.gate", "ffn_gate_inp", NAME_COPY},
    {"mlp.expert_bias", "exp_probs_b.bias", NAME_COPY},
    END_NAMES,
};
static const key_row EXAONE_MOE[] = {
    {"vocab_size", KEY_INT, "vocab_size", NO_DEFAULT},
    {"attention.sliding_window", KEY_INT, "sliding_window", NO_DEFAULT},
    {"expert_feed_forward_length", KEY_INT, "moe_intermediate_size", NO_DEFAULT},
    {"expert_shared_count", KEY_INT, "num_shared_experts", NO_DEFAULT},
    {"expert_weights_norm", KEY_BOOL, "norm_topk_prob", 1},
    {"expert_weights_scale", KEY_FLOAT, "routed_scaling_factor", NO_DEFAULT},
    {"nextn_predict_layers", KEY_IS_INT, NULL, 0},
    {"rope.scaling.type", KEY_IS_TEXT, "none", 0},
    END_KEYS,
};
static const name_row EXAONE_MOE_NAMES[] = {{"mlp.e_score_correction_bias", "exp_probs_b.bias", NAME_COPY}, END_NAMES};
static const key_row HY_V3[] = {
    {"expert_feed_forward_length", KEY_INT, "moe_intermediate_size", NO_DEFAULT},
    {"expert_weights_norm", KEY_BOOL, "route_norm", 1},
    {"expert_weights_scale", KEY_FLOAT, "router_scaling_factor", 1},
    END_KEYS,
};
/* Hunyuan with experts, Hy 3 */
static const name_row HUNYUAN_MOE[] = {
    {"self_attn.query_layernorm", "attn_q_norm", NAME_COPY},
    {"self_attn.key_layernorm", "attn_k_norm", NAME_COPY},
    {"mlp.gate.wg", "ffn_gate_inp", NAME_COPY},
    {"mlp.router.gate", "ffn_gate_inp", NAME_COPY},
    {"mlp.expert_bias", "exp_probs_b", NAME_COPY},
    {"mlp.shared_mlp.gate_proj", "ffn_gate_shexp", NAME_COPY},
    {"mlp.shared_mlp.up_proj", "ffn_up_shexp", NAME_COPY},
    {"mlp.shared_mlp.down_proj", "ffn_down_shexp", NAME_COPY},
    END_NAMES,
};
static const key_row LAGUNA[] = {
    ROTARY(1),
    {"vocab_size", KEY_INT, "vocab_size", NO_DEFAULT},
    {"attention.sliding_window", KEY_INT, "sliding_window", NO_DEFAULT},
    {"expert_feed_forward_length", KEY_INT, "moe_intermediate_size", NO_DEFAULT},
    END_KEYS,
};
static const name_row LAGUNA_NAMES[] = {
    {"self_attn.g_proj", "attn_gate", NAME_COPY},
    {"mlp.experts.e_score_correction_bias", "exp_probs_b.bias", NAME_COPY},
    END_NAMES,
};
static const key_row MELLUM[] = {
    {"attention.sliding_window", KEY_INT, "sliding_window", NO_DEFAULT},
    {"expert_feed_forward_length", KEY_INT, "moe_intermediate_size", NO_DEFAULT},
    END_KEYS,
};
static const key_row COHERE2_MOE[] = {
    ROTARY_ALL,
    {"vocab_size", KEY_INT, "vocab_size", NO_DEFAULT},
    {"attention.sliding_window", KEY_INT, "sliding_window", NO_DEFAULT},
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
    {.classes = "Qwen2MoeForCausalLM", .arch = "qwen2moe", .keys = QWEN_MOE, .own_keys = keys_weights_raw},
    {.classes = "Qwen3MoeForCausalLM", .arch = "qwen3moe", .keys = QWEN_MOE, .own_keys = keys_weights_normed},
    {.classes = "GptOssForCausalLM", .arch = "gpt-oss", .keys = GPT_OSS, .names = AFTER, .own_tensor = tensor_gpt_oss},
    {.classes = "DeepseekV3ForCausalLM|Glm4MoeLiteForCausalLM", .arch = "deepseek2", .flags = ROUTES_SIGMOID,
     .own_keys = keys_deepseek2, .own_tensor = tensor_deepseek2},
    {.classes = "DeepseekV2ForCausalLM", .arch = "deepseek2", .own_keys = keys_deepseek2,
     .own_tensor = tensor_deepseek2},
    {.classes = "Glm4MoeForCausalLM", .arch = "glm4moe", .flags = NEXT_BLOCKS | ROUTES_SIGMOID, .keys = GLM4MOE, .names = AFTER, .own_keys = keys_glm4moe},
    {.classes = "OlmoeForCausalLM", .arch = "olmoe", .keys = OLMOE, .own_keys = keys_weights_raw},
    {.classes = "Llama4ForCausalLM|Llama4ForConditionalGeneration", .arch = "llama4", .keys = LLAMA, .names = FEED_FORWARD,
     .own_keys = keys_llama4, .own_tensor = tensor_llama4, .own_rest = rest_llama3},
    {.classes = "MiniMaxM2ForCausalLM", .arch = "minimax-m2", .keys = MINIMAX_M2},
    {.classes = "SolarOpenForCausalLM", .arch = "glm4moe", .flags = NEXT_BLOCKS | ROUTES_SIGMOID, .keys = SOLAR, .names = AFTER,
     .own_keys = keys_glm4moe},
    {.classes = "Dots1ForCausalLM", .arch = "dots1", .flags = ROUTES_SIGMOID, .keys = WEIGHTS_NORM, .own_keys = keys_experts},
    {.classes = "Ernie4_5_MoeForCausalLM", .arch = "ernie4_5-moe", .own_keys = keys_ernie_moe, .own_tensor = tensor_ernie_moe},
    {.classes = "DbrxForCausalLM", .arch = "dbrx", .act = ACT_DBRX, .keys = DBRX, .names = DBRX_NAMES, .own_tensor = tensor_dbrx},
    {.classes = "Qwen3VLMoeForConditionalGeneration", .arch = "qwen3vlmoe", .keys = QWEN_MOE, .own_keys = keys_qwen3_vl_moe,
     .own_tensor = tensor_qwen3_vl_moe},
    {.classes = "PhimoeForCausalLM|PhiMoEForCausalLM", .arch = "phimoe", .own_keys = keys_phi3, .own_rest = rest_longrope},
    {.classes = "HunYuanMoEV1ForCausalLM", .arch = "hunyuan-moe", .names = HUNYUAN_MOE, .own_keys = keys_hunyuan_moe},
    {.classes = "HYV3ForCausalLM", .arch = "hy_v3", .flags = ROUTES_SIGMOID, .keys = HY_V3, .names = HUNYUAN_MOE,
     .own_keys = keys_hy_v3},
    {.classes = "AfmoeForCausalLM", .arch = "afmoe", .flags = ROUTES_SIGMOID, .keys = AFMOE, .names = AFMOE_NAMES},
    {.classes = "ExaoneMoeForCausalLM|ExaoneMoEForCausalLM", .arch = "exaone-moe", .flags = ROUTES_SIGMOID, .keys = EXAONE_MOE,
     .names = EXAONE_MOE_NAMES, .own_keys = keys_exaone_moe},
    {.classes = "LagunaForCausalLM", .arch = "laguna", .flags = ROUTES_SIGMOID, .keys = LAGUNA, .names = LAGUNA_NAMES,
     .own_keys = keys_laguna},
    {.classes = "MellumForCausalLM", .arch = "mellum", .keys = MELLUM, .own_keys = keys_mellum},
    {.classes = "Cohere2MoeForCausalLM", .arch = "cohere2moe", .keys = COHERE2_MOE, .own_keys = keys_cohere2_moe},
    {.classes = NULL},
};
