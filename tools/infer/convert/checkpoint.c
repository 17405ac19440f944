/* checkpoint.c: a Hugging Face folder opened as a model. */
#include "convert.h"

#include "tokenizer.h"

#include <stdlib.h>
#include <string.h>

/* The metadata as it was written, to keys: of those with one name the last counts, and one without a type takes the name away. */
int checkpoint_take_keys(checkpoint *c) {
    file_model *m = c->m;
    const unsigned char *p = c->keys.meta, *end = p + c->keys.meta_n;
    if (c->keys.failed) return cli_fail(c->command, "out of memory") == CLI_DONE;
    m->keys = cli_alloc(c->command, (size_t)c->keys.n_meta + 1, sizeof *m->keys);
    if (m->keys == NULL) return 0;
    while (p < end) {
        const size_t name_n = (size_t)gguf_load(p, 8);
        const char *name = (const char *)p + 8;
        const unsigned char *value = p + 8 + name_n + 4;
        file_key k;
        size_t i;
        memset(&k, 0, sizeof k);
        k.type = (uint32_t)gguf_load(value - 4, 4);
        k.bytes = file_value_bytes(k.type, value);
        k.n = 1;
        if (k.type == GGUF_ARRAY) {
            k.element = (uint32_t)gguf_load(value, 4);
            k.n = gguf_load(value + 4, 8);
        }
        p = value + k.bytes;
        for (i = 0; i < m->n_keys && (strlen(m->keys[i].name) != name_n || memcmp(m->keys[i].name, name, name_n) != 0); i++) {}
        if (i < m->n_keys) { /* it was written before */
            free(m->keys[i].name);
            free(m->keys[i].value);
            memmove(&m->keys[i], &m->keys[i + 1], (m->n_keys - i - 1) * sizeof m->keys[i]);
            m->n_keys--;
        }
        if (k.type == GGUF_N_TYPES) continue;
        k.name = cli_alloc(c->command, name_n + 1, 1);
        k.value = cli_alloc(c->command, k.bytes + 1, 1);
        m->keys[m->n_keys] = k;
        m->n_keys++;
        if (k.name == NULL || k.value == NULL) return 0;
        memcpy(k.name, name, name_n);
        k.name[name_n] = 0;
        memcpy(k.value, value, k.bytes);
        k.value[k.bytes] = 0;
    }
    return 1;
}

void checkpoint_sizes(checkpoint *c) {
    static const char *const PARTS[] = {"text_config", "llm_config", "language_config", "thinker_config.text_config"};
    size_t i;
    c->text = c->config;
    for (i = 0; i < sizeof PARTS / sizeof PARTS[0] && c->text == c->config; i++) {
        const infer_json *part = cfg(c, PARTS[i]);
        if (infer_json_kind(part) == INFER_JSON_OBJECT) c->text = part;
    }
    c->n_layers = cfg_int(c, "num_hidden_layers|n_layers|n_layer|num_layers", infer_json_count(cfg(c, CFG_LAYER_TYPES)));
    c->n_embd = cfg_int(c, "hidden_size|n_embd|d_model|dim", 0);
    c->n_head = cfg_int(c, "num_attention_heads|n_head|n_heads|num_heads", 0);
    c->n_head_kv = cfg_int(c, CFG_HEADS_KV, c->n_head);
    c->head_dim = cfg_int(c, "head_dim", c->n_head ? c->n_embd / c->n_head : 0);
    c->n_vocab = cfg_int(c, "vocab_size", 0);
}

static int check_sizes(const checkpoint *c) {
    const uint64_t most = 1 << 24;
    if (c->n_layers > 0 && c->n_layers <= 1 << 16 && c->n_embd > 0 && c->n_embd <= most && c->n_head <= 1 << 16 && c->n_head_kv <= 1 << 16 && c->head_dim <= 1 << 16) return 1;
    return cli_fail(c->command, "%s/config.json: %.0f layers of width %.0f with %.0f heads are not possible", c->folder, (double)c->n_layers, (double)c->n_embd, (double)c->n_head) == CLI_DONE;
}

/* Sampling that the model's makers recommend, in the keys that llama.cpp gives it. */
static void sampling(checkpoint *c) {
    static const struct {
        const char *from, *key;
        int whole;
    } ROWS[] = {{"top_k", "top_k", 1}, {"top_p", "top_p", 0}, {"min_p", "min_p", 0}, {"temperature", "temp", 0}, {"repetition_penalty", "penalty_repeat", 0}};
    char key[64];
    size_t i;
    for (i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        const infer_json *v = infer_json_get(c->generation, ROWS[i].from);
        const int32_t kind = infer_json_kind(v);
        if (kind != INFER_JSON_INT && kind != INFER_JSON_FLOAT) continue;
        snprintf(key, sizeof key, "general.sampling.%s", ROWS[i].key);
        if (ROWS[i].whole && infer_json_int(v) >= 0) gguf_i32(&c->keys, key, (int32_t)infer_json_int(v));
        else if (!ROWS[i].whole) gguf_f32(&c->keys, key, infer_json_number(v));
    }
}

/* Layers after the others, in their numbering, that predict further tokens. */
static uint64_t count_next(const checkpoint *c) {
    const uint64_t most = cfg_int(c, "num_nextn_predict_layers", 0);
    uint64_t n;
    for (n = 0; n < most; n++) {
        char name[64];
        snprintf(name, sizeof name, "model.layers.%llu.eh_proj.weight", (unsigned long long)(c->n_layers + n));
        if (st_find(&c->st, name) == NULL) break;
    }
    return n;
}

static int fill(checkpoint *c) {
    const file_tensor *embeddings;
    uint64_t rows;
    if (!cfg_file(c->command, c->folder, "config.json", 1, &c->config) || !cfg_file(c->command, c->folder, "generation_config.json", 0, &c->generation)) return 0;
    if (c->generation && infer_json_kind(c->generation) != INFER_JSON_OBJECT) return cli_fail(c->command, "%s/generation_config.json: not a JSON object", c->folder) == CLI_DONE;
    checkpoint_sizes(c);
    c->family = family_of(c);
    if (c->family == NULL || !check_sizes(c)) return 0;
    c->arch = c->family->arch;
    if (!check_config(c) || !st_open(&c->st, c->command, c->folder, "model")) return 0;
    if (c->family->flags & NEXT_BLOCKS) c->n_next = count_next(c);
    gguf_string(&c->keys, "general.architecture", c->arch);
    gguf_string(&c->keys, "general.type", "model");
    gguf_string(&c->keys, "general.name", cli_base_name(c->folder));
    sampling(c);
    if (!keys_common(c) || !keys_rows(c, c->family->keys) || (c->family->own_keys && !c->family->own_keys(c)) || !names_apply(c) || !make_done(c)) return 0;
    if (c->left_out) fprintf(stderr, "warning: %s: %lu tensors are left out: those of images, sound, and layers that predict further tokens\n", c->folder, (unsigned long)c->left_out);
    embeddings = file_find_tensor(c->m, "token_embd.weight");
    rows = embeddings ? embeddings->dims[1] : c->n_vocab;
    if (rows == 0) return cli_fail(c->command, "%s: there are no embeddings of tokens", c->folder) == CLI_DONE;
    return hf_tokenizer(c->command, c->folder, c->config, c->generation, rows, c->pre, &c->keys) && checkpoint_take_keys(c) && check_made(c);
}

int checkpoint_open(file_model *m, const char *command, const char *folder, int natural, const char *pre) {
    checkpoint *c = cli_alloc(command, 1, sizeof *c);
    m->command = command;
    m->path = folder;
    m->n_parts = 1;
    if (c == NULL) return 0;
    memset(c, 0, sizeof *c);
    c->command = command;
    c->folder = folder;
    c->m = m;
    c->natural = natural;
    c->pre = pre;
    m->folder = c;
    return fill(c);
}

void checkpoint_close(checkpoint *c) {
    size_t i;
    if (c == NULL) return;
    for (i = 0; i < c->m->n_tensors; i++) {
        free(c->made[i].views);
        free(c->made[i].values);
    }
    for (i = 0; i < 2; i++) free(c->windows[i].bytes);
    free(c->made);
    free(c->raw);
    free(c->values);
    gguf_free(&c->keys);
    st_close(&c->st);
    infer_json_free(c->config);
    infer_json_free(c->generation);
    lora_close(c->lora);
    free(c);
}

typedef struct looked_for {
    const char *folder, *path;
    int found;
} looked_for;

/* Whatever lies in the folder may be read, but for models that were written there. */
static int is_it(void *user, const char *name, int is_folder, uint64_t bytes) {
    looked_for *l = user;
    char own[PLATFORM_PATH];
    (void)bytes;
    if (is_folder || cli_ends_with(name, ".gguf") || snprintf(own, sizeof own, "%s/%s", l->folder, name) >= (int)sizeof own) return 1;
    l->found = platform_same_file(own, l->path);
    return !l->found;
}

int checkpoint_is_file(const checkpoint *c, const char *path) {
    looked_for l = {c->folder, path, 0};
    int i;
    if (platform_list(c->folder, is_it, &l) && l.found) return 1;
    for (i = 0; i < c->st.n_paths; i++)
        if (platform_same_file(c->st.paths[i], path)) return 1;
    return c->lora && file_is_part(&c->lora->base, path);
}
