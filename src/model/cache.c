/* cache.c: pages of keys and values, and which session holds which.
 *
 * Owns:  page reference counts and page tables. A page is INFER__PAGE positions of every layer of a group; a session's
 *        table maps position / INFER__PAGE to a page, -1 where it has none.
 * Rules: fork shares pages; a shared page is copied before it is written. Groups with a window give back pages that lie
 *        behind window + keep, so memory does not grow with the context. Nothing here allocates after creation.
 */
#include "model.h"

static void infer__page_bytes(const infer_context *c, const infer__layer *l, uint64_t *k, uint64_t *v) {
    uint64_t rows = INFER__PAGE * (uint64_t)l->n_head_kv;
    *k = rows * infer__kv_bytes(c->plan.kv_type, l->dim_k);
    *v = rows * infer__kv_bytes(c->plan.kv_type, l->dim_v);
}

static void infer__cache_destroy(infer_context *c) {
    infer__kv_cache *kv = &c->cache;
    int32_t i;
    for (i = 0; i < kv->n_layer; i++) {
        if (kv->k) infer__layer_ops(c, i)->release(&c->ctx, &kv->k[i].buf);
        if (kv->v) infer__layer_ops(c, i)->release(&c->ctx, &kv->v[i].buf);
    }
    infer__free(c->ctx.mem, kv->k);
    infer__free(c->ctx.mem, kv->v);
    for (i = 0; i < INFER__CACHE_GROUPS; i++) {
        infer__free(c->ctx.mem, kv->groups[i].refs);
        infer__free(c->ctx.mem, kv->groups[i].free);
    }
    memset(kv, 0, sizeof *kv);
}

static infer_result infer__cache_create(infer_context *c, infer_error *err) {
    infer__kv_cache *kv = &c->cache;
    const infer_model *m = c->model;
    uint64_t k, v, pages;
    int32_t i, g;
    for (g = 0; g < INFER__CACHE_GROUPS; g++) {
        infer__cache_group *grp = &kv->groups[g];
        grp->n_pages = grp->n_free = c->plan.n_pages[g];
        if (!grp->n_pages) continue;
        grp->refs = (int32_t *)infer__calloc(c->ctx.mem, (uint64_t)grp->n_pages, sizeof(int32_t));
        grp->free = (int32_t *)infer__calloc(c->ctx.mem, (uint64_t)grp->n_pages, sizeof(int32_t));
        if (!grp->refs || !grp->free) goto no_memory;
        for (i = 0; i < grp->n_pages; i++) grp->free[i] = grp->n_pages - 1 - i; /* taken from the end: 0 first */
    }
    kv->k = (infer__kv_buf *)infer__calloc(c->ctx.mem, (uint64_t)m->hp.n_layer, sizeof *kv->k);
    kv->v = (infer__kv_buf *)infer__calloc(c->ctx.mem, (uint64_t)m->hp.n_layer, sizeof *kv->v);
    if (!kv->k || !kv->v) goto no_memory;
    kv->n_layer = m->hp.n_layer;
    for (i = 0; i < m->hp.n_layer; i++) {
        const infer__layer *l = &m->layers[i];
        infer__page_bytes(c, l, &k, &v);
        pages = (uint64_t)c->plan.n_pages[l->group];
        kv->groups[l->group].window = INFER__MAX(kv->groups[l->group].window, l->window);
        kv->k[i].type = kv->v[i].type = c->plan.kv_type;
        if (!infer__layer_ops(c, i)->alloc(&c->ctx, &kv->k[i].buf, pages * k)) goto no_memory;
        if (!infer__layer_ops(c, i)->alloc(&c->ctx, &kv->v[i].buf, pages * v)) goto no_memory;
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
    /* a sliding window holds no more than this at once, and its own pages come back as it moves on */
    most = ((int64_t)grp->window + c->plan.keep + INFER__MIN(n, c->plan.batch)) / INFER__PAGE + 3;
    most = INFER__MIN(held + missing, most) - own;
    return most > 0 ? (int32_t)most : 0;
}

/* A copy of a shared page, in all layers of its group. It is waited for: a device that fails later, in the pass, would
 * take the copy with it, and the session has given up the page that it was made from. */
static void infer__page_copy(infer_context *c, int32_t g, int32_t to, int32_t from) {
    const infer_model *m = c->model;
    const infer__ops *ops;
    uint64_t k, v;
    int32_t i, at = -1; /* the place of the copies so far */
    for (i = 0; i < m->hp.n_layer; i++) {
        if (m->layers[i].group != g) continue;
        if (at >= 0 && at != m->layers[i].place) infer__enter(c, at)->sync(&c->ctx);
        at = m->layers[i].place;
        infer__page_bytes(c, &m->layers[i], &k, &v);
        ops = infer__layer_ops(c, i);
        ops->copy_bytes(&c->ctx, &c->cache.k[i].buf, (uint64_t)to * k, &c->cache.k[i].buf, (uint64_t)from * k, k);
        ops->copy_bytes(&c->ctx, &c->cache.v[i].buf, (uint64_t)to * v, &c->cache.v[i].buf, (uint64_t)from * v, v);
    }
    if (at >= 0) infer__enter(c, at)->sync(&c->ctx);
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
