/* quant_iq.c: the code book types: IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS, IQ3_S, IQ1_S, IQ1_M (an index names 8 or 4 values
 * at once) and IQ4_NL, IQ4_XS (an index names one of 16 uneven levels).
 *
 * Owns:  decode and unpack of these types. May not know: other families, tensors, files.
 * Input: the file's little-endian bytes, any alignment. Every bit pattern is valid: indices have as many bits as the
 *        tables have entries.
 * Exact: fp16 scale (11 bits) * group scale (5 or 6) * level (at most 7) fits in float32's 24 bits: nothing rounds.
 * Unpack: eight values are made at once, as the bytes of a 64-bit integer: the levels of a code book entry are spread
 *        by shifts, mapped by byte-wise arithmetic that never carries, and negated below an offset.
 * Start: infer__iq2_group (8 values from one entry), infer__iq2_xxs_block; infer__iq2_bytes, infer__iq2_xxs_row.
 * Source of the layouts and code books: ggml.
 */
#include "quant_types.h"
#include "quant_iq_tables.h"

/* Level j of an entry of eight; see quant_iq_tables.h. */
INFER__INLINE int infer__iq_level(int entry, int j) { return entry >> ((j & 6) + 8 * (j & 1)) & 3; }

/* Eight values from an entry of an IQ2 grid; bit j of signs negates value j. */
INFER__INLINE void infer__iq2_group(int entry, int signs, float d, float *INFER__RESTRICT y) {
    int j;
    for (j = 0; j < 8; j++) {
        int level = infer__iq_level(entry, j);
        int x = 8 + 17 * level + (level >> 1); /* 8, 25, 43 */
        y[j] = d * (float)(x * (1 - 2 * (signs >> j & 1))); /* no branch: signs are random */
    }
}

/* Eight values from two entries of the IQ3_XXS grid, four each. */
INFER__INLINE void infer__iq3_xxs_group(int entry0, int entry1, int signs, float d, float *INFER__RESTRICT y) {
    uint32_t entry = (uint32_t)entry0 | (uint32_t)entry1 << 16;
    int j;
    for (j = 0; j < 8; j++) {
        int level = (int)(entry >> 4 * j & 7);
        int x = 4 + 8 * level + 2 * (level == 7); /* 4, 12, .. 52, 62 */
        y[j] = d * (float)(x * (1 - 2 * (signs >> j & 1)));
    }
}

/* Eight values from two entries of the IQ3_S grid, four each. */
INFER__INLINE void infer__iq3_s_group(int entry0, int entry1, int signs, float d, float *INFER__RESTRICT y) {
    uint32_t entry = (uint32_t)entry0 | (uint32_t)entry1 << 16;
    int j;
    for (j = 0; j < 8; j++) {
        int x = 1 + 2 * (int)(entry >> 4 * j & 7);
        y[j] = d * (float)(x * (1 - 2 * (signs >> j & 1)));
    }
}

/* Eight values from an entry of the IQ1 grid, moved by 1/8 up or down. */
INFER__INLINE void infer__iq1_group(int entry, int down, float d, float *INFER__RESTRICT y) {
    float offset = down ? -1.125f : -0.875f;
    int j;
    for (j = 0; j < 8; j++) y[j] = d * ((float)infer__iq_level(entry, j) + offset);
}

/* ---- unpack: eight values as the bytes of an integer, the first lowest ------------------------------------------ */

/* Sign bits to bit 0 of eight bytes: eight bits, or seven and their parity, since the number of negative values is
 * even there: the sum of all bytes comes out on top. */
INFER__INLINE uint64_t infer__iq_signs_8(int bits) { return infer__spread_8((uint32_t)bits); }
INFER__INLINE uint64_t infer__iq_signs_7(int bits) {
    uint64_t s = infer__spread_7((uint32_t)bits & 127);
    return s | (s * INFER__BYTES(1) & (uint64_t)1 << 56);
}

/* offset + x where the sign is 0, offset - x where it is 1; x <= offset < 64. */
INFER__INLINE uint64_t infer__iq_bytes_signed(uint64_t x, uint64_t signs, int offset) {
    return INFER__BYTES(offset) + x - 2 * (x & signs * 255);
}

/* Eight levels of 2 bits to bytes. */
INFER__INLINE uint64_t infer__iq_bytes_2(int entry) {
    uint64_t x = (uint64_t)entry;
    x |= x << 14;
    return (x | x << 28) & INFER__BYTES(3);
}

/* Twice four levels of 4 bits to bytes. */
INFER__INLINE uint64_t infer__iq_bytes_4(int entry0, int entry1) {
    uint64_t x = (uint64_t)entry0 | (uint64_t)entry1 << 32;
    x = (x | x << 8) & 0x00ff00ff00ff00ffu;
    return (x | x << 4) & INFER__BYTES(15);
}

/* Where the j-th eight values of the i-th 32 go: infer__q_index(32 * i + 8 * j). */
INFER__INLINE uint8_t *infer__iq_at(uint8_t *q, int i, int j) {
    return q + 128 * (i / 4) + 16 * (i % 4) + 64 * (j / 2) + 8 * (j % 2);
}

/* The values of an entry of 8, or of two entries of 4, without signs; of IQ1 in eighths, 8 * (level - 1) + 1, plus
 * 9. */
INFER__INLINE uint64_t infer__iq2_values(int entry) {
    uint64_t level = infer__iq_bytes_2(entry);
    return INFER__BYTES(8) + 17 * level + (level >> 1 & INFER__BYTES(1));
}
INFER__INLINE uint64_t infer__iq3_xxs_values(int entry0, int entry1) {
    uint64_t level = infer__iq_bytes_4(entry0, entry1);
    uint64_t top = (level + INFER__BYTES(1)) >> 3 & INFER__BYTES(1); /* level 7: 62, not 60 */
    return INFER__BYTES(4) + 8 * level + 2 * top;
}
INFER__INLINE uint64_t infer__iq3_s_values(int entry0, int entry1) {
    return INFER__BYTES(1) + 2 * infer__iq_bytes_4(entry0, entry1);
}
INFER__INLINE uint64_t infer__iq1_values(int entry) { return 8 * infer__iq_bytes_2(entry) + INFER__BYTES(2); }

/* What infer__iq2_group and so on compute, plus the type's offset. */
INFER__INLINE void infer__iq2_bytes(int entry, uint64_t signs, uint8_t *q) {
    infer__store_bytes(infer__iq_bytes_signed(infer__iq2_values(entry), signs, 43), q);
}
INFER__INLINE void infer__iq3_xxs_bytes(int entry0, int entry1, uint64_t signs, uint8_t *q) {
    infer__store_bytes(infer__iq_bytes_signed(infer__iq3_xxs_values(entry0, entry1), signs, 62), q);
}
INFER__INLINE void infer__iq3_s_bytes(int entry0, int entry1, uint64_t signs, uint8_t *q) {
    infer__store_bytes(infer__iq_bytes_signed(infer__iq3_s_values(entry0, entry1), signs, 15), q);
}
INFER__INLINE void infer__iq1_bytes(int entry, int down, uint8_t *q) { /* down: 2 eighths less */
    infer__store_bytes(infer__iq1_values(entry) - INFER__BYTES(2) * (uint64_t)down, q);
}

/* ---- the types ---------------------------------------------------------------------------------------------- */

/* Seven stored sign bits to eight: the number of negative values is even, so the last is the parity of the others. */
INFER__INLINE int infer__iq_signs(int seven) {
    int parity = seven ^ seven >> 4;
    parity ^= parity >> 2;
    parity ^= parity >> 1;
    return seven | (parity & 1) << 7;
}

/* IQ2_XXS, 66 bytes: 0 fp16 d; 2 eight groups of 32 values: 4 bytes of grid indices (8 values each), then a u32 of four
 * 7-bit sign fields, lowest first, and a 4-bit scale on top. x = d * (scale + 1/2) / 4 * level. */
INFER__INLINE void infer__iq2_xxs_block(const uint8_t *INFER__RESTRICT b, float *INFER__RESTRICT y) {
    float d = infer__f16_f32(infer__load_u16(b));
    int i, j;
    for (i = 0; i < 8; i++) {
        const uint8_t *index = b + 2 + 8 * i;
        uint32_t packed = infer__load_u32(index + 4);
        float ds = d * (0.5f + (float)(packed >> 28)) * 0.25f;
        for (j = 0; j < 4; j++) {
            int signs = infer__iq_signs((int)(packed >> 7 * j & 127));
            infer__iq2_group(infer__iq2xxs_grid[index[j]], signs, ds, y + 32 * i + 8 * j);
        }
    }
}
INFER__DECODE_BLOCKS(iq2_xxs, 256, 66)
INFER__INLINE void infer__iq2_xxs_row(const uint8_t *b, int k, uint8_t *q, float *scale, float *min) {
    float d = infer__f16_f32(infer__load_u16(b));
    int i, j;
    (void)k;
    (void)min;
    for (i = 0; i < 8; i++) {
        const uint8_t *index = b + 2 + 8 * i;
        uint32_t packed = infer__load_u32(index + 4);
        scale[INFER__GROUP * i] = d * (0.5f + (float)(int)(packed >> 28)) * 0.25f;
        INFER__UNROLL for (j = 0; j < 4; j++)
            infer__iq2_bytes(infer__iq2xxs_grid[index[j]], infer__iq_signs_7((int)(packed >> 7 * j)),
                             infer__iq_at(q, i, j));
    }
}
INFER__UNPACK_BLOCKS(iq2_xxs, 256, 66)

/* IQ2_XS, 74 bytes: 0 fp16 d; 2 u16 qs[32], one per 8 values: 9 bits grid index, 7 bits signs; 66 scales[8]: 4 bits
 * per 16 values. x = d * (scale + 1/2) / 4 * level. */
INFER__INLINE void infer__iq2_xs_block(const uint8_t *INFER__RESTRICT b, float *INFER__RESTRICT y) {
    float d = infer__f16_f32(infer__load_u16(b));
    int i;
    for (i = 0; i < 32; i++) {
        int q = infer__load_u16(b + 2 + 2 * i);
        int scale = b[66 + i / 4] >> 4 * (i / 2 % 2) & 15;
        float ds = d * (0.5f + (float)scale) * 0.25f;
        infer__iq2_group(infer__iq2xs_grid[q & 511], infer__iq_signs(q >> 9), ds, y + 8 * i);
    }
}
INFER__DECODE_BLOCKS(iq2_xs, 256, 74)
INFER__INLINE void infer__iq2_xs_row(const uint8_t *b, int k, uint8_t *q, float *scale, float *min) {
    float d = infer__f16_f32(infer__load_u16(b));
    int i, j;
    (void)k;
    (void)min;
    for (i = 0; i < 8; i++) {
        scale[INFER__GROUP * 2 * i] = d * (0.5f + (float)(b[66 + i] & 15)) * 0.25f;
        scale[INFER__GROUP * (2 * i + 1)] = d * (0.5f + (float)(b[66 + i] >> 4)) * 0.25f;
        INFER__UNROLL for (j = 0; j < 4; j++) {
            int v = infer__load_u16(b + 2 + 8 * i + 2 * j);
            infer__iq2_bytes(infer__iq2xs_grid[v & 511], infer__iq_signs_7(v >> 9), infer__iq_at(q, i, j));
        }
    }
}
INFER__UNPACK_BLOCKS(iq2_xs, 256, 74)

/* IQ2_S, 82 bytes: 0 fp16 d; 2 qs[32]: low 8 bits of the grid index of 8 values; 34 signs[32], all eight bits; 66
 * qh[8]: 2 high index bits for each of 4 groups; 74 scales[8]: 4 bits per 16 values. x = d * (scale + 1/2) / 4 *
 * level. */
INFER__INLINE void infer__iq2_s_block(const uint8_t *INFER__RESTRICT b, float *INFER__RESTRICT y) {
    float d = infer__f16_f32(infer__load_u16(b));
    int i;
    for (i = 0; i < 32; i++) {
        int index = b[2 + i] | (b[66 + i / 4] >> 2 * (i % 4) & 3) << 8;
        int scale = b[74 + i / 4] >> 4 * (i / 2 % 2) & 15;
        float ds = d * (0.5f + (float)scale) * 0.25f;
        infer__iq2_group(infer__iq2s_grid[index], b[34 + i], ds, y + 8 * i);
    }
}
INFER__DECODE_BLOCKS(iq2_s, 256, 82)
INFER__INLINE void infer__iq2_s_row(const uint8_t *b, int k, uint8_t *q, float *scale, float *min) {
    float d = infer__f16_f32(infer__load_u16(b));
    int i, j;
    (void)k;
    (void)min;
    for (i = 0; i < 8; i++) {
        scale[INFER__GROUP * 2 * i] = d * (0.5f + (float)(b[74 + i] & 15)) * 0.25f;
        scale[INFER__GROUP * (2 * i + 1)] = d * (0.5f + (float)(b[74 + i] >> 4)) * 0.25f;
        INFER__UNROLL for (j = 0; j < 4; j++) {
            int index = b[2 + 4 * i + j] | (b[66 + i] << (8 - 2 * j) & 0x300);
            infer__iq2_bytes(infer__iq2s_grid[index], infer__iq_signs_8(b[34 + 4 * i + j]), infer__iq_at(q, i, j));
        }
    }
}
INFER__UNPACK_BLOCKS(iq2_s, 256, 82)

/* IQ3_XXS, 98 bytes: 0 fp16 d; 2 qs[64]: grid index of 4 values; 66 eight u32, one per 32 values: four 7-bit sign
 * fields and a 4-bit scale, as in IQ2_XXS. x = d * (scale + 1/2) / 2 * level. */
INFER__INLINE void infer__iq3_xxs_block(const uint8_t *INFER__RESTRICT b, float *INFER__RESTRICT y) {
    float d = infer__f16_f32(infer__load_u16(b));
    int i, j;
    for (i = 0; i < 8; i++) {
        const uint8_t *index = b + 2 + 8 * i;
        uint32_t packed = infer__load_u32(b + 66 + 4 * i);
        float ds = d * (0.5f + (float)(packed >> 28)) * 0.5f;
        for (j = 0; j < 4; j++) {
            int signs = infer__iq_signs((int)(packed >> 7 * j & 127));
            infer__iq3_xxs_group(infer__iq3xxs_grid[index[2 * j]], infer__iq3xxs_grid[index[2 * j + 1]], signs, ds,
                                 y + 32 * i + 8 * j);
        }
    }
}
INFER__DECODE_BLOCKS(iq3_xxs, 256, 98)
INFER__INLINE void infer__iq3_xxs_row(const uint8_t *b, int k, uint8_t *q, float *scale, float *min) {
    float d = infer__f16_f32(infer__load_u16(b));
    int i, j;
    (void)k;
    (void)min;
    for (i = 0; i < 8; i++) {
        const uint8_t *index = b + 2 + 8 * i;
        uint32_t packed = infer__load_u32(b + 66 + 4 * i);
        scale[INFER__GROUP * i] = d * (0.5f + (float)(int)(packed >> 28)) * 0.5f;
        INFER__UNROLL for (j = 0; j < 4; j++)
            infer__iq3_xxs_bytes(infer__iq3xxs_grid[index[2 * j]], infer__iq3xxs_grid[index[2 * j + 1]],
                                 infer__iq_signs_7((int)(packed >> 7 * j)), infer__iq_at(q, i, j));
    }
}
INFER__UNPACK_BLOCKS(iq3_xxs, 256, 98)

/* IQ3_S, 110 bytes: 0 fp16 d; 2 qs[64]: low 8 bits of the grid index of 4 values; 66 qh[8]: bit k of byte i is the
 * high bit of index 8 i + k; 74 signs[32]: 8 values each; 106 scales[4]: 4 bits per 32 values. x = d * (2 * scale + 1)
 * * level. */
INFER__INLINE void infer__iq3_s_block(const uint8_t *INFER__RESTRICT b, float *INFER__RESTRICT y) {
    float d = infer__f16_f32(infer__load_u16(b));
    int i, j;
    for (i = 0; i < 8; i++) {
        const uint8_t *low = b + 2 + 8 * i;
        int high = b[66 + i], scale = b[106 + i / 2] >> 4 * (i % 2) & 15;
        float ds = d * (float)(1 + 2 * scale);
        for (j = 0; j < 4; j++) {
            int entry0 = infer__iq3s_grid[low[2 * j] | (high >> 2 * j & 1) << 8];
            int entry1 = infer__iq3s_grid[low[2 * j + 1] | (high >> (2 * j + 1) & 1) << 8];
            infer__iq3_s_group(entry0, entry1, b[74 + 4 * i + j], ds, y + 32 * i + 8 * j);
        }
    }
}
INFER__DECODE_BLOCKS(iq3_s, 256, 110)
INFER__INLINE void infer__iq3_s_row(const uint8_t *b, int k, uint8_t *q, float *scale, float *min) {
    float d = infer__f16_f32(infer__load_u16(b));
    int i, j;
    (void)k;
    (void)min;
    for (i = 0; i < 8; i++) {
        const uint8_t *low = b + 2 + 8 * i;
        int high = b[66 + i];
        scale[INFER__GROUP * i] = d * (float)(1 + 2 * (b[106 + i / 2] >> 4 * (i % 2) & 15));
        INFER__UNROLL for (j = 0; j < 4; j++)
            infer__iq3_s_bytes(infer__iq3s_grid[low[2 * j] | (high << (8 - 2 * j) & 256)],
                               infer__iq3s_grid[low[2 * j + 1] | (high << (7 - 2 * j) & 256)],
                               infer__iq_signs_8(b[74 + 4 * i + j]), infer__iq_at(q, i, j));
    }
}
INFER__UNPACK_BLOCKS(iq3_s, 256, 110)

/* IQ1_S, 50 bytes: 0 fp16 d; 2 qs[32]: low 8 bits of the grid index of 8 values; 34 u16 qh[8], one per 32 values: four
 * 3-bit high index parts, lowest first, 3 bits of scale, and bit 15: move down instead of up.
 * x = d * (2 * scale + 1) * (level -+ 1/8). */
INFER__INLINE void infer__iq1_s_block(const uint8_t *INFER__RESTRICT b, float *INFER__RESTRICT y) {
    float d = infer__f16_f32(infer__load_u16(b));
    int i, j;
    for (i = 0; i < 8; i++) {
        int qh = infer__load_u16(b + 34 + 2 * i);
        float ds = d * (float)(2 * (qh >> 12 & 7) + 1);
        for (j = 0; j < 4; j++) {
            int index = b[2 + 4 * i + j] | (qh >> 3 * j & 7) << 8;
            infer__iq1_group(infer__iq1s_grid[index], qh >> 15, ds, y + 32 * i + 8 * j);
        }
    }
}
INFER__DECODE_BLOCKS(iq1_s, 256, 50)
INFER__INLINE void infer__iq1_s_row(const uint8_t *b, int k, uint8_t *q, float *scale, float *min) {
    float d = infer__f16_f32(infer__load_u16(b)) * 0.125f;
    int i, j;
    (void)k;
    (void)min;
    for (i = 0; i < 8; i++) {
        int qh = infer__load_u16(b + 34 + 2 * i);
        scale[INFER__GROUP * i] = d * (float)(2 * (qh >> 12 & 7) + 1);
        INFER__UNROLL for (j = 0; j < 4; j++)
            infer__iq1_bytes(infer__iq1s_grid[b[2 + 4 * i + j] | (qh >> 3 * j & 7) << 8], qh >> 15,
                             infer__iq_at(q, i, j));
    }
}
INFER__UNPACK_BLOCKS(iq1_s, 256, 50)

/* IQ1_M, 56 bytes: 0 qs[32]: low 8 bits of the grid index of 8 values; 32 qh[16]: half k % 2 of byte k / 2 holds for
 * group k 3 high index bits and bit 3: move down; 48 u16 scales[4]: four 3-bit scales (16 values each), lowest first;
 * their top 4 bits together are the fp16 d, scales[0] lowest. x = d * (2 * scale + 1) * (level -+ 1/8). */
INFER__INLINE float infer__iq1_m_scales(const uint8_t *b, int *scales) {
    int bits = 0, k;
    for (k = 0; k < 4; k++) {
        scales[k] = infer__load_u16(b + 48 + 2 * k);
        bits |= (scales[k] >> 12) << 4 * k;
    }
    return infer__f16_f32((uint16_t)bits);
}
INFER__INLINE void infer__iq1_m_block(const uint8_t *INFER__RESTRICT b, float *INFER__RESTRICT y) {
    int scales[4], k;
    float d = infer__iq1_m_scales(b, scales);
    for (k = 0; k < 32; k++) { /* 8 values each */
        int qh = b[32 + k / 2] >> 4 * (k % 2);
        float ds = d * (float)(2 * (scales[k / 8] >> 3 * (k / 2 % 4) & 7) + 1);
        infer__iq1_group(infer__iq1s_grid[b[k] | (qh & 7) << 8], qh & 8, ds, y + 8 * k);
    }
}
INFER__DECODE_BLOCKS(iq1_m, 256, 56)
INFER__INLINE void infer__iq1_m_row(const uint8_t *b, int k, uint8_t *q, float *scale, float *min) {
    int scales[4], i, j;
    float d = infer__iq1_m_scales(b, scales) * 0.125f;
    (void)k;
    (void)min;
    for (i = 0; i < 16; i++) scale[INFER__GROUP * i] = d * (float)(2 * (scales[i / 4] >> 3 * (i % 4) & 7) + 1);
    for (i = 0; i < 8; i++) {
        int qh = infer__load_u16(b + 32 + 2 * i);
        INFER__UNROLL for (j = 0; j < 4; j++)
            infer__iq1_bytes(infer__iq1s_grid[b[4 * i + j] | (qh >> 4 * j & 7) << 8], qh >> (4 * j + 3) & 1,
                             infer__iq_at(q, i, j));
    }
}
INFER__UNPACK_BLOCKS(iq1_m, 256, 56)

/* Levels plus 128 of both halves of a byte, that of the low half first. */
#define INFER__HALVES(high) \
    1 | (high) << 8, 24 | (high) << 8, 45 | (high) << 8, 63 | (high) << 8, 79 | (high) << 8, 93 | (high) << 8, \
    106 | (high) << 8, 118 | (high) << 8, 129 | (high) << 8, 141 | (high) << 8, 153 | (high) << 8, \
    166 | (high) << 8, 181 | (high) << 8, 197 | (high) << 8, 217 | (high) << 8, 241 | (high) << 8
static const uint16_t infer__iq4_pairs[256] = {
    INFER__HALVES(1), INFER__HALVES(24), INFER__HALVES(45), INFER__HALVES(63),
    INFER__HALVES(79), INFER__HALVES(93), INFER__HALVES(106), INFER__HALVES(118),
    INFER__HALVES(129), INFER__HALVES(141), INFER__HALVES(153), INFER__HALVES(166),
    INFER__HALVES(181), INFER__HALVES(197), INFER__HALVES(217), INFER__HALVES(241)
};
#undef INFER__HALVES

/* 16 bytes of codes to 32 levels plus 128, as a block of 32 lies in infer__unpacked. One look-up per byte: pairs of
 * the even and of the odd bytes side by side are the low and the high levels, with two masks each. */
INFER__INLINE void infer__iq4_levels(const uint8_t *INFER__RESTRICT p, uint8_t *INFER__RESTRICT q) {
    const uint64_t mask = 0x00ff00ff00ff00ffu;
    int i, j;
    INFER__UNROLL for (i = 0; i < 2; i++, p += 8, q += 8) {
        uint64_t even = 0, odd = 0;
        INFER__UNROLL for (j = 0; j < 4; j++) {
            even |= (uint64_t)infer__iq4_pairs[p[2 * j]] << 16 * j;
            odd |= (uint64_t)infer__iq4_pairs[p[2 * j + 1]] << 16 * j;
        }
        infer__store_bytes((even & mask) | (odd & mask) << 8, q);
        infer__store_bytes((even >> 8 & mask) | (odd & ~mask), q + 64);
    }
}

/* IQ4_NL, 32 values in 18 bytes: 0 fp16 d; 2 qs[16]: value j in the low, j + 16 in the high half. x = d * level[q]. */
INFER__INLINE void infer__iq4_nl_block(const uint8_t *INFER__RESTRICT b, float *INFER__RESTRICT y) {
    float d = infer__f16_f32(infer__load_u16(b));
    int j;
    for (j = 0; j < 16; j++) {
        y[j] = d * (float)infer__kvalues_iq4nl[b[2 + j] & 15];
        y[j + 16] = d * (float)infer__kvalues_iq4nl[b[2 + j] >> 4];
    }
}
INFER__DECODE_BLOCKS(iq4_nl, 32, 18)
INFER__INLINE void infer__iq4_nl_row(const uint8_t *b, int k, uint8_t *q, float *scale, float *min) {
    (void)min;
    scale[INFER__GROUP * (k / 32)] = infer__f16_f32(infer__load_u16(b));
    infer__iq4_levels(b + 2, q + infer__q_index(k));
}
INFER__UNPACK_BLOCKS(iq4_nl, 32, 18)

/* IQ4_XS, 136 bytes: 0 fp16 d; 2 u16 scales_h; 4 scales_l[4]; 8 qs[128]: 16 bytes per 32 values, halves as in IQ4_NL.
 * Scale i (6 bits, plus 32): low 4 in half i % 2 of scales_l[i / 2], high 2 in bits 2 i of scales_h.
 * x = d * (scale - 32) * level[q]. */
INFER__INLINE void infer__iq4_xs_block(const uint8_t *INFER__RESTRICT b, float *INFER__RESTRICT y) {
    float d = infer__f16_f32(infer__load_u16(b));
    int high = infer__load_u16(b + 2), i, j;
    for (i = 0; i < 8; i++) {
        const uint8_t *q = b + 8 + 16 * i;
        int scale = (b[4 + i / 2] >> 4 * (i % 2) & 15) | (high >> 2 * i & 3) << 4;
        float ds = d * (float)(scale - 32);
        for (j = 0; j < 16; j++) {
            y[32 * i + j] = ds * (float)infer__kvalues_iq4nl[q[j] & 15];
            y[32 * i + j + 16] = ds * (float)infer__kvalues_iq4nl[q[j] >> 4];
        }
    }
}
INFER__DECODE_BLOCKS(iq4_xs, 256, 136)
INFER__INLINE void infer__iq4_xs_row(const uint8_t *b, int k, uint8_t *q, float *scale, float *min) {
    float d = infer__f16_f32(infer__load_u16(b));
    int high = infer__load_u16(b + 2), i;
    (void)min;
    for (i = 0; i < 8; i++) {
        int bits = (b[4 + i / 2] >> 4 * (i % 2) & 15) | (high >> 2 * i & 3) << 4;
        scale[INFER__GROUP * (k / 32 + i)] = d * (float)(bits - 32);
        infer__iq4_levels(b + 8 + 16 * i, q + infer__q_index(k + 32 * i));
    }
}
INFER__UNPACK_BLOCKS(iq4_xs, 256, 136)
