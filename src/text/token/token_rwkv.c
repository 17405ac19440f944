/* token_rwkv.c: RWKV's tokenizer ("rwkv" vocabularies): always the longest token that the rest of the text begins with.
 *
 * Rules: tokens are bytes, spelled in the file as Python writes them (lexicon.c unescapes them); the vocabulary has
 *        every single byte, so unknown tokens occur in damaged files only.
 * Start: infer__rwkv_tokenize.
 */
#include "../text.h"

static int infer__rwkv_tokenize(const infer__vocab *v, const infer__lexicon *x, infer__token_work *w, const char *s,
                                size_t n, infer__token_sink *sink) {
    size_t len;
    for (; n > 0 && infer__watch_work(w->watch, 1); s += len, n -= len) {
        int32_t token = w->structure ? infer__lexicon_longest(x, w, s, n, NULL, 0, &len)
                                     : infer__trie_longest(&x->trie, s, n, &len);
        if (token < 0) {
            token = v->unknown;
            len = 1;
        }
        if (token >= 0) infer__token_put(sink, token);
    }
    return 1;
}
