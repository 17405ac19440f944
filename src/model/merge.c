/* merge.c: merging adapters into weights: W + scale * B A in separate memory replaces the file's matrices.
 *
 * Owns:  infer_model.merged: which weights have been replaced, and the old ones.
 * How:   every slot whose tensor an adapter changes gets a new matrix, made row by row: decoded to float32, added to,
 *        encoded. Rows are tasks of a temporary pool. The file is not changed and stays mapped; unmerging puts the old
 *        weights back into their slots.
 * Rules: the call is the only user of the model besides open adapters, and no call can start using it: it owns the
 *        weights (infer__weights_own). The adapters cannot be closed meanwhile. All matrices are made before the first
 *        slot changes, so that a failure changes nothing.
 * Start: infer__include, infer__exclude.
 */
#include "model.h"

enum { INFER__INCLUDE_ROWS = 16 }; /* of a task */

/* ---- one matrix -------------------------------------------------------------------------------------------------- */

typedef struct infer__include_job {
    const infer_model *m;
    const infer__kernels *kernels;
    const infer__weight *w;     /* as it is */
    const infer__quant *type;   /* and as it will be */
    uint8_t *to;
    uint64_t row_bytes;
    const infer__adapter_pair *pairs[INFER_MAX_ADAPTERS];
    float scale[INFER_MAX_ADAPTERS];
    const float *a[INFER_MAX_ADAPTERS]; /* of products: A as float32 */
    int32_t n, cols;
    float *rows;                /* of every worker: two rows */
} infer__include_job;

/* Value [row][k] of B of an expert. */
static float infer__include_up(const infer__adapter_pair *p, int64_t expert, int32_t row, int32_t k) {
    const int64_t at = expert * infer__low_turned(p->rank, p->rows) +
                       ((int64_t)(row / INFER__LANES) * p->rank + k) * INFER__LANES + row % INFER__LANES;
    uint16_t half;
    if (p->kind == INFER__LOW_F32) return ((const float *)p->b)[at];
    half = ((const uint16_t *)p->b)[at];
    return p->kind == INFER__LOW_F16 ? infer__f16_f32(half) : infer__bf16_f32(half);
}

/* Add pair i's contribution to row r of the tensor; delta: scratch for a row. */
static void infer__include_add(const infer__include_job *job, int32_t i, int64_t r, float *row, float *delta) {
    const infer__adapter_pair *p = job->pairs[i];
    const int64_t expert = r / p->rows;
    int32_t k;
    if (p->embeds) { /* a row of A for each id */
        job->kernels->mix(row, 0, 1, p->b, p->kind, 0, (const float *)p->a + r * p->rank, p->rank, p->rank,
                          job->scale[i], p->rows);
        return;
    }
    memset(delta, 0, (size_t)job->cols * sizeof *delta);
    for (k = 0; k < p->rank; k++)
        job->kernels->axpy(delta, job->a[i] + (expert * p->rank + k) * job->cols,
                           infer__include_up(p, expert, (int32_t)(r % p->rows), k), job->cols);
    job->kernels->axpy(row, delta, job->scale[i], job->cols);
}

static void infer__include_task(void *arg, int task, int worker) {
    const infer__include_job *job = (const infer__include_job *)arg;
    float *row = job->rows + (int64_t)worker * 2 * job->cols;
    int64_t r = (int64_t)task * INFER__INCLUDE_ROWS, end = INFER__MIN(r + INFER__INCLUDE_ROWS, job->w->rows);
    int32_t i;
    for (; r < end; r++) {
        job->w->type->decode((const uint8_t *)job->w->data + (uint64_t)r * job->w->row_bytes, row, job->cols);
        for (i = 0; i < job->n; i++) infer__include_add(job, i, job->w->first + r, row, row + job->cols);
        job->type->encode(row, job->to + (uint64_t)r * job->row_bytes, job->cols);
    }
}

/* The type of a merged matrix: `asked`, or (NULL) its own, or Q8_0 if its own cannot be encoded. */
static infer_result infer__include_type(const infer__weight *w, const infer__quant *asked, const infer__quant **out,
                                      infer_error *err) {
    const char *removed;
    *out = asked ? asked : w->type->encode ? w->type : infer__quant_find(8, &removed);
    if (w->cols % (*out)->values == 0) return INFER_OK;
    return infer__error(err, INFER_ERR_UNSUPPORTED, "tensor %s: rows of %d values are no blocks of %s", w->name,
                        (int)w->cols, (*out)->name);
}

/* The matrix of a slot, in *to. */
static infer_result infer__include_matrix(infer_model *m, infer__include_job *job, infer__pool *pool, infer__weight *to,
                                        infer_error *err) {
    const uint64_t rows = (uint64_t)job->w->rows, cols = (uint64_t)job->w->cols;
    infer__arena arena; /* A as float32, and the workers' rows */
    infer_result r;
    uint64_t bytes;
    int32_t i;
    if ((r = infer__include_type(job->w, job->type, &job->type, err)) != INFER_OK) return r;
    job->cols = job->w->cols;
    job->row_bytes = cols / (uint64_t)job->type->values * (uint64_t)job->type->bytes;
    if (!infer__mul_ok(rows, job->row_bytes, &bytes))
        return infer__error(err, INFER_ERR_MEMORY, "tensor %s is too large as %s", job->w->name, job->type->name);
    memset(&arena, 0, sizeof arena);
    arena.mem = &m->mem;
    job->rows = (float *)infer__arena_alloc(&arena,
                                            (uint64_t)infer__pool_threads(pool) * 2 * cols * sizeof *job->rows);
    for (i = 0; i < job->n && job->rows; i++) {
        const infer__adapter_pair *p = job->pairs[i];
        const uint64_t n = (uint64_t)INFER__MAX(p->n_expert, 1) * (uint64_t)p->rank * cols;
        float *wide;
        job->a[i] = (const float *)p->a;
        if (p->embeds || p->kind == INFER__LOW_F32) continue;
        job->a[i] = wide = (float *)infer__arena_alloc(&arena, n * sizeof *wide);
        if (!wide) break;
        job->kernels->widen(wide, p->a, p->kind, (int64_t)n);
    }
    job->to = job->rows && i == job->n ? (uint8_t *)infer__alloc(&m->mem, bytes) : NULL;
    if (job->to) {
        infer__parallel(pool, (int)((rows + INFER__INCLUDE_ROWS - 1) / INFER__INCLUDE_ROWS), infer__include_task, job);
        *to = *job->w;
        to->type = job->type;
        to->data = job->to;
        to->row_bytes = job->row_bytes;
    } else
        r = infer__error(err, INFER_ERR_MEMORY, "no memory for tensor %s with adapters: %llu bytes", job->w->name,
                         (unsigned long long)bytes);
    infer__arena_free(&arena);
    return r;
}

/* ---- which matrices ---------------------------------------------------------------------------------------------- */

/* The pairs that change a slot, in the job; scale 0 changes nothing. */
static void infer__include_pairs(infer__include_job *job, const infer__weight *w, int32_t embeds,
                               const infer_adapter_use *uses, int32_t n) {
    int32_t i;
    job->w = w;
    job->n = 0;
    for (i = 0; w->type && w->tensor && i < n; i++) {
        const infer_adapter *a = uses[i].adapter;
        const int32_t at = a->pair_of ? a->pair_of[w->tensor - 1] : 0;
        if (!at || a->pairs[at - 1].embeds != embeds || uses[i].scale == 0) continue;
        job->pairs[job->n] = &a->pairs[at - 1];
        job->scale[job->n++] = uses[i].scale * a->pairs[at - 1].scale;
    }
}

/* Slot number i of the model's and then the layers' slots; NULL = past the end. *embeds: the kind of its pairs. */
static infer__weight *infer__include_slot(infer_model *m, int32_t i, int32_t *embeds) {
    *embeds = i == INFER__W_TOKEN_EMBD ? INFER__EMBEDS_TOKENS : i == INFER__W_TOKEN_TYPES ? INFER__EMBEDS_TYPES : 0;
    if (i < INFER__MODEL_SLOT_COUNT) return &m->w[i];
    *embeds = 0;
    i -= INFER__MODEL_SLOT_COUNT;
    if (i / INFER__LAYER_SLOT_COUNT >= infer__n_all(&m->hp)) return NULL;
    return &m->layers[i / INFER__LAYER_SLOT_COUNT].w[i % INFER__LAYER_SLOT_COUNT];
}

/* A merged matrix of another slot with the same tensor: layers may share tensors. */
static const infer__merged *infer__include_shared(const infer_model *m, const infer__weight *w, int32_t embeds) {
    int32_t i;
    for (i = 0; i < m->n_merged; i++)
        if (m->merged[i].other.data == w->data && m->merged[i].other.rows == w->rows && m->merged[i].embeds == embeds)
            return &m->merged[i];
    return NULL;
}

static infer_result infer__include_slots(infer_model *m, const infer_adapter_use *uses, int32_t n,
                                       const infer__quant *type, infer__pool *pool, infer_error *err) {
    infer__include_job job;
    infer__weight *w;
    infer_result r = INFER_OK;
    int32_t i, embeds;
    memset(&job, 0, sizeof job);
    job.m = m;
    job.kernels = infer__kernels_find(m->cpu);
    for (i = 0; !r && (w = infer__include_slot(m, i, &embeds)) != NULL; i++) {
        const infer__merged *same;
        infer__merged *to = &m->merged[m->n_merged];
        infer__include_pairs(&job, w, embeds, uses, n);
        if (!job.n) continue;
        same = infer__include_shared(m, w, embeds);
        job.type = type;
        to->slot = w;
        to->embeds = embeds;
        to->other = *w; /* the old weight, until all are made */
        to->made = !same;
        if (same) {
            to->now = *w;
            to->now.type = same->now.type;
            to->now.data = same->now.data;
            to->now.row_bytes = same->now.row_bytes;
        } else r = infer__include_matrix(m, &job, pool, &to->now, err);
        if (!r) m->n_merged++;
    }
    return r;
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

static void infer__include_free(infer_model *m) {
    int32_t i;
    for (i = 0; i < m->n_merged; i++)
        if (m->merged[i].made) infer__free(&m->mem, (void *)(uintptr_t)m->merged[i].now.data);
    infer__free(&m->mem, m->merged);
    m->merged = NULL;
    m->n_merged = 0;
}

static uint64_t infer__include_bytes(const infer__merged *s) {
    return s->made ? s->now.row_bytes * (uint64_t)s->now.rows : 0;
}

static void infer__exclude(infer_model *m) {
    int32_t i;
    if (!m->merged) return;
    for (i = 0; i < m->n_merged; i++) {
        *m->merged[i].slot = m->merged[i].other;
        m->own_bytes -= infer__include_bytes(&m->merged[i]);
    }
    m->weights_print = m->unmerged_print;
    m->token_bytes = m->unmerged_token_bytes;
    infer__include_free(m);
}

/* Additional bytes per token that the merged slot reads. */
static int64_t infer__include_more(const infer_model *m, const infer__merged *s) {
    int64_t more = ((int64_t)s->now.row_bytes - (int64_t)s->other.row_bytes) * s->now.rows;
    int32_t i, k;
    if (s->embeds) return 0;
    for (i = 0; i < m->hp.n_layer; i++)
        for (k = INFER__W_MOE_GATE; k <= INFER__W_MOE_DOWN; k++)
            if (s->slot == &m->layers[i].w[k]) return more / m->hp.n_expert * m->hp.n_used;
    for (i = m->hp.n_layer; i < infer__n_all(&m->hp); i++) /* blocks that predict further tokens */
        if (s->slot >= m->layers[i].w && s->slot < m->layers[i].w + INFER__LAYER_SLOT_COUNT) more = 0;
    return more;
}

/* All matrices are made: install them in the slots. */
static void infer__include_install(infer_model *m, const infer_adapter_use *uses, int32_t n, const infer__quant *type) {
    int32_t i;
    m->unmerged_print = m->weights_print;
    m->unmerged_token_bytes = m->token_bytes;
    for (i = 0; i < m->n_merged; i++) {
        *m->merged[i].slot = m->merged[i].now;
        m->own_bytes += infer__include_bytes(&m->merged[i]);
        m->token_bytes += (uint64_t)infer__include_more(m, &m->merged[i]);
    }
    for (i = 0; i < n && m->n_merged; i++) {
        m->weights_print = infer__fnv(m->weights_print, &uses[i].adapter->print, sizeof uses[i].adapter->print);
        m->weights_print = infer__fnv(m->weights_print, &uses[i].scale, sizeof uses[i].scale);
    }
    if (m->n_merged && type) m->weights_print = infer__fnv(m->weights_print, &type->id, sizeof type->id);
}

static infer_result infer__include_check(const infer_model *m, const infer_adapter_use *uses, int32_t n,
                                       infer_error *err) {
    int32_t i;
    if (m->why_code) return infer__error(err, m->why_code, "%s", m->why_not);
    if (m->merged) return infer__error(err, INFER_ERR_STATE, "infer_model_merge: the model has been merged before");
    if (m->n_devices && m->device_layers)
        return infer__error(err, INFER_ERR_UNSUPPORTED, "infer_model_merge: %d layers are on devices",
                            (int)m->device_layers);
    if (n < 0 || n > INFER_MAX_ADAPTERS || (n > 0 && !uses))
        return infer__error(err, INFER_ERR_ARGUMENT, "%d adapters: there may be 0 to %d", (int)n,
                            (int)INFER_MAX_ADAPTERS);
    for (i = 0; i < n; i++) {
        const infer_adapter *a = uses[i].adapter;
        if (!a || a->model != m || !infer__finite(uses[i].scale))
            return infer__error(err, INFER_ERR_ARGUMENT, "adapter %d: %s", (int)i,
                                !a              ? "it is NULL"
                                : a->model != m ? "it was opened for another model"
                                                : "its scale is not finite");
        if (a->control || a->n_invocation)
            return infer__error(err, INFER_ERR_UNSUPPORTED, "adapter %d is %s: weights cannot include it", (int)i,
                                a->control ? "a control vector" : "for what follows its invocation");
    }
    return INFER_OK;
}

/* The matrices are made, and the model has them. */
static infer_result infer__include_made(infer_model *m, const infer_adapter_use *uses, int32_t n,
                                        const infer__quant *type, infer_error *err) {
    infer__include_job job;
    infer__pool *pool = NULL;
    infer__weight *w;
    infer_result r;
    int32_t i, embeds, slots = 0;
    int cores;
    for (i = 0; (w = infer__include_slot(m, i, &embeds)) != NULL; i++) {
        infer__include_pairs(&job, w, embeds, uses, n);
        slots += job.n > 0;
    }
    m->merged = (infer__merged *)infer__calloc(&m->mem, (uint64_t)slots + 1, sizeof *m->merged);
    if (!m->merged) return infer__error(err, INFER_ERR_MEMORY, "no memory for a list of %d matrices", (int)slots);
    infer__processors(&cores);
    r = infer__pool_create(&pool, &m->mem, INFER__MIN(cores, 64), NULL, m->params.parallel, m->params.parallel_user,
                           err);
    if (!r) r = infer__include_slots(m, uses, n, type, pool, err);
    infer__pool_destroy(pool);
    if (r) infer__include_free(m);
    else infer__include_install(m, uses, n, type);
    return r;
}

static infer_result infer__include(infer_model *m, const infer_adapter_use *uses, int32_t n, const infer__quant *type,
                                   infer_error *err) {
    infer_result r = infer__include_check(m, uses, n, err);
    int32_t i;
    if (r) return r;
    for (i = 0; i < n; i++) infer__atomic_add(&uses[i].adapter->users, 1);
    r = infer__include_made(m, uses, n, type, err);
    for (i = 0; i < n; i++) infer__atomic_add(&uses[i].adapter->users, -1);
    return r;
}
