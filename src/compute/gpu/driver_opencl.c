/* driver_opencl.c: the driver of OpenCL 1.2, through the loader library of the system and without its headers.
 *
 * Owns:  finding the library, the list of devices, and infer__opencl_driver.
 * Rules: types and numbers are our own (source: the OpenCL 1.2 specification and its extensions); every function used
 *        is a row of INFER__CL_FUNCTIONS. All per-process state is in `infer__opencl`, written under its infer__once.
 *        Counts, sizes and strings that a library returns are checked: some are wrong.
 * Start: INFER__CL_FUNCTIONS, infer__opencl_list (which devices there are), infer__opencl_program (compiling),
 *        infer__opencl_launch.
 */
#include "gpu.h"

#if !defined(INFER_NO_GPU) && !defined(INFER_NO_OPENCL)

/* ---- what the headers would say -------------------------------------------------------------------------------- */

#if defined(INFER__WINDOWS) && !defined(_WIN64)
#  define INFER__CL_CALL __stdcall
#else
#  define INFER__CL_CALL
#endif

typedef int32_t infer__cl_int;
typedef uint32_t infer__cl_uint;
typedef uint64_t infer__cl_bits;
typedef struct infer__cl_platform_ *infer__cl_platform;
typedef struct infer__cl_device_ *infer__cl_device;
typedef struct infer__cl_context_ *infer__cl_context;
typedef struct infer__cl_queue_ *infer__cl_queue;
typedef struct infer__cl_mem_ *infer__cl_mem;
typedef struct infer__cl_program_ *infer__cl_program;
typedef struct infer__cl_kernel_ *infer__cl_kernel;
typedef struct infer__cl_event_ *infer__cl_event;
typedef void(INFER__CL_CALL *infer__cl_notify)(const char *text, const void *data, size_t size, void *user);
typedef void(INFER__CL_CALL *infer__cl_built)(infer__cl_program program, void *user);

enum {
    INFER__CL_DEVICE_NOT_FOUND = -1,
    INFER__CL_MEM_OBJECT_ALLOCATION_FAILURE = -4,
    INFER__CL_OUT_OF_RESOURCES = -5,
    INFER__CL_OUT_OF_HOST_MEMORY = -6,
    INFER__CL_INVALID_BUFFER_SIZE = -61, /* 0, which is not asked for, or too large */
    INFER__CL_PLATFORM_NOT_FOUND = -1001, /* the loader's: no driver is installed */

    INFER__CL_PLATFORM_VERSION = 0x0901,
    INFER__CL_PLATFORM_NAME = 0x0902,
    INFER__CL_DEVICE_TYPE = 0x1000,
    INFER__CL_DEVICE_VENDOR_ID = 0x1001,
    INFER__CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS = 0x1003,
    INFER__CL_DEVICE_MAX_WORK_GROUP_SIZE = 0x1004,
    INFER__CL_DEVICE_MAX_WORK_ITEM_SIZES = 0x1005,
    INFER__CL_DEVICE_ADDRESS_BITS = 0x100d,
    INFER__CL_DEVICE_MAX_MEM_ALLOC_SIZE = 0x1010,
    INFER__CL_DEVICE_GLOBAL_MEM_SIZE = 0x101f,
    INFER__CL_DEVICE_LOCAL_MEM_SIZE = 0x1023,
    INFER__CL_DEVICE_ENDIAN_LITTLE = 0x1026,
    INFER__CL_DEVICE_AVAILABLE = 0x1027,
    INFER__CL_DEVICE_COMPILER_AVAILABLE = 0x1028,
    INFER__CL_DEVICE_NAME = 0x102b,
    INFER__CL_DEVICE_VENDOR = 0x102c,
    INFER__CL_DRIVER_VERSION = 0x102d,
    INFER__CL_DEVICE_PROFILE = 0x102e,
    INFER__CL_DEVICE_VERSION = 0x102f,
    INFER__CL_DEVICE_EXTENSIONS = 0x1030,
    INFER__CL_DEVICE_HOST_UNIFIED_MEMORY = 0x1035,
    INFER__CL_DEVICE_GLOBAL_FREE_MEMORY_AMD = 0x4039, /* cl_amd_device_attribute_query */
    INFER__CL_CONTEXT_PLATFORM = 0x1084,
    INFER__CL_PROGRAM_BINARY_SIZES = 0x1165,
    INFER__CL_PROGRAM_BINARIES = 0x1166,
    INFER__CL_PROGRAM_BUILD_LOG = 0x1183,
    INFER__CL_KERNEL_WORK_GROUP_SIZE = 0x11b0,

    INFER__CL_TYPE_CPU = 2, /* bits of CL_DEVICE_TYPE */
    INFER__CL_TYPE_GPU = 4,
    INFER__CL_TYPE_ACCELERATOR = 8,
    INFER__CL_MEM_READ_WRITE = 1,
    INFER__CL_QUEUE_PROFILING = 2, /* bit of a queue's properties */
    INFER__CL_PROFILING_START = 0x1282, /* nanoseconds */
    INFER__CL_PROFILING_END = 0x1283
};
#define INFER__CL_TYPE_ALL 0xffffffffu

/* CL(result, name, arguments): every function that is called here. */
#define INFER__CL_FUNCTIONS(CL) \
    CL(infer__cl_int, clGetPlatformIDs, (infer__cl_uint cap, infer__cl_platform *ids, infer__cl_uint *n)) \
    CL(infer__cl_int, clGetPlatformInfo, (infer__cl_platform p, infer__cl_uint what, size_t cap, void *to, size_t *n)) \
    CL(infer__cl_int, clGetDeviceIDs, (infer__cl_platform platform, infer__cl_bits types, infer__cl_uint cap, \
                                       infer__cl_device *ids, infer__cl_uint *n)) \
    CL(infer__cl_int, clGetDeviceInfo, (infer__cl_device d, infer__cl_uint what, size_t cap, void *to, size_t *n)) \
    CL(infer__cl_context, clCreateContext, (const intptr_t *properties, infer__cl_uint n, const infer__cl_device *ids, \
                                            infer__cl_notify notify, void *user, infer__cl_int *code)) \
    CL(infer__cl_int, clReleaseContext, (infer__cl_context context)) \
    CL(infer__cl_queue, clCreateCommandQueue, (infer__cl_context context, infer__cl_device device, \
                                               infer__cl_bits properties, infer__cl_int *code)) \
    CL(infer__cl_int, clReleaseCommandQueue, (infer__cl_queue queue)) \
    CL(infer__cl_mem, clCreateBuffer, (infer__cl_context context, infer__cl_bits flags, size_t bytes, void *host, \
                                       infer__cl_int *code)) \
    CL(infer__cl_int, clReleaseMemObject, (infer__cl_mem mem)) \
    CL(infer__cl_program, clCreateProgramWithSource, (infer__cl_context context, infer__cl_uint n, \
                                                      const char *const *text, const size_t *lengths, \
                                                      infer__cl_int *code)) \
    CL(infer__cl_program, clCreateProgramWithBinary, (infer__cl_context context, infer__cl_uint n, \
                                                      const infer__cl_device *ids, const size_t *sizes, \
                                                      const unsigned char *const *data, infer__cl_int *status, \
                                                      infer__cl_int *code)) \
    CL(infer__cl_int, clBuildProgram, (infer__cl_program program, infer__cl_uint n, const infer__cl_device *ids, \
                                       const char *options, infer__cl_built built, void *user)) \
    CL(infer__cl_int, clGetProgramInfo, (infer__cl_program p, infer__cl_uint what, size_t cap, void *to, size_t *n)) \
    CL(infer__cl_int, clGetProgramBuildInfo, (infer__cl_program program, infer__cl_device device, \
                                              infer__cl_uint what, size_t cap, void *to, size_t *n)) \
    CL(infer__cl_int, clReleaseProgram, (infer__cl_program program)) \
    CL(infer__cl_kernel, clCreateKernel, (infer__cl_program program, const char *name, infer__cl_int *code)) \
    CL(infer__cl_int, clGetKernelWorkGroupInfo, (infer__cl_kernel kernel, infer__cl_device device, \
                                                 infer__cl_uint what, size_t cap, void *to, size_t *n)) \
    CL(infer__cl_int, clSetKernelArg, (infer__cl_kernel kernel, infer__cl_uint i, size_t size, const void *value)) \
    CL(infer__cl_int, clReleaseKernel, (infer__cl_kernel kernel)) \
    CL(infer__cl_int, clEnqueueWriteBuffer, (infer__cl_queue queue, infer__cl_mem to, infer__cl_uint blocking, \
                                             size_t offset, size_t bytes, const void *src, infer__cl_uint n_wait, \
                                             const infer__cl_event *wait, infer__cl_event *event)) \
    CL(infer__cl_int, clEnqueueReadBuffer, (infer__cl_queue queue, infer__cl_mem from, infer__cl_uint blocking, \
                                            size_t offset, size_t bytes, void *dst, infer__cl_uint n_wait, \
                                            const infer__cl_event *wait, infer__cl_event *event)) \
    CL(infer__cl_int, clEnqueueCopyBuffer, (infer__cl_queue queue, infer__cl_mem from, infer__cl_mem to, \
                                            size_t from_offset, size_t to_offset, size_t bytes, \
                                            infer__cl_uint n_wait, const infer__cl_event *wait, \
                                            infer__cl_event *event)) \
    CL(infer__cl_int, clEnqueueNDRangeKernel, (infer__cl_queue queue, infer__cl_kernel kernel, infer__cl_uint dims, \
                                               const size_t *offset, const size_t *global, const size_t *local, \
                                               infer__cl_uint n_wait, const infer__cl_event *wait, \
                                               infer__cl_event *event)) \
    CL(infer__cl_int, clGetEventProfilingInfo, (infer__cl_event event, infer__cl_uint what, size_t cap, void *to, \
                                                size_t *n)) \
    CL(infer__cl_int, clReleaseEvent, (infer__cl_event event)) \
    CL(infer__cl_int, clFlush, (infer__cl_queue queue)) \
    CL(infer__cl_int, clFinish, (infer__cl_queue queue))

typedef struct infer__cl {
#define INFER__CL_POINTER(result, name, args) result(INFER__CL_CALL *name) args;
    INFER__CL_FUNCTIONS(INFER__CL_POINTER)
#undef INFER__CL_POINTER
} infer__cl;

/* ---- the library and its devices --------------------------------------------------------------------------------- */

enum {
    INFER__CL_MAX_DEVICES = 32,     /* in the list: the best of all that are found */
    INFER__CL_MAX_IDS = 64,         /* platforms, and devices of a platform, that are looked at */
    INFER__CL_MIN_GROUP = 64,       /* work-items in a group, as most kernels want */
    INFER__CL_MIN_LOCAL = 16 * 1024 /* bytes of local memory: what OpenCL 1.0 promised */
};

typedef struct infer__cl_row {
    infer__cl_platform platform;
    infer__cl_device device;
    infer_device_info info;
    uint64_t max_alloc; /* bytes of one buffer */
    uint64_t hash;      /* of the names and versions: binaries fit devices with the same */
    uint64_t max_group; /* work-items of a group along x */
    int32_t rank;       /* by kind, 0 = GPU */
    int32_t amd;        /* 1 = may know how much memory is free */
    int32_t rusticl;    /* 1 = Mesa's: see infer__opencl_kernel_open */
    int32_t dots;       /* 1 = it has cl_khr_integer_dot_product: DOT4 in kernels/dialect.h */
} infer__cl_row;

/* Per-process state. */
static struct infer__opencl {
    infer__once once;
    infer__cl cl;
    infer__cl_row rows[INFER__CL_MAX_DEVICES]; /* best first */
    int32_t n;
    char why_not[120]; /* when n is 0 */
} infer__opencl;

static const char *const INFER__CL_LIBRARIES[] = {
#if defined(INFER__WINDOWS)
    "OpenCL.dll",
#elif defined(__APPLE__)
    "/System/Library/Frameworks/OpenCL.framework/OpenCL",
#elif defined(__ANDROID__)
    "libOpenCL.so",
#  if defined(__LP64__)
    "/vendor/lib64/libOpenCL.so",
    "/system/vendor/lib64/libOpenCL.so",
    "/vendor/lib64/egl/libGLES_mali.so",
#  else
    "/vendor/lib/libOpenCL.so",
    "/system/vendor/lib/libOpenCL.so",
    "/vendor/lib/egl/libGLES_mali.so",
#  endif
#else
    "libOpenCL.so.1",
    "libOpenCL.so",
#endif
};

/* Codes of the API, without "CL_". */
static const struct { int16_t code; const char *name; } INFER__CL_CODES[] = {
    {-1, "DEVICE_NOT_FOUND"}, {-2, "DEVICE_NOT_AVAILABLE"}, {-3, "COMPILER_NOT_AVAILABLE"},
    {-4, "MEM_OBJECT_ALLOCATION_FAILURE"}, {-5, "OUT_OF_RESOURCES"}, {-6, "OUT_OF_HOST_MEMORY"},
    {-8, "MEM_COPY_OVERLAP"}, {-11, "BUILD_PROGRAM_FAILURE"}, {-13, "MISALIGNED_SUB_BUFFER_OFFSET"},
    {-14, "EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST"}, {-15, "COMPILE_PROGRAM_FAILURE"},
    {-16, "LINKER_NOT_AVAILABLE"}, {-17, "LINK_PROGRAM_FAILURE"}, {-30, "INVALID_VALUE"},
    {-31, "INVALID_DEVICE_TYPE"}, {-32, "INVALID_PLATFORM"}, {-33, "INVALID_DEVICE"}, {-34, "INVALID_CONTEXT"},
    {-35, "INVALID_QUEUE_PROPERTIES"}, {-36, "INVALID_COMMAND_QUEUE"}, {-38, "INVALID_MEM_OBJECT"},
    {-42, "INVALID_BINARY"}, {-43, "INVALID_BUILD_OPTIONS"}, {-44, "INVALID_PROGRAM"},
    {-45, "INVALID_PROGRAM_EXECUTABLE"}, {-46, "INVALID_KERNEL_NAME"}, {-47, "INVALID_KERNEL_DEFINITION"},
    {-48, "INVALID_KERNEL"}, {-49, "INVALID_ARG_INDEX"}, {-50, "INVALID_ARG_VALUE"}, {-51, "INVALID_ARG_SIZE"},
    {-52, "INVALID_KERNEL_ARGS"}, {-53, "INVALID_WORK_DIMENSION"}, {-54, "INVALID_WORK_GROUP_SIZE"},
    {-55, "INVALID_WORK_ITEM_SIZE"}, {-56, "INVALID_GLOBAL_OFFSET"}, {-57, "INVALID_EVENT_WAIT_LIST"},
    {-58, "INVALID_EVENT"}, {-59, "INVALID_OPERATION"}, {-61, "INVALID_BUFFER_SIZE"},
    {-63, "INVALID_GLOBAL_WORK_SIZE"}, {-64, "INVALID_PROPERTY"}, {-1001, "PLATFORM_NOT_FOUND_KHR"},
};

static const char *infer__cl_code_name(infer__cl_int code) {
    size_t i;
    for (i = 0; i < INFER__COUNT(INFER__CL_CODES); i++)
        if (INFER__CL_CODES[i].code == code) return INFER__CL_CODES[i].name;
    return code == 0 ? "SUCCESS without a result" : "code of the vendor";
}

/* NULL, or the first function that the library lacks. */
static const char *infer__cl_find(void *table, void *lib) {
    infer__cl *cl = (infer__cl *)table;
    const char *missing = NULL;
    #define INFER__CL_LOOK_UP(result, name, args) INFER__GPU_LOOK_UP(cl->name, lib, #name, missing)
    INFER__CL_FUNCTIONS(INFER__CL_LOOK_UP)
#undef INFER__CL_LOOK_UP
    return missing;
}

static int infer__opencl_load(struct infer__opencl *o, const char *const *names, size_t n) {
    return infer__gpu_library(names, n, infer__cl_find, &o->cl, o->why_not, sizeof o->why_not);
}

/* `size` bytes that describe a device; 0 and zeros when the driver has no such answer of this size. */
static int infer__cl_get(const infer__cl *cl, infer__cl_device d, infer__cl_uint what, void *to, size_t size) {
    size_t n = 0;
    if (cl->clGetDeviceInfo(d, what, size, to, &n) == 0 && n == size) return 1;
    memset(to, 0, size);
    return 0;
}
static uint32_t infer__cl_get_u32(const infer__cl *cl, infer__cl_device d, infer__cl_uint what) {
    uint32_t u = 0;
    infer__cl_get(cl, d, what, &u, sizeof u);
    return u;
}
static uint64_t infer__cl_get_u64(const infer__cl *cl, infer__cl_device d, infer__cl_uint what) {
    uint64_t u = 0;
    infer__cl_get(cl, d, what, &u, sizeof u);
    return u;
}

/* A text about a device, or about a platform when d is NULL: no spaces at its ends, single ones inside, clean; "" when
 * the driver does not say or the text is odd. */
static void infer__cl_text(const infer__cl *cl, infer__cl_platform p, infer__cl_device d, infer__cl_uint what,
                           char *to, size_t cap) {
    char text[1024];
    size_t n = 0, i, at = 0;
    infer__cl_int code = d ? cl->clGetDeviceInfo(d, what, 0, NULL, &n) : cl->clGetPlatformInfo(p, what, 0, NULL, &n);
    to[0] = 0;
    if (code != 0 || n == 0 || n >= sizeof text) return;
    memset(text, 0, sizeof text);
    code = d ? cl->clGetDeviceInfo(d, what, n, text, NULL) : cl->clGetPlatformInfo(p, what, n, text, NULL);
    if (code != 0) return;
    text[n] = 0;
    for (i = 0; text[i] && at + 1 < cap; i++) {
        char c = text[i] == '\t' || text[i] == '\n' || text[i] == '\r' ? ' ' : text[i];
        if (c != ' ' || (at > 0 && to[at - 1] != ' ')) to[at++] = c;
    }
    while (at > 0 && to[at - 1] == ' ') at--;
    to[at] = 0;
    infer__clean(to, 1);
}

/* Work-items that a group may have along x. */
static uint64_t infer__cl_max_group(const infer__cl *cl, infer__cl_device d) {
    size_t group = 0, sizes[16];
    uint32_t dims = infer__cl_get_u32(cl, d, INFER__CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS);
    if (dims < 3 || dims > INFER__COUNT(sizes)) return 0;
    infer__cl_get(cl, d, INFER__CL_DEVICE_MAX_WORK_GROUP_SIZE, &group, sizeof group);
    infer__cl_get(cl, d, INFER__CL_DEVICE_MAX_WORK_ITEM_SIZES, sizes, dims * sizeof sizes[0]);
    return INFER__MIN(group, sizes[0]);
}

/* Major * 100 + minor of "OpenCL 1.2 what the vendor adds", 0 when it is something else. */
static int32_t infer__cl_version(const char *s) {
    int32_t part[2] = {0, 0}, i;
    if (strncmp(s, "OpenCL ", 7) != 0) return 0;
    for (s += 7, i = 0; i < 2; i++, s++) {
        for (; *s >= '0' && *s <= '9' && part[i] < 100; s++) part[i] = part[i] * 10 + (*s - '0');
        if (i == 0 && *s != '.') return 0;
    }
    return part[0] * 100 + part[1];
}

/* Set info.usable, or why_not. */
static void infer__cl_judge(const infer__cl *cl, infer__cl_row *r) {
    infer__cl_device d = r->device;
    char *why = r->info.why_not, version[120], profile[40];
    const size_t cap = sizeof r->info.why_not;
    uint64_t local = infer__cl_get_u64(cl, d, INFER__CL_DEVICE_LOCAL_MEM_SIZE);
    uint32_t bits = infer__cl_get_u32(cl, d, INFER__CL_DEVICE_ADDRESS_BITS);
    infer__cl_text(cl, NULL, d, INFER__CL_DEVICE_VERSION, version, sizeof version);
    infer__cl_text(cl, NULL, d, INFER__CL_DEVICE_PROFILE, profile, sizeof profile);
    if (infer__cl_get_u32(cl, d, INFER__CL_DEVICE_AVAILABLE) != 1)
        infer__format(why, cap, "it is not available");
    else if (infer__cl_get_u32(cl, d, INFER__CL_DEVICE_COMPILER_AVAILABLE) != 1)
        infer__format(why, cap, "its driver has no compiler");
    else if (infer__cl_version(version) < 102)
        infer__format(why, cap, "OpenCL 1.2 is needed, it has %s", version[0] ? version : "none");
    else if (strcmp(profile, "FULL_PROFILE") != 0) /* the other one may lack 64-bit integers */
        infer__format(why, cap, "the full profile of OpenCL is needed, it has %s", profile[0] ? profile : "none");
    else if (INFER__BIG_ENDIAN || infer__cl_get_u32(cl, d, INFER__CL_DEVICE_ENDIAN_LITTLE) != 1)
        infer__format(why, cap, "%s is big-endian", INFER__BIG_ENDIAN ? "this computer" : "it");
    else if (bits != 32 && bits != 64)
        infer__format(why, cap, "its addresses have %u bits", (unsigned)bits);
    else if (r->max_group < INFER__CL_MIN_GROUP)
        infer__format(why, cap, "groups of %d work-items are needed, it has %llu", (int)INFER__CL_MIN_GROUP,
                      (unsigned long long)r->max_group);
    else if (local < INFER__CL_MIN_LOCAL)
        infer__format(why, cap, "%d bytes of local memory are needed, it has %llu", (int)INFER__CL_MIN_LOCAL,
                      (unsigned long long)local);
    else if (r->info.total == 0 || r->max_alloc == 0)
        infer__format(why, cap, "its driver says that it has no memory");
    else
        r->info.usable = 1;
}

/* 1 when the device lists the extension. */
static int infer__cl_has(const infer__cl *cl, infer__cl_device d, const char *name) {
    char text[8192];
    size_t n = 0, length = strlen(name);
    const char *at = text;
    memset(text, 0, sizeof text);
    if (cl->clGetDeviceInfo(d, INFER__CL_DEVICE_EXTENSIONS, 0, NULL, &n) != 0 || n >= sizeof text ||
        cl->clGetDeviceInfo(d, INFER__CL_DEVICE_EXTENSIONS, n, text, NULL) != 0)
        return 0;
    while ((at = strstr(at, name)) != NULL) {
        if ((at == text || at[-1] == ' ') && (at[length] == ' ' || at[length] == 0)) return 1;
        at += length;
    }
    return 0;
}

static void infer__cl_describe(const infer__cl *cl, infer__cl_row *r) {
    infer__cl_device d = r->device;
    uint64_t type = infer__cl_get_u64(cl, d, INFER__CL_DEVICE_TYPE);
    char text[1024], name[76], platform[36];
    static const int32_t texts[] = {INFER__CL_DEVICE_NAME, INFER__CL_DEVICE_VENDOR, INFER__CL_DEVICE_VERSION,
                                    INFER__CL_DRIVER_VERSION};
    size_t i;
    r->info.backend = INFER_OPENCL;
    r->info.unified = infer__cl_get_u32(cl, d, INFER__CL_DEVICE_HOST_UNIFIED_MEMORY) == 1;
    r->info.processor = (type & (INFER__CL_TYPE_CPU | INFER__CL_TYPE_GPU)) == INFER__CL_TYPE_CPU;
    r->info.total = r->info.free = infer__cl_get_u64(cl, d, INFER__CL_DEVICE_GLOBAL_MEM_SIZE);
    r->max_alloc = infer__cl_get_u64(cl, d, INFER__CL_DEVICE_MAX_MEM_ALLOC_SIZE);
    r->max_group = infer__cl_max_group(cl, d);
    r->rank = type & INFER__CL_TYPE_GPU ? 0 : type & INFER__CL_TYPE_ACCELERATOR ? 1 : type & INFER__CL_TYPE_CPU ? 2 : 3;
    r->amd = infer__cl_get_u32(cl, d, INFER__CL_DEVICE_VENDOR_ID) == 0x1002; /* the vendor's PCI number */
    infer__cl_text(cl, NULL, d, INFER__CL_DEVICE_NAME, name, sizeof name);
    infer__cl_text(cl, r->platform, NULL, INFER__CL_PLATFORM_NAME, platform, sizeof platform);
    r->rusticl = strcmp(platform, "rusticl") == 0;
    infer__format(r->info.name, sizeof r->info.name, "%s (%s)", name[0] ? name : "?", platform[0] ? platform : "?");
    infer__cl_text(cl, r->platform, NULL, INFER__CL_PLATFORM_VERSION, text, sizeof text);
    r->hash = infer__hash_text(INFER__FNV, text);
    for (i = 0; i < INFER__COUNT(texts); i++) {
        infer__cl_text(cl, NULL, d, (infer__cl_uint)texts[i], text, sizeof text);
        r->hash = infer__hash_text(r->hash, text);
    }
    r->dots = infer__cl_has(cl, d, "cl_khr_integer_dot_product");
    infer__cl_judge(cl, r);
}

/* Is a better than b? Nothing here depends on the order in which the API lists devices. */
static int infer__cl_better(const infer__cl_row *a, const infer__cl_row *b) {
    if (a->info.usable != b->info.usable) return a->info.usable > b->info.usable;
    if (a->rank != b->rank) return a->rank < b->rank;
    if (a->info.total != b->info.total) return a->info.total > b->info.total;
    return strcmp(a->info.name, b->info.name) < 0;
}

/* Insert in order; if there are too many devices the worst one is dropped. */
static void infer__cl_insert(struct infer__opencl *o, const infer__cl_row *r) {
    int32_t at = o->n, last;
    while (at > 0 && infer__cl_better(r, &o->rows[at - 1])) at--;
    if (at == INFER__CL_MAX_DEVICES) return;
    last = INFER__MIN(o->n, INFER__CL_MAX_DEVICES - 1);
    memmove(&o->rows[at + 1], &o->rows[at], (size_t)(last - at) * sizeof *r);
    o->rows[at] = *r;
    o->n = last + 1;
}

static void infer__cl_list_platform(struct infer__opencl *o, infer__cl_platform platform) {
    infer__cl_device ids[INFER__CL_MAX_IDS];
    infer__cl_uint n = 0, i, j;
    infer__cl_int code = o->cl.clGetDeviceIDs(platform, INFER__CL_TYPE_ALL, 0, NULL, &n);
    n = code == 0 ? INFER__MIN(n, INFER__CL_MAX_IDS) : 0;
    memset(ids, 0, sizeof ids);
    if (n > 0) code = o->cl.clGetDeviceIDs(platform, INFER__CL_TYPE_ALL, n, ids, NULL);
    if (code != 0) {
        if (code != INFER__CL_DEVICE_NOT_FOUND) /* shown when there is no device at all */
            infer__format(o->why_not, sizeof o->why_not, "clGetDeviceIDs failed: CL_%s (%d)",
                          infer__cl_code_name(code), (int)code);
        return;
    }
    for (i = 0; i < n; i++) {
        infer__cl_row r;
        for (j = 0; j < i && ids[j] != ids[i]; j++) {}
        if (!ids[i] || j < i) continue; /* fewer than announced, or one of them twice */
        memset(&r, 0, sizeof r);
        r.platform = platform;
        r.device = ids[i];
        infer__cl_describe(&o->cl, &r);
        infer__cl_insert(o, &r);
    }
}

/* Fill o->rows by o->cl, or o->why_not. */
static void infer__opencl_list(struct infer__opencl *o) {
    infer__cl_platform ids[INFER__CL_MAX_IDS];
    infer__cl_uint n = 0, i, j;
    int32_t k, m, same;
    infer__cl_int code = o->cl.clGetPlatformIDs(0, NULL, &n);
    n = code == 0 ? INFER__MIN(n, INFER__CL_MAX_IDS) : 0;
    memset(ids, 0, sizeof ids);
    if (n > 0) code = o->cl.clGetPlatformIDs(n, ids, NULL);
    if (code != 0 && code != INFER__CL_PLATFORM_NOT_FOUND) {
        infer__format(o->why_not, sizeof o->why_not, "clGetPlatformIDs failed: CL_%s (%d)", infer__cl_code_name(code),
                      (int)code);
        return;
    }
    for (i = 0; i < n; i++) {
        for (j = 0; j < i && ids[j] != ids[i]; j++) {}
        if (ids[i] && j == i) infer__cl_list_platform(o, ids[i]);
    }
    for (k = o->n - 1; k > 0; k--) { /* backwards: earlier names are still as they were */
        char *name = o->rows[k].info.name;
        size_t len = strlen(name);
        for (same = 0, m = 0; m < k; m++) same += strcmp(o->rows[m].info.name, name) == 0;
        if (same > 0) infer__format(name + len, sizeof o->rows[k].info.name - len, " #%d", (int)same + 1);
    }
    if (o->n == 0 && !o->why_not[0])
        infer__format(o->why_not, sizeof o->why_not,
                      n == 0 ? "OpenCL was found, but no driver for it" : "OpenCL was found, but no device");
}

static void infer__opencl_start(void) {
    struct infer__opencl *o = &infer__opencl;
    if (infer__opencl_load(o, INFER__CL_LIBRARIES, INFER__COUNT(INFER__CL_LIBRARIES))) infer__opencl_list(o);
}

static int32_t infer__opencl_devices(const char **why_not) {
    infer__call_once(&infer__opencl.once, infer__opencl_start);
    if (why_not) *why_not = infer__opencl.why_not;
    return infer__opencl.n;
}

/* Bytes that are free now, as far as the driver knows. */
static uint64_t infer__cl_free_memory(const infer__cl *cl, const infer__cl_row *r) {
    size_t kib[2] = {0, 0}, n = 0; /* all, and the largest block */
    uint64_t free = r->info.total;
    if (r->amd && cl->clGetDeviceInfo(r->device, INFER__CL_DEVICE_GLOBAL_FREE_MEMORY_AMD, sizeof kib, kib, &n) == 0 &&
        n >= sizeof kib[0] && n <= sizeof kib && kib[0] > 0 && kib[0] <= free / 1024)
        free = (uint64_t)kib[0] * 1024;
    return free;
}

static void infer__opencl_info(int32_t index, infer_device_info *out) {
    memset(out, 0, sizeof *out);
    if (index < 0 || index >= infer__opencl_devices(NULL)) return;
    *out = infer__opencl.rows[index].info;
    out->free = infer__cl_free_memory(&infer__opencl.cl, &infer__opencl.rows[index]);
}

/* ---- calls that fail --------------------------------------------------------------------------------------------- */

typedef struct infer__cl_try {
    const char *call;
    infer__cl_int code;
} infer__cl_try;
/* 1 when a function that returns a code went well. */
#define INFER__CL_DO(t, name, args) ((t).call = #name, ((t).code = infer__opencl.cl.name args) == 0)
/* Calls a function that takes &t.code as its last argument; NULL when it failed. */
#define INFER__CL_MAKE(t, name, args) ((t).call = #name, (t).code = 0, infer__opencl.cl.name args)

/* Drivers allocate lazily, so any call may fail for lack of memory. The other codes are ambiguous, except when a buffer
 * is created. */
static infer_result infer__cl_kind(const infer__cl_try *t) {
    int empty = t->code == INFER__CL_OUT_OF_RESOURCES || t->code == INFER__CL_OUT_OF_HOST_MEMORY ||
                t->code == INFER__CL_INVALID_BUFFER_SIZE;
    if (t->code == INFER__CL_MEM_OBJECT_ALLOCATION_FAILURE) return INFER_ERR_MEMORY;
    return empty && strcmp(t->call, "clCreateBuffer") == 0 ? INFER_ERR_MEMORY : INFER_ERR_DEVICE;
}

/* "clFinish failed: CL_OUT_OF_RESOURCES (-5)"; the caller adds the purpose and the device. */
static infer_result infer__cl_failed(infer_error *err, const infer__cl_try *t) {
    return infer__error(err, infer__cl_kind(t), "%s failed: CL_%s (%d)", t->call, infer__cl_code_name(t->code),
                        (int)t->code);
}

/* ---- devices and memory ------------------------------------------------------------------------------------------ */

typedef struct infer__opencl_device {
    infer__mem *mem;
    const infer__cl_row *row;
    infer__cl_context context;
} infer__opencl_device;

static infer_result infer__opencl_open(void **device, infer__mem *mem, int32_t index, infer_error *err) {
    const char *why = NULL;
    int32_t n = infer__opencl_devices(&why);
    const infer__cl_row *r = &infer__opencl.rows[index >= 0 && index < n ? index : 0];
    infer__opencl_device *d;
    infer__cl_try t;
    intptr_t properties[3];
    *device = NULL;
    if (n == 0) return infer__error(err, INFER_ERR_DEVICE, "no OpenCL device: %s", why);
    if (index < 0 || index >= n)
        return infer__error(err, INFER_ERR_DEVICE, "there is no OpenCL device %d, there are %d", (int)index, (int)n);
    if (!r->info.usable)
        return infer__error(err, INFER_ERR_DEVICE, "it cannot be used: %s", r->info.why_not);
    d = (infer__opencl_device *)infer__calloc(mem, 1, sizeof *d);
    if (!d) return infer__error(err, INFER_ERR_MEMORY, "no memory for an OpenCL device");
    d->mem = mem;
    d->row = r;
    properties[0] = INFER__CL_CONTEXT_PLATFORM;
    properties[1] = (intptr_t)r->platform;
    properties[2] = 0;
    d->context = INFER__CL_MAKE(t, clCreateContext, (properties, 1, &r->device, NULL, NULL, &t.code));
    if (!d->context) {
        infer__free(mem, d);
        return infer__cl_failed(err, &t);
    }
    *device = d;
    return INFER_OK;
}

static void infer__opencl_close(void *device) {
    infer__opencl_device *d = (infer__opencl_device *)device;
    if (!d) return;
    infer__opencl.cl.clReleaseContext(d->context);
    infer__free(d->mem, d);
}

/* 0 bytes: handle 0, which kernels see as a null pointer. */
static infer_result infer__opencl_alloc(void *device, uint64_t bytes, uint64_t *handle, infer_error *err) {
    infer__opencl_device *d = (infer__opencl_device *)device;
    infer__cl_try t;
    infer__cl_mem mem;
    *handle = 0;
    if (bytes == 0) return INFER_OK;
    if (bytes > d->row->max_alloc || (uint64_t)(size_t)bytes != bytes)
        return infer__error(err, INFER_ERR_MEMORY, "a buffer of %llu bytes: OpenCL takes at most %llu in one here",
                            (unsigned long long)bytes, (unsigned long long)d->row->max_alloc);
    mem = INFER__CL_MAKE(t, clCreateBuffer, (d->context, INFER__CL_MEM_READ_WRITE, (size_t)bytes, NULL, &t.code));
    if (!mem) return infer__cl_failed(err, &t);
    *handle = (uint64_t)(uintptr_t)mem;
    return INFER_OK;
}

static infer__cl_mem infer__cl_buffer(uint64_t handle) {
    return (infer__cl_mem)(uintptr_t)handle;
}

static void infer__opencl_release(void *device, uint64_t handle) {
    (void)device;
    if (handle) infer__opencl.cl.clReleaseMemObject(infer__cl_buffer(handle));
}

/* ---- programs ---------------------------------------------------------------------------------------------------- */

#define INFER__CL_OPTIONS "-cl-std=CL1.2"
#define INFER__CL_OPTIONS_DOTS "-cl-std=CL3.0 -DINFER_DOT4" /* compilers know the functions from 3.0 on */
enum {
    INFER__CL_MAX_LOG = 16 << 20 /* bytes of a build log that are looked at */
};

/* The compiler's log from the first error on, as one line. */
static void infer__cl_build_log(infer__opencl_device *d, infer__cl_program program, char *to, size_t cap) {
    size_t n = 0;
    char *text = NULL;
    const infer__cl *cl = &infer__opencl.cl;
    infer__cl_device id = d->row->device;
    if (cl->clGetProgramBuildInfo(program, id, INFER__CL_PROGRAM_BUILD_LOG, 0, NULL, &n) == 0 && n > 0 &&
        n <= INFER__CL_MAX_LOG)
        text = (char *)infer__calloc(d->mem, n + 1, 1);
    if (text && cl->clGetProgramBuildInfo(program, id, INFER__CL_PROGRAM_BUILD_LOG, n, text, NULL) != 0) text[0] = 0;
    infer__gpu_log_line(text ? text : "", to, cap);
    infer__free(d->mem, text);
}

/* A compiler that does not know what its device lists gets the program without. */
static int infer__cl_build(infer__opencl_device *d, infer__cl_program program, infer__cl_try *t) {
    if (d->row->dots &&
        INFER__CL_DO(*t, clBuildProgram, (program, 1, &d->row->device, INFER__CL_OPTIONS_DOTS, NULL, NULL)))
        return 1;
    return INFER__CL_DO(*t, clBuildProgram, (program, 1, &d->row->device, INFER__CL_OPTIONS, NULL, NULL));
}

static infer_result infer__cl_compile(infer__opencl_device *d, const infer__gpu_source *s, infer__cl_program *program,
                                      infer_error *err) {
    infer__cl_try t;
    char log[400];
    infer__cl_program p = INFER__CL_MAKE(t, clCreateProgramWithSource,
                                         (d->context, (infer__cl_uint)s->n_text, s->text, NULL, &t.code));
    if (!p) return infer__cl_failed(err, &t);
    if (!infer__cl_build(d, p, &t)) {
        infer__cl_build_log(d, p, log, sizeof log);
        infer__opencl.cl.clReleaseProgram(p);
        return infer__error(err, infer__cl_kind(&t), "%s failed: CL_%s (%d): %s", t.call, infer__cl_code_name(t.code),
                            (int)t.code, log);
    }
    *program = p;
    return INFER_OK;
}

/* The program from the caller's cache, NULL when it is not there or does not work. */
static infer__cl_program infer__cl_cached(infer__opencl_device *d, const infer__gpu_source *source, uint64_t hash) {
    size_t size;
    uint8_t *data = infer__gpu_cached(d->mem, source, "opencl", hash, &size);
    const uint8_t *binary = data ? data + INFER__GPU_CACHE_HEAD : NULL;
    infer__cl_program p = NULL;
    infer__cl_int status = 0;
    infer__cl_try t;
    if (!data) return NULL;
    p = INFER__CL_MAKE(t, clCreateProgramWithBinary,
                       (d->context, 1, &d->row->device, &size, &binary, &status, &t.code));
    if (p && (status != 0 || !infer__cl_build(d, p, &t))) {
        infer__opencl.cl.clReleaseProgram(p);
        p = NULL;
    }
    infer__free(d->mem, data);
    return p;
}

/* Offer a program to the caller's cache. Failing to get its binary is not an error. */
static void infer__cl_keep(infer__opencl_device *d, const infer__gpu_source *source, uint64_t hash,
                           infer__cl_program program) {
    size_t n = 0, got = 0;
    uint8_t *data, *binary;
    if (infer__opencl.cl.clGetProgramInfo(program, INFER__CL_PROGRAM_BINARY_SIZES, sizeof n, &n, &got) != 0 ||
        got != sizeof n || n == 0 || n > INFER__GPU_CACHE_MAX - INFER__GPU_CACHE_HEAD)
        return;
    data = (uint8_t *)infer__calloc(d->mem, n + INFER__GPU_CACHE_HEAD, 1);
    if (!data) return;
    binary = data + INFER__GPU_CACHE_HEAD;
    if (infer__opencl.cl.clGetProgramInfo(program, INFER__CL_PROGRAM_BINARIES, sizeof binary, &binary, NULL) == 0)
        infer__gpu_keep(source, "opencl", hash, data, n);
    infer__free(d->mem, data);
}

static infer_result infer__opencl_program(void *device, const infer__gpu_source *source, void **program,
                                          infer_error *err) {
    infer__opencl_device *d = (infer__opencl_device *)device;
    const infer_cache *cache = source->cache;
    infer__cl_program p = NULL;
    infer_result r;
    uint64_t hash = infer__hash_text(d->row->hash, d->row->dots ? INFER__CL_OPTIONS_DOTS : INFER__CL_OPTIONS);
    *program = NULL;
    if (cache && cache->get) p = infer__cl_cached(d, source, hash);
    if (!p) {
        r = infer__cl_compile(d, source, &p, err);
        if (r != INFER_OK) return r;
        if (cache && cache->put) infer__cl_keep(d, source, hash, p);
    }
    *program = p;
    return INFER_OK;
}

static void infer__opencl_unload(void *device, void *program) {
    (void)device;
    if (program) infer__opencl.cl.clReleaseProgram((infer__cl_program)program);
}

/* ---- queues and kernels ------------------------------------------------------------------------------------------ */

typedef struct infer__opencl_queue {
    infer__opencl_device *device;
    infer__cl_queue queue;
    infer__cl_event *events; /* of the launches since `times` was called last, when they are timed */
    int32_t timed, n_events, cap_events;
    int32_t launches; /* since commands were sent to the device */
} infer__opencl_queue;

enum { INFER__CL_FLUSH = 32 }; /* after so many launches: a driver may keep all until somebody waits */

static uint64_t infer__opencl_largest(void *device) { return ((infer__opencl_device *)device)->row->max_alloc; }
static uint64_t infer__opencl_identity(void *device) { return ((infer__opencl_device *)device)->row->hash; }

static infer_result infer__opencl_queue_open(void **queue, void *device, infer_error *err) {
    infer__opencl_device *d = (infer__opencl_device *)device;
    infer__opencl_queue *q = (infer__opencl_queue *)infer__calloc(d->mem, 1, sizeof *q);
    infer__cl_try t;
    *queue = NULL;
    if (!q) return infer__error(err, INFER_ERR_MEMORY, "no memory for an OpenCL queue");
    q->device = d;
    q->queue = INFER__CL_MAKE(t, clCreateCommandQueue, (d->context, d->row->device, 0, &t.code));
    if (!q->queue) {
        infer__free(d->mem, q);
        return infer__cl_failed(err, &t);
    }
    *queue = q;
    return INFER_OK;
}

static void infer__cl_drop_events(infer__opencl_queue *q) {
    while (q->n_events > 0) infer__opencl.cl.clReleaseEvent(q->events[--q->n_events]);
}

static void infer__opencl_queue_close(void *queue) {
    infer__opencl_queue *q = (infer__opencl_queue *)queue;
    if (!q) return;
    infer__opencl.cl.clFinish(q->queue); /* the caller is about to free what uploads and downloads point to */
    infer__cl_drop_events(q);
    infer__free(q->device->mem, q->events);
    infer__opencl.cl.clReleaseCommandQueue(q->queue);
    infer__free(q->device->mem, q);
}

/* A kernel object stores its arguments, so there is one per queue, and threads do not share it. */
static infer_result infer__opencl_kernel_open(void **kernel, void *queue, void *program, const char *name,
                                              int32_t group, infer_error *err) {
    infer__opencl_device *d = ((infer__opencl_queue *)queue)->device;
    infer__cl_try t;
    size_t most = 0;
    int known = 0;
    infer__cl_kernel k = INFER__CL_MAKE(t, clCreateKernel, ((infer__cl_program)program, name, &t.code));
    *kernel = NULL;
    if (k)
        known = INFER__CL_DO(t, clGetKernelWorkGroupInfo, (k, d->row->device, INFER__CL_KERNEL_WORK_GROUP_SIZE,
                                                           sizeof most, &most, NULL));
    if (d->row->rusticl) most = (size_t)d->row->max_group; /* version 22.3 reports the size of a subgroup */
    if (known && most >= (size_t)group) {
        *kernel = k;
        return INFER_OK;
    }
    if (k) infer__opencl.cl.clReleaseKernel(k);
    if (!known) return infer__cl_failed(err, &t);
    return infer__error(err, INFER_ERR_DEVICE, "%s needs groups of %d work-items, the device runs %llu", name,
                        (int)group, (unsigned long long)most);
}

static void infer__opencl_kernel_close(void *queue, void *kernel) {
    (void)queue;
    if (kernel) infer__opencl.cl.clReleaseKernel((infer__cl_kernel)kernel);
}

static infer_result infer__opencl_upload(void *queue, uint64_t to, uint64_t offset, const void *src, uint64_t bytes,
                                         infer_error *err) {
    infer__opencl_queue *q = (infer__opencl_queue *)queue;
    infer__cl_try t;
    if (bytes == 0 || INFER__CL_DO(t, clEnqueueWriteBuffer, (q->queue, infer__cl_buffer(to), 0, (size_t)offset,
                                                             (size_t)bytes, src, 0, NULL, NULL)))
        return INFER_OK;
    return infer__cl_failed(err, &t);
}

static infer_result infer__opencl_download(void *queue, uint64_t from, uint64_t offset, void *dst, uint64_t bytes,
                                           infer_error *err) {
    infer__opencl_queue *q = (infer__opencl_queue *)queue;
    infer__cl_try t;
    if (bytes == 0 || INFER__CL_DO(t, clEnqueueReadBuffer, (q->queue, infer__cl_buffer(from), 0, (size_t)offset,
                                                            (size_t)bytes, dst, 0, NULL, NULL)))
        return INFER_OK;
    return infer__cl_failed(err, &t);
}

/* Within one buffer the two ranges must not overlap. */
static infer_result infer__opencl_copy(void *queue, uint64_t to, uint64_t to_offset, uint64_t from,
                                       uint64_t from_offset, uint64_t bytes, infer_error *err) {
    infer__opencl_queue *q = (infer__opencl_queue *)queue;
    infer__cl_try t;
    if (bytes == 0 || INFER__CL_DO(t, clEnqueueCopyBuffer, (q->queue, infer__cl_buffer(from), infer__cl_buffer(to),
                                                            (size_t)from_offset, (size_t)to_offset, (size_t)bytes, 0,
                                                            NULL, NULL)))
        return INFER_OK;
    return infer__cl_failed(err, &t);
}

/* Room for the event of one more launch. */
static int infer__cl_event_room(infer__opencl_queue *q) {
    int32_t cap = q->cap_events ? 2 * q->cap_events : 1024;
    infer__cl_event *more;
    if (q->n_events < q->cap_events) return 1;
    more = (infer__cl_event *)infer__realloc(q->device->mem, q->events, (uint64_t)cap, sizeof *more);
    if (!more) return 0;
    q->events = more;
    q->cap_events = cap;
    return 1;
}

static infer_result infer__opencl_launch(void *queue, void *kernel, const uint32_t *groups, int32_t group,
                                         const uint64_t *bufs, int32_t n_bufs, const void *args, uint32_t args_size,
                                         infer_error *err) {
    infer__opencl_queue *q = (infer__opencl_queue *)queue;
    infer__cl_kernel k = (infer__cl_kernel)kernel;
    uint64_t width = (uint64_t)groups[0] * (uint32_t)group;
    size_t global[3], local[3];
    infer__cl_try t;
    int32_t i;
    int ok = 1;
    if (groups[0] == 0 || groups[1] == 0 || groups[2] == 0) return INFER_OK;
    if ((uint64_t)(size_t)width != width)
        return infer__error(err, INFER_ERR_DEVICE, "%llu work-items are too many", (unsigned long long)width);
    for (i = 0; ok && i < n_bufs; i++) {
        infer__cl_mem mem = infer__cl_buffer(bufs[i]);
        ok = INFER__CL_DO(t, clSetKernelArg, (k, (infer__cl_uint)i, sizeof mem, &mem));
    }
    if (ok && args_size > 0)
        ok = INFER__CL_DO(t, clSetKernelArg, (k, (infer__cl_uint)n_bufs, args_size, args));
    global[0] = (size_t)width;
    global[1] = groups[1];
    global[2] = groups[2];
    local[0] = (size_t)group;
    local[1] = local[2] = 1;
    if (ok && q->timed && !infer__cl_event_room(q)) return infer__error(err, INFER_ERR_MEMORY, "no memory for times");
    if (ok)
        ok = INFER__CL_DO(t, clEnqueueNDRangeKernel, (q->queue, k, 3, NULL, global, local, 0, NULL,
                                                      q->timed ? &q->events[q->n_events] : NULL));
    if (ok && q->timed) q->n_events++;
    if (ok && ++q->launches == INFER__CL_FLUSH) {
        q->launches = 0;
        ok = INFER__CL_DO(t, clFlush, (q->queue));
    }
    return ok ? INFER_OK : infer__cl_failed(err, &t);
}

static infer_result infer__opencl_sync(void *queue, infer_error *err) {
    infer__opencl_queue *q = (infer__opencl_queue *)queue;
    infer__cl_try t;
    q->launches = 0;
    if (INFER__CL_DO(t, clFinish, (q->queue))) return INFER_OK;
    return infer__cl_failed(err, &t);
}

/* Profiling cannot be enabled on an existing queue: replace it. */
static infer_result infer__opencl_timing(void *queue, int32_t on, infer_error *err) {
    infer__opencl_queue *q = (infer__opencl_queue *)queue;
    infer__opencl_device *d = q->device;
    infer__cl_queue other;
    infer__cl_try t;
    if (!INFER__CL_DO(t, clFinish, (q->queue))) return infer__cl_failed(err, &t);
    other = INFER__CL_MAKE(t, clCreateCommandQueue,
                           (d->context, d->row->device, on ? INFER__CL_QUEUE_PROFILING : 0, &t.code));
    if (!other) return infer__cl_failed(err, &t);
    infer__cl_drop_events(q);
    infer__opencl.cl.clReleaseCommandQueue(q->queue);
    q->queue = other;
    q->timed = on;
    return INFER_OK;
}

static infer_result infer__opencl_times(void *queue, double *seconds, int32_t cap, int32_t *n, infer_error *err) {
    infer__opencl_queue *q = (infer__opencl_queue *)queue;
    infer__cl_try t;
    int32_t i;
    int ok = 1;
    *n = q->n_events;
    for (i = 0; i < q->n_events && i < cap && ok; i++) {
        uint64_t start = 0, end = 0;
        ok = INFER__CL_DO(t, clGetEventProfilingInfo,
                          (q->events[i], INFER__CL_PROFILING_START, sizeof start, &start, NULL)) &&
             INFER__CL_DO(t, clGetEventProfilingInfo, (q->events[i], INFER__CL_PROFILING_END, sizeof end, &end, NULL));
        seconds[i] = end > start ? (double)(end - start) * 1e-9 : 0;
    }
    infer__cl_drop_events(q);
    return ok ? INFER_OK : infer__cl_failed(err, &t);
}

static const infer__driver infer__opencl_driver = {
    .name = "opencl",
    .backend = INFER_OPENCL,
    .devices = infer__opencl_devices,
    .info = infer__opencl_info,
    .open = infer__opencl_open,
    .close = infer__opencl_close,
    .alloc = infer__opencl_alloc,
    .release = infer__opencl_release,
    .load = infer__opencl_program,
    .unload = infer__opencl_unload,
    .queue_open = infer__opencl_queue_open,
    .queue_close = infer__opencl_queue_close,
    .kernel_open = infer__opencl_kernel_open,
    .kernel_close = infer__opencl_kernel_close,
    .upload = infer__opencl_upload,
    .download = infer__opencl_download,
    .copy = infer__opencl_copy,
    .launch = infer__opencl_launch,
    .sync = infer__opencl_sync,
    .timing = infer__opencl_timing,
    .times = infer__opencl_times,
    .largest = infer__opencl_largest,
    .identity = infer__opencl_identity,
};

#endif
