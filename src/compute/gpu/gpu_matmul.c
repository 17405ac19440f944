/* gpu_matmul.c: ops on GPUs: products with matrices of the file. Those of experts are in gpu_moe.c.
 *
 * Owns:  which kernel a product uses, and which ops are fused with it.
 * Rules: a product has one of these forms: few rows of x quantised to 8 bits (types with Q_DOT), few rows as float for
 *        types of single values, up to 64 rows of either on tensor cores, more as halves on tensor cores, or as float
 *        with unpacked blocks: the definition, used when exact and for whatever the other forms do not support. Ops
 *        that cannot be fused in a form are run separately, so every combination works.
 * Start: infer__gpu_matmul.
 */
#include "gpu.h"

#ifndef INFER_NO_GPU

static void infer__gpu_norm(infer__ctx *c, const infer__norm_args *a);
static void infer__gpu_act(infer__ctx *c, const infer__act_args *a);
static void infer__gpu_add(infer__ctx *c, const infer__add_args *a);

enum { /* how a matrix is multiplied */
    INFER__GPU_BLOCKS, /* x float, matvec and matmul */
    INFER__GPU_FLOATS, /* x float, mv: single values */
    INFER__GPU_DOTS,   /* x quantised, mv */
    INFER__GPU_TILES,  /* x quantised or as halves, few rows: tensor cores */
    INFER__GPU_MMA,    /* x as halves, mma: tensor cores */
    INFER__GPU_WGMMA,  /* the same by wgmma */
    INFER__GPU_MATRIX  /* x as halves: AMD's matrix units, tensor cores of 7.5 */
};
enum { INFER__GPU_BF16 = 30 }; /* id of the storage type */
enum { /* flags of the kernels mv: kernels/matvec.k */
    INFER__GPU_MV_BIAS = 1, /* and 2, 4 */
    INFER__GPU_MV_PAIR = 8,
    INFER__GPU_MV_ALONE = 16,
    INFER__GPU_MV_ADD = 32,
    INFER__GPU_MV_WIDE = 64
};

/* ---- x quantised to 8 bits -------------------------------------------------------------------------------------- */

/* 1 when rows of x can be quantised for this matrix. */
static int infer__gpu_dots(const infer__ctx *c, const infer__weight *w, int32_t rows) {
    int32_t module = infer__gpu_module(INFER__MODULE_TYPE, w->type->id);
    if (c->exact || w->cols % 32 != 0 || w->offset % 16 != 0) return 0; /* q_piece reads up to 16 bytes at once */
    if ((uint64_t)rows * (uint64_t)(w->cols / 32) * 40 > c->run->x8.bytes) return 0;
    return module >= 0 && infer__module_at(module)->dots;
}

/* Set up a launch that converts x into the run's scratch: its buffers; returns the offset of x. */
static uint32_t infer__gpu_from_x(infer__ctx *c, const infer__tensor *x, infer__gpu_call *call) {
    memset(call, 0, sizeof *call);
    call->bufs[1] = c->run->x8.handle;
    return infer__gpu_tensor(c, x, &call->bufs[0]);
}

/* tiles: 0 = row after row. */
static void infer__gpu_round(infer__ctx *c, const infer__tensor *x, uint32_t tiles) {
    infer__gpu_call call;
    struct infer__k_round8 k;
    memset(&k, 0, sizeof k);
    k.x = infer__gpu_from_x(c, x, &call);
    k.x_stride = (uint32_t)x->stride;
    k.cols = (uint32_t)x->cols;
    k.rows = (uint32_t)x->rows;
    k.parts = (uint32_t)infer__gpu_parts(k.cols, 512);
    k.tiles = tiles;
    INFER__GPU_LAUNCH(c, INFER__K_ROUND8, &call, (uint64_t)(tiles ? 8 * tiles : k.rows) * k.parts, 1, k);
}

/* The norm, quantised; the norm itself is not written. */
static void infer__gpu_norm_round(infer__ctx *c, const infer__norm_args *a, uint32_t tiles) {
    infer__gpu_call call;
    struct infer__k_norm8 k;
    memset(&k, 0, sizeof k);
    k.x = infer__gpu_from_x(c, &a->x, &call);
    call.bufs[2] = call.bufs[3] = call.bufs[0]; /* any buffer will do where there are no weights */
    k.weight = infer__gpu_vector(c, a->weight, &call.bufs[2]);
    k.bias = infer__gpu_vector(c, a->bias, &call.bufs[3]);
    k.x_stride = (uint32_t)a->x.stride;
    k.n = (uint32_t)a->x.cols;
    k.rows = (uint32_t)a->x.rows;
    k.layer = a->kind == INFER__NORM_LAYER;
    k.has_weight = a->weight != NULL;
    k.has_bias = a->bias != NULL;
    k.eps = a->eps;
    k.tiles = tiles;
    INFER__GPU_LAUNCH(c, INFER__K_NORM8, &call, tiles ? 8 * (uint64_t)tiles : k.rows, 1, k);
}

/* ---- tensor cores ------------------------------------------------------------------------------------------------ */

/* Values from row to row of x as halves: whole tiles. */
static uint64_t infer__gpu_half_step(int32_t cols) { return infer__gpu_parts((uint64_t)cols, 64) * 64; }

/* The same of lines: whole periods of kernels/special/cuda_weights.k. */
static uint64_t infer__gpu_line_step(int32_t cols) { return infer__gpu_parts((uint64_t)cols, 256) * 256; }

/* 1 when there is a program for this matrix, and room for x. Its bytes are loaded 16 at a time, and single values must
 * be aligned to that. */
static int infer__gpu_has_mma(const infer__ctx *c, const infer__weight *w, int32_t rows) {
    uint64_t bytes = (uint64_t)rows * (infer__gpu_line_step(w->cols) * 2 + sizeof(float));
    if (bytes / sizeof(float) > UINT32_MAX) return 0; /* the kernels count words in 32 bits */
    if (w->offset % 16 != 0 || (w->type->values == 1 && w->row_bytes % 16 != 0)) return 0;
    return !c->exact && bytes <= c->run->x8.bytes && infer__gpu_find(c->run, INFER__MODULE_MMA, w->type->id);
}
static int infer__gpu_has_wgmma(const infer__ctx *c, const infer__weight *w, int32_t rows) {
    return infer__gpu_has_mma(c, w, rows) && infer__gpu_find(c->run, INFER__MODULE_WGMMA, w->type->id);
}

/* The kernel that multiplies this matrix, or those of experts, by kernels/special/matrix_tile.k: AMD's matrix units or
 * tensor cores of capability 7.5; -1: none. They read weights as the generic kernels do. */
static int32_t infer__gpu_matrix_kernel(const infer__ctx *c, const infer__weight *w, int32_t rows, int experts) {
    uint64_t bytes = (uint64_t)rows * (infer__gpu_half_step(w->cols) * 2 + sizeof(float));
    if (c->exact || bytes / sizeof(float) > UINT32_MAX || bytes > c->run->x8.bytes) return -1;
    if (infer__gpu_find(c->run, INFER__MODULE_MATRIX, w->type->id))
        return experts ? INFER__K_MATRIX_MOE : INFER__K_MATRIX;
    if (infer__gpu_find(c->run, INFER__MODULE_TURING, w->type->id))
        return experts ? INFER__K_TURING_MOE : INFER__K_TURING;
    return -1;
}

enum { INFER__GPU_COUNTS = 1024 }; /* zeroed counters after the lines and their factors, if there is room: a word per
                                    * tile */

/* Where they begin, in words; 0: there is no room. */
static uint64_t infer__gpu_counts(const infer__ctx *c, int32_t rows, int32_t cols) {
    uint64_t at = (uint64_t)rows * (infer__gpu_line_step(cols) / 2 + 1);
    return (at + INFER__GPU_COUNTS) * sizeof(float) <= c->run->x8.bytes ? at : 0;
}

static void infer__gpu_lines(infer__ctx *c, const infer__tensor *x, int bf16) {
    infer__gpu_call call;
    struct infer__k_lines k;
    memset(&k, 0, sizeof k);
    k.x = infer__gpu_from_x(c, x, &call);
    k.x_stride = (uint32_t)x->stride;
    k.cols = (uint32_t)x->cols;
    k.step = (uint32_t)infer__gpu_line_step(x->cols);
    k.rows = (uint32_t)x->rows;
    k.bf16 = (uint32_t)bf16;
    k.zero = (uint32_t)infer__gpu_counts(c, x->rows, x->cols);
    if (k.zero) k.zeros = INFER__GPU_COUNTS;
    for (k.team = 32; k.team < 256 && 16 * k.team < k.cols; k.team *= 2) {} /* short rows: several for 256 work-items */
    INFER__GPU_LAUNCH(c, INFER__K_LINES, &call, infer__gpu_parts(k.rows, 256 / k.team), 1, k);
}

/* bf16: matrices of BF16 are multiplied as such. parts: halves to a value; more than one for up to 8 rows. */
static void infer__gpu_halve(infer__ctx *c, const infer__tensor *x, int bf16, uint32_t parts) {
    infer__gpu_call call;
    struct infer__k_halve k;
    memset(&k, 0, sizeof k);
    k.x = infer__gpu_from_x(c, x, &call);
    k.x_stride = (uint32_t)x->stride;
    k.cols = (uint32_t)x->cols;
    k.step = (uint32_t)infer__gpu_half_step(x->cols);
    k.rows = parts > 1 ? 8 * parts : (uint32_t)x->rows;
    k.bf16 = (uint32_t)bf16;
    k.parts = parts;
    INFER__GPU_LAUNCH(c, INFER__K_HALVE, &call, (uint64_t)x->rows, 1, k);
}

/* ---- tensor cores, up to 64 rows of x ---------------------------------------------------------------------------- */

enum { INFER__GPU_TILES_MOST = 64 }; /* rows of x */

/* Number of halves per value of x: with up to 8 rows, as exact as floats in products with single values. */
static uint32_t infer__gpu_tile_parts(const infer__weight *w, int32_t rows) {
    return rows > 8 ? 1 : w->type->id == INFER__GPU_BF16 ? 3 : 2;
}

/* Rows of memory that x takes as halves. */
static uint64_t infer__gpu_tile_lines(const infer__weight *w, int32_t rows) {
    uint32_t parts = infer__gpu_tile_parts(w, rows);
    return parts > 1 ? 8 * parts : (uint64_t)rows;
}

/* Number of tiles of 8 rows of x in the kernel for that many rows, 0 when there is none for this matrix, or no room for
 * x: quantised to 8 bits, 64 columns of a tile take 128 words of values and 48 of scales and sums. */
static uint32_t infer__gpu_tiles(const infer__ctx *c, const infer__weight *w, int32_t rows) {
    uint32_t tiles = rows <= 8 ? 1 : rows <= 16 ? 2 : rows <= 32 ? 4 : 8;
    uint64_t bytes = infer__gpu_parts((uint64_t)w->cols, 64) * tiles * 176 * sizeof(uint32_t);
    if (c->exact || rows < 2 || rows > INFER__GPU_TILES_MOST) return 0;
    if (w->type->values == 1) {
        bytes = infer__gpu_tile_lines(w, rows) * (infer__gpu_half_step(w->cols) * 2 + sizeof(float));
        if (w->offset % 16 != 0 || w->row_bytes % 16 != 0) return 0;
    } else if (!infer__gpu_dots(c, w, rows)) {
        return 0;
    }
    return bytes <= c->run->x8.bytes && infer__gpu_find(c->run, INFER__MODULE_FEW, w->type->id) ? tiles : 0;
}

/* ---- one product ------------------------------------------------------------------------------------------------- */

enum { /* which matrices use thin instead of matmul, whatever the number of rows of x: a row's result is the same in any
        * batch */
       INFER__GPU_THIN_ROWS = 256, /* at most */
       INFER__GPU_THIN_COLS = 1024 /* at least */
};

/* y = x * w^T + b, the definition. matvec and thin have matmul's args; matvec does not use the last one. */
static void infer__gpu_product(infer__ctx *c, const infer__tensor *x, const infer__weight *w, const infer__weight *b,
                               const infer__tensor *y) {
    infer__gpu_call call;
    struct infer__k_matmul k;
    uint64_t n = (uint64_t)x->rows, rows = (uint64_t)w->rows;
    memset(&call, 0, sizeof call);
    memset(&k, 0, sizeof k);
    if (!infer__gpu_matrix(c, w, &call, &k.w_lo, &k.w_hi, &k.row_bytes)) return;
    k.x = infer__gpu_tensor(c, x, &call.bufs[1]);
    k.y = infer__gpu_tensor(c, y, &call.bufs[3]);
    call.bufs[2] = call.bufs[1];
    k.bias = infer__gpu_vector(c, b, &call.bufs[2]);
    k.has_bias = b != NULL;
    k.rows = (uint32_t)rows;
    k.cols = (uint32_t)w->cols;
    k.x_stride = (uint32_t)x->stride;
    k.y_stride = (uint32_t)y->stride;
    k.n = (uint32_t)n;
    if (n <= INFER__GPU_FEW) INFER__GPU_LAUNCH(c, INFER__K_MATVEC, &call, infer__gpu_parts(rows, 4), n, k);
    /* with fewer, half of its tile would be idle */
    else if (n >= 16 && infer__gpu_find(c->run, INFER__MODULE_SIMD, w->type->id))
        INFER__GPU_LAUNCH(c, INFER__K_MATMUL_SIMD, &call, infer__gpu_parts(rows, 64), infer__gpu_parts(n, 32), k);
    else if (rows <= INFER__GPU_THIN_ROWS && k.cols >= INFER__GPU_THIN_COLS)
        INFER__GPU_LAUNCH(c, INFER__K_THIN, &call, infer__gpu_parts(rows, 32), infer__gpu_parts(n, 16), k);
    else
        INFER__GPU_LAUNCH(c, INFER__K_MATMUL, &call, infer__gpu_parts(rows, 32), infer__gpu_parts(n, 32), k);
}

/* ---- up to three matrices in a launch ------------------------------------------------------------------------ */

/* Up to three matrices of one type and form. */
typedef struct infer__gpu_group {
    int32_t n, form;
    const infer__weight *w[3], *b[3];
    const infer__tensor *y[3];
    uint32_t flags, kind;
    float scale;
} infer__gpu_group;

/* 1 when matrix and x can be read four values at once. */
static int infer__gpu_wide(const infer__tensor *x, const infer__weight *w) {
    return w->cols % 4 == 0 && w->offset % 16 == 0 && w->row_bytes % 16 == 0 && x->offset % 16 == 0 &&
           x->stride % 4 == 0;
}

/* The fields that the kernels mv and mma share, one matrix after the other: `tile` rows a group. Returns the groups, 0
 * when the kernels cannot take them. */
static uint64_t infer__gpu_group_args(infer__ctx *c, const infer__gpu_group *f, uint32_t tile, infer__gpu_call *call,
                                      struct infer__k_mv *k) {
    uint32_t *const lo[3] = {&k->w0_lo, &k->w1_lo, &k->w2_lo}, *const hi[3] = {&k->w0_hi, &k->w1_hi, &k->w2_hi};
    uint32_t *const rows[3] = {&k->rows0, &k->rows1, &k->rows2}, *const bias[3] = {&k->b0, &k->b1, &k->b2};
    uint32_t *const y[3] = {&k->y0, &k->y1, &k->y2};
    uint32_t *const stride[3] = {&k->y0_stride, &k->y1_stride, &k->y2_stride};
    uint64_t w_buf[3] = {0, 0, 0}, groups = 0;
    int32_t j;
    k->flags = f->flags;
    k->kind = f->kind;
    k->scale = f->scale;
    k->cols = (uint32_t)f->w[0]->cols;
    k->start1 = k->start2 = UINT32_MAX;
    for (j = 0; j < f->n; j++) {
        if (!infer__gpu_matrix(c, f->w[j], call, lo[j], hi[j], &k->row_bytes)) return 0;
        w_buf[j] = call->bufs[0];
        *rows[j] = (uint32_t)f->w[j]->rows;
        if (j == 1) k->start1 = (uint32_t)groups;
        if (j == 2) k->start2 = (uint32_t)groups;
        if (j == 0 || !(f->flags & INFER__GPU_MV_PAIR)) groups += infer__gpu_parts(*rows[j], tile);
        call->bufs[4 + j] = c->run->pass.handle; /* any buffer will do where there is no bias */
        *bias[j] = infer__gpu_vector(c, f->b[j], &call->bufs[4 + j]);
        if (f->b[j]) k->flags |= (uint32_t)INFER__GPU_MV_BIAS << j;
        *y[j] = infer__gpu_tensor(c, f->y[j], &call->bufs[7 + j]);
        *stride[j] = (uint32_t)f->y[j]->stride;
    }
    for (j = 0; j < 3; j++) {
        int32_t i = j < f->n ? j : 0;
        call->bufs[j] = w_buf[i];
        call->bufs[4 + j] = call->bufs[4 + i];
        call->bufs[7 + j] = call->bufs[7 + i];
    }
    return groups;
}

static void infer__gpu_few_launch(infer__ctx *c, const infer__tensor *x, const infer__gpu_group *f) {
    infer__gpu_call call;
    struct infer__k_mv k;
    uint64_t groups;
    int32_t j, kernel = x->rows == 1 ? INFER__K_MV1 : x->rows <= 4 ? INFER__K_MV4 : INFER__K_MV8;
    memset(&call, 0, sizeof call);
    memset(&k, 0, sizeof k);
    groups = infer__gpu_group_args(c, f, 4, &call, &k);
    if (!infer__ok(c)) return;
    k.n = (uint32_t)x->rows;
    if (f->form == INFER__GPU_DOTS) {
        call.bufs[3] = c->run->x8.handle;
        k.x_step = k.cols / 4;
        k.meta = k.n * k.x_step;
    } else {
        k.x = infer__gpu_tensor(c, x, &call.bufs[3]);
        k.x_step = (uint32_t)x->stride;
        k.flags |= INFER__GPU_MV_WIDE;
        for (j = 0; j < f->n; j++)
            if (!infer__gpu_wide(x, f->w[j])) k.flags &= ~(uint32_t)INFER__GPU_MV_WIDE;
    }
    INFER__GPU_LAUNCH(c, kernel, &call, groups, 1, k);
}

/* Two groups per processor iterate over tiles of 16 rows of W. */
static void infer__gpu_tiles_launch(infer__ctx *c, const infer__tensor *x, const infer__gpu_group *f) {
    infer__gpu_call call;
    struct infer__k_mv k;
    struct infer__k_few few;
    uint64_t groups, pairs = infer__gpu_parts((uint64_t)x->cols, 64), step = infer__gpu_half_step(x->cols);
    uint32_t tiles = infer__gpu_tiles(c, f->w[0], x->rows);
    memset(&call, 0, sizeof call);
    memset(&k, 0, sizeof k);
    memset(&few, 0, sizeof few);
    groups = infer__gpu_group_args(c, f, 16, &call, &k);
    if (!infer__ok(c)) return;
    call.bufs[3] = c->run->x8.handle;
    memcpy(&few, &k, offsetof(struct infer__k_few, scales)); /* they begin alike */
    if (f->w[0]->type->values == 1) {
        few.scales = (uint32_t)(infer__gpu_tile_lines(f->w[0], x->rows) * step / 2);
        few.step = (uint32_t)step;
    } else {
        few.scales = (uint32_t)(pairs * tiles * 128);
        few.step = (uint32_t)(pairs * tiles * 16);
    }
    few.n = (uint32_t)x->rows;
    few.flags = k.flags;
    few.kind = k.kind;
    few.scale = k.scale;
    few.tiles = (uint32_t)groups;
    if (infer__gpu_processors(c) > 0) groups = INFER__MIN(groups, 2 * (uint64_t)infer__gpu_processors(c));
    few.groups = (uint32_t)groups;
    if (tiles == 1) INFER__GPU_LAUNCH(c, INFER__K_FEW8, &call, groups, 1, few);
    else if (tiles == 2) INFER__GPU_LAUNCH(c, INFER__K_FEW16, &call, groups, 1, few);
    else if (tiles == 4) INFER__GPU_LAUNCH(c, INFER__K_FEW32, &call, groups, 1, few);
    else INFER__GPU_LAUNCH(c, INFER__K_FEW64, &call, groups, 1, few);
}

/* The args of mma, wgmma and matrix. Returns the tiles of 128 rows of all matrices; of a pair, of 64 rows of both. */
static uint64_t infer__gpu_mma_args(infer__ctx *c, const infer__tensor *x, const infer__gpu_group *f,
                                    infer__gpu_call *call, struct infer__k_mma *m) {
    struct infer__k_mv k;
    uint64_t tiles;
    memset(call, 0, sizeof *call);
    memset(&k, 0, sizeof k);
    memset(m, 0, sizeof *m);
    tiles = infer__gpu_group_args(c, f, f->flags & INFER__GPU_MV_PAIR ? 64 : 128, call, &k);
    call->bufs[3] = c->run->x8.handle;
    memcpy(m, &k, offsetof(struct infer__k_mma, x_step)); /* they begin alike */
    m->x_step = m->n = (uint32_t)x->rows; /* lines from 64 columns to the next */
    m->factors = (uint32_t)((uint64_t)x->rows * infer__gpu_line_step(x->cols) / 2);
    m->flags = k.flags;
    m->kind = k.kind;
    m->scale = k.scale;
    m->parts = 1;
    return tiles;
}

/* Narrow tiles where wide ones would leave processors idle. */
static void infer__gpu_mma_launch(infer__ctx *c, const infer__tensor *x, const infer__gpu_group *f) {
    infer__gpu_call call;
    struct infer__k_mma m;
    uint64_t tiles = infer__gpu_mma_args(c, x, f, &call, &m);
    int wide = tiles * infer__gpu_parts(m.n, 128) >= c->run->mma_wide;
    if (!infer__ok(c)) return;
    INFER__GPU_LAUNCH(c, wide ? INFER__K_MMA128 : INFER__K_MMA64, &call, tiles, infer__gpu_parts(m.n, wide ? 128 : 64), m);
}

/* Words from row to row of x as halves, and where the factors begin. */
static uint32_t infer__gpu_half_words(const infer__tensor *x, uint32_t *factors) {
    uint64_t words = infer__gpu_half_step(x->cols) / 2;
    *factors = (uint32_t)((uint64_t)x->rows * words);
    return (uint32_t)words;
}

static void infer__gpu_matrix_launch(infer__ctx *c, const infer__tensor *x, const infer__gpu_group *f) {
    infer__gpu_call call;
    struct infer__k_mma m;
    uint64_t tiles = infer__gpu_mma_args(c, x, f, &call, &m);
    if (!infer__ok(c)) return;
    m.x_step = infer__gpu_half_words(x, &m.factors);
    INFER__GPU_LAUNCH(c, infer__gpu_matrix_kernel(c, f->w[0], x->rows, 0), &call, tiles, infer__gpu_parts(m.n, 64), m);
}

/* How a wgmma product is split: tiles of 256 or 128 rows of x, and the number of parts of their columns. */
typedef struct infer__gpu_cut {
    int wide;
    uint32_t parts;
} infer__gpu_cut;

/* The cost of a split in units of 37.5 ns, measured on an H100: see docs/gpu.md. A wide tile has a processor to itself,
 * two narrow ones share one. */
static uint64_t infer__gpu_cut_cost(const infer__ctx *c, int wide, uint64_t groups, uint64_t steps, int join) {
    uint64_t at_once = c->run->mma_groups * (wide ? 1 : 2), rest = groups % at_once;
    uint64_t full = wide ? 20 * steps + (join ? 440 : 200) : 21 * steps + (join ? 520 : 440);
    uint64_t alone = wide ? full : 12 * steps + (join ? 400 : 340);
    return groups / at_once * full + (rest == 0 ? 0 : rest <= c->run->mma_groups ? alone : full);
}

/* The cheapest; tiles: of rows of W. Parts need room for their sums, and at least two periods of columns. */
static infer__gpu_cut infer__gpu_wgmma_cut(const infer__ctx *c, const infer__tensor *x, uint64_t tiles) {
    uint64_t counts = infer__gpu_counts(c, x->rows, x->cols), periods = infer__gpu_line_step(x->cols) / 256;
    uint64_t least = UINT64_MAX, room = counts ? c->run->x8.bytes / sizeof(float) - counts - INFER__GPU_COUNTS : 0;
    infer__gpu_cut cut = {0, 1};
    int wide, asked = c->run->mma_wide == 0 || c->run->mma_wide == UINT64_MAX;
    for (wide = 0; wide < 2; wide++) {
        uint64_t parts, n = wide ? 256 : 128, all = tiles * infer__gpu_parts((uint64_t)x->rows, n);
        uint64_t most = all > INFER__GPU_COUNTS ? 1 : INFER__MIN(periods / 2, room / (all * 128 * n));
        if (c->run->mma_wide == (wide ? UINT64_MAX : 0)) continue;
        for (parts = 1; parts == 1 || parts <= most; parts++) {
            uint64_t steps = 4 * infer__gpu_parts(periods, parts);
            uint64_t cost = infer__gpu_cut_cost(c, wide, all * parts, steps, parts > 1);
            if (asked) cost = UINT64_MAX - parts;
            if (cost >= least) continue;
            least = cost;
            cut.wide = wide;
            cut.parts = (uint32_t)parts;
        }
    }
    return cut;
}

static void infer__gpu_wgmma_launch(infer__ctx *c, const infer__tensor *x, const infer__gpu_group *f) {
    infer__gpu_call call;
    struct infer__k_mma m;
    uint64_t tiles = infer__gpu_mma_args(c, x, f, &call, &m);
    infer__gpu_cut cut;
    if (!infer__ok(c)) return;
    cut = infer__gpu_wgmma_cut(c, x, tiles);
    m.parts = cut.parts;
    m.counts = (uint32_t)infer__gpu_counts(c, x->rows, x->cols);
    m.sums = m.counts + INFER__GPU_COUNTS;
    INFER__GPU_LAUNCH(c, cut.wide ? INFER__K_WGMMA256 : INFER__K_WGMMA128, &call,
                      infer__gpu_parts(m.n, cut.wide ? 256 : 128) * m.parts, tiles, m);
}

static int infer__gpu_same_tensor(const infer__tensor *a, const infer__tensor *b) {
    return a->buf == b->buf && a->offset == b->offset && a->cols == b->cols && a->stride == b->stride;
}

/* Fuse the ops after the product that the kernels support (mma and matrix no activations, wgmma none followed by a
 * sum): sets *act, *add to NULL. */
static void infer__gpu_follow(infer__gpu_group *f, const infer__matmul_args *a, const infer__act_args **act,
                              const infer__add_args **add) {
    const infer__act_args *t = *act;
    int pair = t && a->n_w == 2;
    if (t && (t->divide || !infer__gpu_same_tensor(&t->x, &a->y[pair]))) return;
    if (t && (f->form == INFER__GPU_MMA || f->form == INFER__GPU_MATRIX)) return;
    if (pair && (f->n != 2 || a->w[0]->rows != a->w[1]->rows || !t->up.buf ||
                 !infer__gpu_same_tensor(&t->up, &a->y[0])))
        return;
    if (t && !pair && (f->n != 1 || a->n_w != 1 || t->up.buf)) return;
    if (t) {
        f->flags |= (uint32_t)(pair ? INFER__GPU_MV_PAIR : INFER__GPU_MV_ALONE);
        f->kind = (uint32_t)t->kind;
        f->y[0] = &t->y;
        *act = NULL;
    }
    if (t && f->form == INFER__GPU_WGMMA) return;
    if (*add && a->n_w == 1 && infer__gpu_same_tensor(&(*add)->x, f->y[0])) {
        f->flags |= INFER__GPU_MV_ADD;
        f->scale = (*add)->scale;
        f->y[0] = &(*add)->y;
        *add = NULL;
    }
}

/* Add the matrices from j on that can share the launch: same type and form, not taken yet. */
static void infer__gpu_gather(infer__gpu_group *f, const infer__matmul_args *a, const int32_t *forms, int32_t j,
                              uint32_t *taken) {
    int32_t i;
    memset(f, 0, sizeof *f);
    f->form = forms[j];
    for (i = j; i < a->n_w; i++) {
        if (*taken >> i & 1 || forms[i] != f->form || a->w[i]->type != a->w[j]->type) continue;
        f->w[f->n] = a->w[i];
        f->b[f->n] = a->b[i];
        f->y[f->n++] = &a->y[i];
        *taken |= 1u << i;
    }
}

/* ---- the op -------------------------------------------------------------------------------------------------- */

/* The layout of x in the run's scratch: quantised to 8 bits in rows or tiles, or as one or more halves per value. */
typedef enum infer__gpu_lie {
    INFER__GPU_X_NOT,
    INFER__GPU_X_ROWS,
    INFER__GPU_X_TILES,
    INFER__GPU_X_HALVES, /* and 2 parts */
    INFER__GPU_X_BF16 = INFER__GPU_X_HALVES + 2, /* and 2 and 3 */
    INFER__GPU_X_LINES = INFER__GPU_X_BF16 + 3,
    INFER__GPU_X_LINES_BF16
} infer__gpu_lie;

static int infer__gpu_lies(const infer__weight *w, int32_t form, int32_t rows) {
    int halves = w->type->id == INFER__GPU_BF16 ? INFER__GPU_X_BF16 : INFER__GPU_X_HALVES;
    if (form == INFER__GPU_DOTS) return INFER__GPU_X_ROWS;
    if (form == INFER__GPU_TILES && w->type->values != 1) return INFER__GPU_X_TILES;
    if (form == INFER__GPU_TILES) return halves + (int)infer__gpu_tile_parts(w, rows) - 1;
    if (form == INFER__GPU_MATRIX) return halves;
    if (form != INFER__GPU_MMA && form != INFER__GPU_WGMMA) return INFER__GPU_X_NOT;
    return halves == INFER__GPU_X_BF16 ? INFER__GPU_X_LINES_BF16 : INFER__GPU_X_LINES;
}

/* Choose the form of each matrix; returns 1 when all need x quantised to 8 bits in the same layout. */
static int infer__gpu_forms(const infer__ctx *c, const infer__matmul_args *a, int32_t *forms) {
    int32_t j, first = INFER__GPU_X_NOT, lies, same = 1, few = a->x.rows <= INFER__GPU_FEW;
    for (j = 0; j < a->n_w; j++) {
        forms[j] = INFER__GPU_BLOCKS;
        if (infer__gpu_tiles(c, a->w[j], a->x.rows)) forms[j] = INFER__GPU_TILES;
        else if (few && a->w[j]->type->values == 1) forms[j] = INFER__GPU_FLOATS;
        else if (few && infer__gpu_dots(c, a->w[j], a->x.rows)) forms[j] = INFER__GPU_DOTS;
        else if (!few && infer__gpu_has_wgmma(c, a->w[j], a->x.rows)) forms[j] = INFER__GPU_WGMMA;
        else if (!few && infer__gpu_has_mma(c, a->w[j], a->x.rows)) forms[j] = INFER__GPU_MMA;
        else if (!few && infer__gpu_matrix_kernel(c, a->w[j], a->x.rows, 0) >= 0) forms[j] = INFER__GPU_MATRIX;
        lies = infer__gpu_lies(a->w[j], forms[j], a->x.rows);
        if (j == 0) first = lies;
        same = same && lies == first;
    }
    return same && (first == INFER__GPU_X_ROWS || first == INFER__GPU_X_TILES);
}

static int infer__gpu_one_takes(const infer__ctx *c, const infer__matmul_args *a, const int32_t *forms,
                                const infer__norm_args *norm); /* gpu_one.c */
static void infer__gpu_one_launch(infer__ctx *c, const infer__tensor *x, const infer__norm_args *norm,
                                  int keep, const infer__gpu_group *f, const infer__weight *next);

/* One launch for a group of matrices. *lies: the layout of x in the run's scratch. */
static void infer__gpu_group_run(infer__ctx *c, const infer__tensor *x, const infer__gpu_group *f, int *lies) {
    int wanted = infer__gpu_lies(f->w[0], f->form, x->rows), bf16 = wanted >= INFER__GPU_X_BF16;
    if (wanted != INFER__GPU_X_NOT && *lies != wanted) {
        if (wanted == INFER__GPU_X_ROWS) infer__gpu_round(c, x, 0);
        else if (wanted == INFER__GPU_X_TILES) infer__gpu_round(c, x, infer__gpu_tiles(c, f->w[0], x->rows));
        else if (wanted >= INFER__GPU_X_LINES) infer__gpu_lines(c, x, wanted == INFER__GPU_X_LINES_BF16);
        else infer__gpu_halve(c, x, bf16, (uint32_t)(wanted - (bf16 ? INFER__GPU_X_BF16 : INFER__GPU_X_HALVES)) + 1);
        *lies = wanted;
    }
    if (f->form == INFER__GPU_TILES) infer__gpu_tiles_launch(c, x, f);
    else if (f->form == INFER__GPU_WGMMA) infer__gpu_wgmma_launch(c, x, f);
    else if (f->form == INFER__GPU_MMA) infer__gpu_mma_launch(c, x, f);
    else if (f->form == INFER__GPU_MATRIX) infer__gpu_matrix_launch(c, x, f);
    else infer__gpu_few_launch(c, x, f);
}

static void infer__gpu_matmul(infer__ctx *c, const infer__matmul_args *a) {
    const infer__act_args *act = a->act;
    const infer__add_args *add = a->add;
    uint64_t bytes = 0;
    uint32_t taken = 0;
    int lies = INFER__GPU_X_NOT;
    int32_t forms[3], j, rounded = infer__gpu_forms(c, a, forms);
    int norm_round = a->norm && rounded && a->norm->n_groups == 1 && !a->keep;
    const infer__norm_args *norm = a->norm && a->norm->n_groups == 1 ? a->norm : NULL; /* that can go along */
    int one = infer__gpu_one_takes(c, a, forms, norm);
    double began;
    if (a->norm && !norm_round && !(norm && one)) infer__gpu_norm(c, a->norm);
    began = infer__op_begin(c);
    if (began < 0) return;
    for (j = 0; j < a->n_w; j++) {
        const infer__weight *b = a->b[j];
        INFER__ASSERT(a->w[j]->cols == a->x.cols && a->y[j].cols == a->w[j]->rows && a->y[j].rows == a->x.rows);
        INFER__ASSERT(!b || (int64_t)b->rows * b->cols == a->w[j]->rows || b->type->values != 1);
        if (!infer__vector_ok(c, b, "a bias")) return;
        bytes += (uint64_t)a->w[j]->rows * a->w[j]->row_bytes;
    }
    if (norm_round && !one) {
        lies = infer__gpu_lies(a->w[0], forms[0], a->x.rows);
        infer__gpu_norm_round(c, a->norm, forms[0] == INFER__GPU_TILES ? infer__gpu_tiles(c, a->w[0], a->x.rows) : 0);
    }
    for (j = 0; j < a->n_w && infer__ok(c); j++) {
        infer__gpu_group f;
        if (taken >> j & 1) continue;
        if (forms[j] == INFER__GPU_BLOCKS) {
            infer__gpu_product(c, &a->x, a->w[j], a->b[j], &a->y[j]);
            continue;
        }
        infer__gpu_gather(&f, a, forms, j, &taken);
        infer__gpu_follow(&f, a, &act, &add);
        if (one)
            infer__gpu_one_launch(c, &a->x, norm, a->keep && j == 0, &f, taken + 1 == 1u << a->n_w ? a->next : NULL);
        else infer__gpu_group_run(c, &a->x, &f, &lies);
    }
    infer__gpu_end(c, "matmul", bytes, began);
    if (act) infer__gpu_act(c, act);
    if (add) infer__gpu_add(c, add);
}

#endif
