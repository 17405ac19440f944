/* sampler_math.c: exponentials, logarithms and shares in integers, so that a pick is the same everywhere.
 *
 * Owns:  fixed-point numbers: "Q32" is a number in units of 2^-32. Logits become Q32 gaps (how far a logit is below the
 *        best one), gaps become weights (2^bits times the probability relative to the best).
 * Rules: no libm, and no float expression whose result is rounded in more than one way: a float is scaled by a power of
 *        two (exact in a double) and truncated. So x87, -ffast-math and fused multiply-adds change nothing.
 *        Nothing here allocates or fails; results saturate.
 * Start: infer__gap, infer__weigh, infer__log2.
 */
#include "../text.h"

#define INFER__Q32_ONE ((int64_t)1 << 32)
#define INFER__Q32_LN2 0xb17217f7      /* ln 2 */
#define INFER__Q32_INV_LN2 0x171547652 /* 1 / ln 2 */
#define INFER__GAP_MAX ((uint64_t)1 << 62)  /* of a gap: what is too large for its 64 bits */
#define INFER__GAP_NONE ((uint64_t)64 << 32) /* from here on a weight is 0: exp(-64) < 2^-92 */

/* Is a float with these bits finite? clang -ffast-math takes every float parameter for finite: what may not be is read
 * as bits where it lies, and handed on as bits. */
INFER__INLINE int infer__bits_finite(uint32_t bits) { return (bits & 0x7f800000u) != 0x7f800000u; }

/* High 64 bits of a * b. */
static uint64_t infer__mul_high(uint64_t a, uint64_t b) {
    uint64_t al = a & 0xffffffffu, ah = a >> 32, bl = b & 0xffffffffu, bh = b >> 32;
    uint64_t mid = ah * bl + (al * bl >> 32), mid2 = al * bh + (mid & 0xffffffffu);
    return ah * bh + (mid >> 32) + (mid2 >> 32);
}

/* a * b of two Q32 numbers whose product is below 2^31. */
static uint64_t infer__q32_mul(uint64_t a, uint64_t b) { return infer__mul_high(a, b) << 32 | (a * b) >> 32; }

/* The same with signs. */
static int64_t infer__q32_mul_signed(int64_t a, int64_t b) {
    uint64_t ua = a < 0 ? 0 - (uint64_t)a : (uint64_t)a, ub = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
    int64_t p = (int64_t)(infer__q32_mul(ua, ub) & INT64_MAX);
    return (a < 0) != (b < 0) ? -p : p;
}

/* a / b in Q32, for a, b < 2^63; at most 2^62. b = 0 counts as infinitely small. */
static int64_t infer__q32_ratio(uint64_t a, uint64_t b) {
    uint64_t q, rest;
    int32_t i;
    if (b == 0 || a / b >= (uint64_t)1 << 30) return (int64_t)1 << 62;
    q = a / b;
    rest = a % b;
    for (i = 0; i < 32; i++) {
        rest *= 2;
        q = q * 2 + (rest >= b);
        if (rest >= b) rest -= b;
    }
    return (int64_t)q;
}

/* x in Q32, towards zero; |x| above 2^29 counts as 2^29. */
static int64_t infer__q32(float x) {
    const float most = 536870912.0f;
    x = x > most ? most : x < -most ? -most : x;
    return (int64_t)((double)x * 4294967296.0);
}

/* The float nearest to a Q32 number below 2^53 in magnitude. */
static float infer__q32_float(int64_t x) {
    volatile float f = (float)((double)x * (1.0 / 4294967296.0)); /* the double is exact: one rounding */
    return f;
}

/* How far x is below the largest logit, in Q32. Floats from 2^30 on are at least 64 apart, so that those that differ
 * differ by a gap that has no weight; so do -inf and all others. */
INFER__INLINE uint64_t infer__gap(float best, float x) {
    const float most = 1073741824.0f; /* 2^30 */
    if (x > -most && best < most) {
        return (uint64_t)((int64_t)((double)best * 4294967296.0) - (int64_t)((double)x * 4294967296.0));
    }
    return x == best ? 0 : INFER__GAP_MAX;
}

/* 2^(bits - y), y in units of 2^-57, bits <= 62, with a relative error below 2^-28.
 * y = k + i/64 + r: 2^-k * table[i] * exp(-r ln 2), the last by three terms of its series (the fourth is below
 * (ln 2 / 64)^4 / 24 = 5.8e-10). The result has 31 bits. */
INFER__INLINE uint64_t infer__exp2_down(uint64_t y, int32_t bits) {
    static const uint32_t table[64] = { /* 2^(31 - i/64) */
        0x80000000u, 0x7e9f0606u, 0x7d41d96eu, 0x7be86fbau, 0x7a92be8bu, 0x7940bb9eu, 0x77f25cceu, 0x76a7980fu,
        0x75606374u, 0x741cb528u, 0x72dc8374u, 0x719fc4b9u, 0x70666f76u, 0x6f307a41u, 0x6dfddbccu, 0x6cce8ae1u,
        0x6ba27e65u, 0x6a79ad56u, 0x69540ec9u, 0x683199edu, 0x6712460bu, 0x65f60a7fu, 0x64dcdec3u, 0x63c6ba64u,
        0x62b39509u, 0x61a3666du, 0x60962665u, 0x5f8bccdbu, 0x5e8451d0u, 0x5d7fad59u, 0x5c7dd7a4u, 0x5b7ec8f2u,
        0x5a82799au, 0x5988e209u, 0x5891fac1u, 0x579dbc57u, 0x56ac1f75u, 0x55bd1cdbu, 0x54d0ad5au, 0x53e6c9dau,
        0x52ff6b55u, 0x521a8ad7u, 0x51382182u, 0x50582888u, 0x4f7a9930u, 0x4e9f6cd4u, 0x4dc69cddu, 0x4cf022cau,
        0x4c1bf829u, 0x4b4a169cu, 0x4a7a77d4u, 0x49ad1598u, 0x48e1e9bau, 0x4818ee22u, 0x47521cc6u, 0x468d6faeu,
        0x45cae0f2u, 0x450a6abbu, 0x444c0740u, 0x438fb0cbu, 0x42d561b4u, 0x421d1462u, 0x4166c34cu, 0x40b268fau };
    const uint64_t one = (uint64_t)1 << 31;
    uint64_t a = ((y >> 20 & 0x7fffffffu) * 0x58b90bfbu) >> 31, e; /* r ln 2, in units of 2^-37 */
    int32_t shift = 31 - bits + (int32_t)(y >> 57);
    e = one - ((a / 3) >> 6);
    e = one - (a * e >> 38);
    e = one - (a * e >> 37);
    e = e * table[y >> 51 & 63] >> 31;
    return shift >= 0 ? (shift < 32 ? e >> shift : 0) : e << -shift;
}

/* 2^bits * exp(-gap), bits <= 62, with a relative error below 2^-28. The gap times 1 / ln 2 in two parts of 25 bits. */
INFER__INLINE uint64_t infer__weigh(uint64_t gap, int32_t bits) {
    if (gap >= INFER__GAP_NONE) return 0;
    return infer__exp2_down(gap * 0x2e2a8ecu + (gap * 0x14ae0bfu >> 25), bits);
}

/* Bits of weights of which n can be added in 63 bits. */
static int32_t infer__weigh_bits(int32_t n) {
    int32_t bits = 62;
    while (bits > 31 && ((int64_t)1 << (62 - bits)) < n) bits--;
    return bits;
}

/* p in 0..1 times total, exact for the bits that a float has. */
static uint64_t infer__weigh_share(float p, uint64_t total) {
    if (p >= 1.0f) return total;
    return infer__mul_high((uint64_t)((double)p * 18446744073709551616.0), total);
}

/* log2(x) in Q32, x >= 1 (0 counts as 1), to about 2^-30: one squaring of the mantissa for every bit after the
 * point. */
static int64_t infer__log2(uint64_t x) {
    int64_t e = 63;
    uint64_t f = 0;
    int32_t i;
    if (x == 0) x = 1;
    for (; !(x >> 63); e--) x <<= 1;
    for (i = 0; i < 32; i++) { /* x / 2^63 is in 1..2 */
        uint64_t h = infer__mul_high(x, x);
        f = f * 2 + (h >> 63);
        x = h >> 63 ? h : h << 1;
    }
    return e * INFER__Q32_ONE + (int64_t)f;
}

/* log2(x) of a float above 0 (below 2^-126: as if it were that). */
static int64_t infer__log2_float(float x) {
    uint32_t bits = infer__f32_bits(x), e = bits >> 23 & 255u;
    if (e == 0) return -126 * INFER__Q32_ONE;
    return infer__log2((uint64_t)((bits & 0x7fffffu) | 0x800000u)) + ((int64_t)e - 150) * INFER__Q32_ONE;
}

/* 2^y in Q32, y in Q32; at most 2^62. */
static int64_t infer__q32_exp2(int64_t y) {
    const int64_t most = 29 * INFER__Q32_ONE;
    int32_t up = 0;
    uint64_t w;
    if (y > most) return (int64_t)1 << 62;
    if (y < -60 * INFER__Q32_ONE) return 0;
    if (y > 0) {
        up = (int32_t)((y + INFER__Q32_ONE - 1) >> 32);
        y -= up * INFER__Q32_ONE;
    }
    w = infer__exp2_down((uint64_t)-y << 25, 62 - 29 + up); /* 33 bits after the point, rounded to 32 */
    return (int64_t)((w + 1) >> 1);
}

/* The whole part of the square root. */
static uint64_t infer__sqrt_u64(uint64_t x) {
    uint64_t root = 0, bit = (uint64_t)1 << 62;
    while (bit > x) bit >>= 2;
    for (; bit; bit >>= 2) {
        if (x >= root + bit) {
            x -= root + bit;
            root = (root >> 1) + bit;
        } else {
            root >>= 1;
        }
    }
    return root;
}

/* base^n as a float, at most 3e38; base >= 0 and finite. By squaring, with mantissas of 64 bits. */
static float infer__power(float base, int32_t n) {
    uint64_t m = (uint64_t)1 << 63, f;
    int64_t e = 0, fe;
    double d;
    volatile float out;
    if (n <= 0) return 1.0f;
    if (!(base > 0)) return 0;
    fe = (int64_t)(infer__f32_bits(base) >> 23 & 255u) - 127;
    if (fe == -127) return 0; /* below 2^-126 */
    f = (uint64_t)((infer__f32_bits(base) & 0x7fffffu) | 0x800000u) << 40;
    for (; n > 0; n >>= 1) { /* m / 2^63 * 2^e, f / 2^63 * 2^fe */
        if (n & 1) {
            m = infer__mul_high(m, f);
            e += fe + 1;
            if (!(m >> 63)) { m <<= 1; e--; }
        }
        f = infer__mul_high(f, f);
        fe = fe * 2 + 1;
        if (!(f >> 63)) { f <<= 1; fe--; }
        fe = INFER__MAX(INFER__MIN(fe, 1000000), -1000000); /* far outside a float's range already */
        e = INFER__MAX(INFER__MIN(e, 1000000), -1000000);
    }
    if (e > 127) return 3e38f;
    if (e < -126) return 0;
    d = (double)(int64_t)(m >> 11); /* 53 bits: exact */
    out = (float)(d * (1.0 / 4503599627370496.0));
    out = out * infer__bits_f32((uint32_t)(e + 127) << 23);
    return infer__bits_finite(infer__f32_bits(out)) && out < 3e38f ? out : 3e38f;
}
