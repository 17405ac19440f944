/* schema_dfa.c: intersections and complements of regular languages.
 *
 * Owns:  patterns -> one nondeterministic automaton (Thompson's construction) -> a deterministic one (subset
 *        construction) -> expressions, a rule for a state. Several patterns share the automaton, so that
 *        a state of the deterministic one knows of each whether the text so far is in its language: any combination of
 *        "in" and "not in" is a matter of which states accept.
 * Rules: states and steps are bounded; a language that needs more is an error. Characters are code points, surrogates
 *        are none.
 * Start: infer__dfa_text.
 */
#include "schema.h"

enum { INFER__NFA_STATES = 20000, INFER__DFA_STATES = 24000, INFER__DFA_EDGES = 250000, INFER__DFA_MEMBERS = 4000000,
       INFER__DFA_SLOTS = 65536, INFER__DFA_CUTS = 4096 };
enum { INFER__NFA_CLASS, INFER__NFA_SPLIT, INFER__NFA_START, INFER__NFA_END, INFER__NFA_MATCH };

typedef struct infer__nfa_state {
    int32_t kind;
    uint32_t a, b;           /* where to; b of SPLIT only */
    uint32_t lang;           /* of MATCH and of the loop after a match */
    const infer__sx *ranges; /* of CLASS */
} infer__nfa_state;

typedef struct infer__nfa {
    infer__schema *c;
    const infer_json *where;
    infer__nfa_state *s;
    uint32_t n, cap, start[32], tail[32]; /* tail: the state that takes all the rest; UINT32_MAX = none */
    uint32_t *mark, *stack, mark_id;      /* of the closure: 2 n of each */
    uint32_t *set, n_set;                 /* the closure: 2 * state + (no more characters may follow) */
    struct infer__nfa_use *uses;
    int failed;
} infer__nfa;

typedef struct infer__nfa_use { /* the states of a rule before `next`, so that rules may refer to themselves */
    uint32_t rule, next, state;
    struct infer__nfa_use *after;
} infer__nfa_use;

typedef struct infer__edge { uint32_t lo, hi, to; } infer__edge;
typedef struct infer__dfa_state {
    const uint32_t *set;
    uint32_t n_set, edge, n_edges, rule;
    uint8_t accepts, live;
} infer__dfa_state;
typedef struct infer__dfa {
    infer__dfa_state *s;
    infer__edge *e;
    uint32_t n, cap, n_e, cap_e;
    uint32_t *slots, *cuts; /* of the table set -> state; borders of classes */
    uint64_t members;       /* of all sets */
} infer__dfa;

static const infer__range INFER__ALL_CHARS[] = {{0, 0xd7ff}, {0xe000, 0x10ffff}};

/* ---- the nondeterministic automaton -------------------------------------------------------------------------- */

static void infer__nfa_big(infer__nfa *f) {
    if (!f->failed)
        infer__schema_no(f->c, f->where, "a combination of patterns and lengths that needs a large automaton");
    f->failed = 1;
}

static uint32_t infer__nfa_add(infer__nfa *f, int kind, uint32_t a, uint32_t b) {
    if (f->failed || f->n >= INFER__NFA_STATES) {
        infer__nfa_big(f);
        return 0;
    }
    if (f->n == f->cap) {
        uint32_t cap = f->cap * 2 + 64;
        void *p = infer__realloc(f->c->mem, f->s, cap, sizeof *f->s);
        if (!p) {
            infer__schema_no_memory(f->c);
            f->failed = 1;
            return 0;
        }
        f->s = (infer__nfa_state *)p;
        f->cap = cap;
    }
    memset(&f->s[f->n], 0, sizeof *f->s);
    f->s[f->n].kind = kind;
    f->s[f->n].a = a;
    f->s[f->n].b = b;
    return f->n++;
}

static uint32_t infer__nfa_build(infer__nfa *f, const infer__sx *x, uint32_t next);
static uint32_t infer__nfa_rule(infer__nfa *f, uint32_t rule, uint32_t next) {
    infer__nfa_use *u;
    uint32_t body;
    for (u = f->uses; u; u = u->after) if (u->rule == rule && u->next == next) return u->state;
    u = (infer__nfa_use *)infer__schema_get_mem(f->c, 1, sizeof *u);
    if (!u || !f->c->rules[rule].body) return 0;
    u->rule = rule;
    u->next = next;
    u->state = infer__nfa_add(f, INFER__NFA_SPLIT, 0, 0);
    u->after = f->uses;
    f->uses = u;
    body = infer__nfa_build(f, f->c->rules[rule].body, next);
    if (f->failed) return 0;
    f->s[u->state].a = f->s[u->state].b = body;
    return u->state;
}

/* The states for x followed by `next`; returns the first. Rules may refer to themselves at their end only. */
static uint32_t infer__nfa_build(infer__nfa *f, const infer__sx *x, uint32_t next) {
    uint32_t i, s, at;
    if (f->failed || !infer__schema_step(f->c, 1)) return 0;
    switch (x->kind) {
    case INFER__SX_EMPTY: return next;
    case INFER__SX_CLASS:
        s = infer__nfa_add(f, INFER__NFA_CLASS, next, 0);
        if (!f->failed) f->s[s].ranges = x;
        return s;
    case INFER__SX_LIT: /* ASCII: signs and points of numbers */
        for (i = x->n; i-- > 0;) {
            infer__range r;
            r.lo = r.hi = (uint8_t)x->v.s[i];
            next = infer__nfa_build(f, infer__sx_class(f->c, &r, 1), next);
        }
        return next;
    case INFER__SX_REF: return infer__nfa_rule(f, x->n, next);
    case INFER__SX_START: return infer__nfa_add(f, INFER__NFA_START, next, 0);
    case INFER__SX_END: return infer__nfa_add(f, INFER__NFA_END, next, 0);
    case INFER__SX_SEQ:
        for (i = x->n; i-- > 0;) next = infer__nfa_build(f, x->v.items[i], next);
        return next;
    case INFER__SX_ALT:
        s = infer__nfa_build(f, x->v.items[x->n - 1], next);
        for (i = x->n - 1; i-- > 0;) {
            at = infer__nfa_build(f, x->v.items[i], next);
            s = infer__nfa_add(f, INFER__NFA_SPLIT, at, s);
        }
        return s;
    case INFER__SX_REP:
        if (x->max == INFER__SX_MANY) {
            s = infer__nfa_add(f, INFER__NFA_SPLIT, 0, next);
            at = infer__nfa_build(f, x->v.items[0], s);
            if (f->failed) return 0;
            f->s[s].a = at;
        } else {
            for (s = next, i = x->min; i < x->max && !f->failed; i++) {
                at = infer__nfa_build(f, x->v.items[0], s);
                s = infer__nfa_add(f, INFER__NFA_SPLIT, at, next);
            }
        }
        for (i = 0; i < x->min && !f->failed; i++) s = infer__nfa_build(f, x->v.items[0], s);
        return s;
    default: /* NEVER: a class without characters */
        return infer__nfa_add(f, INFER__NFA_CLASS, next, 0);
    }
}

/* A language: at `start` before the first character. */
static void infer__nfa_lang(infer__nfa *f, uint32_t lang, const infer__lang *l, const infer__sx *any) {
    uint32_t match = infer__nfa_add(f, INFER__NFA_MATCH, 0, 0), tail, loop, body;
    if (f->failed) return;
    f->s[match].lang = lang;
    f->tail[lang] = UINT32_MAX;
    if (l->whole) {
        f->start[lang] = infer__nfa_build(f, l->x, infer__nfa_add(f, INFER__NFA_END, match, 0));
        return;
    }
    tail = infer__nfa_add(f, INFER__NFA_SPLIT, match, 0);
    loop = infer__nfa_build(f, any, tail);
    if (f->failed) return;
    f->s[tail].b = loop;
    f->tail[lang] = loop;
    f->s[loop].lang = lang;
    loop = infer__nfa_add(f, INFER__NFA_SPLIT, 0, 0);
    body = infer__nfa_build(f, l->x, tail);
    if (f->failed) return;
    f->s[loop].a = body;
    body = infer__nfa_build(f, any, loop);
    if (f->failed) return;
    f->s[loop].b = body;
    f->start[lang] = loop;
}

static int infer__nfa_open(infer__nfa *f, infer__schema *c, const infer_json *where, const infer__lang *l, uint32_t n) {
    const infer__sx *any;
    uint32_t i;
    memset(f, 0, sizeof *f);
    f->c = c;
    f->where = where;
    any = infer__sx_class(c, INFER__ALL_CHARS, 2);
    if (n > INFER__COUNT(f->start)) infer__nfa_big(f);
    for (i = 0; i < n && !f->failed; i++) infer__nfa_lang(f, i, &l[i], any);
    if (f->failed || c->r != INFER_OK) return 0;
    f->mark = (uint32_t *)infer__calloc(c->mem, (uint64_t)f->n * 2 + 1, sizeof *f->mark);
    f->stack = (uint32_t *)infer__calloc(c->mem, (uint64_t)f->n * 4 + 4, sizeof *f->stack);
    f->set = (uint32_t *)infer__calloc(c->mem, (uint64_t)f->n * 2 + 1, sizeof *f->set);
    if (!f->mark || !f->stack || !f->set) infer__schema_no_memory(c);
    return c->r == INFER_OK;
}
static void infer__nfa_close(infer__nfa *f) {
    infer__free(f->c->mem, f->s);
    infer__free(f->c->mem, f->mark);
    infer__free(f->c->mem, f->stack);
    infer__free(f->c->mem, f->set);
}

/* Add state s (2 * state + ended) and what it reaches without a character to f->set. */
static void infer__nfa_reach(infer__nfa *f, uint32_t s, int at_start) {
    uint32_t n = 0;
    f->stack[n++] = s;
    while (n > 0) {
        const infer__nfa_state *q;
        uint32_t ended;
        s = f->stack[--n];
        if (f->mark[s] == f->mark_id) continue;
        f->mark[s] = f->mark_id;
        q = &f->s[s / 2];
        ended = s & 1;
        switch (q->kind) {
        case INFER__NFA_SPLIT: /* at most two for each mark: the stack is large enough */
            f->stack[n++] = q->b * 2 + ended;
            f->stack[n++] = q->a * 2 + ended;
            break;
        case INFER__NFA_START: if (at_start) f->stack[n++] = q->a * 2 + ended; break;
        case INFER__NFA_END: f->stack[n++] = q->a * 2 + 1; break;
        case INFER__NFA_CLASS: if (!ended) f->set[f->n_set++] = s; break;
        default: f->set[f->n_set++] = s; break;
        }
    }
}

static void infer__sort_u32(uint32_t *a, uint32_t n) { /* heap sort: no recursion, no bad case */
    uint32_t i, j, k, end, x;
    for (k = n / 2, end = n; end > 1;) {
        if (k > 0) x = a[--k];
        else {
            x = a[--end];
            a[end] = a[0];
        }
        for (i = k; (j = 2 * i + 1) < end; i = j) {
            if (j + 1 < end && a[j + 1] > a[j]) j++;
            if (a[j] <= x) break;
            a[i] = a[j];
        }
        a[i] = x;
    }
}

static uint32_t infer__sort_unique(uint32_t *a, uint32_t n) {
    uint32_t i, k = 0;
    infer__sort_u32(a, n);
    for (i = 0; i < n; i++) if (i == 0 || a[i] != a[i - 1]) a[k++] = a[i];
    return k;
}

/* Sort the set; of a language that matches whatever follows only that is kept, so that such states are one. */
static void infer__nfa_tidy(infer__nfa *f, const uint8_t *lang_of, uint32_t n_lang) {
    uint32_t i, k = 0, sure = 0;
    for (i = 0; i < f->n_set; i++) {
        uint32_t s = f->set[i] / 2, l = f->s[s].lang;
        if (f->s[s].kind == INFER__NFA_CLASS && l < n_lang && f->tail[l] == s) sure |= (uint32_t)1 << l;
    }
    for (i = 0; i < f->n_set; i++) {
        uint32_t s = f->set[i] / 2, l = lang_of[s];
        if ((sure >> l & 1) && s != f->tail[l] && f->s[s].kind != INFER__NFA_MATCH) continue;
        f->set[k++] = f->s[s].kind == INFER__NFA_MATCH ? s * 2 : f->set[i];
    }
    f->n_set = infer__sort_unique(f->set, k);
}

/* ---- the deterministic automaton -------------------------------------------------------------------------------- */

static int infer__dfa_room(infer__nfa *f, void **p, uint32_t n, uint32_t *cap, size_t size) {
    uint32_t more = *cap * 2 + 64;
    void *q;
    if (n < *cap) return 1;
    q = infer__realloc(f->c->mem, *p, more, size);
    if (!q) {
        infer__schema_no_memory(f->c);
        f->failed = 1;
        return 0;
    }
    *p = q;
    *cap = more;
    return 1;
}

/* The state of f->set, made when it is new. */
static uint32_t infer__dfa_state_of(infer__nfa *f, infer__dfa *d, const infer__lang *l, uint32_t n_lang) {
    uint64_t h = infer__fnv(INFER__FNV, f->set, (uint64_t)f->n_set * sizeof *f->set);
    uint32_t i = (uint32_t)h & (INFER__DFA_SLOTS - 1), k, in = 0, want = 0;
    infer__dfa_state *s;
    uint32_t *copy;
    void *states = d->s;
    for (; d->slots[i]; i = (i + 1) & (INFER__DFA_SLOTS - 1)) {
        s = &d->s[d->slots[i] - 1];
        if (s->n_set == f->n_set && memcmp(s->set, f->set, f->n_set * sizeof *f->set) == 0) return d->slots[i] - 1;
    }
    d->members += f->n_set;
    if (d->n == INFER__DFA_STATES || d->members > INFER__DFA_MEMBERS) infer__nfa_big(f);
    if (f->failed || !infer__dfa_room(f, &states, d->n, &d->cap, sizeof *d->s)) return 0;
    d->s = (infer__dfa_state *)states;
    copy = (uint32_t *)infer__schema_get_mem(f->c, (uint64_t)f->n_set + 1, sizeof *copy);
    if (!copy || !infer__schema_step(f->c, f->n_set)) {
        f->failed = 1;
        return 0;
    }
    memcpy(copy, f->set, f->n_set * sizeof *copy);
    s = &d->s[d->n];
    memset(s, 0, sizeof *s);
    s->set = copy;
    s->n_set = f->n_set;
    for (k = 0; k < f->n_set; k++)
        if (f->s[copy[k] / 2].kind == INFER__NFA_MATCH) in |= (uint32_t)1 << f->s[copy[k] / 2].lang;
    for (k = 0; k < n_lang; k++) want |= (uint32_t)(l[k].want != 0) << k;
    s->accepts = in == want;
    d->slots[i] = ++d->n;
    return d->n - 1;
}

/* Where a text may go on from one state: the borders of its classes, in order. */
static uint32_t infer__dfa_cuts(infer__nfa *f, const infer__dfa_state *s, uint32_t *cuts, uint32_t cap) {
    uint32_t i, j, n = 0;
    cuts[n++] = 0;
    cuts[n++] = 0xd800;
    cuts[n++] = 0xe000;
    cuts[n++] = 0x110000;
    for (i = 0; i < s->n_set; i++) {
        const infer__sx *x = f->s[s->set[i] / 2].ranges;
        for (j = 0; x && j < x->n; j++) {
            if (n + 2 > cap && (n = infer__sort_unique(cuts, n)) + 2 > cap / 2) {
                infer__nfa_big(f);
                return 0;
            }
            cuts[n++] = x->v.ranges[j].lo;
            cuts[n++] = x->v.ranges[j].hi + 1;
        }
    }
    return infer__sort_unique(cuts, n);
}

static int infer__range_has(const infer__sx *x, uint32_t cp) {
    uint32_t lo = 0, hi = x ? x->n : 0;
    while (lo < hi) {
        uint32_t mid = (lo + hi) / 2;
        if (x->v.ranges[mid].hi < cp) lo = mid + 1; else hi = mid;
    }
    return x && lo < x->n && x->v.ranges[lo].lo <= cp;
}

static void infer__dfa_edges(infer__nfa *f, infer__dfa *d, uint32_t at, const infer__lang *l, uint32_t n_lang,
                             const uint8_t *lang_of) {
    uint32_t *cuts = d->cuts;
    uint32_t n = infer__dfa_cuts(f, &d->s[at], cuts, INFER__DFA_CUTS), i, k, to;
    d->s[at].edge = d->n_e;
    for (i = 0; i + 1 < n && !f->failed; i++) {
        infer__edge *last = d->n_e > d->s[at].edge ? &d->e[d->n_e - 1] : NULL;
        void *edges = d->e;
        if (cuts[i] == 0xd800) continue;
        f->n_set = 0;
        f->mark_id++;
        if (!infer__schema_step(f->c, d->s[at].n_set + 1)) f->failed = 1;
        for (k = 0; k < d->s[at].n_set; k++) {
            const infer__nfa_state *q = &f->s[d->s[at].set[k] / 2];
            if (q->kind == INFER__NFA_CLASS && infer__range_has(q->ranges, cuts[i])) infer__nfa_reach(f, q->a * 2, 0);
        }
        infer__nfa_tidy(f, lang_of, n_lang);
        to = infer__dfa_state_of(f, d, l, n_lang);
        if (last && last->to == to && (last->hi + 1 == cuts[i] || (last->hi == 0xd7ff && cuts[i] == 0xe000))) {
            last->hi = cuts[i + 1] - 1;
            continue;
        }
        if (d->n_e == INFER__DFA_EDGES) infer__nfa_big(f);
        if (f->failed || !infer__dfa_room(f, &edges, d->n_e, &d->cap_e, sizeof *d->e)) return;
        d->e = (infer__edge *)edges;
        d->e[d->n_e].lo = cuts[i];
        d->e[d->n_e].hi = cuts[i + 1] - 1;
        d->e[d->n_e++].to = to;
        d->s[at].n_edges++;
    }
}

/* Which states can still reach acceptance. */
static void infer__dfa_live(infer__nfa *f, infer__dfa *d) {
    int changed = 1;
    uint32_t i, k;
    for (i = 0; i < d->n; i++) d->s[i].live = d->s[i].accepts;
    while (changed && infer__schema_step(f->c, d->n_e)) {
        changed = 0;
        for (i = d->n; i-- > 0;)
            for (k = 0; k < d->s[i].n_edges && !d->s[i].live; k++)
                if (d->s[d->e[d->s[i].edge + k].to].live) d->s[i].live = (uint8_t)(changed = 1);
    }
}

/* ---- the expression ---------------------------------------------------------------------------------------------- */

/* All characters that lead from state `at` to `to`. */
static const infer__sx *infer__dfa_class(infer__schema *c, const infer__dfa *d, uint32_t at, uint32_t to, int raw) {
    const infer__dfa_state *s = &d->s[at];
    infer__range *r = (infer__range *)infer__schema_get_mem(c, (uint64_t)s->n_edges + 1, sizeof *r);
    uint32_t k, n = 0;
    if (!r) return &INFER__SX_NONE;
    for (k = 0; k < s->n_edges; k++) {
        const infer__edge *e = &d->e[s->edge + k];
        if (e->to != to) continue;
        r[n].lo = e->lo;
        r[n++].hi = e->hi;
    }
    if (n == 1 && r[0].lo == 0 && r[0].hi == 0x10ffff && !raw) return infer__sx_shared(c, INFER__SX_CHAR);
    return n == 0 ? &INFER__SX_NONE : raw ? infer__sx_class(c, r, n) : infer__pattern_class(c, r, n);
}

/* The only live state that `at` leads to, or UINT32_MAX; *all = 1: nothing else is possible, not even ending. */
static uint32_t infer__dfa_only(const infer__dfa *d, uint32_t at) {
    const infer__dfa_state *s = &d->s[at];
    uint32_t k, only = UINT32_MAX;
    for (k = 0; k < s->n_edges; k++) {
        uint32_t to = d->e[s->edge + k].to;
        if (!d->s[to].live) continue;
        if (only != UINT32_MAX && only != to) return UINT32_MAX;
        only = to;
    }
    return only;
}
/* The characters that lead to live states are the same from both. */
static int infer__dfa_same(const infer__dfa *d, uint32_t a, uint32_t b) {
    const infer__dfa_state *s = &d->s[a], *t = &d->s[b];
    uint32_t i = 0, k = 0;
    for (;; i++, k++) {
        while (i < s->n_edges && !d->s[d->e[s->edge + i].to].live) i++;
        while (k < t->n_edges && !d->s[d->e[t->edge + k].to].live) k++;
        if (i == s->n_edges || k == t->n_edges) return i == s->n_edges && k == t->n_edges;
        if (d->e[s->edge + i].lo != d->e[t->edge + k].lo || d->e[s->edge + i].hi != d->e[t->edge + k].hi) return 0;
    }
}

static const infer__sx *infer__dfa_rest(infer__schema *c, infer__dfa *d, uint32_t at) {
    if (d->s[at].rule == 0) d->s[at].rule = infer__sx_rule_new(c) + 1;
    return infer__sx_ref(c, d->s[at].rule - 1);
}

/* What may follow in a state: its loop to itself as a repetition, runs of one class as a count. */
static const infer__sx *infer__dfa_body(infer__schema *c, infer__dfa *d, uint32_t at, int raw) {
    const infer__dfa_state *s = &d->s[at];
    uint32_t k, j, n = 0, run = 0, to = at;
    const infer__sx **items = (const infer__sx **)infer__schema_get_mem(c, (uint64_t)s->n_edges + 1, sizeof *items), *x;
    if (!items) return &INFER__SX_NONE;
    for (;;) { /* at -> to by `run` characters of one class */
        uint32_t only = infer__dfa_only(d, to);
        if (only == UINT32_MAX || only == to || only == at || run >= INFER__SCHEMA_COUNT ||
            (run > 0 && (!infer__dfa_same(d, at, to) || d->s[at].accepts != d->s[to].accepts)))
            break;
        to = only;
        run++;
    }
    if (run > 1 && !s->accepts)
        return infer__sx_pair(c, infer__sx_rep(c, infer__dfa_class(c, d, at, infer__dfa_only(d, at), raw), run, run),
                              infer__dfa_rest(c, d, to));
    if (run > 1 && d->s[to].accepts && infer__dfa_only(d, to) == UINT32_MAX) {
        for (k = 0, j = 0; k < d->s[to].n_edges; k++) j |= d->s[d->e[d->s[to].edge + k].to].live;
        if (!j) return infer__sx_rep(c, infer__dfa_class(c, d, at, infer__dfa_only(d, at), raw), 0, run);
    }
    for (k = 0; k < s->n_edges; k++) {
        to = d->e[s->edge + k].to;
        for (j = 0; j < k && d->e[s->edge + j].to != to; j++) continue;
        if (j < k || to == at || !d->s[to].live) continue;
        items[n++] = infer__sx_pair(c, infer__dfa_class(c, d, at, to, raw), infer__dfa_rest(c, d, to));
        if (!infer__schema_step(c, s->n_edges)) return &INFER__SX_NONE;
    }
    if (s->accepts) items[n++] = &INFER__SX_NOTHING;
    x = infer__sx_alt(c, items, n);
    return infer__sx_pair(c, infer__sx_rep(c, infer__dfa_class(c, d, at, at, raw), 0, INFER__SX_MANY), x);
}

static const infer__sx *infer__dfa_rules(infer__schema *c, infer__dfa *d, int raw) {
    uint32_t i, more;
    const infer__sx *x = &INFER__SX_NONE;
    if (!d->s[0].live) return x;
    x = infer__dfa_rest(c, d, 0);
    for (more = 1; more && c->r == INFER_OK;) /* states get rules when something leads to them */
        for (more = 0, i = 0; i < d->n && c->r == INFER_OK; i++) {
            if (d->s[i].rule == 0 || c->rules[d->s[i].rule - 1].body) continue;
            infer__sx_define(c, d->s[i].rule - 1, infer__dfa_body(c, d, i, raw));
            more = 1;
        }
    return x;
}

static const infer__sx *infer__dfa_make(infer__nfa *f, infer__dfa *d, const infer__lang *l, uint32_t n, int raw) {
    infer__schema *c = f->c;
    uint8_t *lang_of = (uint8_t *)infer__schema_get_mem(c, (uint64_t)f->n + 1, 1);
    uint32_t i, k;
    d->slots = (uint32_t *)infer__calloc(c->mem, INFER__DFA_SLOTS, sizeof *d->slots);
    d->cuts = (uint32_t *)infer__calloc(c->mem, INFER__DFA_CUTS, sizeof *d->cuts);
    if (!d->cuts || !d->slots) infer__schema_no_memory(c);
    if (!lang_of || c->r != INFER_OK) return &INFER__SX_NONE;
    /* languages were built one after the other: a state belongs to the last one whose match state is not after it */
    for (i = 0, k = 0; i < f->n; i++) {
        if (f->s[i].kind == INFER__NFA_MATCH) k = f->s[i].lang;
        lang_of[i] = (uint8_t)k;
    }
    f->n_set = 0;
    f->mark_id++;
    for (i = 0; i < n; i++) infer__nfa_reach(f, f->start[i] * 2, 1);
    infer__nfa_tidy(f, lang_of, n);
    infer__dfa_state_of(f, d, l, n);
    for (i = 0; i < d->n && !f->failed && c->r == INFER_OK; i++) infer__dfa_edges(f, d, i, l, n, lang_of);
    if (f->failed || c->r != INFER_OK) return &INFER__SX_NONE;
    infer__dfa_live(f, d);
    return infer__dfa_rules(c, d, raw);
}

static const infer__sx *infer__dfa_text(infer__schema *c, const infer_json *where, const infer__lang *l, uint32_t n,
                                        int raw) {
    const infer__sx *x = &INFER__SX_NONE;
    infer__nfa f;
    infer__dfa d;
    memset(&d, 0, sizeof d);
    if (infer__nfa_open(&f, c, where, l, n)) x = infer__dfa_make(&f, &d, l, n, raw);
    infer__nfa_close(&f);
    infer__free(c->mem, d.s);
    infer__free(c->mem, d.e);
    infer__free(c->mem, d.slots);
    infer__free(c->mem, d.cuts);
    return x;
}

/* 1 when the value s contains a match of the pattern. */
static int infer__dfa_matches(infer__schema *c, const infer_json *where, const infer__sx *pattern, const char *s,
                              size_t n) {
    infer__lang l;
    infer__nfa f;
    uint32_t *set = NULL, n_set, i;
    size_t at = 0, len;
    int found = 0;
    memset(&l, 0, sizeof l);
    l.x = pattern;
    if (infer__nfa_open(&f, c, where, &l, 1)) {
        set = (uint32_t *)infer__schema_get_mem(c, (uint64_t)f.n * 2 + 1, sizeof *set);
        f.mark_id++;
        infer__nfa_reach(&f, f.start[0] * 2, 1);
        for (; set && at < n && infer__schema_step(c, f.n_set + 1); at += len) {
            uint32_t cp = infer__utf8_next(s + at, n - at, &len, NULL);
            n_set = f.n_set;
            memcpy(set, f.set, n_set * sizeof *set);
            f.n_set = 0;
            f.mark_id++;
            for (i = 0; i < n_set; i++) {
                const infer__nfa_state *q = &f.s[set[i] / 2];
                if (q->kind == INFER__NFA_CLASS && infer__range_has(q->ranges, cp)) infer__nfa_reach(&f, q->a * 2, 0);
            }
        }
        for (i = 0; i < f.n_set; i++) found |= f.s[f.set[i] / 2].kind == INFER__NFA_MATCH;
    }
    infer__nfa_close(&f);
    return found;
}
