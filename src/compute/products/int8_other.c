/* int8_other.c: integer dot products with the vectors of RISC-V (RVV 1.0).
 *
 * Owns:  the rvv row of INT8. It exists if the compiler's target has them: gcc 12 has no RVV functions at all.
 * How:   rows are multiplied as stored, 16 codes at a time, signed (a wide type's top bit is flipped): products of 16
 *        bits, added in 32.
 * Numbers: none: it has run under qemu.
 * Start: infer__dots_wide.
 */
#include "cpu_int8.h"

#if defined(INFER__SIMD_RVV)
#  include <riscv_vector.h>
/* Sum of 16 products of signed bytes; flip is 0x80 for wide types. */
INFER__INLINE int32_t infer__dot16_wide(const uint8_t *q, uint8_t flip, const int8_t *x) {
    vint8m1_t w = __riscv_vreinterpret_v_u8m1_i8m1(__riscv_vxor_vx_u8m1(__riscv_vle8_v_u8m1(q, 16), flip, 16));
    vint16m2_t p = __riscv_vwmul_vv_i16m2(w, __riscv_vle8_v_i8m1(x, 16), 16);
    return __riscv_vmv_x_s_i32m1_i32(__riscv_vwredsum_vs_i16m2_i32m1(p, __riscv_vmv_s_x_i32m1(0, 1), 16));
}

static void infer__dots_wide(const infer__dots_args *a) {
    const infer__quant *t = a->type;
    const uint8_t flip = t->offset == 128 ? 128 : 0;
    const int32_t offset = t->offset == 128 ? 0 : t->offset;
    int32_t g, j, b, row;
    for (g = 0; g < a->n_groups; g++)
        for (j = 0; j < a->n_x; j++) {
            const infer__x8 *x = infer__x8_col(a, j);
            float *y = a->y + j * a->stride + g * INFER__GROUP;
            for (row = 0; row < INFER__GROUP; row++)
                for (b = 0; b < a->n_blocks; b++) {
                    const uint8_t *q = a->w[g].q[row] + infer__q_index(32 * b);
                    int32_t low = infer__dot16_wide(q, flip, x->q + 32 * b) - offset * x->sum16[0][b];
                    int32_t high = infer__dot16_wide(q + 64, flip, x->q + 32 * b + 16) - offset * x->sum16[1][b];
                    y[row] += infer__block_sum(t, a->w + g, row, x, b, low, high) * x->d[b];
                }
        }
}
#endif
