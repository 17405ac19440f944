/* A conversation: cc -O2 examples/chat.c -o chat -lm -lpthread && ./chat model.gguf "Hello"
 * With a message: one turn. Without: turns from stdin, one a line. */
#define INFER_IMPLEMENTATION
#include "../infer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static infer_chat_message *messages; /* the conversation; its texts are ours */
static size_t n_messages;

static int add(const char *role, const char *content) { /* 0 = no memory */
    infer_chat_message *grown = realloc(messages, (n_messages + 1) * sizeof *grown), m = { .role = role };
    char *copy = malloc(strlen(content) + 1);
    if (grown) messages = grown;
    if (!grown || !copy) return free(copy), 0;
    m.content = strcpy(copy, content);
    messages[n_messages++] = m;
    return 1;
}

static int show(void *user, const infer_chat_delta *d) {
    (void)user;
    if (d->kind == INFER_CHAT_CONTENT) fwrite(d->text, 1, d->n, stdout);
    return fflush(stdout); /* d->kind INFER_CHAT_REASONING is what it thinks, INFER_CHAT_CALL a tool call */
}

static int turn(infer_session *session, const char *line) {
    infer_chat_params chat = { .fn = show, .allow_chatml = 1, .on_full = INFER_CHAT_FULL_DROP };
    infer_generate_params limits = { .max_tokens = 200 };
    infer_chat_parser *reply;
    int ok;
    if (!add("user", line)) return fprintf(stderr, "out of memory\n"), 0;
    chat.messages = messages;
    chat.n_messages = n_messages;
    if (infer_chat(session, NULL, &chat, &limits, &reply, NULL))
        fprintf(stderr, "%s\n", infer_session_error(session)->message);
    putchar('\n');
    ok = reply && add("assistant", infer_chat_parser_reply(reply)->content);
    infer_chat_parser_destroy(reply);
    return ok;
}

static char *read_line(void) { /* of any length; to be freed. NULL at the end */
    size_t n = 0, cap = 0;
    char *line = NULL, *more;
    int c;
    while ((c = getchar()) != EOF) {
        if (n + 1 >= cap) {
            if (!(more = realloc(line, cap = 2 * cap + 256))) return free(line), NULL;
            line = more;
        }
        line[n] = 0;
        if (c == '\n') return line;
        line[n++] = (char)c;
        line[n] = 0;
    }
    return line;
}

int main(int argc, char **argv) {
    infer_error err = { 0, "usage: chat model.gguf [MESSAGE]" };
    infer_model *model = NULL;
    infer_session *session = NULL;
    char *line;
    int ok = 1;
    if (argc < 2 || infer_model_open(&model, argv[1], NULL, &err) || infer_session_create(&session, model, NULL, &err))
        return fprintf(stderr, "%s\n", err.message) > 0;
    if (argc > 2) ok = turn(session, argv[2]);
    else
        while (ok && printf("> ") && fflush(stdout) == 0 && (line = read_line())) {
            ok = turn(session, line);
            free(line);
        }
    while (n_messages > 0) free((char *)messages[--n_messages].content);
    free(messages);
    infer_session_destroy(session);
    infer_model_close(model);
    return !ok;
}
