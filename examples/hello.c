/* cc -O2 examples/hello.c -o hello -lm -lpthread && ./hello model.gguf "Once upon a time" */
#define INFER_IMPLEMENTATION
#include "../infer.h"
#include <stdio.h>
static int show(void *user, const char *text, size_t n) { (void)user; return fwrite(text, 1, n, stdout) != n || fflush(stdout); }
int main(int argc, char **argv) {
    infer_generate_params params = { .max_tokens = 64, .text = show };
    infer_error err = { 0, "usage: hello model.gguf PROMPT" };
    infer_model *model = NULL;
    infer_session *session = NULL;
    if (argc != 3 || infer_model_open(&model, argv[1], NULL, &err) || infer_session_create(&session, model, NULL, &err))
        return fprintf(stderr, "%s\n", err.message) > 0;
    if (infer_generate(session, NULL, argv[2], &params, NULL)) fprintf(stderr, "%s\n", infer_session_error(session)->message);
    return 0; /* a longer program calls infer_session_destroy and infer_model_close */
}
