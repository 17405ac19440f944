/* cpu_attention.c: the cache of keys and values, and attention over it, on the CPU.
 *
 * Owns:  kv_store and attention.
 * How:   a task is a few rows of one K/V head, with the query heads that share it. It walks the positions in chunks of
 *        INFER__KV_CHUNK counted from position 0, each a few pages, with an online softmax (arXiv 1805.02867,
 *        2205.14135): m is the largest score so far, l the sum of exp(score - m), and y the sum of exp(score - m) * v,
 *        rescaled when m grows. A page of an F16 cache is decoded once for all rows and heads of a task.
 * Invariant: what a row gets depends on its own position and cache only: chunks start at multiples of INFER__KV_CHUNK,
 *        every score is one dot product, values are added in the order of positions.
 * Start: infer__attention_rows.
 */
#include "cpu_ops.h"

enum {
    INFER__ATT_PAIRS = 64, /* (row, head) pairs of a task, at most */
    INFER__ATT_ROWS = 16   /* and rows */
};

/* ---- cache -------------------------------------------------------------------------------------------- */

static int32_t infer__page_of(const infer__pass *p, int32_t group, int32_t seq, int32_t pos) {
    int32_t page = p->pages[group][(int64_t)seq * p->max_pages + pos / INFER__PAGE];
    INFER__ASSERT(page >= 0 && pos / INFER__PAGE < p->max_pages);
    return page;
}

static void infer__kv_put(const infer__kv_buf *b, uint64_t index, const float *x, int32_t n) {
    int32_t i;
    if (b->type == INFER_KV_F32) {
        memcpy((float *)b->buf.host + index, x, (size_t)n * sizeof *x);
    } else {
        uint16_t *h = (uint16_t *)b->buf.host + index;
        for (i = 0; i < n; i++) h[i] = infer__f32_f16(x[i]);
    }
}

typedef struct infer__kv_store_job { infer__ctx *c; const infer__kv_store_args *a; } infer__kv_store_job;

static void infer__kv_store_task(void *arg, int row, int worker) {
    const infer__kv_store_job *job = (const infer__kv_store_job *)arg;
    const infer__kv_store_args *a = job->a;
    const infer__pass *p = &job->c->pass;
    int32_t pos = p->pos[row], page = infer__page_of(p, a->group, p->seq[row], pos), slot = pos % INFER__PAGE, h;
    (void)worker;
    for (h = 0; h < a->n_head; h++) {
        infer__kv_put(a->k_cache, infer__kv_index(page, h, slot, a->n_head, a->dim_k),
                      infer__row(&a->k, row) + (int64_t)h * a->dim_k, a->dim_k);
        infer__kv_put(a->v_cache, infer__kv_index(page, h, slot, a->n_head, a->dim_v),
                      infer__row(&a->v, row) + (int64_t)h * a->dim_v, a->dim_v);
    }
}

static int infer__kv_type_ok(infer__ctx *c, const infer__kv_buf *b) {
    if (b->type == INFER_KV_F32 || b->type == INFER_KV_F16) return 1;
    infer__fail(c, INFER_ERR_UNSUPPORTED, "cache type %d is not supported on the CPU", (int)b->type);
    return 0;
}

static void infer__cpu_kv_store(infer__ctx *c, const infer__kv_store_args *a) {
    infer__kv_store_job job;
    double began = infer__op_begin(c);
    if (began < 0 || !infer__kv_type_ok(c, a->k_cache) || !infer__kv_type_ok(c, a->v_cache)) return;
    job.c = c;
    job.a = a;
    infer__cpu_run(c, a->k.rows, (int64_t)a->k.rows * a->n_head * (a->dim_k + a->dim_v), infer__kv_store_task, &job);
    infer__op_end(c, "kv_store", 0, began);
}

/* ---- attention ------------------------------------------------------------------------------------------ */

typedef struct infer__attention_job {
    infer__ctx *c;
    const infer__attention_args *a;
    int32_t row_step, head_step; /* per task */
    int32_t row_tasks, head_tasks; /* blocks of rows; blocks of the query heads of one K/V head */
} infer__attention_job;

/* What one task works on: rows of one sequence and query heads of one K/V head. */
typedef struct infer__attention_block {
    int32_t row, n_rows, head, n_heads, kv_head, seq;
    int32_t lo[INFER__ATT_ROWS], hi[INFER__ATT_ROWS]; /* first and last position that each row sees */
    int32_t first, last;                              /* of all rows */
    float scale[INFER__ATT_ROWS], slope[INFER__ATT_PAIRS]; /* of scores: per row; per head */
    float m[INFER__ATT_PAIRS], l[INFER__ATT_PAIRS];   /* online softmax of pair row * n_heads + head */
    float *scores;                                    /* pairs x INFER__KV_CHUNK */
    float *decoded;                                   /* a page of keys or values */
} infer__attention_block;

/* Slope of head h, as ALiBi's authors choose it: powers of 2^(-max_bias / n) for n = the largest power of two up to
 * n_head, and between those for the heads beyond. */
static float infer__alibi_slope(float max_bias, int32_t n_head, int32_t h) {
    int32_t n = 1;
    if (!(max_bias > 0)) return 0.0f;
    while (n * 2 <= n_head) n *= 2;
    if (h < n) return (float)pow(2.0, -(double)max_bias / n * (h + 1));
    return (float)pow(2.0, -(double)max_bias / 2 / n * (2 * (h - n) + 1));
}

static float infer__row_scale(const infer__attention_args *a, int32_t pos) {
    double t;
    if (a->temp_scale == 0.0f) return a->scale;
    t = log(floor(((double)pos + a->temp_offset) / a->temp_floor) + 1.0) * a->temp_scale + 1.0;
    return (float)(a->scale * t);
}

/* n positions of a page from `slot` on, as float32. */
static const float *infer__kv_get(const infer__ctx *c, const infer__kv_buf *b, int32_t page, int32_t head, int32_t slot,
                                  int32_t n, int32_t n_head, int32_t dim, float *decoded) {
    uint64_t index = infer__kv_index(page, head, slot, n_head, dim);
    if (b->type == INFER_KV_F32) return (const float *)b->buf.host + index;
    c->kernels->f16_f32(decoded, (const uint16_t *)b->buf.host + index, (int64_t)n * dim);
    return decoded;
}

/* Scores of the chunk at `base`, or y += sum of scores * v: page by page, each read once for all rows. */
static void infer__attention_pages(const infer__attention_job *job, infer__attention_block *b, int32_t base,
                                   int values) {
    const infer__attention_args *a = job->a;
    const infer__kernels *k = job->c->kernels;
    const infer__kv_buf *cache = values ? a->v_cache : a->k_cache;
    int32_t dim = values ? a->dim_v : a->dim_k, at, r, h;
    for (at = base; at < base + INFER__KV_CHUNK; at += INFER__PAGE) {
        int32_t from = INFER__MAX(at, b->first), to = INFER__MIN(at + INFER__PAGE - 1, b->last);
        const float *p;
        if (from > to) continue;
        p = infer__kv_get(job->c, cache, infer__page_of(&job->c->pass, a->group, b->seq, at), b->kv_head, from - at,
                          to - from + 1, a->n_head_kv, dim, b->decoded);
        for (r = 0; r < b->n_rows; r++) {
            int32_t lo = INFER__MAX(from, b->lo[r]), n = INFER__MIN(to, b->hi[r]) - lo + 1;
            float *s = b->scores + (int64_t)r * b->n_heads * INFER__KV_CHUNK + (lo - base);
            const float *x = p + (int64_t)(lo - from) * dim;
            if (n <= 0) continue;
            if (!values) {
                k->tile(x, dim, n, infer__row(&a->q, b->row + r) + (int64_t)b->head * dim, dim, b->n_heads, dim, s,
                        INFER__KV_CHUNK);
                continue;
            }
            for (h = 0; h < b->n_heads; h++)
                k->mix(infer__row(&a->y, b->row + r) + (int64_t)(b->head + h) * dim, x, dim,
                       s + h * INFER__KV_CHUNK, n, dim);
        }
    }
}

/* Scores of pair (r, h) in the chunk at `base` become exp(score - m); m, l and y follow. */
static void infer__attention_softmax(const infer__attention_job *job, infer__attention_block *b, int32_t base,
                                     int32_t r, int32_t h) {
    const infer__attention_args *a = job->a;
    int32_t lo = INFER__MAX(base, b->lo[r]), n = INFER__MIN(base + INFER__KV_CHUNK - 1, b->hi[r]) - lo + 1, i;
    int32_t pair = r * b->n_heads + h, pos = b->hi[r];
    float *s = b->scores + (int64_t)pair * INFER__KV_CHUNK + (lo - base), l = 0.0f, max, shrink;
    float slope = b->slope[h];
    if (n <= 0) return;
    for (i = 0; i < n; i++) s[i] *= b->scale[r];
    for (i = 0; a->softcap > 0 && i < n; i++) s[i] = a->softcap * tanhf(s[i] / a->softcap);
    for (i = 0; slope != 0.0f && i < n; i++) s[i] += slope * (float)(lo + i - pos);
    max = s[0];
    for (i = 1; i < n; i++)
        if (s[i] > max) max = s[i];
    if (b->l[pair] == 0.0f) {
        b->m[pair] = max; /* the row's first chunk: later l is at least 1 */
    } else if (max > b->m[pair]) {
        shrink = expf(b->m[pair] - max);
        b->m[pair] = max;
        b->l[pair] *= shrink;
        job->c->kernels->scale(infer__row(&a->y, b->row + r) + (int64_t)(b->head + h) * a->dim_v, shrink, a->dim_v);
    }
    for (i = 0; i < n; i++) {
        s[i] = expf(s[i] - b->m[pair]);
        l += s[i];
    }
    b->l[pair] += l;
}

/* The rows and heads of `b`. */
static void infer__attention_rows(const infer__attention_job *job, infer__attention_block *b) {
    const infer__attention_args *a = job->a;
    int32_t r, h, base, pos;
    b->first = INT32_MAX;
    b->last = 0;
    for (r = 0; r < b->n_rows; r++) {
        pos = job->c->pass.pos[b->row + r];
        b->hi[r] = pos;
        b->scale[r] = infer__row_scale(a, pos);
        b->lo[r] = a->window > 0 && pos >= a->window ? pos - a->window + 1 : 0;
        b->first = INFER__MIN(b->first, b->lo[r]);
        b->last = INFER__MAX(b->last, b->hi[r]);
        memset(infer__row(&a->y, b->row + r) + (int64_t)b->head * a->dim_v, 0,
               (size_t)b->n_heads * (size_t)a->dim_v * sizeof(float));
    }
    for (h = 0; h < b->n_heads; h++) b->slope[h] = infer__alibi_slope(a->max_bias, a->n_head, b->head + h);
    for (r = 0; r < b->n_rows * b->n_heads; r++) b->m[r] = b->l[r] = 0.0f;
    for (base = b->first / INFER__KV_CHUNK * INFER__KV_CHUNK; base <= b->last; base += INFER__KV_CHUNK) {
        infer__attention_pages(job, b, base, 0);
        for (r = 0; r < b->n_rows; r++)
            for (h = 0; h < b->n_heads; h++) infer__attention_softmax(job, b, base, r, h);
        infer__attention_pages(job, b, base, 1);
    }
    for (r = 0; r < b->n_rows; r++)
        for (h = 0; h < b->n_heads; h++)
            job->c->kernels->scale(infer__row(&a->y, b->row + r) + (int64_t)(b->head + h) * a->dim_v,
                                   1.0f / b->l[r * b->n_heads + h], a->dim_v);
}

static void infer__attention_task(void *arg, int task, int worker) {
    const infer__attention_job *job = (const infer__attention_job *)arg;
    const infer__attention_args *a = job->a;
    const infer__pass *p = &job->c->pass;
    infer__attention_block b;
    int32_t share = a->n_head / a->n_head_kv, from = task % job->row_tasks * job->row_step, r;
    int32_t end = INFER__MIN(from + job->row_step, a->q.rows), block = task / job->row_tasks;
    b.kv_head = block / job->head_tasks;
    b.head = block % job->head_tasks * job->head_step;
    b.n_heads = INFER__MIN(job->head_step, share - b.head);
    b.head += b.kv_head * share;
    b.scores = infer__cpu_scratch(job->c, worker);
    b.decoded = b.scores + INFER__ATT_PAIRS * INFER__KV_CHUNK;
    for (r = from; r < end; r = b.row + b.n_rows) { /* a block of one sequence at a time */
        b.row = r;
        b.seq = p->seq[r];
        for (b.n_rows = 1; r + b.n_rows < end && p->seq[r + b.n_rows] == b.seq; b.n_rows++) {}
        infer__attention_rows(job, &b);
    }
}

static void infer__cpu_attention(infer__ctx *c, const infer__attention_args *a) {
    infer__attention_job job;
    int64_t seen; /* positions, of all rows */
    int32_t blocks, threads = infer__pool_threads(c->pool);
    double began = infer__op_begin(c);
    if (began < 0 || !infer__kv_type_ok(c, a->k_cache) || !infer__kv_type_ok(c, a->v_cache)) return;
    INFER__ASSERT(a->n_head % a->n_head_kv == 0);
    INFER__ASSERT(a->q.cols == a->n_head * a->dim_k && a->y.cols == a->n_head * a->dim_v);
    INFER__ASSERT(INFER__ATT_PAIRS * INFER__KV_CHUNK + INFER__PAGE * INFER__MAX(a->dim_k, a->dim_v) <= c->scratch_len);
    seen = (int64_t)infer__attention_seen(c, a);
    job.c = c;
    job.a = a;
    blocks = a->n_head / a->n_head_kv;
    job.head_step = INFER__MIN(blocks, INFER__ATT_PAIRS);
    while (job.head_step > 1 &&
           (int64_t)a->q.rows * a->n_head_kv * ((blocks + job.head_step - 1) / job.head_step) < threads)
        job.head_step = (job.head_step + 1) / 2; /* few rows: split the heads, so that no thread idles */
    job.head_tasks = (blocks + job.head_step - 1) / job.head_step;
    job.row_step = INFER__MIN(INFER__ATT_PAIRS / job.head_step, INFER__ATT_ROWS);
    while (job.row_step > 1 && (int64_t)(a->q.rows / job.row_step) * a->n_head_kv * job.head_tasks < 4 * threads)
        job.row_step /= 2;
    job.row_tasks = (a->q.rows + job.row_step - 1) / job.row_step;
    infer__cpu_run(c, job.row_tasks * a->n_head_kv * job.head_tasks, seen * a->n_head * (a->dim_k + a->dim_v),
                   infer__attention_task, &job);
    infer__op_end(c, "attention", infer__attention_bytes(a, (uint64_t)seen), began);
}
