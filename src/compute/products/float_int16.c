/* float_int16.c: matrix products with F16 and BF16 weights as integers of 16 bits (AVX-512 VNNI).
 *
 * Owns:  the product of the `avx512vnni encodes` row of FLOATS.
 * Sums:  64 values of a row of a weight, and 64 of a column, are integers times a float32 that makes their norm 32,760:
 *        so each fits in 16 bits, and no sum of their products reaches 2^31 (Cauchy and Schwarz). These sums are exact.
 *        An element grows in float32 block after block along K: sum * (scale of the row * scale of the column).
 *        Rounding a block to integers has a normalised squared error of 5e-9 whatever its values; rounding values to
 *        F16 has 3.4e-8. A block with an infinity or a NaN gives NaN; a norm below 1e-30 is taken as zero.
 * How:   vpdpwssd multiplies and adds twice as many values as a float32 FMA. 32 rows are converted for 256 values,
 *        pairs of values of 16 rows side by side, and multiplied with broadcast pairs of up to 256 columns. vpackssdw
 *        leaves 32 values in an order of its own, in rows and columns alike.
 * Start: infer__int16_multiply.
 */
#include "cpu_float.h"

#if defined(INFER__SIMD_AVX512)

enum {
    INFER__INT16_NORM = 32760, /* of the integers of a block, not rounded */
    INFER__INT16_GROUPS = 2,  /* groups of 16 rows that are multiplied together */
    INFER__INT16_BLOCK = 2,   /* steps of 32 values of a block */
    INFER__INT16_CUT = 4,     /* blocks that are converted at once */
    INFER__INT16_PANEL = 512  /* columns whose sums are kept */
};

/* A worker's memory. */
typedef struct infer__int16_scratch {
    int16_t w[INFER__INT16_GROUPS][INFER__INT16_CUT][INFER__INT16_BLOCK * 16][32]; /* pairs of 16 rows */
    float scale[INFER__INT16_CUT][INFER__INT16_GROUPS][16];
    float y[INFER__INT16_PANEL][INFER__INT16_GROUPS][16];
} infer__int16_scratch;

/* 16 values of a kind from src on. */
INFER__ON_avx512 INFER__INLINE __m512 infer__int16_load(const uint8_t *src, int kind) {
    if (kind == INFER__FLOAT_F32) return _mm512_loadu_ps(src);
    if (kind == INFER__FLOAT_F16) return infer__fv_f16_avx512(src);
    return _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)src)), 16));
}

/* Lane i: the sum of the lanes of v[i]. */
INFER__ON_avx512 INFER__INLINE __m512 infer__int16_sums(const __m512 *v) {
    __m512 a[8], b[4], c[2];
    int i;
    INFER__UNROLL for (i = 0; i < 8; i++) {
        __m512 p = v[i / 4 * 8 + i % 4], q = v[i / 4 * 8 + 4 + i % 4];
        a[i] = _mm512_add_ps(_mm512_shuffle_f32x4(p, q, 0x44), _mm512_shuffle_f32x4(p, q, 0xee));
    }
    INFER__UNROLL for (i = 0; i < 4; i++)
        b[i] = _mm512_add_ps(_mm512_shuffle_f32x4(a[i], a[i + 4], 0x88), _mm512_shuffle_f32x4(a[i], a[i + 4], 0xdd));
    INFER__UNROLL for (i = 0; i < 2; i++) {
        __m512 p = b[2 * i], q = b[2 * i + 1];
        c[i] = _mm512_add_ps(_mm512_shuffle_ps(p, q, 0x44), _mm512_shuffle_ps(p, q, 0xee));
    }
    return _mm512_add_ps(_mm512_shuffle_ps(c[0], c[1], 0x88), _mm512_shuffle_ps(c[0], c[1], 0xdd));
}

/* The scale of a block whose squares add up to no normal number. */
static float infer__int16_scale(const uint8_t *src, int kind, int32_t n) {
    double sum = 0;
    int32_t i;
    for (i = 0; i < n; i++) {
        float v = 0;
        uint16_t h;
        memcpy(&h, src + 2 * i, 2);
        if (kind == INFER__FLOAT_F32) memcpy(&v, src + 4 * i, 4);
        else v = kind == INFER__FLOAT_F16 ? infer__f16_f32(h) : infer__bf16_f32(h);
        if ((infer__f32_bits(v) & 0x7f800000u) == 0x7f800000u) return infer__bits_f32(0x7fc00000u);
        sum += (double)v * v;
    }
    return sum < 1e-60 ? 0 : (float)(sqrt(sum) / INFER__INT16_NORM);
}

/* n (1 .. 64) values of each of `rows` (1 .. 16) rows as integers, zeros after them: those of row i at to + i * stride,
 * the second 32 `second` values on. scale: of 16 rows. */
INFER__ON_avx512 INFER__INLINE void infer__int16_block(const uint8_t *const *src, int32_t rows, int32_t n, int kind,
                                                       int16_t *to, int32_t stride, int32_t second, float *scale) {
    const int each = kind == INFER__FLOAT_F32 ? 64 : 32; /* bytes of 16 values */
    const __m512 least = _mm512_set1_ps(1e-30f), greatest = _mm512_set1_ps(1e30f);
    __m512 squares[16], sum, by;
    const uint8_t *from[16];
    uint8_t part[16][256];
    float inverse[16];
    __mmask16 odd;
    int32_t i, j;
    for (i = 0; i < 16; i++) {
        __m512 v[4];
        from[i] = src[INFER__MIN(i, rows - 1)];
        if (n < 32 * INFER__INT16_BLOCK) {
            memset(part[i], 0, sizeof part[i]);
            from[i] = (const uint8_t *)memcpy(part[i], from[i], (size_t)(n * each / 16));
        }
        INFER__UNROLL for (j = 0; j < 4; j++) v[j] = infer__int16_load(from[i] + j * each, kind);
        INFER__UNROLL for (j = 0; j < 2; j++) v[j] = _mm512_fmadd_ps(v[j + 2], v[j + 2], _mm512_mul_ps(v[j], v[j]));
        squares[i] = _mm512_add_ps(v[0], v[1]);
    }
    sum = infer__int16_sums(squares);
    by = _mm512_mul_ps(_mm512_sqrt_ps(sum), _mm512_set1_ps(1.0f / INFER__INT16_NORM));
    _mm512_storeu_ps(scale, by);
    _mm512_storeu_ps(inverse, _mm512_div_ps(_mm512_set1_ps(1), by));
    odd = (__mmask16)~(_mm512_cmp_ps_mask(sum, least, _CMP_GT_OQ) & _mm512_cmp_ps_mask(sum, greatest, _CMP_LT_OQ));
    for (i = 0; odd && i < 16; i++)
        if (odd >> i & 1) {
            scale[i] = infer__int16_scale(from[i], kind, n);
            inverse[i] = scale[i] > 0 ? 1 / scale[i] : 0;
        }
    for (i = 0; i < rows; i++) {
        const __m512 m = _mm512_set1_ps(inverse[i]);
        __m512i v[4];
        INFER__UNROLL for (j = 0; j < 4; j++)
            v[j] = _mm512_cvtps_epi32(_mm512_mul_ps(infer__int16_load(from[i] + j * each, kind), m));
        _mm512_storeu_si512(to + i * stride, _mm512_packs_epi32(v[0], v[1]));
        if (n > 32) _mm512_storeu_si512(to + i * stride + second, _mm512_packs_epi32(v[2], v[3]));
    }
}

/* w columns: step after step 32 integers of each, and then, block after block, the scales of each. */
INFER__ON_avx512 static void infer__int16_prepare(const float *const *src, int32_t w, int64_t k, uint8_t *x) {
    const uint8_t *from[16];
    uint8_t *scales = x + (k + 31) / 32 * w * 64;
    float scale[16];
    int64_t at;
    int32_t j;
    for (at = 0; at < k; at += 64, x += w * 128, scales += w * 4) {
        for (j = 0; j < w; j++) from[j] = (const uint8_t *)(const void *)(src[j] + at);
        infer__int16_block(from, w, (int32_t)INFER__MIN(k - at, 64), INFER__FLOAT_F32, (int16_t *)(void *)x, 32, w * 32,
                           scale);
        memcpy(scales, scale, (size_t)w * sizeof *scale);
    }
}

/* Rows r .. r+n-1 (n < 33) from value `at` on, `blocks` blocks. */
INFER__ON_avx512 INFER__INLINE void infer__int16_rows(const infer__float_product *p, int32_t r, int32_t n, int32_t at,
                                                      int32_t blocks, int kind, infer__int16_scratch *t) {
    const uint8_t *from[16];
    __m512i rows[2][16], turned[16];
    int32_t g, b, i, h;
    for (g = 0; 16 * g < n; g++)
        for (b = 0; b < blocks; b++) {
            int32_t left = INFER__MIN(p->cols - at - 64 * b, 64);
            for (i = 0; i < 16; i++) from[i] = p->w + (r + INFER__MIN(16 * g + i, n - 1)) * p->sw + 2 * (at + 64 * b);
            infer__int16_block(from, 16, left, kind, (int16_t *)(void *)rows, 32, 16 * 32, t->scale[b][g]);
            for (h = 0; 32 * h < left; h++) {
                infer__transpose_avx512((const uint8_t *)rows[h], 64, turned);
                INFER__UNROLL for (i = 0; i < 16; i++) _mm512_store_si512(t->w[g][b][16 * h + i], turned[i]);
            }
        }
}

/* C columns of w that were prepared together, the first at x, times the converted rows. y: their sums. */
#  define INFER__INT16_COLUMNS(C)                                                                                 \
    INFER__ON_avx512vnni static void infer__int16_columns_##C(const infer__int16_scratch *t, const uint8_t *x,    \
                                                              const uint8_t *scale, int32_t w, int32_t steps,     \
                                                              int first, float(*y)[INFER__INT16_GROUPS][16]) {    \
      int32_t b, s, i, g, j;                                                                                      \
      for (b = 0; INFER__INT16_BLOCK * b < steps; b++, scale += 4 * w) {                                          \
        __m512i sum[INFER__INT16_GROUPS][C], a[INFER__INT16_GROUPS], v;                                           \
        const int32_t pairs = 16 * INFER__MIN(steps - INFER__INT16_BLOCK * b, INFER__INT16_BLOCK);                \
        INFER__UNROLL for (g = 0; g < INFER__INT16_GROUPS; g++) INFER__UNROLL for (j = 0; j < C; j++) sum[g][j] = \
            _mm512_setzero_si512();                                                                               \
        for (s = 0; s < pairs; s += 16, x += 64 * w) INFER__UNROLL for (i = 0; i < 16; i++) {                     \
            INFER__UNROLL for (g = 0; g < INFER__INT16_GROUPS; g++) a[g] = _mm512_load_si512(t->w[g][b][s + i]);  \
            INFER__UNROLL for (j = 0; j < C; j++) {                                                               \
              int32_t pair;                                                                                       \
              memcpy(&pair, x + 64 * j + 4 * i, 4);                                                               \
              v = _mm512_set1_epi32(pair);                                                                        \
              INFER__UNROLL for (g = 0; g < INFER__INT16_GROUPS; g++) sum[g][j] =                                 \
                  _mm512_dpwssd_epi32(sum[g][j], a[g], v);                                                        \
            }                                                                                                     \
          }                                                                                                       \
        INFER__UNROLL for (j = 0; j < C; j++) {                                                                   \
          float f;                                                                                                \
          memcpy(&f, scale + 4 * j, 4);                                                                           \
          INFER__UNROLL for (g = 0; g < INFER__INT16_GROUPS; g++) {                                               \
            __m512 d = _mm512_mul_ps(_mm512_load_ps(t->scale[b][g]), _mm512_set1_ps(f));                          \
            __m512 z = first && b == 0 ? _mm512_setzero_ps() : _mm512_load_ps(y[j][g]);                           \
            _mm512_store_ps(y[j][g], _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[g][j]), d, z));                       \
          }                                                                                                       \
        }                                                                                                         \
      }                                                                                                           \
    }
INFER__INT16_COLUMNS(1)
INFER__INT16_COLUMNS(2)
INFER__INT16_COLUMNS(4)
INFER__INT16_COLUMNS(8)
#  undef INFER__INT16_COLUMNS

INFER__ON_avx512 INFER__INLINE void infer__int16_multiply(const infer__float_product *p, int kind) {
    infer__int16_scratch *t = (infer__int16_scratch *)(void *)p->tile;
    const int64_t all = ((int64_t)p->cols + 31) / 32;
    enum { ROWS = 16 * INFER__INT16_GROUPS, CUT = INFER__INT16_CUT * INFER__INT16_BLOCK };
    int32_t r, n, first, n_x, i, j, w, c, steps;
    int64_t s;
    for (r = 0; r < p->n; r += n) {
        n = INFER__MIN(p->n - r, ROWS);
        for (first = 0; first < p->n_x; first += n_x) {
            n_x = INFER__MIN(p->n_x - first, INFER__INT16_PANEL);
            for (s = 0; s < all; s += steps) {
                steps = (int32_t)INFER__MIN(all - s, CUT);
                infer__int16_rows(p, r, n, (int32_t)s * 32, (steps + INFER__INT16_BLOCK - 1) / INFER__INT16_BLOCK, kind,
                                  t);
                for (i = 0; i < n_x; i += w) {
                    const uint8_t *group = p->x + (first + i) * p->sx;
                    w = INFER__MIN(n_x - i, 16);
                    for (j = 0; j < w; j += c) {
                        const uint8_t *x = group + 64 * (s * w + j),
                                      *scale = group + 64 * all * w + 4 * (s / 2 * w + j);
#  define INFER__INT16_DO(C) (infer__int16_columns_##C(t, x, scale, w, steps, s == 0, t->y + i + j), C)
                        c = w - j >= 8 ? INFER__INT16_DO(8) : w - j >= 4 ? INFER__INT16_DO(4)
                            : w - j >= 2 ? INFER__INT16_DO(2) : INFER__INT16_DO(1);
#  undef INFER__INT16_DO
                    }
                }
            }
            infer__float_sums_put(p, r, n, first, n_x, t->y[0][0], ROWS);
        }
    }
}

INFER__ON_avx512 static void infer__int16_f16(const infer__float_product *p) {
    infer__int16_multiply(p, INFER__FLOAT_F16);
}
INFER__ON_avx512 static void infer__int16_bf16(const infer__float_product *p) {
    infer__int16_multiply(p, INFER__FLOAT_BF16);
}

/* Converting takes longer than reading a weight: not for models that generate. */
static const infer__float_tiled infer__int16_encodes = {
    INFER__MAX(sizeof(infer__int16_scratch), sizeof(infer__outer_scratch)) / sizeof(float), infer__int16_prepare,
    {{infer__outer_f32, 16 * INFER__OUTER_GROUPS, 16 * INFER__OUTER_GROUPS, 0},
     {infer__int16_f16, 16 * INFER__INT16_GROUPS, 16 * INFER__INT16_GROUPS, 1},
     {infer__int16_bf16, 16 * INFER__INT16_GROUPS, 16 * INFER__INT16_GROUPS, 1}}};
#endif
