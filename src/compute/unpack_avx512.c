/* unpack_avx512.c: unpack functions with AVX-512 (F BW DQ VL) for the types with an fp16 scale per 32 values.
 *
 * Owns:  infer__unpacks_avx512. The plain C functions of quant_*.c define what they compute; results are equal.
 * How:   256 values of a row are read as whole vectors and put in the order of infer__unpacked by one permutation of
 *        words; scales of 16 rows are collected as fp16, transposed and then converted.
 * Start: infer__q4_0_unpack_avx512.
 */
#include "cpu_int8.h"

#if defined(INFER__SIMD_X86) && !defined(INFER_NO_AVX512)

/* 8 halves (fp16) of each of 16 rows, one per block of 32, to scale[8][16]. */
INFER__ON_avx512 INFER__INLINE void infer__put_halves_avx512(const __m128i *rows, float (*scale)[INFER__GROUP]) {
    const __m512i even_odd = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    __m512i r[4], t0, t1, t2, t3;
    int i;
    INFER__UNROLL for (i = 0; i < 4; i++) /* lane L: row 4 L + i */
        r[i] = _mm512_inserti32x4(
            _mm512_inserti32x4(_mm512_inserti32x4(_mm512_castsi128_si512(rows[i]), rows[4 + i], 1), rows[8 + i], 2),
            rows[12 + i], 3);
    t0 = _mm512_unpacklo_epi16(r[0], r[1]);
    t1 = _mm512_unpackhi_epi16(r[0], r[1]);
    t2 = _mm512_unpacklo_epi16(r[2], r[3]);
    t3 = _mm512_unpackhi_epi16(r[2], r[3]);
    r[0] = _mm512_unpacklo_epi32(t0, t2);
    r[1] = _mm512_unpackhi_epi32(t0, t2);
    r[2] = _mm512_unpacklo_epi32(t1, t3);
    r[3] = _mm512_unpackhi_epi32(t1, t3);
    INFER__UNROLL for (i = 0; i < 4; i++) { /* qwords: rows 4 L .. of block 2 i, then of block 2 i + 1 */
        __m512i v = _mm512_permutexvar_epi64(even_odd, r[i]);
        _mm512_store_ps(scale[2 * i], _mm512_cvtph_ps(_mm512_castsi512_si256(v)));
        _mm512_store_ps(scale[2 * i + 1], _mm512_cvtph_ps(_mm512_extracti64x4_epi64(v, 1)));
    }
}

/* Words of 4 blocks of 18 bytes: the codes from word 1 of each, of the second 72 bytes seen through bytes 64.. and
 * 80..; the scales of 8 blocks. */
static const uint16_t infer__q4_0_words[3][32] = {
    {1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15, 16, 17, 19, 20, 21, 22, 23, 24, 25, 26, 28, 29, 30, 31, 32, 33, 34, 35},
    {5, 6, 7, 8, 9, 10, 11, 12, 14, 15, 16, 17, 18, 19, 20, 21, 23, 24, 25, 26, 27, 28, 29, 30, 56, 57, 58, 59, 60, 61, 62, 63},
    {0, 9, 18, 27, 36, 45, 54, 63},
};

INFER__ON_avx512 static void infer__q4_0_unpack_avx512(const uint8_t *src, uint64_t row_bytes, int n_blocks,
                                                       infer__unpacked *out) {
    const __m512i low = _mm512_set1_epi8(15);
    const __m512i first = _mm512_loadu_si512(infer__q4_0_words[0]), second = _mm512_loadu_si512(infer__q4_0_words[1]);
    const __m512i scales = _mm512_loadu_si512(infer__q4_0_words[2]);
    __m128i d[16];
    int i;
    if (n_blocks < 8) {
        infer__q4_0_unpack(src, row_bytes, n_blocks, out);
        return;
    }
    INFER__UNROLL for (i = 0; i < 16; i++, src += row_bytes) {
        __m512i a = _mm512_loadu_si512(src), b = _mm512_loadu_si512(src + 64), c = _mm512_loadu_si512(src + 80);
        __m512i n0 = _mm512_permutex2var_epi16(a, first, b), n1 = _mm512_permutex2var_epi16(b, second, c);
        d[i] = _mm512_castsi512_si128(_mm512_permutex2var_epi16(a, scales, b));
        _mm512_store_si512(out->q[i], _mm512_and_si512(n0, low));
        _mm512_store_si512(out->q[i] + 64, _mm512_and_si512(_mm512_srli_epi16(n0, 4), low));
        _mm512_store_si512(out->q[i] + 128, _mm512_and_si512(n1, low));
        _mm512_store_si512(out->q[i] + 192, _mm512_and_si512(_mm512_srli_epi16(n1, 4), low));
    }
    infer__put_halves_avx512(d, out->scale);
}

static const infer__unpack_row infer__unpacks_avx512[] = {
    {2, INFER__CPU_AVX2 | INFER__CPU_AVX512, infer__q4_0_unpack_avx512},
};
#endif
