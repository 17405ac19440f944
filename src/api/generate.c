/* generate.c: samplers as public objects, sampling from a session, and the steps of a generation.
 *
 * Owns:  infer_sampler_* (argument checks; the work is in sampler.c), infer_session_sample, infer__generation. Its
 *        steps are run by generation.c, and by queue.c, which does the evals itself.
 * Rules: generation claims its session and its sampler from begin to end and then calls the functions behind the public
 *        ones, so the same guarantees hold. Functions that evaluate may return INFER_MORE when the session's slice
 *        (session.until) is over; they are called again and continue without repeating anything. A token is evaluated
 *        before it is shown, so whatever ends a generation (a limit, a callback, cancelling, an error), the session
 *        holds exactly the reported tokens, and text can be continued from there. That costs one token of delay.
 *        The end-of-generation token is neither evaluated nor shown. With drafts (draft.c) more is evaluated, but it
 *        stays invisible until it has been chosen. Text is held back in `text` while it may become a stop string or
 *        while its last character is incomplete.
 * Start: infer__generate_step, infer__generate_choose.
 */
#include "../model/model.h"

/* ---- samplers ------------------------------------------------------------------------------------------ */

INFER_API infer_result infer_sampler_create(infer_sampler **out, infer_model *model, const infer_stage *stages,
                                            int32_t n_stages, uint64_t seed, infer_error *err) {
    infer_result r;
    if (!out) return infer__error(err, INFER_ERR_ARGUMENT, "out is NULL");
    infer__error_clear(err);
    infer__model_hold(model);
    r = infer__sampler_open(out, model ? &model->mem : NULL, model ? &model->gguf : NULL,
                            model ? model->tokenizer : NULL, stages, n_stages, seed, err);
    if (r != INFER_OK) return infer__model_let(model, r);
    (*out)->model = model;
    infer__atomic_set(&(*out)->refs, INFER__OWNED);
    infer__grammar_take(infer__matcher_grammar((*out)->matcher));
    return INFER_OK;
}

/* Nobody has a reference of the sampler. */
static void infer__sampler_gone(infer_sampler *sampler) {
    infer_model *model = sampler->model;
    infer_grammar *grammar = infer__matcher_grammar(sampler->matcher);
    infer__sampler_close(sampler);
    infer__grammar_let(grammar);
    infer__model_let(model, INFER_OK);
}

static void infer__sampler_let(infer_sampler *sampler) {
    if (infer__refs_drop(&sampler->refs)) infer__sampler_gone(sampler);
}

INFER_API infer_result infer_sampler_usual(const infer_model *model, infer_stage *out, int32_t cap, int32_t *n,
                                           infer_error *err) {
    if (!n || cap < 0 || (!out && cap > 0))
        return infer__error(err, INFER_ERR_ARGUMENT, "%s", !n ? "n is NULL" : cap < 0 ? "cap is negative"
                                                                                     : "out is NULL but cap is not 0");
    infer__error_clear(err);
    return infer__sampler_usual(model ? &model->gguf : NULL, out, cap, n, err);
}

INFER_API infer_result infer_sampler_stage(const infer_model *model, int32_t kind, infer_stage *out, infer_error *err) {
    if (!out) return infer__error(err, INFER_ERR_ARGUMENT, "out is NULL");
    if (!infer__stage_find(kind)) return infer__error(err, INFER_ERR_ARGUMENT, "there is no stage kind %d", (int)kind);
    infer__error_clear(err);
    return infer__usual_stage(model ? &model->gguf : NULL, kind, out, err);
}

INFER_API int32_t infer_stage_named(const char *name) {
    return name ? infer__stage_named(name, strlen(name)) : 0;
}

static infer_result infer__sampler_claim(infer_sampler *sampler, infer_error *err) {
    if (!sampler) return INFER_OK;
    infer__refs_take(&sampler->refs);
    if (infer__claim(&sampler->calls)) return INFER_OK;
    infer__sampler_let(sampler);
    return infer__error(err, INFER_ERR_STATE,
                        "another call uses the sampler: this one comes from a callback of it, or is another thread's");
}

static void infer__sampler_leave(infer_sampler *sampler) {
    if (!sampler) return;
    infer__unclaim(&sampler->calls);
    infer__sampler_let(sampler);
}

/* Claim the sampler's grammar, which other samplers may share, for one step. */
static infer_result infer__sampler_claim_grammar(infer_sampler *sampler, infer_error *err) {
    infer__atomic *calls = sampler ? infer__matcher_calls(sampler->matcher) : NULL;
    if (!calls || infer__claim(calls)) return INFER_OK;
    return infer__error(err, INFER_ERR_STATE, "another call uses the sampler's grammar");
}

static void infer__sampler_leave_grammar(infer_sampler *sampler) {
    infer__atomic *calls = sampler ? infer__matcher_calls(sampler->matcher) : NULL;
    if (calls) infer__unclaim(calls);
}

INFER_API infer_result infer_sampler_destroy(infer_sampler *sampler) {
    int last;
    if (!sampler) return INFER_OK;
    last = infer__refs_close(&sampler->refs);
    if (last > 0) infer__sampler_gone(sampler);
    return last < 0 ? INFER_ERR_STATE : INFER_OK;
}

INFER_API infer_result infer_sampler_reset(infer_sampler *sampler) {
    if (!sampler) return INFER_OK;
    if (infer__sampler_claim(sampler, NULL) != INFER_OK) return INFER_ERR_STATE;
    infer__sampler_restart(sampler);
    infer__sampler_leave(sampler);
    return INFER_OK;
}

/* The sampler is claimed. */
static infer_result infer__sampler_accept(infer_sampler *sampler, infer_token token, infer_error *err) {
    infer_result r = infer__sampler_claim_grammar(sampler, err);
    if (r != INFER_OK) return r;
    r = infer__sampler_remember(sampler, token, err);
    infer__sampler_leave_grammar(sampler);
    return r;
}

INFER_API infer_result infer_sampler_accept(infer_sampler *sampler, infer_token token) {
    infer_result r;
    if (!sampler) return INFER_OK;
    if (infer__sampler_claim(sampler, NULL) != INFER_OK) return INFER_ERR_STATE;
    r = infer__sampler_accept(sampler, token, NULL);
    infer__sampler_leave(sampler);
    return r;
}

INFER_API infer_result infer_sampler_sample(infer_sampler *sampler, const float *logits, int32_t n, infer_token *token,
                                            infer_error *err) {
    infer_result r;
    if (!logits || !token) return infer__error(err, INFER_ERR_ARGUMENT, "%s is NULL", !logits ? "logits" : "token");
    if (n < 1) return infer__error(err, INFER_ERR_ARGUMENT, "n is %d", (int)n);
    infer__error_clear(err);
    if (!sampler) return infer__sample_greedy(logits, n, token, err);
    if ((r = infer__sampler_claim(sampler, err)) != INFER_OK) return r;
    if ((r = infer__sampler_claim_grammar(sampler, err)) == INFER_OK) {
        r = infer__sampler_choose(sampler, logits, n, token, err);
        infer__sampler_leave_grammar(sampler);
    }
    infer__sampler_leave(sampler);
    return r;
}

/* Sample from the largest logits of the last row while the logits are on the device. *done 0: they are not there, or
 * all of them are needed. */
static infer_result infer__sample_top(infer_session *s, infer_sampler *sampler, int32_t *done, infer_token *token) {
    int32_t n = s->context->model->hp.n_vocab, want = sampler ? infer__sampler_wants(sampler, n) : 1;
    infer_result r;
    *done = 0;
    if (want > INFER__TOP_MOST) want = 0;
    s->top_wanted = want;
    if (want == 0 || !s->kept_row) return INFER_OK;
    if ((r = infer__context_claim(s->context, "infer_session_sample", &s->error)) != INFER_OK) return r;
    r = infer__results_best(s, want, &s->error);
    infer__context_leave(s->context);
    if (r != INFER_OK) return r;
    *token = s->top[0].token;
    *done = 1;
    return sampler ? infer__sampler_choose_of(sampler, s->top, want, n, done, token, &s->error) : INFER_OK;
}

/* As infer_session_sample; the session and the sampler are claimed. */
static infer_result infer__session_sample(infer_session *session, infer_sampler *sampler, int32_t row,
                                          infer_token *token) {
    const float *logits;
    infer_model *model = session->context->model;
    infer_result r;
    int32_t at, done;
    if (!token) return infer__error(&session->error, INFER_ERR_ARGUMENT, "token is NULL");
    if (sampler && sampler->model && sampler->model != model)
        return infer__error(&session->error, INFER_ERR_ARGUMENT, "the sampler belongs to another model");
    at = infer__results_row(session, row);
    if (at < 0)
        return infer__error(&session->error, INFER_ERR_STATE, "row %d of the last eval has no logits", (int)row);
    infer__error_clear(&session->error);
    if ((r = infer__sampler_claim_grammar(sampler, &session->error)) != INFER_OK) return r;
    r = infer__sample_top(session, sampler, &done, token);
    if (r == INFER_OK && !done && (r = infer__session_bring(session)) == INFER_OK) {
        logits = session->logits + (int64_t)at * model->hp.n_vocab;
        r = sampler ? infer__sampler_choose(sampler, logits, model->hp.n_vocab, token, &session->error)
                    : infer__sample_greedy(logits, model->hp.n_vocab, token, &session->error);
    }
    if (r == INFER_OK && sampler) r = infer__sampler_remember(sampler, *token, &session->error);
    infer__sampler_leave_grammar(sampler);
    return r;
}

INFER_API infer_result infer_session_sample(infer_session *session, infer_sampler *sampler, int32_t row,
                                            infer_token *token) {
    infer_result r;
    if (!session) return INFER_ERR_ARGUMENT;
    if (!infer__session_claim(session)) return INFER_ERR_STATE;
    if ((r = infer__sampler_claim(sampler, &session->error)) == INFER_OK) {
        r = infer__session_sample(session, sampler, row, token);
        infer__sampler_leave(sampler);
    }
    infer__session_leave(session);
    return r;
}

/* ---- one generation --------------------------------------------------------------------------------------- */

/* What infer__generate_step does next, in this order, and from the choice on again. */
enum {
    INFER__GENERATE_ENCODE, /* the prompt, where the model has an encoder */
    INFER__GENERATE_ROOM,   /* for the prompt */
    INFER__GENERATE_PROMPT,
    INFER__GENERATE_CHOOSE,
    INFER__GENERATE_EVAL,
    INFER__GENERATE_REPORT
};

typedef struct infer__generation {
    infer_session *s;
    infer_sampler *sampler;
    const infer_generate_params *p;
    infer_generate_info info;
    const infer_model *model;
    infer__mem *mem;
    char *text;         /* not shown yet */
    size_t n_text, cap_text;
    int32_t stage;      /* INFER__GENERATE_* */
    infer_token *ids;   /* the prompt, or what is evaluated for its logits */
    size_t n_ids;
    infer_token *moved; /* n_moved tokens that the session holds after sliding, while it slides; else NULL */
    int32_t n_moved;
    int32_t drafting;   /* a draft is being made */
    infer_top *top;     /* of the token that was chosen last */
    int32_t n_top;
    infer_token token;  /* that one */
    infer_token *next;  /* n_next tokens that it takes to evaluate it: itself and a draft; 0 = it is evaluated */
    int32_t n_next;
    infer__drafting draft;
    infer__guide guide;
    infer__steering *steering; /* NULL = none */
    infer_token *forced;       /* n_forced tokens that come next, whatever the model says; from `at_forced` on */
    size_t n_forced, at_forced;
    infer_token *ends;         /* n_ends tokens that end a text, stop_tokens among them, for min_tokens */
    int32_t n_ends;
    int32_t again;      /* 1 = ids[0] is the session's last token, which is evaluated for its logits */
    int32_t started;    /* the prompt is evaluated */
    int32_t last; /* the context is full: the next token is the last and is not evaluated */
    float logprob;
    double began; /* infer__seconds */
} infer__generation;

static infer_result infer__generate_check(const infer_model *model, const infer_sampler *sampler,
                                          const infer_generate_params *p, infer_error *err) {
    int32_t i;
    if (infer__reserved_check(p->reserved, "generate_params", err)) return INFER_ERR_ARGUMENT;
    if (infer__not_causal(&model->hp))
        return infer__error(err, INFER_ERR_UNSUPPORTED,
                            "architecture \"%s\" fills in masked tokens: it does not write one after the other",
                            infer__arch_of(model)->name);
    if (sampler && sampler->model && sampler->model != model)
        return infer__error(err, INFER_ERR_ARGUMENT, "the sampler belongs to another model");
    if (p->max_tokens < 0) return infer__error(err, INFER_ERR_ARGUMENT, "max_tokens is %d", (int)p->max_tokens);
    if (p->logprobs < 0) return infer__error(err, INFER_ERR_ARGUMENT, "logprobs is %d", (int)p->logprobs);
    if (p->min_tokens < 0) return infer__error(err, INFER_ERR_ARGUMENT, "min_tokens is %d", (int)p->min_tokens);
    if (p->seconds < 0 || p->seconds != p->seconds)
        return infer__error(err, INFER_ERR_ARGUMENT, "seconds is %g", p->seconds);
    if (infer__full_check(p, err) != INFER_OK) return INFER_ERR_ARGUMENT;
    if (p->text_flags & ~(INFER_TEXT_SPECIAL | INFER_TEXT_WRITE_SPECIAL))
        return infer__error(err, INFER_ERR_ARGUMENT, "text_flags: %d is not known",
                            (int)(p->text_flags & ~(INFER_TEXT_SPECIAL | INFER_TEXT_WRITE_SPECIAL)));
    if (p->n_stop < 0 || (p->n_stop > 0 && !p->stop))
        return infer__error(err, INFER_ERR_ARGUMENT, "n_stop is %d, stop is %s", (int)p->n_stop,
                            p->stop ? "given" : "NULL");
    for (i = 0; i < p->n_stop; i++)
        if (!p->stop[i] || !p->stop[i][0])
            return infer__error(err, INFER_ERR_ARGUMENT, "stop[%d] is %s", (int)i, p->stop[i] ? "empty" : "NULL");
    if (p->n_stop_tokens < 0 || p->n_stop_tokens > model->hp.n_vocab || (p->n_stop_tokens > 0 && !p->stop_tokens))
        return infer__error(err, INFER_ERR_ARGUMENT, "n_stop_tokens is %d (0..%d), stop_tokens is %s",
                            (int)p->n_stop_tokens, (int)model->hp.n_vocab, p->stop_tokens ? "given" : "NULL");
    for (i = 0; i < p->n_stop_tokens; i++)
        if (p->stop_tokens[i] < 0 || p->stop_tokens[i] >= model->hp.n_vocab)
            return infer__error(err, INFER_ERR_ARGUMENT, "stop_tokens[%d] is %d, outside 0..%d", (int)i,
                                (int)p->stop_tokens[i], (int)model->hp.n_vocab - 1);
    return INFER_OK;
}

/* With an encoder, the prompt is encoded, and the answer starts from the decoder's start token. */
static infer_result infer__generate_encode(infer__generation *g) {
    const infer_token end = infer__tokenizer_end(infer__tokenizer_vocab(g->model->tokenizer));
    infer_result r;
    if (!infer__n_enc(&g->model->hp)) return INFER_OK;
    if (g->n_ids > 0) { /* infer__prompt_ids left a place */
        if (end >= 0 && g->ids[g->n_ids - 1] != end) g->ids[g->n_ids++] = end;
        r = infer__session_encode(g->s, g->ids, (int32_t)INFER__MIN(g->n_ids, INT32_MAX));
        if (r != INFER_OK) return r;
        g->info.prompt_tokens = (int32_t)g->n_ids;
    }
    if (g->n_ids == 0 && infer_session_position(g->s) > 0) return INFER_OK;
    g->ids[0] = g->model->hp.decoder_start;
    g->n_ids = 1;
    return INFER_OK;
}

/* Which tokens stay when `room` more are needed: the first keep_first; of the rest, at least the oldest half is
 * dropped. INFER_CONTEXT_FULL: impossible. */
static infer_result infer__generate_move(infer__generation *g, int64_t room) {
    infer_session *s = g->s;
    const infer_token *old = infer_session_tokens(s);
    int32_t n = infer_session_position(s), cap = infer_session_capacity(s), keep = INFER__MIN(g->p->keep_first, n), i;
    int64_t drop = INFER__MAX((n - keep + 1) / 2, room - (cap - n));
    if (g->p->on_full == INFER_FULL_ASK) return infer__full_ask(s, g->p, room, &g->moved, &g->n_moved);
    if (g->p->on_full != INFER_FULL_SLIDE || drop < 1 || drop > n - keep) return INFER_CONTEXT_FULL;
    for (i = 0; i < n; i++) if (old[i] < 0) return INFER_CONTEXT_FULL; /* an embedding: it cannot be evaluated again */
    n -= (int32_t)drop;
    g->moved = (infer_token *)infer__realloc(g->mem, NULL, (uint64_t)INFER__MAX(n, 1), sizeof *g->moved);
    if (!g->moved) return infer__error(&s->error, INFER_ERR_MEMORY, "no memory for %d tokens", (int)n);
    for (i = 0; i < n; i++) g->moved[i] = old[i < keep ? i : i + (int32_t)drop];
    g->n_moved = n;
    return INFER_OK;
}

/* Make room for `room` tokens, and evaluate the remaining ones again at their new positions. */
static infer_result infer__generate_slide(infer__generation *g, int64_t room) {
    infer_result r = g->moved ? INFER_OK : infer__generate_move(g, room);
    if (r != INFER_OK) return r;
    r = g->n_moved ? infer__session_sync(g->s, g->moved, g->n_moved, NULL) : infer__session_rewind(g->s, 0);
    if (r == INFER_MORE) return r;
    infer__free(g->mem, g->moved);
    g->moved = NULL;
    return r;
}

/* The prompt as tokens. */
static infer_result infer__generate_prompt(infer__generation *g, const char *prompt) {
    return infer__prompt_ids(g->model, g->mem, prompt, g->p, infer_session_position(g->s) == 0, &g->ids, &g->n_ids,
                             &g->s->error);
}

/* Room for the prompt. Without one, the last token is evaluated again, unless its logits are there. */
static infer_result infer__generate_room(infer__generation *g) {
    infer_session *s = g->s;
    const int32_t n = infer_session_position(s);
    infer_token last;
    if (g->n_ids > INT32_MAX) return INFER_CONTEXT_FULL;
    if (g->moved || (int64_t)g->n_ids > infer_session_capacity(s) - n)
        return infer__generate_slide(g, (int64_t)g->n_ids);
    if (g->n_ids > 0) return INFER_OK;
    if (n == 0)
        return infer__error(&s->error, INFER_ERR_ARGUMENT,
                            "nothing to continue from: the prompt is empty, the session is at "
                            "position 0, and the vocabulary asks for no BOS");
    if (infer__results_row(s, -1) >= 0) return INFER_OK;
    last = infer_session_tokens(s)[n - 1];
    if (last < 0)
        return infer__error(&s->error, INFER_ERR_STATE,
                            "the last position was given as an embedding and has no logits");
    g->ids[0] = last; /* infer__prompt_ids left a place */
    g->again = 1;
    return infer__session_rewind(s, n - 1);
}

static infer_result infer__generate_begins(infer__generation *g) {
    const int32_t n = (int32_t)g->n_ids + g->again;
    const infer_result r = n > 0 ? infer__session_eval(g->s, g->ids, n) : INFER_OK;
    if (r != INFER_OK) return r;
    if (g->n_ids > 0 && !infer__n_enc(&g->model->hp)) g->info.prompt_tokens = (int32_t)g->n_ids;
    g->started = 1;
    return INFER_OK;
}

/* ---- text ------------------------------------------------------------------------------------------------------ */

/* Append the bytes of a token to the waiting text. Control tokens have no text of their own. */
static infer_result infer__generate_append(infer__generation *g, infer_token token) {
    const infer__tokenizer *t = g->model->tokenizer;
    size_t len = 0;
    infer_result r;
    if (infer__tokenizer_size(t) == 0) return INFER_OK; /* a file without a vocabulary: tokens only */
    if ((infer__token_flags(t, token) & (INFER_TOKEN_CONTROL | INFER_TOKEN_END)) &&
        !(g->p->text_flags & INFER_TEXT_WRITE_SPECIAL))
        return INFER_OK;
    r = infer__token_text(t, token, g->text ? g->text + g->n_text : NULL, g->cap_text - g->n_text, &len);
    if (r != INFER_OK) return infer__error(&g->s->error, r, "token %d has no text", (int)token);
    if (len > g->cap_text - g->n_text) {
        size_t cap = (g->n_text + len) * 2 + 64;
        void *p = infer__realloc(g->mem, g->text, cap, 1);
        if (!p)
            return infer__error(&g->s->error, INFER_ERR_MEMORY, "no memory for %llu bytes of text",
                                (unsigned long long)cap);
        g->text = (char *)p;
        g->cap_text = cap;
        r = infer__token_text(t, token, g->text + g->n_text, cap - g->n_text, &len);
        if (r != INFER_OK) return infer__error(&g->s->error, r, "token %d has no text", (int)token);
    }
    g->n_text += len;
    return INFER_OK;
}

/* The first stop string in the waiting text: its index (the lowest of those that begin at the same byte), or -1. */
static int32_t infer__generate_find_stop(const infer__generation *g, size_t *at) {
    size_t i;
    int32_t k;
    for (i = 0; i < g->n_text; i++) {
        for (k = 0; k < g->p->n_stop; k++) {
            size_t n = strlen(g->p->stop[k]);
            if (n > g->n_text - i || memcmp(g->text + i, g->p->stop[k], n) != 0) continue;
            *at = i;
            return k;
        }
    }
    return -1;
}

/* Bytes at the end of the waiting text that may be the beginning of a stop string. */
static size_t infer__generate_held(const infer__generation *g) {
    size_t i, held;
    int32_t k;
    for (i = 0; i < g->n_text; i++) {
        held = g->n_text - i;
        for (k = 0; k < g->p->n_stop; k++)
            if (held < strlen(g->p->stop[k]) && memcmp(g->text + i, g->p->stop[k], held) == 0) return held;
    }
    return 0;
}

/* Show whole characters of the first n waiting bytes. */
static void infer__generate_show(infer__generation *g, size_t n) {
    n = n ? infer_utf8_whole(g->text, n) : 0;
    if (n == 0 || g->info.stop_reason == INFER_STOP_CALLBACK) return;
    g->info.bytes += n;
    if (g->p->text && g->p->text(g->p->user, g->text, n) != 0 && g->info.stop_reason == 0)
        g->info.stop_reason = INFER_STOP_CALLBACK;
    g->n_text -= n;
    memmove(g->text, g->text + n, g->n_text);
}

/* Handle a new token's text: find stop strings, show what cannot become one. */
static infer_result infer__generate_text(infer__generation *g, infer_token token) {
    size_t at = 0;
    int32_t stop;
    infer_result r = infer__generate_append(g, token);
    if (r != INFER_OK) return r;
    stop = infer__generate_find_stop(g, &at);
    if (stop < 0) {
        infer__generate_show(g, g->n_text - infer__generate_held(g));
        return INFER_OK;
    }
    infer__generate_show(g, at);
    g->n_text = 0; /* an unfinished character before the stop string and what follows it */
    if (g->info.stop_reason == 0) {
        g->info.stop_reason = INFER_STOP_STRING;
        g->info.stop_string = stop;
    }
    return INFER_OK;
}

/* ---- the loop ---------------------------------------------------------------------------------------------------- */

/* The most likely tokens of the step that chose `token`, if they were asked for: before its evaluation drops the
 * logits. */
static infer_result infer__generate_top(infer__generation *g, infer_token token) {
    infer_result r;
    if (g->n_top == 0) return INFER_OK;
    r = infer_session_top(g->s, -1, g->n_top, g->top);
    if (r == INFER_OK) g->logprob = infer_session_logits(g->s, -1)[token] - (g->top[0].logit - g->top[0].logprob);
    return r;
}

/* A draft was evaluated with the chosen token. */
static void infer__generate_drafted(infer__generation *g) {
    if (g->n_next < 2) return;
    g->s->ahead = g->n_next - 1;
    g->info.drafted += g->n_next - 1;
}

/* What was chosen, with a draft of what may follow it; nothing when it is evaluated already. */
static infer_result infer__generate_eval(infer__generation *g) {
    infer_session *s = g->s;
    infer_result r;
    if (!g->n_next) return INFER_OK;
    if (!g->moved) {
        s->drafts = g->n_next - 1;
        r = INFER__HAS_GUIDES && g->guide.by
                ? infer__guide_eval(&g->guide, s, g->next)
                : infer__session_eval_as(s, g->next, g->n_next, g->n_next > 1 ? INFER_OUT_ALL : INFER_OUT_LAST);
        if (r == INFER_MORE) return r;
        s->drafts = 0;
        if (r == INFER_OK) infer__generate_drafted(g);
        if (r != INFER_CONTEXT_FULL) return r;
        if (g->n_next > 1) { /* no room for all of it */
            g->draft.made = 0;
            g->n_next = 1;
            return infer__generate_eval(g);
        }
    }
    r = infer__generate_slide(g, 1); /* there is room, so a shared context had no page left */
    return r == INFER_OK ? infer__session_eval(s, g->next, 1) : r;
}

/* Take a chosen token: either it was drafted already, or it has to be evaluated (n_next). */
static infer_result infer__generate_take(infer__generation *g) {
    const int32_t room = g->p->max_tokens > 0 ? g->p->max_tokens - g->info.new_tokens - 1 : INT32_MAX;
    infer_session *s = g->s;
    infer_result r;
    if (s->ahead > 0 && !g->drafting) {
        if (s->tokens[s->n - s->ahead] == g->token) {
            s->stats.new_tokens++;
            g->info.accepted++;
            if (--s->ahead == 0) infer__draft_judge(&g->draft, g->draft.made);
            return INFER_OK;
        }
        infer__draft_judge(&g->draft, g->draft.made - s->ahead);
        if ((r = infer__session_take_back(s)) != INFER_OK) return r;
    }
    r = infer__draft_make(&g->draft, s, g->token, room, &g->next);
    g->drafting = r == INFER_MORE;
    if (g->drafting) return r;
    g->n_next = 1 + g->draft.made;
    if (g->n_next == 1) g->next = &g->token;
    return INFER_OK;
}

/* End reasoning that has used up its tokens, by forcing the tokens of its end mark. */
static infer_result infer__generate_steer(infer__generation *g) {
    infer__steering *s = g->steering;
    const char *end = s && s->left > 0 ? s->ends(s->user) : NULL;
    size_t n;
    infer_result r;
    if (!end || --s->left > 0) return INFER_OK;
    n = strlen(end) + 1;
    g->forced = (infer_token *)infer__realloc(g->mem, NULL, n, sizeof *g->forced);
    if (!g->forced) return infer__error(&g->s->error, INFER_ERR_MEMORY, "no memory for the end of the reasoning");
    r = infer__tokenize(g->model->tokenizer, g->mem, end, n - 1, INFER_TEXT_PARSE_SPECIAL | INFER__TEXT_INSIDE,
                        g->forced, n, &g->n_forced, &g->s->error);
    g->n_forced = INFER__MIN(g->n_forced, n);
    return r;
}

/* Pick the next token: a forced one, or by sampling; no end token before min_tokens. */
static infer_result infer__generate_pick(infer__generation *g) {
    infer_session *s = g->s;
    infer_result r;
    int32_t i;
    if (g->at_forced < g->n_forced) {
        g->token = g->forced[g->at_forced++];
        return g->sampler ? infer__sampler_accept(g->sampler, g->token, &s->error) : INFER_OK;
    }
    if ((r = infer__guide_mix(&g->guide, s)) != INFER_OK) return r;
    if (g->n_ends > 0 && g->info.new_tokens < g->p->min_tokens) {
        float *logits;
        if ((r = infer__session_bring(s)) != INFER_OK) return r;
        logits = s->logits + (int64_t)infer__results_row(s, -1) * g->model->hp.n_vocab;
        for (i = 0; i < g->n_ends; i++) logits[g->ends[i]] = -FLT_MAX;
    }
    return infer__session_sample(s, g->sampler, -1, &g->token);
}

/* Report a token that was evaluated. */
static infer_result infer__generate_report(infer__generation *g) {
    infer_result r = INFER_OK;
    g->info.new_tokens++;
    if (g->p->token && g->p->token(g->p->user, g->token, g->logprob, g->n_top ? g->top : NULL, g->n_top) != 0)
        g->info.stop_reason = INFER_STOP_CALLBACK;
    else r = infer__generate_text(g, g->token);
    if (r == INFER_OK) r = infer__generate_steer(g);
    if (r == INFER_OK && g->info.stop_reason == 0 && g->sampler && infer__sampler_ended(g->sampler))
        g->info.stop_reason = INFER_STOP_GRAMMAR;
    if (g->last && g->info.stop_reason == 0) g->info.stop_reason = INFER_STOP_FULL;
    return r;
}

/* 1 when the next token must not be generated: the reason is set. */
static int infer__generate_limited(infer__generation *g, infer_result *r) {
    if (infer__session_cancelled(g->s)) *r = INFER_CANCELLED;
    else if (g->p->max_tokens > 0 && g->info.new_tokens >= g->p->max_tokens) g->info.stop_reason = INFER_STOP_LIMIT;
    else if (g->p->seconds > 0 && infer__seconds() - g->began >= g->p->seconds) g->info.stop_reason = INFER_STOP_TIME;
    return *r != INFER_OK || g->info.stop_reason;
}

/* The same, with room for the token: the session may have to slide. */
static int infer__generate_limit(infer__generation *g, infer_result *r) {
    infer_session *s = g->s;
    if (!g->moved) {
        if (infer__generate_limited(g, r)) return 1;
        if (infer_session_position(s) < infer_session_capacity(s)) return 0;
    }
    *r = infer_session_capacity(s) < 2 ? INFER_CONTEXT_FULL : infer__generate_slide(g, 1);
    if (*r == INFER_MORE) return 1;
    if (*r == INFER_CONTEXT_FULL && infer__results_row(s, -1) >= 0 && g->info.prompt_tokens + g->info.new_tokens > 0) {
        *r = INFER_OK; /* the last eval gives one more token, which is not evaluated and needs no position */
        g->last = 1;
    }
    if (*r == INFER_OK && infer__results_row(s, -1) < 0) *r = INFER_CONTEXT_FULL;
    return *r != INFER_OK;
}

/* 1 when the token ends the text: it is neither evaluated nor reported. */
static int infer__generate_stops(const infer__generation *g, infer_token token) {
    int32_t i;
    for (i = 0; i < g->p->n_stop_tokens; i++)
        if (g->p->stop_tokens[i] == token) return 1;
    return !g->p->ignore_end && (infer__token_flags(g->model->tokenizer, token) & INFER_TOKEN_END);
}

/* The next token: when n_next is not 0, as many tokens at `next` have to be evaluated before it is reported. Without a
 * token: a failure, or stop_reason. */
static infer_result infer__generate_choose(infer__generation *g) {
    infer_result r = INFER_OK;
    if (g->drafting) return infer__generate_take(g);
    g->n_next = 0;
    if (infer__generate_limit(g, &r)) return r;
    if ((r = infer__generate_pick(g)) != INFER_OK) return r;
    if (g->at_forced == g->n_forced && infer__generate_stops(g, g->token)) {
        g->info.stop_reason = INFER_STOP_TOKEN;
        g->info.stop_token = g->token;
        return INFER_OK;
    }
    if ((r = infer__generate_top(g, g->token)) != INFER_OK || g->last) return r;
    return infer__generate_take(g);
}

/* All checks that can fail before the first token; nothing to free after a failure. Sampler and session are claimed. */
static infer_result infer__generate_begin(infer__generation *g, infer_session *s, infer_sampler *sampler,
                                          const infer_generate_params *p) {
    infer_result r;
    int32_t i;
    memset(g, 0, sizeof *g);
    g->info.stop_token = g->info.stop_string = -1;
    g->s = s;
    g->sampler = sampler;
    g->p = p;
    g->model = s->context->model;
    g->mem = &s->context->model->mem;
    g->began = infer__seconds();
    infer__error_clear(&s->error);
    if ((r = infer__generate_check(g->model, sampler, p, &s->error)) != INFER_OK) return r;
    if ((r = infer__draft_check(s, p, &s->error)) != INFER_OK) return r;
    if ((r = infer__guide_check(s, p, &s->error)) != INFER_OK) return r;
    if (p->token && p->logprobs > 0) {
        g->n_top = INFER__MIN(p->logprobs, g->model->hp.n_vocab);
        g->top = (infer_top *)infer__calloc(g->mem, (uint64_t)g->n_top, sizeof *g->top);
        if (!g->top) return infer__error(&s->error, INFER_ERR_MEMORY, "no memory for %d logprobs", (int)g->n_top);
    }
    for (i = 0; p->min_tokens > 0 && i < g->model->hp.n_vocab; i++)
        g->n_ends += (infer__token_flags(g->model->tokenizer, i) & INFER_TOKEN_END) != 0;
    if (p->min_tokens > 0) g->n_ends += p->n_stop_tokens;
    if (g->n_ends > 0) {
        g->ends = (infer_token *)infer__calloc(g->mem, (uint64_t)g->n_ends, sizeof *g->ends);
        if (!g->ends) {
            infer__free(g->mem, g->top);
            return infer__error(&s->error, INFER_ERR_MEMORY, "no memory for %d tokens", (int)g->n_ends);
        }
        for (i = g->n_ends = 0; i < g->model->hp.n_vocab; i++)
            if (infer__token_flags(g->model->tokenizer, i) & INFER_TOKEN_END) g->ends[g->n_ends++] = i;
        for (i = 0; i < p->n_stop_tokens; i++) g->ends[g->n_ends++] = p->stop_tokens[i];
    }
    if (p->draft && !infer__session_claim(p->draft)) {
        infer__free(g->mem, g->ends);
        infer__free(g->mem, g->top);
        return infer__error(&s->error, INFER_ERR_STATE, "another call uses the session that drafts");
    }
    if ((r = infer__draft_begin(&g->draft, s, p, &s->error)) == INFER_OK) /* guidance has no drafts */
        r = infer__guide_begin(&g->guide, s, p, &s->error);
    if (r == INFER_OK && p->n_media > 0) infer__session_offer(s, p->media, p->n_media); /* until infer__generate_end */
    if (r == INFER_OK) return r;
    infer__draft_end(&g->draft, g->mem);
    if (p->draft) infer__session_leave(p->draft);
    infer__free(g->mem, g->ends);
    infer__free(g->mem, g->top);
    return r;
}

/* However it ended: show pending text and roll back drafts. s is NULL when a queue has given the session to others. */
static infer_result infer__generate_end(infer__generation *g, infer_result r) {
    infer_session *s = g->s;
    if (s) infer__session_stop(s);
    if (s && s->source) infer__session_stop(s->source);
    if (g->draft.by) infer__session_stop(g->draft.by);
    if (r == INFER_CANCELLED) g->info.stop_reason = INFER_STOP_CANCELLED;
    if (r == INFER_CONTEXT_FULL) g->info.stop_reason = INFER_STOP_FULL;
    if (r == INFER_CONTEXT_FULL && g->started) { /* a limit like others */
        if (s) infer__error_clear(&s->error);
        r = INFER_OK;
    }
    if (g->started && g->info.stop_reason != INFER_STOP_STRING)
        infer__generate_show(g, g->n_text); /* it was no stop string */
    if (s && s->ahead > 0) { /* drafted, and not chosen any more */
        const infer_error e = s->error;
        const infer_result back = infer__session_take_back(s);
        if (r || back == INFER_OK) s->error = e;
        else r = back;
    }
    infer__guide_end(&g->guide, s, g->mem);
    if (s && g->p->n_media > 0) infer__session_offer(s, NULL, 0);
    if (g->p->draft) infer__session_leave(g->p->draft);
    infer__draft_end(&g->draft, g->mem);
    infer__free(g->mem, g->forced);
    infer__free(g->mem, g->ends);
    infer__free(g->mem, g->text);
    infer__free(g->mem, g->ids);
    infer__free(g->mem, g->moved);
    infer__free(g->mem, g->top);
    return r;
}

/* Run one stage. Generation has ended when the result is not INFER_OK (INFER_MORE: only the slice has) or a stop_reason
 * is set. */
static infer_result infer__generate_step(infer__generation *g) {
    infer_result r;
    switch (g->stage) {
    case INFER__GENERATE_ENCODE: r = infer__generate_encode(g); break;
    case INFER__GENERATE_ROOM: r = infer__generate_room(g); break;
    case INFER__GENERATE_PROMPT: r = infer__generate_begins(g); break;
    case INFER__GENERATE_CHOOSE: r = infer__generate_choose(g); break;
    case INFER__GENERATE_EVAL: r = infer__generate_eval(g); break;
    default: r = infer__generate_report(g);
    }
    if (r == INFER_OK) g->stage = g->stage == INFER__GENERATE_REPORT ? INFER__GENERATE_CHOOSE : g->stage + 1;
    return r;
}
