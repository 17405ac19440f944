/* gguf_write.h: writing a GGUF file front to back. Metadata and the list of tensors are collected in memory, the
 * tensors' bytes go straight to the file. A failure sticks: check it once, at the end. */
#ifndef GGUF_WRITE_H
#define GGUF_WRITE_H

#include "../cli.h"

typedef struct gguf_out {
    FILE *file;
    unsigned char *meta, *directory; /* the two parts of the header, as they will be written */
    size_t meta_n, meta_cap, directory_n, directory_cap;
    uint64_t n_meta, n_tensors, data_n; /* data_n: bytes of tensors announced, padding included */
    uint64_t written;                   /* bytes of data so far */
    uint64_t alignment;                 /* of tensors; 0 = GGUF_ALIGNMENT. Another needs the key general.alignment */
    int failed;
} gguf_out;

enum { GGUF_ALIGNMENT = 32 };
enum { /* types of values */
    GGUF_U8, GGUF_I8, GGUF_U16, GGUF_I16, GGUF_U32, GGUF_I32, GGUF_F32, GGUF_BOOL, GGUF_STRING, GGUF_ARRAY,
    GGUF_U64, GGUF_I64, GGUF_F64, GGUF_N_TYPES
};

/* The lower n bytes of x, the lowest first. */
void gguf_store(unsigned char *p, uint64_t x, int n);
uint64_t gguf_load(const unsigned char *p, int n); /* and back */

void gguf_u32(gguf_out *g, const char *key, uint32_t x);
void gguf_i32(gguf_out *g, const char *key, int32_t x);
void gguf_f32(gguf_out *g, const char *key, double x);
void gguf_bool(gguf_out *g, const char *key, int x);
void gguf_string(gguf_out *g, const char *key, const char *s);
void gguf_text(gguf_out *g, const char *key, const char *s, size_t n); /* n bytes, which may contain zeros */
/* The head of an array; then n elements with gguf_element_*. type is a GGUF value type. */
void gguf_array(gguf_out *g, const char *key, uint32_t type, uint64_t n);
void gguf_element_string(gguf_out *g, const char *s);
void gguf_element_text(gguf_out *g, const char *s, size_t n);
void gguf_element_i32(gguf_out *g, int32_t x);
void gguf_element_f32(gguf_out *g, double x);
void gguf_element_bool(gguf_out *g, int x);
/* A key with its value as it stands in a file: what follows the type, n bytes. */
void gguf_raw(gguf_out *g, const char *key, uint32_t type, const void *value, size_t n);
/* Announce a tensor of `bytes` bytes; dims[0] is the length of a row. */
void gguf_tensor(gguf_out *g, const char *name, uint32_t type, int n_dims, const uint64_t *dims, uint64_t bytes);
/* Bytes of the header as it is so far, padding included. */
uint64_t gguf_header_bytes(const gguf_out *g);
void gguf_header(const gguf_out *g, unsigned char *out); /* so many bytes; not when it has failed */
/* Everything is announced: write the header. */
void gguf_begin(gguf_out *g);
/* Bytes of the tensors in the order in which they were announced; gguf_pad after each tensor. */
void gguf_data(gguf_out *g, const void *p, size_t n);
void gguf_pad(gguf_out *g);
void gguf_free(gguf_out *g);

#endif
