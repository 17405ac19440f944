/* completions.c: POST /v1/completions: prompts as texts or tokens. */
#include "../serve.h"

#include <stdlib.h>
#include <string.h>

static const parameter TABLE[] = {
    SERVE_PARAMS_REPLY,
    SERVE_PARAMS_REPLIES,
    SERVE_PARAMS_PROMPT,
    {"max_tokens", PARAM_INT, PARAM_AT(max_tokens), 0, 1e9, NULL},
    {"best_of", PARAM_INT, PARAM_AT(best_of), 1, MAX_CHOICES, NULL},
    {"logprobs", PARAM_INT, PARAM_AT(top_logprobs), 0, 20, NULL},
    {"echo", PARAM_FLAG, PARAM_AT(echo), 0, 0, NULL},
    SERVE_PARAMS_SAMPLING,
    SERVE_PARAMS_MORE,
    SERVE_PARAMS_IGNORED,
};

typedef struct prompt {
    infer_token *ids;
    size_t n;
    const char *text; /* as it was given; NULL = tokens */
    size_t n_text;
} prompt;

/* Log probabilities of a choice that were not given out, in the older form. */
typedef struct lists {
    cli_text tokens, logprobs, top, offsets;
    size_t at; /* characters before the next token */
    int n;
} lists;

/* What this interface keeps with a job. */
typedef struct prompts {
    prompt *list;
    size_t n;
    lists lists[MAX_CHOICES];
} prompts;

/* ---- log probabilities ---------------------------------------------------------------------- */

static void lists_end(lists *l) {
    out_end(&l->tokens);
    out_end(&l->logprobs);
    out_end(&l->top);
    out_end(&l->offsets);
}

static size_t characters(const char *s, size_t n) {
    size_t i, count = 0;
    for (i = 0; i < n; i++) count += (s[i] & 0xc0) != 0x80;
    return count;
}

/* top NULL: the token has no prediction, as the first of a prompt. */
static void lists_add(lists *l, const served *m, infer_token token, double logprob, const infer_top *top, int n_top) {
    char text[TOKEN_BYTES];
    const char *comma = l->n++ ? "," : "";
    size_t n = token_text(m, token, text);
    int i;
    out(&l->tokens, "%s%J", comma, text, n);
    out(&l->offsets, "%s%d", comma, (long long)l->at);
    l->at += characters(text, n);
    if (top == NULL) {
        out(&l->logprobs, "%snull", comma);
        out(&l->top, "%snull", comma);
        return;
    }
    out(&l->logprobs, "%s%g", comma, logprob);
    out(&l->top, "%s{", comma);
    for (i = 0; i < n_top; i++) {
        n = token_text(m, top[i].token, text);
        out(&l->top, "%s%J:%g", i ? "," : "", text, n, (double)top[i].logprob);
    }
    out(&l->top, "}");
}

static void on_token(job *j, choice *c, infer_token token, double logprob, const infer_top *top, int n) {
    lists_add(&((prompts *)j->own)->lists[c->index], j->model, token, logprob, top, n);
}

/* ---- choices -------------------------------------------------------------------------------- */

static const prompt *prompt_of(const job *j, const choice *c) {
    const prompts *p = j->own;
    return &p->list[c->index / (j->n_choices / j->groups)];
}

/* The prompt's text before the reply (echo). */
static void write_echo(const job *j, const choice *c, cli_text *t) {
    const prompt *p = prompt_of(j, c);
    char *text;
    infer_error err;
    size_t n = 0;
    if (p->text) {
        out(t, "%S", p->text, p->n_text);
        return;
    }
    if (infer_detokenize(j->model->model, p->ids, p->n, 0, NULL, 0, &n, &err) != INFER_OK) return;
    text = cli_alloc("serve", n + 1, 1);
    if (text && infer_detokenize(j->model->model, p->ids, p->n, 0, text, n, &n, &err) == INFER_OK) out(t, "%S", text, n);
    free(text);
}

/* What follows a text; reason NULL = it goes on. */
static void write_end(const job *j, const choice *c, cli_text *t, const char *reason) {
    lists *l = &((prompts *)j->own)->lists[c->index];
    out(t, ",\"index\":%d,\"logprobs\":", (long long)c->index);
    if (j->k < 0) out(t, "null");
    else
        out(t, "{\"tokens\":[%t],\"token_logprobs\":[%t],\"top_logprobs\":[%t],\"text_offset\":[%t]}", &l->tokens, &l->logprobs, &l->top,
            &l->offsets);
    out_clear(&l->tokens);
    out_clear(&l->logprobs);
    out_clear(&l->top);
    out_clear(&l->offsets);
    l->n = 0;
    out(t, ",\"finish_reason\":%j}", reason);
}

static const char OBJECT[] = "text_completion";

static void chunk(job *j, choice *c, const char *s, size_t n, const char *reason) {
    cli_text *t = sse_begin(j, NULL);
    write_head(j, t, OBJECT);
    out(t, "{\"text\":%J", s, n);
    write_end(j, c, t, reason);
    out(t, "]%s}", j->usage ? ",\"usage\":null" : "");
    sse_end(j);
}

static void stream_start(job *j) {
    cli_text t;
    int i;
    for (i = 0; j->asked.echo && i < j->n_choices; i++) {
        memset(&t, 0, sizeof t);
        write_echo(j, &j->choices[i], &t);
        chunk(j, &j->choices[i], t.s, t.n, NULL);
        j->out.failed |= t.failed;
        out_end(&t);
    }
}

static void stream_text(job *j, choice *c, int reasoning, const char *s, size_t n) {
    (void)reasoning;
    chunk(j, c, s, n, NULL);
}
static void stream_end(job *j, choice *c) { chunk(j, c, "", 0, finish_reason(c)); }

static void stream_finish(job *j) { sse_done(j, OBJECT); }

static void whole(job *j) {
    cli_text text;
    int i;
    write_head(j, &j->out, OBJECT);
    for (i = 0; i < j->n_choices; i++) {
        choice *c = &j->choices[i];
        memset(&text, 0, sizeof text);
        if (j->asked.echo) write_echo(j, c, &text);
        out(&text, "%t", &c->text);
        out(&j->out, "%s{\"text\":%T", i ? "," : "", &text);
        write_end(j, c, &j->out, finish_reason(c));
        out_end(&text);
    }
    write_tail(j, &j->out);
}

static const writer STREAM = {stream_start, on_token, stream_text, NULL, NULL, stream_end, stream_finish, sse_broken, NULL};
static const writer WHOLE = {NULL, on_token, reply_text, NULL, NULL, NULL, NULL, NULL, whole};

/* ---- prompts -------------------------------------------------------------------------------- */

static void prompts_free(void *own) {
    prompts *p = own;
    size_t i;
    for (i = 0; i < p->n; i++) free(p->list[i].ids);
    for (i = 0; i < MAX_CHOICES; i++) lists_end(&p->lists[i]);
    free(p->list);
    free(p);
}

static int take_prompt(job *j, prompt *p, const infer_json *one) {
    p->text = infer_json_string(one, &p->n_text);
    return prompt_tokens(j->model, one, j->asked.suffix, "a text, a list of texts, a list of tokens or a list of such lists", &p->ids, &p->n, &j->call->failure);
}

static int take_prompts(job *j) {
    failure *f = &j->call->failure;
    const infer_json *given = j->asked.prompt, *first = infer_json_at(given, 0);
    const int several = infer_json_kind(given) == INFER_JSON_ARRAY && infer_json_kind(first) != INFER_JSON_INT;
    const size_t n = several ? infer_json_count(given) : 1;
    prompts *p;
    size_t i;
    if (given == NULL) return fail(f, 400, NULL, "prompt", "'prompt' is missing");
    if (n == 0 || n > MAX_CHOICES) return fail(f, 400, NULL, "prompt", "'prompt' must have 1 to %d texts", (int)MAX_CHOICES);
    p = calloc(1, sizeof *p);
    if (p == NULL || (p->list = calloc(n, sizeof *p->list)) == NULL) {
        free(p);
        return fail(f, 503, NULL, NULL, "out of memory");
    }
    p->n = n;
    j->own = p;
    j->own_free = prompts_free;
    for (i = 0; i < n; i++) {
        const infer_json *one = several ? infer_json_at(given, i) : given;
        if (!take_prompt(j, &p->list[i], one)) return 0;
    }
    return 1;
}

/* How likely the tokens of a prompt are, in a session of its own: to the lists of its n choices. */
static infer_result score_prompt(job *j, const prompt *p, lists *l, size_t n, infer_error *err) {
    const size_t k = j->k > 0 ? (size_t)j->k : 1;
    float *logprobs = cli_alloc("serve", p->n, sizeof *logprobs);
    infer_top *top = cli_alloc("serve", p->n * k, sizeof *top);
    infer_session_params params;
    infer_session *session = NULL;
    infer_result r = INFER_ERR_MEMORY;
    size_t c, i;
    memset(&params, 0, sizeof params);
    params.context = j->model->positions;
    if (!logprobs || !top) snprintf(err->message, sizeof err->message, "out of memory");
    else if ((r = infer_session_create_in(&session, j->model->texts, &params, err)) == INFER_OK &&
             (r = infer_session_score(session, p->ids, (int32_t)p->n, j->k, logprobs, j->k > 0 ? top : NULL)) != INFER_OK)
        *err = *infer_session_error(session);
    if (r == INFER_CONTEXT_FULL)
        snprintf(err->message, sizeof err->message, "the prompt has %lu tokens, and the context %ld positions", (unsigned long)p->n,
                 (long)j->model->positions);
    for (c = 0; r == INFER_OK && c < n; c++) {
        for (i = 0; i < p->n; i++) lists_add(&l[c], j->model, p->ids[i], (double)logprobs[i], i ? top + i * k : NULL, j->k);
    }
    infer_session_destroy(session);
    free(logprobs);
    free(top);
    return r;
}

static int score_prompts(job *j, size_t n) {
    prompts *p = j->own;
    infer_error err;
    infer_result r = INFER_OK;
    size_t i;
    if (!models_texts(j->server, j->model, NULL, &j->call->failure)) return 0;
    for (i = 0; r == INFER_OK && i < p->n; i++) r = score_prompt(j, &p->list[i], &p->lists[i * n], n, &err);
    models_texts_done(j->server, j->model);
    return r == INFER_OK || fail_by(&j->call->failure, r, err.message);
}

/* Each choice has the prompt of its group. */
static void choose_prompt(job *j, choice *c, infer_request_params *p) {
    const prompt *one = prompt_of(j, c);
    p->tokens = one->ids;
    p->n_tokens = (int32_t)one->n;
}

static int prepare(job *j) {
    failure *f = &j->call->failure;
    asked *a = &j->asked;
    const int64_t n = a->n > 0 ? a->n : 1;
    if (!take_stream_options(j)) return 0;
    if (a->best_of > 0 && a->best_of != n)
        return fail(f, 400, "unsupported_value", "best_of", "unsupported parameter: 'best_of' can only be as large as 'n' here");
    if (a->echo && a->suffix) return fail(f, 400, "unsupported_value", "echo", "unsupported parameter: 'echo' together with 'suffix'");
    if (a->top_logprobs >= 0) j->k = (int)a->top_logprobs;
    if (a->max_tokens < 0) a->max_tokens = 16; /* as OpenAI's */
    if (a->max_tokens == 0 && !a->echo) return fail(f, 400, NULL, "max_tokens", "'max_tokens' can only be 0 with 'echo'");
    if (!chat_response_format(j, a->response_format, "response_format") || !take_prompts(j)) return 0;
    j->groups = (int)((prompts *)j->own)->n;
    a->n = n * j->groups;
    if (a->n > MAX_CHOICES) return fail(f, 400, NULL, "n", "'n' times the number of prompts is more than %d", (int)MAX_CHOICES);
    j->choose = choose_prompt;
    j->nothing = a->max_tokens == 0;
    return !(a->echo && j->k >= 0) || score_prompts(j, (size_t)n);
}

void route_completions(call *c) {
    job *j = job_create(c, &WHOLE, TABLE, sizeof TABLE / sizeof TABLE[0]);
    if (j == NULL) return;
    if (j->stream) j->writer = &STREAM;
    random_id(j->id, sizeof j->id, "cmpl-");
    prepare(j);
    job_answer(j);
}
