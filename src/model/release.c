/* release.c: offloading and reloading the weights of an open model: on GPUs, read into memory, and mapped.
 *
 * Rules: readers hold the weights (infer__weights_hold); weights are offloaded, or replaced (merge.c), only while
 *        no call holds them, and cannot be held until they are back. A weight is found again by its tensor and its byte
 *        offset in it (infer__weight.at); weights derived from tensors while the model opened, and everything else,
 *        stay. With layers on GPUs, weights are offloaded only while there are no contexts, since their caches, buffers
 *        and recordings refer to them. A failed reload leaves everything as it was.
 * Start: infer__weights_offload, infer__weights_reload.
 */
#include "model.h"

/* infer_model.held: how many read the weights, or */
enum { INFER__WEIGHTS_GONE = -1, INFER__WEIGHTS_MOVE = -2 };

/* The model is const for callers; this counter is atomic. */
static infer__atomic *infer__weights_held(const infer_model *m) { return &((infer_model *)(uintptr_t)m)->held; }

static infer_result infer__weights_hold(const infer_model *m, infer_error *err) {
    int64_t n = infer__atomic_get(infer__weights_held(m));
    if (!INFER__HAS_OFFLOAD && !INFER__HAS_ADAPTERS) return INFER_OK; /* nothing moves them */
    while (n >= 0) {
        if (infer__atomic_swap(infer__weights_held(m), n, n + 1)) return INFER_OK;
        n = infer__atomic_get(infer__weights_held(m));
    }
    return infer__error(err, INFER_ERR_STATE, "%s",
                        n == INFER__WEIGHTS_GONE
                            ? "the model's weights are offloaded; infer_model_reload brings them back"
                            : "another call moves or changes the model's weights");
}

static void infer__weights_let(const infer_model *m) {
    if (INFER__HAS_OFFLOAD || INFER__HAS_ADAPTERS) infer__atomic_add(infer__weights_held(m), -1);
}

static infer_result infer__weights_own(infer_model *m, infer_error *err) {
    if (infer__atomic_swap(&m->held, 0, INFER__WEIGHTS_MOVE)) return INFER_OK;
    if (infer__atomic_get(&m->held) > 0)
        return infer__error(err, INFER_ERR_STATE, "another call uses the model's weights");
    if (infer__weights_hold(m, err) != INFER_OK) return INFER_ERR_STATE;
    infer__weights_let(m); /* it has just ended */
    return infer__error(err, INFER_ERR_STATE, "another call uses the model's weights");
}

static void infer__weights_disown(infer_model *m) { infer__atomic_set(&m->held, 0); }

/* Every weight: NULL past the last. */
static infer__weight *infer__weights_all(infer_model *m, int32_t i) {
    if (i < INFER__MODEL_SLOT_COUNT) return &m->w[i];
    i -= INFER__MODEL_SLOT_COUNT;
    return i / INFER__LAYER_SLOT_COUNT < infer__n_all(&m->hp)
               ? &m->layers[i / INFER__LAYER_SLOT_COUNT].w[i % INFER__LAYER_SLOT_COUNT]
               : NULL;
}

static void infer__weights_note(infer_model *m) {
    infer__weight *w;
    int32_t i;
    if (!INFER__HAS_OFFLOAD && !INFER__HAS_GPU) return;
    for (i = 0; (w = infer__weights_all(m, i)) != NULL; i++) {
        const infer__gguf_tensor *t = w->type && w->tensor ? &m->gguf.tensors[w->tensor - 1] : NULL;
        uintptr_t from, at = (uintptr_t)w->data;
        if (!at) continue; /* it is gone, and noted */
        w->at = 0;
        from = t ? (uintptr_t)t->data : 0;
        if (from && at >= from && at - from < t->bytes) w->at = 1 + (uint64_t)(at - from);
    }
}

/* Free the weights that were read into memory. */
static void infer__weights_free(infer_model *m) {
    infer__weight *w;
    int32_t i;
    infer__weights_note(m);
    for (i = 0; i < m->gguf.n_tensors; i++) {
        infer__gguf_tensor *t = &m->gguf.tensors[i];
        if (!t->owned) continue;
        infer__free(&m->mem, t->owned);
        t->owned = NULL;
        t->data = NULL;
    }
    for (i = 0; (w = infer__weights_all(m, i)) != NULL; i++)
        if (w->at && !m->gguf.tensors[w->tensor - 1].data) w->data = NULL;
}

/* Read them again, including those of GPU layers, which are uploaded from here. */
static infer_result infer__weights_read(infer_model *m, infer_error *err) {
    infer_result r = INFER_OK;
    infer__weight *w;
    int32_t i;
    for (i = 0; !r && (w = infer__weights_all(m, i)) != NULL; i++) {
        infer__gguf_tensor *t = w->type && w->at ? &m->gguf.tensors[w->tensor - 1] : NULL;
        if (!t) continue;
        if (!t->data && i >= INFER__MODEL_SLOT_COUNT)
            r = infer__load_progress(m, INFER__MIN((i - INFER__MODEL_SLOT_COUNT) / INFER__LAYER_SLOT_COUNT,
                                                   m->hp.n_layer - 1), err);
        if (!r) r = infer__gguf_load(&m->gguf, t, err);
        if (!r) w->data = (const char *)t->data + (w->at - 1);
    }
    return r;
}

static infer_result infer__weights_back(infer_model *m, infer_error *err) {
    infer_result r = infer__gguf_whole(&m->gguf, err);
    infer__upload *upload = NULL;
    int32_t failed, held;
    if (!r) r = infer__weights_read(m, err);
    if (!r && m->device_layers) {
        r = infer__upload_try(m, &upload, NULL, &failed, &held, err);
        if (r) infer__place_drop(m);
        else infer__upload_drop(m);
    }
    if (!r && m->params.preload) r = infer__preload(m, err);
    if (!r) r = infer__load_progress(m, infer__load_steps(m), err);
    if (r && m->device_layers) infer__place_drop(m);
    return r;
}

/* Can anything be offloaded? */
static infer_result infer__weights_movable(const infer_model *m, infer_error *err) {
    int32_t i;
    if (m->why_code != INFER_OK) return infer__error(err, m->why_code, "%s", m->why_not);
    if (infer__model_lost(m))
        return infer__error(err, INFER_ERR_STATE, "the model uses a device and was opened before fork()");
    if (m->device_layers > 0) return INFER_OK;
    for (i = 0; i < m->gguf.n_sources; i++)
        if (m->gguf.sources[i].file.map || !m->gguf.sources[i].io.mapped) return INFER_OK;
    return infer__error(err, INFER_ERR_UNSUPPORTED,
                        "infer_model_offload: the weights are in memory that the caller gave or mapped");
}

static void infer__weights_pages(infer_model *m) {
    int32_t i;
    for (i = 0; i < m->gguf.n_sources; i++) infer__file_release(&m->gguf.sources[i].file);
}

static infer_result infer__weights_offload(infer_model *m, infer_error *err) {
    infer_result r = infer__weights_movable(m, err);
    if (r) return r;
    if (infer__atomic_get(&m->held) == INFER__WEIGHTS_GONE) return INFER_OK;
    if (!infer__atomic_swap(&m->held, 0, INFER__WEIGHTS_MOVE))
        return infer__error(err, INFER_ERR_STATE, "infer_model_offload: another call uses the weights");
    if (m->merged)
        r = infer__error(err, INFER_ERR_STATE,
                         "infer_model_offload: the weights include adapters: infer_model_unmerge first");
    else if (m->device_layers && infer__atomic_get(&m->contexts))
        r = infer__error(err, INFER_ERR_STATE,
                         "infer_model_offload: layers are on a device, and there are contexts: save their sessions "
                         "and destroy them first");
    if (r) {
        infer__atomic_set(&m->held, 0);
        return r;
    }
    if (m->device_layers) infer__place_drop(m);
    m->dropped_bytes = 0;
    infer__weights_free(m);
    infer__weights_pages(m);
    infer__atomic_set(&m->held, INFER__WEIGHTS_GONE);
    return INFER_OK;
}

static infer_result infer__weights_reload(infer_model *m, infer_error *err) {
    infer_result r = infer__weights_movable(m, err);
    if (r) return r;
    if (infer__atomic_get(&m->held) >= 0) return INFER_OK;
    if (!infer__atomic_swap(&m->held, INFER__WEIGHTS_GONE, INFER__WEIGHTS_MOVE))
        return infer__error(err, INFER_ERR_STATE, "infer_model_reload: another call is moving the weights");
    r = infer__weights_back(m, err);
    if (r) {
        m->dropped_bytes = 0;
        infer__weights_free(m);
        infer__weights_pages(m);
    }
    infer__atomic_set(&m->held, r ? INFER__WEIGHTS_GONE : 0);
    return r;
}
