/* gpu_one.c: ops on GPUs: products of one row with all that lies between two of them, where the device has the kernel
 * one (kernels/special/cuda_one.k).
 *
 * Owns:  which products it takes: all matrices of an op or none.
 * Rules: the results are those of norm8 or norm, round8 and mv1, bit by bit.
 * Start: infer__gpu_one_takes, infer__gpu_one_launch.
 */
#include "gpu.h"

#ifndef INFER_NO_GPU

enum { /* of kernels/special/cuda_one.k */
    INFER__ONE_DOTS = 16 * 4608,   /* bytes of its shared memory that are not for x, where that is rounded */
    INFER__ONE_FLOATS = 16 * 3072, /* and where it is not */
    INFER__ONE_SOON = 4 << 20, /* bytes of the next product's weights that are asked for: more made it slower */
    INFER__ONE_NORM = 128,
    INFER__ONE_LAYER = 256,
    INFER__ONE_WEIGHT = 512,
    INFER__ONE_NORM_BIAS = 1024
};

static int infer__gpu_overlaps(const infer__tensor *a, const infer__tensor *b) { /* of one row */
    return a->buf == b->buf && a->offset < b->offset + (uint64_t)b->cols * sizeof(float) &&
           b->offset < a->offset + (uint64_t)a->cols * sizeof(float);
}

/* 1 when the kernel can take this matrix in this form. */
static int infer__gpu_one_matrix(const infer__ctx *c, const infer__weight *w, int32_t form) {
    const uint64_t memory = (uint64_t)INFER__KERNELS[INFER__K_ONE].shared, cols = (uint64_t)w->cols;
    if (w->row_bytes % 16 != 0 || w->offset % 16 != 0 || cols % 8 != 0) return 0;
    if (form == INFER__GPU_DOTS && cols * 5 / 4 + INFER__ONE_DOTS > memory) return 0;
    if (form == INFER__GPU_FLOATS && cols * 4 + INFER__ONE_FLOATS > memory) return 0;
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
    if (a->act && infer__gpu_overlaps(&a->act->y, x)) return 0;
    if (a->add && infer__gpu_overlaps(&a->add->y, x)) return 0;
    for (j = 0; j < a->n_w; j++)
        if (!infer__gpu_one_matrix(c, a->w[j], forms[j]) || infer__gpu_overlaps(&a->y[j], x)) return 0;
    return 1;
}

/* next: NULL, or a matrix whose weights will be wanted after what follows. */
static void infer__gpu_one_launch(infer__ctx *c, const infer__tensor *x, const infer__norm_args *norm,
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
    call.bufs[10] = call.bufs[11] = call.bufs[3]; /* any buffer will do where there are no weights */
    if (norm) {
        k.flags |= INFER__ONE_NORM;
        if (norm->kind == INFER__NORM_LAYER) k.flags |= INFER__ONE_LAYER;
        if (norm->weight) k.flags |= INFER__ONE_WEIGHT;
        if (norm->bias) k.flags |= INFER__ONE_NORM_BIAS;
        k.weight = infer__gpu_vector(c, norm->weight, &call.bufs[10]);
        k.norm_bias = infer__gpu_vector(c, norm->bias, &call.bufs[11]);
        k.eps = norm->eps;
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

#endif
