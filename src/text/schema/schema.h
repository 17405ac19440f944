/* schema.h: shared by the parts of the converter from JSON Schema to GBNF.
 *
 * Flow:  a value in the output is described by a set of schemas that must all hold. infer__schema_rule gives the rule
 *        of a set (made once per set, so recursion in the schema becomes recursion in the grammar). The set is expanded
 *        (schema_expand.c: $ref, allOf, anyOf, oneOf, not, if) into alternatives, lists of schemas without choices;
 *        each alternative becomes an expression per type (schema_string.c, schema_number.c, schema_array.c,
 *        schema_object.c).
 * Rules: never weaker than the schema: what cannot be expressed is an error that names the location. Every loop whose
 *        length a schema controls calls infer__schema_step. After the first failure c->r is set, functions return
 *        something harmless, and it is checked once, at the end.
 * Start: infer__schema_gbnf in schema.c.
 */
#ifndef INFER__SCHEMA_H
#define INFER__SCHEMA_H

#include "../text.h"

enum {
    INFER__SCHEMA_BYTES = 8 << 20,    /* of a schema */
    INFER__SCHEMA_OUT = 4 << 20,      /* of a grammar */
    INFER__SCHEMA_STEPS = 20000000,   /* of work */
    INFER__SCHEMA_MEMORY = 64 << 20,  /* of expressions, besides 8 bytes for each of the schema */
    INFER__SCHEMA_NODES = 1000000,    /* of expressions */
    INFER__SCHEMA_RULES = 50000,
    INFER__SCHEMA_COUNT = 100000,       /* the most that a repetition {m,n} counts to */
    INFER__SCHEMA_ALTERNATIVES = 500, /* of one set of schemas */
    INFER__SCHEMA_DEPTH = 64          /* of what refers to each other without content, of groups in a pattern */
};

/* ---- schema_grammar.c: expressions of a grammar, also of regular expressions ------------------------------- */

typedef struct infer__range { uint32_t lo, hi; } infer__range; /* of code points, both included */

enum {
    INFER__SX_NEVER,
    INFER__SX_EMPTY,
    INFER__SX_LIT,
    INFER__SX_CLASS,
    INFER__SX_SEQ,
    INFER__SX_ALT,
    INFER__SX_REP,
    INFER__SX_REF,
    INFER__SX_SHARED,
    INFER__SX_TOKEN,
    INFER__SX_START,
    INFER__SX_END
};                                /* the last two in patterns */
#define INFER__SX_MANY UINT32_MAX /* max of a repetition without end */

typedef struct infer__sx infer__sx;
struct infer__sx {
    int32_t kind;
    uint32_t n;        /* bytes, ranges, items; of REF and SHARED the rule's number; the token */
    uint32_t min, max; /* REP */
    union {
        const char *s;
        const infer__range *ranges; /* sorted, apart from each other */
        const infer__sx *const *items; /* REP: one */
    } v;
};

/* Rules that every grammar may use, written as GBNF in schema_grammar.c. */
enum { INFER__SX_WS, INFER__SX_COLON, INFER__SX_CHAR, INFER__SX_STRING, INFER__SX_INTEGER, INFER__SX_NUMBER,
       INFER__SX_BOOLEAN, INFER__SX_ARRAY, INFER__SX_OBJECT, INFER__SX_VALUE, INFER__SX_SHARED_COUNT };

/* How values are written: JSON; JSON without "</" (TAGS) or without '<' (SIGNS), for text between tags; Python
 * literals; like JSON, but with strings as they are between two marks (MARKS). Bits, for the table of shared rules. */
enum { INFER__AS_JSON = 1, INFER__AS_TAGS = 2, INFER__AS_SIGNS = 4, INFER__AS_PYTHON = 8, INFER__AS_MARKS = 16 };

typedef struct infer__sx_rule {
    const infer__sx *body; /* NULL while it is not known */
    uint32_t refs;
    uint8_t live, wanted, done; /* derives a finite text; is referred to; is written */
} infer__sx_rule;

/* ---- the converter ------------------------------------------------------------------------------------------ */

/* Types, so that sets of values can be told apart: a JSON number is INT when it is whole. */
enum { INFER__T_NULL = 1, INFER__T_FALSE = 2, INFER__T_TRUE = 4, INFER__T_INT = 8, INFER__T_FRAC = 16,
       INFER__T_STRING = 32, INFER__T_ARRAY = 64, INFER__T_OBJECT = 128, INFER__T_NUMBER = 24, INFER__T_ALL = 255 };

/* Keywords of schemas that schema_not.c makes. No schema of a user has them: the first byte is no UTF-8. */
#define INFER__KEY_TYPES "\xfftypes"             /* INFER__T_* */
#define INFER__KEY_NOT_PATTERN "\xffnot-pattern" /* a string that does not match */
#define INFER__KEY_NOT_EQUAL "\xffnot-equal"     /* an array of strings: a string that is none of them */

typedef struct infer__schema_set { /* what a rule is made of */
    const infer_json **nodes;
    uintptr_t *key; /* identity: the addresses of the contents, sorted */
    uint32_t n, rule, hash;
} infer__schema_set;

typedef struct infer__schema {
    infer__arena arena;
    infer__mem *mem;
    const infer_json *root;
    infer_error *err;
    infer_result r; /* the first failure */
    infer__watch *watch;             /* may be NULL */
    uint64_t steps, nodes, bytes, max_bytes; /* bytes: of the arena */
    infer__sx_rule *rules;
    uint32_t n_rules, cap_rules;
    infer__schema_set *sets; /* also a queue: those from `next` on have no body yet */
    uint32_t n_sets, cap_sets, next;
    uint32_t *slots, n_slots; /* set -> number in sets + 1, open addressing */
    struct infer__schema_neg *negs;
    struct infer__pattern *patterns; /* parsed */
    uint32_t shared;                 /* bits: which shared rules are used */
    int32_t nested_ids;              /* an $id inside the document: -1 = not looked for */
    int depth;                       /* of proofs that nothing satisfies two schemas */
    const infer_json *typed;         /* items of the enum that was looked at last, */
    uint32_t typed_as;               /* and the types among them */
    int as;                          /* INFER__AS_* */
    const infer__sx *quote;          /* of MARKS */
    uint32_t string;                 /* its rule for any string */
    const char *avoid[8];            /* not NULL: strings are as they are, and have none of these in them */
    struct infer__args *args;        /* not NULL: the object that is being made is the arguments of a call */
} infer__schema;

/* One way to satisfy a set: all of these schemas hold, and the choices in them have been made. */
typedef struct infer__alt {
    const infer_json *const *nodes;
    uint32_t n, types;
    struct infer__alt *next;
} infer__alt;
typedef struct infer__alts {
    infer__alt *first, **last;
    uint32_t n;
    int loose; /* a superset suffices: what is hard to express is omitted, nothing is an error */
} infer__alts;

struct infer__nodes;
/* The arguments of a call: members that the schema names, and others only where it says so itself. */
typedef struct infer__args {
    const infer__sx *open, *comma, *close; /* around the members and between them */
    /* One member, whose value satisfies the schemas of list; NULL = as JSON has it, and others may follow. */
    const infer__sx *(*member)(struct infer__args *args, infer__schema *c, const infer_json *name,
                               const struct infer__nodes *list);
    void *user;
} infer__args;

/* Remember the first failure. `where` is the schema or a value in it. */
static void infer__schema_fail(infer__schema *c, const infer_json *where, infer_result r, const char *what);
static void infer__schema_no(infer__schema *c, const infer_json *where, const char *what); /* not supported */
static void infer__schema_no_memory(infer__schema *c);
static int infer__schema_step(infer__schema *c, uint64_t n); /* 0 = stop */
static void *infer__schema_get_mem(infer__schema *c, uint64_t n, uint64_t size); /* zeroed; NULL after a failure */
static const infer_json *infer__schema_key(const infer_json *node, const char *name);
static int infer__schema_is(const infer_json *text, const char *s); /* a string and equal */
/* The largest of minX and the smallest of maxX over all schemas of an alternative. */
static void infer__schema_counts(infer__schema *c, const infer__alt *a, const char *min_name, const char *max_name,
                                 uint32_t *min, uint32_t *max);

/* The rule for what satisfies all of n schemas. */
static const infer__sx *infer__schema_rule(infer__schema *c, const infer_json *const *nodes, uint32_t n);
static void infer__schema_begin(infer__schema *c, infer__mem *mem, infer__watch *watch, size_t n, infer_error *err);
/* Write the grammar, unless something failed, and free everything. */
static infer_result infer__schema_end(infer__schema *c, const infer__sx *root, infer__bytes *out);
/* The arguments of a call, an object that satisfies c->root. */
static const infer__sx *infer__schema_args(infer__schema *c, infer__args *args);
static const infer__sx *infer__sx_token(infer__schema *c, infer_token token);
/* A string or a name; true, false or null. */
static const infer__sx *infer__sx_string(infer__schema *c, const char *s, size_t n);
static const char *infer__sx_constant(const infer__schema *c, int32_t kind);

static const infer__sx *infer__sx_text(infer__schema *c, const char *s, size_t n);
static const infer__sx *infer__sx_word(infer__schema *c, const char *s);
static const infer__sx *infer__sx_class(infer__schema *c, const infer__range *ranges, uint32_t n);
static const infer__sx *infer__sx_seq(infer__schema *c, const infer__sx *const *items, uint32_t n);
static const infer__sx *infer__sx_pair(infer__schema *c, const infer__sx *a, const infer__sx *b);
static const infer__sx *infer__sx_alt(infer__schema *c, const infer__sx *const *items, uint32_t n);
static const infer__sx *infer__sx_or(infer__schema *c, const infer__sx *a, const infer__sx *b);
static const infer__sx *infer__sx_rep(infer__schema *c, const infer__sx *x, uint32_t min, uint32_t max);
static const infer__sx *infer__sx_shared(infer__schema *c, int which);
static uint32_t infer__sx_rule_new(infer__schema *c);
/* A call, so that what makes the body is done first: it may move the rules. */
static void infer__sx_define(infer__schema *c, uint32_t rule, const infer__sx *body);
static const infer__sx *infer__sx_ref(infer__schema *c, uint32_t rule);
static void infer__sx_write(infer__schema *c, infer__bytes *out, const infer__sx *root);

/* ---- schema_pattern.c, schema_dfa.c ------------------------------------------------------------------------- */

/* A regular expression (ECMA-262) over the characters of a string's value. NULL after an error. */
static const infer__sx *infer__pattern_parse(infer__schema *c, const infer_json *where, const char *s, size_t n);
/* The same as an expression for the text between the quotes; NULL when anchors stand where only an automaton helps. */
static const infer__sx *infer__pattern_text(infer__schema *c, const infer__sx *pattern);
static const infer__sx *infer__pattern_class(infer__schema *c, const infer__range *ranges, uint32_t n);
static const infer__sx *infer__pattern_exact(infer__schema *c, const char *s, size_t n); /* ^these characters$ */
/* Shortest and longest match in characters. */
static void infer__pattern_length(const infer__sx *p, uint32_t *min, uint32_t *max);

static int infer__pattern_anchored(const infer__sx *p); /* 1 = nothing stands before or after a match */

/* Regular languages that a text must be in (want 1) or outside of (0). */
typedef struct infer__lang { const infer__sx *x; int want, whole; } infer__lang; /* whole: not "contains" */
/* Expression for their intersection; raw = 1: not inside a JSON string. NEVER when there is no such text. */
static const infer__sx *infer__dfa_text(infer__schema *c, const infer_json *where, const infer__lang *l, uint32_t n,
                                        int raw);
static int infer__dfa_matches(infer__schema *c, const infer_json *where, const infer__sx *pattern, const char *s,
                              size_t n);

/* ---- the types ------------------------------------------------------------------------------------------------- */

/* The text between the quotes of strings that satisfy n schemas; extra languages are added. */
static const infer__sx *infer__schema_chars(infer__schema *c, const infer__alt *a, const infer__lang *extra,
                                            uint32_t n);
static const infer__sx *infer__schema_string(infer__schema *c, const infer__alt *a);
static const infer__sx *infer__schema_numbers(infer__schema *c, const infer__alt *a);
static const infer__sx *infer__schema_array(infer__schema *c, const infer__alt *a);
static const infer__sx *infer__schema_object(infer__schema *c, const infer__alt *a);
static const infer__sx *infer__schema_literal(infer__schema *c, const infer_json *v); /* a JSON value */
static const char *infer__schema_format(const infer_json *name); /* its pattern; NULL when not known */

/* What schemas say about member `name` of objects: appended to list (n so far); -1 = it must not be there. */
typedef struct infer__nodes { const infer_json **v; uint32_t n, cap; } infer__nodes;
static void infer__nodes_add(infer__schema *c, infer__nodes *list, const infer_json *node);
static int infer__schema_member(infer__schema *c, const infer__alt *a, const char *name, size_t n, infer__nodes *list);
/* The literals that satisfy n schemas when one of them is an enum or const, at most `most`; UINT32_MAX otherwise. */
static uint32_t infer__schema_values(infer__schema *c, const infer_json *const *nodes, uint32_t n,
                                     const infer_json **out, uint32_t most);
static int infer__schema_item(infer__schema *c, const infer__alt *a, uint64_t i, infer__nodes *list);
static uint32_t infer__schema_prefixes(infer__schema *c, const infer__alt *a);

/* ---- schema_expand.c, schema_not.c, schema_check.c, schema_number.c ---------------------------------------------- */

static void infer__schema_expand(infer__schema *c, const infer_json *const *nodes, uint32_t n, infer__alts *out);
static uint32_t infer__schema_types(infer__schema *c, const infer_json *node);
/* Schemas that are copies of each other share what is in them. */
#define INFER__SCHEMA_SAME(a, b) ((a)->v.items == (b)->v.items)
/* 1 = surely nothing satisfies all of them. */
static int infer__schema_empty(infer__schema *c, const infer_json *const *nodes, uint32_t n);
static const infer_json *infer__schema_target(infer__schema *c, const infer_json *ref);
/* The schema that holds exactly where `node` does not. */
static const infer_json *infer__schema_not(infer__schema *c, const infer_json *node);
static const infer_json *infer__schema_pair(infer__schema *c, const infer_json *at, const char *name,
                                            const infer_json *v);
static const infer_json *infer__schema_of_types(infer__schema *c, const infer_json *at, uint32_t types);
/* Schemas: no member `name`; a member `name`. */
static const infer_json *infer__schema_absent(infer__schema *c, const infer_json *at, const infer_json *name);
static const infer_json *infer__schema_needs(infer__schema *c, const infer_json *at, const infer_json *name);
/* An error when node has a keyword that is not supported and matters for these types; checking = 1: for a literal. */
static void infer__schema_refuse(infer__schema *c, const infer_json *node, uint32_t types, int checking);
static uint32_t infer__schema_type_of(const infer_json *v);
static int infer__schema_constrains(const infer_json *keyword); /* 1 = known and no annotation */
/* 1 when value satisfies the schema, 0 when not; unclear things are errors. */
static int infer__schema_holds(infer__schema *c, const infer_json *node, const infer_json *value, int depth);
static int infer__json_equal(infer__schema *c, const infer_json *a, const infer_json *b, int depth);

/* A decimal number: 0.d1 d2 d3 ... times 10^point, no zeros at either end; zero has no digits. */
typedef struct infer__exact { const char *digits; size_t n; int64_t point; int negative; } infer__exact;
static infer__exact infer__exact_of(infer__schema *c, const infer_json *v);
/* x is within the bounds of node; no number is within those of a. */
static int infer__schema_within(infer__schema *c, const infer_json *node, const infer__exact *x);
static int infer__schema_numbers_empty(infer__schema *c, const infer__alt *a);
static int infer__exact_compare(const infer__exact *a, const infer__exact *b);
static int infer__exact_whole(const infer__exact *a);
static int infer__exact_multiple(infer__schema *c, const infer_json *where, const infer__exact *a,
                                   const infer__exact *m);
#endif
