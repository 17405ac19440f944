/* chat_completions.c: POST /v1/chat/completions. */
#include "serve.h"

#include <string.h>

static const parameter TABLE[] = {
    {"model", PARAM_TEXT, PARAM_AT(model), 0, 0, NULL},
    {"messages", PARAM_LIST, PARAM_AT(messages), 0, 0, NULL},
    {"stream", PARAM_FLAG, PARAM_AT(stream), 0, 0, NULL},
    {"stream_options", PARAM_OBJECT, PARAM_AT(stream_options), 0, 0, NULL},
    {"max_tokens", PARAM_INT, PARAM_AT(max_tokens), 1, 1e9, NULL},
    {"max_completion_tokens", PARAM_INT, PARAM_AT(max_completion), 1, 1e9, NULL},
    {"n", PARAM_INT, PARAM_AT(n), 1, MAX_CHOICES, NULL},
    {"stop", PARAM_ANY, PARAM_AT(stop), 0, 0, NULL},
    {"seed", PARAM_INT, PARAM_AT(seed), -1, 9e15, NULL},
    {"logprobs", PARAM_FLAG, PARAM_AT(logprobs), 0, 0, NULL},
    {"top_logprobs", PARAM_INT, PARAM_AT(top_logprobs), 0, 20, NULL},
    {"logit_bias", PARAM_OBJECT, PARAM_AT(logit_bias), 0, 0, NULL},
    {"tools", PARAM_LIST, PARAM_AT(tools), 0, 0, NULL},
    {"tool_choice", PARAM_ANY, PARAM_AT(tool_choice), 0, 0, NULL},
    {"parallel_tool_calls", PARAM_FLAG, PARAM_AT(parallel), 0, 0, NULL},
    {"response_format", PARAM_OBJECT, PARAM_AT(response_format), 0, 0, NULL},
    {"reasoning_effort", PARAM_TEXT, PARAM_AT(effort), 0, 0, NULL},
    SERVE_PARAMS_SAMPLING,
    SERVE_PARAMS_MORE,
    {"chat_template_kwargs", PARAM_OBJECT, PARAM_AT(variables), 0, 0, NULL},
    {"modalities", PARAM_ONLY, 0, 0, 0, "[\"text\"]"},
    {"prediction", PARAM_IGNORED, 0, 0, 0, NULL}, /* a hint for speed */
    SERVE_PARAMS_IGNORED,
};

/* ---- streams -------------------------------------------------------------------------------- */

/* An event: data has the delta of choice c; reason NULL = it goes on. */
static void chunk(job *j, choice *c, const cli_text *delta, const char *reason) {
    cli_text t;
    memset(&t, 0, sizeof t);
    out(&t, "{\"id\":%j,\"object\":\"chat.completion.chunk\",\"created\":%d,\"model\":%j,\"choices\":[{\"index\":%d,\"delta\":%s", j->id, j->created,
        j->model->id, (long long)c->index, delta->s);
    if (j->k >= 0 && c->logprobs.n) out(&t, ",\"logprobs\":{\"content\":[%S],\"refusal\":null}", c->logprobs.s, c->logprobs.n);
    else out(&t, ",\"logprobs\":null");
    out(&t, ",\"finish_reason\":%j}]%s}", reason, j->usage ? ",\"usage\":null" : "");
    out_clear(&c->logprobs);
    sse(j, NULL, &t);
    out_end(&t);
}

static void stream_start(job *j) {
    cli_text delta;
    int i;
    memset(&delta, 0, sizeof delta);
    out(&delta, "{\"role\":\"assistant\",\"content\":\"\"}");
    for (i = 0; i < j->n_choices; i++) chunk(j, &j->choices[i], &delta, NULL);
    out_end(&delta);
}

static void stream_text(job *j, choice *c, int reasoning, const char *s, size_t n) {
    cli_text delta;
    memset(&delta, 0, sizeof delta);
    out(&delta, "{%j:%J}", reasoning ? "reasoning_content" : "content", s, n);
    chunk(j, c, &delta, NULL);
    out_end(&delta);
}

static void stream_call(job *j, choice *c, int number, const char *id, const char *name) {
    cli_text delta;
    memset(&delta, 0, sizeof delta);
    out(&delta, "{\"tool_calls\":[{\"index\":%d,\"id\":%j,\"type\":\"function\",\"function\":{\"name\":%j,\"arguments\":\"\"}}]}", (long long)number,
        id, name);
    chunk(j, c, &delta, NULL);
    out_end(&delta);
}

static void stream_arguments(job *j, choice *c, int number, const char *s, size_t n) {
    cli_text delta;
    memset(&delta, 0, sizeof delta);
    out(&delta, "{\"tool_calls\":[{\"index\":%d,\"function\":{\"arguments\":%J}}]}", (long long)number, s, n);
    chunk(j, c, &delta, NULL);
    out_end(&delta);
}

static void stream_end(job *j, choice *c) {
    cli_text delta;
    memset(&delta, 0, sizeof delta);
    out(&delta, "{}");
    chunk(j, c, &delta, finish_reason(j, c));
    out_end(&delta);
}

static void stream_finish(job *j) {
    cli_text t;
    memset(&t, 0, sizeof t);
    if (j->usage) {
        out(&t, "{\"id\":%j,\"object\":\"chat.completion.chunk\",\"created\":%d,\"model\":%j,\"choices\":[],\"usage\":", j->id, j->created,
            j->model->id);
        write_usage(j, &t);
        out(&t, "}");
        sse(j, NULL, &t);
    }
    out_end(&t);
    out(&j->out, "data: [DONE]\n\n");
}

/* ---- the whole reply ------------------------------------------------------------------------ */

static void keep_text(job *j, choice *c, int reasoning, const char *s, size_t n) {
    (void)j;
    out(reasoning ? &c->reasoning : &c->text, "%S", s, n);
}

static void keep_call(job *j, choice *c, int number, const char *id, const char *name) {
    (void)j;
    out(&c->calls, "%s{\"id\":%j,\"type\":\"function\",\"function\":{\"name\":%j,\"arguments\":", number ? "," : "", id, name);
}

static void keep_arguments(job *j, choice *c, int number, const char *s, size_t n) {
    (void)j;
    (void)number;
    out(&c->calls, "%J}}", s, n);
}

static void keep_end(job *j, choice *c) {
    (void)j;
    (void)c;
}

static void whole_choice(job *j, choice *c) {
    out(&j->out, "%s{\"index\":%d,\"message\":{\"role\":\"assistant\",\"content\":", c->index ? "," : "", (long long)c->index);
    if (c->text.n == 0 && c->n_calls) out(&j->out, "null");
    else out(&j->out, "%J", c->text.s, c->text.n);
    out(&j->out, ",\"refusal\":null");
    if (c->reasoning.n) out(&j->out, ",\"reasoning_content\":%J", c->reasoning.s, c->reasoning.n);
    if (c->n_calls) out(&j->out, ",\"tool_calls\":[%S]", c->calls.s, c->calls.n);
    out(&j->out, "},\"logprobs\":");
    if (j->k >= 0) out(&j->out, "{\"content\":[%S],\"refusal\":null}", c->logprobs.n ? c->logprobs.s : "", c->logprobs.n);
    else out(&j->out, "null");
    out(&j->out, ",\"finish_reason\":%j}", finish_reason(j, c));
}

static void whole(job *j) {
    int i;
    out(&j->out, "{\"id\":%j,\"object\":\"chat.completion\",\"created\":%d,\"model\":%j,\"choices\":[", j->id, j->created, j->model->id);
    for (i = 0; i < j->n_choices; i++) whole_choice(j, &j->choices[i]);
    out(&j->out, "],\"usage\":");
    write_usage(j, &j->out);
    out(&j->out, "}");
}

static const writer STREAM = {stream_start, stream_text, stream_call, stream_arguments, stream_end, stream_finish, sse_broken, NULL};
static const writer WHOLE = {NULL, keep_text, keep_call, keep_arguments, keep_end, NULL, NULL, whole};

/* ---- the request ---------------------------------------------------------------------------- */

static int prepare(job *j) {
    failure *f = &j->call->failure;
    asked *a = &j->asked;
    j->usage = infer_json_kind(infer_json_get(a->stream_options, "include_usage")) == INFER_JSON_TRUE;
    if (a->stream_options && !a->stream) return fail(f, 400, NULL, "stream_options", "'stream_options' needs 'stream'");
    if (a->top_logprobs >= 0 && !a->logprobs) return fail(f, 400, NULL, "top_logprobs", "'top_logprobs' needs 'logprobs'");
    if (a->logprobs) j->k = a->top_logprobs > 0 ? (int)a->top_logprobs : 0;
    a->has_parallel = infer_json_kind(infer_json_get(j->call->json, "parallel_tool_calls")) != INFER_JSON_NULL;
    return chat_messages(j, a->messages) && chat_variables(j) && chat_response_format(j, a->response_format, "response_format") &&
           chat_tools(j, a->tools, a->tool_choice) && chat_check(j);
}

void route_chat_completions(call *c) {
    job *j = job_create(c, &WHOLE, TABLE, sizeof TABLE / sizeof TABLE[0]);
    if (j == NULL) return;
    if (j->stream) j->writer = &STREAM;
    random_id(j->id, sizeof j->id, "chatcmpl-");
    prepare(j);
    job_answer(j);
}
