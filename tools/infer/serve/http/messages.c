/* messages.c: POST /v1/messages and /v1/messages/count_tokens: Anthropic's interface. */
#include "../serve.h"

#include <string.h>

#define COMMON \
    SERVE_PARAM_MODEL, {"messages", PARAM_LIST, PARAM_AT(messages), 0, 0, NULL}, \
    {"system", PARAM_ANY, PARAM_AT(system), 0, 0, NULL}, {"tools", PARAM_LIST, PARAM_AT(tools), 0, 0, NULL}, \
    {"tool_choice", PARAM_OBJECT, PARAM_AT(tool_choice), 0, 0, NULL}, {"thinking", PARAM_OBJECT, PARAM_AT(thinking), 0, 0, NULL}, \
    {"output_config", PARAM_OBJECT, PARAM_AT(response_format), 0, 0, NULL}, {"cache_control", PARAM_IGNORED, 0, 0, 0, NULL}

static const parameter COUNT[] = {COMMON};
static const parameter TABLE[] = {
    COMMON,
    {"max_tokens", PARAM_INT, PARAM_AT(max_tokens), 1, 1e9, NULL},
    {"stop_sequences", PARAM_LIST, PARAM_AT(stop), 0, 0, NULL},
    {"stream", PARAM_FLAG, PARAM_AT(stream), 0, 0, NULL},
    SERVE_FIGURE("temperature"), SERVE_FIGURE("top_p"), SERVE_FIGURE("top_k"),
    {"metadata", PARAM_IGNORED, 0, 0, 0, NULL},
    {"service_tier", PARAM_IGNORED, 0, 0, 0, NULL},
};

/* ---- to OpenAI's form ----------------------------------------------------------------------- */

static int wrong_block(failure *f, size_t message, size_t block, const infer_json *type) {
    const char *s = infer_json_string(type, NULL);
    return fail(f, 400, NULL, "messages", "messages.%lu.content.%lu: the type '%.40s' is not supported here", (unsigned long)message,
                (unsigned long)block, s ? s : "");
}

/* A block of text, or a picture: {"source": {"type": "base64", "data"}}, or "url". 0 = it is neither. */
static int add_block(content *c, const infer_json *block) {
    const infer_json *type = infer_json_get(block, "type"), *source = infer_json_get(block, "source"), *kind = infer_json_get(source, "type");
    size_t n = 0;
    const char *s = NULL;
    if (json_is(type, "text") && (s = infer_json_string(infer_json_get(block, "text"), &n)) != NULL) content_text(c, "\n", s, n);
    else if (!json_is(type, "image")) return 0;
    else if (json_is(kind, "base64") && (s = infer_json_string(infer_json_get(source, "data"), &n)) != NULL)
        content_image(c, "data:;base64,", s, n);
    else if (json_is(kind, "url") && (s = infer_json_string(infer_json_get(source, "url"), &n)) != NULL) content_image(c, "", s, n);
    return s != NULL;
}

/* The blocks of a content as that of one message. */
static int write_content(cli_text *t, const infer_json *given, const char *where, failure *f) {
    content all;
    size_t i, n;
    const char *s = infer_json_string(given, &n);
    memset(&all, 0, sizeof all);
    if (s) content_text(&all, "", s, n);
    for (i = 0; !s && i < infer_json_count(given); i++) {
        if (!add_block(&all, infer_json_at(given, i))) fail(f, 400, NULL, "messages", "%s: only blocks of text and images are supported", where);
    }
    content_write(&all, t);
    content_end(&all);
    return f->status == 0;
}

/* The name of the tool that a call had. */
static const char *called(const infer_json *messages, const char *id) {
    size_t i, k;
    for (i = 0; i < infer_json_count(messages); i++) {
        const infer_json *content = infer_json_get(infer_json_at(messages, i), "content");
        for (k = 0; infer_json_kind(content) == INFER_JSON_ARRAY && k < infer_json_count(content); k++) {
            const infer_json *block = infer_json_at(content, k);
            if (json_is(infer_json_get(block, "id"), id)) return infer_json_string(infer_json_get(block, "name"), NULL);
        }
    }
    return NULL;
}

/* Results of tools are messages of their own. */
static int write_result(cli_text *t, const infer_json *messages, const infer_json *block, failure *f) {
    const char *id = json_get_text(block, "tool_use_id", "tool_result", f), *name;
    if (id == NULL) return 0;
    name = called(messages, id);
    out(t, ",{\"role\":\"tool\",\"tool_call_id\":%j", id);
    if (name) out(t, ",\"name\":%j", name);
    out(t, ",\"content\":");
    if (!write_content(t, infer_json_get(block, "content"), "tool_result", f)) return 0;
    out(t, "}");
    return 1;
}

static int write_user(cli_text *t, const infer_json *messages, size_t at, failure *f) {
    const infer_json *blocks = infer_json_get(infer_json_at(messages, at), "content");
    content all;
    size_t i;
    int ok = 1;
    memset(&all, 0, sizeof all);
    for (i = 0; ok && i < infer_json_count(blocks); i++) {
        const infer_json *block = infer_json_at(blocks, i), *type = infer_json_get(block, "type");
        if (json_is(type, "tool_result")) ok = write_result(t, messages, block, f);
        else ok = add_block(&all, block) || wrong_block(f, at, i, type);
    }
    if (all.texts || all.n_parts) {
        out(t, ",{\"role\":\"user\",\"content\":");
        content_write(&all, t);
        out(t, "}");
    }
    content_end(&all);
    return ok;
}

static int write_assistant(cli_text *t, const infer_json *messages, size_t at, failure *f) {
    const infer_json *content = infer_json_get(infer_json_at(messages, at), "content");
    cli_text text, reasoning, calls;
    size_t i, n;
    int ok = 1, n_calls = 0;
    memset(&text, 0, sizeof text);
    memset(&reasoning, 0, sizeof reasoning);
    memset(&calls, 0, sizeof calls);
    for (i = 0; ok && i < infer_json_count(content); i++) {
        const infer_json *block = infer_json_at(content, i), *type = infer_json_get(block, "type");
        const char *s = infer_json_string(infer_json_get(block, json_is(type, "thinking") ? "thinking" : "text"), &n);
        if (json_is(type, "tool_use")) {
            const char *id = json_get_text(block, "id", "tool_use", f), *name = json_get_text(block, "name", "tool_use", f);
            ok = id && name;
            if (ok)
                out(&calls, "%s{\"id\":%j,\"type\":\"function\",\"function\":{\"name\":%j,\"arguments\":%v}}", n_calls++ ? "," : "", id, name,
                    infer_json_get(block, "input"));
        } else if (s && (json_is(type, "text") || json_is(type, "thinking"))) out(json_is(type, "text") ? &text : &reasoning, "%S", s, n);
        else ok = wrong_block(f, at, i, type);
    }
    out(t, ",{\"role\":\"assistant\",\"content\":%T", &text);
    if (reasoning.n) out(t, ",\"reasoning_content\":%T", &reasoning);
    if (n_calls) out(t, ",\"tool_calls\":[%t]", &calls);
    out(t, "}");
    out_end(&text);
    out_end(&reasoning);
    out_end(&calls);
    return ok;
}

static int write_messages(cli_text *t, const asked *a, failure *f) {
    size_t i;
    int begun = a->system != NULL;
    out(t, "[");
    if (begun) {
        out(t, "{\"role\":\"system\",\"content\":");
        if (!write_content(t, a->system, "system", f)) return 0;
        out(t, "}");
    }
    for (i = 0; i < infer_json_count(a->messages); i++) {
        const infer_json *m = infer_json_at(a->messages, i), *role = infer_json_get(m, "role"), *content = infer_json_get(m, "content");
        const size_t before = t->n;
        if (!json_is(role, "user") && !json_is(role, "assistant") && !json_is(role, "system"))
            return fail(f, 400, NULL, "messages", "messages.%lu: 'role' must be user or assistant", (unsigned long)i);
        if (infer_json_string(content, NULL)) out(t, ",{\"role\":%v,\"content\":%v}", role, content);
        else if (infer_json_kind(content) != INFER_JSON_ARRAY || infer_json_count(content) == 0)
            return fail(f, 400, NULL, "messages", "messages.%lu: 'content' must be a text or a list of blocks", (unsigned long)i);
        else if (json_is(role, "assistant") ? !write_assistant(t, a->messages, i, f) : !write_user(t, a->messages, i, f)) return 0;
        if (!begun && t->n > before && t->s[before] == ',') {
            t->s[before] = ' ';
            begun = 1;
        }
    }
    out(t, "]");
    return 1;
}

/* {"name", "input_schema"} each; the choice, too. */
static int write_tools(cli_text *t, cli_text *choice, asked *a, failure *f) {
    const infer_json *type = infer_json_get(a->tool_choice, "type");
    size_t i;
    for (i = 0; i < infer_json_count(a->tools); i++) {
        const infer_json *tool = infer_json_at(a->tools, i), *kind = infer_json_get(tool, "type"), *schema = infer_json_get(tool, "input_schema");
        const char *name;
        if (infer_json_kind(kind) != INFER_JSON_NULL && !json_is(kind, "custom"))
            return fail(f, 400, NULL, "tools", "tools.%lu: only tools of the type 'custom' are supported", (unsigned long)i);
        name = json_get_text(tool, "name", "tools", f);
        if (name == NULL) return 0;
        out(t, "%s{\"type\":\"function\",\"function\":{\"name\":%j", i ? "," : "[", name);
        if (infer_json_string(infer_json_get(tool, "description"), NULL)) out(t, ",\"description\":%v", infer_json_get(tool, "description"));
        if (schema) out(t, ",\"parameters\":%v", schema);
        out(t, "}}");
    }
    if (t->n) out(t, "]");
    if (a->tool_choice == NULL) return 1;
    a->has_parallel = infer_json_kind(infer_json_get(a->tool_choice, "disable_parallel_tool_use")) == INFER_JSON_TRUE;
    if (json_is(type, "auto") || json_is(type, "none")) out(choice, "%v", type);
    else if (json_is(type, "any")) out(choice, "\"required\"");
    else if (json_is(type, "tool")) out(choice, "{\"type\":\"function\",\"function\":{\"name\":%v}}", infer_json_get(a->tool_choice, "name"));
    else return fail(f, 400, NULL, "tool_choice", "tool_choice: the type must be auto, any, tool or none");
    return 1;
}

static int prepare_thinking(job *j) {
    const infer_json *thinking = j->asked.thinking, *type = infer_json_get(thinking, "type"), *budget = infer_json_get(thinking, "budget_tokens");
    j->no_reasoning = thinking == NULL; /* there it is asked for */
    if (thinking == NULL || json_is(type, "adaptive")) return 1;
    if (json_is(type, "disabled")) {
        if (strchr(j->model->format, '/')) j->chat.thinking = -1;
        return 1;
    }
    if (!json_is(type, "enabled")) return fail(&j->call->failure, 400, NULL, "thinking", "thinking: the type must be enabled, disabled or adaptive");
    j->chat.thinking = 1;
    if (budget && infer_json_int(budget) > 0 && infer_json_int(budget) < INT32_MAX / 2) j->chat.thinking_tokens = (int32_t)infer_json_int(budget);
    return 1;
}

/* output_config: {"format": {"type": "json_schema", "schema"}}. */
static int prepare_output(job *j) {
    const infer_json *config = j->asked.response_format;
    size_t i;
    for (i = 0; i < infer_json_count(config); i++) {
        if (strcmp(infer_json_name(config, i, NULL), "format") != 0)
            return fail(&j->call->failure, 400, NULL, "output_config", "unsupported parameter: 'output_config.%.40s'",
                        infer_json_name(config, i, NULL));
    }
    return infer_json_count(config) == 0 || chat_response_format(j, infer_json_get(config, "format"), "output_config");
}

static int prepare(job *j) {
    failure *f = &j->call->failure;
    cli_text messages, tools, choice;
    int ok;
    memset(&messages, 0, sizeof messages);
    memset(&tools, 0, sizeof tools);
    memset(&choice, 0, sizeof choice);
    if (j->asked.messages == NULL) return fail(f, 400, NULL, "messages", "messages: the field is required");
    ok = write_messages(&messages, &j->asked, f) && write_tools(&tools, &choice, &j->asked, f) && chat_messages_text(j, &messages) &&
         prepare_thinking(j) && prepare_output(j) && chat_tools_text(j, &tools, &choice) && chat_check(j);
    out_end(&messages);
    out_end(&tools);
    out_end(&choice);
    return ok;
}

/* ---- the reply ------------------------------------------------------------------------------ */

static const char *stop_reason(const choice *c) {
    return c->n_calls ? "tool_use" : reply_cut(c) ? "max_tokens" : c->stop ? "stop_sequence" : "end_turn";
}

static void begin_message(const job *j, cli_text *t) {
    out(t, "{\"id\":%j,\"type\":\"message\",\"role\":\"assistant\",\"model\":%j,\"content\":[", j->id, j->model->id);
}

/* The end of a reply or of its last event, in which the reasons are an object of their own: `between` ends it. */
static void write_end(const choice *c, cli_text *t, const char *between) {
    out(t, "\"stop_reason\":%j,\"stop_sequence\":%j%s,\"usage\":{\"input_tokens\":%d,\"output_tokens\":%d}}", stop_reason(c), c->stop, between,
        (long long)c->info.generate.prompt_tokens, (long long)c->info.generate.new_tokens);
}

enum { BLOCK_NONE, BLOCK_TEXT, BLOCK_THINKING, BLOCK_CALL };

static void close_block(job *j, choice *c) {
    if (c->begun == BLOCK_NONE) return;
    out(sse_begin(j, "content_block_stop"), "{\"type\":\"content_block_stop\",\"index\":%d}", (long long)c->block);
    sse_end(j);
    c->block++;
    c->begun = BLOCK_NONE;
}

/* Begins the event of a block's beginning: its content and the event's end are to be appended. */
static cli_text *open_block(job *j, choice *c, int kind) {
    cli_text *t;
    close_block(j, c);
    c->begun = kind;
    t = sse_begin(j, "content_block_start");
    out(t, "{\"type\":\"content_block_start\",\"index\":%d,\"content_block\":", (long long)c->block);
    return t;
}

static void stream_start(job *j) {
    cli_text *t = sse_begin(j, "message_start");
    infer_request_info info;
    memset(&info, 0, sizeof info);
    infer_request_get_info(j->choices[0].request, &info);
    out(t, "{\"type\":\"message_start\",\"message\":");
    begin_message(j, t);
    out(t, "],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":{\"input_tokens\":%d,\"output_tokens\":0}}}",
        (long long)info.generate.prompt_tokens);
    sse_end(j);
}

static void stream_delta(job *j, const choice *c, const char *type, const char *member, const char *s, size_t n) {
    out(sse_begin(j, "content_block_delta"), "{\"type\":\"content_block_delta\",\"index\":%d,\"delta\":{\"type\":%j,%j:%J}}", (long long)c->block, type,
        member, s, n);
    sse_end(j);
}

static void stream_text(job *j, choice *c, int reasoning, const char *s, size_t n) {
    const int kind = reasoning ? BLOCK_THINKING : BLOCK_TEXT;
    if (c->begun != kind) {
        out(open_block(j, c, kind),
            reasoning ? "{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}}" : "{\"type\":\"text\",\"text\":\"\"}}");
        sse_end(j);
    }
    stream_delta(j, c, reasoning ? "thinking_delta" : "text_delta", reasoning ? "thinking" : "text", s, n);
}

static void stream_call(job *j, choice *c, int number, const char *id, const char *name) {
    (void)number;
    out(open_block(j, c, BLOCK_CALL), "{\"type\":\"tool_use\",\"id\":%j,\"name\":%j,\"input\":{}}}", id, name);
    sse_end(j);
}

static void stream_arguments(job *j, choice *c, int number, const char *s, size_t n) {
    (void)number;
    stream_delta(j, c, "input_json_delta", "partial_json", s, n);
}

static void stream_end(job *j, choice *c) {
    cli_text *t;
    close_block(j, c);
    t = sse_begin(j, "message_delta");
    out(t, "{\"type\":\"message_delta\",\"delta\":{");
    write_end(c, t, "}");
    sse_end(j);
}

static void stream_finish(job *j) {
    out(sse_begin(j, "message_stop"), "{\"type\":\"message_stop\"}");
    sse_end(j);
}

/* Blocks of the whole reply, in c->calls; a text ends where another kind of block begins. */
static void keep_block(choice *c) {
    if (c->begun == BLOCK_TEXT) out(&c->calls, "%s{\"type\":\"text\",\"text\":%T}", c->block++ ? "," : "", &c->text);
    if (c->begun == BLOCK_THINKING)
        out(&c->calls, "%s{\"type\":\"thinking\",\"thinking\":%T,\"signature\":\"\"}", c->block++ ? "," : "", &c->text);
    out_clear(&c->text);
    c->begun = BLOCK_NONE;
}

static void keep_text(job *j, choice *c, int reasoning, const char *s, size_t n) {
    const int kind = reasoning ? BLOCK_THINKING : BLOCK_TEXT;
    (void)j;
    if (c->begun != kind) keep_block(c);
    c->begun = kind;
    out(&c->text, "%S", s, n);
}

static void keep_call(job *j, choice *c, int number, const char *id, const char *name) {
    (void)j;
    (void)number;
    keep_block(c);
    out(&c->calls, "%s{\"type\":\"tool_use\",\"id\":%j,\"name\":%j,\"input\":", c->block++ ? "," : "", id, name);
}

static void keep_arguments(job *j, choice *c, int number, const char *s, size_t n) {
    (void)j;
    (void)number;
    out(&c->calls, "%S}", s, n);
}

static void keep_end(job *j, choice *c) {
    (void)j;
    keep_block(c);
}

static void whole(job *j) {
    begin_message(j, &j->out);
    out(&j->out, "%t],", &j->choices[0].calls);
    write_end(&j->choices[0], &j->out, "");
}

static const writer STREAM = {stream_start, NULL, stream_text, stream_call, stream_arguments, stream_end, stream_finish, sse_broken, NULL};
static const writer WHOLE = {NULL, NULL, keep_text, keep_call, keep_arguments, keep_end, NULL, NULL, whole};

void route_messages(call *c) {
    job *j = job_create(c, &WHOLE, TABLE, sizeof TABLE / sizeof TABLE[0]);
    if (j == NULL) return;
    if (j->stream) j->writer = &STREAM;
    random_id(j->id, sizeof j->id, "msg_");
    if (j->asked.max_tokens < 0) fail(&c->failure, 400, NULL, "max_tokens", "max_tokens: the field is required");
    else prepare(j);
    job_answer(j);
}

void route_count_tokens(call *c) {
    job *j = job_create(c, NULL, COUNT, sizeof COUNT / sizeof COUNT[0]);
    infer_error err;
    infer_result r;
    size_t n = 0;
    if (j == NULL) return;
    if (prepare(j)) {
        r = infer_chat_format(j->model->model, &j->chat, NULL, 0, &n, &err);
        if (r == INFER_OK) out(&c->out, "{\"input_tokens\":%d}", (long long)n);
        else fail_by(&c->failure, r, err.message);
    }
    job_free(j);
}
