/* trie.c: a set of texts; all that are prefixes of another text are found in one walk.
 *
 * Owns:  sorting texts, and the trie made of them: nodes with one child are joined to it, so there are fewer than two
 *        nodes per text, and nodes are stored level by level, so that a node's children are adjacent and need no list.
 *        Rules: knows no tokens. Texts are copied and may be freed afterwards.
 * Method: most significant bytes first, seven at a time: groups whose first bytes are equal are sorted by the next
 *         ones.
 * Start: infer__trie_open, infer__trie_next.
 */
#include "../text.h"

/* Seven bytes of a text, from `depth` on, and how many bytes stand there (8: more than seven): orders as the text. */
typedef struct infer__trie_key {
    uint64_t key;
    int32_t id;
} infer__trie_key;

static uint64_t infer__trie_key_at(const infer__str *s, size_t depth) {
    uint64_t key = 0;
    size_t left = (size_t)s->n - depth, i;
    for (i = 0; i < 7; i++) key = key << 8 | (i < left ? (uint8_t)s->s[depth + i] : 0);
    return key << 8 | INFER__MIN(left, 8);
}

/* Stable, by key: few by insertion, many by their bytes, lowest first, leaving out those that are equal in all. count
 * is scratch, and not here: infer__trie_sort recurses. */
static void infer__trie_sort_keys(infer__trie_key *a, infer__trie_key *spare, size_t n, uint32_t count[257]) {
    infer__trie_key *from = a, *to = spare, *swap;
    size_t i, k;
    int shift;
    if (n <= 64) {
        for (i = 1; i < n; i++) {
            infer__trie_key x = a[i];
            for (k = i; k > 0 && a[k - 1].key > x.key; k--) a[k] = a[k - 1];
            a[k] = x;
        }
        return;
    }
    for (shift = 0; shift < 64; shift += 8) {
        memset(count, 0, 257 * sizeof *count);
        for (i = 0; i < n; i++) count[(from[i].key >> shift & 255) + 1]++;
        if (count[(from[0].key >> shift & 255) + 1] == n) continue;
        for (i = 0; i < 256; i++) count[i + 1] += count[i];
        for (i = 0; i < n; i++) to[count[from[i].key >> shift & 255]++] = from[i];
        swap = from;
        from = to;
        to = swap;
    }
    if (from != a) memcpy(a, from, n * sizeof *a);
}

/* a[0..n) by their texts from `depth` on; a level takes seven bytes, so there are at most INFER__TRIE_LONGEST / 7. */
static void infer__trie_sort(const infer__str *texts, infer__trie_key *a, infer__trie_key *spare, size_t n,
                             size_t depth, uint32_t count[257]) {
    size_t i, end;
    for (i = 0; i < n; i++) a[i].key = infer__trie_key_at(&texts[a[i].id], depth);
    infer__trie_sort_keys(a, spare, n, count);
    for (i = 0; i < n; i = end) {
        for (end = i + 1; end < n && a[end].key == a[i].key; end++) {
        }
        if (end - i > 1 && (a[i].key & 255) == 8) infer__trie_sort(texts, a + i, spare + i, end - i, depth + 7, count);
    }
}

enum { /* infer__trie_level.phase; of few texts all is done at once, by infer__trie_sort */
    INFER__TRIE_KEYS, INFER__TRIE_TALLY, INFER__TRIE_SCATTER, INFER__TRIE_BACK, INFER__TRIE_GROUPS,
    INFER__TRIE_FEW = 512
};

/* Texts from .. to - 1, equal up to 7 `depth` bytes, are sorted next. */
static void infer__trie_level_start(infer__trie_opening *x, int32_t depth, uint32_t from, uint32_t to) {
    infer__trie_level *l = &x->levels[depth];
    memset(l, 0, sizeof *l);
    l->from = l->at = from;
    l->to = to;
    x->depth = depth;
    x->swapped = 0;
}

/* The phase of a level has seen all its texts: what is next. */
static void infer__trie_level_next(infer__trie_opening *x, infer__trie_level *l) {
    const infer__trie_key *a = x->swapped ? x->keys + x->m : x->keys;
    uint32_t i;
    l->at = l->from;
    if (l->phase == INFER__TRIE_TALLY && x->count[(a[l->from].key >> l->shift & 255) + 1] != l->to - l->from) {
        for (i = 0; i < 256; i++) x->count[i + 1] += x->count[i];
        l->phase = INFER__TRIE_SCATTER;
        return;
    }
    if (l->phase == INFER__TRIE_BACK) {
        l->phase = INFER__TRIE_GROUPS;
        return;
    }
    if (l->phase == INFER__TRIE_SCATTER) x->swapped = !x->swapped;
    if (l->phase != INFER__TRIE_KEYS) l->shift += 8;
    memset(x->count, 0, sizeof x->count);
    l->phase = l->shift < 64 ? INFER__TRIE_TALLY : x->swapped ? INFER__TRIE_BACK : INFER__TRIE_GROUPS;
}

/* Groups of a sorted level whose keys are equal are sorted by what follows, until one of them is a level. */
static void infer__trie_groups(infer__trie_opening *x, infer__trie_level *l, uint32_t end) {
    infer__trie_key *a = x->keys;
    const int32_t depth = x->depth + 1;
    while (l->at < end) {
        const uint32_t i = l->at;
        while (l->at < l->to && a[l->at].key == a[i].key) l->at++;
        if (l->at - i < 2 || (a[i].key & 255) != 8) continue;
        if (l->at - i <= INFER__TRIE_FEW) {
            infer__trie_sort(x->texts, a + i, x->keys + x->m + i, l->at - i, 7 * (size_t)depth, x->count);
            continue;
        }
        infer__trie_level_start(x, depth, i, l->at);
        return;
    }
}

/* A piece of sorting: 1 = all is sorted, 0 = the slice is over. */
static int infer__trie_sort_some(infer__trie_opening *x, infer__budget *budget) {
    infer__trie_key *a = x->keys, *spare = x->keys + x->m;
    for (;;) {
        infer__trie_level *l = &x->levels[x->depth];
        const infer__trie_key *in = x->swapped ? spare : a;
        infer__trie_key *out = x->swapped ? a : spare;
        const uint32_t n = (uint32_t)infer__budget_piece(budget, l->to - l->at, 1), end = l->at + n;
        uint32_t i = l->at;
        switch (l->phase) {
        case INFER__TRIE_KEYS:
            for (; i < end; i++) a[i].key = infer__trie_key_at(&x->texts[a[i].id], 7 * (size_t)x->depth);
            break;
        case INFER__TRIE_TALLY:
            for (; i < end; i++) x->count[(in[i].key >> l->shift & 255) + 1]++;
            break;
        case INFER__TRIE_SCATTER:
            for (; i < end; i++) out[l->from + x->count[in[i].key >> l->shift & 255]++] = in[i];
            break;
        case INFER__TRIE_BACK:
            memcpy(a + i, spare + i, n * sizeof *a);
            break;
        default: infer__trie_groups(x, l, end); break;
        }
        if (l->phase != INFER__TRIE_GROUPS) {
            l->at = end;
            if (end == l->to) {
                infer__trie_level_next(x, l);
                if (l->phase == INFER__TRIE_GROUPS) x->swapped = 0;
            }
        } else {
            while (x->levels[x->depth].phase == INFER__TRIE_GROUPS &&
                   x->levels[x->depth].at == x->levels[x->depth].to) {
                if (x->depth == 0) return 1;
                x->depth--;
            }
        }
        if (infer__budget_over(budget, n)) return 0;
    }
}

/* A text after sorting: where its bytes are in a pool, in order, so that what follows reads memory in order too. */
typedef struct infer__trie_text {
    uint32_t at;
    uint16_t n, common; /* common: bytes that it has in common with the one before */
    int32_t id;
} infer__trie_text;

/* The next texts of the sorted ones, without all but the last of equal ones (sorting is stable), up to number end - 1.
 */
static void infer__trie_distinct(infer__trie_opening *x, uint32_t end) {
    const uint32_t ahead = 8; /* texts whose bytes are prefetched: they are scattered over the file */
    const infer__str *texts = x->texts;
    const infer__trie_key *a = x->keys;
    infer__trie_text *out = x->sorted;
    char *pool = x->pool;
    uint32_t i, n = x->out, at = x->at, m = x->m;
    for (i = x->i; i < end; i++) {
        const infer__str *s = &texts[a[i].id];
        const infer__trie_text *before = n ? &out[n - 1] : NULL;
        size_t common = 0, most = before ? (size_t)INFER__MIN(s->n, before->n) : 0;
        if (i + 2 * ahead < m) INFER__PREFETCH(&texts[a[i + 2 * ahead].id]);
        if (i + ahead < m) INFER__PREFETCH(texts[a[i + ahead].id].s);
        while (common < most && s->s[common] == pool[before->at + common]) common++;
        if (before && common == s->n && common == before->n) {
            out[n - 1].id = a[i].id;
            continue;
        }
        memcpy(pool + at, s->s, (size_t)s->n);
        out[n].at = at;
        out[n].n = (uint16_t)s->n;
        out[n].common = (uint16_t)common;
        out[n++].id = a[i].id;
        at += (uint32_t)s->n;
    }
    x->i = end;
    x->out = n;
    x->at = at;
}

/* Texts lo .. hi - 1, which are equal up to `depth`: what a node stands for until its children are made. */
typedef struct infer__trie_range { uint32_t lo, hi, depth; } infer__trie_range;

/* The first node stands for all texts; t has room. */
static void infer__trie_root(infer__trie_opening *x, infer__trie *t) {
    t->n = 1;
    t->first[0] = 0;
    t->nodes[0].label = 0;
    x->ranges[0].lo = 0;
    x->ranges[0].hi = x->out;
    x->ranges[0].depth = 0;
    x->i = 0;
    x->bytes = 0;
}

/* The children of nodes x->i .. end - 1. */
static void infer__trie_build(infer__trie_opening *x, infer__trie *t, uint32_t end) {
    const infer__trie_text *texts = x->sorted;
    infer__trie_range *ranges = x->ranges;
    uint32_t i, bytes = (uint32_t)x->bytes;
    for (i = x->i; i < end && i < t->n; i++) {
        infer__trie_range r = ranges[i];
        t->nodes[i].value = -1;
        t->nodes[i].children = t->n;
        if (r.lo < r.hi && texts[r.lo].n == r.depth) t->nodes[i].value = texts[r.lo++].id;
        while (r.lo < r.hi) {
            const char *label = x->pool + texts[r.lo].at + r.depth;
            infer__trie_range *child = &ranges[t->n];
            child->lo = r.lo;
            child->depth = texts[r.lo].n;
            while (++r.lo < r.hi && texts[r.lo].common > r.depth)
                child->depth = INFER__MIN(child->depth, texts[r.lo].common);
            child->hi = r.lo;
            t->first[t->n] = (uint8_t)label[0];
            t->nodes[t->n].label = bytes;
            memcpy(t->labels + bytes, label + 1, child->depth - r.depth - 1);
            bytes += child->depth - r.depth - 1;
            t->n++;
        }
    }
    x->i = i;
    x->bytes = bytes;
}

/* Give back what was asked for in advance: a copy of the first `bytes`. It is no failure when that fails. */
static void *infer__trie_shrink(infer__mem *mem, void *p, uint64_t bytes) {
    void *copy = infer__alloc(mem, INFER__MAX(bytes, 1));
    if (!copy) return p;
    memcpy(copy, p, (size_t)bytes);
    infer__free(mem, p);
    return copy;
}

static infer_result infer__trie_no_memory(const infer__trie_opening *x, infer_error *err) {
    return infer__error(err, INFER_ERR_MEMORY, "out of memory for a trie of %d tokens", (int)x->n);
}

static infer_result infer__trie_begin(infer__trie_opening *x, infer__trie *t, infer__mem *mem, const infer__str *texts,
                                      int32_t n, infer_error *err) {
    memset(t, 0, sizeof *t);
    memset(x, 0, sizeof *x);
    x->texts = texts;
    x->n = n;
    x->keys = (infer__trie_key *)infer__alloc(mem, ((uint64_t)n + 1) * 2 * sizeof *x->keys);
    x->sorted = (infer__trie_text *)infer__alloc(mem, ((uint64_t)n + 1) * sizeof *x->sorted);
    return x->keys && x->sorted ? INFER_OK : infer__trie_no_memory(x, err);
}

enum { /* infer__trie_opening.stage */
    INFER__TRIE_CHOOSE, INFER__TRIE_SORT, INFER__TRIE_DISTINCT, INFER__TRIE_BUILD, INFER__TRIE_SHRINK
};

/* Which texts go into it, and memory for their bytes; then sorted. */
static infer_result infer__trie_order(infer__trie_opening *x, infer__mem *mem, infer__budget *budget,
                                      infer_error *err) {
    uint32_t end;
    while (x->stage == INFER__TRIE_CHOOSE && x->i < (uint32_t)x->n) {
        const uint32_t from = x->i;
        for (end = from + (uint32_t)infer__budget_piece(budget, (uint32_t)x->n - from, 1); x->i < end; x->i++) {
            if (x->texts[x->i].n == 0 || x->texts[x->i].n > INFER__TRIE_LONGEST) continue;
            x->keys[x->m++].id = (int32_t)x->i;
            x->bytes += x->texts[x->i].n;
        }
        if (infer__budget_over(budget, end - from)) return INFER_MORE;
    }
    if (x->stage == INFER__TRIE_CHOOSE) {
        if (x->bytes > UINT32_MAX)
            return infer__error(err, INFER_ERR_UNSUPPORTED, "tokenizer.ggml.tokens: more than 4 GiB of texts");
        x->pool = (char *)infer__alloc(mem, x->bytes + 1);
        if (!x->pool) return infer__trie_no_memory(x, err);
        infer__trie_level_start(x, 0, 0, x->m);
        x->i = 0;
        x->stage = INFER__TRIE_SORT;
    }
    if (x->m > 1 && !infer__trie_sort_some(x, budget)) return INFER_MORE;
    x->stage = INFER__TRIE_DISTINCT;
    return INFER_OK;
}

/* Memory for the nodes of the distinct texts. */
static infer_result infer__trie_room(infer__trie_opening *x, infer__trie *t, infer__mem *mem, infer_error *err) {
    const uint64_t m = x->out;
    infer__free(mem, x->keys);
    x->keys = NULL;
    x->ranges = (infer__trie_range *)infer__alloc(mem, (m * 2 + 1) * sizeof *x->ranges);
    t->nodes = (infer__trie_node *)infer__alloc(mem, (m * 2 + 2) * sizeof *t->nodes);
    t->first = (uint8_t *)infer__alloc(mem, m * 2 + 1);
    t->labels = (char *)infer__alloc(mem, x->bytes + 1);
    if (!x->ranges || !t->nodes || !t->first || !t->labels) return infer__trie_no_memory(x, err);
    infer__trie_root(x, t);
    x->stage = INFER__TRIE_BUILD;
    return INFER_OK;
}

static infer_result infer__trie_step(infer__trie_opening *x, infer__trie *t, infer__mem *mem, infer__budget *budget,
                                     infer_error *err) {
    infer_result r = INFER_OK;
    uint32_t n;
    if (x->stage < INFER__TRIE_DISTINCT && (r = infer__trie_order(x, mem, budget, err)) != INFER_OK) return r;
    while (x->stage == INFER__TRIE_DISTINCT && x->i < x->m) {
        n = (uint32_t)infer__budget_piece(budget, x->m - x->i, 1);
        infer__trie_distinct(x, x->i + n);
        if (infer__budget_over(budget, n)) return INFER_MORE;
    }
    if (x->stage == INFER__TRIE_DISTINCT) r = infer__trie_room(x, t, mem, err);
    if (r != INFER_OK) return r;
    while (x->stage == INFER__TRIE_BUILD && x->i < t->n) {
        n = (uint32_t)infer__budget_piece(budget, UINT32_MAX - x->i, 1);
        infer__trie_build(x, t, x->i + n);
        if (infer__budget_over(budget, n)) return INFER_MORE;
    }
    if (x->stage == INFER__TRIE_BUILD) {
        t->nodes[t->n].value = -1;
        t->nodes[t->n].children = t->n;
        t->nodes[t->n].label = (uint32_t)x->bytes;
        x->stage = INFER__TRIE_SHRINK;
        t->nodes = (infer__trie_node *)infer__trie_shrink(mem, t->nodes, ((uint64_t)t->n + 1) * sizeof *t->nodes);
        if (infer__budget_over(budget, t->n * (uint64_t)sizeof *t->nodes / INFER__BUDGET_BYTES)) return INFER_MORE;
    }
    t->first = (uint8_t *)infer__trie_shrink(mem, t->first, t->n);
    t->labels = (char *)infer__trie_shrink(mem, t->labels, x->bytes);
    return INFER_OK;
}

static void infer__trie_end(infer__trie_opening *x, infer__mem *mem) {
    infer__free(mem, x->ranges);
    infer__free(mem, x->pool);
    infer__free(mem, x->sorted);
    infer__free(mem, x->keys);
    memset(x, 0, sizeof *x);
}

static infer_result infer__trie_open(infer__trie *t, infer__mem *mem, const infer__str *texts, int32_t n,
                                     infer_error *err) {
    infer__trie_opening x;
    infer_result r = infer__trie_begin(&x, t, mem, texts, n, err);
    if (r == INFER_OK) r = infer__trie_step(&x, t, mem, NULL, err);
    infer__trie_end(&x, mem);
    if (r != INFER_OK) infer__trie_close(t, mem);
    return r;
}

static void infer__trie_close(infer__trie *t, infer__mem *mem) {
    infer__free(mem, t->nodes);
    infer__free(mem, t->first);
    infer__free(mem, t->labels);
    memset(t, 0, sizeof *t);
}

static int32_t infer__trie_next(const infer__trie *t, infer__trie_walk *w) {
    while (w->at < w->n) {
        const infer__trie_node *node = &t->nodes[w->node], *child;
        const uint8_t *children = t->first + node->children;
        size_t count = node[1].children - node->children, label;
        const uint8_t *hit = count ? (const uint8_t *)memchr(children, (uint8_t)w->s[w->at], count) : NULL;
        if (!hit) break;
        child = &t->nodes[node->children + (uint32_t)(hit - children)];
        label = child[1].label - child->label;
        if (label > w->n - w->at - 1 || memcmp(t->labels + child->label, w->s + w->at + 1, label) != 0) break;
        w->at += label + 1;
        w->node = (uint32_t)(child - t->nodes);
        if (child->value >= 0) return child->value;
    }
    w->n = w->at; /* another call ends at once */
    return -1;
}

static int32_t infer__trie_longest(const infer__trie *t, const char *s, size_t n, size_t *len) {
    infer__trie_walk w;
    int32_t value, best = -1;
    memset(&w, 0, sizeof w);
    w.s = s;
    w.n = n;
    *len = 0;
    while ((value = infer__trie_next(t, &w)) >= 0) {
        best = value;
        *len = w.at;
    }
    return best;
}
