/* jpeg_pixels.c: from coefficients of JPEG pictures to pixels.
 *
 * Owns:  the inverse DCT, the way from subsampled components to full rows, colours.
 * Rules: integer arithmetic that gives, to the bit, what IJG's library and its descendants give with their default
 *        settings ("islow", "fancy upsampling"), so that a model sees the pixels that it was trained with.
 */
#include "jpeg.h"

/* The inverse DCT of 8 values: Loeffler, Ligtenberg, Moschytz: Practical fast 1-D DCT algorithms with 11
 * multiplications, ICASSP 1989. Constants have 13 bits behind the point; `round` and `shift` are of the result. Sums
 * wrap around where the file's values are absurd. */
INFER__FOLDED void infer__jpeg_idct8(uint32_t v[8], uint32_t round, int shift) {
    uint32_t even[4], odd[4], a, b, sum;
    int i;
    sum = (v[2] + v[6]) * 4433u;    /* 0.541196100 */
    a = sum + v[2] * 6270u;         /* 0.765366865 */
    b = sum - v[6] * 15137u;        /* 1.847759065 */
    even[0] = ((v[0] + v[4]) << 13) + round + a;
    even[3] = ((v[0] + v[4]) << 13) + round - a;
    even[1] = ((v[0] - v[4]) << 13) + round + b;
    even[2] = ((v[0] - v[4]) << 13) + round - b;
    sum = (v[1] + v[3] + v[5] + v[7]) * 9633u;      /* 1.175875602 */
    a = sum - (v[3] + v[7]) * 16069u;               /* 1.961570560 */
    b = sum - (v[1] + v[5]) * 3196u;                /* 0.390180644 */
    sum = (v[1] + v[7]) * 7373u;                    /* 0.899976223 */
    odd[0] = v[1] * 12299u - sum + b;               /* 1.501321110 */
    odd[3] = v[7] * 2446u - sum + a;                /* 0.298631336 */
    sum = (v[3] + v[5]) * 20995u;                   /* 2.562915447 */
    odd[1] = v[3] * 25172u - sum + a;               /* 3.072711026 */
    odd[2] = v[5] * 16819u - sum + b;               /* 2.053119869 */
    INFER__UNROLL
    for (i = 0; i < 4; i++) {
        v[i] = (uint32_t)((int32_t)(even[i] + odd[i]) >> shift);
        v[7 - i] = (uint32_t)((int32_t)(even[i] - odd[i]) >> shift);
    }
}

INFER__FOLDED uint8_t infer__jpeg_clamp(int32_t v) { return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v); }

static void infer__jpeg_idct(const int16_t *block, const uint16_t *quant, int last, uint8_t *out, size_t stride) {
    uint32_t v[8], half[64];
    int i, k;
    if (last == 0) {
        int32_t dc = (int32_t)((uint32_t)block[0] * quant[0] * 4u + 16u) >> 5;
        for (i = 0; i < 8; i++) memset(out + (size_t)i * stride, infer__jpeg_clamp(dc + 128), 8);
        return;
    }
    for (i = 0; i < 8; i++) {
        const int16_t *b = block + i;
        if (!(b[8] | b[16] | b[24] | b[32] | b[40] | b[48] | b[56])) {
            uint32_t dc = (uint32_t)b[0] * quant[i] << 2;
            for (k = 0; k < 8; k++) half[8 * k + i] = dc;
            continue;
        }
        INFER__UNROLL
        for (k = 0; k < 8; k++) v[k] = (uint32_t)b[8 * k] * quant[8 * k + i];
        infer__jpeg_idct8(v, 1u << 10, 11); /* 2 bits are kept */
        INFER__UNROLL
        for (k = 0; k < 8; k++) half[8 * k + i] = v[k];
    }
    for (i = 0; i < 8; i++, out += stride) {
        memcpy(v, half + 8 * i, sizeof v);
        infer__jpeg_idct8(v, 1u << 17, 18);
        INFER__UNROLL
        for (k = 0; k < 8; k++) out[k] = infer__jpeg_clamp((int32_t)v[k] + 128);
    }
}

/* ---- upsampling ------------------------------------------------------------------------------------ */

/* Twice as many samples along a row: 3/4 of the nearer, 1/4 of the other one. The row is one of samples (unit 1, below
 * NULL), or a sum of 3/4 and 1/4 of two rows (unit 4). Halves are rounded up and down in turn: by `up` where the other
 * one is to the left, by `down` where it is to the right. */
INFER__FOLDED void infer__jpeg_wider(const uint8_t *from, const uint8_t *other, uint32_t n, uint8_t *to, int up,
                                     int down, int shift) {
#define INFER__SUM(i) (other ? 3 * from[i] + other[i] : from[i])
    int left, here = INFER__SUM(0), right = INFER__SUM(1);
    uint32_t i;
    *to++ = (uint8_t)((4 * here + up) >> shift);
    for (i = 1; i < n; i++) {
        *to++ = (uint8_t)((3 * here + right + down) >> shift);
        left = here;
        here = right;
        if (i + 1 < n) right = INFER__SUM(i + 1);
        *to++ = (uint8_t)((3 * here + left + up) >> shift);
    }
    *to = (uint8_t)((4 * here + down) >> shift);
#undef INFER__SUM
}

/* A row of a component with as many samples as the picture; `to` has room for it. */
static const uint8_t *infer__jpeg_row(const infer__jpeg *z, const infer__jpeg_component *c, uint32_t y, uint8_t *to) {
    uint32_t h = (uint32_t)(z->h_max / c->h), v = (uint32_t)(z->v_max / c->v), at = y / v, i, k;
    size_t stride = (size_t)c->across * 8;
    const uint8_t *from = c->plane + at * stride, *other;
    if (h == 1 && v == 1) return from;
    /* of twice as many rows, the first is nearer to the row above */
    other = y & 1 ? (at + 1 < c->height ? from + stride : from) : at > 0 ? from - stride : from;
    if (h == 1 && v == 2) {
        for (i = 0; i < c->width; i++) to[i] = (uint8_t)((3 * from[i] + other[i] + 1 + (int)(y & 1)) >> 2);
    } else if (h == 2 && v == 1 && c->width > 2) {
        infer__jpeg_wider(from, NULL, c->width, to, 1, 2, 2);
    } else if (h == 2 && v == 2 && c->width > 2) {
        infer__jpeg_wider(from, other, c->width, to, 8, 7, 4);
    } else {
        for (k = 0, i = 0; i < c->width; i++)
            for (at = 0; at < h; at++) to[k++] = from[i];
    }
    return to;
}

/* ---- colours (T.871, 7; what is added to Y, of which 16 bits are behind the point) ------------------- */

typedef struct infer__jpeg_shares { int32_t r_cr[256], b_cb[256], g_cr[256], g_cb[256]; } infer__jpeg_shares;

static void infer__jpeg_ycc(const infer__jpeg_shares *s, int y, int cb, int cr, uint8_t *to) {
    to[0] = infer__jpeg_clamp(y + s->r_cr[cr]);
    to[1] = infer__jpeg_clamp(y + ((s->g_cb[cb] + s->g_cr[cr]) >> 16));
    to[2] = infer__jpeg_clamp(y + s->b_cb[cb]);
}

/* 1: the first three components are luminance and colour differences. */
static int infer__jpeg_is_ycc(const infer__jpeg *z) {
    const infer__jpeg_component *c = z->c;
    if (z->n_components == 4) return z->adobe > 0;
    if (z->jfif || z->adobe >= 0) return z->jfif || z->adobe != 0;
    return !(c[0].id == 'R' && c[1].id == 'G' && c[2].id == 'B');
}

/* Ink of a row -> what it leaves of white paper. Adobe's programs, which make such files, store 255 for no ink. */
static void infer__jpeg_cmyk(uint8_t *to, const uint8_t *black, uint32_t n, int ycc) {
    uint32_t i, k;
    for (i = 0; i < n; i++)
        for (k = 0; k < 3; k++, to++) {
            uint32_t ink = (ycc ? *to : 255u - *to) * black[i] + 128;
            *to = infer__jpeg_clamp((int32_t)black[i] - (int32_t)((ink + (ink >> 8)) >> 8));
        }
}

static infer_result infer__jpeg_colours(infer__jpeg *z, infer_image *out) {
    size_t room = (size_t)z->mcus_across * 8 * (size_t)z->h_max;
    int ycc = infer__jpeg_is_ycc(z), i;
    uint8_t *to = out->rgb, *rows = (uint8_t *)infer__alloc(&z->m->mem, 4 * room);
    const uint8_t *row[4];
    infer__jpeg_shares s;
    uint32_t x, y;
    infer_result r = INFER_OK;
    if (!rows) return infer__media_memory(z->m, 4 * room);
    for (i = 0; i < 256; i++) {
        s.r_cr[i] = (91881 * (i - 128) + 32768) >> 16;  /* 1.402 */
        s.b_cb[i] = (116130 * (i - 128) + 32768) >> 16; /* 1.772 */
        s.g_cr[i] = -46802 * (i - 128);                 /* 0.71414 */
        s.g_cb[i] = -22554 * (i - 128) + 32768;         /* 0.34414 */
    }
    for (y = 0; y < z->height && r == INFER_OK; y++) {
        uint8_t *begin = to;
        for (i = 0; i < z->n_components; i++) row[i] = infer__jpeg_row(z, &z->c[i], y, rows + (size_t)i * room);
        if (z->n_components == 1)
            for (x = 0; x < z->width; x++, to += 3) to[0] = to[1] = to[2] = row[0][x];
        else if (ycc)
            for (x = 0; x < z->width; x++, to += 3) infer__jpeg_ycc(&s, row[0][x], row[1][x], row[2][x], to);
        else
            for (x = 0; x < z->width; x++, to += 3) to[0] = row[0][x], to[1] = row[1][x], to[2] = row[2][x];
        if (z->n_components == 4) infer__jpeg_cmyk(begin, row[3], z->width, ycc);
        r = infer__media_work(z->m, 1 + z->width / 8);
    }
    infer__free(&z->m->mem, rows);
    return r;
}
