/* int8_wasm.c: integer dot products with WebAssembly's vectors (SIMD128): 16 rows of a weight are four vectors.
 *
 * Owns:  the simd128 row of INT8. It exists if the compiler's target has it: WebAssembly cannot choose at run time.
 * How:   there is no product of bytes, so codes become 16 bits when they are loaded, and activations once a chunk;
 *        i32x4.dot_i16x8_s (pmaddwd) adds two products in 32 bits, whatever the codes. One column: rows as stored, four
 *        at a time, whose partial sums are then added across. Many columns: codes are transposed once, two values of
 *        each row side by side, so that no sum crosses lanes.
 * Numbers: products of a layer in node 20 on a Zen 5, G weights/s, prompt of 16: Q4_0 27.9, Q8_0 28.4; 8.5 and 8.7 when
 *        rows were added up one by one.
 * Start: infer__tile_simd128.
 */
#include "cpu_int8.h"

#if defined(INFER__SIMD_WASM)

enum { INFER__WASM_COLS = 2 };
typedef struct infer__x16 { int16_t q[INFER__CHUNK]; } infer__x16;

static void infer__widen_simd128(const infer__x8 *x, int n_blocks, infer__x16 *out) {
    int k;
    for (k = 0; k < 32 * n_blocks; k += 8) wasm_v128_store(out->q + k, wasm_i16x8_load8x8(x->q + k));
}

/* t = isum * scale (+ min * xsum) (+ t) for four rows. */
INFER__INLINE v128_t infer__grain_simd128(v128_t isum, const float *scale, const float *min, float xsum, int has_min,
                                          v128_t t, int first) {
    v128_t f = wasm_f32x4_mul(wasm_f32x4_convert_i32x4(isum), wasm_v128_load(scale));
    if (!first) f = wasm_f32x4_add(t, f);
    return has_min ? wasm_f32x4_add(f, wasm_f32x4_mul(wasm_v128_load(min), wasm_f32x4_splat(xsum))) : f;
}
INFER__INLINE void infer__add_to_simd128(float *y, v128_t t, float d) {
    wasm_v128_store(y, wasm_f32x4_add(wasm_v128_load(y), wasm_f32x4_mul(t, wasm_f32x4_splat(d))));
}

/* Four vectors to their sums, a lane each. */
INFER__INLINE v128_t infer__add_four_simd128(const v128_t *s) {
    v128_t a = wasm_i32x4_add(wasm_i32x4_shuffle(s[0], s[1], 0, 4, 1, 5), wasm_i32x4_shuffle(s[0], s[1], 2, 6, 3, 7));
    v128_t b = wasm_i32x4_add(wasm_i32x4_shuffle(s[2], s[3], 0, 4, 1, 5), wasm_i32x4_shuffle(s[2], s[3], 2, 6, 3, 7));
    return wasm_i32x4_add(wasm_i32x4_shuffle(a, b, 0, 1, 4, 5), wasm_i32x4_shuffle(a, b, 2, 3, 6, 7));
}

/* ---- few columns ---------------------------------------------------------------------------------------------- */

/* One column of one group: a block of 4 rows after the other. */
INFER__INLINE void infer__direct_simd128(const infer__unpacked *w, const infer__x8 *x, const infer__x16 *x16,
                                         int n_blocks, int grain, int has_min, int32_t offset, float *y) {
    const int halves = grain == 16 ? 2 : 1;
    int b, r, i, k, half;
    for (b = 0; b < n_blocks; b++) {
        v128_t v[4];
        INFER__UNROLL for (k = 0; k < 4; k++) v[k] = wasm_v128_load(x16->q + 32 * b + 8 * k);
        for (r = 0; r < INFER__GROUP; r += 4) {
            const uint8_t *q = w->q[r] + infer__q_index(32 * b);
            v128_t t = wasm_f32x4_splat(0.0f);
            INFER__UNROLL for (half = 0; half < halves; half++) {
                const int at = halves * b + half;
                const int32_t less = offset * (grain == 16 ? x->sum16[half][b] : x->sum32[b]);
                v128_t s[4];
                INFER__UNROLL for (i = 0; i < 4; i++) {
                    const uint8_t *p = q + i * INFER__CHUNK + 64 * half;
                    s[i] = wasm_i32x4_add(wasm_i32x4_dot_i16x8(wasm_u16x8_load8x8(p), v[2 * half]),
                                          wasm_i32x4_dot_i16x8(wasm_u16x8_load8x8(p + 8), v[2 * half + 1]));
                    if (grain == 32)
                        s[i] = wasm_i32x4_add(
                            s[i], wasm_i32x4_add(wasm_i32x4_dot_i16x8(wasm_u16x8_load8x8(p + 64), v[2]),
                                                 wasm_i32x4_dot_i16x8(wasm_u16x8_load8x8(p + 72), v[3])));
                }
                t = infer__grain_simd128(wasm_i32x4_sub(infer__add_four_simd128(s), wasm_i32x4_splat(less)),
                                         w->scale[at] + r, w->min[at] + r,
                                         grain == 16 ? x->fsum16[half][b] : x->fsum32[b], has_min, t, half == 0);
            }
            infer__add_to_simd128(y + r, t, x->d[b]);
        }
    }
}

/* ---- many columns --------------------------------------------------------------------------------------------- */

/* The codes of a group, transposed: values 2 j and 2 j + 1 of the 16 rows at tile + 32 * j. */
static void infer__make_tile_simd128(const infer__unpacked *w, int n_blocks, uint8_t *tile) {
    int h, r, i;
    for (h = 0; h < 2 * n_blocks; h++) /* 16 values */
        for (r = 0; r < INFER__GROUP; r += 8) {
            const uint8_t *q = w->q[r] + infer__q_index(16 * h);
            uint8_t *to = tile + 256 * h + 2 * r;
            v128_t v[8], t[8];
            INFER__UNROLL for (i = 0; i < 8; i++) v[i] = wasm_v128_load(q + i * INFER__CHUNK);
            INFER__UNROLL for (i = 0; i < 4; i++) { /* words of rows i and i + 4 */
                t[2 * i] = wasm_i16x8_shuffle(v[i], v[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
                t[2 * i + 1] = wasm_i16x8_shuffle(v[i], v[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
            }
            INFER__UNROLL for (i = 0; i < 4; i++) { /* then of four rows: 0 2 4 6, or 1 3 5 7 */
                v[2 * i] = wasm_i16x8_shuffle(t[i], t[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
                v[2 * i + 1] = wasm_i16x8_shuffle(t[i], t[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
            }
            INFER__UNROLL for (i = 0; i < 4; i++) {
                wasm_v128_store(to + 64 * i, wasm_i16x8_shuffle(v[i], v[i + 4], 0, 8, 1, 9, 2, 10, 3, 11));
                wasm_v128_store(to + 64 * i + 32, wasm_i16x8_shuffle(v[i], v[i + 4], 4, 12, 5, 13, 6, 14, 7, 15));
            }
        }
}

/* INFER__WASM_COLS columns of one group; tile and w of that group. */
INFER__INLINE void infer__tile_simd128(const uint8_t *tile, const infer__unpacked *w, const infer__x8 *const *x,
                                       const infer__x16 *x16, int n_blocks, int grain, int has_min, int32_t offset,
                                       float *y, int64_t stride) {
    enum { M = INFER__WASM_COLS };
    const int halves = grain == 16 ? 2 : 1, steps = 16 / halves;
    int b, j, g, k, half;
    for (b = 0; b < n_blocks; b++) {
        v128_t t[M][4];
        INFER__UNROLL for (half = 0; half < halves; half++) {
            const int at = halves * b + half;
            const uint8_t *q = tile + 32 * steps * at;
            v128_t s[M][4];
            INFER__UNROLL for (j = 0; j < M; j++) {
                s[j][0] = wasm_i32x4_splat(-offset * (grain == 16 ? x[j]->sum16[half][b] : x[j]->sum32[b]));
                s[j][1] = s[j][2] = s[j][3] = s[j][0];
            }
            for (k = 0; k < steps; k++) {
                v128_t v[4];
                INFER__UNROLL for (g = 0; g < 4; g++) v[g] = wasm_u16x8_load8x8(q + 32 * k + 8 * g);
                INFER__UNROLL for (j = 0; j < M; j++) {
                    v128_t xv = wasm_v128_load32_splat(x16[j].q + 2 * (steps * at + k));
                    INFER__UNROLL for (g = 0; g < 4; g++)
                        s[j][g] = wasm_i32x4_add(s[j][g], wasm_i32x4_dot_i16x8(v[g], xv));
                }
            }
            INFER__UNROLL for (j = 0; j < M; j++)
                INFER__UNROLL for (g = 0; g < 4; g++)
                    t[j][g] = infer__grain_simd128(s[j][g], w->scale[at] + 4 * g, w->min[at] + 4 * g,
                                                   grain == 16 ? x[j]->fsum16[half][b] : x[j]->fsum32[b], has_min,
                                                   half ? t[j][g] : s[j][g], half == 0);
        }
        INFER__UNROLL for (j = 0; j < M; j++)
            INFER__UNROLL for (g = 0; g < 4; g++)
                infer__add_to_simd128(y + j * stride + 4 * g, t[j][g], x[j]->d[b]);
    }
}

INFER__INLINE void infer__dots_body_simd128(const infer__dots_args *a, int grain, int has_min) {
    enum { M = INFER__WASM_COLS };
    infer__x16 x16[M];
    const infer__x8 *x[M];
    int32_t offset = a->type->offset, j = 0, i, g;
    if (a->n_x >= 4) {
        for (g = 0; g < a->n_groups; g++)
            infer__make_tile_simd128(a->w + g, a->n_blocks, a->tile + g * INFER__GROUP * INFER__CHUNK);
        for (; j + M <= a->n_x; j += M) {
            for (i = 0; i < M; i++) {
                x[i] = infer__x8_col(a, j + i);
                infer__widen_simd128(x[i], a->n_blocks, &x16[i]);
            }
            for (g = 0; g < a->n_groups; g++)
                infer__tile_simd128(a->tile + g * INFER__GROUP * INFER__CHUNK, a->w + g, x, x16, a->n_blocks, grain,
                                    has_min, offset, a->y + j * a->stride + g * INFER__GROUP, a->stride);
        }
    }
    for (; j < a->n_x; j++) {
        x[0] = infer__x8_col(a, j);
        infer__widen_simd128(x[0], a->n_blocks, &x16[0]);
        for (g = 0; g < a->n_groups; g++)
            infer__direct_simd128(a->w + g, x[0], &x16[0], a->n_blocks, grain, has_min, offset,
                                  a->y + j * a->stride + g * INFER__GROUP);
    }
}

INFER__DOTS_BY_KIND(simd128, INFER__ON_scalar)
#endif
