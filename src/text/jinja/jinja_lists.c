/* jinja_lists.c: the filters of lists: map, select, sort, groupby and similar.
 *
 * Rules: Jinja's lazy results are computed at once here, as INFER__JV_ITER: they, too, can be iterated once.
 */
#include "jinja.h"

/* An attribute to look at: "a.b.0", a number, or nothing. */
static infer__jv infer__jattr_get(infer__jj *j, infer__jv v, infer__jv attribute, infer__jv none) {
    const infer__jstr *s;
    size_t from, to;
    if (!infer__jv_given(attribute) || attribute.kind == INFER__JV_NONE) return v;
    if (attribute.kind == INFER__JV_INT) {
        v = infer__jj_item(j, v, attribute);
        return v.kind == INFER__JV_UNDEFINED && infer__jv_given(none) ? none : v;
    }
    s = infer__jarg_str(j, infer__jv_str(j, attribute));
    for (from = 0; s && from <= s->n && j->r == INFER_OK; from = to + 1) {
        size_t i;
        int64_t index = 0;
        for (to = from; to < s->n && s->s[to] != '.'; to++) {}
        if (!infer__jj_scan(j, to - from)) break;
        for (i = from; i < to && s->s[i] >= '0' && s->s[i] <= '9' && index < 1000000; i++)
            index = index * 10 + s->s[i] - '0';
        v = infer__jj_item(j, v, i == to && to > from ? infer__jv_member(infer__jv_int(index), s->marks || s->mark)
                                                      : infer__jv_part(j, s, from, to));
        if (v.kind == INFER__JV_UNDEFINED && infer__jv_given(none)) v = none;
    }
    return v;
}
static infer__jv infer__jv_missing(void) {
    infer__jv v;
    memset(&v, 0, sizeof v);
    v.flag = 1;
    return v;
}
/* For comparing: strings in lower case unless the case counts. */
static infer__jv infer__jattr_key(infer__jj *j, infer__jv v, int case_sensitive) {
    if (case_sensitive || v.kind != INFER__JV_STRING) return v;
    return infer__jstr_case(j, v.u.s, INFER__JCASE_LOWER);
}

static infer__jv infer__jfilter_list(infer__jj *j, const infer__jcall *c) {
    infer__jcall to = *c;
    infer__jlist *l = infer__jv_items(j, c->self);
    infer__jv v = infer__jv_list(j, INFER__JV_LIST);
    if (!l || j->r != INFER_OK) return v;
    v.u.l = l;
    to.self = v;
    return infer__jlist_copy(j, &to);
}
static infer__jv infer__jfilter_first(infer__jj *j, const infer__jcall *c) {
    infer__jlist *l = infer__jv_items(j, c->self);
    return l && l->n ? l->items[0] : infer__jv_undefined(j, "there is no first item", 22);
}
static infer__jv infer__jfilter_last(infer__jj *j, const infer__jcall *c) {
    infer__jlist *l;
    if (c->self.kind == INFER__JV_ITER)
        return infer__jj_fail(j, INFER_ERR_FORMAT, "'generator' object is not reversible");
    l = infer__jv_items(j, c->self);
    return l && l->n ? l->items[l->n - 1] : infer__jv_undefined(j, "there is no last item", 21);
}
static infer__jv infer__jfilter_reverse(infer__jj *j, const infer__jcall *c) {
    infer__jv v = c->self;
    infer__jlist *l;
    size_t i;
    if (v.kind == INFER__JV_STRING) {
        infer__jbuf b = infer__jbuf_new(j);
        l = infer__jv_items(j, v);
        for (i = l ? l->n : 0; i-- > 0;) infer__jbuf_str(&b, l->items[i].u.s);
        return infer__jbuf_done(&b);
    }
    l = infer__jv_items(j, v);
    v = infer__jv_list(j, INFER__JV_ITER);
    for (i = l ? l->n : 0; i-- > 0 && infer__jj_work(j, 1);) infer__jlist_add(j, v.u.l, l->items[i]);
    return v;
}
static infer__jv infer__jfilter_items(infer__jj *j, const infer__jcall *c) {
    if (c->self.kind == INFER__JV_UNDEFINED) return infer__jv_list(j, INFER__JV_ITER);
    if (c->self.kind != INFER__JV_DICT)
        return infer__jj_fail(j, INFER_ERR_FORMAT, "can only get item pairs from a mapping");
    return infer__jdict_list(j, c->self.u.d, 3, INFER__JV_ITER, "generator");
}
static infer__jv infer__jfilter_join(infer__jj *j, const infer__jcall *c) {
    infer__jlist *l = infer__jv_items(j, c->self);
    infer__jv parts = infer__jv_list(j, INFER__JV_LIST), sep = infer__jv_view(j, "", 0, 0);
    size_t i;
    if (j->r != INFER_OK) return sep;
    if (infer__jv_given(c->a[0])) sep = infer__jv_str(j, c->a[0]);
    for (i = 0; i < l->n && infer__jj_work(j, 1); i++)
        infer__jlist_add(j, parts.u.l, infer__jattr_get(j, l->items[i], c->a[1], infer__jv_missing()));
    return j->r == INFER_OK ? infer__jstr_join_with(j, sep.u.s, parts.u.l, 1) : sep;
}

/* ---- map, select, reject ----------------------------------------------------------------------------------------- */

/* The arguments of args from number `from` on. */
static infer__jargs infer__jargs_rest(const infer__jargs *args, size_t from) {
    infer__jargs rest = *args;
    from = INFER__MIN(from, args->n);
    rest.v = args->v ? args->v + from : NULL;
    rest.n -= from;
    rest.cap = rest.n;
    return rest;
}
static infer__jv infer__jfilter_map(infer__jj *j, const infer__jcall *c) {
    infer__jlist *l;
    infer__jv out = infer__jv_list(j, INFER__JV_ITER), *attribute, *none, missing = infer__jv_missing();
    infer__jargs rest = infer__jargs_rest(c->args, 1);
    const infer__jfunction *fn = NULL;
    const infer__jstr *name;
    size_t i;
    if (j->r != INFER_OK) return out;
    attribute = c->args->n == 0 && c->args->named ? infer__jdict_name(j, c->args->named, "attribute", 9) : NULL;
    none = attribute ? infer__jdict_name(j, c->args->named, "default", 7) : NULL;
    if (attribute && c->args->named->n > 1u + (none != NULL))
        return infer__jj_fail(j, INFER_ERR_FORMAT, "map: an unexpected argument");
    if (!attribute) {
        if (c->args->n == 0) return infer__jj_fail(j, INFER_ERR_FORMAT, "map needs a filter");
        name = infer__jarg_str(j, c->args->v[0]);
        fn = name ? infer__jinja_filter(name->s, name->n) : NULL;
        if (!fn)
            return infer__jj_fail(j, INFER_ERR_FORMAT, "no filter named '%.*s'",
                                  name ? (int)INFER__MIN(name->n, 100) : 0, name ? name->s : "");
    }
    if (!infer__jv_true(c->self)) return out;
    l = infer__jv_items(j, c->self);
    for (i = 0; l && i < l->n && infer__jj_work(j, 1); i++)
        infer__jlist_add(j, out.u.l, fn ? infer__jj_run_function(j, fn, l->items[i], &rest, c->scope)
                                        : infer__jattr_get(j, l->items[i], *attribute, none ? *none : missing));
    return out;
}
/* Keep the items for which a test (of an attribute, or of the item itself) says `want`. */
static infer__jv infer__jfilter_choose(infer__jj *j, const infer__jcall *c, int of_attribute, int want) {
    infer__jv out = infer__jv_list(j, INFER__JV_ITER);
    infer__jargs rest = infer__jargs_rest(c->args, (size_t)of_attribute + 1);
    const infer__jfunction *fn = NULL;
    infer__jlist *l;
    size_t i;
    if (!infer__jv_true(c->self) || j->r != INFER_OK) return out;
    if (of_attribute && c->args->n == 0)
        return infer__jj_fail(j, INFER_ERR_FORMAT, "the name of an attribute is missing");
    if (c->args->n > (size_t)of_attribute) {
        const infer__jstr *name = infer__jarg_str(j, c->args->v[of_attribute]);
        fn = name ? infer__jinja_test(name->s, name->n) : NULL;
        if (!fn)
            return infer__jj_fail(j, INFER_ERR_FORMAT, "no test named '%.*s'", name ? (int)INFER__MIN(name->n, 100) : 0,
                                  name ? name->s : "");
    }
    l = infer__jv_items(j, c->self);
    for (i = 0; l && i < l->n && infer__jj_work(j, 1); i++) {
        infer__jv v = l->items[i];
        if (of_attribute) v = infer__jattr_get(j, v, c->args->v[0], infer__jv_missing());
        if (fn) v = infer__jj_run_function(j, fn, v, &rest, c->scope);
        if (infer__jv_true(v) == want) infer__jlist_add(j, out.u.l, l->items[i]);
    }
    return out;
}
static infer__jv infer__jfilter_select(infer__jj *j, const infer__jcall *c) {
    return infer__jfilter_choose(j, c, 0, 1);
}
static infer__jv infer__jfilter_reject(infer__jj *j, const infer__jcall *c) {
    return infer__jfilter_choose(j, c, 0, 0);
}
static infer__jv infer__jfilter_selectattr(infer__jj *j, const infer__jcall *c) {
    return infer__jfilter_choose(j, c, 1, 1);
}
static infer__jv infer__jfilter_rejectattr(infer__jj *j, const infer__jcall *c) {
    return infer__jfilter_choose(j, c, 1, 0);
}

/* ---- order ------------------------------------------------------------------------------------------------------- */

/* Sorted by an attribute, as a new list. several = 1: by attributes that are separated by commas, whose values are
 * compared as a list: what is equal in all of them needs no order. */
static infer__jv infer__jv_sorted(infer__jj *j, infer__jv v, infer__jv attribute, infer__jv none, int case_sensitive,
                                  int reverse, int several) {
    infer__jlist *l = infer__jv_items(j, v);
    infer__jv out = infer__jv_list(j, INFER__JV_LIST), keys = infer__jv_list(j, INFER__JV_LIST), part = attribute, key,
              x;
    size_t i;
    for (i = 0; l && i < l->n && infer__jj_work(j, 1); i++) {
        const infer__jstr *s = several && attribute.kind == INFER__JV_STRING ? attribute.u.s : NULL;
        size_t from = 0, to;
        key = infer__jv_list(j, INFER__JV_LIST);
        do {
            for (to = from; s && to < s->n && s->s[to] != ','; to++) {}
            if (!infer__jj_scan(j, to - from)) break;
            if (s) part = infer__jv_part(j, s, from, to);
            x = infer__jattr_key(j, infer__jattr_get(j, l->items[i], part, none), case_sensitive);
            infer__jlist_add(j, key.u.l, x);
            from = to + 1;
        } while (s && from <= s->n && j->r == INFER_OK);
        infer__jlist_add(j, out.u.l, l->items[i]);
        infer__jlist_add(j, keys.u.l, several ? key : x);
    }
    if (j->r == INFER_OK) infer__jlist_sort_by(j, keys.u.l->items, out.u.l->items, out.u.l->n, reverse);
    return out;
}
static infer__jv infer__jfilter_sort(infer__jj *j, const infer__jcall *c) {
    return infer__jv_sorted(j, c->self, c->a[2], infer__jv_missing(), infer__jv_true(c->a[1]),
                           infer__jv_true(c->a[0]), 1);
}
static infer__jv infer__jfilter_dictsort(infer__jj *j, const infer__jcall *c) {
    infer__jv pairs;
    int by_value = infer__jv_is(c->a[1], "value");
    if (infer__jv_given(c->a[1]) && !by_value && !infer__jv_is(c->a[1], "key"))
        return infer__jj_fail(j, INFER_ERR_FORMAT, "dictsort: by must be 'key' or 'value'");
    if (c->self.kind != INFER__JV_DICT) return infer__jj_want(j, "a dict", c->self);
    pairs = infer__jdict_list(j, c->self.u.d, 3, INFER__JV_LIST, "");
    if (j->r != INFER_OK) return pairs;
    return infer__jv_sorted(j, pairs, infer__jv_int(by_value), infer__jv_missing(), infer__jv_true(c->a[0]),
                           infer__jv_true(c->a[2]), 0);
}
static infer__jv infer__jfilter_extreme(infer__jj *j, const infer__jcall *c, int largest) {
    infer__jlist *l = infer__jv_items(j, c->self);
    infer__jv best = infer__jv_none(), best_key = best;
    size_t i;
    if (l && l->n == 0) return infer__jv_undefined(j, "no item in an empty sequence", 28);
    for (i = 0; l && i < l->n && infer__jj_work(j, 1); i++) {
        infer__jv key = infer__jattr_key(j, infer__jattr_get(j, l->items[i], c->a[1], infer__jv_missing()),
                                         infer__jv_true(c->a[0]));
        if (i > 0 && !(largest ? infer__jv_less(j, best_key, key) : infer__jv_less(j, key, best_key))) continue;
        best = l->items[i];
        best_key = key;
    }
    return best;
}
static infer__jv infer__jfilter_max(infer__jj *j, const infer__jcall *c) { return infer__jfilter_extreme(j, c, 1); }
static infer__jv infer__jfilter_min(infer__jj *j, const infer__jcall *c) { return infer__jfilter_extreme(j, c, 0); }

static infer__jv infer__jfilter_unique(infer__jj *j, const infer__jcall *c) {
    infer__jlist *l = infer__jv_items(j, c->self);
    infer__jv out = infer__jv_list(j, INFER__JV_ITER), seen = infer__jv_dict(j);
    size_t i;
    for (i = 0; l && i < l->n && infer__jj_work(j, 1); i++) {
        infer__jv key = infer__jattr_key(j, infer__jattr_get(j, l->items[i], c->a[1], infer__jv_missing()),
                                         infer__jv_true(c->a[0]));
        if (infer__jdict_find(j, seen.u.d, key)) continue;
        infer__jdict_set(j, seen.u.d, key, key);
        infer__jlist_add(j, out.u.l, l->items[i]);
    }
    return out;
}
/* A list of (grouper, list) tuples, which have .grouper and .list too: see infer__jj_attr. */
static infer__jv infer__jfilter_groupby(infer__jj *j, const infer__jcall *c) {
    int case_sensitive = infer__jv_true(c->a[2]);
    infer__jv none = infer__jv_given(c->a[1]) ? c->a[1] : infer__jv_missing();
    infer__jv sorted = infer__jv_sorted(j, c->self, c->a[0], none, case_sensitive, 0, 0),
              out = infer__jv_list(j, INFER__JV_LIST);
    infer__jv group = infer__jv_none(), last = group;
    size_t i;
    for (i = 0; j->r == INFER_OK && i < sorted.u.l->n && infer__jj_work(j, 1); i++) {
        infer__jv value = infer__jattr_get(j, sorted.u.l->items[i], c->a[0], none),
                  key = infer__jattr_key(j, value, case_sensitive);
        if (i == 0 || !infer__jv_equal(j, key, last)) {
            infer__jv pair = infer__jv_list(j, INFER__JV_TUPLE);
            group = infer__jv_list(j, INFER__JV_LIST);
            if (j->r != INFER_OK) break;
            pair.u.l->name = "group";
            infer__jlist_add(j, pair.u.l, value);
            infer__jlist_add(j, pair.u.l, group);
            infer__jlist_add(j, out.u.l, pair);
            last = key;
        }
        infer__jlist_add(j, group.u.l, sorted.u.l->items[i]);
    }
    return out;
}

/* ---- numbers, pieces --------------------------------------------------------------------------------------------- */

static infer__jv infer__jfilter_sum(infer__jj *j, const infer__jcall *c) {
    infer__jlist *l = infer__jv_items(j, c->self);
    infer__jv total = infer__jv_given(c->a[1]) ? c->a[1] : infer__jv_int(0);
    size_t i;
    if (total.kind == INFER__JV_STRING) return infer__jj_fail(j, INFER_ERR_FORMAT, "sum() can't sum strings");
    for (i = 0; l && i < l->n && infer__jj_work(j, 1); i++)
        total = infer__jj_binary(j, '+', total, infer__jattr_get(j, l->items[i], c->a[0], infer__jv_missing()));
    return total;
}
/* Lines of n items; the last one may be filled up. */
static infer__jv infer__jfilter_batch(infer__jj *j, const infer__jcall *c) {
    infer__jlist *l = infer__jv_items(j, c->self);
    infer__jv out = infer__jv_list(j, INFER__JV_ITER), line = infer__jv_list(j, INFER__JV_LIST);
    int64_t n = infer__jarg_int(j, c->a[0], 1);
    int fill = infer__jv_given(c->a[1]) && c->a[1].kind != INFER__JV_NONE;
    size_t i;
    for (i = 0; l && i < l->n && infer__jj_work(j, 1); i++) {
        if ((int64_t)line.u.l->n == n) {
            infer__jlist_add(j, out.u.l, line);
            line = infer__jv_list(j, INFER__JV_LIST);
        }
        infer__jlist_add(j, line.u.l, l->items[i]);
    }
    if (j->r != INFER_OK || line.u.l->n == 0) return out;
    while (fill && (int64_t)line.u.l->n < n && infer__jj_work(j, 1)) infer__jlist_add(j, line.u.l, c->a[1]);
    infer__jlist_add(j, out.u.l, line);
    return out;
}
/* n columns, the first ones longer by one. */
static infer__jv infer__jfilter_slice(infer__jj *j, const infer__jcall *c) {
    infer__jlist *l = infer__jv_items(j, c->self);
    infer__jv out = infer__jv_list(j, INFER__JV_ITER);
    int64_t n = infer__jarg_int(j, c->a[0], 1), k;
    int fill = infer__jv_given(c->a[1]) && c->a[1].kind != INFER__JV_NONE;
    size_t at = 0, each, more;
    if (l && n == 0) infer__jj_fail(j, INFER_ERR_FORMAT, "division by zero");
    if (!l || j->r != INFER_OK || n < 0) return out;
    each = l->n / (size_t)n;
    more = l->n % (size_t)n;
    for (k = 0; k < n && infer__jj_work(j, 1); k++) {
        infer__jv column = infer__jv_list(j, INFER__JV_LIST);
        size_t i, length = each + ((size_t)k < more);
        for (i = 0; i < length && infer__jj_work(j, 1); i++) infer__jlist_add(j, column.u.l, l->items[at++]);
        if (fill && (size_t)k >= more) infer__jlist_add(j, column.u.l, c->a[1]);
        infer__jlist_add(j, out.u.l, column);
    }
    return out;
}
