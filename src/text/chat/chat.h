/* chat.h: shared by the parts that parse replies: rows of formats, and the reader's state.
 *
 * Rules: a format is data: a row of CALLS describes how a call is written, a row of FORMATS which of them a family of
 *        templates uses and the words that identify it. No model names in code.
 * Start: INFER__CHAT_CALLS and INFER__CHAT_FORMATS in chat_format.c, infer__chat_run in chat_parse.c.
 */
#ifndef INFER__CHAT_H
#define INFER__CHAT_H

#include "../text.h"

/* How a call's body is written. */
enum {
    INFER__SHAPE_JSON = 1, /* {"name", "arguments"} or a list of such */
    INFER__SHAPE_ARGS,     /* NAME name_end {arguments}; or JSON as above where flag JSON_TOO is set */
    INFER__SHAPE_XML,      /* NAME name_end, then key KEY key_end [value] VALUE value_end for each argument, then end */
    INFER__SHAPE_PYTHON,   /* [f(a=1, b='x'), ...] up to end */
    INFER__SHAPE_BRACES,   /* call:NAME{a:1,b:"x"} with `value` as the quote, up to end */
    INFER__SHAPE_REST      /* the rest of the reply: JSON, NAME.call(a=1), or code */
};
enum {
    INFER__CALL_JSON_TOO = 1,    /* ARGS: a body that begins with [ or { is JSON */
    INFER__CALL_INTERRUPTS = 2,  /* `open` is a control token: it ends reasoning too */
    INFER__CALL_BARE = 4,        /* no `open`: the reply itself is JSON that names a tool */
    INFER__CALL_ID_FIRST = 8,    /* ARGS: ID id_sep NAME; else NAME id_sep ID */
    INFER__CALL_ID_NUMBERED = 16, /* ARGS: the header is the id, its name ends at ':' */
    INFER__CALL_NESTED = 32,     /* XML: elements inside values are values too, with `key` before each tag */
    INFER__CALL_LISTS_ONLY = 64, /* JSON: must be a list */
    INFER__CALL_LINES = 128,     /* XML: a value stands on lines of its own */
    INFER__CALL_LIST = 256,      /* JSON: models write lists */
    INFER__CALL_ONE = 512,       /* a reply has one call, which ends it */
    INFER__CALL_EACH = 1024,     /* `section` is around each call */
    INFER__CALL_TYPED = 2048     /* XML: a key has an attribute string="true" or "false" */
};
#define INFER__MM "]<]minimax[>[" /* before each tag of NESTED */
typedef struct infer__chat_call_kind {
    const char *name;
    int shape, flags;
    const char *section, *section_end; /* around several calls; may be missing in the reply */
    const char *open, *end;
    const char *prefix;  /* of the name: dropped if present */
    const char *id_sep, *name_end, *tail; /* tail: between arguments and end, may be missing */
    const char *key, *key_end, *value, *value_end;
} infer__chat_call_kind;

typedef struct infer__chat_think {
    const char *name, *marks, *open, *close;
    const char *then; /* what stands between the reasoning and the rest; NULL = nothing */
} infer__chat_think;

enum { INFER__FORMAT_HARMONY = 1 };
enum { INFER__FORMAT_KINDS = 3 };
typedef struct infer__chat_format {
    const char *name;
    const char *marks;   /* words that all occur in its templates, separated by '\n' */
    const char *kinds[INFER__FORMAT_KINDS];
    const char *dropped; /* words of the reply that mean nothing, separated by '\n' */
    int flags;           /* INFER__FORMAT_* */
} infer__chat_format;

static const infer__chat_format *infer__chat_format_at(size_t i); /* NULL past the end */
static const infer__chat_think *infer__chat_think_at(size_t i);
static const infer__chat_call_kind *infer__chat_kind_find(const char *name);
static const char *infer__chat_known_at(size_t i); /* a mark of any format, "" = none here; NULL past the end */
/* 1 when text[0..n) holds every one of the marks. */
static int infer__chat_marked(const char *text, size_t n, const char *marks);
/* The next of the words that '\n' separates: its length, 0 = none; *at moves on. */
static size_t infer__chat_word(const char **at, const char **word);
/* Where w[0..len) occurs first in s[from..n), n when it does not. */
static size_t infer__chat_find(const char *s, size_t n, size_t from, const char *w, size_t len);

/* ---- the reader ------------------------------------------------------------------------------------ */

enum { INFER__CHAT_TEXT, INFER__CHAT_SECTION, INFER__CHAT_BODY, INFER__CHAT_HEADER };
enum { INFER__MARK_THINK, INFER__MARK_THINK_END, INFER__MARK_SECTION, INFER__MARK_OPEN, INFER__MARK_DROP,
       INFER__MARK_AFTER, INFER__MARK_HEADER };
typedef struct infer__chat_mark {
    const char *s;
    uint32_t n;
    uint8_t what, modes, row; /* INFER__MARK_*; modes in which it counts; index of its kind or think row */
} infer__chat_mark;
enum { INFER__CHAT_MARKS = 32, INFER__CHAT_NAME_MAX = 256, INFER__CHAT_DEPTH = 48 };

/* A body being read: everything up to `at` has been examined. */
typedef struct infer__chat_body {
    const infer__chat_call_kind *kind;
    size_t from, at;     /* the body's first byte; where to go on */
    int step, depth, in_string, escaped, begun;
    size_t name, n_name; /* places in the text */
    size_t id, n_id;
    size_t key, n_key, value;
    infer__bytes args;   /* XML: the object so far */
} infer__chat_body;

struct infer__chat_reader {
    infer__mem *mem;
    infer__arena arena;
    const infer__chat_format *format;
    const infer__chat_call_kind *kinds[INFER__FORMAT_KINDS];
    int n_kinds;
    infer__chat_mark marks[INFER__CHAT_MARKS];
    int n_marks;
    uint8_t first[256];     /* 1 = a mark begins with this byte */
    const infer_json *tools; /* array, or NULL */
    infer_chat_fn fn;
    void *user;
    int64_t call_number;
    infer__bytes in;        /* text from the first byte that was not delivered */
    size_t at, scan, solid; /* not given out yet; looked at up to here; end of what is no white space */
    int state, mode, think; /* mode: INFER_CHAT_CONTENT or _REASONING; think: row whose close ends that */
    int skip;   /* white space is dropped until something else comes */
    int fresh;  /* nothing but white space since the beginning, the reasoning or a call */
    int after;  /* a call has just ended: its closing marks may follow */
    int begun[3]; /* by mode: some text was given out */
    int join;   /* a new part of the same mode: a line break comes between */
    int finished, stopped;
    infer_result failed;
    infer__chat_body body;
    infer__bytes content, reasoning, scratch;
    infer_chat_call *calls;
    size_t n_calls, cap_calls;
    infer_chat_reply reply;
    char name[64]; /* of the format and its reasoning */
};

/* Bodies (chat_call.c). */
enum { INFER__BODY_MORE, INFER__BODY_DONE, INFER__BODY_FAIL };
/* Continue reading the body: DONE with *end after it and the calls added; FAIL with *end at the error (everything
 * before it is text). final: no more text comes. */
static int infer__chat_body_read(infer__chat_reader *p, int final, size_t *end);
/* 0 = no memory. */
static int infer__chat_call_add(infer__chat_reader *p, const char *id, size_t n_id, const char *name, size_t n_name,
                                const char *args, size_t n_args);

/* Values (chat_value.c). */
enum { INFER__VALUE_TYPED, INFER__VALUE_STRING, INFER__VALUE_JSON };
/* Append s[0..n) as JSON: a string where the schema wants one, else what it is as JSON or as a Python literal, else a
 * string. 0 = INFER__VALUE_JSON and it is no JSON. */
static int infer__chat_value_put(infer__bytes *out, const char *s, size_t n, const infer_json *schema, int how);
/* The schema of a tool's argument, NULL when it is not known. */
static const infer_json *infer__chat_tool(const infer_json *tools, const char *name,
                                          size_t n); /* its function object */
static const infer_json *infer__chat_parameter(const infer_json *tools, const char *tool, size_t n_tool,
                                               const char *key, size_t n_key);
/* Python: f(a=1, b='x') at s[*at..n): the name, and the arguments as a JSON object appended to args. 0 = it is none. */
static int infer__chat_python_call(const char *s, size_t n, size_t *at, size_t *name, size_t *n_name,
                                   infer__bytes *args);
/* {a:1,b:QUOTExQUOTE} at s[*at..n) appended as JSON. 0 = it is none. */
static int infer__chat_braces(const char *s, size_t n, size_t *at, const char *quote, infer__bytes *out);
/* Elements: the text between tags that begin with mark, as JSON. */
static int infer__chat_elements(const char *s, size_t n, const char *mark, const infer_json *schema, int depth,
                                infer__bytes *out);
#endif
