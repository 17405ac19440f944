/* jinja_text.c: characters, and the methods of strings.
 *
 * Owns:  INFER__JSTR_METHODS, one row per method, as Python's str has them (characters are code points).
 * Rules: every byte keeps its mark. Case is mapped character by character (no sharp s to SS).
 */
#include "jinja.h"

static int infer__jinja_space(uint32_t cp) {
    if (cp < 128) return cp == ' ' || (cp >= 9 && cp <= 13) || (cp >= 28 && cp <= 31);
    return cp == 0x85 || cp == 0xa0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200a) || cp == 0x2028 || cp == 0x2029 ||
           cp == 0x202f || cp == 0x205f || cp == 0x3000;
}
static size_t infer__jinja_count(const char *s, size_t n) {
    size_t i, count = 0;
    for (i = 0; i < n; i++) count += (s[i] & 0xc0) != 0x80;
    return count;
}
static size_t infer__jinja_offset(const char *s, size_t n, size_t index) {
    size_t i;
    for (i = 0; i < n; i++)
        if ((s[i] & 0xc0) != 0x80 && index-- == 0) return i;
    return n;
}


static int infer__jinja_is_cased(uint32_t cp) {
    return (infer__uc_class(cp) & (INFER__UC_UPPER | INFER__UC_LOWER)) != 0;
}

/* ---- case -------------------------------------------------------------------------------------------------------- */

enum { INFER__JCASE_UPPER, INFER__JCASE_LOWER, INFER__JCASE_TITLE, INFER__JCASE_CAPITAL, INFER__JCASE_SWAP };
static infer__jv infer__jstr_case(infer__jj *j, const infer__jstr *s, int how) {
    infer__jbuf b = infer__jbuf_new(j);
    size_t i, len, paid = 0;
    int inside = 0; /* a cased character stands before */
    infer__jv v;
    for (i = 0; i < s->n && infer__jj_chars(j, i, &paid); i += len) {
        uint32_t cp = infer__utf8_next(s->s + i, s->n - i, &len, NULL), to;
        char text[4];
        int up = how == INFER__JCASE_UPPER || (how == INFER__JCASE_TITLE && !inside) ||
                 (how == INFER__JCASE_CAPITAL && i == 0) ||
                 (how == INFER__JCASE_SWAP && (infer__uc_class(cp) & INFER__UC_LOWER));
        to = up ? infer__uc_upper(cp) : infer__uc_lower(cp);
        inside = infer__jinja_is_cased(cp);
        if (to == cp) infer__jbuf_part(&b, s, i, i + len);
        else infer__jbuf_put(&b, text, infer__utf8_put(to, text), s->marks ? s->marks[i] : s->mark);
    }
    v = infer__jbuf_done(&b);
    if (v.kind == INFER__JV_STRING) v.u.s->safe = s->safe;
    return v;
}
#define INFER__JCASE(name, how)                                                  \
    static infer__jv infer__jstr_##name(infer__jj *j, const infer__jcall *c) {   \
        return infer__jstr_case(j, c->self.u.s, how);                            \
    }
INFER__JCASE(upper, INFER__JCASE_UPPER)
INFER__JCASE(lower, INFER__JCASE_LOWER)
INFER__JCASE(title, INFER__JCASE_TITLE)
INFER__JCASE(capitalize, INFER__JCASE_CAPITAL)
INFER__JCASE(swapcase, INFER__JCASE_SWAP)

/* ---- arguments --------------------------------------------------------------------------------------------------- */

static infer__jv infer__jj_want(infer__jj *j, const char *what, infer__jv v) {
    if (v.kind == INFER__JV_UNDEFINED && infer__jv_given(v)) return infer__jj_is_undefined(j, v);
    return infer__jj_fail(j, INFER_ERR_FORMAT, "%s is expected, not %s", what, infer__jv_type(v));
}
/* A string argument; NULL and an error when it is none. */
static const infer__jstr *infer__jarg_str(infer__jj *j, infer__jv v) {
    if (v.kind == INFER__JV_STRING) return v.u.s;
    infer__jj_want(j, "a string", v);
    return NULL;
}
/* An integer; none when it was not given. Any: what computes with it takes care of INT64_MIN and INT64_MAX. */
static int64_t infer__jarg_int(infer__jj *j, infer__jv v, int64_t none) {
    if (v.kind == INFER__JV_INT || v.kind == INFER__JV_BOOL) return v.u.i;
    if (!infer__jv_given(v)) return none;
    infer__jj_want(j, "an integer", v);
    return none;
}

/* ---- strip, split, replace --------------------------------------------------------------------------------------- */

static int infer__jinja_in_set(uint32_t cp, const infer__jstr *set) {
    size_t i, len;
    if (!set) return infer__jinja_space(cp);
    for (i = 0; i < set->n; i += len) if (infer__utf8_next(set->s + i, set->n - i, &len, NULL) == cp) return 1;
    return 0;
}
static infer__jv infer__jstr_strip_sides(infer__jj *j, const infer__jstr *s, infer__jv chars, int sides) {
    const infer__jstr *set = NULL;
    size_t from = 0, to = s->n, len, cost = 1;
    if (infer__jv_given(chars) && chars.kind != INFER__JV_NONE && !(set = infer__jarg_str(j, chars)))
        return infer__jv_none();
    if (set) cost += set->n / 8;
    while ((sides & 1) && from < to && infer__jj_work(j, cost) &&
           infer__jinja_in_set(infer__utf8_next(s->s + from, s->n - from, &len, NULL), set)) from += len;
    while ((sides & 2) && to > from && infer__jj_work(j, cost)) {
        size_t at = to - 1;
        while (at > from && (s->s[at] & 0xc0) == 0x80) at--;
        if (!infer__jinja_in_set(infer__utf8_next(s->s + at, s->n - at, &len, NULL), set)) break;
        to = at;
    }
    return infer__jv_part(j, s, from, to);
}
static infer__jv infer__jstr_strip(infer__jj *j, const infer__jcall *c) {
    return infer__jstr_strip_sides(j, c->self.u.s, c->a[0], 3);
}
static infer__jv infer__jstr_lstrip(infer__jj *j, const infer__jcall *c) {
    return infer__jstr_strip_sides(j, c->self.u.s, c->a[0], 1);
}
static infer__jv infer__jstr_rstrip(infer__jj *j, const infer__jcall *c) {
    return infer__jstr_strip_sides(j, c->self.u.s, c->a[0], 2);
}

/* The last place of part in s[0..end); s->n + 1 = nowhere. */
static size_t infer__jinja_search_back(infer__jj *j, const infer__jstr *s, size_t end, const infer__jstr *part) {
    size_t i;
    if (part->n > end) return s->n + 1;
    for (i = end - part->n + 1; i-- > 0;) {
        if (i % 16 == 0 && !infer__jj_work(j, 1 + part->n / 64)) break;
        if (part->n == 0 || (s->s[i] == part->s[0] && memcmp(s->s + i, part->s, part->n) == 0)) return i;
    }
    return s->n + 1;
}

static void infer__jlist_flip(infer__jlist *l, size_t from) {
    size_t a = from, b = l->n;
    while (a + 1 < b) {
        infer__jv x = l->items[a];
        l->items[a++] = l->items[--b];
        l->items[b] = x;
    }
}
static infer__jv infer__jstr_split_space(infer__jj *j, const infer__jstr *s, int64_t most, int back) {
    infer__jv out = infer__jv_list(j, INFER__JV_LIST), rest;
    size_t from = 0, to = s->n, len;
    if (!infer__jj_work(j, s->n / 4)) return out;
    for (;;) {
        size_t end;
        /* skip white space at the side where the next word is */
        while (!back && from < to && infer__jj_work(j, 1) &&
               infer__jinja_space(infer__utf8_next(s->s + from, to - from, &len, NULL))) from += len;
        if (back) to = infer__jinja_stripped(s->s, to);
        if (from >= to || to == 0 || j->r != INFER_OK) break;
        if (most == 0) { /* the rest, without white space at its other side */
            rest = infer__jv_part(j, s, from, to);
            if (j->r == INFER_OK)
                infer__jlist_add(j, out.u.l, infer__jstr_strip_sides(j, rest.u.s, infer__jv_none(), back ? 1 : 2));
            break;
        }
        most -= most > 0;
        if (!back) {
            for (end = from; end < to; end += len)
                if (infer__jinja_space(infer__utf8_next(s->s + end, to - end, &len, NULL))) break;
            infer__jlist_add(j, out.u.l, infer__jv_part(j, s, from, end));
            from = end;
        } else {
            for (end = to; end > 0;) {
                size_t at = end - 1;
                while (at > 0 && (s->s[at] & 0xc0) == 0x80) at--;
                if (infer__jinja_space(infer__utf8_next(s->s + at, to - at, &len, NULL))) break;
                end = at;
            }
            infer__jlist_add(j, out.u.l, infer__jv_part(j, s, end, to));
            to = end;
        }
    }
    if (back && j->r == INFER_OK) infer__jlist_flip(out.u.l, 0);
    return out;
}
static infer__jv infer__jstr_split_any(infer__jj *j, const infer__jcall *c, int back) {
    const infer__jstr *s = c->self.u.s, *sep;
    int64_t most = infer__jarg_int(j, c->a[1], -1);
    size_t from = 0, to = s->n, at;
    infer__jv out;
    if (!infer__jv_given(c->a[0]) || c->a[0].kind == INFER__JV_NONE) return infer__jstr_split_space(j, s, most, back);
    sep = infer__jarg_str(j, c->a[0]);
    if (sep && sep->n == 0) infer__jj_fail(j, INFER_ERR_FORMAT, "empty separator");
    out = infer__jv_list(j, INFER__JV_LIST);
    if (j->r != INFER_OK) return out;
    for (; most != 0 && infer__jj_work(j, 1); most -= most > 0) {
        at = back ? infer__jinja_search_back(j, s, to, sep) : infer__jinja_search(j, s, from, sep);
        if (at > s->n) break;
        infer__jlist_add(j, out.u.l, infer__jv_part(j, s, back ? at + sep->n : from, back ? to : at));
        if (back) to = at; else from = at + sep->n;
    }
    infer__jlist_add(j, out.u.l, infer__jv_part(j, s, from, to));
    if (back && j->r == INFER_OK) infer__jlist_flip(out.u.l, 0);
    return out;
}
static infer__jv infer__jstr_split(infer__jj *j, const infer__jcall *c) { return infer__jstr_split_any(j, c, 0); }
static infer__jv infer__jstr_rsplit(infer__jj *j, const infer__jcall *c) { return infer__jstr_split_any(j, c, 1); }

static infer__jv infer__jstr_splitlines(infer__jj *j, const infer__jcall *c) {
    const infer__jstr *s = c->self.u.s;
    infer__jv out = infer__jv_list(j, INFER__JV_LIST);
    int keep = infer__jv_true(c->a[0]);
    size_t i = 0, from = 0, len;
    while (i < s->n && infer__jj_work(j, 1)) {
        uint32_t cp = infer__utf8_next(s->s + i, s->n - i, &len, NULL);
        size_t end = i;
        i += len;
        if (!((cp >= 10 && cp <= 13) || (cp >= 28 && cp <= 30) || cp == 0x85 || cp == 0x2028 || cp == 0x2029)) continue;
        if (cp == '\r' && i < s->n && s->s[i] == '\n') i++;
        infer__jlist_add(j, out.u.l, infer__jv_part(j, s, from, keep ? i : end));
        from = i;
    }
    if (from < s->n) infer__jlist_add(j, out.u.l, infer__jv_part(j, s, from, s->n));
    return out;
}

static infer__jv infer__jstr_partition_any(infer__jj *j, const infer__jcall *c, int back) {
    const infer__jstr *s = c->self.u.s, *sep = infer__jarg_str(j, c->a[0]);
    infer__jv out = infer__jv_list(j, INFER__JV_TUPLE);
    size_t at;
    if (sep && sep->n == 0) infer__jj_fail(j, INFER_ERR_FORMAT, "empty separator");
    if (j->r != INFER_OK) return out;
    at = back ? infer__jinja_search_back(j, s, s->n, sep) : infer__jinja_search(j, s, 0, sep);
    if (at > s->n) {
        infer__jv empty = infer__jv_view(j, "", 0, 0);
        infer__jlist_add(j, out.u.l, back ? empty : c->self);
        infer__jlist_add(j, out.u.l, empty);
        infer__jlist_add(j, out.u.l, back ? c->self : empty);
        return out;
    }
    infer__jlist_add(j, out.u.l, infer__jv_part(j, s, 0, at));
    infer__jlist_add(j, out.u.l, infer__jv_part(j, s, at, at + sep->n));
    infer__jlist_add(j, out.u.l, infer__jv_part(j, s, at + sep->n, s->n));
    return out;
}
static infer__jv infer__jstr_partition(infer__jj *j, const infer__jcall *c) {
    return infer__jstr_partition_any(j, c, 0);
}
static infer__jv infer__jstr_rpartition(infer__jj *j, const infer__jcall *c) {
    return infer__jstr_partition_any(j, c, 1);
}

static infer__jv infer__jstr_replace_in(infer__jj *j, const infer__jstr *s, const infer__jstr *old,
                                        const infer__jstr *with, int64_t most) {
    infer__jbuf b = infer__jbuf_new(j);
    size_t from = 0, at, len = 0;
    if (!s || !old || !with) return infer__jv_none();
    for (; most != 0 && infer__jj_work(j, 1); most -= most > 0) {
        at = infer__jinja_search(j, s, from, old);
        if (at > s->n) break;
        infer__jbuf_part(&b, s, from, at);
        infer__jbuf_str(&b, with);
        from = at + old->n;
        if (old->n > 0) continue;
        if (at >= s->n) break; /* between all characters */
        infer__utf8_next(s->s + at, s->n - at, &len, NULL);
        infer__jbuf_part(&b, s, at, at + len);
        from = at + len;
    }
    infer__jbuf_part(&b, s, from, s->n);
    return infer__jbuf_done(&b);
}
static infer__jv infer__jstr_replace(infer__jj *j, const infer__jcall *c) {
    return infer__jstr_replace_in(j, c->self.u.s, infer__jarg_str(j, c->a[0]), infer__jarg_str(j, c->a[1]),
                                  infer__jarg_int(j, c->a[2], -1));
}

static infer__jv infer__jstr_join_with(infer__jj *j, const infer__jstr *sep, const infer__jlist *l, int convert) {
    infer__jbuf b = infer__jbuf_new(j);
    size_t i;
    for (i = 0; l && sep && i < l->n && infer__jj_work(j, 1); i++) {
        if (i) infer__jbuf_str(&b, sep);
        if (convert) infer__jbuf_value(&b, l->items[i]);
        else if (infer__jarg_str(j, l->items[i])) infer__jbuf_str(&b, l->items[i].u.s);
    }
    return infer__jbuf_done(&b);
}
static infer__jv infer__jstr_join(infer__jj *j, const infer__jcall *c) {
    infer__jlist *l = infer__jv_items(j, c->a[0]);
    return l ? infer__jstr_join_with(j, c->self.u.s, l, 0) : infer__jv_none();
}

/* ---- find, count, begins with ------------------------------------------------------------------------------------ */

/* The part [start, end) of s that a search is about, as bytes. 0 = none. */
static int infer__jstr_window(infer__jj *j, const infer__jcall *c, size_t *from, size_t *to) {
    const infer__jstr *s = c->self.u.s;
    int64_t n, a, b;
    *from = 0;
    *to = s->n;
    if (!infer__jv_given(c->a[1]) && !infer__jv_given(c->a[2])) return 1;
    if (!infer__jj_scan(j, 3 * (uint64_t)s->n)) return 0;
    n = (int64_t)infer__jinja_count(s->s, s->n);
    a = c->a[1].kind == INFER__JV_NONE ? 0 : infer__jarg_int(j, c->a[1], 0);
    b = c->a[2].kind == INFER__JV_NONE ? n : infer__jarg_int(j, c->a[2], n);
    if (j->r != INFER_OK || a > n) return 0;
    a = a < -n ? 0 : a < 0 ? a + n : a;
    b = b < -n ? 0 : b < 0 ? b + n : b > n ? n : b;
    if (a > b) return 0;
    *from = infer__jinja_offset(s->s, s->n, (size_t)a);
    *to = infer__jinja_offset(s->s, s->n, (size_t)b);
    return 1;
}
static infer__jv infer__jstr_find_any(infer__jj *j, const infer__jcall *c, int back, int must) {
    const infer__jstr *s = c->self.u.s, *part = infer__jarg_str(j, c->a[0]);
    size_t from, to, at;
    infer__jstr window;
    if (part && infer__jstr_window(j, c, &from, &to)) {
        window = *s;
        window.n = to;
        at = back ? infer__jinja_search_back(j, &window, to, part) : infer__jinja_search(j, &window, from, part);
        if (at <= to && at >= from && infer__jj_scan(j, at))
            return infer__jv_int((int64_t)infer__jinja_count(s->s, at));
    }
    if (must) infer__jj_fail(j, INFER_ERR_FORMAT, "substring not found");
    return infer__jv_int(-1);
}
static infer__jv infer__jstr_find(infer__jj *j, const infer__jcall *c) { return infer__jstr_find_any(j, c, 0, 0); }
static infer__jv infer__jstr_rfind(infer__jj *j, const infer__jcall *c) { return infer__jstr_find_any(j, c, 1, 0); }
static infer__jv infer__jstr_index(infer__jj *j, const infer__jcall *c) { return infer__jstr_find_any(j, c, 0, 1); }
static infer__jv infer__jstr_rindex(infer__jj *j, const infer__jcall *c) { return infer__jstr_find_any(j, c, 1, 1); }

static infer__jv infer__jstr_count(infer__jj *j, const infer__jcall *c) {
    const infer__jstr *part = infer__jarg_str(j, c->a[0]);
    infer__jstr s = *c->self.u.s;
    size_t from, to, at;
    int64_t n = 0;
    if (!part || !infer__jstr_window(j, c, &from, &to)) return infer__jv_int(0);
    if (part->n == 0 && infer__jj_scan(j, to - from))
        return infer__jv_int((int64_t)infer__jinja_count(s.s + from, to - from) + 1);
    s.n = to;
    for (; infer__jj_work(j, 1); n++, from = at + part->n) {
        at = infer__jinja_search(j, &s, from, part);
        if (at > s.n) break;
    }
    return infer__jv_int(n);
}

static int infer__jstr_has_at(infer__jj *j, const infer__jstr *s, size_t from, size_t to, const infer__jstr *part,
                              int end) {
    if (part->n > to - from || !infer__jj_bytes(j, part->n)) return 0;
    return part->n == 0 || memcmp(s->s + (end ? to - part->n : from), part->s, part->n) == 0;
}
static infer__jv infer__jstr_with(infer__jj *j, const infer__jcall *c, int end) {
    const infer__jstr *s = c->self.u.s, *part;
    size_t from, to, i;
    int window = infer__jstr_window(j, c, &from, &to);
    if (c->a[0].kind == INFER__JV_TUPLE) {
        for (i = 0; i < c->a[0].u.l->n && infer__jj_work(j, 1); i++) {
            part = infer__jarg_str(j, c->a[0].u.l->items[i]);
            if (part && window && infer__jstr_has_at(j, s, from, to, part, end)) return infer__jv_bool(1);
        }
        return infer__jv_bool(0);
    }
    part = infer__jarg_str(j, c->a[0]);
    return infer__jv_bool(part && window && infer__jstr_has_at(j, s, from, to, part, end));
}
static infer__jv infer__jstr_startswith(infer__jj *j, const infer__jcall *c) { return infer__jstr_with(j, c, 0); }
static infer__jv infer__jstr_endswith(infer__jj *j, const infer__jcall *c) { return infer__jstr_with(j, c, 1); }
static infer__jv infer__jstr_removeprefix(infer__jj *j, const infer__jcall *c) {
    const infer__jstr *s = c->self.u.s, *part = infer__jarg_str(j, c->a[0]);
    if (!part) return infer__jv_none();
    return infer__jv_part(j, s, infer__jstr_has_at(j, s, 0, s->n, part, 0) ? part->n : 0, s->n);
}
static infer__jv infer__jstr_removesuffix(infer__jj *j, const infer__jcall *c) {
    const infer__jstr *s = c->self.u.s, *part = infer__jarg_str(j, c->a[0]);
    if (!part) return infer__jv_none();
    return infer__jv_part(j, s, 0, infer__jstr_has_at(j, s, 0, s->n, part, 1) ? s->n - part->n : s->n);
}
