/* row_avx2_iq.c: GEMV as in row_avx2.c for code book types and those of 64 and 128 values a block; the table of all.
 *
 * Owns:  infer__ones_avx2, infer__ones_avxvnni.
 * How:   entries of code books are loads, as in unpack_avx2_iq.c. Signs go to the activations (pmaddubsw wants codes
 *        without), so that codes are smaller and no offset is left. What moves the values of a whole block (IQ1_S) is
 *        multiplied with the sum of its activations, for eight blocks at once.
 * Start: infer__iq2_xs_sums_avx2.
 */
#include "../products/cpu_int8.h"

#if defined(INFER__SIMD_AVX2)

/* The same for codes v that are negative where `mask` is 0xff. */
#define INFER__SIGNED_SUMS(b, v, mask, fit)                                                                            \
    s[b] = infer__products_avx2(v, _mm256_sign_epi8(infer__load_32_avx2(x + 32 * (b)),                                 \
                                                    _mm256_or_si256(mask, _mm256_set1_epi8(1))), fit)

/* Words of four bytes: their low halves to the low half, their high halves to the high half. Blocks 0 to 7, or, where
 * words are in the order 0 1 4 5 2 3 6 7, still in that order: block b is the word infer__packed_at(b). */
INFER__ON_avx2 INFER__INLINE __m256i infer__words_apart_avx2(__m256i v) {
    v = _mm256_shuffle_epi8(v, _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11,
                                                                           14, 15)));
    return _mm256_permute4x64_epi64(v, 0xd8);
}
INFER__INLINE int infer__packed_at(int b) { return (b & 1) | (b & 2) << 1 | (b & 4) >> 1; }

/* 0xff for the bits that are set among the 32 of word `at`. */
INFER__ON_avx2 INFER__INLINE __m256i infer__word_bits_avx2(__m256i apart, int at) {
    const __m256i bit = _mm256_set1_epi64x((int64_t)0x8040201008040201);
    return _mm256_cmpeq_epi8(_mm256_and_si256(infer__pair_of_bytes_avx2(apart, 2 * at), bit), bit);
}

/* ---- scales ----------------------------------------------------------------------------------------------------- */

/* Eight bytes with the nibbles of the first in the two lowest: 16 times 2 n + 1, as bytes. */
INFER__ON_avx2 INFER__INLINE __m128i infer__odd_nibbles_avx2(__m128i v) {
    v = _mm_and_si128(_mm_unpacklo_epi8(v, _mm_srli_epi16(v, 4)), _mm_set1_epi8(15));
    return _mm_or_si128(_mm_add_epi8(v, v), _mm_set1_epi8(1));
}

/* d / 8 times those at p, of halves of blocks. */
INFER__ON_avx2 INFER__INLINE void infer__iq2_scales_avx2(__m256 d, const uint8_t *p, __m256 *scale) {
    const __m128i v = _mm_loadl_epi64((const __m128i *)(const void *)p);
    infer__times_apart_avx2(infer__odd_nibbles_avx2(v), _mm256_mul_ps(d, _mm256_set1_ps(0.125f)), 0, scale);
}

/* d * f times 2 n + 1, where n is the top four bits of a word a block. */
INFER__ON_avx2 INFER__INLINE __m256 infer__top_scales_avx2(__m256 d, float f, __m256i words) {
    __m256i v = _mm256_srli_epi32(words, 28);
    v = _mm256_or_si256(_mm256_add_epi32(v, v), _mm256_set1_epi32(1));
    return _mm256_mul_ps(_mm256_mul_ps(d, _mm256_set1_ps(f)), _mm256_cvtepi32_ps(v));
}

/* ---- IQ2, IQ3 --------------------------------------------------------------------------------------------------- */

/* The second words of eight pairs, packed. */
INFER__ON_avx2 INFER__INLINE __m256i infer__odd_words_avx2(const uint8_t *p) {
    return _mm256_castps_si256(_mm256_shuffle_ps(_mm256_castsi256_ps(infer__load_32_avx2(p)),
                                                 _mm256_castsi256_ps(infer__load_32_avx2(p + 32)), 0xdd));
}

INFER__ON_avx2 INFER__INLINE void infer__iq2_xxs_sums_avx2(const uint8_t *p, const int8_t *x, __m256i *s) {
    const __m256i signs = infer__words_apart_avx2(infer__four_sevens_avx2(infer__odd_words_avx2(p + 2)));
    int i;
    INFER__UNROLL for (i = 0; i < 8; i++) INFER__SIGNED_SUMS(i, INFER__BOOK_8(infer__book_iq2xxs, p + 2 + 8 * i, 2),
                                                             infer__word_bits_avx2(signs, infer__packed_at(i)), 2);
}
INFER__ON_avx2 INFER__INLINE void infer__iq2_xxs_scales_avx2(const uint8_t *p, __m256 *scale, __m256 *min) {
    (void)min;
    scale[0] = infer__top_scales_avx2(infer__one_half_avx2(p), 0.125f,
                                      _mm256_permute4x64_epi64(infer__odd_words_avx2(p + 2), 0xd8));
}
INFER__ROW_AVX2(iq2_xxs, 66, 32, 0, 2, 0)

INFER__ON_avx2 INFER__INLINE void infer__iq2_xs_sums_avx2(const uint8_t *p, const int8_t *x, __m256i *s) {
    infer__iq_indices indices;
    const __m256i signs =
        infer__words_apart_avx2(infer__parity_avx2(infer__iq2_xs_indices_avx2(p + 2, &indices)));
    int i;
    INFER__UNROLL for (i = 0; i < 8; i++) INFER__SIGNED_SUMS(i, INFER__BOOK_8(infer__book_iq2xs, indices.at + 4 * i, 2),
                                                             infer__word_bits_avx2(signs, infer__packed_at(i)), 2);
}
INFER__ON_avx2 INFER__INLINE void infer__iq2_xs_scales_avx2(const uint8_t *p, __m256 *scale, __m256 *min) {
    (void)min;
    infer__iq2_scales_avx2(infer__one_half_avx2(p), p + 66, scale);
}
INFER__ROW_AVX2(iq2_xs, 74, 16, 0, 2, 0)

INFER__ON_avx2 INFER__INLINE void infer__iq2_s_sums_avx2(const uint8_t *p, const int8_t *x, __m256i *s) {
    infer__iq_indices indices;
    int i;
    infer__iq2_s_indices_avx2(p, &indices);
    INFER__UNROLL for (i = 0; i < 8; i++) INFER__SIGNED_SUMS(i, INFER__BOOK_8(infer__book_iq2s, indices.at + 4 * i, 2),
                                                             infer__bits_avx2(infer__load_u32(p + 34 + 4 * i)), 2);
}
INFER__ON_avx2 INFER__INLINE void infer__iq2_s_scales_avx2(const uint8_t *p, __m256 *scale, __m256 *min) {
    (void)min;
    infer__iq2_scales_avx2(infer__one_half_avx2(p), p + 74, scale);
}
INFER__ROW_AVX2(iq2_s, 82, 16, 0, 2, 0)

INFER__ON_avx2 INFER__INLINE void infer__iq3_xxs_sums_avx2(const uint8_t *p, const int8_t *x, __m256i *s) {
    const __m256i signs = infer__words_apart_avx2(infer__four_sevens_avx2(infer__load_32_avx2(p + 66)));
    int i;
    INFER__UNROLL for (i = 0; i < 8; i++) INFER__SIGNED_SUMS(i, INFER__BOOK_4(infer__book_iq3xxs, p + 2 + 8 * i, 4),
                                                             infer__word_bits_avx2(signs, i), 2);
}
INFER__ON_avx2 INFER__INLINE void infer__iq3_xxs_scales_avx2(const uint8_t *p, __m256 *scale, __m256 *min) {
    (void)min;
    scale[0] = infer__top_scales_avx2(infer__one_half_avx2(p), 0.25f, infer__load_32_avx2(p + 66));
}
INFER__ROW_AVX2(iq3_xxs, 98, 32, 0, 2, 0)

INFER__ON_avx2 INFER__INLINE void infer__iq3_s_sums_avx2(const uint8_t *p, const int8_t *x, __m256i *s) {
    infer__iq_indices indices;
    int i;
    infer__iq3_s_indices_avx2(p, &indices);
    INFER__UNROLL for (i = 0; i < 8; i++) INFER__SIGNED_SUMS(i, INFER__BOOK_4(infer__book_iq3s, indices.at + 8 * i, 4),
                                                             infer__bits_avx2(infer__load_u32(p + 74 + 4 * i)), 8);
}
INFER__ON_avx2 INFER__INLINE void infer__iq3_s_scales_avx2(const uint8_t *p, __m256 *scale, __m256 *min) {
    const __m128i v = _mm_cvtsi32_si128((int32_t)infer__load_u32(p + 106));
    (void)min;
    scale[0] = infer__times_bytes_avx2(infer__odd_nibbles_avx2(v), infer__one_half_avx2(p), 0);
}
INFER__ROW_AVX2(iq3_s, 110, 32, 0, 8, 0)
#undef INFER__SIGNED_SUMS

/* ---- IQ1: codes 9 too large, and 2 less where they are moved down ------------------------------------------------ */

/* Its own loop: offsets differ from block to block. */
INFER__ON_avx2 static void infer__iq1_s_row_avx2(const uint8_t *p, int n_chunks, const infer__x8 *x8, int64_t x_step,
                                                 float *t) {
    for (; n_chunks > 0; n_chunks--, p += 50, x8 += x_step, t += 8) {
        const __m256i high = _mm256_cvtepu16_epi32(infer__load_16_avx2(p + 34));
        const int8_t *x = x8->q;
        infer__iq_indices indices;
        __m256i s[8], v, words[2];
        __m256 d = _mm256_mul_ps(infer__one_half_avx2(p), _mm256_set1_ps(0.125f));
        int i;
        INFER__PREFETCH_FAR(p + INFER__ROW_AHEAD);
        infer__iq1_s_indices_avx2(p, &indices, words);
        INFER__UNROLL for (i = 0; i < 8; i++)
            INFER__BLOCK_SUMS(i, INFER__BOOK_8(infer__book_iq1s, indices.at + 4 * i, 2), 4);
        infer__add_across_avx2(s, 4);
        v = _mm256_and_si256(_mm256_srli_epi32(high, 14), _mm256_set1_epi32(2));
        v = _mm256_mullo_epi32(_mm256_add_epi32(v, _mm256_set1_epi32(9)), infer__load_32_avx2(x8->sum32));
        s[0] = _mm256_sub_epi32(_mm256_add_epi32(s[0], s[1]), v);
        v = _mm256_and_si256(_mm256_srli_epi32(high, 11), _mm256_set1_epi32(14)); /* twice three bits, and one */
        d = _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_or_si256(v, _mm256_set1_epi32(1))));
        _mm256_storeu_ps(t, _mm256_mul_ps(_mm256_cvtepi32_ps(s[0]), d));
    }
}

INFER__ON_avx2 INFER__INLINE void infer__iq1_m_sums_avx2(const uint8_t *p, const int8_t *x, __m256i *s) {
    infer__iq_indices indices;
    __m256i words[2], v, down;
    int i;
    infer__iq1_m_indices_avx2(p, &indices, words);
    v = _mm256_packus_epi16(_mm256_srli_epi16(words[0], 15), _mm256_srli_epi16(words[1], 15));
    down = infer__words_apart_avx2(_mm256_add_epi8(v, v));
    INFER__UNROLL for (i = 0; i < 8; i++) {
        v = infer__pair_of_bytes_avx2(down, 2 * infer__packed_at(i));
        INFER__BLOCK_SUMS(i, _mm256_sub_epi8(INFER__BOOK_8(infer__book_iq1s, indices.at + 4 * i, 2), v), 4);
    }
}
INFER__ON_avx2 INFER__INLINE void infer__iq1_m_scales_avx2(const uint8_t *p, __m256 *scale, __m256 *min) {
    __m256 d = _mm256_cvtph_ps(_mm_set1_epi16((short)infer__iq1_m_half(p + 48)));
    (void)min;
    infer__times_apart_avx2(infer__iq1_m_factors_avx2(p + 48), _mm256_mul_ps(d, _mm256_set1_ps(0.125f)), 0, scale);
}
INFER__ROW_AVX2(iq1_m, 56, 16, 0, 4, 9)

/* ---- TQ1_0 ------------------------------------------------------------------------------------------------------- */

INFER__ON_avx2 INFER__INLINE void infer__tq1_0_sums_avx2(const uint8_t *p, const int8_t *x, __m256i *s) {
    __m256i a = infer__load_32_avx2(p), v[5]; /* digit t: block t */
    /* digit t of 16 bytes: half a block each from value 160 on; of 4 bytes: four values each from value 240 on */
    __m256i b = _mm256_setr_epi64x((int64_t)infer__load_u64(p + 32), (int64_t)infer__load_u64(p + 40),
                                   (int64_t)infer__load_u32(p + 48), 0);
    __m128i four;
    int i;
    INFER__UNROLL for (i = 0; i < 5; i++) {
        INFER__BLOCK_SUMS(i, infer__next_digit_avx2(&a), 8);
        v[i] = infer__next_digit_avx2(&b);
    }
    INFER__BLOCK_SUMS(5, _mm256_permute2x128_si256(v[0], v[1], 0x20), 8);
    INFER__BLOCK_SUMS(6, _mm256_permute2x128_si256(v[2], v[3], 0x20), 8);
    four = _mm_unpacklo_epi64(
        _mm_unpacklo_epi32(_mm256_extracti128_si256(v[0], 1), _mm256_extracti128_si256(v[1], 1)),
        _mm_unpacklo_epi32(_mm256_extracti128_si256(v[2], 1), _mm256_extracti128_si256(v[3], 1)));
    INFER__BLOCK_SUMS(7, _mm256_inserti128_si256(v[4], four, 1), 8);
}
INFER__ON_avx2 INFER__INLINE void infer__tq1_0_scales_avx2(const uint8_t *p, __m256 *scale, __m256 *min) {
    (void)min;
    scale[0] = infer__one_half_avx2(p + 52);
}
INFER__ROW_AVX2(tq1_0, 54, 32, 0, 8, 1)

/* ---- blocks of 64 and 128 values --------------------------------------------------------------------------------- */

/* Block b of 32 values of a row; here 0 and 2. */
INFER__ON_avx2 INFER__INLINE __m256i infer__q1_0_block_avx2(const uint8_t *row, int b) {
    return infer__and_avx2(infer__bits_avx2(infer__load_u32(row + 18 * (b / 4) + 2 + 4 * (b % 4))), 2);
}

INFER__ON_avx2 INFER__INLINE __m256i infer__q2_0_block_avx2(const uint8_t *row, int b) {
    const uint8_t *p = row + 18 * (b / 2) + 2 + 8 * (b % 2);
    __m256i v = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
    v = _mm256_or_si256(v, _mm256_slli_epi32(v, 12)); /* a byte's pairs of bits to the low ends of four bytes */
    v = _mm256_or_si256(v, _mm256_slli_epi32(v, 6));
    return infer__and_avx2(v, 3);
}

/* 8 bytes hold 16 values: low halves, then high halves. */
INFER__ON_avx2 INFER__INLINE __m256i infer__nvfp4_block_avx2(const uint8_t *row, int b) {
    __m256i v = _mm256_permute4x64_epi64(infer__twice_avx2(row + 36 * (b / 2) + 4 + 16 * (b % 2)), 0x50);
    v = _mm256_blend_epi32(v, _mm256_srli_epi16(v, 4), 0xcc);
    return _mm256_shuffle_epi8(infer__fp4_table_avx2(), infer__low_nibbles_avx2(v));
}

#define INFER__ROW_SUMS(name, fit)                                                                                     \
    INFER__ON_avx2 INFER__INLINE void infer__##name##_sums_avx2(const uint8_t *p, const int8_t *x, __m256i *s) {       \
        int i;                                                                                                         \
        INFER__UNROLL for (i = 0; i < 8; i++) INFER__BLOCK_SUMS(i, infer__##name##_block_avx2(p, i), fit);             \
    }
INFER__ROW_SUMS(q1_0, 8)
INFER__ROW_SUMS(q2_0, 8)
INFER__ROW_SUMS(nvfp4, 4)
#undef INFER__ROW_SUMS

/* A scale is of four blocks of 32, of two (Q2_0), of half a block (NVFP4). */
INFER__ON_avx2 INFER__INLINE void infer__q1_0_scales_avx2(const uint8_t *p, __m256 *scale, __m256 *min) {
    (void)min;
    scale[0] = _mm256_blend_ps(infer__one_half_avx2(p), infer__one_half_avx2(p + 18), 0xf0);
}
INFER__ROW_AVX2(q1_0, 36, 32, 0, 8, 1)

INFER__ON_avx2 INFER__INLINE void infer__q2_0_scales_avx2(const uint8_t *p, __m256 *scale, __m256 *min) {
    __m128i v = _mm_cvtsi32_si128(infer__load_u16(p));
    (void)min;
    v = _mm_insert_epi16(v, infer__load_u16(p + 18), 1);
    v = _mm_insert_epi16(v, infer__load_u16(p + 36), 2);
    v = _mm_insert_epi16(v, infer__load_u16(p + 54), 3);
    scale[0] = _mm256_cvtph_ps(_mm_unpacklo_epi16(v, v));
}
INFER__ROW_AVX2(q2_0, 72, 32, 0, 8, 1)

INFER__ON_avx2 INFER__INLINE void infer__nvfp4_scales_avx2(const uint8_t *p, __m256 *scale, __m256 *min) {
    __m128i v = _mm_cvtsi32_si128((int32_t)infer__load_u32(p));
    (void)min;
    v = _mm_insert_epi32(v, (int32_t)infer__load_u32(p + 36), 1);
    v = _mm_insert_epi32(v, (int32_t)infer__load_u32(p + 72), 2);
    v = _mm_insert_epi32(v, (int32_t)infer__load_u32(p + 108), 3);
    v = _mm_shuffle_epi8(v, _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15));
    scale[0] = infer__ue4m3_avx2(_mm256_cvtepu8_epi32(v));
    scale[1] = infer__ue4m3_avx2(_mm256_cvtepu8_epi32(_mm_unpackhi_epi64(v, v)));
}
INFER__ROW_AVX2(nvfp4, 144, 16, 0, 4, 12)
#undef INFER__ROW_AVX2
#undef INFER__BLOCK_SUMS
#undef INFER__BOOK_8
#undef INFER__BOOK_4

/* wide: the level of types with codes beyond 127. */
#define INFER__ONES(wide)                                                                                              \
    {2, NULL, infer__q4_0_row_avx2},                                                                                   \
    {8, NULL, infer__q8_0_row_##wide},                                                                                 \
    INFER__QUANT(Q4_1, 3, NULL, infer__q4_1_row_avx2)                                                                  \
    INFER__QUANT(Q5_0, 6, NULL, infer__q5_0_row_avx2)                                                                  \
    INFER__QUANT(Q5_1, 7, NULL, infer__q5_1_row_avx2)                                                                  \
    INFER__QUANT(Q2_K, 10, NULL, infer__q2_k_row_avx2)                                                                 \
    INFER__QUANT(Q3_K, 11, NULL, infer__q3_k_row_avx2)                                                                 \
    INFER__QUANT(Q4_K, 12, NULL, infer__q4_k_row_avx2)                                                                 \
    INFER__QUANT(Q5_K, 13, NULL, infer__q5_k_row_avx2)                                                                 \
    INFER__QUANT(Q6_K, 14, NULL, infer__q6_k_row_avx2)                                                                 \
    INFER__QUANT(IQ2_XXS, 16, NULL, infer__iq2_xxs_row_avx2)                                                           \
    INFER__QUANT(IQ2_XS, 17, NULL, infer__iq2_xs_row_avx2)                                                             \
    INFER__QUANT(IQ3_XXS, 18, NULL, infer__iq3_xxs_row_avx2)                                                           \
    INFER__QUANT(IQ1_S, 19, NULL, infer__iq1_s_row_avx2)                                                               \
    INFER__QUANT(IQ4_NL, 20, NULL, infer__iq4_nl_row_##wide)                                                           \
    INFER__QUANT(IQ3_S, 21, NULL, infer__iq3_s_row_avx2)                                                               \
    INFER__QUANT(IQ2_S, 22, NULL, infer__iq2_s_row_avx2)                                                               \
    INFER__QUANT(IQ4_XS, 23, NULL, infer__iq4_xs_row_##wide)                                                           \
    INFER__QUANT(IQ1_M, 29, NULL, infer__iq1_m_row_avx2)                                                               \
    INFER__QUANT(TQ1_0, 34, NULL, infer__tq1_0_row_avx2)                                                               \
    INFER__QUANT(TQ2_0, 35, NULL, infer__tq2_0_row_avx2)                                                               \
    INFER__QUANT(MXFP4, 39, NULL, infer__mxfp4_row_avx2)                                                               \
    INFER__QUANT(NVFP4, 40, NULL, infer__nvfp4_row_avx2)                                                               \
    INFER__QUANT(Q1_0, 41, NULL, infer__q1_0_row_avx2)                                                                 \
    INFER__QUANT(Q2_0, 42, NULL, infer__q2_0_row_avx2)
static const infer__one_row infer__ones_avx2[] = {INFER__ONES(avx2)};
#  if defined(INFER__HAS_AVXVNNI)
static const infer__one_row infer__ones_avxvnni[] = {INFER__ONES(avxvnni)};
#  endif
#undef INFER__ONES
#endif
