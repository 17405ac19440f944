/* jpeg.h: what the parts of the JPEG decoder share (ITU-T T.81; JFIF: ITU-T T.871).
 *
 * Owns:  the state of one picture. jpeg.c reads segments, jpeg_scan.c the coefficients, jpeg_pixels.c turns them into
 *        samples and colours.
 */
#ifndef INFER__JPEG_H
#define INFER__JPEG_H
#include "media.h"

enum { INFER__JPEG_FAST = 9 }; /* codes up to so many bits are found by one lookup */
typedef struct infer__jpeg_code {
    uint16_t fast[1 << INFER__JPEG_FAST]; /* length << 8 | symbol; 0 = longer, or none */
    int32_t end[18];   /* first code behind those of a length, shifted to 16 bits; end[17] is behind all */
    int32_t offset[17]; /* of a code's symbol: symbol[offset[length] + code] */
    uint8_t symbol[256];
    int set;
} infer__jpeg_code;

typedef struct infer__jpeg_component {
    int id, h, v, table;           /* sampling factors, quantisation table */
    uint32_t width, height;        /* samples */
    uint32_t across, down;         /* blocks, of whole MCUs */
    uint32_t own_across, own_down; /* blocks that it has in a scan of its own */
    uint16_t quant[64];            /* as it was when the component's first scan began */
    int begun;                     /* a scan with its first coefficient was read */
    int16_t *blocks;               /* progressive: coefficients in natural order, 64 a block */
    uint8_t *plane;                /* down * 8 rows of across * 8 samples */
    int dc, ac, last;              /* of a scan: codes, last DC value */
} infer__jpeg_component;

typedef struct infer__jpeg {
    infer__media *m;
    const uint8_t *p;
    size_t n, at;
    int progressive, adobe, jfif; /* adobe: its transform, -1 = no such segment */
    uint32_t width, height;
    int n_components, h_max, v_max;
    uint32_t mcus_across, mcus_down, restart; /* MCUs between markers, 0 = none */
    infer__jpeg_component c[4];
    uint16_t quant[4][64]; /* in natural order */
    int quant_set[4];
    infer__jpeg_code codes[2][4]; /* DC, AC */
    /* of a scan */
    infer__jpeg_component *scan[4];
    int n_scan, first, last, high, low, n_scans;
    uint32_t end_run; /* blocks of which nothing follows */
    uint64_t bits;    /* the next ones are highest */
    int n_bits, padded; /* padded: zero bits behind the end, of n_bits */
} infer__jpeg;

static const uint8_t infer__jpeg_natural[64] = {
    /* place of the i-th coefficient (T.81, figure A.6) */
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48,
    41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23,
    30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
};

static infer_result infer__jpeg_bad(infer__jpeg *z, const char *why);
/* Codes from how many there are of each length, and their symbols. 0: too many. */
static int infer__jpeg_build(infer__jpeg_code *c, const uint8_t counts[16], const uint8_t *symbols);
/* The data of a scan, from z->at on; afterwards z->at is at the marker behind it, or before that. */
static infer_result infer__jpeg_scan(infer__jpeg *z);
/* 64 coefficients -> 8 x 8 samples. last: no coefficient behind this place of the zigzag order. */
static void infer__jpeg_idct(const int16_t *block, const uint16_t *quant, int last, uint8_t *out, size_t stride);
/* The planes -> out->rgb. */
static infer_result infer__jpeg_colours(infer__jpeg *z, infer_image *out);
#endif
