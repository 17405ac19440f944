/* jpeg_scan.c: Huffman coded scans of JPEG pictures: sequential (T.81, annex F.2) and progressive (G.1).
 *
 * Owns:  the bit reader, codes, blocks of coefficients, restart markers.
 * Rules: bits behind the data read as zeros, and are an error when they were used. A coefficient is 16 bits whatever
 *        the file says: larger ones wrap around.
 */
#include "jpeg.h"

static int infer__jpeg_build(infer__jpeg_code *c, const uint8_t counts[16], const uint8_t *symbols) {
    int length, i, k, code = 0, at = 0;
    memset(c, 0, sizeof *c);
    for (length = 1; length <= 16; length++, code <<= 1) {
        c->offset[length] = at - code;
        for (i = 0; i < counts[length - 1]; i++, code++, at++) {
            if (code >= 1 << length || at == 256) return 0;
            c->symbol[at] = symbols[at];
            if (length > INFER__JPEG_FAST) continue;
            for (k = 0; k < 1 << (INFER__JPEG_FAST - length); k++)
                c->fast[(code << (INFER__JPEG_FAST - length)) + k] = (uint16_t)(length << 8 | symbols[at]);
        }
        c->end[length] = code << (16 - length);
    }
    c->end[17] = INT32_MAX;
    return c->set = 1;
}

static void infer__jpeg_refill(infer__jpeg *z) {
    const uint8_t *p = z->p;
    while (z->n_bits <= 56) {
        uint64_t byte = 0;
        if (z->at < z->n && p[z->at] != 0xff) byte = p[z->at++];
        else if (z->n - z->at >= 2 && p[z->at + 1] == 0) byte = 0xff, z->at += 2;
        else z->padded += 8; /* a marker, or the end */
        z->bits |= byte << (56 - z->n_bits);
        z->n_bits += 8;
    }
}
INFER__INLINE int infer__jpeg_take(infer__jpeg *z, int n) { /* 1 to 16 bits, refilled before */
    int v = (int)(z->bits >> (64 - n));
    z->bits <<= n;
    z->n_bits -= n;
    return v;
}
static int infer__jpeg_need(infer__jpeg *z, int n) {
    if (n == 0) return 0;
    if (z->n_bits < n) infer__jpeg_refill(z);
    return infer__jpeg_take(z, n);
}
/* A value of n bits, 0 to 15 (F.2.2.1): those that begin with 0 are negative. */
INFER__INLINE int infer__jpeg_value(infer__jpeg *z, int n) {
    int v = n ? infer__jpeg_take(z, n) : 0;
    return n && v < 1 << (n - 1) ? v - (1 << n) + 1 : v;
}
/* The next symbol; then at least 16 bits are left. -1: no code is that. */
INFER__INLINE int infer__jpeg_symbol(infer__jpeg *z, const infer__jpeg_code *c) {
    int e, length, code;
    if (z->n_bits < 32) infer__jpeg_refill(z);
    e = c->fast[z->bits >> (64 - INFER__JPEG_FAST)];
    if (e) {
        infer__jpeg_take(z, e >> 8);
        return e & 255;
    }
    code = (int)(z->bits >> 48);
    for (length = INFER__JPEG_FAST + 1; code >= c->end[length]; length++) continue;
    if (length > 16) return -1;
    return c->symbol[c->offset[length] + infer__jpeg_take(z, length)];
}

static const char infer__jpeg_damaged[] = "the data of a scan is damaged";

/* The kinds of scans: a block of each. They return where the last coefficient is, or -1. */
typedef int (*infer__jpeg_decoder)(infer__jpeg *z, infer__jpeg_component *c, int16_t *block);

static int infer__jpeg_dc(infer__jpeg *z, infer__jpeg_component *c, int16_t *block) {
    int n = infer__jpeg_symbol(z, &z->codes[0][c->dc]);
    if (n < 0 || n > 15) return -1;
    c->last = (int16_t)(c->last + infer__jpeg_value(z, n));
    block[0] = (int16_t)((uint32_t)c->last << z->low);
    return 0;
}

static int infer__jpeg_sequential(infer__jpeg *z, infer__jpeg_component *c, int16_t *block) {
    const infer__jpeg_code *codes = &z->codes[1][c->ac];
    int k, last = infer__jpeg_dc(z, c, block);
    for (k = 1; k < 64 && last >= 0; k++) {
        int s = infer__jpeg_symbol(z, codes);
        if (s < 0) return -1;
        if (s == 0) return last;
        k += s >> 4;
        if (k > 63) return -1;
        if (!(s & 15)) {
            if (s != 0xf0) return -1;
            continue;
        }
        block[infer__jpeg_natural[k]] = (int16_t)infer__jpeg_value(z, s & 15);
        last = k;
    }
    return last;
}

static int infer__jpeg_dc_more(infer__jpeg *z, infer__jpeg_component *c, int16_t *block) {
    (void)c;
    if (infer__jpeg_need(z, 1)) block[0] = (int16_t)(block[0] | 1 << z->low);
    return 0;
}

static int infer__jpeg_ac(infer__jpeg *z, infer__jpeg_component *c, int16_t *block) {
    int k;
    if (z->end_run > 0) {
        z->end_run--;
        return 0;
    }
    for (k = z->first; k <= z->last; k++) {
        int s = infer__jpeg_symbol(z, &z->codes[1][c->ac]), run = s >> 4;
        if (s < 0) return -1;
        s &= 15;
        if (s == 0 && run < 15) {
            z->end_run = (1u << run) - 1 + (uint32_t)infer__jpeg_need(z, run);
            return 0;
        }
        k += run;
        if (k > z->last) return -1;
        if (s) block[infer__jpeg_natural[k]] = (int16_t)((uint32_t)infer__jpeg_value(z, s) << z->low);
    }
    return 0;
}

/* One more bit of coefficients that are not 0, from k on until `zeros` that are 0 were passed. Returns where. */
static int infer__jpeg_bits(infer__jpeg *z, int16_t *block, int k, int zeros) {
    int bit = 1 << z->low;
    for (; k <= z->last; k++) {
        int16_t *b = &block[infer__jpeg_natural[k]];
        if (*b == 0 && zeros-- == 0) return k;
        if (*b != 0 && infer__jpeg_need(z, 1) && !(*b & bit)) *b = (int16_t)(*b < 0 ? *b - bit : *b + bit);
    }
    return k;
}

static int infer__jpeg_ac_more(infer__jpeg *z, infer__jpeg_component *c, int16_t *block) {
    int k = z->first;
    for (; z->end_run == 0 && k <= z->last; k++) {
        int s = infer__jpeg_symbol(z, &z->codes[1][c->ac]), run = s >> 4, value = 0;
        if (s < 0 || (s & 15) > 1) return -1;
        if (s & 1) value = infer__jpeg_need(z, 1) ? 1 : -1;
        else if (run < 15) {
            z->end_run = (1u << run) + (uint32_t)infer__jpeg_need(z, run);
            break;
        }
        k = infer__jpeg_bits(z, block, k, run);
        if (value && k > z->last) return -1;
        if (value) block[infer__jpeg_natural[k]] = (int16_t)(value * (1 << z->low));
    }
    if (z->end_run > 0) {
        infer__jpeg_bits(z, block, k, 64);
        z->end_run--;
    }
    return 0;
}

/* The state at the beginning of a scan, and behind each restart marker. */
static void infer__jpeg_restart(infer__jpeg *z) {
    int i;
    z->bits = z->end_run = 0;
    z->n_bits = z->padded = 0;
    for (i = 0; i < z->n_scan; i++) z->scan[i]->last = 0;
}

static infer_result infer__jpeg_block(infer__jpeg *z, infer__jpeg_decoder decode, infer__jpeg_component *c, uint32_t x,
                                      uint32_t y) {
    int16_t block[64];
    int last;
    if (c->blocks) {
        last = decode(z, c, c->blocks + 64 * ((size_t)y * c->across + x));
    } else {
        memset(block, 0, sizeof block);
        last = decode(z, c, block);
    }
    if (z->n_bits < z->padded) return infer__jpeg_bad(z, "the data of a scan ends early");
    if (last < 0) return infer__jpeg_bad(z, infer__jpeg_damaged);
    if (!c->blocks)
        infer__jpeg_idct(block, c->quant, last, c->plane + ((size_t)y * c->across * 8 + x) * 8, (size_t)c->across * 8);
    return INFER_OK;
}

static infer_result infer__jpeg_scan(infer__jpeg *z) {
    infer__jpeg_decoder decode = !z->progressive ? infer__jpeg_sequential
                                 : z->first == 0 ? (z->high ? infer__jpeg_dc_more : infer__jpeg_dc)
                                                 : (z->high ? infer__jpeg_ac_more : infer__jpeg_ac);
    infer__jpeg_component *c = z->scan[0];
    int alone = z->n_scan == 1, i, h, v, marker = 0;
    uint32_t across = alone ? c->own_across : z->mcus_across, down = alone ? c->own_down : z->mcus_down;
    uint32_t x, y, left = z->restart;
    infer_result r;
    infer__jpeg_restart(z);
    for (y = 0; y < down; y++) {
        for (x = 0; x < across; x++) {
            if (z->restart && left-- == 0) {
                if (z->n - z->at < 2 || z->p[z->at] != 0xff || z->p[z->at + 1] != 0xd0 + marker)
                    return infer__jpeg_bad(z, "a restart marker is missing");
                z->at += 2;
                marker = (marker + 1) & 7;
                left = z->restart - 1;
                infer__jpeg_restart(z);
            }
            if (alone && (r = infer__jpeg_block(z, decode, c, x, y)) != INFER_OK) return r;
            for (i = 0; !alone && i < z->n_scan; i++)
                for (c = z->scan[i], v = 0; v < c->v; v++)
                    for (h = 0; h < c->h; h++) {
                        r = infer__jpeg_block(z, decode, c, x * (uint32_t)c->h + (uint32_t)h,
                                              y * (uint32_t)c->v + (uint32_t)v);
                        if (r != INFER_OK) return r;
                    }
        }
        if ((r = infer__media_work(z->m, 4 * (uint64_t)across)) != INFER_OK) return r;
    }
    return INFER_OK;
}
