/* embed.c: how similar are texts? One vector per text, pooled as the model says, and their cosines.
 *
 *   cc -O2 examples/embed.c -o embed -lm -lpthread && ./embed model.gguf "a red ball" "a blue ball" "It was raining"
 *
 * Works best with an embedding model; any model gives vectors. */
#define INFER_IMPLEMENTATION
#include "../infer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The vector of one text: width floats, of length 1. */
static infer_result embed(infer_context *context, infer_session *session, const infer_model *model, const char *text,
                          float *out, infer_error *err) {
    infer_token tokens[512];
    infer_step step = { 0 };
    size_t n = 0;
    infer_result r = infer_tokenize(model, text, strlen(text), INFER_TEXT_ADD_SPECIAL, tokens, 512, &n, err);
    if (r != INFER_OK) return r;
    if (n == 0 || n > 512) {
        fprintf(stderr, "texts have 1 to 512 tokens here\n");
        return INFER_ERR_ARGUMENT;
    }
    infer_session_rewind(session, 0); /* forget the text before */
    step.session = session;
    step.tokens = tokens;
    step.n = (int32_t)n;
    step.outputs = INFER_OUT_HIDDEN; /* the final hidden state of every token, no logits */
    r = infer_eval(context, &step, 1, err);
    return r == INFER_OK ? infer_session_embedding(session, out, err) : r;
}

int main(int argc, char **argv) {
    infer_model *model = NULL;
    infer_context *context = NULL;
    infer_session *session = NULL;
    infer_model_info info;
    infer_error err = { 0, "" };
    float *v = NULL;
    int i, j, k, width, n = argc - 2, failed = 1;

    if (n < 1) {
        fprintf(stderr, "usage: embed model.gguf TEXT...\n");
        return 2;
    }
    if (infer_model_open(&model, argv[1], NULL, &err) || infer_context_create(&context, model, NULL, &err) ||
        infer_session_create_in(&session, context, NULL, &err)) goto done;
    infer_model_get_info(model, &info);
    width = info.width;
    v = malloc((size_t)n * (size_t)width * sizeof *v);
    if (!v) goto done;
    for (i = 0; i < n; i++)
        if (embed(context, session, model, argv[2 + i], v + i * width, &err)) goto done;
    for (i = 0; i < n; i++) {
        for (j = 0; j < n; j++) {
            float dot = 0;
            for (k = 0; k < width; k++) dot += v[i * width + k] * v[j * width + k];
            printf("%6.3f ", dot);
        }
        printf(" %s\n", argv[2 + i]);
    }
    failed = 0;
done:
    if (failed) fprintf(stderr, "%s\n", err.message);
    free(v);
    infer_session_destroy(session);
    infer_context_destroy(context);
    infer_model_close(model);
    return failed;
}
