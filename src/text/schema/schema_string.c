/* schema_string.c: strings: patterns, formats, lengths, and characters of literals.
 *
 * Owns:  INFER__FORMATS. A format is a pattern that only lets through what the format's standard allows; it may leave
 *        out unusual spellings (said in docs/json-schema.md). A format that has no row is an annotation, as the
 *        standard has it.
 * Start: infer__schema_string.
 */
#include "schema.h"

#define INFER__DATE                                                                                                    \
  "(?:(?:[0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)-"                                                         \
  "(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8])" \
  ")"                                                                                                                  \
  "|(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)-02-29)"
#define INFER__TIME \
    "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
#define INFER__OCTET "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
/* At most 253 characters: three labels of up to 63, or eight of up to 29. No "--", which IDNA gives a meaning. */
#define INFER__HOST \
    "(?:(?:[A-Za-z0-9](?:-?[A-Za-z0-9]){0,31}\\.){0,2}[A-Za-z](?:-?[A-Za-z0-9]){0,31}" \
    "|(?:[A-Za-z0-9](?:-?[A-Za-z0-9]){0,14}\\.){0,7}[A-Za-z](?:-?[A-Za-z0-9]){0,14})"
#define INFER__PCHAR "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})"

static const struct { const char *name, *pattern; } INFER__FORMATS[] = {
    {"date", "^(?:" INFER__DATE ")$"},                             /* RFC 3339 full-date, years 0001 to 9999 */
    {"time", "^" INFER__TIME "$"},                                 /* RFC 3339 full-time without leap seconds */
    {"date-time", "^(?:" INFER__DATE ")T" INFER__TIME "$"},        /* RFC 3339 */
    {"uuid", "^[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$"}, /* RFC 4122 */
    {"ipv4", "^" INFER__OCTET "(?:\\." INFER__OCTET "){3}$"},      /* RFC 2673, 3.2 */
    {"hostname", "^" INFER__HOST "$"},                             /* RFC 1123 */
    {"email", "^[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,20}(?:\\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,20}){0,2}@" INFER__HOST "$"},
    {"uri", "^[A-Za-z][A-Za-z0-9+.-]{0,30}://" INFER__HOST "(?::[0-9]{1,5})?(?:/" INFER__PCHAR "*)*"
            "(?:\\?(?:" INFER__PCHAR "|[/?])*)?(?:#(?:" INFER__PCHAR "|[/?])*)?$"}, /* RFC 3986, with a host */
    {"json-pointer", "^(?:/(?:[^/~]|~[01])*)*$"},                  /* RFC 6901 */
    {"duration", "^P(?:[0-9]{1,9}W|(?:[0-9]{1,9}D|[0-9]{1,9}M(?:[0-9]{1,9}D)?|[0-9]{1,9}Y(?:[0-9]{1,9}M(?:[0-9]{1,9}D)?)?)"
                 "(?:T(?:[0-9]{1,9}S|[0-9]{1,9}M(?:[0-9]{1,9}S)?|[0-9]{1,9}H(?:[0-9]{1,9}M(?:[0-9]{1,9}S)?)?))?"
                 "|T(?:[0-9]{1,9}S|[0-9]{1,9}M(?:[0-9]{1,9}S)?|[0-9]{1,9}H(?:[0-9]{1,9}M(?:[0-9]{1,9}S)?)?))$"}};
                 /* RFC 3339, appendix A */
#undef INFER__DATE
#undef INFER__TIME
#undef INFER__OCTET
#undef INFER__HOST
#undef INFER__PCHAR

static const char *infer__schema_format(const infer_json *name) {
    size_t i;
    for (i = 0; i < INFER__COUNT(INFER__FORMATS); i++)
        if (infer__schema_is(name, INFER__FORMATS[i].name)) return INFER__FORMATS[i].pattern;
    return NULL;
}

/* A pattern that matches exactly `s`, one of several: for what a string must not be. */
static const infer__sx *infer__schema_words(infer__schema *c, const infer_json *list) {
    const infer__sx **items = (const infer__sx **)infer__schema_get_mem(c, list->n + 1, sizeof *items);
    uint32_t i;
    if (!items) return &INFER__SX_NONE;
    for (i = 0; i < list->n; i++)
        items[i] = infer__pattern_exact(c, list->v.items[i].s, (size_t)list->v.items[i].n);
    return infer__sx_alt(c, items, (uint32_t)list->n);
}

/* A language of strings that node demands by a keyword; 0 = none. */
static int infer__schema_lang(infer__schema *c, const infer_json *node, int which, infer__lang *l,
                              const infer_json **where) {
    static const char *const KEYS[] = {"pattern", "format", INFER__KEY_NOT_PATTERN, INFER__KEY_NOT_EQUAL};
    const infer_json *v = infer__schema_key(node, KEYS[which]);
    const char *format;
    if (!v) return 0;
    *where = v;
    l->want = which < 2;
    l->whole = which == 3;
    if (v->kind != (which == 3 ? INFER_JSON_ARRAY : INFER_JSON_STRING)) {
        infer__schema_fail(c, v, INFER_ERR_FORMAT, "a string is expected");
        return 0;
    }
    if (which == 3) l->x = infer__schema_words(c, v);
    else if (which != 1) l->x = infer__pattern_parse(c, v, v->s, (size_t)v->n);
    else {
        format = infer__schema_format(v);
        if (!format) return 0;
        l->x = infer__pattern_parse(c, v, format, strlen(format));
    }
    return l->x != NULL && c->r == INFER_OK;
}

static const infer__sx *infer__schema_chars(infer__schema *c, const infer__alt *a, const infer__lang *extra,
                                            uint32_t n) {
    enum { MOST = 24 };
    infer__lang l[MOST + 8];
    const infer_json *where = a->n ? a->nodes[0] : c->root;
    infer__range all = {0, 0x10ffff};
    const infer__sx *x;
    uint32_t i, k, min, max, low, high;
    memset(l, 0, sizeof l);
    if (n > MOST / 2) infer__schema_no(c, where, "so many patterns for names");
    for (i = 0; i < n && c->r == INFER_OK; i++) l[i] = extra[i];
    for (i = 0; i < a->n * 4 && c->r == INFER_OK; i++) {
        if (n == MOST - 1) infer__schema_no(c, where, "so many patterns at one place");
        else n += (uint32_t)infer__schema_lang(c, a->nodes[i / 4], (int)(i % 4), &l[n], &where);
        for (k = 0; n > 0 && k + 1 < n; k++)
            if (l[k].x == l[n - 1].x && l[k].want == l[n - 1].want && !l[n - 1].whole) break;
        if (n > 0 && k + 1 < n) n--; /* the same one twice */
    }
    infer__schema_counts(c, a, "minLength", "maxLength", &min, &max);
    if (min > max || c->r != INFER_OK) return &INFER__SX_NONE;
    x = infer__sx_shared(c, INFER__SX_CHAR);
    if (c->avoid[0]) {
        for (i = k = 0; i < INFER__COUNT(c->avoid) && c->avoid[i]; i++) k += (uint32_t)strlen(c->avoid[i]);
        if (n == 0 &&
            INFER__MIN(max == INFER__SX_MANY ? min : max, INFER__SCHEMA_COUNT) > 12000 / k) { /* marks begin with it */
            infer__range but[] = {{0, '<' - 1}, {'<' + 1, 0xd7ff}, {0xe000, 0x10ffff}};
            x = infer__sx_class(c, but, 3);
        } else {
            for (i = 0; i < INFER__COUNT(c->avoid) && c->avoid[i]; i++)
                l[n++].x = infer__pattern_exact(c, c->avoid[i], strlen(c->avoid[i]));
        }
    }
    if (n == 0) {
        if (min > INFER__SCHEMA_COUNT) infer__schema_no(c, where, "minLength above 100000");
        return infer__sx_rep(c, x, min, max == INFER__SX_MANY ? max : INFER__MIN(max, INFER__SCHEMA_COUNT));
    }
    if (n == 1 && l[0].want && !l[0].whole && c->as != INFER__AS_MARKS) {
        x = infer__pattern_text(c, l[0].x);
        infer__pattern_length(l[0].x, &low, &high);
        if (x && low >= min && (max == INFER__SX_MANY || (high <= max && infer__pattern_anchored(l[0].x)))) return x;
    }
    if (min > 0 || max != INFER__SX_MANY) {
        if (min > INFER__SCHEMA_COUNT) infer__schema_no(c, where, "minLength above 100000");
        l[n].x = infer__sx_rep(c, infer__sx_class(c, &all, 1), min,
                               max == INFER__SX_MANY ? max : INFER__MIN(max, INFER__SCHEMA_COUNT));
        l[n].want = l[n].whole = 1;
        n++;
    }
    return c->r == INFER_OK ? infer__dfa_text(c, where, l, n, c->avoid[0] != NULL) : &INFER__SX_NONE;
}

static const infer__sx *infer__schema_string(infer__schema *c, const infer__alt *a) {
    const infer__sx *x, *quote = c->as == INFER__AS_MARKS ? c->quote : infer__sx_word(c, "\"");
    uint32_t i, k, plain = 1;
    static const char *const KEYS[] = {"pattern",           "format", "minLength", "maxLength", INFER__KEY_NOT_PATTERN,
                                       INFER__KEY_NOT_EQUAL};
    for (i = 0; i < a->n; i++)
        for (k = 0; k < INFER__COUNT(KEYS); k++)
            if (infer__schema_key(a->nodes[i], KEYS[k])) plain = 0;
    if (plain) return infer__sx_shared(c, INFER__SX_STRING);
    x = infer__schema_chars(c, a, NULL, 0);
    return infer__sx_pair(c, infer__sx_pair(c, quote, x), quote);
}

/* ---- literals ------------------------------------------------------------------------------------------------- */

typedef struct infer__literal {
    infer__schema *c;
    const infer__sx **items;
    uint32_t n, cap;
    infer__bytes text; /* not in items yet */
} infer__literal;

static void infer__literal_add(infer__literal *l, const infer__sx *x) {
    if (l->n == l->cap) {
        uint32_t cap = l->cap * 2 + 16;
        const infer__sx **p = (const infer__sx **)infer__schema_get_mem(l->c, cap, sizeof *p);
        if (!p) return;
        if (l->n) memcpy(p, l->items, l->n * sizeof *p);
        l->items = p;
        l->cap = cap;
    }
    l->items[l->n++] = x;
}
static void infer__literal_space(infer__literal *l, int which) { /* what stands so far, then a shared rule */
    if (l->text.failed) infer__schema_no_memory(l->c);
    if (l->text.n && !l->text.failed) infer__literal_add(l, infer__sx_text(l->c, l->text.s, l->text.n));
    l->text.n = 0;
    if (which >= 0) infer__literal_add(l, infer__sx_shared(l->c, which));
}

static void infer__literal_name(infer__literal *l, const infer_json *v) {
    infer__literal_space(l, -1);
    infer__literal_add(l, infer__sx_string(l->c, v->s, (size_t)v->n));
}
static const char *infer__sx_constant(const infer__schema *c, int32_t kind) {
    static const char *const WORDS[][2] = {{"null", "None"}, {"true", "True"}, {"false", "False"}};
    return WORDS[kind == INFER_JSON_TRUE ? 1 : kind == INFER_JSON_FALSE ? 2 : 0][c->as == INFER__AS_PYTHON];
}

static const infer__sx *infer__sx_string(infer__schema *c, const char *s, size_t n) {
    const infer__sx *x = &INFER__SX_NONE;
    infer__bytes text, in;
    size_t i;
    if (c->as == INFER__AS_MARKS) {
        const size_t len = strlen(c->avoid[0]);
        for (i = 0; i + len <= n; i++) if (memcmp(s + i, c->avoid[0], len) == 0) return x;
        return infer__sx_pair(c, infer__sx_pair(c, c->quote, infer__sx_text(c, s, n)), c->quote);
    }
    memset(&text, 0, sizeof text);
    memset(&in, 0, sizeof in);
    text.mem = in.mem = c->mem;
    infer__json_quote(&in, s, n);
    for (i = 0; i < in.n; i++)
        if (in.s[i] == '<' && c->as != INFER__AS_JSON) infer__bytes_text(&text, "\\u003c");
        else infer__bytes_char(&text, in.s[i]);
    if (text.failed || in.failed) infer__schema_no_memory(c);
    else x = infer__sx_text(c, text.s, text.n);
    infer__bytes_free(&text);
    infer__bytes_free(&in);
    return x;
}

static void infer__literal_put(infer__literal *l, const infer_json *v) { /* JSON's depth is bounded */
    int object = v->kind == INFER_JSON_OBJECT;
    uint64_t i;
    if (v->kind == INFER_JSON_INT || v->kind == INFER_JSON_FLOAT) infer__bytes_put(&l->text, v->s, (size_t)v->n);
    else if (v->kind == INFER_JSON_STRING) infer__literal_name(l, v);
    else if (!object && v->kind != INFER_JSON_ARRAY) infer__bytes_text(&l->text, infer__sx_constant(l->c, v->kind));
    else {
        infer__bytes_char(&l->text, object ? '{' : '[');
        infer__literal_space(l, INFER__SX_WS);
        for (i = 0; i < v->n && infer__schema_step(l->c, 1); i++) {
            const infer_json *item = &v->v.items[object ? 2 * i : i];
            if (i > 0) {
                infer__bytes_char(&l->text, ',');
                infer__literal_space(l, INFER__SX_WS);
            }
            if (object) {
                infer__literal_name(l, item);
                infer__literal_space(l, INFER__SX_COLON);
                item++;
            }
            infer__literal_put(l, item);
        }
        if (v->n > 0) infer__literal_space(l, INFER__SX_WS);
        infer__bytes_char(&l->text, object ? '}' : ']');
    }
}

static const infer__sx *infer__schema_literal(infer__schema *c, const infer_json *v) {
    const infer__sx *x;
    infer__literal l;
    memset(&l, 0, sizeof l);
    l.c = c;
    l.text.mem = c->mem;
    infer__literal_put(&l, v);
    infer__literal_space(&l, -1);
    x = infer__sx_seq(c, l.items, l.n);
    infer__bytes_free(&l.text);
    return c->r == INFER_OK ? x : &INFER__SX_NONE;
}
