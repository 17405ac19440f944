/* prune.c: --prune-layers, a model without some of its layers. It changes what was read of the input: tensors, their names and keys. Then
 * the library describes the layers of both: one that would compute something else, because of its number alone, is an error. */
#include "quantize.h"

#include "../convert/convert.h"

#include <stdlib.h>
#include <string.h>

/* Keys after the architecture's name, or whole ones, with an array of a value for each layer. Other arrays of that length are refused, but FREE. */
static const char *const ARRAYS[] = {
    "attention.head_count", "attention.head_count_kv", "feed_forward_length", "expert_feed_forward_length", "expert_used_count",
    "attention.sliding_window_pattern", "attention.rope_pattern", "attention.recurrent_layers", "attention.indexer.types", "attention.compress_ratios",
    "swiglu_clamp_exp", "swiglu_clamp_shexp", "xielu.alpha_n", "xielu.alpha_p", "xielu.beta", "xielu.eps",
};
/* Arrays of numbers of layers. */
static const char *const LISTS[] = {"attention.global_layers", "mamba_layers"};
/* Arrays that are of something else. */
static const char *const FREE[] = {"rope.dimension_sections", "classifier.output_labels", "adapters.token_ids_activate", "adapters.token_ids_substitute"};
/* Numbers of layers at the beginning, and at the end. */
static const char *const LEADING[] = {"leading_dense_block_count", "hash_layer_count"}, *const LAST[] = {"nextn_predict_layers"};
/* Keys that may only be 0, absent or (arrays) the same for all layers. */
static const struct { const char *key, *why; } REFUSED[] = {
    {"attention.shared_kv_layers", "layers read keys and values of others"},
    {"embedding_length_per_layer_input", "tensors hold rows of all layers together"},
    {"attention.indexer.types", "layers take the positions that others chose"},
    {"rescale_every_n_layers", "weights are scaled by the number of their layer"},
    {"attn_res.block_size", "layers read the results of others"},
    {"decoder_block_count", "layers of an encoder and of a decoder"},
    {"ple.layers", "it names layers"},
    {"n_deepstack_layers", "layers read embeddings of pictures by their number"},
};
/* Architectures of which the description does not say it. */
static const struct { const char *arch, *why; } NUMBERED[] = {
    {"minimax-01", "the decay of a layer follows from its number"},
};

/* Architectures where every n-th layer differs, by a key or by habit, and where an array of a flag for each layer may stand instead: for this library
 * and for llama.cpp, which must take nothing else from the number of a layer (afmoe, llama4, smallthinker) or from how many there are (exaone4).
 * A layer has the flag where its description has one of the marks, or (`without`) where it has none. */
static const struct { const char *archs, *array, *period, *marks[2]; int without, predicting; } TURNS[] = {
    {" cohere2 cohere2moe exaone-moe gemma-embedding gemma2 gemma3 gpt-oss laguna mellum modern-bert muse-glimmer olmo2 plamo3 ", "attention.sliding_window_pattern",
     "attention.sliding_window_pattern", {"  # the last ", " positions on either side"}, 0, 0},
    {" qwen35 qwen35moe qwen3next ", "attention.recurrent_layers", "full_attention_interval", {" a = softmax(", NULL}, 1, 1},
};
enum { N_TURNS = (int)(sizeof TURNS / sizeof TURNS[0]) };

typedef struct pruning {
    file_model *m;
    char arch[128];
    uint64_t n, kept; /* layers, and those that stay */
    unsigned char *gone;
} pruning;

static int refuse(const pruning *p, const char *what, const char *why) {
    return cli_fail(p->m->command, "--prune-layers: %s: %s", what, why) == CLI_DONE;
}

/* ---- keys ------------------------------------------------------------------------------------- */

static int has(const char *const *list, size_t n, const char *name) {
    size_t i;
    for (i = 0; i < n && strcmp(list[i], name) != 0; i++) {}
    return i < n;
}
#define HAS(list, name) has(list, sizeof(list) / sizeof(list)[0], name)

/* The part of a key after the architecture's name, or all of it. */
static const char *short_name(const pruning *p, const char *key) {
    const size_t n = strlen(p->arch);
    return strncmp(key, p->arch, n) == 0 && key[n] == '.' ? key + n + 1 : key;
}

static int is_whole(const file_key *k) { return k->type < GGUF_N_TYPES && value_sizes[k->type] && k->type != GGUF_F32 && k->type != GGUF_F64; }

/* Is a value the same for all layers, and (one number) 0? */
static int is_idle(const file_key *k) {
    const size_t size = k->type == GGUF_ARRAY ? value_sizes[k->element] : 0;
    size_t i;
    if (k->type == GGUF_ARRAY) return size > 0 && (k->n == 0 || memcmp(k->value + GGUF_ARRAY_HEAD, k->value + GGUF_ARRAY_HEAD + size, size * (size_t)(k->n - 1)) == 0);
    for (i = 0; i < k->bytes && k->value[i] == 0; i++) {}
    return i == k->bytes;
}

/* Layers of first .. first + n - 1 that go. */
static uint64_t count_gone(const pruning *p, uint64_t first, uint64_t n) {
    uint64_t i, gone = 0;
    for (i = first; i < first + n && i < p->n; i++) gone += p->gone[i];
    return gone;
}

static void prune_array(const pruning *p, file_key *k) {
    const size_t size = value_sizes[k->element];
    unsigned char *values = k->value + GGUF_ARRAY_HEAD;
    uint64_t i, n = 0;
    for (i = 0; i < k->n; i++)
        if (!p->gone[i]) memmove(values + size * (size_t)n++, values + size * (size_t)i, size);
    k->n = n;
    k->bytes = GGUF_ARRAY_HEAD + size * (size_t)n;
    gguf_store(k->value + 4, n, 8);
}

static int prune_list(const pruning *p, file_key *k) {
    const int size = k->type == GGUF_ARRAY && k->element < GGUF_F32 ? value_sizes[k->element] : 0;
    unsigned char *values = k->value + GGUF_ARRAY_HEAD;
    uint64_t i, n = 0;
    if (size == 0) return refuse(p, k->name, "not an array of whole numbers");
    for (i = 0; i < k->n; i++) {
        const uint64_t layer = gguf_load(values + (size_t)size * (size_t)i, size);
        if (layer >= p->n) return refuse(p, k->name, "a number of no layer");
        if (!p->gone[layer]) gguf_store(values + (size_t)size * (size_t)n++, layer - count_gone(p, 0, layer), size);
    }
    k->n = n;
    k->bytes = GGUF_ARRAY_HEAD + (size_t)size * (size_t)n;
    gguf_store(k->value + 4, n, 8);
    return 1;
}

static void store_whole(file_key *k, uint64_t x) { gguf_store(k->value, x, (int)k->bytes); }

/* predicting: layers at the end, of which some arrays say nothing. */
static int prune_key(const pruning *p, file_key *k, uint64_t predicting) {
    const char *name = short_name(p, k->name);
    const int leading = HAS(LEADING, name), last = HAS(LAST, name);
    size_t i;
    for (i = 0; i < sizeof REFUSED / sizeof REFUSED[0]; i++)
        if (strcmp(name, REFUSED[i].key) == 0 && !is_idle(k)) return refuse(p, k->name, REFUSED[i].why);
    if (HAS(LISTS, name)) return prune_list(p, k);
    if (leading || last) {
        const uint64_t count = is_whole(k) ? gguf_load(k->value, (int)k->bytes) : UINT64_MAX;
        if (count > p->n) return refuse(p, k->name, "it is no number of layers");
        store_whole(k, count - count_gone(p, leading ? 0 : p->n - count, count));
    } else if (strcmp(name, "block_count") == 0) store_whole(k, p->kept);
    else if (k->type == GGUF_ARRAY && (k->n == p->n || k->n == p->n - predicting) && strncmp(name, "tokenizer.", 10) != 0 && strncmp(name, "general.", 8) != 0 && !HAS(FREE, name)) {
        if (!HAS(ARRAYS, name) || value_sizes[k->element] == 0) return refuse(p, k->name, "an array that may have a value for each layer, and is not known");
        prune_array(p, k);
    }
    return 1;
}

static int prune_keys(const pruning *p) {
    uint64_t predicting = 0;
    size_t i;
    for (i = 0; i < p->m->n_keys; i++) {
        const file_key *k = &p->m->keys[i];
        if (strcmp(short_name(p, k->name), LAST[0]) == 0 && is_whole(k)) predicting = gguf_load(k->value, (int)k->bytes);
    }
    for (i = 0; i < p->m->n_keys; i++)
        if (!prune_key(p, &p->m->keys[i], predicting)) return 0;
    return 1;
}

/* ---- tensors ---------------------------------------------------------------------------------- */

/* "blk.7.attn_q.weight" by another number, to be freed. */
static char *renumbered(const char *command, const char *name, int layer) {
    const size_t cap = strlen(name) + 12;
    const char *rest;
    char *out = cli_alloc(command, cap, 1);
    if (out && tensor_layer(name, &rest) < 0) memcpy(out, name, strlen(name) + 1);
    else if (out) snprintf(out, cap, "blk.%d.%s", layer, rest);
    return out;
}

static int prune_tensors(const pruning *p) {
    file_model *m = p->m;
    const char *rest;
    size_t i, n = 0;
    m->was = cli_alloc(m->command, (size_t)p->kept, sizeof *m->was);
    if (m->was == NULL) return 0;
    for (i = 0; i < p->n; i++)
        if (!p->gone[i]) m->was[n++] = (int)i;
    for (i = m->n_tensors; i-- > 0;) {
        file_tensor *t = &m->tensors[i];
        const int layer = tensor_layer(t->name, &rest);
        char *name;
        if (layer < 0) continue;
        if (strncmp(t->name, "blk.", 4) != 0) return refuse(p, t->name, "layers of an encoder beside a decoder");
        if ((uint64_t)layer >= p->n) return refuse(p, t->name, "block_count does not count this layer");
        if (p->gone[layer]) {
            file_drop_tensor(m, i);
            continue;
        }
        name = renumbered(m->command, t->name, layer - (int)count_gone(p, 0, (uint64_t)layer));
        if (name == NULL) return 0;
        free(t->name);
        t->name = name;
    }
    return 1;
}

char *file_name_before(const file_model *m, const char *name) {
    const char *rest;
    const int layer = tensor_layer(name, &rest);
    return renumbered(m->command, name, layer < 0 ? layer : m->was[layer]);
}

/* ---- what layers compute ---------------------------------------------------------------------- */

typedef struct stand_in {
    unsigned char *block, *file; /* file: aligned */
    size_t size;
} stand_in;

/* The model's file in memory, with zeros for matrices: pages that nobody writes to take no memory. */
static int make_stand_in(file_model *m, stand_in *s) {
    enum { ALIGNED = 32, SMALL = 1 << 16 };
    gguf_out out;
    uint64_t at, size;
    size_t i;
    int ok = 1;
    memset(&out, 0, sizeof out);
    for (i = 0; i < m->n_keys; i++)
        if (!file_is_layout(m->keys[i].name)) gguf_raw(&out, m->keys[i].name, m->keys[i].type, m->keys[i].value, m->keys[i].bytes);
    for (i = 0; i < m->n_tensors; i++) gguf_tensor(&out, m->tensors[i].name, m->tensors[i].type, m->tensors[i].n_dims, m->tensors[i].dims, m->tensors[i].bytes);
    at = gguf_header_bytes(&out);
    size = at + out.data_n;
    s->size = (size_t)size;
    s->block = !out.failed && size < SIZE_MAX / 2 ? calloc(s->size + ALIGNED, 1) : NULL;
    if (s->block == NULL) ok = cli_fail(m->command, "--prune-layers: no memory for a model of %.0f bytes", (double)size) == CLI_DONE;
    else {
        s->file = s->block + (ALIGNED - (uintptr_t)s->block % ALIGNED) % ALIGNED;
        gguf_header(&out, s->file);
    }
    for (i = 0; ok && i < m->n_tensors; i++) { /* factors of rotation and the like are looked at */
        const file_tensor *t = &m->tensors[i];
        if (t->bytes <= SMALL) ok = file_read(m, t, 0, s->file + at, (size_t)t->bytes);
        at += (t->bytes + GGUF_ALIGNMENT - 1) / GGUF_ALIGNMENT * GGUF_ALIGNMENT;
    }
    gguf_free(&out);
    return ok;
}

/* What the layers of a model compute, to be freed; NULL after saying why the library cannot say it. */
static char *describe(file_model *m, const char *which) {
    stand_in s = {0};
    infer_model *model = NULL;
    infer_model_params params;
    infer_model_info info;
    infer_error err;
    char *text = NULL;
    size_t n = 0;
    memset(&params, 0, sizeof params);
    params.backend = INFER_CPU;
    if (make_stand_in(m, &s)) {
        if (infer_model_open_memory(&model, s.file, s.size, &params, &err) != INFER_OK) cli_fail(m->command, "--prune-layers: %s: %s", which, err.message);
        else if (infer_model_get_info(model, &info) != INFER_OK || !info.computes) cli_fail(m->command, "--prune-layers: %s: %s", which, infer_model_why_not(model));
        else if (infer_model_describe(model, NULL, 0, &n) != INFER_OK) cli_fail(m->command, "--prune-layers: this build does not describe layers");
        else if ((text = cli_alloc(m->command, n + 1, 1)) != NULL) infer_model_describe(model, text, n + 1, &n);
    }
    infer_model_close(model);
    free(s.block);
    return text;
}

/* The lines of a layer in a description, without the one that has its number; NULL = it is not there. */
static const char *lines_of(const char *text, uint64_t layer, size_t *n) {
    const char *at = text, *end;
    unsigned long first, last;
    for (;; at = end) {
        if ((at = strstr(at, "\nlayer")) == NULL) return NULL;
        if (sscanf(at, "\nlayers %lu to %lu:", &first, &last) != 2) {
            if (sscanf(at, "\nlayer %lu:", &first) != 1) return NULL;
            last = first;
        }
        at = strchr(at + 1, '\n');
        for (end = at; end && strncmp(end, "\n  ", 3) == 0; end = strchr(end + 1, '\n')) {}
        if (at == NULL || end == NULL) return NULL;
        if (layer < first || layer > last) continue;
        *n = (size_t)(end - at);
        return at;
    }
}

/* The flag that a layer has by a row of TURNS; -1 = it predicts further tokens, and is not described. */
static int turn_of(const char *text, uint64_t layer, int row) {
    size_t n = 0;
    const char *lines = lines_of(text, layer, &n);
    int k, found = 0;
    if (lines == NULL) return -1;
    for (k = 0; k < 2 && TURNS[row].marks[k]; k++) {
        const char *mark = strstr(lines, TURNS[row].marks[k]);
        found |= mark != NULL && mark < lines + n;
    }
    return found != TURNS[row].without;
}

/* An array of flags in the place of the key `period`, or as the last one. */
static int set_flags(file_model *m, const char *period, const char *array, const unsigned char *flags, size_t n) {
    file_key *keys = cli_grow(m->command, m->keys, m->n_keys + 1, sizeof *keys), k;
    size_t i;
    if (keys == NULL) return 0;
    m->keys = keys;
    memset(&k, 0, sizeof k);
    k.type = GGUF_ARRAY;
    k.element = GGUF_BOOL;
    k.n = n;
    k.bytes = GGUF_ARRAY_HEAD + n;
    k.name = cli_alloc(m->command, strlen(array) + 1, 1);
    k.value = cli_alloc(m->command, k.bytes, 1);
    if (k.name == NULL || k.value == NULL) {
        free(k.name);
        free(k.value);
        return 0;
    }
    memcpy(k.name, array, strlen(array) + 1);
    gguf_store(k.value, GGUF_BOOL, 4);
    gguf_store(k.value + 4, n, 8);
    memcpy(k.value + GGUF_ARRAY_HEAD, flags, n);
    for (i = 0; i < m->n_keys && strcmp(keys[i].name, period) != 0; i++) {}
    if (i == m->n_keys) m->n_keys++;
    else {
        free(keys[i].name);
        free(keys[i].value);
    }
    keys[i] = k;
    return 1;
}

/* Where layers take turns by number, and those that stay would take others: a flag for each, if the format has them. Without a flag that is set
 * llama.cpp refuses the model: nothing is changed, and layers compute something else. */
static int write_turns(const pruning *p, const char *before) {
    char word[160], array[160], period[160];
    unsigned char *flags;
    const file_key *k;
    uint64_t i;
    int row, others = 0, any = 0, known = 1, ok = 1;
    snprintf(word, sizeof word, " %s ", p->arch);
    for (row = 0; row < N_TURNS && strstr(TURNS[row].archs, word) == NULL; row++) {}
    if (row == N_TURNS) return 1;
    snprintf(array, sizeof array, "%s.%s", p->arch, TURNS[row].array);
    snprintf(period, sizeof period, "%s.%s", p->arch, TURNS[row].period);
    k = file_find_key(p->m, array);
    if (k && k->type == GGUF_ARRAY) return 1;
    if ((flags = cli_alloc(p->m->command, (size_t)p->kept, 1)) == NULL) return 0;
    for (i = 0; i < p->kept; i++) {
        const int turn = turn_of(before, (uint64_t)p->m->was[i], row);
        flags[i] = turn > 0;
        any |= turn > 0;
        if (turn < 0) known &= TURNS[row].predicting; /* these have no flag, or one that is not known */
        else others |= turn != turn_of(before, i, row);
    }
    if (others && any && known) ok = set_flags(p->m, period, array, flags, (size_t)p->kept);
    free(flags);
    return ok;
}

static int check_layers(const pruning *p, const char *before, const char *after) {
    uint64_t i;
    for (i = 0; i < p->kept; i++) {
        size_t n = 0, k = 0;
        const int was = p->m->was[i];
        const char *a = lines_of(before, (uint64_t)was, &n), *b = lines_of(after, i, &k);
        if (a == NULL && b == NULL) break; /* from here on they predict further tokens */
        if (a == NULL || b == NULL || n != k || memcmp(a, b, n) != 0)
            return cli_fail(p->m->command, "--prune-layers: layer %d would compute something else as layer %d of %d (infer info)%s", was, (int)i, (int)p->kept,
                            (uint64_t)was == i ? ": it follows from the number of layers" : ": of layers that take turns whole groups can go") == CLI_DONE;
    }
    return 1;
}

/* ---- the option ------------------------------------------------------------------------------- */

static int parse(pruning *p, const char *list) {
    const char *at = list;
    char *end;
    for (;; at = end + 1) {
        const unsigned long long x = *at >= '0' && *at <= '9' ? strtoull(at, &end, 10) : 0;
        if (*at < '0' || *at > '9' || (*end != ',' && *end != 0)) return cli_fail(p->m->command, "--prune-layers: expected numbers of layers separated by commas, got '%s'", list) == CLI_DONE;
        if (x >= p->n) return cli_fail(p->m->command, "--prune-layers: there is no layer %llu: the model has 0 to %.0f", x, (double)p->n - 1) == CLI_DONE;
        p->gone[x] = 1;
        if (*end == 0) break;
    }
    p->kept = p->n - count_gone(p, 0, p->n);
    return p->kept > 0 || cli_fail(p->m->command, "--prune-layers: no layer would be left") == CLI_DONE;
}

static int read_shape(pruning *p) {
    enum { MAX_LAYERS = 1000000 };
    const file_key *arch = file_find_key(p->m, "general.architecture"), *k;
    char name[160];
    size_t i;
    if (arch == NULL || arch->type != GGUF_STRING || arch->bytes < 9 || arch->bytes - 8 >= sizeof p->arch) return refuse(p, p->m->path, "no general.architecture");
    memcpy(p->arch, arch->value + 8, arch->bytes - 8);
    for (i = 0; i < sizeof NUMBERED / sizeof NUMBERED[0]; i++)
        if (strcmp(p->arch, NUMBERED[i].arch) == 0) return refuse(p, p->arch, NUMBERED[i].why);
    snprintf(name, sizeof name, "%s.block_count", p->arch);
    k = file_find_key(p->m, name);
    if (k && is_whole(k)) p->n = gguf_load(k->value, (int)k->bytes);
    return (p->n > 0 && p->n <= MAX_LAYERS) || refuse(p, name, "not a number of layers");
}

int file_prune(file_model *m, const char *list) {
    pruning p;
    char *before = NULL, *after = NULL;
    int ok;
    memset(&p, 0, sizeof p);
    p.m = m;
    ok = read_shape(&p) && (p.gone = cli_alloc(m->command, (size_t)p.n, 1)) != NULL;
    if (ok) memset(p.gone, 0, (size_t)p.n);
    ok = ok && parse(&p, list) && (before = describe(m, "the model")) != NULL && prune_keys(&p) && prune_tensors(&p) && write_turns(&p, before) &&
         (after = describe(m, "what would be left")) != NULL && check_layers(&p, before, after);
    free(before);
    free(after);
    free(p.gone);
    return ok;
}
