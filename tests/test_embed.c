/* test_embed.c: infer_embed, infer_rerank, infer_classify: recorded vectors, texts beside others, what callers get wrong. */

static const char *const EMBED_FILES[] = {
    "bert-dense", "bert-mean", "bert-rank", "bert-rank1", "bert-rank2", "gemma-embedding-real-dense", "jina-bert-v2-code-dense",
    "jina-bert-v2-dense", "jina-bert-v2-rank", "jina-bert-v3-dense", "llama-embed-dense", "modern-bert-pooled",
    "modern-bert-rank", "nomic-bert-dense", "nomic-bert-moe-moe", "qwen3-embed", "qwen3-rank", "t5-dense", "t5encoder-dense",
    "gemma3-real-dense", "mamba2-dense",
};

static infer_model *embed_open(const char *file) {
    infer_model_params p;
    infer_model *m = NULL;
    infer_error e;
    const char *path;
    memset(&p, 0, sizeof p);
    arch_file = check_detail = file;
    path = arch_path("gguf");
    if (!path) return NULL;
    p.exact = 1;
    p.allocator.alloc = check_alloc;
    p.allocator.free = check_free;
    if (infer_model_open(&m, path, &p, &e)) check_note(__FILE__, __LINE__, e.message);
    return m;
}

static infer_context *embed_context(infer_model *m, int32_t threads, int32_t batch, int32_t cells) {
    infer_context_params p;
    infer_context *c = NULL;
    infer_error e;
    memset(&p, 0, sizeof p);
    p.threads = threads;
    p.batch = batch;
    p.cells = cells;
    if (infer_context_create(&c, m, &p, &e)) check_note(__FILE__, __LINE__, e.message);
    return c;
}

/* The recorded vector of the ids of NAME.embd, by the file's own pooling. */
static void embed_pooled_run(const char *file) {
    infer_model *m = embed_open(file);
    infer_context *c = m ? embed_context(m, 2, 0, 0) : NULL;
    const char *path = c ? arch_path("pooled") : NULL;
    infer_embed_params p;
    infer_error e;
    arch_ref r;
    size_t size = 0;
    char *want = path ? check_read(path, &size) : NULL;
    float out[1024];
    const infer_token *ids[1];
    size_t n_ids[1];
    if (want && arch_ref_open(&r)) {
        memset(&p, 0, sizeof p);
        p.normalize = -1;
        p.ids = ids;
        p.n_ids = n_ids;
        ids[0] = r.ids;
        n_ids[0] = (size_t)r.n;
        CHECK((size_t)infer_embed_width(m, &p) == (size - 8) / 4);
        CHECK(infer_embed(c, NULL, 1, &p, out, &e) == INFER_OK);
        if (!check_bad) {
            float x[1024];
            double nmse;
            char msg[80];
            size_t i;
            for (i = 0; i < (size - 8) / 4; i++) x[i] = infer__load_f32(want + 8 + 4 * i);
            nmse = check_nmse(out, x, (size - 8) / 4);
            if (getenv("CHECK_VERBOSE")) printf("%-28s pooled nmse %.3g\n", file, nmse);
            snprintf(msg, sizeof msg, "pooled: nmse %.3g", nmse);
            if (!(nmse <= ARCH_LIMIT)) check_note(__FILE__, __LINE__, msg);
        }
        free(r.data);
    }
    free(want);
    CHECK(infer_context_destroy(c) == INFER_OK);
    CHECK(infer_model_close(m) == INFER_OK);
}

static void test_embed_pooled(void) {
    size_t i;
    int seen = 0;
    for (i = 0; i < sizeof EMBED_FILES / sizeof *EMBED_FILES; i++) {
        arch_file = EMBED_FILES[i];
        if (!arch_path("pooled")) continue;
        seen++;
        embed_pooled_run(EMBED_FILES[i]);
    }
    if (!seen) SKIP("needs INFER_TEST_DATA");
    CHECK(check_live == 0);
}

/* ---- texts beside others ------------------------------------------------------------------------------------------ */

enum { EMBED_TEXTS = 64 };

typedef struct embed_texts {
    infer_token ids[EMBED_TEXTS][128];
    const infer_token *at[EMBED_TEXTS];
    size_t n[EMBED_TEXTS];
} embed_texts;

/* Lengths from 1 to `most`, the longest ones among them. */
static void embed_texts_make(embed_texts *t, int32_t vocab, int32_t most) {
    uint32_t x = 12345;
    int32_t i, k;
    for (i = 0; i < EMBED_TEXTS; i++) {
        x = x * 1664525u + 1013904223u;
        t->n[i] = i < 4 ? (size_t)(i % 2 ? most : 1) : 1 + (x >> 8) % (uint32_t)(i % 8 ? most / 4 : most);
        t->at[i] = t->ids[i];
        for (k = 0; k < (int32_t)t->n[i]; k++) {
            x = x * 1664525u + 1013904223u;
            t->ids[i][k] = (infer_token)((x >> 8) % (uint32_t)vocab);
        }
    }
}

/* Vectors of texts first .. first + n - 1, in one call. */
static int embed_some(infer_context *c, const embed_texts *t, int32_t first, int32_t n, infer_pooling pooling, float *out) {
    infer_embed_params p;
    infer_error e;
    memset(&p, 0, sizeof p);
    p.ids = t->at + first;
    p.n_ids = t->n + first;
    p.pooling = pooling;
    if (infer_embed(c, NULL, n, &p, out, &e) == INFER_OK) return 1;
    check_note(__FILE__, __LINE__, e.message);
    return 0;
}

/* What is beside a text, threads and passes change no bit of its vector. */
static void test_embed_beside(void) {
    static embed_texts t;
    static const struct { int32_t threads, batch, cells, n; } ways[] = {
        {1, 0, 0, EMBED_TEXTS}, {3, 0, 0, EMBED_TEXTS}, {8, 64, 0, 2}, {2, 200, 400, 17}, {5, 97, 130, 64}};
    size_t i, w;
    const int32_t texts = EMBED_TEXTS / check_every(6);
    int32_t k, width, most;
    int seen = 0;
    for (i = 0; i < sizeof EMBED_FILES / sizeof *EMBED_FILES; i += (size_t)check_every(4)) {
        infer_model *m = embed_open(EMBED_FILES[i]);
        infer_context *c;
        float *alone, *other;
        if (!m) continue;
        seen++;
        most = m->hp.n_ctx < 64 ? m->hp.n_ctx : 64;
        embed_texts_make(&t, m->hp.n_vocab, most);
        width = infer_embed_width(m, NULL);
        alone = (float *)calloc((size_t)width * EMBED_TEXTS, sizeof *alone);
        other = (float *)calloc((size_t)width * EMBED_TEXTS, sizeof *other);
        c = embed_context(m, 1, 0, 0);
        for (k = 0; k < texts && c; k++)
            if (!embed_some(c, &t, k, 1, INFER_POOL_DEFAULT, alone + (size_t)k * (size_t)width)) break;
        CHECK(infer_context_destroy(c) == INFER_OK);
        for (w = 0; w < sizeof ways / sizeof *ways && !check_bad; w++) {
            c = embed_context(m, ways[w].threads, ways[w].batch, ways[w].cells);
            memset(other, 0, (size_t)width * EMBED_TEXTS * sizeof *other);
            for (k = 0; k < texts && c; k += ways[w].n)
                if (!embed_some(c, &t, k, INFER__MIN(ways[w].n, texts - k), INFER_POOL_DEFAULT,
                                other + (size_t)k * (size_t)width))
                    break;
            arch_same(EMBED_FILES[i], other, alone, (size_t)(width * texts));
            CHECK(infer_context_destroy(c) == INFER_OK);
        }
        free(alone);
        free(other);
        CHECK(infer_model_close(m) == INFER_OK);
        if (check_bad) return;
    }
    if (!seen) SKIP("needs INFER_TEST_DATA");
    CHECK(check_live == 0);
}

/* ---- pooling, norms, widths --------------------------------------------------------------------------------------- */

typedef struct embed_seen { float rows[64 * 64]; int32_t n, calls, width; infer_result code[8]; char message[8][508]; } embed_seen;
static int embed_each(void *user, int32_t text, const float *v, int32_t rows, int32_t width, const infer_error *error) {
    embed_seen *s = (embed_seen *)user;
    if (text != s->calls && s->calls < 8) check_note(__FILE__, __LINE__, "texts leave in another order");
    if (text < 8) {
        s->code[text] = error->code;
        snprintf(s->message[text], sizeof s->message[text], "%s", error->message);
    }
    s->calls++;
    s->width = width;
    if (v && s->n + rows * width <= 64 * 64) memcpy(s->rows + s->n, v, (size_t)rows * (size_t)width * sizeof *v);
    s->n += v ? rows * width : 0;
    return 0;
}

static void test_embed_forms(void) {
    infer_model *m = embed_open("bert-rank2");
    infer_context *c = m ? embed_context(m, 1, 0, 0) : NULL;
    infer_token ids[] = {5, 6, 7, 8};
    const infer_token *at[] = {ids};
    size_t n[] = {4};
    infer_embed_params p;
    infer_error e;
    static embed_seen rows;
    float v[64], w[64], sum = 0, length = 0;
    int8_t q[64];
    uint8_t bits[8];
    char name[16];
    size_t len;
    int i, k;
    if (!m) SKIP("needs the file");
    memset(&p, 0, sizeof p);
    memset(&rows, 0, sizeof rows);
    p.ids = at;
    p.n_ids = n;
    p.pooling = INFER_POOL_NONE; /* rows of tokens, from which the others follow */
    p.normalize = -1;
    p.each = embed_each;
    p.user = &rows;
    CHECK(infer_embed(c, NULL, 1, &p, NULL, &e) == INFER_OK && rows.n == 4 * 64 && rows.calls == 1);
    CHECK(infer_embed(c, NULL, 1, &p, v, &e) == INFER_ERR_ARGUMENT); /* how many rows there are is not known before */
    p.each = NULL;
    for (k = INFER_POOL_MEAN; k <= INFER_POOL_LAST; k++) {
        p.pooling = (infer_pooling)k;
        CHECK(infer_embed(c, NULL, 1, &p, v, &e) == INFER_OK);
        for (i = 0; i < 64; i++) {
            const float *x = rows.rows + i;
            const double want = k == INFER_POOL_MEAN    ? ((double)x[0] + x[64] + x[128] + x[192]) / 4
                                : k == INFER_POOL_FIRST ? x[0]
                                                        : x[192];
            CHECK(fabs(v[i] - want) < 1e-6);
        }
    }
    p.normalize = 1;
    CHECK(infer_embed(c, NULL, 1, &p, w, &e) == INFER_OK);
    for (i = 0; i < 64; i++) sum += (float)fabs(w[i]);
    CHECK(fabs(sum - 1) < 1e-5 && fabs(w[3] / v[3] - w[9] / v[9]) < 1e-6);
    p.normalize = 0;
    p.dimensions = 10;
    CHECK(infer_embed_width(m, &p) == 10 && infer_embed(c, NULL, 1, &p, w, &e) == INFER_OK);
    for (i = 0; i < 10; i++) length += w[i] * w[i];
    CHECK(fabs(length - 1) < 1e-5 && fabs(w[3] / v[3] - w[9] / v[9]) < 1e-5); /* cut, then scaled */
    p.dimensions = 65;
    CHECK(infer_embed(c, NULL, 1, &p, w, &e) == INFER_ERR_ARGUMENT);
    p.dimensions = 0;
    p.pooling = INFER_POOL_RANK;
    CHECK(infer_embed_width(m, &p) == 3 && infer_embed(c, NULL, 1, &p, v, &e) == INFER_OK);
    CHECK(infer_classify(c, NULL, 1, &p, w, &e) == INFER_OK);
    for (sum = 0, i = 0; i < 3; i++) sum += (float)exp(v[i]);
    for (i = 0; i < 3; i++) CHECK(fabs(w[i] - exp(v[i]) / sum) < 1e-6);
    CHECK(infer_model_label(m, 2, name, sizeof name, &len) == INFER_OK && strcmp(name, "maybe") == 0 && len == 5);
    CHECK(infer_model_label(m, 3, name, sizeof name, &len) == INFER_ERR_ARGUMENT);
    v[0] = 0.5f;
    v[1] = -0.25f;
    v[2] = 2.0f;
    v[3] = -2.0f;
    for (i = 4; i < 9; i++) v[i] = (float)(i - 6);
    infer_vector_int8(v, 4, q);
    CHECK(q[0] == 64 && q[1] == -32 && q[2] == 127 && q[3] == -127);
    infer_vector_binary(v, 9, bits);
    CHECK(bits[0] == (128 | 32 | 1) && bits[1] == 128);
    CHECK(infer_context_destroy(c) == INFER_OK && infer_model_close(m) == INFER_OK && check_live == 0);
}

/* Each text has a result of its own; the others are not lost. */
static void test_embed_errors(void) {
    infer_model *m = embed_open("bert-mean");
    infer_context *c = m ? embed_context(m, 1, 0, 0) : NULL;
    static infer_token ids[300];
    const infer_token bad = 128, *at[] = {ids, ids, &bad, ids, NULL, ids};
    size_t n[] = {4, 0, 1, 300, 2, 4};
    const char *texts[] = {"a", NULL};
    infer_result results[6];
    infer_embed_params p;
    infer_error e;
    static embed_seen seen;
    float v[6 * 64], w[64];
    int i;
    if (!m) SKIP("needs the file");
    memset(&p, 0, sizeof p);
    memset(&seen, 0, sizeof seen);
    for (i = 0; i < 300; i++) ids[i] = i % 100;
    p.ids = at;
    p.n_ids = n;
    p.results = results;
    p.each = embed_each;
    p.user = &seen;
    CHECK(infer_embed(c, NULL, 6, &p, v, &e) == INFER_OK && seen.calls == 6);
    CHECK(results[0] == INFER_OK && results[1] == INFER_ERR_ARGUMENT && results[2] == INFER_ERR_ARGUMENT);
    CHECK(results[3] == INFER_CONTEXT_FULL && results[4] == INFER_ERR_ARGUMENT && results[5] == INFER_OK);
    CHECK(memcmp(v, v + 5 * 64, 64 * sizeof *v) == 0 && v[64] == 0 && v[3 * 64 + 63] == 0);
    CHECK_HAS(seen.message[1], "text 1 has no tokens");
    CHECK_HAS(seen.message[2], "token 0 is 128, outside 0..127");
    CHECK_HAS(seen.message[3], "text 3 has 300 tokens, more than the 128 that fit: the model has 128 positions");
    p.each = NULL;
    p.results = NULL;
    CHECK(infer_embed(c, NULL, 6, &p, v, &e) == INFER_ERR_ARGUMENT);
    CHECK_HAS(e.message, "text 1 has no tokens");
    p.ids = at + 3;
    p.n_ids = n + 3;
    p.long_texts = INFER_LONG_CUT;
    CHECK(infer_embed(c, NULL, 1, &p, v, &e) == INFER_OK);
    n[3] = 128;
    p.long_texts = INFER_LONG_ERROR;
    CHECK(infer_embed(c, NULL, 1, &p, w, &e) == INFER_OK && memcmp(v, w, sizeof w) == 0); /* its first 128 */
    n[3] = 300;
    p.normalize = -1;
    p.long_texts = INFER_LONG_WINDOWS;
    CHECK(infer_embed(c, NULL, 1, &p, v, &e) == INFER_OK);
    p.long_texts = INFER_LONG_ERROR;
    memset(w, 0, sizeof w);
    for (i = 0; i < 3; i++) { /* 128, 128 and 44 tokens */
        float one[64];
        int k;
        at[3] = ids + 128 * i;
        n[3] = i < 2 ? 128 : 44;
        CHECK(infer_embed(c, NULL, 1, &p, one, &e) == INFER_OK);
        for (k = 0; k < 64; k++) w[k] += one[k] * (float)n[3] / 300;
    }
    for (i = 0; i < 64; i++) CHECK(fabs(v[i] - w[i]) < 1e-5);
    memset(&p, 0, sizeof p);
    CHECK(infer_embed(c, NULL, 1, &p, v, &e) == INFER_ERR_ARGUMENT && infer_embed(c, texts, -1, &p, v, &e) == INFER_ERR_ARGUMENT);
    CHECK(infer_embed(NULL, texts, 1, &p, v, &e) == INFER_ERR_ARGUMENT && infer_embed(c, texts, 1, &p, NULL, &e) == INFER_ERR_ARGUMENT);
    CHECK(infer_embed(c, texts, 0, NULL, NULL, &e) == INFER_OK);
    CHECK(infer_embed(c, texts, 1, NULL, v, &e) == INFER_ERR_UNSUPPORTED); /* there is no vocabulary */
    CHECK(infer_embed(c, texts + 1, 1, NULL, v, &e) == INFER_ERR_ARGUMENT);
    p.pooling = (infer_pooling)9;
    CHECK(infer_embed(c, texts, 1, &p, v, &e) == INFER_ERR_ARGUMENT);
    p.pooling = INFER_POOL_RANK;
    CHECK(infer_embed(c, texts, 1, &p, v, &e) == INFER_ERR_UNSUPPORTED);
    CHECK_HAS(e.message, "no classifier");
    CHECK(infer_rerank(c, "q", texts, 1, NULL, v, &e) == INFER_ERR_UNSUPPORTED);
    CHECK_HAS(e.message, "no classifier");
    CHECK(infer_context_destroy(c) == INFER_OK && infer_model_close(m) == INFER_OK && check_live == 0);
}

/* The n-th allocation fails: an error, nothing lost. */
static void test_embed_memory(void) {
    infer_model *m = embed_open("bert-rank2");
    infer_context *c = m ? embed_context(m, 1, 0, 0) : NULL;
    infer_token ids[] = {5, 6, 7, 8, 9, 10, 11, 12};
    const infer_token *at[] = {ids, ids + 1, ids + 2};
    size_t n[] = {4, 5, 6};
    infer_embed_params p;
    infer_error e;
    float v[3 * 64], w[3 * 64];
    int64_t live;
    int i;
    if (!m) SKIP("needs the file");
    memset(&p, 0, sizeof p);
    p.ids = at;
    p.n_ids = n;
    p.pooling = INFER_POOL_MEAN;
    live = check_live;
    CHECK(infer_embed(c, NULL, 3, &p, w, &e) == INFER_OK && check_live == live);
    for (i = 1; i < 200; i++) {
        infer_result r;
        check_fail_at = check_allocs + i;
        r = infer_embed(c, NULL, 3, &p, v, &e);
        check_fail_at = 0;
        CHECK(check_live == live);
        if (r == INFER_OK) break;
        CHECK(r == INFER_ERR_MEMORY);
    }
    CHECK(i > 5 && i < 200 && memcmp(v, w, sizeof w) == 0);
    CHECK(infer_context_destroy(c) == INFER_OK && infer_model_close(m) == INFER_OK && check_live == 0);
}

/* ---- texts -------------------------------------------------------------------------------------------------------- */

/* A file of archs with a vocabulary of words: special tokens, a to z (ids 5 to 30), yes, no; then tokens of no text. */
static infer_model *embed_words(const char *file, char **data) {
    static const char *const first[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
    static char names[128][16];
    const char *tokens[128];
    int64_t types[128];
    infer_model_params p;
    infer_model *m = NULL;
    infer_error e;
    gguf_writer w;
    size_t n, size;
    char *from;
    int i;
    memset(&p, 0, sizeof p);
    arch_file = check_detail = file;
    from = arch_path("gguf") ? check_read(arch_path("gguf"), &n) : NULL;
    if (!from) return NULL;
    for (i = 0; i < 128; i++) {
        if (i < 5) snprintf(names[i], sizeof names[i], "%s", first[i]);
        else if (i < 31) snprintf(names[i], sizeof names[i], "\xe2\x96\x81%c", 'a' + i - 5);
        else if (i < 33) snprintf(names[i], sizeof names[i], "\xe2\x96\x81%s", i == 31 ? "yes" : "no");
        else snprintf(names[i], sizeof names[i], "<%d>", i);
        tokens[i] = names[i];
        types[i] = i < 5 ? 3 : 1; /* control, normal */
    }
    gw_init(&w);
    gw_str(&w, "tokenizer.ggml.model", "bert");
    gw_strs(&w, "tokenizer.ggml.tokens", tokens, 128);
    gw_ints(&w, "tokenizer.ggml.token_type", GW_I32, types, 128);
    gw_int(&w, "tokenizer.ggml.bos_token_id", GW_U32, 2);
    gw_int(&w, "tokenizer.ggml.seperator_token_id", GW_U32, 3);
    gw_int(&w, "tokenizer.ggml.unknown_token_id", GW_U32, 1);
    gw_int(&w, "tokenizer.ggml.padding_token_id", GW_U32, 0);
    *data = keys_file(from, n, &w, "tokenizer.ggml.model", &size);
    free(from);
    p.exact = 1;
    if (!*data || infer_model_open_memory(&m, *data, size, &p, &e)) check_note(__FILE__, __LINE__, *data ? e.message : "no file");
    return m;
}

/* What the classifier says of ids whose kind is 1 from `second` on: the score of label k. */
static float embed_score(infer_context *c, const infer_token *ids, int32_t n, int32_t second, int k) {
    infer_session_params p;
    infer_session *s = NULL;
    infer_step st;
    infer_error e;
    float out[3] = {0}, *scratch = (float *)calloc(infer__pool_scratch(c->model), sizeof *scratch);
    memset(&p, 0, sizeof p);
    memset(&st, 0, sizeof st);
    CHECK(infer_session_create_in(&s, c, &p, &e) == INFER_OK);
    s->type_from = second;
    st.session = s;
    st.tokens = ids;
    st.n = n;
    st.outputs = INFER_OUT_HIDDEN;
    CHECK(infer_eval(c, &st, 1, &e) == INFER_OK);
    CHECK(infer__pool_text(c->model, INFER_POOL_RANK, s->hidden, n, out, scratch, &e) == INFER_OK);
    infer_session_destroy(s);
    free(scratch);
    return out[k];
}

/* Pairs as BERT's models know them; a prefix is part of the text; of long pairs the document is cut. */
static void test_embed_rerank(void) {
    char *data = NULL;
    infer_model *m = embed_words("bert-rank2", &data);
    infer_context *c = m ? embed_context(m, 1, 0, 0) : NULL;
    static const infer_token pair[] = {2, 5, 6, 3, 7, 3}, other[] = {2, 5, 6, 3, 8, 9, 3};
    static const char *const documents[] = {"c", "d e", "c d"};
    static const size_t lengths[] = {1, 3, 1};
    infer_token many[128];
    const char *one[1];
    static char text[1000];
    infer_embed_params p;
    infer_error e;
    float scores[3], v[64], w[64];
    int i;
    if (!m) SKIP("needs the file");
    memset(&p, 0, sizeof p);
    p.lengths = lengths;
    CHECK(infer_rerank(c, "a b", documents, 3, &p, scores, &e) == INFER_OK);
    CHECK(scores[0] == embed_score(c, pair, 6, 4, 1) && scores[1] == embed_score(c, other, 7, 4, 1)); /* label 1 is "yes" */
    CHECK(scores[0] == scores[2] && scores[0] != embed_score(c, pair, 6, 0, 1)); /* kinds of tokens count */
    memset(&p, 0, sizeof p);
    for (i = 0; i < 300; i++) memcpy(text + 2 * i, "c ", 2);
    one[0] = text;
    CHECK(infer_rerank(c, "a b", one, 1, NULL, scores, &e) == INFER_CONTEXT_FULL);
    CHECK_HAS(e.message, "text 0 has 305 tokens");
    p.long_texts = INFER_LONG_CUT;
    CHECK(infer_rerank(c, "a b", one, 1, &p, scores, &e) == INFER_OK);
    for (i = 0; i < 128; i++) many[i] = i < 4 ? pair[i] : i < 127 ? 7 : 3;
    CHECK(scores[0] == embed_score(c, many, 128, 4, 1));
    memset(&p, 0, sizeof p);
    p.pooling = INFER_POOL_MEAN;
    one[0] = "a b c";
    CHECK(infer_embed(c, one, 1, &p, v, &e) == INFER_OK);
    one[0] = "c";
    p.prefix = "a b ";
    CHECK(infer_embed(c, one, 1, &p, w, &e) == INFER_OK && memcmp(v, w, sizeof v) == 0);
    p.prefix = "b a ";
    CHECK(infer_embed(c, one, 1, &p, w, &e) == INFER_OK && memcmp(v, w, sizeof v) != 0);
    CHECK(infer_context_destroy(c) == INFER_OK && infer_model_close(m) == INFER_OK);
    free(data);
}

/* A model with logits: "yes" against "no", after a prompt whose own text may have marks, the others' not. */
static void test_embed_rerank_prompt(void) {
    char *data = NULL;
    infer_model *m = embed_words("llama-plain-dense", &data);
    infer_context *c = m ? embed_context(m, 1, 0, 0) : NULL;
    static const infer_token ids[] = {2, 10, 5, 6, 11, 7, 3};
    static const char *const documents[] = {"c", "[SEP]"};
    infer_session_params sp;
    infer_session *s = NULL;
    infer_embed_params p;
    infer_error e;
    float scores[2], *x;
    double want;
    if (!m) SKIP("needs the file");
    memset(&p, 0, sizeof p);
    memset(&sp, 0, sizeof sp);
    CHECK(infer_rerank(c, "a b", documents, 1, NULL, scores, &e) == INFER_ERR_UNSUPPORTED); /* no prompt */
    p.pair = "[CLS] f {query} g {document} [SEP]";
    CHECK(infer_rerank(c, "a b", documents, 2, &p, scores, &e) == INFER_OK);
    CHECK(infer_session_create_in(&s, c, &sp, &e) == INFER_OK && infer_session_eval(s, ids, 7) == INFER_OK);
    x = infer_session_logits(s, -1);
    want = 1 / (1 + exp((double)x[32] - x[31]));
    CHECK(fabs(scores[0] - want) < 1e-6 && scores[0] > 0 && scores[0] < 1);
    CHECK(scores[1] != scores[0]);
    infer_session_destroy(s);
    CHECK(infer_context_destroy(c) == INFER_OK && infer_model_close(m) == INFER_OK);
    free(data);
}

/* Texts that callers did not look at: no letter, none that is known, bytes that are no UTF-8, 10 MB, 20,000 at once. */
static void test_embed_odd_texts(void) {
    enum { MB = 10 << 20, DIM = 64 };
    static const infer_token none[] = {2, 3}, unknown[] = {2, 1, 1, 3};
    static const infer_token *const ids[] = {none, none, unknown};
    static const size_t n_ids[] = {2, 2, 4};
    static const char *const odd[] = {"", " \t\r\n", "\xe6\x97\xa5\xe6\x9c\xac", "\xff\xfe\xc3 a"};
    const int32_t many = 20000 / check_every(20);
    char *data = NULL, *big = (char *)malloc(MB);
    infer_model *m = embed_words("bert-mean", &data);
    infer_context *c = m ? embed_context(m, 2, 0, 0) : NULL;
    const char **texts = (const char **)calloc((size_t)many, sizeof *texts);
    float *v = (float *)calloc((size_t)many * DIM, sizeof *v), w[4 * DIM];
    infer_token cut[128];
    const infer_token *first = cut;
    size_t n = 128;
    infer_embed_params p, q;
    infer_error e;
    int32_t i;
    if (!m || !big || !texts || !v) {
        free(big);
        free(texts);
        free(v);
        SKIP("needs the file");
    }
    memset(&p, 0, sizeof p);
    q = p;
    q.ids = ids;
    q.n_ids = n_ids;
    CHECK(infer_embed(c, odd, 3, NULL, v, &e) == INFER_OK && infer_embed(c, NULL, 3, &q, w, &e) == INFER_OK);
    CHECK(memcmp(v, w, 3 * DIM * sizeof *v) == 0);
    CHECK(infer_embed(c, odd + 3, 1, NULL, v, &e) == INFER_OK); /* what is no UTF-8 is read as something, never refused */
    for (i = 0; i < DIM; i++) CHECK(infer__finite(v[i]));
    for (i = 0; i < 2; i++) { /* words of one letter; one word */
        memset(big, 'a', MB - 1);
        big[MB - 1] = 0;
        for (n = 1; i == 0 && n < MB - 1; n += 2) big[n] = ' ';
        texts[0] = big;
        p.long_texts = INFER_LONG_CUT;
        CHECK(infer_embed(c, texts, 1, &p, v, &e) == INFER_OK);
        p.long_texts = INFER_LONG_ERROR;
        CHECK(infer_embed(c, texts, 1, &p, w, &e) == (i ? INFER_OK : INFER_CONTEXT_FULL));
        if (!i) CHECK_HAS(e.message, "text 0 has 5242882 tokens, more than the 128 that fit");
        for (n = 0; n < (i ? 3 : 128); n++) cut[n] = n == 0 ? 2 : i ? 3 - 2 * (n == 1) : n < 127 ? 5 : 3; /* unknown; cut */
        q.ids = &first;
        q.n_ids = &n;
        CHECK(infer_embed(c, NULL, 1, &q, w, &e) == INFER_OK && memcmp(v, w, DIM * sizeof *v) == 0);
    }
    for (i = 0; i < many; i++) texts[i] = i % 3 ? "a" : "b c";
    CHECK(infer_embed(c, texts, many, NULL, v, &e) == INFER_OK);
    for (i = 2; i < many; i++) CHECK(memcmp(v + (int64_t)i * DIM, v + (int64_t)(i % 3) * DIM, DIM * sizeof *v) == 0);
    p.dimensions = DIM + 1;
    CHECK(infer_embed(c, texts, 1, &p, v, &e) == INFER_ERR_ARGUMENT);
    CHECK_HAS(e.message, "64");
    p.dimensions = -1;
    CHECK(infer_embed(c, texts, 1, &p, v, &e) == INFER_ERR_ARGUMENT);
    CHECK(infer_classify(c, texts, 1, NULL, v, &e) == INFER_ERR_UNSUPPORTED);
    CHECK_HAS(e.message, "no classifier");
    CHECK(infer_context_destroy(c) == INFER_OK && infer_model_close(m) == INFER_OK);
    free(data);
    free(big);
    free(texts);
    free(v);
}

/* ---- encoder and decoder ------------------------------------------------------------------------------------------ */

/* A session keeps its source: rewound, forked, saved; without one nothing is decoded. */
static void test_embed_source(void) {
    infer_model *m = embed_open("t5-gated-dense");
    infer_session *s = NULL, *t = NULL;
    infer_session_params p;
    infer_error e;
    infer_token source[] = {9, 8, 7, 6, 5}, ids[] = {3, 4, 5, 6};
    state_bytes b;
    float want[128], other[128];
    if (!m) SKIP("needs the file");
    memset(&p, 0, sizeof p);
    memset(&b, 0, sizeof b);
    p.context = 64;
    p.own.cells = 192;
    CHECK(infer_session_create(&s, m, &p, &e) == INFER_OK);
    CHECK(infer_session_eval(s, ids, 4) == INFER_ERR_STATE);
    CHECK_HAS(infer_session_error(s)->message, "infer_session_encode");
    CHECK(infer_session_encode(s, source, 0) == INFER_ERR_ARGUMENT && infer_session_encode(s, NULL, 1) == INFER_ERR_ARGUMENT);
    CHECK(infer_session_encode(s, source, 5) == INFER_OK && infer_session_eval(s, ids, 4) == INFER_OK);
    memcpy(want, infer_session_logits(s, -1), sizeof want);
    CHECK(infer_session_fork(&t, s, &e) == INFER_OK);
    CHECK(infer_session_save(s, state_write, &b) == INFER_OK);
    source[0] = 1;
    CHECK(infer_session_encode(s, source, 5) == INFER_OK && infer_session_position(s) == 0);
    CHECK(infer_session_eval(s, ids, 4) == INFER_OK && memcmp(want, infer_session_logits(s, -1), sizeof want) != 0);
    CHECK(infer_session_rewind(t, 2) == INFER_OK && infer_session_eval(t, ids + 2, 2) == INFER_OK);
    CHECK(memcmp(want, infer_session_logits(t, -1), sizeof want) == 0); /* its source is the old one */
    CHECK(infer_session_load(s, state_read, &b) == INFER_OK && infer_session_position(s) == 4);
    CHECK(infer_session_rewind(s, 3) == INFER_OK && infer_session_eval(s, ids + 3, 1) == INFER_OK);
    memcpy(other, infer_session_logits(s, -1), sizeof other);
    CHECK(memcmp(want, other, sizeof want) == 0);
    source[1] = 500; /* not there: the session has no source any more */
    CHECK(infer_session_encode(s, source, 5) == INFER_ERR_ARGUMENT && infer_session_eval(s, ids, 1) == INFER_ERR_STATE);
    infer_session_destroy(t);
    infer_session_destroy(s);
    free(b.p);
    CHECK(infer_model_close(m) == INFER_OK && check_live == 0);
}

/* Memory that was there before. */
static void *embed_dirty(void *user, size_t size, size_t align) {
    void *p = check_alloc(NULL, size, align);
    return p ? memset(p, *(const int *)user, size) : NULL;
}

/* What a session saves is its own: nothing of what the memory held that its cache now lies in. */
static void test_embed_source_saved(void) {
    static const infer_token source[] = { 9, 8, 7, 6, 5 }, ids[] = { 3, 4, 5, 6 };
    state_bytes b[2];
    int dirt = 0x5A, i;
    memset(b, 0, sizeof b);
    for (i = 0; i < 2; i++, dirt = 0xA5) {
        infer_model_params mp;
        infer_model *m;
        infer_session *s;
        infer_error e;
        memset(&mp, 0, sizeof mp);
        mp.allocator.alloc = embed_dirty;
        mp.allocator.free = check_free;
        mp.allocator.user = &dirt;
        CHECK(infer_model_open(&m, check_data("archs/t5-gated-dense.gguf"), &mp, &e) == INFER_OK);
        CHECK(infer_session_create(&s, m, NULL, &e) == INFER_OK);
        CHECK(infer_session_encode(s, source, 5) == INFER_OK && infer_session_eval(s, ids, 4) == INFER_OK);
        CHECK(infer_session_save(s, state_write, &b[i]) == INFER_OK);
        infer_session_destroy(s);
        CHECK(infer_model_close(m) == INFER_OK && check_live == 0);
    }
    CHECK(b[0].n == b[1].n && memcmp(b[0].p, b[1].p, b[0].n) == 0);
    free(b[0].p);
    free(b[1].p);
}

static void suite_embed(void) {
    RUN(test_embed_pooled);
    RUN(test_embed_beside);
    RUN(test_embed_forms);
    RUN(test_embed_errors);
    RUN(test_embed_memory);
    RUN(test_embed_rerank);
    RUN(test_embed_rerank_prompt);
    RUN(test_embed_odd_texts);
    RUN(test_embed_source);
    RUN(test_embed_source_saved);
}
