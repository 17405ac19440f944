/* gpu_backend.c: the op vtable of GPUs, written once: every op is a launch or a few over a driver.
 *
 * Owns:  infer__gpu_ops; struct infer__gpu_run: a context's queue, its opened kernels, and the values per token on
 *        their way to the device; how those are packed (infer__gpu_pack; kernels/dialect.h reads them).
 * Rules: names no vendor and no kernel's insides: what a launch means stands in kernels/, at its args struct. Nothing
 *        is created or freed between prepare and finish. Whatever cannot be done is found before the launch, since a
 *        kernel cannot complain: the helpers below call infer__fail, and infer__gpu_launch does nothing after a
 *        failure. Checks of arguments and profile rows are those of the CPU.
 * Start: infer__gpu_launch, infer__gpu_norm for the shape of an op, infer__gpu_pack.
 */
#include "gpu.h"

#ifndef INFER_NO_GPU
#include "../../kernels_embed.h"

enum {
    INFER__GPU_FEW = 8,            /* rows of x up to which matvec reads the weights once a row and still wins */
    INFER__GPU_BUFS = 5,           /* of a kernel, at most */
    INFER__GPU_MAX_EXPERTS = 1024, /* that moe.k holds in local memory */
    INFER__GPU_PASS_HEAD = 8       /* ints before the arrays of a packed pass: PASS_* in dialect.h */
};

/* The kernels of one program: base, keys and values, or a storage type. Those of other kinds stay NULL. */
typedef struct infer__gpu_set {
    int32_t kind, id;
    void *kernels[INFER__KERNEL_COUNT];
} infer__gpu_set;

struct infer__gpu_run {
    const infer__driver *driver;
    void *queue;
    infer__gpu_set *sets;
    int32_t n_sets;
    int32_t *staging; /* a packed pass, and its copy on the device: `cap` ints each */
    infer__buf pass;
    uint64_t cap;
    int32_t in_flight; /* staging may still be read by the upload: a sync ends that */
};

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* What the driver said; `what` was being done. */
static void infer__gpu_fail(infer__ctx *c, const char *what, const infer_error *err) {
    infer__fail(c, err->code, "%s: %s: %s", infer__gpu_name(c->gpu), what, err->message);
}

static int infer__gpu_buf_alloc(infer__ctx *c, infer__buf *b, uint64_t bytes) {
    infer_error err;
    memset(b, 0, sizeof *b);
    if (bytes == 0) return 0; /* as on the CPU */
    if (infer__gpu_alloc(c->gpu, b, bytes, &err) == INFER_OK) return 1;
    infer__fail(c, err.code, "%s", err.message);
    return 0;
}

static void infer__gpu_buf_release(infer__ctx *c, infer__buf *b) { infer__gpu_free(c->gpu, b); }

static void infer__gpu_upload(infer__ctx *c, infer__buf *b, uint64_t offset, const void *src, uint64_t bytes) {
    infer_error err;
    INFER__ASSERT(offset <= b->bytes && bytes <= b->bytes - offset);
    if (!infer__ok(c) || bytes == 0) return;
    infer__error_clear(&err);
    if (c->run->driver->upload(c->run->queue, b->handle, offset, src, bytes, &err))
        infer__gpu_fail(c, "upload", &err);
    else c->bytes_up += bytes;
}

static void infer__gpu_download(infer__ctx *c, const infer__buf *b, uint64_t offset, void *dst, uint64_t bytes) {
    infer_error err;
    INFER__ASSERT(offset <= b->bytes && bytes <= b->bytes - offset);
    if (!infer__ok(c) || bytes == 0) return;
    infer__error_clear(&err);
    if (c->run->driver->download(c->run->queue, b->handle, offset, dst, bytes, &err))
        infer__gpu_fail(c, "download", &err);
    else c->bytes_down += bytes;
}

/* The two places do not overlap: an API need not allow it. */
static void infer__gpu_copy_bytes(infer__ctx *c, infer__buf *dst, uint64_t dst_offset, const infer__buf *src,
                                  uint64_t src_offset, uint64_t bytes) {
    infer_error err;
    INFER__ASSERT(dst_offset <= dst->bytes && bytes <= dst->bytes - dst_offset);
    INFER__ASSERT(src_offset <= src->bytes && bytes <= src->bytes - src_offset);
    INFER__ASSERT(dst->handle != src->handle || dst_offset + bytes <= src_offset || src_offset + bytes <= dst_offset);
    if (!infer__ok(c) || bytes == 0) return;
    infer__error_clear(&err);
    if (c->run->driver->copy(c->run->queue, dst->handle, dst_offset, src->handle, src_offset, bytes, &err))
        infer__gpu_fail(c, "copy", &err);
}

/* After a failure too: what was handed over before it may still be on its way. */
static void infer__gpu_sync(infer__ctx *c) {
    infer_error err;
    if (!c->run || !c->run->queue) return;
    infer__error_clear(&err);
    c->syncs++;
    c->run->in_flight = 0;
    if (c->run->driver->sync(c->run->queue, &err)) infer__gpu_fail(c, "wait", &err);
}

/* ---- the values per token ---------------------------------------------------------------------------------------- */

/* Pages per sequence that the pass reaches: all sequences have as many as the longest. */
static int32_t infer__gpu_pages(const infer__pass *p) {
    int32_t i, last = 0;
    for (i = 0; i < p->n_rows; i++) last = INFER__MAX(last, p->pos[i]);
    return last / INFER__PAGE + 1;
}

/* Ints of a packed pass. */
static uint64_t infer__gpu_pass_len(const infer__pass *p) {
    return INFER__GPU_PASS_HEAD + 3 * (uint64_t)p->n_rows + (uint64_t)p->n_out +
           (uint64_t)p->n_seq * (1 + INFER__CACHE_GROUPS * (uint64_t)infer__gpu_pages(p));
}

/* n ints to to[*at], which becomes the place `slot` of the head. */
static void infer__gpu_put(int32_t *to, int slot, int32_t *at, const int32_t *from, int32_t n) {
    if (slot >= 0) to[slot] = *at;
    if (n > 0) memcpy(to + *at, from, (size_t)n * sizeof *to);
    *at += n;
}

/* The head says where each array begins, in the order of infer__pass; then the arrays, as long as they are used. */
static void infer__gpu_pack(const infer__pass *p, int32_t *to) {
    int32_t at = INFER__GPU_PASS_HEAD, stride = infer__gpu_pages(p), g, s;
    infer__gpu_put(to, 0, &at, p->ids, p->n_rows);
    infer__gpu_put(to, 1, &at, p->pos, p->n_rows);
    infer__gpu_put(to, 2, &at, p->seq, p->n_rows);
    infer__gpu_put(to, 3, &at, p->out, p->n_out);
    infer__gpu_put(to, 4, &at, p->extended, p->n_seq);
    INFER__ASSERT(stride <= p->max_pages);
    for (g = 0; g < INFER__CACHE_GROUPS; g++) {
        infer__gpu_put(to, 5 + g, &at, NULL, 0);
        for (s = 0; s < p->n_seq; s++)
            infer__gpu_put(to, -1, &at, p->pages[g] + (int64_t)s * p->max_pages, stride);
    }
    to[7] = stride;
}

static void infer__gpu_begin(infer__ctx *c) {
    struct infer__gpu_run *run = c->run;
    uint64_t n = infer__gpu_pass_len(&c->pass);
    if (!infer__ok(c)) return;
    if (n > run->cap || n > INT32_MAX) {
        infer__fail(c, INFER_ERR_STATE, "a pass of %d rows and %d sequences does not fit its buffer of %llu values",
                    (int)c->pass.n_rows, (int)c->pass.n_seq, (unsigned long long)run->cap);
        return;
    }
    if (run->in_flight) infer__gpu_sync(c); /* the caller went on to another pass without waiting */
    infer__gpu_pack(&c->pass, run->staging);
    run->in_flight = 1;
    infer__gpu_upload(c, &run->pass, 0, run->staging, n * sizeof *run->staging);
}

/* ---- queue and kernels ------------------------------------------------------------------------------------------- */

static infer__gpu_set *infer__gpu_find(const struct infer__gpu_run *run, int32_t kind, int32_t id) {
    int32_t i;
    for (i = 0; i < run->n_sets; i++)
        if (run->sets[i].kind == kind && run->sets[i].id == id) return &run->sets[i];
    return NULL;
}

/* All kernels of a program that the device has. */
static infer_result infer__gpu_set_open(infer__ctx *c, int32_t kind, int32_t id, infer_error *err) {
    infer__gpu_set *set = &c->run->sets[c->run->n_sets++];
    infer_result r = INFER_OK;
    int32_t i;
    set->kind = kind;
    set->id = id;
    for (i = 0; i < INFER__KERNEL_COUNT && !r; i++)
        if (INFER__KERNELS[i].kind == kind)
            r = infer__gpu_kernel(c->gpu, c->run->queue, i, id, &set->kernels[i], err);
    return r;
}

static uint64_t infer__gpu_run_bytes(uint64_t block_len) {
    return (INFER__GPU_PASS_HEAD + block_len) * sizeof(int32_t);
}

static infer_result infer__gpu_run_open(infer__ctx *c, infer_error *err) {
    struct infer__gpu_run *run = c->run;
    const infer__quant *q;
    infer_error why;
    infer_result r;
    int32_t i, n = 2;
    infer__error_clear(&why);
    r = run->driver->queue_open(&run->queue, infer__gpu_device(c->gpu), &why);
    if (r) {
        run->queue = NULL;
        return infer__error(err, r, "%s: queue: %s", infer__gpu_name(c->gpu), why.message);
    }
    r = infer__gpu_use_kv(c->gpu, c->kv_type, err);
    if (r) return r;
    for (i = 0; (q = infer__quant_row(i)) != NULL; i++) n += infer__gpu_has_program(c->gpu, INFER__MODULE_TYPE, q->id);
    run->cap = infer__gpu_run_bytes((uint64_t)c->pass.block_len) / sizeof *run->staging;
    run->sets = (infer__gpu_set *)infer__calloc(c->mem, (uint64_t)n, sizeof *run->sets);
    run->staging = (int32_t *)infer__calloc(c->mem, run->cap, sizeof *run->staging);
    if (!run->sets || !run->staging)
        return infer__error(err, INFER_ERR_MEMORY, "no memory for a pass of %llu values",
                            (unsigned long long)run->cap);
    r = infer__gpu_set_open(c, INFER__MODULE_BASE, 0, err);
    if (!r) r = infer__gpu_set_open(c, INFER__MODULE_KV, c->kv_type, err);
    for (i = 0; !r && run->n_sets < n && (q = infer__quant_row(i)) != NULL; i++)
        if (infer__gpu_has_program(c->gpu, INFER__MODULE_TYPE, q->id))
            r = infer__gpu_set_open(c, INFER__MODULE_TYPE, q->id, err);
    return r;
}

static int infer__gpu_prepare(infer__ctx *c, int32_t max_cols) {
    infer_error err;
    (void)max_cols; /* scratch is the kernels' own */
    infer__error_clear(&err);
    c->run = (struct infer__gpu_run *)infer__calloc(c->mem, 1, sizeof *c->run);
    if (!c->run) {
        infer__fail(c, INFER_ERR_MEMORY, "no memory for a queue");
        return 0;
    }
    c->run->driver = infer__gpu_driver(c->gpu);
    if (infer__gpu_run_open(c, &err)) {
        infer__fail(c, err.code, "%s", err.message);
        return 0;
    }
    return infer__gpu_buf_alloc(c, &c->run->pass, c->run->cap * sizeof *c->run->staging);
}

static void infer__gpu_finish(infer__ctx *c) {
    struct infer__gpu_run *run = c->run;
    int32_t i;
    size_t k;
    if (!run) return;
    for (i = 0; i < run->n_sets; i++)
        for (k = 0; k < INFER__KERNEL_COUNT; k++)
            if (run->sets[i].kernels[k]) run->driver->kernel_close(run->queue, run->sets[i].kernels[k]);
    if (run->queue) run->driver->queue_close(run->queue);
    infer__gpu_buf_release(c, &run->pass);
    infer__free(c->mem, run->staging); /* after the queue, which may read it */
    infer__free(c->mem, run->sets);
    infer__free(c->mem, run);
    c->run = NULL;
}

/* ---- launching --------------------------------------------------------------------------------------------------- */

/* What a launch gets. Kernels of other kinds than TYPE need no type. */
typedef struct infer__gpu_call {
    const infer__quant *type;
    uint64_t bufs[INFER__GPU_BUFS];
} infer__gpu_call;

/* x * y groups. Empty grids are no launch: APIs refuse them. */
static void infer__gpu_launch(infer__ctx *c, int32_t kernel, const infer__gpu_call *call, uint64_t x, uint64_t y,
                              const void *args, size_t args_size) {
    const infer__kernel_row *row = &INFER__KERNELS[kernel];
    int32_t id = row->kind == INFER__MODULE_TYPE ? call->type->id : row->kind == INFER__MODULE_KV ? c->kv_type : 0;
    const infer__gpu_set *set;
    uint32_t groups[3];
    infer_error err;
    if (!infer__ok(c) || x == 0 || y == 0) return;
    INFER__ASSERT(args_size == (size_t)row->args_size && row->buffers <= INFER__GPU_BUFS);
    set = infer__gpu_find(c->run, row->kind, id);
    INFER__ASSERT(set && set->kernels[kernel]);
    if (x > INT32_MAX || y > UINT16_MAX) { /* what every API takes */
        infer__fail(c, INFER_ERR_UNSUPPORTED, "%s: a grid of %llu x %llu groups is too large", row->name,
                    (unsigned long long)x, (unsigned long long)y);
        return;
    }
    groups[0] = (uint32_t)x;
    groups[1] = (uint32_t)y;
    groups[2] = 1;
    infer__error_clear(&err);
    if (c->run->driver->launch(c->run->queue, set->kernels[kernel], groups, row->group, call->bufs, row->buffers, args,
                               (uint32_t)args_size, &err))
        infer__gpu_fail(c, row->name, &err);
    else c->launches++;
}
#define INFER__GPU_LAUNCH(c, kernel, call, x, y, k) infer__gpu_launch(c, kernel, call, x, y, &(k), sizeof(k))

static uint64_t infer__gpu_parts(uint64_t n, uint64_t each) { return (n + each - 1) / each; }

/* Bytes as a number of floats that kernels take: 32 bits. */
static uint32_t infer__gpu_floats(infer__ctx *c, uint64_t bytes) {
    if (bytes / sizeof(float) <= UINT32_MAX && bytes % sizeof(float) == 0) return (uint32_t)(bytes / sizeof(float));
    infer__fail(c, INFER_ERR_UNSUPPORTED, "an offset of %llu bytes is too large for the GPU kernels, or odd",
                (unsigned long long)bytes);
    return 0;
}

/* First float of a tensor, in the buffer *buf. */
static uint32_t infer__gpu_tensor(infer__ctx *c, const infer__tensor *t, uint64_t *buf) {
    INFER__ASSERT(t->rows == 0 ||
                  t->offset + ((uint64_t)(t->rows - 1) * (uint64_t)t->stride + (uint64_t)t->cols) * sizeof(float) <=
                      t->buf->bytes);
    *buf = t->buf->handle;
    return infer__gpu_floats(c, t->offset);
}

static int infer__gpu_there(infer__ctx *c, const infer__weight *w) {
    if (w->buf && w->buf->bytes) return 1;
    infer__fail(c, INFER_ERR_UNSUPPORTED, "%s is not on the GPU", w->name ? w->name : "a weight");
    return 0;
}

/* First float of a vector (norm, bias, scales), which lies on the device as float32; *buf stays when there is none. */
static uint32_t infer__gpu_vector(infer__ctx *c, const infer__weight *w, uint64_t *buf) {
    uint64_t bytes;
    if (!w) return 0;
    bytes = (uint64_t)w->rows * (uint64_t)w->cols * sizeof(float);
    if (!infer__gpu_there(c, w)) return 0;
    INFER__ASSERT(w->offset + bytes <= w->buf->bytes);
    *buf = w->buf->handle;
    return infer__gpu_floats(c, w->offset + bytes) - (uint32_t)(bytes / sizeof(float)); /* all of it in 32 bits */
}

/* The place of a matrix in bytes; 0 when kernels cannot take it. */
static int infer__gpu_matrix(infer__ctx *c, const infer__weight *w, infer__gpu_call *call, uint32_t *lo, uint32_t *hi,
                             uint32_t *row_bytes) {
    if (!infer__gpu_there(c, w)) return 0;
    INFER__ASSERT(w->offset + (uint64_t)w->rows * w->row_bytes <= w->buf->bytes);
    if (!infer__gpu_find(c->run, INFER__MODULE_TYPE, w->type->id) || w->row_bytes > UINT32_MAX) {
        infer__fail(c, INFER_ERR_UNSUPPORTED, "%s: there are no GPU kernels for a matrix of type %s",
                    w->name ? w->name : "a weight", w->type->name);
        return 0;
    }
    call->type = w->type;
    call->bufs[0] = w->buf->handle;
    *lo = (uint32_t)w->offset;
    *hi = (uint32_t)(w->offset >> 32);
    *row_bytes = (uint32_t)w->row_bytes;
    return 1;
}

/* As infer__op_end; a context that is profiling waits, so that the time is the op's. */
static void infer__gpu_end(infer__ctx *c, const char *op, uint64_t bytes, double began) {
    if (c->profiling) infer__gpu_sync(c);
    if (infer__ok(c)) infer__op_end(c, op, bytes, began);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static void infer__gpu_embed_table(infer__ctx *c, const infer__embed_args *a, int positions) {
    const infer__weight *w = positions ? a->positions : a->table;
    infer__gpu_call call;
    struct infer__k_embed k;
    memset(&call, 0, sizeof call);
    memset(&k, 0, sizeof k);
    if (!infer__gpu_matrix(c, w, &call, &k.table_lo, &k.table_hi, &k.row_bytes)) return;
    k.y = infer__gpu_tensor(c, &a->y, &call.bufs[1]);
    call.bufs[2] = c->run->pass.handle;
    k.y_stride = (uint32_t)a->y.stride;
    k.cols = (uint32_t)a->y.cols;
    k.parts = (uint32_t)infer__gpu_parts(k.cols, 2048);
    k.from_pos = k.add = (uint32_t)positions;
    k.scale = positions ? 1.0f : a->scale;
    INFER__GPU_LAUNCH(c, INFER__K_EMBED, &call, (uint64_t)a->y.rows * k.parts, 1, k);
}

static void infer__gpu_embed(infer__ctx *c, const infer__embed_args *a) {
    double began = infer__op_begin(c);
    if (began < 0 || !infer__embed_ok(c, a)) return;
    INFER__ASSERT(a->table->cols == a->y.cols && a->y.rows <= c->pass.n_rows);
    infer__gpu_embed_table(c, a, 0);
    if (a->positions && infer__ok(c)) infer__gpu_embed_table(c, a, 1);
    infer__gpu_end(c, "embed", (uint64_t)a->y.rows * a->table->row_bytes, began);
}

static void infer__gpu_get_rows(infer__ctx *c, const infer__get_rows_args *a) {
    infer__gpu_call call;
    struct infer__k_get_rows k;
    int32_t i;
    double began = infer__op_begin(c);
    if (began < 0) return;
    INFER__ASSERT(a->y.rows <= c->pass.n_out && a->x.cols == a->y.cols);
    for (i = 0; i < a->y.rows; i++) INFER__ASSERT(c->pass.out[i] >= 0 && c->pass.out[i] < a->x.rows);
    memset(&call, 0, sizeof call);
    memset(&k, 0, sizeof k);
    k.x = infer__gpu_tensor(c, &a->x, &call.bufs[0]);
    k.y = infer__gpu_tensor(c, &a->y, &call.bufs[1]);
    call.bufs[2] = c->run->pass.handle;
    k.x_stride = (uint32_t)a->x.stride;
    k.y_stride = (uint32_t)a->y.stride;
    k.cols = (uint32_t)a->y.cols;
    k.parts = (uint32_t)infer__gpu_parts(k.cols, 256);
    INFER__GPU_LAUNCH(c, INFER__K_GET_ROWS, &call, (uint64_t)a->y.rows * k.parts, 1, k);
    infer__gpu_end(c, "get_rows", 0, began);
}

/* A set of weights per group of values, or one for all: floats from one group's to the next one's. */
static uint32_t infer__gpu_norm_step(const infer__weight *w, int32_t n) {
    return w && (int64_t)w->rows * w->cols > n ? (uint32_t)n : 0;
}

static void infer__gpu_norm(infer__ctx *c, const infer__norm_args *a) {
    infer__gpu_call call;
    struct infer__k_norm k;
    int32_t n = a->x.cols / a->n_groups;
    double began = infer__op_begin(c);
    if (began < 0) return;
    INFER__ASSERT(a->x.cols % a->n_groups == 0 && a->y.rows == a->x.rows && a->y.cols == a->x.cols);
    memset(&call, 0, sizeof call);
    memset(&k, 0, sizeof k);
    k.x = infer__gpu_tensor(c, &a->x, &call.bufs[0]);
    k.y = infer__gpu_tensor(c, &a->y, &call.bufs[1]);
    call.bufs[2] = call.bufs[3] = call.bufs[0]; /* any buffer will do where there are no weights */
    k.weight = infer__gpu_vector(c, a->weight, &call.bufs[2]);
    k.bias = infer__gpu_vector(c, a->bias, &call.bufs[3]);
    k.x_stride = (uint32_t)a->x.stride;
    k.y_stride = (uint32_t)a->y.stride;
    k.n = (uint32_t)n;
    k.n_groups = (uint32_t)a->n_groups;
    k.layer = a->kind == INFER__NORM_LAYER;
    k.weight_step = infer__gpu_norm_step(a->weight, n);
    k.bias_step = infer__gpu_norm_step(a->bias, n);
    k.has_weight = a->weight != NULL;
    k.has_bias = a->bias != NULL;
    k.eps = a->eps;
    INFER__GPU_LAUNCH(c, INFER__K_NORM, &call, (uint64_t)a->x.rows * k.n_groups, 1, k);
    infer__gpu_end(c, "norm", 0, began);
}

static void infer__gpu_rope(infer__ctx *c, const infer__rope_args *a) {
    infer__gpu_call call;
    struct infer__k_rope k;
    double began = infer__op_begin(c);
    if (began < 0 || a->kind == INFER__ROPE_NONE) return;
    INFER__ASSERT(a->n_rot <= a->dim && a->n_rot % 2 == 0 && a->x.cols == a->n_head * a->dim);
    INFER__ASSERT(a->freq->bytes >= (uint64_t)a->n_rot * 2 * sizeof(float) && a->x.rows <= c->pass.n_rows);
    memset(&call, 0, sizeof call);
    memset(&k, 0, sizeof k);
    k.x = infer__gpu_tensor(c, &a->x, &call.bufs[0]);
    call.bufs[1] = a->freq->handle;
    call.bufs[2] = c->run->pass.handle;
    k.x_stride = (uint32_t)a->x.stride;
    k.n_head = (uint32_t)a->n_head;
    k.dim = (uint32_t)a->dim;
    k.half_rot = (uint32_t)a->n_rot / 2;
    k.kind = (uint32_t)a->kind;
    k.parts = (uint32_t)infer__gpu_parts((uint64_t)k.n_head * k.half_rot, 64);
    k.scale = a->scale;
    INFER__GPU_LAUNCH(c, INFER__K_ROPE, &call, (uint64_t)a->x.rows * k.parts, 1, k);
    infer__gpu_end(c, "rope", 0, began);
}

/* ---- matrices ---------------------------------------------------------------------------------------------------- */

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

/* ---- cache and attention ----------------------------------------------------------------------------------------- */

static int infer__gpu_kv_ok(infer__ctx *c, const infer__kv_buf *k, const infer__kv_buf *v) {
    if (k->type == c->kv_type && v->type == c->kv_type) return 1;
    infer__fail(c, INFER_ERR_UNSUPPORTED, "cache type %d is not supported on the GPU: its kernels are of type %d",
                (int)(k->type == c->kv_type ? v->type : k->type), (int)c->kv_type);
    return 0;
}

static void infer__gpu_kv_store(infer__ctx *c, const infer__kv_store_args *a) {
    infer__gpu_call call;
    struct infer__k_kv_store k;
    double began = infer__op_begin(c);
    if (began < 0 || !infer__gpu_kv_ok(c, a->k_cache, a->v_cache)) return;
    INFER__ASSERT(a->k.rows == a->v.rows && a->k.rows <= c->pass.n_rows);
    INFER__ASSERT(a->k.cols == a->n_head * a->dim_k && a->v.cols == a->n_head * a->dim_v);
    memset(&call, 0, sizeof call);
    memset(&k, 0, sizeof k);
    k.k = infer__gpu_tensor(c, &a->k, &call.bufs[0]);
    k.v = infer__gpu_tensor(c, &a->v, &call.bufs[1]);
    call.bufs[2] = a->k_cache->buf.handle;
    call.bufs[3] = a->v_cache->buf.handle;
    call.bufs[4] = c->run->pass.handle;
    k.k_stride = (uint32_t)a->k.stride;
    k.v_stride = (uint32_t)a->v.stride;
    k.group = (uint32_t)a->group;
    k.n_head = (uint32_t)a->n_head;
    k.dim_k = (uint32_t)a->dim_k;
    k.dim_v = (uint32_t)a->dim_v;
    k.parts = (uint32_t)infer__gpu_parts((uint64_t)k.n_head * (k.dim_k + k.dim_v), 256);
    INFER__GPU_LAUNCH(c, INFER__K_KV_STORE, &call, (uint64_t)a->k.rows * k.parts, 1, k);
    infer__gpu_end(c, "kv_store", 0, began);
}

static void infer__gpu_attention(infer__ctx *c, const infer__attention_args *a) {
    infer__gpu_call call;
    struct infer__k_attention k;
    double began = infer__op_begin(c);
    if (began < 0 || !infer__gpu_kv_ok(c, a->k_cache, a->v_cache)) return;
    INFER__ASSERT(a->n_head % a->n_head_kv == 0 && a->q.rows <= c->pass.n_rows);
    INFER__ASSERT(a->q.cols == a->n_head * a->dim_k && a->y.cols == a->n_head * a->dim_v);
    if (a->dim_k > INFER__MAX_HEAD_DIM || a->dim_v > INFER__MAX_HEAD_DIM) {
        infer__fail(c, INFER_ERR_UNSUPPORTED, "heads of %d and %d values are too long for the GPU kernels: at most %d",
                    (int)a->dim_k, (int)a->dim_v, (int)INFER__MAX_HEAD_DIM);
        return;
    }
    memset(&call, 0, sizeof call);
    memset(&k, 0, sizeof k);
    k.q = infer__gpu_tensor(c, &a->q, &call.bufs[0]);
    call.bufs[1] = a->k_cache->buf.handle;
    call.bufs[2] = a->v_cache->buf.handle;
    k.y = infer__gpu_tensor(c, &a->y, &call.bufs[3]);
    call.bufs[4] = c->run->pass.handle;
    k.q_stride = (uint32_t)a->q.stride;
    k.y_stride = (uint32_t)a->y.stride;
    k.group = (uint32_t)a->group;
    k.n_head = (uint32_t)a->n_head;
    k.n_head_kv = (uint32_t)a->n_head_kv;
    k.dim_k = (uint32_t)a->dim_k;
    k.dim_v = (uint32_t)a->dim_v;
    k.window = a->window > 0 ? (uint32_t)a->window : 0;
    k.scale = a->scale;
    k.softcap = a->softcap;
    k.max_bias = a->max_bias;
    k.temp_scale = a->temp_scale;
    k.temp_floor = a->temp_floor;
    k.temp_offset = a->temp_offset;
    INFER__GPU_LAUNCH(c, INFER__K_ATTENTION, &call, (uint64_t)a->q.rows * k.n_head, 1, k);
    infer__gpu_end(c, "attention", c->profiling ? infer__attention_bytes(a, infer__attention_seen(c, a)) : 0, began);
}

/* ---- elementwise ------------------------------------------------------------------------------------------------- */

static void infer__gpu_act(infer__ctx *c, const infer__act_args *a) {
    infer__gpu_call call;
    struct infer__k_act k;
    double began = infer__op_begin(c);
    if (began < 0 || !infer__vector_ok(c, a->divide, "activation scales")) return;
    INFER__ASSERT(a->y.rows == a->x.rows && a->y.cols == a->x.cols);
    memset(&call, 0, sizeof call);
    memset(&k, 0, sizeof k);
    k.x = infer__gpu_tensor(c, &a->x, &call.bufs[0]);
    k.y = infer__gpu_tensor(c, &a->y, &call.bufs[2]);
    call.bufs[1] = call.bufs[3] = call.bufs[0];
    if (a->up.buf) {
        k.up = infer__gpu_tensor(c, &a->up, &call.bufs[1]);
        k.up_stride = (uint32_t)a->up.stride;
        k.has_up = 1;
    }
    k.divide = infer__gpu_vector(c, a->divide, &call.bufs[3]);
    k.has_divide = a->divide != NULL;
    k.x_stride = (uint32_t)a->x.stride;
    k.y_stride = (uint32_t)a->y.stride;
    k.cols = (uint32_t)a->x.cols;
    k.parts = (uint32_t)infer__gpu_parts(k.cols, 256);
    k.kind = (uint32_t)a->kind;
    INFER__GPU_LAUNCH(c, INFER__K_ACT, &call, (uint64_t)a->x.rows * k.parts, 1, k);
    infer__gpu_end(c, "act", 0, began);
}

static void infer__gpu_add(infer__ctx *c, const infer__add_args *a) {
    infer__gpu_call call;
    struct infer__k_add k;
    double began = infer__op_begin(c);
    if (began < 0) return;
    INFER__ASSERT(a->y.rows == a->x.rows && a->y.cols == a->x.cols);
    memset(&call, 0, sizeof call);
    memset(&k, 0, sizeof k);
    k.x = infer__gpu_tensor(c, &a->x, &call.bufs[0]);
    k.y = infer__gpu_tensor(c, &a->y, &call.bufs[1]);
    k.x_stride = (uint32_t)a->x.stride;
    k.y_stride = (uint32_t)a->y.stride;
    k.cols = (uint32_t)a->x.cols;
    k.parts = (uint32_t)infer__gpu_parts(k.cols, 256);
    k.scale = a->scale;
    INFER__GPU_LAUNCH(c, INFER__K_ADD, &call, (uint64_t)a->x.rows * k.parts, 1, k);
    infer__gpu_end(c, "add", 0, began);
}

static void infer__gpu_map(infer__ctx *c, const infer__map_args *a) {
    infer__gpu_call call;
    struct infer__k_map k;
    double began = infer__op_begin(c);
    if (began < 0) return;
    memset(&call, 0, sizeof call);
    memset(&k, 0, sizeof k);
    k.x = infer__gpu_tensor(c, &a->x, &call.bufs[0]);
    k.x_stride = (uint32_t)a->x.stride;
    k.cols = (uint32_t)a->x.cols;
    k.parts = (uint32_t)infer__gpu_parts(k.cols, 256);
    k.scale = a->scale;
    k.cap = a->cap;
    k.clamp = a->clamp;
    INFER__GPU_LAUNCH(c, INFER__K_MAP, &call, (uint64_t)a->x.rows * k.parts, 1, k);
    infer__gpu_end(c, "map", 0, began);
}

static const infer__ops infer__gpu_ops = {
    .name = "gpu",
    .embed = infer__gpu_embed,
    .get_rows = infer__gpu_get_rows,
    .norm = infer__gpu_norm,
    .matmul = infer__gpu_matmul,
    .rope = infer__gpu_rope,
    .kv_store = infer__gpu_kv_store,
    .attention = infer__gpu_attention,
    .act = infer__gpu_act,
    .add = infer__gpu_add,
    .map = infer__gpu_map,
    .moe_route = infer__gpu_moe_route,
    .moe_matmul = infer__gpu_moe_matmul,
    .begin = infer__gpu_begin,
    .sync = infer__gpu_sync,
    .alloc = infer__gpu_buf_alloc,
    .release = infer__gpu_buf_release,
    .upload = infer__gpu_upload,
    .download = infer__gpu_download,
    .copy_bytes = infer__gpu_copy_bytes,
    .prepare = infer__gpu_prepare,
    .finish = infer__gpu_finish,
};

#else
static const infer__ops infer__gpu_ops = { .name = NULL }; /* no model gets a device: nobody calls these */
static uint64_t infer__gpu_run_bytes(uint64_t block_len) { (void)block_len; return 0; }
#endif
