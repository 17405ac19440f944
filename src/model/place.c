/* place.c: which layers run on which device.
 *
 * Owns:  the use of model_params.backend, device, devices, shares, gpu_layers and fit; what a layer needs on a device.
 * Rules: the first layers go to GPUs, in order, as many as requested or as fit; the embedding with layer 0, the head
 *        with the last. One GPU if that is enough: each further one costs a copy of the residual stream through the
 *        host's memory. A request that cannot be met is an error that names the tensor; "as many as fit" stops there
 *        and says so in the log. INFER_AUTO never fails because of a GPU: it tries the next API. A GPU is used only
 *        after its kernels were compared with the CPU, unless the caller disables that.
 * Start: infer__place_choose, infer__place_fit, infer__place_cut.
 */
#include "model.h"

enum {
    INFER__DEVICE_ALIGN = 256, /* of a tensor in its buffer: more than any block or API needs */
    INFER__FIT_SPARE = 512 << 20 /* bytes left alone, see infer__place_usable */
};

static int infer__place_used(const infer_model *m, int32_t place) {
    if (!INFER__HAS_GPU) return 1;
    if (place == INFER__ON_CPU) return infer__placed(m) < infer__n_all(&m->hp);
    return m->devices[place - INFER__ON_DEVICE].n_layers > 0;
}

/* ---- what goes together ------------------------------------------------------------------------------------------ */

typedef struct infer__place_item { infer__weight *w; int32_t vector; } infer__place_item;

static int32_t infer__place_add(infer__place_item *items, int32_t n, infer__weight *w, const infer__tensor_slot *s) {
    if (!w->type) return n;
    items[n].w = w;
    items[n].vector = s->rows == INFER__D_ONE && w->rows == 1; /* taps derived from a vector are a matrix */
    return n + 1;
}

/* The weights of a layer; returns how many. A tensor that was split into Q, K, V is not listed. */
static int32_t infer__place_layer(infer_model *m, int32_t layer, infer__place_item *items) {
    infer__layer *l = &m->layers[layer];
    int32_t i, n = 0, cut = l->w[INFER__W_ATTN_Q].type != NULL;
    if (m->hp.ngrams.size && m->hp.ngrams.layer == layer)
        n = infer__place_add(items, n, &m->w[INFER__W_PER_LAYER_EMBD],
                             &INFER__MODEL_SLOT_TABLE[INFER__W_PER_LAYER_EMBD]);
    for (i = 0; i < INFER__LAYER_SLOT_COUNT; i++)
        if (!cut || (i != INFER__W_ATTN_QKV && i != INFER__W_ATTN_QKV_B))
            n = infer__place_add(items, n, &l->w[i], &INFER__LAYER_SLOT_TABLE[i]);
    return n;
}

/* The weights on the device of layer 0 (head 0) or of the last layer (head 1). */
static int32_t infer__place_end(infer_model *m, int head, infer__place_item *items) {
    static const int8_t slots[] = {
        INFER__W_TOKEN_EMBD, INFER__W_POS_EMBD, INFER__W_TOKEN_TYPES, INFER__W_EMBD_NORM, INFER__W_EMBD_NORM_B,
        INFER__W_PER_LAYER_EMBD, /* but that of n-grams: see above */
        INFER__W_PER_LAYER_PROJ, INFER__W_PER_LAYER_NORM, INFER__W_ALTUP_PROJ,
        INFER__W_LOW_INIT,
        INFER__W_OUTPUT, INFER__W_OUTPUT_B, INFER__W_OUT_NORM, INFER__W_OUT_NORM_B, INFER__W_ALTUP_UNEMBD,
        INFER__W_OUT_RES_SCORE, INFER__W_OUT_HYPER, INFER__W_OUT_HYPER + 1, INFER__W_OUT_HYPER + 2,
        INFER__W_OUT_HYPER_NORM, INFER__W_OUT_HYPER_NORM + 1, INFER__W_OUT_HYPER_NORM + 2 };
    enum { FRONT = 10 };
    int32_t i = head ? FRONT : 0, end = head ? (int32_t)INFER__COUNT(slots) : FRONT, n = 0;
    for (; i < end; i++)
        if (slots[i] != INFER__W_PER_LAYER_EMBD || !m->hp.ngrams.size)
            n = infer__place_add(items, n, &m->w[slots[i]], &INFER__MODEL_SLOT_TABLE[slots[i]]);
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

/* Number of layers from i on that must be on one device: those that share keys and values, else one. */
static int32_t infer__place_unit(const infer_model *m, int32_t i) {
    return m->layers[i].kv_read ? m->hp.n_layer - i : 1;
}

/* The largest number of layers up to n that does not split such a unit. */
static int32_t infer__place_whole(const infer_model *m, int32_t n) {
    int32_t i = 0;
    while (i < n && i + infer__place_unit(m, i) <= n) i += infer__place_unit(m, i);
    return i;
}

/* ---- what fits ------------------------------------------------------------------------------------------------ */

/* Why no further layers can go to GPUs: found 0 = no reason; 1 = `text` says it: an op without kernels, or (apart) a
 * request that splits layers which must stay together. */
typedef struct infer__obstacle { int found, apart; char text[160]; } infer__obstacle;

/* The first matrix of a type without GPU kernels. */
static void infer__place_types(const infer__place_item *items, int32_t n, infer__obstacle *o) {
    infer__matmul_args mm;
    int32_t i;
    memset(&mm, 0, sizeof mm);
    mm.n_w = 1;
    for (i = 0; i < n && !o->found; i++) {
        mm.w[0] = items[i].w;
        if (items[i].vector || infer__gpu_ops.supports(INFER__OP_MATMUL, &mm)) continue;
        o->found = 1;
        infer__format(o->text, sizeof o->text, "tensor %s: there are no GPU kernels for type %s yet", items[i].w->name,
                      items[i].w->type->name);
    }
}

/* The first sublayer that needs an op without kernels. */
static void infer__place_ops(const infer__layer *l, infer__obstacle *o) {
    int32_t i;
    for (i = 0; i < l->n_parts && !o->found; i++) {
        const infer__sublayer_kind *kind = l->parts[i].kind;
        const char *what = kind->lacks ? kind->lacks(&infer__gpu_ops, l) : NULL;
        if (!what) continue;
        o->found = 1;
        infer__format(o->text, sizeof o->text, "layer %d: there are no GPU kernels for its %s yet", (int)l->index,
                      what);
    }
}

/* Can the blocks that predict follow the layers to a device? Of the weights of the embedding they read the tokens'
 * alone, where the first layer is. */
static int infer__place_follows(infer_model *m) {
    infer__place_item items[INFER__LAYER_SLOT_COUNT];
    infer__obstacle o;
    int32_t i;
    if (m->w[INFER__W_POS_EMBD].type || m->w[INFER__W_TOKEN_TYPES].type) return 0;
    for (i = m->hp.n_layer, o.found = 0; i < infer__n_all(&m->hp) && !o.found; i++) {
        infer__place_types(items, infer__place_layer(m, i, items), &o);
        infer__place_ops(&m->layers[i], &o);
    }
    return !o.found && i > m->hp.n_layer;
}

/* Set *n to at most `want` layers, limited by missing kernels and by units that must stay together; *o is the
 * reason. */
static void infer__place_limit(infer_model *m, int32_t want, int32_t *n, infer__obstacle *o) {
    infer__place_item items[INFER__LAYER_SLOT_COUNT];
    int32_t i;
    *n = o->found = o->apart = 0;
    if (want > 0) infer__place_types(items, infer__place_end(m, 0, items), o);
    for (i = 0; i < want && !o->found; i++) {
        infer__place_types(items, infer__place_layer(m, i, items), o);
        if (infer__here(m, i)) infer__place_ops(&m->layers[i], o);
        if (i == m->hp.n_layer - 1) infer__place_types(items, infer__place_end(m, 1, items), o);
        if (!o->found) *n = i + 1;
    }
    i = infer__place_whole(m, *n);
    if (i < *n && !o->found) {
        o->found = o->apart = 1;
        infer__format(o->text, sizeof o->text, "layers %d to %d share keys and values and must run on one device",
        (int)i,
                      (int)m->hp.n_layer - 1);
    }
    *n = i;
}

/* 1 when the head's matrix is the embedding. */
static int infer__place_tied(const infer_model *m) {
    if (infer__encoder(&m->hp) || infer__first(m)) return 0;
    return !m->w[INFER__W_OUTPUT].type || m->w[INFER__W_OUTPUT].name == m->w[INFER__W_TOKEN_EMBD].name;
}

#define INFER__PLACE_NEVER (UINT64_MAX / 8) /* bytes: more than any memory, and a few of them do not overflow */

/* Bytes of the items; more than there are when one of them is larger than any buffer of the device. */
static uint64_t infer__place_try(const infer__place_item *items, int32_t n, uint64_t largest) {
    int32_t i;
    for (i = 0; i < n; i++)
        if (infer__place_bytes(&items[i]) > largest) return INFER__PLACE_NEVER;
    return infer__place_sum(items, n, 0);
}

/* A layer's weights, plus those that it needs as well when a device's layers begin with `first`. */
static uint64_t infer__place_weights(infer_model *m, int32_t layer, int32_t first, uint64_t largest) {
    infer__place_item items[INFER__LAYER_SLOT_COUNT];
    uint64_t sum;
    int32_t n, tied, own;
    sum = infer__place_try(items, infer__place_layer(m, layer, items), largest);
    if (layer == 0) sum += infer__place_try(items, infer__place_end(m, 0, items), largest);
    if (layer != m->hp.n_layer - 1) return sum;
    n = infer__place_end(m, 1, items);
    tied = infer__place_tied(m);
    own = n > 0 && tied && items[0].w == &m->w[INFER__W_OUTPUT]; /* listed once it has been loaded; counted below */
    sum += infer__place_try(items + own, n - own, largest);
    if (tied && first > 0) { /* a device without the embedding needs a copy of it */
        items[0].w = &m->w[INFER__W_TOKEN_EMBD];
        items[0].vector = 0;
        sum += infer__place_try(items, 1, largest);
    }
    return sum;
}

/* The same plus this layer's part of the context (params.fit): its cache, and the results of the head. With the last
 * layer those of the blocks that predict. */
static uint64_t infer__place_cost(infer_model *m, int32_t layer, int32_t first, uint64_t largest) {
    const int last = layer == m->hp.n_layer - 1;
    uint64_t cache, sum = infer__place_weights(m, layer, first, largest) + (last ? m->fit.top_bytes : 0);
    if (!infer__plan_layer_cache(&m->fit, m, layer, &cache) || cache > INFER__PLACE_NEVER)
        cache = INFER__PLACE_NEVER;
    if (last && infer__place_follows(m))
        for (; layer + 1 < infer__n_all(&m->hp) && sum < INFER__PLACE_NEVER; layer++)
            sum += infer__place_cost(m, layer + 1, first, largest);
    return sum + cache;
}

/* Of the layers that run with it. */
static uint64_t infer__place_unit_cost(infer_model *m, int32_t layer, int32_t first, uint64_t largest) {
    uint64_t sum = 0;
    int32_t i;
    for (i = 0; i < infer__place_unit(m, layer); i++)
        sum = INFER__MIN(sum + infer__place_cost(m, layer + i, first, largest), INFER__PLACE_NEVER);
    return sum;
}

/* Usable share of the free bytes: at most a 16th is reserved for programs, recordings and other processes. */
static uint64_t infer__place_usable(uint64_t memory) { return memory - INFER__MIN(memory / 16, INFER__FIT_SPARE); }

/* How many of the layers [first, n) fit into the memory of device d. */
static int32_t infer__place_room(infer_model *m, int32_t d, int32_t first, int32_t n) {
    const infer__device *to = &m->devices[d];
    uint64_t memory = infer__place_usable(to->memory), largest = infer__gpu_largest(to->gpu);
    uint64_t used = m->fit.device_bytes, next;
    int32_t i = first, unit;
    for (; i < n; i += unit, used += next) {
        unit = infer__place_unit(m, i);
        if (unit > to->most - (i - first)) break;
        next = infer__place_unit_cost(m, i, first, largest);
        if (used > memory || next > memory - used) break;
    }
    return i - first;
}

/* ---- splitting ------------------------------------------------------------------------------------------------ */

/* 1 when the caller says how to split. */
static int infer__place_shared(const infer_model *m) {
    int32_t d;
    for (d = 0; d < m->n_devices && m->params.devices[0]; d++)
        if (m->params.shares[d] > 0) return 1;
    return 0;
}

/* The share of device d: of layers, or of their bytes. */
static double infer__place_share(const infer_model *m, int32_t d, int shared) {
    return shared ? (double)m->params.shares[d] : (double)m->devices[d].memory + 1;
}

/* Distribute the first n layers, a whole number of units, over all devices by shares or by free memory. */
static void infer__place_cut(infer_model *m, int32_t n) {
    double total = 0, all = 0, target = 0, done = 0, cost;
    int shared = infer__place_shared(m);
    int32_t d, i, last = 0, first = 0;
    for (d = 0; d < m->n_devices; d++) {
        all += infer__place_share(m, d, shared);
        if (infer__place_share(m, d, shared) > 0) last = d; /* takes the rest after rounding */
    }
    for (i = 0; i < n; i++) total += shared ? infer__here(m, i) : (double)infer__place_cost(m, i, 0, UINT64_MAX);
    for (d = 0, i = 0; d < m->n_devices; first = i, d++) {
        target += total * infer__place_share(m, d, shared) / all;
        for (; i < n && d <= last; i += infer__place_unit(m, i)) {
            cost = !shared             ? (double)infer__place_unit_cost(m, i, 0, UINT64_MAX)
                   : infer__here(m, i) ? infer__place_unit(m, i)
                                       : 0;
            if (d < last && done + cost / 2 > target) break; /* more than half of it would be too much */
            done += cost;
        }
        m->devices[d].n_layers = i - first;
    }
}

/* 1 when every device has room for the layers that it was given. */
static int infer__place_holds(infer_model *m) {
    int32_t d, first = 0;
    for (d = 0; d < m->n_devices; first += m->devices[d++].n_layers)
        if (m->devices[d].n_layers > infer__place_room(m, d, first, first + m->devices[d].n_layers)) return 0;
    return 1;
}

/* Give the devices as many of the first n layers as fit; returns how many. */
static int32_t infer__place_fit(infer_model *m, int32_t n) {
    int32_t d, k, first = 0;
    for (k = n; k > 0; k = infer__place_whole(m, k - 1)) {
        infer__place_cut(m, k);
        if (infer__place_holds(m)) return k;
        if (!infer__place_shared(m)) break;
    }
    for (d = 0; d < m->n_devices; first += m->devices[d++].n_layers) /* one after the other, each until it is full */
        m->devices[d].n_layers = infer__place_shared(m) ? 0 : infer__place_room(m, d, first, n);
    return first;
}

/* Assign layers to devices by the devices' counts. */
static void infer__place_assign(infer_model *m) {
    int32_t d, k, i = 0;
    for (d = 0; d < m->n_devices; d++)
        for (k = 0; k < m->devices[d].n_layers; k++) m->layers[i++].place = INFER__ON_DEVICE + d;
    m->device_layers = i;
    d = i > 0 && i == m->hp.n_layer && infer__place_follows(m) ? m->layers[i - 1].place : INFER__ON_CPU;
    for (; i < infer__n_all(&m->hp); i++) m->layers[i].place = i < m->hp.n_layer ? INFER__ON_CPU : d;
}

/* ---- choosing ---------------------------------------------------------------------------------------------------- */

static const char *infer__place_name(const infer_model *m, int32_t d) {
    return infer__gpu_name(m->devices[d].gpu);
}

static void infer__place_uses_shape(infer__gpu_uses *u, const infer__gpu_heads *h) {
    int32_t i;
    for (i = 0; i < u->n_heads; i++)
        if (memcmp(&u->heads[i], h, sizeof *h) == 0) return;
    if (u->n_heads < INFER__PROBE_SHAPES) u->heads[u->n_heads++] = *h;
}

/* The shape of a layer's attention, or of its cross attention. */
static void infer__place_uses_heads(const infer_model *m, const infer__layer *l, int source, infer__gpu_uses *u) {
    infer__gpu_heads h;
    memset(&h, 0, sizeof h);
    h.n_head_kv = INFER__MIN(l->n_head_kv, INFER__MAX(l->dim_k, l->dim_v) > 128 ? 1 : 2);
    h.n_head = h.n_head_kv * INFER__MIN(l->n_head / l->n_head_kv, 9); /* a group takes 8 at once */
    h.dim_k = l->dim_k;
    h.dim_v = l->dim_v;
    h.window = l->chunk > 0 ? 2 : l->window > 0;
    h.sinks = l->w[INFER__W_ATTN_SINKS].type != NULL;
    h.shared = infer__layer_part(l, INFER__SUBLAYER_LATENT) != NULL;
    h.rope = h.shared ? INFER__ROPE_NONE : l->rope_kind; /* latent rows are stored after rotation */
    h.scale = l->attn_scale;
    h.softcap = l->attn_softcap;
    h.max_bias = l->max_bias;
    h.temp_scale = l->temp_scale;
    h.sees = source ? INFER__SEES_SOURCE
                    : (l->not_causal ? INFER__SEES_AROUND : 0) | (l->w[INFER__W_ATTN_NEAR].type ? INFER__SEES_NEAR : 0);
    infer__place_uses_shape(u, &h);
    if (!m->params.projector || h.sees & (INFER__SEES_SOURCE | INFER__SEES_AROUND)) return;
    h.sees |= INFER__SEES_LATER; /* with pictures */
    infer__place_uses_shape(u, &h);
}

static void infer__place_uses_types(infer__gpu_uses *u, const infer__place_item *items, int32_t n, uint8_t use) {
    int32_t i;
    for (i = 0; i < n; i++)
        if (!items[i].vector) u->types[infer__quant_index(items[i].w->type)] |= use;
}

/* 1 when the slot has one matrix per expert. */
static int infer__place_experts(int32_t slot) {
    return (slot >= INFER__W_MOE_GATE && slot <= INFER__W_MOE_DOWN) ||
           (slot >= INFER__W_GROUP_GATE && slot <= INFER__W_GROUP_DOWN) ||
           (slot >= INFER__W_SWITCH_Q_A && slot <= INFER__W_SWITCH_OUT_B) ||
           (slot >= INFER__W_SWITCH_GATE_A && slot <= INFER__W_SWITCH_DOWN_B);
}

/* Which kernels the first n layers use, with the embedding and, when they are all, the head. */
static void infer__place_uses(infer_model *m, int32_t n, infer__gpu_uses *u) {
    infer__place_item items[INFER__LAYER_SLOT_COUNT];
    int32_t i, k, count, latent;
    const int32_t end = n == m->hp.n_layer && infer__place_follows(m) ? infer__n_all(&m->hp) : n;
    memset(u, 0, sizeof *u);
    for (i = 0; i < end; i++) {
        infer__layer *l = &m->layers[i];
        if (!infer__here(m, i)) continue;
        count = infer__place_layer(m, i, items);
        for (k = 0; k < count; k++) {
            const int table = items[k].w == &m->w[INFER__W_PER_LAYER_EMBD] || items[k].w == &l->w[INFER__W_NEXTN_EMBD];
            const int chosen = !table && infer__place_experts((int32_t)(items[k].w - l->w));
            infer__place_uses_types(u, &items[k], 1, table    ? INFER__USE_TABLE
                                                     : chosen ? INFER__USE_EXPERTS
                                                              : INFER__USE_MATRIX);
        }
        u->acts |= 1u << l->act;
        if (l->act == INFER__ACT_SITU) u->acts |= 1u << INFER__ACT_SIGMOID | 1u << INFER__ACT_LINEAR;
        if (l->w[INFER__W_ATTN_GATE].type) u->acts |= 1u << l->gate;
        if (l->w[INFER__W_SHARED_SCORE].type) u->acts |= 1u << INFER__ACT_SIGMOID;
        u->ropes |= 1u << l->rope_kind;
        if (l->act_sparse || m->hp.n_streams > 1 || m->hp.n_hyper || m->hp.res_every) u->cells |= INFER__USE_STREAMS;
        if (l->conv_taps || m->hp.ngrams.size) u->cells |= INFER__USE_CONV;
        if (l->wkv.heads) u->cells |= INFER__USE_WKV | INFER__USE_CONV;
        if (infer__layer_part(l, INFER__SUBLAYER_DELTA)) u->cells |= INFER__USE_DELTA;
        else if (l->ssm.kda || infer__layer_part(l, INFER__SUBLAYER_LIGHTNING)) u->cells |= INFER__USE_KEYS;
        else if (l->ssm.inner) u->cells |= INFER__USE_SSM;
        if (l->ssm.inner) u->acts |= 1u << INFER__ACT_SILU;
        if (infer__layer_part(l, INFER__SUBLAYER_CYCLES)) u->acts |= 1u << INFER__ACT_LINEAR;
        if (l->index_of.heads || l->compress.every) u->cells |= INFER__USE_LISTS;
        latent = infer__layer_part(l, INFER__SUBLAYER_LATENT) != NULL || l->compress.groups;
        if (latent) u->acts |= 1u << INFER__ACT_LINEAR;
        if (latent || infer__layer_part(l, INFER__SUBLAYER_ATTENTION)) infer__place_uses_heads(m, l, 0, u);
        if (infer__layer_part(l, INFER__SUBLAYER_CROSS)) infer__place_uses_heads(m, l, 1, u);
    }
    infer__place_uses_types(u, items, infer__place_end(m, 0, items), INFER__USE_TABLE);
    count =
        infer__place_add(items, 0, &m->w[INFER__W_PER_LAYER_PROJ], &INFER__MODEL_SLOT_TABLE[INFER__W_PER_LAYER_PROJ]);
    count = infer__place_add(items, count, &m->w[INFER__W_ALTUP_PROJ], &INFER__MODEL_SLOT_TABLE[INFER__W_ALTUP_PROJ]);
    infer__place_uses_types(u, items, count, INFER__USE_MATRIX);
    if (n == m->hp.n_layer) {
        infer__place_uses_types(u, items, infer__place_end(m, 1, items), INFER__USE_MATRIX);
        if (infer__place_tied(m)) infer__place_uses_types(u, items, infer__place_end(m, 0, items), INFER__USE_MATRIX);
    }
    u->kv_types = 1u << m->fit.kv_type;
    u->exact = m->params.exact ? 2 : 1;
    u->norms = 1u << m->hp.norm;
    if (m->hp.stack) u->norms |= 1u << INFER__NORM_LAYER; /* of the low state's initial value */
    u->n_expert = m->hp.switches.n ? m->hp.switches.n + 1 : m->hp.n_expert;
    u->n_used = m->hp.switches.n ? 1 : m->hp.n_used;
}

/* The number of first layers that are requested. Those that the model does not have come along, at no cost. */
static int32_t infer__place_want(const infer_model *m) {
    const int32_t asked = m->params.gpu_layers;
    return asked > 0 && asked < infer__end(m) - infer__first(m) ? infer__first(m) + asked : m->hp.n_layer;
}

/* Kernels used by the requested layers; 0 when there are no such layers, which is reported elsewhere. */
static int infer__place_asked(infer_model *m, infer__gpu_uses *u) {
    int32_t n;
    infer__obstacle bad;
    if (m->params.gpu_layers < 0) return 0;
    infer__place_limit(m, infer__place_want(m), &n, &bad);
    if (n > 0) infer__place_uses(m, n, u);
    return n > 0;
}

/* A device is accepted when the kernels that its layers will use give the CPU's results. */
static infer_result infer__place_check(infer_model *m, infer__gpu *gpu, int32_t row, infer_error *err) {
    int32_t d;
    infer__gpu_uses uses;
    for (d = 0; d < m->n_devices; d++)
        if (m->devices[d].row == row) return INFER_OK; /* the same one again */
    if (m->params.gpu_unchecked || !infer__place_asked(m, &uses)) return INFER_OK;
    return infer__gpu_judge(gpu, &uses, &m->mem, m->sizes_only, err);
}

/* Compile the kernels that a device will run in parallel: in turn, uncached, they take seconds. */
static infer_result infer__place_compile(infer_model *m, infer__gpu *gpu, infer_error *err) {
    infer__gpu_uses uses;
    if (infer__place_asked(m, &uses)) infer__gpu_use_all(gpu, &uses);
    return infer__gpu_use_base(gpu, err);
}

/* One more device. */
static infer_result infer__place_open(infer_model *m, int32_t row, infer_error *err) {
    infer__device *d = &m->devices[m->n_devices];
    infer_result r;
    if (!INFER__HAS_GPU) return infer__gpu_absent(INFER_AUTO, err);
    r = infer__gpu_open_row(m->apis, &d->gpu, &m->mem, &m->report, row, &m->params.cache, err);
    if (r) d->gpu = NULL;
    if (!r && !m->sizes_only) r = infer__place_compile(m, d->gpu, err);
    if (!r) r = infer__place_check(m, d->gpu, row, err);
    if (r) {
        infer__gpu_close(d->gpu);
        d->gpu = NULL;
        return r;
    }
    d->row = row;
    d->memory = infer__gpu_memory(d->gpu);
    d->most = INT32_MAX;
    m->n_devices++;
    return INFER_OK;
}

/* Choose layers for the open devices; open further ones (rows) when the layers do not fit. */
static infer_result infer__place_layers(infer_model *m, const int32_t *rows, int32_t n_rows, infer_error *err) {
    int32_t asked = m->params.gpu_layers, want = infer__place_want(m);
    int32_t n, fit, i;
    infer__obstacle bad;
    infer_error why;
    if (!INFER__HAS_GPU) return INFER_OK;
    infer__place_limit(m, want, &n, &bad);
    if (bad.found && (asked > 0 || n == 0))
        return infer__error(err, INFER_ERR_UNSUPPORTED, "%s; %s", bad.text,
                            bad.apart ? "ask for fewer gpu_layers, or for all"
                            : n       ? "ask for fewer gpu_layers"
                                      : "this model runs on the CPU only");
    if (bad.found)
        infer__log(&m->report, 2, "%s: %d of %d layers run on a device", bad.text, (int)n, (int)m->hp.n_layer);
    m->place_limit = n;
    fit = infer__place_fit(m, n);
    for (i = 0; i < n_rows && fit < n; i++) {
        infer__error_clear(&why);
        if (infer__place_open(m, rows[i], &why)) infer__log(&m->report, 2, "a device is left out: %s", why.message);
    }
    if (n_rows > 0 && m->n_devices > 1) fit = infer__place_fit(m, n);
    if (asked > 0 && fit < n) { /* the estimate leaves room for a large context: try it */
        infer__place_cut(m, n);
        fit = n;
    }
    if (fit == 0)
        return infer__error(err, INFER_ERR_MEMORY, "no layer fits into the %llu bytes of %s with a context of %d cells",
                            (unsigned long long)m->devices[0].memory, infer__place_name(m, 0), (int)m->fit.cells);
    if (fit < n)
        infer__log(&m->report, 2, "%d of %d layers fit into %s%s with a context of %d cells", (int)fit,
                   (int)m->hp.n_layer, infer__place_name(m, 0), m->n_devices > 1 ? " and the devices beside it" : "",
                   (int)m->fit.cells);
    infer__place_assign(m);
    return INFER_OK;
}

/* Devices of a list, all of them. */
static infer_result infer__place_list(infer_model *m, const int32_t *numbers, int32_t n, infer_error *err) {
    int32_t i, j, same, backend = m->params.backend;
    infer_device_info info;
    infer_result r = INFER_OK;
    for (i = 0; i < n && !r; i++) {
        if (!infer__gpu_info_in(m->apis, numbers[i] - 1, &info)) /* row 0 is number 1: the CPU is 0 */
            return infer__error(err, INFER_ERR_ARGUMENT, "there is no device %d", (int)numbers[i]);
        if (backend == INFER_AUTO) backend = info.backend;
        if (backend != info.backend)
            return infer__error(err, INFER_ERR_ARGUMENT, "device %d is not of the backend that was asked for: %s",
                                (int)numbers[i], info.name[0] ? info.name : info.why_not);
        r = infer__place_open(m, numbers[i] - 1, err);
    }
    for (i = 0; i < n && !r; i++) { /* one that comes twice has its memory once */
        for (j = same = 0; j < n; j++) same += numbers[j] == numbers[i];
        m->devices[i].memory /= (uint64_t)same;
    }
    return r;
}

/* A backend that was asked for. */
static infer_result infer__place_backend(infer_model *m, infer_error *err) {
    int32_t rows[INFER_MAX_DEVICES], n;
    char why_not[120];
    infer_result r;
    n = infer__gpu_rows(m->apis, m->params.backend, 0, rows, INFER_MAX_DEVICES, why_not, sizeof why_not);
    if (n == 0)
        return infer__error(err, INFER_ERR_DEVICE, "backend %s has no usable device: %s",
                            infer__backend_name(m->params.backend), why_not);
    r = infer__place_open(m, rows[0], err);
    return r || m->params.gpu_layers < 0 ? r : infer__place_layers(m, rows + 1, n - 1, err);
}

/* The first API with a GPU that works for this model; else the CPU. A line of the log for each. */
static infer_result infer__place_auto(infer_model *m, int takes_gpus) {
    int32_t rows[INFER_MAX_DEVICES], i, n, backend;
    infer_device_info info;
    infer_error why;
    char why_not[120];
    for (i = 0; takes_gpus && m->params.gpu_layers >= 0 && (backend = infer__gpu_api(m->apis, i)) >= 0; i++) {
        const char *name = infer__backend_name(backend);
        n = infer__gpu_rows(m->apis, backend, 0, rows, INFER_MAX_DEVICES, why_not, sizeof why_not);
        if (n == 0) {
            infer__log(&m->report, 3, "auto: not %s: %s", name, why_not);
            continue;
        }
        infer__gpu_info_in(m->apis, rows[0], &info);
        if (info.processor) {
            infer__log(&m->report, 3, "auto: not %s: %s is no GPU", name, info.name);
            continue;
        }
        infer__error_clear(&why);
        if (!infer__place_open(m, rows[0], &why) && !infer__place_layers(m, rows + 1, n - 1, &why)) {
            infer__log(&m->report, 3, "auto: %s, %s: %d of %d layers", name, infer__place_name(m, 0),
                       (int)m->device_layers, (int)m->hp.n_layer);
            m->automatic = 1;
            return INFER_OK;
        }
        infer__log(&m->report, 2, "auto: not %s: %s", name, why.message);
        infer__place_free(m);
    }
    infer__log(&m->report, 3, "auto: the CPU");
    if (m->params.gpu_layers > 0)
        infer__log(&m->report, 2, "gpu_layers is %d, but auto found no GPU: all layers run on the CPU",
                   (int)m->params.gpu_layers);
    return INFER_OK;
}

static infer_result infer__place_choose(infer_model *m, infer_error *err) {
    const infer_model_params *p = &m->params;
    const int32_t *numbers = p->devices[0] ? p->devices : &p->device;
    int32_t n = 0;
    infer_result r;
    infer__plan_sizes(&m->fit, m, &p->fit, INFER__SESSIONS_SHARED);
    while (n < (p->devices[0] ? INFER_MAX_DEVICES : 1) && numbers[n]) n++;
    if (n > 0) {
        r = infer__place_list(m, numbers, n, err);
        return r || p->gpu_layers < 0 ? r : infer__place_layers(m, NULL, 0, err);
    }
    if (p->backend == INFER_AUTO) return infer__place_auto(m, INFER__AUTO_TAKES_GPUS && m->parts == 1);
    return p->backend == INFER_CPU ? INFER_OK : infer__place_backend(m, err);
}

/* An allocation failed on device d after `held` of its layers: choose again with room for the caches. 0 when that is
 * not allowed or nothing is left. */
static int infer__place_fewer(infer_model *m, int32_t d, int32_t held) {
    if (m->params.gpu_layers > 0) return 0;
    held = held > 1 ? held - 1 : held;
    m->devices[d].most = INFER__MIN(held, m->devices[d].n_layers - 1);
    if (infer__place_fit(m, m->place_limit) == 0) return 0;
    infer__place_assign(m);
    return 1;
}

/* ---- freeing ----------------------------------------------------------------------------------------------------- */

static void infer__bufs_free(infer_model *m, infer__gpu *g, infer__bufs *bufs) {
    int32_t i;
    for (i = 0; i < bufs->n; i++) infer__gpu_free(g, &bufs->b[i]);
    infer__free(&m->mem, bufs->b);
    memset(bufs, 0, sizeof *bufs);
}

/* The device where a layer runs, NULL on the CPU. */
static infer__device *infer__place_of(infer_model *m, int32_t layer) {
    int32_t place = m->layers[layer].place;
    return place == INFER__ON_CPU ? NULL : &m->devices[place - INFER__ON_DEVICE];
}

/* Free the weights on the devices, which stay open. */
static void infer__place_drop(infer_model *m) {
    int32_t i, d;
    if (!INFER__HAS_GPU) return;
    for (i = 0; i < infer__placed(m); i++) infer__bufs_free(m, infer__place_of(m, i)->gpu, &m->layers[i].weights);
    if (m->device_layers > 0) {
        infer__bufs_free(m, infer__place_of(m, 0)->gpu, &m->device_front);
        infer__bufs_free(m, infer__place_of(m, m->device_layers - 1)->gpu, &m->device_head);
    }
    for (d = 0; d < m->n_devices; d++) {
        if (!m->devices[d].gpu) continue;
        for (i = 0; i < INFER__ROPE_SETS; i++) infer__gpu_free(m->devices[d].gpu, &m->ropes[i].device[d]);
        m->devices[d].bytes = 0;
    }
    m->device_bytes = 0;
}

static void infer__place_free(infer_model *m) {
    int32_t i;
    if (!INFER__HAS_GPU) return;
    infer__place_drop(m);
    for (i = 0; i < m->n_devices; i++) infer__gpu_close(m->devices[i].gpu);
    memset(m->devices, 0, sizeof m->devices);
    for (i = infer__placed(m); i-- > 0;) m->layers[i].place = INFER__ON_CPU;
    m->n_devices = m->device_layers = m->automatic = 0;
}
