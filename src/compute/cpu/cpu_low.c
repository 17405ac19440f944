/* cpu_low.c: low-rank additions to products on the CPU: adapters (LoRA).
 *
 * How:   A x is computed for all rows. Then every task of the product adds B times that to its own rows and columns of
 *        y while they are in its cache: a separate pass over y would take more time than the arithmetic. With many rows
 *        A x is computed before the product. With few, starting a job would cost as much as the arithmetic: so workers
 *        compute shares of A x at the start of the product's own tasks, and need all of it at their ends. Shares made
 *        at the ends were waited for (135M shape, Q4_0, Zen 5, 2 threads, A and B in the caches: 0.93 instead of 0.84
 *        of the speed without adapters). A, and the columns of B that a task needs, are prefetched when it begins; the
 *        rest of the cost is their bytes: tests/bench_adapters.c. B is stored in blocks of 16 adjacent
 *        columns, rank by rank: sums run over the rank, without sums across lanes, and memory is read in one stream.
 *        Experts: a task is a token.
 * Invariant: what is added to a row depends neither on other rows nor on the tasks.
 * Start: infer__low_begin; in a task infer__low_take, infer__low_make, the product, infer__low_finish.
 */
#include "cpu_ops.h"

enum {
    INFER__LOW_ROWS = 32,     /* of x in a task that has all rows of A, */
    INFER__LOW_RANKS = 4,     /* or of A's in one that has all of x's few rows */
    INFER__LOW_COLUMNS = 1024 /* of y, where it is an op of its own */
};

typedef struct infer__low_job {
    infer__ctx *c;
    const infer__low_args *a;
    int32_t tasks[INFER__LOW_PARTS]; /* of A x of each part, n in all */
    int32_t n, share;                /* share: units that a worker takes at once */
    infer__atomic taken, done;       /* in tasks of the product: of the n */
} infer__low_job;

/* The share of A x that a task of the product has taken. */
typedef struct infer__low_share { int32_t from, end; } infer__low_share;

/* A x of the rows of part i: [rows][rank] in the room, after those of the parts before. */
static float *infer__low_values(const infer__low_args *a, int32_t i) {
    float *low = (float *)a->room->host;
    while (--i >= 0) low += (int64_t)a->parts[i].rows * a->parts[i].rank;
    return low;
}

static int32_t infer__low_down_tasks(const infer__low_part *p) {
    if (p->rows > INFER__LOW_ROWS) return (p->rows + INFER__LOW_ROWS - 1) / INFER__LOW_ROWS;
    return (p->rank + INFER__LOW_RANKS - 1) / INFER__LOW_RANKS;
}

/* Some rows of x by all of A's, or some of these. */
static void infer__low_down_task(void *arg, int task, int worker) {
    const infer__low_job *job = (const infer__low_job *)arg;
    const infer__low_args *a = job->a;
    const infer__kernels *k = job->c->kernels;
    const infer__low_part *p;
    const int32_t cols = a->x.cols;
    int32_t i = 0, from = 0, end, row = 0, n, count;
    float *low, *wide = infer__cpu_scratch(job->c, worker);
    for (; task >= job->tasks[i]; i++) task -= job->tasks[i];
    p = &a->parts[i];
    if (p->rows > INFER__LOW_ROWS) row = task * INFER__LOW_ROWS;
    else from = task * INFER__LOW_RANKS;
    end = p->rows > INFER__LOW_ROWS ? p->rank : INFER__MIN(from + INFER__LOW_RANKS, p->rank);
    count = INFER__MIN(INFER__LOW_ROWS, p->rows - row);
    low = infer__low_values(a, i) + (int64_t)row * p->rank;
    for (; from < end; from += n) {
        const uint8_t *w = p->a + (int64_t)from * cols * infer__low_bytes(p->kind);
        n = INFER__MIN(INFER__LOW_RANKS, end - from);
        if (count == 1) {
            k->low_dots(low + from, w, p->kind, n, infer__row(&a->x, p->row + row), cols);
            continue;
        }
        if (p->kind != INFER__LOW_F32) k->widen(wide, w, p->kind, (int64_t)n * cols);
        k->tile(p->kind == INFER__LOW_F32 ? (const float *)(const void *)w : wide, cols, n,
                infer__row(&a->x, p->row + row), a->x.stride, count, cols, low + from, p->rank);
    }
}

/* Before infer__low_take and infer__low_columns: A x of all parts, unless tasks of the product are to make it. */
static void infer__low_begin(infer__low_job *job, infer__ctx *c, const infer__low_args *a, int apart) {
    int64_t work = 0;
    int32_t i, many = 0;
    job->c = c;
    job->a = a;
    job->n = 0;
    for (i = 0; i < a->n_parts; i++) {
        const infer__low_part *p = &a->parts[i];
        job->n += job->tasks[i] = infer__low_down_tasks(p);
        work += (int64_t)p->rows * p->rank * a->x.cols;
        many |= p->rows > INFER__LOW_ROWS;
    }
    job->share = (job->n + infer__pool_threads(c->pool) - 1) / infer__pool_threads(c->pool);
    infer__atomic_set(&job->taken, 0);
    infer__atomic_set(&job->done, 0);
    INFER__ASSERT((uint64_t)(work / a->x.cols) * sizeof(float) <= a->room->bytes); /* of low values */
    INFER__ASSERT((int64_t)INFER__LOW_RANKS * a->x.cols <= c->cpu->scratch_len);
#if defined(INFER__ATOMICS) /* needed to share the work */
    if (!many && !apart) return;
#endif
    infer__cpu_run(c, job->n, work, infer__low_down_task, job);
    infer__atomic_set(&job->taken, job->n);
    infer__atomic_set(&job->done, job->n);
}

INFER__INLINE void infer__low_ask(const uint8_t *p, int64_t bytes) {
    for (; bytes > 0; bytes -= 64, p += 64) INFER__PREFETCH_FAR(p);
}

/* Take at most n of the remaining shares. */
static infer__low_share infer__low_claim(infer__low_job *job, int32_t n) {
    infer__low_share s = {0, 0};
    int64_t at;
    if (infer__atomic_get(&job->taken) >= job->n) return s;
    at = infer__atomic_add(&job->taken, n);
    s.from = (int32_t)INFER__MIN(at, job->n);
    s.end = (int32_t)INFER__MIN(at + n, job->n);
    return s;
}

/* At the start of a task that makes rows [r, r + n) of y[of]: take some of A x, and prefetch the inputs of it and of
 * B. */
static infer__low_share infer__low_take(infer__low_job *job, int32_t of, int32_t r, int32_t n) {
    const infer__low_args *a = job->a;
    const infer__low_share s = infer__low_claim(job, job->share);
    int32_t i, task;
    for (i = 0, task = 0; i < a->n_parts && s.from < s.end; task += job->tasks[i++]) {
        const infer__low_part *p = &a->parts[i];
        const int64_t row = (int64_t)a->x.cols * infer__low_bytes(p->kind);
        const int32_t from = INFER__MAX(s.from - task, 0) * INFER__LOW_RANKS;
        const int32_t end = INFER__MIN((s.end - task) * INFER__LOW_RANKS, p->rank);
        if (from < end) infer__low_ask(p->a + from * row, (end - from) * row);
    }
    for (i = 0; i < a->n_parts; i++) {
        const infer__low_part *p = &a->parts[i];
        const int64_t column = (int64_t)p->rank * infer__low_bytes(p->kind);
        if (p->of == of && p->rows <= INFER__LOW_ROWS)
            infer__low_ask(p->b + (p->first + r) / INFER__LANES * INFER__LANES * column, n * column);
    }
    return s;
}

/* Compute the taken share. */
static void infer__low_make(infer__low_job *job, infer__low_share s, int worker) {
    int32_t i;
    if (s.from >= s.end) return;
    for (i = s.from; i < s.end; i++) infer__low_down_task(job, i, worker);
    infer__atomic_add(&job->done, s.end - s.from);
}

/* After the task's product: compute any remaining shares, then wait until all of A x is computed. Only threads that are
 * computing are waited for: a waiting thread has no unfinished share. */
static void infer__low_finish(infer__low_job *job, int worker) {
    infer__low_share s = infer__low_claim(job, 1);
    for (; s.from < s.end; s = infer__low_claim(job, 1)) infer__low_make(job, s, worker);
    infer__await(&job->done, job->n);
}

/* To columns [from, from + n) of rows [row, row + rows) of y[of]. */
static void infer__low_columns(const infer__ctx *c, const infer__low_args *a, int32_t of, int32_t row, int32_t rows,
                               int32_t from, int32_t n) {
    const infer__tensor *y = &a->y[of];
    int32_t i;
    for (i = 0; i < a->n_parts; i++) {
        const infer__low_part *p = &a->parts[i];
        const int32_t first = INFER__MAX(row, p->row), end = INFER__MIN(row + rows, p->row + p->rows);
        if (p->of == of && first < end)
            c->kernels->mix(infer__row(y, first) + from, y->stride, end - first, p->b, p->kind, p->first + from,
                            infer__low_values(a, i) + (int64_t)(first - p->row) * p->rank, p->rank, p->rank, p->scale,
                            n);
    }
}

/* Some rows, and columns, of all y. */
static void infer__low_up_task(void *arg, int task, int worker) {
    const infer__low_job *job = (const infer__low_job *)arg;
    const infer__low_args *a = job->a;
    const int32_t row = task / job->tasks[0] * INFER__LOW_ROWS, from = task % job->tasks[0] * INFER__LOW_COLUMNS;
    int32_t of;
    (void)worker;
    for (of = 0; of < 3 && a->y[of].buf; of++)
        if (from < a->y[of].cols)
            infer__low_columns(job->c, a, of, row, INFER__MIN(INFER__LOW_ROWS, a->x.rows - row), from,
                               INFER__MIN(INFER__LOW_COLUMNS, a->y[of].cols - from));
}

/* The additions to a token's experts, part by part. */
static void infer__low_experts_task(void *arg, int token, int worker) {
    const infer__low_job *job = (const infer__low_job *)arg;
    const infer__low_args *a = job->a;
    const infer__kernels *k = job->c->kernels;
    const int32_t summed = a->weights.buf != NULL;
    float *low = infer__cpu_scratch(job->c, worker);
    int32_t i, j, expert;
    for (i = 0; i < a->n_parts; i++) {
        const infer__low_part *p = &a->parts[i];
        const int64_t size = infer__low_bytes(p->kind);
        if (token < p->row || token >= p->row + p->rows) continue;
        for (j = 0; j < a->n_used; j++) {
            const int32_t pair = token * a->n_used + j;
            memcpy(&expert, infer__row(&a->ids, token) + j, sizeof expert);
            INFER__ASSERT(expert >= 0 && expert < a->n_expert && p->rank <= job->c->cpu->scratch_len);
            k->low_dots(low, p->a + (int64_t)expert * p->rank * a->x.cols * size, p->kind, p->rank,
                        infer__row(&a->x, a->per_expert_x ? pair : token), a->x.cols);
            k->mix(infer__row(&a->y[0], summed ? token : pair), 0, 1,
                   p->b + expert * infer__low_turned(p->rank, p->width) * size, p->kind, 0, low, p->rank, p->rank,
                   summed ? p->scale * infer__row(&a->weights, token)[j] : p->scale, p->width);
        }
    }
}

static void infer__cpu_low(infer__ctx *c, const infer__low_args *a) {
    double began = infer__op_begin(c);
    infer__low_job job;
    int64_t work = 0;
    int32_t i, most = 1;
    if (began < 0) return;
    job.c = c;
    job.a = a;
    for (i = 0; i < a->n_parts; i++) {
        const infer__low_part *p = &a->parts[i];
        work += (int64_t)p->rows * p->rank * (a->ids.buf ? (p->width + a->x.cols) * (int64_t)a->n_used : p->width);
        most = INFER__MAX(most, a->y[p->of].cols);
    }
    if (a->ids.buf) infer__cpu_run(c, a->ids.rows, work, infer__low_experts_task, &job);
    else {
        infer__low_begin(&job, c, a, 1);
        job.tasks[0] = (most + INFER__LOW_COLUMNS - 1) / INFER__LOW_COLUMNS;
        infer__cpu_run(c, (a->x.rows + INFER__LOW_ROWS - 1) / INFER__LOW_ROWS * job.tasks[0], work, infer__low_up_task,
                       &job);
    }
    infer__op_end(c, "adapters", 0, began);
}
