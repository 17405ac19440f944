/* report.c: errors, the log, and the formatting of both.
 *
 * Owns:  formatting into a short clean text: one line of valid UTF-8 whatever bytes a name from a file or a caller
 *        holds. infer__format is for every text that the library makes: unlike snprintf it ignores the locale, needs no
 *        <stdio.h>, and is the same with every C library.
 * May not know: what the messages are about.
 * Invariant: output is always zero-terminated and never longer than the buffer.
 */
#include "base.h"

/* ---- formatting --------------------------------------------------------------------------------- */

typedef struct infer__out {
    char *at, *end; /* end = the last byte, kept for the terminator */
    int cut;        /* the output was truncated */
    size_t full;    /* length had everything fitted */
} infer__out;

static void infer__out_bytes(infer__out *o, const char *s, size_t n) {
    size_t room = (size_t)(o->end - o->at);
    o->full += n;
    if (n > room) {
        n = room;
        o->cut = 1;
    }
    if (n) memcpy(o->at, s, n);
    o->at += n;
}

static void infer__out_pad(infer__out *o, char c, int n) {
    while (n-- > 0) infer__out_bytes(o, &c, 1);
}

/* Digits of u in base 10 or 16, written backwards from end; returns the first. */
static char *infer__digits(char *end, uint64_t u, unsigned base, int upper) {
    do {
        unsigned d = (unsigned)(u % base);
        *--end = (char)(d < 10 ? '0' + d : (upper ? 'A' : 'a') + d - 10);
        u /= base;
    } while (u);
    return end;
}

/* A finite x > 0 as `digits` decimal digits d.ddd x 10^*exponent, in text[0 .. digits-1]. Right to about 15 digits:
 * enough for messages and for floats. */
static void infer__decimal(double x, int digits, char *text, int *exponent) {
    double unit = 1;
    uint64_t u, limit = 1;
    int e = 0, i;
    char *first;
    while (x >= 1e16) { x /= 1e16; e += 16; }
    while (x < 1e-16) { x *= 1e16; e -= 16; }
    while (x >= 10 * unit) { unit *= 10; e++; }
    if (x < 1) {
        while (x < 1) { x *= 10; e--; }
    }
    for (i = 0; i < digits; i++) limit *= 10;
    x /= unit; /* 1 <= x < 10, except for rounding */
    x *= (double)limit / 10;
    u = (uint64_t)x;
    if (x - (double)u > 0.5 || (x - (double)u == 0.5 && (u & 1))) u++; /* ties to even, as printf does */
    if (u >= limit) {
        u /= 10;
        e++;
    }
    first = infer__digits(text + digits, u, 10, 0);
    while (first > text) *--first = '0';
    *exponent = e;
}

/* %g, %f and %e of a double. */
static void infer__out_double(infer__out *o, double x, char kind, int precision, int plus) {
    char digits[24], e_text[8], *e_first;
    uint64_t bits;
    int e = 0, n, i, p = precision < 0 ? 6 : precision;
    memcpy(&bits, &x, 8);
    if (bits >> 63) {
        infer__out_bytes(o, "-", 1);
        bits &= UINT64_MAX >> 1;
        memcpy(&x, &bits, 8);
    } else if (plus) {
        infer__out_bytes(o, "+", 1);
    }
    if (bits >= 0x7ff0000000000000u) {
        infer__out_bytes(o, bits > 0x7ff0000000000000u ? "nan" : "inf", 3);
        return;
    }
    if (p > 17) p = 17;
    if (kind == 'g' && p == 0) p = 1;
    n = kind == 'g' ? p : p + 1; /* significant digits; for %f found below */
    memset(digits, 0, sizeof digits);
    if (bits >> 52 == 0) { /* zero; subnormals are shown as zero */
        memset(digits, '0', 18);
        n = INFER__MIN(n, 17);
    } else {
        if (kind == 'f') {
            infer__decimal(x, 17, digits, &e);
            n = e + 1 + p;
            if (n == 0 && strcmp(digits, "50000000000000000") > 0) { /* 0.06 with one place is 0.1 */
                digits[0] = '1';
                e++;
                n = 1;
            } else if (n > 0 && n < 17) {
                infer__decimal(x, n, digits, &e);
            }
            n = INFER__MIN(n, 17);
        } else {
            infer__decimal(x, INFER__MIN(n, 17), digits, &e);
            n = INFER__MIN(n, 17);
        }
    }
    if (kind == 'g' && (e < -4 || e >= p)) kind = 'E'; /* like %e, zeros dropped */
    if (kind == 'g' || kind == 'E') {
        while (n > 1 && digits[n - 1] == '0') n--;
        p = kind == 'E' ? n - 1 : INFER__MAX(n - 1 - e, 0);
    }
    if (kind == 'e' || kind == 'E') {
        infer__out_bytes(o, digits, 1);
        if (p) infer__out_bytes(o, ".", 1);
        for (i = 1; i <= p; i++) infer__out_bytes(o, i < n ? digits + i : "0", 1);
        infer__out_bytes(o, e < 0 ? "e-" : "e+", 2);
        e_first = infer__digits(e_text + sizeof e_text, (uint64_t)(e < 0 ? -e : e), 10, 0);
        if (e_text + sizeof e_text - e_first < 2) *--e_first = '0';
        infer__out_bytes(o, e_first, (size_t)(e_text + sizeof e_text - e_first));
        return;
    }
    if (e < 0) infer__out_bytes(o, "0", 1);
    for (i = 0; i <= e; i++) infer__out_bytes(o, i < n ? digits + i : "0", 1);
    if (p) infer__out_bytes(o, ".", 1);
    for (i = 1; i <= p; i++) {
        int at = e + i;
        infer__out_bytes(o, at >= 0 && at < n ? digits + at : "0", 1);
    }
}

/* One conversion: flags, width, precision and length as C99 7.19.6.1 describes them. */
typedef struct infer__spec {
    int left, zero, plus, alt, width, precision, wide; /* wide: 0 int, 1 long, 2 long long, 3 size_t, 4 int64_t */
    char kind;
} infer__spec;

static const char *infer__spec_parse(infer__spec *s, const char *f, int *star_width, int *star_precision) {
    memset(s, 0, sizeof *s);
    s->precision = -1;
    *star_width = *star_precision = 0;
    for (;; f++) {
        if (*f == '-') s->left = 1;
        else if (*f == '0') s->zero = 1;
        else if (*f == '+') s->plus = 1;
        else if (*f == '#') s->alt = 1;
        else break;
    }
    if (*f == '*') { *star_width = 1; f++; }
    else for (; *f >= '0' && *f <= '9'; f++) s->width = INFER__MIN(s->width * 10 + (*f - '0'), 999);
    if (*f == '.') {
        s->precision = 0;
        if (*++f == '*') { *star_precision = 1; f++; }
        else for (; *f >= '0' && *f <= '9'; f++) s->precision = INFER__MIN(s->precision * 10 + (*f - '0'), 999);
    }
    for (;; f++) {
        if (*f == 'l') s->wide++;
        else if (*f == 'z' || *f == 't') s->wide = 3;
        else if (*f == 'j') s->wide = 4;
        else if (*f == 'I' && f[1] == '6' && f[2] == '4') { s->wide = 4; f += 2; } /* Windows' PRIu64 */
        else if (*f != 'h') break;
    }
    s->kind = *f;
    return *f ? f + 1 : f;
}

static void infer__out_number(infer__out *o, const infer__spec *s, uint64_t u, char sign) {
    char text[32], *end = text + sizeof text;
    char *first = infer__digits(end, u, s->kind == 'x' || s->kind == 'X' || s->kind == 'p' ? 16 : 10, s->kind == 'X');
    int n = (int)(end - first), zeros = s->precision > n ? s->precision - n : 0, prefix = sign ? 1 : 0, pad;
    int hex = (s->alt && (s->kind == 'x' || s->kind == 'X')) || s->kind == 'p';
    pad = s->width - n - zeros - prefix - (hex ? 2 : 0);
    if (s->zero && !s->left && s->precision < 0 && pad > 0) {
        zeros = pad;
        pad = 0;
    }
    if (!s->left) infer__out_pad(o, ' ', pad);
    if (sign) infer__out_bytes(o, &sign, 1);
    if (hex) infer__out_bytes(o, "0x", 2);
    infer__out_pad(o, '0', zeros);
    infer__out_bytes(o, first, (size_t)n);
    if (s->left) infer__out_pad(o, ' ', pad);
}

static void infer__out_string(infer__out *o, const infer__spec *s, const char *text) {
    size_t n = 0;
    if (!text) text = "(null)";
    while ((s->precision < 0 || n < (size_t)s->precision) && text[n]) n++;
    if (!s->left) infer__out_pad(o, ' ', s->width - (int)INFER__MIN(n, 1000));
    infer__out_bytes(o, text, n);
    if (s->left) infer__out_pad(o, ' ', s->width - (int)INFER__MIN(n, 1000));
}

/* %f and its kin are written to a side buffer first, because their width is known only then. */
static void infer__out_padded_double(infer__out *o, const infer__spec *s, double x) {
    char text[400];
    infer__out side;
    int n;
    side.at = text;
    side.end = text + sizeof text - 1;
    side.cut = 0;
    side.full = 0;
    infer__out_double(&side, x, s->kind == 'G' ? 'g' : s->kind, s->precision, s->plus);
    n = (int)(side.at - text);
    if (!s->left) infer__out_pad(o, ' ', s->width - n);
    infer__out_bytes(o, text, (size_t)n);
    if (s->left) infer__out_pad(o, ' ', s->width - n);
}

static int infer__format_cut(char *dst, size_t cap, size_t *full, const char *f, va_list args) {
    infer__out o;
    infer__spec s;
    int star_width, star_precision;
    o.at = dst;
    o.end = dst + cap - 1;
    o.cut = 0;
    o.full = 0;
    while (*f) {
        const char *start = f;
        while (*f && *f != '%') f++;
        infer__out_bytes(&o, start, (size_t)(f - start));
        if (!*f) break;
        f = infer__spec_parse(&s, f + 1, &star_width, &star_precision);
        if (star_width) {
            s.width = va_arg(args, int);
            if (s.width < 0) { s.left = 1; s.width = s.width > -999 ? -s.width : 999; }
            s.width = INFER__MIN(s.width, 999);
        }
        if (star_precision) s.precision = va_arg(args, int);
        switch (s.kind) {
        case 'd': case 'i': {
            int64_t v = s.wide == 0 ? va_arg(args, int) : s.wide == 1 ? va_arg(args, long)
                      : s.wide == 2 ? va_arg(args, long long) : s.wide == 3 ? (int64_t)va_arg(args, ptrdiff_t)
                      : va_arg(args, int64_t);
            infer__out_number(&o, &s, v < 0 ? 0 - (uint64_t)v : (uint64_t)v, (char)(v < 0 ? '-' : s.plus ? '+' : 0));
            break;
        }
        case 'u': case 'x': case 'X': {
            uint64_t u = s.wide == 0 ? va_arg(args, unsigned) : s.wide == 1 ? va_arg(args, unsigned long)
                       : s.wide == 2 ? va_arg(args, unsigned long long) : s.wide == 3 ? va_arg(args, size_t)
                       : va_arg(args, uint64_t);
            infer__out_number(&o, &s, u, 0);
            break;
        }
        case 'p': infer__out_number(&o, &s, (uint64_t)(uintptr_t)va_arg(args, void *), 0); break;
        case 'g': case 'G': case 'f': case 'e': infer__out_padded_double(&o, &s, va_arg(args, double)); break;
        case 's': infer__out_string(&o, &s, va_arg(args, const char *)); break;
        case 'c': {
            char c = (char)va_arg(args, int);
            infer__out_bytes(&o, &c, 1);
            break;
        }
        case '%': infer__out_bytes(&o, "%", 1); break;
        default: infer__out_bytes(&o, "?", 1); break;
        }
    }
    *o.at = 0;
    *full = o.full;
    return o.cut;
}

static size_t infer__format(char *dst, size_t cap, const char *format, ...) {
    va_list args;
    size_t full = 0;
    if (cap == 0) return 0;
    va_start(args, format);
    infer__format_cut(dst, cap, &full, format, args);
    va_end(args);
    return full;
}

/* ---- clean text --------------------------------------------------------------------------------- */

/* Length of the UTF-8 character at s (n bytes are there), 0 when it is malformed, -1 when it is cut off by the end.
 * Well-formed sequences: Unicode Standard, table 3-7. */
static int infer__clean_char(const unsigned char *s, size_t n) {
    int len, i;
    unsigned low = 0x80, high = 0xbf;
    if (s[0] < 0x80) return 1;
    if (s[0] < 0xc2 || s[0] > 0xf4) return 0;
    len = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
    if (s[0] == 0xe0) low = 0xa0;
    if (s[0] == 0xed) high = 0x9f;
    if (s[0] == 0xf0) low = 0x90;
    if (s[0] == 0xf4) high = 0x8f;
    for (i = 1; i < len; i++) {
        if ((size_t)i >= n) return -1;
        if (s[i] < low || s[i] > high) return 0;
        low = 0x80;
        high = 0xbf;
    }
    return len;
}

/* Make s one line of valid UTF-8, in place; a character that was cut off at the end is dropped. */
static void infer__clean(char *s, int cut) {
    size_t n = strlen(s), i = 0;
    while (i < n) {
        int len = infer__clean_char((const unsigned char *)s + i, n - i);
        if (len < 0 && cut) {
            s[i] = 0;
            return;
        }
        if (len == 1 && ((unsigned char)s[i] < 0x20 || s[i] == 0x7f)) s[i] = '?';
        if (len <= 0) {
            s[i] = '?';
            len = 1;
        }
        i += (size_t)len;
    }
}

/* ---- errors and log ------------------------------------------------------------------------------ */

static infer_result infer__error(infer_error *err, infer_result code, const char *format, ...) {
    va_list args;
    size_t full;
    int cut;
    if (!err) return code;
    err->code = code;
    va_start(args, format);
    cut = infer__format_cut(err->message, sizeof err->message, &full, format, args);
    va_end(args);
    infer__clean(err->message, cut);
    return code;
}

static void infer__error_clear(infer_error *err) {
    if (!err) return;
    err->code = INFER_OK;
    err->message[0] = 0;
}

static void infer__log(const infer__report *r, int level, const char *format, ...) {
    char text[1000];
    va_list args;
    size_t full;
    int cut;
    if (!r || !r->log) return;
    va_start(args, format);
    cut = infer__format_cut(text, sizeof text, &full, format, args);
    va_end(args);
    infer__clean(text, cut);
    r->log(r->user, level, text);
}
