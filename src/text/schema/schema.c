/* schema.c: JSON Schema -> GBNF: the entry point, the table of keywords, rules of sets of schemas.
 *
 * Owns:  infer__schema_gbnf, INFER__KEYWORDS, messages with the JSON pointer of a place.
 * Rules: see schema.h. Rules are made from a queue, so that a schema's depth is no depth of calls here.
 * Start: infer__schema_gbnf; docs/json-schema.md says what users see.
 */
#include "schema.h"

/* ---- failures ----------------------------------------------------------------------------------------------- */

/* Write the JSON pointer of the value that begins at byte `at`; 1 = found. */
static int infer__schema_place(const infer_json *v, uint32_t at, infer__bytes *out) {
    size_t n = out->n, k;
    uint64_t i;
    if (v->at == at) return 1;
    if (v->kind != INFER_JSON_OBJECT && v->kind != INFER_JSON_ARRAY) return 0;
    for (i = 0; i < v->n && !out->failed; i++) {
        const infer_json *item = &v->v.items[v->kind == INFER_JSON_OBJECT ? 2 * i + 1 : i];
        infer__bytes_char(out, '/');
        if (v->kind == INFER_JSON_ARRAY) infer__bytes_format(out, "%llu", (unsigned long long)i);
        else
            for (k = 0; k < item[-1].n; k++) {
                char b = item[-1].s[k];
                if (b == '~' || b == '/') infer__bytes_text(out, b == '~' ? "~0" : "~1");
                else infer__bytes_char(out, b);
            }
        if (infer__schema_place(item, at, out)) return 1;
        out->n = n;
        out->s[n] = 0;
    }
    return 0;
}

static void infer__schema_fail(infer__schema *c, const infer_json *where, infer_result r, const char *what) {
    infer__bytes path;
    if (c->r != INFER_OK) return;
    memset(&path, 0, sizeof path);
    path.mem = c->mem;
    infer__bytes_char(&path, '#');
    if (where && c->root) infer__schema_place(c->root, where->at, &path);
    if (path.failed) infer__schema_no_memory(c);
    else c->r = infer__error(c->err, r, "JSON Schema, at %s: %s", path.s, what);
    infer__bytes_free(&path);
}
static void infer__schema_no(infer__schema *c, const infer_json *where, const char *what) {
    char m[240];
    infer__format(m, sizeof m, "%s: not supported", what);
    infer__schema_fail(c, where, INFER_ERR_UNSUPPORTED, m);
}
static void infer__schema_no_memory(infer__schema *c) {
    if (c->r == INFER_OK) c->r = infer__error(c->err, INFER_ERR_MEMORY, "JSON Schema: out of memory");
}
static int infer__schema_step(infer__schema *c, uint64_t n) {
    c->steps += n;
    if (c->steps > INFER__SCHEMA_STEPS)
        infer__schema_fail(c, NULL, INFER_ERR_UNSUPPORTED, "the schema is too much work: too many combinations");
    else if (!infer__watch_work(c->watch, n) && c->r == INFER_OK)
        c->r = infer__watch_error(c->watch, "compiling a JSON Schema", c->err);
    return c->r == INFER_OK;
}
static void *infer__schema_get_mem(infer__schema *c, uint64_t n, uint64_t size) {
    uint64_t bytes;
    void *p = NULL;
    if (c->r != INFER_OK) return NULL;
    if (infer__mul_ok(n, size, &bytes)) {
        c->bytes += INFER__MAX(bytes, 16); /* as the arena has it */
        if (bytes > c->max_bytes || c->bytes > c->max_bytes)
            infer__schema_fail(c, NULL, INFER_ERR_UNSUPPORTED,
                               "the schema takes too much memory: too many combinations");
        if (!infer__schema_step(c, bytes / 16)) return NULL;
        p = infer__arena_alloc(&c->arena, bytes);
    }
    if (!p) infer__schema_no_memory(c);
    return p;
}

/* ---- keywords --------------------------------------------------------------------------------------------------- */

/* Keywords that constrain. A word that is not here is an annotation or of an extension, and ignored, as the standard
 * has it. types: where the keyword matters; how: what happens to it. */
enum { INFER__KEY_YES, INFER__KEY_LITERALS /* only where literals are checked */, INFER__KEY_NO };
static const struct { const char *name; uint32_t types; int32_t how; } INFER__KEYWORDS[] = {
    {"$ref", INFER__T_ALL, INFER__KEY_YES},
    {"allOf", INFER__T_ALL, INFER__KEY_YES},
    {"anyOf", INFER__T_ALL, INFER__KEY_YES},
    {"oneOf", INFER__T_ALL, INFER__KEY_YES},
    {"not", INFER__T_ALL, INFER__KEY_YES},
    {"if", INFER__T_ALL, INFER__KEY_YES},
    {"type", INFER__T_ALL, INFER__KEY_YES},
    {"enum", INFER__T_ALL, INFER__KEY_YES},
    {"const", INFER__T_ALL, INFER__KEY_YES},
    {"minimum", INFER__T_NUMBER, INFER__KEY_YES},
    {"maximum", INFER__T_NUMBER, INFER__KEY_YES},
    {"exclusiveMinimum", INFER__T_NUMBER, INFER__KEY_YES},
    {"exclusiveMaximum", INFER__T_NUMBER, INFER__KEY_YES},
    {"multipleOf", INFER__T_NUMBER, INFER__KEY_YES},
    {"minLength", INFER__T_STRING, INFER__KEY_YES},
    {"maxLength", INFER__T_STRING, INFER__KEY_YES},
    {"pattern", INFER__T_STRING, INFER__KEY_YES},
    {"format", INFER__T_STRING, INFER__KEY_YES},
    {"items", INFER__T_ARRAY, INFER__KEY_YES},
    {"prefixItems", INFER__T_ARRAY, INFER__KEY_YES},
    {"additionalItems", INFER__T_ARRAY, INFER__KEY_YES},
    {"minItems", INFER__T_ARRAY, INFER__KEY_YES},
    {"maxItems", INFER__T_ARRAY, INFER__KEY_YES},
    {"uniqueItems", INFER__T_ARRAY, INFER__KEY_YES},
    {"contains", INFER__T_ARRAY, INFER__KEY_LITERALS},
    {"unevaluatedItems", INFER__T_ARRAY, INFER__KEY_NO},
    {"properties", INFER__T_OBJECT, INFER__KEY_YES},
    {"patternProperties", INFER__T_OBJECT, INFER__KEY_YES},
    {"additionalProperties", INFER__T_OBJECT, INFER__KEY_YES},
    {"propertyNames", INFER__T_OBJECT, INFER__KEY_YES},
    {"required", INFER__T_OBJECT, INFER__KEY_YES},
    {"minProperties", INFER__T_OBJECT, INFER__KEY_YES},
    {"maxProperties", INFER__T_OBJECT, INFER__KEY_YES},
    {"dependentRequired", INFER__T_OBJECT, INFER__KEY_YES},
    {"dependentSchemas", INFER__T_OBJECT, INFER__KEY_YES},
    {"dependencies", INFER__T_OBJECT, INFER__KEY_YES},
    {"unevaluatedProperties", INFER__T_OBJECT, INFER__KEY_NO},
    {"$dynamicRef", INFER__T_ALL, INFER__KEY_NO},
    {"$recursiveRef", INFER__T_ALL, INFER__KEY_NO},
    {"extends", INFER__T_ALL, INFER__KEY_NO},      /* draft 3 */
    {"disallow", INFER__T_ALL, INFER__KEY_NO},     /* draft 3 */
    {"divisibleBy", INFER__T_NUMBER, INFER__KEY_NO}}; /* draft 3 */

static const infer_json *infer__schema_key(const infer_json *node, const char *name) {
    return infer__json_get(node, name, strlen(name));
}
static int infer__schema_is(const infer_json *text, const char *s) {
    size_t n = strlen(s);
    return text->kind == INFER_JSON_STRING && text->n == n && memcmp(text->s, s, n) == 0;
}
static int infer__schema_constrains(const infer_json *keyword) {
    size_t i;
    for (i = 0; i < INFER__COUNT(INFER__KEYWORDS); i++)
        if (infer__schema_is(keyword, INFER__KEYWORDS[i].name)) return 1;
    return 0;
}

static void infer__schema_refuse(infer__schema *c, const infer_json *node, uint32_t types, int checking) {
    char m[80];
    size_t i;
    for (i = 0; i < INFER__COUNT(INFER__KEYWORDS); i++) {
        const infer_json *v;
        if (INFER__KEYWORDS[i].how == INFER__KEY_YES || !(INFER__KEYWORDS[i].types & types)) continue;
        if (checking && INFER__KEYWORDS[i].how == INFER__KEY_LITERALS) continue;
        v = infer__schema_key(node, INFER__KEYWORDS[i].name);
        if (!v || v->kind == INFER_JSON_TRUE) continue; /* unevaluatedItems: true */
        infer__format(m, sizeof m, "\"%s\"", INFER__KEYWORDS[i].name);
        infer__schema_no(c, v, m);
    }
}

/* A count: whole and not negative. Too large for 32 bits is as good as no bound above, and as good as none fits. */
static uint32_t infer__schema_count(infer__schema *c, const infer_json *v) {
    infer__exact d;
    uint64_t n = 0;
    int64_t i;
    if (v->kind != INFER_JSON_INT && v->kind != INFER_JSON_FLOAT) {
        infer__schema_fail(c, v, INFER_ERR_FORMAT, "a number is expected");
        return 0;
    }
    d = infer__exact_of(c, v);
    if ((d.negative && d.n) || !infer__exact_whole(&d)) {
        infer__schema_fail(c, v, INFER_ERR_FORMAT, "a whole number that is not negative is expected");
        return 0;
    }
    if (d.point > 9) return INFER__SX_MANY - 1;
    for (i = 0; i < d.point; i++) n = n * 10 + (uint64_t)infer__exact_digit(&d, d.point, i);
    return (uint32_t)n;
}

static void infer__schema_counts(infer__schema *c, const infer__alt *a, const char *min_name, const char *max_name,
                                 uint32_t *min, uint32_t *max) {
    uint32_t i, n;
    *min = 0;
    *max = INFER__SX_MANY;
    for (i = 0; i < a->n; i++) {
        const infer_json *v = infer__schema_key(a->nodes[i], min_name);
        if (v && (n = infer__schema_count(c, v)) > *min) *min = n;
        v = infer__schema_key(a->nodes[i], max_name);
        if (v && (n = infer__schema_count(c, v)) < *max) *max = n;
    }
}

/* ---- sets of schemas and their rules ----------------------------------------------------------------------------- */

static void infer__nodes_add(infer__schema *c, infer__nodes *list, const infer_json *node) {
    if (list->n == list->cap) {
        uint32_t cap = list->cap * 2 + 4;
        const infer_json **v = (const infer_json **)infer__schema_get_mem(c, cap, sizeof *v);
        if (!v) return;
        if (list->n) memcpy(v, list->v, list->n * sizeof *v);
        list->v = v;
        list->cap = cap;
    }
    list->v[list->n++] = node;
}

/* The enum or const (*one = 1) among schemas that all must hold, followed through $ref and allOf; NULL = none. */
static const infer_json *infer__schema_enum(infer__schema *c, const infer_json *node, int depth, int *one) {
    const infer_json *v, *all;
    uint64_t i;
    if (node->kind != INFER_JSON_OBJECT || depth > INFER__SCHEMA_DEPTH || !infer__schema_step(c, 1)) return NULL;
    v = infer__schema_key(node, "const");
    *one = v != NULL;
    if (v) return v;
    v = infer__schema_key(node, "enum");
    if (v && v->kind != INFER_JSON_ARRAY) infer__schema_fail(c, v, INFER_ERR_FORMAT, "an array of values is expected");
    if (v) return c->r == INFER_OK ? v : NULL;
    v = infer__schema_key(node, "$ref");
    if (v && (v = infer__schema_target(c, v)) != NULL && (v = infer__schema_enum(c, v, depth + 1, one)) != NULL)
        return v;
    all = infer__schema_key(node, "allOf");
    for (i = 0, v = NULL; all && all->kind == INFER_JSON_ARRAY && i < all->n && !v; i++)
        v = infer__schema_enum(c, &all->v.items[i], depth + 1, one);
    return v;
}

/* Those literals that satisfy all n schemas; 0 = there is no enum. */
static int infer__schema_literals(infer__schema *c, const infer_json *const *nodes, uint32_t n, infer__nodes *out) {
    const infer_json *list = NULL;
    uint64_t i, count;
    uint32_t k;
    int one = 0;
    memset(out, 0, sizeof *out);
    for (k = 0; k < n && !list && c->r == INFER_OK; k++) list = infer__schema_enum(c, nodes[k], 0, &one);
    if (!list) return 0;
    count = one ? 1 : list->n;
    for (i = 0; i < count && c->r == INFER_OK; i++) {
        const infer_json *v = one ? list : &list->v.items[i];
        for (k = 0; k < n && infer__schema_holds(c, nodes[k], v, 0); k++) continue;
        if (k == n) infer__nodes_add(c, out, v);
    }
    return c->r == INFER_OK;
}

static uint32_t infer__schema_values(infer__schema *c, const infer_json *const *nodes, uint32_t n,
                                     const infer_json **out, uint32_t most) {
    infer__nodes list;
    if (!infer__schema_literals(c, nodes, n, &list) || list.n > most) return UINT32_MAX;
    if (list.n) memcpy(out, list.v, list.n * sizeof *out);
    return list.n;
}

static const infer__sx *infer__schema_enumerated(infer__schema *c, const infer__nodes *list) {
    const infer__sx **items = (const infer__sx **)infer__schema_get_mem(c, (uint64_t)list->n + 1, sizeof *items);
    uint32_t i;
    if (!items) return &INFER__SX_NONE;
    for (i = 0; i < list->n; i++) items[i] = infer__schema_literal(c, list->v[i]);
    return infer__sx_alt(c, items, list->n);
}

/* What satisfies one alternative, type by type. */
static const infer__sx *infer__schema_alternative(infer__schema *c, const infer__alt *a) {
    const infer__sx *items[8];
    infer__nodes list;
    uint32_t i, n = 0, plain = 0;
    if (infer__schema_literals(c, a->nodes, a->n, &list)) return infer__schema_enumerated(c, &list);
    for (i = 0; i < a->n; i++) infer__schema_refuse(c, a->nodes[i], a->types, 0);
    if (a->types & INFER__T_OBJECT) items[n++] = infer__schema_object(c, a);
    if (a->types & INFER__T_ARRAY) items[n++] = infer__schema_array(c, a);
    if (a->types & INFER__T_STRING) items[n++] = infer__schema_string(c, a);
    if (a->types & INFER__T_NUMBER) items[n++] = infer__schema_numbers(c, a);
    for (i = 0; i < n; i++) plain += items[i]->kind == INFER__SX_SHARED;
    if (a->types == INFER__T_ALL && plain == 4) return infer__sx_shared(c, INFER__SX_VALUE);
    if ((a->types & INFER__T_TRUE) && (a->types & INFER__T_FALSE)) items[n++] = infer__sx_shared(c, INFER__SX_BOOLEAN);
    else if (a->types & INFER__T_TRUE) items[n++] = infer__sx_word(c, infer__sx_constant(c, INFER_JSON_TRUE));
    else if (a->types & INFER__T_FALSE) items[n++] = infer__sx_word(c, infer__sx_constant(c, INFER_JSON_FALSE));
    if (a->types & INFER__T_NULL) items[n++] = infer__sx_word(c, infer__sx_constant(c, INFER_JSON_NULL));
    return c->r == INFER_OK ? infer__sx_alt(c, items, n) : &INFER__SX_NONE;
}

static const infer__sx *infer__schema_body(infer__schema *c, const infer__schema_set *set) {
    const infer__sx **items, *x;
    infer__nodes list;
    infer__alts alts;
    infer__alt *a;
    uint32_t n = 0;
    if (infer__schema_literals(c, set->nodes, set->n, &list)) return infer__schema_enumerated(c, &list);
    memset(&alts, 0, sizeof alts);
    infer__schema_expand(c, set->nodes, set->n, &alts);
    items = (const infer__sx **)infer__schema_get_mem(c, (uint64_t)alts.n + 1, sizeof *items);
    if (!items) return &INFER__SX_NONE;
    for (a = alts.first; a && c->r == INFER_OK; a = a->next) {
        x = infer__schema_alternative(c, a);
        if (x->kind == INFER__SX_SHARED && x->n == INFER__SX_VALUE) return x;
        items[n++] = x;
    }
    return c->r == INFER_OK ? infer__sx_alt(c, items, n) : &INFER__SX_NONE;
}

static int infer__schema_sets_grow(infer__schema *c) {
    uint32_t i, k, cap = c->cap_sets * 2 + 32, slots = cap * 4;
    void *p = infer__realloc(c->mem, c->sets, cap, sizeof *c->sets);
    if (p) c->sets = (infer__schema_set *)p;
    p = p ? infer__schema_get_mem(c, slots, sizeof *c->slots) : NULL;
    if (!p) {
        infer__schema_no_memory(c);
        return 0;
    }
    c->slots = (uint32_t *)p;
    c->n_slots = slots;
    c->cap_sets = cap;
    for (i = 0; i < c->n_sets; i++) {
        for (k = c->sets[i].hash % slots; c->slots[k]; k = (k + 1) % slots) continue;
        c->slots[k] = i + 1;
    }
    return 1;
}

/* What a schema that is no more than a $ref refers to; else itself. */
static const infer_json *infer__schema_real(infer__schema *c, const infer_json *node) {
    uint32_t hops;
    uint64_t i;
    for (hops = 0; hops < INFER__SCHEMA_DEPTH && node->kind == INFER_JSON_OBJECT; hops++) {
        const infer_json *ref = infer__schema_key(node, "$ref");
        for (i = 0; ref && i < node->n; i++)
            if (&node->v.items[2 * i + 1] != ref && infer__schema_constrains(&node->v.items[2 * i])) return node;
        if (!ref || (ref = infer__schema_target(c, ref)) == NULL) return node;
        node = ref;
    }
    return node; /* if it was a circle, expanding finds it */
}

static const infer__sx *infer__schema_rule(infer__schema *c, const infer_json *const *nodes, uint32_t n) {
    infer__schema_set set, *known;
    uint32_t i, k;
    memset(&set, 0, sizeof set);
    set.nodes = (const infer_json **)infer__schema_get_mem(c, (uint64_t)n + 1, sizeof *set.nodes);
    set.key = (uintptr_t *)infer__schema_get_mem(c, (uint64_t)n + 1, sizeof *set.key);
    if (!set.nodes || !set.key || !infer__schema_step(c, (uint64_t)n * n / 16 + 1)) return &INFER__SX_NONE;
    for (i = 0; i < n; i++) {
        const infer_json *node = infer__schema_real(c, nodes[i]);
        uintptr_t key = (uintptr_t)node->v.items;
        if (node->kind == INFER_JSON_FALSE) return &INFER__SX_NONE;
        if (node->kind == INFER_JSON_TRUE || (node->kind == INFER_JSON_OBJECT && node->n == 0)) continue;
        if (node->kind != INFER_JSON_OBJECT) {
            infer__schema_fail(c, node, INFER_ERR_FORMAT, "a schema is an object, true or false");
            return &INFER__SX_NONE;
        }
        for (k = set.n; k > 0 && set.key[k - 1] > key; k--) continue;
        if (k > 0 && set.key[k - 1] == key) continue;
        memmove(set.key + k + 1, set.key + k, (set.n - k) * sizeof key);
        set.key[k] = key;
        set.nodes[set.n++] = node;
    }
    if (set.n == 0) return infer__sx_shared(c, INFER__SX_VALUE);
    set.hash = (uint32_t)infer__fnv(INFER__FNV, set.key, (uint64_t)set.n * sizeof *set.key);
    if (c->n_sets == c->cap_sets && !infer__schema_sets_grow(c)) return &INFER__SX_NONE;
    for (i = set.hash % c->n_slots; c->slots[i]; i = (i + 1) % c->n_slots) {
        known = &c->sets[c->slots[i] - 1];
        if (known->n == set.n && memcmp(known->key, set.key, set.n * sizeof *set.key) == 0)
            return infer__sx_ref(c, known->rule);
    }
    set.rule = infer__sx_rule_new(c);
    if (c->r != INFER_OK) return &INFER__SX_NONE;
    c->sets[c->n_sets++] = set;
    c->slots[i] = c->n_sets;
    return infer__sx_ref(c, set.rule);
}

/* ---- the way in -------------------------------------------------------------------------------------------------- */

static void infer__schema_begin(infer__schema *c, infer__mem *mem, infer__watch *watch, size_t n, infer_error *err) {
    memset(c, 0, sizeof *c);
    c->mem = c->arena.mem = mem;
    c->err = err;
    c->watch = watch;
    c->max_bytes = INFER__SCHEMA_MEMORY + 8 * (uint64_t)n;
    c->nested_ids = -1;
    c->as = INFER__AS_JSON;
    if (n > INFER__SCHEMA_BYTES) infer__schema_fail(c, NULL, INFER_ERR_UNSUPPORTED, "more than 8 MiB");
}

/* The bodies of all sets. */
static void infer__schema_bodies(infer__schema *c) {
    while (c->next < c->n_sets && c->r == INFER_OK) {
        infer__schema_set set = c->sets[c->next++];
        infer__sx_define(c, set.rule, infer__schema_body(c, &set));
    }
}

static const infer__sx *infer__schema_args(infer__schema *c, infer__args *args) {
    const infer__sx **items;
    infer__alts alts;
    infer__alt *a;
    infer__nodes list;
    uint32_t n = 0, i;
    memset(&alts, 0, sizeof alts);
    infer__schema_expand(c, &c->root, 1, &alts);
    items = (const infer__sx **)infer__schema_get_mem(c, (uint64_t)alts.n + 1, sizeof *items);
    if (!items) return &INFER__SX_NONE;
    for (a = alts.first; a && c->r == INFER_OK; a = a->next) {
        if (!(a->types & INFER__T_OBJECT)) continue;
        if (infer__schema_literals(c, a->nodes, a->n, &list)) infer__schema_no(c, a->nodes[0], "arguments by an enum");
        for (i = 0; i < a->n; i++) infer__schema_refuse(c, a->nodes[i], INFER__T_OBJECT, 0);
        c->args = args;
        items[n++] = infer__schema_object(c, a);
        c->args = NULL;
    }
    infer__schema_bodies(c);
    return c->r == INFER_OK ? infer__sx_alt(c, items, n) : &INFER__SX_NONE;
}

static infer_result infer__schema_end(infer__schema *c, const infer__sx *root, infer__bytes *out) {
    infer__bytes text;
    memset(&text, 0, sizeof text);
    text.mem = c->mem;
    text.limit = INFER__SCHEMA_OUT;
    if (c->r == INFER_OK) infer__sx_write(c, &text, root);
    if (c->r == INFER_OK && text.failed && text.n >= INFER__SCHEMA_OUT / 2)
        infer__schema_fail(c, NULL, INFER_ERR_UNSUPPORTED, "the grammar is larger than 4 MiB");
    if (c->r == INFER_OK && text.failed) infer__schema_no_memory(c);
    if (c->r == INFER_OK) infer__bytes_put(out, text.s, text.n);
    if (c->r == INFER_OK && out->failed) infer__schema_no_memory(c);
    infer__bytes_free(&text);
    infer__free(c->mem, c->rules);
    infer__free(c->mem, c->sets);
    infer__arena_free(&c->arena);
    if (c->r == INFER_OK) infer__error_clear(c->err);
    return c->r;
}

static infer_result infer__schema_gbnf(infer__bytes *out, infer__mem *mem, infer__watch *watch, const char *schema,
                                       size_t n, infer_error *err) {
    infer__schema c;
    const infer__sx *root = &INFER__SX_NONE;
    infer__schema_begin(&c, mem, watch, n, err);
    if (c.r == INFER_OK) c.r = infer__json_parse(&c.root, &c.arena, schema, n, err);
    if (c.r == INFER_OK) root = infer__schema_rule(&c, &c.root, 1);
    infer__schema_bodies(&c);
    return infer__schema_end(&c, root, out);
}
