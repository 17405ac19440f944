/* source.c: models with an encoder and a decoder: the encoded input of a session, its source.
 *
 * How:   the source is a hidden session: the encoder's pass writes the keys and values for the decoder's cross
 *        attention to that session's pages, and decoder passes use its page table as their second one. Forks share the
 *        pages; a saved session has the source's tokens, and loading encodes them again.
 */
#include "../model.h"

/* The session and its context are claimed. */
static infer_result infer__source_make(infer_session *s, infer_error *err) {
    infer_session_params p;
    infer_result r = INFER_OK;
    memset(&p, 0, sizeof p);
    p.context = s->cap;
    if (!s->source) {
        r = infer__session_make(&s->source, s->context, &p, err);
        if (r) return r;
        infer__adapters_begin(s->source, s->adapters);
    }
    s->source->owner = s;
    s->source->encodes = INFER__ENCODES_SOURCE;
    return INFER_OK;
}

/* The source's step are these tokens. */
static infer_result infer__source_begin(infer_session *s, const infer_token *tokens, int32_t n, infer_error *err) {
    infer_result r = infer__session_cut(s, 0);
    infer_step *st;
    if (!r) r = infer__source_make(s, err);
    if (!r) r = infer__session_cut(s->source, 0);
    s->saved_to = -1;
    if (r) return r;
    s->source->progress = s->progress;
    s->source->progress_user = s->progress_user;
    s->source->trace = s->trace;
    s->source->trace_user = s->trace_user;
    st = &s->source->step;
    memset(st, 0, sizeof *st);
    st->session = s->source;
    st->tokens = tokens;
    st->n = n;
    return INFER_OK;
}

static infer_result infer__source_set(infer_session *s, const infer_token *tokens, int32_t n, infer_error *err) {
    infer_result r = INFER__HAS_SOURCE ? infer__source_begin(s, tokens, n, err) : INFER_OK;
    return r || !INFER__HAS_SOURCE ? r : infer__eval_steps(s->context, &s->source->step, 1, err);
}

static infer_result infer__source_fork(infer_session *to, const infer_session *from) {
    infer_result r;
    if (!INFER__HAS_SOURCE || !from->source) return INFER_OK;
    r = infer__session_fork(&to->source, from->source, &to->error);
    return r ? r : infer__source_make(to, &to->error);
}

static infer_result infer__session_encode(infer_session *s, const infer_token *tokens, int32_t n) {
    infer_error e;
    infer_result r;
    infer__error_clear(&e);
    if (INFER__HAS_SOURCE && s->source && s->source->paused) r = infer__session_slice(s->source, s->until, &e);
    else if (!INFER__HAS_SOURCE || !infer__n_enc(&s->context->model->hp))
        r = infer__error(&e, INFER_ERR_UNSUPPORTED, "architecture \"%s\" has no encoder beside a decoder",
                         infer__arch_of(s->context->model)->name);
    else if (!tokens || n < 1)
        r = infer__error(&e, INFER_ERR_ARGUMENT, "infer_session_encode: %s", tokens ? "no tokens" : "tokens is NULL");
    else if ((r = infer__context_claim(s->context, "infer_session_encode", &e)) == INFER_OK) {
        r = infer__source_begin(s, tokens, n, &e);
        if (r == INFER_OK) r = infer__session_slice(s->source, s->until, &e);
        else infer__context_leave(s->context);
    }
    if (r != INFER_MORE) s->error = e;
    return r;
}
