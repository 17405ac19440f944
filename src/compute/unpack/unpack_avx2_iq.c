/* unpack_avx2_iq.c: unpack functions with AVX2 for the code book types, IQ1 to IQ3, and TQ1_0.
 *
 * Owns:  infer__unpacks_avx2_iq. The plain C functions of quant_iq.c and quant_k.c define what they compute; results
 *        are equal.
 * How:   a vector of infer__unpacked, 16 values of block 2 c and 16 of block 2 c + 1 (infer__pair_at), is four loads
 *        from a book of code_books.c, or eight of four values each; gathers are slower. Indices of more than 8 bits are
 *        put together 16 at a time and pass through memory. Signs: a byte for 8 values, those of even blocks in the low
 *        half of a vector (infer__even_odd_avx2), so that one shuffle brings the bytes of two blocks to their places.
 * Start: infer__iq2_xxs_unpack_avx2.
 */
#include "../products/cpu_int8.h"

#if defined(INFER__SIMD_AVX2)

/* The position of vector c (0..3) of half h of the blocks of a row: blocks 2 c and 2 c + 1. */
INFER__INLINE uint8_t *infer__pair_at(uint8_t *q, int c, int h) { return q + 128 * (c / 2) + 32 * (c % 2) + 64 * h; }

/* ---- entries of code books -------------------------------------------------------------------------------------- */

/* The indices of a row, in the order of the file, four or eight a block of 32. */
typedef struct infer__iq_indices { uint16_t at[64]; } infer__iq_indices;

/* Two entries of eight values from index[0] on, and two of the block that is `next` indices further. Loads that fill a
 * vector and blends use no port of the shuffles. */
#define INFER__BOOK_8(book, index, next)                                                                               \
    _mm256_blend_epi32(                                                                                                \
        _mm256_blend_epi32(infer__fill_64_avx2(&(book)[(index)[0]]), infer__fill_64_avx2(&(book)[(index)[1]]), 0x0c),  \
        _mm256_blend_epi32(infer__fill_64_avx2(&(book)[(index)[next]]),                                                \
                           infer__fill_64_avx2(&(book)[(index)[(next) + 1]]), 0xc0),                                   \
        0xf0)
/* Four entries of four values from index[0] on, and four that are `next` indices further. */
#define INFER__BOOK_4(book, index, next)                                                                               \
    _mm256_blend_epi32(infer__four_avx2(book, (index)[0], (index)[1], (index)[2], (index)[3]),                         \
                       infer__four_avx2(book, (index)[next], (index)[(next) + 1], (index)[(next) + 2],                 \
                                        (index)[(next) + 3]), 0xf0)
INFER__ON_avx2 INFER__INLINE __m256i infer__fill_64_avx2(const uint64_t *p) { return _mm256_set1_epi64x((int64_t)*p); }
INFER__ON_avx2 INFER__INLINE __m256i infer__fill_32_avx2(const uint32_t *p) { return _mm256_set1_epi32((int32_t)*p); }
INFER__ON_avx2 INFER__INLINE __m256i infer__four_avx2(const uint32_t *book, int a, int b, int c, int d) {
    return _mm256_blend_epi32(
        _mm256_blend_epi32(infer__fill_32_avx2(book + a), infer__fill_32_avx2(book + b), 0x22),
        _mm256_blend_epi32(infer__fill_32_avx2(book + c), infer__fill_32_avx2(book + d), 0x88), 0xcc);
}

/* 16 indices: as they are; from their low bytes, and what is above them. */
INFER__ON_avx2 INFER__INLINE void infer__put_words_avx2(uint16_t *to, __m256i v) {
    _mm256_storeu_si256((__m256i *)(void *)to, v);
}
INFER__ON_avx2 INFER__INLINE void infer__put_indices_avx2(const uint8_t *low, __m256i high, uint16_t *to) {
    __m256i v = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(const void *)low));
    infer__put_words_avx2(to, _mm256_or_si256(v, high));
}

/* Bytes b[2 i] and b[2 i + 1] of 8, four times each, as the words of lane i; in two vectors. */
INFER__ON_avx2 INFER__INLINE void infer__bytes_to_words_avx2(const uint8_t *b, __m256i *out) {
    const __m256i first = _mm256_setr_epi8(0, -1, 0, -1, 0, -1, 0, -1, 1, -1, 1, -1, 1, -1, 1, -1, 2, -1, 2, -1, 2, -1,
                                           2, -1, 3, -1, 3, -1, 3, -1, 3, -1);
    __m256i v = _mm256_broadcastsi128_si256(_mm_loadl_epi64((const __m128i *)(const void *)b));
    out[0] = _mm256_shuffle_epi8(v, first);
    out[1] = _mm256_shuffle_epi8(v, _mm256_add_epi8(first, _mm256_set1_epi16(4)));
}

/* Words 4 h .. 4 h + 3 of each half of v, where both are alike: four times each. */
INFER__ON_avx2 INFER__INLINE __m256i infer__words_4_avx2(__m256i v, int h) {
    const __m256i first = _mm256_setr_epi64x(0x0100010001000100, 0x0302030203020302, 0x0504050405040504,
                                             0x0706070607060706);
    return _mm256_shuffle_epi8(v, _mm256_add_epi8(first, _mm256_set1_epi8((char)(8 * h))));
}

/* ---- signs ------------------------------------------------------------------------------------------------------ */

/* Words of four bytes, one word a block: even blocks to the low half. The result of packing two vectors of four blocks
 * is in the order 0 1 4 5 2 3 6 7. */
INFER__ON_avx2 INFER__INLINE __m256i infer__even_odd_avx2(__m256i v, int packed) {
    return _mm256_permutevar8x32_epi32(v, packed ? _mm256_setr_epi32(0, 4, 2, 6, 1, 5, 3, 7)
                                                 : _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7));
}

/* Seven bits in every byte and their parity above them: infer__iq_signs. */
INFER__ON_avx2 INFER__INLINE __m256i infer__parity_avx2(__m256i x) {
    const __m256i odd = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, -128, -128, 0, -128, 0, 0, -128, -128, 0, 0, -128, 0, -128, -128, 0));
    __m256i t = infer__and_avx2(_mm256_xor_si256(x, _mm256_srli_epi16(x, 4)), 15);
    return _mm256_or_si256(x, _mm256_shuffle_epi8(odd, t));
}

/* Four fields of seven bits to four bytes with their parity, in every 32 bits. */
INFER__ON_avx2 INFER__INLINE __m256i infer__four_sevens_avx2(__m256i x) {
    __m256i low = _mm256_and_si256(x, _mm256_set1_epi32(0x3fff));
    x = _mm256_or_si256(low, _mm256_and_si256(_mm256_slli_epi32(x, 2), _mm256_set1_epi32(0x3fff0000)));
    low = _mm256_and_si256(x, _mm256_set1_epi32(0x007f007f));
    x = _mm256_and_si256(_mm256_slli_epi32(x, 1), _mm256_set1_epi32(0x7f007f00));
    return infer__parity_avx2(_mm256_or_si256(low, x));
}

/* Bytes `at` and `at + 1` of each half, eight times each. */
INFER__ON_avx2 INFER__INLINE __m256i infer__pair_of_bytes_avx2(__m256i v, int at) {
    const __m256i first = _mm256_setr_epi64x(0, 0x0101010101010101, 0, 0x0101010101010101);
    return _mm256_shuffle_epi8(v, _mm256_add_epi8(first, _mm256_set1_epi8((char)at)));
}

/* offset + v, or offset - v where a bit of `signs` is set. */
INFER__ON_avx2 INFER__INLINE __m256i infer__signed_avx2(__m256i v, __m256i signs, int at, int offset) {
    const __m256i bit = _mm256_set1_epi64x((int64_t)0x8040201008040201);
    __m256i m = _mm256_and_si256(infer__pair_of_bytes_avx2(signs, at), bit);
    m = _mm256_cmpeq_epi8(m, bit);
    return _mm256_add_epi8(_mm256_xor_si256(v, m), _mm256_sub_epi8(_mm256_set1_epi8((char)offset), m));
}

/* ---- scales ----------------------------------------------------------------------------------------------------- */

INFER__ON_avx2 INFER__INLINE __m256i infer__odd_avx2(__m256i v) { /* 2 v + 1 */
    return _mm256_or_si256(_mm256_add_epi8(v, v), _mm256_set1_epi8(1));
}

/* The fp16 d of 16 rows, times f. */
INFER__ON_avx2 INFER__INLINE void infer__iq_d_avx2(const uint8_t *src, uint64_t row_bytes, float f, __m256 *d) {
    d[0] = _mm256_mul_ps(infer__row_halves_avx2(src, row_bytes), _mm256_set1_ps(f));
    d[1] = _mm256_mul_ps(infer__row_halves_avx2(src + 8 * row_bytes, row_bytes), _mm256_set1_ps(f));
}

/* Collected scales, 2 n of a row. */
INFER__ON_avx2 INFER__INLINE void infer__put_collected_avx2(const infer__iq_scales *s, int n, const __m256 *d,
                                                            infer__unpacked *out) {
    __m256i v[8];
    infer__heads_avx2(s->of[0], 16, v);
    infer__put_products_avx2(v, n, 0, d, out->scale);
}

/* Scales of four bits, 4 n of them in the bytes at src. */
INFER__ON_avx2 INFER__INLINE void infer__put_nibble_scales_avx2(const uint8_t *src, uint64_t row_bytes, int n,
                                                                const __m256 *d, infer__unpacked *out) {
    __m256i v[8], scale[8];
    int i;
    infer__heads_avx2(src, row_bytes, v);
    INFER__UNROLL for (i = 0; i < n; i++) { /* of bytes 2 i and 2 i + 1 */
        __m256i low = infer__odd_avx2(infer__low_nibbles_avx2(v[i]));
        __m256i high = infer__odd_avx2(infer__high_nibbles_avx2(v[i]));
        scale[2 * i] = _mm256_permute2x128_si256(low, high, 0x20);
        scale[2 * i + 1] = _mm256_permute2x128_si256(low, high, 0x31);
    }
    infer__put_products_avx2(scale, 2 * n, 0, d, out->scale);
}

/* The top four bits of a word a block, even blocks in the low half. */
INFER__ON_avx2 INFER__INLINE void infer__collect_tops_avx2(__m256i words, uint8_t *to) {
    const __m256i first = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1));
    __m256i v = infer__odd_avx2(_mm256_shuffle_epi8(_mm256_srli_epi32(words, 28), first));
    _mm_storel_epi64((__m128i *)(void *)to,
                     _mm_unpacklo_epi8(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1)));
}

/* ---- IQ2, IQ3 --------------------------------------------------------------------------------------------------- */

/* Vector k (0 .. 7) of a row: half k % 2 of blocks 2 c and 2 c + 1, c = k / 2. */
#define INFER__IQ_VECTORS(v, offset)                                                                                   \
    INFER__UNROLL for (k = 0; k < 8; k++)                                                                              \
        infer__put_avx2(infer__pair_at(out->q[r], k / 2, k % 2), infer__signed_avx2(v, signs, 2 * k, offset))

INFER__ON_avx2 static void infer__iq2_xxs_unpack_avx2(const uint8_t *src, uint64_t row_bytes, int n_blocks,
                                                      infer__unpacked *out) {
    infer__iq_scales scales;
    const uint8_t *row = src + 2;
    __m256 d[2];
    int r, k;
    (void)n_blocks;
    for (r = 0; r < INFER__GROUP; r++, row += row_bytes, infer__ask(&out->ahead)) {
        __m256 a = _mm256_castsi256_ps(infer__load_32_avx2(row)),
               b = _mm256_castsi256_ps(infer__load_32_avx2(row + 32));
        __m256i packed = infer__even_odd_avx2(_mm256_castps_si256(_mm256_shuffle_ps(a, b, 0xdd)), 1);
        __m256i signs = infer__four_sevens_avx2(packed);
        infer__collect_tops_avx2(packed, scales.of[r]);
        INFER__IQ_VECTORS(INFER__BOOK_8(infer__book_iq2xxs, row + 16 * (k / 2) + 2 * (k % 2), 8), 43);
    }
    infer__iq_d_avx2(src, row_bytes, 0.125f, d);
    infer__put_collected_avx2(&scales, 4, d, out);
}

/* Indices of 9 bits with seven signs above them, which are returned as bytes, packed. */
INFER__ON_avx2 INFER__INLINE __m256i infer__iq2_xs_indices_avx2(const uint8_t *p, infer__iq_indices *to) {
    const __m256i index = _mm256_set1_epi16(511), a = infer__load_32_avx2(p), b = infer__load_32_avx2(p + 32);
    infer__put_words_avx2(to->at, _mm256_and_si256(a, index));
    infer__put_words_avx2(to->at + 16, _mm256_and_si256(b, index));
    return _mm256_packus_epi16(_mm256_srli_epi16(a, 9), _mm256_srli_epi16(b, 9));
}

INFER__ON_avx2 static void infer__iq2_xs_unpack_avx2(const uint8_t *src, uint64_t row_bytes, int n_blocks,
                                                     infer__unpacked *out) {
    infer__iq_indices indices;
    const uint8_t *row = src + 2;
    __m256 d[2];
    int r, k;
    (void)n_blocks;
    for (r = 0; r < INFER__GROUP; r++, row += row_bytes, infer__ask(&out->ahead)) {
        __m256i signs = infer__even_odd_avx2(infer__iq2_xs_indices_avx2(row, &indices), 1);
        signs = infer__parity_avx2(signs);
        INFER__IQ_VECTORS(INFER__BOOK_8(infer__book_iq2xs, indices.at + 8 * (k / 2) + 2 * (k % 2), 4), 43);
    }
    infer__iq_d_avx2(src, row_bytes, 0.125f, d);
    infer__put_nibble_scales_avx2(src + 66, row_bytes, 4, d, out);
}

INFER__ON_avx2 INFER__INLINE void infer__iq2_s_indices_avx2(const uint8_t *p, infer__iq_indices *to) {
    const __m256i up = _mm256_set1_epi64x(0x0004001000400100); /* bits 2 j and 2 j + 1 of a byte to bits 8 and 9 */
    __m256i v[2];
    int h;
    infer__bytes_to_words_avx2(p + 66, v);
    INFER__UNROLL for (h = 0; h < 2; h++) {
        __m256i high = _mm256_and_si256(_mm256_mullo_epi16(v[h], up), _mm256_set1_epi16(0x300));
        infer__put_indices_avx2(p + 2 + 16 * h, high, to->at + 16 * h);
    }
}

INFER__ON_avx2 static void infer__iq2_s_unpack_avx2(const uint8_t *src, uint64_t row_bytes, int n_blocks,
                                                    infer__unpacked *out) {
    infer__iq_indices indices;
    const uint8_t *row = src;
    __m256i signs;
    __m256 d[2];
    int r, k;
    (void)n_blocks;
    for (r = 0; r < INFER__GROUP; r++, row += row_bytes, infer__ask(&out->ahead)) {
        infer__iq2_s_indices_avx2(row, &indices);
        signs = infer__even_odd_avx2(infer__load_32_avx2(row + 34), 0);
        INFER__IQ_VECTORS(INFER__BOOK_8(infer__book_iq2s, indices.at + 8 * (k / 2) + 2 * (k % 2), 4), 43);
    }
    infer__iq_d_avx2(src, row_bytes, 0.125f, d);
    infer__put_nibble_scales_avx2(src + 74, row_bytes, 4, d, out);
}

INFER__ON_avx2 static void infer__iq3_xxs_unpack_avx2(const uint8_t *src, uint64_t row_bytes, int n_blocks,
                                                      infer__unpacked *out) {
    infer__iq_scales scales;
    const uint8_t *row = src + 2;
    __m256 d[2];
    int r, k;
    (void)n_blocks;
    for (r = 0; r < INFER__GROUP; r++, row += row_bytes, infer__ask(&out->ahead)) {
        __m256i packed = infer__even_odd_avx2(infer__load_32_avx2(row + 64), 0);
        __m256i signs = infer__four_sevens_avx2(packed);
        infer__collect_tops_avx2(packed, scales.of[r]);
        INFER__IQ_VECTORS(INFER__BOOK_4(infer__book_iq3xxs, row + 16 * (k / 2) + 4 * (k % 2), 8), 62);
    }
    infer__iq_d_avx2(src, row_bytes, 0.25f, d);
    infer__put_collected_avx2(&scales, 4, d, out);
}

INFER__ON_avx2 INFER__INLINE void infer__iq3_s_indices_avx2(const uint8_t *p, infer__iq_indices *to) {
    const __m256i bit = _mm256_broadcastsi128_si256(_mm_setr_epi16(1, 2, 4, 8, 16, 32, 64, 128));
    const __m256i two = _mm256_setr_epi64x(0, 0, 0x0101010101010101, 0x0101010101010101); /* one byte a lane */
    const __m256i bits = _mm256_broadcastsi128_si256(_mm_loadl_epi64((const __m128i *)(const void *)(p + 66)));
    int k;
    INFER__UNROLL for (k = 0; k < 4; k++) { /* 16 indices: bits of bytes 2 k and 2 k + 1 */
        __m256i high = _mm256_shuffle_epi8(bits, _mm256_add_epi8(two, _mm256_set1_epi8((char)(2 * k))));
        high = _mm256_cmpeq_epi16(_mm256_and_si256(high, bit), bit);
        infer__put_indices_avx2(p + 2 + 16 * k, _mm256_and_si256(high, _mm256_set1_epi16(256)), to->at + 16 * k);
    }
}

INFER__ON_avx2 static void infer__iq3_s_unpack_avx2(const uint8_t *src, uint64_t row_bytes, int n_blocks,
                                                    infer__unpacked *out) {
    infer__iq_indices indices;
    const uint8_t *row = src;
    __m256i signs;
    __m256 d[2];
    int r, k;
    (void)n_blocks;
    for (r = 0; r < INFER__GROUP; r++, row += row_bytes, infer__ask(&out->ahead)) {
        infer__iq3_s_indices_avx2(row, &indices);
        signs = infer__even_odd_avx2(infer__load_32_avx2(row + 74), 0);
        INFER__IQ_VECTORS(INFER__BOOK_4(infer__book_iq3s, indices.at + 16 * (k / 2) + 4 * (k % 2), 8), 15);
    }
    infer__iq_d_avx2(src, row_bytes, 1.0f, d);
    infer__put_nibble_scales_avx2(src + 106, row_bytes, 2, d, out);
}
#undef INFER__IQ_VECTORS

/* ---- IQ1: moved down instead of signs ---------------------------------------------------------------------------- */

/* 256 values of a row; down: words, a word for 8 values, of which bit 15 says that they are moved down. */
INFER__ON_avx2 INFER__INLINE void infer__put_1_avx2(const infer__iq_indices *indices, __m256i a, __m256i b,
                                                    uint8_t *q) {
    __m256i down = _mm256_packus_epi16(_mm256_srli_epi16(a, 15), _mm256_srli_epi16(b, 15));
    int k;
    down = infer__even_odd_avx2(_mm256_add_epi8(down, down), 1);
    INFER__UNROLL for (k = 0; k < 8; k++) {
        __m256i v = INFER__BOOK_8(infer__book_iq1s, indices->at + 8 * (k / 2) + 2 * (k % 2), 4);
        infer__put_avx2(infer__pair_at(q, k / 2, k % 2),
                        _mm256_sub_epi8(v, infer__pair_of_bytes_avx2(down, 2 * k)));
    }
}

/* down: what infer__put_1_avx2 wants as a and b. */
INFER__ON_avx2 INFER__INLINE void infer__iq1_s_indices_avx2(const uint8_t *p, infer__iq_indices *to, __m256i *down) {
    const __m256i up = _mm256_set1_epi64x(0x0000000400200100); /* bits 3 j .. to bits 8 .., j < 3 */
    const __m256i bits = infer__twice_avx2(p + 34);
    int h;
    INFER__UNROLL for (h = 0; h < 2; h++) {
        __m256i high;
        down[h] = infer__words_4_avx2(bits, h);
        high = _mm256_blend_epi16(_mm256_mullo_epi16(down[h], up), _mm256_srli_epi16(down[h], 1), 0x88);
        high = _mm256_and_si256(high, _mm256_set1_epi16(0x700));
        infer__put_indices_avx2(p + 2 + 16 * h, high, to->at + 16 * h);
    }
}

INFER__ON_avx2 static void infer__iq1_s_unpack_avx2(const uint8_t *src, uint64_t row_bytes, int n_blocks,
                                                    infer__unpacked *out) {
    infer__iq_scales scales;
    infer__iq_indices indices;
    const uint8_t *row = src;
    __m256 d[2];
    int r;
    (void)n_blocks;
    for (r = 0; r < INFER__GROUP; r++, row += row_bytes, infer__ask(&out->ahead)) {
        __m128i s = _mm_loadu_si128((const __m128i *)(const void *)(row + 34));
        __m256i v[2];
        infer__iq1_s_indices_avx2(row, &indices, v);
        infer__put_1_avx2(&indices, v[0], v[1], out->q[r]);
        s = _mm_and_si128(_mm_srli_epi16(s, 11), _mm_set1_epi16(14)); /* twice the three bits */
        s = _mm_or_si128(s, _mm_set1_epi16(1));
        _mm_storel_epi64((__m128i *)(void *)scales.of[r], _mm_packus_epi16(s, s));
    }
    infer__iq_d_avx2(src, row_bytes, 0.125f, d);
    infer__put_collected_avx2(&scales, 4, d, out);
}

INFER__ON_avx2 INFER__INLINE void infer__iq1_m_indices_avx2(const uint8_t *p, infer__iq_indices *to, __m256i *down) {
    /* bytes 0 .. 7, twice each */
    const __m256i bytes = _mm256_setr_epi8(0, -1, 0, -1, 1, -1, 1, -1, 2, -1, 2, -1, 3, -1, 3, -1, 4, -1, 4, -1, 5, -1,
                                           5, -1, 6, -1, 6, -1, 7, -1, 7, -1);
    const __m256i up = _mm256_set1_epi32(0x00100100), bits = infer__twice_avx2(p + 32);
    int h;
    INFER__UNROLL for (h = 0; h < 2; h++) { /* half a byte: three bits to bits 8 .. 10, down to bit 11 */
        __m256i v = _mm256_shuffle_epi8(bits, _mm256_add_epi8(bytes, _mm256_set1_epi16((short)(8 * h))));
        v = _mm256_mullo_epi16(v, up);
        infer__put_indices_avx2(p + 16 * h, _mm256_and_si256(v, _mm256_set1_epi16(0x700)), to->at + 16 * h);
        down[h] = _mm256_slli_epi16(v, 4);
    }
}

/* Eight bytes: fp16 d in their top nibbles; below, 16 times 3 bits, to twice those and one. */
INFER__ON_avx2 INFER__INLINE int32_t infer__iq1_m_half(const uint8_t *p) {
    const uint64_t top = infer__load_u64(p);
    return (int32_t)((top >> 12 & 0xf) | (top >> 24 & 0xf0) | (top >> 36 & 0xf00) | (top >> 48 & 0xf000));
}
INFER__ON_avx2 INFER__INLINE __m128i infer__iq1_m_factors_avx2(const uint8_t *p) {
    __m256i s = _mm256_broadcastsi128_si256(_mm_loadl_epi64((const __m128i *)(const void *)p));
    s = _mm256_mullo_epi16(infer__words_4_avx2(s, 0), _mm256_set1_epi64x(0x0001000800400200));
    s = _mm256_and_si256(_mm256_srli_epi16(s, 8), _mm256_set1_epi16(14));
    s = _mm256_or_si256(s, _mm256_set1_epi16(1));
    return _mm_packus_epi16(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
}

INFER__ON_avx2 static void infer__iq1_m_unpack_avx2(const uint8_t *src, uint64_t row_bytes, int n_blocks,
                                                    infer__unpacked *out) {
    infer__iq_scales scales;
    infer__iq_indices indices;
    uint16_t half[INFER__GROUP];
    const uint8_t *row = src;
    __m256 d[2];
    int r;
    (void)n_blocks;
    for (r = 0; r < INFER__GROUP; r++, row += row_bytes, infer__ask(&out->ahead)) {
        __m256i v[2];
        infer__iq1_m_indices_avx2(row, &indices, v);
        infer__put_1_avx2(&indices, v[0], v[1], out->q[r]);
        _mm_storeu_si128((__m128i *)(void *)scales.of[r], infer__iq1_m_factors_avx2(row + 48));
        half[r] = (uint16_t)infer__iq1_m_half(row + 48);
    }
    infer__iq_d_avx2((const uint8_t *)half, 2, 0.125f, d);
    infer__put_collected_avx2(&scales, 8, d, out);
}

static const infer__unpack_row infer__unpacks_avx2_iq[] = {
    INFER__QUANT(IQ2_XXS, 16, INFER__CPU_AVX2, infer__iq2_xxs_unpack_avx2)
    INFER__QUANT(IQ2_XS, 17, INFER__CPU_AVX2, infer__iq2_xs_unpack_avx2)
    INFER__QUANT(IQ3_XXS, 18, INFER__CPU_AVX2, infer__iq3_xxs_unpack_avx2)
    INFER__QUANT(IQ1_S, 19, INFER__CPU_AVX2, infer__iq1_s_unpack_avx2)
    INFER__QUANT(IQ3_S, 21, INFER__CPU_AVX2, infer__iq3_s_unpack_avx2)
    INFER__QUANT(IQ2_S, 22, INFER__CPU_AVX2, infer__iq2_s_unpack_avx2)
    INFER__QUANT(IQ1_M, 29, INFER__CPU_AVX2, infer__iq1_m_unpack_avx2)
    {-1, 0, NULL}, /* no type: some builds have none of the others */
};
#endif
