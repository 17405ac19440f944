/* left_out.c MODEL [PATH ..]: what a build was made without says so, with the name of its switch; the rest works. PATH.gguf computes
 * the logits that were recorded in PATH.logits.
 * Compiled with some of the switches and run. */
#if defined(INFER_NO_CUDA)
#  define CUDA_BY "INFER_NO_CUDA"
#elif defined(INFER_NO_GPU)
#  define CUDA_BY "INFER_NO_GPU"
#elif defined(INFER_NO_RUNTIME_LINKING)
#  define CUDA_BY "INFER_NO_RUNTIME_LINKING"
#endif
#define INFER_IMPLEMENTATION
#include "../../infer.h"
#include <stdio.h>
#include <stdlib.h>

static int bad;
static infer_error err;

static void *host_alloc(void *user, size_t size, size_t align) {
    (void)user;
    (void)align;
    return malloc(size);
}

static void host_free(void *user, void *p, size_t size) {
    (void)user;
    (void)size;
    free(p);
}

/* With INFER_NO_MALLOC every model needs an allocator. */
static const infer_model_params HOST = { .allocator = { NULL, host_alloc, host_free } };

static void want(infer_result r, const char *what, const char *name) {
    if (r == INFER_ERR_UNSUPPORTED && strstr(err.message, name)) return;
    printf("%s: want an error with %s, got %d, \"%s\"\n", what, name, (int)r, err.message);
    bad++;
}

static INFER__UNUSED void want_backend(int32_t backend, const char *what, const char *name) {
    infer_model_params p;
    infer_model *model;
    memset(&p, 0, sizeof p);
    p.backend = backend;
    p.allocator = HOST.allocator;
    want(infer_model_open(&model, "no-such-file.gguf", &p, &err), what, name);
}

#ifdef INFER_ONLY_QUANTS
/* A file with one tensor of 256 values of a type. */
static infer_result open_type(uint8_t type) {
    static const uint8_t head[] = {'G', 'G', 'U', 'F', 3, 0, 0, 0, /* tensors, keys */ 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                                   /* name */ 1, 0, 0, 0, 0, 0, 0, 0, 'x', /* dimensions */ 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0};
    uint8_t file[512] = {0};
    infer_model *model;
    infer_result r;
    memcpy(file, head, sizeof head);
    file[sizeof head] = type;
    r = infer_model_open_memory(&model, file, sizeof file, NULL, &err); /* there is no architecture, which is no error yet */
    infer_model_close(model);
    return r;
}
#endif

#if defined(INFER_NO_EMBED) || defined(INFER_NO_SAVE) || defined(INFER_NO_DRAFTS) || defined(INFER_NO_ADAPTERS) || defined(INFER_NO_QUEUE) || \
    defined(INFER_NO_FILL) || defined(INFER_NO_GUIDES) || defined(INFER_NO_SCORES) || defined(INFER_NO_SLICES) || defined(INFER_NO_RANGES)
static INFER__UNUSED size_t write_none(void *user, const void *data, size_t n) { (void)user, (void)data; return n; }

static void parts(infer_model *model) {
    infer_session *session = NULL;
    if (infer_session_create(&session, model, NULL, &err)) printf("%s\n", err.message), bad++;
    if (!session) return;
#ifdef INFER_NO_ADAPTERS
    {
        infer_adapter *adapter;
        infer_result r = infer_session_set_adapters(session, NULL, 0);
        err = *infer_session_error(session);
        want(r, "a session's adapters", "INFER_NO_ADAPTERS");
        want(infer_adapter_open_memory(&adapter, model, "", 0, 0, &err), "an adapter", "INFER_NO_ADAPTERS");
        want(infer_model_merge(model, NULL, 0, NULL, &err), "merging", "INFER_NO_ADAPTERS");
    }
#endif
#ifdef INFER_NO_QUEUE
    {
        infer_queue *queue;
        infer_best *best;
        infer_result r = infer_generate_best(session, NULL, 1, "", NULL, &best);
        err = *infer_session_error(session);
        want(r, "the best of some", "INFER_NO_QUEUE");
        want(infer_queue_create(&queue, model, NULL, &err), "a queue", "INFER_NO_QUEUE");
    }
#endif
#ifdef INFER_NO_EMBED
    {
        static const char *const texts[] = {"a"};
        float x;
        want(infer_embed(infer_session_get_context(session), texts, 1, NULL, &x, &err), "a vector", "INFER_NO_EMBED");
        want(infer_rerank(infer_session_get_context(session), "a", texts, 1, NULL, &x, &err), "a score", "INFER_NO_EMBED");
    }
#endif
#ifdef INFER_NO_SAVE
    {
        infer_result r = infer_session_save(session, write_none, NULL);
        err = *infer_session_error(session);
        want(r, "saving", "INFER_NO_SAVE");
    }
#endif
#ifdef INFER_NO_DRAFTS
    {
        infer_generate_params p;
        infer_result r;
        memset(&p, 0, sizeof p);
        p.max_tokens = p.lookup = 1;
        r = infer_generate(session, NULL, "a", &p, NULL);
        err = *infer_session_error(session);
        want(r, "drafts", "INFER_NO_DRAFTS");
    }
#endif
#ifdef INFER_NO_GUIDES
    {
        infer_session *negative = NULL;
        infer_generate_params p;
        infer_result r;
        memset(&p, 0, sizeof p);
        p.max_tokens = 1;
        if (infer_session_create(&negative, model, NULL, &err)) printf("%s\n", err.message), bad++;
        p.negative = negative;
        r = infer_generate(session, NULL, "a", &p, NULL);
        err = *infer_session_error(session);
        want(r, "a negative prompt", "INFER_NO_GUIDES");
        infer_session_destroy(negative);
    }
#endif
#ifdef INFER_NO_SCORES
    {
        infer_token one = 1;
        infer_result r = infer_session_score(session, &one, 1, 0, NULL, NULL);
        err = *infer_session_error(session);
        want(r, "a score of a prompt", "INFER_NO_SCORES");
    }
#endif
#ifdef INFER_NO_FILL
    {
        infer_fill_params p;
        infer_token ids[4];
        size_t n;
        infer_result r;
        memset(&p, 0, sizeof p);
        p.n = 1;
        r = infer_session_fill(session, NULL, NULL, 0, &p, ids);
        err = *infer_session_error(session);
        want(r, "filling in", "INFER_NO_FILL");
        want(infer_infill(model, "a", 1, "b", 1, 0, ids, 4, &n, &err), "a gap", "INFER_NO_FILL");
    }
#endif
#ifdef INFER_NO_SLICES
    {
        infer_step step;
        infer_token one = 1;
        infer_loading *loading;
        infer_generation *generation;
        memset(&step, 0, sizeof step);
        step.session = session;
        step.tokens = &one;
        step.n = 1;
        want(infer_eval_slice(infer_session_get_context(session), &step, 1, 1, &err), "a slice", "INFER_NO_SLICES");
        want(infer_generation_begin(&generation, session, NULL, "a", NULL, &err), "a text piece by piece", "INFER_NO_SLICES");
        want(infer_model_open_memory_begin(&loading, "", 0, NULL, &err), "opening in slices", "INFER_NO_SLICES");
#  ifndef INFER_NO_EMBED
        want(infer_embed_step(NULL, 0, &err), "vectors in slices", "INFER_NO_SLICES");
#  endif
#  ifndef INFER_NO_QUEUE
        {
            infer_queue *queue = NULL;
            if (infer_queue_create(&queue, model, NULL, &err)) printf("%s\n", err.message), bad++;
            if (infer_queue_step(queue, 1) != INFER_ERR_UNSUPPORTED) printf("a queue made a slice\n"), bad++;
            infer_queue_destroy(queue);
        }
#  endif
    }
#endif
#ifdef INFER_NO_RANGES
    {
        infer_rows_info info;
        size_t back;
        want(infer_context_rows(infer_session_get_context(session), "", 0, NULL, 0, 0, &back, &err), "rows", "INFER_NO_RANGES");
        want(infer_rows_read("", 0, &info, &err), "a message", "INFER_NO_RANGES");
    }
#endif
    infer_session_destroy(session);
}
#endif

#if defined(INFER_ONLY_ARCHS) || defined(INFER_ONLY_TOKENIZERS)
static uint8_t *put_text(uint8_t *at, const char *text) {
    const size_t n = strlen(text);
    memset(at, 0, 8);
    at[0] = (uint8_t)n;
    memcpy(at + 8, text, n);
    return at + 8 + n;
}

static uint8_t *put_key(uint8_t *at, const char *key, const char *value) {
    at = put_text(at, key);
    memset(at, 0, 4);
    at[0] = 8;
    return put_text(at + 4, value);
}

/* A file with an architecture and a vocabulary of one token, without tensors. */
static infer_model *open_keys(const char *arch, const char *tokenizer) {
    static uint8_t file[1024];
    static const uint8_t head[] = {'G', 'G', 'U', 'F', 3, 0, 0, 0, /* tensors, keys */ 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0};
    uint8_t *at = file + sizeof head;
    infer_model *model = NULL;
    memcpy(file, head, sizeof head);
    at = put_key(at, "general.architecture", arch);
    at = put_key(at, "tokenizer.ggml.model", tokenizer);
    at = put_text(at, "tokenizer.ggml.tokens");
    memset(at, 0, 16);
    at[0] = 9; /* an array */
    at[4] = 8; /* of texts, */
    at[8] = 1; /* one */
    at = put_text(at + 16, "a");
    if (infer_model_open_memory(&model, file, sizeof file, NULL, &err)) printf("%s\n", err.message), bad++;
    return model;
}
#endif

#ifdef INFER_ONLY_ARCHS
static void only_archs(void) {
    infer_model *model = open_keys("mamba", "llama");
    infer_session *session;
    int32_t i, n = 0;
    want(infer_session_create(&session, model, NULL, &err), "mamba", "INFER_ONLY_ARCHS");
    infer_model_close(model);
    for (i = 0; infer_arch_name(i); i++) n += strcmp(infer_arch_name(i), "llama") == 0 || strcmp(infer_arch_name(i), "jina-bert-v2") == 0;
    if (n != i || n < 1) printf("%d of the %d architectures are those that were listed\n", (int)n, (int)i), bad++;
}
#endif

#ifdef INFER_ONLY_TOKENIZERS
static void only_tokenizers(void) {
    infer_model *model = open_keys("llama", "bert");
    infer_token tokens[4];
    size_t n;
    want(infer_tokenize(model, "a", 1, 0, tokens, 4, &n, &err), "bert", "INFER_ONLY_TOKENIZERS");
    infer_model_close(model);
}
#endif

#ifdef INFER_ONLY_SAMPLERS
static void only_samplers(infer_model *model) {
    infer_sampler *sampler;
    infer_stage stage;
    memset(&stage, 0, sizeof stage);
    stage.kind = INFER_STAGE_TOP_P;
    stage.p[0] = 0.5f;
    if (!infer_sampler_create(&sampler, model, &stage, 1, 0, &err) || !strstr(err.message, "INFER_ONLY_SAMPLERS"))
        printf("top-p: %s\n", err.message), bad++;
    stage.kind = INFER_STAGE_GREEDY;
    if (infer_sampler_create(&sampler, model, &stage, 1, 0, &err)) printf("greedy: %s\n", err.message), bad++;
    infer_sampler_destroy(sampler);
    if (infer_stage_named("top-p") || !infer_stage_named("greedy")) printf("the wrong stages have names\n"), bad++;
}
#endif

#ifdef INFER_NO_DESCRIBE
static void look(void *user, int layer, const char *step, const float *data, size_t rows, size_t cols) {
    (void)user, (void)layer, (void)step, (void)data, (void)rows, (void)cols;
}
#endif

static void left_out(infer_model *model) {
#ifdef INFER_ONLY_ARCHS
    only_archs();
#endif
#ifdef INFER_ONLY_TOKENIZERS
    only_tokenizers();
#endif
#ifdef INFER_ONLY_SAMPLERS
    only_samplers(model);
#endif
#ifdef INFER_ONLY_CACHES
    {
        infer_session_params p;
        infer_session *session;
        memset(&p, 0, sizeof p);
        p.own.kv_type = INFER_KV_Q4_0;
        want(infer_session_create(&session, model, &p, &err), "a cache of Q4_0", "INFER_ONLY_CACHES");
    }
#endif
#if defined(INFER_NO_EMBED) || defined(INFER_NO_SAVE) || defined(INFER_NO_DRAFTS) || defined(INFER_NO_ADAPTERS) || defined(INFER_NO_QUEUE) || \
    defined(INFER_NO_FILL) || defined(INFER_NO_GUIDES) || defined(INFER_NO_SCORES) || defined(INFER_NO_SLICES) || defined(INFER_NO_RANGES)
    parts(model);
#endif
#ifdef INFER_NO_DESCRIBE
    {
        size_t n;
        infer_session *session;
        infer_session_params p;
        memset(&p, 0, sizeof p);
        p.trace = look;
        if (infer_model_describe(model, NULL, 0, &n) != INFER_ERR_UNSUPPORTED) printf("a description was made\n"), bad++;
        want(infer_session_create(&session, model, &p, &err), "a trace", "INFER_NO_DESCRIBE");
    }
#endif
#ifdef INFER_NO_JSON
    {
        infer_json *json;
        size_t n;
        want(infer_json_parse(&json, "1", 1, NULL, &err), "JSON", "INFER_NO_JSON");
        if (infer_json_quote("a", 1, NULL, 0, &n) != INFER_ERR_UNSUPPORTED) printf("a text was quoted\n"), bad++;
        if (infer_json_write(NULL, 0, NULL, 0, &n) != INFER_ERR_UNSUPPORTED) printf("JSON was written\n"), bad++;
    }
#endif
#ifdef INFER_NO_OFFLOAD
    want(infer_model_offload(model, &err), "offloading", "INFER_NO_OFFLOAD");
    want(infer_model_reload(model, &err), "reloading", "INFER_NO_OFFLOAD");
#endif
#ifdef INFER_NO_ENCODE
    {
        float x[32] = { 0 };
        unsigned char b[18];
        want(infer_type_encode(2, x, NULL, 32, b, &err), "encoders", "INFER_NO_ENCODE");
    }
#endif
#ifdef INFER_NO_MEDIA
    {
        infer_image image;
        infer_sound sound;
        infer_media *media;
        size_t n;
        want(infer_image_decode(&image, "P6 1 1 255 abc", 14, NULL, &err), "a picture", "INFER_NO_MEDIA");
        want(infer_sound_open(&sound, "no-such-file.wav", NULL, &err), "a sound", "INFER_NO_MEDIA");
        want(infer_media_encode(&media, model, &image, 1, NULL, &err), "an encoder of pictures", "INFER_NO_MEDIA");
        want(infer_media_encode_sound(&media, model, &sound, NULL, &err), "an encoder of sound", "INFER_NO_MEDIA");
        want(infer_media_tokens(model, "a", 1, 0, NULL, 0, NULL, 0, &n, &err), "tokens around media", "INFER_NO_MEDIA");
        if (media) printf("something was encoded\n"), bad++;
        infer_image_free(&image);
        infer_sound_free(&sound);
    }
#endif
#ifdef INFER_ONLY_QUANTS
    want(open_type(3), "Q4_1", "INFER_ONLY_QUANTS");
    if (open_type(12)) printf("Q4_K: %s\n", err.message), bad++;
    if (infer_type_name(3) || !infer_type_name(12) || !infer_type_name(8)) printf("the wrong types are listed\n"), bad++;
#endif
#ifdef CUDA_BY
    want_backend(INFER_CUDA, "cuda", CUDA_BY);
#endif
#ifdef INFER_NO_HIP
    want_backend(INFER_HIP, "hip", "INFER_NO_HIP");
#endif
#ifdef INFER_NO_METAL
    want_backend(INFER_METAL, "metal", "INFER_NO_METAL");
#endif
#ifdef INFER_NO_OPENCL
    want_backend(INFER_OPENCL, "opencl", "INFER_NO_OPENCL");
#endif
#ifdef INFER_NO_STDIO
    {
        infer_model *other;
        want(infer_model_open(&other, "no-such-file.gguf", &HOST, &err), "a path", "INFER_NO_STDIO");
    }
#endif
#ifdef INFER_NO_CHAT
    {
        infer_template *template;
        infer_chat_params p;
        infer_grammar *calls;
        size_t n;
        memset(&p, 0, sizeof p);
        p.messages_json = "[]";
        want(infer_template_create(&template, "", 0, NULL, &err), "a template", "INFER_NO_CHAT");
        want(infer_chat_format(model, &p, NULL, 0, &n, &err), "a conversation", "INFER_NO_CHAT");
        want(infer_chat_grammar(&calls, model, &p, NULL, &err), "the grammar of calls", "INFER_NO_CHAT");
    }
#endif
#ifdef INFER_NO_GRAMMAR
    {
        infer_grammar_params p;
        infer_grammar *grammar;
        infer_sampler *sampler;
        infer_stage stage;
        memset(&p, 0, sizeof p);
        memset(&stage, 0, sizeof stage);
        p.json = 1;
        stage.kind = INFER_STAGE_GRAMMAR;
        stage.grammar = (infer_grammar *)&p; /* there is none to have */
        want(infer_grammar_create(&grammar, model, &p, &err), "a grammar", "INFER_NO_GRAMMAR");
#  ifndef INFER_NO_CHAT
        want(infer_chat_grammar(&grammar, model, NULL, NULL, &err), "the grammar of calls", "INFER_NO_GRAMMAR");
#  endif
        want(infer_grammar_check(stage.grammar, "", 0, NULL, NULL, &err), "a text", "INFER_NO_GRAMMAR");
        if (infer_stage_named("grammar")) want(infer_sampler_create(&sampler, model, &stage, 1, 0, &err), "a stage", "INFER_NO_GRAMMAR");
    }
#endif
    (void)model;
}

#ifdef INFER_MINIMAL
/* The file with two more keys of 64 bytes together: one that makes its layers no plain ones, and padding. */
static void other_layers(const uint8_t *data, size_t n, const char *key, uint8_t type, size_t bytes, const char *padding) {
    uint8_t *file = (uint8_t *)calloc(n + 64, 1), *at = file + 24;
    infer_model *model = NULL;
    infer_session *session = NULL;
    if (!file) {
        bad++;
        return;
    }
    memcpy(file, data, 24);
    file[16] = (uint8_t)(file[16] + 2); /* of few keys */
    at = put_text(at, key);
    at[0] = type;
    at[3 + bytes] = bytes == 4 ? 64 : 0; /* 2.0, or false */
    at = put_text(at + 4 + bytes, padding);
    at[0] = 7; /* a bool */
    if (at + 5 != file + 24 + 64) printf("%s: keys of %d bytes\n", key, (int)(at + 5 - file - 24)), bad++;
    memcpy(file + 24 + 64, data + 24, n - 24);
    err.code = INFER_OK;
    if (infer_model_open_memory(&model, file, n + 64, &HOST, &err) == INFER_OK) infer_session_create(&session, model, NULL, &err);
    want(err.code, key, key);
    infer_session_destroy(session);
    infer_model_close(model);
    free(file);
}
#endif

/* What is asked for when a model is opened: some of its layers, all of it in memory, one file of several. */
static void opens(const void *data, size_t n) {
#if defined(INFER_NO_RANGES) || defined(INFER_NO_OFFLOAD)
    infer_model_params p = HOST;
    infer_model *model = NULL;
    infer_session *session = NULL;
#endif
#ifdef INFER_NO_RANGES
    p.layers = 1; /* it opens, as all files do, and computes nothing */
    if (infer_model_open_memory(&model, data, n, &p, &err) == INFER_OK) infer_session_create(&session, model, NULL, &err);
    want(err.code, "some layers", "INFER_NO_RANGES");
    infer_session_destroy(session);
    infer_model_close(model);
    p.layers = 0;
    p.part = 1;
    p.parts = 2;
    session = NULL;
    if (infer_model_open_memory(&model, data, n, &p, &err) == INFER_OK) infer_session_create(&session, model, NULL, &err);
    want(err.code, "a part", "INFER_NO_RANGES");
    infer_session_destroy(session);
    infer_model_close(model);
    p.part = p.parts = 0;
#endif
#ifdef INFER_NO_OFFLOAD
    p.preload = 1;
    want(infer_model_open_memory(&model, data, n, &p, &err), "preloading", "INFER_NO_OFFLOAD");
#endif
#ifdef INFER_NO_SPLIT
    {
        infer_io io[2];
        infer_model *other;
        memset(io, 0, sizeof io);
        io[0].size = io[1].size = n;
        io[0].mapped = io[1].mapped = data;
        want(infer_model_open_io(&other, io, 2, &HOST, &err), "two files", "INFER_NO_SPLIT");
    }
#endif
#ifdef INFER_MINIMAL
    other_layers((const uint8_t *)data, n, "llama.attention.causal", 7, 1, "general.padding.");
    other_layers((const uint8_t *)data, n, "llama.attention.clamp_kqv", 6, 4, "general.pa");
#endif
    (void)data;
    (void)n;
}

static char story[4096];
static size_t story_len;

static int show(void *user, const char *text, size_t n) {
    (void)user;
    if (n > sizeof story - 1 - story_len) return 1;
    memcpy(story + story_len, text, n);
    story_len += n;
    return 0;
}

static void *read_file(const char *path, size_t *n) {
    const size_t cap = 4 << 20;
    FILE *f = fopen(path, "rb");
    char *data = (char *)malloc(cap);
    *n = f && data ? fread(data, 1, cap, f) : 0;
    if (f) fclose(f);
    if (*n > 0 && *n < cap) return data;
    printf("%s: no such file, or a larger one\n", path);
    free(data);
    bad++;
    return NULL;
}

/* PATH.gguf computes PATH.logits: what its layers read is not left out. */
static void recorded(const char *path) {
    char name[1024];
    size_t n = 0, size = 0;
    int32_t head[2] = { 0, 0 }, i, k;
    infer_model *model = NULL;
    infer_session *session = NULL;
    double error = 0, all = 0;
    void *data, *logits;
    snprintf(name, sizeof name, "%s.gguf", path);
    data = read_file(name, &n);
    snprintf(name, sizeof name, "%s.logits", path);
    logits = read_file(name, &size);
    if (size >= sizeof head) memcpy(head, logits, sizeof head);
    if (data && size == sizeof head + (size_t)head[0] * 4 * (1 + (size_t)head[1])) {
        const int32_t *ids = (const int32_t *)logits + 2;
        const float *want_row = (const float *)(ids + head[0]);
        err.code = INFER_OK;
        if (infer_model_open_memory(&model, data, n, &HOST, &err) == INFER_OK) infer_session_create(&session, model, NULL, &err);
        for (k = 0; session && k < head[0]; k++, want_row += head[1]) {
            const float *row = infer_session_eval(session, ids + k, 1) == INFER_OK ? infer_session_logits(session, -1) : NULL;
            for (i = 0; row && i < head[1]; i++) {
                error += ((double)row[i] - want_row[i]) * ((double)row[i] - want_row[i]);
                all += (double)want_row[i] * want_row[i];
            }
            if (!row) err = *infer_session_error(session), error = 1;
        }
    }
    if (!(error < 2e-6 * all)) printf("%s: nmse %g, \"%s\"\n", path, error / all, err.message), bad++; /* as tests/test_arch.c */
    infer_session_destroy(session);
    infer_model_close(model);
    free(data);
    free(logits);
}

int main(int argc, char **argv) {
    static const char begins[] = ", there was a little girl named Lily";
    infer_generate_params params;
    infer_session *session;
    infer_model *model;
    size_t n;
    int i;
    char *data = (char *)read_file(argc > 1 ? argv[1] : "", &n);
    if (!data) return 2;
#ifdef INFER_NO_MALLOC
    want(infer_model_open_memory(&model, data, n, NULL, &err), "memory", "INFER_NO_MALLOC");
#endif
    if (infer_model_open_memory(&model, data, n, &HOST, &err)) {
        printf("%s\n", err.message);
        return 1;
    }
    left_out(model);
    opens(data, n);
    memset(&params, 0, sizeof params);
    params.max_tokens = 24;
    params.text = show;
    if (infer_session_create(&session, model, NULL, &err) || infer_generate(session, NULL, "Once upon a time", &params, NULL)) bad++;
    if (strncmp(story, begins, sizeof begins - 1) != 0) printf("the story goes on \"%s\"\n", story), bad++;
    infer_session_destroy(session);
    infer_model_close(model);
    free(data);
    for (i = 2; i < argc; i++) recorded(argv[i]);
    return bad != 0;
}
