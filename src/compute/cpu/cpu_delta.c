/* cpu_delta.c: gated delta rule (infer__delta_args) on the CPU.
 *
 * Owns:  the recurrence, one body for every instruction set, and its split into tasks.
 * Rules: a task is a head, and steps through all rows of a sequence in order: a row's result depends only on itself and
 *        earlier rows, so it does not matter where passes are split. A few rows are prepared together; then each block
 *        of INFER__LANES values steps through them while its part of the state is in the cache. Lanes run along the
 *        head, so that sums over n need no sums across lanes.
 * Start: infer__cpu_delta.
 */
#include "cpu_exp.h"

/* Rows t = 0 .. rows-1 (INFER__LANES at most) of a head: k and q, each [rows][state]; v and y [rows][INFER__LANES].
 * With a decay for each key (INFER__DELTA_KEYS) g has them, reads is k * g and keep 1; else reads is k. */
typedef struct infer__delta_rows {
    int32_t rows, state;
    const float *k, *q, *g, *reads;
    float beta[INFER__LANES], keep[INFER__LANES];
    float v[INFER__LANES * INFER__LANES], y[INFER__LANES * INFER__LANES];
} infer__delta_rows;

/* One block of lanes: u = beta (v - keep sum_n reads[n] s[n]); s[n] = keep s[n] + k[n] u; y = sum_n q[n] s[n]. Sums are
 * made in four parts, n % 4. With decays of keys s[n] = g[n] s[n] + k[n] u; of lightning attention u is v. */
#define INFER__DELTA_DEFINE(L) \
  INFER__DELTA_TILE(L, heads, 1, keep) \
  INFER__DELTA_TILE(L, keys, 1, infer__splat_##L(r->g[at + n])) \
  INFER__DELTA_TILE(L, plain, 0, keep)
#define INFER__DELTA_TILE(L, kind, corrects, decay) \
  INFER__ON_##L static void infer__delta_##kind##_##L(infer__delta_rows *r, float *s) { \
    int32_t n, t; \
    int64_t at; \
    for (t = 0, at = 0; t < r->rows; t++, at += r->state) { \
      const float *k = r->k + at, *q = r->q + at, *reads = r->reads + at; \
      const infer__v16_##L keep = infer__splat_##L(r->keep[t]), less = infer__splat_##L(-r->keep[t]); \
      infer__v16_##L a = infer__zero_##L(), b = a, c = a, d = a, u = infer__load_##L(r->v + INFER__LANES * t), x; \
      float *p = s; \
      if (corrects) { \
        for (n = 0; n + 4 <= r->state; p += 4 * INFER__LANES) { \
          INFER__DELTA_READ(L, 0, a) INFER__DELTA_READ(L, 1, b) INFER__DELTA_READ(L, 2, c) INFER__DELTA_READ(L, 3, d) \
        } \
        for (; n < r->state; p += INFER__LANES) INFER__DELTA_READ(L, 0, a) \
        a = infer__vadd_##L(infer__vadd_##L(a, b), infer__vadd_##L(c, d)); \
        u = infer__vmul_##L(infer__splat_##L(r->beta[t]), infer__fma_##L(a, less, u)); \
      } \
      a = b = c = d = infer__zero_##L(); \
      for (n = 0, p = s; n + 4 <= r->state; p += 4 * INFER__LANES) { \
        INFER__DELTA_STEP(L, 0, a, decay) INFER__DELTA_STEP(L, 1, b, decay) \
        INFER__DELTA_STEP(L, 2, c, decay) INFER__DELTA_STEP(L, 3, d, decay) \
      } \
      for (; n < r->state; p += INFER__LANES) { INFER__DELTA_STEP(L, 0, a, decay) } \
      (void)keep; (void)less; (void)reads; \
      infer__store_##L(r->y + INFER__LANES * t, infer__vadd_##L(infer__vadd_##L(a, b), infer__vadd_##L(c, d))); \
    } \
  }
#define INFER__DELTA_READ(L, i, sum) \
  sum = infer__fma_##L(infer__splat_##L(reads[n]), infer__load_##L(p + (i) * INFER__LANES), sum), n++;
#define INFER__DELTA_STEP(L, i, sum, decay) \
  x = infer__fma_##L(infer__splat_##L(k[n]), u, infer__vmul_##L(decay, infer__load_##L(p + (i) * INFER__LANES))); \
  infer__store_##L(p + (i) * INFER__LANES, x); \
  sum = infer__fma_##L(infer__splat_##L(q[n]), x, sum), n++;
INFER__DELTA_DEFINE(scalar)
#if defined(INFER__SIMD_AVX2)
INFER__DELTA_DEFINE(avx2)
#  if defined(INFER__SIMD_AVX512)
INFER__DELTA_DEFINE(avx512)
#  endif
#endif
#if defined(INFER__SIMD_ARM)
INFER__DELTA_DEFINE(neon)
#endif
#undef INFER__DELTA_DEFINE
#undef INFER__DELTA_TILE
#undef INFER__DELTA_READ
#undef INFER__DELTA_STEP

typedef void (*infer__delta_tile)(infer__delta_rows *r, float *s);
#define INFER__DELTA_TILES(L) { infer__delta_heads_##L, infer__delta_keys_##L, infer__delta_plain_##L }
static const struct {
    uint32_t need;
    infer__delta_tile tile[3]; /* by INFER__DELTA_* */
} INFER__DELTA_LEVELS[] = {
#if defined(INFER__SIMD_AVX2)
#  if defined(INFER__SIMD_AVX512)
    {INFER__CPU_AVX2 | INFER__CPU_AVX512, INFER__DELTA_TILES(avx512)},
#  endif
    {INFER__CPU_AVX2, INFER__DELTA_TILES(avx2)},
#endif
#if defined(INFER__SIMD_ARM)
    {INFER__CPU_NEON, INFER__DELTA_TILES(neon)},
#endif
    {0, INFER__DELTA_TILES(scalar)}};
#undef INFER__DELTA_TILES

typedef struct infer__delta_job {
    infer__ctx *c;
    const infer__delta_args *a;
    infer__delta_tile tile;
    int32_t lanes, together; /* rows that are prepared at a time */
} infer__delta_job;

/* y = x / |x| * scale, as in transformers: the epsilon is added to the square. */
static void infer__delta_unit(const float *x, int32_t n, float eps, float scale, float *y) {
    double sum = 0;
    int32_t i;
    for (i = 0; i < n; i++) sum += (double)x[i] * x[i];
    scale /= sqrtf((float)sum + eps);
    for (i = 0; i < n; i++) y[i] = x[i] * scale;
}

/* g[n] = exp(bound sigmoid(a (alpha[n] + bias[n]))), without a bound exp(a softplus(..)). */
static void infer__delta_decays(const infer__delta_args *a, int32_t h, const float *alpha, float *g) {
    const float *bias = (const float *)a->dt_bias->data + (int64_t)h * a->state,
                of_head = ((const float *)a->a->data)[h];
    int32_t n;
    for (n = 0; n < a->state; n++) {
        const float x = alpha[n] + bias[n];
        g[n] = infer__ssm_exp(a->bound != 0 ? a->bound / (1.0f + infer__ssm_exp(-of_head * x))
                                            : of_head * infer__ssm_softplus(x));
    }
}

/* Rows [row, row + r->rows) of head h; p: 2 * rows * state floats, 4 with decays of keys. */
static void infer__delta_prepare(const infer__delta_args *a, int32_t h, int32_t row, infer__delta_rows *r, float *p) {
    const int32_t each = a->heads / a->k_heads, k_head = a->tiled ? h % a->k_heads : h / each, state = a->state;
    const int64_t at = (int64_t)k_head * (a->step ? a->step : state), all = (int64_t)r->rows * state;
    const int64_t scalar = (int64_t)(h / a->run) * a->run_step + h % a->run; /* of alpha and beta */
    const float decay = ((const float *)a->a->data)[h];
    int32_t t, n;
    r->k = r->reads = p;
    r->q = p + all;
    r->g = p + 2 * all;
    if (a->kind == INFER__DELTA_KEYS) r->reads = p + 3 * all;
    for (t = 0; t < r->rows; t++, p += state) {
        const float *k = infer__row(&a->k, row + t) + at, *q = infer__row(&a->q, row + t) + at;
        if (a->kind == INFER__DELTA_PLAIN) {
            memcpy(p, k, (size_t)state * sizeof *p);
            memcpy(p + all, q, (size_t)state * sizeof *p);
            r->keep[t] = infer__ssm_exp(decay);
            continue;
        }
        r->beta[t] = 1.0f / (1.0f + infer__ssm_exp(-infer__row(&a->beta, row + t)[scalar]));
        infer__delta_unit(k, state, a->eps, 1.0f, p);
        infer__delta_unit(q, state, a->eps, 1.0f / sqrtf((float)state), p + all);
        r->keep[t] = 1;
        if (a->kind == INFER__DELTA_HEADS) {
            const float x = infer__row(&a->alpha, row + t)[scalar] + ((const float *)a->dt_bias->data)[h];
            r->keep[t] = infer__ssm_exp(decay * infer__ssm_softplus(x));
            continue;
        }
        infer__delta_decays(a, h, infer__row(&a->alpha, row + t) + (int64_t)h * state, p + 2 * all);
        for (n = 0; n < state; n++) p[3 * all + n] = p[2 * all + n] * p[n];
    }
}

static void infer__delta_task(void *arg, int h, int worker) {
    const infer__delta_job *job = (const infer__delta_job *)arg;
    const infer__delta_args *a = job->a;
    const infer__pass *pass = &job->c->pass;
    const int64_t unit = (int64_t)a->state * job->lanes, cell = unit * a->heads, at = (int64_t)h * a->dim;
    const int64_t v_at = a->step ? (int64_t)h * a->step : at;
    float *p = infer__cpu_scratch(job->c, worker);
    infer__delta_rows r;
    int32_t row, t, i, n;
    r.state = a->state;
    for (row = 0; row < a->v.rows; row += r.rows) {
        const int32_t seq = pass->seq[row], from = pass->cell_in[seq];
        float *s = (float *)a->cells->host + pass->cell_out[seq] * cell + h * unit;
        for (r.rows = 1; r.rows < job->together && row + r.rows < a->v.rows && pass->seq[row + r.rows] == seq;)
            r.rows++;
        if (row == 0 || pass->seq[row - 1] != seq) {
            if (from < 0) memset(s, 0, (size_t)unit * sizeof *s);
            else memcpy(s, (float *)a->cells->host + from * cell + h * unit, (size_t)unit * sizeof *s);
        }
        infer__delta_prepare(a, h, row, &r, p);
        for (i = 0; i < a->dim; i += n) {
            n = INFER__MIN(INFER__LANES, a->dim - i);
            if (n < INFER__LANES) memset(r.v, 0, sizeof r.v);
            for (t = 0; t < r.rows; t++)
                memcpy(r.v + INFER__LANES * t, infer__row(&a->v, row + t) + v_at + i, (size_t)n * sizeof *r.v);
            job->tile(&r, s + (int64_t)i * a->state);
            for (t = 0; t < r.rows; t++)
                memcpy(infer__row(&a->y, row + t) + at + i, r.y + INFER__LANES * t, (size_t)n * sizeof *r.y);
        }
    }
}

static void infer__cpu_delta(infer__ctx *c, const infer__delta_args *a) {
    infer__delta_job job;
    int32_t level = 0;
    int64_t values;
    double began = infer__op_begin(c);
    if (began < 0) return;
    INFER__ASSERT(a->y.cols == a->heads * a->dim && a->heads % a->k_heads == 0 && a->run > 0);
    INFER__ASSERT(a->step || (a->v.cols == a->y.cols && a->k.cols == a->k_heads * a->state && a->k.cols == a->q.cols));
    while (INFER__DELTA_LEVELS[level].need & ~c->kernels->need) level++;
    job.c = c;
    job.a = a;
    job.tile = INFER__DELTA_LEVELS[level].tile[a->kind];
    job.lanes = infer__ssm_lanes(a->dim, 0);
    job.together = (int32_t)INFER__MIN(
        INFER__LANES, c->cpu->scratch_len / ((a->kind == INFER__DELTA_KEYS ? 4 : 2) * (int64_t)a->state));
    INFER__ASSERT(job.together > 0);
    values = (int64_t)a->state * job.lanes * a->heads;
    infer__cpu_run(c, a->heads, 2 * values * a->v.rows, infer__delta_task, &job);
    infer__op_end(c, "delta", 2 * (uint64_t)values * sizeof(float) * (uint64_t)c->pass.n_seq, began);
}
