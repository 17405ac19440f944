/* quant_table.c: QUANTS, one row per storage type, and the lookups over it.
 *
 * Owns:  which type ids exist. A new type is a row here, in INFER__QUANT so that it can be left out, and its functions
 *        in a quant_*.c file.
 * Rules: the id, name and block sizes are the file format's (ggml); ids that ggml withdrew stay known by name, so that
 *        a file that has one gets a message instead of "unknown". search and encode NULL: nothing writes this type yet.
 */
#include "quant_types.h"

#if INFER__HAS_ENCODE
#  define INFER__SEARCH(name) infer__##name##_search
#else
#  define INFER__SEARCH(name) NULL
#endif
/* Blocks are written without searching by callers, merged adapters and caches of the type. */
#if INFER__HAS_ENCODE || INFER__HAS_ADAPTERS || !defined(INFER_ONLY_CACHES)
#  define INFER__ENCODE(name) infer__##name##_encode
#else
#  define INFER__ENCODE(name) (INFER__IF(INFER_CACHE_##name, 1 ||) 0 ? infer__##name##_encode : NULL)
#endif
static const infer__quant infer__quants[] = {
    /* id, name, values, bytes, storable, swap, decode, encode, unpack, grain, offset, has_min, largest, search */
    {0, "F32", 1, 4, 1, 4, infer__plain_f32_decode, infer__plain_f32_encode, NULL, 0, 0, 0, 0, NULL},
    {1, "F16", 1, 2, 1, 2, infer__plain_f16_decode, infer__plain_f16_encode, NULL, 0, 0, 0, 0, NULL},
    {2, "Q4_0", 32, 18, 1, 0, infer__q4_0_decode, INFER__ENCODE(q4_0), infer__q4_0_unpack, 32, 8, 0, 15, INFER__SEARCH(q4_0)},
    INFER__QUANT(Q4_1, 3, "Q4_1", 32, 20, 1, 0, infer__q4_1_decode, infer__q4_1_encode, infer__q4_1_unpack, 32, 0, 1, 15, INFER__SEARCH(q4_1))
    INFER__QUANT(Q5_0, 6, "Q5_0", 32, 22, 1, 0, infer__q5_0_decode, infer__q5_0_encode, infer__q5_0_unpack, 32, 16, 0, 31, INFER__SEARCH(q5_0))
    INFER__QUANT(Q5_1, 7, "Q5_1", 32, 24, 1, 0, infer__q5_1_decode, infer__q5_1_encode, infer__q5_1_unpack, 32, 0, 1, 31, INFER__SEARCH(q5_1))
    {8, "Q8_0", 32, 34, 1, 0, infer__q8_0_decode, INFER__ENCODE(q8_0), infer__q8_0_unpack, 32, 128, 0, 255, INFER__SEARCH(q8_0)},
    INFER__QUANT(Q8_1, 9, "Q8_1", 32, 36, 0, 0, infer__q8_1_decode, NULL, NULL, 0, 0, 0, 0, NULL)
    INFER__QUANT(Q2_K, 10, "Q2_K", 256, 84, 1, 0, infer__q2_k_decode, NULL, infer__q2_k_unpack, 16, 0, 1, 3, INFER__SEARCH(q2_k))
    INFER__QUANT(Q3_K, 11, "Q3_K", 256, 110, 1, 0, infer__q3_k_decode, NULL, infer__q3_k_unpack, 16, 4, 0, 7, INFER__SEARCH(q3_k))
    INFER__QUANT(Q4_K, 12, "Q4_K", 256, 144, 1, 0, infer__q4_k_decode, NULL, infer__q4_k_unpack, 32, 0, 1, 15, INFER__SEARCH(q4_k))
    INFER__QUANT(Q5_K, 13, "Q5_K", 256, 176, 1, 0, infer__q5_k_decode, NULL, infer__q5_k_unpack, 32, 0, 1, 31, INFER__SEARCH(q5_k))
    INFER__QUANT(Q6_K, 14, "Q6_K", 256, 210, 1, 0, infer__q6_k_decode, NULL, infer__q6_k_unpack, 16, 32, 0, 63, INFER__SEARCH(q6_k))
    INFER__QUANT(Q8_K, 15, "Q8_K", 256, 292, 0, 0, infer__q8_k_decode, NULL, NULL, 0, 0, 0, 0, NULL)
    INFER__QUANT(IQ2_XXS, 16, "IQ2_XXS", 256, 66, 1, 0, infer__iq2_xxs_decode, NULL, infer__iq2_xxs_unpack, 32, 43, 0, 86, INFER__SEARCH(iq2_xxs))
    INFER__QUANT(IQ2_XS, 17, "IQ2_XS", 256, 74, 1, 0, infer__iq2_xs_decode, NULL, infer__iq2_xs_unpack, 16, 43, 0, 86, INFER__SEARCH(iq2_xs))
    INFER__QUANT(IQ3_XXS, 18, "IQ3_XXS", 256, 98, 1, 0, infer__iq3_xxs_decode, NULL, infer__iq3_xxs_unpack, 32, 62, 0, 124, INFER__SEARCH(iq3_xxs))
    INFER__QUANT(IQ1_S, 19, "IQ1_S", 256, 50, 1, 0, infer__iq1_s_decode, NULL, infer__iq1_s_unpack, 32, 9, 0, 18, INFER__SEARCH(iq1_s))
    INFER__QUANT(IQ4_NL, 20, "IQ4_NL", 32, 18, 1, 0, infer__iq4_nl_decode, NULL, infer__iq4_nl_unpack, 32, 128, 0, 255, INFER__SEARCH(iq4_nl))
    INFER__QUANT(IQ3_S, 21, "IQ3_S", 256, 110, 1, 0, infer__iq3_s_decode, NULL, infer__iq3_s_unpack, 32, 15, 0, 30, INFER__SEARCH(iq3_s))
    INFER__QUANT(IQ2_S, 22, "IQ2_S", 256, 82, 1, 0, infer__iq2_s_decode, NULL, infer__iq2_s_unpack, 16, 43, 0, 86, INFER__SEARCH(iq2_s))
    INFER__QUANT(IQ4_XS, 23, "IQ4_XS", 256, 136, 1, 0, infer__iq4_xs_decode, NULL, infer__iq4_xs_unpack, 32, 128, 0, 255, INFER__SEARCH(iq4_xs))
    INFER__QUANT(I8, 24, "I8", 1, 1, 1, 1, infer__plain_i8_decode, NULL, NULL, 0, 0, 0, 0, NULL)
    INFER__QUANT(I16, 25, "I16", 1, 2, 1, 2, infer__plain_i16_decode, NULL, NULL, 0, 0, 0, 0, NULL)
    INFER__QUANT(I32, 26, "I32", 1, 4, 1, 4, infer__plain_i32_decode, NULL, NULL, 0, 0, 0, 0, NULL)
    INFER__QUANT(I64, 27, "I64", 1, 8, 1, 8, infer__plain_i64_decode, NULL, NULL, 0, 0, 0, 0, NULL)
    INFER__QUANT(F64, 28, "F64", 1, 8, 1, 8, infer__plain_f64_decode, NULL, NULL, 0, 0, 0, 0, NULL)
    INFER__QUANT(IQ1_M, 29, "IQ1_M", 256, 56, 1, 0, infer__iq1_m_decode, NULL, infer__iq1_m_unpack, 16, 9, 0, 18, INFER__SEARCH(iq1_m))
    {30, "BF16", 1, 2, 1, 2, infer__plain_bf16_decode, infer__plain_bf16_encode, NULL, 0, 0, 0, 0, NULL},
    INFER__QUANT(TQ1_0, 34, "TQ1_0", 256, 54, 1, 0, infer__tq1_0_decode, NULL, infer__tq1_0_unpack, 32, 1, 0, 2, INFER__SEARCH(tq1_0))
    INFER__QUANT(TQ2_0, 35, "TQ2_0", 256, 66, 1, 0, infer__tq2_0_decode, NULL, infer__tq2_0_unpack, 32, 1, 0, 3, INFER__SEARCH(tq2_0))
    INFER__QUANT(MXFP4, 39, "MXFP4", 32, 17, 1, 0, infer__mxfp4_decode, NULL, infer__mxfp4_unpack, 32, 12, 0, 24, INFER__SEARCH(mxfp4))
    INFER__QUANT(NVFP4, 40, "NVFP4", 64, 36, 1, 0, infer__nvfp4_decode, NULL, infer__nvfp4_unpack, 16, 12, 0, 24, INFER__SEARCH(nvfp4))
    INFER__QUANT(Q1_0, 41, "Q1_0", 128, 18, 1, 0, infer__q1_0_decode, NULL, infer__q1_0_unpack, 32, 1, 0, 2, INFER__SEARCH(q1_0))
    INFER__QUANT(Q2_0, 42, "Q2_0", 64, 18, 1, 0, infer__q2_0_decode, NULL, infer__q2_0_unpack, 32, 1, 0, 3, INFER__SEARCH(q2_0))
};

static const struct infer__quant_gone {
    int32_t id;
    const char *name;
} infer__quants_gone[] = {
    {4, "Q4_2"},      {5, "Q4_3"},
    {31, "Q4_0_4_4"}, {32, "Q4_0_4_8"}, {33, "Q4_0_8_8"},
    {36, "IQ4_NL_4_4"}, {37, "IQ4_NL_4_8"}, {38, "IQ4_NL_8_8"},
};

static const infer__quant *infer__quant_row(int32_t index) {
    return index >= 0 && (size_t)index < INFER__COUNT(infer__quants) ? &infer__quants[index] : NULL;
}

static const infer__quant *infer__quant_find(int32_t id, const char **removed) {
    size_t i;
    if (removed) *removed = NULL;
    for (i = 0; i < INFER__COUNT(infer__quants); i++) {
        if (infer__quants[i].id == id) return &infer__quants[i];
    }
    for (i = 0; i < INFER__COUNT(infer__quants_gone); i++) {
        if (removed && infer__quants_gone[i].id == id) *removed = infer__quants_gone[i].name;
    }
    return NULL;
}

static const infer__quant *infer__quant_named(const char *name) {
    size_t i, k;
    for (i = 0; i < INFER__COUNT(infer__quants); i++) {
        const char *s = infer__quants[i].name;
        for (k = 0; s[k] && (name[k] == s[k] || (s[k] >= 'A' && s[k] <= 'Z' && name[k] == s[k] - 'A' + 'a')); k++) {}
        if (!s[k] && !name[k]) return &infer__quants[i];
    }
    return NULL;
}

static int32_t infer__quant_index(const infer__quant *q) { return (int32_t)(q - infer__quants); }

static int infer__quant_bytes(const infer__quant *q, uint64_t n, uint64_t *out) {
    if (n % (uint64_t)q->values != 0) return 0;
    return infer__mul_ok(n / (uint64_t)q->values, (uint64_t)q->bytes, out);
}

#undef INFER__SEARCH
#undef INFER__ENCODE
#undef INFER__DECODE_BLOCKS
#undef INFER__UNPACK_BLOCKS
#undef INFER__BYTES
