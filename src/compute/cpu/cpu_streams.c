/* cpu_streams.c: several residual streams, and the sparse activation that comes with them (Gemma 3n), on the CPU; sums
 * of earlier states of the stream (Kimi K3); hyper-connections.
 *
 * Rules: a row's result depends only on its own row, so rows may be split over threads in any way. Sums over streams
 *        are in their order.
 */
#include "cpu_ops.h"

typedef struct infer__streams_job { infer__ctx *c; const infer__streams_args *a; } infer__streams_job;

/* Row r of stream i: of x, or of those after it. */
static float *infer__stream_row(const infer__streams_args *a, int32_t i, int32_t r) {
    return i == 0 ? infer__row(&a->x, r) : infer__row(&a->rest, (i - 1) * a->x.rows + r);
}

/* Every stream += sum over j of coef[i][j] * stream j, all from what they were; what stream 0 becomes also to base. */
static void infer__streams_predict(const infer__streams_args *a, int32_t r) {
    enum { PIECE = 64 };
    float was[INFER__MAX_STREAMS][PIECE], sum[PIECE];
    const float *coef = infer__row(&a->coef, r);
    int32_t n = a->n, col, k, i, j, e;
    for (col = 0; col < a->x.cols; col += PIECE) {
        k = INFER__MIN(a->x.cols - col, PIECE);
        for (i = 0; i < n; i++) memcpy(was[i], infer__stream_row(a, i, r) + col, (size_t)k * sizeof(float));
        for (i = 0; i < n; i++) {
            for (e = 0; e < k; e++) sum[e] = coef[i * n] * was[0][e];
            for (j = 1; j < n; j++)
                for (e = 0; e < k; e++) sum[e] += coef[i * n + j] * was[j][e];
            for (e = 0; e < k; e++) infer__stream_row(a, i, r)[col + e] = was[i][e] + sum[e];
        }
        memcpy(infer__row(&a->base, r) + col, infer__row(&a->x, r) + col, (size_t)k * sizeof(float));
    }
}

/* Every stream += (x - base) * (1 + coef[i]), stream 0 from base on; and scaled = x * scale. */
static void infer__streams_correct(const infer__streams_job *job, int32_t r, float *scratch) {
    const infer__streams_args *a = job->a;
    float *x = infer__row(&a->x, r), *base = infer__row(&a->base, r), *scaled = infer__row(&a->scaled, r);
    const float *coef = infer__row(&a->coef, r), *scale = infer__weight_values(a->scale, 0, a->x.cols, scratch);
    int32_t cols = a->x.cols, i, e;
    for (i = 1; i < a->n; i++) {
        float *y = infer__stream_row(a, i, r), w = 1.0f + coef[i];
        for (e = 0; e < cols; e++) y[e] += (x[e] - base[e]) * w;
    }
    for (e = 0; e < cols; e++) {
        x[e] = base[e] + (x[e] - base[e]) * (1.0f + coef[0]);
        scaled[e] = x[e] * scale[e];
    }
}

/* Scale the others to the length of x. The lower limit of the mean square is the published code's. */
static void infer__streams_match(const infer__streams_job *job, int32_t r) {
    const infer__streams_args *a = job->a;
    const infer__kernels *k = job->c->kernels;
    int32_t cols = a->x.cols, i;
    float want = sqrtf(k->sum_sq_diff(infer__row(&a->x, r), 0.0f, cols) / (float)cols), have;
    for (i = 1; i < a->n; i++) {
        have = k->sum_sq_diff(infer__stream_row(a, i, r), 0.0f, cols) / (float)cols;
        k->scale(infer__stream_row(a, i, r), want / sqrtf(have < 1e-5f ? 1e-5f : have), cols);
    }
}

/* x = max(x - (mean + cut * deviation), 0): of normally distributed values a share stays. */
static void infer__streams_cut(const infer__streams_job *job, int32_t r) {
    const infer__kernels *k = job->c->kernels;
    float *x = infer__row(&job->a->x, r), mean, least;
    int32_t cols = job->a->x.cols, e;
    mean = k->sum(x, cols) / (float)cols;
    least = mean + job->a->cut * sqrtf(k->sum_sq_diff(x, mean, cols) / (float)cols);
    for (e = 0; e < cols; e++) x[e] = x[e] < least ? 0.0f : x[e] - least; /* NaN stays */
}

/* base = sum of p_i stream i, x the last of them. scratch: a row and n floats. */
static void infer__streams_attend(const infer__streams_job *job, int32_t r, float *scratch) {
    const infer__streams_args *a = job->a;
    const int32_t cols = a->x.cols, n = a->n;
    const float *scale = infer__weight_values(a->scale, 0, cols, scratch);
    float *p = scratch + cols, *y = infer__row(&a->base, r), most = -3e38f, sum = 0;
    int32_t i, e;
    for (i = 0; i < n; i++) {
        const float *x = infer__stream_row(a, (i + 1) % n, r);
        double dot = 0;
        for (e = 0; e < cols; e++) dot += (double)x[e] * scale[e];
        p[i] = (float)dot / sqrtf(job->c->kernels->sum_sq_diff(x, 0.0f, cols) / (float)cols + a->cut);
        most = p[i] > most ? p[i] : most;
    }
    for (i = 0; i < n; i++) sum += p[i] = infer__exp_minus_f32(p[i] - most);
    memset(y, 0, (size_t)cols * sizeof *y);
    for (i = 0; i < n; i++) job->c->kernels->axpy(y, infer__stream_row(a, (i + 1) % n, r), p[i] / sum, cols);
}

/* Rows or columns (step: to the next number of one; next: to the next one) over their sum + cut. */
static void infer__streams_share(float *m, int32_t n, int32_t step, int32_t next, float cut) {
    int32_t i, j;
    for (i = 0; i < n; i++, m += next) {
        float sum = 0;
        for (j = 0; j < n; j++) sum += m[j * step];
        for (j = 0; j < n; j++) m[j * step] /= sum + cut;
    }
}

/* n x n numbers as infer__streams_args says. */
static void infer__streams_balance(float *m, int32_t n, int32_t rounds, float cut) {
    int32_t i, j;
    for (i = 0; i < n; i++) {
        float most = m[i * n];
        for (j = 1; j < n; j++) most = m[i * n + j] > most ? m[i * n + j] : most;
        for (j = 0; j < n; j++) m[i * n + j] = infer__exp_minus_f32(m[i * n + j] - most);
    }
    infer__streams_share(m, n, 1, n, 0);
    for (i = 0; i < n * n; i++) m[i] += cut;
    infer__streams_share(m, n, n, 1, cut);
    for (i = 1; i < rounds; i++) {
        infer__streams_share(m, n, 1, n, cut);
        infer__streams_share(m, n, n, 1, cut);
    }
}

/* Turn a matrix's results into weights, and base into the weighted sum. scratch: the two vectors. */
static void infer__streams_join(const infer__streams_job *job, int32_t r, float *scratch) {
    const infer__streams_args *a = job->a;
    const int32_t n = a->n, cols = a->x.cols, more = a->coef.cols > n, mixed = a->coef.cols > 2 * n;
    float *coef = infer__row(&a->coef, r), *y = infer__row(&a->base, r);
    const float *streams = infer__row(&a->rest, r);
    const float *offset = infer__weight_values(a->offset, 0, a->coef.cols, scratch);
    const float *scale = infer__weight_values(a->scale, 0, 1 + more + mixed, scratch + a->coef.cols);
    int32_t i;
    for (i = 0; i < n; i++) coef[i] = infer__sigmoid(coef[i] * scale[0] + offset[i]) + a->cut;
    for (i = n; more && i < 2 * n; i++)
        coef[i] = a->times * infer__sigmoid(coef[i] * scale[1] + offset[i]) + (mixed ? 0.0f : a->cut);
    for (i = 2 * n; i < a->coef.cols; i++) coef[i] = coef[i] * scale[2] + offset[i];
    if (mixed) infer__streams_balance(coef + 2 * n, n, a->rounds, a->cut);
    memset(y, 0, (size_t)cols * sizeof *y);
    for (i = 0; i < n; i++) job->c->kernels->axpy(y, streams + (int64_t)i * cols, coef[i], cols);
}

/* Streams become x and each other, weighted. */
static void infer__streams_mix(const infer__streams_args *a, const float *coef, const float *x, float *streams) {
    enum { PIECE = 64 };
    float was[INFER__MAX_STREAMS][PIECE];
    const int32_t n = a->n, cols = a->x.cols;
    int32_t col, k, i, j, e;
    for (col = 0; col < cols; col += PIECE) {
        k = INFER__MIN(cols - col, PIECE);
        for (i = 0; i < n; i++) memcpy(was[i], streams + (int64_t)i * cols + col, (size_t)k * sizeof(float));
        for (i = 0; i < n; i++) {
            float *y = streams + (int64_t)i * cols + col;
            for (e = 0; e < k; e++) y[e] = coef[n + i] * x[col + e];
            for (j = 0; j < n; j++)
                for (e = 0; e < k; e++) y[e] += coef[2 * n + j * n + i] * was[j][e];
        }
    }
}

static void infer__streams_spread(const infer__streams_job *job, int32_t r) {
    const infer__streams_args *a = job->a;
    const float *coef = infer__row(&a->coef, r), *x = infer__row(&a->x, r);
    float *streams = infer__row(&a->rest, r);
    int32_t i, cols = a->x.cols;
    if (a->coef.cols > 2 * a->n) {
        infer__streams_mix(a, coef, x, streams);
        return;
    }
    for (i = 0; i < a->n; i++) job->c->kernels->axpy(streams + (int64_t)i * cols, x, coef[a->n + i], cols);
}

static void infer__streams_keyed(const infer__streams_job *job, int32_t r) {
    const infer__streams_args *a = job->a;
    const float *x = infer__row(&a->x, r), *streams = infer__row(&a->base, r);
    float *key = infer__row(&a->rest, r), d, root;
    const int32_t cols = a->x.cols;
    int32_t i, e;
    for (i = 0; i < a->n; i++, key += cols, streams += cols) {
        job->c->kernels->dot(key, streams, 0, 1, cols, &d);
        d *= 1.0f / sqrtf((float)cols);
        root = sqrtf(fabsf(d) < 1e-6f ? 1e-6f : fabsf(d)); /* NaN stays */
        d = infer__sigmoid(d > 0 ? root : d < 0 ? -root : d);
        for (e = 0; e < cols; e++) key[e] = x[e] * d;
    }
}

static void infer__streams_task(void *arg, int row, int worker) {
    const infer__streams_job *job = (const infer__streams_job *)arg;
    switch (job->a->kind) {
    case INFER__STREAMS_PREDICT: infer__streams_predict(job->a, row); break;
    case INFER__STREAMS_CORRECT: infer__streams_correct(job, row, infer__cpu_scratch(job->c, worker)); break;
    case INFER__STREAMS_MATCH: infer__streams_match(job, row); break;
    case INFER__STREAMS_ATTEND: infer__streams_attend(job, row, infer__cpu_scratch(job->c, worker)); break;
    case INFER__STREAMS_JOIN: infer__streams_join(job, row, infer__cpu_scratch(job->c, worker)); break;
    case INFER__STREAMS_SPREAD: infer__streams_spread(job, row); break;
    case INFER__STREAMS_KEYED: infer__streams_keyed(job, row); break;
    default: infer__streams_cut(job, row);
    }
}

static void infer__cpu_streams(infer__ctx *c, const infer__streams_args *a) {
    infer__streams_job job;
    double began = infer__op_begin(c);
    if (began < 0 || !infer__vector_ok(c, a->scale, "scales of streams")) return;
    if (!infer__vector_ok(c, a->offset, "offsets of streams")) return;
    INFER__ASSERT(a->kind >= INFER__STREAMS_CUT || (a->n >= 2 && a->n <= INFER__MAX_STREAMS));
    INFER__ASSERT(a->kind != INFER__STREAMS_ATTEND || (a->n > 0 && a->x.cols + a->n <= c->cpu->scratch_len));
    INFER__ASSERT(a->kind < INFER__STREAMS_JOIN || (a->rest.cols == a->n * a->x.cols && a->rest.rows == a->x.rows));
    INFER__ASSERT(a->kind != INFER__STREAMS_JOIN || a->coef.cols == a->n || a->coef.cols >= 2 * a->n);
    INFER__ASSERT(a->kind != INFER__STREAMS_SPREAD || a->coef.cols >= 2 * a->n);
    INFER__ASSERT(a->kind < INFER__STREAMS_JOIN || a->coef.cols <= 2 * a->n || a->coef.cols == (2 + a->n) * a->n);
    INFER__ASSERT(a->kind == INFER__STREAMS_CUT || a->kind >= INFER__STREAMS_JOIN || a->rest.rows == (a->n - 1) * a->x.rows);
    INFER__ASSERT(a->kind != INFER__STREAMS_PREDICT || a->coef.cols == a->n * a->n);
    INFER__ASSERT(a->kind != INFER__STREAMS_CORRECT || (a->coef.cols == a->n && a->x.cols <= c->cpu->scratch_len));
    job.c = c;
    job.a = a;
    infer__cpu_run(c, a->x.rows,
                   (int64_t)a->x.rows * a->x.cols * (a->n < INFER__MAX_STREAMS ? a->n * a->n + 2 : 4 * a->n),
                   infer__streams_task, &job);
    infer__op_end(c, "streams", 0, began);
}
