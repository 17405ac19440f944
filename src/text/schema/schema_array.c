/* schema_array.c: arrays: prefixItems, items (both forms), how many there may be.
 *
 * Rules: uniqueItems is possible where at most one item is, or where the items are few literals: then the grammar has a
 *        rule for each set of those that were used.
 * Start: infer__schema_array.
 */
#include "schema.h"

enum { INFER__UNIQUE_MOST = 7 }; /* literals: 2^7 rules */

/* The schemas that node has one by one; NULL when none. */
static const infer_json *infer__schema_tuple(infer__schema *c, const infer_json *node) {
    const infer_json *v = infer__schema_key(node, "prefixItems"), *items = infer__schema_key(node, "items");
    if (!v && items && items->kind == INFER_JSON_ARRAY) v = items;
    if (v && v->kind != INFER_JSON_ARRAY) {
        infer__schema_fail(c, v, INFER_ERR_FORMAT, "an array of schemas is expected");
        return NULL;
    }
    return v;
}
static uint32_t infer__schema_prefixes(infer__schema *c, const infer__alt *a) {
    uint32_t i, most = 0;
    for (i = 0; i < a->n; i++) {
        const infer_json *v = infer__schema_tuple(c, a->nodes[i]);
        if (v && v->n > INFER__SCHEMA_COUNT) infer__schema_no(c, v, "more than 100000 prefixItems");
        else if (v) most = INFER__MAX(most, (uint32_t)v->n);
    }
    return most;
}

static int infer__schema_item(infer__schema *c, const infer__alt *a, uint64_t i, infer__nodes *list) {
    uint32_t k;
    for (k = 0; k < a->n; k++) {
        const infer_json *node = a->nodes[k], *tuple = infer__schema_tuple(c, node),
                         *items = infer__schema_key(node, "items"), *v;
        if (items && items->kind == INFER_JSON_ARRAY) items = infer__schema_key(node, "additionalItems");
        v = tuple && i < tuple->n ? &tuple->v.items[i] : items;
        if (v && v->kind == INFER_JSON_FALSE) return -1;
        if (v) infer__nodes_add(c, list, v);
    }
    return 0;
}

static const infer__sx *infer__array_item(infer__schema *c, const infer__alt *a, uint64_t i) {
    infer__nodes list;
    const infer__sx *x;
    memset(&list, 0, sizeof list);
    x = infer__schema_item(c, a, i, &list) < 0 ? &INFER__SX_NONE : infer__schema_rule(c, list.v, list.n);
    return x;
}

/* Different items, each of a few literals: a rule for each set of literals that were not used yet. */
static const infer__sx *infer__array_unique(infer__schema *c, const infer__alt *a, const infer_json *where,
                                            uint32_t min, uint32_t max) {
    const infer__sx *items[INFER__UNIQUE_MOST + 1], *value[INFER__UNIQUE_MOST],
        *comma = infer__sx_pair(c, infer__sx_word(c, ","), infer__sx_shared(c, INFER__SX_WS));
    const infer_json *v[INFER__UNIQUE_MOST];
    infer__nodes list;
    uint32_t i, k, n = 0, used, first, count;
    memset(&list, 0, sizeof list);
    if (infer__schema_prefixes(c, a) == 0 && infer__schema_item(c, a, 0, &list) == 0)
        n = infer__schema_values(c, list.v, list.n, v, INFER__UNIQUE_MOST);
    if (n == UINT32_MAX || infer__schema_prefixes(c, a) > 0 || c->r != INFER_OK) {
        infer__schema_no(c, where, "uniqueItems, but for at most 1 item or items that are one of at most 7 literals");
        return &INFER__SX_NONE;
    }
    for (i = 0; i < n; i++)
        for (k = i + 1; k < n; k++)
            if (infer__json_equal(c, v[i], v[k], 0)) v[k--] = v[--n];
    for (i = 0; i < n; i++) value[i] = infer__schema_literal(c, v[i]);
    first = c->n_rules;
    for (used = 0; used < (uint32_t)1 << n; used++) infer__sx_rule_new(c);
    for (used = 0; used < (uint32_t)1 << n && c->r == INFER_OK; used++) { /* used: bits */
        for (count = 0, i = 0; i < n; i++) count += used >> i & 1;
        k = 0;
        if (count >= min) items[k++] = count ? infer__sx_shared(c, INFER__SX_WS) : &INFER__SX_NOTHING;
        for (i = 0; i < n && count < max; i++) {
            const infer__sx *x = infer__sx_pair(c, value[i], infer__sx_ref(c, first + (used | (uint32_t)1 << i)));
            if (!(used >> i & 1)) items[k++] = count ? infer__sx_pair(c, comma, x) : x;
        }
        infer__sx_define(c, first + used, infer__sx_alt(c, items, k));
    }
    return infer__sx_ref(c, first);
}

static int infer__array_wants_unique(infer__schema *c, const infer__alt *a, const infer_json **where) {
    uint32_t i;
    int unique = 0;
    for (i = 0; i < a->n; i++) {
        const infer_json *v = infer__schema_key(a->nodes[i], "uniqueItems");
        if (v && v->kind != INFER_JSON_TRUE && v->kind != INFER_JSON_FALSE)
            infer__schema_fail(c, v, INFER_ERR_FORMAT, "true or false is expected");
        if (!v || v->kind != INFER_JSON_TRUE) continue;
        unique = 1;
        *where = v;
    }
    return unique;
}

/* The items and the white space after them; nothing when there are none. */
static const infer__sx *infer__array_items(infer__schema *c, const infer__alt *a, uint32_t prefix, uint32_t min,
                                           uint32_t max) {
    const infer__sx *ws = infer__sx_shared(c, INFER__SX_WS), *comma, *x, *item, *tail;
    uint32_t i, low, high;
    comma = infer__sx_pair(c, infer__sx_word(c, ","), ws);
    if (prefix > max) prefix = max;
    item = prefix < max ? infer__array_item(c, a, prefix) : &INFER__SX_NONE;
    low = min > prefix ? min - prefix : 0;
    high = max == INFER__SX_MANY ? max : max - prefix;
    if (prefix == 0) { /* item (, item)* */
        if (high == 0) return &INFER__SX_NOTHING;
        x = infer__sx_rep(c, infer__sx_pair(c, comma, item), low ? low - 1 : 0,
                          high == INFER__SX_MANY ? high : high - 1);
        x = infer__sx_pair(c, infer__sx_pair(c, item, x), ws);
        return infer__sx_rep(c, x, low > 0, 1);
    }
    tail = infer__sx_pair(c, infer__sx_rep(c, infer__sx_pair(c, comma, item), low, high), ws);
    for (i = prefix; i-- > 0;) { /* what follows item i - 1 */
        uint32_t rule = infer__sx_rule_new(c);
        x = infer__sx_pair(c, infer__array_item(c, a, i), tail);
        if (i > 0) x = infer__sx_pair(c, comma, x);
        if (i >= min) x = infer__sx_or(c, x, i > 0 ? ws : &INFER__SX_NOTHING);
        if (c->r != INFER_OK) return x;
        infer__sx_define(c, rule, x);
        tail = infer__sx_ref(c, rule);
    }
    return tail;
}

static const infer__sx *infer__schema_array(infer__schema *c, const infer__alt *a) {
    static const char *const KEYS[] = {"items", "prefixItems", "minItems", "maxItems", "uniqueItems"};
    const infer_json *where = NULL;
    const infer__sx *x;
    uint32_t i, k, plain = 1, min, max, prefix;
    for (i = 0; i < a->n; i++)
        for (k = 0; k < INFER__COUNT(KEYS); k++)
            if (infer__schema_key(a->nodes[i], KEYS[k])) plain = 0;
    if (plain) return infer__sx_shared(c, INFER__SX_ARRAY);
    infer__schema_counts(c, a, "minItems", "maxItems", &min, &max);
    prefix = infer__schema_prefixes(c, a);
    if (min > max || c->r != INFER_OK) return &INFER__SX_NONE;
    if (min > INFER__SCHEMA_COUNT) {
        infer__schema_no(c, a->nodes[0], "minItems above 100000");
        return &INFER__SX_NONE;
    }
    if (max != INFER__SX_MANY) max = INFER__MIN(max, INFER__SCHEMA_COUNT); /* fewer than allowed is still valid */
    if (infer__array_wants_unique(c, a, &where) && max > 1) x = infer__array_unique(c, a, where, min, max);
    else x = infer__array_items(c, a, prefix, min, max);
    x = infer__sx_pair(c, infer__sx_pair(c, infer__sx_word(c, "["), infer__sx_shared(c, INFER__SX_WS)), x);
    return infer__sx_pair(c, x, infer__sx_word(c, "]"));
}
