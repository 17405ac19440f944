/* chat_value.c: converting the arguments of calls to JSON, however the model wrote them.
 *
 * Owns:  typed values (by the tool's JSON schema where it is given), Python literals, values in braces, elements.
 * Rules: text of a model is untrusted: recursion is bounded by INFER__CHAT_DEPTH, what does not parse is refused, and
 *        the caller delivers it as text. Complete objects are checked again by the JSON parser before they are
 *        returned.
 * Start: infer__chat_value_put.
 */
#include "chat.h"

static int infer__chat_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }
static size_t infer__chat_skip(const char *s, size_t n, size_t at) {
    while (at < n && infer__chat_space(s[at])) at++;
    return at;
}
static void infer__chat_trim(const char *s, size_t *from, size_t *end) {
    while (*from < *end && infer__chat_space(s[*from])) ++*from;
    while (*end > *from && infer__chat_space(s[*end - 1])) --*end;
}
static int infer__chat_ident(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* ---- schemas -------------------------------------------------------------------------------------------- */

static const infer_json *infer__chat_tool(const infer_json *tools, const char *name, size_t n) {
    size_t i;
    if (!tools || tools->kind != INFER_JSON_ARRAY) return NULL;
    for (i = 0; i < tools->n; i++) {
        const infer_json *t = &tools->v.items[i], *f = infer__json_get(t, "function", 8), *its;
        if (f && f->kind == INFER_JSON_OBJECT) t = f;
        its = infer__json_get(t, "name", 4);
        if (its && its->kind == INFER_JSON_STRING && its->n == n && memcmp(its->s, name, n) == 0) return t;
    }
    return NULL;
}

static const infer_json *infer__chat_property(const infer_json *schema, const char *key, size_t n) {
    const infer_json *p = infer__json_get(schema, "properties", 10);
    const infer_json *v = p ? infer__json_get(p, key, n) : NULL;
    return v ? v : infer__json_get(schema, "additionalProperties", 20);
}

static const infer_json *infer__chat_parameter(const infer_json *tools, const char *tool, size_t n_tool,
                                               const char *key, size_t n_key) {
    const infer_json *t = infer__chat_tool(tools, tool, n_tool), *p = t ? infer__json_get(t, "parameters", 10) : NULL;
    return p ? infer__chat_property(p, key, n_key) : NULL;
}

/* Kinds of values (1 << INFER_JSON_*) that a schema allows; 0 = it does not say. */
static unsigned infer__chat_allowed(const infer_json *schema, int depth) {
    static const struct { const char *name; unsigned kinds; } TYPES[] = {
        {"string", 1u << INFER_JSON_STRING},
        {"integer", 1u << INFER_JSON_INT},
        {"number", 1u << INFER_JSON_INT | 1u << INFER_JSON_FLOAT},
        {"boolean", 1u << INFER_JSON_TRUE | 1u << INFER_JSON_FALSE},
        {"null", 1u << INFER_JSON_NULL},
        {"array", 1u << INFER_JSON_ARRAY},
        {"object", 1u << INFER_JSON_OBJECT}};
    static const char *const UNIONS[] = {"anyOf", "oneOf"};
    const infer_json *v;
    unsigned kinds = 0;
    size_t i, k;
    if (!schema || schema->kind != INFER_JSON_OBJECT || depth > 8) return 0;
    v = infer__json_get(schema, "type", 4);
    for (i = 0; v && i < (v->kind == INFER_JSON_ARRAY ? v->n : 1); i++) {
        const infer_json *name = v->kind == INFER_JSON_ARRAY ? &v->v.items[i] : v;
        for (k = 0; k < INFER__COUNT(TYPES); k++)
            if (name->kind == INFER_JSON_STRING && strcmp(name->s, TYPES[k].name) == 0) kinds |= TYPES[k].kinds;
    }
    v = infer__json_get(schema, "enum", 4);
    for (i = 0; !kinds && v && v->kind == INFER_JSON_ARRAY && i < v->n; i++) kinds |= 1u << v->v.items[i].kind;
    v = infer__json_get(schema, "const", 5);
    if (!kinds && v) kinds = 1u << v->kind;
    for (k = 0; !kinds && k < INFER__COUNT(UNIONS); k++) {
        v = infer__json_get(schema, UNIONS[k], 5);
        for (i = 0; v && v->kind == INFER_JSON_ARRAY && i < v->n && i < 64; i++)
            kinds |= infer__chat_allowed(&v->v.items[i], depth + 1);
    }
    return kinds;
}

/* ---- Python literals --------------------------------------------------------------------------------------- */

typedef struct infer__chat_in {
    const char *s;
    size_t n, at;
    infer__bytes *out;
    const char *quote; /* of braces */
    int depth;
} infer__chat_in;

static int infer__chat_next(infer__chat_in *in, char c) {
    in->at = infer__chat_skip(in->s, in->n, in->at);
    if (in->at >= in->n || in->s[in->at] != c) return 0;
    in->at++;
    return 1;
}

/* 1 when a quote at s[at - 1] may end an argument, that is, when a continuation of the call follows. Models put
 * unescaped quotes into strings, as their templates do. */
static int infer__chat_quote_ends(const infer__chat_in *in, size_t at) {
    at = infer__chat_skip(in->s, in->n, at);
    if (at >= in->n) return 1;
    if (in->s[at] == ')') {
        at = infer__chat_skip(in->s, in->n, at + 1);
        return at >= in->n || in->s[at] == ',' || in->s[at] == ']' || in->s[at] == ';';
    }
    if (in->s[at] != ',') return 0;
    for (at = infer__chat_skip(in->s, in->n, at + 1); at < in->n && infer__chat_ident(in->s[at]); at++) {}
    at = infer__chat_skip(in->s, in->n, at);
    return at < in->n && (in->s[at] == '=' || in->s[at] == ')');
}

/* What stands after a backslash at s[at]: to text; the bytes read. */
static size_t infer__chat_escape(const infer__chat_in *in, size_t at, infer__bytes *text) {
    static const char FROM[] = "nrtbfav0", TO[] = "\n\r\t\b\f\a\v\0";
    char c = in->s[at], utf8[4];
    const char *p = strchr(FROM, c);
    uint32_t cp = 0;
    size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0, i;
    if (p && c) {
        infer__bytes_put(text, &TO[p - FROM], 1);
        return 1;
    }
    for (i = 0; i < digits && at + 1 + i < in->n; i++) {
        char d = in->s[at + 1 + i];
        int v = d >= '0' && d <= '9' ? d - '0' : d >= 'a' && d <= 'f' ? d - 'a' + 10
                                            : d >= 'A' && d <= 'F' ? d - 'A' + 10 : -1;
        if (v < 0) break;
        cp = cp << 4 | (uint32_t)v;
    }
    if (digits && i == digits) {
        if (cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000)) cp = 0xfffd;
        infer__bytes_put(text, utf8, infer__utf8_put(cp, utf8));
        return 1 + digits;
    }
    if (c == '\n') return 1;
    if (!strchr("\\'\"", c) || !c) infer__bytes_char(text, '\\');
    infer__bytes_put(text, &c, 1);
    return 1;
}

static int infer__chat_python_string(infer__chat_in *in, int argument) {
    infer__bytes text;
    char quote = in->s[in->at++];
    int done = 0;
    memset(&text, 0, sizeof text);
    text.mem = in->out->mem;
    while (in->at < in->n && !done) {
        char c = in->s[in->at++];
        if (c == quote && (!argument || infer__chat_quote_ends(in, in->at))) done = 1;
        else if (c == '\\' && in->at < in->n) in->at += infer__chat_escape(in, in->at, &text);
        else infer__bytes_char(&text, c);
    }
    if (text.failed) in->out->failed = 1;
    else if (done) infer__json_quote(in->out, text.s ? text.s : "", text.n);
    infer__bytes_free(&text);
    return done;
}

static int infer__chat_json_put(infer__bytes *out, const char *s, size_t n, unsigned allowed);
static int infer__chat_word_put(infer__chat_in *in) {
    static const char *const WORDS[][2] = {{"None", "null"}, {"True", "true"}, {"False", "false"},
                                           {"null", "null"}, {"true", "true"}, {"false", "false"}};
    size_t from = in->at, len, i;
    double x;
    char text[32];
    for (i = 0; i < INFER__COUNT(WORDS); i++) {
        len = strlen(WORDS[i][0]);
        if (in->n - from < len || memcmp(in->s + from, WORDS[i][0], len) != 0) continue;
        if (in->n - from > len && infer__chat_ident(in->s[from + len])) continue;
        in->at += len;
        infer__bytes_text(in->out, WORDS[i][1]);
        return 1;
    }
    x = infer__double_parse(in->s + from, in->n - from, &len);
    if (len == 0) return 0;
    in->at += len;
    if (x - x == 0 && infer__chat_json_put(in->out, in->s + from, len, 0)) return 1; /* with all of its digits */
    for (i = from + (in->s[from] == '-' || in->s[from] == '+'); i < in->at && in->s[i] >= '0' && in->s[i] <= '9'; i++) {
    }
    if (i == in->at) { /* an integer: its digits, without leading zeros */
        if (in->s[from] == '-') infer__bytes_char(in->out, '-');
        for (i = from + (in->s[from] == '-' || in->s[from] == '+'); i + 1 < in->at && in->s[i] == '0'; i++) {}
        infer__bytes_put(in->out, in->s + i, in->at - i);
        return 1;
    }
    infer__double_text(x, text);
    infer__bytes_text(in->out, text);
    return text[0] != 'i' && text[1] != 'i';
}

static int infer__chat_python(infer__chat_in *in, int argument);

static int infer__chat_python_dict(infer__chat_in *in) {
    int first = 1;
    infer__bytes_char(in->out, '{');
    while (!infer__chat_next(in, '}')) {
        if (!first && !infer__chat_next(in, ',')) return 0;
        if (infer__chat_next(in, '}')) break;
        if (!first) infer__bytes_text(in->out, ", ");
        first = 0;
        in->at = infer__chat_skip(in->s, in->n, in->at);
        if (in->at >= in->n || !memchr("'\"", in->s[in->at], 2) || !infer__chat_python_string(in, 0)) return 0;
        if (!infer__chat_next(in, ':')) return 0;
        infer__bytes_text(in->out, ": ");
        if (!infer__chat_python(in, 0)) return 0;
    }
    infer__bytes_char(in->out, '}');
    return 1;
}

static int infer__chat_python_list(infer__chat_in *in, char end) {
    int first = 1;
    infer__bytes_char(in->out, '[');
    while (!infer__chat_next(in, end)) {
        if (!first && !infer__chat_next(in, ',')) return 0;
        if (infer__chat_next(in, end)) break;
        if (!first) infer__bytes_text(in->out, ", ");
        first = 0;
        if (!infer__chat_python(in, 0)) return 0;
    }
    infer__bytes_char(in->out, ']');
    return 1;
}

/* One literal. argument: of a call, whose strings end where the call goes on. */
static int infer__chat_python(infer__chat_in *in, int argument) {
    int ok;
    in->at = infer__chat_skip(in->s, in->n, in->at);
    if (in->at >= in->n || in->depth >= INFER__CHAT_DEPTH || in->out->failed) return 0;
    in->depth++;
    switch (in->s[in->at]) {
    case '\'':
    case '"': ok = infer__chat_python_string(in, argument); break;
    case '{': in->at++; ok = infer__chat_python_dict(in); break;
    case '[': in->at++; ok = infer__chat_python_list(in, ']'); break;
    case '(': in->at++; ok = infer__chat_python_list(in, ')'); break;
    default: ok = infer__chat_word_put(in);
    }
    in->depth--;
    return ok;
}

static int infer__chat_python_call(const char *s, size_t n, size_t *at, size_t *name, size_t *n_name,
                                   infer__bytes *args) {
    infer__chat_in in;
    size_t from;
    int first = 1;
    memset(&in, 0, sizeof in);
    in.s = s;
    in.n = n;
    in.out = args;
    in.at = *name = infer__chat_skip(s, n, *at);
    while (in.at < n && (infer__chat_ident(s[in.at]) || s[in.at] == '.' || s[in.at] == '-')) in.at++;
    *n_name = in.at - *name;
    if (*n_name == 0 || !infer__chat_next(&in, '(')) return 0;
    infer__bytes_char(args, '{');
    while (!infer__chat_next(&in, ')')) {
        if (!first && !infer__chat_next(&in, ',')) return 0;
        from = in.at = infer__chat_skip(s, n, in.at);
        while (in.at < n && infer__chat_ident(s[in.at])) in.at++;
        if (in.at == from) return 0;
        if (!first) infer__bytes_text(args, ", ");
        first = 0;
        infer__json_quote(args, s + from, in.at - from);
        if (!infer__chat_next(&in, '=')) return 0;
        infer__bytes_text(args, ": ");
        if (!infer__chat_python(&in, 1)) return 0;
    }
    infer__bytes_char(args, '}');
    *at = in.at;
    return 1;
}

/* ---- values in braces: {key:1,other:[QUOTEtextQUOTE]} ------------------------------------------------------------ */

static int infer__chat_brace_value(infer__chat_in *in);

static int infer__chat_brace_string(infer__chat_in *in) {
    size_t q = strlen(in->quote), end;
    if (in->n - in->at < q || memcmp(in->s + in->at, in->quote, q) != 0) return 0;
    end = infer__chat_find(in->s, in->n, in->at + q, in->quote, q);
    if (end == in->n) return 0;
    infer__json_quote(in->out, in->s + in->at + q, end - in->at - q);
    in->at = end + q;
    return 1;
}

static int infer__chat_brace_object(infer__chat_in *in) {
    int first = 1;
    infer__bytes_char(in->out, '{');
    while (!infer__chat_next(in, '}')) {
        size_t from, end;
        if (!first && !infer__chat_next(in, ',')) return 0;
        if (!first) infer__bytes_text(in->out, ", ");
        first = 0;
        in->at = infer__chat_skip(in->s, in->n, in->at);
        if (!infer__chat_brace_string(in)) {
            for (from = in->at; in->at < in->n && !memchr(":,{}[]<", in->s[in->at], 7); in->at++) {}
            end = in->at;
            infer__chat_trim(in->s, &from, &end);
            if (from == end) return 0;
            infer__json_quote(in->out, in->s + from, end - from);
        }
        if (!infer__chat_next(in, ':')) return 0;
        infer__bytes_text(in->out, ": ");
        if (!infer__chat_brace_value(in)) return 0;
    }
    infer__bytes_char(in->out, '}');
    return 1;
}

static int infer__chat_brace_list(infer__chat_in *in) {
    int first = 1;
    infer__bytes_char(in->out, '[');
    while (!infer__chat_next(in, ']')) {
        if (!first && !infer__chat_next(in, ',')) return 0;
        if (!first) infer__bytes_text(in->out, ", ");
        first = 0;
        if (!infer__chat_brace_value(in)) return 0;
    }
    infer__bytes_char(in->out, ']');
    return 1;
}

static int infer__chat_brace_value(infer__chat_in *in) {
    int ok;
    in->at = infer__chat_skip(in->s, in->n, in->at);
    if (in->at >= in->n || in->depth >= INFER__CHAT_DEPTH || in->out->failed) return 0;
    in->depth++;
    switch (in->s[in->at]) {
    case '{': in->at++; ok = infer__chat_brace_object(in); break;
    case '[': in->at++; ok = infer__chat_brace_list(in); break;
    case '<': ok = infer__chat_brace_string(in); break;
    case '"': ok = infer__chat_python_string(in, 0); break;
    default: ok = infer__chat_word_put(in);
    }
    in->depth--;
    return ok;
}

static int infer__chat_braces(const char *s, size_t n, size_t *at, const char *quote, infer__bytes *out) {
    infer__chat_in in;
    memset(&in, 0, sizeof in);
    in.s = s;
    in.n = n;
    in.at = *at;
    in.out = out;
    in.quote = quote;
    if (!infer__chat_next(&in, '{') || !infer__chat_brace_object(&in)) return 0;
    *at = in.at;
    return 1;
}

/* ---- any value -------------------------------------------------------------------------------------------------- */

/* s[0..n) as JSON, when it is JSON of an allowed kind. */
static int infer__chat_json_put(infer__bytes *out, const char *s, size_t n, unsigned allowed) {
    infer__arena arena;
    const infer_json *v;
    infer_result r;
    int ok = 0;
    memset(&arena, 0, sizeof arena);
    arena.mem = out->mem;
    r = infer__json_parse(&v, &arena, s, n, NULL);
    if (r == INFER_ERR_MEMORY) out->failed = 1;
    if (r == INFER_OK && (!allowed || (allowed >> v->kind & 1))) {
        infer__json_write(out, v, -1);
        ok = 1;
    }
    infer__arena_free(&arena);
    return ok;
}

static int infer__chat_literal_put(infer__bytes *out, const char *s, size_t n, unsigned allowed) {
    infer__chat_in in;
    infer__bytes json;
    int ok = 0;
    memset(&in, 0, sizeof in);
    memset(&json, 0, sizeof json);
    json.mem = out->mem;
    in.s = s;
    in.n = n;
    in.out = &json;
    if (infer__chat_python(&in, 0) && infer__chat_skip(s, n, in.at) == n && !json.failed)
        ok = infer__chat_json_put(out, json.s, json.n, allowed);
    if (json.failed) out->failed = 1;
    infer__bytes_free(&json);
    return ok;
}

static int infer__chat_value_put(infer__bytes *out, const char *s, size_t n, const infer_json *schema, int how) {
    unsigned allowed = how == INFER__VALUE_TYPED ? infer__chat_allowed(schema, 0) : 0;
    unsigned string = 1u << INFER_JSON_STRING;
    size_t from = 0, end = n;
    infer__chat_trim(s, &from, &end);
    if (how == INFER__VALUE_JSON) return infer__chat_json_put(out, s + from, end - from, 0);
    if (how == INFER__VALUE_TYPED && allowed != string && from < end) {
        unsigned kinds = allowed & ~string; /* a string stays as it is written, quotes too */
        if (infer__chat_json_put(out, s + from, end - from, kinds ? kinds : ~string)) return 1;
        if (infer__chat_literal_put(out, s + from, end - from, kinds ? kinds : ~string)) return 1;
        if (allowed && !(allowed & string) && infer__chat_json_put(out, s + from, end - from, 0)) return 1;
    }
    infer__json_quote(out, s, n);
    return 1;
}

/* ---- elements ---------------------------------------------------------------------------------------------------- */

/* The end tag (mark </name>) that belongs to a start tag before `at`; n when there is none. */
static size_t infer__chat_element_end(const char *s, size_t n, size_t at, const char *mark, const char *name,
                                      size_t n_name) {
    size_t m = strlen(mark), open = 1;
    for (at = infer__chat_find(s, n, at, mark, m); at < n; at = infer__chat_find(s, n, at + m, mark, m)) {
        size_t t = at + m;
        int closes = n - t >= 2 && s[t] == '<' && s[t + 1] == '/';
        t += closes ? 2 : 1;
        if (t > n || s[at + m] != '<' || n - t < n_name + 1) continue;
        if (memcmp(s + t, name, n_name) != 0 || s[t + n_name] != '>') continue;
        open = closes ? open - 1 : open + 1;
        if (open == 0) return at;
    }
    return n;
}

static int infer__chat_elements(const char *s, size_t n, const char *mark, const infer_json *schema, int depth,
                                infer__bytes *out) {
    size_t m = strlen(mark), at, count = 0;
    int list = -1;
    if (infer__chat_find(s, n, 0, mark, m) == n) return infer__chat_value_put(out, s, n, schema, INFER__VALUE_TYPED);
    if (depth >= INFER__CHAT_DEPTH || out->failed) return 0;
    for (at = infer__chat_skip(s, n, 0); at < n; at = infer__chat_skip(s, n, at), count++) {
        size_t name = at + m + 1, gt, end;
        const infer_json *inner;
        if (n - at <= m + 1 || memcmp(s + at, mark, m) != 0 || s[at + m] != '<') return 0;
        gt = infer__chat_find(s, INFER__MIN(n, name + INFER__CHAT_NAME_MAX), name, ">", 1);
        if (gt >= n || s[gt] != '>' || gt == name) return 0;
        end = infer__chat_element_end(s, n, gt + 1, mark, s + name, gt - name);
        if (end == n) return 0;
        if (list < 0) list = gt - name == 4 && memcmp(s + name, "item", 4) == 0;
        infer__bytes_text(out, count ? ", " : list ? "[" : "{");
        if (!list) {
            infer__json_quote(out, s + name, gt - name);
            infer__bytes_text(out, ": ");
        }
        inner = !schema ? NULL : list ? infer__json_get(schema, "items", 5)
                                      : infer__chat_property(schema, s + name, gt - name);
        if (!infer__chat_elements(s + gt + 1, end - gt - 1, mark, inner, depth + 1, out)) return 0;
        at = end + m + 2 + (gt - name) + 1;
    }
    infer__bytes_char(out, list ? ']' : '}');
    return count > 0;
}
