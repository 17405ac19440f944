/* generate.c: an HTTP request that the queue answers, by one reply or several.
 *
 * The queue's thread calls the callbacks, which only copy what has come into the job's events. The connection's thread takes
 * them, and gives them to the interface's writer. When the client reads too slowly for the events to fit, or has gone, the
 * requests are cancelled. */
#include "serve.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { EVENTS_MOST = 4 << 20, LOOK_MS = 200 }; /* bytes that wait for a client; how often to see whether it is there */

/* ---- the queue's thread --------------------------------------------------------------------- */

/* Returns 1 to end the request. */
static int post(choice *c, const event *e, const void *data) {
    job *j = c->job;
    int stop;
    pthread_mutex_lock(&j->lock);
    if (j->events.n + sizeof *e + e->n > EVENTS_MOST && j->stream) j->slow = 1;
    stop = j->slow || j->gone;
    if (!stop) {
        cli_text_put(serve_command, &j->events, (const char *)e, sizeof *e);
        cli_text_put(serve_command, &j->events, data, e->n);
        stop = j->events.failed;
    }
    if (j->waits) pthread_cond_signal(&j->changed);
    pthread_mutex_unlock(&j->lock);
    return stop;
}

static int take_text(void *user, const char *text, size_t n) {
    choice *c = user;
    event e;
    memset(&e, 0, sizeof e);
    e.kind = EVENT_TEXT;
    e.choice = c->index;
    e.n = n;
    c->unseen = 0;
    return post(c, &e, text);
}

static int take_token(void *user, infer_token token, float logprob, const infer_top *top, int32_t n_top) {
    choice *c = user;
    event e;
    c->unseen++;
    if (c->job->k < 0) return 0;
    memset(&e, 0, sizeof e);
    e.kind = EVENT_TOKEN;
    e.choice = c->index;
    e.number = token;
    e.logprob = logprob;
    e.n = (size_t)n_top * sizeof *top;
    return post(c, &e, top);
}

static int take_delta(void *user, const infer_chat_delta *d) {
    static const int32_t KINDS[] = {0, EVENT_TEXT, EVENT_REASONING, EVENT_CALL, EVENT_ARGUMENTS};
    choice *c = user;
    event e;
    char names[512];
    const void *data = d->text;
    if (d->kind < 1 || d->kind > 4) return 0;
    if (c->job->one_call && d->call > 0) return 1;
    memset(&e, 0, sizeof e);
    e.kind = KINDS[d->kind];
    e.choice = c->index;
    e.number = d->call;
    e.n = d->n;
    if (d->kind == INFER_CHAT_REASONING) c->reasoning_tokens += c->unseen;
    c->unseen = 0;
    if (d->kind == INFER_CHAT_CALL) {
        e.n = (size_t)snprintf(names, sizeof names, "%.120s%c%.256s", d->id, 0, d->name) + 1;
        data = names;
    }
    return post(c, &e, data);
}

static void done(void *user, infer_request *request) {
    choice *c = user;
    job *j = c->job;
    (void)request;
    pthread_mutex_lock(&j->lock);
    c->done = 1;
    if (j->waits) pthread_cond_signal(&j->changed);
    pthread_mutex_unlock(&j->lock);
    if (j->on_ended) j->on_ended(j);
}

/* ---- the connection's thread ---------------------------------------------------------------- */

const double SERVE_TIMES[TIMES] = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60};

/* The lock is held. */
static void count_time(uint64_t *buckets, double *sum, double seconds) {
    int i = 0;
    while (i < TIMES && seconds > SERVE_TIMES[i]) i++;
    buckets[i]++;
    *sum += seconds;
}

static void handle_token(job *j, choice *c, const event *e, const char *data) {
    infer_top top[32];
    const int n = (int)(e->n < sizeof top ? e->n / sizeof *top : sizeof top / sizeof *top);
    int i;
    memcpy(top, data, (size_t)n * sizeof *top);
    for (i = 0; i < n && top[i].token != e->number; i++) {} /* one figure for one token */
    j->writer->token(j, c, e->number, (double)(i < n ? top[i].logprob : e->logprob), top, n < j->k ? n : j->k);
}

static void handle(job *j, const event *e, const char *data) {
    choice *c = &j->choices[e->choice];
    switch (e->kind) {
    case EVENT_TOKEN: handle_token(j, c, e, data); return;
    case EVENT_TEXT:
    case EVENT_REASONING: j->writer->text(j, c, e->kind == EVENT_REASONING, data, e->n); return;
    case EVENT_CALL:
        if (e->number >= c->n_calls) c->n_calls = e->number + 1;
        j->writer->call(j, c, e->number, data, data + strlen(data) + 1);
        return;
    default: j->writer->arguments(j, c, e->number, data, e->n);
    }
}

/* A reply has ended: what it was. */
static void end_choice(job *j, choice *c) {
    server *s = j->server;
    int32_t i;
    c->ended = 1;
    j->n_ended++;
    if (c->request == NULL) { /* nothing was to be generated */
        infer_request_params p;
        memset(&p, 0, sizeof p);
        if (j->choose) j->choose(j, c, &p);
        c->info.generate.prompt_tokens = p.n_tokens;
        c->info.generate.stop_reason = INFER_STOP_LIMIT;
        if (j->writer->end) j->writer->end(j, c);
        return;
    }
    infer_request_get_info(c->request, &c->info);
    c->error = *infer_request_error(c->request);
    i = c->info.generate.stop_string;
    if (c->info.generate.stop_reason == INFER_STOP_STRING && i >= 0 && i < j->params.generate.n_stop) c->stop = j->stops[i];
    pthread_mutex_lock(&s->lock);
    s->counters.prompt_tokens += (uint64_t)c->info.generate.prompt_tokens;
    s->counters.reused += (uint64_t)c->info.reused;
    s->counters.new_tokens += (uint64_t)c->info.generate.new_tokens;
    if (c->info.generate.new_tokens) count_time(s->counters.first, &s->counters.first_sum, c->info.first);
    count_time(s->counters.whole, &s->counters.whole_sum, c->info.seconds);
    pthread_mutex_unlock(&s->lock);
    if (j->writer->end && (c->info.result == INFER_OK || (c->info.result == INFER_CANCELLED && c->info.generate.stop_reason == INFER_STOP_CALLBACK)))
        j->writer->end(j, c);
}

/* Takes what has come, waiting for it. Returns how many bytes of events. */
static size_t take_events(job *j) {
    cli_text swap;
    int i, came = 1, ended;
    pthread_mutex_lock(&j->lock);
    for (;;) {
        for (i = ended = 0; i < j->n_choices; i++) ended += j->choices[i].done && !j->choices[i].ended;
        if (j->events.n || ended || j->slow || !came || j->server->abort) break;
        j->waits = 1;
        came = system_condition_wait(&j->changed, &j->lock, LOOK_MS);
        j->waits = 0;
    }
    swap = j->events;
    j->events = j->taken;
    j->events.n = 0;
    j->taken = swap;
    for (i = 0; i < j->n_choices; i++) {
        if (j->choices[i].done && !j->choices[i].ended) j->choices[i].ended = 2; /* all of its events are here */
    }
    if (j->slow) j->lost = 1;
    pthread_mutex_unlock(&j->lock);
    return j->taken.n;
}

int call_alive(call *c) { return c->alive == NULL || c->alive(c); }

static void look(job *j) {
    if (platform_clock() - j->looked < LOOK_MS * 1e-3) return;
    j->looked = platform_clock();
    if (call_alive(j->call)) return;
    pthread_mutex_lock(&j->lock);
    j->gone = j->lost = 1;
    pthread_mutex_unlock(&j->lock);
}

/* Waits for events and gives them to the writer. Returns 0 when the replies are to end. */
static int step(job *j) {
    const size_t n = take_events(j);
    size_t at = 0;
    int i;
    while (at < n) {
        event e;
        memcpy(&e, j->taken.s + at, sizeof e);
        handle(j, &e, j->taken.s + at + sizeof e);
        at += sizeof e + e.n;
    }
    for (i = 0; i < j->n_choices; i++) {
        if (j->choices[i].ended == 2) end_choice(j, &j->choices[i]);
    }
    look(j);
    return !j->lost && !j->server->abort && !j->taken.failed;
}

/* What went wrong with one of the replies, if anything. */
static void job_failure(const job *j, failure *f) {
    int i;
    if (j->server->abort) fail(f, 503, "stopping", NULL, "the server is stopping");
    if (j->taken.failed || j->out.failed) fail(f, 503, NULL, NULL, "out of memory");
    for (i = 0; i < j->n_choices; i++) {
        const choice *c = &j->choices[i];
        if (c->text.failed || c->reasoning.failed || c->calls.failed || c->logprobs.failed) fail(f, 503, NULL, NULL, "out of memory");
        if (c->ended && c->info.result != INFER_OK && c->info.generate.stop_reason != INFER_STOP_CALLBACK)
            fail_by(f, c->info.result, c->error.message[0] ? c->error.message : infer_result_string(c->info.result));
    }
}

static void job_cancel(job *j) {
    int i;
    for (i = 0; i < j->n_choices; i++) {
        if (j->choices[i].request) infer_request_cancel(j->choices[i].request);
    }
}

size_t job_read(job *j, char *to, size_t most) {
    failure f;
    size_t n;
    if (!j->started) {
        j->started = 1;
        j->writer->start(j);
    }
    while (j->sent == j->out.n && !j->finished) {
        j->sent = 0;
        out_clear(&j->out);
        memset(&f, 0, sizeof f);
        if (!step(j)) {
            job_cancel(j);
            if (j->lost) return (size_t)-1;
        }
        job_failure(j, &f);
        if (j->out.failed) { /* there is room for the error */
            out_clear(&j->out);
            j->out.failed = 0;
        }
        if (f.status) j->writer->broken(j, &f);
        else if (j->n_ended == j->n_choices) j->writer->finish(j);
        j->finished = f.status || j->n_ended == j->n_choices;
        if (f.status) job_cancel(j);
    }
    n = j->out.n - j->sent < most ? j->out.n - j->sent : most;
    if (n) memcpy(to, j->out.s + j->sent, n);
    j->sent += n;
    return n;
}

/* ---- preparing ------------------------------------------------------------------------------ */

job *job_create(call *c, const writer *w, const parameter *table, size_t n) {
    job *j = calloc(1, sizeof *j);
    if (j == NULL) {
        fail(&c->failure, 503, NULL, NULL, "out of memory");
        return NULL;
    }
    j->server = c->server;
    j->call = c;
    j->writer = w;
    j->created = (long long)time(NULL);
    j->k = -1;
    j->groups = 1;
    pthread_mutex_init(&j->lock, NULL);
    pthread_cond_init(&j->changed, NULL);
    if (asked_read(&j->asked, c->json, table, n, &c->server->options->common->sampling, &c->failure))
        j->model = models_take(c->server, j->asked.model, &c->failure);
    if (j->model && j->model->queue == NULL)
        fail(&c->failure, 400, "unsupported", "model", "the model does not generate: %s", j->model->why_no_queue);
    j->stream = j->asked.stream;
    if (!c->failure.status) return j;
    job_free(j);
    return NULL;
}

static int prepare_stops(job *j) {
    static const char WHAT[] = "'stop' must be a text, or a list of texts, none of them empty";
    const infer_json *stop = j->asked.stop;
    const int one = infer_json_kind(stop) == INFER_JSON_STRING;
    const size_t n = one ? 1 : infer_json_count(stop);
    size_t i, length;
    if (stop && !one && infer_json_kind(stop) != INFER_JSON_ARRAY) return fail(&j->call->failure, 400, "invalid_type", "stop", "%s", WHAT);
    if (n == 0) return 1;
    if (n > 64) return fail(&j->call->failure, 400, NULL, "stop", "'stop' has more than 64 texts");
    j->stops = cli_alloc(serve_command, n, sizeof *j->stops);
    if (j->stops == NULL) return fail(&j->call->failure, 503, NULL, NULL, "out of memory");
    for (i = 0; i < n; i++) {
        j->stops[i] = infer_json_string(one ? stop : infer_json_at(stop, i), &length);
        if (j->stops[i] == NULL || length == 0 || strlen(j->stops[i]) != length)
            return fail(&j->call->failure, 400, "invalid_type", "stop", "%s", WHAT);
    }
    j->params.generate.stop = j->stops;
    j->params.generate.n_stop = (int32_t)n;
    return 1;
}

static int prepare_stop_ids(job *j) {
    size_t n = 0;
    if (j->asked.stop_tokens && !json_tokens(j->asked.stop_tokens, j->model->info.vocab, &j->stop_ids, &n, "stop_token_ids", "a list of ids of tokens",
                                             &j->call->failure)) return 0;
    j->params.generate.stop_tokens = j->stop_ids;
    j->params.generate.n_stop_tokens = (int32_t)n;
    return 1;
}

/* Tokens that a reply may have: what the request asks for, below the server's limit. */
static int32_t limit_of(const job *j) {
    int64_t most = j->asked.max_completion > 0 ? j->asked.max_completion : j->asked.max_tokens;
    const int64_t limit = j->server->options->max_tokens;
    if (most <= 0) most = 0;
    if (limit > 0 && (most == 0 || most > limit)) most = limit;
    return (int32_t)(most > INT32_MAX / 2 ? INT32_MAX / 2 : most);
}

/* A sampler for each reply; before any of them is submitted, for they share a grammar. */
static int make_samplers(job *j) {
    infer_error err;
    int i;
    if (j->grammar) j->asked.sampling.grammar = j->grammar;
    if (j->asked.sampling.grammar == NULL && j->model->plain && cli_sampling_greedy(&j->asked.sampling)) return 1;
    for (i = 0; i < j->n_choices; i++) {
        choice *c = &j->choices[i];
        c->sampler = cli_sampler_try(serve_command, j->model->model, &j->asked.sampling, j->seed + (uint64_t)i, &err);
        if (c->sampler == NULL)
            return fail(&j->call->failure, err.message[0] ? 400 : 503, NULL, NULL, "%s", err.message[0] ? err.message : "out of memory");
    }
    return 1;
}

int job_prepare(job *j) {
    infer_generate_params *g = &j->params.generate;
    const int64_t n = j->asked.n > 0 ? j->asked.n : 1;
    int i;
    g->max_tokens = limit_of(j);
    g->min_tokens = j->asked.min_tokens > 0 ? (int32_t)j->asked.min_tokens : 0;
    g->ignore_end = j->asked.ignore_eos;
    g->logprobs = j->k < 0 ? 0 : j->k > 0 ? j->k : 1;
    g->lookup = j->server->options->lookup;
    g->seconds = (double)j->server->options->seconds;
    j->seed = j->asked.seed >= 0                       ? (uint64_t)j->asked.seed
              : j->server->options->common->seed_given ? (uint64_t)j->server->options->common->seed
                                                       : cli_random_seed() ^ (uint64_t)(uintptr_t)j;
    if (!prepare_stops(j) || !prepare_stop_ids(j)) return 0;
    j->params.adapters = cli_adapters_list(&j->params.n_adapters);
    j->choices = calloc((size_t)n, sizeof *j->choices);
    if (j->choices == NULL) return fail(&j->call->failure, 503, NULL, NULL, "out of memory");
    j->n_choices = (int)n;
    for (i = 0; i < j->n_choices; i++) {
        j->choices[i].job = j;
        j->choices[i].index = i;
    }
    return make_samplers(j);
}

/* ---- submitting ----------------------------------------------------------------------------- */

static void job_list(job *j) {
    server *s = j->server;
    pthread_mutex_lock(&s->lock);
    j->after = s->jobs;
    if (s->jobs) s->jobs->before = j;
    s->jobs = j;
    pthread_mutex_unlock(&s->lock);
}

static void job_unlist(job *j) {
    server *s = j->server;
    pthread_mutex_lock(&s->lock);
    if (j->before) j->before->after = j->after;
    else if (s->jobs == j) s->jobs = j->after;
    if (j->after) j->after->before = j->before;
    pthread_mutex_unlock(&s->lock);
}

static int submit_one(job *j, choice *c) {
    infer_request_params p = j->params;
    infer_error err;
    infer_result r;
    failure *f = &j->call->failure;
    p.sampler = c->sampler;
    p.generate.user = c;
    p.generate.token = take_token;
    p.done = done;
    p.user = c;
    if (p.chat) {
        j->chat.fn = take_delta;
        j->chat.user = c;
    } else p.generate.text = take_text;
    if (j->choose) j->choose(j, c, &p);
    r = infer_queue_submit(j->model->queue, &p, &c->request, &err);
    if (r == INFER_OK) return 1;
    if (r == INFER_ERR_LIMIT && strncmp(err.message, "the queue is full", 17) == 0) {
        f->retry = 1;
        return fail(f, 429, "rate_limit_exceeded", NULL, "%s", err.message);
    }
    return fail_by(f, r, err.message[0] ? err.message : infer_result_string(r));
}

int job_submit(job *j) {
    int i;
    j->looked = platform_clock();
    for (i = 0; j->nothing && i < j->n_choices; i++) j->choices[i].done = 1;
    for (i = 0; !j->nothing && i < j->n_choices; i++) {
        if (!submit_one(j, &j->choices[i])) {
            while (i < j->n_choices) j->choices[i++].done = 1; /* never begun */
            return 0;
        }
    }
    if (!j->nothing) job_list(j);
    return 1;
}

int job_wait(job *j) {
    while (j->n_ended < j->n_choices && step(j)) {}
    job_failure(j, &j->call->failure);
    if (j->lost) fail(&j->call->failure, 408, NULL, NULL, "the client has gone");
    return j->call->failure.status == 0;
}

void job_answer(job *j) {
    call *c = j->call;
    if (c->failure.status || !job_prepare(j) || !job_submit(j)) {
        job_free(j);
        return;
    }
    if (j->stream) {
        c->job = j;
        c->type = "text/event-stream";
        return;
    }
    if (job_wait(j)) {
        j->writer->whole(j);
        if (j->out.failed) fail(&c->failure, 503, NULL, NULL, "out of memory");
        c->out = j->out;
        memset(&j->out, 0, sizeof j->out);
    }
    job_free(j);
}

void job_free(job *j) {
    int i, unfinished = 0;
    job_unlist(j);
    pthread_mutex_lock(&j->lock);
    j->gone = 1;
    pthread_mutex_unlock(&j->lock);
    job_cancel(j);
    for (i = 0; i < j->n_choices; i++) {
        choice *c = &j->choices[i];
        unfinished += c->request && !c->ended;
        if (c->request) infer_request_wait(c->request);
        infer_request_close(c->request);
        infer_sampler_destroy(c->sampler);
        out_end(&c->text);
        out_end(&c->reasoning);
        out_end(&c->calls);
        out_end(&c->logprobs);
    }
    if (unfinished || j->lost) {
        pthread_mutex_lock(&j->server->lock);
        j->server->counters.cancelled++;
        pthread_mutex_unlock(&j->server->lock);
    }
    infer_grammar_destroy(j->grammar);
    media_free(j);
    models_release(j->server, j->model);
    out_end(&j->messages);
    out_end(&j->tools);
    out_end(&j->variables);
    out_end(&j->begun);
    out_end(&j->ended);
    out_end(&j->tool);
    out_end(&j->events);
    out_end(&j->taken);
    out_end(&j->out);
    asked_free(&j->asked);
    free((void *)j->stops);
    free(j->stop_ids);
    if (j->own) j->own_free(j->own);
    free(j->choices);
    pthread_mutex_destroy(&j->lock);
    pthread_cond_destroy(&j->changed);
    free(j);
}
