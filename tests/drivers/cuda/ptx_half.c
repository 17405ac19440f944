/* ptx_half.c: cvt in all directions and roundings, and arithmetic on 16-bit floats: f16 and bf16, one or two in a register.
 * A conversion goes through a long double, which holds every source exactly; the frequent ones have functions of their own.
 * Arithmetic on halves computes in double, where sums and products of halves are exact, and rounds once.
 */
#include "ptx.h"
#include <math.h>

float ptx_half_to_float(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, m = h & 0x7fff;
    float tiny = (float)m * 0x1p-24f;
    uint32_t u = m < 0x400 ? ptx_bits(tiny) : m < 0x7c00 ? (m << 13) + 0x38000000 : (m << 13) | 0x7f800000;
    return ptx_float(u | sign);
}

/* The number with `digits` bits of significand and exponents from low to high (of the leading bit) that is next to x. */
static double round_to(double x, int digits, int low, int high, int round, double inf) {
    double a = fabs(x), unit, q, r, biggest = ldexp(2.0 - ldexp(1.0, 1 - digits), high);
    int e;
    if (x == 0.0 || x != x || isinf(x)) return x;
    e = ilogb(a);
    if (e < low) e = low;
    unit = ldexp(1.0, e - digits + 1);
    q = a / unit; /* exact: a power of two */
    switch (round) {
    case 'z': r = floor(q); break;
    case 'm': r = x < 0 ? ceil(q) : floor(q); break;
    case 'p': r = x < 0 ? floor(q) : ceil(q); break;
    case 'a': r = floor(q + 0.5); break;
    default: r = nearbyint(q); break;
    }
    a = r * unit;
    if (a > biggest) a = round == 'z' || (round == 'm' && x > 0) || (round == 'p' && x < 0) ? biggest : inf;
    return x < 0 ? -a : a;
}

static uint16_t to_half(double x, int round) {
    uint16_t sign = signbit(x) ? 0x8000 : 0;
    double a = fabs(round_to(x, 11, -14, 15, round, INFINITY));
    int e;
    if (x != x) return 0x7fff;
    if (isinf(a)) return sign | 0x7c00;
    if (a < 0x1p-14) return sign | (uint16_t)(a * 0x1p24);
    e = ilogb(a);
    return (uint16_t)(sign | ((uint32_t)(e + 15) << 10) | ((uint32_t)ldexp(a, 10 - e) & 0x3ff));
}
static uint16_t to_bf16(double x, int round) {
    if (x != x) return 0x7fff;
    return (uint16_t)(ptx_bits((float)round_to(x, 8, -126, 127, round, INFINITY)) >> 16);
}
uint16_t ptx_float_to_half(float x, int round) { return to_half(x, round); }
uint16_t ptx_float_to_bf16(float x, int round) { return to_bf16(x, round); }

/* ---- cvt: kinds u s f (f16, f32, f64 by size), B bf16; mode = source kind, sign = destination kind, vec = source size -------------- */

enum { TO_NAN32 = 0x7fffffff };

static int64_t to_integer(long double v, int round, int bits, int is_signed) {
    long double lo = is_signed ? -ldexpl(1.0L, bits - 1) : 0.0L,
                hi = (is_signed ? ldexpl(1.0L, bits - 1) : ldexpl(1.0L, bits)) - 1.0L;
    if (v != v) return 0;
    v = round == 'z' ? truncl(v) : round == 'm' ? floorl(v) : round == 'p' ? ceill(v) : rintl(v);
    v = v < lo ? lo : v > hi ? hi : v;
    return is_signed ? (int64_t)v : (int64_t)(uint64_t)v;
}
static float to_float(long double v, int round) {
    float f = (float)v;
    if (v != v) return ptx_float(TO_NAN32);
    if (round == 'n' || (long double)f == v) return f;
    if (round == 'm' || (round == 'z' && v > 0)) return (long double)f > v ? nextafterf(f, -INFINITY) : f;
    return (long double)f < v ? nextafterf(f, INFINITY) : f;
}
static double to_double(long double v, int round) {
    double f = (double)v;
    if (round == 'n' || v != v || (long double)f == v) return f;
    if (round == 'm' || (round == 'z' && v > 0)) return (long double)f > v ? nextafter(f, -INFINITY) : f;
    return (long double)f < v ? nextafter(f, INFINITY) : f;
}

/* imm: 'n' 'z' 'm' 'p', or those + 256: to an integral value of the same type. ftz & 2: .sat */
static void convert(ptx_warp *w, const ptx_ins *i) {
    int round = (int)i->imm & 255, integral = (int)i->imm >> 8, from_wide = (int)i->base_wide, k = (int)i->space;
    uint64_t t[32];
    uint32_t s[32];
    LANES {
        uint64_t x = from_wide ? R64(i->o[1])[l] : R32(i->o[1])[l], r = 0;
        long double v;
        if (i->vec == 8 && i->mode != 'f') v = i->mode == 's' ? (long double)(int64_t)x : (long double)x;
        else if (i->mode == 'u') v = (long double)(x & ((1ull << i->vec * 8) - 1));
        else if (i->mode == 's') v = (long double)((int64_t)(x << (64 - i->vec * 8)) >> (64 - i->vec * 8));
        else if (i->mode == 'B') v = ptx_bf16_to_float((uint16_t)x);
        else if (i->vec == 2) v = ptx_half_to_float((uint16_t)x);
        else if (i->vec == 4) v = i->ftz & 1 && !(x & 0x7f800000) ? 0.0f : ptx_float((uint32_t)x);
        else {
            double d;
            memcpy(&d, &x, 8);
            v = d;
        }
        if (integral)
            v = v != v ? v : round == 'z' ? truncl(v) : round == 'm' ? floorl(v) : round == 'p' ? ceill(v) : rintl(v);
        if (i->ftz & 2 && (k == 'f' || k == 'B')) v = !(v > 0.0L) ? 0.0L : v > 1.0L ? 1.0L : v;
        if (k == 'u' || k == 's') {
            int is_float = i->mode == 'f' || i->mode == 'B';
            if (is_float || i->ftz & 2) r = (uint64_t)to_integer(v, is_float ? round : 'z', i->size * 8, k == 's');
            else
                r = i->mode == 's' ? (uint64_t)((int64_t)(x << (64 - i->vec * 8)) >> (64 - i->vec * 8))
                    : i->vec == 8  ? x
                                   : x & ((1ull << i->vec * 8) - 1);
            if (i->size < 8)
                r = k == 's' ? (uint64_t)((int64_t)(r << (64 - i->size * 8)) >> (64 - i->size * 8))
                             : r & ((1ull << i->size * 8) - 1);
            if (!i->wide && i->flag) r &= 0xffff;
        } else if (k == 'B') {
            r = to_bf16((double)v, round);
        } else if (i->size == 2) {
            r = to_half((double)v, round);
        } else if (i->size == 4) {
            float f = to_float(v, integral ? 'n' : round);
            r = v != v ? TO_NAN32 : ptx_bits(f);
            if (i->ftz & 1 && !(r & 0x7f800000)) r &= 0x80000000;
        } else {
            double d = to_double(v, integral ? 'n' : round);
            memcpy(&r, &d, 8);
        }
        t[l] = r, s[l] = (uint32_t)r;
    }
    if (i->wide) ptx_put64(w, R64(i->o[0]), t);
    else ptx_put32(w, R32(i->o[0]), s);
}

#define FAST(name, D, R, PUT, E) \
    static void name(ptx_warp *w, const ptx_ins *i) { \
        D t[32]; \
        LANES t[l] = (D)(E); \
        PUT(w, R(i->o[0]), t); \
    }
FAST(cvt_f32_s32, uint32_t, R32, ptx_put32, ptx_bits((float)(int32_t)R32(i->o[1])[l]))
FAST(cvt_f32_u32, uint32_t, R32, ptx_put32, ptx_bits((float)R32(i->o[1])[l]))
FAST(cvt_u64_u32, uint64_t, R64, ptx_put64, R32(i->o[1])[l])
FAST(cvt_s64_s32, uint64_t, R64, ptx_put64, (int64_t)(int32_t)R32(i->o[1])[l])
FAST(cvt_u32_u64, uint32_t, R32, ptx_put32, R64(i->o[1])[l])
FAST(cvt_u16_u32, uint32_t, R32, ptx_put32, R32(i->o[1])[l] & 0xffff)
FAST(cvt_u32_u16, uint32_t, R32, ptx_put32, R32(i->o[1])[l] & 0xffff)
FAST(cvt_s32_s16, uint32_t, R32, ptx_put32, (int32_t)(int16_t)R32(i->o[1])[l])
FAST(cvt_s32_s8, uint32_t, R32, ptx_put32, (int32_t)(int8_t)R32(i->o[1])[l])
FAST(cvt_f32_f16, uint32_t, R32, ptx_put32, ptx_bits(ptx_half_to_float((uint16_t)R32(i->o[1])[l])))
FAST(cvt_f32_bf16, uint32_t, R32, ptx_put32, R32(i->o[1])[l] << 16)
FAST(cvt_rni, uint32_t, R32, ptx_put32, ptx_bits(__builtin_rintf(RF(i->o[1])[l])))

/* Two halves from two floats: {o[1], o[2]}, the first in the upper half. imm: rounding, mode 'f' or 'B'; ftz & 2 is relu here */
static void cvt_pair(ptx_warp *w, const ptx_ins *i) {
    uint32_t t[32];
    LANES {
        float x = RF(i->o[1])[l], y = RF(i->o[2])[l];
        if (i->flag) x = x <= 0 ? 0 : x, y = y <= 0 ? 0 : y;
        t[l] = i->mode == 'B' ? (uint32_t)to_bf16(x, (int)i->imm) << 16 | to_bf16(y, (int)i->imm)
                              : (uint32_t)to_half(x, (int)i->imm) << 16 | to_half(y, (int)i->imm);
    }
    ptx_put32(w, R32(i->o[0]), t);
}
/* tf32: 10 bits of significand, ties away from 0 */
static void cvt_tf32(ptx_warp *w, const ptx_ins *i) {
    uint32_t t[32];
    LANES {
        uint32_t x = R32(i->o[1])[l];
        t[l] = (x & 0x7fffffff) > 0x7f800000    ? TO_NAN32
               : (x & 0x7f800000) == 0x7f800000 ? x
                                                : (x + 0x1000) & 0xffffe000;
    }
    ptx_put32(w, R32(i->o[0]), t);
}

int ptx_decode_cvt(ptx_parser *p, ptx_ins *i, char **part, int parts, ptx_operand *o, int n, char *why, size_t size) {
    static const struct { const char *names; ptx_fn run; } fast[] = {
        {"rn f32 s32", cvt_f32_s32}, {"rn f32 u32", cvt_f32_u32}, {"u64 u32", cvt_u64_u32}, {"s64 s32", cvt_s64_s32}, {"u32 u64", cvt_u32_u64},
        {"u16 u32", cvt_u16_u32}, {"u32 u16", cvt_u32_u16}, {"s32 s16", cvt_s32_s16}, {"s32 s8", cvt_s32_s8}, {"f32 f16", cvt_f32_f16},
        {"f32 bf16", cvt_f32_bf16}, {"rni f32 f32", cvt_rni}};
    char to = 0, from = 0, words[64] = "", *d = part[parts - 2], *s = part[parts - 1];
    int to_bits = 0, from_bits = 0, k, round = 0, relu = 0, width;
    uint32_t source;
    if (parts < 3) return 0;
    for (k = 1; k < parts; k++) {
        if (k < parts - 2) {
            if (!strcmp(part[k], "ftz")) i->ftz |= 1;
            else if (!strcmp(part[k], "sat")) i->ftz |= 2;
            else if (!strcmp(part[k], "relu")) relu = 1;
            else if (!strcmp(part[k], "rn") || !strcmp(part[k], "rz") || !strcmp(part[k], "rm") ||
                     !strcmp(part[k], "rp"))
                round = part[k][1];
            else if (!strcmp(part[k], "rna")) round = 'a';
            else if (!strcmp(part[k], "rni") || !strcmp(part[k], "rzi") || !strcmp(part[k], "rmi") ||
                     !strcmp(part[k], "rpi"))
                round = part[k][1] | 256;
            else return 0;
        }
        snprintf(words + strlen(words), sizeof words - strlen(words), "%s%s", k > 1 ? " " : "", part[k]);
    }
    if (o[0].kind != OPD_REG || !o[0].slot) return 0;
    i->o[0] = o[0].slot;
    if (!strcmp(d, "tf32")) {
        i->run = cvt_tf32;
        return n == 2 && round == 'a' && !strcmp(s, "f32") && o[0].width == 32 && ptx_source(p, &o[1], 32, &i->o[1]);
    }
    if (!strcmp(d, "f16x2") || !strcmp(d, "bf16x2")) {
        i->run = cvt_pair, i->imm = round, i->mode = d[0] == 'b' ? 'B' : 'f', i->flag = (uint8_t)relu;
        return n == 3 && !strcmp(s, "f32") && (round == 'n' || round == 'z') && o[0].width == 32 &&
               ptx_source(p, &o[1], 32, &i->o[1]) && ptx_source(p, &o[2], 32, &i->o[2]);
    }
    if (n != 2 || relu || !ptx_type(d, &to, &to_bits) || !ptx_type(s, &from, &from_bits)) return 0;
    /* PTX demands a rounding where the result may not be exact */
    int to_float_kind = to == 'f' || to == 'B', from_float = from == 'f' || from == 'B';
    if (from_float != to_float_kind && !round) {
        snprintf(why, size, "a conversion between float and integer needs a rounding");
        return 0;
    }
    if (from_float && to_float_kind && (to_bits < from_bits || (to != from && to_bits == 16)) && !round) {
        snprintf(why, size, "a conversion to a smaller float needs a rounding");
        return 0;
    }
    if (from_float && !to_float_kind && !(round & 256)) {
        snprintf(why, size, "a conversion to an integer needs .rni, .rzi, .rmi or .rpi");
        return 0;
    }
    width = o[1].kind == OPD_REG ? o[1].width : from_bits < 32 ? 16 : from_bits;
    if (width < (from_bits == 8 ? 16 : from_bits) || o[0].width < (to_bits == 8 ? 16 : to_bits)) {
        snprintf(why, size, "a register is too small");
        return 0;
    }
    if (!ptx_source(p, &o[1], width, &source)) return 0;
    i->o[1] = source, i->base_wide = width == 64, i->wide = o[0].width == 64, i->flag = o[0].width == 16;
    i->space = (uint8_t)(to == 'b' ? 'u' : to), i->mode = (uint8_t)(from == 'b' ? 'u' : from),
    i->size = (uint8_t)(to_bits / 8), i->vec = (uint8_t)(from_bits / 8);
    i->imm = to_float_kind && from_float ? (round ? round : 'n') : round & 255;
    i->run = convert;
    if (!i->ftz && (o[0].width == (to_bits == 8 ? 16 : to_bits)) && (width == (from_bits == 8 ? 16 : from_bits)))
        for (size_t f = 0; f < sizeof fast / sizeof *fast; f++)
            if (!strcmp(words, fast[f].names)) i->run = fast[f].run;
    return 1;
}

/* ---- arithmetic on halves ------------------------------------------------------------------------------------------------------ */

enum { ADD, SUB, MUL, FMA, MIN, MAX, MINNAN, MAXNAN, NEG, ABS, EX2, TANH };
enum { BF = 32, TWO = 64, RELU = 128 };

static uint32_t half_op(int what, uint32_t a, uint32_t b, uint32_t c) {
    int bf = what & BF, op = what & 31, exact = 1;
    double x, y, z, r, e = 0;
    if (op == NEG) return (a ^ 0x8000) & 0xffff;
    if (op == ABS) return a & 0x7fff;
    x = bf ? ptx_bf16_to_float((uint16_t)a) : ptx_half_to_float((uint16_t)a);
    y = bf ? ptx_bf16_to_float((uint16_t)b) : ptx_half_to_float((uint16_t)b);
    z = bf ? ptx_bf16_to_float((uint16_t)c) : ptx_half_to_float((uint16_t)c);
    switch (op) {
    case ADD: r = x + y, e = (x - (r - (r - x))) + (y - (r - x)), exact = 0; break;
    case SUB: y = -y, r = x + y, e = (x - (r - (r - x))) + (y - (r - x)), exact = 0; break;
    case MUL: r = x * y; break;
    case FMA: {
        double q = x * y;
        r = q + z, e = (q - (r - (r - q))) + (z - (r - q)), exact = 0;
        break;
    }
    case EX2: r = exp2(x); break;
    case TANH: r = tanh(x); break;
    default:
        if (x != x || y != y) {
            if (op >= MINNAN || (x != x && y != y)) return 0x7fff;
            return (x != x ? b : a) & 0xffff;
        }
        if (x == y) return (op == MIN || op == MINNAN ? a | b : a & b) & 0xffff;
        return ((x < y) == (op == MIN || op == MINNAN) ? a : b) & 0xffff;
    }
    /* a sum that is no double (bf16 has many exponents): round to odd first, so that rounding once more is right */
    if (!exact && e != 0 && e == e && !isinf(r)) {
        uint64_t u;
        memcpy(&u, &r, 8);
        if (!(u & 1)) {
            u = (e > 0) == (r > 0) ? u + 1 : u - 1;
            memcpy(&r, &u, 8);
        }
    }
    if (what & RELU) r = r <= 0 ? 0 : r;
    return bf ? to_bf16(r, 'n') : to_half(r, 'n');
}
static void halves(ptx_warp *w, const ptx_ins *i) {
    const uint32_t *a = R32(i->o[1]), *b = R32(i->o[i->nsrc > 1 ? 2 : 1]), *c = R32(i->o[i->nsrc > 2 ? 3 : 1]);
    uint32_t t[32];
    LANES {
        t[l] = half_op(i->mode, a[l] & 0xffff, b[l] & 0xffff, c[l] & 0xffff);
        if (i->mode & TWO) t[l] |= half_op(i->mode, a[l] >> 16, b[l] >> 16, c[l] >> 16) << 16;
    }
    ptx_put32(w, R32(i->o[0]), t);
}
#define HALF(op, n1, n2, what) \
    {op ".f16", n1, halves, what}, {op ".f16x2", n2, halves, what | TWO}, {op ".bf16", n1, halves, what | BF}, {op ".bf16x2", n2, halves, what | BF | TWO}
const ptx_row ptx_rows_half[] = {
    HALF("add", "h,hh", "w,ww", ADD),
    HALF("add.rn", "h,hh", "w,ww", ADD),
    HALF("sub", "h,hh", "w,ww", SUB),
    HALF("sub.rn", "h,hh", "w,ww", SUB),
    HALF("mul", "h,hh", "w,ww", MUL),
    HALF("mul.rn", "h,hh", "w,ww", MUL),
    HALF("fma.rn", "h,hhh", "w,www", FMA),
    HALF("fma.rn.relu", "h,hhh", "w,www", FMA | RELU),
    HALF("min", "h,hh", "w,ww", MIN),
    HALF("max", "h,hh", "w,ww", MAX),
    HALF("min.NaN", "h,hh", "w,ww", MINNAN),
    HALF("max.NaN", "h,hh", "w,ww", MAXNAN),
    HALF("neg", "h,h", "w,w", NEG),
    HALF("abs", "h,h", "w,w", ABS),
    HALF("ex2.approx", "h,h", "w,w", EX2),
    HALF("tanh.approx", "h,h", "w,w", TANH),
    {0, 0, 0, 0},
};
