/* int8_sse41.c: integer dot products with SSE4.1 (pmaddubsw is older: SSSE3): 16 rows of a weight are four vectors.
 *
 * Owns:  the sse41 row of INT8.
 * Rules: there is no fused multiply-add; the result has the bits of plain C.
 * Start: int8_lanes.h, infer__direct_sse41.
 */
#include "int8_lanes.h"

#if defined(INFER__SIMD_X86)

#define INFER__ON_sse41 INFER__TARGET("sse4.1")

/* ---- activations ------------------------------------------------------------------------------------------ */

INFER__ON_sse41 INFER__INLINE int32_t infer__add_4_sse41(__m128i s) {
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}

INFER__ON_sse41 static void infer__quantise_sse41(const float *x, int32_t n, infer__x8 *out) {
    const __m128i magnitude = _mm_set1_epi32(0x7fffffff);
    int32_t k;
    for (k = 0; k + 32 <= n; k += 32) {
        int i = k / 32, j;
        __m128i p[8], top = _mm_setzero_si128();
        uint32_t max;
        __m128 m;
        INFER__UNROLL for (j = 0; j < 8; j++)
            top = _mm_max_epi32(top, _mm_and_si128(_mm_castps_si128(_mm_loadu_ps(x + k + 4 * j)), magnitude));
        top = _mm_max_epi32(top, _mm_shuffle_epi32(top, 0x4e));
        top = _mm_max_epi32(top, _mm_shuffle_epi32(top, 0xb1));
        max = (uint32_t)_mm_cvtsi128_si32(top);
        if (max >= 0x7f800000u || max < 0x0d000000u) {
            infer__x8_block(x + k, 32, i, out);
            continue;
        }
        m = _mm_set1_ps(127.0f / infer__bits_f32(max));
        INFER__UNROLL for (j = 0; j < 8; j++) p[j] = _mm_cvtps_epi32(_mm_mul_ps(_mm_loadu_ps(x + k + 4 * j), m));
        INFER__UNROLL for (j = 0; j < 2; j++) {
            _mm_storeu_si128((__m128i *)(void *)(out->q + 32 * i + 16 * j),
                             _mm_packs_epi16(_mm_packs_epi32(p[4 * j], p[4 * j + 1]),
                                             _mm_packs_epi32(p[4 * j + 2], p[4 * j + 3])));
            out->sum16[j][i] = infer__add_4_sse41(_mm_add_epi32(_mm_add_epi32(p[4 * j], p[4 * j + 1]),
                                                                   _mm_add_epi32(p[4 * j + 2], p[4 * j + 3])));
            out->fsum16[j][i] = (float)out->sum16[j][i];
        }
        out->d[i] = infer__bits_f32(max) / 127.0f;
        out->sum32[i] = out->sum16[0][i] + out->sum16[1][i];
        out->fsum32[i] = (float)out->sum32[i];
    }
    if (k < n) infer__x8_block(x + k, n - k, k / 32, out);
}

/* ---- the vectors of int8_lanes.h ------------------------------------------------------------------------------- */

enum { INFER__VECTORS_sse41 = 4 };
typedef __m128i infer__i_sse41;
typedef __m128 infer__f_sse41;
INFER__ON_sse41 INFER__INLINE __m128i infer__i_load_sse41(const void *p) { return _mm_load_si128((const __m128i *)p); }
INFER__ON_sse41 INFER__INLINE __m128i infer__i_splat_sse41(int32_t v) { return _mm_set1_epi32(v); }
INFER__ON_sse41 INFER__INLINE __m128i infer__i_four_sse41(const int8_t *p) {
    int32_t four;
    memcpy(&four, p, 4);
    return _mm_set1_epi32(four);
}
INFER__ON_sse41 INFER__INLINE __m128i infer__i_pairs_sse41(__m128i u, __m128i s) { return _mm_maddubs_epi16(u, s); }
INFER__ON_sse41 INFER__INLINE __m128i infer__i_widen_sse41(__m128i v) { return _mm_madd_epi16(v, _mm_set1_epi16(1)); }
INFER__ON_sse41 INFER__INLINE __m128i infer__i_add16_sse41(__m128i a, __m128i b) { return _mm_add_epi16(a, b); }
INFER__ON_sse41 INFER__INLINE __m128i infer__i_add_sse41(__m128i a, __m128i b) { return _mm_add_epi32(a, b); }
INFER__ON_sse41 INFER__INLINE __m128i infer__i_dot_sse41(__m128i sum, __m128i u, __m128i s) {
    return _mm_add_epi32(sum, infer__i_widen_sse41(_mm_maddubs_epi16(u, s)));
}
INFER__ON_sse41 INFER__INLINE __m128i infer__i_flip_sse41(__m128i v) { return _mm_xor_si128(v, _mm_set1_epi8(-128)); }
INFER__ON_sse41 INFER__INLINE __m128i infer__i_abs_sse41(__m128i v) { return _mm_abs_epi8(v); }
INFER__ON_sse41 INFER__INLINE __m128i infer__i_sign_sse41(__m128i x, __m128i s) { return _mm_sign_epi8(x, s); }
INFER__ON_sse41 INFER__INLINE __m128 infer__f_load_sse41(const float *p) { return _mm_load_ps(p); }
INFER__ON_sse41 INFER__INLINE void infer__f_store_sse41(float *p, __m128 v) { _mm_store_ps(p, v); }
INFER__ON_sse41 INFER__INLINE __m128 infer__f_splat_sse41(float v) { return _mm_set1_ps(v); }
/* Two roundings, also where the compiler may fuse: it would fuse some and not others. */
INFER__ON_sse41 INFER__INLINE __m128 infer__f_fma_sse41(__m128 a, __m128 b, __m128 c) {
    __m128 p = _mm_mul_ps(a, b);
    INFER__PIN(p);
    return _mm_add_ps(p, c);
}
/* t = isum * scale (+ min * xsum) (+ t) */
INFER__ON_sse41 INFER__INLINE __m128 infer__f_grain_sse41(__m128i isum, const float *scale, const float *min,
                                                          float xsum, int has_min, __m128 t, int first) {
    __m128 s = _mm_load_ps(scale), f = _mm_cvtepi32_ps(isum), p = _mm_mul_ps(f, s);
    INFER__PIN(p);
    t = first ? p : _mm_add_ps(p, t);
    return has_min ? infer__f_fma_sse41(_mm_load_ps(min), _mm_set1_ps(xsum), t) : t;
}

/* ---- few columns ---------------------------------------------------------------------------------------------- */

/* 4 vectors of partial sums, one row each, to a vector of 4 rows. Partial sums are of 32 bits (room 0), or of 16 bits,
 * of which `room` may be added before they are widened. */
INFER__ON_sse41 INFER__INLINE __m128i infer__add_across_sse41(__m128i *s, int room) {
    __m128i lo, hi;
    int i, n;
    INFER__UNROLL for (n = 4; n > 1; n /= 2) {
        if (room == 1)
            INFER__UNROLL for (i = 0; i < n; i++) s[i] = infer__i_widen_sse41(s[i]);
        INFER__UNROLL for (i = 0; i < n / 2; i++) {
            lo = n == 4 ? _mm_unpacklo_epi32(s[2 * i], s[2 * i + 1]) : _mm_unpacklo_epi64(s[2 * i], s[2 * i + 1]);
            hi = n == 4 ? _mm_unpackhi_epi32(s[2 * i], s[2 * i + 1]) : _mm_unpackhi_epi64(s[2 * i], s[2 * i + 1]);
            s[i] = room > 1 ? _mm_add_epi16(lo, hi) : _mm_add_epi32(lo, hi);
        }
        room /= 2;
    }
    return room ? infer__i_widen_sse41(s[0]) : s[0];
}

/* q * x of 16 values: as 4 sums of four, or as 8 of two when more than one fits into 16 bits. */
INFER__ON_sse41 INFER__INLINE __m128i infer__products_sse41(const uint8_t *q, __m128i x, int fit) {
    __m128i v = infer__i_load_sse41(q);
    if (fit > 1) return infer__i_pairs_sse41(v, x);
    if (fit == 1) return infer__i_widen_sse41(infer__i_pairs_sse41(v, x));
    v = infer__i_flip_sse41(v);
    return infer__i_widen_sse41(infer__i_pairs_sse41(infer__i_abs_sse41(v), infer__i_sign_sse41(x, v)));
}

/* One column of one group: a block of 4 rows after the other. */
INFER__ON_sse41 INFER__INLINE void infer__direct_sse41(const infer__unpacked *w, const infer__x8 *x, int n_blocks,
                                                       int grain, int has_min, int fit, int32_t offset,
                                                       infer__ahead *ahead, float *y) {
    int b, i, r;
    for (b = 0; b < n_blocks; b++) {
        __m128i first = _mm_loadu_si128((const __m128i *)(const void *)(x->q + 32 * b));
        __m128i second = _mm_loadu_si128((const __m128i *)(const void *)(x->q + 32 * b + 16));
        int at = grain == 16 ? 2 * b : b;
        int32_t less = fit ? offset * (grain == 16 ? x->sum16[0][b] : x->sum32[at]) : 0;
        for (r = 0; r < INFER__GROUP; r += 4) {
            const uint8_t *q = w->q[r] + infer__q_index(32 * b);
            __m128i s[4], sum;
            __m128 t = _mm_setzero_ps();
            if (r & 4) infer__ask(ahead);
            INFER__UNROLL for (i = 0; i < 4; i++) {
                s[i] = infer__products_sse41(q + i * INFER__CHUNK, first, fit);
                if (grain == 32) {
                    __m128i m = infer__products_sse41(q + i * INFER__CHUNK + 64, second, fit);
                    s[i] = fit > 1 ? _mm_add_epi16(s[i], m) : _mm_add_epi32(s[i], m);
                }
            }
            sum = infer__add_across_sse41(s, fit < 2 ? 0 : grain == 32 ? fit / 2 : fit);
            sum = _mm_sub_epi32(sum, _mm_set1_epi32(less));
            t = infer__f_grain_sse41(sum, w->scale[at] + r, w->min[at] + r,
                                     grain == 16 ? x->fsum16[0][b] : x->fsum32[at], has_min, t, 1);
            if (grain == 16) {
                INFER__UNROLL for (i = 0; i < 4; i++)
                    s[i] = infer__products_sse41(q + i * INFER__CHUNK + 64, second, fit);
                sum = infer__add_across_sse41(s, fit < 2 ? 0 : fit);
                sum = _mm_sub_epi32(sum, _mm_set1_epi32(fit ? offset * x->sum16[1][b] : 0));
                t = infer__f_grain_sse41(sum, w->scale[at + 1] + r, w->min[at + 1] + r, x->fsum16[1][b], has_min, t,
                                         0);
            }
            _mm_store_ps(y + r, infer__f_fma_sse41(t, _mm_set1_ps(x->d[b]), _mm_load_ps(y + r)));
        }
    }
}

/* ---- many columns --------------------------------------------------------------------------------------------- */

/* The codes of a group, transposed: values 4 j .. 4 j + 3 of the 16 rows at tile + 64 * j. */
INFER__ON_sse41 static void infer__make_tile_sse41(const infer__unpacked *w, int n_blocks, uint8_t *tile) {
    int h, r, i;
    for (h = 0; h < 2 * n_blocks; h++)
        for (r = 0; r < INFER__GROUP; r += 4) { /* 4 rows x 16 bytes */
            const uint8_t *q = w->q[r] + infer__q_index(16 * h);
            uint8_t *to = tile + 256 * h + 4 * r;
            __m128i v[4], t[4];
            INFER__UNROLL for (i = 0; i < 4; i++) v[i] = infer__i_load_sse41(q + i * INFER__CHUNK);
            t[0] = _mm_unpacklo_epi32(v[0], v[1]);
            t[1] = _mm_unpackhi_epi32(v[0], v[1]);
            t[2] = _mm_unpacklo_epi32(v[2], v[3]);
            t[3] = _mm_unpackhi_epi32(v[2], v[3]);
            INFER__UNROLL for (i = 0; i < 2; i++) {
                _mm_store_si128((__m128i *)(void *)(to + 128 * i), _mm_unpacklo_epi64(t[i], t[i + 2]));
                _mm_store_si128((__m128i *)(void *)(to + 128 * i + 64), _mm_unpackhi_epi64(t[i], t[i + 2]));
            }
        }
}

INFER__LANES_TILE(sse41, 2)
INFER__LANES_DOTS(sse41, 2, 4, INFER__LANES_REST_DIRECT)
INFER__LANES_LEVEL_FEW(sse41)
#endif
