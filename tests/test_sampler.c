/* test_sampler.c: stages by hand, the order of candidates, reproducible draws, distribution, limits, memory. */

static infer_stage sampler_stage(int32_t kind, float a) {
    infer_stage st;
    memset(&st, 0, sizeof st);
    st.kind = kind;
    st.p[0] = a;
    return st;
}

static infer_sampler *sampler_make(const infer_stage *stages, int32_t n, uint64_t seed) {
    infer_sampler *s = NULL;
    infer_error err;
    CHECK(infer__sampler_open(&s, NULL, NULL, NULL, stages, n, seed, &err) == INFER_OK);
    return s;
}

/* Run the stages alone and copy what is left: tokens as text "2 0 1" in their order. */
static const char *sampler_left(const infer_stage *stages, int32_t n_stages, const infer_token *history, int32_t n_history,
                                const float *logits, int32_t n, infer_candidate *out) {
    static char text[8][400];
    static int at;
    infer_sampler *s = sampler_make(stages, n_stages, 1);
    infer_error err;
    infer_token token = -1;
    char *p = text[at = (at + 1) & 7];
    int32_t i;
    p[0] = 0;
    for (i = 0; i < n_history; i++) CHECK(infer__sampler_remember(s, history[i], &err) == INFER_OK);
    err.message[0] = 0;
    CHECK(infer__sampler_choose(s, logits, n, &token, &err) == INFER_OK);
    CHECK_STR(err.message, "");
    CHECK(infer__take_all(s, &err) == INFER_OK);
    for (i = 0; i < s->n && i < 40; i++) {
        if (out) out[i] = s->c[i];
        sprintf(p + strlen(p), i ? " %d" : "%d", (int)s->c[i].token);
        token = token == s->c[i].token ? -2 : token;
    }
    CHECK(token == -2); /* what was chosen is one of them */
    infer__sampler_close(s);
    return p;
}

static int sampler_near(double a, double b) { return fabs(a - b) <= 1e-6 * (1 + fabs(b)); }

static void test_sampler_weigh(void) {
    double worst = 0;
    int i, bits;
    for (i = 0; i < 20000; i++) {
        uint64_t gap = (uint64_t)(i * 0.001 * 4294967296.0);
        double d = (double)gap / 4294967296.0, w = (double)infer__weigh(gap, 62) / 4611686018427387904.0;
        double e = fabs(w / exp(-d) - 1);
        if (e > worst) worst = e;
    }
    CHECK(worst < 1.0 / (1 << 28));
    CHECK(infer__weigh(0, 62) == (uint64_t)1 << 62 && infer__weigh(0, 31) == (uint64_t)1 << 31);
    CHECK(infer__weigh(INFER__GAP_NONE, 62) == 0 && infer__weigh(INFER__GAP_MAX, 62) == 0);
    for (i = 1; i < 4000; i++) CHECK(infer__weigh((uint64_t)i << 26, 62) <= infer__weigh((uint64_t)(i - 1) << 26, 62));
    bits = infer__weigh_bits(1);
    CHECK(bits == 62 && infer__weigh_bits(2) == 61 && infer__weigh_bits(3) == 60 && infer__weigh_bits(INT32_MAX) == 31);
    CHECK(infer__mul_high(UINT64_MAX, UINT64_MAX) == UINT64_MAX - 1);
    CHECK(infer__mul_high((uint64_t)1 << 63, 6) == 3 && infer__mul_high(0x123456789abcdef0u, 0x0fedcba987654321u) == 0x0121fa00ad77d742u);
    CHECK(infer__weigh_share(0.5f, 1000) == 500 && infer__weigh_share(1.0f, 1000) == 1000);
}

static void test_sampler_greedy(void) {
    const float x[] = { 0.5f, 2.0f, -1.0f, 2.0f, 1.5f };
    infer_stage st = sampler_stage(INFER_STAGE_GREEDY, 0);
    infer_token t = -1;
    float big[1000];
    int i;
    CHECK_STR(sampler_left(&st, 1, NULL, 0, x, 5, NULL), "1"); /* lowest id among equals */
    CHECK(infer__sample_greedy(x, 5, &t, NULL) == INFER_OK && t == 1);
    st = sampler_stage(INFER_STAGE_TEMPERATURE, 0);
    CHECK_STR(sampler_left(&st, 1, NULL, 0, x, 5, NULL), "1");
    st.p[0] = -3;
    CHECK_STR(sampler_left(&st, 1, NULL, 0, x, 5, NULL), "1");
    /* every place in and around blocks of 16 */
    for (i = 0; i < 1000; i++) big[i] = -2.0f - (float)(i % 7);
    for (i = 0; i < 1000; i++) {
        float old = big[i];
        big[i] = -1;
        CHECK(infer__sample_greedy(big, 1000, &t, NULL) == INFER_OK && t == i);
        big[i] = old;
    }
}

static void test_sampler_temperature(void) {
    const float x[] = { 1.0f, -2.0f, 3.0f };
    infer_candidate c[40];
    infer_stage st[2];
    st[0] = sampler_stage(INFER_STAGE_TEMPERATURE, 0.5f);
    CHECK_STR(sampler_left(st, 1, NULL, 0, x, 3, c), "0 1 2");
    CHECK(sampler_near(c[0].logit, 2) && sampler_near(c[1].logit, -4) && sampler_near(c[2].logit, 6));
    st[0].p[0] = 0.8f;
    sampler_left(st, 1, NULL, 0, x, 3, c);
    CHECK(sampler_near(c[0].logit, 1.25) && sampler_near(c[2].logit, 3.75));
    { /* huge logits stay finite */
        const float huge[] = { 3e38f, -3e38f, 1.0f };
        st[0].p[0] = 0.001f;
        CHECK_STR(sampler_left(st, 1, NULL, 0, huge, 3, c), "0 1 2");
        CHECK(infer__finite(c[0].logit) && infer__finite(c[1].logit));
    }
}

static void test_sampler_top_k(void) {
    const float x[] = { 1, 5, 3, 5, 2, 4 };
    infer_stage st[2];
    st[0] = sampler_stage(INFER_STAGE_TOP_K, 3);
    CHECK_STR(sampler_left(st, 1, NULL, 0, x, 6, NULL), "1 3 5");
    st[0].p[0] = 1;
    CHECK_STR(sampler_left(st, 1, NULL, 0, x, 6, NULL), "1");
    st[0].p[0] = 2.9f; /* whole candidates */
    CHECK_STR(sampler_left(st, 1, NULL, 0, x, 6, NULL), "1 3");
    st[0].p[0] = 0; /* off */
    CHECK_STR(sampler_left(st, 1, NULL, 0, x, 6, NULL), "0 1 2 3 4 5");
    st[0].p[0] = 6; /* k >= n changes nothing */
    CHECK_STR(sampler_left(st, 1, NULL, 0, x, 6, NULL), "0 1 2 3 4 5");
    st[0].p[0] = 3e9f;
    CHECK_STR(sampler_left(st, 1, NULL, 0, x, 6, NULL), "0 1 2 3 4 5");
    /* on candidates instead of logits */
    st[0] = sampler_stage(INFER_STAGE_TEMPERATURE, 2);
    st[1] = sampler_stage(INFER_STAGE_TOP_K, 4);
    CHECK_STR(sampler_left(st, 2, NULL, 0, x, 6, NULL), "1 3 5 2");
    { /* fewer allowed than k */
        float y[6];
        memcpy(y, x, sizeof y);
        y[1] = y[2] = y[4] = y[5] = infer__bits_f32(0xff800000u);
        st[0] = sampler_stage(INFER_STAGE_TOP_K, 4);
        CHECK_STR(sampler_left(st, 1, NULL, 0, y, 6, NULL), "3 0");
        st[0] = sampler_stage(INFER_STAGE_TOP_K, 0);
        CHECK_STR(sampler_left(st, 1, NULL, 0, y, 6, NULL), "0 3");
    }
}

/* The dense selection and the selection among candidates agree with a sort, for many sizes. */
static void test_sampler_top_k_sorted(void) {
    uint32_t seed = 7;
    int32_t n, k, i, j;
    for (n = 1; n < 300; n += 13) {
        float x[300];
        infer_candidate c[300], d[300];
        for (i = 0; i < n; i++) {
            seed = seed * 1664525u + 1013904223u;
            x[i] = (float)(int32_t)(seed >> 24) * 0.25f - 20.0f; /* with many equals */
            c[i].token = i; c[i].logit = x[i]; c[i].p = 0;
        }
        for (i = 1; i < n; i++) { /* insertion sort: stable, so lower ids stay first */
            infer_candidate t = c[i];
            for (j = i; j > 0 && c[j - 1].logit < t.logit; j--) c[j] = c[j - 1];
            c[j] = t;
        }
        for (k = 1; k <= n; k += 1 + k / 3) {
            infer_sampler s;
            CHECK(infer__best_logits(x, n, d, k, NULL) == k);
            for (i = 0; i < k; i++) CHECK(d[i].token == c[i].token && d[i].logit == c[i].logit);
            memset(&s, 0, sizeof s);
            for (i = 0; i < n; i++) { d[i].token = i; d[i].logit = x[i]; }
            s.c = d;
            s.n = n;
            infer__sort_best(&s, k);
            CHECK(s.sorted == k);
            for (i = 0; i < k; i++) CHECK(d[i].token == c[i].token);
        }
    }
}

/* logits = ln p, so that probabilities are known. */
static void sampler_logs(float *x, const double *p, int n) {
    int i;
    for (i = 0; i < n; i++) x[i] = (float)(log(p[i]) + 3.0); /* any constant may be added */
}

static void test_sampler_top_p(void) {
    const double p[] = { 0.1, 0.4, 0.05, 0.3, 0.15 };
    infer_candidate c[40];
    infer_stage st[2];
    float x[5], even[8] = { 1, 1, 1, 1, 1, 1, 1, 1 };
    sampler_logs(x, p, 5);
    st[0] = sampler_stage(INFER_STAGE_TOP_P, 0.39f);
    CHECK_STR(sampler_left(st, 1, NULL, 0, x, 5, c), "1");
    CHECK(sampler_near(c[0].p, 0.4));
    st[0].p[0] = 0.41f;
    CHECK_STR(sampler_left(st, 1, NULL, 0, x, 5, c), "1 3");
    CHECK(sampler_near(c[1].p, 0.3));
    st[0].p[0] = 0.69f;
    CHECK_STR(sampler_left(st, 1, NULL, 0, x, 5, NULL), "1 3");
    st[0].p[0] = 0.71f;
    CHECK_STR(sampler_left(st, 1, NULL, 0, x, 5, NULL), "1 3 4");
    st[0].p[0] = 0.999f;
    CHECK_STR(sampler_left(st, 1, NULL, 0, x, 5, NULL), "1 3 4 0 2");
    st[0].p[0] = 1; /* off */
    CHECK_STR(sampler_left(st, 1, NULL, 0, x, 5, NULL), "0 1 2 3 4");
    st[0].p[0] = 0; /* off */
    CHECK_STR(sampler_left(st, 1, NULL, 0, x, 5, NULL), "0 1 2 3 4");
    st[0].p[0] = 1e-6f; /* at least one */
    CHECK_STR(sampler_left(st, 1, NULL, 0, x, 5, NULL), "1");
    st[0].p[0] = 0.5f; /* exactly half of eight equals */
    CHECK_STR(sampler_left(st, 1, NULL, 0, even, 8, NULL), "0 1 2 3");
    /* after top-k the probabilities are those of what is left: 4/7, 3/7 */
    st[0] = sampler_stage(INFER_STAGE_TOP_K, 2);
    st[1] = sampler_stage(INFER_STAGE_TOP_P, 0.5f);
    CHECK_STR(sampler_left(st, 2, NULL, 0, x, 5, c), "1");
    CHECK(sampler_near(c[0].p, 4.0 / 7));
}

/* A flat distribution needs many candidates: the ordered prefix grows until it is enough. */
static void test_sampler_top_p_wide(void) {
    enum { N = 5000 };
    float *x = (float *)malloc(N * sizeof *x);
    infer_stage st = sampler_stage(INFER_STAGE_TOP_P, 0.9f);
    infer_sampler *s = sampler_make(&st, 1, 3);
    infer_token t;
    int32_t i;
    for (i = 0; i < N; i++) x[i] = (float)((i * 7919) % N) * 1e-4f;
    CHECK(infer__sampler_choose(s, x, N, &t, NULL) == INFER_OK);
    CHECK(s->n > N * 8 / 10 && s->n < N * 9 / 10 + 1); /* the best ones carry more than the mean */
    for (i = 1; i < s->n; i++) CHECK(infer__better(&s->c[i - 1], &s->c[i]));
    infer__sampler_close(s);
    free(x);
}

static void test_sampler_min_p(void) {
    const double p[] = { 0.1, 0.4, 0.05, 0.3, 0.15 };
    infer_stage st[2];
    float x[5];
    sampler_logs(x, p, 5);
    st[0] = sampler_stage(INFER_STAGE_MIN_P, 0.24f); /* >= 0.096 */
    CHECK_STR(sampler_left(st, 1, NULL, 0, x, 5, NULL), "0 1 3 4");
    st[0].p[0] = 0.26f; /* >= 0.104 */
    CHECK_STR(sampler_left(st, 1, NULL, 0, x, 5, NULL), "1 3 4");
    st[0].p[0] = 1;
    CHECK_STR(sampler_left(st, 1, NULL, 0, x, 5, NULL), "1");
    st[0].p[0] = 0;
    CHECK_STR(sampler_left(st, 1, NULL, 0, x, 5, NULL), "0 1 2 3 4");
    st[0] = sampler_stage(INFER_STAGE_TOP_K, 4);
    st[1] = sampler_stage(INFER_STAGE_MIN_P, 0.3f);
    CHECK_STR(sampler_left(st, 2, NULL, 0, x, 5, NULL), "1 3 4"); /* order is kept */
}

static void test_sampler_penalty(void) {
    const float x[] = { 2, -2, 1, 0.5f, 3 };
    const infer_token history[] = { 4, 0, 1, 1, 0, 1, 77 }; /* 77: of another vocabulary */
    infer_candidate c[40];
    infer_stage st[2];
    int i;
    for (i = 0; i < 2; i++) { /* on logits, then on candidates (a temperature of 1 changes nothing) */
        st[0] = sampler_stage(INFER_STAGE_TEMPERATURE, 1);
        st[i] = sampler_stage(INFER_STAGE_PENALTY, -1);
        st[i].p[1] = 2;
        CHECK_STR(sampler_left(st, i + 1, history, 7, x, 5, c), "0 1 2 3 4");
        CHECK(c[0].logit == 1 && c[1].logit == -4 && c[2].logit == 1 && c[3].logit == 0.5f && c[4].logit == 1.5f);
        st[i].p[0] = 6; /* the 4 is too old */
        sampler_left(st, i + 1, history, 7, x, 5, c);
        CHECK(c[0].logit == 1 && c[4].logit == 3);
        st[i].p[0] = 0; /* looks at nothing */
        sampler_left(st, i + 1, history, 7, x, 5, c);
        CHECK(c[0].logit == 2 && c[1].logit == -2);
        st[i].p[0] = -1; st[i].p[1] = 1; st[i].p[2] = 0.5f; st[i].p[3] = 0.25f;
        sampler_left(st, i + 1, history, 7, x, 5, c);
        CHECK(c[0].logit == 2 - 2 * 0.5f - 0.25f && c[1].logit == -2 - 3 * 0.5f - 0.25f && c[2].logit == 1);
        CHECK(c[4].logit == 3 - 0.5f - 0.25f);
        st[i].p[1] = 0; st[i].p[2] = st[i].p[3] = 0; /* off */
        sampler_left(st, i + 1, history, 7, x, 5, c);
        CHECK(c[0].logit == 2 && c[1].logit == -2 && c[4].logit == 3);
        st[i].p[2] = -0.5f; /* a negative penalty is a bonus */
        sampler_left(st, i + 1, history, 7, x, 5, c);
        CHECK(c[0].logit == 3 && c[4].logit == 3.5f);
        st[i].p[2] = 3e38f; /* no overflow to infinity */
        sampler_left(st, i + 1, history, 7, x, 5, c);
        CHECK(infer__finite(c[1].logit));
    }
    { /* a second choice counts anew */
        infer_sampler *s;
        infer_token t;
        st[0] = sampler_stage(INFER_STAGE_TEMPERATURE, 1);
        st[1] = sampler_stage(INFER_STAGE_PENALTY, -1);
        st[1].p[2] = 0.5f;
        s = sampler_make(st, 2, 1);
        for (i = 0; i < 7; i++) infer__sampler_remember(s, history[i], NULL);
        for (i = 0; i < 3; i++)
            CHECK(infer__sampler_choose(s, x, 5, &t, NULL) == INFER_OK && s->dense && s->logits[1] == -3.5f);
        infer__sampler_close(s);
    }
    /* the greedy choice changes, and the caller's logits do not */
    st[0] = sampler_stage(INFER_STAGE_PENALTY, 64);
    st[0].p[1] = 4;
    st[1] = sampler_stage(INFER_STAGE_GREEDY, 0);
    CHECK_STR(sampler_left(st, 2, history, 1, x, 5, NULL), "0");
    CHECK(x[4] == 3);
}

/* Only the last n are looked at, however many were accepted; reset forgets them. */
static void test_sampler_history(void) {
    infer_stage st[2];
    infer_sampler *s;
    infer_token t;
    float x[4] = { 1, 1, 1, 0 };
    int i, n;
    for (n = 1; n <= 200; n += 199) {
        st[0] = sampler_stage(INFER_STAGE_PENALTY, (float)n);
        st[0].p[3] = 10;
        st[1] = sampler_stage(INFER_STAGE_GREEDY, 0);
        s = sampler_make(st, 2, 1);
        for (i = 0; i < 1000; i++) CHECK(infer__sampler_remember(s, 0, NULL) == INFER_OK);
        for (i = 0; i < n - 1; i++) CHECK(infer__sampler_remember(s, 1, NULL) == INFER_OK);
        CHECK(s->cap_history <= 512);
        CHECK(infer__sampler_choose(s, x, 4, &t, NULL) == INFER_OK && t == (n == 1 ? 1 : 2));
        CHECK(infer__sampler_remember(s, 1, NULL) == INFER_OK);
        CHECK(infer__sampler_choose(s, x, 4, &t, NULL) == INFER_OK && t == 0);
        infer__sampler_restart(s);
        CHECK(infer__sampler_choose(s, x, 4, &t, NULL) == INFER_OK && t == 0);
        infer__sampler_close(s);
    }
    s = sampler_make(NULL, 0, 1);
    CHECK(infer__sampler_remember(s, -1, NULL) == INFER_ERR_ARGUMENT);
    infer__sampler_close(s);
}

/* ---- custom stages -------------------------------------------------------------------------------- */

static int32_t sampler_custom_reverse(void *user, infer_candidate *c, int32_t n) {
    int32_t i;
    *(int32_t *)user = n;
    for (i = 0; i < n / 2; i++) { infer_candidate t = c[i]; c[i] = c[n - 1 - i]; c[n - 1 - i] = t; }
    return n - 1;
}
static int32_t sampler_custom_return(void *user, infer_candidate *c, int32_t n) { (void)c; return n + *(int32_t *)user; }
static int32_t sampler_custom_spoil(void *user, infer_candidate *c, int32_t n) {
    int kind = *(int32_t *)user;
    if (kind == 0) c[0].token = 99;
    if (kind == 1) c[0].token = -1;
    if (kind == 2) c[0].logit = infer__bits_f32(0x7fc00000u);
    if (kind == 3) c[0].logit = infer__bits_f32(0x7f800000u);
    if (kind == 4) c[0].logit = infer__bits_f32(0xff800000u); /* this one is allowed: it is dropped */
    return n;
}

static void test_sampler_custom(void) {
    const float x[] = { 1, 2, 3, 4 };
    infer_stage st[3];
    infer_sampler *s;
    infer_error err;
    infer_token t;
    int32_t v = 0;
    st[0] = sampler_stage(INFER_STAGE_TOP_K, 3);
    st[1] = sampler_stage(INFER_STAGE_CUSTOM, 0);
    st[1].fn = sampler_custom_reverse;
    st[1].user = &v;
    CHECK_STR(sampler_left(st, 2, NULL, 0, x, 4, NULL), "1 2"); /* 3 2 1 reversed, the last dropped */
    CHECK(v == 3);
    st[2] = sampler_stage(INFER_STAGE_TOP_K, 1); /* a stage after it orders again */
    CHECK_STR(sampler_left(st, 3, NULL, 0, x, 4, NULL), "2");
    st[0].p[0] = 0;
    st[1].fn = sampler_custom_return;
    s = sampler_make(st, 2, 1);
    for (v = -5; v <= 1; v++) {
        infer_result r = infer__sampler_choose(s, x, 4, &t, &err);
        CHECK(r == (v >= -3 && v <= 0 ? INFER_OK : INFER_ERR_STATE));
        if (r != INFER_OK) CHECK_HAS(err.message, "custom stage 1");
    }
    infer__sampler_close(s);
    st[1].fn = sampler_custom_spoil;
    s = sampler_make(st, 2, 1);
    for (v = 0; v < 4; v++) {
        CHECK(infer__sampler_choose(s, x, 4, &t, &err) == INFER_ERR_STATE);
        CHECK_HAS(err.message, v < 2 ? "custom stage 1" : "logit 0");
    }
    CHECK(infer__sampler_choose(s, x, 4, &t, &err) == INFER_OK && s->n == 3);
    infer__sampler_close(s);
}

/* ---- draws -------------------------------------------------------------------------------------------- */

/* Recorded once: they may never change, on any platform. */
static void test_sampler_reproducible(void) {
    static const infer_token want[2][16] = {
        { 332, 20, 480, 124, 426, 142, 451, 230, 218, 17, 198, 215, 215, 384, 40, 198 },
        { 390, 74, 124, 167, 17, 451, 111, 426, 165, 332, 102, 258, 270, 271, 368, 98 } };
    float x[500];
    infer_token got[16], t;
    uint32_t bits = 12345;
    int i, k;
    for (i = 0; i < 500; i++) {
        bits = bits * 1664525u + 1013904223u;
        x[i] = (float)(int32_t)(bits >> 16) / 8192.0f; /* 0 .. 8, exact */
    }
    for (k = 0; k < 2; k++) {
        infer_stage one = sampler_stage(INFER_STAGE_TEMPERATURE, 0.7f);
        infer_sampler *s = k ? sampler_make(&one, 1, 42) : sampler_make(NULL, 0, 42);
        for (i = 0; i < 16; i++) {
            CHECK(infer__sampler_choose(s, x, 500, &got[i], NULL) == INFER_OK);
            CHECK(infer__sampler_remember(s, got[i], NULL) == INFER_OK);
        }
        if (memcmp(got, want[k], sizeof got) != 0) {
            CHECK(!"recorded ids");
            for (i = 0; i < 16; i++) fprintf(stderr, "%d, ", (int)got[i]);
            fprintf(stderr, "\n");
        }
        infer__sampler_restart(s);
        for (i = 0; i < 16; i++) CHECK(infer__sampler_choose(s, x, 500, &t, NULL) == INFER_OK && t == got[i]);
        infer__sampler_close(s);
    }
}

/* Chi-square of 60,000 draws from 6 tokens, 5 degrees of freedom: above 20.5 once in 1,000 times, and it is the same
 * 60,000 draws every time. */
static void test_sampler_distribution(void) {
    const double p[] = { 0.3, 0.01, 0.25, 0.04, 0.15, 0.25 };
    infer_stage st = sampler_stage(INFER_STAGE_TEMPERATURE, 1);
    int count[6] = { 0, 0, 0, 0, 0, 0 }, i;
    double chi = 0;
    infer_token t = 0;
    float x[6];
    uint64_t seed;
    sampler_logs(x, p, 6);
    for (seed = 0; seed < 6; seed++) {
        infer_sampler *s = sampler_make(&st, 1, seed);
        for (i = 0; i < 10000; i++) {
            CHECK(infer__sampler_choose(s, x, 6, &t, NULL) == INFER_OK);
            count[t]++;
        }
        infer__sampler_close(s);
    }
    for (i = 0; i < 6; i++) chi += (count[i] - 60000 * p[i]) * (count[i] - 60000 * p[i]) / (60000 * p[i]);
    CHECK(chi < 20.5);
    CHECK(chi > 0.2);
}

static void test_sampler_edges(void) {
    infer_sampler *s = sampler_make(NULL, 0, 9);
    float one = -5, even[100];
    infer_token t = -1;
    int i, seen = 0;
    char hit[100];
    CHECK(infer__sampler_choose(s, &one, 1, &t, NULL) == INFER_OK && t == 0);
    memset(hit, 0, sizeof hit);
    for (i = 0; i < 100; i++) even[i] = 7;
    for (i = 0; i < 2000; i++) {
        CHECK(infer__sampler_choose(s, even, 100, &t, NULL) == INFER_OK && t >= 0 && t < 40); /* top-k 40, lowest ids */
        seen += !hit[t];
        hit[t] = 1;
    }
    CHECK(seen > 30); /* top-p 0.95 of 40 equals is 38 */
    infer__sampler_close(s);
    { /* no stages: the whole vocabulary, also the unlikely */
        infer_stage none = sampler_stage(INFER_STAGE_GREEDY, 0);
        float x[3] = { 0, -60, 1 };
        s = sampler_make(&none, 0, 5);
        CHECK(s->n_stages == 0);
        for (i = 0; i < 100; i++) CHECK(infer__sampler_choose(s, x, 3, &t, NULL) == INFER_OK && t != 1);
        CHECK(s->dense && s->n_vocab == 3);
        infer__sampler_close(s);
    }
}

static void test_sampler_bad_logits(void) {
    const uint32_t bad[] = { 0x7fc00000u, 0xffc00001u, 0x7f800000u };
    infer_stage st[4];
    infer_error err;
    infer_token t = 55;
    float x[40];
    int i, k, at;
    st[0] = sampler_stage(INFER_STAGE_GREEDY, 0);
    st[1] = sampler_stage(INFER_STAGE_TEMPERATURE, 1);
    st[2] = sampler_stage(INFER_STAGE_TOP_K, 3);
    st[3] = sampler_stage(INFER_STAGE_PENALTY, -1);
    st[3].p[1] = 1.5f;
    for (k = 0; k < 4; k++) {
        infer_sampler *s = sampler_make(&st[k], 1, 1);
        for (at = 0; at < 40; at++) infer__sampler_remember(s, at, NULL);
        for (at = 0; at < 40; at++) {
            char name[24];
            sprintf(name, "logit %d is ", at);
            for (i = 0; i < 40; i++) x[i] = (float)i;
            x[at] = infer__bits_f32(bad[at % 3]);
            CHECK(infer__sampler_choose(s, x, 40, &t, &err) == INFER_ERR_STATE);
            CHECK_HAS(err.message, name);
            CHECK_HAS(err.message, at % 3 == 2 ? "infinite" : "not a number");
        }
        for (i = 0; i < 40; i++) x[i] = infer__bits_f32(0xff800000u);
        CHECK(infer__sampler_choose(s, x, 40, &t, &err) == INFER_ERR_STATE);
        CHECK_HAS(err.message, "no logit is finite");
        x[17] = -3e38f;
        CHECK(infer__sampler_choose(s, x, 40, &t, &err) == INFER_OK && t == 17); /* and it works again */
        infer__sampler_close(s);
    }
    CHECK(t == 17);
}

static void sampler_bad_stage(infer_stage st, const char *part, const char *part2) {
    infer_stage two[2];
    infer_sampler *s = (infer_sampler *)&two;
    infer_error err;
    two[0] = sampler_stage(INFER_STAGE_GREEDY, 0);
    two[1] = st;
    CHECK(infer__sampler_open(&s, NULL, NULL, NULL, two, 2, 0, &err) == INFER_ERR_ARGUMENT && s == NULL);
    CHECK_HAS(err.message, "stages[1]");
    CHECK_HAS(err.message, part);
    CHECK_HAS(err.message, part2);
}

static void test_sampler_bad_stages(void) {
    infer_stage st = sampler_stage(INFER_STAGE_PENALTY, 64);
    infer_sampler *s = NULL;
    infer_error err;
    const float nan = infer__bits_f32(0x7fc00000u), inf = infer__bits_f32(0x7f800000u);
    sampler_bad_stage(sampler_stage(0, 0), "no stage kind 0", "");
    sampler_bad_stage(sampler_stage(19, 0), "no stage kind 19", "");
    sampler_bad_stage(sampler_stage(INFER_STAGE_TOP_K, -1), "top-k", "p[0]");
    sampler_bad_stage(sampler_stage(INFER_STAGE_TOP_P, -0.1f), "top-p", "out of range");
    sampler_bad_stage(sampler_stage(INFER_STAGE_TOP_P, 1.5f), "top-p", "1.5");
    sampler_bad_stage(sampler_stage(INFER_STAGE_MIN_P, 2), "min-p", "out of range");
    sampler_bad_stage(sampler_stage(INFER_STAGE_TEMPERATURE, nan), "temperature", "not a finite number");
    sampler_bad_stage(sampler_stage(INFER_STAGE_TOP_K, inf), "top-k", "not a finite number");
    sampler_bad_stage(sampler_stage(INFER_STAGE_PENALTY, -2), "penalty", "p[0]");
    st.p[1] = -1;
    sampler_bad_stage(st, "penalty", "p[1]");
    st.p[1] = 1;
    st.p[3] = nan;
    sampler_bad_stage(st, "penalty", "p[3]");
    sampler_bad_stage(sampler_stage(INFER_STAGE_CUSTOM, 0), "custom", "fn is NULL");
    CHECK(infer__sampler_open(&s, NULL, NULL, NULL, NULL, 2, 0, &err) == INFER_ERR_ARGUMENT);
    CHECK_HAS(err.message, "stages is NULL");
    CHECK(infer__sampler_open(&s, NULL, NULL, NULL, &st, -1, 0, &err) == INFER_ERR_ARGUMENT);
    CHECK_HAS(err.message, "n_stages is -1");
}

/* ---- defaults of a file, memory, size ------------------------------------------------------------------ */

/* A GGUF with one float32 key, in memory. Returns its size. */
static size_t sampler_gguf(unsigned char *b, const char *key, uint32_t type, uint32_t bits) {
    size_t n = strlen(key);
    memset(b, 0, 256);
    memcpy(b, "GGUF\3", 5);
    b[16] = 1; /* no tensors, one key */
    b[24] = (unsigned char)n;
    memcpy(b + 32, key, n);
    b += 32 + n;
    b[0] = (unsigned char)type;
    b[4] = (unsigned char)bits, b[5] = (unsigned char)(bits >> 8);
    b[6] = (unsigned char)(bits >> 16), b[7] = (unsigned char)(bits >> 24);
    return 32 + n + (type == 8 ? 12 : 8); /* 8: an empty string */
}

static char sampler_logged[200];
static void sampler_log(void *user, int level, const char *message) {
    (void)user;
    if (level <= 2) snprintf(sampler_logged, sizeof sampler_logged, "%s", message);
}

/* Parameter p[j] of stage i of the usual chain, when the file has this key. */
static float sampler_default_of(const char *key, uint32_t type, uint32_t bits, int i, int j, infer_result want) {
    static unsigned char bytes[256];
    infer__mem mem;
    infer__report report = { sampler_log, NULL };
    infer__gguf g;
    infer_sampler *s = NULL;
    infer_error err;
    float v = -99;
    size_t n = sampler_gguf(bytes, key, type, bits);
    memset(&g, 0, sizeof g);
    infer__mem_init(&mem, NULL, 0);
    if (infer__gguf_open_memory(&g, &mem, &report, bytes, n, &err) != INFER_OK) { CHECK_STR(err.message, ""); return v; }
    CHECK(infer__sampler_open(&s, &mem, &g, NULL, NULL, 0, 0, &err) == want);
    if (want != INFER_OK) CHECK_HAS(err.message, key);
    else v = s->stages[i].p[j];
    infer__sampler_close(s);
    infer__gguf_close(&g);
    CHECK(infer__atomic_get(&mem.used) == 0);
    return v;
}

/* A stage of the usual chain, in its place. */
static const infer_stage *sampler_usual_at(infer_sampler *s, int i, int32_t kind) {
    CHECK(i < s->n_stages && s->stages[i].kind == kind);
    return &s->stages[i];
}

static void test_sampler_defaults(void) {
    infer_sampler *s = sampler_make(NULL, 0, 0);
    const infer_stage *st;
    CHECK(s->n_stages == 9);
    st = sampler_usual_at(s, 0, INFER_STAGE_PENALTY);
    CHECK(st->p[0] == 64 && st->p[1] == 1 && st->p[2] == 0 && st->p[3] == 0);
    st = sampler_usual_at(s, 1, INFER_STAGE_DRY);
    CHECK(st->p[0] == 0 && st->p[1] == 1.75f && st->p[2] == 2 && st->p[3] == 64);
    CHECK(sampler_usual_at(s, 2, INFER_STAGE_TOP_N_SIGMA)->p[0] == 0);
    CHECK(sampler_usual_at(s, 3, INFER_STAGE_TOP_K)->p[0] == 40);
    CHECK(sampler_usual_at(s, 4, INFER_STAGE_TYPICAL)->p[0] == 1);
    CHECK(sampler_usual_at(s, 5, INFER_STAGE_TOP_P)->p[0] == 0.95f);
    CHECK(sampler_usual_at(s, 6, INFER_STAGE_MIN_P)->p[0] == 0.05f);
    st = sampler_usual_at(s, 7, INFER_STAGE_XTC);
    CHECK(st->p[0] == 0 && st->p[1] == 0.1f);
    st = sampler_usual_at(s, 8, INFER_STAGE_DYNAMIC_TEMPERATURE);
    CHECK(st->p[0] == 0.8f && st->p[1] == 0 && st->p[2] == 1);
    infer__sampler_close(s);
    CHECK(sampler_default_of("general.sampling.top_k", 5, 20, 3, 0, INFER_OK) == 20);
    CHECK(sampler_default_of("general.sampling.top_k", 5, (uint32_t)-1, 3, 0, INFER_OK) == 0);
    CHECK(sampler_default_of("general.sampling.top_p", 6, 0x3f000000u, 5, 0, INFER_OK) == 0.5f);
    CHECK(sampler_default_of("general.sampling.top_p", 6, 0x40000000u, 5, 0, INFER_OK) == 1);
    CHECK(sampler_default_of("general.sampling.min_p", 6, 0x3e800000u, 6, 0, INFER_OK) == 0.25f);
    CHECK(sampler_default_of("general.sampling.xtc_probability", 6, 0x3f000000u, 7, 0, INFER_OK) == 0.5f);
    CHECK(sampler_default_of("general.sampling.xtc_threshold", 6, 0x3e800000u, 7, 1, INFER_OK) == 0.25f);
    CHECK(sampler_default_of("general.sampling.temp", 6, 0x3f800000u, 8, 0, INFER_OK) == 1);
    CHECK(sampler_default_of("general.sampling.penalty_last_n", 5, (uint32_t)-1, 0, 0, INFER_OK) == -1);
    CHECK(sampler_default_of("general.sampling.penalty_repeat", 6, 0x3fc00000u, 0, 1, INFER_OK) == 1.5f);
    sampler_default_of("general.sampling.temp", 6, 0x7fc00000u, 8, 0, INFER_ERR_FORMAT);
    sampler_default_of("general.sampling.temp", 8, 0, 8, 0, INFER_ERR_FORMAT); /* a text */
}

/* Every allocation fails once: an error, never a leak, and the sampler still works afterwards. */
static void test_sampler_memory(void) {
    infer_allocator a = { NULL, check_alloc, check_free };
    infer_stage st[3];
    float x[64];
    int i;
    long fail, live = check_live;
    for (i = 0; i < 64; i++) x[i] = (float)(i * 37 % 64) * 0.1f;
    st[0] = sampler_stage(INFER_STAGE_PENALTY, -1);
    st[0].p[1] = 1.1f;
    st[1] = sampler_stage(INFER_STAGE_TEMPERATURE, 0.5f);
    st[1].text = "kept";
    st[2] = sampler_stage(INFER_STAGE_TOP_P, 0.9f);
    for (fail = 1; fail < 100; fail++) {
        infer__mem mem;
        infer_sampler *s = NULL;
        infer_error err;
        infer_token t;
        infer_result r;
        int used;
        infer__mem_init(&mem, &a, 0);
        check_allocs = 0;
        check_fail_at = fail;
        r = infer__sampler_open(&s, &mem, NULL, NULL, st, 3, 1, &err);
        for (i = 0; i < 300 && r == INFER_OK; i++) {
            r = infer__sampler_choose(s, x, 64, &t, &err);
            if (r == INFER_OK) r = infer__sampler_remember(s, t, &err);
        }
        used = check_allocs >= fail;
        CHECK(r == (used ? INFER_ERR_MEMORY : INFER_OK));
        if (used) CHECK_HAS(err.message, "sampler: no memory");
        if (s) { /* the next call succeeds */
            CHECK(s->stages[1].text != st[1].text);
            CHECK_STR(s->stages[1].text, "kept");
            CHECK(infer__sampler_choose(s, x, 64, &t, &err) == INFER_OK && infer__sampler_remember(s, t, &err) == INFER_OK);
        }
        infer__sampler_close(s);
        CHECK(check_live == live && infer__atomic_get(&mem.used) == 0);
        if (!used) break;
    }
    check_fail_at = 0;
    CHECK(fail > 6 && fail < 100);
}

/* A vocabulary of 256k: nothing is allocated after the first call. */
static void test_sampler_large(void) {
    enum { N = 262144 };
    infer_allocator a = { NULL, check_alloc, check_free };
    float *x = (float *)malloc(N * sizeof *x);
    uint32_t bits = 1;
    infer_token t;
    int i, k;
    for (i = 0; i < N; i++) {
        bits = bits * 1664525u + 1013904223u;
        x[i] = (float)(bits >> 8) * (1.0f / 2097152) - 4.0f; /* -4 .. 4 */
    }
    x[200000] = 9;
    for (k = 0; k < 3; k++) {
        infer_stage st = k == 1 ? sampler_stage(INFER_STAGE_TEMPERATURE, 1) : sampler_stage(INFER_STAGE_TOP_P, 0.5f);
        infer__mem mem;
        infer_sampler *s;
        double t0;
        long before;
        infer__mem_init(&mem, &a, 0);
        CHECK(infer__sampler_open(&s, &mem, NULL, NULL, k ? &st : NULL, k ? 1 : 0, 7, NULL) == INFER_OK);
        CHECK(infer__sampler_choose(s, x, N, &t, NULL) == INFER_OK);
        before = check_allocs;
        t0 = infer__seconds();
        for (i = 0; i < 10; i++) CHECK(infer__sampler_choose(s, x, N, &t, NULL) == INFER_OK);
        t0 = (infer__seconds() - t0) / 10;
        CHECK(check_allocs == before);
        CHECK(t0 < 1.0); /* a sort of everything a call would still pass; the figure is for the reader */
        if (getenv("CHECK_TIMES")) fprintf(stderr, "sampler, 256k logits, chain %d: %.3f ms\n", k, t0 * 1e3);
        infer__sampler_close(s);
    }
    free(x);
}

static void suite_sampler(void) {
    RUN(test_sampler_weigh);
    RUN(test_sampler_greedy);
    RUN(test_sampler_temperature);
    RUN(test_sampler_top_k);
    RUN(test_sampler_top_k_sorted);
    RUN(test_sampler_top_p);
    RUN(test_sampler_top_p_wide);
    RUN(test_sampler_min_p);
    RUN(test_sampler_penalty);
    RUN(test_sampler_history);
    RUN(test_sampler_custom);
    RUN(test_sampler_reproducible);
    RUN(test_sampler_distribution);
    RUN(test_sampler_edges);
    RUN(test_sampler_bad_logits);
    RUN(test_sampler_bad_stages);
    RUN(test_sampler_defaults);
    RUN(test_sampler_memory);
    RUN(test_sampler_large);
}
