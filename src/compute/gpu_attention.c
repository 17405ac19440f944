/* gpu_attention.c: ops on GPUs: rotation, cache and attention. */
#include "gpu.h"

#ifndef INFER_NO_GPU

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

#endif
