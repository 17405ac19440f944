/* config.c: values of config.json. What belongs to the language model may be in a part of it (text_config), and stands there first. */
#include "convert.h"

#include <stdlib.h>
#include <string.h>

int cfg_file(const char *command, const char *folder, const char *name, int needed, infer_json **out) {
    char *path = st_path(command, folder, name), *text = NULL;
    infer_error err;
    size_t n;
    int ok = path != NULL;
    *out = NULL;
    if (ok && (needed || platform_path_kind(path) == PLATFORM_FILE)) ok = (text = cli_read_file(command, path, &n)) != NULL;
    if (text && infer_json_parse(out, text, n, NULL, &err) != INFER_OK) ok = cli_fail(command, "%s: %s", path, err.message) == CLI_DONE;
    free(text);
    free(path);
    return ok;
}

/* A name with n bytes, "a.b" for a member of a member. */
static const infer_json *member(const infer_json *v, const char *name, size_t n) {
    while (v && n > 0) {
        const char *dot = memchr(name, '.', n);
        const size_t k = dot ? (size_t)(dot - name) : n;
        char one[64];
        if (k >= sizeof one) return NULL;
        memcpy(one, name, k);
        one[k] = 0;
        v = infer_json_get(v, one);
        name += dot ? k + 1 : k;
        n -= dot ? k + 1 : k;
    }
    return v && infer_json_kind(v) != INFER_JSON_NULL ? v : NULL;
}

static const infer_json *first_of(const infer_json *v, const char *names) {
    for (;;) {
        const size_t n = strcspn(names, "|");
        const infer_json *found = member(v, names, n);
        if (found || names[n] == 0) return found;
        names += n + 1;
    }
}

const infer_json *cfg(const checkpoint *c, const char *names) {
    const infer_json *v = first_of(c->text, names);
    if (v == NULL && c->text != c->config) v = first_of(c->config, names);
    if (v == NULL && c->unsaid && *c->unsaid == NULL) *c->unsaid = names;
    return v;
}

static uint64_t whole(const infer_json *v, uint64_t otherwise) {
    const double x = infer_json_number(v);
    if (v == NULL || (infer_json_kind(v) != INFER_JSON_INT && infer_json_kind(v) != INFER_JSON_FLOAT) || !(x >= 0 && x <= 9007199254740992.0)) return otherwise;
    return (uint64_t)x;
}
static double number(const infer_json *v, double otherwise) {
    return v && (infer_json_kind(v) == INFER_JSON_INT || infer_json_kind(v) == INFER_JSON_FLOAT) ? infer_json_number(v) : otherwise;
}

uint64_t cfg_int(const checkpoint *c, const char *names, uint64_t otherwise) { return whole(cfg(c, names), otherwise); }
double cfg_number(const checkpoint *c, const char *names, double otherwise) { return number(cfg(c, names), otherwise); }
const char *cfg_text(const checkpoint *c, const char *names) { return infer_json_string(cfg(c, names), NULL); }
int cfg_true(const checkpoint *c, const char *names, int otherwise) {
    const int32_t kind = infer_json_kind(cfg(c, names));
    return kind == INFER_JSON_TRUE ? 1 : kind == INFER_JSON_FALSE ? 0 : otherwise;
}
uint64_t cfg_rotated(const checkpoint *c, uint64_t all, double share) {
    const infer_json *v = cfg_rope(c, "full_attention", "partial_rotary_factor");
    const double x = v ? infer_json_number(v) : cfg_number(c, "partial_rotary_factor|rotary_pct|rope_pct", share);
    return x >= 0 && x <= 1 ? (uint64_t)(x * (double)all) : all;
}
int cfg_says(const infer_json *v, const char *text) {
    const char *s = infer_json_string(v, NULL);
    return s && strcmp(s, text) == 0;
}

const infer_json *cfg_rope(const checkpoint *c, const char *kind, const char *name) {
    const infer_json *all = cfg(c, "rope_parameters|rope_scaling"), *its = infer_json_get(all, kind);
    const infer_json *v = infer_json_kind(its) == INFER_JSON_OBJECT ? first_of(its, name) : NULL;
    return v ? v : first_of(all, name);
}

int cfg_is_word(const char *words, const char *word) {
    const size_t n = strlen(word);
    while (*words) {
        const size_t k = strcspn(words, "|");
        if (k == n && memcmp(words, word, n) == 0) return 1;
        words += k + (words[k] == '|');
    }
    return 0;
}

const char *cfg_layer_type(const checkpoint *c, uint64_t layer) {
    const infer_json *types = cfg(c, CFG_LAYER_TYPES), *which = cfg(c, "full_attn_idxs|attn_layer_indices");
    size_t i;
    if (infer_json_kind(types) == INFER_JSON_ARRAY) return infer_json_string(infer_json_at(types, (size_t)layer), NULL);
    if (infer_json_kind(which) != INFER_JSON_ARRAY) return NULL;
    for (i = 0; i < infer_json_count(which); i++)
        if (infer_json_int(infer_json_at(which, i)) == (int64_t)layer) return "full_attention";
    return "linear_attention";
}

int cfg_is_type(const checkpoint *c, uint64_t layer, const char *types) {
    const char *its = cfg_layer_type(c, layer);
    return its && cfg_is_word(types, its);
}

int cfg_tied(const checkpoint *c) {
    const infer_json *v = infer_json_get(c->config, "tie_word_embeddings");
    int32_t kind = infer_json_kind(v);
    if (kind != INFER_JSON_TRUE && kind != INFER_JSON_FALSE) kind = infer_json_kind(infer_json_get(c->text, "tie_word_embeddings"));
    return kind == INFER_JSON_TRUE ? 1 : kind == INFER_JSON_FALSE ? 0 : -1;
}
