/* reply.c: parts of replies that several interfaces have. */
#include "serve.h"

#include <stdlib.h>
#include <string.h>

int reply_cut(const choice *c) {
    const int32_t why = c->info.generate.stop_reason;
    return why == INFER_STOP_LIMIT || why == INFER_STOP_FULL || why == INFER_STOP_TIME;
}

const char *finish_reason(const choice *c) { return c->n_calls ? "tool_calls" : reply_cut(c) ? "length" : "stop"; }

void reply_text(job *j, choice *c, int reasoning, const char *s, size_t n) {
    (void)j;
    out(reasoning ? &c->reasoning : &c->text, "%S", s, n);
}

void reply_call(job *j, choice *c, int number, const char *id, const char *name) {
    (void)j;
    out(&c->calls, "%s{\"id\":%j,\"type\":\"function\",\"function\":{\"name\":%j,\"arguments\":", number ? "," : "", id, name);
}

void reply_arguments(job *j, choice *c, int number, const char *s, size_t n) {
    (void)j;
    (void)number;
    out(&c->calls, "%J}}", s, n);
}

void write_head(const job *j, cli_text *t, const char *object) {
    out(t, "{\"id\":%j,\"object\":%j,\"created\":%d,\"model\":%j,\"choices\":[", j->id, object, j->created, j->model->id);
}

void write_tail(const job *j, cli_text *t) {
    long long prompt = 0, cached = 0, fresh = 0, reasoning = 0;
    int i;
    for (i = 0; i < j->n_choices; i++) {
        const choice *c = &j->choices[i];
        if (i % (j->n_choices / j->groups) == 0) {
            prompt += c->info.generate.prompt_tokens;
            cached += c->info.reused;
        }
        fresh += c->info.generate.new_tokens;
        reasoning += c->reasoning_tokens;
    }
    out(t, "],\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d,\"total_tokens\":%d,\"prompt_tokens_details\":{\"cached_tokens\":%d},"
           "\"completion_tokens_details\":{\"reasoning_tokens\":%d}}}", prompt, fresh, prompt + fresh, cached, reasoning);
}

void sse_done(job *j, const char *object) {
    if (j->usage) {
        cli_text *t = sse_begin(j, NULL);
        write_head(j, t, object);
        write_tail(j, t);
        sse_end(j);
    }
    out(&j->out, "data: [DONE]\n\n");
}

int take_stream_options(job *j) {
    const infer_json *given = j->asked.stream_options;
    j->usage = infer_json_kind(infer_json_get(given, "include_usage")) == INFER_JSON_TRUE;
    return given == NULL || j->stream || fail(&j->call->failure, 400, NULL, "stream_options", "'stream_options' needs 'stream'");
}

size_t token_text(const served *m, infer_token token, char *text) {
    size_t n = 0;
    if (infer_token_text(m->model, token, text, TOKEN_BYTES, &n) != INFER_OK) return 0;
    return n < TOKEN_BYTES ? n : TOKEN_BYTES;
}

/* A name that does not come twice: not a secret. */
void random_id(char *to, size_t cap, const char *prefix) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static uint64_t state;
    uint64_t x;
    pthread_mutex_lock(&lock);
    if (state == 0) state = cli_random_seed() << 32 | 1;
    state += 0x9e3779b97f4a7c15u;
    x = state;
    pthread_mutex_unlock(&lock);
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u; /* splitmix64, as args.c */
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    snprintf(to, cap, "%s%016llx", prefix, (unsigned long long)(x ^ (x >> 31)));
}

cli_text *sse_begin(job *j, const char *name) {
    if (name) out(&j->out, "event: %s\n", name);
    out(&j->out, "data: ");
    return &j->out;
}

void sse_end(job *j) { out(&j->out, "\n\n"); }

void sse_broken(job *j, const failure *f) {
    failure_body(sse_begin(j, j->call->form == FORM_ANTHROPIC ? "error" : NULL), j->call->form, f);
    sse_end(j);
}
