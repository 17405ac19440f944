/* two_sessions.c: several texts at once. Sessions of one context share threads, memory and every pass over the weights:
 * reading the weights is what takes the time, so two texts cost little more than one.
 *
 *   cc -O2 examples/two_sessions.c -o two_sessions -lm -lpthread
 *   ./two_sessions model.gguf "Once upon a time" "The dog"
 */
#define INFER_IMPLEMENTATION
#include "../infer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXTS = 2, TOKENS = 24 };

static int fail(const char *what) {
    fprintf(stderr, "%s\n", what);
    return 1;
}

int main(int argc, char **argv) {
    infer_model *model = NULL;
    infer_context *context = NULL;
    infer_session *session[TEXTS] = { NULL, NULL };
    infer_step step[TEXTS];
    infer_token *prompt[TEXTS] = { NULL, NULL }, next[TEXTS], out[TEXTS][TOKENS];
    infer_error err = { 0, "" };
    int i, t, failed = 0;

    if (argc != 2 + TEXTS) return fail("usage: two_sessions model.gguf PROMPT PROMPT");
    memset(step, 0, sizeof step);
    if (infer_model_open(&model, argv[1], NULL, &err) || infer_context_create(&context, model, NULL, &err)) failed = 1;
    for (i = 0; i < TEXTS && !failed; i++) {
        const size_t length = strlen(argv[2 + i]);
        size_t n = 0;
        if (infer_session_create_in(&session[i], context, NULL, &err) || /* how many tokens, then the tokens */
            infer_tokenize(model, argv[2 + i], length, INFER_TEXT_ADD_SPECIAL, NULL, 0, &n, &err) ||
            !(prompt[i] = malloc((n + 1) * sizeof *prompt[i])) ||
            infer_tokenize(model, argv[2 + i], length, INFER_TEXT_ADD_SPECIAL, prompt[i], n, &n, &err))
            failed = 1;
        step[i].session = session[i];
        step[i].tokens = prompt[i];
        step[i].n = (int32_t)n;
        step[i].outputs = INFER_OUT_LAST;
    }
    for (t = 0; t < TOKENS && !failed; t++) { /* one pass: first both prompts, then one token of each */
        if (infer_eval(context, step, TEXTS, &err)) failed = 1;
        for (i = 0; i < TEXTS && !failed; i++) {
            if (infer_session_sample(session[i], NULL, -1, &next[i])) failed = 1;
            out[i][t] = next[i];
            step[i].tokens = &next[i];
            step[i].n = 1;
        }
    }
    for (i = 0; i < TEXTS && !failed; i++) {
        size_t n = 0;
        char *text = NULL;
        if (infer_detokenize(model, out[i], TOKENS, 0, NULL, 0, &n, &err) || !(text = malloc(n + 1)) ||
            infer_detokenize(model, out[i], TOKENS, 0, text, n, &n, &err))
            failed = 1;
        else printf("%s|%.*s\n", argv[2 + i], (int)n, text);
        free(text);
    }
    if (failed) fail(err.message);
    for (i = 0; i < TEXTS; i++) {
        infer_session_destroy(session[i]);
        free(prompt[i]);
    }
    infer_context_destroy(context);
    infer_model_close(model);
    return failed;
}
