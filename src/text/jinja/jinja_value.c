/* jinja_value.c: values: making them, strings with marks, lists, dicts, equality, order, truth.
 *
 * Owns:  what Python does with None, bool, int, float, str, list, tuple, dict of these, in 64 bits.
 * Rules: all memory is the rendering's arena, counted by infer__jj_alloc. Recursion over nested values is bounded.
 * Start: infer__jv_json (the context -> values), infer__jbuf_put (strings being made).
 */
#include "jinja.h"

/* ---- the rendering's errors, memory, work ------------------------------------------------------------------ */

static infer__jv infer__jj_fail(infer__jj *j, infer_result code, const char *format, ...) {
    char what[400];
    size_t full = 0;
    va_list args;
    if (j->r == INFER_OK) {
        va_start(args, format);
        infer__format_cut(what, sizeof what, &full, format, args);
        va_end(args);
        j->r = infer__jinja_error(j->t, j->at, j->err, code, what);
    }
    return infer__jv_none();
}

static void *infer__jj_alloc(infer__jj *j, uint64_t n, uint64_t size) {
    uint64_t bytes;
    void *p;
    if (j->r != INFER_OK) return NULL;
    if (!infer__mul_ok(n, size, &bytes) || bytes > j->max_memory || j->used > j->max_memory - bytes) {
        infer__jj_fail(j, INFER_ERR_MEMORY, INFER__JINJA_MEMORY);
        return NULL;
    }
    j->used += bytes + 16;
    if (bytes >= 4096 && !infer__jj_work(j, bytes / 64)) return NULL; /* it is zeroed */
    p = infer__arena_alloc(&j->arena, bytes);
    if (!p) j->r = infer__error(j->err, INFER_ERR_MEMORY, "template: out of memory");
    return p;
}

static int infer__jj_work(infer__jj *j, uint64_t n) {
    if (j->r != INFER_OK) return 0;
    j->work += n;
    if (j->work > j->max_work) {
        infer__jj_fail(j, INFER_ERR_MEMORY, "rendering takes more steps than its limit (max_steps)");
        return 0;
    }
    if (infer__watch_work(j->watch, n)) return 1;
    j->r = infer__watch_error(j->watch, "rendering a template", j->err);
    return 0;
}
static int infer__jj_bytes(infer__jj *j, uint64_t n) { return infer__jj_work(j, n / 64); }
static int infer__jj_scan(infer__jj *j, uint64_t n) { return infer__jj_work(j, n / 16); }
static int infer__jj_chars(infer__jj *j, size_t at, size_t *paid) {
    if (at < *paid) return j->r == INFER_OK;
    *paid = at + 64;
    return infer__jj_work(j, 16);
}

static int infer__jj_enter(infer__jj *j) {
    if (++j->depth <= INFER__JINJA_DEPTH) return j->r == INFER_OK;
    infer__jj_fail(j, INFER_ERR_MEMORY, "too many levels of calls or values");
    return 0;
}
static void infer__jj_leave(infer__jj *j) { j->depth--; }

/* ---- making --------------------------------------------------------------------------------------------------- */

static infer__jv infer__jv_of(int kind) {
    infer__jv v;
    memset(&v, 0, sizeof v);
    v.kind = (uint8_t)kind;
    return v;
}
static infer__jv infer__jv_none(void) { return infer__jv_of(INFER__JV_NONE); }
static infer__jv infer__jv_bool(int x) {
    infer__jv v = infer__jv_of(INFER__JV_BOOL);
    v.u.i = x != 0;
    return v;
}
static infer__jv infer__jv_int(int64_t x) {
    infer__jv v = infer__jv_of(INFER__JV_INT);
    v.u.i = x;
    return v;
}
static infer__jv infer__jv_float(double x) {
    infer__jv v = infer__jv_of(INFER__JV_FLOAT);
    v.u.f = x;
    return v;
}
static infer__jv infer__jv_view(infer__jj *j, const char *s, size_t n, int mark) {
    infer__jv v = infer__jv_of(INFER__JV_STRING);
    v.u.s = (infer__jstr *)infer__jj_alloc(j, 1, sizeof *v.u.s);
    if (!v.u.s) return infer__jv_none();
    v.u.s->s = s;
    v.u.s->n = n;
    v.u.s->mark = (uint8_t)(mark != 0);
    return v;
}
static infer__jv infer__jv_text(infer__jj *j, const char *s, size_t n, int mark) {
    char *copy = (char *)infer__jj_alloc(j, (uint64_t)n + 1, 1);
    if (!copy) return infer__jv_none();
    if (n) memcpy(copy, s, n);
    return infer__jv_view(j, copy, n, mark);
}
static infer__jv infer__jv_undefined(infer__jj *j, const char *what, size_t n) {
    infer__jv v = infer__jv_view(j, what, n, 0);
    v.kind = v.kind == INFER__JV_STRING ? INFER__JV_UNDEFINED : v.kind;
    return v;
}
static infer__jv infer__jv_part(infer__jj *j, const infer__jstr *s, size_t from, size_t to) {
    infer__jv v = infer__jv_view(j, s->s + from, to > from ? to - from : 0, s->mark);
    if (v.kind != INFER__JV_STRING) return v;
    v.u.s->marks = s->marks ? s->marks + from : NULL;
    v.u.s->safe = s->safe;
    return v;
}
static infer__jv infer__jv_list(infer__jj *j, int kind) {
    infer__jv v = infer__jv_of(kind);
    v.u.l = (infer__jlist *)infer__jj_alloc(j, 1, sizeof *v.u.l);
    return v.u.l ? v : infer__jv_none();
}
static infer__jv infer__jv_dict(infer__jj *j) {
    infer__jv v = infer__jv_of(INFER__JV_DICT);
    v.u.d = (infer__jdict *)infer__jj_alloc(j, 1, sizeof *v.u.d);
    return v.u.d ? v : infer__jv_none();
}

static int infer__jv_mark(infer__jv v) {
    if (v.kind == INFER__JV_STRING || v.kind == INFER__JV_BIG) return v.u.s->marks != NULL || v.u.s->mark;
    return v.kind != INFER__JV_UNDEFINED && v.mark;
}
static infer__jv infer__jv_member(infer__jv v, int mark) {
    if (mark && v.kind != INFER__JV_STRING && v.kind != INFER__JV_BIG) v.mark = 1;
    return v;
}
static infer__jv infer__jv_claim(infer__jj *j, infer__jv v, int mark) {
    infer__jv out;
    if (!mark || j->r != INFER_OK) return v;
    if (v.kind != INFER__JV_STRING && v.kind != INFER__JV_BIG) return infer__jv_member(v, 1);
    out = infer__jv_view(j, v.u.s->s, v.u.s->n, 1);
    if (out.kind != INFER__JV_STRING) return out;
    out.u.s->safe = v.u.s->safe;
    out.kind = v.kind;
    return out;
}

static infer__jv infer__jv_json(infer__jj *j, const infer_json *x, int mark) {
    infer__jv v = infer__jv_none();
    uint64_t i;
    if (!infer__jj_work(j, 1)) return v;
    if (j->grows) j->max_memory += 32 * (8 + (x->kind == INFER_JSON_STRING ? x->n : 0));
    switch (x->kind) {
    case INFER_JSON_FALSE:
    case INFER_JSON_TRUE: v = infer__jv_bool(x->kind == INFER_JSON_TRUE); break;
    case INFER_JSON_INT: v = infer__jv_int(x->v.i); break;
    case INFER_JSON_FLOAT:
        v = infer__jv_float(x->v.f);
        if (!memchr(x->s, '.', (size_t)x->n) && !memchr(x->s, 'e', (size_t)x->n) && !memchr(x->s, 'E', (size_t)x->n)) {
            v = infer__jv_view(j, x->s, (size_t)x->n, mark);
            if (v.kind == INFER__JV_STRING) v.kind = INFER__JV_BIG;
        }
        break;
    case INFER_JSON_STRING: return infer__jv_view(j, x->s, (size_t)x->n, mark);
    case INFER_JSON_ARRAY:
        v = infer__jv_list(j, INFER__JV_LIST);
        for (i = 0; i < x->n && j->r == INFER_OK; i++)
            infer__jlist_add(j, v.u.l, infer__jv_json(j, &x->v.items[i], mark));
        break;
    case INFER_JSON_OBJECT:
        v = infer__jv_dict(j);
        for (i = 0; i < x->n && j->r == INFER_OK; i++) {
            infer__jv key = infer__jv_json(j, &x->v.items[2 * i], mark);
            infer__jdict_set(j, v.u.d, key, infer__jv_json(j, &x->v.items[2 * i + 1], mark));
        }
        break;
    default: break;
    }
    v.mark = (uint8_t)(mark != 0);
    return v;
}

/* ---- strings being made ---------------------------------------------------------------------------------------- */

static infer__jbuf infer__jbuf_new(infer__jj *j) {
    infer__jbuf b;
    memset(&b, 0, sizeof b);
    b.j = j;
    return b;
}

/* Room for n more bytes, and for marks when the text is no longer of one kind. */
static int infer__jbuf_room(infer__jbuf *b, size_t n, int marks) {
    infer__jj *j = b->j;
    if (j->r != INFER_OK) return 0;
    if (b->is_output && (n > j->max_output || b->n > j->max_output - n)) {
        infer__jj_fail(j, INFER_ERR_MEMORY, "the rendered text is longer than its limit (max_output)");
        return 0;
    }
    if (n > b->cap - b->n) {
        uint64_t cap = (uint64_t)b->n + n + b->n / 2 + 32;
        char *s = (char *)infer__jj_alloc(j, cap, 1);
        uint8_t *m = b->marks ? (uint8_t *)infer__jj_alloc(j, cap, 1) : NULL;
        if (j->r != INFER_OK) return 0;
        if (b->n) memcpy(s, b->s, b->n);
        if (m) memcpy(m, b->marks, b->n);
        b->s = s;
        b->marks = m;
        b->cap = (size_t)cap;
    }
    if (marks && !b->marks) {
        b->marks = (uint8_t *)infer__jj_alloc(j, b->cap, 1);
        if (!b->marks) return 0;
        memset(b->marks, b->mark, b->n);
    }
    return infer__jj_bytes(j, n);
}
static void infer__jbuf_put(infer__jbuf *b, const char *s, size_t n, int mark) {
    if (n == 0) return;
    if (b->n == 0 && !b->marks) b->mark = (uint8_t)(mark != 0);
    if (!infer__jbuf_room(b, n, mark != b->mark)) return;
    memcpy(b->s + b->n, s, n);
    if (b->marks) memset(b->marks + b->n, mark != 0, n);
    b->n += n;
}
static void infer__jbuf_part(infer__jbuf *b, const infer__jstr *s, size_t from, size_t to) {
    if (to <= from) return;
    if (!s->marks) {
        infer__jbuf_put(b, s->s + from, to - from, s->mark);
        return;
    }
    if (!infer__jbuf_room(b, to - from, 1)) return;
    memcpy(b->s + b->n, s->s + from, to - from);
    memcpy(b->marks + b->n, s->marks + from, to - from);
    b->n += to - from;
}
static void infer__jbuf_str(infer__jbuf *b, const infer__jstr *s) { infer__jbuf_part(b, s, 0, s->n); }
static void infer__jbuf_text(infer__jbuf *b, const char *s, int mark) { infer__jbuf_put(b, s, strlen(s), mark); }

static infer__jv infer__jbuf_done(infer__jbuf *b) {
    infer__jv v = infer__jv_view(b->j, b->n ? b->s : "", b->n, b->mark);
    if (v.kind == INFER__JV_STRING) v.u.s->marks = b->marks;
    return v;
}

/* a + b. Long texts are put together piece by piece: then b is appended where a ends, and nothing is copied twice. */
static infer__jv infer__jv_concat(infer__jj *j, infer__jv av, infer__jv bv) {
    const infer__jstr *a = av.u.s, *b = bv.u.s;
    infer__jgrow *g = a->home;
    infer__jv v;
    size_t n = a->n + b->n;
    int mixed = a->marks || b->marks || (a->n && b->n && a->mark != b->mark);
    if (j->r != INFER_OK) return infer__jv_none();
    if (b->n == 0) return infer__jv_part(j, a, 0, a->n);
    if (!g || a->s + a->n != g->s + g->n || b->n > g->cap - g->n) {
        uint64_t cap = (uint64_t)n + (n >= 256 ? n : 0);
        g = (infer__jgrow *)infer__jj_alloc(j, 1, sizeof *g);
        if (g) g->s = (char *)infer__jj_alloc(j, cap + 1, 1);
        if (g && mixed) g->marks = (uint8_t *)infer__jj_alloc(j, cap + 1, 1);
        if (j->r != INFER_OK) return infer__jv_none();
        g->cap = (size_t)cap;
        if (!infer__jj_bytes(j, a->n)) return infer__jv_none();
        if (a->n) memcpy(g->s, a->s, a->n);
        if (g->marks && a->marks) memcpy(g->marks, a->marks, a->n);
        else if (g->marks) memset(g->marks, a->mark, a->n);
        g->n = a->n;
    } else if (mixed && !g->marks) {
        g->marks = (uint8_t *)infer__jj_alloc(j, (uint64_t)g->cap + 1, 1);
        if (!g->marks) return infer__jv_none();
        memset(g->marks, a->mark, g->n);
    }
    if (!infer__jj_bytes(j, b->n)) return infer__jv_none();
    memcpy(g->s + g->n, b->s, b->n);
    if (g->marks && b->marks) memcpy(g->marks + g->n, b->marks, b->n);
    else if (g->marks) memset(g->marks + g->n, b->mark, b->n);
    g->n += b->n;
    v = infer__jv_view(j, g->s + g->n - n, n, a->n ? a->mark : b->mark);
    if (v.kind != INFER__JV_STRING) return v;
    if (g->marks) v.u.s->marks = g->marks + (g->n - n);
    v.u.s->home = g;
    return v;
}

/* ---- lists and dicts --------------------------------------------------------------------------------------------- */

static void infer__jlist_add(infer__jj *j, infer__jlist *l, infer__jv v) {
    if (j->r != INFER_OK) return;
    if (l->n == l->cap) {
        size_t cap = l->cap * 2 + 4;
        infer__jv *items = (infer__jv *)infer__jj_alloc(j, cap, sizeof *items);
        if (!items) return;
        if (l->n) memcpy(items, l->items, l->n * sizeof *items);
        l->items = items;
        l->cap = cap;
    }
    l->items[l->n++] = v;
}

static int infer__double_special(double x) {
    uint64_t bits;
    memcpy(&bits, &x, 8);
    return (bits >> 52 & 0x7ff) != 0x7ff ? 0 : bits << 12 ? 2 : 1;
}
static double infer__double_make(int special) {
    uint64_t bits = special == 2 ? (uint64_t)0x7ff8 << 48 : (uint64_t)0x7ff << 52;
    double x;
    memcpy(&x, &bits, 8);
    return x;
}
static int infer__jv_is_number(infer__jv v) { return v.kind >= INFER__JV_BOOL && v.kind <= INFER__JV_FLOAT; }
static double infer__jv_number(infer__jv v) { return v.kind == INFER__JV_FLOAT ? v.u.f : (double)v.u.i; }
static int infer__jv_given(infer__jv v) { return !(v.kind == INFER__JV_UNDEFINED && v.flag); }
static int infer__jv_is(infer__jv v, const char *text) {
    return v.kind == INFER__JV_STRING && v.u.s->n == strlen(text) && memcmp(v.u.s->s, text, v.u.s->n) == 0;
}

/* Equal values have equal hashes, also 1, 1.0 and true. 0 = the value cannot be a key (the error is set). */
static int infer__jv_hash(infer__jj *j, infer__jv v, uint64_t *h) {
    size_t i;
    if (!infer__jj_work(j, 1)) return 0;
    switch (v.kind) {
    case INFER__JV_FLOAT:
        if (v.u.f >= -9.2e18 && v.u.f <= 9.2e18 && (double)(int64_t)v.u.f == v.u.f) v.u.i = (int64_t)v.u.f;
        /* fall through */
    case INFER__JV_BOOL:
    case INFER__JV_INT: *h = infer__fnv(*h, &v.u.i, sizeof v.u.i); return 1;
    case INFER__JV_STRING:
    case INFER__JV_BIG: *h = infer__fnv(*h, v.u.s->s, v.u.s->n); return infer__jj_scan(j, v.u.s->n);
    case INFER__JV_UNDEFINED:
    case INFER__JV_NONE: *h = infer__fnv(*h, &v.kind, 1); return 1;
    case INFER__JV_TUPLE:
        if (!infer__jj_enter(j)) { infer__jj_leave(j); return 0; }
        for (i = 0; i < v.u.l->n; i++)
            if (!infer__jv_hash(j, v.u.l->items[i], h)) break;
        infer__jj_leave(j);
        return j->r == INFER_OK;
    case INFER__JV_LIST:
    case INFER__JV_DICT:
        infer__jj_fail(j, INFER_ERR_FORMAT, "unhashable type: '%s'", infer__jv_type(v));
        return 0;
    default: *h = infer__fnv(*h, &v.u, sizeof v.u.i < sizeof(void *) ? sizeof v.u.i : sizeof(void *)); return 1;
    }
}

static void infer__jdict_reindex(infer__jj *j, infer__jdict *d) {
    size_t i, mask = 15;
    d->index = NULL;
    if (d->cap <= 8) return;
    while (mask < d->cap * 2) mask = mask * 2 + 1;
    d->index = (uint32_t *)infer__jj_alloc(j, (uint64_t)mask + 1, sizeof *d->index);
    if (!d->index) return;
    d->mask = mask;
    for (i = 0; i < d->n; i++) {
        uint64_t h = INFER__FNV, at;
        if (!infer__jv_hash(j, d->items[2 * i], &h)) return;
        for (at = h & mask; d->index[at] && infer__jj_work(j, 1); at = (at + 1) & mask) {}
        d->index[at] = (uint32_t)i + 1;
    }
}

static infer__jv *infer__jdict_find(infer__jj *j, const infer__jdict *d, infer__jv key) {
    uint64_t h = INFER__FNV;
    size_t i;
    if (j->r != INFER_OK || !infer__jv_hash(j, key, &h)) return NULL;
    if (!d->index) {
        for (i = 0; i < d->n; i++)
            if (infer__jv_equal(j, d->items[2 * i], key)) return &d->items[2 * i + 1];
        return NULL;
    }
    for (i = h & d->mask; d->index[i] && infer__jj_work(j, 1); i = (i + 1) & d->mask)
        if (infer__jv_equal(j, d->items[2 * (size_t)(d->index[i] - 1)], key))
            return &d->items[2 * (size_t)(d->index[i] - 1) + 1];
    return NULL;
}
static infer__jv *infer__jdict_name(infer__jj *j, const infer__jdict *d, const char *s, size_t n) {
    infer__jstr name;
    infer__jv key = infer__jv_of(INFER__JV_STRING);
    memset(&name, 0, sizeof name);
    name.s = s;
    name.n = n;
    key.u.s = &name;
    return infer__jdict_find(j, d, key);
}

static void infer__jdict_set(infer__jj *j, infer__jdict *d, infer__jv key, infer__jv v) {
    infer__jv *old = infer__jdict_find(j, d, key); /* NULL after an error too */
    uint64_t h = INFER__FNV, at;
    if (old) *old = v;
    if (old || j->r != INFER_OK) return;
    if (d->n == d->cap) {
        size_t cap = d->cap ? d->cap * 2 : 4;
        infer__jv *items = cap < UINT32_MAX / 2 ? (infer__jv *)infer__jj_alloc(j, cap, 2 * sizeof *items) : NULL;
        if (!items) return;
        if (d->n) memcpy(items, d->items, d->n * 2 * sizeof *items);
        d->items = items;
        d->cap = cap;
        infer__jdict_reindex(j, d);
        if (j->r != INFER_OK) return;
    }
    d->items[2 * d->n] = key;
    d->items[2 * d->n + 1] = v;
    d->n++;
    if (!d->index) return;
    if (!infer__jv_hash(j, key, &h)) return;
    for (at = h & d->mask; d->index[at] && infer__jj_work(j, 1); at = (at + 1) & d->mask) {}
    d->index[at] = (uint32_t)d->n;
}

/* Take member i out. */
static void infer__jdict_drop(infer__jj *j, infer__jdict *d, size_t i) {
    d->n--;
    memmove(d->items + 2 * i, d->items + 2 * i + 2, (d->n - i) * 2 * sizeof *d->items);
    if (infer__jj_work(j, d->n / 4 + 1)) infer__jdict_reindex(j, d);
}

static infer__jlist *infer__jv_items(infer__jj *j, infer__jv v) {
    infer__jv out = infer__jv_list(j, INFER__JV_LIST);
    infer__jlist *l = out.u.l;
    size_t i, len;
    if (j->r != INFER_OK) return NULL;
    switch (v.kind) {
    case INFER__JV_LIST: case INFER__JV_TUPLE: case INFER__JV_RANGE: case INFER__JV_VIEW: return v.u.l;
    case INFER__JV_ITER:
        l->items = v.u.l->n ? v.u.l->items + v.u.l->at : NULL;
        l->n = l->cap = v.u.l->n - v.u.l->at;
        v.u.l->at = v.u.l->n;
        return l;
    case INFER__JV_UNDEFINED: return l;
    case INFER__JV_STRING:
        for (i = 0; i < v.u.s->n && infer__jj_work(j, 1); i += len) {
            infer__utf8_next(v.u.s->s + i, v.u.s->n - i, &len, NULL);
            infer__jlist_add(j, l, infer__jv_part(j, v.u.s, i, i + len));
        }
        return j->r == INFER_OK ? l : NULL;
    case INFER__JV_DICT:
        for (i = 0; i < v.u.d->n && infer__jj_work(j, 1); i++) infer__jlist_add(j, l, v.u.d->items[2 * i]);
        return j->r == INFER_OK ? l : NULL;
    case INFER__JV_LOOP: /* goes on with the loop's items: not offered */
    default: infer__jj_fail(j, INFER_ERR_FORMAT, "'%s' object is not iterable", infer__jv_type(v)); return NULL;
    }
}

/* ---- questions --------------------------------------------------------------------------------------------------- */

static const char *infer__jv_type(infer__jv v) {
    static const char *const NAMES[] = {"Undefined", "NoneType", "bool",  "int",       "float",     "int",  "str",
                                        "list",      "tuple",    "range", "generator", "dict view", "dict", "Namespace",
                                        "Macro",     "method",   "function", "LoopContext", "Cycler", "Joiner"};
    return NAMES[v.kind];
}

static int infer__jv_true(infer__jv v) {
    switch (v.kind) {
    case INFER__JV_UNDEFINED: case INFER__JV_NONE: return 0;
    case INFER__JV_BOOL: case INFER__JV_INT: return v.u.i != 0;
    case INFER__JV_FLOAT: return v.u.f != 0 || infer__double_special(v.u.f);
    case INFER__JV_STRING: return v.u.s->n > 0;
    case INFER__JV_LIST: case INFER__JV_TUPLE: case INFER__JV_RANGE: case INFER__JV_VIEW: return v.u.l->n > 0;
    case INFER__JV_DICT: return v.u.d->n > 0;
    default: return 1;
    }
}

/* -1, 0, 1; 2 = not comparable (NaN). Exact also where a double cannot hold the integer. */
static int infer__jv_compare_numbers(infer__jv a, infer__jv b) {
    double x, y;
    if (a.kind != INFER__JV_FLOAT && b.kind != INFER__JV_FLOAT) return a.u.i < b.u.i ? -1 : a.u.i > b.u.i;
    x = infer__jv_number(a);
    y = infer__jv_number(b);
    if (infer__double_special(x) == 2 || infer__double_special(y) == 2) return 2;
    if (a.kind != b.kind && x == y && x > -9.3e18 && x < 9.3e18) { /* the conversion may have rounded */
        if (x >= 9223372036854775808.0) return a.kind == INFER__JV_FLOAT ? 1 : -1;
        {
            int64_t i = a.kind == INFER__JV_FLOAT ? (int64_t)x : a.u.i,
                    k = b.kind == INFER__JV_FLOAT ? (int64_t)y : b.u.i;
            return i < k ? -1 : i > k;
        }
    }
    return x < y ? -1 : x > y;
}

static int infer__jv_equal(infer__jj *j, infer__jv a, infer__jv b) {
    size_t i;
    int same = 1;
    if (!infer__jj_work(j, 1)) return 0;
    if (infer__jv_is_number(a) && infer__jv_is_number(b)) return infer__jv_compare_numbers(a, b) == 0;
    if (a.kind != b.kind) return 0;
    switch (a.kind) {
    case INFER__JV_UNDEFINED: case INFER__JV_NONE: return 1;
    case INFER__JV_STRING: case INFER__JV_BIG:
        return a.u.s->n == b.u.s->n && infer__jj_bytes(j, a.u.s->n) && memcmp(a.u.s->s, b.u.s->s, a.u.s->n) == 0;
    case INFER__JV_LIST: case INFER__JV_TUPLE: case INFER__JV_RANGE:
        if (a.u.l == b.u.l) return 1;
        if (a.u.l->n != b.u.l->n) return 0;
        if (!infer__jj_enter(j)) same = 0;
        for (i = 0; same && i < a.u.l->n && i < b.u.l->n; i++)
            same = infer__jv_equal(j, a.u.l->items[i], b.u.l->items[i]);
        infer__jj_leave(j);
        return same;
    case INFER__JV_DICT:
        if (a.u.d == b.u.d) return 1;
        if (a.u.d->n != b.u.d->n) return 0;
        if (!infer__jj_enter(j)) same = 0;
        for (i = 0; same && i < a.u.d->n; i++) {
            infer__jv *other = infer__jdict_find(j, b.u.d, a.u.d->items[2 * i]);
            same = other && infer__jv_equal(j, a.u.d->items[2 * i + 1], *other);
        }
        infer__jj_leave(j);
        return same;
    default: return a.u.l == b.u.l; /* the same object */
    }
}

static int infer__jv_less(infer__jj *j, infer__jv a, infer__jv b) {
    size_t i, n;
    int c, less = 0;
    if (!infer__jj_work(j, 1)) return 0;
    if (infer__jv_is_number(a) && infer__jv_is_number(b)) return infer__jv_compare_numbers(a, b) == -1;
    if (a.kind == INFER__JV_STRING && b.kind == INFER__JV_STRING) {
        n = INFER__MIN(a.u.s->n, b.u.s->n);
        if (!infer__jj_bytes(j, n)) return 0;
        c = memcmp(a.u.s->s, b.u.s->s, n); /* the order of UTF-8 is that of code points */
        return c ? c < 0 : a.u.s->n < b.u.s->n;
    }
    if (a.kind == b.kind && (a.kind == INFER__JV_LIST || a.kind == INFER__JV_TUPLE)) {
        n = INFER__MIN(a.u.l->n, b.u.l->n);
        if (infer__jj_enter(j)) {
            for (i = 0; i < n && infer__jv_equal(j, a.u.l->items[i], b.u.l->items[i]); i++) {}
            if (j->r == INFER_OK)
                less = i < n ? infer__jv_less(j, a.u.l->items[i], b.u.l->items[i]) : a.u.l->n < b.u.l->n;
        }
        infer__jj_leave(j);
        return less;
    }
    if (a.kind == INFER__JV_UNDEFINED || b.kind == INFER__JV_UNDEFINED) {
        const infer__jstr *what = a.kind == INFER__JV_UNDEFINED ? a.u.s : b.u.s;
        infer__jj_fail(j, INFER_ERR_FORMAT, "%.*s is undefined", what ? (int)INFER__MIN(what->n, 200) : 1,
                       what ? what->s : "?");
    } else {
        infer__jj_fail(j, INFER_ERR_FORMAT, "'<' not supported between instances of '%s' and '%s'", infer__jv_type(a),
                       infer__jv_type(b));
    }
    return 0;
}

/* The byte where part begins in s[from..n); n + 1 = nowhere. */
static size_t infer__jinja_search(infer__jj *j, const infer__jstr *s, size_t from, const infer__jstr *part) {
    size_t i = from;
    if (part->n == 0) return from <= s->n ? from : s->n + 1;
    while (i < s->n && part->n <= s->n - i) {
        const char *p = (const char *)memchr(s->s + i, part->s[0], s->n - i - part->n + 1);
        size_t same, next = p ? (size_t)(p - s->s) : s->n;
        if (!infer__jj_bytes(j, next - i) || !p) break;
        i = next;
        for (same = 1; same < part->n && s->s[i + same] == part->s[same]; same++) {}
        if (same == part->n) return i;
        if (!infer__jj_work(j, 1 + same / 16)) break;
        i++;
    }
    return s->n + 1;
}

static int infer__jv_has(infer__jj *j, infer__jv box, infer__jv x) {
    infer__jlist *l;
    size_t i;
    if (box.kind == INFER__JV_STRING) {
        if (x.kind == INFER__JV_STRING) return infer__jinja_search(j, box.u.s, 0, x.u.s) <= box.u.s->n;
        infer__jj_fail(j, INFER_ERR_FORMAT, "'in <string>' requires string as left operand, not %s", infer__jv_type(x));
        return 0;
    }
    if (box.kind == INFER__JV_DICT) return infer__jdict_find(j, box.u.d, x) != NULL;
    l = infer__jv_items(j, box);
    for (i = 0; l && i < l->n; i++) if (infer__jv_equal(j, l->items[i], x)) return 1;
    return 0;
}
