/* cpu_int8.h: the integer dot products of the CPU backend: the interface between instruction sets and the engine.
 *
 * Owns:  infer__x8 (activations quantised to 8 bits), infer__int8 (a level's functions), and the arithmetic they share.
 * Arithmetic: activations are quantised to 8 bits with one float32 scale per 32 values. With isum = the exact integer
 *        sum of (q - offset) * x over a grain of 16 or 32 values, a block of 32 values adds to an element of y
 *          t = isum * scale (+ min * xsum),  for a grain of 16 both halves one after the other,
 *          y = t * d + y
 *        block after block in ascending order, where d is the scale of the activations and xsum the sum of their
 *        integers. Integer sums are exact whatever their order, so levels, batches and tilings give the same bits
 *        except for fused multiply-add: on one level a row has the same result alone and in a batch.
 * Rules: a level's functions read infer__unpacked and infer__x8 only and know no storage types, except the GEMV
 *        functions (infer__row_fn, infer__alone_fn).
 * Start: infer__int8, then int8_scalar.c (the definition of a level), then cpu_int8.c (the engine).
 */
#ifndef INFER__CPU_INT8_H
#define INFER__CPU_INT8_H

#include "../cpu/cpu_ops.h"

/* INFER__CHUNK activations of a row: x[k] = d[k / 32] * q[k], |q| <= 127. Sums of q as integers and as floats. */
typedef struct infer__x8 {
    int8_t q[INFER__CHUNK]; /* in natural order */
    float d[INFER__CHUNK / 32];
    int32_t sum32[INFER__CHUNK / 32];
    float fsum32[INFER__CHUNK / 32];
    int32_t sum16[2][INFER__CHUNK / 32]; /* of first halves of blocks, of second halves */
    float fsum16[2][INFER__CHUNK / 32];
    uint8_t pad[32]; /* to 512 bytes: chunks start at cache lines */
} infer__x8;

/* Rows of a weight that are multiplied at once: two groups, so that a broadcast activation is used twice. */
enum { INFER__INT8_GROUPS = 2 };

/* For levels that multiply tiles of columns. */
enum { INFER__TILE_COLS = 16 };
typedef struct infer__tile_scratch {
    infer__x8 x[INFER__TILE_COLS];              /* columns that are not adjacent */
    float y[INFER__TILE_COLS][INFER__GROUP];    /* and some of them */
    int32_t sums[INFER__CHUNK / 32 * INFER__INT8_GROUPS * INFER__TILE_COLS * INFER__GROUP];
} infer__tile_scratch;

typedef struct infer__dots_args {
    const infer__unpacked *w;    /* n_groups, unpacked */
    uint8_t *tile;               /* n_groups * INFER__GROUP * INFER__CHUNK bytes of scratch, 64-byte aligned */
    infer__tile_scratch *scratch; /* 64-byte aligned */
    const infer__quant *type;
    const infer__x8 *x; /* the chunk of column 0; column j is x[cols ? cols[j] : j]; tiles read 15 past the last */
    const int32_t *cols;         /* NULL or n_x */
    int32_t n_groups, n_x, n_blocks;
    float *y;                    /* += : element (column j, row i) is y[j * stride + i]; 64-byte aligned */
    int64_t stride;
    infer__ahead *ahead;         /* with few columns, work on a row asks for some of it */
} infer__dots_args;

INFER__INLINE const infer__x8 *infer__x8_col(const infer__dots_args *a, int32_t j) {
    return a->x + (a->cols ? a->cols[j] : j);
}

/* A faster way for at least `least` columns of types with that grain, with the same results; begin and end enclose
 * calls of dots. */
typedef struct infer__int8_many {
    int32_t least, grain;
    void (*begin)(void);
    void (*dots)(const infer__dots_args *a);
    void (*end)(void);
} infer__int8_many;

typedef struct infer__int8 {
    const char *name;
    uint32_t need;
    /* n (1 .. INFER__CHUNK) values of a row to a chunk: filled up with zeros to a multiple of 32, the rest is left */
    void (*quantise)(const float *x, int32_t n, infer__x8 *out);
    void (*dots)(const infer__dots_args *a);
    const struct infer__one_row *one; /* GEMV for some types; NULL: for none */
    int32_t n_one;
    /* What `one` has of rows: y[r] += t * d over n_chunks chunks of eight rows; t of row r is at t + r * stride. NULL:
     * none. */
    void (*add_rows)(const float *t, int64_t stride, int n_chunks, const infer__x8 *x, int64_t x_step, float *y);
    const infer__int8_many *many; /* or NULL */
    int tiles; /* dots takes codes that are tiled */
} infer__int8;

/* The best row whose needs are covered. */
static const infer__int8 *infer__int8_find(uint32_t cpu);
/* The best unpack function of a type, NULL when it has none. */
static infer__unpack_fn infer__unpack_find(const infer__quant *type, uint32_t cpu);

/* A faster unpack of a type for an instruction set; each file of them ends with a table. */
typedef struct infer__unpack_row { int32_t id; uint32_t need; infer__unpack_fn fn; } infer__unpack_row;

/* dots of a level from infer__dots_body_L(a, grain, has_min), both constants in each of four instances. ON: the level's
 * target attribute. */
#define INFER__DOTS_BY_KIND(L, ON)                                                                                     \
    ON static void infer__dots_32_##L(const infer__dots_args *a) { infer__dots_body_##L(a, 32, 0); }                   \
    ON static void infer__dots_32m_##L(const infer__dots_args *a) { infer__dots_body_##L(a, 32, 1); }                  \
    ON static void infer__dots_16_##L(const infer__dots_args *a) { infer__dots_body_##L(a, 16, 0); }                   \
    ON static void infer__dots_16m_##L(const infer__dots_args *a) { infer__dots_body_##L(a, 16, 1); }                  \
    static void infer__dots_##L(const infer__dots_args *a) {                                                           \
        if (a->type->grain == 32) (a->type->has_min ? infer__dots_32m_##L : infer__dots_32_##L)(a);                    \
        else (a->type->has_min ? infer__dots_16m_##L : infer__dots_16_##L)(a);                                         \
    }

/* GEMV: a chunk of INFER__GROUP rows in the file's layout times one column: y[row] += ..., with the bits of unpack and
 * dots. May read as far as unpack; w is scratch, except for its prefetch fields. upcoming: the chunk of as many rows
 * that comes next, to be brought into the L1 cache (ARM leaves that out). */
typedef void (*infer__alone_fn)(const uint8_t *src, uint64_t row_bytes, const uint8_t *upcoming, const infer__x8 *x,
                                infer__unpacked *w, float *y);

/* GEMV row by row: t of n_chunks chunks of one row in the file's layout, INFER__CHUNK / 32 of each chunk; columns of x
 * are x_step apart from chunk to chunk. Whole chunks only, and nothing beyond is read. Memory is read as one stream. */
typedef void (*infer__row_fn)(const uint8_t *p, int n_chunks, const infer__x8 *x, int64_t x_step, float *t);

/* A type's GEMV on a level, or both, of which `row` is taken for long rows. */
typedef struct infer__one_row { int32_t id; infer__alone_fn alone; infer__row_fn row; } infer__one_row;

enum { INFER__ROW_AHEAD = 8192 }; /* bytes to prefetch ahead */

/* Quantise a block of 32 (or the first n of it, then zeros) to q = x / d, d = max |x| / 127, ties to even. A block with
 * a non-finite value gets a non-finite d, which propagates to every sum. */
INFER__INLINE void infer__x8_block(const float *x, int n, int i, infer__x8 *out) {
    uint32_t max = 0;
    float d, inverse;
    int8_t *q = out->q + 32 * i;
    int k, half;
    for (k = 0; k < n; k++) { /* as integers: magnitudes compare alike, and NaN is the largest */
        uint32_t bits = infer__f32_bits(x[k]) & 0x7fffffffu;
        max = bits > max ? bits : max;
    }
    d = infer__bits_f32(max) / 127.0f;
    inverse = max >= 0x7f800000u || max < 0x0d000000u ? 0.0f : 127.0f / infer__bits_f32(max); /* below 2^-101: zeros */
    if (max < 0x0d000000u) d = 0.0f;
    for (half = 0; half < 2; half++) {
        int sum = 0;
        for (k = 16 * half; k < 16 * half + 16; k++) {
            float v = k < n && inverse > 0.0f ? x[k] * inverse : 0.0f;
            int r;
            INFER__ROUNDED(v);
            r = (int)(infer__f32_bits(v + 12582912.0f) - 0x4b400000u); /* the bits of v + 1.5 * 2^23 hold v rounded */
            q[k] = (int8_t)r;
            sum += r;
        }
        out->sum16[half][i] = sum;
        out->fsum16[half][i] = (float)sum;
    }
    out->d[i] = d;
    out->sum32[i] = out->sum16[0][i] + out->sum16[1][i];
    out->fsum32[i] = (float)out->sum32[i];
}
#endif
