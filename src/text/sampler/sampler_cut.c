/* sampler_cut.c: stages that drop candidates and change no logit.
 *
 * Owns:  greedy, top-k, top-p, min-p, typical, top-n-sigma, XTC, mirostat 1 and 2, infill.
 * Rules: every stage keeps at least one candidate. Probabilities are those of the stage's input. A limit defined as a
 *        probability is converted to a gap once (infer__keep_gap), or found by sums over ranges of gaps: candidates are
 *        sorted only if their order is the result.
 * Sources: top-p: Holtzman et al., arXiv 1904.09751; typical: Meister et al., arXiv 2202.00666; mirostat: Basu et al.,
 *        arXiv 2007.14966; min-p: arXiv 2407.01082; top-n-sigma: arXiv 2411.07641. Where these leave something open, or
 *        programs differ, parameters have the meaning they have in llama.cpp.
 * Start: infer__run_top_p.
 */
#include "../text.h"

static infer_result infer__run_top_k(infer_sampler *s, const infer_stage *st, infer_error *err) {
    if (st->p[0] < 1.0f || st->p[0] >= (float)infer__count(s)) return INFER_OK;
    return infer__keep_best(s, (int32_t)st->p[0], err);
}

static infer_result infer__run_greedy(infer_sampler *s, const infer_stage *st, infer_error *err) {
    (void)st;
    return infer__keep_best(s, 1, err);
}

/* ---- the smallest set of a given probability ------------------------------------------------------------- */

/* Sums of weights over ranges of a score (Q32, below 64): range i is 2^width wide and begins at from + i * 2^width. */
enum { INFER__RANGES = 1024, INFER__RANGE_WIDTH = 28 };
typedef struct infer__ranges {
    uint64_t sum[INFER__RANGES];
    uint64_t from;
    int32_t width;
} infer__ranges;

/* Weights by gap into ranges, for top-p. Returns their total. */
static uint64_t infer__range_gaps(const infer_sampler *s, float best, int32_t bits, infer__ranges *ranges) {
    float buf[INFER__LOGITS_CHUNK];
    uint64_t total = 0;
    int32_t at, i, n;
    memset(ranges->sum, 0, sizeof ranges->sum);
    for (at = 0; at < infer__count(s); at += n) {
        const float *x = infer__chunk(s, at, &n, buf);
        for (i = 0; i < n; i++) {
            uint64_t gap = infer__gap(best, x[i]), w = infer__weigh(gap, bits);
            if (w == 0) continue;
            ranges->sum[gap >> INFER__RANGE_WIDTH] += w;
            total += w;
        }
    }
    return total;
}

static infer_result infer__run_top_p(infer_sampler *s, const infer_stage *st, infer_error *err) {
    uint64_t total, need, sum;
    int32_t i, bits, m;
    float best = 0;
    infer_result r;
    if (!(st->p[0] > 0 && st->p[0] < 1.0f)) return INFER_OK;
    if ((r = infer__best_logit(s, &best, err)) != INFER_OK) return r;
    bits = infer__weigh_bits(infer__count(s));
    if (infer__count(s) > 1024) { /* drop what is certainly outside before anything is sorted */
        infer__ranges ranges;
        total = infer__range_gaps(s, best, bits, &ranges);
        need = infer__weigh_share(st->p[0], total);
        for (i = 0, sum = 0; i < INFER__RANGES - 1 && (sum += ranges.sum[i]) < need; i++) {
        }
        if ((r = infer__keep_gap(s, best, ((uint64_t)(i + 1) << INFER__RANGE_WIDTH) - 1, err)) != INFER_OK) return r;
    } else {
        if ((r = infer__take_all(s, err)) != INFER_OK) return r;
        total = infer__weigh_all(s, best, bits);
        need = infer__weigh_share(st->p[0], total);
    }
    for (m = 64;; m = m > s->n / 4 ? s->n : m * 4) { /* the set is small as a rule: order a few first */
        infer__sort_best(s, m);
        m = INFER__MIN(m, s->n);
        for (i = 0, sum = 0; i < m && (i == 0 || sum < need); i++) {
            uint64_t w = infer__weigh(infer__gap(best, s->c[i].logit), bits);
            s->c[i].p = (float)((double)w / (double)total);
            sum += w;
        }
        if (sum >= need || m == s->n) break;
    }
    infer__keep_first(s, i);
    return INFER_OK;
}

static infer_result infer__run_min_p(infer_sampler *s, const infer_stage *st, infer_error *err) {
    float best = 0;
    infer_result r;
    if (!(st->p[0] > 0)) return INFER_OK;
    if ((r = infer__best_logit(s, &best, err)) != INFER_OK) return r;
    /* exp(-gap) >= p */
    return infer__keep_gap(s, best, infer__q32_mul((uint64_t)-infer__log2_float(st->p[0]), INFER__Q32_LN2), err);
}

/* ---- typical ------------------------------------------------------------------------------------------------ */

/* The mean gap under the weights, in Q32, and their total. A weight times its gap is at most 2^bits / e. */
static uint64_t infer__mean_gap(const infer_sampler *s, float best, int32_t bits, uint64_t *total) {
    float buf[INFER__LOGITS_CHUNK];
    uint64_t all = 0, sum = 0;
    int32_t at, i, n;
    for (at = 0; at < infer__count(s); at += n) {
        const float *x = infer__chunk(s, at, &n, buf);
        for (i = 0; i < n; i++) {
            uint64_t gap = infer__gap(best, x[i]), w = infer__weigh(gap, bits);
            if (w == 0) continue;
            all += w;
            sum += (w >> 32) * gap + ((w & 0xffffffffu) * (gap >> 6) >> 26); /* w * gap / 2^32 */
        }
    }
    *total = all;
    return (uint64_t)infer__q32_ratio(sum, all);
}

/* How untypical a candidate is: |surprise - entropy| = |gap - mean gap|, in Q32. What has no weight comes last. */
INFER__INLINE uint64_t infer__score(float best, float x, uint64_t mean) {
    uint64_t gap = infer__gap(best, x);
    if (gap >= INFER__GAP_NONE) return INFER__GAP_NONE;
    return gap > mean ? gap - mean : mean - gap;
}

/* The score at which the weights of all lower ones and its own pass `need`; *below = the sum of the lower ones. Each
 * round looks at one range of the round before and divides it into 1,024. */
static uint64_t infer__score_limit(const infer_sampler *s, float best, int32_t bits, uint64_t mean, uint64_t need,
                                   uint64_t *below) {
    infer__ranges ranges;
    int32_t i, width;
    *below = 0;
    ranges.from = 0;
    for (width = INFER__RANGE_WIDTH;; width = INFER__MAX(width - 10, 0)) {
        memset(ranges.sum, 0, sizeof ranges.sum);
        for (i = 0; i < s->n; i++) {
            uint64_t at = infer__score(best, s->c[i].logit, mean);
            if (at < ranges.from || at >= INFER__GAP_NONE) continue;
            at = (at - ranges.from) >> width;
            if (at < INFER__RANGES) ranges.sum[at] += infer__weigh(infer__gap(best, s->c[i].logit), bits);
        }
        for (i = 0; i < INFER__RANGES - 1 && *below + ranges.sum[i] <= need; i++) *below += ranges.sum[i];
        ranges.from += (uint64_t)i << width;
        if (width == 0) return ranges.from;
    }
}

static infer_result infer__run_typical(infer_sampler *s, const infer_stage *st, infer_error *err) {
    uint64_t total, need, mean, limit, sum, w;
    int32_t bits, i, m = 0, ties = 0, kept;
    float best = 0;
    infer_result r;
    if (!(st->p[0] > 0 && st->p[0] < 1.0f)) return INFER_OK;
    if ((r = infer__take_all(s, err)) != INFER_OK || (r = infer__best_logit(s, &best, err)) != INFER_OK) return r;
    bits = infer__weigh_bits(s->n);
    mean = infer__mean_gap(s, best, bits, &total);
    need = infer__weigh_share(st->p[0], total);
    limit = infer__score_limit(s, best, bits, mean, need, &sum);
    for (i = 0; i < s->n; i++) { /* those below the limit to the front, those at it after them */
        uint64_t score = infer__score(best, s->c[i].logit, mean);
        if (score > limit) continue;
        infer__swap(&s->c[m + ties], &s->c[i]);
        if (score == limit) { ties++; continue; }
        infer__swap(&s->c[m], &s->c[m + ties]);
        m++;
    }
    infer__select(s->c + m, ties, ties, 60); /* of equals the most likely first, then the lowest id */
    for (kept = m; kept < m + ties; kept++) {
        w = infer__weigh(infer__gap(best, s->c[kept].logit), bits);
        if (sum > need) break;
        sum += w;
    }
    s->n = INFER__MAX(kept, 1);
    s->sorted = 0;
    return INFER_OK;
}

/* ---- top-n-sigma ---------------------------------------------------------------------------------------------- */

/* The standard deviation of the logits, in units of 2^(shift - 32), from gaps of `fit` bits, so that sums of squares
 * fit 63 bits. */
static uint64_t infer__sigma(const infer_sampler *s, float best, int32_t *shift) {
    float buf[INFER__LOGITS_CHUNK];
    uint64_t most = 0, sum = 0, mean, squares = 0, n_used = 0;
    int32_t pass, at, i, n, fit = (infer__weigh_bits(infer__count(s)) + 1) / 2; /* squares have 62 - log2 n bits */
    mean = 0;
    *shift = 0;
    for (pass = 0; pass < 3; pass++) {
        for (at = 0; at < infer__count(s); at += n) {
            const float *x = infer__chunk(s, at, &n, buf);
            for (i = 0; i < n; i++) {
                uint64_t gap = infer__gap(best, x[i]), away;
                if (!infer__bits_finite(infer__f32_bits(x[i]))) continue; /* not allowed */
                if (pass == 0) { most = INFER__MAX(most, gap); continue; }
                gap >>= *shift;
                away = gap > mean ? gap - mean : mean - gap;
                if (pass == 1) { sum += gap; n_used++; }
                else squares += away * away;
            }
        }
        if (pass == 0) while (most >> *shift >> (fit - 1)) ++*shift;
        if (pass == 1) mean = (sum + n_used / 2) / n_used;
    }
    squares /= n_used;
    for (i = 0; i < *shift && squares < (uint64_t)1 << 60; i++) squares *= 4; /* bits after the point, as they fit */
    *shift -= i;
    return infer__sqrt_u64(squares);
}

static infer_result infer__run_top_n_sigma(infer_sampler *s, const infer_stage *st, infer_error *err) {
    uint64_t sigma, gap, most;
    int32_t shift;
    float best = 0;
    infer_result r;
    if (!(st->p[0] > 0)) return INFER_OK;
    if ((r = infer__best_logit(s, &best, err)) != INFER_OK) return r;
    sigma = infer__sigma(s, best, &shift); /* below 2^32 */
    gap = sigma >> 32 ? INFER__GAP_MAX : 0;
    if (!gap) { /* n * sigma / 2^32 * 2^shift, saturated below GAP_MAX */
        uint64_t n = (uint64_t)infer__q32(st->p[0]);
        uint64_t high = infer__mul_high(n, sigma), low = n * sigma;
        gap = high >> 30 ? INFER__GAP_MAX : high << 32 | low >> 32;
        gap = shift < 62 && gap >> (62 - shift) == 0 ? gap << shift : INFER__GAP_MAX;
    }
    most = INFER__GAP_MAX - 1;
    return infer__keep_gap(s, best, INFER__MIN(gap, most), err);
}

/* ---- XTC --------------------------------------------------------------------------------------------------------- */

/* With some probability drop all candidates of at least the threshold's probability but the least likely of them. */
static infer_result infer__run_xtc(infer_sampler *s, const infer_stage *st, infer_error *err) {
    uint64_t total, need;
    int32_t bits, i, m = 0, sorted = 0, n_above = 0;
    infer_candidate keep = { 0, 0, 0 };
    float best = 0;
    infer_result r;
    if (!(st->p[0] > 0) || st->p[1] > 0.5f || infer__count(s) < 2) return INFER_OK;
    if ((infer__sampler_next(s) >> 1) >= infer__weigh_share(st->p[0], (uint64_t)1 << 63)) return INFER_OK;
    if ((r = infer__take_all(s, err)) != INFER_OK || (r = infer__best_logit(s, &best, err)) != INFER_OK) return r;
    bits = infer__weigh_bits(s->n);
    total = infer__weigh_all(s, best, bits);
    need = infer__weigh_share(st->p[1], total);
    for (i = 0; i < s->n; i++) {
        if (infer__weigh(infer__gap(best, s->c[i].logit), bits) < need) continue;
        if (n_above++ == 0 || infer__better(&keep, &s->c[i])) keep = s->c[i];
    }
    if (n_above < 2) return INFER_OK;
    for (i = 0; i < s->n; i++) {
        if (infer__better(&s->c[i], &keep)) continue;
        sorted += i < s->sorted;
        s->c[m++] = s->c[i];
    }
    s->n = m;
    s->sorted = sorted;
    return INFER_OK;
}

/* ---- mirostat ---------------------------------------------------------------------------------------------------- */

/* How many candidates have about mu bits of surprise at most, if probabilities fall as Zipf's law says, with the
 * exponent estimated from the m best: k = (e 2^mu / (1 - N^-e))^(1/s), e = s - 1 (Basu et al., algorithm 1). */
static int32_t infer__mirostat_k(const infer_sampler *s, int32_t m, int64_t mu) {
    int64_t tb = 0, tt = 0, exponent, e, log_n = infer__log2((uint64_t)s->n_vocab), x, before = 0;
    int32_t i;
    m = INFER__MIN(m, s->n);
    for (i = 0; i < m - 1; i++) { /* logarithms to base 2 of (i + 2) / (i + 1) and of neighbours' probabilities */
        int64_t next = infer__log2((uint64_t)i + 2), t = next - before;
        uint64_t gap = INFER__MIN(infer__gap(s->c[i].logit, s->c[i + 1].logit), INFER__GAP_NONE * 4);
        int64_t b = (int64_t)infer__q32_mul(gap, INFER__Q32_INV_LN2);
        before = next;
        tb += infer__q32_mul_signed(t, b);
        tt += infer__q32_mul_signed(t, t);
    }
    if (tt == 0) return 1;
    exponent = infer__q32_ratio((uint64_t)tb, (uint64_t)tt);
    e = exponent - INFER__Q32_ONE;
    x = e < 0 ? -e : e;
    if (x < INFER__Q32_ONE >> 16) { /* e / (1 - N^-e) tends to 1 / ln N */
        x = -infer__log2((uint64_t)infer__q32_mul((uint64_t)log_n, INFER__Q32_LN2)) + 32 * INFER__Q32_ONE;
    } else { /* |e| / |1 - N^-e|: for e < 0 it is |e| N^e' / (N^e' - 1) read the other way round */
        int64_t p = infer__q32_mul_signed(x, log_n), q = infer__q32_exp2(-p), rest = INFER__Q32_ONE - q;
        x = infer__log2((uint64_t)x) - infer__log2((uint64_t)INFER__MAX(rest, 1)); /* |e| / (1 - N^-|e|) */
        if (e < 0) x -= p; /* 1 - N^-e = -N^|e| (1 - N^-|e|) */
    }
    x += mu; /* of k^s, to base 2 */
    if (x <= 0) return 1;
    x = infer__q32_ratio((uint64_t)x, (uint64_t)exponent);
    if (x >= 31 * INFER__Q32_ONE) return s->n;
    x = infer__q32_exp2(INFER__MIN(x, 28 * INFER__Q32_ONE)) >> 32;
    return x >= s->n ? s->n : x < 1 ? 1 : (int32_t)x;
}

static infer_result infer__run_mirostat(infer_sampler *s, const infer_stage *st, infer_error *err) {
    infer_result r = infer__take_all(s, err);
    int32_t m = st->p[2] >= 1.0f ? (int32_t)st->p[2] : 100;
    if (r != INFER_OK) return r;
    infer__sort_best(s, m);
    return infer__keep_best(s, infer__mirostat_k(s, m, s->states[st - s->stages].mu), err);
}

/* Keep those whose surprise is at most mu: gap / ln 2 + log2(sum of exp(-gap)) <= mu. */
static infer_result infer__run_mirostat_2(infer_sampler *s, const infer_stage *st, infer_error *err) {
    int64_t left = s->states[st - s->stages].mu;
    int32_t bits = infer__weigh_bits(infer__count(s));
    float best = 0;
    infer_result r = infer__best_logit(s, &best, err);
    if (r != INFER_OK) return r;
    left -= infer__log2(infer__weigh_all(s, best, bits)) - bits * INFER__Q32_ONE;
    if (left < 0) return infer__keep_best(s, 1, err);
    return infer__keep_gap(s, best, infer__q32_mul((uint64_t)left, INFER__Q32_LN2), err);
}

/* ---- infill ------------------------------------------------------------------------------------------------------ */

/* Filling a gap in a text: the model should say when to stop. Tokens that begin alike count as one, unlikely ones are
 * dropped, and with enough probability on end tokens only those are left. Combining looks at the best ones only, and at
 * texts of limited length, so that no vocabulary makes it slow. */
enum { INFER__INFILL_BEST = 256, INFER__INFILL_TEXT = 256 };

static int infer__is_end(const infer_sampler *s, int32_t i) {
    return (infer__token_flags(s->tokenizer, s->c[i].token) & INFER_TOKEN_END) != 0;
}

/* Add the weights of those of w[0..n) whose text begins with another's to the likelier of the two; the other gets 0. */
static void infer__infill_combine(infer_sampler *s, uint64_t *w, int32_t n) {
    size_t length[INFER__INFILL_BEST];
    int32_t i, j;
    for (i = 0; i < n; i++) {
        length[i] = 0;
        if (infer__token_flags(s->tokenizer, s->c[i].token) & (INFER_TOKEN_CONTROL | INFER_TOKEN_UNKNOWN)) continue;
        infer__token_text(s->tokenizer, s->c[i].token, s->pieces + (size_t)i * INFER__INFILL_TEXT, INFER__INFILL_TEXT,
                          &length[i]);
        if (length[i] > INFER__INFILL_TEXT) length[i] = 0;
    }
    for (i = 0; i < n; i++) {
        for (j = 0; j < n && w[i]; j++) {
            if (i == j || w[j] == 0 || length[i] == 0 || length[i] > length[j]) continue;
            if (memcmp(s->pieces + (size_t)i * INFER__INFILL_TEXT, s->pieces + (size_t)j * INFER__INFILL_TEXT,
                       length[i]) != 0) continue;
            if (w[j] > w[i]) { w[j] += w[i]; w[i] = 0; }
            else { w[i] += w[j]; w[j] = 0; }
        }
    }
}

/* Keep end tokens, and others of at least `least`. Returns how many others are left; *total = the weights of all. */
static int32_t infer__infill_keep(infer_sampler *s, uint64_t *w, uint64_t least, uint64_t *total) {
    int32_t i, m = 0, others = 0;
    *total = 0;
    for (i = 0; i < s->n; i++) {
        int end = infer__is_end(s, i);
        if (w[i] == 0 || (!end && w[i] < least)) continue;
        *total += w[i];
        others += !end;
        w[m] = w[i];
        s->c[m++] = s->c[i];
    }
    s->n = s->sorted = m;
    return others;
}

/* Nothing but the token that ends a text; where that is not allowed, nothing but the best candidate. */
static void infer__infill_end(infer_sampler *s, const infer_candidate *best) {
    infer_token end = infer__token_special(s->tokenizer, INFER_SPECIAL_EOT);
    if (end < 0) end = infer__token_special(s->tokenizer, INFER_SPECIAL_EOS);
    s->c[0] = *best;
    if (end >= 0 && end < s->n_vocab && infer__bits_finite(infer__f32_bits(s->logits[end]))) s->c[0].token = end;
    s->n = 1;
    s->sorted = 0;
}

static infer_result infer__run_infill(infer_sampler *s, const infer_stage *st, infer_error *err) {
    uint64_t w[INFER__INFILL_BEST], text = 0, end = 0;
    infer_candidate first;
    int32_t bits, i, m = 0, others;
    float best = 0;
    infer_result r = infer__take_all(s, err);
    (void)st;
    if (r != INFER_OK || (r = infer__best_logit(s, &best, err)) != INFER_OK) return r;
    bits = infer__weigh_bits(s->n) - 2; /* sums are multiplied by 3 */
    for (i = 0; i < s->n; i++) {
        uint64_t one = infer__weigh(infer__gap(best, s->c[i].logit), bits);
        if (infer__is_end(s, i)) end += one;
        else text += one;
    }
    if (end > 0 && 3 * end > text / (uint64_t)s->n) { /* as many end tokens as there are: few */
        for (i = 0; i < s->n; i++) if (infer__is_end(s, i)) s->c[m++] = s->c[i];
        s->n = m;
        s->sorted = 0;
        return INFER_OK;
    }
    infer__sort_best(s, INFER__INFILL_BEST);
    infer__keep_first(s, INFER__MIN(s->n, INFER__INFILL_BEST));
    for (i = 0; i < s->n; i++) w[i] = infer__weigh(infer__gap(best, s->c[i].logit), bits);
    infer__infill_combine(s, w, s->n);
    first = s->c[0];
    others = infer__infill_keep(s, w, (text + end) / 5, &text); /* a probability of 0.2 */
    if (others == 0) infer__infill_end(s, &first);
    else infer__infill_keep(s, w, text / ((uint64_t)others + 1), &text);
    return INFER_OK;
}
