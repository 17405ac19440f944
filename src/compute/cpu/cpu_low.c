/* cpu_low.c: low-rank additions to products on the CPU: adapters (LoRA).
 *
 * How:   a task has some rows, and of few rows a share of the columns of what is added to; it makes A x of its rows by
 *        itself, which costs next to nothing, so that nobody waits between the two products. Values of B lie side by
 *        side for neighbouring columns: sums run over the rank, without sums across lanes.
 * Start: infer__cpu_low.
 */
#include "cpu_ops.h"

enum {
    INFER__LOW_ROWS = 16,     /* of a task, at most */
    INFER__LOW_COLUMNS = 1024 /* of a task, at least */
};

typedef struct infer__low_job {
    infer__ctx *c;
    const infer__low_args *a;
    int32_t rows, shares; /* of x in a task; tasks of the same rows */
} infer__low_job;

/* y's rows of tokens (with experts), or of x, from `row` on: columns [from, from + n). */
static void infer__low_rows(const infer__low_job *job, const infer__low_part *p, int32_t row, int32_t count,
                            int32_t from, int32_t n, float *low) {
    const infer__low_args *a = job->a;
    const infer__kernels *k = job->c->kernels;
    const infer__tensor *y = &a->y[p->of];
    const int32_t cols = a->x.cols;
    int32_t i, j, expert;
    if (!a->ids.buf) {
        k->tile(p->a, cols, p->rank, infer__row(&a->x, row), a->x.stride, count, cols, low, p->rank);
        for (i = 0; i < count; i++)
            k->mix(infer__row(y, row + i) + from, p->b + p->first + from, p->width, low + (int64_t)i * p->rank, p->rank,
                   p->scale, n);
        return;
    }
    for (i = row; i < row + count; i++)
        for (j = 0; j < a->n_used; j++) {
            const int32_t pair = i * a->n_used + j, summed = a->weights.buf != NULL;
            memcpy(&expert, infer__row(&a->ids, i) + j, sizeof expert);
            INFER__ASSERT(expert >= 0 && expert < a->n_expert);
            k->dot(infer__row(&a->x, a->per_expert_x ? pair : i), p->a + (int64_t)expert * p->rank * cols, cols,
                   p->rank, cols, low);
            k->mix(infer__row(y, summed ? i : pair) + from, p->b + (int64_t)expert * p->rank * p->width + from,
                   p->width, low, p->rank, summed ? p->scale * infer__row(&a->weights, i)[j] : p->scale, n);
        }
}

static void infer__low_task(void *arg, int task, int worker) {
    const infer__low_job *job = (const infer__low_job *)arg;
    const infer__low_args *a = job->a;
    const int32_t all = a->ids.buf ? a->ids.rows : a->x.rows, share = task % job->shares;
    const int32_t row = task / job->shares * job->rows, count = INFER__MIN(job->rows, all - row);
    float *low = infer__cpu_scratch(job->c, worker);
    int32_t i;
    for (i = 0; i < a->n_parts; i++) {
        const int32_t lines = (a->y[a->parts[i].of].cols + INFER__LANES - 1) / INFER__LANES;
        const int32_t from = (int32_t)((int64_t)lines * share / job->shares) * INFER__LANES;
        const int32_t end = INFER__MIN((int32_t)((int64_t)lines * (share + 1) / job->shares) * INFER__LANES,
                                       a->y[a->parts[i].of].cols);
        if (from < end) infer__low_rows(job, &a->parts[i], row, count, from, end - from, low);
    }
}

static void infer__cpu_low(infer__ctx *c, const infer__low_args *a) {
    const int32_t threads = infer__pool_threads(c->pool), all = a->ids.buf ? a->ids.rows : a->x.rows;
    const int32_t times = a->ids.buf ? a->n_used : 1;
    double began = infer__op_begin(c);
    int64_t work = 0, most = 1;
    uint64_t bytes = 0;
    int32_t i;
    infer__low_job job;
    if (began < 0) return;
    job.c = c;
    job.a = a;
    job.rows = INFER__MIN(INFER__LOW_ROWS, (all + threads - 1) / threads);
    for (i = 0; i < a->n_parts; i++) {
        const infer__low_part *p = &a->parts[i];
        const int64_t each = (int64_t)p->rank * (a->x.cols + a->y[p->of].cols);
        INFER__ASSERT(p->rank <= c->cpu->scratch_len);
        work += each * all * times;
        most = INFER__MAX(most, a->y[p->of].cols);
        bytes += (uint64_t)each * (uint64_t)times * sizeof(float);
        job.rows = (int32_t)INFER__MIN(job.rows, INFER__MAX(c->cpu->scratch_len / p->rank, 1));
    }
    job.shares = all >= threads ? 1 : (int32_t)INFER__MIN((threads + all - 1) / all,
                                                          (most + INFER__LOW_COLUMNS - 1) / INFER__LOW_COLUMNS);
    infer__cpu_run(c, (all + job.rows - 1) / job.rows * job.shares, work, infer__low_task, &job);
    infer__op_end(c, "adapters", bytes, began);
}
