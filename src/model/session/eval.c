/* eval.c: evaluation of steps in passes.
 *
 * Rules: first all checks (if one step cannot be evaluated, nothing is), then passes of at most `batch` rows over all
 *        steps together, then all sessions advance together. After a failure every session is where it was.
 * Start: infer__eval_steps.
 */
#include "../model.h"

/* ---- checks: a step is evaluated whole or not at all ---------------------------------------------------- */

static int32_t infer__logits_first(const infer_step *st) { /* first token whose logits are kept, n = none */
    int32_t kind = st->outputs & 3;
    return kind == INFER_OUT_ALL ? 0 : kind == INFER_OUT_LAST ? st->n - 1 : st->n;
}

static int32_t infer__hidden_first(const infer_step *st) {
    if (!(st->outputs & INFER_OUT_HIDDEN)) return st->n;
    return (st->outputs & 3) == INFER_OUT_LAST ? st->n - 1 : 0;
}

static int32_t infer__session_lost(const infer_session *s) {
    int32_t i;
    for (i = s->n_valid; i < s->n; i++)
        if (s->tokens[i] < 0 && !infer__span_rows(s, i)) return i;
    return -1;
}

/* Reads nothing that another thread may change. */
static infer_result infer__step_owner(const infer_context *c, const infer_step *steps, int32_t i, infer_error *err) {
    const infer_session *s = steps[i].session;
    int32_t j;
    if (!s || s->context != c)
        return infer__error(err, INFER_ERR_ARGUMENT, "step %d: the session is %s", (int)i,
                            s ? "of another context" : "NULL");
    for (j = 0; j < i; j++)
        if (steps[j].session == s)
            return infer__error(err, INFER_ERR_ARGUMENT, "steps %d and %d are of one session", (int)j, (int)i);
    return INFER_OK;
}

static infer_result infer__step_check(const infer_context *c, const infer_step *steps, int32_t i, infer_error *err) {
    const infer_step *st = &steps[i];
    const infer_session *s = st->session;
    int32_t j;
    infer_result r = infer__step_owner(c, steps, i, err);
    if (r != INFER_OK) return r;
    if (st->n < 1) return infer__error(err, INFER_ERR_ARGUMENT, "step %d has %d tokens", (int)i, (int)st->n);
    if (!st->tokens == !st->embeddings)
        return infer__error(err, INFER_ERR_ARGUMENT, "step %d needs tokens or embeddings, one of the two", (int)i);
    if (st->outputs < 0 || st->outputs > 7 || (st->outputs & 3) == 3)
        return infer__error(err, INFER_ERR_ARGUMENT, "step %d: outputs %d is unknown", (int)i, (int)st->outputs);
    if (c->model->hp.encoder && ((st->outputs & 3) || s->n > 0))
        return infer__error(err, s->n > 0 ? INFER_ERR_STATE : INFER_ERR_UNSUPPORTED,
                            s->n > 0 ? "step %d: an encoder (%s) sees texts whole: rewind the session to 0"
                                     : "step %d: an encoder (%s) gives no logits: ask for INFER_OUT_HIDDEN alone",
                            (int)i, c->model->arch->name);
    if (st->n > s->cap - s->n) /* before its tokens are looked at: there may not be so many */
        return infer__error(err, INFER_CONTEXT_FULL, "%d tokens at position %d do not fit a context of %d", (int)st->n,
                            (int)s->n, (int)s->cap);
    for (j = 0; st->tokens && j < st->n; j++)
        if (st->tokens[j] >= c->model->hp.n_vocab || st->tokens[j] == -1 || (st->tokens[j] < 0 && !INFER__HAS_MEDIA))
            return infer__error(err, INFER_ERR_ARGUMENT, "step %d: token %d is %d, outside 0..%d", (int)i, (int)j,
                                (int)st->tokens[j], (int)c->model->hp.n_vocab - 1);
    if (c->model->hp.n_enc && !s->encodes && (!s->source || s->source->n == 0))
        return infer__error(err, INFER_ERR_STATE, "step %d: there is no text to answer yet: infer_session_encode",
                            (int)i);
    if (infer__session_whole(s) && st->n > c->plan.batch) /* they attend to each other: one pass */
        return infer__error(err, INFER_ERR_ARGUMENT,
                            "step %d: %d tokens that see each other do not fit the context's batch of %d", (int)i,
                            (int)st->n, (int)c->plan.batch);
    j = infer__session_lost(s);
    if (j >= 0)
        return infer__error(err, INFER_ERR_STATE,
                            "step %d: position %d was given as an embedding, is not in the cache any "
                            "more and cannot be computed again: rewind the session to %d or before",
                            (int)i, (int)j, (int)j);
    return INFER_OK;
}

/* Pages and result rows for all steps. */
static infer_result infer__steps_reserve(infer_context *c, const infer_step *steps, int32_t n, infer_error *err) {
    const infer__hparams *hp = &c->model->hp;
    infer__mem *mem = &c->model->mem;
    int32_t g, i;
    for (g = 0; g < INFER__CACHE_GROUPS; g++) {
        int64_t need = 0;
        for (i = 0; i < n; i++) {
            const infer_session *s = steps[i].session;
            need += infer__cache_need(c, s, g, s->n_valid, s->n - s->n_valid + steps[i].n);
        }
        if (need > c->cache.groups[g].n_free)
            return infer__error(err, INFER_CONTEXT_FULL,
                                "the context's cache of %d cells is full (%s layers: %lld pages "
                                "needed, %d free)",
                                (int)c->plan.cells, g ? "window" : "full", (long long)need,
                                (int)c->cache.groups[g].n_free);
    }
    if (!infer__cells_reserve(c, steps, n))
        return infer__error(err, INFER_CONTEXT_FULL,
                            "the context has no room for the recurrent states of so many sessions");
    for (i = 0; i < n; i++) {
        infer_session *s = steps[i].session;
        uint64_t nl = (uint64_t)(steps[i].n - infer__logits_first(&steps[i]));
        uint64_t nh = (uint64_t)(steps[i].n - infer__hidden_first(&steps[i]));
        s->out_n = 0; /* the old results are invalid from now on */
        infer__results_drop(s);
        if (!infer__rows_reserve(mem, &s->logits, &s->logits_cap, nl, hp->n_vocab) ||
            !infer__rows_reserve(mem, &s->hidden, &s->hidden_cap, nh, hp->n_embd) ||
            !infer__results_reserve(s, s->top_wanted) || !infer__adapters_reserve(s))
            return infer__error(err, INFER_ERR_MEMORY, "no memory for the results of %d tokens", (int)steps[i].n);
    }
    return INFER_OK;
}

/* ---- passes ------------------------------------------------------------------------------------------------ */

/* Lay out the pass for at most n_seq sequences and max_pages pages each. */
static void infer__pass_begin(infer_context *c) {
    infer__pass *p = &c->ctx.pass;
    int32_t *at = p->block, batch = c->plan.batch, n_seq = c->plan.n_seq;
    infer__error_clear(&c->ctx.error); /* before the cache's pages are copied, which may fail too */
    p->n_rows = p->n_out = p->n_seq = 0;
    p->max_pages = c->plan.max_pages;
    p->ids = at;
    p->pos = at += batch;
    p->seq = at += batch;
    p->out = at += batch;
    p->extended = at += batch;
    p->pages[0] = at += n_seq;
    p->pages[1] = at += (int64_t)n_seq * p->max_pages;
    at += (int64_t)n_seq * p->max_pages;
    p->cell_in = p->cell_out = p->end = p->source = NULL;
    if (c->model->hp.n_enc && !c->encodes) {
        p->source = at;
        at += n_seq;
    }
    c->row_end = NULL;
    if (c->model->hp.not_causal || c->encodes) {
        p->end = at;
        at += batch;
    } else if (INFER__HAS_MEDIA) {
        c->row_end = at;
        at += batch;
    }
    c->row_axis = at;
    if (INFER__HAS_MEDIA && c->model->hp.axes) at += INFER__AXES * (int64_t)batch;
    c->n_shifted = c->n_whole = c->n_deep = 0;
    memset(p->axis, 0, sizeof p->axis);
    if (!infer__cells_used(c)) return;
    p->cell_in = at;
    p->cell_out = at + n_seq;
}

/* The pass' next sequence: positions of s up to `end`, the last of which are written. Gives its number. */
static int32_t infer__pass_sequence(infer_context *c, infer_session *s, int32_t end) {
    infer__pass *p = &c->ctx.pass;
    const int32_t q = p->n_seq++;
    int32_t g;
    c->active[q] = s;
    p->extended[q] = s->cap > c->model->hp.rope_ctx;
    for (g = 0; g < INFER__CACHE_GROUPS; g++) /* pages after the last position are not looked at */
        memcpy(p->pages[g] + (int64_t)q * p->max_pages, s->pages[g],
               (size_t)((end - 1) / INFER__PAGE + 1) * sizeof(int32_t));
    return q;
}

/* Lay out a pass of n rows without results: tokens[at] and the following ones, `at` positions after the session's. For
 * prediction blocks: states of recurrent layers are not touched. Returns 0 when there are no pages. */
static int infer__pass_ahead(infer_context *c, infer_session *s, const infer_token *tokens, int32_t at, int32_t n) {
    infer__pass *p = &c->ctx.pass;
    infer_step st;
    int32_t i, q;
    infer__pass_begin(c);
    if (!infer__cache_write(c, s, s->n, at + n)) return 0; /* keep what the session's next token sees */
    memset(&st, 0, sizeof st);
    st.session = s;
    st.tokens = tokens;
    st.n = at + n;
    q = infer__pass_sequence(c, s, s->n + at + n);
    for (i = 0; i < n; i++) {
        p->seq[i] = q;
        p->ids[i] = tokens[at + i];
        p->pos[i] = s->n + at + i;
        c->row_embd[i] = NULL;
        infer__span_row(c, s, i, s->n + at + i);
    }
    p->n_rows = n;
    infer__spans_use(c);
    infer__switch_rows(c, &st, s->n, at, n);
    infer__adapted_rows(c, &st, s->n, at, n);
    return 1;
}

/* Add rows of one step: `count` tokens from cur->at on. Returns 0 when there are no pages. */
static int infer__pass_add(infer_context *c, const infer__pass_cursor *cur, int32_t count) {
    infer__pass *p = &c->ctx.pass;
    const infer_step *st = &cur->steps[cur->step];
    infer_session *s = st->session;
    int32_t base = s->n_valid, i, q, first_l = infer__logits_first(st), first_h = infer__hidden_first(st);
    if (!infer__cache_write(c, s, base + cur->at, count)) return 0;
    if (!infer__cells_pass(c, s, p->n_seq, base + cur->at + count)) return 0;
    q = infer__pass_sequence(c, s, base + cur->at + count);
    if (p->source) {
        p->source[q] = s->source->n;
        memcpy(p->pages[1] + (int64_t)q * p->max_pages, s->source->pages[0],
               (size_t)((s->source->n - 1) / INFER__PAGE + 1) * sizeof(int32_t));
    }
    for (i = cur->at; i < cur->at + count; i++) {
        int32_t r = p->n_rows++, wants_l = i >= first_l, wants_h = i >= first_h;
        p->ids[r] = st->tokens ? st->tokens[i] : -1;
        p->pos[r] = base + i;
        p->seq[r] = q;
        if (p->end) p->end[r] = base + st->n;
        c->row_embd[r] = st->tokens ? NULL : st->embeddings + (int64_t)i * c->model->hp.n_embd;
        infer__span_row(c, s, r, base + i);
        if (c->model->w[INFER__W_TOKEN_TYPES].type) c->row_looked[r] = s->type_from > 0 && base + i >= s->type_from;
        if (!wants_l && !wants_h) continue;
        c->out_logits[p->n_out] = wants_l ? s->logits + (int64_t)(i - first_l) * c->model->hp.n_vocab : NULL;
        c->out_top[p->n_out] = wants_l && first_l == st->n - 1 && !s->all_wanted ? s->top_wanted : 0;
        c->out_hidden[p->n_out] = wants_h ? s->hidden + (int64_t)(i - first_h) * c->model->hp.n_embd : NULL;
        p->out[p->n_out++] = r;
    }
    infer__switch_rows(c, st, base, cur->at, count);
    infer__adapted_rows(c, st, base, cur->at, count);
    infer__ngram_rows(c, st, base, cur->at, count);
    return 1;
}

enum { INFER__SLICE_ROWS = 16 }; /* of a pass in slices, at least */

/* Maximum rows of the next pass: in slices, as many as a layer can process in a quarter of one. */
static int32_t infer__pass_rows(const infer_context *c, const infer_session *s) {
    double rows = INFER__SLICE_ROWS;
    if (!(c->slice > 0) || !c->places[INFER__ON_CPU].used || infer__session_whole(s)) return c->plan.batch;
    if (c->row_seconds > 0) rows = INFER__MAX(rows, c->slice / 4 / c->row_seconds);
    return (int32_t)INFER__MIN(rows, (double)c->plan.batch);
}

static infer_result infer__pass_run(infer_context *c, infer_error *err) {
    double began;
    if (c->places[INFER__ON_CPU].used) { /* weights are read where the file is mapped */
        infer_result r = infer__gguf_whole(&c->model->gguf, err);
        if (r != INFER_OK) return r;
    }
    if (c->model->parts > 1 && !infer__follows(c->model) && infer__atomic_get(&c->cancel) > c->ctx.cancel_seen)
        return infer__error(err, INFER_CANCELLED, "cancelled"); /* before it is shared, and not in between */
    infer__turn_take(c);
    began = infer__seconds();
    if (!c->resume) c->pass_seconds = 0;
    infer__forward(c);
    c->pass_seconds += infer__seconds() - began;
    if (c->resume) {
        infer__turn_give(c);
        return INFER_MORE;
    }
    if (c->ctx.pass.n_rows >= INFER__SLICE_ROWS) {
        const double each = c->pass_seconds / c->ctx.pass.n_rows / c->model->hp.n_layer;
        c->row_seconds = c->row_seconds > 0 ? 0.75 * c->row_seconds + 0.25 * each : each;
    }
    if (infer__ok(&c->ctx) && !infer__results_finite(c)) { /* find out where it began */
        c->checking = c->model->parts == 1; /* parts do not see it */
        if (c->checking) infer__forward(c);
        c->checking = 0;
        if (infer__ok(&c->ctx))
            infer__fail(&c->ctx, INFER_ERR_STATE, "the output head gives logits that are not finite");
    }
    infer__turn_give(c);
    if (infer__ok(&c->ctx)) return INFER_OK;
    return infer__error(err, c->ctx.error.code, "%s", c->ctx.error.message);
}

/* The next pass: at most `batch` rows, n_seq sessions. */
static infer_result infer__pass_fill(infer_context *c, infer__pass_cursor *cur, infer_error *err) {
    const int32_t batch = infer__pass_rows(c, cur->steps[cur->step].session);
    c->encodes = cur->steps[cur->step].session->encodes; /* the same in all: source.c, embed.c */
    infer__pass_begin(c);
    c->trace = NULL;
    while (cur->step < cur->n && c->ctx.pass.n_rows < batch && c->ctx.pass.n_seq < c->plan.n_seq) {
        const infer_step *st = &cur->steps[cur->step];
        int32_t count = INFER__MIN(st->n - cur->at, batch - c->ctx.pass.n_rows);
        const int32_t every = c->plan.snapshot_every;
        if (infer__session_whole(st->session) && count < st->n) break; /* in the next pass */
        if (infer__cells_used(c)) /* a kept state is one between passes */
            count = INFER__MIN(count, every - (st->session->n_valid + cur->at) % every);
        count = infer__spans_fit(st->session, st->session->n_valid + cur->at, count, c->ctx.pass.n_rows == 0);
        if (count == 0) break;
        if (!infer__pass_add(c, cur, count))
            return infer__ok(&c->ctx) ? infer__error(err, INFER_CONTEXT_FULL,
                                                     "the context's cache of %d cells is full", (int)c->plan.cells)
                                      : infer__error(err, c->ctx.error.code, "%s", c->ctx.error.message);
        if (st->session->trace) {
            c->trace = st->session->trace;
            c->trace_user = st->session->trace_user;
        }
        cur->at += count;
        cur->done += count;
        if (cur->at < st->n) break; /* a session is in a pass once */
        cur->step++;
        cur->at = 0;
    }
    infer__spans_use(c);
    infer__results_choose(c, cur->step == cur->n);
    return INFER_OK;
}

/* Evaluate all tokens of the steps, in passes. INFER_MORE: the slice is over within one, and the same call goes on. */
static infer_result infer__passes(infer_context *c, infer__pass_cursor *cur, infer_error *err) {
    while (cur->step < cur->n || c->resume) {
        infer_result r = c->resume ? INFER_OK : infer__pass_fill(c, cur, err);
        int32_t i;
        if (!r) r = infer__pass_run(c, err);
        if (r) return r;
        infer__results_keep(c);
        for (i = 0; i < c->ctx.pass.n_seq; i++) infer__cells_passed(c, c->active[i]);
        for (i = 0; i < c->ctx.pass.n_seq; i++) {
            infer_session *s = c->active[i];
            if (s->progress && s->progress(s->progress_user, (float)((double)cur->done / (double)cur->total)))
                return infer__error(err, INFER_CANCELLED, "cancelled by the progress callback");
        }
    }
    return INFER_OK;
}

/* Recompute the positions that are missing after a rewind beyond the kept window. INFER_MORE as in infer__passes. */
static infer_result infer__catch_up(infer_context *c, infer_session *s, infer_error *err) {
    infer_step *st = &c->behind_step;
    infer__pass_cursor *cur = &c->behind;
    infer_result r;
    if (!c->resume) {
        if (s->n_valid == s->n) return INFER_OK;
        memset(st, 0, sizeof *st);
        memset(cur, 0, sizeof *cur);
        st->session = s;
        st->tokens = s->tokens + s->n_valid;
        st->n = s->n - s->n_valid;
        cur->steps = st;
        cur->n = 1;
        cur->total = st->n;
    }
    r = infer__passes(c, cur, err);
    if (r) return r;
    infer__cells_commit(c, s, st->n);
    s->n_valid = s->n;
    s->stats.reevaluated += (uint64_t)st->n;
    return INFER_OK;
}

/* After a failure: put the session back to s->n. If a window has dropped pages that this needs, the next eval
 * recomputes them from the tokens, or is refused when some were embeddings (infer__session_lost). */
static void infer__session_settle(infer_context *c, infer_session *s) {
    s->out_n = 0;
    infer__results_drop(s);
    infer__spans_cut(s, s->n);
    infer__cells_settle(c, s);
    if (infer__cache_has(c, s, s->n_valid)) {
        infer__cache_cut(c, s, s->n_valid);
    } else {
        infer__cells_cut(c, s, 0);
        infer__cache_cut(c, s, 0);
        s->n_valid = 0;
    }
}

static void infer__session_commit(infer_session *s, const infer_step *st, double seconds) {
    int32_t i;
    infer__adapters_commit(s, st);
    for (i = 0; i < st->n; i++) s->tokens[s->n + i] = st->tokens ? st->tokens[i] : -1;
    infer__cells_commit(s->context, s, st->n);
    s->n += st->n;
    s->n_valid = s->n;
    s->out_n = st->n;
    s->all_wanted = 0;
    s->out_first_logits = infer__logits_first(st);
    s->out_first_hidden = infer__hidden_first(st);
    if (st->n > 1 && !s->drafts) {
        s->stats.prompt_tokens += (uint64_t)st->n;
        s->stats.prompt_seconds += seconds;
    } else {
        s->stats.new_tokens++;
        s->stats.new_seconds += seconds;
    }
}

static infer_result infer__steps_run(infer_context *c, const infer_step *steps, int32_t n, infer_error *err) {
    infer__pass_cursor *cur = &c->cursor;
    infer_result r = INFER_OK;
    const double start = infer__seconds();
    int32_t i;
    if (!c->resume) {
        memset(cur, 0, sizeof *cur);
        for (i = 0; i < n; i++) cur->total += steps[i].n;
    }
    cur->steps = steps;
    cur->n = n;
    while (cur->behind < n && !r) {
        r = infer__catch_up(c, steps[cur->behind].session, err);
        if (!r) cur->behind++;
    }
    if (!r) r = infer__passes(c, cur, err);
    cur->seconds += infer__seconds() - start;
    if (r == INFER_MORE) return r;
    for (i = 0; i < n; i++) {
        if (r) infer__session_settle(c, steps[i].session);
        else infer__session_commit(steps[i].session, &steps[i], cur->seconds);
    }
    return r;
}

/* The session that callers know: of a source the one that answers it. */
static infer_session *infer__step_caller(const infer_step *st) {
    return st->session->owner ? st->session->owner : st->session;
}

static void infer__eval_end(infer_context *c, const infer_step *steps, int32_t n) {
    int32_t i;
    for (i = 0; i < n; i++) infer__atomic_set(&infer__step_caller(&steps[i])->eval, 0);
    c->ctx.cancel_seen = infer__atomic_get(&c->calls); /* ops outside an eval are not cancelled */
}

static infer_result infer__eval_begin(infer_context *c, const infer_step *steps, int32_t n, infer_error *err) {
    const int64_t number = infer__atomic_get(&c->calls);
    infer_result r = INFER_OK;
    int32_t i;
    for (i = 0; i < n && !r; i++) r = infer__step_check(c, steps, i, err);
    if (!r) r = infer__steps_reserve(c, steps, n, err);
    for (i = 0; i < n && !r; i++) r = infer__spans_take(&steps[i], err);
    for (i = 0; i < n && r; i++)
        if (steps[i].session && steps[i].session->context == c) infer__spans_cut(steps[i].session, steps[i].session->n);
    c->ctx.bytes_up = c->ctx.bytes_down = c->ctx.launches = c->ctx.syncs = 0;
    while (!r && c->n_kept > 0) r = infer__results_bring(c->kept[0], err); /* of others: they are overwritten */
    if (r) return r;
    c->ctx.cancel_seen = number - 1;
    for (i = 0; i < n; i++) infer__atomic_set(&infer__step_caller(&steps[i])->eval, number);
    for (i = 0; i < n && !r; i++)
        if (infer__session_cancelled(infer__step_caller(&steps[i])))
            r = infer__error(err, INFER_CANCELLED, "cancelled");
    if (r) infer__eval_end(c, steps, n);
    return r;
}

/* The context and the sessions are claimed. */
static infer_result infer__eval_steps(infer_context *c, const infer_step *steps, int32_t n, infer_error *err) {
    infer_result r = INFER_OK;
    if (!c->resume && (r = infer__weights_hold(c->model, err)) != INFER_OK) return r;
    if (!c->resume && (r = infer__eval_begin(c, steps, n, err)) != INFER_OK) {
        infer__weights_let(c->model);
        return r;
    }
    r = infer__steps_run(c, steps, n, err);
    if (r == INFER_MORE) return r;
    infer__eval_end(c, steps, n);
    infer__weights_let(c->model);
    return r;
}

/* Abandon an eval between slices: each session is where it was before; then the eval is over. */
static void infer__eval_stand(infer_context *c, infer_session *s) {
    c->resume = c->stage = c->head_at = c->head_row = 0;
    infer__session_settle(c, s);
    infer__atomic_set(&(s->owner ? s->owner : s)->eval, 0);
}

static void infer__eval_over(infer_context *c) {
    infer__eval_end(c, NULL, 0);
    infer__weights_let(c->model);
}

static void infer__eval_drop(infer_context *c) {
    int32_t i;
    for (i = 0; i < c->cursor.n; i++) infer__eval_stand(c, c->cursor.steps[i].session);
    infer__eval_over(c);
}

static infer_result infer__session_eval(infer_session *s, const infer_token *tokens, int32_t n) {
    return infer__session_eval_as(s, tokens, n, INFER_OUT_LAST);
}

static infer_result infer__session_eval_as(infer_session *s, const infer_token *tokens, int32_t n, int32_t outputs) {
    infer_error e; /* the session's own changes at the end, as every result does */
    infer_result r = INFER_OK;
    infer__error_clear(&e);
    if (!s->paused) {
        memset(&s->step, 0, sizeof s->step);
        s->step.session = s;
        s->step.tokens = tokens;
        s->step.n = n;
        s->step.outputs = outputs;
        r = infer__context_claim(s->context, "infer_session_eval", &e);
    }
    if (r == INFER_OK) r = infer__session_slice(s, s->until, &e);
    if (r != INFER_MORE) s->error = e;
    return r;
}

static void infer__slice_begin(infer_context *c, double until) {
    c->pause = until;
    c->slice = until != 0 ? INFER__MAX(until - infer__seconds(), 1e-9) : 0;
}

static infer_result infer__session_slice(infer_session *s, double until, infer_error *err) {
    infer_context *c = s->context;
    infer_result r;
    infer__slice_begin(c, until);
    r = infer__eval_steps(c, &s->step, 1, err);
    infer__slice_begin(c, 0);
    s->paused = r == INFER_MORE;
    if (!s->paused) infer__context_leave(c);
    return r;
}

static void infer__session_stop(infer_session *s) {
    if (!s->paused) return;
    infer__eval_drop(s->context);
    s->paused = s->drafts = 0;
    infer__context_leave(s->context);
}
