/* bench_adapters.c: what an adapter costs a generated token, and how much of that is memory.
 *
 *   make bench-adapters MODEL=model.gguf LORA=lora.gguf
 *
 * Two sessions of one model, one with the adapter, evaluate 24 tokens each in turn. The fastest 0.3 %, 1 % and 2 % of all tokens are
 * shown: those that other programs disturbed least. "near" is the same with A and B of the first layer in place of those of all layers,
 * which must have the same matrices: they stay in the caches, so what is left is arithmetic. */
#include "../src/infer_all.c"

#include <stdio.h>
#include <stdlib.h>

enum { RUN = 24, WARM = 3, MOST = 1 << 17 };

static double times[2][MOST];

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static int fails(const char *what, const infer_error *e) {
    fprintf(stderr, "bench_adapters: %s: %s\n", what, e->message);
    return 1;
}

/* A and B of the first layer for all others. 0 when layers differ. */
static int bring_near(infer_adapter *a, int32_t layers) {
    const int32_t n = a->n_pairs / layers;
    int32_t i;
    for (i = n; i < a->n_pairs; i++) {
        infer__adapter_pair *p = &a->pairs[i], *first = &a->pairs[i % n];
        if (n * layers != a->n_pairs || p->rows != first->rows || p->cols != first->cols || p->kind != first->kind) return 0;
        p->a = first->a;
        p->b = first->b;
    }
    return 1;
}

/* `runs` runs of both sessions; a line of figures. */
static int measure(infer_session *const s[2], int runs, int32_t n_vocab, const char *name) {
    static const double shares[] = { 0.003, 0.01, 0.02 };
    size_t n = 0, k;
    int run, i, j;
    for (run = 0; run < runs && n + RUN < MOST; run++, n += RUN - WARM)
        for (i = 0; i < 2; i++) {
            if (infer_session_rewind(s[i], 0)) return fails(name, infer_session_error(s[i]));
            for (j = 0; j < RUN; j++) {
                const infer_token id = (run * 37 + j * 101) % n_vocab;
                const double began = infer__seconds();
                if (infer_session_eval(s[i], &id, 1)) return fails(name, infer_session_error(s[i]));
                if (j >= WARM) times[i][n + (size_t)(j - WARM)] = infer__seconds() - began;
            }
        }
    for (i = 0; i < 2; i++) qsort(times[i], n, sizeof **times, by_size);
    printf("%-6s", name);
    for (k = 0; k < sizeof shares / sizeof *shares; k++) {
        const double x = times[0][(size_t)(shares[k] * (double)n)], y = times[1][(size_t)(shares[k] * (double)n)];
        printf(" | %.1f %%: %.3f ms, with it %.3f, ratio %.3f", shares[k] * 100, x * 1e3, y * 1e3, x / y);
    }
    putchar('\n');
    return 0;
}

int main(int argc, char **argv) {
    infer_context_params cp;
    infer_session_params sp;
    infer_adapter_use use;
    infer_context *c[2];
    infer_session *s[2];
    infer_adapter *a;
    infer_model *m;
    infer_error e;
    const int runs = argc > 4 ? atoi(argv[4]) : 100;
    int i;
    if (argc < 3) {
        fprintf(stderr, "usage: bench_adapters MODEL LORA [THREADS [RUNS]]\n");
        return 2;
    }
    memset(&cp, 0, sizeof cp);
    memset(&sp, 0, sizeof sp);
    memset(&use, 0, sizeof use);
    cp.threads = argc > 3 ? atoi(argv[3]) : 1;
    cp.cells = sp.context = 256;
    if (infer_model_open(&m, argv[1], NULL, &e)) return fails(argv[1], &e);
    if (infer_adapter_open(&a, m, argv[2], 0, &e)) return fails(argv[2], &e);
    use.adapter = a;
    use.scale = 1;
    for (i = 0; i < 2; i++)
        if (infer_context_create(&c[i], m, &cp, &e) || (i && infer_context_set_adapters(c[i], &use, 1, &e)) ||
            infer_session_create_in(&s[i], c[i], &sp, &e))
            return fails("a session", &e);
    if (measure(s, runs, m->hp.n_vocab, "") || (bring_near(a, m->hp.n_layer) && measure(s, runs, m->hp.n_vocab, "near"))) return 1;
    for (i = 0; i < 2; i++) {
        infer_session_destroy(s[i]);
        infer_context_destroy(c[i]);
    }
    infer_adapter_close(a);
    infer_model_close(m);
    return 0;
}
