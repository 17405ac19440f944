/* encode.c: opening a stack of a projector file, and encoding pictures and sound. Start: infer__stack_encode. */
#include "../model.h"

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static infer_result infer__stack_open(infer_model **out, const infer__gguf_origin *origin, int32_t kind,
                                      const infer_model_params *params, infer_error *err) {
    infer_model_params p;
    infer__gguf_opening files;
    infer__building x;
    infer_model *m;
    infer_result r;
    memset(&p, 0, sizeof p);
    memset(&x, 0, sizeof x);
    if (params) p = *params;
    p.vocab_only = p.mtp = 0;
    if (p.gpu_layers > 0) p.gpu_layers = 0; /* a number of the text model's layers */
    p.pre = NULL;
    *out = NULL;
    r = infer__model_start(&m, &p, INFER_VERSION, err);
    if (r) return r;
    m->stack.kind = kind;
    infer__gguf_begin(&files, &m->gguf, &m->mem, &m->report, origin);
    r = infer__gguf_step(&files, &m->gguf, NULL, err);
    if (!r && !infer__stack_in(&m->gguf, kind)) {
        infer__model_free(m);
        infer__error_clear(err);
        return r;
    }
    if (!r) r = infer__model_build(m, &x, NULL, err);
    if (!r && m->why_code) r = infer__error(err, m->why_code, "%s", m->why_not);
    if (!r) {
        *out = m;
        return r;
    }
    infer__upload_free(m, &x.upload);
    infer__model_free(m);
    return r;
}

static int32_t infer__stack_width(const infer_model *m) { return m->hp.n_out * (1 + m->stack.n_beside); }

static int32_t infer__stack_tokens(const infer_model *m, int32_t width, int32_t height, infer_error *err) {
    infer__picture p;
    return infer__picture_sizes(m, width, height, &p, err) ? 0 : p.tokens;
}

static int infer__stack_fits(const infer_context *c, int32_t width, int32_t height) {
    infer__picture p;
    return infer__picture_sizes(c->model, width, height, &p, NULL) == INFER_OK && p.rows <= c->plan.batch;
}

static infer_result infer__stack_context(infer_context **out, infer_model *m, const infer_context_params *params,
                                         int32_t width, int32_t height, infer_error *err) {
    infer_context_params p;
    infer__picture sizes;
    infer_result r = infer__picture_sizes(m, width, height, &sizes, err);
    if (r) return r;
    memset(&p, 0, sizeof p);
    if (params) p = *params;
    p.batch = p.cells = INFER__MAX(sizes.rows, m->stack.queries);
    p.sessions = 1;
    p.kv_type = INFER_KV_DEFAULT;
    return infer__context_make(out, m, &p, INFER__SESSIONS_OWN, err);
}

/* ---- encoding ---------------------------------------------------------------------------------------------------- */

/* A pass over the picture's rows, in a session of its own; the context is claimed. */
static infer_result infer__picture_eval(infer_context *c, infer__picture *p, const infer_session_params *session,
                                        infer_error *err) {
    infer_session_params sp;
    infer_session *s;
    infer_step step;
    infer_result r;
    memset(&sp, 0, sizeof sp);
    if (session) sp = *session;
    p->progress = sp.progress;
    p->progress_user = sp.progress_user;
    sp.progress = NULL; /* after every layer instead */
    sp.context = p->rows;
    r = infer__session_make(&s, c, &sp, err);
    if (r) return r;
    memset(&step, 0, sizeof step);
    step.session = s;
    step.embeddings = (const float *)p->pixels[0].host; /* not read: the first layer makes the stream */
    step.n = p->rows;
    c->picture = p;
    infer__session_claim(s); /* unused by others: it cannot fail */
    r = infer__eval_steps(c, &step, 1, err);
    c->picture = NULL;
    infer__session_free(s);
    if (!r && !c->ctx.kernels->finite(p->out, (int64_t)p->tokens * infer__stack_width(c->model)))
        r = infer__error(err, INFER_ERR_STATE, "an embedding has a value that is not finite");
    return r;
}

static infer_result infer__stack_encode(infer_context *c, const float *values, int32_t width, int32_t height,
                                        const float *second, const infer_session_params *session, float *out,
                                        infer_error *err) {
    infer_model *m = c->model;
    const uint64_t row = (uint64_t)infer__stack_width(m) * sizeof(float);
    infer__picture p;
    float *windows = NULL; /* the embeddings, window by window */
    int32_t i;
    infer_result r = infer__picture_sizes(m, width, height, &p, err);
    if (r) return r;
    if (p.rows > c->plan.batch)
        return infer__error(err, INFER_ERR_ARGUMENT, "a picture or sound of %d rows: the context has room for %d",
                            (int)p.rows, (int)c->plan.batch);
    if ((r = infer__context_claim(c, "encoding", err)) != INFER_OK) return r;
    r = infer__picture_fill(m, &p, values, second, err);
    p.out = out;
    if (!r && m->stack.list && !(p.out = windows = (float *)infer__alloc(&m->mem, (uint64_t)p.tokens * row)))
        r = infer__error(err, INFER_ERR_MEMORY, "no memory for %d embeddings", (int)p.tokens);
    if (!r) r = infer__picture_eval(c, &p, session, err);
    for (i = 0; windows && !r && i < p.tokens; i++)
        memcpy((char *)out + (uint64_t)infer__picture_token(&m->stack, &p, i) * row,
               (char *)windows + (uint64_t)i * row, (size_t)row);
    infer__free(&m->mem, windows);
    infer__picture_free(m, &p);
    infer__context_leave(c);
    return r;
}
