/* cpu_attention.c: attention over the cache, on the CPU: how the work is split and in which order it is done.
 *
 * Owns:  the attention op. The arithmetic is in cpu_flash.c, the cache's layout in cpu_kv.c.
 * How:   a task is a tile: a few rows of one sequence with the query heads that share one K/V head, "pairs". It
 *        iterates over the positions in chunks of INFER__KV_CHUNK counted from position 0 with an online softmax (arXiv
 *        1805.02867, 2205.14135). A chunk's keys and values are converted to float32 once for all pairs of the tile, on
 *        the worker's scratch, and stay in the nearest caches; the matrix of all scores is never stored. Every
 *        INFER__KV_SPLIT positions the softmax restarts, and the previous part's result is merged into the total,
 *        always in order of position. So when there are fewer tiles than threads (generation with a long context),
 *        parts can be separate tasks: they store their results on scratch, to be merged at the end. A head's sink, a
 *        score without a value, is added last, when the total is complete. With chosen positions (infer__index_args) a
 *        tile is one row, and everything counts indices of its list: so a list of all positions gives the same bits as
 *        no list.
 * Invariant: a row's result depends only on its own position and cache: chunks and splits are counted from position 0.
 * Start: infer__attention_chunk, then infer__attention_task.
 */
#include "cpu_ops.h"

enum {
    INFER__ATT_PAIRS = 64,              /* maximum pairs of a tile, which share one read of a chunk */
    INFER__ATT_FLOATS = 8 * 1024,       /* and values of their queries: 32 KiB */
    INFER__ATT_PARTS = 16 * 1024        /* maximum floats per worker for parts to be merged */
};

/* The layout of a worker's scratch, in floats; rows are padded so that vectors and blocks may exceed dim. */
typedef struct infer__attention_plan {
    int32_t dim_k, dim_v; /* padded */
    int32_t pairs;
    int64_t keys, values, q, y, total, scores, parts, end;
    int32_t n_parts, part; /* how many fit, and floats of one: m, l, and y */
} infer__attention_plan;

INFER__INLINE int32_t infer__round_up(int32_t n, int32_t to) { return (n + to - 1) / to * to; }

/* many: gathered rows serve as many pairs as possible, even if their values do not fit into the L1 cache. */
static infer__attention_plan infer__attention_layout(int32_t dim_k, int32_t dim_v, int32_t value_step, int many) {
    infer__attention_plan p;
    int32_t most, room;
    p.dim_k = infer__round_up(dim_k, INFER__KV_BLOCK);
    p.dim_v = infer__round_up(dim_v, value_step);
    most = INFER__MAX(p.dim_k, infer__round_up(dim_v, INFER__KV_BLOCK));
    p.pairs = many ? INFER__ATT_PAIRS : INFER__MAX(8, INFER__MIN(INFER__ATT_PAIRS, INFER__ATT_FLOATS / most));
    p.keys = 0; /* each has room for a page of the other, too: infer__attention_gather */
    p.values = p.keys + INFER__MAX((int64_t)INFER__KV_CHUNK * p.dim_k, (int64_t)INFER__PAGE * p.dim_v);
    p.q = p.values + INFER__MAX((int64_t)INFER__KV_CHUNK * p.dim_v, (int64_t)INFER__PAGE * p.dim_k);
    p.y = p.q + (int64_t)p.pairs * p.dim_k;
    p.total = p.y + (int64_t)p.pairs * p.dim_v;
    p.scores = p.total + (int64_t)p.pairs * p.dim_v;
    p.parts = p.scores + (int64_t)p.pairs * INFER__KV_CHUNK;
    room = INFER__MIN(INFER__ATT_PARTS, 2 * INFER__KV_CHUNK * most);
    p.part = INFER__LANES + p.dim_v;
    p.n_parts = room / p.part;
    p.end = p.parts + room;
    return p;
}

/* Floats of scratch for heads of at most max_head values. */
static int64_t infer__attention_scratch(int32_t max_head, int many) {
    int64_t least = infer__attention_layout(1, 1, INFER__KV_BLOCK, many).end;
    return INFER__MAX(least, infer__attention_layout(max_head, max_head, INFER__KV_BLOCK, many).end);
}

typedef struct infer__attention_job {
    infer__ctx *c;
    const infer__attention_args *a;
    const infer__flash *f;
    infer__attention_plan plan;
    int32_t row_step, head_step;   /* of a task */
    int32_t row_tasks, head_tasks; /* blocks of rows; blocks of the query heads of one K/V head */
    int32_t split, n_splits;       /* the first that any row sees, and how many; n_splits 0: a task does all */
} infer__attention_job;

/* What one task works on: rows of one sequence and query heads of one K/V head. Pair = row * n_heads + head. */
typedef struct infer__attention_block {
    int32_t row, n_rows, head, n_heads, kv_head, seq;
    int32_t lo[INFER__ATT_PAIRS], hi[INFER__ATT_PAIRS]; /* first and last position that each row sees */
    int32_t pos[INFER__ATT_PAIRS];                      /* where each row is */
    int32_t first, last;                                /* of all rows */
    const int32_t *list;                                /* NULL, or the positions that lo and hi count */
    float slope[INFER__ATT_PAIRS];                      /* of each head */
    const float *bias[INFER__ATT_PAIRS];                /* the same; NULL = none */
    infer__softmax part[INFER__ATT_PAIRS], total[INFER__ATT_PAIRS];
    float *keys, *values, *q, *y, *sum, *scores; /* on scratch; y of the part, sum of the total */
} infer__attention_block;

/* Slope of head h, as ALiBi's authors choose it: powers of 2^(-max_bias / n) for n = the largest power of two up to
 * n_head, and between those for the heads beyond. */
static float infer__alibi_slope(float max_bias, int32_t n_head, int32_t h) {
    int32_t n = 1;
    if (!(INFER__VARIANT(max_bias) > 0)) return 0.0f;
    while (n * 2 <= n_head) n *= 2;
    if (h < n) return (float)pow(2.0, -(double)max_bias / n * (h + 1));
    return (float)pow(2.0, -(double)max_bias / 2 / n * (2 * (h - n) + 1));
}

/* What a row attends to: positions, or indices of the returned list of chosen positions. */
static const int32_t *infer__attention_sees(const infer__pass *p, const infer__attention_args *a, int32_t row,
                                            int32_t kv_head, int32_t *lo, int32_t *hi) {
    const int32_t *list;
    infer__row_sees(p, a, row, lo, hi);
    if (!INFER__HAS_VARIANTS || !a->chosen.buf) return NULL;
    list = infer__index_list(&a->chosen, row, (int32_t)((int64_t)kv_head * a->chosen_sets / a->n_head_kv),
                             a->chosen_sets);
    *lo = 0;
    *hi = list[0];
    return list + 1;
}

static float infer__row_scale(const infer__attention_args *a, int32_t pos) {
    double t;
    if (INFER__VARIANT(a->temp_scale) == 0.0f) return a->scale;
    t = log(floor(((double)pos + a->temp_offset) / a->temp_floor) + 1.0) * a->temp_scale + 1.0;
    return (float)(a->scale * t);
}

/* ---- one tile ------------------------------------------------------------------------------------------- */

/* Prefetch a head's page: pages are scattered, so the CPU cannot predict its address. */
static void infer__attention_ahead(const uint8_t *p, uint64_t bytes) {
    uint64_t i;
    for (i = 0; i < bytes; i += 64) INFER__PREFETCH_FAR(p + i);
}

/* A chunk's pages of keys or values: as stored, and as float32 (in place for F32, else on scratch): [dim][16] for keys,
 * [16][stride] for values. */
typedef struct infer__attention_pages {
    const uint8_t *stored[INFER__CHUNK_PAGES];
    const float *floats[INFER__CHUNK_PAGES];
} infer__attention_pages;

/* A compressed entry of dim values, as float32 in column `column` of the transposed page `to`. spare: dim floats,
 * rounded up to blocks. */
static void infer__attention_entry(const infer__ctx *c, const infer__kv_reader *read, const infer__kv_buf *cache,
                                   int32_t group, int32_t every, int32_t seq, int32_t entry, int32_t dim, float *spare,
                                   float *to, int32_t column) {
    int32_t k;
    read[cache->type].values(spare, infer__kv_entry(&c->pass, cache, group, every, seq, entry, dim), dim, 0, 0, 0);
    for (k = 0; k < dim; k++) to[k * INFER__PAGE + column] = spare[k];
}

/* The chosen positions of the chunk at `base`, as pages of float32 on scratch. One by one, except that a whole page of
 * consecutive positions is read at once. */
static void infer__attention_gather(const infer__attention_job *job, infer__attention_block *b, int32_t base,
                                    int values, infer__attention_pages *out) {
    const infer__attention_args *a = job->a;
    const infer__kv_buf *cache = values ? a->v_cache : a->k_cache;
    const infer__kv_reader *read = &job->f->kv[cache->type];
    const int32_t dim = values ? a->dim_v : a->dim_k, padded = values ? job->plan.dim_v : job->plan.dim_k;
    const int32_t n = INFER__MIN(INFER__KV_CHUNK, b->last + 1 - base), *list = b->list + base;
    float *spare = values ? b->keys : b->values, *to;
    const float *from = NULL;
    int32_t j, k, at = -1;
    for (j = 0; j < n; j++) {
        const int32_t slot = list[j] % INFER__PAGE, first = list[j] - slot, column = j % INFER__PAGE;
        to = (values ? b->values : b->keys) + (int64_t)(j - column) * padded;
        if (column == 0) out->floats[j / INFER__PAGE] = to;
        if (list[j] < 0) {
            infer__attention_entry(job->c, job->f->kv, a->more, a->more_group, a->more_every, b->seq, -1 - list[j],
                                   dim, spare, to, column);
            at = -1;
            continue;
        }
        if (first != at || (values && cache->type != INFER_KV_F32)) {
            const int whole = slot == 0 && column == 0 && j + INFER__PAGE <= n &&
                              list[j + INFER__PAGE - 1] - list[j] == INFER__PAGE - 1;
            const int32_t page = infer__page_of(&job->c->pass, a->group, b->seq, first);
            const uint8_t *p = infer__kv_at(cache, page, b->kv_head, a->n_head_kv, dim);
            at = first;
            from = spare;
            if (cache->type == INFER_KV_F32) from = (const float *)(const void *)p;
            else if (values) read->values(spare, p, dim, padded, slot, whole ? INFER__PAGE - 1 : slot);
            else read->keys(spare, p, dim);
            if (whole) {
                if (values && from != spare)
                    for (k = 0; k < INFER__PAGE; k++)
                        memcpy(to + (int64_t)k * padded, from + (int64_t)k * dim, (size_t)dim * sizeof *to);
                else memcpy(to, from, (size_t)INFER__PAGE * (size_t)(values ? padded : dim) * sizeof *to);
                j += INFER__PAGE - 1;
                continue;
            }
        }
        if (values) {
            const float *row = from + (int64_t)slot * (from == spare ? padded : dim);
            memcpy(to + (int64_t)column * padded, row, (size_t)dim * sizeof *to);
        } else
            for (k = 0; k < dim; k++) to[k * INFER__PAGE + column] = from[k * INFER__PAGE + slot];
    }
}

/* The pages of the chunk at `base`; `direct`: as float32 they are not needed. */
static void infer__attention_read(const infer__attention_job *job, infer__attention_block *b, int32_t base, int values,
                                  int direct, infer__attention_pages *out) {
    const infer__attention_args *a = job->a;
    const infer__attention_plan *plan = &job->plan;
    const infer__kv_buf *cache = values ? a->v_cache : a->k_cache;
    const infer__kv_reader *read = &job->f->kv[cache->type];
    const int32_t dim = values ? a->dim_v : a->dim_k, padded = values ? plan->dim_v : plan->dim_k;
    const int32_t from = INFER__MAX(base, b->first), to = INFER__MIN(base + INFER__KV_CHUNK - 1, b->last);
    const int in_place = cache->type == INFER_KV_F32 && (!values || padded == dim);
    int32_t i;
    if (INFER__VARIANT(b->list != NULL)) {
        infer__attention_gather(job, b, base, values, out);
        return;
    }
    for (i = (from - base) / INFER__PAGE; i <= (to - base) / INFER__PAGE; i++) {
        const int32_t at = base + i * INFER__PAGE, page = infer__page_of(&job->c->pass, a->group, b->seq, at);
        const uint8_t *p = infer__kv_at(cache, page, b->kv_head, a->n_head_kv, dim);
        float *to_scratch = (values ? b->values : b->keys) + (int64_t)i * INFER__PAGE * padded;
        if (at + INFER__KV_CHUNK <= b->last) {
            const int32_t next = infer__page_of(&job->c->pass, a->group, b->seq, at + INFER__KV_CHUNK);
            infer__attention_ahead(infer__kv_at(cache, next, b->kv_head, a->n_head_kv, dim),
                                   INFER__PAGE * infer__kv_bytes(cache->type, dim));
        }
        out->stored[i] = p;
        out->floats[i] = in_place ? (const float *)(const void *)p : to_scratch;
        if (in_place || direct) continue;
        if (!values) read->keys(to_scratch, p, dim);
        else
            read->values(to_scratch, p, dim, padded, INFER__MAX(from - at, 0),
                         INFER__MIN(to - at, INFER__PAGE - 1));
    }
}

/* Transpose values that are part of a page of keys: [dim][16] to [16][stride], rows first .. last rounded to blocks of
 * 4 x 4: one by one this was a third of latent attention's time. */
static void infer__attention_turn(float *to, int64_t stride, const float *keys, int32_t dim, int32_t first,
                                  int32_t last) {
    int32_t k = 0, j;
#if defined(INFER__SIMD_X86) && (defined(__SSE2__) || defined(_M_X64))
    for (; k + 4 <= dim; k += 4)
        for (j = first & ~3; j <= last; j += 4) {
            const float *x = keys + (int64_t)k * INFER__PAGE + j;
            float *y = to + (int64_t)j * stride + k;
            const __m128 a = _mm_loadu_ps(x), b = _mm_loadu_ps(x + INFER__PAGE);
            const __m128 c = _mm_loadu_ps(x + 2 * INFER__PAGE), d = _mm_loadu_ps(x + 3 * INFER__PAGE);
            const __m128 ab = _mm_unpacklo_ps(a, b), cd = _mm_unpacklo_ps(c, d);
            const __m128 ef = _mm_unpackhi_ps(a, b), gh = _mm_unpackhi_ps(c, d);
            _mm_storeu_ps(y, _mm_movelh_ps(ab, cd));
            _mm_storeu_ps(y + stride, _mm_movehl_ps(cd, ab));
            _mm_storeu_ps(y + 2 * stride, _mm_movelh_ps(ef, gh));
            _mm_storeu_ps(y + 3 * stride, _mm_movehl_ps(gh, ef));
        }
#elif defined(INFER__SIMD_ARM)
    for (; k + 4 <= dim; k += 4)
        for (j = first & ~3; j <= last; j += 4) {
            const float *x = keys + (int64_t)k * INFER__PAGE + j;
            float *y = to + (int64_t)j * stride + k;
            const float32x4x2_t ab = vtrnq_f32(vld1q_f32(x), vld1q_f32(x + INFER__PAGE));
            const float32x4x2_t cd = vtrnq_f32(vld1q_f32(x + 2 * INFER__PAGE), vld1q_f32(x + 3 * INFER__PAGE));
            vst1q_f32(y, vcombine_f32(vget_low_f32(ab.val[0]), vget_low_f32(cd.val[0])));
            vst1q_f32(y + stride, vcombine_f32(vget_low_f32(ab.val[1]), vget_low_f32(cd.val[1])));
            vst1q_f32(y + 2 * stride, vcombine_f32(vget_high_f32(ab.val[0]), vget_high_f32(cd.val[0])));
            vst1q_f32(y + 3 * stride, vcombine_f32(vget_high_f32(ab.val[1]), vget_high_f32(cd.val[1])));
        }
#endif
    for (; k < dim; k++)
        for (j = first; j <= last; j++) to[(int64_t)j * stride + k] = keys[(int64_t)k * INFER__PAGE + j];
    for (j = first; k < stride && j <= last; j++)
        memset(to + (int64_t)j * stride + k, 0, (size_t)(stride - k) * sizeof *to);
}

/* Values that are the front of their keys, which `pages` has as float32: each page transposed, [dim][16] to
 * [16][stride]. Only visible positions: others may be uninitialised. */
static void infer__attention_front(const infer__attention_job *job, infer__attention_block *b, int32_t base,
                                   infer__attention_pages *pages) {
    const int32_t dim = job->a->dim_v, padded = job->plan.dim_v;
    const int32_t from = INFER__MAX(base, b->first), to = INFER__MIN(base + INFER__KV_CHUNK - 1, b->last);
    int32_t i;
    for (i = (from - base) / INFER__PAGE; i <= (to - base) / INFER__PAGE; i++) {
        const int32_t at = base + i * INFER__PAGE;
        float *values = b->values + (int64_t)i * INFER__PAGE * padded;
        infer__attention_turn(values, padded, pages->floats[i], dim, INFER__MAX(from - at, 0),
                              INFER__MIN(to - at, INFER__PAGE - 1));
        pages->floats[i] = values;
    }
}

/* The positions of the chunk at `base` that row r sees: 1, or 0 when there are none. */
static int infer__attention_range(const infer__attention_block *b, int32_t r, int32_t base, int32_t *from,
                                  int32_t *to) {
    *from = INFER__MAX(b->lo[r] - base, 0);
    *to = INFER__MIN(b->hi[r] - base, INFER__KV_CHUNK - 1);
    return *from <= *to;
}

/* The bias of a head's scores for distances on both sides of the row: those of keys from .. to, the first `at`
 * ahead. */
static void infer__attention_near(const infer__attention_args *a, const float *bias, float slope, int32_t at,
                                  int32_t from, int32_t to, float *x) {
    const int32_t zero = a->reach + at; /* x[j] is bias[zero + j]'s, where that is not too far away */
    int32_t j, before, within;
    if (!a->bias) {
        for (j = from; j <= to; j++) x[j] -= slope * (float)(at + j < 0 ? -(at + j) : at + j);
        return;
    }
    before = INFER__MIN(to, -zero);
    within = INFER__MIN(to, 2 * a->reach - zero);
    for (j = from; j <= before; j++) x[j] += bias[0];
    for (j = INFER__MAX(from, before + 1); j <= within; j++) x[j] += bias[zero + j];
    for (j = INFER__MAX(from, within + 1); j <= to; j++) x[j] += bias[2 * a->reach];
}

/* Zero the scores outside from .. to, whose keys may be uninitialised, up to whole pages. */
static void infer__attention_blank(int32_t from, int32_t to, float *x) {
    int32_t j;
    for (j = from / INFER__PAGE * INFER__PAGE; j < from; j++) x[j] = 0.0f;
    for (j = to + 1; j % INFER__PAGE; j++) x[j] = 0.0f;
}

/* The chunk at `base`, for all pairs of the tile. */
static void infer__attention_chunk(const infer__attention_job *job, infer__attention_block *b, int32_t base) {
    const infer__attention_args *a = job->a;
    const infer__attention_plan *plan = &job->plan;
    const infer__kv_direct *direct_k = &job->f->direct[a->k_cache->type];
    const infer__kv_direct *direct_v = &job->f->direct[a->v_cache->type];
    infer__attention_pages pages;
    const int32_t first = INFER__MAX(b->first - base, 0) / INFER__PAGE;
    const int32_t last = INFER__MIN(b->last - base, INFER__KV_CHUNK - 1) / INFER__PAGE;
    const int32_t pairs = b->n_rows * b->n_heads;
    infer__score_args s;
    int32_t r, h, i, from, to;
    const float *p;
    float *y;
    const int front = INFER__VARIANT(a->v_cache == a->k_cache), list = INFER__VARIANT(b->list != NULL);
    int direct;
    direct = !front && !list && direct_k->scores && pairs <= INFER__DIRECT_PAIRS && first == 0 &&
             last == INFER__CHUNK_PAGES - 1;
    infer__attention_read(job, b, base, 0, direct, &pages);
    if (direct) direct_k->scores(b->scores, pages.stored, b->q, plan->dim_k, pairs, a->dim_k);
    else job->f->scores(b->scores, pages.floats, first, last, b->q, plan->dim_k, pairs, a->dim_k);
    s.softcap = a->softcap;
    for (r = 0; r < b->n_rows; r++) {
        if (!infer__attention_range(b, r, base, &s.from, &s.to)) continue;
        s.start = (float)(base - b->pos[r]);
        for (h = 0; h < b->n_heads; h++) {
            const int32_t pair = r * b->n_heads + h;
            float *x = b->scores + (int64_t)pair * INFER__KV_CHUNK;
            s.slope = a->around ? 0.0f : b->slope[h];
            if (INFER__VARIANT(s.softcap) > 0) infer__attention_blank(s.from, s.to, x);
            if (INFER__VARIANT(a->bias || (a->around && b->slope[h] > 0)))
                infer__attention_near(a, b->bias[h], b->slope[h], base - b->pos[r], s.from, s.to, x);
            job->f->softmax(x, &s, &b->part[pair], b->y + (int64_t)pair * plan->dim_v, plan->dim_v);
        }
    }
    direct = !front && !list && direct_v->values && pairs <= INFER__DIRECT_PAIRS && a->dim_v % 64 == 0;
    if (front) infer__attention_front(job, b, base, &pages);
    else infer__attention_read(job, b, base, 1, direct, &pages);
    for (r = 0; r < b->n_rows; r += i) { /* rows that see the same positions together */
        const int some = infer__attention_range(b, r, base, &from, &to);
        for (i = 1; r + i < b->n_rows; i++) {
            int32_t other_from, other_to;
            if (infer__attention_range(b, r + i, base, &other_from, &other_to) != some) break;
            if (other_from != from || other_to != to) break;
        }
        if (!some) continue;
        y = b->y + (int64_t)r * b->n_heads * plan->dim_v;
        p = b->scores + (int64_t)r * b->n_heads * INFER__KV_CHUNK;
        if (direct) direct_v->values(y, pages.stored, from, to, p, i * b->n_heads, a->dim_v);
        else job->f->values(y, pages.floats, from, to, p, plan->dim_v, i * b->n_heads);
    }
}

/* Part `split` of the positions: b->part and b->y. */
static void infer__attention_split(const infer__attention_job *job, infer__attention_block *b, int32_t split) {
    const int32_t first = INFER__MAX(b->first / INFER__KV_CHUNK * INFER__KV_CHUNK, split * INFER__KV_SPLIT);
    const int32_t last = INFER__MIN(b->last, (split + 1) * INFER__KV_SPLIT - 1);
    const int32_t pairs = b->n_rows * b->n_heads;
    int32_t base, i;
    for (i = 0; i < pairs; i++) b->part[i].m = b->part[i].l = 0.0f;
    memset(b->y, 0, (size_t)pairs * (size_t)job->plan.dim_v * sizeof(float));
    for (base = first; base <= last; base += INFER__KV_CHUNK) infer__attention_chunk(job, b, base);
}

/* The stored part `split` of a pair: m, l, padding, y. */
static float *infer__attention_part(const infer__attention_job *job, int32_t row, int32_t head, int32_t split) {
    const int64_t i = ((int64_t)row * job->a->n_head + head) * job->n_splits + split - job->split;
    INFER__ASSERT(i / job->plan.n_parts < infer__pool_threads(job->c->pool));
    return infer__cpu_scratch(job->c, (int)(i / job->plan.n_parts)) + job->plan.parts +
           i % job->plan.n_parts * job->plan.part;
}

/* The factor that makes a softmax's sum of exp(score - m) * value its result: 1 / l, with the sink's share in l. A sink
 * above all scores is the largest one itself: the sums, which go by m, shrink. NaN stays NaN. */
static float infer__attention_factor(const infer__attention_args *a, int32_t head, const infer__softmax *x) {
    float sink, gap, e;
    if (!INFER__HAS_VARIANTS || !a->sinks) return 1.0f / x->l;
    gap = infer__weight_values(a->sinks, head, 1, &sink)[0] - x->m;
    e = infer__choose(infer__not_number(gap), gap, infer__exp_minus_f32(gap));
    return gap > 0 ? e / (x->l * e + 1.0f) : 1.0f / (x->l + e);
}

/* y = sum * factor: the last step of a row and head, after all parts are merged. */
static void infer__attention_finish(const infer__attention_job *job, int32_t row, int32_t head, const float *sum,
                                    const infer__softmax *total) {
    float *y = infer__row(&job->a->y, row) + (int64_t)head * job->a->dim_v;
    memcpy(y, sum, (size_t)job->a->dim_v * sizeof *y);
    job->c->kernels->scale(y, infer__attention_factor(job->a, head, total), job->a->dim_v);
}

/* The rows and heads of `b`, over all positions, or over those of one split (split >= 0). */
static void infer__attention_rows(const infer__attention_job *job, infer__attention_block *b, int32_t split) {
    const infer__attention_args *a = job->a;
    const infer__attention_plan *plan = &job->plan;
    int32_t r, h, i, pos, n = b->n_rows * b->n_heads;
    b->first = INT32_MAX;
    b->last = 0;
    for (r = 0; r < b->n_rows; r++) {
        float scale;
        pos = b->pos[r] = job->c->pass.pos[b->row + r];
        b->list = infer__attention_sees(&job->c->pass, a, b->row + r, b->kv_head, &b->lo[r], &b->hi[r]);
        b->hi[r]--;
        b->first = INFER__MIN(b->first, b->lo[r]);
        b->last = INFER__MAX(b->last, b->hi[r]);
        scale = infer__row_scale(a, pos);
        for (h = 0; h < b->n_heads; h++) {
            const float *q = infer__row(&a->q, b->row + r) + (int64_t)(b->head + h) * a->dim_k;
            float *to = b->q + (int64_t)(r * b->n_heads + h) * plan->dim_k;
            memcpy(to, q, (size_t)a->dim_k * sizeof *to);
            job->c->kernels->scale(to, scale, a->dim_k);
        }
    }
    if (split >= 0) {
        if (split > b->last / INFER__KV_SPLIT || split < b->first / INFER__KV_SPLIT) n = 0;
        else infer__attention_split(job, b, split);
        for (i = 0; i < b->n_rows * b->n_heads; i++) {
            float *part = infer__attention_part(job, b->row + i / b->n_heads, b->head + i % b->n_heads, split);
            part[0] = n ? b->part[i].m : 0.0f;
            part[1] = n ? b->part[i].l : 0.0f;
            if (n) memcpy(part + INFER__LANES, b->y + (int64_t)i * plan->dim_v, (size_t)plan->dim_v * sizeof *part);
        }
        return;
    }
    for (i = 0; i < n; i++) b->total[i].m = b->total[i].l = 0.0f;
    for (split = b->first / INFER__KV_SPLIT; split <= b->last / INFER__KV_SPLIT; split++) {
        infer__attention_split(job, b, split);
        for (i = 0; i < n; i++)
            job->f->merge(b->sum + (int64_t)i * plan->dim_v, &b->total[i], b->y + (int64_t)i * plan->dim_v, b->part[i],
                          plan->dim_v);
    }
    for (i = 0; i < n; i++)
        infer__attention_finish(job, b->row + i / b->n_heads, b->head + i % b->n_heads,
                                b->sum + (int64_t)i * plan->dim_v, &b->total[i]);
}

/* ---- tasks ------------------------------------------------------------------------------------------------ */

/* Tasks run from last to first: late rows have the most work and come first. */
static void infer__attention_task(void *arg, int task, int worker) {
    const infer__attention_job *job = (const infer__attention_job *)arg;
    const infer__attention_args *a = job->a;
    const infer__pass *p = &job->c->pass;
    const int32_t share = a->n_head / a->n_head_kv, blocks = a->n_head_kv * job->head_tasks;
    const int32_t splits = INFER__MAX(job->n_splits, 1), block = task % blocks;
    const int32_t split = job->n_splits ? job->split + task / blocks % splits : -1;
    const int32_t from = task / blocks / splits * job->row_step, end = INFER__MIN(from + job->row_step, a->q.rows);
    float *scratch = infer__cpu_scratch(job->c, worker);
    infer__attention_block b;
    int32_t r, h;
    b.kv_head = block / job->head_tasks;
    b.head = block % job->head_tasks * job->head_step;
    b.n_heads = INFER__MIN(job->head_step, share - b.head);
    b.head += b.kv_head * share;
    b.keys = scratch + job->plan.keys;
    b.values = scratch + job->plan.values;
    b.q = scratch + job->plan.q;
    b.y = scratch + job->plan.y;
    b.sum = scratch + job->plan.total;
    b.scores = scratch + job->plan.scores;
    for (h = 0; h < b.n_heads; h++) {
        b.slope[h] = infer__alibi_slope(a->max_bias, a->n_head, b.head + h);
        b.bias[h] = a->bias ? (const float *)a->bias->data + (int64_t)(b.head + h) * a->bias->cols : NULL;
    }
    for (r = from; r < end; r = b.row + b.n_rows) { /* a block of one sequence at a time */
        b.row = r;
        b.seq = p->seq[r];
        for (b.n_rows = 1; r + b.n_rows < end && p->seq[r + b.n_rows] == b.seq; b.n_rows++) {}
        infer__attention_rows(job, &b, split);
    }
}

/* The parts of one row and head, merged in their order. */
static void infer__attention_merge_task(void *arg, int task, int worker) {
    const infer__attention_job *job = (const infer__attention_job *)arg;
    const int32_t row = task / job->a->n_head, head = task % job->a->n_head;
    float *sum = infer__cpu_scratch(job->c, worker) + job->plan.total;
    infer__softmax total = {0.0f, 0.0f}, x;
    int32_t i;
    for (i = 0; i < job->n_splits; i++) {
        const float *part = infer__attention_part(job, row, head, job->split + i);
        x.m = part[0];
        x.l = part[1];
        job->f->merge(sum, &total, part + INFER__LANES, x, job->plan.dim_v);
    }
    infer__attention_finish(job, row, head, sum, &total);
}

/* How the work is split. It does not change a bit of the result. */
static void infer__attention_cut(infer__attention_job *job) {
    const infer__attention_args *a = job->a;
    const int32_t share = a->n_head / a->n_head_kv, threads = infer__pool_threads(job->c->pool);
    int32_t first = INT32_MAX, last = 0, lo, hi, r, g;
    int64_t tiles, splits;
    job->head_step = INFER__MIN(share, job->plan.pairs);
    job->head_tasks = (share + job->head_step - 1) / job->head_step;
    job->row_step = a->chosen.buf ? 1 : job->plan.pairs / job->head_step;
    while (job->row_step > 1 && (int64_t)(a->q.rows / job->row_step) * a->n_head_kv * job->head_tasks < 4 * threads)
        job->row_step /= 2;
    job->row_tasks = (a->q.rows + job->row_step - 1) / job->row_step;
    job->split = job->n_splits = 0;
    tiles = (int64_t)job->row_tasks * a->n_head_kv * job->head_tasks;
    if (threads == 1 || tiles >= 4 * threads) return;
    for (r = 0; r < a->q.rows; r++)
        for (g = 0; g < (a->chosen.buf ? a->n_head_kv : 1); g++) {
            infer__attention_sees(&job->c->pass, a, r, g, &lo, &hi);
            first = INFER__MIN(first, lo);
            last = INFER__MAX(last, hi - 1);
        }
    splits = last / INFER__KV_SPLIT - first / INFER__KV_SPLIT + 1;
    if (splits < 2 || splits * a->q.rows * a->n_head > (int64_t)threads * job->plan.n_parts) return;
    job->split = first / INFER__KV_SPLIT;
    job->n_splits = (int32_t)splits;
}

static void infer__cpu_attention(infer__ctx *c, const infer__attention_args *a) {
    infer__attention_job job;
    int64_t seen; /* positions, of all rows */
    double began = infer__op_begin(c);
    if (began < 0 || !infer__kv_type_ok(c, a->k_cache) || !infer__kv_type_ok(c, a->v_cache)) return;
    if (!infer__vector_ok(c, a->sinks, "attention sinks")) return;
    INFER__ASSERT(a->n_head % a->n_head_kv == 0 && (!a->sinks || a->sinks->cols == a->n_head));
    INFER__ASSERT(a->q.cols == a->n_head * a->dim_k && a->y.cols == a->n_head * a->dim_v);
    INFER__ASSERT(!a->chosen.buf || (!a->window && !a->chunk && !(a->max_bias > 0)));
    INFER__ASSERT(!a->bias || (a->bias->type->id == 0 && a->bias->rows == a->n_head && a->softcap <= 0 &&
                               a->bias->cols == 2 * a->reach + 1));
    INFER__ASSERT(!a->around || a->softcap <= 0 || !(a->max_bias > 0));
    INFER__ASSERT(!a->more || (a->chosen.buf && a->k_cache == a->v_cache && a->n_head_kv == 1));
    job.c = c;
    job.a = a;
    job.f = infer__flash_find(c->kernels->need);
    job.plan = infer__attention_layout(a->dim_k, a->dim_v,
                                       a->v_cache->type >= INFER_KV_Q8_0 ? INFER__KV_BLOCK : INFER__LANES,
                                       a->chosen.buf != NULL);
    INFER__ASSERT(job.plan.end <= c->cpu->scratch_len);
    infer__attention_cut(&job);
    seen = (int64_t)infer__attention_seen(c, a);
    infer__cpu_run(c, job.row_tasks * INFER__MAX(job.n_splits, 1) * a->n_head_kv * job.head_tasks,
                   seen * a->n_head * (a->dim_k + a->dim_v), infer__attention_task, &job);
    if (job.n_splits)
        infer__cpu_run(c, a->q.rows * a->n_head, (int64_t)a->q.rows * a->n_head * job.n_splits * job.plan.part,
                       infer__attention_merge_task, &job);
    infer__op_end(c, "attention", infer__attention_bytes(a, (uint64_t)seen), began);
}
