/* alone_dotprod.c: GEMV of types with one or two bits a value, with NEON's dot product.
 *
 * Owns:  the functions of infer__ones_dotprod (alone_arm.c) whose lanes are rows.
 * How:   16 bytes of four rows are transposed as the file has them, so a lane holds four bytes of a row. Codes are
 *        masked where they are, 2^n times too large, and multiplied with four activations of their own; their sum is
 *        shifted down once. No sums run across lanes. Results are those of int8_arm.c bit for bit.
 * Numbers: none of hardware; instructions in docs/benchmarks.md.
 * Start: INFER__ALONE_LANES.
 */
#include "../products/cpu_int8.h"

#if defined(INFER__SIMD_ARM) && defined(INFER__HAVE_dotprod)

/* Bytes 4 m .. 4 m + 3 of four rows to t[m]. */
INFER__INLINE void infer__four_rows_arm(const uint8_t *p, uint64_t row_bytes, uint8x16_t *t) {
    int32x4_t r[4];
    int i;
    INFER__UNROLL for (i = 0; i < 4; i++) r[i] = vreinterpretq_s32_u8(vld1q_u8(p + (uint64_t)i * row_bytes));
    infer__transpose_arm(r, t);
}

/* sum plus v times lane m of x. */
#define INFER__DOT_LANE(sum, v, x, m) (sum) = vdotq_laneq_s32(sum, vreinterpretq_s8_u8(v), x, m)
/* Two bits of v at a time. */
#define INFER__DOT_PAIRS(v, x, m)                                       \
    do {                                                                \
        INFER__DOT_LANE(sums[0], infer__and_neon(v, 3), (x)[0], m);     \
        INFER__DOT_LANE(sums[1], infer__and_neon(v, 0x0c), (x)[1], m);  \
        INFER__DOT_LANE(sums[2], infer__and_neon(v, 0x30), (x)[2], m);  \
        INFER__DOT_LANE(sums[3], vshrq_n_u8(v, 6), (x)[3], m);          \
    } while (0)

/* The sums of n blocks of four rows at p, step s of a chunk. x: the chunk. Every code loses 1, which is what sums start
 * with. The order of a type's values: quant_basic.c, quant_k.c. */
INFER__ON_dotprod INFER__INLINE void infer__tq2_0_sums_dotprod(const uint8_t *p, uint64_t row_bytes, int s,
                                                               const infer__x8 *x, int32x4_t *sums) {
    const int32x4_t start = vnegq_s32(vld1q_s32(x->sum32 + 4 * s));
    const int8_t *q = x->q + 128 * s;
    int half;
    p += 32 * s;
    sums[0] = vdupq_laneq_s32(start, 0);
    sums[1] = vdupq_laneq_s32(vshlq_n_s32(start, 2), 1);
    sums[2] = vdupq_laneq_s32(vshlq_n_s32(start, 4), 2);
    sums[3] = vdupq_laneq_s32(start, 3);
    INFER__UNROLL for (half = 0; half < 2; half++, p += 16, q += 16) {
        const int8x16_t xs[4] = {vld1q_s8(q), vld1q_s8(q + 32), vld1q_s8(q + 64), vld1q_s8(q + 96)};
        uint8x16_t t[4];
        infer__four_rows_arm(p, row_bytes, t);
        INFER__DOT_PAIRS(t[0], xs, 0);
        INFER__DOT_PAIRS(t[1], xs, 1);
        INFER__DOT_PAIRS(t[2], xs, 2);
        INFER__DOT_PAIRS(t[3], xs, 3);
    }
    sums[1] = vshrq_n_s32(sums[1], 2);
    sums[2] = vshrq_n_s32(sums[2], 4);
}

/* t[m] has values 16 m .. 16 m + 15 of a block of 64, of which every fourth is at the same place of its byte. */
INFER__ON_dotprod INFER__INLINE void infer__q2_0_sums_dotprod(const uint8_t *p, uint64_t row_bytes, int s,
                                                              const infer__x8 *x, int32x4_t *sums) {
    const uint8x16_t fourth = vreinterpretq_u8_u64(vcombine_u64(vcreate_u64(0x0d0905010c080400u),
                                                                vcreate_u64(0x0f0b07030e0a0602u)));
    const int8_t *q = x->q + 64 * s;
    uint8x16_t t[4];
    int b, h;
    infer__four_rows_arm(p + 18 * s + 2, row_bytes, t);
    INFER__UNROLL for (b = 0; b < 2; b++) {
        int32x4_t by4 = vdupq_n_s32(0), by16 = by4;
        sums[b] = vdupq_n_s32(-x->sum32[2 * s + b]);
        INFER__UNROLL for (h = 0; h < 2; h++, q += 16) {
            const int8x16_t xs = vqtbl1q_s8(vld1q_s8(q), fourth);
            const uint8x16_t v = t[2 * b + h];
            INFER__DOT_LANE(sums[b], infer__and_neon(v, 3), xs, 0);
            INFER__DOT_LANE(by4, infer__and_neon(v, 0x0c), xs, 1);
            INFER__DOT_LANE(by16, infer__and_neon(v, 0x30), xs, 2);
            INFER__DOT_LANE(sums[b], vshrq_n_u8(v, 6), xs, 3);
        }
        sums[b] = vsraq_n_s32(vsraq_n_s32(sums[b], by4, 2), by16, 4);
    }
}

/* t[b] has block b of four: byte j values 8 j .. 8 j + 7. Codes are 0 and 2. */
INFER__ON_dotprod INFER__INLINE void infer__q1_0_sums_dotprod(const uint8_t *p, uint64_t row_bytes, int s,
                                                              const infer__x8 *x, int32x4_t *sums) {
    const uint8x16_t eighth = vreinterpretq_u8_u64(vcombine_u64(vcreate_u64(0x1911090118100800u),
                                                                vcreate_u64(0x1b130b031a120a02u)));
    uint8x16_t t[4];
    int b, n;
    infer__four_rows_arm(p + 18 * s + 2, row_bytes, t);
    INFER__UNROLL for (b = 0; b < 4; b++) {
        const int8_t *q = x->q + 128 * s + 32 * b;
        const int8x16x2_t both = {{vld1q_s8(q), vld1q_s8(q + 16)}};
        const int8x16_t low = vqtbl2q_s8(both, eighth), high = vqtbl2q_s8(both, vaddq_u8(eighth, vdupq_n_u8(4)));
        int32x4_t by[7]; /* by[n]: bits n, 2^n times */
        INFER__UNROLL for (n = 0; n < 7; n++) by[n] = vdupq_n_s32(n == 1 ? -x->sum32[4 * s + b] : 0);
        INFER__DOT_LANE(by[0], infer__and_neon(t[b], 1), low, 0);
        INFER__DOT_LANE(by[1], infer__and_neon(t[b], 2), low, 1);
        INFER__DOT_LANE(by[2], infer__and_neon(t[b], 4), low, 2);
        INFER__DOT_LANE(by[3], infer__and_neon(t[b], 8), low, 3);
        INFER__DOT_LANE(by[4], infer__and_neon(t[b], 16), high, 0);
        INFER__DOT_LANE(by[5], infer__and_neon(t[b], 32), high, 1);
        INFER__DOT_LANE(by[6], infer__and_neon(t[b], 64), high, 2);
        INFER__DOT_LANE(by[0], vshrq_n_u8(t[b], 7), high, 3);
        sums[b] = vaddq_s32(vaddq_s32(by[0], by[0]), by[1]);
        sums[b] = vsraq_n_s32(vsraq_n_s32(sums[b], by[2], 1), by[3], 2);
        sums[b] = vsraq_n_s32(vsraq_n_s32(vsraq_n_s32(sums[b], by[4], 3), by[5], 4), by[6], 5);
    }
}

/* The next ternary digit of each byte, and 3 v modulo 256: both halves of 3 v. (gcc shifts and adds for 3 v alone.) */
INFER__INLINE uint8x16_t infer__next_digit_arm(uint8x16_t *v) {
    const uint8x16_t three = vdupq_n_u8(3);
    const uint8x16_t low = vreinterpretq_u8_u16(vmull_u8(vget_low_u8(*v), vget_low_u8(three)));
    const uint8x16_t high = vreinterpretq_u8_u16(vmull_high_u8(*v, three));
    *v = vuzp1q_u8(low, high);
    return vuzp2q_u8(low, high);
}
/* The digits of t[m] times lane m of their x. first: the sum of digit 0; one sum has `each` digits. */
#define INFER__DOT_DIGITS(first, each, m)                                                                            \
    INFER__UNROLL for (n = 0; n < 5; n++)                                                                              \
        INFER__DOT_LANE(sums[(first) + n / (each)], infer__next_digit_arm(&t[m]), xs[n], m)
INFER__ON_dotprod INFER__INLINE void infer__tq1_0_sums_dotprod(const uint8_t *p, uint64_t row_bytes, int s,
                                                               const infer__x8 *x, int32x4_t *sums) {
    int8x16_t xs[5];
    uint8x16_t t[4];
    int part, n;
    (void)s;
    INFER__UNROLL for (n = 0; n < 8; n++) sums[n] = vdupq_n_s32(-x->sum32[n]);
    INFER__UNROLL for (part = 0; part < 3; part++) { /* halves of blocks 0 .. 4; five halves from block 5 on */
        INFER__UNROLL for (n = 0; n < 5; n++) xs[n] = vld1q_s8(x->q + (part < 2 ? 32 * n + 16 * part : 160 + 16 * n));
        infer__four_rows_arm(p + 16 * part, row_bytes, t);
        INFER__DOT_DIGITS(part / 2 * 5, 1 + part / 2, 0);
        INFER__DOT_DIGITS(part / 2 * 5, 1 + part / 2, 1);
        INFER__DOT_DIGITS(part / 2 * 5, 1 + part / 2, 2);
        INFER__DOT_DIGITS(part / 2 * 5, 1 + part / 2, 3);
    }
    xs[0] = vld1q_s8(x->q + 240); /* and four digits of four bytes, in the order of their values */
    t[0] = vreinterpretq_u8_u32(infer__rows_u32_neon(p + 48, row_bytes));
    INFER__DOT_LANE(sums[7], infer__next_digit_arm(t), xs[0], 0);
    INFER__DOT_LANE(sums[7], infer__next_digit_arm(t), xs[0], 1);
    INFER__DOT_LANE(sums[7], infer__next_digit_arm(t), xs[0], 2);
    INFER__DOT_LANE(sums[7], infer__next_digit_arm(t), xs[0], 3);
}
#undef INFER__DOT_DIGITS

/* Scales first. n: blocks at once. */
#define INFER__ALONE_LANES(name, n, scales)                                                                            \
    INFER__ON_dotprod static void infer__##name##_alone_dotprod(const uint8_t *src, uint64_t row_bytes,                \
                                                                const uint8_t *upcoming, const infer__x8 *x,           \
                                                                infer__unpacked *w, float *y) {                        \
        int row, s, k;                                                                                                 \
        (void)upcoming;                                                                                                \
        scales;                                                                                                        \
        for (row = 0; row < INFER__GROUP; row += 4, src += 4 * row_bytes) {                                            \
            float32x4_t acc = vld1q_f32(y + row);                                                                      \
            for (s = 0; s < 8 / (n); s++) {                                                                            \
                int32x4_t sums[n];                                                                                     \
                infer__ask(&w->ahead);                                                                                 \
                infer__##name##_sums_dotprod(src, row_bytes, s, x, sums);                                              \
                INFER__UNROLL for (k = 0; k < (n); k++) {                                                              \
                    const infer__column_arm c = infer__column_at_arm(x, (n) * s + k, 32, 0);                           \
                    acc = infer__block_arm(w, &c, (n) * s + k, row, 32, 0, sums + k, acc);                             \
                }                                                                                                      \
            }                                                                                                          \
            vst1q_f32(y + row, acc);                                                                                   \
        }                                                                                                              \
    }
/* The scales of a chunk, each for n blocks. */
static void infer__wide_scales_arm(const uint8_t *src, uint64_t row_bytes, int n, infer__unpacked *out) {
    int b;
    for (b = 0; b < 8; b++) {
        if (b % n) memcpy(out->scale[b], out->scale[b - 1], sizeof out->scale[0]);
        else infer__put_scales_neon(src + 18 * (b / n), row_bytes, b, out);
    }
}
INFER__ALONE_LANES(q1_0, 4, infer__wide_scales_arm(src, row_bytes, 4, w))
INFER__ALONE_LANES(q2_0, 2, infer__wide_scales_arm(src, row_bytes, 2, w))
INFER__ALONE_LANES(tq2_0, 4, infer__put_one_scale_neon(src + 64, row_bytes, w))
INFER__ALONE_LANES(tq1_0, 8, infer__put_one_scale_neon(src + 52, row_bytes, w))
#undef INFER__ALONE_LANES
#undef INFER__DOT_PAIRS
#undef INFER__DOT_LANE
#endif
