/* classify.c: the label that a classifier gives each text, and how probable it is.
 *
 *   cc -O2 examples/classify.c -o classify -lm -lpthread && ./classify sentiment.gguf "What a day!" "Never again." */
#define INFER_IMPLEMENTATION
#include "../infer.h"
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    infer_model *model = NULL;
    infer_context *context = NULL;
    infer_model_info info;
    infer_error err = { 0, "usage: classify model.gguf TEXT..." };
    float *p = NULL;
    int i, k, best, n = argc - 2, failed = 1;

    if (n < 1 || infer_model_open(&model, argv[1], NULL, &err) || infer_context_create(&context, model, NULL, &err)) goto done;
    infer_model_get_info(model, &info);
    p = malloc(((size_t)n * (size_t)info.labels + 1) * sizeof *p);
    if (!p) snprintf(err.message, sizeof err.message, "no memory");
    if (!p || infer_classify(context, (const char *const *)argv + 2, n, NULL, p, &err)) goto done;
    for (i = 0; i < n; i++) {
        const float *mine = p + i * info.labels;
        char name[64];
        size_t length;
        for (best = 0, k = 1; k < info.labels; k++)
            if (mine[k] > mine[best]) best = k;
        if (infer_model_label(model, best, name, sizeof name, &length)) snprintf(name, sizeof name, "label %d", best);
        printf("%-16s %.3f  %s\n", name, mine[best], argv[2 + i]);
    }
    failed = 0;
done:
    if (failed) fprintf(stderr, "%s\n", err.message);
    free(p);
    infer_context_destroy(context);
    infer_model_close(model);
    return failed;
}
