/* unpack_avx2_k.c: unpack functions with AVX2 for the types whose blocks have 256 values, and the table of all.
 *
 * Owns:  infer__unpacks_avx2.
 * How:   codes row after row: two blocks of 32 are the two halves of a vector, shifted differently. Scales of 16 rows
 *        are transposed as bytes (infer__heads_avx2), put together there, 32 at a time, then converted and multiplied.
 * Start: infer__q4_k_unpack_avx2.
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

/* v in both halves, shifted right by `low` in the first and by `high` in the second (negative: left). */
INFER__ON_avx2 INFER__INLINE __m256i infer__shift_avx2(__m256i v, int low, int high) {
    if (low < 0 || high < 0)
        return _mm256_sllv_epi32(v, _mm256_setr_epi32(-low, -low, -low, -low, -high, -high, -high, -high));
    return _mm256_srlv_epi32(v, _mm256_setr_epi32(low, low, low, low, high, high, high, high));
}

INFER__ON_avx2 static void infer__q4_k_unpack_avx2(const uint8_t *src, uint64_t row_bytes, int n_blocks,
                                                   infer__unpacked *out) {
    const uint8_t *row = src + 16;
    int r, c, h;
    (void)n_blocks;
    for (r = 0; r < INFER__GROUP; r++, row += row_bytes, infer__ask(&out->ahead))
        INFER__UNROLL for (c = 0; c < 4; c++)
            INFER__UNROLL for (h = 0; h < 2; h++)
                infer__put_avx2(infer__pair_at(out->q[r], c, h),
                                infer__and_avx2(infer__shift_avx2(infer__twice_avx2(row + 32 * c + 16 * h), 0, 4), 15));
    infer__put_scale_min_avx2(src, row_bytes, out);
}

INFER__ON_avx2 static void infer__q5_k_unpack_avx2(const uint8_t *src, uint64_t row_bytes, int n_blocks,
                                                   infer__unpacked *out) {
    const uint8_t *row = src;
    int r, c, h;
    (void)n_blocks;
    for (r = 0; r < INFER__GROUP; r++, row += row_bytes, infer__ask(&out->ahead))
        INFER__UNROLL for (h = 0; h < 2; h++) {
            __m256i bits = infer__twice_avx2(row + 16 + 16 * h); /* bit i: of block i; to bit 4 */
            INFER__UNROLL for (c = 0; c < 4; c++) {
                __m256i v = infer__shift_avx2(infer__twice_avx2(row + 48 + 32 * c + 16 * h), 0, 4);
                v = _mm256_or_si256(infer__and_avx2(v, 15),
                                    infer__and_avx2(infer__shift_avx2(bits, 2 * c - 4, 2 * c - 3), 16));
                infer__put_avx2(infer__pair_at(out->q[r], c, h), v);
            }
        }
    infer__put_scale_min_avx2(src, row_bytes, out);
}

INFER__ON_avx2 static void infer__q6_k_unpack_avx2(const uint8_t *src, uint64_t row_bytes, int n_blocks,
                                                   infer__unpacked *out) {
    const uint8_t *row = src;
    __m256i v[8];
    __m256 d[2];
    int r, i, h;
    (void)n_blocks;
    for (r = 0; r < INFER__GROUP; r++, row += row_bytes, infer__ask(&out->ahead))
        INFER__UNROLL for (i = 0; i < 2; i++)
            INFER__UNROLL for (h = 0; h < 2; h++) {
                const uint8_t *low = row + 64 * i + 16 * h;
                uint8_t *q = out->q[r] + 128 * i + 64 * h;
                __m256i a = infer__two_avx2(low, low + 32), b = infer__twice_avx2(row + 128 + 32 * i + 16 * h);
                infer__put_avx2(q, _mm256_or_si256(infer__low_nibbles_avx2(a),
                                                   infer__and_avx2(infer__shift_avx2(b, -4, -2), 0x30)));
                infer__put_avx2(q + 32, _mm256_or_si256(infer__high_nibbles_avx2(a),
                                                        infer__and_avx2(infer__shift_avx2(b, 0, 2), 0x30)));
            }
    d[0] = infer__row_halves_avx2(src + 208, row_bytes);
    d[1] = infer__row_halves_avx2(src + 208 + 8 * row_bytes, row_bytes);
    infer__heads_avx2(src + 192, row_bytes, v);
    infer__put_products_avx2(v, 8, 1, d, out->scale);
}

/* Two bits of Q2_K and Q3_K, and TQ2_0: of 128 values from 32 bytes, half h. */
INFER__ON_avx2 INFER__INLINE __m256i infer__quarters_avx2(__m256i bytes, int c) {
    return infer__and_avx2(infer__shift_avx2(bytes, 4 * c, 4 * c + 2), 3);
}

INFER__ON_avx2 INFER__INLINE void infer__put_quarters_avx2(const uint8_t *src, uint64_t row_bytes,
                                                           infer__unpacked *out) {
    int r, i, h, c;
    for (r = 0; r < INFER__GROUP; r++, src += row_bytes, infer__ask(&out->ahead))
        INFER__UNROLL for (i = 0; i < 2; i++)
            INFER__UNROLL for (h = 0; h < 2; h++) {
                __m256i v = infer__twice_avx2(src + 32 * i + 16 * h);
                INFER__UNROLL for (c = 0; c < 2; c++)
                    infer__put_avx2(infer__pair_at(out->q[r], 2 * i + c, h), infer__quarters_avx2(v, c));
            }
}

INFER__ON_avx2 static void infer__q2_k_unpack_avx2(const uint8_t *src, uint64_t row_bytes, int n_blocks,
                                                   infer__unpacked *out) {
    __m256i v[8], scale[8], min[8];
    __m256 d[2], dmin[2];
    int i;
    (void)n_blocks;
    infer__put_quarters_avx2(src + 16, row_bytes, out);
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

INFER__ON_avx2 static void infer__tq2_0_unpack_avx2(const uint8_t *src, uint64_t row_bytes, int n_blocks,
                                                    infer__unpacked *out) {
    __m256 d;
    int r, b;
    (void)n_blocks;
    infer__put_quarters_avx2(src, row_bytes, out);
    for (r = 0; r < INFER__GROUP; r += 8) {
        d = infer__row_halves_avx2(src + 64 + (uint64_t)r * row_bytes, row_bytes);
        INFER__UNROLL for (b = 0; b < 8; b++) _mm256_store_ps(out->scale[b] + r, d);
    }
}

INFER__ON_avx2 static void infer__q3_k_unpack_avx2(const uint8_t *src, uint64_t row_bytes, int n_blocks,
                                                   infer__unpacked *out) {
    const uint8_t *row = src;
    __m256i v[8], scale[8];
    __m256 d[2];
    int r, i, h, c;
    (void)n_blocks;
    for (r = 0; r < INFER__GROUP; r++, row += row_bytes, infer__ask(&out->ahead))
        INFER__UNROLL for (h = 0; h < 2; h++) {
            __m256i bits = infer__twice_avx2(row + 16 * h); /* bit i: of block i; to bit 2 */
            INFER__UNROLL for (i = 0; i < 2; i++) {
                __m256i two = infer__twice_avx2(row + 32 + 32 * i + 16 * h);
                INFER__UNROLL for (c = 0; c < 2; c++) {
                    int at = 4 * i + 2 * c;
                    infer__put_avx2(infer__pair_at(out->q[r], 2 * i + c, h),
                                    _mm256_or_si256(infer__quarters_avx2(two, c),
                                                    infer__and_avx2(infer__shift_avx2(bits, at - 2, at - 1), 4)));
                }
            }
        }
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

INFER__ON_avx2 INFER__INLINE __m256i infer__half_twice_avx2(__m256i v, int half) {
    return half ? _mm256_permute4x64_epi64(v, 0xee) : _mm256_permute4x64_epi64(v, 0x44);
}

INFER__ON_avx2 static void infer__iq4_xs_unpack_avx2(const uint8_t *src, uint64_t row_bytes, int n_blocks,
                                                     infer__unpacked *out) {
    const __m256i table = infer__iq4_table_avx2();
    const uint8_t *row = src + 8;
    __m256i v[8], scale[4];
    __m256 d[2];
    int r, c;
    (void)n_blocks;
    for (r = 0; r < INFER__GROUP; r++, row += row_bytes, infer__ask(&out->ahead))
        INFER__UNROLL for (c = 0; c < 4; c++) {
            infer__levels_avx2(row + 32 * c, row + 32 * c + 16, table, v);
            infer__put_pair_avx2(out->q[r], c, v);
        }
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

/* ---- types with blocks of 64 and 128 values --------------------------------------------------------------------- */

/* A block of 32 values, the first half in the low lane. */
INFER__ON_avx2 INFER__INLINE void infer__put_block_avx2(uint8_t *q, int k, __m256i v) {
    q += infer__q_index(k);
    _mm_store_si128((__m128i *)(void *)q, _mm256_castsi256_si128(v));
    _mm_store_si128((__m128i *)(void *)(q + 64), _mm256_extracti128_si256(v, 1));
}

/* 0xff for the bits set among 32. */
INFER__ON_avx2 INFER__INLINE __m256i infer__bits_avx2(uint32_t bits) {
    const __m256i bit = _mm256_set1_epi64x((int64_t)0x8040201008040201);
    const __m256i byte = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    return _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32((int32_t)bits), byte), bit), bit);
}

/* Block b of 32 values of a row; here 0 and 2. */
INFER__ON_avx2 INFER__INLINE __m256i infer__q1_0_block_avx2(const uint8_t *row, int b) {
    return infer__and_avx2(infer__bits_avx2(infer__load_u32(row + 18 * (b / 4) + 2 + 4 * (b % 4))), 2);
}

INFER__ON_avx2 static void infer__q1_0_unpack_avx2(const uint8_t *src, uint64_t row_bytes, int n_blocks,
                                                   infer__unpacked *out) {
    const uint8_t *row = src;
    int r, b;
    for (r = 0; r < INFER__GROUP; r++, row += row_bytes, infer__ask(&out->ahead))
        for (b = 0; b < n_blocks; b++)
            infer__put_block_avx2(out->q[r], 32 * b, infer__q1_0_block_avx2(row, b));
    for (b = 0; b < n_blocks; b++) infer__put_scales_avx2(src + 18 * (b / 4), row_bytes, 0, b, out);
}

INFER__ON_avx2 INFER__INLINE __m256i infer__q2_0_block_avx2(const uint8_t *row, int b) {
    const uint8_t *p = row + 18 * (b / 2) + 2 + 8 * (b % 2);
    __m256i v = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
    v = _mm256_or_si256(v, _mm256_slli_epi32(v, 12)); /* a byte's pairs of bits to the low ends of four bytes */
    v = _mm256_or_si256(v, _mm256_slli_epi32(v, 6));
    return infer__and_avx2(v, 3);
}

INFER__ON_avx2 static void infer__q2_0_unpack_avx2(const uint8_t *src, uint64_t row_bytes, int n_blocks,
                                                   infer__unpacked *out) {
    const uint8_t *row = src;
    int r, b;
    for (r = 0; r < INFER__GROUP; r++, row += row_bytes, infer__ask(&out->ahead))
        for (b = 0; b < n_blocks; b++) infer__put_block_avx2(out->q[r], 32 * b, infer__q2_0_block_avx2(row, b));
    for (b = 0; b < n_blocks; b++) infer__put_scales_avx2(src + 18 * (b / 2), row_bytes, 0, b, out);
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

/* 8 bytes hold 16 values: low halves, then high halves. */
INFER__ON_avx2 INFER__INLINE __m256i infer__nvfp4_block_avx2(const uint8_t *row, int b) {
    __m256i v = _mm256_permute4x64_epi64(infer__twice_avx2(row + 36 * (b / 2) + 4 + 16 * (b % 2)), 0x50);
    v = _mm256_blend_epi32(v, _mm256_srli_epi16(v, 4), 0xcc);
    return _mm256_shuffle_epi8(infer__fp4_table_avx2(), infer__low_nibbles_avx2(v));
}

INFER__ON_avx2 static void infer__nvfp4_unpack_avx2(const uint8_t *src, uint64_t row_bytes, int n_blocks,
                                                    infer__unpacked *out) {
    const uint8_t *row = src;
    int r, b, i;
    for (r = 0; r < INFER__GROUP; r++, row += row_bytes, infer__ask(&out->ahead))
        for (b = 0; b < n_blocks; b++) infer__put_block_avx2(out->q[r], 32 * b, infer__nvfp4_block_avx2(row, b));
    for (b = 0; b < n_blocks; b += 2)
        for (r = 0; r < INFER__GROUP; r += 8) {
            int32_t four[8];
            __m256i v;
            for (i = 0; i < 8; i++)
                four[i] = (int32_t)infer__load_u32(src + 36 * (b / 2) + (uint64_t)(r + i) * row_bytes);
            v = _mm256_setr_epi32(four[0], four[1], four[2], four[3], four[4], four[5], four[6], four[7]);
            INFER__UNROLL for (i = 0; i < 4; i++) _mm256_store_ps(
                out->scale[2 * b + i] + r,
                infer__ue4m3_avx2(_mm256_and_si256(_mm256_srli_epi32(v, 8 * i), _mm256_set1_epi32(255))));
        }
}

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
    INFER__QUANT(TQ2_0, 35, INFER__CPU_AVX2, infer__tq2_0_unpack_avx2)
    INFER__QUANT(MXFP4, 39, INFER__CPU_AVX2, infer__mxfp4_unpack_avx2)
    INFER__QUANT(NVFP4, 40, INFER__CPU_AVX2, infer__nvfp4_unpack_avx2)
    INFER__QUANT(Q1_0, 41, INFER__CPU_AVX2, infer__q1_0_unpack_avx2)
    INFER__QUANT(Q2_0, 42, INFER__CPU_AVX2, infer__q2_0_unpack_avx2)
};
#endif
