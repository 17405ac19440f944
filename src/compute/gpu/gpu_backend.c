/* gpu_backend.c: the op vtable of GPUs, written once: every op is one or a few launches through a driver. Products are
 * in gpu_matmul.c and gpu_moe.c, attention in gpu_attention.c, states in gpu_step.c; the other ops and the table are
 * here.
 *
 * Rules: names no vendor and knows no kernel's internals: the meaning of a launch is documented in kernels/, at its
 *        args struct. Argument checks and profile rows are the CPU's.
 * Start: infer__gpu_norm for the shape of an op, infer__gpu_ops.
 */
#include "gpu.h"

#ifndef INFER_NO_GPU

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
    k.from = positions ? 1u : a->looked ? 2u : 0u;
    k.add = (uint32_t)(positions || a->add);
    k.pad = (uint32_t)a->pad;
    k.scale = positions ? 1.0f : a->scale;
    INFER__GPU_LAUNCH(c, INFER__K_EMBED, &call, (uint64_t)a->y.rows * k.parts, 1, k);
}

static void infer__gpu_embed(infer__ctx *c, const infer__embed_args *a) {
    double began = infer__op_begin(c);
    if (began < 0 || !infer__embed_ok(c, a)) return;
    INFER__ASSERT(a->table->cols == a->y.cols);
    INFER__ASSERT(a->y.rows <= c->pass.n_rows * (a->looked ? c->pass.looks : 1));
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

enum { INFER__GPU_NORM_SHORT = 256 }; /* groups of up to this many values share 64 work-items: kernels/norm.k */

static void infer__gpu_norm(infer__ctx *c, const infer__norm_args *a) {
    infer__gpu_call call;
    struct infer__k_norm k;
    int32_t n = a->x.cols / a->n_groups;
    double began = infer__op_begin(c);
    if (began < 0) return;
    INFER__ASSERT(a->x.cols % a->n_groups == 0 && a->y.rows == a->x.rows && a->y.cols == a->x.cols);
    INFER__ASSERT(infer__norm_fits(a, a->weight) && infer__norm_fits(a, a->bias));
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
    k.all = (uint32_t)a->x.rows * k.n_groups;
    if (n <= INFER__GPU_NORM_SHORT)
        for (k.lanes = 1; k.lanes * 8 < k.n; k.lanes *= 2) {}
    INFER__GPU_LAUNCH(c, INFER__K_NORM, &call, k.lanes ? infer__gpu_parts(k.all, 128 / k.lanes) : k.all, 1, k);
    infer__gpu_end(c, "norm", 0, began);
}

/* ---- elementwise ------------------------------------------------------------------------------------------------- */

static void infer__gpu_act(infer__ctx *c, const infer__act_args *a) {
    infer__gpu_call call;
    struct infer__k_act k;
    double began = infer__op_begin(c);
    if (began < 0 || !infer__vector_ok(c, a->divide, "activation scales")) return;
    INFER__ASSERT(a->y.rows == a->x.rows && a->y.cols % a->x.cols == 0);
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
    k.cols = (uint32_t)a->y.cols;
    k.parts = (uint32_t)infer__gpu_parts(k.cols, 256);
    k.kind = (uint32_t)a->kind;
    k.limit = a->limit;
    k.up_add = a->up_add;
    k.each = (uint32_t)(a->y.cols / a->x.cols);
    k.after = (uint32_t)a->limit_after;
    k.p = a->xielu[0];
    k.n = a->xielu[1];
    k.beta = a->xielu[2];
    k.eps = a->xielu[3];
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
    k.hi = a->range ? a->range[1] : a->clamp;
    k.lo = a->range ? a->range[0] : a->clamp > 0 ? -a->clamp : 1;
    INFER__GPU_LAUNCH(c, INFER__K_MAP, &call, (uint64_t)a->x.rows * k.parts, 1, k);
    infer__gpu_end(c, "map", 0, began);
}

/* ---- pages ------------------------------------------------------------------------------------------------------- */

/* Devices store rows in the format of saved sessions. */
static void infer__gpu_kv_export(infer__ctx *c, const infer__kv_page_args *a) {
    uint64_t n = infer__kv_page_bytes(a);
    infer__gpu_download(c, &a->buf->buf, (uint64_t)a->page * n, a->rows, n);
    infer__gpu_sync(c);
}

static void infer__gpu_kv_import(infer__ctx *c, const infer__kv_page_args *a) {
    uint64_t n = infer__kv_page_bytes(a);
    infer__gpu_upload(c, &a->buf->buf, (uint64_t)a->page * n, a->rows, n);
}

/* ---- what there are kernels for ---------------------------------------------------------------------------------- */

static int infer__gpu_supports(int32_t op, const void *args) {
    const infer__matmul_args *mm = (const infer__matmul_args *)args;
    const infer__attention_args *att = (const infer__attention_args *)args;
    int32_t i;
    switch (op) {
    case INFER__OP_EMBED: {
        const infer__embed_args *e = (const infer__embed_args *)args;
        return infer__gpu_has_type(e->table->type) && (!e->positions || infer__gpu_has_type(e->positions->type));
    }
    case INFER__OP_MATMUL:
        for (i = 0; i < mm->n_w; i++)
            if (!infer__gpu_has_type(mm->w[i]->type)) return 0;
        return 1;
    case INFER__OP_MOE_ROUTE: {
        const infer__router *r = ((const infer__moe_route_args *)args)->router;
        const infer__weight *table = ((const infer__moe_route_args *)args)->table;
        return r->score <= INFER__SCORE_SPARSEMIXER && r->n_expert <= INFER__MAX_EXPERTS &&
               r->n_group <= INFER__MAX_EXPERT_GROUPS && (!table || table->type->id == INFER__GPU_I32);
    }
    case INFER__OP_MOE_MATMUL: return infer__gpu_has_type(((const infer__moe_matmul_args *)args)->w->type);
    case INFER__OP_ATTENTION:
        if (att->chunk > 0 && att->window > 0 && att->window < att->chunk) return 0;
        return att->dim_k <= INFER__MAX_HEAD_DIM && att->dim_v <= INFER__MAX_HEAD_DIM;
    case INFER__OP_ACT: {
        const infer__act_args *act = (const infer__act_args *)args;
        return act->kind <= INFER__ACT_LINEAR;
    }
    case INFER__OP_INDEX: return ((const infer__index_args *)args)->dim <= INFER__MAX_HEAD_DIM;
    case INFER__OP_COMPRESS: {
        const infer__compress_args *compress = (const infer__compress_args *)args;
        return (!compress->place || compress->place->type->id == 0) && compress->dim <= INFER__MAX_HEAD_DIM;
    }
    case INFER__OP_CONV: {
        const infer__conv_args *conv = (const infer__conv_args *)args;
        return conv->w->type->id == 0; /* read as a vector: float32 */
    }
    case INFER__OP_SSM: {
        const infer__ssm_args *ssm = (const infer__ssm_args *)args;
        return ssm->own_a || ssm->state <= INFER__GPU_STATES;
    }
    case INFER__OP_WKV: return ((const infer__wkv_args *)args)->dim <= INFER__GPU_WKV;
    case INFER__OP_STREAMS: return 1;
    case INFER__OP_DELTA: {
        const infer__delta_args *delta = (const infer__delta_args *)args;
        return delta->state <= INFER__GPU_STATES &&
               (delta->kind == INFER__DELTA_HEADS || delta->heads == delta->k_heads);
    }
    default: return 0;
    }
}

static const infer__ops infer__gpu_ops = {
    .name = "gpu",
    .fuses = INFER__FUSE_NORM | INFER__FUSE_ACT | INFER__FUSE_ADD | INFER__FUSE_ROPE |
             INFER__FUSE_EXPERTS | INFER__FUSE_HEADS,
    .embed = infer__gpu_embed,
    .get_rows = infer__gpu_get_rows,
    .norm = infer__gpu_norm,
    .matmul = infer__gpu_matmul,
    .rope = infer__gpu_rope,
    .kv_store = infer__gpu_kv_store,
    .kv_export = infer__gpu_kv_export,
    .kv_import = infer__gpu_kv_import,
    .attention = infer__gpu_attention,
    .index = infer__gpu_index,
    .compress = infer__gpu_compress,
    .rows_store = infer__gpu_rows_store,
    .conv = infer__gpu_conv,
    .ssm = infer__gpu_ssm,
    .delta = infer__gpu_delta,
    .wkv = infer__gpu_wkv,
    .act = infer__gpu_act,
    .streams = infer__gpu_streams,
    .add = infer__gpu_add,
    .map = infer__gpu_map,
    .moe_route = infer__gpu_moe_route,
    .moe_matmul = infer__gpu_moe_matmul,
    .moe_bias = infer__gpu_moe_bias,
    .low = infer__low_apart,
    .top = infer__gpu_top,
    .begin = infer__gpu_begin,
    .record = infer__gpu_record,
    .record_end = infer__gpu_record_end,
    .sync = infer__gpu_sync,
    .alloc = infer__gpu_buf_alloc,
    .release = infer__gpu_buf_release,
    .upload = infer__gpu_upload,
    .download = infer__gpu_download,
    .copy_bytes = infer__gpu_copy_bytes,
    .sizes = infer__gpu_sizes,
    .supports = infer__gpu_supports,
    .prepare = infer__gpu_prepare,
    .finish = infer__gpu_finish,
};

#else
/* No model gets a device: of these ops only sizes is called. */
static void infer__gpu_sizes(const infer__needs *n, uint64_t *here, uint64_t *host) {
    (void)n;
    *here = *host = 0;
}
static int infer__gpu_supports(int32_t op, const void *args) { (void)op; (void)args; return 0; }
static const infer__ops infer__gpu_ops = { .name = NULL, .sizes = infer__gpu_sizes, .supports = infer__gpu_supports };
#endif
