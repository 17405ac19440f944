/* cpu_kernels.c: KERNELS: the float kernels, one row per level, best first.
 *
 * Owns:  the wrappers that give each body of cpu_ops.h its instruction set.
 * Rules: no sums of its own except infer__dots_4x4_avx512, which gives the bits of 16 single dots. The order within a
 *        tile does not matter: every element of it is a whole dot product.
 * Start: INFER__DEFINE_KERNELS, then infer__kernel_rows.
 */
#include "cpu_ops.h"

/* ---- more than four dots at once ------------------------------------------------------------------- */

/* Multiply as many rows of w at once as the level can with four of x; returns the number of rows. */
INFER__INLINE int32_t infer__wide_none(const float *w, int64_t sw, int32_t n_w, const float *x, int64_t sx, int64_t k,
                                       float *y, int64_t sy) {
    (void)w; (void)sw; (void)n_w; (void)x; (void)sx; (void)k; (void)y; (void)sy;
    return 0;
}

#if defined(INFER__SIMD_AVX512)
#define INFER__ROW(i, load)                                                                                            \
    v = load(w + (i) * sw + at);                                                                                       \
    s##i##0 = _mm512_fmadd_ps(v, x0, s##i##0);                                                                         \
    s##i##1 = _mm512_fmadd_ps(v, x1, s##i##1);                                                                         \
    s##i##2 = _mm512_fmadd_ps(v, x2, s##i##2);                                                                         \
    s##i##3 = _mm512_fmadd_ps(v, x3, s##i##3);
#define INFER__STEP(load)                                                                                              \
    x0 = load(x + at);                                                                                                 \
    x1 = load(x + sx + at);                                                                                            \
    x2 = load(x + 2 * sx + at);                                                                                        \
    x3 = load(x + 3 * sx + at);                                                                                        \
    INFER__ROW(0, load) INFER__ROW(1, load) INFER__ROW(2, load) INFER__ROW(3, load)
#define INFER__SUMS(i)                                                                                                 \
    y[i] = infer__sum_avx512(s##i##0);                                                                                 \
    y[sy + i] = infer__sum_avx512(s##i##1);                                                                            \
    y[2 * sy + i] = infer__sum_avx512(s##i##2);                                                                        \
    y[3 * sy + i] = infer__sum_avx512(s##i##3);
#define INFER__PART(p) _mm512_maskz_loadu_ps(part, p)

/* Four rows of w by four of x: AVX-512 has registers for 16 accumulators, so that 8 loads serve 16 multiplications
 * instead of 20. */
INFER__ON_avx512 static void infer__dots_4x4_avx512(const float *w, int64_t sw, const float *x, int64_t sx, int64_t k,
                                                    float *y, int64_t sy) {
    __m512 s00 = _mm512_setzero_ps(), s01 = s00, s02 = s00, s03 = s00, s10 = s00, s11 = s00, s12 = s00, s13 = s00;
    __m512 s20 = s00, s21 = s00, s22 = s00, s23 = s00, s30 = s00, s31 = s00, s32 = s00, s33 = s00, v, x0, x1, x2, x3;
    int64_t at;
    for (at = 0; at + INFER__LANES <= k; at += INFER__LANES) {
        INFER__STEP(_mm512_loadu_ps)
    }
    if (at < k) {
        const __mmask16 part = (__mmask16)((1u << (k - at)) - 1u);
        INFER__STEP(INFER__PART)
    }
    INFER__SUMS(0) INFER__SUMS(1) INFER__SUMS(2) INFER__SUMS(3)
}
#undef INFER__ROW
#undef INFER__STEP
#undef INFER__SUMS
#undef INFER__PART

INFER__ON_avx512 INFER__INLINE int32_t infer__wide_avx512(const float *w, int64_t sw, int32_t n_w, const float *x,
                                                          int64_t sx, int64_t k, float *y, int64_t sy) {
    int32_t i;
    for (i = 0; i + 4 <= n_w; i += 4) infer__dots_4x4_avx512(w + i * sw, sw, x, sx, k, y + i, sy);
    return i;
}
#endif

/* ---- low ranks ------------------------------------------------------------------------------------------------- */

#define INFER__LOW_f32(L, p) infer__load_##L((const float *)(const void *)(p))
#define INFER__LOW_f16(L, p) infer__half16_##L(p)
#define INFER__LOW_bf16(L, p) infer__upper16_##L(p)

/* Columns of R rows of y with weights of kind K, `size` bytes each, from column `at` of w on: blocks of 16 columns,
 * [k][16] each.
 * Each load of w serves all rows. With a shift, at % 16, the columns of a block span two. */
#define INFER__DEFINE_MIX_ROWS(L, K, size, R)                                                                          \
    INFER__ON_##L static void infer__mix_##K##_##R##_##L(float *y, int64_t sy, const uint8_t *w, int64_t at,           \
                                                         const float *a, int64_t sa, int32_t k, float scale,           \
                                                         int64_t n) {                                                  \
        const infer__v16_##L by = infer__splat_##L(scale);                                                             \
        const int64_t block = (int64_t)k * INFER__LANES * size, shift = at % INFER__LANES * size;                      \
        int64_t i;                                                                                                     \
        int32_t j, r;                                                                                                  \
        w += at / INFER__LANES * block;                                                                                \
        for (i = 0; !shift && i + 2 * INFER__LANES <= n; i += 2 * INFER__LANES, w += 2 * block) {                      \
            infer__v16_##L s[R][2];                                                                                    \
            INFER__UNROLL for (r = 0; r < R; r++) s[r][0] = s[r][1] = infer__zero_##L();                               \
            for (j = 0; j < k; j++) {                                                                                  \
                const infer__v16_##L v = INFER__LOW_##K(L, w + j * INFER__LANES * size);                               \
                const infer__v16_##L u = INFER__LOW_##K(L, w + block + j * INFER__LANES * size);                       \
                INFER__UNROLL for (r = 0; r < R; r++) {                                                                \
                    const infer__v16_##L c = infer__splat_##L(a[r * sa + j]);                                          \
                    s[r][0] = infer__fma_##L(v, c, s[r][0]);                                                           \
                    s[r][1] = infer__fma_##L(u, c, s[r][1]);                                                           \
                }                                                                                                      \
            }                                                                                                          \
            INFER__UNROLL for (r = 0; r < R; r++) {                                                                    \
                float *to = y + r * sy + i;                                                                            \
                infer__store_##L(to, infer__fma_##L(s[r][0], by, infer__load_##L(to)));                                \
                to += INFER__LANES;                                                                                    \
                infer__store_##L(to, infer__fma_##L(s[r][1], by, infer__load_##L(to)));                                \
            }                                                                                                          \
        }                                                                                                              \
        for (; i < n; i += INFER__LANES, w += block) {                                                                 \
            const int64_t left = n - i < INFER__LANES ? n - i : INFER__LANES;                                          \
            infer__v16_##L s[R];                                                                                       \
            INFER__UNROLL for (r = 0; r < R; r++) s[r] = infer__zero_##L();                                            \
            for (j = 0; j < k; j++) {                                                                                  \
                const uint8_t *p = w + j * INFER__LANES * size;                                                        \
                uint8_t t[INFER__LANES * size];                                                                        \
                infer__v16_##L v;                                                                                      \
                if (shift) {                                                                                           \
                    memcpy(t, p + shift, (size_t)(INFER__LANES * size - shift));                                       \
                    memset(t + INFER__LANES * size - shift, 0, (size_t)shift);                                         \
                    if (left * size > INFER__LANES * size - shift)                                                     \
                        memcpy(t + INFER__LANES * size - shift, p + block, (size_t)shift);                             \
                    p = t;                                                                                             \
                }                                                                                                      \
                v = INFER__LOW_##K(L, p);                                                                              \
                INFER__UNROLL for (r = 0; r < R; r++) s[r] = infer__fma_##L(v, infer__splat_##L(a[r * sa + j]), s[r]); \
            }                                                                                                          \
            for (r = 0; r < R; r++) {                                                                                  \
                float part[INFER__LANES];                                                                              \
                infer__store_##L(part, infer__fma_##L(s[r], by, infer__load_part_##L(y + r * sy + i, left)));          \
                memcpy(y + r * sy + i, part, (size_t)left * sizeof *part);                                             \
            }                                                                                                          \
        }                                                                                                              \
    }

/* Weights of 16 bits: the dots of four rows of w with x, the bits of infer__dot4_L; n of them as float32. */
#define INFER__DEFINE_LOW_HALVES(L, K)                                                                           \
  INFER__ON_##L static void infer__low_dots_##K##_##L(float *y, const uint8_t *w, int64_t sw, const float *x,    \
                                                      int64_t k) {                                               \
    infer__v16_##L s0 = infer__zero_##L(), s1 = s0, s2 = s0, s3 = s0, v;                                         \
    uint8_t t[4][INFER__LANES * 2] = {{0}};                                                                      \
    int64_t i, r;                                                                                                \
    for (i = 0; i + INFER__LANES <= k; i += INFER__LANES, w += INFER__LANES * 2) {                               \
      v = infer__load_##L(x + i);                                                                                \
      s0 = infer__fma_##L(INFER__LOW_##K(L, w), v, s0);                                                          \
      s1 = infer__fma_##L(INFER__LOW_##K(L, w + sw), v, s1);                                                     \
      s2 = infer__fma_##L(INFER__LOW_##K(L, w + 2 * sw), v, s2);                                                 \
      s3 = infer__fma_##L(INFER__LOW_##K(L, w + 3 * sw), v, s3);                                                 \
    }                                                                                                            \
    if (i < k) {                                                                                                 \
      for (r = 0; r < 4; r++) memcpy(t[r], w + r * sw, (size_t)((k - i) * 2));                                   \
      v = infer__load_part_##L(x + i, k - i);                                                                    \
      s0 = infer__fma_##L(INFER__LOW_##K(L, t[0]), v, s0);                                                       \
      s1 = infer__fma_##L(INFER__LOW_##K(L, t[1]), v, s1);                                                       \
      s2 = infer__fma_##L(INFER__LOW_##K(L, t[2]), v, s2);                                                       \
      s3 = infer__fma_##L(INFER__LOW_##K(L, t[3]), v, s3);                                                       \
    }                                                                                                            \
    y[0] = infer__sum_##L(s0);                                                                                   \
    y[1] = infer__sum_##L(s1);                                                                                   \
    y[2] = infer__sum_##L(s2);                                                                                   \
    y[3] = infer__sum_##L(s3);                                                                                   \
  }                                                                                                              \
  INFER__ON_##L static void infer__widen_##K##_##L(float *y, const uint8_t *x, int64_t n) {                      \
    uint8_t t[INFER__LANES * 2] = {0};                                                                           \
    float part[INFER__LANES];                                                                                    \
    int64_t i;                                                                                                   \
    for (i = 0; i + INFER__LANES <= n; i += INFER__LANES) infer__store_##L(y + i, INFER__LOW_##K(L, x + i * 2)); \
    if (i == n) return;                                                                                          \
    memcpy(t, x + i * 2, (size_t)(n - i) * 2);                                                                   \
    infer__store_##L(part, INFER__LOW_##K(L, t));                                                                \
    memcpy(y + i, part, (size_t)(n - i) * sizeof *part);                                                         \
  }

#define INFER__DEFINE_MIX(L, K, size, R)                                                                               \
    INFER__DEFINE_MIX_ROWS(L, K, size, R)                                                                              \
    INFER__DEFINE_MIX_ROWS(L, K, size, 1)                                                                              \
    INFER__ON_##L static void infer__mix_##K##_##L(float *y, int64_t sy, int32_t rows, const uint8_t *w, int64_t at,   \
                                                   const float *a, int64_t sa, int32_t k, float scale, int64_t n) {    \
        for (; rows >= R; rows -= R, y += R * sy, a += R * sa)                                                         \
            infer__mix_##K##_##R##_##L(y, sy, w, at, a, sa, k, scale, n);                                              \
        for (; rows > 0; rows--, y += sy, a += sa) infer__mix_##K##_1_##L(y, sy, w, at, a, sa, k, scale, n);           \
    }

/* R: rows that the level's registers are enough for. */
#define INFER__DEFINE_LOW(L, R)                                                                                        \
    INFER__DEFINE_MIX(L, f32, 4, R)                                                                                    \
    INFER__DEFINE_MIX(L, f16, 2, R)                                                                                    \
    INFER__DEFINE_MIX(L, bf16, 2, R)                                                                                   \
    INFER__DEFINE_LOW_HALVES(L, f16)                                                                                   \
    INFER__DEFINE_LOW_HALVES(L, bf16)                                                                                  \
    INFER__ON_##L static void infer__mix_##L(float *y, int64_t sy, int32_t rows, const void *w, int32_t kind,          \
                                             int64_t at, const float *a, int64_t sa, int32_t k, float scale,           \
                                             int64_t n) {                                                              \
        const uint8_t *p = (const uint8_t *)w;                                                                         \
        if (kind == INFER__LOW_F32) infer__mix_f32_##L(y, sy, rows, p, at, a, sa, k, scale, n);                        \
        else if (kind == INFER__LOW_F16) infer__mix_f16_##L(y, sy, rows, p, at, a, sa, k, scale, n);                   \
        else infer__mix_bf16_##L(y, sy, rows, p, at, a, sa, k, scale, n);                                              \
    }                                                                                                                  \
    INFER__ON_##L static void infer__low_dots_##L(float *y, const void *w, int32_t kind, int32_t rows, const float *x, \
                                                  int64_t k) {                                                         \
        const uint8_t *p = (const uint8_t *)w;                                                                         \
        const int64_t sw = k * infer__low_bytes(kind);                                                                 \
        int32_t i;                                                                                                     \
        for (i = 0; i < rows; i += 4, p += 4 * sw) {                                                                   \
            float four[4];                                                                                             \
            const int64_t step = rows - i < 4 ? 0 : sw; /* fewer than four: one at a time */                           \
            int32_t r, n = step ? 1 : rows - i;                                                                        \
            for (r = 0; r < n; r++) {                                                                                  \
                if (kind == INFER__LOW_F32)                                                                            \
                    infer__dot4_##L((const float *)(const void *)(p + r * sw), step ? k : 0, x, k, four, 1);           \
                else if (kind == INFER__LOW_F16) infer__low_dots_f16_##L(four, p + r * sw, step, x, k);                \
                else infer__low_dots_bf16_##L(four, p + r * sw, step, x, k);                                           \
                memcpy(y + i + r, four, step ? sizeof four : sizeof *four);                                            \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    INFER__ON_##L static void infer__widen_##L(float *y, const void *x, int32_t kind, int64_t n) {                     \
        const uint8_t *p = (const uint8_t *)x;                                                                         \
        if (kind == INFER__LOW_F16) infer__widen_f16_##L(y, p, n);                                                     \
        else infer__widen_bf16_##L(y, p, n);                                                                           \
    }

/* ---- the wrappers ------------------------------------------------------------------------------------- */

/* Four rows of x stay in the nearest cache while all rows of w are read, each loaded once for the four. */
#define INFER__DEFINE_KERNELS(L, WIDE)                                                                                 \
    INFER__ON_##L static void infer__tile_##L(const float *w, int64_t sw, int32_t n_w, const float *x, int64_t sx,     \
                                              int32_t n_x, int64_t k, float *y, int64_t sy) {                          \
        int32_t i, j;                                                                                                  \
        for (j = 0; j + 4 <= n_x; j += 4, x += 4 * sx, y += 4 * sy) {                                                  \
            for (i = WIDE(w, sw, n_w, x, sx, k, y, sy); i < n_w; i++)                                                  \
                infer__dot4_##L(x, sx, w + i * sw, k, y + i, sy);                                                      \
        }                                                                                                              \
        for (; j < n_x; j++, x += sx, y += sy) {                                                                       \
            for (i = 0; i + 4 <= n_w; i += 4) infer__dot4_##L(w + i * sw, sw, x, k, y + i, 1);                         \
            for (; i < n_w; i++) y[i] = infer__dot1_##L(w + i * sw, x, k);                                             \
        }                                                                                                              \
    }                                                                                                                  \
    INFER__ON_##L static void infer__dot_##L(const float *w, const float *x, int64_t stride, int32_t n, int64_t k,     \
                                             float *y) {                                                               \
        infer__tile_##L(x, stride, n, w, 0, 1, k, y, 0);                                                               \
    }                                                                                                                  \
    INFER__ON_##L static void infer__axpy_##L(float *y, const float *x, float a, int64_t n) {                          \
        infer__axpy_body_##L(y, x, a, n);                                                                              \
    }                                                                                                                  \
    INFER__ON_##L static void infer__scale_##L(float *y, float a, int64_t n) { infer__scale_body(y, a, n); }           \
    INFER__ON_##L static float infer__sum_all_##L(const float *x, int64_t n) { return infer__sum_body_##L(x, n); }     \
    INFER__ON_##L static float infer__sum_sq_diff_##L(const float *x, float mean, int64_t n) {                         \
        return infer__sum_sq_diff_body_##L(x, mean, n);                                                                \
    }                                                                                                                  \
    INFER__ON_##L static void infer__act_##L(float *y, const float *x, const float *up, int32_t kind, int64_t n) {     \
        infer__act_body(y, x, up, kind, n);                                                                            \
    }                                                                                                                  \
    INFER__ON_##L static void infer__softcap_##L(float *x, float scale, float cap, int64_t n) {                        \
        infer__softcap_body(x, scale, cap, n);                                                                         \
    }                                                                                                                  \
    INFER__ON_##L static void infer__normalise_##L(float *y, const float *x, float mean, float inv, const float *w,    \
                                                   const float *b, int64_t n) {                                        \
        infer__norm_body(y, x, mean, inv, w, b, n);                                                                    \
    }                                                                                                                  \
    INFER__ON_##L static void infer__turn_##L(float *x, const float *cosine, const float *sine, int32_t half,          \
                                              int32_t kind) {                                                          \
        infer__rotate_body(x, cosine, sine, half, kind == INFER__ROPE_HALVES);                                         \
    }                                                                                                                  \
    INFER__ON_##L static int infer__all_finite_##L(const float *x, int64_t n) { return infer__finite_body(x, n); }

#if INFER__HAS_ADAPTERS
#  define INFER__KERNEL_LOW(L) infer__mix_##L, infer__low_dots_##L, infer__widen_##L
#else
#  define INFER__KERNEL_LOW(L) NULL, NULL, NULL
#endif
#define INFER__KERNEL_ROW(L, need)                                                                                     \
  {                                                                                                                    \
#    L, need, infer__dot_##L, infer__tile_##L, infer__axpy_##L, INFER__KERNEL_LOW(L),                                  \
        infer__scale_##L, infer__sum_all_##L, infer__sum_sq_diff_##L, infer__act_##L,                                  \
        INFER__HAS_VARIANTS ? infer__softcap_##L : NULL, infer__normalise_##L, infer__turn_##L, infer__all_finite_##L  \
  }

INFER__DEFINE_LOW(scalar, 2)
INFER__DEFINE_KERNELS(scalar, infer__wide_none)
#if defined(INFER__SIMD_AVX2)
INFER__DEFINE_LOW(avx2, 2)
INFER__DEFINE_KERNELS(avx2, infer__wide_none)
#  if defined(INFER__SIMD_AVX512)
INFER__DEFINE_LOW(avx512, 8)
INFER__DEFINE_KERNELS(avx512, infer__wide_avx512)
#  endif
#endif
#if defined(INFER__SIMD_ARM)
INFER__DEFINE_LOW(neon, 2)
INFER__DEFINE_KERNELS(neon, infer__wide_none)
#endif

static const infer__kernels infer__kernel_rows[] = {
#if defined(INFER__SIMD_AVX2)
#  if defined(INFER__SIMD_AVX512)
    INFER__KERNEL_ROW(avx512, INFER__CPU_AVX2 | INFER__CPU_AVX512),
#  endif
    INFER__KERNEL_ROW(avx2, INFER__CPU_AVX2),
#endif
#if defined(INFER__SIMD_ARM)
    INFER__KERNEL_ROW(neon, INFER__CPU_NEON),
#endif
    INFER__KERNEL_ROW(scalar, 0),
};
#undef INFER__DEFINE_LOW
#undef INFER__DEFINE_MIX
#undef INFER__DEFINE_MIX_ROWS
#undef INFER__DEFINE_LOW_HALVES
#undef INFER__DEFINE_KERNELS
#undef INFER__KERNEL_LOW
#undef INFER__KERNEL_ROW

static const infer__kernels *infer__kernels_find(uint32_t cpu) {
    const infer__kernels *row = infer__kernel_rows;
    while (row->need & ~cpu) row++; /* the last row has no requirements */
    return row;
}
