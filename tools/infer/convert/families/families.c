/* families.c: the families of models: the row for a class that config.json may name, and rows of keys and names that several have. Facts: the
 * models' own code in transformers, and the tensors and keys of the files that llama.cpp's converter makes of them
 * (docs/architectures.md). */
#include "families.h"

#include <string.h>

const key_row LLAMA[] = {{"vocab_size", KEY_INT, "vocab_size", NO_DEFAULT}, ROTARY_ALL, END_KEYS};
const key_row QWEN_MOE[] = {
    {"expert_feed_forward_length", KEY_INT, "moe_intermediate_size", NO_DEFAULT},
    {"expert_shared_feed_forward_length", KEY_INT, "shared_expert_intermediate_size", NO_DEFAULT},
    END_KEYS,
};
/* Norms behind the sublayers, as Gemma 2 has them. */
const name_row AFTER[] = {{"post_attention_layernorm", "post_attention_norm", NAME_PLUS_1}, END_NAMES};
const name_row FEED_FORWARD[] = {
    {"pre_ff_layernorm", "ffn_norm", NAME_COPY},
    {"feed_forward.gate_proj", "ffn_gate", NAME_COPY},
    {"feed_forward.up_proj", "ffn_up", NAME_COPY},
    {"feed_forward.down_proj", "ffn_down", NAME_COPY},
    {"feed_forward.router", "ffn_gate_inp", NAME_COPY},
    {"feed_forward.shared_expert.gate_proj", "ffn_gate_shexp", NAME_COPY},
    {"feed_forward.shared_expert.up_proj", "ffn_up_shexp", NAME_COPY},
    {"feed_forward.shared_expert.down_proj", "ffn_down_shexp", NAME_COPY},
    {"feed_forward.experts.#.gate_proj", "ffn_gate_exps", NAME_EXPERTS},
    {"feed_forward.experts.#.up_proj", "ffn_up_exps", NAME_EXPERTS},
    {"feed_forward.experts.#.down_proj", "ffn_down_exps", NAME_EXPERTS},
    END_NAMES,
};

int experts_below(checkpoint *c, st_tensor *t, int64_t layer, const char *what, uint64_t n, int transposed) {
    const uint64_t rows = n && t->n_dims == 2 ? t->dims[0] / n : 0, cols = t->n_dims == 2 ? t->dims[1] : 0;
    const uint64_t dims[3] = {transposed ? rows : cols, transposed ? cols : rows, n};
    char name[128];
    view *v = make_view(c, make(c, name_in(name, layer, what), 3, dims), t, 0);
    if (transposed) {
        view_loop(v, n, rows * cols);
        view_loop(v, cols, 1);
        view_loop(v, rows, cols);
    } else view_loop(v, t->n, 1);
    return v ? 1 : -1;
}

static const family *const ALL[] = {DENSE_FAMILIES, EXPERTS_FAMILIES, GRANITE_FAMILIES, GEMMA_FAMILIES, LINEAR_FAMILIES, OLDER_FAMILIES, ENCODERS_FAMILIES};

const family *family_of(checkpoint *c) {
    const infer_json *list = cfg(c, "architectures");
    const char *name = infer_json_string(infer_json_at(list, 0), NULL);
    const family *f;
    size_t i;
    if (name == NULL) {
        cli_fail(c->command, "%s/config.json: \"architectures\" is missing: what kind of model is it?", c->folder);
        return NULL;
    }
    for (i = 0; i < sizeof ALL / sizeof ALL[0]; i++)
        for (f = ALL[i]; f->classes; f++)
            if (cfg_is_word(f->classes, name) && (f->fits == NULL || f->fits(c))) return f;
    cli_fail(c->command, "%s/config.json: models of the class %.80s cannot be converted", c->folder, name);
    return NULL;
}

const family *family_of_arch(const char *arch, int *others) {
    const family *found = NULL, *f;
    size_t i;
    *others = 0;
    for (i = 0; i < sizeof ALL / sizeof ALL[0]; i++)
        for (f = ALL[i]; f->classes; f++) {
            if (strcmp(f->arch, arch) != 0) continue;
            if (found && (f->names != found->names || f->own_tensor != found->own_tensor || (f->flags ^ found->flags) & ~ROUTES_SIGMOID)) *others = 1;
            found = f;
        }
    return found;
}
