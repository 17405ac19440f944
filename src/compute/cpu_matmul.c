/* cpu_matmul.c: y = W x on the CPU, for every storage type: decode, then multiply.
 *
 * Owns:  reading weights as float32 (infer__weight_rows, infer__weight_values), how work is handed to the pool
 *        (infer__cpu_run), and the matmul op.
 * How:   a task is a few rows of one weight. It decodes them into its worker's scratch, once for the whole batch, and
 *        takes their dot products with all rows of x; F32 weights are used where they lie. Up to three weights that
 *        share x are one list of tasks, so there is one barrier.
 * Invariant: an element of y is one dot product over the whole row in INFER__LANES lanes, whatever the batch, the
 *        threads or the tile.
 * Start: infer__matmul_task.
 */
#include "backend.h"

enum {
    INFER__TILE_ROWS = 32,          /* rows of a weight that are decoded at once, at most */
    INFER__TILE_FLOATS = 64 * 1024, /* and their values: 256 KiB stay in the second-level cache */
    INFER__SMALL_WORK = 32 * 1024   /* multiplications that are done before another thread has woken up */
};

/* Run the tasks on the pool, or here when the work (about one multiplication each) is not worth it. */
static void infer__cpu_run(infer__ctx *c, int n_tasks, int64_t work, infer__task_fn fn, void *arg) {
    infer__parallel(work < INFER__SMALL_WORK ? NULL : c->pool, n_tasks, fn, arg);
}

static float *infer__cpu_scratch(const infer__ctx *c, int worker) { return c->scratch + worker * c->scratch_len; }

/* Rows of a weight of `cols` columns that a task decodes at once. */
static int32_t infer__tile_rows(int32_t cols) {
    int32_t rows = INFER__TILE_FLOATS / cols;
    return rows < 4 ? 4 : INFER__MIN(rows, INFER__TILE_ROWS);
}

/* Rows r .. r+n-1 as float32, *stride apart: in place, or decoded to `scratch` (n * cols floats). */
static const float *infer__weight_rows(const infer__weight *w, int64_t r, int32_t n, float *scratch, int64_t *stride) {
    const char *data = (const char *)w->data + (uint64_t)r * w->row_bytes;
    const float *p = infer__quant_in_place(w->type, data);
    int32_t i;
    if (p && w->row_bytes % sizeof(float) == 0) {
        *stride = (int64_t)(w->row_bytes / sizeof(float));
        return p;
    }
    *stride = w->cols;
    for (i = 0; i < n; i++, data += w->row_bytes) w->type->decode(data, scratch + (int64_t)i * w->cols, w->cols);
    return scratch;
}

/* Values first .. first+n-1 of a vector (bias, norm), both multiples of the type's block. */
static const float *infer__weight_values(const infer__weight *w, int64_t first, int64_t n, float *scratch) {
    const char *data = (const char *)w->data + first / w->type->values * w->type->bytes;
    const float *p = infer__quant_in_place(w->type, data);
    if (p) return p;
    w->type->decode(data, scratch, n);
    return scratch;
}

typedef struct infer__matmul_job {
    infer__ctx *c;
    const infer__matmul_args *a;
    int32_t step;     /* rows of a weight per task */
    int32_t first[4]; /* first task of each weight; first[n_w] = number of tasks */
} infer__matmul_job;

static void infer__matmul_task(void *arg, int task, int worker) {
    const infer__matmul_job *job = (const infer__matmul_job *)arg;
    const infer__matmul_args *a = job->a;
    const infer__kernels *k = job->c->kernels;
    float *scratch = infer__cpu_scratch(job->c, worker), bias[INFER__TILE_ROWS];
    const infer__weight *w;
    const infer__tensor *y;
    const float *rows, *b;
    int64_t stride;
    int32_t j = 0, r, n, i;
    while (task >= job->first[j + 1]) j++;
    w = a->w[j];
    y = &a->y[j];
    r = (task - job->first[j]) * job->step;
    n = INFER__MIN(job->step, w->rows - r);
    rows = infer__weight_rows(w, r, n, scratch, &stride);
    k->tile(rows, stride, n, infer__row(&a->x, 0), a->x.stride, a->x.rows, w->cols, infer__row(y, 0) + r, y->stride);
    if (!a->b[j]) return;
    b = infer__weight_values(a->b[j], r, n, bias);
    for (i = 0; i < a->x.rows; i++) k->axpy(infer__row(y, i) + r, b, 1.0f, n);
}

static void infer__cpu_matmul(infer__ctx *c, const infer__matmul_args *a) {
    infer__matmul_job job;
    int64_t rows = 0, work = 0;
    uint64_t bytes = 0;
    int32_t j, cols = a->x.cols;
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
    job.step = (int32_t)INFER__MIN(rows / (4 * infer__pool_threads(c->pool)), infer__tile_rows(cols));
    job.step = INFER__MAX(job.step & ~3, 4);
    INFER__ASSERT((int64_t)job.step * cols <= c->scratch_len);
    for (j = 0, job.first[0] = 0; j < a->n_w; j++)
        job.first[j + 1] = job.first[j] + (a->w[j]->rows + job.step - 1) / job.step;
    infer__cpu_run(c, job.first[a->n_w], work * a->x.rows, infer__matmul_task, &job);
    infer__op_end(c, "matmul", bytes, began);
}
