/* A model calls a function of yours. With a reply that is made up, no model is needed:
 *     cc -O2 examples/tools.c -o tools -lm -lpthread && ./tools --canned
 *     ./tools model.gguf         (its chat template should know tools) */
#define INFER_IMPLEMENTATION
#include "../infer.h"
#include <stdio.h>
#include <string.h>

static const char TOOLS[] = "[{\"type\":\"function\",\"function\":{\"name\":\"add\",\"description\":\"Add two numbers\",\"parameters\":"
    "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"number\"},\"b\":{\"type\":\"number\"}},\"required\":[\"a\",\"b\"]}}}]";
#define QUESTION "{\"role\":\"user\",\"content\":\"What is 1234 + 4321? Use the tool.\"}"

/* The tool: its answer as text, which is JSON too. */
static int call(const infer_chat_call *c, char *answer, size_t cap) {
    infer_json *args = NULL;
    double a, b;
    if (strcmp(c->name, "add") != 0) return snprintf(answer, cap, "there is no tool %s", c->name);
    if (infer_json_parse(&args, c->arguments, c->n_arguments, NULL, NULL)) return snprintf(answer, cap, "bad arguments");
    a = infer_json_number(infer_json_get(args, "a"));
    b = infer_json_number(infer_json_get(args, "b"));
    infer_json_free(args);
    return snprintf(answer, cap, "%g", a + b);
}

/* Calls of a reply, answered; the conversation with both behind the question. 0 = there was no call. */
static size_t answer_calls(const infer_chat_reply *r, char *messages, size_t cap) {
    char answer[100];
    size_t i, at = (size_t)snprintf(messages, cap, "[" QUESTION ",{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[");
    for (i = 0; i < r->n_calls && at < cap; i++) /* a call with a longer conversation would have to be escaped */
        at += (size_t)snprintf(messages + at, cap - at, "%s{\"id\":\"%s\",\"type\":\"function\",\"function\":{\"name\":\"%s\",\"arguments\":%s}}",
                               i ? "," : "", r->calls[i].id, r->calls[i].name, r->calls[i].arguments);
    at += (size_t)snprintf(messages + at, at < cap ? cap - at : 0, "]}");
    for (i = 0; i < r->n_calls && at < cap; i++) {
        call(&r->calls[i], answer, sizeof answer);
        printf("%s%s = %s\n", r->calls[i].name, r->calls[i].arguments, answer);
        at += (size_t)snprintf(messages + at, cap - at, ",{\"role\":\"tool\",\"tool_call_id\":\"%s\",\"name\":\"%s\",\"content\":\"%s\"}",
                               r->calls[i].id, r->calls[i].name, answer);
    }
    if (at < cap) at += (size_t)snprintf(messages + at, cap - at, "]");
    return r->n_calls > 0 && at < cap ? at : 0;
}

static int canned(void) {
    static const char reply[] = "Let me see.\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1234, \"b\": 4321}}\n</tool_call>";
    infer_chat_parser_params params = { .format = "hermes/think", .tools = TOOLS };
    infer_chat_parser *parser;
    infer_error err;
    char messages[2000];
    size_t i;
    if (infer_chat_parser_create(&parser, NULL, &params, &err)) return fprintf(stderr, "%s\n", err.message);
    for (i = 0; i < sizeof reply - 1; i++) infer_chat_parser_feed(parser, reply + i, 1); /* as a model would */
    infer_chat_parser_finish(parser);
    printf("%s\n", infer_chat_parser_reply(parser)->content);
    i = answer_calls(infer_chat_parser_reply(parser), messages, sizeof messages);
    infer_chat_parser_destroy(parser);
    return i == 0;
}

int main(int argc, char **argv) {
    static char messages[100000] = "[" QUESTION "]";
    infer_chat_params chat = { .messages = messages, .tools = TOOLS };
    infer_generate_params limits = { .max_tokens = 500 };
    infer_error err = { 0, "usage: tools model.gguf, or tools --canned" };
    infer_chat_parser *reply;
    infer_model *model = NULL;
    infer_session *session = NULL;
    int round, failed = 0;
    if (argc == 2 && strcmp(argv[1], "--canned") == 0) return canned();
    if (argc != 2 || infer_model_open(&model, argv[1], NULL, &err) || infer_session_create(&session, model, NULL, &err))
        return fprintf(stderr, "%s\n", err.message) > 0;
    for (round = 0; round < 2 && !failed; round++) { /* the question; then once more with the answers of the tool */
        failed = infer_chat(session, NULL, &chat, &limits, &reply, NULL) != INFER_OK;
        if (failed) fprintf(stderr, "%s\n", infer_session_error(session)->message);
        else printf("%s\n", infer_chat_parser_reply(reply)->content);
        if (round == 0 && !failed && !answer_calls(infer_chat_parser_reply(reply), messages, sizeof messages)) round = 2;
        infer_chat_parser_destroy(reply);
    }
    infer_session_destroy(session);
    infer_model_close(model);
    return failed;
}
