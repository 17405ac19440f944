/* text.c: POST /tokenize, /detokenize and /apply-template. */
#include "../serve.h"

#include <stdlib.h>
#include <string.h>

static const parameter TOKENIZE[] = {
    SERVE_PARAM_MODEL,
    {"content", PARAM_TEXT, PARAM_AT(content), 0, 0, NULL},
    {"add_special", PARAM_FLAG, PARAM_AT(add_special), 0, 0, NULL},
    {"parse_special", PARAM_FLAG, PARAM_AT(parse_special), 0, 0, NULL},
    {"with_pieces", PARAM_FLAG, PARAM_AT(with_pieces), 0, 0, NULL},
};

static int is_utf8(const char *s, size_t n) {
    size_t i = 0, len;
    for (; i < n; i += len) {
        len = cli_utf8_length(s + i, n - i);
        if (len == 0) return 0;
    }
    return 1;
}

static void write_piece(cli_text *t, const served *m, infer_token token) {
    char text[TOKEN_BYTES];
    const size_t n = token_text(m, token, text);
    size_t i;
    if (is_utf8(text, n)) out(t, "{\"id\":%d,\"piece\":%J}", (long long)token, text, n);
    else { /* a part of a character: its bytes */
        out(t, "{\"id\":%d,\"piece\":[", (long long)token);
        for (i = 0; i < n; i++) out(t, i ? ",%d" : "%d", (long long)(unsigned char)text[i]);
        out(t, "]}");
    }
}

static void tokenize(call *c, const asked *a, const served *m) {
    const int32_t flags = (a->add_special ? INFER_TEXT_ADD_SPECIAL : 0) | (a->parse_special ? INFER_TEXT_PARSE_SPECIAL : 0);
    infer_token *ids = NULL;
    size_t count, i;
    if (a->content == NULL) fail(&c->failure, 400, NULL, "content", "'content' is missing");
    else if (text_tokens(m, a->content, strlen(a->content), NULL, flags, &ids, &count, &c->failure)) {
        out(&c->out, "{\"tokens\":[");
        for (i = 0; i < count; i++) {
            if (i) out(&c->out, ",");
            if (a->with_pieces) write_piece(&c->out, m, ids[i]);
            else out(&c->out, "%d", (long long)ids[i]);
        }
        out(&c->out, "],\"count\":%d}", (long long)count);
    }
    free(ids);
}

/* The model of a request that needs no queue: for one call of fn. */
static void with_model(call *c, const parameter *table, size_t n, void (*fn)(call *c, const asked *a, const served *m)) {
    asked a;
    served *m = NULL;
    if (asked_read(&a, c->json, table, n, NULL, &c->failure)) m = models_take(c->server, a.model, &c->failure);
    if (m) fn(c, &a, m);
    models_release(c->server, m);
    asked_free(&a);
}

void route_tokenize(call *c) { with_model(c, TOKENIZE, sizeof TOKENIZE / sizeof TOKENIZE[0], tokenize); }

/* ---- back ----------------------------------------------------------------------------------- */

static const parameter DETOKENIZE[] = {
    SERVE_PARAM_MODEL,
    {"tokens", PARAM_LIST, PARAM_AT(tokens), 0, 0, NULL},
};

static void detokenize(call *c, const asked *a, const served *m) {
    infer_token *ids = NULL;
    char *text = NULL;
    infer_error err;
    infer_result r;
    size_t n, length = 0;
    if (a->tokens == NULL) fail(&c->failure, 400, NULL, "tokens", "'tokens' is missing");
    else if (json_tokens(a->tokens, m->info.vocab, &ids, &n, "tokens", "a list of ids of tokens", &c->failure)) {
        r = infer_detokenize(m->model, ids, n, INFER_TEXT_WRITE_SPECIAL, NULL, 0, &length, &err);
        if (r == INFER_OK && (text = cli_alloc(serve_command, length + 1, 1)) == NULL) fail(&c->failure, 503, NULL, NULL, "out of memory");
        if (text) r = infer_detokenize(m->model, ids, n, INFER_TEXT_WRITE_SPECIAL, text, length, &length, &err);
        if (r == INFER_OK) out(&c->out, "{\"content\":%J}", text ? text : "", text ? length : 0);
        else fail_by(&c->failure, r, err.message);
    }
    free(text);
    free(ids);
}

void route_detokenize(call *c) { with_model(c, DETOKENIZE, sizeof DETOKENIZE / sizeof DETOKENIZE[0], detokenize); }

/* ---- templates ------------------------------------------------------------------------------ */

static const parameter TEMPLATE[] = {
    SERVE_PARAM_MODEL,
    {"messages", PARAM_LIST, PARAM_AT(messages), 0, 0, NULL},
    SERVE_PARAMS_TEMPLATE,
};

void route_apply_template(call *c) {
    job *j = job_create(c, NULL, TEMPLATE, sizeof TEMPLATE / sizeof TEMPLATE[0]);
    infer_rendering *made = NULL;
    infer_error err;
    infer_result r;
    if (j == NULL) return;
    if (chat_messages(j, j->asked.messages) && chat_variables(j) && chat_tools(j, j->asked.tools, NULL)) {
        r = infer_chat_render(j->model->model, &j->chat, &made, &err);
        if (r == INFER_OK) out(&c->out, "{\"prompt\":%J}", made->text, made->n);
        else fail_by(&c->failure, r, err.message);
        infer_rendering_free(made);
    }
    job_free(j);
}
