/* int8_rvv.c: integer dot products with the vectors of RISC-V (RVV 1.0): 16 rows of a weight are the lanes.
 *
 * Owns:  the rvv row of INT8 but for GEMV (row_rvv.c). It exists if the compiler's target has them: gcc 12 has no RVV
 *        functions at all.
 * How:   codes are signed bytes (a wide type's top bit is flipped). Many columns: codes are transposed, a value of the
 *        16 rows side by side, and multiplied with an activation by vwmacc.vx; as many products as fit are added in 16
 *        bits, then widened. Few columns: rows as stored, four blocks at a time, neighbouring products added. Vectors
 *        of 128 bits are enough; longer ones are used in part.
 * Numbers: counts under qemu alone: 0.42 to 0.66 instructions a product in prompts (docs/benchmarks.md).
 * Start: infer__tile_rvv.
 */
#include "cpu_int8.h"

#if defined(INFER__SIMD_RVV)

enum { INFER__RVV_COLS = 2 };

/* Of whole blocks of ordinary values; infer__x8_block does the others. */
static void infer__quantise_rvv(const float *x, int32_t n, infer__x8 *out) {
    int32_t k;
    for (k = 0; k < n; k += 32) {
        const int i = k / 32;
        uint32_t max = 0x7f800000u;
        vfloat32m8_t v = __riscv_vundefined_f32m8();
        vint8m2_t q;
        const vint16m1_t none = __riscv_vmv_s_x_i16m1(0, 1);
        int first, both;
        if (n - k >= 32) {
            const vuint32m1_t zero = __riscv_vmv_s_x_u32m1(0, 1);
            vuint32m8_t bits;
            v = __riscv_vle32_v_f32m8(x + k, 32);
            bits = __riscv_vand_vx_u32m8(__riscv_vreinterpret_v_f32m8_u32m8(v), 0x7fffffff, 32);
            max = __riscv_vmv_x_s_u32m1_u32(__riscv_vredmaxu_vs_u32m8_u32m1(bits, zero, 32));
        }
        if (max >= 0x7f800000u || max < 0x0d000000u) {
            infer__x8_block(x + k, INFER__MIN(n - k, 32), i, out);
            continue;
        }
        out->d[i] = infer__bits_f32(max) / 127.0f;
        v = __riscv_vfmul_vf_f32m8(v, 127.0f / infer__bits_f32(max), 32);
        q = __riscv_vncvt_x_x_w_i8m2(__riscv_vfncvt_x_f_w_i16m4(v, 32), 32); /* ties to even */
        __riscv_vse8_v_i8m2(out->q + k, q, 32);
        first = __riscv_vmv_x_s_i16m1_i16(__riscv_vwredsum_vs_i8m2_i16m1(q, none, 16));
        both = __riscv_vmv_x_s_i16m1_i16(__riscv_vwredsum_vs_i8m2_i16m1(q, none, 32));
        out->sum16[0][i] = first;
        out->sum16[1][i] = both - first;
        out->sum32[i] = both;
        out->fsum16[0][i] = (float)first;
        out->fsum16[1][i] = (float)(both - first);
        out->fsum32[i] = (float)both;
    }
}

/* t = isum * scale (+ min * xsum) (+ t) of 16 rows. */
INFER__INLINE vfloat32m4_t infer__grain_rvv(vint32m4_t isum, const float *scale, const float *min, float xsum,
                                            int has_min, vfloat32m4_t t, int first) {
    vfloat32m4_t f = __riscv_vfcvt_f_x_v_f32m4(isum, 16), s = __riscv_vle32_v_f32m4(scale, 16);
    t = first ? __riscv_vfmul_vv_f32m4(f, s, 16) : __riscv_vfmacc_vv_f32m4(t, f, s, 16);
    return has_min ? __riscv_vfmacc_vf_f32m4(t, xsum, __riscv_vle32_v_f32m4(min, 16), 16) : t;
}
INFER__INLINE void infer__add_to_rvv(float *y, vfloat32m4_t t, float d) {
    __riscv_vse32_v_f32m4(y, __riscv_vfmacc_vf_f32m4(__riscv_vle32_v_f32m4(y, 16), d, t, 16), 16);
}
/* n (16 .. 64) codes of a row as they lie, halves of blocks, signed; values of a column likewise. */
INFER__INLINE vint8m4_t infer__halves_rvv(const uint8_t *q, uint8_t flip, size_t n) {
    vuint8m4_t v = __riscv_vle8_v_u8m4(q, n);
    return __riscv_vreinterpret_v_u8m4_i8m4(flip ? __riscv_vxor_vx_u8m4(v, flip, n) : v);
}
/* The sums of n / 16 runs of 16 products: neighbours are added until one is left, of twice the width first. */
INFER__INLINE vint32m1_t infer__add_runs_rvv(vint16m8_t p, size_t n) {
    const vint32m8_t v = __riscv_vreinterpret_v_i16m8_i32m8(p);
    const vint32m8_t even = __riscv_vsra_vx_i32m8(__riscv_vsll_vx_i32m8(v, 16, n / 2), 16, n / 2);
    const vint64m8_t a = __riscv_vreinterpret_v_i32m8_i64m8(
        __riscv_vadd_vv_i32m8(even, __riscv_vsra_vx_i32m8(v, 16, n / 2), n / 2));
    const vint64m4_t b = __riscv_vreinterpret_v_i32m4_i64m4(__riscv_vadd_vv_i32m4(
        __riscv_vnsra_wx_i32m4(a, 0, n / 4), __riscv_vnsra_wx_i32m4(a, 32, n / 4), n / 4));
    const vint64m2_t c = __riscv_vreinterpret_v_i32m2_i64m2(__riscv_vadd_vv_i32m2(
        __riscv_vnsra_wx_i32m2(b, 0, n / 8), __riscv_vnsra_wx_i32m2(b, 32, n / 8), n / 8));
    return __riscv_vadd_vv_i32m1(__riscv_vnsra_wx_i32m1(c, 0, n / 16), __riscv_vnsra_wx_i32m1(c, 32, n / 16), n / 16);
}

/* One column of one group, four blocks at a time. Two products fit into 16 bits, whatever the codes:
 * 2 * 128 * 127 = 32512. */
INFER__INLINE void infer__direct_rvv(const infer__unpacked *w, const infer__x8 *x, int n_blocks, int grain, int has_min,
                                     uint8_t flip, int32_t offset, float *y) {
    const int halves = grain == 16 ? 2 : 1;
    int32_t sums[4][2][INFER__GROUP]; /* of a block, a half */
    uint8_t xs[128];
    int b, i, n, row, half;
    for (b = 0; b < n_blocks; b += n) {
        n = INFER__MIN(n_blocks - b, 4);
        for (i = 0; i < 2 * n; i++)
            __riscv_vse8_v_i8m1((int8_t *)xs + infer__q_index(16 * i),
                                __riscv_vle8_v_i8m1(x->q + 32 * b + 16 * i, 16), 16);
        for (row = 0; row < INFER__GROUP; row++) {
            const size_t vl = 16 * (size_t)n;
            const uint8_t *q = w->q[row] + infer__q_index(32 * b);
            const ptrdiff_t step = sizeof sums[0];
            vint16m8_t p = __riscv_vwmul_vv_i16m8(infer__halves_rvv(q, flip, vl), infer__halves_rvv(xs, 0, vl), vl);
            if (halves == 2) {
                __riscv_vsse32_v_i32m1(&sums[0][0][row], step, infer__add_runs_rvv(p, vl), (size_t)n);
                p = __riscv_vwmul_vv_i16m8(infer__halves_rvv(q + 64, flip, vl), infer__halves_rvv(xs + 64, 0, vl), vl);
            } else {
                p = __riscv_vwmacc_vv_i16m8(p, infer__halves_rvv(q + 64, flip, vl), infer__halves_rvv(xs + 64, 0, vl),
                                            vl);
            }
            __riscv_vsse32_v_i32m1(&sums[0][halves - 1][row], step, infer__add_runs_rvv(p, vl), (size_t)n);
        }
        for (i = 0; i < n; i++) {
            vfloat32m4_t t = __riscv_vfmv_v_f_f32m4(0.0f, 16);
            for (half = 0; half < halves; half++) {
                const int at = halves * (b + i) + half;
                const int32_t less = offset * (halves == 2 ? x->sum16[half][b + i] : x->sum32[b + i]);
                vint32m4_t s = __riscv_vsub_vx_i32m4(__riscv_vle32_v_i32m4(sums[i][half], 16), less, 16);
                t = infer__grain_rvv(s, w->scale[at], w->min[at],
                                     halves == 2 ? x->fsum16[half][b + i] : x->fsum32[b + i], has_min, t, half == 0);
            }
            infer__add_to_rvv(y, t, x->d[b + i]);
        }
    }
}

/* The codes of a group, transposed: value k of the 16 rows at tile + 16 * k. */
static void infer__make_tile_rvv(const infer__unpacked *w, int n_blocks, uint8_t flip, uint8_t *tile) {
    int h, j;
    for (h = 0; h < 2 * n_blocks; h++)
        for (j = 0; j < 16; j++, tile += 16) {
            vuint8m1_t v = __riscv_vlse8_v_u8m1(w->q[0] + infer__q_index(16 * h) + j, INFER__CHUNK, 16);
            __riscv_vse8_v_u8m1(tile, flip ? __riscv_vxor_vx_u8m1(v, flip, 16) : v, 16);
        }
}

/* Two columns of one group; tile and w of that group. run: products that may be added in 16 bits. */
INFER__INLINE void infer__tile_rvv(const uint8_t *tile, const infer__unpacked *w, const infer__x8 *x0,
                                   const infer__x8 *x1, int n_blocks, int grain, int has_min, int run, int32_t offset,
                                   float *y, int64_t stride) {
    const int halves = grain == 16 ? 2 : 1, steps = 32 / halves;
    int b, half, k, i;
    for (b = 0; b < n_blocks; b++) {
        vfloat32m4_t t0 = __riscv_vfmv_v_f_f32m4(0.0f, 16), t1 = t0;
        for (half = 0; half < halves; half++) {
            const int at = halves * b + half;
            const int8_t *a = x0->q + steps * at, *c = x1->q + steps * at;
            vint32m4_t s0 = __riscv_vmv_v_x_i32m4(-offset * (halves == 2 ? x0->sum16[half][b] : x0->sum32[b]), 16);
            vint32m4_t s1 = __riscv_vmv_v_x_i32m4(-offset * (halves == 2 ? x1->sum16[half][b] : x1->sum32[b]), 16);
            for (k = 0; k < steps; k += run) {
                const int8_t *q = (const int8_t *)tile + 16 * (steps * at + k);
                vint8m1_t v = __riscv_vle8_v_i8m1(q, 16);
                vint16m2_t p0 = __riscv_vwmul_vx_i16m2(v, a[k], 16), p1 = __riscv_vwmul_vx_i16m2(v, c[k], 16);
                for (i = 1; i < run; i++) {
                    v = __riscv_vle8_v_i8m1(q + 16 * i, 16);
                    p0 = __riscv_vwmacc_vx_i16m2(p0, a[k + i], v, 16);
                    p1 = __riscv_vwmacc_vx_i16m2(p1, c[k + i], v, 16);
                }
                s0 = __riscv_vwadd_wv_i32m4(s0, p0, 16);
                s1 = __riscv_vwadd_wv_i32m4(s1, p1, 16);
            }
            t0 = infer__grain_rvv(s0, w->scale[at], w->min[at], halves == 2 ? x0->fsum16[half][b] : x0->fsum32[b],
                                  has_min, t0, half == 0);
            t1 = infer__grain_rvv(s1, w->scale[at], w->min[at], halves == 2 ? x1->fsum16[half][b] : x1->fsum32[b],
                                  has_min, t1, half == 0);
        }
        infer__add_to_rvv(y, t0, x0->d[b]);
        infer__add_to_rvv(y + stride, t1, x1->d[b]);
    }
}

INFER__INLINE void infer__dots_body_rvv(const infer__dots_args *a, int grain, int has_min) {
    const infer__quant *t = a->type;
    const uint8_t flip = t->offset == 128 ? 128 : 0;
    const int32_t offset = flip ? 0 : t->offset;
    int32_t j = 0, g, run = 16;
    while (run > 2 && run * 127 * t->largest > 32767) run /= 2;
    if (a->n_x >= 4) {
        for (g = 0; g < a->n_groups; g++)
            infer__make_tile_rvv(a->w + g, a->n_blocks, flip, a->tile + g * INFER__GROUP * INFER__CHUNK);
        for (; j + INFER__RVV_COLS <= a->n_x; j += INFER__RVV_COLS)
            for (g = 0; g < a->n_groups; g++)
                infer__tile_rvv(a->tile + g * INFER__GROUP * INFER__CHUNK, a->w + g, infer__x8_col(a, j),
                                infer__x8_col(a, j + 1), a->n_blocks, grain, has_min, run, offset,
                                a->y + j * a->stride + g * INFER__GROUP, a->stride);
    }
    for (; j < a->n_x; j++)
        for (g = 0; g < a->n_groups; g++) {
            float *y = a->y + j * a->stride + g * INFER__GROUP;
            if (flip) infer__direct_rvv(a->w + g, infer__x8_col(a, j), a->n_blocks, grain, has_min, 128, 0, y);
            else infer__direct_rvv(a->w + g, infer__x8_col(a, j), a->n_blocks, grain, has_min, 0, offset, y);
        }
}

INFER__DOTS_BY_KIND(rvv, INFER__ON_scalar)
#endif
