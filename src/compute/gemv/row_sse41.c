/* row_sse41.c: GEMV, one column of activations times one row after the other as it lies in the file, with SSE4.1.
 *
 * Owns:  infer__ones_sse41, for CPUs without AVX2 (Celeron and Pentium up to 2020, Sandy and Ivy Bridge), and
 *        infer__unpacks_sse41: unpacking by the same parts.
 * How:   as row_avx2.c: codes of half a block in a register, products of bytes (int8_sse41.c), sums of four blocks
 *        added across so that a vector has a lane for every block, and the float arithmetic of cpu_int8.h up to t.
 * Start: INFER__ROW_SSE41.
 */
#include "../products/cpu_int8.h"

#if defined(INFER__SIMD_X86)
#  define INFER__ROWS 1

/* ---- what types share ------------------------------------------------------------------------------------------ */

/* Of four blocks each: scales and minima, of first halves and second halves, or of blocks. */
typedef struct infer__row_scales_sse41 { __m128 scale[2][2], min[2][2]; } infer__row_scales_sse41;

INFER__ON_sse41 INFER__INLINE __m128i infer__load_sse41(const void *p) { return _mm_loadu_si128((const __m128i *)p); }
INFER__ON_sse41 INFER__INLINE __m128i infer__and_sse41(__m128i v, int mask) {
    return _mm_and_si128(v, _mm_set1_epi8((char)mask));
}
/* Bits from `to` on are those of v from bit `from` on, with rubbish above and below. */
INFER__ON_sse41 INFER__INLINE __m128i infer__move_sse41(__m128i v, int from, int to) {
    return from > to ? _mm_srli_epi16(v, from - to) : from < to ? _mm_slli_epi16(v, to - from) : v;
}
/* v and, moved, the bits of `mask` of high. */
INFER__ON_sse41 INFER__INLINE __m128i infer__with_sse41(__m128i v, __m128i high, int from, int to, int mask) {
    return _mm_or_si128(v, infer__and_sse41(infer__move_sse41(high, from, to), mask));
}
INFER__ON_sse41 INFER__INLINE __m128i infer__nibbles_sse41(const uint8_t *p, int high) {
    return infer__and_sse41(infer__move_sse41(infer__load_sse41(p), high ? 4 : 0, 0), 15);
}
/* 16 for the bits that are set of the two bytes at p. */
INFER__ON_sse41 INFER__INLINE __m128i infer__fifth_sse41(__m128i v, const uint8_t *p) {
    const __m128i bit = _mm_set1_epi64x((int64_t)0x8040201008040201);
    const __m128i each = _mm_set_epi64x(0x0101010101010101, 0);
    const __m128i bytes = _mm_shuffle_epi8(_mm_cvtsi32_si128(infer__load_u16(p)), each);
    return infer__with_sse41(v, _mm_cmpeq_epi8(_mm_and_si128(bytes, bit), bit), 0, 0, 16);
}

/* The fp16 of eight blocks. If there are zeros, subnormal numbers, infinities or NaN, one by one: a host may flush
 * subnormal floats to zero, so none may arise here. */
INFER__ON_sse41 INFER__INLINE void infer__halves_sse41(const uint8_t *p, int step, __m128 *out) {
    const __m128i least = _mm_set1_epi32(0x00800000), beyond = _mm_set1_epi32(0x0f000000);
    __m128i h[2], v[2], most;
    float f[8];
    int i;
    INFER__UNROLL for (i = 0; i < 2; i++) {
        const uint8_t *q = p + 4 * step * i;
        h[i] = _mm_setr_epi32(infer__load_u16(q), infer__load_u16(q + step), infer__load_u16(q + 2 * step),
                              infer__load_u16(q + 3 * step));
        v[i] = _mm_slli_epi32(_mm_and_si128(h[i], _mm_set1_epi32(0x7fff)), 13);
    }
    most = _mm_max_epu32(_mm_sub_epi32(v[0], least), _mm_sub_epi32(v[1], least)); /* what is less becomes large */
    if (_mm_movemask_epi8(_mm_cmpeq_epi32(_mm_max_epu32(most, beyond), most))) {
        for (i = 0; i < 8; i++) f[i] = infer__f16_f32(infer__load_u16(p + step * i));
        out[0] = _mm_loadu_ps(f);
        out[1] = _mm_loadu_ps(f + 4);
        return;
    }
    INFER__UNROLL for (i = 0; i < 2; i++)
        out[i] = _mm_castsi128_ps(_mm_or_si128(_mm_add_epi32(v[i], _mm_set1_epi32(0x38000000)),
                                               _mm_slli_epi32(_mm_and_si128(h[i], _mm_set1_epi32(0x8000)), 16)));
}
/* Eight bytes as floats, times d. */
INFER__ON_sse41 INFER__INLINE void infer__row_bytes_sse41(__m128i v, int is_signed, float d, __m128 *out) {
    int i;
    INFER__UNROLL for (i = 0; i < 2; i++, v = _mm_srli_si128(v, 4))
        out[i] = _mm_mul_ps(_mm_cvtepi32_ps(is_signed ? _mm_cvtepi8_epi32(v) : _mm_cvtepu8_epi32(v)), _mm_set1_ps(d));
}
/* 16 bytes: those of first halves, then of second ones. */
INFER__ON_sse41 INFER__INLINE void infer__row_sixteen_sse41(__m128i v, int is_signed, float d, __m128 (*out)[2]) {
    v = _mm_shuffle_epi8(v, _mm_set_epi64x(0x0f0d0b0907050301, 0x0e0c0a0806040200));
    infer__row_bytes_sse41(v, is_signed, d, out[0]);
    infer__row_bytes_sse41(_mm_srli_si128(v, 8), is_signed, d, out[1]);
}

/* Products of 16 codes: as 8 sums of two, or signed codes as 4 sums of four. */
INFER__ON_sse41 INFER__INLINE __m128i infer__row_products_sse41(__m128i v, const int8_t *x, int fit) {
    const __m128i s = infer__load_sse41(x);
    return fit ? infer__i_pairs_sse41(v, s)
               : infer__i_widen_sse41(infer__i_pairs_sse41(_mm_abs_epi8(v), _mm_sign_epi8(s, v)));
}
/* infer__f_grain_sse41 for four blocks of a row. */
INFER__ON_sse41 INFER__INLINE __m128 infer__row_grain_sse41(__m128i isum, int offset, const int32_t *less, __m128 scale,
                                                            __m128 min, const float *xsum, int has_min, __m128 t,
                                                            int first) {
    __m128 p;
    if (offset)
        isum = _mm_sub_epi32(isum, _mm_mullo_epi32(infer__load_sse41(less), _mm_set1_epi32(offset)));
    p = _mm_mul_ps(_mm_cvtepi32_ps(isum), scale);
    INFER__PIN(p);
    t = first ? p : _mm_add_ps(p, t);
    return has_min ? infer__f_fma_sse41(min, _mm_loadu_ps(xsum), t) : t;
}

/* Of eight blocks, or of their halves, of row r. */
INFER__ON_sse41 static void infer__put_scales_sse41(__m128 (*from)[2], int halves, int r, float (*to)[INFER__GROUP]) {
    float f[2][8];
    int b, h;
    for (h = 0; h < halves; h++) {
        _mm_storeu_ps(f[h], from[h][0]);
        _mm_storeu_ps(f[h] + 4, from[h][1]);
        for (b = 0; b < 8; b++) to[halves * b + h][r] = f[h][b];
    }
}

/* half: the 16 codes of half h of block b of the chunk at p. scales: fills c. fit: how many sums of two products of 16
 * bits may be added in 16 bits; 0: codes are signed, and the type's offset is more than that here. Then unpacking, of
 * whole chunks alone. */
#define INFER__ROW_SSE41(name, bytes, grain, has_min, fit, offset, more, half, scales)                                 \
    INFER__ON_sse41 static void infer__##name##_unpack_sse41(const uint8_t *p, uint64_t row_bytes, int n_blocks,       \
                                                             infer__unpacked *out) {                                   \
        infer__row_scales_sse41 c;                                                                                     \
        int r, k, b, h;                                                                                                \
        if (n_blocks < 8) {                                                                                            \
            infer__##name##_unpack(p, row_bytes, n_blocks, out);                                                       \
            return;                                                                                                    \
        }                                                                                                              \
        (void)k;                                                                                                       \
        for (r = 0; r < INFER__GROUP; r++, p += row_bytes, infer__ask(&out->ahead)) {                                  \
            INFER__UNROLL for (b = 0; b < 8; b++)                                                                      \
                INFER__UNROLL for (h = 0; h < 2; h++) _mm_store_si128(                                                 \
                    (__m128i *)(void *)(out->q[r] + infer__q_index(32 * b + 16 * h)),                                  \
                    _mm_add_epi8(half, _mm_set1_epi8((char)(more))));                                                  \
            scales;                                                                                                    \
            infer__put_scales_sse41(c.scale, 32 / (grain), r, out->scale);                                             \
            if (has_min) infer__put_scales_sse41(c.min, 32 / (grain), r, out->min);                                    \
        }                                                                                                              \
    }                                                                                                                  \
    INFER__ON_sse41 static void infer__##name##_row_sse41(const uint8_t *p, int n_chunks, const infer__x8 *x,          \
                                                          int64_t x_step, float *t) {                                  \
        for (; n_chunks > 0; n_chunks--, p += (bytes), x += x_step, t += 8) {                                          \
            infer__row_scales_sse41 c;                                                                                 \
            int i, k, b, h;                                                                                            \
            INFER__UNROLL for (k = 0; k < (bytes); k += 64) INFER__PREFETCH_FAR(p + INFER__ROW_AHEAD + k);             \
            scales;                                                                                                    \
            INFER__UNROLL for (i = 0; i < 2; i++) {                                                                    \
                __m128i s[2][4];                                                                                       \
                __m128 v;                                                                                              \
                INFER__UNROLL for (k = 0; k < 4; k++) {                                                                \
                    b = 4 * i + k;                                                                                     \
                    INFER__UNROLL for (h = 0; h < 2; h++)                                                              \
                        s[h][k] = infer__row_products_sse41(half, x->q + 32 * b + 16 * h, fit);                        \
                    if ((grain) == 32)                                                                                 \
                        s[0][k] = (fit) ? _mm_add_epi16(s[0][k], s[1][k]) : _mm_add_epi32(s[0][k], s[1][k]);           \
                }                                                                                                      \
                v = infer__row_grain_sse41(infer__add_across_sse41(s[0], (grain) == 32 ? (fit) / 2 : (fit)), offset,   \
                                           ((grain) == 32 ? x->sum32 : x->sum16[0]) + 4 * i, c.scale[0][i],            \
                                           c.min[0][i], ((grain) == 32 ? x->fsum32 : x->fsum16[0]) + 4 * i, has_min,   \
                                           c.scale[0][i], 1);                                                          \
                if ((grain) == 16)                                                                                     \
                    v = infer__row_grain_sse41(infer__add_across_sse41(s[1], fit), offset, x->sum16[1] + 4 * i,        \
                                               c.scale[1][i], c.min[1][i], x->fsum16[1] + 4 * i, has_min, v, 0);       \
                _mm_storeu_ps(t + 4 * i, v);                                                                           \
            }                                                                                                          \
        }                                                                                                              \
    }

/* y[r] += t * d over n_chunks chunks of eight rows; t of row r is at t + r * stride. */
INFER__ON_sse41 static void infer__add_rows_sse41(const float *t, int64_t stride, int n_chunks, const infer__x8 *x,
                                                  int64_t x_step, float *y) {
    __m128 sum[2];
    int i, k, r;
    INFER__UNROLL for (r = 0; r < 2; r++) sum[r] = _mm_loadu_ps(y + 4 * r);
    for (; n_chunks > 0; n_chunks--, t += 8, x += x_step)
        for (i = 0; i < 8; i += 4)
            INFER__UNROLL for (r = 0; r < 2; r++) {
                const float *from = t + 4 * r * stride + i;
                __m128 v[4];
                INFER__UNROLL for (k = 0; k < 4; k++) v[k] = _mm_loadu_ps(from + k * stride);
                _MM_TRANSPOSE4_PS(v[0], v[1], v[2], v[3]);
                INFER__UNROLL for (k = 0; k < 4; k++)
                    sum[r] = infer__f_fma_sse41(v[k], _mm_set1_ps(x->d[i + k]), sum[r]);
            }
    INFER__UNROLL for (r = 0; r < 2; r++) _mm_storeu_ps(y + 4 * r, sum[r]);
}

/* ---- types ------------------------------------------------------------------------------------------------------ */

INFER__ROW_SSE41(q4_0, 144, 32, 0, 8, 8, 0, infer__nibbles_sse41(p + 18 * b + 2, h),
                 infer__halves_sse41(p, 18, c.scale[0]))
INFER__ROW_SSE41(q4_1, 160, 32, 1, 8, 0, 0, infer__nibbles_sse41(p + 20 * b + 4, h),
                 infer__halves_sse41(p, 20, c.scale[0]);
                 infer__halves_sse41(p + 2, 20, c.min[0]))
INFER__ROW_SSE41(q5_0, 176, 32, 0, 4, 16, 0,
                 infer__fifth_sse41(infer__nibbles_sse41(p + 22 * b + 6, h), p + 22 * b + 2 + 2 * h),
                 infer__halves_sse41(p, 22, c.scale[0]))
INFER__ROW_SSE41(q5_1, 192, 32, 1, 4, 0, 0,
                 infer__fifth_sse41(infer__nibbles_sse41(p + 24 * b + 8, h), p + 24 * b + 4 + 2 * h),
                 infer__halves_sse41(p, 24, c.scale[0]);
                 infer__halves_sse41(p + 2, 24, c.min[0]))
INFER__ROW_SSE41(q8_0, 272, 32, 0, 0, 0, 128, infer__load_sse41(p + 34 * b + 2 + 16 * h),
                 infer__halves_sse41(p, 34, c.scale[0]))
INFER__ON_sse41 INFER__INLINE __m128i infer__levels_sse41(const int8_t *levels, __m128i codes) {
    return _mm_shuffle_epi8(infer__load_sse41(levels), codes);
}
INFER__ROW_SSE41(iq4_nl, 144, 32, 0, 0, 0, 128,
                 infer__levels_sse41(infer__kvalues_iq4nl, infer__nibbles_sse41(p + 18 * b + 2, h)),
                 infer__halves_sse41(p, 18, c.scale[0]))
INFER__ROW_SSE41(mxfp4, 136, 32, 0, 0, 0, 12,
                 infer__levels_sse41(infer__kvalues_fp4, infer__nibbles_sse41(p + 17 * b + 1, h)),
                 float f[8];
                 INFER__UNROLL for (k = 0; k < 8; k++) f[k] = infer__e8m0_half(p[17 * k]);
                 c.scale[0][0] = _mm_loadu_ps(f);
                 c.scale[0][1] = _mm_loadu_ps(f + 4))

/* infer__k_scale_min of the 12 bytes after d and dmin: eight scales, eight minima. All in vectors: of bytes that
 * were written one by one gcc 12 made vectors by way of MMX registers, after which the host's x87 fails; the compile
 * tests look for them. */
INFER__ON_sse41 INFER__INLINE void infer__row_scale_min_sse41(const uint8_t *p, infer__row_scales_sse41 *c) {
    const __m128i v = infer__load_sse41(p), four = _mm_set_epi32(-1, 0, 0, 0);
    const __m128i top = infer__and_sse41(infer__move_sse41(v, 6, 4), 48);
    __m128i six = _mm_shuffle_epi8(infer__and_sse41(v, 63), _mm_setr_epi32(0x07060504, -1, 0x0b0a0908, -1));
    six = _mm_or_si128(six, _mm_shuffle_epi8(top, _mm_setr_epi32(-1, 0x07060504, -1, 0x0b0a0908)));
    six = _mm_or_si128(six, _mm_shuffle_epi8(infer__and_sse41(v, 15), _mm_setr_epi32(-1, 0x0f0e0d0c, -1, -1)));
    six = _mm_or_si128(six, _mm_and_si128(infer__and_sse41(infer__move_sse41(v, 4, 0), 15), four));
    infer__row_bytes_sse41(six, 0, infer__f16_f32(infer__load_u16(p)), c->scale[0]);
    infer__row_bytes_sse41(_mm_srli_si128(six, 8), 0, -infer__f16_f32(infer__load_u16(p + 2)), c->min[0]);
}
/* The scales of IQ4_XS: of four blocks from 16 bits of nibbles and 8 bits of pairs. */
INFER__ON_sse41 INFER__INLINE __m128 infer__row_iq4_xs_sse41(int low, int high, float d) {
    const __m128i a = _mm_mullo_epi32(_mm_set1_epi32(low), _mm_setr_epi32(4096, 256, 16, 1));
    const __m128i b = _mm_mullo_epi32(_mm_set1_epi32(high), _mm_setr_epi32(64, 16, 4, 1));
    const __m128i v = _mm_or_si128(_mm_and_si128(_mm_srli_epi32(a, 12), _mm_set1_epi32(15)),
                                   _mm_and_si128(_mm_srli_epi32(b, 2), _mm_set1_epi32(48)));
    return _mm_mul_ps(_mm_cvtepi32_ps(_mm_sub_epi32(v, _mm_set1_epi32(32))), _mm_set1_ps(d));
}
INFER__ROW_SSE41(q4_k, 144, 32, 1, 8, 0, 0, infer__nibbles_sse41(p + 16 + 32 * (b / 2) + 16 * h, b % 2),
                 infer__row_scale_min_sse41(p, &c))
INFER__ROW_SSE41(q5_k, 176, 32, 1, 4, 0, 0,
                 infer__with_sse41(infer__nibbles_sse41(p + 48 + 32 * (b / 2) + 16 * h, b % 2),
                                   infer__load_sse41(p + 16 + 16 * h), b, 4, 16),
                 infer__row_scale_min_sse41(p, &c))
INFER__ROW_SSE41(q6_k, 210, 16, 0, 2, 32, 0,
                 infer__with_sse41(infer__nibbles_sse41(p + 64 * (b / 4) + 32 * (b % 2) + 16 * h, b / 2 % 2),
                                   infer__load_sse41(p + 128 + 32 * (b / 4) + 16 * h), 2 * (b % 4), 4, 48),
                 infer__row_sixteen_sse41(infer__load_sse41(p + 192), 1, infer__f16_f32(infer__load_u16(p + 208)),
                                          c.scale))
/* Two bits of half h of block b from 64 bytes. */
INFER__ON_sse41 INFER__INLINE __m128i infer__row_pairs_sse41(const uint8_t *p, int b, int h) {
    return infer__and_sse41(infer__move_sse41(infer__load_sse41(p + 32 * (b / 4) + 16 * h), 2 * (b % 4), 0), 3);
}
INFER__ROW_SSE41(q2_k, 84, 16, 1, 8, 0, 0, infer__row_pairs_sse41(p + 16, b, h),
                 infer__row_sixteen_sse41(infer__and_sse41(infer__load_sse41(p), 15), 0,
                                          infer__f16_f32(infer__load_u16(p + 80)), c.scale);
                 infer__row_sixteen_sse41(infer__nibbles_sse41(p, 1), 0, -infer__f16_f32(infer__load_u16(p + 82)),
                                          c.min))
/* infer__q3_k_scale of 16 halves; at p two bytes of codes, twelve of scales, d. */
INFER__ON_sse41 INFER__INLINE __m128i infer__row_q3_k_sse41(const uint8_t *p) {
    const __m128i v = infer__load_sse41(p), scales = _mm_srli_si128(v, 2), last = _mm_setr_epi32(0, 0, 0, -1);
    const __m128i low = _mm_unpacklo_epi64(infer__and_sse41(scales, 15),
                                           infer__and_sse41(infer__move_sse41(scales, 4, 0), 15));
    const __m128i four = _mm_shuffle_epi32(scales, 0xaa); /* their upper bits, two of a byte for each four scales */
    const __m128i up = _mm_mullo_epi32(four, _mm_setr_epi32(16, 4, 1, 0));
    const __m128i high = _mm_or_si128(up, _mm_and_si128(infer__move_sse41(four, 6, 4), last));
    return _mm_sub_epi8(infer__with_sse41(low, high, 0, 0, 48), _mm_set1_epi8(32));
}
INFER__ROW_SSE41(q3_k, 110, 16, 0, 8, 4, 0,
                 infer__with_sse41(infer__row_pairs_sse41(p + 32, b, h), infer__load_sse41(p + 16 * h), b, 2, 4),
                 infer__row_sixteen_sse41(infer__row_q3_k_sse41(p + 94), 1, infer__f16_f32(infer__load_u16(p + 108)),
                                          c.scale))
INFER__ROW_SSE41(iq4_xs, 136, 32, 0, 0, 0, 128,
                 infer__levels_sse41(infer__kvalues_iq4nl, infer__nibbles_sse41(p + 8 + 16 * b, h)),
                 const float d = infer__f16_f32(infer__load_u16(p));
                 c.scale[0][0] = infer__row_iq4_xs_sse41(infer__load_u16(p + 4), p[2], d);
                 c.scale[0][1] = infer__row_iq4_xs_sse41(infer__load_u16(p + 6), p[3], d))
#undef INFER__ROW_SSE41

static const infer__unpack_row infer__unpacks_sse41[] = {
    {2, INFER__CPU_SSE41, infer__q4_0_unpack_sse41},
    {8, INFER__CPU_SSE41, infer__q8_0_unpack_sse41},
    INFER__QUANT(Q4_1, 3, INFER__CPU_SSE41, infer__q4_1_unpack_sse41)
    INFER__QUANT(Q5_0, 6, INFER__CPU_SSE41, infer__q5_0_unpack_sse41)
    INFER__QUANT(Q5_1, 7, INFER__CPU_SSE41, infer__q5_1_unpack_sse41)
    INFER__QUANT(Q2_K, 10, INFER__CPU_SSE41, infer__q2_k_unpack_sse41)
    INFER__QUANT(Q3_K, 11, INFER__CPU_SSE41, infer__q3_k_unpack_sse41)
    INFER__QUANT(Q4_K, 12, INFER__CPU_SSE41, infer__q4_k_unpack_sse41)
    INFER__QUANT(Q5_K, 13, INFER__CPU_SSE41, infer__q5_k_unpack_sse41)
    INFER__QUANT(Q6_K, 14, INFER__CPU_SSE41, infer__q6_k_unpack_sse41)
    INFER__QUANT(IQ4_NL, 20, INFER__CPU_SSE41, infer__iq4_nl_unpack_sse41)
    INFER__QUANT(IQ4_XS, 23, INFER__CPU_SSE41, infer__iq4_xs_unpack_sse41)
    INFER__QUANT(MXFP4, 39, INFER__CPU_SSE41, infer__mxfp4_unpack_sse41)
};
static const infer__one_row infer__ones_sse41[] = {
    {2, NULL, infer__q4_0_row_sse41},
    {8, NULL, infer__q8_0_row_sse41},
    INFER__QUANT(Q4_1, 3, NULL, infer__q4_1_row_sse41)
    INFER__QUANT(Q5_0, 6, NULL, infer__q5_0_row_sse41)
    INFER__QUANT(Q5_1, 7, NULL, infer__q5_1_row_sse41)
    INFER__QUANT(Q2_K, 10, NULL, infer__q2_k_row_sse41)
    INFER__QUANT(Q3_K, 11, NULL, infer__q3_k_row_sse41)
    INFER__QUANT(Q4_K, 12, NULL, infer__q4_k_row_sse41)
    INFER__QUANT(Q5_K, 13, NULL, infer__q5_k_row_sse41)
    INFER__QUANT(Q6_K, 14, NULL, infer__q6_k_row_sse41)
    INFER__QUANT(IQ4_NL, 20, NULL, infer__iq4_nl_row_sse41)
    INFER__QUANT(IQ4_XS, 23, NULL, infer__iq4_xs_row_sse41)
    INFER__QUANT(MXFP4, 39, NULL, infer__mxfp4_row_sse41)
};
#endif
