/* json.c: JSON values: parsing (RFC 8259), looking up, writing.
 *
 * Owns:  infer_json. A document is one arena: nothing in it changes after it was parsed, so threads may share it.
 * Rules: untrusted text: depth is bounded (INFER__JSON_DEPTH), time is n log n even for objects with many equal names,
 *        invalid UTF-8 is an error, a lone surrogate becomes U+FFFD. Integers within 64 bits stay integers. Output is
 *        that of Python's json.dumps with ensure_ascii off, which templates were written for.
 * Start: infer__json_parse.
 */
#include "text.h"

/* ---- parsing ------------------------------------------------------------------------------------------- */

typedef struct infer__json_in {
    infer__arena *arena;
    const char *s;
    size_t n, at;
    infer_error *err;
    infer_result r;     /* the first error */
    infer_json *stack;  /* elements of what is open */
    size_t n_stack, cap_stack;
    uint64_t n_values, most; /* so far; that may be */
    int depth;
} infer__json_in;

static void infer__text_place(const char *text, size_t n, size_t at, uint32_t *line, uint32_t *column) {
    size_t i;
    *line = *column = 1;
    for (i = 0; i < at && i < n; i++) {
        if (text[i] == '\n') {
            ++*line;
            *column = 1;
        } else if ((text[i] & 0xc0) != 0x80) {
            ++*column;
        }
    }
}

static void infer__json_fail(infer__json_in *in, const char *what) {
    uint32_t line, column;
    if (in->r != INFER_OK) return;
    infer__text_place(in->s, in->n, in->at, &line, &column);
    in->r =
        infer__error(in->err, INFER_ERR_FORMAT, "JSON, line %u column %u: %s", (unsigned)line, (unsigned)column, what);
}
static void infer__json_no_memory(infer__json_in *in) {
    if (in->r == INFER_OK) in->r = infer__error(in->err, INFER_ERR_MEMORY, "JSON: out of memory");
}

static void infer__json_space(infer__json_in *in) {
    while (in->at < in->n && memchr(" \t\n\r", in->s[in->at], 4)) in->at++;
}
static int infer__json_next(infer__json_in *in, char c) { /* 1 = c was there and is taken */
    infer__json_space(in);
    if (in->at >= in->n || in->s[in->at] != c) return 0;
    in->at++;
    return 1;
}

static int infer__hex4(const char *s, size_t n, uint32_t *out) {
    int i;
    if (n < 4) return 0;
    for (*out = 0, i = 0; i < 4; i++) {
        char c = s[i];
        int d = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
        if (d < 0) return 0;
        *out = *out << 4 | (uint32_t)d;
    }
    return 1;
}

/* Decode the escape after a backslash at in->at - 1 to out; returns its length. */
static size_t infer__json_escape(infer__json_in *in, char *out) {
    static const char FROM[] = "\"\\/bfnrt", TO[] = "\"\\/\b\f\n\r\t";
    uint32_t cp, low;
    char c = in->at < in->n ? in->s[in->at] : 0;
    const char *p = c ? strchr(FROM, c) : NULL;
    if (p) {
        in->at++;
        *out = TO[p - FROM];
        return 1;
    }
    if (c != 'u' || !infer__hex4(in->s + in->at + 1, in->n - in->at - 1, &cp)) {
        infer__json_fail(in, "unknown escape");
        return 0;
    }
    in->at += 5;
    if (cp >= 0xd800 && cp < 0xdc00 && in->n - in->at >= 6 && memcmp(in->s + in->at, "\\u", 2) == 0 &&
        infer__hex4(in->s + in->at + 2, 4, &low) && low >= 0xdc00 && low < 0xe000) {
        cp = 0x10000 + ((cp - 0xd800) << 10) + (low - 0xdc00);
        in->at += 6;
    }
    if (cp >= 0xd800 && cp < 0xe000) cp = 0xfffd;
    return infer__utf8_put(cp, out);
}

static void infer__json_string_in(infer__json_in *in, infer_json *v) {
    size_t begin = ++in->at, end, len = 0;
    char *out;
    for (end = begin; end < in->n && in->s[end] != '"'; end++) if (in->s[end] == '\\') end++;
    if (end >= in->n) {
        in->at--;
        infer__json_fail(in, "the string has no end");
        return;
    }
    out = (char *)infer__arena_alloc(in->arena, (uint64_t)(end - begin) + 1); /* escapes only shrink */
    if (!out) {
        infer__json_no_memory(in);
        return;
    }
    while (in->at < end && in->r == INFER_OK) {
        uint8_t c = (uint8_t)in->s[in->at];
        if (c == '\\') {
            in->at++;
            len += infer__json_escape(in, out + len);
        } else if (c < 0x20) {
            infer__json_fail(in, "a control character in a string");
        } else {
            size_t step;
            int ok;
            infer__utf8_next(in->s + in->at, end - in->at, &step, &ok);
            if (!ok) infer__json_fail(in, "invalid UTF-8");
            memcpy(out + len, in->s + in->at, step);
            len += step;
            in->at += step;
        }
    }
    in->at = end + 1;
    out[len] = 0;
    v->kind = INFER_JSON_STRING;
    v->s = out;
    v->n = len;
}

static size_t infer__json_digits(const infer__json_in *in, size_t at) {
    size_t n = 0;
    while (at + n < in->n && in->s[at + n] >= '0' && in->s[at + n] <= '9') n++;
    return n;
}

static void infer__json_number_in(infer__json_in *in, infer_json *v) {
    size_t begin = in->at, at = begin + (in->s[begin] == '-'), digits = infer__json_digits(in, at), i, len;
    int whole = 1;
    uint64_t u = 0, limit = (uint64_t)INT64_MAX + (in->s[begin] == '-');
    if (digits == 0 || (digits > 1 && in->s[at] == '0')) {
        infer__json_fail(in, digits ? "a number with a leading zero" : "a value is expected");
        return;
    }
    for (i = 0; i < digits && whole; i++) {
        uint64_t d = (uint64_t)(in->s[at + i] - '0');
        if (u > (limit - d) / 10) whole = 0; else u = u * 10 + d;
    }
    at += digits;
    if (at < in->n && in->s[at] == '.') {
        whole = 0;
        digits = infer__json_digits(in, ++at);
        if (digits == 0) { in->at = at; infer__json_fail(in, "digits are expected after the point"); return; }
        at += digits;
    }
    if (at < in->n && (in->s[at] == 'e' || in->s[at] == 'E')) {
        whole = 0;
        at++;
        if (at < in->n && (in->s[at] == '+' || in->s[at] == '-')) at++;
        digits = infer__json_digits(in, at);
        if (digits == 0) { in->at = at; infer__json_fail(in, "digits are expected in the exponent"); return; }
        at += digits;
    }
    v->kind = whole ? INFER_JSON_INT : INFER_JSON_FLOAT;
    v->n = at - begin;
    v->s = infer__arena_text(in->arena, in->s + begin, at - begin);
    if (!v->s) infer__json_no_memory(in);
    if (whole) v->v.i = in->s[begin] == '-' ? (int64_t)(0 - u) : (int64_t)u;
    else v->v.f = infer__double_parse(in->s + begin, at - begin, &len);
    in->at = at;
}

static void infer__json_push(infer__json_in *in, const infer_json *v) {
    if (in->r != INFER_OK) return;
    if (in->n_values++ >= in->most) {
        in->r = infer__error(in->err, INFER_ERR_MEMORY,
                             "JSON: %llu bytes with more than %llu values would take more memory than %d times the "
                             "text and %d MiB",
                             (unsigned long long)in->n, (unsigned long long)in->most, (int)INFER__JSON_TIMES,
                             (int)(INFER__JSON_USUAL >> 20));
        return;
    }
    if (in->n_stack == in->cap_stack) {
        size_t cap = in->cap_stack + in->cap_stack / 2 + 32; /* INFER__JSON_VALUE counts on it */
        void *p = infer__realloc(in->arena->mem, in->stack, cap, sizeof *in->stack);
        if (!p) {
            infer__json_no_memory(in);
            return;
        }
        in->stack = (infer_json *)p;
        in->cap_stack = cap;
    }
    in->stack[in->n_stack++] = *v;
}

/* Order by name, then by position: members with the same name become adjacent, the last one last. */
static int infer__json_after(const infer_json *m, uint32_t a, uint32_t b) {
    const infer_json *x = &m[2 * (size_t)a], *y = &m[2 * (size_t)b];
    int c = memcmp(x->s, y->s, (size_t)INFER__MIN(x->n, y->n));
    if (c != 0) return c > 0;
    return x->n != y->n ? x->n > y->n : a > b;
}
static void infer__json_sink(const infer_json *m, uint32_t *a, size_t n, size_t i) {
    uint32_t x = a[i];
    size_t j;
    for (; (j = 2 * i + 1) < n; i = j) {
        if (j + 1 < n && infer__json_after(m, a[j + 1], a[j])) j++;
        if (!infer__json_after(m, a[j], x)) break;
        a[i] = a[j];
    }
    a[i] = x;
}

/* Of members with the same name, keep the first position and the last value. Returns the number left. */
static size_t infer__json_unique(infer__json_in *in, infer_json *m, size_t n) {
    uint32_t *order;
    size_t i, kept = 0, double_names = 0;
    if (n < 2 || n > UINT32_MAX) return n;
    order = (uint32_t *)infer__realloc(in->arena->mem, NULL, n, sizeof *order);
    if (!order) {
        infer__json_no_memory(in);
        return n;
    }
    for (i = 0; i < n; i++) order[i] = (uint32_t)i;
    for (i = n / 2; i-- > 0;) infer__json_sink(m, order, n, i);
    for (i = n; i-- > 1;) {
        uint32_t last = order[0];
        order[0] = order[i];
        order[i] = last;
        infer__json_sink(m, order, i, 0);
    }
    for (i = 0; i + 1 < n;) {
        size_t j = i;
        while (j + 1 < n && m[2 * (size_t)order[j + 1]].n == m[2 * (size_t)order[i]].n &&
               memcmp(m[2 * (size_t)order[j + 1]].s, m[2 * (size_t)order[i]].s, (size_t)m[2 * (size_t)order[i]].n) ==
                   0) {
            j++;
            m[2 * (size_t)order[j]].kind = -1; /* dropped */
            double_names++;
        }
        m[2 * (size_t)order[i] + 1] = m[2 * (size_t)order[j] + 1];
        i = j + 1;
    }
    infer__free(in->arena->mem, order);
    if (double_names == 0) return n;
    for (i = 0; i < n; i++) {
        if (m[2 * i].kind < 0) continue;
        m[2 * kept] = m[2 * i];
        m[2 * kept + 1] = m[2 * i + 1];
        kept++;
    }
    return kept;
}

static void infer__json_value_in(infer__json_in *in, infer_json *v);

static void infer__json_many_in(infer__json_in *in, infer_json *v, int object) {
    size_t base = in->n_stack, n;
    infer_json *items = NULL;
    char close = object ? '}' : ']';
    in->at++;
    if (++in->depth > INFER__JSON_DEPTH) infer__json_fail(in, "too many levels");
    if (in->r == INFER_OK && !infer__json_next(in, close)) {
        do {
            infer_json item;
            memset(&item, 0, sizeof item);
            if (object) {
                infer__json_space(in);
                if (in->at >= in->n || in->s[in->at] != '"') infer__json_fail(in, "a name in quotes is expected");
                else infer__json_string_in(in, &item);
                infer__json_push(in, &item);
                if (in->r == INFER_OK && !infer__json_next(in, ':')) infer__json_fail(in, "':' is expected");
            }
            if (in->r == INFER_OK) infer__json_value_in(in, &item);
            infer__json_push(in, &item);
        } while (in->r == INFER_OK && infer__json_next(in, ','));
        if (in->r == INFER_OK && !infer__json_next(in, close))
            infer__json_fail(in, object ? "',' or '}' is expected" : "',' or ']' is expected");
    }
    in->depth--;
    if (in->r != INFER_OK) return;
    n = in->n_stack - base;
    if (n > 0) {
        items = (infer_json *)infer__arena_alloc(in->arena, (uint64_t)n * sizeof *items);
        if (!items) {
            infer__json_no_memory(in);
            return;
        }
        memcpy(items, in->stack + base, n * sizeof *items);
    }
    in->n_stack = base;
    v->kind = object ? INFER_JSON_OBJECT : INFER_JSON_ARRAY;
    v->n = object ? infer__json_unique(in, items, n / 2) : n;
    v->v.items = items;
}

static void infer__json_value_in(infer__json_in *in, infer_json *v) {
    static const struct { const char *text; int kind; } WORDS[] = {
        {"null", INFER_JSON_NULL}, {"false", INFER_JSON_FALSE}, {"true", INFER_JSON_TRUE}};
    size_t i;
    memset(v, 0, sizeof *v);
    infer__json_space(in);
    v->at = in->at > UINT32_MAX ? 0 : (uint32_t)in->at;
    if (in->at >= in->n) {
        infer__json_fail(in, "the text ends where a value is expected");
        return;
    }
    switch (in->s[in->at]) {
    case '{': infer__json_many_in(in, v, 1); return;
    case '[': infer__json_many_in(in, v, 0); return;
    case '"': infer__json_string_in(in, v); return;
    default: break;
    }
    for (i = 0; i < INFER__COUNT(WORDS); i++) {
        size_t len = strlen(WORDS[i].text);
        if (in->n - in->at < len || memcmp(in->s + in->at, WORDS[i].text, len) != 0) continue;
        in->at += len;
        v->kind = WORDS[i].kind;
        v->v.i = v->kind == INFER_JSON_TRUE;
        return;
    }
    infer__json_number_in(in, v);
}

static infer_result infer__json_parse(const infer_json **out, infer__arena *arena, const char *text, size_t n,
                                      infer_error *err) {
    infer__json_in in;
    infer_json *root;
    *out = NULL;
    memset(&in, 0, sizeof in);
    in.arena = arena;
    in.s = text;
    in.n = n;
    in.err = err;
    in.most = (INFER__JSON_USUAL + INFER__JSON_TIMES * (uint64_t)n) / INFER__JSON_VALUE;
    root = (infer_json *)infer__arena_alloc(arena, sizeof *root);
    if (root) infer__json_value_in(&in, root); else infer__json_no_memory(&in);
    infer__json_space(&in);
    if (in.r == INFER_OK && in.at < n) infer__json_fail(&in, "something follows the value");
    infer__free(arena->mem, in.stack);
    if (in.r == INFER_OK) *out = root;
    return in.r;
}

/* ---- looking up ---------------------------------------------------------------------------------------- */

static const infer_json *infer__json_get(const infer_json *v, const char *name, size_t n) {
    uint64_t i;
    if (!v || v->kind != INFER_JSON_OBJECT) return NULL;
    for (i = 0; i < v->n; i++) {
        const infer_json *key = &v->v.items[2 * i];
        if (key->n == n && memcmp(key->s, name, n) == 0) return key + 1;
    }
    return NULL;
}

/* ---- writing ------------------------------------------------------------------------------------------- */

static void infer__json_quote(infer__bytes *out, const char *s, size_t n) {
    static const char FROM[] = "\"\\\b\f\n\r\t", TO[] = "\"\\bfnrt";
    size_t i, len, from = 0;
    int ok = 1;
    infer__bytes_char(out, '"');
    for (i = 0; i < n; i += len) {
        uint8_t c = (uint8_t)s[i];
        const char *p;
        len = 1;
        if (c >= 0x80) infer__utf8_next(s + i, n - i, &len, &ok);
        if (c >= 0x20 && c != '"' && c != '\\' && ok) continue;
        infer__bytes_put(out, s + from, i - from);
        from = i + len;
        p = c ? strchr(FROM, c) : NULL;
        if (!ok) {
            infer__bytes_text(out, "\xef\xbf\xbd");
            ok = 1;
        } else if (p) {
            infer__bytes_char(out, '\\');
            infer__bytes_char(out, TO[p - FROM]);
        } else {
            infer__bytes_format(out, "\\u%04x", (unsigned)c);
        }
    }
    infer__bytes_put(out, s + from, n - from);
    infer__bytes_char(out, '"');
}

static void infer__json_newline(infer__bytes *out, int32_t indent, int depth) {
    static const char SPACES[] =
        "                                                                "; /* INFER__JSON_INDENT of them */
    if (indent < 0) return;
    infer__bytes_char(out, '\n');
    for (; depth > 0 && !out->failed; depth--)
        infer__bytes_put(out, SPACES, (size_t)INFER__MIN(indent, INFER__JSON_INDENT));
}

static void infer__json_write_at(infer__bytes *out, const infer_json *v, int32_t indent, int depth) {
    char number[32];
    size_t len;
    uint64_t i;
    int object = v->kind == INFER_JSON_OBJECT;
    switch (v->kind) {
    case INFER_JSON_FALSE: infer__bytes_text(out, "false"); break;
    case INFER_JSON_TRUE: infer__bytes_text(out, "true"); break;
    case INFER_JSON_INT: infer__bytes_format(out, "%lld", (long long)v->v.i); break;
    case INFER_JSON_FLOAT: /* as it was written: an integer beyond 64 bits, and what is infinite as a double */
        len = infer__double_text(v->v.f, number);
        if (number[len - 1] != 'f' &&
            (memchr(v->s, '.', (size_t)v->n) || memchr(v->s, 'e', (size_t)v->n) || memchr(v->s, 'E', (size_t)v->n)))
            infer__bytes_put(out, number, len);
        else infer__bytes_put(out, v->s, (size_t)v->n);
        break;
    case INFER_JSON_STRING: infer__json_quote(out, v->s, (size_t)v->n); break;
    case INFER_JSON_ARRAY:
    case INFER_JSON_OBJECT:
        infer__bytes_char(out, object ? '{' : '[');
        for (i = 0; i < v->n && !out->failed; i++) {
            const infer_json *item = &v->v.items[object ? 2 * i : i];
            if (i > 0) infer__bytes_text(out, indent < 0 ? ", " : ",");
            infer__json_newline(out, indent, depth + 1);
            if (object) {
                infer__json_quote(out, item->s, (size_t)item->n);
                infer__bytes_text(out, ": ");
                item++;
            }
            infer__json_write_at(out, item, indent, depth + 1);
        }
        if (v->n > 0) infer__json_newline(out, indent, depth);
        infer__bytes_char(out, object ? '}' : ']');
        break;
    default: infer__bytes_text(out, "null"); break;
    }
}

static void infer__json_write(infer__bytes *out, const infer_json *v, int32_t indent) {
    infer__json_write_at(out, v, indent, 0);
}
