/* int8_scalar.c: integer dot products in plain C: the definition that every other level is compared with.
 *
 * Owns:  the scalar row of INT8.
 * Start: infer__dots_scalar.
 */
#include "cpu_int8.h"

static void infer__quantise_scalar(const float *x, int32_t n, infer__x8 *out) {
    int32_t k;
    for (k = 0; k < n; k += 32) infer__x8_block(x + k, INFER__MIN(n - k, 32), k / 32, out);
}

/* Sum of q * x over the 16 values from k, less offset times the sum of x. */
INFER__INLINE int32_t infer__dot_codes(const uint8_t *INFER__RESTRICT row, const infer__x8 *x, int k, int32_t offset) {
    const uint8_t *INFER__RESTRICT q = row + infer__q_index(k);
    const int8_t *INFER__RESTRICT v = x->q + k;
    int32_t sum = 0;
    int j;
    for (j = 0; j < 16; j++) sum += q[j] * v[j];
    return sum - offset * x->sum16[k / 16 % 2][k / 32];
}

/* One row of one column, block b: the increment of y divided by d, as cpu_int8.h defines it, from the sums of the
 * block's halves less the offset. */
INFER__INLINE float infer__block_sum(const infer__quant *t, const infer__unpacked *w, int row, const infer__x8 *x,
                                     int b, int32_t low, int32_t high) {
    float sum;
    int a = 2 * b;
    if (t->grain == 32) {
        sum = (float)(low + high) * w->scale[b][row];
        return t->has_min ? sum + w->min[b][row] * x->fsum32[b] : sum;
    }
    sum = (float)low * w->scale[a][row];
    if (t->has_min) sum += w->min[a][row] * x->fsum16[0][b];
    a++;
    sum += (float)high * w->scale[a][row];
    return t->has_min ? sum + w->min[a][row] * x->fsum16[1][b] : sum;
}

static void infer__dots_scalar(const infer__dots_args *a) {
    int32_t g, j, b, row;
    for (g = 0; g < a->n_groups; g++)
        for (j = 0; j < a->n_x; j++) {
            const infer__x8 *x = infer__x8_col(a, j);
            float *y = a->y + j * a->stride + g * INFER__GROUP;
            for (row = 0; row < INFER__GROUP; row++)
                for (b = 0; b < a->n_blocks; b++) {
                    int32_t low = infer__dot_codes(a->w[g].q[row], x, 32 * b, a->type->offset);
                    int32_t high = infer__dot_codes(a->w[g].q[row], x, 32 * b + 16, a->type->offset);
                    y[row] += infer__block_sum(a->type, a->w + g, row, x, b, low, high) * x->d[b];
                }
        }
}
