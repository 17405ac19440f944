/* cpu_float.h: blocks of dot products with F32, F16 and BF16 weights: one body for every instruction set.
 *
 * Owns:  infer__floats (what a level provides), and the bodies that float_*.c wrap.
 * Sums:  of tiles: float_amx.c, float_int16.c, float_outer.c. Of blocks, F32 and F16: the definition's, bit for bit:
 *        lane = k % 16, float32 activations, lanes added in halves.
 *        BF16 (when not exact): activations rounded to BF16, lane = (k / 2) % 16; a lane takes k = 1, 0, 33, 32, 65, ..
 *        that is, of every pair the odd value first, in float32 (the order in which vdpbf16ps works); lanes in halves.
 *        K not a multiple of 32 is filled up with zeros. Levels differ by fused multiply-add only, and AVX512BF16 by
 *        taking values below 2^-126 as zero.
 * Rules: a block is four rows of a weight by 1 .. cols columns. It adds to lanes kept in memory, so a sum may be cut
 *        anywhere between steps of 16 (BF16: 32) values without changing a bit.
 * How:   registers hold 4 x C accumulators of V lanes, for V < 16 one group of lanes after the other. AVX-512 and NEON
 *        have 32 registers: 24 accumulators, 6 columns, one weight, so 10 loads serve 24 multiplications.
 * Start: INFER__FLOAT_DOTS, then cpu_float.c (who calls it).
 */
#ifndef INFER__CPU_FLOAT_H
#define INFER__CPU_FLOAT_H

#include "../cpu/cpu_ops.h"

enum { INFER__FLOAT_F32, INFER__FLOAT_F16, INFER__FLOAT_BF16, INFER__FLOAT_KINDS };
enum {
    INFER__FLOAT_ROWS = 4,  /* of a block */
    INFER__FLOAT_COLS = 6,  /* of a block, at most */
    INFER__FLOAT_STEP = 64, /* bytes of a decoded row that one step takes: 16 floats, or 32 BF16 */
    INFER__FLOAT_LANES = INFER__FLOAT_ROWS * INFER__LANES /* floats of a column of a block */
};

/* acc[(j * 4 + i) * 16 + lane] += rows w + i * sw times columns x + j * sx, over `steps` steps. Strides are in bytes.
 * next is prefetched: as many bytes as are read, or with sn 0 a cache line per step. One column prefetches what follows
 * w itself. */
typedef void (*infer__float_fn)(const uint8_t *w, int64_t sw, const uint8_t *x, int64_t sx, int64_t steps,
                                const uint8_t *next, int64_t sn, float *acc);

/* The whole of four rows by C columns at once: y[j * sy + i] = row i times column j. The sums of infer__float_fn and
 * infer__floats.sums, whose lanes never leave the registers: of short rows storing and adding them up is a third of the
 * work. next: a cache line per step. */
typedef void (*infer__float_whole_fn)(const uint8_t *w, int64_t sw, const uint8_t *x, int64_t sx, int64_t steps,
                                      const uint8_t *next, float *y, int64_t sy);

/* A product: n rows of w, n_x columns; all strides in bytes but sy. */
typedef struct infer__float_product {
    const struct infer__floats *f;
    const uint8_t *w, *x; /* the first row; the first column */
    int64_t sw, sx;
    int32_t kind, prepared, n, n_x, cols;
    int32_t n_all; /* columns that were prepared with these */
    int32_t after; /* rows that come after these */
    float *y;
    int64_t sy;
    const float *bias; /* of these rows, or NULL */
    uint8_t *tile; /* the worker's scratch: decoded rows, */
    int32_t stride; /* so many bytes apart */
    float *lanes;
} infer__float_product;

/* Rows r .. r+n-1 of columns first .. first+n_x-1 to y, with their bias: sums of a column, `each` floats apart. */
static void infer__float_sums_put(const infer__float_product *p, int32_t r, int32_t n, int32_t first, int32_t n_x,
                                  const float *sums, int32_t each);
/* Add the bias of rows r .. r+n-1 to columns first .. first+n_x-1. */
static void infer__float_add_bias(const infer__float_product *p, int32_t r, int32_t n, int32_t first, int32_t n_x);

/* Products of a level that multiplies tiles of rows and columns. */
typedef struct infer__float_tiled {
    int64_t scratch; /* floats */
    /* w (1 .. 16) columns of k float32 to x, w prepared rows */
    void (*prepare)(const float *const *src, int32_t w, int64_t k, uint8_t *x);
    struct {
        void (*multiply)(const infer__float_product *p); /* with the bias; NULL: by blocks */
        int32_t rows, together; /* of a task with many columns; it has a multiple of `together` */
        int32_t prepared;       /* 0: x is float32, as it is */
    } by[INFER__FLOAT_KINDS];
} infer__float_tiled;

struct infer__floats {
    const char *name;
    uint32_t need;
    int32_t cols; /* of its largest block */
    int32_t
        pairs; /* 1: multiplies BF16 in pairs, so decoded rows and prepared activations stay BF16; 0: twice as long */
    /* By number of columns, up to `cols`; NULL: none for this kind. Weights as they are in the file, by kind: */
    infer__float_fn raw[INFER__FLOAT_KINDS][INFER__FLOAT_COLS + 1];
    /* Decoded ones, by kind, and the bytes of a step of such a row: */
    infer__float_fn decoded[INFER__FLOAT_KINDS][INFER__FLOAT_COLS + 1];
    int32_t step[INFER__FLOAT_KINDS];
    int32_t few[INFER__FLOAT_KINDS]; /* columns up to which decoding a weight is not worth it */
    /* The same for rows that are not cut; NULL: `decoded` and `sums` do it. */
    infer__float_whole_fn whole[INFER__FLOAT_KINDS][INFER__FLOAT_COLS + 1];
    /* n values of a kind as in the file to a decoded row, filled with zeros to whole steps */
    void (*decode[INFER__FLOAT_KINDS])(const uint8_t *src, uint8_t *dst, int64_t n);
    /* n float32 to a prepared row of BF16 activations, filled with zeros to a multiple of 32 */
    void (*prepare)(const float *src, uint8_t *dst, int64_t n);
    /* y[j * sy + i] = sum of the lanes of (j, i), j < n, i < 4 */
    void (*sums)(const float *acc, int32_t n, float *y, int64_t sy);
    const infer__float_tiled *tiled; /* NULL, or instead of blocks and `prepare` */
};

#if defined(INFER__SIMD_AVX512) && \
    ((defined(__clang__) && __clang_major__ >= 9) || (!defined(__clang__) && defined(__GNUC__) && __GNUC__ >= 10))
#  define INFER__FLOAT_PAIRS 1 /* the compiler knows AVX512-BF16 */
#  define INFER__ON_pairs INFER__TARGET("avx512bf16,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")
#endif

/* ---- V lanes ------------------------------------------------------------------------------------------------ */

/* Each set has: V, the vector, load (any address), store, fma (w * x + a); raw weights: f16, and of pairs of BF16 odd
 * and even. */

enum { INFER__FV_scalar = 4, INFER__FV_avx2 = 8, INFER__FV_avx512 = 16, INFER__FV_neon = 4 };

#if (defined(__GNUC__) || defined(__clang__)) && !defined(__TINYC__)
typedef struct infer__fv_scalar { infer__v4 v; } infer__fv_scalar; /* a bare vector would have no ABI without SSE */
INFER__INLINE infer__fv_scalar infer__fv_load_scalar(const void *p) {
    infer__fv_scalar v;
    memcpy(&v.v, p, sizeof v.v);
    return v;
}
INFER__INLINE infer__fv_scalar infer__fv_fma_scalar(infer__fv_scalar w, infer__fv_scalar x, infer__fv_scalar s) {
    INFER__KEEP_ORDER
    s.v += w.v * x.v;
    return s;
}
#else
typedef struct infer__fv_scalar { float v[4]; } infer__fv_scalar;
INFER__INLINE infer__fv_scalar infer__fv_load_scalar(const void *p) {
    infer__fv_scalar v;
    memcpy(v.v, p, sizeof v.v);
    return v;
}
INFER__INLINE infer__fv_scalar infer__fv_fma_scalar(infer__fv_scalar w, infer__fv_scalar x, infer__fv_scalar s) {
    INFER__KEEP_ORDER
    int l;
    for (l = 0; l < 4; l++) s.v[l] += w.v[l] * x.v[l];
    return s;
}
#endif
INFER__INLINE void infer__fv_store_scalar(void *p, infer__fv_scalar v) { memcpy(p, &v, sizeof v); }

#if defined(INFER__SIMD_AVX2)
typedef __m256 infer__fv_avx2;
INFER__ON_avx2 INFER__INLINE infer__fv_avx2 infer__fv_load_avx2(const void *p) {
    return _mm256_loadu_ps((const float *)p);
}
INFER__ON_avx2 INFER__INLINE void infer__fv_store_avx2(void *p, infer__fv_avx2 v) { _mm256_storeu_ps((float *)p, v); }
INFER__ON_avx2 INFER__INLINE infer__fv_avx2 infer__fv_fma_avx2(infer__fv_avx2 w, infer__fv_avx2 x, infer__fv_avx2 s) {
    return _mm256_fmadd_ps(w, x, s);
}
INFER__ON_avx2 INFER__INLINE infer__fv_avx2 infer__fv_f16_avx2(const uint8_t *p) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}
INFER__ON_avx2 INFER__INLINE infer__fv_avx2 infer__fv_odd_avx2(const uint8_t *p) {
    return _mm256_castsi256_ps(_mm256_and_si256(_mm256_loadu_si256((const __m256i *)(const void *)p),
                                                _mm256_set1_epi32(-65536)));
}
INFER__ON_avx2 INFER__INLINE infer__fv_avx2 infer__fv_even_avx2(const uint8_t *p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_loadu_si256((const __m256i *)(const void *)p), 16));
}

#  if defined(INFER__SIMD_AVX512)
typedef __m512 infer__fv_avx512;
INFER__ON_avx512 INFER__INLINE infer__fv_avx512 infer__fv_load_avx512(const void *p) { return _mm512_loadu_ps(p); }
INFER__ON_avx512 INFER__INLINE void infer__fv_store_avx512(void *p, infer__fv_avx512 v) { _mm512_storeu_ps(p, v); }
INFER__ON_avx512 INFER__INLINE infer__fv_avx512 infer__fv_fma_avx512(infer__fv_avx512 w, infer__fv_avx512 x,
                                                                     infer__fv_avx512 s) {
    return _mm512_fmadd_ps(w, x, s);
}
INFER__ON_avx512 INFER__INLINE infer__fv_avx512 infer__fv_f16_avx512(const uint8_t *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}
INFER__ON_avx512 INFER__INLINE infer__fv_avx512 infer__fv_odd_avx512(const uint8_t *p) {
    return _mm512_castsi512_ps(_mm512_and_si512(_mm512_loadu_si512(p), _mm512_set1_epi32(-65536)));
}
INFER__ON_avx512 INFER__INLINE infer__fv_avx512 infer__fv_even_avx512(const uint8_t *p) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_loadu_si512(p), 16));
}
#  endif
#endif

#if defined(INFER__SIMD_ARM)
typedef float32x4_t infer__fv_neon;
INFER__INLINE infer__fv_neon infer__fv_load_neon(const void *p) { return vld1q_f32((const float *)p); }
INFER__INLINE void infer__fv_store_neon(void *p, infer__fv_neon v) { vst1q_f32((float *)p, v); }
INFER__INLINE infer__fv_neon infer__fv_fma_neon(infer__fv_neon w, infer__fv_neon x, infer__fv_neon s) {
    return vfmaq_f32(s, w, x);
}
INFER__INLINE infer__fv_neon infer__fv_f16_neon(const uint8_t *p) {
    return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p)));
}
INFER__INLINE infer__fv_neon infer__fv_odd_neon(const uint8_t *p) {
    return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_u8(vld1q_u8(p)), vdupq_n_u32(0xffff0000u)));
}
INFER__INLINE infer__fv_neon infer__fv_even_neon(const uint8_t *p) {
    return vreinterpretq_f32_u32(vshlq_n_u32(vreinterpretq_u32_u8(vld1q_u8(p)), 16));
}
#endif

/* ---- blocks ------------------------------------------------------------------------------------------------- */

/* One weight vector of every row (GET at wp, SIZE bytes per lane) times C columns at xp, for G groups of lanes. */
#define INFER__FLOAT_MULTIPLY(L, G, C, R, FMA, GET, SIZE, AT)                                                      \
  INFER__UNROLL for (g = 0; g < (G); g++) {                                                                        \
    INFER__UNROLL for (j = 0; j < (C); j++) v[j] = infer__fv_load_##L(xp + j * sx + (AT) + g * 4 * INFER__FV_##L); \
    INFER__UNROLL for (i = 0; i < (R); i++) {                                                                      \
      u = GET(wp + i * sw + g * (SIZE)*INFER__FV_##L);                                                             \
      INFER__UNROLL for (j = 0; j < (C); j++) s[g][i][j] = FMA(u, v[j], s[g][i][j]);                               \
    }                                                                                                              \
  }
#define INFER__FLOAT_STEP_f32(L, G, C, R) INFER__FLOAT_MULTIPLY(L, G, C, R, infer__fv_fma_##L, infer__fv_load_##L, 4, 0)
#define INFER__FLOAT_STEP_f16(L, G, C, R) INFER__FLOAT_MULTIPLY(L, G, C, R, infer__fv_fma_##L, infer__fv_f16_##L, 2, 0)
#define INFER__FLOAT_STEP_bf16(L, G, C, R)                                      \
  INFER__FLOAT_MULTIPLY(L, G, C, R, infer__fv_fma_##L, infer__fv_odd_##L, 4, 0) \
  INFER__FLOAT_MULTIPLY(L, G, C, R, infer__fv_fma_##L, infer__fv_even_##L, 4, 64)
#define INFER__FLOAT_STEP_pairs(L, G, C, R) \
  INFER__FLOAT_MULTIPLY(L, G, C, R, infer__fv_pairs_##L, infer__fv_load_##L, 4, 0)

/* Bytes of a step of a row, and of its activations. */
enum {
    INFER__FLOAT_W_f32 = 64, INFER__FLOAT_X_f32 = 64,
    INFER__FLOAT_W_f16 = 32, INFER__FLOAT_X_f16 = 64,
    INFER__FLOAT_W_bf16 = 64, INFER__FLOAT_X_bf16 = 128,
    INFER__FLOAT_W_pairs = 64, INFER__FLOAT_X_pairs = 64
};

/* infer__float_KIND_C_L: an infer__float_fn of C columns with G groups of lanes at once. ON: the target of L, or one
 * that has more. */
#define INFER__FLOAT_DOTS(L, ON, KIND, C, G)                                                                   \
  ON static void infer__float_##KIND##_##C##_##L(const uint8_t *w, int64_t sw, const uint8_t *x, int64_t sx,   \
                                                 int64_t steps, const uint8_t *next, int64_t sn, float *acc) { \
    int lane, g, i, j;                                                                                         \
    for (lane = 0; lane < INFER__LANES; lane += (G)*INFER__FV_##L) {                                           \
      infer__fv_##L s[G][INFER__FLOAT_ROWS][C], v[C], u;                                                       \
      const uint8_t *wp = w + lane * (INFER__FLOAT_W_##KIND / INFER__LANES), *xp = x + lane * 4;               \
      int64_t n;                                                                                               \
      INFER__UNROLL for (g = 0; g < (G); g++) INFER__UNROLL for (i = 0; i < INFER__FLOAT_ROWS; i++)            \
          INFER__UNROLL for (j = 0; j < (C); j++) s[g][i][j] =                                                 \
              infer__fv_load_##L(acc + (j * 4 + i) * 16 + lane + g * INFER__FV_##L);                           \
      for (n = 0; n < steps; n++) {                                                                            \
        if (sn == 0) {                                                                                         \
          INFER__PREFETCH_FAR(next + n * 64);                                                                  \
        } else {                                                                                               \
          INFER__UNROLL for (i = 0; i < INFER__FLOAT_ROWS * INFER__FLOAT_W_##KIND; i += 64)                    \
              INFER__PREFETCH_FAR(next + n * INFER__FLOAT_ROWS * INFER__FLOAT_W_##KIND + i);                   \
        }                                                                                                      \
        INFER__FLOAT_STEP_##KIND(L, G, C, INFER__FLOAT_ROWS) wp += INFER__FLOAT_W_##KIND;                      \
        xp += INFER__FLOAT_X_##KIND;                                                                           \
      }                                                                                                        \
      INFER__UNROLL for (g = 0; g < (G); g++) INFER__UNROLL for (i = 0; i < INFER__FLOAT_ROWS; i++)            \
          INFER__UNROLL for (j = 0; j < (C); j++)                                                              \
              infer__fv_store_##L(acc + (j * 4 + i) * 16 + lane + g * INFER__FV_##L, s[g][i][j]);              \
    }                                                                                                          \
  }

/* infer__float_whole_KIND_C_L: an infer__float_whole_fn. V has 16 lanes; SUMS adds up those of four vectors, stores
 * four floats. */
#define INFER__FLOAT_WHOLE(L, ON, KIND, C, SUMS)                                                                   \
  ON static void infer__float_whole_##KIND##_##C##_##L(const uint8_t *w, int64_t sw, const uint8_t *x, int64_t sx, \
                                                       int64_t steps, const uint8_t *next, float *y, int64_t sy) { \
    static const float zeros[INFER__LANES] = {0};                                                                  \
    infer__fv_##L s[1][INFER__FLOAT_ROWS][C], v[C], u;                                                             \
    const uint8_t *wp = w, *xp = x;                                                                                \
    int64_t n;                                                                                                     \
    int g, i, j;                                                                                                   \
    INFER__UNROLL for (i = 0; i < INFER__FLOAT_ROWS; i++)                                                          \
        INFER__UNROLL for (j = 0; j < (C); j++) s[0][i][j] = infer__fv_load_##L(zeros);                            \
    for (n = 0; n < steps; n++) {                                                                                  \
      INFER__PREFETCH_FAR(next + n * 64);                                                                          \
      INFER__FLOAT_STEP_##KIND(L, 1, C, INFER__FLOAT_ROWS) wp += INFER__FLOAT_W_##KIND;                            \
      xp += INFER__FLOAT_X_##KIND;                                                                                 \
    }                                                                                                              \
    INFER__UNROLL for (j = 0; j < (C); j++) SUMS(s[0][0][j], s[0][1][j], s[0][2][j], s[0][3][j], y + j * sy);      \
  }

/* infer__float_KIND_1_L: GEMV, where memory is the limit: row after row, so that memory is read sequentially, two pages
 * ahead. Four rows side by side reached 92 % of what two cores of a Zen 5 can read, this 98 %. */
enum { INFER__FLOAT_AHEAD = 8192 };
#define INFER__FLOAT_ROW_DOTS(L, ON, KIND, G)                                                                          \
    ON static void infer__float_##KIND##_1_##L(const uint8_t *w, int64_t sw, const uint8_t *x, int64_t sx,             \
                                               int64_t steps, const uint8_t *next, int64_t sn, float *acc) {           \
        int lane, g, i, j, row;                                                                                        \
        (void)next;                                                                                                    \
        (void)sn;                                                                                                      \
        for (row = 0; row < INFER__FLOAT_ROWS; row++, w += sw, acc += INFER__LANES)                                    \
            for (lane = 0; lane < INFER__LANES; lane += (G) * INFER__FV_##L) {                                         \
                infer__fv_##L s[G][1][1], v[1], u;                                                                     \
                const uint8_t *wp = w + lane * (INFER__FLOAT_W_##KIND / INFER__LANES), *xp = x + lane * 4;             \
                int64_t n;                                                                                             \
                INFER__UNROLL for (g = 0; g < (G); g++)                                                                \
                    s[g][0][0] = infer__fv_load_##L(acc + lane + g * INFER__FV_##L);                                   \
                for (n = 0; n < steps; n++) {                                                                          \
                    INFER__PREFETCH_FAR(wp + INFER__FLOAT_AHEAD);                                                      \
                    INFER__FLOAT_STEP_##KIND(L, G, 1, 1)                                                               \
                    wp += INFER__FLOAT_W_##KIND;                                                                       \
                    xp += INFER__FLOAT_X_##KIND;                                                                       \
                }                                                                                                      \
                INFER__UNROLL for (g = 0; g < (G); g++)                                                                \
                    infer__fv_store_##L(acc + lane + g * INFER__FV_##L, s[g][0][0]);                                   \
            }                                                                                                          \
    }

/* ---- decoding, preparing, adding up --------------------------------------------------------------------------- */

/* Bytes from n to a multiple of `step`, zeroed; returns that multiple. */
INFER__INLINE int64_t infer__float_fill(uint8_t *dst, int64_t n, int64_t step) {
    int64_t end = (n + step - 1) / step * step;
    memset(dst + n, 0, (size_t)(end - n));
    return end;
}

/* A pair of BF16 values as float32 to the places of lane l of a decoded step of 32 values: odd ones first. */
INFER__INLINE void infer__float_split(uint8_t *dst, int l, uint32_t even, uint32_t odd) {
    even <<= 16;
    odd <<= 16;
    memcpy(dst + 4 * l, &odd, 4);
    memcpy(dst + 64 + 4 * l, &even, 4);
}
INFER__INLINE void infer__float_split_part(const uint8_t *src, uint8_t *dst, int n) {
    uint16_t h[32] = {0};
    int l;
    memcpy(h, src, (size_t)n * sizeof *h);
    for (l = 0; l < 16; l++) infer__float_split(dst, l, h[2 * l], h[2 * l + 1]);
}

/* 32 float32 rounded to BF16, in natural order. NaN stays NaN by masks: gcc does not vectorise a branch. */
INFER__INLINE void infer__float_round_32(const float *INFER__RESTRICT src, uint16_t *INFER__RESTRICT dst) {
    uint32_t u[32];
    int l;
    memcpy(u, src, sizeof u);
    for (l = 0; l < 32; l++) {
        uint32_t nan = 0u - (uint32_t)((u[l] & 0x7fffffffu) > 0x7f800000u);
        uint32_t r = u[l] + (0x7fffu + (u[l] >> 16 & 1u));
        dst[l] = (uint16_t)(((r & ~nan) | ((u[l] | 0x400000u) & nan)) >> 16);
    }
}

/* The same as two runs of 16 float32: odd values, then even ones. */
INFER__INLINE void infer__float_round_split_32(const float *INFER__RESTRICT src, uint8_t *INFER__RESTRICT dst) {
    uint16_t h[32];
    int l;
    infer__float_round_32(src, h);
    for (l = 0; l < 16; l++) infer__float_split(dst, l, h[2 * l], h[2 * l + 1]);
}

INFER__INLINE void infer__float_prepare_body(const float *src, uint8_t *dst, int64_t n, int pairs) {
    float rest[32] = {0};
    uint16_t h[32];
    for (; n > 0; n -= 32, src += 32, dst += pairs ? 64 : 128) {
        if (n < 32) memcpy(rest, src, (size_t)n * sizeof *rest);
        if (pairs) {
            infer__float_round_32(n < 32 ? rest : src, h);
            memcpy(dst, h, sizeof h);
        } else {
            infer__float_round_split_32(n < 32 ? rest : src, dst);
        }
    }
}

/* For all levels: F32 rows are copied. */
static void infer__float_decode_f32(const uint8_t *src, uint8_t *dst, int64_t n) {
    infer__plain_f32_decode(src, (float *)(void *)dst, n);
    infer__float_fill(dst, 4 * n, 64);
}
#endif
