/* gpu_step.c: ops of recurrent layers on GPUs: short convolutions, state spaces, gated delta rules (kernels/conv.k,
 * kernels/step.k). Cells are what they are on the CPU, so saved sessions fit both.
 */
#include "gpu.h"

#ifndef INFER_NO_GPU

enum { INFER__GPU_STATES = 256 }; /* of a head, that work-items have registers for */

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
    k.x_run = a->x_run ? (uint32_t)a->x_run : k.cols;
    k.x_step = (uint32_t)a->x_step;
    INFER__GPU_LAUNCH(c, INFER__K_CONV, &call, (uint64_t)a->x.rows * k.parts, 1, k);
    infer__gpu_end(c, "conv", (uint64_t)a->w->rows * a->w->row_bytes, began);
}

/* What both recurrences have of heads with more than one value. */
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

static void infer__gpu_delta(infer__ctx *c, const infer__delta_args *a) {
    const infer__tensor *const t[] = {&a->q, &a->k, &a->v, &a->alpha, &a->beta, &a->y};
    infer__gpu_call call;
    struct infer__k_step k;
    double began = infer__op_begin(c);
    if (began < 0) return;
    INFER__ASSERT(a->v.cols == a->heads * a->dim && a->k.cols == a->k_heads * a->state && a->heads % a->k_heads == 0);
    INFER__ASSERT(a->k.cols == a->q.cols && a->y.cols == a->v.cols && a->run > 0 && a->state <= INFER__GPU_STATES);
    INFER__ASSERT(a->v.rows <= c->pass.n_rows && c->pass.cell_in);
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
    infer__gpu_end(c, "delta", 2 * (uint64_t)k.unit * k.heads * sizeof(float) * (uint64_t)c->pass.n_seq, began);
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

#endif
