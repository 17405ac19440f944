/* gguf_write.c: see gguf_write.h. The format is version 3 of GGUF: magic, version, number of tensors, number of
 * metadata values, the values, the tensor directory, padding, data. Everything is little-endian. */
#include "gguf_write.h"

#include <stdlib.h>
#include <string.h>

static void append(gguf_out *g, unsigned char **p, size_t *n, size_t *cap, const void *from, size_t count) {
    if (g->failed) return;
    if (*cap - *n < count) {
        size_t want = (*n + count) * 2 + 4096;
        unsigned char *grown = realloc(*p, want);
        if (grown == NULL) {
            g->failed = 1;
            return;
        }
        *p = grown;
        *cap = want;
    }
    memcpy(*p + *n, from, count);
    *n += count;
}

void gguf_store(unsigned char *p, uint64_t x, int n) {
    int i;
    for (i = 0; i < n; i++) p[i] = (unsigned char)(x >> (8 * i));
}

uint64_t gguf_load(const unsigned char *p, int n) {
    uint64_t x = 0;
    while (n-- > 0) x = x << 8 | p[n];
    return x;
}

static void meta_bytes(gguf_out *g, const void *p, size_t n) { append(g, &g->meta, &g->meta_n, &g->meta_cap, p, n); }

static void meta_number(gguf_out *g, uint64_t x, int n) {
    unsigned char b[8];
    gguf_store(b, x, n);
    meta_bytes(g, b, (size_t)n);
}

static void meta_key(gguf_out *g, const char *key, uint32_t type) {
    gguf_element_string(g, key);
    meta_number(g, type, 4);
    g->n_meta++;
}

static uint32_t float_bits(double x) {
    float f = (float)x;
    uint32_t bits;
    memcpy(&bits, &f, 4);
    return bits;
}

void gguf_raw(gguf_out *g, const char *key, uint32_t type, const void *value, size_t n) {
    meta_key(g, key, type);
    meta_bytes(g, value, n);
}

void gguf_u32(gguf_out *g, const char *key, uint32_t x) {
    meta_key(g, key, GGUF_U32);
    meta_number(g, x, 4);
}

void gguf_i32(gguf_out *g, const char *key, int32_t x) {
    meta_key(g, key, GGUF_I32);
    meta_number(g, (uint32_t)x, 4);
}

void gguf_f32(gguf_out *g, const char *key, double x) {
    meta_key(g, key, GGUF_F32);
    meta_number(g, float_bits(x), 4);
}

void gguf_bool(gguf_out *g, const char *key, int x) {
    meta_key(g, key, GGUF_BOOL);
    meta_number(g, x != 0, 1);
}

void gguf_string(gguf_out *g, const char *key, const char *s) { gguf_text(g, key, s, strlen(s)); }

void gguf_text(gguf_out *g, const char *key, const char *s, size_t n) {
    meta_key(g, key, GGUF_STRING);
    gguf_element_text(g, s, n);
}

void gguf_array(gguf_out *g, const char *key, uint32_t type, uint64_t n) {
    meta_key(g, key, GGUF_ARRAY);
    meta_number(g, type, 4);
    meta_number(g, n, 8);
}

void gguf_element_string(gguf_out *g, const char *s) { gguf_element_text(g, s, strlen(s)); }

void gguf_element_text(gguf_out *g, const char *s, size_t n) {
    meta_number(g, n, 8);
    meta_bytes(g, s, n);
}

void gguf_element_i32(gguf_out *g, int32_t x) { meta_number(g, (uint32_t)x, 4); }

void gguf_element_f32(gguf_out *g, double x) { meta_number(g, float_bits(x), 4); }
void gguf_element_bool(gguf_out *g, int x) { meta_number(g, x != 0, 1); }

static uint64_t padded(const gguf_out *g, uint64_t n) {
    const uint64_t step = g->alignment ? g->alignment : GGUF_ALIGNMENT;
    return (n + step - 1) / step * step;
}

void gguf_tensor(gguf_out *g, const char *name, uint32_t type, int n_dims, const uint64_t *dims, uint64_t bytes) {
    unsigned char b[64];
    size_t n = strlen(name);
    int i;
    gguf_store(b, n, 8);
    append(g, &g->directory, &g->directory_n, &g->directory_cap, b, 8);
    append(g, &g->directory, &g->directory_n, &g->directory_cap, name, n);
    gguf_store(b, (uint64_t)n_dims, 4);
    for (i = 0; i < n_dims; i++) gguf_store(b + 4 + 8 * i, dims[i], 8);
    gguf_store(b + 4 + 8 * n_dims, type, 4);
    gguf_store(b + 8 + 8 * n_dims, g->data_n, 8);
    append(g, &g->directory, &g->directory_n, &g->directory_cap, b, (size_t)(16 + 8 * n_dims));
    g->data_n += padded(g, bytes);
    g->n_tensors++;
}

static void put(gguf_out *g, const void *p, size_t n) {
    if (!g->failed && n > 0 && fwrite(p, 1, n, g->file) != n) g->failed = 1;
}

static void put_zeros(gguf_out *g, uint64_t n) {
    static const unsigned char ZEROS[256] = {0};
    for (; n > sizeof ZEROS; n -= sizeof ZEROS) put(g, ZEROS, sizeof ZEROS);
    put(g, ZEROS, (size_t)n);
}

enum { HEAD_BYTES = 24 };
uint64_t gguf_header_bytes(const gguf_out *g) { return padded(g, HEAD_BYTES + g->meta_n + g->directory_n); }

void gguf_header(const gguf_out *g, unsigned char *out) {
    memcpy(out, "GGUF", 4);
    gguf_store(out + 4, 3, 4);
    gguf_store(out + 8, g->n_tensors, 8);
    gguf_store(out + 16, g->n_meta, 8);
    if (g->meta_n) memcpy(out + HEAD_BYTES, g->meta, g->meta_n);
    if (g->directory_n) memcpy(out + HEAD_BYTES + g->meta_n, g->directory, g->directory_n);
    memset(out + HEAD_BYTES + g->meta_n + g->directory_n, 0, (size_t)gguf_header_bytes(g) - (HEAD_BYTES + g->meta_n + g->directory_n));
}

void gguf_begin(gguf_out *g) {
    const uint64_t n = gguf_header_bytes(g);
    unsigned char *header = g->failed ? NULL : malloc((size_t)n);
    if (header == NULL) g->failed = 1;
    else gguf_header(g, header);
    if (header) put(g, header, (size_t)n);
    free(header);
}

void gguf_data(gguf_out *g, const void *p, size_t n) {
    put(g, p, n);
    g->written += n;
}

void gguf_pad(gguf_out *g) {
    put_zeros(g, padded(g, g->written) - g->written);
    g->written = padded(g, g->written);
}

void gguf_free(gguf_out *g) {
    free(g->meta);
    free(g->directory);
    memset(g, 0, sizeof *g);
}
