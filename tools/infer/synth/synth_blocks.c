/* synth_blocks.c: random values in the storage types of `infer synth`. Quantised blocks are drawn directly, never quantised from
 * floats. The same state gives the same bytes everywhere. */
#include "synth.h"

#include <math.h>
#include <string.h>

const synth_type synth_types[SYNTH_TYPES] = {
    {"f32", 0, 0, 1, 4, T_F32},
    {"f16", 1, 1, 1, 2, T_F16},
    {"bf16", 30, 32, 1, 2, T_BF16},
    {"q8_0", 8, 7, 32, 34, T_Q8_0},
    {"q4_0", 2, 2, 32, 18, T_Q4_0},
    {"q4_k", 12, 14, 256, 144, T_Q4_K},
    {"q6_k", 14, 18, 256, 210, T_Q6_K},
    {"q4_k_m", 12, 15, 256, 144, T_Q6_K},
    {"mxfp4", 39, 38, 32, 17, T_Q8_0}, /* experts; other matrices are Q8_0 */
};

/* splitmix64: every tensor has a stream of its own, from the seed and its number. */
static uint64_t next(uint64_t *state) {
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* Uniform in -1 .. 1. */
static double uniform(uint64_t *state) { return (double)(int32_t)(next(state) >> 32) * (1.0 / 2147483648.0); }

static uint32_t bits_of(double x) {
    float f = (float)x;
    uint32_t b;
    memcpy(&b, &f, 4);
    return b;
}

static void store16(unsigned char *p, uint32_t x) {
    p[0] = (unsigned char)x;
    p[1] = (unsigned char)(x >> 8);
}

/* Nearest half; values here are below 65504 and what is under the smallest normal becomes a subnormal. */
static uint32_t to_half(double x) {
    uint32_t sign = x < 0 ? 0x8000u : 0, bits;
    double a = x < 0 ? -x : x;
    if (a < 6.103515625e-05) return sign | (uint32_t)(a * 16777216.0 + 0.5);
    bits = bits_of(a);
    bits += 0x0FFF + ((bits >> 13) & 1);
    return sign | ((bits - (112u << 23)) >> 13);
}

static uint32_t to_bf16(double x) {
    uint32_t bits = bits_of(x);
    return (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
}

static void store_words(unsigned char *p, uint64_t x) {
    int i;
    for (i = 0; i < 8; i++) p[i] = (unsigned char)(x >> (8 * i));
}

/* 32 values of -7 .. 7: zero nibbles, which stand for -8, become 8, which stands for 0. So the mean is 0; the standard
 * deviation is sqrt(2 (1 + 4 + ... + 49) / 16) = 4.183. */
static void block_q4_0(unsigned char *p, double deviation, uint64_t *state) {
    const uint64_t ones = 0x1111111111111111u;
    int i;
    store16(p, to_half(deviation / 4.183300133 * (1 + 0.2 * uniform(state))));
    for (i = 0; i < 2; i++) {
        uint64_t w = next(state), used = (w | (w >> 1) | (w >> 2) | (w >> 3)) & ones;
        store_words(p + 2 + 8 * i, w | ((used ^ ones) << 3));
    }
}

/* 32 values of -127 .. 127 (-128 becomes 0): standard deviation 73.18. */
static void block_q8_0(unsigned char *p, double deviation, uint64_t *state) {
    int i;
    store16(p, to_half(deviation / 73.18 * (1 + 0.2 * uniform(state))));
    for (i = 0; i < 4; i++) store_words(p + 2 + 8 * i, next(state));
    for (i = 2; i < 34; i++) {
        if (p[i] == 0x80) p[i] = 0;
    }
}

/* 256 values d s (q - 7.5), q of 0 .. 15 with a deviation of 4.610: s of 32 .. 63 for each 32 values, its root mean square
 * is 48.39; the minimum is the same s times 7.5 d. Layout: two halves d and 7.5 d; 8 s and 8 minima of 6 bits, the upper two
 * bits of the last four of each in the bytes of the first four; nibbles. */
static void block_q4_k(unsigned char *p, double deviation, uint64_t *state) {
    double d = deviation / (4.610 * 48.39);
    uint64_t w = next(state);
    int i;
    store16(p, to_half(d));
    store16(p + 2, to_half(7.5 * d));
    for (i = 0; i < 4; i++) {
        unsigned low = 32 | (unsigned)(w >> (5 * i) & 31), high = 32 | (unsigned)(w >> (20 + 5 * i) & 31);
        p[4 + i] = p[8 + i] = (unsigned char)(low | high >> 4 << 6);
        p[12 + i] = (unsigned char)((high & 15) * 17);
    }
    for (i = 0; i < 16; i++) store_words(p + 16 + 8 * i, next(state));
}

/* 256 values d s (q - 32), q of 0 .. 63 with a deviation of 18.47: s of 64 .. 127 for each 16 values, its root mean square is
 * 97.27, negative half of the time since the mean of q is 31.5. Layout: lower 4 bits, upper 2, s, the half d. */
static void block_q6_k(unsigned char *p, double deviation, uint64_t *state) {
    int i;
    for (i = 0; i < 26; i++) store_words(p + 8 * i, next(state)); /* s as well */
    for (i = 192; i < 208; i++) p[i] = (unsigned char)(p[i] & 0x80 ? 0x80 + (p[i] & 63) + 1 : 64 + (p[i] & 63));
    store16(p + 208, to_half(deviation / (18.47 * 97.27)));
}

/* 32 values of 0, 0.5, 1, 1.5, 2, 3, 4, 6 with a sign: standard deviation 2.926. Layout: the scale's exponent, nibbles. */
static void block_mxfp4(unsigned char *p, double deviation, uint64_t *state) {
    p[0] = (unsigned char)(127 + (int)floor(log2(deviation / 2.926) + 0.5));
    store_words(p + 1, next(state));
    store_words(p + 9, next(state));
}

/* One block (for the plain types: one value) of the given mean and deviation. */
void synth_block(unsigned char *p, int type, double mean, double deviation, uint64_t *state) {
    static void (*const blocks[SYNTH_TYPES])(unsigned char *, double, uint64_t *) = {
        NULL, NULL, NULL, block_q8_0, block_q4_0, block_q4_k, block_q6_k, block_q4_k, block_mxfp4,
    };
    double x;
    if (blocks[type]) {
        blocks[type](p, deviation, state);
        return;
    }
    x = mean + deviation * 1.7320508 * uniform(state);
    if (type == T_F16) {
        store16(p, to_half(x));
    } else if (type == T_BF16) {
        store16(p, to_bf16(x));
    } else {
        uint32_t b = bits_of(x);
        store16(p, b & 0xFFFF);
        store16(p + 2, b >> 16);
    }
}
