/* best.c: infer_generate_best: several replies to one prompt, and the likeliest of them.
 *
 * How:   the replies are requests of a queue in the session's own context that begin as forks of the session; a pass
 *        evaluates one token of each. When cells run out, replies wait as requests do.
 * Rules: session and samplers are claimed for the whole call (so the requests do not claim the samplers), and the
 *        session does not change until all replies have ended: whatever fails, it holds the prompt.
 * Start: infer__best_run.
 */
#include "queue.h"

#define INFER__BEST_NONE (-1e30) /* the logprob of a reply without tokens */

/* Collected by a reply's callbacks. */
typedef struct infer__best_part {
    infer__bytes tokens; /* infer_token after infer_token */
    double sum;          /* of their logprobs */
    infer_request *request;
    const infer_generate_params *given; /* the caller's */
} infer__best_part;

typedef struct infer__best_run {
    infer_session *s;
    infer__mem *mem;
    infer_generate_params p; /* of each request */
    const infer_generate_params *given;
    infer__best_part *parts; /* n */
    int32_t n;
    infer_queue *q;
} infer__best_run;

/* One block of memory: this, the replies, their tokens, their texts. */
typedef struct infer__best_held {
    infer_best shown; /* first: the caller's pointer */
    infer__mem mem;
} infer__best_held;

static int infer__best_token(void *user, infer_token token, float logprob, const infer_top *top, int32_t n_top) {
    infer__best_part *part = (infer__best_part *)user;
    (void)top;
    (void)n_top;
    infer__bytes_put(&part->tokens, &token, sizeof token);
    part->sum += logprob;
    return part->tokens.failed;
}

static int32_t infer__best_full(void *user, const infer_token *tokens, int32_t n, infer_token *keep, int32_t most) {
    const infer_generate_params *p = ((infer__best_part *)user)->given;
    return p->full(p->user, tokens, n, keep, most);
}

static infer_result infer__best_check(const infer_session *s, infer_sampler *const *samplers, int32_t n,
                                      const infer_generate_params *p, infer_error *err) {
    const infer_model *m = s->context->model;
    int32_t i, k;
    if (n < 1 || n > s->context->plan.cells || !samplers)
        return infer__error(err, INFER_ERR_ARGUMENT, "infer_generate_best: n is %d (1..%d), samplers is %s", (int)n,
                            (int)s->context->plan.cells, samplers ? "given" : "NULL");
    for (i = 0; i < n; i++)
        for (k = 0; k < i && samplers[i]; k++)
            if (samplers[k] == samplers[i])
                return infer__error(err, INFER_ERR_ARGUMENT, "infer_generate_best: samplers %d and %d are the same",
                                    (int)k, (int)i);
    if (p->token || p->draft)
        return infer__error(err, INFER_ERR_ARGUMENT, "infer_generate_best: %s must be NULL",
                            p->token ? "token" : "draft");
    if (p->negative)
        return infer__error(err, INFER_ERR_UNSUPPORTED, "infer_generate_best: negative is not supported");
    if (infer__encoder(&m->hp) || infer__n_enc(&m->hp) || infer__not_causal(&m->hp))
        return infer__error(err, INFER_ERR_UNSUPPORTED, "architecture \"%s\" %s: not supported in infer_generate_best",
                            infer__arch_of(m)->name,
                            infer__not_causal(&m->hp) ? "fills in masked tokens" : "has an encoder");
    for (i = 0; i < n; i++)
        if (infer__generate_check(m, samplers[i], p, err) != INFER_OK) return err->code;
    return INFER_OK;
}

/* Evaluate the prompt, its last token separately: replies begin from the state before that token. */
static infer_result infer__best_prompt(infer__best_run *b, const char *prompt, int32_t *n_prompt) {
    infer_session *s = b->s;
    const int32_t before = s->n;
    infer_token *ids;
    infer_error e;
    size_t n = 0;
    infer_result r = infer__prompt_ids(s->context->model, b->mem, prompt, &b->p, s->n == 0, &ids, &n, &s->error);
    if (r != INFER_OK) return r;
    infer__session_offer(s, b->p.media, b->p.n_media);
    if (n == 0 && s->n == 0)
        r = infer__error(&s->error, INFER_ERR_ARGUMENT, "infer_generate_best: nothing to continue from");
    if (n > (size_t)(s->cap - s->n))
        r = infer__error(&s->error, INFER_CONTEXT_FULL, "%llu tokens at position %d do not fit a context of %d",
                         (unsigned long long)n, (int)s->n, (int)s->cap);
    if (r == INFER_OK && n > 1) r = infer__session_eval_as(s, ids, (int32_t)n - 1, INFER_OUT_NONE);
    if (r == INFER_OK && n > 0) r = infer__session_eval(s, ids + n - 1, 1);
    if (r != INFER_OK && s->n > before) {
        e = s->error;
        if (infer__session_rewind(s, before) == INFER_OK) s->error = e;
    }
    infer__session_offer(s, NULL, 0);
    *n_prompt = (int32_t)n;
    infer__free(b->mem, ids);
    if (r == INFER_OK && !infer__adapters_alike(s->adapters, s))
        r = infer__error(
            &s->error, INFER_ERR_UNSUPPORTED,
            "infer_generate_best: the session's tokens were evaluated with other adapters than it has now, "
            "or with one that waits for its invocation");
    return r;
}

/* A queue in the session's context. */
static infer_result infer__best_queue(infer__best_run *b) {
    infer_context *c = b->s->context;
    infer_queue *q = (infer_queue *)infer__calloc(b->mem, 1, sizeof *q);
    if (!q) return infer__error(&b->s->error, INFER_ERR_MEMORY, "no memory for a queue");
    b->q = q;
    q->model = c->model;
    q->process = infer__process();
    infer__atomic_set(&q->refs, INFER__OWNED);
    q->processor = -1;
    q->base = b->s;
    q->params.slots = q->params.waiting = b->n;
    q->params.positions = b->s->cap;
    q->params.prompt_rows = c->plan.batch;
    q->has_lock = infer__mutex_init(&q->lock);
    q->has_changed = infer__cond_init(&q->changed);
    q->context = c;
    return infer__queue_lists(q, &b->s->error);
}

/* Its requests have ended and are closed. */
static void infer__best_queue_end(infer__best_run *b) {
    if (!b->q) return;
    b->q->context = NULL; /* it is the session's; nothing is kept */
    infer__queue_free(b->q);
    b->q = NULL;
}

static infer_result infer__best_submit(infer__best_run *b, infer_sampler *const *samplers) {
    infer_session *s = b->s;
    infer_request_params rp;
    infer_result r = INFER_OK;
    int32_t i;
    memset(&rp, 0, sizeof rp);
    rp.tokens = s->tokens;
    rp.n_tokens = s->n;
    rp.adapters = s->adapters ? s->adapters->use : NULL;
    rp.n_adapters = s->adapters ? s->adapters->n : 0;
    for (i = 0; i < b->n && r == INFER_OK; i++) {
        rp.sampler = samplers[i];
        rp.generate = b->p;
        rp.generate.user = &b->parts[i];
        b->parts[i].given = b->given;
        r = infer_queue_submit(b->q, &rp, &b->parts[i].request, &s->error);
    }
    return r;
}

/* Run all replies to their ends. */
static infer_result infer__best_generate(infer__best_run *b) {
    int32_t i, cancelled = 0;
    infer_result r = INFER_OK;
    infer__queue_enter(b->q);
    while (infer__queue_round(b->q, 0)) {
        if (cancelled || !infer__session_cancelled(b->s)) continue;
        for (i = 0; i < b->n; i++) infer_request_cancel(b->parts[i].request);
        cancelled = 1;
    }
    infer__queue_exit(b->q);
    for (i = 0; i < b->n && r == INFER_OK; i++) {
        infer_request *one = b->parts[i].request;
        r = infer_request_wait(one);
        if (b->parts[i].tokens.failed) r = infer__error(&b->s->error, INFER_ERR_MEMORY, "no memory for a reply");
        else if (r != INFER_OK) infer__error(&b->s->error, r, "%s", infer_request_error(one)->message);
    }
    if (r >= 0 && infer__session_cancelled(b->s)) r = infer__error(&b->s->error, INFER_CANCELLED, "cancelled");
    return r;
}

/* Copy the requests' results for the caller into one block of memory. */
static infer_result infer__best_take(infer__best_run *b, int32_t n_prompt, infer_best **out) {
    infer__best_held *held;
    infer_best_reply *replies;
    infer__mem mem;
    uint64_t bytes = sizeof *held;
    char *at;
    int32_t i, fits = infer__add_ok(bytes, (uint64_t)b->n * sizeof *replies, &bytes);
    for (i = 0; i < b->n; i++)
        fits &= infer__add_ok(bytes, b->parts[i].tokens.n, &bytes) &&
                infer__add_ok(bytes, (uint64_t)b->parts[i].request->text.n + 1, &bytes);
    infer__mem_init(&mem, &b->mem->a, 0); /* not the model's: it may outlive it */
    held = fits ? (infer__best_held *)infer__calloc(&mem, bytes, 1) : NULL;
    if (!held) return infer__error(&b->s->error, INFER_ERR_MEMORY, "no memory for replies");
    held->mem = mem;
    held->shown.replies = replies = (infer_best_reply *)(void *)(held + 1);
    held->shown.n = b->n;
    at = (char *)(replies + b->n);
    for (i = 0; i < b->n; i++) { /* tokens first: they need alignment */
        const infer__best_part *part = &b->parts[i];
        memcpy(at, part->tokens.s ? part->tokens.s : "", part->tokens.n);
        replies[i].tokens = (const infer_token *)(const void *)at;
        replies[i].n_tokens = (int32_t)(part->tokens.n / sizeof(infer_token));
        replies[i].logprob = replies[i].n_tokens ? part->sum / replies[i].n_tokens : INFER__BEST_NONE;
        replies[i].info = part->request->info.generate;
        replies[i].info.prompt_tokens = n_prompt;
        if (replies[i].logprob > replies[held->shown.best].logprob) held->shown.best = i;
        at += part->tokens.n;
    }
    for (i = 0; i < b->n; i++) {
        const infer__bytes *text = &b->parts[i].request->text;
        memcpy(at, text->s ? text->s : "", text->n);
        replies[i].text = at; /* the zero after it is there */
        replies[i].n_text = text->n;
        at += text->n + 1;
    }
    *out = &held->shown;
    return INFER_OK;
}

/* The session holds the best reply, too. */
static infer_result infer__best_hold(infer__best_run *b, const infer_best *best) {
    const infer_request *one = b->parts[best->best].request;
    if (one->n_ids == b->s->n && infer__tokens_same(one->ids, one->n_ids, b->s->tokens, b->s->n) == b->s->n)
        return INFER_OK;
    return infer__session_sync(b->s, one->ids, one->n_ids, NULL);
}

static infer_result infer__best(infer__best_run *b, infer_sampler *const *samplers, const char *prompt,
                                infer_best **out) {
    int32_t n_prompt = 0, i;
    infer_result r = infer__best_prompt(b, prompt, &n_prompt);
    if (r != INFER_OK) return r;
    b->parts = (infer__best_part *)infer__calloc(b->mem, (uint64_t)b->n, sizeof *b->parts);
    if (!b->parts) return infer__error(&b->s->error, INFER_ERR_MEMORY, "no memory for %d replies", (int)b->n);
    for (i = 0; i < b->n; i++) b->parts[i].tokens.mem = b->mem;
    r = infer__best_queue(b);
    if (r == INFER_OK) {
        r = infer__best_submit(b, samplers);
        if (r == INFER_OK) r = infer__best_generate(b);
        if (r == INFER_OK) r = infer__best_take(b, n_prompt, out);
        if (r == INFER_OK && (r = infer__best_hold(b, *out)) != INFER_OK) {
            infer_best_free(*out);
            *out = NULL;
        }
        for (i = 0; i < b->n; i++) infer_request_cancel(b->parts[i].request);
        infer__queue_enter(b->q);
        while (infer__queue_round(b->q, 0)) {} /* those that were submitted before one was refused */
        infer__queue_exit(b->q);
        for (i = 0; i < b->n; i++) infer_request_close(b->parts[i].request);
    }
    infer__best_queue_end(b);
    for (i = 0; i < b->n; i++) infer__bytes_free(&b->parts[i].tokens);
    infer__free(b->mem, b->parts);
    return r;
}

/* The samplers are claimed, all or none. */
static infer_result infer__best_claim(infer_sampler *const *samplers, int32_t n, infer_error *err) {
    infer_result r = INFER_OK;
    int32_t i = 0;
    while (i < n && (r = infer__sampler_claim(samplers[i], err)) == INFER_OK) i++;
    while (r != INFER_OK && i > 0) infer__sampler_leave(samplers[--i]);
    return r;
}

INFER_API infer_result infer_generate_best(infer_session *session, infer_sampler *const *samplers, int32_t n,
                                           const char *prompt, const infer_generate_params *params, infer_best **out) {
    infer__best_run b;
    infer_result r;
    int32_t i, claimed;
    if (out) *out = NULL;
    if (!session) return INFER_ERR_ARGUMENT;
    if (!INFER__HAS_QUEUE) return infer__left_out(&session->error, "infer_generate_best: queues", "INFER_NO_QUEUE");
    if (!infer__session_claim(session)) return INFER_ERR_STATE;
    memset(&b, 0, sizeof b);
    infer__error_clear(&session->error);
    b.s = session;
    b.mem = &session->context->model->mem;
    b.n = n;
    if (params) b.p = *params;
    b.given = params;
    r = out ? infer__best_check(session, samplers, n, &b.p, &session->error)
            : infer__error(&session->error, INFER_ERR_ARGUMENT, "infer_generate_best: out is NULL");
    if (r == INFER_OK) r = infer__best_claim(samplers, n, &session->error);
    claimed = r == INFER_OK ? n : 0;
    b.p.text = NULL;
    b.p.token = infer__best_token;
    if (b.p.full) b.p.full = infer__best_full;
    if (b.p.logprobs == 0) b.p.logprobs = 1;
    if (r == INFER_OK) r = infer__best(&b, samplers, prompt, out);
    if (r == INFER_OK && params && params->text && (*out)->replies[(*out)->best].n_text > 0)
        params->text(params->user, (*out)->replies[(*out)->best].text, (*out)->replies[(*out)->best].n_text);
    for (i = 0; i < claimed; i++) infer__sampler_leave(samplers[i]);
    infer__session_leave(session);
    return r;
}

INFER_API void infer_best_free(infer_best *best) {
    infer__mem mem;
    if (!best) return;
    mem = ((infer__best_held *)(void *)best)->mem; /* the block is freed through it */
    infer__free(&mem, best);
}
