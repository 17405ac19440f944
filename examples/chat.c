/* A conversation: cc -O2 examples/chat.c -o chat -lm -lpthread && ./chat model.gguf "Hello"
 * With a message: one turn. Without: turns from stdin, one a line. */
#define INFER_IMPLEMENTATION
#include "../infer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char messages[1 << 20] = "["; /* the conversation: JSON, without its end */

/* "content" as a JSON string behind what is there; 0 = it does not fit. */
static int add(const char *role, const char *content) {
    size_t at = strlen(messages);
    if (sizeof messages - at < 6 * strlen(content) + 64) return 0;
    at += (size_t)sprintf(messages + at, "%s{\"role\":\"%s\",\"content\":\"", at > 1 ? "," : "", role);
    for (; *content; content++) {
        if ((unsigned char)*content < 0x20) at += (size_t)sprintf(messages + at, "\\u%04x", *content);
        else at += (size_t)sprintf(messages + at, *content == '"' || *content == '\\' ? "\\%c" : "%c", *content);
    }
    strcpy(messages + at, "\"}");
    return 1;
}

static int show(void *user, const infer_chat_delta *d) {
    (void)user;
    if (d->kind == INFER_CHAT_CONTENT) fwrite(d->text, 1, d->n, stdout);
    return fflush(stdout); /* d->kind INFER_CHAT_REASONING is what it thinks, INFER_CHAT_CALL a tool call */
}

static int turn(infer_session *session, const char *line) {
    infer_chat_params chat = { .messages = messages, .fn = show, .allow_chatml = 1 };
    infer_generate_params limits = { .max_tokens = 200 };
    infer_chat_parser *reply;
    infer_result r;
    if (!add("user", line)) return fprintf(stderr, "the conversation is too long\n"), 0;
    strcat(messages, "]");
    r = infer_chat(session, NULL, &chat, &limits, &reply, NULL);
    messages[strlen(messages) - 1] = 0;
    putchar('\n');
    if (r) return fprintf(stderr, "%s\n", infer_session_error(session)->message), 0;
    r = !add("assistant", infer_chat_parser_reply(reply)->content);
    infer_chat_parser_destroy(reply);
    return !r;
}

int main(int argc, char **argv) {
    infer_error err = { 0, "usage: chat model.gguf [MESSAGE]" };
    infer_model *model = NULL;
    infer_session *session = NULL;
    char line[4096];
    int ok = 1;
    if (argc < 2 || infer_model_open(&model, argv[1], NULL, &err) || infer_session_create(&session, model, NULL, &err))
        return fprintf(stderr, "%s\n", err.message) > 0;
    if (argc > 2) ok = turn(session, argv[2]);
    else
        while (ok && printf("> ") && fflush(stdout) == 0 && fgets(line, sizeof line, stdin)) {
            line[strcspn(line, "\n")] = 0;
            ok = turn(session, line);
        }
    infer_session_destroy(session);
    infer_model_close(model);
    return !ok;
}
