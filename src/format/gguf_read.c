/* gguf_read.c: queries of an open GGUF: lookups, typed metadata, tensor bytes, decoded rows.
 *
 * Owns:  conversions of metadata values to the type a caller wants, and the byte order of tensor data.
 * Rules: the directory is checked already (gguf.c): a tensor's bytes are inside its file. Reading may still fail.
 *        Plain types come out in machine byte order; blocks are little-endian on every machine, which is what decoders
 *        expect, so only blocks of big-endian files are refused.
 * Start: infer__gguf_load, infer__gguf_read_rows.
 */
#include "format.h"

#define INFER__GGUF_CHUNK 65536 /* bytes decoded at a time when a file is not mapped */

/* ---- lookups --------------------------------------------------------------------------------------- */

static const infer__kv *infer__gguf_peek(const infer__gguf *g, const char *key) {
    int32_t i = g->kv_index ? *infer__gguf_slot(g, 0, key) : 0;
    return i ? &g->kv[i - 1] : NULL;
}

static const infer__kv *infer__gguf_find(const infer__gguf *g, const char *key) {
    const infer__kv *kv = infer__gguf_peek(g, key);
    if (kv && g->asked) g->asked[kv - g->kv] = 1;
    return kv;
}

static int infer__gguf_asked(const infer__gguf *g, int32_t kv) { return g->asked && g->asked[kv]; }

static void infer__gguf_asked_end(infer__gguf *g) {
    infer__free(g->mem, g->asked);
    g->asked = NULL;
}

static infer__gguf_tensor *infer__gguf_tensor_find(const infer__gguf *g, const char *name) {
    int32_t i = g->tensor_index ? *infer__gguf_slot(g, 1, name) : 0;
    return i ? &g->tensors[i - 1] : NULL;
}

/* ---- values ---------------------------------------------------------------------------------------- */

/* How a value type holds its number: 'u', 'i', 'f', or 0 when it is none. */
static int infer__kv_kind(uint32_t type) {
    switch (type) {
    case INFER__GGUF_U8:
    case INFER__GGUF_U16:
    case INFER__GGUF_U32:
    case INFER__GGUF_U64:
    case INFER__GGUF_BOOL: return 'u';
    case INFER__GGUF_I8: case INFER__GGUF_I16: case INFER__GGUF_I32: case INFER__GGUF_I64: return 'i';
    case INFER__GGUF_F32: case INFER__GGUF_F64: return 'f';
    default: return 0;
    }
}

/* For messages: "is a string". */
static const char *infer__kv_says(const infer__kv *kv) {
    switch (infer__kv_kind(kv->type)) {
    case 'u': return kv->type == INFER__GGUF_BOOL ? "is a bool" : "is an unsigned integer";
    case 'i': return "is an integer";
    case 'f': return "is a float";
    default: return kv->type == INFER__GGUF_STRING ? "is a string" : "is an array";
    }
}

static int infer__kv_is_numbers(const infer__kv *kv) {
    return kv->type == INFER__GGUF_ARRAY && infer__kv_kind(kv->element) != 0;
}

static int infer__kv_is_strings(const infer__kv *kv) {
    return kv->type == INFER__GGUF_ARRAY && kv->element == INFER__GGUF_STRING;
}

static double infer__kv_scalar(const infer__kv *kv) {
    uint64_t u;
    int64_t i;
    double d;
    switch (infer__kv_kind(kv->type)) {
    case 'u': memcpy(&u, kv->data, 8); return (double)u;
    case 'i': memcpy(&i, kv->data, 8); return (double)i;
    case 'f': memcpy(&d, kv->data, 8); return d;
    default: return 0;
    }
}

#define INFER__ELEMENT(type) do { type x; memcpy(&x, (const uint8_t *)kv->data + i * sizeof x, sizeof x); \
                                  return (double)x; } while (0)
static double infer__kv_number(const infer__kv *kv, uint64_t i) {
    if (kv->type != INFER__GGUF_ARRAY) return infer__kv_scalar(kv);
    switch (kv->element) {
    case INFER__GGUF_U8: case INFER__GGUF_BOOL: INFER__ELEMENT(uint8_t);
    case INFER__GGUF_I8: INFER__ELEMENT(int8_t);
    case INFER__GGUF_U16: INFER__ELEMENT(uint16_t);
    case INFER__GGUF_I16: INFER__ELEMENT(int16_t);
    case INFER__GGUF_U32: INFER__ELEMENT(uint32_t);
    case INFER__GGUF_I32: INFER__ELEMENT(int32_t);
    case INFER__GGUF_F32: INFER__ELEMENT(float);
    case INFER__GGUF_U64: INFER__ELEMENT(uint64_t);
    case INFER__GGUF_I64: INFER__ELEMENT(int64_t);
    case INFER__GGUF_F64: INFER__ELEMENT(double);
    default: return 0;
    }
}
#undef INFER__ELEMENT

static infer__str infer__kv_string(const infer__kv *kv, uint64_t i) {
    return ((const infer__str *)kv->data)[i];
}

/* ---- typed metadata -------------------------------------------------------------------------------- */

static int infer__kv_wrong(const infer__kv *kv, const char *problem, infer_error *err) {
    char key[84];
    return (int)infer__error(err, INFER_ERR_FORMAT, "metadata key \"%s\", byte %llu: %s",
                             infer__gguf_clip(key, kv->key), (unsigned long long)kv->offset, problem);
}

static int infer__kv_wrong_type(const infer__kv *kv, const char *want, infer_error *err) {
    char problem[64];
    infer__format(problem, sizeof problem, "%s, not %s", infer__kv_says(kv), want);
    return infer__kv_wrong(kv, problem, err);
}

static int infer__gguf_u32(const infer__gguf *g, const char *key, uint32_t *out, infer_error *err) {
    const infer__kv *kv = infer__gguf_find(g, key);
    char problem[64];
    double v;
    int kind;
    if (!kv) return 0;
    kind = infer__kv_kind(kv->type);
    if (kind != 'u' && kind != 'i') return infer__kv_wrong_type(kv, "an integer", err);
    v = infer__kv_scalar(kv); /* exact below 2^53, so the comparison is right */
    if (!(v >= 0 && v <= (double)UINT32_MAX)) {
        infer__format(problem, sizeof problem, "%.0f is out of range (0 to %lu)", v, (unsigned long)UINT32_MAX);
        return infer__kv_wrong(kv, problem, err);
    }
    *out = (uint32_t)v;
    return 1;
}

static int infer__gguf_f32(const infer__gguf *g, const char *key, float *out, infer_error *err) {
    const infer__kv *kv = infer__gguf_find(g, key);
    const double max = (double)infer__bits_f32(0x7f7fffffu); /* the largest float */
    uint64_t bits;
    double v;
    if (!kv) return 0;
    if (!infer__kv_kind(kv->type)) return infer__kv_wrong_type(kv, "a number", err);
    v = infer__kv_scalar(kv);
    memcpy(&bits, &v, 8);
    if ((bits >> 52 & 0x7ff) == 0x7ff || v > max || v < -max)
        return infer__kv_wrong(kv, "is no finite number that fits a float", err);
    *out = (float)v;
    return 1;
}

static int infer__gguf_bool(const infer__gguf *g, const char *key, int *out, infer_error *err) {
    const infer__kv *kv = infer__gguf_find(g, key);
    double v;
    int kind;
    if (!kv) return 0;
    kind = infer__kv_kind(kv->type);
    if (kind != 'u' && kind != 'i') return infer__kv_wrong_type(kv, "a bool", err);
    v = infer__kv_scalar(kv);
    if (v < 0 || v > 1) return infer__kv_wrong(kv, "is neither 0 nor 1", err);
    *out = v > 0;
    return 1;
}

static int infer__gguf_str(const infer__gguf *g, const char *key, infer__str *out, infer_error *err) {
    const infer__kv *kv = infer__gguf_find(g, key);
    if (!kv) return 0;
    if (kv->type != INFER__GGUF_STRING) return infer__kv_wrong_type(kv, "a string", err);
    out->s = (const char *)kv->data;
    out->n = kv->n;
    return 1;
}

/* ---- tensor bytes ---------------------------------------------------------------------------------- */

static infer_result infer__gguf_tensor_error(const infer__gguf_tensor *t, infer_result code, const char *problem,
                                             infer_error *err) {
    char name[84];
    return infer__error(err, code, "tensor \"%s\", byte %llu: %.160s", infer__gguf_clip(name, t->name),
                        (unsigned long long)t->offset, problem);
}

static infer_result infer__gguf_check_order(const infer__gguf *g, const infer__gguf_tensor *t, infer_error *err) {
    char problem[84];
    int big = g->swapped != INFER__BIG_ENDIAN;
    if (t->type->swap || !big) return INFER_OK;
    infer__format(problem, sizeof problem, "%s blocks of a big-endian file are not supported", t->type->name);
    return infer__gguf_tensor_error(t, INFER_ERR_UNSUPPORTED, problem, err);
}

/* Bytes `from` .. from + n of a tensor, in machine order (blocks: as stored). */
static infer_result infer__gguf_fetch(infer__gguf *g, const infer__gguf_tensor *t, uint64_t from, void *dst, uint64_t n,
                                      infer_error *err) {
    infer_error e;
    infer_result r = infer__source_read(&g->sources[t->shard], t->offset + from, dst, n, &e);
    size_t size = (size_t)t->type->swap;
    if (r != INFER_OK) return infer__gguf_tensor_error(t, r, e.message, err);
    if (g->swapped && size > 1) infer__gguf_swap(dst, n / size, size);
    return INFER_OK;
}

/* The tensor's bytes in place, if they can be used there; else NULL. */
static const uint8_t *infer__gguf_view(const infer__gguf *g, const infer__gguf_tensor *t) {
    const uint8_t *base = (const uint8_t *)g->sources[t->shard].io.mapped;
    return base && !(g->swapped && t->type->swap > 1) ? base + t->offset : NULL;
}

static infer_result infer__gguf_whole(const infer__gguf *g, infer_error *err) {
    infer_result r = INFER_OK;
    int32_t i;
    for (i = 0; i < g->n_sources && r == INFER_OK; i++) r = infer__source_whole(&g->sources[i], err);
    return r;
}

static infer_result infer__gguf_load_some(infer__gguf *g, infer__gguf_tensor *t, uint64_t *done, infer__budget *budget,
                                          infer_error *err) {
    const uint64_t all = infer__gguf_needed(t);
    infer_result r;
    uint64_t n, from;
    char problem[64];
    if (t->data) return INFER_OK;
    r = infer__gguf_check_order(g, t, err);
    if (r != INFER_OK) return r;
    infer__format(problem, sizeof problem, "no memory for %llu bytes", (unsigned long long)all);
    t->data = infer__gguf_view(g, t);
    if (t->data) {
        infer_error e;
        if ((r = infer__source_whole(&g->sources[t->shard], &e)) != INFER_OK) {
            t->data = NULL;
            return infer__gguf_tensor_error(t, r, e.message, err);
        }
        if (!infer__mem_reserve(g->mem, all)) {
            t->data = NULL;
            return infer__gguf_tensor_error(t, INFER_ERR_MEMORY, problem, err);
        }
        g->reserved += all;
        return INFER_OK;
    }
    if (!t->owned) t->owned = infer__alloc(g->mem, all);
    if (!t->owned) return infer__gguf_tensor_error(t, INFER_ERR_MEMORY, problem, err);
    do {
        n = infer__budget_bytes(budget, all - *done); /* a multiple of every plain type's size */
        from = *done;
        if (t->every) {
            from = *done / t->some * t->every + t->from + *done % t->some;
            n = INFER__MIN(n, t->some - *done % t->some);
        }
        r = infer__gguf_fetch(g, t, from, (char *)t->owned + *done, n, err);
        *done += n;
        if (r == INFER_OK && infer__budget_over(budget, n / INFER__BUDGET_BYTES) && *done < all) return INFER_MORE;
    } while (r == INFER_OK && *done < all);
    *done = 0;
    if (r != INFER_OK) {
        infer__free(g->mem, t->owned);
        t->owned = NULL;
        return r;
    }
    t->data = t->owned;
    return INFER_OK;
}

static infer_result infer__gguf_load(infer__gguf *g, infer__gguf_tensor *t, infer_error *err) {
    uint64_t done = 0;
    return infer__gguf_load_some(g, t, &done, NULL, err);
}

static infer_result infer__gguf_read_rows(infer__gguf *g, const infer__gguf_tensor *t, uint64_t row, uint64_t n_rows,
                                          float *dst, infer_error *err) {
    uint64_t block = (uint64_t)t->type->bytes, from, bytes, chunk;
    const uint8_t *data = t->every && t->owned ? NULL : (const uint8_t *)t->data; /* what is read here is not all */
    infer_result r = infer__gguf_check_order(g, t, err);
    void *buffer;
    if (r != INFER_OK) return r;
    if (row > t->rows || n_rows > t->rows - row) {
        char problem[100];
        infer__format(problem, sizeof problem, "%llu rows from row %llu: there are %llu", (unsigned long long)n_rows,
                      (unsigned long long)row, (unsigned long long)t->rows);
        return infer__gguf_tensor_error(t, INFER_ERR_ARGUMENT, problem, err);
    }
    from = row * t->row_bytes; /* within t->bytes, which did not overflow */
    bytes = n_rows * t->row_bytes;
    if (bytes == 0) return INFER_OK;
    if (!data) data = infer__gguf_view(g, t);
    if (data) {
        if ((!t->owned || t->every) && (r = infer__source_whole(&g->sources[t->shard], err)) != INFER_OK) return r;
        t->type->decode(data + from, dst, (int64_t)(n_rows * t->dims[0]));
        return INFER_OK;
    }
    chunk = INFER__MIN(bytes, INFER__GGUF_CHUNK - INFER__GGUF_CHUNK % block); /* whole blocks; rows are whole blocks */
    buffer = infer__alloc(g->mem, chunk);
    if (!buffer) return infer__gguf_tensor_error(t, INFER_ERR_MEMORY, "no memory to read rows", err);
    while (bytes > 0 && r == INFER_OK) {
        uint64_t n = INFER__MIN(bytes, chunk), values = n / block * (uint64_t)t->type->values;
        r = infer__gguf_fetch(g, t, from, buffer, n, err);
        if (r == INFER_OK) t->type->decode(buffer, dst, (int64_t)values);
        dst += values;
        from += n;
        bytes -= n;
    }
    infer__free(g->mem, buffer);
    return r;
}
#undef INFER__GGUF_CHUNK
