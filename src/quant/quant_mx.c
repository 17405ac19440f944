/* quant_mx.c: the FP4 types with a small float as scale: MXFP4 (OCP Microscaling 1.0) and NVFP4.
 *
 * Owns:  decode and unpack of these types. May not know: other families, tensors, files. NVFP4's scale per tensor is a
 *        tensor of its own, applied by the product.
 * Input: bytes in file order, any alignment.
 * Exact: both scales are powers of two times at most 4 bits: nothing rounds. An E2M1 value is half of an integer, so
 *        the table holds the doubled values and the scale functions return half of the scale.
 */
#include "quant_types.h"
#include "quant_iq_tables.h"

/* Half of an E8M0 scale: 2^(e - 128). The two smallest are subnormal. e = 255, NaN in the standard, is taken as a
 * number, as ggml does. */
INFER__INLINE float infer__e8m0_half(int e) {
    return infer__bits_f32(e < 2 ? (uint32_t)0x00200000u << e : (uint32_t)(e - 1) << 23);
}

/* Half of an unsigned E4M3 scale (bias 7): 4 bits of exponent, 3 of mantissa; the top bit is ignored. The NaN code 0x7f
 * means 0 here, as in ggml. Masks: scales are too random for branches. */
INFER__INLINE float infer__ue4m3_half(int e) {
    uint32_t bits = (uint32_t)e & 127;
    uint32_t normal = (bits << 20) + ((uint32_t)(127 - 7 - 1) << 23);
    uint32_t tiny = infer__f32_bits((float)(int32_t)bits * (1.0f / 1024.0f)); /* subnormal: mantissa * 2^-9 */
    uint32_t is_tiny = 0u - (uint32_t)(bits < 8), is_number = 0u - (uint32_t)(e != 127);
    return infer__bits_f32(((tiny & is_tiny) | (normal & ~is_tiny)) & is_number);
}

/* 2 n values from n bytes: value j in the low, value j + n in the high half of byte j. */
INFER__INLINE void infer__fp4_values(const uint8_t *INFER__RESTRICT q, int n, float half, float *INFER__RESTRICT y) {
    int j;
    for (j = 0; j < n; j++) {
        y[j] = half * (float)infer__kvalues_fp4[q[j] & 15];
        y[j + n] = half * (float)infer__kvalues_fp4[q[j] >> 4];
    }
}

/* MXFP4, 32 values in 17 bytes: 0 E8M0 scale; 1 qs[16], E2M1. */
INFER__INLINE void infer__mxfp4_block(const uint8_t *INFER__RESTRICT b, float *INFER__RESTRICT y) {
    infer__fp4_values(b + 1, 16, infer__e8m0_half(b[0]), y);
}
INFER__DECODE_BLOCKS(mxfp4, 32, 17)

/* A code of E2M1 to its doubled value + 12: magnitudes 0 1 2 3 4 6 8 12 without a table, for vectors of bytes. */
INFER__INLINE uint8_t infer__fp4_level(int code) {
    int m = code & 7, over = m & (0 - (m >> 2)) & 3;   /* from 4 on, steps are twice as long */
    int x = m + over + ((m + 1) >> 2 & 2);             /* and the last again */
    int minus = 0 - (code >> 3);
    return (uint8_t)(12 + (x ^ minus) - minus);
}

/* 2 n codes from n bytes (16 or 32): value j in the low, value j + n in the high half of byte j. */
INFER__INLINE void infer__unpack_fp4(const uint8_t *INFER__RESTRICT p, int n, uint8_t *INFER__RESTRICT low,
                                     uint8_t *INFER__RESTRICT high) {
    int j;
    for (j = 0; j < n; j++) low[j] = infer__fp4_level(p[j] & 15);
    for (j = 0; j < n; j++) high[j] = infer__fp4_level(p[j] >> 4);
}

INFER__INLINE void infer__mxfp4_row(const uint8_t *b, int k, uint8_t *q, float *scale, float *min) {
    (void)min;
    scale[k / 32 * INFER__GROUP] = infer__e8m0_half(b[0]);
    q += infer__q_index(k);
    infer__unpack_fp4(b + 1, 16, q, q + 64);
}
INFER__UNPACK_BLOCKS(mxfp4, 32, 17)

/* NVFP4, 64 values in 36 bytes: 0 UE4M3 scale[4], one per 16 values; 4 qs[32], E2M1, 8 bytes per 16 values. */
INFER__INLINE void infer__nvfp4_block(const uint8_t *INFER__RESTRICT b, float *INFER__RESTRICT y) {
    int i;
    for (i = 0; i < 4; i++) infer__fp4_values(b + 4 + 8 * i, 8, infer__ue4m3_half(b[i]), y + 16 * i);
}
INFER__DECODE_BLOCKS(nvfp4, 64, 36)

INFER__INLINE void infer__nvfp4_row(const uint8_t *b, int k, uint8_t *q, float *scale, float *min) {
    static const uint8_t at[4] = {0, 64, 16, 80}; /* infer__q_index(16 * i) */
    uint8_t low[32], high[32];
    int i;
    (void)min;
    scale += k / 16 * INFER__GROUP;
    q += infer__q_index(k);
    infer__unpack_fp4(b + 4, 32, low, high);
    for (i = 0; i < 4; i++) {
        scale[i * INFER__GROUP] = infer__ue4m3_half(b[i]);
        memcpy(q + at[i], low + 8 * i, 8);
        memcpy(q + at[i] + 8, high + 8 * i, 8);
    }
}
INFER__UNPACK_BLOCKS(nvfp4, 64, 36)
