/* int8_avx2.c: integer dot products with AVX2, and with AVX-VNNI: 16 rows of a weight are two vectors.
 *
 * Owns:  the avx2 and avxvnni rows of INT8.
 * Start: infer__dots_avx2.
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

/* ---- few columns ---------------------------------------------------------------------------------------------- */

/* 8 vectors of partial sums, lane of 128 bits L = grain L of a row (or half L of a block), to the first 2: grain L of 8
 * rows. Partial sums are of 32 bits (room 0), or of 16 bits, of which `room` may be added before they are widened. */
INFER__ON_avx2 INFER__INLINE void infer__add_across_avx2(__m256i *s, int room) {
    __m256i lo, hi;
    int i, n;
    INFER__UNROLL for (n = 8; n > 2; n /= 2) {
        if (room == 1)
            INFER__UNROLL for (i = 0; i < n; i++) s[i] = infer__i_widen_avx2(s[i]);
        INFER__UNROLL for (i = 0; i < n / 2; i++) {
            const __m256i a = s[2 * i], b = s[2 * i + 1];
            if (n == 8) { /* elements a0 a1 b2 b3, a2 a3 b0 b1: a shuffle less than unpacking */
                lo = _mm256_blend_epi32(a, b, 0xcc);
                hi = _mm256_alignr_epi8(b, a, 8);
            } else {
                const __m256 u = _mm256_castsi256_ps(a), v = _mm256_castsi256_ps(b);
                lo = _mm256_castps_si256(_mm256_shuffle_ps(u, v, 0x88));
                hi = _mm256_castps_si256(_mm256_shuffle_ps(u, v, 0xdd));
            }
            s[i] = room > 1 ? _mm256_add_epi16(lo, hi) : _mm256_add_epi32(lo, hi);
        }
        room /= 2;
    }
    if (room)
        INFER__UNROLL for (i = 0; i < 2; i++) s[i] = infer__i_widen_avx2(s[i]);
    lo = _mm256_permute2x128_si256(s[0], s[1], 0x20);
    s[1] = _mm256_permute2x128_si256(s[0], s[1], 0x31);
    s[0] = lo;
}

/* Activations of two blocks: their first halves, their second halves. */
typedef struct infer__pair_avx2 { __m256i first, second; } infer__pair_avx2;
INFER__ON_avx2 INFER__INLINE infer__pair_avx2 infer__pair_of_avx2(const infer__x8 *x, int b) {
    __m256i x0 = _mm256_loadu_si256((const __m256i *)(const void *)(x->q + 32 * b));
    __m256i x1 = _mm256_loadu_si256((const __m256i *)(const void *)(x->q + 32 * b + 32));
    infer__pair_avx2 p;
    p.first = _mm256_permute2x128_si256(x0, x1, 0x20);
    p.second = _mm256_permute2x128_si256(x0, x1, 0x31);
    return p;
}

/* q * x of 32 values: as 8 sums of four, or as 16 of two when more than one fits into 16 bits. Codes of types of which
 * none fits are signed. */
#  define INFER__DIRECT_8(L)                                                                                          \
    INFER__ON_##L INFER__INLINE __m256i infer__products_##L(__m256i v, __m256i x, int fit) {                          \
      const __m256i zero = _mm256_setzero_si256();                                                                    \
      if (fit > 1) return infer__i_pairs_##L(v, x);                                                                   \
      if (fit == 1) return infer__i_dot_##L(zero, v, x);                                                              \
      return infer__i_dot_##L(zero, infer__i_abs_##L(v), infer__i_sign_##L(x, v));                                    \
    }                                                                                                                 \
    /* Of two blocks of a row, first and second halves. */                                                            \
    INFER__ON_##L INFER__INLINE __m256i infer__pair_products_##L(const __m256i *v, const infer__pair_avx2 *x,         \
                                                                 int fit) {                                           \
      const __m256i s = infer__products_##L(v[0], x->first, fit);                                                     \
      if (fit == 1) return infer__i_dot_##L(s, v[1], x->second);                                                      \
      return fit ? infer__i_add16_##L(s, infer__products_##L(v[1], x->second, fit))                                   \
                 : infer__i_add_##L(s, infer__products_##L(v[1], x->second, fit));                                    \
    }                                                                                                                 \
    /* Block b of 8 rows from r on, from its sums (grain 32: low): acc + t * d. */                                    \
    INFER__ON_##L INFER__INLINE __m256 infer__block_##L(const infer__unpacked *w, const infer__x8 *x, int b, int r,   \
                                                        int grain, int has_min, int fit, int32_t offset, __m256i low, \
                                                        __m256i high, __m256 acc) {                                   \
      const int at = grain == 16 ? 2 * b : b;                                                                         \
      __m256 t;                                                                                                       \
      if (fit && offset)                                                                                              \
        low = _mm256_sub_epi32(low, _mm256_set1_epi32(offset * (grain == 16 ? x->sum16[0][b] : x->sum32[at])));       \
      t = infer__f_grain_##L(low, w->scale[at] + r, w->min[at] + r, grain == 16 ? x->fsum16[0][b] : x->fsum32[at],    \
                             has_min, acc, 1);                                                                        \
      if (grain == 16) {                                                                                              \
        if (fit && offset) high = _mm256_sub_epi32(high, _mm256_set1_epi32(offset * x->sum16[1][b]));               \
        t = infer__f_grain_##L(high, w->scale[at + 1] + r, w->min[at + 1] + r, x->fsum16[1][b], has_min, t, 0);     \
      }                                                                                                               \
      return infer__f_fma_##L(t, infer__f_splat_##L(x->d[b]), acc);                                                   \
    }                                                                                                                 \
    /* One column of one group: 64 values, that is two blocks, of 8 rows after the other. */                          \
    INFER__ON_##L INFER__INLINE void infer__direct_##L(const infer__unpacked *w, const infer__x8 *x, int n_blocks,    \
                                                       int grain, int has_min, int fit, int32_t offset,               \
                                                       infer__ahead *ahead, float *y) {                               \
      int b, i, r;                                                                                                    \
      for (b = 0; b < n_blocks; b += 2) {                                                                             \
        const infer__pair_avx2 xs = infer__pair_of_avx2(x, b);                                                        \
        INFER__UNROLL for (r = 0; r < INFER__GROUP; r += 8) {                                                         \
          const uint8_t *q = w->q[r] + infer__q_index(32 * b);                                                        \
          __m256i low[8], high[8], v[2], *second = grain == 16 ? high : low;                                          \
          __m256 acc;                                                                                                 \
          infer__ask(ahead);                                                                                          \
          INFER__UNROLL for (i = 0; i < 8; i++, q += INFER__CHUNK) {                                                  \
            v[0] = infer__i_load_##L(q);                                                                              \
            v[1] = infer__i_load_##L(q + 64);                                                                         \
            if (fit == 0) {                                                                                           \
              v[0] = infer__i_flip_##L(v[0]);                                                                         \
              v[1] = infer__i_flip_##L(v[1]);                                                                         \
            }                                                                                                         \
            if (grain == 16)                                                                                          \
              low[i] = infer__products_##L(v[0], xs.first, fit);                                                      \
            else                                                                                                      \
              low[i] = infer__pair_products_##L(v, &xs, fit);                                                         \
          }                                                                                                           \
          if (grain == 16) { /* not at once: sixteen vectors are all registers there are */                           \
            infer__add_across_avx2(low, fit < 2 ? 0 : fit);                                                           \
            q -= 8 * INFER__CHUNK;                                                                                    \
            INFER__UNROLL for (i = 0; i < 8; i++, q += INFER__CHUNK) high[i] =                                        \
                infer__products_##L(infer__i_load_##L(q + 64), xs.second, fit);                                       \
            infer__add_across_avx2(high, fit < 2 ? 0 : fit);                                                          \
          } else {                                                                                                    \
            infer__add_across_avx2(low, fit < 2 ? 0 : fit / 2);                                                       \
          }                                                                                                           \
          acc = infer__block_##L(w, x, b, r, grain, has_min, fit, offset, low[0], second[0], _mm256_load_ps(y + r));  \
          if (b + 1 < n_blocks)                                                                                       \
            acc = infer__block_##L(w, x, b + 1, r, grain, has_min, fit, offset, low[1], second[1], acc);              \
          _mm256_store_ps(y + r, acc);                                                                                \
        }                                                                                                             \
      }                                                                                                               \
    }

/* ---- many columns --------------------------------------------------------------------------------------------- */

/* 8 rows x 32 bytes to vectors of 4 bytes of every row: vector j at out[j]. */
INFER__ON_avx2 INFER__INLINE void infer__transpose_avx2(const uint8_t *src, __m256i *out) {
    __m256i r[8], t[8];
    int i;
    INFER__UNROLL for (i = 0; i < 8; i++) r[i] = infer__i_load_avx2(src + i * INFER__CHUNK);
    INFER__UNROLL for (i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_epi32(r[i], r[i + 1]);
    }
    INFER__UNROLL for (i = 0; i < 8; i += 4) {
        r[i] = _mm256_unpacklo_epi64(t[i], t[i + 2]);
        r[i + 1] = _mm256_unpackhi_epi64(t[i], t[i + 2]);
        r[i + 2] = _mm256_unpacklo_epi64(t[i + 1], t[i + 3]);
        r[i + 3] = _mm256_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    INFER__UNROLL for (i = 0; i < 4; i++) {
        out[i] = _mm256_permute2x128_si256(r[i], r[4 + i], 0x20);
        out[4 + i] = _mm256_permute2x128_si256(r[i], r[4 + i], 0x31);
    }
}

/* The codes of a group, transposed: values 4 j .. 4 j + 3 of the 16 rows at tile + 64 * j. */
INFER__ON_avx2 static void infer__make_tile_avx2(const infer__unpacked *w, int n_blocks, uint8_t *tile) {
    __m256i v[8];
    int b, half, r, j;
    for (b = 0; b < n_blocks; b += 2)
        for (half = 0; half < 2; half++)
            for (r = 0; r < INFER__GROUP; r += 8) {
                uint8_t *to = tile + 64 * (8 * b + 4 * half) + 4 * r;
                infer__transpose_avx2(w->q[r] + infer__q_index(32 * b + 16 * half), v);
                INFER__UNROLL for (j = 0; j < 4; j++) { /* of block b, of block b + 1 */
                    _mm256_store_si256((__m256i *)(void *)(to + 64 * j), v[j]);
                    _mm256_store_si256((__m256i *)(void *)(to + 64 * (8 + j)), v[4 + j]);
                }
            }
}

/* ---- the levels ------------------------------------------------------------------------------------------------- */

INFER__LANES_TILE(avx2, 4)
INFER__DIRECT_8(avx2)
INFER__LANES_DOTS(avx2, 4)
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
INFER__LANES_TILE(avxvnni, 6)
INFER__DIRECT_8(avxvnni)
INFER__LANES_DOTS(avxvnni, 6)
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
