/* gpu_index.c: choosing the positions that attention reads, and making compressed entries, on GPUs: kernels/index.k,
 * compress.k.
 *
 * How:   compute the ranks of as many rows as run->ranks holds, then their lists. The grid has room for the next power
 *        of two of positions, as in attention.
 */
#include "gpu.h"

#ifndef INFER_NO_GPU

enum {
    INFER__INDEX_GROUP = 64,     /* entries of a group, of kernels/index.k */
    INFER__INDEX_RANKS = 1 << 22 /* room for ranks, unless one row has more */
};

/* Ranks that a context has room for: at least those of a row's sets. */
static uint64_t infer__gpu_ranks_len(const infer__needs *n) {
    const uint64_t each = (uint64_t)n->index_sets * infer__gpu_power((uint64_t)n->cells, INFER__INDEX_GROUP);
    uint64_t rows = each ? INFER__INDEX_RANKS / each : 0;
    rows = INFER__MIN(INFER__MAX(rows, 1u), (uint64_t)n->rows);
    return rows * each;
}

/* Rows row .. row + rows - 1; `each` ranks a set, 0 = none. */
static void infer__gpu_index_rows(infer__ctx *c, const infer__index_args *a, int32_t row, int32_t rows, uint64_t each) {
    const int32_t sets = infer__index_sets(a);
    infer__gpu_call call;
    struct infer__k_index_rank k;
    struct infer__k_index_list l;
    memset(&call, 0, sizeof call);
    memset(&k, 0, sizeof k);
    memset(&l, 0, sizeof l);
    if (each) {
        k.q = infer__gpu_tensor(c, &a->q, &call.bufs[0]);
        k.q_stride = (uint32_t)a->q.stride;
        call.bufs[1] = call.bufs[0];
        if (a->w.buf) {
            k.w = infer__gpu_tensor(c, &a->w, &call.bufs[1]);
            k.w_stride = (uint32_t)a->w.stride;
            k.has_w = 1;
        }
        call.bufs[2] = a->k_cache->buf.handle;
        call.bufs[3] = c->run->ranks.handle;
        call.bufs[4] = c->run->pass.handle;
        k.row = (uint32_t)row;
        k.group = (uint32_t)a->group;
        k.heads = (uint32_t)a->heads;
        k.dim = (uint32_t)a->dim;
        k.top = (uint32_t)a->top;
        k.block = (uint32_t)a->block;
        k.every = (uint32_t)INFER__MAX(a->every, 1);
        k.one = a->w.buf || a->sum;
        k.stride = (uint32_t)each;
        k.parts = (uint32_t)(each / INFER__INDEX_GROUP);
        INFER__GPU_LAUNCH(c, INFER__K_INDEX_RANK, &call, (uint64_t)rows * k.parts, 1, k);
    }
    l.y = infer__gpu_tensor(c, &a->y, &call.bufs[1]);
    call.bufs[0] = each ? c->run->ranks.handle : call.bufs[1]; /* any buffer will do where there are none */
    call.bufs[2] = c->run->pass.handle;
    l.y_stride = (uint32_t)a->y.stride;
    l.y_set = (uint32_t)(a->y.cols / sets);
    l.row = (uint32_t)row;
    l.sets = (uint32_t)sets;
    l.stride = (uint32_t)each;
    l.top = (uint32_t)a->top;
    l.block = (uint32_t)a->block;
    l.nearby = (uint32_t)a->local;
    l.every = (uint32_t)INFER__MAX(a->every, 1);
    l.ranked = each > 0;
    l.gives = (uint32_t)a->gives;
    l.window = (uint32_t)a->window;
    INFER__GPU_LAUNCH(c, INFER__K_INDEX_LIST, &call, (uint64_t)rows * (uint64_t)sets, 1, l);
}

static void infer__gpu_index(infer__ctx *c, const infer__index_args *a) {
    uint64_t each = infer__gpu_attention_reach(c);
    int32_t row, some = a->y.rows;
    double began = infer__op_begin(c);
    if (began < 0 || (a->q.buf && !infer__gpu_kv_ok(c, a->k_cache, a->k_cache))) return;
    INFER__ASSERT(!a->q.buf || (a->q.cols == a->heads * a->dim && a->top > 0 && a->dim <= INFER__MAX_HEAD_DIM));
    INFER__ASSERT(a->block > 0 && (a->every > 1 ? a->block == 1 : a->gives == INFER__INDEX_POSITIONS));
    if (a->every > 1) each = infer__gpu_power(each / (uint64_t)a->every, INFER__INDEX_GROUP);
    if (!a->q.buf) each = 0;
    else some = (int32_t)INFER__MIN(c->run->ranks_len / (each * (uint64_t)infer__index_sets(a)), (uint64_t)some);
    INFER__ASSERT(some > 0);
    for (row = 0; row < a->y.rows; row += some)
        infer__gpu_index_rows(c, a, row, INFER__MIN(some, a->y.rows - row), each);
    infer__gpu_end(c, "index", 0, began);
}

static void infer__gpu_rows_store(infer__ctx *c, const infer__rows_store_args *a) {
    infer__gpu_call call;
    struct infer__k_rows_store k;
    double began = infer__op_begin(c);
    if (began < 0) return;
    INFER__ASSERT(a->rows->type == INFER_KV_F32 && a->x.rows <= c->pass.n_rows);
    memset(&call, 0, sizeof call);
    memset(&k, 0, sizeof k);
    k.x = infer__gpu_tensor(c, &a->x, &call.bufs[0]);
    call.bufs[1] = a->rows->buf.handle;
    call.bufs[2] = c->run->pass.handle;
    k.x_stride = (uint32_t)a->x.stride;
    k.group = (uint32_t)a->group;
    k.cols = (uint32_t)a->x.cols;
    k.parts = (uint32_t)infer__gpu_parts(k.cols, 256);
    INFER__GPU_LAUNCH(c, INFER__K_ROWS_STORE, &call, (uint64_t)a->x.rows * k.parts, 1, k);
    infer__gpu_end(c, "rows_store", 0, began);
}

static void infer__gpu_compress(infer__ctx *c, const infer__compress_args *a) {
    infer__gpu_call call;
    struct infer__k_compress k;
    double began = infer__op_begin(c);
    if (began < 0 || !infer__gpu_kv_ok(c, a->entries, a->entries)) return;
    if (!infer__vector_ok(c, a->norm, "norms of entries")) return;
    INFER__ASSERT(a->rows->type == INFER_KV_F32 && a->dim <= INFER__MAX_HEAD_DIM && a->rope.n_rot <= a->dim);
    INFER__ASSERT(a->first + (a->place ? 2 : 1) * a->dim * (1 + a->overlap) <= a->width && !a->rope.axes);
    memset(&call, 0, sizeof call);
    memset(&k, 0, sizeof k);
    call.bufs[0] = a->rows->buf.handle;
    call.bufs[1] = a->entries->buf.handle;
    call.bufs[2] = call.bufs[4] = call.bufs[0]; /* any buffer will do where there are none */
    k.place = infer__gpu_vector(c, a->place, &call.bufs[2]); /* float32: see infer__gpu_supports */
    k.norm = infer__gpu_vector(c, a->norm, &call.bufs[3]);
    k.has_place = a->place != NULL;
    if (a->rope.kind != INFER__ROPE_NONE) {
        INFER__ASSERT(a->rope.freq->bytes >= (uint64_t)a->rope.n_rot * 2 * sizeof(float));
        call.bufs[4] = a->rope.freq->handle;
        k.kind = (uint32_t)a->rope.kind;
        k.half_rot = (uint32_t)a->rope.n_rot / 2;
        k.scale = a->rope.scale;
    }
    call.bufs[5] = c->run->pass.handle;
    k.rows_group = (uint32_t)a->rows_group;
    k.group = (uint32_t)a->group;
    k.width = (uint32_t)a->width;
    k.first = (uint32_t)a->first;
    k.dim = (uint32_t)a->dim;
    k.every = (uint32_t)a->every;
    k.overlap = (uint32_t)a->overlap;
    k.eps = a->eps;
    INFER__GPU_LAUNCH(c, INFER__K_COMPRESS, &call, (uint64_t)a->n_rows, 1, k);
    infer__gpu_end(c, "compress", 0, began);
}

#endif
