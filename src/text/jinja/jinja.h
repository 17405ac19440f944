/* jinja.h: shared by the parts of the template interpreter: tokens, the tree, values, the state of one rendering.
 *
 * Owns:  the types. Stages: jinja_lex.c (text -> tokens), jinja_parse.c (tokens -> tree), jinja_eval.c and jinja_run.c
 *        (tree -> text) over the values of jinja_value.c; tables of functions in jinja_filters.c and its neighbours.
 * Rules: a tree is immutable. Everything of one rendering is in one arena that goes when it ends. The first error
 *        sticks (infer__jj_fail): later operations do nothing, and callers check it in long loops. Every string records
 *        which of its bytes came from a message (marks); functions preserve that with infer__jbuf. Work is counted
 *        (infer__jj_work), memory too (infer__jj_alloc), depth is bounded. A step is some 50 ns: one for an operation
 *        and for an item, and the bytes that it looks at or copies: infer__jj_bytes and infer__jj_chars.
 * Marks: the template's own are the bytes of its text and strings, of trusted variables, and what is computed of those
 *        alone. A message's are its strings and pieces of them, and what is computed of its values: numbers and
 *        their digits, lengths, places, counters of loops over its lists, truths (so JV carry a mark too), text that
 *        stands for a value (str, repr, tojson, with its brackets and quotes), a template's string that is cut, padded
 *        or repeated as a message's value says, and any character made of a number. What a message merely selects stays
 *        the template's: a branch, how often a loop runs, one of several whole strings, the separator of a join, the
 *        text around a value in a format, the replacement in a replace. Functions whose result is no string get their
 *        mark in infer__jj_run_function, from all arguments; those that make strings keep marks themselves.
 * Sources: the Jinja 3.1 template designer documentation; Python 3's documentation of str, list, dict, operators.
 */
#ifndef INFER__JINJA_H
#define INFER__JINJA_H
#include "../text.h"
#include <math.h>

/* ---- tokens (jinja_lex.c) ------------------------------------------------------------------------------- */

enum { INFER__JT_END, INFER__JT_TEXT, INFER__JT_PRINT, INFER__JT_PRINT_END, INFER__JT_TAG, INFER__JT_TAG_END,
       INFER__JT_NAME, INFER__JT_STRING, INFER__JT_INT, INFER__JT_FLOAT, INFER__JT_OP };
#define INFER__JOP(a, b) ((a) << 8 | (b)) /* an operator of two characters; one of one is its character */
typedef struct infer__jtoken {
    int32_t kind, op; /* INFER__JT_*; of OP: which */
    uint32_t at;      /* byte in the text, for messages */
    const char *s;    /* TEXT, NAME: as in the text; STRING: decoded */
    size_t n;
    union { int64_t i; double f; } v;
} infer__jtoken;

/* ---- the tree (jinja_parse.c) --------------------------------------------------------------------------- */

/* Kinds with their kids; ? = may be NULL. */
enum {
    /* expressions */
    INFER__JN_STRING, INFER__JN_INT, INFER__JN_FLOAT, INFER__JN_TRUE, INFER__JN_FALSE, INFER__JN_NONE,
    INFER__JN_NAME,                      /* s */
    INFER__JN_LIST, INFER__JN_TUPLE,     /* items */
    INFER__JN_DICT,                      /* key, value, key, value */
    INFER__JN_ATTR, INFER__JN_ITEM,      /* object; .s  |  object, index */
    INFER__JN_SLICE,                     /* start?, stop?, step? (only as an index) */
    INFER__JN_CALL,                      /* callee, arguments */
    INFER__JN_FILTER, INFER__JN_TEST,    /* s; value?, arguments (value NULL: of a filter block) */
    INFER__JN_KEYWORD,                   /* s; value: an argument by name */
    INFER__JN_SPREAD, INFER__JN_SPREAD2, /* value: *args, **kwargs */
    INFER__JN_NOT, INFER__JN_NEG, INFER__JN_POS, /* value */
    INFER__JN_AND, INFER__JN_OR,         /* left, right */
    INFER__JN_BINARY,                    /* op; left, right */
    INFER__JN_CONCAT,                    /* parts */
    INFER__JN_COMPARE,                   /* left, then RELATIONs */
    INFER__JN_RELATION,                  /* op; right */
    INFER__JN_COND,                      /* test, then, else? */
    /* statements */
    INFER__JN_BODY,                      /* statements */
    INFER__JN_TEXT,                      /* s */
    INFER__JN_PRINT,                     /* expressions */
    INFER__JN_IF,                        /* test, body, else? */
    INFER__JN_FOR,                       /* target, iterable, filter?, body, else?; op 1 = recursive */
    INFER__JN_SET,                       /* target, value */
    INFER__JN_SET_BLOCK,                 /* target, filters?, body */
    INFER__JN_WITH,                      /* body, then target, value, target, value */
    INFER__JN_MACRO,                     /* s; body, then PARAMs; op: INFER__JM_* */
    INFER__JN_PARAM,                     /* s; default? */
    INFER__JN_CALL_BLOCK,                /* call, MACRO */
    INFER__JN_FILTER_BLOCK,              /* filters, body */
    INFER__JN_SCOPE,                     /* body: generation, block */
    INFER__JN_BREAK, INFER__JN_CONTINUE
};
enum { INFER__JM_VARARGS = 1, INFER__JM_KWARGS = 2, INFER__JM_CALLER = 4 }; /* names that the macro's body reads */
enum { INFER__JOP_IN = 1, INFER__JOP_NOT_IN = 2 };                         /* ops that have no characters */

typedef struct infer__jnode infer__jnode;
struct infer__jnode {
    uint16_t kind, op;
    uint32_t at; /* byte in the text, for messages */
    uint32_t n_kids;
    infer__jnode **kids;
    const char *s;
    size_t n;
    union { int64_t i; double f; } v;
};

enum { INFER__JINJA_PARSE_DEPTH = 200, INFER__JINJA_DEPTH = 600 }; /* levels of a tree; of calls of the interpreter */

struct infer__template {
    infer__mem *mem;
    infer__arena arena;
    const char *text; /* with \n for every line end */
    size_t n;
    const infer__jnode *root;
};

/* Text -> tokens, the last one END. NULL after an error. */
static const infer__jtoken *infer__jinja_lex(infer__template *t, infer_error *err, infer_result *r);
/* Tokens -> tree. */
static const infer__jnode *infer__jinja_parse(infer__template *t, const infer__jtoken *tokens, infer_error *err,
                                              infer_result *r);

/* ---- values (jinja_value.c) ----------------------------------------------------------------------------- */

enum { INFER__JV_UNDEFINED, INFER__JV_NONE, INFER__JV_BOOL, INFER__JV_INT, INFER__JV_FLOAT,
       INFER__JV_BIG,      /* an integer of the context beyond 64 bits: can be written, not computed with */
       INFER__JV_STRING, INFER__JV_LIST, INFER__JV_TUPLE, INFER__JV_RANGE,
       INFER__JV_ITER,     /* what filters such as map give: can be gone through once */
       INFER__JV_VIEW,     /* dict.items() and so on */
       INFER__JV_DICT, INFER__JV_SPACE /* namespace() */, INFER__JV_MACRO, INFER__JV_METHOD, INFER__JV_FUNCTION,
       INFER__JV_LOOP, INFER__JV_CYCLER, INFER__JV_JOINER };

typedef struct infer__jv {
    uint8_t kind;
    uint8_t mark; /* of all but strings: 1 = from a message; of a list or dict: which items it has */
    uint8_t flag; /* of UNDEFINED: 1 = an argument that was not given */
    union {
        int64_t i; /* BOOL, INT */
        double f;
        struct infer__jstr *s;       /* STRING, BIG; UNDEFINED: what is not there, or NULL */
        struct infer__jlist *l;      /* LIST ... VIEW, CYCLER, JOINER */
        struct infer__jdict *d;      /* DICT, SPACE */
        struct infer__jmacro *macro;
        struct infer__jbound *bound; /* METHOD */
        struct infer__jloop *loop;
        const struct infer__jfunction *fn; /* FUNCTION */
    } u;
} infer__jv;

/* A string: UTF-8, immutable. */
typedef struct infer__jstr {
    const char *s;
    const uint8_t *marks; /* n of them; NULL = all bytes have `mark` */
    size_t n;
    uint8_t mark, safe;   /* 1 = from a message; safe: markupsafe's Markup */
    struct infer__jgrow *home; /* the block that it ends in, where more may be appended; or NULL */
} infer__jstr;
typedef struct infer__jgrow {
    char *s;
    uint8_t *marks; /* NULL as long as one mark serves */
    size_t n, cap;
} infer__jgrow;

typedef struct infer__jlist {
    infer__jv *items;
    size_t n, cap;
    size_t at;               /* ITER, CYCLER: the next one; JOINER: 1 = was used */
    int64_t start, stop, step; /* RANGE */
    const char *name;        /* VIEW, ITER: for printing */
} infer__jlist;

typedef struct infer__jdict {
    infer__jv *items; /* key, value, key, value, in the order in which they came */
    size_t n, cap;
    uint32_t *index;  /* hash -> member + 1, 0 = free; NULL while there are few */
    size_t mask;
} infer__jdict;

typedef struct infer__jscope {
    struct infer__jscope *parent;
    struct infer__jlocal { const char *s; size_t n; infer__jv v; } *locals;
    size_t n, cap;
} infer__jscope;

typedef struct infer__jmacro {
    const infer__jnode *node;
    infer__jscope *scope; /* where it was defined */
} infer__jmacro;

typedef struct infer__jloop {
    const infer__jnode *node; /* the FOR */
    infer__jscope *scope;     /* the one around it; filters are evaluated in a child of it */
    infer__jv source;         /* LIST, or another with a list */
    size_t at;                /* in the source */
    int64_t index;            /* from 0, of those that passed */
    int depth, has_next, ended, has_changed, mark; /* mark: of the source */
    infer__jv previous, current, next, changed;
} infer__jloop;

typedef struct infer__jj infer__jj;

/* The arguments of a call as they were written. */
typedef struct infer__jargs {
    infer__jv *v;
    size_t n, cap;
    infer__jdict *named; /* NULL = none */
} infer__jargs;

/* A function of a table. self: what it is a method of, or what a filter or test is applied to. a: its arguments, bound
 * to `params` (names separated by a space; the first `required` must be given, others are UNDEFINED with flag 1).
 * params
 * "*": not bound, to be taken from args. */
typedef struct infer__jcall {
    infer__jv self;
    const infer__jv *a;
    const infer__jargs *args;
    infer__jscope *scope;
} infer__jcall;
typedef struct infer__jfunction {
    const char *name;
    infer__jv (*run)(infer__jj *j, const infer__jcall *c);
    const char *params;
    int required;
} infer__jfunction;
typedef struct infer__jbound {
    const infer__jfunction *fn;
    infer__jv self;
} infer__jbound;
enum { INFER__JINJA_PARAMS = 8 };
#define INFER__JINJA_MEMORY "rendering needs more memory than its limit (max_memory)"
enum { INFER__JINJA_FLOAT = 400 }; /* steps that a float costs to read or write */

/* A string being made. Zero-initialise with j set; a failure sticks in j. */
typedef struct infer__jbuf {
    infer__jj *j;
    char *s;
    uint8_t *marks;
    size_t n, cap;
    uint8_t mark, is_output; /* is_output: max_output bounds it */
} infer__jbuf;

/* ---- one rendering -------------------------------------------------------------------------------------- */

enum { INFER__JFLOW_GO, INFER__JFLOW_BREAK, INFER__JFLOW_CONTINUE };
struct infer__jj {
    const infer__template *t;
    infer__arena arena;
    infer_error *err;
    infer_result r; /* the first error */
    infer__watch *watch;
    uint64_t work, max_work, used, max_memory, max_output;
    int grows;      /* max_memory grows with the variables */
    uint32_t at;    /* where in the text we are */
    int depth, flow;
    infer__jbuf *out;
    infer__jdict *trusted, *context;
    const char *now;
};

#define INFER__JJ_PRINTF INFER__PRINTF(3, 4)
static infer__jv infer__jj_fail(infer__jj *j, infer_result code, const char *format, ...) INFER__JJ_PRINTF;
static void *infer__jj_alloc(infer__jj *j, uint64_t n, uint64_t size); /* zeroed; NULL = failed */
static int infer__jj_work(infer__jj *j, uint64_t n); /* count n steps; 0 = there was an error, stop */
static int infer__jj_bytes(infer__jj *j, uint64_t n); /* n bytes are copied, compared or searched: 64 a step */
static int infer__jj_scan(infer__jj *j, uint64_t n);  /* n bytes are counted or hashed, one by one: 16 a step */
/* Byte `at` of a text whose characters are looked at or written one by one: 4 a step. *paid is 0 at first. */
static int infer__jj_chars(infer__jj *j, size_t at, size_t *paid);
static int infer__jj_enter(infer__jj *j);            /* one level deeper; 0 = too deep; leave in any case */
static void infer__jj_leave(infer__jj *j);

static void infer__jbuf_put(infer__jbuf *b, const char *s, size_t n, int mark);
static void infer__jbuf_part(infer__jbuf *b, const infer__jstr *s, size_t from, size_t to);
static void infer__jbuf_str(infer__jbuf *b, const infer__jstr *s);
static void infer__jbuf_text(infer__jbuf *b, const char *s, int mark);
static void infer__jbuf_value(infer__jbuf *b, infer__jv v); /* str(v) */
static void infer__jbuf_repr(infer__jbuf *b, infer__jv v);
static infer__jv infer__jbuf_done(infer__jbuf *b);
static infer__jbuf infer__jbuf_new(infer__jj *j);

static infer__jv infer__jv_undefined(infer__jj *j, const char *what, size_t n);
static infer__jv infer__jv_none(void);
static infer__jv infer__jv_bool(int x);
static infer__jv infer__jv_int(int64_t x);
static infer__jv infer__jv_float(double x);
static infer__jv infer__jv_text(infer__jj *j, const char *s, size_t n, int mark); /* a copy */
static infer__jv infer__jv_view(infer__jj *j, const char *s, size_t n, int mark); /* s lives long enough */
static infer__jv infer__jv_part(infer__jj *j, const infer__jstr *s, size_t from, size_t to);
static infer__jv infer__jv_list(infer__jj *j, int kind);
static infer__jv infer__jv_dict(infer__jj *j);
static infer__jv infer__jv_json(infer__jj *j, const infer_json *v, int mark);
static infer__jv infer__jv_str(infer__jj *j, infer__jv v);    /* str(v) */
static infer__jv infer__jv_concat(infer__jj *j, infer__jv a, infer__jv b); /* of two strings */
static int infer__jv_mark(infer__jv v); /* 1 = from a message, a part of it at least; does not look into lists */
static infer__jv infer__jv_claim(infer__jj *j, infer__jv v, int mark); /* v; mark 1: as a whole from a message */
/* A value that stood in a list or dict with this mark: strings keep their own marks, others get it. */
static infer__jv infer__jv_member(infer__jv v, int mark);
static int infer__jv_true(infer__jv v);
static int infer__jv_equal(infer__jj *j, infer__jv a, infer__jv b);
static int infer__jv_less(infer__jj *j, infer__jv a, infer__jv b);
static int infer__jv_has(infer__jj *j, infer__jv box, infer__jv x); /* x in box */
static const char *infer__jv_type(infer__jv v);                     /* Python's name of the type */
static int infer__jv_is_number(infer__jv v);                        /* BOOL, INT, FLOAT */
static double infer__jv_number(infer__jv v);
/* 0 = finite, 1 = infinite, 2 = NaN; by bits, so that -ffast-math cannot remove it. */
static int infer__double_special(double x);
static double infer__double_make(int special); /* +infinity (1) or NaN (2) */
static int infer__jv_given(infer__jv v); /* an argument: was it given? */
static int infer__jv_is(infer__jv v, const char *text); /* a string equal to text */

static void infer__jlist_add(infer__jj *j, infer__jlist *l, infer__jv v);
static infer__jv *infer__jdict_find(infer__jj *j, const infer__jdict *d, infer__jv key);
static void infer__jdict_set(infer__jj *j, infer__jdict *d, infer__jv key, infer__jv v);
static infer__jv *infer__jdict_name(infer__jj *j, const infer__jdict *d, const char *s, size_t n);
/* Something that can be gone through as a list (list, tuple, string, dict, ...). NULL and an error when it cannot. An
 * iterator is used up. */
static infer__jlist *infer__jv_items(infer__jj *j, infer__jv v);

/* ---- characters (jinja_text.c) -------------------------------------------------------------------------- */

static int infer__jinja_space(uint32_t cp); /* Python's str.isspace */
static size_t infer__jinja_count(const char *s, size_t n); /* characters */
static size_t infer__jinja_offset(const char *s, size_t n, size_t index); /* byte of character `index`, at most n */

/* ---- evaluation (jinja_eval.c, jinja_run.c) ------------------------------------------------------------- */

static infer__jv infer__jj_eval(infer__jj *j, infer__jscope *scope, const infer__jnode *e);
static infer__jv infer__jj_call(infer__jj *j, infer__jscope *scope, infer__jv callee, infer__jargs *args);
static infer__jv infer__jj_run_function(infer__jj *j, const infer__jfunction *fn, infer__jv self,
                                        const infer__jargs *args, infer__jscope *scope);
static infer__jv infer__jj_binary(infer__jj *j, int op, infer__jv a, infer__jv b);
static infer__jv infer__jj_attr(infer__jj *j, infer__jv object, const char *s, size_t n);
static infer__jv infer__jj_item(infer__jj *j, infer__jv object, infer__jv index);
static void infer__jj_exec(infer__jj *j, infer__jscope *scope, const infer__jnode *s);
static infer__jv infer__jj_call_macro(infer__jj *j, const infer__jmacro *m, const infer__jargs *args);
static infer__jv infer__jj_call_loop(infer__jj *j, infer__jloop *l, infer__jv source);
static infer__jv infer__jloop_attr(infer__jj *j, infer__jloop *l, const char *s, size_t n);
static infer__jscope *infer__jscope_new(infer__jj *j, infer__jscope *parent);
static void infer__jscope_set(infer__jj *j, infer__jscope *scope, const char *s, size_t n, infer__jv v);

/* ---- what later parts give to earlier ones --------------------------------------------------------------- */

static infer__jv infer__jv_percent(infer__jj *j, infer__jv format, infer__jv args); /* format % args */
static infer__jv infer__jv_escape(infer__jj *j, infer__jv v);                       /* for HTML */
static infer__jv infer__jj_repeat(infer__jj *j, infer__jv v, int64_t times);        /* v * times */
static infer__jlist *infer__jlist_sorted_keys(infer__jj *j, const infer__jdict *d);
static infer__jv infer__jstr_format(infer__jj *j, const infer__jcall *c);

/* ---- tables --------------------------------------------------------------------------------------------- */

/* NULL when there is none. */
static const infer__jfunction *infer__jinja_filter(const char *s, size_t n);
static const infer__jfunction *infer__jinja_test(const char *s, size_t n);
static const infer__jfunction *infer__jinja_global(const char *s, size_t n);
static const infer__jfunction *infer__jinja_method(int kind, const char *s, size_t n);
static const infer__jfunction *infer__jfunction_find(const infer__jfunction *table, size_t n_table, const char *s,
                                                     size_t n);
#endif
