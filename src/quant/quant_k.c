/* quant_k.c: types of 256 values with scales per sub-block: Q2_K .. Q6_K, Q8_K, and the ternary TQ1_0, TQ2_0.
 *
 * Owns:  decode and unpack of these types. May not know: other families, tensors, files.
 * Input: the file's little-endian bytes, any alignment.
 * Exact: fp16 scale (11 bits) * sub-block scale (6 or 7) * code (2 to 6) stays within float32's 24 bits; types with a
 *        minimum round once, in the subtraction. Fused multiply-add therefore gives the same bits.
 * Unpack: a loop writes 16 values, half a block of 32, from 16 bytes, with shifts that are constants once inlined: gcc
 *        12 -O2 makes it packed. Minima are subtracted, so they are unpacked with their sign turned.
 * Start: infer__q4_k_block, then infer__q4_k_row.
 * Source of the layouts: ggml.
 */
#include "quant_types.h"

/* Q2_K, 84 bytes: 0 scales[16]: low half scale, high half minimum of 16 values; 16 qs[64]; 80 fp16 d; 82 fp16 dmin.
 * Values 128 h + 32 s + l (h 0..1, s 0..3, l 0..31) are bits 2 s of qs[32 h + l]. x = d * scale * q - dmin *
 * minimum. */
INFER__INLINE void infer__q2_k_block(const uint8_t *INFER__RESTRICT b, float *INFER__RESTRICT y) {
    float d = infer__f16_f32(infer__load_u16(b + 80)), dmin = infer__f16_f32(infer__load_u16(b + 82));
    int i, j;
    for (i = 0; i < 16; i++) { /* 16 values with one scale */
        const uint8_t *q = b + 16 + 32 * (i / 8) + 16 * (i % 2);
        int shift = 2 * (i / 2 % 4);
        float scale = d * (float)(b[i] & 15), minimum = dmin * (float)(b[i] >> 4);
        for (j = 0; j < 16; j++) y[16 * i + j] = scale * (float)(q[j] >> shift & 3) - minimum;
    }
}
INFER__DECODE_BLOCKS(q2_k, 256, 84)

/* Two bits, from bit `shift`, of each of 16 bytes. */
INFER__INLINE void infer__unpack_twos(const uint8_t *INFER__RESTRICT p, int shift, uint8_t *INFER__RESTRICT q) {
    int j;
    for (j = 0; j < 16; j++) q[j] = p[j] >> shift & 3;
}

/* The 256 codes of 64 bytes that hold value 128 h + 32 s + l in bits 2 s of byte 32 h + l: Q2_K, TQ2_0. */
INFER__INLINE void infer__unpack_quarters(const uint8_t *INFER__RESTRICT p, uint8_t *INFER__RESTRICT q) {
    int i;
    for (i = 0; i < 4; i++, p += 16, q += 64) {
        infer__unpack_twos(p, 0, q);
        infer__unpack_twos(p, 2, q + 16);
        infer__unpack_twos(p, 4, q + 32);
        infer__unpack_twos(p, 6, q + 48);
    }
}

INFER__INLINE void infer__q2_k_row(const uint8_t *b, int k, uint8_t *q, float *scale, float *min) {
    float d = infer__f16_f32(infer__load_u16(b + 80)), dmin = infer__f16_f32(infer__load_u16(b + 82));
    int i;
    (void)k;
    for (i = 0; i < 16; i++) {
        scale[i * INFER__GROUP] = d * (float)(b[i] & 15);
        min[i * INFER__GROUP] = -(dmin * (float)(b[i] >> 4));
    }
    infer__unpack_quarters(b + 16, q);
}
INFER__UNPACK_BLOCKS(q2_k, 256, 84)

/* Q3_K, 110 bytes: 0 hmask[32]: bit 4 h + s of byte l is bit 2 of value 128 h + 32 s + l; 32 qs[64]: low two bits as in
 * Q2_K; 96 scales[12]: sixteen 6-bit scales plus 32; 108 fp16 d. x = d * (scale - 32) * (q - 4).
 * Scale i: low 4 bits in half i / 8 of byte i % 8, high 2 bits in bits 2 * (i / 4) of byte 8 + i % 4. */
INFER__INLINE int infer__q3_k_scale(const uint8_t *s, int i) {
    return ((s[i % 8] >> 4 * (i / 8) & 15) | (s[8 + i % 4] >> 2 * (i / 4) & 3) << 4) - 32;
}

INFER__INLINE void infer__q3_k_block(const uint8_t *INFER__RESTRICT b, float *INFER__RESTRICT y) {
    float d = infer__f16_f32(infer__load_u16(b + 108));
    int i, j;
    for (i = 0; i < 16; i++) {
        const uint8_t *q = b + 32 + 32 * (i / 8) + 16 * (i % 2), *high = b + 16 * (i % 2);
        int shift = 2 * (i / 2 % 4), bit = i / 2;
        float ds = d * (float)infer__q3_k_scale(b + 96, i);
        for (j = 0; j < 16; j++) {
            y[16 * i + j] = ds * (float)((q[j] >> shift & 3) + 4 * (high[j] >> bit & 1) - 4);
        }
    }
}
INFER__DECODE_BLOCKS(q3_k, 256, 110)

/* 16 codes of Q3_K: two bits of p from `shift`, and bit `bit` of high. */
INFER__INLINE void infer__unpack_threes(const uint8_t *INFER__RESTRICT p, int shift,
                                        const uint8_t *INFER__RESTRICT high, int bit, uint8_t *INFER__RESTRICT q) {
    int j;
    for (j = 0; j < 16; j++) q[j] = (uint8_t)((p[j] >> shift & 3) | (high[j] >> bit & 1) << 2);
}

/* 128 codes of Q3_K, those whose third bits begin with bit `bit`. */
INFER__INLINE void infer__q3_k_half(const uint8_t *p, const uint8_t *high, int bit, uint8_t *q) {
    int i;
    for (i = 0; i < 2; i++, p += 16, high += 16, q += 64) {
        infer__unpack_threes(p, 0, high, bit, q);
        infer__unpack_threes(p, 2, high, bit + 1, q + 16);
        infer__unpack_threes(p, 4, high, bit + 2, q + 32);
        infer__unpack_threes(p, 6, high, bit + 3, q + 48);
    }
}

/* infer__q3_k_scale, all of them, plus 32. */
INFER__INLINE void infer__q3_k_scales(const uint8_t *s, uint8_t *to) {
    uint64_t low = infer__load_u64(s), high = infer__load_u32(s + 8);
    uint64_t even = (high | high << 30) & INFER__BYTES(3), odd = (high >> 4 | high << 26) & INFER__BYTES(3);
    infer__store_bytes((low & INFER__BYTES(15)) | even << 4, to);
    infer__store_bytes((low >> 4 & INFER__BYTES(15)) | odd << 4, to + 8);
}

INFER__INLINE void infer__q3_k_row(const uint8_t *b, int k, uint8_t *q, float *scale, float *min) {
    float d = infer__f16_f32(infer__load_u16(b + 108));
    uint8_t scales[16];
    int i;
    (void)k;
    (void)min;
    infer__q3_k_scales(b + 96, scales);
    for (i = 0; i < 16; i++) scale[i * INFER__GROUP] = d * (float)(scales[i] - 32);
    infer__q3_k_half(b + 32, b, 0, q);
    infer__q3_k_half(b + 64, b, 4, q + 128);
}
INFER__UNPACK_BLOCKS(q3_k, 256, 110)

/* Scale and minimum i (0..7) of Q4_K and Q5_K, 6 bits each, from 12 bytes: bytes 0..3 and 4..7 hold scales and minima
 * 0..3 in their low 6 bits; bytes 8..11 the low 4 bits of scales (low half) and minima (high half) 4..7, whose high 2
 * bits are on top of bytes 0..3 and 4..7. */
INFER__INLINE void infer__k_scale_min(const uint8_t *s, int i, int *scale, int *minimum) {
    if (i < 4) {
        *scale = s[i] & 63;
        *minimum = s[i + 4] & 63;
    } else {
        *scale = (s[i + 4] & 15) | (s[i - 4] >> 6) << 4;
        *minimum = s[i + 4] >> 4 | (s[i] >> 6) << 4;
    }
}

/* Q4_K, 144 bytes: 0 fp16 d; 2 fp16 dmin; 4 scales[12]; 16 qs[128]: values 64 c + l are the low, 64 c + 32 + l the high
 * half of byte 32 c + l (c 0..3, l 0..31). x = d * scale * q - dmin * minimum, one scale and minimum per 32 values. */
INFER__INLINE void infer__q4_k_block(const uint8_t *INFER__RESTRICT b, float *INFER__RESTRICT y) {
    float d = infer__f16_f32(infer__load_u16(b)), dmin = infer__f16_f32(infer__load_u16(b + 2));
    int i, j;
    for (i = 0; i < 8; i++) {
        const uint8_t *q = b + 16 + 32 * (i / 2);
        int shift = 4 * (i % 2), scale, minimum;
        float ds, dm;
        infer__k_scale_min(b + 4, i, &scale, &minimum);
        ds = d * (float)scale;
        dm = dmin * (float)minimum;
        for (j = 0; j < 32; j++) y[32 * i + j] = ds * (float)(q[j] >> shift & 15) - dm;
    }
}
INFER__DECODE_BLOCKS(q4_k, 256, 144)

/* The scales and minima of Q4_K and Q5_K. */
INFER__INLINE void infer__unpack_scale_min(const uint8_t *b, float *scale, float *min) {
    float d = infer__f16_f32(infer__load_u16(b)), dmin = infer__f16_f32(infer__load_u16(b + 2));
    uint32_t first = infer__load_u32(b + 4), second = infer__load_u32(b + 8), third = infer__load_u32(b + 12);
    uint8_t s[16];
    int i; /* infer__k_scale_min, four at a time */
    infer__store_bytes((first & 0x3f3f3f3fu) |
                       (uint64_t)((third & 0x0f0f0f0fu) | (first >> 2 & 0x30303030u)) << 32, s);
    infer__store_bytes((second & 0x3f3f3f3fu) |
                       (uint64_t)((third >> 4 & 0x0f0f0f0fu) | (second >> 2 & 0x30303030u)) << 32, s + 8);
    for (i = 0; i < 8; i++) {
        scale[i * INFER__GROUP] = d * (float)s[i];
        min[i * INFER__GROUP] = -(dmin * (float)s[8 + i]);
    }
}

/* Four bits, from bit `shift`, of each of 16 bytes. */
INFER__INLINE void infer__unpack_fours(const uint8_t *INFER__RESTRICT p, int shift, uint8_t *INFER__RESTRICT q) {
    int j;
    for (j = 0; j < 16; j++) q[j] = p[j] >> shift & 15;
}

INFER__INLINE void infer__q4_k_row(const uint8_t *b, int k, uint8_t *q, float *scale, float *min) {
    int i;
    (void)k;
    infer__unpack_scale_min(b, scale, min);
    for (i = 0, b += 16; i < 4; i++, b += 32) { /* values 64 i .. */
        uint8_t *to = q + infer__q_index(64 * i);
        infer__unpack_fours(b, 0, to);
        infer__unpack_fours(b, 4, to + 16);
        infer__unpack_fours(b + 16, 0, to + 64);
        infer__unpack_fours(b + 16, 4, to + 80);
    }
}
INFER__UNPACK_BLOCKS(q4_k, 256, 144)

/* Q5_K, 176 bytes: 0 fp16 d; 2 fp16 dmin; 4 scales[12]; 16 qh[32]: bit i of byte l is bit 4 of value 32 i + l;
 * 48 qs[128] as in Q4_K. */
INFER__INLINE void infer__q5_k_block(const uint8_t *INFER__RESTRICT b, float *INFER__RESTRICT y) {
    float d = infer__f16_f32(infer__load_u16(b)), dmin = infer__f16_f32(infer__load_u16(b + 2));
    int i, j;
    for (i = 0; i < 8; i++) {
        const uint8_t *q = b + 48 + 32 * (i / 2), *high = b + 16;
        int shift = 4 * (i % 2), scale, minimum;
        float ds, dm;
        infer__k_scale_min(b + 4, i, &scale, &minimum);
        ds = d * (float)scale;
        dm = dmin * (float)minimum;
        for (j = 0; j < 32; j++) {
            y[32 * i + j] = ds * (float)((q[j] >> shift & 15) | (high[j] >> i & 1) << 4) - dm;
        }
    }
}
INFER__DECODE_BLOCKS(q5_k, 256, 176)

/* 16 codes of Q5_K: four bits of p from `shift`, and bit `bit` of high. */
INFER__INLINE void infer__unpack_fives(const uint8_t *INFER__RESTRICT p, int shift, const uint8_t *INFER__RESTRICT high,
                                       int bit, uint8_t *INFER__RESTRICT q) {
    int j;
    for (j = 0; j < 16; j++) q[j] = (uint8_t)((p[j] >> shift & 15) | (high[j] >> bit & 1) << 4);
}

/* Values 32 i .. 32 i + 63, i even. */
INFER__INLINE void infer__q5_k_pair(const uint8_t *b, int i, uint8_t *q) {
    const uint8_t *p = b + 48 + 16 * i, *high = b + 16;
    int half;
    q += infer__q_index(32 * i);
    for (half = 0; half < 2; half++, p += 16, high += 16, q += 64) {
        infer__unpack_fives(p, 0, high, i, q);
        infer__unpack_fives(p, 4, high, i + 1, q + 16);
    }
}

INFER__INLINE void infer__q5_k_row(const uint8_t *b, int k, uint8_t *q, float *scale, float *min) {
    (void)k;
    infer__unpack_scale_min(b, scale, min);
    infer__q5_k_pair(b, 0, q);
    infer__q5_k_pair(b, 2, q);
    infer__q5_k_pair(b, 4, q);
    infer__q5_k_pair(b, 6, q);
}
INFER__UNPACK_BLOCKS(q5_k, 256, 176)

/* Q6_K, 210 bytes: 0 ql[128]; 128 qh[64]; 192 int8 scales[16], one per 16 values; 208 fp16 d.
 * Value 128 h + 32 s + l: low 4 bits in half s / 2 of ql[64 h + 32 (s % 2) + l], high 2 in bits 2 s of qh[32 h + l].
 * x = d * scale * (q - 32). */
INFER__INLINE void infer__q6_k_block(const uint8_t *INFER__RESTRICT b, float *INFER__RESTRICT y) {
    float d = infer__f16_f32(infer__load_u16(b + 208));
    int i, j;
    for (i = 0; i < 16; i++) {
        int h = i / 8, s = i / 2 % 4, first = 16 * (i % 2);
        const uint8_t *low = b + 64 * h + 32 * (s % 2) + first, *high = b + 128 + 32 * h + first;
        float ds = d * (float)(int8_t)b[192 + i];
        for (j = 0; j < 16; j++) {
            int q = (low[j] >> 4 * (s / 2) & 15) | (high[j] >> 2 * s & 3) << 4;
            y[16 * i + j] = ds * (float)(q - 32);
        }
    }
}
INFER__DECODE_BLOCKS(q6_k, 256, 210)

/* 16 codes of Q6_K: four bits of low from `shift`, and two bits of high from `two`. */
INFER__INLINE void infer__unpack_sixes(const uint8_t *INFER__RESTRICT low, int shift,
                                       const uint8_t *INFER__RESTRICT high, int two, uint8_t *INFER__RESTRICT q) {
    int j;
    for (j = 0; j < 16; j++) q[j] = (uint8_t)((low[j] >> shift & 15) | (high[j] >> two & 3) << 4);
}

INFER__INLINE void infer__q6_k_row(const uint8_t *b, int k, uint8_t *q, float *scale, float *min) {
    float d = infer__f16_f32(infer__load_u16(b + 208));
    int i;
    (void)k;
    (void)min;
    for (i = 0; i < 16; i++) scale[i * INFER__GROUP] = d * (float)(int8_t)b[192 + i];
    for (i = 0; i < 4; i++, q += 64) { /* one half of the blocks of 128 values */
        const uint8_t *low = b + 64 * (i / 2) + 16 * (i % 2), *high = b + 128 + 16 * i;
        infer__unpack_sixes(low, 0, high, 0, q);
        infer__unpack_sixes(low + 32, 0, high, 2, q + 16);
        infer__unpack_sixes(low, 4, high, 4, q + 32);
        infer__unpack_sixes(low + 32, 4, high, 6, q + 48);
    }
}
INFER__UNPACK_BLOCKS(q6_k, 256, 210)

/* Q8_K, 292 bytes: 0 float32 d; 4 int8 qs[256]; 260 int16 sums of 16 values each (for dot products). x = d * q, rounded
 * once. */
INFER__INLINE void infer__q8_k_block(const uint8_t *INFER__RESTRICT b, float *INFER__RESTRICT y) {
    float d = infer__load_f32(b);
    int j;
    for (j = 0; j < 256; j++) y[j] = d * (float)(int8_t)b[4 + j];
}
INFER__DECODE_BLOCKS(q8_k, 256, 292)

/* n bytes of TQ1_0, each of `digits` base-3 digits, most significant first: value t * n + j is digit t of byte j.
 * A byte is the digits' number scaled up to 0..255 (number * 256 / 243, rounded up): multiplying by 3^t modulo 256
 * drops the digits before t, and times 3 / 256 brings digit t out on top. x = d * (digit - 1). */
INFER__INLINE void infer__tq1_0_digits(const uint8_t *INFER__RESTRICT q, int n, int digits, float d,
                                       float *INFER__RESTRICT y) {
    int t, j, power = 1;
    for (t = 0; t < digits; t++, power *= 3) {
        for (j = 0; j < n; j++) y[t * n + j] = d * (float)(((q[j] * power & 255) * 3 >> 8) - 1);
    }
}

/* TQ1_0, 54 bytes: 0 qs[48]: 5 ternary digits per byte, 32 bytes for values 0..159, 16 bytes for values 160..239;
 * 48 qh[4]: 4 digits per byte for values 240..255; 52 fp16 d. */
INFER__INLINE void infer__tq1_0_block(const uint8_t *INFER__RESTRICT b, float *INFER__RESTRICT y) {
    float d = infer__f16_f32(infer__load_u16(b + 52));
    infer__tq1_0_digits(b, 32, 5, d, y);
    infer__tq1_0_digits(b + 32, 16, 5, d, y + 160);
    infer__tq1_0_digits(b + 48, 4, 4, d, y + 240);
}
INFER__DECODE_BLOCKS(tq1_0, 256, 54)

/* The next digit of n bytes, x * 3 / 256 by comparisons, and x * 3 modulo 256: bytes stay bytes. */
INFER__INLINE void infer__unpack_digit(uint8_t *INFER__RESTRICT x, int n, uint8_t *INFER__RESTRICT q) {
    int j;
    for (j = 0; j < n; j++) {
        q[j] = (uint8_t)((x[j] > 85) + (x[j] > 170));
        x[j] = (uint8_t)(3 * x[j]);
    }
}

INFER__INLINE void infer__tq1_0_row(const uint8_t *b, int k, uint8_t *q, float *scale, float *min) {
    float d = infer__f16_f32(infer__load_u16(b + 52));
    uint8_t x[52];
    int i, t;
    (void)k;
    (void)min;
    memcpy(x, b, 52);
    for (i = 0; i < 8; i++) scale[i * INFER__GROUP] = d;
    for (t = 0; t < 5; t++) {
        infer__unpack_digit(x, 16, q + infer__q_index(32 * t));
        infer__unpack_digit(x + 16, 16, q + infer__q_index(32 * t + 16));
        infer__unpack_digit(x + 32, 16, q + infer__q_index(160 + 16 * t));
        if (t < 4) infer__unpack_digit(x + 48, 4, q + infer__q_index(240) + 4 * t);
    }
}
INFER__UNPACK_BLOCKS(tq1_0, 256, 54)

/* TQ2_0, 66 bytes: 0 qs[64]: value 128 h + 32 s + l is bits 2 s of byte 32 h + l; 64 fp16 d. x = d * (q - 1). */
INFER__INLINE void infer__tq2_0_block(const uint8_t *INFER__RESTRICT b, float *INFER__RESTRICT y) {
    float d = infer__f16_f32(infer__load_u16(b + 64));
    int i, j;
    for (i = 0; i < 8; i++) {
        const uint8_t *q = b + 32 * (i / 4);
        int shift = 2 * (i % 4);
        for (j = 0; j < 32; j++) y[32 * i + j] = d * (float)((q[j] >> shift & 3) - 1);
    }
}
INFER__DECODE_BLOCKS(tq2_0, 256, 66)

INFER__INLINE void infer__tq2_0_row(const uint8_t *b, int k, uint8_t *q, float *scale, float *min) {
    float d = infer__f16_f32(infer__load_u16(b + 64));
    int i;
    (void)k;
    (void)min;
    for (i = 0; i < 8; i++) scale[i * INFER__GROUP] = d;
    infer__unpack_quarters(b, q);
}
INFER__UNPACK_BLOCKS(tq2_0, 256, 66)
