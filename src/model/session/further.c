/* further.c: passes of the block that predicts further tokens (layers/nextn.c).
 *
 * How:   its keys and values lie in the pages of its session at the same positions as the layers', and are forked,
 *        rewound and saved with them. After a pass it runs over the pass' rows (infer__further_fill). A draft goes on
 *        from there, a row at a time, each reading the hidden state that the one before gave (infer__further_draft).
 *        It runs on the CPU, wherever the layers are.
 * Owns:  infer_session.further: the hidden states of the last rows of the last pass, for drafts and the next pass.
 */
#include "session.h"

static const infer__layer *infer__further_layer(const infer_model *m) { return &m->layers[m->hp.n_layer]; }

static float *infer__further_rows(const infer__tensor *t) {
    return (float *)(void *)((char *)t->buf->host + t->offset);
}

/* The block over the rows of a pass that is laid out, whose hidden states before them are kept. Gives its x. */
static infer__tensor infer__further_pass(infer_context *c) {
    const infer_model *m = c->model;
    const infer__layer *l = infer__further_layer(m);
    const int32_t n = c->ctx.pass.n_rows;
    infer__tensor x = infer__view(&c->at->x, 0, n, m->hp.n_embd), xn = infer__view(&c->at->xn, 0, n, m->hp.n_embd);
    infer__tensor out = infer__view(&c->at->out, 0, n, m->hp.n_embd);
    const infer__weight *own = infer__opt(&l->w[INFER__W_NEXTN_EMBD]);
    infer__embed_rows(c, own ? own : &m->w[INFER__W_TOKEN_EMBD], &x);
    infer__layer_run(c, l, &x, &xn, &out);
    return x;
}

/* The last hidden states of each session in the pass, rows of h. */
static void infer__further_keep(infer_context *c, const float *h) {
    const infer__pass *p = &c->ctx.pass;
    const int64_t width = c->model->hp.n_embd;
    int32_t from, to, keep;
    for (from = 0; from < p->n_rows; from = to) {
        infer_session *s = c->active[p->seq[from]];
        for (to = from; to < p->n_rows && p->seq[to] == p->seq[from]; to++) {}
        keep = INFER__MIN(to - from, INFER__FURTHER_ROWS);
        memcpy(s->further, h + (to - keep) * width, (size_t)(keep * width) * sizeof *h);
        s->further_at = p->pos[to - 1] + 1 - keep;
        s->further_n = keep;
    }
}

/* The hidden state at position pos, NULL when it is not known any more. */
static const float *infer__further_hidden(const infer_session *s, int32_t pos) {
    const int32_t i = pos - s->further_at;
    return i >= 0 && i < s->further_n ? s->further + (int64_t)i * s->context->model->hp.n_embd : NULL;
}

/* After a pass whose rows' last results lie in x: keys and values of the block for all of them. */
static void infer__further_fill(infer_context *c) {
    const infer_model *m = c->model;
    const infer__pass *p = &c->ctx.pass;
    const int32_t n = p->n_rows;
    const size_t width = (size_t)m->hp.n_embd, bytes = width * sizeof(float);
    infer__tensor x = infer__view(&c->at->x, 0, n, m->hp.n_embd), before;
    const float *h;
    float *to;
    int32_t i;
    infer__norm_to(c, &m->w[INFER__W_OUT_NORM], &x, &x);
    infer__go(c, m->hp.n_layer, n);
    if (!infer__ok(&c->ctx)) return;
    x = infer__view(&c->at->x, 0, n, m->hp.n_embd);
    before = infer__pass_kept(c, n, 0, n, m->hp.n_embd);
    h = infer__further_rows(&x);
    to = infer__further_rows(&before);
    for (i = 0; i < n; i++) {
        const int first = i == 0 || p->seq[i] != p->seq[i - 1];
        const float *row =
            first ? infer__further_hidden(c->active[p->seq[i]], p->pos[i] - 1) : h + (size_t)(i - 1) * width;
        if (row) memcpy(to + (size_t)i * width, row, bytes);
        else memset(to + (size_t)i * width, 0, bytes);
    }
    infer__further_keep(c, h);
    infer__further_pass(c);
}

/* ---- drafts ------------------------------------------------------------------------------------------------------ */

/* One row: the token at position pos, behind hidden state h, which becomes its own. Gives the most likely token that
 * follows, -1 after a failure. */
static infer_token infer__further_step(infer_context *c, infer_session *s, const infer_token *tokens, int32_t at,
                                     float *h) {
    const infer_model *m = c->model;
    const infer__layer *l = infer__further_layer(m);
    const infer__weight *head = infer__opt(&l->w[INFER__W_NEXTN_HEAD]);
    infer__tensor x, xn, logits;
    infer_token best;
    if (!infer__pass_one(c, s, tokens, at)) return -1;
    infer__enter(c, l->place);
    c->at->ops->begin(&c->ctx);
    x = infer__pass_kept(c, 1, 0, 1, m->hp.n_embd);
    memcpy(infer__further_rows(&x), h, (size_t)m->hp.n_embd * sizeof *h);
    x = infer__further_pass(c);
    xn = infer__view(&c->at->xn, 0, 1, m->hp.n_embd);
    if (l->w[INFER__W_NEXTN_HEAD_NORM].type) infer__slot_norm(c, l, INFER__W_NEXTN_HEAD_NORM, 1, &x, &xn);
    else infer__norm_to(c, &m->w[INFER__W_OUT_NORM], &x, &xn);
    logits = infer__view(&c->at->work, 0, 1, m->hp.n_vocab);
    infer__product(c, &xn, head ? head : &m->w[INFER__W_OUTPUT], NULL, &logits);
    c->at->ops->sync(&c->ctx);
    if (!infer__ok(&c->ctx)) return -1;
    memcpy(h, infer__further_rows(&xn), (size_t)m->hp.n_embd * sizeof *h);
    return infer__sample_greedy(infer__further_rows(&logits), m->hp.n_vocab, &best, NULL) ? -1 : best;
}

/* ids[0] was chosen to follow the session's tokens: put at most `room` of those that may follow it behind it. Gives how
 * many; 0 also where it cannot. The session is claimed. */
static int32_t infer__further_draft(infer_session *s, infer_token *ids, int32_t room) {
    infer_context *c = s->context;
    const float *h = s->n > 0 && s->n_valid == s->n ? infer__further_hidden(s, s->n - 1) : NULL;
    float *own = s->further + (int64_t)INFER__FURTHER_ROWS * c->model->hp.n_embd;
    infer_error err;
    int32_t k;
    if (!h || infer__context_claim(c, "infer_generate", &err)) return 0;
    if (infer__weights_hold(c->model, &err)) {
        infer__context_leave(c);
        return 0;
    }
    memcpy(own, h, (size_t)c->model->hp.n_embd * sizeof *h);
    c->trace = NULL;
    c->encodes = 0;
    for (k = 0; k < room && s->n + k < s->cap; k++) {
        ids[k + 1] = infer__further_step(c, s, ids, k, own);
        if (ids[k + 1] < 0) break;
    }
    infer__error_clear(&c->ctx.error); /* a draft that cannot be made is no error */
    infer__weights_let(c->model);
    infer__context_leave(c);
    return k;
}
