/* gpu_one.c: ops on GPUs: products of one row, and of its experts, fused with everything between two products, if the
 * device has the kernels (kernels/special/cuda_one.k).
 *
 * Owns:  which products it handles: all matrices of an op or none.
 * Rules: the results are those of norm8 or norm, round8 and mv1, of experts those of moe_mv, bit by bit.
 * Start: infer__gpu_one_takes, infer__gpu_one_launch.
 */
#include "gpu.h"

#ifndef INFER_NO_GPU

enum { /* of kernels/special/cuda_one.k */
    INFER__ONE_DOTS = 16 * 4736,   /* bytes of its shared memory that are not for x, if x is quantised */
    INFER__ONE_FLOATS = 16 * 3072, /* and where it is not */
    INFER__ONE_SOON = 4 << 20, /* bytes of the next product's weights that are prefetched: more was slower */
    INFER__ONE_NORM = 128,
    INFER__ONE_LAYER = 256,
    INFER__ONE_WEIGHT = 512,
    INFER__ONE_NORM_BIAS = 1024,
    INFER__ONE_KEEP = 2048,
    INFER__ONE_SUM = 64, /* of one_moe, and the next */
    INFER__ONE_AFTER = 128,
    INFER__ONE_PLACE = 256,
    INFER__ONE_CHOSEN = 64 /* experts, at most */
};

/* 1 when two tensors overlap in memory. */
static int infer__gpu_overlaps(const infer__tensor *a, const infer__tensor *b) {
    const uint64_t a_end =
        a->offset + ((uint64_t)(a->rows - 1) * (uint64_t)a->stride + (uint64_t)a->cols) * sizeof(float);
    const uint64_t b_end =
        b->offset + ((uint64_t)(b->rows - 1) * (uint64_t)b->stride + (uint64_t)b->cols) * sizeof(float);
    return a->buf == b->buf && a->offset < b_end && b->offset < a_end;
}

/* 1 when the kernels support this matrix in this form, and this many rows of x. Blocks may begin anywhere, unless they
 * are multiples of 16 bytes. */
static int infer__gpu_one_matrix(const infer__ctx *c, const infer__weight *w, int32_t form, int32_t x_rows) {
    const uint64_t memory = (uint64_t)INFER__KERNELS[INFER__K_ONE].shared, cols = (uint64_t)w->cols;
    const uint64_t n = (uint64_t)x_rows;
    if ((w->type->values == 1 && w->row_bytes % 16 != 0) || w->offset % 16 != 0 || cols % 8 != 0) return 0;
    if (form == INFER__GPU_DOTS && n * infer__gpu_parts(cols * 5 / 4, 16) * 16 + INFER__ONE_DOTS > memory) return 0;
    if (form == INFER__GPU_FLOATS && n * cols * 4 + INFER__ONE_FLOATS > memory) return 0;
    if (form != INFER__GPU_DOTS && form != INFER__GPU_FLOATS) return 0;
    return infer__gpu_find(c->run, INFER__MODULE_ONE, w->type->id) != NULL;
}

/* 1 when the kernel can do all products of an op whose matrices have these forms. Groups of it write y while others
 * still read x. norm: of x, NULL = none. */
static int infer__gpu_one_takes(const infer__ctx *c, const infer__matmul_args *a, const int32_t *forms,
                                const infer__norm_args *norm) {
    const infer__tensor *x = norm ? &norm->x : &a->x;
    int32_t j;
    if (x->rows != 1 || x->offset % 16 != 0 || infer__gpu_processors(c) <= 0) return 0;
    if (norm && norm->weight && norm->weight->offset % 16 != 0) return 0;
    if (norm && norm->bias && norm->bias->offset % 16 != 0) return 0;
    if (norm && a->keep && (norm->y.offset % 16 != 0 || infer__gpu_overlaps(&norm->y, x))) return 0;
    if (a->act && infer__gpu_overlaps(&a->act->y, x)) return 0;
    if (a->add && infer__gpu_overlaps(&a->add->y, x)) return 0;
    for (j = 0; j < a->n_w; j++)
        if (!infer__gpu_one_matrix(c, a->w[j], forms[j], 1) || infer__gpu_overlaps(&a->y[j], x)) return 0;
    return 1;
}

/* keep: the norm's result is written, too. next: NULL, or a matrix whose weights will be needed after the next op. */
static void infer__gpu_one_launch(infer__ctx *c, const infer__tensor *x, const infer__norm_args *norm, int keep,
                                  const infer__gpu_group *f, const infer__weight *next) {
    infer__gpu_call call;
    struct infer__k_mv mv;
    struct infer__k_one k;
    uint64_t tasks, bytes, groups = (uint64_t)infer__gpu_processors(c);
    memset(&call, 0, sizeof call);
    memset(&mv, 0, sizeof mv);
    memset(&k, 0, sizeof k);
    tasks = infer__gpu_group_args(c, f, f->flags & INFER__GPU_MV_PAIR ? 1 : 2, &call, &mv);
    if (!infer__ok(c)) return;
    memcpy(&k, &mv, offsetof(struct infer__k_one, x)); /* they begin alike */
    k.flags = mv.flags;
    k.kind = mv.kind;
    k.scale = mv.scale;
    k.x = infer__gpu_tensor(c, norm ? &norm->x : x, &call.bufs[3]);
    call.bufs[10] = call.bufs[11] = call.bufs[13] = call.bufs[3]; /* any valid buffer where there is none */
    if (norm) {
        k.flags |= INFER__ONE_NORM;
        if (norm->kind == INFER__NORM_LAYER) k.flags |= INFER__ONE_LAYER;
        if (norm->weight) k.flags |= INFER__ONE_WEIGHT;
        if (norm->bias) k.flags |= INFER__ONE_NORM_BIAS;
        k.weight = infer__gpu_vector(c, norm->weight, &call.bufs[10]);
        k.norm_bias = infer__gpu_vector(c, norm->bias, &call.bufs[11]);
        k.eps = norm->eps;
        if (keep) k.flags |= INFER__ONE_KEEP;
        if (keep) k.kept = infer__gpu_tensor(c, &norm->y, &call.bufs[13]);
    }
    call.bufs[12] = call.bufs[0];
    bytes = next ? (uint64_t)next->rows * next->row_bytes : 0;
    if (bytes > 0 && next->buf && next->buf->handle && next->offset + bytes <= next->buf->bytes) {
        call.bufs[12] = next->buf->handle;
        k.next_lo = (uint32_t)next->offset;
        k.next_hi = (uint32_t)(next->offset >> 32);
        k.next_bytes = (uint32_t)INFER__MIN(bytes, (uint64_t)INFER__ONE_SOON);
    }
    groups = INFER__MIN(groups, tasks);
    k.tasks = (uint32_t)tasks;
    k.groups = (uint32_t)groups;
    INFER__GPU_LAUNCH(c, INFER__K_ONE, &call, groups, 1, k);
}

/* ---- experts ----------------------------------------------------------------------------------------------------- */

/* 1 when the kernel can do a product of experts for one row of tokens, with all that follows it. */
static int infer__gpu_one_experts(const infer__ctx *c, const infer__moe_matmul_args *a) {
    const infer__moe_matmul_args *g = a->gate;
    const infer__weight *w = a->w;
    const infer__act_args *act = a->act;
    const int32_t x_rows = a->per_expert_x ? a->n_used : 1;
    const int32_t form = w->type->values == 1              ? INFER__GPU_FLOATS
                         : infer__gpu_dots(c, w, x_rows) ? INFER__GPU_DOTS
                                                           : INFER__GPU_BLOCKS;
    if (a->ids.rows != 1 || a->n_used > INFER__ONE_CHOSEN || infer__gpu_processors(c) <= 0) return 0;
    if (a->x.offset % 16 != 0 || a->x.stride % 4 != 0 || infer__gpu_overlaps(&a->x, &a->y)) return 0;
    if (!infer__gpu_one_matrix(c, w, form, x_rows)) return 0;
    if ((g != NULL) != (act != NULL)) return 0;
    if (g &&
        (g->w->type != w->type || g->w->cols != w->cols || g->w->rows != w->rows || g->rows != a->rows ||
         g->w->row_bytes != w->row_bytes || g->w->offset % 16 != 0 || a->weights.buf || g->gate || g->act || g->add))
        return 0;
    if (act && (act->divide || (act->kind >= INFER__ACTS_TAKEN && act->kind != INFER__ACT_GELU_SIGMOID) ||
                !infer__gpu_same_tensor(&act->x, &g->y) || !infer__gpu_same_tensor(&act->up, &a->y) ||
                infer__gpu_overlaps(&a->x, &act->y)))
        return 0;
    return !a->add || (a->weights.buf && infer__gpu_same_tensor(&a->add->x, &a->y) &&
                       !infer__gpu_overlaps(&a->x, &a->add->y));
}

static void infer__gpu_one_experts_launch(infer__ctx *c, const infer__moe_matmul_args *a) {
    const infer__tensor *y = a->add ? &a->add->y : a->act ? &a->act->y : &a->y;
    const infer__moe_matmul_args *g = a->gate;
    infer__gpu_call call;
    struct infer__k_one_moe k;
    uint64_t pairs = a->weights.buf ? 1 : (uint64_t)a->n_used, groups = (uint64_t)infer__gpu_processors(c);
    memset(&call, 0, sizeof call);
    memset(&k, 0, sizeof k);
    if (g) {
        if (!infer__gpu_matrix(c, g->w, &call, &k.g_lo, &k.g_hi, &k.row_bytes)) return;
        call.bufs[1] = call.bufs[0];
        k.flags |= INFER__GPU_MV_PAIR;
    }
    if (!infer__gpu_matrix(c, a->w, &call, &k.w_lo, &k.w_hi, &k.row_bytes)) return;
    if (!g) call.bufs[1] = call.bufs[0];
    k.x = infer__gpu_tensor(c, &a->x, &call.bufs[2]);
    call.bufs[3] = call.bufs[2]; /* any valid buffer where there is none */
    if (a->ids.buf) k.ids = infer__gpu_tensor(c, &a->ids, &call.bufs[3]);
    else k.flags |= INFER__ONE_PLACE;
    call.bufs[4] = call.bufs[5] = call.bufs[6] = call.bufs[3];
    if (a->weights.buf) {
        k.weights = infer__gpu_tensor(c, &a->weights, &call.bufs[4]);
        k.flags |= INFER__ONE_SUM;
    }
    if (a->bias) {
        k.b = infer__gpu_vector(c, a->bias->bias, &call.bufs[5]);
        k.flags |= INFER__GPU_MV_BIAS;
    }
    if (g && g->bias) {
        k.gb = infer__gpu_vector(c, g->bias->bias, &call.bufs[6]);
        k.flags |= INFER__GPU_MV_BIAS << 1;
    }
    k.y = infer__gpu_tensor(c, y, &call.bufs[7]);
    k.y_step = (uint32_t)y->stride;
    k.x_step = a->per_expert_x ? (uint32_t)a->x.stride : 0;
    k.rows = (uint32_t)a->rows;
    k.cols = (uint32_t)a->w->cols;
    k.n_used = (uint32_t)a->n_used;
    if (a->act) {
        k.kind = (uint32_t)a->act->kind;
        k.limit = a->act->limit;
        k.up_add = a->act->up_add;
        if (a->act->limit_after) k.flags |= INFER__ONE_AFTER;
    }
    if (a->add) {
        k.flags |= INFER__GPU_MV_ADD;
        k.scale = a->add->scale;
    }
    k.tasks = (uint32_t)(pairs * infer__gpu_parts(k.rows, g ? 1 : 2));
    groups = INFER__MIN(groups, k.tasks);
    k.groups = (uint32_t)groups;
    if (infer__ok(c)) INFER__GPU_LAUNCH(c, INFER__K_ONE_MOE, &call, groups, 1, k);
}

#endif
