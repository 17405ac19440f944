/* grammar.h: shared by the parts of the grammar engine: syntax tree, automaton, states, masks.
 *
 * Flow:  GBNF text -> tree (gbnf.c) -> routines of byte automata that call each other (grammar_build.c) -> states, made
 *        when a text reaches them (grammar_state.c) -> the tokens that a state allows (grammar_mask.c). grammar.c is
 *        the interface of it all, with matchers and lazy grammars.
 * Start: infer__grammar_open in text.h, then struct infer__automaton.
 */
#ifndef INFER__GRAMMAR_H
#define INFER__GRAMMAR_H

#include "../text.h"

enum {
    INFER__GRAMMAR_TEXT = 16 << 20,   /* bytes of a grammar's text */
    INFER__GRAMMAR_DEPTH = 250,       /* parentheses inside each other */
    INFER__GRAMMAR_REPEAT = 1000000,  /* the largest number in {m,n} */
    INFER__GRAMMAR_NODES = 4000000,   /* of tree and automaton */
    INFER__GRAMMAR_USUAL = 64 << 20,  /* bytes of both for any text, beside INFER__GRAMMAR_TIMES those of the text */
    INFER__GRAMMAR_TIMES = 10,
    INFER__STATES_MOST = 64 << 20,    /* bytes of states: more is an error */
    INFER__STATES_USUAL = 32 << 20,   /* those not in use are forgotten when there are more */
    INFER__LOCALS_MOST = 32 << 20,    /* bytes of local masks: all are forgotten when there are more */
    INFER__MASKS_MOST = 16 << 20      /* bytes of whole masks that are kept */
};
/* Items looked at in one call: more is an error. Half a second. */
#ifndef INFER__GRAMMAR_WORK
#  define INFER__GRAMMAR_WORK 20000000
#endif
#define INFER__UNLIMITED UINT32_MAX
/* Tokens that stand for their text; control tokens do not. */
#define INFER__GRAMMAR_TEXTS (INFER_TOKEN_NORMAL | INFER_TOKEN_USER | INFER_TOKEN_BYTE)

/* Room for n elements of an array that doubles: 1, or 0 without memory. */
static int infer__room(infer__mem *mem, void *array, uint32_t *cap, uint64_t n, size_t size);

/* ---- gbnf.c: the syntax tree -------------------------------------------------------------------------- */

enum { INFER__GX_EMPTY, INFER__GX_CHARS, INFER__GX_SEQ, INFER__GX_ALT, INFER__GX_REPEAT, INFER__GX_RULE,
       INFER__GX_TOKEN, INFER__GX_NOT_TOKEN };
typedef struct infer__gexpr {
    int32_t kind;                /* INFER__GX_* */
    int32_t first, next, parent; /* first part; next part of the parent; -1 = none */
    uint32_t a, b;               /* CHARS: ranges a .. a+b-1; REPEAT: a to b times; RULE: a = index; TOKEN: a = id */
    int32_t rule;                /* the rule it stands in */
    uint32_t at;                 /* where it begins in the text */
} infer__gexpr;
typedef struct infer__grange { uint32_t lo, hi; } infer__grange; /* code points */
typedef struct infer__grule {
    const char *name; /* a view of the text */
    uint32_t n_name, at;
    int32_t body;     /* -1: used and not defined (yet) */
    int32_t next;     /* in its bucket of the table of names */
} infer__grule;
typedef struct infer__gbnf {
    infer__mem *mem;
    const infer__tokenizer *tokenizer; /* for <token>; may be NULL */
    const char *s;
    size_t n, at;
    infer__gexpr *x;
    infer__grange *ranges;
    infer__grule *rules;
    int32_t *buckets; /* of names: power of two */
    uint32_t n_x, cap_x, n_ranges, cap_ranges, n_rules, cap_rules, n_buckets;
    int32_t root, depth;
    infer__watch *watch; /* of the compiling; may be NULL */
    infer_error *err;
    infer_result r; /* the first error */
} infer__gbnf;
/* Parse and check: every rule exists and derives some finite text, none begins with itself. */
static infer_result infer__gbnf_parse(infer__gbnf *g, infer__mem *mem, infer__watch *watch,
                                      const infer__tokenizer *tokenizer, const char *text, size_t n,
                                      const char *root, infer_error *err);
static void infer__gbnf_free(infer__gbnf *g);
static int infer__gbnf_work(infer__gbnf *g); /* one more expression or node: 0 = the call has to end */
static infer_result infer__gbnf_error(infer__gbnf *g, size_t at, const char *format, ...) INFER__PRINTF(3, 4);
/* For every expression: 1 = it derives the empty text (empty = 1), or some finite text (empty = 0). NULL = no
 * memory. */
static uint8_t *infer__gbnf_derives(const infer__gbnf *g, int empty);

/* ---- grammar_build.c: the automaton --------------------------------------------------------------------- */

/* A node of a routine's automaton. Routines are rules, and the bodies of counted repetitions. */
enum { INFER__GN_END, INFER__GN_SPLIT, INFER__GN_BYTES, INFER__GN_CALL, INFER__GN_LOOP, INFER__GN_TOKEN,
       INFER__GN_NOT_TOKEN };
typedef struct infer__gnode {
    int32_t kind; /* INFER__GN_* */
    int32_t next; /* node after it; -1 at END */
    uint32_t arg; /* SPLIT: the other next node; BYTES: set; CALL: routine; LOOP: loop; TOKEN: id */
} infer__gnode;
typedef struct infer__groutine {
    int32_t start;
    int32_t nullable; /* it derives the empty text */
    int32_t order;    /* a routine that another one can begin with has the higher number */
} infer__groutine;
typedef struct infer__gloop { uint32_t routine, least, most; } infer__gloop; /* most may be INFER__UNLIMITED */
typedef struct infer__gset { uint32_t bits[8]; } infer__gset;
typedef struct infer__automaton {
    infer__mem *mem;
    infer__gnode *nodes;
    infer__groutine *routines; /* [0] is the root */
    int32_t *by_order;         /* order -> routine */
    infer__gloop *loops;
    infer__gset *sets;
    uint32_t n_nodes, cap_nodes, n_routines, cap_routines, n_loops, cap_loops, n_sets, cap_sets;
    uint8_t class_of[256]; /* bytes that no set distinguishes have one class */
    uint8_t byte_of[256];  /* a byte of each class */
    int32_t n_classes;
    int32_t has_tokens;    /* some node is TOKEN or NOT_TOKEN */
} infer__automaton;
static infer_result infer__automaton_build(infer__automaton *a, infer__gbnf *g, infer_error *err);
static void infer__automaton_free(infer__automaton *a);
INFER__INLINE int infer__gset_has(const infer__gset *s, int byte) { return s->bits[byte >> 5] >> (byte & 31) & 1; }

/* ---- grammar_state.c: states ---------------------------------------------------------------------------- */

/* The return points of all callers of a routine at one position of the text: a node of a graph-structured stack
 * (Tomita: An efficient augmented-context-free parsing algorithm, 1987). Equal frames are one: an index names it. */
typedef struct infer__gentry {
    int32_t node;   /* where it goes on; of a repetition's body: the LOOP node; INFER__AT_* */
    uint32_t count; /* of a repetition's body: INFER__COUNTS and the repetitions done; at the cut: those done before */
    int32_t parent; /* frame of the routine that this node is in; -1 */
} infer__gentry;
enum { INFER__AT_END = -1,    /* the text may end here */
       INFER__AT_CUT = -2 };  /* what comes after is not known */
#define INFER__COUNTS 0x40000000u    /* bit of count: it is the body of a repetition */
#define INFER__FROM_HERE 0x80000000u /* with it: how many repetitions were done before is not known */
INFER__INLINE uint32_t infer__gentry_count(const infer__gentry *e) {
    return e->count & ~(INFER__COUNTS | INFER__FROM_HERE);
}
/* Repetitions counted "from here" that items or frames have seen. In one: begun, the running one too (least). After
 * it: done before the loop was left, least and most. INFER__UNLIMITED and 0 in `least` and `most` = no item is
 * there. */
struct infer__gneed { uint32_t in, least, most; };
typedef struct infer__gframe {
    uint32_t first, n, hash;
    struct infer__gneed need;
    int32_t returned; /* the state when its routine ends; -1 = not asked yet */
} infer__gframe;
typedef struct infer__gitem { int32_t node, frame; } infer__gitem;
/* The set of positions of the automaton after some text. State 0 is the dead one. */
typedef struct infer__gstate {
    uint32_t first, n, hash; /* items, sorted by frame, node; their nodes are BYTES and tokens */
    struct infer__gneed need; /* of its items */
    uint32_t cut, cut_most;  /* INFER__UNLIMITED, or: the cut is passed after this many repetitions, least and most */
    int32_t complete;        /* the text may end here */
    int32_t local;           /* its local mask, -1 = none yet */
    int32_t mask;            /* its mask, -1 = none */
} infer__gstate;

typedef struct infer__gtable { int32_t *slots; uint32_t mask, n; } infer__gtable; /* open addressing, -1 = empty */
typedef struct infer__gpending { int32_t next; infer__gentry e; } infer__gpending;
typedef struct infer__states {
    infer__mem *mem;
    const infer__automaton *a;
    infer__gframe *frames;
    infer__gentry *entries;
    infer__gstate *states;
    infer__gitem *items;
    int32_t *steps; /* state x class -> state, -1 = not known yet */
    uint32_t n_frames, cap_frames, n_entries, cap_entries, n_states, cap_states, n_items, cap_items, cap_steps;
    infer__gtable frame_table, state_table;
    int32_t end_frame, start; /* the root's frame; the first state */
    /* work of one state */
    infer__gitem *todo, *found;
    uint64_t *seen;        /* items that were put, open addressing; there when seen_stamp is stamp */
    uint32_t *seen_stamp, stamp, n_seen, seen_mask;
    infer__gpending *pending;
    int32_t *pending_of;   /* per routine: its first pending entry, -1 = none */
    int32_t *heap;         /* orders of routines with pending entries, least on top */
    infer__gentry *merged;
    uint32_t n_todo, cap_todo, n_found, cap_found, n_pending, cap_pending, n_heap, cap_merged;
    uint32_t cut, cut_most;
    int32_t complete;
    uint64_t work, work_limit; /* items and entries touched */
    uint64_t trim_at;          /* bytes: more are trimmed when the next call begins */
    infer_result failed;
} infer__states;
static infer_result infer__states_open(infer__states *s, infer__mem *mem, const infer__automaton *a, infer_error *err);
static void infer__states_free(infer__states *s);
/* The state after one more byte; 0 = none, < 0: an infer_result. */
static int32_t infer__states_step(infer__states *s, int32_t state, int byte);
/* The state after a token: its bytes, or a terminal that names it. end: it ends a reply, so !<..> does not mean it. */
static int32_t infer__states_token(infer__states *s, int32_t state, int32_t token, int32_t end, const char *bytes,
                                    size_t n);
/* The state after the routines that return through a frame. */
static int32_t infer__states_return(infer__states *s, int32_t frame);
/* A state of these items, sorted here. */
static int32_t infer__states_of(infer__states *s, infer__gitem *items, uint32_t n);
static int32_t infer__states_frame(infer__states *s, infer__gentry *entries, uint32_t n);
static uint64_t infer__states_bytes(const infer__states *s);
/* Forget all states but those listed, which get new numbers (in place), and the first. */
static infer_result infer__states_collect(infer__states *s, int32_t *const *keep, uint32_t n_keep);

/* ---- grammar_mask.c: which tokens a state allows ----------------------------------------------------------- */

typedef struct infer__gword { const char *s; uint32_t n; int32_t token; uint32_t need; } infer__gword;
typedef struct infer__gtrie_node {
    uint32_t end;  /* the node after its subtree */
    uint32_t word; /* the first word of the subtree; those before the next node's end here */
    uint32_t key;  /* depth << 8 | byte */
} infer__gtrie_node;
typedef struct infer__gtrie {
    infer__mem *mem;
    infer__gtrie_node *nodes; /* preorder; [0] is the root, one more at the end */
    infer__gword *words;      /* sorted by text */
    uint32_t n_nodes, n_words, depth;
} infer__gtrie;
/* The tokens of a vocabulary as a trie of their bytes. */
typedef struct infer__spellings {
    infer__mem *mem;
    infer__gtrie trie;
    char *text;
    uint32_t *ends; /* one bit a token: ends a reply */
    int32_t n;      /* tokens */
} infer__spellings;
static infer_result infer__spellings_open(infer__spellings *x, infer__mem *mem, const infer__tokenizer *t,
                                        infer_error *err);
static void infer__spellings_close(infer__spellings *x);

/* A token, or a subtree of the vocabulary's trie, and the repetitions that lead to it. */
typedef struct infer__gplace { uint32_t need, index; } infer__gplace;
/* What a state allows, whatever follows the cut. */
typedef struct infer__glocal {
    int32_t state;      /* where it begins */
    int32_t loose;      /* 1: too much depends on what comes after: not used */
    int32_t vague;      /* 1: some token leaves the loop after different numbers of repetitions */
    uint32_t *bits;     /* allowed when repetitions are unlimited */
    uint32_t *by_need;  /* tokens by need, 1 and more; n_need[k] .. n_need[k + 1] - 1 have k */
    uint32_t *n_need;
    uint32_t max_need;
    infer__gplace *left;     /* tokens of `bits` that are after the loop for certain */
    infer__gplace *subtrees; /* what is left of tokens after the cut: nodes whose subtree it is, */
    infer__gtrie rest;       /* and the others */
    uint32_t n_left, cap_left, n_subtrees, cap_subtrees;
    uint64_t bytes;
} infer__glocal;
typedef struct infer__gmask { int32_t state; uint32_t used; uint32_t *bits; } infer__gmask;
typedef struct infer__masks {
    infer__mem *mem;
    const infer__spellings *lexicon;
    infer__states *states;
    infer__glocal *locals;
    infer__gmask *masks;
    uint32_t *scratch;    /* bits of a mask */
    int32_t *path;        /* of a walk: state by depth */
    infer__gitem *items;  /* of a local state */
    uint32_t cap_items;
    uint32_t n_locals, cap_locals, n_masks, max_masks, clock, words;
    uint64_t local_bytes;
} infer__masks;
static infer_result infer__masks_open(infer__masks *m, infer__mem *mem, const infer__spellings *x, infer__states *s,
                                      infer_error *err);
static void infer__masks_free(infer__masks *m);
/* Drop unused states; those in keep get new numbers. */
static infer_result infer__masks_trim(infer__masks *m, int32_t *const *keep, uint32_t n_keep);
static uint64_t infer__masks_bytes(const infer__masks *m);
/* A bit for each token that `state` allows, those that end a reply when it may end here. NULL: *r has the error. Valid
 * until the next call. */
static const uint32_t *infer__masks_get(infer__masks *m, int32_t state, infer_result *r);

#endif
