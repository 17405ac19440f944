/* cpu_kv.c: the cache of keys and values on the CPU: its layout, and reading it as float32.
 *
 * Owns:  the functions per instruction set that convert a page of each type to float32 (infer__kv_reader), called by
 *        attention; transposing pages.
 * Layout: a page holds INFER__PAGE positions, head by head. Values are stored position by position, each a row of the
 *        file type's blocks, padded to whole blocks. Keys are transposed: each element of such a row for all 16
 *        positions: [dim][16] numbers, or per block 16 scales and then 16 bytes for each byte of the block. So a key's
 *        dimension is one vector over positions, and scores need neither transposing nor sums across lanes. Only the
 *        CPU transposes keys: saved sessions and GPUs store them position by position (infer__kv_turn).
 * Invariant: reading gives the bits of the type's `decode` on every instruction set.
 * Start: infer__kv_elements for the layout, INFER__DEFINE_KV for reading.
 */
#include "cpu_exp.h"

/* ---- layout -------------------------------------------------------------------------------------------- */

static int32_t infer__page_of(const infer__pass *p, int32_t group, int32_t seq, int32_t pos) {
    int32_t page = p->pages[group][(int64_t)seq * p->max_pages + pos / INFER__PAGE];
    INFER__ASSERT(page >= 0 && pos / INFER__PAGE < p->max_pages);
    return page;
}

/* A row of n values as the elements that a transposed page interleaves: `groups` times `heads` elements of 2 bytes (the
 * scale) and then `tail` elements of `size` bytes. */
typedef struct infer__kv_elements { int32_t groups, heads, tail, size; } infer__kv_elements;

static infer__kv_elements infer__kv_elements_of(int32_t type, int32_t dim) {
    infer__kv_elements e = {1, 0, 0, 4};
    e.tail = dim;
    if (type == INFER_KV_F16 || type == INFER_KV_BF16) e.size = 2;
    if (type != INFER_KV_Q8_0 && type != INFER_KV_Q4_0) return e;
    e.groups = (dim + INFER__KV_BLOCK - 1) / INFER__KV_BLOCK;
    e.heads = 1;
    e.tail = type == INFER_KV_Q8_0 ? INFER__KV_BLOCK : INFER__KV_BLOCK / 2;
    e.size = 1;
    return e;
}

/* One element of each of INFER__PAGE positions: transposed they are adjacent, else `row` bytes apart. */
INFER__INLINE void infer__kv_element(uint8_t *turned, uint8_t *row, int32_t slot, int32_t size, int to_rows) {
    turned += slot * size;
    if (to_rows) memcpy(row, turned, (size_t)size);
    else memcpy(turned, row, (size_t)size);
}

/* Copy position `slot` of a head's transposed page to a row (to_rows) or back. */
static void infer__kv_turn_slot(int32_t type, int32_t dim, uint8_t *page, uint8_t *row, int32_t slot, int to_rows) {
    const infer__kv_elements e = infer__kv_elements_of(type, dim);
    int32_t g, i;
    for (g = 0; g < e.groups; g++) {
        for (i = 0; i < e.heads; i++, page += 2 * INFER__PAGE, row += 2)
            infer__kv_element(page, row, slot, 2, to_rows);
        if (e.size == 2) /* constant sizes: a copy is then one move */
            for (i = 0; i < e.tail; i++, page += 2 * INFER__PAGE, row += 2)
                infer__kv_element(page, row, slot, 2, to_rows);
        else if (e.size == 4)
            for (i = 0; i < e.tail; i++, page += 4 * INFER__PAGE, row += 4)
                infer__kv_element(page, row, slot, 4, to_rows);
        else
            for (i = 0; i < e.tail; i++, page += INFER__PAGE, row += 1)
                infer__kv_element(page, row, slot, 1, to_rows);
    }
}

static void infer__kv_turn(int32_t type, int32_t n_head, int32_t dim, void *turned, void *rows, int to_rows) {
    uint64_t row = infer__kv_bytes(type, dim);
    int32_t h, slot;
    for (h = 0; h < n_head; h++)
        for (slot = 0; slot < INFER__PAGE; slot++)
            infer__kv_turn_slot(type, dim, (uint8_t *)turned + (uint64_t)h * INFER__PAGE * row,
                                (uint8_t *)rows + ((uint64_t)h * INFER__PAGE + (uint64_t)slot) * row, slot, to_rows);
}

/* The page of a head: its keys, transposed, or its values. */
static uint8_t *infer__kv_at(const infer__kv_buf *b, int32_t page, int32_t head, int32_t n_head, int32_t dim) {
    return (uint8_t *)b->buf.host + infer__kv_offset(b->type, page, head, n_head, dim);
}

/* The address of a compressed entry of dim values: it is in the page of its last position, which is writable when the
 * entry is made. */
static uint8_t *infer__kv_entry(const infer__pass *p, const infer__kv_buf *b, int32_t group, int32_t every, int32_t seq,
                                int32_t entry, int32_t dim) {
    const int32_t rows = infer__page_rows(every), page = infer__page_of(p, group, seq, (entry + 1) * every - 1);
    return (uint8_t *)b->buf.host +
           ((uint64_t)page * (uint64_t)rows + (uint64_t)(entry % rows)) * infer__kv_bytes(b->type, dim);
}

/* ---- reading -------------------------------------------------------------------------------------------- */

/* 16 values of a cache as float32, per instruction set: halves, upper halves of floats, one half 16 times, bytes, and
 * the low and high four bits of 16 bytes less 8. All exact. */
INFER__INLINE infer__v16_scalar infer__half16_scalar(const uint8_t *p) {
    uint16_t h[INFER__LANES];
    float t[INFER__LANES];
    int l;
    memcpy(h, p, sizeof h);
    for (l = 0; l < INFER__LANES; l++) t[l] = infer__f16_f32(h[l]);
    return infer__load_scalar(t);
}
INFER__INLINE infer__v16_scalar infer__upper16_scalar(const uint8_t *p) {
    uint16_t h[INFER__LANES];
    float t[INFER__LANES];
    int l;
    memcpy(h, p, sizeof h);
    for (l = 0; l < INFER__LANES; l++) t[l] = infer__bf16_f32(h[l]);
    return infer__load_scalar(t);
}
INFER__INLINE infer__v16_scalar infer__scale16_scalar(const uint8_t *p) {
    return infer__splat_scalar(infer__f16_f32(infer__load_u16(p)));
}
INFER__INLINE infer__v16_scalar infer__bytes16_scalar(const uint8_t *p) {
    float t[INFER__LANES];
    int l;
    for (l = 0; l < INFER__LANES; l++) t[l] = (float)(int8_t)p[l];
    return infer__load_scalar(t);
}
INFER__INLINE void infer__nibbles16_scalar(const uint8_t *p, infer__v16_scalar *low, infer__v16_scalar *high) {
    float t[INFER__LANES], u[INFER__LANES];
    int l;
    for (l = 0; l < INFER__LANES; l++) {
        t[l] = (float)((p[l] & 15) - 8);
        u[l] = (float)((p[l] >> 4) - 8);
    }
    *low = infer__load_scalar(t);
    *high = infer__load_scalar(u);
}

#if defined(INFER__SIMD_AVX2)
INFER__ON_avx2 INFER__INLINE __m128i infer__load_128(const uint8_t *p) {
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}
INFER__ON_avx2 INFER__INLINE infer__v16_avx2 infer__half16_avx2(const uint8_t *p) {
    infer__v16_avx2 v;
    v.a = _mm256_cvtph_ps(infer__load_128(p));
    v.b = _mm256_cvtph_ps(infer__load_128(p + 16));
    return v;
}
INFER__ON_avx2 INFER__INLINE infer__v16_avx2 infer__upper16_avx2(const uint8_t *p) {
    infer__v16_avx2 v;
    v.a = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(infer__load_128(p)), 16));
    v.b = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(infer__load_128(p + 16)), 16));
    return v;
}
INFER__ON_avx2 INFER__INLINE infer__v16_avx2 infer__scale16_avx2(const uint8_t *p) {
    infer__v16_avx2 v;
    v.a = v.b = _mm256_cvtph_ps(_mm_set1_epi16((short)infer__load_u16(p)));
    return v;
}
INFER__ON_avx2 INFER__INLINE infer__v16_avx2 infer__int16_avx2(__m128i i) {
    infer__v16_avx2 v;
    v.a = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(i));
    v.b = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(i, 8)));
    return v;
}
INFER__ON_avx2 INFER__INLINE infer__v16_avx2 infer__bytes16_avx2(const uint8_t *p) {
    return infer__int16_avx2(infer__load_128(p));
}
INFER__ON_avx2 INFER__INLINE __m128i infer__nibble_128(__m128i v) {
    return _mm_sub_epi8(_mm_and_si128(v, _mm_set1_epi8(15)), _mm_set1_epi8(8));
}
INFER__ON_avx2 INFER__INLINE void infer__nibbles16_avx2(const uint8_t *p, infer__v16_avx2 *low, infer__v16_avx2 *high) {
    const __m128i v = infer__load_128(p);
    *low = infer__int16_avx2(infer__nibble_128(v));
    *high = infer__int16_avx2(infer__nibble_128(_mm_srli_epi16(v, 4)));
}
#  if defined(INFER__SIMD_AVX512)
INFER__ON_avx512 INFER__INLINE __m256i infer__load_256(const uint8_t *p) {
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}
INFER__ON_avx512 INFER__INLINE __m512 infer__half16_avx512(const uint8_t *p) {
    return _mm512_cvtph_ps(infer__load_256(p));
}
INFER__ON_avx512 INFER__INLINE __m512 infer__upper16_avx512(const uint8_t *p) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(infer__load_256(p)), 16));
}
INFER__ON_avx512 INFER__INLINE __m512 infer__scale16_avx512(const uint8_t *p) {
    return _mm512_cvtph_ps(_mm256_set1_epi16((short)infer__load_u16(p)));
}
INFER__ON_avx512 INFER__INLINE __m512 infer__int16_avx512(__m128i i) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(i));
}
INFER__ON_avx512 INFER__INLINE __m512 infer__bytes16_avx512(const uint8_t *p) {
    return infer__int16_avx512(infer__load_128(p));
}
INFER__ON_avx512 INFER__INLINE void infer__nibbles16_avx512(const uint8_t *p, __m512 *low, __m512 *high) {
    const __m128i v = infer__load_128(p);
    *low = infer__int16_avx512(infer__nibble_128(v));
    *high = infer__int16_avx512(infer__nibble_128(_mm_srli_epi16(v, 4)));
}
#  endif
#endif

#if defined(INFER__SIMD_ARM)
INFER__INLINE infer__v16_neon infer__half16_neon(const uint8_t *p) {
    infer__v16_neon v;
    v.a = vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p)));
    v.b = vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p + 8)));
    v.c = vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p + 16)));
    v.d = vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p + 24)));
    return v;
}
INFER__INLINE infer__v16_neon infer__upper16_neon(const uint8_t *p) {
    infer__v16_neon v;
    v.a = vreinterpretq_f32_u32(vshlq_n_u32(vmovl_u16(vreinterpret_u16_u8(vld1_u8(p))), 16));
    v.b = vreinterpretq_f32_u32(vshlq_n_u32(vmovl_u16(vreinterpret_u16_u8(vld1_u8(p + 8))), 16));
    v.c = vreinterpretq_f32_u32(vshlq_n_u32(vmovl_u16(vreinterpret_u16_u8(vld1_u8(p + 16))), 16));
    v.d = vreinterpretq_f32_u32(vshlq_n_u32(vmovl_u16(vreinterpret_u16_u8(vld1_u8(p + 24))), 16));
    return v;
}
INFER__INLINE infer__v16_neon infer__scale16_neon(const uint8_t *p) {
    infer__v16_neon v;
    v.a = v.b = v.c = v.d = vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(infer__load_u16(p))));
    return v;
}
INFER__INLINE infer__v16_neon infer__int16_neon(int8x16_t i) {
    const int16x8_t low = vmovl_s8(vget_low_s8(i)), high = vmovl_s8(vget_high_s8(i));
    infer__v16_neon v;
    v.a = vcvtq_f32_s32(vmovl_s16(vget_low_s16(low)));
    v.b = vcvtq_f32_s32(vmovl_s16(vget_high_s16(low)));
    v.c = vcvtq_f32_s32(vmovl_s16(vget_low_s16(high)));
    v.d = vcvtq_f32_s32(vmovl_s16(vget_high_s16(high)));
    return v;
}
INFER__INLINE infer__v16_neon infer__bytes16_neon(const uint8_t *p) {
    return infer__int16_neon(vreinterpretq_s8_u8(vld1q_u8(p)));
}
INFER__INLINE void infer__nibbles16_neon(const uint8_t *p, infer__v16_neon *low, infer__v16_neon *high) {
    const uint8x16_t v = vld1q_u8(p);
    *low = infer__int16_neon(vsubq_s8(vreinterpretq_s8_u8(vandq_u8(v, vdupq_n_u8(15))), vdupq_n_s8(8)));
    *high = infer__int16_neon(vsubq_s8(vreinterpretq_s8_u8(vshrq_n_u8(v, 4)), vdupq_n_s8(8)));
}
#endif

/* n floats as halves, nearest even: the bits of infer__f32_f16. */
static void infer__halves_scalar(uint8_t *out, const float *x, int32_t n) {
    int32_t i;
    for (i = 0; i < n; i++) {
        const uint16_t h = infer__f32_f16(x[i]);
        memcpy(out + 2 * i, &h, sizeof h);
    }
}
#if defined(INFER__SIMD_AVX2)
INFER__ON_avx2 static void infer__halves_avx2(uint8_t *out, const float *x, int32_t n) {
    int32_t i;
    for (i = 0; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(void *)(out + 2 * i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    infer__halves_scalar(out + 2 * i, x + i, n - i);
}
#  define infer__halves_avx512 infer__halves_avx2
#  define infer__keys_avx2 NULL
#endif
#if defined(INFER__SIMD_AVX512)
/* 16 rows x 64 bytes (rows `stride` apart) to vectors of 4 bytes of every row: vector j at out[j]. */
INFER__ON_avx512 INFER__INLINE void infer__transpose_avx512(const uint8_t *src, int64_t stride, __m512i *out) {
    __m512i r[16], t[16];
    int i;
    INFER__UNROLL for (i = 0; i < 16; i++) r[i] = _mm512_loadu_si512(src + i * stride);
    INFER__UNROLL for (i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
    INFER__UNROLL for (i = 0; i < 16; i += 4) {
        r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
        r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
        r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
        r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    INFER__UNROLL for (i = 0; i < 4; i++) { /* r[4 g + i], lane L: bytes 16 L + 4 i .. of rows 4 g .. 4 g + 3 */
        __m512i a = _mm512_shuffle_i32x4(r[i], r[4 + i], 0x88), b = _mm512_shuffle_i32x4(r[i], r[4 + i], 0xdd);
        __m512i c = _mm512_shuffle_i32x4(r[8 + i], r[12 + i], 0x88),
                d = _mm512_shuffle_i32x4(r[8 + i], r[12 + i], 0xdd);
        out[i] = _mm512_shuffle_i32x4(a, c, 0x88);
        out[4 + i] = _mm512_shuffle_i32x4(b, d, 0x88);
        out[8 + i] = _mm512_shuffle_i32x4(a, c, 0xdd);
        out[12 + i] = _mm512_shuffle_i32x4(b, d, 0xdd);
    }
}

/* infer__flash.keys */
INFER__ON_avx512 static void infer__keys_avx512(uint8_t *out, const float *x, int64_t stride, int32_t dim, int halves) {
    __m512i v[16];
    int32_t i, j;
    for (i = 0; i < dim; i += 16) {
        infer__transpose_avx512((const uint8_t *)(const void *)(x + i), stride * (int64_t)sizeof *x, v);
        for (j = 0; j < 16; j++, out += halves ? 32 : 64)
            if (!halves) _mm512_storeu_si512(out, v[j]);
            else
                _mm256_storeu_si256(
                    (__m256i *)(void *)out,
                    _mm512_cvtps_ph(_mm512_castsi512_ps(v[j]), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    }
}
#endif
#define infer__keys_neon NULL
#define infer__keys_scalar NULL
#if defined(INFER__SIMD_ARM)
static void infer__halves_neon(uint8_t *out, const float *x, int32_t n) {
    int32_t i;
    for (i = 0; i + 4 <= n; i += 4) vst1_u8(out + 2 * i, vreinterpret_u8_f16(vcvt_f16_f32(vld1q_f32(x + i))));
    infer__halves_scalar(out + 2 * i, x + i, n - i);
}
#endif

/* One head's page as float32. keys: the whole transposed page to [dim rounded up to blocks][16]. values: positions
 * from..to to rows `stride` apart, zero-padded after dim to a multiple of INFER__LANES, for blocks of
 * INFER__KV_BLOCK. */
typedef struct infer__kv_reader {
    void (*keys)(float *out, const uint8_t *page, int32_t dim);
    void (*values)(float *out, const uint8_t *page, int32_t dim, int32_t stride, int32_t from, int32_t to);
} infer__kv_reader;

/* Plain types: LOAD makes 16 floats of 16 values of SIZE bytes. Keys of F32 are used in place. */
#define INFER__DEFINE_KV_KEYS(L, name, SIZE, LOAD)                                                                     \
    INFER__ON_##L static void infer__keys_##name##_##L(float *out, const uint8_t *page, int32_t dim) {                 \
        int32_t i;                                                                                                     \
        for (i = 0; i < dim; i++, page += INFER__PAGE * SIZE, out += INFER__PAGE)                                      \
            infer__store_##L(out, LOAD##_##L(page));                                                                   \
    }
#define INFER__DEFINE_KV_VALUES(L, name, SIZE, LOAD)                                                                   \
    INFER__ON_##L static void infer__values_##name##_##L(float *out, const uint8_t *page, int32_t dim, int32_t stride, \
                                                         int32_t from, int32_t to) {                                   \
        int32_t j, i;                                                                                                  \
        for (j = from; j <= to; j++) {                                                                                 \
            const uint8_t *p = page + (int64_t)j * dim * SIZE;                                                         \
            float *y = out + (int64_t)j * stride;                                                                      \
            for (i = 0; i + INFER__LANES <= dim; i += INFER__LANES)                                                    \
                infer__store_##L(y + i, LOAD##_##L(p + i * SIZE));                                                     \
            if (i < dim) {                                                                                             \
                uint8_t rest[INFER__LANES * SIZE] = {0};                                                               \
                memcpy(rest, p + i * SIZE, (size_t)(dim - i) * SIZE);                                                  \
                infer__store_##L(y + i, LOAD##_##L(rest));                                                             \
            }                                                                                                          \
        }                                                                                                              \
    }

/* Blocks. Transposed: 16 scales, then 16 bytes for each byte of the block; b is the bytes, d the scales as a vector. */
#define INFER__DEFINE_KV(L)                                                                                            \
    INFER__ON_##L INFER__INLINE infer__v16_##L infer__floats16_##L(const uint8_t *p) {                                 \
        return infer__load_##L((const float *)(const void *)p);                                                        \
    }                                                                                                                  \
    INFER__ON_##L INFER__INLINE infer__v16_##L infer__scales16_##L(const uint8_t *p) {                                 \
        uint16_t h[INFER__LANES];                                                                                      \
        int l;                                                                                                         \
        for (l = 0; l < INFER__LANES; l++) h[l] = infer__load_u16(p + 2 * l);                                          \
        return infer__half16_##L((const uint8_t *)h);                                                                  \
    }                                                                                                                  \
    INFER__DEFINE_KV_KEYS(L, f16, 2, infer__half16)                                                                    \
    INFER__DEFINE_KV_KEYS(L, bf16, 2, infer__upper16)                                                                  \
    INFER__DEFINE_KV_VALUES(L, f16, 2, infer__half16)                                                                  \
    INFER__DEFINE_KV_VALUES(L, bf16, 2, infer__upper16)                                                                \
    INFER__DEFINE_KV_VALUES(L, f32, 4, infer__floats16)                                                                \
    INFER__ON_##L static void infer__keys_q8_0_##L(float *out, const uint8_t *page, int32_t dim) {                     \
        int32_t i, j;                                                                                                  \
        for (i = 0; i < dim; i += INFER__KV_BLOCK, page += 34 * INFER__PAGE) {                                         \
            const infer__v16_##L d = infer__scales16_##L(page);                                                        \
            const uint8_t *b = page + 2 * INFER__PAGE;                                                                 \
            for (j = 0; j < INFER__KV_BLOCK; j++, b += INFER__PAGE, out += INFER__PAGE)                                \
                infer__store_##L(out, infer__vmul_##L(d, infer__bytes16_##L(b)));                                      \
        }                                                                                                              \
    }                                                                                                                  \
    INFER__ON_##L static void infer__keys_q4_0_##L(float *out, const uint8_t *page, int32_t dim) {                     \
        infer__v16_##L low, high;                                                                                      \
        int32_t i, j;                                                                                                  \
        for (i = 0; i < dim; i += INFER__KV_BLOCK, page += 18 * INFER__PAGE, out += 16 * INFER__PAGE) {                \
            const infer__v16_##L d = infer__scales16_##L(page);                                                        \
            const uint8_t *b = page + 2 * INFER__PAGE;                                                                 \
            for (j = 0; j < 16; j++, b += INFER__PAGE, out += INFER__PAGE) {                                           \
                infer__nibbles16_##L(b, &low, &high);                                                                  \
                infer__store_##L(out, infer__vmul_##L(d, low));                                                        \
                infer__store_##L(out + 16 * INFER__PAGE, infer__vmul_##L(d, high));                                    \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    INFER__ON_##L static void infer__values_q8_0_##L(float *out, const uint8_t *page, int32_t dim, int32_t stride,     \
                                                     int32_t from, int32_t to) {                                       \
        const int32_t blocks = (dim + INFER__KV_BLOCK - 1) / INFER__KV_BLOCK;                                          \
        int32_t j, i;                                                                                                  \
        for (j = from; j <= to; j++) {                                                                                 \
            const uint8_t *b = page + (int64_t)j * blocks * 34;                                                        \
            float *y = out + (int64_t)j * stride;                                                                      \
            for (i = 0; i < blocks; i++, b += 34, y += INFER__KV_BLOCK) {                                              \
                const infer__v16_##L d = infer__scale16_##L(b);                                                        \
                infer__store_##L(y, infer__vmul_##L(d, infer__bytes16_##L(b + 2)));                                    \
                infer__store_##L(y + 16, infer__vmul_##L(d, infer__bytes16_##L(b + 18)));                              \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    INFER__ON_##L static void infer__values_q4_0_##L(float *out, const uint8_t *page, int32_t dim, int32_t stride,     \
                                                     int32_t from, int32_t to) {                                       \
        const int32_t blocks = (dim + INFER__KV_BLOCK - 1) / INFER__KV_BLOCK;                                          \
        infer__v16_##L low, high;                                                                                      \
        int32_t j, i;                                                                                                  \
        for (j = from; j <= to; j++) {                                                                                 \
            const uint8_t *b = page + (int64_t)j * blocks * 18;                                                        \
            float *y = out + (int64_t)j * stride;                                                                      \
            for (i = 0; i < blocks; i++, b += 18, y += INFER__KV_BLOCK) {                                              \
                const infer__v16_##L d = infer__scale16_##L(b);                                                        \
                infer__nibbles16_##L(b + 2, &low, &high);                                                              \
                infer__store_##L(y, infer__vmul_##L(d, low));                                                          \
                infer__store_##L(y + 16, infer__vmul_##L(d, high));                                                    \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    static const infer__kv_reader infer__kv_readers_##L[INFER_KV_Q4_0 + 1] = {                                         \
{NULL, NULL},                                                                                                  \
        [INFER_KV_F32] = {NULL, infer__values_f32_##L},                                                                \
        INFER__CACHE(f16, [INFER_KV_F16] = {infer__keys_f16_##L, infer__values_f16_##L})                               \
        INFER__CACHE(bf16, [INFER_KV_BF16] = {infer__keys_bf16_##L, infer__values_bf16_##L})                           \
        INFER__CACHE(q8_0, [INFER_KV_Q8_0] = {infer__keys_q8_0_##L, infer__values_q8_0_##L})                           \
        INFER__CACHE(q4_0, [INFER_KV_Q4_0] = {infer__keys_q4_0_##L, infer__values_q4_0_##L})                           \
    };

INFER__DEFINE_KV(scalar)
#if defined(INFER__SIMD_AVX2)
INFER__DEFINE_KV(avx2)
#  if defined(INFER__SIMD_AVX512)
INFER__DEFINE_KV(avx512)
#  endif
#endif
#if defined(INFER__SIMD_ARM)
INFER__DEFINE_KV(neon)
#endif
#undef INFER__DEFINE_KV
#undef INFER__DEFINE_KV_KEYS
#undef INFER__DEFINE_KV_VALUES
