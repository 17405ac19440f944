/* bench_sample.c: milliseconds to choose a token, by stage and vocabulary, on one core.
 *
 *   cc -O2 -Itests -DINFER_QUIET tests/bench_sample.c -o build/bench_sample -lm -lpthread -ldl && build/bench_sample
 *
 * Logits are normal with a standard deviation of 3 and a few large ones, as models give them: the best 20 lie 6 to 14
 * above the rest's best. "flat" is the worst case: a standard deviation of 0.1. Every figure is the median of `runs`
 * choices after two to warm up, each with other logits (of 8 sets), and each token is accepted.
 *
 * With -DBENCH_LLAMA and linked with a built llama.cpp (as tests/record_sampler.c says) the same table of its samplers:
 * from logits to the chosen token, the array of candidates included, as llama_sampler_sample does it. */
#include "text_parts.c"
#ifdef BENCH_LLAMA
#  include "llama.h"
#endif

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

static double bench_median(double *t, int n) {
    qsort(t, (size_t)n, sizeof *t, bench_compare);
    return t[n / 2];
}

/* The n tokens that were accepted before. */
static infer_token bench_history(int i) { return (i * 7919) % 1000; }

#ifdef BENCH_LLAMA

static void bench_add(struct llama_sampler *chain, const infer_stage *st, int32_t n_vocab) {
    const float *p = st->p;
    struct llama_sampler *s = NULL;
    switch (st->kind) {
    case INFER_STAGE_GREEDY: s = llama_sampler_init_greedy(); break;
    case INFER_STAGE_TEMPERATURE: s = llama_sampler_init_temp(p[0]); break;
    case INFER_STAGE_DYNAMIC_TEMPERATURE: s = llama_sampler_init_temp_ext(p[0], p[1], p[2]); break;
    case INFER_STAGE_TOP_K: s = llama_sampler_init_top_k((int32_t)p[0]); break;
    case INFER_STAGE_TOP_P: s = llama_sampler_init_top_p(p[0], 0); break;
    case INFER_STAGE_MIN_P: s = llama_sampler_init_min_p(p[0], 0); break;
    case INFER_STAGE_TYPICAL: s = llama_sampler_init_typical(p[0], 0); break;
    case INFER_STAGE_TOP_N_SIGMA: s = llama_sampler_init_top_n_sigma(p[0]); break;
    case INFER_STAGE_XTC: s = llama_sampler_init_xtc(p[0], p[1], 0, 1); break;
    case INFER_STAGE_MIROSTAT: s = llama_sampler_init_mirostat(n_vocab, 1, p[0], p[1], (int32_t)p[2]); break;
    case INFER_STAGE_MIROSTAT_2: s = llama_sampler_init_mirostat_v2(1, p[0], p[1]); break;
    case INFER_STAGE_ADAPTIVE_P: s = llama_sampler_init_adaptive_p(p[0], p[1], 1); break;
    case INFER_STAGE_PENALTY: s = llama_sampler_init_penalties(n_vocab, (int32_t)p[0], p[1], p[2], p[3]); break;
    case INFER_STAGE_DRY: s = llama_sampler_init_dry(NULL, p[0], p[1], (int32_t)p[2], p[3] < 0 ? 64 : (int32_t)p[3], NULL, 0); break;
    }
    llama_sampler_chain_add(chain, s);
}

static double bench_chain(const infer_stage *st, int32_t n_stages, const float *x, int32_t n, int runs, int32_t *kept) {
    double *t = (double *)malloc((size_t)runs * sizeof *t), median;
    struct llama_sampler *chain = llama_sampler_chain_init(llama_sampler_chain_default_params());
    llama_token_data *data = (llama_token_data *)malloc((size_t)n * sizeof *data);
    infer_stage usual[INFER_STAGES_USUAL];
    int i, last;
    if (!st) {
        infer__sampler_usual(NULL, usual, INFER_STAGES_USUAL, &n_stages, NULL);
        st = usual;
    }
    for (i = 0; i < n_stages; i++) bench_add(chain, &st[i], n);
    last = st[n_stages - 1].kind;
    if (last != INFER_STAGE_GREEDY && last != INFER_STAGE_MIROSTAT && last != INFER_STAGE_MIROSTAT_2 && last != INFER_STAGE_ADAPTIVE_P)
        llama_sampler_chain_add(chain, llama_sampler_init_dist(1));
    for (i = 0; i < 64; i++) llama_sampler_accept(chain, bench_history(i));
    for (i = -2; i < runs; i++) {
        const float *logits = x + (size_t)((unsigned)i % SETS) * (size_t)n;
        double t0 = infer__seconds();
        llama_token_data_array a;
        int32_t k;
        for (k = 0; k < n; k++) { data[k].id = k; data[k].logit = logits[k]; data[k].p = 0; }
        a.data = data; a.size = (size_t)n; a.selected = -1; a.sorted = 0;
        llama_sampler_apply(chain, &a);
        llama_sampler_accept(chain, a.data[a.selected].id);
        if (i >= 0) t[i] = (infer__seconds() - t0) * 1e3;
        *kept = (int32_t)a.size;
    }
    median = bench_median(t, runs);
    llama_sampler_free(chain);
    free(data);
    free(t);
    return median;
}

#else

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
    for (i = 0; i < 64; i++) infer__sampler_remember(s, bench_history(i), NULL);
    for (i = -2; i < runs; i++) {
        double t0 = infer__seconds();
        if (infer__sampler_choose(s, x + (size_t)((unsigned)i % SETS) * (size_t)n, n, &token, &err) != INFER_OK) {
            fprintf(stderr, "%s\n", err.message);
            exit(1);
        }
        infer__sampler_remember(s, token, NULL);
        if (i >= 0) t[i] = (infer__seconds() - t0) * 1e3;
    }
    median = bench_median(t, runs);
    *kept = infer__count(s);
    infer__sampler_close(s);
    free(t);
    return median;
}

#endif

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
