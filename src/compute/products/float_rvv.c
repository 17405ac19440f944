/* float_rvv.c: blocks of dot products with float weights with RISC-V's vectors (RVV 1.0): all 16 lanes in one register.
 *
 * Owns:  the functions of the rvv row of FLOATS.
 * Sums:  those of cpu_float.h. Files are read as bytes: wider elements that are not aligned may end the program.
 * Numbers: counts under qemu alone (docs/benchmarks.md).
 * Start: INFER__FLOAT_RVV.
 */
#include "cpu_float.h"

#if defined(INFER__SIMD_RVV)

/* 16 floats, fp16, and of 16 pairs of BF16 odd and even ones, at any address. */
INFER__INLINE vuint32m4_t infer__words_rvv(const uint8_t *p) {
    return __riscv_vreinterpret_v_u8m4_u32m4(__riscv_vle8_v_u8m4(p, 64));
}
INFER__INLINE vfloat32m4_t infer__f32_at_rvv(const uint8_t *p) {
    return __riscv_vreinterpret_v_u32m4_f32m4(infer__words_rvv(p));
}
INFER__INLINE vfloat32m4_t infer__f16_at_rvv(const uint8_t *p) {
    const vuint16m2_t v = __riscv_vreinterpret_v_u8m2_u16m2(__riscv_vle8_v_u8m2(p, 32));
    return infer__widened_rvv(__riscv_vzext_vf2_u32m4(v, 16), 16);
}
INFER__INLINE vfloat32m4_t infer__odd_at_rvv(const uint8_t *p) {
    return __riscv_vreinterpret_v_u32m4_f32m4(__riscv_vand_vx_u32m4(infer__words_rvv(p), 0xffff0000u, 16));
}
INFER__INLINE vfloat32m4_t infer__even_at_rvv(const uint8_t *p) {
    return __riscv_vreinterpret_v_u32m4_f32m4(__riscv_vsll_vx_u32m4(infer__words_rvv(p), 16, 16));
}

/* s[i][j] += the weights of row i times those of column j, GET at p and AT bytes into a step of x. */
#define INFER__MADD_RVV(s, w, p) s = __riscv_vfmacc_vv_f32m4(s, w, infer__f32_at_rvv(p), 16)
#define INFER__FLOAT_RVV_1(GET, AT) INFER__MADD_RVV(s00, GET(wp), xp + (AT))
#define INFER__FLOAT_RVV_2(GET, AT)                          \
    do {                                                     \
        const vfloat32m4_t v = GET(wp), u = GET(wp + sw);    \
        INFER__MADD_RVV(s00, v, xp + (AT));                  \
        INFER__MADD_RVV(s10, u, xp + (AT));                  \
        INFER__MADD_RVV(s01, v, xp + sx + (AT));             \
        INFER__MADD_RVV(s11, u, xp + sx + (AT));             \
    } while (0)
#define INFER__FLOAT_STEP_RVV_f32(C) INFER__FLOAT_RVV_##C(infer__f32_at_rvv, 0)
#define INFER__FLOAT_STEP_RVV_f16(C) INFER__FLOAT_RVV_##C(infer__f16_at_rvv, 0)
#define INFER__FLOAT_STEP_RVV_bf16(C)           \
    INFER__FLOAT_RVV_##C(infer__odd_at_rvv, 0); \
    INFER__FLOAT_RVV_##C(infer__even_at_rvv, 64)

#define INFER__LANES_RVV(i, j) acc + (4 * (j) + (i)) * INFER__LANES
/* infer__float_KIND_1_rvv and _2_: one row and one column, two rows and two columns at a time. */
#define INFER__FLOAT_RVV(KIND)                                                                                       \
    static void infer__float_##KIND##_1_rvv(const uint8_t *w, int64_t sw, const uint8_t *x, int64_t sx,              \
                                            int64_t steps, const uint8_t *next, int64_t sn, float *acc) {            \
        int row;                                                                                                     \
        (void)sx, (void)next, (void)sn;                                                                              \
        for (row = 0; row < INFER__FLOAT_ROWS; row++, w += sw) {                                                     \
            vfloat32m4_t s00 = __riscv_vle32_v_f32m4(INFER__LANES_RVV(row, 0), 16);                                  \
            const uint8_t *wp = w, *xp = x, *end = w + steps * INFER__FLOAT_W_##KIND;                                \
            for (; wp < end; wp += INFER__FLOAT_W_##KIND, xp += INFER__FLOAT_X_##KIND) {                             \
                INFER__PREFETCH_FAR(wp + INFER__FLOAT_AHEAD);                                                        \
                INFER__FLOAT_STEP_RVV_##KIND(1);                                                                     \
            }                                                                                                        \
            __riscv_vse32_v_f32m4(INFER__LANES_RVV(row, 0), s00, 16);                                                \
        }                                                                                                            \
    }                                                                                                                \
    static void infer__float_##KIND##_2_rvv(const uint8_t *w, int64_t sw, const uint8_t *x, int64_t sx,              \
                                            int64_t steps, const uint8_t *next, int64_t sn, float *acc) {            \
        int row;                                                                                                     \
        (void)next, (void)sn;                                                                                        \
        for (row = 0; row < INFER__FLOAT_ROWS; row += 2, w += 2 * sw) {                                              \
            vfloat32m4_t s00 = __riscv_vle32_v_f32m4(INFER__LANES_RVV(row, 0), 16);                                  \
            vfloat32m4_t s10 = __riscv_vle32_v_f32m4(INFER__LANES_RVV(row + 1, 0), 16);                              \
            vfloat32m4_t s01 = __riscv_vle32_v_f32m4(INFER__LANES_RVV(row, 1), 16);                                  \
            vfloat32m4_t s11 = __riscv_vle32_v_f32m4(INFER__LANES_RVV(row + 1, 1), 16);                              \
            const uint8_t *wp = w, *xp = x, *end = w + steps * INFER__FLOAT_W_##KIND;                                \
            for (; wp < end; wp += INFER__FLOAT_W_##KIND, xp += INFER__FLOAT_X_##KIND) {                             \
                INFER__FLOAT_STEP_RVV_##KIND(2);                                                                     \
            }                                                                                                        \
            __riscv_vse32_v_f32m4(INFER__LANES_RVV(row, 0), s00, 16);                                                \
            __riscv_vse32_v_f32m4(INFER__LANES_RVV(row + 1, 0), s10, 16);                                            \
            __riscv_vse32_v_f32m4(INFER__LANES_RVV(row, 1), s01, 16);                                                \
            __riscv_vse32_v_f32m4(INFER__LANES_RVV(row + 1, 1), s11, 16);                                            \
        }                                                                                                            \
    }
INFER__FLOAT_RVV(f32)
INFER__FLOAT_RVV(f16)
INFER__FLOAT_RVV(bf16)
#undef INFER__FLOAT_RVV
#undef INFER__LANES_RVV
#undef INFER__FLOAT_STEP_RVV_f32
#undef INFER__FLOAT_STEP_RVV_f16
#undef INFER__FLOAT_STEP_RVV_bf16
#undef INFER__FLOAT_RVV_1
#undef INFER__FLOAT_RVV_2
#undef INFER__MADD_RVV

static void infer__float_decode_f16_rvv(const uint8_t *src, uint8_t *dst, int64_t n) {
    int64_t i;
    for (i = 0; i + 16 <= n; i += 16)
        __riscv_vse32_v_f32m4((float *)(void *)(dst + 4 * i), infer__f16_at_rvv(src + 2 * i), 16);
    infer__plain_f16_decode(src + 2 * i, (float *)(void *)(dst + 4 * i), n - i);
    infer__float_fill(dst, 4 * n, 64);
}
static void infer__float_decode_bf16_rvv(const uint8_t *src, uint8_t *dst, int64_t n) {
    for (; n >= 32; n -= 32, src += 64, dst += 128) {
        __riscv_vse32_v_f32m4((float *)(void *)dst, infer__odd_at_rvv(src), 16);
        __riscv_vse32_v_f32m4((float *)(void *)(dst + 64), infer__even_at_rvv(src), 16);
    }
    if (n > 0) infer__float_split_part(src, dst, (int)n);
}
#endif
