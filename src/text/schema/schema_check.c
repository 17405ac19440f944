/* schema_check.c: does a value satisfy a schema? For the literals of enum and const, and names of members.
 *
 * Rules: exact or an error: a keyword that is not known here and constrains is never taken as satisfied. Numbers are
 *        compared as decimals. Recursion is bounded.
 * Start: infer__schema_holds.
 */
#include "schema.h"

enum { INFER__CHECK_DEPTH = 200 };

static int infer__json_equal(infer__schema *c, const infer_json *a, const infer_json *b, int depth) {
    uint64_t i;
    int number = a->kind == INFER_JSON_INT || a->kind == INFER_JSON_FLOAT;
    if (!infer__schema_step(c, 1) || depth > INFER__JSON_DEPTH) return 0;
    if (a->kind == INFER_JSON_INT && b->kind == INFER_JSON_INT) return a->v.i == b->v.i;
    if (number && (b->kind == INFER_JSON_INT || b->kind == INFER_JSON_FLOAT)) {
        infer__exact x = infer__exact_of(c, a), y = infer__exact_of(c, b);
        return infer__exact_compare(&x, &y) == 0;
    }
    if (number || a->kind != b->kind) return 0;
    if (a->kind == INFER_JSON_STRING) return a->n == b->n && memcmp(a->s, b->s, (size_t)a->n) == 0;
    if (a->kind != INFER_JSON_ARRAY && a->kind != INFER_JSON_OBJECT) return 1;
    if (a->n != b->n) return 0;
    for (i = 0; i < a->n; i++) {
        const infer_json *x = &a->v.items[i], *y = &b->v.items[i];
        if (a->kind == INFER_JSON_OBJECT) {
            x = &a->v.items[2 * i + 1];
            y = infer__json_get(b, x[-1].s, (size_t)x[-1].n);
            infer__schema_step(c, b->n);
        }
        if (!y || !infer__json_equal(c, x, y, depth + 1)) return 0;
    }
    return 1;
}

typedef struct infer__check {
    infer__schema *c;
    const infer_json *node, *v; /* schema, value */
    int depth;
} infer__check;

static int infer__check_sub(infer__check *k, const infer_json *node, const infer_json *v) {
    return infer__schema_holds(k->c, node, v, k->depth + 1);
}

static int infer__check_many(infer__check *k, const infer_json *list, uint32_t min, uint32_t max) {
    uint64_t i;
    uint32_t n = 0;
    if (list->kind != INFER_JSON_ARRAY)
        infer__schema_fail(k->c, list, INFER_ERR_FORMAT, "an array of schemas is expected");
    for (i = 0; k->c->r == INFER_OK && i < list->n; i++) n += (uint32_t)infer__check_sub(k, &list->v.items[i], k->v);
    return n >= INFER__MIN(min, (uint32_t)list->n) && n <= max;
}

static int infer__check_number(infer__check *k) {
    const infer_json *m = infer__schema_key(k->node, "multipleOf");
    infer__exact x = infer__exact_of(k->c, k->v), d;
    if (m && (m->kind == INFER_JSON_INT || m->kind == INFER_JSON_FLOAT)) {
        d = infer__exact_of(k->c, m);
        if (!infer__exact_multiple(k->c, m, &x, &d)) return 0;
    }
    return infer__schema_within(k->c, k->node, &x);
}

static int infer__check_string(infer__check *k) {
    static const char *const KEYS[] = {"pattern", "format", INFER__KEY_NOT_PATTERN};
    const infer_json *p;
    uint64_t i, length = 0;
    uint32_t min, max;
    size_t which;
    infer__alt a;
    memset(&a, 0, sizeof a);
    a.nodes = &k->node;
    a.n = 1;
    for (i = 0; i < k->v->n; i++) length += (k->v->s[i] & 0xc0) != 0x80;
    infer__schema_counts(k->c, &a, "minLength", "maxLength", &min, &max);
    if (length < min || (max != INFER__SX_MANY && length > max)) return 0;
    for (which = 0; which < INFER__COUNT(KEYS); which++) {
        const char *text;
        const infer__sx *x;
        p = infer__schema_key(k->node, KEYS[which]);
        if (!p || p->kind != INFER_JSON_STRING) continue;
        text = which == 1 ? infer__schema_format(p) : p->s;
        if (!text) continue;
        x = infer__pattern_parse(k->c, p, text, which == 1 ? strlen(text) : (size_t)p->n);
        if (!x || infer__dfa_matches(k->c, p, x, k->v->s, (size_t)k->v->n) != (which != 2)) return 0;
    }
    p = infer__schema_key(k->node, INFER__KEY_NOT_EQUAL);
    for (i = 0; p && i < p->n; i++) if (infer__json_equal(k->c, &p->v.items[i], k->v, 0)) return 0;
    return 1;
}

static int infer__check_array(infer__check *k) {
    const infer_json *v = k->v, *contains = infer__schema_key(k->node, "contains"),
                     *unique = infer__schema_key(k->node, "uniqueItems");
    infer__nodes list;
    infer__alt a;
    uint32_t min, max, n = 0, j;
    uint64_t i, m;
    memset(&a, 0, sizeof a);
    a.nodes = &k->node;
    a.n = 1;
    infer__schema_counts(k->c, &a, "minItems", "maxItems", &min, &max);
    if (v->n < min || (max != INFER__SX_MANY && v->n > max)) return 0;
    for (i = 0; i < v->n && k->c->r == INFER_OK; i++) {
        memset(&list, 0, sizeof list);
        if (infer__schema_item(k->c, &a, i, &list) < 0) return 0;
        for (j = 0; j < list.n; j++) if (!infer__check_sub(k, list.v[j], &v->v.items[i])) return 0;
        if (contains) n += (uint32_t)infer__check_sub(k, contains, &v->v.items[i]);
        for (m = 0; unique && unique->kind == INFER_JSON_TRUE && m < i; m++)
            if (infer__json_equal(k->c, &v->v.items[i], &v->v.items[m], 0)) return 0;
    }
    infer__schema_counts(k->c, &a, "minContains", "maxContains", &min, &max);
    if (!infer__schema_key(k->node, "minContains")) min = 1;
    return !contains || (n >= min && n <= max);
}

static int infer__check_object(infer__check *k) {
    static const char *const KEYS[] = {"dependentRequired", "dependentSchemas", "dependencies"};
    const infer_json *v = k->v, *r = infer__schema_key(k->node, "required");
    infer__nodes list;
    infer__alt a;
    uint32_t min, max, j;
    uint64_t i;
    size_t which;
    memset(&a, 0, sizeof a);
    a.nodes = &k->node;
    a.n = 1;
    infer__schema_counts(k->c, &a, "minProperties", "maxProperties", &min, &max);
    if (v->n < min || (max != INFER__SX_MANY && v->n > max)) return 0;
    for (i = 0; r && r->kind == INFER_JSON_ARRAY && i < r->n; i++)
        if (r->v.items[i].kind != INFER_JSON_STRING || !infer__json_get(v, r->v.items[i].s, (size_t)r->v.items[i].n))
            return 0;
    for (i = 0; i < v->n && k->c->r == INFER_OK; i++) {
        const infer_json *name = &v->v.items[2 * i];
        memset(&list, 0, sizeof list);
        if (infer__schema_member(k->c, &a, name->s, (size_t)name->n, &list) < 0) return 0;
        for (j = 0; j < list.n; j++) if (!infer__check_sub(k, list.v[j], name + 1)) return 0;
    }
    for (which = 0; which < INFER__COUNT(KEYS); which++) {
        const infer_json *map = infer__schema_key(k->node, KEYS[which]);
        for (i = 0; map && map->kind == INFER_JSON_OBJECT && i < map->n && k->c->r == INFER_OK; i++) {
            const infer_json *name = &map->v.items[2 * i], *then = name + 1;
            if (!infer__json_get(v, name->s, (size_t)name->n)) continue;
            if (then->kind == INFER_JSON_ARRAY) then = infer__schema_pair(k->c, then, "required", then);
            if (!infer__check_sub(k, then, v)) return 0;
        }
    }
    return 1;
}

/* Keywords that speak about the same value whatever its type. */
static int infer__check_general(infer__check *k) {
    const infer_json *v = k->v, *x, *yes = infer__schema_key(k->node, "then"), *no = infer__schema_key(k->node, "else");
    uint64_t i;
    uint32_t types = infer__schema_types(k->c, k->node), mine = infer__schema_type_of(v);
    infer__exact d;
    if (mine == INFER__T_NUMBER) {
        d = infer__exact_of(k->c, v);
        mine = infer__exact_whole(&d) ? INFER__T_INT : INFER__T_FRAC;
    }
    if (!(types & mine) || k->c->r != INFER_OK) return 0;
    if ((x = infer__schema_key(k->node, "const")) != NULL && !infer__json_equal(k->c, x, v, 0)) return 0;
    x = infer__schema_key(k->node, "enum");
    if (x && (uintptr_t)v - (uintptr_t)x->v.items >= x->n * sizeof *v) { /* none of its own literals */
        for (i = 0; i < x->n && !infer__json_equal(k->c, &x->v.items[i], v, 0); i++) continue;
        if (i == x->n) return 0;
    }
    if ((x = infer__schema_key(k->node, "$ref")) != NULL && (x = infer__schema_target(k->c, x)) != NULL &&
        !infer__check_sub(k, x, v))
        return 0;
    if ((x = infer__schema_key(k->node, "allOf")) != NULL && !infer__check_many(k, x, UINT32_MAX, UINT32_MAX)) return 0;
    if ((x = infer__schema_key(k->node, "anyOf")) != NULL && !infer__check_many(k, x, 1, UINT32_MAX)) return 0;
    if ((x = infer__schema_key(k->node, "oneOf")) != NULL && !infer__check_many(k, x, 1, 1)) return 0;
    if ((x = infer__schema_key(k->node, "not")) != NULL && infer__check_sub(k, x, v)) return 0;
    if ((x = infer__schema_key(k->node, "if")) != NULL && (yes || no)) {
        x = infer__check_sub(k, x, v) ? yes : no;
        if (x && !infer__check_sub(k, x, v)) return 0;
    }
    return 1;
}

static int infer__schema_holds(infer__schema *c, const infer_json *node, const infer_json *value, int depth) {
    infer__check k;
    k.c = c;
    k.node = node;
    k.v = value;
    k.depth = depth;
    if (!infer__schema_step(c, 10) || node->kind == INFER_JSON_FALSE) return 0;
    if (node->kind == INFER_JSON_TRUE) return 1;
    if (node->kind != INFER_JSON_OBJECT)
        infer__schema_fail(c, node, INFER_ERR_FORMAT, "a schema is an object, true or false");
    else if (depth > INFER__CHECK_DEPTH)
        infer__schema_fail(c, node, INFER_ERR_FORMAT, "the schema refers to itself without a step into the value");
    else infer__schema_refuse(c, node, infer__schema_type_of(value), 1);
    if (c->r != INFER_OK || !infer__check_general(&k) || c->r != INFER_OK) return 0;
    switch (value->kind) {
    case INFER_JSON_INT:
    case INFER_JSON_FLOAT: return infer__check_number(&k);
    case INFER_JSON_STRING: return infer__check_string(&k);
    case INFER_JSON_ARRAY: return infer__check_array(&k);
    case INFER_JSON_OBJECT: return infer__check_object(&k);
    default: return 1;
    }
}
