/* gpu_step.c: ops of recurrent layers on GPUs: short convolutions, state spaces, gated delta rules (kernels/conv.k,
 * kernels/step.k). Cells have the CPU's layout, so saved sessions fit both.
 */
#include "gpu.h"

#ifndef INFER_NO_GPU

enum { INFER__GPU_STATES = 256, INFER__GPU_WKV = 64 }; /* of a head, that work-items have registers for */

static void infer__gpu_conv(infer__ctx *c, const infer__conv_args *a) {
    infer__gpu_call call;
    struct infer__k_conv k;
    double began = infer__op_begin(c);
    if (began < 0 || !infer__vector_ok(c, a->bias, "a convolution's bias")) return;
    INFER__ASSERT(a->w->rows == a->x.cols && a->w->cols == a->taps && a->y.cols == a->x.cols && a->taps > 1);
    INFER__ASSERT(a->x.rows <= c->pass.n_rows && c->pass.cell_in && a->w->type->id == 0);
    INFER__ASSERT(!(a->x_run && a->gate_in.buf));
    memset(&call, 0, sizeof call);
    memset(&k, 0, sizeof k);
    k.x = infer__gpu_tensor(c, &a->x, &call.bufs[0]);
    call.bufs[1] = call.bufs[2] = call.bufs[4] = call.bufs[0];
    if (a->gate_in.buf) k.gate_in = infer__gpu_tensor(c, &a->gate_in, &call.bufs[1]);
    if (a->gate_out.buf) k.gate_out = infer__gpu_tensor(c, &a->gate_out, &call.bufs[2]);
    k.w = infer__gpu_vector(c, a->w, &call.bufs[3]);
    k.bias = infer__gpu_vector(c, a->bias, &call.bufs[4]);
    k.y = infer__gpu_tensor(c, &a->y, &call.bufs[5]);
    call.bufs[6] = a->state->handle;
    call.bufs[7] = c->run->pass.handle;
    k.x_stride = (uint32_t)a->x.stride;
    k.gate_in_stride = (uint32_t)a->gate_in.stride;
    k.gate_out_stride = (uint32_t)a->gate_out.stride;
    k.y_stride = (uint32_t)a->y.stride;
    k.rows = (uint32_t)a->x.rows;
    k.cols = (uint32_t)a->x.cols;
    k.parts = (uint32_t)infer__gpu_parts(k.cols, 64);
    k.taps = (uint32_t)a->taps;
    k.has_in = a->gate_in.buf != NULL;
    k.has_out = a->gate_out.buf != NULL;
    k.has_bias = a->bias != NULL;
    k.silu = (uint32_t)a->silu;
    k.apart = (uint32_t)INFER__MAX(a->apart, 1);
    k.x_run = a->x_run ? (uint32_t)a->x_run : k.cols;
    k.x_step = (uint32_t)a->x_step;
    INFER__GPU_LAUNCH(c, INFER__K_CONV, &call, (uint64_t)a->x.rows * k.parts, 1, k);
    infer__gpu_end(c, "conv", (uint64_t)a->w->rows * a->w->row_bytes, began);
}

/* Arguments shared by both recurrences of heads with more than one value. */
static void infer__gpu_step(infer__ctx *c, infer__gpu_call *call, struct infer__k_step *k,
                            const infer__tensor *const *t, const infer__weight *w, const infer__weight *bias,
                            const infer__weight *skip, const infer__buf *cells) {
    k->q = infer__gpu_tensor(c, t[0], &call->bufs[0]);
    k->k = infer__gpu_tensor(c, t[1], &call->bufs[1]);
    k->v = infer__gpu_tensor(c, t[2], &call->bufs[2]);
    k->alpha = infer__gpu_tensor(c, t[3], &call->bufs[3]);
    k->beta = infer__gpu_tensor(c, t[4], &call->bufs[4]);
    k->a = infer__gpu_vector(c, w, &call->bufs[5]);
    k->bias = infer__gpu_vector(c, bias, &call->bufs[6]);
    call->bufs[7] = call->bufs[6];
    k->skip = infer__gpu_vector(c, skip, &call->bufs[7]);
    k->y = infer__gpu_tensor(c, t[5], &call->bufs[8]);
    call->bufs[9] = cells->handle;
    call->bufs[10] = c->run->pass.handle;
    k->q_stride = (uint32_t)t[0]->stride;
    k->k_stride = (uint32_t)t[1]->stride;
    k->v_stride = (uint32_t)t[2]->stride;
    k->alpha_stride = (uint32_t)t[3]->stride;
    k->beta_stride = (uint32_t)t[4]->stride;
    k->y_stride = (uint32_t)t[5]->stride;
    k->rows = (uint32_t)t[2]->rows;
    k->blocks = (uint32_t)infer__gpu_parts(k->dim, INFER__LANES);
    k->unit = k->state * k->blocks * INFER__LANES;
    k->row_step = k->delta ? INFER__LANES : k->blocks * INFER__LANES;
    k->block_step = k->delta ? k->state * INFER__LANES : INFER__LANES;
    INFER__GPU_LAUNCH(c, INFER__K_STEP, call, (uint64_t)k->heads * k->blocks, (uint64_t)c->pass.n_seq, *k);
}

/* Delta nets with a decay for each key; lightning attention, which has no alpha, beta and bias. */
static void infer__gpu_delta_keys(infer__ctx *c, const infer__delta_args *a) {
    infer__gpu_call call;
    struct infer__k_keyed_step k;
    INFER__ASSERT(a->heads == a->k_heads && (a->kind == INFER__DELTA_PLAIN || a->run == a->run_step));
    memset(&call, 0, sizeof call);
    memset(&k, 0, sizeof k);
    k.plain = a->kind == INFER__DELTA_PLAIN;
    k.q = infer__gpu_tensor(c, &a->q, &call.bufs[0]);
    k.k = infer__gpu_tensor(c, &a->k, &call.bufs[1]);
    k.v = infer__gpu_tensor(c, &a->v, &call.bufs[2]);
    k.a = infer__gpu_vector(c, a->a, &call.bufs[5]);
    call.bufs[3] = call.bufs[4] = call.bufs[6] = call.bufs[5];
    if (!k.plain) {
        k.alpha = infer__gpu_tensor(c, &a->alpha, &call.bufs[3]);
        k.beta = infer__gpu_tensor(c, &a->beta, &call.bufs[4]);
        k.alpha_stride = (uint32_t)a->alpha.stride;
        k.beta_stride = (uint32_t)a->beta.stride;
        k.bias = infer__gpu_vector(c, a->dt_bias, &call.bufs[6]);
    }
    k.y = infer__gpu_tensor(c, &a->y, &call.bufs[7]);
    call.bufs[8] = a->cells->handle;
    call.bufs[9] = c->run->pass.handle;
    k.q_stride = (uint32_t)a->q.stride;
    k.k_stride = (uint32_t)a->k.stride;
    k.v_stride = (uint32_t)a->v.stride;
    k.y_stride = (uint32_t)a->y.stride;
    k.rows = (uint32_t)a->v.rows;
    k.heads = (uint32_t)a->heads;
    k.dim = (uint32_t)a->dim;
    k.state = (uint32_t)a->state;
    k.blocks = (uint32_t)infer__gpu_parts(k.dim, INFER__LANES);
    k.k_step = (uint32_t)(a->step ? a->step : a->state);
    k.v_step = (uint32_t)(a->step ? a->step : a->dim);
    k.eps = a->eps;
    k.q_scale = 1.0f / sqrtf((float)a->state);
    k.bound = a->bound;
    INFER__GPU_LAUNCH(c, INFER__K_KEYED_STEP, &call, (uint64_t)k.heads * k.blocks, (uint64_t)c->pass.n_seq, k);
}

static void infer__gpu_delta_heads(infer__ctx *c, const infer__delta_args *a) {
    const infer__tensor *const t[] = {&a->q, &a->k, &a->v, &a->alpha, &a->beta, &a->y};
    infer__gpu_call call;
    struct infer__k_step k;
    memset(&call, 0, sizeof call);
    memset(&k, 0, sizeof k);
    k.heads = (uint32_t)a->heads;
    k.k_heads = (uint32_t)a->k_heads;
    k.dim = (uint32_t)a->dim;
    k.state = (uint32_t)a->state;
    k.run = (uint32_t)a->run;
    k.run_step = (uint32_t)a->run_step;
    k.delta = 1;
    k.tiled = (uint32_t)a->tiled;
    k.eps = a->eps;
    k.q_scale = 1.0f / sqrtf((float)a->state);
    infer__gpu_step(c, &call, &k, t, a->a, a->dt_bias, NULL, a->cells);
}

static void infer__gpu_delta(infer__ctx *c, const infer__delta_args *a) {
    double began = infer__op_begin(c);
    if (began < 0) return;
    INFER__ASSERT(a->heads % a->k_heads == 0 && a->run > 0 && a->state <= INFER__GPU_STATES);
    INFER__ASSERT(a->step || (a->v.cols == a->heads * a->dim && a->k.cols == a->k_heads * a->state));
    INFER__ASSERT(a->step || (a->k.cols == a->q.cols && a->y.cols == a->v.cols));
    INFER__ASSERT(a->v.rows <= c->pass.n_rows && c->pass.cell_in && (!a->step || a->kind == INFER__DELTA_PLAIN));
    if (a->kind == INFER__DELTA_HEADS) infer__gpu_delta_heads(c, a);
    else infer__gpu_delta_keys(c, a);
    infer__gpu_end(c, "delta",
                   2 * (uint64_t)a->heads * (uint64_t)a->state * (uint64_t)infer__ssm_lanes(a->dim, 0) *
                       sizeof(float) * (uint64_t)c->pass.n_seq,
                   began);
}

static void infer__gpu_ssm(infer__ctx *c, const infer__ssm_args *a) {
    const infer__tensor *const t[] = {&a->c, &a->b, &a->x, &a->dt, &a->dt, &a->y};
    infer__gpu_call call;
    struct infer__k_step k;
    struct infer__k_step_own own;
    uint64_t values = (uint64_t)infer__ssm_units(a->heads, a->own_a) * (uint64_t)a->state *
                      (uint64_t)infer__ssm_lanes(a->dim, a->own_a);
    double began = infer__op_begin(c);
    if (began < 0) return;
    INFER__ASSERT(a->x.cols == a->heads * a->dim && a->b.cols == a->groups * a->state && a->heads % a->groups == 0);
    INFER__ASSERT(a->c.cols == a->b.cols && a->y.cols == a->x.cols && a->dt.cols == a->heads);
    INFER__ASSERT(a->x.rows <= c->pass.n_rows && c->pass.cell_in && (a->own_a || a->state <= INFER__GPU_STATES));
    memset(&call, 0, sizeof call);
    memset(&k, 0, sizeof k);
    memset(&own, 0, sizeof own);
    k.heads = k.run = k.run_step = (uint32_t)a->heads;
    k.k_heads = (uint32_t)a->groups;
    k.dim = (uint32_t)a->dim;
    k.state = (uint32_t)a->state;
    if (!a->own_a) {
        infer__gpu_step(c, &call, &k, t, a->a, a->dt_bias, a->skip, a->cells);
    } else {
        own.x = infer__gpu_tensor(c, &a->x, &call.bufs[0]);
        own.dt = infer__gpu_tensor(c, &a->dt, &call.bufs[1]);
        own.b = infer__gpu_tensor(c, &a->b, &call.bufs[2]);
        own.c = infer__gpu_tensor(c, &a->c, &call.bufs[3]);
        own.a = infer__gpu_vector(c, a->a, &call.bufs[4]);
        own.bias = infer__gpu_vector(c, a->dt_bias, &call.bufs[5]);
        own.skip = infer__gpu_vector(c, a->skip, &call.bufs[6]);
        own.y = infer__gpu_tensor(c, &a->y, &call.bufs[7]);
        call.bufs[8] = a->cells->handle;
        call.bufs[9] = c->run->pass.handle;
        own.x_stride = (uint32_t)a->x.stride;
        own.dt_stride = (uint32_t)a->dt.stride;
        own.b_stride = (uint32_t)a->b.stride;
        own.c_stride = (uint32_t)a->c.stride;
        own.y_stride = (uint32_t)a->y.stride;
        own.rows = (uint32_t)a->x.rows;
        own.heads = (uint32_t)a->heads;
        own.state = (uint32_t)a->state;
        INFER__GPU_LAUNCH(c, INFER__K_STEP_OWN, &call, infer__gpu_parts(own.heads, INFER__LANES),
                          (uint64_t)c->pass.n_seq, own);
    }
    infer__gpu_end(c, "ssm", 2 * values * sizeof(float) * (uint64_t)c->pass.n_seq, began);
}

static void infer__gpu_wkv(infer__ctx *c, const infer__wkv_args *a) {
    infer__gpu_call call;
    struct infer__k_wkv k;
    double began = infer__op_begin(c);
    int32_t i;
    if (began < 0) return;
    INFER__ASSERT(a->r.cols == a->heads * a->dim && a->w.cols == a->r.cols && a->y.cols == a->r.cols);
    INFER__ASSERT(a->k.cols == a->kv_heads * a->dim && a->v.cols == a->k.cols && a->heads % a->kv_heads == 0);
    INFER__ASSERT(a->v.rows <= c->pass.n_rows && c->pass.cell_in && a->dim <= INFER__GPU_WKV);
    memset(&call, 0, sizeof call);
    memset(&k, 0, sizeof k);
    k.r = infer__gpu_tensor(c, &a->r, &call.bufs[0]);
    k.k = infer__gpu_tensor(c, &a->k, &call.bufs[1]);
    k.v = infer__gpu_tensor(c, &a->v, &call.bufs[2]);
    k.w = infer__gpu_tensor(c, &a->w, &call.bufs[3]);
    for (i = 4; i < 12; i++) call.bufs[i] = call.bufs[0]; /* any valid buffer where there is none */
    k.y = infer__gpu_tensor(c, &a->y, &call.bufs[10]);
    if (a->kind == INFER__WKV_7) {
        k.rate = infer__gpu_tensor(c, &a->rate, &call.bufs[4]);
        k.rate_stride = (uint32_t)a->rate.stride;
    }
    if (a->mix.buf) {
        k.has_mix = 1;
        k.first = infer__gpu_tensor(c, &a->first, &call.bufs[5]);
        k.mix = infer__gpu_tensor(c, &a->mix, &call.bufs[6]);
        k.first_stride = (uint32_t)a->first.stride;
        k.mix_stride = (uint32_t)a->mix.stride;
    }
    k.has_u = a->u != NULL;
    k.u = infer__gpu_vector(c, a->u, &call.bufs[7]);
    k.k_k = infer__gpu_vector(c, a->k_k, &call.bufs[8]);
    k.k_a = infer__gpu_vector(c, a->k_a, &call.bufs[9]);
    if (a->bonus.buf) {
        k.has_bonus = 1;
        k.bonus = infer__gpu_tensor(c, &a->bonus, &call.bufs[11]);
        k.bonus_stride = (uint32_t)a->bonus.stride;
    }
    call.bufs[12] = a->cells->handle;
    call.bufs[13] = c->run->pass.handle;
    k.r_stride = (uint32_t)a->r.stride;
    k.k_stride = (uint32_t)a->k.stride;
    k.v_stride = (uint32_t)a->v.stride;
    k.w_stride = (uint32_t)a->w.stride;
    k.y_stride = (uint32_t)a->y.stride;
    k.rows = (uint32_t)a->v.rows;
    k.heads = (uint32_t)a->heads;
    k.each = (uint32_t)(a->heads / a->kv_heads);
    k.dim = (uint32_t)a->dim;
    k.blocks = (uint32_t)infer__gpu_parts(k.dim, INFER__LANES);
    k.kind = (uint32_t)a->kind;
    k.scale = 1.0f / sqrtf((float)a->dim);
    INFER__GPU_LAUNCH(c, INFER__K_WKV, &call, (uint64_t)k.heads, (uint64_t)c->pass.n_seq, k);
    infer__gpu_end(c, "wkv",
                   2 * (uint64_t)k.heads * 256 * (uint64_t)k.blocks * k.blocks * sizeof(float) *
                       (uint64_t)c->pass.n_seq,
                   began);
}

#endif
