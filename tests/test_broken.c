/* test_broken.c: damaged files: cut at every byte of the header and at 200 places of the data, random header bytes flipped,
 * short reads. Each time a clean error, or a correct run of what is still there. */

static infer_result broken_try(const char *data, size_t n) {
    infer_model *m = NULL;
    infer_session *s = NULL;
    infer_session_params p;
    infer_model_params mp;
    infer_error e;
    infer_token ids[3] = { 0, 1, 2 };
    infer_result r;
    memset(&mp, 0, sizeof mp);
    memset(&p, 0, sizeof p);
    mp.allow_default_pre = 1;
    mp.max_memory = 256u << 20; /* an absurd shape must not take the machine down */
    r = infer_model_open_memory(&m, data, n, &mp, &e);
    if (r) {
        CHECK(m == NULL && e.code == r && e.message[0]);
        return r;
    }
    p.context = 8;
    p.own.threads = 1;
    r = infer_session_create(&s, m, &p, &e);
    if (r) CHECK(s == NULL && e.code == r && e.message[0]);
    else if ((r = infer_session_eval(s, ids, 3)) != INFER_OK) CHECK(infer_session_error(s)->message[0]);
    else CHECK(infer_session_logits(s, -1) != NULL);
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK);
    return r;
}

/* A copy of exactly n bytes: reading past it is an ASan error. */
static char *broken_copy(const char *data, size_t n) {
    char *p = (char *)malloc(n ? n : 1);
    if (p) memcpy(p, data, n);
    return p;
}

static size_t broken_header(const char *data, size_t n) {
    infer_model *m = NULL;
    infer_tensor_info t;
    size_t first = n;
    int32_t i;
    if (infer_model_open_memory(&m, data, n, NULL, NULL)) return 0;
    for (i = 0; i < infer_tensor_count(m); i++)
        if (infer_tensor_get(m, i, &t) == INFER_OK && t.offset < first) first = (size_t)t.offset;
    infer_model_close(m);
    return first;
}

static void test_broken_cut(void) {
    static const char *const files[] = { "models/gpt-nano-sort.F32.gguf", "archs/llama-dense.gguf" };
    size_t f, n = 0, header, i;
    for (f = 0; f < 2; f++) {
        char *data = check_read(check_data(files[f]), &n), *copy;
        int errors = 0, runs = 0;
        check_detail = files[f];
        CHECK(data != NULL);
        if (!data) return;
        header = broken_header(data, n);
        CHECK(header > 100 && header < n);
        for (i = 0; i < header + 200; i++) {
            size_t at = i < header ? i : header + (n - header) * (i - header) / 200;
            copy = broken_copy(data, at);
            if (!copy) break;
            if (broken_try(copy, at)) errors++;
            else runs++;
            free(copy);
        }
        CHECK(errors > 0 && (size_t)errors >= header);
        copy = broken_copy(data, n);
        CHECK(copy && broken_try(copy, n) == INFER_OK);
        free(copy);
        free(data);
    }
}

static void test_broken_flips(void) {
    static const char *const files[] = { "models/gpt-nano-sort.F32.gguf", "archs/gemma3-real-dense.gguf",
                                         "models/stories260K.F32.gguf" };
    size_t f, n = 0, header;
    uint32_t seed = 12345;
    int i, j, counts[2] = { 0, 0 };
    for (f = 0; f < 3; f++) {
        char *data = check_read(check_data(files[f]), &n), *copy;
        check_detail = files[f];
        if (!data) { CHECK(0); return; }
        header = broken_header(data, n);
        copy = broken_copy(data, n);
        for (i = 0; copy && header && i < 3400; i += check_every(8)) {
            for (j = 0; j <= i % 3; j++) {
                seed = seed * 1664525u + 1013904223u;
                copy[(seed >> 3) % header] = (char)(seed >> 24);
            }
            counts[broken_try(copy, n) == INFER_OK]++;
            memcpy(copy, data, header);
        }
        free(copy);
        free(data);
    }
    CHECK(counts[0] > 1000 / check_every(8) && counts[1] > 100 / check_every(8));
}

/* Callbacks that read too little, at every call. */
typedef struct broken_io { const char *data; size_t n; long calls, fail_at; } broken_io;
static size_t broken_read(void *user, uint64_t offset, void *dst, size_t n) {
    broken_io *b = (broken_io *)user;
    if (++b->calls == b->fail_at) return n / 2;
    if (offset > b->n || n > b->n - offset) return 0;
    memcpy(dst, b->data + offset, n);
    return n;
}
static void test_broken_reads(void) {
    size_t n = 0;
    char *data = check_read(check_data("archs/llama-dense.gguf"), &n);
    broken_io b;
    long total = 1, i;
    CHECK(data != NULL);
    memset(&b, 0, sizeof b);
    b.data = data;
    b.n = n;
    for (i = 0; data && i <= total && check_bad < 5; i++) {
        infer_io io;
        infer_model *m = NULL;
        infer_error e;
        infer_result r;
        memset(&io, 0, sizeof io);
        io.user = &b;
        io.read = broken_read;
        io.size = n;
        b.calls = 0;
        b.fail_at = i;
        r = infer_model_open_io(&m, &io, 1, NULL, &e);
        if (i == 0) {
            CHECK(r == INFER_OK);
            total = b.calls;
        } else {
            CHECK(r == INFER_ERR_IO && m == NULL);
            CHECK(e.message[0]);
        }
        CHECK(infer_model_close(m) == INFER_OK);
    }
    CHECK(total > 3);
    free(data);
}

static void suite_broken(void) {
    RUN(test_broken_cut);
    RUN(test_broken_flips);
    RUN(test_broken_reads);
}
