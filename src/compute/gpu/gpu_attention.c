/* gpu_attention.c: ops on GPUs: rotation, cache and attention. kernels/ documents what the kernels compute.
 *
 * How attention is split into groups: few rows, or rows of many sequences, are one group each (per K/V head), and their
 * positions are split into parts, whose results are stored in run->parts until a second launch merges them; many rows
 * of a sequence form tiles of 32, or of 64 on tensor cores, whose positions are split as well if tiles alone would
 * leave processors idle. The grid has room for the next power of two of positions: groups beyond a row's own position
 * do nothing.
 */
#include "gpu.h"

#ifndef INFER_NO_GPU

enum { /* of kernels/attention.k, attention_tile.k */
    INFER__ATT_HEADS = 8,      /* query heads of a group */
    INFER__ATT_ROOM = 1280,    /* their values */
    INFER__ATT_PART = 64,      /* positions of a part, at least */
    INFER__ATT_MAX_PARTS = 64, /* of a row */
    INFER__ATT_FEW = 8,        /* rows that do not form tiles; that may have all their parts at once */
    INFER__ATT_TILE = 32,      /* pairs of a row and a head */
    INFER__ATT_TILE_COLS = 128 /* of v */
};
enum { /* of kernels/special/attention/flash.k */
    INFER__FLASH_PAIRS = 64,   /* of a row and a head in a tile */
    INFER__FLASH_PART = 128,   /* minimum positions of a part */
    INFER__FLASH_GROUPS = 264, /* wanted groups: two for each processor of a large device */
    INFER__FLASH_DIM = 256,    /* values of a head, at most */
    INFER__FLASH_SHARED_K = 576, /* where values are a part of keys */
    INFER__FLASH_SHARED_V = 512
};
enum { INFER__KV_NORM_DIM = 256 }; /* of kernels/kv_norm.k: values of a head, at most */
enum { /* of kernels/special/attention/row.k */
    INFER__FEW_GROUPS = 2,      /* per processor */
    INFER__FEW_PROCESSORS = 32, /* where the driver does not say */
    INFER__FEW_DIM = 64         /* values of a head, at least */
};

static uint32_t infer__gpu_norm_step(const infer__weight *w, int32_t n); /* gpu_backend.c */

/* ---- rotation and cache ------------------------------------------------------------------------------------------ */

static void infer__gpu_rope(infer__ctx *c, const infer__rope_args *a) {
    infer__gpu_call call;
    struct infer__k_rope k;
    double began = infer__op_begin(c);
    if (began < 0 || a->kind == INFER__ROPE_NONE) return;
    INFER__ASSERT(!a->axes || (a->axes == c->pass.axes && a->n_rot / 2 <= c->pass.n_axes));
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
    k.back = (uint32_t)a->back;
    k.block = k.half_rot / (uint32_t)INFER__MAX(a->blocks, 1);
    k.axis_rows = a->axes ? (uint32_t)c->pass.n_rows : 0;
    INFER__GPU_LAUNCH(c, INFER__K_ROPE, &call, (uint64_t)a->x.rows * k.parts, 1, k);
    infer__gpu_end(c, "rope", 0, began);
}

static int infer__gpu_kv_ok(infer__ctx *c, const infer__kv_buf *k, const infer__kv_buf *v) {
    if (k->type == c->kv_type && v->type == c->kv_type) return 1;
    infer__fail(c, INFER_ERR_UNSUPPORTED, "cache type %d is not supported on the GPU: its kernels are of type %d",
                (int)(k->type == c->kv_type ? v->type : k->type), (int)c->kv_type);
    return 0;
}

/* 1 when q and k are rotated alike, so that one launch can rotate both and store; rotations that do nothing do not
 * count. */
static int infer__gpu_rope_fits(const infer__kv_store_args *a) {
    const infer__rope_args *q = a->rope_q, *k = a->rope_k;
    return q && k && !q->axes && !k->axes && q->blocks < 2 && k->blocks < 2 && !q->back && !k->back &&
           q->kind == k->kind && q->kind != INFER__ROPE_NONE && q->freq == k->freq && q->n_rot == k->n_rot &&
           q->scale >= k->scale && q->scale <= k->scale && q->dim == k->dim && k->dim == a->dim_k &&
           k->n_head == a->n_head && k->x.buf == a->k.buf && k->x.offset == a->k.offset && k->x.stride == a->k.stride &&
           q->x.rows == a->k.rows && k->x.rows == a->k.rows;
}

/* Heads of a group of kernels/kv.k, of `dim` values each: about 16 blocks, two for each 8 work-items that write them;
 * with few rows one, so that there are enough groups. */
static uint32_t infer__gpu_kv_each(int32_t dim, int32_t rows) {
    INFER__ASSERT(dim > 0 && dim <= INFER__MAX_HEAD_DIM);
    if (rows <= INFER__GPU_FEW) return 1;
    return (uint32_t)INFER__MAX(1, 16 / infer__gpu_parts((uint64_t)dim, INFER__KV_BLOCK));
}

/* 1 when kv_norm supports this norm of heads. */
static int infer__gpu_head_norm_fits(const infer__norm_args *n, const infer__rope_args *heads) {
    return n && n->kind == INFER__NORM_RMS && !n->bias && n->n_groups == heads->n_head &&
           infer__gpu_same_tensor(&n->x, &heads->x) && infer__gpu_same_tensor(&n->y, &heads->x);
}

/* 1 when one launch can do norms, rotation and store. With a prompt's many rows, separate norms have enough groups. */
static int infer__gpu_kv_norm_fits(const infer__kv_store_args *a) {
    return a->k.rows <= INFER__GPU_FEW && a->dim_k <= INFER__KV_NORM_DIM &&
           (!a->v_cache || a->dim_v <= INFER__KV_NORM_DIM) && infer__gpu_rope_fits(a) &&
           infer__gpu_head_norm_fits(a->norm_q, a->rope_q) && infer__gpu_head_norm_fits(a->norm_k, a->rope_k);
}

static void infer__gpu_kv_norm(infer__ctx *c, const infer__kv_store_args *a) {
    const infer__rope_args *q = a->rope_q;
    infer__gpu_call call;
    struct infer__k_kv_norm k;
    memset(&call, 0, sizeof call);
    memset(&k, 0, sizeof k);
    k.q = infer__gpu_tensor(c, &q->x, &call.bufs[0]);
    k.k = infer__gpu_tensor(c, &a->k, &call.bufs[1]);
    call.bufs[2] = call.bufs[7] = call.bufs[8] = call.bufs[1]; /* any valid buffer where there is none */
    if (a->v_cache) k.v = infer__gpu_tensor(c, &a->v, &call.bufs[2]);
    call.bufs[3] = q->freq->handle;
    call.bufs[4] = a->k_cache->buf.handle;
    call.bufs[5] = (a->v_cache ? a->v_cache : a->k_cache)->buf.handle;
    call.bufs[6] = c->run->pass.handle;
    k.q_weight = infer__gpu_vector(c, a->norm_q->weight, &call.bufs[7]);
    k.k_weight = infer__gpu_vector(c, a->norm_k->weight, &call.bufs[8]);
    k.q_step = infer__gpu_norm_step(a->norm_q->weight, a->dim_k);
    k.k_step = infer__gpu_norm_step(a->norm_k->weight, a->dim_k);
    k.has_q = a->norm_q->weight != NULL;
    k.has_k = a->norm_k->weight != NULL;
    k.q_eps = a->norm_q->eps;
    k.k_eps = a->norm_k->eps;
    k.q_stride = (uint32_t)q->x.stride;
    k.k_stride = (uint32_t)a->k.stride;
    k.v_stride = (uint32_t)a->v.stride;
    k.group = (uint32_t)a->group;
    k.n_head_q = (uint32_t)q->n_head;
    k.n_head = (uint32_t)a->n_head;
    k.dim_k = (uint32_t)a->dim_k;
    k.dim_v = a->v_cache ? (uint32_t)a->dim_v : 0;
    k.kind = (uint32_t)q->kind;
    k.half_rot = (uint32_t)q->n_rot / 2;
    k.scale = q->scale;
    k.parts = (uint32_t)infer__gpu_parts(k.n_head_q + (uint64_t)(k.dim_v ? 2 : 1) * k.n_head, 2);
    INFER__GPU_LAUNCH(c, INFER__K_KV_NORM, &call, (uint64_t)a->k.rows * k.parts, 1, k);
}

static void infer__gpu_kv_store(infer__ctx *c, const infer__kv_store_args *a) {
    infer__gpu_call call;
    struct infer__k_kv_store k;
    double began = infer__op_begin(c);
    const infer__kv_buf *v_cache = a->v_cache ? a->v_cache : a->k_cache; /* any buffer will do where there is no v */
    if (began < 0 || !infer__gpu_kv_ok(c, a->k_cache, v_cache)) return;
    INFER__ASSERT(a->k.rows <= c->pass.n_rows && a->k.cols == a->n_head * a->dim_k);
    INFER__ASSERT(!a->v_cache || (a->k.rows == a->v.rows && a->v.cols == a->n_head * a->dim_v));
    if (infer__gpu_kv_norm_fits(a)) {
        infer__gpu_kv_norm(c, a);
        infer__gpu_end(c, "kv_store", 0, began);
        return;
    }
    if (a->norm_q) infer__gpu_norm(c, a->norm_q);
    if (a->norm_k) infer__gpu_norm(c, a->norm_k);
    memset(&call, 0, sizeof call);
    memset(&k, 0, sizeof k);
    k.k = infer__gpu_tensor(c, &a->k, &call.bufs[1]);
    call.bufs[2] = call.bufs[1];
    if (a->v_cache) k.v = infer__gpu_tensor(c, &a->v, &call.bufs[2]);
    call.bufs[0] = call.bufs[3] = call.bufs[1]; /* any buffer will do where nothing is rotated */
    if (infer__gpu_rope_fits(a)) {
        const infer__rope_args *q = a->rope_q;
        INFER__ASSERT(q->n_rot <= q->dim && q->n_rot % 2 == 0 && q->x.cols == q->n_head * q->dim);
        INFER__ASSERT(q->freq->bytes >= (uint64_t)q->n_rot * 2 * sizeof(float));
        k.q = infer__gpu_tensor(c, &q->x, &call.bufs[0]);
        call.bufs[3] = q->freq->handle;
        k.q_stride = (uint32_t)q->x.stride;
        k.n_head_q = (uint32_t)q->n_head;
        k.kind = (uint32_t)q->kind;
        k.half_rot = (uint32_t)q->n_rot / 2;
        k.scale = q->scale;
        k.q_apart = (uint32_t)infer__gpu_parts(k.n_head_q, a->k.rows <= INFER__GPU_FEW ? 1 : 8);
        k.q_parts = (uint32_t)infer__gpu_parts((uint64_t)k.q_apart * k.half_rot, 64);
    } else {
        if (a->rope_q) infer__gpu_rope(c, a->rope_q);
        if (a->rope_k) infer__gpu_rope(c, a->rope_k);
    }
    call.bufs[4] = a->k_cache->buf.handle;
    call.bufs[5] = v_cache->buf.handle;
    call.bufs[6] = c->run->pass.handle;
    k.k_stride = (uint32_t)a->k.stride;
    k.v_stride = (uint32_t)a->v.stride;
    k.group = (uint32_t)a->group;
    k.n_head = (uint32_t)a->n_head;
    k.dim_k = (uint32_t)a->dim_k;
    k.dim_v = a->v_cache ? (uint32_t)a->dim_v : 0;
    k.k_each = infer__gpu_kv_each(a->dim_k, a->k.rows);
    k.v_each = a->v_cache ? infer__gpu_kv_each(a->dim_v, a->k.rows) : 1;
    k.k_parts = (uint32_t)infer__gpu_parts(k.n_head, k.k_each);
    k.parts = k.q_parts + k.k_parts + (a->v_cache ? (uint32_t)infer__gpu_parts(k.n_head, k.v_each) : 0);
    INFER__GPU_LAUNCH(c, INFER__K_KV_STORE, &call, (uint64_t)a->k.rows * k.parts, 1, k);
    infer__gpu_end(c, "kv_store", 0, began);
}

/* ---- attention --------------------------------------------------------------------------------------------------- */

/* The smallest power of two from `least`, itself one, that is not below n. */
static uint64_t infer__gpu_power(uint64_t n, uint64_t least) {
    while (least < n) least *= 2;
    return least;
}

/* Floats for parts of attention, with at most head_values floats a row. */
static uint64_t infer__gpu_parts_len(int32_t cells, uint64_t head_values) {
    uint64_t parts = infer__gpu_power((uint64_t)cells, INFER__ATT_PART) / INFER__ATT_PART;
    parts = INFER__MIN(parts, INFER__ATT_MAX_PARTS);
    return parts < 2 ? 0 : INFER__ATT_FEW * parts * head_values;
}

/* Their bytes, plus counters of finished groups: one for each row and head whose positions are split, into two parts or
 * more. */
static uint64_t infer__gpu_parts_bytes(uint64_t parts_len) {
    return (parts_len + parts_len / (2 * (INFER__FEW_DIM + 2))) * sizeof(float);
}

/* Positions that the grid has room for. */
static uint64_t infer__gpu_attention_reach(const infer__ctx *c) {
    return infer__gpu_power((uint64_t)infer__gpu_last(&c->pass) + 1, INFER__ATT_PART);
}

/* 1 when the rows form tiles: many, and mostly adjacent in a sequence. */
static int infer__gpu_attention_tiled(const infer__ctx *c) {
    int32_t i, n = 1;
    if (c->pass.n_rows <= INFER__ATT_FEW) return 0;
    for (i = 1; i < c->pass.n_rows; i++) n += c->pass.seq[i] != c->pass.seq[i - 1];
    return n <= c->pass.n_rows / 4;
}

static uint32_t infer__gpu_attention_bucket(const infer__ctx *c) {
    /* the reach is 64 and more: its lowest bit is free */
    return (uint32_t)infer__gpu_attention_reach(c) | (uint32_t)infer__gpu_attention_tiled(c);
}

/* Positions that a row sees, at most; 0 = all before it. */
static int32_t infer__gpu_attention_span(const infer__ctx *c, const infer__attention_args *a) {
    if (c->pass.end && !a->around && !a->chosen.buf) return 0; /* later ones, too */
    if (a->chosen.buf) return a->chosen.cols / a->chosen_sets;
    return a->chunk > 0 ? a->chunk : a->window;
}

/* Maximum parts per row: all must fit run->parts, and there are not more than positions to read. */
static uint64_t infer__gpu_attention_parts(const infer__ctx *c, const infer__attention_args *a) {
    uint64_t span = infer__gpu_attention_reach(c), parts = INFER__ATT_MAX_PARTS, each;
    const int32_t most = infer__gpu_attention_span(c, a);
    if (most > 0) span = INFER__MIN(span, (uint64_t)most + INFER__ATT_PART - 1);
    parts = INFER__MIN(parts, infer__gpu_power(infer__gpu_parts(span, INFER__ATT_PART), 1));
    each = (uint64_t)a->q.rows * (uint64_t)a->n_head * ((uint64_t)a->dim_v + 2);
    while (parts > 1 && parts * each > c->run->parts_len) parts /= 2;
    return parts;
}

static void infer__gpu_attention_rows(infer__ctx *c, const infer__attention_args *a, infer__gpu_call *call,
                                      uint64_t nearby, struct infer__k_attention *k) {
    const uint32_t share = k->n_head / k->n_head_kv, dim = INFER__MAX(k->dim_k, k->dim_v);
    const uint32_t fit = INFER__ATT_ROOM / ((dim + INFER__KV_BLOCK - 1) / INFER__KV_BLOCK * INFER__KV_BLOCK);
    const uint64_t parts = infer__gpu_attention_parts(c, a);
    infer__gpu_call sum;
    k->heads = INFER__MIN(share, INFER__MIN(fit, (uint32_t)INFER__ATT_HEADS));
    k->blocks = (share + k->heads - 1) / k->heads;
    k->parts = (uint32_t)parts;
    call->bufs[6] = call->bufs[5];
    call->bufs[5] = call->bufs[4];
    call->bufs[4] = parts > 1 ? c->run->parts.handle : call->bufs[3];
    call->bufs[7] = call->bufs[8] = call->bufs[0]; /* any buffer will do where there are none */
    call->bufs[9] = nearby;
    if (a->chosen.buf) {
        k->sets = (uint32_t)a->chosen_sets;
        k->list = infer__gpu_tensor(c, &a->chosen, &call->bufs[7]);
        k->list_stride = (uint32_t)a->chosen.stride;
        k->list_set = (uint32_t)(a->chosen.cols / a->chosen_sets);
    }
    if (a->more) {
        call->bufs[8] = a->more->buf.handle;
        k->more_group = (uint32_t)a->more_group;
        k->more_every = (uint32_t)a->more_every;
    }
    INFER__GPU_LAUNCH(c, INFER__K_ATTENTION, call, (uint64_t)a->q.rows * k->n_head_kv * k->blocks, parts, *k);
    if (parts < 2) return;
    memset(&sum, 0, sizeof sum);
    sum.bufs[0] = c->run->parts.handle;
    sum.bufs[1] = call->bufs[3];
    sum.bufs[2] = call->bufs[5];
    sum.bufs[3] = call->bufs[6];
    sum.bufs[4] = call->bufs[7];
    INFER__GPU_LAUNCH(c, INFER__K_ATTENTION_SUM, &sum, (uint64_t)a->q.rows * k->n_head, 1, *k);
}

/* Not supported by tensor-core kernels, which assume that the last position a row sees is its own. */
static int infer__gpu_attention_near(const infer__ctx *c, const infer__attention_args *a) {
    return a->bias || a->source || (c->pass.end && !a->around && (a->causal || a->window > 0)) ||
           (a->around && (a->window > 0 || a->max_bias > 0 || a->temp_scale != 0));
}

/* The tensor-core kernel for heads of this size, -1 if the device or the op has none. It splits floats into two halves
 * without loss, but it is not the definition. */
static int32_t infer__gpu_few_kernel(const infer__ctx *c, const infer__attention_args *a) {
    if (c->exact || a->dim_k != a->dim_v || a->k_cache == a->v_cache || infer__gpu_attention_near(c, a)) return -1;
    if (a->dim_k != INFER__FEW_DIM && a->dim_k != 2 * INFER__FEW_DIM) return -1;
    if (!infer__gpu_find(c->run, INFER__MODULE_FLASH_FEW, c->kv_type)) return -1;
    return a->dim_k == INFER__FEW_DIM ? INFER__K_FLASH_FEW64 : INFER__K_FLASH_FEW128;
}

/* The number of parts of a row fills the device, whatever other rows there are, so that its result depends on it
 * alone. */
static void infer__gpu_attention_few(infer__ctx *c, const infer__attention_args *a, int32_t kernel,
                                     infer__gpu_call *call, struct infer__k_attention *k) {
    const int32_t most = infer__gpu_attention_span(c, a);
    const uint32_t share = k->n_head / k->n_head_kv;
    const int32_t processors = infer__gpu_processors(c);
    const uint64_t each = (uint64_t)k->rows * k->n_head * ((uint64_t)k->dim_v + 2);
    uint64_t span = infer__gpu_attention_reach(c), parts = (uint64_t)INFER__MAX(processors, INFER__FEW_PROCESSORS);
    k->heads = INFER__MIN(share, (uint32_t)INFER__ATT_HEADS);
    k->blocks = (share + k->heads - 1) / k->heads;
    if (most > 0) span = INFER__MIN(span, (uint64_t)most + INFER__ATT_PART - 1);
    parts = INFER__MIN(parts * INFER__FEW_GROUPS / (k->n_head_kv * k->blocks), (uint64_t)INFER__ATT_MAX_PARTS);
    parts = INFER__MAX(INFER__MIN(parts, c->run->parts_len / each), 1u); /* these have room */
    k->wanted = (uint32_t)parts;
    k->parts = (uint32_t)INFER__MIN(parts, infer__gpu_parts(span, INFER__ATT_PART));
    call->bufs[6] = call->bufs[5];
    call->bufs[5] = call->bufs[4];
    call->bufs[4] = k->parts > 1 ? c->run->parts.handle : call->bufs[3];
    k->counts = (uint32_t)c->run->parts_len;
    INFER__GPU_LAUNCH(c, kernel, call, (uint64_t)k->rows * k->n_head_kv * k->blocks, k->parts, *k);
}

static void infer__gpu_attention_tiles(infer__ctx *c, infer__gpu_call *call, uint64_t nearby,
                                       struct infer__k_attention *k) {
    const uint32_t share = k->n_head / k->n_head_kv;
    k->heads = INFER__MIN(share, INFER__MAX(1u, INFER__ATT_TILE / k->rows));
    k->blocks = (share + k->heads - 1) / k->heads;
    k->parts = (uint32_t)infer__gpu_parts(k->dim_v, INFER__ATT_TILE_COLS);
    call->bufs[6] = nearby;
    INFER__GPU_LAUNCH(c, INFER__K_ATTENTION_TILE, call,
                      infer__gpu_parts(k->rows, INFER__ATT_TILE / k->heads) * k->n_head_kv * k->blocks * k->parts, 1,
                      *k);
}

/* ---- tensor cores ------------------------------------------------------------------------------------------------ */

/* The kernel for heads of this size, -1 where the device or the op has none. */
static int32_t infer__gpu_flash_kernel(const infer__ctx *c, const infer__attention_args *a) {
    const int32_t dim = INFER__MAX(a->dim_k, a->dim_v);
    if (c->exact || !infer__gpu_find(c->run, INFER__MODULE_FLASH, c->kv_type)) return -1;
    if (infer__gpu_attention_near(c, a) || a->dim_k % 8 || a->dim_v % 8 || !(a->scale > 0)) return -1;
    if (a->k_cache == a->v_cache)
        return infer__gpu_find(c->run, INFER__MODULE_LATENT, c->kv_type) && a->dim_k <= INFER__FLASH_SHARED_K &&
                       a->dim_v <= INFER__FLASH_SHARED_V
                   ? INFER__K_FLASH576
                   : -1;
    if (dim > INFER__FLASH_DIM) return -1;
    return dim <= 64 ? INFER__K_FLASH64 : dim <= 128 ? INFER__K_FLASH128 : INFER__K_FLASH256;
}

/* Number of parts that positions are split into: if tiles alone would leave processors idle, and each part has enough
 * work to pay for the merge, which takes longer with more rows. */
static uint32_t infer__gpu_flash_parts(const infer__ctx *c, const infer__attention_args *a, uint64_t groups,
                                       uint32_t fit) {
    const uint64_t rows = (uint64_t)a->q.rows, each = rows * (uint64_t)a->n_head * ((uint64_t)a->dim_v + 2);
    const int32_t most = infer__gpu_attention_span(c, a);
    uint64_t span = infer__gpu_attention_reach(c) / 2, parts = INFER__FLASH_GROUPS / groups;
    if (most > 0) span = INFER__MIN(span, (uint64_t)most + fit - 1);
    parts = INFER__MIN(parts, span / INFER__MAX(INFER__FLASH_PART, 4 * rows));
    if (c->run->flash_parts) parts = c->run->flash_parts;
    parts = INFER__MIN(parts, c->run->parts_len / each);
    return (uint32_t)INFER__MAX(parts, 1u);
}

static void infer__gpu_flash(infer__ctx *c, const infer__attention_args *a, int32_t kernel, infer__gpu_call *call,
                             struct infer__k_attention *k) {
    const uint32_t share = k->n_head / k->n_head_kv;
    infer__gpu_call sum;
    uint64_t groups;
    k->heads = INFER__MIN(share, (uint32_t)INFER__FLASH_PAIRS);
    k->blocks = (share + k->heads - 1) / k->heads;
    groups = infer__gpu_parts(k->rows, INFER__FLASH_PAIRS / k->heads) * k->n_head_kv * k->blocks;
    k->parts = infer__gpu_flash_parts(c, a, groups, INFER__FLASH_PAIRS / k->heads);
    call->bufs[6] = call->bufs[5];
    call->bufs[5] = call->bufs[4];
    call->bufs[4] = k->parts > 1 ? c->run->parts.handle : call->bufs[3];
    INFER__GPU_LAUNCH(c, kernel, call, groups, k->parts, *k);
    if (k->parts < 2) return;
    memset(&sum, 0, sizeof sum);
    sum.bufs[0] = c->run->parts.handle;
    sum.bufs[1] = call->bufs[3];
    sum.bufs[2] = call->bufs[6];
    INFER__GPU_LAUNCH(c, INFER__K_FLASH_SUM, &sum, (uint64_t)k->rows * k->n_head, 1, *k);
}

static void infer__gpu_attention(infer__ctx *c, const infer__attention_args *a) {
    infer__gpu_call call;
    struct infer__k_attention k;
    uint64_t nearby; /* any buffer will do where there are none */
    int32_t flash, few;
    double began = infer__op_begin(c);
    if (began < 0 || !infer__gpu_kv_ok(c, a->k_cache, a->v_cache)) return;
    if (a->more && !infer__gpu_kv_ok(c, a->more, a->more)) return;
    if (!infer__vector_ok(c, a->sinks, "attention sinks")) return;
    if (c->pass.end && !a->around && !a->causal && (a->chunk > 0 || a->max_bias > 0 || a->temp_scale != 0)) {
        infer__fail(c, INFER_ERR_UNSUPPORTED,
                    "non-causal attention with chunks, slopes or a temperature is not supported on the GPU");
        return;
    }
    if (!infer__vector_ok(c, a->bias, "biases of distances")) return;
    INFER__ASSERT(a->n_head % a->n_head_kv == 0 && a->q.rows <= c->pass.n_rows);
    INFER__ASSERT(!a->sinks || a->sinks->cols == a->n_head);
    INFER__ASSERT(!a->chosen.buf || (!a->window && !a->chunk && !(a->max_bias > 0)));
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
    call.bufs[5] = call.bufs[0]; /* any buffer will do where there are none */
    k.sinks = infer__gpu_vector(c, a->sinks, &call.bufs[5]);
    nearby = call.bufs[0];
    k.nearby = infer__gpu_vector(c, a->bias, &nearby);
    k.reach = a->bias ? (uint32_t)a->reach : 0;
    k.around = (uint32_t)a->around;
    k.source = (uint32_t)a->source;
    k.causal = (uint32_t)(a->causal && c->pass.end);
    k.has_sinks = a->sinks != NULL;
    k.q_stride = (uint32_t)a->q.stride;
    k.y_stride = (uint32_t)a->y.stride;
    k.group = (uint32_t)a->group;
    k.n_head = (uint32_t)a->n_head;
    k.n_head_kv = (uint32_t)a->n_head_kv;
    k.dim_k = (uint32_t)a->dim_k;
    k.dim_v = (uint32_t)a->dim_v;
    k.v_row = a->k_cache == a->v_cache ? k.dim_k : k.dim_v;
    k.window = (uint32_t)(a->chunk > 0 ? a->chunk : a->window) | (a->chunk > 0 ? 0x80000000u : 0u);
    k.scale = a->scale;
    k.softcap = a->softcap;
    k.max_bias = a->max_bias;
    k.temp_scale = a->temp_scale;
    k.temp_floor = a->temp_floor;
    k.temp_offset = a->temp_offset;
    k.rows = (uint32_t)a->q.rows;
    if (k.rows == 0) return;
    flash = infer__gpu_attention_tiled(c) ? infer__gpu_flash_kernel(c, a) : -1;
    few = infer__gpu_few_kernel(c, a);
    if (a->chosen.buf) infer__gpu_attention_rows(c, a, &call, nearby, &k);
    else if (flash >= 0) infer__gpu_flash(c, a, flash, &call, &k);
    else if (infer__gpu_attention_tiled(c)) infer__gpu_attention_tiles(c, &call, nearby, &k);
    else if (few >= 0) infer__gpu_attention_few(c, a, few, &call, &k);
    else infer__gpu_attention_rows(c, a, &call, nearby, &k);
    infer__gpu_end(c, "attention", c->profiling ? infer__attention_bytes(a, infer__attention_seen(c, a)) : 0, began);
}

#endif
