/* gpu.h: GPUs: the driver vtable, which a vendor's API must provide, and the interface for the layers above.
 *
 * Owns:  infer__driver (one table per API), infer__gpu (an open device with its compiled kernels, one per model),
 *        infer__gpu_run (one context's queue on it). The op vtable over them is written once: infer__gpu_ops.
 * Rules: only driver_*.c name a vendor. A missing library or device is information, not an error, until it is
 *        requested. Work on a queue runs in order; memory given to upload and download must stay valid until the next
 *        sync. A device is shared by threads, a queue belongs to one context; upload and sync of a model's own queue
 *        are called from a thread of the library, so they do not allocate from mem.
 * Start: infer__driver, then gpu_backend.c (ops), gpu_kernels.c (devices, programs), driver_opencl.c for a
 *        driver.
 */
#ifndef INFER__GPU_H
#define INFER__GPU_H

#include "../backend.h"

/* ---- drivers ------------------------------------------------------------------------------------------- */

/* Text of a program, in consecutive pieces, and its key in the caller's cache of binaries. */
typedef struct infer__gpu_source {
    const char *const *text;
    int32_t n_text;
    const char *name;         /* of the module, for messages */
    uint64_t hash;            /* of the text */
    const infer_cache *cache; /* functions may be NULL */
} infer__gpu_source;

/* A program compiled on another thread, until the caller's thread takes it. */
typedef struct infer__gpu_built {
    void *program;      /* NULL: err says why */
    const void *binary; /* n bytes for the caller's cache, of `made`; NULL: none */
    size_t n;
    void *made;         /* the driver's, freed when the program is taken */
    infer_result r;
    infer_error err;
} infer__gpu_built;

/* All functions but `devices`, `info` and the releases return INFER_OK or fill err (never NULL here) and return its
 * code: MEMORY for device memory that is not there, DEVICE for the rest. The message names the API's call and code. */
typedef struct infer__driver {
    const char *name; /* "opencl", as --backend takes it */
    int32_t backend;  /* infer_backend */
    /* Devices found, best first; the order does not depend on the order in which the API lists them. Loads the library
     * on the first call in the process. With 0, *why_not (may be NULL) is the reason, in static storage. */
    int32_t (*devices)(const char **why_not);
    void (*info)(int32_t index, infer_device_info *out); /* all fields but `device`; usable 0: why_not tells */

    infer_result (*open)(void **device, infer__mem *mem, int32_t index, infer_error *err);
    void (*close)(void *device);
    infer_result (*alloc)(void *device, uint64_t bytes, uint64_t *handle, infer_error *err);
    void (*release)(void *device, uint64_t handle);
    infer_result (*load)(void *device, const infer__gpu_source *source, void **program, infer_error *err);
    /* load in three steps, for compiling programs in parallel; NULL: only load is available. `cached` takes the program
     * from the caller's cache, 0 = not there; `build` compiles it on any thread, since it makes no callbacks and does
     * not allocate from mem; `take` finishes on the caller's thread. */
    int (*cached)(void *device, const infer__gpu_source *source, void **program);
    void (*build)(void *device, const infer__gpu_source *source, infer__gpu_built *built);
    infer_result (*take)(void *device, const infer__gpu_source *source, infer__gpu_built *built, void **program,
                         infer_error *err);
    void (*unload)(void *device, void *program);

    infer_result (*queue_open)(void **queue, void *device, infer_error *err);
    void (*queue_close)(void *queue);
    /* A kernel of a program, for launches on this queue. `group` work-items must fit. */
    infer_result (*kernel_open)(void **kernel, void *queue, void *program, const char *name, int32_t group,
                                infer_error *err);
    void (*kernel_close)(void *queue, void *kernel);
    infer_result (*upload)(void *queue, uint64_t to, uint64_t offset, const void *src, uint64_t bytes,
                           infer_error *err);
    infer_result (*download)(void *queue, uint64_t from, uint64_t offset, void *dst, uint64_t bytes, infer_error *err);
    infer_result (*copy)(void *queue, uint64_t to, uint64_t to_offset, uint64_t from, uint64_t from_offset,
                         uint64_t bytes, infer_error *err);
    /* groups[3] groups of `group` work-items; buffers first, then the args struct. */
    infer_result (*launch)(void *queue, void *kernel, const uint32_t *groups, int32_t group, const uint64_t *bufs,
                           int32_t n_bufs, const void *args, uint32_t args_size, infer_error *err);
    infer_result (*sync)(void *queue, infer_error *err); /* wait for everything; reports late errors */

    /* The following are NULL if an API does not support them. */

    int32_t form;                    /* of its programs: INFER__FORM_*, 0 = source and no special ones */
    int32_t (*tier)(void *device);   /* which kinds of special kernels it takes: see KIND in kernels/kernels.def */
    uint64_t (*memory)(void *device); /* bytes that are free now */
    /* Set the bytes of dynamic shared memory of this kernel's launches. */
    infer_result (*shared)(void *queue, void *kernel, int32_t bytes, infer_error *err);
    /* Let launches of this kernel begin before the preceding launch has ended: the kernel waits for that itself. */
    void (*early)(void *queue, void *kernel);
    /* Between record and record_end launches and copies on the queue are recorded, not executed; replay executes them
     * all, any number of times, after what is already queued. Uploads, downloads and sync end a recording with an
     * error. */
    infer_result (*record)(void *queue, infer_error *err);
    infer_result (*record_end)(void *queue, void **recording, infer_error *err);
    infer_result (*replay)(void *queue, void *recording, infer_error *err);
    void (*recording_close)(void *queue, void *recording);
    /* With `timing` on, `times` returns the device's seconds for each launch since the last call, in order: at most cap
     * of them, *n is the number of launches. Only after a sync; not while recording. */
    infer_result (*timing)(void *queue, int32_t on, infer_error *err);
    infer_result (*times)(void *queue, double *seconds, int32_t cap, int32_t *n, infer_error *err);
    int32_t (*processors)(void *device); /* that run groups side by side */
    uint64_t (*largest)(void *device); /* bytes that one buffer may have; NULL: as many as there are */
    /* A hash of everything that compiled programs and results depend on, mainly the driver's version; NULL: the driver
     * is part of the system. */
    uint64_t (*identity)(void *device);
} infer__driver;
enum {
    INFER__FORM_SOURCE,
    INFER__FORM_PTX,
    INFER__FORM_METAL, /* source, also of special kinds */
    INFER__FORM_HIP    /* the same */
};

#if !defined(INFER_NO_GPU)
#  if !defined(INFER_NO_CUDA)
static const infer__driver infer__cuda_driver; /* driver_cuda_launch.c */
#  endif
#  if !defined(INFER_NO_HIP)
static const infer__driver infer__hip_driver; /* driver_hip.c */
#  endif
#  if !defined(INFER_NO_METAL)
static const infer__driver infer__metal_driver; /* driver_metal.c */
#  endif
#  if !defined(INFER_NO_OPENCL)
static const infer__driver infer__opencl_driver; /* driver_opencl.c */
#  endif

/* ---- what drivers share (gpu_driver.c) -------------------------------------------------------------------- */

/* Load the first library of the list that `find` accepts; it is never unloaded. find fills its function table and
 * returns the name of a missing function, or NULL. Returns 1, or 0 with the reason in why_not: what is wrong with the
 * first library that exists, or that none does. */
static int infer__gpu_library(const char *const *names, size_t n, const char *(*find)(void *table, void *lib),
                              void *table, char *why_not, size_t cap);
/* In `find`: put a function of the library into a pointer; `missing` is set when it is not there. memcpy: ISO C has no
 * cast from an object's pointer to a function's. */
#  define INFER__GPU_LOOK_UP(pointer, lib, name, missing) \
    do { \
        void *found_ = infer__lib_symbol(lib, name); \
        if (!found_ && !(missing)) (missing) = name; \
        memcpy(&(pointer), &found_, sizeof found_); \
    } while (0);

/* A compiler's log from the first line with "error" on, as one line without double spaces. */
static void infer__gpu_log_line(const char *text, char *to, size_t cap);
static uint64_t infer__hash_text(uint64_t hash, const char *text);

enum { INFER__GPU_CACHE_HEAD = 16, INFER__GPU_CACHE_MAX = 256 << 20 }; /* bytes: before a binary; of both */
/* A cached program for this API, device and text: *size bytes that begin INFER__GPU_CACHE_HEAD bytes into the returned
 * block, which the caller frees. NULL when there is none or it is damaged. device_hash: of all that a binary depends
 * on: names, versions, options. */
static uint8_t *infer__gpu_cached(infer__mem *mem, const infer__gpu_source *source, const char *api,
                                  uint64_t device_hash, size_t *size);
/* Offer a program to the caller's cache: n bytes at data + INFER__GPU_CACHE_HEAD; the bytes before are overwritten. */
static void infer__gpu_keep(const infer__gpu_source *source, const char *api, uint64_t device_hash, uint8_t *data,
                            size_t n);
#endif

/* ---- kernels (kernels_embed.h holds the tables) ----------------------------------------------------------- */

/* Kinds of programs, generic ones here, special ones in kernels_embed.h: see kernels/kernels.def. */
enum { INFER__MODULE_BASE, INFER__MODULE_KV, INFER__MODULE_TYPE, INFER__MODULE_SPECIAL };
typedef struct infer__kind_row {
    int32_t form;        /* special: only for drivers of this form and devices of */
    int32_t tier, exact; /* this tier and above, or of this one */
    int32_t of;          /* loaded with the program of this kind that has the same id; a generic kind: itself */
} infer__kind_row;
typedef struct infer__kernel_row {
    const char *name; /* entry point: "k_norm" */
    int32_t kind, group, buffers, args_size;
    int32_t shared; /* bytes of dynamic shared memory of a launch */
    int32_t early;  /* 1: it may begin before the preceding launch has ended, and waits for that itself */
} infer__kernel_row;
typedef struct infer__module_row {
    const char *name;
    int32_t kind, id;       /* id: infer_kv_type, or the storage type's id */
    int32_t dots;             /* 1: of a TYPE: its fast products take x quantised to 8 bits (Q_DOT in quant/NAME.k) */
    const int16_t *files;     /* indices of texts, ended by -1; none when the program is there as PTX only */
    uint64_t hash, ptx_hash;  /* of the program's text, of its PTX: 64-bit FNV-1a; 0 where there is none */
} infer__module_row;
/* A file of kernels/, without comments, or programs as PTX; compressed (gpu_unpack.c says how), in printable pieces. */
typedef struct infer__kernel_text {
    const char *name; /* "quant/q4_0.k" */
    const char *const *pieces;
    int32_t n_pieces;
    uint32_t packed, bytes; /* compressed, and as it was */
} infer__kernel_text;
/* The position of a program's PTX: programs of a kind are packed together. 0 bytes: none. */
typedef struct infer__ptx_row {
    int32_t block;
    uint32_t at, coded, bytes; /* in the block: infer__ptx_names_write makes `bytes` of `coded` */
} infer__ptx_row;

/* ---- devices and programs (gpu_kernels.c) ------------------------------------------------------------------ */

typedef struct infer__gpu infer__gpu;
/* APIs to choose from, in the order in which `auto` tries them and devices are listed; ended by NULL. Where functions
 * take such a list, NULL instead of it means those of this build. */
typedef const infer__driver *const *infer__apis;

/* Does INFER_AUTO select a GPU if there is one? 0 = always the CPU. Not every API has been run on real devices
 * (docs/benchmarks.md lists what has not). */
enum { INFER__AUTO_TAKES_GPUS = 1 };

/* "opencl" for INFER_OPENCL, ...; NULL when it is no infer_backend. */
static const char *infer__backend_name(int32_t backend);
/* 1 when this build has a driver for it. */
static int infer__gpu_has_backend(int32_t backend);
/* Rows for infer_device_get: one per device of every API, one with why_not for an API that has none. */
static int32_t infer__gpu_count(void);
static void infer__gpu_info(int32_t index, infer_device_info *out);

/* The same, of other APIs: 1, or 0 when there is no such row. */
static int infer__gpu_info_in(infer__apis apis, int32_t row, infer_device_info *out);
/* The index-th API, an infer_backend; -1 past the end. */
static int32_t infer__gpu_api(infer__apis apis, int32_t index);
/* Rows of an API's usable devices, best first: GPUs with memory of their own, then those that share the CPU's, then
 * processors. Unless `all`, only those of the first kind found. Returns how many, at most cap; with 0 why_not
 * tells. */
static int32_t infer__gpu_rows(infer__apis apis, int32_t backend, int all, int32_t *rows, int32_t cap, char *why_not,
                               size_t why_cap);
/* The row of the device that INFER_AUTO takes, -1 = the CPU: a GPU of the first API that has one. takes_gpus:
 * INFER__AUTO_TAKES_GPUS, except in tests. */
static int32_t infer__gpu_automatic(infer__apis apis, int takes_gpus);
/* Open the device of a row, with no kernels yet; use_base compiles those that every model needs. Errors as of
 * infer__gpu_open. */
static infer_result infer__gpu_open_row(infer__apis apis, infer__gpu **out, infer__mem *mem,
                                        const infer__report *report, int32_t row, const infer_cache *cache,
                                        infer_error *err);
static infer_result infer__gpu_use_base(infer__gpu *g, infer_error *err);

/* Open a device of an API and compile the kernels that every model needs. device: index as in infer__gpu_info, -1 =
 * the best of the API. Errors: DEVICE (no library, no device, build log), MEMORY, UNSUPPORTED (API not in this build).
 * report and mem must outlive it. */
static infer_result infer__gpu_open(infer__gpu **out, infer__mem *mem, const infer__report *report, int32_t backend,
                                    int32_t device, const infer_cache *cache, infer_error *err);
static void infer__gpu_close(infer__gpu *g); /* NULL is accepted */
static const char *infer__gpu_name(const infer__gpu *g);
/* Bytes that are free now, if the driver knows; else the bytes that were free when it was opened, at most 90 % of the
 * total. */
static uint64_t infer__gpu_memory(const infer__gpu *g);
static uint64_t infer__gpu_largest(const infer__gpu *g); /* bytes that a buffer may have */

/* 1 when there are kernels for matrices of this storage type. */
static int infer__gpu_has_type(const infer__quant *type);
/* Compile the programs of a storage type, or of a cache of an infer_kv_type; done once. Thread safe. */
static infer_result infer__gpu_use_type(infer__gpu *g, const infer__quant *type, infer_error *err);
static infer_result infer__gpu_use_kv(infer__gpu *g, int32_t kv_type, infer_error *err);

/* Device memory. write returns before the bytes are copied: see flush. */
static infer_result infer__gpu_alloc(infer__gpu *g, infer__buf *b, uint64_t bytes, infer_error *err);
static void infer__gpu_free(infer__gpu *g, infer__buf *b);
static infer_result infer__gpu_write(infer__gpu *g, infer__buf *b, uint64_t offset, const void *src, uint64_t bytes,
                                     infer_error *err);
static infer_result infer__gpu_flush(infer__gpu *g, infer_error *err);
static uint64_t infer__gpu_used(const infer__gpu *g); /* bytes allocated and not freed */

#ifndef INFER_NO_GPU
/* For the ops: the driver and its device; whether a program (kind, id; 0 for BASE) has been compiled; a kernel
 * (INFER__K_*) of such a program, for launches on a queue of the driver. */
static const infer__driver *infer__gpu_driver(const infer__gpu *g);
static void *infer__gpu_device(const infer__gpu *g);
static const infer__report *infer__gpu_report(const infer__gpu *g);
static const infer_cache *infer__gpu_cache(const infer__gpu *g);
static int infer__gpu_has_program(infer__gpu *g, int32_t kind, int32_t id);
/* Special programs whose kernels failed the last check; the device may be usable without them. */
enum { INFER__BLAMED = 8 };
typedef struct infer__gpu_blame {
    int32_t n, modules[INFER__BLAMED];
} infer__gpu_blame;
static infer__gpu_blame *infer__gpu_blamed(infer__gpu *g);
/* Disable a special program; it is not compiled again. */
static void infer__gpu_drop(infer__gpu *g, int32_t module);
static infer_result infer__gpu_kernel(infer__gpu *g, void *queue, int32_t kernel, int32_t id, void **out,
                                      infer_error *err);
/* A number that, together with the number of rows, determines the launches of attention. It changes when the longest
 * position passes a power of two. The pass is filled. */
static uint32_t infer__gpu_attention_bucket(const infer__ctx *c);
#endif

/* ---- checks (check/) --------------------------------------------------------------------------------------------- */

enum {
    INFER__USE_MATRIX = 1,
    INFER__USE_TABLE = 2, /* of embeddings */
    INFER__USE_EXPERTS = 4,
    INFER__USE_CONV = 8, /* these are of layers, not of storage types */
    INFER__USE_SSM = 16,
    INFER__USE_DELTA = 32,
    INFER__USE_STREAMS = 64,
    INFER__USE_KEYS = 128, /* decays of keys, lightning attention */
    INFER__USE_WKV = 256,
    INFER__USE_LISTS = 512 /* of positions, and entries of several */
};
enum {
    INFER__GPU_I32 = 26,    /* ids of storage types: of tables of experts */
    INFER__PROBE_F64 = 28,
    INFER__PROBE_HALF = 64, /* pairs of a head that are rotated, at most */
    INFER__PROBE_SHAPES = 16
};
/* Later positions; biases; a source's; later ones of a block, or causal beside layers that see these. */
enum { INFER__SEES_AROUND = 1, INFER__SEES_NEAR = 2, INFER__SEES_SOURCE = 4, INFER__SEES_LATER = 8 };
/* A shape of heads, and the features of their attention: window 1, or 2 for chunks, or 0; sinks 1 or 0; rope
 * INFER__ROPE_*; shared 1: values are the front of keys; sees INFER__SEES_*. */
typedef struct infer__gpu_heads {
    int32_t n_head, n_head_kv, dim_k, dim_v, window, sinks, rope, shared;
    float scale, softcap, max_bias, temp_scale;
    int32_t sees;
} infer__gpu_heads;
/* Which kernels are used: numbers only, 0 by default (its bytes are hashed). Masks have a bit for each value of an
 * enum. */
typedef struct infer__gpu_uses {
    uint8_t types[INFER__QUANTS_MAX]; /* by index of the storage type: INFER__USE_* */
    uint32_t kv_types;                /* infer_kv_type */
    uint32_t exact;                   /* bit 0: x is quantised where kernels can, bit 1: it is not */
    uint32_t norms, acts, ropes;      /* INFER__NORM_*, INFER__ACT_*, INFER__ROPE_* */
    uint32_t cells;                   /* INFER__USE_CONV and what follows it */
    int32_t n_expert, n_used;
    int32_t n_heads;
    infer__gpu_heads heads[INFER__PROBE_SHAPES];
} infer__gpu_uses;

static void infer__gpu_uses_all(infer__gpu_uses *u); /* everything that exists */
/* Compile the missing programs for these uses, on several threads if the driver can. Failures are left for
 * infer__gpu_use_type and the like, which report them. */
static void infer__gpu_use_all(infer__gpu *g, const infer__gpu_uses *u);
/* Run the used kernels and compare them with the CPU. With tell: call it for each row of INFER__PROBES and program, and
 * continue to the end; without: stop at the first failure. INFER_OK when all are right; DEVICE and *verdict
 * (INFER_KERNEL_*) when one is not, and the message names the kernel; *verdict INFER_KERNEL_OK and an error: the check
 * itself failed. Host memory is allocated from mem and freed. */
static infer_result infer__gpu_check(infer__gpu *g, const infer__gpu_uses *u, infer__mem *mem, infer_kernel_fn tell,
                                     void *user, int32_t *verdict, infer_error *err);
/* The same without tell, or the verdict from the device's cache; known_only: INFER_OK if there is none. A special
 * program with a wrong kernel is dropped and the rest is checked again: the generic kernels replace it. */
static infer_result infer__gpu_judge(infer__gpu *g, const infer__gpu_uses *u, infer__mem *mem, int known_only,
                                     infer_error *err);

/* ---- ops (gpu_backend.c) -------------------------------------------------------------------------------------- */

/* prepare needs ctx.gpu, ctx.kv_type and ctx.exact; it makes ctx.run. */
static const infer__ops infer__gpu_ops;

#endif
