/* cpu_compress.c: compressed attention: making an entry from the rows of several positions, on the CPU.
 *
 * Owns:  the compress op, and rows_store, which writes its input: see infer__compress_args.
 * Rules: an entry is made when its last position is evaluated, only from rows in the cache, by one task, position by
 *        position: so its bits do not depend on where passes are split. It is stored like values.
 */
#include "cpu_ops.h"

typedef struct infer__compress_job { infer__ctx *c; const infer__compress_args *a; } infer__compress_job;

/* The row of a position. */
static float *infer__compress_row(const infer__pass *p, const infer__kv_buf *rows, int32_t group, int32_t seq,
                                  int32_t pos, int32_t width) {
    const int32_t page = infer__page_of(p, group, seq, pos);
    return (float *)rows->buf.host + ((int64_t)page * INFER__PAGE + pos % INFER__PAGE) * width;
}

/* Add the row of position `at` to the maxima of scores, or to the sums of weights and weighted values. half: 1 = its
 * second half, with overlap. place_row: scratch for a row of position scores. */
static void infer__compress_take(const infer__compress_args *a, const float *x, int32_t at, int half, int sums,
                                 float *most, float *sum, float *y, float *place_row) {
    const int32_t dim = a->dim, wide = dim * (1 + a->overlap);
    int64_t stride;
    const float *place = infer__weight_rows(a->place, at % a->every, 1, place_row, &stride) + half * dim;
    const float *value = x + a->first + half * dim, *score = value + wide;
    int32_t i;
    for (i = 0; i < dim && !sums; i++) {
        const float s = score[i] + place[i];
        most[i] = s > most[i] ? s : most[i];
    }
    for (i = 0; i < dim && sums; i++) {
        const float gap = score[i] + place[i] - most[i];
        const float e = infer__choose(infer__not_number(gap), gap, infer__exp_minus_f32(gap));
        sum[i] += e;
        y[i] += e * value[i];
    }
}

/* y = the mean of the positions of an entry. */
static void infer__compress_mean(const infer__compress_args *a, const infer__pass *p, int32_t seq, int32_t begin,
                                 float *y) {
    const float share = 1.0f / (float)a->every;
    int32_t at, i;
    for (at = begin; at < begin + a->every; at++) {
        const float *x = infer__compress_row(p, a->rows, a->rows_group, seq, at, a->width) + a->first;
        for (i = 0; i < a->dim; i++) y[i] += x[i];
    }
    for (i = 0; i < a->dim; i++) y[i] *= share;
}

/* Row r of the pass, when it is the last one of an entry. */
static void infer__compress_task(void *arg, int r, int worker) {
    const infer__compress_job *job = (const infer__compress_job *)arg;
    const infer__compress_args *a = job->a;
    const infer__pass *p = &job->c->pass;
    const infer__kernels *k = job->c->kernels;
    const int32_t dim = a->dim, pos = p->pos[r], seq = p->seq[r], entry = pos / a->every, begin = entry * a->every;
    float *most = infer__cpu_scratch(job->c, worker), *sum = most + dim, *y = sum + dim, *place = y + dim, inv;
    int32_t at, i, sums;
    if ((pos + 1) % a->every) return;
    for (i = 0; i < dim; i++) {
        most[i] = -3e38f;
        sum[i] = y[i] = 0;
    }
    if (!a->place) infer__compress_mean(a, p, seq, begin, y);
    for (sums = 0; sums < 2 && a->place; sums++)
        for (at = INFER__MAX(begin - a->overlap * a->every, 0); at <= pos; at++)
            infer__compress_take(a, infer__compress_row(p, a->rows, a->rows_group, seq, at, a->width), at,
                                 a->overlap && at >= begin, sums, most, sum, y, place);
    for (i = 0; i < dim && a->place; i++) y[i] /= sum[i];
    inv = 1.0f / sqrtf(k->sum_sq_diff(y, 0.0f, dim) / (float)dim + a->eps);
    k->norm(y, y, 0.0f, inv, infer__weight_values(a->norm, 0, dim, most), NULL, dim);
    if (a->rope.kind != INFER__ROPE_NONE) {
        for (i = 0; i < a->rope.n_rot / 2; i++) infer__turn(&a->rope, i, begin, p->extended[seq], most);
        k->rotate(a->place ? y + dim - a->rope.n_rot : y, most, most + a->rope.n_rot / 2, a->rope.n_rot / 2,
            a->rope.kind);
    }
    infer__kv_encode(infer__flash_find(k->need), a->entries->type, y, dim,
                     infer__kv_entry(p, a->entries, a->group, a->every, seq, entry, dim));
}

static void infer__cpu_compress(infer__ctx *c, const infer__compress_args *a) {
    infer__compress_job job;
    const int32_t wide = a->dim * (1 + a->overlap);
    double began = infer__op_begin(c);
    if (began < 0 || !infer__kv_type_ok(c, a->entries) || !infer__vector_ok(c, a->norm, "norms of entries")) return;
    INFER__ASSERT(a->rows->type == INFER_KV_F32 && a->first + (a->place ? 2 : 1) * wide <= a->width);
    INFER__ASSERT(!a->place || (a->place->rows == a->every && a->place->cols == wide));
    INFER__ASSERT(a->rope.n_rot <= a->dim && 5 * (int64_t)a->dim <= c->cpu->scratch_len);
    job.c = c;
    job.a = a;
    infer__cpu_run(c, a->n_rows, (int64_t)a->n_rows * wide * 16, infer__compress_task, &job);
    infer__op_end(c, "compress", 0, began);
}

static void infer__cpu_rows_store(infer__ctx *c, const infer__rows_store_args *a) {
    const infer__pass *p = &c->pass;
    int32_t r;
    double began = infer__op_begin(c);
    if (began < 0) return;
    INFER__ASSERT(a->rows->type == INFER_KV_F32);
    for (r = 0; r < a->x.rows; r++)
        memcpy(infer__compress_row(p, a->rows, a->group, p->seq[r], p->pos[r], a->x.cols), infer__row(&a->x, r),
               (size_t)a->x.cols * sizeof(float));
    infer__op_end(c, "rows_store", 0, began);
}
