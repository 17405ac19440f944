/* cpu_wkv.c: RWKV's token shift (infer__shift_args) and its recurrences (infer__wkv_args) on the CPU.
 *
 * Owns:  both, the recurrences in one body for every instruction set, and their split into tasks.
 * Rules: as in cpu_delta.c: a task is a head, a few rows are prepared together, and each block of INFER__LANES values
 *        steps through them while its part of the state is near. A row's result depends on its own and earlier rows alone.
 * Start: infer__cpu_wkv.
 */
#include "cpu_exp.h"

/* ---- token shift ------------------------------------------------------------------------------------------------- */

typedef struct infer__shift_job { infer__ctx *c; const infer__shift_args *a; } infer__shift_job;

static void infer__shift_task(void *arg, int row, int worker) {
    const infer__shift_job *job = (const infer__shift_job *)arg;
    const infer__shift_args *a = job->a;
    const infer__pass *p = &job->c->pass;
    const int32_t cols = a->x.cols, seq = p->seq[row];
    const float *x = infer__row(&a->x, row), *was, *w = (const float *)a->w->data;
    float *y = infer__row(&a->y, row), *state = (float *)a->state->host, t[INFER__LANES];
    int32_t i, j, l;
    if (row > 0 && p->seq[row - 1] == seq) was = infer__row(&a->x, row - 1);
    else if (p->cell_in[seq] >= 0) was = state + (int64_t)p->cell_in[seq] * cols;
    else was = (float *)memset(infer__cpu_scratch(job->c, worker), 0, (size_t)cols * sizeof *x);
    for (j = 0; j < a->n; j++, y += cols, w += cols) {
        for (i = 0; i + INFER__LANES <= cols; i += INFER__LANES) {
            for (l = 0; l < INFER__LANES; l++) t[l] = w[i + l];
            for (l = 0; a->own && l < INFER__LANES; l++) t[l] += y[i + l];
            for (l = 0; l < INFER__LANES; l++) t[l] = x[i + l] + (was[i + l] - x[i + l]) * t[l];
            memcpy(y + i, t, sizeof t);
        }
        for (; i < cols; i++) y[i] = x[i] + (was[i] - x[i]) * (w[i] + (a->own ? y[i] : 0.0f));
    }
    if (row + 1 == a->x.rows || p->seq[row + 1] != seq)
        memcpy(state + (int64_t)p->cell_out[seq] * cols, x, (size_t)cols * sizeof *x);
}

static void infer__cpu_shift(infer__ctx *c, const infer__shift_args *a) {
    infer__shift_job job;
    double began = infer__op_begin(c);
    if (began < 0) return;
    INFER__ASSERT(a->y.cols == a->n * a->x.cols && a->w->cols == a->y.cols && a->x.cols <= c->cpu->scratch_len);
    job.c = c;
    job.a = a;
    infer__cpu_run(c, a->x.rows, (int64_t)a->y.rows * a->y.cols, infer__shift_task, &job);
    infer__op_end(c, "shift", 0, began);
}

/* ---- recurrence -------------------------------------------------------------------------------------------------- */

/* Rows t = 0 .. rows-1 (INFER__LANES at most) of a head: r, k, decays w, of version 7 e and b = a e, all [rows][stride];
 * v and y [rows][INFER__LANES]; c: what y (6) or the bonus (7) has of v. */
typedef struct infer__wkv_rows {
    int32_t rows, dim, stride, kind;
    float *r, *k, *w, *e, *b, c[INFER__LANES];
    float v[INFER__LANES * INFER__LANES], y[INFER__LANES * INFER__LANES];
} infer__wkv_rows;

/* body: one block of lanes: z = -sum_n e[n] s[n]; s'[n] = w[n] s[n] + k[n] v + b[n] z; y = sum_n r[n] s[n] (`before`) or
 * s'[n]. Sums are made in four parts, n % 4. decay: see infer__wkv_args; of version 7 the sigmoid is there. */
#define INFER__WKV_DEFINE(L) \
  INFER__ON_##L INFER__INLINE void infer__wkv_body_##L(infer__wkv_rows *q, float *s, int before, int delta) { \
    int32_t n, t; \
    for (t = 0; t < q->rows; t++) { \
      const float *r = q->r + t * q->stride, *k = q->k + t * q->stride, *w = q->w + t * q->stride; \
      const float *e = q->e + t * q->stride, *b = q->b + t * q->stride; \
      const infer__v16_##L v = infer__load_##L(q->v + INFER__LANES * t), zero = infer__zero_##L(); \
      infer__v16_##L s0 = zero, s1 = zero, s2 = zero, s3 = zero, z = zero; \
      float *p = s; \
      for (n = 0; delta && n + 4 <= q->dim; n += 4, p += 4 * INFER__LANES) { \
        INFER__WKV_READ(L, 0) INFER__WKV_READ(L, 1) INFER__WKV_READ(L, 2) INFER__WKV_READ(L, 3) \
      } \
      for (; delta && n < q->dim; n++, p += INFER__LANES) INFER__WKV_READ(L, 0) \
      if (delta) z = infer__vsub_##L(zero, infer__vadd_##L(infer__vadd_##L(s0, s1), infer__vadd_##L(s2, s3))); \
      s0 = s1 = s2 = s3 = zero; \
      for (n = 0, p = s; n + 4 <= q->dim; n += 4, p += 4 * INFER__LANES) { \
        INFER__WKV_STEP(L, 0) INFER__WKV_STEP(L, 1) INFER__WKV_STEP(L, 2) INFER__WKV_STEP(L, 3) \
      } \
      for (; n < q->dim; n++, p += INFER__LANES) INFER__WKV_STEP(L, 0) \
      infer__store_##L(q->y + INFER__LANES * t, infer__vadd_##L(infer__vadd_##L(s0, s1), infer__vadd_##L(s2, s3))); \
    } \
  } \
  INFER__ON_##L static void infer__wkv_tile_##L(infer__wkv_rows *q, float *s) { \
    if (q->kind == INFER__WKV_7) infer__wkv_body_##L(q, s, 0, 1); \
    else if (q->kind == INFER__WKV_6) infer__wkv_body_##L(q, s, 1, 0); \
    else infer__wkv_body_##L(q, s, 0, 0); \
  } \
  INFER__ON_##L static void infer__wkv_decay_##L(float *w, int32_t n, int32_t kind) { \
    float t[INFER__LANES]; \
    int32_t l; \
    for (; n > 0; n -= INFER__LANES, w += INFER__LANES) { \
      if (kind == INFER__WKV_7) \
        for (l = 0; l < INFER__LANES; l++) t[l] = 0.60653066f * w[l]; \
      else \
        for (l = 0; l < INFER__LANES; l++) t[l] = infer__choose(infer__not_number(w[l]), w[l], infer__ssm_exp(w[l])); \
      for (l = 0; l < INFER__LANES; l++) t[l] = infer__choose(infer__not_number(t[l]), t[l], infer__exp_minus_f32(t[l])); \
      memcpy(w, t, sizeof t); \
    } \
  }
#define INFER__WKV_READ(L, i) \
  s##i = infer__fma_##L(infer__splat_##L(e[n + (i)]), infer__load_##L(p + (i) * INFER__LANES), s##i);
#define INFER__WKV_STEP(L, i) \
  { \
    infer__v16_##L x = infer__load_##L(p + (i) * INFER__LANES); \
    if (before) s##i = infer__fma_##L(infer__splat_##L(r[n + (i)]), x, s##i); \
    x = infer__fma_##L(infer__splat_##L(k[n + (i)]), v, infer__vmul_##L(infer__splat_##L(w[n + (i)]), x)); \
    if (delta) x = infer__fma_##L(infer__splat_##L(b[n + (i)]), z, x); \
    infer__store_##L(p + (i) * INFER__LANES, x); \
    if (!before) s##i = infer__fma_##L(infer__splat_##L(r[n + (i)]), x, s##i); \
  }
#define INFER__WKV_ROW(L, need) {need, infer__wkv_tile_##L, infer__wkv_decay_##L},
INFER__WKV_DEFINE(scalar)
#if defined(INFER__SIMD_X86)
INFER__WKV_DEFINE(avx2)
#  if !defined(INFER_NO_AVX512)
INFER__WKV_DEFINE(avx512)
#  endif
#endif
#if defined(INFER__SIMD_ARM)
INFER__WKV_DEFINE(neon)
#endif
static const struct infer__wkv_level {
    uint32_t need;
    void (*tile)(infer__wkv_rows *q, float *s);
    void (*decay)(float *w, int32_t n, int32_t kind); /* n is rounded up to INFER__LANES */
} INFER__WKV_LEVELS[] = {
#if defined(INFER__SIMD_X86)
#  if !defined(INFER_NO_AVX512)
    INFER__WKV_ROW(avx512, INFER__CPU_AVX2 | INFER__CPU_AVX512)
#  endif
    INFER__WKV_ROW(avx2, INFER__CPU_AVX2)
#endif
#if defined(INFER__SIMD_ARM)
    INFER__WKV_ROW(neon, INFER__CPU_NEON)
#endif
    INFER__WKV_ROW(scalar, 0)
};
#undef INFER__WKV_DEFINE
#undef INFER__WKV_READ
#undef INFER__WKV_STEP
#undef INFER__WKV_ROW

typedef struct infer__wkv_job {
    infer__ctx *c;
    const infer__wkv_args *a;
    const struct infer__wkv_level *level;
    int32_t lanes, together; /* rows that are prepared at a time */
} infer__wkv_job;

/* Row t of those from `row` on, of head h: everything but v. */
static void infer__wkv_prepare(const infer__wkv_job *job, int32_t h, int32_t row, int32_t t, infer__wkv_rows *q) {
    const infer__wkv_args *a = job->a;
    const infer__kernels *f = job->c->kernels;
    const int32_t dim = a->dim;
    const int64_t at = (int64_t)h * dim, to = (int64_t)t * q->stride, k_at = (int64_t)(h / (a->heads / a->kv_heads)) * dim;
    const float *r_in = infer__row(&a->r, row + t) + at, *k_in = infer__row(&a->k, row + t) + k_at;
    const float *w_in = infer__row(&a->w, row + t) + at, *u = a->u ? (const float *)a->u->data + at : NULL;
    float *r = q->r + to, *k = q->k + to, *w = q->w + to, *e = q->e + to, *b = q->b + to, inv;
    int32_t i;
    memcpy(r, r_in, (size_t)dim * sizeof *r);
    memcpy(k, k_in, (size_t)dim * sizeof *k);
    if (a->kind == INFER__WKV_7) {
        const float *k_k = (const float *)a->k_k->data + at, *k_a = (const float *)a->k_a->data + at;
        for (i = 0; i < dim; i++) e[i] = k[i] * k_k[i];
        inv = sqrtf(f->sum_sq_diff(e, 0.0f, dim));
        inv = 1.0f / INFER__MAX(inv, 1e-12f);
        f->act(b, infer__row(&a->rate, row + t) + at, NULL, INFER__ACT_SIGMOID, dim);
        for (i = 0; i < dim; i++) {
            e[i] *= inv;
            k[i] *= 1.0f + (b[i] - 1.0f) * k_a[i];
            b[i] *= e[i];
        }
    }
    for (i = 0; u && i < dim; i++) w[i] = r[i] * u[i];
    if (u) f->dot(w, k, 0, 1, dim, &q->c[t]);
    if (a->kind == INFER__WKV_7) f->act(w, w_in, NULL, INFER__ACT_SIGMOID, dim);
    else memcpy(w, w_in, (size_t)dim * sizeof *w);
    for (i = dim; i < q->stride; i++) w[i] = 0;
    job->level->decay(w, dim, a->kind);
    if (a->kind != INFER__WKV_GATED) return;
    for (i = 0; i < dim; i++) k[i] *= 1.0f - w[i];
    f->scale(r, 1.0f / sqrtf((float)dim), dim);
}

/* n values of v from column i of head h on, of all rows. */
static void infer__wkv_values(const infer__wkv_job *job, int32_t h, int32_t row, int32_t i, int32_t n, infer__wkv_rows *q) {
    const infer__wkv_args *a = job->a;
    const int64_t at = (int64_t)h * a->dim + i, v_at = (int64_t)(h / (a->heads / a->kv_heads)) * a->dim + i;
    float share[INFER__LANES];
    int32_t t, l;
    if (n < INFER__LANES) memset(q->v, 0, sizeof q->v);
    for (t = 0; t < q->rows; t++) {
        float *v = q->v + INFER__LANES * t;
        memcpy(v, infer__row(&a->v, row + t) + v_at, (size_t)n * sizeof *v);
        if (!a->mix.buf) continue;
        job->c->kernels->act(share, infer__row(&a->mix, row + t) + at, NULL, INFER__ACT_SIGMOID, n);
        for (l = 0; l < n; l++) v[l] += (infer__row(&a->first, row + t)[at + l] - v[l]) * share[l];
    }
}

static void infer__wkv_task(void *arg, int h, int worker) {
    const infer__wkv_job *job = (const infer__wkv_job *)arg;
    const infer__wkv_args *a = job->a;
    const infer__pass *pass = &job->c->pass;
    const int64_t unit = (int64_t)a->dim * job->lanes, cell = unit * a->heads, all = (int64_t)job->together * job->lanes;
    infer__wkv_rows q;
    int32_t row, t, i, l, n;
    q.dim = a->dim;
    q.stride = job->lanes;
    q.kind = a->kind;
    q.r = infer__cpu_scratch(job->c, worker);
    q.k = q.r + all;
    q.w = q.k + all;
    q.e = q.w + all;
    q.b = q.e + all;
    for (row = 0; row < a->v.rows; row += q.rows) {
        const int32_t seq = pass->seq[row], from = pass->cell_in[seq];
        float *s = (float *)a->cells->host + pass->cell_out[seq] * cell + h * unit;
        for (q.rows = 1; q.rows < job->together && row + q.rows < a->v.rows && pass->seq[row + q.rows] == seq;)
            q.rows++;
        if (row == 0 || pass->seq[row - 1] != seq) {
            if (from < 0) memset(s, 0, (size_t)unit * sizeof *s);
            else memcpy(s, (float *)a->cells->host + from * cell + h * unit, (size_t)unit * sizeof *s);
        }
        for (t = 0; t < q.rows; t++) infer__wkv_prepare(job, h, row, t, &q);
        for (i = 0; i < a->dim; i += n) {
            n = INFER__MIN(INFER__LANES, a->dim - i);
            infer__wkv_values(job, h, row, i, n, &q);
            job->level->tile(&q, s + (int64_t)i * a->dim);
            for (t = 0; t < q.rows; t++) {
                const int64_t at = (int64_t)h * a->dim + i;
                float *v = q.v + INFER__LANES * t, *y = q.y + INFER__LANES * t;
                for (l = 0; a->u && l < n; l++) v[l] *= q.c[t];
                for (l = 0; a->kind == INFER__WKV_6 && l < n; l++) y[l] += v[l];
                memcpy(infer__row(&a->y, row + t) + at, y, (size_t)n * sizeof *y);
                if (a->bonus.buf) memcpy(infer__row(&a->bonus, row + t) + at, v, (size_t)n * sizeof *v);
            }
        }
    }
}

static void infer__cpu_wkv(infer__ctx *c, const infer__wkv_args *a) {
    infer__wkv_job job;
    int64_t values;
    double began = infer__op_begin(c);
    if (began < 0) return;
    INFER__ASSERT(a->r.cols == a->heads * a->dim && a->w.cols == a->r.cols && a->y.cols == a->r.cols);
    INFER__ASSERT(a->k.cols == a->kv_heads * a->dim && a->v.cols == a->k.cols && a->heads % a->kv_heads == 0);
    INFER__ASSERT((a->u != NULL) == (a->kind != INFER__WKV_GATED) && (a->kind == INFER__WKV_7) == (a->bonus.buf != NULL));
    job.level = INFER__WKV_LEVELS;
    while (job.level->need & ~c->kernels->need) job.level++;
    job.c = c;
    job.a = a;
    job.lanes = infer__ssm_lanes(a->dim, 0);
    job.together = (int32_t)INFER__MIN(INFER__LANES, c->cpu->scratch_len / (5 * (int64_t)job.lanes));
    INFER__ASSERT(job.together > 0);
    values = (int64_t)a->dim * job.lanes * a->heads;
    infer__cpu_run(c, a->heads, 2 * values * a->v.rows, infer__wkv_task, &job);
    infer__op_end(c, "wkv", 2 * (uint64_t)values * sizeof(float) * (uint64_t)c->pass.n_seq, began);
}
