/* rerank.c: which of these texts answers the question best? Needs a reranker: a file with a classifier, or with a prompt
 * for pairs of texts.
 *
 *   cc -O2 examples/rerank.c -o rerank -lm -lpthread && ./rerank reranker.gguf "Who wrote Faust?" "Goethe did." "It rained." */
#define INFER_IMPLEMENTATION
#include "../infer.h"
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    infer_model *model = NULL;
    infer_context *context = NULL;
    infer_error err = { 0, "usage: rerank model.gguf QUERY TEXT..." };
    infer_embed_params params = { .long_texts = INFER_LONG_CUT }; /* rather the beginning of a document than an error */
    float *scores = NULL;
    int i, k, best, n = argc - 3, failed = 1;

    if (n < 1 || infer_model_open(&model, argv[1], NULL, &err) || infer_context_create(&context, model, NULL, &err)) goto done;
    scores = malloc((size_t)n * sizeof *scores);
    if (!scores) snprintf(err.message, sizeof err.message, "no memory");
    if (!scores || infer_rerank(context, argv[2], (const char *const *)argv + 3, n, &params, scores, &err)) goto done;
    for (k = 0; k < n; k++) { /* the best of those that are left */
        for (best = -1, i = 0; i < n; i++)
            if (argv[3 + i] && (best < 0 || scores[i] > scores[best])) best = i;
        printf("%8.4f  %s\n", scores[best], argv[3 + best]);
        argv[3 + best] = NULL;
    }
    failed = 0;
done:
    if (failed) fprintf(stderr, "%s\n", err.message);
    free(scores);
    infer_context_destroy(context);
    infer_model_close(model);
    return failed;
}
