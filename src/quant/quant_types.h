/* quant_types.h: storage types: one row each in QUANTS, functions over rows of blocks.
 *
 * Owns:  the table. A type is an id of the file format, a block size, and functions.
 * Rules: everything outside src/quant reaches a type through its row; no code compares names or ids.
 *        decode is exact: it defines what the stored bytes mean, in float32.
 *        unpack gives the same values as small integers and scales, for integer dot products; the dots are written per
 *        instruction set (compute/int8_*.c) and shared by all types. Storable types with
 *        blocks of 32 values or more have it.
 */
#ifndef INFER__QUANT_TYPES_H
#define INFER__QUANT_TYPES_H

#include "../base/base.h"

enum {
    INFER__CHUNK = 256, /* values of a row that are unpacked at once: the longest block */
    INFER__GROUP = 16   /* rows that are unpacked together: the lanes of a dot product */
};

/* Memory that is read soon: lines from `at` to `end`. A group of rows is more streams than a CPU follows by itself, so
 * work on a group asks for the next one; a line now and then, for all at once fill the queue of misses. */
typedef struct infer__ahead { const uint8_t *at, *due, *end; uint64_t step; } infer__ahead;

INFER__INLINE void infer__ask(infer__ahead *a) {
    for (a->due += a->step; INFER__CAN_PREFETCH && a->at < a->due; a->at += 64) INFER__PREFETCH_FAR(a->at);
}

/* INFER__CHUNK values of each of INFER__GROUP rows, unpacked:
 *   value = scale[s][row] * (q - offset) (+ min[s][row] when the type has minima), s = k / grain.
 * offset, grain (16 or 32) and has_min are the type's. q is at most 127 for narrow types, 255 for wide ones (offset
 * 128). The order inside a row keeps halves of blocks apart, so that 16 lanes hold four blocks of 32: value k of a row
 * lies at infer__q_index(k). Or codes are tiled, for levels whose dots take that too: value k of row r lies at
 * q[0][k / 4 * 64 + 4 * r + k % 4]. */
typedef struct infer__unpacked {
    uint8_t q[INFER__GROUP][INFER__CHUNK];
    float scale[INFER__CHUNK / 16][INFER__GROUP];
    float min[INFER__CHUNK / 16][INFER__GROUP];
    infer__ahead ahead; /* unpacking asks for some of it sixteen times */
    int32_t tiled;      /* codes are: set by functions that do that, 0 before */
    char pad[INFER__ALIGN - sizeof(infer__ahead) - sizeof(int32_t)];
} infer__unpacked;
/* Of every 128 values: the first halves of the four blocks of 32, then the second halves. */
INFER__INLINE int infer__q_index(int k) { return (k & ~127) + (k & 16) * 4 + (k >> 5 & 3) * 16 + (k & 15); }

/* Unpack n_blocks * 32 values (at most INFER__CHUNK, a multiple of the type's block) of INFER__GROUP rows, row_bytes
 * apart. May read INFER__OVERREAD bytes past the end of a row's blocks. Values beyond n_blocks in `out` may
 * change. */
enum { INFER__OVERREAD = 64 };
typedef void (*infer__unpack_fn)(const uint8_t *src, uint64_t row_bytes, int n_blocks, infer__unpacked *out);

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
    /* For integer dot products: the plain C form, that every faster one equals; NULL: the type has none. */
    infer__unpack_fn unpack;
    int32_t grain;        /* values per scale: 16 or 32 */
    int32_t offset;       /* subtracted from q; 128: q is wide */
    int32_t has_min;
    int32_t largest;      /* q at most: 15 of 4 bits; sums of small ones stay in 16 bits for longer */
    /* float32 -> blocks with the least error (encode.c), importance: as many floats or NULL. NULL = plain types, and
     * what is not written */
    void (*search)(const float *src, const float *importance, void *dst, int64_t n);
};

/* A row about a type, in tables of types, with its comma. INFER_ONLY_QUANTS leaves out all but those that are listed
 * (by INFER_QUANT_NAME, defined as 1 or nothing), and with their rows the compiler leaves out their functions. Rows
 * without it are always there: plain types that weights have, and those of caches. */
#if defined(INFER_ONLY_QUANTS)
#  define INFER__QUANT(name, ...) INFER__IF(INFER_QUANT_##name, {__VA_ARGS__},)
#else
#  define INFER__QUANT(name, ...) {__VA_ARGS__},
#endif

/* Row of a type id, or NULL. *removed (may be NULL) tells that the id was a type once: its name, else NULL. */
static const infer__quant *infer__quant_find(int32_t id, const char **removed);
static const infer__quant *infer__quant_named(const char *name); /* "q4_k" is Q4_K; NULL = none */
/* The index-th row, NULL past the end. */
static const infer__quant *infer__quant_row(int32_t index);
/* Its index; there are at most INFER__QUANTS_MAX. */
static int32_t infer__quant_index(const infer__quant *q);
enum { INFER__QUANTS_MAX = 48 };
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

/* For quant_*.c: infer__NAME_row(const uint8_t *block, int k, uint8_t *q, float *scale, float *min) unpacks one block
 * whose first value is value k (a multiple of 32) of a chunk: 16 values at a time to q + infer__q_index(..), scales and
 * minima to scale[INFER__GROUP * (k / grain)] .. and min likewise. It becomes the `unpack` of a row. */
#define INFER__UNPACK_BLOCKS(name, values, bytes) \
    static void infer__##name##_unpack(const uint8_t *src, uint64_t row_bytes, int n_blocks, infer__unpacked *out) { \
        int r, k; \
        for (r = 0; r < INFER__GROUP; r++, src += row_bytes) { \
            const uint8_t *block = src; \
            for (k = 0; k < 32 * n_blocks; k += (values), block += (bytes)) \
                infer__##name##_row(block, k, out->q[r], &out->scale[0][r], &out->min[0][r]); \
        } \
    }

/* For unpack functions, where bits are not where a loop of 16 bytes, which compilers make vectors of, can take them:
 * eight codes as the bytes of an integer, the first lowest. */
#define INFER__BYTES(v) (0x0101010101010101u * (uint64_t)(v)) /* v in every byte */

INFER__INLINE void infer__store_bytes(uint64_t v, uint8_t *q) {
    int j;
    if (!INFER__BIG_ENDIAN) memcpy(q, &v, 8);
    else for (j = 0; j < 8; j++) q[j] = (uint8_t)(v >> 8 * j);
}

/* Bit j of seven to bit 0 of byte j. The copies, 7 bits apart, do not touch each other. */
INFER__INLINE uint64_t infer__spread_7(uint32_t bits) { return bits * 0x0002040810204081u & INFER__BYTES(1); }

/* Bit j of the lowest eight to bit 0 of byte j. */
INFER__INLINE uint64_t infer__spread_8(uint32_t bits) {
    return ((bits & 127) * 0x0002040810204081u | (uint64_t)(bits & 255) << 49) & INFER__BYTES(1);
}
#endif
