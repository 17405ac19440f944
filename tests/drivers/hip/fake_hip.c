/* fake_hip.c: a double of libamdhip64.so, runtime and compiler: what driver_hip.c calls, on this computer's CPU.
 *
 * Owns:  every hip* and hiprtc* function of the driver's tables. README.md here has the environment variables.
 * Rules: the strictest reading of AMD's documentation. Nothing that was queued happens before somebody waits for it; what
 *        a call needs of the host (but the arguments of a launch) must stay valid until then. A handle that is not one of
 *        the right kind, or is of another device than the thread's current one, is an error; so is a copy that
 *        leaves its memory. Misuse that a real runtime would not notice is told on stderr and ends the process at its exit
 *        with status 99, as what was not given back does.
 * Start: run (what an operation does), hipModuleLaunchKernel; fake_hiprtc.c for the compiler.
 */
#define _GNU_SOURCE
#include "fake_hip.h"
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- objects ------------------------------------------------------------------------------------------------------ */

typedef enum kind { MEMORY = 1, STREAM, EVENT, MODULE, GRAPH, EXEC, KINDS } kind;
static const char *const kinds[KINDS] = {"", "memory", "stream", "event", "module", "graph", "executable graph"};

enum { UPLOAD, DOWNLOAD, COPY, LAUNCH, RECORD };
typedef struct object object;
typedef struct op {
    int what, device;
    char *to;
    const char *from;
    size_t bytes;
    object *event;
    const hip_kernel *kernel;
    uint32_t grid[3], block[3];
    struct op *next;
    uint64_t args[]; /* of a launch: `bytes` of them */
} op;
typedef struct ops { op *first, **last; } ops; /* last is NULL in an empty list that was never used */

struct object {
    kind is;
    int device;
    object *next;
    char *at;          /* memory, and its size */
    size_t bytes;
    ops work;          /* of a stream or graph */
    int capturing, failed; /* a stream: failed is the code that every later call gets */
    double when;       /* of an event: < 0 not reached yet */
    const void *image; /* of a module: read when its first function is asked for */
    hip_code_object *code;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static object *objects;
static int misused;
static __thread int current; /* device */

void hip_misuse(const char *format, ...) {
    va_list list;
    va_start(list, format);
    fputs("fake hip: ", stderr);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    misused = 1;
}

static object *make(kind is) {
    object *o = (object *)calloc(1, sizeof *o);
    if (!o) return NULL;
    o->is = is;
    o->device = current;
    o->next = objects;
    objects = o;
    return o;
}

static object **find(const void *p, kind is) {
    object **at = &objects;
    while (*at && ((void *)*at != p || (*at)->is != is)) at = &(*at)->next;
    return at;
}
static object *check(const void *p, kind is) {
    object *o = *find(p, is);
    if (!o) hip_misuse("%p is no %s", p, kinds[is]);
    else if (o->device != current) hip_misuse("a %s of device %d while %d is current", kinds[is], o->device, current);
    return o && o->device == current ? o : NULL;
}

static void drop_ops(ops *w) {
    op *o, *next;
    for (o = w->first; o; o = next) {
        next = o->next;
        free(o);
    }
    w->first = NULL;
    w->last = NULL;
}

static void drop(object **at) {
    object *o = *at;
    *at = o->next;
    drop_ops(&o->work);
    free(o);
}

/* The memory that holds all these bytes. */
static object *memory_of(const void *p, size_t bytes) {
    const char *at = (const char *)p;
    object *o;
    for (o = objects; o; o = o->next)
        if (o->is == MEMORY && at >= o->at && at <= o->at + o->bytes && bytes <= o->bytes - (size_t)(at - o->at)) return o;
    return NULL;
}

static size_t used(int device) {
    size_t sum = 0;
    const object *o;
    for (o = objects; o; o = o->next)
        if (o->is == MEMORY && o->device == device) sum += o->bytes;
    return sum;
}

__attribute__((destructor)) static void at_exit(void) {
    int count[KINDS] = {0}, i;
    const object *o;
    for (o = objects; o; o = o->next) count[o->is]++;
    for (i = 1; i < KINDS; i++)
        if (count[i]) hip_misuse("%d of kind '%s' were not given back", count[i], kinds[i]);
    if (hip_programs()) hip_misuse("%d of kind 'hiprtc program' were not given back", hip_programs());
    fflush(NULL);
    if (misused) _exit(99);
}

/* ---- the environment ----------------------------------------------------------------------------------------------- */

static long number(const char *name, long without) {
    const char *s = getenv(name);
    return s && *s ? atol(s) : without;
}
static int devices(void) { return (int)number("FAKE_HIP_DEVICES", 1); }
static size_t memory(void) { return (size_t)number("FAKE_HIP_MEMORY", 4096) << 20; }

const char *hip_arch(void) {
    const char *s = getenv("FAKE_HIP_ARCH");
    return s && *s ? s : "gfx1100";
}

/* Waves of 64 up to gfx90c and in gfx94x and gfx95x, else of 32. */
int hip_width(void) {
    const char *arch = hip_arch();
    return (int)number("FAKE_HIP_WAVE", strlen(arch) > 6 && arch[6] >= '0' && arch[6] <= '9' ? 32 : 64);
}

/* FAKE_HIP_FAIL="hipMalloc:3=2,hipStreamSynchronize:1+=719": the third hipMalloc fails with 2, every wait with 719. */
static int fails(const char *name) {
    static struct { const char *name; long calls; } counts[64];
    const char *s = getenv("FAKE_HIP_FAIL");
    size_t n = strlen(name), i = 0;
    long calls, at;
    char *end;
    if (!s) return 0;
    while (i < 63 && counts[i].name && strcmp(counts[i].name, name) != 0) i++;
    counts[i].name = name;
    calls = ++counts[i].calls;
    for (; s; s = strchr(s, ',') ? strchr(s, ',') + 1 : NULL) {
        if (strncmp(s, name, n) != 0 || s[n] != ':') continue;
        at = strtol(s + n + 1, &end, 10);
        if (end[0] == '=' && calls == at) return atoi(end + 1);
        if (end[0] == '+' && end[1] == '=' && calls >= at) return atoi(end + 2);
    }
    return 0;
}
#define BEGIN(name) \
    int code_; \
    pthread_mutex_lock(&lock); \
    code_ = fails(#name); \
    if (code_) return leave(code_)
static int leave(int code) {
    pthread_mutex_unlock(&lock);
    return code;
}
int hip_fails(const char *name) {
    int code;
    pthread_mutex_lock(&lock);
    code = fails(name);
    pthread_mutex_unlock(&lock);
    return code;
}

/* ---- what was queued ------------------------------------------------------------------------------------------------ */

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int launch(const op *o) {
    void *args[1];
    fibers_launch l;
    char why[500];
    memset(&l, 0, sizeof l);
    args[0] = (void *)o->args;
    l.name = o->kernel->name;
    l.fn = o->kernel->run;
    l.args = args;
    memcpy(l.groups, o->grid, sizeof l.groups);
    memcpy(l.size, o->block, sizeof l.size);
    l.width = (uint32_t)hip_width();
    l.local_bytes = HIP_LOCAL;
    if (fibers_run(&l, why, sizeof why)) return 0;
    fprintf(stderr, "fake hip: %s\n", why);
    return HIP_LAUNCH_FAILURE;
}

static int run(const op *o) {
    switch (o->what) {
    case LAUNCH: return launch(o);
    case RECORD: o->event->when = now(); return 0;
    default: /* memory may be gone by now */
        if ((o->what != DOWNLOAD && !memory_of(o->to, o->bytes)) || (o->what != UPLOAD && !memory_of(o->from, o->bytes)))
            return HIP_INVALID_VALUE;
        if (o->what == COPY && o->to < o->from + o->bytes && o->from < o->to + o->bytes)
            hip_misuse("a copy onto itself");
        memmove(o->to, o->from, o->bytes);
        return 0;
    }
}

/* Everything of a stream; what follows a failure does not happen. */
static int run_all(object *s) {
    op *o;
    for (o = s->work.first; o && !s->failed; o = o->next) s->failed = run(o);
    drop_ops(&s->work);
    return s->failed;
}
static void run_streams(void) {
    object *s;
    for (s = objects; s; s = s->next)
        if (s->is == STREAM && !s->capturing) run_all(s);
}

static int put(ops *w, const op *o) {
    size_t args = o->what == LAUNCH ? o->bytes : 0;
    op *copy = (op *)malloc(sizeof *copy + args + sizeof(uint64_t));
    if (!copy) return HIP_OUT_OF_MEMORY;
    memcpy(copy, o, sizeof *o);
    if (args) memcpy(copy->args, o->args, args);
    copy->next = NULL;
    if (!w->first) w->last = &w->first;
    *w->last = copy;
    w->last = &copy->next;
    return 0;
}

/* An operation at the end of a stream. */
static int queue(void *stream, const op *o) {
    object *s = check(stream, STREAM);
    if (!s) return HIP_INVALID_HANDLE;
    return s->failed ? s->failed : put(&s->work, o);
}

static int transfer(int what, void *to, const void *from, size_t bytes, void *stream) {
    op o;
    memset(&o, 0, sizeof o);
    o.what = what;
    o.to = (char *)to;
    o.from = (const char *)from;
    o.bytes = bytes;
    if ((what != DOWNLOAD && !memory_of(to, bytes)) || (what != UPLOAD && !memory_of(from, bytes))) {
        hip_misuse("a transfer of %zu bytes outside of memory", bytes);
        return HIP_INVALID_VALUE;
    }
    return queue(stream, &o);
}

/* ---- devices ---------------------------------------------------------------------------------------------------------- */

int hipRuntimeGetVersion(int *version) {
    const char *s = getenv("FAKE_HIP_VERSION");
    int major = 6, minor = 4;
    BEGIN(hipRuntimeGetVersion);
    if (s) sscanf(s, "%d.%d", &major, &minor);
    *version = major * 10000000 + minor * 100000 + 1;
    return leave(0);
}

int hipGetDeviceCount(int *n) {
    BEGIN(hipGetDeviceCount);
    *n = devices();
    return leave(*n > 0 ? 0 : HIP_NO_DEVICE);
}

int hipSetDevice(int device) {
    BEGIN(hipSetDevice);
    if (device < 0 || device >= devices()) return leave(HIP_INVALID_DEVICE);
    current = device;
    return leave(0);
}

int hipDeviceGetAttribute(int *value, int what, int device) {
    BEGIN(hipDeviceGetAttribute);
    if (device < 0 || device >= devices()) return leave(HIP_INVALID_DEVICE);
    switch (what) {
    case 16: *value = 0; break;           /* integrated */
    case 56: *value = 1024; break;        /* work-items of a group */
    case 67: *value = 3 + device; break;  /* PCI bus */
    case 68: case 69: *value = 0; break;  /* PCI device, domain */
    case 74: *value = HIP_LOCAL; break;   /* bytes of memory of a group */
    default: return leave(HIP_INVALID_VALUE);
    }
    return leave(0);
}

/* The two layouts; device 0 has the most memory. */
static int properties(char *to, int device, size_t size, size_t arch) {
    if (device < 0 || device >= devices()) return HIP_INVALID_DEVICE;
    memset(to, 0, size);
    snprintf(to, 256, "Fake Radeon %d", device);
    snprintf(to + arch, 256, "%s", hip_arch());
    return 0;
}
int hipGetDeviceProperties(void *to, int device) {
    BEGIN(hipGetDeviceProperties);
    return leave(properties((char *)to, device, 792, 396));
}
int hipGetDevicePropertiesR0600(void *to, int device) {
    BEGIN(hipGetDevicePropertiesR0600);
    return leave(properties((char *)to, device, 1472, 1160));
}

int hipDeviceTotalMem(size_t *bytes, int device) {
    BEGIN(hipDeviceTotalMem);
    if (device < 0 || device >= devices()) return leave(HIP_INVALID_DEVICE);
    *bytes = memory() >> device;
    return leave(0);
}

int hipMemGetInfo(size_t *left, size_t *total) {
    BEGIN(hipMemGetInfo);
    *total = memory() >> current;
    *left = *total - used(current);
    return leave(0);
}

const char *hipGetErrorName(int code) {
    static const struct { int code; const char *name; } names[] = {
        {0, "hipSuccess"}, {HIP_INVALID_VALUE, "hipErrorInvalidValue"}, {HIP_OUT_OF_MEMORY, "hipErrorOutOfMemory"},
        {HIP_NO_DEVICE, "hipErrorNoDevice"}, {HIP_INVALID_DEVICE, "hipErrorInvalidDevice"},
        {HIP_INVALID_IMAGE, "hipErrorInvalidImage"}, {HIP_NO_BINARY, "hipErrorNoBinaryForGpu"},
        {HIP_INVALID_HANDLE, "hipErrorInvalidHandle"}, {HIP_NOT_FOUND, "hipErrorNotFound"},
        {HIP_NOT_READY, "hipErrorNotReady"}, {HIP_LAUNCH_FAILURE, "hipErrorLaunchFailure"},
        {HIP_CAPTURE_UNSUPPORTED, "hipErrorStreamCaptureUnsupported"}};
    size_t i;
    for (i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].code == code) return names[i].name;
    return "hipErrorUnknown";
}

/* ---- memory and copies -------------------------------------------------------------------------------------------------- */

int hipMalloc(void **p, size_t bytes) {
    object *o;
    BEGIN(hipMalloc);
    *p = NULL;
    if (bytes > (memory() >> current) - used(current)) return leave(HIP_OUT_OF_MEMORY);
    o = make(MEMORY);
    if (!o) return leave(HIP_OUT_OF_MEMORY);
    o->at = (char *)fibers_alloc(bytes);
    o->bytes = bytes;
    if (!o->at) {
        drop(find(o, MEMORY));
        return leave(HIP_OUT_OF_MEMORY);
    }
    *p = o->at;
    return leave(0);
}

/* Waits for everything first. */
int hipFree(void *p) {
    object *o;
    BEGIN(hipFree);
    if (!p) return leave(0);
    run_streams();
    o = memory_of(p, 0);
    if (!o || o->at != p || o->device != current) {
        hip_misuse("hipFree of what is no memory of device %d", current);
        return leave(HIP_INVALID_VALUE);
    }
    if (!fibers_free(p)) hip_misuse("memory of %zu bytes was written behind its end", o->bytes);
    drop(find(o, MEMORY));
    return leave(0);
}

int hipMemcpyHtoDAsync(void *to, const void *from, size_t bytes, void *stream) {
    BEGIN(hipMemcpyHtoDAsync);
    return leave(transfer(UPLOAD, to, from, bytes, stream));
}
int hipMemcpyDtoHAsync(void *to, const void *from, size_t bytes, void *stream) {
    BEGIN(hipMemcpyDtoHAsync);
    return leave(transfer(DOWNLOAD, to, from, bytes, stream));
}
int hipMemcpyDtoDAsync(void *to, const void *from, size_t bytes, void *stream) {
    BEGIN(hipMemcpyDtoDAsync);
    return leave(transfer(COPY, to, from, bytes, stream));
}

/* ---- streams, events, graphs ---------------------------------------------------------------------------------------------- */

int hipStreamCreateWithFlags(void **stream, unsigned flags) {
    BEGIN(hipStreamCreateWithFlags);
    *stream = NULL;
    if (flags > 1) return leave(HIP_INVALID_VALUE);
    *stream = make(STREAM);
    return leave(*stream ? 0 : HIP_OUT_OF_MEMORY);
}

int hipStreamDestroy(void *stream) {
    object *s;
    BEGIN(hipStreamDestroy);
    s = check(stream, STREAM);
    if (!s) return leave(HIP_INVALID_HANDLE);
    if (s->capturing) hip_misuse("hipStreamDestroy of a stream that is capturing");
    else run_all(s);
    drop(find(s, STREAM));
    return leave(0);
}

int hipStreamSynchronize(void *stream) {
    object *s;
    BEGIN(hipStreamSynchronize);
    s = check(stream, STREAM);
    if (!s) return leave(HIP_INVALID_HANDLE);
    if (s->capturing) return leave(HIP_CAPTURE_UNSUPPORTED);
    return leave(run_all(s));
}

int hipEventCreateWithFlags(void **event, unsigned flags) {
    object *e;
    BEGIN(hipEventCreateWithFlags);
    *event = NULL;
    if (flags > 3) return leave(HIP_INVALID_VALUE);
    e = make(EVENT);
    if (e) e->when = -1;
    *event = e;
    return leave(e ? 0 : HIP_OUT_OF_MEMORY);
}

int hipEventDestroy(void *event) {
    BEGIN(hipEventDestroy);
    if (!check(event, EVENT)) return leave(HIP_INVALID_HANDLE);
    run_streams();
    drop(find(event, EVENT));
    return leave(0);
}

int hipEventRecord(void *event, void *stream) {
    op o;
    BEGIN(hipEventRecord);
    memset(&o, 0, sizeof o);
    o.what = RECORD;
    o.event = check(event, EVENT);
    if (!o.event) return leave(HIP_INVALID_HANDLE);
    o.event->when = -1;
    return leave(queue(stream, &o));
}

int hipEventElapsedTime(float *ms, void *from, void *to) {
    object *a, *b;
    BEGIN(hipEventElapsedTime);
    a = check(from, EVENT);
    b = check(to, EVENT);
    if (!a || !b) return leave(HIP_INVALID_HANDLE);
    if (a->when < 0 || b->when < 0) return leave(HIP_NOT_READY);
    *ms = (float)((b->when - a->when) * 1000);
    return leave(0);
}

int hipStreamBeginCapture(void *stream, int mode) {
    object *s;
    BEGIN(hipStreamBeginCapture);
    s = check(stream, STREAM);
    if (!s || mode < 0 || mode > 2) return leave(HIP_INVALID_VALUE);
    if (s->capturing) return leave(HIP_ILLEGAL_STATE);
    run_all(s);
    if (s->failed) return leave(s->failed);
    s->capturing = 1;
    return leave(0);
}

int hipStreamEndCapture(void *stream, void **graph) {
    object *s, *g;
    BEGIN(hipStreamEndCapture);
    *graph = NULL;
    s = check(stream, STREAM);
    if (!s) return leave(HIP_INVALID_HANDLE);
    if (!s->capturing) return leave(HIP_ILLEGAL_STATE);
    s->capturing = 0;
    g = make(GRAPH);
    if (!g) return leave(HIP_OUT_OF_MEMORY);
    g->work = s->work;
    if (g->work.first == NULL) g->work.last = NULL;
    s->work.first = NULL;
    s->work.last = NULL;
    *graph = g;
    return leave(0);
}

static int copy_ops(ops *to, const ops *from) {
    const op *o;
    int code = 0;
    for (o = from->first; o && !code; o = o->next) code = put(to, o);
    return code;
}

int hipGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags) {
    object *g, *e;
    BEGIN(hipGraphInstantiateWithFlags);
    *exec = NULL;
    g = check(graph, GRAPH);
    if (!g || flags != 0) return leave(HIP_INVALID_VALUE);
    e = make(EXEC);
    if (!e) return leave(HIP_OUT_OF_MEMORY);
    *exec = e;
    return leave(copy_ops(&e->work, &g->work));
}

int hipGraphLaunch(void *exec, void *stream) {
    object *e, *s;
    BEGIN(hipGraphLaunch);
    e = check(exec, EXEC);
    s = check(stream, STREAM);
    if (!e || !s) return leave(HIP_INVALID_HANDLE);
    if (s->failed) return leave(s->failed);
    return leave(copy_ops(&s->work, &e->work));
}

int hipGraphDestroy(void *graph) {
    BEGIN(hipGraphDestroy);
    if (!check(graph, GRAPH)) return leave(HIP_INVALID_HANDLE);
    drop(find(graph, GRAPH));
    return leave(0);
}
int hipGraphExecDestroy(void *exec) {
    BEGIN(hipGraphExecDestroy);
    if (!check(exec, EXEC)) return leave(HIP_INVALID_HANDLE);
    drop(find(exec, EXEC));
    return leave(0);
}

/* ---- programs and launches ------------------------------------------------------------------------------------------------ */

/* Only the head is looked at yet: a runtime may build late, so the image has to stay. */
int hipModuleLoadData(void **module, const void *image) {
    object *m;
    int code;
    BEGIN(hipModuleLoadData);
    *module = NULL;
    code = hip_code_check(image);
    if (code) return leave(code);
    m = make(MODULE);
    if (!m) return leave(HIP_OUT_OF_MEMORY);
    m->image = image;
    *module = m;
    return leave(0);
}

int hipModuleUnload(void *module) {
    object *m;
    const object *s;
    const op *o;
    BEGIN(hipModuleUnload);
    m = check(module, MODULE);
    if (!m) return leave(HIP_INVALID_HANDLE);
    for (s = objects; s; s = s->next)
        for (o = s->work.first; o; o = o->next)
            if (o->what == LAUNCH && m->code && hip_code_has(m->code, o->kernel))
                hip_misuse("hipModuleUnload while a %s still has %s to run", kinds[s->is], o->kernel->name);
    run_streams();
    if (m->code) hip_code_close(m->code);
    drop(find(m, MODULE));
    return leave(0);
}

int hipModuleGetFunction(void **f, void *module, const char *name) {
    object *m;
    int code;
    BEGIN(hipModuleGetFunction);
    *f = NULL;
    m = check(module, MODULE);
    if (!m) return leave(HIP_INVALID_HANDLE);
    if (!m->code && (code = hip_code_open(&m->code, m->image)) != 0) return leave(code);
    *f = (void *)hip_code_kernel(m->code, name);
    return leave(*f ? 0 : HIP_NOT_FOUND);
}

/* The kernel, when it is one of a module of the current device. */
static const hip_kernel *kernel_of(const void *f) {
    const object *o;
    for (o = objects; o; o = o->next)
        if (o->is == MODULE && o->device == current && o->code && hip_code_has(o->code, (const hip_kernel *)f))
            return (const hip_kernel *)f;
    hip_misuse("%p is no function of device %d", f, current);
    return NULL;
}

int hipFuncGetAttribute(int *value, int what, const void *f) {
    const hip_kernel *k;
    BEGIN(hipFuncGetAttribute);
    k = kernel_of(f);
    if (!k || what != 0) return leave(HIP_INVALID_VALUE);
    *value = (int)k->most;
    return leave(0);
}

int hipModuleLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                          unsigned shared, void *stream, void **params, void **extra) {
    union { op o; char room[sizeof(op) + 4096]; } u;
    size_t bytes;
    BEGIN(hipModuleLaunchKernel);
    memset(&u.o, 0, sizeof u.o);
    u.o.what = LAUNCH;
    u.o.kernel = kernel_of(f);
    if (!u.o.kernel) return leave(HIP_INVALID_HANDLE);
    if (params || !extra || extra[0] != (void *)1 || extra[2] != (void *)2 || extra[4] != (void *)3 || shared)
        return leave(HIP_INVALID_VALUE);
    bytes = *(const size_t *)extra[3];
    if (bytes != u.o.kernel->bytes() || bytes > 4096) {
        hip_misuse("%s takes %zu bytes of arguments, there are %zu", u.o.kernel->name, u.o.kernel->bytes(), bytes);
        return leave(HIP_INVALID_VALUE);
    }
    if (gx == 0 || gy == 0 || gz == 0 || bx == 0 || by != 1 || bz != 1 || bx > u.o.kernel->most ||
        (uint64_t)gx * bx > UINT32_MAX || gy > UINT16_MAX || gz > UINT16_MAX)
        return leave(HIP_INVALID_VALUE);
    u.o.grid[0] = gx;
    u.o.grid[1] = gy;
    u.o.grid[2] = gz;
    u.o.block[0] = bx;
    u.o.block[1] = u.o.block[2] = 1;
    u.o.bytes = bytes;
    memcpy(u.o.args, extra[1], bytes);
    if (getenv("FAKE_HIP_WRONG") && strcmp(u.o.kernel->name, getenv("FAKE_HIP_WRONG")) == 0) return leave(0);
    return leave(queue(stream, &u.o));
}
