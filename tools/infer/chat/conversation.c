/* conversation.c: the messages of a chat as the text of a JSON list, which grows by a message at a time. */
#include "conversation.h"

#include <stdlib.h>
#include <string.h>

static void put(cli_text *t, const char *s, size_t n) { cli_text_put("chat", t, s, n); }
static void puts_to(cli_text *t, const char *s) { put(t, s, strlen(s)); }

/* JSON on one line. */
static void put_line(cli_text *t, const char *s, size_t n) {
    size_t i;
    for (i = 0; i < n; i++) put(t, s[i] == '\n' || s[i] == '\r' ? " " : s + i, 1);
}

static void put_json(cli_text *t, const char *s, size_t n) { cli_text_json("chat", t, s, n); }

/* ---- messages ------------------------------------------------------------------------------- */

static void begin_message(conversation *c, const char *role) {
    puts_to(&c->json, c->json.n > 1 ? ",\n{\"role\":" : "{\"role\":");
    put_json(&c->json, role, strlen(role));
}

static void member(conversation *c, const char *name, const char *s, size_t n) {
    puts_to(&c->json, ",\"");
    puts_to(&c->json, name);
    puts_to(&c->json, "\":");
    put_json(&c->json, s, n);
}

static void add_message(conversation *c, const char *role, const char *content, size_t n) {
    begin_message(c, role);
    member(c, "content", content, n);
    puts_to(&c->json, "}");
}

void conversation_begin(conversation *c, const char *system) {
    c->json.n = 0;
    c->n = c->same = 0;
    puts_to(&c->json, "[");
    if (system) add_message(c, "system", system, strlen(system));
    c->system = c->json.n;
}

void conversation_free(conversation *c) {
    free(c->json.s);
    free(c->turns);
    memset(c, 0, sizeof *c);
}

static void begin_turn(conversation *c) {
    if (c->n == c->cap) {
        turn *grown = cli_grow("chat", c->turns, c->cap * 2 + 16, sizeof *grown);
        if (grown == NULL) {
            c->json.failed = 1;
            return;
        }
        c->turns = grown;
        c->cap = c->cap * 2 + 16;
    }
    memset(&c->turns[c->n], 0, sizeof *c->turns);
    c->turns[c->n++].start = c->json.n;
}

/* Is it a system message? */
static int of_system(const char *role) { return strcmp(role, "system") == 0 || strcmp(role, "developer") == 0; }

/* One more part: a text, unless it is empty, or a file. */
static void put_part(conversation *c, int first, const char *type, const char *name, const char *s, size_t n) {
    puts_to(&c->json, first ? "{\"type\":" : ",{\"type\":");
    put_json(&c->json, type, strlen(type));
    member(c, name, s, n);
    puts_to(&c->json, "}");
}

/* A user's message with files. */
static void add_parts(conversation *c, const char *text, const char *const *files, int n_files, int marked) {
    const char *s = text, *marker;
    int parts = 0, i = 0;
    begin_message(c, "user");
    puts_to(&c->json, ",\"content\":[");
    for (;;) {
        marker = marked ? strstr(s, INFER_MEDIA_MARKER) : i < n_files ? s : NULL;
        if (marker ? marker > s : *s) put_part(c, !parts++, "text", "text", s, marker ? (size_t)(marker - s) : strlen(s));
        if (marker == NULL) break;
        put_part(c, !parts++, cli_media_is_sound(files[i]) ? "audio" : "image", "path", files[i], strlen(files[i]));
        s = marked ? marker + sizeof INFER_MEDIA_MARKER - 1 : s;
        i++;
    }
    puts_to(&c->json, "]}");
}

int conversation_say(conversation *c, const char *text, size_t n, const char *const *files, int n_files) {
    const char *s;
    int markers = 0;
    for (s = text; n_files && (s = strstr(s, INFER_MEDIA_MARKER)) != NULL; s++) markers++;
    if (markers && markers != n_files)
        return cli_fail("chat", "the message has %d markers (" INFER_MEDIA_MARKER ") for %d pictures and sounds", markers, n_files) == CLI_DONE;
    begin_turn(c);
    if (c->json.failed) return 0;
    if (n_files) add_parts(c, text, files, n_files, markers > 0);
    else add_message(c, "user", text, n);
    c->turns[c->n - 1].reply = c->json.n;
    c->turns[c->n - 1].messages = 1;
    return 1;
}

void conversation_result(conversation *c, const infer_chat_call *call, const char *text, size_t n) {
    begin_message(c, "tool");
    member(c, "tool_call_id", call->id, strlen(call->id));
    member(c, "name", call->name, strlen(call->name));
    member(c, "content", text, n);
    puts_to(&c->json, "}");
    if (c->n == 0) return;
    c->turns[c->n - 1].reply = c->json.n;
    c->turns[c->n - 1].messages++;
}

void conversation_reply(conversation *c, const infer_chat_reply *r) {
    size_t i;
    if (c->n) {
        c->turns[c->n - 1].reply = c->json.n;
        c->turns[c->n - 1].messages++;
    }
    begin_message(c, "assistant");
    member(c, "content", r->content, r->n_content);
    if (r->n_reasoning) member(c, "reasoning_content", r->reasoning, r->n_reasoning);
    for (i = 0; i < r->n_calls; i++) {
        const infer_chat_call *call = &r->calls[i];
        puts_to(&c->json, i ? "," : ",\"tool_calls\":[");
        puts_to(&c->json, "{\"type\":\"function\"");
        member(c, "id", call->id, strlen(call->id));
        puts_to(&c->json, ",\"function\":{\"name\":");
        put_json(&c->json, call->name, strlen(call->name));
        puts_to(&c->json, ",\"arguments\":");
        put_line(&c->json, call->arguments, call->n_arguments);
        puts_to(&c->json, "}}");
    }
    puts_to(&c->json, r->n_calls ? "]}" : "}");
}

/* ---- turns ---------------------------------------------------------------------------------- */

static void cut_at(conversation *c, size_t n) {
    c->json.n = n;
    c->json.s[n] = 0;
    if (c->same > n) c->same = n;
}

int conversation_undo(conversation *c) {
    if (c->n == 0) return 0;
    for (c->n--; c->n > 1 && c->turns[c->n - 1].system; c->n--) {} /* with what the system said before it */
    cut_at(c, c->turns[c->n].start);
    return 1;
}

int conversation_take_back(conversation *c) {
    if (c->n == 0 || c->turns[c->n - 1].system) return 0;
    if (c->turns[c->n - 1].reply < c->json.n) c->turns[c->n - 1].messages--;
    cut_at(c, c->turns[c->n - 1].reply);
    return 1;
}

/* Bytes of json up to the end of turn i. */
static size_t turn_end(const conversation *c, size_t i) { return i + 1 < c->n ? c->turns[i + 1].start : c->json.n; }

static void remove_turn(conversation *c, size_t i) {
    size_t from = turn_end(c, i), to = c->turns[i].start;
    if (to == 1 && from < c->json.n) from += 2; /* a list does not begin with ",\n" */
    if (c->same > to) c->same = to;
    memmove(c->json.s + to, c->json.s + from, c->json.n - from + 1);
    memmove(c->turns + i, c->turns + i + 1, (--c->n - i) * sizeof *c->turns);
    c->json.n -= from - to;
    for (; i < c->n; i++) {
        c->turns[i].start = c->turns[i].start > from ? c->turns[i].start - (from - to) : to;
        c->turns[i].reply -= from - to;
    }
}

int conversation_drop(conversation *c, int32_t messages) {
    size_t i = 0;
    int turns = 0;
    while (messages > 0 && i + 1 < c->n) {
        if (c->turns[i].system) {
            i++;
            continue;
        }
        messages -= c->turns[i].messages;
        remove_turn(c, i);
        turns++;
    }
    return turns;
}

size_t conversation_answered(const conversation *c) {
    size_t i = c->n;
    while (i > 0 && c->turns[i - 1].reply == turn_end(c, i - 1)) i--;
    return i > 0 ? turn_end(c, i - 1) : c->system;
}

void conversation_set_system(conversation *c, const char *system) {
    conversation other;
    const size_t n = c->json.n - c->system;
    size_t i, shift;
    memset(&other, 0, sizeof other);
    conversation_begin(&other, system);
    shift = other.json.n;
    if (n > 0) {
        const char *rest = c->json.s + c->system;
        const int comma = rest[0] == ',';
        if (other.json.n > 1 && !comma) puts_to(&other.json, ",\n");
        if (other.json.n == 1 && comma) put(&other.json, rest + 2, n - 2);
        else put(&other.json, rest, n);
    }
    if (other.json.failed) {
        conversation_free(&other);
        return;
    }
    for (i = 0; i < c->n; i++) { /* all have moved as the end has */
        c->turns[i].start = i == 0 ? shift : c->turns[i].start + other.json.n - c->json.n;
        c->turns[i].reply = c->turns[i].reply + other.json.n - c->json.n;
    }
    c->system = shift;
    c->same = 0;
    free(c->json.s);
    c->json = other.json;
}

/* ---- the whole ------------------------------------------------------------------------------ */

const char *conversation_close(conversation *c) {
    puts_to(&c->json, "]");
    return c->json.failed ? NULL : c->json.s;
}

void conversation_open(conversation *c) {
    if (!c->json.failed) c->json.s[--c->json.n] = 0;
}

/* A member of a message of a file, as it is. */
static int load_member(conversation *c, const char *name, size_t n_name, const infer_json *value) {
    size_t length, n;
    const char *string = infer_json_string(value, &n);
    char *text;
    if (string) { /* as members are written here */
        puts_to(&c->json, ",");
        put_json(&c->json, name, n_name);
        puts_to(&c->json, ":");
        put_json(&c->json, string, n);
        return 1;
    }
    if (infer_json_write(value, -1, NULL, 0, &length) != INFER_OK) return 0;
    text = cli_alloc("chat", length + 1, 1);
    if (text == NULL || infer_json_write(value, -1, text, length + 1, &length) != INFER_OK) {
        c->json.failed = text == NULL;
        free(text);
        return 0;
    }
    puts_to(&c->json, ",");
    put_json(&c->json, name, n_name);
    puts_to(&c->json, ":");
    put(&c->json, text, length);
    free(text);
    return 1;
}

static int load_message(conversation *c, const infer_json *m) {
    size_t n = 0, i, before;
    const char *role = infer_json_string(infer_json_get(m, "role"), &n), *name;
    int assistant, first_system, ok = 1;
    if (role == NULL) return 0;
    assistant = strcmp(role, "assistant") == 0;
    first_system = c->n == 0 && c->json.n == 1 && strcmp(role, "system") == 0;
    before = c->json.n;
    if (!first_system && (strcmp(role, "user") == 0 || of_system(role) || c->n == 0)) {
        begin_turn(c);
        if (!c->json.failed) c->turns[c->n - 1].system = of_system(role);
    }
    if (c->json.failed) return 0;
    begin_message(c, role);
    for (i = 0; ok && i < infer_json_count(m); i++) {
        name = infer_json_name(m, i, &n);
        if (n != 4 || memcmp(name, "role", 4) != 0) ok = load_member(c, name, n, infer_json_at(m, i));
    }
    puts_to(&c->json, "}");
    if (first_system) c->system = c->json.n;
    else {
        turn *t = &c->turns[c->n - 1];
        t->reply = assistant ? before : c->json.n;
        t->messages += !of_system(role);
    }
    return ok && !c->json.failed;
}

/* Takes `other` in place of c, or frees it. */
static int take_over(conversation *c, conversation *other, int ok) {
    if (!ok || other->json.failed) {
        conversation_free(other);
        return 0;
    }
    conversation_free(c);
    *c = *other;
    return 1;
}

int conversation_load(conversation *c, const char *path) {
    conversation other;
    infer_json *document = NULL;
    infer_error err;
    size_t n, i;
    int ok;
    char *data = cli_read_file("chat", path, &n);
    if (data == NULL) return 0;
    memset(&other, 0, sizeof other);
    conversation_begin(&other, NULL);
    ok = infer_json_parse(&document, data, n, NULL, &err) == INFER_OK;
    if (!ok) cli_fail("chat", "%s: %s", path, err.message);
    for (i = 0; ok && i < infer_json_count(document); i++) ok = load_message(&other, infer_json_at(document, i));
    if (document && (!ok || infer_json_count(document) == 0) && !other.json.failed)
        ok = cli_fail("chat", "%s: expected a list of messages with a role each", path) == CLI_DONE;
    infer_json_free(document);
    free(data);
    return take_over(c, &other, ok);
}

int conversation_resume(conversation *c, const char *path, const char *lines, size_t n) {
    conversation other;
    infer_json *message;
    infer_error err;
    const char *line, *end, *stop = lines + n;
    long number = 0;
    int ok = 1;
    memset(&other, 0, sizeof other);
    conversation_begin(&other, NULL);
    for (line = lines; ok && line < stop; line = end + 1) {
        end = memchr(line, '\n', (size_t)(stop - line)); /* every line has one */
        number++;
        if (end == line) continue;
        ok = infer_json_parse(&message, line, (size_t)(end - line), NULL, &err) == INFER_OK;
        if (!ok) {
            cli_fail("chat", "%s, line %ld: %s", path, number, err.message);
            break;
        }
        ok = load_message(&other, message);
        infer_json_free(message);
        if (!ok && !other.json.failed) cli_fail("chat", "%s, line %ld: expected a message with a role", path, number);
    }
    other.same = other.json.n;
    return take_over(c, &other, ok);
}

int conversation_save(conversation *c, const char *path) {
    FILE *file = cli_create("chat", path);
    if (file == NULL) return 0;
    if (fwrite(c->json.s, 1, c->json.n, file) == c->json.n) fputs("]\n", file);
    return cli_close("chat", file, path);
}
