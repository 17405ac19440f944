/* gpu_run.c: the basis of every op on a GPU: a context's queue and opened kernels, uploading the values per token,
 * launches.
 *
 * Owns:  struct infer__gpu_run; how a pass is packed (infer__gpu_pack; kernels/dialect.h reads it).
 * Rules: names no vendor. Nothing is created or freed between prepare and finish. Everything is checked before the
 *        launch, since a kernel cannot report errors: the helpers below call infer__fail, and infer__gpu_launch does
 *        nothing after a failure.
 * Start: infer__gpu_launch, infer__gpu_pack.
 */
#include "gpu.h"

#ifndef INFER_NO_GPU
#include "../../../kernels_embed.h"

enum {
    INFER__GPU_FEW = 8,            /* rows of x up to which matvec, reading the weights once per row, is faster */
    INFER__GPU_SIMD = 16,          /* rows of x from which Apple's matrix units are faster */
    INFER__GPU_BUFS = 14,          /* of a kernel, at most */
    INFER__GPU_PASS_HEAD = 15,     /* ints before the arrays of a packed pass: PASS_* in dialect.h */
    INFER__GPU_RECORDINGS = 8,     /* shapes of passes that are remembered */
    INFER__KERNEL_WORDS = (INFER__KERNEL_COUNT + 63) / 64, /* of 64 bits, one for each kernel */
    INFER__GPU_TIMED = 8192        /* launches between two syncs whose times are kept */
};

/* The kernels of one program: base, a cache type or a storage type; or a special one, present only if the device
 * supports it. Kernels of other kinds stay NULL. */
typedef struct infer__gpu_set {
    int32_t kind, id;
    void *kernels[INFER__KERNEL_COUNT];
} infer__gpu_set;

/* A known shape of passes; handle: the driver's recording, NULL = none yet. */
typedef struct infer__gpu_recording {
    void *handle;
    uint64_t shape, launches;
    uint64_t used; /* the number of the pass that it was last met in; 0 = free */
    int32_t refused;
} infer__gpu_recording;

/* The choices whose sorted pairs are in the run's lists, and the size of the tiles; ids.buf NULL: none. */
typedef struct infer__gpu_listed {
    infer__tensor ids;
    int32_t n_used, n_expert, of;
} infer__gpu_listed;

/* The tensor whose conversion is cached in x8, valid as long as no launch came after number `launches`; buf NULL:
 * none. */
typedef struct infer__gpu_rounded {
    infer__tensor x;
    uint64_t launches;
    int as; /* quantised to 8 bits, halves or BF16: gpu_moe.c */
} infer__gpu_rounded;

enum { INFER__GPU_MMA_WIDE = 200 };   /* tiles of 128 x 128 that fill a large device */
enum { INFER__GPU_MMA_GROUPS = 132 }; /* processors of the only devices with wgmma, so far */
struct infer__gpu_run {
    const infer__driver *driver;
    void *queue;
    infer__gpu_set *sets;
    int32_t n_sets;
    int32_t *staging; /* a packed pass, and its copy on the device: `cap` ints each */
    infer__buf pass;
    infer__buf x8; /* input of a product, quantised to 8 bits or halves: kernels/round.k; empty when x stays float */
    infer__buf parts; /* partial results of attention: parts_len floats, then zeroed counters */
    uint64_t parts_len;
    infer__buf ranks; /* of positions, for an indexer's choice: ranks_len words; see gpu_index.c */
    uint64_t ranks_len;
    infer__buf lists, pairs; /* of experts: ints, floats: see gpu_moe.c */
    infer__gpu_listed listed;
    infer__gpu_rounded rounded;
    uint64_t mma_wide;    /* minimum number for wide tiles in products by mma.sync; tests and the check: 0 = all, also
                           * those by wgmma, UINT64_MAX = none, and these share out as many columns as they can */
    uint64_t mma_groups;  /* and share out their columns into so many groups, when there are fewer tiles */
    uint64_t flash_parts; /* of attention on tensor cores; 0: as many as pay */
    uint64_t cap;
    int32_t in_flight; /* the upload may still be reading staging: sync before writing */
    infer__gpu_recording recordings[INFER__GPU_RECORDINGS], *recording; /* the one that is being made, NULL = none */
    uint64_t passes;
    double *times; /* of launches since the last sync, and what they belong to: see gpu_record.c; NULL = not timed */
    int32_t n_launched, n_timed;
    uint64_t kernels[INFER__KERNEL_WORDS]; /* that were launched, as bits: for checks */
};

static uint64_t infer__gpu_parts_len(int32_t cells, uint64_t head_values); /* gpu_attention.c */
static uint64_t infer__gpu_parts_bytes(uint64_t parts_len);
static uint64_t infer__gpu_ranks_len(const infer__needs *n); /* gpu_index.c */
static uint64_t infer__gpu_lists_len(uint64_t rows, int32_t n_used, int32_t n_expert); /* gpu_moe.c */
static uint64_t infer__gpu_pairs_len(uint64_t rows, int32_t n_used, int32_t cols);
static void infer__gpu_times(infer__ctx *c); /* gpu_record.c */
static void infer__gpu_timing(infer__ctx *c);
static void infer__gpu_timed(infer__ctx *c, const char *op, uint64_t bytes);
static void infer__gpu_recordings_close(struct infer__gpu_run *run);

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Report a driver's error; `what` was being done. */
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

/* Invalidate cached conversions: tensors were written by something other than an op of this pass. */
static void infer__gpu_forget(struct infer__gpu_run *run) {
    run->listed.ids.buf = run->rounded.x.buf = NULL;
}

static void infer__gpu_upload(infer__ctx *c, infer__buf *b, uint64_t offset, const void *src, uint64_t bytes) {
    infer_error err;
    INFER__ASSERT(offset <= b->bytes && bytes <= b->bytes - offset);
    if (!infer__ok(c) || bytes == 0) return;
    infer__gpu_forget(c->run);
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

/* The ranges must not overlap: APIs need not support that. */
static void infer__gpu_copy_bytes(infer__ctx *c, infer__buf *dst, uint64_t dst_offset, const infer__buf *src,
                                  uint64_t src_offset, uint64_t bytes) {
    infer_error err;
    INFER__ASSERT(dst_offset <= dst->bytes && bytes <= dst->bytes - dst_offset);
    INFER__ASSERT(src_offset <= src->bytes && bytes <= src->bytes - src_offset);
    INFER__ASSERT(dst->handle != src->handle || dst_offset + bytes <= src_offset || src_offset + bytes <= dst_offset);
    if (!infer__ok(c) || bytes == 0) return;
    infer__gpu_forget(c->run);
    infer__error_clear(&err);
    if (c->run->driver->copy(c->run->queue, dst->handle, dst_offset, src->handle, src_offset, bytes, &err))
        infer__gpu_fail(c, "copy", &err);
}

/* After a failure too: earlier transfers may still be in flight. */
static void infer__gpu_sync(infer__ctx *c) {
    infer_error err;
    if (!c->run || !c->run->queue) return;
    infer__error_clear(&err);
    c->syncs++;
    c->run->in_flight = 0;
    if (c->run->driver->sync(c->run->queue, &err)) infer__gpu_fail(c, "wait", &err);
    else infer__gpu_times(c);
}

/* ---- the values per token ---------------------------------------------------------------------------------------- */

/* The last position that a row of the pass sees, or is at. */
static int32_t infer__gpu_last(const infer__pass *p) {
    int32_t i, last = 0;
    for (i = 0; i < p->n_rows; i++) last = INFER__MAX(last, p->end ? p->end[i] - 1 : p->pos[i]);
    for (i = 0; p->source && i < p->n_seq; i++) last = INFER__MAX(last, p->source[i] - 1);
    return last;
}

/* Pages per sequence in the packed pass: as many for all as for the longest. */
static int32_t infer__gpu_pages(const infer__pass *p) { return infer__gpu_last(p) / INFER__PAGE + 1; }

/* Ints of a packed pass. */
static uint64_t infer__gpu_pass_len(const infer__pass *p) {
    return INFER__GPU_PASS_HEAD + (uint64_t)((p->end ? 4 : 3) + p->looks + (p->axis[0] ? 3 : 0)) * (uint64_t)p->n_rows +
           (uint64_t)(p->axis[0] ? p->n_axes : 0) + (uint64_t)p->n_out +
           (uint64_t)p->n_seq * ((p->cell_in ? 3 : 1) + (p->source != NULL) +
                                 INFER__CACHE_GROUPS * (uint64_t)infer__gpu_pages(p));
}

/* Append n ints at to[*at] and store the offset in entry `slot` of the header. */
static void infer__gpu_put(int32_t *to, int slot, int32_t *at, const int32_t *from, int32_t n) {
    if (slot >= 0) to[slot] = *at;
    if (n > 0) memcpy(to + *at, from, (size_t)n * sizeof *to);
    *at += n;
}

/* The header has the offset of each array, in the order of infer__pass; then come the used parts of the arrays. */
static void infer__gpu_pack(const infer__pass *p, int32_t *to) {
    int32_t at = INFER__GPU_PASS_HEAD, stride = infer__gpu_pages(p), g, s, i;
    infer__gpu_put(to, 0, &at, p->ids, p->n_rows);
    infer__gpu_put(to, 1, &at, p->pos, p->n_rows);
    infer__gpu_put(to, 2, &at, p->seq, p->n_rows);
    infer__gpu_put(to, 3, &at, p->out, p->n_out);
    infer__gpu_put(to, 10, &at, p->extended, p->n_seq);
    INFER__ASSERT(stride <= p->max_pages);
    for (g = 0; g < INFER__CACHE_GROUPS; g++) {
        infer__gpu_put(to, 5 + g, &at, NULL, 0);
        for (s = 0; s < p->n_seq; s++)
            infer__gpu_put(to, -1, &at, p->pages[g] + (int64_t)s * p->max_pages, stride);
    }
    to[7] = stride;
    infer__gpu_put(to, 8, &at, p->cell_in, p->cell_in ? p->n_seq : 0);
    infer__gpu_put(to, 9, &at, p->cell_out, p->cell_in ? p->n_seq : 0);
    to[4] = p->end ? at : to[1]; /* among the first 8: special/attention/row.k reads no more of the head */
    for (i = 0; p->end && i < p->n_rows; i++) to[at++] = p->end[i] - 1;
    infer__gpu_put(to, 11, &at, p->looked, p->n_rows * p->looks);
    infer__gpu_put(to, 12, &at, p->source, p->source ? p->n_seq : 0);
    to[13] = at;
    for (i = 0; p->axis[0] && i < p->n_axes; i++) to[at++] = p->axes[i];
    to[14] = at;
    for (i = 0; i < 3 && p->axis[0]; i++) infer__gpu_put(to, -1, &at, p->axis[i], p->n_rows);
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
    infer__gpu_timing(c);
    if (run->in_flight) infer__gpu_sync(c); /* the caller started another pass without waiting */
    infer__gpu_pack(&c->pass, run->staging);
    run->in_flight = 1;
    infer__gpu_upload(c, &run->pass, 0, run->staging, n * sizeof *run->staging);
}

/* ---- queue and kernels ------------------------------------------------------------------------------------------- */

/* Processors of the device, 0 where the driver does not say. */
static int32_t infer__gpu_processors(const infer__ctx *c) {
    return c->run->driver->processors ? c->run->driver->processors(infer__gpu_device(c->gpu)) : 0;
}

static infer__gpu_set *infer__gpu_find(const struct infer__gpu_run *run, int32_t kind, int32_t id) {
    int32_t i;
    for (i = 0; i < run->n_sets; i++)
        if (run->sets[i].kind == kind && run->sets[i].id == id) return &run->sets[i];
    return NULL;
}

/* Open all kernels of a program that the device has. */
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

/* Open the kernels of a special program. They are optional: a failure is logged, not returned. */
static void infer__gpu_special_open(infer__ctx *c, int32_t kind, int32_t id) {
    infer__gpu_set *set = &c->run->sets[c->run->n_sets];
    infer_error err;
    int32_t i;
    infer__error_clear(&err);
    if (infer__gpu_set_open(c, kind, id, &err) == INFER_OK) return;
    infer__log(infer__gpu_report(c->gpu), 2, "%s; going on without them", err.message);
    for (i = 0; i < INFER__KERNEL_COUNT; i++)
        if (set->kernels[i]) c->run->driver->kernel_close(c->run->queue, set->kernels[i]);
    memset(set, 0, sizeof *set);
    c->run->n_sets--;
}

/* 1 when this context may launch kernels of a module: it was compiled, and is for all cache types or this one. */
static int infer__gpu_wants(infer__ctx *c, int32_t module) {
    const infer__module_row *row = infer__module_at(module);
    if (INFER__KINDS[row->kind].of == INFER__MODULE_KV && row->id != c->kv_type) return 0;
    return infer__gpu_has_program(c->gpu, row->kind, row->id);
}

/* Of a packed pass. */
static uint64_t infer__gpu_run_bytes(uint64_t block_len) {
    return (INFER__GPU_PASS_HEAD + block_len) * sizeof(int32_t);
}

/* 40 bytes for 32 values, or 2 bytes a value and 4 a row: see kernels/round.k. */
static uint64_t infer__gpu_x8_bytes(uint64_t x8_len) { return x8_len * (INFER__CHUNK * 2 + 16); }

/* Bytes of the partial sums of wgmma products, after x: as many tiles of 128 x 256 sums as there are processors, or as
 * there can be parts of 512 columns. */
static uint64_t infer__gpu_sums_bytes(const infer__needs *n) {
    uint64_t cols = (uint64_t)n->cols, tiles = (cols + 127) / 128 * (((uint64_t)n->rows + 255) / 256);
    if (n->rows <= 64 || cols < 1024) return 0;
    return INFER__MIN(INFER__GPU_MMA_GROUPS, tiles * (cols / 512)) * 128 * 256 * sizeof(float) + 4096;
}

/* Bytes of device memory that prepare takes. */
typedef struct infer__gpu_bytes {
    uint64_t pass, x8, parts_len, parts, ranks, lists, pairs; /* parts_len: floats */
} infer__gpu_bytes;
static infer__gpu_bytes infer__gpu_bytes_of(const infer__needs *n) {
    uint64_t rows = (uint64_t)n->rows;
    infer__gpu_bytes b;
    memset(&b, 0, sizeof b);
    b.pass = infer__gpu_run_bytes(n->block_len);
    if (!n->exact)
        b.x8 = infer__gpu_x8_bytes(INFER__MAX(infer__cpu_x8_len(rows, n->cols),
                                              infer__cpu_x8_len(rows * (uint64_t)n->n_used, n->expert_cols)));
    if (!n->exact)
        b.x8 = INFER__MAX(b.x8, infer__gpu_x8_bytes(infer__cpu_x8_len(rows * (uint64_t)n->n_placed, n->placed_cols)));
    if (!n->exact) b.x8 += infer__gpu_sums_bytes(n);
    b.parts_len = infer__gpu_parts_len(n->cells, n->head_values);
    b.parts = infer__gpu_parts_bytes(b.parts_len);
    b.ranks = infer__gpu_ranks_len(n) * sizeof(uint32_t);
    b.lists = INFER__MAX(infer__gpu_lists_len(rows, n->n_used, n->n_expert),
                         infer__gpu_lists_len(rows, n->n_placed, n->n_placed)) * sizeof(uint32_t);
    b.pairs = infer__gpu_pairs_len(rows, n->n_used, n->sum_cols) * sizeof(float);
    return b;
}

static void infer__gpu_sizes(const infer__needs *n, uint64_t *here, uint64_t *host) {
    infer__gpu_bytes b = infer__gpu_bytes_of(n);
    *here = b.pass + b.x8 + b.parts + b.ranks + b.lists + b.pairs;
    *host = b.pass; /* the pass goes there packed */
}

static infer_result infer__gpu_run_open(infer__ctx *c, const infer__gpu_bytes *bytes, infer_error *err) {
    struct infer__gpu_run *run = c->run;
    infer_error why;
    infer_result r;
    int32_t i;
    infer__error_clear(&why);
    r = run->driver->queue_open(&run->queue, infer__gpu_device(c->gpu), &why);
    if (r) {
        run->queue = NULL;
        return infer__error(err, r, "%s: queue: %s", infer__gpu_name(c->gpu), why.message);
    }
    r = infer__gpu_use_kv(c->gpu, c->kv_type, err);
    if (r) return r;
    run->cap = bytes->pass / sizeof *run->staging;
    run->sets = (infer__gpu_set *)infer__calloc(c->mem, INFER__MODULE_COUNT, sizeof *run->sets);
    run->staging = (int32_t *)infer__calloc(c->mem, run->cap, sizeof *run->staging);
    if (!run->sets || !run->staging)
        return infer__error(err, INFER_ERR_MEMORY, "no memory for a pass of %llu values",
                            (unsigned long long)run->cap);
    for (i = 0; i < INFER__MODULE_COUNT && !r; i++) {
        const infer__module_row *row = infer__module_at(i);
        if (!infer__gpu_wants(c, i)) continue;
        if (row->kind >= INFER__MODULE_SPECIAL) infer__gpu_special_open(c, row->kind, row->id);
        else r = infer__gpu_set_open(c, row->kind, row->id, err);
    }
    return r;
}

/* Allocate the parts of attention. The counters start at zero, and every launch resets them. */
static int infer__gpu_parts_open(infer__ctx *c, const infer__gpu_bytes *b) {
    uint64_t at = b->parts_len * sizeof(float), bytes = b->parts;
    void *zeros;
    if (bytes == 0) return 1;
    c->run->parts_len = b->parts_len;
    if (!infer__gpu_buf_alloc(c, &c->run->parts, bytes)) return 0;
    zeros = infer__calloc(c->mem, bytes - at + 1, 1);
    if (!zeros) {
        infer__fail(c, INFER_ERR_MEMORY, "no memory for counters of attention");
        return 0;
    }
    infer__gpu_upload(c, &c->run->parts, at, zeros, bytes - at);
    infer__gpu_sync(c);
    infer__free(c->mem, zeros);
    return infer__ok(c);
}

static int infer__gpu_prepare(infer__ctx *c, const infer__needs *n) {
    const infer__gpu_bytes b = infer__gpu_bytes_of(n);
    infer_error err;
    infer__error_clear(&err);
    c->run = (struct infer__gpu_run *)infer__calloc(c->mem, 1, sizeof *c->run);
    if (!c->run) {
        infer__fail(c, INFER_ERR_MEMORY, "no memory for a queue");
        return 0;
    }
    c->run->driver = infer__gpu_driver(c->gpu);
    c->run->mma_wide = INFER__GPU_MMA_WIDE;
    c->run->mma_groups = INFER__GPU_MMA_GROUPS;
    if (infer__gpu_run_open(c, &b, &err)) {
        infer__fail(c, err.code, "%s", err.message);
        return 0;
    }
    if (b.x8 && !infer__gpu_buf_alloc(c, &c->run->x8, b.x8)) return 0;
    if (b.ranks && !infer__gpu_buf_alloc(c, &c->run->ranks, b.ranks)) return 0;
    c->run->ranks_len = b.ranks / sizeof(uint32_t);
    if (b.lists && !infer__gpu_buf_alloc(c, &c->run->lists, b.lists)) return 0;
    if (b.pairs && !infer__gpu_buf_alloc(c, &c->run->pairs, b.pairs)) return 0;
    return infer__gpu_buf_alloc(c, &c->run->pass, b.pass) && infer__gpu_parts_open(c, &b);
}

static void infer__gpu_finish(infer__ctx *c) {
    struct infer__gpu_run *run = c->run;
    int32_t i;
    size_t k;
    if (!run) return;
    for (i = 0; i < run->n_sets; i++)
        for (k = 0; k < INFER__KERNEL_COUNT; k++)
            if (run->sets[i].kernels[k]) run->driver->kernel_close(run->queue, run->sets[i].kernels[k]);
    infer__gpu_recordings_close(run);
    if (run->queue) run->driver->queue_close(run->queue);
    infer__gpu_buf_release(c, &run->pairs);
    infer__gpu_buf_release(c, &run->lists);
    infer__gpu_buf_release(c, &run->ranks);
    infer__gpu_buf_release(c, &run->parts);
    infer__gpu_buf_release(c, &run->pass);
    infer__free(c->mem, run->times);
    infer__gpu_buf_release(c, &run->x8);
    infer__free(c->mem, run->staging); /* after the queue, which may read it */
    infer__free(c->mem, run->sets);
    infer__free(c->mem, run);
    c->run = NULL;
}

/* ---- launching --------------------------------------------------------------------------------------------------- */

/* The arguments of a launch. Only kernels of kind TYPE need a type. */
typedef struct infer__gpu_call {
    const infer__quant *type;
    uint64_t bufs[INFER__GPU_BUFS];
} infer__gpu_call;

/* Launch x * y groups. Empty grids are skipped: APIs refuse them. */
static void infer__gpu_launch(infer__ctx *c, int32_t kernel, const infer__gpu_call *call, uint64_t x, uint64_t y,
                              const void *args, size_t args_size) {
    const infer__kernel_row *row = &INFER__KERNELS[kernel];
    int32_t of = INFER__KINDS[row->kind].of;
    int32_t id = of == INFER__MODULE_TYPE ? call->type->id : of == INFER__MODULE_KV ? c->kv_type : 0;
    const infer__gpu_set *set;
    uint32_t groups[3];
    infer_error err;
    if (!infer__ok(c) || x == 0 || y == 0) return;
    INFER__ASSERT(args_size == (size_t)row->args_size && row->buffers <= INFER__GPU_BUFS);
    set = infer__gpu_find(c->run, row->kind, id);
    INFER__ASSERT(set && set->kernels[kernel]);
    if (x > INT32_MAX || y > UINT16_MAX) { /* limits of all APIs */
        infer__fail(c, INFER_ERR_UNSUPPORTED, "%s: a grid of %llu x %llu groups is too large", row->name,
                    (unsigned long long)x, (unsigned long long)y);
        return;
    }
    groups[0] = (uint32_t)x;
    groups[1] = (uint32_t)y;
    groups[2] = 1;
    c->run->kernels[kernel / 64] |= (uint64_t)1 << kernel % 64; /* one that fails, too */
    infer__error_clear(&err);
    if (c->run->driver->launch(c->run->queue, set->kernels[kernel], groups, row->group, call->bufs, row->buffers, args,
                               (uint32_t)args_size, &err))
        infer__gpu_fail(c, row->name, &err);
    else {
        c->launches++;
        if (c->run->times) c->run->n_launched++;
    }
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

/* First float of a vector (norm, bias, scales), stored as float32 on the device; *buf is unchanged when there is
 * none. */
static uint32_t infer__gpu_vector(infer__ctx *c, const infer__weight *w, uint64_t *buf) {
    uint64_t bytes;
    if (!w) return 0;
    bytes = (uint64_t)w->rows * (uint64_t)w->cols * sizeof(float);
    if (!infer__gpu_there(c, w)) return 0;
    INFER__ASSERT(w->offset + bytes <= w->buf->bytes);
    *buf = w->buf->handle;
    return infer__gpu_floats(c, w->offset + bytes) - (uint32_t)(bytes / sizeof(float)); /* all of it in 32 bits */
}

/* The offset of a matrix in bytes; 0 when kernels cannot address it. */
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

/* As infer__op_end; a profiling context waits, so that the time is the op's own, unless the device reports it. */
static void infer__gpu_end(infer__ctx *c, const char *op, uint64_t bytes, double began) {
    if (c->profiling && c->run->times) {
        infer__gpu_timed(c, op, bytes);
        return;
    }
    if (c->profiling) infer__gpu_sync(c);
    if (infer__ok(c)) infer__op_end(c, op, bytes, began);
}

#endif
