/* cpu_top.c: the k largest values of rows, on the CPU: the reference for a GPU's `top`, and its scratch size.
 *
 * Rules: simple code: sampling does not use it, since on the CPU the sampler reads the logits in place (sampler.c).
 * Start: infer__cpu_top.
 */
#include "../backend.h"

enum { INFER__TOP_TILE = 2048 }; /* kernels/sample.k: entries that are sorted at once */

/* Two words for each entry of a first and a second round: later rounds have fewer. */
static uint64_t infer__top_scratch(int32_t n, int32_t k) {
    uint64_t parts = ((uint64_t)n + INFER__TOP_TILE - 1) / INFER__TOP_TILE, first = parts * (uint64_t)k;
    if (k == 1) return 2 * 2 * parts; /* parts of half a tile */
    return 2 * (first + (first + INFER__TOP_TILE - 1) / INFER__TOP_TILE * (uint64_t)k);
}

/* The k best of x to y. */
static void infer__cpu_top_row(const float *x, int32_t n, int32_t k, float *y) {
    int32_t i, j, have = 0, bad = -1;
    for (i = 0; i < n; i++) {
        float v = x[i] == 0 ? 0.0f : x[i];
        if (!infer__finite(x[i])) {
            memcpy(y, &bad, sizeof bad);
            return;
        }
        if (have == k && !(v > y[2 * k - 1])) continue;
        for (j = have < k ? have++ : k - 1; j > 0 && v > y[2 * j - 1]; j--) memcpy(y + 2 * j, y + 2 * j - 2, 8);
        memcpy(y + 2 * j, &i, sizeof i);
        y[2 * j + 1] = v;
    }
}

static void infer__cpu_top(infer__ctx *c, const infer__top_args *a) {
    int32_t i;
    double began = infer__op_begin(c);
    if (began < 0) return;
    INFER__ASSERT(a->k >= 1 && a->k <= INFER__TOP_MOST && a->k <= a->x.cols);
    INFER__ASSERT(a->y.rows == a->x.rows && a->y.cols >= 2 * a->k);
    for (i = 0; i < a->x.rows; i++) infer__cpu_top_row(infer__row(&a->x, i), a->x.cols, a->k, infer__row(&a->y, i));
    infer__op_end(c, "top", 0, began);
}
