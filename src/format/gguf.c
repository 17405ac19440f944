/* gguf.c: GGUF parser: bytes of one or more files -> metadata and tensor directory.
 *
 * Owns:  the cursor (every byte of a header is read through it), the order of the checks, split files, the hash index.
 * Rules: nothing in a file is trusted. A length is compared with the bytes that remain before it is used, a count only
 *        sizes memory as entries turn up, so memory stays proportional to the header. The first error sticks in the
 *        cursor; later reads return zeros, and the caller checks c->code at the end of each entry. Tensor data is not
 *        touched. Knows no tensor names and no architectures, and storage types only through infer__quant_find.
 * Format: the GGUF specification (ggml, docs/gguf.md), versions 2 and 3: header, metadata, tensor directory, padding
 *        to general.alignment, data. Big-endian files have their numbers swapped but the same magic.
 * Start: infer__gguf_step (the whole way), infer__gguf_parse_part (one file).
 */
#include "format.h"

#define INFER__GGUF_MAX_NAME 65535        /* bytes of a key (specification); tensor names get the same */
#define INFER__GGUF_MAX_COUNT (1 << 28)   /* keys or tensors: keeps indices and doubled sizes inside int32 */
#define INFER__GGUF_MAX_ALIGNMENT (1 << 20)
#define INFER__GGUF_MAX_PARTS 4096        /* of a split model */
#define INFER__GGUF_HEAD 65536            /* first read of a file */
#define INFER__GGUF_MIN_KV 14             /* bytes of the smallest entry: length, one byte of key, type, one byte */
#define INFER__GGUF_MIN_TENSOR 33         /* length, one byte of name, one dimension, type, offset */

/* Bytes of a value by its type; 0 = of variable size. */
static const uint8_t infer__gguf_sizes[INFER__GGUF_TYPES] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };

/* ---- errors ---------------------------------------------------------------------------------------- */

/* A name from a file, fit for a message: ASCII, at most 80 bytes. */
static const char *infer__gguf_clip(char out[84], const char *name) {
    size_t i;
    for (i = 0; i < 80 && name[i]; i++) out[i] = name[i];
    if (name[i]) { out[77] = '.'; out[78] = '.'; out[79] = '.'; }
    out[i] = 0;
    for (i = 0; out[i]; i++)
        if (out[i] < 32 || out[i] > 126) out[i] = '?';
    return out;
}

/* "part 2: tensor "x", byte 123: ..." The first error of a cursor stays. */
static infer_result infer__gguf_fail(infer__cursor *c, infer_result code, uint64_t at, const char *format, ...)
    INFER__PRINTF(4, 5);
static infer_result infer__gguf_fail(infer__cursor *c, infer_result code, uint64_t at, const char *format, ...) {
    char text[200], name[84], part[24] = "", which[112];
    va_list args;
    size_t full;
    if (c->code != INFER_OK) return c->code;
    va_start(args, format);
    infer__format_cut(text, sizeof text, &full, format, args);
    va_end(args);
    if (c->part > 0) infer__format(part, sizeof part, "part %d: ", c->part + 1);
    if (c->name) infer__format(which, sizeof which, "%s \"%s\"", c->what, infer__gguf_clip(name, c->name));
    else if (c->index) infer__format(which, sizeof which, "%s %llu", c->what, (unsigned long long)c->index);
    else infer__format(which, sizeof which, "%s", c->what);
    c->code = infer__error(c->err, code, "%s%s, byte %llu: %s", part, which, (unsigned long long)at, text);
    return c->code;
}

/* ---- cursor ---------------------------------------------------------------------------------------- */

/* A file that is not in the caller's memory: have at least `need` bytes of it (need <= size) in memory. Doubling keeps
 * the copying linear. The buffer moves, which is why views are only taken by infer__gguf_bind, at the end. */
static void infer__cursor_fill(infer__cursor *c, uint64_t need) {
    infer__source *s = c->s;
    uint64_t want = INFER__MAX(need, s->head_bytes < INFER__GGUF_HEAD ? INFER__GGUF_HEAD : 2 * s->head_bytes);
    infer_error e;
    void *p;
    want = INFER__MIN(want, c->size);
    if (need > s->head_room) {
        p = infer__realloc(c->g->mem, s->head, want, 1);
        if (!p) {
            infer__gguf_fail(c, INFER_ERR_MEMORY, c->at, "no memory for %llu bytes of header",
                             (unsigned long long)want);
            return;
        }
        s->head = p;
        s->head_room = want;
    }
    want = s->head_bytes + infer__budget_bytes(c->budget, s->head_room - s->head_bytes);
    want = INFER__MAX(need, want);
    if (infer__source_read(s, s->head_bytes, (uint8_t *)s->head + s->head_bytes, want - s->head_bytes, &e) !=
        INFER_OK) {
        infer__gguf_fail(c, e.code, c->at, "%.120s", e.message);
        return;
    }
    infer__budget_over(c->budget, (want - s->head_bytes) / INFER__BUDGET_BYTES);
    c->base = (const uint8_t *)s->head;
    c->have = s->head_bytes = want;
}

/* The header ends here: free what was read beyond it, if it is much. */
static void infer__cursor_trim(infer__cursor *c) {
    infer__source *s = c->s;
    void *p;
    if (c->code != INFER_OK || !s->head || s->head_room - c->at <= INFER__GGUF_HEAD) return;
    p = infer__alloc(c->g->mem, c->at);
    if (!p) return; /* it may as well stay */
    memcpy(p, s->head, (size_t)c->at);
    infer__free(c->g->mem, s->head);
    s->head = p;
    c->base = (const uint8_t *)p;
    c->have = s->head_bytes = s->head_room = c->at;
}

static uint64_t infer__cursor_left(const infer__cursor *c) { return c->size - c->at; }

/* The next n bytes, or NULL (and the cursor has failed). Valid until the next take. */
static const uint8_t *infer__cursor_take(infer__cursor *c, uint64_t n) {
    const uint8_t *p;
    if (c->code != INFER_OK) return NULL;
    if (n > infer__cursor_left(c)) {
        infer__gguf_fail(c, INFER_ERR_FORMAT, c->at, "the file ends at byte %llu, but %llu bytes should follow here",
                         (unsigned long long)c->size, (unsigned long long)n);
        return NULL;
    }
    if (c->at + n > c->have) {
        infer__cursor_fill(c, c->at + n);
        if (c->code != INFER_OK) return NULL;
    }
    p = c->base + c->at;
    c->at += n;
    return p;
}

/* An unsigned number of 1, 2, 4 or 8 bytes in the file's byte order; 0 after an error. */
static uint64_t infer__cursor_uint(infer__cursor *c, unsigned size) {
    const uint8_t *p = infer__cursor_take(c, size);
    uint64_t v = 0;
    unsigned i;
    if (!p) return 0;
    for (i = 0; i < size; i++) v |= (uint64_t)p[c->big ? size - 1 - i : i] << 8 * i;
    return v;
}

/* A key or a tensor name: a zero-terminated copy in the arena, or NULL (and the cursor has failed). */
static const char *infer__cursor_name(infer__cursor *c) {
    uint64_t at = c->at, n = infer__cursor_uint(c, 8);
    const uint8_t *p;
    const char *name;
    if (c->code != INFER_OK) return NULL;
    if (n == 0) infer__gguf_fail(c, INFER_ERR_FORMAT, at, "the name is empty");
    if (n > INFER__GGUF_MAX_NAME)
        infer__gguf_fail(c, INFER_ERR_FORMAT, at, "a name of %llu bytes (at most %d)", (unsigned long long)n,
                         INFER__GGUF_MAX_NAME);
    p = infer__cursor_take(c, n);
    if (!p) return NULL;
    if (memchr(p, 0, (size_t)n)) {
        infer__gguf_fail(c, INFER_ERR_FORMAT, at, "the name contains a zero byte");
        return NULL;
    }
    name = infer__arena_text(&c->g->arena, (const char *)p, (size_t)n);
    if (!name) infer__gguf_fail(c, INFER_ERR_MEMORY, at, "no memory for the name");
    return name;
}

/* ---- metadata -------------------------------------------------------------------------------------- */

/* Room for entry number n in an array that doubles at powers of two: 1, or 0 (and the cursor has failed). */
static int infer__gguf_grow(infer__cursor *c, void **array, int32_t n, size_t size) {
    void *p;
    if (n != 0 && (n < 16 || (n & (n - 1)) != 0)) return 1;
    p = infer__realloc(c->g->mem, *array, n == 0 ? 16 : 2 * (uint64_t)n, size);
    if (p) *array = p;
    else infer__gguf_fail(c, INFER_ERR_MEMORY, c->at, "no memory for the directory");
    return p != NULL;
}

/* The 8 bytes of a scalar: u64, i64 or double by the kind of its type. */
static void infer__gguf_scalar(infer__cursor *c, infer__kv *kv) {
    uint64_t u = infer__cursor_uint(c, infer__gguf_sizes[kv->type]);
    double d;
    void *to;
    if (c->code != INFER_OK) return;
    switch (kv->type) {
    case INFER__GGUF_I8: u = (u ^ 0x80) - 0x80; break; /* sign extension without signed overflow */
    case INFER__GGUF_I16: u = (u ^ 0x8000) - 0x8000; break;
    case INFER__GGUF_I32: u = (u ^ 0x80000000u) - 0x80000000u; break;
    case INFER__GGUF_F32:
        d = (double)infer__bits_f32((uint32_t)u);
        memcpy(&u, &d, 8);
        break;
    case INFER__GGUF_BOOL:
        if (u > 1) infer__gguf_fail(c, INFER_ERR_FORMAT, kv->offset, "%u is no bool (0 or 1)", (unsigned)u);
        break;
    default: break;
    }
    to = infer__arena_alloc(&c->g->arena, 8);
    if (!to) { infer__gguf_fail(c, INFER_ERR_MEMORY, kv->offset, "no memory for the value"); return; }
    memcpy(to, &u, 8);
    kv->data = to;
}

/* Check an array's header. */
static void infer__gguf_array(infer__cursor *c, infer__kv *kv) {
    uint64_t bytes, left;
    kv->element = (uint32_t)infer__cursor_uint(c, 4);
    kv->n = infer__cursor_uint(c, 8);
    if (c->code != INFER_OK) return;
    if (kv->element == INFER__GGUF_ARRAY) {
        infer__gguf_fail(c, INFER_ERR_UNSUPPORTED, kv->offset, "arrays of arrays are not supported");
        return;
    }
    if (kv->element >= INFER__GGUF_TYPES) {
        infer__gguf_fail(c, INFER_ERR_FORMAT, kv->offset, "unknown type %u of array elements", (unsigned)kv->element);
        return;
    }
    left = infer__cursor_left(c);
    bytes = infer__gguf_sizes[kv->element]; /* of an element; a string has at least its length */
    if (!infer__mul_ok(kv->n, bytes ? bytes : 8, &bytes) || bytes > left) {
        infer__gguf_fail(c, INFER_ERR_FORMAT, kv->offset,
                         "an array of %llu elements cannot fit into the %llu bytes left", (unsigned long long)kv->n,
                         (unsigned long long)left);
    }
}

/* Step over elements of an array from number `from` on; infer__gguf_bind makes the view. Returns how many. */
static uint64_t infer__gguf_elements(infer__cursor *c, const infer__kv *kv, uint64_t from) {
    const uint64_t size = infer__gguf_sizes[kv->element];
    uint64_t n = kv->n - from, i;
    const uint8_t *p;
    if (kv->element == INFER__GGUF_STRING) {
        n = infer__budget_piece(c->budget, n, 1);
        for (i = 0; i < n && c->code == INFER_OK; i++) infer__cursor_take(c, infer__cursor_uint(c, 8));
        return n;
    }
    n = infer__budget_bytes(c->budget, n * size) / size;
    p = infer__cursor_take(c, n * size);
    for (i = 0; p && kv->element == INFER__GGUF_BOOL && i < n; i++)
        if (p[i] > 1) {
            infer__gguf_fail(c, INFER_ERR_FORMAT, kv->offset, "element %llu is no bool (0 or 1)",
                             (unsigned long long)(from + i));
            break;
        }
    return n;
}

/* Read entry number i of the metadata up to the elements of an array; it goes to the end of g->kv. */
static void infer__gguf_entry(infer__cursor *c, uint64_t i) {
    infer__gguf *g = c->g;
    infer__kv *kv;
    void *array = g->kv;
    c->what = "metadata key";
    c->name = NULL;
    c->index = i + 1;
    if (!infer__gguf_grow(c, &array, g->n_kv, sizeof *g->kv)) return;
    g->kv = (infer__kv *)array;
    kv = &g->kv[g->n_kv];
    memset(kv, 0, sizeof *kv);
    kv->key = infer__cursor_name(c);
    if (!kv->key) return;
    g->n_kv++;
    c->name = kv->key;
    kv->type = (uint32_t)infer__cursor_uint(c, 4);
    kv->offset = c->at;
    if (c->code != INFER_OK) return;
    if (kv->type >= INFER__GGUF_TYPES) {
        infer__gguf_fail(c, INFER_ERR_FORMAT, kv->offset - 4, "unknown value type %u", (unsigned)kv->type);
    } else if (kv->type == INFER__GGUF_STRING) {
        kv->n = infer__cursor_uint(c, 8);
        infer__cursor_take(c, kv->n);
    } else if (kv->type == INFER__GGUF_ARRAY) {
        infer__gguf_array(c, kv);
    } else {
        kv->n = 1;
        infer__gguf_scalar(c, kv);
    }
}

/* All entries of metadata. 1 = done, or the cursor has failed; 0 = the slice is over. */
static int infer__gguf_metadata(infer__gguf_opening *x) {
    infer__cursor *c = &x->c;
    infer__gguf *g = c->g;
    while (c->code == INFER_OK && x->i < x->n_kv) {
        const infer__kv *kv;
        uint64_t n = 0, size;
        if (!x->inside) infer__gguf_entry(c, x->i);
        if (c->code != INFER_OK) break;
        kv = &g->kv[g->n_kv - 1];
        size = infer__gguf_sizes[kv->element];
        if (kv->type == INFER__GGUF_ARRAY) n = infer__gguf_elements(c, kv, x->element);
        x->element += n;
        x->inside = kv->type == INFER__GGUF_ARRAY && x->element < kv->n;
        if (size && n) n = n * size / INFER__BUDGET_BYTES;
        if (!x->inside) {
            x->i++;
            x->element = 0;
        }
        if (infer__budget_over(c->budget, n + 1) && c->code == INFER_OK) return 0;
    }
    return 1;
}

/* Reverse the bytes of each of n elements. */
static void infer__gguf_swap(void *data, uint64_t n, size_t size) {
    uint8_t *p = (uint8_t *)data;
    size_t i;
    for (; n > 0; n--, p += size)
        for (i = 0; i < size / 2; i++) {
            uint8_t b = p[i];
            p[i] = p[size - 1 - i];
            p[size - 1 - i] = b;
        }
}

/* Strings of an array from x->element on, up to the end of a piece. Returns how many. */
static uint64_t infer__gguf_bind_strings(infer__gguf_opening *x, infer__kv *kv) {
    infer__cursor *c = &x->c;
    uint64_t i, to;
    if (!x->strings) {
        x->strings = (infer__str *)infer__arena_raw(&c->g->arena, INFER__MAX(kv->n, 1) * sizeof *x->strings);
        if (!x->strings) {
            infer__gguf_fail(c, INFER_ERR_MEMORY, kv->offset, "no memory for %llu strings", (unsigned long long)kv->n);
            return 0;
        }
        infer__cursor_take(c, 12);
    }
    to = x->element + infer__budget_piece(c->budget, kv->n - x->element, 1);
    for (i = x->element; i < to && c->code == INFER_OK; i++) {
        x->strings[i].n = infer__cursor_uint(c, 8);
        x->strings[i].s = (const char *)infer__cursor_take(c, x->strings[i].n);
    }
    return to - x->element;
}

/* Now that the header does not move any more, make strings and arrays point into it. Lengths are read through the
 * cursor again: a file in the caller's memory may have changed in between. Returns the number of
 * elements done. */
static uint64_t infer__gguf_bind(infer__gguf_opening *x, infer__kv *kv) {
    infer__cursor *c = &x->c;
    uint64_t size, bytes, n = 0;
    const uint8_t *p;
    if (!x->inside) {
        c->what = "metadata key";
        c->name = kv->key;
        c->at = kv->offset;
    }
    if (kv->type == INFER__GGUF_STRING) {
        infer__cursor_take(c, 8);
        kv->data = infer__cursor_take(c, kv->n);
    } else if (kv->type == INFER__GGUF_ARRAY && kv->element == INFER__GGUF_STRING) {
        n = infer__gguf_bind_strings(x, kv);
        x->element += n;
        x->inside = x->element < kv->n;
        if (!x->inside) {
            kv->data = x->strings;
            x->strings = NULL;
            x->element = 0;
        }
    } else if (kv->type == INFER__GGUF_ARRAY) {
        size = infer__gguf_sizes[kv->element];
        bytes = kv->n * size;
        infer__cursor_take(c, 12);
        kv->data = p = infer__cursor_take(c, bytes);
        if (p && c->g->swapped && size > 1 && bytes > 0) {
            void *copy = infer__arena_alloc(&c->g->arena, bytes);
            if (!copy) {
                infer__gguf_fail(c, INFER_ERR_MEMORY, kv->offset, "no memory for the array");
                return 0;
            }
            memcpy(copy, p, (size_t)bytes);
            infer__gguf_swap(copy, kv->n, (size_t)size);
            kv->data = copy;
            n = bytes / INFER__BUDGET_BYTES;
        }
    }
    return n;
}

/* All of the first part's keys. 1 = done, or the cursor has failed; 0 = the slice is over. */
static int infer__gguf_bind_all(infer__gguf_opening *x) {
    infer__gguf *g = x->c.g;
    while (x->c.code == INFER_OK && x->i < (uint64_t)g->n_kv) {
        const uint64_t n = infer__gguf_bind(x, &g->kv[x->i]);
        if (!x->inside) x->i++;
        if (infer__budget_over(x->c.budget, n + 1) && x->c.code == INFER_OK) return 0;
    }
    return 1;
}

/* A key of the part just read (from entry `first` on) that must be an integer in 0..max; NULL when there is none. */
static const infer__kv *infer__gguf_own_uint(infer__cursor *c, int32_t first, const char *key, uint64_t max,
                                             uint64_t *out) {
    infer__gguf *g = c->g;
    int32_t i;
    for (i = first; i < g->n_kv; i++) {
        const infer__kv *kv = &g->kv[i];
        double v;
        if (strcmp(kv->key, key) != 0) continue;
        c->what = "metadata key";
        c->name = key;
        if (kv->type == INFER__GGUF_F32 || kv->type == INFER__GGUF_F64 || kv->type == INFER__GGUF_BOOL ||
            kv->type == INFER__GGUF_STRING || kv->type == INFER__GGUF_ARRAY) {
            infer__gguf_fail(c, INFER_ERR_FORMAT, kv->offset, "must be an integer");
            return NULL;
        }
        v = infer__kv_number(kv, 0);
        if (!(v >= 0 && v <= (double)max)) {
            infer__gguf_fail(c, INFER_ERR_FORMAT, kv->offset, "%.0f is out of range (0 to %llu)", v,
                             (unsigned long long)max);
            return NULL;
        }
        *out = (uint64_t)v;
        return kv;
    }
    return NULL;
}

/* ---- tensors --------------------------------------------------------------------------------------- */

/* Type, row and size in bytes of a tensor whose dims are set. */
static void infer__gguf_measure(infer__cursor *c, infer__gguf_tensor *t, uint64_t at, uint32_t id) {
    const char *removed = NULL;
    uint64_t values;
    t->type = id <= INT32_MAX ? infer__quant_find((int32_t)id, &removed) : NULL;
    if (!t->type) {
        if (removed) infer__gguf_fail(c, INFER_ERR_UNSUPPORTED, at, "type %u (%s) was removed from the format",
                                      (unsigned)id, removed);
        else infer__gguf_fail(c, INFER_ERR_UNSUPPORTED, at, "unknown type %u" INFER__OR_QUANTS, (unsigned)id);
        return;
    }
    if (!infer__mul_ok(t->dims[1], t->dims[2], &t->rows) || !infer__mul_ok(t->rows, t->dims[3], &t->rows) ||
        !infer__mul_ok(t->rows, t->dims[0], &values) || values > INT64_MAX / 8) {
        infer__gguf_fail(c, INFER_ERR_FORMAT, at, "the dimensions multiply to more than a file can hold");
        return;
    }
    if (t->dims[0] % (uint64_t)t->type->values != 0) {
        infer__gguf_fail(c, INFER_ERR_FORMAT, at, "rows of %llu values are no multiple of the %d values of a %s block",
                         (unsigned long long)t->dims[0], (int)t->type->values, t->type->name);
        return;
    }
    if (!infer__quant_bytes(t->type, t->dims[0], &t->row_bytes) || !infer__mul_ok(t->row_bytes, t->rows, &t->bytes))
        infer__gguf_fail(c, INFER_ERR_FORMAT, at, "its size overflows");
}

/* Read entries i .. n - 1 of the tensor directory; they go to the end of g->tensors with offsets from the start of the
 * data. */
static void infer__gguf_directory(infer__cursor *c, uint64_t i, uint64_t n, uint64_t alignment) {
    infer__gguf *g = c->g;
    uint64_t d, at, n_dims, id;
    void *array;
    for (; i < n && c->code == INFER_OK; i++) {
        infer__gguf_tensor *t;
        c->what = "tensor";
        c->name = NULL;
        c->index = i + 1;
        array = g->tensors;
        if (g->n_tensors >= INFER__GGUF_MAX_COUNT) {
            infer__gguf_fail(c, INFER_ERR_UNSUPPORTED, c->at, "more tensors than this library can hold");
            return;
        }
        if (!infer__gguf_grow(c, &array, g->n_tensors, sizeof *g->tensors)) return;
        g->tensors = (infer__gguf_tensor *)array;
        t = &g->tensors[g->n_tensors];
        memset(t, 0, sizeof *t);
        t->name = infer__cursor_name(c);
        if (!t->name) return;
        g->n_tensors++;
        c->name = t->name;
        t->shard = c->part;
        at = c->at;
        n_dims = infer__cursor_uint(c, 4);
        if (c->code == INFER_OK && (n_dims < 1 || n_dims > 4)) {
            infer__gguf_fail(c, INFER_ERR_FORMAT, at, "%u dimensions (1 to 4 are possible)", (unsigned)n_dims);
            return;
        }
        t->n_dims = (int32_t)n_dims;
        for (d = 0; d < 4; d++) {
            at = c->at;
            t->dims[d] = d < n_dims ? infer__cursor_uint(c, 8) : 1;
            if (t->dims[d] == 0) infer__gguf_fail(c, INFER_ERR_FORMAT, at, "dimension %d is 0", (int)d);
        }
        at = c->at;
        id = infer__cursor_uint(c, 4);
        if (c->code == INFER_OK) infer__gguf_measure(c, t, at, (uint32_t)id);
        at = c->at;
        t->offset = infer__cursor_uint(c, 8);
        if (t->offset % alignment != 0)
            infer__gguf_fail(c, INFER_ERR_FORMAT, at, "its offset %llu is no multiple of the alignment, %llu",
                             (unsigned long long)t->offset, (unsigned long long)alignment);
    }
}

/* Sort tensor numbers by offset: heap sort, because it needs no memory and no input makes it slow. */
static void infer__gguf_sort(const infer__gguf_tensor *t, int32_t *order, int32_t n) {
    int32_t heap = n, start = n / 2, i, child, held;
    while (heap > 1) {
        if (start > 0) held = order[--start];
        else {
            held = order[--heap];
            order[heap] = order[0];
        }
        for (i = start; (child = 2 * i + 1) < heap; i = child) {
            if (child + 1 < heap && t[order[child + 1]].offset > t[order[child]].offset) child++;
            if (t[order[child]].offset <= t[held].offset) break;
            order[i] = order[child];
        }
        order[i] = held;
    }
}

/* Tensors from number `first` on must not share bytes. */
static void infer__gguf_overlaps(infer__cursor *c, int32_t first) {
    const infer__gguf_tensor *t;
    int32_t i, n = c->g->n_tensors - first, sorted = 1, *order = NULL;
    if (n < 2) return;
    t = c->g->tensors + first;
    for (i = 1; i < n; i++)
        if (t[i].offset < t[i - 1].offset) sorted = 0;
    if (!sorted) { /* unusual: writers lay tensors out in the order of the directory */
        order = (int32_t *)infer__calloc(c->g->mem, (uint64_t)n, sizeof *order);
        if (!order) { infer__gguf_fail(c, INFER_ERR_MEMORY, c->at, "no memory to check the directory"); return; }
        for (i = 0; i < n; i++) order[i] = i;
        infer__gguf_sort(t, order, n);
    }
    for (i = 1; i < n; i++) {
        const infer__gguf_tensor *a = &t[order ? order[i - 1] : i - 1], *b = &t[order ? order[i] : i];
        char name[84];
        if (b->offset >= a->offset + a->bytes) continue;
        c->what = "tensor";
        c->name = b->name;
        infer__gguf_fail(c, INFER_ERR_FORMAT, b->offset, "its data overlaps tensor \"%s\"",
                         infer__gguf_clip(name, a->name));
        break;
    }
    infer__free(c->g->mem, order);
}

/* Make offsets relative to the start of the file and check that the data exists. */
static void infer__gguf_place(infer__cursor *c, int32_t first, uint64_t alignment) {
    infer__gguf *g = c->g;
    uint64_t start = c->at + (alignment - c->at % alignment) % alignment, end;
    int32_t i;
    for (i = first; i < g->n_tensors; i++) {
        infer__gguf_tensor *t = &g->tensors[i];
        c->what = "tensor";
        c->name = t->name;
        if (!infer__add_ok(start, t->offset, &t->offset) || !infer__add_ok(t->offset, t->bytes, &end) ||
            end > c->size) {
            infer__gguf_fail(c, INFER_ERR_FORMAT, t->offset, "its data (%llu bytes) goes past the end of the file, "
                             "byte %llu: is the file complete?", (unsigned long long)t->bytes,
                             (unsigned long long)c->size);
            return;
        }
        g->tensor_bytes += t->bytes; /* cannot overflow: no two tensors of a file overlap, or it is refused below */
    }
    infer__gguf_overlaps(c, first);
}

/* ---- one file -------------------------------------------------------------------------------------- */

/* Magic, version and byte order. */
static void infer__gguf_start(infer__cursor *c) {
    const uint8_t *p;
    uint32_t version, other;
    if (c->size < 24) {
        infer__gguf_fail(c, INFER_ERR_FORMAT, 0, "not a GGUF file: it has only %llu bytes",
                         (unsigned long long)c->size);
        return;
    }
    p = infer__cursor_take(c, 8);
    if (!p) return;
    if (memcmp(p, "GGUF", 4) != 0) {
        infer__gguf_fail(c, INFER_ERR_FORMAT, 0, "not a GGUF file: it starts with %02x %02x %02x %02x", p[0], p[1],
                         p[2], p[3]);
        return;
    }
    version = infer__load_u32(p + 4);
    other = version >> 24 | (version >> 8 & 0xff00u) | (version << 8 & 0xff0000u) | version << 24;
    c->big = (version & 0xffff) == 0 && version != 0;
    if (c->big) version = other;
    if (version != 2 && version != 3) {
        infer__gguf_fail(c, INFER_ERR_UNSUPPORTED, 4, "GGUF version %u %s", (unsigned)version,
                         version == 1 ? "is too old: convert the model again" : "is not known: 2 and 3 are");
        return;
    }
    if (c->part > 0 && c->g->swapped != (c->big != INFER__BIG_ENDIAN))
        infer__gguf_fail(c, INFER_ERR_FORMAT, 4, "its byte order is not that of the first part");
    if (c->part > 0) return;
    c->g->version = version;
    c->g->swapped = c->big != INFER__BIG_ENDIAN;
}

static void infer__gguf_count(infer__cursor *c, uint64_t at, uint64_t n, uint64_t min, const char *what) {
    uint64_t left = infer__cursor_left(c);
    if (n > left / min)
        infer__gguf_fail(c, INFER_ERR_FORMAT, at, "%llu %s cannot fit into the %llu bytes left", (unsigned long long)n,
                         what, (unsigned long long)left);
    else if (n > INFER__GGUF_MAX_COUNT)
        infer__gguf_fail(c, INFER_ERR_UNSUPPORTED, at, "%llu %s: at most %d are supported", (unsigned long long)n, what,
                         INFER__GGUF_MAX_COUNT);
}

/* A cursor at the start of the part whose source was opened, and what the header counts. */
static void infer__gguf_part_start(infer__gguf_opening *x) {
    infer__cursor *c = &x->c;
    infer__gguf *g = c->g;
    infer__source *s = &g->sources[x->part];
    infer__cursor zero;
    memset(&zero, 0, sizeof zero);
    zero.g = g;
    zero.s = s;
    zero.budget = c->budget;
    zero.err = c->err;
    zero.base = s->file.map ? NULL : (const uint8_t *)s->io.mapped;
    zero.size = s->io.size;
    zero.have = zero.base ? zero.size : 0;
    zero.part = x->part;
    zero.what = "header";
    *c = zero;
    memset(&x->info, 0, sizeof x->info);
    x->first_kv = g->n_kv;
    x->first_tensor = g->n_tensors;
    x->i = 0;
    infer__gguf_start(c);
    x->n_tensors = infer__cursor_uint(c, 8);
    x->n_kv = infer__cursor_uint(c, 8);
    infer__gguf_count(c, 8, x->n_tensors, INFER__GGUF_MIN_TENSOR, "tensors");
    infer__gguf_count(c, 16, x->n_kv, INFER__GGUF_MIN_KV, "metadata keys");
}

/* Reads a part's own keys. */
static void infer__gguf_part_keys(infer__gguf_opening *x) {
    infer__cursor *c = &x->c;
    infer__gguf_part *info = &x->info;
    const infer__kv *kv;
    info->alignment = 32;
    kv = infer__gguf_own_uint(c, x->first_kv, "general.alignment", INFER__GGUF_MAX_ALIGNMENT, &info->alignment);
    if (kv && (info->alignment == 0 || info->alignment % 8 != 0))
        infer__gguf_fail(c, INFER_ERR_FORMAT, kv->offset, "%llu is no multiple of 8",
                         (unsigned long long)info->alignment);
    infer__gguf_own_uint(c, x->first_kv, "split.no", 65535, &info->no);
    infer__gguf_own_uint(c, x->first_kv, "split.count", 65535, &info->count);
    info->has_tensors = infer__gguf_own_uint(c, x->first_kv, "split.tensors.count", INT32_MAX, &info->tensors) != NULL;
}

/* The tensors are read: of the first part the metadata are kept, of the others not. */
static void infer__gguf_part_end(infer__gguf_opening *x) {
    infer__cursor *c = &x->c;
    infer__gguf *g = c->g;
    infer__cursor_trim(c);
    if (c->code == INFER_OK) infer__gguf_place(c, x->first_tensor, x->info.alignment);
    if (x->part > 0) {
        g->n_kv = x->first_kv;
        infer__free(g->mem, c->s->head);
        c->s->head = NULL;
        c->s->head_bytes = c->s->head_room = 0;
    }
}

enum { /* infer__gguf_opening.stage */
    INFER__GGUF_FILES, INFER__GGUF_FILE, INFER__GGUF_KEYS, INFER__GGUF_TENSORS, INFER__GGUF_BIND, INFER__GGUF_INDEX
};

/* The header of the part whose source is open. Its tensors are added; its metadata is kept if it is the first. */
static infer_result infer__gguf_parse_part(infer__gguf_opening *x) {
    infer__cursor *c = &x->c;
    uint64_t n;
    if (x->stage == INFER__GGUF_KEYS) {
        if (!infer__gguf_metadata(x)) return INFER_MORE;
        if (c->code == INFER_OK) infer__gguf_part_keys(x);
        if (c->code != INFER_OK) return c->code;
        x->i = 0;
        x->stage = INFER__GGUF_TENSORS;
    }
    if (x->stage == INFER__GGUF_TENSORS) {
        while (x->i < x->n_tensors && c->code == INFER_OK) {
            n = infer__budget_piece(c->budget, x->n_tensors - x->i, 8);
            infer__gguf_directory(c, x->i, x->i + n, x->info.alignment);
            x->i += n;
            if (infer__budget_over(c->budget, 8 * n) && c->code == INFER_OK) return INFER_MORE;
        }
        infer__gguf_part_end(x);
        x->i = 0;
        x->stage = INFER__GGUF_BIND;
    }
    if (x->part == 0 && !infer__gguf_bind_all(x)) return INFER_MORE;
    c->g->file_bytes += c->size;
    return c->code;
}

/* ---- index ----------------------------------------------------------------------------------------- */

/* FNV-1a from a seed that no file can know, with the finaliser of MurmurHash3. */
static uint32_t infer__gguf_hash(const infer__gguf *g, const char *s) {
    uint64_t h = g->seed;
    for (; *s; s++) h = (h ^ (uint8_t)*s) * 0x100000001b3u;
    h = (h ^ h >> 33) * 0xff51afd7ed558ccdu;
    return (uint32_t)(h >> 32);
}

/* The slot of a key (tensors = 0) or tensor name, or the empty slot where it belongs. A slot holds number + 1. */
static int32_t *infer__gguf_slot(const infer__gguf *g, int tensors, const char *name) {
    int32_t *index = tensors ? g->tensor_index : g->kv_index, i;
    uint32_t mask = tensors ? g->tensor_mask : g->kv_mask, at = infer__gguf_hash(g, name) & mask;
    for (; (i = index[at]) != 0; at = (at + 1) & mask)
        if (strcmp(tensors ? g->tensors[i - 1].name : g->kv[i - 1].key, name) == 0) break;
    return &index[at];
}

/* Fill one of the two hash tables; names must be unique. */
static infer_result infer__gguf_index(infer__gguf *g, int tensors, infer_error *err) {
    int32_t i, n = tensors ? g->n_tensors : g->n_kv, *index;
    uint32_t cap = 16;
    if (n == 0) return INFER_OK;
    while (cap / 2 < (uint32_t)n) cap *= 2;
    index = (int32_t *)infer__calloc(g->mem, cap, sizeof *index);
    if (!index)
        return infer__error(err, INFER_ERR_MEMORY, "no memory for the index of %s", tensors ? "tensors" : "keys");
    if (tensors) { g->tensor_index = index; g->tensor_mask = cap - 1; }
    else { g->kv_index = index; g->kv_mask = cap - 1; }
    for (i = 0; i < n; i++) {
        const char *name = tensors ? g->tensors[i].name : g->kv[i].key;
        int32_t *slot = infer__gguf_slot(g, tensors, name);
        if (*slot != 0) {
            infer__cursor c;
            memset(&c, 0, sizeof c);
            c.err = err;
            c.what = tensors ? "tensor" : "metadata key";
            c.name = name;
            c.part = tensors ? g->tensors[i].shard : 0;
            return infer__gguf_fail(&c, INFER_ERR_FORMAT, tensors ? g->tensors[i].offset : g->kv[i].offset,
                                    "the name occurs twice");
        }
        *slot = i + 1;
    }
    return INFER_OK;
}

/* ---- opening --------------------------------------------------------------------------------------- */

/* The number in five digits at p, or -1. */
static int32_t infer__gguf_digits(const char *p) {
    int32_t i, v = 0;
    for (i = 0; i < 5; i++) {
        if (p[i] < '0' || p[i] > '9') return -1;
        v = v * 10 + (p[i] - '0');
    }
    return v;
}

/* "...-00001-of-00003.gguf": the number of parts according to the path; 1 for other names. */
static int32_t infer__gguf_path_parts(const char *path) {
    size_t n = strlen(path);
    const char *p = path;
    int32_t count;
    if (n < 20) return 1;
    p += n - 20;
    if (p[0] != '-' || strncmp(p + 6, "-of-", 4) != 0 || strcmp(p + 15, ".gguf") != 0) return 1;
    count = infer__gguf_digits(p + 10);
    if (infer__gguf_digits(p + 1) < 1 || count < 1) return 1;
    return INFER__MIN(count, INFER__GGUF_MAX_PARTS);
}

/* Part i beside the first: the same path with another number. */
static infer_result infer__gguf_open_beside(infer__gguf *g, const char *path, int32_t i, int32_t n, int want_map,
                                            infer_error *err) {
    size_t length = strlen(path), name;
    char *other = infer__arena_text(&g->arena, path, length), number[16], shown[84];
    infer_error e;
    infer_result r;
    if (!other) return infer__error(err, INFER_ERR_MEMORY, "no memory for a path");
    infer__format(number, sizeof number, "%05d", (int)i + 1);
    memcpy(other + length - 19, number, 5);
    r = infer__source_open_path(&g->sources[i], other, want_map, &e);
    if (r == INFER_OK) return r;
    for (name = length; name > 0 && other[name - 1] != '/' && other[name - 1] != '\\'; name--) continue;
    return infer__error(err, r, "part %d of %d, \"%s\": %.110s", (int)i + 1, (int)n,
                        infer__gguf_clip(shown, other + name), e.message);
}

static infer_result infer__gguf_open_source(infer__gguf *g, const infer__gguf_origin *o, int32_t i, int32_t n,
                                            infer_error *err) {
    infer__source *s = &g->sources[i];
    infer_result r;
    if (o->path && i == 0) r = infer__source_open_path(s, o->path, o->want_map, err);
    else if (INFER__HAS_SPLIT && o->path) r = infer__gguf_open_beside(g, o->path, i, n, o->want_map, err);
    else if (o->io) r = infer__source_open_io(s, &o->io[i], err);
    else r = infer__source_open_memory(s, g->mem, o->data, o->size, err);
    if (r == INFER_OK) g->n_sources = i + 1;
#if !defined(INFER_NO_STDIO)
    if (s->file.shared && o->want_map)
        infer__log(g->report, 2, "file %d: every user may write to it, and so shorten it: it is read into memory, not "
                                 "mapped (no_mmap -1 maps it)",
                   (int)i + 1);
#endif
    return r;
}

/* Does the first part's split.count agree with the files that exist (given: by name, or by n_io)? */
static infer_result infer__gguf_check_split(const infer__gguf_origin *o, const infer__gguf_part *first, int32_t given,
                                            infer_error *err) {
    uint64_t count = INFER__MAX(first->count, 1);
    if (!INFER__HAS_SPLIT && (count > 1 || (given > 1 && !o->path)))
        return infer__left_out(err, "models in several files", "INFER_NO_SPLIT");
    if (first->no >= count)
        return infer__error(err, INFER_ERR_FORMAT, "metadata key \"split.no\": %d, but \"split.count\" is %d",
                            (int)first->no, (int)first->count);
    if (!INFER__HAS_SPLIT) return INFER_OK;
    if (first->no != 0)
        return infer__error(err, INFER_ERR_ARGUMENT, "this is part %d of a model split into %d: open the first part",
                            (int)first->no + 1, (int)count);
    if (count > INFER__GGUF_MAX_PARTS)
        return infer__error(err, INFER_ERR_UNSUPPORTED,
                            "metadata key \"split.count\": %d parts, at most %d are supported", (int)count,
                            INFER__GGUF_MAX_PARTS);
    if (count == (uint64_t)given || (count == 1 && o->path)) return INFER_OK;
    if (o->path)
        return infer__error(err, INFER_ERR_FORMAT,
                            "metadata key \"split.count\": the model is split into %d parts, but the "
                            "file's name does not end in -00001-of-%05d.gguf",
                            (int)count, (int)count);
    return infer__error(err, INFER_ERR_ARGUMENT,
                        "metadata key \"split.count\": the model is split into %d parts, %d given", (int)count,
                        (int)given);
}

/* Checks that the parsed part is the expected one. */
static infer_result infer__gguf_part_check(infer__gguf_opening *x, infer_error *err) {
    infer_result r;
    if (!INFER__HAS_SPLIT || x->part == 0) {
        x->first = x->info;
        r = infer__gguf_check_split(&x->origin, &x->first, x->given, err);
        x->n_parts = (int32_t)INFER__MAX(x->first.count, 1);
        return r;
    }
    if (x->info.no == (uint64_t)x->part && x->info.count == (uint64_t)x->n_parts) return INFER_OK;
    return infer__error(err, INFER_ERR_FORMAT,
                        "part %d: metadata keys \"split.no\" and \"split.count\" say part %d "
                        "of %d, not %d of %d",
                        (int)x->part + 1, (int)x->info.no + 1, (int)x->info.count, (int)x->part + 1, (int)x->n_parts);
}

static infer_result infer__gguf_finish(infer__gguf_opening *x, infer__gguf *g, infer_error *err) {
    infer_result r;
    if (INFER__HAS_SPLIT && x->n_parts > 1 && x->first.has_tensors && x->first.tensors != (uint64_t)g->n_tensors)
        return infer__error(err, INFER_ERR_FORMAT, "metadata key \"split.tensors.count\": %d, but the %d parts have %d",
                            (int)x->first.tensors, (int)x->n_parts, (int)g->n_tensors);
    r = infer__gguf_index(g, 0, err);
    if (r == INFER_OK) r = infer__gguf_index(g, 1, err);
    if (r != INFER_OK || g->n_kv == 0) return r;
    g->asked = (uint8_t *)infer__calloc(g->mem, (uint64_t)g->n_kv, 1);
    return g->asked ? INFER_OK : infer__error(err, INFER_ERR_MEMORY, "no memory for %d keys", (int)g->n_kv);
}

/* Sources, headers, index: everything but freeing after an error. */
static infer_result infer__gguf_open_parts(infer__gguf_opening *x, infer__gguf *g, infer_error *err) {
    const infer__gguf_origin *o = &x->origin;
    infer_result r;
    if (x->stage == INFER__GGUF_FILES) {
        x->given = o->path ? infer__gguf_path_parts(o->path) : o->io ? o->n_io : 1;
        x->n_parts = 1;
        g->sources = (infer__source *)infer__calloc(g->mem, (uint64_t)x->given, sizeof *g->sources);
        if (!g->sources) return infer__error(err, INFER_ERR_MEMORY, "no memory to open %d files", (int)x->given);
        x->stage = INFER__GGUF_FILE;
    }
    while (x->stage != INFER__GGUF_INDEX) {
        if (x->stage == INFER__GGUF_FILE) {
            r = infer__gguf_open_source(g, o, x->part, x->n_parts, err);
            if (r != INFER_OK) return r;
            infer__gguf_part_start(x);
            x->stage = INFER__GGUF_KEYS;
            if (x->c.code == INFER_OK && infer__budget_over(x->c.budget, INFER__BUDGET_PIECE / 4)) return INFER_MORE;
        }
        r = infer__gguf_parse_part(x);
        if (r == INFER_OK) r = infer__gguf_part_check(x, err);
        if (r != INFER_OK) return r;
        x->stage = INFER__HAS_SPLIT && ++x->part < x->n_parts ? INFER__GGUF_FILE : INFER__GGUF_INDEX;
    }
    return infer__gguf_finish(x, g, err);
}

static void infer__gguf_begin(infer__gguf_opening *x, infer__gguf *g, infer__mem *mem, const infer__report *report,
                              const infer__gguf_origin *origin) {
    memset(g, 0, sizeof *g);
    g->mem = mem;
    g->report = report;
    g->arena.mem = mem;
    g->seed = (uint64_t)(uintptr_t)g * 0x9e3779b97f4a7c15u ^ (uint64_t)(infer__seconds() * 1e9);
    memset(x, 0, sizeof *x);
    x->origin = *origin;
    x->c.g = g;
}

static infer_result infer__gguf_step(infer__gguf_opening *x, infer__gguf *g, infer__budget *budget, infer_error *err) {
    infer_result r;
    x->c.budget = budget;
    x->c.err = err;
    r = infer__gguf_open_parts(x, g, err);
    x->c.budget = NULL; /* they are the caller's */
    x->c.err = NULL;
    if (r == INFER_MORE) return r;
    if (r != INFER_OK) { infer__gguf_close(g); return r; }
    infer__log(g->report, 4, "GGUF version %u%s: %d file(s), %llu bytes, %d keys, %d tensors", (unsigned)g->version,
               g->swapped ? " of the other byte order" : "", (int)g->n_sources, (unsigned long long)g->file_bytes,
               (int)g->n_kv, (int)g->n_tensors);
    return INFER_OK;
}

static infer_result infer__gguf_open(infer__gguf *g, infer__mem *mem, const infer__report *report,
                                     const infer__gguf_origin *origin, infer_error *err) {
    infer__gguf_opening x;
    infer__gguf_begin(&x, g, mem, report, origin);
    return infer__gguf_step(&x, g, NULL, err);
}

static infer_result infer__gguf_open_path(infer__gguf *g, infer__mem *mem, const infer__report *report,
                                          const char *path, int want_map, infer_error *err) {
    infer__gguf_origin o;
    memset(&o, 0, sizeof o);
    o.path = path;
    o.want_map = want_map;
    return infer__gguf_open(g, mem, report, &o, err);
}

static infer_result infer__gguf_open_memory(infer__gguf *g, infer__mem *mem, const infer__report *report,
                                            const void *data, uint64_t size, infer_error *err) {
    infer__gguf_origin o;
    memset(&o, 0, sizeof o);
    o.data = data;
    o.size = size;
    return infer__gguf_open(g, mem, report, &o, err);
}

static infer_result infer__gguf_open_io(infer__gguf *g, infer__mem *mem, const infer__report *report,
                                        const infer_io *io, int32_t n_io, infer_error *err) {
    infer__gguf_origin o;
    memset(&o, 0, sizeof o);
    o.io = io;
    o.n_io = n_io;
    if (!io || n_io < 1) {
        memset(g, 0, sizeof *g);
        return infer__error(err, INFER_ERR_ARGUMENT, "no io given");
    }
    return infer__gguf_open(g, mem, report, &o, err);
}

static void infer__gguf_close(infer__gguf *g) {
    int32_t i;
    if (!g->mem) return; /* closed already */
    for (i = 0; i < g->n_tensors; i++) infer__free(g->mem, g->tensors[i].owned);
    for (i = 0; i < g->n_sources; i++) infer__source_close(&g->sources[i], g->mem);
    infer__mem_release(g->mem, g->reserved);
    infer__free(g->mem, g->sources);
    infer__free(g->mem, g->kv);
    infer__free(g->mem, g->tensors);
    infer__free(g->mem, g->kv_index);
    infer__free(g->mem, g->tensor_index);
    infer__free(g->mem, g->asked);
    infer__arena_free(&g->arena);
    memset(g, 0, sizeof *g);
}
#undef INFER__GGUF_MAX_NAME
#undef INFER__GGUF_MAX_COUNT
#undef INFER__GGUF_MAX_ALIGNMENT
#undef INFER__GGUF_MAX_PARTS
#undef INFER__GGUF_HEAD
#undef INFER__GGUF_MIN_KV
#undef INFER__GGUF_MIN_TENSOR
