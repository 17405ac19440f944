/* api_types.h: the types of the public interface: results, enums, callbacks, parameters, what calls report. Included by
 * api.h, whose manual explains them. */
#ifndef INFER_API_TYPES_H
#define INFER_API_TYPES_H

/* ---- types ---------------------------------------------------------------------------------- */

typedef struct infer_model infer_model;     /* an open file: immutable, may be shared by threads */
typedef struct infer_context infer_context; /* threads, scratch and cache that sessions share */
typedef struct infer_session infer_session; /* one timeline of tokens; belongs to one thread at a time */
typedef struct infer_media infer_media;       /* a picture or sound as embeddings: for any session of its model */
typedef struct infer_adapter infer_adapter; /* a LoRA or a control vector of a model; may be shared by threads */
typedef struct infer_sampler infer_sampler; /* logits -> token; belongs to one thread at a time */
typedef struct infer_loading infer_loading; /* a model that opens in slices; one thread at a time */
typedef struct infer_generation infer_generation; /* a text that comes piece by piece; one thread at a time */
typedef struct infer_embedding
    infer_embedding;                        /* texts that become vectors or scores in slices; one thread at a time */
typedef struct infer_grammar infer_grammar; /* constrains replies; belongs to one thread at a time */
typedef int32_t infer_token;                /* index into the vocabulary, 0 .. vocab-1 */

/* The result of a call. Above 0: it stopped early for a reason that is not an error. Below 0: an error. */
typedef enum infer_result {
    INFER_OK = 0,
    INFER_CANCELLED = 1,        /* infer_session_cancel or a callback asked to stop */
    INFER_CONTEXT_FULL = 2,     /* the tokens do not fit; nothing was evaluated */
    INFER_MORE = 3,             /* a call that runs for a limited time: there is more to do, call it again */
    INFER_ERR_ARGUMENT = -1,    /* a bad argument: NULL, out of range, or objects that do not belong together */
    INFER_ERR_MEMORY = -2,      /* an allocation failed, or max_memory would be exceeded */
    INFER_ERR_IO = -3,          /* the file cannot be opened or read */
    INFER_ERR_FORMAT = -4,      /* the file or the text is malformed */
    INFER_ERR_UNSUPPORTED = -5, /* well-formed, but this build does not support it; the message names what is missing */
    INFER_ERR_DEVICE = -6,      /* a GPU or its driver failed */
    INFER_ERR_STATE = -7,       /* the object is not in a state that allows the call */
    INFER_ERR_LIMIT = -8        /* the call took longer than its infer_limits allow */
} infer_result;

/* Filled in by calls that take one (it may be NULL). On success code is INFER_OK and message is "". */
typedef struct infer_error {
    infer_result code;
    char message[508]; /* UTF-8, one line, zero-terminated; names the key, tensor or argument */
} infer_error;

enum { INFER_MAX_DEVICES = 8 }; /* devices that one model can use at once */
typedef enum infer_backend {
    INFER_AUTO = 0,
    INFER_CPU = 1,
    INFER_CUDA = 2,
    INFER_HIP = 3,
    INFER_OPENCL = 4,
    INFER_METAL = 5
} infer_backend;

/* CPU levels, as `infer devices` lists them. A level is the set of instructions up to and including the named ones;
 * instructions that the CPU lacks are never used, whatever level is requested. */
typedef enum infer_cpu_level {
    INFER_CPU_BEST = 0,
    INFER_CPU_SCALAR = 1,
    INFER_CPU_SSE41 = 2,
    INFER_CPU_AVX2 = 3,
    INFER_CPU_AVXVNNI = 4,
    INFER_CPU_AVX512 = 5,
    INFER_CPU_AVX512VNNI = 6,
    INFER_CPU_AVX512BF16 = 7,
    INFER_CPU_NEON = 8,
    INFER_CPU_DOTPROD = 9,
    INFER_CPU_I8MM = 10,
    INFER_CPU_RVV = 11,    /* RISC-V vectors 1.0, if the compiler's target has them */
    INFER_CPU_SIMD128 = 12, /* WebAssembly's, likewise */
    INFER_CPU_AMXINT8 = 13,  /* AVX512BF16 and tiles of bytes; needs the system's permission: see section 12 */
    INFER_CPU_AMXBF16 = 14   /* and of BF16 */
} infer_cpu_level;

/* How keys and values are stored in the cache. Q8_0 and Q4_0: as in files, blocks of 32 values of a head with a scale
 * (a head's last block is padded with zeros). */
typedef enum infer_kv_type {
    INFER_KV_DEFAULT = 0, /* F16; of encoders F32 */
    INFER_KV_F32 = 1,
    INFER_KV_F16 = 2,
    INFER_KV_BF16 = 3,
    INFER_KV_Q8_0 = 4, /* 8.5 bits a value */
    INFER_KV_Q4_0 = 5  /* 4.5 bits a value: costs accuracy */
} infer_kv_type;

/* ---- callbacks ------------------------------------------------------------------------------ */

/* Memory. Set both functions or neither (then malloc and free are used). alloc returns memory or NULL; align (a power
 * of two, at most 64) is the preferred alignment, and the library aligns inside the block itself when it gets less.
 * free receives the size that was passed to alloc. Called from the threads that call the library, never from the
 * library's own threads (except for that of a queue that has one). */
typedef struct infer_allocator {
    void *user;
    void *(*alloc)(void *user, size_t size, size_t align);
    void (*free)(void *user, void *p, size_t size);
} infer_allocator;

/* A file supplied by the caller. read copies n bytes at offset into dst and returns the number copied (less than n is
 * an error). If mapped is not NULL, it is the whole file in memory and read is not called. For one model, calls come
 * from one thread at a time. */
typedef struct infer_io {
    void *user;
    size_t (*read)(void *user, uint64_t offset, void *dst, size_t n);
    uint64_t size; /* bytes */
    const void *mapped;
} infer_io;

/* Compiled GPU kernels, cached by the caller between runs. key is a short printable string, the same for the same
 * kernels on the same device and driver. get returns the size of what is stored under it (0 = nothing) and copies it to
 * dst when that size is at most cap (dst is NULL when cap is 0). If the driver rejects the bytes, the kernels are
 * recompiled and put again. Called while a model opens and while a context is created, by the threads that do so. */
typedef struct infer_cache {
    void *user;
    size_t (*get)(void *user, const char *key, void *dst, size_t cap);
    void (*put)(void *user, const char *key, const void *data, size_t n);
} infer_cache;

typedef void (*infer_log_fn)(void *user, int level,
                             const char *message); /* level 1 error, 2 warning, 3 info, 4 debug */
typedef int (*infer_progress_fn)(void *user, float done);                  /* done 0..1; non-zero = cancel */
typedef int (*infer_text_fn)(void *user, const char *utf8, size_t n);      /* whole characters; non-zero = stop */
typedef size_t (*infer_write_fn)(void *user, const void *data, size_t n);  /* returns bytes written */
typedef size_t (*infer_read_fn)(void *user, void *data, size_t n);         /* returns bytes read */
/* Run task(arg, i) for i in 0..n-1, in any order, on any threads, and return when all of them are done. */
typedef void (*infer_parallel_fn)(void *user, int n, void (*task)(void *arg, int i), void *arg);
/* One named step of the forward pass: x is rows x cols floats, valid during the call. layer is -1 outside layers. */
typedef void (*infer_trace_fn)(void *user, int layer, const char *step, const float *x, size_t rows, size_t cols);
/* Rows that a matrix of the file is about to be multiplied with: y = W x for each of them. tensor is W's number, as
 * infer_tensor_get counts; matrix says which of a tensor with several (experts, heads) it is, below dims[2], else 0.
 * x is rows x cols float32, cols = dims[0], as the layer computes it, before products round it; valid during the call,
 * not to be changed. See infer_context_params.inputs. */
typedef void (*infer_inputs_fn)(void *user, int32_t tensor, int32_t matrix, const float *x, size_t rows, size_t cols);
/* The rest of a pass, in contexts that hold the other layers (section 22): give message and the n floats in rows to
 * infer_context_rows of the one with the layers that follow, what comes back to that of the next one, and so on; what
 * the last one gives, `back` floats, goes to rows, which has room for both. back 0: nothing is waited for, so the call
 * may return once message and rows are copied or sent. Messages are worked on in the order in which they are given.
 * Another result than INFER_OK is that of the eval, with the message of err. The last call comes when the context ends.
 * It must not call the context. */
typedef infer_result (*infer_rest_fn)(void *user, const void *message, size_t size, float *rows, size_t n, size_t back,
                                      infer_error *err);

/* Of part 0, where matrices are in parts (section 22): give message and the n floats in rows to infer_context_rows of
 * every other part of the same layers. The call may return once they are copied or sent. Otherwise as infer_rest_fn. */
typedef infer_result (*infer_share_fn)(void *user, const void *message, size_t size, const float *rows, size_t n,
                                       infer_error *err);
/* Of every part: values[first[p]] .. values[first[p + 1] - 1] are part p's; its own are there, and all others' must be
 * when the call returns (to below 0), or those of part `to` alone must. All parts of a range of layers make the same
 * exchanges in the same order. An error must be that of all of them. It must not call the context. */
typedef infer_result (*infer_gather_fn)(void *user, float *values, const size_t *first, int32_t to, infer_error *err);

/* ---- parameters: all zero means all defaults ------------------------------------------------ */

/* Time limit of a call that is not an eval: rendering, compiling a grammar or a schema, tokenizing, opening. The work
 * and memory of each are limited as well: see the table in SECURITY.md. */
typedef struct infer_limits {
    double seconds; /* wall clock; 0 = the call's default, below 0 = no limit. Exceeding it is INFER_ERR_LIMIT */
    int (*cancel)(
        void *user); /* called now and then, on the calling thread; non-zero = stop: INFER_CANCELLED. May be NULL */
    void *user;
} infer_limits;

typedef struct infer_context_params {
    int32_t
        threads; /* 0 = one per physical core, at most 64; 1 when all layers are on a GPU. -1 = half of that, for a
                  * program with other work to do. At most 4 per processor are started */
    int32_t batch;   /* maximum rows in one pass over the weights; 0 = 512, of encoders as many as cells */
    int32_t cells;   /* total cache positions, allocated in pages of 16; 0 = the model's context, at most 4096 */
    int32_t kv_type; /* infer_kv_type */
    int32_t keep;    /* positions kept behind a sliding window so that rewinding is free; 0 = 64 */
    int32_t sessions; /* sessions for which sliding-window layers reserve cache; 0 = 2 in a session's own context
                       * (itself and a fork), 16 in a shared one. More may exist while pages are left */
    int32_t profile; /* 1 = time every operation for infer_session_profile; costs a few percent */
    int32_t snapshot_every; /* models with recurrent layers: positions between saves of a session's state, which is also
                             * saved at ends of evals, keeping the last 8: a rewind re-evaluates from there; 0 = 512 */
    const int32_t
        *processors; /* n_processors numbers, as the system counts them from 0 (of a NUMA node, or the fast cores):
                      * thread i of a context is pinned to processors[i % n]; thread 0 is the caller, which is not
                      * moved. threads 0 = n_processors. UNSUPPORTED where the system has no such call (macOS,
                      * WebAssembly) */
    int32_t n_processors;
    int32_t low_priority; /* 1 = the context's threads run at low priority; not the caller's */
    infer_inputs_fn inputs; /* receives the inputs of all matrix products of evals in this context, for statistics such
                             * as those of `infer imatrix`; NULL = none. Called by the thread that evaluates, in the
                             * order of rows, once per product or several times with some of its rows. So sums over
                             * calls depend neither on threads nor, where a pass reads a matrix once, on batch. Rows
                             * that are evaluated again, or by a call that fails, are given all the same. On the CPU
                             * alone: UNSUPPORTED with layers on a GPU. It must not call the library */
    void *inputs_user;
    infer_rest_fn rest; /* runs the layers that the model does not have: needed where model_params.layers leaves out the
                         * last ones, and called by the thread that evaluates */
    void *rest_user;
    infer_share_fn share; /* with model_params.parts: gives passes to the other parts; needed in part 0 */
    infer_gather_fn gather; /* and exchanges results of products; needed in all parts */
    void *parts_user;       /* of both */
    uint64_t reserved[4]; /* 0: fields of later versions (section 20) */
} infer_context_params;

typedef struct infer_model_params {
    int32_t backend;           /* infer_backend; AUTO = that of `device`, or see section 13. An explicitly requested one
                                * must work */
    int32_t device;            /* a GPU: its number as infer_device_get and `infer devices` have it; 0 = the backend's
                                * best, or as many of its devices as the layers need (for the CPU: backend =
                                * INFER_CPU) */
    int32_t devices[INFER_MAX_DEVICES]; /* several devices of one backend, numbers as `device`, terminated by 0: the
                                * layers are split over them in this order. The same one may occur twice */
    float shares[INFER_MAX_DEVICES]; /* how many layers each of `devices` gets, in proportion; all 0 = by free memory */
    int32_t gpu_layers;        /* with a GPU backend: 0 = as many as fit, -1 = none, n = the first n; the embedding goes
                                * with the first, the output head with the last; the rest runs on the CPU. Layers that
                                * share keys and values stay together: a number that separates them is an error */
    infer_context_params fit;  /* the context that "as many as fit" leaves room for: what infer_context_create will get,
                                * or session_params.own, its cells being session_params.context */
    int32_t cpu_level;         /* infer_cpu_level: use no instructions beyond it */
    int32_t exact;             /* 1 = decode weights exactly, activations in F32 everywhere: the reference; slower */
    int32_t no_mmap;           /* 1 = read the file into memory instead of mapping it; -1 = map it even when every
                                * user may write to it: see section 5 */
    int32_t preload; /* 1 = read the mapped weights of layers on the CPU before the call returns (with progress), so
                      * that no eval waits for the disk or for page faults; 2 = also lock the file in memory: MEMORY
                      * when the system does not allow that, UNSUPPORTED when it is not mapped */
    int32_t first_layer; /* the model has `layers` layers from this one on, and maps and reads their weights alone: */
    int32_t layers;      /* the others are elsewhere: see section 22. 0 = all from first_layer on */
    int32_t part;        /* of wide matrices the model has the rows of this part, and maps and reads them alone: */
    int32_t parts;       /* of so many, at most 64; the others are elsewhere: see section 22. 0 and 1 = all rows */
    uint64_t part_least; /* bytes from which a matrix is in parts (of experts: as many as a token uses); 0 = 1 MiB */
    int32_t mtp; /* 1 = load the multi-token prediction blocks that follow the layers, for infer_generate_params.mtp:
                  * UNSUPPORTED when the file has none, or some that are not supported */
    int32_t vocab_only;        /* 1 = metadata, tensors by name and text only; sessions are refused */
    int32_t allow_default_pre; /* 1 = a vocabulary without a known pre-tokenizer uses "default", with a warning */
    int32_t allow_unknown;     /* 1 = ignore keys and tensors that the library does not recognise, with a warning for
                                * each: see section 4 */
    const char *pre;           /* overrides tokenizer.ggml.pre; NULL = as the file says */
    int32_t gpu_unchecked;     /* 1 = use a GPU without first checking its kernels against the CPU: see section 13 */
    const char *projector; /* a file with the model's encoders of pictures and sound ("mmproj"): see infer_media_encode;
                                * NULL = none */
    int32_t media_kept;    /* encoded pictures and sounds that stay after infer_media_free, so that the same ones need
                                * not be encoded again; 0 = 8, -1 = none, at most 16 */
    uint64_t max_memory;       /* bytes of host memory for weights, cache and scratch together; 0 = no limit */
    infer_allocator allocator;
    infer_cache cache;
    infer_log_fn log;
    void *log_user;
    infer_progress_fn progress;
    void *progress_user;
    infer_parallel_fn parallel; /* NULL = the library's own threads */
    void *parallel_user;
    infer_limits limits; /* for every call that tokenizes a text: seconds (none), cancel (several threads may call it at
                          * once). Evals have infer_session_params.progress */
    uint64_t reserved[4]; /* 0: fields of later versions (section 20) */
} infer_model_params;

typedef struct infer_session_params {
    int32_t context;          /* maximum positions; 0 = the model's, at most 4096 (and the shared context's cells) */
    infer_context_params own; /* for infer_session_create, which creates a context for this session alone;
                               * own.cells 0 = as many as `context` */
    infer_progress_fn progress; /* called between passes of a long eval; non-zero cancels */
    void *progress_user;
    infer_trace_fn trace; /* NULL = none; slow, for debugging */
    void *trace_user;
    uint64_t reserved[4]; /* 0: fields of later versions (section 20) */
} infer_session_params;

/* What a message of infer_context_params.rest says of its context: section 22. */
typedef struct infer_rows_info {
    uint64_t context; /* its number among those of its model */
    int32_t last;     /* 1 = it is no more: the one that answers it can be destroyed */
    int32_t head;     /* 1 = for the other parts of the first layers alone, not for later layers */
    uint64_t pass;    /* of infer_context_params.rest: passes are numbered from 1 on; 0 = another message */
    infer_context_params params; /* for infer_context_create; fields that need not be the same are 0 */
    uint64_t reserved[4]; /* 0: fields of later versions (section 20) */
} infer_rows_info;

/* Which results an eval keeps. */
enum {
    INFER_OUT_NONE = 0,  /* no logits */
    INFER_OUT_LAST = 1,  /* logits of the last token */
    INFER_OUT_ALL = 2,   /* logits of every token: n x vocab floats are kept until the next eval */
    INFER_OUT_HIDDEN = 4 /* or'ed: also the final hidden states (after the last norm) of the same tokens;
                          * INFER_OUT_HIDDEN alone keeps every token's hidden state and no logits */
};

/* How the hidden states of a text's tokens become one vector. */
typedef enum infer_pooling {
    INFER_POOL_DEFAULT, /* as the file says; else mean for encoders, last for other models */
    INFER_POOL_NONE,    /* no pooling: a vector for each token */
    INFER_POOL_MEAN,
    INFER_POOL_FIRST,
    INFER_POOL_LAST,
    INFER_POOL_RANK     /* scores of the file's classifier, one for each label */
} infer_pooling;

/* One session's share of a pass: either n tokens or n rows of embeddings (n x width floats). */
typedef struct infer_step {
    infer_session *session;
    const infer_token *tokens;
    const float *embeddings;
    int32_t n;
    int32_t outputs; /* INFER_OUT_* */
} infer_step;

/* ---- information ---------------------------------------------------------------------------- */

typedef struct infer_model_info {
    const char *arch;  /* general.architecture */
    const char *name;  /* general.name or "" */
    const char *quant; /* storage type of most weights, e.g. "Q4_K" */
    uint64_t parameters, file_bytes;
    int32_t vocab, context, layers, width; /* 0 where the file does not say */
    int32_t computes;       /* 1 = sessions can be created; 0 = metadata, tensors and text only */
    int32_t embedding_only; /* 1 = an encoder: it has no logits, and an eval is a whole text from position 0 */
    infer_pooling pooling;  /* of texts, where the caller asks for none; DEFAULT when it does not compute */
    int32_t embedding, labels; /* width of pooled vectors; labels of a classifier, 0 = none */
    infer_token decoder_start; /* of models with an encoder and a decoder: see infer_session_encode; -1 for others */
    int32_t images, sounds; /* 1 = its projector has an encoder of them: infer_media_encode */
    int32_t masked;         /* 1 = it fills in masked tokens (infer_session_fill) and does not generate */
    uint64_t reserved[4]; /* 0: fields of later versions (section 20) */
} infer_model_info;

/* A device's part of infer_memory. */
typedef struct infer_device_memory {
    int32_t device;                  /* as infer_device_get numbers it */
    int32_t layers;                  /* layers that run on it */
    uint64_t weights, cache, scratch;
    uint64_t free;                   /* free bytes of its memory when the model was opened, minus a reserve when the API
                                      * does not report what is free */
} infer_device_memory;

/* Bytes that a model and a context need. */
typedef struct infer_memory {
    uint64_t weights; /* the mapped file, or the tensors when they were read into memory */
    uint64_t cache;   /* keys and values of layers on the CPU */
    uint64_t scratch; /* activations, tables, vocabulary: everything else in host memory */
    uint64_t device;  /* weights, cache and activations on all GPUs together */
    int32_t layers;   /* layers of the model, on the CPU and on GPUs */
    int32_t n_devices;
    infer_device_memory devices[INFER_MAX_DEVICES]; /* n_devices of them, in the order of their layers */
    uint64_t peak; /* the most that the allocator is asked for at one time, by opening, a context and one session of all
                    * its cells: see section 11 */
    uint64_t reserved[4]; /* 0: fields of later versions (section 20) */
} infer_memory;

/* How much of a session infer_session_save_more has saved. Zeros = nothing yet. */
typedef struct infer_session_mark {
    uint64_t bytes; /* written or loaded so far: the next record belongs at this offset */
    uint64_t left;  /* infer_session_load_more: bytes after them that are not a complete record and were not loaded */
    uint64_t sum;   /* the library's own */
} infer_session_mark;

typedef struct infer_stats {
    uint64_t prompt_tokens, new_tokens; /* tokens evaluated in steps of more than one token / of one token, or drafted
                                         * and chosen */
    uint64_t reevaluated;               /* tokens recomputed because a rewind went back beyond the kept window */
    double prompt_seconds, new_seconds;
    uint64_t bytes_up, bytes_down, launches, syncs; /* device traffic of the last eval; 0 on CPU */
    uint64_t weight_bytes;                          /* bytes of weights that one token reads */
    uint64_t reserved[4]; /* 0: fields of later versions (section 20) */
} infer_stats;

typedef struct infer_profile_row {
    const char *op; /* name of the operation */
    uint64_t calls, bytes; /* bytes of weights and cache read */
    double seconds;
} infer_profile_row;

typedef struct infer_device_info {
    int32_t backend, device; /* infer_backend; number of the device, as model_params.device takes it; the CPU is 0 */
    int32_t unified;         /* shares its memory with the CPU */
    int32_t usable;          /* 0: see why_not; name is empty for an API without devices */
    int32_t automatic;       /* INFER_AUTO selects it */
    int32_t processor;       /* a CPU: device 0, and OpenCL devices that run on it; INFER_AUTO never selects those */
    char name[120];
    uint64_t total, free;    /* bytes of memory; free equals total where the API does not report it, and on CUDA devices
                              * that the process does not use yet (querying would take up their memory). For device 0:
                              * the machine's, or what the process's container may have; 0 = not known. Its free
                              * includes caches that the system would give back, mapped files among them */
    char why_not[120];
    uint64_t reserved[4]; /* 0: fields of later versions (section 20) */
} infer_device_info;

/* One row of infer_device_check: the worst result over several inputs of an operation, with the kernels of one program.
 * Strings are valid during the call of infer_kernel_fn. */
enum { INFER_KERNEL_OK = 0, INFER_KERNEL_DIFFERS = 1, INFER_KERNEL_FAILED = 2, INFER_KERNEL_NOT_BUILT = 3 };
typedef struct infer_kernel_check {
    int32_t verdict;     /* INFER_KERNEL_*; NOT_BUILT: the device's compiler refused the program */
    const char *program; /* "base", "kv_f16" (a type of cache), "q4_k" (a storage type): what is compiled as one unit */
    const char *check;   /* "norm", "many rows", ... */
    const char *kernels; /* that ran, separated by spaces; when one differs, those that may be the cause */
    const char *input;   /* sizes and kinds */
    const char *message; /* what is wrong, "" when nothing is */
    double error, limit; /* largest difference from the CPU's result, relative to the size of its terms; 1e30: different
                          * bits where they should be the same, or not a number */
    double nmse, nmse_limit; /* sum (a-b)^2 / sum b^2, where last digits may round to the neighbouring value; else 0 */
} infer_kernel_check;
typedef int (*infer_kernel_fn)(void *user, const infer_kernel_check *row); /* non-zero = stop: CANCELLED */

typedef struct infer_type_info {
    int32_t id;               /* the number in the file */
    const char *name;         /* "Q4_K" */
    int32_t values, bytes;    /* per block */
    int32_t storable;         /* 0 = used for activations only */
} infer_type_info;

typedef struct infer_tensor_info {
    const char *name;
    int32_t type;      /* see infer_type_name */
    int32_t n_dims;    /* 1 .. 4 */
    uint64_t dims[4];  /* dims[0] is the length of a row; unused ones are 1 */
    uint64_t rows;     /* dims[1] * dims[2] * dims[3] */
    uint64_t offset;   /* in its file, from the start */
    uint64_t bytes;
} infer_tensor_info;

/* A metadata value. Strings and arrays point into the model and are valid as long as it is open. */
enum { INFER_META_UINT = 1, INFER_META_INT, INFER_META_FLOAT, INFER_META_BOOL, INFER_META_STRING, INFER_META_ARRAY };
typedef struct infer_meta {
    int32_t kind;    /* INFER_META_* */
    int32_t element; /* of an array: the kind of its elements, else 0 */
    int32_t type;    /* GGUF value type 0..12 (of the elements for an array) */
    uint64_t n;      /* length: bytes of a string, elements of an array */
    uint64_t u;      /* UINT and BOOL */
    int64_t i;       /* INT */
    double f;        /* FLOAT; for UINT, INT and BOOL the same number */
    const char *s;   /* STRING: n bytes, NOT zero-terminated, not checked to be UTF-8 */
} infer_meta;

#endif
