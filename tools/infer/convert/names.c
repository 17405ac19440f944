/* names.c: tensors of a checkpoint by the names of GGUF. A name is taken apart (prefix of the module, number of the layer, the rest,
 * .weight or .bias); rows say what the rest is called there, the family's own rows before the common ones. */
#include "convert.h"

#include <stdlib.h>
#include <string.h>

/* ---- rows --------------------------------------------------------------------------------------- */

static const name_row OUTSIDE[] = {
    {"embed_tokens", "token_embd", NAME_COPY},
    {"tok_embeddings", "token_embd", NAME_COPY},
    {"embeddings", "token_embd", NAME_COPY},
    {"word_embeddings", "token_embd", NAME_COPY},
    {"wte", "token_embd", NAME_COPY},
    {"wpe", "position_embd", NAME_COPY},
    {"ln_f", "output_norm", NAME_COPY},
    {"embedding", "token_embd", NAME_COPY},
    {"lm_head", "output", NAME_COPY},
    {"norm", "output_norm", NAME_PLUS_1},
    {"final_layernorm", "output_norm", NAME_PLUS_1},
    {"norm_f", "output_norm", NAME_COPY},
    {NULL, NULL, 0},
};

static const name_row IN_LAYERS[] = {
    {"input_layernorm", "attn_norm", NAME_PLUS_1},
    {"post_attention_layernorm", "ffn_norm", NAME_PLUS_1},
    {"pre_feedforward_layernorm", "ffn_norm", NAME_PLUS_1},
    {"post_feedforward_layernorm", "post_ffw_norm", NAME_PLUS_1},
    {"self_attn.q_proj", "attn_q", NAME_ROTARY_Q},
    {"self_attn.k_proj", "attn_k", NAME_ROTARY_K},
    {"self_attn.v_proj", "attn_v", NAME_COPY},
    {"self_attn.o_proj", "attn_output", NAME_COPY},
    {"self_attn.qkv_proj", "attn_qkv", NAME_COPY},
    {"self_attn.q_norm", "attn_q_norm", NAME_PLUS_1},
    {"self_attn.k_norm", "attn_k_norm", NAME_PLUS_1},
    {"self_attn.sinks", "attn_sinks.weight", NAME_COPY},
    {"self_attn.q_a_proj", "attn_q_a", NAME_COPY},
    {"self_attn.q_a_layernorm", "attn_q_a_norm", NAME_COPY},
    {"self_attn.q_b_proj", "attn_q_b", NAME_COPY},
    {"self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa", NAME_COPY},
    {"self_attn.kv_a_layernorm", "attn_kv_a_norm", NAME_COPY},
    {"mlp.gate_proj", "ffn_gate", NAME_COPY},
    {"mlp.up_proj", "ffn_up", NAME_COPY},
    {"mlp.down_proj", "ffn_down", NAME_COPY},
    {"mlp.gate_up_proj", "ffn_up", NAME_COPY},
    {"mlp.gate", "ffn_gate_inp", NAME_COPY},
    {"mlp.router", "ffn_gate_inp", NAME_COPY},
    {"block_sparse_moe.gate", "ffn_gate_inp", NAME_COPY},
    {"mlp.gate.e_score_correction_bias", "exp_probs_b.bias", NAME_COPY},
    {"block_sparse_moe.e_score_correction_bias", "exp_probs_b.bias", NAME_COPY},
    {"mlp.shared_expert_gate", "ffn_gate_inp_shexp", NAME_COPY},
    {"mlp.shared_expert.gate_proj", "ffn_gate_shexp", NAME_COPY},
    {"mlp.shared_expert.up_proj", "ffn_up_shexp", NAME_COPY},
    {"mlp.shared_expert.down_proj", "ffn_down_shexp", NAME_COPY},
    {"mlp.shared_experts.gate_proj", "ffn_gate_shexp", NAME_COPY},
    {"mlp.shared_experts.up_proj", "ffn_up_shexp", NAME_COPY},
    {"mlp.shared_experts.down_proj", "ffn_down_shexp", NAME_COPY},
    {"mlp.experts.gate_up_proj", "ffn_gate_exps.weight|ffn_up_exps.weight", NAME_HALVES},
    {"mlp.experts.down_proj", "ffn_down_exps.weight", NAME_COPY},
    {"mlp.experts.down_transposed", "ffn_down_exps.weight", NAME_TRANSPOSED}, /* for families that store it so */
    {"mlp.experts.#.gate_proj", "ffn_gate_exps", NAME_EXPERTS},
    {"mlp.experts.#.up_proj", "ffn_up_exps", NAME_EXPERTS},
    {"mlp.experts.#.down_proj", "ffn_down_exps", NAME_EXPERTS},
    {"block_sparse_moe.experts.#.w1", "ffn_gate_exps", NAME_EXPERTS},
    {"block_sparse_moe.experts.#.w2", "ffn_down_exps", NAME_EXPERTS},
    {"block_sparse_moe.experts.#.w3", "ffn_up_exps", NAME_EXPERTS},
    /* what a state-space mixer is made of, "mamba" or "mixer" */
    {"mamba.A_log", "ssm_a", NAME_NEG_EXP},
    {"mamba.D", "ssm_d", NAME_COPY},
    {"mamba.conv1d", "ssm_conv1d", NAME_SQUEEZED},
    {"mamba.dt_bias", "ssm_dt.bias", NAME_COPY},
    {"mamba.dt_proj", "ssm_dt", NAME_COPY},
    {"mamba.x_proj", "ssm_x", NAME_COPY},
    {"mamba.in_proj", "ssm_in", NAME_COPY},
    {"mamba.out_proj", "ssm_out", NAME_COPY},
    {"mamba.norm", "ssm_norm", NAME_COPY},
    {"mamba.b_layernorm", "ssm_b_norm", NAME_COPY},
    {"mamba.c_layernorm", "ssm_c_norm", NAME_COPY},
    {"mamba.dt_layernorm", "ssm_dt_norm", NAME_COPY},
    /* a layer that predicts a further token */
    {"eh_proj", "nextn.eh_proj", NAME_COPY},
    {"enorm", "nextn.enorm", NAME_PLUS_1},
    {"hnorm", "nextn.hnorm", NAME_PLUS_1},
    {"embed_tokens", "nextn.embed_tokens", NAME_COPY},
    {"shared_head.norm", "nextn.shared_head_norm", NAME_PLUS_1},
    {"shared_head.head", "nextn.shared_head_head", NAME_COPY},
    {NULL, NULL, 0},
};

/* Parts of a model that are not its language model; and what no forward pass reads. */
static const char *const OTHER_PARTS[] = {"visual.", "vision", "audio", "multi_modal_projector.", "mm_projector.", "embed_vision.", "embed_audio.", "image_", "sam_model.", "aligner.", "connector.", "mlp1."};
static const char *const USELESS[] = {"rotary_emb.inv_freq", "position_ids", "attn.masked_bias", "attention.masked_bias", "attention.rotary_emb.inv_freq"};

/* ---- taking a name apart ------------------------------------------------------------------------ */

static int starts(const char *s, const char *with) { return strncmp(s, with, strlen(with)) == 0; }

/* Without the names of the modules around the layers. */
static const char *inner_name(const char *name) {
    static const char *const AROUND[] = {"language_model.", "text_model.", "model.", "transformer.h", "transformer.", "gpt_neox.", "ernie.", "backbone.", "bert.", "roberta.", "distilbert.", "encoder.layer"};
    size_t i;
    for (i = 0; i < sizeof AROUND / sizeof AROUND[0]; i++) {
        const size_t n = strlen(AROUND[i]);
        if (!starts(name, AROUND[i])) continue;
        if (AROUND[i][n - 1] != '.') { /* the layers themselves: keep "h", "layer" */
            const char *tail = strrchr(AROUND[i], '.') + 1;
            if (name[n] != '.' && !(name[n] == 's' && name[n + 1] == '.')) continue;
            return name + (tail - AROUND[i]);
        }
        name += n;
        i = (size_t)-1;
    }
    return name;
}

/* The number of the layer, and the rest behind it; -1: outside of layers. */
static int64_t layer_of(const char *name, const char **rest) {
    static const char *const LAYERS[] = {"layers.", "layer.", "h.", "blocks."};
    size_t i;
    *rest = name;
    for (i = 0; i < sizeof LAYERS / sizeof LAYERS[0]; i++) {
        const size_t n = strlen(LAYERS[i]), digits = starts(name, LAYERS[i]) ? strspn(name + n, "0123456789") : 0;
        if (digits == 0 || digits > 6 || name[n + digits] != '.') continue;
        *rest = name + n + digits + 1;
        return atol(name + n);
    }
    return -1;
}

/* A row's name against the rest, # for a number, which *number becomes. Returns its length, 0 = it does not fit. */
static size_t fits(const char *pattern, const char *rest, const char **number) {
    const char *s = rest;
    for (; *pattern; pattern++) {
        if (*pattern == '#') {
            const size_t n = strspn(s, "0123456789");
            if (n == 0 || n > 6) return 0;
            *number = s;
            s += n;
        } else if (*s++ != *pattern) return 0;
    }
    return (size_t)(s - rest);
}

/* The row for a name, and what follows it there: "", ".weight" or ".bias". A family's rows begin with / outside of layers. */
static const name_row *row_for(const name_row *rows, int outside, const char *rest, const char **end, const char **number) {
    for (; rows && rows->from; rows++) {
        const int skip = rows->from[0] == '/';
        const size_t n = outside < 0 || outside == skip ? fits(rows->from + skip, rest, number) : 0;
        *end = rest + n;
        if (n > 0 && (**end == 0 || strcmp(*end, ".weight") == 0 || strcmp(*end, ".bias") == 0)) return rows;
    }
    return NULL;
}

/* ---- tensors of their own kinds ------------------------------------------------------------------- */

/* Q and K of heads whose halves are rotated, for an architecture that rotates pairs: rows 0, n/2, 1, n/2 + 1, ... of the n rotated ones of
 * each head. */
static int rotary(checkpoint *c, const char *name, st_tensor *t, uint64_t heads) {
    const uint64_t rows = t->dims[0], cols = t->n_dims > 1 ? t->dims[1] : 1, d = heads ? rows / heads : 0, n = c->family->flags & ROTARY_PARTLY ? cfg_rotated(c, d, 0.5) : d;
    const uint64_t dims[2] = {t->n_dims > 1 ? cols : rows, rows};
    uint64_t i;
    made *m;
    if (heads == 0 || d * heads != rows || n % 2 != 0 || n == 0 || t->n_dims > 2)
        return cli_fail(c->command, "tensor %s: %.0f rows are not those of %.0f heads", t->name, (double)rows, (double)heads) == CLI_DONE;
    m = make(c, name, t->n_dims > 1 ? 2 : 1, dims);
    for (i = 0; m && i < (n == d ? 1 : heads); i++) { /* a head, or all */
        view *v = make_view(c, m, t, i * d * cols);
        if (n == d) view_loop(v, heads, d * cols);
        view_loop(v, n / 2, cols);
        view_loop(v, 2, n / 2 * cols);
        view_loop(v, cols, 1);
        if (v == NULL) return 0;
        if (n == d) continue;
        v = make_view(c, m, t, (i * d + n) * cols);
        view_loop(v, (d - n) * cols, 1);
        if (v == NULL) return 0;
    }
    return m != NULL;
}

static int transposed(checkpoint *c, const char *name, st_tensor *t) {
    const int n = t->n_dims;
    uint64_t dims[3];
    view *v;
    if (n < 2 || n > 3) return make_whole(c, name, t, 0) != NULL;
    dims[0] = t->dims[n - 2];
    dims[1] = t->dims[n - 1];
    dims[2] = t->dims[0];
    v = make_view(c, make(c, name, n, dims), t, 0);
    if (n == 3) view_loop(v, t->dims[0], t->dims[1] * t->dims[2]);
    view_loop(v, t->dims[n - 1], 1);
    view_loop(v, t->dims[n - 2], t->dims[n - 1]);
    return v != NULL;
}

/* The first and the second half of the rows (of each expert): two tensors. */
static int halves(checkpoint *c, const char *a, const char *b, st_tensor *t) {
    const int n = t->n_dims;
    const uint64_t rows = n > 1 ? t->dims[n - 2] / 2 : 0, cols = t->dims[n - 1];
    int i;
    if (n < 2 || n > 3 || t->dims[n - 2] % 2 != 0) return cli_fail(c->command, "tensor %s has no two halves", t->name) == CLI_DONE;
    for (i = 0; i < 2; i++) {
        const uint64_t dims[3] = {cols, rows, t->dims[0]};
        view *v = make_view(c, make(c, i ? b : a, n, dims), t, (uint64_t)i * rows * cols);
        if (n == 3) view_loop(v, t->dims[0], 2 * rows * cols);
        view_loop(v, rows * cols, 1);
        if (v == NULL) return 0;
    }
    return 1;
}

/* The rows of Q, K and V: three tensors. */
static int split_qkv(checkpoint *c, const char *names[3], st_tensor *t) {
    const uint64_t d = c->head_dim, cols = t->n_dims == 2 ? t->dims[1] : 1, rows[3] = {c->n_head * d, c->n_head_kv * d, c->n_head_kv * d};
    uint64_t at = 0;
    int i;
    if (t->n_dims > 2 || t->dims[0] != rows[0] + rows[1] + rows[2])
        return cli_fail(c->command, "tensor %s: %.0f rows are not those of Q, K and V", t->name, (double)t->dims[0]) == CLI_DONE;
    for (i = 0; i < 3; i++) {
        const uint64_t dims[2] = {t->n_dims == 2 ? cols : rows[i], rows[i]};
        view *v = make_view(c, make(c, names[i], t->n_dims, dims), t, at * cols);
        view_loop(v, rows[i] * cols, 1);
        if (v == NULL) return 0;
        at += rows[i];
    }
    return 1;
}

/* All n tensors of this name but for a number, `digits` characters before its end, when the first one comes. */
static int stacked(checkpoint *c, const char *name, st_tensor *t, size_t digits, uint64_t n, const char *what) {
    const char *number = t->name + strlen(t->name) - digits, *end = number + strspn(number, "0123456789");
    const uint64_t dims[3] = {t->dims[t->n_dims - 1], t->n_dims > 1 ? t->dims[0] : n, n};
    char other[512];
    made *m;
    uint64_t i;
    if (t->used) return 1;
    if ((uint64_t)atol(number) >= n) return cli_fail(c->command, "tensor %s: config.json says that there are %.0f %s", t->name, (double)n, what) == CLI_DONE;
    m = make(c, name, t->n_dims > 1 ? 3 : 2, dims);
    for (i = 0; m && i < n; i++) {
        st_tensor *its;
        view *v;
        if (strlen(t->name) + 8 > sizeof other) return 0;
        snprintf(other, sizeof other, "%.*s%llu%s", (int)(number - t->name), t->name, (unsigned long long)i, end);
        its = st_find(&c->st, other);
        if (its == NULL && c->partial) { /* nothing is added to this one */
            v = make_view(c, m, t, 0);
            view_loop(v, t->n, 1);
            if (v == NULL) return 0;
            v->zeros = 1;
            continue;
        }
        if (its == NULL) return cli_fail(c->command, "tensor %s is missing: config.json says that there are %.0f %s", other, (double)n, what) == CLI_DONE;
        if (its->n != t->n) return cli_fail(c->command, "tensor %s has another shape than %s", other, t->name) == CLI_DONE;
        v = make_view(c, m, its, 0);
        view_loop(v, its->n, 1);
        if (v == NULL) return 0;
    }
    return m != NULL;
}

/* number: where it is in the rest of the name, if the row has one. */
static int by_row(checkpoint *c, st_tensor *t, const name_row *r, int64_t layer, const char *end, const char *number) {
    const int flags = c->family->flags;
    char names[3][128], block[32] = "";
    const char *all[3] = {names[0], names[1], names[2]}, *to = r->to, *a = names[0];
    made *m;
    int i;
    if (layer >= 0) snprintf(block, sizeof block, "blk.%lld.", (long long)layer);
    for (i = 0; i < 3; i++) {
        const size_t n = strcspn(to, "|");
        snprintf(names[i], sizeof names[i], "%s%.*s%s", block, (int)n, to, end);
        to += n + (to[n] == '|');
    }
    switch (r->what) {
    case NAME_DROPPED: t->used = 1; return 1;
    case NAME_ROTARY_Q:
    case NAME_ROTARY_K:
        if (flags & ROTARY_PAIRS) return rotary(c, a, t, r->what == NAME_ROTARY_Q ? c->n_head : c->n_head_kv);
        return make_whole(c, a, t, 0) != NULL;
    case NAME_TRANSPOSED: return transposed(c, a, t);
    case NAME_HALVES: return halves(c, a, names[1], t);
    case NAME_QKV: return split_qkv(c, all, t);
    case NAME_EXPERTS: return stacked(c, a, t, strlen(number), cfg_int(c, CFG_EXPERTS, 0), "experts");
    case NAME_HEADS: return stacked(c, a, t, strlen(number), c->n_head, "heads");
    case NAME_HEADS_KV: return stacked(c, a, t, strlen(number), c->n_head_kv, "heads");
    default:
        m = make_whole(c, a, t, r->what == NAME_SQUEEZED);
        if (m && r->what == NAME_NEG_EXP) m->op = MADE_NEG_EXP;
        if (m && r->what == NAME_PLUS_1 && flags & NORMS_PLUS_1 && strcmp(end, ".weight") == 0) m->op = MADE_PLUS_1;
        return m != NULL;
    }
}

/* ---- all of them ---------------------------------------------------------------------------------- */

static int is_one_of(const char *s, const char *const *list, size_t n, int at_start) {
    size_t i;
    for (i = 0; i < n; i++)
        if (at_start ? starts(s, list[i]) : cli_ends_with(s, list[i])) return 1;
    return 0;
}

int name_of_other_part(const char *name) {
    if (starts(name, "model.")) name += 6;
    return is_one_of(name, OTHER_PARTS, sizeof OTHER_PARTS / sizeof OTHER_PARTS[0], 1);
}

/* Is it of another part than the language model, or of no use? */
static int left_out(checkpoint *c, const char *name) {
    if (is_one_of(name, USELESS, sizeof USELESS / sizeof USELESS[0], 0)) return 1;
    if (!name_of_other_part(name)) return 0;
    c->left_out++;
    return 1;
}

/* Factors of F8 weights are read together with these; those of inputs are not used. */
static int is_scale(const char *name) {
    return cli_ends_with(name, "_scale_inv") || cli_ends_with(name, ".weight_scale") || cli_ends_with(name, ".activation_scale") || cli_ends_with(name, ".input_scale");
}

int name_by_rows(checkpoint *c, st_tensor *t, int64_t layer, const char *rest) {
    const family *f = c->family;
    const char *end, *number = "";
    const name_row *r = row_for(f->names, layer < 0, rest, &end, &number);
    if (r == NULL) r = row_for(layer >= 0 ? IN_LAYERS : OUTSIDE, -1, rest, &end, &number);
    if (r == NULL) {
        const char *method = infer_json_string(cfg(c, "quantization_config.quant_method"), NULL);
        return cli_fail(c->command, "tensor %s is not known in a model of this kind (%s%s%s)", t->name, f->arch, method ? ", quantised by " : "", method ? method : "") == CLI_DONE;
    }
    if (strcmp(r->to, "output") == 0 && cfg_tied(c) == 1) {
        if (!c->partial) return 1;
        return cli_fail(c->command, "tensor %s: in this model the head is the embedding, and files have no place for what is added to one of them only", t->name) == CLI_DONE;
    }
    return by_row(c, t, r, layer, end, number);
}

static int apply(checkpoint *c, st_tensor *t) {
    const char *name = inner_name(t->name), *rest;
    const int64_t layer = layer_of(name, &rest);
    char same[512];
    int done;
    if (t->used || is_scale(t->name) || left_out(c, t->name)) return 1;
    if (layer >= (int64_t)c->n_layers && !(c->family->flags & NEXT_BLOCKS)) {
        snprintf(same, sizeof same, "model.layers.%lld.eh_proj.weight", (long long)layer);
        if (!c->partial && cfg_int(c, "num_nextn_predict_layers|num_mtp_modules|num_mtp_layers|mtp_num_layers|mtp_num_hidden_layers", 0) == 0 && st_find(&c->st, same) == NULL)
            return cli_fail(c->command, "tensor %s: by config.json there are %.0f layers", t->name, (double)c->n_layers) == CLI_DONE;
        c->left_out++;
        return 1;
    }
    if (layer >= 0 && starts(rest, "mixer.")) { /* another name for the same */
        snprintf(same, sizeof same, "mamba.%.500s", rest + 6);
        rest = same;
    }
    done = c->family->own_tensor ? c->family->own_tensor(c, t, layer, rest) : 0;
    if (done == 0 && layer < 0 && starts(rest, "mtp")) {
        c->left_out++;
        return 1;
    }
    return done != 0 ? done > 0 : name_by_rows(c, t, layer, rest);
}

const char *name_in(char *out, int64_t layer, const char *what) {
    if (layer < 0) snprintf(out, 128, "%s", what);
    else snprintf(out, 128, "blk.%lld.%s", (long long)layer, what);
    return out;
}

/* The blocks of F8 weights that have one factor: all of it, a row, or as quantization_config says (DeepSeek's have 128 x 128 values). */
static int set_scales(const checkpoint *c, view *v, const st_tensor *s) {
    const infer_json *size = cfg(c, "quantization_config.weight_block_size");
    const uint64_t rows = v->from->dims[0], cols = v->from->dims[1];
    v->scales = s;
    v->scale_rows = s->n == 1 ? rows : s->n == rows ? 1 : infer_json_count(size) == 2 ? (uint64_t)infer_json_int(infer_json_at(size, 0)) : 128;
    v->scale_cols = s->n == 1 || s->n == rows ? cols : infer_json_count(size) == 2 ? (uint64_t)infer_json_int(infer_json_at(size, 1)) : 128;
    if (v->scale_rows == 0 || v->scale_cols == 0 || v->scale_rows > rows + 4096 || v->scale_cols > cols + 4096) return 0;
    return s->n == ((rows + v->scale_rows - 1) / v->scale_rows) * ((cols + v->scale_cols - 1) / v->scale_cols);
}

static int find_scales(checkpoint *c) {
    char name[512];
    size_t i, k;
    for (i = 0; i < c->m->n_tensors; i++)
        for (k = 0; k < c->made[i].n_views; k++) {
            view *v = &c->made[i].views[k];
            const st_tensor *s;
            if (v->from->type != ST_F8_E4M3) continue;
            snprintf(name, sizeof name, "%.490s_scale", v->from->name);
            s = st_find(&c->st, name);
            snprintf(name, sizeof name, "%.490s_scale_inv", v->from->name);
            if (s == NULL) s = st_find(&c->st, name);
            if (s == NULL || (s->type != ST_F32 && s->type != ST_BF16) || v->from->n_dims != 2 || !set_scales(c, v, s))
                return cli_fail(c->command, "tensor %s: its factors (%s) are missing, or do not fit", v->from->name, name) == CLI_DONE;
        }
    return 1;
}

int names_apply(checkpoint *c) {
    size_t i;
    for (i = 0; i < c->st.n; i++) {
        if (c->unsaid) *c->unsaid = NULL;
        if (!apply(c, &c->st.tensors[i])) return 0;
        if (c->unsaid && *c->unsaid)
            return cli_fail(c->command, "tensor %s: the base's file does not say %s, which its place depends on: give the base's folder (--base)", c->st.tensors[i].name, *c->unsaid) == CLI_DONE;
    }
    if (c->partial) return 1;
    return (c->family->own_rest == NULL || c->family->own_rest(c)) && find_scales(c);
}
