/* model_api.c: opening and closing models; what a file contains: properties, metadata, tensors, memory.
 *
 * Owns:  argument checks of the public model functions, and the life of infer_model.
 * Rules: a model never changes once it is open (except for its memory counter, its user count, the tensors' read-only
 *        views, and adapters merged while it is unused), so it may be shared by threads. Everything that can fail in it
 *        goes through one `fail`.
 * Start: infer__model_start, infer__model_finish.
 */
#include "../model/model.h"

/* ---- opening and closing ----------------------------------------------------------------------------- */

static infer_result infer__model_check_params(const infer_model_params *p, infer_error *err) {
    int32_t i;
    if (infer__reserved_check(p->reserved, "model_params", err)) return INFER_ERR_ARGUMENT;
    if (!infer__backend_name(p->backend))
        return infer__error(err, INFER_ERR_ARGUMENT, "backend %d is no infer_backend", (int)p->backend);
    if (p->backend > INFER_CPU && !infer__gpu_has_backend(p->backend))
        return infer__gpu_absent(p->backend, err);
    /* to count them means to load drivers */
    if (p->device < 0 || (p->device > 0 && p->device >= infer_device_count()))
        return infer__error(err, INFER_ERR_ARGUMENT, "device %d: the last one is %d", (int)p->device,
                            (int)infer_device_count() - 1);
    for (i = 0; i < INFER_MAX_DEVICES; i++) {
        if (p->devices[i] < 0 || (p->devices[i] > 0 && p->devices[i] >= infer_device_count()))
            return infer__error(err, INFER_ERR_ARGUMENT, "devices[%d] is %d: there is no such device", (int)i,
                                (int)p->devices[i]);
        if (!infer__finite(p->shares[i]) || p->shares[i] < 0)
            return infer__error(err, INFER_ERR_ARGUMENT, "shares[%d] is no share", (int)i);
    }
    if (p->device && p->devices[0])
        return infer__error(err, INFER_ERR_ARGUMENT, "device and devices are both given");
    if (p->cpu_level != INFER_CPU_BEST && !infer__cpu_level_name(p->cpu_level, NULL))
        return infer__error(err, INFER_ERR_ARGUMENT, "cpu_level %d is no infer_cpu_level", (int)p->cpu_level);
    if (p->gpu_layers < -1)
        return infer__error(err, INFER_ERR_ARGUMENT, "gpu_layers is %d", (int)p->gpu_layers);
    if (p->preload < 0 || p->preload > 2)
        return infer__error(err, INFER_ERR_ARGUMENT, "preload is %d, outside 0..2", (int)p->preload);
    if (!INFER__HAS_OFFLOAD && p->preload) return infer__left_out(err, "preloading and offloading", "INFER_NO_OFFLOAD");
    if (!p->allocator.alloc != !p->allocator.free)
        return infer__error(err, INFER_ERR_ARGUMENT, "allocator: %s is NULL, give both or neither",
                            p->allocator.alloc ? "free" : "alloc");
    return infer__plan_check(&p->fit, "fit", err);
}

/* 1 when a program compiled with infer.h of version `program` can use an implementation of version `library`: section
 * 20 of the manual. */
static int infer__version_fits(uint32_t program, uint32_t library) {
    const uint32_t minor = program >> 8 & 0xff, newest = library >> 8 & 0xff;
    return program >> 16 == library >> 16 && (library >> 16 == 0 ? minor == newest : minor <= newest);
}

/* A model with nothing in it: checks that do not depend on where the file comes from. */
static infer_result infer__model_start(infer_model **out, const infer_model_params *params, uint32_t version,
                                       infer_error *err) {
    infer_model_params p;
    infer__mem mem;
    infer_model *m;
    infer_result r;
    if (!out) return infer__error(err, INFER_ERR_ARGUMENT, "out is NULL");
    *out = NULL;
    if (!infer__version_fits(version, INFER_VERSION))
        return infer__error(err, INFER_ERR_ARGUMENT,
                            "infer.h is version %d.%d.%d, its implementation was built from %d.%d.%d",
                            (int)(version >> 16), (int)(version >> 8 & 0xff), (int)(version & 0xff),
                            INFER_VERSION >> 16, INFER_VERSION >> 8 & 0xff, INFER_VERSION & 0xff);
    memset(&p, 0, sizeof p);
    if (params) p = *params;
    if ((r = infer__model_check_params(&p, err)) != INFER_OK) return r;
#if defined(INFER_NO_MALLOC)
    if (!p.allocator.alloc)
        return infer__error(err, INFER_ERR_UNSUPPORTED, "model_params.allocator is needed: built with INFER_NO_MALLOC");
#endif
    infer__mem_init(&mem, &p.allocator, p.max_memory);
    m = (infer_model *)infer__calloc(&mem, 1, sizeof *m);
    if (!m) return infer__error(err, INFER_ERR_MEMORY, "no memory for a model");
    m->mem = mem; /* with the struct's own bytes counted */
    m->arena.mem = &m->mem;
    m->params = p;
    m->report.log = p.log;
    m->report.user = p.log_user;
    m->process = infer__process();
    infer__atomic_set(&m->users, INFER__OWNED);
    *out = m;
    return INFER_OK;
}

/* Mapping mode of the file: no_mmap 1 = never, -1 = always, also when others may write to it. */
static int infer__model_map(const infer_model *m) {
    return m->params.no_mmap > 0 ? INFER__MAP_NEVER : m->params.no_mmap < 0 ? INFER__MAP_ALWAYS : INFER__MAP_SAFE;
}

static void infer__model_free(infer_model *m) {
    infer__mem mem;
    if (m->has_turn) infer__mutex_destroy(&m->turn);
    infer__senses_close(m);
    infer__include_free(m); /* while its devices are open */
    infer__place_free(m);
    infer__tokenizer_close(m->tokenizer);
    infer__arena_free(&m->arena);
    infer__gguf_close(&m->gguf);
    mem = m->mem; /* the struct is freed through it */
    infer__free(&mem, m);
}

enum { INFER__MODEL_PARSED, INFER__MODEL_VOCAB, INFER__MODEL_LAYERS }; /* infer__model_opening.stage */

/* The file is parsed: read the vocabulary and build the layers. x is zero at first. INFER_MORE: the slice is over.
 * After another failure, or given up, infer__model_drop frees everything. */
static infer_result infer__model_step(infer_model *m, infer__model_opening *x, infer__budget *budget,
                                      infer_error *err) {
    infer__tokenizer_options options;
    infer_result r = INFER_OK;
    if (x->stage == INFER__MODEL_PARSED) {
        options.allow_default_pre = m->params.allow_default_pre;
        options.allow_unknown = m->params.allow_unknown;
        options.pre = m->params.pre;
        options.limits = m->params.limits;
        r = infer__tokenizer_begin(&x->tokenizer, &m->mem, &m->gguf, &options, err);
        if (r != INFER_OK) return r;
        x->stage = INFER__MODEL_VOCAB;
    }
    if (x->stage == INFER__MODEL_VOCAB) {
        r = infer__tokenizer_step(&x->tokenizer, &m->tokenizer, &m->report, &m->gguf, budget, err);
        if (r != INFER_OK) return r;
        m->params.pre = NULL; /* the caller's text need not live on */
        x->stage = INFER__MODEL_LAYERS;
        if (infer__budget_over(budget, 1)) return INFER_MORE;
    }
    r = infer__model_build(m, &x->build, budget, err);
    if (r == INFER_OK) infer__error_clear(err);
    return r;
}

/* The file of params.projector; or the model's own, where it is a projector's: then what it lacks is why_not's. */
static infer_result infer__model_projector(infer_model *m, const infer__gguf_origin *own, infer_error *err) {
    infer__gguf_origin origin;
    const char *path = m->params.projector;
    const int alone = own && !m->params.vocab_only && (infer__stack_in(&m->gguf, INFER__STACK_VISION) ||
                                                       infer__stack_in(&m->gguf, INFER__STACK_AUDIO));
    infer_error why;
    infer_result r;
    m->params.projector = NULL; /* the caller's text need not live on */
    if ((!path && !alone) || m->sizes_only) return INFER_OK;
    if (!INFER__HAS_MEDIA) return alone ? INFER_OK : infer__left_out(err, "pictures and sound", "INFER_NO_MEDIA");
    memset(&origin, 0, sizeof origin);
    origin.path = path;
    origin.want_map = infer__model_map(m);
    r = infer__senses_open(m, path ? &origin : own, !path, &why);
    if (path) return r ? infer__error(err, r, "projector: %s", why.message) : INFER_OK;
    infer__format(m->why_not, sizeof m->why_not, "%s",
                  r ? why.message : "the file is a projector: it encodes pictures and sound, and has no text");
    return INFER_OK;
}

static void infer__model_drop(infer_model *m, infer__model_opening *x) {
    infer__tokenizer_drop(&x->tokenizer);
    infer__upload_free(m, &x->build.upload);
    infer__model_free(m);
}

/* All of it, when r is INFER_OK; else, and on any failure, everything is freed. */
static infer_result infer__model_finish(infer_model **out, const infer__gguf_origin *own, infer_result r,
                                        infer_error *err) {
    infer__model_opening x;
    memset(&x, 0, sizeof x);
    if (r == INFER_OK) r = infer__model_step(*out, &x, NULL, err);
    if (r == INFER_OK) r = infer__model_projector(*out, own, err);
    if (r == INFER_OK) return INFER_OK;
    infer__model_drop(*out, &x);
    *out = NULL;
    return r;
}

INFER_API infer_result infer_model_open_v(infer_model **out, const char *path, const infer_model_params *params,
                                          infer_error *err, uint32_t version) {
    infer__gguf_origin own;
    infer_model *m;
    infer_result r;
    if (out) *out = NULL;
    r = infer__model_start(out ? &m : NULL, params, version, err);
    if (r != INFER_OK) return r;
    r = path ? infer__gguf_open_path(&m->gguf, &m->mem, &m->report, path, infer__model_map(m), err)
             : infer__error(err, INFER_ERR_ARGUMENT, "path is NULL");
    memset(&own, 0, sizeof own);
    own.path = path;
    own.want_map = r ? 0 : infer__model_map(m);
    r = infer__model_finish(&m, &own, r, err);
    *out = m; /* not before: a callback could use or close what is not whole */
    return r;
}

INFER_API infer_result infer_model_open_memory_v(infer_model **out, const void *data, size_t size,
                                                 const infer_model_params *params, infer_error *err, uint32_t version) {
    infer__gguf_origin own;
    infer_model *m;
    infer_result r;
    if (out) *out = NULL;
    r = infer__model_start(out ? &m : NULL, params, version, err);
    if (r != INFER_OK) return r;
    r = data ? infer__gguf_open_memory(&m->gguf, &m->mem, &m->report, data, size, err)
             : infer__error(err, INFER_ERR_ARGUMENT, "data is NULL");
    memset(&own, 0, sizeof own);
    own.data = data;
    own.size = size;
    r = infer__model_finish(&m, &own, r, err);
    *out = m; /* not before: a callback could use or close what is not whole */
    return r;
}

INFER_API infer_result infer_model_open_io_v(infer_model **out, const infer_io *io, int32_t n_io,
                                             const infer_model_params *params, infer_error *err, uint32_t version) {
    infer__gguf_origin own;
    infer_model *m;
    infer_result r;
    if (out) *out = NULL;
    r = infer__model_start(out ? &m : NULL, params, version, err);
    if (r != INFER_OK) return r;
    memset(&own, 0, sizeof own);
    own.io = io;
    own.n_io = n_io;
    if (!io) r = infer__error(err, INFER_ERR_ARGUMENT, "io is NULL");
    else if (n_io < 1) r = infer__error(err, INFER_ERR_ARGUMENT, "n_io is %d", (int)n_io);
    else r = infer__gguf_open_io(&m->gguf, &m->mem, &m->report, io, n_io, err);
    r = infer__model_finish(&m, &own, r, err);
    *out = m; /* not before: a callback could use or close what is not whole */
    return r;
}

/* The names of the macros, for callers that are not C (in brackets, so that the macros leave them alone). */
INFER_API infer_result(infer_model_open)(infer_model **out, const char *path, const infer_model_params *params,
                                         infer_error *err) {
    return infer_model_open_v(out, path, params, err, INFER_VERSION);
}

INFER_API infer_result(infer_model_open_memory)(infer_model **out, const void *data, size_t size,
                                                const infer_model_params *params, infer_error *err) {
    return infer_model_open_memory_v(out, data, size, params, err, INFER_VERSION);
}

INFER_API infer_result(infer_model_open_io)(infer_model **out, const infer_io *io, int32_t n_io,
                                            const infer_model_params *params, infer_error *err) {
    return infer_model_open_io_v(out, io, n_io, params, err, INFER_VERSION);
}

INFER_API infer_result infer_model_close(infer_model *model) {
    int last;
    if (!model) return INFER_OK;
    if (infer__model_lost(model)) return INFER_ERR_STATE;
    last = infer__refs_close(&model->users);
    if (last > 0) infer__model_free(model);
    return last < 0 ? INFER_ERR_STATE : INFER_OK;
}

INFER_API infer_result infer_model_offload(infer_model *model, infer_error *err) {
    if (!model) return infer__error(err, INFER_ERR_ARGUMENT, "infer_model_offload: model is NULL");
    infer__error_clear(err);
    if (!INFER__HAS_OFFLOAD) return infer__left_out(err, "preloading and offloading", "INFER_NO_OFFLOAD");
    infer__model_hold(model); /* its allocator might close it */
    return infer__model_let(model, infer__weights_offload(model, err));
}

INFER_API infer_result infer_model_reload(infer_model *model, infer_error *err) {
    if (!model) return infer__error(err, INFER_ERR_ARGUMENT, "infer_model_reload: model is NULL");
    infer__error_clear(err);
    if (!INFER__HAS_OFFLOAD) return infer__left_out(err, "preloading and offloading", "INFER_NO_OFFLOAD");
    infer__model_hold(model);
    return infer__model_let(model, infer__weights_reload(model, err));
}

/* ---- facts ----------------------------------------------------------------------------------------------- */

/* The value of "<architecture>.<name>" when it is there and a plausible int32, else 0. */
static int32_t infer__model_key(const infer_model *m, const char *name) {
    char key[128];
    uint32_t v = 0;
    if (infer__format(key, sizeof key, "%s.%s", m->arch_name, name) >= sizeof key) return 0;
    return infer__gguf_u32(&m->gguf, key, &v, NULL) == 1 && v <= INT32_MAX ? (int32_t)v : 0;
}

INFER_API infer_result infer_model_get_info(const infer_model *model, infer_model_info *out) {
    if (!model || !out) return INFER_ERR_ARGUMENT;
    memset(out, 0, sizeof *out);
    out->arch = model->arch_name;
    out->name = model->name;
    out->quant = model->quant;
    out->parameters = model->n_params;
    out->file_bytes = model->gguf.file_bytes;
    out->vocab = infer__tokenizer_size(model->tokenizer);
    if (out->vocab == 0) out->vocab = infer__model_key(model, "vocab_size");
    out->context = infer__model_key(model, "context_length");
    out->layers = infer__model_key(model, "block_count");
    out->width = infer__model_key(model, "embedding_length");
    out->computes = model->why_code == INFER_OK;
    if (out->computes) out->vocab = model->hp.n_vocab; /* what logits and token ids have */
    out->images = model->senses && model->senses->stacks[INFER__STACK_VISION - 1];
    out->sounds = model->senses && model->senses->stacks[INFER__STACK_AUDIO - 1];
    out->masked = out->computes && infer__not_causal(&model->hp) && !infer__encoder(&model->hp);
    out->embedding_only = out->computes && infer__encoder(&model->hp);
    out->decoder_start = out->computes && infer__n_enc(&model->hp) ? model->hp.decoder_start : -1;
    out->labels = out->computes ? model->hp.n_labels : 0;
    out->embedding = out->computes ? model->hp.n_out : 0;
    out->pooling = (infer_pooling)(out->computes ? infer__pool_default(model) : 0);
    return INFER_OK;
}

INFER_API infer_result infer_model_describe(const infer_model *model, char *out, size_t cap, size_t *len) {
    if (!model || !len || (cap > 0 && !out)) return INFER_ERR_ARGUMENT;
    if (!INFER__HAS_DESCRIBE) return infer__left_out(NULL, "descriptions", "INFER_NO_DESCRIBE");
    *len = infer__describe_to(model, out, cap);
    return INFER_OK;
}

INFER_API const char *infer_model_why_not(const infer_model *model) {
    return model ? model->why_not : "model is NULL";
}

/* ---- memory ------------------------------------------------------------------------------------------------ */

INFER_API infer_result infer_model_memory(const infer_model *model, const infer_context_params *params,
                                          infer_memory *out, infer_error *err) {
    infer__plan plan;
    infer_result r;
    if (out) memset(out, 0, sizeof *out);
    if (!model || !out) return infer__error(err, INFER_ERR_ARGUMENT, "%s is NULL", model ? "out" : "model");
    if (model->why_code != INFER_OK) return infer__error(err, model->why_code, "%s", model->why_not);
    infer__error_clear(err);
    if ((r = infer__plan_make(&plan, model, params, INFER__SESSIONS_OWN, err)) != INFER_OK) return r;
    infer__plan_memory(&plan, model, out);
    return INFER_OK;
}

INFER_API infer_result infer_model_memory_path(const char *path, const infer_model_params *model_params,
                                               const infer_context_params *params, infer_memory *out,
                                               infer_error *err) {
    infer_model_params p;
    infer_model *m;
    infer_result r;
    memset(&p, 0, sizeof p);
    if (model_params) p = *model_params;
    p.max_memory = 0; /* the question is how much it would be */
    if (out) memset(out, 0, sizeof *out);
    if ((r = infer__model_start(&m, &p, INFER_VERSION, err)) != INFER_OK) return r;
    m->sizes_only = 1;
    if (p.no_mmap > 0) m->params.no_mmap = 0; /* nothing is read that would have to be */
    r = path ? infer__gguf_open_path(&m->gguf, &m->mem, &m->report, path, infer__model_map(m), err)
             : infer__error(err, INFER_ERR_ARGUMENT, "path is NULL");
    if ((r = infer__model_finish(&m, NULL, r, err)) != INFER_OK) return r;
    r = infer_model_memory(m, params, out, err);
    infer_model_close(m);
    return r;
}

/* ---- metadata ------------------------------------------------------------------------------------------------ */

/* INFER_META_* of a GGUF value type. */
static int32_t infer__meta_kind(uint32_t type) {
    switch (type) {
    case INFER__GGUF_U8: case INFER__GGUF_U16: case INFER__GGUF_U32: case INFER__GGUF_U64: return INFER_META_UINT;
    case INFER__GGUF_I8: case INFER__GGUF_I16: case INFER__GGUF_I32: case INFER__GGUF_I64: return INFER_META_INT;
    case INFER__GGUF_F32: case INFER__GGUF_F64: return INFER_META_FLOAT;
    case INFER__GGUF_BOOL: return INFER_META_BOOL;
    case INFER__GGUF_STRING: return INFER_META_STRING;
    default: return INFER_META_ARRAY;
    }
}

/* The fields that hold a number. Wide integers lose bits in a double, so they are read as what they are. */
static void infer__meta_number(infer_meta *out, uint64_t u, double f) {
    out->n = 1;
    if (out->kind == INFER_META_UINT || out->kind == INFER_META_BOOL) out->u = u;
    if (out->kind == INFER_META_INT) memcpy(&out->i, &u, 8);
    out->f = f;
}

INFER_API int32_t infer_meta_count(const infer_model *model) {
    return model ? model->gguf.n_kv : 0;
}

INFER_API const char *infer_meta_key(const infer_model *model, int32_t index) {
    return model && index >= 0 && index < model->gguf.n_kv ? model->gguf.kv[index].key : NULL;
}

INFER_API infer_result infer_meta_value(const infer_model *model, const char *key, infer_meta *out) {
    const infer__kv *kv;
    uint64_t u;
    if (!out) return INFER_ERR_ARGUMENT;
    memset(out, 0, sizeof *out);
    if (!model || !key || !(kv = infer__gguf_find(&model->gguf, key))) return INFER_ERR_ARGUMENT;
    out->kind = infer__meta_kind(kv->type);
    out->type = (int32_t)kv->type;
    out->n = kv->n;
    if (out->kind == INFER_META_ARRAY) {
        out->element = infer__meta_kind(kv->element);
        out->type = (int32_t)kv->element;
    } else if (out->kind == INFER_META_STRING) {
        out->s = (const char *)kv->data;
    } else {
        memcpy(&u, kv->data, 8);
        infer__meta_number(out, u, infer__kv_number(kv, 0));
    }
    return INFER_OK;
}

/* Element i of an array of 64-bit integers: packed, unaligned, in machine order. */
static uint64_t infer__meta_wide(const infer__kv *kv, uint64_t i) {
    uint64_t u;
    memcpy(&u, (const char *)kv->data + i * 8, 8);
    return u;
}

INFER_API infer_result infer_meta_element(const infer_model *model, const char *key, uint64_t index, infer_meta *out) {
    const infer__kv *kv;
    if (!out) return INFER_ERR_ARGUMENT;
    memset(out, 0, sizeof *out);
    if (!model || !key || !(kv = infer__gguf_find(&model->gguf, key))) return INFER_ERR_ARGUMENT;
    if (kv->type != INFER__GGUF_ARRAY || index >= kv->n) return INFER_ERR_ARGUMENT;
    if (!infer__kv_is_strings(kv) && !infer__kv_is_numbers(kv)) return INFER_ERR_ARGUMENT; /* arrays in arrays */
    out->kind = infer__meta_kind(kv->element);
    out->type = (int32_t)kv->element;
    if (out->kind == INFER_META_STRING) {
        infer__str s = infer__kv_string(kv, index);
        out->s = s.s;
        out->n = s.n;
    } else {
        double f = infer__kv_number(kv, index);
        int wide = kv->element == INFER__GGUF_U64 || kv->element == INFER__GGUF_I64;
        infer__meta_number(out, wide ? infer__meta_wide(kv, index)
                                : out->kind == INFER_META_FLOAT ? 0 : (uint64_t)(int64_t)f, f);
    }
    return INFER_OK;
}

/* ---- tensors --------------------------------------------------------------------------------------------------- */

static void infer__tensor_describe(const infer__gguf_tensor *t, infer_tensor_info *out) {
    out->name = t->name;
    out->type = t->type->id;
    out->n_dims = t->n_dims;
    memcpy(out->dims, t->dims, sizeof out->dims);
    out->rows = t->rows;
    out->offset = t->offset;
    out->bytes = t->bytes;
}

INFER_API int32_t infer_tensor_count(const infer_model *model) {
    return model ? model->gguf.n_tensors : 0;
}

INFER_API infer_result infer_tensor_get(const infer_model *model, int32_t index, infer_tensor_info *out) {
    if (!out) return INFER_ERR_ARGUMENT;
    memset(out, 0, sizeof *out);
    if (!model || index < 0 || index >= model->gguf.n_tensors) return INFER_ERR_ARGUMENT;
    infer__tensor_describe(&model->gguf.tensors[index], out);
    return INFER_OK;
}

INFER_API infer_result infer_tensor_find(const infer_model *model, const char *name, infer_tensor_info *out) {
    const infer__gguf_tensor *t;
    if (!out) return INFER_ERR_ARGUMENT;
    memset(out, 0, sizeof *out);
    if (!model || !name || !(t = infer__gguf_tensor_find(&model->gguf, name))) return INFER_ERR_ARGUMENT;
    infer__tensor_describe(t, out);
    return INFER_OK;
}

INFER_API infer_result infer_tensor_read(const infer_model *model, const char *name, uint64_t row, uint64_t n_rows,
                                         float *dst, infer_error *err) {
    const infer__gguf_tensor *t;
    infer_result r;
    if (!model || !name) return infer__error(err, INFER_ERR_ARGUMENT, "%s is NULL", model ? "name" : "model");
    t = infer__gguf_tensor_find(&model->gguf, name);
    if (!t) return infer__error(err, INFER_ERR_ARGUMENT, "there is no tensor %s", name);
    if (row > t->rows || n_rows > t->rows - row)
        return infer__error(err, INFER_ERR_ARGUMENT, "tensor %s has %llu rows, not %llu from row %llu on", name,
                            (unsigned long long)t->rows, (unsigned long long)n_rows, (unsigned long long)row);
    if (n_rows == 0) { infer__error_clear(err); return INFER_OK; }
    if (!dst) return infer__error(err, INFER_ERR_ARGUMENT, "dst is NULL");
    infer__error_clear(err);
    if (infer__weights_hold(model, err)) return INFER_ERR_STATE;
    infer__model_hold(model);
    r = infer__gguf_read_rows((infer__gguf *)(uintptr_t)&model->gguf, t, row, n_rows, dst, err);
    infer__weights_let(model);
    return infer__model_let(model, r);
}
