/* state.c: rewind, sync, fork, save and load of sessions. increments.c saves incrementally.
 *
 * Saved form (machine byte order, checked by a marker): a header of 17 uint32, the tokens (and those of a source), runs
 * of positions with the same adapters (three uint32 each: see infer__adapters_words), those of media
 * (infer__spans_words, five each), then for every layer its pages of
 * keys and of values in order of position, or its recurrent state after the last one, and a 64-bit FNV-1a sum of all of
 * it. Pages are saved as rows, position by position, wherever the layer runs. Loaded bytes are not trusted: everything
 * is checked before the session changes. The sum detects damage, not forgery: a forged state can contain wrong keys and
 * values, tokens and lengths, but never cause a read of memory that the state did not fill. So every position is either
 * in the cache, whole pages of which are loaded, or has a token from which it can be computed again.
 */
#include "../model.h"

/* The context is claimed too. */
static infer_result infer__session_cut(infer_session *session, int32_t n) {
    infer_context *c = session->context;
    int32_t i, pos;
    infer__error_clear(&session->error);
    if (n < 0 || n > session->n)
        return infer__error(&session->error, INFER_ERR_ARGUMENT, "infer_session_rewind: %d is outside 0..%d", (int)n,
                            (int)session->n);
    if (infer__span_start(session, n) != n && n < session->n)
        return infer__error(&session->error, INFER_ERR_ARGUMENT,
                            "infer_session_rewind: position %d is inside a picture or sound, which begins at %d",
                            (int)n, (int)infer__span_start(session, n));
    session->out_n = 0;
    infer__results_drop(session);
    pos = infer__cells_back(c, session, n);
    for (i = pos; i < n; i++)
        if (session->tokens[i] < 0 && !infer__span_rows(session, i))
            return infer__error(&session->error, INFER_ERR_STATE,
                                "infer_session_rewind: position %d was given as an embedding and "
                                "cannot be computed again",
                                (int)i);
    infer__cells_cut(c, session, pos);
    session->n = n;
    infer__adapters_cut(session, n);
    infer__spans_cut(session, n);
    session->n_valid = pos; /* the next eval computes the rest again */
    infer__cache_cut(c, session, pos);
    return INFER_OK;
}

static infer_result infer__session_rewind(infer_session *s, int32_t n) {
    infer_result r = infer__context_claim(s->context, "infer_session_rewind", &s->error);
    if (r != INFER_OK) return r;
    r = infer__session_cut(s, n);
    infer__context_leave(s->context);
    return r;
}

static infer_result infer__session_take_back(infer_session *s) {
    const int32_t rows = s->out_n - s->ahead, n = s->n - s->ahead;
    infer_result r;
    if (!s->ahead) return INFER_OK;
    s->ahead = 0;
    r = infer__session_rewind(s, n);
    if (r == INFER_OK) s->out_n = rows;
    return r;
}

static infer_result infer__session_sync(infer_session *session, const infer_token *tokens, int32_t n, int32_t *kept) {
    int32_t same = 0;
    infer_result r;
    if (session->paused) return infer__session_eval(session, NULL, 0); /* what is left of it */
    if (n < 1 || !tokens)
        return infer__error(&session->error, INFER_ERR_ARGUMENT, "infer_session_sync: %s",
                            n < 1 ? "no tokens" : "tokens is NULL");
    if (n > session->cap)
        return infer__error(&session->error, INFER_CONTEXT_FULL, "%d tokens do not fit a context of %d", (int)n,
                            (int)session->cap);
    while (same < n - 1 && same < session->n && session->tokens[same] == tokens[same])
        same++; /* the last is evaluated for logits */
    same = infer__span_start(session, same);
    r = infer__session_rewind(session, same);
    if (r) return r;
    if (kept) *kept = session->n_valid;
    return infer__session_eval(session, tokens + same, n - same);
}

/* The session and its context are claimed. */
static infer_result infer__session_fork(infer_session **out, const infer_session *session, infer_error *err) {
    infer_session_params p;
    infer_session *s = NULL;
    infer_result r;
    memset(&p, 0, sizeof p);
    p.context = session->cap;
    p.progress = session->progress;
    p.progress_user = session->progress_user;
    p.trace = session->trace;
    p.trace_user = session->trace_user;
    r = infer__session_make(&s, session->context, &p, err);
    if (r) return r;
    s->n = session->n;
    s->n_valid = session->n_valid;
    s->saved = session->saved;
    s->saved_to = session->saved_to;
    s->saved_n = session->saved_n;
    memcpy(s->tokens, session->tokens, (size_t)session->n * sizeof *s->tokens);
    if (INFER__HAS_DRAFTS && s->further) infer__further_fork(s, session);
    infer__cache_share(session->context, s, session);
    infer__cells_share(session->context, s, session);
    r = infer__adapters_fork(s, session) && infer__spans_fork(s, session) ? infer__source_fork(s, session)
                                         : infer__error(&s->error, INFER_ERR_MEMORY, "no memory for a session");
    if (r) {
        if (err) *err = s->error;
        infer__session_free(s);
        return r;
    }
    *out = s;
    return INFER_OK;
}

/* ---- save and load ----------------------------------------------------------------------------------------------- */

enum { INFER__STATE_WORDS = 17, INFER__STATE_VERSION = 3 };

/* A hash that differs between models with incompatible caches. */
static uint64_t infer__model_print(const infer_model *m) {
    uint64_t h = infer__fnv(INFER__FNV, m->arch_name, strlen(m->arch_name));
    int32_t i;
    h = infer__fnv(h, &m->n_params, sizeof m->n_params);
    for (i = 0; i < m->n_states; i++) {
        const infer__state *s = &m->states[i];
        if (s->kind != INFER__STATE_RECURRENT && !s->every) continue;
        if (s->every) h = infer__fnv(h, &s->every, sizeof s->every);
        h = infer__fnv(h, &s->layer, sizeof s->layer);
        h = infer__fnv(h, &s->n_head, sizeof s->n_head);
        h = infer__fnv(h, &s->dim, sizeof s->dim);
    }
    for (i = 0; i < m->hp.n_layer; i++) {
        const infer__layer *l = &m->layers[i];
        int32_t v[4];
        v[0] = l->n_head_kv;
        v[1] = l->dim_k;
        v[2] = l->dim_v;
        v[3] = l->window;
        h = infer__fnv(h, v, sizeof v);
    }
    return m->hp.n_predict ? infer__fnv(h, &m->hp.n_predict, sizeof m->hp.n_predict) : h;
}

/* 1 when the session's keys are rotated by the frequencies of an extended context (LongRoPE), and those differ. */
static uint32_t infer__state_extended(const infer_session *s) {
    const infer_model *m = s->context->model;
    uint32_t differ = 0;
    int32_t i;
    for (i = 0; i < INFER__ROPE_SETS; i++) {
        const infer__buf *freq = &m->ropes[i].freq;
        differ |=
            freq->host && memcmp(freq->host, (const char *)freq->host + freq->bytes / 2, (size_t)(freq->bytes / 2));
    }
    return differ && s->cap > m->hp.rope_ctx;
}

static void infer__state_header(const infer_session *s, uint32_t w[INFER__STATE_WORDS]) {
    const infer_context *c = s->context;
    uint64_t print = infer__model_print(c->model);
    memset(w, 0, INFER__STATE_WORDS * sizeof *w);
    memcpy(w, "INFERSS", 8);
    w[2] = 0x01020304u;
    w[3] = INFER__STATE_VERSION;
    w[4] = (uint32_t)c->plan.kv_type;
    w[5] = (uint32_t)print;
    w[6] = (uint32_t)(print >> 32);
    w[7] = (uint32_t)s->n;
    w[8] = (uint32_t)s->n_valid;
    w[9] = (uint32_t)s->first_page[0];
    w[10] = (uint32_t)s->first_page[1];
    w[11] = infer__state_extended(s);
    w[12] = s->source ? (uint32_t)s->source->n : 0;
    w[13] = (uint32_t)s->n_adapted;
    w[14] = (uint32_t)c->model->weights_print;
    w[15] = (uint32_t)(c->model->weights_print >> 32);
    w[16] = (uint32_t)s->n_spans;
}

/* Zero the positions after the last one, `end`, in page i of a slot, [head][row][dim], so that old memory is not
 * written out. */
static void infer__page_clear_tail(char *page, uint64_t bytes, int32_t i, int32_t end, const infer__state *s) {
    const int32_t rows = infer__page_rows(s->every), first = i * INFER__PAGE;
    const int32_t used = infer__rows_before(s->every, INFER__MIN(end, first + INFER__PAGE)) -
                         infer__rows_before(s->every, first);
    uint64_t head = bytes / (uint64_t)s->n_head, row = head / (uint64_t)rows;
    int32_t h;
    for (h = 0; h < s->n_head; h++)
        memset(page + (uint64_t)h * head + (uint64_t)used * row, 0, (size_t)((uint64_t)(rows - used) * row));
}

typedef struct infer__state_out {
    infer_write_fn write;
    void *user;
    uint64_t sum, bytes;
    int32_t failed;
} infer__state_out;
static void infer__state_put(infer__state_out *o, const void *data, uint64_t n) {
    if (o->failed || n == 0) return;
    o->sum = infer__fnv(o->sum, data, n);
    o->bytes += n;
    if (o->write(o->user, data, (size_t)n) != n) o->failed = 1;
}

static void infer__spans_put(const infer_session *s, infer__state_out *o) {
    uint32_t words[INFER__SPAN_WORDS];
    int32_t i;
    for (i = 0; i < s->n_spans; i++) {
        infer__span_words(&s->spans[i], words);
        infer__state_put(o, words, sizeof words);
    }
}

/* Bytes of a page of a slot, and of the largest one. */
static uint64_t infer__page_of_state(const infer_context *c, int32_t state) {
    return infer__page_bytes(c->plan.kv_type, &c->model->states[state]);
}
static uint64_t infer__page_most(const infer_context *c) {
    uint64_t most = 0;
    int32_t s;
    for (s = 0; s < c->model->n_states; s++) most = INFER__MAX(most, infer__page_of_state(c, s));
    return most;
}

/* 1 for a slot that is saved: not those of an encoder, which loading encodes again. */
static int infer__state_saved(const infer_model *m, int32_t state) {
    return !m->states[state].source && m->states[state].layer >= m->hp.n_enc;
}

/* Slots are saved in runs: those of one layer and group have their first pages side by side, then the second, ... */
static int32_t infer__states_run(const infer_model *m, int32_t first) {
    int32_t s = first;
    while (s < m->n_states && m->states[s].layer == m->states[first].layer &&
           m->states[s].group == m->states[first].group && m->states[s].source == m->states[first].source)
        s++;
    return s;
}

/* A page of a slot to or from rows, position by position. */
static void infer__page_move(infer_context *c, int32_t state, int32_t page, char *rows, char *spare, int out) {
    const infer__state *s = &c->model->states[state];
    infer__kv_page_args a;
    if (!infer__state_here(c->model, state) || (c->share && !out)) infer__rest_move(c, state, page, rows, out);
    if (!infer__state_here(c->model, state)) return;
    a.buf = &c->cache.bufs[state];
    a.page = page;
    a.n_head = s->n_head;
    a.dim = s->dim;
    a.keys = s->kind == INFER__STATE_KEYS;
    a.every = s->every;
    a.rows = rows;
    a.spare = spare;
    if (out) infer__state_ops(c, state)->kv_export(&c->ctx, &a);
    else infer__state_ops(c, state)->kv_import(&c->ctx, &a);
}

/* The session's state in a recurrent slot, to or from the host. */
static void infer__cell_move(infer_context *c, int32_t state, int32_t cell, char *data, int out) {
    const infer__ops *ops = infer__state_ops(c, state);
    uint64_t n = infer__page_of_state(c, state);
    if (!infer__state_here(c->model, state) || (c->share && !out)) infer__rest_move(c, state, cell, data, out);
    if (!infer__state_here(c->model, state)) return;
    if (!out) {
        ops->upload(&c->ctx, &c->cache.bufs[state].buf, (uint64_t)cell * n, data, n);
        return;
    }
    ops->download(&c->ctx, &c->cache.bufs[state].buf, (uint64_t)cell * n, data, n);
    ops->sync(&c->ctx);
}

static infer_result infer__save_check(infer_session *s, const char *call) {
    int32_t lost = s->n_valid; /* also rows of media, which are not saved */
    while (lost < s->n && s->tokens[lost] >= 0) lost++;
    if (s->context->model->hp.encoder)
        return infer__error(&s->error, INFER_ERR_UNSUPPORTED, "%s: an encoder keeps nothing", call);
    if (lost == s->n) return INFER_OK;
    return infer__error(&s->error, INFER_ERR_STATE,
                        "%s: position %d was given as an embedding and is not in the cache any more", call, (int)lost);
}

/* As infer_session_save; the session and its context are claimed. */
static infer_result infer__session_save(infer_session *session, infer_write_fn write, void *user) {
    infer__state_out o;
    infer_context *c;
    uint32_t header[INFER__STATE_WORDS];
    uint64_t most;
    char *page, *spare;
    int32_t s, e, i, k, pages;
    infer_result r;
    infer__error_clear(&session->error);
    if (!write) return infer__error(&session->error, INFER_ERR_ARGUMENT, "infer_session_save: write is NULL");
    c = session->context;
    if ((r = infer__save_check(session, "infer_session_save")) != INFER_OK) return r;
    most = infer__page_most(c);
    page = (char *)infer__alloc(c->ctx.mem, 2 * most);
    if (!page) return infer__error(&session->error, INFER_ERR_MEMORY, "infer_session_save: no memory for a page");
    spare = page + most;
    o.write = write;
    o.user = user;
    o.sum = INFER__FNV;
    o.bytes = 0;
    o.failed = 0;
    infer__error_clear(&c->ctx.error);
    infer__state_header(session, header);
    infer__state_put(&o, header, sizeof header);
    infer__state_put(&o, session->tokens, (uint64_t)session->n * sizeof *session->tokens);
    if (header[12]) infer__state_put(&o, session->source->tokens, header[12] * sizeof *session->tokens);
    for (i = 0; i < session->n_adapted; i++) {
        uint32_t words[INFER__ADAPTED_WORDS];
        infer__adapters_words(&session->adapted[i], words);
        infer__state_put(&o, words, sizeof words);
    }
    infer__spans_put(session, &o);
    pages = (session->n_valid + INFER__PAGE - 1) / INFER__PAGE;
    for (s = 0; s < c->model->n_states; s = e) {
        int32_t group = c->model->states[s].group;
        e = infer__states_run(c->model, s);
        if (!infer__state_saved(c->model, s)) continue;
        if (group == INFER__GROUP_CELLS) {
            for (k = s; k < e && session->n_valid > 0; k++) {
                infer__cell_move(c, k, session->cell, page, 1);
                infer__state_put(&o, page, infer__page_of_state(c, k));
            }
            continue;
        }
        for (i = session->first_page[group]; i < pages; i++)
            for (k = s; k < e; k++) {
                infer__page_move(c, k, session->pages[group][i], page, spare, 1);
                infer__page_clear_tail(page, infer__page_of_state(c, k), i, session->n_valid, &c->model->states[k]);
                infer__state_put(&o, page, infer__page_of_state(c, k));
            }
    }
    infer__free(c->ctx.mem, page);
    if (!infer__ok(&c->ctx))
        return infer__error(&session->error, c->ctx.error.code, "infer_session_save: %s", c->ctx.error.message);
    if (!o.failed && write(user, &o.sum, sizeof o.sum) != sizeof o.sum) o.failed = 1;
    if (o.failed)
        return infer__error(&session->error, INFER_ERR_IO, "infer_session_save: the callback wrote too little");
    return INFER_OK;
}

/* A loaded and checked state, before it is applied to a session. A slot has its pages from first_page on, stride bytes
 * apart, as rows; a recurrent one its state. */
typedef struct infer__state_slot { char *p; uint64_t stride; } infer__state_slot;
typedef struct infer__state_image {
    uint32_t w[INFER__STATE_WORDS];
    char *tokens, *source, *runs, *spans; /* w[7] and w[12] tokens, w[13] runs of adapters, w[16] of media */
    infer__state_slot *slots;     /* n_states */
    char *spare;                  /* a page */
} infer__state_image;

/* Pages up to the last position in the cache. */
static int32_t infer__state_pages(const uint32_t *w) { return (int32_t)((w[8] + INFER__PAGE - 1) / INFER__PAGE); }

/* Is this a header of a state that fits this session? */
static infer_result infer__state_check(infer_session *s, const uint32_t *w) {
    const infer_context *c = s->context;
    uint32_t want[INFER__STATE_WORDS];
    int32_t g;
    infer__state_header(s, want);
    if (memcmp(w, want, 8) != 0 || w[2] != want[2])
        return infer__error(&s->error, INFER_ERR_FORMAT,
                            "infer_session_load: not a saved session of a machine like this");
    if (w[3] != want[3])
        return infer__error(&s->error, INFER_ERR_UNSUPPORTED, "infer_session_load: version %u", (unsigned)w[3]);
    if (w[4] != want[4] || w[5] != want[5] || w[6] != want[6])
        return infer__error(&s->error, INFER_ERR_ARGUMENT, "infer_session_load: saved with another %s",
                            w[4] != want[4] ? "kv_type" : "model");
    if (w[14] != want[14] || w[15] != want[15])
        return infer__error(&s->error, INFER_ERR_ARGUMENT,
                            "infer_session_load: saved with another model, of the same shape: its weights are others");
    if (w[7] > (uint32_t)s->cap)
        return infer__error(&s->error, INFER_CONTEXT_FULL, "infer_session_load: %u tokens do not fit a context of %d",
                            (unsigned)w[7], (int)s->cap);
    if (w[11] != want[11])
        return infer__error(&s->error, INFER_ERR_ARGUMENT,
                            "infer_session_load: saved with a context of %s %d positions, "
                            "which this model rotates otherwise",
                            w[11] ? "more than" : "at most", (int)c->model->hp.rope_ctx);
    if (w[12] > (c->model->hp.n_enc ? (uint32_t)INFER__MIN(s->cap, c->plan.batch) : 0) ||
        (!w[12] && c->model->hp.n_enc && w[7]))
        return infer__error(&s->error, INFER_ERR_FORMAT,
                            "infer_session_load: word 12, the length of the source, is %u", (unsigned)w[12]);
    if (w[13] > w[7])
        return infer__error(&s->error, INFER_ERR_FORMAT, "infer_session_load: word 13, runs of adapters, is %u",
                            (unsigned)w[13]);
    if (w[16] > w[7])
        return infer__error(&s->error, INFER_ERR_FORMAT, "infer_session_load: word 16, runs of media, is %u",
                            (unsigned)w[16]);
    if (w[16] && !INFER__HAS_MEDIA) return infer__left_out(&s->error, "pictures and sound", "INFER_NO_MEDIA");
    if (w[8] > w[7]) /* w[7] is at most cap, 2^30 */
        return infer__error(&s->error, INFER_ERR_FORMAT, "infer_session_load: %u of %u tokens are in the cache",
                            (unsigned)w[8], (unsigned)w[7]);
    for (g = 0; g < INFER__CACHE_GROUPS; g++) { /* what the next position sees must be there */
        const infer__cache_group *grp = &c->cache.groups[g];
        int32_t low = grp->window ? (int32_t)w[8] - grp->window + 1 : 0, pages = infer__state_pages(w);
        if (w[9 + g] > (uint32_t)(INFER__MAX(low, 0) / INFER__PAGE))
            return infer__error(&s->error, INFER_ERR_FORMAT,
                                "infer_session_load: the cache begins at page %u, too late "
                                "for position %u",
                                (unsigned)w[9 + g], (unsigned)w[8]);
        if (grp->n_pages && pages - (int32_t)w[9 + g] > grp->n_pages)
            return infer__error(&s->error, INFER_CONTEXT_FULL, "infer_session_load: %d pages do not fit a cache of %d",
                                (int)(pages - (int32_t)w[9 + g]), (int)grp->n_pages);
    }
    return INFER_OK;
}

/* Bytes of tokens and pages after a checked header. */
static uint64_t infer__state_size(const infer_session *s, const uint32_t *w) {
    const infer_context *c = s->context;
    uint64_t n = ((uint64_t)w[7] + w[12]) * sizeof(infer_token) +
                 ((uint64_t)w[13] * INFER__ADAPTED_WORDS + (uint64_t)w[16] * INFER__SPAN_WORDS) * sizeof(uint32_t),
             pages = (uint64_t)infer__state_pages(w);
    int32_t k;
    for (k = 0; k < c->model->n_states; k++) {
        int32_t group = c->model->states[k].group;
        if (!infer__state_saved(c->model, k)) continue;
        n += infer__page_of_state(c, k) * (group == INFER__GROUP_CELLS ? w[8] > 0 : pages - w[9 + group]);
    }
    return n;
}

/* Everything is read and checked: make it the session's state. */
static infer_result infer__state_apply(infer_session *s, const infer__state_image *image) {
    const uint32_t *w = image->w;
    infer_context *c = s->context;
    int32_t g, i, k, from, to, pages = infer__state_pages(w);
    for (g = 0; g < INFER__CACHE_GROUPS; g++) {
        int32_t own = 0;
        for (i = 0; c->cache.groups[g].n_pages && i < c->plan.max_pages; i++)
            own += s->pages[g][i] >= 0 && c->cache.groups[g].refs[s->pages[g][i]] == 1;
        if (c->cache.groups[g].n_pages && pages - (int32_t)w[9 + g] > c->cache.groups[g].n_free + own)
            return infer__error(&s->error, INFER_CONTEXT_FULL, "infer_session_load: the context's cache is full");
    }
    if (w[8] > 0 && !infer__cells_room(c, s))
        return infer__error(&s->error, INFER_CONTEXT_FULL, "infer_session_load: no room for the recurrent state");
    infer__error_clear(&c->ctx.error);
    infer__cells_cut(c, s, 0);
    infer__cache_cut(c, s, 0);
    if (infer__cells_used(c) && w[8] > 0) s->cell = infer__page_take(c, INFER__GROUP_CELLS);
    for (g = 0; g < INFER__CACHE_GROUPS; g++) {
        if (!c->cache.groups[g].n_pages) continue;
        s->first_page[g] = (int32_t)w[9 + g];
        for (i = s->first_page[g]; i < pages; i++) s->pages[g][i] = infer__page_take(c, g);
    }
    s->n = (int32_t)w[7];
    s->n_valid = (int32_t)w[8];
    s->out_n = s->further_n = 0;
    infer__results_drop(s);
    if (s->n) memcpy(s->tokens, image->tokens, (size_t)s->n * sizeof *s->tokens);
    for (from = 0; from < c->model->n_states; from = to) {
        int32_t group = c->model->states[from].group;
        to = infer__states_run(c->model, from);
        if (!infer__state_saved(c->model, from)) continue;
        if (group == INFER__GROUP_CELLS) {
            for (k = from; k < to && s->n_valid > 0; k++) infer__cell_move(c, k, s->cell, image->slots[k].p, 0);
            continue;
        }
        for (i = s->first_page[group]; i < pages; i++)
            for (k = from; k < to; k++)
                infer__page_move(c, k, s->pages[group][i],
                                 image->slots[k].p + (uint64_t)(i - s->first_page[group]) * image->slots[k].stride,
                                 image->spare, 0);
    }
    for (i = 0; i < INFER__PLACES; i++)
        if (infer__enter(c, i)) infer__ops_of(&c->ctx)->sync(&c->ctx);
    if (infer__ok(&c->ctx)) return INFER_OK;
    infer__cells_cut(c, s, 0); /* a device failed: the old state is lost */
    infer__cache_cut(c, s, 0);
    infer__adapters_cut(s, 0);
    infer__spans_cut(s, 0);
    s->n = s->n_valid = 0;
    return infer__error(&s->error, c->ctx.error.code, "infer_session_load: %s", c->ctx.error.message);
}

static infer_result infer__state_tokens_check(infer_session *s, const char *tokens, const uint32_t *w, uint32_t first,
                                              uint32_t n) {
    infer_token t;
    uint32_t i;
    for (i = first; i < first + n; i++) {
        memcpy(&t, tokens + (size_t)(i - first) * sizeof t, sizeof t);
        if (t >= s->context->model->hp.n_vocab)
            return infer__error(&s->error, INFER_ERR_FORMAT, "infer_session_load: token %u is %d", (unsigned)i,
                                (int)t);
        if (t < 0 && (i >= w[8] || i >= w[7]))
            return infer__error(&s->error, INFER_ERR_FORMAT,
                                "infer_session_load: position %u was given as an embedding "
                                "and is not in the cache",
                                (unsigned)i);
    }
    return INFER_OK;
}

/* The spans of a loaded state, NULL when it has none: they must be the positions of tokens below -1, and what is whole
 * must be there to its end. */
static infer_result infer__spans_find(infer_session *s, const infer__state_image *image, infer__media_span **out) {
    const uint32_t n = image->w[16], end = image->w[7];
    infer__media_span *spans = NULL;
    uint32_t words[INFER__SPAN_WORDS], i, k, pos = 0;
    infer_token t;
    if (n && !(spans = (infer__media_span *)infer__calloc(s->context->ctx.mem, n, sizeof *spans)))
        return infer__error(&s->error, INFER_ERR_MEMORY, "infer_session_load: no memory for pictures' places");
    for (i = 0; i <= n; i++) {
        if (i < n) {
            memcpy(words, image->spans + (size_t)i * sizeof words, sizeof words);
            if (words[0] < pos || words[0] >= end || !infer__span_of(&spans[i], words)) break;
        }
        for (k = pos; k < (i < n ? words[0] : end); k++) {
            memcpy(&t, image->tokens + (size_t)k * sizeof t, sizeof t);
            if (t >= -1) continue;
            infer__free(s->context->ctx.mem, spans);
            return infer__error(&s->error, INFER_ERR_FORMAT, "infer_session_load: token %u is %d", (unsigned)k, (int)t);
        }
        if (i == n) continue;
        pos = words[0] + words[1]; /* each below 2^30 */
        if (spans[i].whole && pos > end) break;
        for (pos = INFER__MIN(pos, end), t = -2; k < pos && t < -1; k++)
            memcpy(&t, image->tokens + (size_t)k * sizeof t, sizeof t);
        if (t >= -1) break;
    }
    if (i > n) {
        *out = spans;
        return INFER_OK;
    }
    infer__free(s->context->ctx.mem, spans);
    return infer__error(&s->error, INFER_ERR_FORMAT, "infer_session_load: run of media %u does not fit the tokens",
                        (unsigned)i);
}

static infer_result infer__state_take(infer_session *session, const infer__state_image *image) {
    infer_context *c = session->context;
    const uint32_t *w = image->w;
    infer__adapted *runs = NULL;
    infer__media_span *spans = NULL;
    infer_result r = infer__state_tokens_check(session, image->tokens, w, 0, w[7]);
    if (!r) r = infer__state_tokens_check(session, image->source, w, w[7], w[12]);
    if (!r && w[13]) {
        runs = (infer__adapted *)infer__calloc(c->ctx.mem, w[13], sizeof *runs);
        r = !runs ? infer__error(&session->error, INFER_ERR_MEMORY, "infer_session_load: no memory for adapters")
                  : infer__adapters_find(session, image->runs, (int32_t)w[13], w[7], runs, &session->error);
    }
    if (!r) r = infer__spans_find(session, image, &spans);
    if (!r && w[12])
        r = infer__source_set(session, (const infer_token *)(const void *)image->source, (int32_t)w[12],
                              &session->error);
    else if (!r && session->source) r = infer__session_cut(session->source, 0);
    if (!r) r = infer__state_apply(session, image);
    if (r) {
        infer__free(c->ctx.mem, runs);
        infer__free(c->ctx.mem, spans);
        return r;
    }
    infer__adapters_load(session, runs, (int32_t)w[13]);
    infer__spans_cut(session, 0);
    infer__free(c->ctx.mem, session->spans);
    session->spans = spans;
    session->n_spans = session->spans_cap = (int32_t)w[16];
    return r;
}

/* The parts of a state in one block: tokens, the source's, runs, pages of layers in turn. `slots` of the image are
 * there. */
static void infer__state_lay_out(const infer_context *c, infer__state_image *image, char *data) {
    const infer_model *m = c->model;
    const uint32_t *w = image->w;
    const int32_t pages = infer__state_pages(w);
    uint64_t run;
    int32_t from, to, k;
    image->tokens = data;
    image->source = image->tokens + (size_t)w[7] * sizeof(infer_token);
    image->runs = image->source + (size_t)w[12] * sizeof(infer_token);
    image->spans = image->runs + (size_t)w[13] * INFER__ADAPTED_WORDS * sizeof(uint32_t);
    data = image->spans + (size_t)w[16] * INFER__SPAN_WORDS * sizeof(uint32_t);
    for (from = 0; from < m->n_states; from = to) {
        const int32_t group = m->states[from].group;
        to = infer__states_run(m, from);
        if (!infer__state_saved(m, from)) continue;
        for (run = 0, k = from; k < to; k++) {
            image->slots[k].p = data + run;
            run += infer__page_of_state(c, k);
        }
        for (k = from; k < to; k++) image->slots[k].stride = run;
        data += run * (group == INFER__GROUP_CELLS ? w[8] > 0 : (uint64_t)(pages - (int32_t)w[9 + group]));
    }
}

/* As infer_session_load; the session and its context are claimed. */
static infer_result infer__session_load(infer_session *session, infer_read_fn read, void *user) {
    infer__state_image image;
    uint64_t size, sum, want;
    infer_context *c;
    infer_result r;
    char *data;
    infer__error_clear(&session->error);
    memset(&image, 0, sizeof image);
    if (!read) return infer__error(&session->error, INFER_ERR_ARGUMENT, "infer_session_load: read is NULL");
    c = session->context;
    if (c->model->hp.encoder)
        return infer__error(&session->error, INFER_ERR_UNSUPPORTED, "infer_session_load: an encoder keeps nothing");
    if (read(user, image.w, sizeof image.w) != sizeof image.w)
        return infer__error(&session->error, INFER_ERR_IO, "infer_session_load: no header");
    if (infer__increments_known(image.w))
        return infer__error(
            &session->error, INFER_ERR_ARGUMENT,
            "infer_session_load: saved by infer_session_save_more, which infer_session_load_more reads");
    r = infer__state_check(session, image.w);
    if (r) return r;
    size = infer__state_size(session, image.w);
    data = (char *)infer__alloc(c->ctx.mem, size + infer__page_most(c));
    image.slots = (infer__state_slot *)infer__calloc(c->ctx.mem, (uint64_t)c->model->n_states + 1,
                                                     sizeof *image.slots);
    if (!data || !image.slots) {
        r = infer__error(&session->error, INFER_ERR_MEMORY, "infer_session_load: no memory for %llu bytes",
                         (unsigned long long)size);
        goto end;
    }
    sum = infer__fnv(INFER__FNV, image.w, sizeof image.w);
    if ((size && read(user, data, (size_t)size) != size) || read(user, &want, sizeof want) != sizeof want)
        r = infer__error(&session->error, INFER_ERR_IO, "infer_session_load: the data ends early");
    if (!r && infer__fnv(sum, data, size) != want)
        r = infer__error(&session->error, INFER_ERR_FORMAT,
                         "infer_session_load: the check sum does not match");
    if (!r) {
        image.spare = data + size;
        infer__state_lay_out(c, &image, data);
        r = infer__state_take(session, &image);
        if (!r) session->saved = 0;
    }
end:
    infer__free(c->ctx.mem, image.slots);
    infer__free(c->ctx.mem, data);
    return r;
}
