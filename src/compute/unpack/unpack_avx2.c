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

/* Two blocks, a and b, with 16 bytes of nibbles each. */
INFER__ON_avx2 INFER__INLINE void infer__nibbles_avx2(const uint8_t *a, const uint8_t *b, uint8_t *q) {
    __m256i v = infer__two_avx2(a, b);
    infer__put_avx2(q, infer__low_nibbles_avx2(v));
    infer__put_avx2(q + 64, infer__high_nibbles_avx2(v));
}
/* The same as indices of a table of 16 bytes. */
INFER__ON_avx2 INFER__INLINE void infer__levels_avx2(__m256i v, __m256i table, uint8_t *q) {
    infer__put_avx2(q, _mm256_shuffle_epi8(table, infer__low_nibbles_avx2(v)));
    infer__put_avx2(q + 64, _mm256_shuffle_epi8(table, infer__high_nibbles_avx2(v)));
}
INFER__ON_avx2 INFER__INLINE __m256i infer__iq4_table_avx2(void) {
    return _mm256_xor_si256(infer__twice_avx2(infer__kvalues_iq4nl), _mm256_set1_epi8(-128));
}

/* 16 for the bits that are set: lanes have 32 bits each, `first` those of byte `at` and `at + 1`. */
INFER__ON_avx2 INFER__INLINE __m256i infer__sixteens_avx2(__m256i bits, int at) {
    const __m256i bit = _mm256_set1_epi64x((int64_t)0x8040201008040201);
    __m256i bytes = _mm256_shuffle_epi8(bits, _mm256_or_si256(_mm256_set1_epi8((char)at),
                                                              _mm256_setr_epi64x(0, 0x0101010101010101, 0,
                                                                                 0x0101010101010101)));
    return _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit), bit), _mm256_set1_epi8(16));
}
/* Two blocks with 4 bytes of fifth bits, then 16 bytes of nibbles. */
INFER__ON_avx2 INFER__INLINE void infer__fifths_avx2(const uint8_t *a, const uint8_t *b, uint8_t *q) {
    __m256i v = infer__two_avx2(a + 4, b + 4);
    __m256i bits = _mm256_inserti128_si256(_mm256_set1_epi32((int32_t)infer__load_u32(a)),
                                           _mm_set1_epi32((int32_t)infer__load_u32(b)), 1);
    infer__put_avx2(q, _mm256_or_si256(infer__low_nibbles_avx2(v), infer__sixteens_avx2(bits, 0)));
    infer__put_avx2(q + 64, _mm256_or_si256(infer__high_nibbles_avx2(v), infer__sixteens_avx2(bits, 2)));
}

/* Two blocks of 32 signed bytes. */
INFER__ON_avx2 INFER__INLINE void infer__bytes_avx2(const uint8_t *a, const uint8_t *b, uint8_t *q) {
    const __m256i flip = _mm256_set1_epi8(-128);
    infer__put_avx2(q, _mm256_xor_si256(infer__two_avx2(a, b), flip));
    infer__put_avx2(q + 64, _mm256_xor_si256(infer__two_avx2(a + 16, b + 16), flip));
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

/* E8M0 bytes: 2^(e - 128); the two smallest are subnormal. */
INFER__ON_avx2 INFER__INLINE void infer__put_e8m0_avx2(const uint8_t *src, uint64_t row_bytes, int bytes, int b,
                                                       infer__unpacked *out) {
    int r, i;
    src += bytes * b;
    INFER__UNROLL for (r = 0; r < INFER__GROUP; r += 8) {
        uint64_t eight = 0;
        __m256i e, normal;
        INFER__UNROLL for (i = 0; i < 8; i++) eight |= (uint64_t)src[(uint64_t)(r + i) * row_bytes] << 8 * i;
        e = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)&eight));
        normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
        _mm256_store_ps(out->scale[b] + r,
                        _mm256_castsi256_ps(_mm256_blendv_epi8(_mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e),
                                                               normal, _mm256_cmpgt_epi32(e, _mm256_set1_epi32(1)))));
    }
}

/* ---- types ----------------------------------------------------------------------------------------------------- */

/* codes: writes the codes of blocks a and b to q; scales: a function above. Whole chunks, the common case, are
 * unrolled: a token of a 1B model is 1.1 (Q5_0) to 1.2 times (Q4_0) as fast as with a loop. */
#define INFER__UNPACK_AVX2(name, bytes, scales, codes)                                                                 \
    INFER__ON_avx2 static void infer__##name##_unpack_avx2(const uint8_t *src, uint64_t row_bytes, int n_blocks,       \
                                                           infer__unpacked *out) {                                     \
        const uint8_t *row = src;                                                                                      \
        int r, k;                                                                                                      \
        for (r = 0; r < INFER__GROUP; r++, row += row_bytes, infer__ask(&out->ahead)) {                                \
            const uint8_t *a = row, *b = row + (bytes);                                                                \
            uint8_t *q = out->q[r];                                                                                    \
            if (n_blocks == 8)                                                                                         \
                INFER__UNROLL for (k = 0; k < 8; k += 2, a += 2 * (bytes), b += 2 * (bytes), q += k & 2 ? 32 : 96)     \
                    codes;                                                                                             \
            else                                                                                                       \
                for (k = 0; k < n_blocks; k += 2, a += 2 * (bytes), b += 2 * (bytes), q += k & 2 ? 32 : 96) codes;     \
        }                                                                                                              \
        for (k = 0; k < n_blocks; k++) scales(src, row_bytes, bytes, k, out);                                          \
    }
INFER__UNPACK_AVX2(q4_0, 18, infer__put_scales_avx2, infer__nibbles_avx2(a + 2, b + 2, q))
INFER__UNPACK_AVX2(q4_1, 20, infer__put_scales_mins_avx2, infer__nibbles_avx2(a + 4, b + 4, q))
INFER__UNPACK_AVX2(q5_0, 22, infer__put_scales_avx2, infer__fifths_avx2(a + 2, b + 2, q))
INFER__UNPACK_AVX2(q5_1, 24, infer__put_scales_mins_avx2, infer__fifths_avx2(a + 4, b + 4, q))
INFER__UNPACK_AVX2(q8_0, 34, infer__put_scales_avx2, infer__bytes_avx2(a + 2, b + 2, q))
INFER__UNPACK_AVX2(iq4_nl, 18, infer__put_scales_avx2,
                   infer__levels_avx2(infer__two_avx2(a + 2, b + 2), infer__iq4_table_avx2(), q))
INFER__UNPACK_AVX2(mxfp4, 17, infer__put_e8m0_avx2,
                   infer__levels_avx2(infer__two_avx2(a + 1, b + 1),
                                      _mm256_add_epi8(infer__twice_avx2(infer__kvalues_fp4), _mm256_set1_epi8(12)), q))
#undef INFER__UNPACK_AVX2
#endif
