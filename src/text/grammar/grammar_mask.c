/* grammar_mask.c: which tokens of a vocabulary a state allows.
 *
 * Owns:  infer__spellings (the vocabulary as a trie of bytes), local masks, whole masks and their caches.
 * How:   a walk over the trie with the state's steps; a subtree is skipped where the state dies. In a wide state
 *        (inside a string) that visits the whole vocabulary, 1 ms. So most of it is done once per position in a
 *        routine, independent of the callers (XGrammar's idea, Dong et al. 2024): a state's items are grouped by frame,
 *        and a group is walked with a frame that says "cut". Its local mask has the tokens that stay in the routine,
 *        and the remainders of those that leave it, as a separate trie that is walked with the real callers: some
 *        hundred bytes. Inside x{m,n} the local mask counts repetitions relative to its position, and each token has
 *        the number that it needs; so one local mask serves all counts.
 * Rules: everything here is a cache: bounded, counted, dropped and rebuilt. Belongs to one thread at a time.
 * Start: infer__masks_get.
 */
#include "grammar.h"

enum { INFER__REST_MOST = 30000,   /* words of a local mask that leave its routine */
       INFER__REST_SUBTREE = 200,  /* from this many below one node on, the vocabulary's trie is walked */
       INFER__WORD_MOST = 4096 };  /* longer tokens are never allowed by their text */

/* ---- tries ---------------------------------------------------------------------------------------------------- */

/* a before b: -1, 0, 1. */
static int infer__gword_order(const infer__gword *a, const infer__gword *b) {
    int c = memcmp(a->s, b->s, INFER__MIN(a->n, b->n));
    if (c) return c;
    if (a->n != b->n) return a->n < b->n ? -1 : 1;
    return (a->token > b->token) - (a->token < b->token);
}

/* Merge sort, from runs of one up. Returns where the result is: words or other. */
static infer__gword *infer__gwords_sort(infer__gword *words, infer__gword *other, uint32_t n) {
    uint64_t width, i;
    for (width = 1; width < n; width *= 2) {
        infer__gword *swap = words;
        for (i = 0; i < n; i += 2 * width) {
            uint64_t a = i, mid = INFER__MIN(i + width, n), b = mid, end = INFER__MIN(i + 2 * width, n), k;
            for (k = i; k < end; k++)
                other[k] = b >= end || (a < mid && infer__gword_order(&words[a], &words[b]) <= 0) ? words[a++]
                                                                                                  : words[b++];
        }
        words = other;
        other = swap;
    }
    return words;
}

static void infer__gtrie_free(infer__gtrie *t) {
    if (!t->mem) return;
    infer__free(t->mem, t->nodes);
    infer__free(t->mem, t->words);
    memset(t, 0, sizeof *t);
}

/* Nodes of sorted words; `open` has room for depth + 1. */
static void infer__gtrie_fill(infer__gtrie *t, uint32_t *open) {
    uint32_t i, k, depth = 0, at = 1;
    open[0] = 0;
    t->nodes[0].word = t->nodes[0].key = 0;
    for (i = 0; i < t->n_words; i++) {
        const infer__gword *w = &t->words[i];
        for (k = 0; k < depth && k < w->n && t->words[i - 1].s[k] == w->s[k]; k++) {
        }
        for (; depth > k; depth--) t->nodes[open[depth]].end = at;
        for (; depth < w->n; at++) {
            t->nodes[at].key = (depth + 1) << 8 | (uint8_t)w->s[depth];
            t->nodes[at].word = i;
            open[++depth] = at;
        }
    }
    for (; depth > 0; depth--) t->nodes[open[depth]].end = at;
    t->nodes[0].end = at;
    t->nodes[at].word = t->n_words;
    t->nodes[at].end = at;
    t->nodes[at].key = 0;
}

/* The trie of n words of at least one byte, at most INFER__WORD_MOST; their texts are not copied. 1, or 0 without
 * memory. */
static int infer__gtrie_make(infer__gtrie *t, infer__mem *mem, const infer__gword *words, uint32_t n) {
    infer__gword *a, *b = NULL, *sorted;
    uint32_t i, k, *open = NULL;
    uint64_t nodes = 1;
    memset(t, 0, sizeof *t);
    t->mem = mem;
    a = (infer__gword *)infer__realloc(mem, NULL, (uint64_t)n + 1, sizeof *a);
    b = (infer__gword *)infer__realloc(mem, NULL, (uint64_t)n + 1, sizeof *b);
    if (!a || !b) goto fail;
    if (n) memcpy(a, words, n * sizeof *a);
    sorted = infer__gwords_sort(a, b, n);
    t->words = sorted;
    infer__free(mem, sorted == a ? b : a);
    a = b = NULL;
    t->n_words = n;
    for (i = 0; i < n; i++) {
        const infer__gword *w = &sorted[i];
        for (k = 0; i > 0 && k < w->n && k < w[-1].n && w->s[k] == w[-1].s[k]; k++) {
        }
        nodes += w->n - k;
        t->depth = INFER__MAX(t->depth, w->n);
    }
    if (nodes > INT32_MAX) goto fail;
    t->n_nodes = (uint32_t)nodes;
    t->nodes = (infer__gtrie_node *)infer__realloc(mem, NULL, nodes + 1, sizeof *t->nodes);
    open = (uint32_t *)infer__realloc(mem, NULL, (uint64_t)t->depth + 1, sizeof *open);
    if (!t->nodes || !open) goto fail;
    infer__gtrie_fill(t, open);
    infer__free(mem, open);
    return 1;
fail:
    infer__free(mem, a);
    infer__free(mem, b);
    infer__free(mem, open);
    infer__gtrie_free(t);
    return 0;
}

/* ---- the vocabulary --------------------------------------------------------------------------------------------- */

/* Words of the vocabulary to w, their texts to x->text, when not NULL; the number and bytes in any case. Control tokens
 * have no text that a grammar could mean. */
static uint32_t infer__spellings_words(infer__spellings *x, const infer__tokenizer *t, infer__gword *w,
                                       uint64_t *bytes) {
    uint32_t n = 0;
    int32_t i;
    *bytes = 0;
    for (i = 0; i < x->n; i++) {
        int32_t flags = infer__token_flags(t, i);
        size_t len = 0;
        if ((flags & INFER_TOKEN_END) || !(flags & INFER__GRAMMAR_TEXTS)) continue;
        infer__token_text(t, i, NULL, 0, &len);
        if (len == 0 || len > INFER__WORD_MOST) continue;
        if (w) {
            w[n].s = x->text + *bytes;
            w[n].n = (uint32_t)len;
            w[n].token = i;
            w[n].need = 0;
            infer__token_text(t, i, x->text + *bytes, len, &len);
        }
        *bytes += len;
        n++;
    }
    return n;
}

static infer_result infer__spellings_open(infer__spellings *x, infer__mem *mem, const infer__tokenizer *t,
                                        infer_error *err) {
    infer__gword *words = NULL;
    uint64_t bytes;
    uint32_t n;
    int32_t i;
    int ok;
    memset(x, 0, sizeof *x);
    x->mem = mem;
    x->n = infer__tokenizer_size(t);
    n = infer__spellings_words(x, t, NULL, &bytes);
    x->text = (char *)infer__alloc(mem, bytes + 1);
    x->ends = (uint32_t *)infer__calloc(mem, (uint64_t)x->n / 32 + 1, sizeof *x->ends);
    words = (infer__gword *)infer__realloc(mem, NULL, (uint64_t)n + 1, sizeof *words);
    ok = x->text && x->ends && words;
    if (ok) {
        infer__spellings_words(x, t, words, &bytes);
        for (i = 0; i < x->n; i++)
            if (infer__token_flags(t, i) & INFER_TOKEN_END) x->ends[i >> 5] |= 1u << (i & 31);
        ok = infer__gtrie_make(&x->trie, mem, words, n);
    }
    infer__free(mem, words);
    if (ok) return INFER_OK;
    infer__spellings_close(x);
    return infer__error(err, INFER_ERR_MEMORY, "out of memory for the trie of %d tokens",
                        (int)infer__tokenizer_size(t));
}

static void infer__spellings_close(infer__spellings *x) {
    if (!x->mem) return;
    infer__gtrie_free(&x->trie);
    infer__free(x->mem, x->text);
    infer__free(x->mem, x->ends);
    memset(x, 0, sizeof *x);
}

/* ---- walks ------------------------------------------------------------------------------------------------------- */

INFER__INLINE int32_t infer__walk_step(infer__states *s, int32_t state, int byte) {
    int32_t to = s->steps[(uint64_t)(uint32_t)state * (uint32_t)s->a->n_classes + s->a->class_of[byte]];
    return to >= 0 ? to : infer__states_step(s, state, byte);
}

/* Set the bits of the words below node `top` that `state`, reached at that node, allows, with a need in least..most. */
static infer_result infer__mask_walk(infer__masks *m, const infer__gtrie *t, uint32_t top, int32_t state,
                                     uint32_t least, uint32_t most, uint32_t *bits) {
    const infer__gtrie_node *nodes = t->nodes;
    uint32_t i = top + 1, end = nodes[top].end, w;
    m->path[nodes[top].key >> 8] = state;
    while (i < end) {
        uint32_t depth = nodes[i].key >> 8;
        int32_t to = infer__walk_step(m->states, m->path[depth - 1], (int)(nodes[i].key & 255));
        if (to < 0) return (infer_result)to;
        if (to == 0) {
            i = nodes[i].end;
            continue;
        }
        m->path[depth] = to;
        for (w = nodes[i].word; w < nodes[i + 1].word; w++) {
            int32_t token = t->words[w].token;
            if (t->words[w].need >= least && t->words[w].need <= most) bits[token >> 5] |= 1u << (token & 31);
        }
        i++;
    }
    return INFER_OK;
}

/* ---- local masks ------------------------------------------------------------------------------------------------- */

/* What a walk for a local mask collects. */
typedef struct infer__glocal_walk {
    infer__gword *rest;
    infer__gplace *needs;
    uint32_t n_rest, cap_rest, n_needs, cap_needs;
} infer__glocal_walk;

static int infer__gplace_add(infer__mem *mem, infer__gplace **list, uint32_t *n, uint32_t *cap, uint32_t need,
                             uint32_t index) {
    if (!infer__room(mem, list, cap, (uint64_t)*n + 1, sizeof **list)) return 0;
    (*list)[*n].need = need;
    (*list)[(*n)++].index = index;
    return 1;
}

/* Tokens that end at node i, where the state is st. */
static infer_result infer__local_words(infer__masks *m, infer__glocal *l, infer__glocal_walk *w, uint32_t i,
                                       const infer__gstate *st) {
    const infer__gtrie *t = &m->lexicon->trie;
    uint32_t k, behind = INFER__MIN(st->need.least, st->cut), need = INFER__MIN(st->need.in, behind);
    uint32_t most = INFER__MAX(st->need.most, st->cut_most);
    /* With the number of repetitions not unique, or more than one ahead of them, a lower bound cannot be decided. */
    if (behind != INFER__UNLIMITED && (behind != most || (st->need.in != INFER__UNLIMITED && st->need.in > most + 1)))
        l->vague = 1;
    for (k = t->nodes[i].word; k < t->nodes[i + 1].word; k++) {
        uint32_t token = (uint32_t)t->words[k].token;
        l->bits[token >> 5] |= 1u << (token & 31);
        if (need > 0 && !infer__gplace_add(m->mem, &w->needs, &w->n_needs, &w->cap_needs, need, token))
            return INFER_ERR_MEMORY;
        if (need > 0 && st->need.in == INFER__UNLIMITED &&
            !infer__gplace_add(m->mem, &l->left, &l->n_left, &l->cap_left, behind, token)) return INFER_ERR_MEMORY;
    }
    return INFER_OK;
}

/* Tokens that go on below node i, where the cut was passed. */
static infer_result infer__local_rest(infer__masks *m, infer__glocal *l, infer__glocal_walk *w, uint32_t i,
                                      const infer__gstate *st) {
    const infer__gtrie *t = &m->lexicon->trie;
    uint32_t k = t->nodes[i + 1].word, behind = t->nodes[t->nodes[i].end].word, depth = t->nodes[i].key >> 8;
    if (st->cut != st->cut_most) l->vague = 1;
    if (behind - k > INFER__REST_SUBTREE)
        return infer__gplace_add(m->mem, &l->subtrees, &l->n_subtrees, &l->cap_subtrees, st->cut, i)
                   ? INFER_OK : INFER_ERR_MEMORY;
    if (behind - k > INFER__REST_MOST - w->n_rest) {
        l->loose = 1;
        return INFER_OK;
    }
    if (!infer__room(m->mem, &w->rest, &w->cap_rest, (uint64_t)w->n_rest + (behind - k), sizeof *w->rest))
        return INFER_ERR_MEMORY;
    for (; k < behind; k++) {
        infer__gword *x = &w->rest[w->n_rest++];
        *x = t->words[k];
        x->s += depth;
        x->n -= depth;
        x->need = st->cut;
    }
    return INFER_OK;
}

static infer_result infer__local_walk(infer__masks *m, infer__glocal *l, infer__glocal_walk *w) {
    const infer__gtrie *t = &m->lexicon->trie;
    uint32_t i = 1;
    infer_result r = INFER_OK;
    m->path[0] = l->state;
    while (i < t->n_nodes && !l->loose) {
        uint32_t depth = t->nodes[i].key >> 8;
        int32_t to = infer__walk_step(m->states, m->path[depth - 1], (int)(t->nodes[i].key & 255));
        const infer__gstate *st;
        if (to < 0) return (infer_result)to;
        if (to == 0) {
            i = t->nodes[i].end;
            continue;
        }
        m->path[depth] = to;
        st = &m->states->states[to];
        if (t->nodes[i + 1].word > t->nodes[i].word) r = infer__local_words(m, l, w, i, st);
        if (r == INFER_OK && st->cut != INFER__UNLIMITED) r = infer__local_rest(m, l, w, i, st);
        if (r != INFER_OK) return r;
        i = st->n ? i + 1 : t->nodes[i].end;
    }
    return INFER_OK;
}

static void infer__local_free(infer__masks *m, infer__glocal *l) {
    infer__free(m->mem, l->bits);
    infer__free(m->mem, l->by_need);
    infer__free(m->mem, l->n_need);
    infer__free(m->mem, l->left);
    infer__free(m->mem, l->subtrees);
    infer__gtrie_free(&l->rest);
    memset(l, 0, sizeof *l);
}

/* Tokens by what they need: a counting sort. */
static infer_result infer__local_needs(infer__masks *m, infer__glocal *l, const infer__glocal_walk *w) {
    uint32_t i, k;
    if (w->n_needs == 0) return INFER_OK;
    for (i = 0; i < w->n_needs; i++) l->max_need = INFER__MAX(l->max_need, w->needs[i].need);
    l->n_need = (uint32_t *)infer__calloc(m->mem, (uint64_t)l->max_need + 2, sizeof *l->n_need);
    l->by_need = (uint32_t *)infer__realloc(m->mem, NULL, w->n_needs, sizeof *l->by_need);
    if (!l->n_need || !l->by_need) return INFER_ERR_MEMORY;
    for (i = 0; i < w->n_needs; i++) l->n_need[w->needs[i].need + 1]++;
    for (k = 1; k <= l->max_need + 1; k++) l->n_need[k] += l->n_need[k - 1];
    for (i = 0; i < w->n_needs; i++) l->by_need[l->n_need[w->needs[i].need]++] = w->needs[i].index;
    for (k = l->max_need + 1; k > 0; k--) l->n_need[k] = l->n_need[k - 1];
    l->n_need[0] = 0;
    return INFER_OK;
}

static infer_result infer__local_make(infer__masks *m, infer__glocal *l, int32_t state) {
    infer__glocal_walk w;
    infer_result r = INFER_ERR_MEMORY;
    memset(l, 0, sizeof *l);
    memset(&w, 0, sizeof w);
    l->state = state;
    l->bits = (uint32_t *)infer__calloc(m->mem, m->words, sizeof *l->bits);
    if (l->bits) r = infer__local_walk(m, l, &w);
    if (r == INFER_OK && !l->loose) r = infer__local_needs(m, l, &w);
    if (r == INFER_OK && !l->loose && !infer__gtrie_make(&l->rest, m->mem, w.rest, w.n_rest)) r = INFER_ERR_MEMORY;
    if (r == INFER_OK && l->loose) {
        infer__free(m->mem, l->bits);
        l->bits = NULL;
    }
    l->bytes = sizeof *l + ((uint64_t)l->cap_left + l->cap_subtrees) * sizeof *l->left +
               (l->loose ? 0 : (uint64_t)m->words * 4 + (uint64_t)l->max_need * 4 + (uint64_t)w.n_needs * 4 +
               (uint64_t)l->rest.n_nodes * sizeof *l->rest.nodes + (uint64_t)w.n_rest * sizeof *w.rest);
    infer__free(m->mem, w.rest);
    infer__free(m->mem, w.needs);
    if (r != INFER_OK) infer__local_free(m, l);
    return r;
}

static void infer__locals_forget(infer__masks *m) {
    uint32_t i;
    for (i = 0; i < m->n_locals; i++) {
        m->states->states[m->locals[i].state].local = -1;
        infer__local_free(m, &m->locals[i]);
    }
    m->n_locals = 0;
    m->local_bytes = 0;
}

/* The local mask of a state with a cut; NULL: *r has the error. */
static const infer__glocal *infer__local_get(infer__masks *m, int32_t state, infer_result *r) {
    int32_t index = m->states->states[state].local;
    if (index >= 0) return &m->locals[index];
    if (m->local_bytes > INFER__LOCALS_MOST) infer__locals_forget(m);
    if (!infer__room(m->mem, &m->locals, &m->cap_locals, (uint64_t)m->n_locals + 1, sizeof *m->locals)) {
        *r = INFER_ERR_MEMORY;
        return NULL;
    }
    *r = infer__local_make(m, &m->locals[m->n_locals], state);
    if (*r != INFER_OK) return NULL;
    m->local_bytes += m->locals[m->n_locals].bytes;
    m->states->states[state].local = (int32_t)m->n_locals;
    return &m->locals[m->n_locals++];
}

/* bits |= what a local mask allows with least..most more repetitions before the loop is left. */
static void infer__local_add(infer__masks *m, const infer__glocal *l, uint32_t least, uint32_t most, uint32_t *bits) {
    const uint32_t *from = l->bits;
    uint32_t i, few = 0, all = l->max_need ? l->n_need[l->max_need + 1] : 0;
    if (most < l->max_need) few = l->n_need[most + 1];
    if (most < l->max_need && least == 0 && few < all / 2) { /* all tokens of such a mask need one at least */
        for (i = 0; i < few; i++) bits[l->by_need[i] >> 5] |= 1u << (l->by_need[i] & 31);
        return;
    }
    if (most < l->max_need || least > 0) {
        from = m->scratch;
        memcpy(m->scratch, l->bits, (size_t)m->words * sizeof *bits);
        for (i = most < l->max_need ? few : all; i < all; i++)
            m->scratch[l->by_need[i] >> 5] &= ~(1u << (l->by_need[i] & 31));
        for (i = 0; i < l->n_left; i++)
            if (l->left[i].need < least) m->scratch[l->left[i].index >> 5] &= ~(1u << (l->left[i].index & 31));
    }
    for (i = 0; i < m->words; i++) bits[i] |= from[i];
}

/* bits |= what is left of tokens after the cut, where the state is `state`. */
static infer_result infer__local_behind(infer__masks *m, const infer__glocal *l, int32_t state, uint32_t least,
                                        uint32_t most, uint32_t *bits) {
    uint32_t i;
    infer_result r = infer__mask_walk(m, &l->rest, 0, state, least, most, bits);
    for (i = 0; i < l->n_subtrees && r == INFER_OK; i++)
        if (l->subtrees[i].need >= least && l->subtrees[i].need <= most)
            r = infer__mask_walk(m, &m->lexicon->trie, l->subtrees[i].index, state, 0, INFER__UNLIMITED, bits);
    return r;
}

/* ---- whole masks ------------------------------------------------------------------------------------------------- */

static int32_t infer__cut_frame(infer__states *s) {
    infer__gentry cut;
    cut.node = INFER__AT_CUT;
    cut.count = 0;
    cut.parent = -1;
    return infer__states_frame(s, &cut, 1);
}

/* What items first .. first + n - 1 of s->items, which share a frame, allow. */
static infer_result infer__mask_group(infer__masks *m, uint32_t first, uint32_t n, uint32_t *bits) {
    infer__states *s = m->states;
    int32_t frame = s->items[first].frame, behind = frame, base = infer__cut_frame(s), state;
    infer__gentry e = s->entries[s->frames[frame].first];
    uint32_t i, least = 0, most = INFER__UNLIMITED;
    const infer__glocal *l;
    infer_result r = INFER_OK;
    if (base < 0) return (infer_result)base;
    if (s->frames[frame].n == 1 && e.node >= 0 && (e.count & INFER__COUNTS)) {
        const infer__gloop *loop = &s->a->loops[s->a->nodes[e.node].arg];
        if (infer__gentry_count(&e) < loop->least) least = loop->least - infer__gentry_count(&e);
        if (loop->most != INFER__UNLIMITED) most = loop->most - infer__gentry_count(&e);
        behind = e.parent;
        e.count = INFER__COUNTS | INFER__FROM_HERE;
        e.parent = base;
        if ((base = infer__states_frame(s, &e, 1)) < 0) return (infer_result)base;
    }
    if (!infer__room(m->mem, &m->items, &m->cap_items, n, sizeof *m->items)) return INFER_ERR_MEMORY;
    for (i = 0; i < n; i++) {
        m->items[i].node = s->items[first + i].node;
        m->items[i].frame = base;
    }
    if ((state = infer__states_of(s, m->items, n)) < 0) return (infer_result)state;
    if (!(l = infer__local_get(m, state, &r))) return r;
    if (l->loose || (l->vague && least > 0)) {
        for (i = 0; i < n; i++) m->items[i] = s->items[first + i];
        if ((state = infer__states_of(s, m->items, n)) < 0) return (infer_result)state;
        return infer__mask_walk(m, &m->lexicon->trie, 0, state, 0, INFER__UNLIMITED, bits);
    }
    infer__local_add(m, l, least, most, bits);
    if (l->rest.n_words == 0 && l->n_subtrees == 0) return INFER_OK;
    if ((state = infer__states_return(s, behind)) < 0) return (infer_result)state;
    return infer__local_behind(m, l, state, least, most, bits);
}

/* Terminals that name tokens. */
static void infer__mask_tokens(const infer__masks *m, int32_t state, uint32_t *bits) {
    const infer__states *s = m->states;
    uint32_t i, k, n = (uint32_t)m->lexicon->n;
    for (i = 0; i < s->states[state].n; i++) {
        const infer__gnode *x = &s->a->nodes[s->items[s->states[state].first + i].node];
        uint32_t bit = 1u << (x->arg & 31);
        if (x->kind == INFER__GN_TOKEN && x->arg < n) bits[x->arg >> 5] |= bit;
        if (x->kind != INFER__GN_NOT_TOKEN) continue;
        for (k = 0; k < m->words; k++) {
            uint32_t all = k < n / 32 ? UINT32_MAX : (1u << (n & 31)) - 1;
            if (k == x->arg >> 5) all &= ~bit;
            bits[k] |= all & ~m->lexicon->ends[k];
        }
    }
}

static infer_result infer__mask_make(infer__masks *m, int32_t state, uint32_t *bits) {
    infer__states *s = m->states;
    uint32_t i, j, first = s->states[state].first, n = s->states[state].n;
    memset(bits, 0, (size_t)m->words * sizeof *bits);
    for (i = 0; i < n; i = j) {
        infer_result r;
        for (j = i + 1; j < n && s->items[first + j].frame == s->items[first + i].frame; j++) {
        }
        if ((r = infer__mask_group(m, first + i, j - i, bits)) != INFER_OK) return r;
    }
    if (s->a->has_tokens) infer__mask_tokens(m, state, bits);
    if (s->states[state].complete) for (i = 0; i < m->words; i++) bits[i] |= m->lexicon->ends[i];
    return INFER_OK;
}

/* A slot for one more mask: an unused one, or the least recently used. */
static infer__gmask *infer__mask_place(infer__masks *m) {
    uint32_t i, best = 0;
    if (m->n_masks < m->max_masks) {
        infer__gmask *x = &m->masks[m->n_masks];
        x->bits = (uint32_t *)infer__realloc(m->mem, NULL, m->words, sizeof *x->bits);
        if (!x->bits) return NULL;
        m->n_masks++;
        return x;
    }
    for (i = 1; i < m->n_masks; i++) if (m->clock - m->masks[i].used > m->clock - m->masks[best].used) best = i;
    if (m->masks[best].state >= 0) m->states->states[m->masks[best].state].mask = -1;
    return &m->masks[best];
}

static const uint32_t *infer__masks_get(infer__masks *m, int32_t state, infer_result *r) {
    infer__gmask *x;
    int32_t index = m->states->states[state].mask;
    *r = INFER_OK;
    m->clock++;
    if (index >= 0) {
        m->masks[index].used = m->clock;
        return m->masks[index].bits;
    }
    if (!(x = infer__mask_place(m))) {
        *r = INFER_ERR_MEMORY;
        return NULL;
    }
    x->state = -1;
    x->used = m->clock;
    if ((*r = infer__mask_make(m, state, x->bits)) != INFER_OK) return NULL;
    x->state = state;
    m->states->states[state].mask = (int32_t)(x - m->masks);
    return x->bits;
}

static infer_result infer__masks_open(infer__masks *m, infer__mem *mem, const infer__spellings *x, infer__states *s,
                                      infer_error *err) {
    memset(m, 0, sizeof *m);
    m->mem = mem;
    m->lexicon = x;
    m->states = s;
    m->words = (uint32_t)x->n / 32 + 1;
    m->max_masks = INFER__MASKS_MOST / (m->words * 4);
    m->max_masks = INFER__MIN(INFER__MAX(m->max_masks, 8), 1024);
    m->masks = (infer__gmask *)infer__calloc(mem, m->max_masks, sizeof *m->masks);
    m->scratch = (uint32_t *)infer__calloc(mem, m->words, sizeof *m->scratch);
    m->path = (int32_t *)infer__calloc(mem, (uint64_t)x->trie.depth + 1, sizeof *m->path);
    if (m->masks && m->scratch && m->path) return INFER_OK;
    infer__masks_free(m);
    return infer__error(err, INFER_ERR_MEMORY, "out of memory for masks");
}

static void infer__masks_free(infer__masks *m) {
    uint32_t i;
    if (!m->mem) return;
    for (i = 0; i < m->n_locals; i++) infer__local_free(m, &m->locals[i]);
    for (i = 0; i < m->n_masks; i++) infer__free(m->mem, m->masks[i].bits);
    infer__free(m->mem, m->locals);
    infer__free(m->mem, m->masks);
    infer__free(m->mem, m->scratch);
    infer__free(m->mem, m->path);
    infer__free(m->mem, m->items);
    memset(m, 0, sizeof *m);
}

static infer_result infer__masks_trim(infer__masks *m, int32_t *const *keep, uint32_t n_keep) {
    int32_t **all;
    uint32_t i;
    infer_result r;
    all = (int32_t **)infer__realloc(m->mem, NULL, (uint64_t)n_keep + m->n_locals + 1, sizeof *all);
    if (!all) return INFER_ERR_MEMORY;
    for (i = 0; i < n_keep; i++) all[i] = keep[i];
    for (i = 0; i < m->n_locals; i++) all[n_keep + i] = &m->locals[i].state;
    r = infer__states_collect(m->states, all, n_keep + m->n_locals);
    infer__free(m->mem, all);
    if (r != INFER_OK) return r;
    for (i = 0; i < m->n_locals; i++) m->states->states[m->locals[i].state].local = (int32_t)i;
    for (i = 0; i < m->n_masks; i++) m->masks[i].state = -1; /* their places are used again */
    return INFER_OK;
}

static uint64_t infer__masks_bytes(const infer__masks *m) {
    return infer__states_bytes(m->states) + m->local_bytes + (uint64_t)m->n_masks * m->words * 4;
}
