/* int8_avx512.c: integer dot products with AVX-512 and VNNI: 16 rows of a weight are the 16 lanes.
 *
 * Owns:  the avx512vnni row of INT8.
 * How:   for few columns (infer__direct_*) a row of codes is multiplied as stored, vpdpbusd adding the four blocks of
 *        128 values in the four 128-bit lanes; 16 rows of partial sums are then transposed and added, so that a vector
 *        holds one block of 16 rows. For many columns (infer__tile_*) the codes are transposed once, four values of 16
 *        rows a vector, and multiplied with broadcast activations: no sum across lanes is left. The integers are the
 *        same, so are the floats.
 * Numbers: transposing 16 x 256 codes costs as much as three columns of the direct form. Of the vpdpbusd peak on Zen 5
 *        the tile of 6 columns x 32 rows reaches 75 % with gcc 12, with minima or a grain of 16 68 %, with both 56 %;
 *        products of floats take the ports of vpdpbusd, which leaves 80, 73 and 62 % at most. Slower: 4, 7, 8, 10
 *        columns x 32 rows 73, 69, 67, 64 %; 3, 4, 5 columns x 64 rows 59, 69, 68 %; 12 x 16 69 %.
 * Start: infer__direct_avx512vnni, infer__tile_avx512vnni.
 */
#include "cpu_int8.h"

#if defined(INFER__SIMD_AVX512)

#define INFER__ON_avx512vnni INFER__TARGET("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")

/* ---- activations ------------------------------------------------------------------------------------------ */

INFER__ON_avx512 static void infer__quantise_avx512(const float *x, int32_t n, infer__x8 *out) {
    const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
    int32_t k;
    for (k = 0; k + 32 <= n; k += 32) {
        const int i = k / 32;
        __m512 a = _mm512_loadu_ps(x + k), b = _mm512_loadu_ps(x + k + 16), m;
        __m512i p, q;
        uint32_t max = (uint32_t)_mm512_reduce_max_epi32(
            _mm512_max_epi32(_mm512_and_si512(_mm512_castps_si512(a), magnitude),
                             _mm512_and_si512(_mm512_castps_si512(b), magnitude)));
        if (max >= 0x7f800000u || max < 0x0d000000u) {
            infer__x8_block(x + k, 32, i, out);
            continue;
        }
        m = _mm512_set1_ps(127.0f / infer__bits_f32(max));
        p = _mm512_cvtps_epi32(_mm512_mul_ps(a, m));
        q = _mm512_cvtps_epi32(_mm512_mul_ps(b, m));
        _mm_storeu_si128((__m128i *)(void *)(out->q + 32 * i), _mm512_cvtepi32_epi8(p));
        _mm_storeu_si128((__m128i *)(void *)(out->q + 32 * i + 16), _mm512_cvtepi32_epi8(q));
        out->d[i] = infer__bits_f32(max) / 127.0f;
        out->sum16[0][i] = _mm512_reduce_add_epi32(p);
        out->sum16[1][i] = _mm512_reduce_add_epi32(q);
        out->sum32[i] = out->sum16[0][i] + out->sum16[1][i];
        out->fsum16[0][i] = (float)out->sum16[0][i];
        out->fsum16[1][i] = (float)out->sum16[1][i];
        out->fsum32[i] = (float)out->sum32[i];
    }
    if (k < n) infer__x8_block(x + k, n - k, k / 32, out);
}

/* ---- the float arithmetic of a block: 16 rows of one column -------------------------------------------------- */

/* t = isum * scale (+ min * xsum) (+ t) */
INFER__ON_avx512 INFER__INLINE __m512 infer__grain_avx512(__m512i isum, const float *scale, const float *min,
                                                          float xsum, int has_min, __m512 t, int first) {
    __m512 s = _mm512_load_ps(scale), f = _mm512_cvtepi32_ps(isum);
    t = first ? _mm512_mul_ps(f, s) : _mm512_fmadd_ps(f, s, t);
    return has_min ? _mm512_fmadd_ps(_mm512_load_ps(min), _mm512_set1_ps(xsum), t) : t;
}

/* ---- few columns ---------------------------------------------------------------------------------------------- */

/* Four vectors of partial sums, of one row each, to one: lane of 128 bits L of row r to element r of lane L. */
INFER__ON_avx512 INFER__INLINE __m512i infer__add_rows_avx512(const __m512i *s) {
    __m512i a = _mm512_add_epi32(_mm512_unpacklo_epi32(s[0], s[1]), _mm512_unpackhi_epi32(s[0], s[1]));
    __m512i b = _mm512_add_epi32(_mm512_unpacklo_epi32(s[2], s[3]), _mm512_unpackhi_epi32(s[2], s[3]));
    return _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
}

/* Lane L of four vectors, of 4 rows each, to out[L], which has 16 rows. */
INFER__ON_avx512 INFER__INLINE void infer__lanes_to_rows_avx512(const __m512i *s, __m512i *out) {
    __m512i a = _mm512_shuffle_i32x4(s[0], s[1], 0x88), b = _mm512_shuffle_i32x4(s[0], s[1], 0xdd);
    __m512i c = _mm512_shuffle_i32x4(s[2], s[3], 0x88), d = _mm512_shuffle_i32x4(s[2], s[3], 0xdd);
    out[0] = _mm512_shuffle_i32x4(a, c, 0x88);
    out[1] = _mm512_shuffle_i32x4(b, d, 0x88);
    out[2] = _mm512_shuffle_i32x4(a, c, 0xdd);
    out[3] = _mm512_shuffle_i32x4(b, d, 0xdd);
}

/* Initial values of integer sums: -offset * the sum of x; grain 16: of first halves, then of second halves. */
INFER__ON_avx512 INFER__INLINE void infer__start_avx512(const infer__x8 *x, int grain, int32_t offset, int32_t *out) {
    if (grain == 16)
        _mm512_storeu_si512(out, _mm512_mullo_epi32(_mm512_loadu_si512(x->sum16), _mm512_set1_epi32(-offset)));
    else
        _mm256_storeu_si256((__m256i *)(void *)out,
                            _mm256_mullo_epi32(_mm256_loadu_si256((const __m256i *)(const void *)x->sum32),
                                               _mm256_set1_epi32(-offset)));
}

/* 128 activations: the first halves of four blocks, then the second halves. */
INFER__ON_avx512 INFER__INLINE void infer__halves_avx512(const int8_t *x, __m512i *first, __m512i *second) {
    __m512i a = _mm512_loadu_si512(x), b = _mm512_loadu_si512(x + 64);
    *first = _mm512_shuffle_i32x4(a, b, 0x88);
    *second = _mm512_shuffle_i32x4(a, b, 0xdd);
}

/* Four blocks of 16 rows: the sums of q * x, of whole blocks (grain 32) or of their halves. */
INFER__ON_avx512vnni INFER__INLINE void infer__sums_avx512vnni(const uint8_t *q, const int8_t *x, int grain,
                                                               infer__ahead *ahead, __m512i *low, __m512i *high) {
    __m512i zero = _mm512_setzero_si512(), lo, hi, four[4], s[4], t[4];
    int i, j;
    infer__halves_avx512(x, &lo, &hi);
    INFER__UNROLL for (i = 0; i < 4; i++) {
        INFER__UNROLL for (j = 0; j < 4; j++) {
            const uint8_t *row = q + (4 * i + j) * INFER__CHUNK;
            four[j] = _mm512_dpbusd_epi32(zero, _mm512_load_si512(row), lo);
            if (grain == 32) four[j] = _mm512_dpbusd_epi32(four[j], _mm512_load_si512(row + 64), hi);
        }
        infer__ask(ahead);
        s[i] = infer__add_rows_avx512(four);
    }
    infer__lanes_to_rows_avx512(s, low);
    if (grain == 32) return;
    INFER__UNROLL for (i = 0; i < 4; i++) {
        INFER__UNROLL for (j = 0; j < 4; j++)
            four[j] = _mm512_dpbusd_epi32(zero, _mm512_load_si512(q + (4 * i + j) * INFER__CHUNK + 64), hi);
        t[i] = infer__add_rows_avx512(four);
    }
    infer__lanes_to_rows_avx512(t, high);
}

/* Blocks h .. h + 3 (of n_blocks) with their integer sums, of which the halves of blocks are separate when grain is 16,
 * to the sums of 16 rows. */
INFER__ON_avx512 INFER__INLINE __m512 infer__blocks_avx512(const infer__unpacked *w, const infer__x8 *x,
                                                           const int32_t *start, int h, int n_blocks, int grain,
                                                           int has_min, __m512i *low, __m512i *high, __m512 acc) {
    int i, b;
    INFER__UNROLL for (i = 0; i < 4; i++) {
        __m512 t = _mm512_setzero_ps();
        b = h + i;
        if (b >= n_blocks) break;
        if (grain == 32) {
            low[i] = _mm512_add_epi32(low[i], _mm512_set1_epi32(start[b]));
            t = infer__grain_avx512(low[i], w->scale[b], w->min[b], x->fsum32[b], has_min, t, 1);
        } else {
            low[i] = _mm512_add_epi32(low[i], _mm512_set1_epi32(start[b]));
            t = infer__grain_avx512(low[i], w->scale[2 * b], w->min[2 * b], x->fsum16[0][b], has_min, t, 1);
            high[i] = _mm512_add_epi32(high[i], _mm512_set1_epi32(start[8 + b]));
            t = infer__grain_avx512(high[i], w->scale[2 * b + 1], w->min[2 * b + 1], x->fsum16[1][b], has_min, t,
                                    0);
        }
        acc = _mm512_fmadd_ps(t, _mm512_set1_ps(x->d[b]), acc);
    }
    return acc;
}

/* One column of one group. */
INFER__ON_avx512vnni INFER__INLINE void infer__direct_avx512vnni(const infer__unpacked *w, const infer__x8 *x,
                                                                 int n_blocks, int grain, int has_min, int32_t offset,
                                                                 infer__ahead *ahead, float *y) {
    __m512 acc = _mm512_load_ps(y);
    int32_t start[INFER__CHUNK / 16];
    int h;
    infer__start_avx512(x, grain, offset, start);
    for (h = 0; h < n_blocks; h += 4) {
        __m512i low[4], high[4];
        infer__sums_avx512vnni(w->q[0] + 32 * h, x->q + 32 * h, grain, ahead, low, high);
        acc = infer__blocks_avx512(w, x, start, h, n_blocks, grain, has_min, low, high, acc);
    }
    _mm512_store_ps(y, acc);
}

/* ---- many columns --------------------------------------------------------------------------------------------- */

/* The codes of a group less `offset`, transposed: values 4 j .. 4 j + 3 of the 16 rows at tile + 64 * j. */
INFER__ON_avx512 INFER__INLINE void infer__put_tile_avx512(const infer__unpacked *w, int n_blocks, int32_t offset,
                                                           uint8_t *tile) {
    const __m512i less = _mm512_set1_epi8((char)offset);
    __m512i v[16];
    int h, half, j, b;
    for (h = 0; h < n_blocks; h += 4) /* 128 values: the first halves of four blocks, then the second */
        for (half = 0; half < 2; half++) {
            infer__transpose_avx512(w->q[0] + 32 * h + 64 * half, INFER__CHUNK, v);
            INFER__UNROLL for (b = 0; b < 4; b++)
                INFER__UNROLL for (j = 0; j < 4; j++)
                    _mm512_store_si512(tile + 64 * (8 * (h + b) + 4 * half + j),
                                       _mm512_sub_epi8(v[4 * b + j], less));
        }
}

INFER__ON_avx512 static void infer__make_tile_avx512(const infer__unpacked *w, int n_blocks, uint8_t *tile) {
    infer__put_tile_avx512(w, n_blocks, 0, tile);
}

/* For gcc the columns of y are a constant distance apart, that of the engine: their addresses need no registers. And it
 * must not keep sums in registers from block to block, or it spills others (grain 16: 63 % of the peak). Together that
 * gives 72 to 75 %. clang spills when the distance is constant (60 % instead of 72 %). */
#  if defined(__GNUC__) && !defined(__clang__)
#    define INFER__TILE_STRIDE(a) (INFER__INT8_GROUPS * INFER__GROUP)
#    define INFER__TILE_BLOCK __asm__ volatile("" ::: "memory");
#  else
#    define INFER__TILE_STRIDE(a) (a)->stride
#    define INFER__TILE_BLOCK
#  endif

/* M columns of G groups; tile and w of group g. */
#  define INFER__DEFINE_TILE(M, G)                                                                                   \
    INFER__ON_avx512vnni INFER__INLINE void infer__tile_##M##x##G##_avx512vnni(                                      \
        const uint8_t *tile, const infer__unpacked *w, const infer__x8 *const *x, int n_blocks, int grain,           \
        int has_min, int32_t offset, float *y, int64_t stride) {                                                     \
      int b, k, j, g, half, halves = grain == 16 ? 2 : 1, steps = 8 / halves;                                        \
      int32_t start[M][INFER__CHUNK / 16];                                                                           \
      INFER__UNROLL for (j = 0; j < M; j++) infer__start_avx512(x[j], grain, offset, start[j]);                      \
      for (b = 0; b < n_blocks; b++) {                                                                               \
        __m512 t[G][M];                                                                                              \
        INFER__TILE_BLOCK                                                                                            \
        /* the next M columns, where they are adjacent (not experts') */                                           \
        INFER__UNROLL for (j = 0; j < M; j++) INFER__PREFETCH((const char *)(x[j] + M) + 64 * b);                    \
        INFER__UNROLL for (half = 0; half < halves; half++) {                                                        \
          int at = halves * b + half;                                                                                \
          __m512i s[G][M];                                                                                           \
          INFER__UNROLL for (j = 0; j < M; j++) {                                                                    \
            __m512i v = _mm512_set1_epi32(start[j][8 * half + b]);                                                   \
            INFER__UNROLL for (g = 0; g < G; g++) s[g][j] = v;                                                       \
          }                                                                                                          \
          INFER__UNROLL for (k = 0; k < steps; k++) {                                                                \
            const uint8_t *q = tile + 64 * (steps * at + k);                                                         \
            __m512i v[G];                                                                                            \
            INFER__UNROLL for (g = 0; g < G; g++) v[g] = _mm512_load_si512(q + g * INFER__GROUP * INFER__CHUNK);     \
            INFER__UNROLL for (j = 0; j < M; j++) {                                                                  \
              int32_t four;                                                                                          \
              __m512i xv;                                                                                            \
              memcpy(&four, x[j]->q + 4 * (steps * at + k), 4);                                                      \
              xv = _mm512_set1_epi32(four);                                                                          \
              INFER__UNROLL for (g = 0; g < G; g++) s[g][j] = _mm512_dpbusd_epi32(s[g][j], v[g], xv);                \
            }                                                                                                        \
          }                                                                                                          \
          INFER__UNROLL for (g = 0; g < G; g++) INFER__UNROLL for (j = 0; j < M; j++) t[g][j] = infer__grain_avx512( \
              s[g][j], w[g].scale[at], w[g].min[at], grain == 16 ? x[j]->fsum16[half][b] : x[j]->fsum32[at], has_min,\
              half ? t[g][j] : _mm512_setzero_ps(), half == 0);                                                      \
        }                                                                                                            \
        INFER__UNROLL for (g = 0; g < G; g++) INFER__UNROLL for (j = 0; j < M; j++) {                                \
          float *to = y + j * stride + g * INFER__GROUP;                                                             \
          _mm512_store_ps(to, _mm512_fmadd_ps(t[g][j], _mm512_set1_ps(x[j]->d[b]), _mm512_load_ps(to)));             \
        }                                                                                                            \
      }                                                                                                              \
    }
INFER__DEFINE_TILE(6, 2)
INFER__DEFINE_TILE(4, 2)
#undef INFER__DEFINE_TILE
#undef INFER__TILE_BLOCK

/* All columns, for one kind of type: grain and has_min are constants in each of four instances. */
INFER__ON_avx512vnni INFER__INLINE void infer__dots_body_avx512vnni(const infer__dots_args *a, int grain, int has_min) {
    const int64_t stride = INFER__TILE_STRIDE(a);
    const infer__x8 *x[6];
    int32_t offset = a->type->offset, j = 0, i, g, n = a->n_x;
    if (n >= 4 && a->n_groups == 2 && stride == a->stride) {
        for (g = 0; g < 2; g++)
            infer__make_tile_avx512(a->w + g, a->n_blocks, a->tile + g * INFER__GROUP * INFER__CHUNK);
        for (; j + 4 <= n; j += i) {
            float *y = a->y + j * stride;
            int32_t left = n - j;
            for (i = 0; i < INFER__MIN(left, 6); i++) x[i] = infer__x8_col(a, j + i);
            if (left >= 6 && left != 8 && left != 9) {
                i = 6;
                infer__tile_6x2_avx512vnni(a->tile, a->w, x, a->n_blocks, grain, has_min, offset, y, stride);
            } else {
                i = 4;
                infer__tile_4x2_avx512vnni(a->tile, a->w, x, a->n_blocks, grain, has_min, offset, y, stride);
            }
        }
    }
    for (; j < n; j++)
        for (g = 0; g < a->n_groups; g++)
            infer__direct_avx512vnni(a->w + g, infer__x8_col(a, j), a->n_blocks, grain, has_min, offset,
                                     a->ahead, a->y + j * a->stride + g * INFER__GROUP);
}

#undef INFER__TILE_STRIDE

INFER__DOTS_BY_KIND(avx512vnni, INFER__ON_avx512vnni)
#endif
