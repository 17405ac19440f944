/* schema_expand.c: a set of schemas -> alternatives without choices; references.
 *
 * Owns:  $ref, allOf, anyOf, oneOf, not, if/then/else, dependentRequired and dependentSchemas: what applies to the same
 *        value as the schema it stands in. What all must hold goes to one list, a choice multiplies lists, and a list
 *        whose types contradict each other ends there.
 * Rules: oneOf becomes anyOf when its branches exclude each other, or else each branch goes with the negation of those
 *        that it may overlap with. A reference that leads back to itself without a step into the value is an error.
 *        Loose (infer__schema_empty): a superset of what is allowed, never an error of its own.
 * Start: infer__schema_expand.
 */
#include "schema.h"

typedef struct infer__todo { /* a schema that must hold, and how it came into the list */
    const infer_json *node;
    const struct infer__todo *from; /* the one that it stands in */
    struct infer__todo *next;
} infer__todo;
typedef struct infer__choice { /* one of n lists of schemas must hold */
    const infer_json *const *const *branches; /* each ends with NULL */
    uint32_t n;
    const infer__todo *from;
    struct infer__choice *next;
} infer__choice;

typedef struct infer__expand {
    infer__schema *c;
    infer__alts *out;
    const infer_json **nodes; /* of the list that is being made */
    uint32_t n, cap, types;
    int level;
} infer__expand;

/* ---- references --------------------------------------------------------------------------------------------- */

/* Look for strings under `key` in schemas: the one that is `want` (NULL = any that is no fragment, not at the root). */
static const infer_json *infer__schema_find(infer__schema *c, const infer_json *v, const char *key, const char *want,
                                            size_t n, int top) {
    uint64_t i;
    const infer_json *found = NULL, *id;
    if (!infer__schema_step(c, 1)) return NULL;
    if (v->kind == INFER_JSON_OBJECT && !top && (id = infer__schema_key(v, key)) != NULL &&
        id->kind == INFER_JSON_STRING) {
        if (want ? id->n == n && memcmp(id->s, want, n) == 0 : id->n > 0 && id->s[0] != '#') return v;
    }
    if (v->kind != INFER_JSON_OBJECT && v->kind != INFER_JSON_ARRAY) return NULL;
    for (i = 0; i < v->n && !found; i++)
        found = infer__schema_find(c, &v->v.items[v->kind == INFER_JSON_OBJECT ? 2 * i + 1 : i], key, want, n, 0);
    return found;
}

/* One step of a JSON pointer (RFC 6901 inside a URI: %-escapes, then ~0 and ~1). */
static const infer_json *infer__schema_walk(infer__schema *c, const infer_json *v, const char *s, size_t n) {
    char *name = (char *)infer__schema_get_mem(c, (uint64_t)n + 1, 1);
    size_t i, k = 0, index = 0;
    uint32_t d;
    int pass;
    if (!name) return NULL;
    memcpy(name, s, n);
    for (pass = 0; pass < 2; pass++) {
        for (i = 0, k = 0; i < n; i++) {
            char b = name[i];
            if (pass == 0 && b == '%' && n - i > 2) {
                char hex[4] = {'0', '0', 0, 0};
                hex[2] = name[i + 1];
                hex[3] = name[i + 2];
                if (!infer__hex4(hex, 4, &d)) return NULL;
                b = (char)(uint8_t)d;
                i += 2;
            } else if (pass == 1 && b == '~') {
                if (i + 1 >= n || (name[i + 1] != '0' && name[i + 1] != '1')) return NULL;
                b = name[++i] == '0' ? '~' : '/';
            }
            name[k++] = b;
        }
        n = k;
    }
    if (v->kind == INFER_JSON_OBJECT) return infer__json_get(v, name, n);
    if (v->kind != INFER_JSON_ARRAY || n == 0 || n > 9 || (n > 1 && name[0] == '0')) return NULL;
    for (i = 0; i < n; i++) {
        if (name[i] < '0' || name[i] > '9') return NULL;
        index = index * 10 + (size_t)(name[i] - '0');
    }
    return index < v->n ? &v->v.items[index] : NULL;
}

static const infer_json *infer__schema_target(infer__schema *c, const infer_json *ref) {
    const infer_json *v = c->root, *id;
    const char *s, *end, *slash;
    if (ref->kind != INFER_JSON_STRING) {
        infer__schema_fail(c, ref, INFER_ERR_FORMAT, "a string is expected");
        return NULL;
    }
    s = ref->s;
    end = s + ref->n;
    id = infer__schema_key(c->root, "$id");
    if (!id) id = infer__schema_key(c->root, "id");
    if (id && id->kind == INFER_JSON_STRING && id->n > 0 && ref->n >= id->n && memcmp(id->s, s, (size_t)id->n) == 0 &&
        (ref->n == id->n || s[id->n] == '#'))
        s += id->n; /* the document itself */
    if (s < end && *s != '#') {
        infer__schema_no(c, ref, "$ref to another document");
        return NULL;
    }
    if (c->nested_ids < 0) c->nested_ids = infer__schema_find(c, c->root, "$id", NULL, 0, 1) != NULL;
    if (c->nested_ids) {
        infer__schema_no(c, ref, "$ref in a document with an $id inside");
        return NULL;
    }
    if (s < end) s++;
    if (s < end && *s != '/') {
        v = infer__schema_find(c, c->root, "$anchor", s, (size_t)(end - s), 0);
        if (!v && ref->n) v = infer__schema_find(c, c->root, "$id", s - 1, (size_t)(end - s) + 1, 0);
    }
    while (v && s < end && *s == '/') {
        slash = (const char *)memchr(s + 1, '/', (size_t)(end - s - 1));
        if (!slash) slash = end;
        v = infer__schema_walk(c, v, s + 1, (size_t)(slash - s - 1));
        s = slash;
    }
    if (!v) infer__schema_fail(c, ref, INFER_ERR_FORMAT, "$ref leads nowhere");
    return c->r == INFER_OK ? v : NULL;
}

/* ---- types ---------------------------------------------------------------------------------------------------- */

static uint32_t infer__schema_type_of(const infer_json *v) { /* of a value; a number may be either */
    static const uint8_t T[] = {INFER__T_NULL, INFER__T_FALSE, INFER__T_TRUE};
    switch (v->kind) {
    case INFER_JSON_NULL: return T[0];
    case INFER_JSON_FALSE: return T[1];
    case INFER_JSON_TRUE: return T[2];
    case INFER_JSON_STRING: return INFER__T_STRING;
    case INFER_JSON_ARRAY: return INFER__T_ARRAY;
    case INFER_JSON_OBJECT: return INFER__T_OBJECT;
    default: return INFER__T_NUMBER;
    }
}
static uint32_t infer__schema_type_name(infer__schema *c, const infer_json *v) {
    static const struct { const char *name; uint32_t types; } NAMES[] = {
        {"null", INFER__T_NULL}, {"boolean", INFER__T_FALSE | INFER__T_TRUE}, {"integer", INFER__T_INT},
        {"number", INFER__T_NUMBER}, {"string", INFER__T_STRING}, {"array", INFER__T_ARRAY}, {"object", INFER__T_OBJECT}};
    size_t i;
    for (i = 0; i < INFER__COUNT(NAMES); i++) if (infer__schema_is(v, NAMES[i].name)) return NAMES[i].types;
    infer__schema_fail(c, v, INFER_ERR_FORMAT, "unknown type");
    return 0;
}
/* What "type", "const", "enum" and the keyword of schema_not.c leave. */
static uint32_t infer__schema_types(infer__schema *c, const infer_json *node) {
    const infer_json *t = infer__schema_key(node, "type"), *made = infer__schema_key(node, INFER__KEY_TYPES),
                     *value = infer__schema_key(node, "const"), *list = infer__schema_key(node, "enum");
    uint32_t types = INFER__T_ALL, some = 0;
    uint64_t i;
    if (made) types &= (uint32_t)made->v.i;
    if (t && t->kind == INFER_JSON_ARRAY) {
        for (i = 0; i < t->n && i < 100; i++) some |= infer__schema_type_name(c, &t->v.items[i]);
        types &= some;
    } else if (t) types &= infer__schema_type_name(c, t);
    if (value) types &= infer__schema_type_of(value);
    if (list && list->kind != INFER_JSON_ARRAY)
        infer__schema_fail(c, list, INFER_ERR_FORMAT, "an array of values is expected");
    else if (list) {
        if (c->typed != list->v.items) { /* asked for each literal of it */
            for (some = 0, i = 0; i < list->n; i++) some |= infer__schema_type_of(&list->v.items[i]);
            infer__schema_step(c, list->n / 4);
            c->typed = list->v.items;
            c->typed_as = some;
        }
        types &= list->n ? c->typed_as : 0;
    }
    return types;
}

/* ---- expanding ------------------------------------------------------------------------------------------------- */

static infer__todo *infer__todo_push(infer__expand *e, const infer_json *node, const infer__todo *from,
                                     infer__todo *next) {
    infer__todo *t = (infer__todo *)infer__schema_get_mem(e->c, 1, sizeof *t);
    const infer__todo *p;
    uint32_t depth = 0;
    if (!t) return next;
    t->node = node;
    t->from = from;
    t->next = next;
    for (p = from; p; p = p->from)
        if (INFER__SCHEMA_SAME(p->node, node) || ++depth > INFER__SCHEMA_DEPTH) {
            infer__schema_fail(e->c, node, INFER_ERR_FORMAT,
                               "the schema refers to itself without a step into the value");
            break;
        }
    return t;
}

static const infer_json **infer__branch(infer__expand *e, uint32_t n) { /* room for n schemas and the end */
    return (const infer_json **)infer__schema_get_mem(e->c, (uint64_t)n + 1, sizeof(infer_json *));
}
static infer__choice *infer__choice_push(infer__expand *e, const infer_json *const *const *branches, uint32_t n,
                                         const infer__todo *from, infer__choice *next) {
    infer__choice *x = (infer__choice *)infer__schema_get_mem(e->c, 1, sizeof *x);
    if (!x) return next;
    x->branches = branches;
    x->n = n;
    x->from = from;
    x->next = next;
    return x;
}

static const infer_json *infer__schema_list(infer__schema *c, const infer_json *node, const char *key) {
    const infer_json *v = infer__schema_key(node, key);
    if (v && (v->kind != INFER_JSON_ARRAY || v->n == 0 || v->n > 10000)) {
        infer__schema_fail(c, v, INFER_ERR_FORMAT, "an array of schemas is expected");
        return NULL;
    }
    return v;
}

/* anyOf and oneOf. */
static infer__choice *infer__expand_any(infer__expand *e, const infer__todo *t, const char *key, int one,
                                        infer__choice *next) {
    infer__schema *c = e->c;
    const infer_json *v = infer__schema_list(c, t->node, key);
    const infer_json *const **branches, *pair[3];
    uint32_t i, k, n;
    if (!v) return next;
    branches = (const infer_json *const **)infer__schema_get_mem(c, v->n, sizeof *branches);
    pair[2] = infer__schema_of_types(c, v, e->types); /* "type" beside oneOf helps to tell branches apart */
    for (i = 0; branches && i < v->n && infer__schema_step(c, v->n); i++) {
        const infer_json **b = infer__branch(e, one && !e->out->loose ? (uint32_t)v->n : 1);
        if (!b) return next;
        branches[i] = b;
        b[0] = &v->v.items[i];
        for (k = 0, n = 1; one && !e->out->loose && k < v->n && c->r == INFER_OK; k++) {
            if (k == i) continue;
            pair[0] = &v->v.items[i];
            pair[1] = &v->v.items[k];
            if (!infer__schema_empty(c, pair, 3)) b[n++] = infer__schema_not(c, pair[1]);
        }
    }
    return branches && c->r == INFER_OK ? infer__choice_push(e, branches, (uint32_t)v->n, t, next) : next;
}

/* One of two lists of at most two schemas (NULL = none). */
static infer__choice *infer__expand_two(infer__expand *e, const infer__todo *t, const infer_json *a1,
                                        const infer_json *a2, const infer_json *b1, const infer_json *b2,
                                        infer__choice *next) {
    const infer_json *const **branches = (const infer_json *const **)infer__schema_get_mem(e->c, 2, sizeof *branches);
    const infer_json **a = infer__branch(e, 2), **b = infer__branch(e, 2);
    if (!branches || !a || !b) return next;
    a[0] = a1;
    a[a1 != NULL] = a2 ? a2 : a[a1 != NULL];
    b[0] = b1;
    b[b1 != NULL] = b2 ? b2 : b[b1 != NULL];
    branches[0] = a;
    branches[1] = b;
    return infer__choice_push(e, branches, 2, t, next);
}

/* dependentRequired, dependentSchemas, dependencies: a member that is absent, or there with what it asks for. */
static infer__choice *infer__expand_dependent(infer__expand *e, const infer__todo *t, const char *key,
                                              infer__choice *next) {
    const infer_json *map = infer__schema_key(t->node, key);
    uint64_t i;
    if (!map) return next;
    if (map->kind != INFER_JSON_OBJECT) infer__schema_fail(e->c, map, INFER_ERR_FORMAT, "an object is expected");
    for (i = 0; e->c->r == INFER_OK && i < map->n; i++) {
        const infer_json *name = &map->v.items[2 * i], *v = name + 1;
        if (v->kind == INFER_JSON_ARRAY) v = infer__schema_pair(e->c, v, "required", v);
        next = infer__expand_two(e, t, infer__schema_absent(e->c, map, name), NULL,
                                 infer__schema_needs(e->c, map, name), v, next);
    }
    return next;
}

static infer__choice *infer__expand_choices(infer__expand *e, const infer__todo *t, infer__choice *next) {
    const infer_json *test = infer__schema_key(t->node, "if"), *yes = infer__schema_key(t->node, "then"),
                     *no = infer__schema_key(t->node, "else");
    next = infer__expand_any(e, t, "anyOf", 0, next);
    next = infer__expand_any(e, t, "oneOf", 1, next);
    if (e->out->loose) return next;
    if (test && (yes || no)) next = infer__expand_two(e, t, test, yes, infer__schema_not(e->c, test), no, next);
    next = infer__expand_dependent(e, t, "dependentRequired", next);
    next = infer__expand_dependent(e, t, "dependentSchemas", next);
    return infer__expand_dependent(e, t, "dependencies", next);
}

static void infer__expand_node(infer__expand *e, const infer_json *node) {
    uint32_t i;
    if (!infer__schema_step(e->c, e->n / 8 + 1)) return;
    for (i = 0; i < e->n; i++) if (INFER__SCHEMA_SAME(e->nodes[i], node)) return;
    if (e->n == e->cap) {
        uint32_t cap = e->cap * 2 + 16;
        void *p = infer__realloc(e->c->mem, e->nodes, cap, sizeof *e->nodes);
        if (!p) {
            infer__schema_no_memory(e->c);
            return;
        }
        e->nodes = (const infer_json **)p;
        e->cap = cap;
    }
    e->nodes[e->n++] = node;
}

static void infer__expand_found(infer__expand *e) {
    infer__alt *a;
    const infer_json **nodes;
    if (e->out->n == INFER__SCHEMA_ALTERNATIVES) {
        infer__schema_no(e->c, e->n ? e->nodes[0] : e->c->root,
                         "more than 500 alternatives of anyOf, oneOf and the like at one place");
        return;
    }
    a = (infer__alt *)infer__schema_get_mem(e->c, 1, sizeof *a);
    nodes = (const infer_json **)infer__schema_get_mem(e->c, (uint64_t)e->n + 1, sizeof *nodes);
    if (!a || !nodes) return;
    if (e->n) memcpy(nodes, e->nodes, e->n * sizeof *nodes);
    a->nodes = nodes;
    a->n = e->n;
    a->types = e->types;
    if (!e->out->last) e->out->last = &e->out->first;
    *e->out->last = a;
    e->out->last = &a->next;
    e->out->n++;
}

static void infer__expand_run(infer__expand *e, infer__todo *todo, infer__choice *choices) {
    infer__schema *c = e->c;
    uint32_t i, n, types;
    uint64_t k;
    for (; todo && infer__schema_step(c, 2);) {
        const infer__todo *t = todo;
        const infer_json *node = t->node, *ref, *all;
        todo = todo->next;
        if (node->kind == INFER_JSON_TRUE || (node->kind == INFER_JSON_OBJECT && node->n == 0)) continue;
        if (node->kind == INFER_JSON_FALSE) return;
        if (node->kind != INFER_JSON_OBJECT) {
            infer__schema_fail(c, node, INFER_ERR_FORMAT, "a schema is an object, true or false");
            return;
        }
        infer__expand_node(e, node);
        e->types &= infer__schema_types(c, node);
        if (e->types == 0) return;
        ref = infer__schema_key(node, "$ref");
        if (ref && (ref = infer__schema_target(c, ref)) != NULL) todo = infer__todo_push(e, ref, t, todo);
        all = infer__schema_list(c, node, "allOf");
        for (k = all ? all->n : 0; k-- > 0 && c->r == INFER_OK;) todo = infer__todo_push(e, &all->v.items[k], t, todo);
        all = infer__schema_key(node, "not");
        if (all && !e->out->loose) todo = infer__todo_push(e, infer__schema_not(c, all), t, todo);
        choices = infer__expand_choices(e, t, choices);
    }
    if (c->r != INFER_OK) return;
    if (!choices) {
        infer__expand_found(e);
        return;
    }
    if (++e->level > INFER__SCHEMA_DEPTH) {
        if (!e->out->loose) infer__schema_no(c, choices->from->node, "more than 64 choices at one place");
        else infer__expand_found(e);
        e->level--;
        return;
    }
    n = e->n;
    types = e->types;
    for (i = 0; i < choices->n && c->r == INFER_OK; i++) {
        const infer_json *const *b = choices->branches[i];
        for (todo = NULL; *b; b++) todo = infer__todo_push(e, *b, choices->from, todo);
        infer__expand_run(e, todo, choices->next);
        e->n = n;
        e->types = types;
        if (e->out->loose && e->out->n > 60) break; /* enough: not empty as far as can be told */
    }
    e->level--;
}

static void infer__schema_expand(infer__schema *c, const infer_json *const *nodes, uint32_t n, infer__alts *out) {
    infer__expand e;
    infer__todo *todo = NULL;
    memset(&e, 0, sizeof e);
    e.c = c;
    e.out = out;
    e.types = INFER__T_ALL;
    while (n-- > 0) todo = infer__todo_push(&e, nodes[n], NULL, todo);
    infer__expand_run(&e, todo, NULL);
    infer__free(c->mem, e.nodes);
}

/* ---- what nothing satisfies ------------------------------------------------------------------------------------- */

static int infer__alt_empty(infer__schema *c, const infer__alt *a) {
    const infer_json *values[1];
    infer__nodes list;
    uint32_t i, min, max;
    uint64_t k;
    if (infer__schema_values(c, a->nodes, a->n, values, 1) == 0) return 1;
    if (a->types == INFER__T_OBJECT) { /* a member that is required and cannot be */
        for (i = 0; i < a->n; i++) {
            const infer_json *r = infer__schema_key(a->nodes[i], "required");
            for (k = 0; r && r->kind == INFER_JSON_ARRAY && k < r->n && c->r == INFER_OK; k++) {
                const infer_json *name = &r->v.items[k];
                memset(&list, 0, sizeof list);
                if (name->kind != INFER_JSON_STRING) continue;
                if (infer__schema_member(c, a, name->s, (size_t)name->n, &list) < 0) return 1;
                if (infer__schema_empty(c, list.v, list.n)) return 1;
            }
        }
        infer__schema_counts(c, a, "minProperties", "maxProperties", &min, &max);
        return min > max;
    }
    if (a->types == INFER__T_ARRAY) {
        infer__schema_counts(c, a, "minItems", "maxItems", &min, &max);
        for (k = 0; k < min && k <= infer__schema_prefixes(c, a) && c->r == INFER_OK; k++) {
            memset(&list, 0, sizeof list);
            if (infer__schema_item(c, a, k, &list) < 0 || infer__schema_empty(c, list.v, list.n)) return 1;
        }
        return min > max;
    }
    if (a->types == INFER__T_STRING) {
        infer__schema_counts(c, a, "minLength", "maxLength", &min, &max);
        return min > max;
    }
    if ((a->types & ~(uint32_t)INFER__T_NUMBER) == 0) return infer__schema_numbers_empty(c, a);
    return 0;
}

static int infer__schema_empty(infer__schema *c, const infer_json *const *nodes, uint32_t n) {
    infer__alts alts;
    infer__alt *a;
    int empty = 1;
    if (n == 0 || c->depth >= 4 || c->r != INFER_OK) return 0;
    c->depth++;
    memset(&alts, 0, sizeof alts);
    alts.loose = 1;
    infer__schema_expand(c, nodes, n, &alts);
    for (a = alts.first; a && empty && alts.n <= 60 && c->r == INFER_OK; a = a->next) empty = infer__alt_empty(c, a);
    c->depth--;
    return empty && alts.n <= 60 && c->r == INFER_OK;
}
