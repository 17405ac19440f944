/* unpack_avx512_iq.c: unpack functions with AVX-512 (F BW DQ VL) for the code book types, IQ1 .. IQ4.
 *
 * Owns:  infer__unpacks_avx512_iq. The plain C functions of quant_iq.c define what they compute; results are equal.
 * How:   a code book is looked up in registers: vpermi2w takes 32 indices into 64 entries at once, and masks of the
 *        higher index bits choose among its results (infer__find_avx512). A shuffle of bytes maps half bytes of entries
 *        to codes above the offset, interleaving puts them in order, and a masked subtraction mirrors the negative ones
 *        (infer__put_2_avx512, infer__put_3_avx512). Scales of 16 rows are looked up in one register, too.
 * Order: lane L of 128 bits of vector m (of four) of a row holds 16 values: those of block L + 4 * (m / 2) of 32, half
 *        m % 2. So entries and signs of the blocks L and 4 + L are brought to lane L first.
 * Numbers: Zen 5, cycles for 32 entries: 512 in registers 7, 2048 25; gathers 35 whatever the size; scalar loads 20,
 *        which IQ1 (2048) uses. Shuffles, tests into masks and loads of masks share two of four ports, so interleaving
 *        (any port) beats copies by shuffle, and signs cost least as masks loaded from memory.
 *        Values per ns in cache: IQ4 130 to 150, IQ2_XXS, IQ2_XS and IQ3_XXS 48, IQ3_S 41, IQ2_S 35, IQ1 29.
 * Start: infer__iq4_xs_unpack_avx512, infer__iq2_xs_unpack_avx512.
 */
#include "../products/cpu_int8.h"

#if defined(INFER__SIMD_AVX512)

/* ---- scales of 16 rows --------------------------------------------------------------------------------------- */

/* 8 bytes of each of 16 rows, as the low and the high half of them. */
typedef struct infer__rows8 { __m512i low, high; } infer__rows8;

/* From two vectors of eight rows. */
INFER__ON_avx512 INFER__INLINE infer__rows8 infer__rows8_split_avx512(__m512i a, __m512i b) {
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    infer__rows8 out;
    out.low = _mm512_permutex2var_epi32(a, even, b);
    out.high = _mm512_permutex2var_epi32(a, _mm512_add_epi32(even, _mm512_set1_epi32(1)), b);
    return out;
}

INFER__ON_avx512 INFER__INLINE infer__rows8 infer__rows8_avx512(const uint8_t *src, uint64_t row_bytes) {
    __m512i h[2];
    int i, j;
    INFER__UNROLL for (i = 0; i < 2; i++) {
        __m128i p[4];
        INFER__UNROLL for (j = 0; j < 4; j++, src += 2 * row_bytes)
            p[j] = _mm_unpacklo_epi64(_mm_loadl_epi64((const __m128i *)(const void *)src),
                                      _mm_loadl_epi64((const __m128i *)(const void *)(src + row_bytes)));
        h[i] = _mm512_inserti32x4(
            _mm512_inserti32x4(_mm512_inserti32x4(_mm512_castsi128_si512(p[0]), p[1], 1), p[2], 2), p[3], 3);
    }
    return infer__rows8_split_avx512(h[0], h[1]);
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

/* The layout of Q4_0: only the levels differ. */
INFER__ON_avx512 static void infer__iq4_nl_unpack_avx512(const uint8_t *src, uint64_t row_bytes, int n_blocks,
                                                         infer__unpacked *out) {
    infer__words_unpack_avx512(src, row_bytes, n_blocks, out, infer__q4_0_words, 18, 0, 0, 1, infer__iq4_table_avx512(),
                               1);
}

INFER__ON_avx512 INFER__INLINE void infer__iq4_xs_codes_avx512(const uint8_t *src, __m512i *out) {
    const __m512i table = infer__iq4_table_avx512();
    int h;
    INFER__UNROLL for (h = 0; h < 2; h++) { /* four blocks in the four lanes */
        __m512i v = _mm512_loadu_si512(src + 8 + 64 * h);
        out[2 * h] = _mm512_shuffle_epi8(table, infer__low_avx512(v));
        out[2 * h + 1] = _mm512_shuffle_epi8(table, infer__high_avx512(v));
    }
}

INFER__ON_avx512 INFER__INLINE void infer__iq4_xs_scales_avx512(const uint8_t *src, uint64_t row_bytes,
                                                                infer__unpacked *out) {
    const __m512 low = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512 high = _mm512_setr_ps(-32, -16, 0, 16, -32, -16, 0, 16, -32, -16, 0, 16, -32, -16, 0, 16);
    infer__rows8 head = infer__rows8_avx512(src, row_bytes); /* d, scales_h; scales_l */
    __m512 d = infer__low_halves_avx512(head.low);
    int i;
    INFER__UNROLL for (i = 0; i < 8; i++) {
        __m512 l = _mm512_permutexvar_ps(_mm512_srli_epi32(head.high, (unsigned)(4 * i)), low);
        __m512 h = _mm512_permutexvar_ps(_mm512_srli_epi32(head.low, (unsigned)(16 + 2 * i)), high);
        _mm512_store_ps(out->scale[i], _mm512_mul_ps(_mm512_add_ps(l, h), d));
    }
}
INFER__UNPACK_K(iq4_xs, infer__iq4_xs_scales_avx512)
#undef INFER__UNPACK_K

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

/* A table of 16 bytes for byte shuffles. */
INFER__ON_avx512 INFER__INLINE __m512i infer__lane_bytes_avx512(uint64_t a, uint64_t b) {
    return _mm512_broadcast_i32x4(_mm_set_epi64x((int64_t)b, (int64_t)a));
}

/* Seven bits in every byte and their parity above them: infer__iq_signs. */
INFER__ON_avx512 INFER__INLINE __m256i infer__parity_avx512(__m256i x) {
    const __m256i table = _mm512_castsi512_si256(infer__lane_bytes_avx512(0x8000008000808000u, 0x0080800080000080u));
    __m256i t = _mm256_ternarylogic_epi64(x, _mm256_srli_epi16(x, 4), _mm256_set1_epi8(15), 0x28); /* (a ^ b) & c */
    return _mm256_or_si256(x, _mm256_shuffle_epi8(table, t));
}

/* Four fields of seven bits to four bytes, in every 32 bits. */
INFER__ON_avx512 INFER__INLINE __m256i infer__four_sevens_avx512(__m256i x) {
    x = _mm256_ternarylogic_epi64(_mm256_set1_epi32(0x00003fff), x, _mm256_slli_epi32(x, 2), 0xca); /* a ? b : c */
    x = _mm256_ternarylogic_epi64(_mm256_set1_epi32(0x007f007f), x, _mm256_slli_epi32(x, 1), 0xca);
    return _mm256_and_si256(x, _mm256_set1_epi8(127));
}

/* Intermediate values of 16 rows in memory, each written long before it is read: narrow stores are slow to forward. */
typedef struct infer__iq_rows {
    union { __m256i row[16]; uint64_t of[16][4]; } signs; /* of four vectors, a bit each */
    union { __m512i v[2]; uint8_t of[16][8]; } scales;
    union { __m512i row[16]; uint16_t of[16][32]; } entries;
} infer__iq_rows;

/* The signs of a row, a byte for 8 values, in the order of its four vectors. They pass through memory, since that is
 * the cheapest way from a vector to mask registers. */
INFER__ON_avx512 INFER__INLINE void infer__put_signs_avx512(__m256i signs, infer__iq_rows *rows, int row) {
    const __m256i order =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
    rows->signs.row[row] = _mm256_shuffle_epi8(signs, order);
}

/* 256 codes of a row from entries of eight, without signs: words 2 m and 2 m + 1 of every lane to v[m]. A byte of an
 * entry holds four even or four odd values, so a half byte is looked up twice, by its low and its high bits; even and
 * odd are adjacent already. add: 0, or something to each byte of an entry. */
INFER__ON_avx512 INFER__INLINE void infer__spread_2_avx512(__m512i e, __m512i first, __m512i second, __m512i add,
                                                           __m512i *v) {
    const __m512i low = _mm512_set1_epi8(15);
    __m512i n = _mm512_and_si512(e, low), m = _mm512_and_si512(_mm512_srli_epi16(e, 4), low);
    __m512i a = _mm512_add_epi8(_mm512_shuffle_epi8(first, n), add);
    __m512i b = _mm512_add_epi8(_mm512_shuffle_epi8(second, n), add);
    __m512i c = _mm512_add_epi8(_mm512_shuffle_epi8(first, m), add);
    __m512i d = _mm512_add_epi8(_mm512_shuffle_epi8(second, m), add);
    __m512i x = _mm512_unpacklo_epi16(a, b), y = _mm512_unpacklo_epi16(c, d);
    v[0] = _mm512_unpacklo_epi32(x, y);
    v[1] = _mm512_unpackhi_epi32(x, y);
    x = _mm512_unpackhi_epi16(a, b);
    y = _mm512_unpackhi_epi16(c, d);
    v[2] = _mm512_unpacklo_epi32(x, y);
    v[3] = _mm512_unpackhi_epi32(x, y);
}

/* Blocks 0 .. 7 of a row, eight bytes each, to lanes of blocks L and 4 + L. */
INFER__ON_avx512 INFER__INLINE __m512i infer__lanes_avx512(__m512i v) {
    return _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7), v);
}

/* ---- IQ2: 8 values an entry, signs ------------------------------------------------------------------------------ */

/* 256 values of a row. */
INFER__ON_avx512 INFER__INLINE void infer__put_2_avx512(__m512i entries, const infer__iq_rows *rows, int row,
                                                        infer__unpacked *out) {
    const __m512i first = _mm512_set1_epi32(51 + (68 << 8) + (86 << 16)); /* 43 + 8, 25, 43 by the low two bits */
    const __m512i second = infer__lane_bytes_avx512(0x4444444433333333u, 0x0000000056565656u); /* by the high two */
    const __m512i mirror = _mm512_set1_epi8(2 * 43);
    __m512i v[4];
    int m;
    infer__spread_2_avx512(entries, first, second, _mm512_setzero_si512(), v);
    INFER__UNROLL for (m = 0; m < 4; m++)
        _mm512_store_si512(out->q[row] + 64 * m,
                           _mm512_mask_sub_epi8(v[m], rows->signs.of[row][m], mirror, v[m]));
}

INFER__ON_avx512 INFER__INLINE __m512 infer__halves_table_avx512(float f) { /* (1/2 + i) * f */
    return _mm512_mul_ps(_mm512_setr_ps(0.5f, 1.5f, 2.5f, 3.5f, 4.5f, 5.5f, 6.5f, 7.5f, 8.5f, 9.5f, 10.5f, 11.5f, 12.5f,
                                        13.5f, 14.5f, 15.5f), _mm512_set1_ps(f));
}

/* 16 scales of four bits in 8 bytes of each row. */
INFER__ON_avx512 INFER__INLINE void infer__put_iq2_scales_avx512(const uint8_t *src, uint64_t row_bytes, int at,
                                                                 infer__unpacked *out) {
    const __m512 table = infer__halves_table_avx512(0.25f);
    infer__rows8 head = infer__rows8_avx512(src, row_bytes), bits = infer__rows8_avx512(src + at, row_bytes);
    __m512 d = infer__low_halves_avx512(head.low);
    infer__put_scales_avx512(bits.low, 8, 4, table, d, out->scale);
    infer__put_scales_avx512(bits.high, 8, 4, table, d, out->scale + 8);
}

/* Scales that were collected row by row, a byte each. */
INFER__ON_avx512 INFER__INLINE void infer__put_collected_avx512(const uint8_t *src, uint64_t row_bytes,
                                                                const infer__iq_rows *rows, float f,
                                                                infer__unpacked *out) {
    const __m512 table = infer__halves_table_avx512(f);
    infer__rows8 bits = infer__rows8_split_avx512(rows->scales.v[0], rows->scales.v[1]);
    __m512 d = infer__low_halves_avx512(infer__rows8_avx512(src, row_bytes).low);
    infer__put_scales_avx512(bits.low, 4, 8, table, d, out->scale);
    infer__put_scales_avx512(bits.high, 4, 8, table, d, out->scale + 4);
}

INFER__ON_avx512 static void infer__iq2_xxs_unpack_avx512(const uint8_t *src, uint64_t row_bytes, int n_blocks,
                                                          infer__unpacked *out) {
    const __m512i spread = _mm512_broadcast_i32x4(
        _mm_setr_epi8(0, -1, 1, -1, 2, -1, 3, -1, 8, -1, 9, -1, 10, -1, 11, -1));
    infer__iq_rows rows;
    const uint8_t *row = src;
    int i;
    (void)n_blocks;
    for (i = 0; i < 16; i++, row += row_bytes) {
        __m512i v = _mm512_loadu_si512(row + 2);
        __m256i packed = _mm512_cvtepi64_epi32(_mm512_srli_epi64(v, 32));
        _mm_storel_epi64((__m128i *)(void *)rows.scales.of[i],
                         _mm256_cvtepi32_epi8(_mm256_srli_epi32(packed, 28)));
        infer__put_signs_avx512(infer__parity_avx512(infer__four_sevens_avx512(packed)), &rows, i);
    }
    for (i = 0, row = src; i < 16; i++, row += row_bytes, infer__ask(&out->ahead)) {
        __m512i v = _mm512_shuffle_epi8(infer__lanes_avx512(_mm512_loadu_si512(row + 2)), spread);
        __mmask32 high[2];
        high[0] = _mm512_test_epi16_mask(v, _mm512_set1_epi16(64));
        high[1] = _mm512_test_epi16_mask(v, _mm512_set1_epi16(128));
        infer__put_2_avx512(infer__find_avx512(infer__iq2xxs_grid, 4, v, high), &rows, i, out);
    }
    infer__put_collected_avx512(src, row_bytes, &rows, 0.25f, out);
}

INFER__ON_avx512 static void infer__iq2_xs_unpack_avx512(const uint8_t *src, uint64_t row_bytes, int n_blocks,
                                                         infer__unpacked *out) {
    infer__iq_rows rows;
    const uint8_t *row = src;
    int i;
    (void)n_blocks;
    for (i = 0; i < 16; i++, row += row_bytes) {
        __m256i seven = _mm512_cvtepi16_epi8(_mm512_srli_epi16(_mm512_loadu_si512(row + 2), 9));
        infer__put_signs_avx512(infer__parity_avx512(seven), &rows, i);
    }
    infer__put_iq2_scales_avx512(src, row_bytes, 66, out);
    for (i = 0, row = src; i < 16; i++, row += row_bytes, infer__ask(&out->ahead)) {
        __m512i v = infer__lanes_avx512(_mm512_loadu_si512(row + 2));
        __mmask32 high[3];
        high[0] = _mm512_test_epi16_mask(v, _mm512_set1_epi16(64));
        high[1] = _mm512_test_epi16_mask(v, _mm512_set1_epi16(128));
        high[2] = _mm512_test_epi16_mask(v, _mm512_set1_epi16(256));
        infer__put_2_avx512(infer__find_avx512(infer__iq2xs_grid, 8, v, high), &rows, i, out);
    }
}

INFER__ON_avx512 static void infer__iq2_s_unpack_avx512(const uint8_t *src, uint64_t row_bytes, int n_blocks,
                                                        infer__unpacked *out) {
    /* bytes of qh: that of block L to the first four words of lane L, that of block 4 + L to the others */
    const __m512i spread = _mm512_add_epi8(infer__lane_bytes_avx512(0, 0x0404040404040404u),
                                           _mm512_setr_epi32(0, 0, 0, 0, 0x01010101, 0x01010101, 0x01010101, 0x01010101,
                                                             0x02020202, 0x02020202, 0x02020202, 0x02020202, 0x03030303,
                                                             0x03030303, 0x03030303, 0x03030303));
    const __m512i bits = _mm512_set1_epi64(0x0040001000040001);
    infer__iq_rows rows;
    const uint8_t *row = src;
    int i;
    (void)n_blocks;
    for (i = 0; i < 16; i++, row += row_bytes)
        infer__put_signs_avx512(_mm256_loadu_si256((const __m256i *)(const void *)(row + 34)), &rows, i);
    infer__put_iq2_scales_avx512(src, row_bytes, 74, out);
    for (i = 0, row = src; i < 16; i++, row += row_bytes, infer__ask(&out->ahead)) {
        __m256i qs = _mm256_permutevar8x32_epi32(_mm256_loadu_si256((const __m256i *)(const void *)(row + 2)),
                                                 _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
        __m512i v = _mm512_cvtepu8_epi16(qs);
        __m512i qh = _mm512_shuffle_epi8(_mm512_set1_epi64((int64_t)infer__load_u64(row + 66)), spread);
        __mmask32 high[4];
        high[0] = _mm512_test_epi16_mask(v, _mm512_set1_epi16(64));
        high[1] = _mm512_test_epi16_mask(v, _mm512_set1_epi16(128));
        high[2] = _mm512_test_epi16_mask(qh, bits);
        high[3] = _mm512_test_epi16_mask(qh, _mm512_slli_epi64(bits, 1));
        infer__put_2_avx512(infer__find_avx512(infer__iq2s_grid, 16, v, high), &rows, i, out);
    }
}

/* ---- IQ3: 4 values an entry, signs ------------------------------------------------------------------------------ */

/* Half h of 256 values of a row from 32 entries; table: offset + level. */
INFER__ON_avx512 INFER__INLINE void infer__put_3_avx512(__m512i e, __m512i table, int offset,
                                                        const infer__iq_rows *rows, int row, int h,
                                                        infer__unpacked *out) {
    const __m512i low = _mm512_set1_epi8(15), mirror = _mm512_set1_epi8((char)(2 * offset));
    __m512i a = _mm512_shuffle_epi8(table, _mm512_and_si512(e, low));
    __m512i b = _mm512_shuffle_epi8(table, _mm512_and_si512(_mm512_srli_epi16(e, 4), low));
    __m512i v = _mm512_unpacklo_epi8(a, b), w = _mm512_unpackhi_epi8(a, b);
    v = _mm512_mask_sub_epi8(v, rows->signs.of[row][2 * h], mirror, v);
    w = _mm512_mask_sub_epi8(w, rows->signs.of[row][2 * h + 1], mirror, w);
    _mm512_store_si512(out->q[row] + 128 * h, v);
    _mm512_store_si512(out->q[row] + 128 * h + 64, w);
}

INFER__ON_avx512 static void infer__iq3_xxs_unpack_avx512(const uint8_t *src, uint64_t row_bytes, int n_blocks,
                                                          infer__unpacked *out) {
    const __m512i table = infer__lane_bytes_avx512(0x7c726a625a524a42u, 0); /* 62 + 4, 12, 20, .. 52, 62 */
    infer__iq_rows rows;
    const uint8_t *row = src;
    int i, h;
    (void)n_blocks;
    for (i = 0; i < 16; i++, row += row_bytes) {
        __m256i packed = _mm256_loadu_si256((const __m256i *)(const void *)(row + 66));
        _mm_storel_epi64((__m128i *)(void *)rows.scales.of[i],
                         _mm256_cvtepi32_epi8(_mm256_srli_epi32(packed, 28)));
        infer__put_signs_avx512(infer__parity_avx512(infer__four_sevens_avx512(packed)), &rows, i);
    }
    for (i = 0, row = src; i < 16; i++, row += row_bytes, infer__ask(&out->ahead))
        INFER__UNROLL for (h = 0; h < 2; h++) {
            __m512i v = _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)(const void *)(row + 2 + 32 * h)));
            __mmask32 high[2];
            high[0] = _mm512_test_epi16_mask(v, _mm512_set1_epi16(64));
            high[1] = _mm512_test_epi16_mask(v, _mm512_set1_epi16(128));
            infer__put_3_avx512(infer__find_avx512(infer__iq3xxs_grid, 4, v, high), table, 62, &rows, i, h, out);
        }
    infer__put_collected_avx512(src, row_bytes, &rows, 0.5f, out);
}

INFER__ON_avx512 static void infer__iq3_s_unpack_avx512(const uint8_t *src, uint64_t row_bytes, int n_blocks,
                                                        infer__unpacked *out) {
    const __m512i table = infer__lane_bytes_avx512(0x1e1c1a1816141210u, 0); /* 15 + 1, 3, .. 15 */
    const __m512 odd = _mm512_setr_ps(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    infer__iq_rows rows;
    const uint8_t *row = src;
    int i, h;
    (void)n_blocks;
    for (i = 0; i < 16; i++, row += row_bytes)
        infer__put_signs_avx512(_mm256_loadu_si256((const __m256i *)(const void *)(row + 74)), &rows, i);
    infer__put_scales_avx512(infer__rows8_avx512(src + 102, row_bytes).high, 8, 4, odd,
                             infer__low_halves_avx512(infer__rows8_avx512(src, row_bytes).low), out->scale);
    for (i = 0, row = src; i < 16; i++, row += row_bytes, infer__ask(&out->ahead))
        INFER__UNROLL for (h = 0; h < 2; h++) {
            __m512i v = _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)(const void *)(row + 2 + 32 * h)));
            __mmask32 high[3];
            high[0] = _mm512_test_epi16_mask(v, _mm512_set1_epi16(64));
            high[1] = _mm512_test_epi16_mask(v, _mm512_set1_epi16(128));
            high[2] = infer__load_u32(row + 66 + 4 * h);
            infer__put_3_avx512(infer__find_avx512(infer__iq3s_grid, 8, v, high), table, 15, &rows, i, h, out);
        }
}

/* ---- IQ1: 8 values an entry, moved up or down ------------------------------------------------------------------- */

/* 32 indices of a row to entries of the 2048. */
INFER__ON_avx512 INFER__INLINE void infer__find_2048_avx512(uint16_t *entries) {
    int i;
    INFER__UNROLL for (i = 0; i < 32; i += 8) {
        __m128i v = _mm_cvtsi32_si128(infer__iq1s_grid[entries[i]]);
        v = _mm_insert_epi16(v, infer__iq1s_grid[entries[i + 1]], 1);
        v = _mm_insert_epi16(v, infer__iq1s_grid[entries[i + 2]], 2);
        v = _mm_insert_epi16(v, infer__iq1s_grid[entries[i + 3]], 3);
        v = _mm_insert_epi16(v, infer__iq1s_grid[entries[i + 4]], 4);
        v = _mm_insert_epi16(v, infer__iq1s_grid[entries[i + 5]], 5);
        v = _mm_insert_epi16(v, infer__iq1s_grid[entries[i + 6]], 6);
        v = _mm_insert_epi16(v, infer__iq1s_grid[entries[i + 7]], 7);
        _mm_store_si128((__m128i *)(void *)(entries + i), v);
    }
}

/* 256 values of a row: 8 * level + add. */
INFER__ON_avx512 INFER__INLINE void infer__put_1_avx512(__m512i entries, __m512i add, uint8_t *q) {
    const __m512i first = _mm512_set1_epi32((8 << 8) + (16 << 16));
    const __m512i second = infer__lane_bytes_avx512(0x0808080800000000u, 0x0000000010101010u);
    __m512i v[4];
    int m;
    infer__spread_2_avx512(entries, first, second, add, v);
    INFER__UNROLL for (m = 0; m < 4; m++) _mm512_store_si512(q + 64 * m, v[m]);
}

/* (2 * i + 1) / 8 for the low three bits of i. */
INFER__ON_avx512 INFER__INLINE __m512 infer__iq1_table_avx512(void) {
    const __m512 odd = _mm512_setr_ps(1, 3, 5, 7, 9, 11, 13, 15, 1, 3, 5, 7, 9, 11, 13, 15);
    return _mm512_mul_ps(odd, _mm512_set1_ps(0.125f));
}

INFER__ON_avx512 static void infer__iq1_s_unpack_avx512(const uint8_t *src, uint64_t row_bytes, int n_blocks,
                                                        infer__unpacked *out) {
    const __m512i shift = _mm512_set1_epi64(0x0009000600030000);
    const __m512i each = _mm512_setr_epi32(0, 0, 0x40004, 0x40004, 0x10001, 0x10001, 0x50005, 0x50005, 0x20002, 0x20002,
                                           0x60006, 0x60006, 0x30003, 0x30003, 0x70007, 0x70007);
    const __m256i lanes = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const __m512 table = infer__iq1_table_avx512();
    infer__rows8 a = infer__rows8_avx512(src + 34, row_bytes), b = infer__rows8_avx512(src + 42, row_bytes);
    __m512 d = infer__low_halves_avx512(infer__rows8_avx512(src, row_bytes).low);
    infer__iq_rows rows;
    const uint8_t *row = src;
    int i;
    (void)n_blocks;
    infer__put_scales_avx512(_mm512_srli_epi32(a.low, 12), 2, 16, table, d, out->scale);
    infer__put_scales_avx512(_mm512_srli_epi32(a.high, 12), 2, 16, table, d, out->scale + 2);
    infer__put_scales_avx512(_mm512_srli_epi32(b.low, 12), 2, 16, table, d, out->scale + 4);
    infer__put_scales_avx512(_mm512_srli_epi32(b.high, 12), 2, 16, table, d, out->scale + 6);
    for (i = 0; i < 16; i++, row += row_bytes) {
        __m256i qs = _mm256_loadu_si256((const __m256i *)(const void *)(row + 2));
        __m512i qh = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)(const void *)(row + 34)));
        qh = _mm512_slli_epi16(_mm512_srlv_epi16(_mm512_permutexvar_epi16(each, qh), shift), 8);
        qh = _mm512_and_si512(qh, _mm512_set1_epi16(0x700));
        rows.entries.row[i] = _mm512_or_si512(_mm512_cvtepu8_epi16(_mm256_permutevar8x32_epi32(qs, lanes)), qh);
    }
    for (i = 0; i < 16; i++) infer__find_2048_avx512(rows.entries.of[i]);
    for (i = 0, row = src; i < 16; i++, row += row_bytes, infer__ask(&out->ahead)) {
        __m512i qh = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)(const void *)(row + 34)));
        __m512i down = _mm512_srai_epi16(_mm512_permutexvar_epi16(each, qh), 15);
        infer__put_1_avx512(rows.entries.row[i], _mm512_andnot_si512(down, _mm512_set1_epi8(2)), out->q[i]);
    }
}

INFER__ON_avx512 static void infer__iq1_m_unpack_avx512(const uint8_t *src, uint64_t row_bytes, int n_blocks,
                                                        infer__unpacked *out) {
    const __m512i four = _mm512_set1_epi32(15);
    const __m512 table = infer__iq1_table_avx512();
    infer__rows8 bits = infer__rows8_avx512(src + 48, row_bytes);
    __m512i top = _mm512_or_si512( /* fp16 d: the top four bits of four words */
        _mm512_or_si512(_mm512_and_si512(_mm512_srli_epi32(bits.low, 12), four),
                        _mm512_slli_epi32(_mm512_srli_epi32(bits.low, 28), 4)),
        _mm512_or_si512(_mm512_slli_epi32(_mm512_and_si512(_mm512_srli_epi32(bits.high, 12), four), 8),
                        _mm512_slli_epi32(_mm512_srli_epi32(bits.high, 28), 12)));
    __m512 d = infer__low_halves_avx512(top);
    infer__iq_rows rows;
    const uint8_t *row = src;
    int i;
    (void)n_blocks;
    infer__put_scales_avx512(bits.low, 4, 3, table, d, out->scale);
    infer__put_scales_avx512(_mm512_srli_epi32(bits.low, 16), 4, 3, table, d, out->scale + 4);
    infer__put_scales_avx512(bits.high, 4, 3, table, d, out->scale + 8);
    infer__put_scales_avx512(_mm512_srli_epi32(bits.high, 16), 4, 3, table, d, out->scale + 12);
    for (i = 0; i < 16; i++, row += row_bytes) {
        __m512i qs = _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)(const void *)row));
        __m512i qh = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)(row + 32)));
        qh = _mm512_or_si512(_mm512_slli_epi32(qh, 8), _mm512_slli_epi32(qh, 20)); /* a word: half a byte at bit 8 */
        qh = _mm512_and_si512(qh, _mm512_set1_epi16(0x700));
        rows.entries.row[i] = infer__lanes_avx512(_mm512_or_si512(qs, qh));
    }
    for (i = 0; i < 16; i++) infer__find_2048_avx512(rows.entries.of[i]);
    for (i = 0, row = src; i < 16; i++, row += row_bytes, infer__ask(&out->ahead)) {
        __m512i qh = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)(row + 32)));
        __mmask32 up;
        qh = infer__lanes_avx512(_mm512_or_si512(qh, _mm512_slli_epi32(qh, 12)));
        up = _mm512_testn_epi16_mask(qh, _mm512_set1_epi16(8));
        infer__put_1_avx512(rows.entries.row[i], _mm512_maskz_mov_epi16(up, _mm512_set1_epi8(2)), out->q[i]);
    }
}

static const infer__unpack_row infer__unpacks_avx512_iq[] = {
    INFER__QUANT(IQ2_XXS, 16, INFER__CPU_AVX2 | INFER__CPU_AVX512, infer__iq2_xxs_unpack_avx512)
    INFER__QUANT(IQ2_XS, 17, INFER__CPU_AVX2 | INFER__CPU_AVX512, infer__iq2_xs_unpack_avx512)
    INFER__QUANT(IQ3_XXS, 18, INFER__CPU_AVX2 | INFER__CPU_AVX512, infer__iq3_xxs_unpack_avx512)
    INFER__QUANT(IQ1_S, 19, INFER__CPU_AVX2 | INFER__CPU_AVX512, infer__iq1_s_unpack_avx512)
    INFER__QUANT(IQ4_NL, 20, INFER__CPU_AVX2 | INFER__CPU_AVX512, infer__iq4_nl_unpack_avx512)
    INFER__QUANT(IQ3_S, 21, INFER__CPU_AVX2 | INFER__CPU_AVX512, infer__iq3_s_unpack_avx512)
    INFER__QUANT(IQ2_S, 22, INFER__CPU_AVX2 | INFER__CPU_AVX512, infer__iq2_s_unpack_avx512)
    INFER__QUANT(IQ4_XS, 23, INFER__CPU_AVX2 | INFER__CPU_AVX512, infer__iq4_xs_unpack_avx512)
    INFER__QUANT(IQ1_M, 29, INFER__CPU_AVX2 | INFER__CPU_AVX512, infer__iq1_m_unpack_avx512)
    {-1, 0, NULL}, /* no type: some builds have none of the others */
};
#endif
