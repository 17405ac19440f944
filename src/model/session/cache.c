/* cache.c: pages of keys and values, and the sessions that hold them.
 *
 * Owns:  page reference counts and page tables. A page is INFER__PAGE positions of every slot of a group; a session's
 *        table maps position / INFER__PAGE to a page, -1 where it has none.
 * Rules: fork shares pages; a shared page is copied before it is written. Groups with a window free pages older than
 *        window + keep, so memory does not grow with the context. Nothing here allocates after creation.
 */
#include "../model.h"

static int32_t infer__state_add(infer_model *m, const infer__layer *l, int32_t kind, int32_t group, int32_t n_head,
                                int32_t dim) {
    infer__state *s = &m->states[m->n_states];
    INFER__ASSERT(m->n_states < m->max_states);
    s->kind = kind;
    s->layer = l->index;
    s->group = group;
    s->n_head = n_head;
    s->dim = dim;
    return m->n_states++;
}

static int32_t infer__state_type(int32_t kv_type, const infer__state *s) {
    return s->kind == INFER__STATE_ROWS ? INFER_KV_F32 : kv_type;
}

static uint64_t infer__page_bytes(int32_t kv_type, const infer__state *s) {
    if (s->kind == INFER__STATE_RECURRENT) return (uint64_t)s->n_head * (uint64_t)s->dim * sizeof(float);
    return (uint64_t)infer__page_rows(s->every) * (uint64_t)s->n_head *
           infer__kv_bytes(infer__state_type(kv_type, s), s->dim);
}

/* The sublayers that read a slot of the group say how far back, whoever owns it. */
static int32_t infer__group_window(const infer_model *m, int32_t group) {
    int32_t i, p, k, window = -1;
    for (i = 0; i < infer__n_all(&m->hp); i++) {
        const infer__layer *l = &m->layers[i];
        for (p = 0; p < l->n_parts; p++)
            for (k = 0; k < (int32_t)INFER__COUNT(l->parts[p].state); k++) {
                int32_t s = l->parts[p].state[k];
                if (s < 0 || m->states[s].group != group) continue;
                if (l->window == 0 || group == INFER__GROUP_FULL) return 0;
                window = INFER__MAX(window, INFER__MAX(l->window, infer__compress_reach(l)));
            }
    }
    return window;
}

static int32_t infer__state_buf(const infer_model *m, int32_t state) {
    const infer__state *s = &m->states[state];
    int32_t i;
    for (i = 0; i < state && (m->hp.encoder || s->layer < m->hp.n_enc); i++)
        if (infer__state_here(m, i) && m->states[i].kind == s->kind && m->states[i].n_head == s->n_head &&
            m->states[i].dim == s->dim && infer__state_place(m, i) == infer__state_place(m, state))
            return i;
    return state;
}

static void infer__cache_destroy(infer_context *c) {
    infer__kv_cache *kv = &c->cache;
    int32_t i;
    for (i = 0; i < kv->n_bufs; i++)
        if (infer__state_here(c->model, i) && infer__state_buf(c->model, i) == i)
            infer__state_ops(c, i)->release(&c->ctx, &kv->bufs[i].buf);
    infer__free(c->ctx.mem, kv->bufs);
    for (i = 0; i < INFER__GROUPS; i++) {
        infer__free(c->ctx.mem, kv->groups[i].refs);
        infer__free(c->ctx.mem, kv->groups[i].free);
    }
    memset(kv, 0, sizeof *kv);
}

static uint64_t infer__cache_host_bytes(const infer__plan *p, const infer_model *m) {
    uint64_t n = infer__block_bytes(((uint64_t)m->n_states + 1) * sizeof(infer__kv_buf));
    int32_t i;
    for (i = 0; i < INFER__GROUPS; i++) n += 2 * infer__block_bytes((uint64_t)p->n_pages[i] * sizeof(int32_t));
    for (i = 0; i < m->n_states; i++) /* what a buffer takes beside its pages */
        if (infer__state_here(m, i) && infer__state_buf(m, i) == i && infer__state_place(m, i) == INFER__ON_CPU)
            n += infer__block_bytes(1) - 1;
    return n;
}

static infer_result infer__cache_create(infer_context *c, infer_error *err) {
    infer__kv_cache *kv = &c->cache;
    const infer_model *m = c->model;
    uint64_t pages;
    int32_t i, g;
    for (g = 0; g < INFER__GROUPS; g++) {
        infer__cache_group *grp = &kv->groups[g];
        grp->n_pages = grp->n_free = c->plan.n_pages[g];
        if (!grp->n_pages) continue;
        grp->window = infer__group_window(m, g);
        grp->refs = (int32_t *)infer__calloc(c->ctx.mem, (uint64_t)grp->n_pages, sizeof(int32_t));
        grp->free = (int32_t *)infer__calloc(c->ctx.mem, (uint64_t)grp->n_pages, sizeof(int32_t));
        if (!grp->refs || !grp->free) goto no_memory;
        for (i = 0; i < grp->n_pages; i++) grp->free[i] = grp->n_pages - 1 - i; /* taken from the end: 0 first */
    }
    kv->bufs = (infer__kv_buf *)infer__calloc(c->ctx.mem, (uint64_t)m->n_states + 1, sizeof *kv->bufs);
    if (!kv->bufs) goto no_memory;
    kv->n_bufs = m->n_states;
    for (i = 0; i < m->n_states; i++) {
        pages = (uint64_t)c->plan.n_pages[m->states[i].group];
        if (!infer__state_here(m, i)) continue;
        kv->bufs[i] = kv->bufs[infer__state_buf(m, i)];
        if (infer__state_buf(m, i) < i) continue;
        kv->bufs[i].type = infer__state_type(c->plan.kv_type, &m->states[i]);
        if (!infer__state_ops(c, i)->alloc(&c->ctx, &kv->bufs[i].buf,
                                           pages * infer__page_bytes(c->plan.kv_type, &m->states[i])))
            goto no_memory;
    }
    return INFER_OK;
no_memory:
    if (!infer__ok(&c->ctx)) /* a device says more */
        return infer__error(err, c->ctx.error.code, "cache of %d cells: %s", (int)c->plan.cells, c->ctx.error.message);
    return infer__error(err, INFER_ERR_MEMORY, "no memory for a cache of %d cells (%llu bytes)", (int)c->plan.cells,
                        (unsigned long long)c->plan.cache_bytes[INFER__ON_CPU]);
}

static void infer__page_drop(infer_context *c, infer_session *s, int32_t g, int32_t i) {
    infer__cache_group *grp = &c->cache.groups[g];
    int32_t page = s->pages[g][i];
    if (page < 0) return;
    s->pages[g][i] = -1;
    if (--grp->refs[page] == 0) grp->free[grp->n_free++] = page;
}

static int32_t infer__page_take(infer_context *c, int32_t g) {
    infer__cache_group *grp = &c->cache.groups[g];
    int32_t page;
    if (grp->n_free == 0) return -1;
    page = grp->free[--grp->n_free];
    grp->refs[page] = 1;
    return page;
}

/* First page that a pass starting at `pos` must still have. */
static int32_t infer__cache_low(const infer_context *c, int32_t g, int32_t pos) {
    const infer__cache_group *grp = &c->cache.groups[g];
    int64_t low = (int64_t)pos - (grp->window - 1) - c->plan.keep;
    return grp->window && low > 0 ? (int32_t)(low / INFER__PAGE) : 0;
}

static int32_t infer__cache_need(const infer_context *c, const infer_session *s, int32_t g, int32_t pos, int32_t n) {
    const infer__cache_group *grp = &c->cache.groups[g];
    int32_t i, missing = 0, held = 0, own = 0;
    int64_t most;
    if (!grp->n_pages) return 0;
    for (i = 0; i < c->plan.max_pages; i++)
        if (s->pages[g][i] >= 0) {
            held++;
            if (grp->refs[s->pages[g][i]] == 1) own++;
        }
    for (i = pos / INFER__PAGE; i <= (pos + n - 1) / INFER__PAGE; i++)
        if (s->pages[g][i] < 0 || grp->refs[s->pages[g][i]] > 1) missing++;
    if (!grp->window) return missing;
    /* a sliding window needs no more than this at once, and its own pages are freed as it moves */
    most = ((int64_t)grp->window + c->plan.keep + INFER__MIN(n, c->plan.batch)) / INFER__PAGE + 3;
    most = INFER__MIN(held + missing, most) - own;
    return most > 0 ? (int32_t)most : 0;
}

static void infer__page_waited(infer_context *c, int32_t place) {
    infer__enter(c, place);
    infer__ops_of(&c->ctx)->sync(&c->ctx);
}

/* Copy a shared page in all slots of its group, and wait for it: if the device failed later, in the pass, the copy
 * would be lost, and the session has already released the original page. */
static void infer__page_copy(infer_context *c, int32_t g, int32_t to, int32_t from) {
    const infer_model *m = c->model;
    const infer__ops *ops;
    uint64_t n;
    int32_t i, at = -1; /* the place of the copies so far */
    for (i = 0; i < m->n_states; i++) {
        infer__buf *b = &c->cache.bufs[i].buf;
        if (m->states[i].group != g || !infer__state_here(m, i)) continue;
        if (at >= 0 && at != infer__state_place(m, i)) infer__page_waited(c, at);
        at = infer__state_place(m, i);
        n = infer__page_bytes(c->plan.kv_type, &m->states[i]);
        ops = infer__state_ops(c, i);
        ops->copy_bytes(&c->ctx, b, (uint64_t)to * n, b, (uint64_t)from * n, n);
    }
    if (at >= 0) infer__page_waited(c, at);
    if (c->plan.rest_bytes && infer__ok(&c->ctx)) infer__rest_copy(c, g, to, from);
}

static int infer__cache_write(infer_context *c, infer_session *s, int32_t pos, int32_t n) {
    int32_t g, i, low, page;
    for (g = 0; g < INFER__CACHE_GROUPS; g++) {
        infer__cache_group *grp = &c->cache.groups[g];
        if (!grp->n_pages) continue;
        low = infer__cache_low(c, g, pos);
        for (i = s->first_page[g]; i < low; i++) infer__page_drop(c, s, g, i);
        s->first_page[g] = INFER__MAX(low, s->first_page[g]);
        for (i = pos / INFER__PAGE; i <= (pos + n - 1) / INFER__PAGE; i++) {
            int32_t old = s->pages[g][i];
            if (old >= 0 && grp->refs[old] == 1) continue;
            page = infer__page_take(c, g);
            if (page < 0) return 0;
            s->pages[g][i] = page;
            if (old < 0) continue;
            infer__page_copy(c, g, page, old);
            if (!infer__ok(&c->ctx)) { /* a device failed: the session keeps what it had */
                infer__page_drop(c, s, g, i);
                s->pages[g][i] = old;
                return 0;
            }
            grp->refs[old]--;
        }
    }
    return 1;
}

static void infer__cache_cut(infer_context *c, infer_session *s, int32_t n) {
    int32_t g, i;
    s->saved_to = INFER__MIN(s->saved_to, n);
    for (g = 0; g < INFER__CACHE_GROUPS; g++) {
        if (!c->cache.groups[g].n_pages) continue;
        for (i = (n + INFER__PAGE - 1) / INFER__PAGE; i < c->plan.max_pages; i++) infer__page_drop(c, s, g, i);
        if (n == 0) s->first_page[g] = 0;
    }
}

static void infer__cache_share(infer_context *c, infer_session *dst, const infer_session *src) {
    int32_t g, i;
    for (g = 0; g < INFER__CACHE_GROUPS; g++) {
        if (!c->cache.groups[g].n_pages) continue;
        dst->first_page[g] = src->first_page[g];
        for (i = 0; i < c->plan.max_pages; i++) {
            dst->pages[g][i] = src->pages[g][i];
            if (src->pages[g][i] >= 0) c->cache.groups[g].refs[src->pages[g][i]]++;
        }
    }
}

static int infer__cache_has(const infer_context *c, const infer_session *s, int32_t n) {
    int32_t g, low;
    for (g = 0; g < INFER__CACHE_GROUPS; g++) {
        const infer__cache_group *grp = &c->cache.groups[g];
        if (!grp->n_pages || !grp->window || n == 0) continue;
        low = INFER__MAX(0, n - INFER__MAX(grp->window - 1, 1)); /* a window of 1: so that the pages begin before n */
        if (low / INFER__PAGE < s->first_page[g]) return 0;
    }
    return 1;
}
