/* gpu_moe.c: ops on GPUs: mixtures of experts.
 *
 * Owns:  the router's choice, which kernel multiplies experts, and their biases.
 * Rules: more than INFER__GPU_FEW rows are sorted by expert on the device, once for all products with the same choices,
 *        and multiplied by tiles: an expert's rows are read once for 32 pairs of (row, choice), or 64 as halves on
 *        tensor cores, not once per pair. To sum the results of a row's experts, those of all pairs are first stored in
 *        the run's memory: the order of the sum is that of the choices. Few rows are multiplied pair by pair, as plain
 *        products of few rows: x quantised to 8 bits (types with Q_DOT, unless exact), or as float; so are rows for
 *        which that memory is too small, as float. A single row, with the ops after it, is handled by gpu_one.c if
 *        possible.
 * Start: infer__gpu_moe_matmul.
 */
#include "gpu.h"

#ifndef INFER_NO_GPU

enum { /* pairs in a tile */
    INFER__GPU_MOE_TILE = 32, /* of moe_matmul: kernels/matmul.k */
    INFER__GPU_MOE_MMA = 64   /* of mma_moe: MMA_PAIRS in kernels/special/tile_matrices.k. Not less: memory is for 32 */
};

/* ---- memory of the run ------------------------------------------------------------------------------------------- */

/* Tiles of `of` pairs that moe_group makes, at 4 words. */
static uint64_t infer__gpu_moe_tiles(uint64_t pairs, int32_t n_expert, int32_t of) {
    return pairs / (uint64_t)of + (uint64_t)n_expert;
}

static uint64_t infer__gpu_lists_len(uint64_t rows, int32_t n_used, int32_t n_expert) {
    uint64_t pairs = rows * (uint64_t)n_used;
    if (rows <= INFER__GPU_FEW || n_expert == 0) return 0;
    return 4 * infer__gpu_moe_tiles(pairs, n_expert, INFER__GPU_MOE_TILE) + pairs;
}

static uint64_t infer__gpu_pairs_len(uint64_t rows, int32_t n_used, int32_t cols) {
    return rows <= INFER__GPU_FEW ? 0 : rows * (uint64_t)n_used * (uint64_t)cols;
}

/* ---- x, quantised ------------------------------------------------------------------------------------------------ */

/* the format of the input cached in the run's x8 */
enum { INFER__GPU_MOE_X8, INFER__GPU_MOE_LINES, INFER__GPU_MOE_LINES_BF16, INFER__GPU_MOE_HALVES, INFER__GPU_MOE_BF16 };

/* Consecutive products of the same input (gate, up) share one conversion. */
static void infer__gpu_moe_round(infer__ctx *c, const infer__tensor *x, int as) {
    const infer__gpu_rounded *have = &c->run->rounded;
    if (have->x.buf && infer__gpu_same_tensor(&have->x, x) && have->x.rows == x->rows && have->as == as &&
        have->launches == c->launches)
        return;
    if (as == INFER__GPU_MOE_X8) infer__gpu_round(c, x, 0);
    else if (as >= INFER__GPU_MOE_HALVES) infer__gpu_halve(c, x, as == INFER__GPU_MOE_BF16, 1);
    else infer__gpu_lines(c, x, as == INFER__GPU_MOE_LINES_BF16);
}

/* The launches since then have not overwritten the cached conversion. */
static void infer__gpu_moe_rounded(infer__ctx *c, const infer__tensor *x, int as) {
    infer__gpu_rounded *have = &c->run->rounded;
    have->x = *x;
    have->as = as;
    have->launches = c->launches;
}

/* ---- the router's choice ----------------------------------------------------------------------------------------- */

static void infer__gpu_moe_route(infer__ctx *c, const infer__moe_route_args *a) {
    const infer__router *r = a->router;
    infer__gpu_call call;
    struct infer__k_moe_route k;
    double began = infer__op_begin(c);
    if (began < 0) return;
    c->run->listed.ids.buf = NULL;
    if (!infer__vector_ok(c, a->bias, "biases of experts") || !infer__vector_ok(c, a->scales, "scales of experts"))
        return;
    INFER__ASSERT(!a->per_group || (a->groups.buf == a->ids.buf && a->groups.stride == a->ids.stride));
    INFER__ASSERT(r->n_used <= r->n_expert && a->x.cols >= r->n_expert && r->n_group <= INFER__MAX_EXPERT_GROUPS);
    if (r->n_expert > INFER__MAX_EXPERTS) {
        infer__fail(c, INFER_ERR_UNSUPPORTED, "%d experts are too many", (int)r->n_expert);
        return;
    }
    memset(&call, 0, sizeof call);
    memset(&k, 0, sizeof k);
    k.x = infer__gpu_tensor(c, &a->x, &call.bufs[0]);
    k.ids = infer__gpu_tensor(c, &a->ids, &call.bufs[1]);
    k.weights = infer__gpu_tensor(c, &a->weights, &call.bufs[2]);
    call.bufs[3] = call.bufs[4] = call.bufs[5] = call.bufs[0]; /* any valid buffer where there is none */
    call.bufs[6] = c->run->pass.handle;
    if (a->table) {
        if (!infer__gpu_there(c, a->table)) return;
        INFER__ASSERT(a->table->offset % sizeof(int32_t) == 0 && a->table->cols == r->n_used);
        INFER__ASSERT(a->table->offset + (uint64_t)a->table->rows * a->table->row_bytes <= a->table->buf->bytes);
        call.bufs[5] = a->table->buf->handle;
        k.has_table = 1;
        k.table_lo = (uint32_t)a->table->offset;
        k.table_hi = (uint32_t)(a->table->offset >> 32);
    }
    k.bias = infer__gpu_vector(c, a->bias, &call.bufs[3]);
    k.scales = infer__gpu_vector(c, a->scales, &call.bufs[4]);
    k.x_stride = (uint32_t)a->x.stride;
    k.ids_stride = (uint32_t)a->ids.stride;
    k.weights_stride = (uint32_t)a->weights.stride;
    k.n_expert = (uint32_t)r->n_expert;
    k.n_used = (uint32_t)r->n_used;
    k.normalise = (uint32_t)r->normalise;
    k.score = (uint32_t)r->score;
    k.n_group = (uint32_t)r->n_group;
    k.group_used = (uint32_t)r->group_used;
    k.group_best = (uint32_t)r->group_best;
    k.has_bias = a->bias != NULL;
    k.has_scales = a->scales != NULL;
    k.floor = r->floor;
    k.scale = r->scale;
    k.per_group = (uint32_t)a->per_group;
    if (a->per_group) k.groups = infer__gpu_tensor(c, &a->groups, &call.bufs[1]);
    INFER__GPU_LAUNCH(c, INFER__K_MOE_ROUTE, &call, (uint64_t)a->x.rows, 1, k);
    infer__gpu_end(c, "moe_route", 0, began);
}

/* ---- many rows: tiles -------------------------------------------------------------------------------------------- */

/* 1 when the sorted pairs of this product, and its results before the sum, fit the run's memory. */
static int infer__gpu_moe_fits(const infer__ctx *c, const infer__moe_matmul_args *a) {
    uint64_t rows = (uint64_t)a->ids.rows;
    int32_t n_expert = a->w->rows / a->rows;
    return rows > INFER__GPU_FEW && rows * (uint64_t)a->n_used <= INT32_MAX &&
           infer__gpu_moe_tiles(rows * (uint64_t)a->n_used, n_expert, INFER__GPU_MOE_TILE) <= UINT16_MAX &&
           infer__gpu_lists_len(rows, a->n_used, n_expert) * sizeof(uint32_t) <= c->run->lists.bytes &&
           (!a->weights.buf || infer__gpu_pairs_len(rows, a->n_used, a->rows) * sizeof(float) <= c->run->pairs.bytes);
}

/* Make the run's lists for these choices, unless they are current. Returns the number of tiles; the pairs follow at 4
 * words per tile. */
static uint64_t infer__gpu_moe_lists(infer__ctx *c, const infer__moe_matmul_args *a, int32_t of) {
    infer__gpu_listed *l = &c->run->listed;
    infer__gpu_call call;
    struct infer__k_moe_group k;
    int32_t n_expert = a->w->rows / a->rows;
    uint64_t tiles = infer__gpu_moe_tiles((uint64_t)a->ids.rows * (uint64_t)a->n_used, n_expert, of);
    if (l->ids.buf && infer__gpu_same_tensor(&l->ids, &a->ids) && l->ids.rows == a->ids.rows &&
        l->n_used == a->n_used && l->n_expert == n_expert && l->of == of)
        return tiles;
    memset(&call, 0, sizeof call);
    memset(&k, 0, sizeof k);
    call.bufs[0] = c->run->pass.handle; /* any buffer will do where nothing is chosen */
    if (a->ids.buf) k.ids = infer__gpu_tensor(c, &a->ids, &call.bufs[0]);
    k.by_place = a->ids.buf == NULL;
    call.bufs[1] = c->run->lists.handle;
    k.ids_stride = (uint32_t)a->ids.stride;
    k.n_used = (uint32_t)a->n_used;
    k.pairs = (uint32_t)(a->ids.rows * a->n_used);
    k.order = (uint32_t)(4 * tiles);
    k.of = (uint32_t)of;
    INFER__GPU_LAUNCH(c, INFER__K_MOE_GROUP, &call, (uint64_t)n_expert, 1, k);
    l->ids = a->ids;
    l->n_used = a->n_used;
    l->n_expert = n_expert;
    l->of = of;
    return tiles;
}

/* Sum, added to the residual stream; the sum itself is not written. */
static void infer__gpu_moe_sum(infer__ctx *c, const infer__moe_matmul_args *a) {
    const infer__tensor *y = a->add ? &a->add->y : &a->y;
    infer__gpu_call call;
    struct infer__k_moe_sum k;
    memset(&call, 0, sizeof call);
    memset(&k, 0, sizeof k);
    call.bufs[0] = c->run->pairs.handle;
    k.weights = infer__gpu_tensor(c, &a->weights, &call.bufs[1]);
    k.y = infer__gpu_tensor(c, y, &call.bufs[2]);
    k.y_stride = (uint32_t)y->stride;
    k.add = a->add != NULL;
    if (a->add) k.scale = a->add->scale;
    k.weights_stride = (uint32_t)a->weights.stride;
    k.cols = (uint32_t)a->rows;
    k.n_used = (uint32_t)a->n_used;
    k.parts = (uint32_t)infer__gpu_parts(k.cols, 256);
    INFER__GPU_LAUNCH(c, INFER__K_MOE_SUM, &call, (uint64_t)a->ids.rows * k.parts, 1, k);
}

static void infer__gpu_moe_many(infer__ctx *c, const infer__moe_matmul_args *a) {
    infer__gpu_call call;
    struct infer__k_moe_matmul k;
    uint64_t tiles;
    memset(&call, 0, sizeof call);
    memset(&k, 0, sizeof k);
    if (!infer__gpu_matrix(c, a->w, &call, &k.w_lo, &k.w_hi, &k.row_bytes)) return;
    tiles = infer__gpu_moe_lists(c, a, INFER__GPU_MOE_TILE);
    k.x = infer__gpu_tensor(c, &a->x, &call.bufs[1]);
    call.bufs[2] = c->run->lists.handle;
    if (a->weights.buf) call.bufs[3] = c->run->pairs.handle;
    else k.y = infer__gpu_tensor(c, &a->y, &call.bufs[3]);
    k.rows = (uint32_t)a->rows;
    k.cols = (uint32_t)a->w->cols;
    k.x_stride = (uint32_t)a->x.stride;
    k.y_stride = a->weights.buf ? k.rows : (uint32_t)a->y.stride;
    k.pairs_of_x = a->per_expert_x ? 1 : (uint32_t)a->n_used;
    k.order = (uint32_t)(4 * tiles);
    INFER__GPU_LAUNCH(c, INFER__K_MOE_MATMUL, &call, infer__gpu_parts(k.rows, 32), tiles, k);
    if (a->weights.buf) infer__gpu_moe_sum(c, a);
}

/* The same on matrix units. kernel: mma_moe, which takes x as lines, or one that takes it as halves. */
static void infer__gpu_moe_mma(infer__ctx *c, const infer__moe_matmul_args *a, int32_t kernel) {
    infer__gpu_call call;
    struct infer__k_mma_moe k;
    const int lines = kernel == INFER__K_MMA_MOE;
    const int as = (lines ? INFER__GPU_MOE_LINES : INFER__GPU_MOE_HALVES) + (a->w->type->id == INFER__GPU_BF16);
    uint64_t tiles;
    memset(&call, 0, sizeof call);
    memset(&k, 0, sizeof k);
    if (!infer__gpu_matrix(c, a->w, &call, &k.w_lo, &k.w_hi, &k.row_bytes)) return;
    infer__gpu_moe_round(c, &a->x, as);
    tiles = infer__gpu_moe_lists(c, a, INFER__GPU_MOE_MMA);
    call.bufs[1] = c->run->x8.handle;
    call.bufs[2] = c->run->lists.handle;
    if (a->weights.buf) call.bufs[3] = c->run->pairs.handle;
    else k.y = infer__gpu_tensor(c, &a->y, &call.bufs[3]);
    k.rows = (uint32_t)a->rows;
    k.cols = (uint32_t)a->w->cols;
    k.x_step = (uint32_t)a->x.rows; /* lines from 64 columns to the next */
    k.factors = (uint32_t)((uint64_t)a->x.rows * infer__gpu_line_step(a->x.cols) / 2);
    k.y_stride = a->weights.buf ? k.rows : (uint32_t)a->y.stride;
    k.pairs_of_x = a->per_expert_x ? 1 : (uint32_t)a->n_used;
    k.order = (uint32_t)(4 * tiles);
    if (!lines) k.x_step = infer__gpu_half_words(&a->x, &k.factors);
    INFER__GPU_LAUNCH(c, kernel, &call, infer__gpu_parts(k.rows, 128), tiles, k);
    if (a->weights.buf) infer__gpu_moe_sum(c, a);
    infer__gpu_moe_rounded(c, &a->x, as);
}

/* ---- few rows: pair by pair -------------------------------------------------------------------------------------- */

/* All but x. Returns how many groups there are, 0 when kernels cannot take the matrix. */
static uint64_t infer__gpu_moe_pairs(infer__ctx *c, const infer__moe_matmul_args *a, infer__gpu_call *call,
                                     struct infer__k_moe_pairs *k) {
    memset(call, 0, sizeof *call);
    memset(k, 0, sizeof *k);
    if (!infer__gpu_matrix(c, a->w, call, &k->w_lo, &k->w_hi, &k->row_bytes)) return 0;
    k->rows = (uint32_t)a->rows;
    k->cols = (uint32_t)a->w->cols;
    call->bufs[2] = c->run->pass.handle; /* any buffer will do where nothing is chosen */
    if (a->ids.buf) k->ids = infer__gpu_tensor(c, &a->ids, &call->bufs[2]);
    k->ids_stride = (uint32_t)a->ids.stride;
    k->n_used = (uint32_t)a->n_used;
    k->flags = (a->per_expert_x ? 1u : 0u) | (a->ids.buf ? 0u : 4u);
    call->bufs[3] = c->run->pass.handle; /* any buffer will do where there are no weights */
    if (a->weights.buf) {
        k->weights = infer__gpu_tensor(c, &a->weights, &call->bufs[3]);
        k->weights_stride = (uint32_t)a->weights.stride;
        k->flags |= 2u;
    }
    k->y = infer__gpu_tensor(c, &a->y, &call->bufs[4]);
    k->y_stride = (uint32_t)a->y.stride;
    k->blocks = (uint32_t)infer__gpu_parts(k->rows, 4);
    return (uint64_t)a->y.rows * k->blocks;
}

/* x quantised, or as float for single values: the input of the mv kernels. */
static void infer__gpu_moe_few(infer__ctx *c, const infer__moe_matmul_args *a) {
    infer__gpu_call call;
    struct infer__k_moe_pairs k;
    uint64_t groups = infer__gpu_moe_pairs(c, a, &call, &k);
    int floats = a->w->type->values == 1;
    if (!infer__ok(c)) return;
    if (floats) {
        k.x = infer__gpu_tensor(c, &a->x, &call.bufs[1]);
        k.x_step = (uint32_t)a->x.stride;
        if (infer__gpu_wide(&a->x, a->w)) k.flags |= INFER__GPU_MV_WIDE;
    } else {
        infer__gpu_moe_round(c, &a->x, INFER__GPU_MOE_X8);
        call.bufs[1] = c->run->x8.handle;
        k.x_step = k.cols / 4;
        k.meta = (uint32_t)a->x.rows * k.x_step;
    }
    INFER__GPU_LAUNCH(c, INFER__K_MOE_MV, &call, groups, 1, k);
    if (!floats) infer__gpu_moe_rounded(c, &a->x, INFER__GPU_MOE_X8);
}

/* x as float, blocks unpacked to float: the definition. */
static void infer__gpu_moe_product(infer__ctx *c, const infer__moe_matmul_args *a) {
    infer__gpu_call call;
    struct infer__k_moe_pairs k;
    uint64_t groups = infer__gpu_moe_pairs(c, a, &call, &k);
    if (!infer__ok(c)) return;
    k.x = infer__gpu_tensor(c, &a->x, &call.bufs[1]);
    k.x_step = (uint32_t)a->x.stride;
    INFER__GPU_LAUNCH(c, INFER__K_MOE_MATVEC, &call, groups, 1, k);
}

/* ---- the op ------------------------------------------------------------------------------------------------------ */

/* 1 when the sum over a row's experts can be fused with the addition. */
static int infer__gpu_moe_adds(const infer__ctx *c, const infer__moe_matmul_args *a) {
    return a->add && a->weights.buf && infer__gpu_same_tensor(&a->add->x, &a->y) && infer__gpu_moe_fits(c, a);
}

static void infer__gpu_moe_matmul(infer__ctx *c, const infer__moe_matmul_args *a) {
    int64_t pairs = (int64_t)a->ids.rows * a->n_used;
    uint64_t used;
    int32_t units = infer__gpu_has_mma(c, a->w, a->x.rows) ? INFER__K_MMA_MOE
                                                           : infer__gpu_matrix_kernel(c, a->w, a->x.rows, 1);
    int few, fits, one = infer__gpu_one_experts(c, a);
    double began;
    if (!one && (a->bias || a->gate || a->act || (a->add && !infer__gpu_moe_adds(c, a)))) {
        infer__moe_apart(c, a);
        return;
    }
    began = infer__op_begin(c);
    if (began < 0) return;
    if (a->bias && !infer__vector_ok(c, a->bias->bias, "biases of experts")) return;
    if (a->gate && a->gate->bias && !infer__vector_ok(c, a->gate->bias->bias, "biases of experts")) return;
    INFER__ASSERT(a->x.cols == a->w->cols && a->x.rows == (a->per_expert_x ? pairs : a->ids.rows));
    INFER__ASSERT(a->w->rows % a->rows == 0 && a->y.rows == (a->weights.buf ? a->ids.rows : pairs));
    few = a->ids.rows <= INFER__GPU_FEW;
    fits = infer__gpu_moe_fits(c, a);
    if (one) infer__gpu_one_experts_launch(c, a);
    else if (fits && units >= 0) infer__gpu_moe_mma(c, a, units);
    else if (fits) infer__gpu_moe_many(c, a);
    else if (few && (a->w->type->values == 1 || infer__gpu_dots(c, a->w, a->x.rows))) infer__gpu_moe_few(c, a);
    else infer__gpu_moe_product(c, a);
    used = (uint64_t)INFER__MIN(pairs, a->w->rows / a->rows); /* at most: tokens may share experts */
    infer__gpu_end(c, "moe_matmul", (a->gate ? 2 : 1) * used * (uint64_t)a->rows * a->w->row_bytes, began);
}

/* ---- biases ------------------------------------------------------------------------------------------------------ */

static void infer__gpu_moe_bias(infer__ctx *c, const infer__moe_bias_args *a) {
    infer__gpu_call call;
    struct infer__k_moe_bias k;
    double began = infer__op_begin(c);
    if (began < 0 || !infer__vector_ok(c, a->bias, "biases of experts")) return;
    INFER__ASSERT(a->y.rows == (a->weights.buf ? 1 : a->n_used) * a->ids.rows && a->bias->cols % a->y.cols == 0);
    memset(&call, 0, sizeof call);
    memset(&k, 0, sizeof k);
    k.y = infer__gpu_tensor(c, &a->y, &call.bufs[0]);
    k.ids = infer__gpu_tensor(c, &a->ids, &call.bufs[1]);
    call.bufs[2] = call.bufs[1]; /* any buffer will do where there are no weights */
    if (a->weights.buf) {
        k.weights = infer__gpu_tensor(c, &a->weights, &call.bufs[2]);
        k.weights_stride = (uint32_t)a->weights.stride;
        k.has_weights = 1;
    }
    k.bias = infer__gpu_vector(c, a->bias, &call.bufs[3]);
    k.y_stride = (uint32_t)a->y.stride;
    k.ids_stride = (uint32_t)a->ids.stride;
    k.cols = (uint32_t)a->y.cols;
    k.n_used = (uint32_t)a->n_used;
    k.parts = (uint32_t)infer__gpu_parts(k.cols, 256);
    INFER__GPU_LAUNCH(c, INFER__K_MOE_BIAS, &call, (uint64_t)a->y.rows * k.parts, 1, k);
    infer__gpu_end(c, "moe_bias", 0, began);
}

#endif
