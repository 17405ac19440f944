/* gguf_read.c: the header of one file. Nothing in it is trusted: what it counts is checked against the bytes left. */
#include "files.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_NAME = 65535 }; /* bytes */

const unsigned char value_sizes[GGUF_N_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

static uint64_t number(const unsigned char *p, int n) {
    uint64_t x = 0;
    int i;
    for (i = 0; i < n; i++) x |= (uint64_t)p[i] << (8 * i);
    return x;
}

/* ---- the bytes of one file ------------------------------------------------------------------- */

typedef struct reader {
    file_model *m;
    const char *path;
    uint64_t size, at;
    unsigned char *buf; /* what was read since n was last set to 0 */
    size_t n, cap;
} reader;

static int bad(const reader *r, const char *what) {
    cli_fail(r->m->command, "%s: at byte %llu: %s", r->path, (unsigned long long)r->at, what);
    return 0;
}

/* The next n bytes, to the end of the buffer. */
static int take(reader *r, uint64_t n) {
    if (n > r->size - r->at) return bad(r, "the file ends here: is it complete?");
    if (n > r->cap - r->n) {
        const size_t cap = 2 * (r->n + (size_t)n) + 64;
        unsigned char *grown = n < SIZE_MAX / 4 ? cli_grow(r->m->command, r->buf, cap, 1) : NULL;
        if (n >= SIZE_MAX / 4) return bad(r, "a value too large for memory");
        if (grown == NULL) return 0;
        r->buf = grown;
        r->cap = cap;
    }
    if (n > 0 && fread(r->buf + r->n, 1, (size_t)n, r->m->file) != n) return bad(r, "cannot read the file");
    r->n += (size_t)n;
    r->at += n;
    return 1;
}

/* A number of 4 or 8 bytes; the buffer is emptied before. */
static int take_number(reader *r, int n, uint64_t *out) {
    r->n = 0;
    if (!take(r, (uint64_t)n)) return 0;
    *out = number(r->buf, n);
    return 1;
}

/* The buffer in memory of its own, with a zero after it. */
static unsigned char *keep(const reader *r) {
    unsigned char *p = cli_alloc(r->m->command, r->n + 1, 1);
    if (p == NULL) return NULL;
    if (r->n > 0) memcpy(p, r->buf, r->n);
    p[r->n] = 0;
    return p;
}

static char *take_name(reader *r) {
    uint64_t n;
    if (!take_number(r, 8, &n)) return NULL;
    r->n = 0;
    if (n == 0 || n > MAX_NAME) {
        bad(r, "a name of this length is not possible");
        return NULL;
    }
    if (!take(r, n)) return NULL;
    if (memchr(r->buf, 0, r->n) == NULL) return (char *)keep(r);
    bad(r, "a name with a zero byte");
    return NULL;
}

/* ---- metadata ------------------------------------------------------------------------------- */

static int take_string(reader *r) {
    return take(r, 8) && take(r, number(r->buf + r->n - 8, 8));
}

/* A bool is 0 or 1: the n bytes at the buffer's end. */
static int are_bools(const reader *r, size_t n) {
    size_t i;
    for (i = r->n - n; i < r->n; i++)
        if (r->buf[i] > 1) return 0;
    return 1;
}

static int take_array(reader *r, file_key *k) {
    uint64_t i, left;
    if (!take(r, GGUF_ARRAY_HEAD)) return 0;
    k->element = (uint32_t)number(r->buf, 4);
    k->n = number(r->buf + 4, 8);
    left = r->size - r->at;
    if (k->element == GGUF_ARRAY) return bad(r, "arrays of arrays are not supported");
    if (k->element >= GGUF_N_TYPES) return bad(r, "unknown type of array elements");
    if (k->n > left / (value_sizes[k->element] ? value_sizes[k->element] : 8)) return bad(r, "the array goes past the end of the file");
    if (k->element != GGUF_STRING) return take(r, k->n * value_sizes[k->element]);
    for (i = 0; i < k->n; i++)
        if (!take_string(r)) return 0;
    return 1;
}

static int take_value(reader *r, file_key *k) {
    uint64_t type;
    int is_bool;
    if (!take_number(r, 4, &type)) return 0;
    r->n = 0;
    if (type >= GGUF_N_TYPES) return bad(r, "unknown type of a value");
    k->type = (uint32_t)type;
    k->n = 1;
    if (!(type == GGUF_STRING ? take_string(r) : type == GGUF_ARRAY ? take_array(r, k) : take(r, value_sizes[type]))) return 0;
    is_bool = type == GGUF_BOOL || (type == GGUF_ARRAY && k->element == GGUF_BOOL);
    if (is_bool && !are_bools(r, type == GGUF_BOOL ? 1 : (size_t)k->n)) return bad(r, "a bool that is neither 0 nor 1");
    k->value = keep(r);
    k->bytes = r->n;
    return k->value != NULL;
}

/* Room for one more in an array of n, which doubles at powers of two. */
static void *room(const char *command, void *array, size_t n, size_t size) {
    if (n != 0 && (n < 16 || (n & (n - 1)) != 0)) return array;
    return cli_grow(command, array, n == 0 ? 16 : 2 * n, size);
}

static int take_keys(reader *r, uint64_t n) {
    file_model *m = r->m;
    for (; n > 0; n--) {
        file_key *grown = room(m->command, m->keys, m->n_keys, sizeof *grown), *k;
        if (grown == NULL) return 0;
        m->keys = grown;
        k = &grown[m->n_keys];
        memset(k, 0, sizeof *k);
        k->name = take_name(r);
        if (k->name == NULL) return 0;
        m->n_keys++;
        if (!take_value(r, k)) return 0;
    }
    return 1;
}

void file_drop_keys(file_model *m, size_t from) {
    while (m->n_keys > from) {
        m->n_keys--;
        free(m->keys[m->n_keys].name);
        free(m->keys[m->n_keys].value);
    }
}

size_t value_decode(uint32_t type, const unsigned char *p, infer_meta *out) {
    const int size = type < GGUF_N_TYPES ? value_sizes[type] : 0;
    const uint64_t u = number(p, size ? size : 8), top = size ? (uint64_t)1 << (8 * size - 1) : 0;
    uint32_t bits = (uint32_t)u;
    float f;
    memset(out, 0, sizeof *out);
    out->type = (int32_t)type;
    out->n = 1;
    switch (type) {
    case GGUF_STRING:
        out->kind = INFER_META_STRING;
        out->n = u;
        out->s = (const char *)p + 8;
        return 8 + (size_t)u;
    case GGUF_F32:
    case GGUF_F64:
        out->kind = INFER_META_FLOAT;
        memcpy(&f, &bits, 4);
        memcpy(&out->f, &u, 8);
        if (type == GGUF_F32) out->f = (double)f;
        break;
    case GGUF_I8:
    case GGUF_I16:
    case GGUF_I32:
    case GGUF_I64:
        out->kind = INFER_META_INT;
        out->i = (int64_t)((u ^ top) - top); /* sign extension */
        out->f = (double)out->i;
        break;
    default:
        out->kind = type == GGUF_BOOL ? INFER_META_BOOL : INFER_META_UINT;
        out->u = u;
        out->f = (double)u;
        break;
    }
    return (size_t)size;
}

size_t file_value_bytes(uint32_t type, const unsigned char *p) {
    size_t n = GGUF_ARRAY_HEAD;
    uint64_t i;
    uint32_t element;
    if (type == GGUF_STRING) return 8 + (size_t)number(p, 8);
    if (type != GGUF_ARRAY) return type < GGUF_N_TYPES ? value_sizes[type] : 0;
    element = (uint32_t)number(p, 4);
    if (element != GGUF_STRING) return n + (size_t)number(p + 4, 8) * value_sizes[element];
    for (i = number(p + 4, 8); i > 0; i--) n += 8 + (size_t)number(p + n, 8);
    return n;
}

/* ---- tensors -------------------------------------------------------------------------------- */

static int times(uint64_t *x, uint64_t y) {
    if (y != 0 && *x > INT64_MAX / y) return 0;
    *x *= y;
    return 1;
}

int file_measure(const file_model *m, const char *path, file_tensor *t) {
    infer_type_info type;
    uint64_t values = t->dims[0];
    int32_t i;
    int k, ok;
    for (i = 0; infer_type_get(i, &type) == INFER_OK && (uint32_t)type.id != t->type; i++) continue;
    if (infer_type_get(i, &type) != INFER_OK || type.values < 1) {
        cli_fail(m->command, "%s: tensor %s: unknown type %lu", path, t->name, (unsigned long)t->type);
        return 0;
    }
    t->rows = 1;
    t->bytes = values / (uint64_t)type.values;
    ok = values % (uint64_t)type.values == 0 && times(&t->bytes, (uint64_t)type.bytes);
    for (k = 1; ok && k < 4; k++)
        ok = times(&t->rows, t->dims[k]) && times(&values, t->dims[k]) && times(&t->bytes, t->dims[k]);
    if (ok && values > 0) return 1;
    cli_fail(m->command, "%s: tensor %s: %s cannot have this shape", path, t->name, type.name);
    return 0;
}

static int take_tensor(reader *r, file_tensor *t) {
    uint64_t n_dims, i;
    if (!take_number(r, 4, &n_dims)) return 0;
    if (n_dims < 1 || n_dims > 4) return bad(r, "a tensor has 1 to 4 dimensions");
    r->n = 0;
    if (!take(r, 8 * n_dims + 12)) return 0;
    t->n_dims = (int)n_dims;
    for (i = 0; i < 4; i++) t->dims[i] = i < n_dims ? number(r->buf + 8 * i, 8) : 1;
    t->type = t->natural = (uint32_t)number(r->buf + 8 * n_dims, 4);
    t->offset = number(r->buf + 8 * n_dims + 4, 8);
    return file_measure(r->m, r->path, t);
}

static int take_tensors(reader *r, uint64_t n, int part) {
    file_model *m = r->m;
    for (; n > 0; n--) {
        file_tensor *grown = room(m->command, m->tensors, m->n_tensors, sizeof *grown), *t;
        if (grown == NULL) return 0;
        m->tensors = grown;
        t = &grown[m->n_tensors];
        memset(t, 0, sizeof *t);
        t->part = part;
        t->name = take_name(r);
        if (t->name == NULL) return 0;
        m->n_tensors++;
        if (!take_tensor(r, t)) return 0;
    }
    return 1;
}

/* The directory ends here: offsets from the start of the file. */
static int place(const reader *r, size_t first, uint64_t alignment) {
    const uint64_t start = r->at + (alignment - r->at % alignment) % alignment;
    file_model *m = r->m;
    size_t i;
    for (i = first; i < m->n_tensors; i++) {
        file_tensor *t = &m->tensors[i];
        if (t->offset % alignment == 0 && t->offset < INT64_MAX && start + t->offset <= r->size &&
            t->bytes <= r->size - start - t->offset) {
            t->offset += start;
            m->data_bytes += t->bytes;
            continue;
        }
        if (t->offset % alignment != 0)
            cli_fail(m->command, "%s: tensor %s: its offset is no multiple of %.0f", r->path, t->name, (double)alignment);
        else
            cli_fail(m->command, "%s: tensor %s: its data goes past the end of the file, byte %llu: is the file complete?",
                     r->path, t->name, (unsigned long long)r->size);
        return 0;
    }
    return 1;
}

/* ---- the header ------------------------------------------------------------------------------ */

static int read_header(reader *r, int part) {
    file_model *m = r->m;
    const size_t first_key = m->n_keys, first_tensor = m->n_tensors;
    uint64_t version, n_tensors, n_keys, step;
    if (!platform_size(m->file, &r->size)) return bad(r, "cannot read the file");
    if (r->size < 24 || !take(r, 4) || memcmp(r->buf, "GGUF", 4) != 0) {
        if (r->size >= 24 && r->n < 4) return 0;
        cli_fail(m->command, "%s: not a GGUF file", r->path);
        return 0;
    }
    if (!take_number(r, 4, &version)) return 0;
    if ((version & 0xffff) == 0 && version != 0) {
        cli_fail(m->command, "%s: big-endian files are not supported by this command", r->path);
        return 0;
    }
    if (version != 2 && version != 3) {
        cli_fail(m->command, "%s: GGUF version %.0f is not supported: 2 and 3 are", r->path, (double)version);
        return 0;
    }
    if (!take_number(r, 8, &n_tensors) || !take_number(r, 8, &n_keys) || !take_keys(r, n_keys)) return 0;
    step = file_alignment(m->command, r->path, m->keys + first_key, m->n_keys - first_key);
    return step != 0 && take_tensors(r, n_tensors, part) && place(r, first_tensor, step);
}

int file_read_header(file_model *m, const char *path, int part) {
    reader r;
    int ok;
    memset(&r, 0, sizeof r);
    r.m = m;
    r.path = path;
    ok = read_header(&r, part);
    free(r.buf);
    return ok;
}
