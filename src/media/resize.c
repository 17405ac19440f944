/* resize.c: pictures in another size, with the bits of Pillow's 8-bit resampling.
 *
 * Owns:  the filters, their weights in fixed point, the two passes.
 * Way:   rows pass in pairs, a byte of each in one 64-bit lane pair, so that a multiplication serves both. The rows
 *        that the vertical pass needs are kept in a ring, so that no picture in between is stored.
 * Source: Pillow, libImaging/Resample.c (the formulas): support of the filter times the scale, weights normalised in
 *        double, times 2^22, rounded half away from zero; (sum + 2^21) >> 22, clipped to 0 .. 255.
 */
#include "prepare.h"
#include <math.h>

#define INFER__RESIZE_BITS 22
#define INFER__RESIZE_HALF (UINT64_C(0x100000001) << (INFER__RESIZE_BITS - 1)) /* in both lanes */

static double infer__resize_support(int filter) {
    return filter == INFER__RESIZE_BILINEAR ? 1 : filter == INFER__RESIZE_BICUBIC ? 2 : 3;
}

static double infer__resize_sinc(double x) {
    const double pi = 3.14159265358979323846;
    return x == 0 ? 1 : sin(x * pi) / (x * pi);
}

static double infer__resize_filter(int filter, double x) {
    if (filter == INFER__RESIZE_LANCZOS)
        return x >= -3 && x < 3 ? infer__resize_sinc(x) * infer__resize_sinc(x / 3) : 0;
    x = fabs(x);
    if (filter == INFER__RESIZE_BILINEAR) return x < 1 ? 1 - x : 0;
    if (x < 1) return (1.5 * x - 2.5) * x * x + 1; /* a = -0.5 */
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * -0.5 : 0;
}

/* One output pixel of n `in` -> `out`: its first input pixel, and the weights of *count. k and t have room for
 * infer__resize_taps. */
static int32_t infer__resize_weights(int filter, int32_t in, int32_t out, int32_t at, int32_t *k, double *t,
                                     int32_t *count) {
    double scale = (double)in / out, wide = scale < 1 ? 1 : scale, support = infer__resize_support(filter) * wide;
    double center = (at + 0.5) * scale, sum = 0;
    int32_t first = (int32_t)INFER__MAX(center - support + 0.5, 0), i;
    *count = (int32_t)INFER__MIN(center + support + 0.5, (double)in) - first;
    for (i = 0; i < *count; i++) sum += t[i] = infer__resize_filter(filter, (i + first - center + 0.5) * (1 / wide));
    for (i = 0; i < *count; i++) {
        double w = (sum != 0 ? t[i] / sum : t[i]) * (1 << INFER__RESIZE_BITS);
        k[i] = (int32_t)(w < 0 ? w - 0.5 : w + 0.5);
    }
    return first;
}

static int64_t infer__resize_taps(int filter, int32_t in, int32_t out) {
    double scale = (double)in / out;
    int64_t taps = 2 * (int64_t)ceil(infer__resize_support(filter) * (scale < 1 ? 1 : scale)) + 1;
    return INFER__MIN(taps, in);
}

/* The two bytes that a pair of sums rounds to: that of the lower lane, and *high. */
INFER__INLINE uint8_t infer__resize_round(uint64_t sum, uint8_t *high) {
    int32_t lo = (int32_t)(uint32_t)sum, hi = (int32_t)(uint32_t)((sum - (uint64_t)(int64_t)lo) >> 32);
    lo >>= INFER__RESIZE_BITS;
    hi >>= INFER__RESIZE_BITS;
    *high = (uint8_t)(hi < 0 ? 0 : hi > 255 ? 255 : hi);
    return (uint8_t)(lo < 0 ? 0 : lo > 255 ? 255 : lo);
}

typedef struct infer__resizing {
    int32_t *first, *count, *k; /* of the horizontal pass: dw, dw, dw * taps */
    uint64_t *pair, *ring;      /* 3 w; rows * half */
    uint8_t *row[2];            /* 3 dw + 1 */
    int64_t taps, rows, half;   /* half: pairs of a row of the ring */
} infer__resizing;

/* Rows a and b, of w pixels, into two rows of the ring. */
static void infer__resize_across(const infer__resizing *z, const uint8_t *a, const uint8_t *b, int32_t w, int32_t dw,
                                 uint64_t *to_a, uint64_t *to_b) {
    int64_t i;
    int32_t x, j;
    for (i = 0; i < 3 * (int64_t)w; i++) z->pair[i] = a[i] | (uint64_t)b[i] << 32;
    for (x = 0; x < dw; x++) {
        const uint64_t *p = z->pair + 3 * (size_t)z->first[x];
        const int32_t *k = z->k + x * z->taps;
        uint64_t r = INFER__RESIZE_HALF, g = r, s = r;
        for (j = 0; j < z->count[x]; j++, p += 3) {
            const uint64_t weight = (uint64_t)(int64_t)k[j];
            r += p[0] * weight;
            g += p[1] * weight;
            s += p[2] * weight;
        }
        z->row[0][3 * (size_t)x] = infer__resize_round(r, &z->row[1][3 * (size_t)x]);
        z->row[0][3 * (size_t)x + 1] = infer__resize_round(g, &z->row[1][3 * (size_t)x + 1]);
        z->row[0][3 * (size_t)x + 2] = infer__resize_round(s, &z->row[1][3 * (size_t)x + 2]);
    }
    for (i = 0; i < z->half; i++) to_a[i] = z->row[0][2 * i] | (uint64_t)z->row[0][2 * i + 1] << 32;
    for (i = 0; i < z->half; i++) to_b[i] = z->row[1][2 * i] | (uint64_t)z->row[1][2 * i + 1] << 32;
}

/* A row of the result: `count` rows of the ring from `first` on. */
static void infer__resize_down(const infer__resizing *z, int32_t first, int32_t count, const int32_t *k,
                               uint8_t *dst, int64_t n) {
    int64_t i;
    int32_t y;
    uint8_t high;
    for (i = 0; i < z->half; i += 4) {
        uint64_t s0 = INFER__RESIZE_HALF, s1 = s0, s2 = s0, s3 = s0;
        const uint64_t *p = z->ring + first % z->rows * z->half + i, *end = z->ring + z->rows * z->half;
        uint8_t out[8];
        for (y = 0; y < count; y++) {
            const uint64_t weight = (uint64_t)(int64_t)k[y];
            s0 += p[0] * weight;
            s1 += p[1] * weight;
            s2 += p[2] * weight;
            s3 += p[3] * weight;
            p += z->half;
            if (p >= end) p -= z->rows * z->half;
        }
        out[0] = infer__resize_round(s0, &high), out[1] = high;
        out[2] = infer__resize_round(s1, &high), out[3] = high;
        out[4] = infer__resize_round(s2, &high), out[5] = high;
        out[6] = infer__resize_round(s3, &high), out[7] = high;
        memcpy(dst + 2 * i, out, (size_t)INFER__MIN(8, n - 2 * i));
    }
}

static infer_result infer__resize(infer__mem *mem, int filter, const uint8_t *src, int32_t w, int32_t h, uint8_t *dst,
                                  int32_t dw, int32_t dh, size_t stride, infer_error *err) {
    const int64_t down = infer__resize_taps(filter, h, dh), most = INFER__MAX(down, infer__resize_taps(filter, w, dw));
    infer__arena a = {NULL, NULL, 0, 0};
    infer__resizing z;
    double *t;
    int32_t *k, x, y, done = 0;

    a.mem = mem;
    z.taps = infer__resize_taps(filter, w, dw);
    z.rows = down + 1;                           /* rows come in pairs */
    z.half = ((int64_t)dw * 3 + 7) / 8 * 4;
    z.first = (int32_t *)infer__arena_raw(&a, (uint64_t)dw * 4);
    z.count = (int32_t *)infer__arena_raw(&a, (uint64_t)dw * 4);
    z.k = (int32_t *)infer__arena_raw(&a, (uint64_t)dw * (uint64_t)z.taps * 4); /* below 2^40: w and dw are checked */
    k = (int32_t *)infer__arena_raw(&a, (uint64_t)most * 4);
    t = (double *)infer__arena_raw(&a, (uint64_t)most * 8);
    z.pair = (uint64_t *)infer__arena_raw(&a, (uint64_t)w * 24);
    z.row[0] = (uint8_t *)infer__arena_alloc(&a, (uint64_t)z.half * 2);
    z.row[1] = (uint8_t *)infer__arena_alloc(&a, (uint64_t)z.half * 2);
    z.ring = (uint64_t *)infer__arena_raw(&a, (uint64_t)z.rows * (uint64_t)z.half * 8);
    if (!z.first || !z.count || !z.k || !k || !t || !z.pair || !z.row[0] || !z.row[1] || !z.ring) {
        infer__arena_free(&a);
        return infer__error(err, INFER_ERR_MEMORY, "out of memory for resizing a picture of %d x %d to %d x %d", (int)w,
                            (int)h, (int)dw, (int)dh);
    }
    for (x = 0; x < dw; x++) z.first[x] = infer__resize_weights(filter, w, dw, x, z.k + x * z.taps, t, &z.count[x]);
    for (y = 0; y < dh; y++, dst += stride) {
        int32_t count, first = infer__resize_weights(filter, h, dh, y, k, t, &count);
        for (; done < first + count; done += 2) {
            const uint8_t *row = src + (size_t)done * (size_t)w * 3;
            infer__resize_across(&z, row, done + 1 < h ? row + (size_t)w * 3 : row, w, dw,
                                 z.ring + done % z.rows * z.half, z.ring + (done + 1) % z.rows * z.half);
        }
        infer__resize_down(&z, first, count, k, dst, (int64_t)dw * 3);
    }
    infer__arena_free(&a);
    return INFER_OK;
}
