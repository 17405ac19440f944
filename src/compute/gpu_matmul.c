/* gpu_matmul.c: ops on GPUs: products with matrices of the file, and mixtures of experts. */
#include "gpu.h"

#ifndef INFER_NO_GPU

/* y = x * w^T + b. matvec takes the args of matmul, and has no use for the last one. */
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
    else if (n >= 16 && infer__gpu_find(c->run, INFER__MODULE_SIMD, w->type->id)) /* fewer: half of its tile is idle */
        INFER__GPU_LAUNCH(c, INFER__K_MATMUL_SIMD, &call, infer__gpu_parts(rows, 64), infer__gpu_parts(n, 32), k);
    else
        INFER__GPU_LAUNCH(c, INFER__K_MATMUL, &call, infer__gpu_parts(rows, 32), infer__gpu_parts(n, 32), k);
}

static void infer__gpu_matmul(infer__ctx *c, const infer__matmul_args *a) {
    uint64_t bytes = 0;
    int32_t j;
    double began = infer__op_begin(c);
    if (began < 0) return;
    for (j = 0; j < a->n_w; j++) {
        const infer__weight *b = a->b[j];
        INFER__ASSERT(a->w[j]->cols == a->x.cols && a->y[j].cols == a->w[j]->rows && a->y[j].rows == a->x.rows);
        INFER__ASSERT(!b || (int64_t)b->rows * b->cols == a->w[j]->rows || b->type->values != 1);
        if (!infer__vector_ok(c, b, "a bias")) return;
        bytes += (uint64_t)a->w[j]->rows * a->w[j]->row_bytes;
    }
    for (j = 0; j < a->n_w && infer__ok(c); j++) infer__gpu_product(c, &a->x, a->w[j], a->b[j], &a->y[j]);
    infer__gpu_end(c, "matmul", bytes, began);
}

static void infer__gpu_moe_route(infer__ctx *c, const infer__moe_route_args *a) {
    infer__gpu_call call;
    struct infer__k_moe_route k;
    double began = infer__op_begin(c);
    if (began < 0) return;
    INFER__ASSERT(a->n_used <= a->n_expert && a->x.cols >= a->n_expert);
    if (a->n_expert > INFER__GPU_MAX_EXPERTS) {
        infer__fail(c, INFER_ERR_UNSUPPORTED, "%d experts are too many", (int)a->n_expert);
        return;
    }
    memset(&call, 0, sizeof call);
    memset(&k, 0, sizeof k);
    k.x = infer__gpu_tensor(c, &a->x, &call.bufs[0]);
    k.ids = infer__gpu_tensor(c, &a->ids, &call.bufs[1]);
    k.weights = infer__gpu_tensor(c, &a->weights, &call.bufs[2]);
    k.x_stride = (uint32_t)a->x.stride;
    k.ids_stride = (uint32_t)a->ids.stride;
    k.weights_stride = (uint32_t)a->weights.stride;
    k.n_expert = (uint32_t)a->n_expert;
    k.n_used = (uint32_t)a->n_used;
    k.normalise = (uint32_t)a->normalise;
    k.scale = a->scale;
    INFER__GPU_LAUNCH(c, INFER__K_MOE_ROUTE, &call, (uint64_t)a->x.rows, 1, k);
    infer__gpu_end(c, "moe_route", 0, began);
}

static void infer__gpu_moe_matmul(infer__ctx *c, const infer__moe_matmul_args *a) {
    infer__gpu_call call;
    struct infer__k_moe_matvec k;
    int64_t pairs = (int64_t)a->ids.rows * a->n_used;
    uint64_t used, rows;
    double began = infer__op_begin(c);
    if (began < 0) return;
    INFER__ASSERT(a->x.cols == a->w->cols && a->x.rows == (a->per_expert_x ? pairs : a->ids.rows));
    INFER__ASSERT(a->w->rows % a->rows == 0 && a->y.rows == (a->weights.buf ? a->ids.rows : pairs));
    memset(&call, 0, sizeof call);
    memset(&k, 0, sizeof k);
    if (!infer__gpu_matrix(c, a->w, &call, &k.w_lo, &k.w_hi, &k.row_bytes)) return;
    k.x = infer__gpu_tensor(c, &a->x, &call.bufs[1]);
    k.ids = infer__gpu_tensor(c, &a->ids, &call.bufs[2]);
    call.bufs[3] = call.bufs[1];
    if (a->weights.buf) k.weights = infer__gpu_tensor(c, &a->weights, &call.bufs[3]);
    k.y = infer__gpu_tensor(c, &a->y, &call.bufs[4]);
    k.rows = (uint32_t)a->rows;
    k.cols = (uint32_t)a->w->cols;
    k.x_stride = (uint32_t)a->x.stride;
    k.y_stride = (uint32_t)a->y.stride;
    k.ids_stride = (uint32_t)a->ids.stride;
    k.weights_stride = a->weights.buf ? (uint32_t)a->weights.stride : 0;
    k.n_used = (uint32_t)a->n_used;
    k.blocks = (uint32_t)infer__gpu_parts(k.rows, 4);
    k.flags = (a->per_expert_x ? 1u : 0u) | (a->weights.buf ? 2u : 0u);
    rows = (uint64_t)(a->weights.buf ? a->ids.rows : pairs);
    INFER__GPU_LAUNCH(c, INFER__K_MOE_MATVEC, &call, rows * k.blocks, 1, k);
    used = (uint64_t)INFER__MIN(pairs, a->w->rows / a->rows); /* at most: tokens may share experts */
    infer__gpu_end(c, "moe_matmul", used * (uint64_t)a->rows * a->w->row_bytes, began);
}

#endif
