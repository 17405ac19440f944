/* gpu_streams.c: several residual streams, sums over a stream's past, and sparse activations, on GPUs. */
#include "gpu.h"

#ifndef INFER_NO_GPU

enum { INFER__GPU_KEPT = 1088 }; /* of kernels/streams.k: what was kept of a stream, and itself; more than layers */

/* Reductions over rows. */
static void infer__gpu_streams_row(infer__ctx *c, const infer__streams_args *a) {
    infer__gpu_call call;
    struct infer__k_streams_row k;
    memset(&call, 0, sizeof call);
    memset(&k, 0, sizeof k);
    k.cuts = a->kind == INFER__STREAMS_CUT;
    k.x = infer__gpu_tensor(c, &a->x, &call.bufs[0]);
    k.x_stride = (uint32_t)a->x.stride;
    call.bufs[1] = call.bufs[0];
    if (!k.cuts) {
        k.rest = infer__gpu_tensor(c, &a->rest, &call.bufs[1]);
        k.rest_stride = (uint32_t)a->rest.stride;
    }
    k.rows = (uint32_t)a->x.rows;
    k.others = k.cuts ? 1 : (uint32_t)a->n - 1;
    k.cols = (uint32_t)a->x.cols;
    k.cut = a->cut;
    INFER__GPU_LAUNCH(c, INFER__K_STREAMS_ROW, &call, (uint64_t)k.rows * k.others, 1, k);
}

static void infer__gpu_streams_all(infer__ctx *c, const infer__streams_args *a) {
    infer__gpu_call call;
    struct infer__k_streams k;
    memset(&call, 0, sizeof call);
    memset(&k, 0, sizeof k);
    k.correct = a->kind == INFER__STREAMS_CORRECT;
    k.x = infer__gpu_tensor(c, &a->x, &call.bufs[0]);
    k.rest = infer__gpu_tensor(c, &a->rest, &call.bufs[1]);
    k.base = infer__gpu_tensor(c, &a->base, &call.bufs[2]);
    k.coef = infer__gpu_tensor(c, &a->coef, &call.bufs[3]);
    call.bufs[4] = call.bufs[5] = call.bufs[0];
    if (k.correct) {
        k.scaled = infer__gpu_tensor(c, &a->scaled, &call.bufs[4]);
        k.scaled_stride = (uint32_t)a->scaled.stride;
        k.scale = infer__gpu_vector(c, a->scale, &call.bufs[5]);
    }
    k.x_stride = (uint32_t)a->x.stride;
    k.rest_stride = (uint32_t)a->rest.stride;
    k.base_stride = (uint32_t)a->base.stride;
    k.coef_stride = (uint32_t)a->coef.stride;
    k.rows = (uint32_t)a->x.rows;
    k.n = (uint32_t)a->n;
    k.cols = (uint32_t)a->x.cols;
    k.parts = (uint32_t)infer__gpu_parts(k.cols, 256);
    INFER__GPU_LAUNCH(c, INFER__K_STREAMS, &call, (uint64_t)k.rows * k.parts, 1, k);
}

static void infer__gpu_streams_attend(infer__ctx *c, const infer__streams_args *a) {
    infer__gpu_call call;
    struct infer__k_residual k;
    memset(&call, 0, sizeof call);
    memset(&k, 0, sizeof k);
    k.x = infer__gpu_tensor(c, &a->x, &call.bufs[0]);
    call.bufs[1] = call.bufs[0];
    if (a->n > 1) k.rest = infer__gpu_tensor(c, &a->rest, &call.bufs[1]);
    k.base = infer__gpu_tensor(c, &a->base, &call.bufs[2]);
    k.scale = infer__gpu_vector(c, a->scale, &call.bufs[3]);
    k.x_stride = (uint32_t)a->x.stride;
    k.rest_stride = (uint32_t)a->rest.stride;
    k.base_stride = (uint32_t)a->base.stride;
    k.rows = (uint32_t)a->x.rows;
    k.n = (uint32_t)a->n;
    k.cols = (uint32_t)a->x.cols;
    k.eps = a->cut;
    INFER__GPU_LAUNCH(c, INFER__K_RESIDUAL, &call, (uint64_t)k.rows, 1, k);
}

static void infer__gpu_streams_join(infer__ctx *c, const infer__streams_args *a) {
    infer__gpu_call call;
    struct infer__k_join k;
    memset(&call, 0, sizeof call);
    memset(&k, 0, sizeof k);
    k.rest = infer__gpu_tensor(c, &a->rest, &call.bufs[0]);
    k.base = infer__gpu_tensor(c, &a->base, &call.bufs[1]);
    k.coef = infer__gpu_tensor(c, &a->coef, &call.bufs[2]);
    k.scale = infer__gpu_vector(c, a->scale, &call.bufs[3]);
    k.offset = infer__gpu_vector(c, a->offset, &call.bufs[4]);
    k.rest_stride = (uint32_t)a->rest.stride;
    k.base_stride = (uint32_t)a->base.stride;
    k.coef_stride = (uint32_t)a->coef.stride;
    k.n = (uint32_t)a->n;
    k.cols = (uint32_t)a->x.cols;
    k.coefs = (uint32_t)a->coef.cols;
    k.rounds = (uint32_t)a->rounds;
    k.cut = a->cut;
    k.times = a->times;
    INFER__GPU_LAUNCH(c, INFER__K_JOIN, &call, (uint64_t)a->x.rows, 1, k);
}

static void infer__gpu_streams_spread(infer__ctx *c, const infer__streams_args *a) {
    infer__gpu_call call;
    struct infer__k_spread k;
    memset(&call, 0, sizeof call);
    memset(&k, 0, sizeof k);
    k.x = infer__gpu_tensor(c, &a->x, &call.bufs[0]);
    k.rest = infer__gpu_tensor(c, &a->rest, &call.bufs[1]);
    k.coef = infer__gpu_tensor(c, &a->coef, &call.bufs[2]);
    k.x_stride = (uint32_t)a->x.stride;
    k.rest_stride = (uint32_t)a->rest.stride;
    k.coef_stride = (uint32_t)a->coef.stride;
    k.n = (uint32_t)a->n;
    k.cols = (uint32_t)a->x.cols;
    k.parts = (uint32_t)infer__gpu_parts(k.cols, 256);
    k.mixed = a->coef.cols > 2 * a->n;
    INFER__GPU_LAUNCH(c, INFER__K_SPREAD, &call, (uint64_t)a->x.rows * k.parts, 1, k);
}

static void infer__gpu_streams_keyed(infer__ctx *c, const infer__streams_args *a) {
    infer__gpu_call call;
    struct infer__k_keyed k;
    memset(&call, 0, sizeof call);
    memset(&k, 0, sizeof k);
    k.x = infer__gpu_tensor(c, &a->x, &call.bufs[0]);
    k.rest = infer__gpu_tensor(c, &a->rest, &call.bufs[1]);
    k.base = infer__gpu_tensor(c, &a->base, &call.bufs[2]);
    k.x_stride = (uint32_t)a->x.stride;
    k.rest_stride = (uint32_t)a->rest.stride;
    k.base_stride = (uint32_t)a->base.stride;
    k.n = (uint32_t)a->n;
    k.cols = (uint32_t)a->x.cols;
    INFER__GPU_LAUNCH(c, INFER__K_KEYED, &call, (uint64_t)a->x.rows * k.n, 1, k);
}

static void infer__gpu_streams(infer__ctx *c, const infer__streams_args *a) {
    double began = infer__op_begin(c);
    if (began < 0 || !infer__vector_ok(c, a->scale, "scales of streams")) return;
    if (!infer__vector_ok(c, a->offset, "offsets of streams")) return;
    switch (a->kind) {
    case INFER__STREAMS_CUT: infer__gpu_streams_row(c, a); break;
    case INFER__STREAMS_ATTEND:
        INFER__ASSERT(a->n > 0 && a->n <= INFER__GPU_KEPT && a->rest.rows == (a->n - 1) * a->x.rows);
        infer__gpu_streams_attend(c, a);
        break;
    default:
        INFER__ASSERT(a->n >= 2 && a->n <= INFER__MAX_STREAMS);
        if (a->kind == INFER__STREAMS_JOIN) infer__gpu_streams_join(c, a);
        else if (a->kind == INFER__STREAMS_SPREAD) infer__gpu_streams_spread(c, a);
        else if (a->kind == INFER__STREAMS_KEYED) infer__gpu_streams_keyed(c, a);
        else if (a->kind == INFER__STREAMS_MATCH) infer__gpu_streams_row(c, a);
        else infer__gpu_streams_all(c, a);
    }
    infer__gpu_end(c, "streams", 0, began);
}

#endif
