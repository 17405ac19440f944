/* ptx_ops.c: the integer instructions, predicates and moves. Each is a function over 32 lanes; ptx_rows_int says which name and
 * which operands belong to it. Values of 16 bits lie in lanes of 32 whose upper half is 0.
 */
#include "ptx.h"

#define STORE_u16 uint32_t
#define STORE_s16 uint32_t
#define STORE_u32 uint32_t
#define STORE_s32 uint32_t
#define STORE_u64 uint64_t
#define STORE_s64 uint64_t
#define C_u16 uint16_t
#define C_s16 int16_t
#define C_u32 uint32_t
#define C_s32 int32_t
#define C_u64 uint64_t
#define C_s64 int64_t
#define U_u16 uint16_t
#define U_s16 uint16_t
#define U_u32 uint32_t
#define U_s32 uint32_t
#define U_u64 uint64_t
#define U_s64 uint64_t
#define R_u16 R32
#define R_s16 R32
#define R_u32 R32
#define R_s32 R32
#define R_u64 R64
#define R_s64 R64
#define PUT_u16 ptx_put32
#define PUT_s16 ptx_put32
#define PUT_u32 ptx_put32
#define PUT_s32 ptx_put32
#define PUT_u64 ptx_put64
#define PUT_s64 ptx_put64

#define DEF1(name, T, E) \
    static void name##_##T(ptx_warp *w, const ptx_ins *i) { \
        const STORE_##T *a = R_##T(i->o[1]); \
        STORE_##T t[32]; \
        LANES { C_##T x = (C_##T)a[l]; t[l] = (STORE_##T)(U_##T)(E); } \
        PUT_##T(w, R_##T(i->o[0]), t); \
    }
#define DEF2(name, T, E) \
    static void name##_##T(ptx_warp *w, const ptx_ins *i) { \
        const STORE_##T *a = R_##T(i->o[1]), *b = R_##T(i->o[2]); \
        STORE_##T t[32]; \
        LANES { C_##T x = (C_##T)a[l], y = (C_##T)b[l]; t[l] = (STORE_##T)(U_##T)(E); } \
        PUT_##T(w, R_##T(i->o[0]), t); \
    }
/* the second operand has 32 bits: shifts */
#define DEFS(name, T, E) \
    static void name##_##T(ptx_warp *w, const ptx_ins *i) { \
        const STORE_##T *a = R_##T(i->o[1]); \
        const uint32_t *b = R32(i->o[2]); \
        STORE_##T t[32]; \
        LANES { C_##T x = (C_##T)a[l]; uint32_t y = b[l]; t[l] = (STORE_##T)(U_##T)(E); } \
        PUT_##T(w, R_##T(i->o[0]), t); \
    }
#define DEF3(name, T, E) \
    static void name##_##T(ptx_warp *w, const ptx_ins *i) { \
        const STORE_##T *a = R_##T(i->o[1]), *b = R_##T(i->o[2]), *c = R_##T(i->o[3]); \
        STORE_##T t[32]; \
        LANES { C_##T x = (C_##T)a[l], y = (C_##T)b[l], z = (C_##T)c[l]; t[l] = (STORE_##T)(U_##T)(E); } \
        PUT_##T(w, R_##T(i->o[0]), t); \
    }
/* the result is twice as wide */
#define DEFW(name, T, D, E) \
    static void name##_##T(ptx_warp *w, const ptx_ins *i) { \
        const STORE_##T *a = R_##T(i->o[1]), *b = R_##T(i->o[2]); \
        STORE_##D t[32]; \
        LANES { C_##D x = (C_##D)(C_##T)a[l], y = (C_##D)(C_##T)b[l]; t[l] = (STORE_##D)(U_##D)(E); } \
        PUT_##D(w, R_##D(i->o[0]), t); \
    }
#define DEFWA(name, T, D, E) \
    static void name##_##T(ptx_warp *w, const ptx_ins *i) { \
        const STORE_##T *a = R_##T(i->o[1]), *b = R_##T(i->o[2]); \
        const STORE_##D *c = R_##D(i->o[3]); \
        STORE_##D t[32]; \
        LANES { C_##D x = (C_##D)(C_##T)a[l], y = (C_##D)(C_##T)b[l], z = (C_##D)c[l]; t[l] = (STORE_##D)(U_##D)(E); } \
        PUT_##D(w, R_##D(i->o[0]), t); \
    }
#define DEFC(name, T, E) \
    static void name##_##T(ptx_warp *w, const ptx_ins *i) { \
        const STORE_##T *a = R_##T(i->o[1]), *b = R_##T(i->o[2]); \
        uint32_t t = 0; \
        LANES { C_##T x = (C_##T)a[l], y = (C_##T)b[l]; t |= (uint32_t)(E) << l; } \
        ptx_setp(w, i, t); \
    }
#define ALL(DEF, name, E) DEF(name, u16, E) DEF(name, s16, E) DEF(name, u32, E) DEF(name, s32, E) DEF(name, u64, E) DEF(name, s64, E)
#define UNS(DEF, name, E) DEF(name, u16, E) DEF(name, u32, E) DEF(name, u64, E)
#define SIG(DEF, name, E) DEF(name, s16, E) DEF(name, s32, E) DEF(name, s64, E)

/* p = comparison, and with a third source p = comparison op c; a second destination gets the opposite */
void ptx_setp(ptx_warp *w, const ptx_ins *i, uint32_t t);
void ptx_setp(ptx_warp *w, const ptx_ins *i, uint32_t t) {
    uint32_t c = 0, u = ~t;
    if (i->mode & 3) {
        c = RP(i->o[3]) ^ (i->mode & 4 ? ~0u : 0);
        u = (i->mode & 3) == 1 ? ~t & c : (i->mode & 3) == 2 ? ~t | c : ~t ^ c;
        t = (i->mode & 3) == 1 ? t & c : (i->mode & 3) == 2 ? t | c : t ^ c;
    }
    ptx_putp(w, i->o[0], t);
    ptx_putp(w, i->o[4], u);
}

UNS(DEF2, add, x + y)
UNS(DEF2, sub, x - y)
UNS(DEF2, mul, (STORE_u64)x * (STORE_u64)y)
UNS(DEF3, mad, (STORE_u64)x * (STORE_u64)y + z)
DEF2(mulhi, u16, (uint32_t)x * y >> 16)
DEF2(mulhi, s16, (int32_t)x * y >> 16)
DEF2(mulhi, u32, (uint64_t)x * y >> 32)
DEF2(mulhi, s32, (int64_t)x * y >> 32)
DEF2(mulhi, u64, (unsigned __int128)x * y >> 64)
DEF2(mulhi, s64, (__int128)x * y >> 64)
DEF3(madhi, u32, ((uint64_t)x * y >> 32) + z)
DEF3(madhi, s32, ((int64_t)x * y >> 32) + z)
DEF3(madhi, u64, ((unsigned __int128)x * y >> 64) + z)
DEF3(madhi, s64, (uint64_t)((__int128)x * y >> 64) + (uint64_t)z)
DEFW(mulwide, u16, u32, x * y)
DEFW(mulwide, s16, s32, x * y)
DEFW(mulwide, u32, u64, x * y)
DEFW(mulwide, s32, s64, x * y)
DEFWA(madwide, u16, u32, x * y + z)
DEFWA(madwide, s16, s32, (uint32_t)(x * y) + (uint32_t)z)
DEFWA(madwide, u32, u64, x * y + z)
DEFWA(madwide, s32, s64, (uint64_t)(x * y) + (uint64_t)z)
DEF2(mul24, u32, (x & 0xffffff) * (y & 0xffffff))
DEF2(mul24, s32, (uint32_t)((x << 8 >> 8) * (int64_t)(y << 8 >> 8)))
UNS(DEF2, div, y ? x / y : (STORE_u64)-1)
UNS(DEF2, rem, y ? x % y : x)
SIG(DEF2, div, y == 0 ? (STORE_u64)-1 : y == -1 ? -(STORE_u64)x : (STORE_u64)(x / y))
SIG(DEF2, rem, y == 0 ? x : y == -1 ? 0 : x % y)
ALL(DEF2, min, x < y ? x : y)
ALL(DEF2, max, x > y ? x : y)
SIG(DEF1, neg, -(STORE_u64)x)
SIG(DEF1, abs, x < 0 ? -(STORE_u64)x : (STORE_u64)x)
UNS(DEF2, and, x & y)
UNS(DEF2, or, x | y)
UNS(DEF2, xor, x ^ y)
UNS(DEF1, not, ~x)
UNS(DEF1, cnot, x == 0)
UNS(DEF1, mov, x)
DEFS(shl, u16, y > 15 ? 0 : (uint32_t)x << (y & 15))
DEFS(shl, u32, y > 31 ? 0 : x << (y & 31))
DEFS(shl, u64, y > 63 ? 0 : x << (y & 63))
DEFS(shr, u16, y > 15 ? 0 : x >> (y & 15))
DEFS(shr, u32, y > 31 ? 0 : x >> (y & 31))
DEFS(shr, u64, y > 63 ? 0 : x >> (y & 63))
DEFS(shr, s16, x >> (y > 15 ? 15 : y))
DEFS(shr, s32, x >> (y > 31 ? 31 : y))
DEFS(shr, s64, x >> (y > 63 ? 63 : y))
DEF3(shflw, u32, (((uint64_t)y << 32 | x) << (z & 31)) >> 32)
DEF3(shflc, u32, (((uint64_t)y << 32 | x) << (z > 32 ? 32 : z)) >> 32)
DEF3(shfrw, u32, ((uint64_t)y << 32 | x) >> (z & 31))
DEF3(shfrc, u32, ((uint64_t)y << 32 | x) >> (z > 32 ? 32 : z))
DEF3(sad, u32, z + (x > y ? x - y : y - x))
DEF3(sad, s32, (uint32_t)z + (x > y ? (uint32_t)x - (uint32_t)y : (uint32_t)y - (uint32_t)x))

static inline uint64_t field(uint64_t x, uint32_t at, uint32_t n, int bits, int sign) {
    uint64_t v, s;
    at &= 255, n &= 255;
    if (n == 0) return 0;
    s = sign ? x >> (at + n - 1 < (uint32_t)bits - 1 ? at + n - 1 : (uint32_t)bits - 1) & 1 : 0;
    v = at >= (uint32_t)bits ? 0 : x >> at;
    if (n > (uint32_t)bits) n = (uint32_t)bits;
    if (s && at < (uint32_t)bits && bits - at < 64) v |= ~(uint64_t)0 << (bits - at);
    if (s && at >= (uint32_t)bits) v = ~(uint64_t)0;
    if (n < 64) {
        v &= ((uint64_t)1 << n) - 1;
        if (s) v |= ~(uint64_t)0 << n;
    }
    return v;
}
static inline uint64_t insert(uint64_t x, uint64_t into, uint32_t at, uint32_t n, int bits) {
    uint64_t m;
    at &= 255, n &= 255;
    if (at >= (uint32_t)bits || n == 0) return into;
    m = (n >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << n) - 1) << at;
    return (into & ~m) | (x << at & m);
}
#define BFE(T, bits, sign) \
    static void bfe_##T(ptx_warp *w, const ptx_ins *i) { \
        const STORE_##T *a = R_##T(i->o[1]); \
        const uint32_t *b = R32(i->o[2]), *c = R32(i->o[3]); \
        STORE_##T t[32]; \
        LANES t[l] = (STORE_##T)field(a[l], b[l], c[l], bits, sign); \
        PUT_##T(w, R_##T(i->o[0]), t); \
    }
BFE(s32, 32, 1)
BFE(u64, 64, 0)
BFE(s64, 64, 1)
/* by far the most frequent: place and length are the same for all lanes and small */
static void bfe_u32(ptx_warp *w, const ptx_ins *i) {
    const uint32_t *a = R32(i->o[1]), *b = R32(i->o[2]), *c = R32(i->o[3]);
    uint32_t t[32];
    LANES {
        uint32_t at = b[l] & 255, n = c[l] & 255, v = at > 31 ? 0 : a[l] >> (at & 31);
        t[l] = n > 31 ? v : v & ((1u << (n & 31)) - 1);
    }
    ptx_put32(w, R32(i->o[0]), t);
}
#define BFI(T, bits) \
    static void bfi_##T(ptx_warp *w, const ptx_ins *i) { \
        const STORE_##T *a = R_##T(i->o[1]), *b = R_##T(i->o[2]); \
        const uint32_t *c = R32(i->o[3]), *n = R32(i->o[4]); \
        STORE_##T t[32]; \
        LANES t[l] = (STORE_##T)insert(a[l], b[l], c[l], n[l], bits); \
        PUT_##T(w, R_##T(i->o[0]), t); \
    }
BFI(u32, 32)
BFI(u64, 64)

#define TO32(name, T, E) \
    static void name##_##T(ptx_warp *w, const ptx_ins *i) { \
        const STORE_##T *a = R_##T(i->o[1]); \
        uint32_t t[32]; \
        LANES { STORE_##T x = a[l]; t[l] = (uint32_t)(E); } \
        ptx_put32(w, R32(i->o[0]), t); \
    }
TO32(popc, u32, __builtin_popcount(x))
TO32(popc, u64, __builtin_popcountll(x))
TO32(clz, u32, x ? __builtin_clz(x) : 32)
TO32(clz, u64, x ? __builtin_clzll(x) : 64)
TO32(bfind, u32, x ? 31 - __builtin_clz(x) : -1)
TO32(bfind, u64, x ? 63 - __builtin_clzll(x) : -1)
TO32(bfind, s32, x == 0 || x == ~0u ? -1 : 31 - __builtin_clz((int32_t)x < 0 ? ~x : x))
static void brev_u32(ptx_warp *w, const ptx_ins *i) {
    const uint32_t *a = R32(i->o[1]);
    uint32_t t[32];
    LANES {
        uint32_t x = a[l];
        x = (x >> 1 & 0x55555555) | (x & 0x55555555) << 1;
        x = (x >> 2 & 0x33333333) | (x & 0x33333333) << 2;
        x = (x >> 4 & 0x0f0f0f0f) | (x & 0x0f0f0f0f) << 4;
        t[l] = __builtin_bswap32(x);
    }
    ptx_put32(w, R32(i->o[0]), t);
}
static void brev_u64(ptx_warp *w, const ptx_ins *i) {
    const uint64_t *a = R64(i->o[1]);
    uint64_t t[32];
    LANES {
        uint64_t y = 0;
        for (int k = 0; k < 64; k++) y |= (a[l] >> k & 1) << (63 - k);
        t[l] = y;
    }
    ptx_put64(w, R64(i->o[0]), t);
}
/* mode: 0 by selectors, 1 f4e, 2 b4e, 3 rc8, 4 ecl, 5 ecr, 6 rc16 */
static void prmt(ptx_warp *w, const ptx_ins *i) {
    const uint32_t *a = R32(i->o[1]), *b = R32(i->o[2]), *c = R32(i->o[3]);
    uint32_t t[32];
    LANES {
        uint64_t both = (uint64_t)b[l] << 32 | a[l];
        uint32_t s = c[l] & 3, r = 0;
        for (uint32_t k = 0; k < 4; k++) {
            uint32_t pick = i->mode == 0   ? c[l] >> 4 * k & 15
                            : i->mode == 1 ? s + k
                            : i->mode == 2 ? (s - k) & 7
                            : i->mode == 3 ? s
                            : i->mode == 4 ? (k < s ? s : k)
                            : i->mode == 5 ? (k > s ? s : k)
                                           : (s & 1) * 2 + (k & 1);
            uint32_t byte = (uint32_t)(both >> 8 * (pick & 7)) & 255;
            if (i->mode == 0 && pick & 8) byte = byte & 128 ? 255 : 0;
            r |= byte << 8 * k;
        }
        t[l] = r;
    }
    ptx_put32(w, R32(i->o[0]), t);
}
#define SELP(T) \
    static void selp_##T(ptx_warp *w, const ptx_ins *i) { \
        const STORE_##T *a = R_##T(i->o[1]), *b = R_##T(i->o[2]); \
        uint32_t p = RP(i->o[3]) ^ (i->mode & 4 ? ~0u : 0); \
        STORE_##T t[32]; \
        LANES t[l] = p >> l & 1 ? a[l] : b[l]; \
        PUT_##T(w, R_##T(i->o[0]), t); \
    }
SELP(u32)
SELP(u64)
static void slct_u32(ptx_warp *w, const ptx_ins *i) {
    const uint32_t *a = R32(i->o[1]), *b = R32(i->o[2]), *c = R32(i->o[3]);
    uint32_t t[32];
    LANES t[l] = (int32_t)c[l] >= 0 ? a[l] : b[l];
    ptx_put32(w, R32(i->o[0]), t);
}
/* mode: bit 0 a is signed, bit 1 b is signed, bit 2 the upper half of b (dp2a.hi) */
static void dp4a(ptx_warp *w, const ptx_ins *i) {
    const uint32_t *a = R32(i->o[1]), *b = R32(i->o[2]), *c = R32(i->o[3]);
    uint32_t t[32];
    LANES {
        uint32_t s = c[l];
        for (int k = 0; k < 4; k++) {
            int32_t x = i->mode & 1 ? (int8_t)(a[l] >> 8 * k) : (uint8_t)(a[l] >> 8 * k);
            int32_t y = i->mode & 2 ? (int8_t)(b[l] >> 8 * k) : (uint8_t)(b[l] >> 8 * k);
            s += (uint32_t)(x * y);
        }
        t[l] = s;
    }
    ptx_put32(w, R32(i->o[0]), t);
}
static void dp2a(ptx_warp *w, const ptx_ins *i) {
    const uint32_t *a = R32(i->o[1]), *b = R32(i->o[2]), *c = R32(i->o[3]);
    uint32_t t[32];
    LANES {
        uint32_t s = c[l], y2 = i->mode & 4 ? b[l] >> 16 : b[l];
        for (int k = 0; k < 2; k++) {
            int32_t x = i->mode & 1 ? (int16_t)(a[l] >> 16 * k) : (uint16_t)(a[l] >> 16 * k);
            int32_t y = i->mode & 2 ? (int8_t)(y2 >> 8 * k) : (uint8_t)(y2 >> 8 * k);
            s += (uint32_t)(x * y);
        }
        t[l] = s;
    }
    ptx_put32(w, R32(i->o[0]), t);
}
static void lop3(ptx_warp *w, const ptx_ins *i) {
    const uint32_t *a = R32(i->o[1]), *b = R32(i->o[2]), *c = R32(i->o[3]), *table = R32(i->o[4]);
    uint32_t t[32];
    LANES {
        uint32_t r = 0;
        for (int k = 0; k < 8; k++)
            if (table[0] >> k & 1) r |= (k & 4 ? a[l] : ~a[l]) & (k & 2 ? b[l] : ~b[l]) & (k & 1 ? c[l] : ~c[l]);
        t[l] = r;
    }
    ptx_put32(w, R32(i->o[0]), t);
}

static void and_pred(ptx_warp *w, const ptx_ins *i) { ptx_putp(w, i->o[0], RP(i->o[1]) & RP(i->o[2])); }
static void or_pred(ptx_warp *w, const ptx_ins *i) { ptx_putp(w, i->o[0], RP(i->o[1]) | RP(i->o[2])); }
static void xor_pred(ptx_warp *w, const ptx_ins *i) { ptx_putp(w, i->o[0], RP(i->o[1]) ^ RP(i->o[2])); }
static void not_pred(ptx_warp *w, const ptx_ins *i) { ptx_putp(w, i->o[0], ~RP(i->o[1])); }
static void mov_pred(ptx_warp *w, const ptx_ins *i) { ptx_putp(w, i->o[0], RP(i->o[1])); }

ALL(DEFC, eq, x == y)
ALL(DEFC, ne, x != y)
ALL(DEFC, lt, x < y)
ALL(DEFC, le, x <= y)
ALL(DEFC, gt, x > y)
ALL(DEFC, ge, x >= y)

/* the same function for every type of a width */
#define SAME(op, s16, s32, s64, f16, f32, f64) \
    {op ".u16", s16, f16, 0}, {op ".s16", s16, f16, 0}, {op ".b16", s16, f16, 0}, {op ".u32", s32, f32, 0}, {op ".s32", s32, f32, 0}, \
        {op ".b32", s32, f32, 0}, {op ".u64", s64, f64, 0}, {op ".s64", s64, f64, 0}, {op ".b64", s64, f64, 0}
#define BOTH(op, s16, s32, s64, fn) \
    {op ".u16", s16, fn##_u16, 0}, {op ".s16", s16, fn##_s16, 0}, {op ".u32", s32, fn##_u32, 0}, {op ".s32", s32, fn##_s32, 0}, \
        {op ".u64", s64, fn##_u64, 0}, {op ".s64", s64, fn##_s64, 0}
#define SIGNED(op, s16, s32, s64, fn) {op ".s16", s16, fn##_s16, 0}, {op ".s32", s32, fn##_s32, 0}, {op ".s64", s64, fn##_s64, 0}
#define SETP(cmp, fn) \
    BOTH("setp." cmp, "p,hh", "p,ww", "p,qq", fn), {"setp." cmp ".b16", "p,hh", fn##_u16, 0}, {"setp." cmp ".b32", "p,ww", fn##_u32, 0}, \
        {"setp." cmp ".b64", "p,qq", fn##_u64, 0}

const ptx_row ptx_rows_int[] = {
    SAME("add", "h,hh", "w,ww", "q,qq", add_u16, add_u32, add_u64),
    SAME("sub", "h,hh", "w,ww", "q,qq", sub_u16, sub_u32, sub_u64),
    SAME("mul.lo", "h,hh", "w,ww", "q,qq", mul_u16, mul_u32, mul_u64),
    SAME("mad.lo", "h,hhh", "w,www", "q,qqq", mad_u16, mad_u32, mad_u64),
    BOTH("mul.hi", "h,hh", "w,ww", "q,qq", mulhi),
    {"mad.hi.u32", "w,www", madhi_u32, 0}, {"mad.hi.s32", "w,www", madhi_s32, 0},
    {"mad.hi.u64", "q,qqq", madhi_u64, 0}, {"mad.hi.s64", "q,qqq", madhi_s64, 0},
    {"mul.wide.u16", "w,hh", mulwide_u16, 0}, {"mul.wide.s16", "w,hh", mulwide_s16, 0},
    {"mul.wide.u32", "q,ww", mulwide_u32, 0}, {"mul.wide.s32", "q,ww", mulwide_s32, 0},
    {"mad.wide.u16", "w,hhw", madwide_u16, 0}, {"mad.wide.s16", "w,hhw", madwide_s16, 0},
    {"mad.wide.u32", "q,wwq", madwide_u32, 0}, {"mad.wide.s32", "q,wwq", madwide_s32, 0},
    {"mul24.lo.u32", "w,ww", mul24_u32, 0}, {"mul24.lo.s32", "w,ww", mul24_s32, 0},
    {"sad.u32", "w,www", sad_u32, 0}, {"sad.s32", "w,www", sad_s32, 0},
    BOTH("div", "h,hh", "w,ww", "q,qq", div), BOTH("rem", "h,hh", "w,ww", "q,qq", rem),
    BOTH("min", "h,hh", "w,ww", "q,qq", min), BOTH("max", "h,hh", "w,ww", "q,qq", max),
    SIGNED("neg", "h,h", "w,w", "q,q", neg), SIGNED("abs", "h,h", "w,w", "q,q", abs),
    SAME("and", "h,hh", "w,ww", "q,qq", and_u16, and_u32, and_u64),
    SAME("or", "h,hh", "w,ww", "q,qq", or_u16, or_u32, or_u64),
    SAME("xor", "h,hh", "w,ww", "q,qq", xor_u16, xor_u32, xor_u64),
    SAME("not", "h,h", "w,w", "q,q", not_u16, not_u32, not_u64),
    SAME("cnot", "h,h", "w,w", "q,q", cnot_u16, cnot_u32, cnot_u64),
    SAME("mov", "h,h", "w,w", "q,q", mov_u16, mov_u32, mov_u64),
    {"mov.f32", "w,w", mov_u32, 0}, {"mov.f64", "q,q", mov_u64, 0}, {"mov.f16", "h,h", mov_u16, 0}, {"mov.f16x2", "w,w", mov_u32, 0},
    SAME("shl", "h,hw", "w,ww", "q,qw", shl_u16, shl_u32, shl_u64),
    BOTH("shr", "h,hw", "w,ww", "q,qw", shr),
    {"shr.b16", "h,hw", shr_u16, 0}, {"shr.b32", "w,ww", shr_u32, 0}, {"shr.b64", "q,qw", shr_u64, 0},
    {"shf.l.wrap.b32", "w,www", shflw_u32, 0}, {"shf.l.clamp.b32", "w,www", shflc_u32, 0},
    {"shf.r.wrap.b32", "w,www", shfrw_u32, 0}, {"shf.r.clamp.b32", "w,www", shfrc_u32, 0},
    {"bfe.u32", "w,www", bfe_u32, 0}, {"bfe.s32", "w,www", bfe_s32, 0},
    {"bfe.u64", "q,qww", bfe_u64, 0}, {"bfe.s64", "q,qww", bfe_s64, 0},
    {"bfi.b32", "w,wwww", bfi_u32, 0}, {"bfi.b64", "q,qqww", bfi_u64, 0},
    {"popc.b32", "w,w", popc_u32, 0}, {"popc.b64", "w,q", popc_u64, 0},
    {"clz.b32", "w,w", clz_u32, 0}, {"clz.b64", "w,q", clz_u64, 0},
    {"bfind.u32", "w,w", bfind_u32, 0}, {"bfind.s32", "w,w", bfind_s32, 0}, {"bfind.u64", "w,q", bfind_u64, 0},
    {"brev.b32", "w,w", brev_u32, 0}, {"brev.b64", "q,q", brev_u64, 0},
    {"prmt.b32", "w,www", prmt, 0}, {"prmt.b32.f4e", "w,www", prmt, 1}, {"prmt.b32.b4e", "w,www", prmt, 2},
    {"prmt.b32.rc8", "w,www", prmt, 3}, {"prmt.b32.ecl", "w,www", prmt, 4}, {"prmt.b32.ecr", "w,www", prmt, 5},
    {"prmt.b32.rc16", "w,www", prmt, 6},
    SAME("selp", "h,hhp", "w,wwp", "q,qqp", selp_u32, selp_u32, selp_u64),
    {"selp.f32", "w,wwp", selp_u32, 0}, {"selp.f64", "q,qqp", selp_u64, 0}, {"selp.f16", "h,hhp", selp_u32, 0},
    {"slct.u32.s32", "w,www", slct_u32, 0}, {"slct.s32.s32", "w,www", slct_u32, 0}, {"slct.b32.s32", "w,www", slct_u32, 0},
    {"slct.f32.s32", "w,www", slct_u32, 0},
    {"dp4a.u32.u32", "w,www", dp4a, 0}, {"dp4a.s32.u32", "w,www", dp4a, 1}, {"dp4a.u32.s32", "w,www", dp4a, 2},
    {"dp4a.s32.s32", "w,www", dp4a, 3},
    {"dp2a.lo.u32.u32", "w,www", dp2a, 0}, {"dp2a.lo.s32.u32", "w,www", dp2a, 1}, {"dp2a.lo.u32.s32", "w,www", dp2a, 2},
    {"dp2a.lo.s32.s32", "w,www", dp2a, 3}, {"dp2a.hi.u32.u32", "w,www", dp2a, 4}, {"dp2a.hi.s32.u32", "w,www", dp2a, 5},
    {"dp2a.hi.u32.s32", "w,www", dp2a, 6}, {"dp2a.hi.s32.s32", "w,www", dp2a, 7},
    {"lop3.b32", "w,wwww", lop3, 0},
    {"and.pred", "p,pp", and_pred, 0}, {"or.pred", "p,pp", or_pred, 0}, {"xor.pred", "p,pp", xor_pred, 0},
    {"not.pred", "p,p", not_pred, 0}, {"mov.pred", "p,p", mov_pred, 0},
    SETP("eq", eq), SETP("ne", ne), SETP("lt", lt), SETP("le", le), SETP("gt", gt), SETP("ge", ge),
    {"setp.lo.u32", "p,ww", lt_u32, 0}, {"setp.ls.u32", "p,ww", le_u32, 0}, {"setp.hi.u32", "p,ww", gt_u32, 0}, {"setp.hs.u32", "p,ww", ge_u32, 0},
    {"setp.lo.u64", "p,qq", lt_u64, 0}, {"setp.ls.u64", "p,qq", le_u64, 0}, {"setp.hi.u64", "p,qq", gt_u64, 0}, {"setp.hs.u64", "p,qq", ge_u64, 0},
    {0, 0, 0, 0},
};
