/* choices_eval.c: which answer a model finds most probable: the one whose tokens have the highest mean logarithm of probability, as
 * llama.cpp computes it. What all answers begin with is evaluated once. */
#include "choices.h"
#include "quality.h"

#include <stdlib.h>
#include <string.h>

/* One answer's text, and which of its tokens count. */
typedef struct sequence {
    infer_token *ids;
    size_t n, from, to;
    double sum;
} sequence;

typedef struct eval {
    const char *command;
    infer_model *model;
    infer_context *context;
    infer_session *session;
    int32_t capacity, vocab, batch;
    sequence s[CHOICES_MAX];
    int n;
    size_t common; /* tokens that all begin with */
} eval;

static int tokenize(const eval *e, const question *q, int i, int whole, infer_token **ids, size_t *n) {
    const size_t bytes = q->before.n + (size_t)q->space + q->ends[i].end.n + q->after.n;
    char *text = cli_alloc(e->command, bytes + 1, 1), *p = text;
    int ok;
    if (text == NULL) return 0;
    memcpy(p, q->before.s, q->before.n);
    p += q->before.n;
    if (q->space) *p++ = ' ';
    memcpy(p, q->ends[i].end.s, q->ends[i].end.n);
    p += q->ends[i].end.n;
    if (whole && q->after.n) memcpy(p, q->after.s, q->after.n), p += q->after.n;
    ok = cli_tokenize(e->command, e->model, text, (size_t)(p - text), INFER_TEXT_ADD_SPECIAL, ids, n);
    free(text);
    return ok;
}

static void count_common(eval *e) {
    int i;
    for (e->common = 0;; e->common++)
        for (i = 0; i < e->n; i++)
            if (e->common >= e->s[i].n || e->s[i].ids[e->common] != e->s[0].ids[e->common]) return;
}

/* Of Winogrande the tokens behind the answer count, but the last, unless there are few: then all that differ. */
static int range_behind(eval *e, const question *q) {
    enum { FEW = 3 };
    size_t base[2], i;
    infer_token *ids;
    for (i = 0; i < 2; i++) {
        if (!tokenize(e, q, (int)i, 0, &ids, &base[i])) return 0;
        free(ids);
    }
    for (i = 0; i < 2; i++) {
        sequence *s = &e->s[i];
        const int skip = e->s[0].n > e->common + FEW && e->s[1].n > e->common + FEW && base[i] < s->n && base[i] >= e->common;
        s->from = skip ? base[i] : e->common;
        s->to = s->n - (s->n > s->from + 1);
    }
    return 1;
}

static int prepare(eval *e, const choices *c, const question *q) {
    int i;
    for (i = 0; i < q->n; i++, e->n++)
        if (!tokenize(e, q, i, 1, &e->s[i].ids, &e->s[i].n)) return 0;
    count_common(e);
    if (q->after.n && !range_behind(e, q)) return 0;
    for (i = 0; i < e->n; i++) {
        sequence *s = &e->s[i];
        if (q->after.n == 0) s->from = e->common, s->to = s->n;
        s->sum = 0;
        if (e->common == 0 || s->from >= s->to)
            return cli_fail(e->command, "%s: question %lu: answer %d has no tokens of its own", c->path, (unsigned long)c->number, i + 1) == CLI_DONE;
        if (s->n > (size_t)e->capacity)
            return cli_fail(e->command, "%s: question %lu has %lu tokens, the context %ld (--ctx)", c->path, (unsigned long)c->number, (unsigned long)s->n,
                            (long)e->capacity) == CLI_DONE;
    }
    return 1;
}

/* Adds what a row says of the token at `at`. */
static void add(const eval *e, sequence *s, size_t at, const float *logits) {
    float max;
    double log_sum;
    if (at < s->from || at >= s->to) return;
    log_sum = quality_log_sum(logits, e->vocab, &max);
    s->sum += logits[s->ids[at]] - max - log_sum;
}

/* The tokens of one answer behind the common ones; the session is left at those. */
static int one_answer(eval *e, sequence *s) {
    size_t at, n, i;
    for (at = e->common; at + 1 < s->to; at += n) {
        n = s->to - 1 - at < (size_t)e->batch ? s->to - 1 - at : (size_t)e->batch;
        if (!quality_step(e->command, e->context, e->session, s->ids + at, (int32_t)n, INFER_OUT_ALL)) return 0;
        for (i = 0; i < n && !cli_run_interrupted(); i++) {
            const float *logits = infer_session_logits(e->session, (int32_t)i);
            if (logits == NULL) return cli_fail(e->command, "no logits") == CLI_DONE;
            add(e, s, at + i + 1, logits);
        }
        if (cli_run_interrupted()) return 1;
    }
    if (infer_session_rewind(e->session, (int32_t)e->common) != INFER_OK) return cli_fail(e->command, "%s", infer_session_error(e->session)->message) == CLI_DONE;
    return 1;
}

static int one_question(eval *e, const choices *c, const question *q, choices_result *out) {
    const float *logits;
    int i, best = 0, ok = prepare(e, c, q);
    if (ok) infer_session_rewind(e->session, 0);
    if (ok) ok = quality_step(e->command, e->context, e->session, e->s[0].ids, (int32_t)e->common, INFER_OUT_LAST);
    logits = ok ? infer_session_logits(e->session, -1) : NULL;
    for (i = 0; logits && i < e->n; i++) add(e, &e->s[i], e->common, logits);
    for (i = 0; logits && ok && i < e->n && !cli_run_interrupted(); i++) ok = one_answer(e, &e->s[i]);
    if (ok && !cli_run_interrupted()) {
        for (i = 0; i < e->n; i++) {
            e->s[i].sum /= (double)(e->s[i].to - e->s[i].from);
            if (e->s[i].sum > e->s[best].sum) best = i;
        }
        out->questions++;
        out->answers += (size_t)e->n;
        out->right += q->ends[best].right != 0;
    }
    for (i = 0; i < e->n; i++) free(e->s[i].ids);
    memset(e->s, 0, sizeof e->s);
    e->n = 0;
    return ok;
}

int choices_eval(choices *c, infer_model *model, const cli_common *common, int64_t limit, choices_result *out) {
    infer_context_params params;
    infer_model_info info;
    question *q = cli_alloc(c->command, 1, sizeof *q);
    eval *e = cli_alloc(c->command, 1, sizeof *e);
    cli_progress bar;
    int ok = q && e, more = 1;
    memset(out, 0, sizeof *out);
    if (ok) {
        memset(e, 0, sizeof *e);
        e->command = c->command;
        e->model = model;
        e->capacity = cli_cells(common, model, 0);
        ok = infer_model_get_info(model, &info) == INFER_OK && choices_begin(c);
    }
    if (ok) {
        cli_context_params(common, &params);
        e->vocab = info.vocab;
        e->batch = quality_piece(&params, info.vocab);
        ok = cli_session(c->command, model, &params, e->capacity, &e->context, &e->session);
    }
    if (ok) cli_run_begin(e->session);
    cli_progress_begin(&bar, "evaluating");
    while (ok && more == 1 && !cli_run_interrupted() && (limit == 0 || (int64_t)out->questions < limit)) {
        more = choices_next(c, q);
        if (more == 1) ok = one_question(e, c, q, out);
        cli_progress_show(&bar, (float)c->at / (float)(c->n + 1));
    }
    cli_progress_end(&bar);
    if (e && e->session) {
        cli_run_end();
        infer_session_destroy(e->session);
        infer_context_destroy(e->context);
    }
    if (ok && more == 0 && out->questions == 0) ok = cli_fail(c->command, "%s has no questions", c->path) == CLI_DONE;
    free(q);
    free(e);
    return !ok || more < 0 ? CLI_FAILED : cli_run_interrupted() ? CLI_INTERRUPTED : CLI_DONE;
}
