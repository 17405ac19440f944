/* text.h: the interface of the text layer: vocabulary, text <-> ids, JSON, chat templates and replies, grammars,
 * logits -> id.
 *
 * Rules: no tensors here; a tokenizer is made from metadata alone. Vocabularies, templates, schemas, grammars and
 *        replies are untrusted: time, memory and depth are bounded.
 * Start: infer__tokenize, infer__template_render, infer__chat_reader_feed, infer__matcher_mask; the tables:
 *        PRETOKENIZERS in token_pre.c, STAGES in sampler_chain.c, CHAT_FORMATS in chat_format.c, FILTERS in
 *        jinja_filters.c.
 */
#ifndef INFER__TEXT_H
#define INFER__TEXT_H

#include "../base/base.h"
#include "../format/format.h"

/* ---- unicode.c ----------------------------------------------------------------------------------- */

/* Decode one character of s[0..n), n >= 1: its code point and length in *len. Invalid bytes give 0xFFFD with
 * length 1 and *ok = 0 (ok may be NULL). */
static uint32_t infer__utf8_next(const char *s, size_t n, size_t *len, int *ok);
static size_t infer__utf8_put(uint32_t cp, char out[4]); /* returns the length 1..4 */
/* General category classes, from generated tables (Unicode version in unicode_tables.h). */
enum { INFER__UC_LETTER = 1, INFER__UC_MARK = 2, INFER__UC_NUMBER = 4, INFER__UC_SPACE = 8, INFER__UC_PUNCT = 16,
       INFER__UC_SYMBOL = 32, INFER__UC_UPPER = 64, INFER__UC_LOWER = 128, INFER__UC_OTHER = 256,
       INFER__UC_DIGIT = 512,       /* with NUMBER: Nd */
       INFER__UC_CONNECTOR = 1024,  /* with PUNCT: Pc */
       INFER__UC_NONSPACING = 2048 };/* with MARK: Mn */
static uint32_t infer__uc_class(uint32_t cp);
/* The simple mappings (one character to one); the character itself when it has none. */
static uint32_t infer__uc_lower(uint32_t cp);
static uint32_t infer__uc_upper(uint32_t cp);
/* The first character of the canonical decomposition (NFD): the letter without its accents; of a Hangul syllable the
 * leading consonant. The character itself when it does not decompose. */
static uint32_t infer__uc_base(uint32_t cp);
/* What else of the decomposition is no accent (category Mn): two vowel signs, the other letters of a syllable. 0 to
 * 2. */
static int infer__uc_rest(uint32_t cp, uint32_t to[2]);
/* 1 for control, format, private-use and surrogate code points; unassigned ones are none of these. */
static int infer__uc_control(uint32_t cp);
/* The public infer_utf8_whole. */
static size_t infer__utf8_whole(const char *s, size_t n);

/* ---- json.c (public functions: infer_json_* in api.h) --------------------------------------------- */

struct infer_json {
    int32_t kind;   /* INFER_JSON_* */
    uint32_t at;    /* where it begins in the text, in bytes (0 past 4 GiB): for messages */
    uint64_t n;     /* bytes of s; elements; members */
    const char *s;  /* of a string: its bytes, zero-terminated; of a number: as it was written */
    union {
        int64_t i;                     /* INT; FALSE 0, TRUE 1 */
        double f;                      /* FLOAT */
        const struct infer_json *items; /* ARRAY: n elements; OBJECT: name, value, name, value: 2 n of them */
    } v;
};
enum {
    INFER__JSON_DEPTH = 256,
    INFER__JSON_INDENT = 64,
    INFER__JSON_VALUE = 128,      /* bytes that reading a value takes at most, besides its text */
    INFER__JSON_USUAL = 64 << 20, /* bytes of memory for any text, beside INFER__JSON_TIMES those of the text */
    INFER__JSON_TIMES = 40,       /* a vocabulary of short tokens without spaces has a value in each 3 bytes */
    INFER__JSON_OUT = 256 << 20
}; /* the last: bytes of infer_json_write */
/* Parse text[0..n) into an arena; lives as long as that. On failure what was put there stays there. */
static infer_result infer__json_parse(const infer_json **out, infer__arena *arena, const char *text, size_t n,
                                      infer_error *err);
/* Append v as text. indent < 0: one line with ", " and ": " (Python's json.dumps, ensure_ascii off). */
static void infer__json_write(infer__bytes *out, const infer_json *v, int32_t indent);
/* A text as a JSON string, with its quotes. Bytes that are not UTF-8 become U+FFFD each. */
static void infer__json_quote(infer__bytes *out, const char *s, size_t n);
static const infer_json *infer__json_get(const infer_json *v, const char *name, size_t n);
/* Line and column (in characters, both from 1) of byte `at` of a text. */
static void infer__text_place(const char *text, size_t n, size_t at, uint32_t *line, uint32_t *column);

/* ---- trie.c -------------------------------------------------------------------------------------- */

enum { INFER__TRIE_LONGEST = 1024 }; /* bytes of a text; bounds every walk, and how deep sorting recurses */

/* Node i has the children children[i] .. children[i + 1] - 1, distinguished by the first byte of their labels; the
 * other bytes of its label are labels[label .. label of node i + 1). Nodes are numbered level by level, 0 is the
 * root. */
typedef struct infer__trie_node {
    int32_t value; /* number of the text that ends here, -1 = none */
    uint32_t children, label;
} infer__trie_node;
typedef struct infer__trie {
    infer__trie_node *nodes; /* n + 1: the last one only ends the one before */
    uint8_t *first;          /* n */
    char *labels;
    uint32_t n;
} infer__trie;
/* Of texts[0..n): those that are empty or longer than INFER__TRIE_LONGEST are left out; of equal ones the last
 * counts. */
static infer_result infer__trie_open(infer__trie *t, infer__mem *mem, const infer__str *texts, int32_t n,
                                     infer_error *err);
/* The same in slices. texts must stay valid until it has ended; infer__trie_end frees the scratch. */
struct infer__trie_key;
struct infer__trie_text;
struct infer__trie_range;
typedef struct infer__trie_level { /* of sorting: texts from .. to - 1, equal up to `depth` */
    uint32_t from, to, at;
    int32_t phase, shift;
} infer__trie_level;
enum { INFER__TRIE_LEVELS = INFER__TRIE_LONGEST / 7 + 2 };
typedef struct infer__trie_opening {
    const infer__str *texts;
    int32_t n, stage;
    struct infer__trie_key *keys;    /* 2 (n + 1): the second half is spare */
    struct infer__trie_text *sorted;
    struct infer__trie_range *ranges;
    char *pool;
    uint64_t bytes;                  /* of all texts; then of all labels */
    uint32_t m, i, out, at;          /* texts in the trie; the one that comes next; distinct ones, and their bytes */
    uint32_t count[257];
    int32_t depth, swapped;          /* the level that is sorted; its keys are in the spare half */
    infer__trie_level levels[INFER__TRIE_LEVELS];
} infer__trie_opening;
static infer_result infer__trie_begin(infer__trie_opening *x, infer__trie *t, infer__mem *mem, const infer__str *texts,
                                      int32_t n, infer_error *err);
static infer_result infer__trie_step(infer__trie_opening *x, infer__trie *t, infer__mem *mem, infer__budget *budget,
                                     infer_error *err);
static void infer__trie_end(infer__trie_opening *x, infer__mem *mem);
static void infer__trie_close(infer__trie *t, infer__mem *mem);
/* All texts that s[0..n) begins with, the shortest first. Start with at = node = 0. */
typedef struct infer__trie_walk {
    const char *s;
    size_t n, at; /* at = length of the text found last */
    uint32_t node;
} infer__trie_walk;
static int32_t infer__trie_next(const infer__trie *t, infer__trie_walk *w); /* its number, -1 = no more */
/* The longest of them: its number and length; -1 and 0 = none. */
static int32_t infer__trie_longest(const infer__trie *t, const char *s, size_t n, size_t *len);
/* ---- jinja_*.c: chat templates (left out by INFER_NO_CHAT) ------------------------------------------ */

typedef struct infer__tokenizer infer__tokenizer; /* tokenizer.c */

#if !defined(INFER_NO_CHAT)
typedef struct infer__template infer__template; /* parsed; immutable, threads may share it */

typedef struct infer__render_options {
    const infer_json *trusted; /* object of variables whose text counts as the template's (bos_token, ...); or NULL */
    const char *now;           /* "YYYY-MM-DD HH:MM:SS" for strftime_now; NULL = the local clock */
    uint64_t max_steps, max_output, max_memory; /* 0 = INFER__TEMPLATE_STEPS and so on; the last two in bytes */
    infer__watch *watch;       /* NULL = INFER__WATCH_SECONDS */
} infer__render_options;
enum { INFER__TEMPLATE_TEXT = 1 << 20 }; /* bytes of a template: its tree takes up to 70 times as much */
#define INFER__TEMPLATE_STEPS UINT64_C(20000000)
#define INFER__TEMPLATE_OUTPUT (UINT64_C(64) << 20)
/* max_memory without one: this, ten bytes for each of the template, and 32 for each of the variables (real templates
 * take up to 25), but never more than 1 GiB. */
#define INFER__TEMPLATE_MEMORY (UINT64_C(64) << 20)
#define INFER__TEMPLATE_MEMORY_MOST (UINT64_C(1) << 30)

/* A rendered text; the segments follow one another, cover it and are never empty. */
typedef struct infer__rendered {
    infer__mem *mem;
    char *text; /* zero-terminated */
    size_t n;
    infer_segment *segments;
    size_t n_segments;
    uint64_t steps, used; /* what it took, also when it failed; used in bytes */
} infer__rendered;

/* Parse a template; text need not live on. Errors: FORMAT (the message has line and column), UNSUPPORTED, MEMORY. */
static infer_result infer__template_open(infer__template **out, infer__mem *mem, const char *text, size_t n,
                                         infer_error *err);
static void infer__template_close(infer__template *t); /* NULL is accepted */
/* 1 when the template reads a variable of this name. */
static int infer__template_uses(const infer__template *t, const char *name);
/* Render with the members of context (an object; NULL = none). options may be NULL. What the template raises by
 * raise_exception is INFER_ERR_STATE with the raised text as the message; other errors have line and column. */
static infer_result infer__template_render(const infer__template *t, const infer_json *context,
                                           const infer__render_options *options, infer__rendered *out,
                                           infer_error *err);
/* The same with other memory than the template's: for threads that share one. */
static infer_result infer__template_render_with(const infer__template *t, infer__mem *mem, const infer_json *context,
                                                const infer__render_options *options, infer__rendered *out,
                                                infer_error *err);
static void infer__rendered_free(infer__rendered *r);

/* ---- chat_*.c: replies (left out by INFER_NO_CHAT) ---------------------------------------------------- */

typedef struct infer__chat_reader infer__chat_reader;
typedef struct infer__chat_options {
    const char *format;     /* NULL = recognised in text[0..n), a template */
    const char *text;
    size_t n;
    const char *prompt;     /* what the template wrote before the reply, n_prompt bytes */
    size_t n_prompt;
    const char *tools;      /* JSON, zero-terminated; or NULL */
    int64_t call_number;    /* of the first made-up id */
    infer_chat_fn fn;
    void *user;
} infer__chat_options;
/* See infer_chat_parser_create and its siblings in api.h. */
static infer_result infer__chat_reader_open(infer__chat_reader **out, infer__mem *mem, const infer__chat_options *o,
                                            infer_error *err);
static void infer__chat_reader_close(infer__chat_reader *p);
/* The text that ends the reasoning which the reply is in the middle of; NULL = it is not. */
static const char *infer__chat_reader_thinks(const infer__chat_reader *p);
/* Text that the reply begins with and the caller knows: read, but not shown. */
static infer_result infer__chat_reader_begin(infer__chat_reader *p, const char *s, size_t n);
static infer_result infer__chat_reader_feed(infer__chat_reader *p, const char *text, size_t n);
static infer_result infer__chat_reader_finish(infer__chat_reader *p);
static const infer_chat_reply *infer__chat_reader_reply(infer__chat_reader *p);
static const char *infer__chat_reader_format(const infer__chat_reader *p);

/* The grammar in GBNF of replies that call tools; see infer_chat_grammar. A reader that has read nothing yet. */
typedef struct infer__calls_wanted {
    const infer__tokenizer *tokenizer; /* or NULL */
    const char *tool;       /* NULL = any of the reader's */
    int32_t most;           /* calls */
    int32_t no_reasoning;   /* 1 = none that the prompt has not opened */
    const char *text;       /* of the template, n bytes */
    size_t n;
    infer__watch *watch;    /* may be NULL */
} infer__calls_wanted;
#if !defined(INFER_NO_GRAMMAR)
static infer_result infer__chat_grammar(infer__bytes *out, const infer__chat_reader *p, infer__mem *mem,
                                        const infer__calls_wanted *want, infer_error *err);
#endif

/* Messages and tools of structs as JSON, after what is in out. Errors: ARGUMENT, FORMAT (arguments, parameters),
 * UNSUPPORTED (a part), MEMORY. */
static infer_result infer__chat_messages_json(infer__bytes *out, const infer_chat_message *messages, size_t n,
                                              infer_error *err);
static infer_result infer__chat_tools_json(infer__bytes *out, const infer_chat_tool *tools, size_t n, infer_error *err);
/* A conversation for a template: see infer_chat_params. */
typedef struct infer__chat_request {
    const infer__template *t;
    const char *text;          /* of the template, n bytes */
    size_t n;
    const char *messages, *tools, *variables; /* JSON, zero-terminated; tools and variables may be NULL */
    int32_t thinking, no_generation_prompt;
    int32_t media; /* 1 = pictures and sounds in messages become INFER_MEDIA_MARKER; 0 = they stay as they are */
    const infer_json *trusted; /* variables whose text counts as the template's; or NULL */
    const char *now;
    infer__watch *watch;       /* may be NULL */
} infer__chat_request;
/* Render it. *n_calls: tool calls that the messages hold. Errors: ARGUMENT and FORMAT (the caller's JSON, with its name
 * in front), UNSUPPORTED (thinking), and those of infer__template_render. */
static infer_result infer__chat_prompt(infer__mem *mem, const infer__chat_request *rq, infer__rendered *out,
                                       int64_t *n_calls, infer_error *err);
/* Pictures and sounds in a message, by parts and markers. */
static int32_t infer__chat_media_of(const infer_json *message);
/* Tokens that only the template may write, for infer__tokenize_segments: a bit per token, to be freed. */
static infer_result infer__chat_structure(uint8_t **out, infer__mem *mem, const infer__tokenizer *tokenizer,
                                          const infer__template *t, const infer__rendered *text, infer_error *err);
#endif
#if !defined(INFER_NO_GRAMMAR)
/* ---- schema.c ------------------------------------------------------------------------------------ */

/* A JSON Schema as a grammar in GBNF (rule "root"), appended to out: what the grammar accepts satisfies the schema. {}
 * or true: any JSON. INFER_ERR_FORMAT: no JSON, no schema, or nothing satisfies it; INFER_ERR_UNSUPPORTED: a keyword
 * that is not supported there, or a schema too large; messages have the place as a JSON pointer. On failure out is as
 * it was. watch may be NULL. */
static infer_result infer__schema_gbnf(infer__bytes *out, infer__mem *mem, infer__watch *watch, const char *schema,
                                       size_t n, infer_error *err);
#endif

/* ---- vocab.c ------------------------------------------------------------------------------------- */

/* Kinds: tokenizer.ggml.model. Those from WPM on are looked up in a trie (infer__lexicon). */
enum { INFER__VOCAB_NONE, INFER__VOCAB_OTHER, INFER__VOCAB_SPM, INFER__VOCAB_BPE, INFER__VOCAB_WPM, INFER__VOCAB_UGM,
       INFER__VOCAB_RWKV, INFER__VOCAB_PLAMO2 };
/* INFER__TOKENIZER(name): 1 when files with this tokenizer.ggml.model can be tokenized in this build. */
#if defined(INFER_ONLY_TOKENIZERS)
#  define INFER__TOKENIZER(name) (0 INFER__IF(INFER_TOKENIZER_##name, + 1))
#else
#  define INFER__TOKENIZER(name) 1
#endif
enum { /* a bit per kind that some of them have */
    INFER__VOCAB_KINDS = INFER__TOKENIZER(llama) << INFER__VOCAB_SPM |
                         (INFER__TOKENIZER(gpt2) | INFER__TOKENIZER(gemma4) | INFER__TOKENIZER(whitespace))
                             << INFER__VOCAB_BPE |
                         INFER__TOKENIZER(bert) << INFER__VOCAB_WPM | INFER__TOKENIZER(t5) << INFER__VOCAB_UGM |
                         INFER__TOKENIZER(rwkv) << INFER__VOCAB_RWKV | INFER__TOKENIZER(plamo2) << INFER__VOCAB_PLAMO2
};
enum { INFER__FORM_BYTES, INFER__FORM_MARKED, INFER__FORM_UTF8 }; /* GPT-2's alphabet; UTF-8, spaces as U+2581; UTF-8 */
#define INFER__SPACE_MARK "\xe2\x96\x81" /* U+2581: a space in SentencePiece vocabularies */
enum {
    INFER__TOKEN_RSTRIP = 128, /* with INFER_TOKEN_*: matched in a text, it takes the white space after it too */
    /* plain text never becomes these by spelling them */
    INFER__TOKEN_NEVER_TEXT = INFER_TOKEN_CONTROL | INFER_TOKEN_UNKNOWN | INFER_TOKEN_BYTE
};

/* The tokens of a file. Texts are views of the file's bytes. */
typedef struct infer__vocab {
    infer__mem *mem;
    const infer__str *text;     /* n texts */
    int32_t n, kind;            /* INFER__VOCAB_* */
    uint64_t longest;           /* bytes of the longest text */
    uint8_t *flags;             /* INFER_TOKEN_*, INFER__TOKEN_RSTRIP */
    uint32_t *order;            /* SPM: by score, the lower the better */
    const infer__kv *scores;    /* UGM, PLaMo-2: n numbers, or NULL */
    uint32_t *slots; /* text -> token, open addressing: the token, above it bits of the hash; all ones = empty */
    uint32_t n_slots, token_bits;
    int32_t byte_token[256];    /* token of a single byte, -1 = none */
    uint8_t joins[256];         /* SPM, BPE with U+2581: 1 = this byte stands before a space inside some token */
    int32_t *marked, n_marked;  /* control, unknown and user-defined tokens, normal ones in brackets; sorted by text */
    int32_t marked_from[257];   /* those whose text begins with byte b: marked[marked_from[b] .. marked_from[b + 1]) */
    uint8_t marked_kinds[256];  /* INFER_TOKEN_* of them together */
    infer_token special[INFER_SPECIAL_COUNT], lstrip; /* -1 = none; lstrip takes the white space before it too */
    infer_token unknown;        /* what text becomes where it has no token; -1 = nothing */
    int form;                   /* BPE: how tokens are spelled, INFER__FORM_* */
    int add_bos, add_eos, add_sep; /* 0, 1; -1 = the file does not say. add_sep: WPM, a SEP ends the text */
    int add_space_prefix, remove_extra_whitespaces; /* 0, 1 */
    int lowercase, strip_accents; /* WPM */
} infer__vocab;
/* 1 when v is of this kind: known to be 0 for kinds that no tokenizer of this build has. */
INFER__FOLDED int infer__vocab_kind(const infer__vocab *v, int kind) {
    return (INFER__VOCAB_KINDS >> kind & 1) && v->kind == kind;
}
INFER__FOLDED int infer__vocab_has_lexicon(const infer__vocab *v) {
    return INFER__VOCAB_KINDS >> INFER__VOCAB_WPM && v->kind >= INFER__VOCAB_WPM;
}
/* How far opening one is. */
typedef struct infer__vocab_opening {
    const struct infer__vocab_model *model;
    int32_t stage, i;         /* the loop, and its element that comes next */
    int32_t count, too_long;  /* marked tokens; special ones that are not looked for */
} infer__vocab_opening;
static infer_result infer__vocab_begin(infer__vocab_opening *x, infer__vocab *v, infer__mem *mem, const infer__gguf *g,
                                       infer_error *err);
/* INFER_MORE: the slice is over. After an error, too, close it. */
static infer_result infer__vocab_step(infer__vocab_opening *x, infer__vocab *v, const infer__report *report,
                                      const infer__gguf *g, infer__budget *budget, infer_error *err);
static void infer__vocab_close(infer__vocab *v);
/* The spelling of a BPE vocabulary's tokens, if not GPT-2's alphabet: it follows from the pre-tokenizer. MARKED also
 * needs infer__vocab_joins of all tokens. */
static void infer__vocab_spelled(infer__vocab *v, int form);
static void infer__vocab_joins(infer__vocab *v, int32_t from, int32_t to);
/* The token of a text, -1 = none. The last one when several have it. */
static int32_t infer__vocab_find(const infer__vocab *v, const char *s, size_t n);
enum { INFER__MARKED_LONGEST = 256 }; /* bounds the search for marked tokens to this many steps a byte */
/* The longest marked token that s[0..n) begins with, n >= 1; -1 = none. kinds: INFER_TOKEN_* to consider; never: a bit
 * a token for those that are not, or NULL. */
static int32_t infer__vocab_marked(const infer__vocab *v, const char *s, size_t n, int kinds, const uint8_t *never);
/* The score of a token: 0 without scores; never infinite, never NaN. */
static float infer__vocab_score(const infer__vocab *v, int32_t token);
/* RWKV: the bytes that an escaped text (as Python writes bytes) stands for: their number; at most cap are written. */
static size_t infer__vocab_unescape(const infer__str *t, char *out, size_t cap);
/* The bytes a token (in range) stands for, without the first `skip`: their number; at most cap are written. */
static size_t infer__vocab_piece(const infer__vocab *v, int32_t token, size_t skip, char *out, size_t cap);

/* ---- token_pre.c, token_pre_words.c ----------------------------------------------------------------- */

/* The length of the first piece of s[0..n), n >= 1: what a step's regular expression matches there, or the text up to
 * its first match. */
typedef size_t (*infer__split_fn)(const void *rule, const char *s, size_t n);
typedef struct infer__pre_step {
    infer__split_fn first; /* NULL = no more steps */
    const void *rule;
} infer__pre_step;
enum {
    INFER__PRE_IGNORE_MERGES = 1, /* a word that is a token is that token, whatever the merges make of it */
    INFER__PRE_ADD_BOS = 2,       /* unless the file says otherwise */
    INFER__PRE_MASK_LSTRIP = 4,   /* <mask> takes the white space before it */
    INFER__PRE_MARKED = 8,        /* tokens are UTF-8 with spaces as U+2581 */
    INFER__PRE_UTF8 = 16,         /* tokens are UTF-8 */
    INFER__PRE_DROP_SPACE = 32,   /* words that begin with white space give no tokens */
    INFER__PRE_LINES = 64,        /* IGNORE_MERGES for runs of newlines */
    INFER__PRE_ALWAYS_BOS = 128,  /* whatever the file says */
    INFER__PRE_PAIRS_APART = 256, /* two separators stand between the texts of a pair (RoBERTa) */
    INFER__PRE_STEPS = 6
};
typedef struct infer__pretokenizer {
    const char *names;  /* values of tokenizer.ggml.pre, separated by a space */
    uint32_t flags;     /* INFER__PRE_* */
    infer__pre_step steps[INFER__PRE_STEPS]; /* each cuts inside the pieces of the one before */
} infer__pretokenizer;
/* NULL when the name is unknown. */
static const infer__pretokenizer *infer__pretokenizer_find(const char *name, size_t n);

/* The words of a text, one after the other. */
typedef struct infer__splitter {
    const infer__pretokenizer *pre;
    const char *at;                        /* the next word */
    const char *end[INFER__PRE_STEPS + 1]; /* of the text, of the piece of the first step it is in, .. */
    int steps;
} infer__splitter;
static void infer__split_begin(infer__splitter *x, const infer__pretokenizer *pre, const char *s, size_t n);
static size_t
infer__split_next(infer__splitter *x); /* the length of the word at x->at, which moves after it; 0 = end */

/* ---- token_bpe.c, token_spm.c -------------------------------------------------------------------- */

/* Where ids go: all are counted, at most cap are written. */
typedef struct infer__token_sink {
    infer_token *out;
    size_t cap, count;
    struct infer__word *keep; /* the word that they are the ids of, to be remembered; or NULL */
} infer__token_sink;

typedef struct infer__merge { int32_t left, right, token; } infer__merge; /* left < 0: names no tokens */
typedef struct infer__merges {
    infer__merge *list; /* by rank */
    uint32_t *slots;    /* open addressing by (left, right): rank | bits of the hash above it; UINT32_MAX = empty */
    uint32_t mask, ranks; /* ranks: the bits of a slot that are the rank */
} infer__merges;
/* How far making the table is. */
typedef struct infer__merges_opening {
    const infer__str *text;  /* n of them */
    char *scratch;
    uint32_t n, i, emptied;  /* the merge that comes next; slots that are empty */
    uint32_t ignored;        /* merges that name no tokens */
} infer__merges_opening;
static infer_result infer__merges_begin(infer__merges_opening *x, infer__merges *m, const infer__vocab *v,
                                        const infer__gguf *g, infer_error *err);
/* INFER_MORE: the slice is over. After an error, too, close it. */
static infer_result infer__merges_step(infer__merges_opening *x, infer__merges *m, const infer__vocab *v,
                                       const infer__report *report, infer__budget *budget, infer_error *err);
static void infer__merges_end(infer__merges_opening *x, infer__mem *mem); /* free what the work needed */

static void infer__merges_close(infer__merges *m, infer__mem *mem);

/* A piece of text while it is being merged: it ends where the next one begins. */
typedef struct infer__symbol {
    uint32_t at;        /* byte offset */
    int32_t prev, next; /* -1 = none */
    int32_t token;      /* -1 = none */
    int32_t pair;       /* the token that it and the next one make, -1 = none */
    uint32_t order;     /* of that merge: the lowest is made first */
} infer__symbol;
/* UGM, PLaMo-2: the best path to or from a position in a text. */
typedef struct infer__cell {
    union { double score; int64_t cost; } best;
    int32_t token; /* -1 = none: unknown */
    uint32_t span; /* bytes of it */
} infer__cell;
/* Scratch of one call. Zero-initialise with mem set. */
typedef struct infer__token_work {
    infer__mem *mem;
    infer__symbol *symbols;
    uint64_t *heap; /* order << 32 | symbol */
    char *text;
    struct infer__word *words; /* seen in this call; NULL in short texts */
    infer__cell *cells;
    uint32_t words_mask;
    size_t n, symbols_cap, heap_n, heap_cap, text_n, text_cap, cells_cap; /* n symbols; text_n bytes of text */
    const uint8_t *structure;      /* conversations: the tokens that messages do not become, a bit a token; or NULL */
    const infer_segment *segments; /* with structure: the whole text, one after the other */
    size_t n_segments, word_n;
    const char *word;              /* BPE, SPM: the word that the symbols are of, word_n bytes */
    infer__watch *watch; /* of the call */
    int inside;          /* SPM: no space is put before what comes first */
} infer__token_work;
static void infer__token_work_free(infer__token_work *w);
/* Split and merge one stretch of text without marked tokens. 0 = out of memory. */
static int infer__bpe_tokenize(const infer__vocab *v, const infer__merges *m, const infer__pretokenizer *pre,
                               infer__token_work *w, const char *s, size_t n, infer__token_sink *sink);
/* The same for SPM; prefix = 1: a space is put before it. */
static int infer__spm_tokenize(const infer__vocab *v, infer__token_work *w, const char *s, size_t n, int prefix,
                               infer__token_sink *sink);

/* ---- token_wpm.c, token_ugm.c, token_rwkv.c, token_plamo2.c ------------------------------------------ */

/* What these look texts up in. */
typedef struct infer__lexicon {
    infer__trie trie;         /* of the tokens that plain text can become */
    double unknown;           /* UGM: the score of a character that is no token */
    const uint8_t *units;     /* UGM: the character map, n_units little-endian words; NULL = none */
    const char *replacements; /* UGM: zero-terminated texts, n_replacements bytes */
    uint32_t n_units, n_replacements;
} infer__lexicon;
/* How far making one is. */
typedef struct infer__lexicon_opening {
    infer__str *texts;       /* what goes into the trie; RWKV's are in `room`, the next at `at` */
    char *room, *at;
    int32_t stage, i, too_long;
    infer__trie_opening trie;
} infer__lexicon_opening;
static infer_result infer__lexicon_begin(infer__lexicon_opening *o, infer__lexicon *x, const infer__vocab *v,
                                         infer_error *err);
/* INFER_MORE: the slice is over. After an error, too, close it. */
static infer_result infer__lexicon_step(infer__lexicon_opening *o, infer__lexicon *x, const infer__vocab *v,
                                        const infer__report *report, const infer__gguf *g, infer__budget *budget,
                                        infer_error *err);
static void infer__lexicon_end(infer__lexicon_opening *o, infer__mem *mem); /* free what the work needed */
static void infer__lexicon_close(infer__lexicon *x, infer__mem *mem);
/* The ids of one stretch of text without marked tokens. 0 = out of memory. */
static int infer__wpm_tokenize(const infer__vocab *v, const infer__lexicon *x, infer__token_work *w, const char *s,
                               size_t n, infer__token_sink *sink);
/* Spaces before punctuation and in contractions taken out of s[0..n), in place: the new length. */
static size_t infer__wpm_clean(char *s, size_t n);
static int infer__ugm_tokenize(const infer__vocab *v, const infer__lexicon *x, infer__token_work *w, const char *s,
                               size_t n, infer__token_sink *sink);
static int infer__rwkv_tokenize(const infer__vocab *v, const infer__lexicon *x, infer__token_work *w, const char *s,
                                size_t n, infer__token_sink *sink);
static int infer__plamo2_tokenize(const infer__vocab *v, const infer__lexicon *x, infer__token_work *w, const char *s,
                                  size_t n, infer__token_sink *sink);
/* UGM: the character map, into x. */
static infer_result infer__ugm_open(infer__lexicon *x, const infer__vocab *v, const infer__gguf *g, infer_error *err);

/* ---- token_structure.c --------------------------------------------------------------------------- */

/* 1 when this token may not stand for s[0..n), a part of w's text: it is structure, and a message is in there. */
static int infer__token_barred(const infer__token_work *w, int32_t token, const char *s, size_t n);
/* A bit a token for those that only a template writes, to be freed; at first what is written like a mark. */
static infer_result infer__structure_open(uint8_t **out, infer__mem *mem, const infer__vocab *v, infer_error *err);
/* Also those that s[0..n), text of a template, holds; whole = 1: that it is. */
static infer_result infer__structure_note(uint8_t *bits, infer__mem *mem, const infer__vocab *v, const char *s,
                                          size_t n, int whole, infer_error *err);

/* ---- tokenizer.c --------------------------------------------------------------------------------- */

typedef struct infer__tokenizer_options {
    int32_t allow_default_pre;
    int32_t allow_unknown;
    const char *pre; /* overrides tokenizer.ggml.pre; NULL = the file's */
    infer_limits limits; /* of opening it, and of every call that tokenizes */
} infer__tokenizer_options;

/* From the metadata of g, which must outlive it. A file whose tokenizer.ggml.model is absent, "none" or not supported
 * gives a tokenizer that refuses to tokenize with a reason (infer__tokenizer_why_not); malformed vocabularies are
 * errors. */
static infer_result infer__tokenizer_open(infer__tokenizer **out, infer__mem *mem, const infer__report *report,
                                          const infer__gguf *g, const infer__tokenizer_options *options,
                                          infer_error *err);
/* The same in slices: INFER_MORE = call step again. What options points to must stay valid until it has ended. After an
 * error, or to abandon it, infer__tokenizer_drop frees everything; else *out is the tokenizer. */
typedef struct infer__tokenizer_opening {
    infer__tokenizer *t;
    infer__tokenizer_options options;
    int32_t stage, i;
    infer__vocab_opening vocab;
    infer__merges_opening merges;
    infer__lexicon_opening lexicon;
} infer__tokenizer_opening;
static infer_result infer__tokenizer_begin(infer__tokenizer_opening *x, infer__mem *mem, const infer__gguf *g,
                                           const infer__tokenizer_options *options, infer_error *err);
static infer_result infer__tokenizer_step(infer__tokenizer_opening *x, infer__tokenizer **out,
                                          const infer__report *report, const infer__gguf *g, infer__budget *budget,
                                          infer_error *err);
static void infer__tokenizer_drop(infer__tokenizer_opening *x);
static void infer__tokenizer_close(infer__tokenizer *t);
static const char *infer__tokenizer_why_not(const infer__tokenizer *t); /* "" = it works */
static int32_t infer__tokenizer_size(const infer__tokenizer *t); /* number of tokens, 0 without a vocabulary */
/* See infer_tokenize, infer_detokenize, infer_token_text in api.h. mem is used for the work. INFER__TEXT_INSIDE: the
 * text continues another one, so no space is put before it. */
enum { INFER__TEXT_INSIDE = 1 << 16 };
static infer_result infer__tokenize(const infer__tokenizer *t, infer__mem *mem, const char *text, size_t n,
                                    int32_t flags, infer_token *out, size_t cap, size_t *count, infer_error *err);
/* The same for segments that follow one another in memory: control tokens are parsed only in the template's (whatever
 * flags say), and words may span segments. structure (may be NULL): a bit per token for those that only a template may
 * write. */
static infer_result infer__tokenize_segments(const infer__tokenizer *t, infer__mem *mem, const infer_segment *segments,
                                             size_t n_segments, const uint8_t *structure, int32_t flags,
                                             infer_token *out, size_t cap, size_t *count, infer_error *err);
static const infer__vocab *infer__tokenizer_vocab(const infer__tokenizer *t);
static infer_result infer__detokenize(const infer__tokenizer *t, const infer_token *tokens, size_t n, int32_t flags,
                                      char *out, size_t cap, size_t *len, infer_error *err);
static infer_result infer__token_text(const infer__tokenizer *t, infer_token token, char *out, size_t cap, size_t *len);
static int32_t infer__token_flags(const infer__tokenizer *t, infer_token token);
static infer_token infer__token_special(const infer__tokenizer *t, int32_t which);
/* 1 when text at position 0 gets a BOS by INFER_TEXT_ADD_SPECIAL. */
static int infer__tokenizer_adds_bos(const infer__tokenizer *t);
/* The token that ends a text by it, -1 = none: BERT's is the separator. */
static infer_token infer__tokenizer_end(const infer__vocab *v);
/* 1 when two separators stand between the texts of a pair: RoBERTa's pre-tokenizers. */
static int infer__tokenizer_pairs_apart(const infer__tokenizer *t);

/* ---- grammar.c (parts share grammar.h; public functions: infer_grammar_* in api.h), or grammar_none.c ------------ */

typedef struct infer__matcher infer__matcher; /* the position of one text in a grammar */
#if !defined(INFER_NO_GRAMMAR)
/* mem and tokenizer (both may be NULL) outlive the grammar; p is copied. */
static infer_result infer__grammar_open(infer_grammar **out, infer__mem *mem, const infer__tokenizer *tokenizer,
                                        const infer_grammar_params *p, infer_error *err);
static void infer__grammar_close(infer_grammar *g); /* its matchers have been closed */
static uint64_t infer__grammar_cached(const infer_grammar *g); /* bytes of states and masks */
/* Advance by bytes; *accepted < n: that byte is not allowed, and the matcher is somewhere before it. */
static infer_result infer__matcher_check(infer__matcher *m, const char *s, size_t n, size_t *accepted,
                                         infer_error *err);
#endif
static int32_t infer__grammar_tokens(const infer_grammar *g);  /* of its vocabulary */
static int infer__grammar_fits(const infer_grammar *g, const infer__tokenizer *t); /* 1 = its vocabulary is t's */
static infer_result infer__matcher_open(infer__matcher **out, infer_grammar *g, infer_error *err);
static void infer__matcher_close(infer__matcher *m); /* by any thread */
static infer_grammar *infer__matcher_grammar(infer__matcher *m); /* NULL when m is */
/* infer__claim of its grammar; NULL when m is. */
static infer__atomic *infer__matcher_calls(infer__matcher *m);
static void infer__matcher_reset(infer__matcher *m);
static infer_result infer__matcher_copy(infer__matcher *to, const infer__matcher *from,
                                        infer_error *err); /* one grammar */
/* Advance by a token. STATE: it is not allowed; after any error the matcher is unchanged. */
static infer_result infer__matcher_accept(infer__matcher *m, infer_token token, infer_error *err);
static int infer__matcher_waiting(const infer__matcher *m);      /* for a trigger: everything is allowed */
static int infer__matcher_complete(const infer__matcher *m);     /* the text may end here */
static int infer__matcher_can_continue(const infer__matcher *m); /* it may go on, not by its end alone */
/* One bit a token, valid until the grammar is used again; NULL = all are allowed. */
static infer_result infer__matcher_mask(infer__matcher *m, const uint32_t **bits, infer_error *err);
/* n logits: those of tokens that are not allowed become -inf. STATE when none is allowed. */
static infer_result infer__matcher_apply(infer__matcher *m, float *x, int32_t n, infer_error *err);

/* ---- sampler.c, sampler_*.c (public type infer_sampler is defined there) ----------------------------- */

/* See infer_sampler_create in api.h. g (may be NULL) gives general.sampling.*; the tokenizer (may be NULL; it outlives
 * the sampler) gives texts and flags of tokens to the stages that need them. */
static infer_result infer__sampler_open(infer_sampler **out, infer__mem *mem, const infer__gguf *g,
                                        const infer__tokenizer *tokenizer, const infer_stage *stages, int32_t n_stages,
                                        uint64_t seed, infer_error *err);
static void infer__sampler_close(infer_sampler *s);
/* sampler_top.c: how many of the largest of n logits the next choice needs, 0 = all. Then the choice from those,
 * largest first, lowest id first among equals: *enough 0 = others were needed, and nothing was done. */
typedef struct infer__top_logit { infer_token token; float logit; } infer__top_logit;
static int32_t infer__sampler_wants(infer_sampler *s, int32_t n);
static infer_result infer__sampler_choose_of(infer_sampler *s, const infer__top_logit *best, int32_t n_best, int32_t n,
                                             int32_t *enough, infer_token *token, infer_error *err);
static int infer__sampler_ended(const infer_sampler *s); /* 1 = its grammar is complete and nothing can follow */
/* See infer_sampler_usual and infer_stage_named. */
static infer_result infer__sampler_usual(const infer__gguf *g, infer_stage *out, int32_t cap, int32_t *n,
                                         infer_error *err);
static int32_t infer__stage_named(const char *name, size_t n);
#endif
