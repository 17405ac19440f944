/* driver_metal.c: the driver of Apple's Metal, from C: messages go through objc_msgSend of the Objective-C runtime.
 *
 * Owns:  the table of all messages that are sent (INFER__MTL_MESSAGES), the list of devices, and infer__metal_driver.
 * Rules: a message is sent through a function of its exact type, as Objective-C compilers do. Names and types are those
 *        of Apple's documentation of the class or protocol named before each group. A method whose name begins with
 *        "new" or "Copy" returns an object to be released; results of other methods are retained if they must outlive
 *        the autorelease pool, which every driver function has. Releasing a command buffer before its encoder has
 *        ended, or a buffer in use, would abort the process: the functions below keep the order. With
 *        INFER__METAL_LIBRARY (tests) that library replaces the runtime and the frameworks.
 * Start: INFER__MTL_MESSAGES, infer__metal_list (which devices there are), infer__metal_finish (waiting, what arrived),
 *        infer__metal_launch.
 */
#include "gpu.h"

#if !defined(INFER_NO_GPU) && !defined(INFER_NO_METAL)

#if (defined(__APPLE__) && defined(__LP64__)) || defined(INFER__METAL_LIBRARY)

/* ---- what the headers would say -------------------------------------------------------------------------------- */

typedef struct infer__mtl_object *infer__mtl_id; /* "id": any object; nil is NULL */
typedef const struct infer__mtl_selector *infer__mtl_sel;
typedef signed char infer__mtl_bool;      /* BOOL; where it is bool, 0 and 1 travel in the same way */
typedef unsigned long infer__mtl_uint;    /* NSUInteger */
typedef long infer__mtl_int;              /* NSInteger */
typedef struct infer__mtl_size { infer__mtl_uint width, height, depth; } infer__mtl_size; /* MTLSize */

enum {
    INFER__MTL_SHARED = 0,             /* MTLResourceStorageModeShared: visible to the CPU */
    INFER__MTL_PRIVATE = 2 << 4,       /* MTLResourceStorageModePrivate */
    INFER__MTL_APPLE4 = 1004,          /* MTLGPUFamilyApple4: A11 */
    INFER__MTL_APPLE7 = 1007,          /* MTLGPUFamilyApple7: A14, M1; the first with simdgroup matrices */
    INFER__MTL_MAC2 = 2002,            /* MTLGPUFamilyMac2 */
    INFER__MTL_STATUS_ERROR = 5,       /* MTLCommandBufferStatusError */
    INFER__MTL_OUT_OF_MEMORY = 8,      /* MTLCommandBufferErrorOutOfMemory */
    INFER__MTL_MAX_BYTES = 4096,       /* that setBytes takes */
    INFER__MTL_MIN_LOCAL = 16 * 1024   /* bytes of threadgroup memory that kernels need */
};

/* M(result, our name, selector, more arguments): every message that is sent. The object and the selector come first. */
#    define INFER__MTL_MESSAGES(M)                                                                                     \
      /* NSObject */                                                                                                   \
      M(infer__mtl_id, retain, "retain", )                                                                             \
      M(void, release, "release", )                                                                                    \
      M(infer__mtl_id, make, "new", )                                                                                  \
      M(infer__mtl_bool, responds, "respondsToSelector:", INFER__MTL_ALSO infer__mtl_sel asked)                        \
      /* NSString: the first is of the class */                                                                        \
      M(infer__mtl_id, string, "stringWithUTF8String:", INFER__MTL_ALSO const char *utf8)                              \
      M(const char *, utf8, "UTF8String", )                                                                            \
      /* NSError, NSArray */                                                                                           \
      M(infer__mtl_id, description, "localizedDescription", )                                                          \
      M(infer__mtl_int, code, "code", )                                                                                \
      M(infer__mtl_uint, count, "count", )                                                                             \
      M(infer__mtl_id, at, "objectAtIndex:", INFER__MTL_ALSO infer__mtl_uint index)                                    \
      /* MTLDevice */                                                                                                  \
      M(infer__mtl_id, name, "name", )                                                                                 \
      M(infer__mtl_bool, unified, "hasUnifiedMemory", )                                                                \
      M(infer__mtl_bool, low_power, "isLowPower", )                                                                    \
      M(infer__mtl_bool, family, "supportsFamily:", INFER__MTL_ALSO infer__mtl_int family)                             \
      M(uint64_t, working_set, "recommendedMaxWorkingSetSize", )                                                       \
      M(infer__mtl_uint, allocated, "currentAllocatedSize", )                                                          \
      M(infer__mtl_uint, max_buffer, "maxBufferLength", )                                                              \
      M(infer__mtl_uint, max_local, "maxThreadgroupMemoryLength", )                                                    \
      M(infer__mtl_id, new_queue, "newCommandQueue", )                                                                 \
      M(infer__mtl_id, new_buffer,                                                                                     \
        "newBufferWithLength:options:", INFER__MTL_ALSO infer__mtl_uint bytes INFER__MTL_ALSO infer__mtl_uint options) \
      M(infer__mtl_id, new_library, "newLibraryWithSource:options:error:",                                             \
        INFER__MTL_ALSO infer__mtl_id source INFER__MTL_ALSO infer__mtl_id options INFER__MTL_ALSO infer__mtl_id *err) \
      M(infer__mtl_id, new_pipeline, "newComputePipelineStateWithFunction:error:",                                     \
        INFER__MTL_ALSO infer__mtl_id function INFER__MTL_ALSO infer__mtl_id *err)                                     \
      /* MTLCompileOptions */                                                                                          \
      M(void, set_fast_math, "setFastMathEnabled:", INFER__MTL_ALSO infer__mtl_bool on)                                \
      /* MTLLibrary, MTLComputePipelineState, MTLBuffer, MTLCommandQueue */                                            \
      M(infer__mtl_id, new_function, "newFunctionWithName:", INFER__MTL_ALSO infer__mtl_id name)                       \
      M(infer__mtl_uint, max_threads, "maxTotalThreadsPerThreadgroup", )                                               \
      M(void *, contents, "contents", )                                                                                \
      M(infer__mtl_id, command_buffer, "commandBuffer", )                                                              \
      /* MTLCommandBuffer */                                                                                           \
      M(infer__mtl_id, compute, "computeCommandEncoder", ) /* serial: a dispatch sees what those before wrote */       \
      M(infer__mtl_id, blit, "blitCommandEncoder", )                                                                   \
      M(void, commit, "commit", )                                                                                      \
      M(void, wait, "waitUntilCompleted", )                                                                            \
      M(infer__mtl_uint, status, "status", )                                                                           \
      M(infer__mtl_id, error, "error", )                                                                               \
      M(double, started, "GPUStartTime", )                                                                             \
      M(double, ended, "GPUEndTime", )                                                                                 \
      /* MTLCommandEncoder, MTLComputeCommandEncoder, MTLBlitCommandEncoder */                                         \
      M(void, end_encoding, "endEncoding", )                                                                           \
      M(void, set_pipeline, "setComputePipelineState:", INFER__MTL_ALSO infer__mtl_id pipeline)                        \
      M(void, set_buffer, "setBuffer:offset:atIndex:",                                                                 \
        INFER__MTL_ALSO infer__mtl_id buffer INFER__MTL_ALSO infer__mtl_uint offset INFER__MTL_ALSO infer__mtl_uint    \
            index)                                                                                                     \
      M(void, set_bytes, "setBytes:length:atIndex:",                                                                   \
        INFER__MTL_ALSO const void *bytes INFER__MTL_ALSO infer__mtl_uint length INFER__MTL_ALSO infer__mtl_uint       \
            index)                                                                                                     \
      M(void, dispatch, "dispatchThreadgroups:threadsPerThreadgroup:",                                                 \
        INFER__MTL_ALSO infer__mtl_size groups INFER__MTL_ALSO infer__mtl_size threads)                                \
      M(void, copy, "copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:",                                    \
        INFER__MTL_ALSO infer__mtl_id from INFER__MTL_ALSO infer__mtl_uint from_offset INFER__MTL_ALSO infer__mtl_id   \
            to INFER__MTL_ALSO infer__mtl_uint to_offset INFER__MTL_ALSO infer__mtl_uint bytes)
#    define INFER__MTL_ALSO ,

/* objc_msgSend by the type of each message, and the selectors by their names. */
typedef struct infer__mtl {
#define INFER__MTL_POINTER(result, name, text, args) result (*name)(infer__mtl_id self, infer__mtl_sel sel args);
    INFER__MTL_MESSAGES(INFER__MTL_POINTER)
#undef INFER__MTL_POINTER
} infer__mtl;
typedef struct infer__mtl_names {
#define INFER__MTL_NAME(result, name, text, args) infer__mtl_sel name;
    INFER__MTL_MESSAGES(INFER__MTL_NAME)
#undef INFER__MTL_NAME
} infer__mtl_names;

/* Functions of the runtime and of Metal. */
typedef struct infer__mtl_runtime {
    infer__mtl_sel (*sel)(const char *name);
    infer__mtl_id (*get_class)(const char *name);
    void *(*push)(void);
    void (*pop)(void *pool);
    void (*send)(void);
    infer__mtl_id (*default_device)(void);
    infer__mtl_id (*all_devices)(void); /* NULL on systems that have one device */
} infer__mtl_runtime;

/* ---- the libraries and their devices ----------------------------------------------------------------------------- */

enum { INFER__MTL_MAX_DEVICES = 16 };

typedef struct infer__mtl_row {
    infer__mtl_id device; /* kept as long as the process */
    infer_device_info info;
    uint64_t max_buffer; /* bytes */
    int32_t low_power, tier;
} infer__mtl_row;

/* Per-process state. */
static struct infer__metal {
    infer__once once;
    infer__mtl_runtime run;
    infer__mtl call;
    infer__mtl_names sel;
    infer__mtl_row rows[INFER__MTL_MAX_DEVICES]; /* best first */
    int32_t n;
    char why_not[120]; /* when n is 0 */
} infer__metal;

/* INFER__MTL(commit, cb) sends `commit` to cb; INFER__MTL2 is for messages with arguments. */
#define INFER__MTL(name, object) (infer__metal.call.name(object, infer__metal.sel.name))
#define INFER__MTL2(name, object, args) (infer__metal.call.name(object, infer__metal.sel.name, INFER__MTL_LIST args))
#define INFER__MTL_LIST(...) __VA_ARGS__

#if defined(INFER__METAL_LIBRARY)
static const char *const INFER__MTL_RUNTIME[] = {INFER__METAL_LIBRARY};
static const char *const INFER__MTL_FRAMEWORK[] = {INFER__METAL_LIBRARY};
static const char *const INFER__MTL_OTHERS[] = {NULL};
#else
static const char *const INFER__MTL_RUNTIME[] = {"/usr/lib/libobjc.A.dylib"};
static const char *const INFER__MTL_FRAMEWORK[] = {"/System/Library/Frameworks/Metal.framework/Metal"};
/* Foundation has the strings. Without CoreGraphics a program of the command line gets no default device. */
static const char *const INFER__MTL_OTHERS[] = {"/System/Library/Frameworks/Foundation.framework/Foundation",
                                                "/System/Library/Frameworks/CoreGraphics.framework/CoreGraphics"};
#endif

static const char *infer__mtl_find_runtime(void *table, void *lib) {
    infer__mtl_runtime *r = (infer__mtl_runtime *)table;
    const char *missing = NULL;
    INFER__GPU_LOOK_UP(r->sel, lib, "sel_registerName", missing)
    INFER__GPU_LOOK_UP(r->get_class, lib, "objc_getClass", missing)
    INFER__GPU_LOOK_UP(r->push, lib, "objc_autoreleasePoolPush", missing)
    INFER__GPU_LOOK_UP(r->pop, lib, "objc_autoreleasePoolPop", missing)
    INFER__GPU_LOOK_UP(r->send, lib, "objc_msgSend", missing)
    return missing;
}

static const char *infer__mtl_find_framework(void *table, void *lib) {
    infer__mtl_runtime *r = (infer__mtl_runtime *)table;
    const char *missing = NULL, *without = NULL;
    INFER__GPU_LOOK_UP(r->default_device, lib, "MTLCreateSystemDefaultDevice", missing)
    INFER__GPU_LOOK_UP(r->all_devices, lib, "MTLCopyAllDevices", without)
    return missing;
}

static int infer__metal_load(struct infer__metal *m) {
    size_t i;
    for (i = 0; i < INFER__COUNT(INFER__MTL_OTHERS); i++) /* missing ones are noticed when they are used */
        if (INFER__MTL_OTHERS[i]) infer__lib_open(INFER__MTL_OTHERS[i]);
    if (!infer__gpu_library(INFER__MTL_RUNTIME, INFER__COUNT(INFER__MTL_RUNTIME), infer__mtl_find_runtime, &m->run,
                            m->why_not, sizeof m->why_not) ||
        !infer__gpu_library(INFER__MTL_FRAMEWORK, INFER__COUNT(INFER__MTL_FRAMEWORK), infer__mtl_find_framework,
                            &m->run, m->why_not, sizeof m->why_not))
        return 0;
#define INFER__MTL_FILL(result, name, text, args) \
    memcpy(&m->call.name, &m->run.send, sizeof m->run.send); \
    m->sel.name = m->run.sel(text);
    INFER__MTL_MESSAGES(INFER__MTL_FILL)
#undef INFER__MTL_FILL
    return 1;
}

static int infer__mtl_can(infer__mtl_id object, infer__mtl_sel sel) {
    return INFER__MTL2(responds, object, (sel)) != 0;
}

/* The text of an NSString: lives as long as the pool. */
static const char *infer__mtl_text(infer__mtl_id string) {
    const char *s = string ? INFER__MTL(utf8, string) : NULL;
    return s ? s : "";
}

/* Set info.usable, or why_not. */
static void infer__mtl_judge(infer__mtl_row *r) {
    infer__mtl_id d = r->device;
    char *why = r->info.why_not;
    const size_t cap = sizeof r->info.why_not;
    uint64_t local;
    if (!infer__mtl_can(d, infer__metal.sel.family)) { /* it is as old as 64-bit integers in kernels */
        infer__format(why, cap, "macOS 10.15 or iOS 13 is needed");
        return;
    }
    local = INFER__MTL(max_local, d);
    if (!INFER__MTL2(family, d, (INFER__MTL_APPLE4)) && !INFER__MTL2(family, d, (INFER__MTL_MAC2)))
        infer__format(why, cap, "a GPU of the families Apple 4 or Mac 2 is needed");
    else if (local < INFER__MTL_MIN_LOCAL)
        infer__format(why, cap, "%d bytes of threadgroup memory are needed, it has %llu", (int)INFER__MTL_MIN_LOCAL,
                      (unsigned long long)local);
    else if (r->info.total == 0 || r->max_buffer == 0)
        infer__format(why, cap, "the system does not say how much memory it may use");
    else r->info.usable = 1;
    if (INFER__MTL2(family, d, (INFER__MTL_APPLE7))) r->tier = 7;
}

static uint64_t infer__mtl_free(const infer__mtl_row *r) {
    uint64_t taken = infer__mtl_can(r->device, infer__metal.sel.allocated) ? INFER__MTL(allocated, r->device) : 0;
    return taken < r->info.total ? r->info.total - taken : 0;
}

static void infer__mtl_describe(infer__mtl_row *r) {
    infer__mtl_id d = r->device;
    const struct infer__metal *m = &infer__metal;
    r->info.backend = INFER_METAL;
    infer__format(r->info.name, sizeof r->info.name, "%s", infer__mtl_text(INFER__MTL(name, d)));
    infer__clean(r->info.name, 1);
    if (!r->info.name[0]) infer__format(r->info.name, sizeof r->info.name, "Metal device");
    r->info.unified = infer__mtl_can(d, m->sel.unified) && INFER__MTL(unified, d);
    r->low_power = infer__mtl_can(d, m->sel.low_power) && INFER__MTL(low_power, d);
    if (infer__mtl_can(d, m->sel.working_set)) r->info.total = INFER__MTL(working_set, d);
    if (infer__mtl_can(d, m->sel.max_buffer)) r->max_buffer = INFER__MTL(max_buffer, d);
    r->info.free = infer__mtl_free(r);
    infer__mtl_judge(r);
}

/* Is a better than b? Nothing here depends on the order in which the API lists devices. */
static int infer__mtl_better(const infer__mtl_row *a, const infer__mtl_row *b) {
    if (a->info.usable != b->info.usable) return a->info.usable > b->info.usable;
    if (a->low_power != b->low_power) return a->low_power < b->low_power;
    if (a->tier != b->tier) return a->tier > b->tier;
    if (a->info.total != b->info.total) return a->info.total > b->info.total;
    return strcmp(a->info.name, b->info.name) < 0;
}

/* Takes over a device that was retained. */
static void infer__mtl_insert(struct infer__metal *m, infer__mtl_id device) {
    infer__mtl_row r;
    int32_t at = m->n;
    if (m->n == INFER__MTL_MAX_DEVICES) {
        INFER__MTL(release, device);
        return;
    }
    memset(&r, 0, sizeof r);
    r.device = device;
    infer__mtl_describe(&r);
    while (at > 0 && infer__mtl_better(&r, &m->rows[at - 1])) at--;
    memmove(&m->rows[at + 1], &m->rows[at], (size_t)(m->n - at) * sizeof r);
    m->rows[at] = r;
    m->n++;
}

/* Fill m->rows. */
static void infer__metal_list(struct infer__metal *m) {
    infer__mtl_id list = m->run.all_devices ? m->run.all_devices() : NULL, device;
    infer__mtl_uint i, n = list ? INFER__MTL(count, list) : 0;
    int32_t k, j, same;
    for (i = 0; i < n; i++) infer__mtl_insert(m, INFER__MTL(retain, INFER__MTL2(at, list, (i))));
    if (list) INFER__MTL(release, list);
    if (m->n == 0 && (device = m->run.default_device()) != NULL) infer__mtl_insert(m, device);
    for (k = m->n - 1; k > 0; k--) { /* backwards: earlier names are still as they were */
        char *name = m->rows[k].info.name;
        size_t len = strlen(name);
        for (same = 0, j = 0; j < k; j++) same += strcmp(m->rows[j].info.name, name) == 0;
        if (same > 0) infer__format(name + len, sizeof m->rows[k].info.name - len, " #%d", (int)same + 1);
    }
    if (m->n == 0) infer__format(m->why_not, sizeof m->why_not, "Metal was found, but no device");
}

static void infer__metal_start(void) {
    struct infer__metal *m = &infer__metal;
    void *pool;
    if (!infer__metal_load(m)) return;
    pool = m->run.push();
    infer__metal_list(m);
    m->run.pop(pool);
}

static int32_t infer__metal_devices(const char **why_not) {
    infer__call_once(&infer__metal.once, infer__metal_start);
    if (why_not) *why_not = infer__metal.why_not;
    return infer__metal.n;
}

static void infer__metal_info(int32_t index, infer_device_info *out) {
    int32_t n = infer__metal_devices(NULL);
    const infer__mtl_row *r = &infer__metal.rows[index >= 0 && index < n ? index : 0];
    void *pool;
    *out = r->info;
    if (n == 0) return;
    pool = infer__metal.run.push();
    out->free = infer__mtl_free(r);
    infer__metal.run.pop(pool);
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */

/* "call failed: text of the NSError" */
static infer_result infer__mtl_failed(infer_error *err, infer_result code, const char *call, infer__mtl_id error) {
    char line[400];
    infer__gpu_log_line(error ? infer__mtl_text(INFER__MTL(description, error)) : "", line, sizeof line);
    infer__clean(line, 1);
    return infer__error(err, code, "%s failed: %s", call, error ? line : "it gave nothing");
}

/* ---- devices and memory ------------------------------------------------------------------------------------------ */

typedef struct infer__metal_device {
    infer__mem *mem;
    const infer__mtl_row *row;
} infer__metal_device;

static infer_result infer__metal_open(void **device, infer__mem *mem, int32_t index, infer_error *err) {
    const char *why = NULL;
    int32_t n = infer__metal_devices(&why);
    const infer__mtl_row *r = &infer__metal.rows[index >= 0 && index < n ? index : 0];
    infer__metal_device *d;
    *device = NULL;
    if (n == 0) return infer__error(err, INFER_ERR_DEVICE, "no Metal device: %s", why);
    if (index < 0 || index >= n)
        return infer__error(err, INFER_ERR_DEVICE, "there is no Metal device %d, there are %d", (int)index, (int)n);
    if (!r->info.usable) return infer__error(err, INFER_ERR_DEVICE, "it cannot be used: %s", r->info.why_not);
    d = (infer__metal_device *)infer__calloc(mem, 1, sizeof *d);
    if (!d) return infer__error(err, INFER_ERR_MEMORY, "no memory for a Metal device");
    d->mem = mem;
    d->row = r;
    *device = d;
    return INFER_OK;
}

static void infer__metal_close(void *device) {
    infer__metal_device *d = (infer__metal_device *)device;
    if (d) infer__free(d->mem, d);
}

static int32_t infer__metal_tier(void *device) { return ((infer__metal_device *)device)->row->tier; }

static uint64_t infer__metal_memory(void *device) {
    void *pool = infer__metal.run.push();
    uint64_t free = infer__mtl_free(((infer__metal_device *)device)->row);
    infer__metal.run.pop(pool);
    return free;
}

static infer__mtl_id infer__mtl_object(uint64_t handle) { return (infer__mtl_id)(uintptr_t)handle; }

/* Lengths are multiples of 4, since copies on the device take no others. */
static infer_result infer__metal_alloc(void *device, uint64_t bytes, uint64_t *handle, infer_error *err) {
    const infer__mtl_row *r = ((infer__metal_device *)device)->row;
    infer__mtl_id buffer;
    void *pool;
    *handle = 0;
    if (bytes == 0) return INFER_OK;
    if (bytes > UINT64_MAX - 3 || (bytes + 3) / 4 * 4 > r->max_buffer)
        return infer__error(err, INFER_ERR_MEMORY, "a buffer of %llu bytes: Metal takes at most %llu in one here",
                            (unsigned long long)bytes, (unsigned long long)r->max_buffer);
    pool = infer__metal.run.push();
    buffer = INFER__MTL2(new_buffer, r->device, ((infer__mtl_uint)((bytes + 3) / 4 * 4),
                                                 r->info.unified ? INFER__MTL_SHARED : INFER__MTL_PRIVATE));
    infer__metal.run.pop(pool);
    if (!buffer) return infer__mtl_failed(err, INFER_ERR_MEMORY, "newBufferWithLength", NULL);
    *handle = (uint64_t)(uintptr_t)buffer;
    return INFER_OK;
}

static void infer__metal_release(void *device, uint64_t handle) {
    void *pool;
    (void)device;
    if (!handle) return;
    pool = infer__metal.run.push();
    INFER__MTL(release, infer__mtl_object(handle));
    infer__metal.run.pop(pool);
}

/* ---- programs ---------------------------------------------------------------------------------------------------- */

/* The texts as one NSString of the pool; NULL when there is no memory. */
static infer__mtl_id infer__mtl_source(infer__metal_device *d, const infer__gpu_source *s) {
    uint64_t n = 1;
    int32_t i;
    char *text, *at;
    infer__mtl_id string;
    for (i = 0; i < s->n_text; i++) n += strlen(s->text[i]);
    at = text = (char *)infer__alloc(d->mem, n);
    if (!text) return NULL;
    for (i = 0; i < s->n_text; i++) {
        size_t len = strlen(s->text[i]);
        memcpy(at, s->text[i], len);
        at += len;
    }
    *at = 0;
    string = INFER__MTL2(string, infer__metal.run.get_class("NSString"), (text));
    infer__free(d->mem, text);
    return string;
}

/* Without Metal's fast math, which ignores NaN and infinity and reorders sums. */
static infer_result infer__metal_compile(infer__metal_device *d, const infer__gpu_source *s, infer__mtl_id *library,
                                         infer_error *err) {
    infer__mtl_id source = infer__mtl_source(d, s), options, why = NULL;
    if (!source) return infer__error(err, INFER_ERR_MEMORY, "no memory for the text of a program");
    options = INFER__MTL(make, infer__metal.run.get_class("MTLCompileOptions"));
    if (!options) return infer__mtl_failed(err, INFER_ERR_MEMORY, "MTLCompileOptions new", NULL);
    INFER__MTL2(set_fast_math, options, (0));
    *library = INFER__MTL2(new_library, d->row->device, (source, options, &why));
    INFER__MTL(release, options);
    return *library ? INFER_OK : infer__mtl_failed(err, INFER_ERR_DEVICE, "newLibraryWithSource", why);
}

static infer_result infer__metal_program(void *device, const infer__gpu_source *source, void **program,
                                         infer_error *err) {
    void *pool = infer__metal.run.push();
    infer__mtl_id library = NULL;
    infer_result r = infer__metal_compile((infer__metal_device *)device, source, &library, err);
    infer__metal.run.pop(pool);
    *program = library;
    return r;
}

static void infer__metal_unload(void *device, void *program) {
    infer__metal_release(device, (uint64_t)(uintptr_t)program);
}

/* ---- queues: encoding and waiting -------------------------------------------------------------------------------- */

enum {
    INFER__METAL_SENT = 16,         /* committed command buffers */
    INFER__METAL_LAUNCHES = 64,     /* per command buffer: the device works while the next are encoded */
    INFER__METAL_READS = 32,        /* downloads waiting for a sync */
    INFER__METAL_STAGING = 4 << 20  /* bytes, for memory that the CPU does not see */
};

typedef struct infer__metal_read { infer__mtl_id from; uint64_t offset, bytes; void *to; } infer__metal_read;

typedef struct infer__metal_queue {
    infer__metal_device *device;
    infer__mtl_id queue;
    infer__mtl_id commands, compute, blit; /* being encoded; at most one of the encoders; NULL = none */
    int32_t launches;                      /* in `commands` */
    infer__mtl_id sent[INFER__METAL_SENT]; /* committed, oldest first */
    uint8_t timed[INFER__METAL_SENT];      /* 1 = is one launch whose time is wanted */
    int32_t n_sent;
    infer__metal_read reads[INFER__METAL_READS];
    int32_t n_reads;
    infer__mtl_id staging; /* NULL with unified memory */
    char *staged;          /* its bytes; `used` of them are for commands that were not waited for */
    uint64_t used;
    int32_t timing;
    double *times;
    uint64_t n_times, cap_times;
    infer_error late; /* the first error since the last sync; code 0 = none */
} infer__metal_queue;

static void infer__metal_late(infer__metal_queue *q, const infer_error *err) {
    if (q->late.code == INFER_OK) q->late = *err;
}

static void infer__metal_end_encoder(infer__metal_queue *q) {
    infer__mtl_id e = q->compute ? q->compute : q->blit;
    if (!e) return;
    INFER__MTL(end_encoding, e);
    INFER__MTL(release, e);
    q->compute = q->blit = NULL;
}

/* Keep the time of a launch; one that cannot be kept is an error at the next sync. */
static void infer__metal_time(infer__metal_queue *q, double seconds) {
    infer_error err;
    if (q->n_times == q->cap_times) {
        uint64_t cap = q->cap_times ? 2 * q->cap_times : 256;
        double *more = (double *)infer__calloc(q->device->mem, cap, sizeof *more);
        if (!more) {
            infer__error(&err, INFER_ERR_MEMORY, "no memory for the times of %llu launches", (unsigned long long)cap);
            infer__metal_late(q, &err);
            return;
        }
        if (q->times) memcpy(more, q->times, (size_t)q->n_times * sizeof *more);
        infer__free(q->device->mem, q->times);
        q->times = more;
        q->cap_times = cap;
    }
    q->times[q->n_times++] = seconds;
}

/* Wait for the oldest one that was sent. */
static void infer__metal_wait_oldest(infer__metal_queue *q) {
    infer__mtl_id cb = q->sent[0], why;
    infer_error err;
    INFER__MTL(wait, cb);
    if (INFER__MTL(status, cb) == INFER__MTL_STATUS_ERROR) {
        why = INFER__MTL(error, cb);
        infer__mtl_failed(&err, why && INFER__MTL(code, why) == INFER__MTL_OUT_OF_MEMORY ? INFER_ERR_MEMORY
                                                                                         : INFER_ERR_DEVICE,
                          "a command buffer", why);
        infer__metal_late(q, &err);
    }
    if (q->timed[0]) infer__metal_time(q, INFER__MTL(ended, cb) - INFER__MTL(started, cb));
    INFER__MTL(release, cb);
    q->n_sent--;
    memmove(&q->sent[0], &q->sent[1], (size_t)q->n_sent * sizeof q->sent[0]);
    memmove(&q->timed[0], &q->timed[1], (size_t)q->n_sent);
}

/* Send what was encoded. */
static void infer__metal_commit(infer__metal_queue *q) {
    if (!q->commands) return;
    infer__metal_end_encoder(q);
    if (q->n_sent == INFER__METAL_SENT) infer__metal_wait_oldest(q);
    INFER__MTL(commit, q->commands);
    q->timed[q->n_sent] = q->timing && q->launches > 0;
    q->sent[q->n_sent++] = q->commands;
    q->commands = NULL;
    q->launches = 0;
}

/* Wait for everything, then copy the downloads to their destinations; after an error nothing is copied, since it would
 * be garbage. */
static void infer__metal_finish(infer__metal_queue *q) {
    int32_t i;
    infer__metal_commit(q);
    while (q->n_sent > 0) infer__metal_wait_oldest(q);
    for (i = 0; i < q->n_reads && q->late.code == INFER_OK; i++) {
        const infer__metal_read *r = &q->reads[i];
        const char *from = r->from ? (const char *)INFER__MTL(contents, r->from) : q->staged;
        memcpy(r->to, from + r->offset, (size_t)r->bytes);
    }
    q->n_reads = 0;
    q->used = 0;
}

/* The encoder that is open, or a new one; NULL and err. */
static infer__mtl_id infer__metal_encoder(infer__metal_queue *q, int compute, infer_error *err) {
    infer__mtl_id *e = compute ? &q->compute : &q->blit, made;
    if (*e) return *e;
    infer__metal_end_encoder(q);
    if (!q->commands) {
        made = INFER__MTL(command_buffer, q->queue);
        if (!made) {
            infer__mtl_failed(err, INFER_ERR_DEVICE, "commandBuffer", NULL);
            return NULL;
        }
        q->commands = INFER__MTL(retain, made);
    }
    made = compute ? INFER__MTL(compute, q->commands) : INFER__MTL(blit, q->commands);
    if (made) *e = INFER__MTL(retain, made);
    else infer__mtl_failed(err, INFER_ERR_DEVICE, compute ? "computeCommandEncoder" : "blitCommandEncoder", NULL);
    return made;
}

static infer_result infer__metal_staging_open(infer__metal_queue *q, infer_error *err) {
    const infer__mtl_row *r = q->device->row;
    if (r->info.unified) return INFER_OK;
    q->staging = INFER__MTL2(new_buffer, r->device, ((infer__mtl_uint)INFER__METAL_STAGING, INFER__MTL_SHARED));
    q->staged = q->staging ? (char *)INFER__MTL(contents, q->staging) : NULL;
    if (q->staged) return INFER_OK;
    return infer__mtl_failed(err, INFER_ERR_MEMORY, "newBufferWithLength", NULL);
}

static void infer__metal_queue_close(void *queue) {
    infer__metal_queue *q = (infer__metal_queue *)queue;
    void *pool;
    if (!q) return;
    pool = infer__metal.run.push();
    q->n_reads = 0; /* no caller waits for them */
    infer__metal_finish(q); /* the caller is about to free what is in use */
    if (q->staging) INFER__MTL(release, q->staging);
    if (q->queue) INFER__MTL(release, q->queue);
    infer__metal.run.pop(pool);
    infer__free(q->device->mem, q->times);
    infer__free(q->device->mem, q);
}

static infer_result infer__metal_queue_open(void **queue, void *device, infer_error *err) {
    infer__metal_device *d = (infer__metal_device *)device;
    infer__metal_queue *q = (infer__metal_queue *)infer__calloc(d->mem, 1, sizeof *q);
    infer_result r = INFER_OK;
    void *pool;
    *queue = NULL;
    if (!q) return infer__error(err, INFER_ERR_MEMORY, "no memory for a Metal queue");
    q->device = d;
    pool = infer__metal.run.push();
    q->queue = INFER__MTL(new_queue, d->row->device);
    if (!q->queue) r = infer__mtl_failed(err, INFER_ERR_DEVICE, "newCommandQueue", NULL);
    else r = infer__metal_staging_open(q, err);
    infer__metal.run.pop(pool);
    if (r) infer__metal_queue_close(q);
    else *queue = q;
    return r;
}

static infer_result infer__metal_sync(void *queue, infer_error *err) {
    infer__metal_queue *q = (infer__metal_queue *)queue;
    void *pool = infer__metal.run.push();
    infer_result r;
    infer__metal_finish(q);
    infer__metal.run.pop(pool);
    r = q->late.code;
    if (r) *err = q->late;
    infer__error_clear(&q->late);
    return r;
}

/* ---- memory that the CPU sees ------------------------------------------------------------------------------------ */

/* 1 when no queued command can still be using memory. */
static int infer__metal_idle(const infer__metal_queue *q) { return !q->commands && q->n_sent == 0; }

/* Called before a command that may overwrite the source of a pending download. */
static void infer__metal_before_write(infer__metal_queue *q, infer__mtl_id buffer) {
    int32_t i;
    for (i = 0; i < q->n_reads; i++)
        if (q->reads[i].from == buffer) break;
    if (i < q->n_reads) infer__metal_finish(q);
}

/* ---- memory that it does not see: through staging, by copies of whole words -------------------------------------- */

static infer_result infer__metal_blit(infer__metal_queue *q, infer__mtl_id to, uint64_t to_offset, infer__mtl_id from,
                                      uint64_t from_offset, uint64_t bytes, infer_error *err) {
    infer__mtl_id e = infer__metal_encoder(q, 0, err);
    if (!e) return err->code;
    INFER__MTL2(copy, e, (from, (infer__mtl_uint)from_offset, to, (infer__mtl_uint)to_offset, (infer__mtl_uint)bytes));
    return INFER_OK;
}

/* Room for n bytes (a multiple of 4, at most all of it): where it begins. */
static uint64_t infer__metal_stage(infer__metal_queue *q, uint64_t n) {
    uint64_t at;
    if (q->used + n > INFER__METAL_STAGING) infer__metal_finish(q);
    at = q->used;
    q->used += n;
    return at;
}

/* The word of a buffer that contains `offset`, after everything that was queued. */
static infer_result infer__metal_word(infer__metal_queue *q, infer__mtl_id from, uint64_t offset, uint8_t word[4],
                                      infer_error *err) {
    uint64_t at = infer__metal_stage(q, 4);
    infer_result r = infer__metal_blit(q, q->staging, at, from, offset / 4 * 4, 4, err);
    if (r) return r;
    infer__metal_commit(q);
    while (q->n_sent > 0) infer__metal_wait_oldest(q); /* what was staged stays: downloads wait in it */
    memcpy(word, q->staged + at, 4);
    return INFER_OK;
}

/* Words of which only a part is to change are read first. */
static infer_result infer__metal_upload_staged(infer__metal_queue *q, infer__mtl_id to, uint64_t offset,
                                               const char *src, uint64_t bytes, infer_error *err) {
    while (bytes > 0) {
        uint64_t first = offset / 4 * 4, n = INFER__MIN(bytes, (uint64_t)INFER__METAL_STAGING / 2), at;
        uint64_t words = (offset + n + 3) / 4 * 4 - first;
        uint8_t begin[4], end[4];
        infer_result r = INFER_OK;
        if (offset != first) r = infer__metal_word(q, to, first, begin, err);
        if (!r && (offset + n) % 4 != 0) r = infer__metal_word(q, to, offset + n, end, err);
        if (r) return r;
        at = infer__metal_stage(q, words);
        if (offset != first) memcpy(q->staged + at, begin, 4);
        if ((offset + n) % 4 != 0 && (offset == first || words > 4)) memcpy(q->staged + at + words - 4, end, 4);
        memcpy(q->staged + at + (offset - first), src, (size_t)n);
        r = infer__metal_blit(q, to, first, q->staging, at, words, err);
        if (r) return r;
        src += n;
        offset += n;
        bytes -= n;
    }
    return INFER_OK;
}

static infer_result infer__metal_download_staged(infer__metal_queue *q, infer__mtl_id from, uint64_t offset, char *dst,
                                                 uint64_t bytes, infer_error *err) {
    while (bytes > 0) {
        uint64_t first = offset / 4 * 4, n = INFER__MIN(bytes, (uint64_t)INFER__METAL_STAGING / 2), at;
        uint64_t words = (offset + n + 3) / 4 * 4 - first;
        infer__metal_read *read;
        infer_result r;
        if (q->n_reads == INFER__METAL_READS) infer__metal_finish(q);
        at = infer__metal_stage(q, words);
        r = infer__metal_blit(q, q->staging, at, from, first, words, err);
        if (r) return r;
        read = &q->reads[q->n_reads++];
        read->from = NULL;
        read->offset = at + (offset - first);
        read->bytes = n;
        read->to = dst;
        dst += n;
        offset += n;
        bytes -= n;
    }
    return INFER_OK;
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

/* Unified memory: written directly when the queue is idle, else after waiting. A caller that syncs between passes never
 * waits here. */
static infer_result infer__metal_upload(void *queue, uint64_t to, uint64_t offset, const void *src, uint64_t bytes,
                                        infer_error *err) {
    infer__metal_queue *q = (infer__metal_queue *)queue;
    void *pool;
    infer_result r = INFER_OK;
    if (bytes == 0) return INFER_OK;
    pool = infer__metal.run.push();
    if (q->staging) {
        r = infer__metal_upload_staged(q, infer__mtl_object(to), offset, (const char *)src, bytes, err);
    } else {
        if (!infer__metal_idle(q) || q->n_reads > 0) infer__metal_finish(q);
        memcpy((char *)INFER__MTL(contents, infer__mtl_object(to)) + offset, src, (size_t)bytes);
    }
    infer__metal.run.pop(pool);
    return r;
}

static infer_result infer__metal_download(void *queue, uint64_t from, uint64_t offset, void *dst, uint64_t bytes,
                                          infer_error *err) {
    infer__metal_queue *q = (infer__metal_queue *)queue;
    void *pool;
    infer_result r = INFER_OK;
    if (bytes == 0) return INFER_OK;
    pool = infer__metal.run.push();
    if (q->staging) {
        r = infer__metal_download_staged(q, infer__mtl_object(from), offset, (char *)dst, bytes, err);
    } else {
        infer__metal_read *read;
        if (q->n_reads == INFER__METAL_READS) infer__metal_finish(q);
        read = &q->reads[q->n_reads++];
        read->from = infer__mtl_object(from);
        read->offset = offset;
        read->bytes = bytes;
        read->to = dst;
    }
    infer__metal.run.pop(pool);
    return r;
}

/* Within one buffer the two ranges must not overlap. */
static infer_result infer__metal_copy(void *queue, uint64_t to, uint64_t to_offset, uint64_t from,
                                      uint64_t from_offset, uint64_t bytes, infer_error *err) {
    infer__metal_queue *q = (infer__metal_queue *)queue;
    infer_result r = INFER_OK;
    void *pool;
    if (bytes == 0) return INFER_OK;
    if (((to_offset | from_offset | bytes) & 3) != 0)
        return infer__error(err, INFER_ERR_DEVICE, "Metal copies whole words: %llu bytes from %llu to %llu",
                            (unsigned long long)bytes, (unsigned long long)from_offset, (unsigned long long)to_offset);
    pool = infer__metal.run.push();
    infer__metal_before_write(q, infer__mtl_object(to));
    r = infer__metal_blit(q, infer__mtl_object(to), to_offset, infer__mtl_object(from), from_offset, bytes, err);
    infer__metal.run.pop(pool);
    return r;
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

static infer_result infer__metal_pipeline(infer__metal_device *d, infer__mtl_id library, const char *name,
                                          int32_t group, infer__mtl_id *pipeline, infer_error *err) {
    infer__mtl_id text = INFER__MTL2(string, infer__metal.run.get_class("NSString"), (name)), why = NULL;
    infer__mtl_id function = text ? INFER__MTL2(new_function, library, (text)) : NULL;
    uint64_t most;
    if (!function) return infer__error(err, INFER_ERR_DEVICE, "newFunctionWithName failed: there is no %s", name);
    *pipeline = INFER__MTL2(new_pipeline, d->row->device, (function, &why));
    INFER__MTL(release, function);
    if (!*pipeline) return infer__mtl_failed(err, INFER_ERR_DEVICE, "newComputePipelineStateWithFunction", why);
    most = INFER__MTL(max_threads, *pipeline);
    if (most >= (uint64_t)group) return INFER_OK;
    INFER__MTL(release, *pipeline);
    *pipeline = NULL;
    return infer__error(err, INFER_ERR_DEVICE, "%s needs groups of %d work-items, the device runs %llu", name,
                        (int)group, (unsigned long long)most);
}

static infer_result infer__metal_kernel_open(void **kernel, void *queue, void *program, const char *name, int32_t group,
                                             infer_error *err) {
    infer__metal_queue *q = (infer__metal_queue *)queue;
    infer__mtl_id pipeline = NULL;
    void *pool = infer__metal.run.push();
    infer_result r = infer__metal_pipeline(q->device, (infer__mtl_id)program, name, group, &pipeline, err);
    infer__metal.run.pop(pool);
    *kernel = pipeline;
    return r;
}

static void infer__metal_kernel_close(void *queue, void *kernel) {
    infer__metal_release(((infer__metal_queue *)queue)->device, (uint64_t)(uintptr_t)kernel);
}

static infer_result infer__metal_encode(infer__metal_queue *q, infer__mtl_id pipeline, const uint32_t *groups,
                                        int32_t group, const uint64_t *bufs, int32_t n_bufs, const void *args,
                                        uint32_t args_size, infer_error *err) {
    infer__mtl_size grid, threads;
    infer__mtl_id e;
    int32_t i;
    for (i = 0; i < n_bufs; i++) infer__metal_before_write(q, infer__mtl_object(bufs[i]));
    e = infer__metal_encoder(q, 1, err);
    if (!e) return err->code;
    grid.width = groups[0];
    grid.height = groups[1];
    grid.depth = groups[2];
    threads.width = (infer__mtl_uint)group;
    threads.height = threads.depth = 1;
    INFER__MTL2(set_pipeline, e, (pipeline));
    for (i = 0; i < n_bufs; i++) INFER__MTL2(set_buffer, e, (infer__mtl_object(bufs[i]), 0, (infer__mtl_uint)i));
    if (args_size > 0) INFER__MTL2(set_bytes, e, (args, args_size, (infer__mtl_uint)n_bufs));
    INFER__MTL2(dispatch, e, (grid, threads));
    q->launches++;
    if (q->timing || q->launches == INFER__METAL_LAUNCHES) infer__metal_commit(q);
    return INFER_OK;
}

static infer_result infer__metal_launch(void *queue, void *kernel, const uint32_t *groups, int32_t group,
                                        const uint64_t *bufs, int32_t n_bufs, const void *args, uint32_t args_size,
                                        infer_error *err) {
    infer__metal_queue *q = (infer__metal_queue *)queue;
    infer_result r;
    void *pool;
    if (groups[0] == 0 || groups[1] == 0 || groups[2] == 0) return INFER_OK;
    if (args_size > INFER__MTL_MAX_BYTES)
        return infer__error(err, INFER_ERR_DEVICE, "%u bytes of arguments: Metal takes at most %d", (unsigned)args_size,
                            (int)INFER__MTL_MAX_BYTES);
    pool = infer__metal.run.push();
    if (q->timing && q->launches == 0) infer__metal_commit(q); /* so that earlier copies are not timed with the
                                                                * launch */
    r = infer__metal_encode(q, (infer__mtl_id)kernel, groups, group, bufs, n_bufs, args, args_size, err);
    infer__metal.run.pop(pool);
    return r;
}

/* ---- times ------------------------------------------------------------------------------------------------------- */

static infer_result infer__metal_timing(void *queue, int32_t on, infer_error *err) {
    infer__metal_queue *q = (infer__metal_queue *)queue;
    infer_result r = infer__metal_sync(q, err);
    q->timing = on != 0;
    q->n_times = 0;
    return r;
}

static infer_result infer__metal_times(void *queue, double *seconds, int32_t cap, int32_t *n, infer_error *err) {
    infer__metal_queue *q = (infer__metal_queue *)queue;
    (void)err;
    *n = (int32_t)INFER__MIN(q->n_times, (uint64_t)INT32_MAX);
    if (q->n_times > 0 && cap > 0)
        memcpy(seconds, q->times, (size_t)INFER__MIN(q->n_times, (uint64_t)cap) * sizeof *seconds);
    q->n_times = 0;
    return INFER_OK;
}

static const infer__driver infer__metal_driver = {
    .name = "metal",
    .backend = INFER_METAL,
    .devices = infer__metal_devices,
    .info = infer__metal_info,
    .open = infer__metal_open,
    .close = infer__metal_close,
    .alloc = infer__metal_alloc,
    .release = infer__metal_release,
    .load = infer__metal_program,
    .unload = infer__metal_unload,
    .queue_open = infer__metal_queue_open,
    .queue_close = infer__metal_queue_close,
    .kernel_open = infer__metal_kernel_open,
    .kernel_close = infer__metal_kernel_close,
    .upload = infer__metal_upload,
    .download = infer__metal_download,
    .copy = infer__metal_copy,
    .launch = infer__metal_launch,
    .sync = infer__metal_sync,
    .form = INFER__FORM_METAL,
    .tier = infer__metal_tier,
    .memory = infer__metal_memory,
    .timing = infer__metal_timing,
    .times = infer__metal_times,
};

#else /* not a 64-bit Apple system */

static int32_t infer__metal_devices(const char **why_not) {
    if (why_not) *why_not = "Metal is on Apple systems only";
    return 0;
}

static const infer__driver infer__metal_driver = {
    .name = "metal",
    .backend = INFER_METAL,
    .devices = infer__metal_devices,
};

#endif
#endif
