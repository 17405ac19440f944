/* sampler_top.c: choosing from the largest logits only, when the result cannot depend on the others: logits may then
 * stay on a GPU.
 *
 * Owns:  which chains can do that: those whose first stage other than scaling keeps the k best (greedy, top-k, a
 *        temperature of 0). Later stages see only those k candidates.
 * Rules: the same token as from all logits, and the same use of the generator. Scaling can make different logits equal,
 *        of which the lower id is better: so a few more are requested, and the last of those must be below the k-th,
 *        since then all others are. If that fails nothing has changed yet, and the caller fetches all logits. The
 *        conditions under which a stage does nothing repeat those at its beginning.
 * Start: infer__sampler_cut, infer__sampler_choose_of.
 */
#include "../text.h"

enum { INFER__TOP_MORE = 16 }; /* requested besides the k best when logits are scaled first */

/* 1 when a stage, coming first, leaves all logits as they are; 0 when it may not. */
static int infer__stage_idle(const infer_sampler *s, const infer_stage *st) {
    int32_t n;
    switch (st->kind) {
    case INFER_STAGE_TOP_K: return st->p[0] < 1.0f || st->p[0] >= (float)s->n_vocab;
    case INFER_STAGE_TOP_P: case INFER_STAGE_TYPICAL: return !(st->p[0] > 0 && st->p[0] < 1.0f);
    case INFER_STAGE_MIN_P: case INFER_STAGE_TOP_N_SIGMA: return !(st->p[0] > 0);
    case INFER_STAGE_XTC: return !(st->p[0] > 0) || st->p[1] > 0.5f;
    case INFER_STAGE_DRY: return st->p[0] == 0 || st->p[1] < 1.0f;
    case INFER_STAGE_LOGIT_BIAS: return st->n == 0;
    case INFER_STAGE_GRAMMAR: return infer__matcher_waiting(s->matcher);
    case INFER_STAGE_PENALTY:
        if ((st->p[1] == 0 || st->p[1] == 1.0f) && st->p[2] == 0 && st->p[3] == 0) return 1;
        infer__last_tokens(s, st->p[0], &n);
        return n == 0;
    default: return 0;
    }
}

/* The stage that keeps the *k best of the vocabulary as it is, or *scaled; -1 = the chain needs all logits. */
static int32_t infer__sampler_cut(const infer_sampler *s, int32_t *k, int32_t *scaled) {
    int32_t i;
    *scaled = 0;
    for (i = 0; i < s->n_stages; i++) /* looks at a logit by its token */
        if (s->stages[i].kind == INFER_STAGE_INFILL) return -1;
    for (i = 0; i < s->n_stages; i++) {
        const infer_stage *st = &s->stages[i];
        int by_entropy = st->kind == INFER_STAGE_DYNAMIC_TEMPERATURE && st->p[1] > 0;
        int scales =
            st->kind == INFER_STAGE_TEMPERATURE || (st->kind == INFER_STAGE_DYNAMIC_TEMPERATURE && !by_entropy);
        if (scales && st->p[0] >= INFER__MIN_TEMPERATURE) {
            *scaled |= st->p[0] != 1.0f;
        } else if (scales || st->kind == INFER_STAGE_GREEDY) {
            *k = 1;
            return i;
        } else if (!infer__stage_idle(s, st)) {
            if (st->kind != INFER_STAGE_TOP_K) return -1;
            *k = (int32_t)st->p[0];
            return i;
        }
    }
    return -1;
}

static int32_t infer__sampler_wants(infer_sampler *s, int32_t n) {
    int32_t k = 0, scaled;
    s->n_vocab = n;
    if (infer__sampler_cut(s, &k, &scaled) < 0) return 0;
    return scaled ? INFER__MIN(n, k + INFER__TOP_MORE) : k;
}

static infer_result infer__sampler_choose_of(infer_sampler *s, const infer__top_logit *best, int32_t n_best, int32_t n,
                                             int32_t *enough, infer_token *token, infer_error *err) {
    int32_t k = 0, scaled, cut, i;
    infer_result r;
    s->n_vocab = n;
    cut = infer__sampler_cut(s, &k, &scaled);
    *enough = cut >= 0 && k <= n_best;
    if (!*enough) return INFER_OK;
    if ((r = infer__reserve_candidates(s, n_best, err)) != INFER_OK) return r;
    s->logits = NULL;
    s->dense = s->sorted = 0;
    s->n = n_best;
    for (i = 0; i < n_best; i++) {
        s->c[i].token = best[i].token;
        s->c[i].logit = best[i].logit;
        s->c[i].p = 0;
    }
    for (i = 0; i < cut; i++) { /* they scale, or do nothing */
        r = infer__stage_find(s->stages[i].kind)->run(s, &s->stages[i], err);
        if (r != INFER_OK) return r;
    }
    infer__sort_best(s, n_best);
    *enough = !scaled || n_best == n || s->c[k - 1].logit > s->c[n_best - 1].logit;
    if (!*enough) return INFER_OK;
    infer__keep_first(s, k);
    return infer__sampler_go_on(s, cut + 1, token, err);
}

#undef INFER__MIN_TEMPERATURE
