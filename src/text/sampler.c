/* sampler.c: logits -> token.
 *
 * Owns:  infer_sampler: stages, generator, accepted tokens; the STAGES table.
 * Rules: knows no sessions and no models (`model` is carried for the layer above and never looked at).
 *        The same seed and logits give the same tokens on every platform and compiler. Hence probabilities are integers
 *        (infer__weigh: 2^-x in fixed point), sums of integers have no order, candidates have a total order (logit,
 *        then lowest id), and no float expression here can be contracted into a fused multiply-add.
 *        Nothing is sorted that no stage asks for, and nothing is allocated once the buffers have grown.
 * Flow:  a choice starts as the caller's logits ("dense": indexed by id). A stage that can work on those does: the
 *        usual chain goes from the whole vocabulary to 40 candidates in one scan (0.07 ms for 256k logits, one core of
 *        a Xeon, gcc -O2, 2026-11). The first stage that cannot takes all of them as candidates (infer__take_all).
 *        -inf means "not allowed" and is dropped; +inf and NaN are errors.
 * Start: INFER__STAGES, infer__sampler_choose.
 */
#include "text.h"

/* The best candidates of `n`, or the whole vocabulary while dense is 1. */
struct infer_sampler {
    infer__mem *mem;
    infer__mem own;      /* mem points here when the caller gave none */
    infer_model *model;  /* of the layer above, which counts it as a user */
    infer_stage *stages;
    int32_t n_stages;
    uint64_t seed, state;
    /* accepted tokens, oldest first; only as many as penalties look at are needed */
    infer_token *history;
    int32_t n_history, cap_history, max_history;
    /* one choice */
    const float *logits; /* n_vocab, while dense */
    int32_t n_vocab, dense;
    infer_candidate *c;
    int32_t n, cap, sorted; /* the first `sorted` candidates are the best ones, best first */
    float *work;            /* a changed copy of the logits */
    int32_t *counts;        /* per token, zero between calls */
    int32_t cap_work, cap_counts;
    infer__matcher *matcher; /* of the grammar stage; NULL = there is none */
};

/* ---- probabilities in integers ------------------------------------------------------------------- */

/* High 64 bits of a * b. */
static uint64_t infer__mul_high(uint64_t a, uint64_t b) {
    uint64_t al = a & 0xffffffffu, ah = a >> 32, bl = b & 0xffffffffu, bh = b >> 32;
    uint64_t mid = ah * bl + (al * bl >> 32), mid2 = al * bh + (mid & 0xffffffffu);
    return ah * bh + (mid >> 32) + (mid2 >> 32);
}

/* 2^bits * exp(-d), d >= 0 and bits <= 62, with a relative error below 2^-28; integers only.
 * y = d / ln 2 = k + i/16 + r: 2^-y = 2^-k * table[i] * exp(-r ln 2), the last by five terms of its series (the sixth
 * is below (ln 2 / 16)^5 / 120 = 1.3e-9). Numbers are in units of 2^-31, y in units of 2^-51. */
static uint64_t infer__weigh(double d, int32_t bits) {
    static const uint32_t table[16] = { /* 2^(31 - i/16) */
        0x80000000u, 0x7a92be8bu, 0x75606374u, 0x70666f76u, 0x6ba27e65u, 0x6712460bu, 0x62b39509u, 0x5e8451d0u,
        0x5a82799au, 0x56ac1f75u, 0x52ff6b55u, 0x4f7a9930u, 0x4c1bf829u, 0x48e1e9bau, 0x45cae0f2u, 0x42d561b4u };
    const uint64_t one = (uint64_t)1 << 31;
    uint64_t y, a, e;
    int32_t k;
    if (!(d < 64.0)) return 0; /* exp(-64) < 2^-92 */
    y = infer__mul_high((uint64_t)(d * 4503599627370496.0), 0xb8aa3b295c17f0bcu); /* d in 2^-52 times 2^63 / ln 2 */
    k = (int32_t)(y >> 51);
    a = ((y >> 20 & 0x07ffffffu) * 0x58b90bfcu) >> 31; /* r * ln 2 */
    e = one - a / 4;
    e = one - (a * e >> 31) / 3;
    e = one - (a * e >> 31) / 2;
    e = one - (a * e >> 31);
    e = e * table[y >> 47 & 15] >> 31;
    e = bits >= 31 ? e << (bits - 31) : e >> (31 - bits);
    return k < 64 ? e >> k : 0;
}

/* Bits of weights of which n can be added in 63 bits. */
static int32_t infer__weigh_bits(int32_t n) {
    int32_t bits = 62;
    while (bits > 31 && ((int64_t)1 << (62 - bits)) < n) bits--;
    return bits;
}

/* p in 0..1 times total, exact for the bits that a float has. */
static uint64_t infer__weigh_share(float p, uint64_t total) {
    if (p >= 1.0f) return total;
    return infer__mul_high((uint64_t)((double)p * 18446744073709551616.0), total);
}

/* The next number of the generator: splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators,
 * OOPSLA 2014). */
static uint64_t infer__sampler_next(infer_sampler *s) {
    uint64_t z = s->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* ---- candidates ------------------------------------------------------------------------------------ */

INFER__INLINE int infer__better(const infer_candidate *a, const infer_candidate *b) {
    return a->logit > b->logit || (a->logit == b->logit && a->token < b->token);
}

/* c[0..n) is a heap with its worst candidate on top, but for c[i], which may have to sink. */
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

/* Bring the k best of the candidates to the front, best first; the others stay behind them in no order. */
static void infer__sort_best(infer_sampler *s, int32_t k) {
    int32_t i;
    if (k > s->n) k = s->n;
    if (s->sorted >= k) return;
    infer__heap_make(s->c, k);
    for (i = k; i < s->n; i++) {
        if (infer__better(&s->c[i], &s->c[0])) {
            infer_candidate x = s->c[0];
            s->c[0] = s->c[i];
            s->c[i] = x;
            infer__heap_sink(s->c, k, 0);
        }
    }
    infer__heap_sort(s->c, k);
    s->sorted = k;
}

static void infer__keep_first(infer_sampler *s, int32_t k) {
    s->n = k;
    s->sorted = INFER__MIN(s->sorted, k);
}

/* The largest logit of the candidates. */
static float infer__best_logit(const infer_sampler *s) {
    float best = s->c[0].logit;
    int32_t i;
    if (s->sorted > 0) return best;
    for (i = 1; i < s->n; i++) if (s->c[i].logit > best) best = s->c[i].logit;
    return best;
}

/* ---- from logits to candidates ------------------------------------------------------------------------ */

/* 1 = a candidate, 0 = not allowed (-inf), < 0: an error. By bits, so that -ffast-math cannot remove it. */
static int infer__check_logit(float x, int32_t token, infer_error *err) {
    uint32_t bits = infer__f32_bits(x);
    if ((bits & 0x7f800000u) != 0x7f800000u) return 1;
    if (bits == 0xff800000u) return 0;
    return infer__error(err, INFER_ERR_STATE, "sampler: logit %d is %s", (int)token,
                        bits == 0x7f800000u ? "infinite" : "not a number");
}

static infer_result infer__reserve_candidates(infer_sampler *s, int32_t n, infer_error *err) {
    if (n <= s->cap) return INFER_OK;
    infer__free(s->mem, s->c);
    s->cap = 0;
    s->c = NULL;
    s->c = (infer_candidate *)infer__realloc(s->mem, NULL, (uint64_t)n, sizeof *s->c);
    if (!s->c) return infer__error(err, INFER_ERR_MEMORY, "sampler: no memory for %d candidates", (int)n);
    s->cap = n;
    return INFER_OK;
}

static infer_result infer__none_left(infer_error *err) {
    return infer__error(err, INFER_ERR_STATE, "sampler: no logit is finite");
}

/* All allowed tokens become candidates, in order of id. */
static infer_result infer__take_all(infer_sampler *s, infer_error *err) {
    infer_result r;
    int32_t i;
    if (!s->dense) return INFER_OK;
    if ((r = infer__reserve_candidates(s, s->n_vocab, err)) != INFER_OK) return r;
    s->n = s->sorted = s->dense = 0;
    for (i = 0; i < s->n_vocab; i++) {
        int ok = infer__check_logit(s->logits[i], i, err);
        if (ok < 0) return INFER_ERR_STATE;
        s->c[s->n].token = i;
        s->c[s->n].logit = s->logits[i];
        s->c[s->n].p = 0;
        s->n += ok;
    }
    return s->n ? INFER_OK : infer__none_left(err);
}

/* 1 when one of 16 logits is above `least` or not finite. Branch-free, so that compilers use vectors for it: few blocks
 * of a vocabulary hold anything better than the k-th best so far. */
INFER__INLINE int infer__scan_block(const float *x, float least) {
    uint32_t hit = 0;
    int j;
    for (j = 0; j < 16; j++) {
        hit |= (uint32_t)(x[j] > least);
        hit |= (uint32_t)((infer__f32_bits(x[j]) & 0x7f800000u) == 0x7f800000u);
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
            int ok = infer__check_logit(x[i], i, err);
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

/* ---- stages ---------------------------------------------------------------------------------------------- */

static infer_result infer__run_top_k(infer_sampler *s, const infer_stage *st, infer_error *err) {
    int32_t k;
    infer_result r;
    if (st->p[0] < 1.0f || st->p[0] >= (float)(s->dense ? s->n_vocab : s->n)) return INFER_OK;
    k = (int32_t)st->p[0];
    if (!s->dense) {
        infer__sort_best(s, k);
        infer__keep_first(s, k);
        return INFER_OK;
    }
    if ((r = infer__reserve_candidates(s, k, err)) != INFER_OK) return r;
    s->n = infer__best_logits(s->logits, s->n_vocab, s->c, k, err);
    if (s->n < 0) return (infer_result)s->n;
    s->sorted = s->n;
    s->dense = 0;
    return INFER_OK;
}

static infer_result infer__run_greedy(infer_sampler *s, const infer_stage *st, infer_error *err) {
    infer_stage one = *st;
    one.p[0] = 1;
    return infer__run_top_k(s, &one, err);
}

/* Below this a temperature counts as 0: it keeps x / t finite for |x| < 1e34. */
#define INFER__MIN_TEMPERATURE 1e-4f

static infer_result infer__run_temperature(infer_sampler *s, const infer_stage *st, infer_error *err) {
    infer_result r;
    volatile float inverse; /* -ffast-math may divide or multiply by the inverse: say which */
    int32_t i;
    if (st->p[0] < INFER__MIN_TEMPERATURE) return infer__run_greedy(s, st, err);
    if ((r = infer__take_all(s, err)) != INFER_OK) return r;
    inverse = 1.0f / st->p[0];
    if (inverse == 1.0f) return INFER_OK;
    for (i = 0; i < s->n; i++) {
        float x = s->c[i].logit * inverse;
        s->c[i].logit = infer__finite(x) ? x : x > 0 ? 3e38f : -3e38f;
    }
    return INFER_OK;
}

static infer_result infer__run_top_p(infer_sampler *s, const infer_stage *st, infer_error *err) {
    uint64_t total = 0, need, sum;
    int32_t i, bits, m;
    float best;
    infer_result r;
    if (!(st->p[0] > 0 && st->p[0] < 1.0f)) return INFER_OK;
    if ((r = infer__take_all(s, err)) != INFER_OK) return r;
    best = infer__best_logit(s);
    bits = infer__weigh_bits(s->n);
    for (i = 0; i < s->n; i++) total += infer__weigh((double)best - s->c[i].logit, bits);
    need = infer__weigh_share(st->p[0], total);
    for (m = 64;; m = m > s->n / 4 ? s->n : m * 4) { /* the set is small as a rule: order a few first */
        infer__sort_best(s, m);
        m = INFER__MIN(m, s->n);
        for (i = 0, sum = 0; i < m && (i == 0 || sum < need); i++) {
            uint64_t w = infer__weigh((double)best - s->c[i].logit, bits);
            s->c[i].p = (float)((double)w / (double)total);
            sum += w;
        }
        if (sum >= need || m == s->n) break;
    }
    infer__keep_first(s, i);
    return INFER_OK;
}

static infer_result infer__run_min_p(infer_sampler *s, const infer_stage *st, infer_error *err) {
    const int32_t bits = 62;
    uint64_t least;
    int32_t i, m = 0;
    float best;
    infer_result r;
    if (!(st->p[0] > 0)) return INFER_OK;
    if ((r = infer__take_all(s, err)) != INFER_OK) return r;
    best = infer__best_logit(s);
    least = infer__weigh_share(st->p[0], infer__weigh(0, bits));
    for (i = 0; i < s->n; i++)
        if (infer__weigh((double)best - s->c[i].logit, bits) >= least) s->c[m++] = s->c[i];
    infer__keep_first(s, m); /* order is kept, so the sorted ones are still in front */
    return INFER_OK;
}

/* x after a penalty for a token that was seen `count` times. The product must not be fused with the subtraction. */
static float infer__penalise(const infer_stage *st, float x, int32_t count) {
    volatile float f;
    float y;
    if (!infer__finite(x)) return x;
    y = st->p[1] > 0 ? (x > 0 ? x / st->p[1] : x * st->p[1]) : x;
    f = (float)count * st->p[2];
    y = y - f;
    y = y - st->p[3];
    return infer__finite(y) ? y : y > 0 ? 3e38f : -3e38f;
}

/* A copy of the logits that may be changed, and counters, of n_vocab entries. */
static infer_result infer__penalty_reserve(infer_sampler *s, infer_error *err) {
    void *p;
    if (s->dense && s->cap_work < s->n_vocab) {
        p = infer__realloc(s->mem, s->work, (uint64_t)s->n_vocab, sizeof *s->work);
        if (!p) goto fail;
        s->work = (float *)p;
        s->cap_work = s->n_vocab;
    }
    if (s->cap_counts < s->n_vocab) {
        p = infer__calloc(s->mem, (uint64_t)s->n_vocab, sizeof *s->counts);
        if (!p) goto fail;
        infer__free(s->mem, s->counts);
        s->counts = (int32_t *)p;
        s->cap_counts = s->n_vocab;
    }
    return INFER_OK;
fail:
    return infer__error(err, INFER_ERR_MEMORY, "sampler: no memory for penalties of %d tokens", (int)s->n_vocab);
}

static infer_result infer__run_penalty(infer_sampler *s, const infer_stage *st, infer_error *err) {
    const infer_token *t;
    int32_t i, n = s->n_history;
    infer_result r;
    if (st->p[0] >= 0 && st->p[0] < (float)n) n = (int32_t)st->p[0];
    if (n == 0 || ((st->p[1] == 0 || st->p[1] == 1.0f) && st->p[2] == 0 && st->p[3] == 0)) return INFER_OK;
    if ((r = infer__penalty_reserve(s, err)) != INFER_OK) return r;
    t = s->history + (s->n_history - n);
    for (i = 0; i < n; i++) if (t[i] < s->n_vocab) s->counts[t[i]]++;
    if (s->dense) {
        if (s->logits != s->work) memcpy(s->work, s->logits, (size_t)s->n_vocab * sizeof *s->work);
        s->logits = s->work;
        for (i = 0; i < n; i++) {
            if (t[i] >= s->n_vocab || s->counts[t[i]] == 0) continue;
            s->work[t[i]] = infer__penalise(st, s->work[t[i]], s->counts[t[i]]);
            s->counts[t[i]] = 0;
        }
        return INFER_OK;
    }
    for (i = 0; i < s->n; i++) {
        int32_t count = s->counts[s->c[i].token];
        if (count) { s->c[i].logit = infer__penalise(st, s->c[i].logit, count); s->sorted = 0; }
    }
    for (i = 0; i < n; i++) if (t[i] < s->n_vocab) s->counts[t[i]] = 0;
    return INFER_OK;
}

/* The caller's function is not trusted to leave candidates that later stages can use. */
static infer_result infer__run_custom(infer_sampler *s, const infer_stage *st, infer_error *err) {
    infer_result r = infer__take_all(s, err);
    int32_t i, n;
    if (r != INFER_OK) return r;
    n = st->fn(st->user, s->c, s->n);
    if (n < 1 || n > s->n)
        return infer__error(err, INFER_ERR_STATE, "sampler: custom stage %d returned %d of %d candidates",
                            (int)(st - s->stages), (int)n, (int)s->n);
    s->n = n;
    s->sorted = 0;
    for (i = 0, n = 0; i < s->n; i++) {
        int ok;
        if (s->c[i].token < 0 || s->c[i].token >= s->n_vocab)
            return infer__error(err, INFER_ERR_STATE, "sampler: custom stage %d left token %d of a vocabulary of %d",
                                (int)(st - s->stages), (int)s->c[i].token, (int)s->n_vocab);
        ok = infer__check_logit(s->c[i].logit, s->c[i].token, err);
        if (ok < 0) return INFER_ERR_STATE;
        if (ok) s->c[n++] = s->c[i];
    }
    s->n = n;
    return n ? INFER_OK : infer__none_left(err);
}

/* The tokens that the grammar allows at the matcher's place. */
static infer_result infer__run_grammar(infer_sampler *s, const infer_stage *st, infer_error *err) {
    const uint32_t *bits;
    infer_result r;
    int32_t i, m = 0;
    if (infer__matcher_waiting(s->matcher)) return INFER_OK;
    if (s->dense) {
        if (s->cap_work < s->n_vocab) {
            void *p = infer__realloc(s->mem, s->work, (uint64_t)s->n_vocab, sizeof *s->work);
            if (!p) return infer__error(err, INFER_ERR_MEMORY, "sampler: no memory for %d logits", (int)s->n_vocab);
            s->work = (float *)p;
            s->cap_work = s->n_vocab;
        }
        r = infer__matcher_apply(s->matcher, s->logits, s->work, s->n_vocab, err);
        s->logits = s->work;
        return r;
    }
    if ((r = infer__matcher_mask(s->matcher, &bits, err)) != INFER_OK) return r;
    for (i = 0; i < s->n; i++) {
        infer_token t = s->c[i].token;
        if (t < infer__grammar_tokens(st->grammar) && (bits[t >> 5] >> (t & 31) & 1)) s->c[m++] = s->c[i];
    }
    infer__keep_first(s, m); /* order is kept, so the sorted ones are still in front */
    if (m) return INFER_OK;
    return infer__error(err, INFER_ERR_STATE, "sampler: the grammar allows none of the candidates; it should be the "
                        "first stage");
}

/* ---- the table --------------------------------------------------------------------------------------------- */

typedef struct infer__stage_kind {
    int32_t kind; /* infer_stage_kind */
    const char *name;
    int32_t n_p;         /* parameters used; each must be in lo..hi */
    float lo[4], hi[4];
    infer_result (*run)(infer_sampler *s, const infer_stage *st, infer_error *err);
} infer__stage_kind;

#define INFER__BIG 3e38f
static const infer__stage_kind INFER__STAGES[] = {
    /* kind                    name           n_p  least                   most                                        run */
    { INFER_STAGE_GREEDY,      "greedy",      0, { 0, 0, 0, 0 },           { 0, 0, 0, 0 },                             infer__run_greedy },
    { INFER_STAGE_TEMPERATURE, "temperature", 1, { -INFER__BIG, 0, 0, 0 }, { INFER__BIG, 0, 0, 0 },                    infer__run_temperature },
    { INFER_STAGE_TOP_K,       "top-k",       1, { 0, 0, 0, 0 },           { INFER__BIG, 0, 0, 0 },                    infer__run_top_k },
    { INFER_STAGE_TOP_P,       "top-p",       1, { 0, 0, 0, 0 },           { 1, 0, 0, 0 },                             infer__run_top_p },
    { INFER_STAGE_MIN_P,       "min-p",       1, { 0, 0, 0, 0 },           { 1, 0, 0, 0 },                             infer__run_min_p },
    { INFER_STAGE_PENALTY,     "penalty",     4, { -1, 0, -INFER__BIG, -INFER__BIG }, { INFER__BIG, INFER__BIG, INFER__BIG, INFER__BIG }, infer__run_penalty },
    { INFER_STAGE_CUSTOM,      "custom",      0, { 0, 0, 0, 0 },           { 0, 0, 0, 0 },                             infer__run_custom },
    { INFER_STAGE_GRAMMAR,     "grammar",     0, { 0, 0, 0, 0 },           { 0, 0, 0, 0 },                             infer__run_grammar },
};

static const infer__stage_kind *infer__stage_find(int32_t kind) {
    size_t i;
    for (i = 0; i < INFER__COUNT(INFER__STAGES); i++) if (INFER__STAGES[i].kind == kind) return &INFER__STAGES[i];
    return NULL;
}

static infer_result infer__stage_check(const infer_stage *st, int32_t index, infer_error *err) {
    const infer__stage_kind *kind = infer__stage_find(st->kind);
    int32_t i;
    if (!kind)
        return infer__error(err, INFER_ERR_ARGUMENT, "stages[%d]: there is no stage kind %d", (int)index,
                            (int)st->kind);
    for (i = 0; i < kind->n_p; i++) {
        float p = st->p[i];
        if (!infer__finite(p))
            return infer__error(err, INFER_ERR_ARGUMENT, "stages[%d] (%s): p[%d] is not a finite number", (int)index,
                                kind->name, (int)i);
        if (p < kind->lo[i] || p > kind->hi[i])
            return infer__error(err, INFER_ERR_ARGUMENT, "stages[%d] (%s): p[%d] = %g is out of range", (int)index,
                                kind->name, (int)i, (double)p);
    }
    if (st->kind == INFER_STAGE_CUSTOM && !st->fn)
        return infer__error(err, INFER_ERR_ARGUMENT, "stages[%d] (custom): fn is NULL", (int)index);
    if (st->kind == INFER_STAGE_GRAMMAR && !st->grammar)
        return infer__error(err, INFER_ERR_ARGUMENT, "stages[%d] (grammar): grammar is NULL", (int)index);
    return INFER_OK;
}

/* ---- one choice ---------------------------------------------------------------------------------------------- */

/* Draw from the softmax of what is left. Every choice takes one number of the generator, also when one is left. */
static infer_token infer__sampler_draw(infer_sampler *s) {
    uint64_t total = 0, at;
    int32_t i, bits = infer__weigh_bits(s->n);
    float best = infer__best_logit(s);
    for (i = 0; i < s->n; i++) total += infer__weigh((double)best - s->c[i].logit, bits);
    at = infer__mul_high(infer__sampler_next(s), total); /* 0 .. total-1 */
    for (i = 0; i < s->n - 1; i++) {
        uint64_t w = infer__weigh((double)best - s->c[i].logit, bits);
        if (at < w) break;
        at -= w;
    }
    return s->c[i].token;
}

static infer_result infer__sampler_choose(infer_sampler *s, const float *logits, int32_t n, infer_token *token,
                                          infer_error *err) {
    infer_result r;
    int32_t i;
    s->logits = logits;
    s->n_vocab = n;
    s->dense = 1;
    s->n = s->sorted = 0;
    for (i = 0; i < s->n_stages; i++) {
        r = infer__stage_find(s->stages[i].kind)->run(s, &s->stages[i], err);
        if (r != INFER_OK) return r;
    }
    if ((r = infer__take_all(s, err)) != INFER_OK) return r;
    *token = infer__sampler_draw(s);
    return INFER_OK;
}

/* ---- opening, closing, history --------------------------------------------------------------------------------- */

/* A default of the usual chain, from the file when it has one. Values outside lo..hi mean what the limit means. */
static infer_result infer__sampler_default(const infer__gguf *g, const char *key, float lo, float hi, float *value,
                                           infer_error *err) {
    int r = g ? infer__gguf_f32(g, key, value, err) : 0;
    if (r < 0) return (infer_result)r;
    if (!infer__finite(*value)) return infer__error(err, INFER_ERR_FORMAT, "%s is not a finite number", key);
    *value = INFER__MIN(INFER__MAX(*value, lo), hi);
    return INFER_OK;
}

/* The usual chain. Keys of general.sampling.* that no stage here understands are named in the log. */
static infer_result infer__sampler_usual(const infer__gguf *g, infer_stage st[5], infer_error *err) {
    static const char *const unused[] = { "sequence", "xtc_probability", "xtc_threshold", "mirostat", "mirostat_tau",
                                          "mirostat_eta" };
    infer_result r;
    size_t i;
    memset(st, 0, 5 * sizeof *st);
    st[0].kind = INFER_STAGE_PENALTY;
    st[0].p[0] = 64; st[0].p[1] = 1;
    st[1].kind = INFER_STAGE_TOP_K; st[1].p[0] = 40;
    st[2].kind = INFER_STAGE_TOP_P; st[2].p[0] = 0.95f;
    st[3].kind = INFER_STAGE_MIN_P; st[3].p[0] = 0.05f;
    st[4].kind = INFER_STAGE_TEMPERATURE; st[4].p[0] = 0.8f;
    if ((r = infer__sampler_default(g, "general.sampling.penalty_last_n", -1, 1e9f, &st[0].p[0], err)) != INFER_OK ||
        (r = infer__sampler_default(g, "general.sampling.penalty_repeat", 0, 1e9f, &st[0].p[1], err)) != INFER_OK ||
        (r = infer__sampler_default(g, "general.sampling.top_k", 0, 1e9f, &st[1].p[0], err)) != INFER_OK ||
        (r = infer__sampler_default(g, "general.sampling.top_p", 0, 1, &st[2].p[0], err)) != INFER_OK ||
        (r = infer__sampler_default(g, "general.sampling.min_p", 0, 1, &st[3].p[0], err)) != INFER_OK ||
        (r = infer__sampler_default(g, "general.sampling.temp", 0, 1e9f, &st[4].p[0], err)) != INFER_OK) return r;
    for (i = 0; g && i < INFER__COUNT(unused); i++) {
        char key[64] = "general.sampling.";
        memcpy(key + strlen(key), unused[i], strlen(unused[i]) + 1);
        if (infer__gguf_find(g, key)) infer__log(g->report, 2, "%s is not used", key);
    }
    return INFER_OK;
}

static infer_result infer__sampler_copy_stages(infer_sampler *s, const infer_stage *stages, int32_t n,
                                               infer_error *err) {
    int32_t i;
    if (n == 0) return INFER_OK;
    s->stages = (infer_stage *)infer__calloc(s->mem, (uint64_t)n, sizeof *stages);
    if (!s->stages) goto no_memory;
    for (i = 0; i < n; i++) {
        const char *text = stages[i].text;
        infer_result r = infer__stage_check(&stages[i], i, err);
        if (r != INFER_OK) return r;
        s->stages[i] = stages[i];
        s->stages[i].text = NULL;
        s->n_stages = i + 1;
        if (text) {
            size_t len = strlen(text) + 1;
            char *copy = (char *)infer__alloc(s->mem, len);
            if (!copy) goto no_memory;
            memcpy(copy, text, len);
            s->stages[i].text = copy;
        }
        if (stages[i].kind == INFER_STAGE_GRAMMAR) {
            if (s->matcher)
                return infer__error(err, INFER_ERR_ARGUMENT, "stages[%d]: there is another grammar stage", (int)i);
            if ((r = infer__matcher_open(&s->matcher, stages[i].grammar, err)) != INFER_OK) return r;
        }
        if (stages[i].kind == INFER_STAGE_PENALTY) {
            float keep = stages[i].p[0];
            int32_t k = keep < 0 || keep > 1e9f ? INT32_MAX : (int32_t)keep;
            s->max_history = INFER__MAX(s->max_history, k);
        }
    }
    return INFER_OK;
no_memory:
    return infer__error(err, INFER_ERR_MEMORY, "sampler: no memory for %d stages", (int)n);
}

static infer_result infer__sampler_open(infer_sampler **out, infer__mem *mem, const infer__gguf *g,
                                        const infer_stage *stages, int32_t n_stages, uint64_t seed, infer_error *err) {
    infer_stage usual[5];
    infer_sampler *s;
    infer__mem own;
    infer_result r;
    *out = NULL;
    if (n_stages < 0 || (!stages && n_stages > 0))
        return infer__error(err, INFER_ERR_ARGUMENT, "stages is %s, n_stages is %d", stages ? "given" : "NULL",
                            (int)n_stages);
    if (!stages) {
        if ((r = infer__sampler_usual(g, usual, err)) != INFER_OK) return r;
        stages = usual;
        n_stages = (int32_t)INFER__COUNT(usual);
    }
    infer__mem_init(&own, NULL, 0);
    s = (infer_sampler *)infer__calloc(mem ? mem : &own, 1, sizeof *s);
    if (!s) return infer__error(err, INFER_ERR_MEMORY, "sampler: no memory");
    s->own = own;
    s->mem = mem ? mem : &s->own;
    s->seed = s->state = seed;
    if ((r = infer__sampler_copy_stages(s, stages, n_stages, err)) != INFER_OK) {
        infer__sampler_close(s);
        return r;
    }
    *out = s;
    return INFER_OK;
}

static void infer__sampler_close(infer_sampler *s) {
    infer__mem own;
    infer__mem *mem;
    int32_t i;
    if (!s) return;
    own = s->own;
    mem = s->mem == &s->own ? &own : s->mem; /* the struct is freed through it */
    infer__matcher_close(s->matcher);
    for (i = 0; i < s->n_stages; i++) infer__free(mem, (void *)(uintptr_t)s->stages[i].text);
    infer__free(mem, s->stages);
    infer__free(mem, s->history);
    infer__free(mem, s->c);
    infer__free(mem, s->work);
    infer__free(mem, s->counts);
    infer__free(mem, s);
}

static void infer__sampler_restart(infer_sampler *s) {
    s->state = s->seed;
    s->n_history = 0;
    if (s->matcher) infer__matcher_reset(s->matcher);
}

static infer_result infer__sampler_remember(infer_sampler *s, infer_token token, infer_error *err) {
    infer_result r;
    if (token < 0) return infer__error(err, INFER_ERR_ARGUMENT, "sampler: token %d is negative", (int)token);
    if (s->matcher && (r = infer__matcher_accept(s->matcher, token, err)) != INFER_OK) return r;
    if (s->max_history == 0) return INFER_OK;
    if (s->n_history == s->cap_history) {
        if (s->n_history / 2 >= s->max_history) { /* more than enough: forget the older part */
            memmove(s->history, s->history + (s->n_history - s->max_history), (size_t)s->max_history * sizeof token);
            s->n_history = s->max_history;
        } else {
            int32_t cap = s->cap_history < 64 ? 128 : s->cap_history > INT32_MAX / 2 ? INT32_MAX : s->cap_history * 2;
            void *p = cap == s->cap_history ? NULL : infer__realloc(s->mem, s->history, (uint64_t)cap, sizeof token);
            if (!p) return infer__error(err, INFER_ERR_MEMORY, "sampler: no memory for %d accepted tokens", (int)cap);
            s->history = (infer_token *)p;
            s->cap_history = cap;
        }
    }
    s->history[s->n_history++] = token;
    return INFER_OK;
}

#undef INFER__BIG
#undef INFER__MIN_TEMPERATURE
