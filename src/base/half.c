/* half.c: float -> IEEE half (binary16). The other direction is one expression, in base.h.
 *
 * Owns: rounding to nearest, ties to even, by IEEE 754-2019 section 4.3.1. Integers only, so that -ffast-math and
 *       flush-to-zero modes change nothing.
 */
#include "base.h"

static uint16_t infer__f32_f16(float f) {
    uint32_t u = infer__f32_bits(f), sign = u >> 16 & 0x8000u, a = u & 0x7fffffffu;
    uint32_t m, r, rest, half;
    int shift;
    if (a > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | (a >> 13 & 0x3ffu)); /* NaN, quiet */
    if (a >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* 65520 and more: infinity */
    if (a >= 0x38800000u) {                                  /* normal: 2^-14 and more */
        r = a - 0x38000000u;                                 /* exponent bias 127 -> 15 */
        r += 0xfffu + (r >> 13 & 1u);                        /* a carry moves into the exponent as it should */
        return (uint16_t)(sign | r >> 13);
    }
    if (a <= 0x33000000u) return (uint16_t)sign; /* 2^-25 is half of the smallest value: a tie, to even 0 */
    m = (a & 0x7fffffu) | 0x800000u;             /* subnormal: count in units of 2^-24 */
    shift = 126 - (int)(a >> 23);                /* 14 .. 24 */
    r = m >> shift;
    rest = m & ((1u << shift) - 1u);
    half = 1u << (shift - 1);
    if (rest > half || (rest == half && (r & 1u))) r++;
    return (uint16_t)(sign | r);
}
