/* place.c: which layers run on the device, and their weights there.
 *
 * Owns:  the use of model_params.backend, device and gpu_layers; device memory of weights and RoPE frequencies.
 * Rules: the first layers go to the device, in order, as many as asked for or as fit; the embedding with layer 0, the
 *        head with the last. What was asked for and cannot be done is an error that names the tensor; "as many as fit"
 *        stops there and says so in the log. Matrices are uploaded as they are in the file, vectors as float32.
 * Start: infer__place_choose, infer__place_upload.
 */
#include "model.h"

enum {
    INFER__DEVICE_ALIGN = 256, /* of a tensor in its buffer: more than any block or API asks for */
    INFER__FIT_CELLS = 4096,   /* cache and batch that "as many as fit" leaves room for: the defaults of a context */
    INFER__FIT_BATCH = 512
};

static int infer__place_used(const infer_model *m, int32_t place) {
    return place == INFER__ON_DEVICE ? m->device_layers > 0 : m->device_layers < m->hp.n_layer;
}

/* ---- what goes together ---------------------------------------------------------------------------------- */

typedef struct infer__place_item { infer__weight *w; int32_t vector; } infer__place_item;

static int32_t infer__place_add(infer__place_item *items, int32_t n, infer__weight *w, const infer__tensor_slot *s) {
    if (!w->type) return n;
    items[n].w = w;
    items[n].vector = s->rows == INFER__D_ONE;
    return n + 1;
}

/* The weights of a layer; returns how many. A tensor that was cut into Q, K, V is not read any more. */
static int32_t infer__place_layer(infer__layer *l, infer__place_item *items) {
    int32_t i, n = 0, cut = l->w[INFER__W_ATTN_Q].type != NULL;
    for (i = 0; i < INFER__LAYER_SLOT_COUNT; i++)
        if (!cut || (i != INFER__W_ATTN_QKV && i != INFER__W_ATTN_QKV_B))
            n = infer__place_add(items, n, &l->w[i], &INFER__LAYER_SLOT_TABLE[i]);
    return n;
}

/* What goes with layer 0 (head 0) or with the last layer (head 1). */
static int32_t infer__place_end(infer_model *m, int head, infer__place_item *items) {
    static const int8_t slots[2][4] = {
        { INFER__W_TOKEN_EMBD, INFER__W_POS_EMBD, INFER__W_EMBD_NORM, INFER__W_EMBD_NORM_B },
        { INFER__W_OUTPUT, INFER__W_OUTPUT_B, INFER__W_OUT_NORM, INFER__W_OUT_NORM_B } };
    int32_t i, n = 0;
    for (i = 0; i < 4; i++)
        n = infer__place_add(items, n, &m->w[slots[head][i]], &INFER__MODEL_SLOT_TABLE[slots[head][i]]);
    return n;
}

static uint64_t infer__place_bytes(const infer__place_item *item) {
    const infer__weight *w = item->w;
    uint64_t n = item->vector ? (uint64_t)w->cols * sizeof(float) : w->row_bytes * (uint64_t)w->rows;
    return (n + INFER__DEVICE_ALIGN - 1) / INFER__DEVICE_ALIGN * INFER__DEVICE_ALIGN;
}

static uint64_t infer__place_sum(const infer__place_item *items, int32_t n, int vectors_only) {
    uint64_t sum = 0;
    int32_t i;
    for (i = 0; i < n; i++)
        if (items[i].vector || !vectors_only) sum += infer__place_bytes(&items[i]);
    return sum;
}

/* ---- choosing -------------------------------------------------------------------------------------------- */

/* The first weight that the device cannot use, NULL when there is none. */
static const infer__weight *infer__place_obstacle(const infer__place_item *items, int32_t n) {
    int32_t i;
    for (i = 0; i < n; i++)
        if (!items[i].vector && !infer__gpu_has_type(items[i].w->type)) return items[i].w;
    return NULL;
}

/* At most `want` layers, as far as kernels go: sets *n, and *bad to what stops it. */
static void infer__place_limit(infer_model *m, int32_t want, int32_t *n, const infer__weight **bad) {
    infer__place_item items[INFER__LAYER_SLOT_COUNT];
    int32_t i;
    *n = 0;
    *bad = want > 0 ? infer__place_obstacle(items, infer__place_end(m, 0, items)) : NULL;
    for (i = 0; i < want && !*bad; i++) {
        *bad = infer__place_obstacle(items, infer__place_layer(&m->layers[i], items));
        if (!*bad) *bad = i == m->hp.n_layer - 1 ? infer__place_obstacle(items, infer__place_end(m, 1, items)) : NULL;
        if (!*bad) *n = i + 1;
    }
}

/* How many of the first n layers fit into the device's memory, with caches and work buffers of default sizes. */
static int32_t infer__place_fit(infer_model *m, int32_t n) {
    infer__place_item items[INFER__LAYER_SLOT_COUNT];
    uint64_t most = infer__gpu_memory(m->gpu) / 10 * 9, used,
             cells = (uint64_t)INFER__MIN(m->hp.n_ctx, INFER__FIT_CELLS);
    uint64_t work = 0, next;
    int32_t i;
    for (i = 0; i < n; i++) {
        int32_t a = infer__mix_attention_cols(&m->layers[i]), f = infer__ffn_cols(m, &m->layers[i]);
        work = INFER__MAX(work, (uint64_t)INFER__MAX(a, f));
    }
    used = (work + 3 * (uint64_t)m->hp.n_embd) * INFER__FIT_BATCH * sizeof(float);
    used += infer__place_sum(items, infer__place_end(m, 0, items), 0);
    for (i = 0; i < n; i++) {
        const infer__layer *l = &m->layers[i];
        next = infer__place_sum(items, infer__place_layer(&m->layers[i], items), 0);
        next += cells * (uint64_t)l->n_head_kv *
                (infer__kv_bytes(INFER_KV_F16, l->dim_k) + infer__kv_bytes(INFER_KV_F16, l->dim_v));
        if (i == m->hp.n_layer - 1) next += infer__place_sum(items, infer__place_end(m, 1, items), 0);
        if (used + next > most) return i;
        used += next;
    }
    return n;
}

/* Open the device that the params ask for; none leaves m->gpu NULL. */
static infer_result infer__place_device(infer_model *m, infer_error *err) {
    infer_device_info info;
    int32_t backend = m->params.backend, device = m->params.device - 1; /* as numbered by infer_device_get */
    if (device >= 0) {
        infer_device_get(device, &info);
        if (backend == INFER_AUTO) backend = info.backend;
        if (backend != info.backend)
            return infer__error(err, INFER_ERR_ARGUMENT, "device %d is not of the backend that was asked for: %s",
                                (int)device, info.name[0] ? info.name : info.why_not);
    }
    if (backend > INFER_CPU)
        return infer__gpu_open(&m->gpu, &m->mem, &m->report, backend, device < 0 ? -1 : device - 1, &m->params.cache,
                               err);
    if (m->params.gpu_layers > 0)
        infer__log(&m->report, 2, "gpu_layers is %d, but no GPU backend was asked for: auto takes the CPU",
                   (int)m->params.gpu_layers);
    return INFER_OK;
}

static infer_result infer__place_choose(infer_model *m, infer_error *err) {
    const infer__weight *bad;
    int32_t i, asked = m->params.gpu_layers, want = asked > 0 ? INFER__MIN(asked, m->hp.n_layer) : m->hp.n_layer, n,
               fit;
    infer_result r = infer__place_device(m, err);
    if (r || !m->gpu || asked < 0) return r;
    infer__place_limit(m, want, &n, &bad);
    if (bad && (asked > 0 || n == 0))
        return infer__error(err, INFER_ERR_UNSUPPORTED, "tensor %s: there are no GPU kernels for type %s yet; %s",
                            bad->name, bad->type->name,
                            n ? "ask for fewer gpu_layers" : "this model runs on the CPU only");
    if (bad)
        infer__log(&m->report, 2, "tensor %s: no GPU kernels for type %s yet: %d of %d layers run on the device",
                   bad->name, bad->type->name, (int)n, (int)m->hp.n_layer);
    if (asked == 0) {
        fit = infer__place_fit(m, n);
        if (fit == 0)
            return infer__error(err, INFER_ERR_MEMORY, "no layer fits into the %llu bytes of %s",
                                (unsigned long long)infer__gpu_memory(m->gpu), infer__gpu_name(m->gpu));
        if (fit < n)
            infer__log(&m->report, 2, "%d of %d layers fit into %s", (int)fit, (int)m->hp.n_layer,
                       infer__gpu_name(m->gpu));
        n = fit;
    }
    m->device_layers = n;
    for (i = 0; i < n; i++) m->layers[i].place = INFER__ON_DEVICE;
    return INFER_OK;
}

/* ---- uploading -------------------------------------------------------------------------------------------- */

/* Items into one buffer, one after the other. */
static infer_result infer__place_put(infer_model *m, const infer__place_item *items, int32_t n, infer__buf *b,
                                     infer_error *err) {
    uint64_t vectors = infer__place_sum(items, n, 1), at = 0;
    float *stage = NULL, *next; /* vectors as float32: must stay until they have been sent */
    infer_result r = infer__gpu_alloc(m->gpu, b, infer__place_sum(items, n, 0), err);
    int32_t i;
    if (r) return r;
    next = stage = vectors ? (float *)infer__alloc(&m->mem, vectors) : NULL;
    if (vectors && !stage)
        return infer__error(err, INFER_ERR_MEMORY, "no memory for %llu bytes", (unsigned long long)vectors);
    for (i = 0; i < n && !r; i++) {
        infer__weight *w = items[i].w;
        w->buf = b;
        w->offset = at;
        at += infer__place_bytes(&items[i]);
        if (items[i].vector) {
            w->type->decode(w->data, next, w->cols);
            r = infer__gpu_write(m->gpu, b, w->offset, next, (uint64_t)w->cols * sizeof(float), err);
            next += infer__place_bytes(&items[i]) / sizeof(float);
        } else {
            r = infer__gpu_use_type(m->gpu, w->type, err);
            if (!r) r = infer__gpu_write(m->gpu, b, w->offset, w->data, w->row_bytes * (uint64_t)w->rows, err);
        }
    }
    if (r) infer__gpu_flush(m->gpu, NULL); /* what was sent still reads the stage */
    else r = infer__gpu_flush(m->gpu, err);
    infer__free(&m->mem, stage);
    return r;
}

/* Count a group of weights, and upload it unless only sizes are asked for. */
static infer_result infer__place_group(infer_model *m, const infer__place_item *items, int32_t n, infer__buf *b,
                                       const char *what, int32_t layer, infer_error *err) {
    infer_error why;
    infer_result r;
    m->device_bytes += infer__place_sum(items, n, 0);
    if (m->sizes_only) return INFER_OK;
    infer__error_clear(&why);
    r = infer__place_put(m, items, n, b, &why);
    if (!r) return INFER_OK;
    return layer < 0 ? infer__error(err, r, "%s: %s", what, why.message)
                     : infer__error(err, r, "%s %d: %s", what, (int)layer, why.message);
}

/* Frequencies in turns per position, each as two floats whose sum it is: position * frequency may be thousands of
 * turns, and a float has 24 bits. */
static infer_result infer__place_freq(infer_model *m, infer__rope *rope, infer_error *err) {
    const float *freq = (const float *)rope->freq.host;
    uint64_t n = rope->freq.bytes / sizeof(float), i;
    float *pairs = (float *)infer__alloc(&m->mem, 2 * n * sizeof(float));
    infer_result r;
    if (!pairs) return infer__error(err, INFER_ERR_MEMORY, "no memory for RoPE frequencies");
    for (i = 0; i < n; i++) {
        double turns = (double)freq[i] / (2 * 3.14159265358979323846);
        pairs[2 * i] = (float)turns;
        pairs[2 * i + 1] = (float)(turns - (double)pairs[2 * i]);
    }
    r = infer__gpu_alloc(m->gpu, &rope->device, 2 * n * sizeof(float), err);
    if (!r) r = infer__gpu_write(m->gpu, &rope->device, 0, pairs, 2 * n * sizeof(float), err);
    if (!r) r = infer__gpu_flush(m->gpu, err);
    infer__free(&m->mem, pairs);
    return r;
}

/* The sets that layers on the device use. */
static infer_result infer__place_ropes(infer_model *m, infer_error *err) {
    infer_result r = INFER_OK;
    int32_t set, i;
    for (set = 0; set < INFER__ROPE_SETS && !r; set++) {
        for (i = 0; i < m->device_layers; i++)
            if (m->layers[i].group == set && m->layers[i].rope_kind != INFER__ROPE_NONE) break;
        if (i == m->device_layers) continue;
        m->device_bytes += 4 * sizeof(float) * (uint64_t)(m->layers[i].n_rot / 2); /* 2 sets of pairs */
        if (!m->sizes_only) r = infer__place_freq(m, &m->ropes[set], err);
    }
    return r;
}

static infer_result infer__place_upload(infer_model *m, infer_error *err) {
    infer__place_item items[INFER__LAYER_SLOT_COUNT];
    infer_result r = INFER_OK;
    int32_t i, n, head = m->device_layers == m->hp.n_layer;
    if (m->device_layers == 0) return INFER_OK;
    for (i = 0; i < m->device_layers && !r; i++) {
        n = infer__place_layer(&m->layers[i], items);
        r = infer__place_group(m, items, n, &m->layers[i].weights, "layer", i, err);
        if (!r) r = infer__load_progress(m, m->hp.n_layer + i, err);
    }
    n = infer__place_end(m, 0, items);
    if (!r) r = infer__place_group(m, items, n, &m->device_front, "embedding", -1, err);
    if (!r && head) {
        int tied = m->w[INFER__W_OUTPUT].name == m->w[INFER__W_TOKEN_EMBD].name; /* one tensor for both */
        n = infer__place_end(m, 1, items);
        r = infer__place_group(m, items + tied, n - tied, &m->device_head, "head", -1, err);
        if (tied) {
            m->w[INFER__W_OUTPUT].buf = m->w[INFER__W_TOKEN_EMBD].buf;
            m->w[INFER__W_OUTPUT].offset = m->w[INFER__W_TOKEN_EMBD].offset;
        }
    }
    if (!r) r = infer__place_ropes(m, err);
    if (!r)
        infer__log(&m->report, 3, "%d of %d layers%s on %s: %llu bytes", (int)m->device_layers, (int)m->hp.n_layer,
                   head ? " and the head" : "", infer__gpu_name(m->gpu), (unsigned long long)m->device_bytes);
    return r;
}

static void infer__place_free(infer_model *m) {
    int32_t i;
    if (!m->gpu) return;
    for (i = 0; i < m->device_layers; i++) infer__gpu_free(m->gpu, &m->layers[i].weights);
    infer__gpu_free(m->gpu, &m->device_front);
    infer__gpu_free(m->gpu, &m->device_head);
    for (i = 0; i < INFER__ROPE_SETS; i++) infer__gpu_free(m->gpu, &m->ropes[i].device);
    infer__gpu_close(m->gpu);
    m->gpu = NULL;
}
