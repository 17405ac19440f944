/* watch.c: time limits of calls.
 *
 * Owns:  deadline and cancellation of calls other than evals: rendering, compiling grammars, tokenizing.
 * Rules: work is counted in units of some 50 ns; the clock and the caller are asked once in INFER__WATCH_EVERY of them,
 *        so that counting costs an addition. Limits that must be the same on every machine are counted work, not this:
 *        the clock is the backstop for undercounted work and slow machines.
 */
#include "base.h"

static void infer__watch_begin(infer__watch *w, const infer_limits *limits, double usual) {
    memset(w, 0, sizeof *w);
    if (limits) w->limits = *limits;
    if (w->limits.seconds == 0) w->limits.seconds = usual;
    w->next = INFER__WATCH_EVERY;
    if (w->limits.seconds > 0) w->end = infer__seconds() + w->limits.seconds;
}

static int infer__watch_look(infer__watch *w) {
    if (w->r != INFER_OK) return 0;
    w->next = w->done + INFER__WATCH_EVERY;
    if (w->limits.cancel && w->limits.cancel(w->limits.user)) w->r = INFER_CANCELLED;
    else if (w->limits.seconds > 0 && infer__seconds() > w->end) w->r = INFER_ERR_LIMIT;
    if (w->r != INFER_OK) w->next = 0; /* looked at by every call from now on */
    return w->r == INFER_OK;
}

static infer_result infer__watch_error(const infer__watch *w, const char *what, infer_error *err) {
    if (w->r == INFER_CANCELLED) return infer__error(err, w->r, "cancelled while %s", what);
    return infer__error(err, INFER_ERR_LIMIT, "%s took longer than the %g seconds that limits.seconds allows", what,
                        w->limits.seconds);
}
