/* plan.c: the sizes of a context, from a model and context_params.
 *
 * Owns:  defaults and ranges of context_params, the widths of work buffers, the number of cache pages, and the largest
 *        ops, from which each backend computes its scratch (infer__ops.sizes).
 * Rules: the same numbers create a context, predict its memory and say how many layers fit on a device (place.c), so
 *        they cannot disagree. infer__plan_sizes does not depend on where layers run: every device gets work buffers
 *        for the widest layer of the model.
 * Ranges: 2^20 rows of 64 experts of 2^24 floats are 2^52 bytes, so sizes of buffers fit 64 bits. Only the cache (cells
 *        x layers x heads) needs checked sums, and is refused where sums with it could wrap.
 * Start: infer__plan_make: sizes, then infer__plan_places.
 */
#include "model.h"

enum { INFER__THREADS_PER_PROCESSOR = 4 }; /* limit of started threads, whatever is requested */

static infer_result infer__plan_check(const infer_context_params *in, const char *name, infer_error *err) {
    const struct { const char *name; int32_t value, min, max; } given[] = {
        { "threads", in->threads, -1, 1024 },   { "batch", in->batch, 0, 1 << 20 },
        { "cells", in->cells, 0, 1 << 30 },     { "keep", in->keep, 0, 1 << 30 },
        { "sessions", in->sessions, 0, 1 << 20 }, { "snapshot_every", in->snapshot_every, 0, 1 << 30 } };
    size_t i;
    if (infer__reserved_check(in->reserved, name, err)) return INFER_ERR_ARGUMENT;
    for (i = 0; i < INFER__COUNT(given); i++)
        if (given[i].value < given[i].min || given[i].value > given[i].max)
            return infer__error(err, INFER_ERR_ARGUMENT, "%s.%s is %d, outside %d..%d", name, given[i].name,
                                (int)given[i].value, (int)given[i].min, (int)given[i].max);
    if (in->n_processors < 0 || in->n_processors > 1 << 16 || (in->n_processors > 0 && !in->processors))
        return infer__error(err, INFER_ERR_ARGUMENT, "%s.n_processors is %d, processors is %s", name,
                            (int)in->n_processors, in->processors ? "given" : "NULL");
    for (i = 0; i < (size_t)in->n_processors; i++) {
        const int there = infer__processor_there(in->processors[i]);
        if (there < 0)
            return infer__error(err, INFER_ERR_UNSUPPORTED, "%s.processors: this system does not keep threads there",
                                name);
        if (!there)
            return infer__error(err, INFER_ERR_ARGUMENT, "%s.processors[%d] is %d: this process may not run there",
                                name, (int)i, (int)in->processors[i]);
    }
    if (in->kv_type < INFER_KV_DEFAULT || in->kv_type > INFER_KV_Q4_0)
        return infer__error(err, INFER_ERR_ARGUMENT, "%s.kv_type %d is unknown", name, (int)in->kv_type);
    return INFER_OK;
}

/* ---- wherever layers run ----------------------------------------------------------------------------------------- */

static void infer__plan_defaults(infer__plan *p, const infer_model *m, const infer_context_params *in,
                                 int32_t default_sessions) {
    /* an encoder's keys and values are read by the pass that makes them, which has whole texts */
    p->kv_type = in->kv_type != INFER_KV_DEFAULT ? in->kv_type : infer__encoder(&m->hp) ? INFER_KV_F32 : INFER_KV_F16;
    p->cells = in->cells ? in->cells : INFER__MIN(m->hp.n_ctx, 4096);
    p->batch = INFER__MIN(in->batch ? in->batch : infer__encoder(&m->hp) ? p->cells : 512, p->cells);
    p->keep = in->keep ? in->keep : 64;
    p->sessions = in->sessions ? in->sessions : default_sessions;
    p->n_seq = INFER__MIN(p->batch, 64);
    p->snapshot_every = in->snapshot_every ? in->snapshot_every : 512;
}

/* Pages of each cache group, and cells. */
static void infer__plan_pages(infer__plan *p, const infer_model *m) {
    uint64_t window_pages;
    int32_t g, i;
    p->max_pages = (p->cells + INFER__PAGE - 1) / INFER__PAGE;
    for (g = 0; g < INFER__CACHE_GROUPS; g++) {
        int32_t window = infer__group_window(m, g);
        if (window < 0) continue;
        window_pages = ((uint64_t)window + (uint64_t)p->keep + (uint64_t)p->batch) / INFER__PAGE + 3;
        window_pages = INFER__MIN(window_pages * (uint64_t)p->sessions, (uint64_t)p->max_pages);
        p->n_pages[g] = window
                            ? (int32_t)window_pages
                            : p->max_pages * (infer__n_enc(&m->hp) ? 2 : 1) + (infer__encoder(&m->hp) ? p->n_seq : 0);
    }
    for (i = 0; i < m->n_states; i++) /* a session's state, those that are kept, and two that a pass reads and makes */
        if (m->states[i].kind == INFER__STATE_RECURRENT)
            p->n_pages[INFER__GROUP_CELLS] = p->sessions * (INFER__SNAPSHOTS + 3);
}

static int infer__plan_state(const infer__plan *p, const infer__state *s, uint64_t *bytes) {
    return infer__mul_ok(infer__page_bytes(p->kv_type, s), (uint64_t)p->n_pages[s->group], bytes);
}

static int infer__plan_layer_cache(const infer__plan *p, const infer_model *m, int32_t layer, uint64_t *bytes) {
    uint64_t n;
    int32_t i;
    *bytes = 0;
    for (i = 0; i < m->n_states; i++)
        if (m->states[i].layer == layer && infer__state_here(m, i) && infer__state_buf(m, i) == i &&
            (!infer__plan_state(p, &m->states[i], &n) || !infer__add_ok(*bytes, n, bytes)))
            return 0;
    return 1;
}

/* The widest rows and largest ops of all layers: every device gets scratch for them. */
static void infer__plan_needs(infer__plan *p, const infer_model *m) {
    infer__needs *n = &p->needs;
    int64_t chosen = 0;
    int32_t i, k;
    n->cpu = m->cpu;
    n->exact = m->params.exact;
    n->rows = p->batch;
    n->cells = p->cells;
    n->block_len = p->block_len;
    infer__need_cols(n, m->hp.n_embd);
    for (i = 0; i < infer__n_all(&m->hp); i++)
        for (k = 0; k < m->layers[i].n_parts; k++) {
            const infer__sublayer_kind *kind = m->layers[i].parts[k].kind;
            int64_t cols = kind->cols ? kind->cols(m, &m->layers[i]) : 0;
            chosen = INFER__MAX(chosen, infer__indexer_list(&m->layers[i], p->cells));
            if (!infer__here(m, i)) continue;
            if (kind->needs) kind->needs(m, &m->layers[i], n);
            p->work_cols = INFER__MAX(p->work_cols, cols + m->layers[i].kept);
        }
    p->pass_kept = m->hp.pass_kept + chosen;
    p->carried = infer__arch_of(m)->flags & INFER__INDEX_SHARED ? p->pass_kept
                 : m->hp.switches.n                   ? 1 /* the rest is scratch: switched.c */
                                                      : m->hp.pass_kept;
    p->work_cols += p->pass_kept;
}

/* Buffers that every device has. */
static void infer__plan_work(infer__plan *p, const infer_model *m) {
    uint64_t batch = (uint64_t)p->batch, work, head;
    /* logits pass through the work area a few rows at a time: a prompt's would not fit */
    work = batch * (uint64_t)p->work_cols;
    head = infer__first(m) ? 0 : (uint64_t)INFER__MIN(p->batch, 8) * (uint64_t)m->hp.n_vocab;
    p->work_bytes = INFER__MAX(work, head) * sizeof(float);
    p->head_rows = (int32_t)INFER__MIN(batch, p->work_bytes / sizeof(float) / (uint64_t)m->hp.n_vocab);
    if (infer__first(m)) p->head_rows = p->batch; /* it has no head, and gives rows back */
    p->x_bytes = batch * (uint64_t)m->hp.n_embd * sizeof(float);
}

/* A GPU's buffers besides weights and cache, whichever layers run there. */
static void infer__plan_device(infer__plan *p, const infer_model *m) {
    if (!INFER__HAS_GPU) return;
    infer__gpu_ops.sizes(&p->needs, &p->device_bytes, &p->device_host_bytes);
    p->device_bytes += 3 * p->x_bytes + p->work_bytes;
    infer__plan_top(p, m);
}

static void infer__plan_sizes(infer__plan *p, const infer_model *m, const infer_context_params *in,
                              int32_t default_sessions) {
    memset(p, 0, sizeof *p);
    infer__plan_defaults(p, m, in, default_sessions);
    infer__plan_pages(p, m);
    p->block_len = 4 * (uint64_t)p->batch + (uint64_t)p->n_seq * (1 + INFER__CACHE_GROUPS * (uint64_t)p->max_pages);
    if (p->n_pages[INFER__GROUP_CELLS]) p->block_len += 2 * (uint64_t)p->n_seq;
    if (infer__not_causal(&m->hp) || infer__n_enc(&m->hp) || INFER__HAS_MEDIA) p->block_len += (uint64_t)p->batch;
    if (INFER__HAS_MEDIA && m->hp.axes) p->block_len += INFER__AXES * (uint64_t)p->batch + INFER__MAX_HEAD_DIM / 2;
    if (infer__n_enc(&m->hp)) p->block_len += (uint64_t)p->n_seq;
    p->block_len += (uint64_t)p->batch * (uint64_t)infer__looks(m);
    infer__plan_needs(p, m);
    infer__plan_work(p, m);
    infer__plan_device(p, m);
}

/* ---- where they run ---------------------------------------------------------------------------------------------- */

static void infer__plan_threads(infer__plan *p, const infer_model *m, const infer_context_params *in) {
    int cores, processors = infer__processors(&cores);
    p->threads = in->n_processors                        ? INFER__MIN(in->n_processors, 64)
                 : infer__place_used(m, INFER__ON_CPU) ? INFER__MIN(cores, 64)
                                                         : 1;
    if (in->threads < 0) p->threads = INFER__MAX(p->threads / 2, 1);
    if (in->threads > 0) p->threads = in->threads;
    /* a few threads a processor cost nothing and win time from other programs; 64 on 2 cores took twice as long as 8 */
    if (!m->params.parallel) p->threads = INFER__MIN(p->threads, INFER__THREADS_PER_PROCESSOR * processors);
}

/* Bytes of all states on each device. */
static int infer__plan_cache(infer__plan *p, const infer_model *m) {
    uint64_t n, all = 0;
    int32_t i;
    for (i = 0; i < m->n_states; i++) {
        if (!infer__state_here(m, i) || infer__state_buf(m, i) != i) continue;
        if (!infer__plan_state(p, &m->states[i], &n) || !infer__add_ok(all, n, &all)) return 0;
        if (all > INFER__PLACE_NEVER) return 0;
        p->cache_bytes[infer__state_place(m, i)] += n;
    }
    return 1;
}

/* Size of the sine/cosine tables: one per set of frequencies of CPU layers, for all rows of a pass. */
static void infer__plan_turns(infer__plan *p, const infer_model *m) {
    int32_t i, set, n_rot;
    p->needs.turn_sets = p->needs.turn_cols = 0;
    for (set = 0; set < INFER__ROPE_SETS; set++) {
        for (i = 0, n_rot = 0; i < infer__n_all(&m->hp); i++)
            if (m->layers[i].rope == &m->ropes[set] && m->layers[i].place == INFER__ON_CPU) n_rot = m->layers[i].n_rot;
        if (n_rot > 0) p->needs.turn_sets++;
        p->needs.turn_cols = INFER__MAX(p->needs.turn_cols, n_rot);
    }
}

/* Bytes besides weights and cache on each device. The host always has what the caller and the passes need. */
static void infer__plan_places(infer__plan *p, const infer_model *m) {
    uint64_t host, batch = (uint64_t)p->batch, here, beside;
    int32_t i, n_devices = 0;
    host = infer__pool_bytes(p->threads, m->params.parallel) + infer__block_bytes(sizeof(infer_context)) +
           infer__block_bytes(p->block_len * sizeof(int32_t)) +
           2 * infer__block_bytes((uint64_t)p->n_seq * sizeof(void *)) +
           2 * infer__block_bytes(batch * sizeof(int32_t)) + 2 * infer__block_bytes(batch * sizeof(void *)) +
           infer__block_bytes((batch << (m->hp.n_deepstack > 0)) * sizeof(void *)) +
           infer__block_bytes(batch * sizeof(infer__adapted)) +
           infer__block_bytes((batch * (uint64_t)infer__looks(m) + 1) * sizeof(int32_t)) +
           infer__cache_host_bytes(p, m) + infer__block_bytes(p->rest_bytes = infer__rest_bytes(p, m)) +
           infer__block_bytes(p->parts_bytes = infer__parts_bytes(p, m));
    if (infer__head_place(m) == INFER__ON_CPU) {
        p->top_rows = 0;
        p->top_bytes = 0;
    }
    for (i = INFER__ON_DEVICE; i < INFER__PLACES; i++) {
        if (!infer__place_used(m, i)) continue;
        p->scratch_bytes[i] = p->device_bytes + (i == infer__head_place(m) ? p->top_bytes : 0);
        host += p->device_host_bytes;
        n_devices++;
    }
    p->hop_bytes = n_devices > 1 ? p->x_bytes + batch * (uint64_t)p->carried * sizeof(float) : 0;
    if (infer__placed(m) > m->hp.n_layer) /* rows that blocks give, and those that they read: further.c */
        p->hop_bytes =
            INFER__MAX(p->hop_bytes, INFER__MAX(2 * p->x_bytes, (uint64_t)m->hp.n_vocab * sizeof(float)));
    if (infer__place_used(m, INFER__ON_CPU)) {
        infer__plan_turns(p, m);
        infer__cpu_ops.sizes(&p->needs, &here, &beside);
        host += 3 * infer__block_bytes(p->x_bytes) + infer__block_bytes(p->work_bytes) + here + beside;
    }
    p->scratch_bytes[INFER__ON_CPU] = host + infer__block_bytes(p->hop_bytes);
}

static infer_result infer__plan_make(infer__plan *p, const infer_model *m, const infer_context_params *params,
                                     int32_t default_sessions, infer_error *err) {
    infer_context_params in;
    infer_result r;
    memset(&in, 0, sizeof in);
    if (params) in = *params;
    if (m->why_code) return infer__error(err, m->why_code, "%s", m->why_not);
    if ((r = infer__plan_check(&in, "context_params", err)) != INFER_OK) return r;
    if (m->params.parallel && (in.n_processors > 0 || in.low_priority))
        return infer__error(err, INFER_ERR_ARGUMENT,
                            "context_params: model_params.parallel is given, so the threads are the host's to place");
    infer__plan_sizes(p, m, &in, default_sessions);
    if (!(INFER__CACHES >> p->kv_type & 1))
        return infer__error(err, INFER_ERR_UNSUPPORTED,
                            "context_params.kv_type %d was left out of this build (INFER_ONLY_CACHES)",
                            (int)p->kv_type);
    infer__plan_threads(p, m, &in);
    p->needs.threads = p->threads;
    if (!infer__plan_cache(p, m))
        return infer__error(err, INFER_ERR_MEMORY, "a cache of %d cells is too large", (int)p->cells);
    infer__plan_places(p, m);
    return INFER_OK;
}

/* Systems that overcommit kill the process when the memory is used, so check before. Not with the caller's allocator,
 * whose memory may come from anywhere. */
static infer_result infer__plan_fits(const infer__plan *p, const infer_model *m, infer_error *err) {
#if defined(INFER_NO_MALLOC)
    (void)p, (void)m, (void)err;
#else
    uint64_t need = p->cache_bytes[INFER__ON_CPU] + p->scratch_bytes[INFER__ON_CPU], total, available, swap;
    infer__machine_memory(&total, &available, &swap);
    if (total && need > total + swap && !m->params.allocator.alloc)
        return infer__error(err, INFER_ERR_MEMORY,
                            "no memory for a context of %d cells and a batch of %d: it needs %llu bytes of the host's, "
                            "which has %llu",
                            (int)p->cells, (int)p->batch, (unsigned long long)need, (unsigned long long)(total + swap));
    if (available && need > available)
        infer__log(&m->report, 2,
                   "a context of %d cells and a batch of %d need %llu bytes of the host's memory, of which %llu are "
                   "free",
                   (int)p->cells, (int)p->batch, (unsigned long long)need, (unsigned long long)available);
#endif
    return INFER_OK;
}

/* Small allocations of a context's devices in host memory. On the CPU everything is counted. */
enum { INFER__PLAN_SLACK = 48 * 1024 };

static void infer__plan_memory(const infer__plan *p, const infer_model *m, infer_memory *out) {
    const int mapped = m->gguf.sources[0].io.mapped != NULL;
    int32_t i, l;
    memset(out, 0, sizeof *out);
    /* of a mapped file every page counts, its metadata too */
    out->weights = mapped ? m->gguf.file_bytes : m->gguf.tensor_bytes - m->dropped_bytes;
    if (infer__ranged(m)) out->weights = m->range_bytes - (mapped ? 0 : m->dropped_bytes);
    out->cache = p->cache_bytes[INFER__ON_CPU];
    out->scratch = p->scratch_bytes[INFER__ON_CPU] + m->own_bytes;
    if (!infer__follows(m)) out->scratch += infer__session_bytes(p, m);
    if (m->n_devices) out->scratch += INFER__PLAN_SLACK;
    out->peak = INFER__MAX(m->open_peak, out->cache + out->scratch + (mapped ? 0 : out->weights));
    out->layers = infer__end(m) - infer__first(m);
    for (i = 0; INFER__HAS_GPU && i < m->n_devices; i++) {
        const infer__device *from = &m->devices[i];
        infer_device_memory *to = &out->devices[out->n_devices];
        if (!from->n_layers) continue;
        out->n_devices++;
        to->device = from->row + 1;
        for (l = infer__first(m); l < infer__end(m); l++) to->layers += m->layers[l].place == INFER__ON_DEVICE + i;
        to->weights = from->bytes;
        to->cache = p->cache_bytes[INFER__ON_DEVICE + i];
        to->scratch = p->scratch_bytes[INFER__ON_DEVICE + i];
        to->free = from->memory;
        out->device += to->weights + to->cache + to->scratch;
    }
}
