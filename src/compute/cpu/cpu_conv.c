/* cpu_conv.c: short causal convolutions of each column, with the rows before a pass in a state, on the CPU.
 *
 * Rules: a task has some columns and iterates over all rows; the last rows are kept in a ring, the weights are stored
 *        tap by tap. Sums are in the order of taps, without fused multiply-add, so that a result depends only on its
 *        own rows: neither on the level, nor on where passes are split.
 */
#include "cpu_exp.h"

/* y[i] = sum over k of w[k][i] * u[k][i], i < n, a multiple of INFER__LANES; rows of w are n floats apart. */
typedef void (*infer__conv_fn)(float *y, const float *w, const float *const *u, int32_t taps, int32_t n);
#define INFER__CONV_DEFINE(L)                                                                                          \
  INFER__ON_##L static void infer__conv_row_##L(float *y, const float *w, const float *const *u, int32_t taps,         \
                                                int32_t n) {                                                           \
    int32_t i, k;                                                                                                      \
    for (i = 0; i < n; i += INFER__LANES) {                                                                            \
      infer__v16_##L sum = infer__zero_##L();                                                                          \
      for (k = 0; k < taps; k++)                                                                                       \
        sum =                                                                                                          \
            infer__vadd_##L(sum, infer__vmul_##L(infer__load_##L(w + (int64_t)k * n + i), infer__load_##L(u[k] + i))); \
      infer__store_##L(y + i, sum);                                                                                    \
    }                                                                                                                  \
  }
INFER__CONV_DEFINE(scalar)
#if defined(INFER__SIMD_AVX2)
INFER__CONV_DEFINE(avx2)
#  if defined(INFER__SIMD_AVX512)
INFER__CONV_DEFINE(avx512)
#  endif
#endif
#if defined(INFER__SIMD_ARM)
INFER__CONV_DEFINE(neon)
#endif
#undef INFER__CONV_DEFINE

static const struct {
    uint32_t need;
    infer__conv_fn row;
} INFER__CONV_LEVELS[] = {
#if defined(INFER__SIMD_AVX2)
#  if defined(INFER__SIMD_AVX512)
    {INFER__CPU_AVX2 | INFER__CPU_AVX512, infer__conv_row_avx512},
#  endif
    {INFER__CPU_AVX2, infer__conv_row_avx2},
#endif
#if defined(INFER__SIMD_ARM)
    {INFER__CPU_NEON, infer__conv_row_neon},
#endif
    {0, infer__conv_row_scalar}};

enum {
    INFER__CONV_STEP = 256,
    INFER__CONV_TASKS = 32,
    INFER__CONV_TAPS = 64
}; /* columns of a task at most; tasks; taps */

typedef struct infer__conv_job {
    infer__ctx *c;
    const infer__conv_args *a;
    infer__conv_fn fn;
    int32_t apart, deep; /* rows from a tap to the next, rows in the ring */
    int32_t step; /* columns at a time, a multiple of INFER__LANES: taps + deep + 2 floats each fit the scratch */
} infer__conv_job;

/* Columns [col, col + n) of u in a row. */
static void infer__conv_input(const infer__conv_args *a, int32_t row, int32_t col, int32_t n, float *u) {
    const float *x = infer__row(&a->x, row), *gate = a->gate_in.buf ? infer__row(&a->gate_in, row) + col : NULL;
    int32_t i, k;
    if (!a->x_run) memcpy(u, x + col, (size_t)n * sizeof *u);
    for (i = 0; a->x_run && i < n; i += k) {
        const int32_t at = (col + i) % a->x_run;
        k = INFER__MIN(a->x_run - at, n - i);
        memcpy(u + i, x + (int64_t)((col + i) / a->x_run) * a->x_step + at, (size_t)k * sizeof *u);
    }
    for (i = 0; gate && i < n; i++) u[i] *= gate[i];
}

static float *infer__conv_state(const infer__conv_job *job, const int32_t *cells, int32_t seq) {
    uint64_t floats = (uint64_t)(job->deep - 1) * (uint64_t)job->a->x.cols;
    if (!job->a->state || cells[seq] < 0) return NULL;
    return (float *)job->a->state->host + (uint64_t)cells[seq] * floats;
}

static void infer__conv_task(void *arg, int task, int worker) {
    const infer__conv_job *job = (const infer__conv_job *)arg;
    const infer__conv_args *a = job->a;
    const infer__pass *p = &job->c->pass;
    const int32_t taps = a->taps, deep = job->deep, step = job->step, cols = a->x.cols, col = task * step,
                  n = INFER__MIN(step, cols - col);
    float *scratch = infer__cpu_scratch(job->c, worker), *ring = scratch + (int64_t)taps * step;
    float *sums = ring + (int64_t)deep * step, *y, *state;
    const float *u[INFER__CONV_TAPS], *bias = NULL, *gate;
    int64_t stride;
    int32_t row, k, i, since = 0; /* rows of the sequence before this one */
    const float *w = infer__weight_rows(a->w, col, n, ring, &stride);
    for (k = 0; k < taps; k++)
        for (i = 0; i < step; i++) scratch[(int64_t)k * step + i] = i < n ? w[i * stride + k] : 0.0f;
    memset(ring, 0, (size_t)deep * (size_t)step * sizeof *ring);
    if (a->bias) bias = infer__weight_values(a->bias, col, n, sums + step);
    for (row = 0; row < a->x.rows; row++, since++) {
        const int32_t seq = p->seq[row];
        if (row == 0 || p->seq[row - 1] != seq) {
            since = 0;
            state = infer__conv_state(job, p->cell_in, seq);
            for (k = 0; k + 1 < deep; k++) { /* in the state, oldest first */
                if (state)
                    memcpy(ring + (int64_t)k * step, state + (int64_t)k * cols + col, (size_t)n * sizeof *ring);
                else
                    memset(ring + (int64_t)k * step, 0, (size_t)n * sizeof *ring);
            }
        }
        infer__conv_input(a, row, col, n, ring + (int64_t)((since + deep - 1) % deep) * step);
        for (k = 0; k < taps; k++) u[k] = ring + (int64_t)((since + k * job->apart) % deep) * step;
        job->fn(sums, scratch, u, taps, step);
        y = infer__row(&a->y, row) + col;
        gate = a->gate_out.buf ? infer__row(&a->gate_out, row) + col : NULL;
        for (i = 0; gate && i < n; i++) sums[i] *= gate[i];
        for (i = 0; bias && i < n; i++) sums[i] += bias[i];
        if (a->silu)
            job->c->kernels->act(y, sums, NULL, INFER__ACT_SILU, n);
        else
            memcpy(y, sums, (size_t)n * sizeof *y);
        if (row + 1 < a->x.rows && p->seq[row + 1] == seq) continue;
        state = infer__conv_state(job, p->cell_out, seq);
        for (k = 1; state && k < deep; k++)
            memcpy(state + (int64_t)(k - 1) * cols + col, ring + (int64_t)((since + k) % deep) * step,
                   (size_t)n * sizeof *state);
    }
}

static void infer__cpu_conv(infer__ctx *c, const infer__conv_args *a) {
    infer__conv_job job;
    int32_t level = 0, part;
    double began = infer__op_begin(c);
    if (began < 0 || !infer__vector_ok(c, a->bias, "a convolution's bias")) return;
    INFER__ASSERT(a->w->rows == a->x.cols && a->w->cols == a->taps && a->y.cols == a->x.cols && a->taps > 1);
    INFER__ASSERT(a->taps <= INFER__CONV_TAPS && !(a->x_run && a->gate_in.buf));
    while (INFER__CONV_LEVELS[level].need & ~c->kernels->need) level++;
    job.c = c;
    job.a = a;
    job.fn = INFER__CONV_LEVELS[level].row;
    job.apart = INFER__MAX(a->apart, 1);
    job.deep = (a->taps - 1) * job.apart + 1;
    part = INFER__MIN((a->x.cols + INFER__CONV_TASKS - 1) / INFER__CONV_TASKS + INFER__LANES - 1, INFER__CONV_STEP);
    job.step =
        (int32_t)INFER__MIN(c->cpu->scratch_len / (a->taps + job.deep + 2), (int64_t)part) / INFER__LANES *
            INFER__LANES;
    INFER__ASSERT(job.step > 0);
    infer__cpu_run(c, (a->x.cols + job.step - 1) / job.step, (int64_t)a->x.rows * a->x.cols * a->taps, infer__conv_task,
                   &job);
    infer__op_end(c, "conv", (uint64_t)a->w->rows * a->w->row_bytes, began);
}
