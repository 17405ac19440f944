/* schema_not.c: the negation of a schema, as a schema.
 *
 * Owns:  a schema does not hold when one of its keywords fails: the negation is an anyOf of what makes each fail. What
 *        stands inside is negated later, when the grammar gets there. Keywords whose failure no schema can describe are
 *        errors that name them.
 * Rules: made schemas carry the place of what they were made from, for messages. Each schema is negated once, so that
 *        recursion stays finite.
 * Start: infer__schema_not.
 */
#include "schema.h"

typedef struct infer__schema_neg {
    const infer_json *node, *negation;
    struct infer__schema_neg *next;
} infer__schema_neg;

/* ---- making schemas ------------------------------------------------------------------------------------------- */

/* An object of up to three members (a NULL name ends); members are copies, which share what is in them. */
static const infer_json *infer__schema_made(infer__schema *c, const infer_json *at, const char *const *names,
                                            const infer_json *const *values) {
    infer_json *v = (infer_json *)infer__schema_get_mem(c, 1, sizeof *v), *items;
    uint32_t i, n = 0;
    while (n < 3 && names[n]) n++;
    items = (infer_json *)infer__schema_get_mem(c, 2 * (uint64_t)n + 1, sizeof *items);
    if (!v || !items) return c->root;
    for (i = 0; i < n; i++) {
        items[2 * i].kind = INFER_JSON_STRING;
        items[2 * i].s = names[i];
        items[2 * i].n = strlen(names[i]);
        items[2 * i + 1] = *values[i];
    }
    v->kind = INFER_JSON_OBJECT;
    v->at = at->at;
    v->n = n;
    v->v.items = items;
    return v;
}
static const infer_json *infer__schema_pair(infer__schema *c, const infer_json *at, const char *name,
                                            const infer_json *v) {
    const char *names[2];
    names[0] = name;
    names[1] = NULL;
    return infer__schema_made(c, at, names, &v);
}
static const infer_json *infer__schema_two(infer__schema *c, const infer_json *at, const char *name1,
                                           const infer_json *v1, const char *name2, const infer_json *v2) {
    const char *names[3];
    const infer_json *values[2];
    names[0] = name1;
    names[1] = name2;
    names[2] = NULL;
    values[0] = v1;
    values[1] = v2;
    return infer__schema_made(c, at, names, values);
}
static const infer_json *infer__schema_list_of(infer__schema *c, const infer_json *at, const infer_json *const *items,
                                               uint64_t n) {
    infer_json *v = (infer_json *)infer__schema_get_mem(c, 1, sizeof *v);
    infer_json *copy = (infer_json *)infer__schema_get_mem(c, n + 1, sizeof *copy);
    uint64_t i;
    if (!v || !copy) return c->root;
    for (i = 0; i < n; i++) copy[i] = *items[i];
    v->kind = INFER_JSON_ARRAY;
    v->at = at->at;
    v->n = n;
    v->v.items = copy;
    return v;
}
static const infer_json *infer__schema_word(infer__schema *c, const infer_json *at, int kind, int64_t i) {
    infer_json *v = (infer_json *)infer__schema_get_mem(c, 1, sizeof *v);
    char text[32];
    if (!v) return c->root;
    v->kind = kind;
    v->at = at->at;
    v->v.i = i;
    v->n = infer__format(text, sizeof text, "%lld", (long long)i);
    v->s = infer__arena_text(&c->arena, text, (size_t)v->n);
    if (!v->s) infer__schema_no_memory(c);
    return v->s ? v : c->root;
}
static const infer_json *infer__schema_of_types(infer__schema *c, const infer_json *at, uint32_t types) {
    return infer__schema_pair(c, at, INFER__KEY_TYPES, infer__schema_word(c, at, INFER_JSON_INT, types));
}
/* {"properties": {name: v}} */
static const infer_json *infer__schema_member_is(infer__schema *c, const infer_json *at, const infer_json *name,
                                                 const infer_json *v) {
    infer_json *map = (infer_json *)infer__schema_get_mem(c, 1, sizeof *map);
    infer_json *items = (infer_json *)infer__schema_get_mem(c, 2, sizeof *items);
    if (!map || !items) return c->root;
    items[0] = *name;
    items[1] = *v;
    map->kind = INFER_JSON_OBJECT;
    map->at = at->at;
    map->n = 1;
    map->v.items = items;
    return infer__schema_pair(c, at, "properties", map);
}
static const infer_json *infer__schema_absent(infer__schema *c, const infer_json *at, const infer_json *name) {
    return infer__schema_member_is(c, at, name, infer__schema_word(c, at, INFER_JSON_FALSE, 0));
}
static const infer_json *infer__schema_needs(infer__schema *c, const infer_json *at, const infer_json *name) {
    return infer__schema_pair(c, at, "required", infer__schema_list_of(c, at, &name, 1));
}

/* ---- negation ---------------------------------------------------------------------------------------------------- */

typedef struct infer__neg { /* the anyOf that is being made */
    infer__schema *c;
    infer__nodes any;
} infer__neg;

static void infer__neg_add(infer__neg *g, const infer_json *node) { infer__nodes_add(g->c, &g->any, node); }
/* Values of these types, and node (NULL = any of them). */
static void infer__neg_typed(infer__neg *g, const infer_json *at, uint32_t types, const char *name,
                             const infer_json *v) {
    const infer_json *t = infer__schema_word(g->c, at, INFER_JSON_INT, types);
    if (types == 0) return;
    infer__neg_add(g, name ? infer__schema_two(g->c, at, INFER__KEY_TYPES, t, name, v)
                           : infer__schema_pair(g->c, at, INFER__KEY_TYPES, t));
}
static const infer_json *infer__neg_of(infer__schema *c, const infer_json *node) {
    return infer__schema_pair(c, node, "not", node);
}

/* None of these values. */
static void infer__neg_values(infer__neg *g, const infer_json *at, const infer_json *v, uint64_t n) {
    infer__schema *c = g->c;
    infer__nodes words, numbers;
    uint32_t types = INFER__T_ALL;
    uint64_t i;
    memset(&words, 0, sizeof words);
    memset(&numbers, 0, sizeof numbers);
    for (i = 0; i < n && infer__schema_step(c, 1); i++) {
        types &= ~infer__schema_type_of(&v[i]);
        if (v[i].kind == INFER_JSON_STRING) infer__nodes_add(c, &words, &v[i]);
        if (v[i].kind == INFER_JSON_ARRAY || v[i].kind == INFER_JSON_OBJECT)
            infer__schema_no(c, at, "\"not\" an array or object");
        if (v[i].kind == INFER_JSON_INT || v[i].kind == INFER_JSON_FLOAT) { /* below or above it */
            const infer_json *two[2], *list;
            two[0] = infer__schema_pair(c, at, "exclusiveMaximum", &v[i]);
            two[1] = infer__schema_pair(c, at, "exclusiveMinimum", &v[i]);
            list = infer__schema_pair(c, at, "anyOf", infer__schema_list_of(c, at, two, 2));
            infer__nodes_add(c, &numbers, list);
        }
    }
    infer__neg_typed(g, at, types, NULL, NULL);
    if (words.n)
        infer__neg_typed(g, at, INFER__T_STRING, INFER__KEY_NOT_EQUAL, infer__schema_list_of(c, at, words.v, words.n));
    if (numbers.n)
        infer__neg_typed(g, at, INFER__T_NUMBER, "allOf", infer__schema_list_of(c, at, numbers.v, numbers.n));
}

static void infer__neg_each(infer__neg *g, const infer_json *list, int all) { /* not all of them; none of them */
    infer__nodes none;
    uint64_t i;
    memset(&none, 0, sizeof none);
    if (list->kind != INFER_JSON_ARRAY)
        infer__schema_fail(g->c, list, INFER_ERR_FORMAT, "an array of schemas is expected");
    for (i = 0; g->c->r == INFER_OK && i < list->n; i++) {
        if (all) infer__neg_add(g, infer__neg_of(g->c, &list->v.items[i]));
        else infer__nodes_add(g->c, &none, infer__neg_of(g->c, &list->v.items[i]));
    }
    if (!all && none.n)
        infer__neg_add(g, infer__schema_pair(g->c, list, "allOf", infer__schema_list_of(g->c, list, none.v, none.n)));
}

static void infer__neg_members(infer__neg *g, const infer_json *v, int required) {
    infer__schema *c = g->c;
    uint64_t i;
    if (v->kind != (required ? INFER_JSON_ARRAY : INFER_JSON_OBJECT)) {
        infer__schema_no(c, v, "\"not\" of this keyword");
        return;
    }
    for (i = 0; i < v->n && infer__schema_step(c, 1); i++) {
        const infer_json *name = &v->v.items[required ? i : 2 * i], *all[3];
        if (name->kind != INFER_JSON_STRING) infer__schema_fail(c, name, INFER_ERR_FORMAT, "a name is expected");
        if (c->r != INFER_OK) return;
        all[0] = infer__schema_of_types(c, v, INFER__T_OBJECT);
        all[1] = required ? infer__schema_absent(c, v, name) : infer__schema_needs(c, v, name);
        all[2] = required ? all[0] : infer__schema_member_is(c, v, name, infer__neg_of(c, name + 1));
        infer__neg_add(g, infer__schema_pair(c, v, "allOf", infer__schema_list_of(c, v, all, required ? 2 : 3)));
    }
}

/* Bounds: what fails a bound keeps the opposite one. */
static const struct { const char *name, *opposite; uint32_t types; int32_t step; } INFER__NEG_BOUNDS[] = {
    {"minimum", "exclusiveMaximum", INFER__T_NUMBER, 0},  {"exclusiveMaximum", "minimum", INFER__T_NUMBER, 0},
    {"maximum", "exclusiveMinimum", INFER__T_NUMBER, 0},  {"exclusiveMinimum", "maximum", INFER__T_NUMBER, 0},
    {"minLength", "maxLength", INFER__T_STRING, -1},      {"maxLength", "minLength", INFER__T_STRING, 1},
    {"minItems", "maxItems", INFER__T_ARRAY, -1},         {"maxItems", "minItems", INFER__T_ARRAY, 1},
    {"minProperties", "maxProperties", INFER__T_OBJECT, -1}, {"maxProperties", "minProperties", INFER__T_OBJECT, 1}};

static int infer__neg_bound(infer__neg *g, const infer_json *key, const infer_json *v) { /* 1 = it was one */
    size_t i;
    for (i = 0; i < INFER__COUNT(INFER__NEG_BOUNDS); i++) {
        int32_t step = INFER__NEG_BOUNDS[i].step;
        if (!infer__schema_is(key, INFER__NEG_BOUNDS[i].name)) continue;
        if (v->kind != INFER_JSON_INT && (step || v->kind != INFER_JSON_FLOAT))
            infer__schema_no(g->c, v, "\"not\" of this keyword");
        else if (step < 0 && v->v.i <= 0) return 1; /* never fails */
        else if (step && v->v.i > 1000000000) infer__schema_no(g->c, v, "\"not\" of so large a count");
        else infer__neg_typed(g, v, INFER__NEG_BOUNDS[i].types, INFER__NEG_BOUNDS[i].opposite,
                              step ? infer__schema_word(g->c, v, INFER_JSON_INT, v->v.i + step) : v);
        return 1;
    }
    return 0;
}

/* What makes one keyword fail. */
static void infer__neg_keyword(infer__neg *g, const infer_json *key) {
    infer__schema *c = g->c;
    const infer_json *v = key + 1, *target;
    if (infer__schema_is(key, "type"))
        infer__neg_typed(g, v, INFER__T_ALL & ~infer__schema_types(c, infer__schema_pair(c, v, "type", v)), NULL, NULL);
    else if (infer__schema_is(key, INFER__KEY_TYPES))
        infer__neg_typed(g, v, INFER__T_ALL & ~(uint32_t)v->v.i, NULL, NULL);
    else if (infer__schema_is(key, "const")) infer__neg_values(g, v, v, 1);
    else if (infer__schema_is(key, "enum") && v->kind == INFER_JSON_ARRAY) infer__neg_values(g, v, v->v.items, v->n);
    else if (infer__schema_is(key, "required")) infer__neg_members(g, v, 1);
    else if (infer__schema_is(key, "properties")) infer__neg_members(g, v, 0);
    else if (infer__schema_is(key, "allOf")) infer__neg_each(g, v, 1);
    else if (infer__schema_is(key, "anyOf")) infer__neg_each(g, v, 0);
    else if (infer__schema_is(key, "not")) infer__neg_add(g, v);
    else if (infer__schema_is(key, "pattern")) infer__neg_typed(g, v, INFER__T_STRING, INFER__KEY_NOT_PATTERN, v);
    else if (infer__schema_is(key, INFER__KEY_NOT_PATTERN)) infer__neg_typed(g, v, INFER__T_STRING, "pattern", v);
    else if (infer__schema_is(key, INFER__KEY_NOT_EQUAL)) infer__neg_typed(g, v, INFER__T_STRING, "enum", v);
    else if (infer__schema_is(key, "$ref")) {
        target = infer__schema_target(c, v);
        if (target) infer__neg_add(g, infer__neg_of(c, target));
    } else if (!infer__neg_bound(g, key, v) && infer__schema_constrains(key)) {
        infer__schema_no(c, v, "\"not\" (or oneOf, if) of this keyword");
    }
}

static const infer_json *infer__schema_not(infer__schema *c, const infer_json *node) {
    infer__schema_neg *known;
    infer__neg g;
    uint64_t i;
    if (node->kind == INFER_JSON_TRUE || node->kind == INFER_JSON_FALSE)
        return infer__schema_word(c, node, node->kind == INFER_JSON_TRUE ? INFER_JSON_FALSE : INFER_JSON_TRUE, 0);
    if (node->kind != INFER_JSON_OBJECT) {
        infer__schema_fail(c, node, INFER_ERR_FORMAT, "a schema is an object, true or false");
        return node;
    }
    if (node->n == 0) return infer__schema_word(c, node, INFER_JSON_FALSE, 0);
    for (known = c->negs; known && infer__schema_step(c, 1); known = known->next)
        if (known->node->v.items == node->v.items) return known->negation;
    memset(&g, 0, sizeof g);
    g.c = c;
    for (i = 0; i < node->n && c->r == INFER_OK; i++) infer__neg_keyword(&g, &node->v.items[2 * i]);
    known = (infer__schema_neg *)infer__schema_get_mem(c, 1, sizeof *known);
    if (!known || c->r != INFER_OK) return node;
    known->node = node;
    if (g.any.n == 0) known->negation = infer__schema_word(c, node, INFER_JSON_FALSE, 0);
    else known->negation = infer__schema_pair(c, node, "anyOf", infer__schema_list_of(c, node, g.any.v, g.any.n));
    known->next = c->negs;
    c->negs = known;
    return known->negation;
}
