/* unpack_neon_iq.c: unpack functions with NEON for the code book types, IQ1 to IQ3, and TQ1_0, and the table of all.
 *
 * Owns:  infer__unpacks_neon. The plain C functions of quant_iq.c and quant_k.c define what they compute; results are
 *        equal.
 * How:   16 values are two loads from a book of code_books.c, or four of four values each. Indices of more than 8 bits
 *        are put together eight at a time and pass through memory. Signs: a byte for 8 values, 16 bytes a vector.
 * Tails: scales are read as 16 bytes, of which up to 12 lie past the block; of TQ1_0 10.
 * Start: infer__iq2_xxs_unpack_neon.
 */
#include "../products/cpu_int8.h"

#if defined(INFER__SIMD_ARM)

/* ---- indices, signs --------------------------------------------------------------------------------------------- */

/* Eight indices: bytes from `low` on, and above them the bits of `mask` of the words moved up by `up`. */
INFER__INLINE void infer__put_indices_neon(const uint8_t *low, uint16x8_t words, int16x8_t up, int mask, uint16_t *to) {
    vst1q_u16(to, vaddw_u8(vandq_u16(vshlq_u16(words, up), vdupq_n_u16((uint16_t)mask)), vld1_u8(low)));
}
/* Lanes of 8 words: the bytes (words) `at` .. of a vector that `index` names; words: the index of a high byte. */
INFER__INLINE uint16x8_t infer__spread_neon(uint8x16_t v, uint64_t low, uint64_t high, int at) {
    const uint8x16_t index = vreinterpretq_u8_u64(vcombine_u64(vcreate_u64(low), vcreate_u64(high)));
    return vreinterpretq_u16_u8(vqtbl1q_u8(v, vaddq_u8(index, vdupq_n_u8((uint8_t)at)))); /* past 15: 0 */
}
/* Words 2 h and 2 h + 1 of a vector, four times each; and bytes. */
INFER__INLINE uint16x8_t infer__words_4_neon(uint8x16_t v, int h) {
    return infer__spread_neon(v, 0x0100010001000100u, 0x0302030203020302u, 4 * h);
}
INFER__INLINE uint16x8_t infer__bytes_4_neon(uint8x16_t v, int h) {
    return infer__spread_neon(v, 0x8000800080008000u, 0x8001800180018001u, 2 * h);
}
INFER__INLINE int16x8_t infer__shifts_neon(int a, int b, int c, int d) {
    return vreinterpretq_s16_u64(vdupq_n_u64((uint64_t)(a & 0xffff) | (uint64_t)(b & 0xffff) << 16 |
                                             (uint64_t)(c & 0xffff) << 32 | (uint64_t)(d & 0xffff) << 48));
}

/* Seven bits in every byte and their parity above them: infer__iq_signs. */
INFER__INLINE uint8x16_t infer__parity_neon(uint8x16_t x) { return vsliq_n_u8(x, vcntq_u8(x), 7); }
/* Four fields of seven bits to four bytes with their parity, in every 32 bits. */
INFER__INLINE uint8x16_t infer__four_sevens_neon(uint32x4_t x) {
    uint32x4_t y = vandq_u32(vshlq_n_u32(x, 2), vdupq_n_u32(0x3fff0000));
    x = vorrq_u32(vandq_u32(x, vdupq_n_u32(0x3fff)), y);
    y = vandq_u32(vshlq_n_u32(x, 1), vdupq_n_u32(0x7f007f00));
    return infer__parity_neon(vreinterpretq_u8_u32(vorrq_u32(vandq_u32(x, vdupq_n_u32(0x007f007f)), y)));
}

/* Two entries of eight values, four of four; offset + v, or offset - v where a bit of bytes `at`, at + 1 is set. */
INFER__INLINE uint8x16_t infer__two_entries_neon(uint64_t a, uint64_t b) {
    return vreinterpretq_u8_u64(vcombine_u64(vcreate_u64(a), vcreate_u64(b)));
}
INFER__INLINE uint8x16_t infer__four_entries_neon(const uint32_t *a, const uint32_t *b, const uint32_t *c,
                                                  const uint32_t *d) {
    uint32x4_t v = vdupq_n_u32(*a);
    v = vld1q_lane_u32(b, v, 1);
    v = vld1q_lane_u32(c, v, 2);
    return vreinterpretq_u8_u32(vld1q_lane_u32(d, v, 3));
}
#define INFER__BOOK_8_NEON(book, index) infer__two_entries_neon((book)[(index)[0]], (book)[(index)[1]])
#define INFER__BOOK_4_NEON(book, index) \
    infer__four_entries_neon(&(book)[(index)[0]], &(book)[(index)[1]], &(book)[(index)[2]], &(book)[(index)[3]])
INFER__INLINE uint8x16_t infer__signed_neon(uint8x16_t v, uint8x16_t signs, int at, int offset) {
    const uint8x16_t m = infer__bits_neon(signs, at);
    return vsubq_u8(vaddq_u8(veorq_u8(v, m), vdupq_n_u8((uint8_t)offset)), m);
}

/* ---- scales ----------------------------------------------------------------------------------------------------- */

/* The fp16 d of 16 rows, times f. */
INFER__INLINE void infer__iq_d_neon(const uint8_t *src, uint64_t row_bytes, float f, float32x4_t *d) {
    int i;
    infer__widened_rows_neon(infer__rows_u16_neon(src, row_bytes), infer__rows_u16_neon(src + 8 * row_bytes, row_bytes),
                             d);
    INFER__UNROLL for (i = 0; i < 4; i++) d[i] = vmulq_n_f32(d[i], f);
}
INFER__INLINE void infer__put_collected_neon(const infer__iq_scales *s, int n, const float32x4_t *d,
                                             infer__unpacked *out) {
    uint8x16_t v[16];
    int i;
    infer__heads_neon(s->of[0], 16, v);
    INFER__UNROLL for (i = 0; i < n; i++) infer__put_product_neon(v[i], 0, d, out->scale[i]);
}
/* Scales of four bits, two in each of n bytes at src; their odd numbers. */
INFER__INLINE void infer__put_nibble_scales_neon(const uint8_t *src, uint64_t row_bytes, int n, const float32x4_t *d,
                                                 infer__unpacked *out) {
    const uint8x16_t one = vdupq_n_u8(1);
    uint8x16_t v[16];
    int i;
    infer__heads_neon(src, row_bytes, v);
    INFER__UNROLL for (i = 0; i < n; i++) {
        infer__put_product_neon(vsliq_n_u8(one, infer__and_neon(v[i], 15), 1), 0, d, out->scale[2 * i]);
        infer__put_product_neon(vsliq_n_u8(one, vshrq_n_u8(v[i], 4), 1), 0, d, out->scale[2 * i + 1]);
    }
}
/* The top four bits of a word a block. */
INFER__INLINE void infer__collect_tops_neon(uint32x4_t a, uint32x4_t b, uint8_t *to) {
    const uint16x8_t v = vcombine_u16(vmovn_u32(vshrq_n_u32(a, 28)), vmovn_u32(vshrq_n_u32(b, 28)));
    vst1_u8(to, vsli_n_u8(vdup_n_u8(1), vmovn_u16(v), 1));
}

/* ---- IQ2, IQ3 --------------------------------------------------------------------------------------------------- */

/* row: the codes of a row. v: 16 values of half h of block b, from whose signs, two vectors of four blocks, they are
 * taken or added to offset. after: the scales. */
#define INFER__UNPACK_IQ_NEON(name, row, v, offset, after)                                                             \
    static void infer__##name##_unpack_neon(const uint8_t *src, uint64_t row_bytes, int n_blocks,                      \
                                            infer__unpacked *out) {                                                    \
        infer__iq_scales scales;                                                                                       \
        uint16_t indices[64];                                                                                          \
        const uint8_t *p = src;                                                                                        \
        uint8x16_t signs[2];                                                                                           \
        float32x4_t d[4];                                                                                              \
        int r, b, h, i;                                                                                                \
        (void)n_blocks, (void)scales, (void)indices, (void)i;                                                          \
        for (r = 0; r < INFER__GROUP; r++, p += row_bytes, infer__ask(&out->ahead)) {                                  \
            uint8_t *q = out->q[r];                                                                                    \
            row;                                                                                                       \
            INFER__UNROLL for (b = 0; b < 8; b++)                                                                      \
                INFER__UNROLL for (h = 0; h < 2; h++) vst1q_u8(                                                        \
                    q + infer__q_index(32 * b + 16 * h),                                                               \
                    infer__signed_neon(v, signs[b / 4], 4 * (b % 4) + 2 * h, offset));                                 \
        }                                                                                                              \
        after;                                                                                                         \
    }
#define INFER__SEVENS_NEON(a, b)                                \
    signs[0] = infer__four_sevens_neon(a);                      \
    signs[1] = infer__four_sevens_neon(b);                      \
    infer__collect_tops_neon(a, b, scales.of[r])
INFER__INLINE uint8x16_t infer__tops_neon(const uint8_t *p) { /* the upper seven bits of 16 words */
    const uint8x8_t a = vshrn_n_u16(vreinterpretq_u16_u8(vld1q_u8(p)), 8);
    const uint8x8_t b = vshrn_n_u16(vreinterpretq_u16_u8(vld1q_u8(p + 16)), 8);
    return infer__parity_neon(vshrq_n_u8(vcombine_u8(a, b), 1));
}
INFER__INLINE uint32x4_t infer__odd_words_neon(const uint8_t *p) { /* every other of 8 words of 32 bits */
    return vuzp2q_u32(vreinterpretq_u32_u8(vld1q_u8(p)), vreinterpretq_u32_u8(vld1q_u8(p + 16)));
}
INFER__UNPACK_IQ_NEON(iq2_xxs,
                      const uint32x4_t x0 = infer__odd_words_neon(p + 2);
                      const uint32x4_t x1 = infer__odd_words_neon(p + 34);
                      INFER__SEVENS_NEON(x0, x1),
                      INFER__BOOK_8_NEON(infer__book_iq2xxs, p + 2 + 8 * b + 2 * h), 43,
                      infer__iq_d_neon(src, row_bytes, 0.125f, d);
                      infer__put_collected_neon(&scales, 8, d, out))
/* Indices of 9 bits with seven signs above them. */
INFER__UNPACK_IQ_NEON(iq2_xs,
                      INFER__UNROLL for (i = 0; i < 32; i += 8) vst1q_u16(
                          indices + i,
                          vandq_u16(vreinterpretq_u16_u8(vld1q_u8(p + 2 + 2 * i)), vdupq_n_u16(511)));
                      signs[0] = infer__tops_neon(p + 2);
                      signs[1] = infer__tops_neon(p + 34),
                      INFER__BOOK_8_NEON(infer__book_iq2xs, indices + 4 * b + 2 * h), 43,
                      infer__iq_d_neon(src, row_bytes, 0.125f, d);
                      infer__put_nibble_scales_neon(src + 66, row_bytes, 8, d, out))
/* Bits 2 j and 2 j + 1 of a byte a block to bits 8 and 9 of index j. */
INFER__UNPACK_IQ_NEON(iq2_s,
                      const uint8x16_t bits = vld1q_u8(p + 66);
                      INFER__UNROLL for (i = 0; i < 4; i++) infer__put_indices_neon(
                          p + 2 + 8 * i, infer__bytes_4_neon(bits, i), infer__shifts_neon(8, 6, 4, 2), 0x300,
                          indices + 8 * i);
                      signs[0] = vld1q_u8(p + 34);
                      signs[1] = vld1q_u8(p + 50),
                      INFER__BOOK_8_NEON(infer__book_iq2s, indices + 4 * b + 2 * h), 43,
                      infer__iq_d_neon(src, row_bytes, 0.125f, d);
                      infer__put_nibble_scales_neon(src + 74, row_bytes, 8, d, out))
INFER__UNPACK_IQ_NEON(iq3_xxs,
                      const uint32x4_t x0 = vreinterpretq_u32_u8(vld1q_u8(p + 66));
                      const uint32x4_t x1 = vreinterpretq_u32_u8(vld1q_u8(p + 82));
                      INFER__SEVENS_NEON(x0, x1),
                      INFER__BOOK_4_NEON(infer__book_iq3xxs, p + 2 + 8 * b + 4 * h), 62,
                      infer__iq_d_neon(src, row_bytes, 0.25f, d);
                      infer__put_collected_neon(&scales, 8, d, out))
/* Bit j of a byte a block is bit 8 of index j. */
INFER__UNPACK_IQ_NEON(iq3_s,
                      const int16x8_t up = vcombine_s16(vget_low_s16(infer__shifts_neon(8, 7, 6, 5)),
                                                        vget_low_s16(infer__shifts_neon(4, 3, 2, 1)));
                      INFER__UNROLL for (i = 0; i < 8; i++)
                          infer__put_indices_neon(p + 2 + 8 * i, vdupq_n_u16(p[66 + i]), up, 0x100, indices + 8 * i);
                      signs[0] = vld1q_u8(p + 74);
                      signs[1] = vld1q_u8(p + 90),
                      INFER__BOOK_4_NEON(infer__book_iq3s, indices + 8 * b + 4 * h), 15,
                      infer__iq_d_neon(src, row_bytes, 1.0f, d);
                      infer__put_nibble_scales_neon(src + 106, row_bytes, 4, d, out))
#undef INFER__SEVENS_NEON
#undef INFER__UNPACK_IQ_NEON
#undef INFER__BOOK_4_NEON

/* ---- IQ1: moved down instead of signs ---------------------------------------------------------------------------- */

/* 256 values of a row; down: what is taken off each 8 values. */
INFER__INLINE void infer__put_1_neon(const uint16_t *indices, const uint8x16_t *down, uint8_t *q) {
    const uint8x16_t index = vcombine_u8(vdup_n_u8(0), vdup_n_u8(1));
    int k;
    INFER__UNROLL for (k = 0; k < 16; k++) {
        const uint8x16_t off = vqtbl1q_u8(down[k / 8], vaddq_u8(index, vdupq_n_u8((uint8_t)(2 * (k % 8)))));
        vst1q_u8(q + infer__q_index(16 * k), vsubq_u8(INFER__BOOK_8_NEON(infer__book_iq1s, indices + 2 * k), off));
    }
}
#undef INFER__BOOK_8_NEON

/* Words of eight values moved by `up`: bits of `mask`, as bytes. */
INFER__INLINE uint8x8_t infer__moved_neon(uint16x8_t words, int16x8_t up, int mask) {
    return vand_u8(vmovn_u16(vshlq_u16(words, up)), vdup_n_u8((uint8_t)mask));
}

static void infer__iq1_s_unpack_neon(const uint8_t *src, uint64_t row_bytes, int n_blocks, infer__unpacked *out) {
    infer__iq_scales scales;
    uint16_t indices[32];
    uint8x8_t off[4];
    uint8x16_t down[2];
    const uint8_t *row = src;
    float32x4_t d[4];
    int r, i;
    (void)n_blocks;
    for (r = 0; r < INFER__GROUP; r++, row += row_bytes, infer__ask(&out->ahead)) {
        const uint8x16_t qh = vld1q_u8(row + 34);
        INFER__UNROLL for (i = 0; i < 4; i++) { /* bits 3 j .. to bits 8 .. of index j */
            const uint16x8_t words = infer__words_4_neon(qh, i);
            infer__put_indices_neon(row + 2 + 8 * i, words, infer__shifts_neon(8, 5, 2, -1), 0x700, indices + 8 * i);
            off[i] = infer__moved_neon(words, vdupq_n_s16(-14), 2);
        }
        down[0] = vcombine_u8(off[0], off[1]);
        down[1] = vcombine_u8(off[2], off[3]);
        infer__put_1_neon(indices, down, out->q[r]);
        vst1_u8(scales.of[r], vorr_u8(infer__moved_neon(vreinterpretq_u16_u8(qh), vdupq_n_s16(-11), 14), vdup_n_u8(1)));
    }
    infer__iq_d_neon(src, row_bytes, 0.125f, d);
    infer__put_collected_neon(&scales, 8, d, out);
}

static void infer__iq1_m_unpack_neon(const uint8_t *src, uint64_t row_bytes, int n_blocks, infer__unpacked *out) {
    infer__iq_scales scales;
    uint16_t indices[32], half[INFER__GROUP];
    uint8x8_t off[4], s[2];
    uint8x16_t down[2];
    const uint8_t *row = src;
    float32x4_t d[4];
    int r, i;
    (void)n_blocks;
    for (r = 0; r < INFER__GROUP; r++, row += row_bytes, infer__ask(&out->ahead)) {
        const uint8x16_t qh = vld1q_u8(row + 32), words = vcombine_u8(vld1_u8(row + 48), vdup_n_u8(0));
        const uint64_t top = infer__load_u64(row + 48);
        INFER__UNROLL for (i = 0; i < 4; i++) { /* half a byte: three bits to bits 8 .. 10, the other says down */
            const uint16x8_t bytes = infer__spread_neon(qh, 0x8001800180008000u, 0x8003800380028002u, 4 * i);
            infer__put_indices_neon(row + 8 * i, bytes, infer__shifts_neon(8, 4, 8, 4), 0x700, indices + 8 * i);
            off[i] = infer__moved_neon(bytes, infer__shifts_neon(-2, -6, -2, -6), 2);
        }
        down[0] = vcombine_u8(off[0], off[1]);
        down[1] = vcombine_u8(off[2], off[3]);
        infer__put_1_neon(indices, down, out->q[r]);
        INFER__UNROLL for (i = 0; i < 2; i++) /* twice three bits, and one */
            s[i] = infer__moved_neon(infer__words_4_neon(words, i), infer__shifts_neon(1, -2, -5, -8), 14);
        vst1q_u8(scales.of[r], vorrq_u8(vcombine_u8(s[0], s[1]), vdupq_n_u8(1)));
        half[r] = (uint16_t)((top >> 12 & 0xf) | (top >> 24 & 0xf0) | (top >> 36 & 0xf00) | (top >> 48 & 0xf000));
    }
    infer__iq_d_neon((const uint8_t *)half, 2, 0.125f, d);
    infer__put_collected_neon(&scales, 16, d, out);
}

/* ---- TQ1_0 ------------------------------------------------------------------------------------------------------- */

/* The next ternary digits of v: v * 3 / 256. */
INFER__INLINE uint8x16_t infer__digit_neon(uint8x16_t v) {
    return vsubq_u8(vdupq_n_u8(0), vaddq_u8(vcgtq_u8(v, vdupq_n_u8(85)), vcgtq_u8(v, vdupq_n_u8(170))));
}

static void infer__tq1_0_unpack_neon(const uint8_t *src, uint64_t row_bytes, int n_blocks, infer__unpacked *out) {
    const uint8x16_t powers = vreinterpretq_u8_u64(vcombine_u64(vcreate_u64(0x0303030301010101u),
                                                                vcreate_u64(0x1b1b1b1b09090909u)));
    const uint8_t *row = src;
    int r, t, i;
    (void)n_blocks;
    for (r = 0; r < INFER__GROUP; r++, row += row_bytes, infer__ask(&out->ahead)) {
        uint8_t *q = out->q[r];
        INFER__UNROLL for (i = 0; i < 3; i++) { /* halves of block t; of 32 bytes; then half a block each from 160 on */
            uint8x16_t v = vld1q_u8(row + 16 * i);
            INFER__UNROLL for (t = 0; t < 5; t++, v = vmulq_u8(v, vdupq_n_u8(3)))
                vst1q_u8(q + infer__q_index(i < 2 ? 32 * t + 16 * i : 160 + 16 * t), infer__digit_neon(v));
        }
        vst1q_u8(q + infer__q_index(240), /* four digits of four bytes: times 3^t modulo 256 */
                 infer__digit_neon(vmulq_u8(vreinterpretq_u8_u32(vdupq_n_u32(infer__load_u32(row + 48))), powers)));
    }
    infer__put_one_scale_neon(src + 52, row_bytes, out);
}

static const infer__unpack_row infer__unpacks_neon[] = {
    {2, INFER__CPU_NEON, infer__q4_0_unpack_neon},
    INFER__QUANT(Q4_1, 3, INFER__CPU_NEON, infer__q4_1_unpack_neon)
    INFER__QUANT(Q5_0, 6, INFER__CPU_NEON, infer__q5_0_unpack_neon)
    INFER__QUANT(Q5_1, 7, INFER__CPU_NEON, infer__q5_1_unpack_neon)
    {8, INFER__CPU_NEON, infer__q8_0_unpack_neon},
    INFER__QUANT(Q2_K, 10, INFER__CPU_NEON, infer__q2_k_unpack_neon)
    INFER__QUANT(Q3_K, 11, INFER__CPU_NEON, infer__q3_k_unpack_neon)
    INFER__QUANT(Q4_K, 12, INFER__CPU_NEON, infer__q4_k_unpack_neon)
    INFER__QUANT(Q5_K, 13, INFER__CPU_NEON, infer__q5_k_unpack_neon)
    INFER__QUANT(Q6_K, 14, INFER__CPU_NEON, infer__q6_k_unpack_neon)
    INFER__QUANT(IQ2_XXS, 16, INFER__CPU_NEON, infer__iq2_xxs_unpack_neon)
    INFER__QUANT(IQ2_XS, 17, INFER__CPU_NEON, infer__iq2_xs_unpack_neon)
    INFER__QUANT(IQ3_XXS, 18, INFER__CPU_NEON, infer__iq3_xxs_unpack_neon)
    INFER__QUANT(IQ1_S, 19, INFER__CPU_NEON, infer__iq1_s_unpack_neon)
    INFER__QUANT(IQ4_NL, 20, INFER__CPU_NEON, infer__iq4_nl_unpack_neon)
    INFER__QUANT(IQ3_S, 21, INFER__CPU_NEON, infer__iq3_s_unpack_neon)
    INFER__QUANT(IQ2_S, 22, INFER__CPU_NEON, infer__iq2_s_unpack_neon)
    INFER__QUANT(IQ4_XS, 23, INFER__CPU_NEON, infer__iq4_xs_unpack_neon)
    INFER__QUANT(IQ1_M, 29, INFER__CPU_NEON, infer__iq1_m_unpack_neon)
    INFER__QUANT(TQ1_0, 34, INFER__CPU_NEON, infer__tq1_0_unpack_neon)
    INFER__QUANT(TQ2_0, 35, INFER__CPU_NEON, infer__tq2_0_unpack_neon)
    INFER__QUANT(MXFP4, 39, INFER__CPU_NEON, infer__mxfp4_unpack_neon)
    INFER__QUANT(NVFP4, 40, INFER__CPU_NEON, infer__nvfp4_unpack_neon)
    INFER__QUANT(Q1_0, 41, INFER__CPU_NEON, infer__q1_0_unpack_neon)
    INFER__QUANT(Q2_0, 42, INFER__CPU_NEON, infer__q2_0_unpack_neon)
};
#endif
