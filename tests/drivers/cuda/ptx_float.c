/* ptx_float.c: instructions on float and double. Sums, products, quotients, roots are rounded to nearest, as .rn and as no word at
 * all say; the approximate instructions are as good as the host's library, better than the devices'. .ftz wraps an instruction.
 */
#include "ptx.h"
#include <math.h>

#define DF1(name, E) \
    static void name##_f32(ptx_warp *w, const ptx_ins *i) { \
        const float *a = RF(i->o[1]); \
        float t[32]; \
        LANES { float x = a[l]; t[l] = E; } \
        ptx_put32(w, R32(i->o[0]), (const uint32_t *)(const void *)t); \
    }
#define DF2(name, E) \
    static void name##_f32(ptx_warp *w, const ptx_ins *i) { \
        const float *a = RF(i->o[1]), *b = RF(i->o[2]); \
        float t[32]; \
        LANES { float x = a[l], y = b[l]; t[l] = E; } \
        ptx_put32(w, R32(i->o[0]), (const uint32_t *)(const void *)t); \
    }
#define DF3(name, E) \
    static void name##_f32(ptx_warp *w, const ptx_ins *i) { \
        const float *a = RF(i->o[1]), *b = RF(i->o[2]), *c = RF(i->o[3]); \
        float t[32]; \
        LANES { float x = a[l], y = b[l], z = c[l]; t[l] = E; } \
        ptx_put32(w, R32(i->o[0]), (const uint32_t *)(const void *)t); \
    }
#define DD1(name, E) \
    static void name##_f64(ptx_warp *w, const ptx_ins *i) { \
        const double *a = RD(i->o[1]); \
        double t[32]; \
        LANES { double x = a[l]; t[l] = E; } \
        ptx_put64(w, R64(i->o[0]), (const uint64_t *)(const void *)t); \
    }
#define DD2(name, E) \
    static void name##_f64(ptx_warp *w, const ptx_ins *i) { \
        const double *a = RD(i->o[1]), *b = RD(i->o[2]); \
        double t[32]; \
        LANES { double x = a[l], y = b[l]; t[l] = E; } \
        ptx_put64(w, R64(i->o[0]), (const uint64_t *)(const void *)t); \
    }
#define DD3(name, E) \
    static void name##_f64(ptx_warp *w, const ptx_ins *i) { \
        const double *a = RD(i->o[1]), *b = RD(i->o[2]), *c = RD(i->o[3]); \
        double t[32]; \
        LANES { double x = a[l], y = b[l], z = c[l]; t[l] = E; } \
        ptx_put64(w, R64(i->o[0]), (const uint64_t *)(const void *)t); \
    }

/* One NaN loses against a number, -0 is less than +0, two NaNs give the one NaN that devices make. */
static inline float lesser(float x, float y, int keep) {
    if (x != x || y != y) return keep || (x != x && y != y) ? ptx_float(0x7fffffff) : x != x ? y : x;
    if (x == y) return ptx_float(ptx_bits(x) | ptx_bits(y));
    return x < y ? x : y;
}
static inline float greater(float x, float y, int keep) {
    if (x != x || y != y) return keep || (x != x && y != y) ? ptx_float(0x7fffffff) : x != x ? y : x;
    if (x == y) return ptx_float(ptx_bits(x) & ptx_bits(y));
    return x > y ? x : y;
}

DF2(add, x + y)
DF2(sub, x - y)
DF2(mul, x * y)
DF3(fma, __builtin_fmaf(x, y, z))
DF2(div, x / y)
DF1(rcp, 1.0f / x)
DF1(sqrt, __builtin_sqrtf(x))
DF1(rsqrt, (float)(1.0 / __builtin_sqrt((double)x)))
DF1(ex2, exp2f(x))
DF1(lg2, log2f(x))
DF1(sin, sinf(x))
DF1(cos, cosf(x))
DF1(tanh, tanhf(x))
DF1(neg, ptx_float(ptx_bits(x) ^ 0x80000000u))
DF1(abs, ptx_float(ptx_bits(x) & 0x7fffffffu))
DF2(min, lesser(x, y, 0))
DF2(max, greater(x, y, 0))
DF2(minnan, lesser(x, y, 1))
DF2(maxnan, greater(x, y, 1))
DF2(copysign, ptx_float((ptx_bits(x) & 0x80000000u) | (ptx_bits(y) & 0x7fffffffu)))
DD2(add, x + y)
DD2(sub, x - y)
DD2(mul, x * y)
DD3(fma, __builtin_fma(x, y, z))
DD2(div, x / y)
DD1(rcp, 1.0 / x)
DD1(sqrt, __builtin_sqrt(x))
DD1(neg, -x)
DD1(abs, __builtin_fabs(x))
DD2(min, fmin(x, y))
DD2(max, fmax(x, y))

static void testp(ptx_warp *w,
                  const ptx_ins *i) { /* mode: 0 finite, 1 infinite, 2 number, 3 not a number, 4 normal, 5 subnormal */
    const uint32_t *a = R32(i->o[1]);
    uint32_t t = 0;
    LANES {
        uint32_t m = a[l] & 0x7fffffff;
        int is = i->mode == 0   ? m < 0x7f800000
                 : i->mode == 1 ? m == 0x7f800000
                 : i->mode == 2 ? m <= 0x7f800000
                 : i->mode == 3 ? m > 0x7f800000
                 : i->mode == 4 ? m >= 0x00800000 && m < 0x7f800000
                                : m && m < 0x00800000;
        t |= (uint32_t)is << l;
    }
    ptx_putp(w, i->o[0], t);
}

void ptx_setp(ptx_warp *w, const ptx_ins *i, uint32_t t);
#define CMP(name, E) \
    static void name##_f32(ptx_warp *w, const ptx_ins *i) { \
        const float *a = RF(i->o[1]), *b = RF(i->o[2]); \
        uint32_t t = 0; \
        LANES { float x = a[l], y = b[l]; t |= (uint32_t)(E) << l; } \
        ptx_setp(w, i, t); \
    } \
    static void name##_f64(ptx_warp *w, const ptx_ins *i) { \
        const double *a = RD(i->o[1]), *b = RD(i->o[2]); \
        uint32_t t = 0; \
        LANES { double x = a[l], y = b[l]; t |= (uint32_t)(E) << l; } \
        ptx_setp(w, i, t); \
    } \
    static void name##_f16(ptx_warp *w, const ptx_ins *i) { \
        const uint32_t *a = R32(i->o[1]), *b = R32(i->o[2]); \
        uint32_t t = 0; \
        LANES { float x = ptx_half_to_float((uint16_t)a[l]), y = ptx_half_to_float((uint16_t)b[l]); t |= (uint32_t)(E) << l; } \
        ptx_setp(w, i, t); \
    } \
    static void name##_bf16(ptx_warp *w, const ptx_ins *i) { \
        const uint32_t *a = R32(i->o[1]), *b = R32(i->o[2]); \
        uint32_t t = 0; \
        LANES { float x = ptx_bf16_to_float((uint16_t)a[l]), y = ptx_bf16_to_float((uint16_t)b[l]); t |= (uint32_t)(E) << l; } \
        ptx_setp(w, i, t); \
    }
CMP(eq, x == y)
CMP(ne, x < y || x > y)
CMP(lt, x < y)
CMP(le, x <= y)
CMP(gt, x > y)
CMP(ge, x >= y)
CMP(equ, !(x < y || x > y))
CMP(neu, x != y)
CMP(ltu, !(x >= y))
CMP(leu, !(x > y))
CMP(gtu, !(x <= y))
CMP(geu, !(x < y))
CMP(num, x == x && y == y)
CMP(isnan, x != x || y != y)

#define FD(op, f, d, fn) {op ".f32", f, fn##_f32, 0}, {op ".f64", d, fn##_f64, 0}
#define SETPF(cmp, fn) \
    {"setp." cmp ".f32", "p,ww", fn##_f32, 0}, {"setp." cmp ".f64", "p,qq", fn##_f64, 0}, {"setp." cmp ".f16", "p,hh", fn##_f16, 0}, \
        {"setp." cmp ".bf16", "p,hh", fn##_bf16, 0}

const ptx_row ptx_rows_float[] = {
    FD("add", "w,ww", "q,qq", add),
    FD("add.rn", "w,ww", "q,qq", add),
    FD("sub", "w,ww", "q,qq", sub),
    FD("sub.rn", "w,ww", "q,qq", sub),
    FD("mul", "w,ww", "q,qq", mul),
    FD("mul.rn", "w,ww", "q,qq", mul),
    FD("fma.rn", "w,www", "q,qqq", fma),
    FD("mad.rn", "w,www", "q,qqq", fma),
    FD("div.rn", "w,ww", "q,qq", div),
    {"div.approx.f32", "w,ww", div_f32, 0},
    {"div.full.f32", "w,ww", div_f32, 0},
    FD("rcp.rn", "w,w", "q,q", rcp),
    {"rcp.approx.f32", "w,w", rcp_f32, 0},
    FD("sqrt.rn", "w,w", "q,q", sqrt),
    {"sqrt.approx.f32", "w,w", sqrt_f32, 0},
    {"rsqrt.approx.f32", "w,w", rsqrt_f32, 0},
    {"ex2.approx.f32", "w,w", ex2_f32, 0},
    {"lg2.approx.f32", "w,w", lg2_f32, 0},
    {"sin.approx.f32", "w,w", sin_f32, 0},
    {"cos.approx.f32", "w,w", cos_f32, 0},
    {"tanh.approx.f32", "w,w", tanh_f32, 0},
    FD("neg", "w,w", "q,q", neg),
    FD("abs", "w,w", "q,q", abs),
    FD("min", "w,ww", "q,qq", min),
    FD("max", "w,ww", "q,qq", max),
    {"min.NaN.f32", "w,ww", minnan_f32, 0},
    {"max.NaN.f32", "w,ww", maxnan_f32, 0},
    {"copysign.f32", "w,ww", copysign_f32, 0},
    {"testp.finite.f32", "p,w", testp, 0},
    {"testp.infinite.f32", "p,w", testp, 1},
    {"testp.number.f32", "p,w", testp, 2},
    {"testp.notanumber.f32", "p,w", testp, 3},
    {"testp.normal.f32", "p,w", testp, 4},
    {"testp.subnormal.f32", "p,w", testp, 5},
    SETPF("eq", eq),
    SETPF("ne", ne),
    SETPF("lt", lt),
    SETPF("le", le),
    SETPF("gt", gt),
    SETPF("ge", ge),
    SETPF("equ", equ),
    SETPF("neu", neu),
    SETPF("ltu", ltu),
    SETPF("leu", leu),
    SETPF("gtu", gtu),
    SETPF("geu", geu),
    SETPF("num", num),
    SETPF("nan", isnan),
    {0, 0, 0, 0},
};
