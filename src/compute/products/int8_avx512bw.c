/* int8_avx512bw.c: integer dot products with AVX-512 that has no VNNI (Skylake-X): 16 rows of a weight are one vector.
 *
 * Owns:  the avx512 row of INT8.
 * How:   as int8_avx512.c, with vpmaddubsw and what int8_lanes.h says about it. There is no vpsignb of 512 bits: a mask
 *        subtracts from zero instead.
 * Start: int8_lanes.h, infer__direct_avx512.
 */
#include "int8_lanes.h"

#if defined(INFER__SIMD_AVX512)

/* ---- the vectors of int8_lanes.h ------------------------------------------------------------------------------- */

enum { INFER__VECTORS_avx512 = 1 };
typedef __m512i infer__i_avx512;
typedef __m512 infer__f_avx512;
INFER__ON_avx512 INFER__INLINE __m512i infer__i_load_avx512(const void *p) { return _mm512_load_si512(p); }
INFER__ON_avx512 INFER__INLINE __m512i infer__i_splat_avx512(int32_t v) { return _mm512_set1_epi32(v); }
INFER__ON_avx512 INFER__INLINE __m512i infer__i_four_avx512(const int8_t *p) {
    int32_t four;
    memcpy(&four, p, 4);
    return _mm512_set1_epi32(four);
}
INFER__ON_avx512 INFER__INLINE __m512i infer__i_pairs_avx512(__m512i u, __m512i s) {
    return _mm512_maddubs_epi16(u, s);
}
INFER__ON_avx512 INFER__INLINE __m512i infer__i_widen_avx512(__m512i v) {
    return _mm512_madd_epi16(v, _mm512_set1_epi16(1));
}
INFER__ON_avx512 INFER__INLINE __m512i infer__i_add16_avx512(__m512i a, __m512i b) { return _mm512_add_epi16(a, b); }
INFER__ON_avx512 INFER__INLINE __m512i infer__i_add_avx512(__m512i a, __m512i b) { return _mm512_add_epi32(a, b); }
INFER__ON_avx512 INFER__INLINE __m512i infer__i_dot_avx512(__m512i sum, __m512i u, __m512i s) {
    return _mm512_add_epi32(sum, infer__i_widen_avx512(_mm512_maddubs_epi16(u, s)));
}
INFER__ON_avx512 INFER__INLINE __m512i infer__i_flip_avx512(__m512i v) {
    return _mm512_xor_si512(v, _mm512_set1_epi8(-128));
}
INFER__ON_avx512 INFER__INLINE __m512i infer__i_abs_avx512(__m512i v) { return _mm512_abs_epi8(v); }
INFER__ON_avx512 INFER__INLINE __m512i infer__i_sign_avx512(__m512i x, __m512i s) { /* s = 0: any, it is a factor */
    return _mm512_mask_sub_epi8(x, _mm512_movepi8_mask(s), _mm512_setzero_si512(), x);
}
INFER__ON_avx512 INFER__INLINE __m512 infer__f_load_avx512(const float *p) { return _mm512_load_ps(p); }
INFER__ON_avx512 INFER__INLINE void infer__f_store_avx512(float *p, __m512 v) { _mm512_store_ps(p, v); }
INFER__ON_avx512 INFER__INLINE __m512 infer__f_splat_avx512(float v) { return _mm512_set1_ps(v); }
INFER__ON_avx512 INFER__INLINE __m512 infer__f_fma_avx512(__m512 a, __m512 b, __m512 c) {
    return _mm512_fmadd_ps(a, b, c);
}
#  define infer__f_grain_avx512 infer__grain_avx512

/* ---- few columns ---------------------------------------------------------------------------------------------- */

/* Adds q * x of 64 values: 16 sums of four, or 32 of two when more than one fits into 16 bits. */
INFER__ON_avx512 INFER__INLINE __m512i infer__products_avx512(const uint8_t *q, __m512i x, int fit) {
    __m512i v = infer__i_load_avx512(q);
    if (fit > 1) return infer__i_pairs_avx512(v, x);
    if (fit == 1) return infer__i_widen_avx512(infer__i_pairs_avx512(v, x));
    v = infer__i_flip_avx512(v);
    return infer__i_widen_avx512(infer__i_pairs_avx512(infer__i_abs_avx512(v), infer__i_sign_avx512(x, v)));
}

/* 16 vectors of partial sums, of one row each, to four of 16 rows each. */
INFER__ON_avx512 INFER__INLINE void infer__add_across_avx512(const __m512i *s, __m512i *out) {
    __m512i four[4];
    int i;
    INFER__UNROLL for (i = 0; i < 4; i++) four[i] = infer__add_rows_avx512(s + 4 * i);
    infer__lanes_to_rows_avx512(four, out);
}

/* One column of one group: 128 values of 16 rows, that is four blocks, at a time. */
INFER__ON_avx512 INFER__INLINE void infer__direct_avx512(const infer__unpacked *w, const infer__x8 *x, int n_blocks,
                                                         int grain, int has_min, int fit, int32_t offset,
                                                         infer__ahead *ahead, float *y) {
    __m512 acc = _mm512_load_ps(y);
    int h, i, b;
    for (h = 0; h < n_blocks; h += 4) {
        __m512i n0 = _mm512_loadu_si512(x->q + 32 * h), n1 = _mm512_loadu_si512(x->q + 32 * h + 64);
        __m512i first = _mm512_shuffle_i32x4(n0, n1, 0x88), second = _mm512_shuffle_i32x4(n0, n1, 0xdd);
        __m512i s[16], low[4], high[4];
        INFER__UNROLL for (i = 0; i < 16; i++) {
            s[i] = infer__products_avx512(w->q[i] + 32 * h, first, fit);
            if (grain == 32) {
                __m512i m = infer__products_avx512(w->q[i] + 32 * h + 64, second, fit);
                s[i] = fit > 1 ? _mm512_add_epi16(s[i], m) : _mm512_add_epi32(s[i], m);
            }
            if (fit > 1) s[i] = infer__i_widen_avx512(s[i]);
            if (i & 3) continue;
            infer__ask(ahead);
        }
        infer__add_across_avx512(s, low);
        if (grain == 16) {
            INFER__UNROLL for (i = 0; i < 16; i++) {
                s[i] = infer__products_avx512(w->q[i] + 32 * h + 64, second, fit);
                if (fit > 1) s[i] = infer__i_widen_avx512(s[i]);
            }
            infer__add_across_avx512(s, high);
        }
        INFER__UNROLL for (i = 0; i < 4; i++) {
            int at = grain == 16 ? 2 * (h + i) : h + i;
            __m512 t = acc;
            b = h + i;
            if (b >= n_blocks) continue;
            low[i] = _mm512_sub_epi32(
                low[i], _mm512_set1_epi32(fit ? offset * (grain == 16 ? x->sum16[0][b] : x->sum32[at]) : 0));
            t = infer__grain_avx512(low[i], w->scale[at], w->min[at], grain == 16 ? x->fsum16[0][b] : x->fsum32[at],
                                    has_min, t, 1);
            if (grain == 16) {
                high[i] = _mm512_sub_epi32(high[i], _mm512_set1_epi32(fit ? offset * x->sum16[1][b] : 0));
                t = infer__grain_avx512(high[i], w->scale[at + 1], w->min[at + 1], x->fsum16[1][b], has_min, t, 0);
            }
            acc = _mm512_fmadd_ps(t, _mm512_set1_ps(x->d[b]), acc);
        }
    }
    _mm512_store_ps(y, acc);
}

INFER__LANES_TILE(avx512, 4)
INFER__LANES_DOTS(avx512, 4, 4, INFER__LANES_REST_DIRECT)
INFER__LANES_LEVEL_FEW(avx512)
#endif
