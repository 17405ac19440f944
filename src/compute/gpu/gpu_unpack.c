/* gpu_unpack.c: the texts of GPU kernels as kernels_embed.h holds them: LZMA in printable digits, PTX with ranks for
 *         names.
 *
 * Owns:  infer__text_unpack, infer__ptx_names_write. tools/embed_kernels.py packs.
 * Format: 5 digits to the base 85 are 4 bytes, the highest first. The bytes are a raw LZMA stream with lc 3, lp 0, pb 0
 *        (7-zip.org/sdk.html, "LZMA specification"): bits, each coded by the probability that what was met before gives
 *        it (a range coder), that say: a character, or a copy of earlier ones: how many, from how far back, or from one
 *        of the last four distances.
 * Rules: the length of the text is known, and what does not give exactly that is refused: nothing is read or written
 *        outside, whatever the digits are.
 */
#include "gpu.h"

#ifndef INFER_NO_GPU

/* ---- digits -> bytes -------------------------------------------------------------------------------------------- */

/* Reads the packed bytes of a text out of its printable pieces. */
typedef struct infer__unpacker {
    const infer__kernel_text *text;
    const char *at;    /* in the piece before `piece` */
    int32_t piece;     /* the next one */
    int32_t in_group;  /* bytes of `group` that were not yet taken */
    uint32_t group;    /* four bytes, from five digits */
    uint32_t left;     /* packed bytes that were not yet taken */
    int8_t value[128]; /* of a digit; -1 = none */
} infer__unpacker;

static void infer__unpacker_open(infer__unpacker *u, const infer__kernel_text *text) {
    static const char digits[] =
        "#$&()+,-.0123456789:;<=>@ABCDEFGHIJKLMNOPQRSTUVWXYZ[]^_abcdefghijklmnopqrstuvwxyz{|}~";
    int i;
    memset(u, 0, sizeof *u);
    memset(u->value, -1, sizeof u->value);
    for (i = 0; digits[i]; i++) u->value[(unsigned char)digits[i] & 127] = (int8_t)i;
    u->text = text;
    u->at = "";
    u->left = text->packed;
}

/* The value of the next digit, -1 when there is none. */
static int infer__unpacker_digit(infer__unpacker *u) {
    unsigned char c;
    while (!*u->at) {
        if (u->piece >= u->text->n_pieces) return -1;
        u->at = u->text->pieces[u->piece++];
    }
    c = (unsigned char)*u->at++;
    return c < 128 ? u->value[c] : -1;
}

/* The next packed byte, -1 at the end or when the pieces are damaged. */
static int infer__unpacker_byte(infer__unpacker *u) {
    int i, digit;
    if (u->left == 0) return -1;
    if (u->in_group == 0) {
        uint64_t value = 0;
        for (i = 0; i < 5; i++) {
            if ((digit = infer__unpacker_digit(u)) < 0) return -1;
            value = value * 85 + (uint64_t)digit;
        }
        if (value > UINT32_MAX) return -1;
        u->group = (uint32_t)value;
        u->in_group = 4;
    }
    u->in_group--;
    u->left--;
    return (int)(u->group >> 8 * u->in_group & 255);
}

/* ---- bytes -> bits ---------------------------------------------------------------------------------------------- */

enum { INFER__LZMA_STATES = 12, INFER__LZMA_HALF = 1024 /* a probability of 1/2 */ };

/* Probabilities of the bits of a length. */
typedef struct infer__lzma_length {
    uint16_t choice, choice2, low[8], middle[8], high[256];
} infer__lzma_length;

/* The probabilities; all begin as INFER__LZMA_HALF. */
typedef struct infer__lzma_probs {
    uint16_t match[INFER__LZMA_STATES], rep[INFER__LZMA_STATES], rep0[INFER__LZMA_STATES], rep1[INFER__LZMA_STATES];
    uint16_t rep2[INFER__LZMA_STATES], rep0_long[INFER__LZMA_STATES];
    uint16_t slot[4][64], special[128], align[16];
    infer__lzma_length length, rep_length;
    uint16_t literal[8][0x300]; /* by the 3 highest bits of the character before */
} infer__lzma_probs;

typedef struct infer__lzma {
    infer__unpacker in;
    uint32_t range, code;
    int bad; /* the input ended early or is damaged */
    infer__lzma_probs p;
} infer__lzma;

static void infer__lzma_more(infer__lzma *z) {
    int byte;
    if (z->range >= 1u << 24) return;
    byte = infer__unpacker_byte(&z->in);
    if (byte < 0) z->bad = 1;
    z->range <<= 8;
    z->code = z->code << 8 | (uint32_t)(byte & 255);
}

static uint32_t infer__lzma_bit(infer__lzma *z, uint16_t *p) {
    uint32_t bound = (z->range >> 11) * *p, bit = z->code >= bound;
    if (bit) {
        z->range -= bound;
        z->code -= bound;
        *p = (uint16_t)(*p - (*p >> 5));
    } else {
        z->range = bound;
        *p = (uint16_t)(*p + ((2048 - *p) >> 5));
    }
    infer__lzma_more(z);
    return bit;
}

/* n bits, the highest first; each one's probability depends on those before. */
static uint32_t infer__lzma_tree(infer__lzma *z, uint16_t *p, int n) {
    uint32_t m = 1;
    int i;
    for (i = 0; i < n; i++) m = m << 1 | infer__lzma_bit(z, &p[m]);
    return m - (1u << n);
}

/* The same, the lowest bit first. */
static uint32_t infer__lzma_reverse(infer__lzma *z, uint16_t *p, int n) {
    uint32_t m = 1, value = 0, bit;
    int i;
    for (i = 0; i < n; i++) {
        bit = infer__lzma_bit(z, &p[m]);
        m = m << 1 | bit;
        value |= bit << i;
    }
    return value;
}

/* n bits that are as often 0 as 1. */
static uint32_t infer__lzma_direct(infer__lzma *z, int n) {
    uint32_t value = 0, bit;
    for (; n > 0; n--) {
        z->range >>= 1;
        bit = z->code >= z->range;
        if (bit) z->code -= z->range;
        value = value << 1 | bit;
        infer__lzma_more(z);
    }
    return value;
}

static uint32_t infer__lzma_length_of(infer__lzma *z, infer__lzma_length *l) {
    if (!infer__lzma_bit(z, &l->choice)) return 2 + infer__lzma_tree(z, l->low, 3);
    if (!infer__lzma_bit(z, &l->choice2)) return 10 + infer__lzma_tree(z, l->middle, 3);
    return 18 + infer__lzma_tree(z, l->high, 8);
}

/* A distance back, 0 = the character before. */
static uint32_t infer__lzma_distance(infer__lzma *z, uint32_t length) {
    uint32_t slot = infer__lzma_tree(z, z->p.slot[INFER__MIN(length - 2, 3)], 6), d;
    int bits = (int)(slot >> 1) - 1;
    if (slot < 4) return slot;
    d = (2 | (slot & 1)) << bits;
    if (slot < 14) return d + infer__lzma_reverse(z, z->p.special + d - slot, bits);
    d += infer__lzma_direct(z, bits - 4) << 4;
    return d + infer__lzma_reverse(z, z->p.align, 4);
}

/* ---- bits -> text ----------------------------------------------------------------------------------------------- */

/* A character: after a copy the one that would have gone on with it (`match`) tells something, until it is another. */
static uint8_t infer__lzma_literal(infer__lzma *z, int before, int match, int after_copy) {
    uint16_t *p = z->p.literal[before >> 5];
    uint32_t m = 1, bit, same;
    if (after_copy)
        while (m < 0x100) {
            same = (uint32_t)match >> 7 & 1;
            match <<= 1;
            bit = infer__lzma_bit(z, &p[((1 + same) << 8) + m]);
            m = m << 1 | bit;
            if (bit != same) break;
        }
    while (m < 0x100) m = m << 1 | infer__lzma_bit(z, &p[m]);
    return (uint8_t)m;
}

/* The bits after "a copy of a distance met before": its length, the distance to rep[0]. */
static uint32_t infer__lzma_again(infer__lzma *z, int state, uint32_t rep[4]) {
    uint32_t d;
    if (!infer__lzma_bit(z, &z->p.rep0[state])) {
        if (!infer__lzma_bit(z, &z->p.rep0_long[state])) return 1;
    } else {
        int which = 1;
        if (infer__lzma_bit(z, &z->p.rep1[state])) which = 2 + (int)infer__lzma_bit(z, &z->p.rep2[state]);
        d = rep[which];
        for (; which > 0; which--) rep[which] = rep[which - 1];
        rep[0] = d;
    }
    return infer__lzma_length_of(z, &z->p.rep_length);
}

/* A copy from as far back as can be said ends a stream; nothing comes after it. */
static int infer__lzma_ends(infer__lzma *z, int state) {
    if (!infer__lzma_bit(z, &z->p.match[state]) || infer__lzma_bit(z, &z->p.rep[state])) return 0;
    if (infer__lzma_distance(z, infer__lzma_length_of(z, &z->p.length)) != UINT32_MAX) return 0;
    return !z->bad && z->code == 0 && z->in.left == 0 && infer__unpacker_digit(&z->in) < 0;
}

/* dst[0 .. bytes-1] of a text of `all` bytes. */
static int infer__lzma_run(infer__lzma *z, uint8_t *dst, uint32_t bytes, uint32_t all) {
    uint32_t rep[4] = {0, 0, 0, 0}, n = 0, length;
    int state = 0; /* what the last few steps were: below 7, the last one was a character */
    while (n < bytes && !z->bad) {
        if (!infer__lzma_bit(z, &z->p.match[state])) {
            int match = state >= 7 && rep[0] < n ? dst[n - 1 - rep[0]] : 0;
            dst[n] = infer__lzma_literal(z, n ? dst[n - 1] : 0, match, state >= 7);
            n++;
            state = state < 4 ? 0 : state < 10 ? state - 3 : state - 6;
            continue;
        }
        if (infer__lzma_bit(z, &z->p.rep[state])) {
            length = infer__lzma_again(z, state, rep);
            state = length == 1 ? (state < 7 ? 9 : 11) : (state < 7 ? 8 : 11);
        } else {
            length = infer__lzma_length_of(z, &z->p.length);
            rep[3] = rep[2];
            rep[2] = rep[1];
            rep[1] = rep[0];
            rep[0] = infer__lzma_distance(z, length);
            state = state < 7 ? 7 : 10;
        }
        if (rep[0] >= n || length > all - n) return 0;
        length = INFER__MIN(length, bytes - n);
        for (; length > 0; length--, n++) dst[n] = dst[n - 1 - rep[0]]; /* one by one: a copy may overlap itself */
    }
    return !z->bad && (bytes < all || infer__lzma_ends(z, state));
}

/* The first `bytes` of a text, at most all, into dst; 0 when what is packed does not give them. z: memory to work
 * in. */
static int infer__text_unpack(infer__lzma *z, const infer__kernel_text *text, char *dst, uint32_t bytes) {
    uint16_t *p = (uint16_t *)&z->p;
    size_t i;
    for (i = 0; i < sizeof z->p / sizeof *p; i++) p[i] = INFER__LZMA_HALF;
    infer__unpacker_open(&z->in, text);
    z->range = UINT32_MAX;
    z->code = 0;
    z->bad = infer__unpacker_byte(&z->in) != 0;
    for (i = 0; i < 4; i++) {
        int byte = infer__unpacker_byte(&z->in);
        if (byte < 0) z->bad = 1;
        z->code = z->code << 8 | (uint32_t)(byte & 255);
    }
    return !z->bad && infer__lzma_run(z, (uint8_t *)dst, bytes, text->bytes);
}

/* ---- names in PTX ----------------------------------------------------------------------------------------------- */

/* A compiler numbers the registers and labels of a function in the order in which it met them, thousands of them, so
 * that hardly a line is like another. What is packed tells how long ago a name was last used instead (move to front):
 * after its first characters, a byte above 127 stands for its number. */
enum {
    INFER__PTX_NAME_NEW = 0x80,      /* the next number of its class, from 1 */
    INFER__PTX_NAME_LATELY = 0x81,   /* + r: the name of its class since whose use r others were used */
    INFER__PTX_NAME_LONG_AGO = 0xfe, /* the same, r in two bytes of 7 bits, the higher one first */
    INFER__PTX_NAME_NONE = 0xff,     /* a function begins: no names */
    INFER__PTX_NAME_CLASSES = 6,     /* told apart by the character before the number: infer__ptx_classes */
    INFER__PTX_NAMES = 8192          /* of a class */
};
static const char infer__ptx_classes[] = "prfds_"; /* %p %r %f %rd %rs, labels */

typedef struct infer__ptx_names {
    int32_t n[INFER__PTX_NAME_CLASSES];
    uint16_t used[INFER__PTX_NAME_CLASSES][INFER__PTX_NAMES]; /* the last one was used last */
} infer__ptx_names;

/* The number of the name that the bytes at *src stand for, which are taken; 0 when they stand for none. */
static int32_t infer__ptx_name_take(infer__ptx_names *m, char before, const uint8_t **src, const uint8_t *end) {
    const char *in = (const char *)memchr(infer__ptx_classes, before, INFER__PTX_NAME_CLASSES);
    const int32_t at = in ? (int32_t)(in - infer__ptx_classes) : 0, n = m->n[at];
    uint16_t *used = m->used[at];
    int32_t rank = *(*src)++, number = n + 1;
    if (!in || n == INFER__PTX_NAMES) return 0;
    if (rank == INFER__PTX_NAME_NEW) {
        used[m->n[at]++] = (uint16_t)number;
        return number;
    }
    rank -= INFER__PTX_NAME_LATELY;
    if (rank == INFER__PTX_NAME_LONG_AGO - INFER__PTX_NAME_LATELY) {
        if (end - *src < 2) return 0;
        rank = (*src)[0] << 7 | (*src)[1];
        *src += 2;
    }
    if (rank >= n) return 0;
    number = used[n - 1 - rank];
    memmove(used + n - 1 - rank, used + n - rank, (size_t)rank * sizeof *used);
    used[n - 1] = (uint16_t)number;
    return number;
}

/* The text of `bytes` bytes that src[0 .. n-1] stands for, and a zero after it; 0 when it gives another length. */
static int infer__ptx_names_write(infer__ptx_names *m, const char *text, uint32_t n, char *dst, uint32_t bytes) {
    const uint8_t *src = (const uint8_t *)text, *const end = src + n;
    uint32_t at = 0;
    memset(m->n, 0, sizeof m->n);
    while (src < end) {
        char digits[8];
        int32_t number, k = 0;
        if (*src == INFER__PTX_NAME_NONE) {
            memset(m->n, 0, sizeof m->n);
            src++;
        } else if (*src < INFER__PTX_NAME_NEW) {
            if (at == bytes) return 0;
            dst[at++] = (char)*src++;
        } else {
            if ((number = infer__ptx_name_take(m, at ? dst[at - 1] : 0, &src, end)) == 0) return 0;
            for (; number > 0; number /= 10) digits[k++] = (char)('0' + number % 10);
            if ((uint32_t)k > bytes - at) return 0;
            while (k > 0) dst[at++] = digits[--k];
        }
    }
    dst[at] = 0;
    return at == bytes;
}

#endif
