/* cpu_index.c: choosing the positions that attention reads: scores of keys, and the best of them, on the CPU.
 *
 * Owns:  the index op: see infer__index_args.
 * How:   a few rows at a time: scores, in tasks of INFER__KV_SPLIT positions, as numbers without sign of the same order
 *        ("ranks"); then, for each row and set, the rank of the last chosen one (radix selection, highest byte first),
 *        and the list. Keys are read as attention reads them (infer__flash), heads are added in their order.
 * Rules: a row's list depends only on its own query and positions. A row that sees no more positions than it may
 *        choose, or has no query, gets all of them without scores.
 */
#include "cpu_ops.h"

enum { INFER__INDEX_ROWS = 4 }; /* of a task: they share what is read of the cache */

static int32_t infer__index_stride(int32_t cells) { return infer__round_up(cells, INFER__KV_CHUNK); }

/* All sets of a row for each thread, and of a few tasks' rows at least. */
static int64_t infer__index_ranks(const infer__needs *n) {
    return (int64_t)INFER__MAX(n->threads, 2 * INFER__INDEX_ROWS) * n->index_sets * infer__index_stride(n->cells);
}

typedef struct infer__index_job {
    infer__ctx *c;
    const infer__index_args *a;
    const infer__flash *f;
    infer__attention_plan plan;
    int32_t sets, stride; /* of ranks, between sets */
    int32_t row, rows, splits; /* the first of these rows, and how many; tasks for each INFER__INDEX_ROWS of them */
} infer__index_job;

/* An unsigned number with the same order; 0 for NaN. -0 is 0. */
INFER__INLINE uint32_t infer__index_rank(float x) {
    const uint32_t bits = infer__f32_bits(x) & (0u - (uint32_t)(infer__f32_bits(x) != 0x80000000u));
    return (bits ^ ((0u - (bits >> 31)) | 0x80000000u)) & ~infer__not_number(x);
}

/* Positions, or entries, that a row sees, and blocks of them. */
static int32_t infer__index_seen(const infer__index_args *a, int32_t pos) {
    return infer__rows_before(a->every, pos + 1);
}
static int32_t infer__index_blocks(const infer__index_args *a, int32_t pos) {
    const int32_t n = infer__index_seen(a, pos);
    return n / a->block + (n % a->block > 0);
}

/* Of pages of scores: loops of a fixed length, so that compilers make them packed. */
static void infer__index_ranked(const float *x, int32_t pages, uint32_t *ranks) {
    int32_t l;
    for (; pages > 0; pages--, x += INFER__PAGE, ranks += INFER__PAGE)
        for (l = 0; l < INFER__PAGE; l++) ranks[l] = infer__index_rank(x[l]);
}

/* sum += w * max(x, 0) of a page: x + |x| is twice that. NaN stays NaN. */
static void infer__index_add(float *sum, const float *x, float w) {
    int32_t l;
    for (l = 0; l < INFER__PAGE; l++) sum[l] += w * (0.5f * (x[l] + fabsf(x[l])));
}

/* The first n keys of the chunk at `base`, as float32. */
static void infer__index_read(const infer__index_job *job, int32_t seq, int32_t base, int32_t n, float *scratch,
                              const float **pages) {
    const infer__kv_buf *cache = job->a->k_cache;
    const infer__kv_reader *read = &job->f->kv[cache->type];
    int32_t i;
    for (i = 0; job->a->every > 1 && i < n; i++) {
        float *to = scratch + job->plan.keys + (int64_t)(i / INFER__PAGE * INFER__PAGE) * job->plan.dim_k;
        pages[i / INFER__PAGE] = to;
        infer__attention_entry(job->c, job->f->kv, cache, job->a->group, job->a->every, seq, base + i, job->a->dim,
                               scratch + job->plan.values, to, i % INFER__PAGE);
    }
    for (i = 0; job->a->every <= 1 && i <= (n - 1) / INFER__PAGE; i++) {
        const int32_t page = infer__page_of(&job->c->pass, job->a->group, seq, base + i * INFER__PAGE);
        const uint8_t *p = infer__kv_at(cache, page, 0, 1, job->a->dim);
        float *to = scratch + job->plan.keys + (int64_t)i * INFER__PAGE * job->plan.dim_k;
        pages[i] = read->keys ? to : (const float *)(const void *)p;
        if (read->keys) read->keys(to, p, job->a->dim);
    }
}

/* The chunk at `base` for `row`: scores of each set, or the weighted sum of all heads. */
static void infer__index_chunk(const infer__index_job *job, int32_t row, int32_t base, int32_t n,
                               const float *const *pages, float *scores, uint32_t *ranks) {
    const infer__index_args *a = job->a;
    const float *q = infer__row(&a->q, row), *w = a->w.buf ? infer__row(&a->w, row) : NULL;
    const int one = w || a->sum;
    const int32_t last = (n - 1) / INFER__PAGE;
    float sum[INFER__KV_CHUNK] = {0};
    int32_t i, j, h, some;
    for (h = 0; h < a->heads; h += some) {
        some = INFER__MIN(job->plan.pairs, a->heads - h);
        job->f->scores(scores, pages, 0, last, q + (int64_t)h * a->dim, a->dim, some, a->dim);
        for (i = 0; i < some; i++) {
            float *s = scores + (int64_t)i * INFER__KV_CHUNK;
            infer__attention_blank(0, n - 1, s); /* ranks are taken of whole pages */
            if (!one) infer__index_ranked(s, last + 1, ranks + (int64_t)(h + i) * job->stride + base);
            for (j = 0; one && j <= last; j++)
                infer__index_add(sum + j * INFER__PAGE, s + j * INFER__PAGE, w ? w[h + i] : 1.0f);
        }
    }
    if (one) infer__index_ranked(sum, last + 1, ranks + base);
}

static void infer__index_score_task(void *arg, int task, int worker) {
    const infer__index_job *job = (const infer__index_job *)arg;
    const infer__pass *p = &job->c->pass;
    const int32_t first = task / job->splits * INFER__INDEX_ROWS, split = task % job->splits;
    const int32_t last = INFER__MIN(first + INFER__INDEX_ROWS, job->rows) - 1;
    const float *pages[INFER__CHUNK_PAGES];
    float *scratch = infer__cpu_scratch(job->c, worker);
    int32_t base = split * INFER__KV_SPLIT, r, i;
    for (i = 0; i < INFER__KV_SPLIT; i += INFER__KV_CHUNK, base += INFER__KV_CHUNK) {
        int32_t seq = -1, have = 0;
        for (r = last; r >= first; r--) { /* the last one sees most */
            const int32_t row = job->row + r, keys = infer__index_seen(job->a, p->pos[row]);
            const int32_t n = INFER__MIN(INFER__KV_CHUNK, keys - base);
            if (n <= 0 || infer__index_blocks(job->a, p->pos[row]) <= job->a->top) continue;
            if (seq != p->seq[row] || n > have) infer__index_read(job, p->seq[row], base, n, scratch, pages);
            have = seq == p->seq[row] ? INFER__MAX(have, n) : n;
            seq = p->seq[row];
            infer__index_chunk(job, row, base, n, pages, scratch + job->plan.scores,
                               job->c->cpu->ranks + (int64_t)r * job->sets * job->stride);
        }
    }
}

/* Ranks of positions become those of blocks. */
static void infer__index_pool(const infer__index_args *a, uint32_t *x, int32_t pos) {
    const int32_t n = infer__index_blocks(a, pos);
    int32_t i, j;
    for (i = 0; i < n; i++) {
        const int32_t end = INFER__MIN(a->block, pos + 1 - i * a->block);
        uint32_t best = x[(int64_t)i * a->block];
        for (j = 1; j < end; j++) best = INFER__MAX(best, x[(int64_t)i * a->block + j]);
        x[i] = i >= n - a->local ? UINT32_MAX : best;
    }
}

/* The smallest of the `top` largest ranks of n, and how many equal to it are among them. */
static uint32_t infer__index_least(const uint32_t *x, int32_t n, int32_t top, int32_t *equal) {
    uint32_t least = 0, mask = 0;
    int32_t shift, i, d;
    for (shift = 24; shift >= 0; shift -= 8) {
        int32_t count[256] = {0};
        for (i = 0; i < n; i++)
            if ((x[i] & mask) == least) count[x[i] >> shift & 255]++;
        for (d = 255; count[d] < top; d--) top -= count[d];
        least |= (uint32_t)d << shift;
        mask |= (uint32_t)255 << shift;
    }
    *equal = top;
    return least;
}

/* from .. to - 1 to a list that has `have`. */
static int32_t infer__index_take(int32_t *list, int32_t have, int32_t from, int32_t to) {
    for (; from < to; from++) list[1 + have++] = from;
    return have;
}

static void infer__index_list_task(void *arg, int task, int worker) {
    const infer__index_job *job = (const infer__index_job *)arg;
    const infer__index_args *a = job->a;
    const int32_t r = task / job->sets, set = task % job->sets, pos = job->c->pass.pos[job->row + r];
    const int32_t n = infer__index_blocks(a, pos), best = a->q.buf && n > a->top;
    const int32_t each = a->gives == INFER__INDEX_RUNS ? a->every : a->block;
    const int32_t end = a->gives == INFER__INDEX_POSITIONS ? pos + 1 : n * each;
    int32_t *list = infer__index_list(&a->y, job->row + r, set, job->sets), i, have = 0, equal = 0;
    uint32_t *x = best ? job->c->cpu->ranks + (int64_t)task * job->stride : NULL, least = 0;
    (void)worker;
    if (best) {
        if (a->block > 1 || a->local) infer__index_pool(a, x, pos);
        least = infer__index_least(x, n, a->top, &equal);
    }
    for (i = 0; i < n; i++) {
        if (best && (x[i] < least || (x[i] == least && equal-- <= 0))) continue;
        have = infer__index_take(list, have, i * each, INFER__MIN(i * each + each, end));
        if (a->gives == INFER__INDEX_ENTRIES) list[have] = -1 - i;
    }
    if (a->gives == INFER__INDEX_RUNS) have = infer__index_take(list, have, n * each, pos + 1);
    if (a->gives == INFER__INDEX_ENTRIES)
        have = infer__index_take(list, have, INFER__MAX(pos + 1 - a->window, 0), pos + 1);
    INFER__ASSERT(have < a->y.cols / job->sets);
    list[0] = have;
}

static void infer__cpu_index(infer__ctx *c, const infer__index_args *a) {
    infer__index_job job;
    int32_t some, r, last;
    uint64_t seen = 0;
    double began = infer__op_begin(c);
    if (began < 0 || (a->q.buf && !infer__kv_type_ok(c, a->k_cache))) return;
    memset(&job, 0, sizeof job);
    job.c = c;
    job.a = a;
    job.f = infer__flash_find(c->kernels->need);
    if (a->q.buf) job.plan = infer__attention_layout(a->dim, a->dim, INFER__KV_BLOCK, 0);
    job.sets = infer__index_sets(a);
    INFER__ASSERT(!a->q.buf || (a->q.cols == a->heads * a->dim && a->top > 0));
    INFER__ASSERT(a->block > 0 && (a->every > 1 ? a->block == 1 : a->gives == INFER__INDEX_POSITIONS));
    INFER__ASSERT(job.plan.end <= c->cpu->scratch_len);
    for (r = 0, last = 1; r < a->y.rows; r++) last = INFER__MAX(last, infer__index_seen(a, c->pass.pos[r]));
    job.stride = infer__index_stride(last);
    some = (int32_t)INFER__MIN(c->cpu->ranks_len / ((int64_t)job.sets * job.stride), a->y.rows);
    if (!a->q.buf) some = a->y.rows;
    INFER__ASSERT(some > 0);
    for (job.row = 0; job.row < a->y.rows; job.row += some) {
        const int32_t n = job.rows = INFER__MIN(some, a->y.rows - job.row);
        int64_t work = 0;
        for (r = last = 0; r < n && a->q.buf; r++) {
            const int32_t pos = c->pass.pos[job.row + r], keys = infer__index_seen(a, pos);
            if (infer__index_blocks(a, pos) <= a->top) continue;
            last = INFER__MAX(last, keys - 1);
            work += keys;
        }
        seen += (uint64_t)work;
        job.splits = last / INFER__KV_SPLIT + 1;
        if (work)
            infer__cpu_run(c, (n + INFER__INDEX_ROWS - 1) / INFER__INDEX_ROWS * job.splits, work * a->heads * a->dim,
                           infer__index_score_task, &job);
        infer__cpu_run(c, n * job.sets, work * job.sets * 8, infer__index_list_task, &job);
    }
    infer__op_end(c, "index", seen ? seen * infer__kv_bytes(a->k_cache->type, a->dim) : 0, began);
}
