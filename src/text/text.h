/* text.h: the interface of the text layer: vocabulary, text <-> ids, logits -> id.
 *
 * Rules: no tensors here; a tokenizer is made from metadata alone. Vocabulary bytes are untrusted.
 * Start: infer__tokenizer_open, the PRETOKENIZERS table in token_pre.c, the STAGES table in sampler_chain.c.
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
       INFER__UC_SYMBOL = 32, INFER__UC_UPPER = 64, INFER__UC_LOWER = 128, INFER__UC_OTHER = 256 };
static uint32_t infer__uc_class(uint32_t cp);
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
enum { INFER__JSON_DEPTH = 256 };
/* Parse text[0..n) into an arena; lives as long as that. On failure what was put there stays there. */
static infer_result infer__json_parse(const infer_json **out, infer__arena *arena, const char *text, size_t n,
                                      infer_error *err);
/* Append v as text. indent < 0: one line with ", " and ": " (Python's json.dumps, ensure_ascii off). */
static void infer__json_write(infer__bytes *out, const infer_json *v, int32_t indent);
static void infer__json_quote(infer__bytes *out, const char *s, size_t n); /* with quotes; UTF-8 as it is */
static const infer_json *infer__json_get(const infer_json *v, const char *name, size_t n);
/* Line and column (in characters, both from 1) of byte `at` of a text. */
static void infer__text_place(const char *text, size_t n, size_t at, uint32_t *line, uint32_t *column);

/* ---- schema.c ------------------------------------------------------------------------------------ */

/* A JSON Schema as a grammar in GBNF (rule "root"), appended to out: what the grammar accepts satisfies the schema. {}
 * or true: any JSON. INFER_ERR_FORMAT: no JSON, no schema, or nothing satisfies it; INFER_ERR_UNSUPPORTED: a keyword
 * that is not supported there, or a schema too large; messages have the place as a JSON pointer. On failure out is as
 * it was. */
static infer_result infer__schema_gbnf(infer__bytes *out, infer__mem *mem, const char *schema, size_t n,
                                       infer_error *err);

/* ---- vocab.c ------------------------------------------------------------------------------------- */

enum { INFER__VOCAB_NONE, INFER__VOCAB_SPM, INFER__VOCAB_BPE, INFER__VOCAB_OTHER }; /* kinds: tokenizer.ggml.model */
#define INFER__SPACE_MARK "\xe2\x96\x81" /* U+2581: a space in SentencePiece vocabularies */
enum { INFER__TOKEN_RSTRIP = 128 }; /* with INFER_TOKEN_*: matched in a text, it takes the white space after it too */

typedef struct infer__slot { uint32_t hash; int32_t token; } infer__slot; /* of the table text -> token; -1 = empty */

/* The tokens of a file. Texts are views of the file's bytes; those of a BPE vocabulary are in GPT-2's byte alphabet. */
typedef struct infer__vocab {
    infer__mem *mem;
    const infer__str *text;     /* n texts */
    int32_t n, kind;            /* INFER__VOCAB_* */
    uint64_t longest;           /* bytes of the longest text */
    uint8_t *flags;             /* INFER_TOKEN_*, INFER__TOKEN_RSTRIP */
    uint32_t *order;            /* SPM: by score, the lower the better */
    infer__slot *slots;         /* text -> token, open addressing */
    uint32_t mask;
    int32_t byte_token[256];    /* token of a single byte, -1 = none */
    uint8_t joins[256];         /* SPM: 1 = this byte stands before a space inside some token */
    int32_t *marked, n_marked;  /* control, unknown and user-defined tokens, sorted by text */
    int32_t marked_from[257];   /* those whose text begins with byte b: marked[marked_from[b] .. marked_from[b + 1]) */
    uint8_t marked_kinds[256];  /* INFER_TOKEN_* of them together */
    infer_token special[INFER_SPECIAL_COUNT], eom, lstrip; /* -1 = none; lstrip takes the white space before it too */
    int add_bos, add_eos;       /* 0, 1; -1 = the file does not say */
    int add_space_prefix, remove_extra_whitespaces; /* 0, 1 */
} infer__vocab;
static infer_result infer__vocab_open(infer__vocab *v, infer__mem *mem, const infer__report *report,
                                      const infer__gguf *g, infer_error *err);
static void infer__vocab_close(infer__vocab *v);
/* The token of a text, -1 = none. The last one when several have it. */
static int32_t infer__vocab_find(const infer__vocab *v, const char *s, size_t n);
/* The longest marked token that s[0..n) begins with, n >= 1; -1 = none. kinds: INFER_TOKEN_* to consider. */
static int32_t infer__vocab_marked(const infer__vocab *v, const char *s, size_t n, int kinds);
/* The bytes a token (in range) stands for, without the first `skip`: their number; at most cap are written. */
static size_t infer__vocab_piece(const infer__vocab *v, int32_t token, size_t skip, char *out, size_t cap);

/* ---- token_pre.c --------------------------------------------------------------------------------- */

typedef size_t (*infer__split_fn)(const char *s, size_t n); /* length of the first word of s[0..n), n >= 1 */
enum { INFER__PRE_IGNORE_MERGES = 1, INFER__PRE_ADD_BOS = 2, INFER__PRE_MASK_LSTRIP = 4 };
typedef struct infer__pretokenizer {
    const char *names;     /* values of tokenizer.ggml.pre, separated by a space */
    infer__split_fn split; /* NULL: known, not written yet */
    uint32_t flags;        /* INFER__PRE_* */
} infer__pretokenizer;
/* NULL when the name is unknown. */
static const infer__pretokenizer *infer__pretokenizer_find(const char *name, size_t n);

/* ---- token_bpe.c, token_spm.c -------------------------------------------------------------------- */

/* Where ids go: all are counted, at most cap are written. */
typedef struct infer__token_sink {
    infer_token *out;
    size_t cap, count;
    struct infer__word *keep; /* the word that they are the ids of, to be remembered; or NULL */
} infer__token_sink;

typedef struct infer__merge { int32_t left, right, token; uint32_t rank; } infer__merge; /* left < 0 = empty slot */
typedef struct infer__merges {
    infer__merge *slots; /* open addressing by (left, right) */
    uint32_t mask;
} infer__merges;
static infer_result infer__merges_open(infer__merges *m, const infer__vocab *v, const infer__report *report,
                                       const infer__gguf *g, infer_error *err);

/* A piece of text while it is being merged: it ends where the next one begins. */
typedef struct infer__symbol {
    uint32_t at;        /* byte offset */
    int32_t prev, next; /* -1 = none */
    int32_t token;      /* -1 = none */
    int32_t pair;       /* the token that it and the next one make, -1 = none */
    uint32_t order;     /* of that merge: the lowest is made first */
} infer__symbol;
/* Scratch of one call. Zero-initialise with mem set. */
typedef struct infer__token_work {
    infer__mem *mem;
    infer__symbol *symbols;
    uint64_t *heap; /* order << 32 | symbol */
    char *text;
    struct infer__word *words; /* seen in this call; NULL in short texts */
    size_t n, symbols_cap, heap_n, heap_cap, text_n, text_cap; /* n symbols; text_n bytes of text */
} infer__token_work;
static void infer__token_work_free(infer__token_work *w);
/* Split and merge one stretch of text without marked tokens. 0 = out of memory. */
static int infer__bpe_tokenize(const infer__vocab *v, const infer__merges *m, const infer__pretokenizer *pre,
                               infer__token_work *w, const char *s, size_t n, infer__token_sink *sink);
/* The same for SPM; prefix = 1: a space is put before it. */
static int infer__spm_tokenize(const infer__vocab *v, infer__token_work *w, const char *s, size_t n, int prefix,
                               infer__token_sink *sink);

/* ---- tokenizer.c --------------------------------------------------------------------------------- */

typedef struct infer__tokenizer infer__tokenizer;

typedef struct infer__tokenizer_options {
    int32_t allow_default_pre;
    const char *pre; /* overrides tokenizer.ggml.pre; NULL = the file's */
} infer__tokenizer_options;

/* From the metadata of g, which outlives it. A file whose tokenizer.ggml.model is absent, "none" or not supported yet
 * gives a tokenizer that refuses to tokenize with a reason (infer__tokenizer_why_not); malformed vocabularies are
 * errors. */
static infer_result infer__tokenizer_open(infer__tokenizer **out, infer__mem *mem, const infer__report *report,
                                          const infer__gguf *g, const infer__tokenizer_options *options,
                                          infer_error *err);
static void infer__tokenizer_close(infer__tokenizer *t);
static const char *infer__tokenizer_why_not(const infer__tokenizer *t); /* "" = it works */
static int32_t infer__tokenizer_size(const infer__tokenizer *t); /* number of tokens, 0 without a vocabulary */
/* See infer_tokenize, infer_detokenize, infer_token_text in api.h. mem is used for the work. */
static infer_result infer__tokenize(const infer__tokenizer *t, infer__mem *mem, const char *text, size_t n,
                                    int32_t flags, infer_token *out, size_t cap, size_t *count, infer_error *err);
static infer_result infer__detokenize(const infer__tokenizer *t, const infer_token *tokens, size_t n, int32_t flags,
                                      char *out, size_t cap, size_t *len, infer_error *err);
static infer_result infer__token_text(const infer__tokenizer *t, infer_token token, char *out, size_t cap, size_t *len);
static int32_t infer__token_flags(const infer__tokenizer *t, infer_token token);
static infer_token infer__token_special(const infer__tokenizer *t, int32_t which);
/* 1 when text at position 0 gets a BOS by INFER_TEXT_ADD_SPECIAL. */
static int infer__tokenizer_adds_bos(const infer__tokenizer *t);

/* ---- grammar.c (its parts share grammar.h; public functions: infer_grammar_* in api.h) ----------------- */

typedef struct infer__matcher infer__matcher; /* where one text stands in a grammar */
/* mem and tokenizer (both may be NULL) outlive the grammar; p is copied. */
static infer_result infer__grammar_open(infer_grammar **out, infer__mem *mem, const infer__tokenizer *tokenizer,
                                        const infer_grammar_params *p, infer_error *err);
static void infer__grammar_close(infer_grammar *g); /* it has no matchers any more */
static int32_t infer__grammar_tokens(const infer_grammar *g);  /* of its vocabulary */
static int infer__grammar_fits(const infer_grammar *g, const infer__tokenizer *t); /* 1 = its vocabulary is t's */
static int infer__grammar_used(const infer_grammar *g);        /* 1 = it has matchers */
static uint64_t infer__grammar_cached(const infer_grammar *g); /* bytes of states and masks */
static infer_result infer__matcher_open(infer__matcher **out, infer_grammar *g, infer_error *err);
static void infer__matcher_close(infer__matcher *m);
static void infer__matcher_reset(infer__matcher *m);
static infer_result infer__matcher_copy(infer__matcher *to, const infer__matcher *from,
                                        infer_error *err); /* one grammar */
/* Go on by a token. STATE: it is not allowed; after any error the matcher is where it was. */
static infer_result infer__matcher_accept(infer__matcher *m, infer_token token, infer_error *err);
/* Go on by bytes; *accepted < n: that byte is not allowed, and the matcher stands somewhere before it. */
static infer_result infer__matcher_check(infer__matcher *m, const char *s, size_t n, size_t *accepted,
                                         infer_error *err);
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
static int infer__sampler_ended(const infer_sampler *s); /* 1 = its grammar is complete and nothing can follow */
/* See infer_sampler_usual and infer_stage_named. */
static infer_result infer__sampler_usual(const infer__gguf *g, infer_stage *out, int32_t cap, int32_t *n,
                                         infer_error *err);
static int32_t infer__stage_named(const char *name, size_t n);
#endif
