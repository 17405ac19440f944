/* full.c: a full session during generation, when the caller chooses what it holds next (INFER_FULL_ASK).
 *
 * Rules: the caller's function runs while the session is claimed and its context is not, so it may evaluate other
 *        sessions of the context, such as one that writes a summary. Its answer is checked before the session changes;
 *        then infer__generate_slide makes the session hold it: what both begin with is not evaluated again.
 * Start: infer__full_ask.
 */
#include "../model/model.h"

static infer_result infer__full_check(const infer_generate_params *p, infer_error *err) {
    if (p->keep_first < 0) return infer__error(err, INFER_ERR_ARGUMENT, "keep_first is %d", (int)p->keep_first);
    if (p->on_full < INFER_FULL_STOP || p->on_full > INFER_FULL_ASK)
        return infer__error(err, INFER_ERR_ARGUMENT, "on_full %d is no INFER_FULL_*", (int)p->on_full);
    if (p->on_full == INFER_FULL_ASK && !p->full)
        return infer__error(err, INFER_ERR_ARGUMENT, "on_full is INFER_FULL_ASK, and full is NULL");
    return INFER_OK;
}

/* Ask the caller what to hold, so that `room` tokens fit: *n tokens at *out, to be freed. CONTEXT_FULL: that is
 * impossible, or the caller declines. */
static infer_result infer__full_ask(infer_session *s, const infer_generate_params *p, int64_t room, infer_token **out,
                                    int32_t *n_out) {
    infer__mem *mem = &s->context->model->mem;
    const int32_t n = infer_session_position(s), vocab = s->context->model->hp.n_vocab;
    const int64_t most = INFER__MIN(infer_session_capacity(s) - room, (int64_t)n - 1);
    infer_token *ids;
    infer_result r = INFER_OK;
    int32_t kept, i;
    if (most < 1) return INFER_CONTEXT_FULL;
    ids = (infer_token *)infer__calloc(mem, (uint64_t)most, sizeof *ids);
    if (!ids) return infer__error(&s->error, INFER_ERR_MEMORY, "no memory for %d tokens", (int)most);
    kept = p->full(p->user, infer_session_tokens(s), n, ids, (int32_t)most);
    if (kept < 0 || kept > most)
        r = infer__error(&s->error, INFER_ERR_ARGUMENT, "full: it returned %d, and at most %d tokens fit", (int)kept,
                         (int)most);
    for (i = 0; r == INFER_OK && i < kept; i++)
        if (ids[i] < 0 || ids[i] >= vocab)
            r = infer__error(&s->error, INFER_ERR_ARGUMENT, "full: token %d is %d, outside 0..%d", (int)i, (int)ids[i],
                             (int)vocab - 1);
    if (r == INFER_OK && kept == 0) r = INFER_CONTEXT_FULL;
    if (r != INFER_OK) {
        infer__free(mem, ids);
        return r;
    }
    *out = ids;
    *n_out = kept;
    return INFER_OK;
}
