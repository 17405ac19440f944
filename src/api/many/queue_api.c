/* queue_api.c: queues as public objects: creation, submission, waiting. What a queue does is in queue.c.
 *
 * Rules: one thread at a time runs a queue (infer__claim of its `calls`): its own, or one that calls infer_queue_step
 *        or infer_request_wait. All others only access what the lock protects.
 */
#include "queue.h"

/* ---- queues ------------------------------------------------------------------------------------------------------ */

static int infer__queue_enter(infer_queue *q) {
    if (!infer__claim(&q->calls)) return 0;
    infer__mutex_lock(&q->lock);
    q->runner = infer__thread_self();
    infer__mutex_unlock(&q->lock);
    return 1;
}

static void infer__queue_exit(infer_queue *q) {
    infer__mutex_lock(&q->lock);
    q->runner = 0;
    infer__unclaim(&q->calls);
    infer__cond_broadcast(&q->changed);
    infer__mutex_unlock(&q->lock);
}

/* The lock is held. */
static int infer__queue_in_callback(const infer_queue *q) { return q->runner == infer__thread_self(); }

static void infer__queue_main(void *arg) {
    infer_queue *q = (infer_queue *)arg;
    int more;
    infer__thread_place(q->processor, q->params.context.low_priority);
    infer__queue_enter(q);
    for (;;) {
        more = infer__queue_round(q, 0);
        infer__mutex_lock(&q->lock);
        while (!more && !q->waiting && !infer__atomic_get(&q->stop)) infer__cond_wait(&q->changed, &q->lock);
        if (!more && !q->waiting) break;
        infer__mutex_unlock(&q->lock);
    }
    infer__mutex_unlock(&q->lock);
    infer__queue_exit(q);
}

static void infer__queue_free(infer_queue *q) {
    infer__mem *mem = &q->model->mem;
    const int lost = q->process != infer__process(); /* in a child of fork() a condition may still have its waiters */
    while (q->n_past > 0) infer__session_end(infer__queue_take(q, q->n_past - 1));
    if (q->context) infer__context_end(q->context);
    if (q->has_changed && !lost) infer__cond_destroy(&q->changed);
    if (q->has_lock && !lost) infer__mutex_destroy(&q->lock);
    infer__free(mem, (void *)q->running);
    infer__free(mem, (void *)q->stepping);
    infer__free(mem, (void *)q->past);
    infer__free(mem, q->steps);
    infer__free(mem, q);
}

/* After the queue was closed: run it until all requests have ended. */
static void infer__queue_empty(infer_queue *q) {
    if (!infer__queue_enter(q)) return; /* the thread that runs it has a reference */
    while (infer__queue_round(q, 0)) {}
    infer__queue_exit(q);
}

/* No reference to the queue is left. */
static void infer__queue_gone(infer_queue *q) {
    infer_model *model = q->model;
    if (q->process == infer__process() && !q->has_thread) infer__queue_empty(q);
    if (q->n_requests > 0) return; /* in a child of fork(): they run, or wait, in the parent */
    infer__queue_free(q);
    infer__model_let(model, INFER_OK);
}

static void infer__queue_let(infer_queue *q) {
    if (infer__refs_drop(&q->refs)) infer__queue_gone(q);
}

/* Replace zeros by defaults. */
static infer_result infer__queue_params_of(const infer_model *m, infer_queue_params *p, infer_error *err) {
    const int32_t least[] = { p->slots, p->waiting, p->positions, p->prompt_rows, p->context.cells };
    size_t i;
    if (infer__reserved_check(p->reserved, "queue_params", err)) return INFER_ERR_ARGUMENT;
    for (i = 0; i < INFER__COUNT(least); i++)
        if (least[i] < 0 || least[i] > 1 << 24)
            return infer__error(err, INFER_ERR_ARGUMENT, "queue_params: %d is outside 0..%d", (int)least[i], 1 << 24);
    if (p->kept < -1 || p->kept > 1 << 24) return infer__error(err, INFER_ERR_ARGUMENT, "kept is %d", (int)p->kept);
    if (infer__encoder(&m->hp) || infer__n_enc(&m->hp) || infer__not_causal(&m->hp))
        return infer__error(err, INFER_ERR_UNSUPPORTED, "architecture \"%s\" %s: not supported in a queue",
                            infer__arch_of(m)->name,
                            infer__not_causal(&m->hp) ? "fills in masked tokens" : "has an encoder");
    if (!p->slots) p->slots = INFER__QUEUE_SLOTS;
    if (!p->waiting) p->waiting = INFER__QUEUE_WAITING;
    if (!p->prompt_rows) p->prompt_rows = INFER__QUEUE_ROWS;
    if (!p->kept) p->kept = INFER__QUEUE_KEPT;
    if (p->kept < 0) p->kept = 0;
    if (!p->positions) p->positions = INFER__MIN(m->hp.n_ctx > 0 ? m->hp.n_ctx : 4096, 4096);
    if (!p->context.cells) p->context.cells = (int32_t)INFER__MIN(4 * (int64_t)p->positions, 1 << 24);
    if (p->context.cells < p->positions)
        return infer__error(err, INFER_ERR_ARGUMENT, "the context has %d cells, a request %d positions",
                            (int)p->context.cells, (int)p->positions);
    if (m->w[INFER__W_POS_EMBD].type && p->positions > m->w[INFER__W_POS_EMBD].rows)
        return infer__error(err, INFER_ERR_ARGUMENT, "positions is %d, the model has learned %d", (int)p->positions,
                            (int)m->w[INFER__W_POS_EMBD].rows);
    if (!p->context.sessions) p->context.sessions = p->slots + p->kept / 4; /* kept ones give way */
    return INFER_OK;
}

/* The lists of a queue, whose params are filled in. */
static infer_result infer__queue_lists(infer_queue *q, infer_error *err) {
    const uint64_t slots = (uint64_t)q->params.slots;
    infer__mem *mem = &q->model->mem;
    q->running = (infer_request **)infer__calloc(mem, slots, sizeof *q->running);
    q->stepping = (infer_request **)infer__calloc(mem, slots, sizeof *q->stepping);
    q->steps = (infer_step *)infer__calloc(mem, slots, sizeof *q->steps);
    q->past = (infer_session **)infer__calloc(mem, (uint64_t)q->params.kept + 1, sizeof *q->past);
    if (q->running && q->stepping && q->steps && q->past && q->has_lock && q->has_changed) return INFER_OK;
    return infer__error(err, INFER_ERR_MEMORY, "no memory for a queue of %d requests", (int)q->params.slots);
}

INFER_API infer_result infer_queue_create(infer_queue **out, infer_model *model, const infer_queue_params *params,
                                          infer_error *err) {
    infer__mem *mem;
    infer_queue *q;
    infer_result r;
    if (!INFER__HAS_QUEUE && out) *out = NULL;
    if (!INFER__HAS_QUEUE) return infer__left_out(err, "queues", "INFER_NO_QUEUE");
    infer__error_clear(err);
    if (!out || !model)
        return infer__error(err, INFER_ERR_ARGUMENT, "infer_queue_create: %s is NULL", out ? "model" : "out");
    *out = NULL;
    mem = &model->mem;
    infer__model_hold(model);
    q = (infer_queue *)infer__calloc(mem, 1, sizeof *q);
    if (!q) return infer__model_let(model, infer__error(err, INFER_ERR_MEMORY, "no memory for a queue"));
    q->model = model;
    q->process = infer__process();
    infer__atomic_set(&q->refs, INFER__OWNED);
    if (params) q->params = *params;
    q->processor =
        q->params.context.n_processors > 0 && q->params.context.processors ? q->params.context.processors[0] : -1;
    q->has_lock = infer__mutex_init(&q->lock);
    q->has_changed = infer__cond_init(&q->changed);
    r = !model->why_not[0] ? infer__queue_params_of(model, &q->params, err)
                           : infer__error(err, INFER_ERR_UNSUPPORTED, "%s", infer_model_why_not(model));
    if (r == INFER_OK) r = infer__queue_lists(q, err);
    if (r == INFER_OK) r = infer__context_make(&q->context, model, &q->params.context, q->params.context.sessions, err);
    if (r == INFER_OK && q->params.thread) {
        q->has_thread = infer__thread_start(&q->thread, infer__queue_main, q);
        if (!q->has_thread)
            r = infer__error(err, INFER_ERR_UNSUPPORTED, "the queue's thread cannot be started");
    }
    if (r == INFER_OK) {
        *out = q;
        return r;
    }
    infer__queue_free(q);
    return infer__model_let(model, r);
}

INFER_API infer_result infer_queue_destroy(infer_queue *queue) {
    int last, lost, refused;
    if (!INFER__HAS_QUEUE || !queue) return INFER_OK;
    if (infer__model_lost(queue->model) || !infer__refs_open(&queue->refs)) return INFER_ERR_STATE;
    lost = queue->process != infer__process(); /* its thread is the parent's, which may hold the lock */
    if (!lost) {
        infer__mutex_lock(&queue->lock);
        refused = queue->has_thread && infer__queue_in_callback(queue); /* a thread that waits for itself */
        if (!refused) infer__atomic_set(&queue->stop, 1);
        infer__cond_broadcast(&queue->changed);
        infer__mutex_unlock(&queue->lock);
        if (refused) return INFER_ERR_STATE;
        if (queue->has_thread) infer__thread_join(&queue->thread);
        else infer__queue_empty(queue);
    }
    last = infer__refs_close(&queue->refs);
    if (last > 0) infer__queue_gone(queue);
    return last < 0 ? INFER_ERR_STATE : INFER_OK;
}

INFER_API infer_result infer_queue_step(infer_queue *queue, int32_t budget_ms) {
    const double until = budget_ms > 0 ? infer__slice_end(budget_ms) : 0;
    int more;
    if (!INFER__HAS_QUEUE || !queue || budget_ms < -1) return INFER_ERR_ARGUMENT;
    if (!INFER__HAS_SLICES && budget_ms > 0) return INFER_ERR_UNSUPPORTED;
    if (queue->process != infer__process() || queue->has_thread || !infer__queue_enter(queue)) return INFER_ERR_STATE;
    infer__refs_take(&queue->refs);
    do {
        more = infer__queue_round(queue, until);
    } while (more && budget_ms && !infer__slice_over(until));
    infer__queue_exit(queue);
    infer__queue_let(queue);
    return more ? INFER_MORE : INFER_OK;
}

INFER_API infer_result infer_queue_get_stats(infer_queue *queue, infer_queue_stats *out) {
    if (!INFER__HAS_QUEUE || !queue || !out) return INFER_ERR_ARGUMENT;
    infer__mutex_lock(&queue->lock);
    *out = queue->shown;
    out->waiting = queue->n_waiting;
    infer__mutex_unlock(&queue->lock);
    return INFER_OK;
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

/* Collect the request's text and tokens. */
static int infer__request_text_take(void *user, const char *text, size_t n) {
    infer_request *r = (infer_request *)user;
    infer__bytes_put(&r->text, text, n);
    if (r->text.failed) {
        infer__error(&r->error, INFER_ERR_MEMORY, "no memory for %llu bytes of text", (unsigned long long)n);
        return 1;
    }
    if (r->turn.parser) {
        r->turn.r = infer_chat_parser_feed(r->turn.parser, text, n);
        return r->turn.r != INFER_OK;
    }
    return r->text_fn ? r->text_fn(r->user, text, n) : 0;
}

static int infer__request_token_take(void *user, infer_token token, float logprob, const infer_top *top,
                                     int32_t n_top) {
    infer_request *r = (infer_request *)user;
    return r->token_fn(r->user, token, logprob, top, n_top);
}

static int32_t infer__request_full_take(void *user, const infer_token *tokens, int32_t n, infer_token *keep,
                                        int32_t most) {
    infer_request *r = (infer_request *)user;
    return r->full_fn(r->user, tokens, n, keep, most);
}

/* Copies of the stop strings, with one more for ChatML. */
static infer_result infer__request_stops(infer_request *r, infer__mem *mem, infer_error *err) {
    const char **own = NULL;
    infer_result result = infer__chat_stops(mem, r->turn.chatml, &r->generate, &own, err);
    if (result == INFER_OK) result = infer__stops_copy(mem, &r->generate, &r->stops, err);
    infer__free(mem, (void *)own);
    return result;
}

/* References to the media of a prompt. */
static infer_result infer__request_media(infer_request *r, infer__mem *mem, infer_media *const *media, int32_t n,
                                         infer_error *err) {
    r->generate.media = NULL;
    r->generate.n_media = 0;
    if (n < 1) return INFER_OK;
    r->media = (infer_media **)infer__calloc(mem, (uint64_t)n, sizeof *r->media);
    if (!r->media) return infer__error(err, INFER_ERR_MEMORY, "no memory for %d pictures and sounds", (int)n);
    for (; r->n_media < n; r->n_media++) {
        r->media[r->n_media] = media[r->n_media];
        infer__refs_take(&media[r->n_media]->refs);
    }
    return INFER_OK;
}

/* The prompt as tokens, whichever form it was given in. */
static infer_result infer__request_ids(infer_request *r, infer_queue *q, const infer_request_params *p,
                                       infer_error *err) {
    infer__mem *mem = &q->model->mem;
    size_t n = 0;
    int32_t i;
    infer_result result = INFER_OK;
    if (p->chat) {
        if (p->generate.text) return infer__error(err, INFER_ERR_ARGUMENT, "generate: text must be NULL");
        result = infer__chat_fit(q->model, p->chat, q->params.positions, p->generate.max_tokens, &r->turn, err);
        r->ids = r->turn.ids;
        n = r->turn.n;
        r->generate.text_flags |= INFER_TEXT_WRITE_SPECIAL;
    } else if (p->prompt)
        result = infer__prompt_ids(q->model, mem, p->prompt, &p->generate, 1, &r->ids, &n, err);
    else if (p->tokens && p->n_tokens > 0) {
        for (i = 0; i < p->n_tokens; i++)
            if (p->tokens[i] == -1 || (p->tokens[i] < 0 && !p->generate.n_media && !q->base) ||
                p->tokens[i] >= q->model->hp.n_vocab)
                return infer__error(err, INFER_ERR_ARGUMENT, "token %d is %d, outside 0..%d", (int)i, (int)p->tokens[i],
                                    (int)q->model->hp.n_vocab - 1);
        n = (size_t)p->n_tokens;
        if ((result = infer__media_check(q->model, p->generate.media, p->generate.n_media, err)) != INFER_OK)
            return result;
        r->ids = (infer_token *)infer__realloc(mem, NULL, n, sizeof *r->ids);
        if (!r->ids) return infer__error(err, INFER_ERR_MEMORY, "no memory for %d tokens", (int)n);
        memcpy(r->ids, p->tokens, n * sizeof *r->ids);
    }
    if (result != INFER_OK) return result;
    if (n == 0) return infer__error(err, INFER_ERR_ARGUMENT, "a request without a prompt");
    if (n > (size_t)q->params.positions)
        return infer__error(err, INFER_CONTEXT_FULL, "a prompt of %llu tokens, and a request has %d positions",
                            (unsigned long long)n, (int)q->params.positions);
    r->n_ids = r->n_prompt = (int32_t)n;
    return infer__request_media(r, mem, p->chat ? r->turn.media : p->generate.media,
                                p->chat ? r->turn.n_media : p->generate.n_media, err);
}

/* Set up a request, or fail; infer__request_free frees whatever has been set up. */
static infer_result infer__request_fill(infer_request *r, infer_queue *q, const infer_request_params *p,
                                        infer_error *err) {
    infer__mem *mem = &q->model->mem;
    infer_result result = infer__generate_check(q->model, p->sampler, &p->generate, err);
    if (result != INFER_OK) return result;
    if (infer__reserved_check(p->reserved, "request_params", err)) return INFER_ERR_ARGUMENT;
    if (p->generate.negative)
        return infer__error(err, INFER_ERR_UNSUPPORTED, "negative: guidance is not supported in a queue");
    if (!!p->prompt + (p->tokens != NULL) + (p->chat != NULL) != 1)
        return infer__error(err, INFER_ERR_ARGUMENT, "a request has one of prompt, tokens and chat");
    if (p->n_adapters < 0 || p->n_adapters > INFER_MAX_ADAPTERS || (p->n_adapters > 0 && !p->adapters))
        return infer__error(err, INFER_ERR_ARGUMENT, "%d adapters: there may be 0 to %d", (int)p->n_adapters,
                            (int)INFER_MAX_ADAPTERS);
    r->priority = p->priority;
    r->submitted = infer__seconds();
    r->generate = p->generate;
    r->text_fn = p->generate.text;
    r->token_fn = p->generate.token;
    r->full_fn = p->generate.full;
    r->user = p->generate.user;
    r->generate.text = infer__request_text_take;
    if (r->token_fn) r->generate.token = infer__request_token_take;
    if (r->full_fn) r->generate.full = infer__request_full_take;
    r->generate.user = r;
    r->done = p->done;
    r->done_user = p->user;
    if ((result = infer__request_ids(r, q, p, err)) != INFER_OK) return result;
    if ((result = infer__request_stops(r, mem, err)) != INFER_OK) return result;
    if (p->n_adapters == 0) return INFER_OK;
    r->uses = (infer_adapter_use *)infer__calloc(mem, (uint64_t)p->n_adapters, sizeof *r->uses);
    if (!r->uses) return infer__error(err, INFER_ERR_MEMORY, "no memory for %d adapters", (int)p->n_adapters);
    for (; r->n_uses < p->n_adapters; r->n_uses++) {
        const infer_adapter_use *use = &p->adapters[r->n_uses];
        if (!use->adapter || use->adapter->model != q->model)
            return infer__error(err, INFER_ERR_ARGUMENT, "adapter %d: it is %s", (int)r->n_uses,
                                use->adapter ? "another model's" : "NULL");
        r->uses[r->n_uses] = *use;
    }
    return INFER_OK;
}

INFER_API infer_result infer_queue_submit(infer_queue *queue, const infer_request_params *params,
                                          infer_request **request, infer_error *err) {
    infer_request *r;
    infer_result result;
    int32_t i;
    if (!INFER__HAS_QUEUE && request) *request = NULL;
    if (!INFER__HAS_QUEUE) return infer__left_out(err, "queues", "INFER_NO_QUEUE");
    if (request) *request = NULL;
    infer__error_clear(err);
    if (!queue || !params)
        return infer__error(err, INFER_ERR_ARGUMENT, "infer_queue_submit: %s is NULL", queue ? "params" : "queue");
    if (queue->process != infer__process())
        return infer__error(err, INFER_ERR_STATE, "the queue was made before fork(): make one in this process");
    r = (infer_request *)infer__calloc(&queue->model->mem, 1, sizeof *r);
    if (!r) return infer__error(err, INFER_ERR_MEMORY, "no memory for a request");
    r->queue = queue;
    r->text.mem = &queue->model->mem;
    result = infer__request_fill(r, queue, params, err);
    if (result == INFER_OK && !queue->base) result = infer__sampler_claim(params->sampler, err);
    if (result == INFER_OK) r->sampler = params->sampler;
    infer__mutex_lock(&queue->lock);
    queue->n_requests++;
    if (result == INFER_OK && infer__atomic_get(&queue->stop))
        result = infer__error(err, INFER_ERR_STATE, "the queue is being destroyed");
    if (result == INFER_OK && queue->n_waiting >= queue->params.waiting)
        result = infer__error(err, INFER_ERR_LIMIT, "the queue is full: %d requests wait", (int)queue->n_waiting);
    if (result != INFER_OK) {
        if (!queue->base) infer__sampler_leave(r->sampler);
        infer__request_free(r);
        infer__mutex_unlock(&queue->lock);
        return result;
    }
    for (i = 0; i < r->n_uses; i++) infer__refs_take(&r->uses[i].adapter->users);
    r->number = ++queue->numbers;
    r->closed = !request;
    if (request) infer__refs_take(&queue->refs);
    infer__queue_wait(queue, r);
    if (request) *request = r;
    infer__cond_broadcast(&queue->changed);
    infer__mutex_unlock(&queue->lock);
    return INFER_OK;
}

INFER_API void infer_request_cancel(infer_request *request) {
    if (INFER__HAS_QUEUE && request) infer__atomic_set(&request->cancelled, 1);
}

INFER_API infer_result infer_request_wait(infer_request *request) {
    infer_queue *q;
    infer_result r;
    if (!INFER__HAS_QUEUE || !request) return INFER_ERR_ARGUMENT;
    q = request->queue;
    if (q->process != infer__process()) return INFER_ERR_STATE;
    infer__mutex_lock(&q->lock);
    if (infer__queue_in_callback(q)) {
        infer__mutex_unlock(&q->lock);
        return INFER_ERR_STATE;
    }
    while (!request->ended) {
        infer__mutex_unlock(&q->lock);
        if (!q->has_thread && infer__queue_enter(q)) {
            infer__queue_round(q, 0);
            infer__queue_exit(q);
            infer__mutex_lock(&q->lock);
            continue;
        }
        infer__mutex_lock(&q->lock);
        if (!request->ended && (q->has_thread || (infer__atomic_get(&q->calls) & 1)))
            infer__cond_wait(&q->changed, &q->lock);
    }
    r = request->info.result;
    infer__mutex_unlock(&q->lock);
    return r;
}

INFER_API infer_result infer_request_get_info(infer_request *request, infer_request_info *out) {
    if (!INFER__HAS_QUEUE || !request || !out) return INFER_ERR_ARGUMENT;
    infer__mutex_lock(&request->queue->lock);
    *out = request->info;
    out->seconds =
        (request->info.state == INFER_REQUEST_ENDED ? request->finished : infer__seconds()) - request->submitted;
    infer__mutex_unlock(&request->queue->lock);
    return INFER_OK;
}

static int infer__request_ended(const infer_request *r) {
    int ended = 0;
    if (INFER__HAS_QUEUE && r) {
        infer__mutex_lock(&r->queue->lock);
        ended = r->info.state == INFER_REQUEST_ENDED;
        infer__mutex_unlock(&r->queue->lock);
    }
    return ended;
}

INFER_API const char *infer_request_text(const infer_request *request, size_t *n) {
    const int ended = infer__request_ended(request);
    if (n) *n = ended ? request->text.n : 0;
    return ended && request->text.s ? request->text.s : "";
}

INFER_API const infer_chat_reply *infer_request_reply(const infer_request *request) {
    static const infer_chat_reply none = { "", 0, "", 0, NULL, 0 };
    return infer__request_ended(request) && request->turn.parser ? infer_chat_parser_reply(request->turn.parser)
                                                                 : &none;
}

INFER_API const infer_token *infer_request_tokens(const infer_request *request, int32_t *n_prompt, int32_t *n) {
    const int ended = infer__request_ended(request);
    if (n_prompt) *n_prompt = ended ? INFER__MIN(request->n_prompt, request->n_ids) : 0;
    if (n) *n = ended ? request->n_ids : 0;
    return ended ? request->ids : NULL;
}

INFER_API const infer_error *infer_request_error(const infer_request *request) {
    static const infer_error none = { INFER_OK, "" };
    return infer__request_ended(request) ? &request->error : &none;
}

INFER_API void infer_request_close(infer_request *request) {
    infer_queue *q;
    int lost, open;
    if (!INFER__HAS_QUEUE || !request) return;
    q = request->queue;
    lost = q->process != infer__process(); /* nobody else is here, and the lock may be the parent's */
    if (!lost) infer__mutex_lock(&q->lock);
    open = !request->closed;
    request->closed = 1;
    infer__atomic_set(&request->cancelled, 1);
    if (open && request->ended) infer__request_free(request);
    if (!lost) infer__mutex_unlock(&q->lock);
    if (open) infer__queue_let(q);
}
