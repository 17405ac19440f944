/* cpu_flash_direct.c: scores and weighted values of up to four pairs, read directly from a cache of a narrow type.
 *
 * Owns:  infer__kv_direct, by type, for AVX-512; other sets have none and use float32 pages (cpu_flash.c).
 * Why:   generation has one row at a time: the pairs that share a page are the heads of a group, and writing the page
 *        as float32 and reading it back takes about as long as multiplying it. One row of Llama-3.2-1B (32 heads of 64,
 *        8 of K/V) over 512 positions in the L2 cache, one thread of a Zen 5: 49 to 34 microseconds with F16,
 *        56 to 37 with Q8_0 and Q4_0.
 * Invariant: the same multiplications and additions, in the same order, as with float32 pages: the same bits.
 * Start: INFER__DEFINE_DIRECT.
 */
#include "cpu_exp.h"

/* Chunks of whole pages. k, v: the four pages of a head. For values, dim is a multiple of 64, and the rows of y are so
 * far apart. n is 1..INFER__DIRECT_PAIRS. */
typedef struct infer__kv_direct {
    void (*scores)(float *s, const uint8_t *const *k, const float *q, int32_t stride, int32_t n, int32_t dim);
    void (*values)(float *y, const uint8_t *const *v, int32_t from, int32_t to, const float *p, int32_t n, int32_t dim);
} infer__kv_direct;

enum { INFER__DIRECT_PAIRS = 4, INFER__KV_TYPES = INFER_KV_Q4_0 + 1 };
static const infer__kv_direct infer__kv_direct_none[INFER__KV_TYPES]; /* all NULL */

#if defined(INFER__SIMD_AVX512)

INFER__ON_avx512 INFER__INLINE __m512 infer__low16_avx512(const uint8_t *p) {
    return infer__int16_avx512(infer__nibble_128(infer__load_128(p)));
}
INFER__ON_avx512 INFER__INLINE __m512 infer__high16_avx512(const uint8_t *p) {
    return infer__int16_avx512(infer__nibble_128(_mm_srli_epi16(infer__load_128(p), 4)));
}

#define INFER__D1(X) X(0)
#define INFER__D2(X) X(0) X(1)
#define INFER__D3(X) X(0) X(1) X(2)
#define INFER__D4(X) X(0) X(1) X(2) X(3)
#define INFER__ZERO(r) __m512 a##r = _mm512_setzero_ps(), b##r = a##r, c##r = a##r, d##r = a##r;
#define INFER__STEP(r, f)                                                                                              \
    x = _mm512_set1_ps(f);                                                                                             \
    a##r = _mm512_fmadd_ps(va, x, a##r);                                                                               \
    b##r = _mm512_fmadd_ps(vb, x, b##r);                                                                               \
    c##r = _mm512_fmadd_ps(vc, x, c##r);                                                                               \
    d##r = _mm512_fmadd_ps(vd, x, d##r);
#define INFER__Q_STEP(r) INFER__STEP(r, q[(r) * stride + i])
#define INFER__P_STEP(r) INFER__STEP(r, p[(r) * INFER__KV_CHUNK + j])
#define INFER__FOUR(r, p, step, f)                                                                                     \
    f(p + (r) * (int64_t)(step), a##r);                                                                                \
    f(p + (r) * (int64_t)(step) + 16, b##r);                                                                           \
    f(p + (r) * (int64_t)(step) + 32, c##r);                                                                           \
    f(p + (r) * (int64_t)(step) + 48, d##r);
#define INFER__GET(p, v) v = _mm512_loadu_ps(p)
#define INFER__SCORES_OUT(r) INFER__FOUR(r, s, INFER__KV_CHUNK, _mm512_storeu_ps)
#define INFER__VALUES_IN(r)                                                                                            \
    __m512 a##r, b##r, c##r, d##r;                                                                                     \
    INFER__FOUR(r, z, dim, INFER__GET)
#define INFER__VALUES_OUT(r) INFER__FOUR(r, z, dim, _mm512_storeu_ps)

/* A dimension of the keys of 64 positions: va .. vd, from where k points. */
#define INFER__KEYS(LOAD)                                                                                              \
    va = LOAD(ka);                                                                                                     \
    vb = LOAD(kb);                                                                                                     \
    vc = LOAD(kc);                                                                                                     \
    vd = LOAD(kd);
#define INFER__KEYS_SCALED(LOAD)                                                                                       \
    va = _mm512_mul_ps(da, LOAD(ka));                                                                                  \
    vb = _mm512_mul_ps(db, LOAD(kb));                                                                                  \
    vc = _mm512_mul_ps(dc, LOAD(kc));                                                                                  \
    vd = _mm512_mul_ps(dd, LOAD(kd));
#define INFER__KEYS_ON(bytes) ka += (bytes), kb += (bytes), kc += (bytes), kd += (bytes)
#define INFER__KEYS_SCALES()                                                                                           \
    const __m512 da = infer__half16_avx512(ka), db = infer__half16_avx512(kb), dc = infer__half16_avx512(kc),          \
                 dd = infer__half16_avx512(kd);                                                                        \
    int32_t end = INFER__MIN(i + INFER__KV_BLOCK, dim);                                                                \
    INFER__KEYS_ON(2 * INFER__PAGE);

/* All dimensions of the keys, R pairs. */
#define INFER__SCORES_PLAIN(R, LOAD)                                                                                   \
    for (i = 0; i < dim; i++, INFER__KEYS_ON(2 * INFER__PAGE)) {                                                       \
        INFER__KEYS(LOAD)                                                                                              \
        R(INFER__Q_STEP)                                                                                               \
    }
#define INFER__SCORES_F16(R) INFER__SCORES_PLAIN(R, infer__half16_avx512)
#define INFER__SCORES_BF16(R) INFER__SCORES_PLAIN(R, infer__upper16_avx512)
#define INFER__SCORES_Q8_0(R)                                                                                          \
    for (i = 0; i < dim;) {                                                                                            \
        INFER__KEYS_SCALES()                                                                                           \
        for (; i < end; i++, INFER__KEYS_ON(INFER__PAGE)) {                                                            \
            INFER__KEYS_SCALED(infer__bytes16_avx512)                                                                  \
            R(INFER__Q_STEP)                                                                                           \
        }                                                                                                              \
    }
#define INFER__SCORES_Q4_0(R)                                                                                          \
    for (i = 0; i < dim; INFER__KEYS_ON(16 * INFER__PAGE)) {                                                           \
        INFER__KEYS_SCALES()                                                                                           \
        const int32_t half = INFER__MIN(i + 16, end);                                                                  \
        for (; i < half; i++, INFER__KEYS_ON(INFER__PAGE)) {                                                           \
            INFER__KEYS_SCALED(infer__low16_avx512)                                                                    \
            R(INFER__Q_STEP)                                                                                           \
        }                                                                                                              \
        INFER__KEYS_ON(-16 * INFER__PAGE);                                                                             \
        for (; i < end; i++, INFER__KEYS_ON(INFER__PAGE)) {                                                            \
            INFER__KEYS_SCALED(infer__high16_avx512)                                                                   \
            R(INFER__Q_STEP)                                                                                           \
        }                                                                                                              \
        INFER__KEYS_ON(-16 * INFER__PAGE);                                                                             \
    }

/* 64 columns of the value at w. */
#define INFER__VALUES_PLAIN(LOAD)                                                                                      \
    va = LOAD(w);                                                                                                      \
    vb = LOAD(w + 32);                                                                                                 \
    vc = LOAD(w + 64);                                                                                                 \
    vd = LOAD(w + 96);
#define INFER__VALUES_F16 INFER__VALUES_PLAIN(infer__half16_avx512)
#define INFER__VALUES_BF16 INFER__VALUES_PLAIN(infer__upper16_avx512)
#define INFER__VALUES_Q8_0                                                                                             \
    va = infer__scale16_avx512(w);                                                                                     \
    vc = infer__scale16_avx512(w + 34);                                                                                \
    vb = _mm512_mul_ps(va, infer__bytes16_avx512(w + 18));                                                             \
    va = _mm512_mul_ps(va, infer__bytes16_avx512(w + 2));                                                              \
    vd = _mm512_mul_ps(vc, infer__bytes16_avx512(w + 52));                                                             \
    vc = _mm512_mul_ps(vc, infer__bytes16_avx512(w + 36));
#define INFER__VALUES_Q4_0                                                                                             \
    va = infer__scale16_avx512(w);                                                                                     \
    vc = infer__scale16_avx512(w + 18);                                                                                \
    vb = _mm512_mul_ps(va, infer__high16_avx512(w + 2));                                                               \
    va = _mm512_mul_ps(va, infer__low16_avx512(w + 2));                                                                \
    vd = _mm512_mul_ps(vc, infer__high16_avx512(w + 20));                                                              \
    vc = _mm512_mul_ps(vc, infer__low16_avx512(w + 20));

/* R pairs; NAME the type, BYTES of 64 of its values. */
#define INFER__DEFINE_DIRECT_ROWS(NAME, R, BYTES)                                                                      \
    INFER__ON_avx512 static void infer__direct_scores_##NAME##_##R(float *s, const uint8_t *const *k, const float *q,  \
                                                                   int32_t stride, int32_t dim) {                      \
        const uint8_t *ka = k[0], *kb = k[1], *kc = k[2], *kd = k[3];                                                  \
        __m512 va, vb, vc, vd, x;                                                                                      \
        int32_t i;                                                                                                     \
        INFER__D##R(INFER__ZERO)                                                                                       \
        INFER__SCORES_##NAME(INFER__D##R)                                                                              \
        INFER__D##R(INFER__SCORES_OUT)                                                                                 \
    }                                                                                                                  \
    INFER__ON_avx512 static void infer__direct_values_##NAME##_##R(float *y, const uint8_t *const *v, int32_t from,    \
                                                                   int32_t to, const float *p, int32_t dim) {          \
        const int64_t row = (int64_t)dim / 64 * (BYTES);                                                               \
        __m512 va, vb, vc, vd, x;                                                                                      \
        int32_t col, j;                                                                                                \
        for (col = 0; col < dim / 64; col++) {                                                                         \
            float *z = y + (int64_t)col * 64;                                                                          \
            INFER__D##R(INFER__VALUES_IN)                                                                              \
            for (j = from; j <= to;) {                                                                                 \
                const int32_t end = INFER__MIN(to, j | (INFER__PAGE - 1));                                             \
                const uint8_t *w = v[j / INFER__PAGE] + j % INFER__PAGE * row + (int64_t)col * (BYTES);                \
                for (; j <= end; j++, w += row) {                                                                      \
                    INFER__VALUES_##NAME                                                                               \
                    INFER__D##R(INFER__P_STEP)                                                                         \
                }                                                                                                      \
            }                                                                                                          \
            INFER__D##R(INFER__VALUES_OUT)                                                                             \
        }                                                                                                              \
    }

#define INFER__DEFINE_DIRECT(NAME, BYTES)                                                                              \
    INFER__DEFINE_DIRECT_ROWS(NAME, 1, BYTES)                                                                          \
    INFER__DEFINE_DIRECT_ROWS(NAME, 2, BYTES)                                                                          \
    INFER__DEFINE_DIRECT_ROWS(NAME, 3, BYTES)                                                                          \
    INFER__DEFINE_DIRECT_ROWS(NAME, 4, BYTES)                                                                          \
    static void infer__direct_scores_##NAME(float *s, const uint8_t *const *k, const float *q, int32_t stride,         \
                                            int32_t n, int32_t dim) {                                                  \
        if (n == 1) infer__direct_scores_##NAME##_1(s, k, q, stride, dim);                                             \
        else if (n == 2) infer__direct_scores_##NAME##_2(s, k, q, stride, dim);                                        \
        else if (n == 3) infer__direct_scores_##NAME##_3(s, k, q, stride, dim);                                        \
        else infer__direct_scores_##NAME##_4(s, k, q, stride, dim);                                                    \
    }                                                                                                                  \
    static void infer__direct_values_##NAME(float *y, const uint8_t *const *v, int32_t from, int32_t to,               \
                                            const float *p, int32_t n, int32_t dim) {                                  \
        if (n == 1) infer__direct_values_##NAME##_1(y, v, from, to, p, dim);                                           \
        else if (n == 2) infer__direct_values_##NAME##_2(y, v, from, to, p, dim);                                      \
        else if (n == 3) infer__direct_values_##NAME##_3(y, v, from, to, p, dim);                                      \
        else infer__direct_values_##NAME##_4(y, v, from, to, p, dim);                                                  \
    }

INFER__DEFINE_DIRECT(F16, 128)
INFER__DEFINE_DIRECT(BF16, 128)
INFER__DEFINE_DIRECT(Q8_0, 68)
INFER__DEFINE_DIRECT(Q4_0, 36)

static const infer__kv_direct infer__kv_direct_avx512[INFER__KV_TYPES] = {
    {NULL, NULL}, {NULL, NULL}, /* F32 is read in place anyway */
    {infer__direct_scores_F16, infer__direct_values_F16},
    {infer__direct_scores_BF16, infer__direct_values_BF16},
    {infer__direct_scores_Q8_0, infer__direct_values_Q8_0},
    {infer__direct_scores_Q4_0, infer__direct_values_Q4_0},
};
#undef INFER__D1
#undef INFER__D2
#undef INFER__D3
#undef INFER__D4
#undef INFER__ZERO
#undef INFER__STEP
#undef INFER__Q_STEP
#undef INFER__P_STEP
#undef INFER__FOUR
#undef INFER__GET
#undef INFER__SCORES_OUT
#undef INFER__VALUES_IN
#undef INFER__VALUES_OUT
#undef INFER__KEYS
#undef INFER__KEYS_SCALED
#undef INFER__KEYS_ON
#undef INFER__KEYS_SCALES
#undef INFER__SCORES_PLAIN
#undef INFER__SCORES_F16
#undef INFER__SCORES_BF16
#undef INFER__SCORES_Q8_0
#undef INFER__SCORES_Q4_0
#undef INFER__VALUES_PLAIN
#undef INFER__VALUES_F16
#undef INFER__VALUES_BF16
#undef INFER__VALUES_Q8_0
#undef INFER__VALUES_Q4_0
#undef INFER__DEFINE_DIRECT_ROWS
#undef INFER__DEFINE_DIRECT
#endif
