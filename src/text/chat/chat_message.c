/* chat_message.c: messages and tools given as structs, as JSON.
 *
 * Owns:  infer__chat_messages_json, infer__chat_tools_json: the only mapping of fields to members. After that both
 *        forms are the same text.
 * Rules: texts are quoted; embedded JSON (arguments, parameters) is first checked to be a complete object, so that it
 *        cannot break out of its context. Errors name the message and the field.
 */
#include "chat.h"

typedef struct infer__chat_writing {
    infer__bytes *out;
    const char *list; /* "messages" or "tools" */
    size_t at;        /* the element */
    infer_error *err;
    infer_result r;   /* the first error */
} infer__chat_writing;

/* ARGUMENT: a field of the element, or of a call or part of it (inner NULL = of the element itself). */
static void infer__chat_wrong(infer__chat_writing *w, infer_result r, const char *inner, size_t i, const char *what) {
    if (w->r != INFER_OK) return;
    w->r = inner ? infer__error(w->err, r, "%s[%llu]: %s[%llu]: %s", w->list, (unsigned long long)w->at, inner,
                                (unsigned long long)i, what)
                 : infer__error(w->err, r, "%s[%llu]: %s", w->list, (unsigned long long)w->at, what);
}

/* ,"name": before a value; no comma at the beginning of an object. */
static void infer__chat_put_name(infer__chat_writing *w, const char *name) {
    if (w->out->n > 0 && w->out->s[w->out->n - 1] != '{') infer__bytes_text(w->out, ", ");
    infer__json_quote(w->out, name, strlen(name));
    infer__bytes_text(w->out, ": ");
}
/* A member of n bytes, 0 = zero-terminated; none when s is NULL. */
static void infer__chat_put_member(infer__chat_writing *w, const char *name, const char *s, size_t n) {
    if (!s) return;
    infer__chat_put_name(w, name);
    infer__json_quote(w->out, s, n ? n : strlen(s));
}

/* A member that is an object in JSON; NULL = fallback. */
static void infer__chat_put_object(infer__chat_writing *w, const char *name, const char *s, size_t n,
                                      const char *fallback, const char *inner, size_t i) {
    const infer_json *v;
    infer__arena arena;
    infer_error e;
    infer_result r;
    char what[600];
    infer__chat_put_name(w, name);
    if (!s) {
        infer__bytes_text(w->out, fallback);
        return;
    }
    if (n == 0) n = strlen(s);
    memset(&arena, 0, sizeof arena);
    arena.mem = w->out->mem;
    infer__error_clear(&e);
    r = infer__json_parse(&v, &arena, s, n, &e);
    infer__format(what, sizeof what, "%s: %s", name, r != INFER_OK ? e.message : "an object is expected");
    if (r != INFER_OK || v->kind != INFER_JSON_OBJECT)
        infer__chat_wrong(w, r != INFER_OK ? r : INFER_ERR_ARGUMENT, inner, i, what);
    infer__arena_free(&arena);
    infer__bytes_put(w->out, s, n);
}

static void infer__chat_write_calls(infer__chat_writing *w, const infer_chat_message *m) {
    size_t i;
    infer__chat_put_name(w, "tool_calls");
    infer__bytes_char(w->out, '[');
    for (i = 0; i < m->n_calls && w->r == INFER_OK; i++) {
        const infer_chat_call *call = &m->calls[i];
        if (!call->name) infer__chat_wrong(w, INFER_ERR_ARGUMENT, "calls", i, "name is NULL");
        infer__bytes_text(w->out, i ? ", {" : "{");
        if (call->id && call->id[0]) infer__chat_put_member(w, "id", call->id, 0);
        infer__chat_put_member(w, "type", "function", 0);
        infer__chat_put_name(w, "function");
        infer__bytes_char(w->out, '{');
        infer__chat_put_member(w, "name", call->name, 0);
        infer__chat_put_object(w, "arguments", call->arguments, call->n_arguments, "{}", "calls", i);
        infer__bytes_text(w->out, "}}");
    }
    infer__bytes_char(w->out, ']');
}

static void infer__chat_write_parts(infer__chat_writing *w, const infer_chat_message *m) {
    size_t i;
    infer__chat_put_name(w, "content");
    infer__bytes_char(w->out, '[');
    for (i = 0; i < m->n_parts && w->r == INFER_OK; i++) {
        const infer_chat_part *part = &m->parts[i];
        char what[60];
        if (part->kind == INFER_CHAT_PART_MEDIA) {
            infer__bytes_text(w->out, i ? ", {\"type\": \"image\"}" : "{\"type\": \"image\"}");
            continue;
        }
        if (part->kind != INFER_CHAT_PART_TEXT) {
            infer__format(what, sizeof what, "kind %d is no INFER_CHAT_PART_*", (int)part->kind);
            infer__chat_wrong(w, INFER_ERR_ARGUMENT, "parts", i, what);
        } else if (!part->text) {
            infer__chat_wrong(w, INFER_ERR_ARGUMENT, "parts", i, "text is NULL");
        }
        infer__bytes_text(w->out, i ? ", {" : "{");
        infer__chat_put_member(w, "type", "text", 0);
        infer__chat_put_member(w, "text", part->text, part->n);
        infer__bytes_char(w->out, '}');
    }
    infer__bytes_char(w->out, ']');
}

static void infer__chat_write_message(infer__chat_writing *w, const infer_chat_message *m) {
    const char *wrong = !m->role                          ? "role is NULL"
                        : !m->content && m->n_content     ? "content is NULL but n_content is not 0"
                        : !m->reasoning && m->n_reasoning ? "reasoning is NULL but n_reasoning is not 0"
                        : !m->calls && m->n_calls         ? "calls is NULL but n_calls is not 0"
                        : !m->parts && m->n_parts         ? "parts is NULL but n_parts is not 0"
                        : m->content && (m->n_content || m->content[0]) && m->n_parts
                            ? "content and parts are both given"
                            : NULL;
    if (wrong) {
        infer__chat_wrong(w, INFER_ERR_ARGUMENT, NULL, 0, wrong);
        return;
    }
    if ((w->r = infer__reserved_check(m->reserved, "a chat_message", w->err)) != INFER_OK) return;
    infer__bytes_char(w->out, '{');
    infer__chat_put_member(w, "role", m->role, 0);
    if (m->n_parts) infer__chat_write_parts(w, m);
    else infer__chat_put_member(w, "content", m->content, m->n_content);
    if (m->reasoning && (m->n_reasoning || m->reasoning[0]))
        infer__chat_put_member(w, "reasoning_content", m->reasoning, m->n_reasoning);
    if (m->n_calls) infer__chat_write_calls(w, m);
    infer__chat_put_member(w, "tool_call_id", m->tool_call_id, 0);
    infer__chat_put_member(w, "name", m->name, 0);
    infer__bytes_char(w->out, '}');
}

static void infer__chat_write_tool(infer__chat_writing *w, const infer_chat_tool *t) {
    if (!t->name) infer__chat_wrong(w, INFER_ERR_ARGUMENT, NULL, 0, "name is NULL");
    infer__bytes_char(w->out, '{');
    infer__chat_put_member(w, "type", "function", 0);
    infer__chat_put_name(w, "function");
    infer__bytes_char(w->out, '{');
    infer__chat_put_member(w, "name", t->name, 0);
    infer__chat_put_member(w, "description", t->description, 0);
    infer__chat_put_object(w, "parameters", t->parameters, 0, "{\"type\": \"object\", \"properties\": {}}", NULL, 0);
    infer__bytes_text(w->out, "}}");
}

static infer_result infer__chat_written(infer__chat_writing *w) {
    infer__bytes_char(w->out, ']');
    if (w->r == INFER_OK && w->out->failed)
        w->r = infer__error(w->err, INFER_ERR_MEMORY, "a conversation: out of memory");
    return w->r;
}

static infer_result infer__chat_messages_json(infer__bytes *out, const infer_chat_message *messages, size_t n,
                                              infer_error *err) {
    infer__chat_writing w = {NULL, "messages", 0, NULL, INFER_OK};
    w.out = out;
    w.err = err;
    infer__bytes_char(out, '[');
    for (; w.at < n && w.r == INFER_OK && !out->failed; w.at++) {
        if (w.at) infer__bytes_text(out, ", ");
        infer__chat_write_message(&w, &messages[w.at]);
    }
    return infer__chat_written(&w);
}

static infer_result infer__chat_tools_json(infer__bytes *out, const infer_chat_tool *tools, size_t n,
                                           infer_error *err) {
    infer__chat_writing w = {NULL, "tools", 0, NULL, INFER_OK};
    w.out = out;
    w.err = err;
    infer__bytes_char(out, '[');
    for (; w.at < n && w.r == INFER_OK && !out->failed; w.at++) {
        if (w.at) infer__bytes_text(out, ", ");
        infer__chat_write_tool(&w, &tools[w.at]);
    }
    return infer__chat_written(&w);
}
