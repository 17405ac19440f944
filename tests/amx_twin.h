/* amx_twin.h: the tile instructions that infer.h uses, in C: for CPUs without AMX, and to compare those that have it.
 * With -DINFER__AMX_TWIN the library computes on these tiles (src/compute/products/amx.h), and takes AMX as found.
 * Source: Intel SDM vol. 2; the order of TDPBF16PS was compared with hardware over 512,000 sums of all exponents. */
#ifndef AMX_TWIN_H
#define AMX_TWIN_H
#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__) || defined(__clang__)
#  define TWIN_LOCAL static __thread
#  define CHECK_UNUSED __attribute__((unused))
#  if defined(__x86_64__)
#    define TWIN_FMA __attribute__((target("fma"))) /* only CPUs with AVX-512 come here: no call for each product */
#  endif
#else
#  define TWIN_LOCAL static
#  define CHECK_UNUSED
#endif
#ifndef TWIN_FMA
#  define TWIN_FMA
#endif
typedef struct twin_tiles {
    uint8_t rows[8], on;
    uint16_t bytes[8];
    uint8_t at[8][16][64];
} twin_tiles;
TWIN_LOCAL twin_tiles twin;
static int twin_wrong; /* uses that hardware refuses */

/* shape: palette, start, 14 bytes 0, bytes a row of 16 tiles, rows of 16 tiles */
CHECK_UNUSED static void twin_configure(const void *shape) {
    const uint8_t *s = (const uint8_t *)shape;
    int t;
    memset(&twin, 0, sizeof twin);
    twin.on = 1;
    for (t = 0; t < 8; t++) {
        memcpy(&twin.bytes[t], s + 16 + 2 * t, 2);
        twin.rows[t] = s[48 + t];
        if (twin.rows[t] > 16 || twin.bytes[t] > 64) twin_wrong++;
    }
    if (s[0] != 1 || s[1] != 0) twin_wrong++;
}
CHECK_UNUSED static void twin_release(void) { memset(&twin, 0, sizeof twin); }
CHECK_UNUSED static void twin_zero(int t) {
    if (!twin.on) twin_wrong++;
    memset(twin.at[t], 0, sizeof twin.at[t]);
}
CHECK_UNUSED static void twin_load(int t, const void *p, int64_t stride) {
    int r;
    twin_zero(t);
    for (r = 0; r < twin.rows[t]; r++) memcpy(twin.at[t][r], (const char *)p + r * stride, twin.bytes[t]);
}
CHECK_UNUSED static void twin_store(int t, void *p, int64_t stride) {
    int r;
    if (!twin.on) twin_wrong++;
    for (r = 0; r < twin.rows[t]; r++) memcpy((char *)p + r * stride, twin.at[t][r], twin.bytes[t]);
}
/* Shapes must fit: rows of a are those of c, four bytes of a row of a are a row of b, columns of b are those of c. */
CHECK_UNUSED static void twin_shapes(int c, int a, int b) {
    if (!twin.on || twin.rows[c] != twin.rows[a] || twin.bytes[a] != 4 * twin.rows[b] || twin.bytes[b] != twin.bytes[c])
        twin_wrong++;
}
CHECK_UNUSED static void twin_dot8(int c, int a, int b) {
    int m, k, n, i;
    twin_shapes(c, a, b);
    for (m = 0; m < twin.rows[c]; m++)
        for (n = 0; n < twin.bytes[c] / 4; n++) {
            uint32_t sum;
            memcpy(&sum, twin.at[c][m] + 4 * n, 4);
            for (k = 0; k < twin.rows[b]; k++)
                for (i = 0; i < 4; i++)
                    sum += (uint32_t)((int8_t)twin.at[a][m][4 * k + i] * (int8_t)twin.at[b][k][4 * n + i]);
            memcpy(twin.at[c][m] + 4 * n, &sum, 4);
        }
}
/* Subnormal numbers are zero with their sign, in operands and results. */
static float twin_flush(float v) {
    uint32_t bits;
    memcpy(&bits, &v, 4);
    if (!(bits & 0x7f800000u)) bits &= 0x80000000u;
    memcpy(&v, &bits, 4);
    return v;
}
static float twin_bf16(const uint8_t *p) {
    uint16_t half;
    uint32_t bits;
    float v;
    memcpy(&half, p, 2);
    bits = (uint32_t)half << 16;
    memcpy(&v, &bits, 4);
    return twin_flush(v);
}
TWIN_FMA CHECK_UNUSED static void twin_dot16(int c, int a, int b) {
    int m, k, n, i;
    twin_shapes(c, a, b);
    for (m = 0; m < twin.rows[c]; m++)
        for (n = 0; n < twin.bytes[c] / 4; n++) {
            float t[2] = {0, 0}, sum;
            for (k = 0; k < twin.rows[b]; k++)
                for (i = 0; i < 2; i++)
                    t[i] = twin_flush(fmaf(twin_bf16(twin.at[a][m] + 4 * k + 2 * i), twin_bf16(twin.at[b][k] + 4 * n + 2 * i), t[i]));
            memcpy(&sum, twin.at[c][m] + 4 * n, 4);
            sum = twin_flush(twin_flush(sum) + twin_flush(t[0] + t[1]));
            memcpy(twin.at[c][m] + 4 * n, &sum, 4);
        }
}

#if defined(INFER__AMX_TWIN)
#  define INFER__TILE_CONFIGURE(shape) twin_configure(shape)
#  define INFER__TILE_RELEASE() twin_release()
#  define INFER__TILE_ZERO(t) twin_zero(t)
#  define INFER__TILE_LOAD(t, p, stride) twin_load(t, p, stride)
#  define INFER__TILE_STORE(t, p, stride) twin_store(t, p, stride)
#  define INFER__TILE_DOT8(c, a, b) twin_dot8(c, a, b)
#  define INFER__TILE_DOT16(c, a, b) twin_dot16(c, a, b)
#endif
#endif
