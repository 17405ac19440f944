/* float_outer.c: matrix products with F32 weights as sums of outer products (AVX-512).
 *
 * Owns:  the products of F32 in the `encodes` rows of FLOATS.
 * Sums:  an element grows in float32 over runs of 64 values along K: a run is added up value after value, by fused
 *        multiply-add, and then added to the element. This is the order for every number of columns.
 * How:   48 rows are transposed for 64 values: a vector is a value of each of 16 rows. Three of them are multiplied
 *        with each value of 8 columns, which are read as they are, so no lanes are added up. Transposing takes longer
 *        than reading a weight: for models that only encode.
 * Start: infer__outer_f32.
 */
#include "cpu_float.h"

#if defined(INFER__SIMD_AVX512)

enum {
    INFER__OUTER_GROUPS = 3, /* groups of 16 rows that are multiplied together */
    INFER__OUTER_CUT = 64,   /* values of a run */
    INFER__OUTER_COLS = 8,   /* of a block at most */
    INFER__OUTER_PANEL = 512 /* columns whose sums are kept */
};

/* A worker's memory. */
typedef struct infer__outer_scratch {
    float w[INFER__OUTER_CUT][INFER__OUTER_GROUPS][16]; /* of a value: the rows */
    float y[INFER__OUTER_PANEL][INFER__OUTER_GROUPS][16];
} infer__outer_scratch;

/* Values at .. at+k-1 (k <= INFER__OUTER_CUT) of rows r .. r+n-1 (n <= 48); the last row is there more than once. */
INFER__ON_avx512 INFER__INLINE void infer__outer_rows(const infer__float_product *p, int32_t r, int32_t n, int32_t at,
                                                      int32_t k, infer__outer_scratch *t) {
    uint8_t part[16][64] = {{0}};
    __m512i turned[16];
    int32_t g, i, s;
    for (g = 0; 16 * g < n; g++)
        for (s = 0; s < k; s += 16) {
            const uint8_t *from = p->w + (r + 16 * g) * p->sw + (at + s) * (int64_t)sizeof(float);
            if (k - s >= 16 && n - 16 * g >= 16) infer__transpose_avx512(from, p->sw, turned);
            else {
                for (i = 0; i < 16; i++)
                    memcpy(part[i], from + INFER__MIN(i, n - 16 * g - 1) * p->sw,
                           (size_t)INFER__MIN(k - s, 16) * sizeof(float));
                infer__transpose_avx512(part[0], 64, turned);
            }
            INFER__UNROLL for (i = 0; i < 16; i++) _mm512_storeu_si512(t->w[s + i][g], turned[i]);
        }
}

/* C columns, the first at x, times k values of the rows. ask: the columns that come next. y: their sums. */
#  define INFER__OUTER_BLOCK(C)                                                                                      \
    INFER__ON_avx512 static void infer__outer_block_##C(const infer__outer_scratch *t, const uint8_t *x, int64_t sx, \
                                                        const uint8_t *ask, int32_t k, int first,                    \
                                                        float(*y)[INFER__OUTER_GROUPS][16]) {                        \
      __m512 sum[INFER__OUTER_GROUPS][C], a[INFER__OUTER_GROUPS], v;                                                 \
      int32_t i, g, j;                                                                                               \
      INFER__UNROLL for (g = 0; g < INFER__OUTER_GROUPS; g++) INFER__UNROLL for (j = 0; j < C; j++) sum[g][j] =      \
          _mm512_setzero_ps();                                                                                       \
      for (i = 0; i < k; i++, x += sizeof(float), ask += sizeof(float)) {                                            \
        if (i % 16 == 0) INFER__UNROLL for (j = 0; j < C; j++) INFER__PREFETCH_FAR(ask + j * sx);                    \
        INFER__UNROLL for (g = 0; g < INFER__OUTER_GROUPS; g++) a[g] = _mm512_loadu_ps(t->w[i][g]);                  \
        INFER__UNROLL for (j = 0; j < C; j++) {                                                                      \
          float f;                                                                                                   \
          memcpy(&f, x + j * sx, sizeof f);                                                                          \
          v = _mm512_set1_ps(f);                                                                                     \
          INFER__UNROLL for (g = 0; g < INFER__OUTER_GROUPS; g++) sum[g][j] = _mm512_fmadd_ps(a[g], v, sum[g][j]);   \
        }                                                                                                            \
      }                                                                                                              \
      INFER__UNROLL for (j = 0; j < C; j++) INFER__UNROLL for (g = 0; g < INFER__OUTER_GROUPS; g++)                  \
          _mm512_storeu_ps(y[j][g], first ? sum[g][j] : _mm512_add_ps(_mm512_loadu_ps(y[j][g]), sum[g][j]));         \
    }
INFER__OUTER_BLOCK(1)
INFER__OUTER_BLOCK(2)
INFER__OUTER_BLOCK(4)
INFER__OUTER_BLOCK(8)
#  undef INFER__OUTER_BLOCK

INFER__ON_avx512 static void infer__outer_f32(const infer__float_product *p) {
    enum { ROWS = 16 * INFER__OUTER_GROUPS, LINES = INFER__OUTER_CUT / 16 };
    infer__outer_scratch *t = (infer__outer_scratch *)(void *)p->tile;
    int32_t r, n, first, n_x, at, k, j, c, asked, lines;
    for (r = 0; r < p->n; r += n) {
        n = INFER__MIN(p->n - r, ROWS);
        for (first = 0; first < p->n_x; first += n_x) {
            n_x = INFER__MIN(p->n_x - first, INFER__OUTER_PANEL);
            for (at = 0; at < p->cols; at += k) {
                /* the weights to ask for while these are multiplied: the next run, or the first one of the next rows */
                const uint8_t *next = p->w + r * p->sw;
                k = INFER__MIN(p->cols - at, INFER__OUTER_CUT);
                lines = LINES * n;
                if (at + k < p->cols) next += (at + k) * (int64_t)sizeof(float);
                else if (p->after + p->n - r >= 2 * n) next += n * p->sw;
                else lines = 0;
                infer__outer_rows(p, r, n, at, k, t);
                for (j = asked = 0; j < n_x; j += c) {
                    const uint8_t *x = p->x + (first + j) * p->sx + at * (int64_t)sizeof(float);
                    const int32_t left = n_x - j;
                    for (; asked * n_x < lines * (j + INFER__OUTER_COLS) && asked < lines; asked++)
                        INFER__PREFETCH_FAR(next + asked / LINES * p->sw + asked % LINES * 64);
#  define INFER__OUTER_DO(C) \
    (infer__outer_block_##C(t, x, p->sx, left >= 2 * C ? x + C * p->sx : x, k, at == 0, t->y + j), C)
                    c = left >= 8 ? INFER__OUTER_DO(8) : left >= 4 ? INFER__OUTER_DO(4)
                        : left >= 2 ? INFER__OUTER_DO(2) : INFER__OUTER_DO(1);
#  undef INFER__OUTER_DO
                }
            }
            infer__float_sums_put(p, r, n, first, n_x, t->y[0][0], ROWS);
        }
    }
}

/* Without VNNI (float_int16.c), F16 and BF16 by blocks. */
static const infer__float_tiled infer__outer_encodes = {
    sizeof(infer__outer_scratch) / sizeof(float), NULL,
    {{infer__outer_f32, 16 * INFER__OUTER_GROUPS, 16 * INFER__OUTER_GROUPS, 0}, {NULL, 0, 0, 0}, {NULL, 0, 0, 0}}};
#endif
