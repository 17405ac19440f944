/* sampler_dry.c: DRY ("don't repeat yourself"): a penalty for tokens that would extend a repetition.
 *
 * Owns:  infer__dry (sequence breakers as tokens) and the stage.
 * Rules: parameters and results as in llama.cpp: a token that would extend a repetition of n tokens, n >= allowed,
 *        loses multiplier * base^(n - allowed). Repetitions do not extend across a sequence breaker, and a token that
 *        contains a breaker is never penalised. Breakers are found once, when a sampler is created; a choice takes time
 *        linear in the tokens it examines.
 * Source: the idea and its parameters are p-e-w's (github.com/oobabooga/text-generation-webui, pull request 5677).
 * Start: infer__run_dry.
 */
#include "../text.h"

enum { INFER__DRY_BREAKERS = 64, INFER__DRY_BYTES = 40, INFER__DRY_TAIL = 20, INFER__DRY_ENTRIES = 1 << 24 };

/* A token in which a breaker ends or begins, and the tokens that must follow it: the rest of the breaker. */
typedef struct infer__dry_entry {
    infer_token head;
    int32_t tail, n_tail; /* tails[tail .. tail + n_tail); n_tail = 0: the token holds a whole breaker */
} infer__dry_entry;

typedef struct infer__dry {
    infer__mem *mem;
    infer__dry_entry *entries; /* in order of heads */
    infer_token *tails;
    int32_t n, cap, n_tails, cap_tails;
} infer__dry;

/* ---- breakers ------------------------------------------------------------------------------------------------ */
INFER__COLD_BEGIN

/* One breaker while it is looked for: its text, and the tokens of the text from each of its bytes on. */
typedef struct infer__breaker {
    const char *s;
    int32_t n;
    int32_t tail[INFER__DRY_BYTES], n_tail[INFER__DRY_BYTES]; /* n_tail < 0: not made yet */
} infer__breaker;

static void infer__dry_free(const infer__dry *dry) {
    infer__mem *mem;
    if (!dry) return;
    mem = dry->mem;
    infer__free(mem, dry->entries);
    infer__free(mem, dry->tails);
    infer__free(mem, (void *)(uintptr_t)dry);
}

static infer_result infer__dry_memory(infer_error *err) {
    return infer__error(err, INFER_ERR_MEMORY, "sampler: no memory for sequence breakers");
}

/* The tokens after an entry's head, and the end of the entries; NULL where there are none (adding to NULL is
 * undefined). */
static const infer_token *infer__dry_behind(const infer__dry *dry, const infer__dry_entry *e) {
    return e->n_tail ? dry->tails + e->tail : NULL;
}
static const infer__dry_entry *infer__dry_end(const infer__dry *dry) {
    return dry && dry->n ? dry->entries + dry->n : NULL;
}

static int infer__dry_same(const infer_token *a, const infer_token *b, int32_t n) {
    return n == 0 || memcmp(a, b, (size_t)n * sizeof *a) == 0; /* without tails they are NULL */
}

/* Entries of the token that was added last: is this one among them? */
static int infer__dry_has(const infer__dry *dry, const infer__dry_entry *e) {
    int32_t i;
    for (i = dry->n - 1; i >= 0 && dry->entries[i].head == e->head; i--) {
        const infer__dry_entry *old = &dry->entries[i];
        if (old->n_tail == 0) return 1; /* a whole breaker makes all others needless */
        if (old->n_tail == e->n_tail &&
            infer__dry_same(infer__dry_behind(dry, old), infer__dry_behind(dry, e), e->n_tail))
            return 1;
    }
    return 0;
}

static infer_result infer__dry_add(infer__dry *dry, const infer__dry_entry *e, infer_error *err) {
    if (infer__dry_has(dry, e)) return INFER_OK;
    if (dry->n == dry->cap) {
        int32_t cap = dry->cap ? dry->cap * 2 : 64;
        void *p = cap > INFER__DRY_ENTRIES
                      ? NULL
                      : infer__realloc(dry->mem, dry->entries, (uint64_t)cap, sizeof *dry->entries);
        if (!p) return infer__dry_memory(err);
        dry->entries = (infer__dry_entry *)p;
        dry->cap = cap;
    }
    dry->entries[dry->n++] = *e;
    return INFER_OK;
}

/* The tokens of b from byte `from` on, at most INFER__DRY_TAIL. */
static infer_result infer__dry_tail(infer__dry *dry, const infer__tokenizer *t, infer__breaker *b, int32_t from,
                                    infer_error *err) {
    size_t count = 0;
    infer_result r;
    if (b->n_tail[from] >= 0) return INFER_OK;
    if (dry->cap_tails - dry->n_tails < INFER__DRY_TAIL) {
        int32_t cap = dry->cap_tails * 2 + 4 * INFER__DRY_TAIL; /* at most 64 * 40 tails */
        void *p = infer__realloc(dry->mem, dry->tails, (uint64_t)cap, sizeof *dry->tails);
        if (!p) return infer__dry_memory(err);
        dry->tails = (infer_token *)p;
        dry->cap_tails = cap;
    }
    r = infer__tokenize(t, dry->mem, b->s + from, (size_t)(b->n - from), 0, dry->tails + dry->n_tails, INFER__DRY_TAIL,
                        &count, err);
    if (r != INFER_OK) return r;
    b->tail[from] = dry->n_tails;
    b->n_tail[from] = (int32_t)INFER__MIN(count, (size_t)INFER__DRY_TAIL);
    dry->n_tails += b->n_tail[from];
    return INFER_OK;
}

/* What one token's text has of a breaker: all of it, or its beginning at the text's end. */
static infer_result infer__dry_token(infer__dry *dry, const infer__tokenizer *t, infer__breaker *b, infer_token head,
                                     const char *text, size_t n, infer_error *err) {
    infer__dry_entry e;
    size_t i, k;
    e.head = head;
    e.tail = e.n_tail = 0;
    for (i = 0; i + (size_t)b->n <= n; i++)
        if (text[i] == b->s[0] && memcmp(text + i, b->s, (size_t)b->n) == 0) return infer__dry_add(dry, &e, err);
    for (k = INFER__MIN(n, (size_t)b->n - 1); k > 0; k--) {
        infer_result r;
        if (memcmp(text + n - k, b->s, k) != 0) continue;
        if ((r = infer__dry_tail(dry, t, b, (int32_t)k, err)) != INFER_OK) return r;
        e.tail = b->tail[k];
        e.n_tail = b->n_tail[k];
        if ((r = infer__dry_add(dry, &e, err)) != INFER_OK) return r;
    }
    return INFER_OK;
}

/* All tokens against all breakers, token by token, so that entries come in order. */
static infer_result infer__dry_search(infer__dry *dry, const infer__tokenizer *t, infer__breaker *b, int32_t n_breakers,
                                      infer_error *err) {
    infer_result r = INFER_OK;
    int32_t i, k, n = infer__tokenizer_size(t);
    for (i = 0; i < n && r == INFER_OK; i++) {
        char room[64], *s = room, *large = NULL;
        size_t len = 0;
        r = infer__detokenize(t, &i, 1, INFER_TEXT_WRITE_SPECIAL, room, sizeof room, &len, err);
        if (r == INFER_OK && len > sizeof room) {
            s = large = (char *)infer__alloc(dry->mem, len);
            r = s ? infer__detokenize(t, &i, 1, INFER_TEXT_WRITE_SPECIAL, s, len, &len, err) : infer__dry_memory(err);
        }
        for (k = 0; k < n_breakers && r == INFER_OK; k++) r = infer__dry_token(dry, t, &b[k], i, s, len, err);
        infer__free(dry->mem, large);
    }
    return r;
}

/* The breakers of a JSON array of texts. */
static infer_result infer__dry_breakers(const infer_json *list, infer__breaker *b, int32_t *n, infer_error *err) {
    uint64_t i;
    int32_t k;
    if (list->kind != INFER_JSON_ARRAY)
        return infer__error(err, INFER_ERR_ARGUMENT, "sequence breakers: text is not a JSON array of texts");
    if (list->n > INFER__DRY_BREAKERS)
        return infer__error(err, INFER_ERR_ARGUMENT, "sequence breakers: more than %d", (int)INFER__DRY_BREAKERS);
    for (i = 0; i < list->n; i++) {
        const infer_json *v = &list->v.items[i];
        if (v->kind != INFER_JSON_STRING || v->n == 0 || v->n > INFER__DRY_BYTES)
            return infer__error(err, INFER_ERR_ARGUMENT, "sequence breakers: number %d is not a text of 1 to %d bytes",
                                (int)i, (int)INFER__DRY_BYTES);
        b[i].s = v->s;
        b[i].n = (int32_t)v->n;
        for (k = 0; k < INFER__DRY_BYTES; k++) b[i].n_tail[k] = -1;
    }
    *n = (int32_t)list->n;
    return INFER_OK;
}

/* The sequence breakers of a stage (text: a JSON array, NULL = the usual ones); *out stays NULL when there are none. */
static infer_result infer__dry_open(const infer__dry **out, infer__mem *mem, const infer__tokenizer *t,
                                    const char *text, infer_error *err) {
    infer__breaker *b = NULL;
    const infer_json *list = NULL;
    infer__dry *dry = NULL;
    infer__arena arena;
    infer_result r;
    int32_t n = 0;
    *out = NULL;
    memset(&arena, 0, sizeof arena);
    arena.mem = mem;
    if (!text) text = "[\"\\n\", \":\", \"\\\"\", \"*\"]";
    r = infer__json_parse(&list, &arena, text, strlen(text), err);
    if (r == INFER_OK) {
        b = (infer__breaker *)infer__calloc(mem, INFER__DRY_BREAKERS, sizeof *b);
        r = b ? infer__dry_breakers(list, b, &n, err) : infer__dry_memory(err);
    }
    if (r == INFER_OK && n > 0 && (!t || infer__tokenizer_size(t) == 0))
        r = infer__error(err, INFER_ERR_ARGUMENT, "sequence breakers need a model with a vocabulary (\"[]\" = none)");
    if (r == INFER_OK && n > 0) {
        dry = (infer__dry *)infer__calloc(mem, 1, sizeof *dry);
        if (dry) dry->mem = mem;
        r = dry ? infer__dry_search(dry, t, b, n, err) : infer__dry_memory(err);
    }
    infer__free(mem, b);
    infer__arena_free(&arena);
    if (r != INFER_OK) infer__dry_free(dry);
    else *out = dry;
    return r;
}

INFER__COLD_END
/* The first entry of a token, or NULL. */
static const infer__dry_entry *infer__dry_find(const infer__dry *dry, infer_token head) {
    int32_t lo = 0, hi = dry ? dry->n : 0;
    while (lo < hi) {
        int32_t mid = lo + (hi - lo) / 2;
        if (dry->entries[mid].head < head) lo = mid + 1;
        else hi = mid;
    }
    return dry && lo < dry->n && dry->entries[lo].head == head ? &dry->entries[lo] : NULL;
}

static int infer__dry_is_breaker(const infer__dry *dry, infer_token token) {
    const infer__dry_entry *e = infer__dry_find(dry, token), *end = infer__dry_end(dry);
    for (; e && e < end && e->head == token; e++) if (e->n_tail == 0) return 1;
    return 0;
}

/* ---- the stage -------------------------------------------------------------------------------------------------- */

/* How many of the last tokens t[0..n) come after the newest breaker: what a repetition may be made of. */
static int32_t infer__dry_reach(const infer__dry *dry, const infer_token *t, int32_t n) {
    const infer__dry_entry *end = infer__dry_end(dry);
    int32_t i;
    for (i = 0; end && i < n; i++) { /* the breaker begins i tokens before the last one */
        const infer__dry_entry *e = infer__dry_find(dry, t[n - 1 - i]);
        int32_t longest = -1;
        for (; e && e < end && e->head == t[n - 1 - i]; e++) {
            if (e->n_tail > longest && e->n_tail <= i &&
                infer__dry_same(t + n - i, infer__dry_behind(dry, e), e->n_tail)) longest = e->n_tail;
        }
        if (longest >= 0) return i - longest;
    }
    return n;
}

/* z[k] = how many tokens before t[n - k] (k >= 1, t[n - k] excluded, counted backwards) equal the last ones of t. The Z
 * algorithm on the reversed text (Gusfield: Algorithms on strings, trees and sequences, 1.3). */
static void infer__dry_repeats(const infer_token *t, int32_t n, int32_t *z) {
    int32_t k, begin = 0,
               end = 0; /* of the stretch that reaches furthest: reversed [begin, end) equals [0, end - begin) */
    for (k = 1; k < n; k++) {
        int32_t len = k < end ? INFER__MIN(z[k - begin], end - k) : 0;
        while (k + len < n && t[n - 1 - len] == t[n - 1 - k - len]) len++;
        z[k] = len;
        if (k + len > end) {
            begin = k;
            end = k + len;
        }
    }
}

static void infer__dry_penalise(const infer_stage *st, float *x, int32_t repeat) {
    volatile float penalty, y;
    if (!infer__bits_finite(infer__f32_bits(*x))) return;
    penalty = infer__power(st->p[1], repeat - (int32_t)st->p[2]);
    penalty = penalty * st->p[0];
    penalty = infer__clamp_logit(infer__f32_bits(penalty));
    y = *x;
    y = y - penalty;
    *x = infer__clamp_logit(infer__f32_bits(y));
}

static infer_result infer__run_dry(infer_sampler *s, const infer_stage *st, infer_error *err) {
    const infer__dry *dry = s->states[st - s->stages].dry;
    const infer_token *t;
    void *p = s->repeats;
    int32_t i, k, n, reach, allowed = (int32_t)INFER__MIN(st->p[2], 1e9f), any = 0;
    float *x = NULL;
    infer_result r;
    if (st->p[0] == 0 || st->p[1] < 1.0f) return INFER_OK;
    t = infer__last_tokens(s, st->p[3], &n);
    if (n <= allowed || (reach = infer__dry_reach(dry, t, n)) < allowed) return INFER_OK;
    r = infer__sampler_grow(s, &p, &s->cap_repeats, INFER__MAX(n, s->cap_history), sizeof *s->repeats, "tokens", err);
    s->repeats = (int32_t *)p;
    if (r != INFER_OK || (r = infer__reserve_counts(s, err)) != INFER_OK) return r;
    infer__dry_repeats(t, n, s->repeats);
    for (k = 1; k < n; k++) { /* the last tokens stand before t[n - k] too: that token would go on with them */
        int32_t len = INFER__MIN(s->repeats[k], reach);
        infer_token next = t[n - k];
        if (len < allowed || next >= s->n_vocab || infer__dry_is_breaker(dry, next)) continue;
        s->counts[next] = INFER__MAX(s->counts[next], len + 1);
        any = 1;
    }
    if (any && s->dense && (r = infer__own_logits(s, &x, err)) == INFER_OK) {
        for (i = 0; i < n; i++) {
            if (t[i] >= s->n_vocab || s->counts[t[i]] == 0) continue;
            infer__dry_penalise(st, &x[t[i]], s->counts[t[i]] - 1);
            s->counts[t[i]] = 0;
        }
    }
    for (i = 0; any && !s->dense && i < s->n; i++) {
        int32_t count = s->counts[s->c[i].token];
        if (count) { infer__dry_penalise(st, &s->c[i].logit, count - 1); s->sorted = 0; }
    }
    for (i = 0; i < n; i++) if (t[i] < s->n_vocab) s->counts[t[i]] = 0;
    return r;
}
