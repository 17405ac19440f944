/* chat_completions.c: POST /v1/chat/completions. */
#include "../serve.h"

#include <string.h>

static const parameter TABLE[] = {
    SERVE_PARAMS_REPLY,
    SERVE_PARAMS_REPLIES,
    SERVE_PARAMS_TEMPLATE,
    SERVE_PARAMS_TOOLS,
    SERVE_PARAMS_CHAT,
    {"logprobs", PARAM_FLAG, PARAM_AT(logprobs), 0, 0, NULL},
    {"top_logprobs", PARAM_INT, PARAM_AT(top_logprobs), 0, 20, NULL},
    SERVE_PARAMS_SAMPLING,
    SERVE_PARAMS_MORE,
    {"modalities", PARAM_ONLY, 0, 0, 0, "[\"text\"]"},
    {"prediction", PARAM_IGNORED, 0, 0, 0, NULL}, /* a hint for speed */
    SERVE_PARAMS_IGNORED,
};

/* ---- log probabilities ---------------------------------------------------------------------- */

/* A row {"token", ...}, up to its end. */
static void write_token(const job *j, cli_text *t, infer_token token, double logprob) {
    char text[TOKEN_BYTES];
    const size_t n = token_text(j->model, token, text);
    size_t i;
    out(t, "{\"token\":%J,\"logprob\":%g,\"bytes\":[", text, n, logprob);
    for (i = 0; i < n; i++) out(t, i ? ",%d" : "%d", (long long)(unsigned char)text[i]);
    out(t, "]");
}

static void on_token(job *j, choice *c, infer_token token, double logprob, const infer_top *top, int n) {
    cli_text *t = &c->logprobs;
    int i;
    if (t->n) out(t, ",");
    write_token(j, t, token, logprob);
    out(t, ",\"top_logprobs\":[");
    for (i = 0; i < n; i++) {
        if (i) out(t, ",");
        write_token(j, t, top[i].token, (double)top[i].logprob);
        out(t, "}");
    }
    out(t, "]}");
}

/* What follows a message or a delta; reason NULL = it goes on. */
static void write_end(const choice *c, cli_text *t, int logprobs, const char *reason) {
    if (logprobs) out(t, ",\"logprobs\":{\"content\":[%t],\"refusal\":null}", &c->logprobs);
    else out(t, ",\"logprobs\":null");
    out(t, ",\"finish_reason\":%j}", reason);
}

/* ---- streams -------------------------------------------------------------------------------- */

static const char CHUNK[] = "chat.completion.chunk";

/* An event of choice c, whose delta is to be appended. */
static cli_text *chunk(job *j, const choice *c) {
    cli_text *t = sse_begin(j, NULL);
    write_head(j, t, CHUNK);
    out(t, "{\"index\":%d,\"delta\":", (long long)c->index);
    return t;
}

static void chunk_end(job *j, choice *c, const char *reason) {
    write_end(c, &j->out, c->logprobs.n > 0, reason);
    out(&j->out, "]%s}", j->usage ? ",\"usage\":null" : "");
    out_clear(&c->logprobs);
    sse_end(j);
}

static void stream_start(job *j) {
    int i;
    for (i = 0; i < j->n_choices; i++) {
        out(chunk(j, &j->choices[i]), "{\"role\":\"assistant\",\"content\":\"\"}");
        chunk_end(j, &j->choices[i], NULL);
    }
}

static void stream_text(job *j, choice *c, int reasoning, const char *s, size_t n) {
    out(chunk(j, c), "{%j:%J}", reasoning ? "reasoning_content" : "content", s, n);
    chunk_end(j, c, NULL);
}

static void stream_call(job *j, choice *c, int number, const char *id, const char *name) {
    out(chunk(j, c), "{\"tool_calls\":[{\"index\":%d,\"id\":%j,\"type\":\"function\",\"function\":{\"name\":%j,\"arguments\":\"\"}}]}",
        (long long)number, id, name);
    chunk_end(j, c, NULL);
}

static void stream_arguments(job *j, choice *c, int number, const char *s, size_t n) {
    out(chunk(j, c), "{\"tool_calls\":[{\"index\":%d,\"function\":{\"arguments\":%J}}]}", (long long)number, s, n);
    chunk_end(j, c, NULL);
}

static void stream_end(job *j, choice *c) {
    out(chunk(j, c), "{}");
    chunk_end(j, c, finish_reason(c));
}

static void stream_finish(job *j) { sse_done(j, CHUNK); }

/* ---- the whole reply ------------------------------------------------------------------------ */

static void whole_choice(job *j, choice *c) {
    out(&j->out, "%s{\"index\":%d,\"message\":{\"role\":\"assistant\",\"content\":", c->index ? "," : "", (long long)c->index);
    if (c->text.n == 0 && c->n_calls) out(&j->out, "null");
    else out(&j->out, "%T", &c->text);
    out(&j->out, ",\"refusal\":null");
    if (c->reasoning.n) out(&j->out, ",\"reasoning_content\":%T", &c->reasoning);
    if (c->n_calls) out(&j->out, ",\"tool_calls\":[%t]", &c->calls);
    out(&j->out, "}");
    write_end(c, &j->out, j->k >= 0, finish_reason(c));
}

static void whole(job *j) {
    int i;
    write_head(j, &j->out, "chat.completion");
    for (i = 0; i < j->n_choices; i++) whole_choice(j, &j->choices[i]);
    write_tail(j, &j->out);
}

static const writer STREAM = {stream_start, on_token, stream_text, stream_call, stream_arguments, stream_end, stream_finish, sse_broken, NULL};
static const writer WHOLE = {NULL, on_token, reply_text, reply_call, reply_arguments, NULL, NULL, NULL, whole};

/* ---- the request ---------------------------------------------------------------------------- */

static int prepare(job *j) {
    failure *f = &j->call->failure;
    asked *a = &j->asked;
    if (!take_stream_options(j)) return 0;
    if (a->top_logprobs >= 0 && !a->logprobs) return fail(f, 400, NULL, "top_logprobs", "'top_logprobs' needs 'logprobs'");
    if (a->logprobs) j->k = a->top_logprobs > 0 ? (int)a->top_logprobs : 0;
    return chat_prepare(j);
}

void route_chat_completions(call *c) {
    job *j = job_create(c, &WHOLE, TABLE, sizeof TABLE / sizeof TABLE[0]);
    if (j == NULL) return;
    if (j->stream) j->writer = &STREAM;
    random_id(j->id, sizeof j->id, "chatcmpl-");
    prepare(j);
    job_answer(j);
}
