/* token_bpe.c: merging pairs, and byte-level BPE.
 *
 * Owns:  the merge loop that BPE and SPM share (a linked list of symbols and a heap of possible merges: n log n), the
 *        table of merges by pair of ids, and the words of one call.
 * Rules: ids, not texts, are merged; texts are read once per merge, when the table is built. A merge that names
 *        something that is not a token, or that would make a control, unknown or byte token from plain text, is
 *        ignored; nor does a single byte or character become such a token.
 * Invariants: the result does not depend on the order in which equal entries leave the heap: an entry is applied only
 *        if its symbol and the next one still give it.
 * Start: infer__bpe_tokenize.
 */
#include "../text.h"

enum {
    INFER__WORD_TOKENS = 7,    /* of a remembered word */
    INFER__WORD_BYTES = 31,
    INFER__WORDS_MIN = 256,    /* remembered at a time: a power of two, */
    INFER__WORDS_MAX = 1 << 15, /* one for every 8 bytes of text */
    INFER__WORDS_FROM = 1024,  /* bytes of text from which remembering pays for clearing the table */
    INFER__SMALL = 32,         /* symbols of a word that is merged without a heap */
    INFER__MERGES_READ = 32,   /* at once */
    INFER__MERGE_PROBES_MAX = 1024
};
/* A word of the text and what became of it: most words of a long text come again. One cache line. */
struct infer__word {
    uint64_t key[4]; /* the word's bytes, then zeros; its length in the last byte, 0 = no word */
    int32_t tokens[INFER__WORD_TOKENS];
    uint32_t count;
};

INFER__INLINE void infer__token_put(infer__token_sink *sink, int32_t token) {
    if (sink->count < sink->cap) sink->out[sink->count] = token;
    sink->count++;
    if (sink->keep) {
        if (sink->keep->count < INFER__WORD_TOKENS) sink->keep->tokens[sink->keep->count] = token;
        sink->keep->count++;
    }
}

/* A symbol that is no token: its bytes, or one unknown token when one of them has none. */
static void infer__token_put_bytes(const infer__vocab *v, const char *s, size_t n, infer__token_sink *sink) {
    size_t i;
    for (i = 0; i < n && v->byte_token[(uint8_t)s[i]] >= 0; i++) {
    }
    if (i == n) {
        for (i = 0; i < n; i++) infer__token_put(sink, v->byte_token[(uint8_t)s[i]]);
    } else if (v->unknown >= 0) {
        infer__token_put(sink, v->unknown);
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

/* ---- words of vocabularies that spell a space as U+2581 ---- */

/* Bytes up to the first space that no token joins to the preceding byte: merges never cross it. */
static size_t infer__space_split(const infer__vocab *v, const char *s, size_t n) {
    const uint8_t space_end = 0x81; /* last byte of U+2581, which a space will be */
    size_t at;
    for (at = 1; at < n; at++) {
        if (s[at] == ' ' && !v->joins[s[at - 1] == ' ' ? space_end : (uint8_t)s[at - 1]]) return at;
    }
    return n;
}

/* ---- remembered words -------------------------------------------------------------------------------- */

/* Before the words of a text of n bytes. 0 = out of memory. */
static int infer__words_open(infer__token_work *w, size_t n) {
    uint32_t size = INFER__WORDS_MIN;
    if (n < INFER__WORDS_FROM || w->words) return 1;
    while (size < INFER__WORDS_MAX && size < n / 8) size *= 2;
    w->words = (struct infer__word *)infer__calloc(w->mem, size, sizeof *w->words);
    w->words_mask = size - 1;
    return w->words != NULL;
}

/* The key of s[0..n), 0 < n <= INFER__WORD_BYTES; `room` bytes may be read. */
INFER__INLINE void infer__word_key(const char *s, size_t n, size_t room, uint64_t key[4]) {
    size_t i;
    if (room < 32) {
        char copy[32] = {0};
        memcpy(copy, s, n);
        for (i = 0; i < 4; i++) key[i] = infer__load_u64(copy + 8 * i);
    } else {
        key[0] = infer__load_u64(s);
        key[1] = key[2] = key[3] = 0;
        if (n < 8) {
            key[0] &= ((uint64_t)1 << 8 * n) - 1;
        } else {
            for (i = 1; i < (n + 7) / 8; i++) key[i] = infer__load_u64(s + 8 * i);
            if (n % 8) key[i - 1] &= ((uint64_t)1 << 8 * (n % 8)) - 1;
        }
    }
    key[3] |= (uint64_t)n << 56;
}

/* 1 = the word was seen before, its ids are put. 0 = it has to be made: put its ids, then call infer__word_made. `room`
 * bytes may be read at s. */
INFER__INLINE int infer__word_known(infer__token_work *w, const char *s, size_t n, size_t room,
                                    infer__token_sink *sink) {
    struct infer__word *word;
    uint64_t key[4], h;
    uint32_t i;
    if (!w->words || n > INFER__WORD_BYTES) return 0;
    infer__word_key(s, n, room, key);
    h = (key[0] ^ (key[1] + key[2] * 3 + key[3] * 5) * 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
    word = &w->words[(h ^ h >> 29) >> 20 & w->words_mask];
    if (((word->key[0] ^ key[0]) | (word->key[1] ^ key[1]) | (word->key[2] ^ key[2]) | (word->key[3] ^ key[3])) == 0) {
        if (sink->out && sink->count + word->count <= sink->cap) {
            infer_token *out = sink->out + sink->count;
            for (i = 0; i < word->count; i++) out[i] = word->tokens[i];
            sink->count += word->count;
        } else {
            for (i = 0; i < word->count; i++) infer__token_put(sink, word->tokens[i]);
        }
        return 1;
    }
    memcpy(word->key, key, sizeof key);
    word->count = 0;
    sink->keep = word;
    return 0;
}
static void infer__word_made(infer__token_sink *sink) {
    if (sink->keep && sink->keep->count > INFER__WORD_TOKENS) sink->keep->key[3] = 0; /* too many to remember */
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
    while (w->heap_n > 0 && infer__watch_work(w->watch, 2)) {
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

/* The slot of the merge of two tokens, or the empty one where it would go; NULL = more probes than allowed. Of the hash
 * a slot holds the bits that its rank leaves free, so that others' merges are seldom looked at. */
INFER__INLINE uint32_t *infer__merge_slot(const infer__merges *m, int32_t left, int32_t right) {
    uint32_t hash = infer__merge_hash(left, right), i = hash & m->mask, probes = 0, tag = hash & ~m->ranks;
    for (; m->slots[i] != UINT32_MAX; i = (i + 1) & m->mask) {
        uint32_t rank = m->slots[i] & m->ranks;
        if ((m->slots[i] & ~m->ranks) == tag && m->list[rank].left == left && m->list[rank].right == right) break;
        if (++probes > INFER__MERGE_PROBES_MAX) return NULL;
    }
    return &m->slots[i];
}

/* The rank of the merge of two tokens; UINT32_MAX = none. */
INFER__INLINE uint32_t infer__merge_rank(const infer__merges *m, int32_t left, int32_t right) {
    const uint32_t *slot = infer__merge_slot(m, left, right);
    return !slot || *slot == UINT32_MAX ? UINT32_MAX : *slot & m->ranks;
}

/* The rank of the merge of tokens i and i + 1 of n, and what they become; UINT32_MAX = none. */
INFER__INLINE uint32_t infer__bpe_rank(const infer__merges *m, const int32_t *token, int32_t i, int32_t n,
                                       int32_t *pair) {
    uint32_t rank;
    *pair = -1;
    if (i + 1 >= n || token[i] < 0 || token[i + 1] < 0) return UINT32_MAX;
    rank = infer__merge_rank(m, token[i], token[i + 1]);
    if (rank != UINT32_MAX) *pair = m->list[rank].token;
    return rank;
}

/* "left right" of the file. */
typedef struct infer__merge_text {
    const char *left, *right;
    size_t n_left, n_right; /* n_left 0 = there is no space between two texts */
    uint32_t hash_left, hash_right;
} infer__merge_text;

/* Read n merges, and ask for the memory that infer__merge_ids will look at: a table of tokens is larger than caches,
 * and one merge after the other would wait for it several times. */
static void infer__merge_read(const infer__vocab *v, const infer__str *text, uint32_t n, infer__merge_text *out) {
    uint32_t i;
    int32_t token;
    for (i = 0; i < n; i++) {
        const infer__str *s = &text[i];
        const char *space = s->n > 1 ? (const char *)memchr(s->s + 1, ' ', (size_t)s->n - 1) : NULL;
        infer__merge_text *x = &out[i];
        memset(x, 0, sizeof *x);
        if (!space || s->n - 1 > v->longest) continue;
        x->left = s->s;
        x->right = space + 1;
        x->n_left = (size_t)(space - s->s);
        x->n_right = (size_t)s->n - x->n_left - 1;
        x->hash_left = infer__vocab_hash(x->left, x->n_left);
        x->hash_right = infer__vocab_hash(x->right, x->n_right);
        INFER__PREFETCH(&v->slots[infer__vocab_slot(v, x->hash_left)]);
        INFER__PREFETCH(&v->slots[infer__vocab_slot(v, x->hash_right)]);
    }
    for (i = 0; i < 4 * n; i++) { /* first the views of all texts, then the texts */
        const infer__merge_text *x = &out[i / 2 % n];
        token = infer__vocab_guess(v, i & 1 ? x->hash_right : x->hash_left);
        if (token < 0) continue;
        if (i < 2 * n) INFER__PREFETCH(&v->text[token]);
        else INFER__PREFETCH(v->text[token].s);
    }
}

/* The ids of a merge; 0 = it names no tokens. m->token is that of the merge before: in most vocabularies tokens stand
 * in the order of their merges, so it, or the next one, is likely the result. scratch holds v->longest bytes. */
static int infer__merge_ids(const infer__vocab *v, const infer__merge_text *x, char *scratch, infer__merge *m) {
    int32_t t;
    if (x->n_left == 0) return 0;
    m->left = infer__vocab_find_hashed(v, x->left, x->n_left, x->hash_left);
    m->right = infer__vocab_find_hashed(v, x->right, x->n_right, x->hash_right);
    for (t = m->token; t >= 0 && t < v->n && t <= m->token + 1; t++) {
        const infer__str *s = &v->text[t];
        if (s->n == x->n_left + x->n_right && memcmp(s->s, x->left, x->n_left) == 0 &&
            memcmp(s->s + x->n_left, x->right, x->n_right) == 0) break;
    }
    if (t < 0 || t >= v->n || t > m->token + 1) {
        memcpy(scratch, x->left, x->n_left);
        memcpy(scratch + x->n_left, x->right, x->n_right);
        t = infer__vocab_find(v, scratch, x->n_left + x->n_right);
    }
    m->token = t;
    return m->left >= 0 && m->right >= 0 && t >= 0 && !(v->flags[t] & INFER__TOKEN_NEVER_TEXT);
}

/* Merges first .. first + n - 1 into the list and the table. Returns how many name no tokens, -1 = refused. */
static int32_t infer__merges_add(infer__merges *m, const infer__vocab *v, const infer__str *text, uint32_t first,
                                 uint32_t n, char *scratch) {
    int32_t ignored = 0, guess = first ? m->list[first - 1].token : 0;
    uint32_t i, *slot;
    infer__merge_text read[INFER__MERGES_READ];
    infer__merge_read(v, text + first, n, read);
    for (i = first; i < first + n; i++) {
        infer__merge *x = &m->list[i];
        x->token = guess;
        if (infer__merge_ids(v, &read[i - first], scratch, x)) guess = x->token;
        else x->left = -1;
        INFER__PREFETCH_WRITE(&m->slots[infer__merge_hash(x->left, x->right) & m->mask]);
    }
    for (i = first; i < first + n; i++) {
        const infer__merge *x = &m->list[i];
        if (x->left < 0) {
            ignored++;
            continue;
        }
        slot = infer__merge_slot(m, x->left, x->right);
        if (!slot) return -1;
        if (*slot == UINT32_MAX) *slot = i | (infer__merge_hash(x->left, x->right) & ~m->ranks); /* the first counts */
    }
    return ignored;
}

static infer_result infer__merges_begin(infer__merges_opening *x, infer__merges *m, const infer__vocab *v,
                                        const infer__gguf *g, infer_error *err) {
    const infer__kv *kv = infer__gguf_find(g, "tokenizer.ggml.merges");
    uint32_t size = 16;

    memset(x, 0, sizeof *x);
    memset(m, 0, sizeof *m);
    if (!kv || !infer__kv_is_strings(kv) || kv->n >= 1u << 30) {
        return infer__error(err, INFER_ERR_FORMAT, "tokenizer.ggml.merges is not an array of texts");
    }
    x->n = (uint32_t)kv->n;
    x->text = (const infer__str *)kv->data;
    while (size / 3 * 2 < x->n) size *= 2;
    m->mask = size - 1;
    while (m->ranks <= x->n) m->ranks = m->ranks * 2 + 1; /* > n, so that no slot in use is UINT32_MAX */
    m->slots = (uint32_t *)infer__alloc(v->mem, (uint64_t)size * sizeof *m->slots);
    m->list = (infer__merge *)infer__alloc(v->mem, ((uint64_t)x->n + 1) * sizeof *m->list);
    x->scratch = (char *)infer__alloc(v->mem, v->longest + 1);
    if (m->slots && m->list && x->scratch) return INFER_OK;
    return infer__error(err, INFER_ERR_MEMORY, "out of memory for %u merges", (unsigned)x->n);
}

static infer_result infer__merges_step(infer__merges_opening *x, infer__merges *m, const infer__vocab *v,
                                       const infer__report *report, infer__budget *budget, infer_error *err) {
    uint32_t n;
    int32_t more;
    while (x->emptied <= m->mask) {
        n = (uint32_t)infer__budget_bytes(budget, (m->mask + 1 - x->emptied) * (uint64_t)sizeof *m->slots) /
            (uint32_t)sizeof *m->slots;
        memset(m->slots + x->emptied, 0xff, n * sizeof *m->slots); /* UINT32_MAX */
        x->emptied += n;
        if (infer__budget_over(budget, n * sizeof *m->slots / INFER__BUDGET_BYTES)) return INFER_MORE;
    }
    while (x->i < x->n) {
        const uint32_t to = x->i + (uint32_t)infer__budget_piece(budget, x->n - x->i, 2), from = x->i;
        for (; x->i < to; x->i += n) {
            n = INFER__MIN(to - x->i, INFER__MERGES_READ);
            more = infer__merges_add(m, v, x->text, x->i, n, x->scratch);
            if (more < 0)
                return infer__error(err, INFER_ERR_FORMAT, "tokenizer.ggml.merges: too many merges with one hash");
            x->ignored += (uint32_t)more;
        }
        if (infer__budget_over(budget, 2 * (uint64_t)(to - from))) return INFER_MORE;
    }
    if (x->ignored)
        infer__log(report, 2, "tokenizer.ggml.merges: %u of %u name no tokens: ignored", (unsigned)x->ignored,
                   (unsigned)x->n);
    return INFER_OK;
}

static void infer__merges_end(infer__merges_opening *x, infer__mem *mem) {
    infer__free(mem, x->scratch);
    x->scratch = NULL;
}

static void infer__merges_close(infer__merges *m, infer__mem *mem) {
    infer__free(mem, m->slots);
    infer__free(mem, m->list);
    m->slots = NULL;
    m->list = NULL;
}

/* ---- words ------------------------------------------------------------------------------------------ */

static void infer__bpe_pair(const void *model, infer__token_work *w, int32_t i) {
    infer__symbol *s = &w->symbols[i];
    int32_t right = w->symbols[s->next].token;
    const infer__merges *m = (const infer__merges *)model;
    if (s->token < 0 || right < 0) return;
    s->order = infer__merge_rank(m, s->token, right);
    if (s->order != UINT32_MAX) s->pair = m->list[s->order].token;
}

/* infer__bpe_pair without the tokens that are barred. */
static void infer__bpe_pair_open(const void *model, infer__token_work *w, int32_t i) {
    infer__symbol *s = &w->symbols[i];
    int32_t next = w->symbols[s->next].next;
    size_t end = next < 0 ? w->word_n : w->symbols[next].at;
    infer__bpe_pair(model, w, i);
    if (s->pair >= 0 && infer__token_barred(w, s->pair, w->word + s->at, end - s->at)) s->pair = -1;
}

/* infer__merge_all for few symbols: the best pair is looked for, and what stands after it moves up. */
static void infer__bpe_merge_few(const infer__merges *m, infer__token_work *w) {
    uint32_t rank[INFER__SMALL], best;
    int32_t token[INFER__SMALL], pair[INFER__SMALL], n = (int32_t)w->n, i, k;
    uint32_t at[INFER__SMALL];
    for (i = 0; i < n; i++) {
        token[i] = w->symbols[i].token;
        at[i] = w->symbols[i].at;
    }
    for (i = 0; i < n; i++) rank[i] = infer__bpe_rank(m, token, i, n, &pair[i]);
    while (n > 1) {
        for (best = UINT32_MAX, k = i = 0; i < n - 1; i++) {
            if (rank[i] < best) {
                best = rank[i];
                k = i;
            }
        }
        if (best == UINT32_MAX) break;
        token[k] = pair[k];
        n--;
        for (i = k + 1; i < n; i++) {
            token[i] = token[i + 1];
            at[i] = at[i + 1];
            rank[i] = rank[i + 1];
            pair[i] = pair[i + 1];
        }
        rank[k] = infer__bpe_rank(m, token, k, n, &pair[k]);
        if (k > 0) rank[k - 1] = infer__bpe_rank(m, token, k - 1, n, &pair[k - 1]);
    }
    for (i = 0; i < n; i++) {
        w->symbols[i].token = token[i];
        w->symbols[i].at = at[i];
        w->symbols[i].next = i + 1 < n ? i + 1 : -1;
    }
}

/* The token that is the whole word, -1 = none, -2 = out of memory. */
static int32_t infer__bpe_whole(const infer__vocab *v, infer__token_work *w, const char *s, size_t n) {
    size_t i, len = 0;
    int32_t token;
    if (n > v->longest) return -1;
    if (v->form == INFER__FORM_BYTES) {
        if (!infer__token_work_text(w, 2 * n + 2)) return -2;
        for (i = 0; i < n; i++) len += infer__utf8_put(infer__byte_to_char((uint8_t)s[i]), w->text + len);
        token = infer__vocab_find(v, w->text, len);
    } else {
        token = infer__vocab_find(v, s, n); /* a run of newlines */
    }
    return token >= 0 && (v->flags[token] & INFER__TOKEN_NEVER_TEXT) ? -1 : token;
}

/* The token of a character of a vocabulary spelled in UTF-8, -1 = none. */
static int32_t infer__bpe_char(const infer__vocab *v, const char *s, size_t n) {
    int32_t token;
    if (s[0] == ' ' && v->form == INFER__FORM_MARKED) token = infer__vocab_find(v, INFER__SPACE_MARK, 3);
    else token = infer__vocab_find(v, s, n);
    return token >= 0 && (v->flags[token] & INFER__TOKEN_NEVER_TEXT) ? -1 : token;
}

/* Make the symbols of one word, merged as far as it goes; careful = 1: without the tokens that are barred. 0 = out of
 * memory. */
static int infer__bpe_word(const infer__vocab *v, const infer__merges *m, const infer__pretokenizer *pre,
                           infer__token_work *w, const char *s, size_t n, int careful) {
    size_t at, len = 1;
    if (!infer__merge_reserve(w, n)) return 0;
    if ((pre->flags & INFER__PRE_IGNORE_MERGES) || ((pre->flags & INFER__PRE_LINES) && s[0] == '\n')) {
        int32_t whole = infer__bpe_whole(v, w, s, n);
        if (whole == -2) return 0;
        if (whole >= 0 && !(careful && infer__token_barred(w, whole, s, n))) {
            w->symbols[0].token = whole;
            w->symbols[0].next = -1;
            return 1;
        }
    }
    for (at = 0; at < n; at += len, w->n++) {
        infer__symbol *x = &w->symbols[w->n];
        x->token = v->byte_token[(uint8_t)s[at]];
        if (v->form != INFER__FORM_BYTES) {
            infer__utf8_next(s + at, n - at, &len, NULL);
            x->token = infer__bpe_char(v, s + at, len);
        }
        x->at = (uint32_t)at;
        x->prev = (int32_t)w->n - 1;
        x->next = at + len < n ? (int32_t)w->n + 1 : -1;
    }
    w->word = s;
    w->word_n = n;
    if (careful) infer__merge_all(w, infer__bpe_pair_open, m);
    else if (w->n <= INFER__SMALL) infer__bpe_merge_few(m, w);
    else infer__merge_all(w, infer__bpe_pair, m);
    return 1;
}

/* 1 when one of the tokens that the symbols have become is structure. Such a word is not remembered: the next one of
 * its bytes may be the template's, or not. */
static int infer__word_structure(const infer__token_work *w, infer__token_sink *sink) {
    int32_t i;
    if (!w->structure) return 0;
    for (i = 0; i >= 0; i = w->symbols[i].next) {
        if (!infer__structure_has(w->structure, w->symbols[i].token)) continue;
        if (sink->keep) sink->keep->key[3] = 0;
        sink->keep = NULL;
        return 1;
    }
    return 0;
}

/* The ids of the word whose symbols w holds. */
static void infer__bpe_put(const infer__vocab *v, const infer__token_work *w, const char *s, size_t n,
                           infer__token_sink *sink) {
    int32_t i;
    for (i = 0; i >= 0; i = w->symbols[i].next) {
        const infer__symbol *x = &w->symbols[i];
        size_t end = x->next < 0 ? n : w->symbols[x->next].at;
        if (x->token >= 0) infer__token_put(sink, x->token);
        else infer__token_put_bytes(v, s + x->at, end - x->at, sink);
    }
}

static int infer__bpe_tokenize(const infer__vocab *v, const infer__merges *m, const infer__pretokenizer *pre,
                               infer__token_work *w, const char *s, size_t n, infer__token_sink *sink) {
    const char *end = s + n;
    infer__splitter words;
    size_t len, part;
    if (!infer__words_open(w, n)) return 0;
    infer__split_begin(&words, pre, s, n);
    while ((len = infer__split_next(&words)) != 0) {
        for (s = words.at - len; len > 0; s += part, len -= part) {
            part = v->form == INFER__FORM_MARKED ? infer__space_split(v, s, len) : len;
            if (infer__word_known(w, s, part, (size_t)(end - s), sink)) continue;
            if (!((pre->flags & INFER__PRE_DROP_SPACE) && infer__span_most(s, part, INFER__UC_SPACE, 1))) {
                if (!infer__watch_work(w->watch, part) || !infer__bpe_word(v, m, pre, w, s, part, 0)) return 0;
                if (infer__word_structure(w, sink) && !infer__bpe_word(v, m, pre, w, s, part, 1)) return 0;
                infer__bpe_put(v, w, s, part, sink);
            }
            infer__word_made(sink);
        }
    }
    return 1;
}
