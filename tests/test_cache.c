/* test_cache.c: pages: threads and batches do not change bits, windows give memory back, rewinding past the window
 * computes again, forks do not see each other, everything is returned. */

static infer_model *cache_model(const char *name) {
    infer_model *m = NULL;
    infer_error e;
    char file[128];
    snprintf(file, sizeof file, "archs/%s.gguf", name);
    check_detail = name;
    if (infer_model_open(&m, check_data(file), NULL, &e)) check_note(__FILE__, __LINE__, e.message);
    return m;
}

static infer_session *cache_session(infer_model *m, int32_t threads, int32_t batch, int32_t context, int32_t keep,
                                    int32_t kv_type) {
    infer_session_params p;
    infer_session *s = NULL;
    infer_error e;
    memset(&p, 0, sizeof p);
    p.context = context;
    p.own.threads = threads;
    p.own.batch = batch;
    p.own.keep = keep;
    p.own.kv_type = kv_type;
    if (infer_session_create(&s, m, &p, &e)) check_note(__FILE__, __LINE__, e.message);
    return s;
}

static void cache_ids(infer_token *ids, int32_t n, uint32_t seed, int32_t vocab) {
    int32_t i;
    for (i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        ids[i] = (infer_token)((seed >> 8) % (uint32_t)vocab);
    }
}

static int cache_free_pages(const infer_session *s) {
    return s->context->cache.groups[0].n_free + s->context->cache.groups[1].n_free;
}

/* Logits after the prompt and after each of `more` further tokens, appended to out. */
static void cache_follow(infer_session *s, const infer_token *ids, int32_t prompt, int32_t more, float *out) {
    int32_t i, v = s->context->model->hp.n_vocab;
    CHECK(infer_session_eval(s, ids, prompt) == INFER_OK);
    for (i = 0; i <= more && !check_bad; i++) {
        memcpy(out + (size_t)i * (size_t)v, infer_session_logits(s, -1), (size_t)v * sizeof(float));
        if (i < more) CHECK(infer_session_eval(s, ids + prompt + i, 1) == INFER_OK);
    }
}

static void test_cache_threads(void) {
    static const char *const files[] = { "gemma3-real-dense", "llama-mixtral-moe", "mpt-plain-dense", "granite-moe",
                                         "gpt-oss-moe", "glm4moe-nextn-moe", "smallthinker-moe", "arctic-moe" };
    static const int32_t threads[] = { 1, 2, 3, 8 }, batches[] = { 512, 1, 7, 33 };
    infer_token ids[160];
    float *first, *next;
    size_t f, i;
    first = (float *)calloc(128 * 32, sizeof(float));
    next = (float *)calloc(128 * 32, sizeof(float));
    cache_ids(ids, 160, 7, 128);
    for (f = 0; f < sizeof files / sizeof *files; f++) {
        infer_model *m = cache_model(files[f]);
        for (i = 0; m && i < 4; i++) {
            infer_session *s = cache_session(m, threads[i], batches[i], 200, 0, INFER_KV_F16);
            if (!s) break;
            cache_follow(s, ids, 150, 9, i ? next : first);
            if (i) CHECK(memcmp(first, next, 128 * 10 * sizeof(float)) == 0);
            infer_session_destroy(s);
        }
        CHECK(infer_model_close(m) == INFER_OK);
    }
    free(first);
    free(next);
}

/* The host's parallel_for, running tasks last to first. */
static void cache_parallel(void *user, int n, void (*task)(void *arg, int i), void *arg) {
    int i;
    ++*(int *)user;
    for (i = n - 1; i >= 0; i--) task(arg, i);
}
static void test_cache_host_threads(void) {
    infer_model_params p;
    infer_model *a = cache_model("llama-dense"), *b = NULL;
    infer_session *s = NULL, *t = NULL;
    infer_token ids[64];
    float x[128 * 4], y[128 * 4];
    int calls = 0;
    memset(&p, 0, sizeof p);
    p.parallel = cache_parallel;
    p.parallel_user = &calls;
    cache_ids(ids, 64, 3, 128);
    CHECK(infer_model_open(&b, check_data("archs/llama-dense.gguf"), &p, NULL) == INFER_OK);
    if (a && b) {
        s = cache_session(a, 1, 0, 64, 0, 0);
        t = cache_session(b, 5, 0, 64, 0, 0);
    }
    if (s && t) {
        cache_follow(s, ids, 50, 3, x);
        cache_follow(t, ids, 50, 3, y);
        CHECK(memcmp(x, y, sizeof x) == 0);
        CHECK(calls > 0);
    }
    infer_session_destroy(s);
    infer_session_destroy(t);
    CHECK(infer_model_close(a) == INFER_OK);
    CHECK(infer_model_close(b) == INFER_OK);
}

/* A window layer holds a bounded number of pages; a rewind within `keep` is free, one behind it computes again. */
static void test_cache_window(void) {
    infer_model *m = cache_model("gemma3-real-dense");
    infer_session *s = m ? cache_session(m, 2, 16, 600, 32, INFER_KV_F32) : NULL;
    infer_session *t = m ? cache_session(m, 1, 600, 600, 600, INFER_KV_F32) : NULL;
    infer_token ids[600];
    infer_stats st;
    float a[128], b[128];
    if (!s || !t) goto done;
    cache_ids(ids, 600, 11, 128);
    CHECK(s->context->cache.groups[1].n_pages < s->context->cache.groups[0].n_pages);
    CHECK(infer_session_eval(s, ids, 500) == INFER_OK);
    CHECK(s->first_page[1] > 0);
    CHECK(infer_session_rewind(s, 480) == INFER_OK); /* within keep */
    CHECK(infer_session_position(s) == 480);
    CHECK(infer_session_eval(s, ids + 480, 20) == INFER_OK);
    CHECK(infer_session_stats(s, &st) == INFER_OK && st.reevaluated == 0);
    memcpy(a, infer_session_logits(s, -1), sizeof a);
    CHECK(infer_session_eval(t, ids, 500) == INFER_OK);
    CHECK(memcmp(a, infer_session_logits(t, -1), sizeof a) == 0);
    CHECK(infer_session_rewind(s, 200) == INFER_OK); /* far behind */
    CHECK(infer_session_position(s) == 200);
    CHECK(infer_session_eval(s, ids + 300, 3) == INFER_OK);
    CHECK(infer_session_stats(s, &st) == INFER_OK && st.reevaluated == 200);
    memcpy(a, infer_session_logits(s, -1), sizeof a);
    CHECK(infer_session_rewind(t, 200) == INFER_OK);
    CHECK(infer_session_eval(t, ids + 300, 3) == INFER_OK);
    memcpy(b, infer_session_logits(t, -1), sizeof b);
    CHECK(memcmp(a, b, sizeof a) == 0);
    CHECK(infer_session_stats(t, &st) == INFER_OK && st.reevaluated == 0);
done:
    infer_session_destroy(s);
    infer_session_destroy(t);
    CHECK(infer_model_close(m) == INFER_OK);
}

/* Forks share pages, write separately, and free everything. */
static void test_cache_fork(void) {
    static const char *const files[] = { "gemma3-real-dense", "llama-dense", "llama-dense", "gemma3-real-dense" };
    static const int32_t types[] = { INFER_KV_F16, INFER_KV_F32, INFER_KV_Q8_0, INFER_KV_Q4_0 };
    infer_token ids[120];
    size_t f;
    cache_ids(ids, 120, 5, 128);
    for (f = 0; f < 4; f++) {
        infer_model *m = cache_model(files[f]);
        infer_session *s = m ? cache_session(m, 2, 0, 256, 0, types[f]) : NULL, *t = NULL, *u = NULL;
        float a[128], b[128], c[128];
        int all;
        if (!s) { CHECK(infer_model_close(m) == INFER_OK); continue; }
        all = cache_free_pages(s);
        CHECK(infer_session_eval(s, ids, 41) == INFER_OK);
        CHECK(infer_session_fork(&t, s, NULL) == INFER_OK);
        if (t) {
            CHECK(infer_session_position(t) == 41);
            CHECK(cache_free_pages(s) == all - (int)(3 * (f % 3 == 0 ? 2 : 1))); /* nothing copied yet */
            CHECK(infer_session_eval(t, ids + 60, 20) == INFER_OK);         /* t goes its own way */
            CHECK(infer_session_eval(s, ids + 41, 20) == INFER_OK);
            memcpy(a, infer_session_logits(s, -1), sizeof a);
            memcpy(b, infer_session_logits(t, -1), sizeof b);
            CHECK(memcmp(a, b, sizeof a) != 0);
            CHECK(infer_session_fork(&u, t, NULL) == INFER_OK);
            infer_session_destroy(t);
        }
        u = u ? u : s;
        CHECK(infer_session_rewind(s, 0) == INFER_OK);
        CHECK(infer_session_eval(s, ids, 61) == INFER_OK);
        memcpy(c, infer_session_logits(s, -1), sizeof c);
        CHECK(memcmp(a, c, sizeof a) == 0);
        CHECK(infer_session_rewind(s, 41) == INFER_OK);
        CHECK(infer_session_eval(s, ids + 60, 20) == INFER_OK);
        CHECK(memcmp(b, infer_session_logits(s, -1), sizeof b) == 0);
        if (u != s) infer_session_destroy(u);
        CHECK(infer_session_rewind(s, 0) == INFER_OK);
        CHECK(cache_free_pages(s) == all);
        infer_session_destroy(s);
        CHECK(infer_model_close(m) == INFER_OK);
    }
}

/* A shared context: more sessions than fit fail whole, and the others go on. */
static void test_cache_full(void) {
    infer_model *m = cache_model("llama-dense");
    infer_context *c = NULL;
    infer_context_params cp;
    infer_session *s[3] = { NULL, NULL, NULL };
    infer_error e;
    infer_step st[3];
    infer_token ids[64];
    int i, before;
    memset(&cp, 0, sizeof cp);
    memset(st, 0, sizeof st);
    cp.cells = 64;
    cp.batch = 24;
    cache_ids(ids, 64, 9, 128);
    if (!m) return;
    CHECK(infer_context_create(&c, m, &cp, &e) == INFER_OK);
    for (i = 0; c && i < 3; i++) {
        CHECK(infer_session_create_in(&s[i], c, NULL, &e) == INFER_OK);
        st[i].session = s[i];
        st[i].tokens = ids;
        st[i].n = 17; /* two pages each: six of four */
        st[i].outputs = INFER_OUT_LAST;
    }
    if (!s[2]) goto done;
    before = c->cache.groups[0].n_free;
    CHECK(infer_eval(c, st, 3, &e) == INFER_CONTEXT_FULL);
    CHECK_HAS(e.message, "full");
    for (i = 0; i < 3; i++) CHECK(infer_session_position(s[i]) == 0 && infer_session_logits(s[i], -1) == NULL);
    CHECK(c->cache.groups[0].n_free == before);
    CHECK(infer_eval(c, st, 2, &e) == INFER_OK);
    CHECK(memcmp(infer_session_logits(s[0], -1), infer_session_logits(s[1], -1), 128 * sizeof(float)) == 0);
    CHECK(infer_session_eval(s[2], ids, 1) == INFER_CONTEXT_FULL);
    CHECK(infer_session_error(s[2])->code == INFER_CONTEXT_FULL);
    infer_session_destroy(s[0]);
    s[0] = NULL;
    CHECK(infer_session_eval(s[2], ids, 17) == INFER_OK);
done:
    for (i = 0; i < 3; i++) infer_session_destroy(s[i]);
    CHECK(infer_context_destroy(c) == INFER_OK);
    CHECK(infer_model_close(m) == INFER_OK);
}

/* Seventy sessions in one eval: more than one pass holds. */
static void test_cache_many_sessions(void) {
    infer_model *m = cache_model("qwen2-plain-dense");
    infer_context *c = NULL;
    infer_context_params cp;
    infer_session *s[70];
    infer_step st[70];
    infer_token ids[8];
    int i;
    memset(&cp, 0, sizeof cp);
    memset(st, 0, sizeof st);
    memset(s, 0, sizeof s);
    cp.cells = 70 * 16;
    cp.batch = 100;
    cache_ids(ids, 8, 1, 128);
    if (!m) return;
    CHECK(infer_context_create(&c, m, &cp, NULL) == INFER_OK);
    for (i = 0; c && i < 70; i++) {
        infer_session_params p;
        memset(&p, 0, sizeof p);
        p.context = 16;
        CHECK(infer_session_create_in(&s[i], c, &p, NULL) == INFER_OK);
        st[i].session = s[i];
        st[i].tokens = ids;
        st[i].n = 1 + i % 8;
        st[i].outputs = INFER_OUT_ALL;
    }
    if (c) CHECK(infer_eval(c, st, 70, NULL) == INFER_OK);
    for (i = 0; c && i < 70 && !check_bad; i++) {
        CHECK(infer_session_position(s[i]) == 1 + i % 8);
        CHECK(memcmp(infer_session_logits(s[i], 0), infer_session_logits(s[0], 0), 128 * sizeof(float)) == 0);
    }
    for (i = 0; i < 70; i++) infer_session_destroy(s[i]);
    CHECK(infer_context_destroy(c) == INFER_OK);
    CHECK(infer_model_close(m) == INFER_OK);
}

/* Types of keys and values move the logits by what they round away, and are as independent of threads and batches. */
static void test_cache_kv_types(void) {
    static const double most[] = { 0, 0, 1e-5, 1e-3, 1e-3, 1e-1 };
    infer_model *m = cache_model("llama-dense");
    infer_session *a = m ? cache_session(m, 2, 0, 128, 0, INFER_KV_F32) : NULL;
    infer_token ids[100];
    float x[128 * 4], y[128 * 4];
    double d, before = 0;
    int32_t type;
    cache_ids(ids, 100, 2, 128);
    if (a) cache_follow(a, ids, 97, 3, x);
    for (type = INFER_KV_F16; a && type <= INFER_KV_Q4_0; type++) {
        infer_session *b = cache_session(m, 3, 7, 128, 0, type), *c = cache_session(m, 1, 0, 128, 0, type);
        float z[128 * 4];
        if (!b || !c) break;
        cache_follow(b, ids, 97, 3, y);
        cache_follow(c, ids, 97, 3, z);
        CHECK(memcmp(y, z, sizeof y) == 0);
        d = check_nmse(y, x, 128 * 4);
        CHECK(d > 0 && d < most[type]);
        if (type != INFER_KV_BF16 && type != INFER_KV_Q8_0) CHECK(d > before); /* each coarser than the one before */
        if (type != INFER_KV_BF16) before = d;
        infer_session_destroy(b);
        infer_session_destroy(c);
    }
    infer_session_destroy(a);
    CHECK(infer_model_close(m) == INFER_OK);
}

/* A failed eval of one session does not spoil the copy on write of another. */
static void test_cache_fork_after_error(void) {
    infer_model *m = NULL;
    infer_context *c = NULL;
    infer_session *s = NULL, *t = NULL, *bad = NULL;
    infer_step st;
    infer_error e;
    infer_token ids[20];
    float x[64], want[512];
    int i;
    CHECK(infer_model_open(&m, check_data("models/stories260K.F32.gguf"), NULL, &e) == INFER_OK);
    CHECK(infer_context_create(&c, m, NULL, &e) == INFER_OK);
    if (!c) return;
    CHECK(infer_session_create_in(&s, c, NULL, &e) == INFER_OK);
    CHECK(infer_session_create_in(&bad, c, NULL, &e) == INFER_OK);
    for (i = 0; i < 20; i++) ids[i] = 4 + i * 19;
    CHECK(infer_session_eval(s, ids, 20) == INFER_OK);
    CHECK(infer_session_fork(&t, s, &e) == INFER_OK); /* they share two pages, the second one half full */
    for (i = 0; i < 64; i++) x[i] = 1e30f;
    x[3] *= 1e30f;
    memset(&st, 0, sizeof st);
    st.session = bad;
    st.embeddings = x;
    st.n = 1;
    st.outputs = INFER_OUT_LAST;
    CHECK(infer_eval(c, &st, 1, &e) == INFER_ERR_STATE);
    CHECK(infer_session_eval(t, ids, 1) == INFER_OK); /* copies the second page */
    memcpy(want, infer_session_logits(t, -1), sizeof want);
    CHECK(infer_session_eval(s, ids, 1) == INFER_OK);
    CHECK(memcmp(infer_session_logits(s, -1), want, sizeof want) == 0);
    infer_session_destroy(t);
    infer_session_destroy(s);
    infer_session_destroy(bad);
    CHECK(infer_context_destroy(c) == INFER_OK);
    CHECK(infer_model_close(m) == INFER_OK);
}

static void suite_cache(void) {
    RUN(test_cache_threads);
    RUN(test_cache_host_threads);
    RUN(test_cache_window);
    RUN(test_cache_fork);
    RUN(test_cache_full);
    RUN(test_cache_many_sessions);
    RUN(test_cache_kv_types);
    RUN(test_cache_fork_after_error);
}
