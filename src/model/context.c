/* context.c: contexts: threads, work buffers and cache that sessions share; created completely, or not at all. */
#include "model.h"

static void infer__context_free(infer_context *c) {
    infer__mem *mem = &c->model->mem;
    infer_model *m;
    int32_t i;
    if (c->rest || c->share) infer__rest_end(c);
    infer__adapter_set_drop(c, c->adapters);
    infer__cache_destroy(c);
    for (i = 0; i < INFER__PLACES; i++) {
        infer__place *p = &c->places[i];
        const infer__ops *ops;
        if (!infer__enter(c, i)) continue;
        ops = infer__ops_of(&c->ctx);
        ops->release(&c->ctx, &p->x);
        ops->release(&c->ctx, &p->xn);
        ops->release(&c->ctx, &p->out);
        ops->release(&c->ctx, &p->work);
        ops->release(&c->ctx, &p->top);
        if (p->room.bytes) ops->release(&c->ctx, &p->room);
        ops->finish(&c->ctx);
    }
    infer__pool_destroy(c->pool);
    if (c->plan.rest_bytes) infer__free(mem, c->rows);
    infer__free(mem, c->gathered.host);
    infer__free(mem, c->hop);
    infer__free(mem, c->peek);
    infer__free(mem, c->ctx.pass.block);
    infer__free(mem, c->active);
    infer__free(mem, c->kept);
    infer__free(mem, c->out_top);
    infer__free(mem, c->out_logits);
    infer__free(mem, c->out_hidden);
    infer__free(mem, (void *)c->row_embd);
    infer__free(mem, c->row_switch);
    infer__free(mem, c->adapted);
    infer__free(mem, c->row_looked);
    m = c->model;
    infer__free(mem, c);
    infer__atomic_add(&m->contexts, -1);
    infer__model_let(m, INFER_OK);
}

/* Scratch and work buffers of one device. */
static infer_result infer__context_place(infer_context *c, int32_t place, infer_error *err) {
    infer__place *p = &c->places[place];
    infer__ctx *x = &c->ctx;
    const infer__ops *ops;
    int ok;
    if (!infer__place_used(c->model, place)) return INFER_OK;
    p->used = 1;
    if (INFER__HAS_GPU) p->ops = place == INFER__ON_CPU ? &infer__cpu_ops : &infer__gpu_ops;
    p->gpu = place == INFER__ON_CPU ? NULL : c->model->devices[place - INFER__ON_DEVICE].gpu;
    infer__enter(c, place);
    ops = infer__ops_of(x);
    ok = ops->prepare(x, &c->plan.needs);
    p->run = x->run; /* made by prepare; there after a failure too, for finish */
    if (ok && ops->alloc(x, &p->x, c->plan.x_bytes) && ops->alloc(x, &p->xn, c->plan.x_bytes) &&
        ops->alloc(x, &p->out, c->plan.x_bytes) && ops->alloc(x, &p->work, c->plan.work_bytes) &&
        (place != infer__head_place(c->model) || c->plan.top_bytes == 0 || ops->alloc(x, &p->top, c->plan.top_bytes)))
        return INFER_OK;
    if (!infer__ok(x)) /* a device says more */
        return infer__error(err, x->error.code, "batch of %d rows (%llu bytes): %s", (int)c->plan.batch,
                            (unsigned long long)c->plan.scratch_bytes[place], x->error.message);
    return infer__error(err, INFER_ERR_MEMORY, "no memory for a batch of %d rows (%llu bytes)", (int)c->plan.batch,
                        (unsigned long long)c->plan.scratch_bytes[place]);
}

/* Allocate everything that a pass needs, so that nothing is allocated while it runs. */
static infer_result infer__context_build(infer_context *c, const infer__placing *placing, infer_error *err) {
    infer__mem *mem = &c->model->mem;
    uint64_t batch = (uint64_t)c->plan.batch;
    int32_t i;
    infer_result r = infer__pool_create(&c->pool, mem, c->plan.threads, placing, c->model->params.parallel,
                                        c->model->params.parallel_user, err);
    if (r) return r;
    c->ctx.kv_type = c->plan.kv_type;
    infer__cpu_select(&c->ctx, c->model->cpu);
    c->ctx.mem = mem;
    c->ctx.pool = c->pool;
    if (c->model->parts == 1) c->ctx.cancel = &c->cancel; /* else between passes: parts.c */
    c->ctx.exact = c->model->params.exact;
    c->ctx.pass.block_len = (int64_t)c->plan.block_len;
    c->ctx.pass.block = (int32_t *)infer__calloc(mem, c->plan.block_len, sizeof(int32_t));
    c->active = (infer_session **)infer__calloc(mem, (uint64_t)c->plan.n_seq, sizeof *c->active);
    c->kept = (infer_session **)infer__calloc(mem, (uint64_t)c->plan.n_seq, sizeof *c->kept);
    c->out_top = (int32_t *)infer__calloc(mem, batch, sizeof *c->out_top);
    c->out_logits = (float **)infer__calloc(mem, batch, sizeof *c->out_logits);
    c->out_hidden = (float **)infer__calloc(mem, batch, sizeof *c->out_hidden);
    c->row_embd = (const float **)infer__calloc(mem, batch << (c->model->hp.n_deepstack > 0), sizeof *c->row_embd);
    c->row_deep = c->row_embd ? c->row_embd + batch : NULL;
    c->row_switch = (int32_t *)infer__calloc(mem, batch, sizeof *c->row_switch);
    c->adapted = (infer__adapted *)infer__calloc(mem, batch, sizeof *c->adapted);
    c->row_looked = (int32_t *)infer__calloc(mem, batch * (uint64_t)infer__looks(c->model) + 1, sizeof(int32_t));
    c->ctx.pass.looked = c->row_looked;
    c->ctx.pass.looks = infer__looks(c->model);
    if (!c->ctx.pass.block || !c->active || !c->kept || !c->out_top || !c->out_logits || !c->out_hidden ||
        !c->row_embd || !c->row_switch || !c->adapted || !c->row_looked)
        return infer__error(err, INFER_ERR_MEMORY, "no memory for a batch of %d rows", (int)c->plan.batch);
    if (c->plan.hop_bytes && !(c->hop = (float *)infer__alloc(mem, c->plan.hop_bytes)))
        return infer__error(err, INFER_ERR_MEMORY, "no memory for a batch of %d rows", (int)c->plan.batch);
    if (c->plan.rest_bytes && !(c->rows = (float *)infer__alloc(mem, c->plan.rest_bytes)))
        return infer__error(err, INFER_ERR_MEMORY, "no memory for a batch of %d rows", (int)c->plan.batch);
    c->gathered.bytes = c->plan.parts_bytes;
    if (c->plan.parts_bytes && !(c->gathered.host = infer__alloc(mem, c->plan.parts_bytes)))
        return infer__error(err, INFER_ERR_MEMORY, "no memory for a batch of %d rows", (int)c->plan.batch);
    for (i = 0; i < INFER__PLACES && !r; i++) r = infer__context_place(c, i, err);
    return r ? r : infer__cache_create(c, err);
}

static infer_result infer__context_create(infer_context **out, infer_model *m, const infer_context_params *params,
                                          int32_t default_sessions, infer_error *err) {
    infer__placing placing = { NULL, 0, 0 };
    infer__plan plan;
    infer_context *c;
    infer_result r = infer__plan_make(&plan, m, params, default_sessions, err);
    if (r) return r;
    if (infer__model_lost(m))
        return infer__error(err, INFER_ERR_STATE, "the model uses a device and was opened before fork()");
    if ((r = infer__rest_check(m, params, err)) != INFER_OK) return r;
    if (params && params->inputs && (r = infer__give_check(m, err)) != INFER_OK) return r;
    infer__model_hold(m); /* before its callbacks can close it */
    if ((r = infer__plan_fits(&plan, m, err)) != INFER_OK) return infer__model_let(m, r);
    c = (infer_context *)infer__calloc(&m->mem, 1, sizeof *c);
    if (!c) return infer__model_let(m, infer__error(err, INFER_ERR_MEMORY, "no memory for a context"));
    infer__atomic_add(&m->contexts, 1);
    infer__atomic_set(&c->refs, INFER__OWNED);
    c->model = m;
    c->plan = plan;
    if (params) {
        placing.processors = params->processors;
        placing.n = params->n_processors;
        placing.low = params->low_priority;
    }
    r = infer__context_build(c, &placing, err);
    if (r) {
        infer__context_free(c);
        return r;
    }
    c->ctx.profiling = params ? params->profile : 0;
    c->inputs = params ? params->inputs : NULL;
    c->inputs_user = params ? params->inputs_user : NULL;
    if (m->parts > 1) {
        c->gather = params->gather;
        c->parts_user = params->parts_user;
    }
    if (plan.rest_bytes) {
        if (m->end < m->hp.n_layer) c->rest = params->rest;
        c->rest_user = params->rest_user;
        if (m->parts > 1) c->share = params->share;
        c->number = infer__atomic_add(&m->numbers, 1) + 1;
    }
    *out = c;
    return INFER_OK;
}

static infer_result infer__context_make(infer_context **out, infer_model *m, const infer_context_params *params,
                                        int32_t default_sessions, infer_error *err) {
    infer_result r = m->why_code == INFER_OK ? infer__weights_hold(m, err) : INFER_OK;
    if (r) return r;
    infer__model_hold(m);
    r = infer__context_create(out, m, params, default_sessions, err);
    if (m->why_code == INFER_OK) infer__weights_let(m);
    return infer__model_let(m, r);
}
