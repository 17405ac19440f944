/* unpack_rvv_iq.c: unpack functions with RISC-V's vectors for the code book types, IQ1 to IQ3, and the table of all.
 *
 * Owns:  infer__unpacks_rvv. The plain C functions of quant_iq.c define what they compute; results are equal.
 * How:   128 values are one indexed load from a book of code_books.c. Indices and signs are put in the order in which
 *        infer__unpacked has the values, so what is loaded is stored as it is. 16 bytes of signs are the mask of 128
 *        values.
 * Start: infer__put_entries_rvv.
 */
#include "../products/cpu_int8.h"

#if defined(INFER__SIMD_RVV)

/* Entry k of 8 values, in infer__unpacked's order, is this one of the file: of 128 values first the first halves. */
static const uint8_t infer__order_rvv[32] = {0,  1,  4,  5,  8,  9,  12, 13, 2,  3,  6,  7,  10, 11, 14, 15,
                                             16, 17, 20, 21, 24, 25, 28, 29, 18, 19, 22, 23, 26, 27, 30, 31};
INFER__INLINE vuint8m2_t infer__order_8_rvv(void) { return __riscv_vle8_v_u8m2(infer__order_rvv, 32); }
/* The same of entries of 4 values. */
INFER__INLINE vuint8m4_t infer__order_4_rvv(void) {
    const vuint8m4_t at = __riscv_vid_v_u8m4(64), order = __riscv_vle8_v_u8m4(infer__order_rvv, 32);
    const vuint8m4_t v = __riscv_vrgather_vv_u8m4(order, __riscv_vsrl_vx_u8m4(at, 1, 64), 64);
    return __riscv_vor_vv_u8m4(__riscv_vsll_vx_u8m4(v, 1, 64), __riscv_vand_vx_u8m4(at, 1, 64), 64);
}

/* The 256 codes of a row. offsets: bytes into the book, of 256 / each entries; signs: a bit for every value. moved:
 * what values with a sign lose; 0: they are subtracted from `offset`, to which the others are added. */
INFER__INLINE void infer__put_entries_rvv(const void *book, int each, const uint16_t *offsets, vuint8m2_t signs,
                                          uint8_t offset, uint8_t moved, uint8_t *q) {
    int h;
    INFER__UNROLL for (h = 0; h < 2; h++, q += 128) {
        const vuint8m2_t bytes = h ? __riscv_vslidedown_vx_u8m2(signs, 16, 16) : signs;
        const vbool1_t minus = __riscv_vreinterpret_v_u8m1_b1(__riscv_vlmul_trunc_v_u8m2_u8m1(bytes));
        vuint8m8_t v;
        if (each == 8) v = __riscv_vreinterpret_v_u64m8_u8m8(__riscv_vluxei16_v_u64m8(
            (const uint64_t *)book, __riscv_vle16_v_u16m2(offsets + 16 * h, 16), 16));
        else v = __riscv_vreinterpret_v_u32m8_u8m8(__riscv_vluxei16_v_u32m8(
            (const uint32_t *)book, __riscv_vle16_v_u16m4(offsets + 32 * h, 32), 32));
        if (moved) v = __riscv_vsub_vx_u8m8_mu(minus, v, v, moved, 128);
        else v = __riscv_vrsub_vx_u8m8_mu(minus, __riscv_vadd_vx_u8m8(v, offset, 128), v, offset, 128);
        __riscv_vse8_v_u8m8(q, v, 128);
    }
}
/* Indices of 32 entries of 8 values: bytes, and what is above them. */
INFER__INLINE void infer__put_indices_rvv(vuint8m2_t low, vuint8m2_t high, uint16_t *offsets) {
    const vuint16m4_t top = __riscv_vsll_vx_u16m4(__riscv_vzext_vf2_u16m4(high, 32), 8, 32);
    const vuint16m4_t v = __riscv_vor_vv_u16m4(__riscv_vzext_vf2_u16m4(low, 32), top, 32);
    __riscv_vse16_v_u16m4(offsets, __riscv_vsll_vx_u16m4(v, 3, 32), 32);
}

/* Seven bits in every byte and their parity above them: infer__iq_signs. */
INFER__INLINE vuint8m2_t infer__parity_rvv(vuint8m2_t x) {
    vuint8m2_t t = __riscv_vxor_vv_u8m2(x, __riscv_vsrl_vx_u8m2(x, 4, 32), 32);
    t = __riscv_vxor_vv_u8m2(t, __riscv_vsrl_vx_u8m2(t, 2, 32), 32);
    t = __riscv_vxor_vv_u8m2(t, __riscv_vsrl_vx_u8m2(t, 1, 32), 32);
    return __riscv_vor_vv_u8m2(x, __riscv_vsll_vx_u8m2(t, 7, 32), 32);
}
/* Four fields of seven bits of eight words to bytes with their parity. */
INFER__INLINE vuint8m2_t infer__sevens_rvv(vuint32m2_t x) {
    vuint32m2_t y = __riscv_vand_vx_u32m2(__riscv_vsll_vx_u32m2(x, 2, 8), 0x3fff0000u, 8);
    x = __riscv_vor_vv_u32m2(__riscv_vand_vx_u32m2(x, 0x3fff, 8), y, 8);
    y = __riscv_vand_vx_u32m2(__riscv_vsll_vx_u32m2(x, 1, 8), 0x7f007f00u, 8);
    x = __riscv_vor_vv_u32m2(__riscv_vand_vx_u32m2(x, 0x007f007fu, 8), y, 8);
    return infer__parity_rvv(__riscv_vreinterpret_v_u32m2_u8m2(x));
}

/* ---- scales ----------------------------------------------------------------------------------------------------- */

/* 2 v + 1. */
INFER__INLINE vuint8m1_t infer__odd_rvv(vuint8m1_t v) {
    return __riscv_vor_vx_u8m1(__riscv_vsll_vx_u8m1(v, 1, 16), 1, 16);
}
/* The fp16 d of 16 rows, times f. */
INFER__INLINE vfloat32m4_t infer__iq_d_rvv(const uint8_t *src, uint64_t row_bytes, float f) {
    return __riscv_vfmul_vf_f32m4(infer__rows_f16_rvv(src, row_bytes), f, 16);
}
static void infer__put_collected_rvv(const infer__iq_scales *s, int n, vfloat32m4_t d, infer__unpacked *out) {
    int i;
    for (i = 0; i < n; i++)
        infer__put_product_rvv(infer__odd_rvv(infer__rows_rvv(s->of[0] + i, sizeof s->of[0])), d, out->scale[i]);
}
/* Scales of four bits, two in each of n bytes at src. */
static void infer__put_nibble_scales_rvv(const uint8_t *src, uint64_t row_bytes, int n, vfloat32m4_t d,
                                         infer__unpacked *out) {
    int i;
    for (i = 0; i < n; i++) {
        const vuint8m1_t v = infer__rows_rvv(src + i, row_bytes);
        infer__put_product_rvv(infer__odd_rvv(infer__and_16_rvv(v, 15)), d, out->scale[2 * i]);
        infer__put_product_rvv(infer__odd_rvv(infer__down_16_rvv(v, 4)), d, out->scale[2 * i + 1]);
    }
}
/* The top four bits of eight words. */
INFER__INLINE void infer__collect_tops_rvv(vuint32m2_t x, uint8_t *to) {
    __riscv_vse8_v_u8mf2(to, __riscv_vncvt_x_x_w_u8mf2(__riscv_vnsrl_wx_u16m1(x, 28, 8), 8), 8);
}

/* ---- types ------------------------------------------------------------------------------------------------------ */

/* row: the offsets and signs of the row at p, in infer__unpacked's order. after: the scales. */
#define INFER__UNPACK_IQ_RVV(name, book, each, offset, moved, row, after)                                              \
    static void infer__##name##_unpack_rvv(const uint8_t *src, uint64_t row_bytes, int n_blocks,                       \
                                           infer__unpacked *out) {                                                     \
        const vuint8m2_t order = infer__order_8_rvv();                                                                 \
        infer__iq_scales scales;                                                                                       \
        uint16_t offsets[256 / (each)], half[INFER__GROUP];                                                            \
        const uint8_t *p = src;                                                                                        \
        vuint8m2_t signs;                                                                                              \
        int r;                                                                                                         \
        (void)n_blocks, (void)scales, (void)half;                                                                      \
        for (r = 0; r < INFER__GROUP; r++, p += row_bytes, infer__ask(&out->ahead)) {                                  \
            row;                                                                                                       \
            infer__put_entries_rvv(book, each, offsets, signs, offset, moved, out->q[r]);                              \
        }                                                                                                              \
        after;                                                                                                         \
    }
#define INFER__IN_ORDER_RVV(v) __riscv_vrgather_vv_u8m2(v, order, 32)

INFER__UNPACK_IQ_RVV(iq2_xxs, infer__book_iq2xxs, 8, 43, 0,
                     const vuint64m4_t both = __riscv_vreinterpret_v_u8m4_u64m4(__riscv_vle8_v_u8m4(p + 2, 64));
                     const vuint32m2_t first = __riscv_vnsrl_wx_u32m2(both, 0, 8);
                     const vuint32m2_t second = __riscv_vnsrl_wx_u32m2(both, 32, 8);
                     infer__put_indices_rvv(INFER__IN_ORDER_RVV(__riscv_vreinterpret_v_u32m2_u8m2(first)),
                                            __riscv_vmv_v_x_u8m2(0, 32), offsets);
                     signs = INFER__IN_ORDER_RVV(infer__sevens_rvv(second));
                     infer__collect_tops_rvv(second, scales.of[r]),
                     infer__put_collected_rvv(&scales, 8, infer__iq_d_rvv(src, row_bytes, 0.125f), out))
/* Indices of 9 bits with seven signs above them. */
INFER__UNPACK_IQ_RVV(iq2_xs, infer__book_iq2xs, 8, 43, 0,
                     const vuint16m4_t words = __riscv_vreinterpret_v_u8m4_u16m4(__riscv_vle8_v_u8m4(p + 2, 64));
                     const vuint8m2_t low = __riscv_vncvt_x_x_w_u8m2(words, 32);
                     const vuint8m2_t high = __riscv_vnsrl_wx_u8m2(words, 8, 32);
                     infer__put_indices_rvv(INFER__IN_ORDER_RVV(low),
                                            INFER__IN_ORDER_RVV(__riscv_vand_vx_u8m2(high, 1, 32)), offsets);
                     signs = INFER__IN_ORDER_RVV(infer__parity_rvv(__riscv_vsrl_vx_u8m2(high, 1, 32))),
                     infer__put_nibble_scales_rvv(src + 66, row_bytes, 8, infer__iq_d_rvv(src, row_bytes, 0.125f), out))
/* n bits of each of 32 entries, from those of `per` entries a byte at src, in order. */
#define INFER__FIELDS_RVV(src, per, n)                                                                            \
    __riscv_vand_vx_u8m2(                                                                                         \
        __riscv_vsrl_vv_u8m2(                                                                                     \
            __riscv_vrgather_vv_u8m2(__riscv_vle8_v_u8m2(src, 32 / (per)),                                        \
                                     __riscv_vsrl_vx_u8m2(order, (per) == 4 ? 2 : 1, 32), 32),                    \
            __riscv_vmul_vx_u8m2(__riscv_vand_vx_u8m2(order, (per) - 1, 32), 8 / (per), 32), 32), (1 << (n)) - 1, 32)
INFER__UNPACK_IQ_RVV(iq2_s, infer__book_iq2s, 8, 43, 0,
                     infer__put_indices_rvv(INFER__IN_ORDER_RVV(__riscv_vle8_v_u8m2(p + 2, 32)),
                                            INFER__FIELDS_RVV(p + 66, 4, 2), offsets);
                     signs = INFER__IN_ORDER_RVV(__riscv_vle8_v_u8m2(p + 34, 32)),
                     infer__put_nibble_scales_rvv(src + 74, row_bytes, 8, infer__iq_d_rvv(src, row_bytes, 0.125f), out))

/* 64 entries of 4 values: bytes at p, and above them the bits at `high`, or none. */
INFER__INLINE void infer__put_fours_rvv(const uint8_t *p, const uint8_t *high, uint16_t *offsets) {
    const vuint8m4_t order = infer__order_4_rvv();
    const vuint8m4_t low = __riscv_vrgather_vv_u8m4(__riscv_vle8_v_u8m4(p, 64), order, 64);
    vuint16m8_t v = __riscv_vsll_vx_u16m8(__riscv_vzext_vf2_u16m8(low, 64), 2, 64);
    if (high) {
        const vuint8m4_t ones =
            __riscv_vmerge_vxm_u8m4(__riscv_vmv_v_x_u8m4(0, 64), 1, __riscv_vlm_v_b2(high, 64), 64);
        const vbool2_t is_high = __riscv_vmsne_vx_u8m4_b2(__riscv_vrgather_vv_u8m4(ones, order, 64), 0, 64);
        v = __riscv_vadd_vx_u16m8_mu(is_high, v, v, 4 * 256, 64);
    }
    __riscv_vse16_v_u16m8(offsets, v, 64);
}
INFER__UNPACK_IQ_RVV(iq3_xxs, infer__book_iq3xxs, 4, 62, 0,
                     const vuint32m2_t x = __riscv_vreinterpret_v_u8m2_u32m2(__riscv_vle8_v_u8m2(p + 66, 32));
                     infer__put_fours_rvv(p + 2, NULL, offsets);
                     signs = INFER__IN_ORDER_RVV(infer__sevens_rvv(x));
                     infer__collect_tops_rvv(x, scales.of[r]),
                     infer__put_collected_rvv(&scales, 8, infer__iq_d_rvv(src, row_bytes, 0.25f), out))
INFER__UNPACK_IQ_RVV(iq3_s, infer__book_iq3s, 4, 15, 0,
                     infer__put_fours_rvv(p + 2, p + 66, offsets);
                     signs = INFER__IN_ORDER_RVV(__riscv_vle8_v_u8m2(p + 74, 32)),
                     infer__put_nibble_scales_rvv(src + 106, row_bytes, 4, infer__iq_d_rvv(src, row_bytes, 1.0f), out))

/* IQ1: 2 less where a bit says so. That bit of 32 entries as the signs of their values. */
INFER__INLINE vuint8m2_t infer__all_signs_rvv(vuint8m2_t bit) { return __riscv_vrsub_vx_u8m2(bit, 0, 32); }
/* Of the words of four entries: three bits an entry, and bit 15. */
INFER__UNPACK_IQ_RVV(iq1_s, infer__book_iq1s, 8, 0, 2,
                     const vuint16m4_t qh = __riscv_vreinterpret_v_u8m4_u16m4(__riscv_vle8_v_u8m4(p + 34, 16));
                     const vuint16m4_t at = __riscv_vzext_vf2_u16m4(order, 32);
                     const vuint16m4_t words = __riscv_vrgather_vv_u16m4(qh, __riscv_vsrl_vx_u16m4(at, 2, 32), 32);
                     const vuint16m4_t down = __riscv_vmul_vx_u16m4(__riscv_vand_vx_u16m4(at, 3, 32), 3, 32);
                     const vuint8m2_t high = __riscv_vncvt_x_x_w_u8m2(
                         __riscv_vand_vx_u16m4(__riscv_vsrl_vv_u16m4(words, down, 32), 7, 32), 32);
                     infer__put_indices_rvv(INFER__IN_ORDER_RVV(__riscv_vle8_v_u8m2(p + 2, 32)), high, offsets);
                     signs = infer__all_signs_rvv(__riscv_vncvt_x_x_w_u8m2(__riscv_vsrl_vx_u16m4(words, 15, 32), 32));
                     __riscv_vse8_v_u8m2(scales.of[r],
                                         __riscv_vand_vx_u8m2(__riscv_vnsrl_wx_u8m2(qh, 12, 8), 7, 8), 8),
                     infer__put_collected_rvv(&scales, 8, infer__iq_d_rvv(src, row_bytes, 0.125f), out))
/* Of half a byte an entry: three bits, and the fourth. Four words of scales: 3 bits four times, and 4 bits of d. */
INFER__UNPACK_IQ_RVV(iq1_m, infer__book_iq1s, 8, 0, 2,
                     const vuint8m2_t four = INFER__FIELDS_RVV(p + 32, 2, 4);
                     const vuint16m2_t words = __riscv_vreinterpret_v_u8m2_u16m2(__riscv_vle8_v_u8m2(p + 48, 8));
                     const vuint16m2_t at = __riscv_vid_v_u16m2(16);
                     const vuint16m2_t down = __riscv_vmul_vx_u16m2(__riscv_vand_vx_u16m2(at, 3, 16), 3, 16);
                     const vuint16m2_t three = __riscv_vsrl_vv_u16m2(
                         __riscv_vrgather_vv_u16m2(words, __riscv_vsrl_vx_u16m2(at, 2, 16), 16), down, 16);
                     const uint64_t top = infer__load_u64(p + 48);
                     infer__put_indices_rvv(INFER__IN_ORDER_RVV(__riscv_vle8_v_u8m2(p, 32)),
                                            __riscv_vand_vx_u8m2(four, 7, 32), offsets);
                     signs = infer__all_signs_rvv(__riscv_vsrl_vx_u8m2(four, 3, 32));
                     infer__store_rvv(scales.of[r], infer__and_16_rvv(__riscv_vncvt_x_x_w_u8m1(three, 16), 7));
                     half[r] = (uint16_t)((top >> 12 & 0xf) | (top >> 24 & 0xf0) | (top >> 36 & 0xf00) |
                                          (top >> 48 & 0xf000)),
                     infer__put_collected_rvv(&scales, 16,
                                              infer__iq_d_rvv((const uint8_t *)half, 2, 0.125f), out))
#undef INFER__UNPACK_IQ_RVV
#undef INFER__IN_ORDER_RVV
#undef INFER__FIELDS_RVV

static const infer__unpack_row infer__unpacks_rvv[] = {
    {2, INFER__CPU_RVV, infer__q4_0_unpack_rvv},
    INFER__QUANT(Q4_1, 3, INFER__CPU_RVV, infer__q4_1_unpack_rvv)
    INFER__QUANT(Q5_0, 6, INFER__CPU_RVV, infer__q5_0_unpack_rvv)
    INFER__QUANT(Q5_1, 7, INFER__CPU_RVV, infer__q5_1_unpack_rvv)
    {8, INFER__CPU_RVV, infer__q8_0_unpack_rvv},
    INFER__QUANT(Q2_K, 10, INFER__CPU_RVV, infer__q2_k_unpack_rvv)
    INFER__QUANT(Q3_K, 11, INFER__CPU_RVV, infer__q3_k_unpack_rvv)
    INFER__QUANT(Q4_K, 12, INFER__CPU_RVV, infer__q4_k_unpack_rvv)
    INFER__QUANT(Q5_K, 13, INFER__CPU_RVV, infer__q5_k_unpack_rvv)
    INFER__QUANT(Q6_K, 14, INFER__CPU_RVV, infer__q6_k_unpack_rvv)
    INFER__QUANT(IQ2_XXS, 16, INFER__CPU_RVV, infer__iq2_xxs_unpack_rvv)
    INFER__QUANT(IQ2_XS, 17, INFER__CPU_RVV, infer__iq2_xs_unpack_rvv)
    INFER__QUANT(IQ3_XXS, 18, INFER__CPU_RVV, infer__iq3_xxs_unpack_rvv)
    INFER__QUANT(IQ1_S, 19, INFER__CPU_RVV, infer__iq1_s_unpack_rvv)
    INFER__QUANT(IQ4_NL, 20, INFER__CPU_RVV, infer__iq4_nl_unpack_rvv)
    INFER__QUANT(IQ3_S, 21, INFER__CPU_RVV, infer__iq3_s_unpack_rvv)
    INFER__QUANT(IQ2_S, 22, INFER__CPU_RVV, infer__iq2_s_unpack_rvv)
    INFER__QUANT(IQ4_XS, 23, INFER__CPU_RVV, infer__iq4_xs_unpack_rvv)
    INFER__QUANT(IQ1_M, 29, INFER__CPU_RVV, infer__iq1_m_unpack_rvv)
    INFER__QUANT(TQ1_0, 34, INFER__CPU_RVV, infer__tq1_0_unpack_rvv)
    INFER__QUANT(TQ2_0, 35, INFER__CPU_RVV, infer__tq2_0_unpack_rvv)
    INFER__QUANT(MXFP4, 39, INFER__CPU_RVV, infer__mxfp4_unpack_rvv)
    INFER__QUANT(NVFP4, 40, INFER__CPU_RVV, infer__nvfp4_unpack_rvv)
    INFER__QUANT(Q1_0, 41, INFER__CPU_RVV, infer__q1_0_unpack_rvv)
    INFER__QUANT(Q2_0, 42, INFER__CPU_RVV, infer__q2_0_unpack_rvv)
};
#endif
