/* session.c: sessions: creation and end. */
#include "../model.h"

static void infer__session_free(infer_session *s) {
    infer_context *c = s->context;
    infer__mem *mem = &c->model->mem;
    int32_t g;
    if (s->source) infer__session_free(s->source);
    infer__results_drop(s);
    infer__adapters_end(s);
    infer__spans_cut(s, 0);
    infer__free(mem, s->spans);
    infer__cells_cut(c, s, 0);
    if (s->pages[0] && s->pages[1]) infer__cache_cut(c, s, 0);
    for (g = 0; g < INFER__CACHE_GROUPS; g++) infer__free(mem, s->pages[g]);
    infer__free(mem, s->tokens);
    infer__free(mem, s->logits);
    infer__free(mem, s->hidden);
    infer__free(mem, s->further);
    infer__free(mem, s->top);
    infer__free(mem, s);
    c->n_sessions--;
    infer__context_let(c);
}

/* Make room for n rows of results of `cols` floats. */
static int infer__rows_reserve(infer__mem *mem, float **p, uint64_t *cap, uint64_t n, int32_t cols) {
    float *q;
    uint64_t bytes;
    if (n <= *cap) return 1;
    if (!infer__mul_ok(n, (uint64_t)cols * sizeof(float), &bytes)) return 0;
    q = (float *)infer__realloc(mem, *p, n, (uint64_t)cols * sizeof(float));
    if (!q) return 0;
    *p = q;
    *cap = n;
    return 1;
}

static uint64_t infer__session_bytes(const infer__plan *p, const infer_model *m) {
    uint64_t n = infer__block_bytes(sizeof(infer_session)) + infer__block_bytes(sizeof(infer__top_logit));
    n += infer__block_bytes((uint64_t)p->cells * sizeof(infer_token));
    n += INFER__CACHE_GROUPS * infer__block_bytes((uint64_t)p->max_pages * sizeof(int32_t));
    n += infer__block_bytes(infer__further_bytes(&m->hp));
    n += infer__block_bytes(m->hp.encoder ? 0 : (uint64_t)m->hp.n_vocab * sizeof(float));
    return n;
}

static infer_result infer__session_make(infer_session **out, infer_context *c, const infer_session_params *p,
                                        infer_error *err) {
    const infer_model *m = c->model;
    infer__mem *mem = &c->model->mem;
    int32_t most = c->plan.cells, cap = p->context ? p->context : INFER__MIN(most, INFER__MIN(m->hp.n_ctx, 4096)), g, i;
    infer_session *s;
    if (m->first)
        return infer__error(err, INFER_ERR_STATE,
                            "the model has no layers before %d: infer_context_rows runs its own for sessions elsewhere",
                            (int)m->first);
    if (m->part)
        return infer__error(err, INFER_ERR_STATE,
                            "the model is part %d: infer_context_rows runs its share for sessions of part 0",
                            (int)m->part);
    if (p->context < 0 || cap > most)
        return infer__error(err, INFER_ERR_ARGUMENT, "session_params.context is %d, the context has %d cells",
                            (int)p->context, (int)most);
    if (m->w[INFER__W_POS_EMBD].type && cap > m->w[INFER__W_POS_EMBD].rows)
        return infer__error(err, INFER_ERR_ARGUMENT, "session_params.context is %d, the model has learned %d positions",
                            (int)cap, (int)m->w[INFER__W_POS_EMBD].rows);
    s = (infer_session *)infer__calloc(mem, 1, sizeof *s);
    if (!s) return infer__error(err, INFER_ERR_MEMORY, "no memory for a session");
    s->context = c;
    infer__refs_take(&c->refs);
    infer__atomic_set(&s->refs, INFER__OWNED);
    infer__adapters_begin(s, c->adapters);
    infer__cells_start(s);
    c->n_sessions++;
    s->cap = cap;
    s->progress = p->progress;
    s->progress_user = p->progress_user;
    s->trace = p->trace;
    s->trace_user = p->trace_user;
    s->stats.weight_bytes = m->token_bytes;
    s->top_wanted = 1;
    s->tokens = (infer_token *)infer__calloc(mem, (uint64_t)cap, sizeof *s->tokens);
    for (g = 0; g < INFER__CACHE_GROUPS; g++) {
        s->pages[g] = (int32_t *)infer__calloc(mem, (uint64_t)c->plan.max_pages, sizeof(int32_t));
        for (i = 0; s->pages[g] && i < c->plan.max_pages; i++) s->pages[g][i] = -1;
    }
    if (infer__further_bytes(&m->hp)) s->further = (float *)infer__calloc(mem, infer__further_bytes(&m->hp), 1);
    if (!s->tokens || (infer__further_bytes(&m->hp) && !s->further) || !s->pages[0] || !s->pages[1] ||
        !infer__results_reserve(s, s->top_wanted) ||
        !infer__rows_reserve(mem, &s->logits, &s->logits_cap, !m->hp.encoder, m->hp.n_vocab)) {
        infer__session_free(s);
        return infer__error(err, INFER_ERR_MEMORY, "no memory for a session of %d positions", (int)cap);
    }
    *out = s;
    return INFER_OK;
}

/* Warn in the log about settings that are allowed but rarely intended. */
static void infer__session_warn(const infer_session *s) {
    const infer_model *m = s->context->model;
    const infer__hparams *hp = &m->hp;
    int64_t trained = hp->n_ctx;
    if (hp->rope_scaling == INFER__SCALING_YARN || hp->rope_scaling == INFER__SCALING_LONGROPE) {
        double reach = (double)hp->rope_ctx * INFER__MAX(hp->rope_factor, 1.0f); /* a file's factor may be any number */
        trained = INFER__MAX(trained, (int64_t)INFER__MIN(reach, 1e18));
    }
    if (s->cap > trained)
        infer__log(&m->report, 2, "a session of %d positions: the model was trained for %lld, what follows is "
                                  "likely to be nonsense",
                   (int)s->cap, (long long)trained);
}
