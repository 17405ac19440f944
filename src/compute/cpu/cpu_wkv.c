/* cpu_wkv.c: RWKV's recurrences (infer__wkv_args) on the CPU.
 *
 * Rules: as in cpu_delta.c: a task is a head, a few rows are prepared together, and each block of INFER__LANES values
 *        steps through them while its part of the state is in the cache. A row's result depends only on itself and
 *        earlier rows.
 * Start: infer__cpu_wkv.
 */
#include "cpu_exp.h"

/* Rows t = 0 .. rows-1 (INFER__LANES at most) of a head: p is [rows][r, k, w, e, b, v, y][dim], dim rounded up to
 * INFER__LANES, with zeros after. share: how much of v is in y (6) or in the bonus (7). */
typedef struct infer__wkv_rows {
    int32_t rows, dim;
    float *p, old, share[INFER__LANES];
} infer__wkv_rows;
enum { INFER__WKV_PARTS = 7 };

/* Block i of lanes, of all kinds: z = sum_n e[n] s[n]; s[n] = w[n] s[n] + k[n] v - b[n] z; y = sum_n r[n] s[n] + old z
 * with sums made in four parts, n % 4. */
#define INFER__WKV_DEFINE(L) \
  INFER__ON_##L static void infer__wkv_tile_##L(const infer__wkv_rows *q, int32_t i, float *s) { \
    const infer__v16_##L zero = infer__zero_##L(), old = infer__splat_##L(q->old); \
    float *r = q->p; \
    int32_t n, t; \
    for (t = 0; t < q->rows; t++, r += INFER__WKV_PARTS * q->dim) { \
      const float *k = r + q->dim, *w = k + q->dim, *e = w + q->dim, *b = e + q->dim; \
      const infer__v16_##L v = infer__load_##L(b + q->dim + i); \
      infer__v16_##L s0 = zero, s1 = zero, s2 = zero, s3 = zero, x, z, less; \
      float *p = s; \
      for (n = 0; n < q->dim; n += 4, p += 4 * INFER__LANES) { \
        INFER__WKV_READ(L, 0) INFER__WKV_READ(L, 1) INFER__WKV_READ(L, 2) INFER__WKV_READ(L, 3) \
      } \
      z = infer__vadd_##L(infer__vadd_##L(s0, s1), infer__vadd_##L(s2, s3)); \
      less = infer__vsub_##L(zero, z); \
      s0 = s1 = s2 = s3 = zero; \
      for (n = 0, p = s; n < q->dim; n += 4, p += 4 * INFER__LANES) { \
        INFER__WKV_STEP(L, 0) INFER__WKV_STEP(L, 1) INFER__WKV_STEP(L, 2) INFER__WKV_STEP(L, 3) \
      } \
      x = infer__vadd_##L(infer__vadd_##L(s0, s1), infer__vadd_##L(s2, s3)); \
      infer__store_##L(r + 6 * q->dim + i, infer__fma_##L(old, z, x)); \
    } \
  }
#define INFER__WKV_READ(L, j) \
  s##j = infer__fma_##L(infer__splat_##L(e[n + (j)]), infer__load_##L(p + (j) * INFER__LANES), s##j);
#define INFER__WKV_STEP(L, j) \
  x = infer__vmul_##L(infer__splat_##L(w[n + (j)]), infer__load_##L(p + (j) * INFER__LANES)); \
  x = infer__fma_##L(infer__splat_##L(b[n + (j)]), less, infer__fma_##L(infer__splat_##L(k[n + (j)]), v, x)); \
  infer__store_##L(p + (j) * INFER__LANES, x); \
  s##j = infer__fma_##L(infer__splat_##L(r[n + (j)]), x, s##j);
INFER__WKV_DEFINE(scalar)
#if defined(INFER__SIMD_AVX2)
INFER__WKV_DEFINE(avx2)
#  if defined(INFER__SIMD_AVX512)
INFER__WKV_DEFINE(avx512)
#  endif
#endif
#if defined(INFER__SIMD_ARM)
INFER__WKV_DEFINE(neon)
#endif
#undef INFER__WKV_DEFINE
#undef INFER__WKV_READ
#undef INFER__WKV_STEP

typedef void (*infer__wkv_fn)(const infer__wkv_rows *q, int32_t i, float *s);
static const struct { uint32_t need; infer__wkv_fn tile; } INFER__WKV_LEVELS[] = {
#if defined(INFER__SIMD_AVX2)
#  if defined(INFER__SIMD_AVX512)
    {INFER__CPU_AVX2 | INFER__CPU_AVX512, infer__wkv_tile_avx512},
#  endif
    {INFER__CPU_AVX2, infer__wkv_tile_avx2},
#endif
#if defined(INFER__SIMD_ARM)
    {INFER__CPU_NEON, infer__wkv_tile_neon},
#endif
    {0, infer__wkv_tile_scalar}};

typedef struct infer__wkv_job {
    infer__ctx *c;
    const infer__wkv_args *a;
    infer__wkv_fn tile;
    int32_t lanes, together; /* dim rounded up; rows that are prepared at a time */
} infer__wkv_job;

/* w (of version 7 its sigmoid) becomes the decay, n of them rounded up to INFER__LANES. NaN stays NaN. */
static void infer__wkv_decay(float *w, int32_t n, int32_t kind) {
    float t[INFER__LANES];
    int32_t l;
    for (; n > 0; n -= INFER__LANES, w += INFER__LANES) {
        for (l = 0; l < INFER__LANES; l++) t[l] = kind == INFER__WKV_7 ? 0.60653066f * w[l] : infer__ssm_exp(w[l]);
        for (l = 0; l < INFER__LANES; l++) t[l] = infer__exp_minus_f32(t[l]);
        for (l = 0; l < INFER__LANES; l++) t[l] = infer__choose(infer__not_number(w[l]), w[l], t[l]);
        memcpy(w, t, sizeof t);
    }
}

/* Row `row` of head h, as p of infer__wkv_rows has it. */
static void infer__wkv_prepare(const infer__wkv_job *job, int32_t h, int32_t row, float *p, float *share) {
    const infer__wkv_args *a = job->a;
    const infer__kernels *f = job->c->kernels;
    const int32_t dim = a->dim, lanes = job->lanes;
    const int64_t at = (int64_t)h * dim, kv_at = (int64_t)(h / (a->heads / a->kv_heads)) * dim;
    const float *u = a->u ? (const float *)a->u->data + at : NULL;
    float *k = p + lanes, *w = k + lanes, *e = w + lanes, *b = e + lanes, *v = b + lanes, inv;
    int32_t i;
    memset(p, 0, INFER__WKV_PARTS * (size_t)lanes * sizeof *p);
    memcpy(p, infer__row(&a->r, row) + at, (size_t)dim * sizeof *p);
    memcpy(k, infer__row(&a->k, row) + kv_at, (size_t)dim * sizeof *p);
    memcpy(v, infer__row(&a->v, row) + kv_at, (size_t)dim * sizeof *p);
    if (a->kind == INFER__WKV_7) {
        const float *k_k = (const float *)a->k_k->data + at, *k_a = (const float *)a->k_a->data + at;
        for (i = 0; i < dim; i++) e[i] = k[i] * k_k[i];
        inv = sqrtf(f->sum_sq_diff(e, 0.0f, dim));
        inv = 1.0f / INFER__MAX(inv, 1e-12f);
        f->act(b, infer__row(&a->rate, row) + at, NULL, INFER__ACT_SIGMOID, dim);
        for (i = 0; i < dim; i++) {
            e[i] *= inv;
            k[i] *= 1.0f + (b[i] - 1.0f) * k_a[i];
            b[i] *= e[i];
        }
    }
    if (a->mix.buf) {
        f->act(w, infer__row(&a->mix, row) + at, NULL, INFER__ACT_SIGMOID, dim);
        for (i = 0; i < dim; i++) v[i] += (infer__row(&a->first, row)[at + i] - v[i]) * w[i];
    }
    for (i = 0; u && i < dim; i++) w[i] = p[i] * u[i];
    if (u) f->dot(w, k, 0, 1, dim, share);
    memcpy(w, infer__row(&a->w, row) + at, (size_t)dim * sizeof *w);
    if (a->kind == INFER__WKV_7) f->act(w, w, NULL, INFER__ACT_SIGMOID, dim);
    infer__wkv_decay(w, dim, a->kind);
    if (a->kind == INFER__WKV_6) { /* of the state before the row */
        memcpy(e, p, (size_t)dim * sizeof *e);
        memset(p, 0, (size_t)dim * sizeof *p);
    }
    if (a->kind != INFER__WKV_GATED) return;
    for (i = 0; i < dim; i++) k[i] *= 1.0f - w[i];
    f->scale(p, 1.0f / sqrtf((float)dim), dim);
}

static void infer__wkv_task(void *arg, int h, int worker) {
    const infer__wkv_job *job = (const infer__wkv_job *)arg;
    const infer__wkv_args *a = job->a;
    const infer__pass *pass = &job->c->pass;
    const int32_t lanes = job->lanes, step = INFER__WKV_PARTS * lanes;
    const int64_t unit = (int64_t)lanes * lanes, cell = unit * a->heads, at = (int64_t)h * a->dim;
    infer__wkv_rows q;
    int32_t row, t, i;
    q.dim = lanes;
    q.old = a->kind == INFER__WKV_6;
    q.p = infer__cpu_scratch(job->c, worker);
    for (row = 0; row < a->v.rows; row += q.rows) {
        const int32_t seq = pass->seq[row], from = pass->cell_in[seq];
        float *s = (float *)a->cells->host + pass->cell_out[seq] * cell + h * unit;
        for (q.rows = 1; q.rows < job->together && row + q.rows < a->v.rows && pass->seq[row + q.rows] == seq;)
            q.rows++;
        if (row == 0 || pass->seq[row - 1] != seq) {
            if (from < 0) memset(s, 0, (size_t)unit * sizeof *s);
            else memcpy(s, (float *)a->cells->host + from * cell + h * unit, (size_t)unit * sizeof *s);
        }
        for (t = 0; t < q.rows; t++) infer__wkv_prepare(job, h, row + t, q.p + t * step, &q.share[t]);
        for (i = 0; i < lanes; i += INFER__LANES) job->tile(&q, i, s + (int64_t)i * lanes);
        for (t = 0; t < q.rows; t++) {
            float *v = q.p + t * step + 5 * lanes, *y = v + lanes;
            if (a->kind == INFER__WKV_6) job->c->kernels->axpy(y, v, q.share[t], a->dim);
            memcpy(infer__row(&a->y, row + t) + at, y, (size_t)a->dim * sizeof *y);
            for (i = 0; a->bonus.buf && i < a->dim; i++) infer__row(&a->bonus, row + t)[at + i] = q.share[t] * v[i];
        }
    }
}

static void infer__cpu_wkv(infer__ctx *c, const infer__wkv_args *a) {
    infer__wkv_job job;
    int64_t values;
    int32_t level = 0;
    double began = infer__op_begin(c);
    if (began < 0) return;
    INFER__ASSERT(a->r.cols == a->heads * a->dim && a->w.cols == a->r.cols && a->y.cols == a->r.cols);
    INFER__ASSERT(a->k.cols == a->kv_heads * a->dim && a->v.cols == a->k.cols && a->heads % a->kv_heads == 0);
    while (INFER__WKV_LEVELS[level].need & ~c->kernels->need) level++;
    job.c = c;
    job.a = a;
    job.tile = INFER__WKV_LEVELS[level].tile;
    job.lanes = infer__ssm_lanes(a->dim, 0);
    job.together = (int32_t)INFER__MIN(INFER__LANES, c->cpu->scratch_len / (INFER__WKV_PARTS * (int64_t)job.lanes));
    INFER__ASSERT(job.together > 0);
    values = (int64_t)job.lanes * job.lanes * a->heads;
    infer__cpu_run(c, a->heads, 2 * values * a->v.rows, infer__wkv_task, &job);
    infer__op_end(c, "wkv", 2 * (uint64_t)values * sizeof(float) * (uint64_t)c->pass.n_seq, began);
}
