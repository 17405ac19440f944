/* linear.c: models with layers that keep a state: gated delta nets, Mamba, short convolutions. */
#include "families.h"

#include <stdlib.h>
#include <string.h>

/* ---- Qwen3-Next, Qwen3.5 -------------------------------------------------------------------------- */

/* "mtp.layers.I.": layers behind the others. */
static uint64_t next_layers(const checkpoint *c) {
    uint64_t n = 0;
    size_t i;
    for (i = 0; i < c->st.n; i++) {
        const char *s = c->st.tensors[i].name, *at = strncmp(s, "model.", 6) == 0 ? s + 6 : s;
        if (strncmp(at, "mtp.layers.", 11) == 0 && (uint64_t)atol(at + 11) + 1 > n) n = (uint64_t)atol(at + 11) + 1;
    }
    return n;
}

static int keys_qwen_linear(checkpoint *c) {
    static const key_row ROWS[] = {
        {"ssm.conv_kernel", KEY_INT, "linear_conv_kernel_dim", NO_DEFAULT},
        {"ssm.state_size", KEY_INT, "linear_key_head_dim", NO_DEFAULT},
        {"ssm.group_count", KEY_INT, "linear_num_key_heads", NO_DEFAULT},
        {"ssm.time_step_rank", KEY_INT, "linear_num_value_heads", NO_DEFAULT},
        {"full_attention_interval", KEY_INT, "full_attention_interval", 4},
        {"rope.dimension_count", KEY_ROTARY, "rope_parameters.partial_rotary_factor|partial_rotary_factor", 0.25},
        {NULL, 0, NULL, 0},
    };
    const uint64_t all = c->n_layers + next_layers(c);
    int *flags;
    uint64_t i;
    if (all > c->n_layers) {
        key_int(c, "block_count", all);
        key_int(c, "nextn_predict_layers", all - c->n_layers);
    }
    key_int(c, "ssm.inner_size", cfg_int(c, "linear_value_head_dim", 0) * cfg_int(c, "linear_num_value_heads", 0));
    if (cfg(c, "layer_types")) {
        flags = cli_alloc(c->command, (size_t)all + 1, sizeof *flags);
        if (flags == NULL) return 0;
        for (i = 0; i < all; i++) flags[i] = i < c->n_layers && cfg_is_type(c, i, "linear_attention");
        key_bools(c, "attention.recurrent_layers", flags, all);
        free(flags);
    }
    return keys_rows(c, ROWS) && keys_weights_normed(c);
}

/* Rows of values, d for each head, in turn: head 0 of each group of keys, then head 1, ... (ggml repeats keys so). They begin at value
 * `first`, `cols` values each. */
static int in_turn(checkpoint *c, made *m, st_tensor *t, uint64_t first, uint64_t groups, uint64_t each, uint64_t d, uint64_t cols) {
    view *v = make_view(c, m, t, first);
    view_loop(v, each, d * cols);
    view_loop(v, groups, each * d * cols);
    view_loop(v, d * cols, 1);
    return v != NULL;
}

/* in_proj_qkvz: for each head of keys its q, k, and all v and z that belong to it. To all q, k, v; and all z. */
static int split_qkvz(checkpoint *c, st_tensor *t, int64_t layer, uint64_t groups, uint64_t each, uint64_t dk, uint64_t dv) {
    const uint64_t cols = t->n_dims == 2 ? t->dims[1] : 0, group = 2 * dk + 2 * each * dv;
    const uint64_t dims[2] = {cols, groups * (2 * dk + each * dv)}, z_dims[2] = {cols, groups * each * dv};
    const uint64_t from[3] = {0, dk, 2 * dk}, rows[3] = {dk, dk, each * dv};
    char name[128];
    made *m = make(c, name_in(name, layer, "attn_qkv.weight"), 2, dims);
    view *v = NULL;
    int i;
    for (i = 0; i < 3; i++) {
        v = make_view(c, m, t, from[i] * cols);
        view_loop(v, groups, group * cols);
        view_loop(v, rows[i] * cols, 1);
        if (v == NULL) return -1;
    }
    v = make_view(c, make(c, name_in(name, layer, "attn_gate.weight"), 2, z_dims), t, (2 * dk + each * dv) * cols);
    view_loop(v, groups, group * cols);
    view_loop(v, each * dv * cols, 1);
    return v ? 1 : -1;
}

/* What has heads of values, in the order in which the architecture reads them. */
static int tiled(checkpoint *c, st_tensor *t, int64_t layer, const char *rest, uint64_t groups, uint64_t each, uint64_t dk, uint64_t dv) {
    static const struct {
        const char *from, *to;
        int before, one, op; /* rows of q and k come before; one row for each head, not dv */
    } ROWS[] = {{"in_proj_qkv.weight", "attn_qkv.weight", 1, 0, MADE_COPY},  {"in_proj_z.weight", "attn_gate.weight", 0, 0, MADE_COPY},
                {"in_proj_a.weight", "ssm_alpha.weight", 0, 1, MADE_COPY},   {"in_proj_b.weight", "ssm_beta.weight", 0, 1, MADE_COPY},
                {"A_log", "ssm_a", 0, 1, MADE_NEG_EXP},                      {"dt_bias", "ssm_dt.bias", 0, 1, MADE_COPY},
                {"conv1d.weight", "ssm_conv1d.weight", 1, 0, MADE_COPY}};
    const char *what = rest + 12;
    char name[128];
    size_t i;
    if (strcmp(what, "out_proj.weight") == 0 && t->n_dims == 2) { /* its columns */
        const uint64_t dims[2] = {t->dims[1], t->dims[0]};
        view *v = make_view(c, make(c, name_in(name, layer, "ssm_out.weight"), 2, dims), t, 0);
        view_loop(v, t->dims[0], t->dims[1]);
        view_loop(v, each, dv);
        view_loop(v, groups, each * dv);
        view_loop(v, dv, 1);
        return v ? 1 : -1;
    }
    for (i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        const uint64_t d = ROWS[i].one ? 1 : dv, before = ROWS[i].before ? 2 * groups * dk : 0, rows = t->dims[0], cols = rows ? t->n / rows : 0, dims[2] = {cols, rows};
        const int n = t->n_dims > 1 ? 2 : 1;
        made *m;
        if (strcmp(what, ROWS[i].from) != 0) continue;
        m = make(c, name_in(name, layer, ROWS[i].to), n, n == 2 ? dims : &rows);
        if (m) m->op = ROWS[i].op;
        if (before) view_loop(make_view(c, m, t, 0), before * cols, 1);
        return in_turn(c, m, t, before * cols, groups, each, d, cols) ? 1 : -1;
    }
    return 0;
}

/* A name of "mtp.": in layer n_layers, or n_layers + I. */
static int next_block(checkpoint *c, st_tensor *t, const char *rest) {
    static const char *const NAMES[][2] = {{"fc.", "eh_proj."}, {"pre_fc_norm_embedding.", "enorm."}, {"pre_fc_norm_hidden.", "hnorm."}, {"norm.", "shared_head.norm."}};
    char name[512];
    size_t i;
    if (strncmp(rest, "layers.", 7) == 0) {
        const size_t digits = strspn(rest + 7, "0123456789");
        if (digits == 0 || digits > 4 || rest[7 + digits] != '.') return 0;
        return name_by_rows(c, t, (int64_t)c->n_layers + atol(rest + 7), rest + 8 + digits) ? 1 : -1;
    }
    for (i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
        if (strncmp(rest, NAMES[i][0], strlen(NAMES[i][0])) != 0) continue;
        snprintf(name, sizeof name, "%s%.400s", NAMES[i][1], rest + strlen(NAMES[i][0]));
        return name_by_rows(c, t, (int64_t)c->n_layers, name) ? 1 : -1;
    }
    return 0;
}

static int tensor_qwen_linear(checkpoint *c, st_tensor *t, int64_t layer, const char *rest) {
    uint64_t groups, heads, dk, dv;
    if (layer < 0) return strncmp(rest, "mtp.", 4) == 0 ? next_block(c, t, rest + 4) : 0;
    if (strncmp(rest, "linear_attn.", 12) != 0) return 0;
    groups = cfg_int(c, "linear_num_key_heads", 0);
    heads = cfg_int(c, "linear_num_value_heads", 0);
    dk = cfg_int(c, "linear_key_head_dim", 0);
    dv = cfg_int(c, "linear_value_head_dim", 0);
    if (groups == 0 || heads % groups != 0 || groups > 1 << 16 || heads > 1 << 16 || dk > 1 << 16 || dv > 1 << 16)
        return cli_fail(c->command, "%s/config.json: linear_num_value_heads must be a multiple of linear_num_key_heads", c->folder) == CLI_DONE ? 1 : -1;
    if (strcmp(rest, "linear_attn.in_proj_qkvz.weight") == 0) return split_qkvz(c, t, layer, groups, heads / groups, dk, dv);
    return c->family->flags & V_TILED && heads != groups ? tiled(c, t, layer, rest, groups, heads / groups, dk, dv) : 0;
}

/* ---- Mamba ---------------------------------------------------------------------------------------- */

static int keys_mamba(checkpoint *c) {
    static const key_row ROWS[] = {
        {"context_length", KEY_IS_INT, NULL, ANY_CONTEXT},
        {"feed_forward_length", KEY_IS_INT, NULL, 0},
        {"attention.head_count", KEY_IS_INT, NULL, 0},
        {"attention.layer_norm_epsilon", KEY_DROP, NULL, 0},
        {"attention.layer_norm_rms_epsilon", KEY_FLOAT, "layer_norm_epsilon|rms_norm_eps", 1e-5},
        {"ssm.conv_kernel", KEY_INT, "conv_kernel|d_conv", 4},
        {"ssm.state_size", KEY_INT, "state_size|d_state", 16},
        {NULL, 0, NULL, 0},
    };
    key_int(c, "ssm.inner_size", cfg_int(c, "intermediate_size|d_inner", 2 * c->n_embd));
    key_int(c, "ssm.time_step_rank", cfg_int(c, "time_step_rank|dt_rank", (c->n_embd + 15) / 16));
    key_bool(c, "ssm.dt_b_c_rms", cfg_says(cfg(c, "model_type"), "falcon_mamba"));
    return keys_rows(c, ROWS);
}

static uint64_t mamba2_inner(const checkpoint *c) { return cfg_int(c, "mamba_d_ssm|d_inner", cfg_int(c, "mamba_expand|expand", 2) * c->n_embd); }
static uint64_t mamba2_groups(const checkpoint *c) { return cfg_int(c, "mamba_n_groups|n_groups", 1); }

/* The sizes of a Mamba 2 mixer, whose config names have a prefix in models that are not only that. */
static int keys_mixer(checkpoint *c, uint64_t inner, uint64_t heads) {
    static const key_row ROWS[] = {
        {"ssm.conv_kernel", KEY_INT, "mamba_d_conv|conv_kernel|d_conv", 4},
        {"ssm.state_size", KEY_INT, "mamba_d_state|ssm_state_size|state_size|d_state", 128},
        {NULL, 0, NULL, 0},
    };
    key_int(c, "ssm.inner_size", inner);
    key_int(c, "ssm.time_step_rank", heads);
    key_int(c, "ssm.group_count", mamba2_groups(c));
    return keys_rows(c, ROWS);
}

static int keys_mamba2(checkpoint *c) {
    static const key_row ROWS[] = {
        {"context_length", KEY_IS_INT, NULL, ANY_CONTEXT},
        {"feed_forward_length", KEY_IS_INT, NULL, 0},
        {"attention.head_count", KEY_IS_INT, NULL, 0},
        {"attention.key_length", KEY_DROP, NULL, 0},
        {"attention.value_length", KEY_DROP, NULL, 0},
        {"attention.layer_norm_epsilon", KEY_DROP, NULL, 0},
        {"attention.layer_norm_rms_epsilon", KEY_FLOAT, "layer_norm_epsilon|rms_norm_eps", 1e-5},
        {NULL, 0, NULL, 0},
    };
    const uint64_t inner = mamba2_inner(c), d = cfg_int(c, "mamba_d_head|head_dim", 64);
    return keys_mixer(c, inner, d ? inner / d : 0) && keys_rows(c, ROWS);
}

/* A and D are columns, the norm has a row for each group. */
int tensor_mamba2(checkpoint *c, st_tensor *t, int64_t layer, const char *rest) {
    const int a = strcmp(rest, "mamba.A_log") == 0;
    uint64_t dims[2] = {1, t->n}, groups;
    char name[128];
    made *m;
    view *v;
    if (!a && strcmp(rest, "mamba.D") != 0) {
        if (strcmp(rest, "mamba.norm.weight") != 0) return 0;
        groups = mamba2_groups(c);
        if (groups == 0 || t->n % groups != 0) return 0;
        dims[0] = t->n / groups;
        dims[1] = groups;
        v = make_view(c, make(c, name_in(name, layer, "ssm_norm.weight"), 2, dims), t, 0);
        view_loop(v, t->n, 1);
        return v ? 1 : -1;
    }
    m = make(c, name_in(name, layer, a ? "ssm_a" : "ssm_d"), 2, dims);
    v = make_view(c, m, t, 0);
    view_loop(v, t->n, 1);
    if (m && a) m->op = MADE_NEG_EXP;
    return v ? 1 : -1;
}

/* ---- models with some such layers ------------------------------------------------------------------ */

static const char ATTENTION[] = "attention|full_attention";

/* An array over layers: x where the layer's type is one of these, else 0. */
static int key_where(checkpoint *c, const char *key, const char *types, uint64_t x) {
    uint64_t *list = cli_alloc(c->command, (size_t)c->n_layers + 1, sizeof *list), i;
    if (list == NULL) return 0;
    for (i = 0; i < c->n_layers; i++) list[i] = cfg_is_type(c, i, types) ? x : 0;
    key_ints(c, key, list, c->n_layers);
    free(list);
    return 1;
}

/* Mamba layers and others with attention, as Granite and Bamba have them. */
int keys_hybrid(checkpoint *c, int rotates) {
    const uint64_t heads = cfg_int(c, "mamba_n_heads", 0), d = cfg_int(c, "mamba_d_head", 0);
    key_bool(c, "rope.scaling.finetuned", rotates);
    if (!rotates) key_int(c, "context_length", ANY_CONTEXT);
    return keys_mixer(c, heads && d ? heads * d : mamba2_inner(c), heads) && key_where(c, "attention.head_count_kv", ATTENTION, c->n_head_kv);
}

static int keys_lfm2(checkpoint *c) {
    static const key_row ROWS[] = {
        {"vocab_size", KEY_INT, "vocab_size", NO_DEFAULT},
        {"shortconv.l_cache", KEY_INT, "conv_L_cache", NO_DEFAULT},
        {NULL, 0, NULL, 0},
    };
    uint64_t ff = cfg_int(c, "block_ff_dim|intermediate_size", 0);
    const uint64_t multiple = cfg_int(c, "block_multiple_of", 1);
    if (cfg_true(c, "block_auto_adjust_ff_dim", 0) && multiple > 0) {
        ff = (uint64_t)((double)(2 * ff / 3) * cfg_number(c, "block_ffn_dim_multiplier", 1));
        ff = (ff + multiple - 1) / multiple * multiple;
    }
    key_int(c, "feed_forward_length", ff);
    return keys_rows(c, ROWS) && key_where(c, "attention.head_count_kv", ATTENTION, c->n_head_kv);
}

static int keys_jamba(checkpoint *c) {
    static const key_row ROWS[] = {
        {"ssm.conv_kernel", KEY_INT, "mamba_d_conv", NO_DEFAULT},
        {"ssm.state_size", KEY_INT, "mamba_d_state", NO_DEFAULT},
        {"ssm.time_step_rank", KEY_INT, "mamba_dt_rank", NO_DEFAULT},
        {"rope.freq_base", KEY_DROP, NULL, 0}, /* nothing is rotated */
        {NULL, 0, NULL, 0},
    };
    const uint64_t period = cfg_int(c, "attn_layer_period", 1), offset = cfg_int(c, "attn_layer_offset", 0);
    uint64_t *list, i;
    key_int(c, "ssm.inner_size", cfg_int(c, "mamba_expand", 2) * c->n_embd);
    if (cfg(c, "layers_block_type")) return keys_rows(c, ROWS) && key_where(c, "attention.head_count_kv", ATTENTION, c->n_head_kv);
    list = cli_alloc(c->command, (size_t)c->n_layers + 1, sizeof *list);
    if (list == NULL) return 0;
    for (i = 0; i < c->n_layers; i++) list[i] = period && i % period == offset ? c->n_head_kv : 0;
    key_ints(c, "attention.head_count_kv", list, c->n_layers);
    free(list);
    return keys_rows(c, ROWS);
}

/* What a layer is: M for Mamba, * for attention, - for a feed-forward layer, E for one with experts; 0 = the config does not say. */
static char nemotron_layer(const checkpoint *c, uint64_t i) {
    static const struct {
        const char *name;
        char kind;
    } NAMES[] = {{"mamba", 'M'}, {"linear_attention", 'M'}, {"attention", '*'}, {"full_attention", '*'}, {"mlp", '-'}, {"moe", 'E'}};
    const char *pattern = cfg_text(c, "hybrid_override_pattern"), *type = cfg_layer_type(c, i);
    size_t k;
    if (pattern) return i < strlen(pattern) && strchr("M*-E", pattern[i]) ? pattern[i] : 0;
    for (k = 0; type && k < sizeof NAMES / sizeof NAMES[0]; k++)
        if (strcmp(type, NAMES[k].name) == 0) return NAMES[k].kind;
    return 0;
}
static int has_expert_layers(checkpoint *c) {
    uint64_t i;
    for (i = 0; i < c->n_layers; i++)
        if (nemotron_layer(c, i) == 'E') return 1;
    return 0;
}

static int keys_nemotron_h(checkpoint *c) {
    const uint64_t widths[2] = {cfg_int(c, "intermediate_size", 0), cfg_int(c, "moe_intermediate_size", 0)}, heads = cfg_int(c, "mamba_num_heads", 0);
    const char *pattern = cfg_text(c, "hybrid_override_pattern");
    uint64_t *list = cli_alloc(c->command, (size_t)c->n_layers + 1, sizeof *list), i;
    if (list == NULL) return 0;
    for (i = 0; i < c->n_layers; i++) {
        const char kind = nemotron_layer(c, i);
        if (kind == 0 || (pattern && strlen(pattern) != c->n_layers)) {
            free(list);
            return cli_fail(c->command, "%s/config.json: layers_block_type, or hybrid_override_pattern (M, *, - and E), must say what each layer is", c->folder) == CLI_DONE;
        }
        list[i] = kind == '*' ? c->n_head_kv : 0;
    }
    key_ints(c, "attention.head_count_kv", list, c->n_layers);
    for (i = 0; i < c->n_layers; i++) list[i] = nemotron_layer(c, i) == '-' ? widths[0] : nemotron_layer(c, i) == 'E' ? widths[1] : 0;
    key_ints(c, "feed_forward_length", list, c->n_layers);
    free(list);
    key_int(c, "context_length", ANY_CONTEXT);
    key_bool(c, "rope.scaling.finetuned", 0);
    return keys_mixer(c, heads * cfg_int(c, "mamba_head_dim", 0), heads);
}
static int keys_nemotron_h_moe(checkpoint *c) {
    static const key_row ROWS[] = {
        {"expert_feed_forward_length", KEY_INT, "moe_intermediate_size", NO_DEFAULT},
        {"expert_shared_feed_forward_length", KEY_INT, "moe_shared_expert_intermediate_size", NO_DEFAULT},
        {"expert_shared_count", KEY_INT, "n_shared_experts", NO_DEFAULT},
        {"expert_weights_norm", KEY_BOOL, "norm_topk_prob", NO_DEFAULT},
        {"expert_weights_scale", KEY_FLOAT, "routed_scaling_factor", NO_DEFAULT},
        {"moe_latent_size", KEY_INT, "moe_latent_size", NO_DEFAULT},
        {NULL, 0, NULL, 0},
    };
    return keys_nemotron_h(c) && keys_rows(c, ROWS);
}

/* ---- Falcon H1 ------------------------------------------------------------------------------------- */

static int keys_falcon_h1(checkpoint *c) {
    const uint64_t inner = mamba2_inner(c), d = cfg_int(c, "mamba_d_head", 64);
    if (cfg_true(c, "mamba_rms_norm", 0) && cfg_true(c, "mamba_norm_before_gate", 1))
        return cli_fail(c->command, "%s/config.json: mamba_norm_before_gate is not supported: the gate comes first", c->folder) == CLI_DONE;
    return keys_mixer(c, inner, d ? inner / d : 0);
}

/* Its multipliers are multiplied into the matrices. */
static int tensor_falcon_h1(checkpoint *c, st_tensor *t, int64_t layer, const char *rest) {
    static const struct {
        const char *from, *to, *factor, *other;
        int element; /* of a list; -1 = a number */
    } ROWS[] = {{"feed_forward.down_proj.weight", "ffn_down.weight", "mlp_multipliers", NULL, 1},
                {"feed_forward.gate_proj.weight", "ffn_gate.weight", "mlp_multipliers", NULL, 0},
                {"self_attn.k_proj.weight", "attn_k.weight", "key_multiplier", "attention_in_multiplier", -1},
                {"self_attn.q_proj.weight", "attn_q.weight", "attention_in_multiplier", NULL, -1},
                {"self_attn.v_proj.weight", "attn_v.weight", "attention_in_multiplier", NULL, -1},
                {"self_attn.o_proj.weight", "attn_output.weight", "attention_out_multiplier", NULL, -1},
                {"mamba.out_proj.weight", "ssm_out.weight", "ssm_out_multiplier", NULL, -1},
                {"lm_head.weight", "output.weight", "lm_head_multiplier", NULL, -1},
                {"embed_tokens.weight", "token_embd.weight", "embedding_multiplier", NULL, -1}};
    char name[128];
    size_t i;
    for (i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        const infer_json *x;
        made *m;
        if (strcmp(rest, ROWS[i].from) != 0) continue;
        x = cfg(c, ROWS[i].factor);
        if (ROWS[i].element >= 0) x = infer_json_at(x, (size_t)ROWS[i].element);
        m = make_whole(c, name_in(name, layer, ROWS[i].to), t, 0);
        if (m == NULL) return -1;
        if (infer_json_kind(x) != INFER_JSON_NULL) m->views[0].factor[0] = (float)infer_json_number(x);
        if (ROWS[i].other) m->views[0].factor[1] = (float)cfg_number(c, ROWS[i].other, 1);
        return 1;
    }
    if (strcmp(rest, "pre_ff_layernorm.weight") == 0) return make_whole(c, name_in(name, layer, "ffn_norm"), t, 0) ? 1 : -1; /* so it is called */
    if (strcmp(rest, "mamba.in_proj.weight") == 0 && t->n_dims == 2) { /* z, x, B, C, dt */
        const infer_json *x = cfg(c, "ssm_multipliers");
        const uint64_t inner = mamba2_inner(c), group = mamba2_groups(c) * cfg_int(c, "mamba_d_state", 0), rows[5] = {inner, inner, group, group, t->dims[0] - 2 * inner - 2 * group};
        const uint64_t dims[2] = {t->dims[1], t->dims[0]};
        uint64_t at = 0;
        made *m = make(c, name_in(name, layer, "ssm_in.weight"), 2, dims);
        for (i = 0; i < 5; i++) {
            view *v = make_view(c, m, t, at * t->dims[1]);
            if (v == NULL) return -1;
            view_loop(v, rows[i], t->dims[1]);
            view_loop(v, t->dims[1], 1);
            v->factor[0] = (float)cfg_number(c, "ssm_in_multiplier", 1);
            if (infer_json_kind(infer_json_at(x, i)) != INFER_JSON_NULL) v->factor[1] = (float)infer_json_number(infer_json_at(x, i));
            at += rows[i];
        }
        return 1;
    }
    return tensor_mamba2(c, t, layer, rest);
}

/* ---- rows ------------------------------------------------------------------------------------------ */

static const key_row VOCAB[] = {{"vocab_size", KEY_INT, "vocab_size", NO_DEFAULT}, END_KEYS};
static const key_row LFM2_MOE[] = {
    {"expert_feed_forward_length", KEY_INT, "moe_intermediate_size", NO_DEFAULT},
    {"leading_dense_block_count", KEY_INT, "num_dense_layers", NO_DEFAULT},
    END_KEYS,
};
static const key_row MINIMAX[] = {
    {"residual_scale", KEY_FLOAT, "layernorm_full_attention_alpha|full_attn_alpha_factor", NO_DEFAULT},
    {"rope.dimension_count", KEY_INT, "rotary_dim", NO_DEFAULT},
    END_KEYS,
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
static const name_row MAMBA[] = {{"norm", "attn_norm", NAME_COPY}, END_NAMES};
static const name_row NEMOTRON_H[] = {
    {"norm", "attn_norm", NAME_COPY},
    {"mamba.q_proj", "attn_q", NAME_ROTARY_Q},
    {"mamba.k_proj", "attn_k", NAME_ROTARY_K},
    {"mamba.v_proj", "attn_v", NAME_COPY},
    {"mamba.o_proj", "attn_output", NAME_COPY},
    {"mamba.up_proj", "ffn_up", NAME_COPY},
    {"mamba.down_proj", "ffn_down", NAME_COPY},
    {"mamba.gate", "ffn_gate_inp", NAME_COPY},
    {"mamba.gate.e_score_correction_bias", "exp_probs_b.bias", NAME_COPY},
    {"mamba.experts.#.up_proj", "ffn_up_exps", NAME_EXPERTS},
    {"mamba.experts.#.down_proj", "ffn_down_exps", NAME_EXPERTS},
    {"mamba.shared_experts.up_proj", "ffn_up_shexp", NAME_COPY},
    {"mamba.shared_experts.down_proj", "ffn_down_shexp", NAME_COPY},
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
static const name_row MINIMAX_NAMES[] = {
    {"self_attn.norm", "attn_norm_2", NAME_COPY},
    {"self_attn.output_gate", "attn_gate", NAME_COPY},
    {"self_attn.out_proj", "attn_output", NAME_COPY},
    END_NAMES,
};

const family LINEAR_FAMILIES[] = {
    {.classes = "Qwen3NextForCausalLM", .arch = "qwen3next", .flags = NORMS_PLUS_1 | NEXT_BLOCKS, .keys = QWEN_MOE,
     .names = QWEN_LINEAR, .own_keys = keys_qwen_linear, .own_tensor = tensor_qwen_linear},
    {.classes = "Qwen3_5ForCausalLM|Qwen3_5ForConditionalGeneration", .arch = "qwen35",
     .flags = NORMS_PLUS_1 | NEXT_BLOCKS | V_TILED, .names = QWEN_LINEAR, .own_keys = keys_qwen_linear,
     .own_tensor = tensor_qwen_linear},
    {.classes = "Qwen3_5MoeForCausalLM|Qwen3_5MoeForConditionalGeneration", .arch = "qwen35moe",
     .flags = NORMS_PLUS_1 | NEXT_BLOCKS | V_TILED, .keys = QWEN_MOE, .names = QWEN_LINEAR, .own_keys = keys_qwen_linear,
     .own_tensor = tensor_qwen_linear},
    {.classes = "Lfm2ForCausalLM", .arch = "lfm2", .names = LFM2, .own_keys = keys_lfm2},
    {.classes = "Lfm2MoeForCausalLM", .arch = "lfm2moe", .flags = ROUTES_SIGMOID, .keys = LFM2_MOE, .names = LFM2, .own_keys = keys_lfm2},
    {.classes = "FalconH1ForCausalLM", .arch = "falcon-h1", .keys = VOCAB, .names = FEED_FORWARD,
     .own_keys = keys_falcon_h1, .own_tensor = tensor_falcon_h1},
    {.classes = "Mamba2ForCausalLM", .arch = "mamba2", .names = MAMBA, .own_keys = keys_mamba2,
     .own_tensor = tensor_mamba2},
    {.classes = "MambaForCausalLM|MambaLMHeadModel|FalconMambaForCausalLM", .arch = "mamba", .names = MAMBA,
     .own_keys = keys_mamba},
    {.classes = "JambaForCausalLM", .arch = "jamba", .names = FEED_FORWARD, .own_keys = keys_jamba},
    {.classes = "NemotronHForCausalLM", .arch = "nemotron_h_moe", .act = ACT_MLP_RELU2, .fits = has_expert_layers, .flags = ROTARY_PAIRS, .keys = LLAMA,
     .names = NEMOTRON_H, .own_keys = keys_nemotron_h_moe, .own_tensor = tensor_mamba2},
    {.classes = "NemotronHForCausalLM", .arch = "nemotron_h", .act = ACT_MLP_RELU2, .flags = ROTARY_PAIRS, .keys = LLAMA, .names = NEMOTRON_H,
     .own_keys = keys_nemotron_h, .own_tensor = tensor_mamba2},
    {.classes = "MiniMaxText01ForCausalLM|MiniMaxM1ForCausalLM|MiniMaxForCausalLM", .arch = "minimax-01", .keys = MINIMAX,
     .names = MINIMAX_NAMES},
    {.classes = NULL},
};
