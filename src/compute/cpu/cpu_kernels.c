/* cpu_kernels.c: KERNELS: the float kernels, one row per level, best first.
 *
 * Owns:  the wrappers that give each body of cpu_ops.h its instruction set.
 * Rules: no sums of its own but for infer__dots_4x4_avx512, which computes what 16 single dots compute, bit by bit. The
 *        order in which a tile is walked changes no bit: every element of it is a whole dot product.
 * Start: INFER__DEFINE_KERNELS, then infer__kernel_rows.
 */
#include "cpu_ops.h"

/* ---- more than four dots at once ------------------------------------------------------------------- */

/* As many rows of w as can be done at once by four of x; returns how many were done. */
INFER__INLINE int32_t infer__wide_none(const float *w, int64_t sw, int32_t n_w, const float *x, int64_t sx, int64_t k,
                                       float *y, int64_t sy) {
    (void)w; (void)sw; (void)n_w; (void)x; (void)sx; (void)k; (void)y; (void)sy;
    return 0;
}

#if defined(INFER__SIMD_X86) && !defined(INFER_NO_AVX512)
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

/* ---- the wrappers ------------------------------------------------------------------------------------- */

/* Four rows of x stay in the nearest cache while all rows of w pass by, each loaded once for the four. */
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
    INFER__ON_##L static void infer__mix_##L(float *y, const float *w, int64_t sw, const float *a, int32_t k,          \
                                             float scale, int64_t n) {                                                 \
        infer__mix_body_##L(y, w, sw, a, k, scale, n);                                                                 \
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

#define INFER__KERNEL_ROW(L, need)                                                                                     \
    {#L, need, infer__dot_##L, infer__tile_##L, infer__axpy_##L, infer__mix_##L, infer__scale_##L, infer__sum_all_##L,                 \
     infer__sum_sq_diff_##L, infer__act_##L, infer__softcap_##L, infer__normalise_##L, infer__turn_##L,                \
     infer__all_finite_##L}

INFER__DEFINE_KERNELS(scalar, infer__wide_none)
#if defined(INFER__SIMD_X86)
INFER__DEFINE_KERNELS(avx2, infer__wide_none)
#  if !defined(INFER_NO_AVX512)
INFER__DEFINE_KERNELS(avx512, infer__wide_avx512)
#  endif
#endif
#if defined(INFER__SIMD_ARM)
INFER__DEFINE_KERNELS(neon, infer__wide_none)
#endif

static const infer__kernels infer__kernel_rows[] = {
#if defined(INFER__SIMD_X86)
#  if !defined(INFER_NO_AVX512)
    INFER__KERNEL_ROW(avx512, INFER__CPU_AVX2 | INFER__CPU_AVX512),
#  endif
    INFER__KERNEL_ROW(avx2, INFER__CPU_AVX2),
#endif
#if defined(INFER__SIMD_ARM)
    INFER__KERNEL_ROW(neon, INFER__CPU_NEON),
#endif
    INFER__KERNEL_ROW(scalar, 0),
};
#undef INFER__DEFINE_KERNELS
#undef INFER__KERNEL_ROW

static const infer__kernels *infer__kernels_find(uint32_t cpu) {
    const infer__kernels *row = infer__kernel_rows;
    while (row->need & ~cpu) row++; /* the last row needs nothing */
    return row;
}
