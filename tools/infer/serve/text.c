/* text.c: POST /tokenize, /detokenize and /apply-template. */
#include "serve.h"

#include <stdlib.h>
#include <string.h>

static const parameter TOKENIZE[] = {
    {"model", PARAM_TEXT, PARAM_AT(model), 0, 0, NULL},
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

static void write_piece(cli_text *t, const infer_model *model, infer_token token) {
    char text[512];
    size_t n = 0, i;
    if (infer_token_text(model, token, text, sizeof text, &n) != INFER_OK || n > sizeof text) n = 0;
    if (is_utf8(text, n)) out(t, "{\"id\":%d,\"piece\":%J}", (long long)token, text, n);
    else { /* a part of a character: its bytes */
        out(t, "{\"id\":%d,\"piece\":[", (long long)token);
        for (i = 0; i < n; i++) out(t, i ? ",%d" : "%d", (long long)(unsigned char)text[i]);
        out(t, "]}");
    }
}

static void tokenize(call *c, const asked *a, const served *m) {
    const int32_t flags = (a->add_special ? INFER_TEXT_ADD_SPECIAL : 0) | (a->parse_special ? INFER_TEXT_PARSE_SPECIAL : 0);
    infer_token *ids;
    infer_error err;
    size_t count = 0, i;
    infer_result r;
    if (a->content == NULL) {
        fail(&c->failure, 400, NULL, "content", "'content' is missing");
        return;
    }
    ids = cli_alloc("serve", strlen(a->content) + 16, sizeof *ids);
    r = ids ? infer_tokenize(m->model, a->content, strlen(a->content), flags, ids, strlen(a->content) + 16, &count, &err) : INFER_ERR_MEMORY;
    if (r != INFER_OK || count > strlen(a->content) + 16)
        fail_by(&c->failure, r == INFER_OK ? INFER_ERR_MEMORY : r, ids ? err.message : "out of memory");
    else {
        out(&c->out, "{\"tokens\":[");
        for (i = 0; i < count; i++) {
            if (i) out(&c->out, ",");
            if (a->with_pieces) write_piece(&c->out, m->model, ids[i]);
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
    {"model", PARAM_TEXT, PARAM_AT(model), 0, 0, NULL},
    {"tokens", PARAM_LIST, PARAM_AT(tokens), 0, 0, NULL},
};

static void detokenize(call *c, const asked *a, const served *m) {
    const size_t n = infer_json_count(a->tokens);
    infer_token *ids;
    char *text = NULL;
    infer_error err;
    infer_result r;
    size_t i, length = 0;
    if (a->tokens == NULL) {
        fail(&c->failure, 400, NULL, "tokens", "'tokens' is missing");
        return;
    }
    ids = cli_alloc("serve", n + 1, sizeof *ids);
    for (i = 0; ids && i < n; i++) {
        const infer_json *v = infer_json_at(a->tokens, i);
        const int64_t id = infer_json_int(v);
        if (infer_json_kind(v) != INFER_JSON_INT || id < 0 || id >= m->info.vocab)
            fail(&c->failure, 400, NULL, "tokens", "'tokens' must be a list of ids of tokens");
        ids[i] = (infer_token)id;
    }
    r = ids && !c->failure.status ? infer_detokenize(m->model, ids, n, INFER_TEXT_WRITE_SPECIAL, NULL, 0, &length, &err) : INFER_ERR_MEMORY;
    if (r == INFER_OK) text = cli_alloc("serve", length + 1, 1);
    if (text) r = infer_detokenize(m->model, ids, n, INFER_TEXT_WRITE_SPECIAL, text, length, &length, &err);
    if (text && r == INFER_OK) out(&c->out, "{\"content\":%J}", text, length);
    else fail_by(&c->failure, r, ids && r != INFER_OK ? err.message : "out of memory");
    free(text);
    free(ids);
}

void route_detokenize(call *c) { with_model(c, DETOKENIZE, sizeof DETOKENIZE / sizeof DETOKENIZE[0], detokenize); }

/* ---- templates ------------------------------------------------------------------------------ */

static const parameter TEMPLATE[] = {
    {"model", PARAM_TEXT, PARAM_AT(model), 0, 0, NULL},
    {"messages", PARAM_LIST, PARAM_AT(messages), 0, 0, NULL},
    {"tools", PARAM_LIST, PARAM_AT(tools), 0, 0, NULL},
    {"chat_template_kwargs", PARAM_OBJECT, PARAM_AT(variables), 0, 0, NULL},
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
