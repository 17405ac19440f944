/* test_sampler_top.c: a choice from the largest logits alone is the choice from all of them: random chains over random
 * logits, with equal ones among them, compared by token, generator, candidates that are left and what stages learned.
 * Comes after test_sampler.c. */

static uint32_t stop_seed;
static uint32_t stop_bits(uint32_t n) { /* 0 .. n - 1 */
    stop_seed = stop_seed * 1664525u + 1013904223u;
    return (stop_seed >> 8) % n;
}
static float stop_unit(void) { return (float)stop_bits(1 << 16) / 65536.0f; }

/* kind: how many logits are equal, and how large they are. */
static void stop_logits(float *x, int32_t n, int kind) {
    int32_t i;
    for (i = 0; i < n; i++) {
        x[i] = 24.0f * stop_unit() - 12.0f;
        if (kind == 1) x[i] = (float)stop_bits(5) - 2.0f;
        if (kind == 2) x[i] = 1e6f + (float)stop_bits(64) * 0.0625f; /* neighbours: scaling makes many equal */
        if (kind == 3) x[i] = i % 50 == 7 ? 3.0f : -1e-40f * (float)stop_bits(9);
        if (kind == 4) x[i] = stop_bits(2) ? 0.0f : -0.0f;
    }
}

/* The m largest, as a device gives them. */
static void stop_best(const float *x, int32_t n, infer__top_logit *best, int32_t m) {
    int32_t i, j, have = 0;
    for (i = 0; i < n; i++) {
        float v = x[i] == 0 ? 0.0f : x[i];
        if (have == m && !(v > best[m - 1].logit)) continue;
        for (j = have < m ? have++ : m - 1; j > 0 && v > best[j - 1].logit; j--) best[j] = best[j - 1];
        best[j].token = i;
        best[j].logit = v;
    }
}

static infer_stage stop_stage(int32_t n) {
    static const float temperatures[] = {0, 0.00005f, 0.3f, 0.7f, 1, 1, 1.5f, 100, 3e38f};
    static const int32_t kinds[] = {
        INFER_STAGE_GREEDY, INFER_STAGE_TEMPERATURE, INFER_STAGE_TEMPERATURE, INFER_STAGE_TOP_K, INFER_STAGE_TOP_K,
        INFER_STAGE_TOP_K, INFER_STAGE_TOP_P, INFER_STAGE_MIN_P, INFER_STAGE_PENALTY, INFER_STAGE_DYNAMIC_TEMPERATURE,
        INFER_STAGE_TYPICAL, INFER_STAGE_TOP_N_SIGMA, INFER_STAGE_XTC, INFER_STAGE_DRY, INFER_STAGE_LOGIT_BIAS};
    static const infer_bias bias[] = {{3, 2.5f}, {1, -1.0f}};
    infer_stage st = sampler_stage(kinds[stop_bits((uint32_t)(sizeof kinds / sizeof *kinds))], 0);
    int idle = stop_bits(3) != 0; /* as in the usual chain: most stages are there and do nothing */
    switch (st.kind) {
    case INFER_STAGE_TEMPERATURE: st.p[0] = temperatures[stop_bits(9)]; break;
    case INFER_STAGE_DYNAMIC_TEMPERATURE:
        st.p[0] = temperatures[stop_bits(9)];
        st.p[1] = idle ? 0 : 0.2f;
        st.p[2] = 1;
        break;
    case INFER_STAGE_TOP_K: st.p[0] = stop_bits(4) ? (float)(1 + stop_bits(60)) : (float)stop_bits((uint32_t)n + 9); break;
    case INFER_STAGE_TOP_P: case INFER_STAGE_TYPICAL: st.p[0] = idle ? (float)stop_bits(2) : 0.7f; break;
    case INFER_STAGE_MIN_P: st.p[0] = idle ? 0 : 0.1f; break;
    case INFER_STAGE_TOP_N_SIGMA: st.p[0] = idle ? stop_bits(2) ? 0.0f : -1.0f : 1.5f; break;
    case INFER_STAGE_XTC: st.p[0] = idle ? 0 : 0.5f; st.p[1] = stop_bits(2) ? 0.1f : 0.6f; break;
    case INFER_STAGE_PENALTY: st.p[0] = (float)stop_bits(8) - 1; st.p[1] = idle ? 1 : 1.3f; break;
    case INFER_STAGE_DRY: st.p[0] = idle ? 0 : 0.8f; st.p[1] = 1.75f; st.p[2] = 2; st.p[3] = -1; st.text = "[]"; break;
    case INFER_STAGE_LOGIT_BIAS: st.bias = bias; st.n = idle ? 0 : 2; break;
    default: break;
    }
    return st;
}

/* The last stage: of those too that learn. */
static infer_stage stop_last(int32_t n) {
    infer_stage st = stop_stage(n);
    uint32_t which = stop_bits(8);
    if (which > 2) return st;
    st = sampler_stage(which == 0 ? INFER_STAGE_MIROSTAT : which == 1 ? INFER_STAGE_MIROSTAT_2 : INFER_STAGE_ADAPTIVE_P,
                       which == 2 ? 0.4f : 3.0f);
    st.p[1] = which == 2 ? 0.9f : 0.1f;
    st.p[2] = which == 0 ? 100.0f : 0;
    return st;
}

/* One chain, several tokens. Returns how many of them came from the largest alone; *tried: how many were asked so. */
static int stop_chain(int round, int *tried) {
    enum { MOST = 3000, TOKENS = 6 };
    static float x[MOST], y[MOST];
    static infer__top_logit best[MOST];
    infer_stage stages[5];
    int32_t n_stages = 1 + (int32_t)stop_bits(5), i, n = stop_bits(4) ? 20 + (int32_t)stop_bits(MOST - 20) : 1 + (int32_t)stop_bits(30);
    infer_sampler *a, *b;
    int from_best = 0;
    for (i = 0; i < n_stages; i++) stages[i] = i + 1 < n_stages ? stop_stage(n) : stop_last(n);
    if (n < 4) for (i = 0; i < n_stages; i++) if (stages[i].kind == INFER_STAGE_LOGIT_BIAS) stages[i].n = 0;
    a = sampler_make(stages, n_stages, (uint64_t)round);
    b = sampler_make(stages, n_stages, (uint64_t)round);
    for (i = 0; a && b && i < TOKENS && !check_bad; i++) {
        infer_token t = -1, u = -2;
        infer_error e;
        int32_t want, enough = 0, j;
        stop_logits(x, n, (round + i) % 5);
        memcpy(y, x, sizeof x);
        infer__error_clear(&e);
        CHECK(infer__sampler_choose(a, x, n, &t, &e) == INFER_OK);
        want = infer__sampler_wants(b, n);
        CHECK(want >= 0 && want <= n);
        if (want) {
            stop_best(x, n, best, want);
            CHECK(infer__sampler_choose_of(b, best, want, n, &enough, &u, &e) == INFER_OK);
            ++*tried;
        }
        if (!enough) CHECK(infer__sampler_choose(b, y, n, &u, &e) == INFER_OK);
        from_best += enough;
        CHECK_STR(e.message, "");
        CHECK(t == u && a->state == b->state && a->dense == b->dense && a->n == b->n && a->sorted == b->sorted);
        for (j = 0; enough && j < a->n; j++) CHECK(a->c[j].token == b->c[j].token && a->c[j].logit == b->c[j].logit);
        for (j = 0; j < n_stages; j++)
            CHECK(a->states[j].mu == b->states[j].mu && a->states[j].sum == b->states[j].sum &&
                  a->states[j].pending == b->states[j].pending && a->states[j].observed == b->states[j].observed);
        CHECK(infer__sampler_remember(a, t, &e) == INFER_OK && infer__sampler_remember(b, t, &e) == INFER_OK);
    }
    infer__sampler_close(a);
    infer__sampler_close(b);
    return from_best;
}

static void test_sampler_top(void) {
    int round, tried = 0, from_best = 0;
    char detail[40];
    stop_seed = 7;
    for (round = 0; round < 4000 && !check_bad; round++) {
        snprintf(detail, sizeof detail, "chain %d", round);
        check_detail = detail;
        from_best += stop_chain(round, &tried);
    }
    check_detail = "";
    CHECK(tried > 4000 && from_best > 4000 && from_best < tried); /* equal ones at the edge: some need all */
}

/* The chain that is used as a rule needs 40; what makes it need all. */
static void test_sampler_top_usual(void) {
    infer_stage st[12];
    infer_sampler *s;
    infer_error e;
    int32_t n = 0;
    CHECK(infer__sampler_usual(NULL, st, 12, &n, &e) == INFER_OK && n == 9);
    s = sampler_make(st, n, 1);
    CHECK(infer__sampler_wants(s, 32000) == 40);
    CHECK(infer__sampler_wants(s, 40) == 0 && infer__sampler_wants(s, 41) == 40); /* 40 of 40: nothing is cut */
    infer__sampler_close(s);
    st[0].p[1] = 1.1f; /* a penalty */
    s = sampler_make(st, n, 1);
    CHECK(infer__sampler_wants(s, 32000) == 40); /* nothing was accepted yet */
    CHECK(infer__sampler_remember(s, 5, &e) == INFER_OK);
    CHECK(infer__sampler_wants(s, 32000) == 0);
    infer__sampler_close(s);
    st[0] = sampler_stage(INFER_STAGE_TEMPERATURE, 0.7f);
    s = sampler_make(st, n, 1);
    CHECK(infer__sampler_wants(s, 32000) == 40 + INFER__TOP_MORE);
    infer__sampler_close(s);
    s = sampler_make(st, 1, 1);
    CHECK(infer__sampler_wants(s, 32000) == 0); /* the draw is from all */
    infer__sampler_close(s);
    s = sampler_make(st, 0, 1);
    CHECK(infer__sampler_wants(s, 32000) == 0);
    infer__sampler_close(s);
}

static void suite_sampler_top(void) {
    RUN(test_sampler_top);
    RUN(test_sampler_top_usual);
}
