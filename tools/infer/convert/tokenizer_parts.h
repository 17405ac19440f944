/* tokenizer_parts.h: what the files tokenizer*.c share: a vocabulary between the folder and the GGUF file.
 *
 * tokenizer.c opens the folder, chooses the reader and writes the keys. Readers: tokenizer_json.c (tokenizer.json),
 * tokenizer_spm.c (SentencePiece models), tokenizer_text.c (vocab.txt; vocab.json with merges.txt). Around them:
 * tokenizer_added.c (added tokens), tokenizer_special.c (ids and switches), tokenizer_chat.c (templates), tokenizer_pre.c (the
 * pre-tokenizer's name). All files are untrusted. Functions return 0 after saying what is wrong, unless noted.
 */
#ifndef CONVERT_TOKENIZER_PARTS_H
#define CONVERT_TOKENIZER_PARTS_H

#include "tokenizer.h"

#define HF_XLM_MODEL "sentencepiece.bpe.model" /* XLM-RoBERTa's: its ids are not those of the pieces */
enum { HF_NORMAL = 1, HF_UNKNOWN, HF_CONTROL, HF_USER, HF_UNUSED, HF_BYTE }; /* tokenizer.ggml.token_type */
enum { HF_BOS, HF_EOS, HF_UNK, HF_SEP, HF_PAD, HF_CLS, HF_MASK, HF_EOT, HF_EOM, HF_PREFIX, HF_SUFFIX, HF_MIDDLE, HF_SPECIALS };
enum { HF_NAMED = HF_MASK + 1 }; /* of these, the ones that files name: bos_token, bos_token_id, ... */

typedef struct hf_text {
    const char *s; /* n bytes; NULL = absent */
    size_t n;
} hf_text;

typedef struct hf_token {
    hf_text text; /* s NULL: no token has this id */
    double score;
    int type;
    int named; /* tokenizer_config.json or special_tokens_map.json gives it a purpose */
} hf_token;

typedef struct hf_block hf_block;

typedef struct hf_vocab {
    const char *command, *folder, *family; /* family: model_type of config.json, "" = unknown */
    const infer_json *config, *generation;    /* generation_config.json; NULL = absent, as of the following */
    infer_json *tokenizer, *settings, *map;   /* tokenizer.json, tokenizer_config.json, special_tokens_map.json */
    uint64_t rows;                            /* of the embedding, 0 = unknown */
    const char *wanted_pre;                   /* the user's */

    const char *model, *pre; /* tokenizer.ggml.model, tokenizer.ggml.pre; pre may be NULL */
    hf_token *tokens;        /* n of them, gaps included */
    size_t n, cap, n_base;   /* n_base: ids below come from the model, those from it on were added */
    int scored;              /* tokens have scores */
    hf_text *merges;
    size_t n_merges;
    int has_merges;
    hf_text names[HF_NAMED];      /* bos_token, ...: their texts */
    hf_text old_eos;              /* the eos_token that is not what ends texts */
    int64_t special[HF_SPECIALS]; /* ids, -1 = none */
    int add[HF_SPECIALS];         /* BOS, EOS, SEP: added to texts; -1 = not said, as for all of the following */
    int space_prefix, extra_spaces, lowercase, strip_accents;
    int64_t token_types; /* kinds of segments of BERT */
    hf_text charsmap;
    hf_block *blocks; /* memory of texts made here */
    char *spm;        /* the SentencePiece model's file, which texts point into */
    infer_json *more[4]; /* other documents that texts point into */
    int n_more;
} hf_vocab;

/* ---- tokenizer.c ---- */

/* n bytes that live as long as v, then a zero; NULL after saying that there is no memory. */
char *hf_bytes(hf_vocab *v, size_t n);
int hf_same(hf_text a, const char *b);
hf_text hf_string(const infer_json *v); /* absent when v is not a string */
/* A file of the folder: NULL when there is none; *failed = 1 when it cannot be read. */
char *hf_read(hf_vocab *v, const char *name, size_t *n, int *failed);
int hf_exists(hf_vocab *v, const char *name);
/* The same as JSON, which lives as long as v. */
const infer_json *hf_read_json(hf_vocab *v, const char *name, int *failed);
/* The token with this id, made if there is none yet. */
hf_token *hf_token_at(hf_vocab *v, int64_t id);
/* The id of a text, -1 = none. Looks at all. */
int64_t hf_find(const hf_vocab *v, hf_text text);
/* A warning on stderr: one line that begins with the folder. */
void hf_note(const hf_vocab *v, const char *format, ...) CLI_PRINTF(2, 3);
/* 1: <0x00> .. <0xFF> */
int hf_is_byte(hf_text text);
/* The text with U+2581 as spaces. */
int hf_spaces(hf_vocab *v, hf_text *text);

/* ---- readers ---- */

int hf_from_json(hf_vocab *v);                   /* v->tokenizer */
int hf_from_spm(hf_vocab *v, const char *name);  /* a SentencePiece model */
int hf_from_vocab_txt(hf_vocab *v);              /* WordPiece without tokenizer.json */
int hf_from_vocab_json(hf_vocab *v);             /* BPE without tokenizer.json */
/* The merges of a JSON array: "a b" or ["a", "b"]. */
int hf_merges(hf_vocab *v, const infer_json *merges);
/* A JSON object of texts and ids. */
int hf_vocab_object(hf_vocab *v, const infer_json *vocab);
/* As GGUF files of WordPiece have them: U+2581 before what begins a word, no ## before what goes on. */
int hf_wordpiece_marks(hf_vocab *v);

/* ---- tokenizer_added.c ---- */

/* The added tokens of tokenizer.json and of tokenizer_config.json, and those that are named there. */
int hf_added_gpt2(hf_vocab *v);  /* for models whose tokens keep their ids: BPE over bytes, WordPiece */
int hf_added_plain(hf_vocab *v); /* for BPE with byte fallback and Unigram */
int hf_added_spm(hf_vocab *v);   /* on top of a SentencePiece model */

/* ---- tokenizer_special.c ---- */

void hf_names(hf_vocab *v);    /* v->names, and where the pre-tokenizer's post-processor adds tokens */
int hf_specials(hf_vocab *v);  /* v->special, v->add */
int hf_family_rows(hf_vocab *v); /* what a family's files have besides */
int hf_family_in(const hf_vocab *v, const char *list); /* is v->family one of these words, which spaces separate? */

/* ---- tokenizer_chat.c ---- */

int hf_chat_templates(hf_vocab *v, gguf_out *out);

/* ---- tokenizer_pre.c ---- */

/* The name for the rules of tokenizer.json. */
const char *hf_pre_find(hf_vocab *v);
/* The rules of a BPE model that works on marked text (U+2581 for spaces). */
typedef struct hf_marked {
    int marks;    /* spaces become U+2581 */
    int prefix;   /* one is put before a text, */
    int unless;   /* unless it begins with one */
    int by_space; /* words end with their space */
} hf_marked;
int hf_marked_rules(hf_vocab *v, hf_marked *out);

#endif
