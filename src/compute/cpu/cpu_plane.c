/* cpu_plane.c: what convolutions of pictures need beside products, on the CPU: what a kernel reads, sums of each
 * column, and the softmax of rows.
 *
 * Rules: a row of a result depends on its own positions alone, summed in the order of taps (cpu_conv.c, whose loops
 *        these are), so that it is the same however rows are split.
 */
#include "../backend.h"

enum { INFER__PLANE_ROWS = 32 }; /* of a task */

typedef struct infer__plane_job {
    infer__ctx *c;
    const infer__plane *x;
    const infer__tensor *y;
    const float *w;
    infer__conv_fn fn;
    int32_t side, step, first, before, wide; /* zeros before a line; positions of a result's line */
} infer__plane_job;

static void infer__plane_task(void *arg, int task, int worker) {
    const infer__plane_job *job = (const infer__plane_job *)arg;
    const infer__tensor *t = &job->x->t;
    const int32_t wide = job->x->side, taps = job->side * job->side;
    float *zeros = infer__cpu_scratch(job->c, worker), *to;
    const float *u[INFER__CONV_TAPS];
    int32_t row = task * INFER__PLANE_ROWS, i, j, k;
    memset(zeros, 0, (size_t)t->stride * sizeof *zeros);
    for (; row < INFER__MIN(job->y->rows, (task + 1) * INFER__PLANE_ROWS); row++) {
        to = infer__row(job->y, row);
        for (k = 0; k < taps; k++) {
            j = (job->first + row) / job->wide * job->step - job->before + k / job->side;
            i = (job->first + row) % job->wide * job->step - job->before + k % job->side;
            u[k] = j < 0 || j >= wide || i < 0 || i >= wide ? zeros : infer__row(t, j * wide + i);
            if (!job->w) memcpy(to + (int64_t)k * t->cols, u[k], (size_t)t->cols * sizeof *to);
        }
        if (job->w) job->fn(to, job->w, u, taps, t->stride);
    }
}

static void infer__cpu_plane(infer__ctx *c, const infer__plane *x, int32_t side, int32_t step, const float *w,
                             int32_t first, const infer__tensor *y) {
    infer__plane_job job;
    int32_t level = 0;
    double began = infer__op_begin(c);
    if (began < 0) return;
    INFER__ASSERT(side * side <= INFER__CONV_TAPS && x->t.stride <= c->cpu->scratch_len);
    INFER__ASSERT(!w || (x->t.stride % INFER__LANES == 0 && y->stride == x->t.stride));
    while (INFER__CONV_LEVELS[level].need & ~c->kernels->need) level++;
    job.c = c;
    job.x = x;
    job.y = y;
    job.w = w;
    job.fn = INFER__CONV_LEVELS[level].row;
    job.side = side;
    job.step = step;
    job.first = first;
    job.wide = (x->side + step - 1) / step;
    job.before = INFER__MAX((job.wide - 1) * step + side - x->side, 0) / 2;
    infer__cpu_run(c, (y->rows + INFER__PLANE_ROWS - 1) / INFER__PLANE_ROWS,
                   (int64_t)y->rows * x->t.cols * side * side, infer__plane_task, &job);
    infer__op_end(c, "plane", 0, began);
}

static void infer__softmax_task(void *arg, int task, int worker) {
    const infer__plane_job *job = (const infer__plane_job *)arg;
    const infer__flash *f = infer__flash_find(job->c->kernels->need);
    const int32_t n = job->y->cols;
    int32_t row = task * INFER__PLANE_ROWS, at;
    (void)worker;
    for (; row < INFER__MIN(job->y->rows, (task + 1) * INFER__PLANE_ROWS); row++) {
        float *s = infer__row(job->y, row);
        infer__softmax x = {0, 0};
        infer__score_args a;
        memset(&a, 0, sizeof a);
        for (at = 0; at < n; at += INFER__KV_CHUNK) {
            a.to = INFER__MIN(n - at, INFER__KV_CHUNK) - 1;
            f->softmax(s + at, &a, &x, s, at);
        }
        job->c->kernels->scale(s, 1 / x.l, n);
    }
}

static void infer__cpu_softmax(infer__ctx *c, const infer__tensor *y) {
    infer__plane_job job;
    double began = infer__op_begin(c);
    if (began < 0) return;
    INFER__ASSERT(y->stride % INFER__LANES == 0);
    memset(&job, 0, sizeof job);
    job.c = c;
    job.y = y;
    infer__cpu_run(c, (y->rows + INFER__PLANE_ROWS - 1) / INFER__PLANE_ROWS, (int64_t)y->rows * y->cols * 16,
                   infer__softmax_task, &job);
    infer__op_end(c, "softmax", 0, began);
}
