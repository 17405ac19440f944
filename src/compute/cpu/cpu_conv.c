/* cpu_conv.c: short causal convolutions of each column, with the rows before a pass in a state, on the CPU.
 *
 * Rules: a row's u is computed for each of the `taps` rows that read it: that is cheaper than keeping it, and a row's
 *        result depends on nothing but its own rows, so it does not matter where passes are cut.
 */
#include "cpu_ops.h"

/* Columns [col, col + n) of u at `back` rows before `row`, of which `before` are in this pass. */
static void infer__conv_input(const infer__conv_args *a, int32_t row, int32_t back, int32_t before, const float *state,
                              int32_t col, int32_t n, float *u) {
    const float *x, *gate;
    int32_t i;
    if (back > before) { /* in the state: its last row is the one before the pass's first */
        if (!state) {
            memset(u, 0, (size_t)n * sizeof *u);
            return;
        }
        x = state + (int64_t)(a->taps - 1 - (back - before)) * a->x.cols + col;
        memcpy(u, x, (size_t)n * sizeof *u);
        return;
    }
    x = infer__row(&a->x, row - back) + col;
    gate = a->gate_in.buf ? infer__row(&a->gate_in, row - back) + col : NULL;
    for (i = 0; i < n; i++) u[i] = gate ? x[i] * gate[i] : x[i];
}

typedef struct infer__conv_job {
    infer__ctx *c;
    const infer__conv_args *a;
    int32_t step; /* columns at a time: 2 * taps floats each fit the scratch */
} infer__conv_job;

static const float *infer__conv_state(const infer__conv_args *a, int32_t cell) {
    uint64_t floats = (uint64_t)(a->taps - 1) * (uint64_t)a->x.cols;
    return cell < 0 ? NULL : (const float *)a->state->host + (uint64_t)cell * floats;
}

/* Columns of one row. `last`: of its sequence in this pass, which leaves the state behind. */
static void infer__conv_part(const infer__conv_job *job, int32_t row, int32_t before, int last, int32_t col, int32_t n,
                             float *scratch) {
    const infer__conv_args *a = job->a;
    const infer__pass *p = &job->c->pass;
    const float *state = infer__conv_state(a, p->cell_in[p->seq[row]]), *w, *gate;
    float *out = (float *)(uintptr_t)infer__conv_state(a, p->cell_out[p->seq[row]]), *u = scratch;
    float *y = infer__row(&a->y, row) + col;
    const int32_t taps = a->taps;
    int64_t stride;
    int32_t i, k;
    w = infer__weight_rows(a->w, col, n, scratch + (int64_t)taps * n, &stride);
    for (k = 0; k < taps; k++)
        infer__conv_input(a, row, taps - 1 - k, before, state, col, n, u + (int64_t)k * n);
    gate = a->gate_out.buf ? infer__row(&a->gate_out, row) + col : NULL;
    for (i = 0; i < n; i++) {
        float sum = 0.0f;
        for (k = 0; k < taps; k++) sum += w[i * stride + k] * u[(int64_t)k * n + i];
        y[i] = gate ? sum * gate[i] : sum;
    }
    for (k = 1; last && k < taps; k++)
        memcpy(out + (int64_t)(k - 1) * a->x.cols + col, u + (int64_t)k * n, (size_t)n * sizeof *u);
}

static void infer__conv_task(void *arg, int row, int worker) {
    const infer__conv_job *job = (const infer__conv_job *)arg;
    const infer__pass *p = &job->c->pass;
    const int32_t cols = job->a->x.cols;
    int32_t before = 0, col, last = row + 1 == job->a->x.rows || p->seq[row + 1] != p->seq[row];
    while (before < job->a->taps - 1 && before < row && p->seq[row - before - 1] == p->seq[row]) before++;
    for (col = 0; col < cols; col += job->step)
        infer__conv_part(job, row, before, last, col, INFER__MIN(job->step, cols - col),
                         infer__cpu_scratch(job->c, worker));
}

static void infer__cpu_conv(infer__ctx *c, const infer__conv_args *a) {
    infer__conv_job job;
    double began = infer__op_begin(c);
    if (began < 0) return;
    INFER__ASSERT(a->w->rows == a->x.cols && a->w->cols == a->taps && a->y.cols == a->x.cols && a->taps > 1);
    job.c = c;
    job.a = a;
    job.step = (int32_t)INFER__MIN(c->cpu->scratch_len / (2 * a->taps), (int64_t)1024);
    INFER__ASSERT(job.step > 0);
    infer__cpu_run(c, a->x.rows, (int64_t)a->x.rows * a->x.cols * a->taps * 4, infer__conv_task, &job);
    infer__op_end(c, "conv", (uint64_t)a->w->rows * a->w->row_bytes, began);
}
