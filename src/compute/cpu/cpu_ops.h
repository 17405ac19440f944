/* cpu_ops.h: the float arithmetic of the CPU backend: one body for every instruction set.
 *
 * Owns:  vectors of INFER__LANES floats per instruction set (infer__v16_*), and the bodies that cpu_kernels.c wraps.
 * Rules: a body is always inlined into a wrapper that carries the target attribute, so that the compiler uses that
 *        instruction set for it. Every sum walks its elements in INFER__LANES lanes (lane = index % INFER__LANES); the
 *        lanes are then added in halves: l and l + 8, l and l + 4, l and l + 2, l and l + 1. So all levels add the same
 *        numbers in the same order; they differ by fused multiply-add only.
 *        Dot products and sums of rows (the hot loops) are written with infer__v16_*, since gcc -O2 neither keeps 16
 *        accumulators of a plain loop in registers nor fuses multiply-add under -std=c99. The rest are plain loops over
 *        blocks of INFER__LANES elements, a form that gcc 12 -O2 makes packed (it leaves loops of unknown length
 *        alone).
 * Start: INFER__DEFINE_DOTS at the end.
 */
#ifndef INFER__CPU_OPS_H
#define INFER__CPU_OPS_H

#include "../backend.h"
#include "cpu_math.h"
#include <math.h>
INFER__PASSES_END
#if defined(INFER__SIMD_X86)
#  include <immintrin.h>
#elif defined(INFER__SIMD_ARM)
#  include <arm_neon.h>
#elif defined(INFER__SIMD_WASM)
#  include <wasm_simd128.h>
#elif defined(INFER__SIMD_RVV)
#  include <riscv_vector.h>
#endif
INFER__PASSES_BEGIN

#define INFER__ON_scalar
#define INFER__ON_neon
#define INFER__ON_avx2 INFER__TARGET("avx2,fma,f16c")
#define INFER__ON_avx512 INFER__TARGET("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")

/* Scratch of a context's CPU layers; allocated by prepare. */
struct infer__x8;
struct infer__cpu_run {
    float *scratch;        /* workers x scratch_len floats */
    int64_t scratch_len;
    int32_t panel;         /* columns of an integer product whose sums a worker holds */
    struct infer__x8 *x8;  /* a matrix product's input, quantised to 8 bits */
    uint64_t x8_len;       /* its chunks of INFER__CHUNK values */
    uint8_t *float_x;      /* a matrix product's input, rounded to BF16 or reordered */
    uint64_t float_x_bytes;
    /* Sine/cosine tables of the pass: n_turns sets of turns_len floats, each filled when an op first needs the
     * frequencies in turns_of. */
    float *turns;
    int64_t turns_len;
    int32_t n_turns;
    const infer__buf *turns_of[INFER__ROPE_SETS];
    uint32_t *ranks; /* of positions, for `index` */
    int64_t ranks_len;
};
static uint64_t infer__cpu_x8_len(uint64_t rows, int32_t cols); /* chunks */
static uint64_t infer__cpu_x8_bytes(uint64_t len);
static uint64_t infer__float_x_bytes(uint32_t cpu, uint64_t rows, int32_t cols);
/* And for experts with inputs of float_cols values that `pairs` of a row and a choice use. */
static uint64_t infer__float_experts_bytes(int32_t float_cols, uint64_t pairs, int32_t n_expert);

/* At the start of a body: -ffast-math may not change the order of its additions (gcc has no such switch). */
#if defined(__clang__)
#  define INFER__KEEP_ORDER _Pragma("clang fp reassociate(off)")
#else
#  define INFER__KEEP_ORDER
#endif

/* ---- 16 floats ---------------------------------------------------------------------------------- */

/* Each set has: load (16 floats, any address), zero, splat, fma (w * x + a), store, sum (the lanes, in halves). */

#if (defined(__GNUC__) || defined(__clang__)) && !defined(__TINYC__)
/* Vectors of four that the compiler maps to whatever the target has: SSE2, AltiVec, single floats. */
typedef float infer__v4 __attribute__((vector_size(16)));
typedef struct infer__v16_scalar { infer__v4 a, b, c, d; } infer__v16_scalar;
INFER__INLINE infer__v16_scalar infer__load_scalar(const float *p) {
    infer__v16_scalar v;
    memcpy(&v.a, p, 16);
    memcpy(&v.b, p + 4, 16);
    memcpy(&v.c, p + 8, 16);
    memcpy(&v.d, p + 12, 16);
    return v;
}
INFER__INLINE void infer__store_scalar(float *p, infer__v16_scalar v) {
    memcpy(p, &v.a, 16);
    memcpy(p + 4, &v.b, 16);
    memcpy(p + 8, &v.c, 16);
    memcpy(p + 12, &v.d, 16);
}
INFER__INLINE infer__v16_scalar infer__splat_scalar(float f) {
    infer__v16_scalar v;
    infer__v4 s = {f, f, f, f};
    v.a = v.b = v.c = v.d = s;
    return v;
}
INFER__INLINE infer__v16_scalar infer__fma_scalar(infer__v16_scalar w, infer__v16_scalar x, infer__v16_scalar s) {
    INFER__KEEP_ORDER
    s.a += w.a * x.a;
    s.b += w.b * x.b;
    s.c += w.c * x.c;
    s.d += w.d * x.d;
    return s;
}
INFER__INLINE float infer__sum_scalar(infer__v16_scalar v) {
    INFER__KEEP_ORDER
    infer__v4 s = (v.a + v.c) + (v.b + v.d);
    return (s[0] + s[2]) + (s[1] + s[3]);
}
#else
typedef struct infer__v16_scalar { float v[INFER__LANES]; } infer__v16_scalar;
INFER__INLINE infer__v16_scalar infer__load_scalar(const float *p) {
    infer__v16_scalar v;
    memcpy(v.v, p, sizeof v.v);
    return v;
}
INFER__INLINE void infer__store_scalar(float *p, infer__v16_scalar v) { memcpy(p, v.v, sizeof v.v); }
INFER__INLINE infer__v16_scalar infer__splat_scalar(float f) {
    infer__v16_scalar v;
    int l;
    for (l = 0; l < INFER__LANES; l++) v.v[l] = f;
    return v;
}
INFER__INLINE infer__v16_scalar infer__fma_scalar(infer__v16_scalar w, infer__v16_scalar x, infer__v16_scalar s) {
    INFER__KEEP_ORDER
    int l;
    for (l = 0; l < INFER__LANES; l++) s.v[l] += w.v[l] * x.v[l];
    return s;
}
INFER__INLINE float infer__sum_scalar(infer__v16_scalar v) {
    INFER__KEEP_ORDER
    int l, half;
    for (half = INFER__LANES / 2; half > 0; half /= 2)
        for (l = 0; l < half; l++) v.v[l] += v.v[l + half];
    return v.v[0];
}
#endif
INFER__INLINE infer__v16_scalar infer__zero_scalar(void) { return infer__splat_scalar(0.0f); }

/* to = from + more, n floats; to may be from. For a bias, while sums are in the first cache. */
INFER__INLINE void infer__plus(float *to, const float *from, const float *more, int32_t n) {
    const infer__v16_scalar one = infer__splat_scalar(1.0f);
    int32_t i = 0;
    for (; i + INFER__LANES <= n; i += INFER__LANES)
        infer__store_scalar(to + i, infer__fma_scalar(infer__load_scalar(from + i), one, infer__load_scalar(more + i)));
    for (; i < n; i++) to[i] = from[i] + more[i];
}

#if defined(INFER__SIMD_AVX2)
typedef struct infer__v16_avx2 { __m256 a, b; } infer__v16_avx2;
INFER__ON_avx2 INFER__INLINE infer__v16_avx2 infer__load_avx2(const float *p) {
    infer__v16_avx2 v;
    v.a = _mm256_loadu_ps(p);
    v.b = _mm256_loadu_ps(p + 8);
    return v;
}
INFER__ON_avx2 INFER__INLINE void infer__store_avx2(float *p, infer__v16_avx2 v) {
    _mm256_storeu_ps(p, v.a);
    _mm256_storeu_ps(p + 8, v.b);
}
INFER__ON_avx2 INFER__INLINE infer__v16_avx2 infer__splat_avx2(float f) {
    infer__v16_avx2 v;
    v.a = v.b = _mm256_set1_ps(f);
    return v;
}
INFER__ON_avx2 INFER__INLINE infer__v16_avx2 infer__zero_avx2(void) {
    infer__v16_avx2 v;
    v.a = v.b = _mm256_setzero_ps();
    return v;
}
INFER__ON_avx2 INFER__INLINE infer__v16_avx2 infer__fma_avx2(infer__v16_avx2 w, infer__v16_avx2 x, infer__v16_avx2 s) {
    s.a = _mm256_fmadd_ps(w.a, x.a, s.a);
    s.b = _mm256_fmadd_ps(w.b, x.b, s.b);
    return s;
}
INFER__ON_avx2 INFER__INLINE float infer__sum_8_avx2(__m256 v) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_shuffle_ps(s, s, 1)));
}
INFER__ON_avx2 INFER__INLINE float infer__sum_avx2(infer__v16_avx2 v) {
    return infer__sum_8_avx2(_mm256_add_ps(v.a, v.b));
}

#  if defined(INFER__SIMD_AVX512)
typedef __m512 infer__v16_avx512;
INFER__ON_avx512 INFER__INLINE infer__v16_avx512 infer__load_avx512(const float *p) { return _mm512_loadu_ps(p); }
INFER__ON_avx512 INFER__INLINE void infer__store_avx512(float *p, infer__v16_avx512 v) { _mm512_storeu_ps(p, v); }
INFER__ON_avx512 INFER__INLINE infer__v16_avx512 infer__splat_avx512(float f) { return _mm512_set1_ps(f); }
INFER__ON_avx512 INFER__INLINE infer__v16_avx512 infer__zero_avx512(void) { return _mm512_setzero_ps(); }
INFER__ON_avx512 INFER__INLINE infer__v16_avx512 infer__fma_avx512(infer__v16_avx512 w, infer__v16_avx512 x,
                                                                   infer__v16_avx512 s) {
    return _mm512_fmadd_ps(w, x, s);
}
INFER__ON_avx512 INFER__INLINE float infer__sum_avx512(infer__v16_avx512 v) {
    return infer__sum_8_avx2(_mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1)));
}
#  endif
#endif

#if defined(INFER__SIMD_ARM)
typedef struct infer__v16_neon { float32x4_t a, b, c, d; } infer__v16_neon;
INFER__INLINE infer__v16_neon infer__load_neon(const float *p) {
    infer__v16_neon v;
    v.a = vld1q_f32(p);
    v.b = vld1q_f32(p + 4);
    v.c = vld1q_f32(p + 8);
    v.d = vld1q_f32(p + 12);
    return v;
}
INFER__INLINE void infer__store_neon(float *p, infer__v16_neon v) {
    vst1q_f32(p, v.a);
    vst1q_f32(p + 4, v.b);
    vst1q_f32(p + 8, v.c);
    vst1q_f32(p + 12, v.d);
}
INFER__INLINE infer__v16_neon infer__splat_neon(float f) {
    infer__v16_neon v;
    v.a = v.b = v.c = v.d = vdupq_n_f32(f);
    return v;
}
INFER__INLINE infer__v16_neon infer__zero_neon(void) { return infer__splat_neon(0.0f); }
INFER__INLINE infer__v16_neon infer__fma_neon(infer__v16_neon w, infer__v16_neon x, infer__v16_neon s) {
    s.a = vfmaq_f32(s.a, w.a, x.a);
    s.b = vfmaq_f32(s.b, w.b, x.b);
    s.c = vfmaq_f32(s.c, w.c, x.c);
    s.d = vfmaq_f32(s.d, w.d, x.d);
    return s;
}
INFER__INLINE float infer__sum_neon(infer__v16_neon v) {
    float32x4_t s = vaddq_f32(vaddq_f32(v.a, v.c), vaddq_f32(v.b, v.d));
    float32x2_t t = vadd_f32(vget_low_f32(s), vget_high_f32(s));
    return vget_lane_f32(t, 0) + vget_lane_f32(t, 1);
}
#endif

INFER__SMALL_BEGIN
/* ---- plain bodies -------------------------------------------------------------------------------- */

/* The lanes of a sum, added in halves. */
INFER__INLINE float infer__sum_lanes(float *a) {
    INFER__KEEP_ORDER
    int l, half;
    for (half = INFER__LANES / 2; half > 0; half /= 2)
        for (l = 0; l < half; l++) a[l] += a[l + half];
    return a[0];
}

INFER__INLINE void infer__scale_body(float *y, float a, int64_t n) {
    int64_t i;
    int l;
    for (i = 0; i + INFER__LANES <= n; i += INFER__LANES)
        for (l = 0; l < INFER__LANES; l++) y[i + l] *= a;
    for (; i < n; i++) y[i] *= a;
}

/* ---- activations, norms, rotation ------------------------------------------------------------------------- */

/* t = act(x) for INFER__LANES values. t is the caller's array, so that the compiler knows it does not alias x. */
INFER__INLINE void infer__act_block(float *INFER__RESTRICT t, const float *x, int32_t kind) {
    int l;
    switch (INFER__HAS_ACTS ? kind : INFER__ACT_SILU) {
    case INFER__ACT_SILU:
        for (l = 0; l < INFER__LANES; l++) t[l] = x[l] * infer__sigmoid(x[l]);
        break;
    case INFER__ACT_GELU_TANH:
        for (l = 0; l < INFER__LANES; l++) t[l] = infer__gelu_tanh(x[l]);
        break;
    case INFER__ACT_GELU_ERF:
        for (l = 0; l < INFER__LANES; l++) t[l] = x[l] * infer__normal_below(x[l]);
        break;
    case INFER__ACT_RELU:
        for (l = 0; l < INFER__LANES; l++) t[l] = infer__relu(x[l]);
        break;
    case INFER__ACT_SIGMOID: /* which alone would turn a NaN into a number */
        for (l = 0; l < INFER__LANES; l++) t[l] = infer__choose(infer__not_number(x[l]), x[l], infer__sigmoid(x[l]));
        break;
    case INFER__ACT_TANH:
        for (l = 0; l < INFER__LANES; l++) t[l] = infer__tanh_f32(x[l]);
        break;
    case INFER__ACT_GELU_SIGMOID:
        for (l = 0; l < INFER__LANES; l++) t[l] = x[l] * infer__sigmoid(1.702f * x[l]);
        break;
    case INFER__ACT_SOFTPLUS:
        for (l = 0; l < INFER__LANES; l++) t[l] = infer__softplus(x[l]);
        break;
    default:
        for (l = 0; l < INFER__LANES; l++) t[l] = infer__relu(x[l]) * infer__relu(x[l]);
    }
}

/* y = act(x) * up; up may be NULL, y may be x or up. */
INFER__INLINE void infer__act_body(float *y, const float *x, const float *up, int32_t kind, int64_t n) {
    float t[INFER__LANES], part[INFER__LANES] = {0};
    int64_t i;
    int l;
    for (i = 0; i + INFER__LANES <= n; i += INFER__LANES) {
        infer__act_block(t, x + i, kind);
        for (l = 0; up && l < INFER__LANES; l++) t[l] *= up[i + l];
        memcpy(y + i, t, sizeof t);
    }
    if (i == n) return;
    memcpy(part, x + i, (size_t)(n - i) * sizeof *x);
    infer__act_block(t, part, kind);
    for (l = 0; up && i + l < n; l++) t[l] *= up[i + l];
    memcpy(y + i, t, (size_t)(n - i) * sizeof *t);
}

/* x = cap * tanh(x * scale / cap). The tail uses the same code, so that a value's bits do not depend on its
 * position. */
INFER__INLINE void infer__softcap_body(float *x, float scale, float cap, int64_t n) {
    float part[INFER__LANES] = {0}, *p;
    int64_t i;
    int l;
    scale /= cap;
    for (i = 0; i < n; i += INFER__LANES) {
        p = n - i < INFER__LANES ? part : x + i;
        if (p == part) memcpy(part, x + i, (size_t)(n - i) * sizeof *x);
        for (l = 0; l < INFER__LANES; l++) p[l] = cap * infer__tanh_f32(p[l] * scale);
        if (p == part) memcpy(x + i, part, (size_t)(n - i) * sizeof *x);
    }
}

/* y = (x - mean) * inv (* w) (+ b); w, b may be NULL, y may be x. */
INFER__INLINE void infer__norm_body(float *y, const float *x, float mean, float inv, const float *w, const float *b,
                                    int64_t n) {
    float t[INFER__LANES];
    int64_t i;
    int l;
    for (i = 0; i + INFER__LANES <= n; i += INFER__LANES) {
        for (l = 0; l < INFER__LANES; l++) t[l] = (x[i + l] - mean) * inv;
        for (l = 0; w && l < INFER__LANES; l++) t[l] *= w[i + l];
        for (l = 0; b && l < INFER__LANES; l++) t[l] += b[i + l];
        memcpy(y + i, t, sizeof t);
    }
    for (; i < n; i++) y[i] = (x[i] - mean) * inv * (w ? w[i] : 1.0f) + (b ? b[i] : 0.0f);
}

/* Rotate the pairs (x[2i], x[2i + 1]), or (x[i], x[i + half]) when `halves`, i < half. */
INFER__INLINE void infer__rotate_body(float *x, const float *cosine, const float *sine, int32_t half, int halves) {
    float u[INFER__LANES], v[INFER__LANES], a[INFER__LANES], b[INFER__LANES];
    int32_t step = halves ? 1 : 2, other = halves ? half : 1, i;
    int l;
    for (i = 0; i + INFER__LANES <= half; i += INFER__LANES, x += step * INFER__LANES) {
        for (l = 0; halves && l < INFER__LANES; l++) u[l] = x[l];
        for (l = 0; halves && l < INFER__LANES; l++) v[l] = x[half + l];
        for (l = 0; !halves && l < INFER__LANES; l++) u[l] = x[2 * l], v[l] = x[2 * l + 1];
        for (l = 0; l < INFER__LANES; l++) a[l] = u[l] * cosine[i + l] - v[l] * sine[i + l];
        for (l = 0; l < INFER__LANES; l++) b[l] = u[l] * sine[i + l] + v[l] * cosine[i + l];
        for (l = 0; halves && l < INFER__LANES; l++) x[l] = a[l];
        for (l = 0; halves && l < INFER__LANES; l++) x[half + l] = b[l];
        for (l = 0; !halves && l < INFER__LANES; l++) x[2 * l] = a[l], x[2 * l + 1] = b[l];
    }
    for (; i < half; i++, x += step) {
        float p = x[0], q = x[other];
        x[0] = p * cosine[i] - q * sine[i];
        x[other] = p * sine[i] + q * cosine[i];
    }
}

/* 1 when no value is infinite or NaN: the largest exponent, in blocks that end as soon as one is found. */
INFER__INLINE int infer__finite_body(const float *x, int64_t n) {
    int64_t i;
    int l;
    for (i = 0; i + 8 * INFER__LANES <= n; i += 8 * INFER__LANES) {
        uint32_t top = 0;
        for (l = 0; l < 8 * INFER__LANES; l++) top = INFER__MAX(top, infer__f32_bits(x[i + l]) & 0x7f800000u);
        if (top == 0x7f800000u) return 0;
    }
    for (; i < n; i++)
        if (!infer__finite(x[i])) return 0;
    return 1;
}

/* ---- dot products and sums, for one instruction set ------------------------------------------------ */

/* infer__sum_body_L: sum of x. infer__sum_sq_diff_body_L: of (x - mean)^2. infer__dot1_L: one dot. infer__dot4_L: the
 * dots of four rows of `a`, `sa` apart, with b, to y[0], y[sy], ...: loads of b are shared, and four chains of
 * additions run side by side. infer__axpy_body_L: y += c * x. The elements past
 * a multiple of 16 are copied beside zeros, which add nothing. */
#define INFER__DEFINE_DOTS(L)                                                                                          \
    INFER__ON_##L INFER__INLINE infer__v16_##L infer__load_part_##L(const float *p, int64_t n) {                       \
        float t[INFER__LANES] = {0};                                                                                   \
        memcpy(t, p, (size_t)n * sizeof *t);                                                                           \
        return infer__load_##L(t);                                                                                     \
    }                                                                                                                  \
    INFER__ON_##L INFER__INLINE float infer__sum_body_##L(const float *x, int64_t n) {                                 \
        infer__v16_##L s = infer__zero_##L(), one = infer__splat_##L(1.0f);                                            \
        int64_t i;                                                                                                     \
        for (i = 0; i + INFER__LANES <= n; i += INFER__LANES) s = infer__fma_##L(infer__load_##L(x + i), one, s);      \
        if (i < n) s = infer__fma_##L(infer__load_part_##L(x + i, n - i), one, s);                                     \
        return infer__sum_##L(s);                                                                                      \
    }                                                                                                                  \
    INFER__ON_##L INFER__INLINE float infer__sum_sq_diff_body_##L(const float *x, float mean, int64_t n) {             \
        infer__v16_##L s = infer__zero_##L(), one = infer__splat_##L(1.0f), less = infer__splat_##L(-mean), d;         \
        int64_t i, l;                                                                                                  \
        for (i = 0; i + INFER__LANES <= n; i += INFER__LANES) {                                                        \
            d = infer__fma_##L(infer__load_##L(x + i), one, less);                                                     \
            s = infer__fma_##L(d, d, s);                                                                               \
        }                                                                                                              \
        if (i < n) {                                                                                                   \
            float t[INFER__LANES] = {0};                                                                               \
            for (l = 0; i + l < n; l++) t[l] = x[i + l] - mean;                                                        \
            d = infer__load_##L(t);                                                                                    \
            s = infer__fma_##L(d, d, s);                                                                               \
        }                                                                                                              \
        return infer__sum_##L(s);                                                                                      \
    }                                                                                                                  \
    INFER__ON_##L INFER__INLINE float infer__dot1_##L(const float *a, const float *b, int64_t k) {                     \
        infer__v16_##L s = infer__zero_##L();                                                                          \
        int64_t i;                                                                                                     \
        for (i = 0; i + INFER__LANES <= k; i += INFER__LANES)                                                          \
            s = infer__fma_##L(infer__load_##L(a + i), infer__load_##L(b + i), s);                                     \
        if (i < k) s = infer__fma_##L(infer__load_part_##L(a + i, k - i), infer__load_part_##L(b + i, k - i), s);      \
        return infer__sum_##L(s);                                                                                      \
    }                                                                                                                  \
    INFER__ON_##L INFER__INLINE void infer__dot4_##L(const float *a, int64_t sa, const float *b, int64_t k, float *y,  \
                                                     int64_t sy) {                                                     \
        infer__v16_##L s0 = infer__zero_##L(), s1 = s0, s2 = s0, s3 = s0, v;                                           \
        int64_t i;                                                                                                     \
        for (i = 0; i + INFER__LANES <= k; i += INFER__LANES) {                                                        \
            v = infer__load_##L(b + i);                                                                                \
            s0 = infer__fma_##L(infer__load_##L(a + i), v, s0);                                                        \
            s1 = infer__fma_##L(infer__load_##L(a + sa + i), v, s1);                                                   \
            s2 = infer__fma_##L(infer__load_##L(a + 2 * sa + i), v, s2);                                               \
            s3 = infer__fma_##L(infer__load_##L(a + 3 * sa + i), v, s3);                                               \
        }                                                                                                              \
        if (i < k) {                                                                                                   \
            v = infer__load_part_##L(b + i, k - i);                                                                    \
            s0 = infer__fma_##L(infer__load_part_##L(a + i, k - i), v, s0);                                            \
            s1 = infer__fma_##L(infer__load_part_##L(a + sa + i, k - i), v, s1);                                       \
            s2 = infer__fma_##L(infer__load_part_##L(a + 2 * sa + i, k - i), v, s2);                                   \
            s3 = infer__fma_##L(infer__load_part_##L(a + 3 * sa + i, k - i), v, s3);                                   \
        }                                                                                                              \
        y[0] = infer__sum_##L(s0);                                                                                     \
        y[sy] = infer__sum_##L(s1);                                                                                    \
        y[2 * sy] = infer__sum_##L(s2);                                                                                \
        y[3 * sy] = infer__sum_##L(s3);                                                                                \
    }                                                                                                                  \
    INFER__ON_##L INFER__INLINE void infer__axpy_body_##L(float *y, const float *x, float c, int64_t k) {              \
        const infer__v16_##L a = infer__splat_##L(c);                                                                  \
        int64_t i;                                                                                                     \
        for (i = 0; i + INFER__LANES <= k; i += INFER__LANES)                                                          \
            infer__store_##L(y + i, infer__fma_##L(infer__load_##L(x + i), a, infer__load_##L(y + i)));                \
        if (i < k) {                                                                                                   \
            float t[INFER__LANES];                                                                                     \
            infer__store_##L(t, infer__fma_##L(infer__load_part_##L(x + i, k - i), a,                                  \
                                               infer__load_part_##L(y + i, k - i)));                                   \
            memcpy(y + i, t, (size_t)(k - i) * sizeof *t);                                                             \
        }                                                                                                              \
    }

INFER__DEFINE_DOTS(scalar)
#if defined(INFER__SIMD_AVX2)
INFER__DEFINE_DOTS(avx2)
#  if defined(INFER__SIMD_AVX512)
INFER__DEFINE_DOTS(avx512)
#  endif
#endif
#if defined(INFER__SIMD_ARM)
INFER__DEFINE_DOTS(neon)
#endif
#undef INFER__DEFINE_DOTS

INFER__SMALL_END

#if defined(INFER__SIMD_WASM)
/* infer__f16_f32 of four words of 32 bits; times 2^112, since WebAssembly flushes no subnormals. */
INFER__INLINE v128_t infer__four_halves_simd128(v128_t h) {
    v128_t m = wasm_i32x4_shl(wasm_v128_and(h, wasm_i32x4_splat(0x7fff)), 13), v, infinite;
    v = wasm_f32x4_mul(m, wasm_i32x4_splat(0x77800000));
    infinite = wasm_v128_and(wasm_i32x4_ge(m, wasm_i32x4_splat(0x0f800000)), wasm_i32x4_splat(0x7f800000));
    return wasm_v128_or(wasm_v128_or(v, infinite), wasm_i32x4_shl(wasm_v128_and(h, wasm_i32x4_splat(0x8000)), 16));
}
#endif
#endif
