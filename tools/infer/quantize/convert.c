/* convert.c: a tensor's values in another type, some rows at a time, on all cores. */
#include "quantize.h"

#include <stdlib.h>
#include <string.h>

enum { PIECE = 1 << 22, MAX_THREADS = 256 }; /* values at a time */

typedef struct piece {
    const file_tensor *t;
    int32_t from, to;
    const float *importance;
    uint64_t n_matrices, first, rows; /* rows of the tensor that are here */
    uint64_t from_bytes, to_bytes;    /* of a row */
    unsigned char *in, *out;
    float *x, *back; /* back: what the codes stand for, NULL = no error is wanted */
    int threads, measure;
    double error[MAX_THREADS], power[MAX_THREADS];
    infer_result failed;
    infer_error err;
} piece;

/* The share of a thread. */
static void convert_rows(void *user, int i) {
    piece *p = user;
    const uint64_t width = p->t->dims[0], a = p->rows * (uint64_t)i / (uint64_t)p->threads, b = p->rows * (uint64_t)(i + 1) / (uint64_t)p->threads;
    uint64_t row, k;
    infer_error err;
    p->error[i] = p->power[i] = 0;
    for (row = a; row < b; row++) {
        float *x = p->x + row * width;
        const uint64_t matrix = (p->first + row) / p->t->dims[1];
        const float *w = p->importance ? p->importance + (p->n_matrices > 1 ? matrix % p->n_matrices : 0) * width : NULL;
        infer_result r = infer_type_decode(p->from, p->in + row * p->from_bytes, width, x, &err);
        for (k = 0; k < width && r == INFER_OK; k++)
            if (!(x[k] - x[k] == 0)) {
                r = INFER_ERR_FORMAT;
                snprintf(err.message, sizeof err.message, "row %lu: value %lu is not a number", (unsigned long)(p->first + row), (unsigned long)k);
            }
        if (r == INFER_OK) r = infer_type_encode(p->to, x, w, width, p->out + row * p->to_bytes, &err);
        if (r == INFER_OK && p->measure) {
            float *y = p->back + (uint64_t)i * width;
            r = infer_type_decode(p->to, p->out + row * p->to_bytes, width, y, &err);
            for (k = 0; k < width && r == INFER_OK; k++) {
                const double v = w ? (double)w[k] : 1, d = (double)x[k] - (double)y[k];
                p->error[i] += v * d * d;
                p->power[i] += v * (double)x[k] * (double)x[k];
            }
        }
        if (r != INFER_OK && p->failed == INFER_OK) { /* of several threads any one's message */
            p->failed = r;
            p->err = err;
        }
    }
}

uint64_t type_bytes(int32_t type, const file_tensor *t) {
    infer_type_info info;
    return type_info(type, &info) ? t->dims[0] / (uint64_t)info.values * (uint64_t)info.bytes * t->rows : 0;
}

static int alloc_piece(piece *p, const char *command, uint64_t most) {
    const size_t width = (size_t)p->t->dims[0], n = (size_t)most;
    p->in = cli_alloc(command, n * (size_t)p->from_bytes + 8, 1);
    p->out = cli_alloc(command, n * (size_t)p->to_bytes + 8, 1);
    p->x = cli_alloc(command, n * width + 1, sizeof *p->x);
    p->back = cli_alloc(command, (size_t)p->threads * width + 1, sizeof *p->back);
    return p->in && p->out && p->x && p->back;
}

int convert_tensor(const converting *c, const file_tensor *t, int32_t type, const float *importance, uint64_t n_matrices, double *error) {
    piece *p = cli_alloc(c->in->command, 1, sizeof *p);
    const uint64_t every = c->sample && t->rows > c->sample ? t->rows / c->sample : 1;
    uint64_t row, most = PIECE / (t->dims[0] ? t->dims[0] : 1);
    double sum = 0, power = 0;
    int i, status = CLI_FAILED;
    if (p == NULL) return CLI_FAILED;
    memset(p, 0, sizeof *p);
    if (most < 1 || every > 1) most = 1;
    if (most > t->rows) most = t->rows;
    p->t = t;
    p->from = (int32_t)t->type;
    p->to = type;
    p->importance = importance;
    p->n_matrices = n_matrices;
    p->threads = c->threads < MAX_THREADS ? c->threads : MAX_THREADS;
    p->measure = error != NULL;
    p->from_bytes = t->bytes / t->rows;
    p->to_bytes = type_bytes(type, t) / t->rows;
    if (alloc_piece(p, c->in->command, most)) status = CLI_DONE;
    for (row = 0; status == CLI_DONE && row < t->rows && !(c->out && c->out->failed); row += every > 1 ? every : p->rows) {
        if (cli_run_interrupted()) {
            status = CLI_INTERRUPTED;
            break;
        }
        p->first = row;
        p->rows = t->rows - row < most ? t->rows - row : most;
        if (!file_read(c->in, t, row * p->from_bytes, p->in, (size_t)(p->rows * p->from_bytes))) status = CLI_FAILED;
        else if (p->rows < (uint64_t)p->threads || p->threads == 1) {
            const int threads = p->threads;
            p->threads = 1;
            convert_rows(p, 0);
            sum += p->error[0];
            power += p->power[0];
            p->threads = threads;
        } else if (!platform_run_threads(p->threads, convert_rows, p)) status = cli_fail(c->in->command, "cannot start threads");
        else for (i = 0; i < p->threads; i++) {
            sum += p->error[i];
            power += p->power[i];
        }
        if (p->failed != INFER_OK) status = cli_fail(c->in->command, "%s: %s", t->name, p->err.message);
        if (status == CLI_DONE && c->out) gguf_data(c->out, p->out, (size_t)(p->rows * p->to_bytes));
        if (c->progress) {
            c->progress->done += p->rows * p->from_bytes;
            cli_progress_show(&c->progress->bar, (float)((double)c->progress->done / (double)c->in->data_bytes));
        }
    }
    if (error) *error = power > 0 ? sum / power : 0;
    free(p->in);
    free(p->out);
    free(p->x);
    free(p->back);
    free(p);
    return status;
}
