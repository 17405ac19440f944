/* schema_object.c: objects: properties in the order of the schema, then others.
 *
 * Owns:  which schemas a member must satisfy (infer__schema_member), and the grammar of members. A rule says what may
 *        follow after i properties when k members are there; k matters up to the counts that are asked for, so that
 *        without minProperties and maxProperties there are two rules for a property: the first member and any other.
 * Rules: members that the schema does not name come last. Their names may come twice, so that they prove no more than
 *        one towards minProperties.
 * Start: infer__schema_object.
 */
#include "schema.h"

enum { INFER__OBJECT_RULES = 6000, INFER__OBJECT_PATTERNS = 4 };

static const infer_json *infer__schema_map(infer__schema *c, const infer_json *node, const char *key) {
    const infer_json *v = infer__schema_key(node, key);
    if (v && v->kind != INFER_JSON_OBJECT) {
        infer__schema_fail(c, v, INFER_ERR_FORMAT, "an object is expected");
        return NULL;
    }
    return v;
}

static int infer__schema_member(infer__schema *c, const infer__alt *a, const char *name, size_t n, infer__nodes *list) {
    infer_json text;
    uint32_t i;
    uint64_t k;
    memset(&text, 0, sizeof text);
    text.kind = INFER_JSON_STRING;
    text.s = name;
    text.n = n;
    for (i = 0; i < a->n && c->r == INFER_OK; i++) {
        const infer_json *node = a->nodes[i], *all = infer__schema_map(c, node, "properties"),
                         *patterns = infer__schema_map(c, node, "patternProperties"),
                         *rest = infer__schema_key(node, "additionalProperties"),
                         *names = infer__schema_key(node, "propertyNames"), *v = infer__json_get(all, name, n);
        int found = v != NULL;
        if (v && v->kind == INFER_JSON_FALSE) return -1;
        if (v) infer__nodes_add(c, list, v);
        for (k = 0; patterns && k < patterns->n && c->r == INFER_OK; k++) {
            const infer_json *key = &patterns->v.items[2 * k];
            const infer__sx *x = infer__pattern_parse(c, key + 1, key->s, (size_t)key->n);
            if (!x || !infer__dfa_matches(c, key + 1, x, name, n)) continue;
            found = 1;
            if (key[1].kind == INFER_JSON_FALSE) return -1;
            infer__nodes_add(c, list, key + 1);
        }
        if (!found && rest && rest->kind == INFER_JSON_FALSE) return -1;
        if (!found && rest) infer__nodes_add(c, list, rest);
        if (names && !infer__schema_holds(c, names, &text, 0)) return -1;
    }
    return 0;
}

/* ---- which names there are ---------------------------------------------------------------------------------- */

typedef struct infer__names {
    const infer_json **v; /* strings */
    uint8_t *required;
    uint32_t n, cap, n_required;
} infer__names;

static uint32_t infer__names_find(infer__schema *c, const infer__names *l, const infer_json *name) {
    uint32_t i;
    if (!infer__schema_step(c, l->n / 8 + 1)) return l->n;
    for (i = 0; i < l->n; i++) if (l->v[i]->n == name->n && memcmp(l->v[i]->s, name->s, (size_t)name->n) == 0) break;
    return i;
}
static void infer__names_add(infer__schema *c, infer__names *l, const infer_json *name, int required) {
    uint32_t i = infer__names_find(c, l, name);
    if (i == l->n) {
        if (l->n == l->cap) {
            uint32_t cap = l->cap * 2 + 16;
            const infer_json **v = (const infer_json **)infer__schema_get_mem(c, cap, sizeof *v);
            uint8_t *r = (uint8_t *)infer__schema_get_mem(c, cap, 1);
            if (!v || !r) return;
            if (l->n) {
                memcpy(v, l->v, l->n * sizeof *v);
                memcpy(r, l->required, l->n);
            }
            l->v = v;
            l->required = r;
            l->cap = cap;
        }
        l->v[l->n++] = name;
    }
    if (i >= l->n || !required || l->required[i]) return;
    l->required[i] = 1;
    l->n_required++;
}

/* Names in the order of the schemas; *only: no others are possible (propertyNames with an enum). */
static void infer__names_of(infer__schema *c, const infer__alt *a, infer__names *l, int *only) {
    const infer_json *values[64];
    uint32_t i, n;
    uint64_t k;
    *only = 0;
    for (i = 0; i < a->n; i++) {
        const infer_json *all = infer__schema_map(c, a->nodes[i], "properties");
        for (k = 0; all && k < all->n && c->r == INFER_OK; k++) infer__names_add(c, l, &all->v.items[2 * k], 0);
    }
    for (i = 0; i < a->n; i++) {
        const infer_json *r = infer__schema_key(a->nodes[i], "required");
        if (r && (r->kind == INFER_JSON_TRUE || r->kind == INFER_JSON_FALSE)) {
            infer__schema_no(c, r, "\"required\" as draft 3 has it");
            return;
        }
        if (r && r->kind != INFER_JSON_ARRAY)
            infer__schema_fail(c, r, INFER_ERR_FORMAT, "an array of names is expected");
        for (k = 0; r && k < r->n && c->r == INFER_OK; k++) {
            if (r->v.items[k].kind != INFER_JSON_STRING)
                infer__schema_fail(c, &r->v.items[k], INFER_ERR_FORMAT, "a name is expected");
            else infer__names_add(c, l, &r->v.items[k], 1);
        }
    }
    for (i = 0; i < a->n && c->r == INFER_OK; i++) {
        const infer_json *names = infer__schema_key(a->nodes[i], "propertyNames");
        if (!names) continue;
        n = infer__schema_values(c, &names, 1, values, INFER__COUNT(values));
        if (n == UINT32_MAX) continue;
        *only = 1;
        for (k = 0; k < n; k++) if (values[k]->kind == INFER_JSON_STRING) infer__names_add(c, l, values[k], 0);
    }
}

/* ---- members without a name in the schema ----------------------------------------------------------------------- */

/* "name": value for names that match exactly the patterns in `hit` (bits) and are none of `names`. */
static const infer__sx *infer__object_extra(infer__schema *c, const infer__alt *a, const infer__names *names,
                                            const infer_json *const *patterns, uint32_t n, uint32_t hit,
                                            const infer__alt *name_alt) {
    infer__lang l[INFER__OBJECT_PATTERNS + 1];
    infer__nodes list;
    const infer__sx **items, *quote = c->as == INFER__AS_MARKS ? c->quote : infer__sx_word(c, "\""), *x;
    uint32_t i, k;
    uint64_t j;
    memset(&list, 0, sizeof list);
    memset(l, 0, sizeof l);
    for (i = 0; i < a->n; i++) {
        const infer_json *map = infer__schema_map(c, a->nodes[i], "patternProperties"),
                         *v = infer__schema_key(a->nodes[i], "additionalProperties");
        int found = 0;
        for (j = 0; map && j < map->n; j++) {
            const infer_json *key = &map->v.items[2 * j];
            for (k = 0; k < n && (patterns[k]->n != key->n || memcmp(patterns[k]->s, key->s, (size_t)key->n) != 0); k++)
                continue;
            if (k == n || !(hit >> k & 1)) continue;
            found = 1;
            if (key[1].kind == INFER_JSON_FALSE) return &INFER__SX_NONE;
            infer__nodes_add(c, &list, key + 1);
        }
        if (!found && v && v->kind == INFER_JSON_FALSE) return &INFER__SX_NONE;
        if (!found && v) infer__nodes_add(c, &list, v);
    }
    for (k = 0; k < n && c->r == INFER_OK; k++) {
        l[k].x = infer__pattern_parse(c, patterns[k] + 1, patterns[k]->s, (size_t)patterns[k]->n);
        l[k].want = (int)(hit >> k & 1);
    }
    if (names->n > 0) { /* none of these */
        items = (const infer__sx **)infer__schema_get_mem(c, names->n, sizeof *items);
        if (!items) return &INFER__SX_NONE;
        for (i = 0; i < names->n; i++) items[i] = infer__pattern_exact(c, names->v[i]->s, (size_t)names->v[i]->n);
        l[k].x = infer__sx_alt(c, items, names->n);
        l[k++].whole = 1;
    }
    if (c->r != INFER_OK) return &INFER__SX_NONE;
    x = infer__schema_chars(c, name_alt, l, k);
    x = infer__sx_pair(c, infer__sx_pair(c, quote, x), quote);
    x = infer__sx_pair(c, x, infer__sx_shared(c, INFER__SX_COLON));
    return infer__sx_pair(c, x, infer__schema_rule(c, list.v, list.n));
}

/* Any member that is not named; NEVER when none may be there. */
static const infer__sx *infer__object_extras(infer__schema *c, const infer__alt *a, const infer__names *names) {
    const infer_json *patterns[INFER__OBJECT_PATTERNS];
    const infer__sx *items[1 << INFER__OBJECT_PATTERNS];
    infer__nodes name_nodes;
    infer__alts alts;
    infer__alt any;
    uint32_t i, k, n = 0, hit;
    uint64_t j;
    memset(&name_nodes, 0, sizeof name_nodes);
    memset(&any, 0, sizeof any);
    for (i = 0; i < a->n && c->r == INFER_OK; i++) {
        const infer_json *map = infer__schema_map(c, a->nodes[i], "patternProperties"),
                         *v = infer__schema_key(a->nodes[i], "propertyNames");
        if (v && v->kind == INFER_JSON_FALSE) return &INFER__SX_NONE;
        if (v) infer__nodes_add(c, &name_nodes, v);
        for (j = 0; map && j < map->n; j++) {
            const infer_json *key = &map->v.items[2 * j];
            for (k = 0; k < n && (patterns[k]->n != key->n || memcmp(patterns[k]->s, key->s, (size_t)key->n) != 0); k++)
                continue;
            if (k < n) continue;
            if (n == INFER__OBJECT_PATTERNS) {
                infer__schema_no(c, map, "more than 4 patterns in patternProperties");
                return &INFER__SX_NONE;
            }
            patterns[n++] = key;
        }
    }
    if (name_nodes.n) {
        memset(&alts, 0, sizeof alts);
        infer__schema_expand(c, name_nodes.v, name_nodes.n, &alts);
        if (alts.n > 1) infer__schema_no(c, name_nodes.v[0], "propertyNames with alternatives");
        if (alts.n == 0 || !(alts.first->types & INFER__T_STRING)) return &INFER__SX_NONE;
        any = *alts.first;
    }
    for (hit = 0; hit < (uint32_t)1 << n; hit++) items[hit] = infer__object_extra(c, a, names, patterns, n, hit, &any);
    return infer__sx_alt(c, items, (uint32_t)1 << n);
}

/* ---- the grammar ------------------------------------------------------------------------------------------------- */

typedef struct infer__members {
    infer__schema *c;
    const infer__sx *ws, *comma, *extra;
    uint32_t min, max, full; /* full: counts from there on are one */
} infer__members;

/* After all named properties, `count` members there. */
static const infer__sx *infer__members_end(infer__members *m, uint32_t count, const infer_json *where) {
    infer__schema *c = m->c;
    uint32_t low = m->min > count ? m->min - count : 0,
             high = m->max == INFER__SX_MANY ? m->max : m->max - INFER__MIN(count, m->max);
    const infer__sx *x;
    if (high != INFER__SX_MANY) high = INFER__MIN(high, INFER__SCHEMA_COUNT);
    if (m->extra->kind == INFER__SX_NEVER || high == 0)
        return low ? &INFER__SX_NONE : count ? m->ws : &INFER__SX_NOTHING;
    if (low > 1) {
        infer__schema_no(c, where, "minProperties that needs two or more members without a name in the schema");
        return &INFER__SX_NONE;
    }
    if (count) return infer__sx_pair(c, infer__sx_rep(c, infer__sx_pair(c, m->comma, m->extra), low, high), m->ws);
    x = infer__sx_rep(c, infer__sx_pair(c, m->comma, m->extra), 0, high == INFER__SX_MANY ? high : high - 1);
    x = infer__sx_pair(c, infer__sx_pair(c, m->extra, x), m->ws);
    return infer__sx_rep(c, x, low, 1);
}

static const infer__sx *infer__object_named(infer__schema *c, const infer__alt *a, const infer_json *name) {
    infer__nodes list;
    const infer__sx *x = &INFER__SX_NONE;
    size_t i = 0;
    memset(&list, 0, sizeof list);
    if (infer__schema_member(c, a, name->s, (size_t)name->n, &list) < 0 || c->r != INFER_OK) return x;
    if (c->args && c->args->member) return c->args->member(c->args, c, name, &list);
    while (i < name->n && (uint8_t)name->s[i] > ' ' && !strchr(":,{}[]<>\"'", name->s[i])) i++;
    if (c->as == INFER__AS_MARKS && i > 0 && i == name->n) x = infer__sx_text(c, name->s, (size_t)name->n);
    else x = infer__sx_string(c, name->s, (size_t)name->n);
    x = infer__sx_pair(c, x, infer__sx_shared(c, INFER__SX_COLON));
    return infer__sx_pair(c, x, infer__schema_rule(c, list.v, list.n));
}

static const infer__sx *infer__object_members(infer__schema *c, const infer__alt *a, infer__members *m,
                                              const infer__names *names) {
    const infer__sx **row = (const infer__sx **)infer__schema_get_mem(c, (uint64_t)m->full + 1, sizeof *row), *x,
                    *member;
    uint32_t i, k;
    if (!row) return &INFER__SX_NONE;
    for (k = 0; k <= INFER__MIN(m->full, names->n); k++) row[k] = infer__members_end(m, k, a->nodes[0]);
    for (i = names->n; i-- > 0 && c->r == INFER_OK;) { /* row[k]: what follows property i when k members are there */
        member = infer__object_named(c, a, names->v[i]);
        for (k = 0; k <= INFER__MIN(m->full, i) && c->r == INFER_OK; k++) { /* k + 1 is still that of i + 1 */
            uint32_t rule;
            x = &INFER__SX_NONE;
            if (k < m->max) x = infer__sx_pair(c, member, row[INFER__MIN(k + 1, m->full)]);
            if (k > 0) x = infer__sx_pair(c, m->comma, x);
            if (!names->required[i]) x = infer__sx_or(c, x, row[k]);
            if (x->kind <= INFER__SX_EMPTY || x->kind == INFER__SX_REF) {
                row[k] = x;
                continue;
            }
            rule = infer__sx_rule_new(c);
            if (c->r != INFER_OK) break;
            infer__sx_define(c, rule, x);
            row[k] = infer__sx_ref(c, rule);
        }
    }
    return row[0];
}

static const infer__sx *infer__schema_object(infer__schema *c, const infer__alt *a) {
    static const char *const KEYS[] = {"properties", "patternProperties", "additionalProperties", "propertyNames",
                                       "required",   "minProperties",     "maxProperties"};
    infer__members m;
    infer__names names;
    const infer__sx *x;
    uint32_t i, k, plain = 1;
    int only, others = 0;
    for (i = 0; i < a->n; i++)
        for (k = 0; k < INFER__COUNT(KEYS); k++) {
            if (!infer__schema_key(a->nodes[i], KEYS[k])) continue;
            plain = 0;
            others |= k == 1 || k == 2; /* patternProperties, additionalProperties */
        }
    if (plain && !c->args) return infer__sx_shared(c, INFER__SX_OBJECT);
    memset(&names, 0, sizeof names);
    memset(&m, 0, sizeof m);
    m.c = c;
    infer__names_of(c, a, &names, &only);
    infer__schema_counts(c, a, "minProperties", "maxProperties", &m.min, &m.max);
    if (c->r != INFER_OK || m.min > m.max || m.max < names.n_required) return &INFER__SX_NONE;
    if (c->args && (c->args->member || !others)) only = 1;
    m.extra = only ? &INFER__SX_NONE : infer__object_extras(c, a, &names);
    if (m.extra->kind == INFER__SX_NEVER && m.max >= names.n) m.max = INFER__SX_MANY;
    if (m.extra->kind == INFER__SX_NEVER && m.min > names.n) return &INFER__SX_NONE;
    if (m.min <= names.n_required) m.min = 0;
    m.full = INFER__MAX(m.min, INFER__MAX(m.max == INFER__SX_MANY ? 1 : INFER__MIN(m.max, INFER__SCHEMA_COUNT), 1));
    if (m.max != INFER__SX_MANY) m.max = INFER__MIN(m.max, INFER__SCHEMA_COUNT);
    if ((uint64_t)(names.n + 1) * (INFER__MIN(m.full, names.n) + 1) > INFER__OBJECT_RULES * 3) {
        infer__schema_no(c, a->nodes[0], "so many properties together with minProperties or maxProperties");
        return &INFER__SX_NONE;
    }
    m.ws = infer__sx_shared(c, INFER__SX_WS);
    m.comma = infer__sx_pair(c, infer__sx_word(c, ","), m.ws);
    if (c->args && c->args->member) {
        m.ws = &INFER__SX_NOTHING;
        m.comma = c->args->comma;
        x = infer__object_members(c, a, &m, &names);
        return infer__sx_pair(c, infer__sx_pair(c, c->args->open, x), c->args->close);
    }
    x = infer__object_members(c, a, &m, &names);
    x = infer__sx_pair(c, infer__sx_pair(c, infer__sx_word(c, "{"), m.ws), x);
    return infer__sx_pair(c, x, infer__sx_word(c, "}"));
}
