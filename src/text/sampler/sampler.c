/* sampler.c: the core of sampling: the generator, candidates, from logits to candidates, the draw.
 *
 * Owns:  infer_sampler; selecting and keeping candidates, which the stages (sampler_*.c) are made of.
 * Rules: knows no sessions and no models (`model` is carried for the layer above and not used).
 *        The same seed and logits give the same tokens on every platform and compiler. Hence probabilities are integers
 *        (sampler_math.c), sums of integers have no order, candidates have a total order (logit, then lowest id), and
 *        a float expression that changes a logit is one operation, stored before the next.
 *        Nothing is sorted unless a stage needs it, and nothing is allocated once the buffers have grown.
 * Flow:  a choice starts as the caller's logits ("dense": indexed by id). Truncating stages work on those and make
 *        candidates of what they keep: the usual chain goes from the whole vocabulary to 40 candidates in one scan.
 *        Stages that change logits while they are dense change a copy (infer__own_logits). A stage that can do neither
 *        takes all tokens as candidates (infer__take_all).
 *        -inf means "not allowed" and is dropped; +inf and NaN are errors.
 * Start: infer__keep_gap, infer__sampler_draw; the table of stages is in sampler_chain.c.
 */
#include "../text.h"

/* State of a stage between choices. */
typedef struct infer__stage_state {
    const struct infer__dry *dry;                        /* sequence breakers, NULL = none */
    int64_t mu;                                          /* mirostat: the most surprise allowed, in bits, Q32 */
    int64_t sum, weight;                                 /* adaptive-p: moving sum of probabilities and of 1, Q32 */
    infer_token pending;                                 /* what was chosen and is not accepted yet, -1 = none */
    int64_t observed; /* its surprise (mirostat), its probability (adaptive-p), Q32 */
} infer__stage_state;

/* The best candidates of `n`, or the whole vocabulary while dense is 1. */
struct infer_sampler {
    infer__mem *mem;
    infer__mem own;      /* mem points here when the caller gave none */
    infer_model *model;  /* of the layer above, which counts it as a user */
    const infer__tokenizer *tokenizer; /* NULL = no vocabulary */
    infer_stage *stages;
    infer__stage_state *states; /* one per stage */
    int32_t n_stages;
    uint64_t seed, state;
    /* accepted tokens, oldest first; only as many as stages look at are needed */
    infer_token *history;
    int32_t n_history, cap_history, max_history;
    /* one choice */
    const float *logits; /* n_vocab, while dense */
    int32_t n_vocab, dense;
    infer_candidate *c;
    int32_t n, cap, sorted; /* the first `sorted` candidates are the best ones, best first */
    float *work;            /* a changed copy of the logits */
    int32_t *counts;        /* per token, zero between calls */
    int32_t *repeats;       /* DRY: per accepted token it looks at */
    char *pieces;           /* infill: beginnings of texts */
    infer__matcher *matcher; /* grammar: its place; NULL = there is no such stage */
    int32_t cap_work, cap_counts, cap_repeats;
    infer__atomic calls;    /* infer__claim: of the layer above */
};

/* The next number of the generator. */
static uint64_t infer__sampler_next(infer_sampler *s) { return infer__splitmix(&s->state); }

/* ---- the order of candidates -------------------------------------------------------------------------- */

INFER__INLINE int infer__better(const infer_candidate *a, const infer_candidate *b) {
    return a->logit > b->logit || (a->logit == b->logit && a->token < b->token);
}

/* c[0..n) is a heap with its worst candidate on top, except for c[i], which may have to sink. */
static void infer__heap_sink(infer_candidate *c, int32_t n, int32_t i) {
    infer_candidate x = c[i];
    for (;;) {
        int64_t j = 2 * (int64_t)i + 1;
        if (j >= n) break;
        if (j + 1 < n && infer__better(&c[j], &c[j + 1])) j++;
        if (!infer__better(&x, &c[j])) break;
        c[i] = c[j];
        i = (int32_t)j;
    }
    c[i] = x;
}

static void infer__heap_make(infer_candidate *c, int32_t n) {
    int32_t i;
    for (i = n / 2 - 1; i >= 0; i--) infer__heap_sink(c, n, i);
}

/* A heap becomes an array, best first. */
static void infer__heap_sort(infer_candidate *c, int32_t n) {
    while (n > 1) {
        infer_candidate worst = c[0];
        c[0] = c[--n];
        c[n] = worst;
        infer__heap_sink(c, n, 0);
    }
}

INFER__INLINE void infer__swap(infer_candidate *a, infer_candidate *b) {
    infer_candidate x = *a;
    *a = *b;
    *b = x;
}

/* Cut c[0..n), n >= 3, at one of its candidates: returns its final place; better ones are before it. */
static int32_t infer__partition(infer_candidate *c, int32_t n) {
    int32_t mid = n / 2, i, j;
    infer_candidate x;
    if (infer__better(&c[mid], &c[0])) infer__swap(&c[mid], &c[0]);
    if (infer__better(&c[n - 1], &c[0])) infer__swap(&c[n - 1], &c[0]);
    if (infer__better(&c[n - 1], &c[mid])) infer__swap(&c[n - 1], &c[mid]);
    x = c[mid]; /* the median of three; the others stand guard at the ends */
    infer__swap(&c[mid], &c[n - 2]);
    for (i = 0, j = n - 2;;) {
        while (infer__better(&c[++i], &x)) {
        }
        while (infer__better(&x, &c[--j])) {
        }
        if (i >= j) break;
        infer__swap(&c[i], &c[j]);
    }
    infer__swap(&c[i], &c[n - 2]);
    return i;
}

/* The k best of c[0..n) to its front, best first, the others after them in no order. `depth` more cuts are made, then
 * a heap does it: n log n at worst. */
static void infer__select(infer_candidate *c, int32_t n, int32_t k, int32_t depth) {
    int32_t i, cut;
    while (n > 16 && k > 0 && depth-- > 0) {
        if (k < n / 8 && k <= 256) break; /* few of many: a heap of k passes over them once */
        cut = infer__partition(c, n);
        if (cut + 1 < k) infer__select(c + cut + 1, n - cut - 1, k - cut - 1, depth);
        n = cut;
        k = INFER__MIN(k, n);
    }
    if (k <= 0) return;
    infer__heap_make(c, k);
    for (i = k; i < n; i++) {
        if (infer__better(&c[i], &c[0])) {
            infer__swap(&c[i], &c[0]);
            infer__heap_sink(c, k, 0);
        }
    }
    infer__heap_sort(c, k);
}

/* Bring the k best of the candidates to the front, best first; the others stay after them in no order. */
static void infer__sort_best(infer_sampler *s, int32_t k) {
    if (k > s->n) k = s->n;
    if (s->sorted >= k) return;
    infer__select(s->c + s->sorted, s->n - s->sorted, k - s->sorted, 60);
    s->sorted = k;
}

static void infer__keep_first(infer_sampler *s, int32_t k) {
    s->n = k;
    s->sorted = INFER__MIN(s->sorted, k);
}

/* ---- buffers and checks ------------------------------------------------------------------------------- */

/* The bits of a logit: 1 = a candidate, 0 = not allowed (-inf), < 0: an error. */
static int infer__check_logit(uint32_t bits, int32_t token, infer_error *err) {
    if (infer__bits_finite(bits)) return 1;
    if (bits == 0xff800000u) return 0;
    return infer__error(err, INFER_ERR_STATE, "sampler: logit %d is %s", (int)token,
                        bits == 0x7f800000u ? "infinite" : "not a number");
}

static infer_result infer__none_left(infer_error *err) {
    return infer__error(err, INFER_ERR_STATE, "sampler: no logit is finite");
}

/* The bits of a logit that was computed: one that overflowed counts as 3e38 and stays a candidate. */
INFER__INLINE float infer__clamp_logit(uint32_t bits) {
    return infer__bits_finite(bits) ? infer__bits_f32(bits) : bits >> 31 ? -3e38f : 3e38f;
}

/* At least n of what *p holds, of `size` bytes each; what was there is kept, what is new is zero. */
static infer_result infer__sampler_grow(infer_sampler *s, void **p, int32_t *cap, int32_t n, size_t size,
                                        const char *what, infer_error *err) {
    void *grown;
    if (n <= *cap) return INFER_OK;
    grown = infer__realloc(s->mem, *p, (uint64_t)n, size);
    if (!grown) return infer__error(err, INFER_ERR_MEMORY, "sampler: no memory for %d %s", (int)n, what);
    memset((char *)grown + (size_t)*cap * size, 0, (size_t)(n - *cap) * size);
    *p = grown;
    *cap = n;
    return INFER_OK;
}

static infer_result infer__reserve_candidates(infer_sampler *s, int32_t n, infer_error *err) {
    if (n <= s->cap) return INFER_OK;
    infer__free(s->mem, s->c); /* nothing in it is needed: no copy */
    s->cap = 0;
    s->c = (infer_candidate *)infer__realloc(s->mem, NULL, (uint64_t)n, sizeof *s->c);
    if (!s->c) return infer__error(err, INFER_ERR_MEMORY, "sampler: no memory for %d candidates", (int)n);
    s->cap = n;
    return INFER_OK;
}

static infer_result infer__reserve_counts(infer_sampler *s, infer_error *err) {
    void *p = s->counts;
    infer_result r = infer__sampler_grow(s, &p, &s->cap_counts, s->n_vocab, sizeof *s->counts, "counters", err);
    s->counts = (int32_t *)p;
    return r;
}

/* While dense: *x is a modifiable copy of the logits, with which the choice continues. */
static infer_result infer__own_logits(infer_sampler *s, float **x, infer_error *err) {
    void *p = s->work;
    if (s->logits != s->work) {
        infer_result r = infer__sampler_grow(s, &p, &s->cap_work, s->n_vocab, sizeof *s->work, "logits", err);
        s->work = (float *)p;
        if (r != INFER_OK) return r;
        memcpy(s->work, s->logits, (size_t)s->n_vocab * sizeof *s->work);
        s->logits = s->work;
    }
    *x = s->work;
    return INFER_OK;
}

/* ---- scans of dense logits ------------------------------------------------------------------------------ */

/* 1 when one of 16 logits is above `least`, infinite or not a number (-inf is neither). Branch-free, so that compilers
 * use vectors for it: few blocks of a vocabulary hold anything better than the k-th best so far. */
INFER__INLINE int infer__scan_block(const float *x, float least) {
    uint32_t hit = 0;
    int j;
    for (j = 0; j < 16; j++) {
        uint32_t bits = infer__f32_bits(x[j]);
        hit |= (uint32_t)(x[j] > least);
        hit |= (uint32_t)((bits & 0x7f800000u) == 0x7f800000u) & (uint32_t)(bits != 0xff800000u);
    }
    return hit != 0;
}

/* The k best of n logits to c[0..k), best first, lowest id first among equals. Returns how many there are (fewer than
 * k when others are not allowed), or an error. */
static int32_t infer__best_logits(const float *x, int32_t n, infer_candidate *c, int32_t k, infer_error *err) {
    int32_t i = 0, m = 0;
    while (i < n) {
        int32_t end = INFER__MIN(n, i + 16);
        if (m == k && end - i == 16 && !infer__scan_block(x + i, c[0].logit)) { i = end; continue; }
        for (; i < end; i++) {
            int ok = infer__check_logit(infer__f32_bits(x[i]), i, err);
            if (ok < 0) return INFER_ERR_STATE;
            if (!ok || (m == k && !(x[i] > c[0].logit))) continue;
            if (m < k) {
                c[m].token = i; c[m].logit = x[i]; c[m].p = 0;
                if (++m == k) infer__heap_make(c, k);
            } else {
                c[0].token = i; c[0].logit = x[i];
                infer__heap_sink(c, k, 0);
            }
        }
    }
    if (m < k) infer__heap_make(c, m);
    infer__heap_sort(c, m);
    return m ? m : (int32_t)infer__none_left(err);
}

/* The most likely of n logits: what sampling without a sampler does. */
static infer_result infer__sample_greedy(const float *logits, int32_t n, infer_token *token, infer_error *err) {
    infer_candidate best;
    int32_t m = infer__best_logits(logits, n, &best, 1, err);
    if (m < 0) return (infer_result)m;
    *token = best.token;
    return INFER_OK;
}

/* All allowed tokens become candidates, in order of id. */
static infer_result infer__take_all(infer_sampler *s, infer_error *err) {
    infer_result r;
    int32_t i;
    if (!s->dense) return INFER_OK;
    if ((r = infer__reserve_candidates(s, s->n_vocab, err)) != INFER_OK) return r;
    s->n = s->sorted = s->dense = 0;
    for (i = 0; i < s->n_vocab; i++) {
        int ok = infer__check_logit(infer__f32_bits(s->logits[i]), i, err);
        if (ok < 0) return INFER_ERR_STATE;
        s->c[s->n].token = i;
        s->c[s->n].logit = s->logits[i];
        s->c[s->n].p = 0;
        s->n += ok;
    }
    return s->n ? INFER_OK : infer__none_left(err);
}

/* ---- what dense logits and candidates have in common ------------------------------------------------------ */

/* How many there are; while dense, tokens that are not allowed count too. */
static int32_t infer__count(const infer_sampler *s) { return s->dense ? s->n_vocab : s->n; }

/* Logits at, at + 1, ... (at most INFER__LOGITS_CHUNK): in place, or a copy in buf. *n is how many. */
enum { INFER__LOGITS_CHUNK = 128 };
INFER__INLINE const float *infer__chunk(const infer_sampler *s, int32_t at, int32_t *n, float *buf) {
    int32_t i;
    *n = INFER__MIN(infer__count(s) - at, INFER__LOGITS_CHUNK);
    if (s->dense) return s->logits + at;
    for (i = 0; i < *n; i++) buf[i] = s->c[at + i].logit;
    return buf;
}

/* The largest logit. Dense logits are checked in the same pass, so that later stages may use them unchecked. */
static infer_result infer__best_logit(const infer_sampler *s, float *best, infer_error *err) {
    infer_candidate one;
    int32_t i;
    if (s->dense) {
        int32_t m = infer__best_logits(s->logits, s->n_vocab, &one, 1, err);
        if (m < 0) return (infer_result)m;
        *best = one.logit;
        return INFER_OK;
    }
    *best = s->c[0].logit;
    for (i = 1; i < s->n && s->sorted == 0; i++) if (s->c[i].logit > *best) *best = s->c[i].logit;
    return INFER_OK;
}

/* Sum of the weights of all. */
static uint64_t infer__weigh_all(const infer_sampler *s, float best, int32_t bits) {
    float buf[INFER__LOGITS_CHUNK];
    uint64_t total = 0;
    int32_t at, i, n;
    for (at = 0; at < infer__count(s); at += n) {
        const float *x = infer__chunk(s, at, &n, buf);
        for (i = 0; i < n; i++) total += infer__weigh(infer__gap(best, x[i]), bits);
    }
    return total;
}

/* Keep those whose gap is at most `most` (below INFER__GAP_MAX), in their order; the best one is among them. */
static infer_result infer__keep_gap(infer_sampler *s, float best, uint64_t most, infer_error *err) {
    float least;
    double edge;
    int32_t i, j, m = 0, sorted = 0;
    infer_result r;
    if (!s->dense) {
        for (i = 0; i < s->n; i++) {
            if (infer__gap(best, s->c[i].logit) > most) continue;
            sorted += i < s->sorted;
            s->c[m++] = s->c[i];
        }
        s->n = m;
        s->sorted = sorted;
        return INFER_OK;
    }
    if ((r = infer__reserve_candidates(s, s->n_vocab, err)) != INFER_OK) return r;
    edge = (double)best - (double)most * (1.0 / 4294967296.0);
    edge -= ((edge < 0 ? -edge : edge) + (best < 0 ? -(double)best : (double)best) + 1) * 1e-5;
    least = edge > -3e38 ? (float)edge : -3.4e38f; /* a little low: it only decides which blocks to examine */
    for (i = 0; i < s->n_vocab; i = j) {
        j = INFER__MIN(s->n_vocab, i + 16);
        if (j - i == 16 && !infer__scan_block(s->logits + i, least)) continue;
        for (; i < j; i++) {
            if (infer__gap(best, s->logits[i]) > most) continue;
            s->c[m].token = i; s->c[m].logit = s->logits[i]; s->c[m].p = 0;
            m++;
        }
    }
    s->n = m;
    s->sorted = s->dense = 0;
    return INFER_OK;
}

/* A gap that at least k of the dense logits are within, and not many more: by counting in steps of 1/16. */
static infer_result infer__gap_of_best(const infer_sampler *s, int32_t k, float *best, uint64_t *gap,
                                       infer_error *err) {
    enum { STEPS = 1024, WIDTH = 28 };
    int32_t count[STEPS], i, n = 0;
    infer_result r = infer__best_logit(s, best, err);
    if (r != INFER_OK) return r;
    memset(count, 0, sizeof count);
    for (i = 0; i < s->n_vocab; i++) {
        uint64_t at = infer__gap(*best, s->logits[i]) >> WIDTH;
        count[INFER__MIN(at, STEPS - 1)]++;
    }
    for (i = 0; i < STEPS - 1 && (n += count[i]) < k; i++) {
    }
    *gap = i == STEPS - 1 ? INFER__GAP_MAX : ((uint64_t)(i + 1) << WIDTH) - 1; /* the last step has no end */
    return INFER_OK;
}

/* Keep the k best, best first. */
static infer_result infer__keep_best(infer_sampler *s, int32_t k, infer_error *err) {
    infer_result r;
    if (s->dense && k > 256) { /* a large heap is slow */
        uint64_t gap;
        float best = 0;
        if ((r = infer__gap_of_best(s, k, &best, &gap, err)) != INFER_OK) return r;
        r = gap < INFER__GAP_MAX ? infer__keep_gap(s, best, gap, err) : infer__take_all(s, err);
        if (r != INFER_OK) return r;
    }
    if (!s->dense) {
        infer__sort_best(s, k);
        infer__keep_first(s, INFER__MIN(k, s->n));
        return INFER_OK;
    }
    if ((r = infer__reserve_candidates(s, k, err)) != INFER_OK) return r;
    s->n = infer__best_logits(s->logits, s->n_vocab, s->c, k, err);
    if (s->n < 0) return (infer_result)s->n;
    s->sorted = s->n;
    s->dense = 0;
    return INFER_OK;
}

/* ---- the draw ---------------------------------------------------------------------------------------------- */

/* A token that was drawn, its weight and the sum of all weights (2^bits = that of the best one). */
typedef struct infer__drawn {
    infer_token token;
    int32_t index; /* among the candidates; -1 while dense */
    uint64_t weight, total;
} infer__drawn;

/* Draw from the softmax of what is left. Every choice takes one number of the generator, also when one is left. */
static infer_result infer__sampler_draw(infer_sampler *s, infer__drawn *d, infer_error *err) {
    float buf[INFER__LOGITS_CHUNK], best = 0;
    uint64_t sums = 0, at, w = 0;
    int32_t from, i, n, bits = infer__weigh_bits(infer__count(s)), last = -1;
    infer_result r = infer__best_logit(s, &best, err);
    if (r != INFER_OK) return r;
    d->total = infer__weigh_all(s, best, bits);
    at = infer__mul_high(infer__sampler_next(s), d->total); /* 0 .. total-1 */
    for (from = 0; from < infer__count(s) && last < 0; from += n) {
        const float *x = infer__chunk(s, from, &n, buf);
        for (i = 0; i < n; i++) {
            w = infer__weigh(infer__gap(best, x[i]), bits);
            if (at - sums < w) { last = from + i; break; }
            sums += w;
        }
    }
    d->weight = w;
    d->index = s->dense ? -1 : last;
    d->token = s->dense ? last : s->c[last].token;
    return INFER_OK;
}
