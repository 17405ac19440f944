/* calls.c: one call at a time, and how long objects live: which calls on a session, context, sampler or model are
 * admitted, what cancel affects, and when closed objects are freed.
 *
 * Owns:  the counters `calls` of sessions, contexts and samplers (infer__claim), their `refs`, the users of a model.
 * Rules: a public call that changes an object claims it first and gives it back at its end. Reentrant calls from
 *        callbacks, and calls from a second thread, find it claimed: they get INFER_ERR_STATE and change nothing. No
 *        call waits, except for another thread that is freeing sessions.
 *        A call on a session claims the session for its whole length; its context only while it uses work buffers or
 *        cache, so that a callback of infer_generate may evaluate other sessions there. Inner functions
 *        (infer__session_eval and such) expect the session to be claimed by their caller and claim the context. A
 *        session that another thread uses is not written to, not even its error: `refused` is atomic.
 * Life:  an object holds references to those it needs: a session to its context, a context to its model, a running call
 *        to what it has claimed. So objects can be closed in any order, also by callbacks and by threads that collect
 *        garbage, and the last reference frees. A session has pages of its context, which a call may be using: the
 *        thread that drops its last reference puts it on the list `dead`, and the next thread that leaves the context,
 *        or finds it idle, frees the sessions on that list. Meanwhile `calls` has the bit INFER__FREEING, which other
 *        threads wait for; a call of the same thread (from its allocator) is refused.
 * Cancel: a call has a number. infer_session_cancel stores the number of the running call, so that a late cancel does
 *        not affect the next call.
 */
#include "../model.h"

static const infer_error infer__refused = {
    INFER_ERR_STATE,
    "another call uses the session or its context: its callbacks, and other threads, have to wait for its end"};

#define INFER__FREEING ((int64_t)1 << 62)

/* ---- the end of objects ------------------------------------------------------------------------------------------ */

static void infer__context_let(infer_context *c) {
    if (infer__refs_drop(&c->refs) && !infer__model_lost(c->model)) infer__context_free(c);
}

/* The caller has a reference of the context. */
static void infer__context_bury(infer_context *c) {
    infer__link *x, *next;
    while (infer__atomic_get(&c->dead)) {
        const int64_t n = infer__atomic_get(&c->calls);
        if (n & (INFER__FREEING | 1)) return; /* whoever that is looks at the list afterwards */
        if (!infer__atomic_swap(&c->calls, n, n | INFER__FREEING)) continue;
        infer__atomic_set(&c->freeing, (int64_t)infer__thread_self());
        for (x = infer__links_take(&c->dead); x; x = next) {
            next = x->next;
            infer__session_free((infer_session *)(void *)x);
        }
        infer__atomic_set(&c->freeing, 0);
        infer__atomic_add(&c->calls, -INFER__FREEING);
    }
}

/* Nobody has a reference of the session. */
static void infer__session_gone(infer_session *s) {
    infer_context *c = s->context;
    if (infer__model_lost(c->model)) return;
    infer__refs_take(&c->refs); /* another thread may free the session at once, and its reference with it */
    infer__links_put(&c->dead, &s->dead);
    infer__context_bury(c);
    infer__context_let(c);
}

static void infer__session_let(infer_session *s) {
    if (infer__refs_drop(&s->refs)) infer__session_gone(s);
}

static infer_result infer__session_end(infer_session *s) {
    int last;
    if (infer__model_lost(s->context->model)) return INFER_ERR_STATE;
    if (s->in_slice && infer__atomic_swap(&s->context->sliced, 1, 0)) infer__slices_drop(s->context);
    last = infer__refs_close(&s->refs);
    if (last > 0) infer__session_gone(s);
    return last < 0 ? INFER_ERR_STATE : INFER_OK;
}

static infer_result infer__context_end(infer_context *c) {
    int last;
    if (infer__model_lost(c->model)) return INFER_ERR_STATE;
    if (infer__atomic_swap(&c->sliced, 1, 0)) infer__slices_drop(c);
    last = infer__refs_close(&c->refs);
    if (last > 0) infer__context_free(c);
    return last < 0 ? INFER_ERR_STATE : INFER_OK;
}

/* ---- claims ------------------------------------------------------------------------------------------------------ */

static int infer__session_claim(infer_session *s) {
    infer__refs_take(&s->refs);
    if (!infer__claim(&s->calls)) {
        infer__atomic_set(&s->refused, 1);
        infer__session_let(s);
        return 0;
    }
    infer__atomic_set(&s->refused, 0);
    return 1;
}

/* After a failure the session reports its own error, not that of a call refused meanwhile. */
static void infer__session_leave(infer_session *s) {
    if (s->error.code != INFER_OK) infer__atomic_set(&s->refused, 0);
    infer__unclaim(&s->calls);
    infer__session_let(s);
}

/* 1 = it is this call's, whatever fork() has taken from it. */
static int infer__context_own(infer_context *c) {
    infer__refs_take(&c->refs);
    for (;;) {
        const int64_t n = infer__atomic_get(&c->calls);
        if (n & 1) break;
        if (n & INFER__FREEING) {
            if (infer__atomic_get(&c->freeing) == (int64_t)infer__thread_self()) break;
            infer__yield();
        } else if (infer__atomic_swap(&c->calls, n, n + 1))
            return 1;
    }
    infer__context_let(c);
    return 0;
}

static void infer__context_leave(infer_context *c) {
    infer__unclaim(&c->calls);
    infer__context_bury(c);
    infer__context_let(c);
}

static infer_result infer__context_claim(infer_context *c, const char *call, infer_error *err) {
    if (!infer__context_own(c))
        return infer__error(err, INFER_ERR_STATE,
                            "%s: the context is running another call, which this one comes from a callback of, or "
                            "which is another thread's",
                            call);
    if (!infer__context_lost(c)) return INFER_OK;
    infer__context_leave(c);
    return infer__error(err, INFER_ERR_STATE, "%s: the context was made before fork(): make one in this process", call);
}

/* In a child of fork() there are no workers, and devices belong to the parent. */
static int infer__context_lost(const infer_context *c) {
    return infer__pool_lost(c->pool) || infer__model_lost(c->model);
}

static int infer__model_lost(const infer_model *m) {
    return INFER__HAS_GPU && m->n_devices > 0 && m->process != infer__process();
}

static infer_result infer__session_enter(infer_session *s, const char *call) {
    infer_result r;
    if (!infer__session_claim(s)) return INFER_ERR_STATE;
    r = infer__context_claim(s->context, call, &s->error);
    if (r != INFER_OK) infer__session_leave(s);
    return r;
}

static infer_result infer__session_exit(infer_session *s, infer_result r) {
    infer__context_leave(s->context);
    infer__session_leave(s);
    return r;
}

/* The model is const for callers; its users and its memory counter are atomic. */
static void infer__model_hold(const infer_model *m) {
    if (m) infer__refs_take(&((infer_model *)(uintptr_t)m)->users);
}
static infer_result infer__model_let(const infer_model *m, infer_result r) {
    infer_model *own = (infer_model *)(uintptr_t)m;
    if (m && infer__refs_drop(&own->users) && !infer__model_lost(m)) infer__model_free(own);
    return r;
}

/* ---- cancel ------------------------------------------------------------------------------------------------------ */

static int infer__session_cancelled(const infer_session *s) {
    return infer__atomic_get(&s->cancel) == infer__atomic_get(&s->calls);
}
