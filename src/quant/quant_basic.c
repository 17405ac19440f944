/* quant_basic.c: plain types (F32 .. I64) and the types whose blocks have one fp16 scale: Q4_0 .. Q8_1, Q1_0, Q2_0.
 *
 * Owns:  decode, unpack and encode of these types. May not know: other families, tensors, files.
 * Input: plain types are in the machine's byte order (the file layer swaps them); blocks are the file's little-endian
 *        bytes. Any alignment.
 * Exact: an fp16 scale has 11 significant bits, so scale * integer (up to 13 bits) is exact in float32; types with a
 *        minimum round once, in the addition. Fused multiply-add therefore gives the same bits as two operations.
 * Start: infer__q4_0_block (the pattern: one function decodes one block), then infer__q4_0_encode.
 * Source of the layouts and of the rounding rules: ggml's reference quantizer.
 */
#include "quant_types.h"
#include <math.h>

/* ---- plain types ------------------------------------------------------------------------------- */

static void infer__plain_f32_decode(const void *src, float *dst, int64_t n) {
    if (n > 0) memcpy(dst, src, (size_t)n * sizeof *dst);
}

static void infer__plain_f32_encode(const float *src, void *dst, int64_t n) {
    if (n > 0) memcpy(dst, src, (size_t)n * sizeof *src);
}

/* Per element type: unaligned loads and conversions, in runs of 64: gcc -O2 vectorises only loops of known length. */
#define INFER__DECODE_PLAIN(name, type, convert) \
    INFER__INLINE void infer__plain_##name##_run(const uint8_t *INFER__RESTRICT p, float *INFER__RESTRICT y, \
                                                   int n) { \
        int j; \
        for (j = 0; j < n; j++) { \
            type x; \
            memcpy(&x, p + (size_t)j * sizeof x, sizeof x); \
            y[j] = convert(x); \
        } \
    } \
    static void infer__plain_##name##_decode(const void *src, float *dst, int64_t n) { \
        const uint8_t *p = (const uint8_t *)src; \
        for (; n >= 64; n -= 64, p += 64 * sizeof(type), dst += 64) infer__plain_##name##_run(p, dst, 64); \
        infer__plain_##name##_run(p, dst, (int)n); \
    }
INFER__DECODE_PLAIN(f16, uint16_t, infer__f16_f32)
INFER__DECODE_PLAIN(bf16, uint16_t, infer__bf16_f32)
INFER__DECODE_PLAIN(f64, double, (float))
INFER__DECODE_PLAIN(i8, int8_t, (float))
INFER__DECODE_PLAIN(i16, int16_t, (float))
INFER__DECODE_PLAIN(i32, int32_t, (float))
INFER__DECODE_PLAIN(i64, int64_t, (float))
#undef INFER__DECODE_PLAIN

#define INFER__ENCODE_PLAIN(name, convert) \
    static void infer__plain_##name##_encode(const float *src, void *dst, int64_t n) { \
        uint8_t *p = (uint8_t *)dst; \
        int64_t i; \
        for (i = 0; i < n; i++) { \
            uint16_t h = convert(src[i]); \
            memcpy(p + 2 * i, &h, 2); \
        } \
    }
INFER__ENCODE_PLAIN(f16, infer__f32_f16)
INFER__ENCODE_PLAIN(bf16, infer__f32_bf16)
#undef INFER__ENCODE_PLAIN

/* ---- decode ------------------------------------------------------------------------------------ */

/* Q4_0, 32 values in 18 bytes: 0 fp16 d; 2 qs[16]: value j in the low, value j + 16 in the high half of byte j.
 * x = d * (q - 8). */
INFER__INLINE void infer__q4_0_block(const uint8_t *INFER__RESTRICT b, float *INFER__RESTRICT y) {
    float d = infer__f16_f32(infer__load_u16(b));
    int j;
    for (j = 0; j < 16; j++) {
        y[j] = d * (float)((b[2 + j] & 15) - 8);
        y[j + 16] = d * (float)((b[2 + j] >> 4) - 8);
    }
}
INFER__DECODE_BLOCKS(q4_0, 32, 18)

/* 16 bytes of two codes each to a block of 32 codes: low halves first. */
INFER__INLINE void infer__unpack_nibbles(const uint8_t *INFER__RESTRICT p, uint8_t *INFER__RESTRICT q) {
    int j;
    for (j = 0; j < 16; j++) q[j] = p[j] & 15;
    for (j = 0; j < 16; j++) q[64 + j] = p[j] >> 4;
}

INFER__INLINE void infer__q4_0_row(const uint8_t *b, int k, uint8_t *q, float *scale, float *min) {
    (void)min;
    scale[k / 32 * INFER__GROUP] = infer__f16_f32(infer__load_u16(b));
    infer__unpack_nibbles(b + 2, q + infer__q_index(k));
}
INFER__UNPACK_BLOCKS(q4_0, 32, 18)

/* Q4_1, 32 values in 20 bytes: 0 fp16 d; 2 fp16 m; 4 qs[16] as in Q4_0. x = d * q + m. */
INFER__INLINE void infer__q4_1_block(const uint8_t *INFER__RESTRICT b, float *INFER__RESTRICT y) {
    float d = infer__f16_f32(infer__load_u16(b)), m = infer__f16_f32(infer__load_u16(b + 2));
    int j;
    for (j = 0; j < 16; j++) {
        y[j] = d * (float)(b[4 + j] & 15) + m;
        y[j + 16] = d * (float)(b[4 + j] >> 4) + m;
    }
}
INFER__DECODE_BLOCKS(q4_1, 32, 20)

INFER__INLINE void infer__q4_1_row(const uint8_t *b, int k, uint8_t *q, float *scale, float *min) {
    scale[k / 32 * INFER__GROUP] = infer__f16_f32(infer__load_u16(b));
    min[k / 32 * INFER__GROUP] = infer__f16_f32(infer__load_u16(b + 2));
    infer__unpack_nibbles(b + 4, q + infer__q_index(k));
}
INFER__UNPACK_BLOCKS(q4_1, 32, 20)

/* Q5_0, 32 values in 22 bytes: 0 fp16 d; 2 u32 qh: bit j is bit 4 of value j; 6 qs[16]: low bits as in Q4_0.
 * x = d * (q - 16). */
INFER__INLINE void infer__q5_0_block(const uint8_t *INFER__RESTRICT b, float *INFER__RESTRICT y) {
    float d = infer__f16_f32(infer__load_u16(b));
    uint32_t qh = infer__load_u32(b + 2);
    int j;
    for (j = 0; j < 16; j++) {
        int lo = (b[6 + j] & 15) | (int)(qh >> j & 1) << 4;
        int hi = b[6 + j] >> 4 | (int)(qh >> (j + 16) & 1) << 4;
        y[j] = d * (float)(lo - 16);
        y[j + 16] = d * (float)(hi - 16);
    }
}
INFER__DECODE_BLOCKS(q5_0, 32, 22)

/* 16 bytes of two codes each and their fifth bits, that of code j in bit j of qh, to a block of 32 codes. */
INFER__INLINE void infer__unpack_fifths(const uint8_t *p, uint32_t qh, uint8_t *q) {
    uint64_t a = infer__load_u64(p), b = infer__load_u64(p + 8);
    infer__store_bytes((a & INFER__BYTES(15)) | infer__spread_8(qh) << 4, q);
    infer__store_bytes((b & INFER__BYTES(15)) | infer__spread_8(qh >> 8) << 4, q + 8);
    infer__store_bytes((a >> 4 & INFER__BYTES(15)) | infer__spread_8(qh >> 16) << 4, q + 64);
    infer__store_bytes((b >> 4 & INFER__BYTES(15)) | infer__spread_8(qh >> 24) << 4, q + 72);
}

INFER__INLINE void infer__q5_0_row(const uint8_t *b, int k, uint8_t *q, float *scale, float *min) {
    (void)min;
    scale[k / 32 * INFER__GROUP] = infer__f16_f32(infer__load_u16(b));
    infer__unpack_fifths(b + 6, infer__load_u32(b + 2), q + infer__q_index(k));
}
INFER__UNPACK_BLOCKS(q5_0, 32, 22)

/* Q5_1, 32 values in 24 bytes: 0 fp16 d; 2 fp16 m; 4 u32 qh; 8 qs[16], bits as in Q5_0. x = d * q + m. */
INFER__INLINE void infer__q5_1_block(const uint8_t *INFER__RESTRICT b, float *INFER__RESTRICT y) {
    float d = infer__f16_f32(infer__load_u16(b)), m = infer__f16_f32(infer__load_u16(b + 2));
    uint32_t qh = infer__load_u32(b + 4);
    int j;
    for (j = 0; j < 16; j++) {
        int lo = (b[8 + j] & 15) | (int)(qh >> j & 1) << 4;
        int hi = b[8 + j] >> 4 | (int)(qh >> (j + 16) & 1) << 4;
        y[j] = d * (float)lo + m;
        y[j + 16] = d * (float)hi + m;
    }
}
INFER__DECODE_BLOCKS(q5_1, 32, 24)

INFER__INLINE void infer__q5_1_row(const uint8_t *b, int k, uint8_t *q, float *scale, float *min) {
    scale[k / 32 * INFER__GROUP] = infer__f16_f32(infer__load_u16(b));
    min[k / 32 * INFER__GROUP] = infer__f16_f32(infer__load_u16(b + 2));
    infer__unpack_fifths(b + 8, infer__load_u32(b + 4), q + infer__q_index(k));
}
INFER__UNPACK_BLOCKS(q5_1, 32, 24)

/* n signed bytes times d: Q8_0, Q8_1, Q8_K. */
INFER__INLINE void infer__q8_values(const uint8_t *INFER__RESTRICT q, float d, float *INFER__RESTRICT y, int n) {
    int j;
    for (j = 0; j < n; j++) y[j] = d * (float)(int8_t)q[j];
}

/* Q8_0, 32 values in 34 bytes: 0 fp16 d; 2 int8 qs[32]. x = d * q. */
INFER__INLINE void infer__q8_0_block(const uint8_t *INFER__RESTRICT b, float *INFER__RESTRICT y) {
    infer__q8_values(b + 2, infer__f16_f32(infer__load_u16(b)), y, 32);
}
INFER__DECODE_BLOCKS(q8_0, 32, 34)

/* 16 signed bytes + 128. */
INFER__INLINE void infer__unpack_signed(const uint8_t *INFER__RESTRICT p, uint8_t *INFER__RESTRICT q) {
    int j;
    for (j = 0; j < 16; j++) q[j] = p[j] ^ 128;
}

INFER__INLINE void infer__q8_0_row(const uint8_t *b, int k, uint8_t *q, float *scale, float *min) {
    (void)min;
    scale[k / 32 * INFER__GROUP] = infer__f16_f32(infer__load_u16(b));
    q += infer__q_index(k);
    infer__unpack_signed(b + 2, q);
    infer__unpack_signed(b + 18, q + 64);
}
INFER__UNPACK_BLOCKS(q8_0, 32, 34)

/* Q8_1, 32 values in 36 bytes: 0 fp16 d; 2 fp16 s = d * sum of q (a by-product for dot products); 4 int8 qs[32]. */
INFER__INLINE void infer__q8_1_block(const uint8_t *INFER__RESTRICT b, float *INFER__RESTRICT y) {
    infer__q8_values(b + 4, infer__f16_f32(infer__load_u16(b)), y, 32);
}
INFER__DECODE_BLOCKS(q8_1, 32, 36)

/* Q1_0, 128 values in 18 bytes: 0 fp16 d; 2 qs[16]: value j in bit j % 8 of byte j / 8. x = +d when set, else -d. */
INFER__INLINE void infer__q1_0_block(const uint8_t *INFER__RESTRICT b, float *INFER__RESTRICT y) {
    float d = infer__f16_f32(infer__load_u16(b));
    int i, j;
    for (i = 0; i < 16; i++) {
        for (j = 0; j < 8; j++) y[8 * i + j] = d * (float)((b[2 + i] >> j & 1) * 2 - 1);
    }
}
INFER__DECODE_BLOCKS(q1_0, 128, 18)

/* Codes 0 and 2, so that value = d * (code - 1): copies of a byte, 7 bits apart, have bit j in byte j. */
INFER__INLINE void infer__q1_0_row(const uint8_t *b, int k, uint8_t *q, float *scale, float *min) {
    uint64_t codes[16];
    float d = infer__f16_f32(infer__load_u16(b));
    int i, j;
    (void)min;
    scale += k / 32 * INFER__GROUP;
    q += k; /* k is a multiple of 128 */
    for (j = 0; j < 16; j++) {
        uint64_t x = (uint64_t)b[2 + j] << 1;
        x |= x << 7;
        x |= x << 14;
        x |= x << 28;
        codes[j] = x & INFER__BYTES(2);
    }
    for (i = 0; i < 4; i++, q += 16) {
        scale[i * INFER__GROUP] = d;
        infer__store_bytes(codes[4 * i], q);
        infer__store_bytes(codes[4 * i + 1], q + 8);
        infer__store_bytes(codes[4 * i + 2], q + 64);
        infer__store_bytes(codes[4 * i + 3], q + 72);
    }
}
INFER__UNPACK_BLOCKS(q1_0, 128, 18)

/* Q2_0, 64 values in 18 bytes: 0 fp16 d; 2 qs[16]: value j in bits 2 * (j % 4) of byte j / 4. x = d * (q - 1). */
INFER__INLINE void infer__q2_0_block(const uint8_t *INFER__RESTRICT b, float *INFER__RESTRICT y) {
    float d = infer__f16_f32(infer__load_u16(b));
    int i, j;
    for (i = 0; i < 16; i++) {
        for (j = 0; j < 4; j++) y[4 * i + j] = d * (float)((b[2 + i] >> 2 * j & 3) - 1);
    }
}
INFER__DECODE_BLOCKS(q2_0, 64, 18)

/* Copies of a byte, 6 bits apart, have value j in byte j. */
INFER__INLINE void infer__q2_0_row(const uint8_t *b, int k, uint8_t *q, float *scale, float *min) {
    static const uint8_t at[4] = {0, 64, 16, 80}; /* infer__q_index(16 * i) */
    uint32_t codes[16];
    int i, j;
    (void)min;
    scale += k / 32 * INFER__GROUP;
    scale[0] = scale[INFER__GROUP] = infer__f16_f32(infer__load_u16(b));
    for (j = 0; j < 16; j++) {
        uint32_t x = b[2 + j];
        x |= x << 6;
        x |= x << 12;
        codes[j] = x & 0x03030303u;
    }
    q += infer__q_index(k);
    for (i = 0; i < 4; i++) {
        if (!INFER__BIG_ENDIAN) memcpy(q + at[i], codes + 4 * i, 16);
        else for (j = 0; j < 16; j++) q[at[i] + j] = (uint8_t)(codes[4 * i + j / 4] >> 8 * (j % 4));
    }
}
INFER__UNPACK_BLOCKS(q2_0, 64, 18)

/* ---- encode ------------------------------------------------------------------------------------ */
/* Infinities and NaN have no code: they are stored as if 0. A block too large for an fp16 scale gets an infinite
 * one. */

INFER__INLINE void infer__store_u16(uint8_t *p, uint16_t v) {
    p[0] = (uint8_t)(v & 255);
    p[1] = (uint8_t)(v >> 8);
}

/* Bits tell: comparisons with NaN may be compiled away with -ffast-math. */
INFER__INLINE float infer__finite_or_0(float x) { return infer__finite(x) ? x : 0.0f; }

/* Truncate to an integer within lo..hi; defined for every input. */
INFER__INLINE int infer__clamp_int(float x, int lo, int hi) {
    if (!infer__finite(x)) return lo > 0 ? lo : 0;
    if (x <= (float)lo) return lo;
    if (x >= (float)hi) return hi;
    return (int)x;
}

/* Q8_0: d = max |x| / 127, q = x / d rounded half away from zero. */
static void infer__q8_0_encode(const float *src, void *dst, int64_t n) {
    uint8_t *b = (uint8_t *)dst;
    int j;
    for (; n >= 32; n -= 32, src += 32, b += 34) {
        float top = 0.0f, d, inverse;
        for (j = 0; j < 32; j++) {
            float a = fabsf(infer__finite_or_0(src[j]));
            if (a > top) top = a;
        }
        d = top / 127.0f;
        inverse = d > 0.0f ? 1.0f / d : 0.0f;
        infer__store_u16(b, infer__f32_f16(d));
        for (j = 0; j < 32; j++) {
            float x = infer__finite_or_0(src[j]) * inverse, a = fabsf(x); /* which no sum can be fused with */
            int q = infer__clamp_int(a, 0, 127);
            if (q < 127 && a - (float)q >= 0.5f) q++; /* not every roundf leaves what is just below a half */
            b[2 + j] = (uint8_t)(x < 0.0f ? -q : q);
        }
    }
}

/* The 32 codes 0..levels-1 of a block around zero (Q4_0, Q5_0): the value of largest magnitude becomes code 0, that is
 * d = it / -(levels / 2); the rest round to nearest. Returns d. */
static float infer__encode_centred(const float *x, int levels, uint8_t *q) {
    float top = 0.0f, extreme = 0.0f, half = (float)(levels / 2), d, inverse;
    int j;
    for (j = 0; j < 32; j++) {
        float v = infer__finite_or_0(x[j]);
        if (fabsf(v) > top) { top = fabsf(v); extreme = v; }
    }
    d = extreme / -half;
    inverse = top > 0.0f ? 1.0f / d : 0.0f;
    for (j = 0; j < 32; j++) {
        /* No compiler fuses this sum with the product: devices' caches are the same bytes. */
        float y = infer__finite_or_0(x[j]) * inverse, a = fabsf(y);
        q[j] = (uint8_t)infer__clamp_int(y < 0.0f ? half + 0.5f - a : half + 0.5f + a, 0, levels - 1);
    }
    return d;
}

/* The 32 codes 0..levels-1 of a block between its extremes (Q4_1, Q5_1): x = d * q + m. Returns d. */
static float infer__encode_ranged(const float *x, int levels, uint8_t *q, float *m) {
    float lo = infer__finite_or_0(x[0]), hi = lo, d, inverse;
    int j;
    for (j = 1; j < 32; j++) {
        float v = infer__finite_or_0(x[j]);
        lo = INFER__MIN(lo, v);
        hi = INFER__MAX(hi, v);
    }
    d = (hi - lo) / (float)(levels - 1);
    inverse = d > 0.0f ? 1.0f / d : 0.0f;
    for (j = 0; j < 32; j++) {
        q[j] = (uint8_t)infer__clamp_int((infer__finite_or_0(x[j]) - lo) * inverse + 0.5f, 0, levels - 1);
    }
    *m = lo;
    return d;
}

/* Codes to bytes: value j in the low, value j + 16 in the high half of byte j. */
static void infer__pack_nibbles(const uint8_t *q, uint8_t *qs) {
    int j;
    for (j = 0; j < 16; j++) qs[j] = (uint8_t)((q[j] & 15) | (q[j + 16] & 15) << 4);
}

/* Bit 4 of each code to 4 bytes: value j in bit j. */
static void infer__pack_fifth_bits(const uint8_t *q, uint8_t *qh) {
    int i, j;
    for (i = 0; i < 4; i++) {
        int bits = 0;
        for (j = 0; j < 8; j++) bits |= (q[8 * i + j] >> 4 & 1) << j;
        qh[i] = (uint8_t)bits;
    }
}

static void infer__q4_0_encode(const float *src, void *dst, int64_t n) {
    uint8_t *b = (uint8_t *)dst, q[32];
    for (; n >= 32; n -= 32, src += 32, b += 18) {
        infer__store_u16(b, infer__f32_f16(infer__encode_centred(src, 16, q)));
        infer__pack_nibbles(q, b + 2);
    }
}

static void infer__q4_1_encode(const float *src, void *dst, int64_t n) {
    uint8_t *b = (uint8_t *)dst, q[32];
    float m;
    for (; n >= 32; n -= 32, src += 32, b += 20) {
        infer__store_u16(b, infer__f32_f16(infer__encode_ranged(src, 16, q, &m)));
        infer__store_u16(b + 2, infer__f32_f16(m));
        infer__pack_nibbles(q, b + 4);
    }
}

static void infer__q5_0_encode(const float *src, void *dst, int64_t n) {
    uint8_t *b = (uint8_t *)dst, q[32];
    for (; n >= 32; n -= 32, src += 32, b += 22) {
        infer__store_u16(b, infer__f32_f16(infer__encode_centred(src, 32, q)));
        infer__pack_fifth_bits(q, b + 2);
        infer__pack_nibbles(q, b + 6);
    }
}

static void infer__q5_1_encode(const float *src, void *dst, int64_t n) {
    uint8_t *b = (uint8_t *)dst, q[32];
    float m;
    for (; n >= 32; n -= 32, src += 32, b += 24) {
        infer__store_u16(b, infer__f32_f16(infer__encode_ranged(src, 32, q, &m)));
        infer__store_u16(b + 2, infer__f32_f16(m));
        infer__pack_fifth_bits(q, b + 4);
        infer__pack_nibbles(q, b + 8);
    }
}
