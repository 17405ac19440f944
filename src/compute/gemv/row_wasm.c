/* row_wasm.c: GEMV, one column of activations times one row after the other as it lies in the file, with WebAssembly's
 * vectors.
 *
 * Owns:  infer__ones_simd128: for the types where it is faster than unpacking first (Q2_K to Q6_K are not: 0.75 to
 *        1.0).
 * How:   as row_avx2.c: codes of a block in registers, products of 16 bits (int8_wasm.c), sums of four blocks added
 *        across so that a vector has a lane for every block, and the float arithmetic of cpu_int8.h up to t.
 * Start: INFER__ROW_WASM.
 */
#include "../products/cpu_int8.h"

#if defined(INFER__SIMD_WASM)
#  define INFER__ROWS 1

/* ---- what types share ------------------------------------------------------------------------------------------ */

/* The fp16 of eight blocks. */
INFER__INLINE void infer__halves_simd128(const uint8_t *p, int step, v128_t *out) {
    v128_t v = wasm_v128_load16_splat(p);
    v = wasm_v128_load16_lane(p + step, v, 1);
    v = wasm_v128_load16_lane(p + 2 * step, v, 2);
    v = wasm_v128_load16_lane(p + 3 * step, v, 3);
    v = wasm_v128_load16_lane(p + 4 * step, v, 4);
    v = wasm_v128_load16_lane(p + 5 * step, v, 5);
    v = wasm_v128_load16_lane(p + 6 * step, v, 6);
    v = wasm_v128_load16_lane(p + 7 * step, v, 7);
    out[0] = infer__four_halves_simd128(wasm_u32x4_extend_low_u16x8(v));
    out[1] = infer__four_halves_simd128(wasm_u32x4_extend_high_u16x8(v));
}

/* 16 codes times x. */
INFER__INLINE v128_t infer__half_simd128(v128_t v, const int8_t *x, int is_signed) {
    v128_t low = is_signed ? wasm_i16x8_extend_low_i8x16(v) : wasm_u16x8_extend_low_u8x16(v);
    v128_t high = is_signed ? wasm_i16x8_extend_high_i8x16(v) : wasm_u16x8_extend_high_u8x16(v);
    return wasm_i32x4_add(wasm_i32x4_dot_i16x8(low, wasm_i16x8_load8x8(x)),
                          wasm_i32x4_dot_i16x8(high, wasm_i16x8_load8x8(x + 8)));
}

/* NAME_half: the codes of half h of block b. NAME_scales: of eight blocks, four to a vector. All types have a scale per
 * 32 values. */
#define INFER__ROW_WASM(name, bytes, has_min, is_signed, offset)                                                       \
    static void infer__##name##_row_simd128(const uint8_t *p, int n_chunks, const infer__x8 *x, int64_t x_step,        \
                                            float *t) {                                                                \
        for (; n_chunks > 0; n_chunks--, p += (bytes), x += x_step, t += 8) {                                          \
            v128_t scale[2], min[2];                                                                                   \
            int i, k;                                                                                                  \
            infer__##name##_scales_simd128(p, scale, min);                                                             \
            INFER__UNROLL for (i = 0; i < 8; i += 4) {                                                                 \
                v128_t s[4], f;                                                                                        \
                INFER__UNROLL for (k = 0; k < 4; k++) {                                                                \
                    const int8_t *xq = x->q + 32 * (i + k);                                                            \
                    s[k] = wasm_i32x4_add(                                                                             \
                        infer__half_simd128(infer__##name##_half_simd128(p, i + k, 0), xq, is_signed),                 \
                        infer__half_simd128(infer__##name##_half_simd128(p, i + k, 1), xq + 16, is_signed));           \
                }                                                                                                      \
                f = infer__add_four_simd128(s);                                                                        \
                if (offset)                                                                                            \
                    f = wasm_i32x4_sub(f, wasm_i32x4_mul(wasm_v128_load(x->sum32 + i), wasm_i32x4_splat(offset)));     \
                f = wasm_f32x4_mul(wasm_f32x4_convert_i32x4(f), scale[i / 4]);                                         \
                if (has_min) f = wasm_f32x4_add(f, wasm_f32x4_mul(min[i / 4], wasm_v128_load(x->fsum32 + i)));         \
                wasm_v128_store(t + i, f);                                                                             \
            }                                                                                                          \
        }                                                                                                              \
    }

/* y[r] += t * d over n_chunks chunks of eight rows; t of row r is at t + r * stride. */
static void infer__add_rows_simd128(const float *t, int64_t stride, int n_chunks, const infer__x8 *x, int64_t x_step,
                                    float *y) {
    for (; n_chunks > 0; n_chunks--, t += 8, x += x_step) {
        int i, r;
        for (i = 0; i < 8; i += 4)
            for (r = 0; r < 8; r += 4) {
                const float *from = t + r * stride + i;
                v128_t a = wasm_v128_load(from), b = wasm_v128_load(from + stride);
                v128_t c = wasm_v128_load(from + 2 * stride), d = wasm_v128_load(from + 3 * stride);
                v128_t ab = wasm_i32x4_shuffle(a, b, 0, 4, 1, 5), cd = wasm_i32x4_shuffle(c, d, 0, 4, 1, 5);
                infer__add_to_simd128(y + r, wasm_i32x4_shuffle(ab, cd, 0, 1, 4, 5), x->d[i]);
                infer__add_to_simd128(y + r, wasm_i32x4_shuffle(ab, cd, 2, 3, 6, 7), x->d[i + 1]);
                ab = wasm_i32x4_shuffle(a, b, 2, 6, 3, 7);
                cd = wasm_i32x4_shuffle(c, d, 2, 6, 3, 7);
                infer__add_to_simd128(y + r, wasm_i32x4_shuffle(ab, cd, 0, 1, 4, 5), x->d[i + 2]);
                infer__add_to_simd128(y + r, wasm_i32x4_shuffle(ab, cd, 2, 3, 6, 7), x->d[i + 3]);
            }
    }
}

/* ---- blocks of 32 values ---------------------------------------------------------------------------------------- */

/* half: from b, where block i is. */
#define INFER__ROW_BLOCKS(name, bytes, has_min, is_signed, offset, half)                                               \
    INFER__INLINE v128_t infer__##name##_half_simd128(const uint8_t *p, int i, int h) {                                \
        const uint8_t *b = p + (bytes) * i;                                                                            \
        return half;                                                                                                   \
    }                                                                                                                  \
    INFER__INLINE void infer__##name##_scales_simd128(const uint8_t *p, v128_t *scale, v128_t *min) {                  \
        infer__halves_simd128(p, bytes, scale);                                                                        \
        if (has_min) infer__halves_simd128(p + 2, bytes, min);                                                         \
    }                                                                                                                  \
    INFER__ROW_WASM(name, 8 * (bytes), has_min, is_signed, offset)
INFER__INLINE v128_t infer__nibbles_simd128(const uint8_t *p, int high) {
    v128_t v = wasm_v128_load(p);
    return wasm_v128_and(high ? wasm_u16x8_shr(v, 4) : v, wasm_i8x16_splat(15));
}
/* 16 for the bits that are set among the 16 at p. */
INFER__INLINE v128_t infer__sixteens_simd128(const uint8_t *p) {
    const v128_t bit = wasm_u8x16_const(1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128);
    v128_t v = wasm_v128_load16_splat(p);
    v = wasm_i8x16_shuffle(v, v, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
    return wasm_v128_and(wasm_i8x16_eq(wasm_v128_and(v, bit), bit), wasm_i8x16_splat(16));
}
INFER__ROW_BLOCKS(q4_0, 18, 0, 0, 8, infer__nibbles_simd128(b + 2, h))
INFER__ROW_BLOCKS(q4_1, 20, 1, 0, 0, infer__nibbles_simd128(b + 4, h))
INFER__ROW_BLOCKS(q5_0, 22, 0, 0, 16,
                  wasm_v128_or(infer__nibbles_simd128(b + 6, h), infer__sixteens_simd128(b + 2 + 2 * h)))
INFER__ROW_BLOCKS(q5_1, 24, 1, 0, 0,
                  wasm_v128_or(infer__nibbles_simd128(b + 8, h), infer__sixteens_simd128(b + 4 + 2 * h)))
INFER__ROW_BLOCKS(q8_0, 34, 0, 1, 0, wasm_v128_load(b + 2 + 16 * h))
INFER__ROW_BLOCKS(iq4_nl, 18, 0, 1, 0,
                  wasm_i8x16_swizzle(wasm_v128_load(infer__kvalues_iq4nl), infer__nibbles_simd128(b + 2, h)))
#undef INFER__ROW_BLOCKS

/* E8M0 bytes: infer__e8m0_half of each. */
INFER__INLINE void infer__mxfp4_scales_simd128(const uint8_t *p, v128_t *scale, v128_t *min) {
    float f[8];
    int i;
    (void)min;
    INFER__UNROLL for (i = 0; i < 8; i++) f[i] = infer__e8m0_half(p[17 * i]);
    scale[0] = wasm_v128_load(f);
    scale[1] = wasm_v128_load(f + 4);
}
INFER__INLINE v128_t infer__mxfp4_half_simd128(const uint8_t *p, int i, int h) {
    return wasm_i8x16_swizzle(wasm_v128_load(infer__kvalues_fp4), infer__nibbles_simd128(p + 17 * i + 1, h));
}
INFER__ROW_WASM(mxfp4, 136, 0, 1, 0)

/* ---- blocks of 256 values --------------------------------------------------------------------------------------- */

INFER__INLINE v128_t infer__iq4_xs_half_simd128(const uint8_t *p, int i, int h) {
    return wasm_i8x16_swizzle(wasm_v128_load(infer__kvalues_iq4nl), infer__nibbles_simd128(p + 8 + 16 * i, h));
}
INFER__INLINE void infer__iq4_xs_scales_simd128(const uint8_t *p, v128_t *scale, v128_t *min) {
    const v128_t d = infer__four_halves_simd128(wasm_i32x4_splat(infer__load_u16(p)));
    const uint32_t low = infer__load_u32(p + 4), high = infer__load_u16(p + 2);
    float f[8];
    int i;
    (void)min;
    INFER__UNROLL for (i = 0; i < 8; i++)
        f[i] = (float)((int32_t)((low >> 4 * i & 15) | (high >> 2 * i & 3) << 4) - 32);
    scale[0] = wasm_f32x4_mul(d, wasm_v128_load(f));
    scale[1] = wasm_f32x4_mul(d, wasm_v128_load(f + 4));
}
INFER__ROW_WASM(iq4_xs, 136, 0, 1, 0)
#undef INFER__ROW_WASM

static const infer__one_row infer__ones_simd128[] = {
    {2, NULL, infer__q4_0_row_simd128},
    {8, NULL, infer__q8_0_row_simd128},
    INFER__QUANT(Q4_1, 3, NULL, infer__q4_1_row_simd128)
    INFER__QUANT(Q5_0, 6, NULL, infer__q5_0_row_simd128)
    INFER__QUANT(Q5_1, 7, NULL, infer__q5_1_row_simd128)
    INFER__QUANT(IQ4_NL, 20, NULL, infer__iq4_nl_row_simd128)
    INFER__QUANT(IQ4_XS, 23, NULL, infer__iq4_xs_row_simd128)
    INFER__QUANT(MXFP4, 39, NULL, infer__mxfp4_row_simd128)
};
#endif
