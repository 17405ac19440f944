/* upload.c: uploading the weights of GPU layers, directly from the mapped file if there is one.
 *
 * Owns:  device memory of weights and RoPE frequencies, and the order in which it is filled.
 * Rules: all memory is allocated before a byte is sent, so that a lack of it shows at once. Matrices are uploaded as
 *        they are in the file, vectors as float32. Bytes are sent in pieces: while the device copies one, the pages of
 *        the next are read from disk; for large models on a separate thread, while kernels are compiled. That thread
 *        does not allocate or call callbacks. Without threads, and in slices, these steps run in turn: a slice compiles
 *        the kernels of a layer, or sends a piece, and looks at the clock.
 * Start: infer__place_upload, infer__upload_run.
 */
#include "model.h"

enum {
    INFER__UPLOAD_PIECE = 32 << 20,  /* bytes: a piece is sent while the next is read from the file */
    INFER__UPLOAD_THREAD = 64 << 20, /* from this size on a thread pays off */
    INFER__UPLOAD_PAGE = 4096        /* of memory, at least */
};

/* Bytes to upload to a device: a weight, or frequencies. */
typedef struct infer__upload_job {
    infer__gpu *gpu;
    infer__buf *to;
    uint64_t offset, bytes;
    const void *from;
    int32_t layer; /* it belongs to; -1 = the embedding or the head */
} infer__upload_job;

/* Current position in the concatenated bytes of all jobs. */
typedef struct infer__upload_at { int32_t job; uint64_t done; } infer__upload_at;

struct infer__upload {
    infer_model *m;
    infer__upload_job *jobs;
    int32_t n_jobs, max_jobs;
    float *stage, *next; /* vectors and frequencies as float32 until they have been sent */
    uint64_t total, piece;
    int32_t failed; /* device whose memory was not enough, -1 = none */
    int32_t held;   /* its layers before that */
    int32_t compiled; /* layers whose kernels are compiled */
    /* of whoever sends */
    infer__upload_at at;
    uint64_t gone, waiting; /* bytes given to devices; those since the last flush */
    infer__gpu *gpu;        /* that has been given something since its last flush */
    /* of a thread that sends */
    infer__mutex lock;
    infer__cond moved;   /* sent, layer or finished changed */
    int with_thread;
    infer__atomic stop;
    uint64_t sent;
    int32_t layer;
    int finished;
    infer_result r;
    infer_error err;
    volatile uint8_t seen; /* so that reading ahead is not removed */
};

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Buffers for the items: one, or more if the device's largest buffer is too small. */
static infer_result infer__upload_alloc(infer__upload *u, infer__device *d, const infer__place_item *items, int32_t n,
                                        infer__bufs *bufs, infer_error *err) {
    infer_model *m = u->m;
    uint64_t largest = infer__gpu_largest(d->gpu), sizes[INFER__LAYER_SLOT_COUNT], bytes;
    int32_t count = 0, i, part[INFER__LAYER_SLOT_COUNT];
    infer_result r = INFER_OK;
    if (n == 0) return INFER_OK;
    for (i = 0; i < n; i++) {
        bytes = infer__place_bytes(&items[i]);
        if (bytes > largest)
            return infer__error(err, INFER_ERR_MEMORY, "%s has %llu bytes, the largest buffer of %s %llu",
                                items[i].w->name, (unsigned long long)bytes, infer__gpu_name(d->gpu),
                                (unsigned long long)largest);
        if (count == 0 || bytes > largest - sizes[count - 1]) sizes[count++] = 0;
        part[i] = count - 1;
        items[i].w->offset = sizes[count - 1];
        sizes[count - 1] += bytes;
        d->bytes += bytes;
        m->device_bytes += bytes;
    }
    if (m->sizes_only) return INFER_OK;
    bufs->b = (infer__buf *)infer__calloc(&m->mem, (uint64_t)count, sizeof *bufs->b);
    if (!bufs->b) return infer__error(err, INFER_ERR_MEMORY, "no memory for %d buffers", (int)count);
    bufs->n = count;
    for (i = 0; i < count && !r; i++) r = infer__gpu_alloc(d->gpu, &bufs->b[i], sizes[i], err);
    for (i = 0; i < n; i++) items[i].w->buf = &bufs->b[part[i]];
    if (r == INFER_ERR_MEMORY) u->failed = (int32_t)(d - m->devices);
    return r;
}

static void infer__upload_add(infer__upload *u, const infer__device *d, infer__buf *to, uint64_t offset,
                              const void *from, uint64_t bytes, int32_t layer) {
    infer__upload_job *job = &u->jobs[u->n_jobs++];
    INFER__ASSERT(u->n_jobs <= u->max_jobs);
    job->gpu = d->gpu;
    job->to = to;
    job->offset = offset;
    job->from = from;
    job->bytes = bytes;
    job->layer = layer;
    u->total += bytes;
}

/* Memory and jobs of a group of weights. layer -1: `what` is its name in messages. */
static infer_result infer__upload_group(infer__upload *u, infer__device *d, const infer__place_item *items, int32_t n,
                                        infer__bufs *bufs, const char *what, int32_t layer, infer_error *err) {
    infer_error why;
    infer_result r;
    int32_t i;
    infer__error_clear(&why);
    r = infer__upload_alloc(u, d, items, n, bufs, &why);
    if (r)
        return layer < 0 ? infer__error(err, r, "%s: %s", what, why.message)
                         : infer__error(err, r, "layer %d: %s", (int)layer, why.message);
    for (i = 0; i < n && !u->m->sizes_only; i++) {
        infer__weight *w = items[i].w;
        infer__buf *to = &bufs->b[w->buf - bufs->b];
        if (items[i].vector) {
            w->type->decode(w->data, u->next, w->cols);
            infer__upload_add(u, d, to, w->offset, u->next, (uint64_t)w->cols * sizeof(float), layer);
            u->next += w->cols;
        } else {
            infer__upload_add(u, d, to, w->offset, w->data, w->row_bytes * (uint64_t)w->rows, layer);
        }
    }
    return INFER_OK;
}

/* Frequencies in revolutions per position, each as the sum of two floats: position * frequency may be thousands of
 * revolutions, and a float has 24 bits. */
static infer_result infer__upload_freq(infer__upload *u, int32_t d, infer__rope *rope, infer_error *err) {
    const float *freq = (const float *)rope->freq.host;
    uint64_t n = rope->freq.bytes / sizeof(float), i;
    infer__device *to = &u->m->devices[d];
    infer_result r = infer__gpu_alloc(to->gpu, &rope->device[d], 2 * n * sizeof(float), err);
    if (r == INFER_ERR_MEMORY) u->failed = d;
    if (r) return r;
    for (i = 0; i < n; i++) {
        double turns = (double)freq[i] / (2 * 3.14159265358979323846);
        u->next[2 * i] = (float)turns;
        u->next[2 * i + 1] = (float)(turns - (double)u->next[2 * i]);
    }
    infer__upload_add(u, to, &rope->device[d], 0, u->next, 2 * n * sizeof(float), -1);
    u->next += 2 * n;
    return INFER_OK;
}

/* 1 when a layer on the device rotates by the frequencies of the set; *n_rot is how many values. */
static int infer__upload_turns(const infer_model *m, int32_t d, int32_t set, int32_t *n_rot) {
    int32_t i;
    for (i = 0; i < infer__placed(m); i++)
        if (m->layers[i].place == INFER__ON_DEVICE + d && m->layers[i].rope == &m->ropes[set]) {
            *n_rot = m->layers[i].n_rot;
            return 1;
        }
    return 0;
}

/* The sets that layers of each device use. */
static infer_result infer__upload_ropes(infer__upload *u, infer_error *err) {
    infer_model *m = u->m;
    infer_result r = INFER_OK;
    uint64_t bytes;
    int32_t d, set, n_rot = 0;
    for (d = 0; d < m->n_devices; d++)
        for (set = 0; set < INFER__ROPE_SETS && !r; set++) {
            if (!infer__upload_turns(m, d, set, &n_rot)) continue;
            bytes = 4 * sizeof(float) * (uint64_t)(n_rot / 2); /* 2 sets of pairs */
            m->devices[d].bytes += bytes;
            m->device_bytes += bytes;
            u->held = m->devices[d].n_layers;
            if (!m->sizes_only) r = infer__upload_freq(u, d, &m->ropes[set], err);
        }
    return r;
}

/* ---- sending ----------------------------------------------------------------------------------------------------- */

/* The next bytes of one job: at most n of them, 0 = all jobs are done. */
static uint64_t infer__upload_part(const infer__upload *u, infer__upload_at *at, uint64_t n) {
    while (at->job < u->n_jobs && at->done == u->jobs[at->job].bytes) {
        at->job++;
        at->done = 0;
    }
    return at->job == u->n_jobs ? 0 : INFER__MIN(n, u->jobs[at->job].bytes - at->done);
}

/* Read a byte of every page of the next piece, which makes the system read the mapped file from disk. */
static void infer__upload_ahead(infer__upload *u, infer__upload_at at) {
    uint64_t left = u->piece, n, i;
    for (; left > 0 && (n = infer__upload_part(u, &at, left)) > 0; left -= n, at.done += n) {
        const uint8_t *p = (const uint8_t *)u->jobs[at.job].from + at.done;
        for (i = 0; i < n; i += INFER__UPLOAD_PAGE) u->seen = p[i];
    }
}

/* Report progress to the waiting thread, or to the caller when there is no thread. */
static infer_result infer__upload_moved(infer__upload *u, uint64_t sent, int32_t layer, infer_error *err) {
    infer_model *m = u->m;
    if (!u->with_thread) {
        int news = layer != u->layer || sent - u->sent >= u->piece;
        if (!news) return INFER_OK;
        u->sent = sent;
        u->layer = layer;
        return infer__load_progress(m, m->hp.n_layer + (double)sent / (double)u->total * m->device_layers, err);
    }
    infer__mutex_lock(&u->lock);
    u->sent = sent;
    u->layer = layer;
    infer__cond_broadcast(&u->moved);
    infer__mutex_unlock(&u->lock);
    return infer__atomic_get(&u->stop) ? infer__error(err, INFER_CANCELLED, "cancelled") : INFER_OK;
}

/* What was sent has arrived. */
static infer_result infer__upload_flush(infer__upload *u, infer_error *err) {
    infer__gpu *gpu = u->gpu;
    u->gpu = NULL;
    u->waiting = 0;
    return gpu ? infer__gpu_flush(gpu, err) : INFER_OK;
}

/* One piece of one job, of n bytes. */
static infer_result infer__upload_one(infer__upload *u, uint64_t n, infer_error *err) {
    const infer__upload_job *job = &u->jobs[u->at.job];
    infer_result r = INFER_OK;
    if (u->gpu && (u->gpu != job->gpu || u->waiting + n > u->piece)) r = infer__upload_flush(u, err);
    if (!r) r = infer__gguf_whole(&u->m->gguf, err);
    if (r) return r;
    u->gpu = job->gpu;
    r = infer__gpu_write(u->gpu, job->to, job->offset + u->at.done, (const char *)job->from + u->at.done, n, err);
    if (r) return r;
    u->at.done += n;
    u->gone += n;
    u->waiting += n;
    if (u->waiting >= u->piece) infer__upload_ahead(u, u->at);
    return infer__upload_moved(u, u->gone, job->layer, err);
}

/* All jobs, piece by piece. */
static infer_result infer__upload_send(infer__upload *u, infer__budget *budget, infer_error *err) {
    uint64_t n;
    infer_error why, late;
    infer_result r = INFER_OK, last;
    int32_t layer = -1;
    int more = 0;
    infer__error_clear(&why);
    infer__error_clear(&late);
    while (!r && !more && (n = infer__upload_part(u, &u->at, u->piece)) > 0) {
        layer = u->jobs[u->at.job].layer;
        r = infer__upload_one(u, n, &why);
        more = !r && infer__budget_over(budget, n / INFER__BUDGET_BYTES);
    }
    last = infer__upload_flush(u, &late); /* after a failure too: pending uploads still read their memory */
    if (last && !r) {
        r = last;
        why = late;
    }
    if (!r && more) return INFER_MORE;
    if (r == INFER_OK || r == INFER_CANCELLED || layer < 0) return r ? infer__error(err, r, "%s", why.message) : r;
    return infer__error(err, r, "layer %d: %s", (int)layer, why.message);
}

static void infer__upload_thread(void *arg) {
    infer__upload *u = (infer__upload *)arg;
    infer_error err;
    infer_result r;
    infer__error_clear(&err);
    r = infer__upload_send(u, NULL, &err);
    infer__mutex_lock(&u->lock);
    u->r = r;
    u->err = err;
    u->finished = 1;
    infer__cond_broadcast(&u->moved);
    infer__mutex_unlock(&u->lock);
}

/* The kernels of a layer's weights, and of the ends with the first and last layer. */
static infer_result infer__upload_kernels_of(infer_model *m, int32_t i, infer_error *err) {
    infer__place_item items[INFER__LAYER_SLOT_COUNT];
    infer__gpu *gpu = infer__place_of(m, i)->gpu;
    infer_result r = INFER_OK;
    int32_t k, n = infer__place_layer(m, i, items), end;
    for (k = 0; k < n && !r; k++)
        if (!items[k].vector) r = infer__gpu_use_type(gpu, items[k].w->type, err);
    for (end = 0; end < 2 && !r; end++) {
        if (end ? i < m->hp.n_layer - 1 : i > 0) continue;
        n = infer__place_end(m, end, items);
        for (k = 0; k < n && !r; k++)
            if (!items[k].vector) r = infer__gpu_use_type(gpu, items[k].w->type, err);
    }
    return r;
}

/* Compile the kernels that the weights need on their devices; `cache`: also those of the default cache type (a failure
 * will be reported when a context needs them). */
static infer_result infer__upload_kernels(infer__upload *u, int cache, infer__budget *budget, infer_error *err) {
    infer_model *m = u->m;
    infer_result r = INFER_OK;
    while (u->compiled < infer__placed(m) && !r) {
        r = infer__upload_kernels_of(m, u->compiled, err);
        if (!r && cache) infer__gpu_use_kv(infer__place_of(m, u->compiled)->gpu, INFER_KV_F16, NULL);
        u->compiled++;
        if (!r && infer__budget_over(budget, INFER__LAYER_SLOT_COUNT)) return INFER_MORE;
    }
    return r;
}

/* Pass on the sending thread's progress to the caller until it has finished. */
static infer_result infer__upload_watch(infer__upload *u, infer_error *err) {
    infer_model *m = u->m;
    infer_result r = INFER_OK;
    uint64_t told = 0;
    double done;
    int finished = 0;
    while (!finished) {
        infer__mutex_lock(&u->lock);
        while (!u->finished && (r || u->sent == told)) infer__cond_wait(&u->moved, &u->lock);
        told = u->sent;
        finished = u->finished;
        infer__mutex_unlock(&u->lock);
        done = m->hp.n_layer + (double)told / (double)u->total * m->device_layers;
        if (!r && !finished && (r = infer__load_progress(m, done, err)) != INFER_OK) infer__atomic_set(&u->stop, 1);
    }
    return r;
}

/* Send the jobs and compile kernels, at once when `at_once` and the system has threads. */
static infer_result infer__upload_run(infer__upload *u, int at_once, infer__budget *budget, infer_error *err) {
    infer__thread thread;
    infer_result r, kernels;
    int has_lock = 0, has_cond = 0, started = 0;
    if (at_once && (has_lock = infer__mutex_init(&u->lock)) != 0 && (has_cond = infer__cond_init(&u->moved)) != 0) {
        u->with_thread = 1;
        started = infer__thread_start(&thread, infer__upload_thread, u);
        if (!started) u->with_thread = 0; /* which a thread that runs reads */
    }
    r = kernels = infer__upload_kernels(u, started, budget, err);
    if (started) {
        if (kernels) infer__atomic_set(&u->stop, 1);
        else r = infer__upload_watch(u, err);
        infer__thread_join(&thread);
        if (!r && u->r) r = infer__error(err, u->r, "%s", u->err.message);
    } else if (!r) {
        r = infer__upload_send(u, budget, err);
    }
    if (has_cond) infer__cond_destroy(&u->moved);
    if (has_lock) infer__mutex_destroy(&u->lock);
    return r;
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

/* Floats of all vectors and frequencies, and the most jobs that there may be. */
static uint64_t infer__upload_count(infer_model *m, int32_t *jobs) {
    infer__place_item items[INFER__LAYER_SLOT_COUNT];
    uint64_t floats = 0;
    int32_t i, k, n, end;
    *jobs = m->n_devices * INFER__ROPE_SETS;
    for (i = 0; i < INFER__ROPE_SETS; i++)
        floats += (uint64_t)m->n_devices * 2 * (m->ropes[i].freq.bytes / sizeof(float));
    for (i = 0; i < infer__placed(m); i++) {
        n = infer__place_layer(m, i, items);
        *jobs += n;
        for (k = 0; k < n; k++)
            if (items[k].vector) floats += (uint64_t)items[k].w->cols;
    }
    for (end = 0; end < 2; end++) {
        n = infer__place_end(m, end, items);
        *jobs += n;
        for (k = 0; k < n; k++)
            if (items[k].vector) floats += (uint64_t)items[k].w->cols;
    }
    return floats;
}

/* Memory and jobs of all uploads. */
static infer_result infer__upload_plan(infer__upload *u, infer_error *err) {
    infer__place_item items[INFER__LAYER_SLOT_COUNT];
    infer_model *m = u->m;
    infer__device *last = infer__place_of(m, m->device_layers - 1);
    infer_result r = INFER_OK;
    int32_t i, n, tied;
    for (i = 0; i < infer__placed(m) && !r; i++) {
        infer__device *d = infer__place_of(m, i);
        u->held = i == 0 || d != infer__place_of(m, i - 1) ? 0 : u->held + 1;
        if (i == 0) { /* with its first layer */
            n = infer__place_end(m, 0, items);
            r = infer__upload_group(u, d, items, n, &m->device_front, "embedding", -1, err);
        }
        n = infer__place_layer(m, i, items);
        if (!r) r = infer__upload_group(u, d, items, n, &m->layers[i].weights, "layer", i, err);
    }
    if (!r && m->device_layers == m->hp.n_layer) {
        tied = infer__place_tied(m) && last == infer__place_of(m, 0); /* one tensor for both, on one device */
        n = infer__place_end(m, 1, items);
        u->held = last->n_layers;
        r = infer__upload_group(u, last, items + tied, n - tied, &m->device_head, "head", -1, err);
        if (tied) {
            m->w[INFER__W_OUTPUT].buf = m->w[INFER__W_TOKEN_EMBD].buf;
            m->w[INFER__W_OUTPUT].offset = m->w[INFER__W_TOKEN_EMBD].offset;
        }
    }
    return r ? r : infer__upload_ropes(u, err);
}

static void infer__upload_free(infer_model *m, infer__upload **u) {
    if (!*u) return;
    infer__free(&m->mem, (*u)->jobs);
    infer__free(&m->mem, (*u)->stage);
    infer__free(&m->mem, *u);
    *u = NULL;
}

/* Room for jobs and vectors. */
static infer_result infer__upload_begin(infer_model *m, infer__upload **out, infer_error *err) {
    infer__upload *u = (infer__upload *)infer__calloc(&m->mem, 1, sizeof *u);
    uint64_t floats;
    *out = u;
    if (!u) return infer__error(err, INFER_ERR_MEMORY, "no memory to send weights to devices");
    u->m = m;
    u->failed = u->layer = -1;
    floats = infer__upload_count(m, &u->max_jobs);
    if (m->sizes_only) return infer__upload_plan(u, err);
    u->jobs = (infer__upload_job *)infer__calloc(&m->mem, (uint64_t)u->max_jobs, sizeof *u->jobs);
    u->stage = u->next = (float *)infer__calloc(&m->mem, floats + 1, sizeof *u->stage);
    if (u->jobs && u->stage) return infer__upload_plan(u, err);
    return infer__error(err, INFER_ERR_MEMORY, "no memory for %llu bytes of vectors",
                        (unsigned long long)(floats * sizeof(float)));
}

static infer_result infer__upload_try(infer_model *m, infer__upload **x, infer__budget *budget, int32_t *failed,
                                      int32_t *held, infer_error *err) {
    const int slices = budget && budget->end != 0;
    infer_result r = *x ? INFER_OK : infer__upload_begin(m, x, err);
    infer__upload *u = *x;
    *failed = -1;
    *held = 0;
    if (!r && !m->sizes_only) {
        u->piece = infer__budget_bytes(budget, INFER__UPLOAD_PIECE);
        r = infer__upload_run(u, !slices && u->total >= INFER__UPLOAD_THREAD, budget, err);
    }
    if (r == INFER_MORE) return r;
    if (u) {
        *failed = u->failed;
        *held = u->held;
    }
    infer__upload_free(m, x);
    return r;
}

/* Free the memory of weights that are now on GPUs. */
static void infer__upload_forget(infer_model *m, infer__place_item *items, int32_t n) {
    int32_t i;
    for (i = 0; i < n; i++) {
        infer__weight *w = items[i].w;
        infer__gguf_tensor *t = infer__gguf_tensor_find(&m->gguf, w->name);
        if (!t || (t->data && !t->owned)) continue; /* it is in the mapped file */
        if (w->at) w->data = NULL; /* not derived weights */
        if (!t->owned) continue; /* as a part of a fused tensor */
        m->dropped_bytes += t->bytes;
        infer__free(&m->mem, t->owned);
        t->owned = NULL;
        t->data = NULL;
    }
}

static void infer__upload_drop(infer_model *m) {
    infer__place_item items[INFER__LAYER_SLOT_COUNT];
    int32_t i, all = m->device_layers == m->hp.n_layer;
    if (m->device_layers == 0) return;
    infer__weights_note(m);
    for (i = 0; i < infer__placed(m); i++) infer__upload_forget(m, items, infer__place_layer(m, i, items));
    if (all) infer__upload_forget(m, items, infer__place_end(m, 1, items));
    if (all || !infer__place_tied(m)) infer__upload_forget(m, items, infer__place_end(m, 0, items));
}

static void infer__upload_said(const infer_model *m) {
    int32_t d, first = 0;
    for (d = 0; d < m->n_devices; first += m->devices[d++].n_layers)
        if (m->devices[d].n_layers)
            infer__log(&m->report, 3, "layers %d to %d of %d%s on %s: %llu bytes", (int)first,
                       (int)(first + m->devices[d].n_layers - 1), (int)m->hp.n_layer,
                       first + m->devices[d].n_layers == m->hp.n_layer ? " and the head" : "",
                       infer__gpu_name(m->devices[d].gpu), (unsigned long long)m->devices[d].bytes);
}

static infer_result infer__place_upload(infer_model *m, infer__upload **x, infer__budget *budget, infer_error *err) {
    int32_t d, failed, held;
    infer_result r = INFER_OK;
    if (!INFER__HAS_GPU) return INFER_OK;
    while (m->device_layers > 0) {
        r = infer__upload_try(m, x, budget, &failed, &held, err);
        if (r == INFER_MORE) return r;
        if (r != INFER_ERR_MEMORY || failed < 0) break;
        infer__place_drop(m);
        if (!infer__place_fewer(m, failed, held)) break;
        infer__log(&m->report, 2, "%s; trying again with %d layer%s on devices", err->message, (int)m->device_layers,
                   m->device_layers == 1 ? "" : "s");
        infer__error_clear(err);
        r = INFER_OK;
    }
    if (r && r != INFER_CANCELLED && m->automatic) {
        infer__log(&m->report, 2, "auto: the CPU after all: %s", err->message);
        infer__place_free(m);
        infer__error_clear(err);
        r = INFER_OK;
    }
    for (d = 0; d < m->n_devices && !r; d++) /* opened, but not needed */
        if (m->devices[d].n_layers == 0) {
            infer__gpu_close(m->devices[d].gpu);
            m->devices[d].gpu = NULL;
        }
    if (!r) {
        infer__upload_drop(m);
        infer__upload_said(m);
    }
    return r;
}
