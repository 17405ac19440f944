/* test_fill.c: infer_session_fill: which masks a step fills, with what, and what is refused. The recorded model of masked
 * tokens gets a mask token, and a key that says whether logits are of the next position. */

enum { FILL_MASK = 127, FILL_N = 10, FILL_PROMPT = 3, FILL_VOCAB = 128, FILL_ALL = FILL_PROMPT + FILL_N };
static const infer_token fill_prompt[FILL_PROMPT] = { 5, 90, 17 };

typedef struct fill_model { infer_model *m; char *file; size_t size; } fill_model;
static fill_model fill_open(int shift, int mask) {
    fill_model f;
    infer_error e;
    gguf_writer w;
    size_t n = 0;
    char *data = check_read(check_data("archs/dream-dense.gguf"), &n);
    memset(&f, 0, sizeof f);
    gw_init(&w);
    if (mask) gw_int(&w, "tokenizer.ggml.mask_token_id", GW_U32, FILL_MASK);
    gw_int(&w, "diffusion.shift_logits", GW_BOOL, shift);
    if (data) f.file = keys_file(data, n, &w, NULL, &f.size);
    if (!f.file || infer_model_open_memory(&f.m, f.file, f.size, NULL, &e)) check_note(__FILE__, __LINE__, "no model");
    free(data);
    return f;
}
static void fill_close(fill_model *f) {
    CHECK(infer_model_close(f->m) == INFER_OK);
    free(f->file);
}
static infer_session *fill_session(infer_model *m, int32_t batch) {
    infer_session_params p;
    infer_session *s = NULL;
    infer_error e;
    memset(&p, 0, sizeof p);
    p.context = 64;
    p.own.threads = 1;
    p.own.batch = batch;
    p.own.kv_type = INFER_KV_F32;
    if (infer_session_create(&s, m, &p, &e)) check_note(__FILE__, __LINE__, e.message);
    return s;
}

typedef struct fill_seen { infer_token last[FILL_N]; int32_t steps, stop, open[FILL_N + 1]; int bad; int32_t block; } fill_seen;
/* Every step fills masks of the first block that has some, and changes nothing else. */
static int fill_step(void *user, const infer_token *tokens, int32_t n, int32_t open) {
    fill_seen *f = (fill_seen *)user;
    int32_t i, first = 0, masks = 0;
    while (first < n && f->last[first] != FILL_MASK) first++;
    for (i = 0; i < n; i++) {
        masks += tokens[i] == FILL_MASK;
        f->bad |= f->last[i] != tokens[i] && (f->last[i] != FILL_MASK || i / f->block != first / f->block);
        f->last[i] = tokens[i];
    }
    f->bad |= masks != open;
    if (f->steps < FILL_N) f->open[f->steps] = open;
    f->steps++;
    return f->steps == f->stop;
}

static void test_fill_schedule(void) {
    static const struct { int32_t steps, block, want, open[FILL_N]; } cases[] = {
        { 0, 0, 10, { 9, 8, 7, 6, 5, 4, 3, 2, 1, 0 } }, { 4, 0, 4, { 7, 4, 2, 0 } }, { 1, 0, 1, { 0 } },
        { 99, 0, 10, { 9, 8, 7, 6, 5, 4, 3, 2, 1, 0 } }, { 5, 4, 5, { 8, 6, 4, 2, 0 } }, { 2, 4, 3, { 6, 2, 0 } },
        { 3, 99, 3, { 6, 3, 0 } }, { 0, 1, 10, { 9, 8, 7, 6, 5, 4, 3, 2, 1, 0 } } };
    fill_model f = fill_open(1, 1);
    infer_session *s = f.m ? fill_session(f.m, 0) : NULL;
    infer_fill_params p;
    size_t k;
    int32_t order, i;
    for (k = 0; s && k < sizeof cases / sizeof *cases; k++)
        for (order = INFER_FILL_CONFIDENCE; order <= INFER_FILL_LEFT; order += check_every(4)) {
            infer_token out[FILL_N], again[FILL_N];
            fill_seen seen;
            memset(&p, 0, sizeof p);
            memset(&seen, 0, sizeof seen);
            for (i = 0; i < FILL_N; i++) seen.last[i] = FILL_MASK;
            p.n = FILL_N;
            p.steps = cases[k].steps;
            p.block = cases[k].block;
            p.order = order;
            p.seed = 7;
            CHECK(infer_session_fill(s, NULL, fill_prompt, FILL_PROMPT, &p, again) == INFER_OK);
            p.step = fill_step;
            p.user = &seen;
            seen.block = p.block > 0 ? p.block : FILL_N;
            CHECK(infer_session_fill(s, NULL, fill_prompt, FILL_PROMPT, &p, out) == INFER_OK);
            CHECK(memcmp(out, again, sizeof out) == 0 && infer_session_position(s) == 0 && !seen.bad);
            CHECK(seen.steps == cases[k].want && memcmp(seen.open, cases[k].open, (size_t)cases[k].want * 4) == 0);
            for (i = 0; i < FILL_N; i++) CHECK(out[i] != FILL_MASK && out[i] >= 0 && out[i] < FILL_VOCAB && out[i] == seen.last[i]);
        }
    infer_session_destroy(s);
    fill_close(&f);
}

/* Each step takes what a plain evaluation makes the most certain one. */
static void test_fill_choice(void) {
    int shift, order;
    for (shift = 0; shift < 2; shift++) {
        fill_model f = fill_open(shift, 1);
        infer_session *s = f.m ? fill_session(f.m, 0) : NULL;
        infer_fill_params p;
        for (order = INFER_FILL_CONFIDENCE; s && order <= INFER_FILL_LEFT; order++) {
            infer_token out[FILL_N], ids[FILL_ALL];
            int32_t step, i, v;
            if (order == INFER_FILL_RANDOM) continue;
            memset(&p, 0, sizeof p);
            p.n = FILL_N;
            p.order = order;
            CHECK(infer_session_fill(s, NULL, fill_prompt, FILL_PROMPT, &p, out) == INFER_OK);
            for (i = 0; i < FILL_ALL; i++) ids[i] = i < FILL_PROMPT ? fill_prompt[i] : FILL_MASK;
            for (step = 0; step < FILL_N; step++) {
                double best = -1e300;
                int32_t at = -1, token = -1;
                infer_step st;
                memset(&st, 0, sizeof st);
                st.session = s;
                st.tokens = ids;
                st.n = FILL_ALL;
                st.outputs = INFER_OUT_ALL;
                CHECK(infer_eval(s->context, &st, 1, NULL) == INFER_OK);
                for (i = FILL_PROMPT; i < FILL_ALL; i++) {
                    const float *x = infer_session_logits(s, i - shift);
                    double sum = 0, entropy = 0, certain, second = -1e300;
                    int32_t most = 0;
                    if (ids[i] != FILL_MASK || !x) continue;
                    for (v = 1; v < FILL_MASK; v++)
                        if (x[v] > x[most]) most = v;
                    for (v = 0; v < FILL_MASK; v++) {
                        sum += exp((double)x[v] - x[most]);
                        if (v != most && x[v] > second) second = x[v];
                    }
                    for (v = 0; v < FILL_MASK; v++) entropy += exp((double)x[v] - x[most]) / sum * (((double)x[v] - x[most]) - log(sum));
                    certain = order == INFER_FILL_CONFIDENCE ? 1 / sum : order == INFER_FILL_MARGIN ? (1 - exp(second - x[most])) / sum
                              : order == INFER_FILL_ENTROPY ? entropy : -i;
                    if (certain > best + 1e-7) { best = certain; at = i; token = most; }
                }
                CHECK(at >= 0);
                if (at < 0) break;
                ids[at] = token;
                CHECK(infer_session_rewind(s, 0) == INFER_OK);
            }
            check_detail = order == INFER_FILL_CONFIDENCE ? "confidence" : order == INFER_FILL_MARGIN ? "margin" : order == INFER_FILL_ENTROPY ? "entropy" : "left";
            CHECK(memcmp(ids + FILL_PROMPT, out, sizeof out) == 0);
        }
        infer_session_destroy(s);
        fill_close(&f);
    }
}

/* A sampler chooses the tokens; a session that has tokens keeps them. */
static void test_fill_sampled(void) {
    fill_model f = fill_open(1, 1);
    infer_session *s = f.m ? fill_session(f.m, 0) : NULL;
    infer_fill_params p;
    infer_token out[3][FILL_N];
    infer_stage stage;
    infer_error e;
    int i;
    memset(&p, 0, sizeof p);
    memset(&stage, 0, sizeof stage);
    p.n = FILL_N;
    stage.kind = INFER_STAGE_TEMPERATURE;
    stage.p[0] = 1.5f;
    CHECK(s && infer_session_eval(s, fill_prompt, FILL_PROMPT) == INFER_OK);
    for (i = 0; i < 3 && s; i++) {
        infer_sampler *sampler = NULL;
        CHECK(infer_sampler_create(&sampler, f.m, &stage, 1, (uint64_t)(i / 2), &e) == INFER_OK);
        CHECK(infer_session_fill(s, sampler, fill_prompt, FILL_PROMPT, &p, out[i]) == INFER_OK);
        CHECK(infer_session_position(s) == FILL_PROMPT);
        infer_sampler_destroy(sampler);
    }
    CHECK(memcmp(out[0], out[1], sizeof out[0]) == 0 && memcmp(out[0], out[2], sizeof out[0]) != 0);
    infer_session_destroy(s);
    fill_close(&f);
}

static void test_fill_refused(void) {
    fill_model f = fill_open(1, 1), bare = fill_open(1, 0);
    infer_model *causal = NULL;
    infer_session *s = f.m ? fill_session(f.m, 0) : NULL, *small = f.m ? fill_session(f.m, 8) : NULL;
    infer_session *none = bare.m ? fill_session(bare.m, 0) : NULL, *plain;
    infer_fill_params p, bad;
    infer_model_info info;
    infer_token out[FILL_N];
    infer_error e;
    fill_seen seen;
    size_t i;
    static const struct { int32_t n, steps, block, order; const char *says; } wrong[] = {
        { 0, 0, 0, 0, "n is less than 1" }, { -1, 0, 0, 0, "n is less than 1" }, { 4, -1, 0, 0, "steps or block is negative" },
        { 4, 0, -1, 0, "steps or block is negative" }, { 4, 0, 0, -1, "no such order" }, { 4, 0, 0, 5, "no such order" } };
    CHECK(s && small && none && infer_model_open(&causal, check_data("models/stories260K.F32.gguf"), NULL, &e) == INFER_OK);
    if (!s || !small || !none || !causal) return;
    plain = fill_session(causal, 0);
    memset(&p, 0, sizeof p);
    p.n = FILL_N;
    CHECK(infer_session_fill(NULL, NULL, fill_prompt, FILL_PROMPT, &p, out) == INFER_ERR_ARGUMENT);
    CHECK(infer_session_fill(s, NULL, fill_prompt, FILL_PROMPT, NULL, out) == INFER_ERR_ARGUMENT);
    CHECK(infer_session_fill(s, NULL, fill_prompt, FILL_PROMPT, &p, NULL) == INFER_ERR_ARGUMENT);
    CHECK(infer_session_fill(s, NULL, NULL, FILL_PROMPT, &p, out) == INFER_ERR_ARGUMENT);
    CHECK(infer_session_fill(s, NULL, fill_prompt, -1, &p, out) == INFER_ERR_ARGUMENT);
    CHECK(infer_session_fill(s, NULL, NULL, 0, &p, out) == INFER_ERR_ARGUMENT);
    CHECK_HAS(infer_session_error(s)->message, "a token before");
    for (i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        bad = p;
        bad.n = wrong[i].n;
        bad.steps = wrong[i].steps;
        bad.block = wrong[i].block;
        bad.order = wrong[i].order;
        CHECK(infer_session_fill(s, NULL, fill_prompt, FILL_PROMPT, &bad, out) == INFER_ERR_ARGUMENT);
        CHECK_HAS(infer_session_error(s)->message, wrong[i].says);
    }
    CHECK(infer_session_fill(plain, NULL, fill_prompt, FILL_PROMPT, &p, out) == INFER_ERR_UNSUPPORTED);
    CHECK_HAS(infer_session_error(plain)->message, "does not fill in");
    CHECK(infer_session_fill(none, NULL, fill_prompt, FILL_PROMPT, &p, out) == INFER_ERR_UNSUPPORTED);
    CHECK_HAS(infer_session_error(none)->message, "mask_token_id");
    CHECK(infer_session_fill(small, NULL, fill_prompt, FILL_PROMPT, &p, out) == INFER_ERR_ARGUMENT);
    CHECK_HAS(infer_session_error(small)->message, "batch of 8");
    p.n = 62;
    CHECK(infer_session_fill(s, NULL, fill_prompt, FILL_PROMPT, &p, out) == INFER_CONTEXT_FULL);
    p.n = INT32_MAX;
    CHECK(infer_session_fill(s, NULL, fill_prompt, FILL_PROMPT, &p, out) == INFER_CONTEXT_FULL);
    p.n = FILL_N;
    memset(&seen, 0, sizeof seen);
    for (i = 0; i < FILL_N; i++) seen.last[i] = FILL_MASK;
    seen.block = FILL_N;
    seen.stop = 4;
    p.step = fill_step;
    p.user = &seen;
    CHECK(infer_session_fill(s, NULL, fill_prompt, FILL_PROMPT, &p, out) == INFER_CANCELLED);
    CHECK(seen.steps == 4 && memcmp(out, seen.last, sizeof out) == 0 && infer_session_position(s) == 0);
    CHECK(infer_generate(s, NULL, "a", NULL, NULL) == INFER_ERR_UNSUPPORTED);
    CHECK(infer_model_get_info(f.m, &info) == INFER_OK && info.masked == 1);
    CHECK(infer_model_get_info(causal, &info) == INFER_OK && info.masked == 0);
    infer_session_destroy(s);
    infer_session_destroy(small);
    infer_session_destroy(none);
    infer_session_destroy(plain);
    infer_model_close(causal);
    fill_close(&f);
    fill_close(&bare);
}

/* Every allocation fails once. */
static void test_fill_oom(void) {
    fill_model f = fill_open(1, 1);
    infer_model_params mp;
    infer_session_params sp;
    infer_fill_params p;
    infer_token out[FILL_N];
    infer_error e;
    long i;
    int ok = 0;
    memset(&mp, 0, sizeof mp);
    memset(&sp, 0, sizeof sp);
    memset(&p, 0, sizeof p);
    mp.allocator.alloc = check_alloc;
    mp.allocator.free = check_free;
    sp.context = 32;
    sp.own.threads = 1;
    p.n = FILL_N;
    p.steps = 2;
    check_live = 0;
    for (i = 1; i < 4000 && !ok && f.file; i++) {
        infer_model *m = NULL;
        infer_session *s = NULL;
        infer_result r;
        check_fail_at = 0;
        CHECK(infer_model_open_memory(&m, f.file, f.size, &mp, &e) == INFER_OK);
        CHECK(infer_session_create(&s, m, &sp, &e) == INFER_OK);
        check_allocs = 0;
        check_fail_at = i;
        r = infer_session_fill(s, NULL, fill_prompt, FILL_PROMPT, &p, out);
        CHECK(r == INFER_OK || r == INFER_ERR_MEMORY);
        ok = r == INFER_OK && check_allocs < i;
        if (r) CHECK(infer_session_error(s)->message[0] && infer_session_position(s) == 0);
        check_fail_at = 0;
        if (r) CHECK(infer_session_fill(s, NULL, fill_prompt, FILL_PROMPT, &p, out) == INFER_OK);
        infer_session_destroy(s);
        CHECK(infer_model_close(m) == INFER_OK);
        CHECK(check_live == 0);
    }
    CHECK(ok && i > 4);
    fill_close(&f);
}

static void suite_fill(void) {
    RUN(test_fill_schedule);
    RUN(test_fill_choice);
    RUN(test_fill_sampled);
    RUN(test_fill_refused);
    RUN(test_fill_oom);
}
