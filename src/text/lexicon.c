/* lexicon.c: the tokens of a vocabulary as a trie, for the algorithms that look for all or the longest token that a
 * text begins with: WordPiece, Unigram, RWKV, PLaMo-2.
 *
 * Owns:  which tokens plain text can become.
 * Rules: text never becomes a control or unknown token by spelling it, nor a byte token by its name; but for RWKV,
 *        whose tokenizers have one trie for all. Tokens too long for the trie are left out with a line in the log,
 *        since what they cost would not be bounded.
 * Start: infer__lexicon_open.
 */
#include "text.h"

/* texts[0..n) = what goes into the trie, 0 bytes for tokens that do not; RWKV's are unescaped into `room`. */
static int32_t infer__lexicon_texts(const infer__vocab *v, infer__str *texts, char *room) {
    const int never = v->kind == INFER__VOCAB_RWKV ? 0 : INFER_TOKEN_CONTROL | INFER_TOKEN_UNKNOWN | INFER_TOKEN_BYTE;
    int32_t t, too_long = 0;
    for (t = 0; t < v->n; t++) {
        texts[t] = v->text[t];
        if (v->flags[t] & never) texts[t].n = 0;
        if (v->kind == INFER__VOCAB_RWKV) {
            texts[t].s = room;
            texts[t].n = infer__vocab_unescape(&v->text[t], room, (size_t)v->text[t].n);
            room += texts[t].n;
        }
        too_long += texts[t].n > INFER__TRIE_LONGEST;
    }
    return too_long;
}

static infer_result infer__lexicon_open(infer__lexicon *x, const infer__vocab *v, const infer__report *report,
                                        const infer__gguf *g, infer_error *err) {
    infer__str *texts = (infer__str *)infer__alloc(v->mem, (uint64_t)v->n * sizeof *texts);
    char *room = NULL;
    uint64_t bytes = 1;
    int32_t t, too_long;
    infer_result r = INFER_OK;

    memset(x, 0, sizeof *x);
    for (t = 0; v->kind == INFER__VOCAB_RWKV && t < v->n; t++) bytes += v->text[t].n;
    room = (char *)infer__alloc(v->mem, bytes);
    if (!texts || !room) {
        r = infer__error(err, INFER_ERR_MEMORY, "out of memory for a trie of %d tokens", (int)v->n);
    } else {
        too_long = infer__lexicon_texts(v, texts, room);
        if (too_long) {
            infer__log(report, 2, "tokenizer: %d tokens longer than %d bytes are not looked for in texts",
                       (int)too_long, (int)INFER__TRIE_LONGEST);
        }
        r = infer__trie_open(&x->trie, v->mem, texts, v->n, err);
    }
    infer__free(v->mem, texts);
    infer__free(v->mem, room);
    if (r == INFER_OK && v->kind == INFER__VOCAB_UGM) r = infer__ugm_open(x, v, g, err);
    return r; /* what is there is closed with the tokenizer */
}

static void infer__lexicon_close(infer__lexicon *x, infer__mem *mem) {
    infer__trie_close(&x->trie, mem);
}
