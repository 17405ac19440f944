/* fill.c: infer_session_fill: text of models that fill in masked tokens (Dream, arXiv 2508.15487; LLaDA, arXiv
 * 2502.09992).
 *
 * The new tokens begin as masks. A step evaluates everything, chooses a token for each mask of the block, and keeps
 * those that are most certain; the next step sees them. Blocks follow each other from left to right.
 * Rules: everything is evaluated in one pass, from the session's position on, and taken back again. The memory is
 *        taken before the first eval. Random order uses the sampler's generator, or its own seed.
 * Start: infer__fill.
 */
#include "../model/model.h"

#define INFER__FILL_NEVER (-1e30f) /* a logit below all others, whatever the temperature */

typedef struct infer__filling {
    infer_session *s;
    infer_sampler *sampler;
    const infer_fill_params *p;
    int32_t n_prompt, n;   /* tokens given, new ones */
    int32_t shift;         /* 1 = logits are of the next position, as in models that were causal before */
    infer_token mask;
    infer_token *ids;      /* n_prompt + n */
    float *work;           /* n_vocab: logits without the mask's */
    float *certain;        /* n: of each mask that is open */
    infer_token *chosen;   /* n */
    uint64_t random;
} infer__filling;

/* The certainty of a choice (higher = more certain), from probabilities without temperature. */
static float infer__fill_certain(infer__filling *f, const float *logits, int32_t vocab, infer_token chosen,
                                 int32_t at) {
    float first = INFER__FILL_NEVER, second = INFER__FILL_NEVER;
    double sum = 0, entropy = 0;
    int32_t i;
    if (f->p->order == INFER_FILL_LEFT) return (float)-at;
    if (f->p->order == INFER_FILL_RANDOM) return (float)(infer__splitmix(&f->random) >> 40);
    for (i = 0; i < vocab; i++) {
        if (logits[i] > first) {
            second = first;
            first = logits[i];
        } else if (logits[i] > second) second = logits[i];
    }
    for (i = 0; i < vocab; i++) sum += exp((double)logits[i] - first);
    if (f->p->order == INFER_FILL_CONFIDENCE) return (float)(exp((double)logits[chosen] - first) / sum);
    if (f->p->order == INFER_FILL_MARGIN) return (float)((1 - exp((double)second - first)) / sum);
    for (i = 0; i < vocab; i++) {
        double p = exp((double)logits[i] - first) / sum;
        if (p > 0) entropy += p * log(p);
    }
    return (float)entropy;
}

/* Evaluate all tokens in one pass, then rewind. */
static infer_result infer__fill_eval(infer__filling *f, infer_error *e) {
    infer_session *s = f->s;
    infer_step st;
    infer_result r;
    memset(&st, 0, sizeof st);
    st.session = s;
    st.tokens = f->ids;
    st.n = f->n_prompt + f->n;
    st.outputs = INFER_OUT_ALL;
    r = infer__context_claim(s->context, "infer_session_fill", e);
    if (r != INFER_OK) return r;
    s->all_wanted = 1;
    r = infer__eval_steps(s->context, &st, 1, e);
    if (r == INFER_OK) r = infer__results_bring(s, e);
    infer__context_leave(s->context);
    return r;
}

/* Fill `count` masks of [from, to) by what the last eval gave. */
static infer_result infer__fill_choose(infer__filling *f, int32_t from, int32_t to, int32_t count, infer_error *e) {
    int32_t vocab = f->s->context->model->hp.n_vocab, i, best;
    infer_result r;
    for (i = from; i < to; i++) {
        int32_t at = f->n_prompt + i, row = infer__results_row(f->s, at - f->shift);
        if (f->ids[at] != f->mask) continue;
        INFER__ASSERT(row >= 0);
        memcpy(f->work, f->s->logits + (int64_t)row * vocab, (size_t)vocab * sizeof *f->work);
        f->work[f->mask] = INFER__FILL_NEVER;
        r = f->sampler ? infer__sampler_choose(f->sampler, f->work, vocab, &f->chosen[i], e)
                       : infer__sample_greedy(f->work, vocab, &f->chosen[i], e);
        if (r != INFER_OK) return r;
        f->certain[i] = infer__fill_certain(f, f->work, vocab, f->chosen[i], i);
    }
    while (count-- > 0) {
        for (best = -1, i = from; i < to; i++)
            if (f->ids[f->n_prompt + i] == f->mask && (best < 0 || f->certain[i] > f->certain[best])) best = i;
        if (best >= 0) f->ids[f->n_prompt + best] = f->chosen[best];
    }
    return INFER_OK;
}

/* Steps are distributed evenly over blocks and masks; the first ones get one more. */
static infer_result infer__fill_loop(infer__filling *f, infer_error *e) {
    int32_t block = f->p->block > 0 ? INFER__MIN(f->p->block, f->n) : f->n, blocks = (f->n + block - 1) / block;
    int32_t steps = f->p->steps > 0 ? f->p->steps : f->n, start = f->s->n, b, t, open = f->n;
    infer_result r = INFER_OK;
    for (b = 0; b < blocks && r == INFER_OK; b++) {
        int32_t from = b * block, to = INFER__MIN(f->n, from + block), left = to - from;
        int32_t turns = INFER__MIN(INFER__MAX(steps / blocks + (b < steps % blocks), 1), left);
        for (t = 0; t < turns && r == INFER_OK; t++) {
            int32_t count = (left + turns - t - 1) / (turns - t);
            r = infer__fill_eval(f, e);
            if (r == INFER_OK) r = infer__fill_choose(f, from, to, count, e);
            if (f->s->n > start && infer__session_rewind(f->s, start) != INFER_OK && r == INFER_OK) {
                *e = f->s->error;
                r = e->code;
            }
            if (r != INFER_OK) break;
            left -= count;
            open -= count;
            if ((f->p->step && f->p->step(f->p->user, f->ids + f->n_prompt, f->n, open)) ||
                infer__session_cancelled(f->s))
                r = infer__error(e, INFER_CANCELLED, "cancelled with %d of %d tokens open", (int)open, (int)f->n);
        }
    }
    return r;
}

/* -1 = none. A file without a vocabulary may have the key all the same. */
static infer_token infer__fill_mask(const infer_model *m) {
    const infer__kv *kv = infer__gguf_peek(&m->gguf, "tokenizer.ggml.mask_token_id");
    infer_token mask = infer__token_special(m->tokenizer, INFER_SPECIAL_MASK);
    double id = mask >= 0 ? mask : kv && infer__kv_kind(kv->type) ? infer__kv_scalar(kv) : -1;
    return id >= 0 && id < m->hp.n_vocab ? (infer_token)id : -1;
}

static infer_result infer__fill(infer__filling *f, const infer_token *prompt, infer_token *out, infer_error *e) {
    const infer_model *m = f->s->context->model;
    const infer__kv *shift = infer__gguf_peek(&m->gguf, "diffusion.shift_logits");
    uint64_t n = (uint64_t)f->n_prompt + (uint64_t)f->n;
    infer__mem *mem = &f->s->context->model->mem;
    infer_result r;
    int32_t i;
    if (!infer__not_causal(&m->hp))
        return infer__error(e, INFER_ERR_UNSUPPORTED, "architecture \"%s\" does not fill in masked tokens",
                            infer__arch_of(m)->name);
    f->mask = infer__fill_mask(m);
    if (f->mask < 0)
        return infer__error(e, INFER_ERR_UNSUPPORTED,
                            "the vocabulary has no mask token (tokenizer.ggml.mask_token_id)");
    f->shift = !shift || infer__kv_scalar(shift) != 0; /* as llama.cpp: LLaDA's files say false */
    if (f->shift && f->n_prompt == 0)
        return infer__error(e, INFER_ERR_ARGUMENT, "the model needs a token before those that are filled in");
    if (n > (uint64_t)(f->s->cap - f->s->n))
        return infer__error(e, INFER_CONTEXT_FULL, "%d and %d tokens at position %d do not fit a context of %d",
                            (int)f->n_prompt, (int)f->n, (int)f->s->n, (int)f->s->cap);
    f->ids = (infer_token *)infer__calloc(mem, n, sizeof *f->ids);
    f->chosen = (infer_token *)infer__calloc(mem, (uint64_t)f->n, sizeof *f->chosen);
    f->certain = (float *)infer__calloc(mem, (uint64_t)f->n, sizeof *f->certain);
    f->work = (float *)infer__calloc(mem, (uint64_t)m->hp.n_vocab, sizeof *f->work);
    r = f->ids && f->chosen && f->certain && f->work
            ? INFER_OK
            : infer__error(e, INFER_ERR_MEMORY, "no memory to fill in %d tokens", (int)f->n);
    if (r == INFER_OK) {
        if (f->n_prompt) memcpy(f->ids, prompt, (size_t)f->n_prompt * sizeof *prompt);
        for (i = 0; i < f->n; i++) f->ids[f->n_prompt + i] = f->mask;
        r = infer__fill_loop(f, e);
        if (r == INFER_OK || r == INFER_CANCELLED) memcpy(out, f->ids + f->n_prompt, (size_t)f->n * sizeof *out);
    }
    infer__free(mem, f->ids);
    infer__free(mem, f->chosen);
    infer__free(mem, f->certain);
    infer__free(mem, f->work);
    return r;
}

INFER_API infer_result infer_session_fill(infer_session *session, infer_sampler *sampler, const infer_token *prompt,
                                          int32_t n_prompt, const infer_fill_params *params, infer_token *out) {
    infer__filling f;
    infer_error e;
    infer_result r;
    if (!session) return INFER_ERR_ARGUMENT;
    if (!infer__session_claim(session)) return INFER_ERR_STATE;
    infer__error_clear(&e);
    if (!INFER__HAS_FILL) {
        r = infer__left_out(&session->error, "filling in", "INFER_NO_FILL");
        infer__session_leave(session);
        return r;
    }
    memset(&f, 0, sizeof f);
    f.s = session;
    f.sampler = sampler;
    f.p = params;
    f.n_prompt = n_prompt;
    f.n = params ? params->n : 0;
    f.random = params ? params->seed : 0;
    if (n_prompt < 0 || (n_prompt > 0 && !prompt) || !params || !out || f.n < 1 || params->steps < 0 ||
        params->block < 0 || params->order < 0 || params->order > INFER_FILL_LEFT)
        r = infer__error(&e, INFER_ERR_ARGUMENT, "infer_session_fill: %s",
                         !params ? "params is NULL" : !out ? "out is NULL" : f.n < 1 ? "n is less than 1"
                         : n_prompt < 0 || (n_prompt > 0 && !prompt) ? "there is no prompt of n_prompt tokens"
                         : params->order < 0 || params->order > INFER_FILL_LEFT ? "there is no such order"
                                                                               : "steps or block is negative");
    else if ((r = infer__reserved_check(params->reserved, "fill_params", &e)) == INFER_OK &&
             (r = infer__sampler_claim(sampler, &e)) == INFER_OK) {
        r = infer__fill(&f, prompt, out, &e);
        infer__sampler_leave(sampler);
    }
    session->error = e;
    infer__session_leave(session);
    return r;
}
