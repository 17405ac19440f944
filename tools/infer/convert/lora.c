/* lora.c: a folder with an adapter, as PEFT saves it (adapter_config.json, adapter_model.safetensors), opened as the GGUF file of an adapter.
 * Facts: PEFT's tuners/lora (config.py, layer.py) and utils/save_and_load.py; the GGUF side is llama.cpp's convention (README of the
 * library's adapters: src/model/adapter.c). */
#include "convert.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char CONFIG[] = "adapter_config.json", STEM[] = "adapter_model", WEIGHT[] = ".weight";
enum { MAX_RANK = 1 << 20, MAX_EXPERTS = 1 << 12, MAX_NAME = 480 };

static int bad(const lora *l, const char *name, const char *why) { return cli_fail(l->command, "%s/%s: %s %s", l->folder, CONFIG, name, why) == CLI_DONE; }

/* ---- the config ----------------------------------------------------------------------------------- */

/* What has no effect once the adapter is trained, or is read below. Others may only say that nothing is asked for: null, false, none. */
static const char KNOWN[] =
    "r|lora_alpha|use_rslora|rank_pattern|alpha_pattern|alora_invocation_tokens|base_model_name_or_path|auto_mapping|peft_type|peft_version|revision|task_type|inference_mode|"
    "target_modules|exclude_modules|target_parameters|layers_to_transform|layers_pattern|lora_dropout|init_lora_weights|loftq_config|eva_config|corda_config|lora_ga_config|"
    "qalora_group_size|megatron_core|runtime_config|fan_in_fan_out"; /* the last: the base says it */
/* With these values others, too. */
static const struct {
    const char *name, *fine;
} VALUES[] = {
    {"peft_type", "LORA"},
    {"bias", "none"},
    {"init_lora_weights", "gaussian|eva|orthogonal"}, /* other words change the base's weights */
};

static int is_nothing(const infer_json *v) {
    const int32_t kind = infer_json_kind(v);
    return kind == INFER_JSON_NULL || kind == INFER_JSON_FALSE || ((kind == INFER_JSON_ARRAY || kind == INFER_JSON_OBJECT) && infer_json_count(v) == 0);
}

static int check_member(const lora *l, const char *name, const infer_json *v) {
    const char *s = infer_json_string(v, NULL);
    size_t i;
    for (i = 0; s && i < sizeof VALUES / sizeof VALUES[0]; i++) {
        char why[128];
        if (strcmp(name, VALUES[i].name) != 0) continue;
        if (cfg_is_word(VALUES[i].fine, s)) return 1;
        snprintf(why, sizeof why, "%.40s is not supported, only %s", s, VALUES[i].fine);
        return bad(l, name, why);
    }
    if (is_nothing(v) || cfg_is_word(KNOWN, name)) return 1;
    return bad(l, name, "is not supported: it changes what the adapter computes, or its meaning is not known");
}

static int is_number(const infer_json *v) { return infer_json_kind(v) == INFER_JSON_INT || infer_json_kind(v) == INFER_JSON_FLOAT; }

static int is_rank(const infer_json *v) { return infer_json_kind(v) == INFER_JSON_INT && infer_json_int(v) >= 1 && infer_json_int(v) <= MAX_RANK; }
static int is_alpha(const infer_json *v) { return is_number(v) && fabs(infer_json_number(v)) <= 1e30; }

/* Patterns are regular expressions. Understood are letters, digits, _, a dot for any character, \ before a character, * after one, ^ in front. */
static int is_plain_pattern(const char *s) {
    static const char PLAIN[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.";
    int stars = 0; /* few: each may be tried at every character */
    for (s += *s == '^'; *s; s += s[1] == '*' ? 2 : 1) {
        if (s[1] == '*' && ++stars > 3) return 0;
        if (*s == '\\' && s[1] && strchr(".-_", s[1])) s++;
        else if (strchr(PLAIN, *s) == NULL) return 0;
    }
    return 1;
}

static int check_pattern(const lora *l, const char *name, int (*fits)(const infer_json *v)) {
    const infer_json *list = infer_json_get(l->config, name);
    size_t i;
    if (is_nothing(list)) return 1;
    if (infer_json_kind(list) != INFER_JSON_OBJECT) return bad(l, name, "is no object");
    for (i = 0; i < infer_json_count(list); i++) {
        size_t n;
        const char *key = infer_json_name(list, i, &n);
        if (strlen(key) != n || n > MAX_NAME || !is_plain_pattern(key)) return bad(l, name, "with this regular expression is not supported");
        if (!fits(infer_json_at(list, i))) return bad(l, name, "has a value that is not possible");
    }
    return 1;
}

static int check_lora(const lora *l) {
    size_t i;
    if (infer_json_kind(l->config) != INFER_JSON_OBJECT) return cli_fail(l->command, "%s/%s: it is no object", l->folder, CONFIG) == CLI_DONE;
    if (infer_json_string(infer_json_get(l->config, "peft_type"), NULL) == NULL) return bad(l, "peft_type", "is missing");
    for (i = 0; i < infer_json_count(l->config); i++)
        if (!check_member(l, infer_json_name(l->config, i, NULL), infer_json_at(l->config, i))) return 0;
    if (!is_rank(infer_json_get(l->config, "r"))) return bad(l, "r", "is missing, or no rank that is possible");
    if (!is_alpha(infer_json_get(l->config, "lora_alpha"))) return bad(l, "lora_alpha", "is missing, or no number that is possible");
    if (!is_nothing(infer_json_get(l->config, "use_rslora")) && infer_json_kind(infer_json_get(l->config, "use_rslora")) != INFER_JSON_TRUE) return bad(l, "use_rslora", "is neither true nor false");
    return check_pattern(l, "rank_pattern", is_rank) && check_pattern(l, "alpha_pattern", is_alpha);
}

/* Is all of s what the pattern says? */
static int is_pattern(const char *p, const char *s) {
    const char *next;
    int any, c;
    if (*p == 0) return *s == 0;
    any = *p == '.';
    if (*p == '\\') p++;
    c = *p;
    next = p + 1;
    if (*next == '*') {
        for (; !is_pattern(next + 1, s); s++)
            if (*s == 0 || (!any && *s != c)) return 0;
        return 1;
    }
    return *s && (any || *s == c) && is_pattern(next, s + 1);
}

/* Does a pattern fit the module's name, or its end from a dot on? */
static int fits(const char *pattern, const char *module) {
    const char *s = module;
    if (*pattern == '^') return is_pattern(pattern + 1, module);
    for (;;) {
        if (is_pattern(pattern, s)) return 1;
        s = strchr(s, '.');
        if (s == NULL) return 0;
        s++;
    }
}

/* A number of a module: of the first pattern that fits, or of all. */
static double of_module(const lora *l, const char *patterns, const char *all, const char *module) {
    const infer_json *list = infer_json_get(l->config, patterns);
    size_t i;
    for (i = 0; i < infer_json_count(list); i++)
        if (fits(infer_json_name(list, i, NULL), module)) return infer_json_number(infer_json_at(list, i));
    return infer_json_number(infer_json_get(l->config, all));
}

/* B A is multiplied with alpha / rank, or with alpha / sqrt(rank): that is alpha sqrt(rank) / rank (rank-stabilised LoRA, arXiv:2312.03732). */
static double alpha_of(const lora *l, double alpha, double rank) {
    return infer_json_kind(infer_json_get(l->config, "use_rslora")) == INFER_JSON_TRUE ? alpha * sqrt(rank) : alpha;
}

/* ---- tensors ---------------------------------------------------------------------------------------- */

static const char *const ENDS[] = {".lora_A.weight", ".lora_B.weight", ".lora_embedding_A", ".lora_embedding_B"};
enum { EMBEDDING = 2, N_ENDS = 4 };

/* The name of the module in the model. */
static const char *module_of(const char *name) {
    static const char AROUND[] = "base_model.model.";
    return strncmp(name, AROUND, strlen(AROUND)) == 0 ? name + strlen(AROUND) : name;
}

static int is_float(const st_tensor *t) { return type_of_source(t->type) >= 0 || t->type == ST_F64; }

/* PEFT saves embeddings along that have an adapter. */
static const char SAVED[] = ".base_layer.weight";

/* Values first .. first + n - 1 in float32. */
static int values_of(st_files *st, const st_tensor *t, uint64_t first, size_t n, unsigned char *raw, float *x) {
    infer_error err;
    if (!st_read(st, t, first, raw, n)) return 0;
    return infer_type_decode(type_of_source(t->type), raw, n, x, &err) == INFER_OK || cli_fail(st->command, "%s", err.message) == CLI_DONE;
}

/* Is it the base's own? Where the base is a file, in whatever type, that is not looked at, and said. */
static int check_saved(lora *l, const st_tensor *t) {
    enum { N = 1 << 14 };
    st_files *st = l->base.folder ? &l->base.folder->st : NULL;
    const st_tensor *its;
    unsigned char *raw;
    float *x;
    char name[MAX_NAME + 32];
    uint64_t at;
    int same, ok;
    snprintf(name, sizeof name, "%.*s%s", (int)(strlen(module_of(t->name)) - strlen(SAVED)), module_of(t->name), WEIGHT);
    if (st == NULL) {
        fprintf(stderr, "warning: tensor %s is left out: it is taken to be the base's own\n", t->name);
        return 1;
    }
    its = st_find(st, name);
    same = its && its->n == t->n && type_of_source(t->type) >= 0 && type_of_source(its->type) >= 0;
    raw = cli_alloc(l->command, N, 4);
    x = cli_alloc(l->command, 2 * N, sizeof *x);
    ok = raw && x;
    for (at = 0; ok && same && at < t->n; at += N) {
        const size_t n = t->n - at < N ? (size_t)(t->n - at) : N;
        ok = values_of(&l->out->st, t, at, n, raw, x) && values_of(st, its, at, n, raw, x + N);
        same = ok && memcmp(x, x + N, n * sizeof *x) == 0;
    }
    free(raw);
    free(x);
    return ok && (same || cli_fail(l->command, "tensor %s: it differs from the base's: whole weights beside an adapter are not supported", t->name) == CLI_DONE);
}

static int refuse_tensor(const lora *l, const char *name) {
    static const struct {
        const char *part, *why;
    } ROWS[] = {{".lora_magnitude_vector", "DoRA is not supported"}, {".lora_B.bias", "biases of adapters are not supported"}, {"lora_", "this is not supported"}};
    size_t i;
    for (i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++)
        if (strstr(name, ROWS[i].part)) return cli_fail(l->command, "tensor %s: %s", name, ROWS[i].why) == CLI_DONE;
    return cli_fail(l->command, "tensor %s: it belongs to no pair lora_A, lora_B: whole weights beside an adapter are not supported", name) == CLI_DONE;
}

/* PEFT before 0.19 (before 0.18 it does not say which it is) took the second dimension of any parameter with experts for the inputs. */
static int is_old(const lora *l) {
    const char *version = infer_json_string(infer_json_get(l->config, "peft_version"), NULL);
    return version == NULL || (version[0] == '0' && version[1] == '.' && atoi(version + 2) < 19);
}

static int fill_module(const lora *l, lora_module *w) {
    const st_tensor *a = w->a, *b = w->b;
    const double asked = of_module(l, "rank_pattern", "r", w->name);
    if (a->n_dims != 2 || b->n_dims != 2 || !is_float(a) || !is_float(b)) return cli_fail(l->command, "tensor %s: only pairs of matrices of numbers are supported", a->name) == CLI_DONE;
    if (a->dims[0] != b->dims[1] || a->n == 0 || b->n == 0)
        return cli_fail(l->command, "tensors %s (%.0f x %.0f) and %s (%.0f x %.0f) do not fit: their ranks differ", a->name, (double)a->dims[0], (double)a->dims[1], b->name, (double)b->dims[0],
                        (double)b->dims[1]) == CLI_DONE;
    w->rank = (uint64_t)asked;
    w->n_experts = w->parameter ? a->dims[0] / w->rank : 1;
    if (a->dims[0] != w->rank * w->n_experts || w->n_experts > MAX_EXPERTS)
        return cli_fail(l->command, "tensor %s has rank %.0f, %s says %.0f", a->name, (double)a->dims[0], CONFIG, asked) == CLI_DONE;
    if (a->dims[1] > (uint64_t)1 << 24 || b->dims[0] > (uint64_t)1 << 24) return cli_fail(l->command, "tensor %s: this shape is not possible", a->name) == CLI_DONE;
    if (w->n_experts > 1 && is_old(l)) w->embedding = 1;
    w->alpha = alpha_of(l, of_module(l, "alpha_pattern", "lora_alpha", w->name), asked);
    return 1;
}

/* ---- parameters: what is no module of its own, as matrices of all experts are -------------------------- */

static const char INNER[] = ".base_layer";

static int ends_in(const char *s, const char *end, size_t n) {
    const size_t all = strlen(s);
    return n <= all && memcmp(s + all - n, end, n) == 0 && (n == all || s[all - n - 1] == '.');
}

/* The parameter of a module that target_parameters names ("mlp.experts.down_proj", or "down_proj" alone for any module of experts), NULL =
 * none, or they are several. Two of a module are one around the other in the order in which the module has them. */
static const char *parameter_of(const lora *l, const char *module, int inner) {
    const infer_json *list = infer_json_get(l->config, "target_parameters");
    const char *found[2] = {NULL, NULL};
    size_t i, k, n = 0;
    for (i = 0; i < infer_json_count(list); i++) {
        const char *s = infer_json_string(infer_json_at(list, i), NULL), *dot = s ? strrchr(s, '.') : NULL, *name = dot ? dot + 1 : s;
        if (s == NULL || (dot ? !ends_in(module, s, (size_t)(dot - s)) : !ends_in(module, "experts", 7))) continue;
        for (k = 0; k < n && strcmp(found[k], name) != 0; k++) {}
        if (k < n) continue;
        if (n == 2) return NULL;
        found[n++] = name;
    }
    if (n < 2) return inner ? NULL : found[0];
    for (k = 0; k < 2; k++)
        if (strcmp(found[k], "gate_up_proj") == 0 && strcmp(found[!k], "down_proj") == 0) return inner ? found[k] : found[!k];
    return NULL;
}

/* The name of the module's matrix; of a parameter, its own. */
static int name_module(const lora *l, lora_module *w, const char *module, size_t n) {
    const size_t k = strlen(INNER);
    const int inner = n > k && memcmp(module + n - k, INNER, k) == 0;
    char name[MAX_NAME + 1];
    const char *parameter;
    if (inner) n -= k;
    snprintf(name, sizeof name, "%.*s", (int)n, module);
    parameter = parameter_of(l, name, inner);
    if (parameter == NULL && inner) return cli_fail(l->command, "tensor %s: which of the module's parameters it is for cannot be told", w->a->name) == CLI_DONE;
    w->parameter = parameter != NULL;
    w->name = cli_alloc(l->command, n + sizeof WEIGHT + (parameter ? strlen(parameter) : 0), 1);
    if (w->name == NULL) return 0;
    if (parameter) sprintf(w->name, "%s.%s", name, parameter);
    else strcpy(w->name, name);
    return 1;
}

/* The other tensor of a pair. */
static st_tensor *beside(const lora *l, const st_tensor *t, size_t end, size_t other) {
    char name[MAX_NAME + 32];
    snprintf(name, sizeof name, "%.*s%s", (int)(strlen(t->name) - strlen(ENDS[end])), t->name, ENDS[other]);
    return st_find(&l->out->st, name);
}

/* The pair of t, an A. */
static int add_module(lora *l, st_tensor *t, size_t end) {
    lora_module *w = &l->modules[l->n_modules];
    const char *module = module_of(t->name);
    const size_t n = strlen(module) - strlen(ENDS[end]);
    memset(w, 0, sizeof *w);
    w->a = t;
    w->b = beside(l, t, end, end + 1);
    w->embedding = end == EMBEDDING;
    if (w->b == NULL) return cli_fail(l->command, "tensor %s: there is no B beside it", t->name) == CLI_DONE;
    if (!name_module(l, w, module, n)) return 0;
    l->n_modules++;
    if (!fill_module(l, w)) return 0;
    if (!w->parameter) strcat(w->name, WEIGHT);
    return 1;
}

static int by_name(const void *a, const void *b) { return strcmp(((const lora_module *)a)->name, ((const lora_module *)b)->name); }

/* All pairs of the files, by the names of the matrices that they are for. */
static int find_modules(lora *l) {
    const st_files *st = &l->out->st;
    size_t i, k, left_out = 0;
    l->modules = cli_alloc(l->command, st->n + 1, sizeof *l->modules);
    if (l->modules == NULL) return 0;
    for (i = 0; i < st->n; i++) {
        st_tensor *t = &st->tensors[i];
        if (strlen(t->name) > MAX_NAME) return cli_fail(l->command, "tensor %.60s...: the name is too long", t->name) == CLI_DONE;
        if (cli_ends_with(t->name, SAVED)) continue; /* see check_saved */
        for (k = 0; k < N_ENDS && !cli_ends_with(t->name, ENDS[k]); k++) {}
        if (k == N_ENDS) return refuse_tensor(l, t->name);
        if (name_of_other_part(module_of(t->name))) left_out++;
        else if (k % 2 == 0 && !add_module(l, t, k)) return 0;
        else if (k % 2 && beside(l, t, k, k - 1) == NULL) return cli_fail(l->command, "tensor %s: there is no A beside it", t->name) == CLI_DONE;
    }
    if (left_out) fprintf(stderr, "warning: %s: %lu tensors are left out: those for images and sound\n", l->folder, (unsigned long)left_out);
    if (l->n_modules == 0) return cli_fail(l->command, "%s: there is no adapter for a matrix of a language model", l->folder) == CLI_DONE;
    qsort(l->modules, l->n_modules, sizeof *l->modules, by_name);
    for (i = 1; i < l->n_modules; i++)
        if (strcmp(l->modules[i - 1].name, l->modules[i].name) == 0) return cli_fail(l->command, "tensor %s: there are two adapters for it", l->modules[i].name) == CLI_DONE;
    return 1;
}

/* ---- the way of the base's tensors ------------------------------------------------------------------- */

static void forget(lora *l) {
    size_t i;
    for (i = 0; i < l->to.n_tensors; i++) {
        free(l->to.tensors[i].name);
        free(l->through->made[i].views);
        free(l->through->made[i].values);
    }
    l->to.n_tensors = 0;
}

/* Matrices without values, as the checkpoint has them, and what the rows make of them. Each must be a part of something. */
static int go_through(lora *l) {
    st_files *st = &l->through->st;
    size_t i, k;
    forget(l);
    for (i = 0; i < l->n_modules; i++) {
        const lora_module *w = &l->modules[i];
        const int turned = w->embedding || w->turned;
        st_tensor *t = &st->tensors[i];
        memset(t, 0, sizeof *t);
        t->name = w->name;
        t->type = ST_F32;
        t->n_dims = w->n_experts > 1 ? 3 : 2;
        t->dims[0] = w->n_experts;
        t->dims[t->n_dims - 2 + turned] = w->b->dims[0];
        t->dims[t->n_dims - 1 - turned] = w->a->dims[1];
        t->n = w->n_experts * w->b->dims[0] * w->a->dims[1];
    }
    if (!names_apply(l->through)) return 0;
    for (i = 0; i < l->n_modules; i++) st->tensors[i].used = 0;
    for (i = 0; i < l->to.n_tensors; i++)
        for (k = 0; k < l->through->made[i].n_views; k++)
            if (!l->through->made[i].views[k].zeros) st->tensors[l->through->made[i].views[k].from - st->tensors].used = 1;
    for (i = 0; i < l->n_modules; i++)
        if (!st->tensors[i].used) return cli_fail(l->command, "tensor %s: the base's file has no place for an adapter of it", st->tensors[i].name) == CLI_DONE;
    return 1;
}

static int make_through(lora *l) {
    checkpoint *c = l->through = cli_alloc(l->command, 1, sizeof *c);
    if (c == NULL) return 0;
    memset(c, 0, sizeof *c);
    c->command = l->to.command = l->command;
    c->folder = l->folder;
    c->m = &l->to;
    c->partial = 1;
    c->st.tensors = cli_alloc(l->command, l->n_modules, sizeof *c->st.tensors);
    c->st.n = c->st.tensors ? l->n_modules : 0;
    return c->st.tensors != NULL;
}

/* ---- opening ---------------------------------------------------------------------------------------- */

static int base_of(lora *l, const char *base) {
    const char *named = infer_json_string(infer_json_get(l->config, "base_model_name_or_path"), NULL);
    if (base == NULL && named && (platform_path_kind(named) == PLATFORM_FOLDER || platform_path_kind(named) == PLATFORM_FILE)) base = named;
    if (base == NULL) return cli_fail(l->command, "%s: its base (%s) is not here: give the model that the adapter is for with --base", l->folder, named ? named : "which it does not name") == CLI_DONE;
    l->base_path = cli_alloc(l->command, strlen(base) + 1, 1);
    if (l->base_path) strcpy(l->base_path, base);
    return l->base_path != NULL;
}

/* aLoRA (arXiv:2504.12397): the adapter applies from these tokens on. */
static int invocation(lora *l) {
    static const char NAME[] = "alora_invocation_tokens";
    const infer_json *list = infer_json_get(l->config, NAME);
    const size_t n = infer_json_count(list);
    size_t i;
    if (is_nothing(list)) return 1;
    if (infer_json_kind(list) != INFER_JSON_ARRAY) return bad(l, NAME, "is no list");
    gguf_array(&l->out->keys, "adapter.alora.invocation_tokens", GGUF_U32, n);
    for (i = 0; i < n; i++) {
        const infer_json *id = infer_json_at(list, i);
        if (infer_json_kind(id) != INFER_JSON_INT || infer_json_int(id) < 0 || infer_json_int(id) > INT32_MAX) return bad(l, NAME, "has an element that is no token");
        gguf_element_i32(&l->out->keys, (int32_t)infer_json_int(id));
    }
    return 1;
}

static int write_keys(lora *l) {
    gguf_out *keys = &l->out->keys;
    gguf_string(keys, "general.architecture", l->through->arch);
    gguf_string(keys, "general.type", "adapter");
    gguf_string(keys, "general.name", cli_base_name(l->folder));
    gguf_string(keys, "adapter.type", "lora");
    gguf_f32(keys, "adapter.lora.alpha", l->alpha);
    return invocation(l) && checkpoint_take_keys(l->out);
}

static int fill(lora *l, const char *base) {
    size_t i;
    int turned = 0;
    if (!cfg_file(l->command, l->folder, CONFIG, 1, &l->config) || !check_lora(l) || !st_open(&l->out->st, l->command, l->folder, STEM) || !find_modules(l)) return 0;
    l->alpha = alpha_of(l, infer_json_number(infer_json_get(l->config, "lora_alpha")), infer_json_number(infer_json_get(l->config, "r")));
    if (l->alpha == 0) l->alpha = 1; /* 0 would mean that nothing is divided by the rank; the modules' own factor is 0 */
    if (!base_of(l, base) || !make_through(l) || !lora_base(l)) return 0;
    for (i = 0; i < l->out->st.n; i++)
        if (cli_ends_with(l->out->st.tensors[i].name, SAVED) && !check_saved(l, &l->out->st.tensors[i])) return 0;
    if (!go_through(l) || !lora_fuse(l) || !lora_pairs(l, &turned)) return 0;
    if (turned && (!go_through(l) || !lora_fuse(l) || !lora_pairs(l, &turned))) return 0;
    return write_keys(l) && make_done(l->out);
}

int lora_open(file_model *m, const char *command, const char *folder, const char *base) {
    checkpoint *c = cli_alloc(command, 1, sizeof *c);
    lora *l = c ? cli_alloc(command, 1, sizeof *l) : NULL;
    if (l == NULL) {
        free(c);
        return 0;
    }
    memset(c, 0, sizeof *c);
    memset(l, 0, sizeof *l);
    c->command = l->command = command;
    c->folder = l->folder = folder;
    c->m = m;
    c->lora = l;
    l->out = m->folder = c;
    return fill(l, base);
}

void lora_close(lora *l) {
    if (l == NULL) return;
    if (l->through) {
        forget(l);
        if (l->base.folder) l->through->config = NULL; /* that one's */
        l->through->st.n = 0; /* names are the modules' */
        checkpoint_close(l->through);
    }
    file_close(&l->to);
    file_close(&l->base);
    while (l->n_modules > 0) free(l->modules[--l->n_modules].name);
    free(l->modules);
    free(l->base_path);
    infer_json_free(l->config);
    free(l);
}

int lora_is(const char *folder) {
    static const char *const NAMES[] = {CONFIG, "model.safetensors", "model.safetensors.index.json"}; /* the others: a whole model, whatever it came from */
    int there[3] = {0, 0, 0};
    size_t i;
    for (i = 0; i < 3; i++) {
        char *path = st_path("", folder, NAMES[i]);
        there[i] = path && platform_path_kind(path) == PLATFORM_FILE;
        free(path);
    }
    return there[0] && !there[1] && !there[2];
}
