/* cpu_ssm.c: selective state spaces (infer__ssm_args) on the CPU.
 *
 * Owns:  the recurrence, one body for every instruction set, and its split into tasks.
 * Rules: a task has units (heads, or blocks of INFER__LANES heads of one value) and steps through all rows of a
 *        sequence, so that a unit's state stays in the cache. Rows are processed in order: a row's result depends only
 *        on itself and earlier rows, so it does not matter where passes are split. Lanes run along the head, so that
 *        the sum over n needs no sums across lanes.
 * Start: infer__cpu_ssm.
 */
#include "cpu_exp.h"

/* ---- one value --------------------------------------------------------------------------------------------------- */

/* log(1 + exp x) without library calls: max(x, 0) + log(1 + e), e = exp(-|x|), where log(1 + e) is
 * 2 atanh(e / (2 + e)), whose series ends below 1e-8 of it. NaN stays NaN. */
INFER__INLINE float infer__ssm_softplus(float x) {
    const float e = infer__exp_minus_f32(x), s = e / (2.0f + e), z = s * s;
    float p = 1.0f / 15.0f;
    p = p * z + 1.0f / 13.0f;
    p = p * z + 1.0f / 11.0f;
    p = p * z + 1.0f / 9.0f;
    p = p * z + 1.0f / 7.0f;
    p = p * z + 1.0f / 5.0f;
    p = p * z + 1.0f / 3.0f;
    p = p * z + 1.0f;
    return infer__relu(x) + 2.0f * s * p;
}

/* exp(x), for x above 0 too. */
INFER__INLINE float infer__ssm_exp(float x) {
    const float e = infer__exp_minus_f32(x);
    return infer__choose(infer__negative(x), e, 1.0f / e);
}

/* ---- one row of a unit ------------------------------------------------------------------------------------------- */

/* What a level has. prep: for INFER__LANES rows what is stepped and what is kept of the state: d = softplus(d), keep =
 * exp(d a). tile: rows t = 0 .. rows-1 (INFER__LANES at most) of one vector of a head's lanes:
 * s = keep[t] s + b[t] d[t] x[t], y[t] = c[t] s + skip x[t]; rows of s are `lanes` floats apart, of b and c `stride`,
 * of x and y INFER__LANES. Some n of s stay in registers for all rows; y is summed n by n, however many these are. own:
 * a row of a block of heads of one value, with a of each for each n; d as dt + bias, y without skip. */
typedef struct infer__ssm_rows {
    int32_t rows, state, lanes;
    int64_t stride;
    const float *b, *c;
    float d[INFER__LANES], keep[INFER__LANES], skip;
    float x[INFER__LANES * INFER__LANES], dx[INFER__LANES * INFER__LANES], y[INFER__LANES * INFER__LANES];
} infer__ssm_rows;
typedef struct infer__ssm_level {
    uint32_t need; /* as infer__kernels.need */
    void (*prep)(infer__ssm_rows *r, float a);
    void (*tile)(infer__ssm_rows *r, float *s);
    void (*own)(float *s, int32_t state, const float *a, int grows, const float *d, const float *x, const float *b,
                const float *c, float *y);
} infer__ssm_level;

#define INFER__SSM_8(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define INFER__SSM_4(X) X(0) X(1) X(2) X(3)
#define INFER__SSM_1(X) X(0)
/* As many n as EACH has. */
#define INFER__SSM_BLOCK(L, EACH)                                                                           \
  {                                                                                                         \
    EACH(INFER__SSM_LOAD_##L)                                                                               \
    for (t = 0; t < r->rows; t++) {                                                                         \
      const infer__v16_##L k = infer__splat_##L(r->keep[t]), x = infer__load_##L(r->dx + INFER__LANES * t); \
      const float *b = r->b + t * r->stride + n, *c = r->c + t * r->stride + n;                             \
      infer__v16_##L sum = infer__load_##L(r->y + INFER__LANES * t);                                        \
      EACH(INFER__SSM_ADD_##L)                                                                              \
      infer__store_##L(r->y + INFER__LANES * t, sum);                                                       \
    }                                                                                                       \
    EACH(INFER__SSM_STORE_##L)                                                                              \
  }
#define INFER__SSM_LOAD_OF(L, i) infer__v16_##L s##i = infer__load_##L(s + (i) * (int64_t)r->lanes);
#define INFER__SSM_ADD_OF(L, i)                                               \
  s##i = infer__fma_##L(infer__splat_##L(b[i]), x, infer__vmul_##L(s##i, k)); \
  sum = infer__fma_##L(infer__splat_##L(c[i]), s##i, sum);
#define INFER__SSM_STORE_OF(L, i) infer__store_##L(s + (i) * (int64_t)r->lanes, s##i);
#define INFER__SSM_DEFINE(L, WIDE, EACH)                                                                           \
  INFER__ON_##L static void infer__ssm_prep_##L(infer__ssm_rows *r, float a) {                                     \
    int l;                                                                                                         \
    for (l = 0; l < INFER__LANES; l++) r->d[l] = infer__ssm_softplus(r->d[l]);                                     \
    for (l = 0; l < INFER__LANES; l++) r->keep[l] = infer__ssm_exp(r->d[l] * a);                                   \
  }                                                                                                                \
  INFER__ON_##L static void infer__ssm_tile_##L(infer__ssm_rows *r, float *s) {                                    \
    const infer__v16_##L skip = infer__splat_##L(r->skip);                                                         \
    int32_t n, t;                                                                                                  \
    for (t = 0; t < INFER__LANES * r->rows; t += INFER__LANES) {                                                   \
      infer__store_##L(r->dx + t,                                                                                  \
                       infer__vmul_##L(infer__splat_##L(r->d[t / INFER__LANES]), infer__load_##L(r->x + t)));      \
      infer__store_##L(r->y + t, infer__zero_##L());                                                               \
    }                                                                                                              \
    for (n = 0; n + WIDE <= r->state; n += WIDE, s += WIDE * (int64_t)r->lanes) INFER__SSM_BLOCK(L, EACH)          \
    for (; n < r->state; n++, s += r->lanes) INFER__SSM_BLOCK(L, INFER__SSM_1)                                     \
    for (t = 0; t < INFER__LANES * r->rows; t += INFER__LANES)                                                     \
      infer__store_##L(r->y + t, infer__fma_##L(skip, infer__load_##L(r->x + t), infer__load_##L(r->y + t)));      \
  }                                                                                                                \
  INFER__ON_##L static void infer__ssm_own_##L(float *s, int32_t state, const float *a, int grows, const float *d, \
                                               const float *x, const float *b, const float *c, float *y) {         \
    infer__v16_##L sum = infer__zero_##L(), keep, v, dt, dx;                                                       \
    float t[INFER__LANES];                                                                                         \
    int32_t n;                                                                                                     \
    int l;                                                                                                         \
    for (l = 0; l < INFER__LANES; l++) t[l] = infer__ssm_softplus(d[l]);                                           \
    dt = infer__load_##L(t);                                                                                       \
    dx = infer__vmul_##L(dt, infer__load_##L(x));                                                                  \
    for (n = 0; n < state; n++, s += INFER__LANES, a += INFER__LANES) {                                            \
      keep = infer__vmul_##L(dt, infer__load_##L(a));                                                              \
      if (grows) {                                                                                                 \
        infer__store_##L(t, keep);                                                                                 \
        for (l = 0; l < INFER__LANES; l++) t[l] = infer__ssm_exp(t[l]);                                            \
        keep = infer__load_##L(t);                                                                                 \
      } else {                                                                                                     \
        keep = infer__exp_minus_##L(keep);                                                                         \
      }                                                                                                            \
      v = infer__fma_##L(infer__splat_##L(b[n]), dx, infer__vmul_##L(infer__load_##L(s), keep));                   \
      infer__store_##L(s, v);                                                                                      \
      sum = infer__fma_##L(infer__splat_##L(c[n]), v, sum);                                                        \
    }                                                                                                              \
    infer__store_##L(y, sum);                                                                                      \
  }

#define INFER__SSM_LOAD_scalar(i) INFER__SSM_LOAD_OF(scalar, i)
#define INFER__SSM_ADD_scalar(i) INFER__SSM_ADD_OF(scalar, i)
#define INFER__SSM_STORE_scalar(i) INFER__SSM_STORE_OF(scalar, i)
INFER__SSM_DEFINE(scalar, 4, INFER__SSM_4)
#if defined(INFER__SIMD_AVX2)
#  define INFER__SSM_LOAD_avx2(i) INFER__SSM_LOAD_OF(avx2, i)
#  define INFER__SSM_ADD_avx2(i) INFER__SSM_ADD_OF(avx2, i)
#  define INFER__SSM_STORE_avx2(i) INFER__SSM_STORE_OF(avx2, i)
INFER__SSM_DEFINE(avx2, 4, INFER__SSM_4)
#  if defined(INFER__SIMD_AVX512)
#    define INFER__SSM_LOAD_avx512(i) INFER__SSM_LOAD_OF(avx512, i)
#    define INFER__SSM_ADD_avx512(i) INFER__SSM_ADD_OF(avx512, i)
#    define INFER__SSM_STORE_avx512(i) INFER__SSM_STORE_OF(avx512, i)
INFER__SSM_DEFINE(avx512, 8, INFER__SSM_8)
#  endif
#endif
#if defined(INFER__SIMD_ARM)
#  define INFER__SSM_LOAD_neon(i) INFER__SSM_LOAD_OF(neon, i)
#  define INFER__SSM_ADD_neon(i) INFER__SSM_ADD_OF(neon, i)
#  define INFER__SSM_STORE_neon(i) INFER__SSM_STORE_OF(neon, i)
INFER__SSM_DEFINE(neon, 4, INFER__SSM_4)
#endif

#define INFER__SSM_ROW(L, need) \
  { need, infer__ssm_prep_##L, infer__ssm_tile_##L, infer__ssm_own_##L }
static const infer__ssm_level INFER__SSM_LEVELS[] = {
#if defined(INFER__SIMD_AVX2)
#  if defined(INFER__SIMD_AVX512)
    INFER__SSM_ROW(avx512, INFER__CPU_AVX2 | INFER__CPU_AVX512),
#  endif
    INFER__SSM_ROW(avx2, INFER__CPU_AVX2),
#endif
#if defined(INFER__SIMD_ARM)
    INFER__SSM_ROW(neon, INFER__CPU_NEON),
#endif
    INFER__SSM_ROW(scalar, 0),
};

/* ---- the op ------------------------------------------------------------------------------------------------------ */

enum { INFER__SSM_TOGETHER = 8, INFER__SSM_TASK = 16 * 1024 }; /* values of state that a task steps in one row, about */

typedef struct infer__ssm_job {
    infer__ctx *c;
    const infer__ssm_args *a;
    const infer__ssm_level *level;
    int32_t units, lanes, of_task; /* units of a task */
} infer__ssm_job;

/* `rows` rows, INFER__LANES at most, of a head of `dim` values. */
static void infer__ssm_head(const infer__ssm_job *job, float *s, int32_t h, int32_t row, int32_t rows) {
    const infer__ssm_args *a = job->a;
    const int64_t at_group = (int64_t)(h / (a->heads / a->groups)) * a->state, at_head = (int64_t)h * a->dim;
    infer__ssm_rows r;
    int32_t at, n, t;
    r.rows = rows;
    r.state = a->state;
    r.lanes = job->lanes;
    r.stride = a->b.stride;
    r.b = infer__row(&a->b, row) + at_group;
    r.c = infer__row(&a->c, row) + at_group;
    r.skip = ((const float *)a->skip->data)[h];
    for (t = 0; t < INFER__LANES; t++)
        r.d[t] = t < rows ? infer__row(&a->dt, row + t)[h] + ((const float *)a->dt_bias->data)[h] : 0.0f;
    job->level->prep(&r, ((const float *)a->a->data)[h]);
    for (at = 0; at < a->dim; at += n) {
        n = INFER__MIN(INFER__LANES, a->dim - at);
        if (n < INFER__LANES) memset(r.x, 0, sizeof r.x);
        for (t = 0; t < rows; t++)
            memcpy(r.x + INFER__LANES * t, infer__row(&a->x, row + t) + at_head + at, (size_t)n * sizeof *r.x);
        job->level->tile(&r, s + at);
        for (t = 0; t < rows; t++)
            memcpy(infer__row(&a->y, row + t) + at_head + at, r.y + INFER__LANES * t, (size_t)n * sizeof *r.y);
    }
}

/* A row of INFER__LANES heads of one value. */
static void infer__ssm_block(const infer__ssm_job *job, float *s, int32_t block, int32_t row) {
    const infer__ssm_args *a = job->a;
    const int32_t first = block * INFER__LANES, n = INFER__MIN(INFER__LANES, a->heads - first);
    const float *x = infer__row(&a->x, row) + first, *dt = infer__row(&a->dt, row) + first;
    const float *bias = (const float *)a->dt_bias->data + first, *skip = (const float *)a->skip->data + first;
    float d[INFER__LANES] = {0}, in[INFER__LANES] = {0}, sum[INFER__LANES], *y = infer__row(&a->y, row) + first;
    int32_t i;
    memcpy(in, x, (size_t)n * sizeof *in);
    for (i = 0; i < n; i++) d[i] = dt[i] + bias[i];
    job->level->own(s, a->state, (const float *)a->a->data + (int64_t)first * a->state, a->grows, d, in,
                    infer__row(&a->b, row), infer__row(&a->c, row), sum);
    for (i = 0; i < n; i++) y[i] = sum[i] + skip[i] * in[i];
}

static void infer__ssm_task(void *arg, int task, int worker) {
    const infer__ssm_job *job = (const infer__ssm_job *)arg;
    const infer__ssm_args *a = job->a;
    const infer__pass *p = &job->c->pass;
    const int64_t unit = (int64_t)a->state * job->lanes, cell = unit * job->units;
    const int32_t first = task * job->of_task, end = INFER__MIN(first + job->of_task, job->units);
    const int32_t together = a->own_a ? INFER__SSM_TOGETHER : 1; /* adjacent in a row: read them together */
    int32_t u0, u, row, n, t;
    (void)worker;
    for (u0 = first; u0 < end; u0 += together)
        for (row = 0; row < a->x.rows; row += n) {
            const int32_t seq = p->seq[row], from = p->cell_in[seq];
            const int begins = row == 0 || p->seq[row - 1] != seq;
            for (n = 1; n < INFER__LANES && row + n < a->x.rows && p->seq[row + n] == seq;) n++;
            for (u = u0; u < INFER__MIN(u0 + together, end); u++) {
                float *s = (float *)a->cells->host + p->cell_out[seq] * cell + u * unit;
                if (begins && from < 0)
                    memset(s, 0, (size_t)unit * sizeof *s);
                else if (begins)
                    memcpy(s, (float *)a->cells->host + from * cell + u * unit, (size_t)unit * sizeof *s);
                for (t = 0; a->own_a && t < n; t++) infer__ssm_block(job, s, u, row + t);
                if (!a->own_a) infer__ssm_head(job, s, u, row, n);
            }
        }
}

static void infer__cpu_ssm(infer__ctx *c, const infer__ssm_args *a) {
    infer__ssm_job job;
    int64_t values;
    double began = infer__op_begin(c);
    if (began < 0) return;
    INFER__ASSERT(a->x.cols == a->heads * a->dim && a->dt.cols == a->heads && a->heads % a->groups == 0);
    INFER__ASSERT(a->b.stride == a->c.stride);
    INFER__ASSERT(a->b.cols == a->groups * a->state && (!a->own_a || (a->dim == 1 && a->groups == 1)));
    job.c = c;
    job.a = a;
    for (job.level = INFER__SSM_LEVELS; job.level->need & ~c->kernels->need; job.level++) {}
    job.units = infer__ssm_units(a->heads, a->own_a);
    job.lanes = infer__ssm_lanes(a->dim, a->own_a);
    values = (int64_t)a->state * job.lanes;
    job.of_task = (int32_t)INFER__MAX(1, INFER__SSM_TASK / values);
    values *= job.units;
    infer__cpu_run(c, (job.units + job.of_task - 1) / job.of_task, values * a->x.rows * (a->own_a ? 8 : 1),
                   infer__ssm_task, &job);
    infer__op_end(c, "ssm", 2 * (uint64_t)values * sizeof(float) * (uint64_t)c->pass.n_seq, began);
}
