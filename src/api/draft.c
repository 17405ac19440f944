/* draft.c: speculative decoding: guesses of the next tokens are evaluated together with the chosen one.
 *
 * How:   a draft follows a chosen token: what came after the same tokens earlier in the session (lookup), what the
 *        model's own multi-token prediction blocks predict (further.c), or what a smaller model would write. One pass
 *        evaluates all of it. Each token is then chosen from its own row of logits, as without drafts: while the choice
 *        equals the draft, the token is already evaluated; at the first mismatch the rest of the draft is rolled back.
 *        On the CPU results do not depend on how tokens are batched, so neither the text nor a sampler's random numbers
 *        change (arXiv 2211.17192 is about drafts, and changes the sampling).
 * Rules: session.ahead counts evaluated tokens that have not been chosen yet; readers of the session do not see them.
 *        Failing to make a draft is not an error: the next token is evaluated by itself.
 * Start: infer__draft_make, infer__draft_judge.
 */
#include "../model/model.h"

enum {
    INFER__DRAFT_TOKENS = 8,  /* at most, where the caller does not say */
    INFER__DRAFT_MOST = 64,
    INFER__LOOKUP_LEAST = 2,  /* tokens that must match before a draft is made, */
    INFER__LOOKUP_ENOUGH = 6, /* longer matches make no difference */
    INFER__DRAFT_PAUSE = 4    /* tokens to wait after a draft of which nothing was chosen */
};

enum { INFER__DRAFT_BY_NONE, INFER__DRAFT_BY_BLOCK, INFER__DRAFT_BY_MODEL };

typedef struct infer__drafting {
    infer_session *by; /* of the model that drafts; NULL = none does */
    int32_t mtp;       /* 1 = the model's own blocks draft */
    int32_t lookup;    /* 1 = drafts from the session's own tokens, too */
    int32_t most, now; /* tokens of a draft: at most, of the next one; 0 = there are no drafts */
    int32_t made, pause;
    int32_t going, room; /* INFER__DRAFT_BY_*: `made` of at most `room` tokens are made, and the next call goes on */
    infer_token *ids;  /* cap of the session + 1: its tokens and the one that was chosen */
} infer__drafting;

/* generate.c: as infer_session_sample; the session and the sampler are claimed. */
static infer_result infer__session_sample(infer_session *session, infer_sampler *sampler, int32_t row,
                                          infer_token *token);

/* ---- two vocabularies -------------------------------------------------------------------------------------------- */

static infer_result infer__draft_vocabularies(const infer_model *m, const infer_model *by, infer_error *err) {
    const int32_t n = infer__tokenizer_size(m->tokenizer), k = infer__tokenizer_size(by->tokenizer);
    char a[256], b[256];
    int32_t i;
    if (n != k || (n == 0 && m->hp.n_vocab != by->hp.n_vocab))
        return infer__error(err, INFER_ERR_ARGUMENT, "draft: its vocabulary has %d tokens, the model's %d",
                            (int)(n ? k : by->hp.n_vocab), (int)(n ? n : m->hp.n_vocab));
    for (i = 0; i < n; i++) {
        size_t len_a = 0, len_b = 0;
        infer__token_text(m->tokenizer, i, a, sizeof a, &len_a);
        infer__token_text(by->tokenizer, i, b, sizeof b, &len_b);
        if (len_a != len_b || memcmp(a, b, INFER__MIN(len_a, sizeof a)) != 0)
            return infer__error(err, INFER_ERR_ARGUMENT,
                                "draft: token %d is another one: \"%.*s\", in the model \"%.*s\"", (int)i,
                                (int)INFER__MIN(len_b, 40), b, (int)INFER__MIN(len_a, 40), a);
    }
    return INFER_OK;
}

/* The params' drafts for session s; nothing is claimed yet. */
static infer_result infer__draft_check(infer_session *s, const infer_generate_params *p, infer_error *err) {
    if (!INFER__HAS_DRAFTS && (p->draft || p->lookup || p->mtp))
        return infer__left_out(&s->error, "drafts", "INFER_NO_DRAFTS");
    if (!INFER__HAS_DRAFTS) return INFER_OK;
    if (p->draft_tokens < 0 || p->draft_tokens > INFER__DRAFT_MOST)
        return infer__error(err, INFER_ERR_ARGUMENT, "draft_tokens is %d, outside 0..%d", (int)p->draft_tokens,
                            (int)INFER__DRAFT_MOST);
    if (p->mtp && !s->context->model->hp.n_predict)
        return infer__error(err, INFER_ERR_ARGUMENT,
                            "mtp: the model was not opened with the blocks that predict (infer_model_params.mtp)");
    if (!p->draft) return INFER_OK;
    if (p->draft == s) return infer__error(err, INFER_ERR_ARGUMENT, "draft is the session itself");
    if (infer__encoder(&p->draft->context->model->hp) || infer__n_enc(&p->draft->context->model->hp) ||
        infer__not_causal(&p->draft->context->model->hp))
        return infer__error(err, INFER_ERR_UNSUPPORTED, "draft: architecture \"%s\" does not continue texts",
                            infer__arch_of(p->draft->context->model)->name);
    return infer__draft_vocabularies(s->context->model, p->draft->context->model, err);
}

static infer_result infer__draft_begin(infer__drafting *d, const infer_session *s, const infer_generate_params *p,
                                       infer_error *err) {
    memset(d, 0, sizeof *d);
    if (!INFER__HAS_DRAFTS || (!p->draft && !p->lookup && !p->mtp)) return INFER_OK;
    d->ids = (infer_token *)infer__calloc(&s->context->model->mem, (uint64_t)s->cap + 1 + INFER__DRAFT_MOST,
                                          sizeof *d->ids);
    if (!d->ids) return infer__error(err, INFER_ERR_MEMORY, "no memory for drafts");
    d->by = p->draft;
    d->mtp = p->mtp;
    d->lookup = p->lookup;
    d->most = p->draft_tokens ? p->draft_tokens : INFER__DRAFT_TOKENS;
    d->now = INFER__MIN(d->most, 4);
    return INFER_OK;
}

static void infer__draft_end(infer__drafting *d, infer__mem *mem) { infer__free(mem, d->ids); }

/* ---- drafts ------------------------------------------------------------------------------------------------------ */

/* Find the longest earlier run of tokens equal to the end of the n ids (the latest of equally long ones); append what
 * followed it, at most `room` tokens. */
static int32_t infer__draft_lookup(infer_token *ids, int32_t n, int32_t room) {
    int32_t i, k, best = 0, at = 0;
    for (i = n - 2; i >= 0 && best < INFER__LOOKUP_ENOUGH; i--) {
        for (k = 0; k <= i && k < INFER__LOOKUP_ENOUGH && ids[i - k] == ids[n - 1 - k]; k++) {}
        if (k <= best) continue;
        best = k;
        at = i + 1;
    }
    if (best < INFER__LOOKUP_LEAST) return 0;
    for (k = 0; k < room; k++) ids[n + k] = ids[at + k]; /* source and destination may overlap: a period continues */
    return room;
}

/* What the other model would write, its most likely tokens, after n ids. INFER_MORE as of infer__session_eval. */
static infer_result infer__draft_model(infer__drafting *d, const infer_session *s, int32_t n) {
    const infer_model *m = d->by->context->model;
    const int32_t room = INFER__MIN(d->room, d->by->cap - n);
    infer_token token, *to = d->ids + n;
    infer_result r = INFER_OK;
    while (d->made < room && !r) {
        r = d->made ? infer__session_eval(d->by, to + d->made - 1, 1) : infer__session_sync(d->by, d->ids, n, NULL);
        if (r == INFER_MORE) return r;
        if (!r) r = infer__session_sample(d->by, NULL, -1, &token);
        if (r || token >= s->context->model->hp.n_vocab) break;
        to[d->made++] = token;
    }
    if (r)
        infer__log(&m->report, 2, "a draft of %d tokens ends early: %s", (int)room, d->by->error.message);
    return INFER_OK;
}

/* Draft from the session's own tokens, or choose who drafts. */
static void infer__draft_start(infer__drafting *d, const infer_session *s, infer_token token, int32_t room) {
    const int32_t n = s->n;
    int32_t i;
    d->made = 0;
    if (!d->most) return;
    d->ids[n] = token;
    d->room = INFER__MIN(room, INFER__MIN(d->now, s->cap - n - 1));
    if (d->room < 1 || (d->pause > 0 && d->pause--)) return;
    for (i = 0; i < n; i++)
        if (s->tokens[i] < 0) return; /* an embedding */
    memcpy(d->ids, s->tokens, (size_t)n * sizeof *d->ids);
    if (d->lookup) d->made = infer__draft_lookup(d->ids, n + 1, d->room);
    if (!d->made) d->going = d->mtp ? INFER__DRAFT_BY_BLOCK : d->by ? INFER__DRAFT_BY_MODEL : INFER__DRAFT_BY_NONE;
}

/* Make a draft of at most `room` tokens to follow the chosen one, which follows the session's. d->made: its length;
 * *ids: the chosen token and the draft. INFER_MORE: the session's slice has ended, and the next call continues. */
static infer_result infer__draft_make(infer__drafting *d, infer_session *s, infer_token token, int32_t room,
                                      infer_token **ids) {
    if (!INFER__HAS_DRAFTS) return INFER_OK;
    if (!d->going) infer__draft_start(d, s, token, room);
    if (d->most) *ids = d->ids + s->n;
    if (d->going == INFER__DRAFT_BY_BLOCK) {
        if (infer__further_draft(s, *ids, d->room, &d->made) == INFER_MORE) return INFER_MORE;
        d->going = !d->made && d->by ? INFER__DRAFT_BY_MODEL : INFER__DRAFT_BY_NONE;
    }
    if (d->going == INFER__DRAFT_BY_MODEL && infer__draft_model(d, s, s->n + 1) == INFER_MORE) return INFER_MORE;
    d->going = INFER__DRAFT_BY_NONE;
    return INFER_OK;
}

/* Learn from the last draft: `chosen` of its tokens were right. */
static void infer__draft_judge(infer__drafting *d, int32_t chosen) {
    if (!INFER__HAS_DRAFTS || !d->made) return;
    if (chosen == d->made) d->now = INFER__MIN(2 * d->now, d->most);
    else d->now = INFER__MAX(chosen + 1, d->made / 2); /* less than `now` where there are fewer blocks */
    d->now = INFER__MIN(INFER__MAX(d->now, 1), d->most);
    if (chosen == 0 && !d->by && !d->mtp) d->pause = INFER__DRAFT_PAUSE;
    d->made = 0;
}
