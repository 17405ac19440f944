/* int8_avx2.c: integer dot products with AVX2, and with AVX-VNNI: 16 rows of a weight are two vectors.
 *
 * Owns:  the avx2 and avxvnni rows of INT8.
 * How:   from a tile, which most types' unpack functions leave. One column alone has row_avx2.c.
 * Numbers: cycles of a Zen 5 for a column of 16 rows x 256 values (Q4_0, AVX-VNNI): 4 columns at a time 87, 2 95, one
 *        128; 6 at a time 89, and what remains of 4 or 16 columns is more. AVX2 102, 105 and 124.
 * Start: int8_lanes.h.
 */
#include "int8_lanes.h"

#if defined(INFER__SIMD_AVX2)

/* ---- activations ------------------------------------------------------------------------------------------ */

INFER__ON_avx2 INFER__INLINE int32_t infer__add_8_avx2(__m256i v) {
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}

INFER__ON_avx2 static void infer__quantise_avx2(const float *x, int32_t n, infer__x8 *out) {
    const __m256 magnitude = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    int32_t k;
    for (k = 0; k + 32 <= n; k += 32) {
        int i = k / 32, j;
        __m256 v[4], m;
        __m256i p[4], top = _mm256_setzero_si256();
        __m128i t;
        uint32_t max;
        INFER__UNROLL for (j = 0; j < 4; j++) {
            v[j] = _mm256_loadu_ps(x + k + 8 * j);
            top = _mm256_max_epi32(top, _mm256_castps_si256(_mm256_and_ps(v[j], magnitude)));
        }
        t = _mm_max_epi32(_mm256_castsi256_si128(top), _mm256_extracti128_si256(top, 1));
        t = _mm_max_epi32(t, _mm_shuffle_epi32(t, 0x4e));
        t = _mm_max_epi32(t, _mm_shuffle_epi32(t, 0xb1));
        max = (uint32_t)_mm_cvtsi128_si32(t);
        if (max >= 0x7f800000u || max < 0x0d000000u) {
            infer__x8_block(x + k, 32, i, out);
            continue;
        }
        m = _mm256_set1_ps(127.0f / infer__bits_f32(max));
        INFER__UNROLL for (j = 0; j < 4; j++) p[j] = _mm256_cvtps_epi32(_mm256_mul_ps(v[j], m));
        _mm256_storeu_si256((__m256i *)(void *)(out->q + 32 * i),
                            _mm256_permutevar8x32_epi32(_mm256_packs_epi16(_mm256_packs_epi32(p[0], p[1]),
                                                                           _mm256_packs_epi32(p[2], p[3])), order));
        out->d[i] = infer__bits_f32(max) / 127.0f;
        out->sum16[0][i] = infer__add_8_avx2(_mm256_add_epi32(p[0], p[1]));
        out->sum16[1][i] = infer__add_8_avx2(_mm256_add_epi32(p[2], p[3]));
        out->sum32[i] = out->sum16[0][i] + out->sum16[1][i];
        out->fsum16[0][i] = (float)out->sum16[0][i];
        out->fsum16[1][i] = (float)out->sum16[1][i];
        out->fsum32[i] = (float)out->sum32[i];
    }
    if (k < n) infer__x8_block(x + k, n - k, k / 32, out);
}

/* ---- the vectors of int8_lanes.h ------------------------------------------------------------------------------- */

enum { INFER__VECTORS_avx2 = 2 };
typedef __m256i infer__i_avx2;
typedef __m256 infer__f_avx2;
INFER__ON_avx2 INFER__INLINE __m256i infer__i_load_avx2(const void *p) {
    return _mm256_load_si256((const __m256i *)p);
}
INFER__ON_avx2 INFER__INLINE __m256i infer__i_splat_avx2(int32_t v) { return _mm256_set1_epi32(v); }
INFER__ON_avx2 INFER__INLINE __m256i infer__i_four_avx2(const int8_t *p) {
    int32_t four;
    memcpy(&four, p, 4);
    return _mm256_set1_epi32(four);
}
INFER__ON_avx2 INFER__INLINE __m256i infer__i_pairs_avx2(__m256i u, __m256i s) { return _mm256_maddubs_epi16(u, s); }
INFER__ON_avx2 INFER__INLINE __m256i infer__i_widen_avx2(__m256i v) {
    return _mm256_madd_epi16(v, _mm256_set1_epi16(1));
}
INFER__ON_avx2 INFER__INLINE __m256i infer__i_add16_avx2(__m256i a, __m256i b) { return _mm256_add_epi16(a, b); }
INFER__ON_avx2 INFER__INLINE __m256i infer__i_add_avx2(__m256i a, __m256i b) { return _mm256_add_epi32(a, b); }
INFER__ON_avx2 INFER__INLINE __m256i infer__i_dot_avx2(__m256i sum, __m256i u, __m256i s) {
    return _mm256_add_epi32(sum, infer__i_widen_avx2(_mm256_maddubs_epi16(u, s)));
}
INFER__ON_avx2 INFER__INLINE __m256i infer__i_flip_avx2(__m256i v) {
    return _mm256_xor_si256(v, _mm256_set1_epi8(-128));
}
INFER__ON_avx2 INFER__INLINE __m256i infer__i_abs_avx2(__m256i v) { return _mm256_abs_epi8(v); }
INFER__ON_avx2 INFER__INLINE __m256i infer__i_sign_avx2(__m256i x, __m256i s) { return _mm256_sign_epi8(x, s); }
INFER__ON_avx2 INFER__INLINE __m256 infer__f_load_avx2(const float *p) { return _mm256_load_ps(p); }
INFER__ON_avx2 INFER__INLINE void infer__f_store_avx2(float *p, __m256 v) { _mm256_store_ps(p, v); }
INFER__ON_avx2 INFER__INLINE __m256 infer__f_splat_avx2(float v) { return _mm256_set1_ps(v); }
INFER__ON_avx2 INFER__INLINE __m256 infer__f_fma_avx2(__m256 a, __m256 b, __m256 c) {
    return _mm256_fmadd_ps(a, b, c);
}
/* t = isum * scale (+ min * xsum) (+ t) */
INFER__ON_avx2 INFER__INLINE __m256 infer__f_grain_avx2(__m256i isum, const float *scale, const float *min, float xsum,
                                                        int has_min, __m256 t, int first) {
    __m256 s = _mm256_load_ps(scale), f = _mm256_cvtepi32_ps(isum);
    t = first ? _mm256_mul_ps(f, s) : _mm256_fmadd_ps(f, s, t);
    return has_min ? _mm256_fmadd_ps(_mm256_load_ps(min), _mm256_set1_ps(xsum), t) : t;
}

/* ---- tiles ----------------------------------------------------------------------------------------------------- */

INFER__ON_avx2 INFER__INLINE __m256i infer__two_avx2(const uint8_t *low, const uint8_t *high) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)low)),
                                   _mm_loadu_si128((const __m128i *)(const void *)high), 1);
}

/* 16 bytes of 8 rows: bytes 4 j .. 4 j + 3 of all to v[j]. */
INFER__ON_avx2 INFER__INLINE void infer__rows_16_avx2(const uint8_t *p, uint64_t row_bytes, __m256i *v) {
    __m256i r[4], t[4];
    int i;
    INFER__UNROLL for (i = 0; i < 4; i++, p += row_bytes) r[i] = infer__two_avx2(p, p + 4 * row_bytes);
    INFER__UNROLL for (i = 0; i < 4; i += 2) {
        t[i] = _mm256_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_epi32(r[i], r[i + 1]);
    }
    INFER__UNROLL for (i = 0; i < 2; i++) {
        v[2 * i] = _mm256_unpacklo_epi64(t[i], t[i + 2]);
        v[2 * i + 1] = _mm256_unpackhi_epi64(t[i], t[i + 2]);
    }
}

/* The codes of a group, transposed: values 4 j .. 4 j + 3 of the 16 rows at tile + 64 * j. */
INFER__ON_avx2 static void infer__make_tile_avx2(const infer__unpacked *w, int n_blocks, uint8_t *tile) {
    __m256i v[4];
    int h, r, j;
    for (h = 0; h < 2 * n_blocks; h++)
        for (r = 0; r < INFER__GROUP; r += 8) {
            infer__rows_16_avx2(w->q[r] + infer__q_index(16 * h), INFER__CHUNK, v);
            INFER__UNROLL for (j = 0; j < 4; j++)
                _mm256_store_si256((__m256i *)(void *)(tile + 64 * (4 * h + j) + 4 * r), v[j]);
        }
}

/* ---- the levels ------------------------------------------------------------------------------------------------- */

INFER__LANES_TILE(avx2, 4)
INFER__LANES_TILE(avx2, 2)
INFER__LANES_DOTS(avx2, 4, 1, INFER__LANES_REST_TWO)
INFER__LANES_LEVEL(avx2)

#  if defined(INFER__HAS_AVXVNNI)
/* The same vectors and one instruction more: products of four are added in 32 bits, whatever the codes. */
#    define INFER__ON_avxvnni INFER__TARGET("avx2,fma,f16c,avxvnni")
#    define INFER__VECTORS_avxvnni INFER__VECTORS_avx2
INFER__ON_avxvnni INFER__INLINE __m256i infer__i_dot_avxvnni(__m256i sum, __m256i u, __m256i s) {
    return _mm256_dpbusd_avx_epi32(sum, u, s);
}
#    define infer__i_avxvnni infer__i_avx2
#    define infer__f_avxvnni infer__f_avx2
#    define infer__i_load_avxvnni infer__i_load_avx2
#    define infer__i_splat_avxvnni infer__i_splat_avx2
#    define infer__i_four_avxvnni infer__i_four_avx2
#    define infer__i_pairs_avxvnni infer__i_pairs_avx2
#    define infer__i_widen_avxvnni infer__i_widen_avx2
#    define infer__i_add16_avxvnni infer__i_add16_avx2
#    define infer__i_add_avxvnni infer__i_add_avx2
#    define infer__i_flip_avxvnni infer__i_flip_avx2
#    define infer__i_abs_avxvnni infer__i_abs_avx2
#    define infer__i_sign_avxvnni infer__i_sign_avx2
#    define infer__f_load_avxvnni infer__f_load_avx2
#    define infer__f_store_avxvnni infer__f_store_avx2
#    define infer__f_splat_avxvnni infer__f_splat_avx2
#    define infer__f_fma_avxvnni infer__f_fma_avx2
#    define infer__f_grain_avxvnni infer__f_grain_avx2
#    define infer__make_tile_avxvnni infer__make_tile_avx2
INFER__LANES_TILE(avxvnni, 4)
INFER__LANES_TILE(avxvnni, 2)
INFER__LANES_DOTS(avxvnni, 4, 1, INFER__LANES_REST_TWO)
INFER__LANES_KIND(avxvnni, 32, 0, 1)
INFER__LANES_KIND(avxvnni, 32, 1, 1)
INFER__LANES_KIND(avxvnni, 16, 0, 1)
INFER__LANES_KIND(avxvnni, 16, 1, 1)
static void infer__dots_avxvnni(const infer__dots_args *a) {
    if (a->type->grain == 32) (a->type->has_min ? infer__dots_32_1_1_avxvnni : infer__dots_32_0_1_avxvnni)(a);
    else (a->type->has_min ? infer__dots_16_1_1_avxvnni : infer__dots_16_0_1_avxvnni)(a);
}
#  endif
#endif
