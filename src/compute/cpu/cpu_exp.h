/* cpu_exp.h: exp and tanh of 16 floats, for every instruction set.
 *
 * Owns:  infer__exp_minus_L and infer__tanh_L (L = scalar, avx2, avx512, neon), the operations that INFER__DEFINE_EXP
 *        of cpu_math.h needs of a set, and what softmax needs beyond the infer__v16_* of cpu_ops.h: vmax, vpick (a < b
 *        ? x : y), vtop (the largest lane).
 * Rules: exp(-0) is 1, |x| from 88 on gives 0, both exactly; NaN stays NaN. The levels compute the same operations and
 *        differ by fused multiply-add only. Relative errors measured: exp 8.3e-8, tanh 1.5e-7.
 * Start: INFER__DEFINE_EXP at the end.
 */
#ifndef INFER__CPU_EXP_H
#define INFER__CPU_EXP_H

#include "cpu_ops.h"

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
INFER__EACH_SCALAR(max, s.v[l] > t.v[l] ? s.v[l] : t.v[l])
#undef INFER__EACH_SCALAR
INFER__INLINE infer__v16_scalar infer__vpick_scalar(infer__v16_scalar a, infer__v16_scalar b, infer__v16_scalar x,
                                                   infer__v16_scalar y) {
    infer__f16_lanes s = infer__lanes_scalar(a), t = infer__lanes_scalar(b), u = infer__lanes_scalar(x),
                     v = infer__lanes_scalar(y);
    int l;
    for (l = 0; l < INFER__LANES; l++) u.v[l] = s.v[l] < t.v[l] ? u.v[l] : v.v[l];
    return infer__load_scalar(u.v);
}
/* exp and tanh: those of one float, which the compiler packs. */
INFER__INLINE infer__v16_scalar infer__exp_minus_scalar(infer__v16_scalar a) {
    infer__f16_lanes s = infer__lanes_scalar(a), e;
    int l;
    for (l = 0; l < INFER__LANES; l++)
        e.v[l] = infer__choose(infer__not_number(s.v[l]), s.v[l], infer__exp_minus_f32(s.v[l]));
    return infer__load_scalar(e.v);
}
INFER__INLINE infer__v16_scalar infer__tanh_scalar(infer__v16_scalar a) {
    infer__f16_lanes s = infer__lanes_scalar(a), t;
    int l;
    for (l = 0; l < INFER__LANES; l++) t.v[l] = infer__tanh_f32(s.v[l]);
    return infer__load_scalar(t.v);
}
INFER__INLINE float infer__vtop_scalar(infer__v16_scalar a) {
    infer__f16_lanes s = infer__lanes_scalar(a);
    float top = s.v[0];
    int l;
    for (l = 1; l < INFER__LANES; l++)
        if (s.v[l] > top) top = s.v[l];
    return top;
}

#if defined(INFER__SIMD_AVX2)
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
INFER__ON_avx2 INFER__INLINE __m256 infer__most_8_avx2(__m256 x, __m256 most) { /* a NaN is the second: it stays */
    return _mm256_min_ps(most, _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x));
}
INFER__ON_avx2 INFER__INLINE __m256 infer__raise_8_avx2(__m256 p, __m256 t) {
    return _mm256_mul_ps(p, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(t), 23)));
}
INFER__ON_avx2 INFER__INLINE __m256 infer__sign_8_avx2(__m256 a, __m256 x) {
    return _mm256_or_ps(a, _mm256_and_ps(_mm256_set1_ps(-0.0f), x));
}
INFER__EACH_AVX2(most, infer__most_8_avx2)
INFER__EACH_AVX2(raise, infer__raise_8_avx2)
INFER__EACH_AVX2(sign, infer__sign_8_avx2)
#undef INFER__EACH_AVX2
INFER__ON_avx2 INFER__INLINE infer__v16_avx2 infer__vwhole_avx2(infer__v16_avx2 t) {
    const __m256i magic = _mm256_set1_epi32((int)INFER__EXP_MAGIC_BITS);
    t.a = _mm256_cvtepi32_ps(_mm256_sub_epi32(_mm256_castps_si256(t.a), magic));
    t.b = _mm256_cvtepi32_ps(_mm256_sub_epi32(_mm256_castps_si256(t.b), magic));
    return t;
}
INFER__ON_avx2 INFER__INLINE infer__v16_avx2 infer__vflip_avx2(infer__v16_avx2 x) {
    x.a = _mm256_xor_ps(_mm256_set1_ps(-0.0f), x.a);
    x.b = _mm256_xor_ps(_mm256_set1_ps(-0.0f), x.b);
    return x;
}
INFER__ON_avx2 INFER__INLINE infer__v16_avx2 infer__vsmall_avx2(infer__v16_avx2 x, infer__v16_avx2 b, infer__v16_avx2 u,
                                                               infer__v16_avx2 v) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    v.a = _mm256_blendv_ps(v.a, u.a, _mm256_cmp_ps(_mm256_andnot_ps(sign, x.a), b.a, _CMP_LT_OQ));
    v.b = _mm256_blendv_ps(v.b, u.b, _mm256_cmp_ps(_mm256_andnot_ps(sign, x.b), b.b, _CMP_LT_OQ));
    return v;
}
INFER__ON_avx2 INFER__INLINE infer__v16_avx2 infer__vpick_avx2(infer__v16_avx2 a, infer__v16_avx2 b, infer__v16_avx2 x,
                                                              infer__v16_avx2 y) {
    x.a = _mm256_blendv_ps(y.a, x.a, _mm256_cmp_ps(a.a, b.a, _CMP_LT_OQ));
    x.b = _mm256_blendv_ps(y.b, x.b, _mm256_cmp_ps(a.b, b.b, _CMP_LT_OQ));
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
#  if defined(INFER__SIMD_AVX512)
#define INFER__EACH_AVX512(name, f)                                                                                    \
    INFER__ON_avx512 INFER__INLINE __m512 infer__v##name##_avx512(__m512 a, __m512 b) { return f(a, b); }
INFER__EACH_AVX512(add, _mm512_add_ps)
INFER__EACH_AVX512(sub, _mm512_sub_ps)
INFER__EACH_AVX512(mul, _mm512_mul_ps)
INFER__EACH_AVX512(div, _mm512_div_ps)
INFER__EACH_AVX512(max, _mm512_max_ps)
#undef INFER__EACH_AVX512
INFER__ON_avx512 INFER__INLINE __m512 infer__vpick_avx512(__m512 a, __m512 b, __m512 x, __m512 y) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), y, x);
}
INFER__ON_avx512 INFER__INLINE __m512 infer__vmost_avx512(__m512 x, __m512 most) {
    return _mm512_min_ps(most, _mm512_abs_ps(x)); /* a NaN is the second: it stays */
}
INFER__ON_avx512 INFER__INLINE __m512 infer__vwhole_avx512(__m512 t) {
    return _mm512_cvtepi32_ps(
        _mm512_sub_epi32(_mm512_castps_si512(t), _mm512_set1_epi32((int)INFER__EXP_MAGIC_BITS)));
}
INFER__ON_avx512 INFER__INLINE __m512 infer__vraise_avx512(__m512 p, __m512 t) {
    return _mm512_mul_ps(p, _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(t), 23)));
}
INFER__ON_avx512 INFER__INLINE __m512 infer__vflip_avx512(__m512 x) {
    return _mm512_xor_ps(_mm512_set1_ps(-0.0f), x);
}
INFER__ON_avx512 INFER__INLINE __m512 infer__vsign_avx512(__m512 a, __m512 x) {
    return _mm512_or_ps(a, _mm512_and_ps(_mm512_set1_ps(-0.0f), x));
}
INFER__ON_avx512 INFER__INLINE __m512 infer__vsmall_avx512(__m512 x, __m512 b, __m512 u, __m512 v) {
    return infer__vpick_avx512(_mm512_abs_ps(x), b, u, v);
}
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
INFER__INLINE float32x4_t infer__most_4_neon(float32x4_t x, float32x4_t most) { return vminq_f32(most, vabsq_f32(x)); }
INFER__INLINE float32x4_t infer__raise_4_neon(float32x4_t p, float32x4_t t) {
    return vmulq_f32(p, vreinterpretq_f32_u32(vshlq_n_u32(vreinterpretq_u32_f32(t), 23)));
}
INFER__INLINE float32x4_t infer__sign_4_neon(float32x4_t a, float32x4_t x) {
    return vbslq_f32(vdupq_n_u32(0x80000000u), x, a);
}
INFER__EACH_NEON(most, infer__most_4_neon)
INFER__EACH_NEON(raise, infer__raise_4_neon)
INFER__EACH_NEON(sign, infer__sign_4_neon)
#undef INFER__EACH_NEON
INFER__INLINE float32x4_t infer__whole_4_neon(float32x4_t t) {
    const uint32x4_t n = vsubq_u32(vreinterpretq_u32_f32(t), vdupq_n_u32(INFER__EXP_MAGIC_BITS));
    return vcvtq_f32_s32(vreinterpretq_s32_u32(n));
}
INFER__INLINE infer__v16_neon infer__vwhole_neon(infer__v16_neon t) {
    t.a = infer__whole_4_neon(t.a);
    t.b = infer__whole_4_neon(t.b);
    t.c = infer__whole_4_neon(t.c);
    t.d = infer__whole_4_neon(t.d);
    return t;
}
INFER__INLINE infer__v16_neon infer__vflip_neon(infer__v16_neon x) {
    x.a = vnegq_f32(x.a);
    x.b = vnegq_f32(x.b);
    x.c = vnegq_f32(x.c);
    x.d = vnegq_f32(x.d);
    return x;
}
INFER__INLINE infer__v16_neon infer__vsmall_neon(infer__v16_neon x, infer__v16_neon b, infer__v16_neon u,
                                                infer__v16_neon v) {
    v.a = vbslq_f32(vcaltq_f32(x.a, b.a), u.a, v.a);
    v.b = vbslq_f32(vcaltq_f32(x.b, b.b), u.b, v.b);
    v.c = vbslq_f32(vcaltq_f32(x.c, b.c), u.c, v.c);
    v.d = vbslq_f32(vcaltq_f32(x.d, b.d), u.d, v.d);
    return v;
}
INFER__INLINE infer__v16_neon infer__vpick_neon(infer__v16_neon a, infer__v16_neon b, infer__v16_neon x,
                                               infer__v16_neon y) {
    x.a = vbslq_f32(vcltq_f32(a.a, b.a), x.a, y.a);
    x.b = vbslq_f32(vcltq_f32(a.b, b.b), x.b, y.b);
    x.c = vbslq_f32(vcltq_f32(a.c, b.c), x.c, y.c);
    x.d = vbslq_f32(vcltq_f32(a.d, b.d), x.d, y.d);
    return x;
}
INFER__INLINE float infer__vtop_neon(infer__v16_neon v) {
    return vmaxvq_f32(vmaxq_f32(vmaxq_f32(v.a, v.b), vmaxq_f32(v.c, v.d)));
}
#endif

#if defined(INFER__SIMD_AVX2)
INFER__DEFINE_EXP(avx2, infer__v16_avx2, INFER__ON_avx2)
#  if defined(INFER__SIMD_AVX512)
INFER__DEFINE_EXP(avx512, infer__v16_avx512, INFER__ON_avx512)
#  endif
#endif
#if defined(INFER__SIMD_ARM)
INFER__DEFINE_EXP(neon, infer__v16_neon, INFER__ON_neon)
#endif
#undef INFER__DEFINE_EXP

#endif
