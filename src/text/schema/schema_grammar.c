/* schema_grammar.c: expressions of a grammar: making, simplifying and writing them as GBNF.
 *
 * Owns:  infer__sx, the rules that grammars share, and which rules are written: those that the root reaches, without
 *        what can never end. A rule that is used once is written where it is used.
 * Rules: expressions do not change once made and may be shared. The constructors never return NULL.
 * Start: infer__sx_write.
 */
#include "schema.h"

static const infer__sx INFER__SX_NONE = {INFER__SX_NEVER, 0, 0, 0, {NULL}};
static const infer__sx INFER__SX_NOTHING = {INFER__SX_EMPTY, 0, 0, 0, {NULL}};

/* White space is at most one space, or a line break and an indentation; digits and exponents have an end: a model
 * cannot go on with either for ever, and every number is a finite double. */
static const struct { const char *name, *text; uint32_t uses; } INFER__SX_RULES[INFER__SX_SHARED_COUNT] = {
    {"ws", "(\" \" | \"\\n\" [ \\t]{0,40})?", 0},
    {"colon", "\":\" \" \"?", 0},
    {"char", "[^\"\\\\\\x00-\\x1F] | \"\\\\\" ([\"\\\\/bfnrt] | \"u00\" [01] [0-9a-fA-F])", 0},
    {"string", "\"\\\"\" char* \"\\\"\"", 1 << INFER__SX_CHAR},
    {"integer", "\"-\"? (\"0\" | [1-9] [0-9]{0,19})", 0},
    {"number", "integer (\".\" [0-9]{1,20})? ([eE] [-+]? (\"1\"? [0-9])? [0-9])?", 1 << INFER__SX_INTEGER},
    {"boolean", "\"true\" | \"false\"", 0},
    {"array", "\"[\" ws (value (\",\" ws value)* ws)? \"]\"", 1 << INFER__SX_VALUE | 1 << INFER__SX_WS},
    {"object", "\"{\" ws (string colon value (\",\" ws string colon value)* ws)? \"}\"",
     1 << INFER__SX_VALUE | 1 << INFER__SX_WS | 1 << INFER__SX_STRING | 1 << INFER__SX_COLON},
    {"value", "object | array | string | number | boolean | \"null\"",
     1 << INFER__SX_OBJECT | 1 << INFER__SX_ARRAY | 1 << INFER__SX_STRING | 1 << INFER__SX_NUMBER |
         1 << INFER__SX_BOOLEAN}};

/* Where values are not JSON. */
#define INFER__SX_BUT_SIGNS "[^\"\\\\<\\x00-\\x1F] | \"\\\\\" ([\"\\\\"
#define INFER__SX_CODES "bfnrt] | \"u00\" [01] [0-9a-fA-F] | \"u003\" [cC])"
static const struct { uint8_t as, which; const char *text; } INFER__SX_OTHERS[] = {
    {INFER__AS_TAGS | INFER__AS_SIGNS, INFER__SX_CHAR, INFER__SX_BUT_SIGNS "/" INFER__SX_CODES},
    {INFER__AS_TAGS, INFER__SX_STRING, "\"\\\"\" (char | \"<\"+ [^\"\\\\/<\\x00-\\x1F])* \"<\"* \"\\\"\""},
    {INFER__AS_PYTHON, INFER__SX_CHAR, INFER__SX_BUT_SIGNS INFER__SX_CODES},
    {INFER__AS_PYTHON, INFER__SX_STRING, "\"\\\"\" (char | \"<\"+ [^\"\\\\|<\\x00-\\x1F])* \"<\"* \"\\\"\""},
    {INFER__AS_PYTHON, INFER__SX_BOOLEAN, "\"True\" | \"False\""},
    {INFER__AS_PYTHON, INFER__SX_VALUE, "object | array | string | number | boolean | \"None\""},
    {INFER__AS_MARKS, INFER__SX_CHAR, "[^<]"},
    {INFER__AS_MARKS, INFER__SX_WS, "\"\""},
    {INFER__AS_MARKS, INFER__SX_COLON, "\":\""}};
#undef INFER__SX_BUT_SIGNS
#undef INFER__SX_CODES

/* ---- making ---------------------------------------------------------------------------------------------- */

static infer__sx *infer__sx_new(infer__schema *c, int kind) {
    infer__sx *x;
    if (++c->nodes > INFER__SCHEMA_NODES)
        infer__schema_fail(c, NULL, INFER_ERR_UNSUPPORTED, "the grammar is too large");
    x = (infer__sx *)infer__schema_get_mem(c, 1, sizeof *x);
    if (x) x->kind = kind;
    return x;
}

static const infer__sx *infer__sx_text(infer__schema *c, const char *s, size_t n) {
    infer__sx *x;
    if (n == 0) return &INFER__SX_NOTHING;
    x = infer__sx_new(c, INFER__SX_LIT);
    if (!x) return &INFER__SX_NONE;
    x->n = (uint32_t)n;
    x->v.s = infer__arena_text(&c->arena, s, n);
    if (!x->v.s) infer__schema_no_memory(c);
    return x->v.s ? x : &INFER__SX_NONE;
}
static const infer__sx *infer__sx_word(infer__schema *c, const char *s) { return infer__sx_text(c, s, strlen(s)); }

static const infer__sx *infer__sx_class(infer__schema *c, const infer__range *ranges, uint32_t n) {
    infer__sx *x;
    infer__range *copy;
    if (n == 0) return &INFER__SX_NONE;
    x = infer__sx_new(c, INFER__SX_CLASS);
    copy = (infer__range *)infer__schema_get_mem(c, n, sizeof *copy);
    if (!x || !copy) return &INFER__SX_NONE;
    memcpy(copy, ranges, n * sizeof *copy);
    x->n = n;
    x->v.ranges = copy;
    return x;
}

static const infer__sx *infer__sx_many(infer__schema *c, int kind, const infer__sx *const *items, uint32_t n) {
    infer__sx *x = infer__sx_new(c, kind);
    const infer__sx **copy = (const infer__sx **)infer__schema_get_mem(c, n, sizeof *copy);
    if (!x || !copy || !infer__schema_step(c, n)) return &INFER__SX_NONE;
    memcpy(copy, items, n * sizeof *copy);
    x->n = n;
    x->v.items = copy;
    return x;
}

static const infer__sx *infer__sx_join(infer__schema *c, const infer__sx *a, const infer__sx *b) { /* two literals */
    infer__sx *x = infer__sx_new(c, INFER__SX_LIT);
    char *s = (char *)infer__schema_get_mem(c, (uint64_t)a->n + b->n + 1, 1);
    if (!x || !s) return &INFER__SX_NONE;
    memcpy(s, a->v.s, a->n);
    memcpy(s + a->n, b->v.s, b->n);
    x->v.s = s;
    x->n = a->n + b->n;
    return x;
}

static const infer__sx *infer__sx_seq(infer__schema *c, const infer__sx *const *items, uint32_t n) {
    const infer__sx **kept = (const infer__sx **)infer__schema_get_mem(c, n ? n : 1, sizeof *kept);
    uint32_t i, k = 0;
    if (!kept) return &INFER__SX_NONE;
    for (i = 0; i < n; i++) {
        if (items[i]->kind == INFER__SX_NEVER) return &INFER__SX_NONE;
        if (items[i]->kind == INFER__SX_EMPTY) continue;
        if (items[i]->kind == INFER__SX_LIT && k > 0 && kept[k - 1]->kind == INFER__SX_LIT && kept[k - 1]->n < 4096)
            kept[k - 1] = infer__sx_join(c, kept[k - 1], items[i]);
        else kept[k++] = items[i];
    }
    if (k < 2) return k ? kept[0] : &INFER__SX_NOTHING;
    return infer__sx_many(c, INFER__SX_SEQ, kept, k);
}
static const infer__sx *infer__sx_pair(infer__schema *c, const infer__sx *a, const infer__sx *b) {
    const infer__sx *two[2];
    two[0] = a;
    two[1] = b;
    return infer__sx_seq(c, two, 2);
}

static const infer__sx *infer__sx_rep(infer__schema *c, const infer__sx *x, uint32_t min, uint32_t max) {
    infer__sx *rep;
    const infer__sx **child;
    if (min > max) return &INFER__SX_NONE;
    if (max == 0 || x->kind == INFER__SX_EMPTY) return &INFER__SX_NOTHING;
    if (x->kind == INFER__SX_NEVER) return min ? &INFER__SX_NONE : &INFER__SX_NOTHING;
    if (min == 1 && max == 1) return x;
    rep = infer__sx_new(c, INFER__SX_REP);
    child = (const infer__sx **)infer__schema_get_mem(c, 1, sizeof *child);
    if (!rep || !child) return &INFER__SX_NONE;
    *child = x;
    rep->v.items = child;
    rep->n = 1;
    rep->min = min;
    rep->max = max;
    return rep;
}

static const infer__sx *infer__sx_alt(infer__schema *c, const infer__sx *const *items, uint32_t n) {
    const infer__sx **kept = (const infer__sx **)infer__schema_get_mem(c, n ? n : 1, sizeof *kept), *x;
    uint32_t i, k = 0;
    int empty = 0;
    if (!kept) return &INFER__SX_NONE;
    for (i = 0; i < n; i++) {
        if (items[i]->kind == INFER__SX_NEVER) continue;
        if (items[i]->kind == INFER__SX_EMPTY) empty = 1; else kept[k++] = items[i];
    }
    if (k == 0) return empty ? &INFER__SX_NOTHING : &INFER__SX_NONE;
    x = k == 1 ? kept[0] : infer__sx_many(c, INFER__SX_ALT, kept, k);
    return empty ? infer__sx_rep(c, x, 0, 1) : x;
}
static const infer__sx *infer__sx_or(infer__schema *c, const infer__sx *a, const infer__sx *b) {
    const infer__sx *two[2];
    two[0] = a;
    two[1] = b;
    return infer__sx_alt(c, two, 2);
}

static const infer__sx *infer__sx_shared(infer__schema *c, int which) {
    infer__sx *x = infer__sx_new(c, INFER__SX_SHARED);
    if (!x) return &INFER__SX_NONE;
    x->n = (uint32_t)which;
    return x;
}

static const infer__sx *infer__sx_token(infer__schema *c, infer_token token) {
    infer__sx *x = infer__sx_new(c, INFER__SX_TOKEN);
    if (!x) return &INFER__SX_NONE;
    x->n = (uint32_t)token;
    return x;
}

static uint32_t infer__sx_rule_new(infer__schema *c) {
    if (c->r != INFER_OK) return 0;
    if (c->n_rules == INFER__SCHEMA_RULES) {
        infer__schema_fail(c, NULL, INFER_ERR_UNSUPPORTED, "the grammar has too many rules");
        return 0;
    }
    if (c->n_rules == c->cap_rules) {
        uint32_t cap = c->cap_rules * 2 + 64;
        void *p = infer__realloc(c->mem, c->rules, cap, sizeof *c->rules);
        if (!p) {
            infer__schema_no_memory(c);
            return 0;
        }
        c->rules = (infer__sx_rule *)p;
        c->cap_rules = cap;
    }
    memset(&c->rules[c->n_rules], 0, sizeof *c->rules);
    return c->n_rules++;
}
static void infer__sx_define(infer__schema *c, uint32_t rule, const infer__sx *body) {
    if (c->r == INFER_OK) c->rules[rule].body = body;
}
static const infer__sx *infer__sx_ref(infer__schema *c, uint32_t rule) {
    infer__sx *x = infer__sx_new(c, INFER__SX_REF);
    if (!x) return &INFER__SX_NONE;
    x->n = rule;
    return x;
}

/* ---- what can end ------------------------------------------------------------------------------------------ */

/* 1 when x derives a finite text, as far as is known. */
static int infer__sx_live(infer__schema *c, const infer__sx *x) {
    uint32_t i;
    c->steps++;
    switch (x->kind) {
    case INFER__SX_NEVER: return 0;
    case INFER__SX_REF: return c->rules[x->n].live;
    case INFER__SX_REP: return x->min == 0 || infer__sx_live(c, x->v.items[0]);
    case INFER__SX_SEQ:
        for (i = 0; i < x->n; i++) if (!infer__sx_live(c, x->v.items[i])) return 0;
        return 1;
    case INFER__SX_ALT:
        for (i = 0; i < x->n; i++) if (infer__sx_live(c, x->v.items[i])) return 1;
        return 0;
    default: return 1;
    }
}

/* x without what can never end. */
static const infer__sx *infer__sx_prune(infer__schema *c, const infer__sx *x) {
    const infer__sx **items, *y;
    uint32_t i;
    int same = 1;
    if (x->kind == INFER__SX_REF && !c->rules[x->n].live) return &INFER__SX_NONE;
    if (x->kind == INFER__SX_REF) return c->rules[x->n].body->kind == INFER__SX_EMPTY ? &INFER__SX_NOTHING : x;
    if (x->kind != INFER__SX_REP && x->kind != INFER__SX_SEQ && x->kind != INFER__SX_ALT) return x;
    items = (const infer__sx **)infer__schema_get_mem(c, x->n, sizeof *items);
    if (!items) return &INFER__SX_NONE;
    for (i = 0; i < x->n; i++) {
        items[i] = infer__sx_prune(c, x->v.items[i]);
        same = same && items[i] == x->v.items[i];
    }
    if (same) return x;
    y = x->kind == INFER__SX_REP   ? infer__sx_rep(c, items[0], x->min, x->max)
        : x->kind == INFER__SX_SEQ ? infer__sx_seq(c, items, x->n)
                                   : infer__sx_alt(c, items, x->n);
    return y;
}

static void infer__sx_settle(infer__schema *c) {
    int changed = 1, up = 0;
    uint32_t i;
    for (; changed && infer__schema_step(c, c->n_rules); up = !up) { /* chains of rules run either way */
        changed = 0;
        for (i = 0; i < c->n_rules; i++) {
            infer__sx_rule *r = &c->rules[up ? i : c->n_rules - 1 - i];
            if (r->live || !r->body || !infer__sx_live(c, r->body)) continue;
            r->live = 1;
            changed = 1;
        }
    }
    for (i = 0; i < 2 * c->n_rules && c->r == INFER_OK; i++) /* twice: some turn out to be empty */
        c->rules[i % c->n_rules].body =
            c->rules[i % c->n_rules].live ? infer__sx_prune(c, c->rules[i % c->n_rules].body) : &INFER__SX_NONE;
}

/* ---- counting uses ------------------------------------------------------------------------------------------ */

/* The expression that a chain of rules ends in which are no more than other names for it. */
static const infer__sx *infer__sx_real(const infer__schema *c, const infer__sx *x) {
    uint32_t hops = 0;
    while (x->kind == INFER__SX_REF && hops++ < 1000) {
        const infer__sx *body = c->rules[x->n].body;
        int name = body->kind == INFER__SX_REF || body->kind == INFER__SX_SHARED || body->kind == INFER__SX_EMPTY ||
                   (body->kind == INFER__SX_LIT && body->n <= 8);
        if (!name) break;
        x = body;
    }
    return x;
}

static void infer__sx_share(infer__schema *c, uint32_t which) {
    uint32_t i;
    if (c->shared >> which & 1) return;
    c->shared |= (uint32_t)1 << which;
    for (i = 0; i < INFER__SX_SHARED_COUNT; i++) if (INFER__SX_RULES[which].uses >> i & 1) infer__sx_share(c, i);
}

static void infer__sx_count(infer__schema *c, const infer__sx *x, uint32_t *todo, uint32_t *n) {
    uint32_t i;
    x = infer__sx_real(c, x);
    if (x->kind == INFER__SX_SHARED) infer__sx_share(c, x->n);
    if (x->kind == INFER__SX_REF && c->rules[x->n].refs++ == 0) todo[(*n)++] = x->n;
    if (x->kind == INFER__SX_REP || x->kind == INFER__SX_SEQ || x->kind == INFER__SX_ALT)
        for (i = 0; i < x->n; i++) infer__sx_count(c, x->v.items[i], todo, n);
}

/* ---- writing -------------------------------------------------------------------------------------------------- */

/* A rule that is used once is inlined, up to limits of alternatives and of nesting. */
enum { INFER__SX_INLINE = 6, INFER__SX_HOPS = 100 };

static void infer__sx_put_char(infer__bytes *out, uint32_t cp) { /* in a class */
    if (cp == '\n') infer__bytes_text(out, "\\n");
    else if (cp < 0x20 || cp == 0x7f) infer__bytes_format(out, "\\x%02X", (unsigned)cp);
    else if (cp == '\\' || cp == ']' || cp == '[' || cp == '"') infer__bytes_format(out, "\\%c", (char)cp);
    else if (cp == '-' || cp == '^') infer__bytes_format(out, "\\x%02X", (unsigned)cp);
    else if (cp < 0x7f) infer__bytes_char(out, (char)cp);
    else infer__bytes_format(out, cp < 0x10000 ? "\\u%04X" : "\\U%08X", (unsigned)cp);
}

static void infer__sx_put_class(infer__bytes *out, const infer__sx *x) {
    uint32_t i;
    infer__bytes_char(out, '[');
    for (i = 0; i < x->n; i++) {
        const infer__range *r = &x->v.ranges[i];
        infer__sx_put_char(out, r->lo);
        if (r->hi > r->lo + 1) infer__bytes_char(out, '-');
        if (r->hi > r->lo) infer__sx_put_char(out, r->hi);
    }
    infer__bytes_char(out, ']');
}

static void infer__sx_put_text(infer__bytes *out, const infer__sx *x) {
    uint32_t i;
    infer__bytes_char(out, '"');
    for (i = 0; i < x->n; i++) {
        uint8_t b = (uint8_t)x->v.s[i];
        if (b == '"' || b == '\\') infer__bytes_format(out, "\\%c", (char)b);
        else if (b == '\n') infer__bytes_text(out, "\\n");
        else if (b < 0x20 || b == 0x7f) infer__bytes_format(out, "\\x%02X", b);
        else infer__bytes_char(out, (char)b);
    }
    infer__bytes_char(out, '"');
}

static void infer__sx_put_count(infer__bytes *out, uint32_t min, uint32_t max) {
    if (max == INFER__SX_MANY && min < 2) infer__bytes_char(out, min ? '+' : '*');
    else if (max == INFER__SX_MANY) infer__bytes_format(out, "{%u,}", (unsigned)min);
    else if (min == 0 && max == 1) infer__bytes_char(out, '?');
    else if (min == max) infer__bytes_format(out, "{%u}", (unsigned)min);
    else infer__bytes_format(out, "{%u,%u}", (unsigned)min, (unsigned)max);
}

/* tight: 0 = alternatives may stand here, 1 = a sequence may, 2 = one item (something is repeated). */
static void infer__sx_put(infer__schema *c, infer__bytes *out, const infer__sx *x, int tight, int depth, int hops) {
    uint32_t i;
    int kind, group;
    x = infer__sx_real(c, x);
    if (x->kind == INFER__SX_REF) {
        infer__sx_rule *r = &c->rules[x->n];
        if (r->refs != 1 || depth >= INFER__SX_INLINE || ++hops > INFER__SX_HOPS) {
            r->wanted = 1;
            infer__bytes_format(out, "r%u", (unsigned)x->n);
            return;
        }
        x = r->body;
    }
    kind = x->kind;
    group = (kind == INFER__SX_ALT && tight > 0) || ((kind == INFER__SX_SEQ || kind == INFER__SX_REP) && tight > 1);
    if (group) infer__bytes_char(out, '(');
    switch (kind) {
    case INFER__SX_LIT: infer__sx_put_text(out, x); break;
    case INFER__SX_CLASS: infer__sx_put_class(out, x); break;
    case INFER__SX_SHARED: infer__bytes_text(out, INFER__SX_RULES[x->n].name); break;
    case INFER__SX_TOKEN: infer__bytes_format(out, "<[%u]>", (unsigned)x->n); break;
    case INFER__SX_REP:
        infer__sx_put(c, out, x->v.items[0], 2, depth + 1, hops);
        infer__sx_put_count(out, x->min, x->max);
        break;
    case INFER__SX_SEQ:
    case INFER__SX_ALT:
        for (i = 0; i < x->n && !out->failed; i++) {
            if (i > 0) infer__bytes_text(out, kind == INFER__SX_ALT ? " | " : " ");
            infer__sx_put(c, out, x->v.items[i], 1, depth + (kind == INFER__SX_ALT), hops);
        }
        break;
    default: infer__bytes_text(out, "\"\""); break;
    }
    if (group) infer__bytes_char(out, ')');
}

static void infer__sx_put_shared(const infer__schema *c, infer__bytes *out, uint32_t which) {
    const char *text = INFER__SX_RULES[which].text;
    size_t i;
    for (i = 0; i < INFER__COUNT(INFER__SX_OTHERS); i++)
        if ((INFER__SX_OTHERS[i].as & c->as) && INFER__SX_OTHERS[i].which == which) text = INFER__SX_OTHERS[i].text;
    infer__bytes_format(out, "%s ::= ", INFER__SX_RULES[which].name);
    if (which == INFER__SX_STRING && c->as == INFER__AS_MARKS) infer__bytes_format(out, "r%u", (unsigned)c->string);
    else infer__bytes_text(out, text);
    infer__bytes_char(out, '\n');
}

static void infer__sx_write(infer__schema *c, infer__bytes *out, const infer__sx *root) {
    uint32_t *todo, n = 0, i, more;
    infer__sx_settle(c);
    todo = (uint32_t *)infer__schema_get_mem(c, (uint64_t)c->n_rules + 1, sizeof *todo);
    if (c->r != INFER_OK || !todo) return;
    if (!infer__sx_live(c, root)) {
        infer__schema_fail(c, c->root, INFER_ERR_FORMAT, "nothing satisfies the schema");
        return;
    }
    infer__sx_count(c, root, todo, &n);
    if (c->as == INFER__AS_MARKS) {
        infer__sx_count(c, infer__sx_ref(c, c->string), todo, &n);
        c->rules[c->string].wanted = 1;
    }
    for (i = 0; i < n; i++) infer__sx_count(c, c->rules[todo[i]].body, todo, &n);
    infer__bytes_text(out, "root ::= ");
    infer__sx_put(c, out, root, 0, 0, 0);
    infer__bytes_char(out, '\n');
    for (more = 1; more && !out->failed;) { /* what is written asks for more, mostly after it */
        more = 0;
        for (i = 0; i < n; i++) {
            infer__sx_rule *r = &c->rules[todo[i]];
            if (!r->wanted || r->done) continue;
            r->done = more = 1;
            infer__bytes_format(out, "r%u ::= ", (unsigned)todo[i]);
            infer__sx_put(c, out, r->body, 0, 0, 0);
            infer__bytes_char(out, '\n');
        }
    }
    for (i = 0; i < INFER__SX_SHARED_COUNT; i++) if (c->shared >> i & 1) infer__sx_put_shared(c, out, i);
}
