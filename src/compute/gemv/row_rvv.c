/* row_rvv.c: GEMV, one column of activations times one row after the other as it lies in the file, with RISC-V's
 * vectors (RVV 1.0).
 *
 * Owns:  infer__ones_rvv: for the types where it takes fewer instructions than unpacking first.
 * How:   where a block has one scale, its 32 products are added up by a reduction, and eight sums are put side by side.
 *        Where it has two, the products of all 256 values are added to their neighbours until one is left of every 16.
 *        Eight scales are a vector, too; the float arithmetic up to t is that of cpu_int8.h. What one width of elements
 *        does comes together, since a change of width is an instruction. From the file only bytes are loaded.
 * Start: INFER__ROW_RVV.
 */
#include "../products/cpu_int8.h"

#if defined(INFER__SIMD_RVV)
#  define INFER__ROWS 1

/* ---- codes and activations -------------------------------------------------------------------------------------- */

/* The mask of the second half of 64 bytes: two blocks are one group of registers. */
INFER__INLINE vbool2_t infer__second_rvv(void) { return __riscv_vmsgtu_vx_u8m4_b2(__riscv_vid_v_u8m4(64), 31, 64); }
INFER__INLINE vuint8m4_t infer__load_64_rvv(const uint8_t *p) { return __riscv_vle8_v_u8m4(p, 64); }
/* 32 bytes at p and 32 that are `apart` bytes further on. Reads 64 at p. */
INFER__INLINE vuint8m4_t infer__load_two_rvv(const uint8_t *p, ptrdiff_t apart, vbool2_t second) {
    return __riscv_vle8_v_u8m4_mu(second, infer__load_64_rvv(p), p + apart - 32, 64);
}
INFER__INLINE vuint8m4_t infer__and_64_rvv(vuint8m4_t v, uint8_t mask) { return __riscv_vand_vx_u8m4(v, mask, 64); }
/* Shifted down; by a negative number: up. */
INFER__INLINE vuint8m4_t infer__down_64_rvv(vuint8m4_t v, int bits) {
    if (bits < 0) return __riscv_vsll_vx_u8m4(v, (size_t)-bits, 64);
    return bits ? __riscv_vsrl_vx_u8m4(v, (size_t)bits, 64) : v;
}
/* Bits of v that are shifted down. */
INFER__INLINE vuint8m4_t infer__bits_64_rvv(vuint8m4_t v, int bits, uint8_t mask) {
    return infer__and_64_rvv(infer__down_64_rvv(v, bits), mask);
}
INFER__INLINE vuint8m4_t infer__or_64_rvv(vuint8m4_t a, vuint8m4_t b) { return __riscv_vor_vv_u8m4(a, b, 64); }
INFER__INLINE vuint8m4_t infer__less_64_rvv(vuint8m4_t a, vuint8m4_t b) { return __riscv_vsub_vv_u8m4(a, b, 64); }

/* Codes of blocks k and k + 4, unsigned or signed, times their activations; x: those of block k. */
INFER__INLINE vint16m8_t infer__times_64_rvv(vuint8m4_t codes, const int8_t *x, vbool2_t second) {
    const vuint8m4_t v = infer__load_two_rvv((const uint8_t *)x, 128, second);
    return __riscv_vwmulsu_vv_i16m8(__riscv_vreinterpret_v_u8m4_i8m4(v), codes, 64);
}
INFER__INLINE vint16m8_t infer__times_signed_64_rvv(vuint8m4_t codes, const int8_t *x, vbool2_t second) {
    const vuint8m4_t v = infer__load_two_rvv((const uint8_t *)x, 128, second);
    return __riscv_vwmul_vv_i16m8(__riscv_vreinterpret_v_u8m4_i8m4(v), __riscv_vreinterpret_v_u8m4_i8m4(codes), 64);
}

/* ---- sums of blocks --------------------------------------------------------------------------------------------- */

/* 32 codes, unsigned or signed, times x; the sum of the products. */
INFER__INLINE vint16m4_t infer__times_32_rvv(vuint8m2_t codes, const int8_t *x) {
    return __riscv_vwmulsu_vv_i16m4(__riscv_vle8_v_i8m2(x, 32), codes, 32);
}
INFER__INLINE vint16m4_t infer__times_signed_32_rvv(vuint8m2_t codes, const int8_t *x) {
    return __riscv_vwmul_vv_i16m4(__riscv_vle8_v_i8m2(x, 32), __riscv_vreinterpret_v_u8m2_i8m2(codes), 32);
}
INFER__INLINE vint32m1_t infer__sum_rvv(vint16m4_t p) {
    return __riscv_vwredsum_vs_i16m4_i32m1(p, __riscv_vmv_s_x_i32m1(0, 1), 32);
}
/* The first elements of four vectors. */
INFER__INLINE vint32m1_t infer__firsts_rvv(vint32m1_t a, vint32m1_t b, vint32m1_t c, vint32m1_t d) {
    a = __riscv_vslideup_vx_i32m1(a, b, 1, 4);
    a = __riscv_vslideup_vx_i32m1(a, c, 2, 4);
    return __riscv_vslideup_vx_i32m1(a, d, 3, 4);
}
/* s: the sums of the products of eight blocks; four at a time, so that the width of elements changes less often. */
#define INFER__SUMS_RVV(p0, p1, p2, p3, p4, p5, p6, p7)                                                                \
    const vint16m4_t p_0 = p0, p_1 = p1, p_2 = p2, p_3 = p3;                                                           \
    const vint32m1_t s_0 = infer__sum_rvv(p_0), s_1 = infer__sum_rvv(p_1);                                             \
    const vint32m1_t s_2 = infer__sum_rvv(p_2), s_3 = infer__sum_rvv(p_3);                                             \
    const vint16m4_t p_4 = p4, p_5 = p5, p_6 = p6, p_7 = p7;                                                           \
    const vint32m1_t s_4 = infer__sum_rvv(p_4), s_5 = infer__sum_rvv(p_5);                                             \
    const vint32m1_t s_6 = infer__sum_rvv(p_6), s_7 = infer__sum_rvv(p_7);                                             \
    vint32m2_t s = __riscv_vslideup_vx_i32m2(                                                                          \
        __riscv_vlmul_ext_v_i32m1_i32m2(infer__firsts_rvv(s_0, s_1, s_2, s_3)),                                        \
        __riscv_vlmul_ext_v_i32m1_i32m2(infer__firsts_rvv(s_4, s_5, s_6, s_7)), 4, 8)

INFER__INLINE vfloat32m2_t infer__floats_8_rvv(vint32m2_t s) { return __riscv_vfcvt_f_x_v_f32m2(s, 8); }

/* Neighbours added. Registers are taken whole, however many of their elements are used. */
INFER__INLINE vint16m4_t infer__add_pairs_rvv(vint16m8_t p) {
    const size_t n = __riscv_vsetvlmax_e16m4();
    const vint32m8_t v = __riscv_vreinterpret_v_i16m8_i32m8(p);
    return __riscv_vadd_vv_i16m4(__riscv_vnsra_wx_i16m4(v, 0, n), __riscv_vnsra_wx_i16m4(v, 16, n), n);
}
INFER__INLINE vint16m4_t infer__add_two_rvv(vint16m4_t a, vint16m4_t b) {
    return infer__add_pairs_rvv(__riscv_vcreate_v_i16m4_i16m8(a, b));
}
/* No instruction, but what follows is not loaded before v is there: compilers would, and then lack registers. */
#define INFER__FIRST_RVV(v) __asm__ volatile("" : "+vr"(v))
/* f_0, f_1: sums of first and second halves of eight blocks, from codes of pairs of blocks k and k + 4. Eight products
 * fit into 16 bits if codes are -32 .. 31. */
#define INFER__HALVES_RVV(times, c0, c1, c2, c3)                                                                       \
    vint16m4_t p_0, p_1, p_2, p_3;                                                                                     \
    vint64m4_t s;                                                                                                      \
    vfloat32m2_t f_0, f_1;                                                                                             \
    p_0 = infer__add_pairs_rvv(times(c0, x->q, second));                                                          \
    p_2 = infer__add_pairs_rvv(times(c2, x->q + 64, second));                                                     \
    p_0 = infer__add_two_rvv(p_0, p_2);                                                                                \
    INFER__FIRST_RVV(p_0);                                                                                             \
    p_1 = infer__add_pairs_rvv(times(c1, x->q + 32, second));                                                     \
    p_3 = infer__add_pairs_rvv(times(c3, x->q + 96, second));                                                     \
    s = infer__both_halves_rvv(infer__add_two_rvv(p_0, infer__add_two_rvv(p_1, p_3)), at);                             \
    f_0 = infer__floats_8_rvv(__riscv_vnsra_wx_i32m2(s, 0, 8));                                                        \
    f_1 = infer__floats_8_rvv(__riscv_vnsra_wx_i32m2(s, 32, 8))
/* Its last step: the two sums of a block in 64 bits, blocks in order. `at`: where they are; each of the pairs 0 2 1 3
 * has a fourth of the registers, whatever their length. */
INFER__INLINE vint64m4_t infer__both_halves_rvv(vint16m4_t p, vuint16m1_t at) {
    const size_t n = __riscv_vsetvlmax_e16m2();
    const vint32m4_t v = __riscv_vreinterpret_v_i16m4_i32m4(p);
    const vint32m4_t s = __riscv_vwadd_vv_i32m4(__riscv_vnsra_wx_i16m2(v, 0, n), __riscv_vnsra_wx_i16m2(v, 16, n), n);
    return __riscv_vrgatherei16_vv_i64m4(__riscv_vreinterpret_v_i32m4_i64m4(s), at, 8);
}
INFER__INLINE vuint16m1_t infer__halves_at_rvv(void) {
    const vuint16m1_t k = __riscv_vid_v_u16m1(8), odd = __riscv_vand_vx_u16m1(k, 1, 8);
    const vuint16m1_t high = __riscv_vand_vx_u16m1(__riscv_vsrl_vx_u16m1(k, 1, 8), 1, 8);
    const vuint16m1_t pair = __riscv_vadd_vv_u16m1(__riscv_vadd_vv_u16m1(odd, odd, 8), high, 8);
    return __riscv_vadd_vv_u16m1(__riscv_vmul_vx_u16m1(pair, (uint16_t)__riscv_vsetvlmax_e16mf4(), 8),
                                 __riscv_vsrl_vx_u16m1(k, 2, 8), 8);
}

/* ---- scales ----------------------------------------------------------------------------------------------------- */

/* An fp16: infer__f16_f32, but RISC-V flushes no subnormal numbers, so it is the bits times 2^112. */
INFER__INLINE float infer__row_d_rvv(const uint8_t *p) {
    const uint32_t h = (uint32_t)(int32_t)(int8_t)p[1] << 8 | p[0], bits = h << 13 & 0x8fffffffu;
    float f = infer__bits_f32(bits) * 5192296858534827628530496329220096.0f;
    if (__builtin_expect((~h & 0x7c00) == 0, 0)) f = infer__bits_f32(bits | 0x7f800000u);
    return f;
}
/* The fp16 of eight blocks, n bytes apart. */
INFER__INLINE vfloat32m2_t infer__row_f16_rvv(const uint8_t *p, uint64_t n) {
    return __riscv_vlmul_trunc_v_f32m4_f32m2(infer__f16_rvv(p, n, 8));
}
INFER__INLINE vfloat32m2_t infer__row_unsigned_rvv(vuint16m1_t v, float d) {
    return __riscv_vfmul_vf_f32m2(__riscv_vfwcvt_f_xu_v_f32m2(v, 8), d, 8);
}
INFER__INLINE vfloat32m2_t infer__row_signed_rvv(vint16m1_t v, float d) {
    return __riscv_vfmul_vf_f32m2(__riscv_vfwcvt_f_x_v_f32m2(v, 8), d, 8);
}
/* Signed bytes, those of first and of second halves in turns. */
INFER__INLINE vfloat32m2_t infer__row_even_rvv(vuint8m1_t v, float d) {
    const vint16m1_t wide = __riscv_vreinterpret_v_u16m1_i16m1(__riscv_vreinterpret_v_u8m1_u16m1(v));
    return infer__row_signed_rvv(__riscv_vsra_vx_i16m1(__riscv_vsll_vx_i16m1(wide, 8, 8), 8, 8), d);
}
INFER__INLINE vfloat32m2_t infer__row_odd_rvv(vuint8m1_t v, float d) {
    const vint16m1_t wide = __riscv_vreinterpret_v_u16m1_i16m1(__riscv_vreinterpret_v_u8m1_u16m1(v));
    return infer__row_signed_rvv(__riscv_vsra_vx_i16m1(wide, 8, 8), d);
}

/* ---- rows ------------------------------------------------------------------------------------------------------- */

/* once: what all chunks share, or nothing. chunk: v, t of the chunk at p. The empty asm is no instruction: it has
 * addresses counted from p and x, where compilers count from the middle of both, two more additions. */
#define INFER__ROW_RVV(name, bytes, once, chunk)                                                                       \
    static void infer__##name##_row_rvv(const uint8_t *p, int n_chunks, const infer__x8 *x, int64_t x_step,            \
                                        float *t) {                                                                    \
        const uint8_t *const end = p + (ptrdiff_t)n_chunks * (bytes);                                                  \
        once;                                                                                                          \
        do {                                                                                                           \
            vfloat32m2_t v;                                                                                            \
            __asm__("" : "+r"(p), "+r"(x));                                                                            \
            chunk;                                                                                                     \
            __riscv_vse32_v_f32m2(t, v, 8);                                                                            \
            p += (bytes), x += x_step, t += 8;                                                                         \
        } while (p < end);                                                                                             \
    }

/* y[r] += t * d over n_chunks chunks of eight rows; t of row r is at t + r * stride. */
static void infer__add_rows_rvv(const float *t, int64_t stride, int n_chunks, const infer__x8 *x, int64_t x_step,
                                float *y) {
    vfloat32m2_t sum = __riscv_vle32_v_f32m2(y, 8);
    int i;
    for (; n_chunks > 0; n_chunks--, t += 8, x += x_step)
        for (i = 0; i < 8; i++)
            sum = __riscv_vfmacc_vf_f32m2(
                sum, x->d[i], __riscv_vlse32_v_f32m2(t + i, (ptrdiff_t)(stride * (int64_t)sizeof *t), 8), 8);
    __riscv_vse32_v_f32m2(y, sum, 8);
}

/* ---- a scale of 32 values --------------------------------------------------------------------------------------- */

#define INFER__BLOCK(i) infer__times_signed_32_rvv(infer__load_32_rvv(p + 34 * (i) + 2), x->q + 32 * (i))
INFER__ROW_RVV(q8_0, 272, ,
               INFER__SUMS_RVV(INFER__BLOCK(0), INFER__BLOCK(1), INFER__BLOCK(2), INFER__BLOCK(3), INFER__BLOCK(4),
                               INFER__BLOCK(5), INFER__BLOCK(6), INFER__BLOCK(7));
               v = __riscv_vfmul_vv_f32m2(infer__floats_8_rvv(s), infer__row_f16_rvv(p, 34), 8))
#undef INFER__BLOCK

/* Six bits of eight blocks, those of the first four and of the last, times d. */
INFER__INLINE vfloat32m2_t infer__row_sixes_rvv(vuint8m1_t first, vuint8m1_t last, float d) {
    const vuint8mf2_t v = __riscv_vlmul_trunc_v_u8m1_u8mf2(__riscv_vslideup_vx_u8m1(first, last, 4, 8));
    return infer__row_unsigned_rvv(__riscv_vzext_vf2_u16m1(v, 8), d);
}
/* v from s: infer__k_scale_min of the scales at p. */
#define INFER__ROW_SCALE_MIN_RVV                                                                                       \
    const vuint8m1_t six = __riscv_vle8_v_u8m1(p + 4, 12), low = __riscv_vslidedown_vx_u8m1(six, 8, 4);                \
    const vuint8m1_t first = infer__and_16_rvv(six, 63), top = infer__and_16_rvv(infer__down_16_rvv(six, 2), 48);      \
    const vuint8m1_t top_min = __riscv_vslidedown_vx_u8m1(top, 4, 4);                                                  \
    const vfloat32m2_t scale = infer__row_sixes_rvv(                                                                   \
        first, __riscv_vor_vv_u8m1(infer__and_16_rvv(low, 15), top, 4), d);                                            \
    const vfloat32m2_t min = infer__row_sixes_rvv(                                                                     \
        __riscv_vslidedown_vx_u8m1(first, 4, 4), __riscv_vor_vv_u8m1(infer__down_16_rvv(low, 4), top_min, 4), -dmin);  \
    v = __riscv_vfmul_vv_f32m2(infer__floats_8_rvv(s), scale, 8);                                                      \
    v = __riscv_vfmacc_vv_f32m2(v, __riscv_vle32_v_f32m2(x->fsum32, 8), min, 8)
/* Nibbles of blocks 2 i and 2 i + 1. */
#define INFER__LOW(i) infer__and_32_rvv(codes_##i, 15)
#define INFER__HIGH(i) infer__down_32_rvv(codes_##i, 4)
#define INFER__BLOCK(i, codes) infer__times_32_rvv(codes, x->q + 32 * (i))
/* Q4_K and Q5_K. at: of the nibbles; before: what `block` needs besides. */
#define INFER__ROW_NIBBLES(name, bytes, at, before, block)                                                             \
    INFER__ROW_RVV(name, bytes, ,                                                                                      \
                   const float d = infer__row_d_rvv(p);                                                                \
                   const float dmin = infer__row_d_rvv(p + 2);                                                         \
                   before;                                                                                             \
                   const vuint8m2_t codes_0 = infer__load_32_rvv(p + (at));                                            \
                   const vuint8m2_t codes_1 = infer__load_32_rvv(p + (at) + 32);                                       \
                   const vuint8m2_t codes_2 = infer__load_32_rvv(p + (at) + 64);                                       \
                   const vuint8m2_t codes_3 = infer__load_32_rvv(p + (at) + 96);                                       \
                   INFER__SUMS_RVV(block(0, INFER__LOW(0)), block(1, INFER__HIGH(0)), block(2, INFER__LOW(1)),         \
                                   block(3, INFER__HIGH(1)), block(4, INFER__LOW(2)), block(5, INFER__HIGH(2)),        \
                                   block(6, INFER__LOW(3)), block(7, INFER__HIGH(3)));                                 \
                   INFER__ROW_SCALE_MIN_RVV)
/* Bit k of a byte is that of block k. */
#define INFER__FIFTH(i, codes) INFER__BLOCK(i, infer__with_32_rvv(codes, high, i, 4, 16))
INFER__ROW_NIBBLES(q4_k, 144, 16, , INFER__BLOCK)
INFER__ROW_NIBBLES(q5_k, 176, 48, const vuint8m2_t high = infer__load_32_rvv(p + 16), INFER__FIFTH)
#undef INFER__ROW_NIBBLES
#undef INFER__FIFTH
#undef INFER__BLOCK
#undef INFER__LOW
#undef INFER__HIGH
#undef INFER__ROW_SCALE_MIN_RVV

/* Bits are left where they are, so sums of blocks k are 4^(k % 4) times as large: 32 * 192 * 127 fits. */
#define INFER__BLOCK(i, codes) infer__times_32_rvv(infer__and_32_rvv(codes, 3 << 2 * ((i) % 4)), x->q + 32 * (i))
INFER__ROW_RVV(tq2_0, 66,
               const vuint32m2_t at = __riscv_vand_vx_u32m2(__riscv_vid_v_u32m2(8), 3, 8);
               const vuint32m2_t down = __riscv_vsll_vx_u32m2(at, 1, 8),
               const float d = infer__row_d_rvv(p + 64);
               const vuint8m2_t a = infer__load_32_rvv(p);
               const vuint8m2_t b = infer__load_32_rvv(p + 32);
               INFER__SUMS_RVV(INFER__BLOCK(0, a), INFER__BLOCK(1, a), INFER__BLOCK(2, a), INFER__BLOCK(3, a),
                               INFER__BLOCK(4, b), INFER__BLOCK(5, b), INFER__BLOCK(6, b), INFER__BLOCK(7, b));
               s = __riscv_vsub_vv_i32m2(__riscv_vsra_vv_i32m2(s, down, 8), __riscv_vle32_v_i32m2(x->sum32, 8), 8);
               v = __riscv_vfmul_vf_f32m2(infer__floats_8_rvv(s), d, 8))
#undef INFER__BLOCK
#undef INFER__SUMS_RVV

/* Bits say which activations are added: their sum over two blocks, and over the second one. */
INFER__INLINE void infer__sum_bits_rvv(const uint8_t *bits, const int8_t *x, vbool2_t second, vint16m1_t *both,
                                       vint16m1_t *last) {
    const vint16m1_t zero = __riscv_vmv_s_x_i16m1(0, 1);
    const vint8m4_t v = __riscv_vle8_v_i8m4(x, 64);
    const vbool2_t mask = __riscv_vlm_v_b2(bits, 64);
    *both = __riscv_vwredsum_vs_i8m4_i16m1_m(mask, v, zero, 64);
    *last = __riscv_vwredsum_vs_i8m4_i16m1_m(__riscv_vmand_mm_b2(mask, second, 64), v, zero, 64);
}
INFER__INLINE vint16m1_t infer__firsts_16_rvv(vint16m1_t a, vint16m1_t b, vint16m1_t c, vint16m1_t d) {
    a = __riscv_vslideup_vx_i16m1(a, b, 1, 4);
    a = __riscv_vslideup_vx_i16m1(a, c, 2, 4);
    return __riscv_vslideup_vx_i16m1(a, d, 3, 4);
}
/* First blocks of four pairs, then second ones: block k is element k / 2 + 4 (k % 2). */
INFER__INLINE vuint16m1_t infer__pairs_at_rvv(void) {
    const vuint16m1_t k = __riscv_vid_v_u16m1(8), odd = __riscv_vand_vx_u16m1(k, 1, 8);
    return __riscv_vadd_vv_u16m1(__riscv_vsrl_vx_u16m1(k, 1, 8), __riscv_vsll_vx_u16m1(odd, 2, 8), 8);
}
/* Codes are 0 and 2, so sums count twice. */
INFER__ROW_RVV(q1_0, 36,
               const vbool2_t second = infer__second_rvv();
               const vuint16m1_t order = infer__pairs_at_rvv(),
               vint16m1_t both_0; vint16m1_t both_1; vint16m1_t both_2; vint16m1_t both_3;
               vint16m1_t last_0; vint16m1_t last_1; vint16m1_t last_2; vint16m1_t last_3;
               const float d_0 = infer__row_d_rvv(p);
               const float d_1 = infer__row_d_rvv(p + 18);
               infer__sum_bits_rvv(p + 2, x->q, second, &both_0, &last_0);
               infer__sum_bits_rvv(p + 10, x->q + 64, second, &both_1, &last_1);
               infer__sum_bits_rvv(p + 20, x->q + 128, second, &both_2, &last_2);
               infer__sum_bits_rvv(p + 28, x->q + 192, second, &both_3, &last_3);
               last_0 = infer__firsts_16_rvv(last_0, last_1, last_2, last_3);
               both_0 = __riscv_vsub_vv_i16m1(infer__firsts_16_rvv(both_0, both_1, both_2, both_3), last_0, 4);
               both_0 = __riscv_vrgather_vv_i16m1(__riscv_vslideup_vx_i16m1(both_0, last_0, 4, 8), order, 8);
               const vfloat32m2_t d = __riscv_vslideup_vx_f32m2(__riscv_vfmv_v_f_f32m2(d_0, 8),
                                                                __riscv_vfmv_v_f_f32m2(d_1, 8), 4, 8);
               v = infer__floats_8_rvv(__riscv_vsub_vv_i32m2(__riscv_vwadd_vv_i32m2(both_0, both_0, 8),
                                                             __riscv_vle32_v_i32m2(x->sum32, 8), 8));
               v = __riscv_vfmul_vv_f32m2(v, d, 8))

/* ---- a scale of 16 values --------------------------------------------------------------------------------------- */

/* Field i (0 .. 3) of eight words of four fields of four bits, times d. */
INFER__INLINE vfloat32m2_t infer__row_field_rvv(vuint16m1_t v, int i, float d) {
    if (i) v = __riscv_vsrl_vx_u16m1(v, 4 * (size_t)i, 8);
    return infer__row_unsigned_rvv(i < 3 ? __riscv_vand_vx_u16m1(v, 15, 8) : v, d);
}
INFER__ROW_RVV(q2_k, 84,
               const vbool2_t second = infer__second_rvv();
               const vuint16m1_t at = infer__halves_at_rvv(),
               const float d = infer__row_d_rvv(p + 80);
               const float dmin = -infer__row_d_rvv(p + 82);
               const vuint8m4_t codes = infer__load_64_rvv(p + 16);
               const vuint16m1_t scales = __riscv_vreinterpret_v_u8m1_u16m1(infer__load_16_rvv(p));
               INFER__HALVES_RVV(infer__times_64_rvv, infer__and_64_rvv(codes, 3), infer__bits_64_rvv(codes, 2, 3),
                                 infer__bits_64_rvv(codes, 4, 3), infer__down_64_rvv(codes, 6));
               v = __riscv_vfmul_vv_f32m2(f_0, infer__row_field_rvv(scales, 0, d), 8);
               v = __riscv_vfmacc_vv_f32m2(v, __riscv_vle32_v_f32m2(x->fsum16[0], 8),
                                           infer__row_field_rvv(scales, 1, dmin), 8);
               v = __riscv_vfmacc_vv_f32m2(v, f_1, infer__row_field_rvv(scales, 2, d), 8);
               v = __riscv_vfmacc_vv_f32m2(v, __riscv_vle32_v_f32m2(x->fsum16[1], 8),
                                           infer__row_field_rvv(scales, 3, dmin), 8))

/* Four bits of scale i of 16 are in byte i % 8, the low ones first, two in byte 8 + i % 4. down: 0 2 4 6. */
INFER__INLINE vuint8m1_t infer__q3_k_scales_rvv(vuint8m1_t v, vuint32m1_t down) {
    const vuint32m1_t last = __riscv_vrgather_vx_u32m1(__riscv_vreinterpret_v_u8m1_u32m1(v), 2, 4);
    const vuint8m1_t two = __riscv_vreinterpret_v_u32m1_u8m1(__riscv_vsrl_vv_u32m1(last, down, 4));
    const vuint8m1_t four = __riscv_vslideup_vx_u8m1(infer__and_16_rvv(v, 15), infer__down_16_rvv(v, 4), 8, 16);
    const vuint8m1_t high = __riscv_vsll_vx_u8m1(infer__and_16_rvv(two, 3), 4, 16);
    return __riscv_vsub_vx_u8m1(__riscv_vor_vv_u8m1(four, high, 16), 32, 16);
}
/* The high bit of block k is bit k of a byte; 4 is taken off where it is not set. */
#define INFER__THIRD(codes, bits) infer__less_64_rvv(codes, infer__bits_64_rvv(low, bits, 4))
INFER__ROW_RVV(q3_k, 110,
               const vbool2_t second = infer__second_rvv();
               const vuint16m1_t at = infer__halves_at_rvv();
               const vuint32m1_t i = __riscv_vid_v_u32m1(4);
               const vuint32m1_t down = __riscv_vadd_vv_u32m1(i, i, 4),
               const float d = infer__row_d_rvv(p + 108);
               const vuint8m4_t codes = infer__load_64_rvv(p + 32);
               const vuint8m4_t same = __riscv_vnot_v_u8m4(infer__load_two_rvv(p, 0, second), 64);
               const vuint8m4_t low = __riscv_vsrl_vx_u8m4_mu(second, same, same, 4, 64);
               INFER__HALVES_RVV(infer__times_signed_64_rvv, INFER__THIRD(infer__and_64_rvv(codes, 3), -2),
                                 INFER__THIRD(infer__bits_64_rvv(codes, 2, 3), -1),
                                 INFER__THIRD(infer__bits_64_rvv(codes, 4, 3), 0),
                                 INFER__THIRD(infer__down_64_rvv(codes, 6), 1));
               const vuint8m1_t scale = infer__q3_k_scales_rvv(__riscv_vle8_v_u8m1(p + 96, 12), down);
               v = __riscv_vfmul_vv_f32m2(f_0, infer__row_even_rvv(scale, d), 8);
               v = __riscv_vfmacc_vv_f32m2(v, f_1, infer__row_odd_rvv(scale, d), 8))
#undef INFER__THIRD

/* Four bits of blocks 0 and 2, 1 and 3, 4 and 6, 5 and 7 are in 32 bytes each, two bits of blocks 0 to 3 in the next 32
 * and of 4 to 7 in the last. */
#define INFER__SIX(codes, bits)                                                                                        \
    __riscv_vsub_vx_u8m4(infer__or_64_rvv(codes, infer__bits_64_rvv(high, bits, 48)), 32, 64)
INFER__ROW_RVV(q6_k, 210,
               const vbool2_t second = infer__second_rvv();
               const vuint16m1_t at = infer__halves_at_rvv(),
               const float d = infer__row_d_rvv(p + 208);
               const vuint8m4_t high = infer__load_64_rvv(p + 128);
               const vuint8m4_t a = infer__load_two_rvv(p, 64, second);
               INFER__HALVES_RVV(infer__times_signed_64_rvv, INFER__SIX(infer__and_64_rvv(a, 15), -4),
                                 INFER__SIX(infer__and_64_rvv(infer__load_two_rvv(p + 32, 64, second), 15), -2),
                                 INFER__SIX(infer__down_64_rvv(a, 4), 0),
                                 INFER__SIX(infer__down_64_rvv(infer__load_two_rvv(p + 32, 64, second), 4), 2));
               const vuint8m1_t scales = infer__load_16_rvv(p + 192);
               v = __riscv_vfmul_vv_f32m2(f_0, infer__row_even_rvv(scales, d), 8);
               v = __riscv_vfmacc_vv_f32m2(v, f_1, infer__row_odd_rvv(scales, d), 8))
#undef INFER__SIX
#undef INFER__HALVES_RVV

/* ---- IQ1_S ------------------------------------------------------------------------------------------------------ */

/* Entry j, 8 values, of each of eight blocks. Its index is byte j of a word of `low` and above that three bits of
 * `high` from bit 3 j on; `at` is in bytes. */
INFER__INLINE vuint8m4_t infer__entries_rvv(vuint32m2_t low, vuint16m1_t high, int j) {
    const vuint16m1_t bytes =
        j ? __riscv_vnsrl_wx_u16m1(low, 8 * (size_t)j - 3, 8)
          : __riscv_vsll_vx_u16m1(__riscv_vnsrl_wx_u16m1(low, 0, 8), 3, 8);
    const vuint16m1_t bits = __riscv_vsll_vx_u16m1(high, 11 - 3 * (size_t)j, 8);
    const vuint16m1_t at = __riscv_vor_vv_u16m1(__riscv_vand_vx_u16m1(bytes, 0x7f8, 8),
                                                __riscv_vand_vx_u16m1(bits, 0x3800, 8), 8);
    return __riscv_vreinterpret_v_u64m4_u8m4(__riscv_vluxei16_v_u64m4(infer__book_iq1s, at, 8));
}
/* Eight activations at x and every 32 further on; they are aligned to that. */
INFER__INLINE vint8m4_t infer__x_eights_rvv(const int8_t *x) {
    return __riscv_vreinterpret_v_i64m4_i8m4(__riscv_vlse64_v_i64m4((const int64_t *)(const void *)x, 32, 8));
}
/* t from the sums of four products each, of every block eight. Codes are 9 too large, or 11 where bit 15 is set. */
INFER__INLINE vfloat32m2_t infer__iq1_s_finish_rvv(vint16m8_t p, vuint16m1_t high, float d, const infer__x8 *x) {
    const vint32m8_t a = __riscv_vreinterpret_v_i16m8_i32m8(p);
    const vint32m4_t b = __riscv_vreinterpret_v_i16m4_i32m4(
        __riscv_vadd_vv_i16m4(__riscv_vnsra_wx_i16m4(a, 0, 32), __riscv_vnsra_wx_i16m4(a, 16, 32), 32));
    const vint64m4_t c = __riscv_vreinterpret_v_i32m4_i64m4(
        __riscv_vwadd_vv_i32m4(__riscv_vnsra_wx_i16m2(b, 0, 16), __riscv_vnsra_wx_i16m2(b, 16, 16), 16));
    const vint32m2_t s =
        __riscv_vadd_vv_i32m2(__riscv_vnsra_wx_i32m2(c, 0, 8), __riscv_vnsra_wx_i32m2(c, 32, 8), 8);
    const vuint16m1_t down = __riscv_vand_vx_u16m1(__riscv_vsrl_vx_u16m1(high, 14, 8), 2, 8);
    const vint32m2_t less = __riscv_vreinterpret_v_u32m2_i32m2(
        __riscv_vzext_vf2_u32m2(__riscv_vadd_vx_u16m1(down, 9, 8), 8));
    const vuint16m1_t three = __riscv_vand_vx_u16m1(__riscv_vsrl_vx_u16m1(high, 11, 8), 14, 8);
    return __riscv_vfmul_vv_f32m2(
        infer__floats_8_rvv(__riscv_vnmsac_vv_i32m2(s, less, __riscv_vle32_v_i32m2(x->sum32, 8), 8)),
        infer__row_unsigned_rvv(__riscv_vor_vx_u16m1(three, 1, 8), d), 8);
}
INFER__ROW_RVV(iq1_s, 50, ,
               const float d = infer__row_d_rvv(p) * 0.125f;
               const vuint32m2_t low = __riscv_vreinterpret_v_u8m2_u32m2(infer__load_32_rvv(p + 2));
               const vuint16m1_t high = __riscv_vreinterpret_v_u8m1_u16m1(infer__load_16_rvv(p + 34));
               vint16m8_t s =
                   __riscv_vwmulsu_vv_i16m8(infer__x_eights_rvv(x->q), infer__entries_rvv(low, high, 0), 64);
               INFER__FIRST_RVV(s);
               s = __riscv_vwmaccsu_vv_i16m8(s, infer__x_eights_rvv(x->q + 8), infer__entries_rvv(low, high, 1), 64);
               INFER__FIRST_RVV(s);
               s = __riscv_vwmaccsu_vv_i16m8(s, infer__x_eights_rvv(x->q + 16), infer__entries_rvv(low, high, 2), 64);
               INFER__FIRST_RVV(s);
               s = __riscv_vwmaccsu_vv_i16m8(s, infer__x_eights_rvv(x->q + 24), infer__entries_rvv(low, high, 3), 64);
               v = infer__iq1_s_finish_rvv(s, high, d, x))
#undef INFER__ROW_RVV

static const infer__one_row infer__ones_rvv[] = {
    {8, NULL, infer__q8_0_row_rvv},
    INFER__QUANT(Q2_K, 10, NULL, infer__q2_k_row_rvv)
    INFER__QUANT(Q3_K, 11, NULL, infer__q3_k_row_rvv)
    INFER__QUANT(Q4_K, 12, NULL, infer__q4_k_row_rvv)
    INFER__QUANT(Q5_K, 13, NULL, infer__q5_k_row_rvv)
    INFER__QUANT(Q6_K, 14, NULL, infer__q6_k_row_rvv)
    INFER__QUANT(IQ1_S, 19, NULL, infer__iq1_s_row_rvv)
    INFER__QUANT(TQ2_0, 35, NULL, infer__tq2_0_row_rvv)
    INFER__QUANT(Q1_0, 41, NULL, infer__q1_0_row_rvv)
};
#endif
