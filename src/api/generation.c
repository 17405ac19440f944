/* generation.c: infer_generate, and infer_generation: the same text piece by piece, pulled by the caller.
 *
 * Owns:  infer_generation. What happens in a generation is in generate.c.
 * Rules: from begin to end a generation uses its session and its sampler (and the drafting session), as a call does; it
 *        uses the context as infer_generate does, unless a slice ends in the middle of an eval: then the context is in
 *        use until the next slice. A call that cannot get the objects it needs is refused before anything changes. The
 *        model stays open until infer_generation_end, since the memory is counted in it.
 */
#include "../model/model.h"

static infer_result infer__generate(infer_session *session, infer_sampler *sampler, const char *prompt,
                                    const infer_generate_params *params, infer__steering *steering,
                                    infer_generate_info *info) {
    infer_generate_params none;
    infer__generation g;
    infer_result r;
    memset(&none, 0, sizeof none);
    r = infer__generate_begin(&g, session, sampler, params ? params : &none);
    if (info) *info = g.info;
    if (r != INFER_OK) return r;
    g.steering = steering;
    r = infer__generate_prompt(&g, prompt);
    while (r == INFER_OK && g.info.stop_reason == 0) r = infer__generate_step(&g);
    r = infer__generate_end(&g, r);
    if (info) *info = g.info;
    return r;
}

INFER_API infer_result infer_generate(infer_session *session, infer_sampler *sampler, const char *prompt,
                                      const infer_generate_params *params, infer_generate_info *info) {
    infer_result r;
    if (info) {
        memset(info, 0, sizeof *info);
        info->stop_token = info->stop_string = -1;
    }
    if (!session) return INFER_ERR_ARGUMENT;
    if (!infer__session_claim(session)) return INFER_ERR_STATE;
    if ((r = infer__sampler_claim(sampler, &session->error)) == INFER_OK) {
        r = infer__generate(session, sampler, prompt, params, NULL, info);
        infer__sampler_leave(sampler);
    }
    infer__session_leave(session);
    return r;
}

/* ---- piece by piece ---------------------------------------------------------------------------------------------- */

struct infer_generation {
    infer_model *model;
    infer__atomic calls;          /* infer__claim */
    infer__generation g;
    infer_generate_params params; /* the caller's, with a text function of its own */
    infer_generate_params given;  /* the caller's */
    void *stops;                  /* infer__stops_copy */
    infer__bytes text;            /* of this call */
    int32_t over;                 /* it has ended, with this result */
    infer_result result;
};

/* A copy of the stop strings and stop tokens in one piece of memory, to be freed. */
static infer_result infer__stops_copy(infer__mem *mem, infer_generate_params *p, void **out, infer_error *err) {
    const uint64_t table = (uint64_t)p->n_stop * sizeof(char *);
    const uint64_t tokens = (uint64_t)p->n_stop_tokens * sizeof(infer_token);
    uint64_t bytes = 0;
    const char **stop;
    infer_token *ids;
    char *to;
    int32_t i;
    *out = NULL;
    if (p->n_stop + (int64_t)p->n_stop_tokens < 1) return INFER_OK;
    for (i = 0; i < p->n_stop; i++) bytes += strlen(p->stop[i]) + 1;
    stop = (const char **)infer__realloc(mem, NULL, table + tokens + bytes, 1);
    if (!stop)
        return infer__error(err, INFER_ERR_MEMORY, "no memory for %d stop strings and %d stop tokens", (int)p->n_stop,
                            (int)p->n_stop_tokens);
    ids = (infer_token *)(void *)(stop + p->n_stop);
    if (tokens) memcpy(ids, p->stop_tokens, (size_t)tokens);
    to = (char *)(void *)(ids + p->n_stop_tokens);
    for (i = 0; i < p->n_stop; i++) {
        const size_t n = strlen(p->stop[i]) + 1;
        memcpy(to, p->stop[i], n);
        stop[i] = to;
        to += n;
    }
    p->stop = stop;
    p->stop_tokens = ids;
    *out = (void *)stop;
    return INFER_OK;
}

static int infer__generation_text(void *user, const char *text, size_t n) {
    infer_generation *x = (infer_generation *)user;
    infer__bytes_put(&x->text, text, n);
    return x->text.failed;
}

static int infer__generation_token(void *user, infer_token token, float logprob, const infer_top *top, int32_t n_top) {
    const infer_generation *x = (const infer_generation *)user;
    return x->given.token(x->given.user, token, logprob, top, n_top);
}

static int32_t infer__generation_full(void *user, const infer_token *tokens, int32_t n, infer_token *keep,
                                      int32_t most) {
    const infer_generation *x = (const infer_generation *)user;
    return x->given.full(x->given.user, tokens, n, keep, most);
}

static void infer__generation_free(infer_generation *x) {
    infer_model *m = x->model;
    infer__free(&m->mem, x->stops);
    infer__bytes_free(&x->text);
    infer__free(&m->mem, x);
}

/* The session and the sampler are claimed; they stay so when the result is INFER_OK. */
static infer_result infer__generation_make(infer_generation **out, infer_session *s, infer_sampler *sampler,
                                           const char *prompt, const infer_generate_params *params) {
    infer_model *m = s->context->model;
    infer_generation *x;
    infer_result r;
    infer__error_clear(&s->error);
    if (params && params->text)
        return infer__error(&s->error, INFER_ERR_ARGUMENT, "text must be NULL: infer_generation_next gives the text");
    x = (infer_generation *)infer__calloc(&m->mem, 1, sizeof *x);
    if (!x) return infer__error(&s->error, INFER_ERR_MEMORY, "no memory for a generation");
    x->model = m;
    x->text.mem = &m->mem;
    if (params) x->given = *params;
    x->params = x->given;
    x->params.text = infer__generation_text;
    if (x->given.token) x->params.token = infer__generation_token;
    if (x->given.full) x->params.full = infer__generation_full;
    x->params.user = x;
    r = infer__generate_check(m, sampler, &x->given, &s->error);
    if (r == INFER_OK) r = infer__stops_copy(&m->mem, &x->params, &x->stops, &s->error);
    if (r == INFER_OK) r = infer__generate_begin(&x->g, s, sampler, &x->params);
    if (r == INFER_OK && (r = infer__generate_prompt(&x->g, prompt)) != INFER_OK) infer__generate_end(&x->g, r);
    if (r == INFER_OK) *out = x;
    else infer__generation_free(x);
    return r;
}

INFER_API infer_result infer_generation_begin(infer_generation **out, infer_session *session, infer_sampler *sampler,
                                              const char *prompt, const infer_generate_params *params,
                                              infer_error *err) {
    infer_result r;
    infer__error_clear(err);
    if (!out || !session)
        return infer__error(err, INFER_ERR_ARGUMENT, "infer_generation_begin: %s is NULL", out ? "session" : "out");
    *out = NULL;
    if (!INFER__HAS_SLICES) return infer__left_out(err, "slices", "INFER_NO_SLICES");
    if (!infer__session_claim(session))
        return infer__error(err, INFER_ERR_STATE, "infer_generation_begin: %s", infer__refused.message);
    if ((r = infer__sampler_claim(sampler, &session->error)) == INFER_OK) {
        infer__model_hold(session->context->model);
        r = infer__generation_make(out, session, sampler, prompt, params);
        if (r == INFER_OK) return r;
        infer__model_let(session->context->model, r);
        infer__sampler_leave(sampler);
    }
    if (err) *err = session->error;
    infer__session_leave(session);
    return r;
}

/* 1 when a slice has ended during an eval of the generation, which therefore uses this context. */
static int infer__generation_holds(const infer__generation *g, const infer_context *c) {
    const infer_session *const own[] = { g->s, g->s->source, g->draft.by, g->guide.by };
    size_t i;
    for (i = 0; i < INFER__COUNT(own); i++)
        if (own[i] && own[i]->paused && own[i]->context == c) return 1;
    return 0;
}

/* INFER_OK when the contexts that the next step may need are free. */
static infer_result infer__generation_ready(const infer__generation *g, infer_error *err) {
    const infer_session *const own[] = { g->s, g->draft.by, g->guide.by };
    infer_result r = INFER_OK;
    size_t i;
    for (i = 0; i < INFER__COUNT(own) && r == INFER_OK; i++) {
        if (!own[i]) continue;
        if (infer__generation_holds(g, own[i]->context)) {
            if (infer__context_lost(own[i]->context))
                r = infer__error(err, INFER_ERR_STATE, "infer_generation_next: the context was made before fork()");
            continue;
        }
        r = infer__context_claim(own[i]->context, "infer_generation_next", err);
        if (r == INFER_OK) infer__context_leave(own[i]->context);
    }
    return r;
}

static void infer__generation_until(infer__generation *g, double until) {
    g->s->until = until;
    if (g->draft.by) g->draft.by->until = until;
    if (g->guide.by) g->guide.by->until = until;
}

/* It has ended, or is abandoned (INFER_CANCELLED): release session and sampler. */
static void infer__generation_over(infer_generation *x, infer_result r) {
    infer_session *s = x->g.s;
    infer_sampler *sampler = x->g.sampler;
    x->result = infer__generate_end(&x->g, r);
    if (x->text.failed && x->result >= 0)
        x->result = infer__error(&s->error, INFER_ERR_MEMORY, "no memory for the text of a generation");
    x->over = 1;
    infer__sampler_leave(sampler);
    infer__session_leave(s);
}

/* 1 when the next step belongs to this slice, too. An evaluated token is reported in the same slice, so that abandoning
 * leaves no unreported token in the session. */
static int infer__generation_goes(const infer_generation *x, double until) {
    const infer__generation *g = &x->g;
    if (g->info.stop_reason) return 0;
    if (g->stage == INFER__GENERATE_REPORT || (g->stage == INFER__GENERATE_EVAL && !g->n_next)) return 1;
    if (infer__session_cancelled(g->s)) return 1;
    return until != 0 ? !infer__slice_over(until) : x->text.n == 0;
}

/* Run until the slice is over; without a budget, until there is text. The weights are held, so that they cannot be
 * offloaded between two steps, which would end the generation. */
static infer_result infer__generation_go(infer_generation *x, double until) {
    infer__generation *g = &x->g;
    infer_result r;
    infer__atomic_set(&g->s->refused, 0);
    r = infer__generation_ready(g, &g->s->error);
    if (r == INFER_OK) r = infer__weights_hold(x->model, &g->s->error);
    if (r != INFER_OK) return r;
    infer__generation_until(g, until);
    do r = infer__generate_step(g);
    while (r == INFER_OK && infer__generation_goes(x, until));
    infer__generation_until(g, 0);
    infer__weights_let(x->model);
    if (r == INFER_MORE || (r == INFER_OK && !g->info.stop_reason)) return INFER_MORE;
    infer__generation_over(x, r);
    return x->result;
}

INFER_API infer_result infer_generation_next(infer_generation *generation, int32_t budget_ms, const char **text,
                                             size_t *n) {
    const double until = infer__slice_end(budget_ms);
    infer_generation *x = generation;
    infer_result r;
    if (text) *text = "";
    if (n) *n = 0;
    if (!INFER__HAS_SLICES || !x || budget_ms < -1) return INFER_ERR_ARGUMENT;
    if (!infer__claim(&x->calls)) return INFER_ERR_STATE;
    x->text.n = 0;
    r = x->over ? x->result : infer__generation_go(x, until);
    if (text && x->text.n) *text = x->text.s;
    if (n) *n = x->text.n;
    infer__unclaim(&x->calls);
    return r;
}

INFER_API infer_result infer_generation_info(const infer_generation *generation, infer_generate_info *out) {
    if (!INFER__HAS_SLICES || !generation || !out) return INFER_ERR_ARGUMENT;
    *out = generation->g.info;
    return INFER_OK;
}

/* 1 when abandoning would rewind this session while another call uses its context. */
static int infer__generation_blocked(const infer__generation *g, const infer_session *s, int32_t back) {
    return s && back > 0 && infer__refs_open(&s->refs) && !infer__generation_holds(g, s->context) &&
           (infer__atomic_get(&s->context->calls) & 1);
}

INFER_API infer_result infer_generation_end(infer_generation *generation) {
    infer_generation *x = generation;
    infer_model *m;
    if (!INFER__HAS_SLICES || !x) return INFER_OK;
    if (!infer__claim(&x->calls)) return INFER_ERR_STATE;
    /* drafts, or a token that only the session of the negative prompt has */
    if (!x->over && (infer__generation_blocked(&x->g, x->g.s, x->g.s->ahead) ||
                     infer__generation_blocked(&x->g, x->g.guide.by, x->g.guide.ahead))) {
        infer__unclaim(&x->calls);
        return INFER_ERR_STATE;
    }
    if (!x->over) infer__generation_over(x, INFER_CANCELLED);
    m = x->model;
    infer__generation_free(x);
    return infer__model_let(m, INFER_OK);
}
