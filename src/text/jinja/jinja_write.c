/* jinja_write.c: values -> text: str() and repr() as Python has them, tojson as json.dumps.
 *
 * Rules: text that stands for a message's value counts as the message's: also brackets and quotes around it.
 *        Depth is bounded; a list inside of itself is an error.
 */
#include "jinja.h"

/* 1 when something in v is from a message. */
static int infer__jv_marked(infer__jj *j, infer__jv v) {
    size_t i, n = 0;
    const infer__jv *items = NULL;
    int marked = 0;
    switch (v.kind) {
    case INFER__JV_STRING: case INFER__JV_BIG:
        if (!v.u.s->marks) return v.u.s->mark;
        return infer__jj_bytes(j, v.u.s->n) && memchr(v.u.s->marks, 1, v.u.s->n) != NULL;
    case INFER__JV_LIST: case INFER__JV_TUPLE: case INFER__JV_VIEW: items = v.u.l->items; n = v.u.l->n; break;
    case INFER__JV_DICT: case INFER__JV_SPACE: items = v.u.d->items; n = v.u.d->n * 2; break;
    default: return v.mark;
    }
    if (v.mark) return 1;
    if (!infer__jj_enter(j)) n = 0;
    for (i = 0; i < n && !marked && infer__jj_work(j, 1); i++) marked = infer__jv_marked(j, items[i]);
    infer__jj_leave(j);
    return marked;
}

static int infer__jinja_printable(uint32_t cp) {
    if (cp < 0x7f) return cp >= 0x20;
    return (infer__uc_class(cp) & (INFER__UC_LETTER | INFER__UC_MARK | INFER__UC_NUMBER | INFER__UC_PUNCT |
                                   INFER__UC_SYMBOL)) != 0;
}

static void infer__jbuf_repr_string(infer__jbuf *b, const infer__jstr *s) {
    char quote = memchr(s->s, '\'', s->n) && !memchr(s->s, '"', s->n) ? '"' : '\'', text[16];
    size_t i, len, paid = 0;
    int mark = s->n && s->marks ? s->marks[0] : s->mark;
    infer__jbuf_put(b, &quote, 1, mark);
    for (i = 0; i < s->n && infer__jj_chars(b->j, i, &paid); i += len) {
        uint32_t cp = infer__utf8_next(s->s + i, s->n - i, &len, NULL);
        const char *p = cp && cp < 128 ? strchr("\\\\\nn\rr\tt", (int)cp) : NULL;
        if (s->marks) mark = s->marks[i];
        if (cp == '\\' || cp == (uint32_t)quote || cp == '\n' || cp == '\r' || cp == '\t') {
            text[0] = '\\';
            text[1] = cp == '\\' || cp == (uint32_t)quote ? (char)cp : p[1];
            infer__jbuf_put(b, text, 2, mark);
        } else if (infer__jinja_printable(cp)) {
            infer__jbuf_part(b, s, i, i + len);
        } else {
            infer__format(text, sizeof text,
                          cp < 0x100     ? "\\x%02x"
                          : cp < 0x10000 ? "\\u%04x"
                                         : "\\U%08x",
                          (unsigned)cp);
            infer__jbuf_text(b, text, mark);
        }
    }
    infer__jbuf_put(b, &quote, 1, mark);
}

static void infer__jbuf_number(infer__jbuf *b, infer__jv v) {
    char text[40];
    if (!infer__jj_work(b->j, v.kind == INFER__JV_FLOAT ? INFER__JINJA_FLOAT : 1)) return;
    if (v.kind == INFER__JV_FLOAT) infer__double_text(v.u.f, text);
    else infer__format(text, sizeof text, "%lld", (long long)v.u.i);
    infer__jbuf_text(b, text, v.mark);
}

static void infer__jbuf_repr_at(infer__jbuf *b, infer__jv v, int mark);

static void infer__jbuf_repr_list(infer__jbuf *b, infer__jv v, int mark) {
    int square = v.kind != INFER__JV_TUPLE;
    size_t i;
    if (v.kind == INFER__JV_VIEW) infer__jbuf_text(b, v.u.l->name, mark);
    if (v.kind == INFER__JV_VIEW) infer__jbuf_text(b, "(", mark);
    infer__jbuf_text(b, square ? "[" : "(", mark);
    for (i = 0; i < v.u.l->n && infer__jj_work(b->j, 1); i++) {
        if (i) infer__jbuf_text(b, ", ", mark);
        infer__jbuf_repr_at(b, v.u.l->items[i], mark);
    }
    infer__jbuf_text(b, square ? "]" : v.u.l->n == 1 ? ",)" : ")", mark);
    if (v.kind == INFER__JV_VIEW) infer__jbuf_text(b, ")", mark);
}
static void infer__jbuf_repr_dict(infer__jbuf *b, infer__jv v, int mark) {
    size_t i;
    infer__jbuf_text(b, v.kind == INFER__JV_SPACE ? "<Namespace {" : "{", mark);
    for (i = 0; i < v.u.d->n && infer__jj_work(b->j, 1); i++) {
        if (i) infer__jbuf_text(b, ", ", mark);
        infer__jbuf_repr_at(b, v.u.d->items[2 * i], mark);
        infer__jbuf_text(b, ": ", mark);
        infer__jbuf_repr_at(b, v.u.d->items[2 * i + 1], mark);
    }
    infer__jbuf_text(b, v.kind == INFER__JV_SPACE ? "}>" : "}", mark);
}
static void infer__jbuf_repr_range(infer__jbuf *b, const infer__jlist *r, int mark) {
    char text[80];
    if (r->step == 1) infer__format(text, sizeof text, "range(%lld, %lld)", (long long)r->start, (long long)r->stop);
    else infer__format(text, sizeof text, "range(%lld, %lld, %lld)", (long long)r->start, (long long)r->stop,
                       (long long)r->step);
    infer__jbuf_text(b, text, mark);
}

static void infer__jbuf_repr_at(infer__jbuf *b, infer__jv v, int mark) {
    if (!infer__jj_enter(b->j)) {
        infer__jj_leave(b->j);
        return;
    }
    switch (v.kind) {
    case INFER__JV_UNDEFINED: infer__jbuf_text(b, "Undefined", mark); break;
    case INFER__JV_NONE: infer__jbuf_text(b, "None", v.mark); break;
    case INFER__JV_BOOL: infer__jbuf_text(b, v.u.i ? "True" : "False", v.mark); break;
    case INFER__JV_INT: case INFER__JV_FLOAT: infer__jbuf_number(b, v); break;
    case INFER__JV_BIG: infer__jbuf_str(b, v.u.s); break;
    case INFER__JV_STRING: infer__jbuf_repr_string(b, v.u.s); break;
    case INFER__JV_LIST: case INFER__JV_TUPLE: case INFER__JV_VIEW: infer__jbuf_repr_list(b, v, mark); break;
    case INFER__JV_RANGE: infer__jbuf_repr_range(b, v.u.l, v.mark); break;
    case INFER__JV_DICT: case INFER__JV_SPACE: infer__jbuf_repr_dict(b, v, mark); break;
    case INFER__JV_MACRO:
        infer__jbuf_text(b, "<Macro '", 0);
        infer__jbuf_put(b, v.u.macro->node->s, v.u.macro->node->n, 0);
        infer__jbuf_text(b, "'>", 0);
        break;
    default: /* Python writes addresses here */
        infer__jbuf_text(b, "<", 0);
        infer__jbuf_text(b, infer__jv_type(v), 0);
        infer__jbuf_text(b, ">", 0);
        break;
    }
    infer__jj_leave(b->j);
}
static void infer__jbuf_repr(infer__jbuf *b, infer__jv v) { infer__jbuf_repr_at(b, v, infer__jv_marked(b->j, v)); }

static void infer__jbuf_value(infer__jbuf *b, infer__jv v) {
    if (v.kind == INFER__JV_STRING) infer__jbuf_str(b, v.u.s);
    else if (v.kind != INFER__JV_UNDEFINED) infer__jbuf_repr(b, v);
}

static infer__jv infer__jv_str(infer__jj *j, infer__jv v) {
    infer__jbuf b = infer__jbuf_new(j);
    if (v.kind == INFER__JV_STRING || j->r != INFER_OK) return v;
    infer__jbuf_value(&b, v);
    return infer__jbuf_done(&b);
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

typedef struct infer__jjson {
    infer__jbuf *b;
    const infer__jstr *indent; /* NULL = one line */
    const infer__jstr *between, *colon; /* NULL = ", " or ","; ": " */
    int ascii, sorted, mark;
} infer__jjson;

static void infer__jjson_string(infer__jjson *w, const infer__jstr *s) {
    size_t i, len, paid = 0;
    char text[16];
    int mark = s->n && s->marks ? s->marks[0] : s->mark;
    infer__jbuf_put(w->b, "\"", 1, mark);
    for (i = 0; i < s->n && infer__jj_chars(w->b->j, i, &paid); i += len) {
        static const char FROM[] = "\"\\\b\f\n\r\t", TO[] = "\"\\bfnrt";
        uint32_t cp = infer__utf8_next(s->s + i, s->n - i, &len, NULL);
        const char *p = cp && cp < 128 ? strchr(FROM, (int)cp) : NULL;
        if (s->marks) mark = s->marks[i];
        if (p) {
            text[0] = '\\';
            text[1] = TO[p - FROM];
            infer__jbuf_put(w->b, text, 2, mark);
        } else if (cp < 0x20 || (w->ascii && cp >= 0x7f && cp < 0x10000 && cp != 0x7f)) {
            infer__format(text, sizeof text, "\\u%04x", (unsigned)cp);
            infer__jbuf_text(w->b, text, mark);
        } else if (w->ascii && cp >= 0x10000) {
            infer__format(text, sizeof text, "\\u%04x\\u%04x", (unsigned)(0xd800 + ((cp - 0x10000) >> 10)),
                          (unsigned)(0xdc00 + ((cp - 0x10000) & 0x3ff)));
            infer__jbuf_text(w->b, text, mark);
        } else {
            infer__jbuf_part(w->b, s, i, i + len);
        }
    }
    infer__jbuf_put(w->b, "\"", 1, mark);
}

static void infer__jjson_line(infer__jjson *w, int depth) {
    if (!w->indent) return;
    infer__jbuf_put(w->b, "\n", 1, w->mark);
    for (; depth > 0 && infer__jj_work(w->b->j, 1); depth--) infer__jbuf_put(w->b, w->indent->s, w->indent->n, w->mark);
}
static void infer__jjson_value(infer__jjson *w, infer__jv v, int depth);

/* A key: a string, or a number, true, false, null in quotes. */
static void infer__jjson_key(infer__jjson *w, infer__jv key) {
    if (key.kind == INFER__JV_STRING) {
        infer__jjson_string(w, key.u.s);
    } else if (infer__jv_is_number(key) || key.kind == INFER__JV_NONE) {
        infer__jbuf_put(w->b, "\"", 1, w->mark);
        infer__jjson_value(w, key, 0);
        infer__jbuf_put(w->b, "\"", 1, w->mark);
    } else {
        infer__jj_fail(w->b->j, INFER_ERR_FORMAT, "tojson: keys must be str, int, float, bool or None, not %s",
                       infer__jv_type(key));
    }
}

static void infer__jjson_many(infer__jjson *w, infer__jv v, int depth) {
    int dict = v.kind == INFER__JV_DICT;
    size_t i, n = dict ? v.u.d->n : v.u.l->n;
    infer__jlist *order = NULL;
    if (dict && w->sorted) order = infer__jlist_sorted_keys(w->b->j, v.u.d);
    infer__jbuf_put(w->b, dict ? "{" : "[", 1, w->mark);
    for (i = 0; i < n && infer__jj_work(w->b->j, 1); i++) {
        if (i && w->between) infer__jbuf_put(w->b, w->between->s, w->between->n, w->mark);
        else if (i) infer__jbuf_text(w->b, w->indent ? "," : ", ", w->mark);
        infer__jjson_line(w, depth + 1);
        if (dict) {
            infer__jv key = order ? order->items[i] : v.u.d->items[2 * i], *value;
            infer__jjson_key(w, key);
            if (w->colon) infer__jbuf_put(w->b, w->colon->s, w->colon->n, w->mark);
            else infer__jbuf_text(w->b, ": ", w->mark);
            value = order ? infer__jdict_find(w->b->j, v.u.d, key) : &v.u.d->items[2 * i + 1];
            if (value) infer__jjson_value(w, *value, depth + 1);
        } else {
            infer__jjson_value(w, v.u.l->items[i], depth + 1);
        }
    }
    if (n) infer__jjson_line(w, depth);
    infer__jbuf_put(w->b, dict ? "}" : "]", 1, w->mark);
}

static void infer__jjson_value(infer__jjson *w, infer__jv v, int depth) {
    if (infer__jj_enter(w->b->j)) {
        switch (v.kind) {
        case INFER__JV_NONE: infer__jbuf_text(w->b, "null", v.mark); break;
        case INFER__JV_BOOL: infer__jbuf_text(w->b, v.u.i ? "true" : "false", v.mark); break;
        case INFER__JV_FLOAT:
            if (infer__double_special(v.u.f) == 2) infer__jbuf_text(w->b, "NaN", v.mark);
            else if (infer__double_special(v.u.f)) infer__jbuf_text(w->b, v.u.f > 0 ? "Infinity" : "-Infinity", v.mark);
            else infer__jbuf_number(w->b, v);
            break;
        case INFER__JV_INT: infer__jbuf_number(w->b, v); break;
        case INFER__JV_BIG: infer__jbuf_str(w->b, v.u.s); break;
        case INFER__JV_STRING: infer__jjson_string(w, v.u.s); break;
        case INFER__JV_LIST: case INFER__JV_TUPLE: case INFER__JV_DICT: infer__jjson_many(w, v, depth); break;
        default:
            infer__jj_fail(w->b->j, INFER_ERR_FORMAT, "tojson: an object of type %s is not JSON serializable",
                           infer__jv_type(v));
            break;
        }
    }
    infer__jj_leave(w->b->j);
}

/* tojson(ensure_ascii=False, indent=None, separators=None, sort_keys=False) */
static infer__jv infer__jfilter_tojson(infer__jj *j, const infer__jcall *c) {
    infer__jbuf b = infer__jbuf_new(j);
    infer__jjson w;
    memset(&w, 0, sizeof w);
    w.b = &b;
    w.ascii = infer__jv_true(c->a[0]);
    w.sorted = infer__jv_true(c->a[3]);
    w.mark = infer__jv_marked(j, c->self) | infer__jv_mark(c->a[1]) | infer__jv_mark(c->a[2]);
    if (c->a[1].kind == INFER__JV_INT || c->a[1].kind == INFER__JV_BOOL) {
        infer__jv space = infer__jv_view(j, " ", 1, 0);
        if (j->r == INFER_OK) space = infer__jj_repeat(j, space, c->a[1].u.i);
        if (j->r != INFER_OK) return space;
        w.indent = space.u.s;
    } else if (c->a[1].kind == INFER__JV_STRING) {
        w.indent = c->a[1].u.s;
    } else if (c->a[1].kind != INFER__JV_NONE && infer__jv_given(c->a[1])) {
        return infer__jj_fail(j, INFER_ERR_FORMAT, "tojson: indent must be a number or a string");
    }
    if (infer__jv_given(c->a[2]) && c->a[2].kind != INFER__JV_NONE) {
        infer__jlist *l = infer__jv_items(j, c->a[2]);
        if (!l) return infer__jv_none();
        if (l->n != 2 || l->items[0].kind != INFER__JV_STRING || l->items[1].kind != INFER__JV_STRING)
            return infer__jj_fail(j, INFER_ERR_FORMAT, "tojson: separators must be two strings");
        w.mark |= infer__jv_mark(l->items[0]) | infer__jv_mark(l->items[1]);
        w.between = l->items[0].u.s;
        w.colon = l->items[1].u.s;
    }
    infer__jjson_value(&w, c->self, 0);
    return infer__jbuf_done(&b);
}
