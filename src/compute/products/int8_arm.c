/* int8_arm.c: integer dot products with NEON, with its dot product instruction (sdot) and with int8 matrices (usmmla).
 *
 * Owns:  the neon, dotprod and i8mm rows of INT8.
 * How:   codes are signed here: a narrow type's fit as they are and its offset is taken off through the sum of the
 *        activations; a wide type's lose 128 by flipping the top bit. Few columns: rows are multiplied as stored and
 *        the partial sums of four rows added pairwise into one vector. Many columns (dotprod): codes are transposed,
 *        four values of four rows a vector, and multiplied with one lane of the activations, 4 columns x 16 rows at a
 *        time. i8mm multiplies two rows with two columns, 8 values at once, from the same rows.
 * Numbers: none yet: this has run under qemu only.
 * Start: infer__direct_arm.
 */
#include "cpu_int8.h"

#if defined(INFER__SIMD_ARM)

#if defined(__clang__) && __clang_major__ < 16 /* cannot turn these on for one function */
#  if defined(__ARM_FEATURE_DOTPROD)
#    define INFER__HAVE_dotprod 1
#    define INFER__ON_dotprod
#  endif
#  if defined(__ARM_FEATURE_MATMUL_INT8)
#    define INFER__HAVE_i8mm 1
#    define INFER__ON_i8mm
#  endif
#elif defined(__GNUC__) || defined(__clang__)
#  define INFER__HAVE_dotprod 1
#  define INFER__HAVE_i8mm 1
#  define INFER__ON_dotprod INFER__TARGET("arch=armv8.2-a+dotprod")
#  define INFER__ON_i8mm INFER__TARGET("arch=armv8.2-a+dotprod+i8mm")
#endif

/* 16 products of bytes added to four sums. Two products of signed bytes fit 16 bits: 2 * 128 * 127 = 32512. */
INFER__INLINE int32x4_t infer__dot16_neon(int32x4_t sum, int8x16_t w, int8x16_t x) {
    int16x8_t p = vmull_s8(vget_low_s8(w), vget_low_s8(x));
    return vpadalq_s16(sum, vmlal_s8(p, vget_high_s8(w), vget_high_s8(x)));
}

/* 16 codes as signed bytes: flip is 0x80 for wide types, 0 for narrow ones. */
INFER__INLINE int8x16_t infer__codes_arm(const uint8_t *q, uint8x16_t flip) {
    return vreinterpretq_s8_u8(veorq_u8(vld1q_u8(q), flip));
}

/* t = (isum - offset * xsum) * scale (+ min * xsum) (+ t), four rows. */
INFER__INLINE float32x4_t infer__grain_arm(int32x4_t isum, int32_t off, const float *scale, const float *min,
                                           float xsum, int has_min, float32x4_t t, int first) {
    float32x4_t f = vcvtq_f32_s32(vsubq_s32(isum, vdupq_n_s32(off)));
    t = first ? vmulq_f32(f, vld1q_f32(scale)) : vfmaq_f32(t, f, vld1q_f32(scale));
    return has_min ? vfmaq_n_f32(t, vld1q_f32(min), xsum) : t;
}

INFER__INLINE int32x4_t infer__add_pairs_arm(const int32x4_t *s) {
    return vpaddq_s32(vpaddq_s32(s[0], s[1]), vpaddq_s32(s[2], s[3]));
}

/* Four rows from `row` of one column, block b, from the four rows' sums of its halves. */
INFER__INLINE void infer__finish_arm(const infer__unpacked *w, const infer__x8 *x, int b, int row, int grain,
                                     int has_min, int32_t offset, int32x4_t low, int32x4_t high, float *y) {
    float32x4_t t = vdupq_n_f32(0.0f);
    if (grain == 32) {
        t = infer__grain_arm(vaddq_s32(low, high), offset * x->sum32[b], &w->scale[b][row], &w->min[b][row],
                             x->fsum32[b], has_min, t, 1);
    } else {
        int a = 2 * b;
        t = infer__grain_arm(low, offset * x->sum16[a], &w->scale[a][row], &w->min[a][row], x->fsum16[a], has_min, t,
                             1);
        a++;
        t = infer__grain_arm(high, offset * x->sum16[a], &w->scale[a][row], &w->min[a][row], x->fsum16[a], has_min, t,
                             0);
    }
    vst1q_f32(y + row, vfmaq_n_f32(vld1q_f32(y + row), t, x->d[b]));
}

/* One column of one group, with `dot` = 16 products into four sums. */
#define INFER__DEFINE_DIRECT_ARM(L, dot)                                                                               \
    INFER__ON_##L INFER__INLINE void infer__direct_##L(const infer__unpacked *w, const infer__x8 *x, int n_blocks,     \
                                                       int grain, int has_min, int32_t offset, infer__ahead *ahead,    \
                                                       float *y) {                                                     \
        const uint8x16_t flip = vdupq_n_u8(offset == 128 ? 128 : 0);                                                   \
        const int32x4_t zero = vdupq_n_s32(0);                                                                         \
        int b, row, i;                                                                                                 \
        for (b = 0; b < n_blocks; b++) {                                                                               \
            const int8x16_t x0 = vld1q_s8(x->q + 32 * b), x1 = vld1q_s8(x->q + 32 * b + 16);                           \
            const int at = infer__q_index(32 * b);                                                                     \
            for (row = 0; row < INFER__GROUP; row += 4) {                                                              \
                int32x4_t low[4], high[4];                                                                             \
                if (row & 4) infer__ask(ahead);                                                                        \
                INFER__UNROLL for (i = 0; i < 4; i++) {                                                                \
                    const uint8_t *q = w->q[row + i] + at;                                                             \
                    low[i] = dot(zero, infer__codes_arm(q, flip), x0);                                                 \
                    high[i] = dot(grain == 32 ? low[i] : zero, infer__codes_arm(q + 64, flip), x1);                    \
                }                                                                                                      \
                infer__finish_arm(w, x, b, row, grain, has_min, offset == 128 ? 0 : offset,                            \
                                  grain == 32 ? zero : infer__add_pairs_arm(low), infer__add_pairs_arm(high), y);      \
            }                                                                                                          \
        }                                                                                                              \
    }

/* The four kinds of types, each an instance of `body`, and the function that chooses. */
#define INFER__DEFINE_DOTS_ARM(L, body)                                                                                \
    INFER__ON_##L static void infer__dots_32_##L(const infer__dots_args *a) { body(a, 32, 0); }                        \
    INFER__ON_##L static void infer__dots_32m_##L(const infer__dots_args *a) { body(a, 32, 1); }                       \
    INFER__ON_##L static void infer__dots_16_##L(const infer__dots_args *a) { body(a, 16, 0); }                        \
    INFER__ON_##L static void infer__dots_16m_##L(const infer__dots_args *a) { body(a, 16, 1); }                       \
    static void infer__dots_##L(const infer__dots_args *a) {                                                           \
        if (a->type->grain == 32) (a->type->has_min ? infer__dots_32m_##L : infer__dots_32_##L)(a);                    \
        else (a->type->has_min ? infer__dots_16m_##L : infer__dots_16_##L)(a);                                         \
    }

/* Columns from j on by the direct form. */
#define INFER__DIRECT_FROM_ARM(L, a, j, grain, has_min)                                                                \
    for (; j < a->n_x; j++)                                                                                            \
        for (g = 0; g < a->n_groups; g++)                                                                              \
            infer__direct_##L(a->w + g, infer__x8_col(a, j), a->n_blocks, grain, has_min, a->type->offset,             \
                              a->ahead, a->y + j * a->stride + g * INFER__GROUP);

INFER__DEFINE_DIRECT_ARM(neon, infer__dot16_neon)
INFER__INLINE void infer__dots_body_neon(const infer__dots_args *a, int grain, int has_min) {
    int32_t j = 0, g;
    INFER__DIRECT_FROM_ARM(neon, a, j, grain, has_min)
}
INFER__DEFINE_DOTS_ARM(neon, infer__dots_body_neon)

/* Quantise activations as on every level (round to nearest even in hardware). */
static void infer__quantise_neon(const float *x, int32_t n, infer__x8 *out) {
    int32_t k;
    for (k = 0; k < n; k += 32) {
        int i = k / 32, half, j;
        uint32x4_t max = vdupq_n_u32(0);
        uint32_t m = 0x7f800000u;
        float inverse;
        if (n - k >= 32) {
            for (j = 0; j < 32; j += 4)
                max = vmaxq_u32(max, vandq_u32(vreinterpretq_u32_f32(vld1q_f32(x + k + j)), vdupq_n_u32(0x7fffffffu)));
            m = vmaxvq_u32(max);
        }
        if (m >= 0x7f800000u || m < 0x0d000000u) { /* the end of a row, zeros, values that are not finite */
            infer__x8_block(x + k, INFER__MIN(n - k, 32), i, out);
            continue;
        }
        inverse = 127.0f / infer__bits_f32(m);
        out->d[i] = infer__bits_f32(m) / 127.0f;
        for (half = 0; half < 2; half++) {
            int32x4_t v[4];
            const float *p = x + k + 16 * half;
            int32_t sum;
            INFER__UNROLL for (j = 0; j < 4; j++) v[j] = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(p + 4 * j), inverse));
            vst1q_s8(out->q + 32 * i + 16 * half,
                     vcombine_s8(vmovn_s16(vcombine_s16(vmovn_s32(v[0]), vmovn_s32(v[1]))),
                                 vmovn_s16(vcombine_s16(vmovn_s32(v[2]), vmovn_s32(v[3])))));
            sum = vaddvq_s32(vaddq_s32(vaddq_s32(v[0], v[1]), vaddq_s32(v[2], v[3])));
            out->sum16[2 * i + half] = sum;
            out->fsum16[2 * i + half] = (float)sum;
        }
        out->sum32[i] = out->sum16[2 * i] + out->sum16[2 * i + 1];
        out->fsum32[i] = (float)out->sum32[i];
    }
}

/* ---- dotprod -------------------------------------------------------------------------------------------------- */

#if defined(INFER__HAVE_dotprod)
INFER__ON_dotprod INFER__INLINE int32x4_t infer__dot16_dotprod(int32x4_t sum, int8x16_t w, int8x16_t x) {
    return vdotq_s32(sum, w, x);
}
INFER__DEFINE_DIRECT_ARM(dotprod, infer__dot16_dotprod)

/* A group's codes, signed and transposed: values 4 j .. 4 j + 3 of rows 4 i .. 4 i + 3 at tile + 64 * j + 16 * i. */
static void infer__make_tile_dotprod(const infer__unpacked *w, int n_blocks, int32_t offset, uint8_t *tile) {
    const uint8x16_t flip = vdupq_n_u8(offset == 128 ? 128 : 0);
    int k, i, j;
    for (k = 0; k < 32 * n_blocks; k += 16)
        for (i = 0; i < 4; i++) {
            int32x4_t r[4], t[4];
            int64x2_t v[4];
            INFER__UNROLL for (j = 0; j < 4; j++)
                r[j] = vreinterpretq_s32_s8(infer__codes_arm(w->q[4 * i + j] + infer__q_index(k), flip));
            t[0] = vtrn1q_s32(r[0], r[1]);
            t[1] = vtrn2q_s32(r[0], r[1]);
            t[2] = vtrn1q_s32(r[2], r[3]);
            t[3] = vtrn2q_s32(r[2], r[3]);
            v[0] = vtrn1q_s64(vreinterpretq_s64_s32(t[0]), vreinterpretq_s64_s32(t[2]));
            v[1] = vtrn1q_s64(vreinterpretq_s64_s32(t[1]), vreinterpretq_s64_s32(t[3]));
            v[2] = vtrn2q_s64(vreinterpretq_s64_s32(t[0]), vreinterpretq_s64_s32(t[2]));
            v[3] = vtrn2q_s64(vreinterpretq_s64_s32(t[1]), vreinterpretq_s64_s32(t[3]));
            INFER__UNROLL for (j = 0; j < 4; j++)
                vst1q_u8(tile + 16 * k + 64 * j + 16 * i, vreinterpretq_u8_s64(v[j]));
        }
}

/* 16 values of 4 columns times 16 rows: lane j of a column's vector is values 4 j .. 4 j + 3. */
#define INFER__LANE_DOTPROD(j)                                                                                         \
    INFER__UNROLL for (i = 0; i < 4; i++) {                                                                            \
        const int8x16_t v = vreinterpretq_s8_u8(vld1q_u8(tile + 64 * (j) + 16 * i));                                   \
        s[0][i] = vdotq_laneq_s32(s[0][i], v, x[0], j);                                                                \
        s[1][i] = vdotq_laneq_s32(s[1][i], v, x[1], j);                                                                \
        s[2][i] = vdotq_laneq_s32(s[2][i], v, x[2], j);                                                                \
        s[3][i] = vdotq_laneq_s32(s[3][i], v, x[3], j);                                                                \
    }
INFER__ON_dotprod INFER__INLINE void infer__half_dotprod(const uint8_t *tile, const int8x16_t *x, int32x4_t (*s)[4]) {
    int i;
    INFER__LANE_DOTPROD(0)
    INFER__LANE_DOTPROD(1)
    INFER__LANE_DOTPROD(2)
    INFER__LANE_DOTPROD(3)
}

INFER__ON_dotprod INFER__INLINE void infer__tile_dotprod(const uint8_t *tile, const infer__unpacked *w,
                                                         const infer__x8 *const *x, int n_blocks, int grain,
                                                         int has_min, int32_t offset, float *y, int64_t stride) {
    int b, half, i, j;
    for (b = 0; b < n_blocks; b++) {
        int32x4_t low[4][4], s[4][4];
        INFER__UNROLL for (half = 0; half < 2; half++) {
            int8x16_t v[4];
            INFER__UNROLL for (j = 0; j < 4; j++) {
                v[j] = vld1q_s8(x[j]->q + 32 * b + 16 * half);
                INFER__UNROLL for (i = 0; i < 4; i++) {
                    if (half) low[j][i] = grain == 16 ? s[j][i] : vdupq_n_s32(0);
                    if (!half || grain == 16) s[j][i] = vdupq_n_s32(0);
                }
            }
            infer__half_dotprod(tile + 512 * b + 256 * half, v, s);
        }
        INFER__UNROLL for (j = 0; j < 4; j++)
            INFER__UNROLL for (i = 0; i < 4; i++)
                infer__finish_arm(w, x[j], b, 4 * i, grain, has_min, offset, low[j][i], s[j][i], y + j * stride);
    }
}

INFER__ON_dotprod INFER__INLINE void infer__dots_body_dotprod(const infer__dots_args *a, int grain, int has_min) {
    const infer__x8 *x[4];
    const int32_t offset = a->type->offset;
    int32_t j, g, i;
    for (g = 0; a->n_x >= 4 && g < a->n_groups; g++) {
        infer__make_tile_dotprod(a->w + g, a->n_blocks, offset, a->tile);
        for (j = 0; j + 4 <= a->n_x; j += 4) {
            for (i = 0; i < 4; i++) x[i] = infer__x8_col(a, j + i);
            infer__tile_dotprod(a->tile, a->w + g, x, a->n_blocks, grain, has_min, offset == 128 ? 0 : offset,
                                a->y + j * a->stride + g * INFER__GROUP, a->stride);
        }
    }
    j = a->n_x & ~3;
    INFER__DIRECT_FROM_ARM(dotprod, a, j, grain, has_min)
}
INFER__DEFINE_DOTS_ARM(dotprod, infer__dots_body_dotprod)
#endif

/* ---- i8mm ----------------------------------------------------------------------------------------------------- */

#if defined(INFER__HAVE_i8mm)
/* 16 values of two rows and two columns: sums r0c0, r0c1, r1c0, r1c1. */
INFER__ON_i8mm INFER__INLINE int32x4_t infer__square_i8mm(int32x4_t sum, const uint8_t *q0, const uint8_t *q1,
                                                          int8x16_t x_low, int8x16_t x_high) {
    const uint64x2_t a = vreinterpretq_u64_u8(vld1q_u8(q0)), b = vreinterpretq_u64_u8(vld1q_u8(q1));
    sum = vusmmlaq_s32(sum, vreinterpretq_u8_u64(vtrn1q_u64(a, b)), x_low);
    return vusmmlaq_s32(sum, vreinterpretq_u8_u64(vtrn2q_u64(a, b)), x_high);
}

/* Two columns of one group. */
INFER__ON_i8mm INFER__INLINE void infer__pair_i8mm(const infer__unpacked *w, const infer__x8 *x0, const infer__x8 *x1,
                                                   int n_blocks, int grain, int has_min, int32_t offset, float *y0,
                                                   float *y1) {
    const int32x4_t zero = vdupq_n_s32(0);
    int b, row, i, half;
    for (b = 0; b < n_blocks; b++) {
        const int at = infer__q_index(32 * b);
        int8x16_t low[2], high[2]; /* values 0..7 and 8..15 of a half of both columns */
        INFER__UNROLL for (half = 0; half < 2; half++) {
            const int64x2_t c0 = vreinterpretq_s64_s8(vld1q_s8(x0->q + 32 * b + 16 * half));
            const int64x2_t c1 = vreinterpretq_s64_s8(vld1q_s8(x1->q + 32 * b + 16 * half));
            low[half] = vreinterpretq_s8_s64(vtrn1q_s64(c0, c1));
            high[half] = vreinterpretq_s8_s64(vtrn2q_s64(c0, c1));
        }
        for (row = 0; row < INFER__GROUP; row += 4) {
            int32x4_t first[2], second[2];
            INFER__UNROLL for (i = 0; i < 2; i++) {
                const uint8_t *q0 = w->q[row + 2 * i] + at, *q1 = w->q[row + 2 * i + 1] + at;
                first[i] = infer__square_i8mm(zero, q0, q1, low[0], high[0]);
                second[i] = infer__square_i8mm(grain == 32 ? first[i] : zero, q0 + 64, q1 + 64, low[1], high[1]);
                if (grain == 32) first[i] = zero;
            }
            infer__finish_arm(w, x0, b, row, grain, has_min, offset, vuzp1q_s32(first[0], first[1]),
                              vuzp1q_s32(second[0], second[1]), y0);
            infer__finish_arm(w, x1, b, row, grain, has_min, offset, vuzp2q_s32(first[0], first[1]),
                              vuzp2q_s32(second[0], second[1]), y1);
        }
    }
}

INFER__ON_i8mm INFER__INLINE void infer__dots_body_i8mm(const infer__dots_args *a, int grain, int has_min) {
    int32_t j = 0, g;
    for (; j + 2 <= a->n_x; j += 2)
        for (g = 0; g < a->n_groups; g++) {
            float *y = a->y + j * a->stride + g * INFER__GROUP;
            infer__pair_i8mm(a->w + g, infer__x8_col(a, j), infer__x8_col(a, j + 1), a->n_blocks, grain, has_min,
                             a->type->offset, y, y + a->stride);
        }
    INFER__DIRECT_FROM_ARM(dotprod, a, j, grain, has_min)
}
INFER__DEFINE_DOTS_ARM(i8mm, infer__dots_body_i8mm)
#endif
#undef INFER__DEFINE_DIRECT_ARM
#undef INFER__DEFINE_DOTS_ARM
#undef INFER__DIRECT_FROM_ARM
#undef INFER__LANE_DOTPROD
#endif
