/* float_amx.c: matrix products with F32, F16 and BF16 weights by tiles of BF16 (AMX).
 *
 * Owns:  the product of the amxbf16 row of FLOATS.
 * Sums:  BF16: activations rounded to BF16. F32 and F16: weights and activations are a sum of two BF16, hi + lo, of
 *        which the product lo * lo is left out (normalised squared error 1e-10). An element grows in float32 over steps
 *        of 32 values; a step adds hi * hi, then weight hi * activation lo, then weight lo * activation hi, each the
 *        way tdpbf16ps adds. K is filled up with zeros.
 * How:   16 rows of a weight by 32 values are the first operand, 16 columns or fewer the second. With up to 16 columns
 *        the sums of 16 rows stay in a tile, and BF16 rows are multiplied directly from the file. With more, 128 rows
 *        are prepared for 8 or 16 steps and multiplied with up to 512 columns, whose sums are kept in the worker's
 *        scratch: two groups of columns stay in the L1 cache while all rows are read. (32 rows, and columns
 *        from the third-level cache each time: half of the speed.)
 * Start: infer__tiled_many.
 */
#include "amx.h"
#include "cpu_float.h"

#if defined(INFER__AMX) && defined(INFER__FLOAT_PAIRS)

enum {
    INFER__TILED_GROUPS = 8,   /* groups of 16 rows that are prepared at once: 128 KiB of the L2 cache */
    INFER__TILED_TILES = 16,   /* of a group: steps, hi and lo */
    INFER__TILED_PANEL = 32,   /* groups of 16 columns whose sums a worker holds */
    INFER__TILED_BYTES = 1024  /* of a tile */
};

/* A worker's memory. */
typedef struct infer__tiled_scratch {
    uint8_t w[INFER__TILED_GROUPS][INFER__TILED_TILES][INFER__TILED_BYTES];
    float y[INFER__TILED_PANEL][INFER__TILED_GROUPS][16][16]; /* of a group of columns and one of rows: row, column */
} infer__tiled_scratch;

/* The high halves of 32 floats. */
INFER__ON_pairs INFER__INLINE __m512i infer__tiled_high(__m512 a, __m512 b) {
    const __m512i odd = _mm512_set_epi16(63, 61, 59, 57, 55, 53, 51, 49, 47, 45, 43, 41, 39, 37, 35, 33, 31, 29, 27, 25,
                                         23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
    return _mm512_permutex2var_epi16(_mm512_castps_si512(a), odd, _mm512_castps_si512(b));
}
/* Rounded to BF16, halves up, as floats; a NaN that the rounding changes remains NaN in the difference. */
INFER__ON_pairs INFER__INLINE __m512 infer__tiled_round(__m512 v) {
    return _mm512_castsi512_ps(_mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(v), _mm512_set1_epi32(0x8000)),
                                                _mm512_set1_epi32(-65536)));
}

/* 32 values of a weight's row, or n of them and zeros. lo of F16 is exact. */
INFER__ON_pairs INFER__INLINE void infer__tiled_values(const uint8_t *src, int kind, int n, __m512i *hi, __m512i *lo) {
    uint8_t part[128] = {0};
    __m512 a, b, hi_a, hi_b;
    if (n < 32) src = (const uint8_t *)memcpy(part, src, (size_t)(n * (kind == INFER__FLOAT_F32 ? 4 : 2)));
    if (kind == INFER__FLOAT_BF16) {
        *hi = _mm512_loadu_si512(src);
        return;
    }
    if (kind == INFER__FLOAT_F32) {
        a = _mm512_loadu_ps(src);
        b = _mm512_loadu_ps(src + 64);
    } else {
        a = infer__fv_f16_avx512(src);
        b = infer__fv_f16_avx512(src + 32);
    }
    hi_a = infer__tiled_round(a);
    hi_b = infer__tiled_round(b);
    *hi = infer__tiled_high(hi_a, hi_b);
    a = _mm512_sub_ps(a, hi_a);
    b = _mm512_sub_ps(b, hi_b);
    *lo = kind == INFER__FLOAT_F16 ? infer__tiled_high(a, b) : (__m512i)_mm512_cvtne2ps_pbh(b, a);
}

/* w (1 .. 16) columns of k values as second operands: every 32 values are 16 lines of pairs, those of all columns side
 * by side, of hi, which is rounded, and then (parts 2) as many of lo. */
INFER__ON_pairs INFER__INLINE void infer__tiled_columns(const float *const *src, int32_t w, int64_t k, int parts,
                                                        uint8_t *x) {
    const __m512i places = _mm512_mullo_epi32(_mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
                                              _mm512_set1_epi32(w));
    int64_t at;
    int32_t j, part;
    for (at = 0; at < k; at += 32, x += parts * w * 64) {
        __m512i v[2][16], turned[16];
        for (j = 0; j < w; j++) {
            float rest[32] = {0};
            const float *from = src[j] + at;
            __m512 a, b;
            __m512i h;
            if (k - at < 32) from = (const float *)memcpy(rest, from, (size_t)(k - at) * sizeof *rest);
            a = _mm512_loadu_ps(from);
            b = _mm512_loadu_ps(from + 16);
            v[0][j] = h = (__m512i)_mm512_cvtne2ps_pbh(b, a);
            a = _mm512_sub_ps(
                a, _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_castsi512_si256(h)), 16)));
            b = _mm512_sub_ps(
                b, _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(h, 1)), 16)));
            v[1][j] = (__m512i)_mm512_cvtne2ps_pbh(b, a);
            for (part = 0; part < parts && w < 16; part++)
                _mm512_i32scatter_epi32(x + part * w * 64 + 4 * j, places, v[part][j], 4);
        }
        for (part = 0; part < parts && w == 16; part++) {
            infer__transpose_avx512((const uint8_t *)v[part], 64, turned);
            for (j = 0; j < 16; j++) _mm512_storeu_si512(x + part * 1024 + 64 * j, turned[j]);
        }
    }
}

INFER__ON_pairs static void infer__tiled_prepare(const float *const *src, int32_t w, int64_t k, uint8_t *x) {
    infer__tiled_columns(src, w, k, 1, x);
}
INFER__ON_pairs static void infer__tiled_prepare_two(const float *const *src, int32_t w, int64_t k, uint8_t *x) {
    infer__tiled_columns(src, w, k, 2, x);
}

/* ---- weights --------------------------------------------------------------------------------------------------- */

/* Steps s .. s+n_steps-1 of n rows from p->w + r rows on, and of rows of zeros to 16, as first operands: step after
 * step hi, for BF16 all there is, and lo. */
INFER__ON_pairs INFER__INLINE void infer__tiled_rows(const infer__float_product *p, int32_t r, int32_t n, int64_t s,
                                                     int64_t n_steps, int kind, uint8_t *w) {
    const int bytes = kind == INFER__FLOAT_F32 ? 128 : 64, split = kind != INFER__FLOAT_BF16;
    int64_t i;
    int32_t j;
    for (j = 0; j < 16; j++) {
        const uint8_t *src = p->w + (r + j) * p->sw + s * bytes;
        uint8_t *to = w + 64 * j;
        for (i = 0; i < n_steps; i++, src += bytes, to += (split ? 2 : 1) * INFER__TILED_BYTES) {
            __m512i hi = _mm512_setzero_si512(), lo = hi;
            if (j < n) infer__tiled_values(src, kind, (int)INFER__MIN(p->cols - (s + i) * 32, 32), &hi, &lo);
            _mm512_store_si512(to, hi);
            if (split) _mm512_store_si512(to + INFER__TILED_BYTES, lo);
        }
    }
}

/* ---- products: tiles 0 .. 3 are sums, 4 and 5 first operands, 6 and 7 second ones -------------------------------- */

/* Two groups of rows, the second w_apart bytes on, times two groups of columns, likewise; or of each one (apart 0).
 * x_bytes: of a step of a group of columns; row: of a line of it, and of sums. */
INFER__INLINE void infer__tiled_block(const uint8_t *w, int64_t w_apart, const uint8_t *x, int64_t x_apart,
                                      int64_t x_bytes, int64_t row, int64_t n_steps, int split, int first, float *y) {
    int64_t i;
    int part;
    float *z = y + INFER__TILED_GROUPS * 256;
    if (first) {
        INFER__TILE_ZERO(0);
        INFER__TILE_ZERO(1);
        INFER__TILE_ZERO(2);
        INFER__TILE_ZERO(3);
    } else {
        INFER__TILE_LOAD(0, y, row);
        if (x_apart) INFER__TILE_LOAD(1, z, row);
        if (w_apart) INFER__TILE_LOAD(2, y + 256, row);
        if (w_apart && x_apart) INFER__TILE_LOAD(3, z + 256, row);
    }
    for (i = 0; i < n_steps; i++, w += (split ? 2 : 1) * INFER__TILED_BYTES, x += x_bytes)
        for (part = 0; part < (split ? 3 : 1); part++) { /* hi hi, hi lo, lo hi */
            const uint8_t *wp = part == 2 ? w + INFER__TILED_BYTES : w, *xp = part == 1 ? x + 16 * row : x;
            if (part != 1) INFER__TILE_LOAD(4, wp, 64);
            INFER__TILE_LOAD(6, xp, row);
            INFER__TILE_DOT16(0, 4, 6);
            if (x_apart) {
                INFER__TILE_LOAD(7, xp + x_apart, row);
                INFER__TILE_DOT16(1, 4, 7);
            }
            if (!w_apart) continue;
            if (part != 1) INFER__TILE_LOAD(5, wp + w_apart, 64);
            INFER__TILE_DOT16(2, 5, 6);
            if (x_apart) INFER__TILE_DOT16(3, 5, 7);
        }
    INFER__TILE_STORE(0, y, row);
    if (x_apart) INFER__TILE_STORE(1, z, row);
    if (w_apart) INFER__TILE_STORE(2, y + 256, row);
    if (w_apart && x_apart) INFER__TILE_STORE(3, z + 256, row);
}

/* All prepared groups of rows times one or two groups of columns. */
INFER__INLINE void infer__tiled_sweep(infer__tiled_scratch *t, int32_t groups, const uint8_t *x, int64_t x_apart,
                                      int64_t x_bytes, int64_t row, int64_t n_steps, int split, int first,
                                      int32_t panel) {
    enum { APART = INFER__TILED_TILES * INFER__TILED_BYTES };
    int32_t g;
    for (g = 0; g + 2 <= groups; g += 2)
        infer__tiled_block(t->w[g][0], APART, x, x_apart, x_bytes, row, n_steps, split, first, t->y[panel][g][0]);
    if (g < groups)
        infer__tiled_block(t->w[g][0], 0, x, x_apart, x_bytes, row, n_steps, split, first, t->y[panel][g][0]);
}

/* Sums of n rows and w columns to y. */
INFER__ON_pairs INFER__INLINE void infer__tiled_results(const float *sums, int32_t n, int32_t w, float *y, int64_t sy) {
    __m512i v[16];
    int32_t i, j;
    if (n < 16 || w < 16) {
        for (j = 0; j < w; j++)
            for (i = 0; i < n; i++) y[j * sy + i] = sums[i * w + j];
        return;
    }
    infer__transpose_avx512((const uint8_t *)sums, 64, v);
    for (j = 0; j < 16; j++) _mm512_storeu_si512(y + j * sy, v[j]);
}

/* More than 16 columns. */
INFER__ON_pairs INFER__INLINE void infer__tiled_many(const infer__float_product *p, int kind, infer__tiled_scratch *t) {
    const int split = kind != INFER__FLOAT_BF16;
    const int64_t all = ((int64_t)p->cols + 31) / 32, cut = split ? INFER__TILED_TILES / 2 : INFER__TILED_TILES;
    const int64_t each = p->sx / all; /* bytes of a column's step */
    int64_t s, n_steps;
    int32_t r, n, first, n_x, j, g;
    for (r = 0; r < p->n; r += n) {
        n = INFER__MIN(p->n - r, 16 * INFER__TILED_GROUPS);
        for (first = 0; first < p->n_x; first += n_x) {
            n_x = INFER__MIN(p->n_x - first, 16 * INFER__TILED_PANEL);
            for (s = 0; s < all; s += n_steps) {
                const uint8_t *x = p->x + first * p->sx + s * 16 * each;
                const int32_t groups = (n + 15) / 16, rest = n_x % 16;
                n_steps = INFER__MIN(all - s, cut);
                for (g = 0; g < groups; g++)
                    infer__tiled_rows(p, r + 16 * g, INFER__MIN(n - 16 * g, 16), s, n_steps, kind, t->w[g][0]);
                infer__tiles_begin(64, 16, 64);
                for (j = 0; j + 32 <= n_x; j += 32, x += 32 * p->sx)
                    infer__tiled_sweep(t, groups, x, 16 * p->sx, 16 * each, 64, n_steps, split, s == 0, j / 16);
                for (; j + 16 <= n_x; j += 16, x += 16 * p->sx)
                    infer__tiled_sweep(t, groups, x, 0, 16 * each, 64, n_steps, split, s == 0, j / 16);
                if (rest) {
                    infer__tiles_begin(64, 16, 4 * rest);
                    infer__tiled_sweep(t, groups, p->x + (first + j) * p->sx + s * rest * each, 0, rest * each,
                                       4 * rest, n_steps, split, s == 0, j / 16);
                }
            }
            for (j = 0; j < n_x; j += 16)
                for (g = 0; 16 * g < n; g++)
                    infer__tiled_results(t->y[j / 16][g][0], INFER__MIN(n - 16 * g, 16), INFER__MIN(n_x - j, 16),
                                         p->y + (first + j) * p->sy + r + 16 * g, p->sy);
        }
    }
    INFER__TILE_RELEASE();
}

/* At most 16 columns. BF16 rows are multiplied in place, except for an incomplete last step or group. */
INFER__ON_pairs INFER__INLINE void infer__tiled_few(const infer__float_product *p, int kind, infer__tiled_scratch *t) {
    enum { T = INFER__TILED_BYTES };
    const int split = kind != INFER__FLOAT_BF16, bytes = kind == INFER__FLOAT_F32 ? 128 : 64;
    const int64_t all = ((int64_t)p->cols + 31) / 32, row = 4 * p->n_x, group = 16 * p->sw;
    const int64_t x_bytes = p->sx / all * p->n_x;
    int64_t s, n_steps, i;
    int32_t r, n, k;
    infer__tiles_begin(64, 16, (int)row);
    for (r = 0; r < p->n; r += n) {
        n = INFER__MIN(p->n - r, 16);
        INFER__TILE_ZERO(0);
        for (s = 0; s < all; s += n_steps) {
            const uint8_t *x = p->x + s * x_bytes, *w = p->w + r * p->sw + s * bytes;
            int64_t stride = p->sw, step = 64;
            n_steps = INFER__MIN(all - s, 8);
            if (split || n < 16 || (s + n_steps) * 32 > p->cols) {
                infer__tiled_rows(p, r, n, s, n_steps, kind, t->w[0][0]);
                w = t->w[0][0];
                stride = 64;
                step = (split ? 2 : 1) * T;
            }
            for (i = 0; i < n_steps; i++, w += step, x += x_bytes) {
                const uint8_t *next = p->w + r * p->sw + group + (s + i) * 16 * bytes;
                for (k = 0; k < 16 * bytes; k += 64) INFER__PREFETCH_FAR(next + k);
                INFER__TILE_LOAD(6, x, row);
                INFER__TILE_LOAD(4, w, stride);
                INFER__TILE_DOT16(0, 4, 6);
                if (!split) continue;
                INFER__TILE_LOAD(7, x + 16 * row, row);
                INFER__TILE_DOT16(0, 4, 7);
                INFER__TILE_LOAD(5, w + T, 64);
                INFER__TILE_DOT16(0, 5, 6);
            }
        }
        INFER__TILE_STORE(0, t->y[0][0][0], row);
        infer__tiled_results(t->y[0][0][0], n, p->n_x, p->y + r, p->sy);
    }
    INFER__TILE_RELEASE();
}

#define INFER__TILED(name, kind)                                                          \
    INFER__ON_pairs static void infer__tiled_##name(const infer__float_product *p) {      \
        infer__tiled_scratch *t = (infer__tiled_scratch *)(void *)p->tile;                \
        if (p->n_all <= 16) infer__tiled_few(p, kind, t);                                 \
        else infer__tiled_many(p, kind, t);                                               \
        infer__float_add_bias(p, 0, p->n, 0, p->n_x);                                     \
    }
INFER__TILED(f32, INFER__FLOAT_F32)
INFER__TILED(f16, INFER__FLOAT_F16)
INFER__TILED(bf16, INFER__FLOAT_BF16)
#undef INFER__TILED

/* Making hi and lo of F16 and F32 weights takes longer than reading them: not for models that generate. */
static const infer__float_tiled infer__tiled_generates = {
    sizeof(infer__tiled_scratch) / sizeof(float), infer__tiled_prepare,
    {{NULL, 0, 0, 0}, {NULL, 0, 0, 0}, {infer__tiled_bf16, 16 * INFER__TILED_GROUPS, 32, 1}}};
static const infer__float_tiled infer__tiled_encodes = {
    sizeof(infer__tiled_scratch) / sizeof(float), infer__tiled_prepare_two,
    {{infer__tiled_f32, 16 * INFER__TILED_GROUPS, 32, 1},
     {infer__tiled_f16, 16 * INFER__TILED_GROUPS, 32, 1},
     {infer__tiled_bf16, 16 * INFER__TILED_GROUPS, 32, 1}}};
#endif
