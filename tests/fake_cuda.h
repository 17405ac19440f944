/* fake_cuda.h: a small made-up libcuda for tests of the CUDA driver: the functions of INFER__CU_FUNCTIONS over the host's
 * memory.
 *
 * Owns:  fakecu: its devices, what lives, what is on its way, which call fails with what; fakecu_table.
 * Rules: copies, launches and events of a stream happen when somebody waits for it, in order. Device memory is malloc's,
 *        so that a sanitizer sees steps beside it. A call that releases something does so even when it fails. Calls but
 *        those that make a context current want one that is. One kernel computes: k_scale, y[i] = x[i] * by.
 * Start: fakecu_reset, fakecu_call, fakecu_closed.
 */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

enum { FAKECU_CONTEXT, FAKECU_STREAM, FAKECU_EVENT, FAKECU_MODULE, FAKECU_MEMORY, FAKECU_PINNED, FAKECU_LINK,
       FAKECU_GRAPH, FAKECU_EXEC, FAKECU_KINDS };
enum { FAKECU_DEVICES = 8, FAKECU_OPS = 4096, FAKECU_DEPTH = 8, FAKECU_PARAMS = 64 };
#define FAKECU_PTX ".version 6.0\n.target sm_61\n.address_size 64\n.visible .entry k_scale(\n)\n{\n}\n"

typedef struct fakecu_device {
    const char *name;
    int major, minor, integrated, mode, pci[3];
    size_t total;
} fakecu_device;
typedef struct fakecu_event { long at; } fakecu_event; /* when it was reached; 0 = not yet */
typedef struct fakecu_op {
    void *dst;
    const void *src;
    size_t bytes;
    fakecu_event *event;
    int launch;
    uint64_t params[FAKECU_PARAMS / 8];
} fakecu_op;
typedef struct fakecu_list { int n; fakecu_op ops[FAKECU_OPS]; } fakecu_list; /* a stream, a graph, an exec */
typedef struct fakecu_text { char *text; } fakecu_text;                      /* a module, a link */

static struct {
    fakecu_device devices[FAKECU_DEVICES];
    int n, version;
    int live[FAKECU_KINDS];
    int refs[FAKECU_DEVICES], made; /* of primary contexts: who keeps each; how many were made */
    infer__cu_context stack[FAKECU_DEPTH], current;
    int depth;
    long calls, fail_at;     /* the call in a row that fails, 0 = none */
    const char *fail_name;   /* and calls of this name, but for the first fail_after */
    int fail_after, fail_code, sticky; /* sticky: what every call of a context answers */
    const char *failed;      /* what failed last */
    int nameless;            /* codes have no names */
    int refuse_binary, compiled, links;
    unsigned shared; /* bytes of shared memory that launches ask for */
    int early;       /* launches that may begin early */
    fakecu_list *stream, *capture; /* the one that is there; what is being captured */
    long clock;
} fakecu;
static int fakecu_contexts[FAKECU_DEVICES + 1];
#define FAKECU_HOST ((infer__cu_context)(void *)&fakecu_contexts[FAKECU_DEVICES])

static void fakecu_reset(int n) {
    int i;
    memset(&fakecu, 0, sizeof fakecu);
    fakecu.n = n;
    fakecu.version = 12040;
    fakecu.fail_code = 1;
    for (i = 0; i < n; i++) {
        fakecu.devices[i].name = "Fake";
        fakecu.devices[i].major = 8;
        fakecu.devices[i].total = (size_t)1 << 30;
        fakecu.devices[i].pci[1] = i;
    }
    fakecu.stack[fakecu.depth++] = fakecu.current = FAKECU_HOST; /* the host uses CUDA too */
}
static void fakecu_closed(void) {
    static const char *const names[] = {"contexts", "streams", "events", "modules", "memory", "pinned memory", "links",
                                        "graphs", "execs"};
    int i;
    for (i = 0; i < FAKECU_KINDS; i++) {
        check_detail = names[i];
        CHECK(fakecu.live[i] == 0);
    }
    check_detail = "";
    CHECK(fakecu.current == FAKECU_HOST && fakecu.depth == 1);
}

/* Calls whose failure is ignored. */
static int fakecu_releases(const char *name) {
    static const char *const names[] = {
        "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2", "cuMemFree_v2", "cuMemFreeHost", "cuModuleUnload",
        "cuStreamDestroy_v2", "cuStreamSynchronize", "cuEventDestroy_v2", "cuDevicePrimaryCtxRelease", "cuGraphDestroy",
        "cuGraphExecDestroy", "cuLinkDestroy"};
    size_t i;
    for (i = 0; i < INFER__COUNT(names); i++)
        if (strcmp(name, names[i]) == 0) return 1;
    return 0;
}
enum { FAKECU_ANYWHERE, FAKECU_INSIDE }; /* INSIDE: a context must be current */
static int fakecu_call(const char *name, int where) {
    fakecu.calls++;
    if (where == FAKECU_INSIDE && !fakecu_releases(name)) CHECK(fakecu.current != FAKECU_HOST);
    if (where == FAKECU_INSIDE && fakecu.sticky) {
        fakecu.failed = name;
        return fakecu.sticky;
    }
    if (fakecu.calls != fakecu.fail_at) {
        if (!fakecu.fail_name || strcmp(fakecu.fail_name, name) != 0) return 0;
        if (fakecu.fail_after > 0) {
            fakecu.fail_after--;
            return 0;
        }
    }
    fakecu.failed = name;
    return fakecu.fail_code;
}
#define FAKECU(name, args) static infer__cu_code INFER__CU_CALL fake_##name args
#define FAKECU_ENTER(name, where) do { int code_ = fakecu_call(#name, where); if (code_) return code_; } while (0)

/* ---- devices and contexts ---------------------------------------------------------------------------------------- */

FAKECU(cuInit, (unsigned flags)) {
    CHECK(flags == 0);
    FAKECU_ENTER(cuInit, FAKECU_ANYWHERE);
    return 0;
}
FAKECU(cuDriverGetVersion, (int *version)) {
    FAKECU_ENTER(cuDriverGetVersion, FAKECU_ANYWHERE);
    *version = fakecu.version;
    return 0;
}
FAKECU(cuGetErrorName, (infer__cu_code code, const char **name)) {
    static char text[4][24];
    static int at;
    if (fakecu.nameless) return 34;
    at = (at + 1) % 4;
    snprintf(text[at], sizeof text[0], "FAKE_%d", (int)code);
    *name = text[at];
    return 0;
}
FAKECU(cuDeviceGetCount, (int *n)) {
    FAKECU_ENTER(cuDeviceGetCount, FAKECU_ANYWHERE);
    *n = fakecu.n;
    return 0;
}
FAKECU(cuDeviceGet, (infer__cu_device *d, int i)) {
    FAKECU_ENTER(cuDeviceGet, FAKECU_ANYWHERE);
    *d = i;
    return 0;
}
FAKECU(cuDeviceGetName, (char *name, int cap, infer__cu_device d)) {
    FAKECU_ENTER(cuDeviceGetName, FAKECU_ANYWHERE);
    if (!fakecu.devices[d].name) return 1;
    snprintf(name, (size_t)cap, "%s", fakecu.devices[d].name);
    return 0;
}
FAKECU(cuDeviceGetAttribute, (int *value, int what, infer__cu_device d)) {
    const fakecu_device *f = &fakecu.devices[d];
    FAKECU_ENTER(cuDeviceGetAttribute, FAKECU_ANYWHERE);
    switch (what) {
    case INFER__CU_MAJOR: *value = f->major; return 0;
    case INFER__CU_MINOR: *value = f->minor; return 0;
    case INFER__CU_INTEGRATED: *value = f->integrated; return 0;
    case INFER__CU_COMPUTE_MODE: *value = f->mode; return 0;
    case INFER__CU_PROCESSORS: *value = 4; return 0;
    case INFER__CU_PCI_DOMAIN: *value = f->pci[0]; return 0;
    case INFER__CU_PCI_BUS: *value = f->pci[1]; return 0;
    case INFER__CU_PCI_DEVICE: *value = f->pci[2]; return 0;
    default: CHECK(!"known attribute"); return 1;
    }
}
FAKECU(cuDeviceTotalMem_v2, (size_t *bytes, infer__cu_device d)) {
    FAKECU_ENTER(cuDeviceTotalMem_v2, FAKECU_ANYWHERE);
    *bytes = fakecu.devices[d].total;
    return 0;
}
FAKECU(cuDevicePrimaryCtxRetain, (infer__cu_context *c, infer__cu_device d)) {
    FAKECU_ENTER(cuDevicePrimaryCtxRetain, FAKECU_ANYWHERE);
    *c = (infer__cu_context)(void *)&fakecu_contexts[d];
    fakecu.live[FAKECU_CONTEXT]++;
    fakecu.made += fakecu.refs[d]++ == 0;
    return 0;
}
FAKECU(cuDevicePrimaryCtxGetState, (infer__cu_device d, unsigned *flags, int *active)) {
    FAKECU_ENTER(cuDevicePrimaryCtxGetState, FAKECU_ANYWHERE);
    *flags = 0;
    *active = fakecu.refs[d] > 0;
    return 0;
}
FAKECU(cuDevicePrimaryCtxRelease, (infer__cu_device d)) {
    CHECK(d >= 0 && d < fakecu.n && fakecu.live[FAKECU_CONTEXT]-- > 0 && fakecu.refs[d]-- > 0);
    FAKECU_ENTER(cuDevicePrimaryCtxRelease, FAKECU_ANYWHERE);
    return 0;
}
FAKECU(cuCtxPushCurrent_v2, (infer__cu_context c)) {
    FAKECU_ENTER(cuCtxPushCurrent_v2, FAKECU_ANYWHERE);
    CHECK(fakecu.depth < FAKECU_DEPTH && fakecu.live[FAKECU_CONTEXT] > 0);
    if (fakecu.depth == FAKECU_DEPTH) fakecu.depth--;
    fakecu.stack[fakecu.depth++] = fakecu.current = c;
    return 0;
}
FAKECU(cuCtxPopCurrent_v2, (infer__cu_context *c)) {
    CHECK(fakecu.depth > 1);
    *c = fakecu.stack[--fakecu.depth];
    fakecu.current = fakecu.stack[fakecu.depth - 1];
    FAKECU_ENTER(cuCtxPopCurrent_v2, FAKECU_ANYWHERE);
    return 0;
}

/* ---- what is on its way ------------------------------------------------------------------------------------------ */

static void fakecu_do(const fakecu_op *op) {
    fakecu.clock++;
    if (op->event) op->event->at = fakecu.clock;
    else if (!op->launch) memcpy(op->dst, op->src, op->bytes);
    else {
        const float *x = (const float *)(uintptr_t)op->params[0];
        float *y = (float *)(uintptr_t)op->params[1], by;
        uint32_t i, n;
        memcpy(&n, &op->params[2], 4);
        memcpy(&by, (const char *)&op->params[2] + 4, 4);
        for (i = 0; i < n; i++) y[i] = x[i] * by;
    }
}
static void fakecu_run(void) {
    int i;
    if (!fakecu.stream) return;
    for (i = 0; i < fakecu.stream->n && !fakecu.sticky; i++) fakecu_do(&fakecu.stream->ops[i]);
    fakecu.stream->n = 0;
}
static void fakecu_put(infer__cu_stream s, const fakecu_op *op) {
    fakecu_list *to = fakecu.capture ? fakecu.capture : fakecu.stream;
    CHECK((void *)s == fakecu.stream && to->n < FAKECU_OPS);
    if (to->n < FAKECU_OPS) to->ops[to->n++] = *op;
}
static infer__cu_code fakecu_copy(void *dst, const void *src, size_t bytes, infer__cu_stream s) {
    fakecu_op op;
    memset(&op, 0, sizeof op);
    op.dst = dst;
    op.src = src;
    op.bytes = bytes;
    CHECK(bytes > 0);
    fakecu_put(s, &op);
    return 0;
}

FAKECU(cuStreamCreate, (infer__cu_stream *s, unsigned flags)) {
    FAKECU_ENTER(cuStreamCreate, FAKECU_INSIDE);
    CHECK(!fakecu.stream && flags == 1);
    fakecu.stream = (fakecu_list *)calloc(1, sizeof *fakecu.stream);
    fakecu.live[FAKECU_STREAM]++;
    *s = (infer__cu_stream)(void *)fakecu.stream;
    return 0;
}
FAKECU(cuStreamDestroy_v2, (infer__cu_stream s)) {
    CHECK((void *)s == fakecu.stream && fakecu.live[FAKECU_STREAM]-- > 0 && !fakecu.capture);
    free(fakecu.stream);
    fakecu.stream = NULL;
    FAKECU_ENTER(cuStreamDestroy_v2, FAKECU_INSIDE);
    return 0;
}
FAKECU(cuStreamSynchronize, (infer__cu_stream s)) {
    CHECK((void *)s == fakecu.stream);
    if (fakecu.capture) return 900;
    fakecu_run();
    FAKECU_ENTER(cuStreamSynchronize, FAKECU_INSIDE);
    return 0;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

FAKECU(cuMemGetInfo_v2, (size_t *avail, size_t *total)) {
    FAKECU_ENTER(cuMemGetInfo_v2, FAKECU_INSIDE);
    *total = fakecu.devices[0].total;
    *avail = *total / 2;
    return 0;
}
FAKECU(cuMemAlloc_v2, (infer__cu_memory *m, size_t bytes)) {
    FAKECU_ENTER(cuMemAlloc_v2, FAKECU_INSIDE);
    CHECK(bytes > 0);
    *m = (infer__cu_memory)malloc(bytes);
    memset((void *)*m, 0xa5, bytes);
    fakecu.live[FAKECU_MEMORY]++;
    return 0;
}
FAKECU(cuMemFree_v2, (infer__cu_memory m)) {
    CHECK(m && fakecu.live[FAKECU_MEMORY]-- > 0);
    fakecu_run(); /* it waits for what uses it */
    free((void *)m);
    FAKECU_ENTER(cuMemFree_v2, FAKECU_INSIDE);
    return 0;
}
FAKECU(cuMemAllocHost_v2, (void **p, size_t bytes)) {
    FAKECU_ENTER(cuMemAllocHost_v2, FAKECU_INSIDE);
    *p = malloc(bytes);
    fakecu.live[FAKECU_PINNED]++;
    return 0;
}
FAKECU(cuMemFreeHost, (void *p)) {
    CHECK(p && fakecu.live[FAKECU_PINNED]-- > 0 && (!fakecu.stream || fakecu.stream->n == 0));
    free(p);
    FAKECU_ENTER(cuMemFreeHost, FAKECU_INSIDE);
    return 0;
}
FAKECU(cuMemcpyHtoDAsync_v2, (infer__cu_memory to, const void *src, size_t bytes, infer__cu_stream s)) {
    FAKECU_ENTER(cuMemcpyHtoDAsync_v2, FAKECU_INSIDE);
    return fakecu_copy((void *)to, src, bytes, s);
}
FAKECU(cuMemcpyDtoHAsync_v2, (void *dst, infer__cu_memory from, size_t bytes, infer__cu_stream s)) {
    FAKECU_ENTER(cuMemcpyDtoHAsync_v2, FAKECU_INSIDE);
    return fakecu_copy(dst, (const void *)from, bytes, s);
}
FAKECU(cuMemcpyDtoDAsync_v2, (infer__cu_memory to, infer__cu_memory from, size_t bytes, infer__cu_stream s)) {
    FAKECU_ENTER(cuMemcpyDtoDAsync_v2, FAKECU_INSIDE);
    return fakecu_copy((void *)to, (const void *)from, bytes, s);
}

/* ---- programs ---------------------------------------------------------------------------------------------------- */

static fakecu_text *fakecu_keep_text(const char *text, int kind) {
    fakecu_text *t = (fakecu_text *)malloc(sizeof *t);
    t->text = (char *)malloc(strlen(text) + 1);
    strcpy(t->text, text);
    fakecu.live[kind]++;
    return t;
}
static void fakecu_drop_text(void *p, int kind) {
    fakecu_text *t = (fakecu_text *)p;
    CHECK(t && fakecu.live[kind]-- > 0);
    free(t->text);
    free(t);
}
/* What the compiler says to "foo". */
static void fakecu_log(unsigned n, const int *options, void **values) {
    CHECK(n == 2 && options[0] == INFER__CU_JIT_ERROR_LOG && options[1] == INFER__CU_JIT_ERROR_LOG_SIZE);
    CHECK((uintptr_t)values[1] >= 1000);
    strcpy((char *)values[0], "ptxas info: none\nptxas error:  line 2\n\tfoo");
}
FAKECU(cuModuleLoadDataEx, (infer__cu_module *m, const void *image, unsigned n, int *options, void **values)) {
    const char *text = (const char *)image;
    FAKECU_ENTER(cuModuleLoadDataEx, FAKECU_INSIDE);
    if (memcmp(text, "\177ELF", 4) == 0) {
        if (fakecu.refuse_binary) return 200;
        text += 4;
    } else fakecu.compiled++;
    CHECK(strncmp(text, ".version ", 9) == 0);
    if (strstr(text, "foo")) {
        fakecu_log(n, options, values);
        return 218;
    }
    *m = (infer__cu_module)(void *)fakecu_keep_text(text, FAKECU_MODULE);
    return 0;
}
FAKECU(cuModuleUnload, (infer__cu_module m)) {
    fakecu_drop_text(m, FAKECU_MODULE);
    FAKECU_ENTER(cuModuleUnload, FAKECU_INSIDE);
    return 0;
}
FAKECU(cuModuleGetFunction, (infer__cu_function *f, infer__cu_module m, const char *name)) {
    char entry[80];
    FAKECU_ENTER(cuModuleGetFunction, FAKECU_INSIDE);
    snprintf(entry, sizeof entry, ".entry %s(", name);
    *f = (infer__cu_function)(void *)strstr(((fakecu_text *)(void *)m)->text, entry);
    return *f ? 0 : 500;
}
FAKECU(cuFuncGetAttribute, (int *value, int what, infer__cu_function f)) {
    FAKECU_ENTER(cuFuncGetAttribute, FAKECU_INSIDE);
    CHECK(f && what == 0);
    *value = 128;
    return 0;
}
FAKECU(cuFuncSetAttribute, (infer__cu_function f, int what, int value)) {
    FAKECU_ENTER(cuFuncSetAttribute, FAKECU_INSIDE);
    CHECK(f && ((what == 8 && value > 0) || (what == 9 && value == 100)));
    if (what == 8) fakecu.shared = (unsigned)value;
    return 0;
}
FAKECU(cuLinkCreate_v2, (unsigned n, int *options, void **values, infer__cu_link *l)) {
    FAKECU_ENTER(cuLinkCreate_v2, FAKECU_INSIDE);
    (void)n; (void)options; (void)values;
    *l = (infer__cu_link)(void *)fakecu_keep_text("", FAKECU_LINK);
    return 0;
}
FAKECU(cuLinkAddData_v2, (infer__cu_link l, int kind, void *data, size_t size, const char *name, unsigned n,
                          int *options, void **values)) {
    fakecu_text *t = (fakecu_text *)(void *)l;
    FAKECU_ENTER(cuLinkAddData_v2, FAKECU_INSIDE);
    CHECK(kind == 1 && size == strlen((const char *)data) + 1 && name && n == 0 && !options && !values);
    free(t->text);
    t->text = (char *)malloc(size + 4);
    memcpy(t->text, "\177ELF", 4);
    memcpy(t->text + 4, data, size);
    return 0;
}
FAKECU(cuLinkComplete, (infer__cu_link l, void **binary, size_t *size)) {
    fakecu_text *t = (fakecu_text *)(void *)l;
    FAKECU_ENTER(cuLinkComplete, FAKECU_INSIDE);
    fakecu.links++;
    *binary = t->text;
    *size = strlen(t->text) + 1;
    return 0;
}
FAKECU(cuLinkDestroy, (infer__cu_link l)) {
    fakecu_drop_text(l, FAKECU_LINK);
    FAKECU_ENTER(cuLinkDestroy, FAKECU_INSIDE);
    return 0;
}

/* ---- launches, events, recordings -------------------------------------------------------------------------------- */

FAKECU(cuLaunchKernel, (infer__cu_function f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                        unsigned bz, unsigned shared, infer__cu_stream s, void **params, void **extra)) {
    fakecu_op op;
    FAKECU_ENTER(cuLaunchKernel, FAKECU_INSIDE);
    CHECK(f && gx && gy && gz && bx == 64 && by == 1 && bz == 1 && shared == fakecu.shared && !params);
    CHECK((uintptr_t)extra[0] == 1 && (uintptr_t)extra[2] == 2 && !extra[4]);
    CHECK(*(const size_t *)extra[3] == 2 * 8 + 16);
    memset(&op, 0, sizeof op);
    op.launch = 1;
    memcpy(op.params, extra[1], 2 * 8 + 16);
    fakecu_put(s, &op);
    return 0;
}
FAKECU(cuLaunchKernelEx, (const infer__cu_config *c, infer__cu_function f, void **params, void **extra)) {
    FAKECU_ENTER(cuLaunchKernelEx, FAKECU_INSIDE);
    CHECK(c->n == 1 && c->attributes[0].id == 6 && c->attributes[0].value.on == 1);
    CHECK(sizeof *c == 56 && sizeof c->attributes[0] == 72); /* as CUDA's header has them */
    fakecu.early++;
    return fake_cuLaunchKernel(f, c->grid[0], c->grid[1], c->grid[2], c->block[0], c->block[1], c->block[2], c->shared, c->stream,
                               params, extra);
}
FAKECU(cuEventCreate, (infer__cu_event *e, unsigned flags)) {
    FAKECU_ENTER(cuEventCreate, FAKECU_INSIDE);
    CHECK(flags == 0 || flags == 2);
    *e = (infer__cu_event)calloc(1, sizeof(fakecu_event));
    fakecu.live[FAKECU_EVENT]++;
    return 0;
}
FAKECU(cuEventDestroy_v2, (infer__cu_event e)) {
    CHECK(e && fakecu.live[FAKECU_EVENT]-- > 0);
    fakecu_run();
    free(e);
    FAKECU_ENTER(cuEventDestroy_v2, FAKECU_INSIDE);
    return 0;
}
FAKECU(cuEventRecord, (infer__cu_event e, infer__cu_stream s)) {
    fakecu_op op;
    FAKECU_ENTER(cuEventRecord, FAKECU_INSIDE);
    memset(&op, 0, sizeof op);
    op.event = (fakecu_event *)(void *)e;
    op.event->at = 0;
    fakecu_put(s, &op);
    return 0;
}
FAKECU(cuEventSynchronize, (infer__cu_event e)) {
    FAKECU_ENTER(cuEventSynchronize, FAKECU_INSIDE);
    fakecu_run();
    CHECK(((fakecu_event *)(void *)e)->at > 0);
    return 0;
}
FAKECU(cuEventElapsedTime, (float *ms, infer__cu_event from, infer__cu_event to)) {
    const fakecu_event *a = (fakecu_event *)(void *)from, *b = (fakecu_event *)(void *)to;
    FAKECU_ENTER(cuEventElapsedTime, FAKECU_INSIDE);
    if (!a->at || !b->at) return 600;
    CHECK(b->at == a->at + 2); /* the launch between them and nothing else */
    *ms = (float)(b->at - a->at);
    return 0;
}
FAKECU(cuStreamBeginCapture_v2, (infer__cu_stream s, int mode)) {
    FAKECU_ENTER(cuStreamBeginCapture_v2, FAKECU_INSIDE);
    CHECK((void *)s == fakecu.stream && !fakecu.capture && mode == 1);
    fakecu.capture = (fakecu_list *)calloc(1, sizeof *fakecu.capture);
    return 0;
}
FAKECU(cuStreamEndCapture, (infer__cu_stream s, infer__cu_graph *g)) {
    int code = fakecu_call("cuStreamEndCapture", FAKECU_INSIDE);
    CHECK((void *)s == fakecu.stream && fakecu.capture);
    if (code) free(fakecu.capture); /* it is over all the same */
    else fakecu.live[FAKECU_GRAPH]++;
    *g = code ? NULL : (infer__cu_graph)(void *)fakecu.capture;
    fakecu.capture = NULL;
    return code;
}
FAKECU(cuGraphInstantiateWithFlags, (infer__cu_exec *e, infer__cu_graph g, unsigned long long flags)) {
    fakecu_list *exec;
    FAKECU_ENTER(cuGraphInstantiateWithFlags, FAKECU_INSIDE);
    CHECK(flags == 0);
    exec = (fakecu_list *)malloc(sizeof *exec);
    memcpy(exec, g, sizeof *exec);
    fakecu.live[FAKECU_EXEC]++;
    *e = (infer__cu_exec)(void *)exec;
    return 0;
}
FAKECU(cuGraphLaunch, (infer__cu_exec e, infer__cu_stream s)) {
    const fakecu_list *exec = (const fakecu_list *)(void *)e;
    int i;
    FAKECU_ENTER(cuGraphLaunch, FAKECU_INSIDE);
    for (i = 0; i < exec->n; i++) fakecu_put(s, &exec->ops[i]);
    return 0;
}
FAKECU(cuGraphDestroy, (infer__cu_graph g)) {
    CHECK(g && fakecu.live[FAKECU_GRAPH]-- > 0);
    free(g);
    FAKECU_ENTER(cuGraphDestroy, FAKECU_INSIDE);
    return 0;
}
FAKECU(cuGraphExecDestroy, (infer__cu_exec e)) {
    CHECK(e && fakecu.live[FAKECU_EXEC]-- > 0);
    free(e);
    FAKECU_ENTER(cuGraphExecDestroy, FAKECU_INSIDE);
    return 0;
}

static void fakecu_table(infer__cu *cu) {
#define FAKECU_PUT(name, args) cu->name = fake_##name;
    INFER__CU_FUNCTIONS(FAKECU_PUT)
    INFER__CU_OPTIONAL(FAKECU_PUT)
#undef FAKECU_PUT
}
#undef FAKECU
#undef FAKECU_ENTER

#endif
