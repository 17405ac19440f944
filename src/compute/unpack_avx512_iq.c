/* unpack_avx512_iq.c: unpack functions with AVX-512 (F BW DQ VL) for the code book types, IQ1 .. IQ4.
 *
 * Owns:  infer__unpacks_avx512_iq. The plain C functions of quant_iq.c define what they compute; results are equal.
 * How:   the code book is looked up in registers: vpermi2w takes 32 indices into 64 entries at once, and masks of the
 *        higher index bits choose among its results (infer__find_*). Entries are spread to bytes by shuffles and shifts,
 *        a byte shuffle maps levels to codes above the offset, and a masked subtraction mirrors the negative ones
 *        (infer__put_2_avx512, infer__put_3_avx512). Scales of 16 rows are looked up in one register, too.
 * Order: lane L of 128 bits of vector m (of four) of a row holds 16 values: those of block L + 4 * (m / 2) of 32, half
 *        m % 2. So entries and signs of the blocks L and 4 + L are brought to lane L first.
 * Numbers: a gather of the entries costs several times as much as the shuffles; 2048 entries (IQ1) are looked up with
 *        scalar loads, 64 shuffles would cost more.
 * Start: infer__iq4_xs_unpack_avx512, infer__iq2_xs_unpack_avx512.
 */
#include "cpu_int8.h"

#if defined(INFER__SIMD_X86) && !defined(INFER_NO_AVX512)

/* ---- scales of 16 rows --------------------------------------------------------------------------------------- */

/* 8 bytes of each of 16 rows, as the low and the high half of them. */
typedef struct infer__rows8 { __m512i low, high; } infer__rows8;

INFER__ON_avx512 INFER__INLINE infer__rows8 infer__rows8_avx512(const uint8_t *src, uint64_t row_bytes) {
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    __m512i h[2];
    infer__rows8 out;
    int i, j;
    INFER__UNROLL for (i = 0; i < 2; i++) {
        __m128i p[4];
        INFER__UNROLL for (j = 0; j < 4; j++, src += 2 * row_bytes)
            p[j] = _mm_unpacklo_epi64(_mm_loadl_epi64((const __m128i *)(const void *)src),
                                      _mm_loadl_epi64((const __m128i *)(const void *)(src + row_bytes)));
        h[i] = _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_inserti128_si256(_mm256_castsi128_si256(p[0]), p[1], 1)),
                                  _mm256_inserti128_si256(_mm256_castsi128_si256(p[2]), p[3], 1), 1);
    }
    out.low = _mm512_permutex2var_epi32(h[0], even, h[1]);
    out.high = _mm512_permutex2var_epi32(h[0], _mm512_add_epi32(even, _mm512_set1_epi32(1)), h[1]);
    return out;
}

/* fp16 in the low halves of 16 values. */
INFER__ON_avx512 INFER__INLINE __m512 infer__low_halves_avx512(__m512i v) {
    return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(v));
}

/* n scales of 16 rows: d * table[bits from i * step], of which the table sees four. */
INFER__ON_avx512 INFER__INLINE void infer__put_scales_avx512(__m512i bits, int n, int step, __m512 table, __m512 d,
                                                             float (*scale)[INFER__GROUP]) {
    int i;
    INFER__UNROLL for (i = 0; i < n; i++)
        _mm512_store_ps(scale[i],
                        _mm512_mul_ps(_mm512_permutexvar_ps(_mm512_srli_epi32(bits, (unsigned)(i * step)), table), d));
}

/* ---- IQ4: 16 levels -------------------------------------------------------------------------------------------- */

INFER__ON_avx512 INFER__INLINE __m512i infer__iq4_table_avx512(void) {
    __m128i t = _mm_loadu_si128((const __m128i *)(const void *)infer__kvalues_iq4nl);
    return _mm512_broadcast_i32x4(_mm_xor_si128(t, _mm_set1_epi8(-128)));
}

/* 128 values from 64 bytes, four blocks in the four lanes. */
INFER__ON_avx512 INFER__INLINE void infer__put_iq4_avx512(__m512i v, __m512i table, uint8_t *q) {
    const __m512i low = _mm512_set1_epi8(15);
    _mm512_store_si512(q, _mm512_shuffle_epi8(table, _mm512_and_si512(v, low)));
    _mm512_store_si512(q + 64, _mm512_shuffle_epi8(table, _mm512_and_si512(_mm512_srli_epi16(v, 4), low)));
}

/* The layout of Q4_0: only the levels differ. */
INFER__ON_avx512 static void infer__iq4_nl_unpack_avx512(const uint8_t *src, uint64_t row_bytes, int n_blocks,
                                                         infer__unpacked *out) {
    const __m512i table = infer__iq4_table_avx512();
    const __m512i first = _mm512_loadu_si512(infer__q4_0_words[0]), second = _mm512_loadu_si512(infer__q4_0_words[1]);
    const __m512i scales = _mm512_loadu_si512(infer__q4_0_words[2]);
    __m128i d[16];
    int i;
    if (n_blocks < 8) {
        infer__iq4_nl_unpack(src, row_bytes, n_blocks, out);
        return;
    }
    INFER__UNROLL for (i = 0; i < 16; i++, src += row_bytes) {
        __m512i a = _mm512_loadu_si512(src), b = _mm512_loadu_si512(src + 64), c = _mm512_loadu_si512(src + 80);
        d[i] = _mm512_castsi512_si128(_mm512_permutex2var_epi16(a, scales, b));
        infer__put_iq4_avx512(_mm512_permutex2var_epi16(a, first, b), table, out->q[i]);
        infer__put_iq4_avx512(_mm512_permutex2var_epi16(b, second, c), table, out->q[i] + 128);
    }
    infer__put_halves_avx512(d, out->scale);
}

INFER__ON_avx512 static void infer__iq4_xs_unpack_avx512(const uint8_t *src, uint64_t row_bytes, int n_blocks,
                                                         infer__unpacked *out) {
    const __m512i table = infer__iq4_table_avx512();
    const __m512 low = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512 high = _mm512_setr_ps(-32, -16, 0, 16, -32, -16, 0, 16, -32, -16, 0, 16, -32, -16, 0, 16);
    infer__rows8 head = infer__rows8_avx512(src, row_bytes); /* d, scales_h; scales_l */
    __m512 d = infer__low_halves_avx512(head.low);
    int i;
    (void)n_blocks;
    INFER__UNROLL for (i = 0; i < 8; i++) {
        __m512 l = _mm512_permutexvar_ps(_mm512_srli_epi32(head.high, (unsigned)(4 * i)), low);
        __m512 h = _mm512_permutexvar_ps(_mm512_srli_epi32(head.low, (unsigned)(16 + 2 * i)), high);
        _mm512_store_ps(out->scale[i], _mm512_mul_ps(_mm512_add_ps(l, h), d));
    }
    INFER__UNROLL for (i = 0; i < 16; i++, src += row_bytes) {
        infer__put_iq4_avx512(_mm512_loadu_si512(src + 8), table, out->q[i]);
        infer__put_iq4_avx512(_mm512_loadu_si512(src + 72), table, out->q[i] + 128);
    }
}

/* ---- code books ------------------------------------------------------------------------------------------------ */

/* 32 entries of a table of 64 * n, n = 4, 8 or 16. The shuffle sees six bits of an index; mask i has bit 6 + i. */
INFER__ON_avx512 INFER__INLINE __m512i infer__find_avx512(const uint16_t *table, int n, __m512i index,
                                                          const __mmask32 *mask) {
    __m512i v[16];
    int i;
    INFER__UNROLL for (i = 0; i < n; i++)
        v[i] = _mm512_permutex2var_epi16(_mm512_loadu_si512(table + 64 * i), index,
                                         _mm512_loadu_si512(table + 64 * i + 32));
    INFER__UNROLL for (i = 0; i < n / 2; i++) v[i] = _mm512_mask_mov_epi16(v[2 * i], mask[0], v[2 * i + 1]);
    INFER__UNROLL for (i = 0; i < n / 4; i++) v[i] = _mm512_mask_mov_epi16(v[2 * i], mask[1], v[2 * i + 1]);
    INFER__UNROLL for (i = 0; i < n / 8; i++) v[i] = _mm512_mask_mov_epi16(v[2 * i], mask[2], v[2 * i + 1]);
    INFER__UNROLL for (i = 0; i < n / 16; i++) v[i] = _mm512_mask_mov_epi16(v[2 * i], mask[3], v[2 * i + 1]);
    return v[0];
}

/* Indices of a byte shuffle, alike in all lanes: a to the first eight bytes of a lane, b to the others. */
INFER__ON_avx512 INFER__INLINE __m512i infer__two_avx512(uint64_t a, uint64_t b) {
    const uint64_t ones = 0x0101010101010101u;
    return _mm512_broadcast_i32x4(_mm_set_epi64x((int64_t)(ones * b), (int64_t)(ones * a)));
}

/* A table of 16 bytes for byte shuffles. */
INFER__ON_avx512 INFER__INLINE __m512i infer__bytes_avx512(uint64_t a, uint64_t b) {
    return _mm512_broadcast_i32x4(_mm_set_epi64x((int64_t)b, (int64_t)a));
}

/* 64 signs, those of the bytes that `from` names. */
INFER__ON_avx512 INFER__INLINE __mmask64 infer__signs_avx512(__m512i signs, __m512i from) {
    return _mm512_test_epi8_mask(_mm512_shuffle_epi8(signs, from), _mm512_set1_epi64((int64_t)0x8040201008040201u));
}

/* Seven bits in the low part of every byte (or word) and their parity above them: infer__iq_signs. */
INFER__ON_avx512 INFER__INLINE __m512i infer__parity_avx512(__m512i x) {
    const __m512i table = infer__bytes_avx512(0x8000008000808000u, 0x0080800080000080u);
    __m512i t = _mm512_ternarylogic_epi64(x, _mm512_srli_epi16(x, 4), _mm512_set1_epi8(15), 0x28); /* (a ^ b) & c */
    return _mm512_or_si512(x, _mm512_shuffle_epi8(table, t));
}

/* Four fields of seven bits to four bytes, in every 32 bits. */
INFER__ON_avx512 INFER__INLINE __m512i infer__four_sevens_avx512(__m512i x) {
    x = _mm512_ternarylogic_epi64(_mm512_set1_epi32(0x00003fff), x, _mm512_slli_epi32(x, 2), 0xca); /* a ? b : c */
    x = _mm512_ternarylogic_epi64(_mm512_set1_epi32(0x007f007f), x, _mm512_slli_epi32(x, 1), 0xca);
    return _mm512_and_si512(x, _mm512_set1_epi8(127));
}

/* 64 levels from 32 entries of eight: those of words 2 m and 2 m + 1 of every lane. */
INFER__ON_avx512 INFER__INLINE __m512i infer__spread_2_avx512(__m512i entries, int m) {
    const __m512i from = _mm512_broadcast_i32x4(_mm_set_epi64x(0x0302030203020302, 0x0100010001000100));
    const __m512i shift = _mm512_set1_epi64(0x0006000400020000);
    __m512i v = _mm512_shuffle_epi8(entries, _mm512_add_epi8(from, _mm512_set1_epi8((char)(4 * m))));
    return _mm512_and_si512(_mm512_srlv_epi16(v, shift), _mm512_set1_epi8(3));
}

/* 256 values of a row: entries of IQ2 and their signs (the bytes that from[m] names). */
INFER__ON_avx512 INFER__INLINE void infer__put_2_avx512(__m512i entries, __m512i signs, const __m512i *from, uint8_t *q) {
    const __m512i table = _mm512_set1_epi32(43 + 8 + ((43 + 25) << 8) + ((43 + 43) << 16));
    const __m512i mirror = _mm512_set1_epi8(2 * 43);
    int m;
    INFER__UNROLL for (m = 0; m < 4; m++) {
        __m512i v = _mm512_shuffle_epi8(table, infer__spread_2_avx512(entries, m));
        v = _mm512_mask_sub_epi8(v, infer__signs_avx512(signs, from[m]), mirror, v);
        _mm512_store_si512(q + 64 * m, v);
    }
}

INFER__ON_avx512 INFER__INLINE __m512 infer__halves_table_avx512(float f) { /* (1/2 + i) * f */
    return _mm512_mul_ps(_mm512_setr_ps(0.5f, 1.5f, 2.5f, 3.5f, 4.5f, 5.5f, 6.5f, 7.5f, 8.5f, 9.5f, 10.5f, 11.5f, 12.5f,
                                        13.5f, 14.5f, 15.5f), _mm512_set1_ps(f));
}

INFER__ON_avx512 static void infer__iq2_xs_unpack_avx512(const uint8_t *src, uint64_t row_bytes, int n_blocks,
                                                         infer__unpacked *out) {
    const __m512i order = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
    const __m512i from[4] = {infer__two_avx512(0, 2), infer__two_avx512(4, 6), infer__two_avx512(8, 10),
                             infer__two_avx512(12, 14)};
    const __m512 table = infer__halves_table_avx512(0.25f);
    infer__rows8 head = infer__rows8_avx512(src, row_bytes), bits = infer__rows8_avx512(src + 66, row_bytes);
    __m512 d = infer__low_halves_avx512(head.low);
    int i;
    (void)n_blocks;
    infer__put_scales_avx512(bits.low, 8, 4, table, d, out->scale);
    infer__put_scales_avx512(bits.high, 8, 4, table, d, out->scale + 8);
    for (i = 0; i < 16; i++, src += row_bytes) {
        __m512i v = _mm512_permutexvar_epi64(order, _mm512_loadu_si512(src + 2));
        __mmask32 mask[3];
        mask[0] = _mm512_test_epi16_mask(v, _mm512_set1_epi16(64));
        mask[1] = _mm512_test_epi16_mask(v, _mm512_set1_epi16(128));
        mask[2] = _mm512_test_epi16_mask(v, _mm512_set1_epi16(256));
        infer__put_2_avx512(infer__find_avx512(infer__iq2xs_grid, 8, v, mask),
                            infer__parity_avx512(_mm512_srli_epi16(v, 9)), from, out->q[i]);
    }
}

static const infer__unpack_row infer__unpacks_avx512_iq[] = {
    {17, INFER__CPU_AVX2 | INFER__CPU_AVX512, infer__iq2_xs_unpack_avx512},
    {20, INFER__CPU_AVX2 | INFER__CPU_AVX512, infer__iq4_nl_unpack_avx512},
    {23, INFER__CPU_AVX2 | INFER__CPU_AVX512, infer__iq4_xs_unpack_avx512},
};
#endif
