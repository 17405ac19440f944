/* queue.c: the scheduler of a queue: which requests start, what a pass evaluates, whose memory is reclaimed.
 *
 * How:   a round admits waiting requests while there are slots and pages, makes one pass of a token (and a draft) of
 *        every request that generates and pieces of the prompts of the others, and reports what was chosen. A request
 *        starts as a fork of the running or kept session that shares most of its tokens. If another request is just
 *        evaluating a shared prefix, it waits for that; the pass is split where the two prompts diverge, so that
 *        recurrent layers have a state there. Together the sessions are a prefix tree of pages: forks share them. When
 *        pages run out, kept sessions are dropped, the least recently used first; then drafts; then the newest request
 *        of the lowest priority is preempted: its tokens are kept, and evaluated again later with the same results. So
 *        the first request always makes progress.
 * Rules: a failed pass is repeated for each request alone, so that only those that fail end. Generation is that of
 *        infer_generate (generate.c): infer__generate_choose, a pass, infer__generate_report.
 * Start: infer__queue_round.
 */
#include "queue.h"

/* ---- ends -------------------------------------------------------------------------------------------------------- */

/* Remove request i from the running ones; the others keep their order. */
static void infer__queue_leave(infer_queue *q, int32_t i) {
    q->n_running--;
    memmove((void *)(q->running + i), (void *)(q->running + i + 1), (size_t)(q->n_running - i) * sizeof *q->running);
}

static void infer__request_ends(infer_request *r, infer_result result, const infer_error *e) {
    r->over = 1;
    r->result = result;
    if (e && e != &r->error) r->error = *e;
}

/* Take kept session i out of the list. */
static infer_session *infer__queue_take(infer_queue *q, int32_t i) {
    infer_session *s = q->past[i];
    q->n_past--;
    memmove((void *)(q->past + i), (void *)(q->past + i + 1), (size_t)(q->n_past - i) * sizeof *q->past);
    return s;
}

/* The context is claimed. */
static void infer__queue_forget(infer_queue *q, int32_t i) { infer__session_free(infer__queue_take(q, i)); }

/* Keep an ended session, without its results, for requests with the same prefix. */
static void infer__queue_keep(infer_queue *q, infer_session *s) {
    infer__mem *mem = &q->model->mem;
    if (q->params.kept < 1 || s->n_valid < INFER__PAGE || !infer__context_own(q->context)) infer__session_end(s);
    else { /* memory is freed in a child of fork(), too: not infer__context_claim */
        if (q->n_past == q->params.kept) infer__queue_forget(q, 0);
        infer__results_drop(s);
        infer__free(mem, s->logits);
        infer__free(mem, s->hidden);
        s->logits = s->hidden = NULL;
        s->logits_cap = s->hidden_cap = 0;
        s->out_n = 0;
        q->past[q->n_past++] = s;
        infer__context_leave(q->context);
    }
}

/* Publish the statistics. The lock is held. */
static void infer__queue_show(infer_queue *q) {
    q->stats.waiting = q->n_waiting;
    q->stats.running = q->n_running;
    q->stats.kept = q->n_past;
    q->shown = q->stats;
}

static void infer__request_free(infer_request *r) {
    infer_queue *q = r->queue;
    infer__mem *mem = &q->model->mem;
    infer_chat_parser_destroy(r->turn.parser);
    infer__free(mem, r->stops);
    infer__free(mem, r->uses);
    while (r->n_media > 0) infer__media_let(r->media[--r->n_media]);
    infer__free(mem, r->media);
    infer__free(mem, r->ids);
    infer__bytes_free(&r->text);
    infer__free(mem, r);
    q->n_requests--;
}

static void infer__queue_wait(infer_queue *q, infer_request *r) {
    infer_request **at;
    for (at = &q->waiting; *at && ((*at)->priority > r->priority ||
                                   ((*at)->priority == r->priority && (*at)->number < r->number));)
        at = &(*at)->next;
    r->next = *at;
    *at = r;
    q->n_waiting++;
}

/* End the request: call its callbacks, wake its waiters. */
static void infer__request_end(infer_queue *q, infer_request *r) {
    infer_session *s = r->session;
    infer_result result = r->result, read;
    int32_t i;
    if (!r->begun && result == INFER_CANCELLED) r->g.info.stop_reason = INFER_STOP_CANCELLED;
    if (r->begun) {
        result = infer__generate_end(&r->g, result);
        if (result < 0 && s && r->error.code == INFER_OK) r->error = s->error;
        r->begun = 0;
    }
    if (s) {
        if (r->info.state == INFER_REQUEST_RUNS) { /* there is room for as many as its context has */
            memcpy(r->ids, s->tokens, (size_t)s->n * sizeof *r->ids);
            r->n_ids = s->n;
        }
        r->session = NULL;
        infer__session_offer(s, NULL, 0);
        infer__session_leave(s);
        infer__queue_keep(q, s);
    }
    if (r->turn.parser) {
        read = infer_chat_parser_finish(r->turn.parser);
        if (r->turn.r == INFER_ERR_MEMORY || read == INFER_ERR_MEMORY)
            result = infer__error(&r->error, INFER_ERR_MEMORY, "a reply: out of memory");
        else if (read == INFER_CANCELLED && r->g.info.stop_reason != INFER_STOP_CANCELLED)
            r->g.info.stop_reason = INFER_STOP_CALLBACK;
    }
    if (r->error.code != INFER_OK && result >= 0) result = r->error.code; /* its text found no memory */
    if (!q->base) infer__sampler_leave(r->sampler);
    for (i = 0; i < r->n_uses; i++) infer__adapter_let(r->uses[i].adapter);
    infer__mutex_lock(&q->lock);
    r->finished = infer__seconds();
    r->info.result = result;
    r->info.generate = r->g.info;
    r->info.state = INFER_REQUEST_ENDED;
    q->stats.ended++;
    infer__queue_show(q);
    infer__mutex_unlock(&q->lock);
    if (r->done) r->done(r->done_user, r);
    infer__mutex_lock(&q->lock);
    r->ended = 1;
    if (r->closed) infer__request_free(r);
    infer__cond_broadcast(&q->changed);
    infer__mutex_unlock(&q->lock);
}

/* ---- who begins -------------------------------------------------------------------------------------------------- */

static int32_t infer__tokens_same(const infer_token *a, int32_t n, const infer_token *b, int32_t m) {
    int32_t i = 0;
    n = INFER__MIN(n, m);
    while (i < n && a[i] == b[i]) i++;
    return i;
}

/* 1 when the session computes the same as one with these adapters. */
static int infer__adapters_alike(const infer__adapter_set *set, const infer_session *s) {
    return s->adapters == set && (!set || !set->waits) && s->n_adapted <= (set != NULL);
}

/* Length of the prefix that the request shares with the session; the last token is always evaluated, for its logits. */
static int32_t infer__request_same(const infer_request *r, const infer__adapter_set *set, const infer_session *s) {
    if (!infer__adapters_alike(set, s)) return 0;
    return infer__span_start(
        s, infer__cells_back(s->context, s, infer__tokens_same(r->ids, r->n_ids - 1, s->tokens, s->n - s->ahead)));
}

/* The best session to fork for a request: *kept is the index of a kept session, -1 = `from` is running. 0 = wait for
 * one that is evaluating the shared prefix. */
static int infer__request_source(infer_queue *q, const infer_request *r, const infer__adapter_set *set,
                                 infer_session **from, int32_t *kept, int32_t *same) {
    infer_request *ahead = NULL;
    int32_t i, n, most = 0;
    *from = NULL;
    *kept = -1;
    *same = INFER__PAGE - 1; /* fewer are not worth it */
    if (q->base && (n = infer__request_same(r, set, q->base)) > 0) {
        *same = n;
        *from = q->base;
    }
    for (i = 0; i < q->n_past; i++)
        if ((n = infer__request_same(r, set, q->past[i])) > *same) {
            *same = n;
            *from = q->past[i];
            *kept = i;
        }
    for (i = 0; i < q->n_running; i++) {
        infer_request *o = q->running[i];
        if (!o->session || o->over) continue;
        if ((n = infer__request_same(r, set, o->session)) > *same) {
            *same = n;
            *from = o->session;
            *kept = -1;
        }
        if (o->info.state != INFER_REQUEST_PROMPT || !infer__adapters_alike(set, o->session)) continue;
        n = infer__tokens_same(r->ids, r->n_ids - 1, o->ids, o->n_ids);
        if (n > o->session->n && n > most) {
            most = n;
            ahead = o;
        }
    }
    if (!ahead || most <= *same) return 1;
    /* worth it where half of what it waits for would have to be evaluated; and where nothing has to be waited for */
    n = *from ? *same : 0;
    if (n > ahead->session->n && 2 * (most - n) < most - ahead->session->n) return 1;
    if (ahead->cut <= ahead->session->n || most < ahead->cut) ahead->cut = most;
    return 0;
}

/* Pages of full attention that n more tokens after `have` take. */
static int64_t infer__queue_pages(int32_t have, int64_t n) {
    return (have + n + INFER__PAGE - 1) / INFER__PAGE - have / INFER__PAGE + 1;
}

/* Drop kept sessions until there is room for a request, except the one it starts from (index *but, which moves). */
static int infer__queue_room(infer_queue *q, const infer_request *r, int32_t same, int32_t *but) {
    const infer__cache_group *full = &q->context->cache.groups[INFER__GROUP_FULL];
    const int32_t most = r->generate.max_tokens - r->info.generate.new_tokens;
    const int64_t need =
        infer__queue_pages(same, r->n_ids - same + INFER__MIN(most > 0 ? most : 64, 64)) + q->n_running;
    while (full->n_pages && full->n_free < need) {
        const int32_t i = *but == 0 ? 1 : 0;
        if (i >= q->n_past) return 0;
        infer__queue_forget(q, i);
        if (i < *but) --*but;
    }
    return 1;
}

/* A session with the first `same` tokens of the request. */
static infer_result infer__request_session(infer_queue *q, infer_request *r, infer_session *from, int32_t kept,
                                           int32_t same, infer_error *err) {
    infer_session_params p;
    infer_session *s = from;
    infer_result result = INFER_OK;
    memset(&p, 0, sizeof p);
    p.context = q->params.positions;
    if (kept >= 0) infer__queue_take(q, kept);
    if (kept >= 0 && from->n == same) { /* it continues where that one ended: take it instead of a fork */
        r->session = s;
        return INFER_OK;
    }
    if (kept >= 0) q->past[q->n_past++] = from; /* lately used */
    result = from ? infer__session_fork(&s, from, err) : infer__session_make(&s, q->context, &p, err);
    if (result != INFER_OK) return result;
    s->ahead = 0; /* of the one it was forked from */
    if (from && (result = infer__session_cut(s, same)) != INFER_OK) {
        if (err) *err = s->error;
        infer__session_free(s);
        return result;
    }
    r->session = s;
    return INFER_OK;
}

/* 1 = it has a session or has ended; 0 = it must wait, -1 = so must all after it. The context is claimed. */
static int infer__request_admit(infer_queue *q, infer_request *r) {
    infer__adapter_set *set = NULL;
    infer_session *from;
    infer_token *ids;
    int32_t kept, same = 0;
    infer_result result = infer__adapter_set_of(q->context, r->uses, r->n_uses, &set, &r->error);
    if (result != INFER_OK) {
        infer__request_ends(r, result, NULL);
        return 1;
    }
    if (!infer__request_source(q, r, set, &from, &kept, &same)) {
        infer__adapter_set_drop(q->context, set);
        return 0;
    }
    if (!from) same = 0;
    if (!infer__queue_room(q, r, same, &kept) && q->n_running > 0) {
        infer__adapter_set_drop(q->context, set);
        return -1;
    }
    r->whole = set && set->waits;
    ids = (infer_token *)infer__realloc(&q->model->mem, r->ids, (uint64_t)q->params.positions + 1, sizeof *ids);
    if (ids) r->ids = ids;
    else result = infer__error(&r->error, INFER_ERR_MEMORY, "no memory for a request's tokens");
    if (result == INFER_OK) result = infer__request_session(q, r, from, kept, same, &r->error);
    if (result == INFER_OK) {
        infer__adapters_begin(r->session, set);
        infer__session_claim(r->session);
        infer__session_offer(r->session, r->media, r->n_media);
        r->g.s = r->session;
        if (!r->begun) {
            result = infer__generate_begin(&r->g, r->session, r->sampler, &r->generate);
            r->begun = result == INFER_OK;
            r->g.began = r->submitted;
            r->turn.steering.user = r->turn.parser;
            if (r->turn.parser) r->g.steering = &r->turn.steering;
            r->g.info.prompt_tokens = r->n_prompt;
            r->g.info.dropped = r->turn.dropped;
            r->info.reused = same;
            r->info.waited = infer__seconds() - r->submitted;
            q->stats.reused += (uint64_t)same;
            if (result != INFER_OK) r->error = r->session->error;
        }
        r->info.state = INFER_REQUEST_PROMPT;
    }
    infer__adapter_set_drop(q->context, set);
    if (result != INFER_OK) infer__request_ends(r, result, NULL);
    return 1;
}

/* End it before the next pass if it was cancelled or its time is up. */
static void infer__request_look(infer_request *r) {
    if (infer__atomic_get(&r->cancelled) || infer__atomic_get(&r->queue->stop))
        infer__request_ends(r, INFER_CANCELLED, NULL);
    else if ((!r->g.started || !r->session) && r->generate.seconds > 0 &&
             infer__seconds() - r->submitted >= r->generate.seconds) {
        r->g.info.stop_reason = INFER_STOP_TIME;
        infer__request_ends(r, INFER_OK, NULL);
    }
}

/* Move waiting requests to free slots. */
static void infer__queue_admit(infer_queue *q) {
    infer_request **at, *one, *ended = NULL;
    infer_error e;
    const infer_result r = infer__context_claim(q->context, "infer_queue_step", &e);
    int open = 1, admitted;
    infer__mutex_lock(&q->lock);
    for (at = &q->waiting; (one = *at) != NULL;) {
        infer__request_look(one);
        if (!one->over && r != INFER_OK) infer__request_ends(one, r, &e);
        admitted = one->over;
        if (!admitted && open && q->n_running < q->params.slots) {
            admitted = infer__request_admit(q, one);
            if (admitted < 0) open = 0; /* those after it must not take the memory */
        }
        if (admitted < 1) {
            at = &one->next;
            continue;
        }
        *at = one->next;
        q->n_waiting--;
        if (!one->over) q->running[q->n_running++] = one;
        else {
            one->next = ended;
            ended = one;
        }
    }
    infer__mutex_unlock(&q->lock);
    if (r == INFER_OK) infer__context_leave(q->context);
    while ((one = ended) != NULL) {
        ended = one->next;
        infer__request_end(q, one);
    }
}

/* The chosen token without a draft. */
static int infer__request_alone(infer_request *r) {
    const int32_t drafted = r->g.n_next > 1;
    r->g.draft.made = 0;
    r->g.next = &r->g.token;
    if (drafted) r->g.n_next = 1;
    return drafted;
}

/* Put it back to waiting. Its tokens and the chosen one are kept, and the sampler keeps its state. */
static void infer__request_preempt(infer_queue *q, infer_request *r) {
    infer_session *s = r->session;
    int32_t i;
    if (r->info.state == INFER_REQUEST_RUNS) {
        r->n_ids = s->n - s->ahead;
        memcpy(r->ids, s->tokens, (size_t)r->n_ids * sizeof *r->ids);
    }
    infer__request_alone(r);
    q->stats.preempted++;
    q->stats.again += (uint64_t)s->n;
    infer__session_leave(s);
    infer__session_free(s);
    r->session = r->g.s = NULL;
    r->cut = 0;
    for (i = 0; q->running[i] != r; i++) {}
    infer__queue_leave(q, i);
    infer__mutex_lock(&q->lock);
    r->info.state = INFER_REQUEST_WAITING;
    infer__queue_wait(q, r);
    infer__mutex_unlock(&q->lock);
}

/* ---- a pass ------------------------------------------------------------------------------------------------------ */

/* Fill the pass: one step per generating request first; prompts share the rest. Returns the number of steps. */
static int32_t infer__queue_steps(infer_queue *q, double seconds) {
    const double layer = q->row_seconds / q->model->hp.n_layer;
    int32_t rows = q->context->plan.batch, prompts = 0, n = 0, i, left;
    for (i = 0; i < q->n_running; i++) {
        infer_request *r = q->running[i];
        memset(&r->step, 0, sizeof r->step);
        r->step.session = r->session;
        if (r->info.state == INFER_REQUEST_PROMPT) {
            prompts++;
            continue;
        }
        r->step.tokens = r->g.next;
        r->step.n = r->g.n_next;
        r->step.outputs = r->step.n > 1 ? INFER_OUT_ALL : INFER_OUT_LAST;
        rows -= r->step.n;
        q->stepping[n++] = r;
    }
    if (n > 0) rows = INFER__MIN(rows, q->params.prompt_rows);
    if (seconds > 0 && layer == 0) rows = INFER__MIN(rows, INFER__PAGE); /* nothing is known yet */
    if (seconds > 0 && seconds / 4 < rows * layer) rows = (int32_t)(seconds / 4 / layer); /* a layer is over soon */
    if (n == 0) rows = INFER__MAX(rows, 1);
    for (i = 0; i < q->n_running && rows > 0; i++) {
        infer_request *r = q->running[i];
        if (r->info.state != INFER_REQUEST_PROMPT) continue;
        left = r->n_ids - r->session->n;
        r->step.n = r->whole ? left : INFER__MIN(left, INFER__MIN(rows, INFER__MAX(rows / prompts, INFER__PAGE)));
        if (r->cut > r->session->n) r->step.n = INFER__MIN(r->step.n, r->cut - r->session->n);
        r->step.tokens = r->ids + r->session->n;
        if (r->n_media > 0) r->step.n = infer__media_chunk(r->session, r->step.tokens, r->step.n, left);
        r->step.outputs = r->step.n == left && !r->g.n_next ? INFER_OUT_LAST : INFER_OUT_NONE;
        rows -= r->step.n;
        prompts--;
        q->stepping[n++] = r;
    }
    return n;
}

/* Evaluate steps from .. end-1 together; INFER_MORE: the slice has ended, and the context stays claimed. */
static infer_result infer__queue_eval(infer_queue *q, int32_t from, int32_t end, double until, infer_error *err) {
    infer_session *s;
    infer_result r = INFER_OK;
    int32_t i, at;
    infer__error_clear(err);
    if (!q->paused) r = infer__context_claim(q->context, "infer_queue_step", err);
    if (r != INFER_OK) return r;
    for (i = from; i < end && !q->paused; i++) {
        q->steps[i] = q->stepping[i]->step;
        s = q->steps[i].session;
        at = s->n + q->steps[i].n;
        if (q->stepping[i]->info.state == INFER_REQUEST_RUNS) s->drafts = q->steps[i].n - 1;
        else s->minor = at != q->stepping[i]->cut && at < q->stepping[i]->n_ids ? 1 : -1;
    }
    q->context->pause = until;
    r = infer__eval_steps(q->context, q->steps + from, end - from, err);
    q->context->pause = 0;
    q->paused = r == INFER_MORE;
    if (q->paused) return r;
    for (i = from; i < end; i++) q->steps[i].session->drafts = q->steps[i].session->minor = 0;
    infer__context_leave(q->context);
    q->stats.passes++;
    return r;
}

/* Free memory for the pass, which must then be built again; 0 = nothing can be freed. */
static int infer__queue_give(infer_queue *q) {
    infer_request *last = NULL;
    infer_error e;
    int32_t i;
    int gave = q->n_past > 0;
    if (infer__context_claim(q->context, "infer_queue_step", &e) != INFER_OK) return 0;
    if (gave) infer__queue_forget(q, 0);
    for (i = 0; i < q->n_running && q->n_past == 0; i++) {
        infer_request *r = q->running[i];
        if (infer__request_alone(r)) gave = 1;
        if (!last || r->priority < last->priority || (r->priority == last->priority && r->number > last->number))
            last = r;
    }
    if (!gave && q->n_running > 1) {
        infer__request_preempt(q, last);
        gave = 1;
    }
    infer__context_leave(q->context);
    return gave;
}

/* After a pass: the request's next token is chosen and reported, until one has to be evaluated. */
static void infer__request_advance(infer_queue *q, infer_request *r) {
    infer__generation *g = &r->g;
    infer_result result = INFER_OK;
    infer_request_state state = r->info.state;
    if (state == INFER_REQUEST_PROMPT) {
        q->stats.prompt_tokens += (uint64_t)r->step.n;
        if (r->session->n < r->n_ids) return;
        state = INFER_REQUEST_RUNS;
        g->started = 1;
    } else {
        infer__generate_drafted(g);
        g->n_next = 0;
        result = infer__generate_report(g);
    }
    while (result == INFER_OK && g->info.stop_reason == 0 && !g->n_next) { /* n_next: chosen before it was preempted */
        result = infer__generate_choose(g);
        if (result == INFER_OK && !g->n_next && g->info.stop_reason == 0) result = infer__generate_report(g);
    }
    infer__mutex_lock(&q->lock);
    q->stats.new_tokens += (uint64_t)(g->info.new_tokens - r->info.generate.new_tokens);
    if (g->info.new_tokens > 0 && r->info.first == 0) r->info.first = infer__seconds() - r->submitted;
    r->info.generate = g->info;
    r->info.state = state;
    infer__mutex_unlock(&q->lock);
    if (result != INFER_OK || g->info.stop_reason)
        infer__request_ends(r, result, result < 0 ? &r->session->error : NULL);
}

/* Requests that end leave their slots. */
static void infer__queue_sweep(infer_queue *q) {
    int32_t i;
    for (i = 0; i < q->n_running;) {
        infer_request *r = q->running[i];
        if (!r->over) infer__request_look(r);
        if (!r->over) {
            i++;
            continue;
        }
        infer__queue_leave(q, i);
        infer__request_end(q, r);
    }
}

static int infer__queue_round(infer_queue *q, double until) {
    infer_error e;
    infer_result result = INFER_OK;
    int32_t n, i, rows = 0, prompts = 0;
    int more;
    if (!q->paused) {
        infer__queue_sweep(q);
        infer__queue_admit(q);
    }
    do {
        n = q->paused ? q->n_steps : infer__queue_steps(q, until > 0 ? INFER__MAX(until - infer__seconds(), 1e-4) : 0);
        if (n > 0) result = infer__queue_eval(q, 0, n, until, &e);
    } while (result == INFER_CONTEXT_FULL && infer__queue_give(q));
    q->n_steps = n;
    if (result == INFER_MORE) return 1;
    for (i = 0; i < n && result != INFER_OK; i++) { /* whose failure is it? */
        const int all = n == 1 || (q->base && result == INFER_CANCELLED); /* by the progress of the caller's session */
        const infer_result own = !all ? infer__queue_eval(q, i, i + 1, 0, &e) : result;
        if (own != INFER_OK) infer__request_ends(q->stepping[i], own, own < 0 ? &e : NULL);
    }
    for (i = 0; i < n; i++) {
        rows += q->stepping[i]->step.n;
        prompts += q->stepping[i]->info.state == INFER_REQUEST_PROMPT;
    }
    if (n > 0 && result == INFER_OK && prompts > 0) {
        const double each = q->context->cursor.seconds / rows;
        q->row_seconds = q->row_seconds > 0 ? 0.75 * q->row_seconds + 0.25 * each : each;
    }
    for (i = 0; i < n; i++)
        if (!q->stepping[i]->over) infer__request_advance(q, q->stepping[i]);
    infer__queue_sweep(q);
    infer__mutex_lock(&q->lock);
    infer__queue_show(q);
    more = q->n_waiting > 0 || q->n_running > 0;
    infer__mutex_unlock(&q->lock);
    return more;
}
