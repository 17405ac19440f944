/* gguf_write.h: writes GGUF files in memory, well formed or (with the gw_raw_* functions and the fields) not.
 *
 *     gguf_writer w; size_t n; unsigned char *file;
 *     gw_init(&w);
 *     gw_str(&w, "general.architecture", "llama");
 *     gw_int(&w, "llama.block_count", GW_U32, 2);
 *     gw_tensor(&w, "a", 0, 2, dims, floats, sizeof floats, 4);
 *     file = gw_finish(&w, &n);     free() it
 *
 * Set w.big, w.version and w.align after gw_init and before anything else. Format: ggml, docs/gguf.md. */
#ifndef GGUF_WRITE_H
#define GGUF_WRITE_H
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GW_U8, GW_I8, GW_U16, GW_I16, GW_U32, GW_I32, GW_F32, GW_BOOL, GW_STRING, GW_ARRAY, GW_U64, GW_I64, GW_F64 };

typedef struct gw_bytes { unsigned char *p; size_t n, cap; } gw_bytes;
typedef struct gguf_writer {
    gw_bytes kv, dir, data;
    uint64_t n_kv, n_tensors; /* counted; change them before gw_finish to lie */
    uint64_t align;           /* of the data; gw_align also writes the key */
    uint32_t version;
    int big;
    int cut_padding;          /* 1 = no padding behind the last tensor */
    size_t tail;              /* bytes that the last tensor's padding takes */
} gguf_writer;

static void gw_init(gguf_writer *w) {
    memset(w, 0, sizeof *w);
    w->version = 3;
    w->align = 32;
}

static void gw_add(gw_bytes *b, const void *p, size_t n) {
    if (b->n + n > b->cap) {
        b->cap = (b->n + n) * 2 + 256;
        b->p = (unsigned char *)realloc(b->p, b->cap);
        if (!b->p) { fprintf(stderr, "gguf_write: no memory\n"); exit(1); }
    }
    if (n && p) memcpy(b->p + b->n, p, n);
    else if (n) memset(b->p + b->n, 0, n);
    b->n += n;
}

static void gw_uint(const gguf_writer *w, gw_bytes *b, uint64_t v, size_t size) {
    unsigned char out[8];
    size_t i;
    for (i = 0; i < size; i++) out[w->big ? size - 1 - i : i] = (unsigned char)(v >> 8 * i);
    gw_add(b, out, size);
}

static size_t gw_size(int type) {
    static const unsigned char sizes[] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };
    return sizes[type];
}

static void gw_raw_string(const gguf_writer *w, gw_bytes *b, const void *s, size_t n) {
    gw_uint(w, b, n, 8);
    gw_add(b, s, n);
}

/* ---- metadata ---- */

static void gw_key(gguf_writer *w, const char *key, uint32_t type) {
    gw_raw_string(w, &w->kv, key, strlen(key));
    gw_uint(w, &w->kv, type, 4);
    w->n_kv++;
}
static void gw_int(gguf_writer *w, const char *key, int type, int64_t v) {
    gw_key(w, key, (uint32_t)type);
    gw_uint(w, &w->kv, (uint64_t)v, gw_size(type));
}
static void gw_f32(gguf_writer *w, const char *key, float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    gw_int(w, key, GW_F32, u);
}
static void gw_f64(gguf_writer *w, const char *key, double d) {
    uint64_t u;
    memcpy(&u, &d, 8);
    gw_int(w, key, GW_F64, (int64_t)u);
}
static void gw_strn(gguf_writer *w, const char *key, const void *s, size_t n) {
    gw_key(w, key, GW_STRING);
    gw_raw_string(w, &w->kv, s, n);
}
static void gw_str(gguf_writer *w, const char *key, const char *s) { gw_strn(w, key, s, strlen(s)); }
/* The head of an array; the elements follow with gw_uint or gw_raw_string on w->kv. */
static void gw_array(gguf_writer *w, const char *key, uint32_t element, uint64_t n) {
    gw_key(w, key, GW_ARRAY);
    gw_uint(w, &w->kv, element, 4);
    gw_uint(w, &w->kv, n, 8);
}
static void gw_ints(gguf_writer *w, const char *key, int element, const int64_t *v, size_t n) {
    size_t i;
    gw_array(w, key, (uint32_t)element, n);
    for (i = 0; i < n; i++) gw_uint(w, &w->kv, (uint64_t)v[i], gw_size(element));
}
static void gw_f32s(gguf_writer *w, const char *key, const float *v, size_t n) {
    size_t i;
    gw_array(w, key, GW_F32, n);
    for (i = 0; i < n; i++) {
        uint32_t u;
        memcpy(&u, &v[i], 4);
        gw_uint(w, &w->kv, u, 4);
    }
}
static void gw_strs(gguf_writer *w, const char *key, const char *const *v, size_t n) {
    size_t i;
    gw_array(w, key, GW_STRING, n);
    for (i = 0; i < n; i++) gw_raw_string(w, &w->kv, v[i], strlen(v[i]));
}
static void gw_align(gguf_writer *w, uint32_t align) {
    w->align = align;
    gw_int(w, "general.alignment", GW_U32, align);
}
static void gw_split(gguf_writer *w, int no, int count, int tensors) {
    gw_int(w, "split.no", GW_U16, no);
    gw_int(w, "split.count", GW_U16, count);
    gw_int(w, "split.tensors.count", GW_I32, tensors);
}

/* ---- tensors ---- */

/* A directory entry alone, with any contents. */
static void gw_raw_tensor(gguf_writer *w, const char *name, size_t name_n, uint32_t type, uint32_t n_dims,
                          const uint64_t *dims, uint64_t offset) {
    uint32_t i;
    gw_raw_string(w, &w->dir, name, name_n);
    gw_uint(w, &w->dir, n_dims, 4);
    for (i = 0; i < n_dims; i++) gw_uint(w, &w->dir, dims[i], 8);
    gw_uint(w, &w->dir, type, 4);
    gw_uint(w, &w->dir, offset, 8);
    w->n_tensors++;
}

/* A tensor with its data in this machine's byte order; element = bytes of one number of a plain type, 1 for blocks.
 * data NULL = zeros. */
static void gw_tensor(gguf_writer *w, const char *name, uint32_t type, uint32_t n_dims, const uint64_t *dims,
                      const void *data, size_t bytes, size_t element) {
    static const uint16_t one = 1;
    const int swap = (*(const unsigned char *)&one == 0) != (w->big != 0);
    size_t i, at;
    gw_raw_tensor(w, name, strlen(name), type, n_dims, dims, w->data.n);
    at = w->data.n;
    gw_add(&w->data, data, bytes);
    if (swap)
        for (i = 0; i < bytes; i++)
            if (data) w->data.p[at + i] = ((const unsigned char *)data)[i / element * element + element - 1 - i % element];
    w->tail = (size_t)((w->align - w->data.n % w->align) % w->align);
    gw_add(&w->data, NULL, w->tail);
}

/* The file; the writer is empty afterwards. */
static unsigned char *gw_finish(gguf_writer *w, size_t *n) {
    gw_bytes out = { NULL, 0, 0 };
    unsigned char *file;
    gw_add(&out, "GGUF", 4);
    gw_uint(w, &out, w->version, 4);
    gw_uint(w, &out, w->n_tensors, w->version == 1 ? 4 : 8);
    gw_uint(w, &out, w->n_kv, w->version == 1 ? 4 : 8);
    gw_add(&out, w->kv.p, w->kv.n);
    gw_add(&out, w->dir.p, w->dir.n);
    if (w->data.n) {
        gw_add(&out, NULL, (size_t)((w->align - out.n % w->align) % w->align));
        gw_add(&out, w->data.p, w->data.n - (w->cut_padding ? w->tail : 0));
    }
    file = out.p;
    *n = out.n;
    free(w->kv.p);
    free(w->dir.p);
    free(w->data.p);
    memset(w, 0, sizeof *w);
    return file;
}

/* 1 when written. */
static int gw_save(const char *path, const void *p, size_t n) {
    FILE *f = fopen(path, "wb");
    int ok;
    if (!f) return 0;
    ok = fwrite(p, 1, n, f) == n;
    return fclose(f) == 0 && ok;
}
#endif
