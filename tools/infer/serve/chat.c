/* chat.c: a conversation in OpenAI's form as the library takes it, with its tools and the form that the reply must have. */
#include "serve.h"

#include <stdlib.h>
#include <string.h>

/* ---- messages ------------------------------------------------------------------------------- */

/* Parts of contents: texts; of roles that do not reply also pictures and sounds, which are encoded. */
static int check_content(job *j, const infer_json *content, size_t message, int replies) {
    failure *f = &j->call->failure;
    char where[64];
    size_t i;
    const infer_json *part;
    const int32_t kind = infer_json_kind(content);
    if (kind == INFER_JSON_NULL || kind == INFER_JSON_STRING) return 1;
    if (kind != INFER_JSON_ARRAY)
        return fail(f, 400, "invalid_type", "messages", "messages[%lu]: 'content' must be a text or a list of parts", (unsigned long)message);
    for (i = 0; i < infer_json_count(content); i++) {
        part = infer_json_at(content, i);
        if (json_is(infer_json_get(part, "type"), "text") && infer_json_string(infer_json_get(part, "text"), NULL)) continue;
        if (json_is(infer_json_get(part, "type"), "refusal") && infer_json_string(infer_json_get(part, "refusal"), NULL)) continue;
        snprintf(where, sizeof where, "messages[%lu].content[%lu]", (unsigned long)message, (unsigned long)i);
        if (media_is_part(part) && !replies) {
            if (!media_take(j, part, where)) return 0;
            continue;
        }
        return fail(f, 400, "unsupported_content", "messages", "%s: the type '%.40s' is not supported here", where,
                    infer_json_string(infer_json_get(part, "type"), NULL) ? infer_json_string(infer_json_get(part, "type"), NULL) : "");
    }
    return 1;
}

/* Parts of a content, without what pictures and sounds consist of. */
static void write_parts(cli_text *t, const infer_json *content) {
    size_t i;
    out(t, "[");
    for (i = 0; i < infer_json_count(content); i++) {
        const infer_json *part = infer_json_at(content, i);
        const int kind = media_is_part(part);
        if (i) out(t, ",");
        if (kind) out(t, "{\"type\":%j}", kind == MEDIA_IMAGE ? "image" : "audio");
        else out(t, "%v", part);
    }
    out(t, "]");
}

/* A message as it is, except that a role which the template does not know has the name that it does. */
static void write_message(const job *j, cli_text *t, const infer_json *message) {
    const int other = json_is(infer_json_get(message, "role"), "developer") && j->model->template_text && !strstr(j->model->template_text, "developer");
    size_t i;
    for (i = 0; i < infer_json_count(message); i++) {
        const char *name = infer_json_name(message, i, NULL);
        const infer_json *v = infer_json_at(message, i);
        out(t, i ? ",%j:" : "{%j:", name);
        if (other && strcmp(name, "role") == 0) out(t, "\"system\"");
        else if (strcmp(name, "content") == 0 && infer_json_kind(v) == INFER_JSON_ARRAY) write_parts(t, v);
        else out(t, "%v", v);
    }
    out(t, "}");
}

/* The text of a message's content, to be continued. */
static void write_text(cli_text *t, const infer_json *content) {
    size_t i, n;
    const char *s = infer_json_string(content, &n);
    if (s) out(t, "%S", s, n);
    for (i = 0; !s && i < infer_json_count(content); i++) {
        const char *part = infer_json_string(infer_json_get(infer_json_at(content, i), "text"), &n);
        if (part) out(t, "%S", part, n);
    }
}

int chat_messages(job *j, const infer_json *messages) {
    failure *f = &j->call->failure;
    const size_t n = infer_json_count(messages);
    size_t i;
    if (infer_json_kind(messages) != INFER_JSON_ARRAY || n == 0)
        return fail(f, 400, "invalid_type", "messages", "'messages' must be a list of at least one message");
    if (j->model->template_text == NULL && !j->server->options->chatml)
        return fail(f, 400, "no_chat_template", "model", "the model has no chat template (give --chatml, or --template FILE)");
    out(&j->messages, "[");
    for (i = 0; i < n; i++) {
        const infer_json *m = infer_json_at(messages, i);
        if (infer_json_string(infer_json_get(m, "role"), NULL) == NULL)
            return fail(f, 400, "invalid_type", "messages", "messages[%lu]: 'role' must be a text", (unsigned long)i);
        if (!check_content(j, infer_json_get(m, "content"), i, json_is(infer_json_get(m, "role"), "assistant"))) return 0;
        if (i > 0 && i + 1 == n && json_is(infer_json_get(m, "role"), "assistant") && infer_json_count(infer_json_get(m, "tool_calls")) == 0) {
            write_text(&j->begun, infer_json_get(m, "content")); /* the reply goes on from there */
            break;
        }
        if (i) out(&j->messages, ",");
        write_message(j, &j->messages, m);
    }
    out(&j->messages, "]");
    if (j->messages.failed || j->begun.failed) return fail(f, 503, NULL, NULL, "out of memory");
    if (j->n_media && (strstr(j->messages.s, INFER_MEDIA_MARKER) || (j->begun.n && strstr(j->begun.s, INFER_MEDIA_MARKER))))
        return fail(f, 400, "unsupported_content", "messages", "a text has " INFER_MEDIA_MARKER ", which stands for a picture or sound here");
    j->chat.media = j->media;
    j->chat.n_media = j->n_media;
    j->chat.messages_json = j->messages.s;
    j->chat.template_text = j->server->options->template_text;
    j->chat.allow_chatml = j->server->options->chatml;
    if (j->begun.n) j->chat.begun = j->begun.s;
    if (j->begun.n && strlen(j->begun.s) != j->begun.n) return fail(f, 400, NULL, "messages", "the last message has a zero byte");
    j->params.chat = &j->chat;
    return 1;
}

/* chat_template_kwargs and reasoning_effort. */
int chat_variables(job *j) {
    failure *f = &j->call->failure;
    const infer_json *given = j->asked.variables;
    size_t i;
    if (j->asked.effort) {
        if (j->model->template_text && strstr(j->model->template_text, "reasoning_effort"))
            out(&j->variables, "{\"reasoning_effort\":%j", j->asked.effort);
        else if (strcmp(j->asked.effort, "none") == 0 || strcmp(j->asked.effort, "minimal") == 0) j->chat.thinking = -1;
        else
            return fail(f, 400, "unsupported_parameter", "reasoning_effort",
                        "unsupported parameter: the model's template has no 'reasoning_effort', except none");
    }
    for (i = 0; i < infer_json_count(given); i++)
        out(&j->variables, "%s%j:%v", j->variables.n ? "," : "{", infer_json_name(given, i, NULL), infer_json_at(given, i));
    if (j->variables.n == 0) return 1;
    out(&j->variables, "}");
    j->chat.variables = j->variables.s;
    return !j->variables.failed || fail(f, 503, NULL, NULL, "out of memory");
}

/* ---- the form of the reply ------------------------------------------------------------------ */

int chat_grammar(job *j, const infer_grammar_params *p, const char *where) {
    infer_error err;
    failure *f = &j->call->failure;
    if (j->grammar) return fail(f, 400, NULL, where, "'%s' cannot be combined with another form of the reply", where);
    if (infer_grammar_create(&j->grammar, j->model->model, p, &err) == INFER_OK) return 1;
    if (err.code == INFER_ERR_MEMORY) return fail(f, 503, NULL, where, "%s", err.message);
    return fail(f, 400, "invalid_grammar", where, "'%s': %s", where, err.message);
}

static int schema_grammar(job *j, const infer_json *schema, const char *where) {
    infer_grammar_params p;
    cli_text text;
    int ok;
    memset(&text, 0, sizeof text);
    memset(&p, 0, sizeof p);
    out(&text, "%v", schema);
    p.schema = text.s;
    ok = !text.failed && chat_grammar(j, &p, where);
    out_end(&text);
    return ok;
}

int chat_response_format(job *j, const infer_json *format, const char *where) {
    failure *f = &j->call->failure;
    const infer_json *type = infer_json_get(format, "type"), *schema = infer_json_get(format, "json_schema");
    infer_grammar_params p;
    memset(&p, 0, sizeof p);
    if (j->asked.grammar) {
        p.gbnf = j->asked.grammar;
        if (!chat_grammar(j, &p, "grammar")) return 0;
        memset(&p, 0, sizeof p);
    }
    if (j->asked.schema) {
        j->formed = 1;
        if (!schema_grammar(j, j->asked.schema, "schema")) return 0;
    }
    if (format == NULL || json_is(type, "text")) return 1;
    j->formed = 1;
    if (json_is(type, "json_object")) {
        p.json = 1;
        p.root = "object";
        return chat_grammar(j, &p, where);
    }
    if (!json_is(type, "json_schema")) return fail(f, 400, NULL, where, "'%s': the type must be text, json_object or json_schema", where);
    schema = schema ? infer_json_get(schema, "schema") : infer_json_get(format, "schema"); /* Responses have it here */
    if (infer_json_kind(schema) != INFER_JSON_OBJECT) return fail(f, 400, NULL, where, "'%s': the 'schema' is missing", where);
    return schema_grammar(j, schema, where);
}

/* ---- tools ---------------------------------------------------------------------------------- */

static const char *tool_name(const infer_json *tool) { return infer_json_string(infer_json_get(infer_json_get(tool, "function"), "name"), NULL); }

static int check_tool(const infer_json *tool, size_t i, failure *f) {
    if (!json_is(infer_json_get(tool, "type"), "function"))
        return fail(f, 400, "unsupported_tool", "tools", "tools[%lu]: only the type 'function' is supported", (unsigned long)i);
    if (tool_name(tool) == NULL || tool_name(tool)[0] == 0)
        return fail(f, 400, "invalid_type", "tools", "tools[%lu]: function.name must be a text", (unsigned long)i);
    return 1;
}

int chat_tools(job *j, const infer_json *tools, const infer_json *tool_choice) {
    failure *f = &j->call->failure;
    const infer_json *function = infer_json_get(tool_choice, "function");
    const char *choice = infer_json_string(tool_choice, NULL), *name = infer_json_string(infer_json_get(function, "name"), NULL);
    const size_t n = infer_json_count(tools);
    size_t i;
    if (infer_json_kind(tool_choice) == INFER_JSON_OBJECT && name == NULL)
        return fail(f, 400, "unsupported_value", "tool_choice", "'tool_choice' must be auto, none, required or name a function");
    if (choice && strcmp(choice, "auto") != 0 && strcmp(choice, "none") != 0 && strcmp(choice, "required") != 0)
        return fail(f, 400, NULL, "tool_choice", "'tool_choice' must be auto, none, required or name a function");
    if (n == 0 && tool_choice && !(choice && strcmp(choice, "required") != 0))
        return fail(f, 400, NULL, "tool_choice", "'tool_choice' forces a call, and there are no tools");
    if (n == 0 || (choice && strcmp(choice, "none") == 0)) return 1;
    for (i = 0; i < n; i++) {
        if (!check_tool(infer_json_at(tools, i), i, f)) return 0;
    }
    if (j->model->template_text == NULL || strcmp(j->model->format, "plain") == 0 || strncmp(j->model->format, "plain/", 6) == 0)
        return fail(f, 400, "unsupported_parameter", "tools", "unsupported parameter: the model's chat template has no 'tools'");
    out(&j->tools, "%v", tools);
    if (j->tools.failed) return fail(f, 503, NULL, NULL, "out of memory");
    j->chat.tools_json = j->tools.s;
    j->tool_calls = 1;
    j->one_call = j->asked.has_parallel && !j->asked.parallel;
    if (name || (choice && strcmp(choice, "required") == 0)) {
        if (j->grammar) return fail(f, 400, NULL, "tool_choice", "'tool_choice' that forces a call cannot be combined with another form of the reply");
        if (j->begun.n) return fail(f, 400, NULL, "tool_choice", "'tool_choice' cannot force a call in a reply that the last message has begun");
        if (name) out(&j->tool, "%s", name);
        j->one_call |= name != NULL;
        j->forced = 1;
        return !j->tool.failed || fail(f, 503, NULL, NULL, "out of memory");
    }
    if (j->formed) return fail(f, 400, NULL, "response_format", "'response_format' and 'tools' exclude each other, unless 'tool_choice' is none");
    return 1;
}

/* ---- from other interfaces ------------------------------------------------------------------ */

static void end_text(content *c) {
    if (c->text.n) out(&c->parts, "%s{\"type\":\"text\",\"text\":%T}", c->n_parts++ ? "," : "", &c->text);
    out_clear(&c->text);
    c->texts = 0;
}

void content_text(content *c, const char *between, const char *s, size_t n) { out(&c->text, "%s%S", c->texts++ ? between : "", s, n); }

void content_image(content *c, const char *before, const char *url, size_t n) {
    cli_text whole;
    memset(&whole, 0, sizeof whole);
    end_text(c);
    out(&whole, "%s%S", before, url, n);
    out(&c->parts, "%s{\"type\":\"image_url\",\"image_url\":{\"url\":%T}}", c->n_parts++ ? "," : "", &whole);
    out_end(&whole);
}

void content_sound(content *c, const infer_json *sound) {
    end_text(c);
    out(&c->parts, "%s{\"type\":\"input_audio\",\"input_audio\":%v}", c->n_parts++ ? "," : "", sound);
}

void content_write(content *c, cli_text *t) {
    if (c->n_parts) {
        end_text(c);
        out(t, "[%t]", &c->parts);
    } else out(t, "%T", &c->text);
    out_clear(&c->text);
    out_clear(&c->parts);
    c->n_parts = c->texts = 0;
}

void content_end(content *c) {
    out_end(&c->text);
    out_end(&c->parts);
}

static int parse(job *j, const cli_text *t, infer_json **v) {
    infer_error err;
    *v = NULL;
    if (t->failed) return fail(&j->call->failure, 503, NULL, NULL, "out of memory");
    return t->n == 0 || infer_json_parse(v, t->s, t->n, NULL, &err) == INFER_OK || fail_by(&j->call->failure, err.code, err.message);
}

int chat_messages_text(job *j, const cli_text *messages) {
    infer_json *v;
    const int ok = parse(j, messages, &v) && chat_messages(j, v);
    infer_json_free(v);
    return ok;
}

int chat_tools_text(job *j, const cli_text *tools, const cli_text *tool_choice) {
    infer_json *v = NULL, *choice = NULL;
    const int ok = parse(j, tools, &v) && parse(j, tool_choice, &choice) && chat_tools(j, v, choice);
    infer_json_free(v);
    infer_json_free(choice);
    return ok;
}

/* ---- does the template agree? --------------------------------------------------------------- */

static int note(void *user, const infer_chat_delta *d) {
    *(int *)user = d->kind;
    return 0;
}

/* Whether the reply begins in the middle of reasoning. */
static int opens_reasoning(job *j, int *opens) {
    infer_chat_parser_params p;
    infer_chat_parser *parser = NULL;
    infer_rendering *made = NULL;
    infer_error err;
    infer_result r;
    int kind = 0;
    const char *begun = j->chat.begun;
    j->chat.begun = NULL;
    r = infer_chat_render(j->model->model, &j->chat, &made, &err);
    if (r == INFER_ERR_UNSUPPORTED && j->chat.thinking == -1) { /* no switch */
        j->chat.thinking = 0;
        r = infer_chat_render(j->model->model, &j->chat, &made, &err);
    }
    j->chat.begun = begun;
    if (r != INFER_OK) return fail_by(&j->call->failure, r, err.message);
    memset(&p, 0, sizeof p);
    p.template_text = j->model->template_text;
    p.prompt = made->text;
    p.fn = note;
    p.user = &kind;
    r = infer_chat_parser_create(&parser, j->model->model, &p, &err);
    if (r == INFER_OK) {
        infer_chat_parser_feed(parser, "x", 1);
        infer_chat_parser_finish(parser);
    }
    infer_chat_parser_destroy(parser);
    infer_rendering_free(made);
    if (r != INFER_OK) return fail_by(&j->call->failure, r, err.message);
    *opens = kind == INFER_CHAT_REASONING;
    return 1;
}

/* What ends the reasoning that a template has opened, by its name in the format. */
static const struct {
    const char *name, *end;
} ENDS[] = {
    {"think", "\\n</think>\\n\\n"},
    {"brackets", "[/THINK]"},
    {"seed", "</seed:think>"},
    {"minimax", "\\n</mm:think>\\n\\n"},
    {"hy", "</think:opensource>"},
    {"steps", "\\n[BEGIN FINAL RESPONSE]\\n"},
    {"thinking", "\\n</thinking>\\n\\n"},
};

/* The prompt ends with this text. It comes after the template's text, where it gives marks, which it would not as the reply's beginning. */
static int append(job *j, const char *text) {
    j->ended.n = 0;
    out(&j->ended, "%s{{- '%s' }}", j->model->template_text, text);
    j->chat.template_text = j->ended.s;
    return !j->ended.failed || fail(&j->call->failure, 503, NULL, NULL, "out of memory");
}

/* The reply consists of calls, after reasoning where the template has it. */
static int force(job *j) {
    infer_chat_grammar_params p;
    infer_error err;
    failure *f = &j->call->failure;
    infer_result r;
    memset(&p, 0, sizeof p);
    p.tool = j->tool.n ? j->tool.s : NULL;
    p.most = j->one_call;
    p.no_reasoning = j->no_reasoning;
    r = infer_chat_grammar(&j->grammar, j->model->model, &j->chat, &p, &err);
    if (r == INFER_OK) return 1;
    if (r == INFER_ERR_MEMORY) return fail(f, 503, NULL, "tool_choice", "%s", err.message);
    return fail(f, 400, "unsupported_value", "tool_choice", "'tool_choice': %s", err.message);
}

/* A reply in a given form must not begin in the middle of reasoning: it is switched off, or ended at once, as templates with a switch do. */
int chat_check(job *j) {
    const char *names = strchr(j->model->format, '/');
    int opens = 0;
    size_t i;
    if (j->formed && strcmp(j->model->format, "harmony") == 0) return append(j, "<|channel|>final<|message|>");
    if (j->forced) return force(j);
    if (!j->formed || names == NULL) return 1;
    if (j->chat.thinking == 1) return fail(&j->call->failure, 400, NULL, "response_format", "a reply of a given form has no place for reasoning");
    j->chat.thinking = -1;
    if (!opens_reasoning(j, &opens)) return 0;
    for (i = 0; opens && i < sizeof ENDS / sizeof *ENDS; i++) {
        const char *at = strstr(names + 1, ENDS[i].name);
        if (at == NULL || (at[-1] != '/' && at[-1] != '+') || strchr("+", at[strlen(ENDS[i].name)]) == NULL) continue;
        if (!append(j, ENDS[i].end) || !opens_reasoning(j, &opens)) return 0;
    }
    if (!opens) return 1;
    return fail(&j->call->failure, 400, "unsupported_parameter", "response_format",
                "unsupported parameter: replies of this model begin with reasoning, and its template cannot switch that off");
}

int chat_prepare(job *j) {
    asked *a = &j->asked;
    a->has_parallel = infer_json_kind(infer_json_get(j->call->json, "parallel_tool_calls")) != INFER_JSON_NULL;
    return chat_messages(j, a->messages) && chat_variables(j) && chat_response_format(j, a->response_format, "response_format") &&
           chat_tools(j, a->tools, a->tool_choice) && chat_check(j);
}
