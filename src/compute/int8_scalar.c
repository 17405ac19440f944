/* int8_scalar.c: integer dot products in plain C: the definition that every other level is compared with.
 *
 * Owns:  the scalar row of INT8, and infer__quantise_tail, which other levels use for the end of a row.
 * Start: infer__dot_block.
 */
#include "cpu_int8.h"

static void infer__quantise_scalar(const float *x, int64_t n, infer__x8 *out, int64_t stride) {
    int64_t k;
    for (k = 0; k < n; k += 32)
        infer__x8_block(x + k, (int)INFER__MIN(n - k, 32), (int)(k % INFER__CHUNK / 32),
                        out + k / INFER__CHUNK * stride);
}

/* Sum of q * x over n values from k, a multiple of 16, less offset times the sum of x. */
INFER__INLINE int32_t infer__dot_codes(const uint8_t *INFER__RESTRICT q, const int8_t *INFER__RESTRICT x, int k, int n,
                                       int32_t offset, int32_t x_sum) {
    int32_t sum = 0;
    int i, j;
    for (i = k; i < k + n; i += 16) {
        const uint8_t *qi = q + infer__q_index(i);
        for (j = 0; j < 16; j++) sum += qi[j] * x[i + j];
    }
    return sum - offset * x_sum;
}

/* One row of one column, block b: what y grows by, as cpu_int8.h defines it. */
INFER__INLINE float infer__dot_block(const infer__quant *t, const infer__unpacked *w, int row, const infer__x8 *x,
                                     int b) {
    const uint8_t *q = w->q[row];
    float sum;
    if (t->grain == 32) {
        sum = (float)infer__dot_codes(q, x->q, 32 * b, 32, t->offset, x->sum32[b]) * w->scale[b][row];
        if (t->has_min) sum += w->min[b][row] * x->fsum32[b];
    } else {
        int a = 2 * b;
        sum = (float)infer__dot_codes(q, x->q, 32 * b, 16, t->offset, x->sum16[a]) * w->scale[a][row];
        if (t->has_min) sum += w->min[a][row] * x->fsum16[a];
        a++;
        sum += (float)infer__dot_codes(q, x->q, 32 * b + 16, 16, t->offset, x->sum16[a]) * w->scale[a][row];
        if (t->has_min) sum += w->min[a][row] * x->fsum16[a];
    }
    return sum;
}

static void infer__dots_scalar(const infer__dots_args *a) {
    int32_t g, j, b, row;
    for (g = 0; g < a->n_groups; g++)
        for (j = 0; j < a->n_x; j++) {
            const infer__x8 *x = a->x + (a->cols ? a->cols[j] : j);
            float *y = a->y + j * a->stride + g * INFER__GROUP;
            for (row = 0; row < INFER__GROUP; row++)
                for (b = 0; b < a->n_blocks; b++) y[row] += infer__dot_block(a->type, a->w + g, row, x, b) * x->d[b];
        }
}
