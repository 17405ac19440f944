/* row_rvv.c: GEMV, one column of activations times one row after the other as it lies in the file, with RISC-V's
 * vectors (RVV 1.0).
 *
 * Owns:  infer__ones_rvv: for the types where it takes fewer instructions than unpacking first (0.6 to 0.95).
 * How:   32 codes in one register are multiplied and added up by one reduction, or two where halves of a block have
 *        scales of their own. Sums of eight blocks become a vector, and so do their scales; the float arithmetic up to
 *        t is that of cpu_int8.h. From the file only bytes are loaded.
 * Start: INFER__ROW_RVV.
 */
#include "../products/cpu_int8.h"

#if defined(INFER__SIMD_RVV)
#  define INFER__ROWS 1

/* ---- what types share ------------------------------------------------------------------------------------------ */

/* Sums of a chunk: of blocks, or of their first and second halves. */
typedef struct infer__row_sums_rvv { int32_t of[2][8]; } infer__row_sums_rvv;

/* n products added up, to `to`. */
INFER__INLINE void infer__put_sum_rvv(vint16m4_t p, size_t n, int32_t *to) {
    const vint32m1_t zero = __riscv_vmv_s_x_i32m1(0, 1);
    __riscv_vse32_v_i32m1(to, __riscv_vwredsum_vs_i16m4_i32m1(p, zero, n), 1);
}
/* Block b: codes, signed or below 128, times x. */
INFER__INLINE void infer__put_block_rvv(vuint8m2_t codes, const int8_t *x, int b, int grain, infer__row_sums_rvv *s) {
    const vint16m4_t p = __riscv_vwmul_vv_i16m4(__riscv_vreinterpret_v_u8m2_i8m2(codes),
                                                __riscv_vle8_v_i8m2(x + 32 * b, 32), 32);
    infer__put_sum_rvv(p, (size_t)grain, &s->of[0][b]);
    if (grain == 16) infer__put_sum_rvv(__riscv_vslidedown_vx_i16m4(p, 16, 16), 16, &s->of[1][b]);
}

/* infer__grain_rvv for eight blocks of a row. less: offset times these are taken off. */
INFER__INLINE vfloat32m2_t infer__row_grain_rvv(const int32_t *sums, int32_t offset, const int32_t *less,
                                                vfloat32m2_t scale, vfloat32m2_t min, const float *xsum, int has_min,
                                                vfloat32m2_t t, int first) {
    vint32m2_t s = __riscv_vle32_v_i32m2(sums, 8);
    vfloat32m2_t f;
    if (offset) s = __riscv_vnmsac_vx_i32m2(s, offset, __riscv_vle32_v_i32m2(less, 8), 8);
    f = __riscv_vfcvt_f_x_v_f32m2(s, 8);
    t = first ? __riscv_vfmul_vv_f32m2(f, scale, 8) : __riscv_vfmacc_vv_f32m2(t, f, scale, 8);
    return has_min ? __riscv_vfmacc_vv_f32m2(t, __riscv_vle32_v_f32m2(xsum, 8), min, 8) : t;
}

/* Every second one of signed bytes, times d. */
INFER__INLINE vfloat32m2_t infer__row_signed_rvv(const uint8_t *p, float d) {
    const vint32m2_t wide = __riscv_vsext_vf4_i32m2(
        __riscv_vreinterpret_v_u8mf2_i8mf2(__riscv_vlse8_v_u8mf2(p, 2, 8)), 8);
    return __riscv_vfmul_vf_f32m2(__riscv_vfcvt_f_x_v_f32m2(wide, 8), d, 8);
}
/* The fp16 of eight blocks, n bytes apart; one. */
INFER__INLINE vfloat32m2_t infer__row_f16_rvv(const uint8_t *p, uint64_t n) {
    return __riscv_vlmul_trunc_v_f32m4_f32m2(infer__f16_rvv(p, n, 8));
}
INFER__INLINE float infer__row_d_rvv(const uint8_t *p) {
    const vuint16m1_t v = __riscv_vreinterpret_v_u8m1_u16m1(__riscv_vle8_v_u8m1(p, 2));
    const vuint32m4_t wide = __riscv_vlmul_ext_v_u32m2_u32m4(__riscv_vzext_vf2_u32m2(v, 1));
    return __riscv_vfmv_f_s_f32m4_f32(infer__widened_rvv(wide, 1));
}

/* codes: the sums of the chunk at p, eight blocks. scales: sets scale_i and min_i, of blocks (i = 0) or of their
 * halves. */
#define INFER__ROW_RVV(name, bytes, grain, has_min, offset, codes, scales)                                             \
    static void infer__##name##_row_rvv(const uint8_t *p, int n_chunks, const infer__x8 *x, int64_t x_step,            \
                                        float *t) {                                                                    \
        for (; n_chunks > 0; n_chunks--, p += (bytes), x += x_step, t += 8) {                                          \
            const int8_t *xq = x->q;                                                                                   \
            infer__row_sums_rvv s;                                                                                     \
            vfloat32m2_t scale_0, scale_1, min_0, min_1, v;                                                            \
            int i;                                                                                                     \
            codes;                                                                                                     \
            scales;                                                                                                    \
            if (!(has_min)) min_0 = min_1 = scale_0;                                                                   \
            if ((grain) == 32) scale_1 = scale_0, min_1 = min_0;                                                       \
            v = infer__row_grain_rvv(s.of[0], offset, (grain) == 32 ? x->sum32 : x->sum16[0], scale_0, min_0,          \
                                     (grain) == 32 ? x->fsum32 : x->fsum16[0], has_min, scale_0, 1);                   \
            if ((grain) == 16)                                                                                         \
                v = infer__row_grain_rvv(s.of[1], offset, x->sum16[1], scale_1, min_1, x->fsum16[1], has_min, v, 0);   \
            __riscv_vse32_v_f32m2(t, v, 8);                                                                            \
        }                                                                                                              \
    }

/* y[r] += t * d over n_chunks chunks of eight rows; t of row r is at t + r * stride. */
static void infer__add_rows_rvv(const float *t, int64_t stride, int n_chunks, const infer__x8 *x, int64_t x_step,
                                float *y) {
    vfloat32m2_t sum = __riscv_vle32_v_f32m2(y, 8);
    int i;
    for (; n_chunks > 0; n_chunks--, t += 8, x += x_step)
        for (i = 0; i < 8; i++)
            sum = __riscv_vfmacc_vf_f32m2(
                sum, x->d[i], __riscv_vlse32_v_f32m2(t + i, (ptrdiff_t)(stride * (int64_t)sizeof *t), 8), 8);
    __riscv_vse32_v_f32m2(y, sum, 8);
}

/* ---- types ------------------------------------------------------------------------------------------------------ */

#define INFER__EIGHT_RVV(grain, codes) \
    INFER__UNROLL for (i = 0; i < 8; i++) infer__put_block_rvv(codes, xq, i, grain, &s)
INFER__ROW_RVV(q8_0, 272, 32, 0, 0, INFER__EIGHT_RVV(32, infer__load_32_rvv(p + 34 * i + 2)),
               scale_0 = infer__row_f16_rvv(p, 34))

/* Nibbles of blocks 2 (i / 2) and the next. */
INFER__INLINE vuint8m2_t infer__row_nibbles_rvv(const uint8_t *p, int i) {
    const vuint8m2_t v = infer__load_32_rvv(p + 32 * (i / 2));
    return i % 2 ? infer__down_32_rvv(v, 4) : infer__and_32_rvv(v, 15);
}
/* Six bits of eight blocks, those of the first four and of the last, times d. */
INFER__INLINE vfloat32m2_t infer__row_sixes_rvv(vuint8m1_t first, vuint8m1_t last, float d) {
    const vuint8mf2_t v = __riscv_vlmul_trunc_v_u8m1_u8mf2(__riscv_vslideup_vx_u8m1(first, last, 4, 8));
    return __riscv_vfmul_vf_f32m2(__riscv_vfcvt_f_xu_v_f32m2(__riscv_vzext_vf4_u32m2(v, 8), 8), d, 8);
}
/* infer__k_scale_min. */
#define INFER__ROW_SCALE_MIN_RVV                                                                             \
    const vuint8m1_t six = __riscv_vle8_v_u8m1(p + 4, 12), low = __riscv_vslidedown_vx_u8m1(six, 8, 4);      \
    const vuint8m1_t first = infer__and_16_rvv(six, 63), top = infer__and_16_rvv(infer__down_16_rvv(six, 2), 48);     \
    const vuint8m1_t top_min = __riscv_vslidedown_vx_u8m1(top, 4, 4);                                        \
    scale_0 = infer__row_sixes_rvv(first, __riscv_vor_vv_u8m1(infer__and_16_rvv(low, 15), top, 4),              \
                                   infer__row_d_rvv(p));                                                     \
    min_0 = infer__row_sixes_rvv(__riscv_vslidedown_vx_u8m1(first, 4, 4),                                    \
                                 __riscv_vor_vv_u8m1(infer__down_16_rvv(low, 4), top_min, 4), -infer__row_d_rvv(p + 2))
INFER__ROW_RVV(q4_k, 144, 32, 1, 0, INFER__EIGHT_RVV(32, infer__row_nibbles_rvv(p + 16, i)), INFER__ROW_SCALE_MIN_RVV)
INFER__ROW_RVV(q5_k, 176, 32, 1, 0,
               const vuint8m2_t bits = infer__load_32_rvv(p + 16);
               INFER__EIGHT_RVV(32, infer__with_32_rvv(infer__row_nibbles_rvv(p + 48, i), bits, i, 4, 16)),
               INFER__ROW_SCALE_MIN_RVV)

/* Two bits of block i from 64 bytes. */
INFER__INLINE vuint8m2_t infer__row_pairs_rvv(const uint8_t *p, int i) {
    const vuint8m2_t v = infer__down_32_rvv(infer__load_32_rvv(p + 32 * (i / 4)), 2 * (i % 4));
    return i % 4 < 3 ? infer__and_32_rvv(v, 3) : v;
}
INFER__ROW_RVV(tq2_0, 66, 32, 0, 1, INFER__EIGHT_RVV(32, infer__row_pairs_rvv(p, i)),
               scale_0 = __riscv_vfmv_v_f_f32m2(infer__row_d_rvv(p + 64), 8))
/* Four bits of block i from 128 bytes, in the order of Q6_K. */
INFER__INLINE vuint8m2_t infer__row_q6_k_rvv(const uint8_t *p, int i) {
    const vuint8m2_t v = infer__load_32_rvv(p + 64 * (i / 4) + 32 * (i % 2));
    return i / 2 % 2 ? infer__down_32_rvv(v, 4) : infer__and_32_rvv(v, 15);
}
INFER__ROW_RVV(q6_k, 210, 16, 0, 32,
               INFER__EIGHT_RVV(16, infer__with_32_rvv(infer__row_q6_k_rvv(p, i),
                                                       infer__load_32_rvv(p + 128 + 32 * (i / 4)), 2 * (i % 4), 4,
                                                       48)),
               const float d = infer__row_d_rvv(p + 208);
               scale_0 = infer__row_signed_rvv(p + 192, d);
               scale_1 = infer__row_signed_rvv(p + 193, d))
#undef INFER__EIGHT_RVV
#undef INFER__ROW_SCALE_MIN_RVV

/* Bits say which activations are added; their sum counts twice, since codes are 0 and 2. */
INFER__INLINE int32_t infer__row_ones_rvv(const uint8_t *bits, const int8_t *x) {
    const vint16m1_t zero = __riscv_vmv_s_x_i16m1(0, 1);
    return 2 * __riscv_vmv_x_s_i16m1_i16(__riscv_vwredsum_vs_i8m2_i16m1_m(
                   __riscv_vlm_v_b4(bits, 32), __riscv_vle8_v_i8m2(x, 32), zero, 32));
}
INFER__ROW_RVV(q1_0, 36, 32, 0, 1,
               INFER__UNROLL for (i = 0; i < 8; i++)
                   s.of[0][i] = infer__row_ones_rvv(p + 18 * (i / 4) + 2 + 4 * (i % 4), xq + 32 * i),
               float d[8];
               for (i = 0; i < 8; i++) d[i] = i % 4 ? d[i - 1] : infer__f16_f32(infer__load_u16(p + 18 * (i / 4)));
               scale_0 = __riscv_vle32_v_f32m2(d, 8))
#undef INFER__ROW_RVV

static const infer__one_row infer__ones_rvv[] = {
    {8, NULL, infer__q8_0_row_rvv},
    INFER__QUANT(Q4_K, 12, NULL, infer__q4_k_row_rvv)
    INFER__QUANT(Q5_K, 13, NULL, infer__q5_k_row_rvv)
    INFER__QUANT(Q6_K, 14, NULL, infer__q6_k_row_rvv)
    INFER__QUANT(TQ2_0, 35, NULL, infer__tq2_0_row_rvv)
    INFER__QUANT(Q1_0, 41, NULL, infer__q1_0_row_rvv)
};
#endif
