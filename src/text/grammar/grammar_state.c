/* grammar_state.c: the automaton's states, created when a text reaches them.
 *
 * Owns:  infer__states: frames, states, the table of steps.
 * Rules: a state is the set of all items (node, frame) where the automaton can be. Callers of one routine at one place
 *        share a frame, so that ambiguous grammars take polynomial time (as Earley's algorithm does) and never a list
 *        of stacks. Frames and states are interned, steps are memoised, and a walk over known states costs one lookup
 *        per byte. A tail call takes its caller's frame: right recursion needs no depth. Routines that derive the empty
 *        text are not followed to their callers: a call steps over them right away (Aycock, Horspool: Practical Earley
 *        parsing, 2002). Nothing is dropped during a walk; infer__states_collect, called between walks, drops unused
 *        states.
 * Counters: a repetition x{m,n} is a call of x whose frame has the count. In frames that count "from here" the real
 *        count is not known: they never end, and states know how many repetitions they need at least (grammar_mask.c).
 * Start: infer__states_step, infer__close.
 */
#include "grammar.h"

/* ---- tables -------------------------------------------------------------------------------------------------- */

static int32_t infer__states_fail(infer__states *s, infer_result r) {
    if (s->failed == INFER_OK) s->failed = r;
    return (int32_t)s->failed;
}
static uint32_t infer__ghash(const void *p, size_t n) {
    const uint32_t *u = (const uint32_t *)p; /* entries and items are whole 32-bit numbers */
    uint64_t h = INFER__FNV;
    size_t i;
    for (i = 0; i < n / 4; i++) h = (h ^ u[i]) * 0x9e3779b97f4a7c15u, h ^= h >> 29;
    return (uint32_t)(h ^ h >> 32);
}

/* Room for one more in a table of n: 1, or 0. hash_of(s, index) gives hashes again. */
static int infer__gtable_room(infer__states *s, infer__gtable *t, uint32_t (*hash_of)(const infer__states *, int32_t)) {
    uint32_t size = t->slots ? t->mask + 1 : 0, want, i;
    int32_t *slots;
    if (t->slots && t->n < size / 2) return 1;
    want = size ? size * 2 : 256;
    if (want == 0 || !(slots = (int32_t *)infer__realloc(s->mem, NULL, want, sizeof *slots))) return 0;
    for (i = 0; i < want; i++) slots[i] = -1;
    for (i = 0; i < size; i++) {
        uint32_t at;
        if (t->slots[i] < 0) continue;
        for (at = hash_of(s, t->slots[i]) & (want - 1); slots[at] >= 0; at = (at + 1) & (want - 1)) {
        }
        slots[at] = t->slots[i];
    }
    infer__free(s->mem, t->slots);
    t->slots = slots;
    t->mask = want - 1;
    return 1;
}
static uint32_t infer__gframe_hash(const infer__states *s, int32_t i) { return s->frames[i].hash; }
static uint32_t infer__gstate_hash(const infer__states *s, int32_t i) { return s->states[i].hash; }

/* ---- frames ---------------------------------------------------------------------------------------------------- */

static int infer__gentry_after(const infer__gentry *x, const infer__gentry *y) {
    if (x->parent != y->parent) return x->parent > y->parent;
    return x->node != y->node ? x->node > y->node : x->count > y->count;
}
/* Sort and drop doubles: nearly always a few. */
static uint32_t infer__gentries_sort(infer__gentry *e, uint32_t n) {
    uint32_t gap, i, j, m = 0;
    for (gap = 1; gap < n / 3; gap = gap * 3 + 1) {
    }
    for (; gap > 0; gap /= 3) {
        for (i = gap; i < n; i++) {
            infer__gentry x = e[i];
            for (j = i; j >= gap && infer__gentry_after(&e[j - gap], &x); j -= gap) e[j] = e[j - gap];
            e[j] = x;
        }
    }
    for (i = 0; i < n; i++) if (m == 0 || infer__gentry_after(&e[i], &e[m - 1])) e[m++] = e[i];
    return m;
}

static void infer__gneed_none(struct infer__gneed *n) {
    n->in = n->least = INFER__UNLIMITED;
    n->most = 0;
}
static void infer__gneed_join(struct infer__gneed *n, const struct infer__gneed *x) {
    n->in = INFER__MIN(n->in, x->in);
    n->least = INFER__MIN(n->least, x->least);
    n->most = INFER__MAX(n->most, x->most);
}
/* What items in a routine with this entry have seen. */
static struct infer__gneed infer__gentry_need(const infer__states *s, const infer__gentry *e) {
    struct infer__gneed n;
    if (e->node >= 0 && !(e->count & INFER__FROM_HERE)) return s->frames[e->parent].need;
    infer__gneed_none(&n);
    if (e->node >= 0) n.in = infer__gentry_count(e) + 1;
    else n.least = n.most = e->node == INFER__AT_CUT ? e->count : 0;
    return n;
}

static int32_t infer__states_frame(infer__states *s, infer__gentry *e, uint32_t n) {
    uint32_t hash, at, i;
    infer__gframe *f;
    n = infer__gentries_sort(e, n);
    hash = infer__ghash(e, n * sizeof *e);
    if (!infer__gtable_room(s, &s->frame_table, infer__gframe_hash)) return infer__states_fail(s, INFER_ERR_MEMORY);
    for (at = hash & s->frame_table.mask; s->frame_table.slots[at] >= 0; at = (at + 1) & s->frame_table.mask) {
        f = &s->frames[s->frame_table.slots[at]];
        if (f->hash == hash && f->n == n && memcmp(s->entries + f->first, e, n * sizeof *e) == 0)
            return s->frame_table.slots[at];
    }
    if (!infer__room(s->mem, &s->frames, &s->cap_frames, (uint64_t)s->n_frames + 1, sizeof *s->frames) ||
        !infer__room(s->mem, &s->entries, &s->cap_entries, (uint64_t)s->n_entries + n, sizeof *s->entries))
        return infer__states_fail(s, INFER_ERR_MEMORY);
    f = &s->frames[s->n_frames];
    f->first = s->n_entries;
    f->n = n;
    f->hash = hash;
    f->returned = -1;
    infer__gneed_none(&f->need);
    for (i = 0; i < n; i++) {
        struct infer__gneed need = infer__gentry_need(s, &e[i]);
        infer__gneed_join(&f->need, &need);
    }
    memcpy(s->entries + s->n_entries, e, n * sizeof *e);
    s->n_entries += n;
    s->frame_table.slots[at] = (int32_t)s->n_frames;
    s->frame_table.n++;
    return (int32_t)s->n_frames++;
}

/* ---- states ------------------------------------------------------------------------------------------------------ */

static int infer__gitem_after(const infer__gitem *x, const infer__gitem *y) {
    return x->frame != y->frame ? x->frame > y->frame : x->node > y->node;
}
static void infer__gitems_sort(infer__gitem *e, uint32_t n) {
    uint32_t gap, i, j;
    for (gap = 1; gap < n / 3; gap = gap * 3 + 1) {
    }
    for (; gap > 0; gap /= 3) {
        for (i = gap; i < n; i++) {
            infer__gitem x = e[i];
            for (j = i; j >= gap && infer__gitem_after(&e[j - gap], &x); j -= gap) e[j] = e[j - gap];
            e[j] = x;
        }
    }
}

/* The state of n items (no doubles), s->complete and s->cut. */
static int32_t infer__states_intern(infer__states *s, infer__gitem *items, uint32_t n) {
    uint32_t hash, at, i, classes = (uint32_t)s->a->n_classes;
    infer__gstate *st;
    infer__gitems_sort(items, n);
    hash = infer__ghash(items, n * sizeof *items) ^ s->cut * 0x85ebca6bu ^ s->cut_most * 0xc2b2ae35u ^
           (uint32_t)s->complete;
    if (!infer__gtable_room(s, &s->state_table, infer__gstate_hash)) return infer__states_fail(s, INFER_ERR_MEMORY);
    for (at = hash & s->state_table.mask; s->state_table.slots[at] >= 0; at = (at + 1) & s->state_table.mask) {
        st = &s->states[s->state_table.slots[at]];
        if (st->hash == hash && st->n == n && st->cut == s->cut && st->cut_most == s->cut_most &&
            st->complete == s->complete && (n == 0 || memcmp(s->items + st->first, items, n * sizeof *items) == 0))
            return s->state_table.slots[at];
    }
    if (infer__states_bytes(s) > INFER__STATES_MOST) return infer__states_fail(s, INFER_ERR_STATE);
    if (!infer__room(s->mem, &s->states, &s->cap_states, (uint64_t)s->n_states + 1, sizeof *s->states) ||
        !infer__room(s->mem, &s->items, &s->cap_items, (uint64_t)s->n_items + n, sizeof *s->items) ||
        !infer__room(s->mem, &s->steps, &s->cap_steps, ((uint64_t)s->n_states + 1) * classes, sizeof *s->steps))
        return infer__states_fail(s, INFER_ERR_MEMORY);
    st = &s->states[s->n_states];
    memset(st, 0, sizeof *st);
    st->first = s->n_items;
    st->n = n;
    st->hash = hash;
    st->cut = s->cut;
    st->cut_most = s->cut_most;
    st->complete = s->complete;
    st->local = st->mask = -1;
    infer__gneed_none(&st->need);
    for (i = 0; i < n; i++) infer__gneed_join(&st->need, &s->frames[items[i].frame].need);
    if (n) memcpy(s->items + s->n_items, items, n * sizeof *items);
    s->n_items += n;
    for (i = 0; i < classes; i++) s->steps[(uint64_t)s->n_states * classes + i] = n ? -1 : 0;
    s->state_table.slots[at] = (int32_t)s->n_states;
    s->state_table.n++;
    return (int32_t)s->n_states++;
}

static int32_t infer__states_of(infer__states *s, infer__gitem *items, uint32_t n) {
    s->cut = INFER__UNLIMITED;
    s->cut_most = 0;
    s->complete = 0;
    return infer__states_intern(s, items, n);
}

/* ---- closing: from where the text arrives to where it can go on -------------------------------------------------- */

static uint32_t infer__seen_hash(uint64_t key) {
    key *= 0x9e3779b97f4a7c15u;
    return (uint32_t)(key >> 32 ^ key >> 13);
}

/* 1 when the item was not there yet in this closing. */
static int infer__close_new(infer__states *s, int32_t node, int32_t frame) {
    uint64_t key = (uint64_t)(uint32_t)node << 32 | (uint32_t)frame;
    uint32_t at;
    if (!s->seen || s->n_seen >= s->seen_mask / 2) {
        uint32_t size = s->seen ? (s->seen_mask + 1) * 2 : 256, old = s->seen ? s->seen_mask + 1 : 0, i;
        uint64_t *seen = (uint64_t *)infer__realloc(s->mem, NULL, size, sizeof *seen);
        uint32_t *stamps = (uint32_t *)infer__calloc(s->mem, size, sizeof *stamps);
        if (!seen || !stamps) {
            infer__free(s->mem, seen);
            infer__free(s->mem, stamps);
            infer__states_fail(s, INFER_ERR_MEMORY);
            return 0;
        }
        for (i = 0; i < old; i++) {
            if (s->seen_stamp[i] != s->stamp) continue;
            for (at = infer__seen_hash(s->seen[i]) & (size - 1); stamps[at]; at = (at + 1) & (size - 1)) {
            }
            seen[at] = s->seen[i];
            stamps[at] = s->stamp;
        }
        infer__free(s->mem, s->seen);
        infer__free(s->mem, s->seen_stamp);
        s->seen = seen;
        s->seen_stamp = stamps;
        s->seen_mask = size - 1;
    }
    for (at = infer__seen_hash(key) & s->seen_mask; s->seen_stamp[at] == s->stamp; at = (at + 1) & s->seen_mask)
        if (s->seen[at] == key) return 0;
    s->seen[at] = key;
    s->seen_stamp[at] = s->stamp;
    s->n_seen++;
    return 1;
}

static void infer__close_put(infer__states *s, int32_t node, int32_t frame) {
    if (s->failed != INFER_OK) return;
    if (++s->work > s->work_limit) {
        infer__states_fail(s, INFER_ERR_STATE);
        return;
    }
    if (!infer__close_new(s, node, frame)) return;
    if (!infer__room(s->mem, &s->todo, &s->cap_todo, (uint64_t)s->n_todo + 1, sizeof *s->todo)) {
        infer__states_fail(s, INFER_ERR_MEMORY);
        return;
    }
    s->todo[s->n_todo].node = node;
    s->todo[s->n_todo++].frame = frame;
}

static void infer__close_pending(infer__states *s, uint32_t routine, infer__gentry e) {
    infer__gpending *p;
    if (s->failed != INFER_OK) return;
    if (++s->work > s->work_limit) {
        infer__states_fail(s, INFER_ERR_STATE);
        return;
    }
    if (!infer__room(s->mem, &s->pending, &s->cap_pending, (uint64_t)s->n_pending + 1, sizeof *s->pending)) {
        infer__states_fail(s, INFER_ERR_MEMORY);
        return;
    }
    if (s->pending_of[routine] < 0) { /* a heap of orders, least on top; it has room for every routine */
        int32_t order = s->a->routines[routine].order;
        uint32_t i = s->n_heap++;
        for (; i > 0 && s->heap[(i - 1) / 2] > order; i = (i - 1) / 2) s->heap[i] = s->heap[(i - 1) / 2];
        s->heap[i] = order;
    }
    p = &s->pending[s->n_pending];
    p->e = e;
    p->next = s->pending_of[routine];
    s->pending_of[routine] = (int32_t)s->n_pending++;
}

/* A call that returns to `node`. In last place it returns to where its caller returns to. */
static void infer__close_call(infer__states *s, uint32_t routine, int32_t node, uint32_t count, int32_t parent) {
    infer__gentry e;
    uint32_t i;
    if (s->a->nodes[node].kind == INFER__GN_END) {
        for (i = 0; i < s->frames[parent].n && s->failed == INFER_OK; i++)
            infer__close_pending(s, routine, s->entries[s->frames[parent].first + i]);
        return;
    }
    e.node = node;
    e.count = count;
    e.parent = parent;
    infer__close_pending(s, routine, e);
}

/* One more repetition of a loop is done. */
static void infer__close_loop(infer__states *s, const infer__gentry *e) {
    const infer__gnode *x = &s->a->nodes[e->node];
    const infer__gloop *loop = &s->a->loops[x->arg];
    uint32_t count = infer__gentry_count(e) + 1;
    if (e->count & INFER__FROM_HERE) {
        infer__gentry cut;
        int32_t frame;
        cut.node = INFER__AT_CUT;
        cut.count = count;
        cut.parent = -1;
        frame = infer__states_frame(s, &cut, 1);
        if (frame < 0) return;
        infer__close_put(s, x->next, frame);
        infer__close_call(s, loop->routine, e->node, INFER__COUNTS | INFER__FROM_HERE | count, e->parent);
        return;
    }
    if (loop->most == INFER__UNLIMITED) count = INFER__MIN(count, loop->least);
    if (count >= loop->least) infer__close_put(s, x->next, e->parent);
    if (count < loop->most) infer__close_call(s, loop->routine, e->node, INFER__COUNTS | count, e->parent);
}

static void infer__close_cut(infer__states *s, uint32_t least, uint32_t most) {
    s->cut = INFER__MIN(s->cut, least);
    s->cut_most = INFER__MAX(s->cut_most, most);
}

/* A routine has ended: go on where its frame says. */
static void infer__close_return(infer__states *s, int32_t frame) {
    uint32_t i;
    if (!infer__close_new(s, -1, frame)) return;
    for (i = 0; i < s->frames[frame].n && s->failed == INFER_OK; i++) {
        infer__gentry e = s->entries[s->frames[frame].first + i];
        s->work++;
        if (e.node == INFER__AT_END) s->complete = 1;
        else if (e.node == INFER__AT_CUT) infer__close_cut(s, e.count, e.count);
        else if (e.count & INFER__COUNTS) infer__close_loop(s, &e);
        else infer__close_put(s, e.node, e.parent);
    }
}

/* Follow what needs no byte. fresh: in routines that were called at this place. */
static void infer__close_run(infer__states *s, int fresh) {
    while (s->n_todo > 0 && s->failed == INFER_OK) {
        infer__gitem it = s->todo[--s->n_todo];
        const infer__gnode *x = &s->a->nodes[it.node];
        switch (x->kind) {
        case INFER__GN_SPLIT:
            infer__close_put(s, x->next, it.frame);
            infer__close_put(s, (int32_t)x->arg, it.frame);
            break;
        case INFER__GN_CALL:
            if (s->a->routines[x->arg].nullable) infer__close_put(s, x->next, it.frame);
            infer__close_call(s, x->arg, x->next, 0, it.frame);
            break;
        case INFER__GN_LOOP:
            if (s->a->loops[x->arg].least == 0) infer__close_put(s, x->next, it.frame);
            infer__close_call(s, s->a->loops[x->arg].routine, it.node, INFER__COUNTS, it.frame);
            break;
        case INFER__GN_END:
            if (!fresh) infer__close_return(s, it.frame);
            break;
        default:
            if (!infer__room(s->mem, &s->found, &s->cap_found, (uint64_t)s->n_found + 1, sizeof *s->found)) {
                infer__states_fail(s, INFER_ERR_MEMORY);
                return;
            }
            s->found[s->n_found++] = it;
        }
    }
}

/* The next routine that was called: its callers become its frame. */
static void infer__close_enter(infer__states *s) {
    int32_t order = s->heap[0], last = s->heap[--s->n_heap], routine = s->a->by_order[order], p, frame;
    uint32_t i = 0, j, n = 0;
    for (; (j = 2 * i + 1) < s->n_heap; i = j) {
        if (j + 1 < s->n_heap && s->heap[j + 1] < s->heap[j]) j++;
        if (s->heap[j] >= last) break;
        s->heap[i] = s->heap[j];
    }
    s->heap[i] = last;
    p = s->pending_of[routine];
    s->pending_of[routine] = -1; /* before anything can fail: it is not in the heap any more */
    for (; p >= 0; p = s->pending[p].next, n++) {
        if (!infer__room(s->mem, &s->merged, &s->cap_merged, (uint64_t)n + 1, sizeof *s->merged)) {
            infer__states_fail(s, INFER_ERR_MEMORY);
            return;
        }
        s->merged[n] = s->pending[p].e;
    }
    if ((frame = infer__states_frame(s, s->merged, n)) < 0) return;
    infer__close_put(s, s->a->routines[routine].start, frame);
    infer__close_run(s, 1);
}

static void infer__close_begin(infer__states *s) {
    uint32_t i;
    for (i = 0; i < s->n_heap; i++) s->pending_of[s->a->by_order[s->heap[i]]] = -1; /* after a failure */
    s->n_todo = s->n_found = s->n_pending = s->n_heap = s->n_seen = 0;
    s->complete = 0;
    s->cut = INFER__UNLIMITED;
    s->cut_most = 0;
    s->failed = INFER_OK;
    if (++s->stamp == 0) {
        if (s->seen) memset(s->seen_stamp, 0, ((size_t)s->seen_mask + 1) * sizeof *s->seen_stamp);
        s->stamp = 1;
    }
}

/* The state of what was put since infer__close_begin. */
static int32_t infer__close_end(infer__states *s) {
    infer__close_run(s, 0);
    while (s->n_heap > 0 && s->failed == INFER_OK) infer__close_enter(s);
    if (s->failed != INFER_OK) return (int32_t)s->failed;
    return infer__states_intern(s, s->found, s->n_found);
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

static void infer__close_step(infer__states *s, int32_t state, int byte) {
    uint32_t i, first = s->states[state].first, n = s->states[state].n;
    for (i = 0; i < n && s->failed == INFER_OK; i++) {
        infer__gitem it = s->items[first + i];
        const infer__gnode *x = &s->a->nodes[it.node];
        if (x->kind == INFER__GN_BYTES && infer__gset_has(&s->a->sets[x->arg], byte))
            infer__close_put(s, x->next, it.frame);
    }
}

static int32_t infer__states_step(infer__states *s, int32_t state, int byte) {
    uint64_t at = (uint64_t)(uint32_t)state * (uint32_t)s->a->n_classes + s->a->class_of[byte];
    int32_t to = s->steps[at];
    if (to >= 0) return to;
    infer__close_begin(s);
    infer__close_step(s, state, byte);
    to = infer__close_end(s);
    if (to >= 0) s->steps[at] = to;
    return to;
}

static int32_t infer__states_token(infer__states *s, int32_t state, int32_t token, int32_t end, const char *bytes,
                                    size_t n) {
    int32_t by_text = n ? state : 0;
    uint32_t i;
    size_t k;
    for (k = 0; k < n && by_text > 0; k++) by_text = infer__states_step(s, by_text, (uint8_t)bytes[k]);
    if (by_text < 0 || !s->a->has_tokens) return by_text;
    infer__close_begin(s);
    for (i = 0; i < s->states[state].n && s->failed == INFER_OK; i++) {
        infer__gitem it = s->items[s->states[state].first + i];
        const infer__gnode *x = &s->a->nodes[it.node];
        if ((x->kind == INFER__GN_TOKEN && (int32_t)x->arg == token) ||
            (x->kind == INFER__GN_NOT_TOKEN && (int32_t)x->arg != token && !end))
            infer__close_put(s, x->next, it.frame);
    }
    if (s->n_todo == 0 && s->failed == INFER_OK) return by_text;
    infer__close_run(s, 0);
    if (by_text > 0) { /* both at once: what the text reached is closed already */
        s->complete |= s->states[by_text].complete;
        infer__close_cut(s, s->states[by_text].cut, s->states[by_text].cut_most);
        for (i = 0; i < s->states[by_text].n; i++) {
            infer__gitem it = s->items[s->states[by_text].first + i];
            infer__close_put(s, it.node, it.frame);
        }
    }
    return infer__close_end(s);
}

static int32_t infer__states_return(infer__states *s, int32_t frame) {
    int32_t to = s->frames[frame].returned;
    if (to >= 0) return to;
    infer__close_begin(s);
    infer__close_return(s, frame);
    to = infer__close_end(s);
    if (to >= 0) s->frames[frame].returned = to;
    return to;
}

/* ---- opening, collecting ----------------------------------------------------------------------------------------- */

static infer_result infer__states_first(infer__states *s) {
    infer__gentry e;
    int32_t frame;
    memset(&e, 0, sizeof e);
    infer__close_begin(s);
    if (infer__states_intern(s, s->found, 0) < 0) return s->failed; /* state 0 */
    e.node = INFER__AT_END;
    e.parent = -1;
    if ((frame = infer__states_frame(s, &e, 1)) < 0) return s->failed;
    s->end_frame = frame;
    infer__close_put(s, s->a->routines[0].start, frame);
    s->start = infer__close_end(s);
    return s->start < 0 ? (infer_result)s->start : INFER_OK;
}

static infer_result infer__states_open(infer__states *s, infer__mem *mem, const infer__automaton *a,
                                       infer_error *err) {
    infer_result r;
    uint32_t i;
    memset(s, 0, sizeof *s);
    s->mem = mem;
    s->a = a;
    s->work_limit = UINT64_MAX; /* the caller's to set */
    s->trim_at = INFER__STATES_USUAL;
    s->pending_of = (int32_t *)infer__realloc(mem, NULL, a->n_routines, sizeof *s->pending_of);
    s->heap = (int32_t *)infer__realloc(mem, NULL, a->n_routines, sizeof *s->heap);
    for (i = 0; s->pending_of && i < a->n_routines; i++) s->pending_of[i] = -1;
    r = s->pending_of && s->heap ? infer__states_first(s) : INFER_ERR_MEMORY;
    if (r != INFER_OK) {
        infer__states_free(s);
        return infer__error(err, r, "out of memory for the grammar");
    }
    return INFER_OK;
}

/* What can be made again. */
static void infer__states_drop(infer__states *s) {
    infer__free(s->mem, s->frames);
    infer__free(s->mem, s->entries);
    infer__free(s->mem, s->states);
    infer__free(s->mem, s->items);
    infer__free(s->mem, s->steps);
    infer__free(s->mem, s->frame_table.slots);
    infer__free(s->mem, s->state_table.slots);
    infer__free(s->mem, s->todo);
    infer__free(s->mem, s->found);
    infer__free(s->mem, s->seen);
    infer__free(s->mem, s->seen_stamp);
    infer__free(s->mem, s->pending);
    infer__free(s->mem, s->merged);
}
static void infer__states_free(infer__states *s) {
    infer__states_drop(s);
    infer__free(s->mem, s->pending_of);
    infer__free(s->mem, s->heap);
    memset(s, 0, sizeof *s);
}

static uint64_t infer__states_bytes(const infer__states *s) {
    return (uint64_t)s->n_frames * (sizeof *s->frames + 8) + (uint64_t)s->n_entries * sizeof *s->entries +
           (uint64_t)s->n_items * sizeof *s->items +
           (uint64_t)s->n_states * (sizeof *s->states + 8 + (uint32_t)s->a->n_classes * sizeof *s->steps);
}

/* Kept states and their frames to `to`; frames are made after their parents, so parents have lower numbers. */
static infer_result infer__states_move(const infer__states *s, infer__states *to, uint8_t *used, int32_t *now,
                                       int32_t *const *keep, uint32_t n_keep, int32_t *moved) {
    uint32_t i, k;
    for (i = 0; i < n_keep; i++)
        for (k = 0; k < s->states[*keep[i]].n; k++) used[s->items[s->states[*keep[i]].first + k].frame] = 1;
    for (i = s->n_frames; i-- > 0;) {
        const infer__gframe *f = &s->frames[i];
        for (k = 0; used[i] && k < f->n; k++)
            if (s->entries[f->first + k].parent >= 0) used[s->entries[f->first + k].parent] = 1;
    }
    for (i = 0; i < s->n_frames; i++) {
        const infer__gframe *f = &s->frames[i];
        if (!used[i]) continue;
        if (!infer__room(to->mem, &to->merged, &to->cap_merged, f->n, sizeof *to->merged)) return INFER_ERR_MEMORY;
        for (k = 0; k < f->n; k++) {
            to->merged[k] = s->entries[f->first + k];
            if (to->merged[k].parent >= 0) to->merged[k].parent = now[to->merged[k].parent];
        }
        if ((now[i] = infer__states_frame(to, to->merged, f->n)) < 0) return INFER_ERR_MEMORY;
    }
    for (i = 0; i < n_keep; i++) {
        const infer__gstate *st = &s->states[*keep[i]];
        if (!infer__room(to->mem, &to->found, &to->cap_found, (uint64_t)st->n + 1, sizeof *to->found))
            return INFER_ERR_MEMORY;
        for (k = 0; k < st->n; k++) {
            to->found[k] = s->items[st->first + k];
            to->found[k].frame = now[to->found[k].frame];
        }
        to->complete = st->complete;
        to->cut = st->cut;
        to->cut_most = st->cut_most;
        if ((moved[i] = infer__states_intern(to, to->found, st->n)) < 0) return INFER_ERR_MEMORY;
    }
    return INFER_OK;
}

static infer_result infer__states_collect(infer__states *s, int32_t *const *keep, uint32_t n_keep) {
    infer__states to;
    uint8_t *used = (uint8_t *)infer__calloc(s->mem, (uint64_t)s->n_frames + 1, 1);
    int32_t *now = (int32_t *)infer__calloc(s->mem, (uint64_t)s->n_frames + 1, sizeof *now);
    int32_t *moved = (int32_t *)infer__calloc(s->mem, (uint64_t)n_keep + 1, sizeof *moved);
    infer_result r = INFER_ERR_MEMORY;
    uint32_t i;
    if (used && now && moved) r = infer__states_open(&to, s->mem, s->a, NULL);
    if (r == INFER_OK) {
        to.work_limit = s->work_limit;
        r = infer__states_move(s, &to, used, now, keep, n_keep, moved);
        if (r == INFER_OK) {
            infer__states_free(s);
            *s = to;
            for (i = 0; i < n_keep; i++) *keep[i] = moved[i];
        } else {
            infer__states_free(&to);
        }
    }
    infer__free(s->mem, used);
    infer__free(s->mem, now);
    infer__free(s->mem, moved);
    return r;
}
