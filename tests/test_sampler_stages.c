/* test_sampler_stages.c: every stage against llama.cpp's recorded results and against plain slow versions in double;
 * integer logarithms; picks that may never change; failures of memory. Uses helpers of test_sampler.c. */
#include "sampler_cases.h"

static infer_stage stage_of(int32_t kind, float a, float b, float c, float d) {
    infer_stage st = sampler_stage(kind, a);
    st.p[1] = b; st.p[2] = c; st.p[3] = d;
    return st;
}

/* ---- a vocabulary ------------------------------------------------------------------------------------- */

typedef struct stage_vocab {
    infer__mem mem;
    infer__gguf g;
    infer__tokenizer *t;
} stage_vocab;

static int stage_vocab_open(stage_vocab *v) {
    infer_error err;
    memset(v, 0, sizeof *v);
    infer__mem_init(&v->mem, NULL, 0);
    if (infer__gguf_open_path(&v->g, &v->mem, NULL, check_data("models/TinyStories-656K.Q8_0.gguf"), 1, &err) != INFER_OK ||
        infer__tokenizer_open(&v->t, &v->mem, NULL, &v->g, NULL, &err) != INFER_OK) {
        CHECK_STR(err.message, "");
        return 0;
    }
    return 1;
}
static void stage_vocab_close(stage_vocab *v) {
    infer__tokenizer_close(v->t);
    infer__gguf_close(&v->g);
    CHECK(infer__atomic_get(&v->mem.used) == 0);
}

/* ---- what llama.cpp leaves ------------------------------------------------------------------------------ */

static int32_t stage_chain_of(const sampler_case *c, infer_stage *st) {
    const float *p = c->p;
    static const int32_t kinds[] = { INFER_STAGE_PENALTY, INFER_STAGE_TOP_K, INFER_STAGE_TOP_P, INFER_STAGE_MIN_P,
        INFER_STAGE_TYPICAL, INFER_STAGE_TOP_N_SIGMA, INFER_STAGE_DYNAMIC_TEMPERATURE, INFER_STAGE_XTC, INFER_STAGE_DRY,
        INFER_STAGE_MIROSTAT, INFER_STAGE_MIROSTAT_2, INFER_STAGE_ADAPTIVE_P };
    if (c->what == CASE_INFILL) {
        st[0] = sampler_stage(INFER_STAGE_TOP_K, 40);
        st[1] = sampler_stage(INFER_STAGE_TOP_P, 0.99f);
        st[2] = sampler_stage(INFER_STAGE_INFILL, 0);
        return 3;
    }
    if (c->what == CASE_USUAL) {
        int32_t i, n = 0;
        infer_error err;
        CHECK(infer__sampler_usual(NULL, st, 16, &n, &err) == INFER_OK);
        for (i = 0; i < n; i++) {
            if (st[i].kind == INFER_STAGE_PENALTY) st[i].p[1] = 1.1f;
            if (st[i].kind == INFER_STAGE_DRY) { st[i].p[0] = 0.8f; st[i].text = "[]"; }
            if (st[i].kind == INFER_STAGE_TYPICAL) st[i].p[0] = 0.9f;
        }
        return n;
    }
    st[0] = stage_of(kinds[c->what], p[0], p[1], p[2], p[3]);
    if (c->what == CASE_DRY) st[0].text = c->breakers ? NULL : "[]";
    return 1;
}

static int stage_best_first(const void *a, const void *b) {
    const infer_candidate *x = (const infer_candidate *)a, *y = (const infer_candidate *)b;
    return infer__better(x, y) ? -1 : infer__better(y, x);
}

/* One recorded line against one choice: how many are left, and the likeliest with their probabilities. Those are
 * within 1e-4 of each other: llama.cpp adds floats. Neighbours of nearly the same probability may change places. */
static void stage_compare(infer_sampler *s, const char *line, int32_t n_left) {
    double sum = 0, p;
    int32_t i, at = 0, token, used;
    CHECK(infer__take_all(s, NULL) == INFER_OK);
    CHECK(s->n == n_left);
    qsort(s->c, (size_t)s->n, sizeof *s->c, stage_best_first);
    for (i = 0; i < s->n; i++) sum += exp((double)s->c[i].logit - s->c[0].logit);
    for (; sscanf(line, " %d:%lf%n", &token, &p, &used) == 2; line += used, at++) {
        double q = -1;
        for (i = 0; i < s->n; i++) if (s->c[i].token == token) q = exp((double)s->c[i].logit - s->c[0].logit) / sum;
        CHECK(fabs(p - q) <= 1e-4 * p + 1e-12);
    }
    CHECK(at == (n_left < SAMPLER_SHOWN ? n_left : SAMPLER_SHOWN));
}

/* The recorded token was the one that llama.cpp drew: learn from it as if it had been drawn here. */
static void stage_force(infer_sampler *s, int32_t token) {
    infer__drawn d;
    float best;
    int32_t i, bits = infer__weigh_bits(s->n);
    CHECK(infer__best_logit(s, &best, NULL) == INFER_OK);
    d.total = infer__weigh_all(s, best, bits);
    for (i = 0; i < s->n; i++) {
        if (s->c[i].token != token) continue;
        d.token = token;
        d.index = i;
        d.weight = infer__weigh(infer__gap(best, s->c[i].logit), bits);
        infer__stage_observe(s, &d);
    }
    CHECK(infer__sampler_remember(s, token, NULL) == INFER_OK);
}

static void test_sampler_llama(void) {
    size_t size = 0;
    char *text = check_read(check_data("sampler-cases.txt"), &size), *line = text, *next;
    static float x[2048];
    infer_sampler *s = NULL;
    stage_vocab v;
    int row, variant, step, n_left, drawn, used, lines = 0;
    CHECK(text != NULL);
    if (!text || !stage_vocab_open(&v)) return;
    for (; *line; line = next, lines++) {
        const sampler_case *c;
        infer_token history[SAMPLER_HISTORY], t = -1;
        infer_stage st[16];
        infer_error err;
        char detail[60];
        int32_t n, i;
        next = strchr(line, '\n');
        *next++ = 0;
        if (sscanf(line, "%d %d %d %d %d%n", &row, &variant, &step, &n_left, &drawn, &used) != 5) { CHECK(!"a line"); break; }
        snprintf(detail, sizeof detail, "row %d variant %d step %d", row, variant, step);
        check_detail = detail;
        c = &SAMPLER_CASES[row];
        n = sampler_case_size(c, variant);
        if (step == 0) {
            infer__sampler_close(s);
            s = NULL;
            CHECK(infer__sampler_open(&s, &v.mem, NULL, v.t, st, stage_chain_of(c, st), 1, &err) == INFER_OK);
            if (!s) { CHECK_STR(err.message, ""); break; }
            sampler_case_history(history, n, variant);
            for (i = 0; i < SAMPLER_HISTORY; i++) CHECK(infer__sampler_remember(s, history[i], NULL) == INFER_OK);
        }
        sampler_case_logits(x, n, c->what, variant, step);
        CHECK(infer__sampler_choose(s, x, n, &t, &err) == INFER_OK);
        stage_compare(s, line + used, n_left);
        if (drawn >= 0) stage_force(s, drawn);
        check_detail = "";
    }
    CHECK(lines > 500);
    infer__sampler_close(s);
    stage_vocab_close(&v);
    free(text);
}

/* ---- integers --------------------------------------------------------------------------------------------- */

static double stage_q32(int64_t x) { return (double)x / 4294967296.0; }

static void test_sampler_math(void) {
    uint64_t x, seed = 1;
    double worst = 0, y;
    int i;
    for (i = 0; i < 20000; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        x = seed >> (seed & 63);
        if (x == 0) continue;
        y = fabs(stage_q32(infer__log2(x)) - log2((double)x));
        if (y > worst) worst = y;
        CHECK(infer__sqrt_u64(x) == (uint64_t)sqrtl((long double)x) || infer__sqrt_u64(x) + 1 == (uint64_t)sqrtl((long double)x));
        if (infer__sqrt_u64(x) < 0xffffffffu) {
            uint64_t r = infer__sqrt_u64(x);
            CHECK(r * r <= x && (r + 1) * (r + 1) > x);
        }
    }
    CHECK(worst < 2e-9);
    CHECK(infer__log2(1) == 0 && infer__log2(0) == 0 && infer__log2((uint64_t)1 << 63) == 63 * INFER__Q32_ONE);
    CHECK(infer__log2(UINT64_MAX) < 64 * INFER__Q32_ONE);
    CHECK(infer__log2_float(0.25f) == -2 * INFER__Q32_ONE && infer__log2_float(1e-45f) == -126 * INFER__Q32_ONE);
    for (y = -30; y < 28.9; y += 0.173) {
        double got = stage_q32(infer__q32_exp2((int64_t)(y * 4294967296.0)));
        CHECK(fabs(got - exp2(y)) <= 1e-8 * exp2(y) + 3e-10);
    }
    CHECK(infer__q32_exp2(0) == INFER__Q32_ONE && infer__q32_exp2(INFER__Q32_ONE) == 2 * INFER__Q32_ONE);
    CHECK(infer__q32_exp2(INT64_MIN) == 0 && infer__q32_exp2(INT64_MAX) == (int64_t)1 << 62);
    CHECK(infer__q32_ratio(1, 3) == 0x55555555 && infer__q32_ratio(7, 2) == 7 * INFER__Q32_ONE / 2);
    CHECK(infer__q32_ratio(1, 0) == (int64_t)1 << 62 && infer__q32_ratio((uint64_t)1 << 62, 1) == (int64_t)1 << 62);
    CHECK(infer__q32_mul(3 * (uint64_t)INFER__Q32_ONE, (uint64_t)INFER__Q32_ONE / 2) == 3 * (uint64_t)INFER__Q32_ONE / 2);
    CHECK(infer__q32_mul_signed(-3 * INFER__Q32_ONE, INFER__Q32_ONE / 2) == -3 * INFER__Q32_ONE / 2);
    CHECK(infer__q32_mul_signed(-3 * INFER__Q32_ONE, -INFER__Q32_ONE) == 3 * INFER__Q32_ONE);
    CHECK(infer__q32_float(INFER__Q32_ONE / 4) == 0.25f && infer__q32(-1.5f) == -3 * INFER__Q32_ONE / 2);
    CHECK(infer__q32(3e38f) == (int64_t)1 << 61 && infer__q32(-3e38f) == -((int64_t)1 << 61));
    for (i = 0; i < 200; i++) {
        double want = pow(1.75, i), got = infer__power(1.75f, i);
        CHECK(want > 3e38 ? got == (double)3e38f : fabs(got - want) <= want * 6.1e-8);
        CHECK(fabs(infer__power(0.9f, i) - pow(0.9f, i)) <= 1e-7 * pow(0.9f, i));
    }
    CHECK(infer__power(0, 3) == 0 && infer__power(0, 0) == 1 && infer__power(1, INT32_MAX) == 1 && infer__power(2, -4) == 1);
    CHECK(infer__power(3e38f, 2) == 3e38f && infer__power(1e-30f, 5) == 0 && infer__power(1.0000001f, INT32_MAX) > 1e38f);
    CHECK(infer__gap(1, 1) == 0 && infer__gap(1.5f, 1) == (uint64_t)INFER__Q32_ONE / 2);
    CHECK(infer__gap(3e38f, 3e38f) == 0 && infer__gap(3e38f, 2.9e38f) == INFER__GAP_MAX && infer__gap(-3e38f, -3e38f) == 0);
    CHECK(infer__gap(0, infer__bits_f32(0xff800000u)) == INFER__GAP_MAX && infer__gap(0, -2e9f) == INFER__GAP_MAX);
    CHECK(infer__gap(1e9f, -1e9f) == (uint64_t)2000000000 << 32);
}

/* ---- plain slow versions ------------------------------------------------------------------------------------- */

typedef struct slow { double logit, p; int32_t token; } slow;
static int slow_order(const void *a, const void *b) {
    const slow *x = (const slow *)a, *y = (const slow *)b;
    return x->logit > y->logit ? -1 : x->logit < y->logit ? 1 : x->token - y->token;
}
/* The distribution, best first; returns its entropy in nats. */
static double slow_softmax(const float *x, int32_t n, slow *d) {
    double sum = 0, entropy = 0;
    int32_t i;
    for (i = 0; i < n; i++) { d[i].logit = x[i]; d[i].token = i; }
    qsort(d, (size_t)n, sizeof *d, slow_order);
    for (i = 0; i < n; i++) sum += d[i].p = exp(d[i].logit - d[0].logit);
    for (i = 0; i < n; i++) {
        d[i].p /= sum;
        if (d[i].p > 0) entropy -= d[i].p * log(d[i].p);
    }
    return entropy;
}

static const slow *slow_scores;
static double slow_entropy;
static double slow_score(int32_t i) { return fabs(-log(slow_scores[i].p) - slow_entropy); }
static int slow_typical_order(const void *a, const void *b) {
    int32_t i = *(const int32_t *)a, j = *(const int32_t *)b;
    double x = slow_score(i), y = slow_score(j);
    return x < y ? -1 : x > y ? 1 : i - j;
}

/* Which tokens a stage keeps: keep[token] = 1, or 2 where a difference of 1e-7 in the limit would decide. */
static void slow_keep(const infer_stage *st, const float *x, int32_t n, char *keep) {
    const double eps = 2e-7;
    slow *d = (slow *)malloc((size_t)n * sizeof *d);
    int32_t *order = (int32_t *)malloc((size_t)n * sizeof *order), i;
    double entropy = slow_softmax(x, n, d), sum = 0, mean = 0, var = 0, p = st->p[0], limit;
    memset(keep, 0, (size_t)n);
    for (i = 0; i < n; i++) { mean += x[i] / (double)n; order[i] = i; }
    for (i = 0; i < n; i++) var += (x[i] - mean) * (x[i] - mean) / n;
    if (st->kind == INFER_STAGE_TYPICAL) {
        slow_scores = d;
        slow_entropy = entropy;
        qsort(order, (size_t)n, sizeof *order, slow_typical_order);
    }
    for (i = 0; i < n; i++) {
        slow *c = &d[order[i]];
        char *k = &keep[c->token];
        switch (st->kind) {
        case INFER_STAGE_TYPICAL: /* near ties of the score may come in either order */
            *k = sum > p + eps ? 0 : sum > p - eps ? 2 : 1;
            if (i && slow_score(order[i]) - slow_score(order[i - 1]) < 1e-8) *k = keep[d[order[i - 1]].token] = 2;
            break;
        case INFER_STAGE_TOP_P: *k = sum >= p + eps && i ? 0 : sum >= p - eps && i ? 2 : 1; break;
        case INFER_STAGE_MIN_P: *k = c->p < d[0].p * p * (1 - eps) ? 0 : c->p < d[0].p * p * (1 + eps) ? 2 : 1; break;
        case INFER_STAGE_TOP_N_SIGMA:
            limit = d[0].logit - p * sqrt(var);
            *k = c->logit < limit - 1e-5 ? 0 : c->logit < limit + 1e-5 ? 2 : 1;
            break;
        case INFER_STAGE_XTC:
            *k = c->p > st->p[1] + eps && i + 1 < n && d[i + 1].p > st->p[1] + eps ? 0 : 1;
            if (*k && fabs(c->p - st->p[1]) < eps && i) *k = keep[d[i - 1].token] = 2;
            break;
        case INFER_STAGE_MIROSTAT_2: /* mu is 2 tau */
            limit = -log2(c->p) - 2 * p;
            *k = i && limit > 1e-6 ? 0 : i && limit > -1e-6 ? 2 : 1;
            break;
        }
        sum += c->p;
    }
    free(d);
    free(order);
}

/* Random logits: spreads from flat to peaked, ties, tokens that are not allowed are left to other tests. */
static void slow_logits(float *x, int32_t n, uint32_t *state) {
    float scale = (float)(1 + (sampler_case_next(state) >> 28)) * 0.25f;
    uint32_t coarse = sampler_case_next(state) >> 31;
    int32_t i;
    for (i = 0; i < n; i++) {
        x[i] = (float)(int32_t)(sampler_case_next(state) >> 8) / 1048576.0f * scale;
        if (coarse) x[i] = (float)(int32_t)(x[i] * 4) * 0.25f;
    }
    for (i = 0; i < 3; i++) x[sampler_case_next(state) % (uint32_t)n] += (float)(sampler_case_next(state) >> 29);
}

static void test_sampler_slow(void) {
    static const float ps[] = { 0.02f, 0.1f, 0.3f, 0.5f, 0.77f, 0.9f, 0.99f, 1.5f, 3 };
    static const int32_t kinds[] = { INFER_STAGE_TYPICAL, INFER_STAGE_TOP_P, INFER_STAGE_MIN_P, INFER_STAGE_TOP_N_SIGMA,
                                     INFER_STAGE_XTC, INFER_STAGE_MIROSTAT_2 };
    enum { N = 3000 };
    float *x = (float *)malloc(N * sizeof *x);
    char *keep = (char *)malloc(N), *have = (char *)malloc(N), detail[80];
    uint32_t state = 99;
    int round, sure = 0, unsure = 0;
    for (round = 0; round < 2000; round++) {
        infer_stage st[2];
        infer_sampler *s;
        infer_token t = -1;
        int32_t n = 1 + (int32_t)(sampler_case_next(&state) >> 8) % (round % 10 == 0 ? N : 60), i;
        int dense = round & 1;
        st[0] = stage_of(INFER_STAGE_PENALTY, 1, 1, 0, 0);
        st[1] = sampler_stage(kinds[round / 2 % 6], ps[round / 12 % 9]);
        if (st[1].kind == INFER_STAGE_XTC) { st[1].p[1] = st[1].p[0] < 0.5f ? st[1].p[0] : 0.01f; st[1].p[0] = 1; }
        if (st[1].p[0] > 1 && st[1].kind != INFER_STAGE_TOP_N_SIGMA && st[1].kind != INFER_STAGE_MIROSTAT_2) st[1].p[0] = 0.6f;
        if (!dense) st[0] = sampler_stage(INFER_STAGE_TYPICAL, 1); /* off: dense too; candidates come from a bias */
        snprintf(detail, sizeof detail, "round %d kind %d p %g n %d", round, (int)st[1].kind, (double)st[1].p[0], (int)n);
        check_detail = detail;
        slow_logits(x, n, &state);
        slow_keep(&st[1], x, n, keep);
        s = sampler_make(st, 2, (uint64_t)round);
        if (dense) {
            CHECK(infer__sampler_choose(s, x, n, &t, NULL) == INFER_OK);
        } else { /* the stage alone, on candidates in order */
            s->logits = x; s->n_vocab = n; s->dense = 1;
            CHECK(infer__take_all(s, NULL) == INFER_OK);
            infer__sort_best(s, round % 3 ? n : n / 2);
            CHECK(infer__stage_find(st[1].kind)->run(s, &s->stages[1], NULL) == INFER_OK);
        }
        CHECK(infer__take_all(s, NULL) == INFER_OK);
        CHECK(s->n >= 1 && s->sorted <= s->n);
        for (i = 1; i < s->sorted; i++) CHECK(infer__better(&s->c[i - 1], &s->c[i]));
        memset(have, 0, (size_t)n);
        for (i = 0; i < s->n; i++) have[s->c[i].token] = 1;
        for (i = 0; i < n; i++) {
            CHECK(keep[i] == 2 || keep[i] == have[i]);
            if (keep[i] == 2) unsure++;
            else sure++;
        }
        infer__sampler_close(s);
    }
    check_detail = "";
    if (getenv("CHECK_TIMES")) fprintf(stderr, "sampler: %d tokens compared, %d at a border\n", sure, unsure);
    CHECK(sure > 200000 && unsure < sure / 5); /* ties are many in coarse logits */
    free(x);
    free(keep);
    free(have);
}

/* Large k: the ranges and the quick select against a sort; also far apart, and with tokens that are not allowed. */
static void test_sampler_large_k(void) {
    enum { N = 5000 };
    static float x[N];
    static slow d[N];
    uint32_t state = 31;
    int round;
    for (round = 0; round < 60; round++) {
        infer_stage st = sampler_stage(INFER_STAGE_TOP_K, (float)(1 + (sampler_case_next(&state) >> 8) % N));
        infer_sampler *s = sampler_make(&st, 1, 1);
        infer_token t = -1;
        int32_t i, k = (int32_t)st.p[0];
        slow_logits(x, N, &state);
        for (i = 0; i < N && round % 4 == 1; i++) x[i] *= 1e5f;
        for (i = 0; i < N && round % 4 == 2; i++) x[i] = (float)(i % 3); /* a partition's bad cases: equals, sorted */
        for (i = 0; i < N && round % 4 == 3; i++) x[i] = (float)(round % 8 == 3 ? i : -i) * 0.001f;
        slow_softmax(x, N, d);
        CHECK(infer__sampler_choose(s, x, N, &t, NULL) == INFER_OK && infer__take_all(s, NULL) == INFER_OK && s->n == k);
        for (i = 0; i < k && k < N; i++) CHECK(s->c[i].token == d[i].token && s->c[i].logit == (float)d[i].logit);
        for (i = 0; i < N; i += 2) x[i] = infer__bits_f32(0xff800000u);
        CHECK(infer__sampler_choose(s, x, N, &t, NULL) == INFER_OK && infer__take_all(s, NULL) == INFER_OK);
        CHECK(t % 2 == 1 && s->n == (k < N / 2 ? k : N / 2));
        infer__sampler_close(s);
    }
}

/* Dynamic temperature, mirostat's k and adaptive-p: the numbers themselves. */
static void test_sampler_slow_numbers(void) {
    enum { N = 500 };
    static float x[N];
    static slow d[N];
    uint32_t state = 4242;
    int round;
    for (round = 0; round < 400; round++) {
        int32_t n = 2 + (int32_t)(sampler_case_next(&state) >> 8) % (N - 2), i, k;
        double entropy, t, s_hat, e, tb = 0, tt = 0, want, tau = 1 + round % 5;
        infer_stage st = stage_of(INFER_STAGE_DYNAMIC_TEMPERATURE, 1, 0.75f, round % 2 ? 1.0f : 1.7f, 0);
        infer_sampler *s = sampler_make(&st, 1, 1);
        infer_token token;
        slow_logits(x, n, &state);
        entropy = slow_softmax(x, n, d);
        CHECK(infer__sampler_choose(s, x, n, &token, NULL) == INFER_OK);
        t = 0.25 + 1.5 * pow(entropy / log(n), st.p[2]);
        for (i = 0; i < n && !s->dense; i++) CHECK(fabs(s->c[i].logit - x[s->c[i].token] / t) <= 3e-6 * (1 + fabs(x[s->c[i].token] / t)));
        infer__sampler_close(s);

        st = stage_of(INFER_STAGE_MIROSTAT, (float)tau, 0.1f, 100, 0);
        s = sampler_make(&st, 1, 1);
        CHECK(infer__sampler_choose(s, x, n, &token, NULL) == INFER_OK);
        for (i = 0; i < 99 && i < n - 1; i++) {
            double ti = log((i + 2.0) / (i + 1.0)), bi = d[i].logit - d[i + 1].logit;
            tb += ti * bi;
            tt += ti * ti;
        }
        s_hat = tb / tt;
        e = s_hat - 1;
        want = s_hat > 0 ? pow(e * exp2(2 * tau) / (1 - pow(n, -e)), 1 / s_hat) : n;
        k = want >= n ? n : want < 1 ? 1 : (int32_t)want;
        CHECK(s->n == k || (fabs(want - floor(want + 0.5)) < 1e-4 * want && abs((int)(s->n - k)) <= 1));
        { /* what it learns: mu - eta (surprise - tau), the surprise among those that were left */
            double sum = 0, p = 0;
            for (i = 0; i < s->n; i++) {
                double w = exp((double)s->c[i].logit - d[0].logit);
                sum += w;
                if (s->c[i].token == token) p = w;
            }
            CHECK(infer__sampler_remember(s, token, NULL) == INFER_OK);
            CHECK(fabs(stage_q32(s->states[0].mu) - (2 * tau - 0.1f * (-log2(p / sum) - tau))) < 1e-6);
        }
        infer__sampler_close(s);

        st = stage_of(INFER_STAGE_ADAPTIVE_P, 0.4f, 0.8f, 0, 0);
        s = sampler_make(&st, 1, 1);
        CHECK(fabs(stage_q32(s->states[0].weight) - 5) < 1e-6 && fabs(stage_q32(s->states[0].sum) - 2) < 1e-6);
        CHECK(infer__sampler_choose(s, x, n, &token, NULL) == INFER_OK);
        for (i = 0; i < n; i++) {
            double distance = fabs(d[i].p - 0.4) / 0.3;
            CHECK(fabs(s->c[d[i].token].logit - (5 - 10 * distance * distance / (1 + distance))) < 2e-6);
            CHECK(fabs(s->c[d[i].token].p - d[i].p) < 1e-7);
        }
        want = s->c[token].p;
        CHECK(infer__sampler_remember(s, token, NULL) == INFER_OK);
        CHECK(fabs(stage_q32(s->states[0].sum) - (want + 0.8f * 2)) < 1e-6 && fabs(stage_q32(s->states[0].weight) - 5) < 1e-6);
        infer__sampler_restart(s);
        CHECK(fabs(stage_q32(s->states[0].sum) - 2) < 1e-6);
        infer__sampler_close(s);
    }
}

/* ---- small distributions by hand ------------------------------------------------------------------------------- */

static void test_sampler_by_hand(void) {
    const double p[] = { 0.1, 0.4, 0.05, 0.3, 0.15 };
    const float minus_inf = infer__bits_f32(0xff800000u);
    infer_candidate c[40];
    infer_stage st[3];
    float x[5], one = 3, even[6] = { 2, 2, 2, 2, 2, 2 };
    int i;
    sampler_logs(x, p, 5);
    /* entropy 1.393 nats; surprises 2.303 0.916 2.996 1.204 1.897: distances 0.91 0.477 1.60 0.189 0.504 */
    st[0] = sampler_stage(INFER_STAGE_TYPICAL, 0.25f);
    CHECK_STR(sampler_left(st, 1, NULL, 0, x, 5, NULL), "3");
    st[0].p[0] = 0.35f; /* what is at the limit stands behind the others */
    CHECK_STR(sampler_left(st, 1, NULL, 0, x, 5, NULL), "3 1");
    st[0].p[0] = 0.72f;
    CHECK_STR(sampler_left(st, 1, NULL, 0, x, 5, NULL), "1 3 4");
    st[0].p[0] = 0.5f;
    CHECK_STR(sampler_left(st, 1, NULL, 0, even, 6, NULL), "0 1 2 3"); /* ties: until the sum is above, lowest ids */
    st[0].p[0] = 0;
    CHECK_STR(sampler_left(st, 1, NULL, 0, x, 5, NULL), "0 1 2 3 4");
    /* XTC: 0.1 0.4 0.3 0.15 are at least 0.1 (0.0999): the least of them stays */
    st[0] = stage_of(INFER_STAGE_XTC, 1, 0.0999f, 0, 0);
    CHECK_STR(sampler_left(st, 1, NULL, 0, x, 5, NULL), "0 2");
    st[0].p[1] = 0.2f;
    CHECK_STR(sampler_left(st, 1, NULL, 0, x, 5, NULL), "0 2 3 4");
    st[0].p[1] = 0.35f; /* only one is: nothing happens */
    CHECK_STR(sampler_left(st, 1, NULL, 0, x, 5, NULL), "0 1 2 3 4");
    st[0].p[1] = 0.51f; /* off */
    CHECK_STR(sampler_left(st, 1, NULL, 0, x, 5, NULL), "0 1 2 3 4");
    st[0].p[1] = 0;
    CHECK_STR(sampler_left(st, 1, NULL, 0, x, 5, NULL), "2");
    CHECK_STR(sampler_left(st, 1, NULL, 0, even, 6, NULL), "5");
    st[0] = stage_of(INFER_STAGE_XTC, 0, 0.1f, 0, 0);
    CHECK_STR(sampler_left(st, 1, NULL, 0, x, 5, NULL), "0 1 2 3 4");
    /* top-n-sigma of 0 2 4 6 8: sigma = sqrt(8) = 2.83 */
    for (i = 0; i < 5; i++) x[i] = (float)i * 2;
    st[0] = sampler_stage(INFER_STAGE_TOP_N_SIGMA, 0.7f);
    CHECK_STR(sampler_left(st, 1, NULL, 0, x, 5, NULL), "4");
    st[0].p[0] = 0.72f;
    CHECK_STR(sampler_left(st, 1, NULL, 0, x, 5, NULL), "3 4");
    st[0].p[0] = 100000;
    CHECK_STR(sampler_left(st, 1, NULL, 0, x, 5, NULL), "0 1 2 3 4");
    st[0].p[0] = -1;
    CHECK_STR(sampler_left(st, 1, NULL, 0, x, 5, NULL), "0 1 2 3 4");
    st[0].p[0] = 0.5f;
    CHECK_STR(sampler_left(st, 1, NULL, 0, even, 6, NULL), "0 1 2 3 4 5");
    x[1] = minus_inf; /* is not counted: 0 4 6 8 has sigma 2.958 */
    st[0].p[0] = 0.68f;
    CHECK_STR(sampler_left(st, 1, NULL, 0, x, 5, NULL), "3 4");
    /* bias, on logits and on candidates (behind XTC with a probability of 1 and nothing to do) */
    for (i = 0; i < 2; i++) {
        const infer_bias b[] = { {4, 0}, {3, 5}, {0, -1}, {3, 0.5f}, {1000, 3}, {4, minus_inf} };
        x[1] = 2;
        st[0] = stage_of(INFER_STAGE_XTC, 1, 0.5f, 0, 0);
        x[3] = x[4] = 6;
        st[i] = sampler_stage(INFER_STAGE_LOGIT_BIAS, 0);
        st[i].bias = b;
        st[i].n = 6;
        CHECK_STR(sampler_left(st, i + 1, NULL, 0, x, 5, c), "0 1 2 3");
        CHECK(c[0].logit == -1 && c[1].logit == 2 && c[3].logit == 11.5f);
    }
    /* one candidate: every stage leaves it */
    for (i = 1; i <= 17; i++) {
        const infer_bias b = {0, -5};
        st[0] = stage_of(i, 0.5f, 0.5f, 1, 10);
        if (i == INFER_STAGE_CUSTOM || i == INFER_STAGE_INFILL) continue;
        if (i == INFER_STAGE_DRY) st[0].text = "[]";
        if (i == INFER_STAGE_LOGIT_BIAS) { st[0].bias = &b; st[0].n = 1; }
        CHECK_STR(sampler_left(st, 1, NULL, 0, &one, 1, NULL), "0");
        CHECK_STR(sampler_left(st, 1, NULL, 0, x, 5, NULL), sampler_left(st, 1, NULL, 0, x, 5, NULL));
        { /* all but one not allowed; extremes */
            float most[4] = { minus_inf, minus_inf, -3e38f, minus_inf }, apart[3] = { 3e38f, -3e38f, 2.9e38f };
            CHECK_STR(sampler_left(st, 1, NULL, 0, most, 4, NULL), "2");
            sampler_left(st, 1, NULL, 0, apart, 3, NULL);
        }
    }
}

/* Bad logits are found by every stage, wherever it stands, and NaN parameters and wrong places by the check. */
static void test_sampler_refusals(void) {
    const float nan = infer__bits_f32(0x7fc00000u);
    infer_bias b = {-1, 0};
    infer_stage st = sampler_stage(INFER_STAGE_LOGIT_BIAS, 0), two[2];
    infer_sampler *s = NULL;
    infer_error err;
    infer_token t;
    int i, at;
    sampler_bad_stage(sampler_stage(INFER_STAGE_INFILL, 0), "infill", "vocabulary");
    st.n = 1;
    sampler_bad_stage(st, "logit bias", "NULL");
    st.bias = &b;
    sampler_bad_stage(st, "logit bias", "no token -1");
    b.token = 3;
    b.bias = nan;
    sampler_bad_stage(st, "logit bias", "token 3");
    b.bias = infer__bits_f32(0x7f800000u);
    sampler_bad_stage(st, "logit bias", "token 3");
    sampler_bad_stage(stage_of(INFER_STAGE_TYPICAL, 1.5f, 0, 0, 0), "typical", "p[0]");
    sampler_bad_stage(stage_of(INFER_STAGE_XTC, 2, 0, 0, 0), "xtc", "p[0]");
    sampler_bad_stage(stage_of(INFER_STAGE_MIROSTAT, 5, -1, 0, 0), "mirostat", "p[1]");
    sampler_bad_stage(stage_of(INFER_STAGE_DYNAMIC_TEMPERATURE, 1, 1, nan, 0), "temperature", "p[2]");
    for (i = 0; i < 3; i++) {
        static const int32_t last[] = { INFER_STAGE_MIROSTAT, INFER_STAGE_MIROSTAT_2, INFER_STAGE_ADAPTIVE_P };
        two[0] = stage_of(last[i], 0.5f, 0.5f, 0, 0);
        two[1] = sampler_stage(INFER_STAGE_GREEDY, 0);
        CHECK(infer__sampler_open(&s, NULL, NULL, NULL, two, 2, 1, &err) == INFER_ERR_ARGUMENT && s == NULL);
        CHECK_HAS(err.message, "must be the last stage");
    }
    for (i = 0; i < 6; i++) { /* DRY's breakers */
        static const char *const bad[] = { "", "{}", "[1]", "[\"\"]", "[\"a\"]", "[\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"]" };
        two[0] = stage_of(INFER_STAGE_DRY, 1, 2, 2, -1);
        two[0].text = bad[i];
        CHECK(infer__sampler_open(&s, NULL, NULL, NULL, two, 1, 1, &err) != INFER_OK && s == NULL);
        if (i > 0) CHECK_HAS(err.message, "sequence breakers");
        if (i == 4) CHECK_HAS(err.message, "vocabulary");
    }
    for (i = 1; i <= 17; i++) {
        float x[40];
        if (i == INFER_STAGE_CUSTOM || i == INFER_STAGE_INFILL) continue;
        st = stage_of(i, 0.5f, 0.5f, 1, 10);
        if (i == INFER_STAGE_DRY) st.text = "[]";
        s = sampler_make(&st, 1, 1);
        for (at = 0; at < 40; at++) infer__sampler_remember(s, at % 3, NULL);
        for (at = 0; at < 120; at++) {
            int k;
            for (k = 0; k < 40; k++) x[k] = (float)k * 0.1f;
            x[at % 40] = infer__bits_f32(at < 40 ? 0x7fc00000u : at < 80 ? 0x7f800000u : 0xffc00001u);
            CHECK(infer__sampler_choose(s, x, 40, &t, &err) == INFER_ERR_STATE);
            CHECK_HAS(err.message, "sampler: logit ");
            x[at % 40] = 1;
            CHECK(infer__sampler_choose(s, x, 40, &t, &err) == INFER_OK);
        }
        for (at = 0; at < 40; at++) x[at] = infer__bits_f32(0xff800000u);
        CHECK(infer__sampler_choose(s, x, 40, &t, &err) == INFER_ERR_STATE);
        CHECK_HAS(err.message, "no logit is finite");
        infer__sampler_close(s);
    }
}

/* ---- DRY --------------------------------------------------------------------------------------------------------- */

/* The penalty of every token by the definition: the longest stretch before one of its places that equals the end. */
static void slow_dry(const infer_stage *st, const infer_token *t, int32_t n, float *x, int32_t n_vocab) {
    int32_t token, k, len;
    for (token = 0; token < n_vocab; token++) {
        int32_t longest = -1;
        for (k = 0; k < n; k++) {
            if (t[k] != token) continue;
            for (len = 0; k - 1 - len >= 0 && t[k - 1 - len] == t[n - 1 - len]; len++) {
            }
            if (len > longest && k > 0) longest = len;
        }
        if (longest >= (int32_t)st->p[2]) x[token] -= st->p[0] * (float)pow(st->p[1], longest - (int32_t)st->p[2]);
    }
}

static void test_sampler_dry(void) {
    enum { N = 30 };
    uint32_t state = 11;
    int round;
    for (round = 0; round < 600; round++) {
        infer_stage st[2];
        infer_token history[200], t;
        int32_t n = (int32_t)(sampler_case_next(&state) >> 8) % 200, i, few = 1 + (int32_t)(sampler_case_next(&state) >> 8) % 8;
        float x[N], want[N];
        infer_sampler *s;
        st[0] = sampler_stage(INFER_STAGE_TYPICAL, 0);
        st[1] = stage_of(INFER_STAGE_DRY, 0.7f, 1.5f, (float)(round % 4), round % 3 ? -1.0f : 50.0f);
        st[1].text = "[]";
        if (round % 2) st[0] = stage_of(INFER_STAGE_XTC, 1, 0.5f, 0, 0); /* makes candidates */
        s = sampler_make(st, 2, 1);
        for (i = 0; i < n; i++) CHECK(infer__sampler_remember(s, history[i] = (infer_token)((sampler_case_next(&state) >> 16) % (uint32_t)few), NULL) == INFER_OK);
        for (i = 0; i < N; i++) want[i] = x[i] = (float)(i % 5);
        i = round % 3 || n < 50 ? 0 : n - 50;
        if (n - i > (int32_t)st[1].p[2]) slow_dry(&st[1], history + i, n - i, want, N);
        CHECK(infer__sampler_choose(s, x, N, &t, NULL) == INFER_OK && infer__take_all(s, NULL) == INFER_OK);
        CHECK(s->n == N);
        for (i = 0; i < N; i++) {
            double y = want[i] < -3e38f ? -3e38f : want[i];
            CHECK(fabs(s->c[i].logit - y) <= 1e-6 * (1 + fabs(y)));
            CHECK(s->counts == NULL || s->counts[i] == 0);
        }
        infer__sampler_close(s);
    }
}

static void test_sampler_dry_breakers(void) {
    stage_vocab v;
    infer_stage st = stage_of(INFER_STAGE_DRY, 1, 2, 1, -1);
    const infer__dry *dry;
    infer_sampler *s = NULL;
    infer_error err;
    infer_token ids[64], t;
    size_t n = 0, i;
    static float x[2048];
    if (!stage_vocab_open(&v)) return;
    CHECK(infer__tokenize(v.t, &v.mem, "cat, dog cat, dog cat", 21, 0, ids, 64, &n, &err) == INFER_OK && n > 4 && n < 64);
    st.text = "[\",\", \"dog c\"]";
    CHECK(infer__sampler_open(&s, &v.mem, NULL, v.t, &st, 1, 1, &err) == INFER_OK);
    dry = s->states[0].dry;
    for (i = 1; i < (size_t)dry->n; i++) CHECK(dry->entries[i - 1].head <= dry->entries[i].head);
    for (i = n - 1; i > 0 && !infer__dry_is_breaker(dry, ids[i]); i--) {
    }
    CHECK(i > 0 && i < n - 1); /* the second comma */
    CHECK(infer__dry_reach(dry, ids, (int32_t)n) == (int32_t)(n - 1 - i));
    for (i = 0; i < n; i++) infer__sampler_remember(s, ids[i], NULL);
    CHECK(infer__sampler_choose(s, x, 2048, &t, &err) == INFER_OK);
    infer__sampler_close(s);
    st.text = "[]"; /* without breakers the last "cat" asks for a penalty of "," */
    CHECK(infer__sampler_open(&s, &v.mem, NULL, v.t, &st, 1, 1, &err) == INFER_OK && s->states[0].dry == NULL);
    for (i = 0; i < n; i++) infer__sampler_remember(s, ids[i], NULL);
    CHECK(infer__sampler_choose(s, x, 2048, &t, &err) == INFER_OK && s->dense && s->logits != x);
    for (i = 0; i < n && ids[i] != ids[n - 1]; i++) {
    }
    CHECK(i + 1 < n && s->logits[ids[i + 1]] < -1);
    infer__sampler_close(s);
    CHECK(infer__sampler_open(&s, &v.mem, NULL, v.t, &st, 1, 1, NULL) == INFER_OK); /* nothing accepted: nothing happens */
    CHECK(infer__sampler_choose(s, x, 2048, &t, &err) == INFER_OK && s->logits == x);
    infer__sampler_close(s);
    stage_vocab_close(&v);
}

/* ---- the usual chain from a file ------------------------------------------------------------------------------------ */

/* A file with mirostat and sequence. */
static size_t stage_gguf(unsigned char *b, uint32_t mirostat, const char *sequence) {
    static const char *const keys[] = { "general.sampling.mirostat", "general.sampling.sequence", "general.sampling.mirostat_tau" };
    size_t at = 24, i, n;
    memset(b, 0, 512);
    memcpy(b, "GGUF\3", 5);
    b[16] = 3;
    for (i = 0; i < 3; i++) {
        b[at] = (unsigned char)strlen(keys[i]);
        memcpy(b + at + 8, keys[i], strlen(keys[i]));
        at += 8 + strlen(keys[i]);
        b[at] = i == 0 ? 5 : i == 1 ? 8 : 6;
        at += 4;
        n = strlen(sequence);
        if (i == 0) { b[at] = (unsigned char)mirostat; at += 4; }
        else if (i == 1) { b[at] = (unsigned char)n; b[at + 1] = (unsigned char)(n >> 8); memcpy(b + at + 8, sequence, n); at += 8 + n; }
        else { b[at + 2] = 0x40; b[at + 3] = 0x40; at += 4; } /* 3.0 */
    }
    return at;
}

/* The kinds of the usual chain of such a file, as text. */
static const char *stage_order(uint32_t mirostat, const char *sequence, float *p0_last) {
    static unsigned char bytes[512];
    static char text[200];
    infer__mem mem;
    infer__report report = { sampler_log, NULL };
    infer__gguf g;
    infer_stage st[INFER_STAGES_USUAL];
    infer_error err;
    int32_t n = 0, i;
    infer_result r;
    memset(&g, 0, sizeof g);
    infer__mem_init(&mem, NULL, 0);
    text[0] = 0;
    sampler_logged[0] = 0;
    r = infer__gguf_open_memory(&g, &mem, &report, bytes, stage_gguf(bytes, mirostat, sequence), &err);
    if (r == INFER_OK) r = infer__sampler_usual(&g, st, INFER_STAGES_USUAL, &n, &err);
    CHECK(r == INFER_OK && n <= INFER_STAGES_USUAL);
    if (r != INFER_OK) { CHECK_STR(err.message, ""); return ""; }
    for (i = 0; i < n; i++) sprintf(text + strlen(text), i ? " %d" : "%d", (int)st[i].kind);
    *p0_last = n ? st[n - 1].p[0] : -9;
    infer__gguf_close(&g);
    return text;
}

static void test_sampler_usual(void) {
    char many[400] = "";
    float p0;
    int i;
    CHECK_STR(stage_order(0, "", &p0), "6 14 10 3 9 4 5 11 8");
    CHECK_STR(stage_order(1, "top_k", &p0), "8 12");
    CHECK(p0 == 3);
    CHECK_STR(stage_order(2, "", &p0), "8 13");
    CHECK_STR(stage_order(0, "temperature;top_k;min-p;typ_p;penalties", &p0), "8 3 5 9 6");
    CHECK_STR(sampler_logged, "");
    CHECK_STR(stage_order(0, "adaptive_p;topk;;quux;top_p", &p0), "3 4 15"); /* what learns comes last */
    CHECK_HAS(sampler_logged, "quux");
    CHECK_STR(stage_order(0, "quux", &p0), "6 14 10 3 9 4 5 11 8");
    for (i = 0; i < 60; i++) strcat(many, "xtc;");
    CHECK(strlen(stage_order(0, many, &p0)) == 23 * 3 - 1);
    CHECK_HAS(sampler_logged, "xtc");
    CHECK(infer__stage_named("top_n_sigma", 11) == INFER_STAGE_TOP_N_SIGMA && infer__stage_named("nucleus", 7) == INFER_STAGE_TOP_P);
    CHECK(infer__stage_named("temp", 4) == INFER_STAGE_DYNAMIC_TEMPERATURE && infer__stage_named("infill", 6) == INFER_STAGE_INFILL);
    CHECK(infer__stage_named("", 0) == 0 && infer__stage_named("-", 1) == 0 && infer__stage_named("top", 3) == 0);
    CHECK(infer__stage_named("xtcx", 4) == 0 && infer__stage_named("adaptive-p", 10) == INFER_STAGE_ADAPTIVE_P);
}

/* ---- picks --------------------------------------------------------------------------------------------------------------- */

/* A hash of 200 picks of every stage, alone and in chains: recorded once, the same on every platform, with every
 * compiler and its flags (x87, fused operations, -ffast-math). */
static void test_sampler_picks(void) {
    static const uint64_t want[] = {
        0xe27f3da538434085u, 0x438d4ce2eb619c8bu, 0x950bb753b4696dd7u, 0x0adb222b43914015u,
        0x675d2cece82c616du, 0x372d6654643e9f42u, 0x2f95b1eebe3e6162u, 0xfcabbaf04a08c214u,
        0x439fe5395802d5f5u, 0x59068565e7b6120fu, 0xa576d4e358d46222u, 0x5363299638ea8975u,
        0x2da8c37733dbbba5u, 0x1cc6545c677747acu, 0xb31040245aea6ffdu, 0xc2b956a3b1b3859au,
        0x01acf5443f6abdaeu, 0x7936b340306c8e40u, 0xc54e3e11ac882e61u, 0x39eb7a802bb88c81u };
    enum { N = 1000, CHAINS = 20 };
    static float x[N];
    static const infer_bias bias[] = { {17, 2.5f}, {400, -1}, {3, 0.3f} };
    infer_stage st[4];
    uint64_t got[CHAINS];
    int chain, i, bad = 0;
    for (chain = 0; chain < CHAINS; chain++) {
        infer_sampler *s;
        int32_t n = 1;
        uint32_t state = 77;
        uint64_t hash = INFER__FNV;
        st[0] = stage_of(INFER_STAGE_TEMPERATURE, 0.9f, 0, 0, 0);
        switch (chain) {
        case 0: n = -1; break; /* the usual chain */
        case 1: break;
        case 2: st[0] = stage_of(INFER_STAGE_DYNAMIC_TEMPERATURE, 1, 0.7f, 1.3f, 0); break;
        case 3: st[0] = stage_of(INFER_STAGE_TYPICAL, 0.7f, 0, 0, 0); break;
        case 4: st[0] = stage_of(INFER_STAGE_TOP_N_SIGMA, 1.2f, 0, 0, 0); break;
        case 5: st[0] = stage_of(INFER_STAGE_XTC, 0.5f, 0.01f, 0, 0); break;
        case 6: st[0] = stage_of(INFER_STAGE_MIROSTAT, 4, 0.2f, 100, 0); break;
        case 7: st[0] = stage_of(INFER_STAGE_MIROSTAT_2, 4, 0.2f, 0, 0); break;
        case 8: st[0] = stage_of(INFER_STAGE_ADAPTIVE_P, 0.2f, 0.9f, 0, 0); break;
        case 9: st[0] = stage_of(INFER_STAGE_DRY, 0.9f, 1.3f, 0, 64); st[0].text = "[]"; break;
        case 10: st[0] = stage_of(INFER_STAGE_PENALTY, 64, 1.17f, 0.3f, 0.1f); break;
        case 11: st[0] = sampler_stage(INFER_STAGE_LOGIT_BIAS, 0); st[0].bias = bias; st[0].n = 3; break;
        case 12: st[0] = sampler_stage(INFER_STAGE_TOP_P, 0.9f); break;
        case 13: st[0] = sampler_stage(INFER_STAGE_MIN_P, 0.07f); break;
        case 14: st[0] = sampler_stage(INFER_STAGE_TOP_K, 70); break;
        case 15: st[n++] = sampler_stage(INFER_STAGE_TOP_P, 0.8f); st[n++] = stage_of(INFER_STAGE_PENALTY, 20, 1.3f, 0.1f, 0);
                 st[n++] = stage_of(INFER_STAGE_DYNAMIC_TEMPERATURE, 0.8f, 0.8f, 0.5f, 0); break;
        case 16: st[0] = stage_of(INFER_STAGE_TOP_N_SIGMA, 2, 0, 0, 0); st[n++] = sampler_stage(INFER_STAGE_TYPICAL, 0.9f);
                 st[n++] = stage_of(INFER_STAGE_MIROSTAT_2, 2, 0.1f, 0, 0); break;
        case 17: st[0] = sampler_stage(INFER_STAGE_MIN_P, 0.01f); st[n++] = stage_of(INFER_STAGE_XTC, 0.7f, 0.02f, 0, 0);
                 st[n++] = stage_of(INFER_STAGE_ADAPTIVE_P, 0.1f, 0.5f, 0, 0); break;
        case 18: st[n++] = stage_of(INFER_STAGE_DRY, 2, 1.1f, 1, -1); st[1].text = "[]"; st[n++] = sampler_stage(INFER_STAGE_TOP_K, 12);
                 st[n++] = stage_of(INFER_STAGE_XTC, 1, 0.2f, 0, 0); break;
        default: st[0] = stage_of(INFER_STAGE_TEMPERATURE, 1.31f, 0, 0, 0); st[n++] = sampler_stage(INFER_STAGE_TYPICAL, 0.3f);
                 st[n++] = sampler_stage(INFER_STAGE_TOP_P, 0.77f); st[n++] = stage_of(INFER_STAGE_MIROSTAT, 3, 1, 40, 0);
        }
        s = sampler_make(n < 0 ? NULL : st, n < 0 ? 0 : n, 1234 + (uint64_t)chain);
        for (i = 0; i < 200; i++) {
            infer_token t = -1;
            unsigned char bytes[4];
            int32_t k, size = i % 3 ? N : 60;
            for (k = 0; k < size; k++) x[k] = (float)(int32_t)(sampler_case_next(&state) >> 8) / 1048576.0f * (i % 4 < 2 ? 0.5f : 1.1f);
            CHECK(infer__sampler_choose(s, x, size, &t, NULL) == INFER_OK && infer__sampler_remember(s, t, NULL) == INFER_OK);
            bytes[0] = (unsigned char)t; bytes[1] = (unsigned char)(t >> 8); bytes[2] = (unsigned char)(t >> 16); bytes[3] = 0;
            hash = infer__fnv(hash, bytes, 4);
        }
        infer__sampler_close(s);
        got[chain] = hash;
        bad |= (size_t)chain >= INFER__COUNT(want) || hash != want[chain];
    }
    CHECK(!bad);
    for (chain = 0; chain < CHAINS && bad; chain++)
        fprintf(stderr, "        0x%08x%08xu,%s", (unsigned)(got[chain] >> 32), (unsigned)got[chain], chain % 4 == 3 ? "\n" : "");
}

/* Chi-square of draws behind stages: what is left is drawn by its probability. 7 degrees of freedom: above 24.3 once in
 * 1,000 times, and they are the same draws every time. XTC with a probability of 0.3 drops the best in 0.3 of them. */
static void test_sampler_stage_draws(void) {
    const double p[] = { 0.3, 0.2, 0.15, 0.12, 0.1, 0.07, 0.04, 0.02 };
    float x[8];
    int k, i, j;
    sampler_logs(x, p, 8);
    for (k = 0; k < 4; k++) {
        infer_stage st = stage_of(INFER_STAGE_XTC, 0.3f, 0.18f, 0, 0);
        double want[8], sum = 0, chi = 0;
        int count[8] = { 0, 0, 0, 0, 0, 0, 0, 0 }, left = 0;
        infer_sampler *s;
        if (k == 1) st = stage_of(INFER_STAGE_DYNAMIC_TEMPERATURE, 2, 0, 1, 0);
        if (k == 2) st = sampler_stage(INFER_STAGE_TOP_P, 0.9f);
        if (k == 3) st = stage_of(INFER_STAGE_ADAPTIVE_P, 0.15f, 0, 0, 0);
        for (i = 0; i < 8; i++) {
            double d = fabs(p[i] - 0.15) / 0.3;
            want[i] = k == 1 ? sqrt(p[i]) : k == 3 ? exp(5 - 10 * d * d / (1 + d)) : k == 2 && i > 5 ? 0 : p[i];
            sum += want[i];
        }
        for (i = 0; i < 8; i++) want[i] /= sum;
        if (k == 0) for (i = 0; i < 8; i++) want[i] = 0.7 * p[i] + (i ? 0.3 * p[i] / 0.7 : 0);
        s = sampler_make(&st, 1, 5);
        for (j = 0; j < 40000; j++) { /* not accepted: adaptive-p stays as it is */
            infer_token t = -1;
            CHECK(infer__sampler_choose(s, x, 8, &t, NULL) == INFER_OK);
            count[t]++;
        }
        infer__sampler_close(s);
        for (i = 0; i < 8; i++) {
            if (want[i] > 0) { chi += (count[i] - 40000 * want[i]) * (count[i] - 40000 * want[i]) / (40000 * want[i]); left++; }
            else CHECK(count[i] == 0);
        }
        check_detail = k == 0 ? "xtc" : k == 1 ? "temperature" : k == 2 ? "top-p" : "adaptive-p";
        CHECK(chi < 24.3 && chi > 0.1 && left >= 6);
        check_detail = "";
    }
}

/* Chains of random stages with random and extreme parameters, logits and histories: a token that is allowed, or an error
 * that says why; the caller's logits are as they were, and the second sampler with the seed does the same. */
static void test_sampler_random(void) {
    static const uint32_t specials[] = { 0xff800000u, 0x7f7fffffu, 0xff7fffffu, 0, 0x80000000u, 1, 0x4e800000u, 0xce800000u };
    static const float values[] = { 0, 1, -1, 0.5f, 0.05f, 0.999f, 1e-7f, 2, 5, 40, 1000, 3e38f, -3e38f, 1e-38f };
    static const infer_bias bias[] = { {0, -3e38f}, {1, 3e38f}, {2, 0.1f}, {50, 1} };
    enum { N = 1200 };
    static float x[N], before[N];
    uint32_t state = 2025;
    int round, opened = 0, chosen = 0;
    stage_vocab v;
    if (!stage_vocab_open(&v)) return;
    for (round = 0; round < 4000; round++) {
        infer_stage st[6];
        infer_sampler *a = NULL, *b = NULL;
        infer_error err;
        int32_t n_stages = (int32_t)(sampler_case_next(&state) >> 8) % 6, i, k, n;
        uint32_t extreme = sampler_case_next(&state) >> 30;
        memset(st, 0, sizeof st);
        for (i = 0; i < n_stages; i++) {
            const infer__stage_kind *kind;
            do st[i].kind = 1 + (int32_t)(sampler_case_next(&state) >> 8) % 17;
            while (st[i].kind == INFER_STAGE_CUSTOM ||
                   (i < n_stages - 1 && (infer__stage_find(st[i].kind)->flags & INFER__STAGE_LAST)));
            kind = infer__stage_find(st[i].kind);
            for (k = 0; k < 4; k++) st[i].p[k] = values[(sampler_case_next(&state) >> 8) % INFER__COUNT(values)];
            for (k = 0; k < kind->n_p && round % 8; k++) /* mostly within bounds */
                st[i].p[k] = INFER__MIN(INFER__MAX(st[i].p[k], kind->lo[k]), kind->hi[k]);
            if (st[i].kind == INFER_STAGE_DRY) st[i].text = "[]";
            if (st[i].kind == INFER_STAGE_LOGIT_BIAS) { st[i].bias = bias; st[i].n = 4; }
        }
        if (infer__sampler_open(&a, NULL, NULL, v.t, st, n_stages, (uint64_t)round, &err) != INFER_OK) {
            CHECK_HAS(err.message, "stages[");
            continue;
        }
        CHECK(infer__sampler_open(&b, NULL, NULL, v.t, st, n_stages, (uint64_t)round, &err) == INFER_OK);
        opened++;
        for (i = 0; i < 6; i++) {
            infer_token t = -1, u = -1;
            infer_result r;
            n = 1 + (int32_t)(sampler_case_next(&state) >> 8) % (i == 5 ? N : 90);
            slow_logits(x, n, &state);
            for (k = 0; k < n && extreme == 0; k++) {
                uint32_t which = sampler_case_next(&state) >> 28;
                if (which < INFER__COUNT(specials)) x[k] = infer__bits_f32(specials[which]);
            }
            memcpy(before, x, sizeof x);
            r = infer__sampler_choose(a, x, n, &t, &err);
            CHECK(memcmp(before, x, sizeof x) == 0);
            CHECK(infer__sampler_choose(b, x, n, &u, NULL) == r && u == t);
            if (r != INFER_OK) { CHECK(r == INFER_ERR_STATE); CHECK_HAS(err.message, "sampler: "); continue; }
            chosen++;
            CHECK(t >= 0 && t < n && infer__f32_bits(x[t]) != 0xff800000u);
            if (t < 0) t = 0;
            CHECK(infer__sampler_remember(a, t, NULL) == INFER_OK && infer__sampler_remember(b, t, NULL) == INFER_OK);
        }
        infer__sampler_close(a);
        infer__sampler_close(b);
    }
    CHECK(opened > 3000 && chosen > 15000);
    stage_vocab_close(&v);
}

/* ---- memory --------------------------------------------------------------------------------------------------------------- */

/* Every allocation fails once, in opening and in choosing: an error, no leak, and it works afterwards. */
static void test_sampler_stages_memory(void) {
    static const infer_bias bias[] = { {5, 1}, {2, -1} };
    infer_allocator a = { NULL, check_alloc, check_free };
    static float x[2048];
    stage_vocab v;
    infer_stage st[8];
    int i, n = 0;
    long fail, live;
    if (!stage_vocab_open(&v)) return;
    live = check_live;
    for (i = 0; i < 2048; i++) x[i] = (float)(i * 37 % 640) * 0.01f;
    st[n] = sampler_stage(INFER_STAGE_LOGIT_BIAS, 0); st[n].bias = bias; st[n++].n = 2;
    st[n++] = stage_of(INFER_STAGE_PENALTY, -1, 1.1f, 0, 0);
    st[n] = stage_of(INFER_STAGE_DRY, 1, 2, 0, -1); st[n++].text = "[\"\\n\", \"the \"]";
    st[n++] = sampler_stage(INFER_STAGE_TOP_N_SIGMA, 5);
    st[n++] = sampler_stage(INFER_STAGE_TYPICAL, 0.99f);
    st[n++] = sampler_stage(INFER_STAGE_INFILL, 0);
    st[n++] = stage_of(INFER_STAGE_MIROSTAT, 5, 0.1f, 0, 0);
    for (fail = 1; fail < 400; fail++) {
        infer__mem mem;
        infer_sampler *s = NULL;
        infer_error err;
        infer_token t = -1;
        infer_result r;
        int used;
        infer__mem_init(&mem, &a, 0);
        check_allocs = 0;
        check_fail_at = fail;
        r = infer__sampler_open(&s, &mem, NULL, v.t, st, n, 1, &err);
        for (i = 0; i < 300 && r == INFER_OK; i++) {
            r = infer__sampler_choose(s, x, 2048, &t, &err);
            if (r == INFER_OK) r = infer__sampler_remember(s, i % 7, &err);
        }
        used = check_allocs >= fail;
        CHECK(r == (used ? INFER_ERR_MEMORY : INFER_OK));
        if (used) CHECK_HAS(err.message, "memory");
        if (s) CHECK(infer__sampler_choose(s, x, 2048, &t, &err) == INFER_OK && infer__sampler_remember(s, t, &err) == INFER_OK);
        if (s && !used) { /* nothing is allocated any more, but for a history that grows */
            long before = check_allocs;
            for (i = 0; i < 50; i++) CHECK(infer__sampler_choose(s, x, 2048, &t, &err) == INFER_OK);
            CHECK(check_allocs == before);
        }
        infer__sampler_close(s);
        CHECK(check_live == live && infer__atomic_get(&mem.used) == 0);
        if (!used) break;
    }
    check_fail_at = 0;
    CHECK(fail > 12 && fail < 400);
    stage_vocab_close(&v);
}

/* Stages that look back, before anything was accepted: there is no list yet, not even one to point into. */
static void test_sampler_nothing_accepted(void) {
    static const float logits[4] = {0.5f, 2, -1, 1};
    static const int32_t kinds[] = {INFER_STAGE_PENALTY, INFER_STAGE_DRY};
    size_t i;
    for (i = 0; i < 2; i++) {
        infer_stage st[2];
        infer_sampler *s = NULL;
        infer_token token = -1;
        infer_error err;
        st[0] = i == 0 ? stage_of(kinds[i], 8, 1.5f, 0.5f, 0.5f) : stage_of(kinds[i], 1, 1.75f, 0, 8);
        if (i == 1) st[0].text = "[]";
        st[1] = sampler_stage(INFER_STAGE_GREEDY, 0);
        CHECK(infer_sampler_create(&s, NULL, st, 2, 1, &err) == INFER_OK);
        if (!s) return;
        CHECK(s->history == NULL);
        CHECK(infer_sampler_sample(s, logits, 4, &token, &err) == INFER_OK && token == 1);
        infer_sampler_destroy(s);
    }
}

static void suite_sampler_stages(void) {
    RUN(test_sampler_nothing_accepted);
    RUN(test_sampler_llama);
    RUN(test_sampler_math);
    RUN(test_sampler_slow);
    RUN(test_sampler_large_k);
    RUN(test_sampler_slow_numbers);
    RUN(test_sampler_by_hand);
    RUN(test_sampler_refusals);
    RUN(test_sampler_dry);
    RUN(test_sampler_dry_breakers);
    RUN(test_sampler_usual);
    RUN(test_sampler_picks);
    RUN(test_sampler_stage_draws);
    RUN(test_sampler_random);
    RUN(test_sampler_stages_memory);
}
