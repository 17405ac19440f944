/* unpack_avx2.c: unpack functions with AVX2 for the types whose blocks have 32 values: Q4_0 .. Q8_0, IQ4_NL, MXFP4.
 *
 * Owns:  what unpack_avx2_k.c uses too, and functions for the table there. The plain C functions of quant_*.c define
 *        what they compute; results are equal.
 * How:   codes row after row, two blocks side by side: their first halves are one vector of infer__unpacked, their
 *        second halves another. Then the scales, block after block, of 8 rows each.
 * Tails: a row may end after an odd number of blocks; what is read beyond it is written to unused entries.
 * Start: INFER__UNPACK_AVX2.
 */
#include "../products/cpu_int8.h"

#if defined(INFER__SIMD_AVX2)

/* ---- codes ----------------------------------------------------------------------------------------------------- */

INFER__ON_avx2 INFER__INLINE __m256i infer__two_avx2(const uint8_t *low, const uint8_t *high) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)low)),
                                   _mm_loadu_si128((const __m128i *)(const void *)high), 1);
}
INFER__ON_avx2 INFER__INLINE __m256i infer__load_32_avx2(const void *p) {
    return _mm256_loadu_si256((const __m256i *)p);
}
INFER__ON_avx2 INFER__INLINE __m256i infer__twice_avx2(const void *p) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)p));
}
INFER__ON_avx2 INFER__INLINE void infer__put_avx2(uint8_t *q, __m256i v) {
    _mm256_store_si256((__m256i *)(void *)q, v);
}
INFER__ON_avx2 INFER__INLINE __m256i infer__low_nibbles_avx2(__m256i v) {
    return _mm256_and_si256(v, _mm256_set1_epi8(15));
}
INFER__ON_avx2 INFER__INLINE __m256i infer__high_nibbles_avx2(__m256i v) {
    return infer__low_nibbles_avx2(_mm256_srli_epi16(v, 4));
}

/* Codes of two blocks, a and b: first halves to v[0], second halves to v[1]. 16 bytes of nibbles each: */
INFER__ON_avx2 INFER__INLINE void infer__nibbles_avx2(const uint8_t *a, const uint8_t *b, __m256i *v) {
    __m256i both = infer__two_avx2(a, b);
    v[0] = infer__low_nibbles_avx2(both);
    v[1] = infer__high_nibbles_avx2(both);
}
/* The same as indices of a table of 16 bytes. */
INFER__ON_avx2 INFER__INLINE void infer__levels_avx2(const uint8_t *a, const uint8_t *b, __m256i table, __m256i *v) {
    infer__nibbles_avx2(a, b, v);
    v[0] = _mm256_shuffle_epi8(table, v[0]);
    v[1] = _mm256_shuffle_epi8(table, v[1]);
}
INFER__ON_avx2 INFER__INLINE __m256i infer__iq4_table_avx2(void) {
    return _mm256_xor_si256(infer__twice_avx2(infer__kvalues_iq4nl), _mm256_set1_epi8(-128));
}
INFER__ON_avx2 INFER__INLINE __m256i infer__fp4_table_avx2(void) {
    return _mm256_add_epi8(infer__twice_avx2(infer__kvalues_fp4), _mm256_set1_epi8(12));
}

/* 16 for the bits that are set: lanes have 32 bits each, `first` those of byte `at` and `at + 1`. */
INFER__ON_avx2 INFER__INLINE __m256i infer__sixteens_avx2(__m256i bits, int at) {
    const __m256i bit = _mm256_set1_epi64x((int64_t)0x8040201008040201);
    __m256i bytes = _mm256_shuffle_epi8(bits, _mm256_or_si256(_mm256_set1_epi8((char)at),
                                                              _mm256_setr_epi64x(0, 0x0101010101010101, 0,
                                                                                 0x0101010101010101)));
    return _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit), bit), _mm256_set1_epi8(16));
}
/* 4 bytes of fifth bits, then 16 bytes of nibbles. */
INFER__ON_avx2 INFER__INLINE void infer__fifths_avx2(const uint8_t *a, const uint8_t *b, __m256i *v) {
    __m256i bits = _mm256_inserti128_si256(_mm256_set1_epi32((int32_t)infer__load_u32(a)),
                                           _mm_set1_epi32((int32_t)infer__load_u32(b)), 1);
    infer__nibbles_avx2(a + 4, b + 4, v);
    v[0] = _mm256_or_si256(v[0], infer__sixteens_avx2(bits, 0));
    v[1] = _mm256_or_si256(v[1], infer__sixteens_avx2(bits, 2));
}

/* 32 signed bytes. */
INFER__ON_avx2 INFER__INLINE void infer__bytes_avx2(const uint8_t *a, const uint8_t *b, __m256i *v) {
    v[0] = infer__two_avx2(a, b);
    v[1] = infer__two_avx2(a + 16, b + 16);
}

/* The position of vector c (0..3) of half h of the blocks of a row: blocks 2 c and 2 c + 1. */
INFER__INLINE uint8_t *infer__pair_at(uint8_t *q, int c, int h) { return q + 128 * (c / 2) + 32 * (c % 2) + 64 * h; }

/* Both halves. */
INFER__ON_avx2 INFER__INLINE void infer__put_pair_avx2(uint8_t *q, int c, const __m256i *v) {
    infer__put_avx2(infer__pair_at(q, c, 0), v[0]);
    infer__put_avx2(infer__pair_at(q, c, 1), v[1]);
}

/* ---- scales ---------------------------------------------------------------------------------------------------- */

/* fp16 of 8 rows. */
INFER__ON_avx2 INFER__INLINE __m256 infer__row_halves_avx2(const uint8_t *p, uint64_t row_bytes) {
    const uint8_t *p4 = p + 4 * row_bytes;
    __m128i v = _mm_cvtsi32_si128(infer__load_u16(p));
    v = _mm_insert_epi16(v, infer__load_u16(p + row_bytes), 1);
    v = _mm_insert_epi16(v, infer__load_u16(p + 2 * row_bytes), 2);
    v = _mm_insert_epi16(v, infer__load_u16(p + 3 * row_bytes), 3);
    v = _mm_insert_epi16(v, infer__load_u16(p4), 4);
    v = _mm_insert_epi16(v, infer__load_u16(p4 + row_bytes), 5);
    v = _mm_insert_epi16(v, infer__load_u16(p4 + 2 * row_bytes), 6);
    v = _mm_insert_epi16(v, infer__load_u16(p4 + 3 * row_bytes), 7);
    return _mm256_cvtph_ps(v);
}

/* Two adjacent fp16 of each of 8 rows. */
INFER__ON_avx2 INFER__INLINE void infer__half_pairs_avx2(const uint8_t *p, uint64_t row_bytes, __m256 *first,
                                                         __m256 *second) {
    const __m128i apart = _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
    __m128i v[2];
    int i;
    INFER__UNROLL for (i = 0; i < 2; i++, p += 4 * row_bytes) {
        v[i] = _mm_cvtsi32_si128((int32_t)infer__load_u32(p));
        v[i] = _mm_insert_epi32(v[i], (int32_t)infer__load_u32(p + row_bytes), 1);
        v[i] = _mm_insert_epi32(v[i], (int32_t)infer__load_u32(p + 2 * row_bytes), 2);
        v[i] = _mm_shuffle_epi8(_mm_insert_epi32(v[i], (int32_t)infer__load_u32(p + 3 * row_bytes), 3), apart);
    }
    *first = _mm256_cvtph_ps(_mm_unpacklo_epi64(v[0], v[1]));
    *second = _mm256_cvtph_ps(_mm_unpackhi_epi64(v[0], v[1]));
}

INFER__ON_avx2 INFER__INLINE void infer__put_scales_avx2(const uint8_t *src, uint64_t row_bytes, int bytes, int b,
                                                         infer__unpacked *out) {
    int r;
    INFER__UNROLL for (r = 0; r < INFER__GROUP; r += 8) _mm256_store_ps(
        out->scale[b] + r, infer__row_halves_avx2(src + (uint64_t)r * row_bytes + bytes * b, row_bytes));
}
INFER__ON_avx2 INFER__INLINE void infer__put_scales_mins_avx2(const uint8_t *src, uint64_t row_bytes, int bytes, int b,
                                                              infer__unpacked *out) {
    __m256 d, m;
    int r;
    INFER__UNROLL for (r = 0; r < INFER__GROUP; r += 8) {
        infer__half_pairs_avx2(src + (uint64_t)r * row_bytes + bytes * b, row_bytes, &d, &m);
        _mm256_store_ps(out->scale[b] + r, d);
        _mm256_store_ps(out->min[b] + r, m);
    }
}

/* Bytes `step` apart. */
INFER__ON_avx2 INFER__INLINE __m128i infer__eight_bytes_avx2(const uint8_t *p, uint64_t step) {
    __m128i v = _mm_cvtsi32_si128(p[0]);
    v = _mm_insert_epi8(v, p[step], 1);
    v = _mm_insert_epi8(v, p[2 * step], 2);
    v = _mm_insert_epi8(v, p[3 * step], 3);
    v = _mm_insert_epi8(v, p[4 * step], 4);
    v = _mm_insert_epi8(v, p[5 * step], 5);
    v = _mm_insert_epi8(v, p[6 * step], 6);
    return _mm_insert_epi8(v, p[7 * step], 7);
}

/* E8M0 bytes: 2^(e - 128); the two smallest are subnormal. */
INFER__ON_avx2 INFER__INLINE __m256 infer__e8m0_avx2(__m128i bytes) {
    const __m256i e = _mm256_cvtepu8_epi32(bytes);
    __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    return _mm256_castsi256_ps(_mm256_blendv_epi8(_mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e), normal,
                                                  _mm256_cmpgt_epi32(e, _mm256_set1_epi32(1))));
}
INFER__ON_avx2 INFER__INLINE void infer__put_e8m0_avx2(const uint8_t *src, uint64_t row_bytes, int bytes, int b,
                                                       infer__unpacked *out) {
    int r;
    INFER__UNROLL for (r = 0; r < INFER__GROUP; r += 8) _mm256_store_ps(
        out->scale[b] + r,
        infer__e8m0_avx2(infer__eight_bytes_avx2(src + (uint64_t)r * row_bytes + bytes * b, row_bytes)));
}

/* ---- types ----------------------------------------------------------------------------------------------------- */

/* codes: those of blocks a and b to v; flip: 128 where they are signed; scales: a function above. */
#define INFER__UNPACK_AVX2(name, bytes, flip, scales, codes)                                                           \
    INFER__ON_avx2 INFER__INLINE void infer__##name##_pair_avx2(const uint8_t *p, int c, uint8_t *q) {                 \
        const uint8_t *a = p + 2 * (bytes) * c, *b = a + (bytes);                                                      \
        const __m256i top = _mm256_set1_epi8((char)(flip));                                                            \
        __m256i v[2];                                                                                                  \
        codes;                                                                                                         \
        v[0] = (flip) ? _mm256_xor_si256(v[0], top) : v[0];                                                            \
        v[1] = (flip) ? _mm256_xor_si256(v[1], top) : v[1];                                                            \
        infer__put_pair_avx2(q, c, v);                                                                                 \
    }                                                                                                                  \
    INFER__ON_avx2 static void infer__##name##_unpack_avx2(const uint8_t *src, uint64_t row_bytes, int n_blocks,       \
                                                           infer__unpacked *out) {                                     \
        const uint8_t *row = src;                                                                                      \
        int r, c;                                                                                                      \
        for (r = 0; r < INFER__GROUP; r++, row += row_bytes, infer__ask(&out->ahead)) {                                \
            if (n_blocks == 8) /* unrolled, it is 1.1 to 1.2 times as fast */                                          \
                INFER__UNROLL for (c = 0; c < 4; c++) infer__##name##_pair_avx2(row, c, out->q[r]);                    \
            else                                                                                                       \
                for (c = 0; 2 * c < n_blocks; c++) infer__##name##_pair_avx2(row, c, out->q[r]);                       \
        }                                                                                                              \
        for (c = 0; c < n_blocks; c++) scales(src, row_bytes, bytes, c, out);                                          \
    }
INFER__UNPACK_AVX2(q4_0, 18, 0, infer__put_scales_avx2, infer__nibbles_avx2(a + 2, b + 2, v))
INFER__UNPACK_AVX2(q4_1, 20, 0, infer__put_scales_mins_avx2, infer__nibbles_avx2(a + 4, b + 4, v))
INFER__UNPACK_AVX2(q5_0, 22, 0, infer__put_scales_avx2, infer__fifths_avx2(a + 2, b + 2, v))
INFER__UNPACK_AVX2(q5_1, 24, 0, infer__put_scales_mins_avx2, infer__fifths_avx2(a + 4, b + 4, v))
INFER__UNPACK_AVX2(q8_0, 34, 128, infer__put_scales_avx2, infer__bytes_avx2(a + 2, b + 2, v))
INFER__UNPACK_AVX2(iq4_nl, 18, 0, infer__put_scales_avx2,
                   infer__levels_avx2(a + 2, b + 2, infer__iq4_table_avx2(), v))
INFER__UNPACK_AVX2(mxfp4, 17, 0, infer__put_e8m0_avx2, infer__levels_avx2(a + 1, b + 1, infer__fp4_table_avx2(), v))
#undef INFER__UNPACK_AVX2
#endif
