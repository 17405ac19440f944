/* route.c: the paths of the server. */
#include "../serve.h"

#include <string.h>

static const route ROUTES[] = {
    {"GET", "/", FORM_OPENAI, 1, route_page},
    {"GET", "/index.html", FORM_OPENAI, 1, route_page},
    {"GET", "/health", FORM_OPENAI, 1, route_health},
    {"GET", "/v1/models", FORM_OPENAI, 0, route_models},
    {"GET", "/v1/models/", FORM_OPENAI, 0, route_model},
    {"GET", "/props", FORM_OPENAI, 0, route_props},
    {"GET", "/slots", FORM_OPENAI, 0, route_slots},
    {"GET", "/metrics", FORM_OPENAI, 0, route_metrics},
    {"POST", "/v1/chat/completions", FORM_OPENAI, 0, route_chat_completions},
    {"POST", "/v1/completions", FORM_OPENAI, 0, route_completions},
    {"POST", "/v1/embeddings", FORM_OPENAI, 0, route_embeddings},
    {"POST", "/v1/rerank", FORM_OPENAI, 0, route_rerank},
    {"POST", "/rerank", FORM_OPENAI, 0, route_rerank},
    {"POST", "/v1/responses", FORM_OPENAI, 0, route_responses},
    {"POST", "/v1/messages", FORM_ANTHROPIC, 0, route_messages},
    {"POST", "/v1/messages/count_tokens", FORM_ANTHROPIC, 0, route_count_tokens},
    {"POST", "/tokenize", FORM_OPENAI, 0, route_tokenize},
    {"POST", "/detokenize", FORM_OPENAI, 0, route_detokenize},
    {"POST", "/apply-template", FORM_OPENAI, 0, route_apply_template},
};

const route *route_find(const char *method, const char *path, const char **rest, int *known) {
    size_t i, n;
    *rest = "";
    if (strcmp(method, "HEAD") == 0) method = "GET"; /* whose body is then not sent */
    for (i = 0; i < sizeof ROUTES / sizeof ROUTES[0]; i++) {
        const route *r = &ROUTES[i];
        n = strlen(r->path);
        if (strncmp(path, r->path, n) != 0 || (path[n] && (r->path[n - 1] != '/' || n == 1))) continue;
        *known = 1;
        if (strcmp(method, r->method) != 0) continue;
        *rest = path + n;
        return r;
    }
    return NULL;
}
