/* unpack_neon_k.c: unpack functions with NEON for the types whose blocks have 256 values.
 *
 * Owns:  functions for the table in unpack_neon_iq.c, and the transposing of scales.
 * How:   codes row after row, 32 bytes at a time. Scales of 16 rows are transposed as bytes (infer__heads_neon), put
 *        together there, 16 at a time, then converted and multiplied. Everything read lies in the block.
 * Start: infer__q4_k_unpack_neon.
 */
#include "../products/cpu_int8.h"

#if defined(INFER__SIMD_ARM)

/* ---- scales ---------------------------------------------------------------------------------------------------- */

/* 16 bytes of 16 rows, transposed: vector i has byte i of all rows. Interleaving vectors i and i + 8 turns the bits of
 * a byte's place, row before column, by one; after four times row and column have changed places. */
INFER__INLINE void infer__heads_neon(const uint8_t *src, uint64_t row_bytes, uint8x16_t *v) {
    uint8x16_t t[16];
    int i, step;
    INFER__UNROLL for (i = 0; i < 16; i++, src += row_bytes) v[i] = vld1q_u8(src);
    INFER__UNROLL for (step = 0; step < 2; step++) {
        INFER__UNROLL for (i = 0; i < 8; i++) {
            t[2 * i] = vzip1q_u8(v[i], v[i + 8]);
            t[2 * i + 1] = vzip2q_u8(v[i], v[i + 8]);
        }
        INFER__UNROLL for (i = 0; i < 8; i++) {
            v[2 * i] = vzip1q_u8(t[i], t[i + 8]);
            v[2 * i + 1] = vzip2q_u8(t[i], t[i + 8]);
        }
    }
}

/* fp16 of 16 rows to floats. */
INFER__INLINE void infer__widened_rows_neon(uint16x8_t first, uint16x8_t second, float32x4_t *d) {
    d[0] = infer__widened_neon(vget_low_u16(first));
    d[1] = infer__widened_neon(vget_high_u16(first));
    d[2] = infer__widened_neon(vget_low_u16(second));
    d[3] = infer__widened_neon(vget_high_u16(second));
}
/* From vectors of their two bytes. */
INFER__INLINE void infer__head_halves_neon(uint8x16_t low, uint8x16_t high, float32x4_t *d) {
    infer__widened_rows_neon(vreinterpretq_u16_u8(vzip1q_u8(low, high)), vreinterpretq_u16_u8(vzip2q_u8(low, high)), d);
}
INFER__INLINE void infer__negative_neon(float32x4_t *d) {
    int i;
    INFER__UNROLL for (i = 0; i < 4; i++) d[i] = vnegq_f32(d[i]);
}

/* A scale of 16 rows as bytes, times d. */
INFER__INLINE void infer__put_product_neon(uint8x16_t bytes, int is_signed, const float32x4_t *d, float *to) {
    int i;
    INFER__UNROLL for (i = 0; i < 2; i++) {
        const uint8x8_t v = i ? vget_high_u8(bytes) : vget_low_u8(bytes);
        float32x4_t low, high;
        if (is_signed) {
            const int16x8_t w = vmovl_s8(vreinterpret_s8_u8(v));
            low = vcvtq_f32_s32(vmovl_s16(vget_low_s16(w)));
            high = vcvtq_f32_s32(vmovl_s16(vget_high_s16(w)));
        } else {
            const uint16x8_t w = vmovl_u8(v);
            low = vcvtq_f32_u32(vmovl_u16(vget_low_u16(w)));
            high = vcvtq_f32_u32(vmovl_u16(vget_high_u16(w)));
        }
        vst1q_f32(to + 8 * i, vmulq_f32(d[2 * i], low));
        vst1q_f32(to + 8 * i + 4, vmulq_f32(d[2 * i + 1], high));
    }
}

/* The scales and minima of Q4_K and Q5_K: d, dmin, 12 bytes. */
static void infer__put_scale_min_neon(const uint8_t *src, uint64_t row_bytes, infer__unpacked *out) {
    uint8x16_t v[16];
    float32x4_t d[4], dmin[4];
    int i;
    infer__heads_neon(src, row_bytes, v);
    infer__head_halves_neon(v[0], v[1], d);
    infer__head_halves_neon(v[2], v[3], dmin);
    infer__negative_neon(dmin);
    INFER__UNROLL for (i = 0; i < 4; i++) {
        infer__put_product_neon(infer__and_neon(v[4 + i], 63), 0, d, out->scale[i]);
        infer__put_product_neon(infer__and_neon(v[8 + i], 63), 0, dmin, out->min[i]);
        infer__put_product_neon(vsliq_n_u8(infer__and_neon(v[12 + i], 15), vshrq_n_u8(v[4 + i], 6), 4), 0, d,
                                out->scale[4 + i]);
        infer__put_product_neon(vsliq_n_u8(vshrq_n_u8(v[12 + i], 4), vshrq_n_u8(v[8 + i], 6), 4), 0, dmin,
                                out->min[4 + i]);
    }
}

/* ---- codes ----------------------------------------------------------------------------------------------------- */

/* Where the first halves of blocks 2 c and 2 c + 1 of a row are; the second halves are 64 further on. */
INFER__INLINE uint8_t *infer__pair_at_neon(uint8_t *q, int c) { return q + infer__q_index(64 * c); }

/* Bits from `to` on are those of v from bit `from` on, with rubbish above and below. */
INFER__INLINE uint8x16_t infer__move_neon(uint8x16_t v, int from, int to) {
    return from == to ? v : vshlq_u8(v, vdupq_n_s8((int8_t)(to - from)));
}

static void infer__q4_k_unpack_neon(const uint8_t *src, uint64_t row_bytes, int n_blocks, infer__unpacked *out) {
    const uint8_t *row = src + 16;
    int r, c, h;
    (void)n_blocks;
    for (r = 0; r < INFER__GROUP; r++, row += row_bytes, infer__ask(&out->ahead))
        INFER__UNROLL for (c = 0; c < 4; c++)
            INFER__UNROLL for (h = 0; h < 2; h++) {
                const uint8x16_t v = vld1q_u8(row + 32 * c + 16 * h);
                infer__put_two_neon(infer__pair_at_neon(out->q[r], c) + 64 * h, infer__and_neon(v, 15),
                                    vshrq_n_u8(v, 4));
            }
    infer__put_scale_min_neon(src, row_bytes, out);
}

static void infer__q5_k_unpack_neon(const uint8_t *src, uint64_t row_bytes, int n_blocks, infer__unpacked *out) {
    const uint8_t *row = src;
    int r, c, h;
    (void)n_blocks;
    for (r = 0; r < INFER__GROUP; r++, row += row_bytes, infer__ask(&out->ahead))
        INFER__UNROLL for (h = 0; h < 2; h++) {
            const uint8x16_t bits = vld1q_u8(row + 16 + 16 * h); /* bit i: of block i */
            INFER__UNROLL for (c = 0; c < 4; c++) {
                const uint8x16_t v = vld1q_u8(row + 48 + 32 * c + 16 * h);
                infer__put_two_neon(
                    infer__pair_at_neon(out->q[r], c) + 64 * h,
                    vsliq_n_u8(v, infer__and_neon(infer__move_neon(bits, 2 * c, 0), 1), 4),
                    vsriq_n_u8(infer__and_neon(infer__move_neon(bits, 2 * c + 1, 4), 16), v, 4));
            }
        }
    infer__put_scale_min_neon(src, row_bytes, out);
}

static void infer__q6_k_scales_neon(const uint8_t *src, uint64_t row_bytes, infer__unpacked *out) {
    uint8x16_t v[16];
    float32x4_t d[4];
    int i;
    infer__widened_rows_neon(infer__rows_u16_neon(src + 208, row_bytes),
                            infer__rows_u16_neon(src + 208 + 8 * row_bytes, row_bytes), d);
    infer__heads_neon(src + 192, row_bytes, v);
    INFER__UNROLL for (i = 0; i < 16; i++) infer__put_product_neon(v[i], 1, d, out->scale[i]);
}

/* sli: the low bits of one vector stay, the others are another's; sri: the high bits. */
static void infer__q6_k_unpack_neon(const uint8_t *src, uint64_t row_bytes, int n_blocks, infer__unpacked *out) {
    const uint8_t *row = src;
    int r, i, h;
    (void)n_blocks;
    for (r = 0; r < INFER__GROUP; r++, row += row_bytes, infer__ask(&out->ahead))
        INFER__UNROLL for (i = 0; i < 2; i++)
            INFER__UNROLL for (h = 0; h < 2; h++) {
                const uint8_t *low = row + 64 * i + 16 * h;
                uint8_t *q = out->q[r] + 128 * i + 64 * h;
                const uint8x16_t a = vld1q_u8(low), b = vld1q_u8(low + 32);
                const uint8x16_t two = vld1q_u8(row + 128 + 32 * i + 16 * h), up = vshrq_n_u8(two, 2);
                infer__put_two_neon(q, vsliq_n_u8(a, infer__and_neon(two, 3), 4),
                                    vsliq_n_u8(b, infer__and_neon(up, 3), 4));
                infer__put_two_neon(q + 32, vsriq_n_u8(infer__and_neon(two, 0x30), a, 4),
                                    vsriq_n_u8(infer__and_neon(up, 0x30), b, 4));
            }
    infer__q6_k_scales_neon(src, row_bytes, out);
}

/* Two bits of Q2_K and TQ2_0: of 128 values from 32 bytes. */
INFER__INLINE void infer__put_quarters_neon(const uint8_t *src, uint64_t row_bytes, infer__unpacked *out) {
    int r, i;
    for (r = 0; r < INFER__GROUP; r++, src += row_bytes, infer__ask(&out->ahead))
        INFER__UNROLL for (i = 0; i < 4; i++) { /* halves of blocks */
            const uint8x16_t v = vld1q_u8(src + 16 * i);
            infer__put_two_neon(out->q[r] + 64 * i, infer__and_neon(v, 3), infer__and_neon(vshrq_n_u8(v, 2), 3));
            infer__put_two_neon(out->q[r] + 64 * i + 32, infer__and_neon(vshrq_n_u8(v, 4), 3), vshrq_n_u8(v, 6));
        }
}

static void infer__q2_k_scales_neon(const uint8_t *src, uint64_t row_bytes, infer__unpacked *out) {
    uint8x16_t v[16];
    uint16x8_t half[2], half_min[2];
    float32x4_t d[4], dmin[4];
    int i;
    infer__rows_pairs_neon(src + 80, row_bytes, half, half_min);
    infer__widened_rows_neon(half[0], half[1], d);
    infer__widened_rows_neon(half_min[0], half_min[1], dmin);
    infer__negative_neon(dmin);
    infer__heads_neon(src, row_bytes, v);
    INFER__UNROLL for (i = 0; i < 16; i++) {
        infer__put_product_neon(infer__and_neon(v[i], 15), 0, d, out->scale[i]);
        infer__put_product_neon(vshrq_n_u8(v[i], 4), 0, dmin, out->min[i]);
    }
}

static void infer__q2_k_unpack_neon(const uint8_t *src, uint64_t row_bytes, int n_blocks, infer__unpacked *out) {
    (void)n_blocks;
    infer__put_quarters_neon(src + 16, row_bytes, out);
    infer__q2_k_scales_neon(src, row_bytes, out);
}

/* One fp16 a row for all eight blocks. */
static void infer__put_one_scale_neon(const uint8_t *src, uint64_t row_bytes, infer__unpacked *out) {
    int b;
    infer__put_scales_neon(src, row_bytes, 0, out);
    for (b = 1; b < 8; b++) memcpy(out->scale[b], out->scale[0], sizeof out->scale[0]);
}

static void infer__tq2_0_unpack_neon(const uint8_t *src, uint64_t row_bytes, int n_blocks, infer__unpacked *out) {
    (void)n_blocks;
    infer__put_quarters_neon(src, row_bytes, out);
    infer__put_one_scale_neon(src + 64, row_bytes, out);
}

static void infer__q3_k_scales_neon(const uint8_t *src, uint64_t row_bytes, infer__unpacked *out) {
    uint8x16_t v[16];
    float32x4_t d[4];
    int i;
    infer__heads_neon(src + 96 - 2, row_bytes, v); /* two bytes of codes, 12 of scales, d */
    infer__head_halves_neon(v[14], v[15], d);
    INFER__UNROLL for (i = 0; i < 16; i++) {
        const uint8x16_t low = i < 8 ? infer__and_neon(v[2 + i], 15) : vshrq_n_u8(v[2 + i - 8], 4);
        const uint8x16_t high = infer__and_neon(infer__move_neon(v[2 + 8 + i % 4], 2 * (i / 4), 0), 3);
        infer__put_product_neon(vsubq_u8(vsliq_n_u8(low, high, 4), vdupq_n_u8(32)), 1, d, out->scale[i]);
    }
}

static void infer__q3_k_unpack_neon(const uint8_t *src, uint64_t row_bytes, int n_blocks, infer__unpacked *out) {
    const uint8_t *row = src;
    int r, i, h, c;
    (void)n_blocks;
    for (r = 0; r < INFER__GROUP; r++, row += row_bytes, infer__ask(&out->ahead))
        INFER__UNROLL for (h = 0; h < 2; h++) {
            const uint8x16_t bits = vld1q_u8(row + 16 * h); /* bit i: of block i */
            INFER__UNROLL for (i = 0; i < 2; i++) {
                const uint8x16_t two = vld1q_u8(row + 32 + 32 * i + 16 * h);
                INFER__UNROLL for (c = 0; c < 4; c++)
                    vst1q_u8(out->q[r] + 128 * i + 64 * h + 16 * c,
                             vsliq_n_u8(infer__move_neon(two, 2 * c, 0),
                                        infer__and_neon(infer__move_neon(bits, 4 * i + c, 0), 1), 2));
            }
        }
    infer__q3_k_scales_neon(src, row_bytes, out);
}

static void infer__iq4_xs_scales_neon(const uint8_t *src, uint64_t row_bytes, infer__unpacked *out) {
    uint8x16_t v[16];
    float32x4_t d[4];
    int i;
    infer__heads_neon(src, row_bytes, v);
    infer__head_halves_neon(v[0], v[1], d);
    INFER__UNROLL for (i = 0; i < 8; i++) {
        const uint8x16_t low = i % 2 ? vshrq_n_u8(v[4 + i / 2], 4) : infer__and_neon(v[4 + i / 2], 15);
        const uint8x16_t high = infer__and_neon(infer__move_neon(v[2 + i / 4], 2 * (i % 4), 0), 3);
        infer__put_product_neon(vsubq_u8(vsliq_n_u8(low, high, 4), vdupq_n_u8(32)), 1, d, out->scale[i]);
    }
}

static void infer__iq4_xs_unpack_neon(const uint8_t *src, uint64_t row_bytes, int n_blocks, infer__unpacked *out) {
    const uint8x16_t table = infer__iq4_table_neon();
    const uint8_t *row = src + 8;
    int r, c;
    (void)n_blocks;
    for (r = 0; r < INFER__GROUP; r++, row += row_bytes, infer__ask(&out->ahead))
        INFER__UNROLL for (c = 0; c < 4; c++)
            infer__levels_neon(row + 32 * c, row + 32 * c + 16, table, infer__pair_at_neon(out->q[r], c));
    infer__iq4_xs_scales_neon(src, row_bytes, out);
}
#endif
