/* request.c: the members of a request's body, by the table of parameters that its interface has. Whatever is not in the table is
 * refused by name: a parameter that is silently ignored would give another reply than the one that was asked for. */
#include "serve.h"

#include <stdlib.h>
#include <string.h>

static int wrong(failure *f, const parameter *p, const char *what) {
    return fail(f, 400, "invalid_type", p->name, "'%s' must be %s", p->name, what);
}

static int is_number(const infer_json *v) {
    const int32_t kind = infer_json_kind(v);
    return kind == INFER_JSON_INT || kind == INFER_JSON_FLOAT;
}

/* Is v, as JSON, the text that `only` has? */
static int is_only(const infer_json *v, const char *only) {
    char text[128];
    size_t n;
    return infer_json_write(v, -1, text, sizeof text, &n) == INFER_OK && n < sizeof text && strcmp(text, only) == 0;
}

static int set_number(char *to, const parameter *p, const infer_json *v, failure *f) {
    char range[96];
    const double x = infer_json_number(v);
    snprintf(range, sizeof range, p->kind == PARAM_INT ? "a whole number from %.0f to %.0f" : "a number from %g to %g", p->lo, p->hi);
    if (!is_number(v) || !(x >= p->lo && x <= p->hi)) return wrong(f, p, range);
    if (p->kind == PARAM_NUMBER) {
        *(double *)(void *)to = x;
        return 1;
    }
    if (infer_json_kind(v) == INFER_JSON_FLOAT && x != (double)(int64_t)x) return wrong(f, p, range);
    *(int64_t *)(void *)to = infer_json_kind(v) == INFER_JSON_INT ? infer_json_int(v) : (int64_t)x;
    return 1;
}

static int set_text(char *to, const parameter *p, const infer_json *v, failure *f) {
    size_t n = 0;
    const char *s = infer_json_string(v, &n);
    if (s == NULL) return wrong(f, p, "a string");
    if (strlen(s) != n) return wrong(f, p, "a string without zero bytes");
    *(const char **)(void *)to = s;
    return 1;
}

static int set(asked *a, const parameter *p, const infer_json *v, failure *f) {
    char *to = (char *)a + p->at;
    const int32_t kind = infer_json_kind(v);
    int ok;
    if (kind == INFER_JSON_NULL) return 1;
    switch (p->kind) {
    case PARAM_IGNORED: return 1;
    case PARAM_ONLY:
        return is_only(v, p->only) || fail(f, 400, "unsupported_value", p->name, "unsupported parameter: '%s' can only be %s here", p->name, p->only);
    case PARAM_FLAG:
        if (kind != INFER_JSON_TRUE && kind != INFER_JSON_FALSE) return wrong(f, p, "true or false");
        *(int *)(void *)to = kind == INFER_JSON_TRUE;
        return 1;
    case PARAM_INT:
    case PARAM_NUMBER: return set_number(to, p, v, f);
    case PARAM_TEXT: return set_text(to, p, v, f);
    case PARAM_LIST:
        if (kind != INFER_JSON_ARRAY) return wrong(f, p, "a list");
        break;
    case PARAM_OBJECT:
        if (kind != INFER_JSON_OBJECT) return wrong(f, p, "an object");
        break;
    case PARAM_SAMPLING:
        ok = is_number(v) ? cli_sampling_set(&a->sampling, p->name, infer_json_number(v)) : 0;
        return ok > 0 || wrong(f, p, "a number in its range");
    default: break;
    }
    *(const infer_json **)(void *)to = v;
    return 1;
}

/* {"ID": bias}: texts as the command line has them. */
static int set_biases(asked *a, const cli_sampling *defaults, failure *f) {
    const size_t n = infer_json_count(a->logit_bias);
    size_t i;
    char *text;
    if (n == 0) return 1;
    if (n > 4096) return fail(f, 400, NULL, "logit_bias", "'logit_bias' has more than 4096 members");
    a->biases.items = cli_alloc(serve_command, n + (size_t)defaults->biases.n, sizeof *a->biases.items);
    if (a->biases.items == NULL) return fail(f, 503, NULL, NULL, "out of memory");
    for (i = 0; i < n; i++) {
        const char *name = infer_json_name(a->logit_bias, i, NULL);
        const infer_json *v = infer_json_at(a->logit_bias, i);
        const double bias = infer_json_number(v);
        const size_t digits = strspn(name, "0123456789");
        if (digits == 0 || digits > 9 || name[digits] || !is_number(v) || !(bias >= -100 && bias <= 100))
            return fail(f, 400, NULL, "logit_bias", "'logit_bias' must have ids of tokens as names and numbers from -100 to 100 as values");
        text = cli_alloc(serve_command, 64, 1);
        if (text == NULL) return fail(f, 503, NULL, NULL, "out of memory");
        if (bias == -100) snprintf(text, 64, "%s-inf", name); /* a ban */
        else snprintf(text, 64, "%s%+.9g", name, bias);
        a->biases.items[a->biases.n++] = text;
    }
    a->sampling.biases = a->biases;
    for (i = 0; i < (size_t)defaults->biases.n; i++) a->sampling.biases.items[a->sampling.biases.n++] = defaults->biases.items[i];
    return 1;
}

int asked_read(asked *a, const infer_json *object, const parameter *table, size_t n, const cli_sampling *defaults, failure *f) {
    size_t i, k;
    memset(a, 0, sizeof *a);
    a->n = a->max_tokens = a->max_completion = a->min_tokens = a->seed = a->top_logprobs = a->best_of = a->dimensions = a->top_n = a->normalize = -1;
    if (defaults) a->sampling = *defaults;
    for (i = 0; i < infer_json_count(object); i++) {
        const char *name = infer_json_name(object, i, NULL);
        for (k = 0; k < n && strcmp(table[k].name, name) != 0; k++) {}
        if (k == n) return fail(f, 400, "unsupported_parameter", name, "unsupported parameter: '%.80s'", name);
        if (!set(a, &table[k], infer_json_at(object, i), f)) return 0;
    }
    return defaults == NULL || set_biases(a, defaults, f);
}

void asked_free(asked *a) {
    int i;
    for (i = 0; i < a->biases.n; i++) free((void *)a->biases.items[i]);
    free((void *)a->biases.items);
    memset(a, 0, sizeof *a);
}

const char *json_get_text(const infer_json *object, const char *name, const char *where, failure *f) {
    size_t n = 0;
    const char *s = infer_json_string(infer_json_get(object, name), &n);
    if (s && strlen(s) == n) return s;
    fail(f, 400, "invalid_type", where, "%s: '%s' must be a string", where, name);
    return NULL;
}

int json_tokens(const infer_json *list, int32_t vocab, infer_token **ids, size_t *n, const char *param, const char *what, failure *f) {
    size_t i;
    *n = infer_json_count(list);
    *ids = NULL;
    if (infer_json_kind(list) != INFER_JSON_ARRAY) return fail(f, 400, "invalid_type", param, "'%s' must be %s", param, what);
    *ids = cli_alloc(serve_command, *n + 1, sizeof **ids);
    if (*ids == NULL) return fail(f, 503, NULL, NULL, "out of memory");
    for (i = 0; i < *n; i++) {
        const infer_json *v = infer_json_at(list, i);
        const int64_t id = infer_json_int(v);
        if (infer_json_kind(v) != INFER_JSON_INT || id < 0 || id >= vocab) return fail(f, 400, "invalid_type", param, "'%s' must be %s", param, what);
        (*ids)[i] = (infer_token)id;
    }
    return 1;
}

int json_is(const infer_json *v, const char *text) {
    const char *s = infer_json_string(v, NULL);
    return s && strcmp(s, text) == 0;
}

int text_tokens(const served *m, const char *text, size_t n, const char *suffix, int32_t flags, infer_token **ids, size_t *count, failure *f) {
    infer_error err;
    infer_result r;
    int pass;
    *ids = NULL;
    *count = 0;
    for (pass = 0; pass < 2; pass++) {
        const size_t cap = *count;
        r = suffix ? infer_infill(m->model, text, n, suffix, strlen(suffix), 0, *ids, cap, count, &err)
                   : infer_tokenize(m->model, text, n, flags, *ids, cap, count, &err);
        if (r != INFER_OK) return fail_by(f, r, err.message);
        if (pass == 0) *ids = cli_alloc(serve_command, *count + 1, sizeof **ids);
        if (*ids == NULL) return fail(f, 503, NULL, NULL, "out of memory");
    }
    return 1;
}

int prompt_tokens(const served *m, const infer_json *prompt, const char *suffix, const char *what, infer_token **ids, size_t *n, failure *f) {
    size_t length;
    const char *text = infer_json_string(prompt, &length);
    *ids = NULL;
    if (text) {
        if (!text_tokens(m, text, length, suffix, INFER_TEXT_ADD_SPECIAL, ids, n, f)) return 0;
        return *n > 0 || fail(f, 400, NULL, "prompt", "'prompt' is empty, and the model has no token for the beginning");
    }
    if (!json_tokens(prompt, m->info.vocab, ids, n, "prompt", what, f)) return 0;
    if (suffix) return fail(f, 400, NULL, "suffix", "'suffix' needs a 'prompt' of text");
    return *n > 0 || fail(f, 400, NULL, "prompt", "'prompt' is empty");
}
