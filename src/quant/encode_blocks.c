/* encode_blocks.c: one block of each type that the searches of encode.c can write, in the layouts of quant_*.c.
 *
 * Owns:  the `search` of a row. May not know: tensors, files.
 * Start: infer__q4_0_best, then infer__q4_k_best.
 */
#include "quant_types.h"
#include "quant_iq_tables.h"

/* For rows: infer__NAME_best(x, w, block) encodes one block of finite values with weights that are not all 0. */
#define INFER__SEARCH_BLOCKS(name, values, bytes) \
    static void infer__##name##_search(const float *src, const float *importance, void *dst, int64_t n) { \
        float x[values], w[values]; \
        uint8_t *block = (uint8_t *)dst; \
        for (; n >= (values); n -= (values), src += (values), block += (bytes)) { \
            infer__search_begin(src, importance, values, x, w); \
            if (importance) importance += (values); \
            memset(block, 0, bytes); \
            infer__##name##_best(x, w, block); \
        } \
    }

static void infer__search_begin(const float *src, const float *importance, int n, float *x, float *w) {
    float top = 0;
    int j;
    for (j = 0; j < n; j++) { /* squares of larger values have no sum; no scale reaches them either, but MXFP4's */
        x[j] = infer__finite_or_0(src[j]);
        x[j] = x[j] > 1e18f ? 1e18f : x[j] < -1e18f ? -1e18f : x[j];
    }
    for (j = 0; importance && j < n; j++)
        if (importance[j] > top) top = importance[j];
    for (j = 0; j < n; j++) w[j] = top > 0 ? importance[j] / top : 1.0f;
}

static void infer__store_scale(uint8_t *p, float d) { infer__store_u16(p, infer__f32_f16(infer__f16_round(d))); }

/* Codes again, for a scale that is what the block will hold. */
static float infer__fit_stored(const infer__grid *g, const float *x, const float *w, int n, float *q) {
    const float d = infer__f16_round(infer__fit_scaled(g, x, w, n, q));
    float xq, qq;
    infer__grid_sums(g, x, w, n, infer__fit_inverse(d), q, &xq, &qq);
    return d;
}

/* The largest magnitude. */
static float infer__fit_top(const float *x, int n) {
    float top = 0;
    int j;
    for (j = 0; j < n; j++) top = INFER__MAX(top, fabsf(x[j]));
    return top;
}

/* Codes that begin at -add, as bytes. */
static void infer__codes(const float *q, int n, int add, uint8_t *u) {
    int j;
    for (j = 0; j < n; j++) u[j] = (uint8_t)((int)q[j] + add);
}

/* ---- blocks of 32 ----------------------------------------------------------------------------- */

/* Q4_0, Q5_0: fp16 d, codes around half of their number. */
static void infer__centred_stored(const float *x, const float *w, int half, uint8_t *b, uint8_t *u) {
    const infer__grid grid = {(float)-half, (float)(half - 1), NULL, NULL};
    float q[32];
    infer__store_scale(b, infer__fit_stored(&grid, x, w, 32, q));
    infer__codes(q, 32, half, u);
}
static void infer__q4_0_best(const float *x, const float *w, uint8_t *b) {
    uint8_t u[32];
    infer__centred_stored(x, w, 8, b, u);
    infer__pack_nibbles(u, b + 2);
}
INFER__SEARCH_BLOCKS(q4_0, 32, 18)
static void infer__q5_0_best(const float *x, const float *w, uint8_t *b) {
    uint8_t u[32];
    infer__centred_stored(x, w, 16, b, u);
    infer__pack_fifth_bits(u, b + 2);
    infer__pack_nibbles(u, b + 6);
}
INFER__SEARCH_BLOCKS(q5_0, 32, 22)

/* Q4_1, Q5_1: fp16 d and minimum. */
static void infer__ranged_stored(const float *x, const float *w, float top, uint8_t *b, uint8_t *u) {
    float q[32], m, d = infer__f16_round(infer__fit_ranged(x, w, 32, top, 1, q, &m));
    m = -infer__f16_round(-m);
    infer__ranged_codes(x, w, 32, d, infer__fit_inverse(d), m, top, q);
    infer__store_scale(b, d);
    infer__store_scale(b + 2, -m);
    infer__codes(q, 32, 0, u);
}
static void infer__q4_1_best(const float *x, const float *w, uint8_t *b) {
    uint8_t u[32];
    infer__ranged_stored(x, w, 15, b, u);
    infer__pack_nibbles(u, b + 4);
}
INFER__SEARCH_BLOCKS(q4_1, 32, 20)
static void infer__q5_1_best(const float *x, const float *w, uint8_t *b) {
    uint8_t u[32];
    infer__ranged_stored(x, w, 31, b, u);
    infer__pack_fifth_bits(u, b + 4);
    infer__pack_nibbles(u, b + 8);
}
INFER__SEARCH_BLOCKS(q5_1, 32, 24)

static void infer__q8_0_best(const float *x, const float *w, uint8_t *b) {
    static const infer__grid grid = {-127, 127, NULL, NULL};
    float q[32];
    infer__store_scale(b, infer__fit_stored(&grid, x, w, 32, q));
    infer__codes(q, 32, 0, b + 2);
}
INFER__SEARCH_BLOCKS(q8_0, 32, 34)

/* Of infer__kvalues_iq4nl. */
static const int16_t infer__iq4_middles[15] = {736,  2144, 3392,  4480,  5440,  6304,  7104, 7840,
                                               8576, 9344, 10144, 11040, 12032, 13184, 14592};
static const int16_t infer__iq4_steps[15] = {23, 21, 18, 16, 14, 13, 12, 11, 12, 12, 13, 15, 16, 20, 24};
static const infer__grid infer__iq4_grid = {-127, 113, infer__iq4_middles, infer__iq4_steps};

/* Levels to nibbles, halves of 32 values. */
static void infer__pack_iq4(const float *q, uint8_t *qs) {
    uint8_t u[32];
    int j, k;
    for (j = 0; j < 32; j++) {
        for (k = 0; (float)infer__kvalues_iq4nl[k] < q[j]; k++) {}
        u[j] = (uint8_t)k;
    }
    infer__pack_nibbles(u, qs);
}
static void infer__iq4_nl_best(const float *x, const float *w, uint8_t *b) {
    float q[32];
    infer__store_scale(b, infer__fit_stored(&infer__iq4_grid, x, w, 32, q));
    infer__pack_iq4(q, b + 2);
}
INFER__SEARCH_BLOCKS(iq4_nl, 32, 18)

/* E2M1 codes of n values, for half of the scale; returns the error. */
static float infer__fp4_try(const float *x, const float *w, int n, float half, uint8_t *u) {
    static const int16_t middles[15] = {128, 320, 448, 544, 608, 672, 736, 800, 864, 928, 992, 1088, 1216, 1408, 32767};
    static const int16_t steps[15] = {4, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 4, 0};
    static const infer__grid grid = {-12, 12, middles, steps};
    float q[32], xq, qq;
    int j, k;
    infer__grid_sums(&grid, x, w, n, infer__fit_inverse(half), q, &xq, &qq);
    for (j = 0; j < n; j++) {
        for (k = 0; (float)infer__kvalues_fp4[k] < fabsf(q[j]); k++) {}
        u[j] = (uint8_t)(k | (q[j] < 0 ? 8 : 0));
    }
    return infer__fit_error(x, w, q, n, half, 0);
}

/* The code of the scale with the least error, of those from `below` under the first that reaches the largest value to
 * `above` over it; codes of the values to u. half: of a scale's code, at most `last`. */
static uint8_t infer__fp4_best(const float *x, const float *w, int n, float (*half)(int), int last, int below,
                               int above, uint8_t *u) {
    const float top = infer__fit_top(x, n);
    float best = 3.4e38f, e;
    int s, guess = 0, found = 0;
    while (guess < last && 12.0f * half(guess) < top) guess++;
    for (s = INFER__MAX(guess - below, 0); s <= guess + above && s <= last; s++) {
        e = infer__fp4_try(x, w, n, half(s), u);
        if (e < best) best = e, found = s;
    }
    infer__fp4_try(x, w, n, half(found), u);
    return (uint8_t)found;
}

static void infer__mxfp4_best(const float *x, const float *w, uint8_t *b) {
    uint8_t u[32];
    b[0] = infer__fp4_best(x, w, 32, infer__e8m0_half, 254, 2, 1, u);
    infer__pack_nibbles(u, b + 1);
}
INFER__SEARCH_BLOCKS(mxfp4, 32, 17)

static void infer__nvfp4_best(const float *x, const float *w, uint8_t *b) {
    uint8_t u[16];
    int i, j;
    for (i = 0; i < 4; i++) {
        b[i] = infer__fp4_best(x + 16 * i, w + 16 * i, 16, infer__ue4m3_half, 126, 6, 6, u);
        for (j = 0; j < 8; j++) b[4 + 8 * i + j] = (uint8_t)(u[j] | u[j + 8] << 4);
    }
}
INFER__SEARCH_BLOCKS(nvfp4, 64, 36)

/* ---- few bits --------------------------------------------------------------------------------- */

/* d * (bit ? 1 : -1) */
static void infer__q1_0_best(const float *x, const float *w, uint8_t *b) {
    float sum = 0, of = 0;
    int j;
    for (j = 0; j < 128; j++) {
        sum += w[j] * fabsf(x[j]);
        of += w[j];
        b[2 + j / 8] = (uint8_t)(b[2 + j / 8] | (x[j] >= 0) << j % 8);
    }
    infer__store_scale(b, of > 0 ? sum / of : 0);
}
INFER__SEARCH_BLOCKS(q1_0, 128, 18)

/* A scale for many values, of which the largest says little: any share of it is tried. */
static float infer__fit_long(const infer__grid *g, const float *x, const float *w, int n, float *q) {
    const float top = infer__fit_top(x, n);
    float t[256], best = 0, d = 0, xq, qq;
    int k, turn;
    for (k = 2; k <= 20 && top > 1e-30f; k++) {
        float inverse = 0.15f * (float)k * g->hi / top;
        for (turn = 0; turn < INFER__FIT_TURNS; turn++) {
            infer__grid_sums(g, x, w, n, inverse, t, &xq, &qq);
            if (!(qq > 0) || !(xq * xq > best * qq)) break;
            best = xq * xq / qq;
            d = infer__f16_round(xq / qq);
            inverse = infer__fit_inverse(d);
        }
    }
    infer__grid_sums(g, x, w, n, infer__fit_inverse(d), q, &xq, &qq);
    return d;
}
static const infer__grid infer__ternary = {-1, 1, NULL, NULL};

static void infer__q2_0_best(const float *x, const float *w, uint8_t *b) {
    static const infer__grid grid = {-1, 2, NULL, NULL};
    float q[64], t[64];
    float y[64], e, f, d, c;
    int j, turned;
    for (j = 0; j < 64; j++) y[j] = -x[j]; /* the grid is not the same both ways: the scale may be negative */
    d = infer__fit_long(&grid, x, w, 64, q);
    c = infer__fit_long(&grid, y, w, 64, t);
    e = infer__fit_error(x, w, q, 64, d, 0);
    f = infer__fit_error(y, w, t, 64, c, 0);
    turned = f < e;
    infer__store_scale(b, turned ? -c : d);
    for (j = 0; j < 64; j++) b[2 + j / 4] = (uint8_t)(b[2 + j / 4] | ((int)(turned ? t : q)[j] + 1) << 2 * (j % 4));
}
INFER__SEARCH_BLOCKS(q2_0, 64, 18)

/* Codes of two bits, value 128 h + 32 s + l in bits 2 s of byte 32 h + l. */
static void infer__pack_quarters(const uint8_t *u, uint8_t *qs) {
    int j;
    for (j = 0; j < 256; j++)
        qs[32 * (j / 128) + j % 32] = (uint8_t)(qs[32 * (j / 128) + j % 32] | (u[j] & 3) << 2 * (j / 32 % 4));
}

static void infer__tq2_0_best(const float *x, const float *w, uint8_t *b) {
    float q[256];
    uint8_t u[256];
    infer__store_scale(b + 64, infer__fit_long(&infer__ternary, x, w, 256, q));
    infer__codes(q, 256, 1, u);
    infer__pack_quarters(u, b);
}
INFER__SEARCH_BLOCKS(tq2_0, 256, 66)

/* n bytes of `digits` base-3 digits, as infer__tq1_0_digits reads them. */
static void infer__pack_digits(const float *q, int n, int digits, uint8_t *b) {
    int j, t;
    for (j = 0; j < n; j++) {
        int x = 0;
        for (t = 0; t < 5; t++) x = 3 * x + (t < digits ? (int)q[t * n + j] + 1 : 0);
        b[j] = (uint8_t)((x * 256 + 242) / 243);
    }
}
static void infer__tq1_0_best(const float *x, const float *w, uint8_t *b) {
    float q[256];
    infer__store_scale(b + 52, infer__fit_long(&infer__ternary, x, w, 256, q));
    infer__pack_digits(q, 32, 5, b);
    infer__pack_digits(q + 160, 16, 5, b + 32);
    infer__pack_digits(q + 240, 4, 4, b + 48);
}
INFER__SEARCH_BLOCKS(tq1_0, 256, 54)

/* ---- blocks of 256 with scales of scales ------------------------------------------------------ */

static void infer__q2_k_best(const float *x, const float *w, uint8_t *b) {
    static const infer__blocks blocks = {16, 0, 15, {0, 3, NULL, NULL}};
    int8_t s[16], l[16];
    float q[256];
    uint8_t u[256];
    float m;
    int i;
    infer__store_scale(b + 80, infer__fit_block_ranged(&blocks, x, w, s, l, q, &m));
    infer__store_scale(b + 82, m);
    for (i = 0; i < 16; i++) b[i] = (uint8_t)(s[i] | l[i] << 4);
    infer__codes(q, 256, 0, u);
    infer__pack_quarters(u, b + 16);
}
INFER__SEARCH_BLOCKS(q2_k, 256, 84)

static void infer__q3_k_best(const float *x, const float *w, uint8_t *b) {
    static const infer__blocks blocks = {16, -32, 31, {-4, 3, NULL, NULL}};
    int8_t s[16];
    float q[256];
    uint8_t u[256];
    int i;
    infer__store_scale(b + 108, infer__fit_block(&blocks, x, w, s, q));
    infer__codes(q, 256, 4, u);
    for (i = 0; i < 256; i++) b[i % 32] = (uint8_t)(b[i % 32] | (u[i] >> 2) << i / 32);
    infer__pack_quarters(u, b + 32);
    for (i = 0; i < 16; i++) {
        const int v = s[i] + 32;
        b[96 + i % 8] = (uint8_t)(b[96 + i % 8] | (v & 15) << 4 * (i / 8));
        b[104 + i % 4] = (uint8_t)(b[104 + i % 4] | (v >> 4) << 2 * (i / 4));
    }
}
INFER__SEARCH_BLOCKS(q3_k, 256, 110)

/* d, dmin and the twelve bytes of Q4_K and Q5_K, as infer__k_scale_min reads them; codes to u. */
static void infer__k_best(const infer__blocks *blocks, const float *x, const float *w, uint8_t *b, uint8_t *u) {
    int8_t s[16], l[16];
    float q[256];
    float m;
    int i;
    infer__store_scale(b, infer__fit_block_ranged(blocks, x, w, s, l, q, &m));
    infer__store_scale(b + 2, m);
    for (i = 0; i < 4; i++) {
        b[4 + i] = (uint8_t)(s[i] | (s[i + 4] >> 4) << 6);
        b[8 + i] = (uint8_t)(l[i] | (l[i + 4] >> 4) << 6);
        b[12 + i] = (uint8_t)((s[i + 4] & 15) | (l[i + 4] & 15) << 4);
    }
    infer__codes(q, 256, 0, u);
}

/* Values 64 c + l in the low, 64 c + 32 + l in the high half of byte 32 c + l. */
static void infer__pack_halves(const uint8_t *u, uint8_t *qs) {
    int j;
    for (j = 0; j < 128; j++)
        qs[j] = (uint8_t)((u[64 * (j / 32) + j % 32] & 15) | (u[64 * (j / 32) + 32 + j % 32] & 15) << 4);
}

static void infer__q4_k_best(const float *x, const float *w, uint8_t *b) {
    static const infer__blocks blocks = {8, 0, 63, {0, 15, NULL, NULL}};
    uint8_t u[256];
    infer__k_best(&blocks, x, w, b, u);
    infer__pack_halves(u, b + 16);
}
INFER__SEARCH_BLOCKS(q4_k, 256, 144)

static void infer__q5_k_best(const float *x, const float *w, uint8_t *b) {
    static const infer__blocks blocks = {8, 0, 63, {0, 31, NULL, NULL}};
    uint8_t u[256];
    int i;
    infer__k_best(&blocks, x, w, b, u);
    infer__pack_halves(u, b + 48);
    for (i = 0; i < 256; i++) b[16 + i % 32] = (uint8_t)(b[16 + i % 32] | (u[i] >> 4) << i / 32);
}
INFER__SEARCH_BLOCKS(q5_k, 256, 176)

static void infer__q6_k_best(const float *x, const float *w, uint8_t *b) {
    static const infer__blocks blocks = {16, -128, 127, {-32, 31, NULL, NULL}};
    int8_t s[16];
    float q[256];
    int i;
    infer__store_scale(b + 208, infer__fit_block(&blocks, x, w, s, q));
    for (i = 0; i < 256; i++) {
        const int u = (int)q[i] + 32, h = i / 128, part = i / 32 % 4, l = i % 32;
        uint8_t *low = b + 64 * h + 32 * (part % 2) + l, *high = b + 128 + 32 * h + l;
        *low = (uint8_t)(*low | (u & 15) << 4 * (part / 2));
        *high = (uint8_t)(*high | (u >> 4) << 2 * part);
    }
    for (i = 0; i < 16; i++) b[192 + i] = (uint8_t)s[i];
}
INFER__SEARCH_BLOCKS(q6_k, 256, 210)

static void infer__iq4_xs_best(const float *x, const float *w, uint8_t *b) {
    static const infer__blocks blocks = {8, -32, 31, {-127, 113, infer__iq4_middles, infer__iq4_steps}};
    int8_t s[16];
    float q[256];
    unsigned high = 0;
    int i;
    infer__store_scale(b, infer__fit_block(&blocks, x, w, s, q));
    for (i = 0; i < 8; i++) {
        const unsigned v = (unsigned)(s[i] + 32);
        b[4 + i / 2] = (uint8_t)(b[4 + i / 2] | (v & 15) << 4 * (i % 2));
        high |= v >> 4 << 2 * i;
        infer__pack_iq4(q + 32 * i, b + 8 + 16 * i);
    }
    infer__store_u16(b + 2, (uint16_t)high);
}
INFER__SEARCH_BLOCKS(iq4_xs, 256, 136)
#undef INFER__SEARCH_BLOCKS
