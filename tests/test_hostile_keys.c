/* test_hostile_keys.c: keys of the file that change what a model computes.
 *
 * A key of the architecture is followed, or the model is refused by its name, or it is known to be without effect: never
 * silently dropped. Every name that llama.cpp and its converters know is added to a model of every row, with a value that
 * would matter. Keys are put in front of those of recorded models. */
#include "gguf_write.h"
#include "hostile_keys_tables.h"

static const int32_t KEY_IDS = 72; /* more than the windows, and than mistral3's context before its temperature grows */

/* The file with more keys in front of its own, which have to take a multiple of the alignment: a last one fills up. A key
 * that the file has already gets another name. free() it. */
static char *keys_file(const char *data, size_t n, gguf_writer *w, const char *replaced, size_t *size) {
    char *out, *at;
    uint64_t count = infer__load_u64(data + 16);
    size_t len = replaced ? strlen(replaced) : 0, i;
    static const char filler[64] = { 0 };
    gw_strn(w, "zzz.filler", filler, (32 - (w->kv.n + 8 + 10 + 4 + 8) % 32) % 32);
    count += w->n_kv;
    *size = n + w->kv.n;
    out = (char *)malloc(*size);
    if (out) {
        memcpy(out, data, 24);
        for (i = 0; i < 8; i++) out[16 + i] = (char)(count >> 8 * i);
        memcpy(out + 24, w->kv.p, w->kv.n);
        memcpy(out + 24 + w->kv.n, data + 24, n - 24);
        at = out + 24 + w->kv.n;
        for (i = 0; len && i + 8 + len < n - 24 && i < 20000; i++)
            if (infer__load_u64(at + i) == len && memcmp(at + i + 8, replaced, len) == 0) {
                at[i + 8] = '~';
                break;
            }
    }
    free(w->kv.p);
    memset(w, 0, sizeof *w);
    return out;
}

static void keys_put(gguf_writer *w, const key_case *c, const char *key, int32_t layers) {
    int64_t all[64];
    int32_t i;
    switch (c->type) {
    case 'u': gw_int(w, key, GW_U32, (int64_t)c->value); break;
    case 'i': gw_int(w, key, GW_I32, (int64_t)c->value); break;
    case 'b': gw_int(w, key, GW_BOOL, (int64_t)c->value); break;
    case 'f': gw_f32(w, key, (float)c->value); break;
    case 's': gw_str(w, key, c->text); break;
    default:
        for (i = 0; i < layers && i < 64; i++) all[i] = (int64_t)c->value;
        gw_ints(w, key, GW_U32, all, (size_t)layers);
    }
}

typedef struct keys_log { int n; char text[2000]; } keys_log;
static void keys_on_log(void *user, int level, const char *message) {
    keys_log *log = (keys_log *)user;
    size_t at = strlen(log->text);
    if (level != 2) return;
    log->n++;
    snprintf(log->text + at, sizeof log->text - at, "%s\n", message);
}

/* Logits of the last of KEY_IDS tokens to out (vocab floats), or why not. 1 = computed. */
static int keys_run(const char *data, size_t n, int allow, keys_log *log, float *out, int32_t cap, char *why, size_t why_cap) {
    infer_model_params mp;
    infer_session_params sp;
    infer_model *m = NULL;
    infer_session *s = NULL;
    infer_error e;
    infer_model_info info;
    infer_token ids[72];
    const float *x;
    int32_t i;
    int ok = 0;
    memset(&mp, 0, sizeof mp);
    memset(&sp, 0, sizeof sp);
    mp.backend = INFER_CPU;
    mp.allow_unknown = allow;
    mp.exact = 1;
    if (log) {
        memset(log, 0, sizeof *log);
        mp.log = keys_on_log;
        mp.log_user = log;
    }
    why[0] = 0;
    if (infer_model_open_memory(&m, data, n, &mp, &e)) { /* the file itself opens, whatever its keys say */
        check_note(__FILE__, __LINE__, e.message);
        return 0;
    }
    snprintf(why, why_cap, "%s", infer_model_why_not(m));
    CHECK(infer_model_get_info(m, &info) == INFER_OK && info.computes == !why[0]);
    sp.context = 96;
    sp.own.threads = 1;
    sp.own.kv_type = INFER_KV_F32;
    if (why[0]) {
        CHECK(infer_session_create(&s, m, &sp, &e) != INFER_OK && s == NULL);
        CHECK_STR(e.message, why);
    } else {
        for (i = 0; i < KEY_IDS; i++) ids[i] = (infer_token)((i * 37 + 11) % (info.vocab < 100 ? info.vocab : 100));
        if (infer_session_create(&s, m, &sp, &e)) check_note(__FILE__, __LINE__, e.message);
        else if ((x = arch_any(s, ids, KEY_IDS, &i)) == NULL) check_note(__FILE__, __LINE__, infer_session_error(s)->message);
        else {
            memset(out, 0, (size_t)cap * sizeof *out); /* there may be fewer tokens */
            memcpy(out, x, (size_t)INFER__MIN(cap, i) * sizeof *out);
            ok = 1;
        }
    }
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK);
    return ok;
}

static int keys_have(const char *data, size_t n, const char *key) {
    size_t len = strlen(key), i;
    for (i = 24; i + len < n && i < 20000; i++)
        if (memcmp(data + i, key, len) == 0 && infer__load_u64(data + i - 8) == len) return 1;
    return 0;
}

/* 1 when the key must be followed or refused in this model, 0 when it must change nothing. */
static int key_matters(const key_case *c, size_t model, const char *data, size_t n) {
    static const char *const of_attention[] = { "feed_forward_length", "attention.head_count", "attention.head_count_kv",
                                                "attention.key_length", "attention.value_length", "attention.scale",
                                                "attention.clamp_kqv" }; /* the first three: not of RWKV */
    const char *has = KEY_MODELS[model].has;
    char key[160];
    size_t i;
    for (i = 0; i < sizeof KEY_WITHOUT_EFFECT / sizeof *KEY_WITHOUT_EFFECT; i++)
        if (strcmp(KEY_WITHOUT_EFFECT[i].file, KEY_MODELS[model].file) == 0 &&
            strcmp(KEY_WITHOUT_EFFECT[i].name, c->name) == 0)
            return 0;
    for (i = strchr(has, 'n') ? 3 : 0; (strchr(has, 'a') || strchr(has, 'n')) && i < sizeof of_attention / sizeof *of_attention; i++)
        if (strcmp(of_attention[i], c->name) == 0) return 0;
    switch (c->effect) {
    case 'X': return 1;
    case 'N': return 0;
    case 'e': return strchr(has, 'E') && !strchr(has, 'T');
    case 'M': return !strchr(has, 'L') || strchr(has, 'Z');
    case 'R': return strchr(has, 'R') || (strchr(has, 'K') && strcmp(c->name, "rope.dimension_count") == 0);
    case 'B': return !strchr(has, 'P');
    case 'O':
        snprintf(key, sizeof key, "%s.rope.scaling.factor", KEY_MODELS[model].arch);
        return strchr(has, 'R') && !keys_have(data, n, key);
    default: return strchr(has, c->effect) != NULL;
    }
}

static int key_is_size(const char *name) {
    size_t i;
    for (i = 0; i < sizeof KEY_SIZES / sizeof *KEY_SIZES; i++)
        if (strcmp(KEY_SIZES[i], name) == 0) return 1;
    return 0;
}

enum { KEYS_VOCAB = 128 };

/* The model's file, in the repository or among the references; NULL when that is not there. */
static const char *key_model_path(size_t model, int *kept) {
    char name[128];
    snprintf(name, sizeof name, "archs/%s.gguf", KEY_MODELS[model].file);
    return check_data_or_reference(name, kept);
}

/* Every key of KEY_CASES in every model that is kept here, or in those that are not: no value that matters is dropped,
 * none that does not is refused. */
static void keys_in_rows(int here) {
    static float plain[KEYS_VOCAB], with[KEYS_VOCAB];
    char why[512], key[160], detail[200];
    const char *from;
    int followed = 0, refused = 0, idle = 0, kept, part = check_every(24);
    size_t f, i, n, size;
    int32_t row;
    for (row = 0; infer_arch_name(row); row++) { /* none is left out */
        for (f = 0; f < sizeof KEY_MODELS / sizeof *KEY_MODELS; f++)
            if (strcmp(KEY_MODELS[f].arch, infer_arch_name(row)) == 0) break;
        check_detail = infer_arch_name(row);
        CHECK(f < sizeof KEY_MODELS / sizeof *KEY_MODELS);
    }
    for (f = 0; f < sizeof KEY_MODELS / sizeof *KEY_MODELS; f += (size_t)part) {
        char *data, *file;
        int32_t layers;
        infer_model *m = NULL;
        infer_model_info info;
        from = key_model_path(f, &kept);
        check_detail = KEY_MODELS[f].file;
        if (kept != here) continue;
        data = from ? check_read(from, &n) : NULL;
        CHECK(data && infer_model_open_memory(&m, data, n, NULL, NULL) == INFER_OK);
        if (!m) { free(data); continue; }
        CHECK(infer_model_get_info(m, &info) == INFER_OK);
        layers = m->hp.n_block ? m->hp.n_block : info.layers; /* of both stacks */
        infer_model_close(m);
        CHECK(keys_run(data, n, 0, NULL, plain, KEYS_VOCAB, why, sizeof why));
        for (i = 0; i < sizeof KEY_CASES / sizeof *KEY_CASES; i++) {
            const key_case *c = &KEY_CASES[i];
            int matters = key_matters(c, f, data, n), computed, same;
            gguf_writer w;
            gw_init(&w);
            if (c->name[0] == ':') snprintf(key, sizeof key, "%s", c->name + 1);
            else snprintf(key, sizeof key, "%s.%s", KEY_MODELS[f].arch, c->name);
            snprintf(detail, sizeof detail, "%s in %s", key, KEY_MODELS[f].file);
            check_detail = detail;
            keys_put(&w, c, key, layers);
            file = keys_file(data, n, &w, key, &size);
            memset(with, 0, sizeof with);
            computed = file && keys_run(file, size, 0, NULL, with, KEYS_VOCAB, why, sizeof why);
            same = computed && memcmp(with, plain, sizeof with) == 0;
            if (matters && same) check_note(__FILE__, __LINE__, "silently ignored");
            if (!matters && !computed) check_note(__FILE__, __LINE__, why);
            if (!matters && computed && !same) check_note(__FILE__, __LINE__, "changes the result");
            /* a key that stops every rotation leaves the file's factors without use: then those are named */
            if (!computed && !key_is_size(c->name) && !strstr(why, ".weight: no layer uses RoPE factors")) CHECK_HAS(why, key);
            followed += computed && !same;
            refused += !computed;
            idle += same;
            free(file);
        }
        free(data);
    }
    if (getenv("CHECK_VERBOSE")) printf("keys: %d followed, %d refused by name, %d without effect\n", followed, refused, idle);
    if (here) CHECK(followed > 300 / part && refused > 2000 / part && idle > 500 / part);
}

static void test_hostile_keys_all_rows(void) { keys_in_rows(1); }

static void test_hostile_keys_references(void) {
    if (!check_reference("archs/olmoe-moe.gguf")) SKIP("needs INFER_TEST_DATA");
    keys_in_rows(0);
}

/* A model, keys that are added to it, what has to come of it. */
typedef struct keys_few {
    const char *file, *note;
    key_case add[4];
    const char *message; /* in why_not; NULL = it computes */
    int differs;         /* and the result is another one */
} keys_few;

static void keys_check_few(const keys_few *c) {
    static float plain[KEYS_VOCAB], with[KEYS_VOCAB];
    char path[128], why[512], key[160], arch[32], *data, *file;
    size_t n, size, i;
    gguf_writer w;
    int computed;
    check_detail = c->note;
    snprintf(path, sizeof path, "archs/%s.gguf", c->file);
    snprintf(arch, sizeof arch, "%.*s", (int)strcspn(c->file, "-"), c->file);
    data = check_read(check_data(path), &n);
    CHECK(data != NULL);
    if (!data) return;
    CHECK(keys_run(data, n, 0, NULL, plain, KEYS_VOCAB, why, sizeof why));
    gw_init(&w);
    for (i = 0; i < 4 && c->add[i].name; i++) {
        snprintf(key, sizeof key, "%s.%s", arch, c->add[i].name);
        keys_put(&w, &c->add[i], key, 2);
    }
    snprintf(key, sizeof key, "%s.%s", arch, c->add[0].name); /* only the first may be there already */
    file = keys_file(data, n, &w, key, &size);
    memset(with, 0, sizeof with);
    computed = file && keys_run(file, size, 0, NULL, with, KEYS_VOCAB, why, sizeof why);
    if (c->message) {
        CHECK(!computed);
        CHECK_HAS(why, c->message);
        CHECK_HAS(why, key);
    } else {
        CHECK_STR(why, "");
        CHECK((memcmp(with, plain, sizeof with) != 0) == c->differs);
    }
    free(file);
    free(data);
}

/* What used to be dropped without a word. */
static void test_hostile_keys_were_silent(void) {
    static const keys_few cases[] = {
        { "llama-mixtral-moe", "scale of experts", { { "expert_weights_scale", 'f', 2.5, NULL, 0 } }, NULL, 1 },
        { "qwen3moe-norm-moe", "sigmoid", { { "expert_gating_func", 'u', 2, NULL, 0 } }, NULL, 1 },
        { "llama-mixtral-moe", "groups", { { "expert_group_count", 'u', 4, NULL, 0 },
                                           { "expert_group_used_count", 'u', 1, NULL, 0 } }, NULL, 1 },
        { "llama-mixtral-moe", "all groups", { { "expert_group_count", 'u', 4, NULL, 0 },
                                               { "expert_group_used_count", 'u', 4, NULL, 0 } }, NULL, 0 },
        { "llama-mixtral-moe", "the root of softplus", { { "expert_gating_func", 'u', 4, NULL, 0 } }, NULL, 1 },
        { "qwen3moe-norm-moe", "not divided", { { "expert_weights_norm", 'b', 0, NULL, 0 } }, NULL, 1 },
        { "llama-yarn-dense", "betas", { { "rope.scaling.yarn_beta_fast", 'f', 4, NULL, 0 },
                                         { "rope.scaling.yarn_beta_slow", 'f', 0.1, NULL, 0 } }, NULL, 1 },
        { "llama-dense", "a scale that the row has not", { { "logit_scale", 'f', 0.5, NULL, 0 } }, "only 0 and 1", 0 },
        { "llama-dense", "a window", { { "attention.sliding_window", 'u', 4, NULL, 0 } }, "window", 0 },
        { "granite-real-dense", "no rotation", { { "rope.scaling.finetuned", 'b', 0, NULL, 0 } }, NULL, 1 },
        { "gemma3-real-dense", "cap of scores", { { "attn_logit_softcapping", 'f', 20, NULL, 0 } }, "only 0", 0 },
        { "gemma3-real-dense", "a period of windows", { { "attention.sliding_window_pattern", 'u', 2, NULL, 0 } }, NULL, 1 },
        { "llama-dense", "predicted tokens", { { "nextn_predict_layers", 'u', 1, NULL, 0 } }, "nextn_predict_layers is 1", 0 },
    };
    size_t i;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) keys_check_few(&cases[i]);
}

/* Values that say what the row does anyway. */
static void test_hostile_keys_fine(void) {
    static const keys_few cases[] = {
        { "llama-mixtral-moe", "scale 1", { { "expert_weights_scale", 'f', 1, NULL, 0 } }, NULL, 0 },
        { "llama-mixtral-moe", "scale 0", { { "expert_weights_scale", 'f', 0, NULL, 0 } }, NULL, 0 },
        { "llama-mixtral-moe", "softmax", { { "expert_gating_func", 'u', 1, NULL, 0 },
                                            { "expert_weights_norm", 'b', 1, NULL, 0 } }, NULL, 0 },
        { "llama-mixtral-moe", "softmax of those used", { { "expert_gating_func", 'u', 3, NULL, 0 },
                                                          { "expert_weights_norm", 'b', 0, NULL, 0 } }, NULL, 0 },
        { "llama-mixtral-moe", "as llama.cpp saves it", { { "expert_gating_func", 'u', 0, NULL, 0 },
                                                          { "expert_weights_norm", 'b', 0, NULL, 0 } }, NULL, 0 },
        { "llama-mixtral-moe", "one group", { { "expert_group_count", 'u', 1, NULL, 0 },
                                              { "expert_group_used_count", 'u', 1, NULL, 0 } }, NULL, 0 },
        { "llama-dense", "sigmoid without experts", { { "expert_gating_func", 'u', 2, NULL, 0 } }, NULL, 0 },
        { "llama-yarn-dense", "usual betas", { { "rope.scaling.yarn_beta_fast", 'f', 32, NULL, 0 },
                                               { "rope.scaling.yarn_beta_slow", 'f', 1, NULL, 0 },
                                               { "rope.scaling.yarn_ext_factor", 'f', 1, NULL, 0 } }, NULL, 0 },
        { "llama-yarn-dense", "not given", { { "rope.scaling.yarn_ext_factor", 'f', -1, NULL, 0 },
                                             { "rope.scaling.yarn_attn_factor", 'f', 1, NULL, 0 } }, NULL, 0 },
        { "llama-dense", "scale 1 of logits", { { "logit_scale", 'f', 1, NULL, 0 } }, NULL, 0 },
        { "llama-dense", "a window as large as the context", { { "attention.sliding_window", 'u', 256, NULL, 0 } }, NULL, 0 },
        { "qwen2-plain-dense", "no pooling", { { "pooling_type", 'u', 4294967295.0, NULL, 0 } }, NULL, 0 },
        { "qwen2-plain-dense", "the same, signed", { { "pooling_type", 'i', -1, NULL, 0 } }, NULL, 0 },
        { "gemma3-real-dense", "as wide as the others", { { "attention.key_length_swa", 'u', 32, NULL, 0 } }, NULL, 0 },
        { "granite-real-dense", "a mixer that no layer has", { { "ssm.conv_kernel", 'u', 4, NULL, 0 }, { "ssm.state_size", 'u', 128, NULL, 0 },
                                                               { "ssm.group_count", 'u', 1, NULL, 0 } }, NULL, 0 },
        { "granite-moe", "the same", { { "ssm.inner_size", 'u', 3072, NULL, 0 }, { "ssm.time_step_rank", 'u', 48, NULL, 0 } }, NULL, 0 },
    };
    size_t i;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) keys_check_few(&cases[i]);
}

/* Types, ranges, arrays of another length or with numbers that differ: errors that name the key. */
static void test_hostile_keys_types(void) {
    static const keys_few cases[] = {
        { "llama-dense", "text", { { "attention.head_count", 's', 0, "eight", 0 } }, "not an integer", 0 },
        { "llama-dense", "array", { { "embedding_length", 'l', 64, NULL, 0 } }, "is an array", 0 },
        { "llama-dense", "text as float", { { "rope.freq_base", 's', 0, "1e4", 0 } }, "not a number", 0 },
        { "llama-dense", "float as integer", { { "block_count", 'f', 2, NULL, 0 } }, "not an integer", 0 },
        { "llama-dense", "number as bool", { { "attention.causal", 'u', 2, NULL, 0 } }, "neither 0 nor 1", 0 },
        { "llama-dense", "infinite", { { "rope.freq_base", 'f', INFINITY, NULL, 0 } }, "finite", 0 },
        { "llama-yarn-dense", "beta 0", { { "rope.scaling.yarn_beta_fast", 'f', 0, NULL, 0 } }, "not positive", 0 },
        { "llama-yarn-dense", "beta below 0", { { "rope.scaling.yarn_beta_slow", 'f', -1, NULL, 0 } }, "not positive", 0 },
        { "llama-yarn-dense", "share above 1", { { "rope.scaling.yarn_ext_factor", 'f', 2, NULL, 0 } }, "is 2", 0 },
        { "llama-yarn-dense", "attention 0", { { "rope.scaling.yarn_attn_factor", 'f', 0, NULL, 0 } }, "not positive", 0 },
        { "llama-mixtral-moe", "gating as text", { { "expert_gating_func", 's', 0, "softmax", 0 } }, "not an integer", 0 },
        { "llama-mixtral-moe", "gating that nobody knows", { { "expert_gating_func", 'u', 5, NULL, 0 } }, "outside 0..4", 0 },
        { "llama-mixtral-moe", "too many experts", { { "expert_count", 'u', 1025, NULL, 0 } }, "outside 0..1024", 0 },
        { "llama-mixtral-moe", "groups, and none used", { { "expert_group_count", 'u', 2, NULL, 0 } },
          "2 of 8 experts cannot come from 0 of these groups", 0 },
        { "llama-mixtral-moe", "groups that do not divide", { { "expert_group_count", 'u', 3, NULL, 0 },
                                                              { "expert_group_used_count", 'u', 2, NULL, 0 } },
          "cannot come from 2 of these groups", 0 },
        { "llama-mixtral-moe", "groups too small", { { "expert_group_count", 'u', 8, NULL, 0 },
                                                     { "expert_group_used_count", 'u', 1, NULL, 0 } },
          "2 of 8 experts cannot come from 1 of these groups", 0 },
        { "llama-mixtral-moe", "too many groups", { { "expert_group_count", 'u', 65, NULL, 0 } }, "outside 0..64", 0 },

        { "cohere2-swa-dense", "five layers, two flags", { { "attention.sliding_window_pattern", 'l', 1, NULL, 0 } },
          "an array of 2, not of 5 numbers", 0 },
        { "smollm3-nope-dense", "five layers, two numbers", { { "attention.head_count_kv", 'l', 2, NULL, 0 } },
          "an array of 2, not of 5 numbers", 0 },
        { "gemma3-real-dense", "flag 7", { { "attention.sliding_window_pattern", 'l', 7, NULL, 0 } }, "array of 2", 0 },
    };
    size_t i;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) keys_check_few(&cases[i]);
}

/* Arrays: one number for each layer that agree are one number; those that differ are refused where one is needed. */
static void test_hostile_keys_arrays(void) {
    static const int64_t same[2] = { 2, 2 }, differ[2] = { 2, 1 }, both[2] = { 1, 0 };
    static float plain[KEYS_VOCAB], with[KEYS_VOCAB];
    size_t n, size;
    char *data = check_read(check_data("archs/llama-mixtral-moe.gguf"), &n), *file, why[512];
    gguf_writer w;
    CHECK(data && keys_run(data, n, 0, NULL, plain, KEYS_VOCAB, why, sizeof why));
    if (!data) return;
    gw_init(&w);
    gw_ints(&w, "llama.expert_used_count", GW_U32, same, 2);
    file = keys_file(data, n, &w, "llama.expert_used_count", &size);
    CHECK(keys_run(file, size, 0, NULL, with, KEYS_VOCAB, why, sizeof why));
    CHECK(memcmp(with, plain, sizeof with) == 0);
    free(file);
    gw_init(&w);
    gw_ints(&w, "llama.expert_used_count", GW_U32, differ, 2);
    file = keys_file(data, n, &w, "llama.expert_used_count", &size);
    CHECK(!keys_run(file, size, 0, NULL, with, KEYS_VOCAB, why, sizeof why));
    CHECK_HAS(why, "key llama.expert_used_count: values that differ");
    free(file);
    gw_init(&w);
    gw_ints(&w, "llama.attention.rope_pattern", GW_BOOL, both, 2);
    file = keys_file(data, n, &w, NULL, &size);
    CHECK(keys_run(file, size, 0, NULL, with, KEYS_VOCAB, why, sizeof why));
    CHECK(memcmp(with, plain, sizeof with) != 0);
    free(file);
    free(data);
}

/* The model with `key` replaced by an array (n numbers), a number (n 0), a text, or (neither) nothing: computed and as before (1), computed
 * and different (2), or refused with a message that has the key and `message` (0). */
static void keys_replaced(const char *file, const char *key, const int64_t *numbers, size_t n_numbers, const char *text,
                          int what, const char *message) {
    static float plain[KEYS_VOCAB], with[KEYS_VOCAB];
    char path[128], why[512], *data, *changed;
    size_t n, size;
    gguf_writer w;
    int computed, same;
    snprintf(path, sizeof path, "archs/%s.gguf", file);
    check_detail = path;
    data = check_read(check_data(path), &n);
    CHECK(data && keys_run(data, n, 0, NULL, plain, KEYS_VOCAB, why, sizeof why));
    if (!data) return;
    gw_init(&w);
    if (numbers && n_numbers == 0) gw_f32(&w, key, (float)numbers[0]);
    else if (numbers) gw_ints(&w, key, GW_I32, numbers, n_numbers);
    if (text) gw_str(&w, key, text);
    changed = keys_file(data, n, &w, key, &size);
    memset(with, 0, sizeof with);
    computed = changed && keys_run(changed, size, 0, NULL, with, KEYS_VOCAB, why, sizeof why);
    same = memcmp(with, plain, sizeof with) == 0;
    CHECK(computed == (what != 0));
    if (computed) CHECK(same == (what == 1));
    else {
        CHECK_HAS(why, key);
        CHECK_HAS(why, message);
    }
    free(changed);
    free(data);
}

/* Keys that only some rows follow: sections of positions, lists of windows, parameters of activations. */
static void test_hostile_keys_of_rows(void) {
    static const int64_t text_only[3] = { 8, 0, 0 }, fourth[4] = { 2, 2, 2, 2 }, late[4] = { 3, 3, 2, 9 };
    static const int64_t two[2] = { 2, 3 }, five[5] = { 2, 3, 3, 0, 0 }, below[3] = { 2, -3, 3 }, many[3] = { 2, 1 << 20, 3 };
    static const int64_t one[1] = { 1 }, all[2] = { 1, 1 }, three[3] = { 1, 1, 1 };
    static const char SECTIONS[] = "qwen2vl.rope.dimension_sections";
    keys_replaced("qwen2vl-mrope-dense", SECTIONS, text_only, 3, NULL, 1, NULL);
    keys_replaced("qwen2vl-mrope-dense", SECTIONS, late, 4, NULL, 1, NULL); /* behind all pairs */
    keys_replaced("qwen2vl-mrope-dense", SECTIONS, fourth, 4, NULL, 0, "fourth section");
    keys_replaced("qwen2vl-mrope-dense", SECTIONS, two, 2, NULL, 0, "3 or 4 numbers");
    keys_replaced("qwen2vl-mrope-dense", SECTIONS, five, 5, NULL, 0, "3 or 4 numbers");
    keys_replaced("qwen2vl-mrope-dense", SECTIONS, below, 3, NULL, 0, "outside 0..");
    keys_replaced("qwen2vl-mrope-dense", SECTIONS, many, 3, NULL, 0, "outside 0..");
    keys_replaced("qwen2vl-mrope-dense", SECTIONS, NULL, 0, "8,0,0", 0, "3 or 4 numbers");
    keys_replaced("spark2_5-dense", "spark2_5.attention.sliding_window_pattern", NULL, 0, NULL, 0, "missing key");
    keys_replaced("spark2_5-dense", "spark2_5.attention.sliding_window_pattern", all, 2, NULL, 2, NULL);
    keys_replaced("apertus-dense", "xielu.alpha_p", NULL, 0, NULL, 0, "missing");
    keys_replaced("apertus-dense", "xielu.alpha_p", three, 3, NULL, 0, "for each layer");
    keys_replaced("apertus-dense", "xielu.alpha_n", one, 1, NULL, 0, "for each layer");
    keys_replaced("apertus-dense", "xielu.beta", NULL, 0, "0.5", 0, "");
    keys_replaced("apertus-dense", "xielu.beta", one, 0, NULL, 2, NULL);
    keys_replaced("apertus-dense", "xielu.beta", all, 2, NULL, 2, NULL);
    keys_replaced("bitnet-dense", "bitnet.hidden_activation", NULL, 0, "silu", 1, NULL);
    keys_replaced("bitnet-dense", "bitnet.hidden_activation", NULL, 0, "relu2", 2, NULL);
    keys_replaced("bitnet-dense", "bitnet.hidden_activation", NULL, 0, "magic", 0, "not known");
    keys_replaced("bitnet-dense", "bitnet.hidden_activation", one, 1, NULL, 0, "");
}

/* Tensors that a row's layers must have, or that no one has a use for under another name: the model is refused by name. */
static void test_hostile_keys_row_tensors(void) {
    static const struct { const char *file, *tensor, *message; } cases[] = {
        { "muse-glimmer-dense", "blk.1.attn_gate.weight", "missing tensor blk.1.attn_gate.weight" },
        { "spark2_5-dense", "blk.0.attn_gate.weight", "missing tensor blk.0.attn_gate.weight" },
        { "talkie-dense", "blk.0.attn_q_norm.weight", "missing tensor blk.0.attn_q_norm.weight" },
        { "talkie-dense", "blk.1.layer_output_scale.weight", "missing tensor blk.1.layer_output_scale.weight" },
        { "gemma4-sharedkv-dense", "per_layer_token_embd.weight", "missing tensor per_layer_token_embd.weight" },
        { "gemma4-sharedkv-dense", "per_layer_model_proj.weight", "missing tensor per_layer_model_proj.weight" },
        { "gemma4-sharedkv-dense", "per_layer_proj_norm.weight", "missing tensor per_layer_proj_norm.weight" },
        { "gemma4-sharedkv-dense", "blk.3.inp_gate.weight", "missing tensor blk.3.inp_gate.weight" },
        { "gemma4-sharedkv-dense", "blk.2.proj.weight", "missing tensor blk.2.proj.weight" },
        { "gemma4-sharedkv-dense", "blk.1.attn_v.weight", "~lk.1.attn_v.weight" },
        { "falcon-40b-dense", "blk.0.attn_norm_2.weight", "tensor ~lk.0.attn_norm_2.weight" },
        { "bitnet-dense", "blk.0.attn_sub_norm.weight", "tensor ~lk.0.attn_sub_norm.weight" },
        { "bitnet-dense", "blk.1.ffn_sub_norm.weight", "tensor ~lk.1.ffn_sub_norm.weight" } };
    static float out[KEYS_VOCAB];
    char path[128], why[512];
    size_t i, at, n;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *data;
        size_t len = strlen(cases[i].tensor);
        int found = 0;
        snprintf(path, sizeof path, "archs/%s.gguf", cases[i].file);
        check_detail = cases[i].tensor;
        data = check_read(check_data(path), &n);
        CHECK(data != NULL);
        if (!data) continue;
        for (at = 24; at + 8 + len < n && !found; at++)
            if (infer__load_u64(data + at) == len && memcmp(data + at + 8, cases[i].tensor, len) == 0) {
                data[at + 8] = '~';
                found = 1;
            }
        CHECK(found);
        CHECK(!keys_run(data, n, 0, NULL, out, KEYS_VOCAB, why, sizeof why));
        CHECK_HAS(why, cases[i].message);
        free(data);
    }
}

/* allow_unknown: the model computes as without the keys, and the log has a line for each. */
static void test_hostile_keys_allowed(void) {
    static const char *const names[] = { "llama.new_in_2031", "llama.experts_per_group", "llama.logit_scale",
                                         "llama.nextn_predict_layers", "xielu.beta" };
    static float plain[KEYS_VOCAB], with[KEYS_VOCAB];
    keys_log log;
    size_t n, size, i;
    char *data = check_read(check_data("archs/llama-mixtral-moe.gguf"), &n), *file, why[512];
    gguf_writer w;
    CHECK(data && keys_run(data, n, 1, &log, plain, KEYS_VOCAB, why, sizeof why));
    CHECK(log.n == 0);
    if (!data) return;
    gw_init(&w);
    gw_str(&w, names[0], "x");
    gw_int(&w, names[1], GW_U32, 2);
    gw_f32(&w, names[2], 0.25f);
    gw_int(&w, names[3], GW_U32, 1);
    gw_f32(&w, names[4], 0.25f);
    file = keys_file(data, n, &w, NULL, &size);
    CHECK(!keys_run(file, size, 0, &log, with, KEYS_VOCAB, why, sizeof why));
    CHECK_HAS(why, names[0]);
    CHECK_HAS(why, "(and 4 more keys)");
    CHECK(keys_run(file, size, 1, &log, with, KEYS_VOCAB, why, sizeof why));
    CHECK(memcmp(with, plain, sizeof with) == 0);
    CHECK(log.n == 5);
    for (i = 0; i < 5; i++) CHECK_HAS(log.text, names[i]);
    free(file);
    free(data);
}

/* All keys that llama.cpp writes when it saves a model, with its values for what a model has not: each row computes on,
 * bit for bit. */
static void test_hostile_keys_as_saved(void) {
    static const key_case saved[] = {
        { "leading_dense_block_count", 'u', 0, NULL, 0 }, { "expert_feed_forward_length", 'u', 0, NULL, 0 },
        { "expert_latent_length", 'u', 0, NULL, 0 }, { "expert_shared_feed_forward_length", 'u', 0, NULL, 0 },
        { "expert_chunk_feed_forward_length", 'u', 0, NULL, 0 }, { "swiglu_clamp_exp", 'l', 0, NULL, 0 },
        { "swiglu_clamp_shexp", 'l', 0, NULL, 0 }, { "use_parallel_residual", 'b', 0, NULL, 0 },
        { "expert_count", 'u', 0, NULL, 0 }, { "expert_used_count", 'u', 0, NULL, 0 }, { "expert_shared_count", 'u', 0, NULL, 0 },
        { "expert_group_count", 'u', 0, NULL, 0 }, { "expert_group_used_count", 'u', 0, NULL, 0 },
        { "expert_weights_scale", 'f', 0, NULL, 0 }, { "expert_weights_norm", 'b', 0, NULL, 0 },
        { "expert_gating_func", 'u', 0, NULL, 0 }, { "expert_group_scale", 'f', 0.05, NULL, 0 },
        { "experts_per_group", 'u', 0, NULL, 0 }, { "moe_every_n_layers", 'u', 0, NULL, 0 },
        { "nextn_predict_layers", 'u', 0, NULL, 0 }, { "n_deepstack_layers", 'u', 0, NULL, 0 },
        { "pooling_type", 'u', 4294967295.0, NULL, 0 }, { "logit_scale", 'f', 0, NULL, 0 },
        { "decoder_start_token_id", 'i', -1, NULL, 0 }, { "decoder_block_count", 'u', 0, NULL, 0 },
        { "attn_logit_softcapping", 'f', 50, NULL, 0 }, { "router_logit_softcapping", 'f', 30, NULL, 0 },
        { "final_logit_softcapping", 'f', 30, NULL, 0 }, { "swin_norm", 'b', 0, NULL, 0 },
        { "rescale_every_n_layers", 'u', 0, NULL, 0 }, { "time_mix_extra_dim", 'u', 0, NULL, 0 },
        { "time_decay_extra_dim", 'u', 0, NULL, 0 }, { "residual_scale", 'f', 0, NULL, 0 }, { "embedding_scale", 'f', 0, NULL, 0 },
        { "hrm.layers_per_stack", 'u', 0, NULL, 0 }, { "hrm.h_cycles", 'u', 0, NULL, 0 }, { "hrm.l_cycles", 'u', 0, NULL, 0 },
        { "hrm.prefix_lm", 'b', 0, NULL, 0 }, { "token_shift_count", 'u', 2, NULL, 0 }, { "interleave_moe_layer_step", 'u', 0, NULL, 0 },
        { "attention.max_alibi_bias", 'f', 0, NULL, 0 }, { "attention.clamp_kqv", 'f', 0, NULL, 0 },
        { "attention.layer_norm_epsilon", 'f', 0, NULL, 0 }, { "attention.layer_norm_rms_epsilon", 'f', 0, NULL, 0 },
        { "attention.group_norm_epsilon", 'f', 0, NULL, 0 }, { "attention.group_norm_groups", 'u', 0, NULL, 0 },
        { "attention.causal", 'b', 1, NULL, 0 }, { "attention.q_lora_rank", 'u', 0, NULL, 0 },
        { "attention.kv_lora_rank", 'u', 0, NULL, 0 }, { "attention.relative_buckets_count", 'u', 0, NULL, 0 },
        { "attention.rope_pattern", 'u', 1, NULL, 0 }, { "attention.sliding_window", 'u', 0, NULL, 0 },
        { "attention.scale", 'f', 0, NULL, 0 }, { "attention.output_scale", 'f', 0, NULL, 0 },
        { "attention.value_scale", 'f', 0, NULL, 0 }, { "attention.temperature_length", 'u', 0, NULL, 0 },
        { "attention.temperature_scale", 'f', 0, NULL, 0 }, { "attention.indexer.kpool_select_tail", 'b', 1, NULL, 0 },
        { "attention.indexer.types", 'u', 0, NULL, 0 }, { "attention.recurrent_layers", 'u', 0, NULL, 0 },
        { "attention.compress_ratios", 'u', 0, NULL, 0 }, { "hyper_connection.magnitude", 'f', 0, NULL, 0 },
        { "rope.dimension_sections", 'l', 0, NULL, 0 }, { "rope.freq_base_swa", 'f', 10000, NULL, 0 },
        { "rope.scaling.type", 's', 0, "linear", 0 }, { "rope.scaling.factor", 'f', 0, NULL, 0 },
        { "rope.scaling.attn_factor", 'f', 1, NULL, 0 }, { "rope.scaling.yarn_log_multiplier", 'f', 0, NULL, 0 },
        { "rope.scaling.yarn_ext_factor", 'f', -1, NULL, 0 }, { "rope.scaling.yarn_attn_factor", 'f', 1, NULL, 0 },
        { "rope.scaling.yarn_beta_fast", 'f', 32, NULL, 0 }, { "rope.scaling.yarn_beta_slow", 'f', 1, NULL, 0 },
        { "ssm.conv_kernel", 'u', 0, NULL, 0 }, { "ssm.dt_b_c_rms", 'b', 0, NULL, 0 }, { "kda.safe_gate", 'b', 0, NULL, 0 },
        { "kda.gate_lower_bound", 'f', -INFINITY, NULL, 0 }, { "wkv.head_size", 'u', 0, NULL, 0 },
        { "shortconv.l_cache", 'u', 0, NULL, 0 }, { "attn_res.block_size", 'u', 0, NULL, 0 },
        { "activation.situ_beta", 'f', 1, NULL, 0 }, { "activation.situ_linear_beta", 'f', 0, NULL, 0 },
        { "dense_2_feat_in", 'u', 0, NULL, 0 }, { ":xielu.alpha_n", 'l', 0, NULL, 0 }, { ":xielu.eps", 'l', 0, NULL, 0 },
    };
    static float plain[KEYS_VOCAB], with[KEYS_VOCAB];
    char why[512], key[160];
    const char *path;
    size_t f, i, n, size;
    int kept;
    for (f = 0; f < sizeof KEY_MODELS / sizeof *KEY_MODELS; f++) {
        char *data, *file;
        gguf_writer w;
        path = key_model_path(f, &kept);
        check_detail = KEY_MODELS[f].file;
        if (!path) continue; /* test_hostile_keys_references says so */
        data = check_read(path, &n);
        CHECK(data && keys_run(data, n, 0, NULL, plain, KEYS_VOCAB, why, sizeof why));
        if (!data) continue;
        gw_init(&w);
        for (i = 0; i < sizeof saved / sizeof *saved; i++) {
            if (saved[i].name[0] == ':') snprintf(key, sizeof key, "%s", saved[i].name + 1);
            else snprintf(key, sizeof key, "%s.%s", KEY_MODELS[f].arch, saved[i].name);
            if (keys_have(data, n, key)) continue; /* the model has it */
            /* what a row has is written with its own value */
            if (strcmp(saved[i].name, "rope.freq_base_swa") == 0 && strchr(KEY_MODELS[f].has, 'W')) continue;
            if (strcmp(saved[i].name, "final_logit_softcapping") == 0 && strcmp(KEY_MODELS[f].arch, "gemma3") == 0) continue;
            if (strncmp(saved[i].name, "kda.", 4) == 0 && strcmp(KEY_MODELS[f].arch, "bailingmoe3") == 0) continue;
            if (strcmp(saved[i].name, "swiglu_clamp_shexp") == 0 && strcmp(KEY_MODELS[f].arch, "deepseek4") == 0) continue;
            if (strcmp(saved[i].name, "attention.recurrent_layers") == 0 && strcmp(KEY_MODELS[f].arch, "qwen4exp") == 0) continue;
            if (strstr(saved[i].name, "_softcapping") && strcmp(KEY_MODELS[f].arch, "grok") == 0) continue;
            keys_put(&w, &saved[i], key, 2);
        }
        file = keys_file(data, n, &w, NULL, &size);
        memset(with, 0, sizeof with);
        CHECK(file && keys_run(file, size, 0, NULL, with, KEYS_VOCAB, why, sizeof why));
        CHECK_STR(why, "");
        CHECK(memcmp(with, plain, sizeof with) == 0);
        free(file);
        free(data);
    }
}

/* Unbound tensors are refused by name as well, and ignored with allow_unknown. */
static void test_hostile_keys_tensors(void) {
    static const uint64_t dims[2] = { 4, 3 };
    infer_model_params mp;
    infer_model *m = NULL;
    infer_error e;
    keys_log log;
    gguf_writer w;
    size_t n;
    unsigned char *file;
    int allow;
    static const struct { const char *name; uint64_t cols, rows; } tensors[] = {
        { "token_embd.weight", 16, 10 }, { "output_norm.weight", 16, 1 }, { "blk.0.attn_norm.weight", 16, 1 },
        { "blk.0.ffn_norm.weight", 16, 1 }, { "blk.0.attn_q.weight", 16, 16 }, { "blk.0.attn_k.weight", 16, 16 },
        { "blk.0.attn_v.weight", 16, 16 }, { "blk.0.attn_output.weight", 16, 16 }, { "blk.0.ffn_gate.weight", 16, 20 },
        { "blk.0.ffn_up.weight", 16, 20 }, { "blk.0.ffn_down.weight", 20, 16 } };
    static float zeros[400];
    size_t i;
    gw_init(&w);
    gw_str(&w, "general.architecture", "llama");
    gw_int(&w, "llama.block_count", GW_U32, 1);
    gw_int(&w, "llama.embedding_length", GW_U32, 16);
    gw_int(&w, "llama.feed_forward_length", GW_U32, 20);
    gw_int(&w, "llama.attention.head_count", GW_U32, 2);
    gw_f32(&w, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    for (i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        uint64_t d[2];
        d[0] = tensors[i].cols;
        d[1] = tensors[i].rows;
        gw_tensor(&w, tensors[i].name, 0, tensors[i].rows == 1 ? 1 : 2, d, zeros, (size_t)(d[0] * d[1]) * 4, 4);
    }
    gw_tensor(&w, "blk.0.attn_q.scale", 0, 2, dims, zeros, 48, 4);
    file = gw_finish(&w, &n);
    for (allow = 0; allow < 2; allow++) {
        memset(&mp, 0, sizeof mp);
        memset(&log, 0, sizeof log);
        mp.allow_unknown = allow;
        mp.log = keys_on_log;
        mp.log_user = &log;
        CHECK(infer_model_open_memory(&m, file, n, &mp, &e) == INFER_OK);
        if (!m) break;
        if (allow) CHECK_STR(infer_model_why_not(m), "");
        else CHECK_HAS(infer_model_why_not(m), "tensor blk.0.attn_q.scale");
        CHECK(log.n == allow);
        if (allow) CHECK_HAS(log.text, "blk.0.attn_q.scale");
        CHECK(infer_model_close(m) == INFER_OK);
    }
    free(file);
}

/* Keys of the tokenizer: one that is not read may mean other ids, so texts are refused by its name. */
static void test_hostile_keys_tokenizer(void) {
    static const struct { const char *key; char type; double value; int fine; } cases[] = {
        { "tokenizer.ggml.normalizer.unicode", 's', 0, 0 },
        { "tokenizer.ggml.byte_fallback", 'b', 1, 0 },
        { "tokenizer.ggml.normalizer.lowercase", 'b', 1, 0 },
        { "tokenizer.ggml.normalizer.lowercase", 'b', 0, 1 },
        { "tokenizer.ggml.normalizer.strip_accents", 'b', 1, 0 },
        { "tokenizer.ggml.remove_extra_whitespaces", 'b', 1, 0 },
        { "tokenizer.ggml.remove_extra_whitespaces", 'b', 0, 1 },
        { "tokenizer.ggml.precompiled_charsmap", 'l', 7, 0 },
        { "tokenizer.ggml.token_type_count", 'u', 2, 1 },
        { "tokenizer.ggml.suppress_tokens", 'l', 1, 1 },
        { "tokenizer.ggml.scores", 'l', 1, 1 },
        { "tokenizer.ggml.separator_token_id", 'u', 1, 1 },
        { "tokenizer.ggml.image_token_id", 'u', 1, 1 },
        { "tokenizer.chat_template.tool_use", 's', 0, 1 },
        { "tokenizer.huggingface.json", 's', 0, 1 },
    };
    size_t n, size, i;
    char *data = check_read(check_data("vocab-bpe-small.gguf"), &n);
    int allow;
    CHECK(data != NULL);
    if (!data) return;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        key_case c;
        gguf_writer w;
        char *file;
        memset(&c, 0, sizeof c);
        c.type = cases[i].type;
        c.value = cases[i].value;
        c.text = "x";
        check_detail = cases[i].key;
        gw_init(&w);
        keys_put(&w, &c, cases[i].key, 2);
        file = keys_file(data, n, &w, cases[i].key, &size);
        for (allow = 0; file && allow < 2; allow++) {
            infer_model_params mp;
            infer_model *m = NULL;
            infer_error e;
            keys_log log;
            infer_token ids[16];
            size_t count = 0;
            infer_result r;
            memset(&mp, 0, sizeof mp);
            memset(&log, 0, sizeof log);
            mp.allow_unknown = allow;
            mp.log = keys_on_log;
            mp.log_user = &log;
            CHECK(infer_model_open_memory(&m, file, size, &mp, &e) == INFER_OK);
            if (!m) break;
            r = infer_tokenize(m, "a b", 3, 0, ids, 16, &count, &e);
            if (cases[i].fine || allow) CHECK(r == INFER_OK && count > 0);
            else {
                CHECK(r == INFER_ERR_UNSUPPORTED);
                CHECK_HAS(e.message, cases[i].key);
            }
            CHECK((strstr(log.text, cases[i].key) != NULL) == (allow && !cases[i].fine));
            CHECK(infer_model_close(m) == INFER_OK);
        }
        free(file);
    }
    free(data);
}

/* Every name in the table of keys without effect is among the cases above. */
static void test_hostile_keys_table(void) {
    size_t i, j;
    for (i = 0; i < INFER__COUNT(INFER__IDLE_KEYS); i++) {
        const char *names = INFER__IDLE_KEYS[i].names;
        CHECK(INFER__IDLE_KEYS[i].why[0]);
        while (*names) {
            char name[80] = "";
            const size_t n = strcspn(names, " ");
            CHECK(n > 0 && n < sizeof name);
            memcpy(name, names, n);
            for (j = 0; j < sizeof KEY_CASES / sizeof *KEY_CASES; j++)
                if (strcmp(KEY_CASES[j].name + (KEY_CASES[j].name[0] == ':'), name) == 0) break;
            check_detail = name;
            CHECK(j < sizeof KEY_CASES / sizeof *KEY_CASES);
            names += n + (names[n] == ' ');
        }
    }
}

#include "test_hostile_streams.c"
#include "test_hostile_extremes.c"

static void suite_hostile_keys(void) {
    RUN(test_hostile_streams);
    RUN(test_hostile_keys_table);
    RUN(test_hostile_keys_all_rows);
    RUN(test_hostile_keys_references);
    RUN(test_hostile_extremes);
    RUN(test_hostile_extremes_references);
    RUN(test_hostile_keys_were_silent);
    RUN(test_hostile_keys_fine);
    RUN(test_hostile_keys_types);
    RUN(test_hostile_keys_arrays);
    RUN(test_hostile_keys_of_rows);
    RUN(test_hostile_keys_row_tensors);
    RUN(test_hostile_keys_allowed);
    RUN(test_hostile_keys_as_saved);
    RUN(test_hostile_keys_tensors);
    RUN(test_hostile_keys_tokenizer);
}
