/* ptx_barrier.c: mbarrier objects in shared memory, and cp.async.bulk, whose copies end at one. What the objects do is in the PTX
 * manual, "Parallel Synchronization and Communication Instructions: mbarrier".
 *
 * An object's state is kept here; its 8 bytes in shared memory only have a mark, to see that nobody writes them. A phase is complete
 * when no arrivals are pending and the tx-count is 0. A wait that finds it not complete makes its lanes sleep until the block's next
 * round (ptx_run.c). A bulk copy fills its destination with 0xff, and completes as late as can be: when all threads sleep, wait or
 * have ended, and some wait for the very mbarrier that the copy completes at, one copy a round.
 *
 * With checking on, who knows of whose accesses: a thread has a row with a time for each thread, up to which it knows what that
 * thread did; one for the bulk copies of each mbarrier; and the number of each thread's proxy fences. Who arrives adds its row to
 * the mbarrier's, who waits adds that of the phases that are complete to its own, bar.warp.sync joins the rows of its lanes. At a
 * barrier of the block all know all, but for bulk copies that nobody waited for.
 */
#include "ptx.h"

enum { MOST = 64, LIMIT = (1 << 20) - 1, PATIENCE = 100 };
static const char mark_bytes[8] = {'m', 'b', 'a', 'r', 'r', 'i', 'e', 'r'};

typedef struct {
    uint32_t at, expected, pending, phase;
    int64_t tx;
    uint32_t bulk, waited;         /* phases with a bulk copy, and phases waited for: the number of the last, plus 1 */
    uint32_t polled;               /* the round in which somebody found it not complete */
    uint32_t thread, time, fenced; /* who initialised it and when; 1: that is fenced */
    uint32_t *arrived, *done;      /* rows: of who arrived; the same up to the last phase that is complete */
    const ptx_ins *i;
} object;

typedef struct {
    const ptx_ins *i;
    uint32_t at, bytes, thread;
    int object;
    uint8_t *data;
    const uint8_t *source;
} bulk_copy; /* under way */

/* Of a byte and a warp: its last reads. lanes 0: those of a wgmma, with the time at which the first warp of its warpgroup had waited
 * for it; since it is for all four together, any thread of these may tell others that it is complete. */
typedef struct { uint32_t time, lanes; } read_mark;

struct ptx_barriers {
    object list[MOST];
    int count;
    bulk_copy *copies;
    int ncopies, cap;
    uint32_t changes, seen_changes, idle, round;
    struct { ptx_warp *w; const ptx_ins *i; int lane, object; uint32_t parity; } missed; /* the last wait that found it so */
    /* checking only */
    uint32_t time, epoch_time;     /* now; what was before this is known to all */
    uint32_t threads, width;
    uint32_t *rows;                /* of threads */
    uint32_t *views;               /* of warps: what all of its lanes know */
    uint8_t *stale;                /* the view is not of now */
    uint32_t *fences, *fences_met; /* of threads: now, and at the last barrier */
    read_mark *reads;
    struct { uint32_t fences, thread; } *writes; /* of a byte, as it was written */
};

/* ---- what threads know ------------------------------------------------------------------------------------------------- */

/* A row: threads, mbarriers, fences of threads. */
static uint32_t *row(const struct ptx_barriers *x, uint32_t t) { return x->rows + (size_t)t * x->width; }
static void join(uint32_t *to, const uint32_t *from, size_t n) {
    for (size_t k = 0; k < n; k++) to[k] = to[k] > from[k] ? to[k] : from[k];
}
static void publish(struct ptx_barriers *x, uint32_t t) { /* all that it did until now */
    row(x, t)[t] = x->time;
    row(x, t)[x->threads + MOST + t] = x->fences[t];
}

uint32_t ptx_barrier_time(const ptx_block *b) { return b->barriers->time; }

int ptx_barrier_knows(const ptx_block *b, uint32_t t, uint32_t who, uint32_t time) {
    const struct ptx_barriers *x = b->barriers;
    if (who >= BULK_THREAD) return row(x, t)[x->threads + who - BULK_THREAD] >= time;
    return who == t || time < x->epoch_time || row(x, t)[who] >= time;
}

static const uint32_t *view(struct ptx_barriers *x, int warp) {
    uint32_t *v = x->views + (size_t)warp * x->width;
    if (x->stale[warp]) {
        memcpy(v, row(x, (uint32_t)warp * 32), x->width * sizeof *v);
        for (uint32_t l = 1; l < 32; l++) {
            const uint32_t *from = row(x, (uint32_t)warp * 32 + l);
            for (uint32_t k = 0; k < x->width; k++) v[k] = v[k] < from[k] ? v[k] : from[k];
        }
        x->stale[warp] = 0;
    }
    return v;
}
int ptx_barrier_warp_knows(ptx_block *b, int warp, uint32_t who, uint32_t time) {
    struct ptx_barriers *x = b->barriers;
    if (who >= BULK_THREAD) return view(x, warp)[x->threads + who - BULK_THREAD] >= time;
    return time < x->epoch_time || view(x, warp)[who] >= time;
}
uint32_t ptx_barrier_fences(ptx_block *b, int warp, uint32_t who) {
    return view(b->barriers, warp)[b->barriers->threads + MOST + who];
}

void ptx_barrier_warp_sync(ptx_warp *w) {
    struct ptx_barriers *x = w->b->barriers;
    uint32_t first = (uint32_t)w->index * 32, *all = NULL;
    if (!x->rows) return;
    EACH(w->mask) {
        publish(x, first + l);
        if (!all) all = row(x, first + l);
        else join(all, row(x, first + l), x->width);
    }
    EACH(w->mask) if (row(x, first + l) != all) memcpy(row(x, first + l), all, x->width * sizeof *all);
    x->stale[w->index] = 1;
    x->time++;
}

void ptx_barrier_meet(ptx_block *b) {
    struct ptx_barriers *x = b->barriers;
    if (!x->rows) return;
    x->epoch_time = ++x->time;
    memcpy(x->fences_met, x->fences, x->threads * sizeof *x->fences);
    for (uint32_t t = 1; t < x->threads; t++) join(row(x, 0) + x->threads, row(x, t) + x->threads, MOST);
    for (uint32_t t = 1; t < x->threads; t++) memcpy(row(x, t) + x->threads, row(x, 0) + x->threads, MOST * sizeof *x->rows);
    memset(x->stale, 1, (size_t)b->nwarps);
}

void ptx_barrier_fence(ptx_warp *w, int proxy) {
    struct ptx_barriers *x = w->b->barriers;
    for (int k = 0; k < x->count; k++)
        if ((int)(x->list[k].thread / 32) == w->index && w->mask >> x->list[k].thread % 32 & 1) x->list[k].fenced = 1;
    if (proxy && x->rows) EACH(w->mask) x->fences[(uint32_t)w->index * 32 + l]++;
}

void ptx_barrier_written(ptx_block *b, uint64_t at, uint32_t t) {
    b->barriers->writes[at].thread = t, b->barriers->writes[at].fences = b->barriers->fences[t];
}
void ptx_barrier_read(ptx_block *b, uint64_t at, int warp, uint32_t lanes, uint32_t time) {
    struct ptx_barriers *x = b->barriers;
    read_mark *r = &x->reads[at * (uint64_t)b->nwarps + (uint64_t)warp];
    r->lanes = lanes && r->time >= x->epoch_time ? r->lanes | lanes : lanes;
    r->time = time;
}
int ptx_barrier_reader(const ptx_block *b, uint64_t at, uint32_t t) {
    const struct ptx_barriers *x = b->barriers;
    for (uint32_t v = 0; v < (uint32_t)b->nwarps; v++) {
        const read_mark *r = &x->reads[at * (uint64_t)b->nwarps + v];
        int any = t / 128 == v / 4;
        if (r->time < x->epoch_time) continue;
        EACH(r->lanes) if (!ptx_barrier_knows(b, t, v * 32 + l, r->time)) return (int)(v * 32 + l);
        for (uint32_t u = v / 4 * 128; !r->lanes && u < v / 4 * 128 + 128 && !any; u++) any = row(x, t)[u] >= r->time;
        if (!r->lanes && !any) return (int)(v * 32);
    }
    return -1;
}

/* ---- objects ------------------------------------------------------------------------------------------------------------- */

static object *find(ptx_warp *w, const ptx_ins *i, int lane, uint64_t a) {
    ptx_block *b = w->b;
    struct ptx_barriers *x = b->barriers;
    for (int k = 0; k < x->count; k++) {
        object *m = &x->list[k];
        if (m->at != a) continue;
        if (memcmp(b->shared + a, mark_bytes, 8)) {
            ptx_fail(w, i, lane, PTX_FAILED, "the bytes of the mbarrier at %u were written by something else", m->at);
            return NULL;
        }
        if (x->rows && !ptx_barrier_knows(b, (uint32_t)(w->index * 32 + lane), m->thread, m->time)) {
            ptx_fail(w, i, lane, PTX_FAILED, "thread %u initialised the mbarrier at %u, no barrier since", m->thread, m->at);
            return NULL;
        }
        return m;
    }
    if (a & 7)
        ptx_fail(w, i, lane, PTX_MISALIGNED, "the mbarrier at %llu is misaligned", (unsigned long long)a);
    else
        ptx_fail(w, i, lane, PTX_FAILED, "the mbarrier at %llu is used before mbarrier.init", (unsigned long long)a);
    return NULL;
}

static void settle(struct ptx_barriers *x, object *m) {
    x->changes++;
    if (m->pending || m->tx) return;
    m->phase++, m->pending = m->expected;
    if (x->rows) memcpy(m->done, m->arrived, x->width * sizeof *m->done);
}
static int count_tx(ptx_warp *w, const ptx_ins *i, int lane, object *m, int64_t more) {
    m->tx += more;
    if (m->tx <= LIMIT && m->tx >= -LIMIT) return 1;
    ptx_fail(w, i, lane, PTX_FAILED, "the tx-count of the mbarrier at %u becomes %lld", m->at, (long long)m->tx);
    return 0;
}

static void init(ptx_warp *w, const ptx_ins *i) { /* o: count */
    ptx_block *b = w->b;
    struct ptx_barriers *x = b->barriers;
    uint64_t a[32];
    ptx_addresses(w, i, a);
    EACH(w->mask) {
        uint32_t count = R32(i->o[0])[l];
        object *m = &x->list[x->count];
        for (int k = 0; k < x->count; k++)
            if (x->list[k].at == a[l]) {
                ptx_fail(w, i, (int)l, PTX_FAILED, "the mbarrier at %u is initialised again", x->list[k].at);
                return;
            }
        if (count < 1 || count > LIMIT) {
            ptx_fail(w, i, (int)l, PTX_FAILED, "an mbarrier for %u arrivals", count);
            return;
        }
        if (x->count == MOST) {
            ptx_fail(w, i, (int)l, PTX_FAILED, "more than %d mbarriers: the double has no room for them", MOST);
            return;
        }
        if (!ptx_where(w, i, (int)l, SPACE_SHARED, a[l], 8, 1)) return;
        for (int k = 0; k < x->ncopies; k++)
            if (a[l] + 8 > x->copies[k].at && a[l] < x->copies[k].at + x->copies[k].bytes) {
                ptx_fail(w, i, (int)l, PTX_FAILED, "the bulk copy of line %d writes there still", x->copies[k].i->line);
                return;
            }
        memcpy(b->shared + a[l], mark_bytes, 8);
        for (uint32_t k = 0; b->shadow && k < 8; k++) b->shadow[a[l] + k].flying = IS_MBARRIER;
        m->at = (uint32_t)a[l], m->expected = m->pending = count, m->thread = (uint32_t)w->index * 32 + l;
        m->phase = m->bulk = m->waited = m->polled = m->fenced = 0, m->tx = 0, m->time = x->time, m->i = i;
        if (x->rows) memset(m->arrived, 0, x->width * 2 * sizeof *m->arrived);
        x->count++, x->changes++;
    }
}

static void arrive(ptx_warp *w, const ptx_ins *i) { /* o: state or 0, bytes; flag: it expects them */
    struct ptx_barriers *x = w->b->barriers;
    uint64_t a[32];
    ptx_addresses(w, i, a);
    EACH(w->mask) {
        uint32_t t = (uint32_t)w->index * 32 + l;
        object *m = find(w, i, (int)l, a[l]);
        if (!m || (i->flag && !count_tx(w, i, (int)l, m, R32(i->o[1])[l]))) return;
        if (!m->pending) {
            ptx_fail(w, i, (int)l, PTX_FAILED,
                     "more arrivals at the mbarrier at %u than its %u: the phase waits for a tx-count of %lld", m->at,
                     m->expected, (long long)m->tx);
            return;
        }
        if (i->o[0]) R64(i->o[0])[l] = (uint64_t)m->phase << 32 | m->pending;
        m->pending--;
        if (x->rows) publish(x, t), join(m->arrived, row(x, t), x->width);
        settle(x, m);
    }
    x->time++;
}

static void wait_parity(ptx_warp *w, const ptx_ins *i) { /* o: complete, parity */
    struct ptx_barriers *x = w->b->barriers;
    uint64_t a[32];
    uint32_t complete = 0;
    ptx_addresses(w, i, a);
    EACH(w->mask) {
        uint32_t parity = R32(i->o[1])[l];
        object *m = find(w, i, (int)l, a[l]);
        if (!m) return;
        if (parity > 1) {
            ptx_fail(w, i, (int)l, PTX_FAILED, "the parity %u is neither 0 nor 1", parity);
            return;
        }
        if ((m->phase & 1) == parity) {
            m->polled = x->round;
            x->missed.w = w, x->missed.i = i, x->missed.lane = (int)l;
            x->missed.object = (int)(m - x->list), x->missed.parity = parity;
            continue;
        }
        complete |= 1u << l;
        m->waited = m->phase;
        x->changes++;
        if (x->rows) join(row(x, (uint32_t)w->index * 32 + l), m->done, x->width), x->stale[w->index] = 1;
    }
    w->missed = w->mask & ~complete;
    ptx_putp(w, i->o[0], complete);
}

static void fence_init(ptx_warp *w, const ptx_ins *i) {
    (void)i;
    if (w->b->barriers) ptx_barrier_fence(w, 0);
}

/* ---- bulk copies ----------------------------------------------------------------------------------------------------------- */

/* Checking: the async proxy is about to write these bytes. */
static int fenced(ptx_warp *w, const ptx_ins *i, int lane, const object *m, uint64_t at, uint32_t bytes) {
    ptx_block *b = w->b;
    struct ptx_barriers *x = b->barriers;
    uint32_t t = (uint32_t)(w->index * 32 + lane);
    if (!m->fenced) {
        ptx_fail(w, i, lane, PTX_FAILED,
                 "thread %u initialised the mbarrier at %u and had no fence.mbarrier_init or fence.proxy.async since",
                 m->thread, m->at);
        return 0;
    }
    for (uint64_t k = at; k < at + bytes && k < b->shared_bytes; k++) {
        uint32_t who = x->writes[k].thread, knows;
        if (!b->shadow[k].known || b->shadow[k].write.thread >= BULK_THREAD) continue;
        knows = row(x, t)[x->threads + MOST + who];
        if (knows < x->fences_met[who]) knows = x->fences_met[who];
        if (who == t) knows = x->fences[t];
        if (x->writes[k].fences >= knows && ptx_barrier_knows(b, t, who, b->shadow[k].write.time)) {
            ptx_fail(w, i, lane, PTX_FAILED,
                     "thread %u wrote shared byte %llu and had no fence.proxy.async between that and this copy", who,
                     (unsigned long long)k);
            return 0;
        }
    }
    return 1;
}

/* cp.async.bulk [base + imm] <- [o[0] + o[3]], o[1] bytes, at the mbarrier at [o[2] + o[4]] */
static void bulk(ptx_warp *w, const ptx_ins *i) {
    ptx_block *b = w->b;
    struct ptx_barriers *x = b->barriers;
    uint64_t to[32], from[32], at[32];
    ptx_ins other = *i;
    ptx_addresses(w, i, to);
    other.base = i->o[0], other.base_wide = 1, other.imm = (int32_t)i->o[3];
    ptx_addresses(w, &other, from);
    other.base = i->o[2], other.base_wide = i->wide, other.imm = (int32_t)i->o[4];
    ptx_addresses(w, &other, at);
    EACH(w->mask) {
        uint32_t bytes = R32(i->o[1])[l], k;
        object *m = find(w, i, (int)l, at[l]);
        const uint8_t *source;
        bulk_copy *c;
        if (!m) return;
        if (!bytes || bytes % 16 || bytes > LIMIT) {
            ptx_fail(w, i, (int)l, PTX_FAILED, "a bulk copy of %u bytes: that is no multiple of 16, or too many", bytes);
            return;
        }
        if (to[l] % 16 || from[l] % 16) {
            ptx_fail(w, i, (int)l, PTX_MISALIGNED, "a bulk copy from %llx to %llx: one is misaligned, by 16",
                     (unsigned long long)from[l], (unsigned long long)to[l]);
            return;
        }
        if (to[l] > b->shared_bytes || b->shared_bytes - to[l] < bytes) {
            ptx_fail(w, i, (int)l, PTX_ILLEGAL_ADDRESS, "shared write of %u bytes at %llx is out of bounds", bytes,
                     (unsigned long long)to[l]);
            return;
        }
        if (!(source = ptx_global(w, i, (int)l, from[l], bytes))) return;
        for (int n = 0; n < x->ncopies; n++)
            if (to[l] < x->copies[n].at + x->copies[n].bytes && to[l] + bytes > x->copies[n].at) {
                ptx_fail(w, i, (int)l, PTX_FAILED, "the bulk copy of line %d writes there still", x->copies[n].i->line);
                return;
            }
        for (int n = 0; n < x->count; n++)
            if (to[l] < x->list[n].at + 8 && to[l] + bytes > x->list[n].at) {
                ptx_fail(w, i, (int)l, PTX_FAILED, "a bulk copy over the mbarrier at %u", x->list[n].at);
                return;
            }
        if (x->rows && !fenced(w, i, (int)l, m, to[l], bytes)) return;
        for (k = 0; k < bytes; k += 16)
            if (!ptx_where(w, i, (int)l, SPACE_SHARED, to[l] + k, 16, 1)) return;
        if (x->ncopies == x->cap) {
            int cap = x->cap ? x->cap * 2 : 16;
            c = realloc(x->copies, (size_t)cap * sizeof *c);
            if (c) x->copies = c, x->cap = cap;
        }
        c = x->ncopies < x->cap ? &x->copies[x->ncopies] : NULL;
        if (!c || !(c->data = malloc(bytes))) {
            ptx_fail(w, i, (int)l, PTX_FAILED, "the double is out of memory");
            return;
        }
        memcpy(c->data, source, bytes);
        c->i = i, c->at = (uint32_t)to[l], c->bytes = bytes, c->thread = (uint32_t)w->index * 32 + l;
        c->object = (int)(m - x->list), c->source = source;
        memset(b->shared + to[l], 0xff, bytes);
        for (k = 0; b->shadow && k < bytes; k++) b->shadow[to[l] + k].flying = FLIES_BULK;
        x->ncopies++, x->changes++;
    }
}

static void complete(ptx_block *b, int n) {
    struct ptx_barriers *x = b->barriers;
    bulk_copy c = x->copies[n];
    object *m = &x->list[c.object];
    ptx_warp *w = &b->warps[c.thread / 32];
    int lane = (int)(c.thread % 32);
    memmove(&x->copies[n], &x->copies[n + 1], (size_t)(--x->ncopies - n) * sizeof c);
    if (memcmp(c.data, c.source, c.bytes))
        ptx_fail(w, c.i, lane, PTX_FAILED, "what the bulk copy reads was changed before it was complete");
    memcpy(b->shared + c.at, c.data, c.bytes);
    free(c.data);
    for (uint32_t k = 0; b->shadow && k < c.bytes; k++) {
        ptx_shadow *s = &b->shadow[c.at + k];
        s->flying = FLIES_NOT, s->known = 1;
        s->write = (ptx_access){b->epoch, 0, (uint16_t)(BULK_THREAD + c.object), 0, x->time};
    }
    if (!count_tx(w, c.i, lane, m, -(int64_t)c.bytes)) return;
    m->bulk = m->phase + 1;
    if (x->rows) m->arrived[x->threads + (uint32_t)c.object] = x->time;
    x->time++;
    settle(x, m);
}

/* ---- blocks ------------------------------------------------------------------------------------------------------------------ */

int ptx_barrier_idle(ptx_block *b) {
    struct ptx_barriers *x = b->barriers;
    const object *m;
    uint32_t round = x->round++;
    if (x->changes != x->seen_changes) {
        x->seen_changes = x->changes, x->idle = 0;
        return 1;
    }
    for (int k = 0; k < x->ncopies; k++)
        if (x->list[x->copies[k].object].polled == round) {
            complete(b, k);
            return !b->failed;
        }
    if (++x->idle < PATIENCE) return 1; /* a loop may count its tries */
    m = &x->list[x->missed.object];
    ptx_fail(x->missed.w, x->missed.i, x->missed.lane, PTX_TIMEOUT,
             "no thread can go on: the phase of parity %u of the mbarrier at %u wants %u arrivals more and has a tx-count of %lld; "
             "%d bulk copies for other mbarriers are under way",
             x->missed.parity, m->at, m->pending, (long long)m->tx, x->ncopies);
    return 0;
}

int ptx_barrier_end(ptx_block *b) {
    struct ptx_barriers *x = b->barriers;
    if (x->ncopies)
        ptx_fail(&b->warps[x->copies[0].thread / 32], x->copies[0].i, (int)(x->copies[0].thread % 32), PTX_FAILED,
                 "the kernel ends before the bulk copy is complete");
    for (int k = 0; k < x->count && !b->failed; k++) {
        const object *m = &x->list[k];
        ptx_warp *w = &b->warps[m->thread / 32];
        if (m->tx)
            ptx_fail(w, m->i, (int)(m->thread % 32), PTX_FAILED, "the kernel ends with a tx-count of %lld in the mbarrier at %u",
                     (long long)m->tx, m->at);
        else if (m->bulk > m->waited)
            ptx_fail(w, m->i, (int)(m->thread % 32), PTX_FAILED,
                     "the kernel ends, and nobody waited for the last bulk copy at the mbarrier at %u", m->at);
    }
    return !b->failed;
}

int ptx_barrier_make(ptx_block *b) {
    struct ptx_barriers *x = b->barriers = calloc(1, sizeof *x);
    size_t threads = (size_t)b->nwarps * 32, width = threads * 2 + MOST;
    if (!x) return 0;
    x->threads = (uint32_t)threads, x->width = (uint32_t)width, x->time = 1;
    if (!b->shadow) return 1;
    x->rows = malloc(threads * width * sizeof *x->rows);
    x->views = malloc((size_t)b->nwarps * width * sizeof *x->views);
    x->stale = malloc((size_t)b->nwarps);
    x->fences = malloc(threads * 2 * sizeof *x->fences);
    x->reads = calloc(b->shared_bytes * (size_t)b->nwarps + 1, sizeof *x->reads);
    x->writes = malloc((b->shared_bytes + 1) * sizeof *x->writes);
    x->list[0].arrived = malloc(MOST * 2 * width * sizeof *x->rows);
    if (!x->rows || !x->views || !x->stale || !x->fences || !x->reads || !x->writes || !x->list[0].arrived) return 0;
    x->fences_met = x->fences + threads;
    for (int k = 0; k < MOST; k++) {
        x->list[k].arrived = x->list[0].arrived + (size_t)k * 2 * width;
        x->list[k].done = x->list[k].arrived + width;
    }
    return 1;
}
static void drop_copies(struct ptx_barriers *x) {
    while (x->ncopies) free(x->copies[--x->ncopies].data);
}
void ptx_barrier_free(ptx_block *b) {
    struct ptx_barriers *x = b->barriers;
    if (!x) return;
    drop_copies(x);
    free(x->copies);
    free(x->rows);
    free(x->views);
    free(x->stale);
    free(x->fences);
    free(x->reads);
    free(x->writes);
    free(x->list[0].arrived);
    free(x);
}
void ptx_barrier_start(ptx_block *b) {
    struct ptx_barriers *x = b->barriers;
    drop_copies(x);
    x->count = 0;
    x->changes = x->seen_changes = x->idle = 0, x->round = 1;
    if (!x->rows) return;
    x->epoch_time = ++x->time; /* it goes on from block to block: reads of the one before are long ago */
    memset(x->rows, 0, (size_t)x->threads * x->width * sizeof *x->rows);
    memset(x->fences, 0, x->threads * 2 * sizeof *x->fences);
    memset(x->stale, 1, (size_t)b->nwarps);
}

/* ---- decoding ---------------------------------------------------------------------------------------------------------------- */

static int needs(const ptx_module *m, int version, int target, char *why, size_t size) {
    if (m->version >= version && m->target >= target) return 1;
    snprintf(why, size, "it needs .version %d.%d and .target sm_%d", version / 10, version % 10, target);
    return 0;
}

static int decode_bulk(ptx_parser *p, const ptx_module *m, ptx_ins *i, char **part, int parts, ptx_operand *o, int n,
                       char *why, size_t size) {
    if (parts != 6 || strcmp(part[1], "async") || strcmp(part[3], "shared::cluster") || strcmp(part[4], "global") ||
        strcmp(part[5], "mbarrier::complete_tx::bytes") || n != 4)
        return 0;
    if (!needs(m, 80, 90, why, size)) return 0;
    i->run = bulk, i->space = SPACE_SHARED;
    if (!ptx_set_address(i, &o[0], why, size)) return 0;
    if (o[1].kind != OPD_ADDR || !o[1].slot || o[1].width != 64 || o[3].kind != OPD_ADDR ||
        (o[3].space >= 0 && o[3].space != SPACE_SHARED)) {
        snprintf(why, size, "an address was expected");
        return 0;
    }
    i->o[0] = o[1].slot, i->o[3] = (uint32_t)(int32_t)o[1].offset;
    i->o[2] = o[3].slot ? o[3].slot : ptx_constant(p, 32, o[3].value + (uint64_t)o[3].offset);
    i->o[4] = o[3].slot ? (uint32_t)(int32_t)o[3].offset : 0, i->wide = o[3].slot && o[3].width == 64;
    return ptx_source(p, &o[2], 32, &i->o[1]);
}

/* mbarrier.OPERATION[.sem.cta].shared[::cta].b64 */
int ptx_decode_barrier(ptx_parser *p, ptx_func *f, ptx_ins *i, char **part, int parts, ptx_operand *o, int n, char *why,
                       size_t size) {
    static const struct { const char *name, *sem; int words, version, target, operands, first; ptx_fn run; } all[] = {
        {"init", "", 1, 70, 80, 2, 0, init},
        {"arrive.expect_tx", "release", 2, 80, 90, 3, 1, arrive},
        {"arrive", "release", 1, 70, 80, 2, 1, arrive},
        {"test_wait.parity", "acquire", 2, 71, 80, 3, 1, wait_parity},
        {"try_wait.parity", "acquire", 2, 78, 90, 3, 1, wait_parity},
    };
    const ptx_module *m = f->module;
    char name[64] = "";
    size_t k;
    int at;
    if (!strcmp(part[0], "fence")) {
        i->run = fence_init;
        return parts == 4 && !strcmp(part[2], "release") && !strcmp(part[3], "cluster") && n == 0 &&
               needs(m, 80, 90, why, size);
    }
    f->barriers = 1;
    if (!strcmp(part[0], "cp")) return decode_bulk(p, m, i, part, parts, o, n, why, size);
    for (k = 0; k < sizeof all / sizeof *all; k++) {
        snprintf(name, sizeof name, "%s%s%s", parts > 1 ? part[1] : "", all[k].words == 2 ? "." : "",
                 all[k].words == 2 && parts > 2 ? part[2] : "");
        if (!strcmp(name, all[k].name)) break;
    }
    if (k == sizeof all / sizeof *all) return 0;
    at = 1 + all[k].words;
    if (at + 1 < parts && !strcmp(part[at], all[k].sem) && !strcmp(part[at + 1], "cta")) {
        if (!needs(m, 80, all[k].target, why, size)) return 0;
        at += 2;
    }
    if (at + 2 != parts || (strcmp(part[at], "shared") && strcmp(part[at], "shared::cta")) || strcmp(part[at + 1], "b64"))
        return 0;
    if (!needs(m, part[at][6] && all[k].version < 78 ? 78 : all[k].version, all[k].target, why, size)) return 0;
    if (all[k].version == 78 && n == 4 && (o[3].kind == OPD_INT || (o[3].kind == OPD_REG && o[3].width == 32)))
        n = 3; /* for how long the thread may sleep */
    if (n != all[k].operands) {
        snprintf(why, size, "%d operands, not %d", n, all[k].operands);
        return 0;
    }
    i->run = all[k].run, i->space = SPACE_SHARED, i->flag = all[k].operands == 3;
    if (all[k].run == wait_parity) i->ctl = CTL_POLL;
    if (all[k].first) {
        int width = all[k].run == wait_parity ? 1 : 64;
        if (o[0].kind != OPD_REG || (o[0].slot ? o[0].width != width : width == 1)) {
            snprintf(why, size, "operand 1 is not of %d bits", width);
            return 0;
        }
        i->o[0] = o[0].slot;
    }
    if (!ptx_set_address(i, &o[all[k].first], why, size)) return 0;
    at = all[k].first + 1;
    if (at == n) return 1;
    if (ptx_source(p, &o[at], 32, &i->o[all[k].first])) return 1;
    snprintf(why, size, "operand %d is not of 32 bits", at + 1);
    return 0;
}
