/* recipes.c: RECIPES, what names like Q4_K_M mean: which tensors get which type. The mixtures are llama.cpp's. */
#include "quantize.h"

#include <stdlib.h>
#include <string.h>

enum { ANY, FIRST_2, FIRST_4, FIRST_8TH, FIRST_16TH, MIDDLE, MORE, SHARED_4, SHARED_OR_EXPERTS_4 };
enum { VALUES = 1, DOWN, OUT, EXPERTS, EMBEDDING, QUERIES, KEYS, GATE_UP };
enum { WITH = 256, WITHOUT = 512 }; /* added to layers: only with importance, or without */

/* The first rule of a recipe that fits a tensor is taken. */
typedef struct rule {
    const char *recipe; /* or several */
    int part, layers; /* of the model */
    const char *type;
} rule;

struct recipe {
    const char *name, *type;
    uint32_t file_type; /* general.file_type: llama_ftype */
    const char *output; /* of the last matrix; NULL = as the others */
};

static const recipe RECIPES[] = {
    {"F32", "F32", 0, NULL}, {"F16", "F16", 1, NULL}, {"BF16", "BF16", 32, NULL}, {"Q8_0", "Q8_0", 7, NULL},
    {"Q4_0", "Q4_0", 2, "Q6_K"}, {"Q4_1", "Q4_1", 3, "Q6_K"}, {"Q5_0", "Q5_0", 8, "Q6_K"}, {"Q5_1", "Q5_1", 9, "Q6_K"},
    {"Q2_K", "Q2_K", 10, "Q6_K"}, {"Q2_K_S", "Q2_K", 21, "Q6_K"}, {"Q3_K_S", "Q3_K", 11, "Q6_K"}, {"Q3_K_M", "Q3_K", 12, "Q6_K"},
    {"Q3_K_L", "Q3_K", 13, "Q6_K"}, {"Q4_K_S", "Q4_K", 14, "Q6_K"}, {"Q4_K_M", "Q4_K", 15, "Q6_K"},
    {"Q5_K_S", "Q5_K", 16, "Q6_K"}, {"Q5_K_M", "Q5_K", 17, "Q6_K"},
    {"Q6_K", "Q6_K", 18, NULL}, {"IQ4_NL", "IQ4_NL", 25, "Q6_K"}, {"IQ4_XS", "IQ4_XS", 30, "Q6_K"}, {"TQ1_0", "TQ1_0", 36, "Q6_K"},
    {"TQ2_0", "TQ2_0", 37, "Q6_K"}, {"MXFP4_MOE", "Q8_0", 38, NULL}, {"NVFP4", "NVFP4", 39, "Q6_K"},
    {"Q1_0", "Q1_0", 40, "Q6_K"}, {"Q2_0", "Q2_0", 41, "Q6_K"},
    {"IQ1_S", "IQ1_S", 24, "Q5_K"}, {"IQ1_M", "IQ1_M", 31, "Q5_K"}, {"IQ2_XXS", "IQ2_XXS", 19, "Q5_K"}, {"IQ2_XS", "IQ2_XS", 20, "Q5_K"},
    {"IQ2_S", "IQ2_XS", 28, "Q5_K"}, {"IQ2_M", "IQ2_S", 29, "Q5_K"}, {"IQ3_XXS", "IQ3_XXS", 23, "Q5_K"}, {"IQ3_XS", "IQ3_S", 22, "Q6_K"},
    {"IQ3_S", "IQ3_S", 26, "Q6_K"}, {"IQ3_M", "IQ3_S", 27, "Q6_K"},
};
enum { N_RECIPES = (int)(sizeof RECIPES / sizeof RECIPES[0]) };

static const rule RULES[] = {
    {"Q2_K", VALUES, SHARED_4, "Q4_K"}, {"Q2_K", VALUES, ANY, "Q3_K"}, {"Q2_K", DOWN, ANY, "Q3_K"}, {"Q2_K", OUT, ANY, "Q3_K"},
    {"Q2_K_S", VALUES, SHARED_4, "Q4_K"}, {"Q2_K_S", DOWN, FIRST_8TH, "Q4_K"},
    {"Q3_K_M", VALUES, FIRST_2, "Q5_K"}, {"Q3_K_M", VALUES, ANY, "Q4_K"}, {"Q3_K_M", DOWN, FIRST_16TH, "Q5_K"}, {"Q3_K_M", DOWN, ANY, "Q4_K"},
    {"Q3_K_M", OUT, ANY, "Q4_K"},
    {"Q3_K_L", VALUES, ANY, "Q5_K"}, {"Q3_K_L", DOWN, ANY, "Q5_K"}, {"Q3_K_L", OUT, ANY, "Q5_K"},
    {"Q4_K_S", VALUES, FIRST_4, "Q5_K"}, {"Q4_K_S", DOWN, FIRST_8TH, "Q5_K"},
    {"Q4_K_M", VALUES, MORE, "Q6_K"}, {"Q4_K_M", DOWN, MORE, "Q6_K"},
    {"Q5_K_M", VALUES, MORE, "Q6_K"}, {"Q5_K_M", DOWN, MORE, "Q6_K"},
    {"Q4_0", DOWN, FIRST_8TH | WITH, "Q4_1"}, {"Q5_0", DOWN, FIRST_8TH | WITH, "Q5_1"},
    {"IQ4_NL", VALUES, SHARED_4, "Q5_K"}, {"IQ4_NL", DOWN, FIRST_8TH | WITHOUT, "Q5_K"},
    {"IQ4_XS", VALUES, SHARED_4, "Q5_K"}, {"IQ4_XS", DOWN, FIRST_8TH | WITHOUT, "Q5_K"},
    {"IQ1_S IQ1_M IQ2_XXS IQ2_XS IQ2_S IQ2_M", VALUES, SHARED_OR_EXPERTS_4, "Q4_K"},
    {"IQ1_S IQ1_M IQ2_XXS IQ2_XS", VALUES, ANY, "Q2_K"}, {"IQ1_S IQ1_M IQ2_XXS IQ2_XS", DOWN, FIRST_8TH, "Q2_K"},
    {"IQ1_S IQ1_M IQ2_XXS IQ2_XS", EMBEDDING, ANY, "Q2_K"}, {"IQ1_S IQ1_M", OUT, ANY, "IQ2_XXS"},
    {"IQ2_S IQ2_M", VALUES, ANY, "IQ3_S"}, {"IQ2_S IQ2_M", DOWN, FIRST_8TH, "IQ3_S"}, {"IQ2_S IQ2_M IQ3_XXS", OUT, ANY, "IQ3_S"},
    {"IQ2_S IQ2_M IQ3_XXS", EMBEDDING, ANY, "IQ3_S"},
    {"IQ3_XXS IQ3_XS IQ3_S", VALUES, SHARED_4, "Q4_K"}, {"IQ3_XXS", VALUES, ANY | WITHOUT, "IQ3_S"}, {"IQ3_XXS", DOWN, FIRST_8TH | WITHOUT, "Q4_K"},
    {"IQ3_XXS", DOWN, ANY | WITHOUT, "Q3_K"}, {"IQ3_XXS", QUERIES, ANY, "IQ2_S"}, {"IQ3_XXS", KEYS, ANY, "IQ2_S"},
    {"IQ3_XS", QUERIES, ANY, "IQ3_XXS"}, {"IQ3_XS", KEYS, ANY, "IQ3_XXS"}, {"IQ3_XS", GATE_UP, MIDDLE, "IQ3_XXS"},
    {"IQ3_M", VALUES, ANY, "Q4_K"}, {"IQ3_M", DOWN, FIRST_8TH, "Q4_K"}, {"IQ3_M", OUT, ANY, "Q4_K"},
    {"MXFP4_MOE", EXPERTS, ANY, "MXFP4"}, {"TQ1_0", EMBEDDING, ANY, "Q4_K"}, {"TQ2_0", EMBEDDING, ANY, "Q4_K"},
};
/* Other names of recipes. */
static const char *const SAME[][2] = {{"Q3_K", "Q3_K_M"}, {"Q4_K", "Q4_K_M"}, {"Q5_K", "Q5_K_M"}, {"MXFP4", "MXFP4_MOE"}};

/* Types in whose place another stands where rows are no multiple of their blocks. */
static const struct { const char *type, *instead; } FITTING[] = {
    {"Q2_K", "Q4_0"}, {"Q3_K", "Q4_0"}, {"Q4_K", "Q5_0"}, {"Q5_K", "Q5_1"}, {"Q6_K", "Q8_0"}, {"IQ4_XS", "IQ4_NL"}, {"TQ1_0", "Q4_0"}, {"TQ2_0", "Q4_0"},
    {"NVFP4", "MXFP4"}, {"Q1_0", "Q4_0"}, {"Q2_0", "Q4_0"}, {"IQ1_S", "IQ4_NL"}, {"IQ1_M", "IQ4_NL"}, {"IQ2_XXS", "IQ4_NL"}, {"IQ2_XS", "IQ4_NL"},
    {"IQ2_S", "IQ4_NL"}, {"IQ3_XXS", "IQ4_NL"}, {"IQ3_S", "IQ4_NL"},
};

static int same_name(const char *a, const char *b) {
    for (; *a && *b; a++, b++)
        if ((*a >= 'a' && *a <= 'z' ? *a - 32 : *a) != (*b >= 'a' && *b <= 'z' ? *b - 32 : *b)) return 0;
    return *a == *b;
}

const recipe *recipe_named(const char *name) {
    size_t i;
    for (i = 0; i < sizeof SAME / sizeof SAME[0]; i++)
        if (same_name(name, SAME[i][0])) name = SAME[i][1];
    for (i = 0; i < N_RECIPES; i++)
        if (same_name(name, RECIPES[i].name)) return &RECIPES[i];
    return NULL;
}

const char *recipe_names(void) {
    static char text[512];
    int i;
    text[0] = 0;
    for (i = 0; i < N_RECIPES; i++) {
        if (i) strcat(text, " ");
        strcat(text, RECIPES[i].name);
    }
    return text;
}

uint32_t recipe_file_type(const recipe *r) { return r->file_type; }
const char *recipe_name(const recipe *r) { return r->name; }

int type_info(int32_t id, infer_type_info *out) {
    int32_t i;
    for (i = 0; infer_type_get(i, out) == INFER_OK; i++)
        if (out->id == id) return 1;
    return 0;
}

int32_t type_named(const char *name, infer_type_info *out) {
    int32_t i;
    for (i = 0; infer_type_get(i, out) == INFER_OK; i++)
        if (out->storable && same_name(name, out->name) && infer_type_encode(out->id, NULL, NULL, 0, NULL, NULL) == INFER_OK) return out->id;
    return -1;
}

static int32_t must(const char *name) {
    infer_type_info t;
    return type_named(name, &t);
}

int32_t type_fitting(int32_t type, uint64_t width) {
    infer_type_info t;
    size_t i;
    if (!type_info(type, &t) || width % (uint64_t)t.values == 0) return type;
    for (i = 0; i < sizeof FITTING / sizeof FITTING[0]; i++)
        if (strcmp(FITTING[i].type, t.name) == 0) return type_fitting(must(FITTING[i].instead), width);
    return must("F16");
}

/* ---- names of tensors ------------------------------------------------------------------------- */

int tensor_layer(const char *name, const char **rest) {
    const char *at = strstr(name, "blk.");
    char *end;
    long n;
    *rest = name;
    if (at == NULL || (at != name && at[-1] != '.') || at[4] < '0' || at[4] > '9') return -1;
    n = strtol(at + 4, &end, 10);
    if (n > 1000000) return -1; /* no model has so many */
    *rest = *end == '.' ? end + 1 : end;
    return (int)n;
}

static int64_t whole(const file_model *m, const char *arch, const char *key) {
    char name[256];
    const file_key *k;
    infer_meta v;
    snprintf(name, sizeof name, "%s.%s", arch, key);
    k = file_find_key(m, name);
    if (k == NULL || k->type == GGUF_STRING || k->type == GGUF_ARRAY) return 0;
    memset(&v, 0, sizeof v);
    value_decode(k->type, k->value, &v);
    return v.f > 0 && v.f < 1e9 ? (int64_t)v.f : 0;
}

void layout_of(const file_model *m, layout *out) {
    const file_key *arch = file_find_key(m, "general.architecture");
    const char *rest;
    char name[128] = "";
    int64_t heads, kv;
    size_t i;
    memset(out, 0, sizeof *out);
    out->tied = 1;
    for (i = 0; i < m->n_tensors; i++) {
        const int l = tensor_layer(m->tensors[i].name, &rest);
        if (l + 1 > out->n_layers) out->n_layers = l + 1;
        if (strcmp(m->tensors[i].name, "output.weight") == 0) out->tied = 0;
    }
    if (arch == NULL || arch->type != GGUF_STRING || arch->bytes < 8 || arch->bytes - 8 >= sizeof name) return;
    memcpy(name, arch->value + 8, arch->bytes - 8);
    out->experts = whole(m, name, "expert_count");
    heads = whole(m, name, "attention.head_count");
    kv = whole(m, name, "attention.head_count_kv");
    if (heads > 0 && kv > 0) out->share = heads / kv;
}

static int has_one(const char *name, const char *const *parts) {
    for (; *parts; parts++)
        if (strstr(name, *parts)) return 1;
    return 0;
}

int recipe_takes(const file_tensor *t) {
    static const char *const stay[] = {
        "_norm.", "ple_norm_", "ffn_gate_inp", "position_embd", "token_types", "ssm_conv1d", "shortconv.conv", "ple_conv1d", "time_mix_", "channel_mix_lerp", "altup", "laurel",
        "per_layer_model_proj", "attn_rel_b", "hc_", "attn_sinks", "ssm_a", "ssm_d", "ssm_x", "ssm_dt", "cls.", "output_res", NULL,
    };
    static const char *const but[] = {"time_mix_key", "time_mix_value", "time_mix_output", "time_mix_receptance", "time_mix_gate.weight", NULL};
    const size_t n = strlen(t->name);
    if (t->n_dims < 2 || t->rows < 2 || t->dims[0] < 2 || n < 8 || strcmp(t->name + n - 7, ".weight") != 0) return 0;
    return !has_one(t->name, stay) || has_one(t->name, but);
}

static int is_embedding(const char *name) { return strcmp(name, "token_embd.weight") == 0 || strcmp(name, "per_layer_token_embd.weight") == 0; }

static int part_of(const char *name) {
    if (is_embedding(name)) return EMBEDDING;
    if (strstr(name, "_exps.")) return EXPERTS;
    if (strstr(name, "attn_v.") || strstr(name, "attn_qkv.") || strstr(name, "attn_kv_b.")) return VALUES;
    if (strstr(name, "ffn_down")) return DOWN;
    if (strstr(name, "attn_output.")) return OUT;
    if (strstr(name, "attn_q.")) return QUERIES;
    if (strstr(name, "attn_k.")) return KEYS;
    return 0;
}

/* Layers that gain most from more bits: the first and last eighth, and every third between. */
static int more(int i, int n) { return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2; }

static int in_layers(const layout *l, int layer, int which) {
    if (which >= WITH && l->importance != (which & WITH) / WITH) return 0;
    switch (which & (WITH - 1)) {
    case FIRST_2: return layer < 2;
    case FIRST_4: return layer < 4;
    case FIRST_8TH: return layer < l->n_layers / 8;
    case FIRST_16TH: return layer < l->n_layers / 16;
    case MIDDLE: return layer >= l->n_layers / 8 && layer < 7 * l->n_layers / 8;
    case MORE: return more(layer, l->n_layers);
    case SHARED_4: return l->share >= 4;
    case SHARED_OR_EXPERTS_4: return l->share >= 4 || l->experts >= 4;
    default: return 1;
    }
}

/* One of the words of a list, which spaces separate. */
static int has_word(const char *list, const char *word) {
    const size_t n = strlen(word);
    const char *at;
    for (at = list; (at = strstr(at, word)) != NULL; at += n)
        if ((at == list || at[-1] == ' ') && (at[n] == 0 || at[n] == ' ')) return 1;
    return 0;
}

/* Does a rule fit a part? ffn_down and the others may be experts, which have parts of their own. */
static int fits_part(const rule *rule, int part, const char *name) {
    if (rule->part == DOWN) return strstr(name, "ffn_down") != NULL;
    if (rule->part == GATE_UP) return strstr(name, "ffn_gate") != NULL || strstr(name, "ffn_up") != NULL;
    return rule->part == part;
}

int32_t recipe_type(const recipe *r, const layout *l, const file_tensor *t) {
    const char *rest;
    const int layer = tensor_layer(t->name, &rest), part = part_of(t->name);
    const int last = strcmp(t->name, "output.weight") == 0 || (l->tied && is_embedding(t->name));
    size_t i;
    if (last && r->output) return must(type_fitting(must(r->type), t->dims[0]) == must(r->type) ? r->output : "Q8_0");
    for (i = 0; i < sizeof RULES / sizeof RULES[0]; i++) {
        const rule *rule = &RULES[i];
        if (has_word(rule->recipe, r->name) && fits_part(rule, part, t->name) && in_layers(l, layer, rule->layers)) return must(rule->type);
    }
    return must(r->type);
}

int type_wants_importance(int32_t type) {
    static const char *const types[] = {"IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS"};
    size_t i;
    for (i = 0; i < sizeof types / sizeof types[0]; i++)
        if (must(types[i]) == type) return 1;
    return 0;
}
