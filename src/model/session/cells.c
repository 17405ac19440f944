/* cells.c: states of recurrent layers: a session's current cell, and the earlier ones kept for rewinding.
 *
 * Owns:  cells: a cell is a complete state of all recurrent slots after some position, one row in each slot's buffer.
 *        They are reference-counted like pages: group INFER__GROUP_CELLS of the cache.
 * Rules: a cell that holds a state is never overwritten: a pass reads one and writes the next state to a free one. So a
 *        failed eval leaves a session where it was, and forks can share cells indefinitely. The states at ends of evals
 *        and at multiples of plan.snapshot_every are kept; when there are more than INFER__SNAPSHOTS, those of evals of
 *        one token, of drafts and of pieces of prompts are dropped first, then the oldest. A rewind restores the
 *        nearest one and evaluates the tokens in between again.
 * Start: infer__cells_pass, infer__cells_commit, infer__cells_back.
 */
#include "../model.h"

static int infer__cells_used(const infer_context *c) {
    return INFER__VARIANT(c->cache.groups[INFER__GROUP_CELLS].n_pages > 0);
}

static void infer__cell_drop(infer_context *c, int32_t *cell) {
    infer__cache_group *g = &c->cache.groups[INFER__GROUP_CELLS];
    if (*cell >= 0 && --g->refs[*cell] == 0) g->free[g->n_free++] = *cell;
    *cell = -1;
}

static void infer__snapshot_remove(infer_context *c, infer_session *s, int32_t i) {
    infer__cell_drop(c, &s->snapshots[i].cell);
    s->n_snapshots--;
    memmove(&s->snapshots[i], &s->snapshots[i + 1], (size_t)(s->n_snapshots - i) * sizeof *s->snapshots);
}

/* Which one goes first. */
static int32_t infer__snapshot_least(const infer_session *s) {
    int32_t i;
    for (i = 0; i < s->n_snapshots; i++)
        if (s->snapshots[i].minor) return i;
    return 0;
}

/* Takes over the cell; sorted by position. */
static void infer__snapshot_add(infer_context *c, infer_session *s, int32_t pos, int32_t cell, int32_t minor) {
    int32_t i = s->n_snapshots;
    if (i == INFER__SNAPSHOTS) {
        infer__snapshot_remove(c, s, infer__snapshot_least(s));
        i--;
    }
    while (i > 0 && s->snapshots[i - 1].pos > pos) {
        s->snapshots[i] = s->snapshots[i - 1];
        i--;
    }
    s->snapshots[i].pos = pos;
    s->snapshots[i].cell = cell;
    s->snapshots[i].minor = minor || pos == 0;
    s->n_snapshots++;
}

static void infer__cells_start(infer_session *s) { s->cell = s->cell_next = s->cell_out = -1; }

static int infer__cells_reserve(infer_context *c, const infer_step *steps, int32_t n) {
    const infer__cache_group *g = &c->cache.groups[INFER__GROUP_CELLS];
    int32_t i;
    for (i = 0; infer__cells_used(c) && i < n; i++)
        while (g->n_free < 2 * n && steps[i].session->n_snapshots)
            infer__snapshot_remove(c, steps[i].session, infer__snapshot_least(steps[i].session));
    return !infer__cells_used(c) || g->n_free >= 2 * n;
}

static int infer__cells_pass(infer_context *c, infer_session *s, int32_t q, int32_t end) {
    if (!infer__cells_used(c)) return 1;
    while (c->cache.groups[INFER__GROUP_CELLS].n_free == 0 && s->n_snapshots)
        infer__snapshot_remove(c, s, infer__snapshot_least(s));
    s->cell_out = infer__page_take(c, INFER__GROUP_CELLS);
    s->cell_end = end;
    c->ctx.pass.cell_in[q] = s->cell_next >= 0 ? s->cell_next : s->cell;
    c->ctx.pass.cell_out[q] = s->cell_out;
    return s->cell_out >= 0;
}

static void infer__cells_passed(infer_context *c, infer_session *s) {
    if (!infer__cells_used(c)) return;
    if (s->cell_next >= 0 && s->next_pos % c->plan.snapshot_every == 0)
        infer__snapshot_add(c, s, s->next_pos, s->cell_next, 0);
    else infer__cell_drop(c, &s->cell_next);
    s->cell_next = s->cell_out;
    s->next_pos = s->cell_end;
    s->cell_out = -1;
}

static void infer__cells_commit(infer_context *c, infer_session *s, int32_t tokens) {
    if (!infer__cells_used(c)) return;
    if (s->cell >= 0) infer__snapshot_add(c, s, s->n_valid, s->cell, s->cell_minor);
    s->cell = s->cell_next;
    s->cell_minor =
        s->next_pos % c->plan.snapshot_every != 0 && (s->minor ? s->minor > 0 : tokens == 1 || s->drafts > 0);
    s->cell_next = -1;
}

static void infer__cells_settle(infer_context *c, infer_session *s) {
    if (!infer__cells_used(c)) return;
    infer__cell_drop(c, &s->cell_out);
    infer__cell_drop(c, &s->cell_next);
    while (s->n_snapshots && s->snapshots[s->n_snapshots - 1].pos > s->n_valid)
        infer__snapshot_remove(c, s, s->n_snapshots - 1);
}

static int32_t infer__cells_back(const infer_context *c, const infer_session *s, int32_t n) {
    int32_t i;
    if (!infer__cells_used(c)) return n <= s->n_valid && infer__cache_has(c, s, n) ? n : 0;
    if (s->n_valid <= n && infer__cache_has(c, s, s->n_valid)) return s->n_valid;
    for (i = s->n_snapshots - 1; i >= 0; i--)
        if (s->snapshots[i].pos <= n && infer__cache_has(c, s, s->snapshots[i].pos)) return s->snapshots[i].pos;
    return 0;
}

static void infer__cells_cut(infer_context *c, infer_session *s, int32_t pos) {
    if (!infer__cells_used(c)) return;
    infer__cells_settle(c, s);
    if (pos == s->n_valid && pos > 0) return;
    infer__cell_drop(c, &s->cell);
    while (s->n_snapshots && s->snapshots[s->n_snapshots - 1].pos > pos)
        infer__snapshot_remove(c, s, s->n_snapshots - 1);
    if (pos == 0) {
        while (s->n_snapshots) infer__snapshot_remove(c, s, s->n_snapshots - 1);
        return;
    }
    INFER__ASSERT(s->n_snapshots && s->snapshots[s->n_snapshots - 1].pos == pos);
    s->n_snapshots--; /* its cell becomes the session's */
    s->cell = s->snapshots[s->n_snapshots].cell;
    s->cell_minor = s->snapshots[s->n_snapshots].minor;
}

static void infer__cells_share(infer_context *c, infer_session *dst, const infer_session *src) {
    int32_t *refs = c->cache.groups[INFER__GROUP_CELLS].refs, i;
    if (!infer__cells_used(c)) return;
    dst->cell = src->cell;
    dst->cell_minor = src->cell_minor;
    if (src->cell >= 0) refs[src->cell]++;
    dst->n_snapshots = src->n_snapshots;
    memcpy(dst->snapshots, src->snapshots, sizeof dst->snapshots);
    for (i = 0; i < src->n_snapshots; i++) refs[src->snapshots[i].cell]++;
}

static int infer__cells_room(const infer_context *c, const infer_session *s) {
    const infer__cache_group *g = &c->cache.groups[INFER__GROUP_CELLS];
    int32_t i;
    if (!infer__cells_used(c) || g->n_free > 0 || (s->cell >= 0 && g->refs[s->cell] == 1)) return 1;
    for (i = 0; i < s->n_snapshots; i++)
        if (g->refs[s->snapshots[i].cell] == 1) return 1;
    return 0;
}
