/* responses.c: POST /v1/responses. Nothing is stored: a request has the whole conversation. */
#include "../serve.h"

#include <stdlib.h>
#include <string.h>

static const parameter TABLE[] = {
    SERVE_PARAMS_REPLY,
    SERVE_PARAMS_TEMPLATE,
    SERVE_PARAMS_TOOLS,
    {"input", PARAM_ANY, PARAM_AT(input), 0, 0, NULL},
    {"instructions", PARAM_TEXT, PARAM_AT(instructions), 0, 0, NULL},
    {"stream_options", PARAM_IGNORED, 0, 0, 0, NULL}, /* padding against observers */
    {"max_output_tokens", PARAM_INT, PARAM_AT(max_tokens), 1, 1e9, NULL},
    {"text", PARAM_OBJECT, PARAM_AT(text), 0, 0, NULL},
    {"reasoning", PARAM_OBJECT, PARAM_AT(reasoning), 0, 0, NULL},
    {"truncation", PARAM_TEXT, PARAM_AT(format), 0, 0, NULL},
    {"include", PARAM_ONLY, 0, 0, 0, "[]"},
    {"background", PARAM_ONLY, 0, 0, 0, "false"},
    SERVE_PARAMS_SAMPLING,
    SERVE_PARAMS_MORE,
    SERVE_PARAMS_IGNORED,
};

/* ---- the conversation ----------------------------------------------------------------------- */

/* Items become messages; what the assistant said, thought and called between two others is one. */
typedef struct builder {
    cli_text out, calls;
    content text, reasoning;
    int n, n_calls, assistant;
    failure *f;
} builder;

static void flush(builder *b) {
    if (b->assistant) {
        out(&b->out, "%s{\"role\":\"assistant\",\"content\":", b->n++ ? "," : "");
        content_write(&b->text, &b->out);
        if (b->reasoning.text.n) {
            out(&b->out, ",\"reasoning_content\":");
            content_write(&b->reasoning, &b->out);
        }
        if (b->n_calls) out(&b->out, ",\"tool_calls\":[%t]", &b->calls);
        out(&b->out, "}");
    }
    out_clear(&b->calls);
    b->n_calls = b->assistant = 0;
}

/* A content: a string, or parts. */
static int add_content(builder *b, content *c, const infer_json *given, size_t item) {
    size_t i, n;
    const char *s = infer_json_string(given, &n);
    if (s) content_text(c, "", s, n);
    for (i = 0; !s && i < infer_json_count(given); i++) {
        const infer_json *part = infer_json_at(given, i), *sound = infer_json_get(part, "input_audio");
        const char *text = infer_json_string(infer_json_get(part, "text"), &n), *type = infer_json_string(infer_json_get(part, "type"), NULL);
        const char *url = type && strcmp(type, "input_image") == 0 ? infer_json_string(infer_json_get(part, "image_url"), &n) : NULL;
        if (text == NULL && url == NULL) text = infer_json_string(infer_json_get(part, "refusal"), &n);
        if (url) content_image(c, "", url, n);
        else if (text) content_text(c, "", text, n);
        else if (type && strcmp(type, "input_audio") == 0 && sound) content_sound(c, sound);
        else
            return fail(b->f, 400, "unsupported_content", "input", "input[%lu].content[%lu]: the type '%.40s' is not supported%s", (unsigned long)item,
                        (unsigned long)i, type ? type : "", type && strcmp(type, "input_image") == 0 ? " without 'image_url'" : "");
    }
    return 1;
}

static int add_message(builder *b, const infer_json *item, size_t i) {
    const infer_json *role = infer_json_get(item, "role"), *given = infer_json_get(item, "content");
    content all;
    int ok;
    if (infer_json_string(role, NULL) == NULL) return fail(b->f, 400, "invalid_type", "input", "input[%lu]: 'role' must be a text", (unsigned long)i);
    if (json_is(role, "assistant")) {
        b->assistant = 1;
        return add_content(b, &b->text, given, i);
    }
    flush(b);
    memset(&all, 0, sizeof all);
    ok = add_content(b, &all, given, i);
    out(&b->out, "%s{\"role\":%v,\"content\":", b->n++ ? "," : "", role);
    content_write(&all, &b->out);
    out(&b->out, "}");
    content_end(&all);
    return ok;
}

static int add_call(builder *b, const infer_json *item) {
    const char *id = json_get_text(item, "call_id", "function_call", b->f), *name = json_get_text(item, "name", "function_call", b->f);
    const char *arguments = json_get_text(item, "arguments", "function_call", b->f);
    if (!id || !name || !arguments) return 0;
    b->assistant = 1;
    out(&b->calls, "%s{\"id\":%j,\"type\":\"function\",\"function\":{\"name\":%j,\"arguments\":%j}}", b->n_calls++ ? "," : "", id, name, arguments);
    return 1;
}

/* The name of the function that a call had. */
static const char *called(const infer_json *items, const char *id) {
    size_t i;
    for (i = 0; i < infer_json_count(items); i++) {
        const infer_json *item = infer_json_at(items, i);
        if (json_is(infer_json_get(item, "type"), "function_call") && json_is(infer_json_get(item, "call_id"), id))
            return infer_json_string(infer_json_get(item, "name"), NULL);
    }
    return NULL;
}

static int add_result(builder *b, const infer_json *items, const infer_json *item, size_t i) {
    const char *id = json_get_text(item, "call_id", "function_call_output", b->f), *name;
    content all;
    int ok;
    if (id == NULL) return 0;
    flush(b);
    memset(&all, 0, sizeof all);
    ok = add_content(b, &all, infer_json_get(item, "output"), i);
    out(&b->out, "%s{\"role\":\"tool\",\"tool_call_id\":%j", b->n++ ? "," : "", id);
    name = called(items, id);
    if (name) out(&b->out, ",\"name\":%j", name);
    out(&b->out, ",\"content\":");
    content_write(&all, &b->out);
    out(&b->out, "}");
    content_end(&all);
    return ok;
}

static int add_item(builder *b, const infer_json *items, size_t i) {
    const infer_json *item = infer_json_at(items, i), *type = infer_json_get(item, "type"), *given = infer_json_get(item, "content");
    const char *name = infer_json_string(type, NULL);
    if (name == NULL || strcmp(name, "message") == 0) return add_message(b, item, i);
    if (strcmp(name, "function_call") == 0) return add_call(b, item);
    if (strcmp(name, "function_call_output") == 0) return add_result(b, items, item, i);
    if (strcmp(name, "reasoning") == 0) {
        b->assistant = 1;
        if (!add_content(b, &b->reasoning, given && infer_json_kind(given) != INFER_JSON_NULL ? given : infer_json_get(item, "summary"), i)) return 0;
        return b->reasoning.n_parts == 0 || fail(b->f, 400, "unsupported_content", "input", "input[%lu]: reasoning consists of texts alone", (unsigned long)i);
    }
    return fail(b->f, 400, "unsupported_content", "input", "input[%lu]: items of the type '%.40s' are not supported", (unsigned long)i, name);
}

static int take_input(job *j) {
    const infer_json *input = j->asked.input;
    builder b;
    size_t i;
    int ok = 1;
    memset(&b, 0, sizeof b);
    b.f = &j->call->failure;
    out(&b.out, "[");
    if (j->asked.instructions) out(&b.out, "%s{\"role\":\"system\",\"content\":%j}", b.n++ ? "," : "", j->asked.instructions);
    if (infer_json_string(input, NULL)) out(&b.out, "%s{\"role\":\"user\",\"content\":%v}", b.n++ ? "," : "", input);
    else if (infer_json_kind(input) != INFER_JSON_ARRAY) ok = fail(b.f, 400, "invalid_type", "input", "'input' must be a text or a list of items");
    for (i = 0; ok && infer_json_kind(input) == INFER_JSON_ARRAY && i < infer_json_count(input); i++) ok = add_item(&b, input, i);
    flush(&b);
    out(&b.out, "]");
    ok = ok && chat_messages_text(j, &b.out);
    out_end(&b.out);
    content_end(&b.text);
    content_end(&b.reasoning);
    out_end(&b.calls);
    return ok;
}

/* {"type": "function", "name", "parameters"}: with the function inside. */
static int take_tools(job *j) {
    const infer_json *choice = j->asked.tool_choice;
    cli_text tools, choose;
    size_t i;
    int ok = 1;
    memset(&tools, 0, sizeof tools);
    memset(&choose, 0, sizeof choose);
    for (i = 0; i < infer_json_count(j->asked.tools); i++) {
        const infer_json *tool = infer_json_at(j->asked.tools, i), *type = infer_json_get(tool, "type");
        out(&tools, "%s{\"type\":%v,\"function\":{\"name\":%v", i ? "," : "[", type, infer_json_get(tool, "name"));
        if (infer_json_string(infer_json_get(tool, "description"), NULL)) out(&tools, ",\"description\":%v", infer_json_get(tool, "description"));
        if (infer_json_kind(infer_json_get(tool, "parameters")) == INFER_JSON_OBJECT)
            out(&tools, ",\"parameters\":%v", infer_json_get(tool, "parameters"));
        out(&tools, "}}");
    }
    if (tools.n) out(&tools, "]");
    if (infer_json_kind(choice) == INFER_JSON_OBJECT) {
        if (json_is(infer_json_get(choice, "type"), "function"))
            out(&choose, "{\"type\":\"function\",\"function\":{\"name\":%v}}", infer_json_get(choice, "name"));
        else ok = fail(&j->call->failure, 400, "unsupported_value", "tool_choice", "'tool_choice' must be auto, none, required or name a function");
    } else if (choice) out(&choose, "%v", choice);
    ok = ok && chat_tools_text(j, &tools, &choose);
    out_end(&tools);
    out_end(&choose);
    return ok;
}

static int prepare(job *j) {
    failure *f = &j->call->failure;
    asked *a = &j->asked;
    size_t i;
    a->has_parallel = infer_json_kind(infer_json_get(j->call->json, "parallel_tool_calls")) != INFER_JSON_NULL;
    for (i = 0; i < infer_json_count(a->text); i++) {
        const char *name = infer_json_name(a->text, i, NULL);
        if (strcmp(name, "format") != 0 && infer_json_kind(infer_json_at(a->text, i)) != INFER_JSON_NULL)
            return fail(f, 400, "unsupported_parameter", "text", "unsupported parameter: 'text.%.40s'", name);
    }
    for (i = 0; i < infer_json_count(a->reasoning); i++) {
        const char *name = infer_json_name(a->reasoning, i, NULL);
        const infer_json *v = infer_json_at(a->reasoning, i);
        if (strcmp(name, "effort") == 0) a->effort = infer_json_string(v, NULL);
        else if (infer_json_kind(v) != INFER_JSON_NULL)
            return fail(f, 400, "unsupported_parameter", "reasoning", "unsupported parameter: 'reasoning.%.40s'", name);
    }
    if (a->format && strcmp(a->format, "auto") == 0) j->chat.on_full = INFER_CHAT_FULL_DROP;
    else if (a->format && strcmp(a->format, "disabled") != 0) return fail(f, 400, NULL, "truncation", "'truncation' must be auto or disabled");
    return take_input(j) && chat_variables(j) && chat_response_format(j, infer_json_get(a->text, "format"), "text") && take_tools(j) && chat_check(j);
}

/* ---- the response --------------------------------------------------------------------------- */

enum { ITEM_NONE, ITEM_MESSAGE, ITEM_REASONING, ITEM_CALL };
/* The item that is being written; complete ones are in the choice's calls. */
typedef struct state {
    int kind, index, sequence;
    char id[40];
    cli_text call_id, name, arguments;
} state;

static void state_free(void *own) {
    state *s = own;
    out_end(&s->call_id);
    out_end(&s->name);
    out_end(&s->arguments);
    free(s);
}

/* Begins an event: the rest of its members is to be appended. */
static cli_text *event_begin(job *j, const char *name) {
    cli_text *t = sse_begin(j, name);
    out(t, "{\"type\":%j,\"sequence_number\":%d", name, (long long)((state *)j->own)->sequence++);
    return t;
}

static void event_end(job *j) {
    out(&j->out, "}");
    sse_end(j);
}

/* The content of a text's item; empty at its beginning. */
static void write_part(const job *j, cli_text *t) {
    const cli_text *text = &j->choices[0].text;
    if (((const state *)j->own)->kind == ITEM_MESSAGE) out(t, "{\"type\":\"output_text\",\"text\":%T,\"annotations\":[],\"logprobs\":[]}", text);
    else out(t, "{\"type\":\"reasoning_text\",\"text\":%T}", text);
}

static void write_item(const job *j, cli_text *t, int done) {
    const state *s = j->own;
    const char *status = done ? "completed" : "in_progress";
    if (s->kind == ITEM_CALL) {
        out(t, "{\"id\":%j,\"type\":\"function_call\",\"status\":%j,\"call_id\":%t,\"name\":%t,\"arguments\":%T}", s->id, status, &s->call_id, &s->name,
            &s->arguments);
        return;
    }
    out(t, "{\"id\":%j,\"type\":%j,\"status\":%j,%s,\"content\":[", s->id, s->kind == ITEM_MESSAGE ? "message" : "reasoning", status,
        s->kind == ITEM_MESSAGE ? "\"role\":\"assistant\"" : "\"summary\":[]");
    if (done) write_part(j, t);
    out(t, "]}");
}

/* An event about the item: "item_id", "output_index" and, of texts, "content_index". */
static cli_text *item_event(job *j, const char *name) {
    const state *s = j->own;
    cli_text *t = event_begin(j, name);
    out(t, ",\"item_id\":%j,\"output_index\":%d%s", s->id, (long long)s->index, s->kind == ITEM_CALL ? "" : ",\"content_index\":0");
    return t;
}

static void whole_item_event(job *j, const char *name, int done) {
    cli_text *t = event_begin(j, name);
    out(t, ",\"output_index\":%d,\"item\":", (long long)((state *)j->own)->index);
    write_item(j, t, done);
    event_end(j);
}

static void part_event(job *j, const char *name) {
    cli_text *t = item_event(j, name);
    out(t, ",\"part\":");
    write_part(j, t);
    event_end(j);
}

static void close_events(job *j) {
    const state *s = j->own;
    if (s->kind == ITEM_CALL) {
        out(item_event(j, "response.function_call_arguments.done"), ",\"name\":%t,\"arguments\":%T", &s->name, &s->arguments);
        event_end(j);
    } else {
        const int message = s->kind == ITEM_MESSAGE;
        out(item_event(j, message ? "response.output_text.done" : "response.reasoning_text.done"), ",\"text\":%T%s", &j->choices[0].text,
            message ? ",\"logprobs\":[]" : "");
        event_end(j);
        part_event(j, "response.content_part.done");
    }
    whole_item_event(j, "response.output_item.done", 1);
}

static void item_close(job *j) {
    state *s = j->own;
    choice *c = &j->choices[0];
    if (s->kind == ITEM_NONE) return;
    if (j->stream) close_events(j);
    if (s->index) out(&c->calls, ",");
    write_item(j, &c->calls, 1);
    out_clear(&c->text);
    s->index++;
    s->kind = ITEM_NONE;
}

static void item_open(job *j, int kind) {
    state *s = j->own;
    item_close(j);
    s->kind = kind;
    random_id(s->id, sizeof s->id, kind == ITEM_MESSAGE ? "msg_" : kind == ITEM_REASONING ? "rs_" : "fc_");
    if (!j->stream) return;
    whole_item_event(j, "response.output_item.added", 0);
    if (kind != ITEM_CALL) part_event(j, "response.content_part.added");
}

static void on_text(job *j, choice *c, int reasoning, const char *s, size_t n) {
    const int kind = reasoning ? ITEM_REASONING : ITEM_MESSAGE;
    if (((state *)j->own)->kind != kind) item_open(j, kind);
    out(&c->text, "%S", s, n);
    if (!j->stream) return;
    out(item_event(j, reasoning ? "response.reasoning_text.delta" : "response.output_text.delta"), ",\"delta\":%J%s", s, n,
        reasoning ? "" : ",\"logprobs\":[]");
    event_end(j);
}

static void on_call(job *j, choice *c, int number, const char *id, const char *name) {
    state *s = j->own;
    (void)c;
    (void)number;
    item_close(j);
    out_clear(&s->call_id);
    out_clear(&s->name);
    out_clear(&s->arguments);
    out(&s->call_id, "%j", id);
    out(&s->name, "%j", name);
    item_open(j, ITEM_CALL);
}

static void on_arguments(job *j, choice *c, int number, const char *text, size_t n) {
    (void)c;
    (void)number;
    out(&((state *)j->own)->arguments, "%S", text, n);
    if (!j->stream) return;
    out(item_event(j, "response.function_call_arguments.delta"), ",\"delta\":%J", text, n);
    event_end(j);
}

/* Members that a response has from its request, or what stands for them. */
static const struct {
    const char *name, *otherwise;
} ECHOED[] = {
    {"instructions", "null"},
    {"max_output_tokens", "null"},
    {"metadata", "{}"},
    {"parallel_tool_calls", "true"},
    {"reasoning", "{\"effort\":null,\"summary\":null}"},
    {"temperature", "null"},
    {"text", "{\"format\":{\"type\":\"text\"}}"},
    {"tool_choice", "\"auto\""},
    {"tools", "[]"},
    {"top_p", "null"},
    {"truncation", "\"disabled\""},
    {"user", "null"},
};

static void write_response(const job *j, cli_text *t, const char *status) {
    const choice *c = &j->choices[0];
    const int done = strcmp(status, "in_progress") != 0;
    size_t i;
    out(t,
        "{\"id\":%j,\"object\":\"response\",\"created_at\":%d,\"status\":%j,\"background\":false,\"error\":null,\"incomplete_details\":%s,\"model\":%"
        "j",
        j->id, j->created, status, strcmp(status, "incomplete") == 0 ? "{\"reason\":\"max_output_tokens\"}" : "null", j->model->id);
    for (i = 0; i < sizeof ECHOED / sizeof ECHOED[0]; i++) {
        const infer_json *v = infer_json_get(j->call->json, ECHOED[i].name);
        if (v) out(t, ",%j:%v", ECHOED[i].name, v);
        else out(t, ",%j:%s", ECHOED[i].name, ECHOED[i].otherwise);
    }
    out(t, ",\"previous_response_id\":null,\"store\":false,\"output\":[");
    if (done) out(t, "%t", &c->calls);
    out(t, "],\"usage\":");
    if (done)
        out(t,
            "{\"input_tokens\":%d,\"input_tokens_details\":{\"cached_tokens\":%d},\"output_tokens\":%d,\"output_tokens_details\":{\"reasoning_"
            "tokens\":%d},\"total_tokens\":%d}",
            (long long)c->info.generate.prompt_tokens, (long long)c->info.reused, (long long)c->info.generate.new_tokens,
            (long long)c->reasoning_tokens, (long long)c->info.generate.prompt_tokens + c->info.generate.new_tokens);
    else out(t, "null");
    out(t, "}");
}

static void response_event(job *j, const char *name, const char *status) {
    cli_text *t = event_begin(j, name);
    out(t, ",\"response\":");
    write_response(j, t, status);
    event_end(j);
}

static void on_start(job *j) {
    response_event(j, "response.created", "in_progress");
    response_event(j, "response.in_progress", "in_progress");
}

static void on_end(job *j, choice *c) {
    (void)c;
    item_close(j);
}

static const char *status_of(const job *j) { return j->choices[0].n_calls == 0 && reply_cut(&j->choices[0]) ? "incomplete" : "completed"; }

static void on_finish(job *j) {
    const char *status = status_of(j);
    response_event(j, strcmp(status, "completed") == 0 ? "response.completed" : "response.incomplete", status);
}

static void on_broken(job *j, const failure *f) {
    out(event_begin(j, "error"), ",\"code\":%j,\"message\":%j,\"param\":null", f->code ? f->code : "server_error", f->message);
    event_end(j);
}

static void whole(job *j) { write_response(j, &j->out, status_of(j)); }

static const writer WRITER = {on_start, NULL, on_text, on_call, on_arguments, on_end, on_finish, on_broken, whole};

void route_responses(call *c) {
    job *j = job_create(c, &WRITER, TABLE, sizeof TABLE / sizeof TABLE[0]);
    if (j == NULL) return;
    random_id(j->id, sizeof j->id, "resp_");
    j->own = calloc(1, sizeof(state));
    j->own_free = state_free;
    if (j->own == NULL) fail(&c->failure, 503, NULL, NULL, "out of memory");
    else prepare(j);
    job_answer(j);
}
