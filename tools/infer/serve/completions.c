/* completions.c: POST /v1/completions: prompts as texts or tokens. */
#include "serve.h"

#include <stdlib.h>
#include <string.h>

static const parameter TABLE[] = {
    {"model", PARAM_TEXT, PARAM_AT(model), 0, 0, NULL},
    {"prompt", PARAM_ANY, PARAM_AT(prompt), 0, 0, NULL},
    {"suffix", PARAM_TEXT, PARAM_AT(suffix), 0, 0, NULL},
    {"stream", PARAM_FLAG, PARAM_AT(stream), 0, 0, NULL},
    {"stream_options", PARAM_OBJECT, PARAM_AT(stream_options), 0, 0, NULL},
    {"max_tokens", PARAM_INT, PARAM_AT(max_tokens), 0, 1e9, NULL},
    {"n", PARAM_INT, PARAM_AT(n), 1, MAX_CHOICES, NULL},
    {"best_of", PARAM_INT, PARAM_AT(best_of), 1, MAX_CHOICES, NULL},
    {"stop", PARAM_ANY, PARAM_AT(stop), 0, 0, NULL},
    {"seed", PARAM_INT, PARAM_AT(seed), -1, 9e15, NULL},
    {"logprobs", PARAM_INT, PARAM_AT(top_logprobs), 0, 20, NULL},
    {"logit_bias", PARAM_OBJECT, PARAM_AT(logit_bias), 0, 0, NULL},
    {"echo", PARAM_FLAG, PARAM_AT(echo), 0, 0, NULL},
    {"response_format", PARAM_OBJECT, PARAM_AT(response_format), 0, 0, NULL},
    SERVE_PARAMS_SAMPLING,
    SERVE_PARAMS_MORE,
    SERVE_PARAMS_IGNORED,
};

/* What this interface keeps with a job: prompts, and how likely their tokens are (echo with logprobs). */
typedef struct prompt {
    infer_token *ids;
    size_t n;
    const char *text; /* as it was given; NULL = tokens */
    size_t n_text;
    float *logprobs;
    infer_top *top;   /* n x job->k */
} prompt;
typedef struct prompts {
    prompt *list;
    size_t n;
} prompts;

/* ---- log probabilities in the older form ---------------------------------------------------- */

typedef struct lists {
    cli_text tokens, logprobs, top, offsets;
    size_t at; /* characters before the next token */
    int n;
} lists;

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

static void token_text(const served *m, infer_token token, char *text, size_t cap, size_t *n) {
    if (infer_token_text(m->model, token, text, cap, n) != INFER_OK) *n = 0;
    if (*n > cap) *n = cap;
}

/* A token of the prompt; without: the first has no prediction. */
static void lists_prompt(lists *l, const job *j, const prompt *p, size_t i) {
    char text[256];
    size_t n, k;
    token_text(j->model, p->ids[i], text, sizeof text, &n);
    out(&l->tokens, "%s%J", l->n ? "," : "", text, n);
    out(&l->offsets, l->n ? ",%d" : "%d", (long long)l->at);
    l->at += characters(text, n);
    out(&l->logprobs, "%s", l->n ? "," : "");
    out(&l->top, "%s", l->n ? "," : "");
    if (i == 0) {
        out(&l->logprobs, "null");
        out(&l->top, "null");
    } else {
        out(&l->logprobs, "%g", (double)p->logprobs[i]);
        out(&l->top, "{");
        for (k = 0; k < (size_t)j->k; k++) {
            const infer_top *top = &p->top[i * (size_t)j->k + k];
            token_text(j->model, top->token, text, sizeof text, &n);
            out(&l->top, "%s%J:%g", k ? "," : "", text, n, (double)top->logprob);
        }
        out(&l->top, "}");
    }
    l->n++;
}

/* The rows that generate.c has noted. */
static void lists_rows(lists *l, const choice *c) {
    infer_json *rows = NULL;
    cli_text t;
    size_t i, k, n;
    memset(&t, 0, sizeof t);
    out(&t, "[%S]", c->logprobs.n ? c->logprobs.s : "", c->logprobs.n);
    if (!t.failed && infer_json_parse(&rows, t.s, t.n, NULL, NULL) == INFER_OK) {
        for (i = 0; i < infer_json_count(rows); i++) {
            const infer_json *row = infer_json_at(rows, i), *top = infer_json_get(row, "top_logprobs");
            const char *text = infer_json_string(infer_json_get(row, "token"), &n);
            const char *comma = l->n++ ? "," : "";
            out(&l->tokens, "%s%J", comma, text, n);
            out(&l->logprobs, "%s%g", comma, infer_json_number(infer_json_get(row, "logprob")));
            out(&l->offsets, "%s%d", comma, (long long)l->at);
            l->at += characters(text, n);
            out(&l->top, "%s{", comma);
            for (k = 0; k < infer_json_count(top); k++) {
                const infer_json *one = infer_json_at(top, k);
                text = infer_json_string(infer_json_get(one, "token"), &n);
                out(&l->top, "%s%J:%g", k ? "," : "", text, n, infer_json_number(infer_json_get(one, "logprob")));
            }
            out(&l->top, "}");
        }
    } else l->tokens.failed = 1;
    infer_json_free(rows);
    out_end(&t);
}

static void lists_write(const lists *l, cli_text *t) {
    out(t, "{\"tokens\":[%s],\"token_logprobs\":[%s],\"top_logprobs\":[%s],\"text_offset\":[%s]}", l->n ? l->tokens.s : "", l->n ? l->logprobs.s : "",
        l->n ? l->top.s : "", l->n ? l->offsets.s : "");
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

/* Log probabilities of the tokens since the last time; the first time with those of an echoed prompt. */
static void write_logprobs(const job *j, choice *c, int first, cli_text *t) {
    lists l;
    const prompt *p = prompt_of(j, c);
    size_t i;
    if (j->k < 0) {
        out(t, "null");
        return;
    }
    memset(&l, 0, sizeof l);
    l.at = (size_t)c->begun;
    for (i = 0; first && j->asked.echo && i < p->n; i++) lists_prompt(&l, j, p, i);
    lists_rows(&l, c);
    out_clear(&c->logprobs);
    c->begun = (int)l.at;
    if (l.tokens.failed) t->failed = 1;
    else lists_write(&l, t);
    lists_end(&l);
}

static void head(const job *j, cli_text *t) {
    out(t, "{\"id\":%j,\"object\":\"text_completion\",\"created\":%d,\"model\":%j,\"choices\":[", j->id, j->created, j->model->id);
}

static void chunk(job *j, choice *c, const char *s, size_t n, int first, const char *reason) {
    cli_text t;
    memset(&t, 0, sizeof t);
    head(j, &t);
    out(&t, "{\"text\":%J,\"index\":%d,\"logprobs\":", s, n, (long long)c->index);
    write_logprobs(j, c, first, &t);
    out(&t, ",\"finish_reason\":%j}]%s}", reason, j->usage ? ",\"usage\":null" : "");
    if (t.failed) j->out.failed = 1;
    else sse(j, NULL, &t);
    out_end(&t);
}

static void stream_start(job *j) {
    cli_text t;
    int i;
    for (i = 0; j->asked.echo && i < j->n_choices; i++) {
        memset(&t, 0, sizeof t);
        write_echo(j, &j->choices[i], &t);
        chunk(j, &j->choices[i], t.n ? t.s : "", t.n, 1, NULL);
        out_end(&t);
    }
}

static void stream_text(job *j, choice *c, int reasoning, const char *s, size_t n) {
    (void)reasoning;
    chunk(j, c, s, n, 0, NULL);
}
static void stream_end(job *j, choice *c) { chunk(j, c, "", 0, 0, finish_reason(j, c)); }

static void stream_finish(job *j) {
    cli_text t;
    memset(&t, 0, sizeof t);
    if (j->usage) {
        head(j, &t);
        out(&t, "],\"usage\":");
        write_usage(j, &t);
        out(&t, "}");
        sse(j, NULL, &t);
    }
    out_end(&t);
    out(&j->out, "data: [DONE]\n\n");
}

static void keep_text(job *j, choice *c, int reasoning, const char *s, size_t n) {
    (void)j;
    (void)reasoning;
    out(&c->text, "%S", s, n);
}
static void keep_end(job *j, choice *c) {
    (void)j;
    (void)c;
}

static void whole(job *j) {
    cli_text text;
    int i;
    head(j, &j->out);
    for (i = 0; i < j->n_choices; i++) {
        choice *c = &j->choices[i];
        memset(&text, 0, sizeof text);
        if (j->asked.echo) write_echo(j, c, &text);
        out(&text, "%S", c->text.n ? c->text.s : "", c->text.n);
        out(&j->out, "%s{\"text\":%J,\"index\":%d,\"logprobs\":", i ? "," : "", text.s, text.n, (long long)i);
        write_logprobs(j, c, 1, &j->out);
        out(&j->out, ",\"finish_reason\":%j}", finish_reason(j, c));
        if (text.failed) j->out.failed = 1;
        out_end(&text);
    }
    out(&j->out, "],\"usage\":");
    write_usage(j, &j->out);
    out(&j->out, "}");
}

static const writer STREAM = {stream_start, stream_text, NULL, NULL, stream_end, stream_finish, sse_broken, NULL};
static const writer WHOLE = {NULL, keep_text, NULL, NULL, keep_end, NULL, NULL, whole};

/* ---- prompts -------------------------------------------------------------------------------- */

static void prompts_free(void *own) {
    prompts *p = own;
    size_t i;
    for (i = 0; i < p->n; i++) {
        free(p->list[i].ids);
        free(p->list[i].logprobs);
        free(p->list[i].top);
    }
    free(p->list);
    free(p);
}

/* A text's tokens; with a suffix those of filling the gap. */
static int tokenize_prompt(job *j, prompt *p, const char *text, size_t n) {
    failure *f = &j->call->failure;
    infer_error err;
    infer_result r;
    const char *suffix = j->asked.suffix;
    int pass;
    p->text = text;
    p->n_text = n;
    for (pass = 0; pass < 2; pass++) {
        const size_t cap = p->n;
        r = suffix ? infer_infill(j->model->model, text, n, suffix, strlen(suffix), 0, p->ids, cap, &p->n, &err)
                   : infer_tokenize(j->model->model, text, n, INFER_TEXT_ADD_SPECIAL, p->ids, cap, &p->n, &err);
        if (r != INFER_OK) return fail_by(f, r, err.message);
        if (pass == 0) p->ids = cli_alloc("serve", p->n + 1, sizeof *p->ids);
        if (p->ids == NULL) return fail(f, 503, NULL, NULL, "out of memory");
    }
    return p->n > 0 || fail(f, 400, NULL, "prompt", "'prompt' is empty, and the model has no token for the beginning");
}

static int take_ids(job *j, prompt *p, const infer_json *list) {
    failure *f = &j->call->failure;
    size_t i;
    p->n = infer_json_count(list);
    p->ids = cli_alloc("serve", p->n + 1, sizeof *p->ids);
    if (p->ids == NULL) return fail(f, 503, NULL, NULL, "out of memory");
    for (i = 0; i < p->n; i++) {
        const int64_t id = infer_json_int(infer_json_at(list, i));
        if (infer_json_kind(infer_json_at(list, i)) != INFER_JSON_INT || id < 0 || id >= j->model->info.vocab)
            return fail(f, 400, "invalid_type", "prompt", "'prompt' must be a text, a list of texts, a list of tokens or a list of such lists");
        p->ids[i] = (infer_token)id;
    }
    if (j->asked.suffix) return fail(f, 400, NULL, "suffix", "'suffix' needs a 'prompt' of text");
    return p->n > 0 || fail(f, 400, NULL, "prompt", "'prompt' is empty");
}

static int take_prompts(job *j) {
    failure *f = &j->call->failure;
    const infer_json *given = j->asked.prompt, *first = infer_json_at(given, 0);
    const int several = infer_json_kind(given) == INFER_JSON_ARRAY && infer_json_kind(first) != INFER_JSON_INT;
    const size_t n = several ? infer_json_count(given) : 1;
    prompts *p;
    size_t i, length;
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
        const char *text = infer_json_string(one, &length);
        if (text ? !tokenize_prompt(j, &p->list[i], text, length) : !take_ids(j, &p->list[i], one)) return 0;
    }
    return 1;
}

/* How likely the tokens of the prompts are: in a session of their own. */
static int score_prompts(job *j) {
    failure *f = &j->call->failure;
    prompts *p = j->own;
    infer_session_params params;
    infer_session *session = NULL;
    infer_error err;
    infer_result r = INFER_OK;
    size_t i;
    if (!models_texts(j->server, j->model, f)) return 0;
    memset(&params, 0, sizeof params);
    params.context = j->model->positions;
    for (i = 0; r == INFER_OK && i < p->n; i++) {
        prompt *one = &p->list[i];
        one->logprobs = cli_alloc("serve", one->n, sizeof *one->logprobs);
        one->top = cli_alloc("serve", one->n * (size_t)(j->k > 0 ? j->k : 1), sizeof *one->top);
        if (one->logprobs == NULL || one->top == NULL) {
            r = INFER_ERR_MEMORY;
            snprintf(err.message, sizeof err.message, "out of memory");
            break;
        }
        r = infer_session_create_in(&session, j->model->texts, &params, &err);
        if (r == INFER_OK &&
            (r = infer_session_score(session, one->ids, (int32_t)one->n, j->k, one->logprobs, j->k > 0 ? one->top : NULL)) != INFER_OK)
            err = *infer_session_error(session);
        if (r == INFER_CONTEXT_FULL)
            snprintf(err.message, sizeof err.message, "the prompt has %lu tokens, and the context %ld positions", (unsigned long)one->n,
                     (long)j->model->positions);
        infer_session_destroy(session);
        session = NULL;
    }
    models_texts_done(j->server, j->model);
    return r == INFER_OK || fail_by(f, r, err.message);
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
    j->usage = infer_json_kind(infer_json_get(a->stream_options, "include_usage")) == INFER_JSON_TRUE;
    if (a->stream_options && !a->stream) return fail(f, 400, NULL, "stream_options", "'stream_options' needs 'stream'");
    if (a->best_of > 0 && a->best_of != n)
        return fail(f, 400, "unsupported_value", "best_of", "unsupported parameter: 'best_of' can only be as large as 'n' here");
    if (a->echo && a->suffix) return fail(f, 400, "unsupported_value", "echo", "unsupported parameter: 'echo' together with 'suffix'");
    if (a->top_logprobs >= 0) j->k = (int)a->top_logprobs;
    if (a->max_tokens < 0) a->max_tokens = 16; /* as OpenAI's */
    if (a->max_tokens == 0 && !a->echo) return fail(f, 400, NULL, "max_tokens", "'max_tokens' can only be 0 with 'echo'");
    if (!chat_response_format(j, a->response_format, "response_format") || !take_prompts(j)) return 0;
    if (n * (int64_t)((prompts *)j->own)->n > MAX_CHOICES)
        return fail(f, 400, NULL, "n", "'n' times the number of prompts is more than %d", (int)MAX_CHOICES);
    a->n = n * (int64_t)((prompts *)j->own)->n;
    j->groups = (int)((prompts *)j->own)->n;
    j->choose = choose_prompt;
    j->nothing = a->max_tokens == 0;
    return !(a->echo && j->k >= 0) || score_prompts(j);
}

void route_completions(call *c) {
    job *j = job_create(c, &WHOLE, TABLE, sizeof TABLE / sizeof TABLE[0]);
    if (j == NULL) return;
    if (j->stream) j->writer = &STREAM;
    random_id(j->id, sizeof j->id, "cmpl-");
    prepare(j);
    job_answer(j);
}
