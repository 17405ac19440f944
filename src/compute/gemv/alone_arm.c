/* alone_arm.c: GEMV, one column of activations times rows in the file's layout, with NEON and with its dot product.
 *
 * Owns:  infer__ones_neon and infer__ones_dotprod, functions for the most common storage types.
 * How:   first the scales of 16 rows, as in unpack. Then four rows at a time, whose codes go from the file's layout to
 *        the products in registers, signed where that is free. Integer sums and the float arithmetic are those of
 *        int8_arm.c, so results are the same bit for bit. Everything read lies in the chunk.
 * Numbers: none of hardware; instructions in docs/benchmarks.md.
 * Start: INFER__ALONE_ARM.
 */
#include "../products/cpu_int8.h"

#if defined(INFER__SIMD_ARM)

/* The two halves of block n * s + k (n: of blocks at once) of a row at p, signed. */
INFER__INLINE int8x16_t infer__low_nibbles_arm(uint8x16_t v) { return vreinterpretq_s8_u8(infer__and_neon(v, 15)); }
INFER__INLINE int8x16_t infer__high_nibbles_arm(uint8x16_t v) { return vreinterpretq_s8_u8(vshrq_n_u8(v, 4)); }
INFER__INLINE void infer__q4_0_codes_arm(const uint8_t *p, int s, int k, int8x16_t *v) {
    const uint8x16_t bytes = vld1q_u8(p + 36 * s + 18 * k + 2);
    v[0] = infer__low_nibbles_arm(bytes);
    v[1] = infer__high_nibbles_arm(bytes);
}
INFER__INLINE void infer__q4_1_codes_arm(const uint8_t *p, int s, int k, int8x16_t *v) {
    infer__q4_0_codes_arm(p + 4 * s + 2 * k + 2, s, k, v); /* blocks of 20 bytes, not 18; another fp16 */
}
/* Levels of 16 bytes at p. */
INFER__INLINE void infer__levels_arm(const uint8_t *p, const int8_t *levels, int8x16_t *v) {
    const int8x16_t table = vld1q_s8(levels);
    const uint8x16_t bytes = vld1q_u8(p);
    v[0] = vqtbl1q_s8(table, infer__and_neon(bytes, 15));
    v[1] = vqtbl1q_s8(table, vshrq_n_u8(bytes, 4));
}
INFER__INLINE void infer__iq4_nl_codes_arm(const uint8_t *p, int s, int k, int8x16_t *v) {
    infer__levels_arm(p + 36 * s + 18 * k + 2, infer__kvalues_iq4nl, v);
}
INFER__INLINE void infer__iq4_xs_codes_arm(const uint8_t *p, int s, int k, int8x16_t *v) {
    infer__levels_arm(p + 8 + 32 * s + 16 * k, infer__kvalues_iq4nl, v);
}
INFER__INLINE void infer__mxfp4_codes_arm(const uint8_t *p, int s, int k, int8x16_t *v) {
    infer__levels_arm(p + 34 * s + 17 * k + 1, infer__kvalues_fp4, v);
}
INFER__INLINE void infer__q8_0_codes_arm(const uint8_t *p, int s, int k, int8x16_t *v) {
    v[0] = vreinterpretq_s8_u8(vld1q_u8(p + 68 * s + 34 * k + 2));
    v[1] = vreinterpretq_s8_u8(vld1q_u8(p + 68 * s + 34 * k + 18));
}
INFER__INLINE void infer__tq2_0_codes_arm(const uint8_t *p, int s, int k, int8x16_t *v) {
    int h;
    INFER__UNROLL for (h = 0; h < 2; h++) v[h] = vreinterpretq_s8_u8(
        infer__and_neon(infer__move_neon(vld1q_u8(p + 32 * s + 16 * h), 2 * k, 0), 3));
}
INFER__INLINE void infer__q2_k_codes_arm(const uint8_t *p, int s, int k, int8x16_t *v) {
    infer__tq2_0_codes_arm(p + 16, s, k, v);
}
INFER__INLINE void infer__q4_k_codes_arm(const uint8_t *p, int s, int k, int8x16_t *v) {
    int h;
    INFER__UNROLL for (h = 0; h < 2; h++) {
        const uint8x16_t bytes = vld1q_u8(p + 16 + 32 * s + 16 * h);
        v[h] = k ? infer__high_nibbles_arm(bytes) : infer__low_nibbles_arm(bytes);
    }
}
INFER__INLINE void infer__q5_k_codes_arm(const uint8_t *p, int s, int k, int8x16_t *v) {
    int h;
    INFER__UNROLL for (h = 0; h < 2; h++) {
        const uint8x16_t bytes = vld1q_u8(p + 48 + 64 * s + 32 * (k / 2) + 16 * h);
        const uint8x16_t bits = vshlq_u8(vld1q_u8(p + 16 + 16 * h), vdupq_n_s8((int8_t)(-4 * s)));
        if (k % 2) v[h] = vreinterpretq_s8_u8(
            vsriq_n_u8(infer__and_neon(infer__move_neon(bits, k, 4), 16), bytes, 4));
        else v[h] = vreinterpretq_s8_u8(vsliq_n_u8(bytes, infer__and_neon(infer__move_neon(bits, k, 0), 1), 4));
    }
}
INFER__INLINE void infer__q6_k_codes_arm(const uint8_t *p, int s, int k, int8x16_t *v) {
    int h;
    INFER__UNROLL for (h = 0; h < 2; h++) {
        const uint8x16_t low = vld1q_u8(p + 64 * s + 32 * (k % 2) + 16 * h);
        const uint8x16_t two = vld1q_u8(p + 128 + 32 * s + 16 * h), from = k % 2 ? vshrq_n_u8(two, 2) : two;
        v[h] = vreinterpretq_s8_u8(k / 2 ? vsriq_n_u8(infer__and_neon(from, 0x30), low, 4)
                                         : vsliq_n_u8(low, infer__and_neon(from, 3), 4));
    }
}

/* Scales before everything else. n: blocks at once. offset: what the codes still have to lose. */
#define INFER__ALONE_ARM(L, name, n, grain, has_min, offset, small, scales)                                            \
    INFER__ON_##L static void infer__##name##_alone_##L(const uint8_t *src, uint64_t row_bytes,                        \
                                                        const uint8_t *upcoming, const infer__x8 *x,                   \
                                                        infer__unpacked *w, float *y) {                                \
        int row, s, k, i;                                                                                              \
        (void)upcoming;                                                                                                \
        scales;                                                                                                        \
        for (row = 0; row < INFER__GROUP; row += 4, src += 4 * row_bytes) {                                            \
            float32x4_t acc = vld1q_f32(y + row);                                                                      \
            for (s = 0; s < 8 / (n); s++) {                                                                            \
                infer__ask(&w->ahead);                                                                                 \
                INFER__UNROLL for (k = 0; k < (n); k++) {                                                              \
                    const int b = (n) * s + k;                                                                         \
                    const int8x16_t xs[2] = {vld1q_s8(x->q + 32 * b), vld1q_s8(x->q + 32 * b + 16)};                   \
                    const infer__column_arm c = infer__column_at_arm(x, b, grain, offset);                             \
                    int8x16_t v[4][2];                                                                                 \
                    int32x4_t sums[2];                                                                                 \
                    INFER__UNROLL for (i = 0; i < 4; i++)                                                              \
                        infer__##name##_codes_arm(src + (uint64_t)i * row_bytes, s, k, v[i]);                          \
                    infer__sums_##L((const int8x16_t(*)[2])v, xs, &c, grain, (offset) != 0, small, sums);              \
                    acc = infer__block_arm(w, &c, b, row, grain, has_min, sums, acc);                                  \
                }                                                                                                      \
            }                                                                                                          \
            vst1q_f32(y + row, acc);                                                                                   \
        }                                                                                                              \
    }
/* The scales of 8 blocks; as calls, for all types and levels. */
#define INFER__PUT_EIGHT_ARM(name, one)                                                                                \
    static void infer__##name##_scales_arm(const uint8_t *src, uint64_t row_bytes, int bytes, infer__unpacked *out) {  \
        int b;                                                                                                         \
        for (b = 0; b < 8; b++, src += bytes) one(src, row_bytes, b, out);                                             \
    }
INFER__PUT_EIGHT_ARM(f16, infer__put_scales_neon)
INFER__PUT_EIGHT_ARM(f16_mins, infer__put_scales_mins_neon)
INFER__PUT_EIGHT_ARM(e8m0, infer__put_e8m0_neon)
#undef INFER__PUT_EIGHT_ARM
#define INFER__ALONES_ARM(L)                                                                                    \
    INFER__ALONE_ARM(L, q4_0, 2, 32, 0, 8, 1, infer__f16_scales_arm(src, row_bytes, 18, w))                        \
    INFER__ALONE_ARM(L, q4_1, 2, 32, 1, 0, 1, infer__f16_mins_scales_arm(src, row_bytes, 20, w))                   \
    INFER__ALONE_ARM(L, q8_0, 2, 32, 0, 0, 0, infer__f16_scales_arm(src, row_bytes, 34, w))                        \
    INFER__ALONE_ARM(L, iq4_nl, 2, 32, 0, 0, 0, infer__f16_scales_arm(src, row_bytes, 18, w))                      \
    INFER__ALONE_ARM(L, mxfp4, 2, 32, 0, 0, 1, infer__e8m0_scales_arm(src, row_bytes, 17, w))                      \
    INFER__ALONE_ARM(L, iq4_xs, 2, 32, 0, 0, 0, infer__iq4_xs_scales_neon(src, row_bytes, w))                      \
    INFER__ALONE_ARM(L, q2_k, 4, 16, 1, 0, 1, infer__q2_k_scales_neon(src, row_bytes, w))                          \
    INFER__ALONE_ARM(L, q4_k, 2, 32, 1, 0, 1, infer__put_scale_min_neon(src, row_bytes, w))                        \
    INFER__ALONE_ARM(L, q5_k, 4, 32, 1, 0, 1, infer__put_scale_min_neon(src, row_bytes, w))                        \
    INFER__ALONE_ARM(L, q6_k, 4, 16, 0, 32, 1, infer__q6_k_scales_neon(src, row_bytes, w))
/* more: rows that only this level has. */
#define INFER__ONES_ARM(L, more)                                                                               \
    static const infer__one_row infer__ones_##L[] = {                                                          \
        {2, infer__q4_0_alone_##L, NULL},                                                                      \
        {8, infer__q8_0_alone_##L, NULL},                                                                      \
        INFER__QUANT(Q4_1, 3, infer__q4_1_alone_##L, NULL)                                                     \
        INFER__QUANT(Q2_K, 10, infer__q2_k_alone_##L, NULL)                                                    \
        INFER__QUANT(Q4_K, 12, infer__q4_k_alone_##L, NULL)                                                    \
        INFER__QUANT(Q5_K, 13, infer__q5_k_alone_##L, NULL)                                                    \
        INFER__QUANT(Q6_K, 14, infer__q6_k_alone_##L, NULL)                                                    \
        INFER__QUANT(IQ4_NL, 20, infer__iq4_nl_alone_##L, NULL)                                                \
        INFER__QUANT(IQ4_XS, 23, infer__iq4_xs_alone_##L, NULL)                                                \
        INFER__QUANT(MXFP4, 39, infer__mxfp4_alone_##L, NULL)                                                  \
        more                                                                                                   \
    };
INFER__ALONES_ARM(neon)
INFER__ALONE_ARM(neon, tq2_0, 4, 32, 0, 1, 1, infer__put_one_scale_neon(src + 64, row_bytes, w))
INFER__ONES_ARM(neon, INFER__QUANT(TQ2_0, 35, infer__tq2_0_alone_neon, NULL))
#  if defined(INFER__HAVE_dotprod)
INFER__ALONES_ARM(dotprod)
INFER__ONES_ARM(dotprod, INFER__QUANT(TQ1_0, 34, infer__tq1_0_alone_dotprod, NULL)
                         INFER__QUANT(TQ2_0, 35, infer__tq2_0_alone_dotprod, NULL)
                         INFER__QUANT(Q1_0, 41, infer__q1_0_alone_dotprod, NULL)
                         INFER__QUANT(Q2_0, 42, infer__q2_0_alone_dotprod, NULL))
#  endif
#undef INFER__ONES_ARM
#undef INFER__ALONES_ARM
#undef INFER__ALONE_ARM
#endif
