/* results.c: logits that stay on the device until they are requested, and the few largest, which are downloaded with
 * the eval: usually sampling needs no more.
 *
 * Owns:  infer_context.kept, infer_session.kept_row and top; the decision which logits stay.
 * Rules: logits stay if the head is on the device, in the last pass of an eval, with one row per session and all rows
 *        of the pass in one product, and no blocks that predict run there afterwards: then they are in the work area,
 *        which the context's next eval overwrites. So that eval first downloads those of sessions that it does not
 *        evaluate. At least the largest is downloaded: it shows whether all are finite. Their number is what the
 *        session's last choice needed; all, if all were requested.
 * Start: infer__results_choose, infer__results_bring.
 */
#include "../model.h"

enum { INFER__TOP_ROWS = 64 }; /* rows of a pass that may stay, at most */

static int32_t infer__top_most(const infer_model *m) { return INFER__MIN(INFER__TOP_MOST, m->hp.n_vocab); }

static void infer__plan_top(infer__plan *p, const infer_model *m) {
    uint64_t rows, one = infer__top_scratch(m->hp.n_vocab, infer__top_most(m));
    if (infer__encoder(&m->hp) || infer__first(m)) return;
    p->top_rows = INFER__MIN(p->head_rows, INFER__TOP_ROWS);
    rows = (uint64_t)p->top_rows;
    p->top_scratch = INFER__MAX(one, rows * infer__top_scratch(m->hp.n_vocab, 1));
    p->top_bytes = (rows * 2 * (uint64_t)infer__top_most(m) + p->top_scratch) * sizeof(float);
}

/* ---- within an eval ----------------------------------------------------------------------------------------- */

static void infer__results_choose(infer_context *c, int last) {
    const infer__pass *p = &c->ctx.pass;
    int32_t i;
    if (last && p->n_out <= c->plan.top_rows && infer__placed(c->model) <= c->model->hp.n_layer) return;
    for (i = 0; i < p->n_out; i++) c->out_top[i] = 0;
}

static infer_session *infer__results_session(const infer_context *c, int32_t out) {
    return c->active[c->ctx.pass.seq[c->ctx.pass.out[out]]];
}

/* The n largest of rows of logits to the front of the top buffer, 2 n words a row. */
static void infer__results_largest(infer_context *c, const infer__tensor *logits, int32_t n) {
    infer__buf *b = &c->at->top;
    infer__top_args a;
    memset(&a, 0, sizeof a);
    a.x = *logits;
    a.y = infer__view(b, 0, logits->rows, 2 * n);
    a.scratch = infer__view(b, b->bytes / sizeof(float) - c->plan.top_scratch, 1, (int32_t)c->plan.top_scratch);
    a.k = n;
    infer__ops_of(&c->ctx)->top(&c->ctx, &a);
}

static void infer__results_one(infer_context *c, infer_session *s, int32_t row, int32_t stride, int32_t n) {
    uint64_t each = sizeof *s->top;
    infer__ops_of(&c->ctx)->download(&c->ctx, &c->at->top,
                                              (uint64_t)row * (uint64_t)stride * each, s->top, (uint64_t)n * each);
}

/* How many of the largest the pass computes for each of its rows. */
static int32_t infer__results_most(const infer_context *c) {
    int32_t i, most = 0;
    if (!INFER__HAS_GPU) return 0;
    for (i = 0; i < c->ctx.pass.n_out; i++) most = INFER__MAX(most, c->out_top[i]);
    return most;
}

static void infer__results_top(infer_context *c, int32_t rows) {
    int32_t most = infer__results_most(c);
    infer__tensor logits;
    if (!INFER__HAS_GPU || most == 0) return;
    logits = infer__view(&c->at->work, 0, rows, c->model->hp.n_vocab);
    infer__results_largest(c, &logits, most);
}

static void infer__results_fetch(infer_context *c) {
    int32_t i, most = infer__results_most(c);
    if (!INFER__HAS_GPU) return;
    for (i = 0; i < c->ctx.pass.n_out; i++)
        if (c->out_top[i]) infer__results_one(c, infer__results_session(c, i), i, most, c->out_top[i]);
}

static int infer__results_finite(const infer_context *c) {
    int32_t i, n = c->model->hp.n_vocab;
    for (i = 0; i < c->ctx.pass.n_out; i++) {
        if (!c->out_logits[i]) continue;
        if (c->out_top[i] ? infer__results_session(c, i)->top[0].token < 0
                          : !c->ctx.kernels->finite(c->out_logits[i], n))
            return 0;
    }
    return 1;
}

static void infer__results_keep(infer_context *c) {
    int32_t i;
    if (!INFER__HAS_GPU) return;
    for (i = 0; i < c->ctx.pass.n_out; i++) {
        infer_session *s = infer__results_session(c, i);
        if (!c->out_top[i]) continue;
        INFER__ASSERT(c->n_kept < c->plan.n_seq);
        s->kept_row = i + 1;
        s->n_top = c->out_top[i];
        c->kept[c->n_kept++] = s;
    }
}

static int infer__results_reserve(infer_session *s, int32_t n) {
    void *p;
    if ((uint64_t)n <= s->top_cap) return 1;
    p = infer__realloc(&s->context->model->mem, s->top, (uint64_t)n, sizeof *s->top);
    if (!p) return 0;
    s->top = (infer__top_logit *)p;
    s->top_cap = (uint64_t)n;
    return 1;
}

/* ---- after it ----------------------------------------------------------------------------------------------- */

static void infer__results_drop(infer_session *s) {
    infer_context *c = s->context;
    int32_t i;
    if (!INFER__HAS_GPU || !s->kept_row) return;
    s->kept_row = s->n_top = 0;
    for (i = 0; c->kept[i] != s; i++) {}
    c->kept[i] = c->kept[--c->n_kept];
}

/* Ops outside an eval: an earlier failure is not theirs. */
static void infer__results_begin(infer_context *c) {
    infer__error_clear(&c->ctx.error);
    infer__enter(c, infer__head_place(c->model));
}

static infer_result infer__results_end(infer_context *c, infer_error *err) {
    infer__ops_of(&c->ctx)->sync(&c->ctx);
    if (infer__ok(&c->ctx)) return INFER_OK;
    return infer__error(err, c->ctx.error.code, "%s", c->ctx.error.message);
}

static infer_result infer__results_bring(infer_session *s, infer_error *err) {
    infer_context *c = s->context;
    uint64_t bytes = (uint64_t)c->model->hp.n_vocab * sizeof(float);
    infer_result r;
    if (!INFER__HAS_GPU || !s->kept_row) return INFER_OK;
    infer__results_begin(c);
    infer__ops_of(&c->ctx)->download(&c->ctx, &c->at->work,
                                              (uint64_t)(s->kept_row - 1) * bytes, s->logits, bytes);
    r = infer__results_end(c, err);
    if (r == INFER_OK) infer__results_drop(s);
    return r;
}

static infer_result infer__results_best(infer_session *s, int32_t n, infer_error *err) {
    infer_context *c = s->context;
    int32_t vocab = c->model->hp.n_vocab;
    infer__tensor row;
    infer_result r;
    if (!INFER__HAS_GPU || n <= s->n_top) return INFER_OK;
    if (!infer__results_reserve(s, n)) return infer__error(err, INFER_ERR_MEMORY, "no memory for %d logits", (int)n);
    s->n_top = 0; /* the old ones are overwritten */
    infer__results_begin(c);
    row = infer__view(&c->at->work, (uint64_t)(s->kept_row - 1) * (uint64_t)vocab, 1, vocab);
    infer__results_largest(c, &row, n);
    infer__results_one(c, s, 0, n, n);
    r = infer__results_end(c, err);
    if (r == INFER_OK) s->n_top = n;
    return r;
}

static int32_t infer__results_row(const infer_session *s, int32_t row) {
    const int32_t n = s->out_n - s->ahead;
    if (row < 0) row += n;
    return row < 0 || row >= n || row < s->out_first_logits ? -1 : row - s->out_first_logits;
}

static double infer__results_log_sum(const float *x, int32_t n, double *largest) {
    double sum = 0;
    float m = x[0];
    int32_t i;
    for (i = 1; i < n; i++) m = INFER__MAX(m, x[i]);
    for (i = 0; i < n; i++) sum += exp((double)x[i] - m);
    *largest = m;
    return log(sum);
}

static void infer__results_list(const float *x, int32_t n, int32_t k, infer_top *out) {
    int32_t i, j, have = 0;
    double sum = 0;
    for (i = 0; i < n; i++) { /* insertion into the k best: ids come in order, so equals stay in order */
        if (have == k && !(x[i] > out[k - 1].logit)) continue;
        for (j = have < k ? have++ : k - 1; j > 0 && x[i] > out[j - 1].logit; j--) out[j] = out[j - 1];
        out[j].token = i;
        out[j].logit = x[i];
    }
    for (i = 0; i < n; i++) sum += exp((double)x[i] - out[0].logit);
    for (i = 0; i < k; i++) out[i].logprob = (float)((double)out[i].logit - out[0].logit - log(sum));
}
