/* session_api.c: sessions: creation, evaluation, results, going back, sharing and keeping. What they do is in model/:
 * session.c, eval.c, results.c, state.c.
 */
#include "../model/model.h"

/* ---- creation ---------------------------------------------------------------------------------------- */

INFER_API infer_result infer_session_create_in(infer_session **out, infer_context *context,
                                               const infer_session_params *params, infer_error *err) {
    infer_session_params zero;
    infer_session *s = NULL;
    infer_result r;
    memset(&zero, 0, sizeof zero);
    infer__error_clear(err);
    if (!out) return infer__error(err, INFER_ERR_ARGUMENT, "infer_session_create_in: out is NULL");
    *out = NULL;
    if (!context) return infer__error(err, INFER_ERR_ARGUMENT, "infer_session_create_in: context is NULL");
    if (params && infer__reserved_check(params->reserved, "session_params", err)) return INFER_ERR_ARGUMENT;
    r = infer__context_claim(context, "infer_session_create_in", err);
    if (r != INFER_OK) return r;
    r = infer__session_make(&s, context, params ? params : &zero, err);
    if (r == INFER_OK) infer__session_warn(s);
    infer__context_leave(context);
    *out = s;
    return r;
}

INFER_API infer_result infer_session_create(infer_session **out, infer_model *model, const infer_session_params *params,
                                            infer_error *err) {
    infer_session_params p;
    infer_context *c = NULL;
    infer_session *s = NULL;
    infer_result r;
    memset(&p, 0, sizeof p);
    if (params) p = *params;
    infer__error_clear(err);
    if (!out) return infer__error(err, INFER_ERR_ARGUMENT, "infer_session_create: out is NULL");
    *out = NULL;
    if (!model) return infer__error(err, INFER_ERR_ARGUMENT, "infer_session_create: model is NULL");
    if (infer__reserved_check(p.reserved, "session_params", err)) return INFER_ERR_ARGUMENT;
    if (p.context < 0 || p.context > 1 << 30)
        return infer__error(err, INFER_ERR_ARGUMENT, "session_params.context is %d", (int)p.context);
    if (p.own.cells == 0) p.own.cells = p.context;
    /* room for one fork, whose window layers hold pages of their own */
    r = infer__context_make(&c, model, &p.own, INFER__SESSIONS_OWN, err);
    if (r) return r;
    r = infer__session_make(&s, c, &p, err);
    if (r == INFER_OK) infer__session_warn(s);
    infer__context_end(c); /* it lives as long as its sessions */
    *out = s;
    return r;
}

INFER_API infer_result infer_session_destroy(infer_session *session) {
    return session ? infer__session_end(session) : INFER_OK;
}

/* ---- evaluation -------------------------------------------------------------------------------------------------- */

/* Claim every session of the steps; those that infer__step_check will refuse are left out. Returns how many steps were
 * looked at: fewer than n when one is in use. */
static int32_t infer__steps_claim(infer_context *c, const infer_step *steps, int32_t n) {
    int32_t i;
    for (i = 0; i < n; i++)
        if (infer__step_owner(c, steps, i, NULL) == INFER_OK && !infer__session_claim(steps[i].session)) break;
    return i;
}

/* The first n steps' sessions remember the error and are free again. */
static void infer__steps_leave(infer_context *c, const infer_step *steps, int32_t n, const infer_error *e) {
    int32_t i;
    for (i = 0; i < n; i++) {
        if (infer__step_owner(c, steps, i, NULL) != INFER_OK) continue;
        steps[i].session->error = *e;
        infer__session_leave(steps[i].session);
    }
}

/* The sessions of a slice that has ended in the middle: giving it up does not look at the caller's steps. */
static void infer__slices_note(infer_context *c, const infer_step *steps, int32_t n) {
    int32_t i;
    c->slicing = NULL;
    for (i = 0; i < n; i++) {
        infer_session *s = steps[i].session;
        s->in_slice = 1;
        s->slice_next = c->slicing;
        c->slicing = s;
    }
}

static void infer__slices_forget(infer_context *c) {
    for (; c->slicing; c->slicing = c->slicing->slice_next) c->slicing->in_slice = 0;
}

static infer_result infer__slices_drop(infer_context *c) {
    infer_session *s, *next;
    for (s = c->slicing; s; s = s->slice_next) infer__eval_stand(c, s);
    infer__eval_over(c);
    for (s = c->slicing, c->slicing = NULL; s; s = next) {
        next = s->slice_next;
        s->in_slice = 0;
        infer__error(&s->error, INFER_CANCELLED, "infer_eval_slice: given up");
        infer__session_leave(s);
    }
    infer__context_leave(c);
    return INFER_OK;
}

/* All is claimed, and given back unless there is more to do. */
static infer_result infer__eval_slice(infer_context *c, const infer_step *steps, int32_t n, double pause,
                                      infer_error *e) {
    infer_result r;
    infer__slices_forget(c);
    infer__slice_begin(c, pause);
    r = infer__eval_steps(c, steps, n, e);
    infer__slice_begin(c, 0);
    if (r == INFER_MORE) {
        infer__slices_note(c, steps, n);
        infer__atomic_set(&c->sliced, 1);
        return r;
    }
    infer__steps_leave(c, steps, n, e);
    infer__context_leave(c);
    return r;
}

static infer_result infer__eval_call(infer_context *context, const infer_step *steps, int32_t n_steps, double pause,
                                     infer_error *err) {
    infer_error e;
    infer_result r;
    int32_t claimed, i;
    infer__error_clear(&e);
    if (!context || !steps || n_steps < 1)
        return infer__error(err, INFER_ERR_ARGUMENT, "infer_eval: %s",
                            !context ? "context is NULL"
                            : !steps ? "steps is NULL"
                                     : "no steps");
    r = infer__context_claim(context, "infer_eval", &e);
    if (r == INFER_OK && n_steps - 1 > context->n_sessions) {
        /* one too many is reported in detail; the array may not really have as many as n_steps says */
        r = infer__error(&e, INFER_ERR_ARGUMENT, "infer_eval: %d steps, but the context has %d sessions", (int)n_steps,
                         (int)context->n_sessions);
        infer__context_leave(context);
    } else if (r == INFER_OK) {
        claimed = infer__steps_claim(context, steps, n_steps);
        if (claimed == n_steps) r = infer__eval_slice(context, steps, n_steps, pause, &e);
        else {
            r = infer__error(&e, INFER_ERR_STATE, "step %d: another call uses the session", (int)claimed);
            infer__steps_leave(context, steps, claimed, &e);
            infer__context_leave(context);
        }
    } else {
        for (i = 0; i < n_steps; i++)
            if (steps[i].session && steps[i].session->context == context)
                infer__atomic_set(&steps[i].session->refused, 1);
    }
    if (err) *err = e;
    return r;
}

INFER_API infer_result infer_eval(infer_context *context, const infer_step *steps, int32_t n_steps, infer_error *err) {
    return infer__eval_call(context, steps, n_steps, 0, err);
}

INFER_API infer_result infer_eval_slice(infer_context *context, const infer_step *steps, int32_t n_steps,
                                        int32_t budget_ms, infer_error *err) {
    const double pause = infer__slice_end(budget_ms);
    const int gives_up = context && !steps && n_steps == 0;
    infer_error e;
    infer_result r;
    if (!INFER__HAS_SLICES) return infer__left_out(err, "slices", "INFER_NO_SLICES");
    if (budget_ms < 0)
        return infer__error(err, INFER_ERR_ARGUMENT, "infer_eval_slice: budget_ms is %d", (int)budget_ms);
    if (!context || !infer__atomic_swap(&context->sliced, 1, 0))
        return gives_up ? INFER_OK : infer__eval_call(context, steps, n_steps, pause, err);
    if (gives_up) return infer__slices_drop(context);
    infer__error_clear(&e);
    if (steps == context->cursor.steps && n_steps == context->cursor.n)
        r = infer__eval_slice(context, steps, n_steps, pause, &e);
    else {
        infer__atomic_set(&context->sliced, 1);
        r = infer__error(&e, INFER_ERR_STATE, "infer_eval_slice: an eval of other steps has not ended");
    }
    if (err) *err = e;
    return r;
}

INFER_API infer_result infer_session_eval(infer_session *session, const infer_token *tokens, int32_t n) {
    infer_result r;
    if (!session) return INFER_ERR_ARGUMENT;
    if (!infer__session_claim(session)) return INFER_ERR_STATE;
    r = infer__session_eval(session, tokens, n);
    infer__session_leave(session);
    return r;
}

INFER_API infer_result infer_session_encode(infer_session *session, const infer_token *tokens, int32_t n) {
    infer_result r;
    if (!session) return INFER_ERR_ARGUMENT;
    if (!infer__session_claim(session)) return INFER_ERR_STATE;
    r = infer__session_encode(session, tokens, n);
    infer__session_leave(session);
    return r;
}

/* The session's call number is stored before the eval's is read, and an eval publishes its number before it checks for
 * a cancel, so one of the two sees the other. */
INFER_API void infer_session_cancel(infer_session *session) {
    int64_t call, eval;
    if (!session) return;
    call = infer__atomic_get(&session->calls);
    if (!(call & 1)) return; /* nothing runs */
    infer__atomic_raise(&session->cancel, call);
    eval = infer__atomic_get(&session->eval);
    if (eval) infer__atomic_raise(&session->context->cancel, eval);
}

/* ---- going back, sharing, keeping -------------------------------------------------------------------------------- */

INFER_API infer_result infer_session_rewind(infer_session *session, int32_t n) {
    infer_result r;
    if (!session) return INFER_ERR_ARGUMENT;
    if (!infer__session_claim(session)) return INFER_ERR_STATE;
    r = infer__session_rewind(session, n);
    infer__session_leave(session);
    return r;
}

INFER_API infer_result infer_session_sync(infer_session *session, const infer_token *tokens, int32_t n, int32_t *kept) {
    infer_result r;
    if (kept) *kept = 0;
    if (!session) return INFER_ERR_ARGUMENT;
    if (!infer__session_claim(session)) return INFER_ERR_STATE;
    r = infer__session_sync(session, tokens, n, kept);
    infer__session_leave(session);
    return r;
}

INFER_API infer_result infer_session_fork(infer_session **out, infer_session *session, infer_error *err) {
    infer_session *s = NULL;
    infer_result r;
    infer__error_clear(err);
    if (!out) return infer__error(err, INFER_ERR_ARGUMENT, "infer_session_fork: out is NULL");
    *out = NULL;
    if (!session) return infer__error(err, INFER_ERR_ARGUMENT, "infer_session_fork: session is NULL");
    if (!infer__session_claim(session))
        return infer__error(err, INFER_ERR_STATE, "infer_session_fork: %s", infer__refused.message);
    r = infer__context_claim(session->context, "infer_session_fork", err);
    if (r == INFER_OK) {
        r = infer__session_fork(&s, session, err);
        infer__context_leave(session->context);
    }
    infer__session_leave(session);
    *out = s;
    return r;
}

INFER_API infer_result infer_session_save(infer_session *session, infer_write_fn write, void *user) {
    infer_result r;
    if (!session) return INFER_ERR_ARGUMENT;
    if (!INFER__HAS_SAVE) return infer__left_out(&session->error, "saved sessions", "INFER_NO_SAVE");
    if ((r = infer__session_enter(session, "infer_session_save")) != INFER_OK) return r;
    return infer__session_exit(session, infer__session_save(session, write, user));
}

INFER_API infer_result infer_session_load(infer_session *session, infer_read_fn read, void *user) {
    infer_result r;
    if (!session) return INFER_ERR_ARGUMENT;
    if (!INFER__HAS_SAVE) return infer__left_out(&session->error, "saved sessions", "INFER_NO_SAVE");
    if ((r = infer__session_enter(session, "infer_session_load")) != INFER_OK) return r;
    return infer__session_exit(session, infer__session_load(session, read, user));
}

INFER_API infer_result infer_session_save_more(infer_session *session, infer_session_mark *mark, infer_write_fn write,
                                               void *user) {
    infer_result r;
    if (!session) return INFER_ERR_ARGUMENT;
    if (!INFER__HAS_SAVE) return infer__left_out(&session->error, "saved sessions", "INFER_NO_SAVE");
    if ((r = infer__session_enter(session, "infer_session_save_more")) != INFER_OK) return r;
    return infer__session_exit(session, infer__session_save_more(session, mark, write, user));
}

INFER_API infer_result infer_session_load_more(infer_session *session, infer_session_mark *mark, infer_read_fn read,
                                               void *user) {
    infer_result r;
    if (!session) return INFER_ERR_ARGUMENT;
    if (!INFER__HAS_SAVE) return infer__left_out(&session->error, "saved sessions", "INFER_NO_SAVE");
    if ((r = infer__session_enter(session, "infer_session_load_more")) != INFER_OK) return r;
    return infer__session_exit(session, infer__session_load_more(session, mark, read, user));
}

/* ---- results -------------------------------------------------------------------------------------------------- */

/* Callbacks of infer_generate may read results between evals, but not during one. */
static int infer__results_busy(infer_session *s) {
    if (!(infer__atomic_get(&s->context->calls) & 1)) return 0;
    infer__atomic_set(&s->refused, 1);
    return 1;
}

/* The session's logits to the host, when they are still on a device. */
static infer_result infer__session_bring(infer_session *s) {
    infer_result r;
    if (!s->kept_row) return INFER_OK;
    if ((r = infer__context_claim(s->context, "infer_session_logits", &s->error)) != INFER_OK) return r;
    r = infer__results_bring(s, &s->error);
    infer__context_leave(s->context);
    return r;
}

INFER_API float *infer_session_logits(infer_session *session, int32_t row) {
    int32_t at;
    if (!session || infer__results_busy(session)) return NULL;
    at = infer__results_row(session, row);
    if (at < 0) return NULL;
    session->all_wanted = 1;
    if (infer__session_bring(session)) return NULL;
    return session->logits + (int64_t)at * session->context->model->hp.n_vocab;
}

INFER_API const float *infer_session_hidden(infer_session *session, int32_t row) {
    if (!session || infer__results_busy(session)) return NULL;
    if (row < 0) row += session->out_n - session->ahead;
    if (row < 0 || row >= session->out_n - session->ahead || row < session->out_first_hidden) return NULL;
    return session->hidden + (int64_t)(row - session->out_first_hidden) * session->context->model->hp.n_embd;
}

INFER_API infer_result infer_session_top(infer_session *session, int32_t row, int32_t k, infer_top *out) {
    const float *x;
    int32_t n;
    if (!session) return INFER_ERR_ARGUMENT;
    if (infer__results_busy(session)) return INFER_ERR_STATE;
    x = infer_session_logits(session, row);
    n = session->context->model->hp.n_vocab;
    if (k < 1 || k > n || !out)
        return infer__error(&session->error, INFER_ERR_ARGUMENT, "infer_session_top: k is %d, outside 1..%d", (int)k,
                            (int)n);
    if (!x && session->out_n > 0 && infer__results_row(session, row) >= 0) return session->error.code;
    if (!x)
        return infer__error(&session->error, INFER_ERR_STATE,
                            "infer_session_top: the last eval kept no logits of row %d", (int)row);
    infer__results_list(x, n, k, out);
    return INFER_OK;
}

/* Pooled as the model says; no pooling is what it would be without the key. A vector gets length 1. */
static infer_result infer__session_vector(infer_session *s, float *out, infer_error *err) {
    const infer_model *m = s->context->model;
    const int32_t said = infer__pool_default(m);
    float *scratch = (float *)infer__calloc(&s->context->model->mem, infer__pool_scratch(m), sizeof *scratch);
    infer_result r;
    if (!scratch) return infer__error(err, INFER_ERR_MEMORY, "no memory for a vector");
    r = infer__pool_text(m, said == INFER_POOL_NONE ? infer__pool_usual(m) : said, s->hidden, s->out_n, out, scratch,
                         err);
    infer__free(&s->context->model->mem, scratch);
    if (!r && said != INFER_POOL_RANK) infer__pool_scale(out, m->hp.n_out, 2);
    return r;
}

INFER_API infer_result infer_session_embedding(infer_session *session, float *out, infer_error *err) {
    infer__error_clear(err);
    if (!session || !out) return infer__error(err, INFER_ERR_ARGUMENT, "infer_session_embedding: a NULL argument");
    if (!INFER__HAS_EMBED) return infer__left_out(err, "vectors and scores of texts", "INFER_NO_EMBED");
    if (infer__results_busy(session))
        return infer__error(err, INFER_ERR_STATE, "infer_session_embedding: the context is running another call");
    if (session->out_n < 1 || session->out_first_hidden != 0)
        return infer__error(err, INFER_ERR_STATE,
                            "infer_session_embedding: the last eval did not keep all hidden states");
    return infer__session_vector(session, out, err);
}

INFER_API int32_t infer_session_position(const infer_session *session) {
    return session ? session->n - session->ahead : 0;
}
INFER_API int32_t infer_session_capacity(const infer_session *session) { return session ? session->cap : 0; }
INFER_API infer_context *infer_session_get_context(const infer_session *session) {
    return session ? session->context : NULL;
}
INFER_API const infer_token *infer_session_tokens(const infer_session *session) {
    return session ? session->tokens : NULL;
}

INFER_API const infer_error *infer_session_error(const infer_session *session) {
    static const infer_error none = { INFER_ERR_ARGUMENT, "the session is NULL" };
    if (!session) return &none;
    return infer__atomic_get(&session->refused) ? &infer__refused : &session->error;
}

INFER_API infer_result infer_session_stats(const infer_session *session, infer_stats *out) {
    const infer__ctx *x;
    if (!session || !out) return INFER_ERR_ARGUMENT;
    x = &session->context->ctx;
    *out = session->stats;
    out->bytes_up = x->bytes_up;
    out->bytes_down = x->bytes_down;
    out->launches = x->launches;
    out->syncs = x->syncs;
    return INFER_OK;
}

INFER_API infer_result infer_session_profile(const infer_session *session, infer_profile_row *out, int32_t cap,
                                             int32_t *count) {
    int32_t i, n = 0;
    if (!session || !count || (cap > 0 && !out)) return INFER_ERR_ARGUMENT;
    for (i = 0; i < INFER__PROFILE_OPS; i++) {
        const infer__profile *p = &session->context->ctx.profile[i];
        if (!p->calls) continue;
        if (n < cap) {
            out[n].op = p->op;
            out[n].calls = p->calls;
            out[n].bytes = p->bytes;
            out[n].seconds = p->seconds;
        }
        n++;
    }
    *count = n;
    return INFER_OK;
}

INFER_API infer_result infer_session_media(infer_session *session, infer_media *const *media, int32_t n) {
    infer_result r;
    if (!session) return INFER_ERR_ARGUMENT;
    if (!infer__session_claim(session)) return INFER_ERR_STATE;
    infer__error_clear(&session->error);
    r = infer__media_check(session->context->model, media, n, &session->error);
    if (r == INFER_OK) infer__session_offer(session, n > 0 ? media : NULL, n);
    infer__session_leave(session);
    return r;
}
