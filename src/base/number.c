/* number.c: decimal <-> double, exactly, whatever the locale and the C library.
 *
 * Owns:  both directions, by integers of any length (infer__big). Fast where 64 bits do.
 * Rules: no memory, no libm. Digits beyond 800 are read as one non-zero digit: the longest exact decimal of a double,
 *        or of a midpoint between two, is shorter.
 * Method: Clinger, How to read floating point numbers accurately (PLDI 1990): an estimate, then exact comparison with
 *        the midpoints next to it.
 * Start: infer__double_parse.
 */
#include "base.h"

enum { INFER__BIG_WORDS = 128, INFER__DECIMAL_DIGITS = 800, INFER__DECIMAL_ENOUGH = 40 };
/* An integer: sum of w[i] * 2^(32 i), n words, the highest not 0. 2^4096 is far above any value here:
 * 800 digits * 2^1075 has 3734 bits. */
typedef struct infer__big {
    uint32_t w[INFER__BIG_WORDS];
    int n;
} infer__big;

/* b = b * f + add. */
static void infer__big_muladd(infer__big *b, uint32_t f, uint32_t add) {
    uint64_t carry = add;
    int i;
    for (i = 0; i < b->n; i++) {
        carry += (uint64_t)b->w[i] * f;
        b->w[i] = (uint32_t)carry;
        carry >>= 32;
    }
    if (carry && b->n < INFER__BIG_WORDS) b->w[b->n++] = (uint32_t)carry;
}

static void infer__big_set(infer__big *b, uint64_t x) {
    b->n = 0;
    if (x) b->w[b->n++] = (uint32_t)x;
    if (x >> 32) b->w[b->n++] = (uint32_t)(x >> 32);
}

static void infer__big_pow5(infer__big *b, int e) { /* b *= 5^e */
    for (; e >= 13; e -= 13) infer__big_muladd(b, 1220703125u, 0);
    for (; e > 0; e--) infer__big_muladd(b, 5, 0);
}

static void infer__big_shift(infer__big *b, int bits) { /* b *= 2^bits */
    for (; bits >= 31; bits -= 31) infer__big_muladd(b, 0x80000000u, 0);
    infer__big_muladd(b, 1u << bits, 0);
}

static int infer__big_compare(const infer__big *a, const infer__big *b) {
    int i;
    if (a->n != b->n) return a->n < b->n ? -1 : 1;
    for (i = a->n - 1; i >= 0; i--) if (a->w[i] != b->w[i]) return a->w[i] < b->w[i] ? -1 : 1;
    return 0;
}

/* b /= d; returns the rest. */
static uint32_t infer__big_divide(infer__big *b, uint32_t d) {
    uint64_t rest = 0;
    int i;
    for (i = b->n - 1; i >= 0; i--) {
        rest = rest << 32 | b->w[i];
        b->w[i] = (uint32_t)(rest / d);
        rest %= d;
    }
    while (b->n > 0 && b->w[b->n - 1] == 0) b->n--;
    return (uint32_t)rest;
}

/* The sign of digits * 10^e10 - m * 2^e2. */
static int infer__decimal_compare(const char *digits, int n_digits, int e10, uint64_t m, int e2) {
    infer__big a, b;
    uint32_t nine, unit;
    int i = 0;
    infer__big_set(&a, 0);
    while (i < n_digits) { /* nine digits at a time: 800 of them cost enough */
        for (nine = 0, unit = 1; i < n_digits && unit < 1000000000u; i++, unit *= 10)
            nine = nine * 10 + (uint32_t)(digits[i] - '0');
        infer__big_muladd(&a, unit, nine);
    }
    infer__big_set(&b, m);
    if (e10 > 0) infer__big_pow5(&a, e10); else infer__big_pow5(&b, -e10);
    e2 -= e10; /* 10^e = 5^e 2^e */
    if (e2 > 0) infer__big_shift(&b, e2); else infer__big_shift(&a, -e2);
    return infer__big_compare(&a, &b);
}

/* The sign of digits * 10^e10 - the double of these bits (finite, positive); half = 1: than the middle between it and
 * the next one. */
static int infer__decimal_side(const char *digits, int n_digits, int e10, uint64_t bits, int half) {
    uint64_t m = bits & (((uint64_t)1 << 52) - 1);
    int e = (int)(bits >> 52);
    if (e) m |= (uint64_t)1 << 52; else e = 1;
    return infer__decimal_compare(digits, n_digits, e10, half ? 2 * m + 1 : m, e - 1075 - half);
}

static const double INFER__TENS[23] = { 1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13,
                                        1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };

/* digits (no leading zero, none at the end unless n_digits is 1) * 10^e10 to the nearest double. */
static double infer__decimal_round(const char *digits, int n_digits, int e10) {
    const uint64_t top = (uint64_t)0x7ff << 52; /* infinity */
    uint64_t x = 0, low = 0, high = top, guess;
    volatile double f; /* x87 must not keep more bits */
    double out;
    int i, e = e10, side;
    for (i = 0; i < n_digits; i++) {
        if (i < 18) x = x * 10 + (uint64_t)(digits[i] - '0');
        else e++;
    }
    f = (double)x;
    if (n_digits <= 15 && e10 >= -22 && e10 <= 22) { /* both parts are exact */
        f = e10 < 0 ? f / INFER__TENS[-e10] : f * INFER__TENS[e10];
        return f;
    }
    if (n_digits + e10 > 310) { memcpy(&out, &top, 8); return out; }
    if (n_digits + e10 < -325) return 0;
    if (n_digits >
        INFER__DECIMAL_ENOUGH) { /* the first digits decide, unless a double or a midpoint is just above them */
        char above[INFER__DECIMAL_ENOUGH];
        double under;
        memcpy(above, digits, sizeof above);
        for (i = INFER__DECIMAL_ENOUGH - 1; i > 0 && above[i] == '9'; i--) above[i] = '0';
        e = e10 + n_digits - INFER__DECIMAL_ENOUGH;
        if (above[i] != '9') {
            above[i]++;
            under = infer__decimal_round(digits, INFER__DECIMAL_ENOUGH, e);
            out = infer__decimal_round(above, INFER__DECIMAL_ENOUGH, e);
            if (memcmp(&under, &out, sizeof out) == 0) return out;
        }
        e = e10 + (n_digits > 18 ? n_digits - 18 : 0);
    }
    for (; e > 0; e -= INFER__MIN(e, 22)) f = f * INFER__TENS[INFER__MIN(e, 22)];
    for (; e < 0; e += INFER__MIN(-e, 22)) f = f / INFER__TENS[INFER__MIN(-e, 22)];
    out = f;
    memcpy(&guess, &out, 8);
    /* The largest double not above it: the bits of positive doubles are in their order. The estimate is off by some 20
     * roundings at most; search farther only where that does not hold (at the smallest doubles). */
    if (guess > 64 && guess < top - 64) {
        if (infer__decimal_side(digits, n_digits, e10, guess - 32, 0) >= 0) low = guess - 32;
        if (infer__decimal_side(digits, n_digits, e10, guess + 32, 0) < 0) high = guess + 32;
    }
    while (high - low > 1) {
        uint64_t mid = low + (high - low) / 2;
        if (infer__decimal_side(digits, n_digits, e10, mid, 0) >= 0) low = mid; else high = mid;
    }
    side = infer__decimal_side(digits, n_digits, e10, low, 1);
    if (side > 0 || (side == 0 && (low & 1))) low++;
    memcpy(&out, &low, 8);
    return out;
}

static double infer__double_parse(const char *s, size_t n, size_t *len) {
    char digits[INFER__DECIMAL_DIGITS + 1];
    int n_digits = 0, negative, seen = 0;
    int64_t e10 = 0, e = 0;
    size_t at = 0, end;
    double x;
    *len = 0;
    negative = n > 0 && s[0] == '-';
    if (n > 0 && (s[0] == '-' || s[0] == '+')) at++;
    for (e = 0; at < n; at++) { /* e = 1 after the point */
        if (s[at] == '.' && !e) { e = 1; continue; }
        if (s[at] < '0' || s[at] > '9') break;
        seen = 1;
        if (e) e10--;
        if (n_digits == 0 && s[at] == '0') continue;
        if (n_digits < INFER__DECIMAL_DIGITS) digits[n_digits++] = s[at];
        else {
            if (n_digits == INFER__DECIMAL_DIGITS) digits[n_digits++] = '0';
            if (s[at] != '0') digits[INFER__DECIMAL_DIGITS] = '1';
            e10++;
        }
    }
    if (!seen) return 0;
    if (n_digits > INFER__DECIMAL_DIGITS) e10--; /* the one that stands for the rest */
    end = at;
    if (at < n && (s[at] == 'e' || s[at] == 'E')) {
        int minus;
        at++;
        minus = at < n && s[at] == '-';
        if (at < n && (s[at] == '-' || s[at] == '+')) at++;
        if (at < n && s[at] >= '0' && s[at] <= '9') {
            for (e = 0; at < n && s[at] >= '0' && s[at] <= '9'; at++) if (e < 100000000) e = e * 10 + (s[at] - '0');
            e10 += minus ? -e : e;
            end = at;
        }
    }
    *len = end;
    while (n_digits > 1 && digits[n_digits - 1] == '0') { n_digits--; e10++; }
    if (n_digits == 0) x = 0;
    else x = infer__decimal_round(digits, n_digits, e10 > 100000 ? 100000 : e10 < -100000 ? -100000 : (int)e10);
    return negative ? -x : x;
}

/* ---- double -> decimal ------------------------------------------------------------------------------- */

/* All decimal digits of m * 2^e to out (800 bytes are enough), their number to *n_digits. Returns the exponent of ten
 * after the last one. */
static int infer__double_digits(uint64_t m, int e, char *out, int *n_digits) {
    infer__big b;
    int n = 0, i, e10 = e < 0 ? e : 0;
    infer__big_set(&b, m);
    if (e < 0) infer__big_pow5(&b, -e); else infer__big_shift(&b, e);
    while (b.n > 0) { /* lowest first */
        uint32_t nine = infer__big_divide(&b, 1000000000u);
        for (i = 0; i < 9 && (b.n > 0 || nine > 0); i++, nine /= 10) out[n++] = (char)('0' + nine % 10);
    }
    for (i = 0; i < n / 2; i++) { char c = out[i]; out[i] = out[n - 1 - i]; out[n - 1 - i] = c; }
    *n_digits = n;
    return e10;
}

/* The first `keep` of n digits, rounded to nearest, ties to even. Returns how many powers of ten it grew (0, 1). */
static int infer__digits_round(const char *digits, int n, int keep, char *out) {
    int i, up;
    memcpy(out, digits, (size_t)keep);
    up = digits[keep] > '5';
    if (digits[keep] == '5') {
        for (i = keep + 1; i < n && digits[i] == '0'; i++) {
        }
        up = i < n || (out[keep - 1] & 1);
    }
    for (i = keep - 1; up && i >= 0; i--) {
        up = out[i] == '9';
        out[i] = (char)(up ? '0' : out[i] + 1);
    }
    if (up) out[0] = '1'; /* 99..9: the others are 0 now */
    return up;
}

static size_t infer__double_text(double x, char out[32]) {
    char digits[INFER__DECIMAL_DIGITS], d[24] = "";
    uint64_t bits;
    int n, e10, keep, least = 15, at, i;
    size_t len = 0;
    memcpy(&bits, &x, 8);
    if ((bits >> 52 & 0x7ff) == 0x7ff)
        return infer__format(out, 32, "%s", bits << 12 ? "nan" : bits >> 63 ? "-inf" : "inf");
    if (bits >> 63) out[len++] = '-';
    if (bits << 1 == 0) return len + infer__format(out + len, 32 - len, "0.0");
    {
        int e = (int)(bits >> 52 & 0x7ff);
        uint64_t m = bits & (((uint64_t)1 << 52) - 1);
        if (e) m |= (uint64_t)1 << 52; else e = least = 1; /* subnormal: few digits may do */
        e10 = infer__double_digits(m, e - 1075, digits, &n);
    }
    at = n + e10; /* the point stands after this many digits */
    for (keep = least; keep < 17 && keep < n; keep++) { /* up to 15 digits always come back; then the fewest that do */
        int grown = infer__digits_round(digits, n, keep, d);
        double back = infer__decimal_round(d, keep, at + grown - keep);
        uint64_t back_bits;
        memcpy(&back_bits, &back, 8);
        if (back_bits == (bits & ~((uint64_t)1 << 63))) break;
    }
    if (keep < n) at += infer__digits_round(digits, n, keep, d);
    else memcpy(d, digits, (size_t)(keep = n));
    while (keep > 1 && d[keep - 1] == '0') keep--;
    if (at > 16 || at < -3) {
        out[len++] = d[0];
        if (keep > 1) out[len++] = '.';
        for (i = 1; i < keep; i++) out[len++] = d[i];
        len += infer__format(out + len, 32 - len, "e%c%02d", at - 1 < 0 ? '-' : '+', at - 1 < 0 ? 1 - at : at - 1);
        return len;
    }
    if (at <= 0) {
        out[len++] = '0';
        out[len++] = '.';
        for (i = at; i < 0; i++) out[len++] = '0';
        for (i = 0; i < keep; i++) out[len++] = d[i];
    } else {
        for (i = 0; i < INFER__MAX(keep, at); i++) {
            if (i == at) out[len++] = '.';
            out[len++] = i < keep ? d[i] : '0';
        }
        if (keep <= at) { out[len++] = '.'; out[len++] = '0'; }
    }
    out[len] = 0;
    return len;
}

/* The exact decimal digits of x (finite, >= 0), with a leading zero: x = 0.d0d1d2... * 10^*point. Returns their
 * number; x = 0 gives "0", 1. */
static int infer__double_decimal(double x, char digits[INFER__DECIMAL_DIGITS + 1], int *point) {
    uint64_t m;
    int e, e10, n = 0;
    digits[0] = '0';
    *point = 1;
    memcpy(&m, &x, 8);
    if (m == 0) return 1;
    e = (int)(m >> 52 & 0x7ff);
    m &= ((uint64_t)1 << 52) - 1;
    if (e) m |= (uint64_t)1 << 52; else e = 1;
    e10 = infer__double_digits(m, e - 1075, digits + 1, &n);
    *point = n + 1 + e10;
    return n + 1;
}
/* The same in place, keep >= 1; the leading zero takes a carry. */
static void infer__digits_cut(char *digits, int n, int keep) {
    char out[INFER__DECIMAL_DIGITS + 1];
    if (keep >= n) return;
    infer__digits_round(digits, n, keep, out);
    memcpy(digits, out, (size_t)keep);
}

static size_t infer__double_fixed(double x, int precision, char out[700]) {
    char digits[INFER__DECIMAL_DIGITS + 1];
    int point, n = infer__double_decimal(x, digits, &point), keep = point + precision, i, from;
    size_t len = 0;
    if (keep >= 1) infer__digits_cut(digits, n, keep);
    n = keep < n ? (keep < 0 ? 0 : keep) : n;
    from = point > 1 && digits[0] == '0' ? 1 : 0;
    if (point < 1) out[len++] = '0';
    for (i = from; i < point; i++) out[len++] = i < n ? digits[i] : '0';
    if (precision > 0) out[len++] = '.';
    for (i = point; i < point + precision; i++) out[len++] = i >= 0 && i < n ? digits[i] : '0';
    out[len] = 0;
    return len;
}

static size_t infer__double_scientific(double x, int precision, char out[700]) {
    char digits[INFER__DECIMAL_DIGITS + 1];
    int point, n = infer__double_decimal(x, digits, &point), i, e;
    size_t len = 0;
    infer__digits_cut(digits, n, precision + 2);
    i = digits[0] == '0' && n > 1; /* the first digit that counts */
    e = n > 1 ? point - 1 - i : 0;
    n = INFER__MIN(n, precision + 2);
    for (; precision >= 0; precision--, i++) {
        out[len++] = i < n ? digits[i] : '0';
        if (len == 1 && precision > 0) out[len++] = '.';
    }
    len += infer__format(out + len, 8, "e%c%02d", e < 0 ? '-' : '+', e < 0 ? -e : e);
    return len;
}
