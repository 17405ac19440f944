/* score.c: infer_session_score: how likely the model finds the tokens of a prompt, and what it expected instead.
 *
 * How:   a row of logits predicts the next token. The tokens are evaluated in pieces of a few rows, and of each
 *        row only a logprob and the k most likely tokens are kept, so that memory does not grow with n x vocabulary.
 * Rules: results are those of one eval with INFER_OUT_ALL, since they do not depend on how tokens are batched (on the
 *        CPU). After a failure the session is back where it was.
 * Start: infer__session_score.
 */
#include "../model/model.h"

enum { INFER__SCORE_BYTES = 32 << 20, INFER__SCORE_ROWS = 16 }; /* of logits at a time, at most; rows, at least */

typedef struct infer__scoring {
    infer_session *s;
    const infer_token *tokens;
    int32_t n, k;
    float *logprobs; /* n, or NULL */
    infer_top *top;  /* n x k */
} infer__scoring;

static infer_result infer__score_check(const infer__scoring *c, infer_error *err) {
    const infer_model *m = c->s->context->model;
    int32_t i;
    if (!c->tokens || c->n < 1)
        return infer__error(err, INFER_ERR_ARGUMENT, "infer_session_score: %s",
                            c->tokens ? "no tokens" : "tokens is NULL");
    if (c->k < 0 || c->k > m->hp.n_vocab || (c->k > 0 && !c->top))
        return infer__error(err, INFER_ERR_ARGUMENT, "infer_session_score: k is %d (0..%d), top is %s", (int)c->k,
                            (int)m->hp.n_vocab, c->top ? "given" : "NULL");
    if (infer__encoder(&m->hp) || infer__not_causal(&m->hp))
        return infer__error(err, INFER_ERR_UNSUPPORTED, "architecture \"%s\" does not predict the next token",
                            infer__arch_of(m)->name);
    if (c->n > c->s->cap - c->s->n)
        return infer__error(err, INFER_CONTEXT_FULL, "%d tokens at position %d do not fit a context of %d", (int)c->n,
                            (int)c->s->n, (int)c->s->cap);
    for (i = 0; i < c->n; i++)
        if (c->tokens[i] < 0 || c->tokens[i] >= m->hp.n_vocab)
            return infer__error(err, INFER_ERR_ARGUMENT, "infer_session_score: token %d is %d, outside 0..%d", (int)i,
                                (int)c->tokens[i], (int)m->hp.n_vocab - 1);
    return INFER_OK;
}

/* Row `row` of the last eval's logits predicts token i. */
static void infer__score_token(const infer__scoring *c, int32_t row, int32_t i) {
    const int32_t n = c->s->context->model->hp.n_vocab;
    const float *x = c->s->logits + (int64_t)infer__results_row(c->s, row) * n;
    double largest, sum;
    if (c->logprobs) {
        sum = infer__results_log_sum(x, n, &largest);
        c->logprobs[i] = (float)((double)x[c->tokens[i]] - largest - sum);
    }
    if (c->k > 0) infer__results_list(x, n, c->k, c->top + (int64_t)i * c->k);
}

/* The first token: predicted by the session's last one, if its logits are there. */
static infer_result infer__score_first(const infer__scoring *c) {
    int32_t i;
    infer_result r;
    if (c->logprobs) c->logprobs[0] = 0;
    for (i = 0; i < c->k; i++) {
        c->top[i].token = -1;
        c->top[i].logit = c->top[i].logprob = 0;
    }
    if (infer__results_row(c->s, -1) < 0) return INFER_OK;
    if ((r = infer__session_bring(c->s)) == INFER_OK) infer__score_token(c, -1, 0);
    return r;
}

static infer_result infer__session_score(const infer__scoring *c) {
    infer_session *s = c->s;
    const int32_t before = s->n, vocab = s->context->model->hp.n_vocab;
    const int32_t fit = (int32_t)(INFER__SCORE_BYTES / sizeof(float)) / vocab;
    const int32_t rows = INFER__MIN(INFER__MAX(fit, INFER__SCORE_ROWS), s->context->plan.batch);
    infer_error e;
    infer_result r = infer__score_first(c);
    int32_t i, j, m;
    for (i = 0; r == INFER_OK && i < c->n; i += m) {
        m = INFER__MIN(rows, c->n - i);
        r = infer__session_eval_as(s, c->tokens + i, m, INFER_OUT_ALL);
        for (j = 0; r == INFER_OK && j < m && i + j + 1 < c->n; j++) infer__score_token(c, j, i + j + 1);
    }
    if (r == INFER_OK || s->n <= before) return r;
    e = s->error;
    if (infer__session_rewind(s, before) == INFER_OK) s->error = e;
    return r;
}

INFER_API infer_result infer_session_score(infer_session *session, const infer_token *tokens, int32_t n, int32_t k,
                                           float *logprobs, infer_top *top) {
    infer__scoring c;
    infer_result r;
    if (!session) return INFER_ERR_ARGUMENT;
    if (!infer__session_claim(session)) return INFER_ERR_STATE;
    c.s = session;
    c.tokens = tokens;
    c.n = n;
    c.k = k;
    c.logprobs = logprobs;
    c.top = top;
    infer__error_clear(&session->error);
    r = INFER__HAS_SCORES ? infer__score_check(&c, &session->error)
                          : infer__left_out(&session->error, "scores of prompts", "INFER_NO_SCORES");
    if (INFER__HAS_SCORES && r == INFER_OK) r = infer__session_score(&c);
    infer__session_leave(session);
    return r;
}
