/* gpu_sample.c: the k largest values of rows on a GPU, in rounds: every part of a row yields its k best, until one part
 * is left (kernels/sample.k).
 *
 * Rules: as many rows are processed together as fit the scratch. Rounds alternate between the scratch's halves.
 * Start: infer__gpu_top.
 */
#include "gpu.h"

#ifndef INFER_NO_GPU

enum { INFER__GPU_BEST_EACH = 1024 }; /* values that a group of k_best takes at first */

/* One round over `rows` rows: parts of `each` entries give k each, to y. The args of k_best and k_top agree except for
 * `each`, which is k there. */
static void infer__gpu_top_round(infer__ctx *c, const infer__gpu_call *call, int32_t k, const struct infer__k_best *b,
                                 uint64_t rows) {
    struct infer__k_top t;
    if (k == 1) {
        INFER__GPU_LAUNCH(c, INFER__K_BEST, call, rows * b->parts, 1, *b);
        return;
    }
    memset(&t, 0, sizeof t);
    t.x = b->x;
    t.x_stride = b->x_stride;
    t.y = b->y;
    t.y_stride = b->y_stride;
    t.n = b->n;
    t.k = (uint32_t)k;
    t.parts = b->parts;
    t.flags = b->flags;
    INFER__GPU_LAUNCH(c, INFER__K_TOP, call, rows * t.parts, 1, t);
}

/* Rows first .. first + rows - 1; a row has `each` words of scratch. */
static void infer__gpu_top_rows(infer__ctx *c, const infer__top_args *a, uint64_t first, uint64_t rows, uint64_t each) {
    uint64_t x_buf, y_buf, scratch_buf;
    uint32_t x = infer__gpu_tensor(c, &a->x, &x_buf), y = infer__gpu_tensor(c, &a->y, &y_buf);
    uint32_t scratch = infer__gpu_tensor(c, &a->scratch, &scratch_buf), k = (uint32_t)a->k, half = 0;
    struct infer__k_best b;
    infer__gpu_call call;
    if (first * (uint64_t)a->x.stride + x > UINT32_MAX || scratch + rows * each > UINT32_MAX) {
        infer__fail(c, INFER_ERR_UNSUPPORTED, "top: rows of %d values are too many for the GPU kernels",
                    (int)a->x.cols);
        return;
    }
    memset(&call, 0, sizeof call);
    memset(&b, 0, sizeof b);
    call.bufs[0] = x_buf;
    b.x = x + (uint32_t)(first * (uint64_t)a->x.stride);
    b.x_stride = (uint32_t)a->x.stride;
    b.n = (uint32_t)a->x.cols;
    b.each = k == 1 ? INFER__GPU_BEST_EACH : INFER__TOP_TILE;
    while (infer__ok(c)) {
        b.parts = (uint32_t)infer__gpu_parts(b.n, b.each);
        if (b.parts == 1) {
            call.bufs[1] = y_buf;
            b.y = y + (uint32_t)(first * (uint64_t)a->y.stride);
            b.y_stride = (uint32_t)a->y.stride;
            b.flags |= 2;
        } else {
            call.bufs[1] = scratch_buf;
            b.y = scratch + half;
            b.y_stride = (uint32_t)each;
        }
        infer__gpu_top_round(c, &call, a->k, &b, rows);
        if (b.parts == 1) return;
        call.bufs[0] = scratch_buf; /* read what was written, write after it, then before it again */
        b.x = b.y;
        b.x_stride = b.y_stride;
        b.n = b.parts * k;
        half = half ? 0 : 2 * b.n;
        b.flags = 1;
        if (k == 1) b.each = b.n;
    }
}

static void infer__gpu_top(infer__ctx *c, const infer__top_args *a) {
    uint64_t each = infer__top_scratch(a->x.cols, a->k), at_once, i, n = (uint64_t)a->x.rows;
    double began = infer__op_begin(c);
    if (began < 0) return;
    INFER__ASSERT(a->k >= 1 && a->k <= INFER__TOP_MOST && a->k <= a->x.cols);
    INFER__ASSERT(a->y.rows == a->x.rows && a->y.cols >= 2 * a->k && a->scratch.rows == 1);
    at_once = (uint64_t)a->scratch.cols / each;
    if (at_once == 0)
        infer__fail(c, INFER_ERR_UNSUPPORTED, "top: %d of %d values need %llu floats of scratch", (int)a->k,
                    (int)a->x.cols, (unsigned long long)each);
    for (i = 0; i < n && infer__ok(c); i += at_once)
        infer__gpu_top_rows(c, a, i, INFER__MIN(n - i, at_once), each);
    infer__gpu_end(c, "top", 0, began);
}

#endif
