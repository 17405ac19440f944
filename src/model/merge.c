/* merge.c: merging adapters into weights: W + scale * B A in separate memory replaces the file's matrices.
 *
 * Owns:  infer_model.merged: which weights have been replaced, and the old ones.
 * How:   every slot whose tensor an adapter changes gets a new matrix, made row by row: decoded to float32, added to,
 *        encoded. Rows are tasks of a temporary pool. The file is not changed and stays mapped; unmerging puts the old
 *        weights back into their slots. On devices it gets a buffer of its own beside the old one; the matrix is made
 *        on the host, from the file if its weights have left the host.
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
    const uint8_t *data;        /* w's rows */
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
        job->w->type->decode(job->data + (uint64_t)r * job->w->row_bytes, row, job->cols);
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

/* The rows of a slot whose tensor is not on the host any more: *t is read for them, and to be dropped afterwards. */
static infer_result infer__include_data(infer_model *m, infer__include_job *job, infer__gguf_tensor **t,
                                        infer_error *err) {
    infer_result r = INFER_OK;
    *t = NULL;
    job->data = (const uint8_t *)job->w->data;
    if (job->data) return r;
    *t = &m->gguf.tensors[job->w->tensor - 1];
    if (!job->w->at)
        return infer__error(err, INFER_ERR_UNSUPPORTED, "tensor %s: it is on a device alone", job->w->name);
    if ((r = infer__gguf_load(&m->gguf, *t, err)) == INFER_OK) job->data = (const uint8_t *)(*t)->data + job->w->at - 1;
    return r;
}

static void infer__include_data_end(infer_model *m, infer__gguf_tensor *t) {
    if (!t || !t->owned) return;
    infer__free(&m->mem, t->owned);
    t->owned = NULL;
    t->data = NULL;
}

/* The matrix of a slot, in *to. */
static infer_result infer__include_matrix(infer_model *m, infer__include_job *job, infer__pool *pool, infer__weight *to,
                                        infer_error *err) {
    const uint64_t rows = (uint64_t)job->w->rows, cols = (uint64_t)job->w->cols;
    infer__arena arena; /* A as float32, and the workers' rows */
    infer__gguf_tensor *t;
    infer_result r;
    uint64_t bytes;
    int32_t i;
    if ((r = infer__include_type(job->w, job->type, &job->type, err)) != INFER_OK) return r;
    job->cols = job->w->cols;
    job->row_bytes = cols / (uint64_t)job->type->values * (uint64_t)job->type->bytes;
    if (!infer__mul_ok(rows, job->row_bytes, &bytes))
        return infer__error(err, INFER_ERR_MEMORY, "tensor %s is too large as %s", job->w->name, job->type->name);
    if ((r = infer__include_data(m, job, &t, err)) != INFER_OK) return r;
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
    infer__include_data_end(m, t);
    return r;
}

/* ---- devices ----------------------------------------------------------------------------------------------------- */

static int infer__include_in(const infer__bufs *bufs, const infer__buf *b) {
    return bufs->n > 0 && b >= bufs->b && b < bufs->b + bufs->n;
}

/* The device that a slot is on, NULL = it is not on one. A layer that has left a device may still have its buffer. */
static infer__device *infer__include_device(infer_model *m, const infer__weight *w) {
    int32_t i;
    if (!INFER__HAS_GPU || !w->buf || !m->device_layers) return NULL;
    for (i = 0; i < infer__placed(m); i++)
        if (w >= m->layers[i].w && w < m->layers[i].w + INFER__LAYER_SLOT_COUNT) return infer__place_of(m, i);
    if (infer__include_in(&m->device_front, w->buf)) return infer__place_of(m, 0);
    return infer__include_in(&m->device_head, w->buf) ? infer__place_of(m, m->device_layers - 1) : NULL;
}

/* To its device; of layers it leaves the host. */
static infer_result infer__include_upload(infer_model *m, infer__merged *s, infer_error *err) {
    infer__place_item item;
    infer__obstacle bad;
    infer__gpu *gpu;
    infer_result r = INFER_OK, last;
    item.w = &s->now;
    item.vector = bad.found = 0;
    if (!s->device) return r;
    gpu = s->device->gpu;
    infer__place_types(&item, 1, &bad);
    if (bad.found) return infer__error(err, INFER_ERR_UNSUPPORTED, "%s", bad.text);
    if (infer__place_bytes(&item) > infer__gpu_largest(gpu))
        return infer__error(err, INFER_ERR_MEMORY, "tensor %s: %s has no buffer that large", s->now.name,
                            infer__gpu_name(gpu));
    if ((r = infer__gpu_alloc(gpu, &s->buf, infer__place_bytes(&item), err)) != INFER_OK) return r;
    r = infer__gpu_write(gpu, &s->buf, 0, s->now.data, s->now.row_bytes * (uint64_t)s->now.rows, err);
    last = infer__gpu_flush(gpu, r ? NULL : err);
    s->now.buf = &s->buf;
    s->now.offset = 0;
    if (s->slot >= m->w && s->slot < m->w + INFER__MODEL_SLOT_COUNT) return r ? r : last;
    infer__free(&m->mem, (void *)(uintptr_t)s->now.data);
    s->now.data = NULL;
    s->made = 0;
    return r ? r : last;
}

/* The kernels of merged types, on every device. */
static infer_result infer__include_kernels(infer_model *m, infer_error *err) {
    infer__gpu_uses of;
    infer_result r = INFER_OK;
    int32_t d, i, any;
    for (d = 0; INFER__HAS_GPU && d < m->n_devices && !r; d++) {
        memset(&of, 0, sizeof of);
        for (i = any = 0; i < m->n_merged; i++) {
            const infer__merged *s = &m->merged[i];
            if (s->device != &m->devices[d]) continue;
            of.types[infer__quant_index(s->now.type)] |= s->use;
            any = 1;
        }
        if (any) r = infer__adapter_kernels(m, m->devices[d].gpu, &of, err);
    }
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

/* 1 for a tensor that was cut into Q, K and V, which are on a device without it. */
static int infer__include_unused(const infer_model *m, const infer__weight *w) {
    int32_t i;
    for (i = 0; i < infer__placed(m); i++)
        if (w == &m->layers[i].w[INFER__W_ATTN_QKV]) return m->layers[i].w[INFER__W_ATTN_Q].type != NULL;
    return 0;
}

/* A merged matrix of another slot with the same tensor: layers may share tensors. */
static const infer__merged *infer__include_shared(const infer_model *m, const infer__weight *w, int32_t embeds) {
    int32_t i;
    for (i = 0; i < m->n_merged; i++)
        if (m->merged[i].other.data == w->data && !m->merged[i].device && m->merged[i].other.rows == w->rows &&
            m->merged[i].embeds == embeds)
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
        if (!job.n || infer__include_unused(m, w)) continue;
        to->device = infer__include_device(m, w);
        same = to->device ? NULL : infer__include_shared(m, w, embeds);
        job.type = type;
        to->slot = w;
        to->embeds = embeds;
        to->other = *w; /* the old weight, until all are made */
        to->made = !same;
        to->use = infer__adapter_use(job.pairs[0]);
        if (same) {
            to->now = *w;
            to->now.type = same->now.type;
            to->now.data = same->now.data;
            to->now.row_bytes = same->now.row_bytes;
        } else r = infer__include_matrix(m, &job, pool, &to->now, err);
        if (r) continue;
        m->n_merged++;
        r = infer__include_upload(m, to, err);
    }
    return r;
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

static void infer__include_free(infer_model *m) {
    int32_t i;
    for (i = 0; i < m->n_merged; i++) {
        if (m->merged[i].device && m->merged[i].buf.bytes)
            infer__gpu_free(m->merged[i].device->gpu, &m->merged[i].buf);
        if (m->merged[i].made) infer__free(&m->mem, (void *)(uintptr_t)m->merged[i].now.data);
    }
    infer__free(&m->mem, m->merged);
    m->merged = NULL;
    m->n_merged = 0;
}

static uint64_t infer__include_bytes(const infer__merged *s) {
    return s->made ? s->now.row_bytes * (uint64_t)s->now.rows : 0;
}

/* What is kept for a merged slot counts on the host and on its device; sign -1: no longer. */
static void infer__include_count(infer_model *m, const infer__merged *s, int sign) {
    const uint64_t on = s->device ? s->buf.bytes : 0, off = infer__include_bytes(s);
    m->own_bytes += sign > 0 ? off : 0 - off;
    m->device_bytes += sign > 0 ? on : 0 - on;
    if (s->device) s->device->bytes += sign > 0 ? on : 0 - on;
}

static void infer__exclude(infer_model *m) {
    int32_t i;
    if (!m->merged) return;
    for (i = 0; i < m->n_merged; i++) {
        *m->merged[i].slot = m->merged[i].other;
        infer__include_count(m, &m->merged[i], -1);
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
        infer__include_count(m, &m->merged[i], 1);
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
    if (!r) r = infer__include_kernels(m, err);
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
    for (i = 0; i < n; i++) infer__refs_take(&uses[i].adapter->users);
    r = infer__include_made(m, uses, n, type, err);
    for (i = 0; i < n; i++) infer__adapter_let(uses[i].adapter);
    return r;
}
