/* A model calls a function of yours. With a reply that is made up, no model is needed:
 *     cc -O2 examples/tools.c -o tools -lm -lpthread && ./tools --canned
 *     ./tools model.gguf         (its chat template should know tools) */
#define INFER_IMPLEMENTATION
#include "../infer.h"
#include <stdio.h>
#include <string.h>

enum { CALLS = 8 }; /* that are answered at a time */
static const infer_chat_tool TOOLS[] = { { "add", "Add two numbers",
    "{\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"number\"}, \"b\": {\"type\": \"number\"}}, \"required\": [\"a\", \"b\"]}" } };
static char answers[CALLS][40];

/* The tool: its answer as text. */
static int call(const infer_chat_call *c, char *answer, size_t cap) {
    infer_json *args = NULL;
    double a, b;
    if (strcmp(c->name, "add") != 0) return snprintf(answer, cap, "there is no such tool");
    if (infer_json_parse(&args, c->arguments, c->n_arguments, NULL, NULL)) return snprintf(answer, cap, "bad arguments");
    a = infer_json_number(infer_json_get(args, "a"));
    b = infer_json_number(infer_json_get(args, "b"));
    infer_json_free(args);
    return snprintf(answer, cap, "%g", a + b);
}

/* The reply and the answers to its calls as messages, which point into both; how many. 0 = there was no call. */
static size_t answer_calls(const infer_chat_reply *r, infer_chat_message *m) {
    infer_chat_message reply = { .role = "assistant", .content = r->content, .n_content = r->n_content, .reasoning = r->reasoning,
                                 .n_reasoning = r->n_reasoning, .calls = r->calls, .n_calls = r->n_calls };
    size_t i;
    if (r->n_calls > CALLS) reply.n_calls = CALLS;
    m[0] = reply;
    for (i = 0; i < reply.n_calls; i++) {
        infer_chat_message result = { .role = "tool", .content = answers[i], .tool_call_id = r->calls[i].id, .name = r->calls[i].name };
        call(&r->calls[i], answers[i], sizeof answers[i]);
        printf("%s%s = %s\n", r->calls[i].name, r->calls[i].arguments, answers[i]);
        m[1 + i] = result;
    }
    return r->n_calls ? 1 + reply.n_calls : 0;
}

static int canned(void) {
    static const char text[] = "Let me see.\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1234, \"b\": 4321}}\n</tool_call>";
    infer_chat_parser_params params = { .format = "hermes/think", .tools = TOOLS, .n_tools = 1 };
    infer_chat_message messages[1 + CALLS];
    infer_chat_parser *parser;
    infer_error err;
    size_t i, n;
    if (infer_chat_parser_create(&parser, NULL, &params, &err)) return fprintf(stderr, "%s\n", err.message);
    for (i = 0; i < sizeof text - 1; i++) infer_chat_parser_feed(parser, text + i, 1); /* as a model would */
    infer_chat_parser_finish(parser);
    printf("%s\n", infer_chat_parser_reply(parser)->content);
    n = answer_calls(infer_chat_parser_reply(parser), messages);
    infer_chat_parser_destroy(parser);
    return n != 2;
}

int main(int argc, char **argv) {
    infer_chat_message messages[2 + CALLS] = { { .role = "user", .content = "What is 1234 + 4321? Use the tool." } };
    infer_chat_params chat = { .messages = messages, .n_messages = 1, .tools = TOOLS, .n_tools = 1 };
    infer_generate_params limits = { .max_tokens = 500 };
    infer_error err = { 0, "usage: tools model.gguf, or tools --canned" };
    infer_chat_parser *reply = NULL, *last = NULL;
    infer_model *model = NULL;
    infer_session *session = NULL;
    int failed;
    if (argc == 2 && strcmp(argv[1], "--canned") == 0) return canned();
    if (argc != 2 || infer_model_open(&model, argv[1], NULL, &err) || infer_session_create(&session, model, NULL, &err))
        return fprintf(stderr, "%s\n", err.message) > 0;
    failed = infer_chat(session, NULL, &chat, &limits, &reply, NULL) != INFER_OK;
    if (!failed) printf("%s\n", infer_chat_parser_reply(reply)->content);
    if (!failed) chat.n_messages += answer_calls(infer_chat_parser_reply(reply), messages + 1);
    if (!failed && chat.n_messages > 1) { /* once more with the answers of the tool */
        failed = infer_chat(session, NULL, &chat, &limits, &last, NULL) != INFER_OK;
        if (!failed) printf("%s\n", infer_chat_parser_reply(last)->content);
    }
    if (failed) fprintf(stderr, "%s\n", infer_session_error(session)->message);
    infer_chat_parser_destroy(last);
    infer_chat_parser_destroy(reply); /* the messages point into it */
    infer_session_destroy(session);
    infer_model_close(model);
    return failed;
}
