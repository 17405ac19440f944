/* bench_sample.c: milliseconds to choose a token, by stage and vocabulary, on one core.
 *
 *   cc -O2 -Itests -DINFER_QUIET tests/bench_sample.c -o build/bench_sample -lm -lpthread -ldl && build/bench_sample
 *
 * Logits are normal with a standard deviation of 3 and a few large ones, as models give them: the best 20 lie 6 to 14
 * above the rest's best. "flat" is the worst case: a standard deviation of 0.1. Every figure is the median of `runs`
 * choices after two to warm up, each with other logits (of 8 sets), and each token is accepted. */
#include "text_parts.c"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SETS = 8 };

static uint64_t bench_state = 1;
static double bench_uniform(void) {
    bench_state = bench_state * 6364136223846793005u + 1442695040888963407u;
    return ((double)(bench_state >> 11) + 0.5) / 9007199254740992.0;
}
static double bench_normal(void) {
    return sqrt(-2 * log(bench_uniform())) * cos(6.283185307179586 * bench_uniform());
}

static void bench_logits(float *x, int32_t n, double sigma) {
    int32_t i;
    for (i = 0; i < n; i++) x[i] = (float)(sigma * bench_normal());
    for (i = 0; i < 20 && sigma > 1; i++) x[(int32_t)(bench_uniform() * n)] = (float)(12 + 8 * bench_uniform());
}

static infer_stage bench_stage(int32_t kind, float a, float b, float c, float d) {
    infer_stage st;
    memset(&st, 0, sizeof st);
    st.kind = kind;
    st.p[0] = a; st.p[1] = b; st.p[2] = c; st.p[3] = d;
    return st;
}

static int bench_compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* The median time of a choice, in ms; `kept` = candidates at the end, of the last one. */
static double bench_chain(const infer_stage *st, int32_t n_stages, const float *x, int32_t n, int runs, int32_t *kept) {
    double *t = (double *)malloc((size_t)runs * sizeof *t), median;
    infer_sampler *s = NULL;
    infer_error err;
    infer_token token = 0;
    int i;
    if (infer__sampler_open(&s, NULL, NULL, NULL, st, n_stages, 1, &err) != INFER_OK) {
        fprintf(stderr, "%s\n", err.message);
        exit(1);
    }
    for (i = 0; i < 64; i++) infer__sampler_remember(s, (i * 7919) % 1000, NULL);
    for (i = -2; i < runs; i++) {
        double t0 = infer__seconds();
        if (infer__sampler_choose(s, x + (size_t)((unsigned)i % SETS) * (size_t)n, n, &token, &err) != INFER_OK) {
            fprintf(stderr, "%s\n", err.message);
            exit(1);
        }
        infer__sampler_remember(s, token, NULL);
        if (i >= 0) t[i] = (infer__seconds() - t0) * 1e3;
    }
    qsort(t, (size_t)runs, sizeof *t, bench_compare);
    median = t[runs / 2];
    *kept = infer__count(s);
    infer__sampler_close(s);
    free(t);
    return median;
}

int main(int argc, char **argv) {
    static const int32_t SIZES[] = { 32000, 128256, 262144 };
    int runs = argc > 1 ? atoi(argv[1]) : 201, flat, i, k, j;
    struct { const char *name; infer_stage st[8]; int32_t n; } rows[24];
    int n_rows = 0;
    float *x[3][2];
    memset(rows, 0, sizeof rows);
#define ROW(title) memset(&rows[n_rows], 0, sizeof rows[0]), rows[n_rows++].name = title
#define ADD(kind, a, b, c, d) rows[n_rows - 1].st[rows[n_rows - 1].n++] = bench_stage(INFER_STAGE_##kind, a, b, c, d)
    ROW("usual chain"); rows[0].n = -1;
    ROW("usual chain, repeat penalty 1.1"); ADD(PENALTY, 64, 1.1f, 0, 0); ADD(TOP_K, 40, 0, 0, 0); ADD(TOP_P, 0.95f, 0, 0, 0);
    ADD(MIN_P, 0.05f, 0, 0, 0); ADD(TEMPERATURE, 0.8f, 0, 0, 0);
    ROW("greedy"); ADD(GREEDY, 0, 0, 0, 0);
    ROW("temperature"); ADD(TEMPERATURE, 0.8f, 0, 0, 0);
    ROW("dynamic temperature"); ADD(DYNAMIC_TEMPERATURE, 0.8f, 0.5f, 1, 0);
    ROW("top-k 40"); ADD(TOP_K, 40, 0, 0, 0);
    ROW("top-k 1000"); ADD(TOP_K, 1000, 0, 0, 0);
    ROW("top-p 0.95"); ADD(TOP_P, 0.95f, 0, 0, 0);
    ROW("min-p 0.05"); ADD(MIN_P, 0.05f, 0, 0, 0);
    ROW("typical 0.9"); ADD(TYPICAL, 0.9f, 0, 0, 0);
    ROW("top-n-sigma 1"); ADD(TOP_N_SIGMA, 1, 0, 0, 0);
    ROW("XTC (1, 0.1)"); ADD(XTC, 1, 0.1f, 0, 0);
    ROW("mirostat"); ADD(MIROSTAT, 5, 0.1f, 100, 0);
    ROW("mirostat 2"); ADD(MIROSTAT_2, 5, 0.1f, 0, 0);
    ROW("penalties"); ADD(PENALTY, 64, 1.1f, 0.1f, 0.1f);
    ROW("DRY, without breakers"); ADD(DRY, 0.8f, 1.75f, 2, -1); rows[n_rows - 1].st[0].text = "[]";
    ROW("min-p 0.05, temperature"); ADD(MIN_P, 0.05f, 0, 0, 0); ADD(TEMPERATURE, 0.8f, 0, 0, 0);
    ROW("min-p 0.02, adaptive-p 0.3"); ADD(MIN_P, 0.02f, 0, 0, 0); ADD(ADAPTIVE_P, 0.3f, 0.9f, 0, 0);
    ROW("adaptive-p 0.3"); ADD(ADAPTIVE_P, 0.3f, 0.9f, 0, 0);
#undef ROW
#undef ADD
    for (k = 0; k < 3; k++) {
        for (flat = 0; flat < 2; flat++) {
            x[k][flat] = (float *)malloc((size_t)SIZES[k] * SETS * sizeof(float));
            for (j = 0; j < SETS; j++) bench_logits(x[k][flat] + (size_t)j * (size_t)SIZES[k], SIZES[k], flat ? 0.1 : 3);
        }
    }
    printf("| ms a choice | 32000 | 128256 | 262144 | flat 262144 | candidates left |\n|---|---|---|---|---|---|\n");
    for (i = 0; i < n_rows; i++) {
        int32_t kept = 0, kept_flat = 0;
        printf("| %s |", rows[i].name);
        for (k = 0; k < 4; k++) {
            int c = k < 3 ? k : 2;
            printf(" %.3f |", bench_chain(rows[i].n < 0 ? NULL : rows[i].st, rows[i].n < 0 ? 0 : rows[i].n, x[c][k == 3],
                                          SIZES[c], k == 3 ? runs / 8 + 3 : runs, k == 3 ? &kept_flat : &kept));
        }
        printf(" %d, %d |\n", (int)kept, (int)kept_flat);
        fflush(stdout);
    }
    return 0;
}
