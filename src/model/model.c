/* model.c: from a parsed file to a model that computes, or to the reason why it cannot.
 *
 * A file of any architecture opens; only sessions need what is built here. So an error in hyper-parameters or shapes is
 * stored as a message (why_not) and does not fail the opening: metadata, tensors and text still work.
 */
#include "model.h"

/* Number of parameters, the storage type of most of them, names as C strings. */
static infer_result infer__model_facts(infer_model *m, infer_error *err) {
    uint64_t best = 0, sum;
    int32_t i, j;
    infer__str s = { "", 0 };
    const struct { const char *key; char **out; } names[] = { { "general.architecture", &m->arch_name },
                                                              { "general.name", &m->name } };
    m->quant = "";
    for (i = 0; i < m->gguf.n_tensors; i++) m->n_params += m->gguf.tensors[i].rows * m->gguf.tensors[i].dims[0];
    for (i = 0; infer__quant_row(i); i++) {
        for (sum = 0, j = 0; j < m->gguf.n_tensors; j++)
            if (m->gguf.tensors[j].type == infer__quant_row(i))
                sum += m->gguf.tensors[j].rows * m->gguf.tensors[j].dims[0];
        if (sum > best) {
            best = sum;
            m->quant = infer__quant_row(i)->name;
        }
    }
    for (i = 0; i < (int32_t)INFER__COUNT(names); i++) {
        if (infer__gguf_str(&m->gguf, names[i].key, &s, NULL) <= 0) { s.s = ""; s.n = 0; }
        *names[i].out = infer__arena_text(&m->arena, s.s, (size_t)s.n);
        if (!*names[i].out) return infer__error(err, INFER_ERR_MEMORY, "no memory for %s", names[i].key);
    }
    return INFER_OK;
}

/* The architecture's row, or an error that says how to list the supported ones. */
static infer_result infer__model_arch(infer_model *m, infer_error *err) {
    infer__str s = { "", 0 };
    int32_t n = 0;
    int r = infer__gguf_str(&m->gguf, "general.architecture", &s, err);
    if (r < 0) return (infer_result)r;
    if (r == 0) return infer__error(err, INFER_ERR_FORMAT, "missing key general.architecture");
    m->arch = infer__arch_find(s);
    if (m->arch) return INFER_OK;
    while (infer__arch_row(n)) n++;
    return infer__error(err, INFER_ERR_UNSUPPORTED,
                        "architecture \"%.*s\" is not supported" INFER__OR_ARCHS "; infer_arch_name (infer info "
                        "--archs) names the %d that are",
                        (int)INFER__MIN(s.n, 40), s.s, (int)n);
}

/* Bytes that the model holds besides weights, whether those are mapped or in memory. */
static void infer__model_count(infer_model *m) {
    int32_t i;
    m->open_peak = (uint64_t)infer__atomic_get(&m->mem.peak);
    m->own_bytes = (uint64_t)infer__atomic_get(&m->mem.held);
    for (i = 0; i < m->gguf.n_tensors; i++)
        if (m->gguf.tensors[i].owned) m->own_bytes -= infer__gguf_needed(&m->gguf.tensors[i]);
}

/* Everything except the weights' bytes: hyper-parameters, layers, devices. */
static infer_result infer__model_read(infer_model *m, infer__building *x, infer_error *why) {
    infer_result r = m->stack.kind ? infer__stack_find(m, why) : infer__model_arch(m, why);
    if (!r && m->params.vocab_only) r = infer__error(why, INFER_ERR_STATE, "the model was opened with vocab_only");
    if (!r) r = infer__check_type(m, why);
    if (!r) r = infer__hparams_read(m, why);
    if (m->hp.encoder) m->cpu |= INFER__CPU_ENCODES;
    if (!r) r = infer__keys_check(m, why);
    infer__gguf_asked_end(&m->gguf);
    if (!r) r = x->device = infer__range_check(m, why); /* layers that were asked for must be there */
    if (!r) r = infer__weights_bind(m, why);
    if (!r) r = m->stack.row ? infer__stack_needs(m, why) : infer__needs_check(m, why);
    if (!r && !m->stack.row) r = infer__pool_check(m, why);
    if (!r && infer__ranged(m)) r = infer__range_drop(m, why);
    if (!r) r = x->device = infer__place_choose(m, why); /* a device that was asked for must work */
    return r;
}

enum { /* infer__building.stage */
    INFER__BUILD_READ, INFER__BUILD_LOAD, INFER__BUILD_ROPES, INFER__BUILD_SEND, INFER__BUILD_SAMPLE,
    INFER__BUILD_PRELOAD, INFER__BUILD_DONE
};

/* Run the next stage; an error is stored and ends it. */
static infer_result infer__model_stage(infer_model *m, infer__building *x, infer__budget *budget) {
    infer_result r = INFER_OK;
    switch (x->stage) {
    case INFER__BUILD_READ: r = infer__model_read(m, x, &x->why); break;
    case INFER__BUILD_LOAD: r = infer__weights_load(m, &x->load, budget, &x->why); break; /* sizes_only: no bytes */
    case INFER__BUILD_ROPES: r = m->sizes_only ? INFER_OK : infer__rope_build(m, &x->why); break;
    case INFER__BUILD_SEND:
        r = infer__place_upload(m, &x->upload, budget, &x->why);
        if (r != INFER_MORE) x->device = r;
        break;
    case INFER__BUILD_SAMPLE: r = m->sizes_only ? INFER_OK : infer__weights_sample(m, &x->why); break;
    default:
        if (m->sizes_only || !m->params.preload) break;
        r = infer__preload_some(m, &x->load, budget, &x->why);
        if (r != INFER_MORE) x->device = r;
    }
    if (r == INFER_MORE) return r;
    memset(&x->load, 0, sizeof x->load);
    x->r = r;
    x->stage = r ? INFER__BUILD_DONE : x->stage + 1;
    return INFER_OK;
}

static infer_result infer__model_build(infer_model *m, infer__building *x, infer__budget *budget, infer_error *err) {
    infer_result r;
    if (x->stage == INFER__BUILD_READ) {
        r = infer__model_facts(m, err);
        if (r) return r;
        m->cpu = infer__cpu_mask(m->params.cpu_level);
        infer__error_clear(&x->why);
    }
    while (x->stage < INFER__BUILD_DONE) {
        if (infer__model_stage(m, x, budget) == INFER_MORE) return INFER_MORE;
        if (infer__budget_over(budget, (uint64_t)m->gguf.n_tensors) && x->stage < INFER__BUILD_DONE) return INFER_MORE;
    }
    r = x->r;
    if (!r) r = infer__load_progress(m, infer__load_steps(m), &x->why);
    infer__model_count(m);
    m->why_code = r;
    memcpy(m->why_not, x->why.message, sizeof m->why_not);
    if (r) infer__log(&m->report, 3, "sessions cannot be created: %s", m->why_not);
    if (x->device || r == INFER_ERR_MEMORY || r == INFER_ERR_IO || r == INFER_CANCELLED)
        return infer__error(err, r, "%s", x->why.message);
    return INFER_OK;
}
