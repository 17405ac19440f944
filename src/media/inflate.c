/* inflate.c: zlib streams (RFC 1950) of deflate data (RFC 1951).
 *
 * Owns:  the bit reader, Huffman codes, blocks, the checksum of what comes out.
 * Rules: the size of the output is known before: more or less is an error, so nothing grows. Bits behind the end of
 *        the input read as zeros and are an error when they were used.
 */
#include "media.h"

enum { INFER__INFLATE_FAST = 10 }; /* codes up to so many bits are found by one lookup */
/* A canonical code. Symbols in the order of their codes, how many have each length, and a table by the next bits. */
typedef struct infer__inflate_code {
    uint16_t fast[1 << INFER__INFLATE_FAST]; /* symbol << 4 | length; 0 = longer, or none */
    uint16_t count[16], symbol[288];
} infer__inflate_code;

static void infer__inflate_refill(infer__inflate *z) {
    if (z->end - z->p >= 8) { /* 56 bits and more, of which those that are read again are the same */
        z->bits |= infer__load_u64(z->p) << z->n_bits;
        z->p += (63 - z->n_bits) >> 3;
        z->n_bits |= 56;
        return;
    }
    z->bits &= ((uint64_t)1 << z->n_bits) - 1; /* n_bits <= 56 here */
    while (z->n_bits < 56) {
        if (z->p < z->end) z->bits |= (uint64_t)*z->p++ << z->n_bits;
        else if (z->padded == 0 && z->next(z)) continue;
        else z->padded += 8;
        z->n_bits += 8;
    }
}
/* 1 when bits were used that the input does not have. */
INFER__INLINE int infer__inflate_past(const infer__inflate *z) { return z->n_bits < z->padded; }

INFER__INLINE unsigned infer__inflate_take(infer__inflate *z, unsigned n) { /* n <= 16, refilled before */
    unsigned v = (unsigned)(z->bits & (((uint64_t)1 << n) - 1));
    z->bits >>= n;
    z->n_bits -= n;
    return v;
}
static unsigned infer__inflate_need(infer__inflate *z, unsigned n) {
    if (z->n_bits < n) infer__inflate_refill(z);
    return infer__inflate_take(z, n);
}

/* Codes from their lengths. 0 when there are too many, or too few for more than one symbol of one bit. */
static int infer__inflate_build(infer__inflate_code *c, const uint8_t *lengths, int n) {
    uint16_t at[16];
    int i, bits, left = 1, code = 0, symbols = 0;
    memset(c, 0, sizeof *c);
    for (i = 0; i < n; i++) c->count[lengths[i]]++;
    symbols = n - c->count[0];
    c->count[0] = 0;
    for (at[0] = at[1] = 0, bits = 1; bits <= 15; bits++) {
        left = 2 * left - c->count[bits];
        if (left < 0) return 0;
        if (bits < 15) at[bits + 1] = (uint16_t)(at[bits] + c->count[bits]);
    }
    if (left > 0 && symbols > (c->count[1] == 1 ? 1 : 0)) return 0;
    for (i = 0; i < n; i++)
        if (lengths[i]) c->symbol[at[lengths[i]]++] = (uint16_t)i;
    for (i = 0, bits = 1; bits <= INFER__INFLATE_FAST; bits++, code <<= 1) {
        int k, j, end = i + c->count[bits];
        for (; i < end; i++, code++) { /* the code's first bit is read first: it is the lowest */
            for (k = 0, j = 0; j < bits; j++) k |= (code >> j & 1) << (bits - 1 - j);
            for (; k < 1 << INFER__INFLATE_FAST; k += 1 << bits)
                c->fast[k] = (uint16_t)(c->symbol[i] << 4 | bits);
        }
    }
    return 1;
}

/* The next symbol, or -1 when no code is that. At least 15 bits are there. */
INFER__INLINE int infer__inflate_symbol(infer__inflate *z, const infer__inflate_code *c) {
    unsigned e = c->fast[z->bits & ((1 << INFER__INFLATE_FAST) - 1)];
    int bits, code = 0, first = 0, index = 0;
    if (e) {
        infer__inflate_take(z, e & 15);
        return (int)(e >> 4);
    }
    for (bits = 1; bits <= 15; bits++) {
        code |= (int)infer__inflate_take(z, 1);
        if (code - first < c->count[bits]) return c->symbol[index + code - first];
        index += c->count[bits];
        first = (first + c->count[bits]) << 1;
        code <<= 1;
    }
    return -1;
}

/* The s-th length (0 .. 28) or distance (0 .. 29), behind which its extra bits are (RFC 1951, 3.2.5): they double every
 * `group` symbols, from the second group on. */
INFER__INLINE size_t infer__inflate_number(infer__inflate *z, unsigned s, unsigned group) {
    unsigned extra = s < 2 * group ? 0 : s / group - 1;
    return ((size_t)(s < 2 * group ? s : group + s % group) << extra) + infer__inflate_take(z, extra);
}

static const char infer__inflate_short[] = "the compressed data ends early";
static const char infer__inflate_long[] = "there is more compressed data than the picture has pixels";

static const char *infer__inflate_symbols(infer__inflate *z, const infer__inflate_code *literals,
                                          const infer__inflate_code *distances) {
    uint8_t *out = z->out;
    for (;;) {
        int s, d;
        size_t n, back;
        if (z->n_bits < 48) infer__inflate_refill(z);
        if (infer__inflate_past(z)) return infer__inflate_short;
        s = infer__inflate_symbol(z, literals);
        if (s < 256) {
            if (s < 0) return "a code that does not exist";
            if (z->at == z->size) return infer__inflate_long;
            out[z->at++] = (uint8_t)s;
            continue;
        }
        if (s == 256) return NULL;
        if (s > 285) return "a length that does not exist";
        n = s == 285 ? 258 : 3 + infer__inflate_number(z, (unsigned)s - 257, 4);
        if (z->n_bits < 32) infer__inflate_refill(z);
        d = infer__inflate_symbol(z, distances);
        if (d < 0 || d > 29) return "a distance that does not exist";
        back = 1 + infer__inflate_number(z, (unsigned)d, 2);
        if (back > z->at) return "a distance before the beginning";
        if (n > z->size - z->at) return infer__inflate_past(z) ? infer__inflate_short : infer__inflate_long;
        if (back >= n) memcpy(out + z->at, out + z->at - back, n);
        else for (d = 0; d < (int)n; d++) out[z->at + (size_t)d] = out[z->at + (size_t)d - back];
        z->at += n;
    }
}

static const char *infer__inflate_stored(infer__inflate *z) {
    unsigned n, other;
    infer__inflate_take(z, z->n_bits & 7);
    n = infer__inflate_need(z, 16);
    other = infer__inflate_need(z, 16);
    if (infer__inflate_past(z)) return infer__inflate_short;
    if ((n ^ other) != 0xffff) return "the length of a stored block is damaged";
    if (n > z->size - z->at) return infer__inflate_long;
    while (n > 0 && z->n_bits > z->padded) { /* what was read ahead */
        z->out[z->at++] = (uint8_t)infer__inflate_take(z, 8);
        n--;
    }
    if (n > 0) z->bits = 0; /* the reader's next bytes again, above n_bits */
    while (n > 0) {
        size_t part = INFER__MIN(n, (size_t)(z->end - z->p));
        if (part == 0 && (z->padded || !z->next(z))) return infer__inflate_short;
        if (part) memcpy(z->out + z->at, z->p, part);
        z->p += part;
        z->at += part;
        n -= (unsigned)part;
    }
    return NULL;
}

/* The codes of a block: those that the RFC fixes, or those that it brings. */
static const char *infer__inflate_codes(infer__inflate *z, int fixed, infer__inflate_code *a, infer__inflate_code *b) {
    static const uint8_t order[19] = { 16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15 };
    static const char bad[] = "the codes of a block are damaged";
    uint8_t lengths[288 + 32];
    int i, n = 288, n_distances = 30;
    if (fixed) {
        for (i = 0; i < 288; i++) lengths[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
        memset(lengths + 288, 5, 32);
        n_distances = 32;
    } else {
        int codes;
        n = 257 + (int)infer__inflate_need(z, 5);
        n_distances = 1 + (int)infer__inflate_need(z, 5);
        codes = 4 + (int)infer__inflate_need(z, 4);
        if (n > 286 || n_distances > 30) return bad;
        memset(lengths, 0, 19);
        for (i = 0; i < codes; i++) lengths[order[i]] = (uint8_t)infer__inflate_need(z, 3);
        if (!infer__inflate_build(a, lengths, 19)) return bad;
        for (i = 0; i < n + n_distances;) {
            int s, repeat = 1, value = 0;
            if (z->n_bits < 32) infer__inflate_refill(z);
            if (infer__inflate_past(z)) return infer__inflate_short;
            s = infer__inflate_symbol(z, a);
            if (s < 0 || (s == 16 && i == 0)) return bad;
            if (s < 16) value = s;
            else if (s == 16) value = lengths[i - 1], repeat = 3 + (int)infer__inflate_take(z, 2);
            else repeat = s == 17 ? 3 + (int)infer__inflate_take(z, 3) : 11 + (int)infer__inflate_take(z, 7);
            if (repeat > n + n_distances - i) return bad;
            memset(lengths + i, value, (size_t)repeat);
            i += repeat;
        }
        if (lengths[256] == 0) return "a block has no end";
    }
    if (!infer__inflate_build(a, lengths, n) || !infer__inflate_build(b, lengths + n, n_distances)) return bad;
    return NULL;
}

static uint32_t infer__adler(const uint8_t *p, size_t n) {
    uint32_t a = 1, b = 0;
    while (n > 0) {
        size_t part = INFER__MIN(n, 5552); /* sums stay below 2^32 (RFC 1950, 8.2) */
        n -= part;
        for (; part > 0; part--) b += a += *p++;
        a %= 65521;
        b %= 65521;
    }
    return b << 16 | a;
}

static const char *infer__inflate_run(infer__inflate *z) {
    infer__inflate_code literals, distances;
    const char *why = NULL;
    unsigned method = infer__inflate_need(z, 8), flags = infer__inflate_need(z, 8), last, kind;
    int fixed = 0; /* the codes are those: a block of them may take no more than 10 bits */
    uint32_t sum;
    if (infer__inflate_past(z)) return infer__inflate_short;
    if ((method & 15) != 8 || method >> 4 > 7 || (method << 8 | flags) % 31 != 0 || flags & 32)
        return "the header of the compressed data is damaged";
    do {
        last = infer__inflate_need(z, 1);
        kind = infer__inflate_need(z, 2);
        if (infer__inflate_past(z)) return infer__inflate_short;
        if (!infer__watch_work(z->watch, 1024)) return "";
        if (kind == 3) return "a kind of block that does not exist";
        if (kind == 0) why = infer__inflate_stored(z);
        else if (kind == 2 || !fixed) why = infer__inflate_codes(z, kind == 1, &literals, &distances);
        if (kind != 0) fixed = kind == 1;
        if (!why && kind != 0) why = infer__inflate_symbols(z, &literals, &distances);
        if (!why && infer__inflate_past(z)) why = infer__inflate_short;
        if (why) return why;
    } while (!last);
    if (z->at < z->size) return "the compressed data has less than the picture's pixels";
    infer__inflate_take(z, z->n_bits & 7);
    for (sum = 0, kind = 0; kind < 4; kind++) sum = sum << 8 | infer__inflate_need(z, 8);
    if (infer__inflate_past(z)) return infer__inflate_short;
    return sum == infer__adler(z->out, z->size) ? NULL : "the checksum of the pixels is wrong";
}
