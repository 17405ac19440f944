/* chat_call.c: parsing the bodies of tool calls.
 *
 * Owns:  one reader per shape (INFER__SHAPE_*). A body is read as it arrives, each byte once; `step` and `at` say where
 *        to go on. When it is complete its calls are added, all or none.
 * Rules: text that is not a call is never dropped: INFER__BODY_FAIL, and it becomes text. All emitted JSON has been
 *        parsed.
 * Start: infer__chat_body_read, infer__chat_call_add.
 */
#include "chat.h"

/* ---- calls ------------------------------------------------------------------------------------------------ */

static void infer__chat_deliver(infer__chat_reader *p, int32_t kind, const infer_chat_call *c, const char *text,
                                size_t n) {
    infer_chat_delta d;
    if (!p->fn || p->stopped) return;
    memset(&d, 0, sizeof d);
    d.kind = kind;
    d.call = c ? (int32_t)(c - p->calls) : -1;
    d.id = c ? c->id : NULL;
    d.name = c ? c->name : NULL;
    d.text = text;
    d.n = n;
    if (p->fn(p->user, &d) != 0) p->stopped = 1;
}

/* 1 when s[0..n) may be a name or an id: some characters, no control characters, UTF-8. */
static int infer__chat_named(const char *s, size_t n) {
    size_t i, len;
    int ok = n > 0 && n <= INFER__CHAT_NAME_MAX;
    for (i = 0; ok && i < n; i += len) {
        uint32_t cp = infer__utf8_next(s + i, n - i, &len, &ok);
        if (cp < 0x20 || cp == 0x7f) ok = 0;
    }
    return ok;
}

static int infer__chat_call_add(infer__chat_reader *p, const char *id, size_t n_id, const char *name, size_t n_name,
                                const char *args, size_t n_args) {
    infer_chat_call *c;
    char made[32];
    if (p->n_calls == p->cap_calls) {
        size_t cap = p->cap_calls * 2 + 4;
        void *q = p->n_calls > INT32_MAX / 4 ? NULL : infer__realloc(p->mem, p->calls, cap, sizeof *p->calls);
        if (!q) return 0;
        p->calls = (infer_chat_call *)q;
        p->cap_calls = cap;
    }
    if (!infer__chat_named(id, n_id)) { /* nine letters and digits: what the strictest templates take */
        id = made;
        n_id = infer__format(made, sizeof made, "call%05lld", (long long)(p->call_number + (int64_t)p->n_calls));
    }
    c = &p->calls[p->n_calls];
    c->id = infer__arena_text(&p->arena, id, n_id);
    c->name = infer__arena_text(&p->arena, name, n_name);
    c->arguments = infer__arena_text(&p->arena, args, n_args);
    c->n_arguments = n_args;
    if (!c->id || !c->name || !c->arguments) return 0;
    p->n_calls++;
    return 1;
}

/* Report the calls from `first` on. */
static void infer__chat_calls_deliver(infer__chat_reader *p, size_t first) {
    for (; first < p->n_calls; first++) {
        const infer_chat_call *c = &p->calls[first];
        infer__chat_deliver(p, INFER_CHAT_CALL, c, NULL, 0);
        infer__chat_deliver(p, INFER_CHAT_ARGUMENTS, c, c->arguments, c->n_arguments);
    }
}

/* Results of what follows: 1 done, 0 it is no call, -1 no memory. */

static const infer_json *infer__chat_member(const infer_json *v, const char *const *names, size_t n, int kinds) {
    size_t i;
    for (i = 0; i < n; i++) {
        const infer_json *m = infer__json_get(v, names[i], strlen(names[i]));
        if (m && (kinds >> m->kind & 1)) return m;
    }
    return NULL;
}

/* One call as JSON. */
static int infer__chat_json_call(infer__chat_reader *p, const infer_json *v, int bare) {
    static const char *const NAMES[] = {"name", "function", "tool_name"}, *const ARGS[] = {"arguments", "parameters"},
        *const IDS[] = {"id", "tool_call_id", "call_id"};
    enum { STRING = 1 << INFER_JSON_STRING, OBJECT = 1 << INFER_JSON_OBJECT };
    const infer_json *inner, *name, *args, *id;
    infer__bytes *out = &p->scratch;
    int ok;
    if (v->kind != INFER_JSON_OBJECT) return 0;
    id = infer__chat_member(v, IDS, INFER__COUNT(IDS), STRING);
    inner = infer__json_get(v, "function", 8);
    if (inner && inner->kind == INFER_JSON_OBJECT) v = inner;
    name = infer__chat_member(v, NAMES, INFER__COUNT(NAMES), STRING);
    args = infer__chat_member(v, ARGS, INFER__COUNT(ARGS), STRING | OBJECT);
    if (!name || !infer__chat_named(name->s, (size_t)name->n)) return 0;
    if (!args && (bare || infer__chat_member(v, ARGS, INFER__COUNT(ARGS), ~0))) return 0;
    if (bare && p->tools && !infer__chat_tool(p->tools, name->s, (size_t)name->n)) return 0;
    out->n = 0;
    if (!args) {
        infer__bytes_text(out, "{}");
    } else if (args->kind == INFER_JSON_OBJECT) {
        infer__json_write(out, args, -1);
    } else { /* JSON in a string */
        infer__arena arena;
        const infer_json *object;
        infer_result r;
        memset(&arena, 0, sizeof arena);
        arena.mem = p->mem;
        r = infer__json_parse(&object, &arena, args->s, (size_t)args->n, NULL);
        ok = r == INFER_OK && object->kind == INFER_JSON_OBJECT;
        if (ok) infer__json_write(out, object, -1);
        infer__arena_free(&arena);
        if (!ok) return r == INFER_ERR_MEMORY ? -1 : 0;
    }
    if (out->failed) return -1;
    return infer__chat_call_add(p, id ? id->s : NULL, id ? (size_t)id->n : 0, name->s, (size_t)name->n, out->s, out->n)
               ? 1
               : -1;
}

/* JSON text: one call, or a list of them. */
static int infer__chat_json_calls(infer__chat_reader *p, const char *s, size_t n, int flags) {
    infer__arena arena;
    const infer_json *v;
    size_t i, before = p->n_calls;
    infer_result r;
    int ok = 1, bare = (flags & INFER__CALL_BARE) != 0;
    memset(&arena, 0, sizeof arena);
    arena.mem = p->mem;
    r = infer__json_parse(&v, &arena, s, n, NULL);
    if (r != INFER_OK) {
        ok = r == INFER_ERR_MEMORY ? -1 : 0;
    } else if (v->kind == INFER_JSON_ARRAY) {
        for (i = 0; i < v->n && ok > 0; i++) ok = infer__chat_json_call(p, &v->v.items[i], bare);
        if (v->n == 0) ok = 0;
    } else {
        ok = flags & INFER__CALL_LISTS_ONLY ? 0 : infer__chat_json_call(p, v, bare);
    }
    if (ok <= 0) p->n_calls = before;
    infer__arena_free(&arena);
    return ok;
}

/* A call whose arguments are text s[0..n), which must be a JSON object. */
static int infer__chat_args_call(infer__chat_reader *p, const char *s, size_t n) {
    const infer__chat_body *b = &p->body;
    infer__arena arena;
    const infer_json *v;
    infer_result r;
    int ok;
    memset(&arena, 0, sizeof arena);
    arena.mem = p->mem;
    p->scratch.n = 0;
    r = infer__json_parse(&v, &arena, s, n, NULL);
    ok = r == INFER_OK ? v->kind == INFER_JSON_OBJECT : r == INFER_ERR_MEMORY ? -1 : 0;
    if (ok > 0 && !infer__chat_named(p->in.s + b->name, b->n_name)) ok = 0;
    if (ok > 0) {
        infer__json_write(&p->scratch, v, -1);
        if (p->scratch.failed ||
            !infer__chat_call_add(p, p->in.s + b->id, b->n_id, p->in.s + b->name, b->n_name, p->scratch.s,
                                  p->scratch.n))
            ok = -1;
    }
    infer__arena_free(&arena);
    return ok;
}

/* ---- where JSON ends ------------------------------------------------------------------------------------------ */

/* From b->at on: DONE with b->at after the value. open: the bytes it may begin with. */
static int infer__chat_json_scan(infer__chat_body *b, const char *s, size_t n, const char *open) {
    while (b->at < n) {
        char c = s[b->at];
        if (b->in_string) {
            if (b->escaped) b->escaped = 0;
            else if (c == '\\') b->escaped = 1;
            else if (c == '"') b->in_string = 0;
        } else if (!infer__chat_space(c)) {
            if (b->depth == 0 && (c == 0 || !strchr(open, c))) return INFER__BODY_FAIL;
            if (b->begun == '{' && c != '"' && c != '}') return INFER__BODY_FAIL; /* what every object begins with */
            if (b->begun == '[' && c == ',') return INFER__BODY_FAIL;
            b->begun = c == '{' || c == '[' ? c : 1;
            if (c == '"') b->in_string = 1;
            else if (c == '{' || c == '[') b->depth++;
            else if ((c == '}' || c == ']') && --b->depth == 0) {
                b->at++;
                return INFER__BODY_DONE;
            }
        }
        b->at++;
    }
    return INFER__BODY_MORE;
}

/* 1 when s[at..n) begins with w, -1 when it ends inside it, else 0. */
static int infer__chat_begins(const char *s, size_t n, size_t at, const char *w) {
    size_t len = strlen(w), have = INFER__MIN(len, n - at);
    if (memcmp(s + at, w, have) != 0) return 0;
    return have == len ? 1 : -1;
}

/* Find w from b->at on and move after it; *found is where it begins. If it has not arrived yet, move to where it may
 * begin. */
static int infer__chat_seek(infer__chat_body *b, const char *s, size_t n, const char *w, size_t *found) {
    size_t len = strlen(w);
    *found = infer__chat_find(s, n, b->at, w, len);
    if (*found < n) {
        b->at = *found + len;
        return 1;
    }
    if (n > b->from + len) b->at = INFER__MAX(b->at, n - len + 1);
    return 0;
}

/* ---- shapes ------------------------------------------------------------------------------------------------------ */

static int infer__chat_read_json(infer__chat_reader *p, size_t *end) {
    infer__chat_body *b = &p->body;
    int flags = b->kind->flags & (INFER__CALL_BARE | INFER__CALL_LISTS_ONLY);
    int r = infer__chat_json_scan(b, p->in.s, p->in.n, flags & INFER__CALL_LISTS_ONLY ? "[" : "{[");
    *end = b->at;
    if (r != INFER__BODY_DONE) return r;
    r = infer__chat_json_calls(p, p->in.s + b->from, b->at - b->from, flags);
    if (r < 0) p->failed = INFER_ERR_MEMORY;
    return r > 0 ? INFER__BODY_DONE : INFER__BODY_FAIL;
}

/* The header of a call, in[from..end): id and name. 0 = there is no name. */
static int infer__chat_header(infer__chat_reader *p, size_t from, size_t end) {
    infer__chat_body *b = &p->body;
    const infer__chat_call_kind *k = b->kind;
    const char *s = p->in.s;
    size_t sep, n_prefix = k->prefix ? strlen(k->prefix) : 0;
    infer__chat_trim(s, &from, &end);
    b->id = from;
    b->n_id = k->flags & INFER__CALL_ID_NUMBERED ? end - from : 0;
    if (n_prefix && end - from >= n_prefix && memcmp(s + from, k->prefix, n_prefix) == 0) from += n_prefix;
    if (k->id_sep && (sep = infer__chat_find(s, end, from, k->id_sep, strlen(k->id_sep))) < end) {
        size_t behind = sep + strlen(k->id_sep);
        int first = (k->flags & INFER__CALL_ID_FIRST) != 0;
        b->id = first ? from : behind;
        b->n_id = first ? sep - from : end - behind;
        if (first) from = behind;
        else end = sep;
    }
    if (k->flags & INFER__CALL_ID_NUMBERED) {
        sep = infer__chat_find(s, end, from, ":", 1);
        if (sep == end) b->n_id = 0;
        end = sep;
    }
    infer__chat_trim(s, &from, &end);
    b->name = from;
    b->n_name = end - from;
    return b->n_name > 0 && b->n_name <= INFER__CHAT_NAME_MAX;
}

static int infer__chat_read_args(infer__chat_reader *p, size_t *end) {
    enum { BEGIN, HEADER, OBJECT, JSON };
    infer__chat_body *b = &p->body;
    const char *s = p->in.s;
    size_t n = p->in.n, found;
    int r;
    if (b->step == BEGIN) {
        size_t at = b->at = infer__chat_skip(s, n, b->at);
        if (at == n) return INFER__BODY_MORE;
        b->step = b->kind->name_end ? HEADER : OBJECT;
        if ((b->kind->flags & INFER__CALL_JSON_TOO) && (s[at] == '[' || s[at] == '{')) b->step = JSON;
    }
    if (b->step == JSON) return infer__chat_read_json(p, end);
    if (b->step == HEADER) {
        *end = b->from;
        if (!infer__chat_seek(b, s, n, b->kind->name_end, &found))
            return n - b->from > 3 * INFER__CHAT_NAME_MAX + strlen(b->kind->name_end) ? INFER__BODY_FAIL
                                                                                      : INFER__BODY_MORE;
        if (found - b->from > 3 * INFER__CHAT_NAME_MAX || !infer__chat_header(p, b->from, found))
            return INFER__BODY_FAIL;
        b->value = b->at;
        b->step = OBJECT;
    }
    r = infer__chat_json_scan(b, s, n, "{");
    *end = b->at;
    if (r != INFER__BODY_DONE) return r;
    r = infer__chat_args_call(p, s + b->value, b->at - b->value);
    if (r < 0) p->failed = INFER_ERR_MEMORY;
    return r > 0 ? INFER__BODY_DONE : INFER__BODY_FAIL;
}

/* The value in[from..end) of the argument whose key was read, to the object. 0 = it is none. */
static int infer__chat_xml_value(infer__chat_reader *p, size_t from, size_t end) {
    infer__chat_body *b = &p->body;
    const char *s = p->in.s, *key = s + b->key;
    size_t n_key = b->n_key, quote;
    int how = INFER__VALUE_TYPED;
    const infer_json *schema;
    if (b->kind->key_end[0] == '>' && (quote = infer__chat_find(key, n_key, 0, "\"", 1)) < n_key) {
        /* attributes after the name: string="true|false" */
        if (infer__chat_find(key, n_key, quote, "string=\"true\"", 13) < n_key) how = INFER__VALUE_STRING;
        if (infer__chat_find(key, n_key, quote, "string=\"false\"", 14) < n_key) how = INFER__VALUE_JSON;
        n_key = quote;
    }
    if (b->kind->flags & INFER__CALL_LINES) {
        if (from < end && s[from] == '\n') from++;
        if (from < end && s[end - 1] == '\n') end--;
    }
    if (end - from >= 12 && memcmp(s + from, "<![CDATA[", 9) == 0 && memcmp(s + end - 3, "]]>", 3) == 0) {
        from += 9;
        end -= 3;
        how = INFER__VALUE_STRING;
    }
    schema = infer__chat_parameter(p->tools, s + b->name, b->n_name, key, n_key);
    if (b->args.n > 1) infer__bytes_text(&b->args, ", ");
    infer__json_quote(&b->args, key, n_key);
    infer__bytes_text(&b->args, ": ");
    if (b->kind->flags & INFER__CALL_NESTED)
        return infer__chat_elements(s + from, end - from, INFER__MM, schema, 0, &b->args);
    return infer__chat_value_put(&b->args, s + from, end - from, schema, how);
}

enum { INFER__XML_NAME, INFER__XML_NEXT, INFER__XML_KEY, INFER__XML_OPEN, INFER__XML_BEGIN, INFER__XML_VALUE,
       INFER__XML_CDATA };

/* The name, up to name_end, or to the first key or the end where the row has none. */
static int infer__chat_xml_name(infer__chat_reader *p) {
    infer__chat_body *b = &p->body;
    const infer__chat_call_kind *k = b->kind;
    size_t n = p->in.n, limit = INFER__MIN(n, b->from + INFER__CHAT_NAME_MAX + 64), at;
    size_t found = infer__chat_find(p->in.s, limit, b->from, k->name_end ? k->name_end : k->key,
                                    strlen(k->name_end ? k->name_end : k->key));
    at = infer__chat_find(p->in.s, limit, b->from, k->end, strlen(k->end));
    if (found == limit && at == limit) return limit < n ? INFER__BODY_FAIL : INFER__BODY_MORE;
    if (k->name_end ? found == limit || at < found : 0) return INFER__BODY_FAIL;
    if (!k->name_end) found = INFER__MIN(found, at);
    if (!infer__chat_header(p, b->from, found)) return INFER__BODY_FAIL;
    for (at = b->name; at < b->name + b->n_name; at++)
        if (infer__chat_space(p->in.s[at]) || p->in.s[at] == '<') return INFER__BODY_FAIL;
    if (!k->name_end && p->tools && !infer__chat_tool(p->tools, p->in.s + b->name, b->n_name)) return INFER__BODY_FAIL;
    b->at = found + (k->name_end ? strlen(k->name_end) : 0);
    b->step = INFER__XML_NEXT;
    infer__bytes_char(&b->args, '{');
    return INFER__BODY_DONE;
}

/* What is next at b->at: an argument, or the end (*over = 1). */
static int infer__chat_xml_next(infer__chat_reader *p, int *over) {
    infer__chat_body *b = &p->body;
    const char *s = p->in.s;
    int ends, key;
    b->at = infer__chat_skip(s, p->in.n, b->at);
    ends = infer__chat_begins(s, p->in.n, b->at, b->kind->end);
    key = infer__chat_begins(s, p->in.n, b->at, b->kind->key);
    if (ends > 0) {
        *over = 1;
        b->at += strlen(b->kind->end);
        return INFER__BODY_DONE;
    }
    if (ends < 0 || key < 0) return INFER__BODY_MORE;
    if (key == 0) return INFER__BODY_FAIL;
    b->at += strlen(b->kind->key);
    b->key = b->at;
    b->step = INFER__XML_KEY;
    return INFER__BODY_DONE;
}

/* A key, then what opens its value. */
static int infer__chat_xml_key(infer__chat_reader *p) {
    infer__chat_body *b = &p->body;
    size_t found;
    int begins;
    if (b->step == INFER__XML_KEY) {
        if (!infer__chat_seek(b, p->in.s, p->in.n, b->kind->key_end, &found)) {
            if (p->in.n - b->key <= INFER__CHAT_NAME_MAX + strlen(b->kind->key_end)) return INFER__BODY_MORE;
            found = b->key; /* too long */
        }
        b->n_key = found - b->key;
        if (b->n_key == 0 || b->n_key > INFER__CHAT_NAME_MAX) {
            b->at = b->key; /* where this is known does not depend on how much has arrived */
            return INFER__BODY_FAIL;
        }
        b->step = INFER__XML_OPEN;
    }
    if (b->step == INFER__XML_OPEN && b->kind->value) {
        b->at = infer__chat_skip(p->in.s, p->in.n, b->at);
        begins = infer__chat_begins(p->in.s, p->in.n, b->at, b->kind->value);
        if (begins <= 0) return begins < 0 ? INFER__BODY_MORE : INFER__BODY_FAIL;
        b->at += strlen(b->kind->value);
    }
    b->step = INFER__XML_BEGIN;
    begins = infer__chat_begins(p->in.s, p->in.n, b->at, "<![CDATA[");
    if (begins < 0) return INFER__BODY_MORE;
    b->value = b->at;
    b->step = begins ? INFER__XML_CDATA : INFER__XML_VALUE;
    return INFER__BODY_DONE;
}

static int infer__chat_xml_end(infer__chat_reader *p) {
    infer__chat_body *b = &p->body;
    char close[INFER__CHAT_NAME_MAX + 32];
    const char *w = b->kind->value_end;
    size_t found;
    if (b->step == INFER__XML_CDATA) {
        if (!infer__chat_seek(b, p->in.s, p->in.n, "]]>", &found)) return INFER__BODY_MORE;
        b->step = INFER__XML_VALUE;
    }
    if (!w) { /* the key is the tag */
        infer__format(close, sizeof close, INFER__MM "</%.*s>", (int)b->n_key, p->in.s + b->key);
        w = close;
    }
    if (!infer__chat_seek(b, p->in.s, p->in.n, w, &found)) return INFER__BODY_MORE;
    b->step = INFER__XML_NEXT;
    return infer__chat_xml_value(p, b->value, found) ? INFER__BODY_DONE : INFER__BODY_FAIL;
}

static int infer__chat_read_xml(infer__chat_reader *p, size_t *end) {
    infer__chat_body *b = &p->body;
    int over = 0, r = INFER__BODY_DONE;
    while (r == INFER__BODY_DONE && !over) {
        switch (b->step) {
        case INFER__XML_NAME: r = infer__chat_xml_name(p); break;
        case INFER__XML_NEXT: r = infer__chat_xml_next(p, &over); break;
        case INFER__XML_KEY:
        case INFER__XML_OPEN:
        case INFER__XML_BEGIN: r = infer__chat_xml_key(p); break;
        default: r = infer__chat_xml_end(p);
        }
        if (b->args.failed) p->failed = INFER_ERR_MEMORY;
    }
    *end = b->at;
    if (r != INFER__BODY_DONE) return r;
    infer__bytes_char(&b->args, '}');
    if (b->args.failed) {
        p->failed = INFER_ERR_MEMORY;
        return INFER__BODY_FAIL;
    }
    r = infer__chat_args_call(p, b->args.s, b->args.n);
    if (r < 0) p->failed = INFER_ERR_MEMORY;
    return r > 0 ? INFER__BODY_DONE : INFER__BODY_FAIL;
}

/* s[0..n) is [f(a=1), g()], or calls with commas or semicolons between them. */
static int infer__chat_python_calls(infer__chat_reader *p, size_t from, size_t end, int method) {
    const char *s = p->in.s;
    size_t at, before = p->n_calls;
    int list, ok = 1;
    infer__chat_trim(s, &from, &end);
    list = end - from >= 2 && s[from] == '[' && s[end - 1] == ']';
    at = from + (list ? 1 : 0);
    end -= list ? 1 : 0;
    while (ok > 0) {
        infer__chat_body *b = &p->body;
        b->args.n = 0;
        b->n_id = 0;
        ok = infer__chat_python_call(s, end, &at, &b->name, &b->n_name, &b->args);
        if (b->args.failed) ok = -1;
        if (ok > 0 && b->n_name > INFER__CHAT_NAME_MAX) ok = 0;
        if (ok > 0 && method) { /* NAME.call(...) */
            ok = b->n_name > 5 && memcmp(s + b->name + b->n_name - 5, ".call", 5) == 0;
            b->n_name -= ok ? 5 : 0;
        }
        if (ok > 0) ok = infer__chat_args_call(p, b->args.s, b->args.n);
        at = infer__chat_skip(s, end, at);
        if (ok <= 0 || at >= end) break;
        ok = s[at] == ',' || s[at] == ';';
        at++;
    }
    if (ok <= 0) p->n_calls = before;
    return ok;
}

/* One call:NAME{...}. */
static int infer__chat_brace_call(infer__chat_reader *p, size_t from, size_t end) {
    infer__chat_body *b = &p->body;
    const char *s = p->in.s;
    size_t at;
    infer__chat_trim(s, &from, &end);
    if (end - from < 5 || memcmp(s + from, "call:", 5) != 0) return 0;
    at = infer__chat_find(s, end, from, "{", 1);
    b->name = from + 5;
    b->n_name = at - b->name;
    b->args.n = 0;
    if (at == end || b->n_name == 0 || b->n_name > INFER__CHAT_NAME_MAX) return 0;
    if (!infer__chat_braces(s, end, &at, b->kind->value, &b->args) || at != end) return b->args.failed ? -1 : 0;
    return b->args.failed ? -1 : infer__chat_args_call(p, b->args.s, b->args.n);
}

/* Shapes that are parsed as a whole, when their end (outside quotes in braces) or the reply's has arrived. */
static int infer__chat_read_whole(infer__chat_reader *p, int final, size_t *end) {
    infer__chat_body *b = &p->body;
    const char *s = p->in.s, *quote = b->kind->shape == INFER__SHAPE_BRACES ? b->kind->value : NULL;
    size_t n = p->in.n, stop = n;
    int r, whole = 0;
    while (!whole && b->at < n) {
        if (b->in_string) {
            if (!infer__chat_seek(b, s, n, quote, &stop)) break;
            b->in_string = 0;
        } else if ((r = infer__chat_begins(s, n, b->at, b->kind->end)) != 0) {
            if (r < 0) break;
            stop = b->at;
            b->at += strlen(b->kind->end);
            whole = 1;
        } else if (quote && (r = infer__chat_begins(s, n, b->at, quote)) != 0) {
            if (r < 0) break;
            b->at += strlen(quote);
            b->in_string = 1;
        } else {
            b->at++;
        }
    }
    if (!whole && !final) return INFER__BODY_MORE;
    if (!whole) b->at = stop = n;
    *end = b->at;
    r = quote ? infer__chat_brace_call(p, b->from, stop) : infer__chat_python_calls(p, b->from, stop, 0);
    if (r < 0) p->failed = INFER_ERR_MEMORY;
    return r > 0 ? INFER__BODY_DONE : INFER__BODY_FAIL;
}

/* The rest of the reply: JSON calls, NAME.call(...), else code for the interpreter. */
static int infer__chat_read_rest(infer__chat_reader *p, int final, size_t *end) {
    infer__chat_body *b = &p->body;
    const char *s = p->in.s;
    size_t n = p->in.n, at, stop = n;
    int r;
    *end = n;
    if (!b->step) { /* the first character shows what it is */
        b->at = b->value = infer__chat_skip(s, n, b->at);
        if (b->at == n) return final ? INFER__BODY_FAIL : INFER__BODY_MORE;
        b->step = s[b->at] == '{' || s[b->at] == '[' ? 1 : 2;
    }
    at = b->value;
    if (b->step == 1) return infer__chat_read_json(p, end);
    if (!final) return INFER__BODY_MORE;
    r = infer__chat_python_calls(p, b->from, n, 1);
    if (r == 0) {
        infer__chat_trim(s, &at, &stop);
        p->scratch.n = 0;
        infer__bytes_text(&p->scratch, "{\"code\": ");
        infer__json_quote(&p->scratch, s + at, stop - at);
        infer__bytes_char(&p->scratch, '}');
        r = p->scratch.failed ? -1
            : infer__chat_call_add(p, NULL, 0, "code_interpreter", 16, p->scratch.s, p->scratch.n) ? 1 : -1;
    }
    if (r < 0) p->failed = INFER_ERR_MEMORY;
    return r > 0 ? INFER__BODY_DONE : INFER__BODY_FAIL;
}

static int infer__chat_body_read(infer__chat_reader *p, int final, size_t *end) {
    *end = p->body.from;
    switch (p->body.kind->shape) {
    case INFER__SHAPE_JSON: return infer__chat_read_json(p, end);
    case INFER__SHAPE_ARGS: return infer__chat_read_args(p, end);
    case INFER__SHAPE_XML: return infer__chat_read_xml(p, end);
    case INFER__SHAPE_REST: return infer__chat_read_rest(p, final, end);
    default: return infer__chat_read_whole(p, final, end);
    }
}
