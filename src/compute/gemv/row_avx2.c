/* row_avx2.c: GEMV, one column of activations times one row after the other as it lies in the file, with AVX2.
 *
 * Owns:  infer__NAME_row_avx2 for all types but those of row_avx2_iq.c, and AVX-VNNI's; what both share.
 * How:   a chunk of 256 values is eight vectors of codes, a block each, which go to pmaddubsw in registers. Their sums
 *        become a vector with a lane for every block, so scales are decoded for eight blocks at once, as they lie in
 *        the file, and the float arithmetic up to t is that of cpu_int8.h. Memory is read as one stream. Adding t * d
 *        to y has an order, block after block; so t of eight rows is kept, then transposed (infer__add_rows_avx2), and
 *        the results are those of int8_avx2.c bit for bit.
 * Numbers: tokens of a 1B model, two threads of a Zen 5, beside 16 rows at a time: Q4_0 1.07, Q8_0 1.12, Q4_K 1.13,
 *        Q2_K 1.16, NVFP4 1.84 times; in cache the same.
 * Start: INFER__ROW_LEVEL.
 */
#include "../products/cpu_int8.h"

#if defined(INFER__SIMD_AVX2)

/* ---- what types share ------------------------------------------------------------------------------------------ */

INFER__ON_avx2 INFER__INLINE __m128i infer__load_16_avx2(const void *p) { return _mm_loadu_si128((const __m128i *)p); }

/* 8 vectors of partial sums, one of each block, to two: of the low and of the high lanes of 128 bits, which are halves
 * of blocks. Partial sums are of 32 bits (room 0), or of 16 bits, of which `room` may be added before they are
 * widened. */
INFER__ON_avx2 INFER__INLINE void infer__add_across_avx2(__m256i *s, int room) {
    __m256i lo, hi;
    int i, n;
    INFER__UNROLL for (n = 8; n > 2; n /= 2) {
        if (room == 1)
            INFER__UNROLL for (i = 0; i < n; i++) s[i] = infer__i_widen_avx2(s[i]);
        INFER__UNROLL for (i = 0; i < n / 2; i++) {
            const __m256i a = s[2 * i], b = s[2 * i + 1];
            if (n == 8) { /* elements a0 a1 b2 b3, a2 a3 b0 b1: a shuffle less than unpacking */
                lo = _mm256_blend_epi32(a, b, 0xcc);
                hi = _mm256_alignr_epi8(b, a, 8);
            } else {
                const __m256 u = _mm256_castsi256_ps(a), v = _mm256_castsi256_ps(b);
                lo = _mm256_castps_si256(_mm256_shuffle_ps(u, v, 0x88));
                hi = _mm256_castps_si256(_mm256_shuffle_ps(u, v, 0xdd));
            }
            s[i] = room > 1 ? _mm256_add_epi16(lo, hi) : _mm256_add_epi32(lo, hi);
        }
        room /= 2;
    }
    if (room)
        INFER__UNROLL for (i = 0; i < 2; i++) s[i] = infer__i_widen_avx2(s[i]);
    lo = _mm256_permute2x128_si256(s[0], s[1], 0x20);
    s[1] = _mm256_permute2x128_si256(s[0], s[1], 0x31);
    s[0] = lo;
}

/* q * x of 32 values: as 8 sums of four, or as 16 of two when more than one fits into 16 bits. Codes of types of which
 * none fits are signed. */
INFER__ON_avx2 INFER__INLINE __m256i infer__products_avx2(__m256i v, __m256i x, int fit) {
    const __m256i zero = _mm256_setzero_si256();
    if (fit > 1) return infer__i_pairs_avx2(v, x);
    if (fit == 1) return infer__i_dot_avx2(zero, v, x);
    return infer__i_dot_avx2(zero, infer__i_abs_avx2(v), infer__i_sign_avx2(x, v));
}

/* s[b] = the partial sums of block b, whose codes are v. */
#define INFER__BLOCK_SUMS(b, v, fit) s[b] = infer__products_avx2(v, infer__load_32_avx2(x + 32 * (b)), fit)

/* t of n_chunks chunks of a row, 8 each. NAME_sums_L: fills s. NAME_scales_avx2: of first halves and second halves of
 * blocks (grain 16) or of blocks. fit: infer__int8_fit, or that of the codes without their signs. */
#define INFER__ROW_LEVEL(L, name, bytes, grain, has_min, fit, offset)                                                  \
    INFER__ON_##L static void infer__##name##_row_##L(const uint8_t *p, int n_chunks, const infer__x8 *x,              \
                                                      int64_t x_step, float *t) {                                      \
        for (; n_chunks > 0; n_chunks--, p += (bytes), x += x_step, t += 8) {                                          \
            __m256i s[8];                                                                                              \
            __m256 scale[2], min[2];                                                                                   \
            int k;                                                                                                     \
            INFER__UNROLL for (k = 0; k < (bytes); k += 64) INFER__PREFETCH_FAR(p + INFER__ROW_AHEAD + k);             \
            infer__##name##_sums_##L(p, x->q, s);                                                                      \
            infer__add_across_avx2(s, (fit) < 2 ? 0 : (fit));                                                          \
            infer__##name##_scales_avx2(p, scale, min);                                                                \
            _mm256_storeu_ps(t, infer__row_floats_avx2(s, x, scale, min, grain, has_min, offset));                     \
        }                                                                                                              \
    }
#define INFER__ROW_AVX2(name, bytes, grain, has_min, fit, offset) \
    INFER__ROW_LEVEL(avx2, name, bytes, grain, has_min, fit, offset)

/* t of eight blocks, as cpu_int8.h has it. */
INFER__ON_avx2 INFER__INLINE __m256 infer__row_floats_avx2(const __m256i *s, const infer__x8 *x, const __m256 *scale,
                                                           const __m256 *min, int grain, int has_min, int offset) {
    const __m256i factor = _mm256_set1_epi32(offset);
    __m256i low = s[0], high = s[1];
    __m256 t;
    if (grain == 32) {
        low = _mm256_add_epi32(low, high);
        if (offset) low = _mm256_sub_epi32(low, _mm256_mullo_epi32(infer__load_32_avx2(x->sum32), factor));
        t = _mm256_mul_ps(_mm256_cvtepi32_ps(low), scale[0]);
        return has_min ? _mm256_fmadd_ps(min[0], _mm256_loadu_ps(x->fsum32), t) : t;
    }
    if (offset) {
        low = _mm256_sub_epi32(low, _mm256_mullo_epi32(infer__load_32_avx2(x->sum16[0]), factor));
        high = _mm256_sub_epi32(high, _mm256_mullo_epi32(infer__load_32_avx2(x->sum16[1]), factor));
    }
    t = _mm256_mul_ps(_mm256_cvtepi32_ps(low), scale[0]);
    if (has_min) t = _mm256_fmadd_ps(min[0], _mm256_loadu_ps(x->fsum16[0]), t);
    t = _mm256_fmadd_ps(_mm256_cvtepi32_ps(high), scale[1], t);
    return has_min ? _mm256_fmadd_ps(min[1], _mm256_loadu_ps(x->fsum16[1]), t) : t;
}

/* y[r] += t * d over n_chunks chunks of eight rows; t of row r is at t + r * stride. */
INFER__ON_avx2 static void infer__add_rows_avx2(const float *t, int64_t stride, int n_chunks, const infer__x8 *x,
                                                int64_t x_step, float *y) {
    __m256 acc = _mm256_loadu_ps(y);
    for (; n_chunks > 0; n_chunks--, t += 8, x += x_step) {
        __m256 r[8], v[8];
        int i;
        INFER__UNROLL for (i = 0; i < 4; i++) { /* blocks 0 .. 3 of rows i and i + 4; blocks 4 .. 7 */
            __m256 a = _mm256_loadu_ps(t + i * stride), b = _mm256_loadu_ps(t + (i + 4) * stride);
            r[i] = _mm256_permute2f128_ps(a, b, 0x20);
            r[4 + i] = _mm256_permute2f128_ps(a, b, 0x31);
        }
        INFER__UNROLL for (i = 0; i < 8; i += 2) {
            v[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
            v[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
        }
        INFER__UNROLL for (i = 0; i < 8; i += 4) {
            r[i] = _mm256_shuffle_ps(v[i], v[i + 2], 0x44);
            r[i + 1] = _mm256_shuffle_ps(v[i], v[i + 2], 0xee);
            r[i + 2] = _mm256_shuffle_ps(v[i + 1], v[i + 3], 0x44);
            r[i + 3] = _mm256_shuffle_ps(v[i + 1], v[i + 3], 0xee);
        }
        INFER__UNROLL for (i = 0; i < 8; i++) acc = _mm256_fmadd_ps(r[i], _mm256_set1_ps(x->d[i]), acc);
    }
    _mm256_storeu_ps(y, acc);
}

/* 0xff for the bits set among 32. */
INFER__ON_avx2 INFER__INLINE __m256i infer__bits_avx2(uint32_t bits) {
    const __m256i bit = _mm256_set1_epi64x((int64_t)0x8040201008040201);
    const __m256i byte = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    return _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32((int32_t)bits), byte), bit), bit);
}

/* ---- blocks of 32 values ---------------------------------------------------------------------------------------- */

/* 16 bytes of nibbles: the first half of a block is in the low ones. */
INFER__ON_avx2 INFER__INLINE __m256i infer__block_nibbles_avx2(const uint8_t *p) {
    return infer__and_avx2(infer__shift_avx2(infer__twice_avx2(p), 0, 4), 15);
}

/* codes: of the block at b. */
#define INFER__ROW_BLOCKS(name, bytes, has_min, fit, offset, codes, scales)                                            \
    INFER__ON_avx2 INFER__INLINE void infer__##name##_sums_avx2(const uint8_t *p, const int8_t *x, __m256i *s) {       \
        int i;                                                                                                         \
        INFER__UNROLL for (i = 0; i < 8; i++) {                                                                        \
            const uint8_t *b = p + (bytes) * i;                                                                        \
            INFER__BLOCK_SUMS(i, codes, fit);                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    INFER__ON_avx2 INFER__INLINE void infer__##name##_scales_avx2(const uint8_t *p, __m256 *scale, __m256 *min) {      \
        (void)min;                                                                                                     \
        scales;                                                                                                        \
    }                                                                                                                  \
    INFER__ROW_AVX2(name, 8 * (bytes), 32, has_min, fit, offset)
#define INFER__ROW_FIFTHS(p) \
    _mm256_or_si256(infer__block_nibbles_avx2((p) + 4), infer__and_avx2(infer__bits_avx2(infer__load_u32(p)), 16))
INFER__ROW_BLOCKS(q4_0, 18, 0, 8, 8, infer__block_nibbles_avx2(b + 2), scale[0] = infer__row_halves_avx2(p, 18))
INFER__ROW_BLOCKS(q4_1, 20, 1, 8, 0, infer__block_nibbles_avx2(b + 4), infer__half_pairs_avx2(p, 20, scale, min))
INFER__ROW_BLOCKS(q5_0, 22, 0, 4, 16, INFER__ROW_FIFTHS(b + 2), scale[0] = infer__row_halves_avx2(p, 22))
INFER__ROW_BLOCKS(q5_1, 24, 1, 4, 0, INFER__ROW_FIFTHS(b + 4), infer__half_pairs_avx2(p, 24, scale, min))
INFER__ROW_BLOCKS(q8_0, 34, 0, 0, 0, infer__load_32_avx2(b + 2), scale[0] = infer__row_halves_avx2(p, 34))
INFER__ROW_BLOCKS(iq4_nl, 18, 0, 0, 0,
                  _mm256_shuffle_epi8(infer__twice_avx2(infer__kvalues_iq4nl), infer__block_nibbles_avx2(b + 2)),
                  scale[0] = infer__row_halves_avx2(p, 18))
INFER__ROW_BLOCKS(mxfp4, 17, 0, 4, 12,
                  _mm256_shuffle_epi8(infer__fp4_table_avx2(), infer__block_nibbles_avx2(b + 1)),
                  scale[0] = infer__e8m0_avx2(infer__eight_bytes_avx2(p, 17)))
#undef INFER__ROW_FIFTHS
#undef INFER__ROW_BLOCKS

/* ---- blocks of 256 values --------------------------------------------------------------------------------------- */

/* d times eight bytes; d times the bytes of 16 with even and with odd indices. */
INFER__ON_avx2 INFER__INLINE __m256 infer__times_bytes_avx2(__m128i v, __m256 d, int is_signed) {
    return _mm256_mul_ps(d, _mm256_cvtepi32_ps(is_signed ? _mm256_cvtepi8_epi32(v) : _mm256_cvtepu8_epi32(v)));
}
INFER__ON_avx2 INFER__INLINE void infer__times_apart_avx2(__m128i v, __m256 d, int is_signed, __m256 *out) {
    v = _mm_shuffle_epi8(v, _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15));
    out[0] = infer__times_bytes_avx2(v, d, is_signed);
    out[1] = infer__times_bytes_avx2(_mm_unpackhi_epi64(v, v), d, is_signed);
}

/* The fp16 at p; the two at p, the second one negative. */
INFER__ON_avx2 INFER__INLINE __m256 infer__one_half_avx2(const uint8_t *p) {
    return _mm256_cvtph_ps(_mm_set1_epi16((short)infer__load_u16(p)));
}
INFER__ON_avx2 INFER__INLINE void infer__d_dmin_avx2(__m128i halves, __m256 *d, __m256 *dmin) {
    __m128 v = _mm_cvtph_ps(halves);
    *d = _mm256_broadcastss_ps(v);
    *dmin = infer__negative_avx2(_mm256_broadcastss_ps(_mm_movehdup_ps(v)));
}

/* The scales and minima of Q4_K and Q5_K: d, dmin, 12 bytes. */
INFER__ON_avx2 INFER__INLINE void infer__scale_min_avx2(const uint8_t *p, __m256 *scale, __m256 *min) {
    const __m128i six = _mm_setr_epi32(0x3f3f3f3f, 0x0f0f0f0f, 0x3f3f3f3f, 0x0f0f0f0f);
    __m128i v = infer__load_16_avx2(p);
    /* of the 12: bytes 0 .. 3, the low halves of 8 .. 11, bytes 4 .. 7, the high halves of 8 .. 11; two bits above */
    __m128i low = _mm_shuffle_epi8(v, _mm_setr_epi8(4, 5, 6, 7, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15));
    __m128i top = _mm_shuffle_epi8(v, _mm_setr_epi8(-1, -1, -1, -1, 4, 5, 6, 7, -1, -1, -1, -1, 8, 9, 10, 11));
    __m256 d, dmin;
    infer__d_dmin_avx2(v, &d, &dmin);
    low = _mm_and_si128(_mm_srlv_epi32(low, _mm_setr_epi32(0, 0, 0, 4)), six);
    low = _mm_or_si128(low, _mm_and_si128(_mm_srli_epi16(top, 2), _mm_set1_epi8(0x30)));
    scale[0] = infer__times_bytes_avx2(low, d, 0);
    min[0] = infer__times_bytes_avx2(_mm_unpackhi_epi64(low, low), dmin, 0);
}

INFER__ON_avx2 INFER__INLINE void infer__q4_k_sums_avx2(const uint8_t *p, const int8_t *x, __m256i *s) {
    int i;
    INFER__UNROLL for (i = 0; i < 4; i++) {
        __m256i v = infer__load_32_avx2(p + 16 + 32 * i);
        INFER__BLOCK_SUMS(2 * i, infer__low_nibbles_avx2(v), 8);
        INFER__BLOCK_SUMS(2 * i + 1, infer__high_nibbles_avx2(v), 8);
    }
}
#define infer__q4_k_scales_avx2 infer__scale_min_avx2
INFER__ROW_AVX2(q4_k, 144, 32, 1, 8, 0)

/* Bit i of every byte to bit `to`, the others cleared. */
INFER__ON_avx2 INFER__INLINE __m256i infer__bit_to_avx2(__m256i v, int i, int to) {
    v = i < to ? _mm256_slli_epi16(v, to - i) : i > to ? _mm256_srli_epi16(v, i - to) : v;
    return infer__and_avx2(v, 1 << to);
}

INFER__ON_avx2 INFER__INLINE void infer__q5_k_sums_avx2(const uint8_t *p, const int8_t *x, __m256i *s) {
    const __m256i bits = infer__load_32_avx2(p + 16); /* bit i: of block i */
    int i;
    INFER__UNROLL for (i = 0; i < 4; i++) {
        __m256i v = infer__load_32_avx2(p + 48 + 32 * i);
        INFER__BLOCK_SUMS(2 * i, _mm256_or_si256(infer__low_nibbles_avx2(v), infer__bit_to_avx2(bits, 2 * i, 4)), 4);
        INFER__BLOCK_SUMS(2 * i + 1,
                          _mm256_or_si256(infer__high_nibbles_avx2(v), infer__bit_to_avx2(bits, 2 * i + 1, 4)), 4);
    }
}
#define infer__q5_k_scales_avx2 infer__scale_min_avx2
INFER__ROW_AVX2(q5_k, 176, 32, 1, 4, 0)

INFER__ON_avx2 INFER__INLINE void infer__q6_k_sums_avx2(const uint8_t *p, const int8_t *x, __m256i *s) {
    int i;
    INFER__UNROLL for (i = 0; i < 2; i++) {
        const __m256i a = infer__load_32_avx2(p + 64 * i), b = infer__load_32_avx2(p + 64 * i + 32);
        const __m256i two = infer__load_32_avx2(p + 128 + 32 * i);
        INFER__BLOCK_SUMS(4 * i, _mm256_or_si256(infer__low_nibbles_avx2(a),
                                                 infer__and_avx2(_mm256_slli_epi16(two, 4), 0x30)), 2);
        INFER__BLOCK_SUMS(4 * i + 1, _mm256_or_si256(infer__low_nibbles_avx2(b),
                                                     infer__and_avx2(_mm256_slli_epi16(two, 2), 0x30)), 2);
        INFER__BLOCK_SUMS(4 * i + 2, _mm256_or_si256(infer__high_nibbles_avx2(a), infer__and_avx2(two, 0x30)), 2);
        INFER__BLOCK_SUMS(4 * i + 3, _mm256_or_si256(infer__high_nibbles_avx2(b),
                                                     infer__and_avx2(_mm256_srli_epi16(two, 2), 0x30)), 2);
    }
}
INFER__ON_avx2 INFER__INLINE void infer__q6_k_scales_avx2(const uint8_t *p, __m256 *scale, __m256 *min) {
    (void)min;
    infer__times_apart_avx2(infer__load_16_avx2(p + 192), infer__one_half_avx2(p + 208), 1, scale);
}
INFER__ROW_AVX2(q6_k, 210, 16, 0, 2, 32)

/* Two bits of every byte. */
INFER__ON_avx2 INFER__INLINE __m256i infer__quarter_avx2(__m256i v, int i) {
    return infer__and_avx2(i ? _mm256_srli_epi16(v, 2 * i) : v, 3);
}
INFER__ON_avx2 INFER__INLINE void infer__quarter_sums_avx2(const uint8_t *p, const int8_t *x, int fit, __m256i *s) {
    int i, k;
    INFER__UNROLL for (i = 0; i < 2; i++) {
        __m256i v = infer__load_32_avx2(p + 32 * i);
        INFER__UNROLL for (k = 0; k < 4; k++) INFER__BLOCK_SUMS(4 * i + k, infer__quarter_avx2(v, k), fit);
    }
}

INFER__ON_avx2 INFER__INLINE void infer__q2_k_sums_avx2(const uint8_t *p, const int8_t *x, __m256i *s) {
    infer__quarter_sums_avx2(p + 16, x, 4, s);
}
INFER__ON_avx2 INFER__INLINE void infer__q2_k_scales_avx2(const uint8_t *p, __m256 *scale, __m256 *min) {
    const __m128i v = infer__load_16_avx2(p), four = _mm_set1_epi8(15);
    __m256 d, dmin;
    infer__d_dmin_avx2(_mm_cvtsi32_si128((int32_t)infer__load_u32(p + 80)), &d, &dmin);
    infer__times_apart_avx2(_mm_and_si128(v, four), d, 0, scale);
    infer__times_apart_avx2(_mm_and_si128(_mm_srli_epi16(v, 4), four), dmin, 0, min);
}
INFER__ROW_AVX2(q2_k, 84, 16, 1, 4, 0)

INFER__ON_avx2 INFER__INLINE void infer__tq2_0_sums_avx2(const uint8_t *p, const int8_t *x, __m256i *s) {
    infer__quarter_sums_avx2(p, x, 8, s);
}
INFER__ON_avx2 INFER__INLINE void infer__tq2_0_scales_avx2(const uint8_t *p, __m256 *scale, __m256 *min) {
    (void)min;
    scale[0] = infer__one_half_avx2(p + 64);
}
INFER__ROW_AVX2(tq2_0, 66, 32, 0, 8, 1)

INFER__ON_avx2 INFER__INLINE void infer__q3_k_sums_avx2(const uint8_t *p, const int8_t *x, __m256i *s) {
    const __m256i bits = infer__load_32_avx2(p); /* bit i: of block i */
    int i, k;
    INFER__UNROLL for (i = 0; i < 2; i++) {
        __m256i v = infer__load_32_avx2(p + 32 + 32 * i);
        INFER__UNROLL for (k = 0; k < 4; k++)
            INFER__BLOCK_SUMS(4 * i + k, _mm256_or_si256(infer__quarter_avx2(v, k),
                                                         infer__bit_to_avx2(bits, 4 * i + k, 2)), 4);
    }
}
INFER__ON_avx2 INFER__INLINE void infer__q3_k_scales_avx2(const uint8_t *p, __m256 *scale, __m256 *min) {
    const __m128i v = infer__load_16_avx2(p + 94); /* two other bytes, 12 of scales, d */
    const __m128i low = _mm_srli_si128(v, 2);
    __m128i top = _mm_shuffle_epi8(v, _mm_set1_epi32(0x0d0c0b0a));
    __m128i four = _mm_and_si128(_mm_unpacklo_epi64(low, _mm_srli_epi16(low, 4)), _mm_set1_epi8(15));
    (void)min;
    top = _mm_srlv_epi32(_mm_sllv_epi32(top, _mm_setr_epi32(4, 2, 0, 0)), _mm_setr_epi32(0, 0, 0, 2));
    four = _mm_or_si128(four, _mm_and_si128(top, _mm_set1_epi8(0x30)));
    infer__times_apart_avx2(_mm_sub_epi8(four, _mm_set1_epi8(32)), infer__one_half_avx2(p + 108), 1, scale);
}
INFER__ROW_AVX2(q3_k, 110, 16, 0, 4, 4)

INFER__ON_avx2 INFER__INLINE void infer__iq4_xs_sums_avx2(const uint8_t *p, const int8_t *x, __m256i *s) {
    const __m256i table = infer__twice_avx2(infer__kvalues_iq4nl);
    int i;
    INFER__UNROLL for (i = 0; i < 8; i++)
        INFER__BLOCK_SUMS(i, _mm256_shuffle_epi8(table, infer__block_nibbles_avx2(p + 8 + 16 * i)), 0);
}
INFER__ON_avx2 INFER__INLINE void infer__iq4_xs_scales_avx2(const uint8_t *p, __m256 *scale, __m256 *min) {
    __m256i high = _mm256_set1_epi32(infer__load_u16(p + 2)), low = _mm256_set1_epi32((int32_t)infer__load_u32(p + 4));
    (void)min;
    high = _mm256_srlv_epi32(_mm256_slli_epi32(high, 4), _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14));
    low = _mm256_srlv_epi32(low, _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
    low = _mm256_or_si256(_mm256_and_si256(low, _mm256_set1_epi32(15)),
                          _mm256_and_si256(high, _mm256_set1_epi32(0x30)));
    scale[0] = _mm256_mul_ps(infer__one_half_avx2(p), _mm256_cvtepi32_ps(_mm256_sub_epi32(low, _mm256_set1_epi32(32))));
}
INFER__ROW_AVX2(iq4_xs, 136, 32, 0, 0, 0)

/* ---- codes beyond 127, with AVX-VNNI ----------------------------------------------------------------------------- */

#  if defined(INFER__HAS_AVXVNNI)
/* code: of block i, 128 too large. */
#    define INFER__ROW_VNNI(name, bytes, code)                                                                         \
      INFER__ON_avxvnni INFER__INLINE void infer__##name##_sums_avxvnni(const uint8_t *p, const int8_t *x,             \
                                                                        __m256i *s) {                                  \
        int i;                                                                                                         \
        INFER__UNROLL for (i = 0; i < 8; i++) s[i] =                                                                   \
            infer__i_dot_avxvnni(_mm256_setzero_si256(), code, infer__load_32_avx2(x + 32 * i));                       \
      }                                                                                                                \
      INFER__ROW_LEVEL(avxvnni, name, bytes, 32, 0, 0, 128)
INFER__ROW_VNNI(q8_0, 272, infer__i_flip_avx2(infer__load_32_avx2(p + 34 * i + 2)))
INFER__ROW_VNNI(iq4_nl, 144, _mm256_shuffle_epi8(infer__iq4_table_avx2(), infer__block_nibbles_avx2(p + 18 * i + 2)))
INFER__ROW_VNNI(iq4_xs, 136, _mm256_shuffle_epi8(infer__iq4_table_avx2(), infer__block_nibbles_avx2(p + 8 + 16 * i)))
#    undef INFER__ROW_VNNI
#  endif
#endif
