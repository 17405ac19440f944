/* sampler_shape.c: stages that change logits: penalties, bias, temperature, adaptive-p.
 *
 * Owns:  these stages, and what mirostat and adaptive-p learn from a token that was accepted (infer__stage_learn).
 * Rules: a new logit is made by single float operations, each stored in a volatile before the next: then x87 keeps no
 *        more bits, nothing is fused, and -ffast-math reorders nothing. A logit that overflows becomes +-3e38.
 *        Penalties and bias touch few tokens and work on dense logits.
 * Start: infer__run_temperature.
 */
#include "../text.h"

/* ---- penalties ----------------------------------------------------------------------------------------- */

/* Penalise the logit of a token that was seen `count` times. */
static void infer__penalise(const infer_stage *st, float *x, int32_t count) {
    volatile float f, y;
    if (!infer__bits_finite(infer__f32_bits(*x))) return;
    y = *x;
    if (st->p[1] > 0) y = *x > 0 ? *x / st->p[1] : *x * st->p[1];
    f = (float)count * st->p[2];
    y = y - f;
    y = y - st->p[3];
    *x = infer__clamp_logit(infer__f32_bits(y));
}

/* The newest accepted tokens that a parameter "last n" means (-1 = all); *n is how many. NULL before the first one. */
static const infer_token *infer__last_tokens(const infer_sampler *s, float last, int32_t *n) {
    *n = last >= 0 && last < (float)s->n_history ? (int32_t)last : s->n_history;
    return s->history ? s->history + (s->n_history - *n) : NULL; /* NULL + 0 is undefined */
}

static infer_result infer__run_penalty(infer_sampler *s, const infer_stage *st, infer_error *err) {
    const infer_token *t;
    int32_t i, n;
    float *x;
    infer_result r;
    if ((st->p[1] == 0 || st->p[1] == 1.0f) && st->p[2] == 0 && st->p[3] == 0) return INFER_OK;
    t = infer__last_tokens(s, st->p[0], &n);
    if (n == 0) return INFER_OK;
    if ((r = infer__reserve_counts(s, err)) != INFER_OK) return r;
    if (s->dense && (r = infer__own_logits(s, &x, err)) != INFER_OK) return r;
    for (i = 0; i < n; i++) if (t[i] < s->n_vocab) s->counts[t[i]]++;
    for (i = 0; i < n && s->dense; i++) {
        if (t[i] >= s->n_vocab || s->counts[t[i]] == 0) continue;
        infer__penalise(st, &x[t[i]], s->counts[t[i]]);
        s->counts[t[i]] = 0;
    }
    for (i = 0; i < s->n && !s->dense; i++) {
        int32_t count = s->counts[s->c[i].token];
        if (count) { infer__penalise(st, &s->c[i].logit, count); s->sorted = 0; }
    }
    for (i = 0; i < n; i++) if (t[i] < s->n_vocab) s->counts[t[i]] = 0;
    return INFER_OK;
}

/* ---- bias -------------------------------------------------------------------------------------------------- */

/* The bias of a token, from a list in order of tokens; NULL = none. */
static const infer_bias *infer__bias_find(const infer_stage *st, infer_token token) {
    int32_t lo = 0, hi = st->n;
    while (lo < hi) {
        int32_t mid = lo + (hi - lo) / 2;
        if (st->bias[mid].token < token) lo = mid + 1;
        else hi = mid;
    }
    return lo < st->n && st->bias[lo].token == token ? &st->bias[lo] : NULL;
}

/* A bias of -inf takes a token away; NaN and infinities of x stay what they are, to be found later. */
static void infer__bias_add(float *x, const float *bias) {
    volatile float y;
    if (!infer__bits_finite(infer__f32_bits(*x))) return;
    if (!infer__bits_finite(infer__f32_bits(*bias))) {
        memcpy(x, bias, sizeof *x);
        return;
    }
    y = *x;
    y = y + *bias;
    *x = infer__clamp_logit(infer__f32_bits(y));
}

static infer_result infer__run_bias(infer_sampler *s, const infer_stage *st, infer_error *err) {
    int32_t i, m = 0, sorted = 0;
    float *x;
    infer_result r;
    if (st->n == 0) return INFER_OK;
    if (s->dense) {
        if ((r = infer__own_logits(s, &x, err)) != INFER_OK) return r;
        for (i = 0; i < st->n; i++) {
            infer_token t = st->bias[i].token;
            if (t < s->n_vocab) infer__bias_add(&x[t], &st->bias[i].bias);
        }
        return INFER_OK;
    }
    for (i = 0; i < s->n; i++) {
        const infer_bias *b = infer__bias_find(st, s->c[i].token);
        s->c[m] = s->c[i];
        if (b) infer__bias_add(&s->c[m].logit, &b->bias);
        if (!infer__bits_finite(infer__f32_bits(s->c[m].logit))) continue;
        sorted += !b && sorted == m && i < s->sorted; /* in order up to the first that changed */
        m++;
    }
    s->n = m;
    s->sorted = sorted == m ? m : 0;
    return m ? INFER_OK : infer__none_left(err);
}

/* ---- temperature ------------------------------------------------------------------------------------------- */

/* Below this a temperature counts as 0: it keeps x / t finite for |x| < 1e34. */
#define INFER__MIN_TEMPERATURE 1e-4f

/* Logits / t. -ffast-math may divide or multiply by the inverse: this says which. */
static infer_result infer__scale_logits(infer_sampler *s, float t, infer_error *err) {
    volatile float inverse = 1.0f / t, product;
    float by = inverse, *x;
    int32_t i;
    infer_result r;
    if (by == 1.0f) return INFER_OK;
    if (!s->dense) {
        for (i = 0; i < s->n; i++) {
            product = s->c[i].logit * by;
            s->c[i].logit = infer__clamp_logit(infer__f32_bits(product));
        }
        return INFER_OK;
    }
    if ((r = infer__own_logits(s, &x, err)) != INFER_OK) return r;
    for (i = 0; i < s->n_vocab; i++) {
        if (!infer__bits_finite(infer__f32_bits(x[i]))) continue;
        product = x[i] * by;
        x[i] = infer__clamp_logit(infer__f32_bits(product));
    }
    return INFER_OK;
}

static infer_result infer__run_temperature(infer_sampler *s, const infer_stage *st, infer_error *err) {
    if (st->p[0] < INFER__MIN_TEMPERATURE) return infer__keep_best(s, 1, err);
    return infer__scale_logits(s, st->p[0], err);
}

/* Temperature by entropy (github.com/ggml-org/llama.cpp, pull request 4972): from p[0] - p[1] when one candidate has
 * all probability to p[0] + p[1] when all are equally likely; between them (entropy / its maximum)^p[2]. */
static infer_result infer__run_dynamic_temperature(infer_sampler *s, const infer_stage *st, infer_error *err) {
    int64_t low, high, entropy, most, share;
    uint64_t total;
    int32_t bits;
    float best = 0, t;
    infer_result r;
    if (!(st->p[1] > 0)) return infer__run_temperature(s, st, err);
    if ((r = infer__take_all(s, err)) != INFER_OK || (r = infer__best_logit(s, &best, err)) != INFER_OK) return r;
    if (s->n < 2) return INFER_OK;
    low = INFER__MAX(infer__q32(st->p[0]) - infer__q32(st->p[1]), 0);
    high = INFER__MAX(infer__q32(st->p[0]) + infer__q32(st->p[1]), low);
    bits = infer__weigh_bits(s->n);
    /* in bits: log2 of the sum of exp(-gap), and the mean gap */
    entropy = (int64_t)infer__q32_mul(infer__mean_gap(s, best, bits, &total), INFER__Q32_INV_LN2);
    entropy += infer__log2(total) - bits * INFER__Q32_ONE;
    most = infer__log2((uint64_t)s->n);
    share = infer__q32_ratio((uint64_t)INFER__MIN(entropy, most), (uint64_t)most);
    if (st->p[2] == 0) share = INFER__Q32_ONE;
    else if (share > 0) { /* 2^(p[2] * log2 share) */
        share = infer__q32_mul_signed(infer__q32(st->p[2]), infer__log2((uint64_t)share) - 32 * INFER__Q32_ONE);
        share = infer__q32_exp2(share);
    }
    t = infer__q32_float(low + infer__q32_mul_signed(high - low, share));
    return t < INFER__MIN_TEMPERATURE ? infer__keep_best(s, 1, err) : infer__scale_logits(s, t, err);
}

/* ---- adaptive-p ---------------------------------------------------------------------------------------------- */

/* Prefer tokens of a probability near the target, and move what is aimed at so that the mean over the tokens that were
 * taken comes to it (github.com/ggml-org/llama.cpp, pull request 17927; its constants: a width of 0.3 and logits
 * 5 - 10 d^2 / (1 + d) at a distance of d widths). */
static infer_result infer__run_adaptive_p(infer_sampler *s, const infer_stage *st, infer_error *err) {
    const infer__stage_state *state = &s->states[st - s->stages];
    int64_t aim, target = infer__q32(st->p[0]);
    uint64_t total, d, square;
    int32_t bits, i, shift = 0;
    float best = 0;
    infer_result r;
    if (st->p[0] < 0) return INFER_OK;
    if ((r = infer__take_all(s, err)) != INFER_OK || (r = infer__best_logit(s, &best, err)) != INFER_OK) return r;
    bits = infer__weigh_bits(s->n);
    total = infer__weigh_all(s, best, bits);
    while (total >> shift >> 32) shift++; /* total has 32 bits: a quotient of 31 is one division */
    aim = state->weight > 0 ? 2 * target - infer__q32_ratio((uint64_t)state->sum, (uint64_t)state->weight) : target;
    aim = INFER__MAX(INFER__MIN(aim, INFER__Q32_ONE), 0);
    for (i = 0; i < s->n; i++) {
        uint64_t w = infer__weigh(infer__gap(best, s->c[i].logit), bits);
        int64_t p = (int64_t)(((w >> shift) << 31) / (total >> shift)) * 2;
        s->c[i].p = infer__q32_float(p);
        d = (uint64_t)(p > aim ? p - aim : aim - p) >> 4; /* distances in units of 2^-28 */
        d = d * 10 / 3;
        square = d * d / ((uint64_t)1 << 28);
        square = (square * 10 << 24) / (((uint64_t)1 << 28) + d); /* d^2 / (1 + d) * 10 in units of 2^-24 */
        s->c[i].logit = infer__q32_float(5 * INFER__Q32_ONE - (int64_t)(square << 8));
    }
    s->sorted = 0;
    return INFER_OK;
}

/* ---- learning ---------------------------------------------------------------------------------------------------- */

static void infer__stage_forget(const infer_stage *st, infer__stage_state *state) {
    state->pending = -1;
    state->observed = 0;
    if (st->kind == INFER_STAGE_ADAPTIVE_P) { /* as if every token before had the target's probability */
        float decay = INFER__MIN(st->p[1], 0.99f);
        state->weight = infer__q32_ratio((uint64_t)INFER__Q32_ONE, (uint64_t)(INFER__Q32_ONE - infer__q32(decay)));
        state->sum = st->p[0] > 0 ? infer__q32_mul_signed(infer__q32(st->p[0]), state->weight) : 0;
    } else {
        state->mu = 2 * infer__q32(st->p[0]);
    }
}

/* A token was drawn: note what its acceptance will teach the last stage. */
static void infer__stage_observe(infer_sampler *s, const infer__drawn *d) {
    const infer_stage *st = &s->stages[s->n_stages - 1];
    infer__stage_state *state = &s->states[s->n_stages - 1];
    if (st->kind == INFER_STAGE_MIROSTAT || st->kind == INFER_STAGE_MIROSTAT_2) {
        state->observed = infer__log2(d->total) - infer__log2(d->weight);
    } else if (st->kind == INFER_STAGE_ADAPTIVE_P && st->p[0] >= 0) {
        state->observed = infer__q32(s->c[d->index].p);
    } else {
        return;
    }
    state->pending = d->token;
}

static void infer__stage_learn(const infer_stage *st, infer__stage_state *state, infer_token token) {
    if (state->pending != token) {
        state->pending = -1; /* the caller chose another: nothing is known about it */
        return;
    }
    state->pending = -1;
    if (st->kind == INFER_STAGE_ADAPTIVE_P) {
        int64_t decay = infer__q32(INFER__MIN(st->p[1], 0.99f));
        state->sum = state->observed + infer__q32_mul_signed(decay, state->sum);
        state->weight = INFER__Q32_ONE + infer__q32_mul_signed(decay, state->weight);
    } else {
        const int64_t most = (int64_t)1 << 52; /* keeps q32_mul within its bounds */
        state->mu -= infer__q32_mul_signed(infer__q32(st->p[1]), state->observed - infer__q32(st->p[0]));
        state->mu = INFER__MAX(INFER__MIN(state->mu, most), -most);
    }
}
