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

static void suite_sampler_stages(void) {
    RUN(test_sampler_llama);
}
