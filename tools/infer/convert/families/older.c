/* older.c: older. */
#include "families.h"

#include <stdlib.h>
#include <string.h>

static int keys_gpt2(checkpoint *c) {
    if (cfg(c, "n_inner") == NULL) key_int(c, "feed_forward_length", 4 * c->n_embd);
    return 1;
}

/* query_key_value: for each head its Q, K and V; to all Q, all K, all V. */
static int tensor_gptneox(checkpoint *c, st_tensor *t, int64_t layer, const char *rest) {
    const uint64_t cols = t->n_dims == 2 ? t->dims[1] : 1, d = c->head_dim, rows = 3 * d * c->n_head;
    const uint64_t dims[2] = {t->n_dims == 2 ? cols : rows, rows};
    char name[128], what[32];
    uint64_t i;
    made *m;
    if (strncmp(rest, "attention.query_key_value.", 26) != 0) return 0;
    snprintf(what, sizeof what, "attn_qkv.%.16s", rest + 26);
    m = make(c, name_in(name, layer, what), t->n_dims == 2 ? 2 : 1, dims);
    for (i = 0; m && i < 3; i++) {
        view *v = make_view(c, m, t, i * d * cols);
        view_loop(v, c->n_head, 3 * d * cols);
        view_loop(v, d * cols, 1);
        if (v == NULL) return -1;
    }
    return m ? 1 : -1;
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
    {"/wte", "token_embd", NAME_COPY},
    {"/wpe", "position_embd", NAME_COPY},
    {"/ln_f", "output_norm", NAME_COPY},
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

const family OLDER_FAMILIES[] = {
    {.classes = "Starcoder2ForCausalLM", .arch = "starcoder2", .names = STARCODER2},
    {.classes = "GPT2LMHeadModel", .arch = "gpt2", .keys = GPT2, .names = GPT2_NAMES, .own_keys = keys_gpt2},
    {.classes = "GPTNeoXForCausalLM", .arch = "gptneox", .keys = NEOX, .names = NEOX_NAMES, .own_tensor = tensor_gptneox},
    {.classes = NULL},
};
