/* unpack_avx2.c: unpack functions with AVX2 for the types whose blocks have 32 values: Q4_0 .. Q8_0, IQ4_NL, MXFP4.
 *
 * Owns:  what unpack_avx2_k.c uses too, and functions for the table there. The plain C functions of quant_*.c define
 *        what they compute; results are equal.
 * How:   8 rows at a time: 16 bytes of each are transposed as the file has them, so that a vector has four bytes of
 *        every row, and become codes there: these are the tile that the dot products take (infer__unpacked.tiled), and
 *        half as many bytes, or fewer, are transposed. Then the block's scales.
 * Start: INFER__UNPACK_AVX2.
 */
#include "../products/cpu_int8.h"

#if defined(INFER__SIMD_AVX2)

/* ---- codes ----------------------------------------------------------------------------------------------------- */

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

INFER__ON_avx2 INFER__INLINE __m256i infer__iq4_table_avx2(void) {
    return _mm256_xor_si256(infer__twice_avx2(infer__kvalues_iq4nl), _mm256_set1_epi8(-128));
}
INFER__ON_avx2 INFER__INLINE __m256i infer__fp4_table_avx2(void) {
    return _mm256_add_epi8(infer__twice_avx2(infer__kvalues_fp4), _mm256_set1_epi8(12));
}

/* 4 bytes of 8 rows. */
INFER__ON_avx2 INFER__INLINE __m256i infer__rows_4_avx2(const uint8_t *p, uint64_t row_bytes) {
    __m128i v[2];
    int i;
    INFER__UNROLL for (i = 0; i < 2; i++, p += 4 * row_bytes) {
        v[i] = _mm_cvtsi32_si128((int32_t)infer__load_u32(p));
        v[i] = _mm_insert_epi32(v[i], (int32_t)infer__load_u32(p + row_bytes), 1);
        v[i] = _mm_insert_epi32(v[i], (int32_t)infer__load_u32(p + 2 * row_bytes), 2);
        v[i] = _mm_insert_epi32(v[i], (int32_t)infer__load_u32(p + 3 * row_bytes), 3);
    }
    return _mm256_inserti128_si256(_mm256_castsi128_si256(v[0]), v[1], 1);
}

/* Codes of half h of block b of 8 rows, transposed as the tile has them; q: that of the first of the rows. */
INFER__ON_avx2 INFER__INLINE void infer__put_half_avx2(uint8_t *q, int b, int h, const __m256i *v) {
    int j;
    INFER__UNROLL for (j = 0; j < 4; j++) infer__put_avx2(q + 64 * (8 * b + 4 * h + j), v[j]);
}

/* The codes of a block of 8 rows: halves to v[0 .. 3] and v[4 .. 7]. 16 bytes of nibbles: */
INFER__ON_avx2 INFER__INLINE void infer__nibbles_avx2(const uint8_t *p, uint64_t row_bytes, __m256i *v) {
    int j;
    infer__rows_16_avx2(p, row_bytes, v);
    INFER__UNROLL for (j = 0; j < 4; j++) {
        v[4 + j] = infer__high_nibbles_avx2(v[j]);
        v[j] = infer__low_nibbles_avx2(v[j]);
    }
}
/* The same as indices of a table of 16 bytes. */
INFER__ON_avx2 INFER__INLINE void infer__levels_avx2(const uint8_t *p, uint64_t row_bytes, __m256i table, __m256i *v) {
    int j;
    infer__nibbles_avx2(p, row_bytes, v);
    INFER__UNROLL for (j = 0; j < 8; j++) v[j] = _mm256_shuffle_epi8(table, v[j]);
}
/* 0xff for the bits set among bits 4 j .. 4 j + 3 of 8 rows that have 32 each. */
INFER__ON_avx2 INFER__INLINE __m256i infer__four_bits_avx2(__m256i bits, int j) {
    const __m256i byte = _mm256_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c, 0, 0x04040404, 0x08080808,
                                           0x0c0c0c0c);
    const __m256i bit = _mm256_set1_epi32(j & 1 ? (int32_t)0x80402010 : 0x08040201);
    bits = _mm256_shuffle_epi8(bits, _mm256_add_epi8(byte, _mm256_set1_epi8((char)(j / 2))));
    return _mm256_cmpeq_epi8(_mm256_and_si256(bits, bit), bit);
}
/* 4 bytes of fifth bits, then 16 bytes of nibbles. */
INFER__ON_avx2 INFER__INLINE void infer__fifths_avx2(const uint8_t *p, uint64_t row_bytes, __m256i *v) {
    const __m256i bits = infer__rows_4_avx2(p, row_bytes);
    int j;
    infer__nibbles_avx2(p + 4, row_bytes, v);
    INFER__UNROLL for (j = 0; j < 8; j++)
        v[j] = _mm256_or_si256(v[j], _mm256_and_si256(infer__four_bits_avx2(bits, j), _mm256_set1_epi8(16)));
}
/* 32 signed bytes. */
INFER__ON_avx2 INFER__INLINE void infer__bytes_avx2(const uint8_t *p, uint64_t row_bytes, __m256i *v) {
    int j;
    infer__rows_16_avx2(p, row_bytes, v);
    infer__rows_16_avx2(p + 16, row_bytes, v + 4);
    INFER__UNROLL for (j = 0; j < 8; j++) v[j] = _mm256_xor_si256(v[j], _mm256_set1_epi8(-128));
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
    __m256i v = _mm256_shuffle_epi8(infer__rows_4_avx2(p, row_bytes), _mm256_broadcastsi128_si256(apart));
    v = _mm256_permute4x64_epi64(v, 0xd8);
    *first = _mm256_cvtph_ps(_mm256_castsi256_si128(v));
    *second = _mm256_cvtph_ps(_mm256_extracti128_si256(v, 1));
}

/* Scales (and minima) of a block of 8 rows, from its first bytes. */
INFER__ON_avx2 INFER__INLINE void infer__put_scales_avx2(const uint8_t *p, uint64_t row_bytes, float *scale,
                                                         float *min) {
    (void)min;
    _mm256_store_ps(scale, infer__row_halves_avx2(p, row_bytes));
}
INFER__ON_avx2 INFER__INLINE void infer__put_scales_mins_avx2(const uint8_t *p, uint64_t row_bytes, float *scale,
                                                              float *min) {
    __m256 d, m;
    infer__half_pairs_avx2(p, row_bytes, &d, &m);
    _mm256_store_ps(scale, d);
    _mm256_store_ps(min, m);
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
INFER__ON_avx2 INFER__INLINE void infer__put_e8m0_avx2(const uint8_t *p, uint64_t row_bytes, float *scale, float *min) {
    (void)min;
    _mm256_store_ps(scale, infer__e8m0_avx2(infer__eight_bytes_avx2(p, row_bytes)));
}

/* ---- types ----------------------------------------------------------------------------------------------------- */

/* codes: those of the block at p of 8 rows to v, scales: theirs, by functions above. */
#define INFER__UNPACK_AVX2(name, bytes, scales, codes)                                                                 \
    INFER__ON_avx2 static void infer__##name##_unpack_avx2(const uint8_t *src, uint64_t row_bytes, int n_blocks,       \
                                                           infer__unpacked *out) {                                     \
        infer__ahead ahead = out->ahead; /* a copy, in registers */                                                    \
        int r, b;                                                                                                      \
        for (r = 0; r < INFER__GROUP; r += 8) {                                                                        \
            const uint8_t *p = src + (uint64_t)r * row_bytes;                                                          \
            uint8_t *q = out->q[0] + 4 * r;                                                                            \
            for (b = 0; b < n_blocks; b++, p += (bytes), q += 32 * INFER__GROUP, infer__ask(&ahead)) {                 \
                __m256i v[8];                                                                                          \
                codes;                                                                                                 \
                infer__put_half_avx2(q, 0, 0, v);                                                                      \
                infer__put_half_avx2(q, 0, 1, v + 4);                                                                  \
                scales(p, row_bytes, out->scale[b] + r, out->min[b] + r);                                              \
            }                                                                                                          \
        }                                                                                                              \
        out->ahead = ahead;                                                                                            \
        out->tiled = 1;                                                                                                \
    }
INFER__UNPACK_AVX2(q4_0, 18, infer__put_scales_avx2, infer__nibbles_avx2(p + 2, row_bytes, v))
INFER__UNPACK_AVX2(q4_1, 20, infer__put_scales_mins_avx2, infer__nibbles_avx2(p + 4, row_bytes, v))
INFER__UNPACK_AVX2(q5_0, 22, infer__put_scales_avx2, infer__fifths_avx2(p + 2, row_bytes, v))
INFER__UNPACK_AVX2(q5_1, 24, infer__put_scales_mins_avx2, infer__fifths_avx2(p + 4, row_bytes, v))
INFER__UNPACK_AVX2(q8_0, 34, infer__put_scales_avx2, infer__bytes_avx2(p + 2, row_bytes, v))
INFER__UNPACK_AVX2(iq4_nl, 18, infer__put_scales_avx2,
                   infer__levels_avx2(p + 2, row_bytes, infer__iq4_table_avx2(), v))
INFER__UNPACK_AVX2(mxfp4, 17, infer__put_e8m0_avx2, infer__levels_avx2(p + 1, row_bytes, infer__fp4_table_avx2(), v))
#undef INFER__UNPACK_AVX2
#endif
