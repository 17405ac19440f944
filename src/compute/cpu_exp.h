/* cpu_exp.h: exp and tanh of 16 floats, for every instruction set.
 *
 * Owns:  infer__exp_L and infer__tanh_L (L = scalar, avx2, avx512, neon), and the arithmetic that they take beyond the
 *        infer__v16_* of cpu_ops.h: vadd, vsub, vmul, vdiv, vmax, vmin, vpick.
 * How:   exp(x) = 2^n * exp(r), n = x / ln 2 rounded, r = x - n ln 2 (ln 2 in two parts, so that r is exact), exp(r) by
 *        the polynomial of Cephes' expf (Moshier, public domain). Relative errors measured: exp 8.3e-8, tanh 2.8e-7.
 * Rules: exp(0) is 1 and x below -87.3 gives 0, both exactly; x above 88 gives exp(88); NaN stays NaN. The levels
 *        compute the same operations and differ by fused multiply-add only.
 * Start: INFER__DEFINE_EXP at the end.
 */
#ifndef INFER__CPU_EXP_H
#define INFER__CPU_EXP_H

#include "cpu_ops.h"

#define INFER__EXP_LOW (-87.3f) /* exp of less is no normal float */
#define INFER__EXP_HIGH 88.0f

/* Each set has: vadd, vsub, vmul, vdiv, vmax, vmin (of a number and a NaN as second argument: NaN), vpick (a < b ? x :
 * y), vround (to the nearest integer), vexp2 (x * 2^n, n an integer -126..127), vtop (the largest lane). */

typedef struct infer__f16_lanes { float v[INFER__LANES]; } infer__f16_lanes; /* as memory */

INFER__INLINE infer__f16_lanes infer__lanes_scalar(infer__v16_scalar a) {
    infer__f16_lanes t;
    infer__store_scalar(t.v, a);
    return t;
}
#define INFER__EACH_SCALAR(name, expr)                                                                                 \
    INFER__INLINE infer__v16_scalar infer__v##name##_scalar(infer__v16_scalar a, infer__v16_scalar b) {                \
        infer__f16_lanes s = infer__lanes_scalar(a), t = infer__lanes_scalar(b);                                       \
        int l;                                                                                                         \
        for (l = 0; l < INFER__LANES; l++) s.v[l] = (expr);                                                            \
        return infer__load_scalar(s.v);                                                                                \
    }
INFER__EACH_SCALAR(add, s.v[l] + t.v[l])
INFER__EACH_SCALAR(sub, s.v[l] - t.v[l])
INFER__EACH_SCALAR(mul, s.v[l] * t.v[l])
INFER__EACH_SCALAR(div, s.v[l] / t.v[l])
INFER__EACH_SCALAR(max, s.v[l] > t.v[l] ? s.v[l] : t.v[l])
INFER__EACH_SCALAR(min, s.v[l] < t.v[l] ? s.v[l] : t.v[l])
#undef INFER__EACH_SCALAR
INFER__INLINE infer__v16_scalar infer__vpick_scalar(infer__v16_scalar a, infer__v16_scalar b, infer__v16_scalar x,
                                                   infer__v16_scalar y) {
    infer__f16_lanes s = infer__lanes_scalar(a), t = infer__lanes_scalar(b), u = infer__lanes_scalar(x),
                     v = infer__lanes_scalar(y);
    int l;
    for (l = 0; l < INFER__LANES; l++) u.v[l] = s.v[l] < t.v[l] ? u.v[l] : v.v[l];
    return infer__load_scalar(u.v);
}
/* By way of integers: -ffast-math would undo an addition and subtraction of 1.5 * 2^23. NaN: any integer will do. */
INFER__INLINE int32_t infer__nearest(float x) {
    return x > -200.0f && x < 200.0f ? (int32_t)(x < 0.0f ? x - 0.5f : x + 0.5f) : 0;
}
INFER__INLINE infer__v16_scalar infer__vround_scalar(infer__v16_scalar a) {
    infer__f16_lanes s = infer__lanes_scalar(a);
    int l;
    for (l = 0; l < INFER__LANES; l++) s.v[l] = (float)infer__nearest(s.v[l]);
    return infer__load_scalar(s.v);
}
INFER__INLINE infer__v16_scalar infer__vexp2_scalar(infer__v16_scalar x, infer__v16_scalar n) {
    infer__f16_lanes s = infer__lanes_scalar(x), t = infer__lanes_scalar(n);
    int l;
    for (l = 0; l < INFER__LANES; l++) s.v[l] *= infer__bits_f32((uint32_t)(infer__nearest(t.v[l]) + 127) << 23);
    return infer__load_scalar(s.v);
}
INFER__INLINE float infer__vtop_scalar(infer__v16_scalar a) {
    infer__f16_lanes s = infer__lanes_scalar(a);
    float top = s.v[0];
    int l;
    for (l = 1; l < INFER__LANES; l++)
        if (s.v[l] > top) top = s.v[l];
    return top;
}

#if defined(INFER__SIMD_X86)
#define INFER__EACH_AVX2(name, f)                                                                                      \
    INFER__ON_avx2 INFER__INLINE infer__v16_avx2 infer__v##name##_avx2(infer__v16_avx2 a, infer__v16_avx2 b) {         \
        a.a = f(a.a, b.a);                                                                                             \
        a.b = f(a.b, b.b);                                                                                             \
        return a;                                                                                                      \
    }
INFER__EACH_AVX2(add, _mm256_add_ps)
INFER__EACH_AVX2(sub, _mm256_sub_ps)
INFER__EACH_AVX2(mul, _mm256_mul_ps)
INFER__EACH_AVX2(div, _mm256_div_ps)
INFER__EACH_AVX2(max, _mm256_max_ps)
INFER__EACH_AVX2(min, _mm256_min_ps)
#undef INFER__EACH_AVX2
INFER__ON_avx2 INFER__INLINE infer__v16_avx2 infer__vpick_avx2(infer__v16_avx2 a, infer__v16_avx2 b, infer__v16_avx2 x,
                                                              infer__v16_avx2 y) {
    x.a = _mm256_blendv_ps(y.a, x.a, _mm256_cmp_ps(a.a, b.a, _CMP_LT_OQ));
    x.b = _mm256_blendv_ps(y.b, x.b, _mm256_cmp_ps(a.b, b.b, _CMP_LT_OQ));
    return x;
}
INFER__ON_avx2 INFER__INLINE infer__v16_avx2 infer__vround_avx2(infer__v16_avx2 a) {
    a.a = _mm256_round_ps(a.a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    a.b = _mm256_round_ps(a.b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    return a;
}
INFER__ON_avx2 INFER__INLINE __m256 infer__pow2_8_avx2(__m256 a) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(a), _mm256_set1_epi32(127)), 23));
}
INFER__ON_avx2 INFER__INLINE infer__v16_avx2 infer__vexp2_avx2(infer__v16_avx2 x, infer__v16_avx2 n) {
    x.a = _mm256_mul_ps(x.a, infer__pow2_8_avx2(n.a));
    x.b = _mm256_mul_ps(x.b, infer__pow2_8_avx2(n.b));
    return x;
}
INFER__ON_avx2 INFER__INLINE float infer__top_8_avx2(__m256 v) {
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_shuffle_ps(s, s, 1)));
}
INFER__ON_avx2 INFER__INLINE float infer__vtop_avx2(infer__v16_avx2 v) {
    return infer__top_8_avx2(_mm256_max_ps(v.a, v.b));
}
#  if !defined(INFER_NO_AVX512)
#define INFER__EACH_AVX512(name, f)                                                                                    \
    INFER__ON_avx512 INFER__INLINE __m512 infer__v##name##_avx512(__m512 a, __m512 b) { return f(a, b); }
INFER__EACH_AVX512(add, _mm512_add_ps)
INFER__EACH_AVX512(sub, _mm512_sub_ps)
INFER__EACH_AVX512(mul, _mm512_mul_ps)
INFER__EACH_AVX512(div, _mm512_div_ps)
INFER__EACH_AVX512(max, _mm512_max_ps)
INFER__EACH_AVX512(min, _mm512_min_ps)
#undef INFER__EACH_AVX512
INFER__ON_avx512 INFER__INLINE __m512 infer__vpick_avx512(__m512 a, __m512 b, __m512 x, __m512 y) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), y, x);
}
INFER__ON_avx512 INFER__INLINE __m512 infer__vround_avx512(__m512 a) {
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
INFER__ON_avx512 INFER__INLINE __m512 infer__vexp2_avx512(__m512 x, __m512 n) { return _mm512_scalef_ps(x, n); }
INFER__ON_avx512 INFER__INLINE float infer__vtop_avx512(__m512 v) {
    return infer__top_8_avx2(_mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1)));
}
#  endif
#endif

#if defined(INFER__SIMD_ARM)
#define INFER__EACH_NEON(name, f)                                                                                      \
    INFER__INLINE infer__v16_neon infer__v##name##_neon(infer__v16_neon a, infer__v16_neon b) {                        \
        a.a = f(a.a, b.a);                                                                                             \
        a.b = f(a.b, b.b);                                                                                             \
        a.c = f(a.c, b.c);                                                                                             \
        a.d = f(a.d, b.d);                                                                                             \
        return a;                                                                                                      \
    }
INFER__EACH_NEON(add, vaddq_f32)
INFER__EACH_NEON(sub, vsubq_f32)
INFER__EACH_NEON(mul, vmulq_f32)
INFER__EACH_NEON(div, vdivq_f32)
INFER__EACH_NEON(max, vmaxq_f32)
INFER__EACH_NEON(min, vminq_f32)
#undef INFER__EACH_NEON
INFER__INLINE infer__v16_neon infer__vpick_neon(infer__v16_neon a, infer__v16_neon b, infer__v16_neon x,
                                               infer__v16_neon y) {
    x.a = vbslq_f32(vcltq_f32(a.a, b.a), x.a, y.a);
    x.b = vbslq_f32(vcltq_f32(a.b, b.b), x.b, y.b);
    x.c = vbslq_f32(vcltq_f32(a.c, b.c), x.c, y.c);
    x.d = vbslq_f32(vcltq_f32(a.d, b.d), x.d, y.d);
    return x;
}
INFER__INLINE infer__v16_neon infer__vround_neon(infer__v16_neon a) {
    a.a = vrndnq_f32(a.a);
    a.b = vrndnq_f32(a.b);
    a.c = vrndnq_f32(a.c);
    a.d = vrndnq_f32(a.d);
    return a;
}
INFER__INLINE float32x4_t infer__pow2_4_neon(float32x4_t a) {
    return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(vcvtnq_s32_f32(a), vdupq_n_s32(127)), 23));
}
INFER__INLINE infer__v16_neon infer__vexp2_neon(infer__v16_neon x, infer__v16_neon n) {
    x.a = vmulq_f32(x.a, infer__pow2_4_neon(n.a));
    x.b = vmulq_f32(x.b, infer__pow2_4_neon(n.b));
    x.c = vmulq_f32(x.c, infer__pow2_4_neon(n.c));
    x.d = vmulq_f32(x.d, infer__pow2_4_neon(n.d));
    return x;
}
INFER__INLINE float infer__vtop_neon(infer__v16_neon v) {
    return vmaxvq_f32(vmaxq_f32(vmaxq_f32(v.a, v.b), vmaxq_f32(v.c, v.d)));
}
#endif

/* tanh(x): below |x| = 0.625 Cephes' polynomial, x + x^3 P(x^2); above 1 - 2 / (exp(2x) + 1), which would lose the low
 * digits of small x. */
#define INFER__DEFINE_EXP(L)                                                                                           \
    INFER__ON_##L INFER__INLINE infer__v16_##L infer__exp_##L(infer__v16_##L x) {                                      \
        const infer__v16_##L low = infer__splat_##L(INFER__EXP_LOW);                                                   \
        const infer__v16_##L high = infer__splat_##L(INFER__EXP_HIGH);                                                 \
        infer__v16_##L y = infer__vmin_##L(high, infer__vmax_##L(low, x)), n, r, p;                                    \
        n = infer__vround_##L(infer__vmul_##L(y, infer__splat_##L(1.44269504088896341f)));                             \
        r = infer__fma_##L(n, infer__splat_##L(-0.693359375f), y);                                                     \
        r = infer__fma_##L(n, infer__splat_##L(2.12194440e-4f), r);                                                    \
        p = infer__splat_##L(1.9875691500e-4f);                                                                        \
        p = infer__fma_##L(p, r, infer__splat_##L(1.3981999507e-3f));                                                  \
        p = infer__fma_##L(p, r, infer__splat_##L(8.3334519073e-3f));                                                  \
        p = infer__fma_##L(p, r, infer__splat_##L(4.1665795894e-2f));                                                  \
        p = infer__fma_##L(p, r, infer__splat_##L(1.6666665459e-1f));                                                  \
        p = infer__fma_##L(p, r, infer__splat_##L(5.0000001201e-1f));                                                  \
        p = infer__vadd_##L(infer__fma_##L(p, infer__vmul_##L(r, r), r), infer__splat_##L(1.0f));                      \
        return infer__vpick_##L(x, low, infer__zero_##L(), infer__vexp2_##L(p, n));                                    \
    }                                                                                                                  \
    INFER__ON_##L INFER__INLINE infer__v16_##L infer__tanh_##L(infer__v16_##L x) {                                     \
        const infer__v16_##L one = infer__splat_##L(1.0f), z = infer__vmul_##L(x, x);                                  \
        infer__v16_##L p = infer__splat_##L(-5.70498872745e-3f), e;                                                    \
        p = infer__fma_##L(p, z, infer__splat_##L(2.06390887954e-2f));                                                 \
        p = infer__fma_##L(p, z, infer__splat_##L(-5.37397155531e-2f));                                                \
        p = infer__fma_##L(p, z, infer__splat_##L(1.33314422036e-1f));                                                 \
        p = infer__fma_##L(p, z, infer__splat_##L(-3.33332819422e-1f));                                                \
        p = infer__fma_##L(infer__vmul_##L(p, z), x, x);                                                               \
        e = infer__exp_##L(infer__vadd_##L(x, x));                                                                     \
        e = infer__vsub_##L(one, infer__vdiv_##L(infer__splat_##L(2.0f), infer__vadd_##L(e, one)));                    \
        return infer__vpick_##L(z, infer__splat_##L(0.390625f), p, e);                                                 \
    }

INFER__DEFINE_EXP(scalar)
#if defined(INFER__SIMD_X86)
INFER__DEFINE_EXP(avx2)
#  if !defined(INFER_NO_AVX512)
INFER__DEFINE_EXP(avx512)
#  endif
#endif
#if defined(INFER__SIMD_ARM)
INFER__DEFINE_EXP(neon)
#endif
#undef INFER__DEFINE_EXP

#endif
