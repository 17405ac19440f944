/* lexicon.c: the tokens of a vocabulary as a trie, for the algorithms that look for all or the longest token that a
 * text begins with: WordPiece, Unigram, RWKV, PLaMo-2.
 *
 * Owns:  which tokens plain text can become.
 * Rules: text never becomes a control or unknown token by spelling it, nor a byte token by its name, but for "<s>" of
 *        RWKV vocabularies: their one control token stands in the trie with all others, and ids as recorded have it;
 *        in conversations token_structure.c keeps it out. Tokens too long for the trie are left out with a line in the
 *        log, since what they cost would not be bounded.
 * Start: infer__lexicon_open.
 */
#include "../text.h"

/* 1 when no text becomes this token by spelling it. */
static int infer__lexicon_never(const infer__vocab *v, int32_t t) {
    if (!(v->flags[t] & INFER__TOKEN_NEVER_TEXT)) return 0;
    return !(v->kind == INFER__VOCAB_RWKV && infer__vocab_is(v, t, "<s>", 3));
}

/* texts[0..n) = what goes into the trie, 0 bytes for tokens that do not; RWKV's are unescaped into `room`. */
static int32_t infer__lexicon_texts(const infer__vocab *v, infer__str *texts, char *room) {
    int32_t t, too_long = 0;
    for (t = 0; t < v->n; t++) {
        texts[t] = v->text[t];
        if (v->kind == INFER__VOCAB_RWKV) {
            texts[t].s = room;
            texts[t].n = infer__vocab_unescape(&v->text[t], room, (size_t)v->text[t].n);
            room += texts[t].n;
        }
        if (infer__lexicon_never(v, t)) texts[t].n = 0;
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

/* infer__trie_longest without the tokens that are barred. of, n_of: the text of w's segments that s[0..n) was made of;
 * NULL = it is itself such text. */
static int32_t infer__lexicon_longest(const infer__lexicon *x, const infer__token_work *w, const char *s, size_t n,
                                      const char *of, size_t n_of, size_t *len) {
    infer__trie_walk walk;
    int32_t token, best = -1;
    memset(&walk, 0, sizeof walk);
    walk.s = s;
    walk.n = n;
    *len = 0;
    while ((token = infer__trie_next(&x->trie, &walk)) >= 0) {
        if (infer__token_barred(w, token, of ? of : s, of ? n_of : walk.at)) continue;
        best = token;
        *len = walk.at;
    }
    return best;
}
