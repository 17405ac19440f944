/* further.c: passes of multi-token prediction blocks (layers/nextn.c).
 *
 * How:   their keys and values are stored in the session's pages at the same positions as the layers', and are forked,
 *        rewound and saved with them. After a pass each block runs over the pass's rows (infer__further_fill). A draft
 *        continues from there (infer__further_draft): a single block gives token after token, each row reading the
 *        hidden state of the previous one; with several, block i gives token i, over all of the draft so far, since its
 *        own keys do not exist yet. They run on the last layer's device, if all layers are on devices, else on the CPU;
 *        hidden states pass through the host's memory (infer_context.hop), and so do embeddings where the first layer
 *        is on another device.
 * Owns:  infer_session.further: hidden states of the last positions, for drafts and the next pass:
 *            levels x (INFER__FURTHER_ROWS + history) rows: of the layers; in a chain, of all blocks but the last
 *            2 x n_predict rows: of a draft, and of the running pass
 */
#include "session.h"

static int32_t infer__further_levels(const infer__hparams *hp) {
    return hp->predicts & INFER__PREDICTS_BESIDE ? 1 : hp->n_predict;
}

/* Positions before a pass that side-by-side blocks look back to. */
static int32_t infer__further_history(const infer__hparams *hp) {
    return hp->predicts & INFER__PREDICTS_BESIDE ? hp->n_predict - 1 : 0;
}

static int32_t infer__further_cap(const infer__hparams *hp) {
    return INFER__FURTHER_ROWS + infer__further_history(hp);
}

static uint64_t infer__further_bytes(const infer__hparams *hp) {
    if (!INFER__HAS_DRAFTS || !hp->n_predict) return 0;
    return ((uint64_t)infer__further_levels(hp) * (uint64_t)infer__further_cap(hp) + 2 * (uint64_t)hp->n_predict) *
           (uint64_t)hp->n_embd * sizeof(float);
}

static float *infer__further_level(const infer_session *s, int32_t level) {
    const infer__hparams *hp = &s->context->model->hp;
    return s->further + (int64_t)level * infer__further_cap(hp) * hp->n_embd;
}

/* n_predict rows; half 0 or 1. */
static float *infer__further_own(const infer_session *s, int32_t half) {
    const infer__hparams *hp = &s->context->model->hp;
    return infer__further_level(s, infer__further_levels(hp)) + (int64_t)half * hp->n_predict * hp->n_embd;
}

/* The hidden state that block `block` reads from the row before pos: NULL when it is not known any more, or there is
 * none. */
static const float *infer__further_hidden(const infer_session *s, int32_t block, int32_t pos) {
    const infer__hparams *hp = &s->context->model->hp;
    const int beside = (hp->predicts & INFER__PREDICTS_BESIDE) != 0;
    const int32_t i = pos - 1 - (beside ? block : 0) - s->further_at;
    return i >= 0 && i < s->further_n ? infer__further_level(s, beside ? 0 : block) + (int64_t)i * hp->n_embd : NULL;
}

static void infer__further_fork(infer_session *to, const infer_session *from) {
    const infer__hparams *hp = &from->context->model->hp;
    const size_t bytes = (size_t)from->further_n * (size_t)hp->n_embd * sizeof *to->further;
    int32_t k;
    for (k = 0; k < infer__further_levels(hp); k++)
        memcpy(infer__further_level(to, k), infer__further_level(from, k), bytes);
    to->further_at = from->further_at;
    to->further_n = from->further_n;
}

/* ---- the rows of a pass ------------------------------------------------------------------------------------------ */

static float *infer__further_rows(const infer__tensor *t) {
    return (float *)(void *)((char *)t->buf->host + t->offset);
}

/* The same where the host can read them: on a device they come to the first half of hop. */
static float *infer__further_down(infer_context *c, const infer__tensor *t) {
    if (t->buf->host) return infer__further_rows(t);
    infer__ops_of(&c->ctx)->download(&c->ctx, t->buf, t->offset, c->hop,
                                     (uint64_t)t->rows * (uint64_t)t->cols * sizeof(float));
    infer__ops_of(&c->ctx)->sync(&c->ctx);
    return c->hop;
}

/* Where the host writes rows that go to t; on a device they are in the second half of hop until infer__further_up. */
static float *infer__further_room(infer_context *c, const infer__tensor *t) {
    if (t->buf->host) return infer__further_rows(t);
    infer__ops_of(&c->ctx)->sync(&c->ctx); /* the last ones have gone */
    return c->hop + c->plan.x_bytes / sizeof(float);
}

static void infer__further_up(infer_context *c, const infer__tensor *t, const float *rows) {
    if (!t->buf->host)
        infer__ops_of(&c->ctx)->upload(&c->ctx, t->buf, t->offset, rows,
                                       (uint64_t)t->rows * (uint64_t)t->cols * sizeof(float));
}

static void infer__further_copy(float *to, const float *row, size_t width) {
    if (row) memcpy(to, row, width * sizeof *to);
    else memset(to, 0, width * sizeof *to);
}

static infer__tensor infer__further_x(infer_context *c, int32_t n) {
    return infer__view(&c->at->x, 0, n, c->model->hp.n_embd);
}

/* 1 when a block's embeddings are made on another device, that of the first layer. */
static int infer__further_apart(const infer_model *m, const infer__layer *l) {
    return INFER__HAS_GPU && l->place != INFER__ON_CPU && !l->w[INFER__W_NEXTN_EMBD].type &&
           m->layers[0].place != l->place;
}

/* The embeddings of the pass's rows to x of the block's device, where the pass is. */
static void infer__further_embed(infer_context *c, const infer__layer *l, int32_t n) {
    const infer_model *m = c->model;
    const infer__weight *own = infer__opt(&l->w[INFER__W_NEXTN_EMBD]);
    const int apart = infer__further_apart(m, l);
    infer__tensor x;
    const float *rows;
    if (apart) infer__enter(c, m->layers[0].place);
    x = infer__further_x(c, n);
    infer__embed_rows(c, own ? own : &m->w[INFER__W_TOKEN_EMBD], &x);
    if (!apart) return;
    rows = infer__further_down(c, &x);
    infer__enter(c, l->place);
    x = infer__further_x(c, n);
    infer__further_up(c, &x, rows);
}

/* Run block k over the n rows of a prepared pass whose preceding hidden states are kept. Returns its x. */
static infer__tensor infer__further_pass(infer_context *c, int32_t k) {
    const infer_model *m = c->model;
    const infer__layer *l = &m->layers[m->hp.n_layer + k];
    const int32_t n = c->ctx.pass.n_rows;
    infer__tensor x = infer__further_x(c, n), xn = infer__view(&c->at->xn, 0, n, m->hp.n_embd);
    infer__tensor out = infer__view(&c->at->out, 0, n, m->hp.n_embd);
    infer__further_embed(c, l, n);
    infer__layer_run(c, l, &x, &xn, &out);
    return x;
}

/* Block k's norm before the head. */
static void infer__further_norm(infer_context *c, int32_t k, const infer__tensor *x, const infer__tensor *y) {
    const infer_model *m = c->model;
    const infer__layer *l = &m->layers[m->hp.n_layer + k];
    const int slot = l->w[INFER__W_NEXTN_HEAD_NORM].type ? INFER__W_NEXTN_HEAD_NORM : INFER__W_NEXTN_OUT_NORM;
    if (l->w[slot].type) infer__slot_norm(c, l, slot, 1, x, y);
    else infer__norm_to(c, &m->w[INFER__W_OUT_NORM], x, y);
}

/* Before the blocks run: save their input from the position before a session's first row, and make room for the
 * hidden states of the pass's last rows after those still needed. Nothing is valid until they are written: a pass may
 * fail. */
static void infer__further_turn(infer_session *s, int32_t first, int32_t n) {
    const infer__hparams *hp = &s->context->model->hp;
    const size_t width = (size_t)hp->n_embd;
    const int32_t last = s->further_at + s->further_n;
    int32_t from = first, k;
    for (k = 0; k < hp->n_predict; k++)
        infer__further_copy(infer__further_own(s, 0) + (size_t)k * width, infer__further_hidden(s, k, first), width);
    if (s->further_n > 0 && last >= first && s->further_at <= first)
        from = INFER__MAX(s->further_at, first - infer__further_history(hp));
    from = INFER__MAX(from, first + n - infer__further_cap(hp));
    if (from < first) {
        float *rows = infer__further_level(s, 0);
        memmove(rows, rows + (size_t)(from - s->further_at) * width, (size_t)(first - from) * width * sizeof *rows);
    }
    s->further_at = from;
    s->further_n = 0;
}

/* Hidden states of the pass' last rows, as block k reads them. */
static void infer__further_keep(infer_context *c, int32_t k, const float *h) {
    const infer__pass *p = &c->ctx.pass;
    const size_t width = (size_t)c->model->hp.n_embd;
    int32_t i;
    for (i = 0; i < p->n_rows; i++) {
        const infer_session *s = c->active[p->seq[i]];
        if (p->pos[i] >= s->further_at)
            memcpy(infer__further_level(s, k) + (size_t)(p->pos[i] - s->further_at) * width, h + (size_t)i * width,
                   width * sizeof *h);
    }
}

/* Kept for the pass: block k's input from the rows before the pass's rows, h. h may be the kept rows themselves,
 * holding the input of the block before: then it is the one of one more position before. */
static void infer__further_before(infer_context *c, int32_t k, const float *h) {
    const infer__pass *p = &c->ctx.pass;
    const size_t width = (size_t)c->model->hp.n_embd;
    const infer__tensor before = infer__pass_kept(c, p->n_rows, 0, p->n_rows, c->model->hp.n_embd);
    float *to = infer__further_room(c, &before);
    int32_t i;
    for (i = p->n_rows - 1; i >= 0; i--) {
        const int first = i == 0 || p->seq[i] != p->seq[i - 1];
        const float *row = first ? infer__further_own(c->active[p->seq[i]], 0) + (size_t)k * width
                                 : h + (size_t)(i - 1) * width;
        memcpy(to + (size_t)i * width, row, width * sizeof *to);
    }
    infer__further_up(c, &before, to);
}

/* After a pass whose rows' last results are in x: compute the blocks' keys and values for all of them. */
static void infer__further_fill(infer_context *c) {
    const infer_model *m = c->model;
    const infer__pass *p = &c->ctx.pass;
    const int32_t n = p->n_rows, beside = m->hp.predicts & INFER__PREDICTS_BESIDE;
    infer__tensor x = infer__further_x(c, n), before;
    const float *h = NULL;
    int32_t i, k, from;
    if (!(m->hp.predicts & INFER__PREDICTS_BARE)) infer__norm_to(c, &m->w[INFER__W_OUT_NORM], &x, &x);
    infer__go(c, m->hp.n_layer, n);
    for (from = 0; from < n; from = i) {
        for (i = from; i < n && p->seq[i] == p->seq[from]; i++) {}
        infer__further_turn(c->active[p->seq[from]], p->pos[from], i - from);
    }
    x = infer__further_x(c, n);
    for (k = 0; k < m->hp.n_predict && infer__ok(&c->ctx); k++) {
        before = infer__pass_kept(c, n, 0, n, m->hp.n_embd);
        if (k == 0 || !beside) infer__further_keep(c, k, h = infer__further_down(c, &x));
        else h = infer__further_room(c, &before); /* what block k - 1 read */
        infer__further_before(c, k, h);
        x = infer__further_pass(c, k);
        if (k + 1 < m->hp.n_predict && !beside && !(m->hp.predicts & INFER__PREDICTS_BARE))
            infer__further_norm(c, k, &x, &x);
    }
    if (!infer__ok(&c->ctx)) return;
    for (i = 0; i < n; i++) {
        infer_session *s = c->active[p->seq[i]];
        s->further_n = p->pos[i] + 1 - s->further_at;
    }
}

/* ---- drafts ------------------------------------------------------------------------------------------------------ */

/* Block k's input from the rows before `at` .. `at + n - 1` of a draft, to the rows kept for its pass. own: hidden
 * states that this draft made, of the rows before `own_at` on; others are the session's. 0 when one is not known any
 * more. */
static int infer__further_reads(infer_context *c, const infer_session *s, int32_t k, int32_t at, int32_t n,
                                const float *own, int32_t own_at) {
    const size_t width = (size_t)c->model->hp.n_embd;
    const infer__tensor before = infer__pass_kept(c, n, 0, n, c->model->hp.n_embd);
    float *to = infer__further_room(c, &before);
    int32_t i;
    for (i = 0; i < n; i++) {
        const int32_t pos = s->n + at + i;
        const int theirs = at + i == 0 || (c->model->hp.predicts & INFER__PREDICTS_BESIDE);
        const float *row = theirs ? infer__further_hidden(s, k, pos) : own + (size_t)(at + i - own_at) * width;
        if (!row && pos > k) return 0; /* before that there is none */
        infer__further_copy(to + (size_t)i * width, row, width);
    }
    infer__further_up(c, &before, to);
    return 1;
}

/* Block k over the tokens `from` .. `to` after the session's. Returns the most likely next token, -1 when there is
 * none. reads, gives: hidden states that the rows read (except for token 0, which reads the session's) and give. */
static infer_token infer__further_step(infer_context *c, infer_session *s, int32_t k, const infer_token *tokens,
                                       int32_t from, int32_t to, const float *reads, float *gives) {
    const infer_model *m = c->model;
    const infer__layer *l = &m->layers[m->hp.n_layer + k];
    const infer__weight *head = infer__opt(&l->w[INFER__W_NEXTN_HEAD]);
    const size_t width = (size_t)m->hp.n_embd;
    int32_t at, n = 1;
    infer__tensor x, xn, logits;
    const float *row;
    infer_token best;
    for (at = from; at <= to; at += n) {
        n = INFER__MIN(to + 1 - at, c->plan.batch);
        if (!infer__pass_ahead(c, s, tokens, at, n)) return -1;
        if (infer__further_apart(m, l)) {
            infer__enter(c, m->layers[0].place);
            infer__ops_of(&c->ctx)->begin(&c->ctx);
        }
        infer__enter(c, l->place);
        infer__ops_of(&c->ctx)->begin(&c->ctx);
        if (!infer__further_reads(c, s, k, at, n, reads, INFER__MAX(from, 1))) return -1;
        x = infer__further_pass(c, k);
        xn = infer__view(&c->at->xn, 0, n, m->hp.n_embd);
        infer__further_norm(c, k, &x, &xn);
        infer__ops_of(&c->ctx)->sync(&c->ctx);
        if (!infer__ok(&c->ctx)) return -1;
        memcpy(gives + (size_t)(at - from) * width,
               infer__further_down(c, m->hp.predicts & INFER__PREDICTS_BARE ? &x : &xn),
               (size_t)n * width * sizeof *gives);
    }
    xn = infer__view(&c->at->xn, (uint64_t)(n - 1) * width, 1, m->hp.n_embd);
    logits = infer__view(&c->at->work, 0, 1, m->hp.n_vocab);
    infer__product(c, &xn, head ? head : &m->w[INFER__W_OUTPUT], NULL, &logits);
    infer__ops_of(&c->ctx)->sync(&c->ctx);
    row = infer__further_down(c, &logits);
    if (!infer__ok(&c->ctx)) return -1;
    return infer__sample_greedy(row, m->hp.n_vocab, &best, NULL) ? -1 : best;
}

/* ids[0] was chosen to follow the session's tokens: put at most `room` of those that may follow it after it. *made
 * goes from 0 to how many; it stays 0 where it cannot. INFER_MORE: the slice has ended, and the next call goes on. One
 * block is run as often as there is room (DeepSeek-V3's code does); of several each once, since none has learned to
 * follow the last (SGLang's worker for several blocks allows no more either). The session is claimed. */
static infer_result infer__further_draft(infer_session *s, infer_token *ids, int32_t room, int32_t *made) {
    infer_context *c = s->context;
    const int32_t blocks = c->model->hp.n_predict, from = *made;
    infer_error err;
    infer_result r = INFER_OK;
    if (s->n < 1 || s->n_valid != s->n || !infer__further_hidden(s, 0, s->n)) return INFER_OK;
    if (infer__context_claim(c, "infer_generate", &err)) return INFER_OK;
    if (infer__weights_hold(c->model, &err)) {
        infer__context_leave(c);
        return INFER_OK;
    }
    c->trace = NULL;
    c->encodes = 0;
    if (blocks > 1) room = INFER__MIN(room, blocks);
    for (; *made < room && s->n + *made < s->cap; ++*made) {
        const int32_t k = *made, block = blocks > 1 ? k : 0;
        if (k > from && infer__slice_over(s->until)) {
            r = INFER_MORE;
            break;
        }
        ids[k + 1] = infer__further_step(c, s, block, ids, k - block, k, infer__further_own(s, (k + 1) & 1),
                                         infer__further_own(s, k & 1));
        if (ids[k + 1] < 0) break;
    }
    infer__error_clear(&c->ctx.error); /* failing to make a draft is not an error */
    infer__weights_let(c->model);
    infer__context_leave(c);
    return r;
}
