/* cpu_kv_store.c: writing keys and values into the cache, on the CPU.
 *
 * Owns:  the kv_store op. The layout is cpu_kv.c's.
 * Rules: stored values are those of the type's `encode`: halves round to nearest even, blocks as in files.
 * Start: infer__kv_store_task.
 */
#include "cpu_ops.h"

enum {
    INFER__KV_ROWS = 64, /* of a task: then most pages are written by one thread, without sharing cache lines */
    INFER__KV_AHEAD = 16 /* rows for which memory is asked for in advance */
};

/* A row of n values as it is stored; the last block is filled up with zeros. */
static void infer__kv_encode(const infer__flash *f, int32_t type, const float *x, int32_t n, uint8_t *row) {
    static const int32_t ids[] = {-1, 0, 1, 30, 8, 2};
    const int32_t whole = n / INFER__KV_BLOCK * INFER__KV_BLOCK;
    float rest[INFER__KV_BLOCK] = {0};
    uint16_t h;
    int32_t i;
    if (type == INFER_KV_F32) {
        memcpy(row, x, (size_t)n * sizeof *x);
    } else if (type == INFER_KV_F16) {
        f->halves(row, x, n);
    } else if ((INFER__CACHES >> INFER_KV_BF16 & 1) && type == INFER_KV_BF16) {
        for (i = 0; i < n; i++) {
            h = infer__f32_bf16(x[i]);
            memcpy(row + 2 * i, &h, sizeof h);
        }
    } else {
        const infer__quant *q = infer__quant_find(ids[type], NULL);
        q->encode(x, row, whole);
        if (whole == n) return;
        memcpy(rest, x + whole, (size_t)(n - whole) * sizeof *x);
        q->encode(rest, row + infer__kv_bytes(type, whole), INFER__KV_BLOCK);
    }
}

typedef struct infer__kv_store_job { infer__ctx *c; const infer__kv_store_args *a; } infer__kv_store_job;

/* Prefetch what storing head h of row r reads and writes: another thread had it last. */
static void infer__kv_ask(const infer__kv_store_args *a, const infer__pass *p, int32_t h, int32_t r) {
    const int32_t page = infer__page_of(p, a->group, p->seq[r], p->pos[r]), slot = p->pos[r] % INFER__PAGE;
    const float *k = infer__row(&a->k, r) + (int64_t)h * a->dim_k, *v;
    const uint8_t *to;
    uint64_t n, i;
    for (i = 0; i < (uint64_t)a->dim_k; i += 16) INFER__PREFETCH(k + i);
    if (slot == 0) { /* its keys go to the cache lines of all positions of the page */
        to = infer__kv_at(a->k_cache, page, h, a->n_head, a->dim_k);
        n = INFER__PAGE * infer__kv_bytes(a->k_cache->type, a->dim_k);
        for (i = 0; i < n; i += 64) INFER__PREFETCH_WRITE(to + i);
    }
    if (!a->v_cache) return;
    v = infer__row(&a->v, r) + (int64_t)h * a->dim_v;
    for (i = 0; i < (uint64_t)a->dim_v; i += 16) INFER__PREFETCH(v + i);
    n = infer__kv_bytes(a->v_cache->type, a->dim_v);
    to = infer__kv_at(a->v_cache, page, h, a->n_head, a->dim_v) + (uint64_t)slot * n;
    for (i = 0; i < n; i += 64) INFER__PREFETCH_WRITE(to + i);
}

/* 1 when rows r .. r + 15 are a page of one sequence. */
static int infer__kv_whole(const infer__pass *p, int32_t r, int32_t end) {
    const int32_t last = r + INFER__PAGE - 1;
    return p->pos[r] % INFER__PAGE == 0 && last < end && p->seq[last] == p->seq[r] &&
           p->pos[last] == p->pos[r] + last - r;
}

/* One head of a few rows. */
static void infer__kv_store_task(void *arg, int task, int worker) {
    const infer__kv_store_job *job = (const infer__kv_store_job *)arg;
    const infer__kv_store_args *a = job->a;
    const infer__pass *p = &job->c->pass;
    const int32_t h = task % a->n_head, first = task / a->n_head * INFER__KV_ROWS;
    const int32_t end = INFER__MIN(first + INFER__KV_ROWS, a->k.rows);
    const infer__flash *f = infer__flash_find(job->c->kernels->need);
    const uint64_t value = a->v_cache ? infer__kv_bytes(a->v_cache->type, a->dim_v) : 0;
    const int32_t type = a->k_cache->type;
    const int by_page = f->keys && (type == INFER_KV_F16 || type == INFER_KV_F32) && a->dim_k % 16 == 0;
    uint8_t key[INFER__MAX_HEAD_DIM * sizeof(float)], *to;
    const float *k;
    int32_t r, stored = first; /* keys of rows before it are */
    (void)worker;
    for (r = first; r < end; r++) {
        const int32_t pos = p->pos[r], page = infer__page_of(p, a->group, p->seq[r], pos), slot = pos % INFER__PAGE;
        if (r + INFER__KV_AHEAD < end) infer__kv_ask(a, p, h, r + INFER__KV_AHEAD);
        k = infer__row(&a->k, r) + (int64_t)h * a->dim_k;
        to = infer__kv_at(a->k_cache, page, h, a->n_head, a->dim_k);
        if (by_page && r >= stored && infer__kv_whole(p, r, end)) {
            f->keys(to, k, a->k.stride, a->dim_k, type == INFER_KV_F16);
            stored = r + INFER__PAGE;
        }
        if (r >= stored) {
            infer__kv_encode(f, type, k, a->dim_k, key);
            infer__kv_turn_slot(type, a->dim_k, to, key, slot, 0);
        }
        if (!a->v_cache) continue;
        infer__kv_encode(f, a->v_cache->type, infer__row(&a->v, r) + (int64_t)h * a->dim_v, a->dim_v,
                         infer__kv_at(a->v_cache, page, h, a->n_head, a->dim_v) + (uint64_t)slot * value);
    }
}

static int infer__kv_type_ok(infer__ctx *c, const infer__kv_buf *b) {
    if (b->type >= INFER_KV_F32 && b->type <= INFER_KV_Q4_0) return 1;
    infer__fail(c, INFER_ERR_UNSUPPORTED, "cache type %d is not supported on the CPU", (int)b->type);
    return 0;
}

static void infer__cpu_kv_store(infer__ctx *c, const infer__kv_store_args *a) {
    infer__kv_store_job job;
    double began = infer__op_begin(c);
    if (began < 0 || !infer__kv_type_ok(c, a->k_cache) || (a->v_cache && !infer__kv_type_ok(c, a->v_cache))) return;
    INFER__ASSERT(a->dim_k <= INFER__MAX_HEAD_DIM && a->dim_v <= INFER__MAX_HEAD_DIM);
    job.c = c;
    job.a = a;
    infer__cpu_run(c, (a->k.rows + INFER__KV_ROWS - 1) / INFER__KV_ROWS * a->n_head,
                   (int64_t)a->k.rows * a->n_head * (a->dim_k + a->dim_v), infer__kv_store_task, &job);
    infer__op_end(c, "kv_store", 0, began);
}
