/* quant_iq.c: the code book types: IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS, IQ3_S, IQ1_S, IQ1_M (an index names 8 or 4 values
 * at once) and IQ4_NL, IQ4_XS (an index names one of 16 uneven levels).
 *
 * Owns:  decode of these types. May not know: other families, tensors, files.
 * Input: the file's little-endian bytes, any alignment. Every bit pattern is valid: indices have as many bits as the
 *        tables have entries.
 * Exact: fp16 scale (11 bits) * group scale (5 or 6) * level (at most 7) fits in float32's 24 bits: nothing rounds.
 * Start: infer__iq2_group (8 values from one entry), infer__iq2_xxs_block.
 * Source of the layouts and code books: ggml.
 */
#include "quant_types.h"
#include "quant_iq_tables.h"

/* Eight values from an entry of an IQ2 grid; bit j of signs negates value j. */
INFER__INLINE void infer__iq2_group(int entry, int signs, float d, float *INFER__RESTRICT y) {
    int j;
    for (j = 0; j < 8; j++) {
        int level = entry >> 2 * j & 3;
        int x = 8 + 17 * level + (level >> 1); /* 8, 25, 43 */
        y[j] = d * (float)(x * (1 - 2 * (signs >> j & 1))); /* no branch: signs are random */
    }
}

/* Eight values from two entries of the IQ3_XXS grid, four each. */
INFER__INLINE void infer__iq3_xxs_group(int entry0, int entry1, int signs, float d, float *INFER__RESTRICT y) {
    int entry = entry0 | entry1 << 12, j;
    for (j = 0; j < 8; j++) {
        int level = entry >> 3 * j & 7;
        int x = 4 + 8 * level + 2 * (level == 7); /* 4, 12, .. 52, 62 */
        y[j] = d * (float)(x * (1 - 2 * (signs >> j & 1)));
    }
}

/* Eight values from two entries of the IQ3_S grid, four each. */
INFER__INLINE void infer__iq3_s_group(int entry0, int entry1, int signs, float d, float *INFER__RESTRICT y) {
    int entry = entry0 | entry1 << 12, j;
    for (j = 0; j < 8; j++) {
        int x = 1 + 2 * (entry >> 3 * j & 7);
        y[j] = d * (float)(x * (1 - 2 * (signs >> j & 1)));
    }
}

/* Eight values from an entry of the IQ1 grid, moved by 1/8 up or down. */
INFER__INLINE void infer__iq1_group(int entry, int down, float d, float *INFER__RESTRICT y) {
    float offset = down ? -1.125f : -0.875f;
    int j;
    for (j = 0; j < 8; j++) y[j] = d * ((float)(entry >> 2 * j & 3) + offset);
}

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

/* IQ1_M, 56 bytes: 0 qs[32]: low 8 bits of the grid index of 8 values; 32 qh[16]: half k % 2 of byte k / 2 holds for
 * group k 3 high index bits and bit 3: move down; 48 u16 scales[4]: four 3-bit scales (16 values each), lowest first;
 * their top 4 bits together are the fp16 d, scales[0] lowest. x = d * (2 * scale + 1) * (level -+ 1/8). */
INFER__INLINE void infer__iq1_m_block(const uint8_t *INFER__RESTRICT b, float *INFER__RESTRICT y) {
    int scales[4], bits = 0, k;
    float d;
    for (k = 0; k < 4; k++) {
        scales[k] = infer__load_u16(b + 48 + 2 * k);
        bits |= (scales[k] >> 12) << 4 * k;
    }
    d = infer__f16_f32((uint16_t)bits);
    for (k = 0; k < 32; k++) { /* 8 values each */
        int qh = b[32 + k / 2] >> 4 * (k % 2);
        float ds = d * (float)(2 * (scales[k / 8] >> 3 * (k / 2 % 4) & 7) + 1);
        infer__iq1_group(infer__iq1s_grid[b[k] | (qh & 7) << 8], qh & 8, ds, y + 8 * k);
    }
}
INFER__DECODE_BLOCKS(iq1_m, 256, 56)

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
