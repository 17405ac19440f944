/* lexicon.c: the tokens of a vocabulary as a trie, for algorithms that need all tokens that are prefixes of a text, or
 * the longest: WordPiece, Unigram, RWKV, PLaMo-2.
 *
 * Owns:  which tokens plain text can become.
 * Rules: text never becomes a control or unknown token by spelling it, nor a byte token by its name, except "<s>" of
 *        RWKV vocabularies: their only control token is in the trie like all others, as in recorded ids; in
 *        conversations token_structure.c excludes it. Tokens too long for the trie are omitted with a line in the log,
 *        since their cost would be unbounded.
 * Start: infer__lexicon_begin, infer__lexicon_step.
 */
#include "../text.h"

/* 1 when no text becomes this token by spelling it. */
static int infer__lexicon_never(const infer__vocab *v, int32_t t) {
    if (!(v->flags[t] & INFER__TOKEN_NEVER_TEXT)) return 0;
    return !(v->kind == INFER__VOCAB_RWKV && infer__vocab_is(v, t, "<s>", 3));
}

/* What of tokens from .. to - 1 goes into the trie, 0 bytes for those that do not; RWKV's are unescaped. */
static void infer__lexicon_texts(infer__lexicon_opening *o, const infer__vocab *v, int32_t from, int32_t to) {
    int32_t t;
    for (t = from; t < to; t++) {
        infer__str *s = &o->texts[t];
        *s = v->text[t];
        if (v->kind == INFER__VOCAB_RWKV) {
            s->s = o->at;
            s->n = infer__vocab_unescape(&v->text[t], o->at, (size_t)v->text[t].n);
            o->at += s->n;
        }
        if (infer__lexicon_never(v, t)) s->n = 0;
        o->too_long += s->n > INFER__TRIE_LONGEST;
    }
}

static infer_result infer__lexicon_begin(infer__lexicon_opening *o, infer__lexicon *x, const infer__vocab *v,
                                         infer_error *err) {
    uint64_t bytes = 1;
    int32_t t;
    memset(x, 0, sizeof *x);
    memset(o, 0, sizeof *o);
    o->texts = (infer__str *)infer__alloc(v->mem, (uint64_t)v->n * sizeof *o->texts);
    for (t = 0; v->kind == INFER__VOCAB_RWKV && t < v->n; t++) bytes += v->text[t].n;
    o->room = o->at = (char *)infer__alloc(v->mem, bytes);
    if (o->texts && o->room) return INFER_OK;
    return infer__error(err, INFER_ERR_MEMORY, "out of memory for a trie of %d tokens", (int)v->n);
}

static infer_result infer__lexicon_step(infer__lexicon_opening *o, infer__lexicon *x, const infer__vocab *v,
                                        const infer__report *report, const infer__gguf *g, infer__budget *budget,
                                        infer_error *err) {
    infer_result r = INFER_OK;
    int32_t n;
    for (; o->i < v->n; o->i += n) {
        n = (int32_t)infer__budget_piece(budget, (uint64_t)(v->n - o->i), 1);
        infer__lexicon_texts(o, v, o->i, o->i + n);
        if (infer__budget_over(budget, (uint64_t)n)) {
            o->i += n;
            return INFER_MORE;
        }
    }
    if (o->stage == 0) {
        o->stage = 1;
        if (o->too_long)
            infer__log(report, 2, "tokenizer: %d tokens longer than %d bytes are not looked for in texts",
                       (int)o->too_long, (int)INFER__TRIE_LONGEST);
        r = infer__trie_begin(&o->trie, &x->trie, v->mem, o->texts, v->n, err);
    }
    if (r == INFER_OK) r = infer__trie_step(&o->trie, &x->trie, v->mem, budget, err);
    if (r != INFER_OK) return r;
    infer__lexicon_end(o, v->mem);
    return v->kind == INFER__VOCAB_UGM ? infer__ugm_open(x, v, g, err) : INFER_OK;
}

static void infer__lexicon_end(infer__lexicon_opening *o, infer__mem *mem) {
    infer__trie_end(&o->trie, mem);
    infer__free(mem, o->texts);
    infer__free(mem, o->room);
    o->texts = NULL;
    o->room = NULL;
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
