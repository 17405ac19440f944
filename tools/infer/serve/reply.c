/* reply.c: parts of replies that several interfaces have. */
#include "serve.h"

#include <stdlib.h>
#include <string.h>

const char *finish_reason(const job *j, const choice *c) {
    static const struct { int32_t stop; const char *reason; } REASONS[] = {
        {INFER_STOP_LIMIT, "length"}, {INFER_STOP_FULL, "length"}, {INFER_STOP_TIME, "length"},
    };
    size_t i;
    (void)j;
    if (c->n_calls) return "tool_calls";
    for (i = 0; i < sizeof REASONS / sizeof REASONS[0]; i++) {
        if (REASONS[i].stop == c->info.generate.stop_reason) return REASONS[i].reason;
    }
    return "stop";
}

void write_usage(const job *j, cli_text *t) {
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
    out(t, "{\"prompt_tokens\":%d,\"completion_tokens\":%d,\"total_tokens\":%d,\"prompt_tokens_details\":{\"cached_tokens\":%d},"
           "\"completion_tokens_details\":{\"reasoning_tokens\":%d}}", prompt, fresh, prompt + fresh, cached, reasoning);
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

void sse(job *j, const char *name, const cli_text *data) {
    if (name) out(&j->out, "event: %s\n", name);
    out(&j->out, "data: %S\n\n", data->s ? data->s : "", data->n);
}

void sse_broken(job *j, const failure *f) {
    cli_text t;
    memset(&t, 0, sizeof t);
    failure_body(&t, j->call->form, f);
    sse(j, j->call->form == FORM_ANTHROPIC ? "error" : NULL, &t);
    out_end(&t);
}
