/* token_plamo2.c: PLaMo-2's tokenizer ("plamo2" vocabularies).
 *
 * Owns:  the cut of a text into the tokens whose scores have the greatest sum; of equal ones that whose first token is
 *        longer. A character that no token covers costs a fixed, high price and becomes the tokens of its bytes.
 * Rules: scores are integers of 1/10000, so the result does not depend on rounding. Invalid bytes become the
 *        tokens of those bytes. A byte order mark at the beginning is dropped.
 * Method: Preferred Networks, tokenization_plamo.py of PLaMo-2: dynamic programming from the end of the text; its table
 *        of suffixes lists, longest first, the tokens that the rest of the text begins with. A trie gives the same
 *        list. As there, a score of -1000.0, the mark of the list's end, ends it.
 * Start: infer__plamo2_tokenize.
 */
#include "../text.h"

enum {
    INFER__PLAMO2_UNKNOWN = -10000000,
    INFER__PLAMO2_INVALID = -20000000
}; /* scores; the latter and below: unused */

static int32_t infer__plamo2_score(const infer__vocab *v, int32_t token) {
    double x = (double)infer__vocab_score(v, token) * 1e4;
    x = x < 0 ? x - 0.5 : x + 0.5; /* half away from zero */
    return (int32_t)(x > -2147483648.0 ? (x < 2147483647.0 ? x : 2147483647.0) : -2147483648.0);
}

/* The best step from s[at], from which the character of `size` bytes begins; the cells after it are known. */
static void infer__plamo2_step(const infer__vocab *v, const infer__lexicon *x, const infer__token_work *w,
                               const char *s, size_t n, size_t at, size_t size) {
    infer__cell *cells = w->cells;
    int32_t tokens[INFER__TRIE_LONGEST];
    uint32_t spans[INFER__TRIE_LONGEST];
    infer__trie_walk walk;
    infer__cell best;
    int32_t token, found = 0, score = 0;
    memset(&walk, 0, sizeof walk);
    memset(&best, 0, sizeof best);
    walk.s = s + at;
    walk.n = n - at;
    while ((token = infer__trie_next(&x->trie, &walk)) >= 0) {
        if (at + walk.at < n && cells[at + walk.at].span == 0) continue; /* ends inside a character */
        if (w->structure && infer__token_barred(w, token, walk.s, walk.at)) continue;
        tokens[found] = token;
        spans[found++] = (uint32_t)walk.at;
    }
    while (found-- > 0 && score != INFER__PLAMO2_UNKNOWN) {
        int64_t cost;
        score = infer__plamo2_score(v, tokens[found]);
        cost = cells[at + spans[found]].best.cost - score;
        if (score <= INFER__PLAMO2_INVALID || (best.span != 0 && cost >= best.best.cost)) continue;
        best.best.cost = cost;
        best.token = tokens[found];
        best.span = spans[found];
    }
    if (score != INFER__PLAMO2_UNKNOWN) {
        int64_t cost = cells[at + size].best.cost - INFER__PLAMO2_UNKNOWN;
        if (best.span == 0 || cost < best.best.cost) {
            best.best.cost = cost;
            best.token = -1;
            best.span = (uint32_t)size;
        }
    }
    cells[at] = best;
}

static int infer__plamo2_tokenize(const infer__vocab *v, const infer__lexicon *x, infer__token_work *w, const char *s,
                                  size_t n, infer__token_sink *sink) {
    size_t at, i, len;
    if (n >= 3 && memcmp(s, "\xef\xbb\xbf", 3) == 0) { /* U+FEFF */
        s += 3;
        n -= 3;
    }
    if (!infer__token_work_cells(w, n + 1)) return 0;
    for (at = 0; at < n; at += len) {
        infer__utf8_next(s + at, n - at, &len, NULL);
        for (i = 0; i < len; i++) w->cells[at + i].span = 0;
        w->cells[at].span = (uint32_t)len; /* a character begins here */
    }
    w->cells[n].best.cost = 0;
    w->cells[n].span = 0;
    for (at = n; at-- > 0; ) {
        if (!infer__watch_work(w->watch, 4)) return 0;
        if (w->cells[at].span) infer__plamo2_step(v, x, w, s, n, at, w->cells[at].span);
    }
    for (at = 0; at < n; at += w->cells[at].span) {
        if (w->cells[at].token >= 0) {
            infer__token_put(sink, w->cells[at].token);
            continue;
        }
        for (i = 0; i < w->cells[at].span; i++) {
            int32_t token = v->byte_token[(uint8_t)s[at + i]];
            if (token < 0) token = v->unknown;
            if (token >= 0) infer__token_put(sink, token);
        }
    }
    return 1;
}
