/* failure.c: why a request is not served, in the form of each interface. */
#include "serve.h"

#include <stdarg.h>
#include <string.h>

const char *serve_command = "serve";

int fail(failure *f, int status, const char *code, const char *param, const char *format, ...) {
    va_list list;
    if (f->status) return 0;
    f->status = status;
    f->code = code;
    snprintf(f->param, sizeof f->param, "%s", param ? param : "");
    va_start(list, format);
    vsnprintf(f->message, sizeof f->message, format, list);
    va_end(list);
    return 0;
}

int fail_by(failure *f, infer_result result, const char *message) {
    static const struct { infer_result result; int status; const char *code; } ROWS[] = {
        {INFER_CONTEXT_FULL, 400, "context_length_exceeded"},
        {INFER_ERR_ARGUMENT, 400, NULL},
        {INFER_ERR_FORMAT, 400, NULL},
        {INFER_ERR_UNSUPPORTED, 400, "unsupported"},
        {INFER_ERR_STATE, 400, NULL}, /* a template's own refusal, a grammar that the vocabulary cannot spell */
        {INFER_ERR_LIMIT, 400, "limit_exceeded"},
        {INFER_CANCELLED, 503, "cancelled"},
    };
    size_t i;
    for (i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        if (ROWS[i].result == result) return fail(f, ROWS[i].status, ROWS[i].code, NULL, "%s", message);
    }
    return fail(f, 500, NULL, NULL, "%s", message);
}

/* The kinds of errors: OpenAI's and Anthropic's names of an HTTP status. */
static const struct { int status; const char *openai, *anthropic; } TYPES[] = {
    {400, "invalid_request_error", "invalid_request_error"},
    {401, "authentication_error", "authentication_error"},
    {403, "permission_error", "permission_error"},
    {404, "invalid_request_error", "not_found_error"},
    {405, "invalid_request_error", "invalid_request_error"},
    {408, "invalid_request_error", "invalid_request_error"},
    {413, "invalid_request_error", "request_too_large"},
    {429, "rate_limit_error", "rate_limit_error"},
    {500, "server_error", "api_error"},
    {503, "server_error", "overloaded_error"},
};

void failure_body(cli_text *t, int form, const failure *f) {
    size_t i = 0;
    while (i + 1 < sizeof TYPES / sizeof TYPES[0] && TYPES[i].status != f->status) i++;
    if (form == FORM_ANTHROPIC) {
        out(t, "{\"type\":\"error\",\"error\":{\"type\":%j,\"message\":%j}}", TYPES[i].anthropic, f->message);
        return;
    }
    out(t, "{\"error\":{\"message\":%j,\"type\":%j,\"param\":%j,\"code\":%j}}", f->message, TYPES[i].openai, f->param[0] ? f->param : NULL, f->code);
}
