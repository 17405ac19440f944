/* lora_base.c: the model that an adapter is for, and its config. A GGUF file has none: keys that rows make of values of config.json are turned
 * back to these by the same rows. A value that is asked for later and is not among them is an error that names it (checkpoint.unsaid). */
#include "convert.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 16 }; /* experts, layers, heads */

typedef struct config {
    const lora *l;
    const char *arch;
    cli_text text;
} config;

static void add(config *t, const char *s) { cli_text_put(t->l->command, &t->text, s, strlen(s)); }

/* ARCH.key as a number; of an array the one value that its elements have, besides 0. 0 = there is no such key, -1 = it is not one number. */
static int number(const config *t, const char *key, double *out) {
    char name[160];
    const file_key *k;
    const unsigned char *p;
    infer_meta m;
    uint64_t i, n;
    uint32_t type;
    snprintf(name, sizeof name, "%s.%s", t->arch, key);
    k = file_find_key(&t->l->base, name);
    if (k == NULL) return 0;
    type = k->type == GGUF_ARRAY ? k->element : k->type;
    n = k->type == GGUF_ARRAY ? k->n : 1;
    p = k->type == GGUF_ARRAY ? k->value + GGUF_ARRAY_HEAD : k->value;
    *out = 0;
    if (type == GGUF_STRING || type == GGUF_ARRAY) return -1;
    for (i = 0; i < n; i++) {
        p += value_decode(type, p, &m);
        if (m.f == 0) continue;
        if (*out != 0 && *out != m.f) return -1;
        *out = m.f;
    }
    return n > 0 && *out - *out == 0 ? 1 : -1;
}

/* A name of config.json, and its value. */
static void add_value(config *t, const char *name, size_t name_n, int is_bool, double x) {
    char line[160];
    if (name_n > 100) return;
    if (is_bool) snprintf(line, sizeof line, ",\n\"%.*s\": %s", (int)name_n, name, x != 0 ? "true" : "false");
    else snprintf(line, sizeof line, ",\n\"%.*s\": %.17g", (int)name_n, name, x);
    add(t, line);
}

/* What rows make keys of, under the first name that is no member of another. */
static void add_rows(config *t, const key_row *r) {
    for (; r && r->key; r++) {
        const char *name = r->from;
        double x;
        if ((r->kind != KEY_INT && r->kind != KEY_FLOAT && r->kind != KEY_BOOL) || number(t, r->key, &x) <= 0) continue;
        while (name && memchr(name, '.', strcspn(name, "|"))) name = strchr(name, '|') ? strchr(name, '|') + 1 : NULL;
        if (name) add_value(t, name, strcspn(name, "|"), r->kind == KEY_BOOL, x);
    }
}

/* What no row says: a key, and what it is divided by or lessened by. */
static void add_others(config *t) {
    static const struct {
        const char *name, *key;
        char op;
        const char *other;
    } ROWS[] = {{"num_hidden_layers", "block_count", '-', "nextn_predict_layers"}, {"hidden_size", "embedding_length", 0, NULL},
                {"num_attention_heads", "attention.head_count", 0, NULL},          {"num_key_value_heads", "attention.head_count_kv", 0, NULL},
                {"linear_num_key_heads", "ssm.group_count", 0, NULL},              {"linear_num_value_heads", "ssm.time_step_rank", 0, NULL},
                {"linear_key_head_dim", "ssm.state_size", 0, NULL},                {"linear_value_head_dim", "ssm.inner_size", '/', "ssm.time_step_rank"}};
    size_t i;
    for (i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        double x = 0, y = 0;
        const int found = number(t, ROWS[i].key, &x);
        if (found == 0) continue;
        if (found < 0) x = 0; /* heads that differ from layer to layer: no number of them would be right */
        if (ROWS[i].op && number(t, ROWS[i].other, &y) <= 0) y = ROWS[i].op == '/';
        if (ROWS[i].op == '/' && y != 0) x /= y;
        if (ROWS[i].op == '-') x -= y;
        add_value(t, ROWS[i].name, strlen(ROWS[i].name), 0, x);
    }
}

static int from_keys(lora *l) {
    checkpoint *c = l->through;
    const file_key *k = file_find_key(&l->base, "general.architecture");
    infer_meta m;
    infer_error err;
    char arch[64];
    config t;
    int others, ok;
    memset(&t, 0, sizeof t);
    if (k == NULL || k->type != GGUF_STRING) return cli_fail(l->command, "%s: general.architecture is missing", l->base_path) == CLI_DONE;
    value_decode(k->type, k->value, &m);
    if (m.n >= sizeof arch) return cli_fail(l->command, "%s: adapters for this architecture cannot be converted", l->base_path) == CLI_DONE;
    memcpy(arch, m.s, (size_t)m.n);
    arch[m.n] = 0;
    c->family = family_of_arch(arch, &others);
    if (c->family == NULL) return cli_fail(l->command, "%s: adapters for models of the architecture %s cannot be converted", l->base_path, arch) == CLI_DONE;
    if (others)
        return cli_fail(l->command, "%s: files of the architecture %s come from folders of several kinds: give the base's folder (--base)", l->base_path, arch) == CLI_DONE;
    t.l = l;
    t.arch = c->arch = c->family->arch;
    add(&t, file_find_tensor(&l->base, "output.weight") ? "{\"tie_word_embeddings\": false" : "{\"tie_word_embeddings\": true");
    add_others(&t);
    add_rows(&t, KEYS_COMMON);
    add_rows(&t, c->family->keys);
    add(&t, "}");
    ok = !t.text.failed;
    if (ok && infer_json_parse(&c->config, t.text.s, t.text.n, NULL, &err) != INFER_OK) ok = cli_fail(l->command, "%s: its keys make no config: %s", l->base_path, err.message) == CLI_DONE;
    free(t.text.s);
    if (!ok) return 0;
    checkpoint_sizes(c);
    c->unsaid = &l->unsaid;
    return 1;
}

int lora_base(lora *l) {
    checkpoint *c = l->through;
    const checkpoint *its;
    if (!file_open(&l->base, l->command, l->base_path)) return 0;
    its = l->base.folder;
    if (its && its->lora) return cli_fail(l->command, "%s: the base is an adapter itself", l->base_path) == CLI_DONE;
    if (its) {
        c->config = its->config;
        c->family = its->family;
        c->arch = its->arch;
        c->n_next = its->n_next;
        checkpoint_sizes(c);
    } else if (!from_keys(l)) return 0;
    if (c->n_layers <= MOST && c->n_head <= MOST && c->n_head_kv <= MOST && cfg_int(c, CFG_EXPERTS, 0) <= MOST) return 1;
    return cli_fail(l->command, "%s: %.0f layers, %.0f heads or %.0f experts are not possible", l->base_path, (double)c->n_layers, (double)c->n_head, (double)cfg_int(c, CFG_EXPERTS, 0)) == CLI_DONE;
}
