/* diff_values.c: how much the values of two tensors differ. */
#include "diff.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 1 << 20 };

/* *same: whether the two have the same bytes; sizes are equal. An exit status. */
static int compare_bytes(diff_side *a, diff_side *b, const file_tensor *ta, const file_tensor *tb, int *same) {
    unsigned char *buf = cli_alloc("diff", 2 * CHUNK, 1);
    int status = buf ? CLI_DONE : CLI_FAILED;
    uint64_t at;
    *same = 1;
    for (at = 0; status == CLI_DONE && *same && at < ta->bytes; at += CHUNK) {
        const size_t n = ta->bytes - at < CHUNK ? (size_t)(ta->bytes - at) : CHUNK;
        if (cli_run_interrupted()) status = CLI_INTERRUPTED;
        else if (!file_read(&a->file, ta, at, buf, n) || !file_read(&b->file, tb, at, buf + CHUNK, n)) status = CLI_FAILED;
        else *same = memcmp(buf, buf + CHUNK, n) == 0;
    }
    free(buf);
    return status;
}

/* The library decodes; it opens a file when its values are first needed. */
static int read_rows(diff_side *s, const cli_common *common, const file_tensor *t, uint64_t row, uint64_t n, float *x) {
    infer_error err;
    if (s->model == NULL) s->model = cli_open("diff", s->file.path, common, 1);
    if (s->model == NULL) return 0;
    if (infer_tensor_read(s->model, t->name, row, n, x, &err) == INFER_OK) return 1;
    cli_fail("diff", "%s: %s", s->file.path, err.message);
    return 0;
}

static void add_differences(const float *x, const float *y, size_t n, diff_values *out, double *of_a) {
    size_t i;
    for (i = 0; i < n; i++) {
        const double d = (double)y[i] - (double)x[i];
        *of_a += (double)x[i] * (double)x[i];
        if (memcmp(&x[i], &y[i], sizeof *x) == 0) continue;
        out->differing++;
        out->nmse += d * d;
        if (!(fabs(d) <= out->largest)) out->largest = d == d ? fabs(d) : HUGE_VAL; /* NaN: as far away as can be */
    }
}

/* The same number of values each. An exit status. */
static int compare_values(diff_side *a, diff_side *b, const cli_common *common, const file_tensor *ta, const file_tensor *tb,
                          diff_values *out) {
    const uint64_t width = ta->dims[0];
    uint64_t row, step = CHUNK / width;
    double of_a = 0;
    int status = CLI_DONE;
    float *x;
    if (step == 0) step = 1;
    if (step > ta->rows) step = ta->rows;
    if (width > SIZE_MAX / sizeof *x / 2 / step) return cli_fail("diff", "a row of %s is too long", ta->name);
    x = cli_alloc("diff", (size_t)(2 * step * width), sizeof *x);
    if (x == NULL) return CLI_FAILED;
    for (row = 0; status == CLI_DONE && row < ta->rows; row += step) {
        const uint64_t n = ta->rows - row < step ? ta->rows - row : step;
        float *y = x + step * width;
        if (cli_run_interrupted()) status = CLI_INTERRUPTED;
        else if (!read_rows(a, common, ta, row, n, x) || !read_rows(b, common, tb, row, n, y)) status = CLI_FAILED;
        else add_differences(x, y, (size_t)(n * width), out, &of_a);
    }
    if (out->nmse > 0) out->nmse = of_a > 0 ? out->nmse / of_a : HUGE_VAL;
    if (!(out->nmse >= 0)) out->nmse = HUGE_VAL;
    out->known = 1;
    free(x);
    return status;
}

int diff_compare(diff_side *a, diff_side *b, const cli_common *common, const file_tensor *ta, const file_tensor *tb,
                 int *same, diff_values *out) {
    int status = CLI_DONE;
    memset(out, 0, sizeof *out);
    *same = 0;
    if (memcmp(ta->dims, tb->dims, sizeof ta->dims) != 0) return CLI_DONE;
    if (ta->type == tb->type) status = compare_bytes(a, b, ta, tb, same);
    if (status != CLI_DONE) return status;
    if (*same) {
        *same = ta->n_dims == tb->n_dims;
        out->known = 1;
        return CLI_DONE;
    }
    return compare_values(a, b, common, ta, tb, out);
}
