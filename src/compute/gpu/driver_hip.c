/* driver_hip.c: the driver of AMD's HIP runtime and its run-time compiler, hiprtc, without their headers.
 *
 * Owns:  finding the two libraries, the list of devices, and infer__hip_driver.
 * Rules: types and numbers are our own (source: AMD's documentation and headers of ROCm 5.2 to 6.3); every function
 *        used is a row of INFER__HIP_FUNCTIONS, INFER__HIP_OPTIONAL or INFER__HIPRTC_FUNCTIONS. All per-process state
 *        is in `infer__hip`, written under its infer__once. The runtime has a current device per thread: code that uses
 *        a device sets it first, and leaves it set. The compiler is never given a chip name that it may not know: see
 *        INFER__HIP_CHIPS.
 * Start: INFER__HIP_FUNCTIONS, infer__hip_list (which devices there are), infer__hip_program (compiling),
 *        infer__hip_launch, infer__hip_record.
 */
#include "gpu.h"

#if !defined(INFER_NO_GPU) && !defined(INFER_NO_HIP)

/* ---- what the headers would say -------------------------------------------------------------------------------- */

typedef int32_t infer__hip_code; /* hipError_t, hiprtcResult */
typedef struct infer__hip_stream_ *infer__hip_stream;
typedef struct infer__hip_event_ *infer__hip_event;
typedef struct infer__hip_module_ *infer__hip_module;
typedef struct infer__hip_function_ *infer__hip_function;
typedef struct infer__hip_graph_ *infer__hip_graph;
typedef struct infer__hip_exec_ *infer__hip_exec;
typedef struct infer__hip_rtc_ *infer__hip_rtc;

enum {
    INFER__HIP_OUT_OF_MEMORY = 2,
    INFER__HIP_NO_DEVICE = 100,
    INFER__HIPRTC_OUT_OF_MEMORY = 1,

    INFER__HIP_ATTR_INTEGRATED = 16, /* hipDeviceAttribute_t: the same numbers from ROCm 5.0 on */
    INFER__HIP_ATTR_THREADS_PER_BLOCK = 56,
    INFER__HIP_ATTR_PCI_BUS = 67,
    INFER__HIP_ATTR_PCI_DEVICE = 68,
    INFER__HIP_ATTR_PCI_DOMAIN = 69,
    INFER__HIP_ATTR_SHARED_PER_BLOCK = 74,
    INFER__HIP_FUNC_THREADS_PER_BLOCK = 0, /* hipFunction_attribute */

    INFER__HIP_STREAM_NON_BLOCKING = 1, /* does not wait for the caller's work on the default stream */
    INFER__HIP_CAPTURE_RELAXED = 2,     /* other threads' calls do not affect the capture */
    INFER__HIP_PARAM_POINTER = 1,       /* words of the last argument of hipModuleLaunchKernel */
    INFER__HIP_PARAM_SIZE = 2,
    INFER__HIP_PARAM_END = 3,

    /* hipDeviceProp_t has two layouts; two strings are read from it. ROCm 5's is filled by the symbol without a suffix,
     * that of 6.0 by hipGetDevicePropertiesR0600. The offsets are stable in each (headers of 5.2 and 6.3; LLVM's
     * offload-arch reads the same two). The room is larger than both. */
    INFER__HIP_PROPS_ROOM = 8192,
    INFER__HIP_PROPS_NAME = 0,
    INFER__HIP_PROPS_TEXT = 256, /* bytes of either text */
    INFER__HIP_PROPS_ARCH = 396,
    INFER__HIP_PROPS_ARCH_R0600 = 1160
};

/* HIP(result, name, arguments): every function that is called here. */
#define INFER__HIP_FUNCTIONS(HIP) \
    HIP(infer__hip_code, hipRuntimeGetVersion, (int32_t *version)) \
    HIP(infer__hip_code, hipGetDeviceCount, (int32_t *n)) \
    HIP(infer__hip_code, hipSetDevice, (int32_t device)) \
    HIP(infer__hip_code, hipDeviceGetAttribute, (int32_t *value, int32_t what, int32_t device)) \
    HIP(infer__hip_code, hipDeviceTotalMem, (size_t *bytes, int32_t device)) \
    HIP(infer__hip_code, hipMemGetInfo, (size_t *free, size_t *total)) \
    HIP(const char *, hipGetErrorName, (infer__hip_code code)) \
    HIP(infer__hip_code, hipMalloc, (void **p, size_t bytes)) \
    HIP(infer__hip_code, hipFree, (void *p)) \
    HIP(infer__hip_code, hipMemcpyHtoDAsync, (void *to, const void *from, size_t bytes, infer__hip_stream stream)) \
    HIP(infer__hip_code, hipMemcpyDtoHAsync, (void *to, const void *from, size_t bytes, infer__hip_stream stream)) \
    HIP(infer__hip_code, hipMemcpyDtoDAsync, (void *to, const void *from, size_t bytes, infer__hip_stream stream)) \
    HIP(infer__hip_code, hipStreamCreateWithFlags, (infer__hip_stream * stream, uint32_t flags)) \
    HIP(infer__hip_code, hipStreamDestroy, (infer__hip_stream stream)) \
    HIP(infer__hip_code, hipStreamSynchronize, (infer__hip_stream stream)) \
    HIP(infer__hip_code, hipModuleLoadData, (infer__hip_module * module, const void *image)) \
    HIP(infer__hip_code, hipModuleUnload, (infer__hip_module module)) \
    HIP(infer__hip_code, hipModuleGetFunction, (infer__hip_function * f, infer__hip_module module, const char *name)) \
    HIP(infer__hip_code, hipFuncGetAttribute, (int32_t *value, int32_t what, infer__hip_function f)) \
    HIP(infer__hip_code, hipModuleLaunchKernel, (infer__hip_function f, uint32_t grid_x, uint32_t grid_y, \
                                                 uint32_t grid_z, uint32_t block_x, uint32_t block_y, \
                                                 uint32_t block_z, uint32_t shared, infer__hip_stream stream, \
                                                 void **params, void **extra)) \
    HIP(infer__hip_code, hipEventCreateWithFlags, (infer__hip_event * event, uint32_t flags)) \
    HIP(infer__hip_code, hipEventDestroy, (infer__hip_event event)) \
    HIP(infer__hip_code, hipEventRecord, (infer__hip_event event, infer__hip_stream stream)) \
    HIP(infer__hip_code, hipEventElapsedTime, (float *ms, infer__hip_event from, infer__hip_event to))

/* May be missing: one of the first two is required, and without the others there are no recordings. */
#define INFER__HIP_OPTIONAL(HIP) \
    HIP(infer__hip_code, hipGetDevicePropertiesR0600, (void *to, int32_t device)) \
    HIP(infer__hip_code, hipGetDeviceProperties, (void *to, int32_t device)) \
    HIP(infer__hip_code, hipStreamBeginCapture, (infer__hip_stream stream, int32_t mode)) \
    HIP(infer__hip_code, hipStreamEndCapture, (infer__hip_stream stream, infer__hip_graph * graph)) \
    HIP(infer__hip_code, hipGraphDestroy, (infer__hip_graph graph)) \
    HIP(infer__hip_code, hipGraphInstantiateWithFlags, (infer__hip_exec * exec, infer__hip_graph graph, \
                                                        unsigned long long flags)) \
    HIP(infer__hip_code, hipGraphLaunch, (infer__hip_exec exec, infer__hip_stream stream)) \
    HIP(infer__hip_code, hipGraphExecDestroy, (infer__hip_exec exec))

#define INFER__HIPRTC_FUNCTIONS(HIP) \
    HIP(const char *, hiprtcGetErrorString, (infer__hip_code code)) \
    HIP(infer__hip_code, hiprtcCreateProgram, (infer__hip_rtc * program, const char *text, const char *name, \
                                               int32_t n_headers, const char **headers, const char **names)) \
    HIP(infer__hip_code, hiprtcDestroyProgram, (infer__hip_rtc * program)) \
    HIP(infer__hip_code, hiprtcCompileProgram, (infer__hip_rtc program, int32_t n, const char **options)) \
    HIP(infer__hip_code, hiprtcGetProgramLogSize, (infer__hip_rtc program, size_t *n)) \
    HIP(infer__hip_code, hiprtcGetProgramLog, (infer__hip_rtc program, char *to)) \
    HIP(infer__hip_code, hiprtcGetCodeSize, (infer__hip_rtc program, size_t *n)) \
    HIP(infer__hip_code, hiprtcGetCode, (infer__hip_rtc program, char *to))

typedef struct infer__hip_api {
#define INFER__HIP_POINTER(result, name, args) result(*name) args;
    INFER__HIP_FUNCTIONS(INFER__HIP_POINTER)
    INFER__HIP_OPTIONAL(INFER__HIP_POINTER)
    INFER__HIPRTC_FUNCTIONS(INFER__HIP_POINTER)
#undef INFER__HIP_POINTER
} infer__hip_api;

/* ---- the libraries ----------------------------------------------------------------------------------------------- */

enum {
    INFER__HIP_MAX_DEVICES = 32,      /* in the list: the best of all that are found */
    INFER__HIP_MAX_IDS = 256,         /* devices that are looked at */
    INFER__HIP_MIN_VERSION = 500,     /* major * 100 + minor */
    INFER__HIP_MIN_GROUP = 64,        /* work-items in a group, as most kernels want */
    INFER__HIP_MIN_LOCAL = 16 * 1024, /* bytes of local memory */
    INFER__HIP_ARCH = 64
};

typedef struct infer__hip_row {
    infer_device_info info;
    int32_t ordinal;           /* the runtime's number */
    int32_t pci[3];            /* domain, bus, device: distinguishes identical devices */
    char arch[INFER__HIP_ARCH]; /* "gfx90a", without the features after a colon */
    int32_t matrix;            /* 1: it has matrix units */
    uint64_t hash;             /* of what a binary depends on, without the options */
} infer__hip_row;

/* Per-process state. */
static struct infer__hip {
    infer__once once;
    infer__hip_api api;
    int32_t version;                             /* of the runtime: major * 100 + minor */
    int32_t has_compiler;                        /* the functions of hiprtc are in the table */
    infer__hip_row rows[INFER__HIP_MAX_DEVICES]; /* best first */
    int32_t n;
    char why_not[120];     /* when n is 0 */
    char no_compiler[120]; /* when has_compiler is 0 */
} infer__hip;

static const char *const INFER__HIP_LIBRARIES[] = {
#if defined(INFER__WINDOWS)
    "amdhip64_7.dll", "amdhip64_6.dll", "amdhip64.dll", /* the last one is 5.x */
#else
    "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so",
#endif
};

/* The runtime's functions. hiprtc's may be in the same library: they do up to ROCm 5.2, and as a copy up to 6.x. */
static const char *infer__hip_find(void *table, void *lib) {
    struct infer__hip *h = (struct infer__hip *)table;
    infer__hip_api *api = &h->api;
    const char *missing = NULL, *ignored = NULL, *no_rtc = NULL;
    memset(api, 0, sizeof *api);
    #define INFER__HIP_LOOK_UP(result, name, args) INFER__GPU_LOOK_UP(api->name, lib, #name, missing)
    INFER__HIP_FUNCTIONS(INFER__HIP_LOOK_UP)
#undef INFER__HIP_LOOK_UP
    #define INFER__HIP_LOOK_UP(result, name, args) INFER__GPU_LOOK_UP(api->name, lib, #name, ignored)
    INFER__HIP_OPTIONAL(INFER__HIP_LOOK_UP)
#undef INFER__HIP_LOOK_UP
    #define INFER__HIP_LOOK_UP(result, name, args) INFER__GPU_LOOK_UP(api->name, lib, #name, no_rtc)
    INFER__HIPRTC_FUNCTIONS(INFER__HIP_LOOK_UP)
#undef INFER__HIP_LOOK_UP
    (void)ignored;
    if (!missing && !api->hipGetDevicePropertiesR0600 && !api->hipGetDeviceProperties)
        missing = "hipGetDeviceProperties";
    h->has_compiler = !missing && !no_rtc;
    return missing;
}

static const char *infer__hiprtc_find(void *table, void *lib) {
    infer__hip_api *api = &((struct infer__hip *)table)->api;
    const char *missing = NULL;
    #define INFER__HIP_LOOK_UP(result, name, args) INFER__GPU_LOOK_UP(api->name, lib, #name, missing)
    INFER__HIPRTC_FUNCTIONS(INFER__HIP_LOOK_UP)
#undef INFER__HIP_LOOK_UP
    return missing;
}

/* The compiler of the runtime's major version; on Windows its library carries the minor version in its name too, and
 * may be of another one, newer ones first. */
static int infer__hiprtc_load(struct infer__hip *h) {
    enum { MOST = 11 };
    char text[MOST][32];
    const char *names[MOST];
    size_t n = 0, i;
    int major = h->version / 100;
#if defined(INFER__WINDOWS)
    int minor;
    infer__format(text[n++], sizeof text[0], "hiprtc%02d%02d.dll", major, h->version % 100);
    for (minor = 8; minor >= 0; minor--) infer__format(text[n++], sizeof text[0], "hiprtc%02d%02d.dll", major, minor);
    infer__format(text[n++], sizeof text[0], "hiprtc.dll");
#else
    infer__format(text[n++], sizeof text[0], "libhiprtc.so.%d", major);
    infer__format(text[n++], sizeof text[0], "libhiprtc.so");
#endif
    for (i = 0; i < n; i++) names[i] = text[i];
    return infer__gpu_library(names, n, infer__hiprtc_find, h, h->no_compiler, sizeof h->no_compiler);
}

static int infer__hip_load(struct infer__hip *h, const char *const *names, size_t n) {
    return infer__gpu_library(names, n, infer__hip_find, h, h->why_not, sizeof h->why_not);
}

/* ---- the devices ------------------------------------------------------------------------------------------------- */

/* Chips that hiprtc may be asked to compile for, and the first ROCm whose compiler knows them (major * 100 + minor; the
 * list of code object manager's ISAs in the releases 5.0 to 6.0, later ones not before it was certain). Unknown chip
 * names must not reach it: up to 6.3 at least, hiprtc then uses an object that it has destroyed, which crashes the
 * process. So a chip newer than this table is refused; it can be used through OpenCL. */
static const struct { char name[8]; int32_t since, matrix; } INFER__HIP_CHIPS[] = { /* 1: kernels/special/hip_units.k */
    {"gfx803", 500, 0},  {"gfx900", 500, 0},  {"gfx902", 500, 0},  {"gfx904", 500, 0},  {"gfx906", 500, 0},
    {"gfx908", 500, 1},  {"gfx909", 500, 0},  {"gfx90a", 500, 1},  {"gfx90c", 500, 0},  {"gfx1010", 500, 0},
    {"gfx1011", 500, 0}, {"gfx1012", 500, 0}, {"gfx1013", 500, 0}, {"gfx1030", 500, 0}, {"gfx1031", 500, 0},
    {"gfx1032", 500, 0}, {"gfx1033", 500, 0}, {"gfx1034", 500, 0}, {"gfx1035", 500, 0}, {"gfx1036", 502, 0},
    {"gfx1100", 503, 1}, {"gfx1101", 503, 1}, {"gfx1102", 503, 1}, {"gfx1103", 503, 1}, {"gfx942", 507, 1},
    {"gfx1150", 604, 1}, {"gfx1151", 604, 1}, {"gfx1200", 604, 1}, {"gfx1201", 604, 1}, {"gfx950", 700, 1},
    {"gfx1152", 700, 1}, {"gfx1153", 700, 1},
};

/* The first ROCm that compiles for a chip, 0 when it is not in the table. *matrix: its matrix units. */
static int32_t infer__hip_chip_since(const char *arch, int32_t *matrix) {
    size_t i;
    *matrix = 0;
    for (i = 0; i < INFER__COUNT(INFER__HIP_CHIPS); i++) {
        if (strcmp(INFER__HIP_CHIPS[i].name, arch) != 0) continue;
        *matrix = INFER__HIP_CHIPS[i].matrix;
        return INFER__HIP_CHIPS[i].since;
    }
    return 0;
}

static const char *infer__hip_code_name(const struct infer__hip *h, infer__hip_code code) {
    const char *name = code == 0 ? "hipSuccess without a result" : h->api.hipGetErrorName(code);
    return name ? name : "code of the vendor";
}

/* 0 when the runtime does not say. */
static int32_t infer__hip_attribute(const struct infer__hip *h, int32_t what, int32_t device) {
    int32_t value = 0;
    return h->api.hipDeviceGetAttribute(&value, what, device) == 0 ? value : 0;
}

/* Copy a string of the properties: single spaces, printable, truncated to cap. */
static void infer__hip_text(const char *from, char *to, size_t cap) {
    size_t i, at = 0;
    for (i = 0; i < INFER__HIP_PROPS_TEXT && from[i] && at + 1 < cap; i++) {
        char c = from[i] == '\t' || from[i] == '\n' || from[i] == '\r' ? ' ' : from[i];
        if (c != ' ' || (at > 0 && to[at - 1] != ' ')) to[at++] = c;
    }
    while (at > 0 && to[at - 1] == ' ') at--;
    to[at] = 0;
    infer__clean(to, 1);
}

/* Name and arch of row r. The part after a colon ("gfx90a:sramecc+:xnack-") is the device's present configuration; code
 * compiled without it runs in every configuration. */
static void infer__hip_properties(const struct infer__hip *h, infer__hip_row *r, char *name, size_t cap) {
    union { size_t align; char bytes[INFER__HIP_PROPS_ROOM]; } props;
    const char *arch;
    size_t n = 0;
    infer__hip_code code;
    memset(&props, 0, sizeof props);
    if (h->api.hipGetDevicePropertiesR0600) {
        code = h->api.hipGetDevicePropertiesR0600(&props, r->ordinal);
        arch = props.bytes + INFER__HIP_PROPS_ARCH_R0600;
    } else {
        code = h->api.hipGetDeviceProperties(&props, r->ordinal);
        arch = props.bytes + INFER__HIP_PROPS_ARCH;
    }
    name[0] = r->arch[0] = 0;
    if (code != 0) return;
    infer__hip_text(props.bytes + INFER__HIP_PROPS_NAME, name, cap);
    while (n + 1 < sizeof r->arch && ((arch[n] >= '0' && arch[n] <= '9') || (arch[n] >= 'a' && arch[n] <= 'z'))) n++;
    if (strncmp(arch, "gfx", 3) != 0 || n < 6 || (arch[n] != 0 && arch[n] != ':')) return;
    memcpy(r->arch, arch, n);
    r->arch[n] = 0;
}

/* Set info.usable, or why_not. */
static void infer__hip_judge(const struct infer__hip *h, infer__hip_row *r) {
    char *why = r->info.why_not;
    const size_t cap = sizeof r->info.why_not;
    int32_t group = infer__hip_attribute(h, INFER__HIP_ATTR_THREADS_PER_BLOCK, r->ordinal);
    int32_t local = infer__hip_attribute(h, INFER__HIP_ATTR_SHARED_PER_BLOCK, r->ordinal);
    int32_t since = infer__hip_chip_since(r->arch, &r->matrix);
    if (!h->has_compiler)
        infer__format(why, cap, "no compiler (%s); try OpenCL", h->no_compiler);
    else if (!r->arch[0])
        infer__format(why, cap, "the runtime does not tell its chip");
    else if (since == 0)
        infer__format(why, cap, "it is a %s, for which nothing is known of the compiler; try OpenCL", r->arch);
    else if (since > h->version)
        infer__format(why, cap, "the compiler of ROCm %d.%d does not know %s, %d.%d does; try OpenCL",
                      (int)(h->version / 100), (int)(h->version % 100), r->arch, (int)(since / 100),
                      (int)(since % 100));
    else if (group < INFER__HIP_MIN_GROUP)
        infer__format(why, cap, "groups of %d work-items are needed, it has %d", (int)INFER__HIP_MIN_GROUP,
                      (int)group);
    else if (local < INFER__HIP_MIN_LOCAL)
        infer__format(why, cap, "%d bytes of local memory are needed, it has %d", (int)INFER__HIP_MIN_LOCAL,
                      (int)local);
    else if (r->info.total == 0)
        infer__format(why, cap, "the runtime says that it has no memory");
    else
        r->info.usable = 1;
}

static void infer__hip_describe(const struct infer__hip *h, infer__hip_row *r) {
    static const int32_t pci[3] = {INFER__HIP_ATTR_PCI_DOMAIN, INFER__HIP_ATTR_PCI_BUS, INFER__HIP_ATTR_PCI_DEVICE};
    size_t total = 0;
    char name[76], version[16];
    int i;
    infer__hip_properties(h, r, name, sizeof name);
    infer__format(r->info.name, sizeof r->info.name, "%s (%s)", name[0] ? name : "AMD GPU",
                  r->arch[0] ? r->arch : "?");
    r->info.backend = INFER_HIP;
    r->info.unified = infer__hip_attribute(h, INFER__HIP_ATTR_INTEGRATED, r->ordinal) == 1;
    if (h->api.hipDeviceTotalMem(&total, r->ordinal) != 0) total = 0;
    r->info.total = r->info.free = total;
    for (i = 0; i < 3; i++) r->pci[i] = infer__hip_attribute(h, pci[i], r->ordinal);
    infer__format(version, sizeof version, "%d", (int)h->version);
    r->hash = infer__hash_text(infer__hash_text(INFER__FNV, r->arch), version);
    infer__hip_judge(h, r);
}

/* Is a better than b? Nothing here depends on the order in which the runtime numbers devices. */
static int infer__hip_better(const infer__hip_row *a, const infer__hip_row *b) {
    int order, i;
    if (a->info.usable != b->info.usable) return a->info.usable > b->info.usable;
    if (a->info.unified != b->info.unified) return a->info.unified < b->info.unified;
    if (a->info.total != b->info.total) return a->info.total > b->info.total;
    order = strcmp(a->info.name, b->info.name);
    for (i = 0; i < 3 && order == 0; i++) order = a->pci[i] < b->pci[i] ? -1 : a->pci[i] > b->pci[i];
    return order < 0;
}

/* Insert in order; if there are too many devices the worst one is dropped. */
static void infer__hip_insert(struct infer__hip *h, const infer__hip_row *r) {
    int32_t at = h->n, last;
    while (at > 0 && infer__hip_better(r, &h->rows[at - 1])) at--;
    if (at == INFER__HIP_MAX_DEVICES) return;
    last = INFER__MIN(h->n, INFER__HIP_MAX_DEVICES - 1);
    memmove(&h->rows[at + 1], &h->rows[at], (size_t)(last - at) * sizeof *r);
    h->rows[at] = *r;
    h->n = last + 1;
}

/* 1 when the runtime is new enough for the layouts known here. */
static int infer__hip_version_ok(struct infer__hip *h) {
    int32_t version = 0;
    infer__hip_code code = h->api.hipRuntimeGetVersion(&version);
    if (code != 0) {
        infer__format(h->why_not, sizeof h->why_not, "hipRuntimeGetVersion failed: %s (%d)",
                      infer__hip_code_name(h, code), (int)code);
        return 0;
    }
    h->version = version < 0 ? 0 : version / 10000000 * 100 + version / 100000 % 100;
    if (h->version >= INFER__HIP_MIN_VERSION) return 1;
    infer__format(h->why_not, sizeof h->why_not, "ROCm %d.%d is needed, the HIP runtime is of %d.%d",
                  (int)(INFER__HIP_MIN_VERSION / 100), (int)(INFER__HIP_MIN_VERSION % 100), (int)(h->version / 100),
                  (int)(h->version % 100));
    return 0;
}

/* Fill h->rows by h->api, or h->why_not. */
static void infer__hip_list(struct infer__hip *h) {
    int32_t n = 0, i, k, m, same;
    infer__hip_code code;
    if (!infer__hip_version_ok(h)) return;
    code = h->api.hipGetDeviceCount(&n);
    if (code != 0 && code != INFER__HIP_NO_DEVICE) {
        infer__format(h->why_not, sizeof h->why_not, "hipGetDeviceCount failed: %s (%d)",
                      infer__hip_code_name(h, code), (int)code);
        return;
    }
    n = code == 0 ? INFER__MIN(n, INFER__HIP_MAX_IDS) : 0;
    if (n > 0 && !h->has_compiler) h->has_compiler = infer__hiprtc_load(h);
    for (i = 0; i < n; i++) {
        infer__hip_row r;
        memset(&r, 0, sizeof r);
        r.ordinal = i;
        infer__hip_describe(h, &r);
        infer__hip_insert(h, &r);
    }
    for (k = h->n - 1; k > 0; k--) { /* backwards: earlier names are still as they were */
        char *name = h->rows[k].info.name;
        size_t len = strlen(name);
        for (same = 0, m = 0; m < k; m++) same += strcmp(h->rows[m].info.name, name) == 0;
        if (same > 0) infer__format(name + len, sizeof h->rows[k].info.name - len, " #%d", (int)same + 1);
    }
    if (h->n == 0) infer__format(h->why_not, sizeof h->why_not, "HIP was found, but no device");
}

static void infer__hip_start(void) {
    struct infer__hip *h = &infer__hip;
    if (infer__hip_load(h, INFER__HIP_LIBRARIES, INFER__COUNT(INFER__HIP_LIBRARIES))) infer__hip_list(h);
}

static int32_t infer__hip_devices(const char **why_not) {
    infer__call_once(&infer__hip.once, infer__hip_start);
    if (why_not) *why_not = infer__hip.why_not;
    return infer__hip.n;
}

/* Bytes that are free now, all of them where the runtime does not say. */
static uint64_t infer__hip_free_memory(const struct infer__hip *h, const infer__hip_row *r) {
    size_t free = 0, total = 0;
    if (h->api.hipSetDevice(r->ordinal) == 0 && h->api.hipMemGetInfo(&free, &total) == 0 && free > 0 &&
        free <= r->info.total)
        return free;
    return r->info.total;
}

static void infer__hip_info(int32_t index, infer_device_info *out) {
    memset(out, 0, sizeof *out);
    if (index < 0 || index >= infer__hip_devices(NULL)) return;
    *out = infer__hip.rows[index].info;
    if (out->usable) out->free = infer__hip_free_memory(&infer__hip, &infer__hip.rows[index]);
}

/* ---- calls that fail --------------------------------------------------------------------------------------------- */

typedef struct infer__hip_try {
    const char *call;
    infer__hip_code code;
} infer__hip_try;
/* 1 when a function went well. */
#define INFER__HIP_DO(t, name, args) ((t).call = #name, ((t).code = infer__hip.api.name args) == 0)

/* "hipMalloc failed: hipErrorOutOfMemory (2)"; the caller adds the purpose and the device. `more`: "" or the compiler's
 * message. */
static infer_result infer__hip_failed_with(infer_error *err, const infer__hip_try *t, const char *more) {
    int rtc = strncmp(t->call, "hiprtc", 6) == 0;
    int memory = t->code == (rtc ? INFER__HIPRTC_OUT_OF_MEMORY : INFER__HIP_OUT_OF_MEMORY);
    const char *name = rtc && t->code ? infer__hip.api.hiprtcGetErrorString(t->code)
                                      : infer__hip_code_name(&infer__hip, t->code);
    return infer__error(err, memory ? INFER_ERR_MEMORY : INFER_ERR_DEVICE, "%s failed: %s (%d)%s%s", t->call,
                        name ? name : "code of the vendor", (int)t->code, *more ? ": " : "", more);
}
static infer_result infer__hip_failed(infer_error *err, const infer__hip_try *t) {
    return infer__hip_failed_with(err, t, "");
}

/* ---- devices and memory ------------------------------------------------------------------------------------------ */

typedef struct infer__hip_device {
    infer__mem *mem;
    const infer__hip_row *row;
} infer__hip_device;

/* Make the device current in this thread. */
static int infer__hip_enter(const infer__hip_device *d, infer__hip_try *t) {
    return INFER__HIP_DO(*t, hipSetDevice, (d->row->ordinal));
}

static infer_result infer__hip_open(void **device, infer__mem *mem, int32_t index, infer_error *err) {
    const char *why = NULL;
    int32_t n = infer__hip_devices(&why);
    const infer__hip_row *r = &infer__hip.rows[index >= 0 && index < n ? index : 0];
    infer__hip_device *d;
    infer__hip_try t;
    *device = NULL;
    if (n == 0) return infer__error(err, INFER_ERR_DEVICE, "no HIP device: %s", why);
    if (index < 0 || index >= n)
        return infer__error(err, INFER_ERR_DEVICE, "there is no HIP device %d, there are %d", (int)index, (int)n);
    if (!r->info.usable) return infer__error(err, INFER_ERR_DEVICE, "it cannot be used: %s", r->info.why_not);
    d = (infer__hip_device *)infer__calloc(mem, 1, sizeof *d);
    if (!d) return infer__error(err, INFER_ERR_MEMORY, "no memory for a HIP device");
    d->mem = mem;
    d->row = r;
    if (!infer__hip_enter(d, &t)) {
        infer__free(mem, d);
        return infer__hip_failed(err, &t);
    }
    *device = d;
    return INFER_OK;
}

static void infer__hip_close(void *device) {
    infer__hip_device *d = (infer__hip_device *)device;
    if (d) infer__free(d->mem, d); /* the runtime's context of a device is the process's */
}

static int32_t infer__hip_tier(void *device) { return ((infer__hip_device *)device)->row->matrix; }

static uint64_t infer__hip_identity(void *device) { return ((infer__hip_device *)device)->row->hash; }

static uint64_t infer__hip_memory(void *device) {
    return infer__hip_free_memory(&infer__hip, ((infer__hip_device *)device)->row);
}

static void *infer__hip_pointer(uint64_t handle) {
    return (void *)(uintptr_t)handle;
}

/* 0 bytes: handle 0, which kernels see as a null pointer. */
static infer_result infer__hip_alloc(void *device, uint64_t bytes, uint64_t *handle, infer_error *err) {
    infer__hip_device *d = (infer__hip_device *)device;
    infer__hip_try t;
    void *p = NULL;
    *handle = 0;
    if (bytes == 0) return INFER_OK;
    if ((uint64_t)(size_t)bytes != bytes)
        return infer__error(err, INFER_ERR_MEMORY, "%llu bytes are too many", (unsigned long long)bytes);
    if (!infer__hip_enter(d, &t) || !INFER__HIP_DO(t, hipMalloc, (&p, (size_t)bytes)) || !p)
        return infer__hip_failed(err, &t);
    *handle = (uint64_t)(uintptr_t)p;
    return INFER_OK;
}

static void infer__hip_release(void *device, uint64_t handle) {
    infer__hip_try t;
    if (!handle) return;
    infer__hip_enter((infer__hip_device *)device, &t);
    infer__hip.api.hipFree(infer__hip_pointer(handle));
}

/* ---- programs ---------------------------------------------------------------------------------------------------- */

/* The sources use explicit FMAs; all other arithmetic follows IEEE 754, subnormals included. The last option is the
 * default, except on chips where subnormals are slow. */
#define INFER__HIP_OPTIONS "-ffp-contract=off", "-fno-gpu-flush-denormals-to-zero"
#define INFER__HIP_OPTIONS_KEY "-ffp-contract=off -fno-gpu-flush-denormals-to-zero"
enum {
    INFER__HIP_MAX_LOG = 16 << 20 /* bytes of a compiler's log that are looked at */
};

/* The runtime loads lazily from the code object, which must live as long as the module. */
typedef struct infer__hip_program {
    infer__hip_module module;
    uint8_t *data; /* INFER__GPU_CACHE_HEAD bytes, then the code object */
} infer__hip_program;

/* The compiler's log from the first error on, as one line. */
static void infer__hip_log(infer__hip_device *d, infer__hip_rtc rtc, char *to, size_t cap) {
    size_t n = 0;
    char *text = NULL;
    if (infer__hip.api.hiprtcGetProgramLogSize(rtc, &n) == 0 && n > 0 && n <= INFER__HIP_MAX_LOG)
        text = (char *)infer__calloc(d->mem, n + 1, 1);
    if (text && infer__hip.api.hiprtcGetProgramLog(rtc, text) != 0) text[0] = 0;
    infer__gpu_log_line(text ? text : "", to, cap);
    infer__free(d->mem, text);
}

/* The pieces as one text, which the caller frees; NULL: no memory. */
static char *infer__hip_join(infer__mem *mem, const infer__gpu_source *s) {
    uint64_t n = 0, at = 0;
    char *text;
    int32_t i;
    for (i = 0; i < s->n_text; i++) n += strlen(s->text[i]);
    text = (char *)infer__alloc(mem, n + 1);
    if (!text) return NULL;
    for (i = 0; i < s->n_text; i++) {
        size_t len = strlen(s->text[i]);
        memcpy(text + at, s->text[i], len);
        at += len;
    }
    text[n] = 0;
    return text;
}

/* The code object of a program that was compiled, as infer__hip_program.data. */
static infer_result infer__hip_take(infer__hip_device *d, infer__hip_rtc rtc, uint8_t **data, size_t *size,
                                    infer_error *err) {
    infer__hip_try t;
    size_t n = 0;
    if (!INFER__HIP_DO(t, hiprtcGetCodeSize, (rtc, &n))) return infer__hip_failed(err, &t);
    if (n == 0 || n > INFER__GPU_CACHE_MAX - INFER__GPU_CACHE_HEAD)
        return infer__error(err, INFER_ERR_DEVICE, "hiprtcGetCodeSize says %llu bytes", (unsigned long long)n);
    *data = (uint8_t *)infer__calloc(d->mem, n + INFER__GPU_CACHE_HEAD, 1);
    if (!*data) return infer__error(err, INFER_ERR_MEMORY, "no memory for a compiled program");
    *size = n;
    if (INFER__HIP_DO(t, hiprtcGetCode, (rtc, (char *)*data + INFER__GPU_CACHE_HEAD))) return INFER_OK;
    infer__free(d->mem, *data);
    *data = NULL;
    return infer__hip_failed(err, &t);
}

static infer_result infer__hip_compile(infer__hip_device *d, const infer__gpu_source *s, uint8_t **data, size_t *size,
                                       infer_error *err) {
    char arch[INFER__HIP_ARCH + 16], log[400];
    const char *options[] = {arch, INFER__HIP_OPTIONS};
    infer__hip_rtc rtc = NULL;
    infer__hip_try t;
    infer_result r;
    char *text = infer__hip_join(d->mem, s);
    if (!text) return infer__error(err, INFER_ERR_MEMORY, "no memory for the text of a program");
    infer__format(arch, sizeof arch, "--offload-arch=%s", d->row->arch);
    if (!INFER__HIP_DO(t, hiprtcCreateProgram, (&rtc, text, s->name, 0, NULL, NULL)) || !rtc) {
        r = infer__hip_failed(err, &t);
    } else if (!INFER__HIP_DO(t, hiprtcCompileProgram, (rtc, (int32_t)INFER__COUNT(options), options))) {
        infer__hip_log(d, rtc, log, sizeof log);
        r = infer__hip_failed_with(err, &t, log);
    } else {
        r = infer__hip_take(d, rtc, data, size, err);
    }
    if (rtc) infer__hip.api.hiprtcDestroyProgram(&rtc);
    infer__free(d->mem, text);
    return r;
}

static void infer__hip_unload(void *device, void *program) {
    infer__hip_device *d = (infer__hip_device *)device;
    infer__hip_program *p = (infer__hip_program *)program;
    infer__hip_try t;
    if (!p) return;
    infer__hip_enter(d, &t);
    if (p->module) infer__hip.api.hipModuleUnload(p->module);
    infer__free(d->mem, p->data);
    infer__free(d->mem, p);
}

/* p->data becomes p->module. */
static int infer__hip_load_code(infer__hip_device *d, infer__hip_program *p, infer__hip_try *t) {
    if (infer__hip_enter(d, t) && INFER__HIP_DO(*t, hipModuleLoadData, (&p->module, p->data + INFER__GPU_CACHE_HEAD)) &&
        p->module)
        return 1;
    p->module = NULL;
    infer__free(d->mem, p->data);
    p->data = NULL;
    return 0;
}

static infer_result infer__hip_program_make(infer__hip_device *d, const infer__gpu_source *source,
                                            infer__hip_program *p, infer_error *err) {
    uint64_t hash = infer__hash_text(d->row->hash, INFER__HIP_OPTIONS_KEY);
    infer__hip_try t;
    infer_result r;
    size_t size = 0;
    p->data = infer__gpu_cached(d->mem, source, "hip", hash, &size);
    if (p->data && infer__hip_load_code(d, p, &t)) return INFER_OK;
    r = infer__hip_compile(d, source, &p->data, &size, err);
    if (r) return r;
    infer__gpu_keep(source, "hip", hash, p->data, size);
    return infer__hip_load_code(d, p, &t) ? INFER_OK : infer__hip_failed(err, &t);
}

static infer_result infer__hip_program_load(void *device, const infer__gpu_source *source, void **program,
                                            infer_error *err) {
    infer__hip_device *d = (infer__hip_device *)device;
    infer__hip_program *p = (infer__hip_program *)infer__calloc(d->mem, 1, sizeof *p);
    infer_result r;
    *program = NULL;
    if (!p) return infer__error(err, INFER_ERR_MEMORY, "no memory for a program");
    r = infer__hip_program_make(d, source, p, err);
    if (r) infer__hip_unload(d, p);
    else *program = p;
    return r;
}

/* ---- queues and kernels ------------------------------------------------------------------------------------------ */

typedef struct infer__hip_pair { infer__hip_event from, to; } infer__hip_pair;

typedef struct infer__hip_queue {
    infer__hip_device *device;
    infer__hip_stream stream;
    int32_t recording, timing;
    infer__hip_pair *pairs; /* around launches: n_timed of them are recorded, n_pairs made, there is room for cap */
    int32_t n_timed, n_pairs, cap;
} infer__hip_queue;

static infer_result infer__hip_queue_open(void **queue, void *device, infer_error *err) {
    infer__hip_device *d = (infer__hip_device *)device;
    infer__hip_queue *q = (infer__hip_queue *)infer__calloc(d->mem, 1, sizeof *q);
    infer__hip_try t;
    *queue = NULL;
    if (!q) return infer__error(err, INFER_ERR_MEMORY, "no memory for a HIP queue");
    q->device = d;
    if (!infer__hip_enter(d, &t) ||
        !INFER__HIP_DO(t, hipStreamCreateWithFlags, (&q->stream, INFER__HIP_STREAM_NON_BLOCKING)) || !q->stream) {
        infer__free(d->mem, q);
        return infer__hip_failed(err, &t);
    }
    *queue = q;
    return INFER_OK;
}

/* Abandon a recording. */
static void infer__hip_drop(infer__hip_queue *q) {
    infer__hip_graph graph = NULL;
    infer__hip.api.hipStreamEndCapture(q->stream, &graph);
    if (graph) infer__hip.api.hipGraphDestroy(graph);
    q->recording = 0;
}

static void infer__hip_queue_close(void *queue) {
    infer__hip_queue *q = (infer__hip_queue *)queue;
    infer__hip_try t;
    int32_t i;
    if (!q) return;
    infer__hip_enter(q->device, &t);
    if (q->recording) infer__hip_drop(q);
    infer__hip.api.hipStreamSynchronize(q->stream); /* the caller is about to free what copies point to */
    for (i = 0; i < q->n_pairs; i++) {
        infer__hip.api.hipEventDestroy(q->pairs[i].from);
        infer__hip.api.hipEventDestroy(q->pairs[i].to);
    }
    infer__hip.api.hipStreamDestroy(q->stream);
    infer__free(q->device->mem, q->pairs);
    infer__free(q->device->mem, q);
}

/* Called before work that cannot be recorded. */
static infer_result infer__hip_ready(infer__hip_queue *q, const char *what, infer_error *err) {
    infer__hip_try t;
    if (!infer__hip_enter(q->device, &t)) return infer__hip_failed(err, &t);
    if (!q->recording) return INFER_OK;
    infer__hip_drop(q);
    return infer__error(err, INFER_ERR_DEVICE, "%s while launches are recorded: the recording is dropped", what);
}

/* Functions belong to their module and have no state: queues may share them. */
static infer_result infer__hip_kernel_open(void **kernel, void *queue, void *program, const char *name, int32_t group,
                                           infer_error *err) {
    infer__hip_queue *q = (infer__hip_queue *)queue;
    infer__hip_function f = NULL;
    infer__hip_try t;
    int32_t most = 0;
    *kernel = NULL;
    if (!infer__hip_enter(q->device, &t) ||
        !INFER__HIP_DO(t, hipModuleGetFunction, (&f, ((infer__hip_program *)program)->module, name)) || !f ||
        !INFER__HIP_DO(t, hipFuncGetAttribute, (&most, INFER__HIP_FUNC_THREADS_PER_BLOCK, f)))
        return infer__hip_failed(err, &t);
    if (most < group)
        return infer__error(err, INFER_ERR_DEVICE, "%s needs groups of %d work-items, the device runs %d", name,
                            (int)group, (int)most);
    *kernel = f;
    return INFER_OK;
}

static void infer__hip_kernel_close(void *queue, void *kernel) {
    (void)queue;
    (void)kernel;
}

static infer_result infer__hip_upload(void *queue, uint64_t to, uint64_t offset, const void *src, uint64_t bytes,
                                      infer_error *err) {
    infer__hip_queue *q = (infer__hip_queue *)queue;
    infer__hip_try t;
    infer_result r;
    if (bytes == 0) return INFER_OK;
    r = infer__hip_ready(q, "an upload", err);
    if (r) return r;
    if (INFER__HIP_DO(t, hipMemcpyHtoDAsync, (infer__hip_pointer(to + offset), src, (size_t)bytes, q->stream)))
        return INFER_OK;
    return infer__hip_failed(err, &t);
}

static infer_result infer__hip_download(void *queue, uint64_t from, uint64_t offset, void *dst, uint64_t bytes,
                                        infer_error *err) {
    infer__hip_queue *q = (infer__hip_queue *)queue;
    infer__hip_try t;
    infer_result r;
    if (bytes == 0) return INFER_OK;
    r = infer__hip_ready(q, "a download", err);
    if (r) return r;
    if (INFER__HIP_DO(t, hipMemcpyDtoHAsync, (dst, infer__hip_pointer(from + offset), (size_t)bytes, q->stream)))
        return INFER_OK;
    return infer__hip_failed(err, &t);
}

/* Within one buffer the two ranges must not overlap. */
static infer_result infer__hip_copy(void *queue, uint64_t to, uint64_t to_offset, uint64_t from, uint64_t from_offset,
                                    uint64_t bytes, infer_error *err) {
    infer__hip_queue *q = (infer__hip_queue *)queue;
    infer__hip_try t;
    if (bytes == 0) return INFER_OK;
    if (infer__hip_enter(q->device, &t) &&
        INFER__HIP_DO(t, hipMemcpyDtoDAsync, (infer__hip_pointer(to + to_offset),
                                              infer__hip_pointer(from + from_offset), (size_t)bytes, q->stream)))
        return INFER_OK;
    return infer__hip_failed(err, &t);
}

/* A pair of events for the next launch. They are kept for later ones. */
static infer_result infer__hip_pair_next(infer__hip_queue *q, infer__hip_pair **out, infer_error *err) {
    infer__hip_try t;
    infer__hip_pair *p;
    if (q->n_timed == q->cap) {
        int32_t cap = q->cap ? q->cap * 2 : 256;
        p = q->cap > INT32_MAX / 4 ? NULL
                                   : (infer__hip_pair *)infer__realloc(q->device->mem, q->pairs, (uint64_t)cap,
                                                                       sizeof *q->pairs);
        if (!p) return infer__error(err, INFER_ERR_MEMORY, "no memory for the times of %d launches", (int)cap);
        q->pairs = p;
        q->cap = cap;
    }
    p = &q->pairs[q->n_timed];
    if (q->n_timed == q->n_pairs) {
        p->from = p->to = NULL;
        if (!INFER__HIP_DO(t, hipEventCreateWithFlags, (&p->from, 0)) || !p->from) return infer__hip_failed(err, &t);
        if (!INFER__HIP_DO(t, hipEventCreateWithFlags, (&p->to, 0)) || !p->to) {
            infer__hip.api.hipEventDestroy(p->from);
            return infer__hip_failed(err, &t);
        }
        q->n_pairs++;
    }
    *out = p;
    return INFER_OK;
}

/* The kernel's arguments as it sees them: pointers of 8 bytes, then the struct. */
static infer_result infer__hip_launch(void *queue, void *kernel, const uint32_t *groups, int32_t group,
                                      const uint64_t *bufs, int32_t n_bufs, const void *args, uint32_t args_size,
                                      infer_error *err) {
    infer__hip_queue *q = (infer__hip_queue *)queue;
    uint64_t packed[128];
    size_t size = (size_t)n_bufs * sizeof *packed + args_size;
    infer__hip_pair *pair = NULL;
    infer__hip_try t;
    infer_result r;
    void *extra[5];
    if (groups[0] == 0 || groups[1] == 0 || groups[2] == 0) return INFER_OK;
    if ((uint64_t)groups[0] * (uint32_t)group > UINT32_MAX) /* the runtime takes no more */
        return infer__error(err, INFER_ERR_DEVICE, "%llu work-items are too many",
                            (unsigned long long)groups[0] * (uint32_t)group);
    if (size > sizeof packed)
        return infer__error(err, INFER_ERR_DEVICE, "%u bytes of arguments are too many", (unsigned)args_size);
    if (!infer__hip_enter(q->device, &t)) return infer__hip_failed(err, &t);
    if (n_bufs > 0) memcpy(packed, bufs, (size_t)n_bufs * sizeof *packed);
    if (args_size > 0) memcpy(packed + n_bufs, args, args_size);
    extra[0] = (void *)(uintptr_t)INFER__HIP_PARAM_POINTER;
    extra[1] = packed;
    extra[2] = (void *)(uintptr_t)INFER__HIP_PARAM_SIZE;
    extra[3] = &size;
    extra[4] = (void *)(uintptr_t)INFER__HIP_PARAM_END;
    if (q->timing && !q->recording) {
        r = infer__hip_pair_next(q, &pair, err);
        if (r) return r;
        if (!INFER__HIP_DO(t, hipEventRecord, (pair->from, q->stream))) return infer__hip_failed(err, &t);
    }
    if (!INFER__HIP_DO(t, hipModuleLaunchKernel, ((infer__hip_function)kernel, groups[0], groups[1], groups[2],
                                                  (uint32_t)group, 1, 1, 0, q->stream, NULL, extra)) ||
        (pair && !INFER__HIP_DO(t, hipEventRecord, (pair->to, q->stream))))
        return infer__hip_failed(err, &t);
    if (pair) q->n_timed++;
    return INFER_OK;
}

static infer_result infer__hip_sync(void *queue, infer_error *err) {
    infer__hip_queue *q = (infer__hip_queue *)queue;
    infer__hip_try t;
    infer_result r = infer__hip_ready(q, "a wait", err);
    if (INFER__HIP_DO(t, hipStreamSynchronize, (q->stream)) || r) return r;
    return infer__hip_failed(err, &t);
}

/* ---- recordings -------------------------------------------------------------------------------------------------- */

static infer_result infer__hip_record(void *queue, infer_error *err) {
    infer__hip_queue *q = (infer__hip_queue *)queue;
    const infer__hip_api *api = &infer__hip.api;
    infer__hip_try t;
    infer_result r;
    if (!api->hipStreamBeginCapture || !api->hipStreamEndCapture || !api->hipGraphDestroy ||
        !api->hipGraphInstantiateWithFlags || !api->hipGraphLaunch || !api->hipGraphExecDestroy)
        return infer__error(err, INFER_ERR_DEVICE, "this HIP runtime has no graphs");
    r = infer__hip_ready(q, "a second recording", err);
    if (r) return r;
    if (!INFER__HIP_DO(t, hipStreamBeginCapture, (q->stream, INFER__HIP_CAPTURE_RELAXED)))
        return infer__hip_failed(err, &t);
    q->recording = 1;
    return INFER_OK;
}

static infer_result infer__hip_record_end(void *queue, void **recording, infer_error *err) {
    infer__hip_queue *q = (infer__hip_queue *)queue;
    infer__hip_graph graph = NULL;
    infer__hip_exec exec = NULL;
    infer__hip_try t;
    int ok;
    *recording = NULL;
    if (!q->recording) return infer__error(err, INFER_ERR_DEVICE, "no recording was begun");
    if (!infer__hip_enter(q->device, &t)) return infer__hip_failed(err, &t);
    q->recording = 0;
    ok = INFER__HIP_DO(t, hipStreamEndCapture, (q->stream, &graph)) && graph &&
         INFER__HIP_DO(t, hipGraphInstantiateWithFlags, (&exec, graph, 0)) && exec;
    if (graph) infer__hip.api.hipGraphDestroy(graph);
    if (!ok) return infer__hip_failed(err, &t);
    *recording = exec;
    return INFER_OK;
}

static infer_result infer__hip_replay(void *queue, void *recording, infer_error *err) {
    infer__hip_queue *q = (infer__hip_queue *)queue;
    infer__hip_try t;
    infer_result r = infer__hip_ready(q, "a replay", err);
    if (r || INFER__HIP_DO(t, hipGraphLaunch, ((infer__hip_exec)recording, q->stream))) return r;
    return infer__hip_failed(err, &t);
}

static void infer__hip_recording_close(void *queue, void *recording) {
    infer__hip_queue *q = (infer__hip_queue *)queue;
    infer__hip_try t;
    if (!recording) return;
    infer__hip_enter(q->device, &t);
    if (!q->recording) infer__hip.api.hipStreamSynchronize(q->stream); /* it may still run */
    infer__hip.api.hipGraphExecDestroy((infer__hip_exec)recording);
}

/* ---- times ------------------------------------------------------------------------------------------------------- */

static infer_result infer__hip_timing(void *queue, int32_t on, infer_error *err) {
    infer__hip_queue *q = (infer__hip_queue *)queue;
    (void)err;
    q->timing = on != 0;
    if (!on) q->n_timed = 0;
    return INFER_OK;
}

static infer_result infer__hip_times(void *queue, double *seconds, int32_t cap, int32_t *n, infer_error *err) {
    infer__hip_queue *q = (infer__hip_queue *)queue;
    infer__hip_try t;
    int32_t i;
    float ms;
    *n = q->n_timed;
    q->n_timed = 0; /* after a failure too: these times are lost */
    if (!infer__hip_enter(q->device, &t)) return infer__hip_failed(err, &t);
    for (i = 0; i < *n && i < cap; i++) {
        ms = 0;
        if (!INFER__HIP_DO(t, hipEventElapsedTime, (&ms, q->pairs[i].from, q->pairs[i].to)))
            return infer__hip_failed(err, &t);
        seconds[i] = ms > 0 ? (double)ms / 1000 : 0; /* even if the clock was set back */
    }
    return INFER_OK;
}

static const infer__driver infer__hip_driver = {
    .name = "hip",
    .backend = INFER_HIP,
    .devices = infer__hip_devices,
    .info = infer__hip_info,
    .open = infer__hip_open,
    .close = infer__hip_close,
    .alloc = infer__hip_alloc,
    .release = infer__hip_release,
    .load = infer__hip_program_load,
    .unload = infer__hip_unload,
    .queue_open = infer__hip_queue_open,
    .queue_close = infer__hip_queue_close,
    .kernel_open = infer__hip_kernel_open,
    .kernel_close = infer__hip_kernel_close,
    .upload = infer__hip_upload,
    .download = infer__hip_download,
    .copy = infer__hip_copy,
    .launch = infer__hip_launch,
    .sync = infer__hip_sync,
    .form = INFER__FORM_HIP,
    .tier = infer__hip_tier,
    .memory = infer__hip_memory,
    .record = infer__hip_record,
    .record_end = infer__hip_record_end,
    .replay = infer__hip_replay,
    .recording_close = infer__hip_recording_close,
    .timing = infer__hip_timing,
    .times = infer__hip_times,
    .identity = infer__hip_identity,
};

#endif
