/* trie.c: a set of texts in which all that another text begins with are found in one walk.
 *
 * Owns:  sorting texts, and the trie made of them: nodes with one child are joined to it, so there are fewer than two
 *        nodes a text, and the nodes lie level by level, so that a node's children are neighbours and need no list.
 * Rules: knows no tokens. Texts are copied: nothing points to them afterwards.
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

/* A text after sorting: where its bytes are in a pool, in order, so that what follows reads memory in order too. */
typedef struct infer__trie_text {
    uint32_t at;
    uint16_t n, common; /* common: bytes that it has in common with the one before */
    int32_t id;
} infer__trie_text;

/* Texts from the sorted a[0..m), without all but the last of equal ones (sorting is stable). Returns their number. */
static uint32_t infer__trie_distinct(const infer__str *texts, const infer__trie_key *a, uint32_t m,
                                     infer__trie_text *out, char *pool) {
    const uint32_t ahead = 8; /* texts whose bytes are asked for: they lie all over the file */
    uint32_t i, n = 0, at = 0;
    for (i = 0; i < m; i++) {
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
    return n;
}

/* Texts lo .. hi - 1, which are equal up to `depth`: what a node stands for until its children are made. */
typedef struct infer__trie_range { uint32_t lo, hi, depth; } infer__trie_range;

/* The nodes of n texts; t has room. Returns the bytes of all labels. */
static uint32_t infer__trie_build(infer__trie *t, const infer__trie_text *texts, const char *pool, uint32_t n,
                                  infer__trie_range *ranges) {
    uint32_t i, bytes = 0;
    t->n = 1;
    t->first[0] = 0;
    t->nodes[0].label = 0;
    ranges[0].lo = 0;
    ranges[0].hi = n;
    ranges[0].depth = 0;
    for (i = 0; i < t->n; i++) {
        infer__trie_range r = ranges[i];
        t->nodes[i].value = -1;
        t->nodes[i].children = t->n;
        if (r.lo < r.hi && texts[r.lo].n == r.depth) t->nodes[i].value = texts[r.lo++].id;
        while (r.lo < r.hi) {
            const char *label = pool + texts[r.lo].at + r.depth;
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
    t->nodes[t->n].value = -1;
    t->nodes[t->n].children = t->n;
    t->nodes[t->n].label = bytes;
    return bytes;
}

/* Give back what was asked for in advance: a copy of the first `bytes`. It is no failure when that fails. */
static void *infer__trie_shrink(infer__mem *mem, void *p, uint64_t bytes) {
    void *copy = infer__alloc(mem, INFER__MAX(bytes, 1));
    if (!copy) return p;
    memcpy(copy, p, (size_t)bytes);
    infer__free(mem, p);
    return copy;
}

static infer_result infer__trie_open(infer__trie *t, infer__mem *mem, const infer__str *texts, int32_t n,
                                     infer_error *err) {
    infer__trie_key *a = (infer__trie_key *)infer__alloc(mem, ((uint64_t)n + 1) * 2 * sizeof *a);
    infer__trie_text *sorted = (infer__trie_text *)infer__alloc(mem, ((uint64_t)n + 1) * sizeof *sorted);
    infer__trie_range *ranges = NULL;
    char *pool = NULL;
    uint64_t bytes = 0;
    uint32_t m = 0, i, count[257];
    infer_result r = INFER_OK;

    memset(t, 0, sizeof *t);
    for (i = 0; a && i < (uint32_t)n; i++) {
        if (texts[i].n == 0 || texts[i].n > INFER__TRIE_LONGEST) continue;
        a[m++].id = (int32_t)i;
        bytes += texts[i].n;
    }
    if (bytes > UINT32_MAX) {
        r = infer__error(err, INFER_ERR_UNSUPPORTED, "tokenizer.ggml.tokens: more than 4 GiB of texts");
        goto done;
    }
    pool = (char *)infer__alloc(mem, bytes + 1);
    if (!a || !sorted || !pool) goto no_memory;
    infer__trie_sort(texts, a, a + m, m, 0, count);
    m = infer__trie_distinct(texts, a, m, sorted, pool);
    infer__free(mem, a);
    a = NULL;
    ranges = (infer__trie_range *)infer__alloc(mem, ((uint64_t)m * 2 + 1) * sizeof *ranges);
    t->nodes = (infer__trie_node *)infer__alloc(mem, ((uint64_t)m * 2 + 2) * sizeof *t->nodes);
    t->first = (uint8_t *)infer__alloc(mem, (uint64_t)m * 2 + 1);
    t->labels = (char *)infer__alloc(mem, bytes + 1);
    if (!ranges || !t->nodes || !t->first || !t->labels) goto no_memory;
    bytes = infer__trie_build(t, sorted, pool, m, ranges);
    t->nodes = (infer__trie_node *)infer__trie_shrink(mem, t->nodes, ((uint64_t)t->n + 1) * sizeof *t->nodes);
    t->first = (uint8_t *)infer__trie_shrink(mem, t->first, t->n);
    t->labels = (char *)infer__trie_shrink(mem, t->labels, bytes);
done:
    infer__free(mem, ranges);
    infer__free(mem, pool);
    infer__free(mem, sorted);
    infer__free(mem, a);
    if (r != INFER_OK) infer__trie_close(t, mem);
    return r;
no_memory:
    r = infer__error(err, INFER_ERR_MEMORY, "out of memory for a trie of %d tokens", (int)n);
    goto done;
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
