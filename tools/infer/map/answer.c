/* answer.c: lines as requests of a queue. */
#include "map.h"

#include <stdlib.h>

static const parameter TABLE[] = {
    SERVE_IGNORED("id"), SERVE_IGNORED("model"), /* the command names the model */
    SERVE_PARAMS_PROMPT,
    SERVE_PARAMS_CHAT,
    SERVE_PARAM_SEED,
    SERVE_PARAMS_FORM,
    {"schema", PARAM_OBJECT, PARAM_AT(schema), 0, 0, NULL},
    {"stream", PARAM_ONLY, 0, 0, 0, "false"},
    {"n", PARAM_ONLY, 0, 0, 0, "1"},
    SERVE_PARAMS_TEMPLATE,
    SERVE_PARAMS_TOOLS,
    SERVE_PARAMS_SAMPLING,
    SERVE_PARAMS_MORE,
    SERVE_PARAMS_IGNORED,
};

/* ---- a line --------------------------------------------------------------------------------- */

/* The queue's thread calls it. */
static void ended(job *j) {
    map *m = (map *)(void *)j->server;
    map_item *it = (map_item *)(void *)j->call;
    pthread_mutex_lock(&m->lock);
    it->next_done = m->done;
    m->done = it;
    pthread_cond_signal(&m->changed);
    pthread_mutex_unlock(&m->lock);
}

static void own_tokens(void *ids) { free(ids); }

static int prepare(map *m, job *j) {
    enum { TOKENS_USUAL = 128 }; /* as infer run */
    asked *a = &j->asked;
    failure *f = &j->call->failure;
    infer_token *ids;
    size_t n;
    if ((a->prompt == NULL) == (a->messages == NULL)) return fail(f, 400, NULL, NULL, "the line must have one of 'prompt' and 'messages'");
    if (a->max_tokens < 0 && a->max_completion < 0) a->max_tokens = m->options->limit != MAP_LIMIT_USUAL ? m->options->limit : a->prompt ? TOKENS_USUAL : -1;
    j->formed = a->sampling.grammar != NULL; /* of all lines */
    if (a->messages) return !a->suffix ? chat_prepare(j) : fail(f, 400, NULL, "suffix", "'suffix' needs a 'prompt'");
    if (a->tools || a->tool_choice || a->variables || a->effort)
        return fail(f, 400, NULL, NULL, "'%s' needs 'messages'", a->tools ? "tools" : a->tool_choice ? "tool_choice" : a->effort ? "reasoning_effort" : "chat_template_kwargs");
    if (!chat_response_format(j, a->response_format, "response_format")) return 0;
    n = 0;
    ids = NULL;
    if (prompt_tokens(j->model, a->prompt, a->suffix, "a text or a list of tokens", &ids, &n, f)) {
        j->params.tokens = ids;
        j->params.n_tokens = (int32_t)n;
    }
    j->own = ids;
    j->own_free = own_tokens;
    return f->status == 0;
}

/* Of pictures and sounds that are being encoded. */
static int still_wanted(call *c) {
    (void)c;
    return system_wait(0) < 2;
}

static const writer WRITER = {NULL, NULL, reply_text, reply_call, reply_arguments, NULL, NULL, NULL, NULL};

static void begin(map *m, map_item *it) {
    job *j;
    it->call.alive = still_wanted;
    j = job_create(&it->call, &WRITER, TABLE, sizeof TABLE / sizeof TABLE[0]);
    if (j) j->on_ended = ended;
    if (j && prepare(m, j) && job_prepare(j) && job_submit(j)) {
        it->job = j;
        m->running++;
        return;
    }
    if (j) job_free(j);
    map_item_failed(it);
}

static void write_reply(map_item *it) {
    job *j = it->job;
    choice *c = &j->choices[0];
    cli_text *t = &it->out;
    int32_t i, n_prompt = 0, n = 0;
    const infer_token *ids = infer_request_tokens(c->request, &n_prompt, &n);
    out(t, "{\"id\":");
    map_id(it, t);
    out(t, ",\"text\":%T", &c->text);
    if (c->reasoning.n) out(t, ",\"reasoning\":%T", &c->reasoning);
    if (c->n_calls) out(t, ",\"tool_calls\":[%t]", &c->calls);
    out(t, ",\"tokens\":[");
    for (i = n_prompt; i < n; i++) out(t, i > n_prompt ? ",%d" : "%d", (long long)ids[i]);
    it->prompt = c->info.generate.prompt_tokens;
    it->fresh = c->info.generate.new_tokens;
    out(t, "],\"finish_reason\":%j,\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d}}\n", finish_reason(c), (long long)it->prompt,
        (long long)it->fresh);
}

/* The job has ended. */
static void finish(map *m, map_item *it) {
    const int ok = job_wait(it->job);
    if (ok) write_reply(it);
    job_free(it->job);
    it->job = NULL;
    m->running--;
    if (ok) map_item_answered(it);
    else map_item_failed(it);
}

/* ---- all lines ------------------------------------------------------------------------------ */

/* Ends replies without writing them: those that have not begun, or all. */
static void drop(map *m, int all) {
    map_item *it, **at;
    infer_request_info info;
    for (it = m->head; it; it = it->next) {
        if (it->state != ITEM_RUNS) continue;
        if (!all && infer_request_get_info(it->job->choices[0].request, &info) == INFER_OK && info.state != INFER_REQUEST_WAITING) continue;
        job_free(it->job); /* then it is in m->done */
        it->job = NULL;
        it->state = ITEM_DROPPED;
        m->running--;
        pthread_mutex_lock(&m->lock);
        for (at = &m->done; *at && *at != it; at = &(*at)->next_done) {}
        if (*at) *at = it->next_done;
        pthread_mutex_unlock(&m->lock);
    }
}

static void answer_all(map *m) {
    const int slots = (int)m->serve.slots;
    map_item *it, *done;
    int stopped;
    do {
        /* as many again wait for a slot; the others are there for replies that are waited for by those behind them */
        it = map_next(m, 1, m->running < 2 * slots ? (size_t)slots * 16 : 0, &done);
        for (; done; done = done->next_done) finish(m, done);
        if (it && map_item_add(m, it) && it->state == ITEM_RUNS) begin(m, it);
        map_write(m);
        stopped = map_stopped(m);
        if (stopped) drop(m, stopped == 2);
    } while (m->running || !map_ended(m));
    map_write(m);
}

int map_answer(map *m) {
    int ok;
    m->server.options = &m->serve;
    pthread_mutex_init(&m->server.lock, NULL);
    pthread_mutex_init(&m->server.models_lock, NULL);
    pthread_cond_init(&m->server.models_changed, NULL);
    pthread_cond_init(&m->server.media_changed, NULL);
    ok = models_open(&m->server);
    if (ok && m->server.models->queue == NULL) ok = cli_fail(serve_command, "%s does not generate: %s", m->serve.model, m->server.models->why_no_queue) == CLI_DONE;
    ok = ok && cli_grammar(serve_command, m->server.models->model, &m->common->sampling) && map_open_output(m);
    if (ok) answer_all(m);
    infer_grammar_destroy(m->common->sampling.grammar);
    models_close(&m->server);
    return ok;
}
