/* unpack_neon.c: unpack functions with NEON for the types whose blocks have 32 to 128 values: Q4_0 .. Q8_0, IQ4_NL,
 * MXFP4, NVFP4, Q1_0, Q2_0.
 *
 * Owns:  what unpack_neon_k.c and unpack_neon_iq.c use too, and functions for the table in the latter. The plain C
 *        functions of quant_*.c define what they compute; results are equal. Only what every ARMv8-A has: all levels of
 *        int8_arm.c use them.
 * How:   codes row after row, pairs of blocks, whose halves are neighbours in infer__unpacked. Then the scales, block
 *        after block, of 16 rows each.
 * Tails: a row may end after an odd number of blocks; what is read beyond it, one block, at most 34 of the
 *        INFER__OVERREAD bytes, is written to unused entries.
 * Start: INFER__UNPACK_NEON.
 */
#include "../products/cpu_int8.h"

#if defined(INFER__SIMD_ARM)

/* ---- codes ----------------------------------------------------------------------------------------------------- */

/* 16 bytes to one half of two blocks that are neighbours. */
INFER__INLINE void infer__put_two_neon(uint8_t *q, uint8x16_t first, uint8x16_t second) {
    vst1q_u8(q, first);
    vst1q_u8(q + 16, second);
}
INFER__INLINE uint8x16_t infer__and_neon(uint8x16_t v, int mask) { return vandq_u8(v, vdupq_n_u8((uint8_t)mask)); }

/* Two blocks, a and b, with 16 bytes of nibbles each. */
INFER__INLINE void infer__nibbles_neon(const uint8_t *a, const uint8_t *b, uint8_t *q) {
    const uint8x16_t v = vld1q_u8(a), w = vld1q_u8(b);
    infer__put_two_neon(q, infer__and_neon(v, 15), infer__and_neon(w, 15));
    infer__put_two_neon(q + 64, vshrq_n_u8(v, 4), vshrq_n_u8(w, 4));
}
/* The same as indices of a table of 16 bytes. */
INFER__INLINE void infer__levels_neon(const uint8_t *a, const uint8_t *b, uint8x16_t table, uint8_t *q) {
    const uint8x16_t v = vld1q_u8(a), w = vld1q_u8(b);
    infer__put_two_neon(q, vqtbl1q_u8(table, infer__and_neon(v, 15)), vqtbl1q_u8(table, infer__and_neon(w, 15)));
    infer__put_two_neon(q + 64, vqtbl1q_u8(table, vshrq_n_u8(v, 4)), vqtbl1q_u8(table, vshrq_n_u8(w, 4)));
}
INFER__INLINE uint8x16_t infer__iq4_table_neon(void) {
    return veorq_u8(vreinterpretq_u8_s8(vld1q_s8(infer__kvalues_iq4nl)), vdupq_n_u8(128));
}
INFER__INLINE uint8x16_t infer__fp4_table_neon(void) {
    return vreinterpretq_u8_s8(vaddq_s8(vld1q_s8(infer__kvalues_fp4), vdupq_n_s8(12)));
}

/* All ones for the bits that are set of bytes `at` (lanes 0..7) and at + 1 of a vector. */
INFER__INLINE uint8x16_t infer__bits_neon(uint8x16_t bytes, int at) {
    const uint8x16_t bit = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201u));
    const uint8x16_t index = vcombine_u8(vdup_n_u8((uint8_t)at), vdup_n_u8((uint8_t)(at + 1)));
    return vtstq_u8(vqtbl1q_u8(bytes, index), bit);
}
/* Bit 4 of v from a mask. */
INFER__INLINE uint8x16_t infer__fifth_neon(uint8x16_t mask, uint8x16_t v) {
    return vbslq_u8(vdupq_n_u8(16), mask, v);
}
/* Two blocks with 4 bytes of fifth bits, then 16 bytes of nibbles. */
INFER__INLINE void infer__fifths_neon(const uint8_t *a, const uint8_t *b, uint8_t *q) {
    const uint8x16_t v = vld1q_u8(a + 4), w = vld1q_u8(b + 4);
    const uint8x16_t c = vld1q_u8(a), d = vld1q_u8(b); /* of which the first four bytes count */
    infer__put_two_neon(q, infer__fifth_neon(infer__bits_neon(c, 0), infer__and_neon(v, 15)),
                        infer__fifth_neon(infer__bits_neon(d, 0), infer__and_neon(w, 15)));
    infer__put_two_neon(q + 64, infer__fifth_neon(infer__bits_neon(c, 2), vshrq_n_u8(v, 4)),
                        infer__fifth_neon(infer__bits_neon(d, 2), vshrq_n_u8(w, 4)));
}

/* Two blocks of 32 signed bytes. */
INFER__INLINE void infer__bytes_neon(const uint8_t *a, const uint8_t *b, uint8_t *q) {
    const uint8x16_t flip = vdupq_n_u8(128);
    infer__put_two_neon(q, veorq_u8(vld1q_u8(a), flip), veorq_u8(vld1q_u8(b), flip));
    infer__put_two_neon(q + 64, veorq_u8(vld1q_u8(a + 16), flip), veorq_u8(vld1q_u8(b + 16), flip));
}

/* ---- scales ---------------------------------------------------------------------------------------------------- */

INFER__INLINE float32x4_t infer__widened_neon(uint16x4_t v) { return vcvt_f32_f16(vreinterpret_f16_u16(v)); }

/* 8 scales, from fp16. */
INFER__INLINE void infer__put_halves_neon(uint16x8_t v, float *to) {
    vst1q_f32(to, infer__widened_neon(vget_low_u16(v)));
    vst1q_f32(to + 4, vcvt_high_f32_f16(vreinterpretq_f16_u16(v)));
}

/* A number of each of 8 rows: 16 bits, and of 4 rows: 32 bits. Any alignment. */
INFER__INLINE uint16x8_t infer__rows_u16_neon(const uint8_t *p, uint64_t row_bytes) {
    uint16x8_t v = vdupq_n_u16(infer__load_u16(p));
    v = vsetq_lane_u16(infer__load_u16(p += row_bytes), v, 1);
    v = vsetq_lane_u16(infer__load_u16(p += row_bytes), v, 2);
    v = vsetq_lane_u16(infer__load_u16(p += row_bytes), v, 3);
    v = vsetq_lane_u16(infer__load_u16(p += row_bytes), v, 4);
    v = vsetq_lane_u16(infer__load_u16(p += row_bytes), v, 5);
    v = vsetq_lane_u16(infer__load_u16(p += row_bytes), v, 6);
    return vsetq_lane_u16(infer__load_u16(p + row_bytes), v, 7);
}
INFER__INLINE uint32x4_t infer__rows_u32_neon(const uint8_t *p, uint64_t row_bytes) {
    uint32x4_t v = vdupq_n_u32(infer__load_u32(p));
    v = vsetq_lane_u32(infer__load_u32(p += row_bytes), v, 1);
    v = vsetq_lane_u32(infer__load_u32(p += row_bytes), v, 2);
    return vsetq_lane_u32(infer__load_u32(p + row_bytes), v, 3);
}

/* Two adjacent fp16 of each of 16 rows, first[0] those of rows 0 .. 7. */
INFER__INLINE void infer__rows_pairs_neon(const uint8_t *p, uint64_t row_bytes, uint16x8_t *first, uint16x8_t *second) {
    int i;
    INFER__UNROLL for (i = 0; i < 2; i++, p += 8 * row_bytes) {
        const uint16x8_t v = vreinterpretq_u16_u32(infer__rows_u32_neon(p, row_bytes));
        const uint16x8_t w = vreinterpretq_u16_u32(infer__rows_u32_neon(p + 4 * row_bytes, row_bytes));
        first[i] = vuzp1q_u16(v, w);
        second[i] = vuzp2q_u16(v, w);
    }
}

INFER__INLINE void infer__put_scales_neon(const uint8_t *src, uint64_t row_bytes, int b, infer__unpacked *out) {
    int r;
    INFER__UNROLL for (r = 0; r < INFER__GROUP; r += 8, src += 8 * row_bytes)
        infer__put_halves_neon(infer__rows_u16_neon(src, row_bytes), out->scale[b] + r);
}
INFER__INLINE void infer__put_scales_mins_neon(const uint8_t *src, uint64_t row_bytes, int b, infer__unpacked *out) {
    uint16x8_t d[2], m[2];
    int i;
    infer__rows_pairs_neon(src, row_bytes, d, m);
    INFER__UNROLL for (i = 0; i < 2; i++) {
        infer__put_halves_neon(d[i], out->scale[b] + 8 * i);
        infer__put_halves_neon(m[i], out->min[b] + 8 * i);
    }
}

/* E8M0 bytes: 2^(e - 128), which has the bits (e - 1) << 23; the two smallest are subnormal, 1 << 21 and 1 << 22. */
INFER__INLINE void infer__put_e8m0_neon(const uint8_t *src, uint64_t row_bytes, int b, infer__unpacked *out) {
    const uint8x16_t subnormal = vreinterpretq_u8_u64(vcombine_u64(vcreate_u64(0x4020), vcreate_u64(0)));
    const uint16x8_t zero = vdupq_n_u16(0);
    uint64_t rows[2];
    uint8x16_t e, less, third, top;
    uint16x8_t v[2];
    int r, i;
    INFER__UNROLL for (r = 0; r < 2; r++) {
        rows[r] = 0;
        INFER__UNROLL for (i = 0; i < 64; i += 8, src += row_bytes) rows[r] |= (uint64_t)*src << i;
    }
    e = vreinterpretq_u8_u64(vcombine_u64(vcreate_u64(rows[0]), vcreate_u64(rows[1])));
    less = vqsubq_u8(e, vdupq_n_u8(1));
    third = vorrq_u8(vshlq_n_u8(less, 7), vqtbl1q_u8(subnormal, e)); /* a byte past the table's end gives 0 */
    top = vshrq_n_u8(less, 1);
    v[0] = vreinterpretq_u16_u8(vzip1q_u8(third, top));
    v[1] = vreinterpretq_u16_u8(vzip2q_u8(third, top));
    INFER__UNROLL for (r = 0; r < 2; r++) {
        vst1q_f32(out->scale[b] + 8 * r, vreinterpretq_f32_u16(vzip1q_u16(zero, v[r])));
        vst1q_f32(out->scale[b] + 8 * r + 4, vreinterpretq_f32_u16(vzip2q_u16(zero, v[r])));
    }
}

/* ---- types ----------------------------------------------------------------------------------------------------- */

/* codes: writes the codes of blocks a and b to q, a pair of blocks; scales: a function above. */
#define INFER__UNPACK_NEON(name, bytes, scales, codes)                                                                 \
    INFER__INLINE void infer__##name##_pair_neon(const uint8_t *a, uint8_t *q) {                                       \
        const uint8_t *b = a + (bytes);                                                                                \
        codes;                                                                                                         \
    }                                                                                                                  \
    static void infer__##name##_unpack_neon(const uint8_t *src, uint64_t row_bytes, int n_blocks,                      \
                                            infer__unpacked *out) {                                                    \
        const uint8_t *row = src;                                                                                      \
        infer__ahead ahead = out->ahead;                                                                               \
        int r, k;                                                                                                      \
        for (r = 0; r < INFER__GROUP; r++, row += row_bytes, infer__ask(&ahead)) {                                     \
            const uint8_t *a = row;                                                                                    \
            uint8_t *q = out->q[r];                                                                                    \
            for (k = n_blocks; k > 0; k -= 4, a += 4 * (bytes), q += 128) {                                            \
                infer__##name##_pair_neon(a, q);                                                                       \
                if (k > 2) infer__##name##_pair_neon(a + 2 * (bytes), q + 32);                                         \
            }                                                                                                          \
        }                                                                                                              \
        out->ahead = ahead;                                                                                            \
        for (k = 0; k < n_blocks; k++) scales(src + (bytes) * k, row_bytes, k, out);                                   \
    }
INFER__UNPACK_NEON(q4_0, 18, infer__put_scales_neon, infer__nibbles_neon(a + 2, b + 2, q))
INFER__UNPACK_NEON(q4_1, 20, infer__put_scales_mins_neon, infer__nibbles_neon(a + 4, b + 4, q))
INFER__UNPACK_NEON(q5_0, 22, infer__put_scales_neon, infer__fifths_neon(a + 2, b + 2, q))
INFER__UNPACK_NEON(q5_1, 24, infer__put_scales_mins_neon, infer__fifths_neon(a + 4, b + 4, q))
INFER__UNPACK_NEON(q8_0, 34, infer__put_scales_neon, infer__bytes_neon(a + 2, b + 2, q))
INFER__UNPACK_NEON(iq4_nl, 18, infer__put_scales_neon, infer__levels_neon(a + 2, b + 2, infer__iq4_table_neon(), q))
INFER__UNPACK_NEON(mxfp4, 17, infer__put_e8m0_neon, infer__levels_neon(a + 1, b + 1, infer__fp4_table_neon(), q))
#undef INFER__UNPACK_NEON

/* ---- types with blocks of 64 and 128 values --------------------------------------------------------------------- */

/* A block of 128 values is 16 bytes after the scale: byte j holds values 8 j .. 8 j + 7. Codes 0 and 2. */
static void infer__q1_0_unpack_neon(const uint8_t *src, uint64_t row_bytes, int n_blocks, infer__unpacked *out) {
    const uint8_t *row = src;
    int r, b, i;
    for (r = 0; r < INFER__GROUP; r++, row += row_bytes, infer__ask(&out->ahead))
        for (b = 0; b < n_blocks; b += 4) {
            const uint8x16_t bits = vld1q_u8(row + 18 * (b / 4) + 2);
            INFER__UNROLL for (i = 0; i < 8; i++) vst1q_u8(out->q[r] + 32 * b + infer__q_index(16 * i),
                                                           infer__and_neon(infer__bits_neon(bits, 2 * i), 2));
        }
    for (b = 0; b < n_blocks; b++) infer__put_scales_neon(src + 18 * (b / 4), row_bytes, b, out);
}

/* Value j of a block is bits 2 (j % 4) of byte j / 4 of the 16 bytes after the scale. */
static void infer__q2_0_unpack_neon(const uint8_t *src, uint64_t row_bytes, int n_blocks, infer__unpacked *out) {
    const int8x16_t down = vreinterpretq_s8_u32(vdupq_n_u32(0xfafcfe00u)); /* shifts of 0, -2, -4, -6 */
    const uint8x16_t index = vreinterpretq_u8_u64(vcombine_u64(vcreate_u64(0x0101010100000000u),
                                                               vcreate_u64(0x0303030302020202u)));
    const uint8_t *row = src;
    int r, b, i;
    for (r = 0; r < INFER__GROUP; r++, row += row_bytes, infer__ask(&out->ahead))
        for (b = 0; b < n_blocks; b += 2) {
            const uint8x16_t bytes = vld1q_u8(row + 18 * (b / 2) + 2);
            uint8_t *q = out->q[r] + infer__q_index(32 * b);
            INFER__UNROLL for (i = 0; i < 4; i++) {
                const uint8x16_t v = vqtbl1q_u8(bytes, vaddq_u8(index, vdupq_n_u8((uint8_t)(4 * i))));
                vst1q_u8(q + infer__q_index(16 * i), infer__and_neon(vshlq_u8(v, down), 3));
            }
        }
    for (b = 0; b < n_blocks; b++) infer__put_scales_neon(src + 18 * (b / 2), row_bytes, b, out);
}

/* Halves of UE4M3 scales of 16 rows; the top bit is ignored; the byte 127 is 0. As the bits 7 .. 13 of an fp16, whose
 * exponent has another bias, they are the numbers times 2^-8, the subnormal ones too. */
INFER__INLINE void infer__put_ue4m3_neon(uint8x16_t v, float *to) {
    uint16x8_t half[2];
    int i;
    v = vbicq_u8(infer__and_neon(v, 127), vceqq_u8(v, vdupq_n_u8(127)));
    half[0] = vshll_n_u8(vget_low_u8(v), 7);
    half[1] = vshll_n_u8(vget_high_u8(v), 7);
    INFER__UNROLL for (i = 0; i < 2; i++) {
        vst1q_f32(to + 8 * i, vmulq_n_f32(infer__widened_neon(vget_low_u16(half[i])), 128.0f));
        vst1q_f32(to + 8 * i + 4, vmulq_n_f32(infer__widened_neon(vget_high_u16(half[i])), 128.0f));
    }
}

/* Four scales, then 8 bytes for each 16 values: low halves, then high halves. */
static void infer__nvfp4_unpack_neon(const uint8_t *src, uint64_t row_bytes, int n_blocks, infer__unpacked *out) {
    const uint8x16_t table = infer__fp4_table_neon();
    const uint8_t *row = src;
    uint8x16_t v[4], t[4];
    int r, b, i;
    for (r = 0; r < INFER__GROUP; r++, row += row_bytes, infer__ask(&out->ahead))
        for (b = 0; b < n_blocks; b += 2) {
            const uint8_t *p = row + 36 * (b / 2) + 4;
            uint8_t *q = out->q[r] + infer__q_index(32 * b);
            INFER__UNROLL for (i = 0; i < 2; i++, p += 16, q += 16) { /* blocks b and b + 1 */
                const uint8x16_t bytes = vld1q_u8(p);
                const uint64x2_t low = vreinterpretq_u64_u8(vqtbl1q_u8(table, infer__and_neon(bytes, 15)));
                const uint64x2_t high = vreinterpretq_u64_u8(vqtbl1q_u8(table, vshrq_n_u8(bytes, 4)));
                vst1q_u8(q, vreinterpretq_u8_u64(vzip1q_u64(low, high)));
                vst1q_u8(q + 64, vreinterpretq_u8_u64(vzip2q_u64(low, high)));
            }
        }
    for (b = 0; b < n_blocks; b += 2, src += 36) {
        INFER__UNROLL for (i = 0; i < 4; i++)
            v[i] = vreinterpretq_u8_u32(infer__rows_u32_neon(src + (uint64_t)(4 * i) * row_bytes, row_bytes));
        t[0] = vuzp1q_u8(v[0], v[1]); /* bytes 0 and 2 of rows 0 .. 7; of rows 8 .. 15; bytes 1 and 3 */
        t[1] = vuzp1q_u8(v[2], v[3]);
        t[2] = vuzp2q_u8(v[0], v[1]);
        t[3] = vuzp2q_u8(v[2], v[3]);
        infer__put_ue4m3_neon(vuzp1q_u8(t[0], t[1]), out->scale[2 * b]);
        infer__put_ue4m3_neon(vuzp1q_u8(t[2], t[3]), out->scale[2 * b + 1]);
        infer__put_ue4m3_neon(vuzp2q_u8(t[0], t[1]), out->scale[2 * b + 2]);
        infer__put_ue4m3_neon(vuzp2q_u8(t[2], t[3]), out->scale[2 * b + 3]);
    }
}
#endif
