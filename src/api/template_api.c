/* template_api.c: chat templates for callers.
 *
 * Owns:  infer_template, infer_rendering: each with its own memory. The work is in src/text/jinja_*.c.
 */
#include "../model/model.h"

#if !defined(INFER_NO_CHAT)
struct infer_template {
    infer__mem mem;
    infer__template *parsed;
};
typedef struct infer__rendering {
    infer_rendering shown; /* first: the caller's pointer */
    infer__mem mem;
    infer__rendered rendered;
} infer__rendering;

INFER_API infer_result infer_template_create(infer_template **out, const char *text, size_t n,
                                             const infer_allocator *allocator, infer_error *err) {
    infer_template *t;
    infer__mem mem;
    infer_result r;
    if (!out) return infer__error(err, INFER_ERR_ARGUMENT, "out is NULL");
    *out = NULL;
    if ((r = infer__source_check(text, n, allocator, err)) != INFER_OK) return r;
    infer__mem_init(&mem, allocator, 0);
    t = (infer_template *)infer__calloc(&mem, 1, sizeof *t);
    if (!t) return infer__error(err, INFER_ERR_MEMORY, "template: out of memory");
    t->mem = mem;
    r = infer__template_open(&t->parsed, &t->mem, text ? text : "", n, err);
    if (r == INFER_OK) *out = t; else infer_template_destroy(t);
    return r;
}

INFER_API void infer_template_destroy(infer_template *t) {
    infer__mem mem;
    if (!t) return;
    infer__template_close(t->parsed);
    mem = t->mem; /* the struct is freed through it */
    infer__free(&mem, t);
}

INFER_API infer_result infer_template_render(const infer_template *t, const infer_json *context,
                                             const infer_template_params *params, infer_rendering **out,
                                             infer_error *err) {
    infer__render_options options;
    infer__rendering *made;
    infer__watch watch;
    infer__mem mem;
    infer_result r;
    if (!out) return infer__error(err, INFER_ERR_ARGUMENT, "out is NULL");
    *out = NULL;
    if (!t) return infer__error(err, INFER_ERR_ARGUMENT, "template is NULL");
    infer__error_clear(err);
    memset(&options, 0, sizeof options);
    if (params) {
        if (infer__reserved_check(params->reserved, "template_params", err)) return INFER_ERR_ARGUMENT;
        options.trusted = params->trusted;
        options.now = params->now;
        options.max_steps = params->max_steps;
        options.max_output = params->max_output;
        options.max_memory = params->max_memory;
    }
    infer__watch_begin(&watch, params ? &params->limits : NULL, INFER__WATCH_SECONDS);
    options.watch = &watch;
    infer__mem_init(&mem, &t->mem.a, 0);
    made = (infer__rendering *)infer__calloc(&mem, 1, sizeof *made);
    if (!made) return infer__error(err, INFER_ERR_MEMORY, "template: out of memory");
    made->mem = mem;
    r = infer__template_render_with(t->parsed, &made->mem, context, &options, &made->rendered, err);
    if (r != INFER_OK) {
        infer_rendering_free(&made->shown);
        return r;
    }
    made->shown.text = made->rendered.text;
    made->shown.n = made->rendered.n;
    made->shown.segments = made->rendered.segments;
    made->shown.n_segments = made->rendered.n_segments;
    *out = &made->shown;
    return INFER_OK;
}

INFER_API void infer_rendering_free(infer_rendering *r) {
    infer__rendering *made = (infer__rendering *)r;
    infer__mem mem;
    if (!made) return;
    infer__rendered_free(&made->rendered);
    mem = made->mem;
    infer__free(&mem, made);
}

#else
INFER_API infer_result infer_template_create(infer_template **out, const char *text, size_t n,
                                             const infer_allocator *allocator, infer_error *err) {
    (void)text;
    (void)n;
    (void)allocator;
    if (out) *out = NULL;
    return infer__error(err, INFER_ERR_UNSUPPORTED, "templates are left out of this build (INFER_NO_CHAT)");
}
INFER_API void infer_template_destroy(infer_template *t) { (void)t; }
INFER_API infer_result infer_template_render(const infer_template *t, const infer_json *context,
                                             const infer_template_params *params, infer_rendering **out,
                                             infer_error *err) {
    (void)t;
    (void)context;
    (void)params;
    if (out) *out = NULL;
    return infer__error(err, INFER_ERR_UNSUPPORTED, "templates are left out of this build (INFER_NO_CHAT)");
}
INFER_API void infer_rendering_free(infer_rendering *r) { (void)r; }
#endif
