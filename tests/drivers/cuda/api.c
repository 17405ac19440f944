/* api.c: the way into every function, and devices, contexts, errors. What the environment can change is read here:
 *
 *   FAKE_CUDA_DEVICES=2  FAKE_CUDA_MEMORY=512M  FAKE_CUDA_CAPABILITY=80  FAKE_CUDA_DRIVER=12020  FAKE_CUDA_THREADS=4
 *   FAKE_CUDA_STUB=1     every function answers 34
 *   FAKE_CUDA_FAIL=cuMemAlloc_v2:3=2,cuLaunchKernel:10=719    the n-th call of a function answers that; a change counts anew
 *   FAKE_CUDA_STATS=1    at the end: how much was run, and how fast
 *   FAKE_CUDA_LOG=file   messages go there instead of stderr: what kernels did wrong, what was not freed
 */
#define _GNU_SOURCE
#include "fake.h"
#include <dlfcn.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int initialised;
object *fake_objects[K_KINDS];
char fake_text[600];

enum { STACK = 16, MAX_DEVICES = 8 };
static __thread context *stack[STACK];
static __thread int depth;
static context *primary[MAX_DEVICES];

long long fake_number(const char *name, long long otherwise) {
    const char *s = getenv(name);
    char *end;
    long long n;
    if (!s || !*s) return otherwise;
    n = strtoll(s, &end, 0);
    if (*end == 'K') n <<= 10;
    if (*end == 'M') n <<= 20;
    if (*end == 'G') n <<= 30;
    return n;
}
int fake_capability(void) { return (int)fake_number("FAKE_CUDA_CAPABILITY", 61); }
int fake_driver(void) { return (int)fake_number("FAKE_CUDA_DRIVER", 12040); }
int fake_devices(void) {
    int n = (int)fake_number("FAKE_CUDA_DEVICES", 1);
    return n < 0 ? 0 : n > MAX_DEVICES ? MAX_DEVICES : n;
}
/* The PTX that a driver reads: 9.0 read 6.0, 10.0 6.3, and from then on in step. */
int fake_max_ptx(void) {
    int d = fake_driver(), major = d / 1000, minor = d % 1000 / 10;
    if (major < 9) return 50;
    if (major == 9) return 60 + (minor > 2 ? 2 : minor);
    if (major == 10) return 63 + (minor > 2 ? 2 : minor);
    if (major == 11) return 70 + (minor > 8 ? 8 : minor);
    if (major == 12) return 80 + (minor > 5 ? minor - 1 : minor);
    return 90 + minor;
}

void fake_log(const char *format, ...) {
    const char *path = getenv("FAKE_CUDA_LOG");
    FILE *f = path && *path ? fopen(path, "a") : stderr;
    va_list v;
    if (!f) f = stderr;
    fputs("fake cuda: ", f);
    va_start(v, format);
    vfprintf(f, format, v);
    va_end(v);
    fputs("\n", f);
    if (f != stderr) fclose(f);
}

double fake_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* ---- planned errors -------------------------------------------------------------------------------------------------- */

static struct { char name[64]; int at, code, calls; } plans[32];
static int nplans;
static char planned[1024];

static int planned_error(const char *name) {
    const char *s = getenv("FAKE_CUDA_FAIL");
    int k;
    if (!s) s = "";
    if (strncmp(s, planned, sizeof planned - 1)) {
        snprintf(planned, sizeof planned, "%s", s);
        for (nplans = 0; *s && nplans < 32;) {
            int used = 0;
            if (sscanf(s, "%63[^:,]:%d=%d%n", plans[nplans].name, &plans[nplans].at, &plans[nplans].code, &used) != 3) {
                fake_log("FAKE_CUDA_FAIL is not function:n=code at '%s'", s);
                break;
            }
            plans[nplans++].calls = 0;
            s += used;
            s += *s == ',';
        }
    }
    for (k = 0; k < nplans; k++)
        if (!strcmp(plans[k].name, name) && ++plans[k].calls == plans[k].at) return plans[k].code;
    return 0;
}

int fake_is_sticky(int code) {
    return code == 700 || code == 702 || code == 710 || (code >= 714 && code <= 719) || code == 214 || code == 999;
}
void fake_stick(context *c, int code) {
    if (c && fake_is_sticky(code) && !c->sticky) c->sticky = code;
}

/* ---- in and out --------------------------------------------------------------------------------------------------------- */

context *fake_current(void) { return depth ? stack[depth - 1] : NULL; }

int fake_enter(const char *name, int needs, int *free_anyway) {
    int code;
    context *c;
    pthread_mutex_lock(&lock);
    if (fake_number("FAKE_CUDA_STUB", 0)) return E_STUB;
    code = planned_error(name);
    c = fake_current();
    if (c && !fake_find(K_CONTEXT, c)) c = NULL;
    if (code) {
        fake_stick(c, code);
        return code;
    }
    if (needs && !initialised) return E_NOT_INITIALIZED;
    if (needs & NEED_CTX) {
        if (!c) return E_INVALID_CONTEXT;
        if (c->sticky && needs & IS_FREE) *free_anyway = c->sticky;
        else if (c->sticky) return c->sticky;
    }
    return 0;
}
int fake_leave(int rc) {
    pthread_mutex_unlock(&lock);
    return rc;
}

void fake_add(object *o, int kind, context *c) {
    o->kind = kind, o->ctx = c;
    o->next = fake_objects[kind];
    fake_objects[kind] = o;
}
void fake_remove(object *o) {
    object **p = &fake_objects[o->kind];
    while (*p && *p != o) p = &(*p)->next;
    if (*p) *p = o->next;
}
object *fake_find(int kind, const void *handle) {
    object *o = fake_objects[kind];
    while (o && (const void *)o != handle) o = o->next;
    return o;
}

/* For tests: what the last kernel that failed did wrong; how many allocations and handles there are. */
API const char *fake_cuda_message(void);
API const char *fake_cuda_message(void) { return fake_text; }
static int live(int say) {
    static const char *const names[] = {"contexts", "streams",           "events",     "modules", "",
                                        "graphs",   "executable graphs", "link states"};
    int k, n, all = 0;
    for (k = 0; k < K_KINDS; k++) {
        n = 0;
        for (object *o = fake_objects[k]; o; o = o->next)
            n += k != K_FUNCTION && !(k == K_STREAM && o->ctx->null == (stream *)o);
        if (n && say) fake_log("%d %s were not freed", n, names[k]);
        all += n;
    }
    n = fake_leaked_memory();
    if (n && say) fake_log("%d allocations were not freed", n);
    return all + n;
}
API int fake_cuda_live(void);
API int fake_cuda_live(void) {
    int n;
    pthread_mutex_lock(&lock);
    n = live(0);
    pthread_mutex_unlock(&lock);
    return n;
}
__attribute__((destructor)) static void at_exit(void) {
    live(1);
    if (fake_number("FAKE_CUDA_STATS", 0)) fake_say_work();
}

/* ---- devices --------------------------------------------------------------------------------------------------------------- */

API int cuInit(unsigned flags);
API int cuInit(unsigned flags) {
    ENTER(0);
    REQUIRE(flags == 0, E_INVALID_VALUE);
    REQUIRE(fake_devices() > 0, E_NO_DEVICE);
    initialised = 1;
    LEAVE(0);
}
API int cuDriverGetVersion(int *version);
API int cuDriverGetVersion(int *version) {
    ENTER(0);
    REQUIRE(version, E_INVALID_VALUE);
    *version = fake_driver();
    LEAVE(0);
}
API int cuDeviceGetCount(int *n);
API int cuDeviceGetCount(int *n) {
    ENTER(NEED_INIT);
    REQUIRE(n, E_INVALID_VALUE);
    *n = fake_devices();
    LEAVE(0);
}
API int cuDeviceGet(int *device, int ordinal);
API int cuDeviceGet(int *device, int ordinal) {
    ENTER(NEED_INIT);
    REQUIRE(device, E_INVALID_VALUE);
    REQUIRE(ordinal >= 0 && ordinal < fake_devices(), E_INVALID_DEVICE);
    *device = ordinal;
    LEAVE(0);
}
#define DEVICE(d) \
    ENTER(NEED_INIT); \
    REQUIRE((d) >= 0 && (d) < fake_devices(), E_INVALID_DEVICE)
API int cuDeviceGetName(char *name, int size, int d);
API int cuDeviceGetName(char *name, int size, int d) {
    DEVICE(d);
    REQUIRE(name && size > 0, E_INVALID_VALUE);
    snprintf(name, (size_t)size, "Fake CUDA device %d", d);
    LEAVE(0);
}
API int cuDeviceTotalMem_v2(size_t *bytes, int d);
API int cuDeviceTotalMem_v2(size_t *bytes, int d) {
    DEVICE(d);
    REQUIRE(bytes, E_INVALID_VALUE);
    *bytes = (size_t)fake_number("FAKE_CUDA_MEMORY", 4ll << 30);
    LEAVE(0);
}
static int uuid(unsigned char *out, int d) {
    for (int k = 0; k < 16; k++) out[k] = (unsigned char)(k * 17 + 1);
    out[15] = (unsigned char)d;
    return 0;
}
API int cuDeviceGetUuid(void *out, int d);
API int cuDeviceGetUuid(void *out, int d) {
    DEVICE(d);
    REQUIRE(out, E_INVALID_VALUE);
    LEAVE(uuid(out, d));
}
API int cuDeviceGetUuid_v2(void *out, int d);
API int cuDeviceGetUuid_v2(void *out, int d) {
    DEVICE(d);
    REQUIRE(out, E_INVALID_VALUE);
    LEAVE(uuid(out, d));
}
API int cuDeviceGetPCIBusId(char *out, int size, int d);
API int cuDeviceGetPCIBusId(char *out, int size, int d) {
    DEVICE(d);
    REQUIRE(out && size >= 13, E_INVALID_VALUE);
    snprintf(out, (size_t)size, "0000:%02X:00.0", d + 1);
    LEAVE(0);
}
API int cuDeviceGetAttribute(int *value, int what, int d);
API int cuDeviceGetAttribute(int *value, int what, int d) {
    int cc;
    DEVICE(d);
    REQUIRE(value, E_INVALID_VALUE);
    cc = fake_capability();
    switch (what) {
    case 1: case 2: case 3: *value = 1024; break;     /* threads of a block, x, y */
    case 4: *value = 64; break;
    case 5: *value = 0x7fffffff; break;               /* blocks of a grid */
    case 6: case 7: *value = 65535; break;
    case 8: *value = 49152; break;                    /* shared memory of a block */
    case 9: *value = 65536; break;                    /* constants */
    case 10: *value = 32; break;                      /* warp */
    case 11: *value = 0x7fffffff; break;
    case 12: case 82: *value = 65536; break;          /* registers */
    case 13: *value = 1500000; break;                 /* clock, kHz */
    case 15: case 19: case 31: case 41: case 78: case 83: case 90: case 95: case 99: *value = 1; break;
    case 16: *value = 16; break;                      /* multiprocessors */
    case 17: case 18: case 20: case 32: case 35: case 50: *value = 0; break;
    case 33: *value = d + 1; break;                   /* PCI bus */
    case 34: *value = 0; break;
    case 36: *value = 7000000; break;
    case 37: *value = 256; break;
    case 38: *value = 4 << 20; break;
    case 39: *value = cc == 86 || cc == 89 ? 1536 : 2048; break;
    case 40: *value = 2; break;
    case 75: *value = cc / 10; break;
    case 76: *value = cc % 10; break;
    case 81: *value = cc >= 90 ? 233472 : cc >= 80 ? 167936 : 98304; break;
    case 87: *value = 32; break;
    case 97: *value = cc >= 90 ? 232448 : cc >= 80 ? 166912 : cc >= 70 ? 98304 : 49152; break;
    case 106: *value = 32; break;
    case 111: *value = cc >= 80 ? 1024 : 0; break;
    case 115: *value = 0; break;                      /* memory pools */
    case 120: *value = cc >= 90; break;
    default:
        REQUIRE(what > 0 && what < 145, E_INVALID_VALUE);
        *value = 0;
    }
    LEAVE(0);
}

/* ---- contexts ----------------------------------------------------------------------------------------------------------------- */

API int cuDevicePrimaryCtxRetain(void **out, int d);
API int cuDevicePrimaryCtxRetain(void **out, int d) {
    DEVICE(d);
    REQUIRE(out, E_INVALID_VALUE);
    if (!primary[d]) {
        context *c = calloc(1, sizeof *c);
        REQUIRE(c, E_OUT_OF_MEMORY);
        c->device = d;
        fake_add(&c->o, K_CONTEXT, c);
        c->null = fake_new_stream(c, 1);
        primary[d] = c;
    }
    primary[d]->refs++;
    *out = primary[d];
    LEAVE(0);
}
API int cuDevicePrimaryCtxGetState(int d, unsigned *flags, int *active);
API int cuDevicePrimaryCtxGetState(int d, unsigned *flags, int *active) {
    DEVICE(d);
    REQUIRE(flags && active, E_INVALID_VALUE);
    *flags = 0;
    *active = primary[d] != NULL;
    LEAVE(0);
}
static void destroy_context(context *c) {
    int lost = 0;
    if (!c->sticky) fake_drain_context(c, 0);
    for (int k = 1; k < K_KINDS; k++)
        for (object *o = fake_objects[k], *next; o; o = next) {
            next = o->next;
            if (o->ctx != c) continue;
            lost += !c->sticky && k != K_FUNCTION && (stream *)o != c->null;
            fake_remove(o);
            if (k == K_MODULE) ptx_free(((module *)o)->m);
            free(o); /* what waits on a stream is lost with it */
        }
    if (lost) fake_log("a context ended with %d streams, events, modules or graphs in it", lost);
    fake_release_memory(c->device);
    primary[c->device] = NULL;
    fake_remove(&c->o);
    free(c);
}
API int cuDevicePrimaryCtxRelease_v2(int d);
API int cuDevicePrimaryCtxRelease_v2(int d) {
    DEVICE(d);
    REQUIRE(primary[d], E_INVALID_CONTEXT);
    if (--primary[d]->refs == 0) destroy_context(primary[d]);
    LEAVE(0);
}
API int cuDevicePrimaryCtxRelease(int d); /* the older name, which drivers also have */
API int cuDevicePrimaryCtxRelease(int d) {
    DEVICE(d);
    REQUIRE(primary[d], E_INVALID_CONTEXT);
    if (--primary[d]->refs == 0) destroy_context(primary[d]);
    LEAVE(0);
}
API int cuCtxPushCurrent_v2(void *c);
API int cuCtxPushCurrent_v2(void *c) {
    ENTER(NEED_INIT);
    REQUIRE(c && fake_find(K_CONTEXT, c), E_INVALID_CONTEXT);
    REQUIRE(depth < STACK, E_INVALID_VALUE);
    stack[depth++] = c;
    LEAVE(0);
}
API int cuCtxPopCurrent_v2(void **c);
API int cuCtxPopCurrent_v2(void **c) {
    ENTER(NEED_INIT);
    REQUIRE(depth > 0, E_INVALID_CONTEXT);
    depth--;
    if (c) *c = stack[depth];
    LEAVE(0);
}
API int cuCtxSetCurrent(void *c);
API int cuCtxSetCurrent(void *c) {
    ENTER(NEED_INIT);
    REQUIRE(!c || fake_find(K_CONTEXT, c), E_INVALID_CONTEXT);
    if (!c) {
        if (depth) depth--;
    } else {
        if (!depth) depth = 1;
        stack[depth - 1] = c;
    }
    LEAVE(0);
}
API int cuCtxGetCurrent(void **c);
API int cuCtxGetCurrent(void **c) {
    ENTER(NEED_INIT);
    REQUIRE(c, E_INVALID_VALUE);
    *c = fake_current();
    LEAVE(0);
}
API int cuCtxGetDevice(int *d);
API int cuCtxGetDevice(int *d) {
    ENTER(NEED_CTX);
    REQUIRE(d, E_INVALID_VALUE);
    *d = fake_current()->device;
    LEAVE(0);
}

/* ---- errors -------------------------------------------------------------------------------------------------------------------- */

static const struct { int code; const char *name, *text; } errors[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {34, "CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
    {214, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"},
    {218, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the provided PTX was compiled with an unsupported toolchain."},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {401, "CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {600, "CUDA_ERROR_NOT_READY", "device not ready"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
    {702, "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated"},
    {712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "part or all of the requested memory range is already mapped"},
    {713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "pointer does not correspond to a registered memory region"},
    {716, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
    {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"},
    {904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work"},
    {906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", "operation would make the legacy stream depend on a capturing blocking stream"},
    {907, "CUDA_ERROR_CAPTURED_EVENT", "operation not permitted on an event last recorded in a capturing stream"},
    {908, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", "attempt to terminate a thread-local capture sequence from another thread"},
    {999, "CUDA_ERROR_UNKNOWN", "unknown error"},
};
static int error_row(int code) {
    for (size_t k = 0; k < sizeof errors / sizeof *errors; k++)
        if (errors[k].code == code) return (int)k;
    return -1;
}
API int cuGetErrorName(int code, const char **out);
API int cuGetErrorName(int code, const char **out) {
    int k = error_row(code);
    if (!out) return E_INVALID_VALUE;
    *out = k < 0 ? NULL : errors[k].name;
    return k < 0 ? E_INVALID_VALUE : 0;
}
API int cuGetErrorString(int code, const char **out);
API int cuGetErrorString(int code, const char **out) {
    int k = error_row(code);
    if (!out) return E_INVALID_VALUE;
    *out = k < 0 ? NULL : errors[k].text;
    return k < 0 ? E_INVALID_VALUE : 0;
}

/* The newest form of a function: cuMemAlloc is cuMemAlloc_v2. Only what this library exports is found. */
API int cuGetProcAddress_v2(const char *name, void **out, int version, unsigned long long flags, int *status);
API int cuGetProcAddress_v2(const char *name, void **out, int version, unsigned long long flags, int *status) {
    Dl_info self;
    void *handle;
    char longer[128];
    (void)version, (void)flags;
    if (!name || !out) return E_INVALID_VALUE;
    *out = NULL;
    if (status) *status = 1;
    if (!strncmp(name, "fake_", 5) || !dladdr((void *)cuInit, &self) ||
        !(handle = dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD)))
        return E_NOT_FOUND;
    snprintf(longer, sizeof longer, "%s_v2", name);
    if (strcmp(name, "cuGetProcAddress") || version >= 12000) *out = dlsym(handle, longer);
    if (!*out) *out = dlsym(handle, name);
    dlclose(handle);
    if (*out && status) *status = 0;
    return *out ? 0 : E_NOT_FOUND;
}
API int cuGetProcAddress(const char *name, void **out, int version, unsigned long long flags);
API int cuGetProcAddress(const char *name, void **out, int version, unsigned long long flags) {
    return cuGetProcAddress_v2(name, out, version, flags, NULL);
}
