/* adapter.c: opening adapters: which tensors of the model a file's pairs belong to, and their values.
 *
 * Format: GGUF as llama.cpp writes it. general.type "adapter", adapter.type "lora": NAME.lora_a and NAME.lora_b for
 *        tensors NAME of the model; y = W x becomes y + s B A x with s = adapter.lora.alpha / rank, or 1 without alpha.
 *        general.architecture "controlvector": direction.N is added to the stream after block N (counted from 0).
 * Rules: values are copied to the adapter's own memory, F16 and BF16 as they are, others as float32, B transposed for
 *        the CPU; a float32 copy goes to each of the model's GPUs; then the file is closed. A tensor that no product
 *        reads, or that the model does not have, is an error that names it; with allow_unknown, tensors that llama.cpp
 *        ignores give a line in the log instead.
 */
#include "model.h"

/* ---- what the model can take ------------------------------------------------------------------------------------- */

/* Slots of matrices that are read by other ops than products: taps of convolutions, tables. */
static const int16_t INFER__NOT_ADAPTED[] = {
    INFER__W_ATTN_NEAR, INFER__W_SHORTCONV_TAPS, INFER__W_SSM_TAPS, INFER__W_DELTA_TAPS, INFER__W_KDA_TAPS_Q,
    INFER__W_KDA_TAPS_K, INFER__W_KDA_TAPS_V, INFER__W_NGRAM_TAPS, INFER__W_MOE_TABLE,
    INFER__W_LATENT_KV_B, INFER__W_LATENT_K_B, INFER__W_LATENT_V_B, INFER__W_COMPRESSED_OUT_A,
    INFER__W_COMPRESS_PLACE, INFER__W_COMPRESS_INDEX_PLACE, INFER__W_TIME_MIX_2 };

static int infer__adapter_slot_taken(int slot) {
    size_t i;
    for (i = 0; i < INFER__COUNT(INFER__NOT_ADAPTED); i++)
        if (INFER__NOT_ADAPTED[i] == slot) return 0;
    if (slot >= INFER__W_SWITCH_Q_A && slot <= INFER__W_SWITCH_OUT_B) return 0; /* adapters themselves */
    if (slot >= INFER__W_SWITCH_GATE_A && slot <= INFER__W_SWITCH_DOWN_B) return 0;
    return INFER__LAYER_SLOT_TABLE[slot].rows != INFER__D_ONE;
}

/* The file's scale of a matrix, which the pass applies after the adapter has been added. */
static float infer__adapter_times(const infer__layer *l, int slot) {
    if (slot == INFER__W_ATTN_Q || slot == INFER__W_ATTN_K || slot == INFER__W_ATTN_V)
        return l->attn_scales[(slot - INFER__W_ATTN_Q) / 2];
    if (slot == INFER__W_ATTN_OUT) return l->attn_scales[3];
    if (slot == INFER__W_FFN_GATE) return l->ffn_scales[0];
    if (slot == INFER__W_FFN_UP) return l->ffn_scales[1];
    return slot == INFER__W_FFN_DOWN ? l->ffn_scales[2] : 1;
}

/* Experts of the matrices of a slot, 0 = it has one matrix. */
static int32_t infer__adapter_experts(const infer_model *m, int slot) {
    if (!infer__place_experts(slot)) return 0;
    return slot >= INFER__W_GROUP_GATE && slot <= INFER__W_GROUP_DOWN ? infer__expert_groups(&m->hp) : m->hp.n_expert;
}

/* Find the product that reads tensor t of the model's file and fill p; 0 when no product does. */
static int infer__adapter_target(const infer_model *m, int32_t t, infer__adapter_pair *p) {
    int32_t i, s;
    p->embeds = m->w[INFER__W_TOKEN_EMBD].tensor == t + 1    ? INFER__EMBEDS_TOKENS
                : m->w[INFER__W_TOKEN_TYPES].tensor == t + 1 ? INFER__EMBEDS_TYPES
                                                             : 0;
    if (p->embeds || m->w[INFER__W_OUTPUT].tensor == t + 1) return 1;
    for (i = 0; i < m->hp.n_layer; i++)
        for (s = 0; s < INFER__LAYER_SLOT_COUNT; s++) {
            const infer__layer *l = &m->layers[i];
            float times;
            if (!l->w[s].type || l->w[s].tensor != t + 1) continue;
            times = infer__adapter_times(l, s);
            if (!infer__adapter_slot_taken(s) || times == 0) return 0;
            p->n_expert = infer__adapter_experts(m, s);
            if (s == INFER__W_MOE_DOWN) p->scales = l->w[INFER__W_EXPERTS_SCALE].tensor;
            p->scale /= times;
            return 1;
        }
    return 0;
}

/* ---- low-rank additions ------------------------------------------------------------------------------------------ */

/* A tensor's values as float32, from an arena. */
static infer_result infer__adapter_values(infer__arena *arena, infer__gguf *g, const infer__gguf_tensor *t, float **out,
                                          infer_error *err) {
    const uint64_t n = t->rows * t->dims[0]; /* the file has them: format checked that */
    *out = (float *)infer__arena_alloc(arena, n * sizeof **out);
    if (!*out) return infer__error(err, INFER_ERR_MEMORY, "no memory for tensor %s", t->name);
    return infer__gguf_read_rows(g, t, 0, t->rows, *out, err);
}

static uint64_t infer__adapter_low_values(const infer__adapter_pair *p) {
    return (uint64_t)p->rank * (uint64_t)p->cols * (uint64_t)INFER__MAX(p->n_expert, 1);
}
static uint64_t infer__adapter_up_values(const infer__adapter_pair *p) {
    return (uint64_t)p->rank * (uint64_t)p->rows * (uint64_t)INFER__MAX(p->n_expert, 1);
}

/* The kind in which values of a type are stored. */
static int32_t infer__adapter_kind(const infer__quant *type) {
    const char *removed;
    if (type == infer__quant_find(1, &removed)) return INFER__LOW_F16;
    return type == infer__quant_find(30, &removed) ? INFER__LOW_BF16 : INFER__LOW_F32;
}

/* Store value i of x as value `at` of y, in the pair's kind: exact if the file has that kind. */
INFER__INLINE void infer__adapter_store(void *y, uint64_t at, int32_t kind, float x) {
    if (kind == INFER__LOW_F32) ((float *)y)[at] = x;
    else ((uint16_t *)y)[at] = kind == INFER__LOW_F16 ? infer__f32_f16(x) : infer__f32_bf16(x);
}

/* Copy the values to the CPU's layout: B of every expert transposed, from [rows][rank] to the layout of `mix`. */
static infer_result infer__adapter_pack(infer_adapter *a, infer__adapter_pair *p, infer_error *err) {
    const uint64_t low = infer__adapter_low_values(p), up = infer__adapter_up_values(p);
    const uint64_t rows = (uint64_t)p->rows, rank = (uint64_t)p->rank, lanes = INFER__LANES;
    const uint64_t turned = (uint64_t)infer__low_turned(p->rank, p->rows);
    const int32_t kind = p->embeds ? INFER__LOW_F32 : p->kind;
    uint64_t e, i, j;
    p->a = infer__arena_alloc(&a->arena, low * (uint64_t)infer__low_bytes(kind));
    p->b = infer__arena_alloc(&a->arena,
                              turned * (uint64_t)INFER__MAX(p->n_expert, 1) * (uint64_t)infer__low_bytes(p->kind));
    if (!p->a || !p->b)
        return infer__error(err, INFER_ERR_MEMORY, "no memory for an adapter of %llu values",
                            (unsigned long long)(low + up));
    for (i = 0; i < low; i++) infer__adapter_store(p->a, i, kind, p->file_a[i]);
    for (e = 0; e < up / (rows * rank); e++)
        for (i = 0; i < rows; i++)
            for (j = 0; j < rank; j++)
                infer__adapter_store(p->b, e * turned + (i / lanes * rank + j) * lanes + i % lanes, p->kind,
                                     p->file_b[(e * rows + i) * rank + j]);
    return INFER_OK;
}

/* [rank][rows] to [rows][rank]. */
static infer_result infer__adapter_turn(infer_adapter *a, infer__adapter_pair *p, infer_error *err) {
    float *x = (float *)infer__arena_alloc(&a->file_order, infer__adapter_up_values(p) * sizeof *x);
    int64_t i, j;
    if (!x) return infer__error(err, INFER_ERR_MEMORY, "no memory for an adapter");
    for (i = 0; i < p->rows; i++)
        for (j = 0; j < p->rank; j++) x[i * p->rank + j] = p->file_b[j * p->rows + i];
    p->file_b = x;
    return INFER_OK;
}

/* Experts whose results have scales in the file: a pass scales the adapter's contribution, too, so divide it here. */
static infer_result infer__adapter_unscale(infer_adapter *a, infer__adapter_pair *p, infer_error *err) {
    infer__gguf *g = &((infer_model *)(uintptr_t)a->model)->gguf;
    const infer__gguf_tensor *t = &g->tensors[p->scales - 1];
    const int64_t each = (int64_t)p->rows * p->rank;
    float *scales;
    infer_result r = infer__adapter_values(&a->file_order, g, t, &scales, err);
    int64_t i;
    for (i = 0; i < p->n_expert * each && !r; i++) {
        if (scales[i / each] == 0)
            r = infer__error(err, INFER_ERR_UNSUPPORTED, "tensor %s: the scale of expert %d is 0", t->name,
                             (int)(i / each));
        p->file_b[i] /= scales[i / each];
    }
    p->kind = INFER__LOW_F32;
    return r;
}

/* Open the pair of A, whose tensor's name is `name`; B is beside it in the file. */
static infer_result infer__adapter_pair_open(infer_adapter *a, infer__gguf *g, const infer__gguf_tensor *low,
                                             const char *name, float alpha, infer_error *err) {
    const infer_model *m = a->model;
    const infer__gguf_tensor *t = infer__gguf_tensor_find(&m->gguf, name), *up;
    infer__adapter_pair *p = &a->pairs[a->n_pairs];
    uint64_t rank, in, out, experts;
    char with[160];
    infer_result r;
    if (infer__format(with, sizeof with, "%s.lora_b", name) >= sizeof with || !t)
        return infer__error(err, INFER_ERR_ARGUMENT, "tensor %s: the model has no tensor %s: is it another model's?",
                            low->name, name);
    up = infer__gguf_tensor_find(g, with);
    if (!up) return infer__error(err, INFER_ERR_FORMAT, "tensor %s: there is no %s", low->name, with);
    memset(p, 0, sizeof *p);
    p->tensor = (int32_t)(t - m->gguf.tensors);
    p->scale = 1;
    if (!infer__adapter_target(m, p->tensor, p))
        return infer__error(err, INFER_ERR_UNSUPPORTED, "tensor %s: adapters of %s are not supported in \"%s\"",
                            low->name, name, infer__arch_of(m)->name);
    experts = (uint64_t)INFER__MAX(p->n_expert, 1);
    rank = up->dims[0];
    in = p->embeds ? t->rows : t->dims[0];
    out = p->embeds ? t->dims[0] : t->rows / experts;
    if (p->embeds == INFER__EMBEDS_TYPES) { /* as of any matrix; what a row reads is a row of B */
        const infer__gguf_tensor *matrix = low;
        low = up;
        up = matrix;
    }
    if (rank < 1 || rank > (uint64_t)m->hp.n_embd || low->dims[0] != (p->embeds ? rank : in) ||
        low->rows != (p->embeds ? in : rank * experts) || low->dims[3] != 1 ||
        (p->embeds == INFER__EMBEDS_TYPES ? up->dims[0] != out || up->rows != rank
                                          : up->dims[0] != rank || up->rows != out * experts) ||
        (p->n_expert && (low->dims[2] != experts || up->dims[2] != experts)))
        return infer__error(err, INFER_ERR_FORMAT,
                            "tensors %s (%llu x %llu) and %s (%llu x %llu) do not fit %s (%llu x %llu), or their rank "
                            "is above %d",
                            low->name, (unsigned long long)low->rows, (unsigned long long)low->dims[0], up->name,
                            (unsigned long long)up->rows, (unsigned long long)up->dims[0], name,
                            (unsigned long long)t->rows, (unsigned long long)t->dims[0], (int)m->hp.n_embd);
    p->rank = (int32_t)rank;
    p->rows = (int32_t)out;
    p->cols = (int32_t)in;
    if (alpha != 0) p->scale *= alpha / (float)rank;
    p->kind = low->type != up->type ? INFER__LOW_F32 : infer__adapter_kind(low->type);
    if ((r = infer__adapter_values(&a->file_order, g, low, &p->file_a, err)) != INFER_OK) return r;
    if ((r = infer__adapter_values(&a->file_order, g, up, &p->file_b, err)) != INFER_OK) return r;
    if (p->embeds == INFER__EMBEDS_TYPES && (r = infer__adapter_turn(a, p, err)) != INFER_OK) return r;
    if (p->scales && (r = infer__adapter_unscale(a, p, err)) != INFER_OK) return r;
    a->pair_of[p->tensor] = ++a->n_pairs;
    a->rank = INFER__MAX(a->rank, p->rank);
    return INFER_OK;
}

static int infer__ends_with(const char *s, const char *end) {
    const size_t n = strlen(s), k = strlen(end);
    return n >= k && strcmp(s + n - k, end) == 0;
}

/* A tensor that is not an A: the B of a pair, or unknown. */
static infer_result infer__adapter_other(const infer_adapter *a, const infer__gguf *g, const infer__gguf_tensor *t,
                                         int allow_unknown, infer_error *err) {
    char name[160];
    if (infer__ends_with(t->name, ".lora_b") && infer__format(name, sizeof name, "%s", t->name) < sizeof name) {
        name[strlen(name) - 1] = 'a';
        if (infer__gguf_tensor_find(g, name)) return INFER_OK;
        return infer__error(err, INFER_ERR_FORMAT, "tensor %s: there is no %s", t->name, name);
    }
    if (!allow_unknown || !infer__ends_with(t->name, "_norm.weight"))
        return infer__error(err, INFER_ERR_UNSUPPORTED, "tensor %s: nothing is known that it could be for%s", t->name,
                            infer__ends_with(t->name, "_norm.weight") ? " (allow_unknown goes on without it)" : "");
    infer__log(&a->model->report, 2, "tensor %s: ignored, the adapter was trained with it", t->name);
    return INFER_OK;
}

/* Text of a key to the arena; *out stays NULL without it. */
static infer_result infer__adapter_text(infer_adapter *a, const infer__gguf *g, const char *key, char **out,
                                        infer_error *err) {
    infer__str s;
    const int r = infer__gguf_str(g, key, &s, err);
    if (r <= 0) return (infer_result)r;
    *out = infer__arena_text(&a->arena, s.s, (size_t)s.n);
    return *out ? INFER_OK : infer__error(err, INFER_ERR_MEMORY, "no memory for %s", key);
}

/* aLoRA (arXiv 2504.12397): the adapter applies from these tokens on. */
static infer_result infer__adapter_invocation(infer_adapter *a, const infer__gguf *g, infer_error *err) {
    static const char KEY[] = "adapter.alora.invocation_tokens";
    const infer__kv *kv = infer__gguf_find(g, KEY);
    if (!kv) return INFER_OK;
    if (kv->n < 1 || kv->n > 4096)
        return infer__error(err, INFER_ERR_FORMAT, "key %s: not an array of 1 to 4096 ids", KEY);
    a->n_invocation = (int32_t)kv->n;
    return infer__key_ids(&a->arena, kv, KEY, kv->n, (uint64_t)a->model->hp.n_vocab, &a->invocation, err);
}

static infer_result infer__adapter_wants(const infer__gguf *g, const char *key, const char *value, infer_error *err) {
    infer__str s = { "", 0 };
    const int r = infer__gguf_str(g, key, &s, err);
    if (r < 0) return (infer_result)r;
    if (r && s.n == strlen(value) && memcmp(s.s, value, (size_t)s.n) == 0) return INFER_OK;
    return infer__error(err, INFER_ERR_UNSUPPORTED, "key %s is \"%.*s\", not \"%s\"", key, (int)INFER__MIN(s.n, 40),
                        s.s, value);
}

static infer_result infer__adapter_keys(infer_adapter *a, const infer__gguf *g, float *alpha, infer_error *err) {
    int r = infer__adapter_wants(g, "general.type", "adapter", err);
    if (!r) r = infer__adapter_wants(g, "adapter.type", "lora", err);
    if (!r) r = infer__adapter_wants(g, "general.architecture", infer__arch_of(a->model)->name, err);
    if (!r && (r = infer__gguf_f32(g, "adapter.lora.alpha", alpha, err)) > 0) r = 0;
    if (!r && !infer__finite(*alpha)) r = infer__error(err, INFER_ERR_FORMAT, "key adapter.lora.alpha is not finite");
    if (!r) r = infer__adapter_text(a, g, "adapter.lora.task_name", &a->task, err);
    if (!r) r = infer__adapter_text(a, g, "adapter.lora.prompt_prefix", &a->prefix, err);
    return r ? (infer_result)r : infer__adapter_invocation(a, g, err);
}

static infer_result infer__adapter_lora(infer_adapter *a, infer__gguf *g, int allow_unknown, infer_error *err) {
    float alpha = 0;
    infer_result r = infer__adapter_keys(a, g, &alpha, err);
    int32_t i;
    for (i = 0; i < g->n_kv && !r; i++) {
        if (strncmp(g->kv[i].key, "adapter.", 8) != 0 || infer__gguf_asked(g, i)) continue;
        if (!allow_unknown) r = infer__error(err, INFER_ERR_UNSUPPORTED, "key %s is not known", g->kv[i].key);
        else infer__log(&a->model->report, 2, "key %s: ignored", g->kv[i].key);
    }
    a->pairs = (infer__adapter_pair *)infer__arena_alloc(&a->arena, (uint64_t)g->n_tensors * sizeof *a->pairs);
    a->pair_of = (int32_t *)infer__arena_alloc(&a->arena, (uint64_t)a->model->gguf.n_tensors * sizeof *a->pair_of);
    if (!r && (!a->pairs || !a->pair_of))
        r = infer__error(err, INFER_ERR_MEMORY, "no memory for %d tensors", (int)g->n_tensors);
    for (i = 0; i < g->n_tensors && !r; i++) {
        char name[160];
        const infer__gguf_tensor *t = &g->tensors[i];
        if (infer__ends_with(t->name, ".lora_a") && infer__format(name, sizeof name, "%s", t->name) < sizeof name) {
            name[strlen(name) - strlen(".lora_a")] = 0;
            r = infer__adapter_pair_open(a, g, t, name, alpha, err);
        } else r = infer__adapter_other(a, g, t, allow_unknown, err);
    }
    if (!r && a->n_pairs == 0) r = infer__error(err, INFER_ERR_FORMAT, "the adapter has no tensors");
    return r;
}

/* ---- directions -------------------------------------------------------------------------------------------------- */

static infer_result infer__adapter_direction(infer_adapter *a, infer__gguf *g, const infer__gguf_tensor *t,
                                             int allow_unknown, infer_error *err) {
    const infer_model *m = a->model;
    const char *digits = t->name + strlen("direction.");
    int64_t n = 0;
    if (strncmp(t->name, "direction.", strlen("direction.")) != 0)
        return infer__error(err, INFER_ERR_UNSUPPORTED, "tensor %s: nothing is known that it could be for", t->name);
    for (; *digits >= '0' && *digits <= '9' && n <= INFER__MAX_LAYERS; digits++) n = 10 * n + (*digits - '0');
    if (*digits || n < 1)
        return infer__error(err, INFER_ERR_FORMAT, "tensor %s: directions are for layers from 1 on", t->name);
    if (t->n_dims != 1 || t->dims[0] != (uint64_t)m->hp.n_embd)
        return infer__error(err, INFER_ERR_ARGUMENT, "tensor %s has %llu values, the model's stream %d", t->name,
                            (unsigned long long)(t->rows * t->dims[0]), (int)m->hp.n_embd);
    if (n >= m->hp.n_layer && !allow_unknown)
        return infer__error(err, INFER_ERR_ARGUMENT,
                            "tensor %s: the model has %d layers (allow_unknown goes on without it)", t->name,
                            (int)m->hp.n_layer);
    if (n >= m->hp.n_layer) {
        infer__log(&m->report, 2, "tensor %s: ignored, the model has %d layers", t->name, (int)m->hp.n_layer);
        return INFER_OK;
    }
    if (a->directions[n]) return infer__error(err, INFER_ERR_FORMAT, "tensor %s: layer %d has one", t->name, (int)n);
    return infer__adapter_values(&a->arena, g, t, &a->directions[n], err);
}

static infer_result infer__adapter_control(infer_adapter *a, infer__gguf *g, int allow_unknown,
                                           infer_error *err) {
    const infer__hparams *hp = &a->model->hp;
    infer_result r = INFER_OK;
    int32_t i;
    a->control = 1;
    if (hp->n_hyper || hp->n_streams || hp->stack || hp->n_enc)
        return infer__error(err, INFER_ERR_UNSUPPORTED, "control vectors are not supported in \"%s\"",
                            infer__arch_of(a->model)->name);
    a->directions = (float **)infer__arena_alloc(&a->arena, (uint64_t)hp->n_layer * sizeof *a->directions);
    a->direction_at = (uint64_t *)infer__arena_alloc(&a->arena, (uint64_t)hp->n_layer * sizeof *a->direction_at);
    if (!a->directions || !a->direction_at)
        return infer__error(err, INFER_ERR_MEMORY, "no memory for %d directions", (int)hp->n_layer);
    for (i = 0; i < g->n_tensors && !r; i++)
        r = infer__adapter_direction(a, g, &g->tensors[i], allow_unknown, err);
    if (!r && g->n_tensors == 0) r = infer__error(err, INFER_ERR_FORMAT, "the control vector has no tensors");
    return r;
}

/* ---- devices ----------------------------------------------------------------------------------------------------- */

/* Offsets of all values on a device. */
static void infer__adapter_layout(infer_adapter *a) {
    uint64_t at = 0;
    int32_t i;
    for (i = 0; i < a->n_pairs; i++) {
        a->pairs[i].a_at = at;
        a->pairs[i].b_at = at += infer__adapter_low_values(&a->pairs[i]) * sizeof(float);
        at += infer__adapter_up_values(&a->pairs[i]) * sizeof(float);
    }
    for (i = 0; a->control && i < a->model->hp.n_layer; i++) {
        a->direction_at[i] = at;
        if (a->directions[i]) at += (uint64_t)a->model->hp.n_embd * sizeof(float);
    }
    a->device_bytes = at;
}

static uint8_t infer__adapter_use(const infer__adapter_pair *p) {
    return p->n_expert ? INFER__USE_EXPERTS : p->embeds ? INFER__USE_TABLE | INFER__USE_MATRIX : INFER__USE_MATRIX;
}

/* Kernels of these types that the model itself may not use: compile them, and check them as the model's were. */
static infer_result infer__adapter_kernels(infer_model *m, infer__gpu *gpu, infer__gpu_uses *uses, infer_error *err) {
    infer_result r = INFER_OK;
    int32_t i;
    uses->exact = m->params.exact ? 2 : 1;
    uses->n_expert = m->hp.n_expert;
    uses->n_used = m->hp.n_used;
    infer__gpu_use_all(gpu, uses);
    if (!m->params.gpu_unchecked) r = infer__gpu_judge(gpu, uses, &m->mem, 0, err);
    for (i = 0; i < INFER__QUANTS_MAX && !r; i++)
        if (uses->types[i]) r = infer__gpu_use_type(gpu, &infer__quants[i], err);
    return r;
}

static infer_result infer__adapter_upload(infer_adapter *a, int32_t d, infer_error *err) {
    infer__gpu *gpu = a->model->devices[d].gpu;
    infer__buf *to = &a->device[d];
    infer__gpu_uses uses;
    infer_result r, last;
    const char *removed;
    int32_t i;
    memset(&uses, 0, sizeof uses);
    for (i = 0; i < a->n_pairs; i++)
        uses.types[infer__quant_index(infer__quant_find(0, &removed))] |= infer__adapter_use(&a->pairs[i]);
    r = infer__adapter_kernels(a->model, gpu, &uses, err);
    if (!r && a->device_bytes > infer__gpu_largest(gpu))
        r = infer__error(err, INFER_ERR_MEMORY, "an adapter of %llu bytes: the largest buffer of %s has %llu",
                         (unsigned long long)a->device_bytes, infer__gpu_name(gpu),
                         (unsigned long long)infer__gpu_largest(gpu));
    if (!r) r = infer__gpu_alloc(gpu, to, a->device_bytes, err);
    for (i = 0; i < a->n_pairs && !r; i++) {
        const infer__adapter_pair *p = &a->pairs[i];
        r = infer__gpu_write(gpu, to, p->a_at, p->file_a, infer__adapter_low_values(p) * sizeof(float), err);
        if (!r) r = infer__gpu_write(gpu, to, p->b_at, p->file_b, infer__adapter_up_values(p) * sizeof(float), err);
    }
    for (i = 0; a->control && i < a->model->hp.n_layer && !r; i++)
        if (a->directions[i])
            r = infer__gpu_write(gpu, to, a->direction_at[i], a->directions[i],
                                 (uint64_t)a->model->hp.n_embd * sizeof(float), err);
    last = infer__gpu_flush(gpu, r ? NULL : err); /* after a failure too: pending uploads still read their memory */
    return r ? r : last;
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

/* Some of a tensor's values. */
static uint64_t infer__adapter_print(uint64_t h, const float *x, uint64_t n) {
    uint64_t i, step = n / 64 + 1;
    h = infer__fnv(h, &n, sizeof n);
    for (i = 0; i < n; i += step) h = infer__fnv(h, &x[i], sizeof x[i]);
    return h;
}

static infer_result infer__adapter_build(infer_adapter *a, infer__gguf *g, int allow_unknown, infer_error *err) {
    const infer_model *m = a->model;
    infer__str arch = { "", 0 };
    infer_result r;
    int32_t i;
    if (m->why_code) return infer__error(err, m->why_code, "%s", m->why_not);
    if (m->sizes_only) return infer__error(err, INFER_ERR_STATE, "the model has no weights");
    if (infer__gguf_str(g, "general.architecture", &arch, err) < 0) return err->code;
    r = infer__adapter_text(a, g, "general.name", &a->name, err);
    if (!r)
        r = arch.n == 13 && memcmp(arch.s, "controlvector", 13) == 0 ? infer__adapter_control(a, g, allow_unknown, err)
                                                                   : infer__adapter_lora(a, g, allow_unknown, err);
    if (r) return r;
    infer__adapter_layout(a);
    for (i = 0; i < m->n_devices && !r; i++)
        if (m->devices[i].n_layers) r = infer__adapter_upload(a, i, err);
    a->print = INFER__FNV;
    for (i = 0; i < a->n_pairs && !r; i++) {
        infer__adapter_pair *p = &a->pairs[i];
        r = infer__adapter_pack(a, p, err);
        a->print = infer__fnv(a->print, &p->tensor, sizeof p->tensor);
        a->print = infer__fnv(a->print, &p->scale, sizeof p->scale);
        a->print = infer__adapter_print(a->print, p->file_a, infer__adapter_low_values(p));
        a->print = infer__adapter_print(a->print, p->file_b, infer__adapter_up_values(p));
    }
    for (i = 0; a->control && i < m->hp.n_layer && !r; i++)
        if (a->directions[i]) {
            a->print = infer__fnv(a->print, &i, sizeof i);
            a->print = infer__adapter_print(a->print, a->directions[i], (uint64_t)m->hp.n_embd);
        }
    return r;
}

static void infer__adapter_free(infer_adapter *a) {
    infer__mem *mem = &a->model->mem;
    int32_t i;
    for (i = 0; i < INFER_MAX_DEVICES; i++)
        if (a->device[i].bytes) infer__gpu_free(a->model->devices[i].gpu, &a->device[i]);
    infer__arena_free(&a->arena);
    infer__free(mem, a);
}

/* Nobody has a reference of the adapter. */
static void infer__adapter_gone(infer_adapter *a) {
    infer_model *m = a->model;
    if (infer__model_lost(m)) return;
    infer__adapter_free(a);
    infer__atomic_add(&m->adapters, -1);
    infer__model_let(m, INFER_OK);
}

static void infer__adapter_let(infer_adapter *a) {
    if (infer__refs_drop(&a->users)) infer__adapter_gone(a);
}
