/* guide.c: classifier-free guidance: a second session holds a negative prompt, whose predictions are weakened.
 *
 * How:   before a token is chosen, the row of logits becomes neg + scale * (pos - neg), of the two sessions' log
 *        softmaxes, in double (Sanchez et al., "Stay on topic with Classifier-Free Guidance", arXiv 2306.17806, eq. 7;
 *        Hugging Face's UnbatchedClassifierFreeGuidanceLogitsProcessor computes the same). Samplers and grammars work
 *        on that. The chosen token is then evaluated in both, in one pass if they share a context.
 * Rules: only the row to be sampled is changed, and it is restored when no eval follows: a caller that continues with
 *        the session finds the model's own logits.
 * Start: infer__guide_mix.
 */
#include "../model/model.h"

#define INFER__GUIDANCE 1.5f /* where the caller does not say */

typedef struct infer__guide {
    infer_session *by; /* holds the negative prompt; NULL = there is no guidance */
    float scale;
    float *own;        /* n_vocab: the row as the model gave it */
    int32_t mixed;     /* 1 = the row is changed */
    int32_t ahead;     /* 1 = a slice has ended when the token was evaluated in `by`, and not yet in the other */
    infer_step steps[2]; /* of both, in one pass; in use while a slice has ended within it */
} infer__guide;

/* Nothing is claimed yet. */
static infer_result infer__guide_check(const infer_session *s, const infer_generate_params *p, infer_error *err) {
    if (!p->negative) return INFER_OK;
    if (!INFER__HAS_GUIDES) return infer__left_out(err, "negative prompts", "INFER_NO_GUIDES");
    if (p->negative == s) return infer__error(err, INFER_ERR_ARGUMENT, "negative is the session itself");
    if (p->negative->context->model != s->context->model)
        return infer__error(err, INFER_ERR_ARGUMENT, "negative is a session of another model");
    if (!infer__bits_finite(infer__f32_bits(p->guidance)))
        return infer__error(err, INFER_ERR_ARGUMENT, "guidance is not finite");
    if (p->lookup || p->mtp || p->draft)
        return infer__error(err, INFER_ERR_UNSUPPORTED, "negative: not together with drafts (%s)",
                            p->lookup ? "lookup" : p->mtp ? "mtp" : "draft");
    if (p->on_full != INFER_FULL_STOP)
        return infer__error(err, INFER_ERR_UNSUPPORTED, "negative: on_full must be INFER_FULL_STOP");
    return INFER_OK;
}

/* Claims the other session; after a failure there is nothing to give back. */
static infer_result infer__guide_begin(infer__guide *g, const infer_session *s, const infer_generate_params *p,
                                       infer_error *err) {
    memset(g, 0, sizeof *g);
    if (!INFER__HAS_GUIDES || !p->negative) return INFER_OK;
    if (!infer__session_claim(p->negative))
        return infer__error(err, INFER_ERR_STATE, "another call uses the session negative");
    g->own = (float *)infer__calloc(&s->context->model->mem, (uint64_t)s->context->model->hp.n_vocab, sizeof *g->own);
    if (g->own && p->negative->n > 0) {
        g->by = p->negative;
        g->scale = p->guidance != 0 ? p->guidance : INFER__GUIDANCE;
        return INFER_OK;
    }
    infer__session_leave(p->negative);
    if (!g->own) return infer__error(err, INFER_ERR_MEMORY, "no memory for a row of logits");
    infer__free(&s->context->model->mem, g->own);
    g->own = NULL;
    return infer__error(err, INFER_ERR_ARGUMENT, "negative: its session holds no tokens");
}

/* Roll back a token that `by` has and the other session does not. */
static void infer__guide_back(infer__guide *g, infer_session *s) {
    const infer_error e = s->error;
    if (g->ahead && infer__session_rewind(g->by, g->by->n - 1) == INFER_OK) s->error = e;
    g->ahead = 0;
}

/* s is NULL when its row is not needed any more. */
static void infer__guide_end(infer__guide *g, infer_session *s, infer__mem *mem) {
    const int32_t at = s ? infer__results_row(s, -1) : -1;
    if (!INFER__HAS_GUIDES || !g->by) return;
    infer__session_stop(g->by);
    if (s) infer__guide_back(g, s);
    if (g->mixed && at >= 0)
        memcpy(s->logits + (int64_t)at * s->context->model->hp.n_vocab, g->own,
               (size_t)s->context->model->hp.n_vocab * sizeof(float));
    infer__session_leave(g->by);
    infer__free(mem, g->own);
    g->by = NULL;
}

/* The logits of the other session's last token; they are made again after a rewind. */
static infer_result infer__guide_row(infer_session *by, const float **out) {
    const int32_t n = by->n;
    infer_token last;
    infer_result r = INFER_OK;
    if (infer__results_row(by, -1) < 0) {
        last = by->tokens[n - 1];
        if (last < 0)
            return infer__error(&by->error, INFER_ERR_STATE,
                                "negative: its last position was given as an embedding and has no logits");
        if ((r = infer__session_rewind(by, n - 1)) == INFER_OK) r = infer__session_eval(by, &last, 1);
    }
    if (r == INFER_OK) r = infer__session_bring(by);
    if (r == INFER_OK) *out = by->logits + (int64_t)infer__results_row(by, -1) * by->context->model->hp.n_vocab;
    return r;
}

static infer_result infer__guide_mix(infer__guide *g, infer_session *s) {
    const int32_t n = s->context->model->hp.n_vocab;
    const float *neg = NULL;
    double a, b, log_a, log_b;
    float *pos;
    infer_result r;
    int32_t i;
    if (!INFER__HAS_GUIDES || !g->by || g->mixed) return INFER_OK;
    if ((r = infer__session_bring(s)) != INFER_OK) return r;
    if ((r = infer__guide_row(g->by, &neg)) != INFER_OK) {
        s->error = g->by->error;
        return r;
    }
    pos = s->logits + (int64_t)infer__results_row(s, -1) * n;
    memcpy(g->own, pos, (size_t)n * sizeof *pos);
    log_a = infer__results_log_sum(pos, n, &a);
    log_b = infer__results_log_sum(neg, n, &b);
    for (i = 0; i < n; i++) {
        const double p = pos[i] - a - log_a, q = neg[i] - b - log_b, x = q + (double)g->scale * (p - q);
        pos[i] = (float)INFER__MIN(INFER__MAX(x, -(double)FLT_MAX), (double)FLT_MAX);
    }
    g->mixed = 1;
    return INFER_OK;
}

/* For sessions in two contexts: one eval after the other. */
static infer_result infer__guide_eval_apart(infer__guide *g, infer_session *s, const infer_token *token) {
    infer_result r;
    if (!g->ahead && (r = infer__session_eval(g->by, token, 1)) != INFER_OK) {
        if (r != INFER_MORE) s->error = g->by->error;
        return r;
    }
    g->ahead = 1;
    if ((r = infer__session_eval(s, token, 1)) == INFER_OK) g->ahead = 0;
    else if (r != INFER_MORE) infer__guide_back(g, s);
    return r;
}

/* Evaluate the chosen token in both sessions, or in neither. INFER_MORE: the slice has ended, and the next call
 * continues. */
static infer_result infer__guide_eval(infer__guide *g, infer_session *s, const infer_token *token) {
    infer_context *c = s->context;
    infer_error e;
    infer_result r = INFER_OK;
    int32_t i;
    g->mixed = 0; /* the row is gone */
    if (g->by->context != c) return infer__guide_eval_apart(g, s, token);
    infer__error_clear(&e);
    if (!s->paused) {
        memset(g->steps, 0, sizeof g->steps);
        for (i = 0; i < 2; i++) {
            g->steps[i].session = i ? g->by : s;
            g->steps[i].tokens = token;
            g->steps[i].n = 1;
            g->steps[i].outputs = INFER_OUT_LAST;
        }
        r = infer__context_claim(c, "infer_generate", &e);
    }
    if (r == INFER_OK) {
        infer__slice_begin(c, s->until);
        r = infer__eval_steps(c, g->steps, 2, &e);
        infer__slice_begin(c, 0);
        s->paused = r == INFER_MORE;
        if (r == INFER_MORE) return r;
        infer__context_leave(c);
    }
    s->error = g->by->error = e;
    return r;
}
