/* jinja_filters.c: the filters of text and numbers; the table of all filters is at its end.
 *
 * Owns:  INFER__JFILTERS, one row per filter, with the parameters that Jinja's documentation gives it.
 * Rules: what Jinja converts with str() first is converted here by infer__jfilter_self.
 */
#include "jinja.h"

/* A filter that is a method of str(value). */
#define INFER__JFILTER_OF(name, method)                                        \
    static infer__jv infer__jfilter_##name(infer__jj *j, const infer__jcall *c) { \
        infer__jcall s = *c;                                                   \
        s.self = infer__jv_str(j, c->self);                                    \
        return j->r == INFER_OK ? method(j, &s) : s.self;                      \
    }
INFER__JFILTER_OF(upper, infer__jstr_upper)
INFER__JFILTER_OF(lower, infer__jstr_lower)
INFER__JFILTER_OF(capitalize, infer__jstr_capitalize)
INFER__JFILTER_OF(trim, infer__jstr_strip)
INFER__JFILTER_OF(replace, infer__jstr_replace)

static infer__jv infer__jfilter_string(infer__jj *j, const infer__jcall *c) { return infer__jv_str(j, c->self); }

/* Words begin after white space and - ( { [ <. */
static infer__jv infer__jfilter_title(infer__jj *j, const infer__jcall *c) {
    infer__jv v = infer__jv_str(j, c->self);
    const infer__jstr *s;
    infer__jbuf b = infer__jbuf_new(j);
    size_t i, len;
    int begin = 1;
    if (j->r != INFER_OK) return v;
    s = v.u.s;
    for (i = 0; i < s->n && infer__jj_work(j, 1); i += len) {
        uint32_t cp = infer__utf8_next(s->s + i, s->n - i, &len, NULL);
        char text[4];
        infer__jbuf_put(&b, text, infer__utf8_put(begin ? infer__uc_upper(cp) : infer__uc_lower(cp), text),
                        s->marks ? s->marks[i] : s->mark);
        begin = infer__jinja_space(cp) || (cp < 128 && cp && strchr("-({[<", (int)cp));
    }
    return infer__jbuf_done(&b);
}

static infer__jv infer__jfilter_center(infer__jj *j, const infer__jcall *c) {
    infer__jv v = infer__jv_str(j, c->self), none = infer__jv_none();
    if (j->r != INFER_OK) return v;
    memset(&none, 0, sizeof none);
    none.flag = 1;
    return infer__jstr_justify(j, v.u.s, infer__jv_given(c->a[0]) ? c->a[0] : infer__jv_int(80), none, 0);
}

/* indent(width=4, first=False, blank=False): width may be the text to indent with. */
static infer__jv infer__jfilter_indent(infer__jj *j, const infer__jcall *c) {
    infer__jv v = c->self, with;
    infer__jbuf b = infer__jbuf_new(j);
    int first = infer__jv_true(c->a[1]), blank = infer__jv_true(c->a[2]), line = 0;
    size_t i, from = 0;
    if (!infer__jarg_str(j, v)) return v;
    with = c->a[0];
    if (with.kind != INFER__JV_STRING) {
        with = infer__jv_view(j, " ", 1, 0);
        if (j->r != INFER_OK) return v;
        with = infer__jj_repeat(j, with, infer__jarg_int(j, c->a[0], 4));
        if (j->r != INFER_OK) return v;
    }
    for (i = 0; i <= v.u.s->n && infer__jj_work(j, 1); i++) {
        int end = i == v.u.s->n;
        if (!end && v.u.s->s[i] != '\n') continue;
        if (line ? (blank || i > from) : first) infer__jbuf_str(&b, with.u.s);
        infer__jbuf_part(&b, v.u.s, from, end ? i : i + 1);
        from = i + 1;
        line = 1;
    }
    return infer__jbuf_done(&b);
}

/* For HTML. Text that is safe already stays as it is. */
static infer__jv infer__jv_escape(infer__jj *j, infer__jv v) {
    static const struct { char c; const char *text; } ESCAPES[] = {
        {'&', "&amp;"}, {'>', "&gt;"}, {'<', "&lt;"}, {'\'', "&#39;"}, {'"', "&#34;"}};
    infer__jbuf b = infer__jbuf_new(j);
    size_t i, k, paid = 0;
    v = infer__jv_str(j, v);
    if (j->r != INFER_OK || v.u.s->safe) return v;
    for (i = 0; i < v.u.s->n && infer__jj_chars(j, i, &paid); i++) {
        for (k = 0; k < INFER__COUNT(ESCAPES) && ESCAPES[k].c != v.u.s->s[i]; k++) {}
        if (k < INFER__COUNT(ESCAPES))
            infer__jbuf_text(&b, ESCAPES[k].text, v.u.s->marks ? v.u.s->marks[i] : v.u.s->mark);
        else infer__jbuf_part(&b, v.u.s, i, i + 1);
    }
    v = infer__jbuf_done(&b);
    if (j->r == INFER_OK) v.u.s->safe = 1;
    return v;
}
static infer__jv infer__jfilter_escape(infer__jj *j, const infer__jcall *c) { return infer__jv_escape(j, c->self); }
static infer__jv infer__jfilter_forceescape(infer__jj *j, const infer__jcall *c) {
    infer__jv v = infer__jv_str(j, c->self);
    if (j->r == INFER_OK) v = infer__jv_part(j, v.u.s, 0, v.u.s->n);
    if (j->r == INFER_OK) v.u.s->safe = 0;
    return infer__jv_escape(j, v);
}
static infer__jv infer__jfilter_safe(infer__jj *j, const infer__jcall *c) {
    infer__jv v = infer__jv_str(j, c->self);
    if (j->r == INFER_OK) v = infer__jv_part(j, v.u.s, 0, v.u.s->n);
    if (j->r == INFER_OK) v.u.s->safe = 1;
    return v;
}

static int infer__jinja_is_word(uint32_t cp) {
    return cp == '_' || (infer__uc_class(cp) & (INFER__UC_LETTER | INFER__UC_NUMBER)) != 0;
}
static infer__jv infer__jfilter_wordcount(infer__jj *j, const infer__jcall *c) {
    infer__jv v = infer__jv_str(j, c->self);
    size_t i, len;
    int64_t n = 0;
    int inside = 0;
    if (j->r != INFER_OK) return v;
    for (i = 0; i < v.u.s->n && infer__jj_work(j, 1); i += len) {
        int word = infer__jinja_is_word(infer__utf8_next(v.u.s->s + i, v.u.s->n - i, &len, NULL));
        n += word && !inside;
        inside = word;
    }
    return infer__jv_int(n);
}

/* truncate(length=255, killwords=False, end='...', leeway=5) */
static infer__jv infer__jfilter_truncate(infer__jj *j, const infer__jcall *c) {
    infer__jv v = c->self, head, dots = infer__jv_view(j, "...", 3, infer__jv_mark(c->self));
    const infer__jstr *s, *end;
    int64_t length = infer__jarg_int(j, c->a[0], 255), leeway = infer__jarg_int(j, c->a[3], 5), n, e, most;
    size_t cut, i;
    if (j->r != INFER_OK || v.kind == INFER__JV_UNDEFINED) return v;
    if (!infer__i64_add_ok(length, leeway, &most)) most = leeway < 0 ? INT64_MIN : INT64_MAX;
    if (v.kind == INFER__JV_DICT && (int64_t)v.u.d->n <= most) return v; /* whatever is short */
    if (infer__jv_is_sequence(v) && (int64_t)v.u.l->n <= most) return v;
    s = infer__jarg_str(j, v);
    if (!s) return v;
    end = infer__jv_given(c->a[2]) ? infer__jarg_str(j, c->a[2]) : dots.u.s;
    if (!end || !infer__jj_scan(j, 3 * (uint64_t)s->n + end->n)) return v;
    n = (int64_t)infer__jinja_count(s->s, s->n);
    e = (int64_t)infer__jinja_count(end->s, end->n);
    if (length < e || leeway < 0)
        return infer__jj_fail(j, INFER_ERR_FORMAT, "truncate: length must be at least that of end");
    if (n - leeway <= length) return v;
    cut = infer__jinja_offset(s->s, s->n, (size_t)(length - e));
    if (!infer__jv_true(c->a[1])) /* back to the last space */
        for (i = cut; i-- > 0;) if (s->s[i] == ' ') { cut = i; break; }
    head = infer__jv_part(j, s, 0, cut);
    dots = infer__jv_part(j, end, 0, end->n);
    return j->r == INFER_OK ? infer__jv_concat(j, head, dots) : v;
}

static infer__jv infer__jfilter_urlencode_text(infer__jj *j, infer__jbuf *b, infer__jv v, int slash) {
    size_t i;
    v = infer__jv_str(j, v);
    for (i = 0; j->r == INFER_OK && i < v.u.s->n && infer__jj_work(j, 1); i++) {
        unsigned char ch = (unsigned char)v.u.s->s[i];
        char text[4];
        if (ch == ' ' && !slash) {
            infer__jbuf_put(b, "+", 1, v.u.s->marks ? v.u.s->marks[i] : v.u.s->mark);
        } else if ((ch >= '0' && ch <= '9') || ((ch | 32) >= 'a' && (ch | 32) <= 'z') || (ch && strchr("_.-~", ch)) ||
                   (ch == '/' && slash)) {
            infer__jbuf_part(b, v.u.s, i, i + 1);
        } else {
            infer__format(text, sizeof text, "%%%02X", (unsigned)ch);
            infer__jbuf_text(b, text, v.u.s->marks ? v.u.s->marks[i] : v.u.s->mark);
        }
    }
    return v;
}
static infer__jv infer__jfilter_urlencode(infer__jj *j, const infer__jcall *c) {
    infer__jbuf b = infer__jbuf_new(j);
    infer__jlist *l;
    size_t i;
    if (c->self.kind == INFER__JV_DICT || c->self.kind == INFER__JV_LIST || c->self.kind == INFER__JV_TUPLE) {
        infer__jv pairs = c->self;
        if (pairs.kind == INFER__JV_DICT) pairs = infer__jdict_list(j, pairs.u.d, 3, INFER__JV_LIST, "");
        l = infer__jv_items(j, pairs);
        for (i = 0; l && i < l->n && infer__jj_work(j, 1); i++) {
            infer__jlist *pair = infer__jv_items(j, l->items[i]);
            if (pair && pair->n != 2) infer__jj_fail(j, INFER_ERR_FORMAT, "urlencode: pairs are expected");
            if (j->r != INFER_OK) break;
            if (i) infer__jbuf_text(&b, "&", infer__jv_mark(pair->items[0]));
            infer__jfilter_urlencode_text(j, &b, pair->items[0], 0);
            infer__jbuf_text(&b, "=", infer__jv_mark(pair->items[0]));
            infer__jfilter_urlencode_text(j, &b, pair->items[1], 0);
        }
    } else {
        infer__jfilter_urlencode_text(j, &b, c->self, 1);
    }
    return infer__jbuf_done(&b);
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

/* The number that a text is, as Python's int() or float() read it. 0 = it is none. */
static int infer__jinja_read_int(const infer__jstr *s, int base, int64_t *out) {
    size_t from = infer__jinja_spaces(s->s, s->n), to = infer__jinja_stripped(s->s, s->n), i;
    int negative = 0, digits = 0;
    uint64_t u = 0;
    if (from < to && (s->s[from] == '-' || s->s[from] == '+')) negative = s->s[from++] == '-';
    if (to > from + 2 && s->s[from] == '0' && base != 10) {
        char c = (char)(s->s[from + 1] | 32);
        if ((c == 'x' && (base == 16 || base == 0)) || (c == 'o' && (base == 8 || base == 0)) ||
            (c == 'b' && (base == 2 || base == 0))) {
            base = c == 'x' ? 16 : c == 'o' ? 8 : 2;
            from += 2 + (s->s[from + 2] == '_');
        }
    }
    if (base == 0) base = 10;
    for (i = from; i < to; i++) {
        int d;
        if (s->s[i] == '_' && digits && i + 1 < to && s->s[i - 1] != '_') continue;
        d = infer__jlex_digit(s->s[i], base);
        if (d < 0 || u > ((uint64_t)INT64_MAX + (unsigned)negative - (uint64_t)d) / (uint64_t)base)
            return d < 0 ? 0 : -1;
        u = u * (uint64_t)base + (uint64_t)d;
        digits++;
    }
    *out = (int64_t)(negative ? 0 - u : u);
    return digits > 0;
}
static int infer__jinja_read_float(infer__jj *j, const infer__jstr *s, double *out) {
    size_t from = infer__jinja_spaces(s->s, s->n), to = infer__jinja_stripped(s->s, s->n), len, i, n = 0, sign;
    char *plain = (char *)infer__jj_alloc(j, (to > from ? to - from : 0) + 1, 1);
    static const char *const WORDS[] = {"inf", "infinity", "nan"};
    if (!plain || from >= to || !infer__jj_work(j, INFER__JINJA_FLOAT + s->n / 4)) return 0;
    for (i = from; i < to; i++) {
        if (s->s[i] == '_' && i > from && i + 1 < to && infer__jlex_digit(s->s[i - 1], 10) >= 0 &&
            infer__jlex_digit(s->s[i + 1], 10) >= 0) continue;
        plain[n++] = (char)(s->s[i] >= 'A' && s->s[i] <= 'Z' ? s->s[i] + 32 : s->s[i]);
    }
    sign = plain[0] == '-' || plain[0] == '+';
    for (i = 0; i < 3; i++) {
        if (strlen(WORDS[i]) != n - sign || memcmp(WORDS[i], plain + sign, n - sign) != 0) continue;
        *out = infer__double_make(i < 2 ? 1 : 2);
        if (plain[0] == '-') *out = -*out;
        return 1;
    }
    *out = infer__double_parse(plain, n, &len);
    if (len == n) return 1;
    return len + 1 == n && plain[n - 1] == '.' && len > sign; /* "1." */
}

static infer__jv infer__jfilter_int(infer__jj *j, const infer__jcall *c) {
    int64_t base = infer__jarg_int(j, c->a[1], 10), i = 0;
    infer__jv v = c->self, none = infer__jv_given(c->a[0]) ? c->a[0] : infer__jv_int(0);
    double f;
    int ok;
    if (v.kind == INFER__JV_UNDEFINED) return infer__jj_is_undefined(j, v);
    if (v.kind == INFER__JV_BIG) return infer__jj_overflow(j);
    if (v.kind == INFER__JV_STRING) {
        if ((base != 0 && (base < 2 || base > 36)) || !infer__jj_work(j, v.u.s->n / 4)) return none;
        ok = infer__jinja_read_int(v.u.s, (int)base, &i);
        if (ok < 0) return infer__jj_overflow(j);
        v = infer__jv_int(i);
        v.mark = (uint8_t)infer__jv_marked(j, c->self);
        if (ok) return v;
        if (!infer__jinja_read_float(j, c->self.u.s, &f)) return none;
        v.kind = INFER__JV_FLOAT;
        v.u.f = f;
    }
    if (v.kind == INFER__JV_FLOAT) {
        if (infer__double_special(v.u.f))
            return infer__double_special(v.u.f) == 2 || c->self.kind == INFER__JV_STRING ? none : infer__jj_overflow(j);
        if (!(v.u.f > -9223372036854775809.0 && v.u.f < 9223372036854775808.0)) return infer__jj_overflow(j);
        i = (int64_t)v.u.f;
        v.kind = INFER__JV_INT;
        v.u.i = i;
        return v;
    }
    if (v.kind == INFER__JV_BOOL) v.kind = INFER__JV_INT;
    return v.kind == INFER__JV_INT ? v : none;
}
static infer__jv infer__jfilter_float(infer__jj *j, const infer__jcall *c) {
    infer__jv v = c->self, none = infer__jv_given(c->a[0]) ? c->a[0] : infer__jv_float(0);
    double f;
    if (v.kind == INFER__JV_UNDEFINED) return infer__jj_is_undefined(j, v);
    if (infer__jv_is_number(v)) {
        f = infer__jv_number(v);
        v.kind = INFER__JV_FLOAT;
        v.u.f = f;
        return v;
    }
    if ((v.kind == INFER__JV_STRING || v.kind == INFER__JV_BIG) && infer__jinja_read_float(j, v.u.s, &f)) {
        none = infer__jv_float(f);
        none.mark = (uint8_t)infer__jv_marked(j, v);
    }
    return none;
}
static infer__jv infer__jfilter_abs(infer__jj *j, const infer__jcall *c) {
    infer__jv v = c->self;
    if (!infer__jv_is_number(v)) return infer__jj_want(j, "a number", v);
    if (v.kind == INFER__JV_BOOL) v.kind = INFER__JV_INT;
    if (v.kind == INFER__JV_FLOAT) v.u.f = fabs(v.u.f);
    else if (v.u.i < 0) return infer__jj_sign(j, v, INFER__JN_NEG);
    return v;
}
/* round(precision=0, method='common'|'ceil'|'floor'): a float, but of an integer an integer in the common
 * way. */
static infer__jv infer__jfilter_round(infer__jj *j, const infer__jcall *c) {
    int64_t places = infer__jarg_int(j, c->a[0], 0);
    infer__jv v = c->self;
    char text[700];
    size_t len, i;
    double scale = 1, x;
    int ceiling = infer__jv_is(c->a[1], "ceil"), floored = infer__jv_is(c->a[1], "floor");
    if (infer__jv_given(c->a[1]) && !ceiling && !floored && !infer__jv_is(c->a[1], "common"))
        return infer__jj_fail(j, INFER_ERR_FORMAT, "round: the method must be common, ceil or floor");
    if (!infer__jv_is_number(v)) return infer__jj_want(j, "a number", v);
    x = infer__jv_number(v);
    if (!infer__jj_work(j, places > 20 || places < -20 ? 5 * INFER__JINJA_FLOAT : INFER__JINJA_FLOAT)) return v;
    if (!ceiling && !floored) {
        if (v.kind != INFER__JV_FLOAT && places >= 0) {
            v.kind = INFER__JV_INT;
            return v;
        }
        if (v.kind != INFER__JV_FLOAT) { /* tens, hundreds: ties to even */
            int64_t unit = 1, half, r;
            if (places == -19 && (v.u.i > 5000000000000000000 || v.u.i < -5000000000000000000))
                return infer__jj_overflow(j);
            for (; places < 0; places++) if (!infer__i64_mul_ok(unit, 10, &unit)) return infer__jv_int(0);
            r = v.u.i % unit;
            if (r < 0) r += unit;
            half = unit / 2;
            v = infer__jj_arithmetic(j, '-', v, infer__jv_int(r));
            if (r > half || (r == half && (v.u.i / unit) % 2 != 0))
                v = infer__jj_arithmetic(j, '+', v, infer__jv_int(unit));
            return v;
        }
        if (places > 300 || infer__double_special(x)) return v;
        if (places < -310) return infer__jv_float(0);
        if (places < 0) { /* digits before the point: e + 1 + places of them stay */
            int e = 0;
            x = fabs(x);
            len = infer__double_scientific(x, 17, text);
            for (i = 21; i < len; i++) e = e * 10 + (text[i] - '0'); /* d.17 digits, e, sign: 21 characters */
            if (text[20] == '-') e = -e;
            if (e + places < 0) { /* 0, or up to 10^-places */
                infer__format(text, sizeof text, "5e%d", (int)(-places - 1));
                scale = infer__double_parse(text, strlen(text), &len);
                infer__format(text, sizeof text, "%de%d", e + places == -1 && x > scale ? 1 : 0, (int)-places);
            } else {
                infer__double_scientific(x, (int)(e + places), text);
            }
            x = infer__double_parse(text, strlen(text), &len);
        } else {
            len = infer__double_fixed(fabs(x), (int)places, text);
            x = infer__double_parse(text, len, &len);
        }
        v.u.f = copysign(x, v.u.f);
        return v;
    }
    if (places > 300 || places < -300) return infer__jj_fail(j, INFER_ERR_FORMAT, "round: too many places");
    for (i = 0; (int64_t)i < (places < 0 ? -places : places); i++) scale *= 10;
    if (places < 0) scale = 1 / scale;
    x = ceiling ? ceil(x * scale) : floor(x * scale);
    if (x == 0) x = 0; /* no -0.0: it is an integer in between */
    v.kind = INFER__JV_FLOAT;
    v.u.f = x / scale;
    return v;
}

/* striptags: without <...> and <!-- -->, white space made single. Entities are not resolved: an error. */
static infer__jv infer__jfilter_striptags(infer__jj *j, const infer__jcall *c) {
    infer__jv v = infer__jv_str(j, c->self), words, space = infer__jv_view(j, " ", 1, infer__jv_mark(v));
    infer__jbuf b = infer__jbuf_new(j);
    const infer__jstr *s;
    size_t i, from = 0;
    if (j->r != INFER_OK) return v;
    s = v.u.s;
    for (i = 0; i < s->n && infer__jj_work(j, 1); i++) {
        int comment = s->n - i >= 4 && memcmp(s->s + i, "<!--", 4) == 0;
        infer__jstr end = {"-->", NULL, 3, 0, 0, NULL};
        size_t to;
        if (s->s[i] != '<') continue;
        if (!comment) end.s = ">", end.n = 1;
        to = infer__jinja_search(j, s, comment ? i + 4 : i, &end);
        if (to > s->n) break;
        infer__jbuf_part(&b, s, from, i);
        from = to + end.n;
        i = from - 1;
    }
    infer__jbuf_part(&b, s, from, s->n);
    v = infer__jbuf_done(&b);
    if (j->r != INFER_OK) return v;
    if (memchr(v.u.s->s, '&', v.u.s->n)) return infer__jj_fail(j, INFER_ERR_UNSUPPORTED, "striptags of HTML entities");
    words = infer__jstr_split_space(j, v.u.s, -1, 0);
    return j->r == INFER_OK ? infer__jstr_join_with(j, space.u.s, words.u.l, 0) : v;
}

/* xmlattr(autospace=True): ' name="value"' of each member that is neither none nor undefined. */
static infer__jv infer__jfilter_xmlattr(infer__jj *j, const infer__jcall *c) {
    int space = infer__jv_given(c->a[0]) ? infer__jv_true(c->a[0]) : 1;
    infer__jbuf b = infer__jbuf_new(j);
    infer__jv key, value;
    size_t i, k;
    int mark;
    if (c->self.kind != INFER__JV_DICT) return infer__jj_want(j, "a dict", c->self);
    for (i = 0; i < c->self.u.d->n && infer__jj_work(j, 1); i++) {
        value = c->self.u.d->items[2 * i + 1];
        if (value.kind == INFER__JV_NONE || value.kind == INFER__JV_UNDEFINED) continue;
        if (!infer__jarg_str(j, c->self.u.d->items[2 * i])) break;
        key = infer__jv_escape(j, c->self.u.d->items[2 * i]);
        value = infer__jv_escape(j, value);
        if (j->r != INFER_OK) break;
        for (k = 0; k < key.u.s->n; k++)
            if (infer__jinja_space((unsigned char)key.u.s->s[k]) || (key.u.s->s[k] && strchr("/>=", key.u.s->s[k])))
                return infer__jj_fail(j, INFER_ERR_FORMAT, "xmlattr: an invalid character in a name");
        mark = infer__jv_mark(key) | infer__jv_mark(value);
        if (b.n > 0 || space) infer__jbuf_text(&b, " ", mark);
        infer__jbuf_str(&b, key.u.s);
        infer__jbuf_text(&b, "=\"", mark);
        infer__jbuf_str(&b, value.u.s);
        infer__jbuf_text(&b, "\"", mark);
    }
    return infer__jbuf_done(&b);
}

/* filesizeformat(binary=False) */
static infer__jv infer__jfilter_filesize(infer__jj *j, const infer__jcall *c) {
    static const char PREFIX[] = "kMGTPEZY";
    infer__jcall number = *c;
    infer__jv v, none[2];
    int binary = infer__jv_true(c->a[0]), i = -1;
    double base = binary ? 1024 : 1000, unit = base, x;
    infer__jbuf b = infer__jbuf_new(j);
    char text[700];
    memset(none, 0, sizeof none);
    none[0].kind = INFER__JV_NONE; /* what is no number becomes none */
    number.a = none;
    v = infer__jfilter_float(j, &number);
    if (j->r != INFER_OK) return v;
    x = infer__jv_number(v);
    if (!infer__jj_work(j, 2 * INFER__JINJA_FLOAT)) return v;
    if (v.kind != INFER__JV_FLOAT || infer__double_special(x))
        return infer__jj_fail(j, INFER_ERR_FORMAT, "filesizeformat: a number is expected");
    if (x == 1) return infer__jv_view(j, "1 Byte", 6, v.mark);
    if (x < base) {
        infer__format(text, sizeof text, "%lld Bytes", (long long)(x < -9e18 ? 0 : x));
    } else {
        do {
            unit *= base;
            i++;
        } while (x >= unit && PREFIX[i + 1]);
        infer__double_fixed(base * x / unit, 1, text);
        infer__format(text + strlen(text), 16, " %c%s", binary && i == 0 ? 'K' : PREFIX[i], binary ? "iB" : "B");
    }
    infer__jbuf_text(&b, text, v.mark);
    return infer__jbuf_done(&b);
}

/* ---- any value --------------------------------------------------------------------------------------------------- */

/* default(default_value='', boolean=False) */
static infer__jv infer__jfilter_default(infer__jj *j, const infer__jcall *c) {
    int missing = c->self.kind == INFER__JV_UNDEFINED || (infer__jv_true(c->a[1]) && !infer__jv_true(c->self));
    if (!missing) return c->self;
    return infer__jv_given(c->a[0]) ? c->a[0] : infer__jv_view(j, "", 0, 0);
}
static infer__jv infer__jfilter_length(infer__jj *j, const infer__jcall *c) {
    switch (c->self.kind) {
    case INFER__JV_UNDEFINED: return infer__jv_int(0);
    case INFER__JV_STRING:
        if (!infer__jj_scan(j, c->self.u.s->n)) return c->self;
        return infer__jv_int((int64_t)infer__jinja_count(c->self.u.s->s, c->self.u.s->n));
    case INFER__JV_LIST: case INFER__JV_TUPLE: case INFER__JV_RANGE: case INFER__JV_VIEW:
        return infer__jv_int((int64_t)c->self.u.l->n);
    case INFER__JV_DICT: return infer__jv_int((int64_t)c->self.u.d->n);
    default: return infer__jj_fail(j, INFER_ERR_FORMAT, "object of type '%s' has no len()", infer__jv_type(c->self));
    }
}
static infer__jv infer__jfilter_attr(infer__jj *j, const infer__jcall *c) {
    const infer__jstr *name = infer__jarg_str(j, c->a[0]);
    infer__jv v;
    if (!name) return infer__jv_none();
    if (c->self.kind == INFER__JV_UNDEFINED) return infer__jj_is_undefined(j, c->self);
    if (c->self.kind == INFER__JV_LOOP || c->self.kind == INFER__JV_SPACE)
        return infer__jj_attr(j, c->self, name->s, name->n);
    v = infer__jj_method(j, c->self, name->s, name->n); /* never an item */
    return v.kind == INFER__JV_METHOD ? v : infer__jv_undefined(j, name->s, name->n);
}
static infer__jv infer__jfilter_refused(infer__jj *j, const infer__jcall *c) {
    (void)c;
    return infer__jj_fail(j, INFER_ERR_UNSUPPORTED,
                          "a filter or function that is not supported (random, pprint, wordwrap, lipsum)");
}
/* format(*args, **kwargs): printf style. */
static infer__jv infer__jfilter_format(infer__jj *j, const infer__jcall *c) {
    infer__jv format = infer__jv_str(j, c->self), args;
    size_t i;
    if (c->args->n && c->args->named)
        return infer__jj_fail(j, INFER_ERR_FORMAT, "format: either arguments by place or by name");
    args = c->args->named ? infer__jv_dict(j) : infer__jv_list(j, INFER__JV_TUPLE);
    if (j->r != INFER_OK) return args;
    if (c->args->named) args.u.d = c->args->named;
    for (i = 0; i < c->args->n; i++) infer__jlist_add(j, args.u.l, c->args->v[i]);
    return j->r == INFER_OK ? infer__jv_percent(j, format, args) : args;
}

static const infer__jfunction INFER__JFILTERS[] = {
    {"abs", infer__jfilter_abs, "", 0},
    {"attr", infer__jfilter_attr, "name", 1},
    {"batch", infer__jfilter_batch, "linecount fill_with", 1},
    {"capitalize", infer__jfilter_capitalize, "", 0},
    {"center", infer__jfilter_center, "width", 0},
    {"count", infer__jfilter_length, "", 0},
    {"d", infer__jfilter_default, "default_value boolean", 0},
    {"default", infer__jfilter_default, "default_value boolean", 0},
    {"dictsort", infer__jfilter_dictsort, "case_sensitive by reverse", 0},
    {"e", infer__jfilter_escape, "", 0},
    {"escape", infer__jfilter_escape, "", 0},
    {"filesizeformat", infer__jfilter_filesize, "binary", 0},
    {"first", infer__jfilter_first, "", 0},
    {"float", infer__jfilter_float, "default", 0},
    {"forceescape", infer__jfilter_forceescape, "", 0},
    {"format", infer__jfilter_format, "*", 0},
    {"groupby", infer__jfilter_groupby, "attribute default case_sensitive", 1},
    {"indent", infer__jfilter_indent, "width first blank", 0},
    {"int", infer__jfilter_int, "default base", 0},
    {"items", infer__jfilter_items, "", 0},
    {"join", infer__jfilter_join, "d attribute", 0},
    {"last", infer__jfilter_last, "", 0},
    {"length", infer__jfilter_length, "", 0},
    {"list", infer__jfilter_list, "", 0},
    {"lower", infer__jfilter_lower, "", 0},
    {"map", infer__jfilter_map, "*", 0},
    {"max", infer__jfilter_max, "case_sensitive attribute", 0},
    {"min", infer__jfilter_min, "case_sensitive attribute", 0},
    {"pprint", infer__jfilter_refused, "verbose", 0},
    {"random", infer__jfilter_refused, "", 0},
    {"reject", infer__jfilter_reject, "*", 0},
    {"rejectattr", infer__jfilter_rejectattr, "*", 0},
    {"replace", infer__jfilter_replace, "old new count", 2},
    {"reverse", infer__jfilter_reverse, "", 0},
    {"round", infer__jfilter_round, "precision method", 0},
    {"safe", infer__jfilter_safe, "", 0},
    {"select", infer__jfilter_select, "*", 0},
    {"selectattr", infer__jfilter_selectattr, "*", 0},
    {"slice", infer__jfilter_slice, "slices fill_with", 1},
    {"sort", infer__jfilter_sort, "reverse case_sensitive attribute", 0},
    {"string", infer__jfilter_string, "", 0},
    {"striptags", infer__jfilter_striptags, "", 0},
    {"sum", infer__jfilter_sum, "attribute start", 0},
    {"title", infer__jfilter_title, "", 0},
    {"tojson", infer__jfilter_tojson, "ensure_ascii indent separators sort_keys", 0},
    {"trim", infer__jfilter_trim, "chars", 0},
    {"truncate", infer__jfilter_truncate, "length killwords end leeway", 0},
    {"unique", infer__jfilter_unique, "case_sensitive attribute", 0},
    {"upper", infer__jfilter_upper, "", 0},
    {"urlencode", infer__jfilter_urlencode, "", 0},
    {"wordcount", infer__jfilter_wordcount, "", 0},
    {"wordwrap", infer__jfilter_refused, "*", 0},
    {"xmlattr", infer__jfilter_xmlattr, "autospace", 0},
};
static const infer__jfunction *infer__jinja_filter(const char *s, size_t n) {
    return infer__jfunction_find(INFER__JFILTERS, INFER__COUNT(INFER__JFILTERS), s, n);
}
