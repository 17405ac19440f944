/* loading.c: infer_loading: opening a model in slices of milliseconds.
 *
 * Owns:  infer_loading, and what it needs of the caller's arguments until it has ended. How a model is opened is in
 *        format/gguf.c, text/token/tokenizer.c and model/model.c, whose loops stop at the end of a slice.
 * Rules: its own memory comes from the caller's allocator but is not counted in the model, so that the model is the
 *        same as one opened in one call. The model is not visible before it is complete.
 */
#include "../model/model.h"

struct infer_loading {
    infer__mem mem;
    infer__atomic calls;    /* infer__claim */
    infer_model *m;         /* NULL: it was freed after an error */
    infer__budget budget;   /* of the last slice */
    int32_t parsed, over;   /* the files' headers are read; it has ended, with this result */
    infer_error error;
    infer__gguf_opening files;
    infer__model_opening opening;
    char *path, *pre, *projector;
    infer_io *io;
};

static void infer__loading_free(infer_loading *x) {
    infer__mem mem;
    if (x->m) infer__model_drop(x->m, &x->opening);
    infer__free(&x->mem, x->path);
    infer__free(&x->mem, x->pre);
    infer__free(&x->mem, x->projector);
    infer__free(&x->mem, x->io);
    mem = x->mem; /* the struct is freed through it */
    infer__free(&mem, x);
}

static void *infer__loading_copy(infer_loading *x, const void *from, uint64_t n, size_t size) {
    void *p = infer__realloc(&x->mem, NULL, n, size);
    if (p) memcpy(p, from, (size_t)(n * size));
    return p;
}

/* Copies of what the origin and the parameters point to, except for a file in memory. */
static infer_result infer__loading_keep(infer_loading *x, infer__gguf_origin *o, infer_error *err) {
    const char *pre = x->m->params.pre, *projector = x->m->params.projector;
    if (o->path) o->path = x->path = (char *)infer__loading_copy(x, o->path, strlen(o->path) + 1, 1);
    if (o->io) o->io = x->io = (infer_io *)infer__loading_copy(x, o->io, (uint64_t)o->n_io, sizeof *o->io);
    if (pre) x->m->params.pre = x->pre = (char *)infer__loading_copy(x, pre, strlen(pre) + 1, 1);
    if (projector)
        x->m->params.projector = x->projector =
            (char *)infer__loading_copy(x, projector, strlen(projector) + 1, 1);
    if ((!o->path && !o->io && !o->data) || (pre && !x->pre) || (projector && !x->projector))
        return infer__error(err, INFER_ERR_MEMORY, "no memory to open a model in slices");
    return INFER_OK;
}

static infer_result infer__loading_begin(infer_loading **out, infer__gguf_origin *o, const char *missing,
                                         const infer_model_params *params, infer_error *err, uint32_t version) {
    infer_loading *x;
    infer_model *m;
    infer__mem mem;
    infer_result r;
    infer__error_clear(err);
    if (out) *out = NULL;
    if (!INFER__HAS_SLICES) return infer__left_out(err, "slices", "INFER_NO_SLICES");
    r = infer__model_start(out ? &m : NULL, params, version, err);
    if (r != INFER_OK) return r;
    if (missing) {
        infer__model_free(m);
        return infer__error(err, INFER_ERR_ARGUMENT, "%s", missing);
    }
    infer__mem_init(&mem, &m->params.allocator, 0);
    x = (infer_loading *)infer__calloc(&mem, 1, sizeof *x);
    if (!x) {
        infer__model_free(m);
        return infer__error(err, INFER_ERR_MEMORY, "no memory to open a model in slices");
    }
    x->mem = mem;
    x->m = m;
    o->want_map = infer__model_map(m);
    r = infer__loading_keep(x, o, err);
    if (r != INFER_OK) {
        infer__loading_free(x);
        return r;
    }
    infer__gguf_begin(&x->files, &m->gguf, &m->mem, &m->report, o);
    *out = x;
    return INFER_OK;
}

INFER_API infer_result infer_model_open_begin_v(infer_loading **out, const char *path, const infer_model_params *params,
                                                infer_error *err, uint32_t version) {
    infer__gguf_origin o;
    memset(&o, 0, sizeof o);
    o.path = path;
    return infer__loading_begin(out, &o, path ? NULL : "path is NULL", params, err, version);
}

INFER_API infer_result infer_model_open_memory_begin_v(infer_loading **out, const void *data, size_t size,
                                                       const infer_model_params *params, infer_error *err,
                                                       uint32_t version) {
    infer__gguf_origin o;
    memset(&o, 0, sizeof o);
    o.data = data;
    o.size = size;
    return infer__loading_begin(out, &o, data ? NULL : "data is NULL", params, err, version);
}

INFER_API infer_result infer_model_open_io_begin_v(infer_loading **out, const infer_io *io, int32_t n_io,
                                                   const infer_model_params *params, infer_error *err,
                                                   uint32_t version) {
    infer__gguf_origin o;
    char few[32];
    memset(&o, 0, sizeof o);
    o.io = io;
    o.n_io = n_io;
    infer__format(few, sizeof few, "n_io is %d", (int)n_io);
    return infer__loading_begin(out, &o, !io ? "io is NULL" : n_io < 1 ? few : NULL, params, err, version);
}

/* The names of the macros, for callers that are not C (in brackets, so that the macros leave them alone). */
INFER_API infer_result(infer_model_open_begin)(infer_loading **out, const char *path, const infer_model_params *params,
                                               infer_error *err) {
    return infer_model_open_begin_v(out, path, params, err, INFER_VERSION);
}

INFER_API infer_result(infer_model_open_memory_begin)(infer_loading **out, const void *data, size_t size,
                                                      const infer_model_params *params, infer_error *err) {
    return infer_model_open_memory_begin_v(out, data, size, params, err, INFER_VERSION);
}

INFER_API infer_result(infer_model_open_io_begin)(infer_loading **out, const infer_io *io, int32_t n_io,
                                                  const infer_model_params *params, infer_error *err) {
    return infer_model_open_io_begin_v(out, io, n_io, params, err, INFER_VERSION);
}

static infer_result infer__loading_go(infer_loading *x) {
    infer_result r = INFER_OK;
    if (!x->parsed) {
        r = infer__gguf_step(&x->files, &x->m->gguf, &x->budget, &x->error);
        if (r != INFER_OK) return r;
        x->parsed = 1;
        if (infer__budget_over(&x->budget, 1)) return INFER_MORE;
    }
    r = infer__model_step(x->m, &x->opening, &x->budget, &x->error);
    return r == INFER_OK ? infer__model_projector(x->m, &x->files.origin, &x->error) : r;
}

INFER_API infer_result infer_loading_step(infer_loading *loading, int32_t budget_ms, infer_error *err) {
    infer_loading *x = loading;
    infer_result r;
    if (!INFER__HAS_SLICES || !x || budget_ms < -1)
        return infer__error(err, INFER_ERR_ARGUMENT, "infer_loading_step: %s",
                            x ? "budget_ms is below -1" : "loading is NULL");
    if (!infer__claim(&x->calls))
        return infer__error(err, INFER_ERR_STATE, "infer_loading_step: another call runs it");
    if (!x->over) {
        x->budget.done = 0;
        x->budget.end = infer__slice_end(budget_ms);
        infer__error_clear(&x->error);
        r = infer__loading_go(x);
        x->over = r != INFER_MORE;
        if (x->over && r != INFER_OK) {
            infer__model_drop(x->m, &x->opening);
            x->m = NULL;
        }
        if (r == INFER_MORE || r == INFER_OK) infer__error_clear(&x->error);
        x->error.code = r;
    }
    r = x->error.code;
    if (err) *err = x->error;
    if (r == INFER_MORE && err) err->code = INFER_OK;
    infer__unclaim(&x->calls);
    return r;
}

INFER_API infer_result infer_loading_end(infer_loading *loading, infer_model **out) {
    infer_loading *x = loading;
    if (out) *out = NULL;
    if (!INFER__HAS_SLICES || !x) return INFER_OK;
    if (!infer__claim(&x->calls)) return INFER_ERR_STATE;
    if (out && x->over && x->m) {
        *out = x->m;
        x->m = NULL;
    }
    infer__loading_free(x);
    return INFER_OK;
}
