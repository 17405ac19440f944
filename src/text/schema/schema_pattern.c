/* schema_pattern.c: regular expressions as JSON Schema uses them (ECMA-262 with the flag u) -> expressions.
 *
 * Owns:  the parser; how characters of a value are spelled inside a JSON string.
 * Rules: a pattern speaks about the string's value. Look-around, back-references and word boundaries are errors that
 *        name them. \d and \w are ASCII, \s is ECMA's white space, '.' is anything but \n \r U+2028 U+2029. A lazy
 *        quantifier matches the same texts as a greedy one.
 * Start: infer__pattern_parse, infer__pattern_text.
 */
#include "schema.h"

typedef struct infer__pattern { /* parsed ones, so that each is parsed once */
    const char *s;
    const infer__sx *x;
    struct infer__pattern *next;
} infer__pattern;

/* A set of characters while it is being collected. */
enum { INFER__CHARS_MOST = 512 };
typedef struct infer__chars { infer__range r[INFER__CHARS_MOST]; uint32_t n; } infer__chars;

typedef struct infer__pattern_in {
    infer__schema *c;
    const infer_json *where;
    const char *s;
    size_t n, at;
    int depth;
    infer__chars set; /* scratch, here since functions that call themselves should need little stack */
} infer__pattern_in;

static const infer__range INFER__RX_DIGIT[] = {{'0', '9'}};
static const infer__range INFER__RX_WORD[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
static const infer__range INFER__RX_SPACE[] = {{9, 13}, {32, 32}, {0xa0, 0xa0}, {0x1680, 0x1680}, {0x2000, 0x200a},
    {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000}, {0xfeff, 0xfeff}};
static const infer__range INFER__RX_LINE[] = {{10, 10}, {13, 13}, {0x2028, 0x2029}}; /* what '.' is not */

/* ---- sets of characters ------------------------------------------------------------------------------------ */

static void infer__chars_add(infer__schema *c, const infer_json *where, infer__chars *set, uint32_t lo, uint32_t hi) {
    if (set->n == INFER__CHARS_MOST) {
        infer__schema_no(c, where, "a pattern with a class of more than 500 ranges");
        return;
    }
    set->r[set->n].lo = lo;
    set->r[set->n++].hi = hi;
}

/* Sorted, joined, without surrogates. */
static void infer__chars_tidy(infer__chars *set) {
    uint32_t i, j, k = 0;
    for (i = 1; i < set->n; i++) {
        infer__range r = set->r[i];
        for (j = i; j > 0 && set->r[j - 1].lo > r.lo; j--) set->r[j] = set->r[j - 1];
        set->r[j] = r;
    }
    for (i = 0; i < set->n; i++) {
        infer__range r = set->r[i];
        if (k > 0 && r.lo <= set->r[k - 1].hi + 1) set->r[k - 1].hi = INFER__MAX(set->r[k - 1].hi, r.hi);
        else set->r[k++] = r;
    }
    set->n = k;
}

/* All characters that are not in it. */
static void infer__chars_invert(infer__schema *c, const infer_json *where, infer__chars *set) {
    infer__chars in = *set;
    uint32_t i, from = 0;
    infer__chars_tidy(&in);
    set->n = 0;
    for (i = 0; i < in.n; i++) {
        if (in.r[i].lo > from) infer__chars_add(c, where, set, from, in.r[i].lo - 1);
        from = in.r[i].hi + 1;
    }
    if (from <= 0x10ffff) infer__chars_add(c, where, set, from, 0x10ffff);
}

static const infer__sx *infer__chars_class(infer__schema *c, const infer_json *where, infer__chars *set) {
    infer__chars out;
    uint32_t i;
    infer__chars_tidy(set);
    out.n = 0;
    for (i = 0; i < set->n; i++) { /* no surrogates: they are no characters */
        uint32_t lo = set->r[i].lo, hi = set->r[i].hi;
        if (lo < 0xd800) infer__chars_add(c, where, &out, lo, INFER__MIN(hi, 0xd7ff));
        if (hi > 0xdfff) infer__chars_add(c, where, &out, INFER__MAX(lo, 0xe000), hi);
    }
    return infer__sx_class(c, out.r, out.n);
}

static void infer__chars_table(infer__schema *c, const infer_json *where, infer__chars *set, const infer__range *r,
                               uint32_t n, int not_in) {
    infer__chars part;
    uint32_t i;
    part.n = 0;
    for (i = 0; i < n; i++) infer__chars_add(c, where, &part, r[i].lo, r[i].hi);
    if (not_in) infer__chars_invert(c, where, &part);
    for (i = 0; i < part.n; i++) infer__chars_add(c, where, set, part.r[i].lo, part.r[i].hi);
}

/* ---- parsing ------------------------------------------------------------------------------------------------- */

static const infer__sx *infer__pattern_bad(infer__pattern_in *in, infer_result r, const char *what) {
    char m[200];
    infer__format(m, sizeof m, "pattern, at byte %u: %s", (unsigned)in->at, what);
    infer__schema_fail(in->c, in->where, r, m);
    return &INFER__SX_NONE;
}
static int infer__pattern_peek(const infer__pattern_in *in) { return in->at < in->n ? (uint8_t)in->s[in->at] : -1; }

static int infer__pattern_hex(infer__pattern_in *in, int digits, uint32_t *out) {
    int i;
    *out = 0;
    for (i = 0; i < digits; i++) {
        int c = in->at + (size_t)i < in->n ? in->s[in->at + (size_t)i] : 0;
        int d = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
        if (d < 0) return 0;
        *out = *out << 4 | (uint32_t)d;
    }
    in->at += (size_t)digits;
    return 1;
}

/* \uXXXX, \uXXXX\uXXXX (a pair of surrogates), \u{X...}; after the u. */
static uint32_t infer__pattern_u(infer__pattern_in *in) {
    uint32_t cp = 0, low;
    size_t back;
    if (infer__pattern_peek(in) == '{') {
        uint32_t d, digits = 0;
        in->at++;
        while (digits < 8 && infer__pattern_hex(in, 1, &d)) {
            cp = cp << 4 | d;
            digits++;
        }
        if (digits == 0 || infer__pattern_peek(in) != '}' || cp > 0x10ffff)
            infer__pattern_bad(in, INFER_ERR_FORMAT, "bad \\u escape");
        in->at++;
        return cp > 0x10ffff ? 0 : cp;
    }
    if (!infer__pattern_hex(in, 4, &cp)) infer__pattern_bad(in, INFER_ERR_FORMAT, "bad \\u escape");
    back = in->at;
    if (cp >= 0xd800 && cp < 0xdc00 && in->n - in->at >= 6 && memcmp(in->s + in->at, "\\u", 2) == 0) {
        in->at += 2;
        if (infer__pattern_hex(in, 4, &low) && low >= 0xdc00 && low < 0xe000)
            return 0x10000 + ((cp - 0xd800) << 10) + (low - 0xdc00);
        in->at = back;
    }
    return cp;
}

/* What follows a backslash: 1 = one character in *cp; 0 = a class, added to set (set may get both). */
static int infer__pattern_escape(infer__pattern_in *in, infer__chars *set, uint32_t *cp) {
    static const char FROM[] = "tnrfv", TO[] = "\t\n\r\f\v";
    int e = infer__pattern_peek(in);
    const char *p = e > 0 ? strchr(FROM, e) : NULL;
    size_t len;
    *cp = 0;
    in->at++;
    if (p) *cp = (uint32_t)TO[p - FROM];
    else if (e == 'd' || e == 'D') infer__chars_table(in->c, in->where, set, INFER__RX_DIGIT, 1, e == 'D');
    else if (e == 'w' || e == 'W') infer__chars_table(in->c, in->where, set, INFER__RX_WORD, 4, e == 'W');
    else if (e == 's' || e == 'S') infer__chars_table(in->c, in->where, set, INFER__RX_SPACE, 10, e == 'S');
    else if (e == 'x') {
        if (!infer__pattern_hex(in, 2, cp)) infer__pattern_bad(in, INFER_ERR_FORMAT, "bad \\x escape");
    } else if (e == 'u') *cp = infer__pattern_u(in);
    else if (e == 'c') {
        int l = infer__pattern_peek(in);
        if (!((l >= 'a' && l <= 'z') || (l >= 'A' && l <= 'Z')))
            infer__pattern_bad(in, INFER_ERR_FORMAT, "bad \\c escape");
        in->at++;
        *cp = (uint32_t)l & 31;
    } else if (e == '0' && !(infer__pattern_peek(in) >= '0' && infer__pattern_peek(in) <= '9')) *cp = 0;
    else if (e >= '0' && e <= '9') infer__pattern_bad(in, INFER_ERR_UNSUPPORTED, "back-references are not supported");
    else if (e == 'k') infer__pattern_bad(in, INFER_ERR_UNSUPPORTED, "back-references are not supported");
    else if (e == 'b' || e == 'B') infer__pattern_bad(in, INFER_ERR_UNSUPPORTED, "word boundaries are not supported");
    else if (e == 'p' || e == 'P')
        infer__pattern_bad(in, INFER_ERR_UNSUPPORTED, "Unicode properties are not supported");
    else if (e < 0 || (e >= 'a' && e <= 'z') || (e >= 'A' && e <= 'Z'))
        infer__pattern_bad(in, INFER_ERR_FORMAT, "unknown escape");
    else {
        in->at--;
        *cp = infer__utf8_next(in->s + in->at, in->n - in->at, &len, NULL);
        in->at += len;
    }
    return !(e > 0 && strchr("dDwWsS", e));
}

/* One member of a class: 1 = a character in *cp, 0 = a class of its own. */
static int infer__pattern_member(infer__pattern_in *in, infer__chars *set, uint32_t *cp) {
    size_t len;
    if (infer__pattern_peek(in) == '\\') {
        in->at++;
        if (infer__pattern_peek(in) == 'b') { /* in a class it is a backspace */
            in->at++;
            *cp = 8;
            return 1;
        }
        return infer__pattern_escape(in, set, cp);
    }
    *cp = infer__utf8_next(in->s + in->at, in->n - in->at, &len, NULL);
    in->at += len;
    return 1;
}

static const infer__sx *infer__pattern_set(infer__pattern_in *in) { /* after the [ */
    int not_in = infer__pattern_peek(in) == '^';
    in->set.n = 0;
    in->at += (size_t)not_in;
    while (in->c->r == INFER_OK && infer__pattern_peek(in) != ']') {
        uint32_t lo, hi;
        if (infer__pattern_peek(in) < 0) return infer__pattern_bad(in, INFER_ERR_FORMAT, "the class has no end");
        if (!infer__pattern_member(in, &in->set, &lo)) {
            if (infer__pattern_peek(in) == '-' && in->at + 1 < in->n && in->s[in->at + 1] != ']')
                return infer__pattern_bad(in, INFER_ERR_FORMAT, "a range between classes");
            continue;
        }
        hi = lo;
        if (infer__pattern_peek(in) == '-' && in->at + 1 < in->n && in->s[in->at + 1] != ']') {
            in->at++;
            if (!infer__pattern_member(in, &in->set, &hi) || hi < lo)
                return infer__pattern_bad(in, INFER_ERR_FORMAT, "bad range in a class");
        }
        infer__chars_add(in->c, in->where, &in->set, lo, hi);
    }
    in->at++;
    if (not_in) infer__chars_invert(in->c, in->where, &in->set);
    return infer__chars_class(in->c, in->where, &in->set);
}

static const infer__sx *infer__pattern_or(infer__pattern_in *in);

static const infer__sx *infer__pattern_group(infer__pattern_in *in) { /* after the ( */
    const infer__sx *x;
    if (infer__pattern_peek(in) == '?') {
        const char *s = in->s + in->at;
        size_t left = in->n - in->at;
        if (left > 1 && (s[1] == '=' || s[1] == '!'))
            return infer__pattern_bad(in, INFER_ERR_UNSUPPORTED, "look-ahead is not supported");
        if (left > 2 && s[1] == '<' && (s[2] == '=' || s[2] == '!'))
            return infer__pattern_bad(in, INFER_ERR_UNSUPPORTED, "look-behind is not supported");
        if (left > 1 && s[1] == ':') in->at += 2;
        else if (left > 1 && s[1] == '<') {
            while (infer__pattern_peek(in) >= 0 && infer__pattern_peek(in) != '>') in->at++;
            in->at++;
        } else return infer__pattern_bad(in, INFER_ERR_FORMAT, "unknown kind of group");
    }
    x = infer__pattern_or(in);
    if (infer__pattern_peek(in) != ')') return infer__pattern_bad(in, INFER_ERR_FORMAT, "a group has no end");
    in->at++;
    return x;
}

/* {m}, {m,}, {m,n}: 1 and after it, or 0 and nothing moved. */
static int infer__pattern_counts(infer__pattern_in *in, uint32_t *min, uint32_t *max) {
    size_t at = in->at + 1, digits = 0;
    uint32_t v[2] = {0, 0};
    int i, open = 0, comma = 0;
    for (i = 0; i < 2; i++) {
        for (digits = 0; at < in->n && in->s[at] >= '0' && in->s[at] <= '9'; at++, digits++)
            v[i] = v[i] > 100000000 ? v[i] : v[i] * 10 + (uint32_t)(in->s[at] - '0');
        if (i == 0 && digits == 0) return 0;
        if (i == 0 && at < in->n && in->s[at] == ',') {
            comma = 1;
            at++;
        } else if (i == 0) break;
        else open = digits == 0;
    }
    if (at >= in->n || in->s[at] != '}') return 0;
    in->at = at + 1;
    *min = v[0];
    *max = !comma ? v[0] : open ? INFER__SX_MANY : v[1];
    return 1;
}

static const infer__sx *infer__pattern_atom(infer__pattern_in *in) {
    uint32_t cp = 0;
    size_t len;
    infer__sx *x;
    int c = infer__pattern_peek(in);
    in->set.n = 0;
    in->at++;
    switch (c) {
    case '(': return infer__pattern_group(in);
    case '[': return infer__pattern_set(in);
    case '.':
        infer__chars_table(in->c, in->where, &in->set, INFER__RX_LINE, 3, 1);
        return infer__chars_class(in->c, in->where, &in->set);
    case '^':
    case '$':
        x = infer__sx_new(in->c, c == '^' ? INFER__SX_START : INFER__SX_END);
        return x ? x : &INFER__SX_NONE;
    case '*':
    case '+':
    case '?': return infer__pattern_bad(in, INFER_ERR_FORMAT, "nothing to repeat");
    case '\\':
        if (infer__pattern_escape(in, &in->set, &cp)) infer__chars_add(in->c, in->where, &in->set, cp, cp);
        return infer__chars_class(in->c, in->where, &in->set);
    default:
        in->at--;
        cp = infer__utf8_next(in->s + in->at, in->n - in->at, &len, NULL);
        in->at += len;
        infer__chars_add(in->c, in->where, &in->set, cp, cp);
        return infer__chars_class(in->c, in->where, &in->set);
    }
}

static const infer__sx *infer__pattern_term(infer__pattern_in *in) {
    const infer__sx *x = infer__pattern_atom(in);
    uint32_t min = 1, max = 1;
    int c = infer__pattern_peek(in), repeated = 1;
    if (c == '*' || c == '+' || c == '?') {
        min = c == '+';
        max = c == '?' ? 1 : INFER__SX_MANY;
        in->at++;
    } else if (c != '{' || !infer__pattern_counts(in, &min, &max)) {
        repeated = 0;
    }
    if (!repeated) return x;
    if (infer__pattern_peek(in) == '?') in->at++; /* lazy: the same texts */
    c = infer__pattern_peek(in);
    if (c == '*' || c == '+' || c == '?') return infer__pattern_bad(in, INFER_ERR_FORMAT, "nothing to repeat");
    if (min > max) return infer__pattern_bad(in, INFER_ERR_FORMAT, "a repetition whose bounds are in the wrong order");
    if (x->kind == INFER__SX_START || x->kind == INFER__SX_END)
        return infer__pattern_bad(in, INFER_ERR_UNSUPPORTED, "repeated anchors are not supported");
    if (min > INFER__SCHEMA_COUNT)
        return infer__pattern_bad(in, INFER_ERR_UNSUPPORTED, "more than 100000 repetitions are not supported");
    return infer__sx_rep(in->c, x, min, max);
}

/* Items of a sequence or alternatives, collected in pairs: a chain that grows to the right. */
static const infer__sx *infer__pattern_list(infer__pattern_in *in, int alternatives) {
    const infer__sx *few[16], **items = few;
    uint32_t n = 0, cap = 16;
    for (;;) {
        int c = infer__pattern_peek(in);
        if (in->c->r != INFER_OK) return &INFER__SX_NONE;
        if (!alternatives && (c < 0 || c == '|' || c == ')')) break;
        if (n == cap) {
            const infer__sx **more = (const infer__sx **)infer__schema_get_mem(in->c, (uint64_t)cap * 2, sizeof *more);
            if (!more) return &INFER__SX_NONE;
            memcpy(more, items, n * sizeof *more);
            items = more;
            cap *= 2;
        }
        items[n++] = alternatives ? infer__pattern_list(in, 0) : infer__pattern_term(in);
        if (!alternatives) continue;
        if (infer__pattern_peek(in) != '|') break;
        in->at++;
    }
    return alternatives ? infer__sx_alt(in->c, items, n) : infer__sx_seq(in->c, items, n);
}

static const infer__sx *infer__pattern_or(infer__pattern_in *in) {
    const infer__sx *x;
    if (++in->depth > INFER__SCHEMA_DEPTH)
        return infer__pattern_bad(in, INFER_ERR_UNSUPPORTED, "more than 64 groups within each other are not supported");
    x = infer__pattern_list(in, 1);
    in->depth--;
    return x;
}

static const infer__sx *infer__pattern_parse(infer__schema *c, const infer_json *where, const char *s, size_t n) {
    infer__pattern_in in;
    infer__pattern *p;
    for (p = c->patterns; p; p = p->next) {
        if (!infer__schema_step(c, 1)) return NULL;
        if (p->s == s) return p->x;
    }
    memset(&in, 0, sizeof in);
    in.c = c;
    in.where = where;
    in.s = s;
    in.n = n;
    if (n > 0xffff) infer__pattern_bad(&in, INFER_ERR_UNSUPPORTED, "more than 65535 bytes");
    p = (infer__pattern *)infer__schema_get_mem(c, 1, sizeof *p);
    if (!p || c->r != INFER_OK) return NULL;
    p->s = s;
    p->x = infer__pattern_or(&in);
    if (infer__pattern_peek(&in) == ')') infer__pattern_bad(&in, INFER_ERR_FORMAT, "a ')' without a group");
    if (c->r != INFER_OK) return NULL;
    p->next = c->patterns;
    c->patterns = p;
    return p->x;
}

static const infer__sx *infer__pattern_exact(infer__schema *c, const char *s, size_t n) {
    const infer__sx **items = (const infer__sx **)infer__schema_get_mem(c, (uint64_t)n + 1, sizeof *items);
    uint32_t k = 0;
    size_t at = 0, len;
    if (!items) return &INFER__SX_NONE;
    for (; at < n; at += len) {
        infer__range r;
        r.lo = r.hi = infer__utf8_next(s + at, n - at, &len, NULL);
        items[k++] = infer__sx_class(c, &r, 1);
    }
    return infer__sx_seq(c, items, k);
}

/* Saturating: a bound too large for 32 bits is as good as none. */
static uint32_t infer__pattern_times(uint32_t a, uint32_t b) {
    uint64_t p = (uint64_t)a * b;
    if (a == 0 || b == 0) return 0;
    return a == INFER__SX_MANY || b == INFER__SX_MANY || p >= INFER__SX_MANY ? INFER__SX_MANY : (uint32_t)p;
}
static void infer__pattern_length(const infer__sx *p, uint32_t *min, uint32_t *max) {
    uint32_t i, a, b;
    *min = *max = p->kind == INFER__SX_CLASS;
    if (p->kind == INFER__SX_REP) {
        infer__pattern_length(p->v.items[0], &a, &b);
        *min = infer__pattern_times(a, p->min);
        *max = infer__pattern_times(b, p->max);
    } else if (p->kind == INFER__SX_SEQ || p->kind == INFER__SX_ALT) {
        for (i = 0; i < p->n; i++) {
            infer__pattern_length(p->v.items[i], &a, &b);
            if (p->kind == INFER__SX_SEQ) {
                *min = *min > INFER__SX_MANY - a ? INFER__SX_MANY : *min + a;
                *max = *max > INFER__SX_MANY - b ? INFER__SX_MANY : *max + b;
            } else {
                *min = i ? INFER__MIN(*min, a) : a;
                *max = i ? INFER__MAX(*max, b) : b;
            }
        }
    }
}

/* ---- inside a JSON string ------------------------------------------------------------------------------------ */

/* \u00XX for control characters, bit c of `set` = character c: the last digit of either case. */
static const infer__sx *infer__pattern_controls(infer__schema *c, uint32_t set) {
    const infer__sx *half[2], *digit;
    infer__range r[32];
    uint32_t h, i, n;
    for (h = 0; h < 2; h++) {
        uint32_t bits = set >> 16 * h & 0xffff;
        for (n = 0, i = 0; i < 22; i++) { /* 0-9, A-F, a-f: sorted */
            uint32_t value = i < 16 ? i : i - 6;
            if (!(bits >> value & 1)) continue;
            r[n].lo = r[n].hi = i < 10 ? '0' + i : i < 16 ? 'A' + i - 10 : 'a' + i - 16;
            n++;
        }
        for (i = 1; i < n; i++) { /* neighbours */
            if (r[i].lo != r[i - 1].hi + 1) continue;
            r[i - 1].hi = r[i].hi;
            memmove(r + i, r + i + 1, (--n - i) * sizeof *r);
            i--;
        }
        half[h] = infer__sx_class(c, r, n);
    }
    if ((set & 0xffff) != set >> 16) {
        half[0] = infer__sx_pair(c, infer__sx_word(c, "\\u000"), half[0]);
        return infer__sx_or(c, half[0], infer__sx_pair(c, infer__sx_word(c, "\\u001"), half[1]));
    }
    r[0].lo = '0';
    r[0].hi = '1';
    digit = infer__sx_class(c, r, 1);
    return infer__sx_pair(c, infer__sx_pair(c, infer__sx_word(c, "\\u00"), digit), half[0]);
}

/* Characters as they are spelled in a JSON string. Escapes only where JSON demands or has a short one. */
static const infer__sx *infer__pattern_class(infer__schema *c, const infer__range *ranges, uint32_t n) {
    static const infer__range RAW[] = {{0x20, 0x21}, {0x23, 0x5b}, {0x5d, 0xd7ff}, {0xe000, 0x10ffff}};
    static const struct { uint32_t cp, letter; } SHORT[] = { /* by letter */
        {'"', '"'}, {'/', '/'}, {'\\', '\\'}, {8, 'b'}, {12, 'f'}, {10, 'n'}, {13, 'r'}, {9, 't'}};
    static const infer__range CC[] = {{'C', 'C'}, {'c', 'c'}};
    const infer__sx *items[4];
    infer__range letters[8];
    infer__chars raw;
    uint32_t i, j, k = 0, controls = 0;
    char text[4];
    raw.n = 0;
    for (i = 0; i < n; i++) {
        for (j = 0; j < 4; j++) {
            uint32_t lo = INFER__MAX(ranges[i].lo, RAW[j].lo), hi = INFER__MIN(ranges[i].hi, RAW[j].hi);
            if (lo <= hi) infer__chars_add(c, NULL, &raw, lo, hi);
        }
        for (j = ranges[i].lo; j <= ranges[i].hi && j < 32; j++) controls |= (uint32_t)1 << j;
    }
    for (j = 0; j < INFER__COUNT(SHORT); j++)
        for (i = 0; i < n; i++)
            if (ranges[i].lo <= SHORT[j].cp && SHORT[j].cp <= ranges[i].hi &&
                !(c->as == INFER__AS_PYTHON && j == 1)) /* "\/" is two characters there */
                letters[k].lo = letters[k].hi = SHORT[j].letter, k++;
    if (controls == UINT32_MAX && k >= 7 && raw.n == 4 && raw.r[0].lo == 0x20 && raw.r[1].hi == 0x5b &&
        raw.r[2].hi == 0xd7ff && raw.r[0].hi == 0x21 && raw.r[1].lo == 0x23 && raw.r[2].lo == 0x5d &&
        raw.r[3].lo == 0xe000 && raw.r[3].hi == 0x10ffff)
        return infer__sx_shared(c, INFER__SX_CHAR);
    items[3] = &INFER__SX_NONE;
    for (i = 0; i < raw.n && c->as != INFER__AS_JSON; i++) { /* '<' as a code */
        infer__range *r = &raw.r[i];
        if (r->lo > '<' || r->hi < '<') continue;
        items[3] = infer__sx_pair(c, infer__sx_word(c, "\\u003"), infer__sx_class(c, CC, 2));
        if (r->hi > '<' && r->lo < '<') {
            memmove(r + 2, r + 1, (raw.n++ - i - 1) * sizeof *r);
            r[1].hi = r->hi;
            r[1].lo = '<' + 1;
            r->hi = '<' - 1;
        } else if (r->hi > '<') r->lo = '<' + 1;
        else if (r->lo < '<') r->hi = '<' - 1;
        else memmove(r, r + 1, (--raw.n - i) * sizeof *r);
        break;
    }
    items[0] = k ? infer__sx_pair(c, infer__sx_word(c, "\\"), infer__sx_class(c, letters, k)) : &INFER__SX_NONE;
    items[1] = controls ? infer__pattern_controls(c, controls) : &INFER__SX_NONE;
    if (raw.n == 1 && raw.r[0].lo == raw.r[0].hi)
        items[2] = infer__sx_text(c, text, infer__utf8_put(raw.r[0].lo, text));
    else items[2] = infer__sx_class(c, raw.r, raw.n);
    return infer__sx_alt(c, items, 4);
}

/* A pattern without anchors inside, as text between quotes. NULL: it has some. */
static const infer__sx *infer__pattern_inner(infer__schema *c, const infer__sx *p) {
    const infer__sx **items, *x;
    uint32_t i;
    switch (p->kind) {
    case INFER__SX_CLASS: return infer__pattern_class(c, p->v.ranges, p->n);
    case INFER__SX_START:
    case INFER__SX_END: return NULL;
    case INFER__SX_SEQ:
    case INFER__SX_ALT:
        items = (const infer__sx **)infer__schema_get_mem(c, p->n, sizeof *items);
        for (i = 0; items && i < p->n; i++)
            if ((items[i] = infer__pattern_inner(c, p->v.items[i])) == NULL) return NULL;
        if (!items) return &INFER__SX_NONE;
        return p->kind == INFER__SX_SEQ ? infer__sx_seq(c, items, p->n) : infer__sx_alt(c, items, p->n);
    case INFER__SX_REP:
        x = infer__pattern_inner(c, p->v.items[0]);
        if (!x) return NULL;
        return infer__sx_rep(c, x, p->min, p->max == INFER__SX_MANY ? p->max : INFER__MIN(p->max, INFER__SCHEMA_COUNT));
    default: return p;
    }
}

static const infer__sx *infer__pattern_text(infer__schema *c, const infer__sx *p) {
    const infer__sx *parts[3], *x;
    uint32_t from = 0, to = 1, i;
    if (p->kind == INFER__SX_ALT) {
        const infer__sx **items = (const infer__sx **)infer__schema_get_mem(c, p->n, sizeof *items);
        for (i = 0; items && i < p->n; i++)
            if ((items[i] = infer__pattern_text(c, p->v.items[i])) == NULL) return NULL;
        return items ? infer__sx_alt(c, items, p->n) : &INFER__SX_NONE;
    }
    if (p->kind == INFER__SX_NEVER) return p;
    parts[0] = parts[2] = infer__sx_rep(c, infer__sx_shared(c, INFER__SX_CHAR), 0, INFER__SX_MANY);
    x = p;
    if (p->kind == INFER__SX_SEQ) {
        to = p->n;
        while (from < to && p->v.items[from]->kind == INFER__SX_START) from++;
        while (to > from && p->v.items[to - 1]->kind == INFER__SX_END) to--;
        if (from > 0) parts[0] = &INFER__SX_NOTHING;
        if (to < p->n) parts[2] = &INFER__SX_NOTHING;
        x = infer__sx_seq(c, p->v.items + from, to - from);
    } else if (p->kind == INFER__SX_START || p->kind == INFER__SX_END) {
        return parts[0]; /* every text has a beginning and an end */
    }
    parts[1] = infer__pattern_inner(c, x);
    return parts[1] ? infer__sx_seq(c, parts, 3) : NULL;
}

/* 1 when nothing may stand before or after a match. */
static int infer__pattern_anchored(const infer__sx *p) {
    uint32_t i;
    if (p->kind == INFER__SX_ALT) {
        for (i = 0; i < p->n; i++) if (!infer__pattern_anchored(p->v.items[i])) return 0;
        return 1;
    }
    return p->kind == INFER__SX_NEVER || (p->kind == INFER__SX_SEQ && p->v.items[0]->kind == INFER__SX_START &&
                                          p->v.items[p->n - 1]->kind == INFER__SX_END);
}
