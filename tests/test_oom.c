/* test_oom.c: every allocation of a whole run fails once: each time a clean error (or success), nothing leaked, and what is
 * left still works. */

/* Open, tokenize, sessions, fork, save, sampler, generate, tensors: everything that allocates. Returns the first error. */
static infer_result oom_scenario(const char *path, int by_read) {
    infer_model_params mp;
    infer_session_params p;
    infer_model *m = NULL;
    infer_context *c = NULL;
    infer_session *s = NULL, *t = NULL, *u = NULL;
    infer_sampler *q = NULL;
    infer_generate_params g;
    infer_error e;
    infer_token ids[64];
    size_t n = 0;
    state_bytes b;
    float row[4096];
    infer_step st;
    infer_result r;
    memset(&mp, 0, sizeof mp);
    memset(&p, 0, sizeof p);
    memset(&g, 0, sizeof g);
    memset(&b, 0, sizeof b);
    memset(&st, 0, sizeof st);
    mp.allocator.alloc = check_alloc;
    mp.allocator.free = check_free;
    mp.no_mmap = by_read;
    r = infer_model_open(&m, path, &mp, &e);
    if (r) { CHECK(m == NULL && e.code == r && e.message[0]); return r; }
    r = infer_tensor_read(m, "token_embd.weight", 0, 1, row, &e);
    if (!r) r = infer_tokenize(m, "Once upon a time", 16, INFER_TEXT_ADD_SPECIAL, ids, 64, &n, &e);
    if (!r) CHECK(n >= 4 && n < 20);
    p.context = 64;
    p.own.threads = 2;
    if (!r) r = infer_session_create(&s, m, &p, &e);
    if (!r) r = infer_session_eval(s, ids, (int32_t)n);
    if (!r) r = infer_session_fork(&t, s, &e);
    if (!r) {
        st.session = t;
        st.tokens = ids;
        st.n = 5;
        st.outputs = INFER_OUT_ALL | INFER_OUT_HIDDEN;
        r = infer_eval(t->context, &st, 1, &e);
        if (r) CHECK(infer_session_position(t) == (int32_t)n);
    }
    if (!r) r = infer_session_save(t, state_write, &b);
    if (!r) r = infer_session_load(s, state_read, &b);
    if (!r) r = infer_context_create(&c, m, &p.own, &e);
    if (!r) r = infer_session_create_in(&u, c, NULL, &e);
    if (!r) r = infer_sampler_create(&q, m, NULL, 0, 1, &e);
    g.max_tokens = 4;
    if (!r) r = infer_generate(u, q, "Once", &g, NULL);
    infer_sampler_destroy(q);
    infer_session_destroy(u);
    CHECK(infer_context_destroy(c) == INFER_OK);
    infer_session_destroy(t);
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK);
    free(b.p);
    return r;
}

static void oom_run(const char *path, int by_read) {
    long total, i;
    check_detail = path;
    check_fail_at = 0;
    check_allocs = check_live = 0;
    CHECK(oom_scenario(path, by_read) == INFER_OK);
    CHECK(check_live == 0);
    total = check_allocs;
    CHECK(total > 20);
    for (i = 1; i <= total && check_bad < 5; i++) {
        infer_result r;
        check_allocs = check_live = 0;
        check_fail_at = i;
        r = oom_scenario(path, by_read);
        CHECK(r == INFER_ERR_MEMORY || r == INFER_OK);
        CHECK(check_live == 0);
        if (check_bad) fprintf(stderr, "allocation %ld of %ld\n", i, total);
    }
    check_fail_at = 0;
}

static void test_oom_mapped(void) { oom_run(check_data("models/stories260K.F32.gguf"), 0); }
static void test_oom_read(void) { oom_run(check_data("models/TinyStories-656K.Q8_0.gguf"), 1); }

/* Every limit from nothing to enough: an error that says so, or a run. */
static void test_oom_max_memory(void) {
    const char *path = check_data("models/stories260K.F32.gguf");
    infer_model_params mp;
    infer_session_params p;
    infer_model *m = NULL;
    infer_memory need;
    infer_error e;
    uint64_t limit, all;
    int refused = 0, ran = 0;
    memset(&mp, 0, sizeof mp);
    memset(&p, 0, sizeof p);
    p.context = p.own.cells = 64;
    p.own.threads = 1;
    CHECK(infer_model_memory_path(path, NULL, &p.own, &need, &e) == INFER_OK);
    all = need.weights + need.cache + need.scratch;
    for (limit = 1000; limit < 2 * all; limit += all / 40) {
        infer_session *s = NULL;
        infer_token id = 1;
        infer_result r;
        mp.max_memory = limit;
        r = infer_model_open(&m, path, &mp, &e);
        if (!r) r = infer_session_create(&s, m, &p, &e);
        if (!r) r = infer_session_eval(s, &id, 1);
        CHECK(r == INFER_OK || r == INFER_ERR_MEMORY);
        if (r) { refused++; CHECK(limit < all); CHECK(e.message[0]); }
        else ran++;
        infer_session_destroy(s);
        CHECK(infer_model_close(m) == INFER_OK);
        m = NULL;
    }
    CHECK(refused > 3 && ran > 3);
}

static void suite_oom(void) {
    RUN(test_oom_mapped);
    RUN(test_oom_read);
    RUN(test_oom_max_memory);
}
