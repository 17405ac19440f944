/* jinja_methods.c: the methods of strings (the rest), lists and dicts.
 *
 * Owns:  INFER__JSTR_METHODS, INFER__JLIST_METHODS, INFER__JDICT_METHODS: one row per method, as in Python.
 */
#include "jinja.h"

/* ---- strings: padding -------------------------------------------------------------------------------------------- */

static infer__jv infer__jstr_pad(infer__jj *j, const infer__jstr *s, size_t left, size_t right,
                                 const infer__jstr *fill) {
    infer__jbuf b = infer__jbuf_new(j);
    for (; left > 0 && infer__jj_work(j, 1); left--) infer__jbuf_str(&b, fill);
    infer__jbuf_str(&b, s);
    for (; right > 0 && infer__jj_work(j, 1); right--) infer__jbuf_str(&b, fill);
    return infer__jbuf_done(&b);
}
/* how: -1 text to the left, 0 in the middle, 1 to the right. */
static infer__jv infer__jstr_justify(infer__jj *j, const infer__jstr *s, infer__jv width, infer__jv fill, int how) {
    int64_t n = (int64_t)infer__jinja_count(s->s, s->n), w = infer__jarg_int(j, width, 0), more = w > n ? w - n : 0;
    infer__jstr space;
    size_t left;
    if (!infer__jj_scan(j, s->n)) return infer__jv_none();
    memset(&space, 0, sizeof space);
    space.s = " ";
    space.n = 1;
    if (infer__jv_given(fill)) {
        const infer__jstr *f = infer__jarg_str(j, fill);
        if (f && infer__jinja_count(f->s, f->n) != 1)
            infer__jj_fail(j, INFER_ERR_FORMAT, "the fill character must be exactly one character long");
        if (f) space = *f;
    }
    if (w > (int64_t)INT32_MAX)
        return infer__jj_fail(j, INFER_ERR_MEMORY, INFER__JINJA_MEMORY);
    if (j->r != INFER_OK || w <= n) return infer__jv_part(j, s, 0, s->n);
    left = how < 0 ? 0 : how > 0 ? (size_t)more : (size_t)(more / 2 + (more & w & 1)); /* as CPython rounds it */
    return infer__jstr_pad(j, s, left, (size_t)more - left, &space);
}
static infer__jv infer__jstr_ljust(infer__jj *j, const infer__jcall *c) {
    return infer__jstr_justify(j, c->self.u.s, c->a[0], c->a[1], -1);
}
static infer__jv infer__jstr_center(infer__jj *j, const infer__jcall *c) {
    return infer__jstr_justify(j, c->self.u.s, c->a[0], c->a[1], 0);
}
static infer__jv infer__jstr_rjust(infer__jj *j, const infer__jcall *c) {
    return infer__jstr_justify(j, c->self.u.s, c->a[0], c->a[1], 1);
}
static infer__jv infer__jstr_zfill(infer__jj *j, const infer__jcall *c) {
    const infer__jstr *s = c->self.u.s;
    size_t sign = s->n > 0 && (s->s[0] == '-' || s->s[0] == '+');
    infer__jv rest = infer__jv_part(j, s, sign, s->n), zero = infer__jv_view(j, "0", 1, 0);
    int64_t width = infer__jarg_int(j, c->a[0], 0);
    if (j->r != INFER_OK) return rest;
    if (width > 0 && width <= INT32_MAX) width -= (int64_t)sign;
    rest = infer__jstr_justify(j, rest.u.s, infer__jv_int(width), zero, 1);
    return sign && j->r == INFER_OK ? infer__jv_concat(j, infer__jv_part(j, s, 0, 1), rest) : rest;
}
static infer__jv infer__jstr_expandtabs(infer__jj *j, const infer__jcall *c) {
    const infer__jstr *s = c->self.u.s;
    int64_t size = infer__jarg_int(j, c->a[0], 8), column = 0, k;
    infer__jbuf b = infer__jbuf_new(j);
    size_t i;
    for (i = 0; i < s->n && infer__jj_work(j, 1); i++) {
        if (s->s[i] != '\t') {
            infer__jbuf_part(&b, s, i, i + 1);
            if ((s->s[i] & 0xc0) != 0x80) column++;
            if (s->s[i] == '\n' || s->s[i] == '\r') column = 0;
        } else if (size > 0) {
            k = size - column % size;
            if ((uint64_t)k > j->max_memory)
                return infer__jj_fail(j, INFER_ERR_MEMORY, INFER__JINJA_MEMORY);
            column += k;
            for (; k > 0 && infer__jj_work(j, 1); k--) infer__jbuf_put(&b, " ", 1, s->marks ? s->marks[i] : s->mark);
        }
    }
    return infer__jbuf_done(&b);
}

/* ---- strings: what kind of characters ---------------------------------------------------------------------------- */

/* 1 when s is not empty and all its characters are of a class; space: white space counts, and only it. */
static infer__jv infer__jstr_all(infer__jj *j, const infer__jstr *s, uint32_t classes, int space) {
    size_t i, len, paid = 0;
    for (i = 0; i < s->n && infer__jj_chars(j, i, &paid); i += len) {
        uint32_t cp = infer__utf8_next(s->s + i, s->n - i, &len, NULL);
        if (space ? !infer__jinja_space(cp) : !(infer__uc_class(cp) & classes)) return infer__jv_bool(0);
    }
    return infer__jv_bool(s->n > 0);
}
static infer__jv infer__jstr_isalpha(infer__jj *j, const infer__jcall *c) {
    return infer__jstr_all(j, c->self.u.s, INFER__UC_LETTER, 0);
}
static infer__jv infer__jstr_isalnum(infer__jj *j, const infer__jcall *c) {
    return infer__jstr_all(j, c->self.u.s, INFER__UC_LETTER | INFER__UC_NUMBER, 0);
}
static infer__jv infer__jstr_isdigit(infer__jj *j, const infer__jcall *c) {
    return infer__jstr_all(j, c->self.u.s, INFER__UC_NUMBER, 0);
}
static infer__jv infer__jstr_isspace(infer__jj *j, const infer__jcall *c) {
    return infer__jstr_all(j, c->self.u.s, 0, 1);
}
static infer__jv infer__jstr_isascii(infer__jj *j, const infer__jcall *c) {
    size_t i;
    if (!infer__jj_scan(j, c->self.u.s->n)) return infer__jv_none();
    for (i = 0; i < c->self.u.s->n; i++) if (c->self.u.s->s[i] & 0x80) return infer__jv_bool(0);
    return infer__jv_bool(1);
}
/* There is a cased character, and none of the other case. */
static infer__jv infer__jstr_is_case(infer__jj *j, const infer__jstr *s, uint32_t want, uint32_t other) {
    size_t i, len, paid = 0;
    int found = 0;
    for (i = 0; i < s->n && infer__jj_chars(j, i, &paid); i += len) {
        uint32_t is = infer__uc_class(infer__utf8_next(s->s + i, s->n - i, &len, NULL));
        if (is & other) return infer__jv_bool(0);
        if (is & want) found = 1;
    }
    return infer__jv_bool(found);
}
static infer__jv infer__jstr_isupper(infer__jj *j, const infer__jcall *c) {
    return infer__jstr_is_case(j, c->self.u.s, INFER__UC_UPPER, INFER__UC_LOWER);
}
static infer__jv infer__jstr_islower(infer__jj *j, const infer__jcall *c) {
    return infer__jstr_is_case(j, c->self.u.s, INFER__UC_LOWER, INFER__UC_UPPER);
}
static infer__jv infer__jstr_istitle(infer__jj *j, const infer__jcall *c) {
    const infer__jstr *s = c->self.u.s;
    size_t i, len, paid = 0;
    int found = 0, inside = 0;
    for (i = 0; i < s->n && infer__jj_chars(j, i, &paid); i += len) {
        uint32_t is = infer__uc_class(infer__utf8_next(s->s + i, s->n - i, &len, NULL));
        if (((is & INFER__UC_UPPER) && inside) || ((is & INFER__UC_LOWER) && !inside)) return infer__jv_bool(0);
        inside = (is & (INFER__UC_UPPER | INFER__UC_LOWER)) != 0;
        found |= inside;
    }
    return infer__jv_bool(found);
}
static infer__jv infer__jstr_isidentifier(infer__jj *j, const infer__jcall *c) {
    infer__jlex x;
    if (!infer__jj_work(j, c->self.u.s->n / 4)) return infer__jv_none();
    memset(&x, 0, sizeof x);
    x.s = c->self.u.s->s;
    x.n = c->self.u.s->n;
    return infer__jv_bool(x.n > 0 && !(x.s[0] >= '0' && x.s[0] <= '9') && infer__jlex_name(&x, 0) == x.n);
}

static const infer__jfunction INFER__JSTR_METHODS[] = {
    {"capitalize", infer__jstr_capitalize, "", 0},     {"casefold", infer__jstr_lower, "", 0},
    {"center", infer__jstr_center, "width fillchar", 1}, {"count", infer__jstr_count, "sub start end", 1},
    {"endswith", infer__jstr_endswith, "suffix start end", 1}, {"expandtabs", infer__jstr_expandtabs, "tabsize", 0},
    {"find", infer__jstr_find, "sub start end", 1},    {"format", infer__jstr_format, "*", 0},
    {"index", infer__jstr_index, "sub start end", 1},  {"isalnum", infer__jstr_isalnum, "", 0},
    {"isalpha", infer__jstr_isalpha, "", 0},           {"isascii", infer__jstr_isascii, "", 0},
    {"isdecimal", infer__jstr_isdigit, "", 0},         {"isdigit", infer__jstr_isdigit, "", 0},
    {"isidentifier", infer__jstr_isidentifier, "", 0}, {"islower", infer__jstr_islower, "", 0},
    {"isnumeric", infer__jstr_isdigit, "", 0},         {"isspace", infer__jstr_isspace, "", 0},
    {"istitle", infer__jstr_istitle, "", 0},           {"isupper", infer__jstr_isupper, "", 0},
    {"join", infer__jstr_join, "iterable", 1},         {"ljust", infer__jstr_ljust, "width fillchar", 1},
    {"lower", infer__jstr_lower, "", 0},               {"lstrip", infer__jstr_lstrip, "chars", 0},
    {"partition", infer__jstr_partition, "sep", 1},    {"removeprefix", infer__jstr_removeprefix, "prefix", 1},
    {"removesuffix", infer__jstr_removesuffix, "suffix", 1}, {"replace", infer__jstr_replace, "old new count", 2},
    {"rfind", infer__jstr_rfind, "sub start end", 1},  {"rindex", infer__jstr_rindex, "sub start end", 1},
    {"rjust", infer__jstr_rjust, "width fillchar", 1}, {"rpartition", infer__jstr_rpartition, "sep", 1},
    {"rsplit", infer__jstr_rsplit, "sep maxsplit", 0}, {"rstrip", infer__jstr_rstrip, "chars", 0},
    {"split", infer__jstr_split, "sep maxsplit", 0},   {"splitlines", infer__jstr_splitlines, "keepends", 0},
    {"startswith", infer__jstr_startswith, "prefix start end", 1}, {"strip", infer__jstr_strip, "chars", 0},
    {"swapcase", infer__jstr_swapcase, "", 0},         {"title", infer__jstr_title, "", 0},
    {"upper", infer__jstr_upper, "", 0},               {"zfill", infer__jstr_zfill, "width", 1},
};

/* ---- lists ------------------------------------------------------------------------------------------------------- */

static infer__jv infer__jlist_append(infer__jj *j, const infer__jcall *c) {
    infer__jlist_add(j, c->self.u.l, c->a[0]);
    return infer__jv_none();
}
static infer__jv infer__jlist_extend(infer__jj *j, const infer__jcall *c) {
    infer__jlist *l = infer__jv_items(j, c->a[0]);
    size_t i, n = l ? l->n : 0;
    for (i = 0; i < n && infer__jj_work(j, 1); i++) infer__jlist_add(j, c->self.u.l, l->items[i]);
    return infer__jv_none();
}
static infer__jv infer__jlist_insert(infer__jj *j, const infer__jcall *c) {
    infer__jlist *l = c->self.u.l;
    int64_t at = infer__jarg_int(j, c->a[0], 0), n = (int64_t)l->n;
    if (!infer__jj_work(j, l->n / 4)) return infer__jv_none();
    at = at < -n ? 0 : at < 0 ? at + n : at > n ? n : at;
    infer__jlist_add(j, l, infer__jv_none());
    if (j->r != INFER_OK) return infer__jv_none();
    memmove(l->items + at + 1, l->items + at, (size_t)(n - at) * sizeof *l->items);
    l->items[at] = c->a[1];
    return infer__jv_none();
}
static void infer__jlist_drop(infer__jj *j, infer__jlist *l, size_t at) {
    if (!infer__jj_work(j, l->n / 4)) return;
    l->n--;
    memmove(l->items + at, l->items + at + 1, (l->n - at) * sizeof *l->items);
}
static infer__jv infer__jlist_pop(infer__jj *j, const infer__jcall *c) {
    infer__jlist *l = c->self.u.l;
    int64_t n = (int64_t)l->n, at = infer__jarg_int(j, c->a[0], -1);
    infer__jv v;
    if (at < 0) at += n;
    if (at < 0 || at >= n) return infer__jj_fail(j, INFER_ERR_FORMAT, "pop from empty list or index out of range");
    v = l->items[at];
    infer__jlist_drop(j, l, (size_t)at);
    return v;
}
static size_t infer__jlist_place(infer__jj *j, const infer__jlist *l, infer__jv x) { /* l->n = nowhere */
    size_t i = 0;
    while (i < l->n && !infer__jv_equal(j, l->items[i], x)) i++;
    if (i == l->n) infer__jj_fail(j, INFER_ERR_FORMAT, "the value is not in the list");
    return i;
}
static infer__jv infer__jlist_remove(infer__jj *j, const infer__jcall *c) {
    size_t at = infer__jlist_place(j, c->self.u.l, c->a[0]);
    if (j->r == INFER_OK) infer__jlist_drop(j, c->self.u.l, at);
    return infer__jv_none();
}
static infer__jv infer__jlist_index(infer__jj *j, const infer__jcall *c) {
    return infer__jv_int((int64_t)infer__jlist_place(j, c->self.u.l, c->a[0]));
}
static infer__jv infer__jlist_count(infer__jj *j, const infer__jcall *c) {
    size_t i;
    int64_t n = 0;
    for (i = 0; i < c->self.u.l->n; i++) n += infer__jv_equal(j, c->self.u.l->items[i], c->a[0]);
    return infer__jv_int(n);
}
static infer__jv infer__jlist_reverse(infer__jj *j, const infer__jcall *c) {
    if (infer__jj_work(j, c->self.u.l->n)) infer__jlist_flip(c->self.u.l, 0);
    return infer__jv_none();
}
static infer__jv infer__jlist_copy(infer__jj *j, const infer__jcall *c) {
    infer__jv out = infer__jv_list(j, INFER__JV_LIST);
    infer__jcall to = *c;
    if (j->r != INFER_OK) return out;
    to.self = out;
    to.a = &c->self;
    infer__jlist_extend(j, &to);
    return out;
}
static infer__jv infer__jlist_clear(infer__jj *j, const infer__jcall *c) {
    (void)j;
    c->self.u.l->n = 0;
    return infer__jv_none();
}

/* Sort items[0..n) by keys[0..n), stable; reverse keeps the order of equals too. Merge sort, bottom up. */
static void infer__jlist_sort_by(infer__jj *j, infer__jv *keys, infer__jv *items, size_t n, int reverse) {
    infer__jv *k2 = (infer__jv *)infer__jj_alloc(j, n + 1, sizeof *k2),
              *i2 = (infer__jv *)infer__jj_alloc(j, n + 1, sizeof *i2);
    size_t width, from;
    for (width = 1; width < n && j->r == INFER_OK; width *= 2) {
        for (from = 0; from < n && j->r == INFER_OK; from += 2 * width) {
            size_t a = from, mid = INFER__MIN(from + width, n), b = mid, end = INFER__MIN(from + 2 * width, n), at;
            for (at = from; at < end && j->r == INFER_OK; at++) {
                int second = a >= mid || (b < end && (reverse ? infer__jv_less(j, keys[a], keys[b])
                                                              : infer__jv_less(j, keys[b], keys[a])));
                k2[at] = keys[second ? b : a];
                i2[at] = items[second ? b++ : a++];
            }
        }
        if (!infer__jj_work(j, n / 4)) return;
        memcpy(keys, k2, n * sizeof *k2);
        memcpy(items, i2, n * sizeof *i2);
    }
}
static infer__jv infer__jlist_sort(infer__jj *j, const infer__jcall *c) {
    infer__jlist *l = c->self.u.l;
    infer__jv *keys = (infer__jv *)infer__jj_alloc(j, l->n + 1, sizeof *keys);
    if (!keys) return infer__jv_none();
    if (infer__jv_given(c->a[0]) && c->a[0].kind != INFER__JV_NONE)
        return infer__jj_fail(j, INFER_ERR_UNSUPPORTED, "list.sort with a key");
    if (l->n) memcpy(keys, l->items, l->n * sizeof *keys);
    infer__jlist_sort_by(j, keys, l->items, l->n, infer__jv_true(c->a[1]));
    return infer__jv_none();
}
static infer__jlist *infer__jlist_sorted_keys(infer__jj *j, const infer__jdict *d) {
    infer__jv keys = infer__jv_list(j, INFER__JV_LIST), copy = infer__jv_list(j, INFER__JV_LIST);
    size_t i;
    for (i = 0; i < d->n && infer__jj_work(j, 1); i++) {
        infer__jlist_add(j, keys.u.l, d->items[2 * i]);
        infer__jlist_add(j, copy.u.l, d->items[2 * i]);
    }
    if (j->r == INFER_OK) infer__jlist_sort_by(j, copy.u.l->items, keys.u.l->items, d->n, 0);
    return j->r == INFER_OK ? keys.u.l : NULL;
}

static const infer__jfunction INFER__JLIST_METHODS[] = {
    {"append", infer__jlist_append, "object", 1}, {"clear", infer__jlist_clear, "", 0},
    {"copy", infer__jlist_copy, "", 0},           {"count", infer__jlist_count, "value", 1},
    {"extend", infer__jlist_extend, "iterable", 1}, {"index", infer__jlist_index, "value", 1},
    {"insert", infer__jlist_insert, "index object", 2}, {"pop", infer__jlist_pop, "index", 0},
    {"remove", infer__jlist_remove, "value", 1},  {"reverse", infer__jlist_reverse, "", 0},
    {"sort", infer__jlist_sort, "key reverse", 0},
};
static const infer__jfunction INFER__JTUPLE_METHODS[] = {
    {"count", infer__jlist_count, "value", 1}, {"index", infer__jlist_index, "value", 1}};

/* ---- dicts ------------------------------------------------------------------------------------------------------- */

enum { INFER__JDICT_KEYS = 1, INFER__JDICT_VALUES = 2 };
/* Keys, values, or pairs of both, as a value of this kind. */
static infer__jv infer__jdict_list(infer__jj *j, const infer__jdict *d, int what, int kind, const char *name) {
    infer__jv out = infer__jv_list(j, kind), pair;
    size_t i;
    if (j->r != INFER_OK) return out;
    out.u.l->name = name;
    for (i = 0; i < d->n && infer__jj_work(j, 1); i++) {
        if (what == INFER__JDICT_KEYS) infer__jlist_add(j, out.u.l, d->items[2 * i]);
        if (what == INFER__JDICT_VALUES) infer__jlist_add(j, out.u.l, d->items[2 * i + 1]);
        if (what != (INFER__JDICT_KEYS | INFER__JDICT_VALUES)) continue;
        pair = infer__jv_list(j, INFER__JV_TUPLE);
        infer__jlist_add(j, pair.u.l, d->items[2 * i]);
        infer__jlist_add(j, pair.u.l, d->items[2 * i + 1]);
        infer__jlist_add(j, out.u.l, pair);
    }
    return out;
}
static infer__jv infer__jdict_keys(infer__jj *j, const infer__jcall *c) {
    return infer__jdict_list(j, c->self.u.d, INFER__JDICT_KEYS, INFER__JV_VIEW, "dict_keys");
}
static infer__jv infer__jdict_values(infer__jj *j, const infer__jcall *c) {
    return infer__jdict_list(j, c->self.u.d, INFER__JDICT_VALUES, INFER__JV_VIEW, "dict_values");
}
static infer__jv infer__jdict_items(infer__jj *j, const infer__jcall *c) {
    return infer__jdict_list(j, c->self.u.d, INFER__JDICT_KEYS | INFER__JDICT_VALUES, INFER__JV_VIEW, "dict_items");
}
static infer__jv infer__jdict_get(infer__jj *j, const infer__jcall *c) {
    infer__jv *v = infer__jdict_find(j, c->self.u.d, c->a[0]);
    return v ? *v : infer__jv_given(c->a[1]) ? c->a[1] : infer__jv_none();
}
static infer__jv infer__jdict_setdefault(infer__jj *j, const infer__jcall *c) {
    infer__jv *v = infer__jdict_find(j, c->self.u.d, c->a[0]), value;
    if (v) return *v;
    value = infer__jv_given(c->a[1]) ? c->a[1] : infer__jv_none();
    infer__jdict_set(j, c->self.u.d, c->a[0], value);
    return value;
}
static infer__jv infer__jdict_pop(infer__jj *j, const infer__jcall *c) {
    infer__jdict *d = c->self.u.d;
    infer__jv *v = infer__jdict_find(j, d, c->a[0]), value;
    if (!v && !infer__jv_given(c->a[1])) return infer__jj_fail(j, INFER_ERR_FORMAT, "pop: the key is not there");
    if (!v) return c->a[1];
    value = *v;
    infer__jdict_drop(j, d, (size_t)(v - d->items) / 2);
    return value;
}
static infer__jv infer__jdict_popitem(infer__jj *j, const infer__jcall *c) {
    infer__jdict *d = c->self.u.d;
    infer__jv pair = infer__jv_list(j, INFER__JV_TUPLE);
    if (d->n == 0) return infer__jj_fail(j, INFER_ERR_FORMAT, "popitem: the dict is empty");
    infer__jlist_add(j, pair.u.l, d->items[2 * d->n - 2]);
    infer__jlist_add(j, pair.u.l, d->items[2 * d->n - 1]);
    infer__jdict_drop(j, d, d->n - 1);
    return pair;
}
/* Put members of v (a dict, or pairs) and of named arguments into d. */
static void infer__jdict_merge(infer__jj *j, infer__jdict *d, infer__jv v, const infer__jdict *named) {
    size_t i;
    if (v.kind == INFER__JV_DICT) {
        for (i = 0; i < v.u.d->n && infer__jj_work(j, 1); i++)
            infer__jdict_set(j, d, v.u.d->items[2 * i], v.u.d->items[2 * i + 1]);
    } else if (infer__jv_given(v)) {
        infer__jlist *l = infer__jv_items(j, v);
        for (i = 0; l && i < l->n && infer__jj_work(j, 1); i++) {
            infer__jlist *pair = infer__jv_items(j, l->items[i]);
            if (pair && pair->n != 2) infer__jj_fail(j, INFER_ERR_FORMAT, "pairs are expected");
            if (j->r == INFER_OK) infer__jdict_set(j, d, pair->items[0], pair->items[1]);
        }
    }
    for (i = 0; named && i < named->n; i++) infer__jdict_set(j, d, named->items[2 * i], named->items[2 * i + 1]);
}
/* The only argument of a call that takes at most one by place; not given when there is none. */
static infer__jv infer__jargs_one(infer__jj *j, const infer__jcall *c) {
    infer__jv v;
    memset(&v, 0, sizeof v);
    v.flag = 1;
    if (c->args->n > 1) return infer__jj_fail(j, INFER_ERR_FORMAT, "at most 1 argument is expected");
    return c->args->n ? c->args->v[0] : v;
}
static infer__jv infer__jdict_update(infer__jj *j, const infer__jcall *c) {
    infer__jdict_merge(j, c->self.u.d, infer__jargs_one(j, c), c->args->named);
    return infer__jv_none();
}
static infer__jv infer__jdict_copy(infer__jj *j, const infer__jcall *c) {
    infer__jv out = infer__jv_dict(j);
    infer__jdict_merge(j, out.u.d, c->self, NULL);
    return out;
}
static infer__jv infer__jdict_clear(infer__jj *j, const infer__jcall *c) {
    c->self.u.d->n = 0;
    infer__jdict_reindex(j, c->self.u.d);
    return infer__jv_none();
}

static const infer__jfunction INFER__JDICT_METHODS[] = {
    {"clear", infer__jdict_clear, "", 0},           {"copy", infer__jdict_copy, "", 0},
    {"get", infer__jdict_get, "key default", 1},    {"items", infer__jdict_items, "", 0},
    {"keys", infer__jdict_keys, "", 0},             {"pop", infer__jdict_pop, "key default", 1},
    {"popitem", infer__jdict_popitem, "", 0},       {"setdefault", infer__jdict_setdefault, "key default", 1},
    {"update", infer__jdict_update, "*", 0},        {"values", infer__jdict_values, "", 0},
};

/* ---- cyclers ----------------------------------------------------------------------------------------------------- */

static infer__jv infer__jcycler_next(infer__jj *j, const infer__jcall *c) {
    infer__jlist *l = c->self.u.l;
    infer__jv v = l->items[l->at];
    (void)j;
    l->at = (l->at + 1) % l->n;
    return v;
}
static infer__jv infer__jcycler_reset(infer__jj *j, const infer__jcall *c) {
    (void)j;
    c->self.u.l->at = 0;
    return infer__jv_none();
}
static const infer__jfunction INFER__JCYCLER_METHODS[] = {
    {"next", infer__jcycler_next, "", 0}, {"reset", infer__jcycler_reset, "", 0}};

static const infer__jfunction *infer__jfunction_find(const infer__jfunction *table, size_t n_table, const char *s,
                                                     size_t n) {
    size_t i;
    for (i = 0; i < n_table; i++)
        if (strncmp(table[i].name, s, n) == 0 && strlen(table[i].name) == n) return &table[i];
    return NULL;
}
static const infer__jfunction *infer__jinja_method(int kind, const char *s, size_t n) {
#define INFER__JFIND(table) infer__jfunction_find(table, INFER__COUNT(table), s, n)
    switch (kind) {
    case INFER__JV_STRING: return INFER__JFIND(INFER__JSTR_METHODS);
    case INFER__JV_LIST: return INFER__JFIND(INFER__JLIST_METHODS);
    case INFER__JV_TUPLE: case INFER__JV_RANGE: return INFER__JFIND(INFER__JTUPLE_METHODS);
    case INFER__JV_DICT: return INFER__JFIND(INFER__JDICT_METHODS);
    case INFER__JV_CYCLER: return INFER__JFIND(INFER__JCYCLER_METHODS);
    default: return NULL;
    }
}
