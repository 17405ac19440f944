/* format.h: the interface of the file layer: bytes -> metadata and tensor views.
 *
 * Owns:  infer__source (one file, any origin) and infer__gguf (metadata and tensor directory of one or more files).
 * Rules: everything read from a file is untrusted: each size is checked against the bytes that exist before it is
 *        used or allocated for. Knows nothing of models; a tensor is a name, a type row, a shape and bytes.
 * Format: the GGUF specification (ggml, docs/gguf.md): versions 2 and 3.
 */
#ifndef INFER__FORMAT_H
#define INFER__FORMAT_H

#include "../base/base.h"
#include "../quant/quant_types.h"

/* ---- io.c ---------------------------------------------------------------------------------------- */

/* One file: mapped, in memory, or behind callbacks. */
typedef struct infer__source {
    infer_io io;        /* io.mapped != NULL: the whole file in memory, aligned to 32 bytes */
    infer__file file;   /* when opened from a path: io.user points here, so a source never moves after opening */
    void *copy;         /* when the caller's memory had to be copied (alignment) */
    void *head;         /* of a file: its first head_bytes, which strings and arrays point into. Of a mapped one too:
                         * those are read at any time, and another process may truncate or change the file */
    uint64_t head_bytes, head_room; /* room: bytes allocated */
} infer__source;
static infer_result infer__source_open_path(infer__source *s, const char *path, int want_map, infer_error *err);
static infer_result infer__source_open_memory(infer__source *s, infer__mem *mem, const void *data, uint64_t size,
                                              infer_error *err);
static infer_result infer__source_open_io(infer__source *s, const infer_io *io, infer_error *err);
/* Read n bytes at offset, all or an error that names the offset. */
static infer_result infer__source_read(infer__source *s, uint64_t offset, void *dst, uint64_t n, infer_error *err);
/* IO when the mapped file has been truncated: bytes beyond its end must not be read. Truncation after this check cannot
 * be detected. */
static infer_result infer__source_whole(const infer__source *s, infer_error *err);
static void infer__source_close(infer__source *s, infer__mem *mem);

/* ---- gguf.c -------------------------------------------------------------------------------------- */

enum { /* GGUF value types */
    INFER__GGUF_U8, INFER__GGUF_I8, INFER__GGUF_U16, INFER__GGUF_I16, INFER__GGUF_U32, INFER__GGUF_I32,
    INFER__GGUF_F32, INFER__GGUF_BOOL, INFER__GGUF_STRING, INFER__GGUF_ARRAY, INFER__GGUF_U64, INFER__GGUF_I64,
    INFER__GGUF_F64, INFER__GGUF_TYPES
};

/* One key. Scalars are decoded; strings and arrays keep bytes of the file, already in the machine's byte order. */
typedef struct infer__kv {
    const char *key; /* zero-terminated copy */
    uint32_t type;   /* INFER__GGUF_* */
    uint32_t element; /* of an array */
    uint64_t n;      /* bytes of a string, elements of an array, else 1 */
    const void *data; /* scalar: 8 bytes holding it as u64 / i64 / double by kind; string: n bytes; array of fixed-size
                       * elements: n elements packed, unaligned; array of strings: n infer__str */
    uint64_t offset; /* of the value in its file, for messages */
} infer__kv;
typedef struct infer__str { const char *s; uint64_t n; } infer__str; /* not zero-terminated, not checked UTF-8 */

typedef struct infer__gguf_tensor {
    const char *name;            /* zero-terminated copy */
    const infer__quant *type;
    int32_t n_dims;
    uint64_t dims[4];            /* dims[0] = row length; unused are 1 */
    uint64_t rows, row_bytes;    /* rows = dims[1]*dims[2]*dims[3] */
    uint64_t offset, bytes;      /* from the start of its file */
    int32_t shard;               /* which source */
    const void *data;            /* bytes in memory, or NULL until infer__gguf_load reads them */
    void *owned;                 /* when memory was allocated for this tensor */
    uint64_t every, from, some;  /* of every `every` bytes only `some` from `from` on are needed, and those alone are
                                  * read; every 0 = all are */
} infer__gguf_tensor;
/* Bytes of it that are needed: what `owned` has. */
INFER__INLINE uint64_t infer__gguf_needed(const infer__gguf_tensor *t) {
    return t->every ? t->bytes / t->every * t->some : t->bytes;
}

typedef struct infer__gguf {
    infer__mem *mem;
    const infer__report *report;
    infer__arena arena;      /* names, strings, directories */
    infer__source *sources;  /* n_sources: one, or the parts of a split model in order */
    int32_t n_sources;
    uint32_t version;
    int32_t swapped;         /* the file is of the other byte order than this machine's */
    infer__kv *kv;           /* file order; of a split model the first part's */
    int32_t n_kv;
    infer__gguf_tensor *tensors; /* file order, parts concatenated */
    int32_t n_tensors;
    int32_t *kv_index, *tensor_index; /* hash tables for constant-time lookup */
    uint32_t kv_mask, tensor_mask;
    uint8_t *asked;          /* n_kv: 1 = this key was looked up; NULL once lookups are not recorded any more */
    uint64_t seed;           /* of the hashes: differs per run, so that no file can choose names that collide */
    uint64_t reserved;       /* bytes of views counted against the memory limit */
    uint64_t file_bytes, tensor_bytes; /* of all parts */
} infer__gguf;

/* Parse everything but tensor data. On error everything is freed. `path` is used to find the other parts of a split
 * file; io/n_io when the caller gave them; else data/size. */
static infer_result infer__gguf_open_path(infer__gguf *g, infer__mem *mem, const infer__report *report,
                                          const char *path, int want_map, infer_error *err);
static infer_result infer__gguf_open_memory(infer__gguf *g, infer__mem *mem, const infer__report *report,
                                            const void *data, uint64_t size, infer_error *err);
static infer_result infer__gguf_open_io(infer__gguf *g, infer__mem *mem, const infer__report *report,
                                        const infer_io *io, int32_t n_io, infer_error *err);
/* The same in slices: the source of the files (one of these is given), and the progress. Pointed-to data must stay
 * until the end. */
typedef struct infer__gguf_origin {
    const char *path;
    int want_map;
    const infer_io *io;
    int32_t n_io;
    const void *data;
    uint64_t size;
} infer__gguf_origin;
typedef struct infer__cursor {
    infer__gguf *g;
    infer__source *s;
    infer__budget *budget;
    infer_error *err;
    infer_result code;   /* sticky */
    const uint8_t *base; /* the file from its start; `have` bytes of it are in memory, all when the caller has it */
    uint64_t have, size, at;
    int big;             /* the file is big-endian */
    int part;            /* of a split model, from 0 */
    const char *what;    /* what is being read, for messages: "header", "metadata key", "tensor" */
    const char *name;    /* its name once known, else its index */
    uint64_t index;
} infer__cursor;
/* What one part says about itself. */
typedef struct infer__gguf_part {
    uint64_t no, count, tensors; /* split.no, split.count, split.tensors.count */
    uint64_t alignment;
    int has_tensors;
} infer__gguf_part;
typedef struct infer__gguf_opening {
    infer__gguf_origin origin;
    infer__cursor c;
    int32_t stage, part, given, n_parts; /* given: number of files, by name or by n_io; n_parts: by the first */
    int32_t first_kv, first_tensor;      /* of this part */
    uint64_t n_kv, n_tensors;            /* that it says it has */
    uint64_t i, element;                 /* the entry that comes next, and in an array the element */
    int inside;                          /* an array is half read */
    infer__str *strings;                 /* that are being bound */
    infer__gguf_part first, info;
} infer__gguf_opening;
/* No error. Fill g to the end of the slice: INFER_MORE = call it again. On error everything is freed, and giving up is
 * infer__gguf_close. */
static void infer__gguf_begin(infer__gguf_opening *x, infer__gguf *g, infer__mem *mem, const infer__report *report,
                              const infer__gguf_origin *origin);
static infer_result infer__gguf_step(infer__gguf_opening *x, infer__gguf *g, infer__budget *budget, infer_error *err);
static void infer__gguf_close(infer__gguf *g);

/* Lookups in constant time; NULL when absent. A key then counts as used, so look one up only to use its value; peek
 * does not count. */
static const infer__kv *infer__gguf_find(const infer__gguf *g, const char *key);
static const infer__kv *infer__gguf_peek(const infer__gguf *g, const char *key);
static int infer__gguf_asked(const infer__gguf *g, int32_t kv); /* 1 = key number kv was looked up */
static const char *infer__gguf_clip(char out[84], const char *name); /* for messages: ASCII, at most 80 bytes */
static void infer__gguf_asked_end(infer__gguf *g); /* stop counting: from here on threads may share g */
static infer__gguf_tensor *infer__gguf_tensor_find(const infer__gguf *g, const char *name);

/* Typed metadata. Return 1 and set *out when present, 0 when absent, < 0 (infer_result) when of the wrong type or out
 * of range: the error names the key. Integers accept any integer type (and BOOL); floats accept any number. */
static int infer__gguf_u32(const infer__gguf *g, const char *key, uint32_t *out, infer_error *err);
static int infer__gguf_f32(const infer__gguf *g, const char *key, float *out, infer_error *err);
static int infer__gguf_bool(const infer__gguf *g, const char *key, int *out, infer_error *err);
static int infer__gguf_str(const infer__gguf *g, const char *key, infer__str *out, infer_error *err);
/* Element i of an array of numbers / strings; the caller checked kv->type, element kind and i < n. */
static double infer__kv_number(const infer__kv *kv, uint64_t i); /* also a scalar with i = 0 */
static infer__str infer__kv_string(const infer__kv *kv, uint64_t i);
/* 1 when the value is an array whose elements are numbers (any integer, float or bool type) / strings. */
static int infer__kv_is_numbers(const infer__kv *kv);
static int infer__kv_is_strings(const infer__kv *kv);

/* Make t->data point to its bytes: a view of mapped memory, or read into memory that the gguf owns. Plain types are in
 * machine byte order (swapped if need be); blocks are as stored, little-endian on every machine, and those of a
 * big-endian file are INFER_ERR_UNSUPPORTED. Views count against the memory limit as if they were allocated. */
static infer_result infer__gguf_load(infer__gguf *g, infer__gguf_tensor *t, infer_error *err);
/* The same in slices: INFER_MORE = call it again with the same *done, which is 0 before and after each tensor. */
static infer_result infer__gguf_load_some(infer__gguf *g, infer__gguf_tensor *t, uint64_t *done, infer__budget *budget,
                                          infer_error *err);
/* infer__source_whole of all files. */
static infer_result infer__gguf_whole(const infer__gguf *g, infer_error *err);
/* n_rows rows from `row` on, decoded to float32, without keeping anything. */
static infer_result infer__gguf_read_rows(infer__gguf *g, const infer__gguf_tensor *t, uint64_t row, uint64_t n_rows,
                                          float *dst, infer_error *err);
#endif
