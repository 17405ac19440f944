/* calls.c: one call at a time: which calls on a session, context, sampler or model are admitted, and what cancel
 * affects.
 *
 * Owns:  the counters `calls` of sessions, contexts and samplers (infer__claim), and the users of a model.
 * Rules: a public call that changes an object claims it first and gives it back at its end. Reentrant calls from
 *        callbacks, and calls from a second thread, find it claimed: they get INFER_ERR_STATE and change nothing. No
 *        call ever waits. A call on a session claims the session for its whole length; its context only while it uses
 *        work buffers or cache, so that a callback of infer_generate may evaluate other sessions there. Inner functions
 *        (infer__session_eval and such) expect the session to be claimed by their caller and claim the context. A
 *        session that another thread uses is not written to, not even its error: `refused` is atomic.
 * Cancel: a call has a number. infer_session_cancel stores the number of the running call, so that a late cancel does
 *        not affect the next call.
 */
#include "../model.h"

static const infer_error infer__refused = {
    INFER_ERR_STATE,
    "another call uses the session or its context: its callbacks, and other threads, have to wait for its end"};

static int infer__session_claim(infer_session *s) {
    if (!infer__claim(&s->calls)) {
        infer__atomic_set(&s->refused, 1);
        return 0;
    }
    infer__atomic_set(&s->refused, 0);
    return 1;
}

/* After a failure the session reports its own error, not that of a call refused meanwhile. */
static void infer__session_leave(infer_session *s) {
    if (s->error.code != INFER_OK) infer__atomic_set(&s->refused, 0);
    infer__unclaim(&s->calls);
}

static infer_result infer__context_claim(infer_context *c, const char *call, infer_error *err) {
    if (!infer__claim(&c->calls))
        return infer__error(err, INFER_ERR_STATE,
                            "%s: the context is running another call, which this one comes from a callback of, or "
                            "which is another thread's",
                            call);
    if (!infer__context_lost(c)) return INFER_OK;
    infer__unclaim(&c->calls);
    return infer__error(err, INFER_ERR_STATE, "%s: the context was made before fork(): make one in this process", call);
}

static void infer__context_leave(infer_context *c) { infer__unclaim(&c->calls); }

/* In a child of fork() there are no workers, and devices belong to the parent. */
static int infer__context_lost(const infer_context *c) {
    return infer__pool_lost(c->pool) || infer__model_lost(c->model);
}

static int infer__model_lost(const infer_model *m) { return m->n_devices > 0 && m->process != infer__process(); }

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
    if (m) infer__atomic_add(&((infer_model *)(uintptr_t)m)->users, 1);
}
static infer_result infer__model_let(const infer_model *m, infer_result r) {
    if (m) infer__atomic_add(&((infer_model *)(uintptr_t)m)->users, -1);
    return r;
}

/* ---- cancel ------------------------------------------------------------------------------------------------------ */

static int infer__session_cancelled(const infer_session *s) {
    return infer__atomic_get(&s->cancel) == infer__atomic_get(&s->calls);
}
