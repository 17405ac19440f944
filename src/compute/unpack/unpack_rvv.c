/* unpack_rvv.c: unpack functions with RISC-V's vectors (RVV 1.0) for all types but the code books of unpack_rvv_iq.c.
 *
 * Owns:  what unpack_rvv_iq.c uses too, fp16 as float32, and functions for the table there. The plain C functions of
 *        quant_*.c define what they compute; results are equal.
 * How:   codes row after row, 16 at a time. Scales of 16 rows at once, a byte of all rows by one strided load. From the
 *        file only bytes are loaded: wider elements that are not aligned may end the program.
 * Tails: nothing is read beyond a block.
 * Start: INFER__UNPACK_RVV.
 */
#include "../products/cpu_int8.h"

#if defined(INFER__SIMD_RVV)

/* ---- codes ----------------------------------------------------------------------------------------------------- */

/* For 16 and for 32 bytes. down: shifted. move: bits from `to` on are those of v from bit `from` on, with rubbish above
 * and below. with: v and, moved, the bits of `mask` of high. */
#define INFER__BYTES_RVV(M, N)                                                                                         \
    INFER__INLINE vuint8##M##_t infer__load_##N##_rvv(const uint8_t *p) { return __riscv_vle8_v_u8##M(p, N); }         \
    INFER__INLINE vuint8##M##_t infer__and_##N##_rvv(vuint8##M##_t v, uint8_t mask) {                                  \
        return __riscv_vand_vx_u8##M(v, mask, N);                                                                      \
    }                                                                                                                  \
    INFER__INLINE vuint8##M##_t infer__down_##N##_rvv(vuint8##M##_t v, int bits) {                                     \
        return bits ? __riscv_vsrl_vx_u8##M(v, (size_t)bits, N) : v;                                                   \
    }                                                                                                                  \
    INFER__INLINE vuint8##M##_t infer__move_##N##_rvv(vuint8##M##_t v, int from, int to) {                             \
        return from < to ? __riscv_vsll_vx_u8##M(v, (size_t)(to - from), N) : infer__down_##N##_rvv(v, from - to);     \
    }                                                                                                                  \
    INFER__INLINE vuint8##M##_t infer__with_##N##_rvv(vuint8##M##_t v, vuint8##M##_t high, int from, int to,           \
                                                      uint8_t mask) {                                                  \
        return __riscv_vor_vv_u8##M(v, infer__and_##N##_rvv(infer__move_##N##_rvv(high, from, to), mask), N);          \
    }
INFER__BYTES_RVV(m1, 16)
INFER__BYTES_RVV(m2, 32)
#undef INFER__BYTES_RVV
INFER__INLINE void infer__store_rvv(uint8_t *q, vuint8m1_t v) { __riscv_vse8_v_u8m1(q, v, 16); }
/* 16 for the bits that are set of the two bytes at p. */
INFER__INLINE vuint8m1_t infer__fifth_rvv(vuint8m1_t v, const uint8_t *p) {
    return __riscv_vor_vx_u8m1_mu(__riscv_vlm_v_b8(p, 16), v, v, 16, 16);
}
INFER__INLINE vuint8m1_t infer__levels_rvv(vuint8m1_t table, vuint8m1_t index) {
    return __riscv_vrgather_vv_u8m1(table, index, 16);
}
INFER__INLINE vuint8m1_t infer__iq4_table_rvv(void) {
    return __riscv_vxor_vx_u8m1(infer__load_16_rvv((const uint8_t *)infer__kvalues_iq4nl), 128, 16);
}
INFER__INLINE vuint8m1_t infer__fp4_table_rvv(void) {
    return __riscv_vadd_vx_u8m1(infer__load_16_rvv((const uint8_t *)infer__kvalues_fp4), 12, 16);
}

/* ---- scales of 16 rows ------------------------------------------------------------------------------------------ */

/* n fp16 in 32 bits as floats: the bits times 2^112, which is exact for subnormal numbers, too: RISC-V flushes none. */
INFER__INLINE vfloat32m4_t infer__widened_rvv(vuint32m4_t h, size_t n) {
    const vuint32m4_t sign = __riscv_vsll_vx_u32m4(__riscv_vand_vx_u32m4(h, 0x8000, n), 16, n);
    vuint32m4_t v = __riscv_vsll_vx_u32m4(__riscv_vand_vx_u32m4(h, 0x7fff, n), 13, n);
    const vbool8_t no_number = __riscv_vmsgtu_vx_u32m4_b8(v, 0x0f7fffffu, n);
    v = __riscv_vreinterpret_v_f32m4_u32m4(
        __riscv_vfmul_vf_f32m4(__riscv_vreinterpret_v_u32m4_f32m4(v), 5192296858534827628530496329220096.0f, n));
    v = __riscv_vor_vx_u32m4_mu(no_number, v, v, 0x7f800000u, n);
    return __riscv_vreinterpret_v_u32m4_f32m4(__riscv_vor_vv_u32m4(v, sign, n));
}
/* n fp16 that are `step` bytes apart. */
INFER__INLINE vfloat32m4_t infer__f16_rvv(const uint8_t *p, uint64_t step, size_t n) {
    const vuint32m4_t low = __riscv_vzext_vf4_u32m4(__riscv_vlse8_v_u8m1(p, (ptrdiff_t)step, n), n);
    const vuint32m4_t high = __riscv_vzext_vf4_u32m4(__riscv_vlse8_v_u8m1(p + 1, (ptrdiff_t)step, n), n);
    return infer__widened_rvv(__riscv_vor_vv_u32m4(low, __riscv_vsll_vx_u32m4(high, 8, n), n), n);
}
/* Of each row an fp16, and a byte. */
INFER__INLINE vfloat32m4_t infer__rows_f16_rvv(const uint8_t *p, uint64_t row_bytes) {
    return infer__f16_rvv(p, row_bytes, INFER__GROUP);
}
INFER__INLINE vuint8m1_t infer__rows_rvv(const uint8_t *p, uint64_t row_bytes) {
    return __riscv_vlse8_v_u8m1(p, (ptrdiff_t)row_bytes, INFER__GROUP);
}
INFER__INLINE vfloat32m4_t infer__floats_rvv(vuint8m1_t v) {
    return __riscv_vfcvt_f_xu_v_f32m4(__riscv_vzext_vf4_u32m4(v, 16), 16);
}
/* Bytes times d. */
INFER__INLINE void infer__put_product_rvv(vuint8m1_t v, vfloat32m4_t d, float *to) {
    __riscv_vse32_v_f32m4(to, __riscv_vfmul_vv_f32m4(d, infer__floats_rvv(v), 16), 16);
}
INFER__INLINE void infer__put_signed_rvv(vuint8m1_t v, vfloat32m4_t d, float *to) {
    const vint32m4_t wide = __riscv_vsext_vf4_i32m4(__riscv_vreinterpret_v_u8m1_i8m1(v), 16);
    __riscv_vse32_v_f32m4(to, __riscv_vfmul_vv_f32m4(d, __riscv_vfcvt_f_x_v_f32m4(wide, 16), 16), 16);
}

static void infer__put_scales_rvv(const uint8_t *src, uint64_t row_bytes, int b, infer__unpacked *out) {
    __riscv_vse32_v_f32m4(out->scale[b], infer__rows_f16_rvv(src, row_bytes), 16);
}
static void infer__put_scales_mins_rvv(const uint8_t *src, uint64_t row_bytes, int b, infer__unpacked *out) {
    infer__put_scales_rvv(src, row_bytes, b, out);
    __riscv_vse32_v_f32m4(out->min[b], infer__rows_f16_rvv(src + 2, row_bytes), 16);
}
/* One for `blocks` blocks from b on. */
static void infer__put_one_scale_rvv(const uint8_t *src, uint64_t row_bytes, int b, int blocks, infer__unpacked *out) {
    const vfloat32m4_t d = infer__rows_f16_rvv(src, row_bytes);
    for (; blocks > 0; blocks--, b++) __riscv_vse32_v_f32m4(out->scale[b], d, 16);
}

/* E8M0 bytes: infer__e8m0_half of each. */
static void infer__put_e8m0_rvv(const uint8_t *src, uint64_t row_bytes, int b, infer__unpacked *out) {
    const vuint32m4_t e = __riscv_vzext_vf4_u32m4(infer__rows_rvv(src, row_bytes), 16);
    const vuint32m4_t small = __riscv_vsll_vv_u32m4(__riscv_vmv_v_x_u32m4(0x00200000u, 16), e, 16);
    const vuint32m4_t v = __riscv_vsll_vx_u32m4(__riscv_vsub_vx_u32m4(e, 1, 16), 23, 16);
    const vbool8_t is_small = __riscv_vmsltu_vx_u32m4_b8(e, 2, 16);
    __riscv_vse32_v_u32m4((uint32_t *)(void *)out->scale[b], __riscv_vmerge_vvm_u32m4(v, small, is_small, 16), 16);
}

/* ---- blocks of 32 values ---------------------------------------------------------------------------------------- */

/* codes: from the block at a to q and q + 64. scales: a function above. */
#define INFER__UNPACK_RVV(name, bytes, scales, codes)                                                                  \
    INFER__INLINE void infer__##name##_codes_rvv(const uint8_t *a, uint8_t *q) {                                       \
        codes;                                                                                                         \
    }                                                                                                                  \
    static void infer__##name##_unpack_rvv(const uint8_t *src, uint64_t row_bytes, int n_blocks,                       \
                                           infer__unpacked *out) {                                                     \
        const uint8_t *row = src;                                                                                      \
        int r, b;                                                                                                      \
        for (r = 0; r < INFER__GROUP; r++, row += row_bytes, infer__ask(&out->ahead)) {                                \
            const uint8_t *a = row;                                                                                    \
            uint8_t *q = out->q[r];                                                                                    \
            for (b = n_blocks; b > 0; b -= 4, a += 4 * (bytes), q += 128) {                                            \
                infer__##name##_codes_rvv(a, q);                                                                       \
                if (b > 1) infer__##name##_codes_rvv(a + (bytes), q + 16);                                             \
                if (b > 2) infer__##name##_codes_rvv(a + 2 * (bytes), q + 32);                                         \
                if (b > 3) infer__##name##_codes_rvv(a + 3 * (bytes), q + 48);                                         \
            }                                                                                                          \
        }                                                                                                              \
        for (b = 0; b < n_blocks; b++) scales(src + (bytes) * b, row_bytes, b, out);                                   \
    }
/* 16 bytes of nibbles. */
#define INFER__NIBBLES_RVV(p, LOW, HIGH)                        \
    const vuint8m1_t v = infer__load_16_rvv(p);                    \
    const vuint8m1_t low = infer__and_16_rvv(v, 15), high = infer__down_16_rvv(v, 4); \
    infer__store_rvv(q, LOW);                                   \
    infer__store_rvv(q + 64, HIGH)
INFER__UNPACK_RVV(q4_0, 18, infer__put_scales_rvv, INFER__NIBBLES_RVV(a + 2, low, high))
INFER__UNPACK_RVV(q4_1, 20, infer__put_scales_mins_rvv, INFER__NIBBLES_RVV(a + 4, low, high))
INFER__UNPACK_RVV(q5_0, 22, infer__put_scales_rvv,
                  INFER__NIBBLES_RVV(a + 6, infer__fifth_rvv(low, a + 2), infer__fifth_rvv(high, a + 4)))
INFER__UNPACK_RVV(q5_1, 24, infer__put_scales_mins_rvv,
                  INFER__NIBBLES_RVV(a + 8, infer__fifth_rvv(low, a + 4), infer__fifth_rvv(high, a + 6)))
INFER__UNPACK_RVV(iq4_nl, 18, infer__put_scales_rvv,
                  INFER__NIBBLES_RVV(a + 2, infer__levels_rvv(infer__iq4_table_rvv(), low),
                                     infer__levels_rvv(infer__iq4_table_rvv(), high)))
INFER__UNPACK_RVV(mxfp4, 17, infer__put_e8m0_rvv,
                  INFER__NIBBLES_RVV(a + 1, infer__levels_rvv(infer__fp4_table_rvv(), low),
                                     infer__levels_rvv(infer__fp4_table_rvv(), high)))
INFER__UNPACK_RVV(q8_0, 34, infer__put_scales_rvv,
                  infer__store_rvv(q, __riscv_vxor_vx_u8m1(infer__load_16_rvv(a + 2), 128, 16));
                  infer__store_rvv(q + 64, __riscv_vxor_vx_u8m1(infer__load_16_rvv(a + 18), 128, 16)))
#undef INFER__UNPACK_RVV
#undef INFER__NIBBLES_RVV

/* ---- of 64 and 128 ---------------------------------------------------------------------------------------------- */

/* A block of 128 values is 16 bytes after the scale: byte j holds values 8 j .. 8 j + 7. Codes 0 and 2. */
static void infer__q1_0_unpack_rvv(const uint8_t *src, uint64_t row_bytes, int n_blocks, infer__unpacked *out) {
    const vuint8m1_t zero = __riscv_vmv_v_x_u8m1(0, 16);
    const uint8_t *row = src;
    int r, b, i;
    for (r = 0; r < INFER__GROUP; r++, row += row_bytes, infer__ask(&out->ahead))
        for (b = 0; b < n_blocks; b += 4)
            INFER__UNROLL for (i = 0; i < 8; i++) {
                const vbool8_t bits = __riscv_vlm_v_b8(row + 18 * (b / 4) + 2 + 2 * i, 16);
                infer__store_rvv(out->q[r] + 32 * b + infer__q_index(16 * i),
                                 __riscv_vmerge_vxm_u8m1(zero, 2, bits, 16));
            }
    for (b = 0; b < n_blocks; b += 4) infer__put_one_scale_rvv(src + 18 * (b / 4), row_bytes, b, 4, out);
}

/* Value j of a block is bits 2 (j % 4) of byte j / 4 of the 16 bytes after the scale. */
static void infer__q2_0_unpack_rvv(const uint8_t *src, uint64_t row_bytes, int n_blocks, infer__unpacked *out) {
    const vuint8m1_t at = __riscv_vid_v_u8m1(16), fourth = infer__down_16_rvv(at, 2);
    const vuint8m1_t down = __riscv_vsll_vx_u8m1(infer__and_16_rvv(at, 3), 1, 16);
    const uint8_t *row = src;
    int r, b, i;
    for (r = 0; r < INFER__GROUP; r++, row += row_bytes, infer__ask(&out->ahead))
        for (b = 0; b < n_blocks; b += 2) {
            const vuint8m1_t bytes = infer__load_16_rvv(row + 18 * (b / 2) + 2);
            uint8_t *q = out->q[r] + infer__q_index(32 * b);
            INFER__UNROLL for (i = 0; i < 4; i++) {
                const vuint8m1_t v =
                    __riscv_vrgather_vv_u8m1(bytes, __riscv_vadd_vx_u8m1(fourth, (uint8_t)(4 * i), 16), 16);
                infer__store_rvv(q + infer__q_index(16 * i), infer__and_16_rvv(__riscv_vsrl_vv_u8m1(v, down, 16), 3));
            }
        }
    for (b = 0; b < n_blocks; b += 2) infer__put_one_scale_rvv(src + 18 * (b / 2), row_bytes, b, 2, out);
}

/* 8 bytes of nibbles for 16 values, of which the low ones come first; scales are infer__ue4m3_half of bytes. */
static void infer__nvfp4_unpack_rvv(const uint8_t *src, uint64_t row_bytes, int n_blocks, infer__unpacked *out) {
    const vuint8m1_t levels = infer__fp4_table_rvv();
    const uint8_t *row = src;
    int r, b, i;
    for (r = 0; r < INFER__GROUP; r++, row += row_bytes, infer__ask(&out->ahead))
        for (b = 0; b < n_blocks; b += 2) {
            const uint8_t *p = row + 18 * b + 4;
            uint8_t *q = out->q[r] + infer__q_index(32 * b);
            INFER__UNROLL for (i = 0; i < 4; i++) {
                const vuint8m1_t v = __riscv_vle8_v_u8m1(p + 8 * i, 8);
                const vuint8m1_t high = infer__down_16_rvv(v, 4);
                const vuint8m1_t both = __riscv_vslideup_vx_u8m1(infer__and_16_rvv(v, 15), high, 8, 16);
                infer__store_rvv(q + infer__q_index(16 * i), infer__levels_rvv(levels, both));
            }
        }
    for (i = 0; i < 2 * n_blocks; i++) {
        const vuint8m1_t e = infer__rows_rvv(src + 36 * (i / 4) + i % 4, row_bytes), bits = infer__and_16_rvv(e, 127);
        const vuint32m4_t wide = __riscv_vzext_vf4_u32m4(bits, 16);
        const vbool8_t is_tiny = __riscv_vmsltu_vx_u8m1_b8(bits, 8, 16);
        const vbool8_t no_number = __riscv_vmseq_vx_u8m1_b8(e, 127, 16);
        const vfloat32m4_t tiny = __riscv_vfmul_vf_f32m4(__riscv_vfcvt_f_xu_v_f32m4(wide, 16), 1.0f / 1024.0f, 16);
        vuint32m4_t v = __riscv_vadd_vx_u32m4(__riscv_vsll_vx_u32m4(wide, 20, 16), (uint32_t)(127 - 7 - 1) << 23, 16);
        v = __riscv_vmerge_vvm_u32m4(v, __riscv_vreinterpret_v_f32m4_u32m4(tiny), is_tiny, 16);
        __riscv_vse32_v_u32m4((uint32_t *)(void *)out->scale[i], __riscv_vmerge_vxm_u32m4(v, 0, no_number, 16), 16);
    }
}

/* ---- of 256 ----------------------------------------------------------------------------------------------------- */

/* 16 bytes of two bits, the codes of one half of four blocks. */
INFER__INLINE void infer__put_quarters_rvv(const uint8_t *src, uint64_t row_bytes, infer__unpacked *out) {
    int r, i;
    for (r = 0; r < INFER__GROUP; r++, src += row_bytes, infer__ask(&out->ahead))
        INFER__UNROLL for (i = 0; i < 4; i++) {
            const vuint8m1_t v = infer__load_16_rvv(src + 16 * i);
            uint8_t *q = out->q[r] + 64 * i;
            infer__store_rvv(q, infer__and_16_rvv(v, 3));
            infer__store_rvv(q + 16, infer__and_16_rvv(infer__down_16_rvv(v, 2), 3));
            infer__store_rvv(q + 32, infer__and_16_rvv(infer__down_16_rvv(v, 4), 3));
            infer__store_rvv(q + 48, infer__down_16_rvv(v, 6));
        }
}
static void infer__tq2_0_unpack_rvv(const uint8_t *src, uint64_t row_bytes, int n_blocks, infer__unpacked *out) {
    (void)n_blocks;
    infer__put_quarters_rvv(src, row_bytes, out);
    infer__put_one_scale_rvv(src + 64, row_bytes, 0, 8, out);
}
static void infer__q2_k_unpack_rvv(const uint8_t *src, uint64_t row_bytes, int n_blocks, infer__unpacked *out) {
    const vfloat32m4_t d = infer__rows_f16_rvv(src + 80, row_bytes);
    const vfloat32m4_t dmin = __riscv_vfneg_v_f32m4(infer__rows_f16_rvv(src + 82, row_bytes), 16);
    int i;
    (void)n_blocks;
    infer__put_quarters_rvv(src + 16, row_bytes, out);
    for (i = 0; i < 16; i++) {
        const vuint8m1_t v = infer__rows_rvv(src + i, row_bytes);
        infer__put_product_rvv(infer__and_16_rvv(v, 15), d, out->scale[i]);
        infer__put_product_rvv(infer__down_16_rvv(v, 4), dmin, out->min[i]);
    }
}

static void infer__q3_k_unpack_rvv(const uint8_t *src, uint64_t row_bytes, int n_blocks, infer__unpacked *out) {
    const vfloat32m4_t d = infer__rows_f16_rvv(src + 108, row_bytes);
    const uint8_t *row = src;
    int r, i;
    (void)n_blocks;
    for (r = 0; r < INFER__GROUP; r++, row += row_bytes, infer__ask(&out->ahead))
        INFER__UNROLL for (i = 0; i < 4; i++) { /* bit 4 (i / 2) + s of high: bit 2 of code s */
            const vuint8m1_t v = infer__load_16_rvv(row + 32 + 16 * i);
            const vuint8m1_t bits = infer__down_16_rvv(infer__load_16_rvv(row + 16 * (i % 2)), i < 2 ? 0 : 4);
            uint8_t *q = out->q[r] + 64 * i;
            infer__store_rvv(q, infer__with_16_rvv(infer__and_16_rvv(v, 3), bits, 0, 2, 4));
            infer__store_rvv(q + 16, infer__with_16_rvv(infer__and_16_rvv(infer__down_16_rvv(v, 2), 3), bits, 1, 2, 4));
            infer__store_rvv(q + 32, infer__with_16_rvv(infer__and_16_rvv(infer__down_16_rvv(v, 4), 3), bits, 2, 2, 4));
            infer__store_rvv(q + 48, infer__with_16_rvv(infer__down_16_rvv(v, 6), bits, 3, 2, 4));
        }
    for (i = 0; i < 16; i++) {
        const vuint8m1_t low = infer__rows_rvv(src + 96 + i % 8, row_bytes);
        const vuint8m1_t nibble = i < 8 ? infer__and_16_rvv(low, 15) : infer__down_16_rvv(low, 4);
        const vuint8m1_t high = infer__rows_rvv(src + 104 + i % 4, row_bytes);
        const vuint8m1_t scale = infer__with_16_rvv(nibble, high, 2 * (i / 4), 4, 48);
        infer__put_signed_rvv(__riscv_vsub_vx_u8m1(scale, 32, 16), d, out->scale[i]);
    }
}

/* The scales and minima of Q4_K and Q5_K: d, dmin, 12 bytes. */
static void infer__put_scale_min_rvv(const uint8_t *src, uint64_t row_bytes, infer__unpacked *out) {
    const vfloat32m4_t d = infer__rows_f16_rvv(src, row_bytes);
    const vfloat32m4_t dmin = __riscv_vfneg_v_f32m4(infer__rows_f16_rvv(src + 2, row_bytes), 16);
    int i;
    for (i = 0; i < 4; i++) {
        const vuint8m1_t scale = infer__rows_rvv(src + 4 + i, row_bytes), min = infer__rows_rvv(src + 8 + i, row_bytes);
        const vuint8m1_t low = infer__rows_rvv(src + 12 + i, row_bytes);
        infer__put_product_rvv(infer__and_16_rvv(scale, 63), d, out->scale[i]);
        infer__put_product_rvv(infer__and_16_rvv(min, 63), dmin, out->min[i]);
        infer__put_product_rvv(infer__with_16_rvv(infer__and_16_rvv(low, 15), scale, 6, 4, 48), d, out->scale[4 + i]);
        infer__put_product_rvv(infer__with_16_rvv(infer__down_16_rvv(low, 4), min, 6, 4, 48), dmin, out->min[4 + i]);
    }
}
static void infer__q4_k_unpack_rvv(const uint8_t *src, uint64_t row_bytes, int n_blocks, infer__unpacked *out) {
    const uint8_t *row = src + 16;
    int r, i;
    (void)n_blocks;
    for (r = 0; r < INFER__GROUP; r++, row += row_bytes, infer__ask(&out->ahead))
        INFER__UNROLL for (i = 0; i < 8; i++) { /* a half of two blocks */
            const vuint8m1_t v = infer__load_16_rvv(row + 16 * i);
            uint8_t *q = out->q[r] + infer__q_index(64 * (i / 2)) + 64 * (i % 2);
            infer__store_rvv(q, infer__and_16_rvv(v, 15));
            infer__store_rvv(q + 16, infer__down_16_rvv(v, 4));
        }
    infer__put_scale_min_rvv(src, row_bytes, out);
}
static void infer__q5_k_unpack_rvv(const uint8_t *src, uint64_t row_bytes, int n_blocks, infer__unpacked *out) {
    const uint8_t *row = src;
    int r, c, h;
    (void)n_blocks;
    for (r = 0; r < INFER__GROUP; r++, row += row_bytes, infer__ask(&out->ahead))
        INFER__UNROLL for (h = 0; h < 2; h++) {
            const vuint8m1_t bits = infer__load_16_rvv(row + 16 + 16 * h); /* bit i: of block i */
            INFER__UNROLL for (c = 0; c < 4; c++) {
                const vuint8m1_t v = infer__load_16_rvv(row + 48 + 32 * c + 16 * h);
                uint8_t *q = out->q[r] + infer__q_index(64 * c) + 64 * h;
                infer__store_rvv(q, infer__with_16_rvv(infer__and_16_rvv(v, 15), bits, 2 * c, 4, 16));
                infer__store_rvv(q + 16, infer__with_16_rvv(infer__down_16_rvv(v, 4), bits, 2 * c + 1, 4, 16));
            }
        }
    infer__put_scale_min_rvv(src, row_bytes, out);
}
static void infer__q6_k_unpack_rvv(const uint8_t *src, uint64_t row_bytes, int n_blocks, infer__unpacked *out) {
    const vfloat32m4_t d = infer__rows_f16_rvv(src + 208, row_bytes);
    const uint8_t *row = src;
    int r, i;
    (void)n_blocks;
    for (r = 0; r < INFER__GROUP; r++, row += row_bytes, infer__ask(&out->ahead))
        INFER__UNROLL for (i = 0; i < 4; i++) { /* one half of the blocks of 128 values */
            const uint8_t *low = row + 64 * (i / 2) + 16 * (i % 2);
            const vuint8m1_t a = infer__load_16_rvv(low), b = infer__load_16_rvv(low + 32);
            const vuint8m1_t two = infer__load_16_rvv(row + 128 + 16 * i);
            uint8_t *q = out->q[r] + 64 * i;
            infer__store_rvv(q, infer__with_16_rvv(infer__and_16_rvv(a, 15), two, 0, 4, 48));
            infer__store_rvv(q + 16, infer__with_16_rvv(infer__and_16_rvv(b, 15), two, 2, 4, 48));
            infer__store_rvv(q + 32, infer__with_16_rvv(infer__down_16_rvv(a, 4), two, 4, 4, 48));
            infer__store_rvv(q + 48, infer__with_16_rvv(infer__down_16_rvv(b, 4), two, 6, 4, 48));
        }
    for (i = 0; i < 16; i++) infer__put_signed_rvv(infer__rows_rvv(src + 192 + i, row_bytes), d, out->scale[i]);
}

static void infer__iq4_xs_unpack_rvv(const uint8_t *src, uint64_t row_bytes, int n_blocks, infer__unpacked *out) {
    const vuint8m1_t levels = infer__iq4_table_rvv();
    const vfloat32m4_t d = infer__rows_f16_rvv(src, row_bytes);
    const uint8_t *row = src + 8;
    int r, i;
    (void)n_blocks;
    for (r = 0; r < INFER__GROUP; r++, row += row_bytes, infer__ask(&out->ahead))
        INFER__UNROLL for (i = 0; i < 8; i++) {
            const vuint8m1_t v = infer__load_16_rvv(row + 16 * i);
            uint8_t *q = out->q[r] + infer__q_index(32 * i);
            infer__store_rvv(q, infer__levels_rvv(levels, infer__and_16_rvv(v, 15)));
            infer__store_rvv(q + 64, infer__levels_rvv(levels, infer__down_16_rvv(v, 4)));
        }
    for (i = 0; i < 8; i++) {
        const vuint8m1_t low = infer__rows_rvv(src + 4 + i / 2, row_bytes);
        const vuint8m1_t nibble = i % 2 ? infer__down_16_rvv(low, 4) : infer__and_16_rvv(low, 15);
        const vuint8m1_t high = infer__rows_rvv(src + 2 + i / 4, row_bytes);
        const vuint8m1_t scale = infer__with_16_rvv(nibble, high, 2 * (i % 4), 4, 48);
        infer__put_signed_rvv(__riscv_vsub_vx_u8m1(scale, 32, 16), d, out->scale[i]);
    }
}

/* Ternary digits of 16 bytes, which become three times as large, modulo 256. */
INFER__INLINE vuint8m1_t infer__digit_rvv(vuint8m1_t v) {
    return __riscv_vnsrl_wx_u8m1(__riscv_vwmulu_vx_u16m2(v, 3, 16), 8, 16);
}
static void infer__tq1_0_unpack_rvv(const uint8_t *src, uint64_t row_bytes, int n_blocks, infer__unpacked *out) {
    const uint8_t *row = src;
    int r, i, t;
    (void)n_blocks;
    for (r = 0; r < INFER__GROUP; r++, row += row_bytes, infer__ask(&out->ahead)) {
        uint8_t *q = out->q[r];
        vuint8m1_t v;
        INFER__UNROLL for (i = 0; i < 3; i++) { /* halves of block t; of 32 bytes; then half a block each from 160 on */
            v = infer__load_16_rvv(row + 16 * i);
            INFER__UNROLL for (t = 0; t < 5; t++, v = __riscv_vmul_vx_u8m1(v, 3, 16))
                infer__store_rvv(q + infer__q_index(i < 2 ? 32 * t + 16 * i : 160 + 16 * t), infer__digit_rvv(v));
        }
        v = __riscv_vle8_v_u8m1(row + 48, 4);
        INFER__UNROLL for (t = 0; t < 4; t++, v = __riscv_vmul_vx_u8m1(v, 3, 16))
            __riscv_vse8_v_u8m1(q + infer__q_index(240) + 4 * t, infer__digit_rvv(v), 4);
    }
    infer__put_one_scale_rvv(src + 52, row_bytes, 0, 8, out);
}
#endif
