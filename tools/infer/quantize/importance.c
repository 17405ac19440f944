/* importance.c: importance of columns from a file: F32 tensors NAME.in_sum2 (sums of squared inputs, a row for each matrix) and
 * NAME.counts (how many inputs each has seen). */
#include "quantize.h"

#include <stdlib.h>
#include <string.h>

enum { F32 = 0 };

int importance_open(importance *im, const char *command, const char *path) {
    memset(im, 0, sizeof *im);
    if (!file_open(&im->file, command, path)) return 0;
    im->open = 1;
    return 1;
}

static const file_tensor *find(const importance *im, const char *name, const char *ending) {
    const size_t n = strlen(name), e = strlen(ending);
    size_t i;
    for (i = 0; i < im->file.n_tensors; i++) {
        const char *s = im->file.tensors[i].name;
        if (strlen(s) == n + e && strncmp(s, name, n) == 0 && strcmp(s + n, ending) == 0) return &im->file.tensors[i];
    }
    return NULL;
}

static int floats(importance *im, const file_tensor *t, float *out, uint64_t n) {
    unsigned char *raw;
    int ok;
    if (t->type != F32 || t->bytes != 4 * n) return cli_fail(im->file.command, "%s: %s has another type or shape", im->file.path, t->name) == CLI_DONE;
    raw = cli_alloc(im->file.command, (size_t)t->bytes, 1);
    ok = raw && file_read(&im->file, t, 0, raw, (size_t)t->bytes) && infer_type_decode(F32, raw, n, out, NULL) == INFER_OK;
    free(raw);
    return ok;
}

int importance_read(importance *im, const file_tensor *t, float **out, uint64_t *n_matrices) {
    const file_tensor *sums, *counts;
    float *x, *c;
    uint64_t n, i, k;
    int ok;
    *out = NULL;
    *n_matrices = 1;
    if (!im->open) return 1;
    sums = find(im, t->name, ".in_sum2");
    counts = find(im, t->name, ".counts");
    if (sums == NULL || counts == NULL) return 1;
    n = sums->rows;
    if (sums->dims[0] != t->dims[0] || (n != 1 && n != t->dims[2]) || counts->bytes != 4 * n)
        return cli_fail(im->file.command, "%s: %s has another shape than the model's tensor", im->file.path, sums->name) == CLI_DONE;
    x = cli_alloc(im->file.command, (size_t)(n * t->dims[0]), sizeof *x);
    c = cli_alloc(im->file.command, (size_t)n, sizeof *c);
    ok = x && c && floats(im, sums, x, n * t->dims[0]) && floats(im, counts, c, n);
    for (i = 0; ok && i < n; i++)
        for (k = 0; ok && k < t->dims[0]; k++) {
            float *v = &x[i * t->dims[0] + k];
            *v = c[i] > 0 ? *v / c[i] : 1; /* an expert that was never chosen: all columns count */
            if (!(*v >= 0) || *v > 1e30f) ok = cli_fail(im->file.command, "%s: %s: a value is negative or not a number", im->file.path, sums->name) == CLI_DONE;
        }
    free(c);
    if (!ok) {
        free(x);
        return 0;
    }
    *out = x;
    *n_matrices = n;
    return 1;
}

void importance_close(importance *im) {
    if (im->open) file_close(&im->file);
    memset(im, 0, sizeof *im);
}
