/* grammar_build.c: syntax tree -> automaton.
 *
 * Owns:  infer__automaton: for each rule the automaton over bytes of its body (Thompson, 1968), with calls of other
 *        rules. Characters become automata of their UTF-8 bytes, so that a token may end inside one; only well-formed
 *        UTF-8 matches (no surrogates, no long forms).
 * Rules: a large x{m,n} is a call of its body with a counter, never n copies. A small non-recursive rule is copied to
 *        where it is used, so that most tokens stay inside one routine (grammar_mask.c depends on that). Everything is
 *        linear in the tree except these copies, which INFER__GRAMMAR_NODES bounds.
 *        Left recursion is refused: states would need frames that contain themselves.
 * Start: infer__automaton_build.
 */
#include "grammar.h"

enum { INFER__INLINE_MOST = 64,      /* nodes of a rule that is copied */
       INFER__INLINE_LOOP_MOST = 8,  /* the same with an endless loop in it: better shared */
       INFER__UNROLL_MOST = 24,      /* nodes of a repetition without a counter */
       INFER__WEIGHT_MOST = 1000 };  /* larger ones are not distinguished, so weighing is cheap */

typedef struct infer__gbuild {
    infer__automaton *a;
    infer__gbnf *g;
    uint8_t *empty;        /* per expression: it derives the empty text */
    uint32_t *weight;      /* per rule: nodes of a copy; INFER__WEIGHT_MOST = it is called */
    int32_t *routine_rule; /* per routine: its rule, for messages */
    int32_t *routine_of;   /* per rule */
    int32_t *list;         /* expressions of sequences being built */
    uint32_t cap_routine_rule, n_list, cap_list;
    int32_t set_of_byte[256]; /* -1 = none */
    int failed;
} infer__gbuild;

/* ---- nodes and sets ------------------------------------------------------------------------------------------ */

static int32_t infer__build_node(infer__gbuild *b, int32_t kind, int32_t next, uint32_t arg) {
    infer__automaton *a = b->a;
    if (b->failed) return 0;
    if (!infer__gbnf_work(b->g)) {
        b->failed = 1;
        return 0;
    }
    if (a->n_nodes >= INFER__GRAMMAR_NODES ||
        (a->n_nodes == a->cap_nodes && !infer__gbnf_doubles(b->g, a->cap_nodes, sizeof *a->nodes))) {
        infer__gbnf_error(b->g, 0, "the grammar is too large: more than %u nodes", (unsigned)a->n_nodes);
        b->failed = 1;
        return 0;
    }
    if (!infer__room(a->mem, &a->nodes, &a->cap_nodes, (uint64_t)a->n_nodes + 1, sizeof *a->nodes)) {
        infer__gbnf_no_memory(b->g);
        b->failed = 1;
        return 0;
    }
    a->nodes[a->n_nodes].kind = kind;
    a->nodes[a->n_nodes].next = next;
    a->nodes[a->n_nodes].arg = arg;
    return (int32_t)a->n_nodes++;
}

static uint32_t infer__build_set(infer__gbuild *b, const infer__gset *set) {
    infer__automaton *a = b->a;
    uint32_t i;
    for (i = 0; i < 32 && i < a->n_sets; i++) /* only the last ones: equal sets are often close together */
        if (memcmp(&a->sets[a->n_sets - 1 - i], set, sizeof *set) == 0) return a->n_sets - 1 - i;
    if (b->failed || !infer__room(a->mem, &a->sets, &a->cap_sets, (uint64_t)a->n_sets + 1, sizeof *a->sets)) {
        infer__gbnf_no_memory(b->g);
        b->failed = 1;
        return 0;
    }
    a->sets[a->n_sets] = *set;
    return a->n_sets++;
}
static void infer__gset_add(infer__gset *s, uint32_t lo, uint32_t hi) {
    for (; lo <= hi; lo++) s->bits[lo >> 5] |= 1u << (lo & 31);
}
static int32_t infer__build_bytes(infer__gbuild *b, uint32_t lo, uint32_t hi, int32_t next) {
    infer__gset set;
    uint32_t index;
    if (lo == hi && b->set_of_byte[lo] >= 0)
        return infer__build_node(b, INFER__GN_BYTES, next, (uint32_t)b->set_of_byte[lo]);
    memset(&set, 0, sizeof set);
    infer__gset_add(&set, lo, hi);
    index = infer__build_set(b, &set);
    if (lo == hi) b->set_of_byte[lo] = (int32_t)index;
    return infer__build_node(b, INFER__GN_BYTES, next, index);
}

/* ---- characters ------------------------------------------------------------------------------------------------ */

enum { INFER__CHARS_RECENT = 16 };
/* The automaton of one set of characters: alternatives by first byte, and nodes made lately, to share their tails. */
typedef struct infer__gchars {
    struct { infer__gset set; int32_t next; } first[INFER__CHARS_RECENT];
    struct { uint32_t lo, hi; int32_t next, node; } tail[INFER__CHARS_RECENT];
    uint32_t n_first, n_tail;
    int32_t start, next; /* start: alternatives that were flushed, -1 = none */
} infer__gchars;

static void infer__chars_flush(infer__gbuild *b, infer__gchars *c) {
    uint32_t i;
    for (i = 0; i < c->n_first; i++) {
        int32_t x = infer__build_node(b, INFER__GN_BYTES, c->first[i].next, infer__build_set(b, &c->first[i].set));
        c->start = c->start < 0 ? x : infer__build_node(b, INFER__GN_SPLIT, x, (uint32_t)c->start);
    }
    c->n_first = 0;
}

static int32_t infer__chars_tail(infer__gbuild *b, infer__gchars *c, uint32_t lo, uint32_t hi, int32_t next) {
    uint32_t i, n = INFER__MIN(c->n_tail, INFER__CHARS_RECENT);
    for (i = 0; i < n; i++)
        if (c->tail[i].lo == lo && c->tail[i].hi == hi && c->tail[i].next == next) return c->tail[i].node;
    i = c->n_tail++ % INFER__CHARS_RECENT;
    c->tail[i].lo = lo;
    c->tail[i].hi = hi;
    c->tail[i].next = next;
    return c->tail[i].node = infer__build_bytes(b, lo, hi, next);
}

/* Characters whose UTF-8 has one length and differs in trailing bytes that are whole ranges. */
static void infer__chars_sequence(infer__gbuild *b, infer__gchars *c, uint32_t lo, uint32_t hi) {
    char from[4], to[4];
    size_t n = infer__utf8_put(lo, from), i;
    int32_t next = c->next;
    infer__utf8_put(hi, to);
    for (i = n; i-- > 1;) next = infer__chars_tail(b, c, (uint8_t)from[i], (uint8_t)to[i], next);
    for (i = 0; i < c->n_first && c->first[i].next != next; i++) {
    }
    if (i == c->n_first) {
        if (i == INFER__CHARS_RECENT) {
            infer__chars_flush(b, c);
            i = 0;
        }
        memset(&c->first[i].set, 0, sizeof c->first[i].set);
        c->first[i].next = next;
        c->n_first = (uint32_t)i + 1;
    }
    infer__gset_add(&c->first[i].set, (uint8_t)from[0], (uint8_t)to[0]);
}

/* Cut a range until each piece is such a sequence. */
static void infer__chars_range(infer__gbuild *b, infer__gchars *c, uint32_t lo, uint32_t hi) {
    static const uint32_t LAST[] = {0x7f, 0x7ff, 0xd7ff, 0xdfff, 0xffff};
    uint32_t i, end = hi, low;
    while (lo <= hi && !b->failed) {
        end = hi;
        for (i = 0; i < INFER__COUNT(LAST); i++) if (lo <= LAST[i] && end > LAST[i]) end = LAST[i];
        if (lo >= 0xd800 && lo <= 0xdfff) { /* surrogates are no characters */
            lo = end + 1;
            continue;
        }
        for (i = 1; lo > 0x7f && i < 4; i++) {
            low = (1u << (6 * i)) - 1;
            if ((lo & ~low) == (end & ~low)) break;
            if (lo & low) end = lo | low;
            else if ((end & low) != low) end = (end & ~low) - 1;
        }
        infer__chars_sequence(b, c, lo, end);
        lo = end + 1;
    }
}

static int32_t infer__build_chars(infer__gbuild *b, const infer__gexpr *x, int32_t next) {
    infer__gchars c;
    uint32_t i;
    memset(&c, 0, sizeof c);
    c.start = -1;
    c.next = next;
    for (i = 0; i < x->b; i++) infer__chars_range(b, &c, b->g->ranges[x->a + i].lo, b->g->ranges[x->a + i].hi);
    infer__chars_flush(b, &c);
    return c.start; /* the parser sees to it that a set is not empty */
}

/* ---- expressions ------------------------------------------------------------------------------------------------- */

static int32_t infer__build_expr(infer__gbuild *b, int32_t index, int32_t next);

/* How often a repetition's body of this weight is copied; 0: it is called, with a counter. */
static uint32_t infer__build_copies(const infer__gexpr *x, uint32_t weight) {
    uint32_t copies = x->b == INFER__UNLIMITED ? INFER__MAX(x->a, 1) : x->b;
    return copies > 1 && (uint64_t)weight * copies > INFER__UNROLL_MOST ? 0 : copies;
}

/* Nodes of a copy of an expression, about; a called rule is one. */
static uint32_t infer__build_weight(const infer__gbuild *b, int32_t index) {
    const infer__gexpr *x = &b->g->x[index];
    uint64_t sum = x->kind != INFER__GX_CHARS;
    int32_t part;
    uint32_t i;
    if (x->kind == INFER__GX_CHARS)
        for (i = 0; i < x->b && i < 100; i++) sum += b->g->ranges[x->a + i].hi < 0x80 ? i == 0 : 10;
    if (x->kind == INFER__GX_RULE && b->weight[x->a] < INFER__WEIGHT_MOST) sum += b->weight[x->a];
    for (part = x->first; part >= 0 && sum < INFER__WEIGHT_MOST; part = b->g->x[part].next)
        sum += infer__build_weight(b, part);
    if (x->kind == INFER__GX_REPEAT) sum *= infer__build_copies(x, (uint32_t)INFER__MIN(sum, INFER__WEIGHT_MOST));
    return (uint32_t)INFER__MIN(sum, INFER__WEIGHT_MOST);
}

static int32_t infer__build_routine(infer__gbuild *b, int32_t rule, int nullable) {
    infer__automaton *a = b->a;
    if (b->failed || !infer__room(a->mem, &a->routines, &a->cap_routines, (uint64_t)a->n_routines + 1,
                                  sizeof *a->routines) ||
        !infer__room(a->mem, &b->routine_rule, &b->cap_routine_rule, (uint64_t)a->n_routines + 1,
                     sizeof *b->routine_rule)) {
        infer__gbnf_no_memory(b->g);
        b->failed = 1;
        return 0;
    }
    b->routine_rule[a->n_routines] = rule;
    a->routines[a->n_routines].start = -1;
    a->routines[a->n_routines].order = 0;
    a->routines[a->n_routines].nullable = nullable;
    return (int32_t)a->n_routines++;
}

/* x{least,most} with a counter. */
static int32_t infer__build_loop(infer__gbuild *b, const infer__gexpr *x, int32_t body, int32_t next) {
    infer__automaton *a = b->a;
    int32_t routine = infer__build_routine(b, x->rule, b->empty[body]), start;
    uint32_t loop = a->n_loops, least = b->empty[body] ? 0 : x->a, most = x->b;
    if (!b->failed && !infer__room(a->mem, &a->loops, &a->cap_loops, (uint64_t)loop + 1, sizeof *a->loops)) {
        infer__gbnf_no_memory(b->g);
        b->failed = 1;
    }
    if (b->failed) return 0;
    a->n_loops++;
    a->loops[loop].routine = (uint32_t)routine;
    a->loops[loop].least = least;
    a->loops[loop].most = most;
    start = infer__build_expr(b, body, infer__build_node(b, INFER__GN_END, -1, 0));
    a->routines[routine].start = start;
    return infer__build_node(b, INFER__GN_LOOP, next, loop);
}

static int32_t infer__build_repeat(infer__gbuild *b, const infer__gexpr *where, int32_t next) {
    const infer__gexpr x = *where;
    int32_t body = x.first, split, start;
    uint32_t i, copies = x.b == INFER__UNLIMITED ? x.a : x.b;
    if (x.b == 0) return next;
    if (x.a <= 1 && x.b == INFER__UNLIMITED) {
        split = infer__build_node(b, INFER__GN_SPLIT, -1, (uint32_t)next);
        start = infer__build_expr(b, body, split);
        if (!b->failed) b->a->nodes[split].next = start;
        return x.a == 0 ? split : start;
    }
    if (infer__build_copies(&x, infer__build_weight(b, body)) == 0) return infer__build_loop(b, &x, body, next);
    if (x.b == INFER__UNLIMITED) {
        split = infer__build_node(b, INFER__GN_SPLIT, -1, (uint32_t)next);
        start = infer__build_expr(b, body, split);
        if (!b->failed) b->a->nodes[split].next = start;
        next = split;
    }
    for (i = copies; i > x.a && !b->failed; i--)
        next = infer__build_node(b, INFER__GN_SPLIT, infer__build_expr(b, body, next), (uint32_t)next);
    for (; i > 0 && !b->failed; i--) next = infer__build_expr(b, body, next);
    return next;
}

static int32_t infer__build_parts(infer__gbuild *b, const infer__gexpr *x, int32_t next) {
    uint32_t base = b->n_list, i;
    int32_t part, all = -1;
    int is_alt = x->kind == INFER__GX_ALT;
    for (part = x->first; part >= 0; part = b->g->x[part].next) {
        if (!infer__room(b->a->mem, &b->list, &b->cap_list, (uint64_t)b->n_list + 1, sizeof *b->list)) {
            infer__gbnf_no_memory(b->g);
            b->failed = 1;
            return 0;
        }
        b->list[b->n_list++] = part;
    }
    for (i = b->n_list; i-- > base && !b->failed;) {
        int32_t y = infer__build_expr(b, b->list[i], next);
        if (!is_alt) next = y;
        else all = all < 0 ? y : infer__build_node(b, INFER__GN_SPLIT, y, (uint32_t)all);
    }
    b->n_list = base;
    return is_alt ? all : next;
}

/* The automaton of an expression before node `next`: its first node. Depth is bounded by INFER__GRAMMAR_DEPTH and
 * INFER__INLINE_MOST. */
static int32_t infer__build_expr(infer__gbuild *b, int32_t index, int32_t next) {
    const infer__gexpr *x = &b->g->x[index];
    if (b->failed) return 0;
    switch (x->kind) {
    case INFER__GX_CHARS: return infer__build_chars(b, x, next);
    case INFER__GX_SEQ:
    case INFER__GX_ALT: return infer__build_parts(b, x, next);
    case INFER__GX_REPEAT: return infer__build_repeat(b, x, next);
    case INFER__GX_RULE:
        if (b->weight[x->a] < INFER__WEIGHT_MOST) return infer__build_expr(b, b->g->rules[x->a].body, next);
        return infer__build_node(b, INFER__GN_CALL, next, (uint32_t)b->routine_of[x->a]);
    case INFER__GX_TOKEN:
    case INFER__GX_NOT_TOKEN:
        b->a->has_tokens = 1;
        return infer__build_node(b, x->kind == INFER__GX_TOKEN ? INFER__GN_TOKEN : INFER__GN_NOT_TOKEN, next, x->a);
    default: return next;
    }
}

/* ---- which rules are copied -------------------------------------------------------------------------------------- */

/* 1 when an expression has an endless loop or a counter. */
static int infer__build_loops(const infer__gbuild *b, int32_t index) {
    const infer__gexpr *x = &b->g->x[index];
    int32_t part;
    if (x->kind == INFER__GX_REPEAT && x->b > 1 &&
        (x->b == INFER__UNLIMITED || infer__build_copies(x, infer__build_weight(b, x->first)) == 0)) return 1;
    for (part = x->first; part >= 0; part = b->g->x[part].next) if (infer__build_loops(b, part)) return 1;
    return 0;
}

/* Weights of rules, those first that use no other: rules that lead to themselves are never reached. */
static int infer__build_weights(infer__gbuild *b) {
    infer__gbnf *g = b->g;
    uint32_t *missing = (uint32_t *)infer__calloc(g->mem, (uint64_t)g->n_rules + 1, sizeof *missing);
    int32_t *queue = (int32_t *)infer__calloc(g->mem, (uint64_t)g->n_rules + 1, sizeof *queue);
    int32_t *uses = (int32_t *)infer__calloc(g->mem, (uint64_t)g->n_x + 1, sizeof *uses);
    int32_t *use_of = (int32_t *)infer__calloc(g->mem, (uint64_t)g->n_rules + 1, sizeof *use_of);
    uint32_t i, n = 0, done;
    int ok = missing && queue && uses && use_of;
    for (i = 0; ok && i < g->n_rules; i++) {
        use_of[i] = -1;
        b->weight[i] = INFER__WEIGHT_MOST;
    }
    for (i = 0; ok && i < g->n_x; i++) {
        if (g->x[i].kind != INFER__GX_RULE) continue;
        missing[g->x[i].rule]++;
        uses[i] = use_of[g->x[i].a];
        use_of[g->x[i].a] = (int32_t)i;
    }
    for (i = 0; ok && i < g->n_rules; i++) if (missing[i] == 0) queue[n++] = (int32_t)i;
    for (done = 0; ok && done < n; done++) {
        int32_t rule = queue[done], use;
        uint32_t w = infer__build_weight(b, g->rules[rule].body);
        if (w <= INFER__INLINE_LOOP_MOST || (w <= INFER__INLINE_MOST && !infer__build_loops(b, g->rules[rule].body)))
            b->weight[rule] = w;
        for (use = use_of[rule]; use >= 0; use = uses[use])
            if (--missing[g->x[use].rule] == 0) queue[n++] = g->x[use].rule;
    }
    infer__free(g->mem, missing);
    infer__free(g->mem, queue);
    infer__free(g->mem, uses);
    infer__free(g->mem, use_of);
    return ok;
}

/* ---- what routines begin with ------------------------------------------------------------------------------------ */

typedef struct infer__gcorners {
    int32_t *todo;
    uint32_t *seen;  /* per node: the routine + 1 that reached it */
    uint32_t *from;  /* per routine: its first edge */
    uint32_t *edges; /* routines that it can begin with */
    uint32_t n_edges, cap_edges, cap_todo;
} infer__gcorners;

/* The routines that `routine` can begin with, to edges. */
static int infer__corners_of(const infer__automaton *a, infer__gcorners *c, uint32_t routine) {
    uint32_t n = 0;
    int32_t follow[2];
    int i, k;
    if (!infer__room(a->mem, &c->todo, &c->cap_todo, 1, sizeof *c->todo)) return 0;
    c->todo[n++] = a->routines[routine].start;
    while (n > 0) {
        const infer__gnode *x = &a->nodes[c->todo[--n]];
        uint32_t callee = x->kind == INFER__GN_CALL ? x->arg : x->kind == INFER__GN_LOOP ? a->loops[x->arg].routine : 0;
        k = 0;
        if (x->kind == INFER__GN_SPLIT) {
            follow[k++] = x->next;
            follow[k++] = (int32_t)x->arg;
        } else if (x->kind == INFER__GN_CALL || x->kind == INFER__GN_LOOP) {
            if (!infer__room(a->mem, &c->edges, &c->cap_edges, (uint64_t)c->n_edges + 1, sizeof *c->edges)) return 0;
            c->edges[c->n_edges++] = callee;
            if (x->kind == INFER__GN_CALL ? a->routines[callee].nullable : a->loops[x->arg].least == 0)
                follow[k++] = x->next;
        }
        for (i = 0; i < k; i++) {
            if (c->seen[follow[i]] == routine + 1) continue;
            c->seen[follow[i]] = routine + 1;
            if (!infer__room(a->mem, &c->todo, &c->cap_todo, (uint64_t)n + 1, sizeof *c->todo)) return 0;
            c->todo[n++] = follow[i];
        }
    }
    return 1;
}

/* Depth first: a routine gets its number when all that it begins with have theirs, from the highest down. `at` is the
 * next edge of a routine on the stack, 0 = not reached. Returns the routine that begins with itself, -1 = none. */
static int32_t infer__corners_order(infer__automaton *a, const infer__gcorners *c, uint32_t *at, int32_t *stack) {
    int32_t order = (int32_t)a->n_routines;
    uint32_t i, n;
    for (i = 0; i < a->n_routines; i++) a->routines[i].order = -1;
    for (i = 0; i < a->n_routines; i++) {
        if (at[i]) continue;
        n = 0;
        stack[n++] = (int32_t)i;
        at[i] = c->from[i] + 1;
        while (n > 0) {
            int32_t r = stack[n - 1];
            if (at[r] - 1 == c->from[r + 1]) {
                a->routines[r].order = --order;
                a->by_order[order] = r;
                n--;
            } else {
                uint32_t callee = c->edges[at[r]++ - 1];
                if (at[callee] == 0) {
                    at[callee] = c->from[callee] + 1;
                    stack[n++] = (int32_t)callee;
                } else if (a->routines[callee].order < 0) {
                    return (int32_t)callee;
                }
            }
        }
    }
    return -1;
}

static int infer__build_order(infer__gbuild *b) {
    infer__automaton *a = b->a;
    infer__gcorners c;
    uint32_t i, *at, n = a->n_routines;
    int32_t *stack, bad = -1;
    int ok;
    memset(&c, 0, sizeof c);
    c.seen = (uint32_t *)infer__calloc(a->mem, (uint64_t)a->n_nodes + 1, sizeof *c.seen);
    c.from = (uint32_t *)infer__calloc(a->mem, (uint64_t)n + 1, sizeof *c.from);
    at = (uint32_t *)infer__calloc(a->mem, (uint64_t)n + 1, sizeof *at);
    stack = (int32_t *)infer__calloc(a->mem, (uint64_t)n + 1, sizeof *stack);
    a->by_order = (int32_t *)infer__calloc(a->mem, (uint64_t)n + 1, sizeof *a->by_order);
    ok = c.seen && c.from && at && stack && a->by_order;
    for (i = 0; ok && i < n; i++) {
        c.from[i] = c.n_edges;
        ok = infer__corners_of(a, &c, i);
    }
    if (ok) {
        c.from[n] = c.n_edges;
        bad = infer__corners_order(a, &c, at, stack);
    }
    infer__free(a->mem, c.seen);
    infer__free(a->mem, c.from);
    infer__free(a->mem, c.edges);
    infer__free(a->mem, c.todo);
    infer__free(a->mem, at);
    infer__free(a->mem, stack);
    if (bad >= 0) {
        const infer__grule *rule = &b->g->rules[b->routine_rule[bad]];
        infer__gbnf_error(b->g, rule->at, "rule '%.*s' begins with itself (left recursion)",
                          (int)INFER__MIN(rule->n_name, 60), rule->name);
    }
    return ok;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

/* Bytes that no set distinguishes get one class. */
static void infer__build_classes(infer__automaton *a) {
    uint32_t i;
    int b;
    memset(a->class_of, 0, sizeof a->class_of);
    a->n_classes = 1;
    for (i = 0; i < a->n_sets && a->n_classes < 256; i++) {
        int32_t to[256][2], n = 0;
        for (b = 0; b < a->n_classes; b++) to[b][0] = to[b][1] = -1;
        for (b = 0; b < 256; b++) {
            int32_t *c = &to[a->class_of[b]][infer__gset_has(&a->sets[i], b)];
            if (*c < 0) *c = n++;
            a->class_of[b] = (uint8_t)*c;
        }
        a->n_classes = n;
    }
    for (b = 255; b >= 0; b--) a->byte_of[a->class_of[b]] = (uint8_t)b;
}

static infer_result infer__automaton_build(infer__automaton *a, infer__gbnf *g, infer_error *err) {
    infer__gbuild b;
    uint32_t i;
    memset(a, 0, sizeof *a);
    memset(&b, 0, sizeof b);
    a->mem = g->mem;
    b.a = a;
    b.g = g;
    g->err = err;
    for (i = 0; i < 256; i++) b.set_of_byte[i] = -1;
    b.empty = infer__gbnf_derives(g, 1);
    b.weight = (uint32_t *)infer__calloc(a->mem, (uint64_t)g->n_rules + 1, sizeof *b.weight);
    b.routine_of = (int32_t *)infer__calloc(a->mem, (uint64_t)g->n_rules + 1, sizeof *b.routine_of);
    if (!b.empty || !b.weight || !b.routine_of || !infer__build_weights(&b)) {
        infer__gbnf_no_memory(g);
        goto out;
    }
    b.routine_of[g->root] = infer__build_routine(&b, g->root, b.empty[g->rules[g->root].body]);
    for (i = 0; i < g->n_rules; i++) {
        if (b.weight[i] < INFER__WEIGHT_MOST || (int32_t)i == g->root) continue;
        b.routine_of[i] = infer__build_routine(&b, (int32_t)i, b.empty[g->rules[i].body]);
    }
    for (i = 0; i < g->n_rules && g->r == INFER_OK; i++) {
        int32_t start;
        if (b.weight[i] < INFER__WEIGHT_MOST && (int32_t)i != g->root) continue;
        start = infer__build_expr(&b, g->rules[i].body, infer__build_node(&b, INFER__GN_END, -1, 0));
        if (!b.failed) a->routines[b.routine_of[i]].start = start;
    }
    if (g->r == INFER_OK && !infer__build_order(&b)) infer__gbnf_no_memory(g);
    if (g->r == INFER_OK) infer__build_classes(a);
out:
    infer__free(a->mem, b.empty);
    infer__free(a->mem, b.weight);
    infer__free(a->mem, b.routine_of);
    infer__free(a->mem, b.routine_rule);
    infer__free(a->mem, b.list);
    if (g->r != INFER_OK) infer__automaton_free(a);
    return g->r;
}

static void infer__automaton_free(infer__automaton *a) {
    infer__free(a->mem, a->nodes);
    infer__free(a->mem, a->routines);
    infer__free(a->mem, a->by_order);
    infer__free(a->mem, a->loops);
    infer__free(a->mem, a->sets);
    memset(a, 0, sizeof *a);
}
