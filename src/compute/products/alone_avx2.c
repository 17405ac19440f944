/* alone_avx2.c: GEMV, one column of activations times rows in the file's layout, with AVX2.
 *
 * Owns:  infer__alone_rows_avx2: for the types where it is faster than unpacking first.
 * How:   first the scales of 16 rows, as in unpack. Then two blocks at a time of eight rows, whose codes go from the
 *        file's layout to pmaddubsw in registers. Integer sums and the float arithmetic are those of int8_avx2.c, so
 *        results are the same bit for bit, also beside AVX-VNNI's.
 * Numbers: a token of a 1B model, one thread of a Zen 5: Q8_0 1.14 times as fast, Q4_1 1.13, Q4_0 1.11, MXFP4 1.09.
 *        Q5_0, Q4_K, Q5_K and IQ4_NL were 0.90 to 0.96, Q6_K and Q2_K 0.8 to 0.9: their codes take more work.
 * Start: INFER__ALONE_AVX2.
 */
#include "cpu_int8.h"

#if defined(INFER__SIMD_AVX2)

/* Blocks of 32 values. bytes: of one. fit: infer__int8_fit; where it is 0 the codes are signed. */
#define INFER__ALONE_AVX2(name, bytes, has_min, fit, offset, scales)                                                   \
    INFER__ON_avx2 static void infer__##name##_alone_avx2(const uint8_t *src, uint64_t row_bytes,                      \
                                                          const uint8_t *upcoming, const infer__x8 *x,                 \
                                                          infer__unpacked *w, float *y) {                              \
        int r, c, j;                                                                                                   \
        for (c = 0; c < 8; c++) scales(src, row_bytes, bytes, c, w);                                                   \
        for (r = 0; r < INFER__GROUP; r += 8, src += 8 * row_bytes, upcoming += 8 * row_bytes) {                       \
            __m256 acc = _mm256_load_ps(y + r);                                                                        \
            for (c = 0; c < 4; c++) { /* blocks 2 c and 2 c + 1 */                                                     \
                const infer__pair_avx2 xs = infer__pair_of_avx2(x, 2 * c);                                             \
                const uint8_t *p = src;                                                                                \
                __m256i s[8], v[2];                                                                                    \
                infer__ask(&w->ahead);                                                                                 \
                INFER__UNROLL for (j = 0; j < 8; j++, p += row_bytes) {                                                \
                    infer__##name##_codes_avx2(p, c, v);                                                               \
                    s[j] = infer__pair_products_avx2(v, &xs, fit);                                                     \
                    if (64 * c < 8 * (bytes)) INFER__PREFETCH(upcoming + (uint64_t)j * row_bytes + 64 * c);            \
                }                                                                                                      \
                infer__ask(&w->ahead);                                                                                 \
                infer__add_across_avx2(s, (fit) < 2 ? 0 : (fit) / 2);                                                  \
                acc = infer__block_avx2(w, x, 2 * c, r, 32, has_min, fit, offset, s[0], s[0], acc);                    \
                acc = infer__block_avx2(w, x, 2 * c + 1, r, 32, has_min, fit, offset, s[1], s[1], acc);                \
            }                                                                                                          \
            _mm256_store_ps(y + r, acc);                                                                               \
        }                                                                                                              \
    }
INFER__ALONE_AVX2(q4_0, 18, 0, 8, 8, infer__put_scales_avx2)
INFER__ALONE_AVX2(q4_1, 20, 1, 8, 0, infer__put_scales_mins_avx2)
INFER__ALONE_AVX2(q8_0, 34, 0, 0, 0, infer__put_scales_avx2)
INFER__ALONE_AVX2(mxfp4, 17, 0, 4, 12, infer__put_e8m0_avx2)
#undef INFER__ALONE_AVX2

static const infer__alone_row infer__alone_rows_avx2[] = {
    {2, infer__q4_0_alone_avx2},
    {8, infer__q8_0_alone_avx2},
    INFER__QUANT(Q4_1, 3, infer__q4_1_alone_avx2)
    INFER__QUANT(MXFP4, 39, infer__mxfp4_alone_avx2)
};
#endif
