/* jinja_parse.c: tokens -> tree: expressions. Statements are in jinja_tags.c.
 *
 * Owns:  precedences, as Jinja has them: they differ from Python's (** binds to the left, unary minus binds its operand
 *        before **, filters bind tighter than all).
 * Rules: recursion is bounded by INFER__JINJA_PARSE_DEPTH. A failure sticks and makes every token look like the end.
 * Start: infer__jparse_expression.
 */
#include "jinja.h"

typedef struct infer__jparse {
    infer__template *t;
    const infer__jtoken *k; /* the next token */
    infer_error *err;
    infer_result r;
    int depth, in_loop, soft; /* soft: in an if, where unknown filters are errors only when they are reached */
    infer__jnode **stack;     /* kids of what is being made */
    size_t n_stack, cap_stack;
    infer__jnode spare; /* returned when out of memory; never read */
} infer__jparse;

static infer__jnode *infer__jparse_expression(infer__jparse *p);
static infer__jnode *infer__jparse_or(infer__jparse *p);
static infer__jnode *infer__jparse_unary(infer__jparse *p, int with_filter);
static infer__jnode *infer__jparse_primary(infer__jparse *p);

static void infer__jparse_stop(infer__jparse *p) {
    static const infer__jtoken none = {INFER__JT_END, 0, 0, "", 0, {0}};
    p->k = &none;
}
static void infer__jparse_fail(infer__jparse *p, const char *what) {
    if (p->r == INFER_OK) p->r = infer__jinja_error(p->t, p->k->at, p->err, INFER_ERR_FORMAT, what);
    infer__jparse_stop(p);
}
static void infer__jparse_no_memory(infer__jparse *p) {
    if (p->r == INFER_OK) p->r = infer__error(p->err, INFER_ERR_MEMORY, "template: out of memory");
    infer__jparse_stop(p);
}

/* ---- nodes ------------------------------------------------------------------------------------------------ */

static infer__jnode *infer__jparse_node(infer__jparse *p, int kind, uint32_t at) {
    infer__jnode *e = (infer__jnode *)infer__arena_alloc(&p->t->arena, sizeof *e);
    if (!e) {
        infer__jparse_no_memory(p);
        e = &p->spare;
    }
    e->kind = (uint16_t)kind;
    e->at = at;
    return e;
}
static void infer__jparse_push(infer__jparse *p, infer__jnode *e) {
    if (p->n_stack == p->cap_stack) {
        size_t cap = p->cap_stack * 2 + 64;
        void *q = infer__realloc(p->t->mem, p->stack, cap, sizeof *p->stack);
        if (!q) {
            infer__jparse_no_memory(p);
            return;
        }
        p->stack = (infer__jnode **)q;
        p->cap_stack = cap;
    }
    p->stack[p->n_stack++] = e;
}
/* What was pushed since `base` becomes e's kids. */
static infer__jnode *infer__jparse_take(infer__jparse *p, infer__jnode *e, size_t base) {
    size_t n = p->n_stack > base ? p->n_stack - base : 0;
    if (p->r != INFER_OK || n == 0) {
        p->n_stack = INFER__MIN(p->n_stack, base);
        return e;
    }
    e->kids = (infer__jnode **)infer__arena_alloc(&p->t->arena, (uint64_t)n * sizeof *e->kids);
    if (e->kids) {
        memcpy(e->kids, p->stack + base, n * sizeof *e->kids);
        e->n_kids = (uint32_t)n;
    } else {
        infer__jparse_no_memory(p);
    }
    p->n_stack = base;
    return e;
}
static infer__jnode *infer__jparse_with(infer__jparse *p, int kind, uint32_t at, infer__jnode *a, infer__jnode *b) {
    size_t base = p->n_stack;
    infer__jnode *e = infer__jparse_node(p, kind, at);
    if (a) infer__jparse_push(p, a);
    if (b) infer__jparse_push(p, b);
    return infer__jparse_take(p, e, base);
}

/* ---- tokens ------------------------------------------------------------------------------------------------ */

/* n tokens on, but never past the end, at which any failure puts the parser: of memory too, in the middle of a rule. */
static void infer__jparse_next(infer__jparse *p, int n) {
    for (; n > 0 && p->k->kind != INFER__JT_END; n--) p->k++;
}
static int infer__jparse_is(const infer__jparse *p, int op) { return p->k->kind == INFER__JT_OP && p->k->op == op; }
static int infer__jtoken_is(const infer__jtoken *k, const char *name) {
    return k->kind == INFER__JT_NAME && k->n == strlen(name) && memcmp(k->s, name, k->n) == 0;
}
static int infer__jparse_name(const infer__jparse *p, const char *name) { return infer__jtoken_is(p->k, name); }
static int infer__jparse_skip(infer__jparse *p, int op) {
    if (!infer__jparse_is(p, op)) return 0;
    infer__jparse_next(p, 1);
    return 1;
}
static int infer__jparse_skip_name(infer__jparse *p, const char *name) {
    if (!infer__jparse_name(p, name)) return 0;
    infer__jparse_next(p, 1);
    return 1;
}
static void infer__jparse_expect(infer__jparse *p, int op) {
    char what[] = "'?' is expected";
    what[1] = (char)op;
    if (!infer__jparse_skip(p, op)) infer__jparse_fail(p, what);
}
/* 1 = one level deeper; leave in any case. */
static int infer__jparse_enter(infer__jparse *p) {
    if (++p->depth <= INFER__JINJA_PARSE_DEPTH) return 1;
    infer__jparse_fail(p, "too many levels");
    return 0;
}

/* ---- arguments, lists, subscripts ---------------------------------------------------------------------------- */

/* The arguments of a call, pushed; the ( is taken already. */
static void infer__jparse_arguments(infer__jparse *p) {
    int first = 1, named = 0;
    while (p->r == INFER_OK && !infer__jparse_is(p, ')')) {
        const infer__jtoken *k = p->k;
        infer__jnode *e;
        if (!first) {
            infer__jparse_expect(p, ',');
            if (infer__jparse_is(p, ')')) break;
        }
        first = 0;
        k = p->k;
        if (infer__jparse_skip(p, '*')) {
            infer__jparse_push(p, infer__jparse_with(p, INFER__JN_SPREAD, k->at, infer__jparse_expression(p), NULL));
        } else if (infer__jparse_skip(p, INFER__JOP('*', '*'))) {
            infer__jparse_push(p, infer__jparse_with(p, INFER__JN_SPREAD2, k->at, infer__jparse_expression(p), NULL));
        } else if (k->kind == INFER__JT_NAME && k[1].kind == INFER__JT_OP && k[1].op == '=') {
            infer__jparse_next(p, 2);
            e = infer__jparse_with(p, INFER__JN_KEYWORD, k->at, infer__jparse_expression(p), NULL);
            e->s = k->s;
            e->n = k->n;
            infer__jparse_push(p, e);
            named = 1;
        } else {
            if (named) infer__jparse_fail(p, "an argument without a name after one with a name");
            infer__jparse_push(p, infer__jparse_expression(p));
        }
    }
    infer__jparse_expect(p, ')');
}

/* Does a list of expressions without brackets end here? */
static int infer__jparse_tuple_ends(const infer__jparse *p) {
    return p->k->kind == INFER__JT_END || p->k->kind == INFER__JT_PRINT_END || p->k->kind == INFER__JT_TAG_END ||
           infer__jparse_is(p, ')') || infer__jparse_name(p, "recursive");
}
/* One expression, or several with commas: a tuple. condition 0: without `x if y` (so that a tag's own if stays).
 * empty 1: () is allowed. */
static infer__jnode *infer__jparse_tuple(infer__jparse *p, int condition, int empty) {
    size_t base = p->n_stack;
    uint32_t at = p->k->at;
    int is_tuple = 0;
    infer__jnode *e;
    while (p->r == INFER_OK && !infer__jparse_tuple_ends(p)) {
        infer__jparse_push(p, condition ? infer__jparse_expression(p) : infer__jparse_or(p));
        if (!infer__jparse_skip(p, ',')) break;
        is_tuple = 1;
    }
    if (p->r == INFER_OK && !is_tuple && p->n_stack == base + 1) return p->stack[--p->n_stack];
    if (p->n_stack == base && !empty) infer__jparse_fail(p, "an expression is expected");
    e = infer__jparse_node(p, INFER__JN_TUPLE, at);
    return infer__jparse_take(p, e, base);
}

/* One index: an expression or a slice. */
static infer__jnode *infer__jparse_index(infer__jparse *p) {
    uint32_t at = p->k->at;
    infer__jnode *parts[3], *e;
    int i = 0;
    parts[0] = parts[1] = parts[2] = NULL;
    if (!infer__jparse_is(p, ':')) {
        e = infer__jparse_expression(p);
        if (!infer__jparse_is(p, ':')) return e;
        parts[0] = e;
    }
    while (i < 2 && infer__jparse_skip(p, ':')) {
        i++;
        if (!infer__jparse_is(p, ':') && !infer__jparse_is(p, ']') && !infer__jparse_is(p, ','))
            parts[i] = infer__jparse_expression(p);
    }
    e = infer__jparse_node(p, INFER__JN_SLICE, at);
    e->kids = (infer__jnode **)infer__arena_alloc(&p->t->arena, sizeof parts);
    if (!e->kids) {
        infer__jparse_no_memory(p);
        return e;
    }
    memcpy(e->kids, parts, sizeof parts);
    e->n_kids = 3;
    return e;
}

static infer__jnode *infer__jparse_subscript(infer__jparse *p, infer__jnode *object) {
    uint32_t at = p->k->at;
    size_t base = p->n_stack;
    infer__jnode *e, *index;
    if (infer__jparse_skip(p, '.')) {
        const infer__jtoken *k = p->k;
        if (k->kind == INFER__JT_NAME) {
            e = infer__jparse_with(p, INFER__JN_ATTR, at, object, NULL);
            e->s = k->s;
            e->n = k->n;
        } else if (k->kind == INFER__JT_INT) {
            index = infer__jparse_node(p, INFER__JN_INT, at);
            index->v.i = k->v.i;
            e = infer__jparse_with(p, INFER__JN_ITEM, at, object, index);
        } else {
            infer__jparse_fail(p, "a name or a number is expected after '.'");
            return object;
        }
        infer__jparse_next(p, 1);
        return e;
    }
    infer__jparse_next(p, 1); /* [ */
    while (p->r == INFER_OK && !infer__jparse_is(p, ']')) {
        if (p->n_stack > base) infer__jparse_expect(p, ',');
        infer__jparse_push(p, infer__jparse_index(p));
    }
    infer__jparse_expect(p, ']');
    if (p->r == INFER_OK && p->n_stack == base + 1) {
        index = p->stack[--p->n_stack];
    } else {
        index = infer__jparse_node(p, INFER__JN_TUPLE, at);
        infer__jparse_take(p, index, base);
    }
    return infer__jparse_with(p, INFER__JN_ITEM, at, object, index);
}

static infer__jnode *infer__jparse_call(infer__jparse *p, infer__jnode *callee) {
    size_t base = p->n_stack;
    infer__jnode *e = infer__jparse_node(p, INFER__JN_CALL, p->k->at);
    infer__jparse_push(p, callee);
    infer__jparse_next(p, 1);
    infer__jparse_arguments(p);
    return infer__jparse_take(p, e, base);
}

static infer__jnode *infer__jparse_postfix(infer__jparse *p, infer__jnode *e) {
    int depth = p->depth;
    while (p->r == INFER_OK) {
        if (infer__jparse_is(p, '.') || infer__jparse_is(p, '[')) e = infer__jparse_subscript(p, e);
        else if (infer__jparse_is(p, '(')) e = infer__jparse_call(p, e);
        else break;
        infer__jparse_enter(p); /* a long chain is a deep tree */
    }
    p->depth = depth;
    return e;
}

/* ---- filters and tests --------------------------------------------------------------------------------------- */

/* A name with dots in it. */
static void infer__jparse_dotted(infer__jparse *p, infer__jnode *e) {
    const infer__jtoken *k = p->k;
    if (k->kind != INFER__JT_NAME) {
        infer__jparse_fail(p, "a name is expected");
        return;
    }
    infer__jparse_next(p, 1);
    while (infer__jparse_is(p, '.') && p->k[1].kind == INFER__JT_NAME) infer__jparse_next(p, 2);
    e->s = k->s;
    e->n = (size_t)(p->k[-1].s + p->k[-1].n - k->s);
}

static infer__jnode *infer__jparse_filter(infer__jparse *p, infer__jnode *value) { /* after the | */
    size_t base = p->n_stack;
    infer__jnode *e = infer__jparse_node(p, INFER__JN_FILTER, p->k->at);
    infer__jparse_push(p, value);
    infer__jparse_dotted(p, e);
    if (infer__jparse_skip(p, '(')) infer__jparse_arguments(p);
    return infer__jparse_take(p, e, base);
}

static infer__jnode *infer__jparse_test(infer__jparse *p, infer__jnode *value) { /* after `is` */
    static const char *const NO_ARGUMENT[] = {"else", "or", "and", "is"};
    size_t base = p->n_stack, i;
    infer__jnode *e;
    uint32_t at = p->k->at;
    int negated = infer__jparse_skip_name(p, "not"), argument;
    e = infer__jparse_node(p, INFER__JN_TEST, at);
    infer__jparse_push(p, value);
    infer__jparse_dotted(p, e);
    argument = p->k->kind == INFER__JT_NAME || p->k->kind == INFER__JT_STRING || p->k->kind == INFER__JT_INT ||
               p->k->kind == INFER__JT_FLOAT || infer__jparse_is(p, '[') || infer__jparse_is(p, '{');
    if (infer__jparse_name(p, "is")) infer__jparse_fail(p, "tests cannot be chained with 'is'");
    for (i = 0; i < INFER__COUNT(NO_ARGUMENT); i++) if (infer__jparse_name(p, NO_ARGUMENT[i])) argument = 0;
    if (infer__jparse_skip(p, '(')) infer__jparse_arguments(p);
    else if (argument) infer__jparse_push(p, infer__jparse_postfix(p, infer__jparse_primary(p)));
    infer__jparse_take(p, e, base);
    return negated ? infer__jparse_with(p, INFER__JN_NOT, at, e, NULL) : e;
}

static infer__jnode *infer__jparse_filters(infer__jparse *p, infer__jnode *e) {
    int depth = p->depth;
    while (p->r == INFER_OK) {
        if (infer__jparse_skip(p, '|')) e = infer__jparse_filter(p, e);
        else if (infer__jparse_skip_name(p, "is")) e = infer__jparse_test(p, e);
        else if (infer__jparse_is(p, '(')) e = infer__jparse_call(p, e); /* of a filter's or test's result */
        else break;
        infer__jparse_enter(p); /* a long chain is a deep tree */
    }
    p->depth = depth;
    return e;
}

/* ---- operands ------------------------------------------------------------------------------------------------- */

static infer__jnode *infer__jparse_strings(infer__jparse *p) { /* neighbours are one string */
    infer__jnode *e = infer__jparse_node(p, INFER__JN_STRING, p->k->at);
    const infer__jtoken *k;
    size_t n = 0;
    char *s;
    e->s = p->k->s;
    e->n = p->k->n;
    infer__jparse_next(p, 1);
    if (p->k->kind != INFER__JT_STRING) return e;
    for (k = p->k - 1; k->kind == INFER__JT_STRING; k++) n += k->n;
    s = (char *)infer__arena_alloc(&p->t->arena, (uint64_t)n + 1);
    if (!s) {
        infer__jparse_no_memory(p);
        return e;
    }
    e->s = s;
    e->n = n;
    for (p->k--; p->k->kind == INFER__JT_STRING; p->k++) {
        if (p->k->n) memcpy(s, p->k->s, p->k->n);
        s += p->k->n;
    }
    return e;
}

static infer__jnode *infer__jparse_list(infer__jparse *p, int dict) {
    size_t base = p->n_stack;
    infer__jnode *e = infer__jparse_node(p, dict ? INFER__JN_DICT : INFER__JN_LIST, p->k->at);
    int close = dict ? '}' : ']';
    infer__jparse_next(p, 1);
    while (p->r == INFER_OK && !infer__jparse_is(p, close)) {
        if (p->n_stack > base) infer__jparse_expect(p, ',');
        if (infer__jparse_is(p, close)) break;
        infer__jparse_push(p, infer__jparse_expression(p));
        if (!dict) continue;
        infer__jparse_expect(p, ':');
        infer__jparse_push(p, infer__jparse_expression(p));
    }
    infer__jparse_expect(p, close);
    return infer__jparse_take(p, e, base);
}

static infer__jnode *infer__jparse_word(infer__jparse *p) {
    static const struct { const char *name; int kind; } WORDS[] = {
        {"true", INFER__JN_TRUE}, {"True", INFER__JN_TRUE}, {"false", INFER__JN_FALSE}, {"False", INFER__JN_FALSE},
        {"none", INFER__JN_NONE}, {"None", INFER__JN_NONE}};
    infer__jnode *e = infer__jparse_node(p, INFER__JN_NAME, p->k->at);
    size_t i;
    for (i = 0; i < INFER__COUNT(WORDS); i++)
        if (infer__jparse_name(p, WORDS[i].name)) e->kind = (uint16_t)WORDS[i].kind;
    e->s = p->k->s;
    e->n = p->k->n;
    infer__jparse_next(p, 1);
    return e;
}

static infer__jnode *infer__jparse_primary(infer__jparse *p) {
    infer__jnode *e = &p->spare;
    if (!infer__jparse_enter(p)) {
        p->depth--;
        return e;
    }
    switch (p->k->kind) {
    case INFER__JT_NAME: e = infer__jparse_word(p); break;
    case INFER__JT_STRING: e = infer__jparse_strings(p); break;
    case INFER__JT_INT:
        e = infer__jparse_node(p, INFER__JN_INT, p->k->at);
        e->v.i = p->k->v.i;
        infer__jparse_next(p, 1);
        break;
    case INFER__JT_FLOAT:
        e = infer__jparse_node(p, INFER__JN_FLOAT, p->k->at);
        e->v.f = p->k->v.f;
        infer__jparse_next(p, 1);
        break;
    default:
        if (infer__jparse_skip(p, '(')) {
            e = infer__jparse_tuple(p, 1, 1);
            infer__jparse_expect(p, ')');
        } else if (infer__jparse_is(p, '[') || infer__jparse_is(p, '{')) {
            e = infer__jparse_list(p, infer__jparse_is(p, '{'));
        } else {
            infer__jparse_fail(p, "an expression is expected");
        }
        break;
    }
    p->depth--;
    return e;
}

/* ---- operators, from those that bind tightest ------------------------------------------------------------------ */

static infer__jnode *infer__jparse_unary(infer__jparse *p, int with_filter) {
    uint32_t at = p->k->at;
    infer__jnode *e = &p->spare;
    if (!infer__jparse_enter(p)) {
        p->depth--;
        return e;
    }
    if (infer__jparse_skip(p, '-')) {
        e = infer__jparse_with(p, INFER__JN_NEG, at, infer__jparse_unary(p, 0), NULL);
    } else if (infer__jparse_skip(p, '+')) {
        e = infer__jparse_with(p, INFER__JN_POS, at, infer__jparse_unary(p, 0), NULL);
    } else {
        e = infer__jparse_primary(p);
    }
    e = infer__jparse_postfix(p, e);
    if (with_filter) e = infer__jparse_filters(p, e);
    p->depth--;
    return e;
}

/* Binary operators that bind to the left, a level a row, tightest first. */
static infer__jnode *infer__jparse_binary(infer__jparse *p, int level) {
    static const int OPS[][5] = {
        {INFER__JOP('*', '*'), 0}, {'*', '/', INFER__JOP('/', '/'), '%', 0}, {0}, {'+', '-', 0}};
    infer__jnode *e = level < 0 ? infer__jparse_unary(p, 1) : infer__jparse_binary(p, level - 1);
    int depth = p->depth;
    if (level < 0) return e;
    if (level == 2) { /* ~ takes all its neighbours at once */
        size_t base = p->n_stack;
        uint32_t at = p->k->at;
        if (!infer__jparse_is(p, '~')) return e;
        infer__jparse_push(p, e);
        e = infer__jparse_node(p, INFER__JN_CONCAT, at);
        while (infer__jparse_skip(p, '~')) infer__jparse_push(p, infer__jparse_binary(p, level - 1));
        return infer__jparse_take(p, e, base);
    }
    for (;;) {
        const int *op = OPS[level];
        uint32_t at = p->k->at;
        int found;
        while (*op && !infer__jparse_is(p, *op)) op++;
        if (!*op || !infer__jparse_enter(p)) break;
        found = *op;
        infer__jparse_next(p, 1);
        e = infer__jparse_with(p, INFER__JN_BINARY, at, e, infer__jparse_binary(p, level - 1));
        e->op = (uint16_t)found;
    }
    p->depth = depth;
    return e;
}

static infer__jnode *infer__jparse_compare(infer__jparse *p) {
    static const int OPS[] = {INFER__JOP('=', '='), INFER__JOP('!', '='), '<', '>', INFER__JOP('<', '='),
                              INFER__JOP('>', '=')};
    size_t base = p->n_stack, i;
    uint32_t at = p->k->at;
    infer__jnode *left = infer__jparse_binary(p, 3), *e;
    for (;;) {
        int op = 0;
        infer__jnode *relation;
        uint32_t op_at = p->k->at;
        for (i = 0; i < INFER__COUNT(OPS); i++) if (infer__jparse_is(p, OPS[i])) op = OPS[i];
        if (infer__jparse_name(p, "in")) op = INFER__JOP_IN;
        if (infer__jparse_name(p, "not") && infer__jtoken_is(&p->k[1], "in")) op = INFER__JOP_NOT_IN;
        if (!op) break;
        if (p->n_stack == base) infer__jparse_push(p, left);
        infer__jparse_next(p, op == INFER__JOP_NOT_IN ? 2 : 1);
        relation = infer__jparse_with(p, INFER__JN_RELATION, op_at, infer__jparse_binary(p, 3), NULL);
        relation->op = (uint16_t)op;
        infer__jparse_push(p, relation);
    }
    if (p->n_stack == base || p->r != INFER_OK) {
        p->n_stack = base;
        return left;
    }
    e = infer__jparse_node(p, INFER__JN_COMPARE, at);
    return infer__jparse_take(p, e, base);
}

static infer__jnode *infer__jparse_not(infer__jparse *p) {
    uint32_t at = p->k->at;
    infer__jnode *e = &p->spare;
    if (!infer__jparse_name(p, "not")) return infer__jparse_compare(p);
    if (infer__jparse_enter(p)) {
        infer__jparse_next(p, 1);
        e = infer__jparse_with(p, INFER__JN_NOT, at, infer__jparse_not(p), NULL);
    }
    p->depth--;
    return e;
}

static infer__jnode *infer__jparse_and(infer__jparse *p) {
    infer__jnode *e = infer__jparse_not(p);
    int depth = p->depth;
    uint32_t at = p->k->at;
    while (infer__jparse_skip_name(p, "and") && infer__jparse_enter(p))
        e = infer__jparse_with(p, INFER__JN_AND, at, e, infer__jparse_not(p));
    p->depth = depth;
    return e;
}
static infer__jnode *infer__jparse_or(infer__jparse *p) {
    infer__jnode *e = infer__jparse_and(p);
    int depth = p->depth;
    uint32_t at = p->k->at;
    while (infer__jparse_skip_name(p, "or") && infer__jparse_enter(p))
        e = infer__jparse_with(p, INFER__JN_OR, at, e, infer__jparse_and(p));
    p->depth = depth;
    return e;
}

static infer__jnode *infer__jparse_expression(infer__jparse *p) {
    infer__jnode *e = &p->spare;
    int depth = p->depth;
    if (infer__jparse_enter(p)) {
        uint32_t at = p->k->at;
        e = infer__jparse_or(p);
        while (infer__jparse_skip_name(p, "if") && infer__jparse_enter(p)) {
            infer__jnode *cond = infer__jparse_with(p, INFER__JN_COND, at, infer__jparse_or(p), e);
            size_t base = p->n_stack;
            if (infer__jparse_skip_name(p, "else") && p->r == INFER_OK) {
                infer__jparse_push(p, cond->kids[0]);
                infer__jparse_push(p, cond->kids[1]);
                infer__jparse_push(p, infer__jparse_expression(p));
                infer__jparse_take(p, cond, base);
            }
            e = cond;
        }
    }
    p->depth = depth;
    return e;
}
