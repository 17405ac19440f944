/* int8_arm.c: integer dot products with NEON, with its dot product instruction (sdot) and with int8 matrices (usmmla).
 *
 * Owns:  the neon, dotprod and i8mm rows of INT8.
 * How:   codes are signed here: a narrow type's fit as they are and its offset is taken off through the sum of the
 *        activations; a wide type's lose 128 by flipping the top bit. Few columns: rows are multiplied as stored and
 *        the partial sums of four rows added pairwise into one vector; neon multiplies many columns so, too, four at a
 *        time. dotprod and i8mm have tiles of 4 columns x 16 rows, or 4 where rows have two sums a block, for which
 *        codes are laid out anew. dotprod: four values of four rows a vector, multiplied with one lane of the
 *        activations. i8mm: eight values of two rows, multiplied with two columns; its codes stay unsigned.
 * Numbers: none of hardware, this has run under qemu only; instructions in docs/benchmarks.md.
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

/* 16 products of bytes as four sums, and 32. Two products of signed bytes fit 16 bits: 2 * 128 * 127 = 32512; four do
 * where codes are below 64 (`small`): 4 * 63 * 127 = 32004. */
INFER__INLINE int16x8_t infer__products_neon(int8x16_t w, int8x16_t x) {
    return vmlal_high_s8(vmull_s8(vget_low_s8(w), vget_low_s8(x)), w, x);
}
INFER__INLINE int32x4_t infer__dot16_neon(int8x16_t w, int8x16_t x) { return vpaddlq_s16(infer__products_neon(w, x)); }
INFER__INLINE int32x4_t infer__dot32_neon(const int8x16_t *w, const int8x16_t *x, int small) {
    int16x8_t s = infer__products_neon(w[0], x[0]);
    if (!small) return vpadalq_s16(vpaddlq_s16(s), infer__products_neon(w[1], x[1]));
    s = vmlal_s8(s, vget_low_s8(w[1]), vget_low_s8(x[1]));
    return vpaddlq_s16(vmlal_high_s8(s, w[1], x[1]));
}

/* 16 codes as signed bytes: those of wide types lose 128. */
INFER__INLINE int8x16_t infer__codes_arm(const uint8_t *q, int wide) {
    const uint8x16_t v = vld1q_u8(q);
    return vreinterpretq_s8_u8(wide ? veorq_u8(v, vdupq_n_u8(128)) : v);
}

INFER__INLINE int32x4_t infer__add_pairs_arm(const int32x4_t *s) {
    return vpaddq_s32(vpaddq_s32(s[0], s[1]), vpaddq_s32(s[2], s[3]));
}

/* What belongs to block b of a column, once for all rows. of[..]: one for a grain of 32, two for 16. offset: 0 where
 * the codes have lost it already. */
typedef struct infer__column_arm {
    struct { int32_t start; float sum; } of[2]; /* start: the offsets' part of an integer sum */
    float d;
} infer__column_arm;
INFER__INLINE infer__column_arm infer__column_at_arm(const infer__x8 *x, int b, int grain, int32_t offset) {
    infer__column_arm c;
    int i;
    c.d = x->d[b];
    for (i = 0; i < 2; i++) {
        c.of[i].start = -offset * (grain == 32 ? x->sum32[b] : x->sum16[i][b]);
        c.of[i].sum = grain == 32 ? x->fsum32[b] : x->fsum16[i][b];
    }
    return c;
}

/* acc plus block b of four rows from `row` of a column, from the four rows' integer sums: one, or two of halves. */
INFER__INLINE float32x4_t infer__block_arm(const infer__unpacked *w, const infer__column_arm *c, int b, int row,
                                           int grain, int has_min, const int32x4_t *sums, float32x4_t acc) {
    const int n = 32 / grain;
    float32x4_t t = acc;
    int i;
    INFER__UNROLL for (i = 0; i < n; i++) {
        const float32x4_t f = vcvtq_f32_s32(sums[i]), scale = vld1q_f32(&w->scale[n * b + i][row]);
        t = i == 0 ? vmulq_f32(f, scale) : vfmaq_f32(t, f, scale);
        if (has_min) t = vfmaq_n_f32(t, vld1q_f32(&w->min[n * b + i][row]), c->of[i].sum);
    }
    return vfmaq_n_f32(acc, t, c->d);
}
INFER__INLINE void infer__finish_arm(const infer__unpacked *w, const infer__column_arm *c, int b, int row, int grain,
                                     int has_min, const int32x4_t *sums, float *y) {
    vst1q_f32(y + row, infer__block_arm(w, c, b, row, grain, has_min, sums, vld1q_f32(y + row)));
}

/* The integer sums of four rows with a block of a column: v[i]: row i's signed codes. starts: the codes still have
 * their offset. small: they are below 64. Then INFER__COLS_ARM columns, or one, of one group. */
enum { INFER__COLS_ARM = 4 };
#define INFER__DEFINE_DIRECT_ARM(L)                                                                                    \
    INFER__ON_##L INFER__INLINE void infer__sums_##L(const int8x16_t (*v)[2], const int8x16_t *x,                      \
                                                     const infer__column_arm *c, int grain, int starts, int small,     \
                                                     int32x4_t *sums) {                                                \
        int32x4_t low[4], high[4];                                                                                     \
        int i;                                                                                                         \
        INFER__UNROLL for (i = 0; i < 4; i++) {                                                                        \
            low[i] = grain == 32 ? infer__dot32_##L(v[i], x, small) : infer__dot16_##L(v[i][0], x[0]);                 \
            if (grain == 16) high[i] = infer__dot16_##L(v[i][1], x[1]);                                                \
        }                                                                                                              \
        sums[0] = infer__add_pairs_arm(low);                                                                           \
        if (grain == 16) sums[1] = infer__add_pairs_arm(high);                                                         \
        if (starts)                                                                                                    \
            INFER__UNROLL for (i = 0; i < 32 / grain; i++) sums[i] = vaddq_s32(sums[i], vdupq_n_s32(c->of[i].start));  \
    }                                                                                                                  \
    INFER__ON_##L INFER__INLINE void infer__direct_##L(const infer__unpacked *w, const infer__x8 *const *x, int n_x,   \
                                                       int n_blocks, int grain, int has_min, int wide, int small,      \
                                                       int32_t offset, infer__ahead *ahead, float *y,                  \
                                                       int64_t stride) {                                               \
        const uint8_t *first = w->q[0]; /* of block b; not computed, for gcc then adds every row's offset to it */     \
        int b, row, i, j;                                                                                              \
        for (b = 0; b < n_blocks; b++, first += b % 4 ? 16 : 80) {                                                     \
            int8x16_t xs[INFER__COLS_ARM][2];                                                                          \
            infer__column_arm c[INFER__COLS_ARM];                                                                      \
            INFER__UNROLL for (j = 0; j < n_x; j++) {                                                                  \
                xs[j][0] = vld1q_s8(x[j]->q + 32 * b);                                                                 \
                xs[j][1] = vld1q_s8(x[j]->q + 32 * b + 16);                                                            \
                c[j] = infer__column_at_arm(x[j], b, grain, offset);                                                   \
            }                                                                                                          \
            infer__ask(ahead);                                                                                         \
            INFER__UNROLL for (row = 0; row < INFER__GROUP; row += 4) {                                                \
                int8x16_t v[4][2];                                                                                     \
                int32x4_t sums[2];                                                                                     \
                INFER__UNROLL for (i = 0; i < 4; i++) {                                                                \
                    v[i][0] = infer__codes_arm(first + INFER__CHUNK * (row + i), wide);                                \
                    v[i][1] = infer__codes_arm(first + INFER__CHUNK * (row + i) + 64, wide);                           \
                }                                                                                                      \
                INFER__UNROLL for (j = 0; j < n_x; j++) {                                                              \
                    infer__sums_##L((const int8x16_t(*)[2])v, xs[j], &c[j], grain, !wide && !has_min, small, sums);    \
                    infer__finish_arm(w, &c[j], b, row, grain, has_min, sums, y + j * stride);                         \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }

/* The kinds of types, each an instance of `body`, and the function that chooses. No type with minima has an offset;
 * none is wide and has a grain of 16: the scalar form would do. large: for codes from 64 on and a grain of 32. */
#define INFER__DEFINE_DOTS_ARM(L, body, large)                                                                         \
    INFER__ON_##L static void infer__dots_wide_##L(const infer__dots_args *a) { body(a, 32, 0, 1); }                   \
    INFER__ON_##L static void infer__dots_32_##L(const infer__dots_args *a) { body(a, 32, 0, 0); }                     \
    INFER__ON_##L static void infer__dots_32m_##L(const infer__dots_args *a) { body(a, 32, 1, 0); }                    \
    INFER__ON_##L static void infer__dots_16_##L(const infer__dots_args *a) { body(a, 16, 0, 0); }                     \
    INFER__ON_##L static void infer__dots_16m_##L(const infer__dots_args *a) { body(a, 16, 1, 0); }                    \
    static void infer__dots_##L(const infer__dots_args *a) {                                                           \
        if (a->type->offset == 128) (a->type->grain == 32 ? infer__dots_wide_##L : infer__dots_scalar)(a);             \
        else if (a->type->grain == 32 && a->type->largest >= 64) large(a);                                             \
        else if (a->type->grain == 32) (a->type->has_min ? infer__dots_32m_##L : infer__dots_32_##L)(a);               \
        else (a->type->has_min ? infer__dots_16m_##L : infer__dots_16_##L)(a);                                         \
    }

/* Columns from j on by the direct form, INFER__COLS_ARM or one at a time. */
#define INFER__DIRECT_FROM_ARM(L, a, j, n, grain, has_min, wide, small)                                                \
    for (; j + (n) <= a->n_x; j += (n)) {                                                                              \
        const infer__x8 *some[n];                                                                                      \
        for (g = 0; g < (n); g++) some[g] = infer__x8_col(a, j + g);                                                   \
        for (g = 0; g < a->n_groups; g++)                                                                              \
            infer__direct_##L(a->w + g, some, n, a->n_blocks, grain, has_min, wide, small, a->type->offset, a->ahead,  \
                              a->y + j * a->stride + g * INFER__GROUP, a->stride);                                     \
    }

INFER__DEFINE_DIRECT_ARM(neon)
INFER__INLINE void infer__columns_neon(const infer__dots_args *a, int grain, int has_min, int wide, int small) {
    int32_t j = 0, g;
    INFER__DIRECT_FROM_ARM(neon, a, j, INFER__COLS_ARM, grain, has_min, wide, small)
    INFER__DIRECT_FROM_ARM(neon, a, j, 1, grain, has_min, wide, small)
}
INFER__INLINE void infer__dots_body_neon(const infer__dots_args *a, int grain, int has_min, int wide) {
    infer__columns_neon(a, grain, has_min, wide, !wide);
}
static void infer__dots_large_neon(const infer__dots_args *a) { infer__columns_neon(a, 32, 0, 0, 0); }
INFER__DEFINE_DOTS_ARM(neon, infer__dots_body_neon, infer__dots_large_neon)

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
            out->sum16[half][i] = sum;
            out->fsum16[half][i] = (float)sum;
        }
        out->sum32[i] = out->sum16[0][i] + out->sum16[1][i];
        out->fsum32[i] = (float)out->sum32[i];
    }
}

/* ---- dotprod -------------------------------------------------------------------------------------------------- */

/* Quadruples of rows whose sums are registers together: fewer where they have two sums. */
INFER__INLINE int infer__quads_arm(int grain) { return grain == 32 ? 4 : 1; }

/* Block b of `quads` quadruples of rows from `row` and INFER__COLS_ARM columns, from their sums. */
INFER__INLINE void infer__finish_tile_arm(const infer__unpacked *w, const infer__column_arm *c, int b, int row,
                                          int grain, int has_min, int32x4_t (*sums)[4][2], float *y, int64_t stride) {
    const int quads = infer__quads_arm(grain);
    int i, j;
    INFER__UNROLL for (j = 0; j < INFER__COLS_ARM; j++)
        INFER__UNROLL for (i = 0; i < quads; i++)
            infer__finish_arm(w, &c[j], b, row + 4 * i, grain, has_min, sums[j][i], y + j * stride);
}

/* INFER__COLS_ARM columns at a time by the tile of a level, the others directly. */
#define INFER__DEFINE_TILED_ARM(L)                                                                                     \
    INFER__ON_##L INFER__INLINE void infer__dots_body_##L(const infer__dots_args *a, int grain, int has_min,           \
                                                          int wide) {                                                  \
        const infer__x8 *x[INFER__COLS_ARM];                                                                           \
        int32_t j, g, i;                                                                                               \
        for (g = 0; a->n_x >= INFER__COLS_ARM && g < a->n_groups; g++) {                                               \
            infer__make_tile_##L(a->w + g, a->n_blocks, wide, a->tile);                                                \
            for (j = 0; j + INFER__COLS_ARM <= a->n_x; j += INFER__COLS_ARM) {                                         \
                for (i = 0; i < INFER__COLS_ARM; i++) x[i] = infer__x8_col(a, j + i);                                  \
                infer__tile_##L(a->tile, a->w + g, x, a->n_blocks, grain, has_min, wide, a->type->offset,              \
                                a->y + j * a->stride + g * INFER__GROUP, a->stride);                                   \
            }                                                                                                          \
        }                                                                                                              \
        j = a->n_x - a->n_x % INFER__COLS_ARM;                                                                         \
        INFER__DIRECT_FROM_ARM(dotprod, a, j, 1, grain, has_min, wide, 1)                                              \
    }                                                                                                                  \
    INFER__DEFINE_DOTS_ARM(L, infer__dots_body_##L, infer__dots_32_##L)

#if defined(INFER__HAVE_dotprod)
INFER__ON_dotprod INFER__INLINE int32x4_t infer__dot16_dotprod(int8x16_t w, int8x16_t x) {
    return vdotq_s32(vdupq_n_s32(0), w, x);
}
INFER__ON_dotprod INFER__INLINE int32x4_t infer__dot32_dotprod(const int8x16_t *w, const int8x16_t *x, int small) {
    (void)small;
    return vdotq_s32(infer__dot16_dotprod(w[0], x[0]), w[1], x[1]);
}
INFER__DEFINE_DIRECT_ARM(dotprod)

/* Lane j of v[i]: lane i of r[j]. */
INFER__INLINE void infer__transpose_arm(const int32x4_t *r, uint8x16_t *v) {
    int64x2_t t[4];
    int i;
    INFER__UNROLL for (i = 0; i < 2; i++) {
        t[2 * i] = vreinterpretq_s64_s32(vtrn1q_s32(r[2 * i], r[2 * i + 1]));
        t[2 * i + 1] = vreinterpretq_s64_s32(vtrn2q_s32(r[2 * i], r[2 * i + 1]));
    }
    INFER__UNROLL for (i = 0; i < 2; i++) {
        v[i] = vreinterpretq_u8_s64(vtrn1q_s64(t[i], t[2 + i]));
        v[2 + i] = vreinterpretq_u8_s64(vtrn2q_s64(t[i], t[2 + i]));
    }
}

/* A group's codes, signed and transposed: values 4 j .. 4 j + 3 of rows 4 i .. 4 i + 3 at tile + 64 * j + 16 * i. */
INFER__INLINE void infer__make_tile_dotprod(const infer__unpacked *w, int n_blocks, int wide, uint8_t *tile) {
    int k, i, j;
    for (k = 0; k < 32 * n_blocks; k += 16)
        for (i = 0; i < 4; i++) {
            int32x4_t r[4];
            uint8x16_t v[4];
            INFER__UNROLL for (j = 0; j < 4; j++)
                r[j] = vreinterpretq_s32_s8(infer__codes_arm(w->q[4 * i + j] + infer__q_index(k), wide));
            infer__transpose_arm(r, v);
            INFER__UNROLL for (j = 0; j < 4; j++) vst1q_u8(tile + 16 * k + 64 * j + 16 * i, v[j]);
        }
}

/* Half of block b of the columns times `quads` quadruples of rows, added to sum h. Lane j of a column's vector is
 * values 4 j .. 4 j + 3. */
#define INFER__LANE_DOTPROD(j)                                                                                         \
    INFER__UNROLL for (i = 0; i < quads; i++) {                                                                        \
        const int8x16_t v = vreinterpretq_s8_u8(vld1q_u8(tile + 64 * (j) + 16 * i));                                   \
        s[0][i][h] = vdotq_laneq_s32(s[0][i][h], v, x[0], j);                                                          \
        s[1][i][h] = vdotq_laneq_s32(s[1][i][h], v, x[1], j);                                                          \
        s[2][i][h] = vdotq_laneq_s32(s[2][i][h], v, x[2], j);                                                          \
        s[3][i][h] = vdotq_laneq_s32(s[3][i][h], v, x[3], j);                                                          \
    }
INFER__ON_dotprod INFER__INLINE void infer__half_dotprod(const uint8_t *tile, const infer__x8 *const *columns, int b,
                                                         int half, int quads, int h, int32x4_t (*s)[4][2]) {
    int8x16_t x[INFER__COLS_ARM];
    int i;
    tile += 16 * INFER__GROUP * half;
    INFER__UNROLL for (i = 0; i < INFER__COLS_ARM; i++) x[i] = vld1q_s8(columns[i]->q + 32 * b + 16 * half);
    INFER__LANE_DOTPROD(0)
    INFER__LANE_DOTPROD(1)
    INFER__LANE_DOTPROD(2)
    INFER__LANE_DOTPROD(3)
}

INFER__ON_dotprod INFER__INLINE void infer__tile_dotprod(const uint8_t *tile, const infer__unpacked *w,
                                                         const infer__x8 *const *x, int n_blocks, int grain,
                                                         int has_min, int wide, int32_t offset, float *y,
                                                         int64_t stride) {
    const int quads = infer__quads_arm(grain);
    int b, row, i, j, h;
    for (b = 0; b < n_blocks; b++, tile += 32 * INFER__GROUP) {
        infer__column_arm c[INFER__COLS_ARM];
        INFER__UNROLL for (j = 0; j < INFER__COLS_ARM; j++)
            c[j] = infer__column_at_arm(x[j], b, grain, wide ? 0 : offset);
        INFER__UNROLL for (row = 0; row < INFER__GROUP; row += 4 * quads) {
            int32x4_t s[INFER__COLS_ARM][4][2];
            INFER__UNROLL for (j = 0; j < INFER__COLS_ARM; j++)
                INFER__UNROLL for (i = 0; i < quads; i++)
                    INFER__UNROLL for (h = 0; h < 32 / grain; h++) s[j][i][h] = vdupq_n_s32(c[j].of[h].start);
            if (grain == 32) /* a loop: gcc would take both halves of a column first, and has too few registers */
                for (h = 0; h < 2; h++) infer__half_dotprod(tile + 4 * row, x, b, h, quads, 0, s);
            else
                INFER__UNROLL for (h = 0; h < 2; h++) infer__half_dotprod(tile + 4 * row, x, b, h, quads, h, s);
            infer__finish_tile_arm(w, c, b, row, grain, has_min, s, y, stride);
        }
    }
}
INFER__DEFINE_TILED_ARM(dotprod)
#endif

/* ---- i8mm ----------------------------------------------------------------------------------------------------- */

#if defined(INFER__HAVE_i8mm)
/* Two rows or columns of 16 values: the first halves of both, the second halves. */
INFER__INLINE uint8x16_t infer__first_eight_arm(uint8x16_t a, uint8x16_t b) {
    return vreinterpretq_u8_u64(vtrn1q_u64(vreinterpretq_u64_u8(a), vreinterpretq_u64_u8(b)));
}
INFER__INLINE uint8x16_t infer__last_eight_arm(uint8x16_t a, uint8x16_t b) {
    return vreinterpretq_u8_u64(vtrn2q_u64(vreinterpretq_u64_u8(a), vreinterpretq_u64_u8(b)));
}

/* A group's codes, pairs of rows: values 8 j .. 8 j + 7 of rows 2 i and 2 i + 1 at tile + 128 * j + 16 * i. They stay
 * unsigned. */
INFER__INLINE void infer__make_tile_i8mm(const infer__unpacked *w, int n_blocks, int wide, uint8_t *tile) {
    int k, i;
    (void)wide;
    for (k = 0; k < 32 * n_blocks; k += 16, tile += 256)
        INFER__UNROLL for (i = 0; i < 8; i++) {
            const uint8x16_t a = vld1q_u8(w->q[2 * i] + infer__q_index(k));
            const uint8x16_t b = vld1q_u8(w->q[2 * i + 1] + infer__q_index(k));
            vst1q_u8(tile + 16 * i, infer__first_eight_arm(a, b));
            vst1q_u8(tile + 128 + 16 * i, infer__last_eight_arm(a, b));
        }
}

/* Half of block b of two pairs of columns times `quads` quadruples of rows, added to sum h. A sum is of two rows and
 * two columns: r0c0, r0c1, r1c0, r1c1. */
INFER__ON_i8mm INFER__INLINE void infer__half_i8mm(const uint8_t *tile, const infer__x8 *const *columns, int b,
                                                   int half, int quads, int h, int32x4_t (*s)[8][2]) {
    int8x16_t x[2][2];
    int eight, i, j;
    tile += 16 * INFER__GROUP * half;
    INFER__UNROLL for (j = 0; j < 2; j++) {
        const uint8x16_t p = vreinterpretq_u8_s8(vld1q_s8(columns[2 * j]->q + 32 * b + 16 * half));
        const uint8x16_t q = vreinterpretq_u8_s8(vld1q_s8(columns[2 * j + 1]->q + 32 * b + 16 * half));
        x[j][0] = vreinterpretq_s8_u8(infer__first_eight_arm(p, q));
        x[j][1] = vreinterpretq_s8_u8(infer__last_eight_arm(p, q));
    }
    INFER__UNROLL for (eight = 0; eight < 2; eight++)
        INFER__UNROLL for (i = 0; i < 2 * quads; i++) {
            const uint8x16_t v = vld1q_u8(tile + 128 * eight + 16 * i);
            INFER__UNROLL for (j = 0; j < 2; j++) s[j][i][h] = vusmmlaq_s32(s[j][i][h], v, x[j][eight]);
        }
}

INFER__ON_i8mm INFER__INLINE void infer__tile_i8mm(const uint8_t *tile, const infer__unpacked *w,
                                                   const infer__x8 *const *x, int n_blocks, int grain, int has_min,
                                                   int wide, int32_t offset, float *y, int64_t stride) {
    const int quads = infer__quads_arm(grain);
    int b, row, i, j, h;
    (void)wide;
    for (b = 0; b < n_blocks; b++, tile += 32 * INFER__GROUP) {
        infer__column_arm c[INFER__COLS_ARM];
        INFER__UNROLL for (j = 0; j < INFER__COLS_ARM; j++) c[j] = infer__column_at_arm(x[j], b, grain, offset);
        INFER__UNROLL for (row = 0; row < INFER__GROUP; row += 4 * quads) {
            int32x4_t squares[2][8][2], s[INFER__COLS_ARM][4][2]; /* pairs of columns x pairs of rows; columns x rows */
            INFER__UNROLL for (j = 0; j < 2; j++)
                INFER__UNROLL for (i = 0; i < 2 * quads; i++)
                    INFER__UNROLL for (h = 0; h < 32 / grain; h++)
                        squares[j][i][h] = vtrn1q_s32(vdupq_n_s32(c[2 * j].of[h].start),
                                                      vdupq_n_s32(c[2 * j + 1].of[h].start));
            if (grain == 32)
                for (h = 0; h < 2; h++) infer__half_i8mm(tile + 8 * row, x, b, h, quads, 0, squares);
            else
                INFER__UNROLL for (h = 0; h < 2; h++) infer__half_i8mm(tile + 8 * row, x, b, h, quads, h, squares);
            INFER__UNROLL for (j = 0; j < 2; j++)
                INFER__UNROLL for (i = 0; i < quads; i++)
                    INFER__UNROLL for (h = 0; h < 32 / grain; h++) {
                        s[2 * j][i][h] = vuzp1q_s32(squares[j][2 * i][h], squares[j][2 * i + 1][h]);
                        s[2 * j + 1][i][h] = vuzp2q_s32(squares[j][2 * i][h], squares[j][2 * i + 1][h]);
                    }
            infer__finish_tile_arm(w, c, b, row, grain, has_min, s, y, stride);
        }
    }
}
INFER__DEFINE_TILED_ARM(i8mm)
#endif
#undef INFER__DEFINE_TILED_ARM
#undef INFER__DEFINE_DIRECT_ARM
#undef INFER__DEFINE_DOTS_ARM
#undef INFER__DIRECT_FROM_ARM
#undef INFER__LANE_DOTPROD
#endif
