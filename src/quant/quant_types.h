/* quant_types.h: storage types: one row each in QUANTS, functions over rows of blocks.
 *
 * Owns:  the table. A type is an id of the file format, a block size, and functions.
 * Rules: everything outside src/quant reaches a type through its row; nobody compares names or ids.
 *        decode is exact: it defines what the stored bytes mean, in float32.
 *        unpack (int8 values plus scales, for integer dot products) is apart from the dots, which are written per
 *        instruction set and shared by all types of one shape.
 */
#ifndef INFER__QUANT_TYPES_H
#define INFER__QUANT_TYPES_H

#include "../base/base.h"

typedef struct infer__quant infer__quant;
struct infer__quant {
    int32_t id;           /* ggml type id in the file */
    const char *name;     /* "Q4_K" */
    int32_t values;       /* per block */
    int32_t bytes;        /* per block */
    int32_t storable;     /* 0: Q8_1, Q8_K, which engines use for activations only */
    int32_t swap;         /* plain types: bytes of one element, for byte order; 0 for blocks */
    /* n values (a multiple of `values`) from blocks at src (any alignment) to float32 */
    void (*decode)(const void *src, float *dst, int64_t n);
    /* float32 -> blocks, round to nearest as the format's reference does; NULL = not yet */
    void (*encode)(const float *src, void *dst, int64_t n);
};

/* Row of a type id, or NULL. *removed (may be NULL) tells that the id was a type once: its name, else NULL. */
static const infer__quant *infer__quant_find(int32_t id, const char **removed);
/* The index-th row, NULL past the end. */
static const infer__quant *infer__quant_row(int32_t index);
/* Bytes of n values: 1 and *out, or 0 when n is no multiple of the block or it overflows. */
static int infer__quant_bytes(const infer__quant *q, uint64_t n, uint64_t *out);
/* The values themselves when they are float32 that this machine can read where they are; NULL = decode them. */
INFER__INLINE const float *infer__quant_in_place(const infer__quant *q, const void *src) {
    return q->id == 0 && !INFER__BIG_ENDIAN && ((uintptr_t)src & 3) == 0 ? (const float *)src : NULL;
}

/* For quant_*.c: a block function infer__NAME_block(const uint8_t *block, float *out), which decodes one block, becomes
 * the `decode` of a row: infer__NAME_decode. The block functions are plain C and inline into any caller. */
#define INFER__DECODE_BLOCKS(name, values, bytes) \
    static void infer__##name##_decode(const void *src, float *dst, int64_t n) { \
        const uint8_t *block = (const uint8_t *)src; \
        for (; n >= (values); n -= (values), block += (bytes), dst += (values)) infer__##name##_block(block, dst); \
    }
#endif
