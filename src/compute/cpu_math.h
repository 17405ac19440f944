/* cpu_math.h: exp, tanh, the normal distribution and the activations made of them, for one float.
 *
 * Owns:  the arithmetic of these functions on the CPU, the same at every level.
 * Rules: no branches, no comparisons of floats, no conversions from float to integer: then a loop over INFER__LANES
 *        values becomes packed code at -O2 (a C library's expf does not: 0.2 G values/s against 4 with AVX-512), the
 *        levels differ by fused multiply-add only, and -ffast-math has nothing to assume away.
 *        exp is taken of -|x| only: it cannot overflow, and what it is used in is symmetric.
 * Start: infer__exp_minus.
 */
#ifndef INFER__CPU_MATH_H
#define INFER__CPU_MATH_H

#include "../base/base.h"

/* a where mask is all ones, b where it is 0. */
INFER__INLINE float infer__choose(uint32_t mask, float a, float b) {
    return infer__bits_f32((infer__f32_bits(a) & mask) | (infer__f32_bits(b) & ~mask));
}
INFER__INLINE uint32_t infer__negative(float x) { return 0u - (infer__f32_bits(x) >> 31); }
/* |x|, at most `most`. */
INFER__INLINE float infer__abs_most(float x, float most) {
    uint32_t a = infer__f32_bits(x) & 0x7fffffffu, b = infer__f32_bits(most);
    return infer__bits_f32((int32_t)a < (int32_t)b ? a : b); /* positive floats are ordered like their bits */
}

/* exp(-|x|) within 1.5 ulp; 0 from |x| = 87.7 on. exp(-a) = 2^n exp(r): n = -a / ln 2 rounded by adding 1.5 * 2^23,
 * whose last bits then hold n; r = -a - n ln 2 in two steps, |r| <= ln 2 / 2; the polynomial is Cephes' expf. */
INFER__INLINE float infer__exp_minus(float x) {
    float a = infer__abs_most(x, 88.0f), t = 12582912.0f - a * 1.44269504f, n, r, p;
    uint32_t bits = infer__f32_bits(t) - 0x4b400000u; /* n, -127 .. 0 */
    n = (float)(int32_t)bits;
    r = a + n * 0.693359375f;
    r = infer__bits_f32(infer__f32_bits(r) ^ 0x80000000u) +
        n * 2.12194440e-4f; /* -r, so that -ffast-math sees no sum */
    p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    return p * infer__bits_f32((bits + 127u) << 23); /* n = -127: times 0 */
}

/* 1 / (1 + exp(-x)) */
INFER__INLINE float infer__sigmoid(float x) {
    float e = infer__exp_minus(x);
    return infer__choose(infer__negative(x), e, 1.0f) / (1.0f + e);
}

/* Beyond 0.625 from exp(-2|x|); below, where that would cancel, x + x^3 P(x^2) (Cephes' tanhf): within 1.5e-7 of the
 * value. NaN stays NaN. */
INFER__INLINE float infer__tanh(float x) {
    float a = infer__abs_most(x, 20.0f), e = infer__exp_minus(2.0f * a), z = x * x, p, large;
    uint32_t is_small = 0u - (uint32_t)(infer__f32_bits(a) < 0x3f200000u);
    uint32_t is_nan = 0u - (uint32_t)((infer__f32_bits(x) & 0x7fffffffu) > 0x7f800000u);
    large = infer__bits_f32(infer__f32_bits((1.0f - e) / (1.0f + e)) | (infer__f32_bits(x) & 0x80000000u));
    p = -5.70498872745e-3f;
    p = p * z + 2.06390887954e-2f;
    p = p * z - 5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z - 3.33332819422e-1f;
    return infer__choose(is_small, x + x * z * p, infer__choose(is_nan, x, large));
}

/* The share of a standard normal distribution below x, (1 + erf(x / sqrt 2)) / 2, within 4e-7 of its value for x < 0.
 * Below -a it is exp(-a^2 / 2) g(t) with t = 1 / (1 + 0.3 a); g is a polynomial fitted for a = 0 .. 13.4. */
INFER__INLINE float infer__normal_below(float x) {
    float a = infer__abs_most(x, 13.5f), t = 1.0f / (1.0f + 0.3f * a), g;
    g = 0.0383233167f;
    g = g * t - 0.168898627f;
    g = g * t + 0.228106871f;
    g = g * t - 0.0758729503f;
    g = g * t + 0.142097324f;
    g = g * t + 0.0948704854f;
    g = g * t + 0.121872418f;
    g = g * t + 0.119494423f;
    g = g * t + 6.77282105e-6f;
    g *= infer__exp_minus(0.5f * a * a);
    return infer__choose(infer__negative(x), g, 1.0f - g);
}

/* SiLU and the tanh form of GELU (0.5 (1 + tanh u) is sigmoid(2 u)): arXiv 1702.03118, 1606.08415; squared ReLU: arXiv
 * 2109.08668. NaN stays NaN. */
INFER__INLINE float infer__gelu_tanh(float x) {
    return x * infer__sigmoid(1.5957691216057308f * x * (1.0f + 0.044715f * x * x));
}
INFER__INLINE float infer__relu(float x) {
    uint32_t b = infer__f32_bits(x), is_nan = 0u - (uint32_t)((b & 0x7fffffffu) > 0x7f800000u);
    return infer__bits_f32(b & (~infer__negative(x) | is_nan));
}

#endif
