/* token_spm.c: SentencePiece's byte-pair encoding ("llama" vocabularies).
 *
 * Owns:  turning a stretch of text into SentencePiece's form (spaces are U+2581, one before the text where the
 *        vocabulary says so) and merging its characters: the pair whose joined text is the token with the best score
 *        first.
 * Rules: characters that are no token become the tokens of their bytes, or the unknown token. Plain text never becomes
 *        a control, unknown or byte token by spelling it.
 * Method: as SentencePiece's bpe_model; the merge loop is token_bpe.c's.
 * Start: infer__spm_tokenize.
 */
#include "../text.h"

/* The token of a piece of text, -1 = none. */
static int32_t infer__spm_find(const infer__vocab *v, const char *s, size_t n) {
    int32_t t = infer__vocab_find(v, s, n);
    return t >= 0 && (v->flags[t] & INFER__TOKEN_NEVER_TEXT) ? -1 : t;
}

static size_t infer__spm_end(const infer__token_work *w, int32_t i) {
    int32_t next = w->symbols[i].next;
    return next < 0 ? w->text_n : w->symbols[next].at;
}

static void infer__spm_pair(const void *model, infer__token_work *w, int32_t i) {
    const infer__vocab *v = (const infer__vocab *)model;
    infer__symbol *s = &w->symbols[i];
    s->pair = infer__spm_find(v, w->text + s->at, infer__spm_end(w, s->next) - s->at);
    if (s->pair >= 0) s->order = v->order[s->pair];
}

/* infer__spm_pair without the tokens that are barred. The word counts whole: its text is not that of the segments. */
static void infer__spm_pair_open(const void *model, infer__token_work *w, int32_t i) {
    infer__symbol *s = &w->symbols[i];
    infer__spm_pair(model, w, i);
    if (s->pair >= 0 && infer__token_barred(w, s->pair, w->word, w->word_n)) s->pair = -1;
}

/* w->text = the text with its spaces as U+2581. 0 = out of memory. */
static int infer__spm_escape(const infer__vocab *v, infer__token_work *w, const char *s, size_t n, int prefix) {
    size_t i, len = 0;
    int after_space = v->remove_extra_whitespaces; /* the space at s[i] would be a superfluous one */
    if (!infer__token_work_text(w, 3 * n + 3)) return 0;
    if (v->remove_extra_whitespaces) {
        while (n > 0 && s[n - 1] == ' ') n--;
        prefix = prefix && n > 0;
    }
    for (i = 0; i < n || prefix; ) {
        int space = prefix || s[i] == ' ';
        if (!space) {
            w->text[len++] = s[i];
        } else if (prefix || !after_space) {
            memcpy(w->text + len, INFER__SPACE_MARK, 3);
            len += 3;
        }
        after_space = space && v->remove_extra_whitespaces;
        if (prefix) prefix = 0;
        else i++;
    }
    w->text_n = len;
    return 1;
}

/* Make the symbols of w->text, merged as far as it goes; at most n. 0 = out of memory. */
static int infer__spm_merge(const infer__vocab *v, infer__token_work *w, size_t n, infer__pair_fn pair) {
    size_t at, len;
    if (!infer__merge_reserve(w, n)) return 0;
    for (at = 0; at < w->text_n; at += len, w->n++) {
        infer__symbol *x = &w->symbols[w->n];
        infer__utf8_next(w->text + at, w->text_n - at, &len, NULL);
        x->at = (uint32_t)at;
        x->prev = (int32_t)w->n - 1;
        x->next = at + len < w->text_n ? (int32_t)w->n + 1 : -1;
        x->token = -1; /* looked up at the end, for those that were not merged */
    }
    infer__merge_all(w, pair, v);
    return 1;
}

/* The ids of one word. 0 = out of memory. */
static int infer__spm_word(const infer__vocab *v, infer__token_work *w, const char *s, size_t n, int prefix,
                           infer__token_sink *sink) {
    int32_t i;
    if (!infer__spm_escape(v, w, s, n, prefix)) return 0;
    if (w->text_n == 0) return 1;
    w->word = s;
    w->word_n = n;
    if (!infer__spm_merge(v, w, n + 1, infer__spm_pair)) return 0; /* at most a character a byte */
    if (infer__word_structure(w, sink) && !infer__spm_merge(v, w, n + 1, infer__spm_pair_open)) return 0;
    for (i = 0; i >= 0; i = w->symbols[i].next) {
        const infer__symbol *x = &w->symbols[i];
        size_t size = infer__spm_end(w, i) - x->at;
        int32_t token = x->token >= 0 ? x->token : infer__spm_find(v, w->text + x->at, size);
        if (token >= 0) infer__token_put(sink, token);
        else infer__token_put_bytes(v, w->text + x->at, size, sink);
    }
    return 1;
}

static int infer__spm_tokenize(const infer__vocab *v, infer__token_work *w, const char *s, size_t n, int prefix,
                               infer__token_sink *sink) {
    size_t len;
    if (!infer__words_open(w, n)) return 0;
    for (; n > 0; s += len, n -= len, prefix = 0) {
        len = v->remove_extra_whitespaces ? n : infer__space_split(v, s, n); /* removing looks across words */
        if (!prefix && infer__word_known(w, s, len, n, sink)) continue;
        if (!infer__watch_work(w->watch, len) || !infer__spm_word(v, w, s, len, prefix, sink)) return 0;
        infer__word_made(sink);
    }
    return 1;
}
