/* cpu_flash.c: the arithmetic of attention, per instruction set: scores of a chunk, their softmax, the weighted values.
 *
 * Owns:  infer__flash, one row per level, best first.
 * How:   a pair is one query row of one head. Scores: 16 positions are the lanes of a vector, dimensions are added one
 *        after the other, up to 6 pairs by 4 vectors in registers at once (24 accumulators of the 32 of AVX-512: 10
 *        loads for 24 multiplications). Weighted values: 16 dimensions are the lanes, positions are added one after the
 *        other, in the same tiles. So neither has sums across lanes, and the bits of a pair do not depend on the tile.
 * Invariant: a pair's bits depend only on its own query, positions and cache. Masked positions are never read: their
 *        memory may be uninitialised.
 * Start: INFER__DEFINE_FLASH.
 */
#include "cpu_exp.h"

enum { INFER__CHUNK_PAGES = INFER__KV_CHUNK / INFER__PAGE };
#define INFER__MASKED (-1e30f) /* score of a masked position; initial running maximum */

/* The online softmax of a pair so far (arXiv 1805.02867): m the largest score, l the sum of exp(score - m); the sum of
 * exp(score - m) * value is stored elsewhere. l is 0 before the first score. */
typedef struct infer__softmax { float m, l; } infer__softmax;

/* Scaling and masking of a pair's scores in one chunk, before exp. */
typedef struct infer__score_args {
    int32_t from, to;   /* positions of the chunk that the pair sees, 0..INFER__KV_CHUNK-1 */
    float softcap;      /* 0 = none */
    float slope, start; /* ALiBi: + slope * (start + i), 0 = none */
} infer__score_args;

typedef struct infer__flash {
    uint32_t need;
    const infer__kv_reader *kv; /* by infer_kv_type */
    const infer__kv_direct *direct; /* by infer_kv_type, NULL functions where there are none */
    void (*halves)(uint8_t *out, const float *x, int32_t n);
    /* a whole page of keys, transposed, as halves or as they are: 16 rows of dim (a multiple of 16) floats, `stride`
     * floats apart; or NULL */
    void (*keys)(uint8_t *out, const float *x, int64_t stride, int32_t dim, int halves);
    /* s[i * INFER__KV_CHUNK + j] = q[i] . key j for n rows of q, `stride` apart, and the pages first..last of a chunk,
     * k[page] being [dim][INFER__PAGE] */
    void (*scores)(float *s, const float *const *k, int32_t first, int32_t last, const float *q, int32_t stride,
                   int32_t n, int32_t dim);
    /* Replace a pair's scores by exp(score - m), 0 where masked; update m, l and the n values of y. */
    void (*softmax)(float *s, const infer__score_args *a, infer__softmax *x, float *y, int32_t n);
    /* y[i] += sum over positions from..to of p[i * INFER__KV_CHUNK + j] * value j, in that order; v[page] is
     * [INFER__PAGE][stride], and so far apart are the n rows of y; stride is a multiple of INFER__LANES */
    void (*values)(float *y, const float *const *v, int32_t from, int32_t to, const float *p, int32_t stride,
                   int32_t n);
    /* merge a later part of the positions into x and y (n values) */
    void (*merge)(float *y, infer__softmax *x, const float *part, infer__softmax part_x, int32_t n);
} infer__flash;

/* ---- tiles ---------------------------------------------------------------------------------------------- */

#define INFER__ROWS_1(X, L) X(L, 0)
#define INFER__ROWS_2(X, L) INFER__ROWS_1(X, L) X(L, 1)
#define INFER__ROWS_4(X, L) INFER__ROWS_2(X, L) X(L, 2) X(L, 3)
#define INFER__ROWS_6(X, L) INFER__ROWS_4(X, L) X(L, 4) X(L, 5)

#define INFER__S4_OPEN(L, r) infer__v16_##L a##r = infer__zero_##L(), b##r = a##r, c##r = a##r, d##r = a##r;
#define INFER__S4_STEP(L, r)                                                                                           \
    x = infer__splat_##L(q[(r) * stride + i]);                                                                         \
    a##r = infer__fma_##L(va, x, a##r);                                                                                \
    b##r = infer__fma_##L(vb, x, b##r);                                                                                \
    c##r = infer__fma_##L(vc, x, c##r);                                                                                \
    d##r = infer__fma_##L(vd, x, d##r);
#define INFER__S4_CLOSE(L, r)                                                                                          \
    infer__store_##L(s + (r) * INFER__KV_CHUNK, a##r);                                                                 \
    infer__store_##L(s + (r) * INFER__KV_CHUNK + 16, b##r);                                                            \
    infer__store_##L(s + (r) * INFER__KV_CHUNK + 32, c##r);                                                            \
    infer__store_##L(s + (r) * INFER__KV_CHUNK + 48, d##r);
#define INFER__S1_OPEN(L, r) infer__v16_##L a##r = infer__zero_##L();
#define INFER__S1_STEP(L, r) a##r = infer__fma_##L(va, infer__splat_##L(q[(r) * stride + i]), a##r);
#define INFER__S1_CLOSE(L, r) infer__store_##L(s + (r) * INFER__KV_CHUNK, a##r);

#define INFER__V4_OPEN(L, r)                                                                                           \
    infer__v16_##L a##r = infer__load_##L(y + (r) * stride), b##r = infer__load_##L(y + (r) * stride + 16),            \
                   c##r = infer__load_##L(y + (r) * stride + 32), d##r = infer__load_##L(y + (r) * stride + 48);
#define INFER__V4_STEP(L, r)                                                                                           \
    x = infer__splat_##L(p[(r) * INFER__KV_CHUNK + j]);                                                                \
    a##r = infer__fma_##L(va, x, a##r);                                                                                \
    b##r = infer__fma_##L(vb, x, b##r);                                                                                \
    c##r = infer__fma_##L(vc, x, c##r);                                                                                \
    d##r = infer__fma_##L(vd, x, d##r);
#define INFER__V4_CLOSE(L, r)                                                                                          \
    infer__store_##L(y + (r) * stride, a##r);                                                                          \
    infer__store_##L(y + (r) * stride + 16, b##r);                                                                     \
    infer__store_##L(y + (r) * stride + 32, c##r);                                                                     \
    infer__store_##L(y + (r) * stride + 48, d##r);
#define INFER__V1_OPEN(L, r) infer__v16_##L a##r = infer__load_##L(y + (r) * stride);
#define INFER__V1_STEP(L, r) a##r = infer__fma_##L(va, infer__splat_##L(p[(r) * INFER__KV_CHUNK + j]), a##r);
#define INFER__V1_CLOSE(L, r) infer__store_##L(y + (r) * stride, a##r);

/* R pairs by the 64 positions of a chunk, or by the 64 columns of y and v. */
#define INFER__DEFINE_TILE_4(L, R)                                                                                     \
    INFER__ON_##L static void infer__scores_##R##x4_##L(float *s, const float *const *k, const float *q,               \
                                                        int32_t stride, int32_t dim) {                                 \
        const float *ka = k[0], *kb = k[1], *kc = k[2], *kd = k[3];                                                    \
        infer__v16_##L va, vb, vc, vd, x;                                                                              \
        int64_t i;                                                                                                     \
        INFER__ROWS_##R(INFER__S4_OPEN, L)                                                                             \
        for (i = 0; i < dim; i++) {                                                                                    \
            va = infer__load_##L(ka + i * INFER__PAGE);                                                                \
            vb = infer__load_##L(kb + i * INFER__PAGE);                                                                \
            vc = infer__load_##L(kc + i * INFER__PAGE);                                                                \
            vd = infer__load_##L(kd + i * INFER__PAGE);                                                                \
            INFER__ROWS_##R(INFER__S4_STEP, L)                                                                         \
        }                                                                                                              \
        INFER__ROWS_##R(INFER__S4_CLOSE, L)                                                                            \
    }                                                                                                                  \
    INFER__ON_##L static void infer__values_##R##x4_##L(float *y, const float *const *v, int32_t col, int32_t from,    \
                                                        int32_t to, const float *p, int32_t stride) {                  \
        infer__v16_##L va, vb, vc, vd, x;                                                                              \
        int32_t j = from;                                                                                              \
        INFER__ROWS_##R(INFER__V4_OPEN, L)                                                                             \
        while (j <= to) {                                                                                              \
            const int32_t end = INFER__MIN(to, j | (INFER__PAGE - 1));                                                 \
            const float *w = v[j / INFER__PAGE] + (int64_t)(j % INFER__PAGE) * stride + col;                           \
            for (; j <= end; j++, w += stride) {                                                                       \
                va = infer__load_##L(w);                                                                               \
                vb = infer__load_##L(w + 16);                                                                          \
                vc = infer__load_##L(w + 32);                                                                          \
                vd = infer__load_##L(w + 48);                                                                          \
                INFER__ROWS_##R(INFER__V4_STEP, L)                                                                     \
            }                                                                                                          \
        }                                                                                                              \
        INFER__ROWS_##R(INFER__V4_CLOSE, L)                                                                            \
    }

/* R pairs by the 16 positions of a page, or by 16 columns. */
#define INFER__DEFINE_TILE_1(L, R)                                                                                     \
    INFER__ON_##L static void infer__scores_##R##x1_##L(float *s, const float *k, const float *q, int32_t stride,      \
                                                        int32_t dim) {                                                 \
        infer__v16_##L va;                                                                                             \
        int64_t i;                                                                                                     \
        INFER__ROWS_##R(INFER__S1_OPEN, L)                                                                             \
        for (i = 0; i < dim; i++) {                                                                                    \
            va = infer__load_##L(k + i * INFER__PAGE);                                                                 \
            INFER__ROWS_##R(INFER__S1_STEP, L)                                                                         \
        }                                                                                                              \
        INFER__ROWS_##R(INFER__S1_CLOSE, L)                                                                            \
    }                                                                                                                  \
    INFER__ON_##L static void infer__values_##R##x1_##L(float *y, const float *const *v, int32_t col, int32_t from,    \
                                                        int32_t to, const float *p, int32_t stride) {                  \
        infer__v16_##L va;                                                                                             \
        int32_t j = from;                                                                                              \
        INFER__ROWS_##R(INFER__V1_OPEN, L)                                                                             \
        while (j <= to) {                                                                                              \
            const int32_t end = INFER__MIN(to, j | (INFER__PAGE - 1));                                                 \
            const float *w = v[j / INFER__PAGE] + (int64_t)(j % INFER__PAGE) * stride + col;                           \
            for (; j <= end; j++, w += stride) {                                                                       \
                va = infer__load_##L(w);                                                                               \
                INFER__ROWS_##R(INFER__V1_STEP, L)                                                                     \
            }                                                                                                          \
        }                                                                                                              \
        INFER__ROWS_##R(INFER__V1_CLOSE, L)                                                                            \
    }

/* Tiles of R pairs while there are as many; the wide ones where the set has them and the chunk is whole. */
#define INFER__TAKE_SCORES_4(L, R)                                                                                     \
    for (; last - first == 3 && n >= R; n -= R, s += R * INFER__KV_CHUNK, q += R * stride)                             \
        infer__scores_##R##x4_##L(s, k, q, stride, dim);
#define INFER__TAKE_SCORES_1(L, R)                                                                                     \
    for (; n >= R; n -= R, s += R * INFER__KV_CHUNK, q += R * stride)                                                  \
        for (page = first; page <= last; page++)                                                                       \
            infer__scores_##R##x1_##L(s + page * INFER__PAGE, k[page], q, stride, dim);

/* ---- whole chunks ----------------------------------------------------------------------------------------- */

static const float infer__ramp[INFER__LANES] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

#define INFER__DEFINE_FLASH(L)                                                                                         \
    INFER__ON_##L static void infer__flash_softmax_##L(float *s, const infer__score_args *a, infer__softmax *x,        \
                                                       float *y, int32_t n) {                                          \
        const int32_t first = a->from / INFER__PAGE * INFER__PAGE;                                                     \
        const int plain = !INFER__HAS_VARIANTS || (!(a->softcap > 0) && a->slope == 0.0f);                             \
        const infer__v16_##L ramp = infer__load_##L(infer__ramp), masked = infer__splat_##L(INFER__MASKED);            \
        infer__v16_##L t, u, tops = masked, l = infer__zero_##L();                                                     \
        float m = x->m, top, shrink[INFER__LANES];                                                                     \
        int32_t j;                                                                                                     \
        for (j = first; j <= a->to; j += INFER__LANES) {                                                               \
            t = infer__load_##L(s + j);                                                                                \
            if (plain && j >= a->from && j + INFER__LANES - 1 <= a->to) {                                              \
                tops = infer__vmax_##L(tops, t);                                                                       \
                continue;                                                                                              \
            }                                                                                                          \
            if (INFER__VARIANT(a->softcap) > 0) {                                                                      \
                t = infer__tanh_##L(infer__vmul_##L(t, infer__splat_##L(1.0f / a->softcap)));                          \
                t = infer__vmul_##L(t, infer__splat_##L(a->softcap));                                                  \
            }                                                                                                          \
            u = infer__vadd_##L(infer__splat_##L(a->start + (float)j), ramp);                                          \
            if (INFER__VARIANT(a->slope) != 0.0f) t = infer__fma_##L(u, infer__splat_##L(a->slope), t);                \
            t = infer__vpick_##L(ramp, infer__splat_##L((float)(a->from - j)), masked, t);                             \
            t = infer__vpick_##L(infer__splat_##L((float)(a->to - j)), ramp, masked, t);                               \
            infer__store_##L(s + j, t);                                                                                \
            tops = infer__vmax_##L(tops, t);                                                                           \
        }                                                                                                              \
        top = infer__vtop_##L(tops);                                                                                   \
        if (x->l == 0.0f) {                                                                                            \
            m = top;                                                                                                   \
        } else if (top > m) {                                                                                          \
            u = infer__exp_minus_##L(infer__splat_##L(m - top));                                                       \
            for (j = 0; j < n; j += INFER__LANES)                                                                      \
                infer__store_##L(y + j, infer__vmul_##L(infer__load_##L(y + j), u));                                   \
            infer__store_##L(shrink, u);                                                                               \
            x->l *= shrink[0];                                                                                         \
            m = top;                                                                                                   \
        }                                                                                                              \
        u = infer__splat_##L(m);                                                                                       \
        for (j = first; j <= a->to; j += INFER__LANES) {                                                               \
            t = infer__exp_minus_##L(infer__vsub_##L(infer__load_##L(s + j), u));                                      \
            infer__store_##L(s + j, t);                                                                                \
            l = infer__vadd_##L(l, t);                                                                                 \
        }                                                                                                              \
        x->m = m;                                                                                                      \
        x->l += infer__sum_##L(l);                                                                                     \
    }                                                                                                                  \
    INFER__ON_##L static void infer__flash_merge_##L(float *y, infer__softmax *x, const float *part,                   \
                                                     infer__softmax part_x, int32_t n) {                               \
        const float m = part_x.m > x->m ? part_x.m : x->m;                                                             \
        float old[INFER__LANES], fresh[INFER__LANES];                                                                  \
        infer__v16_##L u, w;                                                                                           \
        int32_t j;                                                                                                     \
        if (part_x.l == 0.0f) return;                                                                                  \
        if (x->l == 0.0f) {                                                                                            \
            memcpy(y, part, (size_t)n * sizeof *y);                                                                    \
            *x = part_x;                                                                                               \
            return;                                                                                                    \
        }                                                                                                              \
        u = infer__exp_minus_##L(infer__splat_##L(x->m - m));                                                          \
        w = infer__exp_minus_##L(infer__splat_##L(part_x.m - m));                                                      \
        for (j = 0; j < n; j += INFER__LANES)                                                                          \
            infer__store_##L(y + j, infer__fma_##L(infer__load_##L(y + j), u,                                          \
                                                   infer__vmul_##L(infer__load_##L(part + j), w)));                    \
        infer__store_##L(old, u);                                                                                      \
        infer__store_##L(fresh, w);                                                                                    \
        x->l = x->l * old[0] + part_x.l * fresh[0];                                                                    \
        x->m = m;                                                                                                      \
    }

/* SCORES and VALUES_1, VALUES_4: the set's tiles, largest first. */
#define INFER__DEFINE_CHUNKS(L, SCORES, VALUES_4, VALUES_1)                                                            \
    INFER__ON_##L static void infer__flash_scores_##L(float *s, const float *const *k, int32_t first, int32_t last,    \
                                                      const float *q, int32_t stride, int32_t n, int32_t dim) {        \
        int32_t page;                                                                                                  \
        SCORES                                                                                                         \
    }                                                                                                                  \
    INFER__ON_##L static void infer__flash_values_##L(float *y, const float *const *v, int32_t from, int32_t to,       \
                                                      const float *p, int32_t stride, int32_t n) {                     \
        int32_t col = 0, i;                                                                                            \
        const float *a;                                                                                                \
        float *z;                                                                                                      \
        VALUES_4                                                                                                       \
        for (; col < stride; col += INFER__LANES) { VALUES_1 }                                                         \
    }

#define INFER__VALUES(L, R, C)                                                                                         \
    for (; i + R <= n; i += R, a += R * INFER__KV_CHUNK, z += R * stride)                                              \
        infer__values_##R##x##C##_##L(z, v, col, from, to, a, stride);
#define INFER__VALUES_START i = 0, a = p, z = y + col;

/* Where 16 floats take two or four registers, a tile is one vector wide. */
#define INFER__DEFINE_NARROW(L, A, B)                                                                                  \
    INFER__DEFINE_TILE_1(L, A)                                                                                         \
    INFER__DEFINE_TILE_1(L, B)                                                                                         \
    INFER__DEFINE_TILE_1(L, 1)                                                                                         \
    INFER__DEFINE_FLASH(L)                                                                                             \
    INFER__DEFINE_CHUNKS(L, INFER__TAKE_SCORES_1(L, A) INFER__TAKE_SCORES_1(L, B) INFER__TAKE_SCORES_1(L, 1), ,        \
                         INFER__VALUES_START INFER__VALUES(L, A, 1) INFER__VALUES(L, B, 1) INFER__VALUES(L, 1, 1))

INFER__DEFINE_TILE_1(scalar, 2)
INFER__DEFINE_TILE_1(scalar, 1)
INFER__DEFINE_FLASH(scalar)
INFER__DEFINE_CHUNKS(scalar, INFER__TAKE_SCORES_1(scalar, 2) INFER__TAKE_SCORES_1(scalar, 1), ,
                     INFER__VALUES_START INFER__VALUES(scalar, 2, 1) INFER__VALUES(scalar, 1, 1))
#if defined(INFER__SIMD_AVX2)
INFER__DEFINE_NARROW(avx2, 6, 4)
#  if defined(INFER__SIMD_AVX512)
INFER__DEFINE_TILE_4(avx512, 6)
INFER__DEFINE_TILE_4(avx512, 4)
INFER__DEFINE_TILE_4(avx512, 1)
INFER__DEFINE_TILE_1(avx512, 6)
INFER__DEFINE_TILE_1(avx512, 4)
INFER__DEFINE_TILE_1(avx512, 1)
INFER__DEFINE_FLASH(avx512)
INFER__DEFINE_CHUNKS(avx512,
                     INFER__TAKE_SCORES_4(avx512, 6) INFER__TAKE_SCORES_4(avx512, 4) INFER__TAKE_SCORES_4(avx512, 1)
                     INFER__TAKE_SCORES_1(avx512, 6) INFER__TAKE_SCORES_1(avx512, 4) INFER__TAKE_SCORES_1(avx512, 1),
                     for (; col + 64 <= stride; col += 64) {
                         INFER__VALUES_START
                         INFER__VALUES(avx512, 6, 4) INFER__VALUES(avx512, 4, 4) INFER__VALUES(avx512, 1, 4)
                     },
                     INFER__VALUES_START
                     INFER__VALUES(avx512, 6, 1) INFER__VALUES(avx512, 4, 1) INFER__VALUES(avx512, 1, 1))
#  endif
#endif
#if defined(INFER__SIMD_ARM)
INFER__DEFINE_NARROW(neon, 6, 4)
#endif

#define INFER__FLASH_ROW(L, need, direct)                                                                              \
    {need, infer__kv_readers_##L, direct, infer__halves_##L, infer__keys_##L, infer__flash_scores_##L,                 \
     infer__flash_softmax_##L, infer__flash_values_##L, infer__flash_merge_##L}

static const infer__flash infer__flash_rows[] = {
#if defined(INFER__SIMD_AVX2)
#  if defined(INFER__SIMD_AVX512)
    INFER__FLASH_ROW(avx512, INFER__CPU_AVX2 | INFER__CPU_AVX512, infer__kv_direct_avx512),
#  endif
    INFER__FLASH_ROW(avx2, INFER__CPU_AVX2, infer__kv_direct_none),
#endif
#if defined(INFER__SIMD_ARM)
    INFER__FLASH_ROW(neon, INFER__CPU_NEON, infer__kv_direct_none),
#endif
    INFER__FLASH_ROW(scalar, 0, infer__kv_direct_none),
};
#undef INFER__ROWS_1
#undef INFER__ROWS_2
#undef INFER__ROWS_4
#undef INFER__ROWS_6
#undef INFER__S4_OPEN
#undef INFER__S4_STEP
#undef INFER__S4_CLOSE
#undef INFER__S1_OPEN
#undef INFER__S1_STEP
#undef INFER__S1_CLOSE
#undef INFER__V4_OPEN
#undef INFER__V4_STEP
#undef INFER__V4_CLOSE
#undef INFER__V1_OPEN
#undef INFER__V1_STEP
#undef INFER__V1_CLOSE
#undef INFER__DEFINE_TILE_4
#undef INFER__DEFINE_TILE_1
#undef INFER__TAKE_SCORES_4
#undef INFER__TAKE_SCORES_1
#undef INFER__DEFINE_FLASH
#undef INFER__DEFINE_CHUNKS
#undef INFER__VALUES
#undef INFER__VALUES_START
#undef INFER__DEFINE_NARROW
#undef INFER__FLASH_ROW
#undef infer__halves_avx512
#undef infer__keys_avx2
#undef infer__keys_neon
#undef infer__keys_scalar

static const infer__flash *infer__flash_find(uint32_t cpu) {
    const infer__flash *row = infer__flash_rows;
    while (row->need & ~cpu) row++; /* the last row has no requirements */
    return row;
}
