/* float_levels.c: FLOATS: blocks of dot products with float weights, one row per level, best first.
 *
 * Owns:  the wrappers that give each body of cpu_float.h its instruction set; decoding, and adding up lanes, where an
 *        instruction set has a faster way than plain C.
 * Rules: no sums of its own. Functions to add up lanes add the same pairs as infer__sum_L.
 * Start: infer__floats_rows at the end.
 */
#include "cpu_float.h"

/* ---- scalar ---------------------------------------------------------------------------------------------------- */

#define INFER__NOTHING

INFER__FLOAT_ROW_DOTS(scalar, INFER__NOTHING, f32, 2)
INFER__FLOAT_DOTS(scalar, INFER__NOTHING, f32, 2, 1)

static void infer__float_decode_f16_scalar(const uint8_t *src, uint8_t *dst, int64_t n) {
    int64_t i = 0;
#if defined(INFER__SIMD_WASM) /* clang makes no vectors of infer__f16_f32: one column 1.5 and 2.4 G weights/s */
    for (; i + 4 <= n; i += 4)
        wasm_v128_store(dst + 4 * i, infer__four_halves_simd128(wasm_u32x4_load16x4(src + 2 * i)));
#endif
    infer__plain_f16_decode(src + 2 * i, (float *)(void *)(dst + 4 * i), n - i);
    infer__float_fill(dst, 4 * n, 64);
}
static void infer__float_decode_bf16_scalar(const uint8_t *src, uint8_t *dst, int64_t n) {
    for (; n > 0; n -= 32, src += 64, dst += 128) infer__float_split_part(src, dst, (int)INFER__MIN(n, 32));
}
static void infer__float_prepare_scalar(const float *src, uint8_t *dst, int64_t n) {
    infer__float_prepare_body(src, dst, n, 0);
}
static void infer__float_sums_scalar(const float *acc, int32_t n, float *y, int64_t sy) {
    int32_t i;
    for (; n > 0; n--, y += sy, acc += INFER__FLOAT_LANES)
        for (i = 0; i < INFER__FLOAT_ROWS; i++) y[i] = infer__sum_scalar(infer__load_scalar(acc + i * INFER__LANES));
}

/* ---- AVX2 ------------------------------------------------------------------------------------------------------ */

/* The decoding functions of a level with f16, odd and even. */
#define INFER__FLOAT_DECODERS(L)                                                                                       \
    INFER__ON_##L static void infer__float_decode_f16_##L(const uint8_t *src, uint8_t *dst, int64_t n) {               \
        uint8_t rest[2 * INFER__FV_##L] = {0};                                                                         \
        int64_t i;                                                                                                     \
        for (i = 0; i + INFER__FV_##L <= n; i += INFER__FV_##L)                                                        \
            infer__fv_store_##L(dst + 4 * i, infer__fv_f16_##L(src + 2 * i));                                          \
        if (i < n) {                                                                                                   \
            memcpy(rest, src + 2 * i, (size_t)(n - i) * 2);                                                            \
            infer__fv_store_##L(dst + 4 * i, infer__fv_f16_##L(rest));                                                 \
            i += INFER__FV_##L;                                                                                        \
        }                                                                                                              \
        infer__float_fill(dst, 4 * i, 64);                                                                             \
    }                                                                                                                  \
    INFER__ON_##L static void infer__float_decode_bf16_##L(const uint8_t *src, uint8_t *dst, int64_t n) {              \
        int l;                                                                                                         \
        for (; n >= 32; n -= 32, src += 64, dst += 128) {                                                              \
            for (l = 0; l < 16; l += INFER__FV_##L) {                                                                  \
                infer__fv_store_##L(dst + 4 * l, infer__fv_odd_##L(src + 4 * l));                                      \
                infer__fv_store_##L(dst + 64 + 4 * l, infer__fv_even_##L(src + 4 * l));                                \
            }                                                                                                          \
        }                                                                                                              \
        if (n > 0) infer__float_split_part(src, dst, (int)n);                                                          \
    }                                                                                                                  \
    INFER__ON_##L static void infer__float_prepare_##L(const float *src, uint8_t *dst, int64_t n) {                    \
        infer__float_prepare_body(src, dst, n, 0);                                                                     \
    }

#if defined(INFER__SIMD_AVX2)
INFER__FLOAT_ROW_DOTS(avx2, INFER__ON_avx2, f32, 2)
INFER__FLOAT_DOTS(avx2, INFER__ON_avx2, f32, 2, 1)
INFER__FLOAT_DOTS(avx2, INFER__ON_avx2, f32, 3, 1)
INFER__FLOAT_ROW_DOTS(avx2, INFER__ON_avx2, f16, 2)
INFER__FLOAT_DOTS(avx2, INFER__ON_avx2, f16, 2, 1)
INFER__FLOAT_DOTS(avx2, INFER__ON_avx2, f16, 3, 1)
INFER__FLOAT_ROW_DOTS(avx2, INFER__ON_avx2, bf16, 2)
INFER__FLOAT_DOTS(avx2, INFER__ON_avx2, bf16, 2, 1)
INFER__FLOAT_DOTS(avx2, INFER__ON_avx2, bf16, 3, 1)
INFER__FLOAT_DECODERS(avx2)

/* Four rows side by side: 16 lanes are halved while those of two, then of four rows move into one register. */
INFER__ON_avx2 static void infer__float_sums_avx2(const float *acc, int32_t n, float *y, int64_t sy) {
    for (; n > 0; n--, y += sy, acc += INFER__FLOAT_LANES) {
        __m256 v[4], a, b;
        int i;
        INFER__UNROLL for (i = 0; i < 4; i++)
            v[i] = _mm256_add_ps(_mm256_loadu_ps(acc + 16 * i), _mm256_loadu_ps(acc + 16 * i + 8));
        a = _mm256_add_ps(_mm256_permute2f128_ps(v[0], v[1], 0x20), _mm256_permute2f128_ps(v[0], v[1], 0x31));
        b = _mm256_add_ps(_mm256_permute2f128_ps(v[2], v[3], 0x20), _mm256_permute2f128_ps(v[2], v[3], 0x31));
        a = _mm256_add_ps(_mm256_shuffle_ps(a, b, 0x44), _mm256_shuffle_ps(a, b, 0xee)); /* 0 0 2 2, 1 1 3 3 */
        a = _mm256_add_ps(_mm256_shuffle_ps(a, a, 0x88), _mm256_shuffle_ps(a, a, 0xdd)); /* 0 2 0 2, 1 3 1 3 */
        _mm_storeu_ps(y, _mm_unpacklo_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1)));
    }
}

/* ---- AVX-512 --------------------------------------------------------------------------------------------------- */

#  if defined(INFER__SIMD_AVX512)
INFER__FLOAT_ROW_DOTS(avx512, INFER__ON_avx512, f32, 1)
INFER__FLOAT_DOTS(avx512, INFER__ON_avx512, f32, 2, 1)
INFER__FLOAT_DOTS(avx512, INFER__ON_avx512, f32, 3, 1)
INFER__FLOAT_DOTS(avx512, INFER__ON_avx512, f32, 4, 1)
INFER__FLOAT_DOTS(avx512, INFER__ON_avx512, f32, 5, 1)
INFER__FLOAT_DOTS(avx512, INFER__ON_avx512, f32, 6, 1)
INFER__FLOAT_ROW_DOTS(avx512, INFER__ON_avx512, f16, 1)
INFER__FLOAT_DOTS(avx512, INFER__ON_avx512, f16, 2, 1)
INFER__FLOAT_DOTS(avx512, INFER__ON_avx512, f16, 3, 1)
INFER__FLOAT_DOTS(avx512, INFER__ON_avx512, f16, 4, 1)
INFER__FLOAT_DOTS(avx512, INFER__ON_avx512, f16, 5, 1)
INFER__FLOAT_DOTS(avx512, INFER__ON_avx512, f16, 6, 1)
INFER__FLOAT_ROW_DOTS(avx512, INFER__ON_avx512, bf16, 1)
INFER__FLOAT_DOTS(avx512, INFER__ON_avx512, bf16, 2, 1)
INFER__FLOAT_DOTS(avx512, INFER__ON_avx512, bf16, 3, 1)
INFER__FLOAT_DOTS(avx512, INFER__ON_avx512, bf16, 4, 1)
INFER__FLOAT_DOTS(avx512, INFER__ON_avx512, bf16, 5, 1)
INFER__FLOAT_DOTS(avx512, INFER__ON_avx512, bf16, 6, 1)
INFER__FLOAT_DECODERS(avx512)

/* The lanes of four rows, each added up. */
INFER__ON_avx512 INFER__INLINE void infer__float_four_avx512(__m512 v0, __m512 v1, __m512 v2, __m512 v3, float *y) {
    const __m512i firsts = _mm512_setr_epi32(0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12);
    __m512 a = _mm512_add_ps(_mm512_shuffle_f32x4(v0, v1, 0x44), _mm512_shuffle_f32x4(v0, v1, 0xee));
    __m512 b = _mm512_add_ps(_mm512_shuffle_f32x4(v2, v3, 0x44), _mm512_shuffle_f32x4(v2, v3, 0xee));
    a = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
    a = _mm512_add_ps(a, _mm512_permute_ps(a, 0x4e));
    a = _mm512_add_ps(a, _mm512_permute_ps(a, 0xb1));
    _mm_storeu_ps(y, _mm512_castps512_ps128(_mm512_permutexvar_ps(firsts, a)));
}
INFER__ON_avx512 static void infer__float_sums_avx512(const float *acc, int32_t n, float *y, int64_t sy) {
    for (; n > 0; n--, y += sy, acc += INFER__FLOAT_LANES)
        infer__float_four_avx512(_mm512_loadu_ps(acc), _mm512_loadu_ps(acc + 16), _mm512_loadu_ps(acc + 32),
                                 _mm512_loadu_ps(acc + 48), y);
}
#    define INFER__FLOAT_WHOLES(ON, KIND)                                    \
        INFER__FLOAT_WHOLE(avx512, ON, KIND, 4, infer__float_four_avx512)    \
        INFER__FLOAT_WHOLE(avx512, ON, KIND, 5, infer__float_four_avx512)    \
        INFER__FLOAT_WHOLE(avx512, ON, KIND, 6, infer__float_four_avx512)
INFER__FLOAT_WHOLES(INFER__ON_avx512, f32)
INFER__FLOAT_WHOLES(INFER__ON_avx512, f16)

/* ---- AVX512-BF16 ------------------------------------------------------------------------------------------------- */

#    if defined(INFER__FLOAT_PAIRS)
INFER__ON_pairs INFER__INLINE __m512 infer__fv_pairs_avx512(__m512 w, __m512 x, __m512 s) {
    return _mm512_dpbf16_ps(s, (__m512bh)w, (__m512bh)x);
}
INFER__FLOAT_ROW_DOTS(avx512, INFER__ON_pairs, pairs, 1)
INFER__FLOAT_DOTS(avx512, INFER__ON_pairs, pairs, 2, 1)
INFER__FLOAT_DOTS(avx512, INFER__ON_pairs, pairs, 3, 1)
INFER__FLOAT_DOTS(avx512, INFER__ON_pairs, pairs, 4, 1)
INFER__FLOAT_DOTS(avx512, INFER__ON_pairs, pairs, 5, 1)
INFER__FLOAT_DOTS(avx512, INFER__ON_pairs, pairs, 6, 1)
INFER__FLOAT_WHOLES(INFER__ON_pairs, pairs)

/* Rows are copied to be contiguous in the caches. Halves stay halves: converting them repeatedly is free on Zen 5,
 * which does it in parallel with the multiplications (219 against 213 GFLOP/s), and they take half the space. */
static void infer__float_copy_f16(const uint8_t *src, uint8_t *dst, int64_t n) {
    memcpy(dst, src, (size_t)n * 2);
    infer__float_fill(dst, 2 * n, 32);
}
static void infer__float_copy_bf16(const uint8_t *src, uint8_t *dst, int64_t n) {
    memcpy(dst, src, (size_t)n * 2);
    infer__float_fill(dst, 2 * n, 64);
}
INFER__ON_avx512 static void infer__float_prepare_pairs(const float *src, uint8_t *dst, int64_t n) {
    infer__float_prepare_body(src, dst, n, 1);
}
#    endif
#  endif
#endif

/* ---- NEON ------------------------------------------------------------------------------------------------------ */

#if defined(INFER__SIMD_ARM)
INFER__FLOAT_ROW_DOTS(neon, INFER__NOTHING, f32, 4)
INFER__FLOAT_DOTS(neon, INFER__NOTHING, f32, 2, 2)
INFER__FLOAT_DOTS(neon, INFER__NOTHING, f32, 3, 1)
INFER__FLOAT_DOTS(neon, INFER__NOTHING, f32, 4, 1)
INFER__FLOAT_DOTS(neon, INFER__NOTHING, f32, 5, 1)
INFER__FLOAT_DOTS(neon, INFER__NOTHING, f32, 6, 1)
INFER__FLOAT_ROW_DOTS(neon, INFER__NOTHING, f16, 4)
INFER__FLOAT_DOTS(neon, INFER__NOTHING, f16, 2, 2)
INFER__FLOAT_DOTS(neon, INFER__NOTHING, f16, 3, 1)
INFER__FLOAT_DOTS(neon, INFER__NOTHING, f16, 4, 1)
INFER__FLOAT_DOTS(neon, INFER__NOTHING, f16, 5, 1)
INFER__FLOAT_DOTS(neon, INFER__NOTHING, f16, 6, 1)
INFER__FLOAT_ROW_DOTS(neon, INFER__NOTHING, bf16, 4)
INFER__FLOAT_DOTS(neon, INFER__NOTHING, bf16, 2, 2)
INFER__FLOAT_DOTS(neon, INFER__NOTHING, bf16, 3, 1)
INFER__FLOAT_DOTS(neon, INFER__NOTHING, bf16, 4, 1)
INFER__FLOAT_DOTS(neon, INFER__NOTHING, bf16, 5, 1)
INFER__FLOAT_DOTS(neon, INFER__NOTHING, bf16, 6, 1)
INFER__FLOAT_DECODERS(neon)

static void infer__float_sums_neon(const float *acc, int32_t n, float *y, int64_t sy) {
    int32_t i;
    for (; n > 0; n--, y += sy, acc += INFER__FLOAT_LANES)
        for (i = 0; i < INFER__FLOAT_ROWS; i++) y[i] = infer__sum_neon(infer__load_neon(acc + i * INFER__LANES));
}
#endif

/* ---- FLOATS ---------------------------------------------------------------------------------------------------- */

#define INFER__FLOAT_BLOCKS_3(KIND, L) \
    {NULL, infer__float_##KIND##_1_##L, infer__float_##KIND##_2_##L, infer__float_##KIND##_3_##L, NULL, NULL, NULL}
#define INFER__FLOAT_BLOCKS_6(KIND, L) \
    {NULL, infer__float_##KIND##_1_##L, infer__float_##KIND##_2_##L, infer__float_##KIND##_3_##L, \
     infer__float_##KIND##_4_##L, infer__float_##KIND##_5_##L, infer__float_##KIND##_6_##L}
#define INFER__FLOAT_DECODE(L) {infer__float_decode_f32, infer__float_decode_f16_##L, infer__float_decode_bf16_##L}
#define INFER__FLOAT_WHOLE_6(KIND)                                                              \
    {NULL, NULL, NULL, NULL, infer__float_whole_##KIND##_4_avx512, infer__float_whole_##KIND##_5_avx512, \
     infer__float_whole_##KIND##_6_avx512}
#define INFER__FLOAT_WHOLE_F32 {INFER__FLOAT_WHOLE_6(f32), INFER__FLOAT_WHOLE_6(f32), INFER__FLOAT_WHOLE_6(f32)}
#define INFER__FLOAT_NO_WHOLE {{NULL}, {NULL}, {NULL}}
#define INFER__FLOAT_FEW(f32, f16, bf16) {f32, f16, bf16}
#define INFER__FLOAT_ROW(name, L, need, cols, few, BLOCKS, WHOLE, tiled) \
    {name, need, cols, 0, {BLOCKS(f32, L), BLOCKS(f16, L), BLOCKS(bf16, L)}, \
     {BLOCKS(f32, L), BLOCKS(f32, L), BLOCKS(f32, L)}, {64, 64, 64}, few, WHOLE, \
     INFER__FLOAT_DECODE(L), infer__float_prepare_##L, infer__float_sums_##L, tiled}

#define INFER__FLOAT_PAIRS_ROW \
    {INFER__FLOAT_BLOCKS_6(f32, avx512), INFER__FLOAT_BLOCKS_6(f16, avx512), INFER__FLOAT_BLOCKS_6(pairs, avx512)}, \
    {INFER__FLOAT_BLOCKS_6(f32, avx512), INFER__FLOAT_BLOCKS_6(f16, avx512), INFER__FLOAT_BLOCKS_6(pairs, avx512)}, \
    {64, 32, 64}, INFER__FLOAT_FEW(18, 18, 12), \
    {INFER__FLOAT_WHOLE_6(f32), INFER__FLOAT_WHOLE_6(f16), INFER__FLOAT_WHOLE_6(pairs)}, \
    {infer__float_decode_f32, infer__float_copy_f16, infer__float_copy_bf16}, \
    infer__float_prepare_pairs, infer__float_sums_avx512

static const struct infer__floats infer__floats_rows[] = {
#if defined(INFER__SIMD_AVX2)
#  if defined(INFER__SIMD_AVX512)
#    if defined(INFER__FLOAT_PAIRS)
#      if defined(INFER__AMX)
    {"amxbf16 encodes",
     INFER__CPU_AVX2 | INFER__CPU_AVX512 | INFER__CPU_AVX512BF16 | INFER__CPU_AMXBF16 | INFER__CPU_ENCODES, 6, 0,
     INFER__FLOAT_PAIRS_ROW, &infer__tiled_encodes},
    {"amxbf16", INFER__CPU_AVX2 | INFER__CPU_AVX512 | INFER__CPU_AVX512BF16 | INFER__CPU_AMXBF16, 6, 1,
     INFER__FLOAT_PAIRS_ROW, &infer__tiled_generates},
#      endif
#    endif
    INFER__FLOAT_ROW("avx512vnni encodes", avx512,
                     INFER__CPU_AVX2 | INFER__CPU_AVX512 | INFER__CPU_AVX512VNNI | INFER__CPU_ENCODES, 6,
                     INFER__FLOAT_FEW(18, 18, 18), INFER__FLOAT_BLOCKS_6, INFER__FLOAT_WHOLE_F32,
                     &infer__int16_encodes),
#    if defined(INFER__FLOAT_PAIRS)
    {"avx512bf16", INFER__CPU_AVX2 | INFER__CPU_AVX512 | INFER__CPU_AVX512BF16, 6, 1, INFER__FLOAT_PAIRS_ROW, NULL},
#    endif
    INFER__FLOAT_ROW("avx512 encodes", avx512, INFER__CPU_AVX2 | INFER__CPU_AVX512 | INFER__CPU_ENCODES, 6,
                     INFER__FLOAT_FEW(18, 18, 18), INFER__FLOAT_BLOCKS_6, INFER__FLOAT_WHOLE_F32,
                     &infer__outer_encodes),
    INFER__FLOAT_ROW("avx512", avx512, INFER__CPU_AVX2 | INFER__CPU_AVX512, 6, INFER__FLOAT_FEW(18, 18, 18),
                     INFER__FLOAT_BLOCKS_6, INFER__FLOAT_WHOLE_F32, NULL),
#  endif
    INFER__FLOAT_ROW("avx2", avx2, INFER__CPU_AVX2, 3, INFER__FLOAT_FEW(24, 24, 15), INFER__FLOAT_BLOCKS_3,
                     INFER__FLOAT_NO_WHOLE, NULL),
#endif
#if defined(INFER__SIMD_ARM)
    INFER__FLOAT_ROW("neon", neon, INFER__CPU_NEON, 6, INFER__FLOAT_FEW(18, 18, 18), INFER__FLOAT_BLOCKS_6,
                     INFER__FLOAT_NO_WHOLE, NULL),
#endif
#if defined(INFER__SIMD_RVV)
    {"rvv", INFER__CPU_RVV, 2, 0,
     {{NULL, infer__float_f32_1_rvv, infer__float_f32_2_rvv, NULL, NULL, NULL, NULL},
      {NULL, infer__float_f16_1_rvv, infer__float_f16_2_rvv, NULL, NULL, NULL, NULL},
      {NULL, infer__float_bf16_1_rvv, infer__float_bf16_2_rvv, NULL, NULL, NULL, NULL}},
     {{NULL, infer__float_f32_1_rvv, infer__float_f32_2_rvv, NULL, NULL, NULL, NULL},
      {NULL, infer__float_f32_1_rvv, infer__float_f32_2_rvv, NULL, NULL, NULL, NULL},
      {NULL, infer__float_f32_1_rvv, infer__float_f32_2_rvv, NULL, NULL, NULL, NULL}},
     {64, 64, 64}, INFER__FLOAT_FEW(6, 2, 6), INFER__FLOAT_NO_WHOLE, INFER__FLOAT_DECODE(rvv),
     infer__float_prepare_scalar, infer__float_sums_scalar, NULL},
#endif
    {"scalar", 0, 2, 0,
     {{NULL, infer__float_f32_1_scalar, infer__float_f32_2_scalar, NULL, NULL, NULL, NULL}, {NULL}, {NULL}},
     {{NULL, infer__float_f32_1_scalar, infer__float_f32_2_scalar, NULL, NULL, NULL, NULL},
      {NULL, infer__float_f32_1_scalar, infer__float_f32_2_scalar, NULL, NULL, NULL, NULL},
      {NULL, infer__float_f32_1_scalar, infer__float_f32_2_scalar, NULL, NULL, NULL, NULL}},
     {64, 64, 64}, INFER__FLOAT_FEW(6, 0, 0), INFER__FLOAT_NO_WHOLE, INFER__FLOAT_DECODE(scalar),
     infer__float_prepare_scalar, infer__float_sums_scalar, NULL},
};
#undef INFER__NOTHING
#undef INFER__FLOAT_BLOCKS_3
#undef INFER__FLOAT_BLOCKS_6
#undef INFER__FLOAT_DECODE
#undef INFER__FLOAT_ROW
#undef INFER__FLOAT_FEW
#undef INFER__FLOAT_PAIRS_ROW
#undef INFER__FLOAT_WHOLES
#undef INFER__FLOAT_WHOLE_6
#undef INFER__FLOAT_WHOLE_F32
#undef INFER__FLOAT_NO_WHOLE
#undef INFER__FLOAT_DECODERS

static const struct infer__floats *infer__floats_find(uint32_t cpu) {
    const struct infer__floats *row = infer__floats_rows;
    while (row->need & ~cpu) row++; /* the last row has no requirements */
    return row;
}
