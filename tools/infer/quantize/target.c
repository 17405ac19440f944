/* target.c: types for the tensors of a model so that it has a given size and as little error as can be.
 *
 * Each tensor is encoded in each candidate type, on a sample of its rows, and counts by its values: the sum of error times values is
 * what is made small. For a price of a byte each tensor takes the type with the least error + price * bytes; the price is found by
 * halving, and what is left is spent on single tensors. */
#include "quantize.h"

#include <stdlib.h>
#include <string.h>

static const char *const CANDIDATES[] = {"IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "Q2_K", "IQ3_XXS", "IQ3_S", "Q3_K", "IQ4_XS", "Q4_K", "Q5_K", "Q6_K", "Q8_0"};
enum { N_CANDIDATES = (int)(sizeof CANDIDATES / sizeof CANDIDATES[0]), SAMPLE_ROWS = 48 };

typedef struct option { int32_t type; uint64_t bytes; double error; } option;

static int choose(const option *o, double price) {
    int i, best = 0;
    for (i = 1; i < N_CANDIDATES; i++)
        if (o[i].error + price * (double)o[i].bytes < o[best].error + price * (double)o[best].bytes) best = i;
    return best;
}

static uint64_t choose_all(const option *o, size_t n, double price, int *chosen) {
    uint64_t total = 0;
    size_t i;
    for (i = 0; i < n; i++) {
        chosen[i] = choose(o + i * N_CANDIDATES, price);
        total += o[i * N_CANDIDATES + (size_t)chosen[i]].bytes;
    }
    return total;
}

static int measure(const converting *c, importance *im, const file_tensor *t, option *o) {
    converting sample = *c;
    float *w;
    uint64_t n_matrices;
    int k, status = CLI_DONE;
    sample.out = NULL;
    sample.progress = NULL;
    sample.sample = SAMPLE_ROWS;
    if (!importance_read(im, t, &w, &n_matrices)) return CLI_FAILED;
    for (k = 0; k < N_CANDIDATES && status == CLI_DONE; k++) {
        infer_type_info info;
        o[k].type = type_fitting(type_named(CANDIDATES[k], &info), t->dims[0]);
        o[k].bytes = type_bytes(o[k].type, t);
        status = convert_tensor(&sample, t, o[k].type, w, n_matrices, &o[k].error);
        o[k].error *= (double)t->dims[0] * (double)t->rows;
    }
    free(w);
    return status;
}

int target_types(const converting *c, importance *im, const file_tensor *const *tensors, size_t n, uint64_t most, int32_t *types, uint64_t *bytes) {
    option *o = cli_alloc(c->in->command, n * N_CANDIDATES + 1, sizeof *o);
    int *chosen = cli_alloc(c->in->command, n + 1, sizeof *chosen), status = o && chosen ? CLI_DONE : CLI_FAILED, turn;
    double low = 0, high = 1;
    cli_progress bar;
    size_t i;
    cli_progress_begin(&bar, "measuring");
    for (i = 0; status == CLI_DONE && i < n; i++) {
        status = measure(c, im, tensors[i], o + i * N_CANDIDATES);
        cli_progress_show(&bar, (float)(i + 1) / (float)n);
    }
    cli_progress_end(&bar);
    if (status == CLI_DONE && choose_all(o, n, 1e30, chosen) > most) {
        char least[32];
        status = cli_fail(c->in->command, "--target-size: the smallest types take %s more than is left", cli_bytes_text((double)(choose_all(o, n, 1e30, chosen) - most), least));
    }
    if (status == CLI_DONE) {
        while (choose_all(o, n, high, chosen) > most && high < 1e30) high *= 4;
        for (turn = 0; turn < 100; turn++) {
            const double price = low + (high - low) / 2;
            if (choose_all(o, n, price, chosen) > most) low = price;
            else high = price;
        }
        choose_all(o, n, high, chosen);
        for (;;) { /* what is left: the best gain for its bytes that still fits */
            uint64_t total = 0;
            double best = 0;
            size_t at = n;
            int to = 0, k;
            for (i = 0; i < n; i++) total += o[i * N_CANDIDATES + (size_t)chosen[i]].bytes;
            for (i = 0; i < n; i++)
                for (k = 0; k < N_CANDIDATES; k++) {
                    const option *a = &o[i * N_CANDIDATES + (size_t)chosen[i]], *b = &o[i * N_CANDIDATES + (size_t)k];
                    const double gain = a->error - b->error;
                    if (b->bytes <= a->bytes || b->bytes - a->bytes > most - total || gain / (double)(b->bytes - a->bytes) <= best) continue;
                    best = gain / (double)(b->bytes - a->bytes);
                    at = i;
                    to = k;
                }
            if (at == n) break;
            chosen[at] = to;
        }
        for (i = 0; i < n; i++) {
            types[i] = o[i * N_CANDIDATES + (size_t)chosen[i]].type;
            bytes[i] = o[i * N_CANDIDATES + (size_t)chosen[i]].bytes;
        }
    }
    free(o);
    free(chosen);
    return status;
}
