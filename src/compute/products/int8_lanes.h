/* int8_lanes.h: the integer dot products of x86 levels without 512-bit VNNI: one body for 4, 8 and 16 lanes.
 *
 * Owns:  INFER__LANES_TILE (columns from a tile), INFER__LANES_DOTS (how many at a time).
 * How:   a level L has one kind of vector and the functions infer__i_*_L and infer__f_*_L over it; a body is inlined
 *        into a function with the level's target attribute. 16 rows of a weight are INFER__VECTORS_L vectors.
 * Sums:  pmaddubsw adds two products of u8 x s8 in 16 bits, and saturates; |x| <= 127. How many of its results may be
 *        added before they are widened (`fit`) depends on the largest code of a type: 8 for 15, 4 for 31, 2 for 63, 1
 *        for 127. Wide codes (fit 0) are taken as signed bytes s = q - 128, and |s| is multiplied with x * sign(s):
 *        128 * 127 * 2 fits. With VNNI any code fits (1): vpdpbusd adds in 32 bits.
 * Speed: Zen 5, gcc 12, one core, a group's 256 values by 64 columns, in cache; peak of pmaddubsw + pmaddwd + paddd
 *        with 256 bits: 246 GOPS. AVX2: codes to 15 329, to 31 292, to 63 228, wide 187. AVX-VNNI 390 of 495. AVX-512
 *        569, 560, 400, 317. SSE4.1 (512 columns) 118, 120, 74, 61 of 123.
 * Start: INFER__LANES_TILE.
 */
#ifndef INFER__INT8_LANES_H
#define INFER__INT8_LANES_H

#include "cpu_int8.h"

/* Keep a sum in its register at this point: integer additions may be reordered, and gcc 12 does it until it spills
 * all. */
#if defined(__GNUC__) || defined(__clang__)
#  define INFER__PIN(v) __asm__("" : "+v"(v))
#else
#  define INFER__PIN(v) (void)0
#endif

/* How many sums of two products of a type fit into 16 bits: 8, 4, 2 or 1; 0: it is wide. */
INFER__INLINE int infer__int8_fit(const infer__quant *t) {
    int fit = 8;
    if (t->offset == 128) return 0;
    while (fit > 1 && fit * 2 * 127 * t->largest > 32767) fit /= 2;
    return fit;
}

/* M columns of one group; tile and w of that group. From block to block y has the sums, so that registers do not; but
 * where at most four vectors have them (few columns wait for the stores) registers do. */
#define INFER__LANES_TILE(L, M)                                                                                        \
    INFER__ON_##L INFER__INLINE void infer__tile_##M##_##L(const uint8_t *tile, const infer__unpacked *w,              \
                                                           const infer__x8 *const *x, int n_blocks, int grain,         \
                                                           int has_min, int fit, int32_t offset, float *y,             \
                                                           int64_t stride) {                                           \
        enum { N = INFER__VECTORS_##L, LANES = INFER__GROUP / N };                                                     \
        int b, k, r, j, g, half, halves = grain == 16 ? 2 : 1, steps = 8 / halves;                                     \
        int run = fit > steps ? steps : fit;                                                                           \
        infer__f_##L acc[N][M];                                                                                        \
        if (N * M <= 4)                                                                                                \
            INFER__UNROLL for (j = 0; j < M; j++)                                                                      \
                INFER__UNROLL for (g = 0; g < N; g++) acc[g][j] = infer__f_load_##L(y + j * stride + LANES * g);       \
        for (b = 0; b < n_blocks; b++) {                                                                               \
            infer__f_##L t[N][M];                                                                                      \
            INFER__UNROLL for (half = 0; half < halves; half++) {                                                      \
                int at = halves * b + half;                                                                            \
                const uint8_t *q = tile + 64 * steps * at;                                                             \
                infer__i_##L s[N][M], v[N], u[N];                                                                      \
                INFER__UNROLL for (j = 0; j < M; j++) {                                                                \
                    int32_t sum = offset * (grain == 16 ? x[j]->sum16[half][b] : x[j]->sum32[at]);                     \
                    s[0][j] = infer__i_splat_##L(fit ? -sum : 0);                                                      \
                    INFER__UNROLL for (g = 1; g < N; g++) s[g][j] = s[0][j];                                           \
                }                                                                                                      \
                if (fit <= 1) {                                                                                        \
                    INFER__UNROLL for (k = 0; k < steps; k++) {                                                        \
                        INFER__UNROLL for (g = 0; g < N; g++) {                                                        \
                            u[g] = v[g] = infer__i_load_##L(q + 64 * k + 4 * LANES * g);                               \
                            if (!fit) {                                                                                \
                                v[g] = infer__i_flip_##L(v[g]);                                                        \
                                u[g] = infer__i_abs_##L(v[g]);                                                         \
                            }                                                                                          \
                        }                                                                                              \
                        INFER__UNROLL for (j = 0; j < M; j++) {                                                        \
                            infer__i_##L xv = infer__i_four_##L(x[j]->q + 4 * (steps * at + k));                       \
                            INFER__UNROLL for (g = 0; g < N; g++) {                                                    \
                                s[g][j] = infer__i_dot_##L(s[g][j], u[g], fit ? xv : infer__i_sign_##L(xv, v[g]));     \
                                INFER__PIN(s[g][j]);                                                                   \
                            }                                                                                          \
                        }                                                                                              \
                    }                                                                                                  \
                } else {                                                                                               \
                    INFER__UNROLL for (r = 0; r < steps; r += run) {                                                   \
                        infer__i_##L p[N][M];                                                                          \
                        INFER__UNROLL for (k = 0; k < run; k++) {                                                      \
                            INFER__UNROLL for (g = 0; g < N; g++)                                                      \
                                v[g] = infer__i_load_##L(q + 64 * (r + k) + 4 * LANES * g);                            \
                            INFER__UNROLL for (j = 0; j < M; j++) {                                                    \
                                infer__i_##L xv = infer__i_four_##L(x[j]->q + 4 * (steps * at + r + k));               \
                                INFER__UNROLL for (g = 0; g < N; g++) {                                                \
                                    infer__i_##L m = infer__i_pairs_##L(v[g], xv);                                     \
                                    p[g][j] = k ? infer__i_add16_##L(p[g][j], m) : m;                                  \
                                    INFER__PIN(p[g][j]);                                                               \
                                }                                                                                      \
                            }                                                                                          \
                        }                                                                                              \
                        INFER__UNROLL for (j = 0; j < M; j++)                                                          \
                            INFER__UNROLL for (g = 0; g < N; g++)                                                      \
                                s[g][j] = infer__i_add_##L(s[g][j], infer__i_widen_##L(p[g][j]));                      \
                    }                                                                                                  \
                }                                                                                                      \
                INFER__UNROLL for (j = 0; j < M; j++)                                                                  \
                    INFER__UNROLL for (g = 0; g < N; g++)                                                              \
                        t[g][j] = infer__f_grain_##L(s[g][j], w->scale[at] + LANES * g, w->min[at] + LANES * g,        \
                                                     grain == 16 ? x[j]->fsum16[half][b] : x[j]->fsum32[at], has_min,  \
                                                     half ? t[g][j] : infer__f_splat_##L(0.0f), half == 0);            \
            }                                                                                                          \
            INFER__UNROLL for (j = 0; j < M; j++)                                                                      \
                INFER__UNROLL for (g = 0; g < N; g++) {                                                                \
                    float *to = y + j * stride + LANES * g;                                                            \
                    infer__f_##L d = infer__f_splat_##L(x[j]->d[b]);                                                   \
                    if (N * M > 4) infer__f_store_##L(to, infer__f_fma_##L(t[g][j], d, infer__f_load_##L(to)));        \
                    else acc[g][j] = infer__f_fma_##L(t[g][j], d, acc[g][j]);                                          \
                }                                                                                                      \
        }                                                                                                              \
        if (N * M <= 4)                                                                                                \
            INFER__UNROLL for (j = 0; j < M; j++)                                                                      \
                INFER__UNROLL for (g = 0; g < N; g++) infer__f_store_##L(y + j * stride + LANES * g, acc[g][j]);       \
    }

/* All columns: M at a time from a tile, the rest by REST, for which tiles are made when there are `from` columns. */
#define INFER__LANES_DOTS(L, M, from, REST)                                                                            \
    INFER__ON_##L INFER__INLINE void infer__dots_body_##L(const infer__dots_args *a, int grain, int has_min,           \
                                                          int fit) {                                                   \
        const uint8_t *tiles[INFER__INT8_GROUPS] = {NULL, NULL};                                                       \
        const int32_t offset = a->type->offset;                                                                        \
        const infer__x8 *x[M > 2 ? M : 2];                                                                             \
        int32_t j = 0, i, g;                                                                                           \
        if (a->n_x >= from) {                                                                                          \
            for (g = 0; g < a->n_groups; g++) {                                                                        \
                uint8_t *tile = a->tile + g * INFER__GROUP * INFER__CHUNK;                                             \
                if (!a->w[g].tiled) infer__make_tile_##L(a->w + g, a->n_blocks, tile);                                 \
                tiles[g] = a->w[g].tiled ? a->w[g].q[0] : tile;                                                        \
            }                                                                                                          \
            for (; j + M <= a->n_x; j += M) {                                                                          \
                for (i = 0; i < M; i++) x[i] = infer__x8_col(a, j + i);                                                \
                for (g = 0; g < a->n_groups; g++)                                                                      \
                    infer__tile_##M##_##L(tiles[g], a->w + g, x, a->n_blocks, grain, has_min, fit, offset,             \
                                          a->y + j * a->stride + g * INFER__GROUP, a->stride);                         \
            }                                                                                                          \
        }                                                                                                              \
        REST(L)                                                                                                        \
    }
/* One by one, without a tile. */
#define INFER__LANES_REST_DIRECT(L)                                                                                    \
    for (; j < a->n_x; j++)                                                                                            \
        for (g = 0; g < a->n_groups; g++)                                                                              \
            infer__direct_##L(a->w + g, infer__x8_col(a, j), a->n_blocks, grain, has_min, fit, offset, a->ahead,       \
                              a->y + j * a->stride + g * INFER__GROUP);
/* Two by two; the last may be one column twice: both have the same sums for the same place. */
#define INFER__LANES_REST_TWO(L)                                                                                       \
    for (; j < a->n_x; j += 2) {                                                                                       \
        const int32_t two = j + 1 < a->n_x;                                                                            \
        x[0] = infer__x8_col(a, j);                                                                                    \
        x[1] = infer__x8_col(a, j + two);                                                                              \
        for (g = 0; g < a->n_groups; g++)                                                                              \
            infer__tile_2_##L(tiles[g], a->w + g, x, a->n_blocks, grain, has_min, fit, offset,                         \
                              a->y + j * a->stride + g * INFER__GROUP, two * a->stride);                               \
    }
#define INFER__LANES_KIND(L, grain, has_min, fit)                                                                      \
    INFER__ON_##L static void infer__dots_##grain##_##has_min##_##fit##_##L(const infer__dots_args *a) {               \
        infer__dots_body_##L(a, grain, has_min, fit);                                                                  \
    }

/* A level with pmaddubsw: instances for the kinds of types there are; one that is none of them is left to plain C. */
#define INFER__LANES_LEVEL(L)                                                                                          \
    INFER__LANES_KIND(L, 32, 0, 0)                                                                                     \
    INFER__LANES_KIND(L, 32, 0, 1)                                                                                     \
    INFER__LANES_KIND(L, 32, 0, 4)                                                                                     \
    INFER__LANES_KIND(L, 32, 0, 8)                                                                                     \
    INFER__LANES_KIND(L, 32, 1, 4)                                                                                     \
    INFER__LANES_KIND(L, 32, 1, 8)                                                                                     \
    INFER__LANES_KIND(L, 16, 0, 1)                                                                                     \
    INFER__LANES_KIND(L, 16, 0, 2)                                                                                     \
    INFER__LANES_KIND(L, 16, 1, 4)                                                                                     \
    static void infer__dots_##L(const infer__dots_args *a) {                                                           \
        void (*dots)(const infer__dots_args *) = infer__dots_scalar;                                                   \
        int fit = infer__int8_fit(a->type);                                                                            \
        if (a->type->grain == 32 && a->type->has_min) {                                                                \
            if (fit >= 4) dots = fit == 8 ? infer__dots_32_1_8_##L : infer__dots_32_1_4_##L;                           \
        } else if (a->type->grain == 32) {                                                                             \
            dots = fit == 8   ? infer__dots_32_0_8_##L                                                                 \
                   : fit == 4 ? infer__dots_32_0_4_##L                                                                 \
                   : fit      ? infer__dots_32_0_1_##L                                                                 \
                              : infer__dots_32_0_0_##L;                                                                \
        } else if (a->type->has_min) {                                                                                 \
            if (fit >= 4) dots = infer__dots_16_1_4_##L;                                                               \
        } else if (fit) {                                                                                              \
            dots = fit >= 2 ? infer__dots_16_0_2_##L : infer__dots_16_0_1_##L;                                         \
        }                                                                                                              \
        dots(a);                                                                                                       \
    }

/* The same with fewer instances, for levels that few machines end at: every instance is code and compile time. */
#define INFER__LANES_LEVEL_FEW(L)                                                                                      \
    INFER__LANES_KIND(L, 32, 0, 0)                                                                                     \
    INFER__LANES_KIND(L, 32, 0, 1)                                                                                     \
    INFER__LANES_KIND(L, 32, 0, 4)                                                                                     \
    INFER__LANES_KIND(L, 32, 1, 4)                                                                                     \
    INFER__LANES_KIND(L, 16, 0, 1)                                                                                     \
    INFER__LANES_KIND(L, 16, 1, 4)                                                                                     \
    static void infer__dots_##L(const infer__dots_args *a) {                                                           \
        void (*dots)(const infer__dots_args *) = infer__dots_scalar;                                                   \
        int fit = infer__int8_fit(a->type);                                                                            \
        if (a->type->has_min) {                                                                                        \
            if (fit >= 4) dots = a->type->grain == 32 ? infer__dots_32_1_4_##L : infer__dots_16_1_4_##L;               \
        } else if (a->type->grain == 32) {                                                                             \
            dots = fit >= 4 ? infer__dots_32_0_4_##L : fit ? infer__dots_32_0_1_##L : infer__dots_32_0_0_##L;          \
        } else if (fit) {                                                                                              \
            dots = infer__dots_16_0_1_##L;                                                                             \
        }                                                                                                              \
        dots(a);                                                                                                       \
    }
#endif
