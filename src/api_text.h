/* api_text.h: the part of the public interface that deals only with text: JSON, chat templates, replies. Included by
 * api.h, at the point where its types are needed. */
#ifndef INFER_API_TEXT_H
#define INFER_API_TEXT_H

/* ---- JSON ----------------------------------------------------------------------------------- */

/* A JSON value (RFC 8259). Immutable; owned by the document that infer_json_parse returned. */
typedef struct infer_json infer_json;
enum { INFER_JSON_NULL = 0, INFER_JSON_FALSE = 1, INFER_JSON_TRUE = 2, INFER_JSON_INT = 3, INFER_JSON_FLOAT = 4,
       INFER_JSON_STRING = 5, INFER_JSON_ARRAY = 6, INFER_JSON_OBJECT = 7 };
/* Parse one value, optionally surrounded by white space; *out is the document: free it with infer_json_free. When
 * members have the same name, the last one wins. At most 256 levels deep. Errors: FORMAT (the message has line and
 * column), MEMORY. allocator may be NULL. */
INFER_API infer_result infer_json_parse(infer_json **out, const char *text, size_t n, const infer_allocator *allocator,
                                        infer_error *err);
/* Free a document. NULL is accepted; values inside a document are not. */
INFER_API void infer_json_free(infer_json *document);
/* INFER_JSON_*; all of the following functions treat NULL as INFER_JSON_NULL. */
INFER_API int32_t infer_json_kind(const infer_json *v);
/* Number of elements of an array, members of an object or bytes of a string; else 0. */
INFER_API size_t infer_json_count(const infer_json *v);
/* Element `index` of an array, or the value of member `index` of an object, in the order of the text; else NULL. */
INFER_API const infer_json *infer_json_at(const infer_json *v, size_t index);
/* The name of member `index` of an object, zero-terminated, *n bytes (n may be NULL); else NULL. */
INFER_API const char *infer_json_name(const infer_json *v, size_t index, size_t *n);
/* The value of the member with this name; NULL when v is not an object or has no such member. */
INFER_API const infer_json *infer_json_get(const infer_json *v, const char *name);
/* A string, zero-terminated (it may also contain zeros: *n is its length in bytes; n may be NULL); NULL when v is not a
 * string. */
INFER_API const char *infer_json_string(const infer_json *v, size_t *n);
/* A number (TRUE is 1); 0 when v is not a number. INT is exact within 64 bits; larger integers are FLOAT. */
INFER_API int64_t infer_json_int(const infer_json *v);
INFER_API double infer_json_number(const infer_json *v);
/* Write a value as text: indent < 0 = on one line, like Python's json.dumps; else spaces per level, at most 64. Returns
 * the full length in *len; writes at most cap bytes, including a terminating zero. out may be NULL when cap is 0.
 * INFER_ERR_ARGUMENT: a larger indent; INFER_ERR_MEMORY: also a text of more than 256 MiB. */
INFER_API infer_result infer_json_write(const infer_json *v, int32_t indent, char *out, size_t cap, size_t *len);
/* Write n bytes of text as a JSON string, with its quotes, in the same way: *len is the full length, out may be NULL
 * when cap is 0. Control characters, quotes and backslashes are escaped; each byte that is not UTF-8 becomes U+FFFD. */
INFER_API infer_result infer_json_quote(const char *text, size_t n, char *out, size_t cap, size_t *len);

/* ---- chat templates --------------------------------------------------------------------------- */

/* A span of a rendered text. from_message 1 = it came from the variables (including whatever a user typed): special
 * tokens are never parsed in it, and infer_chat_format makes no marks of it. 0 = it is the template's own text. */
typedef struct infer_segment {
    const char *text; /* n bytes, not zero-terminated */
    size_t n;
    int32_t from_message;
} infer_segment;

/* A parsed Jinja template; immutable, may be shared by threads. */
typedef struct infer_template infer_template;
/* Zero in any field means the default. */
typedef struct infer_template_params {
    const infer_json *trusted; /* object of more variables, whose text counts as the template's own (bos_token, ...) */
    const char *now;             /* "YYYY-MM-DD HH:MM:SS" for strftime_now; NULL = the local clock */
    uint64_t max_steps;          /* units of work, about one for each operation and item (20,000,000) */
    uint64_t max_output;         /* bytes (64 MiB) */
    uint64_t max_memory; /* bytes while rendering (64 MiB + 10 times the template + 32 times the variables; at most
                                  * 1 GiB) */
    infer_limits limits;         /* seconds (2), cancel */
} infer_template_params;
/* The result of infer_template_render: the text (zero-terminated), and the segments that make it up, in order. */
typedef struct infer_rendering {
    const char *text;
    size_t n;
    const infer_segment *segments;
    size_t n_segments;
} infer_rendering;

/* Parse a template: Jinja2 as Hugging Face's transformers sets it up (trim_blocks, lstrip_blocks, loop controls, tojson
 * without escaping, raise_exception, strftime_now, generation blocks). Integers are limited to 64 bits; exceeding that
 * is an error. text may be freed after the call. Errors: FORMAT (syntax; the message has line and column), UNSUPPORTED
 * (a construct that is recognised but not supported, such as include; a text of more than 1 MiB), MEMORY. allocator may
 * be NULL. */
INFER_API infer_result infer_template_create(infer_template **out, const char *text, size_t n,
                                             const infer_allocator *allocator, infer_error *err);
/* NULL is accepted. Its renderings remain valid. */
INFER_API void infer_template_destroy(infer_template *t);
/* Render with the members of context as variables (an object; NULL = none). params may be NULL. Nothing outside context
 * and params is read, except the clock. Errors: STATE when the template called raise_exception (the message is its
 * text); FORMAT when an operation of the template failed (the message has line and column); ARGUMENT when context is
 * not an object; UNSUPPORTED; MEMORY when a limit of params was exceeded, LIMIT when it was the time limit;
 * CANCELLED. */
INFER_API infer_result infer_template_render(const infer_template *t, const infer_json *context,
                                             const infer_template_params *params, infer_rendering **out,
                                             infer_error *err);
/* NULL is accepted. */
INFER_API void infer_rendering_free(infer_rendering *r);

/* ---- replies ---------------------------------------------------------------------------------- */

/* A tool call, in a reply and in a message. Strings are zero-terminated. */
typedef struct infer_chat_call {
    const char *id; /* reply: the model's, or "callNNNNN" where its format has none. Message: NULL or "" = none */
    const char *name;
    const char *arguments; /* a JSON object (reply: on one line), n_arguments bytes. Message: NULL = {} */
    size_t n_arguments;    /* message: 0 = as long as arguments is */
} infer_chat_call;
/* A tool that the model may call. Strings are zero-terminated; NULL description = none. */
typedef struct infer_chat_tool {
    const char *name;
    const char *description;
    const char *parameters; /* a JSON Schema of an object; NULL = {"type": "object", "properties": {}} */
} infer_chat_tool;
/* The reply so far. Owned by its parser and changes with it. */
typedef struct infer_chat_reply {
    const char *content;   /* n_content bytes, zero-terminated; "" = none */
    size_t n_content;
    const char *reasoning; /* likewise */
    size_t n_reasoning;
    const infer_chat_call *calls;
    size_t n_calls;
} infer_chat_reply;

enum {
    INFER_CHAT_CONTENT = 1,   /* text, n: more of the answer */
    INFER_CHAT_REASONING = 2, /* text, n: more of the reasoning */
    INFER_CHAT_CALL = 3,      /* id, name: a tool call; its arguments follow */
    INFER_CHAT_ARGUMENTS = 4  /* text, n: more of the last call's arguments (at present all at once) */
};
typedef struct infer_chat_delta {
    int32_t kind;     /* INFER_CHAT_* */
    int32_t call;     /* CALL, ARGUMENTS: index of the call; else -1 */
    const char *text; /* whole characters, not zero-terminated; valid during the call */
    size_t n;
    const char *id, *name; /* CALL, ARGUMENTS */
} infer_chat_delta;
typedef int (*infer_chat_fn)(void *user, const infer_chat_delta *delta); /* non-zero = stop */

/* Parses a reply as it streams. Belongs to one thread at a time. */
typedef struct infer_chat_parser infer_chat_parser;
typedef struct infer_chat_parser_params {
    const char *format;    /* a name as returned by infer_chat_parser_format; NULL = recognised from the template */
    const char *template_text; /* zero-terminated; NULL = the model's own */
    const infer_chat_tool *tools; /* n_tools that the model was given; they define the types of arguments in formats
                                   * that write values without quotes. NULL = none are known */
    size_t n_tools;
    const char *tools_json; /* the same as JSON, in place of tools: see infer_chat_params */
    const char *prompt;    /* the prompt, or its end: it may already have opened the reasoning. NULL = it has not */
    int64_t first_call;    /* number in the first generated id */
    infer_chat_fn fn;      /* may be NULL */
    void *user;
    infer_allocator allocator;
} infer_chat_parser_params;
/* Create a parser for one reply. How a model writes calls and reasoning is recognised from words in its template, using
 * a table; when a template teaches no format, "plain" is used: everything is content. model may be NULL when format or
 * template_text is given; params may be NULL when there is a model. Errors: ARGUMENT (no such format, no template),
 * FORMAT (tools), MEMORY. */
INFER_API infer_result infer_chat_parser_create(infer_chat_parser **out, const infer_model *model,
                                                const infer_chat_parser_params *params, infer_error *err);
/* NULL is accepted. INFER_ERR_STATE, and nothing changes, when called from one of its own callbacks. */
INFER_API infer_result infer_chat_parser_destroy(infer_chat_parser *parser);
/* Feed more of the reply, including the text of control tokens, split anywhere. What may be the beginning of a mark is
 * held back. A call is reported when it is complete; text that only began like one is content. INFER_CANCELLED: fn
 * asked to stop. */
INFER_API infer_result infer_chat_parser_feed(infer_chat_parser *parser, const char *text, size_t n);
/* The reply has ended: emit what was held back. */
INFER_API infer_result infer_chat_parser_finish(infer_chat_parser *parser);
/* The reply so far; never NULL. Strings are valid until the next call. */
INFER_API const infer_chat_reply *infer_chat_parser_reply(infer_chat_parser *parser);
/* For example "hermes/think": how calls are written and, after '/', how reasoning is (nothing = not at all). */
INFER_API const char *infer_chat_parser_format(const infer_chat_parser *parser);

#endif
