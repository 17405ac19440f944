/* cpu_matmul.c: y = W x on the CPU, for every storage type: the choice of a weight's path, and splitting it into tasks.
 *
 * Owns:  the matmul op. docs/matmul.md explains what happens below it.
 * How:   a task is some rows of one weight, with all rows of x. A weight is multiplied by integer products
 *        (cpu_int8.c), by float tiles (cpu_float.c) or, when results are to be exact and for types that have neither,
 *        decoded into the worker's scratch and multiplied by the definition. For the first two, x is converted once for
 *        all weights that share it; those weights form one list of tasks, so there is one barrier.
 * Invariant: an element of y does not depend on the batch, the threads or the tasks.
 * Start: infer__matmul_task.
 */
#include "../products/cpu_float.h"
#include "../products/cpu_int8.h"

/* One weight of the op. */
typedef struct infer__matmul_part {
    enum { INFER__BY_DECODING, INFER__BY_FLOATS, INFER__BY_INT8 } path;
    int32_t prepared;        /* floats: x is read from c->cpu->float_x */
    infer__int8_weight int8;
    int32_t step;            /* rows per task */
    int32_t first;           /* first task */
} infer__matmul_part;

typedef struct infer__matmul_job {
    infer__ctx *c;
    const infer__matmul_args *a;
    infer__matmul_part part[3];
    int32_t n_tasks;
    infer__low_job *low;     /* of a->low */
} infer__matmul_job;

/* Rows r .. r+n-1 of weight j by floats. */
static void infer__matmul_floats(const infer__matmul_job *job, int32_t j, int32_t r, int32_t n, const float *bias,
                                 int worker) {
    const infer__matmul_args *a = job->a;
    const infer__weight *w = a->w[j];
    const void *x = infer__row(&a->x, 0);
    int64_t x_bytes = a->x.stride * (int64_t)sizeof(float);
    if (job->part[j].prepared) {
        x = job->c->cpu->float_x;
        x_bytes = infer__float_row_bytes(job->c->floats, w->cols);
    }
    infer__float_tile(job->c, w, r, n, x, x_bytes, a->x.rows, a->x.rows, bias, infer__row(&a->y[j], 0) + r,
                      a->y[j].stride, worker);
}

static void infer__matmul_decoded(const infer__matmul_job *job, int32_t j, int32_t r, int32_t n, const float *bias,
                                  int worker) {
    const infer__matmul_args *a = job->a;
    int64_t stride;
    int32_t i;
    const float *rows = infer__weight_rows(a->w[j], r, n, infer__cpu_scratch(job->c, worker), &stride);
    job->c->kernels->tile(rows, stride, n, infer__row(&a->x, 0), a->x.stride, a->x.rows, a->w[j]->cols,
                          infer__row(&a->y[j], 0) + r, a->y[j].stride);
    for (i = 0; bias && i < a->x.rows; i++) {
        float *y = infer__row(&a->y[j], i) + r;
        infer__plus(y, y, bias, n);
    }
}

static void infer__matmul_task(void *arg, int task, int worker) {
    const infer__matmul_job *job = (const infer__matmul_job *)arg;
    const infer__matmul_args *a = job->a;
    const infer__matmul_part *part;
    const float *bias = NULL;
    float values[INFER__TASK_ROWS];
    int32_t j = 0, r, n;
    while (j + 1 < a->n_w && task >= job->part[j + 1].first) j++;
    part = &job->part[j];
    r = (task - part->first) * part->step;
    n = INFER__MIN(part->step, a->w[j]->rows - r);
    if (INFER__HAS_ADAPTERS && a->low) infer__low_make(job->low, infer__low_take(job->low, j, r, n), worker);
    if (a->b[j]) bias = infer__weight_values(a->b[j], r, n, values);
    if (part->path == INFER__BY_INT8)
        infer__int8_task(job->c, &part->int8, r, n, task == infer__pool_first(job->c->pool, job->n_tasks, worker),
                         a->x.rows, &a->y[j], bias, worker);
    else if (part->path == INFER__BY_FLOATS) infer__matmul_floats(job, j, r, n, bias, worker);
    else infer__matmul_decoded(job, j, r, n, bias, worker);
    if (!INFER__HAS_ADAPTERS || !a->low) return;
    infer__low_finish(job->low, worker);
    infer__low_columns(job->c, a->low, j, 0, a->x.rows, r, n);
}

/* Choose the path of a weight and its tasks of at most `rows` rows, and convert x for it unless `made` says that this
 * has been done. */
static void infer__matmul_plan(infer__ctx *c, const infer__weight *w, const infer__tensor *x, int64_t rows, int made[3],
                               infer__matmul_part *part) {
    int32_t least = 4, most = infer__tile_rows(w->cols);
    int32_t prepared = 0;
    part->path = INFER__BY_DECODING;
    if (infer__int8_usable(c, w)) {
        part->path = INFER__BY_INT8;
        infer__int8_weight_init(c, w, &part->int8);
        least = x->rows < part->int8.few ? INFER__GROUP : INFER__INT8_ROWS;
        most = x->rows < part->int8.few ? infer__task_rows(w) : INFER__INT8_ROWS;
        if (!made[INFER__BY_INT8]++) infer__x8_prepare(c, x);
    } else if (infer__float_usable(c, w, &prepared)) {
        part->path = INFER__BY_FLOATS;
        least = infer__float_least(c, w, x->rows);
        most = infer__float_task_rows(c, w, x->rows);
        if (prepared && !made[INFER__BY_FLOATS]++) infer__float_prepare(c, x);
    }
    part->prepared = prepared;
    part->step = INFER__MAX((int32_t)INFER__MIN(rows, most) / least * least, least);
    INFER__ASSERT(part->path != INFER__BY_DECODING || (int64_t)part->step * w->cols <= c->cpu->scratch_len);
}

static void infer__cpu_matmul(infer__ctx *c, const infer__matmul_args *a) {
    infer__matmul_job job;
    infer__low_job low;
    int64_t rows = 0, work = 0;
    uint64_t bytes = 0;
    int32_t j, n_tasks = 0;
    int made[3] = {0, 0, 0};
    double began = infer__op_begin(c);
    if (began < 0) return;
    for (j = 0; j < a->n_w; j++) {
        INFER__ASSERT(a->w[j]->cols == a->x.cols && a->y[j].cols == a->w[j]->rows && a->y[j].rows == a->x.rows);
        if (!infer__vector_ok(c, a->b[j], "a bias")) return;
        rows += a->w[j]->rows;
        work += (int64_t)a->w[j]->rows * a->x.cols;
        bytes += (uint64_t)a->w[j]->rows * a->w[j]->row_bytes;
    }
    job.c = c;
    job.a = a;
    for (j = 0; j < a->n_w; j++) {
        infer__matmul_part *part = &job.part[j];
        infer__matmul_plan(c, a->w[j], &a->x, rows / (4 * infer__pool_threads(c->pool)), made, part);
        part->first = n_tasks;
        n_tasks += (a->w[j]->rows + part->step - 1) / part->step;
    }
    job.n_tasks = n_tasks;
    job.low = &low;
    if (INFER__HAS_ADAPTERS && a->low) infer__low_begin(&low, c, a->low, 0);
    infer__cpu_run(c, n_tasks, work * a->x.rows, infer__matmul_task, &job);
    infer__op_end(c, "matmul", bytes, began);
}
