/* text.h: the interface of the text layer: vocabulary, text <-> ids, logits -> id.
 *
 * Rules: no tensors here; a tokenizer is made from metadata alone. Vocabulary bytes are untrusted.
 * Start: infer__tokenizer_open, the PRETOKENIZERS table in token_pre.c, the STAGES table in sampler.c.
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

/* ---- tokenizer.c --------------------------------------------------------------------------------- */

typedef struct infer__tokenizer infer__tokenizer;

typedef struct infer__tokenizer_options {
    int32_t allow_default_pre;
    const char *pre; /* overrides tokenizer.ggml.pre; NULL = the file's */
} infer__tokenizer_options;

/* From the metadata of g, which outlives it. A file whose tokenizer.ggml.model is absent, "none" or not supported yet gives
 * a tokenizer that refuses to tokenize with a reason (infer__tokenizer_why_not); malformed vocabularies are errors. */
static infer_result infer__tokenizer_open(infer__tokenizer **out, infer__mem *mem, const infer__report *report,
                                          const infer__gguf *g, const infer__tokenizer_options *options, infer_error *err);
static void infer__tokenizer_close(infer__tokenizer *t);
static const char *infer__tokenizer_why_not(const infer__tokenizer *t); /* "" = it works */
static int32_t infer__tokenizer_size(const infer__tokenizer *t); /* number of tokens, 0 without a vocabulary */
/* See infer_tokenize, infer_detokenize, infer_token_text in api.h. mem is used for the work. */
static infer_result infer__tokenize(const infer__tokenizer *t, infer__mem *mem, const char *text, size_t n, int32_t flags,
                                    infer_token *out, size_t cap, size_t *count, infer_error *err);
static infer_result infer__detokenize(const infer__tokenizer *t, const infer_token *tokens, size_t n, int32_t flags,
                                      char *out, size_t cap, size_t *len, infer_error *err);
static infer_result infer__token_text(const infer__tokenizer *t, infer_token token, char *out, size_t cap, size_t *len);
static int32_t infer__token_flags(const infer__tokenizer *t, infer_token token);
static infer_token infer__token_special(const infer__tokenizer *t, int32_t which);
/* 1 when text at position 0 gets a BOS by INFER_TEXT_ADD_SPECIAL. */
static int infer__tokenizer_adds_bos(const infer__tokenizer *t);

/* ---- sampler.c (public type infer_sampler is defined there) ---------------------------------------- */

/* See infer_sampler_create in api.h. g (may be NULL) gives general.sampling.* */
static infer_result infer__sampler_open(infer_sampler **out, infer__mem *mem, const infer__gguf *g,
                                        const infer_stage *stages, int32_t n_stages, uint64_t seed, infer_error *err);
static void infer__sampler_close(infer_sampler *s);
#endif
