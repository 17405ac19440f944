/* unpack_avx512.c: unpack functions with AVX-512 (F BW DQ VL) for the types of quant_basic.c and quant_mx.c.
 *
 * Owns:  infer__unpacks_avx512. The plain C functions of quant_*.c define what they compute; results are equal.
 * How:   four blocks of a row (128 values) are two vectors of codes in infer__unpacked. Where blocks have an even
 *        number of bytes one permutation of words brings the codes of four blocks together, another their scales;
 *        scales of 16 rows are transposed as fp16 and then converted. Scales that are single bytes are collected 16
 *        rows at a time.
 * Tails: a row may end after any number of blocks: vectors are read so that they stay within INFER__OVERREAD, and bytes
 *        from beyond the end go to unused entries.
 * Start: infer__words_unpack_avx512, infer__q8_0_unpack_avx512.
 */
#include "../products/cpu_int8.h"

#if defined(INFER__SIMD_AVX512)

/* ---- what types share ----------------------------------------------------------------------------------------- */

/* 8 halves (fp16) of each of 16 rows: four to first[4][16], four to second[4][16]. */
INFER__ON_avx512 INFER__INLINE void infer__put_halves_avx512(const __m128i *rows, float (*first)[INFER__GROUP],
                                                             float (*second)[INFER__GROUP]) {
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
    INFER__UNROLL for (i = 0; i < 4; i++) { /* qwords: rows 4 L .. of half 2 i, then of half 2 i + 1 */
        __m512i v = _mm512_permutexvar_epi64(even_odd, r[i]);
        float (*to)[INFER__GROUP] = i < 2 ? first + 2 * i : second + 2 * (i - 2);
        _mm512_store_ps(to[0], _mm512_cvtph_ps(_mm512_castsi512_si256(v)));
        _mm512_store_ps(to[1], _mm512_cvtph_ps(_mm512_extracti64x4_epi64(v, 1)));
    }
}

/* 4 bytes of each of 16 rows. */
INFER__ON_avx512 INFER__INLINE __m512i infer__column_avx512(const uint8_t *src, uint64_t row_bytes) {
    __m512i v = _mm512_setzero_si512();
    int32_t four;
    int i;
    INFER__UNROLL for (i = 0; i < 16; i++, src += row_bytes) {
        memcpy(&four, src, 4);
        v = _mm512_mask_broadcastd_epi32(v, (__mmask16)(1 << i), _mm_cvtsi32_si128(four));
    }
    return v;
}

/* The fp16 at the start of 16 rows. */
INFER__ON_avx512 INFER__INLINE __m512 infer__column_half_avx512(const uint8_t *src, uint64_t row_bytes) {
    return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(infer__column_avx512(src, row_bytes)));
}

/* Low and high halves of the bytes of v. */
INFER__ON_avx512 INFER__INLINE __m512i infer__low_avx512(__m512i v) {
    return _mm512_and_si512(v, _mm512_set1_epi8(15));
}
INFER__ON_avx512 INFER__INLINE __m512i infer__high_avx512(__m512i v) {
    return _mm512_and_si512(_mm512_srli_epi16(v, 4), _mm512_set1_epi8(15));
}

/* A mask of n bytes, n <= 64; none below 0. */
INFER__INLINE uint64_t infer__bytes_avx512(int n) { return n >= 64 ? UINT64_MAX : n > 0 ? ((uint64_t)1 << n) - 1 : 0; }

/* The low 64 bits as a mask. */
INFER__ON_avx512 INFER__INLINE __mmask64 infer__mask_avx512(__m128i v) {
    uint64_t bits;
    _mm_storel_epi64((__m128i *)(void *)&bits, v);
    return bits;
}

/* ---- Q4_0, Q4_1, Q5_0, Q5_1: blocks of fp16 scale (and minimum), fifth bits, 16 bytes of two codes -------------- */

/* Eight blocks of `bytes` bytes are read as three vectors: bytes 0 .. 63, 64 .. 127 and the last 64. Word w as a
 * permutation counts it in the first two (blocks 0 .. 3) or in the last two (blocks 4 .. 7); word w and the same of the
 * next three blocks; words w .. w + 7 of a block; those of four blocks. */
#define INFER__FIRST(w, bytes) (w)
#define INFER__SECOND(w, bytes) ((w) < 64 ? (w) - 32 : (w) + 64 - 4 * (bytes))
#define INFER__FOUR(at, w, bytes)                                                                                      \
    at(w, bytes), at((w) + (bytes) / 2, bytes), at((w) + (bytes), bytes), at((w) + 3 * (bytes) / 2, bytes)
#define INFER__EIGHT(at, w, bytes)                                                                                     \
    at(w, bytes), at((w) + 1, bytes), at((w) + 2, bytes), at((w) + 3, bytes), at((w) + 4, bytes), at((w) + 5, bytes),  \
        at((w) + 6, bytes), at((w) + 7, bytes)
#define INFER__CODES(at, w, bytes)                                                                                     \
    INFER__EIGHT(at, w, bytes), INFER__EIGHT(at, (w) + (bytes) / 2, bytes), INFER__EIGHT(at, (w) + (bytes), bytes),    \
        INFER__EIGHT(at, (w) + 3 * (bytes) / 2, bytes)

/* Blocks 0 .. 3: codes; scales, minima, fifth bits of the first and of the second 16 values. Blocks 4 .. 7 likewise. Of
 * Q4_0, whose scales are within the first 128 bytes, all eight at once. */
static const uint16_t infer__q4_0_words[4][32] = {
    {INFER__CODES(INFER__FIRST, 1, 18)},
    {INFER__FOUR(INFER__FIRST, 0, 18), INFER__FOUR(INFER__FIRST, 36, 18)},
    {INFER__CODES(INFER__SECOND, 37, 18)}};
static const uint16_t infer__q4_1_words[4][32] = {
    {INFER__CODES(INFER__FIRST, 2, 20)},
    {INFER__FOUR(INFER__FIRST, 0, 20), INFER__FOUR(INFER__FIRST, 1, 20)},
    {INFER__CODES(INFER__SECOND, 42, 20)},
    {INFER__FOUR(INFER__SECOND, 40, 20), INFER__FOUR(INFER__SECOND, 41, 20)}};
static const uint16_t infer__q5_0_words[4][32] = {
    {INFER__CODES(INFER__FIRST, 3, 22)},
    {INFER__FOUR(INFER__FIRST, 0, 22), 0, 0, 0, 0, INFER__FOUR(INFER__FIRST, 1, 22), INFER__FOUR(INFER__FIRST, 2, 22)},
    {INFER__CODES(INFER__SECOND, 47, 22)},
    {INFER__FOUR(INFER__SECOND, 44, 22), 0, 0, 0, 0, INFER__FOUR(INFER__SECOND, 45, 22),
     INFER__FOUR(INFER__SECOND, 46, 22)}};
static const uint16_t infer__q5_1_words[4][32] = {
    {INFER__CODES(INFER__FIRST, 4, 24)},
    {INFER__FOUR(INFER__FIRST, 0, 24), INFER__FOUR(INFER__FIRST, 1, 24), INFER__FOUR(INFER__FIRST, 2, 24),
     INFER__FOUR(INFER__FIRST, 3, 24)},
    {INFER__CODES(INFER__SECOND, 52, 24)},
    {INFER__FOUR(INFER__SECOND, 48, 24), INFER__FOUR(INFER__SECOND, 49, 24), INFER__FOUR(INFER__SECOND, 50, 24),
     INFER__FOUR(INFER__SECOND, 51, 24)}};
#undef INFER__CODES
#undef INFER__EIGHT
#undef INFER__FOUR
#undef INFER__SECOND
#undef INFER__FIRST

/* The codes of a row to infer__unpacked. */
INFER__ON_avx512 INFER__INLINE void infer__put_codes_avx512(const __m512i *v, int n, uint8_t *q) {
    int i;
    INFER__UNROLL for (i = 0; i < n; i++) _mm512_store_si512(q + 64 * i, v[i]);
}

/* Four blocks, the bytes of which are in a and b, to 128 codes; returns the words of their scales and minima. */
INFER__ON_avx512 INFER__INLINE __m128i infer__words_four_avx512(__m512i a, __m512i b, const uint16_t (*words)[32],
                                                                int fifth, __m512i levels, int lookup, __m512i *out) {
    __m512i v = _mm512_permutex2var_epi16(a, _mm512_loadu_si512(words[0]), b);
    __m512i m = _mm512_permutex2var_epi16(a, _mm512_loadu_si512(words[1]), b);
    __m512i low = infer__low_avx512(v), high = infer__high_avx512(v);
    if (fifth) {
        const __m512i bit = _mm512_set1_epi8(16);
        __m128i bits = _mm256_extracti128_si256(_mm512_castsi512_si256(m), 1);
        low = _mm512_mask_add_epi8(low, infer__mask_avx512(bits), low, bit);
        high = _mm512_mask_add_epi8(high, infer__mask_avx512(_mm_unpackhi_epi64(bits, bits)), high, bit);
    }
    if (lookup) {
        low = _mm512_shuffle_epi8(levels, low);
        high = _mm512_shuffle_epi8(levels, high);
    }
    out[0] = low;
    out[1] = high;
    return _mm512_castsi512_si128(m);
}

/* Eight blocks of `bytes` bytes. */
INFER__ON_avx512 INFER__INLINE __m128i infer__words_eight_avx512(const uint8_t *src, int bytes,
                                                                 const uint16_t (*words)[32], int fifth,
                                                                 __m512i levels, int lookup, __m512i *out,
                                                                 __m128i *second) {
    __m512i a = _mm512_loadu_si512(src), b = _mm512_loadu_si512(src + 64);
    __m512i c = _mm512_loadu_si512(src + 8 * bytes - 64);
    __m128i first = infer__words_four_avx512(a, b, words, fifth, levels, lookup, out);
    *second = infer__words_four_avx512(b, c, words + 2, fifth, levels, lookup, out + 2);
    return first;
}

/* once: words[1] has the scales of all eight blocks; lookup: codes are places in `levels`. */
INFER__ON_avx512 INFER__INLINE void infer__words_unpack_avx512(const uint8_t *src, uint64_t row_bytes, int n_blocks,
                                                               infer__unpacked *out, const uint16_t (*words)[32],
                                                               int bytes, int has_min, int fifth, int once,
                                                               __m512i levels, int lookup) {
    __m128i first[16], second[16];
    __m512i v[4];
    int i;
    if (n_blocks == 8) {
        for (i = 0; i < 16; i++, src += row_bytes) { /* not unrolled: as fast, and 3 KB less a type */
            first[i] = infer__words_eight_avx512(src, bytes, words, fifth, levels, lookup, v, &second[i]);
            infer__put_codes_avx512(v, 4, out->q[i]);
            if (!has_min && !once) first[i] = _mm_unpacklo_epi64(first[i], second[i]);
            infer__ask(&out->ahead);
        }
    } else { /* no further than the last block */
        const __mmask64 in_a = infer__bytes_avx512(n_blocks * bytes), in_b = infer__bytes_avx512(n_blocks * bytes - 64);
        const __mmask64 in_c = infer__bytes_avx512((n_blocks - 8) * bytes + 64);
        for (i = 0; i < 16; i++, src += row_bytes) {
            __m512i a = _mm512_maskz_loadu_epi8(in_a, src), b = _mm512_maskz_loadu_epi8(in_b, src + 64);
            first[i] = infer__words_four_avx512(a, b, words, fifth, levels, lookup, v);
            infer__put_codes_avx512(v, 2, out->q[i]);
            if (n_blocks <= 4) continue;
            a = _mm512_maskz_loadu_epi8(in_c, src + 8 * bytes - 64);
            second[i] = infer__words_four_avx512(b, a, words + 2, fifth, levels, lookup, v);
            infer__put_codes_avx512(v, 2, out->q[i] + 128);
            if (!has_min && !once) first[i] = _mm_unpacklo_epi64(first[i], second[i]);
        }
    }
    infer__put_halves_avx512(first, out->scale, has_min ? out->min : out->scale + 4);
    if (has_min && n_blocks > 4) infer__put_halves_avx512(second, out->scale + 4, out->min + 4);
}

#  define INFER__UNPACK_WORDS(name, bytes, has_min, fifth, once)                                                     \
    INFER__ON_avx512 static void infer__##name##_unpack_avx512(const uint8_t *src, uint64_t row_bytes, int n_blocks, \
                                                               infer__unpacked *out) {                               \
      infer__words_unpack_avx512(src, row_bytes, n_blocks, out, infer__##name##_words, bytes, has_min, fifth, once,  \
                                 _mm512_setzero_si512(), 0);                                                         \
    }
INFER__UNPACK_WORDS(q4_0, 18, 0, 0, 1)
INFER__UNPACK_WORDS(q4_1, 20, 1, 0, 0)
INFER__UNPACK_WORDS(q5_0, 22, 0, 1, 0)
INFER__UNPACK_WORDS(q5_1, 24, 1, 1, 0)
#undef INFER__UNPACK_WORDS

/* ---- Q8_0 ------------------------------------------------------------------------------------------------------ */

/* At most four blocks, 34 bytes apart: their 32 bytes as vectors of two blocks, then as first and second halves. */
INFER__ON_avx512 INFER__INLINE void infer__q8_0_four_avx512(const uint8_t *src, int n, __m512i *out) {
    const __m512i sign = _mm512_set1_epi8(-128);
    __m512i a = _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)(const void *)(src + 2))), b = a;
    if (n > 1) a = _mm512_mask_broadcast_i64x4(a, 0xf0, _mm256_loadu_si256((const __m256i *)(const void *)(src + 36)));
    if (n > 2) b = _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)(const void *)(src + 70)));
    if (n > 3) b = _mm512_mask_broadcast_i64x4(b, 0xf0, _mm256_loadu_si256((const __m256i *)(const void *)(src + 104)));
    out[0] = _mm512_xor_si512(_mm512_shuffle_i32x4(a, b, 0x88), sign);
    out[1] = _mm512_xor_si512(_mm512_shuffle_i32x4(a, b, 0xdd), sign);
}

/* Words of the scales of blocks 0 .. 3 in bytes 0 .. 127 of a row, of blocks 4 .. 7 in bytes 128 .. 255. */
static const uint16_t infer__q8_0_words[2][32] = {{0, 17, 34, 51}, {4, 21, 38, 55}};

/* Eight blocks: their codes, and their scales as words. */
INFER__ON_avx512 INFER__INLINE __m128i infer__q8_0_eight_avx512(const uint8_t *src, __m512i *out) {
    const __m512i a = _mm512_loadu_si512(infer__q8_0_words[0]), b = _mm512_loadu_si512(infer__q8_0_words[1]);
    __m512i first = _mm512_permutex2var_epi16(_mm512_loadu_si512(src), a, _mm512_loadu_si512(src + 64));
    __m512i second = _mm512_permutex2var_epi16(_mm512_loadu_si512(src + 128), b, _mm512_loadu_si512(src + 192));
    infer__q8_0_four_avx512(src, 4, out);
    infer__q8_0_four_avx512(src + 136, 4, out + 2);
    return _mm_unpacklo_epi64(_mm512_castsi512_si128(first), _mm512_castsi512_si128(second));
}

INFER__ON_avx512 static void infer__q8_0_unpack_avx512(const uint8_t *src, uint64_t row_bytes, int n_blocks,
                                                       infer__unpacked *out) {
    __m128i scales[16];
    __m512i v[4];
    int i, b;
    if (n_blocks == 8) {
        for (i = 0; i < 16; i++, src += row_bytes, infer__ask(&out->ahead)) {
            scales[i] = infer__q8_0_eight_avx512(src, v);
            infer__put_codes_avx512(v, 4, out->q[i]);
        }
        infer__put_halves_avx512(scales, out->scale, out->scale + 4);
        return;
    }
    for (b = 0; b < n_blocks; b++)
        _mm512_store_ps(out->scale[b], infer__column_half_avx512(src + 34 * b, row_bytes));
    for (i = 0; i < 16; i++, src += row_bytes)
        for (b = 0; b < n_blocks; b += 4) {
            infer__q8_0_four_avx512(src + 34 * b, n_blocks - b, v);
            infer__put_codes_avx512(v, 2, out->q[i] + 32 * b);
        }
}

/* ---- MXFP4, NVFP4 ---------------------------------------------------------------------------------------------- */

/* Codes of the 16 values of FP4: infer__kvalues_fp4 + 12. */
INFER__ON_avx512 INFER__INLINE __m512i infer__fp4_codes_avx512(void) {
    return _mm512_broadcast_i32x4(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
}

/* infer__e8m0_half of the low bytes of e. */
INFER__ON_avx512 INFER__INLINE __m512 infer__e8m0_half_avx512(__m512i e) {
    __m512i v;
    e = _mm512_and_si512(e, _mm512_set1_epi32(255));
    v = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
    v = _mm512_mask_sllv_epi32(v, _mm512_cmplt_epi32_mask(e, _mm512_set1_epi32(2)), _mm512_set1_epi32(0x00200000), e);
    return _mm512_castsi512_ps(v);
}

/* Words of the codes of four blocks of 17 bytes: blocks 0 and 2 begin at even bytes of a vector from byte 1, blocks 1
 * and 3 of one from byte 4. */
static const uint16_t infer__mxfp4_words[32] = {0,  1,  2,  3,  4,  5,  6,  7,  39, 40, 41, 42, 43, 44, 45, 46,
                                                17, 18, 19, 20, 21, 22, 23, 24, 56, 57, 58, 59, 60, 61, 62, 63};

/* Four blocks of a row: the codes of their first halves, and of their second ones. */
INFER__ON_avx512 INFER__INLINE void infer__mxfp4_four_avx512(const uint8_t *p, __m512i *v) {
    const __m512i codes = infer__fp4_codes_avx512(), words = _mm512_loadu_si512(infer__mxfp4_words);
    const __m512i q = _mm512_permutex2var_epi16(_mm512_loadu_si512(p + 1), words, _mm512_loadu_si512(p + 4));
    v[0] = _mm512_shuffle_epi8(codes, infer__low_avx512(q));
    v[1] = _mm512_shuffle_epi8(codes, infer__high_avx512(q));
}

/* Keep the scales of four blocks of row i, at p, in e; then give those of 16 rows. */
INFER__ON_avx512 INFER__INLINE void infer__mxfp4_scale_avx512(const uint8_t *p, int i, __m512i *e) {
    /* byte 17 L, a scale, is byte L of lane L: its element 0 becomes element i % 4, for row i */
    e[i / 4] = _mm512_mask_shuffle_epi32(e[i / 4], (__mmask16)(0x1111 << (i & 3)), _mm512_loadu_si512(p), 0);
}
INFER__ON_avx512 INFER__INLINE void infer__mxfp4_put_avx512(const __m512i *e, float (*scale)[INFER__GROUP]) {
    const __m512i x = _mm512_shuffle_i32x4(e[0], e[1], 0x88), y = _mm512_shuffle_i32x4(e[0], e[1], 0xdd);
    const __m512i z = _mm512_shuffle_i32x4(e[2], e[3], 0x88), w = _mm512_shuffle_i32x4(e[2], e[3], 0xdd);
    _mm512_store_ps(scale[0], infer__e8m0_half_avx512(_mm512_shuffle_i32x4(x, z, 0x88)));
    _mm512_store_ps(scale[1], infer__e8m0_half_avx512(_mm512_srli_epi32(_mm512_shuffle_i32x4(y, w, 0x88), 8)));
    _mm512_store_ps(scale[2], infer__e8m0_half_avx512(_mm512_srli_epi32(_mm512_shuffle_i32x4(x, z, 0xdd), 16)));
    _mm512_store_ps(scale[3], infer__e8m0_half_avx512(_mm512_srli_epi32(_mm512_shuffle_i32x4(y, w, 0xdd), 24)));
}

/* The scales of a chunk of 16 rows. */
INFER__ON_avx512 INFER__INLINE void infer__mxfp4_scales_avx512(const uint8_t *src, uint64_t row_bytes,
                                                               infer__unpacked *w) {
    int i, b;
    for (b = 0; b < 8; b += 4, src += 4 * 17) {
        __m512i e[4];
        INFER__UNROLL for (i = 0; i < 4; i++) e[i] = _mm512_setzero_si512();
        INFER__UNROLL for (i = 0; i < 16; i++) infer__mxfp4_scale_avx512(src + (uint64_t)i * row_bytes, i, e);
        infer__mxfp4_put_avx512(e, w->scale + b);
    }
}

INFER__ON_avx512 static void infer__mxfp4_unpack_avx512(const uint8_t *src, uint64_t row_bytes, int n_blocks,
                                                        infer__unpacked *out) {
    int i, b;
    for (b = 0; b < n_blocks; b += 4, src += 4 * 17) {
        __m512i e[4], v[2];
        INFER__UNROLL for (i = 0; i < 4; i++) e[i] = _mm512_setzero_si512();
        INFER__UNROLL for (i = 0; i < 16; i++) {
            const uint8_t *p = src + (uint64_t)i * row_bytes;
            infer__mxfp4_four_avx512(p, v);
            infer__mxfp4_scale_avx512(p, i, e);
            _mm512_store_si512(out->q[i] + 32 * b, v[0]);
            _mm512_store_si512(out->q[i] + 32 * b + 64, v[1]);
            if (i % 2) infer__ask(&out->ahead); /* a row is visited twice */
        }
        infer__mxfp4_put_avx512(e, out->scale + b);
    }
}

/* infer__ue4m3_half of byte i of every element of e, whose bytes 127 were made 0: exponent and mantissa in place, and
 * where the exponent is 0, 2^-8 (1 + m / 8) becomes 2^-7 m / 8. */
INFER__ON_avx512 INFER__INLINE __m512 infer__ue4m3_half_avx512(__m512i e, int i) {
    __m512i v = i < 3 ? _mm512_slli_epi32(e, (unsigned)(20 - 8 * i)) : _mm512_srli_epi32(e, 4);
    __m512 f;
    v = _mm512_and_si512(v, _mm512_set1_epi32(0x07f00000));
    f = _mm512_castsi512_ps(_mm512_add_epi32(v, _mm512_set1_epi32(119 << 23)));
    return _mm512_mask_fmsub_ps(f, _mm512_cmplt_epi32_mask(v, _mm512_set1_epi32(0x00800000)), _mm512_set1_ps(2.0f),
                                _mm512_set1_ps(1.0f / 128.0f));
}

/* Words of two blocks of 36 bytes, from their starts and from their ends: 8 bytes of every second 16 values, twice. */
static const uint16_t infer__nvfp4_words[2][32] = {
    {2, 3, 4, 5, 2, 3, 4, 5, 10, 11, 12, 13, 10, 11, 12, 13, 20, 21, 22, 23, 20, 21, 22, 23, 28, 29, 30, 31, 28, 29, 30, 31},
    {6, 7, 8, 9, 6, 7, 8, 9, 14, 15, 16, 17, 14, 15, 16, 17, 24, 25, 26, 27, 24, 25, 26, 27, 60, 61, 62, 63, 60, 61, 62, 63},
};

/* Two blocks in a and the vector 8 bytes further to 128 codes. */
INFER__ON_avx512 INFER__INLINE void infer__nvfp4_two_avx512(__m512i a, const uint8_t *further, __m512i codes,
                                                            uint8_t *q) {
    const __m512i first = _mm512_loadu_si512(infer__nvfp4_words[0]), second = _mm512_loadu_si512(infer__nvfp4_words[1]);
    const __m512i shift = _mm512_setr_epi64(0, 4, 0, 4, 0, 4, 0, 4);
    __m512i v = _mm512_permutexvar_epi16(first, a);
    __m512i w = _mm512_permutex2var_epi16(a, second, _mm512_loadu_si512(further));
    v = infer__low_avx512(_mm512_srlv_epi64(v, shift));
    w = infer__low_avx512(_mm512_srlv_epi64(w, shift));
    _mm512_store_si512(q, _mm512_shuffle_epi8(codes, v));
    _mm512_store_si512(q + 64, _mm512_shuffle_epi8(codes, w));
}

INFER__ON_avx512 static void infer__nvfp4_unpack_avx512(const uint8_t *src, uint64_t row_bytes, int n_blocks,
                                                        infer__unpacked *out) {
    const __m512i codes = infer__fp4_codes_avx512(),
                  scales = _mm512_setr_epi32(0, 9, 16, 25, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    __m128i e[16];
    __m512i r[4], t0, t1, t2, t3;
    int i, j;
    for (i = 0; i < 16; i++, src += row_bytes, infer__ask(&out->ahead)) {
        __m512i a = _mm512_loadu_si512(src), b = a;
        infer__nvfp4_two_avx512(a, src + 8, codes, out->q[i]);
        if (n_blocks > 4) {
            b = _mm512_loadu_si512(src + 72);
            infer__nvfp4_two_avx512(b, src + 80, codes, out->q[i] + 128);
        }
        e[i] = _mm512_castsi512_si128(_mm512_permutex2var_epi32(a, scales, b));
    }
    INFER__UNROLL for (i = 0; i < 4; i++) /* lane L: row 4 L + i */
        r[i] = _mm512_inserti32x4(
            _mm512_inserti32x4(_mm512_inserti32x4(_mm512_castsi128_si512(e[i]), e[4 + i], 1), e[8 + i], 2), e[12 + i],
            3);
    t0 = _mm512_unpacklo_epi32(r[0], r[1]);
    t1 = _mm512_unpackhi_epi32(r[0], r[1]);
    t2 = _mm512_unpacklo_epi32(r[2], r[3]);
    t3 = _mm512_unpackhi_epi32(r[2], r[3]);
    r[0] = _mm512_unpacklo_epi64(t0, t2);
    r[1] = _mm512_unpackhi_epi64(t0, t2);
    r[2] = _mm512_unpacklo_epi64(t1, t3);
    r[3] = _mm512_unpackhi_epi64(t1, t3);
    INFER__UNROLL for (i = 0; i < 4; i++) { /* block i of 16 rows */
        __mmask64 none = _mm512_cmpeq_epi8_mask(r[i], _mm512_set1_epi8(127));
        r[i] = _mm512_mask_mov_epi8(r[i], none, _mm512_setzero_si512());
        INFER__UNROLL for (j = 0; j < 4; j++)
            _mm512_store_ps(out->scale[4 * i + j], infer__ue4m3_half_avx512(r[i], j));
    }
}

/* ---- Q1_0, Q2_0 ------------------------------------------------------------------------------------------------ */

INFER__ON_avx512 static void infer__q1_0_unpack_avx512(const uint8_t *src, uint64_t row_bytes, int n_blocks,
                                                       infer__unpacked *out) {
    /* bytes 4 L and 4 L + 1 of a block to lane L, 8 times each, of which bit j % 8 is wanted */
    const __m512i first = _mm512_add_epi32(_mm512_broadcast_i32x4(_mm_setr_epi32(0, 0, 0x01010101, 0x01010101)),
                                           _mm512_setr_epi32(0, 0, 0, 0, 0x04040404, 0x04040404, 0x04040404, 0x04040404,
                                                             0x08080808, 0x08080808, 0x08080808, 0x08080808, 0x0c0c0c0c,
                                                             0x0c0c0c0c, 0x0c0c0c0c, 0x0c0c0c0c));
    const __m512i second = _mm512_add_epi8(first, _mm512_set1_epi8(2)), two = _mm512_set1_epi8(2);
    const __m512i bits = _mm512_set1_epi64((int64_t)0x8040201008040201u);
    int i, j, b;
    for (b = 0; b < n_blocks; b += 4, src += 18) {
        __m512 d = infer__column_half_avx512(src, row_bytes);
        INFER__UNROLL for (j = 0; j < 4; j++) _mm512_store_ps(out->scale[b + j], d);
        for (i = 0; i < 16; i++) {
            const uint8_t *p = src + (uint64_t)i * row_bytes + 2;
            __m512i v = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)p));
            __mmask64 m = _mm512_test_epi8_mask(_mm512_shuffle_epi8(v, first), bits);
            __mmask64 n = _mm512_test_epi8_mask(_mm512_shuffle_epi8(v, second), bits);
            _mm512_store_si512(out->q[i] + 32 * b, _mm512_maskz_mov_epi8(m, two));
            _mm512_store_si512(out->q[i] + 32 * b + 64, _mm512_maskz_mov_epi8(n, two));
            if (i % 2) infer__ask(&out->ahead);
        }
    }
}

INFER__ON_avx512 static void infer__q2_0_unpack_avx512(const uint8_t *src, uint64_t row_bytes, int n_blocks,
                                                       infer__unpacked *out) {
    /* bytes 0 .. 3 (lanes 0, 2) or 8 .. 11 of a block, 4 times each; then the half byte, the pair of bits, its value */
    const __m512i first =
        _mm512_add_epi32(_mm512_broadcast_i32x4(_mm_setr_epi32(0, 0x01010101, 0x02020202, 0x03030303)),
                         _mm512_setr_epi32(0, 0, 0, 0, 0x08080808, 0x08080808, 0x08080808, 0x08080808, 0, 0, 0, 0,
                                           0x08080808, 0x08080808, 0x08080808, 0x08080808));
    const __m512i second = _mm512_add_epi8(first, _mm512_set1_epi8(4)), pairs = _mm512_set1_epi16(0x0c03);
    const __m512i shift = _mm512_set1_epi32(4 << 16);
    const __m512i value = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 2, 3, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0));
    int i, b;
    for (b = 0; b < n_blocks; b += 2) {
        __m512 d = infer__column_half_avx512(src + 9 * b, row_bytes);
        _mm512_store_ps(out->scale[b], d);
        _mm512_store_ps(out->scale[b + 1], d);
    }
    for (i = 0; i < 16; i++, src += row_bytes, infer__ask(&out->ahead))
        for (b = 0; b < n_blocks; b += 4) {
            const uint8_t *p = src + 9 * b + 2;
            __m512i v = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)p)), w;
            v = _mm512_mask_broadcast_i32x4(v, 0xff00, _mm_loadu_si128((const __m128i *)(const void *)(p + 18)));
            w = _mm512_and_si512(_mm512_srlv_epi16(_mm512_shuffle_epi8(v, second), shift), pairs);
            v = _mm512_and_si512(_mm512_srlv_epi16(_mm512_shuffle_epi8(v, first), shift), pairs);
            _mm512_store_si512(out->q[i] + 32 * b, _mm512_shuffle_epi8(value, v));
            _mm512_store_si512(out->q[i] + 32 * b + 64, _mm512_shuffle_epi8(value, w));
        }
}

static const infer__unpack_row infer__unpacks_avx512[] = {
    {2, INFER__CPU_AVX2 | INFER__CPU_AVX512, infer__q4_0_unpack_avx512},
    INFER__QUANT(Q4_1, 3, INFER__CPU_AVX2 | INFER__CPU_AVX512, infer__q4_1_unpack_avx512)
    INFER__QUANT(Q5_0, 6, INFER__CPU_AVX2 | INFER__CPU_AVX512, infer__q5_0_unpack_avx512)
    INFER__QUANT(Q5_1, 7, INFER__CPU_AVX2 | INFER__CPU_AVX512, infer__q5_1_unpack_avx512)
    {8, INFER__CPU_AVX2 | INFER__CPU_AVX512, infer__q8_0_unpack_avx512},
    INFER__QUANT(MXFP4, 39, INFER__CPU_AVX2 | INFER__CPU_AVX512, infer__mxfp4_unpack_avx512)
    INFER__QUANT(NVFP4, 40, INFER__CPU_AVX2 | INFER__CPU_AVX512, infer__nvfp4_unpack_avx512)
    INFER__QUANT(Q1_0, 41, INFER__CPU_AVX2 | INFER__CPU_AVX512, infer__q1_0_unpack_avx512)
    INFER__QUANT(Q2_0, 42, INFER__CPU_AVX2 | INFER__CPU_AVX512, infer__q2_0_unpack_avx512)
};
#endif
