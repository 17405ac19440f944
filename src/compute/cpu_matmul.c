/* cpu_matmul.c: y = W x on the CPU, for every storage type: decode, then multiply.
 *
 * Owns:  the matmul op, and the definition of a matrix product; float weights: cpu_float.c.
 * How:   a task is a few rows of one weight. It decodes them into its worker's scratch, once for the whole batch, and
 *        takes their dot products with all rows of x; F32 weights are used where they lie. Up to three weights that
 *        share x are one list of tasks, so there is one barrier.
 * Invariant: an element of y is one dot product over the whole row in INFER__LANES lanes, whatever the batch, the
 *        threads or the tile.
 * Start: infer__matmul_task.
 */
#include "cpu_float.h"

typedef struct infer__matmul_job {
    infer__ctx *c;
    const infer__matmul_args *a;
    int32_t step[3];  /* rows of a weight per task */
    int32_t first[4]; /* first task of each weight; first[n_w] = number of tasks */
} infer__matmul_job;

static void infer__matmul_task(void *arg, int task, int worker) {
    const infer__matmul_job *job = (const infer__matmul_job *)arg;
    const infer__matmul_args *a = job->a;
    const infer__kernels *k = job->c->kernels;
    float *scratch = infer__cpu_scratch(job->c, worker), bias[INFER__FLOAT_TASK];
    const infer__weight *w;
    const infer__tensor *y;
    const float *rows, *b;
    int64_t stride;
    int32_t j = 0, r, n, i;
    int prepared;
    while (task >= job->first[j + 1]) j++;
    w = a->w[j];
    y = &a->y[j];
    r = (task - job->first[j]) * job->step[j];
    n = INFER__MIN(job->step[j], w->rows - r);
    if (infer__float_usable(job->c, w, &prepared)) {
        infer__float_tile(job->c, w, r, n, prepared ? (const void *)job->c->float_x : infer__row(&a->x, 0),
                          prepared ? infer__float_row_bytes(job->c->floats, w->cols)
                                   : a->x.stride * (int64_t)sizeof(float),
                          a->x.rows, infer__row(y, 0) + r, y->stride, worker);
    } else {
        rows = infer__weight_rows(w, r, n, scratch, &stride);
        k->tile(rows, stride, n, infer__row(&a->x, 0), a->x.stride, a->x.rows, w->cols, infer__row(y, 0) + r,
                y->stride);
    }
    if (!a->b[j]) return;
    b = infer__weight_values(a->b[j], r, n, bias);
    for (i = 0; i < a->x.rows; i++) k->axpy(infer__row(y, i) + r, b, 1.0f, n);
}

static void infer__cpu_matmul(infer__ctx *c, const infer__matmul_args *a) {
    infer__matmul_job job;
    int64_t rows = 0, work = 0;
    uint64_t bytes = 0;
    int32_t j, cols = a->x.cols;
    int rounded = 0;
    double began = infer__op_begin(c);
    if (began < 0) return;
    for (j = 0; j < a->n_w; j++) {
        const infer__weight *b = a->b[j];
        INFER__ASSERT(a->w[j]->cols == cols && a->y[j].cols == a->w[j]->rows && a->y[j].rows == a->x.rows);
        if (!infer__vector_ok(c, b, "a bias")) return;
        rows += a->w[j]->rows;
        work += (int64_t)a->w[j]->rows * cols;
        bytes += (uint64_t)a->w[j]->rows * a->w[j]->row_bytes;
    }
    job.c = c;
    job.a = a;
    rows /= 4 * infer__pool_threads(c->pool);
    for (j = 0, job.first[0] = 0; j < a->n_w; j++) {
        int prepared, is_float = infer__float_usable(c, a->w[j], &prepared);
        job.step[j] =
            (int32_t)INFER__MIN(rows, is_float ? infer__float_task_rows(c, a->x.rows) : infer__tile_rows(cols));
        job.step[j] = INFER__MAX(job.step[j] & ~3, 4);
        INFER__ASSERT(is_float || (int64_t)job.step[j] * cols <= c->scratch_len);
        job.first[j + 1] = job.first[j] + (a->w[j]->rows + job.step[j] - 1) / job.step[j];
        if (is_float && prepared && !rounded++) infer__float_prepare(c, &a->x);
    }
    infer__cpu_run(c, job.first[a->n_w], work * a->x.rows, infer__matmul_task, &job);
    infer__op_end(c, "matmul", bytes, began);
}
