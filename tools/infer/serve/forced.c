/* forced.c: a tool_choice that forces a call: the marks that begin one stand there already, and the rest follows a grammar. */
#include "serve.h"

#include <string.h>

#define BAR "\xef\xbd\x9c" /* U+FF5C, and U+2581: in DeepSeek's marks */
#define LOW "\xe2\x96\x81"
#define DS(words) "<" BAR words BAR ">"

enum { OBJECT, LIST, ARGUMENTS, TAGS };
/* How the formats of infer_chat_parser_format write a call.
 * OBJECT, LIST: {"name", "arguments"}, or a list of them; after: what the arguments are called.
 * ARGUMENTS: the name, `after`, and a JSON object. TAGS: the name, `after`, and for each argument key, its name, key_end, value, value_end; then end. */
typedef struct form {
    const char *format;
    int kind;
    const char *begin, *after, *key, *key_end, *value_end, *end;
} form;
static const form FORMS[] = {
    {"hermes", OBJECT, "<tool_call>\n", "arguments", "", "", "", ""},
    {"bare", OBJECT, "", "parameters", "", "", "", ""},
    {"function_call", OBJECT, "<|function_call|>", "arguments", "", "", "", ""},
    {"role", OBJECT, "<|message_sep|>\n\nfunction call<|role_sep|>\n", "arguments", "", "", "", ""},
    {"list", LIST, "<|tool_call|>", "arguments", "", "", "", ""},
    {"tool_calls", LIST, "<tool_calls>", "arguments", "", "", "", ""},
    {"TOOLCALL", LIST, "<TOOLCALL>", "arguments", "", "", "", ""},
    {"brackets", LIST, "[TOOL_CALLS]", "arguments", "", "", "", ""},
    {"functools", LIST, "functools", "arguments", "", "", "", ""},
    {"harmony", ARGUMENTS, "<|channel|>commentary to=functions.", " <|constrain|>json<|message|>", "", "", "", ""},
    {"numbered", ARGUMENTS, "<|tool_calls_section_begin|><|tool_call_begin|>functions.", ":0<|tool_call_argument_begin|>", "", "", "", ""},
    {"turn", ARGUMENTS, "<|tool_calls|><|tool_call:begin|>call00000<|tool_call:name|>", "<|tool_call:args|>", "", "", "", ""},
    {"fenced", ARGUMENTS, DS("tool" LOW "calls" LOW "begin") DS("tool" LOW "call" LOW "begin") "function" DS("tool" LOW "sep"), "\n```json\n", "", "", "", ""},
    {"sep", ARGUMENTS, DS("tool" LOW "calls" LOW "begin") DS("tool" LOW "call" LOW "begin"), DS("tool" LOW "sep"), "", "", "", ""},
    {"function", TAGS, "<tool_call>\n<function=", ">\n", "<parameter=", ">\n", "\n</parameter>\n", "</function>\n</tool_call>"},
    {"seed", TAGS, "<seed:tool_call>\n<function=", ">\n", "<parameter=", ">", "</parameter>\n", "</function>\n</seed:tool_call>"},
    {"arg_key", TAGS, "<tool_call>", "\n", "<arg_key>", "</arg_key>\n<arg_value>", "</arg_value>\n", "</tool_call>"},
    {"hy", TAGS, "<tool_calls:opensource>\n<tool_call:opensource>", "<tool_sep:opensource>\n", "<arg_key:opensource>", "</arg_key:opensource>\n<arg_value:opensource>",
     "</arg_value:opensource>\n", "</tool_call:opensource>\n</tool_calls:opensource>"},
    {"param", TAGS, "<function name=\"", "\">", "<param name=\"", "\">", "</param>", "</function>"},
    {"invoke", TAGS, "<minimax:tool_call>\n<invoke name=\"", "\">\n", "<parameter name=\"", "\">", "</parameter>\n", "</invoke>\n</minimax:tool_call>"},
};

/* ---- JSON ----------------------------------------------------------------------------------- */

/* The arguments' schema: those that it names and no others, unless it says that there may be. */
static void write_parameters(cli_text *t, const infer_json *schema) {
    size_t i;
    out(t, "{");
    if (infer_json_get(schema, "type") == NULL) out(t, "\"type\":\"object\",");
    if (infer_json_get(schema, "properties") == NULL) out(t, "\"properties\":{},");
    if (infer_json_get(schema, "additionalProperties") == NULL) out(t, "\"additionalProperties\":false,");
    for (i = 0; i < infer_json_count(schema); i++) out(t, "%j:%v,", infer_json_name(schema, i, NULL), infer_json_at(schema, i));
    if (t->n) t->s[t->n - 1] = '}';
}

/* The schema of calls: objects, or a list; of one tool the list has one, for a choice by name asks for one call. */
static void write_calls(cli_text *t, const form *form, const infer_json *const *tools, size_t n, int one) {
    size_t i;
    if (form->kind == LIST) out(t, "{\"type\":\"array\",\"minItems\":1,\"maxItems\":%d,\"items\":", (long long)(one ? 1 : 16));
    out(t, "{\"anyOf\":[");
    for (i = 0; i < n; i++) {
        out(t, "%s{\"type\":\"object\",\"properties\":{\"name\":{\"const\":%j},%j:", i ? "," : "", chat_tool_name(tools[i]), form->after);
        write_parameters(t, infer_json_get(infer_json_get(tools[i], "function"), "parameters"));
        out(t, "},\"required\":[\"name\",%j],\"additionalProperties\":false}", form->after);
    }
    out(t, form->kind == LIST ? "]}}" : "]}");
}

/* ---- tags ----------------------------------------------------------------------------------- */

/* A text ends before the next closing tag. */
static const char VALUES[] =
    "text ::= ([^<] | \"<\" [^/<])*\n"
    "integer ::= \"-\"? (\"0\" | [1-9] [0-9]{0,15})\n"
    "number ::= integer (\".\" [0-9]{1,15})? ([eE] [-+]? [0-9]{1,3})?\n"
    "boolean ::= \"true\" | \"false\"\n"
    "null ::= \"null\"\n"
    "string ::= \"\\\"\" ([^\"\\\\\\x00-\\x1f] | \"\\\\\" [\"\\\\/bfnrt])* \"\\\"\"\n"
    "array ::= \"[\" (value (\", \" value)*)? \"]\"\n"
    "object ::= \"{\" (string \": \" value (\", \" string \": \" value)*)? \"}\"\n"
    "value ::= object | array | string | number | boolean | null\n";

/* What may be written for a value of this schema: its enum or const, or anything of its type. */
static void write_value(cli_text *t, const infer_json *schema) {
    static const char *const TYPES[] = {"integer", "number", "boolean", "null", "array", "object"};
    const infer_json *values = infer_json_get(schema, "enum"), *one = infer_json_get(schema, "const"), *type = infer_json_get(schema, "type");
    const size_t n = one ? 1 : infer_json_count(values);
    size_t i, n_text;
    for (i = 0; i < n; i++) {
        const infer_json *v = one ? one : infer_json_at(values, i);
        const char *s = infer_json_string(v, &n_text);
        cli_text text;
        memset(&text, 0, sizeof text);
        if (s) out(&text, "%S", s, n_text);
        else out(&text, "%v", v);
        out(t, "%s%T", i ? " | " : " (", &text);
        out_end(&text);
    }
    if (n) out(t, ")");
    for (i = 0; !n && i < sizeof TYPES / sizeof *TYPES; i++) {
        if (json_is(type, TYPES[i])) {
            out(t, " %s", TYPES[i]);
            return;
        }
    }
    if (!n) out(t, " text");
}

/* A grammar of one call of one of the tools: their arguments in the order of the schema. */
static void write_tags(cli_text *t, const form *form, const infer_json *const *tools, size_t n) {
    size_t i, k, r;
    out(t, "root ::= ");
    for (i = 0; i < n; i++) out(t, "%scall%d", i ? " | " : "", (long long)i);
    for (i = 0; i < n; i++) {
        const infer_json *parameters = infer_json_get(infer_json_get(tools[i], "function"), "parameters"), *properties = infer_json_get(parameters, "properties"),
                         *required = infer_json_get(parameters, "required");
        out(t, "\ncall%d ::= %j %j", (long long)i, chat_tool_name(tools[i]), form->after);
        for (k = 0; k < infer_json_count(properties); k++) {
            const char *name = infer_json_name(properties, k, NULL);
            for (r = 0; r < infer_json_count(required) && !json_is(infer_json_at(required, r), name); r++) {}
            out(t, " (%j %j %j", form->key, name, form->key_end);
            write_value(t, infer_json_at(properties, k));
            out(t, " %j)%s", form->value_end, r < infer_json_count(required) ? "" : "?");
        }
        out(t, " %j", form->end);
    }
    out(t, "\n%s", VALUES);
}

/* Whether `strict` asks for more than write_tags promises. */
static int too_strict(const infer_json *tool) {
    static const char *const KNOWN[] = {"type", "enum", "const", "description", "title", "default"};
    const infer_json *function = infer_json_get(tool, "function"), *properties = infer_json_get(infer_json_get(function, "parameters"), "properties");
    size_t i, k, w;
    if (infer_json_kind(infer_json_get(function, "strict")) != INFER_JSON_TRUE) return 0;
    for (i = 0; i < infer_json_count(properties); i++) {
        const infer_json *schema = infer_json_at(properties, i);
        if (infer_json_kind(infer_json_get(schema, "type")) == INFER_JSON_ARRAY) return 1;
        for (k = 0; k < infer_json_count(schema); k++) {
            for (w = 0; w < sizeof KNOWN / sizeof *KNOWN && strcmp(KNOWN[w], infer_json_name(schema, k, NULL)) != 0; w++) {}
            if (w == sizeof KNOWN / sizeof *KNOWN) return 1;
        }
    }
    return 0;
}

/* ---- which ---------------------------------------------------------------------------------- */

static const form *form_of(const char *format) {
    const size_t n = strcspn(format, "/");
    size_t i;
    for (i = 0; i < sizeof FORMS / sizeof *FORMS; i++) {
        if (strlen(FORMS[i].format) == n && memcmp(FORMS[i].format, format, n) == 0) return &FORMS[i];
    }
    return NULL;
}

/* The grammar for calls of these n tools. */
static int set_grammar(job *j, const form *form, const infer_json *const *tools, size_t n, int one) {
    infer_grammar_params p;
    cli_text t;
    int ok;
    memset(&t, 0, sizeof t);
    memset(&p, 0, sizeof p);
    if (form->kind == ARGUMENTS) write_parameters(&t, infer_json_get(infer_json_get(tools[0], "function"), "parameters"));
    else if (form->kind == TAGS) write_tags(&t, form, tools, n);
    else write_calls(&t, form, tools, n, one);
    if (form->kind == TAGS) p.gbnf = t.s;
    else p.schema = t.s;
    ok = t.failed ? fail(&j->call->failure, 503, NULL, NULL, "out of memory") : chat_grammar(j, &p, "tool_choice");
    out_end(&t);
    return ok;
}

int chat_force(job *j, const infer_json *tools, const char *name) {
    failure *f = &j->call->failure;
    const form *form = form_of(j->model->format);
    const infer_json *chosen[MAX_TOOLS];
    size_t i, n = 0;
    if (form == NULL)
        return fail(f, 400, "unsupported_value", "tool_choice",
                    "unsupported parameter: 'tool_choice' cannot force a call in the format of this model's template (%.40s), only auto and none",
                    j->model->format);
    if (j->begun.n) return fail(f, 400, NULL, "tool_choice", "'tool_choice' cannot force a call in a reply that the last message has begun");
    for (i = 0; i < infer_json_count(tools); i++) {
        const infer_json *tool = infer_json_at(tools, i);
        if (name && strcmp(name, chat_tool_name(tool)) != 0) continue;
        if (n == MAX_TOOLS) return fail(f, 400, NULL, "tools", "'tools' has more than %d that may be forced", MAX_TOOLS);
        if (form->kind == TAGS && too_strict(tool))
            return fail(f, 400, "unsupported_value", "tool_choice",
                        "unsupported parameter: calls in the format of this model's template (%.40s) cannot be forced to be 'strict'", j->model->format);
        chosen[n++] = tool;
    }
    if (n == 0) return fail(f, 400, NULL, "tool_choice", "'tool_choice' names '%.80s', which is not among the tools", name ? name : "");
    if (form->kind == ARGUMENTS && n > 1)
        return fail(f, 400, "unsupported_value", "tool_choice",
                    "unsupported parameter: in the format of this model's template (%.40s) 'tool_choice' can only force a tool that it names",
                    j->model->format);
    if (!set_grammar(j, form, chosen, n, j->one_call || name != NULL)) return 0;
    out(&j->begun, "%s", form->begin);
    if (form->kind == ARGUMENTS) out(&j->begun, "%s%s", chat_tool_name(chosen[0]), form->after);
    if (j->begun.failed) return fail(f, 503, NULL, NULL, "out of memory");
    j->forced = 1;
    if (j->begun.n) j->chat.begun = j->begun.s;
    return 1;
}
