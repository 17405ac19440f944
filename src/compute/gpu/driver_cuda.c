/* driver_cuda.c: the driver of NVIDIA's CUDA driver API (libcuda, part of the display driver), without toolkit and
 * headers.
 *
 * Owns:  finding the library, the list of devices; devices, memory, programs and queues of infer__cuda_driver.
 * Rules: types and numbers are our own (source: NVIDIA's documentation of the driver API); every function used is a row
 *        of INFER__CU_FUNCTIONS. All per-process state is in `infer__cuda`, written under its infer__once. Everything
 *        happens in a device's primary context, which the host's own use of CUDA shares: it is current only while a
 *        function of this file runs, in whatever thread, and the previous one is restored. After a kernel fault a
 *        context is unusable: the device is marked as lost, and every later call reports that.
 * Start: INFER__CU_FUNCTIONS, infer__cuda_list (which devices there are), infer__cu_enter, infer__cuda_load;
 *        driver_cuda_launch.c has launches.
 */
#include "gpu.h"

#if !defined(INFER_NO_GPU) && !defined(INFER_NO_CUDA)
#include "../../../kernels_embed.h"

/* ---- what the headers would say -------------------------------------------------------------------------------- */

#if defined(INFER__WINDOWS) && !defined(_WIN64)
#  define INFER__CU_CALL __stdcall
#else
#  define INFER__CU_CALL
#endif

typedef int32_t infer__cu_code;
typedef int32_t infer__cu_device;
typedef uintptr_t infer__cu_memory; /* an address on the device */
typedef struct infer__cu_context_ *infer__cu_context;
typedef struct infer__cu_module_ *infer__cu_module;
typedef struct infer__cu_function_ *infer__cu_function;
typedef struct infer__cu_stream_ *infer__cu_stream;
typedef struct infer__cu_event_ *infer__cu_event;
typedef struct infer__cu_link_ *infer__cu_link;
typedef struct infer__cu_graph_ *infer__cu_graph;
typedef struct infer__cu_exec_ *infer__cu_exec;

enum {
    INFER__CU_OUT_OF_MEMORY = 2,
    INFER__CU_NO_DEVICE = 100,

    INFER__CU_COMPUTE_MODE = 20, /* attributes of a device */
    INFER__CU_INTEGRATED = 18,
    INFER__CU_PCI_BUS = 33,
    INFER__CU_PROCESSORS = 16,
    INFER__CU_PCI_DEVICE = 34,
    INFER__CU_PCI_DOMAIN = 50,
    INFER__CU_MAJOR = 75,
    INFER__CU_MINOR = 76,
    INFER__CU_MODE_PROHIBITED = 2,

    INFER__CU_MAX_THREADS = 0,         /* attributes of a function */
    INFER__CU_MAX_SHARED = 8,
    INFER__CU_STREAM_NON_BLOCKING = 1, /* does not wait for the default stream, which is the host's */
    INFER__CU_EVENT_NO_TIMING = 2,
    INFER__CU_CAPTURE_THREAD = 1, /* other threads' calls do not affect the capture */
    INFER__CU_JIT_ERROR_LOG = 5,
    INFER__CU_JIT_ERROR_LOG_SIZE = 6,
    INFER__CU_INPUT_PTX = 1,
    INFER__CU_PARAM_BUFFER = 1, /* what cuLaunchKernel finds in `extra` */
    INFER__CU_PARAM_SIZE = 2,
    INFER__CU_SHARED_SHARE = 9, /* attribute of a function: percent of a processor's memory that is shared memory */
    INFER__CU_LAUNCH_EARLY = 6  /* attribute of a launch */
};

/* CUlaunchAttribute and CUlaunchConfig. */
typedef struct infer__cu_attribute_value {
    int32_t id, pad;
    union { char bytes[64]; int32_t on; } value;
} infer__cu_attribute_value;
typedef struct infer__cu_config {
    uint32_t grid[3], block[3], shared;
    infer__cu_stream stream;
    infer__cu_attribute_value *attributes;
    uint32_t n;
} infer__cu_config;

/* CU(name, arguments): every function that is called here. They return a code. */
#define INFER__CU_FUNCTIONS(CU) \
    CU(cuInit, (unsigned flags)) \
    CU(cuDriverGetVersion, (int *version)) \
    CU(cuGetErrorName, (infer__cu_code code, const char **name)) \
    CU(cuDeviceGetCount, (int *n)) \
    CU(cuDeviceGet, (infer__cu_device * d, int i)) \
    CU(cuDeviceGetName, (char *name, int cap, infer__cu_device d)) \
    CU(cuDeviceGetAttribute, (int *value, int what, infer__cu_device d)) \
    CU(cuDeviceTotalMem_v2, (size_t * bytes, infer__cu_device d)) \
    CU(cuDevicePrimaryCtxRetain, (infer__cu_context * c, infer__cu_device d)) \
    CU(cuDevicePrimaryCtxRelease, (infer__cu_device d)) \
    CU(cuDevicePrimaryCtxGetState, (infer__cu_device d, unsigned *flags, int *active)) \
    CU(cuCtxPushCurrent_v2, (infer__cu_context c)) \
    CU(cuCtxPopCurrent_v2, (infer__cu_context * c)) \
    CU(cuMemGetInfo_v2, (size_t * free, size_t *total)) \
    CU(cuMemAlloc_v2, (infer__cu_memory * m, size_t bytes)) \
    CU(cuMemFree_v2, (infer__cu_memory m)) \
    CU(cuMemAllocHost_v2, (void **p, size_t bytes)) \
    CU(cuMemFreeHost, (void *p)) \
    CU(cuMemcpyHtoDAsync_v2, (infer__cu_memory to, const void *src, size_t bytes, infer__cu_stream s)) \
    CU(cuMemcpyDtoHAsync_v2, (void *dst, infer__cu_memory from, size_t bytes, infer__cu_stream s)) \
    CU(cuMemcpyDtoDAsync_v2, (infer__cu_memory to, infer__cu_memory from, size_t bytes, infer__cu_stream s)) \
    CU(cuModuleLoadDataEx, (infer__cu_module * m, const void *image, unsigned n, int *options, void **values)) \
    CU(cuModuleUnload, (infer__cu_module m)) \
    CU(cuModuleGetFunction, (infer__cu_function * f, infer__cu_module m, const char *name)) \
    CU(cuFuncGetAttribute, (int *value, int what, infer__cu_function f)) \
    CU(cuFuncSetAttribute, (infer__cu_function f, int what, int value)) \
    CU(cuLinkCreate_v2, (unsigned n, int *options, void **values, infer__cu_link *l)) \
    CU(cuLinkAddData_v2, (infer__cu_link l, int kind, void *data, size_t size, const char *name, unsigned n, \
                          int *options, void **values)) \
    CU(cuLinkComplete, (infer__cu_link l, void **binary, size_t *size)) \
    CU(cuLinkDestroy, (infer__cu_link l)) \
    CU(cuStreamCreate, (infer__cu_stream * s, unsigned flags)) \
    CU(cuStreamDestroy_v2, (infer__cu_stream s)) \
    CU(cuStreamSynchronize, (infer__cu_stream s)) \
    CU(cuLaunchKernel, (infer__cu_function f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, \
                        unsigned bz, unsigned shared, infer__cu_stream s, void **params, void **extra)) \
    CU(cuEventCreate, (infer__cu_event * e, unsigned flags)) \
    CU(cuEventDestroy_v2, (infer__cu_event e)) \
    CU(cuEventRecord, (infer__cu_event e, infer__cu_stream s)) \
    CU(cuEventSynchronize, (infer__cu_event e)) \
    CU(cuEventElapsedTime, (float *ms, infer__cu_event from, infer__cu_event to))
/* Functions that older drivers lack: recordings need them (CUDA 11.4), except the first (CUDA 11.8). */
#define INFER__CU_OPTIONAL(CU) \
    CU(cuLaunchKernelEx, (const infer__cu_config * c, infer__cu_function f, void **params, void **extra)) \
    CU(cuStreamBeginCapture_v2, (infer__cu_stream s, int mode)) \
    CU(cuStreamEndCapture, (infer__cu_stream s, infer__cu_graph *g)) \
    CU(cuGraphInstantiateWithFlags, (infer__cu_exec * e, infer__cu_graph g, unsigned long long flags)) \
    CU(cuGraphLaunch, (infer__cu_exec e, infer__cu_stream s)) \
    CU(cuGraphDestroy, (infer__cu_graph g)) \
    CU(cuGraphExecDestroy, (infer__cu_exec e))

typedef struct infer__cu {
#define INFER__CU_POINTER(name, args) infer__cu_code(INFER__CU_CALL *name) args;
    INFER__CU_FUNCTIONS(INFER__CU_POINTER)
    INFER__CU_OPTIONAL(INFER__CU_POINTER)
#undef INFER__CU_POINTER
} infer__cu;

/* ---- the library and its devices --------------------------------------------------------------------------------- */

enum { INFER__CU_MAX_DEVICES = 64, INFER__CU_MIN_TIER = 61 /* of the generic kernels: compute capability 6.1 */ };

typedef struct infer__cu_row {
    infer_device_info info;
    infer__cu_device device;
    int32_t tier; /* compute capability: 10 * major + minor */
    int32_t processors;
    int32_t place[3]; /* on the PCI bus: domain, bus, device */
    uint64_t hash; /* of all that a binary for it depends on */
} infer__cu_row;

/* Per-process state. */
static struct infer__cuda {
    infer__once once;
    infer__cu cu;
    infer__cu_row rows[INFER__CU_MAX_DEVICES]; /* best first */
    int32_t n;
    int64_t process; /* that CUDA was started in: it does not work in a child of fork() */
    int graphs; /* all functions for them exist */
    char why_not[120]; /* when n is 0 */
} infer__cuda;

static const char *const INFER__CU_LIBRARIES[] = {
#if defined(INFER__WINDOWS)
    "nvcuda.dll",
#elif defined(__APPLE__)
    "/usr/local/cuda/lib/libcuda.dylib",
#else
    "libcuda.so.1",
    "/usr/lib/wsl/lib/libcuda.so.1", /* Windows Subsystem for Linux */
    "libcuda.so",
#endif
};

/* NULL, or the first required function that the library lacks. */
static const char *infer__cu_find(void *table, void *lib) {
    infer__cu *cu = (infer__cu *)table;
    const char *missing = NULL, *old = "";
#define INFER__CU_LOOK_UP(name, args) INFER__GPU_LOOK_UP(cu->name, lib, #name, missing)
#define INFER__CU_LOOK_FOR(name, args) INFER__GPU_LOOK_UP(cu->name, lib, #name, old)
    INFER__CU_FUNCTIONS(INFER__CU_LOOK_UP)
    INFER__CU_OPTIONAL(INFER__CU_LOOK_FOR)
#undef INFER__CU_LOOK_UP
#undef INFER__CU_LOOK_FOR
    return missing;
}

static int infer__cuda_library(struct infer__cuda *c, const char *const *names, size_t n) {
    return infer__gpu_library(names, n, infer__cu_find, &c->cu, c->why_not, sizeof c->why_not);
}

/* Names of codes for when the library is missing or too old to name them. */
static const struct { int16_t code; const char *name; } INFER__CU_CODES[] = {
    {2, "CUDA_ERROR_OUT_OF_MEMORY"}, {3, "CUDA_ERROR_NOT_INITIALIZED"}, {4, "CUDA_ERROR_DEINITIALIZED"},
    {34, "CUDA_ERROR_STUB_LIBRARY"}, {100, "CUDA_ERROR_NO_DEVICE"}, {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS"}, {719, "CUDA_ERROR_LAUNCH_FAILED"},
    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"}, {804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE"},
    {999, "CUDA_ERROR_UNKNOWN"},
};

/* "CUDA_ERROR_NO_DEVICE", as the library calls it. */
static const char *infer__cu_name(const infer__cu *cu, infer__cu_code code) {
    const char *name = NULL;
    size_t i;
    if (cu->cuGetErrorName(code, &name) == 0 && name) return name;
    for (i = 0; i < INFER__COUNT(INFER__CU_CODES); i++)
        if (INFER__CU_CODES[i].code == code) return INFER__CU_CODES[i].name;
    return "a code without a name";
}

static int32_t infer__cu_attribute(const infer__cu *cu, infer__cu_device d, int what) {
    int value = 0;
    return cu->cuDeviceGetAttribute(&value, what, d) == 0 ? value : 0;
}

/* Fill a row except for `free`. */
static void infer__cu_describe(const infer__cu *cu, infer__cu_row *r, int version) {
    char name[80] = "", text[160];
    size_t total = 0;
    int32_t major = infer__cu_attribute(cu, r->device, INFER__CU_MAJOR);
    int32_t minor = infer__cu_attribute(cu, r->device, INFER__CU_MINOR);
    if (cu->cuDeviceGetName(name, (int)sizeof name - 1, r->device) != 0) name[0] = 0;
    name[sizeof name - 1] = 0;
    infer__clean(name, 1);
    if (cu->cuDeviceTotalMem_v2(&total, r->device) != 0) total = 0;
    r->tier = major >= 0 && major < 1000 && minor >= 0 && minor < 10 ? major * 10 + minor : 0;
    r->processors = infer__cu_attribute(cu, r->device, INFER__CU_PROCESSORS);
    r->place[0] = infer__cu_attribute(cu, r->device, INFER__CU_PCI_DOMAIN);
    r->place[1] = infer__cu_attribute(cu, r->device, INFER__CU_PCI_BUS);
    r->place[2] = infer__cu_attribute(cu, r->device, INFER__CU_PCI_DEVICE);
    r->info.backend = INFER_CUDA;
    r->info.unified = infer__cu_attribute(cu, r->device, INFER__CU_INTEGRATED) == 1;
    r->info.total = r->info.free = total;
    infer__format(r->info.name, sizeof r->info.name, "%s (CUDA %d.%d, capability %d.%d)", name[0] ? name : "?",
                  version / 1000, version % 1000 / 10, (int)r->tier / 10, (int)r->tier % 10);
    infer__format(text, sizeof text, "%s %d %d", name, version, (int)r->tier);
    r->hash = infer__hash_text(INFER__FNV, text);
    if (r->tier < INFER__CU_MIN_TIER)
        infer__format(r->info.why_not, sizeof r->info.why_not, "compute capability %d.%d is needed, it has %d.%d",
                      INFER__CU_MIN_TIER / 10, INFER__CU_MIN_TIER % 10, (int)r->tier / 10, (int)r->tier % 10);
    else if (infer__cu_attribute(cu, r->device, INFER__CU_COMPUTE_MODE) == INFER__CU_MODE_PROHIBITED)
        infer__format(r->info.why_not, sizeof r->info.why_not, "its compute mode is set to \"prohibited\"");
    else if (total == 0)
        infer__format(r->info.why_not, sizeof r->info.why_not, "its driver says that it has no memory");
    else r->info.usable = 1;
}

/* Is a better than b? Nothing here depends on the order in which the API lists devices, which is a guess at the faster
 * one and can be set by the environment. */
static int infer__cu_better(const infer__cu_row *a, const infer__cu_row *b) {
    int i;
    if (a->info.usable != b->info.usable) return a->info.usable > b->info.usable;
    if (a->info.unified != b->info.unified) return a->info.unified < b->info.unified;
    if (a->tier != b->tier) return a->tier > b->tier;
    if (a->info.total != b->info.total) return a->info.total > b->info.total;
    for (i = 0; i < 3; i++)
        if (a->place[i] != b->place[i]) return a->place[i] < b->place[i];
    return 0;
}

static void infer__cu_insert(struct infer__cuda *c, const infer__cu_row *r) {
    int32_t at = c->n;
    while (at > 0 && infer__cu_better(r, &c->rows[at - 1])) at--;
    memmove(&c->rows[at + 1], &c->rows[at], (size_t)(c->n - at) * sizeof *r);
    c->rows[at] = *r;
    c->n++;
}

/* Names that were there before get a number. */
static void infer__cu_number(struct infer__cuda *c) {
    int32_t k, m, same;
    for (k = c->n - 1; k > 0; k--) { /* backwards: earlier names are still as they were */
        char *name = c->rows[k].info.name;
        size_t len = strlen(name);
        for (same = 0, m = 0; m < k; m++) same += strcmp(c->rows[m].info.name, name) == 0;
        if (same > 0) infer__format(name + len, sizeof c->rows[k].info.name - len, " #%d", (int)same + 1);
    }
}

/* Fill c->rows by c->cu, or c->why_not. */
static void infer__cuda_list(struct infer__cuda *c) {
    const infer__cu *cu = &c->cu;
    int n = 0, version = 0, i;
    infer__cu_row r;
    const char *call = "cuInit";
    infer__cu_code code = cu->cuInit(0);
    c->process = infer__process();
    c->graphs = cu->cuStreamBeginCapture_v2 && cu->cuStreamEndCapture && cu->cuGraphInstantiateWithFlags &&
                cu->cuGraphLaunch && cu->cuGraphDestroy && cu->cuGraphExecDestroy;
    if (code == 0) code = (call = "cuDriverGetVersion", cu->cuDriverGetVersion(&version));
    if (code == 0) code = (call = "cuDeviceGetCount", cu->cuDeviceGetCount(&n));
    if (code != 0) {
        infer__format(c->why_not, sizeof c->why_not, "%s failed: %s (%d)", call, infer__cu_name(cu, code), (int)code);
        return;
    }
    if (sizeof(void *) < 8) {
        infer__format(c->why_not, sizeof c->why_not, "CUDA needs a program of 64 bits");
        return;
    }
    if (version < INFER__PTX_CUDA) {
        infer__format(c->why_not, sizeof c->why_not, "the driver is too old: it knows CUDA %d.%d, %d.%d is needed",
                      version / 1000, version % 1000 / 10, INFER__PTX_CUDA / 1000, INFER__PTX_CUDA % 1000 / 10);
        return;
    }
    for (i = 0; i < n && c->n < INFER__CU_MAX_DEVICES; i++) {
        memset(&r, 0, sizeof r);
        if (cu->cuDeviceGet(&r.device, i) != 0) continue;
        infer__cu_describe(cu, &r, version);
        infer__cu_insert(c, &r);
    }
    infer__cu_number(c);
    if (c->n == 0) infer__format(c->why_not, sizeof c->why_not, "CUDA was found, but no device");
}

static void infer__cuda_start(void) {
    if (infer__cuda_library(&infer__cuda, INFER__CU_LIBRARIES, INFER__COUNT(INFER__CU_LIBRARIES)))
        infer__cuda_list(&infer__cuda);
}

static int32_t infer__cuda_devices(const char **why_not) {
    infer__call_once(&infer__cuda.once, infer__cuda_start);
    if (why_not) *why_not = infer__cuda.why_not;
    return infer__cuda.n;
}

/* Free bytes of the context that is current; 0 when the driver does not say. */
static uint64_t infer__cu_free_memory(const infer__cu *cu) {
    size_t free = 0, total = 0;
    return cu->cuMemGetInfo_v2(&free, &total) == 0 && free <= total ? free : 0;
}

/* Free memory is known only to a context, and creating one takes 0.1 s and 0.5 GB of the device: a device that this
 * process does not use yet counts as free. */
static void infer__cuda_info(int32_t index, infer_device_info *out) {
    const infer__cu *cu = &infer__cuda.cu;
    const infer__cu_row *r;
    infer__cu_context context = NULL, before;
    unsigned flags = 0;
    int active = 0;
    uint64_t free = 0;
    memset(out, 0, sizeof *out);
    if (index < 0 || index >= infer__cuda_devices(NULL)) return;
    r = &infer__cuda.rows[index];
    *out = r->info;
    if (!r->info.usable || cu->cuDevicePrimaryCtxGetState(r->device, &flags, &active) != 0 || !active) return;
    if (cu->cuDevicePrimaryCtxRetain(&context, r->device) != 0) return;
    if (cu->cuCtxPushCurrent_v2(context) == 0) {
        free = infer__cu_free_memory(cu);
        cu->cuCtxPopCurrent_v2(&before);
    }
    cu->cuDevicePrimaryCtxRelease(r->device);
    if (free > 0 && free <= out->total) out->free = free;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

typedef struct infer__cuda_device {
    infer__mem *mem;
    const infer__cu_row *row;
    infer__cu_context context;
    infer__atomic lost; /* the code of the fault that ended the context; 0 = none */
} infer__cuda_device;

/* A call that failed. */
typedef struct infer__cu_try {
    const char *call;
    infer__cu_code code;
} infer__cu_try;
/* 1 when a function went well. */
#define INFER__CU_DO(t, name, args) ((t).call = #name, ((t).code = infer__cuda.cu.name args) == 0)

/* Codes after which nothing in the context works: ECC and NVLink, destroyed contexts, faults of kernels, a server that
 * ended, and the unknown. */
static int infer__cu_fatal(infer__cu_code code) {
    static const int16_t codes[] = {4, 214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 810, 999};
    size_t i;
    for (i = 0; i < INFER__COUNT(codes); i++)
        if (codes[i] == code) return 1;
    return 0;
}

/* "cuStreamSynchronize failed: CUDA_ERROR_ILLEGAL_ADDRESS (700)"; the caller adds the purpose and the device. */
static infer_result infer__cu_failed(infer__cuda_device *d, infer_error *err, const infer__cu_try *t) {
    if (infer__cu_fatal(t->code) && infer__atomic_get(&d->lost) == 0) infer__atomic_set(&d->lost, t->code);
    return infer__error(err, t->code == INFER__CU_OUT_OF_MEMORY ? INFER_ERR_MEMORY : INFER_ERR_DEVICE,
                        "%s failed: %s (%d)", t->call, infer__cu_name(&infer__cuda.cu, t->code), (int)t->code);
}

/* Make the device's context current, until infer__cu_leave. */
static infer_result infer__cu_enter(infer__cuda_device *d, infer_error *err) {
    infer__cu_try t;
    infer__cu_code lost = (infer__cu_code)infer__atomic_get(&d->lost);
    if (lost)
        return infer__error(err, INFER_ERR_DEVICE, "the device was lost before: %s (%d)",
                            infer__cu_name(&infer__cuda.cu, lost), (int)lost);
    return INFER__CU_DO(t, cuCtxPushCurrent_v2, (d->context)) ? INFER_OK : infer__cu_failed(d, err, &t);
}

static void infer__cu_leave(void) {
    infer__cu_context before;
    infer__cuda.cu.cuCtxPopCurrent_v2(&before);
}

/* The same for releasing objects, whatever the state of the context. */
static int infer__cu_enter_anyway(infer__cuda_device *d) { return infer__cuda.cu.cuCtxPushCurrent_v2(d->context) == 0; }
static void infer__cu_leave_if(int entered) {
    if (entered) infer__cu_leave();
}

/* Leave the context; returns the result of the calls in between. */
static infer_result infer__cu_end(infer__cuda_device *d, int ok, infer_error *err, const infer__cu_try *t) {
    infer_result r = ok ? INFER_OK : infer__cu_failed(d, err, t);
    infer__cu_leave();
    return r;
}

/* ---- devices and memory ------------------------------------------------------------------------------------------ */

static infer_result infer__cuda_open(void **device, infer__mem *mem, int32_t index, infer_error *err) {
    const char *why = NULL;
    int32_t n = infer__cuda_devices(&why);
    const infer__cu_row *r = &infer__cuda.rows[index >= 0 && index < n ? index : 0];
    infer__cuda_device *d;
    infer__cu_try t;
    *device = NULL;
    if (n == 0) return infer__error(err, INFER_ERR_DEVICE, "no CUDA device: %s", why);
    if (index < 0 || index >= n)
        return infer__error(err, INFER_ERR_DEVICE, "there is no CUDA device %d, there are %d", (int)index, (int)n);
    if (!r->info.usable)
        return infer__error(err, INFER_ERR_DEVICE, "it cannot be used: %s", r->info.why_not);
    if (infer__cuda.process != infer__process())
        return infer__error(err, INFER_ERR_DEVICE,
                            "CUDA was started before fork() and does not work in the child: fork() first");
    d = (infer__cuda_device *)infer__calloc(mem, 1, sizeof *d);
    if (!d) return infer__error(err, INFER_ERR_MEMORY, "no memory for a CUDA device");
    d->mem = mem;
    d->row = r;
    if (!INFER__CU_DO(t, cuDevicePrimaryCtxRetain, (&d->context, r->device))) {
        infer_result code = infer__cu_failed(d, err, &t);
        infer__free(mem, d);
        return code;
    }
    *device = d;
    return INFER_OK;
}

static void infer__cuda_close(void *device) {
    infer__cuda_device *d = (infer__cuda_device *)device;
    if (!d) return;
    infer__cuda.cu.cuDevicePrimaryCtxRelease(d->row->device);
    infer__free(d->mem, d);
}

/* 0 bytes: handle 0, which kernels see as a null pointer. */
static infer_result infer__cuda_alloc(void *device, uint64_t bytes, uint64_t *handle, infer_error *err) {
    infer__cuda_device *d = (infer__cuda_device *)device;
    infer__cu_memory m = 0;
    infer__cu_try t;
    infer_result r;
    *handle = 0;
    if (bytes == 0) return INFER_OK;
    if ((uint64_t)(size_t)bytes != bytes)
        return infer__error(err, INFER_ERR_MEMORY, "a buffer of %llu bytes", (unsigned long long)bytes);
    r = infer__cu_enter(d, err);
    if (r) return r;
    r = infer__cu_end(d, INFER__CU_DO(t, cuMemAlloc_v2, (&m, (size_t)bytes)), err, &t);
    if (!r) *handle = (uint64_t)m;
    return r;
}

/* The API waits for work that uses the memory. */
static void infer__cuda_release(void *device, uint64_t handle) {
    infer__cuda_device *d = (infer__cuda_device *)device;
    int entered;
    if (!handle) return;
    entered = infer__cu_enter_anyway(d);
    infer__cuda.cu.cuMemFree_v2((infer__cu_memory)handle);
    infer__cu_leave_if(entered);
}

static uint64_t infer__cuda_memory(void *device) {
    infer__cuda_device *d = (infer__cuda_device *)device;
    infer_error ignored;
    uint64_t n;
    infer__error_clear(&ignored);
    if (infer__cu_enter(d, &ignored)) return 0;
    n = infer__cu_free_memory(&infer__cuda.cu);
    infer__cu_leave();
    return n;
}

static int32_t infer__cuda_tier(void *device) { return ((infer__cuda_device *)device)->row->tier; }
static int32_t infer__cuda_processors(void *device) { return ((infer__cuda_device *)device)->row->processors; }
static uint64_t infer__cuda_identity(void *device) { return ((infer__cuda_device *)device)->row->hash; }

/* ---- programs ---------------------------------------------------------------------------------------------------- */

enum { INFER__CU_LOG = 4096 }; /* bytes of what the compiler says */

typedef struct infer__cu_log {
    char text[INFER__CU_LOG];
    int options[2];
    void *values[2];
} infer__cu_log;

static void infer__cu_log_open(infer__cu_log *log) {
    memset(log->text, 0, sizeof log->text);
    log->options[0] = INFER__CU_JIT_ERROR_LOG;
    log->values[0] = log->text;
    log->options[1] = INFER__CU_JIT_ERROR_LOG_SIZE;
    log->values[1] = (void *)(uintptr_t)(sizeof log->text - 1);
}

/* Compile PTX by the driver, which has its own cache. */
static infer_result infer__cu_compile(infer__cuda_device *d, const infer__gpu_source *s, infer__cu_module *module,
                                      infer_error *err) {
    infer__cu_log log;
    infer__cu_try t;
    char line[300];
    infer_result r;
    infer__cu_log_open(&log);
    if (INFER__CU_DO(t, cuModuleLoadDataEx, (module, s->text[0], 2, log.options, log.values))) return INFER_OK;
    r = infer__cu_failed(d, err, &t);
    if (!log.text[0]) return r;
    infer__gpu_log_line(log.text, line, sizeof line);
    return infer__error(err, r, "%s failed: %s (%d): %s", t.call, infer__cu_name(&infer__cuda.cu, t.code),
                        (int)t.code, line);
}

/* Link PTX to a binary for the caller's cache and load it; 0 on failure: infer__cu_compile then reports the reason. */
static int infer__cu_link_binary(const infer__gpu_source *s, infer__gpu_built *b) {
    const infer__cu *cu = &infer__cuda.cu;
    infer__cu_module module = NULL;
    infer__cu_log log;
    infer__cu_link link = NULL;
    void *binary = NULL;
    size_t n = 0;
    infer__cu_log_open(&log);
    if (cu->cuLinkCreate_v2(2, log.options, log.values, &link) != 0) return 0;
    if (cu->cuLinkAddData_v2(link, INFER__CU_INPUT_PTX, (void *)(uintptr_t)s->text[0], strlen(s->text[0]) + 1, s->name,
                             0, NULL, NULL) != 0 ||
        cu->cuLinkComplete(link, &binary, &n) != 0 || !binary || n == 0 ||
        cu->cuModuleLoadDataEx(&module, binary, 0, NULL, NULL) != 0) {
        cu->cuLinkDestroy(link);
        return 0;
    }
    b->program = module;
    b->binary = binary;
    b->n = n;
    b->made = link; /* the binary is its */
    return 1;
}

static int infer__cuda_cached(void *device, const infer__gpu_source *s, void **program) {
    static const uint8_t elf[4] = {0x7f, 'E', 'L', 'F'};
    infer__cuda_device *d = (infer__cuda_device *)device;
    infer__cu_module module = NULL;
    infer_error ignored;
    size_t n = 0;
    uint8_t *data = s->cache && s->cache->get ? infer__gpu_cached(d->mem, s, "cuda", d->row->hash, &n) : NULL;
    int ok = data && n > sizeof elf && memcmp(data + INFER__GPU_CACHE_HEAD, elf, sizeof elf) == 0;
    infer__error_clear(&ignored);
    if (ok && (ok = infer__cu_enter(d, &ignored) == INFER_OK) != 0) {
        ok = infer__cuda.cu.cuModuleLoadDataEx(&module, data + INFER__GPU_CACHE_HEAD, 0, NULL, NULL) == 0;
        infer__cu_leave();
    }
    infer__free(d->mem, data);
    if (ok) *program = module;
    return ok;
}

static void infer__cuda_build(void *device, const infer__gpu_source *s, infer__gpu_built *b) {
    infer__cuda_device *d = (infer__cuda_device *)device;
    infer__cu_module module = NULL;
    memset(b, 0, sizeof *b);
    infer__error_clear(&b->err);
    b->r = infer__cu_enter(d, &b->err);
    if (b->r) return;
    if (!(s->cache && s->cache->put && infer__cu_link_binary(s, b))) {
        b->r = infer__cu_compile(d, s, &module, &b->err);
        if (!b->r) b->program = module;
    }
    infer__cu_leave();
}

static infer_result infer__cuda_take(void *device, const infer__gpu_source *s, infer__gpu_built *b, void **program,
                                     infer_error *err) {
    infer__cuda_device *d = (infer__cuda_device *)device;
    uint8_t *data = NULL;
    int entered;
    *program = b->program;
    if (b->r) return infer__error(err, b->r, "%s", b->err.message);
    if (!b->made) return INFER_OK;
    if (b->n <= INFER__GPU_CACHE_MAX - INFER__GPU_CACHE_HEAD)
        data = (uint8_t *)infer__alloc(d->mem, (uint64_t)b->n + INFER__GPU_CACHE_HEAD);
    if (data) {
        memcpy(data + INFER__GPU_CACHE_HEAD, b->binary, b->n);
        infer__gpu_keep(s, "cuda", d->row->hash, data, b->n);
        infer__free(d->mem, data);
    }
    entered = infer__cu_enter_anyway(d);
    infer__cuda.cu.cuLinkDestroy((infer__cu_link)b->made);
    infer__cu_leave_if(entered);
    return INFER_OK;
}

static infer_result infer__cuda_load(void *device, const infer__gpu_source *s, void **program, infer_error *err) {
    infer__gpu_built b;
    *program = NULL;
    if (infer__cuda_cached(device, s, program)) return INFER_OK;
    infer__cuda_build(device, s, &b);
    return infer__cuda_take(device, s, &b, program, err);
}

static void infer__cuda_unload(void *device, void *program) {
    int entered;
    if (!program) return;
    entered = infer__cu_enter_anyway((infer__cuda_device *)device);
    infer__cuda.cu.cuModuleUnload((infer__cu_module)program);
    infer__cu_leave_if(entered);
}

/* ---- queues ------------------------------------------------------------------------------------------------------ */

enum {
    INFER__CU_STAGES = 2,
    INFER__CU_STAGE = 8 << 20,       /* bytes of a staging buffer: one is sent while the other is filled */
    INFER__CU_STAGE_FROM = 256 << 10 /* smaller uploads are not staged: the driver copies them at once */
};

typedef struct infer__cu_stage {
    void *memory; /* pinned host memory; NULL = not allocated yet */
    infer__cu_event sent; /* recorded after what was sent from it */
    int used;
} infer__cu_stage;

typedef struct infer__cuda_queue {
    infer__cuda_device *device;
    infer__cu_stream stream;
    infer__cu_stage stages[INFER__CU_STAGES];
    int stage, no_stages; /* whose turn it is; they could not be made */
    int recording, timing;
    infer__cu_event *events; /* two for each launch, before and after it */
    int32_t n_events, made_events, cap_events; /* recorded; made; capacity */
} infer__cuda_queue;

static infer_result infer__cuda_queue_open(void **queue, void *device, infer_error *err) {
    infer__cuda_device *d = (infer__cuda_device *)device;
    infer__cuda_queue *q;
    infer__cu_try t;
    infer_result r = infer__cu_enter(d, err);
    *queue = NULL;
    if (r) return r;
    q = (infer__cuda_queue *)infer__calloc(d->mem, 1, sizeof *q);
    if (!q) {
        infer__cu_leave();
        return infer__error(err, INFER_ERR_MEMORY, "no memory for a CUDA queue");
    }
    q->device = d;
    r = infer__cu_end(d, INFER__CU_DO(t, cuStreamCreate, (&q->stream, INFER__CU_STREAM_NON_BLOCKING)), err, &t);
    if (r) infer__free(d->mem, q);
    else *queue = q;
    return r;
}

static void infer__cu_stages_close(infer__cuda_queue *q) {
    int i;
    for (i = 0; i < INFER__CU_STAGES; i++) {
        if (q->stages[i].sent) infer__cuda.cu.cuEventDestroy_v2(q->stages[i].sent);
        if (q->stages[i].memory) infer__cuda.cu.cuMemFreeHost(q->stages[i].memory);
    }
    memset(q->stages, 0, sizeof q->stages);
}

/* Abandon a recording. */
static void infer__cu_recording_drop(infer__cuda_queue *q) {
    infer__cu_graph graph = NULL;
    if (q->recording && infer__cuda.cu.cuStreamEndCapture(q->stream, &graph) == 0 && graph)
        infer__cuda.cu.cuGraphDestroy(graph);
    q->recording = 0;
}

static void infer__cuda_queue_close(void *queue) {
    infer__cuda_queue *q = (infer__cuda_queue *)queue;
    int32_t i;
    int entered;
    if (!q) return;
    entered = infer__cu_enter_anyway(q->device);
    infer__cu_recording_drop(q);
    infer__cuda.cu.cuStreamSynchronize(q->stream); /* the caller is about to free what uploads and downloads point to */
    infer__cu_stages_close(q);
    for (i = 0; i < q->made_events; i++) infer__cuda.cu.cuEventDestroy_v2(q->events[i]);
    infer__cuda.cu.cuStreamDestroy_v2(q->stream);
    infer__cu_leave_if(entered);
    infer__free(q->device->mem, q->events);
    infer__free(q->device->mem, q);
}

/* A function belongs to its program and has no state: all queues share it. */
typedef struct infer__cuda_kernel {
    infer__cu_function function;
    int32_t shared; /* bytes that a launch asks for */
    int32_t early;  /* 1: launches begin before what was launched before has ended */
} infer__cuda_kernel;

static infer_result infer__cuda_kernel_open(void **kernel, void *queue, void *program, const char *name, int32_t group,
                                            infer_error *err) {
    infer__cuda_device *d = ((infer__cuda_queue *)queue)->device;
    infer__cuda_kernel *k;
    infer__cu_function f = NULL;
    infer__cu_try t;
    int most = 0, ok;
    infer_result r = infer__cu_enter(d, err);
    *kernel = NULL;
    if (r) return r;
    ok = INFER__CU_DO(t, cuModuleGetFunction, (&f, (infer__cu_module)program, name)) &&
         INFER__CU_DO(t, cuFuncGetAttribute, (&most, INFER__CU_MAX_THREADS, f));
    r = infer__cu_end(d, ok, err, &t);
    if (r) return r;
    if (most < group)
        return infer__error(err, INFER_ERR_DEVICE, "%s needs groups of %d threads, the device runs %d", name,
                            (int)group, most);
    k = (infer__cuda_kernel *)infer__calloc(d->mem, 1, sizeof *k);
    if (!k) return infer__error(err, INFER_ERR_MEMORY, "no memory for a CUDA kernel");
    k->function = f;
    *kernel = k;
    return INFER_OK;
}

static void infer__cuda_kernel_close(void *queue, void *kernel) {
    infer__free(((infer__cuda_queue *)queue)->device->mem, kernel);
}

static infer_result infer__cuda_shared(void *queue, void *kernel, int32_t bytes, infer_error *err) {
    infer__cuda_device *d = ((infer__cuda_queue *)queue)->device;
    infer__cuda_kernel *k = (infer__cuda_kernel *)kernel;
    infer__cu_try t;
    infer_result r = infer__cu_enter(d, err);
    if (r) return r;
    k->shared = bytes;
    return infer__cu_end(d, INFER__CU_DO(t, cuFuncSetAttribute, (k->function, INFER__CU_MAX_SHARED, bytes)), err, &t);
}

/* Does nothing on drivers without the function. Groups of two kernels share a processor only if both use the same split
 * of its memory, so set that, too. */
static void infer__cuda_early(void *queue, void *kernel) {
    infer__cuda_device *d = ((infer__cuda_queue *)queue)->device;
    infer__cuda_kernel *k = (infer__cuda_kernel *)kernel;
    if (!infer__cuda.cu.cuLaunchKernelEx || !infer__cu_enter_anyway(d)) return;
    k->early = 1;
    infer__cuda.cu.cuFuncSetAttribute(k->function, INFER__CU_SHARED_SHARE, 100); /* a wish */
    infer__cu_leave();
}

/* infer__cu_enter for an operation that cannot be recorded: it ends the recording. */
static infer_result infer__cu_enter_apart(infer__cuda_queue *q, const char *what, infer_error *err) {
    infer_result r = infer__cu_enter(q->device, err);
    if (r || !q->recording) return r;
    infer__cu_recording_drop(q);
    infer__cu_leave();
    return infer__error(err, INFER_ERR_STATE, "%s while recording", what);
}

/* Allocate both staging buffers, or none: uploads work without them, only slower. */
static void infer__cu_stages_open(infer__cuda_queue *q) {
    const infer__cu *cu = &infer__cuda.cu;
    int i, ok = 1;
    if (q->no_stages || q->stages[0].memory) return;
    for (i = 0; ok && i < INFER__CU_STAGES; i++) {
        infer__cu_stage *s = &q->stages[i];
        ok = cu->cuMemAllocHost_v2(&s->memory, INFER__CU_STAGE) == 0;
        if (!ok) s->memory = NULL;
        if (ok) ok = cu->cuEventCreate(&s->sent, INFER__CU_EVENT_NO_TIMING) == 0;
        if (!ok) s->sent = NULL;
    }
    if (ok) return;
    infer__cu_stages_close(q);
    q->no_stages = 1;
}

/* Send a piece through the next staging buffer. */
static int infer__cu_send(infer__cuda_queue *q, infer__cu_memory to, const uint8_t *src, size_t bytes,
                          infer__cu_try *t) {
    infer__cu_stage *s = &q->stages[q->stage];
    if (s->used && !INFER__CU_DO(*t, cuEventSynchronize, (s->sent))) return 0;
    memcpy(s->memory, src, bytes);
    s->used = 1;
    q->stage = (q->stage + 1) % INFER__CU_STAGES;
    return INFER__CU_DO(*t, cuMemcpyHtoDAsync_v2, (to, s->memory, bytes, q->stream)) &&
           INFER__CU_DO(*t, cuEventRecord, (s->sent, q->stream));
}

static infer_result infer__cuda_upload(void *queue, uint64_t to, uint64_t offset, const void *src, uint64_t bytes,
                                       infer_error *err) {
    infer__cuda_queue *q = (infer__cuda_queue *)queue;
    infer__cu_memory at = (infer__cu_memory)(to + offset);
    const uint8_t *from = (const uint8_t *)src;
    infer__cu_try t;
    int ok = 1;
    infer_result r;
    if (bytes == 0) return INFER_OK;
    r = infer__cu_enter_apart(q, "upload", err);
    if (r) return r;
    if (bytes >= INFER__CU_STAGE_FROM) infer__cu_stages_open(q);
    if (bytes < INFER__CU_STAGE_FROM || q->no_stages)
        return infer__cu_end(q->device, INFER__CU_DO(t, cuMemcpyHtoDAsync_v2, (at, src, (size_t)bytes, q->stream)),
                             err, &t);
    while (ok && bytes > 0) {
        size_t n = (size_t)INFER__MIN(bytes, INFER__CU_STAGE);
        ok = infer__cu_send(q, at, from, n, &t);
        at += n;
        from += n;
        bytes -= n;
    }
    return infer__cu_end(q->device, ok, err, &t);
}

static infer_result infer__cuda_download(void *queue, uint64_t from, uint64_t offset, void *dst, uint64_t bytes,
                                         infer_error *err) {
    infer__cuda_queue *q = (infer__cuda_queue *)queue;
    infer__cu_try t;
    infer_result r;
    if (bytes == 0) return INFER_OK;
    r = infer__cu_enter_apart(q, "download", err);
    if (r) return r;
    return infer__cu_end(q->device, INFER__CU_DO(t, cuMemcpyDtoHAsync_v2, (dst, (infer__cu_memory)(from + offset),
                                                                          (size_t)bytes, q->stream)), err, &t);
}

/* Within one buffer the two ranges must not overlap. */
static infer_result infer__cuda_copy(void *queue, uint64_t to, uint64_t to_offset, uint64_t from, uint64_t from_offset,
                                     uint64_t bytes, infer_error *err) {
    infer__cuda_queue *q = (infer__cuda_queue *)queue;
    infer__cu_try t;
    infer_result r;
    if (bytes == 0) return INFER_OK;
    r = infer__cu_enter(q->device, err);
    if (r) return r;
    return infer__cu_end(q->device,
                         INFER__CU_DO(t, cuMemcpyDtoDAsync_v2,
                                      ((infer__cu_memory)(to + to_offset), (infer__cu_memory)(from + from_offset),
                                       (size_t)bytes, q->stream)), err, &t);
}

static infer_result infer__cuda_sync(void *queue, infer_error *err) {
    infer__cuda_queue *q = (infer__cuda_queue *)queue;
    infer__cu_try t;
    infer_result r = infer__cu_enter_apart(q, "sync", err);
    if (r) return r;
    return infer__cu_end(q->device, INFER__CU_DO(t, cuStreamSynchronize, (q->stream)), err, &t);
}

#endif
