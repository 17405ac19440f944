/* adapter_api.c: adapters: opening and closing, choosing those of contexts and sessions, merging them into weights. */
#include "../model/model.h"

/* Finish opening from the parsed file *g (if r is INFER_OK). The file is closed in any case. */
static infer_result infer__adapter_finish(infer_adapter **out, infer_model *m, infer__gguf *g, infer_result r,
                                          int32_t allow_unknown, infer_error *err) {
    infer_adapter *a;
    if (r) return infer__model_let(m, r);
    a = (infer_adapter *)infer__calloc(&m->mem, 1, sizeof *a);
    if (!a) r = infer__error(err, INFER_ERR_MEMORY, "no memory for an adapter");
    else {
        a->model = m;
        a->arena.mem = a->file_order.mem = &m->mem;
        r = infer__adapter_build(a, g, allow_unknown, err);
        infer__arena_free(&a->file_order);
    }
    infer__gguf_close(g);
    if (r) {
        if (a) infer__adapter_free(a);
        return infer__model_let(m, r);
    }
    infer__atomic_set(&a->users, INFER__OWNED);
    infer__atomic_add(&m->adapters, 1);
    *out = a; /* counts as a user of the model while it is open */
    return INFER_OK;
}

/* 1, with the model held, when it can have adapters. */
static int infer__adapter_start(infer_adapter **out, infer_model *model, const void *from, const char *call,
                                infer_error *err) {
    infer__error_clear(err);
    if (out) *out = NULL;
    if (!out || !model || !from)
        infer__error(err, INFER_ERR_ARGUMENT, "%s: %s is NULL", call, !out ? "out" : !model ? "model" : "the file");
    else if (infer__model_lost(model))
        infer__error(err, INFER_ERR_STATE, "the model uses a device and was opened before fork()");
    else if (model->why_code == INFER_OK && infer__ranged(model))
        infer__error(err, INFER_ERR_UNSUPPORTED, "adapters, with layers elsewhere");
    else {
        infer__model_hold(model);
        return 1;
    }
    return 0;
}

INFER_API infer_result infer_adapter_open(infer_adapter **out, infer_model *model, const char *path,
                                          int32_t allow_unknown, infer_error *err) {
    infer_error e;
    infer__gguf g;
    infer_result r;
    if (!INFER__HAS_ADAPTERS && out) *out = NULL;
    if (!INFER__HAS_ADAPTERS) return infer__left_out(err, "adapters", "INFER_NO_ADAPTERS");
    if (!err) err = &e; /* its code is looked at */
    if (!infer__adapter_start(out, model, path, "infer_adapter_open", err)) return err->code;
    r = infer__gguf_open_path(&g, &model->mem, &model->report, path, infer__model_map(model), err);
    return infer__adapter_finish(out, model, &g, r, allow_unknown, err);
}

INFER_API infer_result infer_adapter_open_memory(infer_adapter **out, infer_model *model, const void *data, size_t size,
                                                 int32_t allow_unknown, infer_error *err) {
    infer_error e;
    infer__gguf g;
    infer_result r;
    if (!INFER__HAS_ADAPTERS && out) *out = NULL;
    if (!INFER__HAS_ADAPTERS) return infer__left_out(err, "adapters", "INFER_NO_ADAPTERS");
    if (!err) err = &e;
    if (!infer__adapter_start(out, model, data, "infer_adapter_open_memory", err)) return err->code;
    r = infer__gguf_open_memory(&g, &model->mem, &model->report, data, size, err);
    return infer__adapter_finish(out, model, &g, r, allow_unknown, err);
}

INFER_API infer_result infer_adapter_close(infer_adapter *adapter) {
    int last;
    if (!INFER__HAS_ADAPTERS) return INFER_OK;
    if (!adapter) return INFER_OK;
    if (infer__model_lost(adapter->model)) return INFER_ERR_STATE;
    last = infer__refs_close(&adapter->users);
    if (last > 0) infer__adapter_gone(adapter);
    return last < 0 ? INFER_ERR_STATE : INFER_OK;
}

/* 1, with the model and its weights held exclusively by this call, if only adapters use it. */
static int infer__include_start(infer_model *model, const char *call, infer_error *err) {
    int64_t adapters;
    infer__error_clear(err);
    if (!model) infer__error(err, INFER_ERR_ARGUMENT, "%s: model is NULL", call);
    else if (infer__model_lost(model))
        infer__error(err, INFER_ERR_STATE, "the model uses a device and was opened before fork()");
    else {
        adapters = INFER__OWNED + infer__atomic_get(&model->adapters);
        if (infer__atomic_swap(&model->users, adapters, adapters + 1)) {
            if (infer__weights_own(model, err) == INFER_OK) return 1;
            infer__model_let(model, INFER_OK);
        } else
            infer__error(err, INFER_ERR_STATE,
                         "%s: the model is used by contexts, samplers or grammars, or a call runs", call);
    }
    return 0;
}

static infer_result infer__include_end(infer_model *model, infer_result r) {
    infer__weights_disown(model);
    return infer__model_let(model, r);
}

INFER_API infer_result infer_model_merge(infer_model *model, const infer_adapter_use *uses, int32_t n, const char *type,
                                         infer_error *err) {
    const infer__quant *as = type ? infer__quant_named(type) : NULL;
    infer_error e;
    if (!INFER__HAS_ADAPTERS) return infer__left_out(err, "adapters", "INFER_NO_ADAPTERS");
    if (!err) err = &e; /* its code is looked at */
    if (!infer__include_start(model, "infer_model_merge", err)) return err->code;
    if (type && (!as || !as->encode))
        return infer__include_end(model, infer__error(err, INFER_ERR_ARGUMENT,
                                                      "infer_model_merge: type \"%.40s\" is none that can be written",
                                                      type));
    return infer__include_end(model, infer__include(model, uses, n, as, err));
}

INFER_API infer_result infer_model_unmerge(infer_model *model, infer_error *err) {
    infer_error e;
    if (!INFER__HAS_ADAPTERS) return infer__left_out(err, "adapters", "INFER_NO_ADAPTERS");
    if (!err) err = &e;
    if (!infer__include_start(model, "infer_model_unmerge", err)) return err->code;
    infer__exclude(model);
    return infer__include_end(model, INFER_OK);
}

INFER_API infer_result infer_adapter_get_info(const infer_adapter *adapter, infer_adapter_info *out) {
    if (!adapter || !out) return INFER_ERR_ARGUMENT;
    memset(out, 0, sizeof *out);
    out->name = adapter->name ? adapter->name : "";
    out->task = adapter->task ? adapter->task : "";
    out->prefix = adapter->prefix ? adapter->prefix : "";
    out->control = adapter->control;
    out->matrices = adapter->n_pairs;
    out->rank = adapter->rank;
    out->invocation = adapter->invocation;
    out->n_invocation = adapter->n_invocation;
    out->bytes = adapter->device_bytes;
    return INFER_OK;
}

INFER_API infer_result infer_session_set_adapters(infer_session *session, const infer_adapter_use *uses, int32_t n) {
    infer_result r;
    if (!session) return INFER_ERR_ARGUMENT;
    if (!INFER__HAS_ADAPTERS) return infer__left_out(&session->error, "adapters", "INFER_NO_ADAPTERS");
    if ((r = infer__session_enter(session, "infer_session_set_adapters")) != INFER_OK) return r;
    infer__error_clear(&session->error);
    return infer__session_exit(session, infer__adapters_set(session, uses, n, &session->error));
}

INFER_API infer_result infer_context_set_adapters(infer_context *context, const infer_adapter_use *uses, int32_t n,
                                                  infer_error *err) {
    infer_result r;
    if (!INFER__HAS_ADAPTERS) return infer__left_out(err, "adapters", "INFER_NO_ADAPTERS");
    infer__error_clear(err);
    if (!context) return infer__error(err, INFER_ERR_ARGUMENT, "infer_context_set_adapters: context is NULL");
    if ((r = infer__context_claim(context, "infer_context_set_adapters", err)) != INFER_OK) return r;
    r = infer__adapters_default(context, uses, n, err);
    infer__context_leave(context);
    return r;
}
