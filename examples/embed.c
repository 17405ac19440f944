/* embed.c: how similar are texts? One vector per text, pooled as the model says, and their cosines.
 *
 *   cc -O2 examples/embed.c -o embed -lm -lpthread && ./embed model.gguf "a red ball" "a blue ball" "It was raining"
 *
 * Works best with an embedding model; any model gives vectors. */
#define INFER_IMPLEMENTATION
#include "../infer.h"
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    infer_model *model = NULL;
    infer_context *context = NULL;
    infer_error err = { 0, "usage: embed model.gguf TEXT..." };
    float *v = NULL;
    int i, j, k, width, n = argc - 2, failed = 1;

    if (n < 1 || infer_model_open(&model, argv[1], NULL, &err) || infer_context_create(&context, model, NULL, &err)) goto done;
    width = infer_embed_width(model, NULL);
    v = malloc((size_t)n * (size_t)width * sizeof *v); /* vectors of length 1: their dot products are cosines */
    if (!v) snprintf(err.message, sizeof err.message, "no memory");
    if (!v || infer_embed(context, (const char *const *)argv + 2, n, NULL, v, &err)) goto done;
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
    infer_context_destroy(context);
    infer_model_close(model);
    return failed;
}
