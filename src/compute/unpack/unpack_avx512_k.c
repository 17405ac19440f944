/* unpack_avx512_k.c: unpack functions with AVX-512 (F BW DQ VL) for Q2_K .. Q6_K, TQ1_0 and TQ2_0.
 *
 * Owns:  infer__unpacks_avx512_k. The plain C functions of quant_k.c define what they compute, and the layouts; results
 *        are equal bit for bit, since scale times d is exact.
 * How:   64 adjacent codes in infer__unpacked are the first (or second) halves of four blocks of 32, and a
 *        type of 256 values keeps those in 16 or 32 bytes: spread the bytes over the four lanes of 128 bits, shift each
 *        lane by its own count, mask. Scales of 16 rows: 16 bytes of each are transposed as 4 x 4 dwords, so that a
 *        vector has the same 4 bytes of all rows; fields of 6 bits are put together there, for 16 rows at once.
 * Numbers: GB/s of packed bytes in cache on a Zen 5 core, alone and with the dots of one column: Q2_K 32, 16; Q3_K 39,
 *        20; Q4_K 62, 32; Q5_K 67, 37; Q6_K 67, 35; TQ1_0 19, 11; TQ2_0 39, 17.
 * Start: infer__q4_k_unpack_avx512.
 */
#include "../products/cpu_int8.h"

#if defined(INFER__SIMD_AVX512)

/* 16 bytes of each of 16 rows as dwords: out[i], element r: dword i of row r. */
INFER__ON_avx512 INFER__INLINE void infer__dwords_avx512(const uint8_t *src, uint64_t row_bytes, __m512i *out) {
    __m512i r[4], t0, t1, t2, t3;
    int i, j;
    INFER__UNROLL for (i = 0; i < 4; i++) { /* lane L: row 4 L + i */
        __m128i row[4];
        INFER__UNROLL for (j = 0; j < 4; j++)
            row[j] = _mm_loadu_si128((const __m128i *)(const void *)(src + (uint64_t)(4 * j + i) * row_bytes));
        r[i] = _mm512_inserti32x4(
            _mm512_inserti32x4(_mm512_inserti32x4(_mm512_castsi128_si512(row[0]), row[1], 1), row[2], 2), row[3], 3);
    }
    t0 = _mm512_unpacklo_epi32(r[0], r[1]);
    t1 = _mm512_unpackhi_epi32(r[0], r[1]);
    t2 = _mm512_unpacklo_epi32(r[2], r[3]);
    t3 = _mm512_unpackhi_epi32(r[2], r[3]);
    out[0] = _mm512_unpacklo_epi64(t0, t2);
    out[1] = _mm512_unpackhi_epi64(t0, t2);
    out[2] = _mm512_unpacklo_epi64(t1, t3);
    out[3] = _mm512_unpackhi_epi64(t1, t3);
}

/* The fp16 in the low half of each dword. */
INFER__ON_avx512 INFER__INLINE __m512 infer__low_halves_avx512(__m512i v) {
    return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(v));
}

/* d times the four signed bytes of each dword, to out[0], .. out[3 * step]. A byte is used from the top of its dword,
 * 2^24 times as large, which needs no extension of signs. */
INFER__ON_avx512 INFER__INLINE void infer__put_bytes_avx512(__m512i v, __m512 d, float (*out)[INFER__GROUP]) {
    const __m512i top = _mm512_set4_epi32((int)0x0c808080u, 0x08808080, 0x04808080, 0x00808080);
    int i;
    d = _mm512_mul_ps(d, _mm512_set1_ps(1.0f / 16777216.0f));
    INFER__UNROLL for (i = 0; i < 4; i++) {
        __m512i byte = _mm512_shuffle_epi8(v, _mm512_add_epi32(top, _mm512_set1_epi32(i << 24)));
        _mm512_store_ps(out[i], _mm512_mul_ps(_mm512_cvtepi32_ps(byte), d));
    }
}

/* A constant for the four lanes of 128 bits, from words. */
#define INFER__LANES16(a, b, c, d) \
    _mm512_set_epi64((d) * 0x0001000100010001ll, (d) * 0x0001000100010001ll, (c) * 0x0001000100010001ll, \
                     (c) * 0x0001000100010001ll, (b) * 0x0001000100010001ll, (b) * 0x0001000100010001ll, \
                     (a) * 0x0001000100010001ll, (a) * 0x0001000100010001ll)
/* The same from qwords. */
#define INFER__LANES64(a, b, c, d) _mm512_set_epi64(d, d, c, c, b, b, a, a)

/* 16 bytes in each lane. */
INFER__ON_avx512 INFER__INLINE __m512i infer__in_lanes_avx512(const uint8_t *p) {
    return _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)p));
}
/* (a & mask) | b */
INFER__ON_avx512 INFER__INLINE __m512i infer__and_or_avx512(__m512i a, __m512i mask, __m512i b) {
    return _mm512_ternarylogic_epi32(a, mask, b, 0xea);
}

/* ---- Q4_K, Q5_K ------------------------------------------------------------------------------------------------ */

INFER__ON_avx512 INFER__INLINE void infer__put_scale_min_avx512(const uint8_t *src, uint64_t row_bytes,
                                                                infer__unpacked *out) {
    const __m512i six = _mm512_set1_epi8(63), four = _mm512_set1_epi8(15), two = _mm512_set1_epi8(48);
    __m512i v[4];
    __m512 d, m;
    infer__dwords_avx512(src, row_bytes, v); /* d and dmin; then the 12 bytes that infer__k_scale_min reads */
    d = infer__low_halves_avx512(v[0]);
    m = infer__low_halves_avx512(_mm512_xor_si512(_mm512_srli_epi32(v[0], 16), _mm512_set1_epi32(0x8000)));
    infer__put_bytes_avx512(_mm512_and_si512(v[1], six), d, out->scale);
    infer__put_bytes_avx512(_mm512_and_si512(v[2], six), m, out->min);
    infer__put_bytes_avx512(
        infer__and_or_avx512(v[3], four, _mm512_and_si512(_mm512_srli_epi32(v[1], 2), two)), d, out->scale + 4);
    infer__put_bytes_avx512(infer__and_or_avx512(_mm512_srli_epi32(v[3], 4), four,
                                                 _mm512_and_si512(_mm512_srli_epi32(v[2], 2), two)),
                            m, out->min + 4);
}

INFER__ON_avx512 INFER__INLINE void infer__q4_k_codes_avx512(const uint8_t *src, __m512i *out) {
    const __m512i four = _mm512_set1_epi8(15), shift = INFER__LANES16(0, 4, 0, 4);
    int h;
    INFER__UNROLL for (h = 0; h < 2; h++) {
        __m512i v = _mm512_loadu_si512(src + 16 + 64 * h);
        __m512i a = _mm512_shuffle_i32x4(v, v, 0xa0), b = _mm512_shuffle_i32x4(v, v, 0xf5);
        out[2 * h] = _mm512_and_si512(_mm512_srlv_epi16(a, shift), four);
        out[2 * h + 1] = _mm512_and_si512(_mm512_srlv_epi16(b, shift), four);
    }
}

INFER__ON_avx512 INFER__INLINE void infer__q5_k_codes_avx512(const uint8_t *src, __m512i *out) {
    const __m512i bit = _mm512_set1_epi8(16), up = INFER__LANES16(4, 3, 2, 1), down = INFER__LANES16(0, 1, 2, 3);
    __m512i first = infer__in_lanes_avx512(src + 16), second = infer__in_lanes_avx512(src + 32);
    infer__q4_k_codes_avx512(src + 32, out);
    out[0] = infer__and_or_avx512(_mm512_sllv_epi16(first, up), bit, out[0]);
    out[1] = infer__and_or_avx512(_mm512_sllv_epi16(second, up), bit, out[1]);
    out[2] = infer__and_or_avx512(_mm512_srlv_epi16(first, down), bit, out[2]);
    out[3] = infer__and_or_avx512(_mm512_srlv_epi16(second, down), bit, out[3]);
}

/* ---- Q6_K ------------------------------------------------------------------------------------------------------ */

INFER__ON_avx512 INFER__INLINE void infer__q6_k_codes_avx512(const uint8_t *src, __m512i *out) {
    const __m512i four = _mm512_set1_epi8(15), two = _mm512_set1_epi8(48), shift = INFER__LANES16(0, 0, 4, 4);
    const __m512i turn = INFER__LANES64(4, 2, 0, 62); /* to the left: bits 2 s to bits 4 and 5 of the same byte */
    int h;
    INFER__UNROLL for (h = 0; h < 2; h++) {
        __m512i low = _mm512_loadu_si512(src + 64 * h);
        __m512i a = _mm512_shuffle_i32x4(low, low, 0x88), b = _mm512_shuffle_i32x4(low, low, 0xdd);
        __m512i ha = _mm512_rolv_epi64(infer__in_lanes_avx512(src + 128 + 32 * h), turn);
        __m512i hb = _mm512_rolv_epi64(infer__in_lanes_avx512(src + 144 + 32 * h), turn);
        out[2 * h] = infer__and_or_avx512(_mm512_srlv_epi16(a, shift), four, _mm512_and_si512(ha, two));
        out[2 * h + 1] = infer__and_or_avx512(_mm512_srlv_epi16(b, shift), four, _mm512_and_si512(hb, two));
    }
}

INFER__ON_avx512 INFER__INLINE void infer__q6_k_scales_avx512(const uint8_t *src, uint64_t row_bytes,
                                                              infer__unpacked *out) {
    __m512i v[4], t[4];
    __m512 d;
    int i;
    infer__dwords_avx512(src + 192, row_bytes, v);
    infer__dwords_avx512(src + 196, row_bytes, t);
    d = infer__low_halves_avx512(t[3]);
    INFER__UNROLL for (i = 0; i < 4; i++) infer__put_bytes_avx512(v[i], d, out->scale + 4 * i);
}

/* Blocks have 256 values: n_blocks is 8. */
#  define INFER__UNPACK_K(name, scales)                                                                              \
    INFER__ON_avx512 static void infer__##name##_unpack_avx512(const uint8_t *src, uint64_t row_bytes, int n_blocks, \
                                                               infer__unpacked *out) {                               \
      __m512i v[4];                                                                                                  \
      int r;                                                                                                         \
      (void)n_blocks;                                                                                                \
      scales(src, row_bytes, out);                                                                                   \
      for (r = 0; r < INFER__GROUP; r++, src += row_bytes, infer__ask(&out->ahead)) {                                \
        infer__##name##_codes_avx512(src, v);                                                                        \
        infer__put_codes_avx512(v, 4, out->q[r]);                                                                    \
      }                                                                                                              \
    }
INFER__UNPACK_K(q4_k, infer__put_scale_min_avx512)
INFER__UNPACK_K(q5_k, infer__put_scale_min_avx512)
INFER__UNPACK_K(q6_k, infer__q6_k_scales_avx512)

/* ---- Q2_K, TQ2_0, Q3_K ------------------------------------------------------------------------------------------ */

/* The codes of infer__unpack_quarters. */
INFER__ON_avx512 INFER__INLINE void infer__quarters_avx512(const uint8_t *src, __m512i *out) {
    const __m512i two = _mm512_set1_epi8(3), shift = INFER__LANES16(0, 2, 4, 6);
    int i;
    INFER__UNROLL for (i = 0; i < 4; i++)
        out[i] = _mm512_and_si512(_mm512_srlv_epi16(infer__in_lanes_avx512(src + 16 * i), shift), two);
}

INFER__ON_avx512 INFER__INLINE void infer__q2_k_codes_avx512(const uint8_t *src, __m512i *out) {
    infer__quarters_avx512(src + 16, out);
}

INFER__ON_avx512 INFER__INLINE void infer__q2_k_scales_avx512(const uint8_t *src, uint64_t row_bytes,
                                                              infer__unpacked *out) {
    const __m512i four = _mm512_set1_epi8(15);
    __m512i v[4], t[4];
    __m512 d, m;
    int i;
    infer__dwords_avx512(src, row_bytes, v);
    infer__dwords_avx512(src + 68, row_bytes, t);
    d = infer__low_halves_avx512(t[3]);
    m = infer__low_halves_avx512(_mm512_xor_si512(_mm512_srli_epi32(t[3], 16), _mm512_set1_epi32(0x8000)));
    INFER__UNROLL for (i = 0; i < 4; i++) {
        infer__put_bytes_avx512(_mm512_and_si512(v[i], four), d, out->scale + 4 * i);
        infer__put_bytes_avx512(_mm512_and_si512(_mm512_srli_epi32(v[i], 4), four), m, out->min + 4 * i);
    }
}

INFER__ON_avx512 INFER__INLINE void infer__tq2_0_codes_avx512(const uint8_t *src, __m512i *out) {
    infer__quarters_avx512(src, out);
}

INFER__ON_avx512 INFER__INLINE void infer__tq2_0_scales_avx512(const uint8_t *src, uint64_t row_bytes,
                                                               infer__unpacked *out) {
    __m512i t[4];
    __m512 d;
    int i;
    infer__dwords_avx512(src + 52, row_bytes, t);
    d = infer__low_halves_avx512(t[3]);
    INFER__UNROLL for (i = 0; i < 8; i++) _mm512_store_ps(out->scale[i], d);
}

INFER__ON_avx512 INFER__INLINE void infer__q3_k_codes_avx512(const uint8_t *src, __m512i *out) {
    const __m512i bit = _mm512_set1_epi8(4);
    const __m512i turn0 = INFER__LANES64(2, 1, 0, 63), turn1 = INFER__LANES64(62, 61, 60, 59); /* bit 4 h + s to 2 */
    __m512i mask[2];
    int i;
    mask[0] = infer__in_lanes_avx512(src);
    mask[1] = infer__in_lanes_avx512(src + 16);
    infer__quarters_avx512(src + 32, out);
    INFER__UNROLL for (i = 0; i < 4; i++)
        out[i] = infer__and_or_avx512(_mm512_rolv_epi64(mask[i % 2], i < 2 ? turn0 : turn1), bit, out[i]);
}

INFER__ON_avx512 INFER__INLINE void infer__q3_k_scales_avx512(const uint8_t *src, uint64_t row_bytes,
                                                              infer__unpacked *out) {
    const __m512i four = _mm512_set1_epi8(15), high = _mm512_set1_epi8(48), centre = _mm512_set1_epi8(32);
    __m512i v[4], s[4];
    __m512 d;
    int i;
    infer__dwords_avx512(src + 96, row_bytes, v); /* 12 bytes of scales, d */
    d = infer__low_halves_avx512(v[3]);
    s[0] = infer__and_or_avx512(v[0], four, _mm512_and_si512(_mm512_slli_epi32(v[2], 4), high));
    s[1] = infer__and_or_avx512(v[1], four, _mm512_and_si512(_mm512_slli_epi32(v[2], 2), high));
    s[2] = infer__and_or_avx512(_mm512_srli_epi32(v[0], 4), four, _mm512_and_si512(v[2], high));
    s[3] = infer__and_or_avx512(_mm512_srli_epi32(v[1], 4), four, _mm512_and_si512(_mm512_srli_epi32(v[2], 2), high));
    INFER__UNROLL for (i = 0; i < 4; i++)
        infer__put_bytes_avx512(_mm512_sub_epi8(s[i], centre), d, out->scale + 4 * i);
}
INFER__UNPACK_K(q2_k, infer__q2_k_scales_avx512)
INFER__UNPACK_K(tq2_0, infer__tq2_0_scales_avx512)
INFER__UNPACK_K(q3_k, infer__q3_k_scales_avx512)

/* ---- TQ1_0 ------------------------------------------------------------------------------------------------------ */

/* Of each byte x: (x * power & 255) * 3 >> 8, where even holds power * 256 and odd power, per word. */
INFER__ON_avx512 INFER__INLINE __m512i infer__digits_avx512(__m512i x, __m512i even, __m512i odd) {
    const __m512i three = _mm512_set1_epi16(3), high = _mm512_set1_epi16((short)0xff00);
    __m512i a = _mm512_mulhi_epu16(_mm512_mullo_epi16(x, even), three);
    __m512i b = _mm512_mulhi_epu16(_mm512_mullo_epi16(_mm512_and_si512(x, high), odd), three);
    return _mm512_or_si512(a, _mm512_slli_epi16(b, 8));
}

INFER__ON_avx512 static void infer__tq1_0_unpack_avx512(const uint8_t *src, uint64_t row_bytes, int n_blocks,
                                                        infer__unpacked *out) {
    /* powers of 3: digits 0 .. 3 of 16 bytes; digit 4 of bytes 0 .. 15, digits 0, 2, 4 of bytes 32 .. 47; digit 4 of
     * bytes 16 .. 31, digits 1, 3 of bytes 32 .. 47, digits 0 .. 3 of bytes 48 .. 51 */
    const __m512i p0 = INFER__LANES16(1, 3, 9, 27), p1 = INFER__LANES16(81, 1, 9, 81);
    const __m512i p2 = _mm512_inserti32x4(INFER__LANES16(81, 3, 27, 0), _mm_setr_epi16(1, 1, 3, 3, 9, 9, 27, 27), 3);
    const __m512i e0 = _mm512_slli_epi16(p0, 8), e1 = _mm512_slli_epi16(p1, 8), e2 = _mm512_slli_epi16(p2, 8);
    const __m512i last = _mm512_setr_epi32(4, 5, 6, 7, 8, 9, 10, 11, 8, 9, 10, 11, 12, 12, 12, 12);
    __m512i t[4];
    __m512 d;
    int r, i;
    (void)n_blocks;
    infer__dwords_avx512(src + 40, row_bytes, t);
    d = infer__low_halves_avx512(t[3]);
    INFER__UNROLL for (i = 0; i < 8; i++) _mm512_store_ps(out->scale[i], d);
    for (r = 0; r < INFER__GROUP; r++, src += row_bytes, infer__ask(&out->ahead)) {
        __m512i v = _mm512_loadu_si512(src);
        _mm512_store_si512(out->q[r], infer__digits_avx512(_mm512_shuffle_i32x4(v, v, 0x00), e0, p0));
        _mm512_store_si512(out->q[r] + 64, infer__digits_avx512(_mm512_shuffle_i32x4(v, v, 0x55), e0, p0));
        _mm512_store_si512(out->q[r] + 128, infer__digits_avx512(_mm512_shuffle_i32x4(v, v, 0xa8), e1, p1));
        _mm512_store_si512(out->q[r] + 192, infer__digits_avx512(_mm512_permutexvar_epi32(last, v), e2, p2));
    }
}

static const infer__unpack_row infer__unpacks_avx512_k[] = {
    INFER__QUANT(Q2_K, 10, INFER__CPU_AVX2 | INFER__CPU_AVX512, infer__q2_k_unpack_avx512)
    INFER__QUANT(Q3_K, 11, INFER__CPU_AVX2 | INFER__CPU_AVX512, infer__q3_k_unpack_avx512)
    INFER__QUANT(Q4_K, 12, INFER__CPU_AVX2 | INFER__CPU_AVX512, infer__q4_k_unpack_avx512)
    INFER__QUANT(Q5_K, 13, INFER__CPU_AVX2 | INFER__CPU_AVX512, infer__q5_k_unpack_avx512)
    INFER__QUANT(Q6_K, 14, INFER__CPU_AVX2 | INFER__CPU_AVX512, infer__q6_k_unpack_avx512)
    INFER__QUANT(TQ1_0, 34, INFER__CPU_AVX2 | INFER__CPU_AVX512, infer__tq1_0_unpack_avx512)
    INFER__QUANT(TQ2_0, 35, INFER__CPU_AVX2 | INFER__CPU_AVX512, infer__tq2_0_unpack_avx512)
    {-1, 0, NULL}, /* no type: some builds have none of the others */
};
#undef INFER__LANES16
#undef INFER__LANES64
#endif
