/* importance.c: importance of columns from a file of `infer imatrix` or llama-imatrix. */
#include "quantize.h"

#include <stdlib.h>
#include <string.h>

/* The entry of a tensor, under the name that it had before layers were left out. */
static const imatrix_entry *entry_of(const importance *im, const char *name) {
    const imatrix_entry *e = NULL;
    char *before = im->model->was ? file_name_before(im->model, name) : NULL;
    if (im->file.open && (before || im->model->was == NULL)) e = imatrix_find(&im->file, before ? before : name);
    free(before);
    return e;
}

int importance_open(importance *im, const char *command, const char *path, const file_model *m) {
    size_t i;
    im->model = m;
    if (!imatrix_open(&im->file, command, path)) return 0;
    for (i = 0; i < m->n_tensors && !entry_of(im, m->tensors[i].name); i++) {}
    return i < m->n_tensors || cli_fail(command, "%s: it has no tensor of %s: it is of another model", path, m->path) == CLI_DONE;
}

int importance_has(const importance *im, const file_tensor *t) { return im->model && entry_of(im, t->name) != NULL; }

int importance_read(importance *im, const file_tensor *t, float **out, uint64_t *n_matrices) {
    const imatrix_entry *e = im->model ? entry_of(im, t->name) : NULL;
    const char *command = im->file.command;
    float *x, *counts;
    uint64_t n, i, each;
    int ok;
    *out = NULL;
    *n_matrices = 1;
    if (e == NULL) return 1;
    n = e->n_values / t->dims[0];
    if (e->n_values % t->dims[0] != 0 || (n != 1 && n != t->dims[2]) || (e->n_counts != 1 && e->n_counts != n))
        return cli_fail(command, "%s: %s has another shape than the model's tensor", im->file.path, e->name) == CLI_DONE;
    x = cli_alloc(command, (size_t)e->n_values, sizeof *x);
    counts = cli_alloc(command, (size_t)e->n_counts, sizeof *counts);
    ok = x && counts && imatrix_read(&im->file, e, x, counts);
    each = e->n_values / e->n_counts;
    for (i = 0; ok && i < e->n_values; i++) {
        const float count = counts[i / each];
        x[i] = count > 0 ? x[i] / count : 1; /* an expert that was never chosen: all columns count */
        if (!(x[i] <= 1e30f)) ok = cli_fail(command, "%s: %s: a value is too large", im->file.path, e->name) == CLI_DONE;
    }
    free(counts);
    if (!ok) {
        free(x);
        return 0;
    }
    *out = x;
    *n_matrices = n;
    return 1;
}

void importance_close(importance *im) { imatrix_close(&im->file); }
