/* chat_prompt.c: rendering a conversation with a template.
 *
 * Owns:  infer__chat_prompt: checks messages, converts them to the form that templates expect, renders.
 * Rules: all changes are documented in api_chat.h (infer_chat_params). An exception raised by a template is an error
 *        with its message. The context is built from the caller's JSON values, in one arena.
 * Start: infer__chat_prompt.
 */
#include "chat.h"

typedef struct infer__chat_making {
    infer__arena arena;
    const infer__chat_request *rq;
    int as_text;          /* arguments of calls: 1 = JSON in strings, 0 = objects */
    int calls_seen;       /* a call with arguments */
    int has_tools;        /* some are given; else: */
    int without_tools;    /* 1 = the template does not get the variable at all, 0 = it is None */
    int64_t n_calls;
    const char *reasoning; /* the name by which the template reads it; NULL = unknown */
    infer_error *err;
    infer_result r;       /* the first error */
} infer__chat_making;

static void *infer__chat_take(infer__chat_making *c, uint64_t size) {
    void *p = infer__arena_alloc(&c->arena, size);
    if (!p && c->r == INFER_OK) c->r = infer__error(c->err, INFER_ERR_MEMORY, "a conversation: out of memory");
    return p;
}

static infer_json infer__chat_string(const char *s, size_t n) {
    infer_json v;
    memset(&v, 0, sizeof v);
    v.kind = INFER_JSON_STRING;
    v.s = s;
    v.n = n;
    return v;
}
static infer_json infer__chat_bool(int yes) {
    infer_json v;
    memset(&v, 0, sizeof v);
    v.kind = yes ? INFER_JSON_TRUE : INFER_JSON_FALSE;
    v.v.i = yes;
    return v;
}

/* The members of `base` (an object, or NULL) with room for `more`. */
static infer_json *infer__chat_object(infer__chat_making *c, const infer_json *base, size_t more, infer_json *object) {
    uint64_t n = base && base->kind == INFER_JSON_OBJECT ? base->n : 0;
    infer_json *items = (infer_json *)infer__chat_take(c, (n + more) * 2 * sizeof *items);
    memset(object, 0, sizeof *object);
    object->kind = INFER_JSON_OBJECT;
    object->v.items = items;
    if (!items) return NULL;
    if (n) memcpy(items, base->v.items, (size_t)n * 2 * sizeof *items);
    object->n = n;
    return items;
}
/* Set a member of an object that infer__chat_object has made room in. */
static void infer__chat_set(infer_json *object, infer_json *items, const char *name, infer_json value) {
    size_t len = strlen(name);
    uint64_t i;
    for (i = 0; i < object->n; i++)
        if (items[2 * i].n == len && memcmp(items[2 * i].s, name, len) == 0) break;
    items[2 * i] = infer__chat_string(name, len);
    items[2 * i + 1] = value;
    if (i == object->n) object->n++;
}

/* ---- messages -------------------------------------------------------------------------------------------------- */

/* The text of a part, or the marker of a picture or sound; NULL for others. */
static const infer_json *infer__chat_part_text(const infer_json *part, int32_t media) {
    static const char *const MEDIA[] = { "image", "image_url", "input_image", "audio", "audio_url", "input_audio" };
    static const infer_json MARKER = { INFER_JSON_STRING, 0, sizeof INFER_MEDIA_MARKER - 1, INFER_MEDIA_MARKER, { 0 } };
    const infer_json *type = infer__json_get(part, "type", 4), *text = infer__json_get(part, "text", 4);
    size_t i;
    if (!type || type->kind != INFER_JSON_STRING) return NULL;
    for (i = 0; i < INFER__COUNT(MEDIA) && media; i++)
        if (strcmp(type->s, MEDIA[i]) == 0) return &MARKER;
    return strcmp(type->s, "text") == 0 && text && text->kind == INFER_JSON_STRING ? text : NULL;
}

/* Text parts, and media where it is wanted, become one string; anything else stays as it is. */
static infer_json infer__chat_content(infer__chat_making *c, const infer_json *v) {
    const infer_json *text;
    uint64_t i, n = 0;
    char *s;
    if (v->kind != INFER_JSON_ARRAY || v->n == 0) return *v;
    for (i = 0; i < v->n; i++) {
        text = infer__chat_part_text(&v->v.items[i], c->rq->media);
        if (!text || !infer__add_ok(n, text->n, &n)) return *v;
    }
    s = (char *)infer__chat_take(c, n + 1);
    if (!s) return *v;
    for (i = 0, n = 0; i < v->n; i++) {
        text = infer__chat_part_text(&v->v.items[i], c->rq->media);
        memcpy(s + n, text->s, (size_t)text->n);
        n += text->n;
    }
    return infer__chat_string(s, (size_t)n);
}

static int32_t infer__chat_media_of(const infer_json *message) {
    const infer_json *content = infer__json_get(message, "content", 7), *text;
    const uint64_t parts = content && content->kind == INFER_JSON_ARRAY ? content->n : 1;
    const char *s;
    int32_t n = 0;
    uint64_t i;
    if (!content) return 0;
    for (i = 0; i < parts; i++) {
        text = content->kind == INFER_JSON_ARRAY ? infer__chat_part_text(&content->v.items[i], 1) : content;
        if (!text || text->kind != INFER_JSON_STRING) continue;
        for (s = text->s; (s = strstr(s, INFER_MEDIA_MARKER)) != NULL; s++) n++;
    }
    return n;
}

/* Arguments as an object, or as text where objects have failed. */
static infer_json infer__chat_arguments(infer__chat_making *c, const infer_json *v) {
    const infer_json *object;
    infer__bytes b;
    char *s;
    c->calls_seen = 1;
    if (!c->as_text && v->kind == INFER_JSON_STRING) {
        infer_result r = infer__json_parse(&object, &c->arena, v->s, (size_t)v->n, NULL);
        if (r == INFER_ERR_MEMORY) c->r = infer__error(c->err, r, "a conversation: out of memory");
        return r == INFER_OK && object->kind == INFER_JSON_OBJECT ? *object : *v;
    }
    if (!c->as_text || v->kind == INFER_JSON_STRING) return *v;
    memset(&b, 0, sizeof b);
    b.mem = c->arena.mem;
    infer__json_write(&b, v, -1);
    s = b.failed ? NULL : infer__arena_text(&c->arena, b.s, b.n);
    if (!s) c->r = infer__error(c->err, INFER_ERR_MEMORY, "a conversation: out of memory");
    object = v;
    if (s) {
        infer_json text = infer__chat_string(s, b.n);
        infer__bytes_free(&b);
        return text;
    }
    infer__bytes_free(&b);
    return *object;
}

static infer_json infer__chat_calls(infer__chat_making *c, const infer_json *v) {
    infer_json *calls, list = *v;
    uint64_t i;
    if (v->kind != INFER_JSON_ARRAY || v->n == 0) return *v;
    calls = (infer_json *)infer__chat_take(c, v->n * sizeof *calls);
    if (!calls) return *v;
    list.v.items = calls;
    for (i = 0; i < v->n && c->r == INFER_OK; i++) {
        const infer_json *call = &v->v.items[i], *f = infer__json_get(call, "function", 8), *args;
        infer_json inner, *items;
        int nested = f && f->kind == INFER_JSON_OBJECT;
        c->n_calls++;
        calls[i] = *call;
        args = infer__json_get(nested ? f : call, "arguments", 9);
        if (!args) continue;
        items = infer__chat_object(c, nested ? f : call, 1, &inner);
        if (!items) break;
        infer__chat_set(&inner, items, "arguments", infer__chat_arguments(c, args));
        if (!nested) {
            calls[i] = inner;
        } else if ((items = infer__chat_object(c, call, 1, &calls[i])) != NULL) {
            infer__chat_set(&calls[i], items, "function", inner);
        }
    }
    return list;
}

static const char *const INFER__REASONING_NAMES[] = {"reasoning_content", "reasoning", "thinking"};

/* The name under which a template reads the reasoning of a message, by its text; NULL = under none. */
static const char *infer__chat_reasoning_name(const char *text, size_t n) {
    static const char AROUND[][2] = {{'.', 0}, {'\'', '\''}, {'"', '"'}};
    char w[32];
    size_t i, k;
    for (i = 0; i < INFER__COUNT(INFER__REASONING_NAMES); i++)
        for (k = 0; k < INFER__COUNT(AROUND); k++) {
            size_t len = infer__format(w, sizeof w, "%c%s", AROUND[k][0], INFER__REASONING_NAMES[i]);
            if (AROUND[k][1]) w[len++] = AROUND[k][1];
            if (infer__chat_find(text, n, 0, w, len) < n) return INFER__REASONING_NAMES[i];
        }
    return NULL;
}

static void infer__chat_message(infer__chat_making *c, const infer_json *v, size_t number, infer_json *out) {
    const infer_json *role = infer__json_get(v, "role", 4), *m, *thought = NULL;
    infer_json *items;
    int assistant;
    size_t i;
    if (v->kind != INFER_JSON_OBJECT || !role || role->kind != INFER_JSON_STRING) {
        c->r = infer__error(c->err, INFER_ERR_ARGUMENT, "messages[%llu]: an object with a \"role\" is expected",
                            (unsigned long long)number);
        return;
    }
    assistant = strcmp(role->s, "assistant") == 0;
    if ((items = infer__chat_object(c, v, 3, out)) == NULL) return;
    m = infer__json_get(v, "content", 7);
    if (m && m->kind != INFER_JSON_NULL) infer__chat_set(out, items, "content", infer__chat_content(c, m));
    else if (assistant) infer__chat_set(out, items, "content", infer__chat_string("", 0));
    m = infer__json_get(v, "tool_calls", 10);
    if (m) infer__chat_set(out, items, "tool_calls", infer__chat_calls(c, m));
    if (!c->reasoning || !assistant || infer__json_get(v, c->reasoning, strlen(c->reasoning))) return;
    for (i = 0; i < INFER__COUNT(INFER__REASONING_NAMES) && !thought; i++)
        thought = infer__json_get(v, INFER__REASONING_NAMES[i], strlen(INFER__REASONING_NAMES[i]));
    if (thought && thought->kind == INFER_JSON_STRING && thought->n > 0)
        infer__chat_set(out, items, c->reasoning, *thought);
}

/* ---- the context ------------------------------------------------------------------------------------------------ */

/* A JSON text of the caller's, of this kind; text NULL gives NULL. */
static const infer_json *infer__chat_given(infer__chat_making *c, const char *name, const char *text, int kind) {
    const infer_json *v = NULL;
    infer_error e;
    infer_result r;
    if (!text || c->r != INFER_OK) return NULL;
    r = infer__json_parse(&v, &c->arena, text, strlen(text), &e);
    if (r != INFER_OK) c->r = infer__error(c->err, r, "%s: %s", name, e.message);
    else if (v->kind != kind)
        c->r = infer__error(c->err, INFER_ERR_ARGUMENT, "%s: %s is expected", name,
                            kind == INFER_JSON_ARRAY ? "a list" : "an object");
    return c->r == INFER_OK ? v : NULL;
}

static void infer__chat_context(infer__chat_making *c, infer_json *context) {
    static const char *const OURS[] = {"messages", "tools", "add_generation_prompt"},
        *const SWITCHES[] = {"enable_thinking", "thinking"};
    const infer__chat_request *rq = c->rq;
    const infer_json *given = infer__chat_given(c, "messages", rq->messages ? rq->messages : "null", INFER_JSON_ARRAY);
    const infer_json *tools = infer__chat_given(c, "tools", rq->tools, INFER_JSON_ARRAY);
    const infer_json *variables = infer__chat_given(c, "variables", rq->variables, INFER_JSON_OBJECT);
    infer_json *messages, *items, list, none;
    size_t i, switched = 0;
    if (c->r != INFER_OK) return;
    for (i = 0; i < INFER__COUNT(OURS); i++)
        if (infer__json_get(variables, OURS[i], strlen(OURS[i]))) {
            c->r = infer__error(c->err, INFER_ERR_ARGUMENT, "variables: \"%s\" has a parameter of its own", OURS[i]);
            return;
        }
    messages = (infer_json *)infer__chat_take(c, given->n * sizeof *messages);
    items = infer__chat_object(c, variables, 5, context);
    if (!messages || !items) return;
    for (i = 0; i < given->n && c->r == INFER_OK; i++) infer__chat_message(c, &given->v.items[i], i, &messages[i]);
    list = *given;
    list.v.items = messages;
    memset(&none, 0, sizeof none);
    infer__chat_set(context, items, "messages", list);
    c->has_tools = tools && tools->n > 0;
    if (!c->without_tools) infer__chat_set(context, items, "tools", c->has_tools ? *tools : none);
    infer__chat_set(context, items, "add_generation_prompt", infer__chat_bool(!rq->no_generation_prompt));
    for (i = 0; i < INFER__COUNT(SWITCHES) && rq->thinking; i++) {
        if (!infer__template_uses(rq->t, SWITCHES[i])) continue;
        infer__chat_set(context, items, SWITCHES[i], infer__chat_bool(rq->thinking > 0));
        switched = 1;
    }
    if (rq->thinking && !switched && c->r == INFER_OK)
        c->r =
            infer__error(c->err, INFER_ERR_UNSUPPORTED, "thinking: the chat template has no variable that switches it");
}

static infer_result infer__chat_once(infer__chat_making *c, infer__rendered *out) {
    infer__render_options o;
    infer_json context;
    c->n_calls = 0;
    c->r = INFER_OK;
    infer__chat_context(c, &context);
    if (c->r != INFER_OK) return c->r;
    memset(&o, 0, sizeof o);
    o.trusted = c->rq->trusted;
    o.now = c->rq->now;
    o.watch = c->rq->watch;
    return infer__template_render(c->rq->t, &context, &o, out, c->err);
}

static infer_result infer__chat_prompt(infer__mem *mem, const infer__chat_request *rq, infer__rendered *out,
                                       int64_t *n_calls, infer_error *err) {
    infer__chat_making c;
    infer_error first, later;
    infer_result r, again;
    int way;
    memset(&c, 0, sizeof c);
    c.arena.mem = mem;
    c.rq = rq;
    c.err = &first;
    c.reasoning = infer__chat_reasoning_name(rq->text, rq->n);
    infer__error_clear(&first);
    again = r = infer__chat_once(&c, out);
    c.err = &later;
    for (way = 1; way < 4 && again == INFER_ERR_FORMAT && c.r == INFER_OK; way++) { /* see infer_chat_params */
        if (((way & 1) && c.has_tools) || ((way & 2) && !c.calls_seen)) continue;
        c.without_tools = way & 1;
        c.as_text = way >> 1;
        again = infer__chat_once(&c, out);
    }
    *n_calls = c.n_calls;
    infer__arena_free(&c.arena);
    if (again == INFER_OK) return INFER_OK;
    if (again != INFER_ERR_FORMAT && again != INFER_ERR_STATE && r != again)
        return infer__error(err, again, "%s", later.message);
    return infer__error(err, r, "%s", first.message);
}
