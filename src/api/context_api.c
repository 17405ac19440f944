/* context_api.c: contexts. */
#include "../model/model.h"

INFER_API infer_result infer_context_create(infer_context **out, infer_model *model, const infer_context_params *params,
                                            infer_error *err) {
    infer__error_clear(err);
    if (!out) return infer__error(err, INFER_ERR_ARGUMENT, "infer_context_create: out is NULL");
    *out = NULL;
    if (!model) return infer__error(err, INFER_ERR_ARGUMENT, "infer_context_create: model is NULL");
    return infer__context_make(out, model, params, INFER__SESSIONS_SHARED, err);
}

INFER_API infer_result infer_context_destroy(infer_context *context) {
    return context ? infer__context_end(context) : INFER_OK;
}

INFER_API infer_result infer_context_memory(const infer_context *context, infer_memory *out) {
    if (!context || !out) return INFER_ERR_ARGUMENT;
    infer__plan_memory(&context->plan, context->model, out);
    return INFER_OK;
}

INFER_API infer_result infer_context_rows(infer_context *context, const void *message, size_t size, float *rows,
                                          size_t n, size_t cap, size_t *back, infer_error *err) {
    infer_result r;
    infer__error_clear(err);
    if (back) *back = 0;
    if (!INFER__HAS_RANGES) return infer__left_out(err, "models of some layers", "INFER_NO_RANGES");
    if (!context || !message || !back || (cap > 0 && !rows))
        return infer__error(err, INFER_ERR_ARGUMENT, "infer_context_rows: a NULL argument");
    if ((r = infer__context_claim(context, "infer_context_rows", err)) != INFER_OK) return r;
    r = infer__context_rows(context, message, size, rows, n, cap, back, err);
    infer__context_leave(context);
    return r;
}

INFER_API infer_result infer_rows_read(const void *message, size_t size, infer_rows_info *out, infer_error *err) {
    infer__error_clear(err);
    if (out) memset(out, 0, sizeof *out);
    if (!INFER__HAS_RANGES) return infer__left_out(err, "models of some layers", "INFER_NO_RANGES");
    if (!message || !out)
        return infer__error(err, INFER_ERR_ARGUMENT, "infer_rows_read: %s is NULL", out ? "message" : "out");
    return infer__rows_read(message, size, out, err);
}
