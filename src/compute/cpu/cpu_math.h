/* cpu_math.h: exp and tanh for any width of vector; the normal distribution and the activations, for one float.
 *
 * Owns:  the arithmetic of these functions on the CPU, the same at every level: INFER__DEFINE_EXP builds exp and tanh
 *        from a set's operations, here for one float (set f32), in cpu_exp.h for 16.
 * Rules: of one float: no branches, no comparisons of floats, no conversions from float to integer: then a loop over
 *        INFER__LANES values becomes packed code at -O2 (a C library's expf does not: 0.2 G values/s against 4 with
 *        AVX-512), the levels differ by fused multiply-add only, and -ffast-math has nothing to assume away.
 *        exp is computed for -|x| only: it cannot overflow, and its uses are symmetric or have arguments below 0.
 * Start: INFER__DEFINE_EXP.
 */
#ifndef INFER__CPU_MATH_H
#define INFER__CPU_MATH_H

#include "../../base/base.h"

/* a where mask is all ones, b where it is 0. */
INFER__INLINE float infer__choose(uint32_t mask, float a, float b) {
    return infer__bits_f32((infer__f32_bits(a) & mask) | (infer__f32_bits(b) & ~mask));
}
INFER__INLINE uint32_t infer__negative(float x) { return 0u - (infer__f32_bits(x) >> 31); }
INFER__INLINE uint32_t infer__not_number(float x) {
    return 0u - (uint32_t)((int32_t)(infer__f32_bits(x) & 0x7fffffffu) > 0x7f800000);
}

/* ---- exp, tanh --------------------------------------------------------------------------------------------------- */

#define INFER__EXP_MAGIC 12583039.0f /* 1.5 * 2^23 + 127: to it is added what is to be rounded */
#define INFER__EXP_MAGIC_BITS 0x4b40007fu

/* A set has splat, fma (w * x + s), vadd, vsub, vmul, vdiv, and
 *   vmost(x, most)      |x|, at most `most`
 *   vwhole(t)           t - INFER__EXP_MAGIC by way of integers: -ffast-math would undo the addition
 *   vraise(p, t)        p * 2^vwhole(t), for -127 (times 0) .. 0: what is shifted out of t's bits are the magic's
 *   vflip(x)            -x, so that -ffast-math sees no sum
 *   vsign(a, x)         a (not below 0) with the sign of x
 *   vsmall(x, b, u, v)  |x| < b ? u : v; x a NaN: either of them that is one. */
INFER__INLINE float infer__splat_f32(float x) { return x; }
INFER__INLINE float infer__fma_f32(float w, float x, float s) { return w * x + s; }
INFER__INLINE float infer__vadd_f32(float a, float b) { return a + b; }
INFER__INLINE float infer__vsub_f32(float a, float b) { return a - b; }
INFER__INLINE float infer__vmul_f32(float a, float b) { return a * b; }
INFER__INLINE float infer__vdiv_f32(float a, float b) { return a / b; }
INFER__INLINE float infer__vmost_f32(float x, float most) { /* a NaN too */
    uint32_t a = infer__f32_bits(x) & 0x7fffffffu, b = infer__f32_bits(most);
    return infer__bits_f32((int32_t)a < (int32_t)b ? a : b); /* positive floats are ordered like their bits */
}
INFER__INLINE float infer__vwhole_f32(float t) { return (float)(int32_t)(infer__f32_bits(t) - INFER__EXP_MAGIC_BITS); }
INFER__INLINE float infer__vraise_f32(float p, float t) { return p * infer__bits_f32(infer__f32_bits(t) << 23); }
INFER__INLINE float infer__vflip_f32(float x) { return infer__bits_f32(infer__f32_bits(x) ^ 0x80000000u); }
INFER__INLINE float infer__vsign_f32(float a, float x) {
    return infer__bits_f32(infer__f32_bits(a) | (infer__f32_bits(x) & 0x80000000u));
}
INFER__INLINE float infer__vsmall_f32(float x, float b, float u, float v) {
    int32_t a = (int32_t)(infer__f32_bits(x) & 0x7fffffffu);
    return infer__choose((0u - (uint32_t)(a < (int32_t)infer__f32_bits(b))) | infer__not_number(x), u, v);
}

/* infer__exp_minus_L(x): exp(-|x|) within 1.5 ulp; 0 from |x| = 88 on. It is 2^n exp(r): n = -|x| / ln 2 rounded, by
 * adding a number whose last bits then hold it; r = -|x| - n ln 2 in two steps, |r| <= ln 2 / 2; exp(r) by the
 * polynomial of Cephes' expf (Moshier, public domain).
 * infer__tanh_L(x): beyond 0.625 1 - 2 e / (1 + e), e = exp(-2|x|), exactly 1 in the end even when -ffast-math divides
 * by approximate reciprocals; below, where that would cancel, x + x^3 P(x^2) (Cephes' tanhf): within 1.5e-7 of the
 * value. NaN stays NaN. */
#define INFER__DEFINE_EXP(L, V, ON)                                                                                    \
    ON INFER__INLINE V infer__exp_minus_##L(V x) {                                                                     \
        const V a = infer__vmost_##L(x, infer__splat_##L(88.0f));                                                      \
        const V t = infer__fma_##L(a, infer__splat_##L(-1.44269504f), infer__splat_##L(INFER__EXP_MAGIC));             \
        const V n = infer__vwhole_##L(t);                                                                              \
        V r = infer__vflip_##L(infer__fma_##L(n, infer__splat_##L(0.693359375f), a)), p;                               \
        r = infer__fma_##L(n, infer__splat_##L(2.12194440e-4f), r);                                                    \
        p = infer__splat_##L(1.9875691500e-4f);                                                                        \
        p = infer__fma_##L(p, r, infer__splat_##L(1.3981999507e-3f));                                                  \
        p = infer__fma_##L(p, r, infer__splat_##L(8.3334519073e-3f));                                                  \
        p = infer__fma_##L(p, r, infer__splat_##L(4.1665795894e-2f));                                                  \
        p = infer__fma_##L(p, r, infer__splat_##L(1.6666665459e-1f));                                                  \
        p = infer__fma_##L(p, r, infer__splat_##L(5.0000001201e-1f));                                                  \
        p = infer__vadd_##L(infer__fma_##L(p, infer__vmul_##L(r, r), r), infer__splat_##L(1.0f));                      \
        return infer__vraise_##L(p, t);                                                                                \
    }                                                                                                                  \
    ON INFER__INLINE V infer__tanh_##L(V x) {                                                                          \
        const V one = infer__splat_##L(1.0f), a = infer__vmost_##L(x, infer__splat_##L(20.0f));                        \
        const V e = infer__exp_minus_##L(infer__vadd_##L(a, a)), z = infer__vmul_##L(x, x);                            \
        const V part = infer__vdiv_##L(infer__vadd_##L(e, e), infer__vadd_##L(one, e));                                \
        const V large = infer__vsign_##L(infer__vsub_##L(one, part), x);                                               \
        V p = infer__splat_##L(-5.70498872745e-3f);                                                                    \
        p = infer__fma_##L(p, z, infer__splat_##L(2.06390887954e-2f));                                                 \
        p = infer__fma_##L(p, z, infer__splat_##L(-5.37397155531e-2f));                                                \
        p = infer__fma_##L(p, z, infer__splat_##L(1.33314422036e-1f));                                                 \
        p = infer__fma_##L(p, z, infer__splat_##L(-3.33332819422e-1f));                                                \
        p = infer__fma_##L(infer__vmul_##L(x, z), p, x);                                                               \
        return infer__vsmall_##L(x, infer__splat_##L(0.625f), p, large);                                               \
    }
INFER__DEFINE_EXP(f32, float, )

/* ---- made of them, for one float --------------------------------------------------------------------------------- */

/* 1 / (1 + exp(-x)) */
INFER__INLINE float infer__sigmoid(float x) {
    float e = infer__exp_minus_f32(x);
    return infer__choose(infer__negative(x), e, 1.0f) / (1.0f + e);
}

/* The share of a standard normal distribution below x, (1 + erf(x / sqrt 2)) / 2, within 4e-7 of its value for x < 0.
 * Below -a it is exp(-a^2 / 2) g(t) with t = 1 / (1 + 0.3 a); g is a polynomial fitted for a = 0 .. 13.4. */
INFER__INLINE float infer__normal_below(float x) {
    float a = infer__vmost_f32(x, 13.5f), t = 1.0f / (1.0f + 0.3f * a), g;
    g = 0.0383233167f;
    g = g * t - 0.168898627f;
    g = g * t + 0.228106871f;
    g = g * t - 0.0758729503f;
    g = g * t + 0.142097324f;
    g = g * t + 0.0948704854f;
    g = g * t + 0.121872418f;
    g = g * t + 0.119494423f;
    g = g * t + 6.77282105e-6f;
    g *= infer__exp_minus_f32(0.5f * a * a);
    return infer__choose(infer__negative(x), g, 1.0f - g);
}

/* SiLU and the tanh form of GELU (0.5 (1 + tanh u) is sigmoid(2 u)): arXiv 1702.03118, 1606.08415; squared ReLU: arXiv
 * 2109.08668. NaN stays NaN. */
INFER__INLINE float infer__gelu_tanh(float x) {
    return x * infer__sigmoid(1.5957691216057308f * x * (1.0f + 0.044715f * x * x));
}
INFER__INLINE float infer__relu(float x) {
    return infer__bits_f32(infer__f32_bits(x) & (~infer__negative(x) | infer__not_number(x)));
}
INFER__INLINE float infer__softplus(float x) { return x > 20.0f ? x : log1pf(expf(x)); }

#endif
