/* alone_avx512.c: GEMV, one column of activations times rows in the file's layout, with AVX-512 and VNNI.
 *
 * Owns:  infer__alone_rows: for the most common storage types.
 * How:   codes go from the file's layout to vpdpbusd in registers, using the functions of unpack: 64 fewer stores and
 *        loads per chunk. The next chunk is brought from the L2 cache to the L1, at most one line of a row missing.
 *        Integer sums and the float arithmetic are those of int8_avx512.c, so results are the same bit for bit.
 * Numbers: GB/s of packed bytes in cache on a Zen 5 core, unpacked first and this way: Q4_0 31, 40; Q8_0 39, 50; Q4_K
 *        31, 40. A token of a 1B model is 1.0 (Q6_K) to 1.2 times (Q4_0) as fast. Prefetching continues while sums are
 *        finished: on an Emerald Rapids 85 % of what a thread reads, Q4_K; without 79 %.
 * Start: INFER__ALONE.
 */
#include "../products/cpu_int8.h"

#if defined(INFER__SIMD_AVX512)

/* Codes of a row (first and second halves of blocks 0 .. 3, then of 4 .. 7) times x in the same order: sums of whole
 * blocks to out[0], out[1] (grain 32), or of all four. */
INFER__ON_avx512vnni INFER__INLINE void infer__row_sums_avx512vnni(const __m512i *codes, const __m512i *x, int grain,
                                                                   __m512i *out) {
    const __m512i zero = _mm512_setzero_si512();
    int i;
    INFER__UNROLL for (i = 0; i < 4; i++) {
        if (grain == 16) out[i] = _mm512_dpbusd_epi32(zero, codes[i], x[i]);
        else out[i / 2] = _mm512_dpbusd_epi32(i & 1 ? out[i / 2] : zero, codes[i], x[i]);
    }
}

/* 16 rows of a chunk of `bytes` each. row(i, p): the codes of row i, at p, to v. The scales are read last: reading
 * those of 16 rows first would wait for memory that is being prefetched; where they are words among the codes, `row`
 * keeps them in `scales`. */
#  define INFER__ALONE(name, bytes, grain, has_min, offset, row, after)                                          \
    INFER__ON_avx512vnni static void infer__##name##_alone_avx512vnni(const uint8_t *src, uint64_t row_bytes,    \
                                                                      const uint8_t *upcoming, const infer__x8 *x8,  \
                                                                      infer__unpacked *w, float *y) {            \
      enum { N = (grain) == 16 ? 4 : 2 };                                                                        \
      __m512i x[4], v[4], four[4][4], sums[N][4], low[4], high[4];                                               \
      __m512 acc = _mm512_load_ps(y);                                                                            \
      int32_t start[INFER__CHUNK / 16];                                                                          \
      __m128i scales[32];                                                                                        \
      const uint8_t *p = src;                                                                                    \
      int i, j, k;                                                                                               \
      (void)scales;                                                                                              \
      infer__halves_avx512(x8->q, &x[0], &x[1]);                                                                 \
      infer__halves_avx512(x8->q + 128, &x[2], &x[3]);                                                           \
      infer__start_avx512(x8, grain, offset, start);                                                             \
      for (i = 0; i < 4; i++) {                                                                                  \
        INFER__UNROLL for (j = 0; j < 4; j++, p += row_bytes, upcoming += row_bytes) {                               \
          __m512i t[4];                                                                                          \
          row(4 * i + j, p);                                                                                     \
          infer__row_sums_avx512vnni(v, x, grain, t);                                                            \
          INFER__UNROLL for (k = 0; k < N; k++) four[k][j] = t[k];                                               \
          infer__ask(&w->ahead);                                                                                 \
          INFER__UNROLL for (k = (bytes) > 256 ? 0 : 48; k < (bytes); k += 64) INFER__PREFETCH(upcoming + k);    \
        }                                                                                                        \
        INFER__UNROLL for (k = 0; k < N; k++) sums[k][i] = infer__add_rows_avx512(four[k]);                      \
        infer__ask(&w->ahead);                                                                                   \
      }                                                                                                          \
      after;                                                                                                     \
      infer__ask(&w->ahead);                                                                                     \
      INFER__UNROLL for (i = 0; i < 2; i++) {                                                                    \
        infer__ask(&w->ahead);                                                                                   \
        infer__lanes_to_rows_avx512(sums[i * N / 2], low);                                                       \
        if ((grain) == 16) infer__lanes_to_rows_avx512(sums[2 * i + 1], high);                                   \
        acc = infer__blocks_avx512(w, x8, start, 4 * i, 8, grain, has_min, low, high, acc);                      \
      }                                                                                                          \
      _mm512_store_ps(y, acc);                                                                                   \
    }

/* Blocks of 32. Words of row i: scales[i], and scales[16 + i] for the last four blocks of types with minima. */
#  define INFER__ALONE_32(name, bytes, has_min, offset, row) \
    INFER__ALONE(name, bytes, 32, has_min, offset, row, infer__put_words_avx512(scales, has_min, w))
INFER__ON_avx512 INFER__INLINE void infer__put_words_avx512(const __m128i *words, int has_min, infer__unpacked *w) {
    infer__put_halves_avx512(words, w->scale, has_min ? w->min : w->scale + 4);
    if (has_min) infer__put_halves_avx512(words + 16, w->scale + 4, w->min + 4);
}
#  define INFER__ALONE_WORDS(i, p, block, words, fifth, levels, lookup) \
    scales[i] = infer__words_eight_avx512(p, block, words, fifth, levels, lookup, v, &scales[16 + (i)])
#  define INFER__ALONE_q4_0(i, p) INFER__ALONE_WORDS(i, p, 18, infer__q4_0_words, 0, _mm512_setzero_si512(), 0)
#  define INFER__ALONE_q4_1(i, p) INFER__ALONE_WORDS(i, p, 20, infer__q4_1_words, 0, _mm512_setzero_si512(), 0)
#  define INFER__ALONE_q5_0(i, p)                                                       \
    INFER__ALONE_WORDS(i, p, 22, infer__q5_0_words, 1, _mm512_setzero_si512(), 0);      \
    scales[i] = _mm_unpacklo_epi64(scales[i], scales[16 + (i)])
#  define INFER__ALONE_q5_1(i, p) INFER__ALONE_WORDS(i, p, 24, infer__q5_1_words, 1, _mm512_setzero_si512(), 0)
#  define INFER__ALONE_iq4_nl(i, p) INFER__ALONE_WORDS(i, p, 18, infer__q4_0_words, 0, infer__iq4_table_avx512(), 1)
#  define INFER__ALONE_q8_0(i, p) scales[i] = infer__q8_0_eight_avx512(p, v)
INFER__ALONE_32(q4_0, 144, 0, 8, INFER__ALONE_q4_0)
INFER__ALONE_32(q4_1, 160, 1, 0, INFER__ALONE_q4_1)
INFER__ALONE_32(q5_0, 176, 0, 16, INFER__ALONE_q5_0)
INFER__ALONE_32(q5_1, 192, 1, 0, INFER__ALONE_q5_1)
INFER__ALONE_32(iq4_nl, 144, 0, 128, INFER__ALONE_iq4_nl)
INFER__ALONE_32(q8_0, 272, 0, 128, INFER__ALONE_q8_0)
#  define INFER__ALONE_mxfp4(i, p) infer__mxfp4_four_avx512(p, v), infer__mxfp4_four_avx512((p) + 4 * 17, v + 2)
INFER__ALONE(mxfp4, 136, 32, 0, 12, INFER__ALONE_mxfp4, infer__mxfp4_scales_avx512(src, row_bytes, w))

#  define INFER__ALONE_q2_k(i, p) infer__q2_k_codes_avx512(p, v)
#  define INFER__ALONE_q3_k(i, p) infer__q3_k_codes_avx512(p, v)
#  define INFER__ALONE_q4_k(i, p) infer__q4_k_codes_avx512(p, v)
#  define INFER__ALONE_q5_k(i, p) infer__q5_k_codes_avx512(p, v)
#  define INFER__ALONE_q6_k(i, p) infer__q6_k_codes_avx512(p, v)
#  define INFER__ALONE_iq4_xs(i, p) infer__iq4_xs_codes_avx512(p, v)
INFER__ALONE(q2_k, 84, 16, 1, 0, INFER__ALONE_q2_k, infer__q2_k_scales_avx512(src, row_bytes, w))
INFER__ALONE(q3_k, 110, 16, 0, 4, INFER__ALONE_q3_k, infer__q3_k_scales_avx512(src, row_bytes, w))
INFER__ALONE(q4_k, 144, 32, 1, 0, INFER__ALONE_q4_k, infer__put_scale_min_avx512(src, row_bytes, w))
INFER__ALONE(q5_k, 176, 32, 1, 0, INFER__ALONE_q5_k, infer__put_scale_min_avx512(src, row_bytes, w))
INFER__ALONE(q6_k, 210, 16, 0, 32, INFER__ALONE_q6_k, infer__q6_k_scales_avx512(src, row_bytes, w))
INFER__ALONE(iq4_xs, 136, 32, 0, 128, INFER__ALONE_iq4_xs, infer__iq4_xs_scales_avx512(src, row_bytes, w))
#  undef INFER__ALONE_q4_0
#  undef INFER__ALONE_q4_1
#  undef INFER__ALONE_q5_0
#  undef INFER__ALONE_q5_1
#  undef INFER__ALONE_iq4_nl
#  undef INFER__ALONE_q8_0
#  undef INFER__ALONE_mxfp4
#  undef INFER__ALONE_q2_k
#  undef INFER__ALONE_q3_k
#  undef INFER__ALONE_q4_k
#  undef INFER__ALONE_q5_k
#  undef INFER__ALONE_q6_k
#  undef INFER__ALONE_iq4_xs
#  undef INFER__ALONE_32
#  undef INFER__ALONE_WORDS
#  undef INFER__ALONE

/* Q8_0 a row at a time, as row_avx2.c: its codes take few instructions, so memory is the limit, and one stream is read
 * faster than sixteen (30 and 37 GB/s, one core of a Zen 5). */
INFER__ON_avx512vnni static void infer__q8_0_row_avx512vnni(const uint8_t *p, int n_chunks, const infer__x8 *x8,
                                                            int64_t x_step, float *t) {
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    for (; n_chunks > 0; n_chunks--, p += 272, x8 += x_step, t += 8) {
        __m512i x[4], v[4], s[2];
        __m256i sum;
        __m256 scale;
        int k;
        INFER__UNROLL for (k = 0; k < 272; k += 64) INFER__PREFETCH_FAR(p + INFER__ROW_AHEAD + k);
        infer__halves_avx512(x8->q, &x[0], &x[1]);
        infer__halves_avx512(x8->q + 128, &x[2], &x[3]);
        scale = _mm256_cvtph_ps(infer__q8_0_eight_avx512(p, v));
        infer__row_sums_avx512vnni(v, x, 32, s);
        s[0] = _mm512_add_epi32(_mm512_unpacklo_epi32(s[0], s[1]), _mm512_unpackhi_epi32(s[0], s[1]));
        s[0] = _mm512_permutexvar_epi32(order, s[0]); /* eight blocks, two sums each */
        sum = _mm256_add_epi32(_mm512_castsi512_si256(s[0]), _mm512_extracti64x4_epi64(s[0], 1));
        sum = _mm256_sub_epi32(sum, _mm256_slli_epi32(infer__load_32_avx2(x8->sum32), 7));
        _mm256_storeu_ps(t, _mm256_mul_ps(_mm256_cvtepi32_ps(sum), scale));
    }
}

static const infer__one_row infer__ones_avx512vnni[] = {
    {2, infer__q4_0_alone_avx512vnni, NULL},
    {8, infer__q8_0_alone_avx512vnni, infer__q8_0_row_avx512vnni},
    INFER__QUANT(Q4_1, 3, infer__q4_1_alone_avx512vnni, NULL)
    INFER__QUANT(Q5_0, 6, infer__q5_0_alone_avx512vnni, NULL)
    INFER__QUANT(Q5_1, 7, infer__q5_1_alone_avx512vnni, NULL)
    INFER__QUANT(Q2_K, 10, infer__q2_k_alone_avx512vnni, NULL)
    INFER__QUANT(Q3_K, 11, infer__q3_k_alone_avx512vnni, NULL)
    INFER__QUANT(Q4_K, 12, infer__q4_k_alone_avx512vnni, NULL)
    INFER__QUANT(Q5_K, 13, infer__q5_k_alone_avx512vnni, NULL)
    INFER__QUANT(Q6_K, 14, infer__q6_k_alone_avx512vnni, NULL)
    INFER__QUANT(IQ4_NL, 20, infer__iq4_nl_alone_avx512vnni, NULL)
    INFER__QUANT(IQ4_XS, 23, infer__iq4_xs_alone_avx512vnni, NULL)
    INFER__QUANT(MXFP4, 39, infer__mxfp4_alone_avx512vnni, NULL)
};
#endif
