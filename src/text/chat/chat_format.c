/* chat_format.c: how replies are written: one row for each way to write a call, one for each family of templates.
 *
 * Owns:  INFER__CHAT_THINKS, INFER__CHAT_CALLS, INFER__CHAT_FORMATS, and finding rows by the text of a template.
 * Rules: rows are facts about texts (from the templates that models ship with, and the publishers' prompt guides),
 *        never model names. A template's format is the first row of FORMATS whose marks all occur in it, so rows with
 *        rarer marks come first.
 */
#include "chat.h"

#define INFER__BAR "\xef\xbd\x9c" /* U+FF5C: in DeepSeek's tokens */
#define INFER__LOW "\xe2\x96\x81" /* U+2581 */
#define INFER__DS(words) "<" INFER__BAR words INFER__BAR ">"
#define INFER__HY ":opensource"

/* Reasoning: a template may teach several. */
static const infer__chat_think INFER__CHAT_THINKS[] = {
    {"think", "<think>", "<think>", "</think>", NULL},
    {"brackets", "[THINK]", "[THINK]", "[/THINK]", NULL},
    {"seed", "<seed:think>", "<seed:think>", "</seed:think>", NULL},
    {"minimax", "<mm:think>", "<mm:think>", "</mm:think>", NULL},
    {"hy", "<think{}>\n" INFER__HY, "<think" INFER__HY ">", "</think" INFER__HY ">", NULL},
    {"channel", "<|channel>thought", "<|channel>thought", "<channel|>", NULL},
    {"steps", "[BEGIN FINAL RESPONSE]", "Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]", NULL},
    {"thinking", "<thinking>", "<thinking>", "</thinking>", NULL},
    {"turn", "<|think|>\n<|begin|>", "<|think|>", "<|end|>", "<|begin|>assistant"},
};

static const infer__chat_call_kind INFER__CHAT_CALLS[] = {
    {.name = "hermes", .shape = INFER__SHAPE_JSON, .open = "<tool_call>", .end = "</tool_call>"},
    {.name = "list", .shape = INFER__SHAPE_JSON, .flags = INFER__CALL_LIST, .open = "<|tool_call|>",
     .end = "<|/tool_call|>"},
    {.name = "tool_calls", .shape = INFER__SHAPE_JSON, .flags = INFER__CALL_LIST, .open = "<tool_calls>",
     .end = "</tool_calls>"},
    {.name = "TOOLCALL", .shape = INFER__SHAPE_JSON, .flags = INFER__CALL_LIST, .open = "<TOOLCALL>",
     .end = "</TOOLCALL>"},
    {.name = "function_call", .shape = INFER__SHAPE_JSON, .flags = INFER__CALL_ONE, .open = "<|function_call|>",
     .end = "<|message_sep|>"},
    {.name = "role", .shape = INFER__SHAPE_JSON, .flags = INFER__CALL_ONE, .section = "<|message_sep|>",
     .open = "function call<|role_sep|>", .end = "<|message_sep|>"},
    {.name = "functools", .shape = INFER__SHAPE_JSON, .flags = INFER__CALL_LISTS_ONLY | INFER__CALL_LIST,
     .open = "functools"},
    {.name = "bare", .shape = INFER__SHAPE_JSON, .flags = INFER__CALL_BARE, .end = ";"},
    {.name = "python_tag", .shape = INFER__SHAPE_REST, .flags = INFER__CALL_INTERRUPTS, .open = "<|python_tag|>"},
    {.name = "function=", .shape = INFER__SHAPE_ARGS, .open = "<function=", .name_end = ">", .end = "</function>"},
    {.name = "brackets", .shape = INFER__SHAPE_ARGS,
     .flags = INFER__CALL_JSON_TOO | INFER__CALL_INTERRUPTS | INFER__CALL_LIST, .open = "[TOOL_CALLS]",
     .id_sep = "[CALL_ID]", .name_end = "[ARGS]"},
    {.name = "fenced", .shape = INFER__SHAPE_ARGS, .flags = INFER__CALL_INTERRUPTS,
     .section = INFER__DS("tool" INFER__LOW "calls" INFER__LOW "begin"),
     .section_end = INFER__DS("tool" INFER__LOW "calls" INFER__LOW "end"),
     .open = INFER__DS("tool" INFER__LOW "call" INFER__LOW "begin"),
     .end = INFER__DS("tool" INFER__LOW "call" INFER__LOW "end"),
     .prefix = "function" INFER__DS("tool" INFER__LOW "sep"), .name_end = "\n```json", .tail = "```"},
    {.name = "sep", .shape = INFER__SHAPE_ARGS, .flags = INFER__CALL_INTERRUPTS,
     .section = INFER__DS("tool" INFER__LOW "calls" INFER__LOW "begin"),
     .section_end = INFER__DS("tool" INFER__LOW "calls" INFER__LOW "end"),
     .open = INFER__DS("tool" INFER__LOW "call" INFER__LOW "begin"),
     .end = INFER__DS("tool" INFER__LOW "call" INFER__LOW "end"), .name_end = INFER__DS("tool" INFER__LOW "sep")},
    {.name = "numbered", .shape = INFER__SHAPE_ARGS, .flags = INFER__CALL_INTERRUPTS | INFER__CALL_ID_NUMBERED,
     .section = "<|tool_calls_section_begin|>", .section_end = "<|tool_calls_section_end|>",
     .open = "<|tool_call_begin|>", .end = "<|tool_call_end|>", .prefix = "functions.",
     .name_end = "<|tool_call_argument_begin|>"},
    {.name = "turn", .shape = INFER__SHAPE_ARGS, .flags = INFER__CALL_ID_FIRST, .section = "<|tool_calls|>",
     .section_end = "<|calls|>", .open = "<|tool_call:begin|>", .end = "<|tool_call:end|>",
     .id_sep = "<|tool_call:name|>", .name_end = "<|tool_call:args|>"},
    {.name = "harmony", .shape = INFER__SHAPE_ARGS, .flags = INFER__CALL_ONE,
     .end = "<|call|>"}, /* its header is read elsewhere */
    {.name = "function", .shape = INFER__SHAPE_XML, .flags = INFER__CALL_LINES | INFER__CALL_EACH,
     .section = "<tool_call>", .section_end = "</tool_call>", .open = "<function=", .end = "</function>",
     .name_end = ">", .key = "<parameter=", .key_end = ">", .value_end = "</parameter>"},
    {.name = "seed", .shape = INFER__SHAPE_XML, .flags = INFER__CALL_LINES | INFER__CALL_EACH,
     .section = "<seed:tool_call>", .section_end = "</seed:tool_call>", .open = "<function=", .end = "</function>",
     .name_end = ">", .key = "<parameter=", .key_end = ">", .value_end = "</parameter>"},
    {.name = "arg_key", .shape = INFER__SHAPE_XML, .open = "<tool_call>", .end = "</tool_call>", .key = "<arg_key>",
     .key_end = "</arg_key>", .value = "<arg_value>", .value_end = "</arg_value>"},
    {.name = "hy", .shape = INFER__SHAPE_XML, .section = "<tool_calls" INFER__HY ">",
     .section_end = "</tool_calls" INFER__HY ">", .open = "<tool_call" INFER__HY ">",
     .end = "</tool_call" INFER__HY ">", .name_end = "<tool_sep" INFER__HY ">", .key = "<arg_key" INFER__HY ">",
     .key_end = "</arg_key" INFER__HY ">", .value = "<arg_value" INFER__HY ">",
     .value_end = "</arg_value" INFER__HY ">"},
    {.name = "param", .shape = INFER__SHAPE_XML, .open = "<function name=\"", .end = "</function>", .name_end = "\">",
     .key = "<param name=\"", .key_end = "\">", .value_end = "</param>"},
    {.name = "invoke", .shape = INFER__SHAPE_XML, .section = "<minimax:tool_call>",
     .section_end = "</minimax:tool_call>", .open = "<invoke name=\"", .end = "</invoke>", .name_end = "\">",
     .key = "<parameter name=\"", .key_end = "\">", .value_end = "</parameter>"},
    {.name = "dsml", .shape = INFER__SHAPE_XML, .flags = INFER__CALL_TYPED,
     .section = "<" INFER__BAR "DSML" INFER__BAR "tool_calls>",
     .section_end = "</" INFER__BAR "DSML" INFER__BAR "tool_calls>",
     .open = "<" INFER__BAR "DSML" INFER__BAR "invoke name=\"", .end = "</" INFER__BAR "DSML" INFER__BAR "invoke>",
     .name_end = "\">", .key = "<" INFER__BAR "DSML" INFER__BAR "parameter name=\"", .key_end = ">",
     .value_end = "</" INFER__BAR "DSML" INFER__BAR "parameter>"},
    {.name = "elements", .shape = INFER__SHAPE_XML, .flags = INFER__CALL_NESTED, .section = INFER__MM "<tool_call>",
     .section_end = INFER__MM "</tool_call>", .open = INFER__MM "<invoke name=\"", .end = INFER__MM "</invoke>",
     .name_end = "\">", .key = INFER__MM "<", .key_end = ">"},
    {.name = "python", .shape = INFER__SHAPE_PYTHON, .flags = INFER__CALL_INTERRUPTS, .open = "<|tool_call_start|>",
     .end = "<|tool_call_end|>"},
    {.name = "braces", .shape = INFER__SHAPE_BRACES, .open = "<|tool_call>", .end = "<tool_call|>",
     .value = "<|\"|>"},
    {.name = "escape", .shape = INFER__SHAPE_BRACES, .open = "<start_function_call>", .end = "<end_function_call>",
     .value = "<escape>"},
};

static const infer__chat_format INFER__CHAT_FORMATS[] = {
    {"harmony", "<|channel|>\n<|message|>", {"harmony"}, "<|end|>\n<|return|>\n<|call|>", INFER__FORMAT_HARMONY},
    {"turn", "<|tool_call:begin|>", {"turn"}, "<|begin|>assistant\n<|content|>\n<|end|>", 0},
    {"elements", INFER__MM, {"elements"}, NULL, 0},
    {"invoke", "<minimax:tool_call>", {"invoke"}, NULL, 0},
    {"dsml", INFER__BAR "DSML" INFER__BAR, {"dsml"}, NULL, 0},
    {"hy", "<tool_call{}>\n" INFER__HY, {"hy"}, NULL, 0},
    {"braces", "<|tool_call>call:", {"braces"}, NULL, 0},
    {"escape", "<start_function_call>", {"escape"}, NULL, 0},
    {"arg_key", "<arg_key>\n<tool_call>", {"arg_key"}, NULL, 0},
    {"seed", "<seed:tool_call>", {"seed"}, NULL, 0},
    {"function", "<function=\n<parameter=", {"function"}, NULL, 0},
    {"param", "<param name=", {"param"}, NULL, 0},
    {"numbered", "<|tool_calls_section_begin|>", {"numbered"}, NULL, 0},
    {"fenced", INFER__DS("tool" INFER__LOW "sep") "\n```json", {"fenced"}, NULL, 0},
    {"sep", INFER__DS("tool" INFER__LOW "sep"), {"sep"}, NULL, 0},
    {"python", "<|tool_call_start|>", {"python"}, NULL, 0},
    {"python", "List of tools: [\n<|im_start|>", {"python"}, NULL, 0}, /* the marks are the models' alone */
    {"brackets", "[TOOL_CALLS]", {"brackets"}, NULL, 0},
    {"tool_calls", "<tool_calls>[", {"tool_calls"}, "[END FINAL RESPONSE]", 0},
    {"TOOLCALL", "<TOOLCALL>", {"TOOLCALL"}, NULL, 0},
    {"function_call", "<|function_call|>", {"function_call"}, NULL, 0},
    {"role", "function call\n<|role_sep|>", {"role"}, NULL, 0},
    {"hermes", "<tool_call>", {"hermes"}, NULL, 0},
    {"list", "<|tool_call|>", {"list", "hermes"}, "<response>\n</response>", 0},
    {"functools", "functools[", {"functools"}, NULL, 0},
    {"bare", "<|python_tag|>", {"python_tag", "function=", "bare"}, NULL, 0},
    {"bare", "\"parameters\": \n<|start_header_id|>", {"python_tag", "function=", "bare"}, NULL, 0},
    {"bare", "tool_calls", {"bare"}, NULL, 0}, /* it mentions calls, but in no format above */
    {"plain", "", {NULL}, NULL, 0},
};

/* Marks that templates write around turns, tools and tool results, besides those of the tables above. */
static const char *const INFER__CHAT_MARKS_OTHER[] = {
    "[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CONTENT]", "<start_of_turn>", "<end_of_turn>", "<turn|>", "<tools>",
    "</tools>", "<tool>", "</tool>", "<tool_response>", "</tool_response>", "<tool_responses>", "</tool_responses>",
    "<tool_result>", "</tool_result>", "<tool_results>", "</tool_results>", "<available_tools>", "</available_tools>",
    "<start_function_response>", "<end_function_response>", "<start_function_declaration>",
    "<end_function_declaration>"
};

static const char *infer__chat_known_at(size_t i) {
    const size_t thinks = 2 * INFER__COUNT(INFER__CHAT_THINKS), each = 12;
    if (i < thinks) return i % 2 ? INFER__CHAT_THINKS[i / 2].close : INFER__CHAT_THINKS[i / 2].open;
    i -= thinks;
    if (i < each * INFER__COUNT(INFER__CHAT_CALLS)) {
        const infer__chat_call_kind *c = &INFER__CHAT_CALLS[i / each];
        const char *marks[12];
        marks[0] = c->section;
        marks[1] = c->section_end;
        marks[2] = c->open;
        marks[3] = c->end;
        marks[4] = c->prefix;
        marks[5] = c->id_sep;
        marks[6] = c->name_end;
        marks[7] = c->tail;
        marks[8] = c->key;
        marks[9] = c->key_end;
        marks[10] = c->value;
        marks[11] = c->value_end;
        return marks[i % each] ? marks[i % each] : "";
    }
    i -= each * INFER__COUNT(INFER__CHAT_CALLS);
    return i < INFER__COUNT(INFER__CHAT_MARKS_OTHER) ? INFER__CHAT_MARKS_OTHER[i] : NULL;
}

static const infer__chat_format *infer__chat_format_at(size_t i) {
    return i < INFER__COUNT(INFER__CHAT_FORMATS) ? &INFER__CHAT_FORMATS[i] : NULL;
}
static const infer__chat_think *infer__chat_think_at(size_t i) {
    return i < INFER__COUNT(INFER__CHAT_THINKS) ? &INFER__CHAT_THINKS[i] : NULL;
}
static const infer__chat_call_kind *infer__chat_kind_find(const char *name) {
    size_t i;
    for (i = 0; i < INFER__COUNT(INFER__CHAT_CALLS); i++)
        if (strcmp(INFER__CHAT_CALLS[i].name, name) == 0) return &INFER__CHAT_CALLS[i];
    return NULL;
}

static size_t infer__chat_word(const char **at, const char **word) {
    const char *s = *at, *end;
    if (!s || !*s) return 0;
    end = strchr(s, '\n');
    *word = s;
    *at = end ? end + 1 : s + strlen(s);
    return end ? (size_t)(end - s) : strlen(s);
}

static size_t infer__chat_find(const char *s, size_t n, size_t from, const char *w, size_t len) {
    while (from < n && n - from >= len) {
        const char *p = (const char *)memchr(s + from, w[0], n - from - len + 1);
        if (!p) return n;
        from = (size_t)(p - s);
        if (memcmp(p, w, len) == 0) return from;
        from++;
    }
    return n;
}

static int infer__chat_marked(const char *text, size_t n, const char *marks) {
    const char *w;
    size_t len;
    while ((len = infer__chat_word(&marks, &w)) > 0)
        if (infer__chat_find(text, n, 0, w, len) == n) return 0;
    return 1;
}
