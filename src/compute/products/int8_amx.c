/* int8_amx.c: integer dot products with AMX, for many columns: 16 rows of a weight by 16 columns are a tile.
 *
 * Owns:  the amxint8 row of INT8, which is avx512vnni except for many columns of types with a grain of 32.
 * How:   the integer sums of a block of 32 values of 16 x 16 elements are one product of tiles, followed by the float
 *        arithmetic of int8_avx512.c, so the results are the same bit for bit. Transposed codes are tiles already, and
 *        so are quantised activations.
 * Numbers: while tile instructions are under way, 512-bit arithmetic runs at half its rate: so first all products of 16
 *        columns and 32 rows, then all floats. A tile is stored three products after its own, to avoid a stall. Of
 *        avx512vnni's speed on an Emerald Rapids, 512 columns: Q4_0 1.4, Q4_K 1.3; a grain of 16, whose products fill
 *        half of a tile, 1.0. Slower: 64 rows, floats and products side by side, columns copied next to each other.
 * Start: infer__dots_amxint8.
 */
#include "amx.h"
#include "cpu_int8.h"

#if defined(INFER__AMX)

enum {
    INFER__AMX_LEAST = 28, /* columns that are worth tiles */
    INFER__AMX_REST = 4   /* and those that are left after whole tiles */
};

/* Products of block b (a constant: registers are part of instructions) for two groups of rows; the following columns
 * are prefetched. */
#  define INFER__AMX_PRODUCT(i, b, g)                                              \
    INFER__TILE_LOAD(6 + (g), codes + 512 * (b) + GROUP * (g), 64);                \
    INFER__TILE_ZERO((i) % 4);                                                     \
    INFER__TILE_DOT8((i) % 4, 4 + (b) % 2, 6 + (g));                               \
    if ((i) >= 3) INFER__TILE_STORE(((i) + 1) % 4, sums + ((i) + 13) % 16 * 256, 64);
#  define INFER__AMX_BLOCK(b)                                                      \
    INFER__PREFETCH(x + 16 + 2 * (b));                                             \
    INFER__PREFETCH(x + 17 + 2 * (b));                                             \
    INFER__TILE_LOAD(4 + (b) % 2, x->q + 32 * (b), (int64_t)sizeof *x);            \
    INFER__AMX_PRODUCT(2 * (b), b, 0)                                              \
    INFER__AMX_PRODUCT(2 * (b) + 1, b, 1)

/* Element (column j, row r) of block b and group g to sums[512 b + 256 g + 16 j + r]. */
INFER__INLINE void infer__amx_products(const infer__x8 *x, const uint8_t *codes, int32_t *sums) {
    enum { GROUP = INFER__GROUP * INFER__CHUNK };
    INFER__AMX_BLOCK(0) INFER__AMX_BLOCK(1) INFER__AMX_BLOCK(2) INFER__AMX_BLOCK(3)
    INFER__AMX_BLOCK(4) INFER__AMX_BLOCK(5) INFER__AMX_BLOCK(6) INFER__AMX_BLOCK(7)
    INFER__TILE_STORE(1, sums + 13 * 256, 64);
    INFER__TILE_STORE(2, sums + 14 * 256, 64);
    INFER__TILE_STORE(3, sums + 15 * 256, 64);
}
#  undef INFER__AMX_BLOCK
#  undef INFER__AMX_PRODUCT

/* The float arithmetic of a group. */
INFER__ON_avx512 INFER__INLINE void infer__amx_floats(const infer__unpacked *w, const infer__x8 *x, const int32_t *sums,
                                                      int n_blocks, int has_min, float *y, int64_t stride) {
    __m512 acc[INFER__TILE_COLS], t;
    int b, j;
    INFER__UNROLL for (j = 0; j < INFER__TILE_COLS; j++) acc[j] = _mm512_load_ps(y + j * stride);
    for (b = 0; b < n_blocks; b++)
        INFER__UNROLL for (j = 0; j < INFER__TILE_COLS; j++) {
            t = infer__grain_avx512(_mm512_load_si512(sums + 512 * b + 16 * j), w->scale[b], w->min[b], x[j].fsum32[b],
                                    has_min, _mm512_setzero_ps(), 1);
            acc[j] = _mm512_fmadd_ps(t, _mm512_set1_ps(x[j].d[b]), acc[j]);
        }
    INFER__UNROLL for (j = 0; j < INFER__TILE_COLS; j++) _mm512_store_ps(y + j * stride, acc[j]);
}

/* All columns, for types with minima and without. */
INFER__ON_avx512 INFER__INLINE void infer__dots_body_amxint8(const infer__dots_args *a, int has_min) {
    infer__tile_scratch *s = a->scratch;
    infer__dots_args rest = *a;
    int32_t j, i, g, m;
    for (g = 0; g < a->n_groups; g++)
        infer__put_tile_avx512(a->w + g, a->n_blocks, a->type->offset, a->tile + g * INFER__GROUP * INFER__CHUNK);
    for (j = 0; j + INFER__AMX_REST <= a->n_x; j += m) {
        const infer__x8 *x = infer__x8_col(a, j);
        m = INFER__MIN(a->n_x - j, INFER__TILE_COLS);
        if (a->cols) { /* columns that are not adjacent */
            for (i = 0; i < m; i++) s->x[i] = *infer__x8_col(a, j + i);
            x = s->x;
        }
        infer__amx_products(x, a->tile, s->sums); /* sums of missing groups and columns are ignored */
        for (g = 0; g < a->n_groups; g++) {
            float *y = a->y + j * a->stride + g * INFER__GROUP;
            for (i = 0; i < m && m < INFER__TILE_COLS; i++) memcpy(s->y[i], y + i * a->stride, sizeof s->y[i]);
            infer__amx_floats(a->w + g, x, s->sums + 256 * g, a->n_blocks, has_min, m < INFER__TILE_COLS ? s->y[0] : y,
                              m < INFER__TILE_COLS ? INFER__GROUP : a->stride);
            for (i = 0; i < m && m < INFER__TILE_COLS; i++) memcpy(y + i * a->stride, s->y[i], sizeof s->y[i]);
        }
    }
    if (j == a->n_x) return;
    rest.n_x = a->n_x - j;
    if (a->cols) rest.cols += j;
    else rest.x += j;
    rest.y += j * a->stride;
    infer__dots_avx512vnni(&rest);
}

INFER__ON_avx512 static void infer__dots_min_amxint8(const infer__dots_args *a) { infer__dots_body_amxint8(a, 1); }
INFER__ON_avx512 static void infer__dots_plain_amxint8(const infer__dots_args *a) { infer__dots_body_amxint8(a, 0); }
static void infer__dots_amxint8(const infer__dots_args *a) {
    (a->type->has_min ? infer__dots_min_amxint8 : infer__dots_plain_amxint8)(a);
}
static void infer__begin_amxint8(void) { infer__tiles_begin(32, 8, 64); }
static void infer__end_amxint8(void) { INFER__TILE_RELEASE(); }

static const infer__int8_many infer__int8_many_amx = {INFER__AMX_LEAST, 32, infer__begin_amxint8, infer__dots_amxint8,
                                                      infer__end_amxint8};
#endif
