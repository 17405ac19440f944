/* token_bpe.c: merging pairs, and byte-level BPE.
 *
 * Owns:  the merge loop that BPE and SPM share (a linked list of symbols and a heap of possible merges: n log n), the
 *        table of merges by pair of ids, and the words of one call.
 * Rules: ids, not texts, are merged; texts are looked at once per merge, when the table is made. A merge that names
 *        something that is no token, or that would make a control token out of plain text, is left out.
 * Invariants: the result does not depend on the order in which equal entries leave the heap: an entry is made only if
 *        it still is what its symbol and the next one give.
 * Start: infer__bpe_tokenize.
 */
#include "text.h"

enum {
    INFER__WORD_TOKENS = 7,   /* of a remembered word */
    INFER__WORD_BYTES = 64,
    INFER__WORDS = 1 << 12,   /* remembered at a time */
    INFER__WORDS_FROM = 4096, /* bytes of text from which remembering pays for clearing the table */
    INFER__MERGE_PROBES_MAX = 1024
};
/* A word of the text and what became of it: most words of a long text come again. */
struct infer__word {
    const char *s; /* in the text of this call */
    uint32_t n, count;
    int32_t tokens[INFER__WORD_TOKENS];
};

INFER__INLINE void infer__token_put(infer__token_sink *sink, int32_t token) {
    if (sink->count < sink->cap) sink->out[sink->count] = token;
    sink->count++;
    if (sink->keep) {
        if (sink->keep->count < INFER__WORD_TOKENS) sink->keep->tokens[sink->keep->count] = token;
        sink->keep->count++;
    }
}

static void infer__token_work_free(infer__token_work *w) {
    infer__free(w->mem, w->symbols);
    infer__free(w->mem, w->heap);
    infer__free(w->mem, w->text);
    infer__free(w->mem, w->words);
    infer__free(w->mem, w->cells);
}

/* Room for n cells, which keep their content. 0 = out of memory. */
static int infer__token_work_cells(infer__token_work *w, size_t n) {
    uint64_t cap = (uint64_t)n + n / 2;
    infer__cell *cells;
    if (n <= w->cells_cap) return 1;
    cells = (infer__cell *)infer__realloc(w->mem, w->cells, cap, sizeof *cells);
    if (!cells) return 0;
    w->cells = cells;
    w->cells_cap = (size_t)cap;
    return 1;
}

/* Room for n bytes in w->text, whose content is lost. 0 = out of memory. */
static int infer__token_work_text(infer__token_work *w, size_t n) {
    if (n <= w->text_cap) return 1;
    infer__free(w->mem, w->text);
    w->text_cap = 0;
    w->text = (char *)infer__alloc(w->mem, n);
    if (w->text) w->text_cap = n;
    return w->text != NULL;
}

/* ---- remembered words -------------------------------------------------------------------------------- */

/* Before the words of a text of n bytes. 0 = out of memory. */
static int infer__words_open(infer__token_work *w, size_t n) {
    if (n < INFER__WORDS_FROM || w->words) return 1;
    w->words = (struct infer__word *)infer__calloc(w->mem, INFER__WORDS, sizeof *w->words);
    return w->words != NULL;
}

/* 1 = the word was seen before, its ids are put. 0 = it has to be made: put its ids, then call infer__word_made. */
static int infer__word_known(infer__token_work *w, const char *s, size_t n, infer__token_sink *sink) {
    struct infer__word *word;
    uint32_t i;
    if (!w->words || n > INFER__WORD_BYTES) return 0;
    word = &w->words[infer__vocab_hash(s, n) & (INFER__WORDS - 1)];
    if (word->n == n && memcmp(word->s, s, n) == 0) {
        for (i = 0; i < word->count; i++) infer__token_put(sink, word->tokens[i]);
        return 1;
    }
    word->s = s;
    word->n = (uint32_t)n;
    word->count = 0;
    sink->keep = word;
    return 0;
}
static void infer__word_made(infer__token_sink *sink) {
    if (sink->keep && sink->keep->count > INFER__WORD_TOKENS) sink->keep->n = 0; /* too many to remember */
    sink->keep = NULL;
}

/* ---- the merge loop --------------------------------------------------------------------------------- */

/* Room for n symbols and for all heap entries they can ever have at once: n - 1 at first, and each merge removes one
 * and adds at most two. 0 = out of memory. */
static int infer__merge_reserve(infer__token_work *w, size_t n) {
    if (n > w->symbols_cap) {
        size_t cap = n + n / 2 + 64;
        infer__free(w->mem, w->symbols);
        infer__free(w->mem, w->heap);
        w->symbols_cap = w->heap_cap = 0;
        w->symbols = (infer__symbol *)infer__alloc(w->mem, (uint64_t)cap * sizeof *w->symbols);
        w->heap = (uint64_t *)infer__alloc(w->mem, (uint64_t)cap * 2 * sizeof *w->heap);
        if (!w->symbols || !w->heap) return 0;
        w->symbols_cap = cap;
        w->heap_cap = cap * 2;
    }
    w->n = w->heap_n = 0;
    return 1;
}

static void infer__merge_push(infer__token_work *w, uint64_t entry) {
    size_t i = w->heap_n++, up;
    INFER__ASSERT(i < w->heap_cap);
    for (; i > 0 && w->heap[up = (i - 1) / 2] > entry; i = up) w->heap[i] = w->heap[up];
    w->heap[i] = entry;
}

static uint64_t infer__merge_pop(infer__token_work *w) {
    uint64_t top = w->heap[0], x = w->heap[--w->heap_n];
    size_t i = 0, child;
    while ((child = 2 * i + 1) < w->heap_n) {
        if (child + 1 < w->heap_n && w->heap[child + 1] < w->heap[child]) child++;
        if (w->heap[child] >= x) break;
        w->heap[i] = w->heap[child];
        i = child;
    }
    w->heap[i] = x;
    return top;
}

/* Sets pair and order of symbol i, which has a next one. */
typedef void (*infer__pair_fn)(const void *model, infer__token_work *w, int32_t i);

static void infer__merge_consider(infer__token_work *w, infer__pair_fn pair, const void *model, int32_t i) {
    infer__symbol *s = &w->symbols[i];
    s->pair = -1;
    if (s->next < 0) return;
    pair(model, w, i);
    if (s->pair >= 0) infer__merge_push(w, (uint64_t)s->order << 32 | (uint32_t)i);
}

/* Merge the n symbols of w until nothing can be merged: lowest order first, leftmost among equals. What remains is the
 * list from symbol 0 on. */
static void infer__merge_all(infer__token_work *w, infer__pair_fn pair, const void *model) {
    int32_t i;
    for (i = 0; i < (int32_t)w->n; i++) infer__merge_consider(w, pair, model, i);
    while (w->heap_n > 0) {
        uint64_t entry = infer__merge_pop(w);
        infer__symbol *s, *right;
        i = (int32_t)(uint32_t)entry;
        s = &w->symbols[i];
        if (s->pair < 0 || s->order != (uint32_t)(entry >> 32)) continue; /* out of date */
        right = &w->symbols[s->next];
        s->token = s->pair;
        s->next = right->next;
        right->pair = -1;
        if (s->next >= 0) w->symbols[s->next].prev = i;
        infer__merge_consider(w, pair, model, i);
        if (s->prev >= 0) infer__merge_consider(w, pair, model, s->prev);
    }
}

/* ---- the table of merges ----------------------------------------------------------------------------- */

static uint32_t infer__merge_hash(int32_t left, int32_t right) {
    uint64_t h = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0xbf58476d1ce4e5b9u;
    h = (h ^ h >> 32) * 0x94d049bb133111ebu;
    return (uint32_t)(h >> 32);
}

/* The merge of two tokens; NULL = none. */
static const infer__merge *infer__merge_find(const infer__merges *m, int32_t left, int32_t right) {
    uint32_t i;
    for (i = infer__merge_hash(left, right) & m->mask; m->slots[i].left >= 0; i = (i + 1) & m->mask) {
        if (m->slots[i].left == left && m->slots[i].right == right) return &m->slots[i];
    }
    return NULL;
}

/* 1 = added or there already (the first one counts), 0 = refused: too many merges with one hash. */
static int infer__merge_add(infer__merges *m, const infer__merge *x) {
    uint32_t i, probes = 0;
    for (i = infer__merge_hash(x->left, x->right) & m->mask; m->slots[i].left >= 0; i = (i + 1) & m->mask) {
        if (m->slots[i].left == x->left && m->slots[i].right == x->right) return 1;
        if (++probes > INFER__MERGE_PROBES_MAX) return 0;
    }
    m->slots[i] = *x;
    return 1;
}

/* "left right" -> ids. 0 = no merge of tokens. scratch holds v->longest bytes. x->token is that of the merge before:
 * in most vocabularies tokens stand in the order of their merges, so it, or the next one, is likely the result. */
static int infer__merge_parse(const infer__vocab *v, const infer__str *s, char *scratch, infer__merge *x) {
    const char *space = s->n > 1 ? (const char *)memchr(s->s + 1, ' ', (size_t)s->n - 1) : NULL;
    size_t n_left, n_right;
    if (!space || s->n - 1 > v->longest) return 0;
    n_left = (size_t)(space - s->s);
    n_right = (size_t)s->n - n_left - 1;
    memcpy(scratch, s->s, n_left);
    memcpy(scratch + n_left, space + 1, n_right);
    x->left = infer__vocab_find(v, scratch, n_left);
    x->right = infer__vocab_find(v, scratch + n_left, n_right);
    if (x->token < 0 || !infer__vocab_is(v, x->token, scratch, n_left + n_right)) {
        x->token++;
        if (x->token >= v->n || !infer__vocab_is(v, x->token, scratch, n_left + n_right)) {
            x->token = infer__vocab_find(v, scratch, n_left + n_right);
        }
    }
    return x->left >= 0 && x->right >= 0 && x->token >= 0 && !(v->flags[x->token] & INFER_TOKEN_CONTROL);
}

static infer_result infer__merges_open(infer__merges *m, const infer__vocab *v, const infer__report *report,
                                       const infer__gguf *g, infer_error *err) {
    const infer__kv *kv = infer__gguf_find(g, "tokenizer.ggml.merges");
    const infer__str *text;
    uint64_t size = 16, i, ignored = 0;
    infer_result r = INFER_OK;
    char *scratch;
    infer__merge x;

    memset(m, 0, sizeof *m);
    if (!kv || !infer__kv_is_strings(kv) || kv->n >= 1u << 30) {
        return infer__error(err, INFER_ERR_FORMAT, "tokenizer.ggml.merges is not an array of texts");
    }
    text = (const infer__str *)kv->data;
    while (size / 3 * 2 < kv->n) size *= 2;
    m->slots = (infer__merge *)infer__alloc(v->mem, size * sizeof *m->slots);
    scratch = (char *)infer__alloc(v->mem, v->longest + 1);
    if (!m->slots || !scratch) {
        r = infer__error(err, INFER_ERR_MEMORY, "out of memory for %llu merges", (unsigned long long)kv->n);
        goto done;
    }
    memset(m->slots, 0xff, (size_t)size * sizeof *m->slots); /* left = -1 */
    m->mask = (uint32_t)(size - 1);
    memset(&x, 0, sizeof x);
    for (i = 0; i < kv->n; i++) {
        x.rank = (uint32_t)i;
        if (!infer__merge_parse(v, &text[i], scratch, &x)) {
            ignored++;
        } else if (!infer__merge_add(m, &x)) {
            r = infer__error(err, INFER_ERR_FORMAT, "tokenizer.ggml.merges: too many merges with one hash");
            goto done;
        }
    }
    if (ignored) {
        infer__log(report, 2, "tokenizer.ggml.merges: %llu of %llu name no tokens: ignored",
                   (unsigned long long)ignored, (unsigned long long)kv->n);
    }
done:
    infer__free(v->mem, scratch);
    if (r != INFER_OK) {
        infer__free(v->mem, m->slots);
        m->slots = NULL;
    }
    return r;
}

/* ---- words ------------------------------------------------------------------------------------------ */

static void infer__bpe_pair(const void *model, infer__token_work *w, int32_t i) {
    infer__symbol *s = &w->symbols[i];
    int32_t right = w->symbols[s->next].token;
    const infer__merge *m;
    if (s->token < 0 || right < 0) return;
    m = infer__merge_find((const infer__merges *)model, s->token, right);
    if (!m) return;
    s->pair = m->token;
    s->order = m->rank;
}

/* The token that is the whole word, -1 = none, -2 = out of memory. */
static int32_t infer__bpe_whole(const infer__vocab *v, infer__token_work *w, const char *s, size_t n) {
    size_t i, len = 0;
    int32_t token;
    if (n > v->longest) return -1;
    if (!infer__token_work_text(w, 2 * n + 2)) return -2;
    for (i = 0; i < n; i++) len += infer__utf8_put(infer__byte_to_char((uint8_t)s[i]), w->text + len);
    token = infer__vocab_find(v, w->text, len);
    return token >= 0 && (v->flags[token] & (INFER_TOKEN_CONTROL | INFER_TOKEN_UNKNOWN)) ? -1 : token;
}

/* Make the symbols of one word, merged as far as it goes. 0 = out of memory. */
static int infer__bpe_word(const infer__vocab *v, const infer__merges *m, const infer__pretokenizer *pre,
                           infer__token_work *w, const char *s, size_t n) {
    size_t i;
    if (!infer__merge_reserve(w, n)) return 0;
    if (pre->flags & INFER__PRE_IGNORE_MERGES) {
        int32_t whole = infer__bpe_whole(v, w, s, n);
        if (whole == -2) return 0;
        if (whole >= 0) {
            w->symbols[0].token = whole;
            w->symbols[0].next = -1;
            return 1;
        }
    }
    for (i = 0; i < n; i++) {
        infer__symbol *x = &w->symbols[i];
        x->at = (uint32_t)i;
        x->prev = (int32_t)i - 1;
        x->next = i + 1 < n ? (int32_t)i + 1 : -1;
        x->token = v->byte_token[(uint8_t)s[i]];
    }
    w->n = n;
    infer__merge_all(w, infer__bpe_pair, m);
    return 1;
}

static int infer__bpe_tokenize(const infer__vocab *v, const infer__merges *m, const infer__pretokenizer *pre,
                               infer__token_work *w, const char *s, size_t n, infer__token_sink *sink) {
    size_t len;
    int32_t i, token;
    if (!infer__words_open(w, n)) return 0;
    for (; n > 0; s += len, n -= len) {
        len = pre->split(s, n);
        INFER__ASSERT(len > 0 && len <= n);
        if (infer__word_known(w, s, len, sink)) continue;
        if (!infer__bpe_word(v, m, pre, w, s, len)) return 0;
        for (i = 0; i >= 0; i = w->symbols[i].next) {
            token = w->symbols[i].token;
            if (token < 0) token = v->special[INFER_SPECIAL_UNK]; /* a byte that the vocabulary lacks */
            if (token >= 0) infer__token_put(sink, token);
        }
        infer__word_made(sink);
    }
    return 1;
}
