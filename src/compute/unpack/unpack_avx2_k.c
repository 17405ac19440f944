/* unpack_avx2_k.c: unpack functions with AVX2 for the types with blocks of 64 to 256 values, and the table of all.
 *
 * Owns:  infer__unpacks_avx2.
 * How:   codes as in unpack_avx2.c: 16 bytes of 8 rows are transposed, then fields of their bytes are codes of several
 *        blocks. Scales of 16 rows are transposed as bytes (infer__heads_avx2), put together there, 32 at a time, then
 *        converted and multiplied.
 * Start: INFER__UNPACK_K_AVX2.
 */
#include "../products/cpu_int8.h"

#if defined(INFER__SIMD_AVX2)

/* ---- scales ---------------------------------------------------------------------------------------------------- */

/* 16 bytes of 16 rows, transposed: vector i has byte 2 i of all rows, then byte 2 i + 1. */
INFER__ON_avx2 INFER__INLINE void infer__heads_avx2(const uint8_t *src, uint64_t row_bytes, __m256i *out) {
    __m256i v[8], t[8];
    int i;
    INFER__UNROLL for (i = 0; i < 8; i++) /* rows i and i + 8 */
        v[i] = infer__two_avx2(src + (uint64_t)i * row_bytes, src + (uint64_t)(i + 8) * row_bytes);
    INFER__UNROLL for (i = 0; i < 4; i++) { /* bytes 0 .. 7 of rows i and i + 4; bytes 8 .. 15 */
        t[i] = _mm256_unpacklo_epi8(v[i], v[i + 4]);
        t[4 + i] = _mm256_unpackhi_epi8(v[i], v[i + 4]);
    }
    INFER__UNROLL for (i = 0; i < 8; i += 4) { /* four bytes of rows 0 2 4 6, of rows 1 3 5 7, the next four .. */
        v[i] = _mm256_unpacklo_epi8(t[i], t[i + 2]);
        v[i + 1] = _mm256_unpacklo_epi8(t[i + 1], t[i + 3]);
        v[i + 2] = _mm256_unpackhi_epi8(t[i], t[i + 2]);
        v[i + 3] = _mm256_unpackhi_epi8(t[i + 1], t[i + 3]);
    }
    INFER__UNROLL for (i = 0; i < 8; i += 2) {
        out[i] = _mm256_permute4x64_epi64(_mm256_unpacklo_epi8(v[i], v[i + 1]), 0xd8);
        out[i + 1] = _mm256_permute4x64_epi64(_mm256_unpackhi_epi8(v[i], v[i + 1]), 0xd8);
    }
}

/* fp16 of 16 rows: d[0] and d[1] from a vector of their two bytes. */
INFER__ON_avx2 INFER__INLINE void infer__head_halves_avx2(__m256i v, __m256 *d) {
    __m128i low = _mm256_castsi256_si128(v), high = _mm256_extracti128_si256(v, 1);
    d[0] = _mm256_cvtph_ps(_mm_unpacklo_epi8(low, high));
    d[1] = _mm256_cvtph_ps(_mm_unpackhi_epi8(low, high));
}

/* 2 n scales of 16 rows as bytes: times d to to[0] .. to[2 n - 1]. */
INFER__ON_avx2 INFER__INLINE void infer__put_products_avx2(const __m256i *bytes, int n, int is_signed, const __m256 *d,
                                                           float (*to)[INFER__GROUP]) {
    int i, r;
    INFER__UNROLL for (i = 0; i < 2 * n; i++) {
        __m128i lane = i & 1 ? _mm256_extracti128_si256(bytes[i / 2], 1) : _mm256_castsi256_si128(bytes[i / 2]);
        INFER__UNROLL for (r = 0; r < 2; r++) {
            __m128i v = r ? _mm_unpackhi_epi64(lane, lane) : lane;
            __m256i w = is_signed ? _mm256_cvtepi8_epi32(v) : _mm256_cvtepu8_epi32(v);
            _mm256_store_ps(to[i] + 8 * r, _mm256_mul_ps(d[r], _mm256_cvtepi32_ps(w)));
        }
    }
}

INFER__ON_avx2 INFER__INLINE __m256i infer__and_avx2(__m256i v, int mask) {
    return _mm256_and_si256(v, _mm256_set1_epi8((char)mask));
}
INFER__ON_avx2 INFER__INLINE __m256 infer__negative_avx2(__m256 v) { return _mm256_xor_ps(v, _mm256_set1_ps(-0.0f)); }

/* The scales and minima of Q4_K and Q5_K: d, dmin, 12 bytes. */
INFER__ON_avx2 INFER__INLINE void infer__put_scale_min_avx2(const uint8_t *src, uint64_t row_bytes,
                                                            infer__unpacked *out) {
    __m256i v[8], scale[4], min[4];
    __m256 d[2], dmin[2];
    int i;
    infer__heads_avx2(src, row_bytes, v);
    infer__head_halves_avx2(v[0], d);
    infer__head_halves_avx2(v[1], dmin);
    INFER__UNROLL for (i = 0; i < 2; i++) {
        scale[i] = infer__and_avx2(v[2 + i], 63);
        min[i] = infer__and_avx2(v[4 + i], 63);
        scale[2 + i] = _mm256_or_si256(infer__and_avx2(v[6 + i], 15),
                                       infer__and_avx2(_mm256_srli_epi16(v[2 + i], 2), 0x30));
        min[2 + i] = _mm256_or_si256(infer__high_nibbles_avx2(v[6 + i]),
                                     infer__and_avx2(_mm256_srli_epi16(v[4 + i], 2), 0x30));
        dmin[i] = infer__negative_avx2(dmin[i]);
    }
    infer__put_products_avx2(scale, 4, 0, d, out->scale);
    infer__put_products_avx2(min, 4, 0, dmin, out->min);
}

/* ---- codes ----------------------------------------------------------------------------------------------------- */

/* v shifted right by `right` bits (negative: left), the bits of `mask` of every byte. */
INFER__ON_avx2 INFER__INLINE __m256i infer__field_avx2(__m256i v, int right, int mask) {
    return infer__and_avx2(right < 0 ? _mm256_slli_epi16(v, -right) : _mm256_srli_epi16(v, right), mask);
}

/* infer__NAME_codes_avx2: half h of all blocks (or as many codes) of 8 rows, from p on, to the tile at q.
 *
 * Codes of `width` bits (4 or 2): 32 bytes have them for as many blocks as a byte has fields. Above them comes bit i of
 * the 32 bytes at `top` for block i, unless top is NULL. */
INFER__ON_avx2 INFER__INLINE void infer__fields_avx2(const uint8_t *p, const uint8_t *top, uint64_t row_bytes,
                                                     int width, int h, uint8_t *q) {
    const int fields = 8 / width;
    __m256i bits[4];
    int b, i, j, k;
    if (top) infer__rows_16_avx2(top + 16 * h, row_bytes, bits);
    INFER__UNROLL for (b = 0, i = 0; b < 8; b += fields, i++) {
        __m256i a[4], v[4];
        infer__rows_16_avx2(p + 32 * i + 16 * h, row_bytes, a);
        INFER__UNROLL for (k = 0; k < fields; k++) {
            INFER__UNROLL for (j = 0; j < 4; j++) {
                v[j] = infer__field_avx2(a[j], width * k, (1 << width) - 1);
                if (top) v[j] = _mm256_or_si256(v[j], infer__field_avx2(bits[j], b + k - width, 1 << width));
            }
            infer__put_half_avx2(q, b + k, h, v);
        }
    }
}
#  define infer__q4_k_codes_avx2(p, row_bytes, h, q) infer__fields_avx2((p) + 16, NULL, row_bytes, 4, h, q)
#  define infer__q5_k_codes_avx2(p, row_bytes, h, q) infer__fields_avx2((p) + 48, (p) + 16, row_bytes, 4, h, q)
#  define infer__q2_k_codes_avx2(p, row_bytes, h, q) infer__fields_avx2((p) + 16, NULL, row_bytes, 2, h, q)
#  define infer__q3_k_codes_avx2(p, row_bytes, h, q) infer__fields_avx2((p) + 32, p, row_bytes, 2, h, q)
#  define infer__tq2_0_codes_avx2(p, row_bytes, h, q) infer__fields_avx2(p, NULL, row_bytes, 2, h, q)

INFER__ON_avx2 INFER__INLINE void infer__q6_k_codes_avx2(const uint8_t *p, uint64_t row_bytes, int h, uint8_t *q) {
    int i, j, k;
    for (i = 0; i < 2; i++) {
        __m256i low[2][4], high[4], v[4]; /* bits 2 k of a byte of `high`: of block 4 i + k */
        infer__rows_16_avx2(p + 128 + 32 * i + 16 * h, row_bytes, high);
        INFER__UNROLL for (k = 0; k < 2; k++)
            infer__rows_16_avx2(p + 64 * i + 32 * k + 16 * h, row_bytes, low[k]);
        INFER__UNROLL for (k = 0; k < 4; k++) {
            INFER__UNROLL for (j = 0; j < 4; j++)
                v[j] = _mm256_or_si256(infer__field_avx2(low[k % 2][j], k / 2 * 4, 15),
                                       infer__field_avx2(high[j], 2 * k - 4, 0x30));
            infer__put_half_avx2(q, 4 * i + k, h, v);
        }
    }
}

/* The next ternary digits of v: v * 3 / 256; then v * 3 modulo 256. */
INFER__ON_avx2 INFER__INLINE __m256i infer__next_digit_avx2(__m256i *v) {
    const __m256i zero = _mm256_setzero_si256();
    __m256i not_1 = _mm256_cmpeq_epi8(_mm256_subs_epu8(*v, _mm256_set1_epi8(85)), zero); /* v <= 85 */
    __m256i not_2 = _mm256_cmpeq_epi8(_mm256_subs_epu8(*v, _mm256_set1_epi8((char)170)), zero);
    *v = _mm256_add_epi8(*v, _mm256_add_epi8(*v, *v));
    return _mm256_add_epi8(_mm256_set1_epi8(2), _mm256_add_epi8(not_1, not_2));
}

/* TQ1_0: digit t of 32 bytes is block t; of 16 more half a block, from value 160 on; of 4 more, from value 240 on,
 * four values. */
INFER__ON_avx2 INFER__INLINE void infer__tq1_0_codes_avx2(const uint8_t *p, uint64_t row_bytes, int h, uint8_t *q) {
    __m256i a[4], v[4], last;
    int i, j, t;
    for (i = h; i < 3; i += 2) {
        infer__rows_16_avx2(p + 16 * i, row_bytes, a);
        INFER__UNROLL for (t = 0; t < 5; t++) {
            INFER__UNROLL for (j = 0; j < 4; j++) v[j] = infer__next_digit_avx2(&a[j]);
            if (i < 2) infer__put_half_avx2(q, t, i, v);
            else infer__put_half_avx2(q, 5 + t / 2, t % 2, v);
        }
    }
    if (h == 0) return;
    last = infer__rows_4_avx2(p + 48, row_bytes);
    INFER__UNROLL for (j = 0; j < 4; j++) v[j] = infer__next_digit_avx2(&last);
    infer__put_half_avx2(q, 7, 1, v);
}

INFER__ON_avx2 INFER__INLINE void infer__iq4_xs_codes_avx2(const uint8_t *p, uint64_t row_bytes, int h, uint8_t *q) {
    const __m256i table = infer__iq4_table_avx2();
    __m256i v[8];
    int b;
    for (b = 4 * h; b < 4 * h + 4; b++) {
        infer__levels_avx2(p + 8 + 16 * b, row_bytes, table, v);
        infer__put_half_avx2(q, b, 0, v);
        infer__put_half_avx2(q, b, 1, v + 4);
    }
}

/* ---- scales, and the types -------------------------------------------------------------------------------------- */

#define infer__put_q4_k_avx2 infer__put_scale_min_avx2
#define infer__put_q5_k_avx2 infer__put_scale_min_avx2

INFER__ON_avx2 INFER__INLINE void infer__put_q6_k_avx2(const uint8_t *src, uint64_t row_bytes, infer__unpacked *out) {
    __m256i v[8];
    __m256 d[2];
    d[0] = infer__row_halves_avx2(src + 208, row_bytes);
    d[1] = infer__row_halves_avx2(src + 208 + 8 * row_bytes, row_bytes);
    infer__heads_avx2(src + 192, row_bytes, v);
    infer__put_products_avx2(v, 8, 1, d, out->scale);
}

INFER__ON_avx2 INFER__INLINE void infer__put_q2_k_avx2(const uint8_t *src, uint64_t row_bytes, infer__unpacked *out) {
    __m256i v[8], scale[8], min[8];
    __m256 d[2], dmin[2];
    int i;
    infer__half_pairs_avx2(src + 80, row_bytes, &d[0], &dmin[0]);
    infer__half_pairs_avx2(src + 80 + 8 * row_bytes, row_bytes, &d[1], &dmin[1]);
    dmin[0] = infer__negative_avx2(dmin[0]);
    dmin[1] = infer__negative_avx2(dmin[1]);
    infer__heads_avx2(src, row_bytes, v);
    INFER__UNROLL for (i = 0; i < 8; i++) {
        scale[i] = infer__low_nibbles_avx2(v[i]);
        min[i] = infer__high_nibbles_avx2(v[i]);
    }
    infer__put_products_avx2(scale, 8, 0, d, out->scale);
    infer__put_products_avx2(min, 8, 0, dmin, out->min);
}

/* The fp16 at p of 8 rows: the scales of `per` blocks of 32 from scale[0] on. */
INFER__ON_avx2 INFER__INLINE void infer__put_shared_avx2(const uint8_t *p, uint64_t row_bytes, int per, float *scale) {
    const __m256 d = infer__row_halves_avx2(p, row_bytes);
    int i;
    INFER__UNROLL for (i = 0; i < per; i++) _mm256_store_ps(scale + INFER__GROUP * i, d);
}

/* One for all blocks: the fp16 at src. */
INFER__ON_avx2 INFER__INLINE void infer__put_one_scale_avx2(const uint8_t *src, uint64_t row_bytes,
                                                            infer__unpacked *out) {
    int r;
    for (r = 0; r < INFER__GROUP; r += 8)
        infer__put_shared_avx2(src + (uint64_t)r * row_bytes, row_bytes, 8, out->scale[0] + r);
}
INFER__ON_avx2 INFER__INLINE void infer__put_tq2_0_avx2(const uint8_t *src, uint64_t row_bytes, infer__unpacked *out) {
    infer__put_one_scale_avx2(src + 64, row_bytes, out);
}
INFER__ON_avx2 INFER__INLINE void infer__put_tq1_0_avx2(const uint8_t *src, uint64_t row_bytes, infer__unpacked *out) {
    infer__put_one_scale_avx2(src + 52, row_bytes, out);
}

INFER__ON_avx2 INFER__INLINE void infer__put_q3_k_avx2(const uint8_t *src, uint64_t row_bytes, infer__unpacked *out) {
    __m256i v[8], scale[8];
    __m256 d[2];
    int i;
    infer__heads_avx2(src + 96, row_bytes, v);
    infer__head_halves_avx2(v[6], d);
    INFER__UNROLL for (i = 0; i < 8; i++) { /* scales 2 i and 2 i + 1 */
        __m256i high = v[4 + i % 2];
        high = infer__and_avx2(i < 2   ? _mm256_slli_epi16(high, 4)
                               : i < 4 ? _mm256_slli_epi16(high, 2)
                               : i < 6 ? high
                                       : _mm256_srli_epi16(high, 2),
                               0x30);
        scale[i] = i < 4 ? infer__low_nibbles_avx2(v[i]) : infer__high_nibbles_avx2(v[i - 4]);
        scale[i] = _mm256_sub_epi8(_mm256_or_si256(scale[i], high), _mm256_set1_epi8(32));
    }
    infer__put_products_avx2(scale, 8, 1, d, out->scale);
}

/* v in both halves, shifted right by `low` in the first and by `high` in the second (negative: left). */
INFER__ON_avx2 INFER__INLINE __m256i infer__shift_avx2(__m256i v, int low, int high) {
    if (low < 0 || high < 0)
        return _mm256_sllv_epi32(v, _mm256_setr_epi32(-low, -low, -low, -low, -high, -high, -high, -high));
    return _mm256_srlv_epi32(v, _mm256_setr_epi32(low, low, low, low, high, high, high, high));
}

INFER__ON_avx2 INFER__INLINE __m256i infer__half_twice_avx2(__m256i v, int half) {
    return half ? _mm256_permute4x64_epi64(v, 0xee) : _mm256_permute4x64_epi64(v, 0x44);
}

INFER__ON_avx2 INFER__INLINE void infer__put_iq4_xs_avx2(const uint8_t *src, uint64_t row_bytes, infer__unpacked *out) {
    __m256i v[8], scale[4];
    __m256 d[2];
    int c;
    infer__heads_avx2(src, row_bytes, v);
    infer__head_halves_avx2(v[0], d);
    INFER__UNROLL for (c = 0; c < 4; c++) { /* scales 2 c and 2 c + 1 */
        __m256i low = infer__half_twice_avx2(v[2 + c / 2], c % 2), high = infer__half_twice_avx2(v[1], c / 2);
        low = infer__and_avx2(infer__shift_avx2(low, 0, 4), 15);
        high = infer__and_avx2(c % 2 ? infer__shift_avx2(high, 0, 2) : infer__shift_avx2(high, -4, -2), 0x30);
        scale[c] = _mm256_sub_epi8(_mm256_or_si256(low, high), _mm256_set1_epi8(32));
    }
    infer__put_products_avx2(scale, 4, 1, d, out->scale);
}

#define INFER__UNPACK_K_AVX2(name)                                                                                     \
    INFER__ON_avx2 static void infer__##name##_unpack_avx2(const uint8_t *src, uint64_t row_bytes, int n_blocks,       \
                                                           infer__unpacked *out) {                                     \
        infer__ahead ahead = out->ahead;                                                                               \
        int r, h, i;                                                                                                   \
        (void)n_blocks;                                                                                                \
        for (r = 0; r < INFER__GROUP; r += 8)                                                                          \
            INFER__UNROLL for (h = 0; h < 2; h++) {                                                                    \
                infer__##name##_codes_avx2(src + (uint64_t)r * row_bytes, row_bytes, h, out->q[0] + 4 * r);            \
                for (i = 0; i < 4; i++) infer__ask(&ahead);                                                            \
            }                                                                                                          \
        infer__put_##name##_avx2(src, row_bytes, out);                                                                 \
        out->ahead = ahead;                                                                                            \
        out->tiled = 1;                                                                                                \
    }
INFER__UNPACK_K_AVX2(q2_k)
INFER__UNPACK_K_AVX2(q3_k)
INFER__UNPACK_K_AVX2(q4_k)
INFER__UNPACK_K_AVX2(q5_k)
INFER__UNPACK_K_AVX2(q6_k)
INFER__UNPACK_K_AVX2(iq4_xs)
INFER__UNPACK_K_AVX2(tq1_0)
INFER__UNPACK_K_AVX2(tq2_0)
#undef INFER__UNPACK_K_AVX2
#undef infer__q2_k_codes_avx2
#undef infer__q3_k_codes_avx2
#undef infer__q4_k_codes_avx2
#undef infer__q5_k_codes_avx2
#undef infer__tq2_0_codes_avx2
#undef infer__put_q4_k_avx2
#undef infer__put_q5_k_avx2

/* ---- types with blocks of 64 and 128 values --------------------------------------------------------------------- */

/* infer__NAME_part_avx2: a block of the type of 8 rows: codes to the tile at q, scales to `scale`. Here 0 and 2. */
INFER__ON_avx2 INFER__INLINE void infer__q1_0_part_avx2(const uint8_t *p, uint64_t row_bytes, uint8_t *q,
                                                        float *scale) {
    __m256i words[4], v[8];
    int i, j;
    infer__rows_16_avx2(p + 2, row_bytes, words);
    INFER__UNROLL for (i = 0; i < 4; i++) {
        INFER__UNROLL for (j = 0; j < 8; j++) v[j] = infer__and_avx2(infer__four_bits_avx2(words[i], j), 2);
        infer__put_half_avx2(q, i, 0, v);
        infer__put_half_avx2(q, i, 1, v + 4);
    }
    infer__put_shared_avx2(p, row_bytes, 4, scale);
}

INFER__ON_avx2 INFER__INLINE void infer__q2_0_part_avx2(const uint8_t *p, uint64_t row_bytes, uint8_t *q,
                                                        float *scale) {
    __m256i bytes[4], v[4];
    int i, j;
    infer__rows_16_avx2(p + 2, row_bytes, bytes);
    INFER__UNROLL for (i = 0; i < 4; i++) {
        INFER__UNROLL for (j = 0; j < 4; j++) { /* a byte's pairs of bits to the low ends of four bytes */
            v[j] = _mm256_and_si256(_mm256_srli_epi32(bytes[i], 8 * j), _mm256_set1_epi32(255));
            v[j] = _mm256_or_si256(v[j], _mm256_slli_epi32(v[j], 12));
            v[j] = infer__and_avx2(_mm256_or_si256(v[j], _mm256_slli_epi32(v[j], 6)), 3);
        }
        infer__put_half_avx2(q, i / 2, i % 2, v);
    }
    infer__put_shared_avx2(p, row_bytes, 2, scale);
}

/* Halves of UE4M3 scales: eight bytes of which the top bit is ignored; the byte 127 is 0. */
INFER__ON_avx2 INFER__INLINE __m256 infer__ue4m3_avx2(__m256i byte) {
    __m256i e = _mm256_and_si256(byte, _mm256_set1_epi32(127));
    __m256i normal = _mm256_add_epi32(_mm256_slli_epi32(e, 20), _mm256_set1_epi32((127 - 7 - 1) << 23));
    __m256 subnormal = _mm256_mul_ps(_mm256_cvtepi32_ps(e), _mm256_set1_ps(1.0f / 1024.0f));
    __m256 v = _mm256_blendv_ps(subnormal, _mm256_castsi256_ps(normal),
                                _mm256_castsi256_ps(_mm256_cmpgt_epi32(e, _mm256_set1_epi32(7))));
    return _mm256_andnot_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(byte, _mm256_set1_epi32(127))), v);
}

/* A scale is of half a block of 32, whose 16 values are in 8 bytes: low halves, then high halves. */
INFER__ON_avx2 INFER__INLINE void infer__nvfp4_part_avx2(const uint8_t *p, uint64_t row_bytes, uint8_t *q,
                                                         float *scale) {
    const __m256i bytes = infer__rows_4_avx2(p, row_bytes);
    __m256i v[8], half[4];
    int i, h;
    INFER__UNROLL for (i = 0; i < 2; i++) {
        infer__levels_avx2(p + 4 + 16 * i, row_bytes, infer__fp4_table_avx2(), v);
        INFER__UNROLL for (h = 0; h < 2; h++) {
            half[0] = v[2 * h];
            half[1] = v[2 * h + 1];
            half[2] = v[2 * h + 4];
            half[3] = v[2 * h + 5];
            infer__put_half_avx2(q, i, h, half);
        }
    }
    INFER__UNROLL for (i = 0; i < 4; i++) _mm256_store_ps(
        scale + INFER__GROUP * i,
        infer__ue4m3_avx2(_mm256_and_si256(_mm256_srli_epi32(bytes, 8 * i), _mm256_set1_epi32(255))));
}

/* per: blocks of 32 that one of the type has; scales: of one of them. */
#define INFER__UNPACK_PARTS_AVX2(name, bytes, per, scales)                                                             \
    INFER__ON_avx2 static void infer__##name##_unpack_avx2(const uint8_t *src, uint64_t row_bytes, int n_blocks,       \
                                                           infer__unpacked *out) {                                     \
        infer__ahead ahead = out->ahead;                                                                               \
        int r, b, i;                                                                                                   \
        for (r = 0; r < INFER__GROUP; r += 8)                                                                          \
            for (b = 0; b < n_blocks; b += (per)) {                                                                    \
                infer__##name##_part_avx2(src + (uint64_t)r * row_bytes + (uint64_t)(b / (per) * (bytes)), row_bytes,  \
                                          out->q[0] + 32 * INFER__GROUP * b + 4 * r, out->scale[b * (scales)] + r);    \
                for (i = 0; i < (per); i++) infer__ask(&ahead);                                                        \
            }                                                                                                          \
        out->ahead = ahead;                                                                                            \
        out->tiled = 1;                                                                                                \
    }
INFER__UNPACK_PARTS_AVX2(q1_0, 18, 4, 1)
INFER__UNPACK_PARTS_AVX2(q2_0, 18, 2, 1)
INFER__UNPACK_PARTS_AVX2(nvfp4, 36, 2, 2)
#undef INFER__UNPACK_PARTS_AVX2

static const infer__unpack_row infer__unpacks_avx2[] = {
    {2, INFER__CPU_AVX2, infer__q4_0_unpack_avx2},
    INFER__QUANT(Q4_1, 3, INFER__CPU_AVX2, infer__q4_1_unpack_avx2)
    INFER__QUANT(Q5_0, 6, INFER__CPU_AVX2, infer__q5_0_unpack_avx2)
    INFER__QUANT(Q5_1, 7, INFER__CPU_AVX2, infer__q5_1_unpack_avx2)
    {8, INFER__CPU_AVX2, infer__q8_0_unpack_avx2},
    INFER__QUANT(Q2_K, 10, INFER__CPU_AVX2, infer__q2_k_unpack_avx2)
    INFER__QUANT(Q3_K, 11, INFER__CPU_AVX2, infer__q3_k_unpack_avx2)
    INFER__QUANT(Q4_K, 12, INFER__CPU_AVX2, infer__q4_k_unpack_avx2)
    INFER__QUANT(Q5_K, 13, INFER__CPU_AVX2, infer__q5_k_unpack_avx2)
    INFER__QUANT(Q6_K, 14, INFER__CPU_AVX2, infer__q6_k_unpack_avx2)
    INFER__QUANT(IQ4_NL, 20, INFER__CPU_AVX2, infer__iq4_nl_unpack_avx2)
    INFER__QUANT(IQ4_XS, 23, INFER__CPU_AVX2, infer__iq4_xs_unpack_avx2)
    INFER__QUANT(TQ1_0, 34, INFER__CPU_AVX2, infer__tq1_0_unpack_avx2)
    INFER__QUANT(TQ2_0, 35, INFER__CPU_AVX2, infer__tq2_0_unpack_avx2)
    INFER__QUANT(MXFP4, 39, INFER__CPU_AVX2, infer__mxfp4_unpack_avx2)
    INFER__QUANT(NVFP4, 40, INFER__CPU_AVX2, infer__nvfp4_unpack_avx2)
    INFER__QUANT(Q1_0, 41, INFER__CPU_AVX2, infer__q1_0_unpack_avx2)
    INFER__QUANT(Q2_0, 42, INFER__CPU_AVX2, infer__q2_0_unpack_avx2)
};
#endif
