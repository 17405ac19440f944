/* gbnf.c: the grammar notation of llama.cpp (its grammars/README.md): text -> syntax tree.
 *
 * Owns:  infer__gbnf: rules, expressions, ranges of characters; the checks that need no automaton.
 * Syntax: name ::= alternatives; a rule ends with its line, but not after '|' and '::=' nor inside parentheses.
 *        "text", [set], [^set], ., name, (group), <token>, <[id]>, !<token>; after each of them * + ? {m} {m,} {m,n}.
 *        Escapes: \n \r \t \\ \" \[ \] \- \^, and code points \xNN \uNNNN \UNNNNNNNN. # begins a comment.
 * Rules: untrusted text: size, nesting and numbers are bounded, and all algorithms here are linear in the text (times
 *        the logarithm for sets). Errors have line and column.
 * Differs from llama.cpp: a rule that is defined twice, an empty set, and a rule that derives no finite text are
 * errors.
 * Start: infer__gbnf_parse.
 */
#include "grammar.h"

static int infer__room(infer__mem *mem, void *array, uint32_t *cap, uint64_t n, size_t size) {
    void *old;
    uint64_t want = (uint64_t)*cap * 2 + 16;
    if (n <= *cap) return 1;
    want = INFER__MAX(want, n);
    if (want > INT32_MAX) return 0;
    memcpy(&old, array, sizeof old);
    old = infer__realloc(mem, old, want, size);
    if (!old) return 0;
    memcpy(array, &old, sizeof old);
    *cap = (uint32_t)want;
    return 1;
}

static infer_result infer__gbnf_error(infer__gbnf *g, size_t at, const char *format, ...) {
    char what[256];
    size_t full;
    uint32_t line, column;
    va_list args;
    if (g->r != INFER_OK) return g->r;
    va_start(args, format);
    infer__format_cut(what, sizeof what, &full, format, args);
    va_end(args);
    infer__text_place(g->s, g->n, at, &line, &column);
    g->r = infer__error(g->err, INFER_ERR_FORMAT, "grammar, line %u column %u: %s", (unsigned)line, (unsigned)column,
                        what);
    return g->r;
}
static void infer__gbnf_no_memory(infer__gbnf *g) {
    if (g->r == INFER_OK) g->r = infer__error(g->err, INFER_ERR_MEMORY, "out of memory for the grammar");
}

/* ---- characters ------------------------------------------------------------------------------------------ */

static int infer__gbnf_peek(const infer__gbnf *g) { return g->at < g->n ? (uint8_t)g->s[g->at] : -1; }
static int infer__gbnf_name_char(int c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

static void infer__gbnf_space(infer__gbnf *g, int lines) {
    for (; g->at < g->n; g->at++) {
        char c = g->s[g->at];
        if (c == '#') {
            while (g->at + 1 < g->n && g->s[g->at + 1] != '\n' && g->s[g->at + 1] != '\r') g->at++;
        } else if (c != ' ' && c != '\t' && !(lines && (c == '\n' || c == '\r'))) {
            break;
        }
    }
}

/* One character of a literal or a set, escapes resolved; there must be one. */
static uint32_t infer__gbnf_char(infer__gbnf *g) {
    static const char FROM[] = "nrt\\\"[]-^", TO[] = "\n\r\t\\\"[]-^";
    static const struct { char c; int digits; } HEX[] = {{'x', 2}, {'u', 4}, {'U', 8}};
    size_t len, i, k;
    int ok;
    uint32_t cp;
    const char *p;
    if (g->s[g->at] != '\\') {
        cp = infer__utf8_next(g->s + g->at, g->n - g->at, &len, &ok);
        if (!ok) infer__gbnf_error(g, g->at, "invalid UTF-8");
        g->at += len;
        return cp;
    }
    if (g->n - g->at < 2) {
        infer__gbnf_error(g, g->at, "an escape without its end");
        return 0;
    }
    for (i = 0; i < INFER__COUNT(HEX); i++) {
        if (g->s[g->at + 1] != HEX[i].c) continue;
        for (cp = 0, k = 0; k < (size_t)HEX[i].digits && g->at + 2 + k < g->n; k++) {
            char c = g->s[g->at + 2 + k];
            int d = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
            if (d < 0) break;
            cp = cp << 4 | (uint32_t)d;
        }
        if (k < (size_t)HEX[i].digits)
            infer__gbnf_error(g, g->at, "\\%c needs %d hexadecimal digits", HEX[i].c, HEX[i].digits);
        else if (cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000))
            infer__gbnf_error(g, g->at, "U+%04X is no character", (unsigned)cp);
        g->at += 2 + k;
        return cp;
    }
    p = g->s[g->at + 1] ? strchr(FROM, g->s[g->at + 1]) : NULL;
    if (!p) {
        infer__gbnf_error(g, g->at, "unknown escape");
        return 0;
    }
    g->at += 2;
    return (uint8_t)TO[p - FROM];
}

/* ---- the tree ------------------------------------------------------------------------------------------------ */

static int infer__gbnf_work(infer__gbnf *g) {
    if (infer__watch_work(g->watch, 4)) return 1;
    if (g->r == INFER_OK) g->r = infer__watch_error(g->watch, "compiling a grammar", g->err);
    return 0;
}

/* 1 when an array of cap elements, of the tree or the automaton, may double without passing the limit of memory: the
 * old one, the new one and the tree beside them. */
static int infer__gbnf_doubles(const infer__gbnf *g, uint32_t cap, size_t size) {
    uint64_t tree = size == sizeof *g->x ? 0 : (uint64_t)g->cap_x * sizeof *g->x;
    return tree + 3 * (uint64_t)cap * size <= INFER__GRAMMAR_USUAL + INFER__GRAMMAR_TIMES * (uint64_t)g->n;
}

/* A new expression; -1 after an error. */
static int32_t infer__gbnf_new(infer__gbnf *g, int32_t kind, size_t at, uint32_t a, uint32_t b) {
    infer__gexpr *x;
    if (g->r != INFER_OK || !infer__gbnf_work(g)) return -1;
    if (g->n_x >= INFER__GRAMMAR_NODES || (g->n_x == g->cap_x && !infer__gbnf_doubles(g, g->cap_x, sizeof *g->x))) {
        infer__gbnf_error(g, at, "the grammar is too large: more than %u expressions", (unsigned)g->n_x);
        return -1;
    }
    if (!infer__room(g->mem, &g->x, &g->cap_x, (uint64_t)g->n_x + 1, sizeof *g->x)) {
        infer__gbnf_no_memory(g);
        return -1;
    }
    x = &g->x[g->n_x];
    x->kind = kind;
    x->first = x->next = x->parent = -1;
    x->a = a;
    x->b = b;
    x->rule = (int32_t)g->n_rules - 1;
    x->at = (uint32_t)at;
    return (int32_t)g->n_x++;
}
/* Put `part` after *last (-1 = it is the first) of `whole`. */
static void infer__gbnf_add(infer__gbnf *g, int32_t whole, int32_t *last, int32_t part) {
    if (whole < 0 || part < 0) return;
    g->x[part].parent = whole;
    if (*last < 0) g->x[whole].first = part;
    else g->x[*last].next = part;
    *last = part;
}
static void infer__gbnf_range(infer__gbnf *g, uint32_t lo, uint32_t hi) {
    if (g->r != INFER_OK) return;
    if (!infer__room(g->mem, &g->ranges, &g->cap_ranges, (uint64_t)g->n_ranges + 1, sizeof *g->ranges)) {
        infer__gbnf_no_memory(g);
        return;
    }
    g->ranges[g->n_ranges].lo = lo;
    g->ranges[g->n_ranges++].hi = hi;
}

static void infer__range_sink(infer__grange *a, size_t n, size_t i) {
    infer__grange x = a[i];
    size_t j;
    for (; (j = 2 * i + 1) < n; i = j) {
        if (j + 1 < n && a[j + 1].lo > a[j].lo) j++;
        if (a[j].lo <= x.lo) break;
        a[i] = a[j];
    }
    a[i] = x;
}
/* Sort and join ranges; returns how many are left. */
static uint32_t infer__ranges_join(infer__grange *a, uint32_t n) {
    uint32_t i, m = 0;
    for (i = n / 2; i-- > 0;) infer__range_sink(a, n, i);
    for (i = n; i-- > 1;) {
        infer__grange x = a[0];
        a[0] = a[i];
        a[i] = x;
        infer__range_sink(a, i, 0);
    }
    for (i = 0; i < n; i++) {
        if (m > 0 && a[i].lo <= a[m - 1].hi + 1) a[m - 1].hi = INFER__MAX(a[m - 1].hi, a[i].hi);
        else a[m++] = a[i];
    }
    return m;
}

/* Ranges `first` and following become a CHARS expression; negated: all other characters. */
static int32_t infer__gbnf_chars(infer__gbnf *g, size_t at, uint32_t first, int negated) {
    uint32_t n, i, lo = 0, end;
    if (negated) infer__gbnf_range(g, 0xd800, 0xdfff); /* surrogates are no characters */
    if (g->r != INFER_OK) return -1;
    n = infer__ranges_join(g->ranges + first, g->n_ranges - first);
    g->n_ranges = end = first + n;
    if (negated) {
        for (i = first; i < end; i++) {
            infer__grange x = g->ranges[i];
            if (x.lo > lo) infer__gbnf_range(g, lo, x.lo - 1);
            lo = x.hi + 1;
        }
        if (lo <= 0x10ffff) infer__gbnf_range(g, lo, 0x10ffff);
        if (g->r != INFER_OK) return -1;
        memmove(g->ranges + first, g->ranges + end, (g->n_ranges - end) * sizeof *g->ranges);
        g->n_ranges -= n;
    }
    if (g->n_ranges == first) {
        infer__gbnf_error(g, at, "an empty set: no character can match");
        return -1;
    }
    return infer__gbnf_new(g, INFER__GX_CHARS, at, first, g->n_ranges - first);
}

static int32_t infer__gbnf_set(infer__gbnf *g) {
    size_t at = g->at++;
    uint32_t first = g->n_ranges, lo, hi;
    int negated = infer__gbnf_peek(g) == '^';
    g->at += (size_t)negated;
    if (infer__gbnf_peek(g) == ']') {
        infer__gbnf_error(g, at, "an empty set: no character can match");
        return -1;
    }
    while (g->r == INFER_OK && infer__gbnf_peek(g) != ']') {
        size_t here = g->at;
        if (g->at >= g->n || g->s[g->at] == '\n') {
            infer__gbnf_error(g, at, "the set has no ']'");
            return -1;
        }
        lo = hi = infer__gbnf_char(g);
        if (g->n - g->at >= 2 && g->s[g->at] == '-' && g->s[g->at + 1] != ']') {
            g->at++;
            hi = infer__gbnf_char(g);
            if (hi < lo) infer__gbnf_error(g, here, "a range that ends before it begins");
        }
        infer__gbnf_range(g, lo, hi);
    }
    g->at++;
    return infer__gbnf_chars(g, at, first, negated);
}

static int32_t infer__gbnf_literal(infer__gbnf *g) {
    size_t at = g->at++;
    int32_t seq = infer__gbnf_new(g, INFER__GX_SEQ, at, 0, 0), last = -1;
    while (g->r == INFER_OK && infer__gbnf_peek(g) != '"') {
        size_t here = g->at;
        uint32_t first = g->n_ranges, cp;
        if (g->at >= g->n || g->s[g->at] == '\n') {
            infer__gbnf_error(g, at, "the literal has no closing quote");
            return -1;
        }
        cp = infer__gbnf_char(g);
        infer__gbnf_range(g, cp, cp);
        infer__gbnf_add(g, seq, &last, infer__gbnf_chars(g, here, first, 0));
    }
    g->at++;
    return seq;
}

/* <[id]> or <text>, at '<'. */
static int32_t infer__gbnf_token(infer__gbnf *g, int negated) {
    size_t at = g->at, end, i, count = 0;
    infer_token id = 0;
    int32_t size = g->tokenizer ? infer__tokenizer_size(g->tokenizer) : INT32_MAX;
    for (end = at; end < g->n && g->s[end] != '>' && g->s[end] != '\n'; end++) {
    }
    if (end >= g->n || g->s[end] != '>') {
        infer__gbnf_error(g, at, "the token has no '>'");
        return -1;
    }
    g->at = end + 1;
    if (end - at >= 3 && g->s[at + 1] == '[' && g->s[end - 1] == ']') {
        for (i = at + 2; i < end - 1; i++) {
            int d = g->s[i] - '0';
            if (d < 0 || d > 9 || id > (size - 1 - d) / 10) break;
            id = id * 10 + d;
        }
        if (i < end - 1 || end - at < 4)
            infer__gbnf_error(g, at, "%.*s is no token of this vocabulary", (int)INFER__MIN(end + 1 - at, 40),
                              g->s + at);
    } else if (!g->tokenizer) {
        infer__gbnf_error(g, at, "a token by its text needs a model's vocabulary");
    } else {
        infer_result r = infer__tokenize(g->tokenizer, g->mem, g->s + at, end + 1 - at, INFER_TEXT_PARSE_SPECIAL, &id,
                                         1, &count, NULL);
        if (r != INFER_OK || count != 1)
            infer__gbnf_error(g, at, "%.*s is not one token of this vocabulary", (int)INFER__MIN(end + 1 - at, 40),
                              g->s + at);
    }
    return infer__gbnf_new(g, negated ? INFER__GX_NOT_TOKEN : INFER__GX_TOKEN, at, (uint32_t)id, 0);
}

/* ---- rules --------------------------------------------------------------------------------------------------- */

/* The index of a rule's name, which is new perhaps; -1 after an error. */
static int32_t infer__gbnf_name(infer__gbnf *g, size_t at, size_t n) {
    uint32_t h = (uint32_t)infer__fnv(INFER__FNV, g->s + at, n), i;
    int32_t k;
    infer__grule *rule;
    for (k = g->n_buckets ? g->buckets[h & (g->n_buckets - 1)] : -1; k >= 0; k = g->rules[k].next)
        if (g->rules[k].n_name == n && memcmp(g->rules[k].name, g->s + at, n) == 0) return k;
    if (!infer__room(g->mem, &g->rules, &g->cap_rules, (uint64_t)g->n_rules + 1, sizeof *g->rules)) goto no_memory;
    if (g->n_rules >= g->n_buckets) {
        uint32_t m = g->n_buckets ? g->n_buckets * 2 : 64;
        int32_t *p = (int32_t *)infer__realloc(g->mem, NULL, m, sizeof *p);
        if (!p) goto no_memory;
        infer__free(g->mem, g->buckets);
        g->buckets = p;
        g->n_buckets = m;
        for (i = 0; i < m; i++) p[i] = -1;
        for (i = 0; i < g->n_rules; i++) {
            uint32_t b = (uint32_t)infer__fnv(INFER__FNV, g->rules[i].name, g->rules[i].n_name) & (m - 1);
            g->rules[i].next = p[b];
            p[b] = (int32_t)i;
        }
    }
    rule = &g->rules[g->n_rules];
    rule->name = g->s + at;
    rule->n_name = (uint32_t)n;
    rule->at = (uint32_t)at;
    rule->body = -1;
    rule->next = g->buckets[h & (g->n_buckets - 1)];
    g->buckets[h & (g->n_buckets - 1)] = (int32_t)g->n_rules;
    return (int32_t)g->n_rules++;
no_memory:
    infer__gbnf_no_memory(g);
    return -1;
}

static size_t infer__gbnf_name_length(const infer__gbnf *g) {
    size_t n = 0;
    while (g->at + n < g->n && infer__gbnf_name_char((uint8_t)g->s[g->at + n])) n++;
    return n;
}

static uint32_t infer__gbnf_number(infer__gbnf *g) {
    size_t at = g->at;
    uint32_t v = 0;
    while (g->at < g->n && g->s[g->at] >= '0' && g->s[g->at] <= '9') {
        if (v <= INFER__GRAMMAR_REPEAT) v = v * 10 + (uint32_t)(g->s[g->at] - '0');
        g->at++;
    }
    if (g->at == at) infer__gbnf_error(g, at, "a number is expected");
    if (v > INFER__GRAMMAR_REPEAT)
        infer__gbnf_error(g, at, "a repetition of more than %d", (int)INFER__GRAMMAR_REPEAT);
    return v;
}

/* * + ? {m} {m,} {m,n} {,n} after x: the expression that repeats it, or x. */
static int32_t infer__gbnf_repeat(infer__gbnf *g, int32_t x) {
    static const struct { char c; uint32_t least, most; } SHORT[] = {
        {'*', 0, INFER__UNLIMITED}, {'+', 1, INFER__UNLIMITED}, {'?', 0, 1}};
    size_t at = g->at, i;
    uint32_t least = 1, most = 1;
    int32_t c = infer__gbnf_peek(g), y, none = -1;
    for (i = 0; i < INFER__COUNT(SHORT) && SHORT[i].c != c; i++) {
    }
    if (i < INFER__COUNT(SHORT)) {
        least = SHORT[i].least;
        most = SHORT[i].most;
        g->at++;
    } else if (c == '{') {
        g->at++;
        infer__gbnf_space(g, 0);
        least = infer__gbnf_peek(g) == ',' ? 0 : infer__gbnf_number(g);
        most = least;
        infer__gbnf_space(g, 0);
        if (infer__gbnf_peek(g) == ',') {
            g->at++;
            infer__gbnf_space(g, 0);
            most = infer__gbnf_peek(g) == '}' ? INFER__UNLIMITED : infer__gbnf_number(g);
            infer__gbnf_space(g, 0);
        }
        if (infer__gbnf_peek(g) != '}') infer__gbnf_error(g, g->at, "'}' is expected");
        if (most < least) infer__gbnf_error(g, at, "a repetition that ends before it begins");
        g->at++;
    } else {
        return x;
    }
    y = infer__gbnf_new(g, INFER__GX_REPEAT, at, least, most);
    infer__gbnf_add(g, y, &none, x);
    return y;
}

static int32_t infer__gbnf_alternatives(infer__gbnf *g, int nested);

/* One symbol without its repetition; -2 = none here. */
static int32_t infer__gbnf_symbol(infer__gbnf *g) {
    size_t at = g->at, n;
    int32_t x;
    uint32_t first = g->n_ranges;
    int c = infer__gbnf_peek(g);
    switch (c) {
    case '"': return infer__gbnf_literal(g);
    case '[': return infer__gbnf_set(g);
    case '<': return infer__gbnf_token(g, 0);
    case '.':
        g->at++;
        infer__gbnf_range(g, 0, 0x10ffff);
        return infer__gbnf_chars(g, at, first, 0);
    case '!':
        g->at++;
        if (infer__gbnf_peek(g) == '<') return infer__gbnf_token(g, 1);
        infer__gbnf_error(g, g->at, "'<' is expected after '!'");
        return -1;
    case '(':
        g->at++;
        infer__gbnf_space(g, 1);
        if (++g->depth > INFER__GRAMMAR_DEPTH) infer__gbnf_error(g, at, "too many parentheses inside each other");
        x = g->r == INFER_OK ? infer__gbnf_alternatives(g, 1) : -1;
        g->depth--;
        if (g->r == INFER_OK && infer__gbnf_peek(g) != ')')
            infer__gbnf_error(g, g->at, "')' is expected, for '(' at byte %u", (unsigned)at);
        g->at++;
        return x;
    default: break;
    }
    if ((n = infer__gbnf_name_length(g)) == 0) return -2;
    x = infer__gbnf_name(g, g->at, n);
    g->at += n;
    return infer__gbnf_new(g, INFER__GX_RULE, at, (uint32_t)x, 0);
}

static int32_t infer__gbnf_sequence(infer__gbnf *g, int nested) {
    int32_t seq = infer__gbnf_new(g, INFER__GX_SEQ, g->at, 0, 0), last = -1;
    while (g->r == INFER_OK) {
        int32_t before = last, x = infer__gbnf_symbol(g);
        if (x == -2) break;
        infer__gbnf_space(g, nested);
        for (;;) { /* also repetitions of repetitions */
            int32_t y = g->r == INFER_OK ? infer__gbnf_repeat(g, x) : x;
            if (y == x || g->r != INFER_OK) break;
            x = y;
            infer__gbnf_space(g, nested);
        }
        last = before;
        infer__gbnf_add(g, seq, &last, x);
    }
    if (g->r == INFER_OK && g->x[seq].first < 0) g->x[seq].kind = INFER__GX_EMPTY;
    return seq;
}

static int32_t infer__gbnf_alternatives(infer__gbnf *g, int nested) {
    int32_t x = infer__gbnf_sequence(g, nested), alt, last = -1;
    if (g->r != INFER_OK || infer__gbnf_peek(g) != '|') return x;
    alt = infer__gbnf_new(g, INFER__GX_ALT, g->x[x].at, 0, 0);
    infer__gbnf_add(g, alt, &last, x);
    while (g->r == INFER_OK && infer__gbnf_peek(g) == '|') {
        g->at++;
        infer__gbnf_space(g, 1);
        infer__gbnf_add(g, alt, &last, infer__gbnf_sequence(g, nested));
    }
    return alt;
}

static void infer__gbnf_rule(infer__gbnf *g) {
    size_t at = g->at, n = infer__gbnf_name_length(g);
    uint32_t first_x = g->n_x, i;
    int32_t rule, body;
    if (n == 0) {
        infer__gbnf_error(g, at, "the name of a rule is expected");
        return;
    }
    rule = infer__gbnf_name(g, at, n);
    if (rule < 0) return;
    if (g->rules[rule].body >= 0) {
        infer__gbnf_error(g, at, "rule '%.*s' is defined twice", (int)INFER__MIN(n, 60), g->s + at);
        return;
    }
    g->at += n;
    infer__gbnf_space(g, 0);
    if (g->n - g->at < 3 || memcmp(g->s + g->at, "::=", 3) != 0) {
        infer__gbnf_error(g, g->at, "'::=' is expected");
        return;
    }
    g->at += 3;
    infer__gbnf_space(g, 1);
    body = infer__gbnf_alternatives(g, 0);
    if (g->r == INFER_OK && g->at < g->n && g->s[g->at] != '\n' && g->s[g->at] != '\r')
        infer__gbnf_error(g, g->at, "this cannot stand here");
    if (g->r != INFER_OK) return;
    g->rules[rule].body = body;
    g->rules[rule].at = (uint32_t)at;
    for (i = first_x; i < g->n_x; i++) g->x[i].rule = rule;
    infer__gbnf_space(g, 1);
}

/* ---- checks ---------------------------------------------------------------------------------------------------- */

/* What expressions derive: from the leaves up, an expression is looked at when enough of its parts are known (Dowling,
 * Gallier: Linear-time algorithms for testing the satisfiability of propositional Horn formulae, 1984). */
static uint8_t *infer__gbnf_derives(const infer__gbnf *g, int empty) {
    uint8_t *yes = (uint8_t *)infer__calloc(g->mem, (uint64_t)g->n_x + 1, 1);
    uint32_t *missing = (uint32_t *)infer__calloc(g->mem, (uint64_t)g->n_x + 1, sizeof *missing);
    int32_t *queue = (int32_t *)infer__calloc(g->mem, (uint64_t)g->n_x + 1, sizeof *queue);
    int32_t *uses = (int32_t *)infer__calloc(g->mem, (uint64_t)g->n_x + 1, sizeof *uses); /* of the same rule: next */
    int32_t *use_of = (int32_t *)infer__calloc(g->mem, (uint64_t)g->n_rules + 1, sizeof *use_of);
    int32_t *body_of = (int32_t *)infer__calloc(g->mem, (uint64_t)g->n_x + 1, sizeof *body_of);
    uint32_t i, n_queue = 0, done;
    if (!yes || !missing || !queue || !uses || !use_of || !body_of) {
        infer__free(g->mem, yes);
        yes = NULL;
        goto out;
    }
    for (i = 0; i < g->n_rules; i++) {
        use_of[i] = -1;
        if (g->rules[i].body >= 0) body_of[g->rules[i].body] = (int32_t)i + 1;
    }
    for (i = 0; i < g->n_x; i++) {
        const infer__gexpr *x = &g->x[i];
        int at_once = x->kind == INFER__GX_EMPTY || (x->kind == INFER__GX_REPEAT && x->a == 0) ||
                      (!empty && (x->kind == INFER__GX_CHARS || x->kind >= INFER__GX_TOKEN)) ||
                      (x->kind == INFER__GX_SEQ && x->first < 0);
        int32_t part;
        if (x->kind == INFER__GX_SEQ) for (part = x->first; part >= 0; part = g->x[part].next) missing[i]++;
        else missing[i] = 1;
        if (x->kind == INFER__GX_RULE) {
            uses[i] = use_of[x->a];
            use_of[x->a] = (int32_t)i;
        }
        if (!at_once) continue;
        yes[i] = 1;
        queue[n_queue++] = (int32_t)i;
    }
    for (done = 0; done < n_queue; done++) {
        int32_t x = queue[done], up = g->x[x].parent, use;
        if (up >= 0 && !yes[up] && --missing[up] == 0) {
            yes[up] = 1;
            queue[n_queue++] = up;
        }
        if (body_of[x] == 0) continue;
        for (use = use_of[body_of[x] - 1]; use >= 0; use = uses[use]) {
            if (yes[use]) continue;
            yes[use] = 1;
            queue[n_queue++] = use;
        }
    }
out:
    infer__free(g->mem, missing);
    infer__free(g->mem, queue);
    infer__free(g->mem, uses);
    infer__free(g->mem, use_of);
    infer__free(g->mem, body_of);
    return yes;
}

static void infer__gbnf_check(infer__gbnf *g, const char *root) {
    uint32_t i;
    uint8_t *finite;
    for (i = 0; i < g->n_rules; i++) {
        const infer__grule *rule = &g->rules[i];
        if (rule->body < 0)
            infer__gbnf_error(g, rule->at, "rule '%.*s' is not defined", (int)INFER__MIN(rule->n_name, 60), rule->name);
        if (rule->n_name == strlen(root) && memcmp(rule->name, root, rule->n_name) == 0) g->root = (int32_t)i;
    }
    if (g->root < 0) infer__gbnf_error(g, 0, "there is no rule '%.60s'", root);
    if (g->r != INFER_OK) return;
    finite = infer__gbnf_derives(g, 0);
    if (!finite) infer__gbnf_no_memory(g);
    for (i = 0; finite && i < g->n_rules; i++)
        if (!finite[g->rules[i].body])
            infer__gbnf_error(g, g->rules[i].at, "rule '%.*s' never ends: it derives no finite text",
                              (int)INFER__MIN(g->rules[i].n_name, 60), g->rules[i].name);
    infer__free(g->mem, finite);
}

static infer_result infer__gbnf_parse(infer__gbnf *g, infer__mem *mem, infer__watch *watch,
                                      const infer__tokenizer *tokenizer, const char *text, size_t n,
                                      const char *root, infer_error *err) {
    memset(g, 0, sizeof *g);
    g->mem = mem;
    g->tokenizer = tokenizer;
    g->s = text;
    g->n = n;
    g->root = -1;
    g->watch = watch;
    g->err = err;
    if (n > INFER__GRAMMAR_TEXT)
        return g->r = infer__error(err, INFER_ERR_FORMAT, "a grammar of more than 16 MiB");
    infer__gbnf_space(g, 1);
    while (g->r == INFER_OK && g->at < g->n) infer__gbnf_rule(g);
    if (g->r == INFER_OK) infer__gbnf_check(g, root);
    if (g->r != INFER_OK) infer__gbnf_free(g);
    return g->r;
}

static void infer__gbnf_free(infer__gbnf *g) {
    infer__free(g->mem, g->x);
    infer__free(g->mem, g->ranges);
    infer__free(g->mem, g->rules);
    infer__free(g->mem, g->buckets);
    g->x = NULL;
    g->ranges = NULL;
    g->rules = NULL;
    g->buckets = NULL;
}
