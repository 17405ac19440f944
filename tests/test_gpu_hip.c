/* test_gpu_hip.c: the HIP driver over a made-up runtime and compiler, a table of functions like the library's: which
 * devices there are, and what happens when any call fails. Needs no library; tests/drivers/hip runs the kernels. */

static const infer__driver *const hip = &infer__hip_driver;

/* ---- the made-up runtime ------------------------------------------------------------------------------------------- */

enum { HF_MEMORY, HF_STREAM, HF_EVENT, HF_MODULE, HF_GRAPH, HF_EXEC, HF_PROGRAM, HF_KINDS, HF_OPS = 8 };
typedef struct hf_op { int copy; char *to; const char *from; size_t bytes; float *x, *y; uint32_t n; float by; } hf_op;
typedef struct hf_object {
    int kind, device, capturing, n_ops, made_of; /* made_of: what a module's image says */
    double when;
    hf_op ops[HF_OPS];
    char data[]; /* of memory */
} hf_object;
typedef struct hf_device {
    const char *name, *arch;
    size_t total;
    int32_t integrated, group, local, bus;
} hf_device;

static struct {
    hf_device devices[300];
    int32_t n, version, current, code; /* code: of hipGetDeviceCount */
    int old_layout, live[HF_KINDS], builds, waits, most;
    long calls, fail_at;
    const char *fail_name, *failed, *log;
    infer__hip_code fail_code;
    size_t log_size, code_size;
    double clock;
    char options[400], text[8000];
} hf;

static int hf_fails(const char *name) {
    hf.calls++;
    if (hf.calls != hf.fail_at && !(hf.fail_name && strcmp(hf.fail_name, name) == 0)) return 0;
    hf.failed = name;
    return 1;
}
#define HF_CALL(name) do { if (hf_fails(#name)) return hf.fail_code; } while (0)

static hf_object *hf_make(int kind, size_t bytes) {
    hf_object *o = (hf_object *)calloc(1, sizeof *o + bytes);
    o->kind = kind;
    o->device = hf.current;
    hf.live[kind]++;
    return o;
}
static hf_object *hf_is(const void *p, int kind) { /* a wrong one is seen by valgrind and friends too */
    hf_object *o = (hf_object *)(uintptr_t)p;
    CHECK(o && o->kind == kind);
    CHECK((hf.failed && strcmp(hf.failed, "hipSetDevice") == 0) || o->device == hf.current);
    return o;
}
static void hf_drop(const void *p, int kind) {
    hf_object *o = hf_is(p, kind);
    CHECK(hf.live[kind]-- > 0);
    free(o);
}
static hf_object *hf_block(void *p) { return (hf_object *)(void *)((char *)p - offsetof(hf_object, data)); }

static infer__hip_code hf_hipRuntimeGetVersion(int32_t *version) {
    HF_CALL(hipRuntimeGetVersion);
    *version = hf.version;
    return 0;
}
static infer__hip_code hf_hipGetDeviceCount(int32_t *n) {
    HF_CALL(hipGetDeviceCount);
    *n = hf.n;
    return hf.code;
}
static infer__hip_code hf_hipSetDevice(int32_t device) {
    HF_CALL(hipSetDevice);
    CHECK(device >= 0 && device < hf.n);
    hf.current = device;
    return 0;
}
static infer__hip_code hf_hipDeviceGetAttribute(int32_t *value, int32_t what, int32_t device) {
    const hf_device *d = &hf.devices[device];
    HF_CALL(hipDeviceGetAttribute);
    CHECK(what == 16 || what == 56 || what == 74 || (what >= 67 && what <= 69));
    *value = what == 16 ? d->integrated : what == 56 ? d->group : what == 74 ? d->local : what == 67 ? d->bus : 0;
    return 0;
}
static infer__hip_code hf_properties(char *to, int32_t device, size_t size, size_t arch) {
    const hf_device *d = &hf.devices[device];
    memset(to, 0x55, size);
    if (d->name) strncpy(to, d->name, 256);
    memset(to + arch, 0, 256);
    if (d->arch) strncpy(to + arch, d->arch, 255);
    return d->name ? 0 : 1;
}
static infer__hip_code hf_hipGetDevicePropertiesR0600(void *to, int32_t device) {
    HF_CALL(hipGetDevicePropertiesR0600);
    return hf_properties((char *)to, device, 1472, 1160);
}
static infer__hip_code hf_hipGetDeviceProperties(void *to, int32_t device) {
    HF_CALL(hipGetDeviceProperties);
    CHECK(hf.old_layout); /* where the newer one is, this is not called */
    return hf_properties((char *)to, device, 792, 396);
}
static infer__hip_code hf_hipDeviceTotalMem(size_t *bytes, int32_t device) {
    HF_CALL(hipDeviceTotalMem);
    *bytes = hf.devices[device].total;
    return 0;
}
static infer__hip_code hf_hipMemGetInfo(size_t *left, size_t *total) {
    HF_CALL(hipMemGetInfo);
    *total = hf.devices[hf.current].total;
    *left = *total / 2;
    return 0;
}
static const char *hf_hipGetErrorName(infer__hip_code code) {
    return code == 2 ? "hipErrorOutOfMemory" : code == 719 ? "hipErrorLaunchFailure" : code == 1 ? "hipErrorInvalidValue"
                                                                                                 : NULL;
}
static infer__hip_code hf_hipMalloc(void **p, size_t bytes) {
    HF_CALL(hipMalloc);
    *p = NULL;
    if (bytes > hf.devices[hf.current].total) return 2;
    *p = hf_make(HF_MEMORY, bytes)->data;
    return 0;
}
static infer__hip_code hf_hipFree(void *p) {
    int fails = hf_fails("hipFree"); /* done all the same */
    hf_drop(hf_block(p), HF_MEMORY);
    return fails ? hf.fail_code : 0;
}
static void hf_do(const hf_op *o) {
    uint32_t i;
    if (o->copy) memmove(o->to, o->from, o->bytes);
    else for (i = 0; i < o->n; i++) o->y[i] = o->x[i] * o->by;
}
static infer__hip_code hf_put(infer__hip_stream stream, const hf_op *o) {
    hf_object *s = hf_is(stream, HF_STREAM);
    if (!s->capturing) hf_do(o);
    else if (s->n_ops < HF_OPS) s->ops[s->n_ops++] = *o;
    else CHECK(!"room in a graph");
    return 0;
}
static infer__hip_code hf_move(void *to, const void *from, size_t bytes, infer__hip_stream stream) {
    hf_op o;
    memset(&o, 0, sizeof o);
    o.copy = 1;
    o.to = (char *)to;
    o.from = (const char *)from;
    o.bytes = bytes;
    return hf_put(stream, &o);
}
static infer__hip_code hf_hipMemcpyHtoDAsync(void *to, const void *from, size_t bytes, infer__hip_stream stream) {
    HF_CALL(hipMemcpyHtoDAsync);
    return hf_move(to, from, bytes, stream);
}
static infer__hip_code hf_hipMemcpyDtoHAsync(void *to, const void *from, size_t bytes, infer__hip_stream stream) {
    HF_CALL(hipMemcpyDtoHAsync);
    return hf_move(to, from, bytes, stream);
}
static infer__hip_code hf_hipMemcpyDtoDAsync(void *to, const void *from, size_t bytes, infer__hip_stream stream) {
    HF_CALL(hipMemcpyDtoDAsync);
    return hf_move(to, from, bytes, stream);
}
static infer__hip_code hf_hipStreamCreateWithFlags(infer__hip_stream *stream, uint32_t flags) {
    HF_CALL(hipStreamCreateWithFlags);
    CHECK(flags == 1);
    *stream = (infer__hip_stream)(void *)hf_make(HF_STREAM, 0);
    return 0;
}
static infer__hip_code hf_hipStreamDestroy(infer__hip_stream stream) {
    int fails = hf_fails("hipStreamDestroy");
    CHECK(!hf_is(stream, HF_STREAM)->capturing);
    hf_drop(stream, HF_STREAM);
    return fails ? hf.fail_code : 0;
}
static infer__hip_code hf_hipStreamSynchronize(infer__hip_stream stream) {
    hf.waits++;
    CHECK(!hf_is(stream, HF_STREAM)->capturing);
    HF_CALL(hipStreamSynchronize);
    return 0;
}
static infer__hip_code hf_hipModuleLoadData(infer__hip_module *module, const void *image) {
    hf_object *m;
    HF_CALL(hipModuleLoadData);
    if (memcmp(image, "made ", 5) != 0) return 200;
    m = hf_make(HF_MODULE, sizeof image);
    memcpy(m->data, &image, sizeof image);
    *module = (infer__hip_module)(void *)m;
    return 0;
}
static infer__hip_code hf_hipModuleUnload(infer__hip_module module) {
    int fails = hf_fails("hipModuleUnload");
    hf_drop(module, HF_MODULE);
    return fails ? hf.fail_code : 0;
}
static infer__hip_code hf_hipModuleGetFunction(infer__hip_function *f, infer__hip_module module, const char *name) {
    const char *image;
    HF_CALL(hipModuleGetFunction);
    memcpy(&image, hf_is(module, HF_MODULE)->data, sizeof image);
    CHECK(memcmp(image, "made ", 5) == 0); /* it is still there */
    if (strcmp(name, "k_scale") != 0) return 500;
    *f = (infer__hip_function)(void *)module;
    return 0;
}
static infer__hip_code hf_hipFuncGetAttribute(int32_t *value, int32_t what, infer__hip_function f) {
    HF_CALL(hipFuncGetAttribute);
    hf_is(f, HF_MODULE);
    CHECK(what == 0);
    *value = hf.most;
    return 0;
}
/* y[i] = x[i] * by, for i < n: pointers, then { uint n, pad; float by, pad; } */
static infer__hip_code hf_hipModuleLaunchKernel(infer__hip_function f, uint32_t gx, uint32_t gy, uint32_t gz, uint32_t bx,
                                                uint32_t by, uint32_t bz, uint32_t shared, infer__hip_stream stream,
                                                void **params, void **extra) {
    const char *packed;
    hf_op o;
    HF_CALL(hipModuleLaunchKernel);
    hf_is(f, HF_MODULE);
    CHECK(gx > 0 && gy == 1 && gz == 1 && bx == 64 && by == 1 && bz == 1 && shared == 0 && !params);
    CHECK(extra[0] == (void *)1 && extra[2] == (void *)2 && extra[4] == (void *)3 && *(size_t *)extra[3] == 32);
    packed = (const char *)extra[1];
    memset(&o, 0, sizeof o);
    o.x = (float *)infer__hip_pointer(*(const uint64_t *)(const void *)packed);
    o.y = (float *)infer__hip_pointer(*(const uint64_t *)(const void *)(packed + 8));
    memcpy(&o.n, packed + 16, 4);
    memcpy(&o.by, packed + 24, 4);
    return hf_put(stream, &o);
}
static infer__hip_code hf_hipEventCreateWithFlags(infer__hip_event *event, uint32_t flags) {
    HF_CALL(hipEventCreateWithFlags);
    CHECK(flags == 0);
    *event = (infer__hip_event)(void *)hf_make(HF_EVENT, 0);
    return 0;
}
static infer__hip_code hf_hipEventDestroy(infer__hip_event event) {
    int fails = hf_fails("hipEventDestroy");
    hf_drop(event, HF_EVENT);
    return fails ? hf.fail_code : 0;
}
static infer__hip_code hf_hipEventRecord(infer__hip_event event, infer__hip_stream stream) {
    HF_CALL(hipEventRecord);
    CHECK(!hf_is(stream, HF_STREAM)->capturing);
    hf_is(event, HF_EVENT)->when = hf.clock++;
    return 0;
}
static infer__hip_code hf_hipEventElapsedTime(float *ms, infer__hip_event from, infer__hip_event to) {
    HF_CALL(hipEventElapsedTime);
    *ms = (float)(hf_is(to, HF_EVENT)->when - hf_is(from, HF_EVENT)->when) * 250;
    return 0;
}
static infer__hip_code hf_hipStreamBeginCapture(infer__hip_stream stream, int32_t mode) {
    hf_object *s = hf_is(stream, HF_STREAM);
    HF_CALL(hipStreamBeginCapture);
    CHECK(mode == 2 && !s->capturing && s->n_ops == 0);
    s->capturing = 1;
    return 0;
}
static infer__hip_code hf_hipStreamEndCapture(infer__hip_stream stream, infer__hip_graph *graph) {
    hf_object *s = hf_is(stream, HF_STREAM), *g;
    int fails = hf_fails("hipStreamEndCapture");
    CHECK(s->capturing);
    s->capturing = 0;
    if (!fails) {
        g = hf_make(HF_GRAPH, 0);
        g->n_ops = s->n_ops;
        memcpy(g->ops, s->ops, sizeof g->ops);
        *graph = (infer__hip_graph)(void *)g;
    }
    s->n_ops = 0;
    return fails ? hf.fail_code : 0;
}
static infer__hip_code hf_hipGraphDestroy(infer__hip_graph graph) {
    int fails = hf_fails("hipGraphDestroy");
    hf_drop(graph, HF_GRAPH);
    return fails ? hf.fail_code : 0;
}
static infer__hip_code hf_hipGraphInstantiateWithFlags(infer__hip_exec *exec, infer__hip_graph graph,
                                                       unsigned long long flags) {
    hf_object *g = hf_is(graph, HF_GRAPH), *e;
    HF_CALL(hipGraphInstantiateWithFlags);
    CHECK(flags == 0);
    e = hf_make(HF_EXEC, 0);
    e->n_ops = g->n_ops;
    memcpy(e->ops, g->ops, sizeof e->ops);
    *exec = (infer__hip_exec)(void *)e;
    return 0;
}
static infer__hip_code hf_hipGraphLaunch(infer__hip_exec exec, infer__hip_stream stream) {
    const hf_object *e = hf_is(exec, HF_EXEC);
    int i;
    HF_CALL(hipGraphLaunch);
    for (i = 0; i < e->n_ops; i++) hf_put(stream, &e->ops[i]);
    return 0;
}
static infer__hip_code hf_hipGraphExecDestroy(infer__hip_exec exec) {
    int fails = hf_fails("hipGraphExecDestroy");
    hf_drop(exec, HF_EXEC);
    return fails ? hf.fail_code : 0;
}

static const char *hf_hiprtcGetErrorString(infer__hip_code code) {
    return code == 6 ? "HIPRTC_ERROR_COMPILATION" : code == 1 ? "HIPRTC_ERROR_OUT_OF_MEMORY" : NULL;
}
static infer__hip_code hf_hiprtcCreateProgram(infer__hip_rtc *program, const char *text, const char *name, int32_t n,
                                              const char **headers, const char **names) {
    HF_CALL(hiprtcCreateProgram);
    CHECK(n == 0 && !headers && !names && strcmp(name, "test") == 0);
    snprintf(hf.text, sizeof hf.text, "%s", text);
    hf.builds++;
    *program = (infer__hip_rtc)(void *)hf_make(HF_PROGRAM, 0);
    return 0;
}
static infer__hip_code hf_hiprtcDestroyProgram(infer__hip_rtc *program) {
    int fails = hf_fails("hiprtcDestroyProgram");
    hf_object *p = (hf_object *)(void *)*program;
    CHECK(p->kind == HF_PROGRAM && hf.live[HF_PROGRAM]-- > 0);
    free(p);
    *program = NULL;
    return fails ? hf.fail_code : 0;
}
static infer__hip_code hf_hiprtcCompileProgram(infer__hip_rtc program, int32_t n, const char **options) {
    int32_t i;
    (void)program;
    HF_CALL(hiprtcCompileProgram);
    hf.options[0] = 0;
    for (i = 0; i < n; i++) snprintf(hf.options + strlen(hf.options), 200, "%s ", options[i]);
    return hf.log ? 6 : 0;
}
static infer__hip_code hf_hiprtcGetProgramLogSize(infer__hip_rtc program, size_t *n) {
    (void)program;
    HF_CALL(hiprtcGetProgramLogSize);
    *n = hf.log_size ? hf.log_size : strlen(hf.log ? hf.log : "") + 1;
    return 0;
}
static infer__hip_code hf_hiprtcGetProgramLog(infer__hip_rtc program, char *to) {
    (void)program;
    HF_CALL(hiprtcGetProgramLog);
    strcpy(to, hf.log ? hf.log : "");
    return 0;
}
static infer__hip_code hf_hiprtcGetCodeSize(infer__hip_rtc program, size_t *n) {
    (void)program;
    HF_CALL(hiprtcGetCodeSize);
    *n = hf.code_size == 1 ? 0 : hf.code_size ? hf.code_size : 40; /* 1: says that there is none */
    return 0;
}
static infer__hip_code hf_hiprtcGetCode(infer__hip_rtc program, char *to) {
    (void)program;
    HF_CALL(hiprtcGetCode);
    memset(to, 'x', 40);
    memcpy(to, "made ", 5);
    return 0;
}

/* ---- its devices ----------------------------------------------------------------------------------------------------- */

static infer__hip_api hf_api(void) {
    infer__hip_api api;
#define HF_PUT(result, name, args) api.name = hf_##name;
    INFER__HIP_FUNCTIONS(HF_PUT)
    INFER__HIP_OPTIONAL(HF_PUT)
    INFER__HIPRTC_FUNCTIONS(HF_PUT)
#undef HF_PUT
    return api;
}

static void hf_device_add(const char *name, const char *arch, size_t total) {
    hf_device *d = &hf.devices[hf.n++];
    memset(d, 0, sizeof *d);
    d->name = name;
    d->arch = arch;
    d->total = total;
    d->group = 1024;
    d->local = 65536;
}

static struct infer__hip hf_list; /* what the list is made in */
static void hf_list_make(void) {
    int32_t compiler = hf_list.has_compiler;
    char no_compiler[sizeof hf_list.no_compiler];
    memcpy(no_compiler, hf_list.no_compiler, sizeof no_compiler);
    memset(&hf_list, 0, sizeof hf_list);
    hf_list.api = hf_api();
    if (hf.old_layout) hf_list.api.hipGetDevicePropertiesR0600 = NULL;
    hf_list.has_compiler = compiler;
    memcpy(hf_list.no_compiler, no_compiler, sizeof no_compiler);
    infer__hip_list(&hf_list);
    CHECK((hf_list.n == 0) == (hf_list.why_not[0] != 0));
}

static void hf_reset(void) {
    memset(&hf, 0, sizeof hf);
    memset(&hf_list, 0, sizeof hf_list);
    hf.version = 60443483; /* 6.4 */
    hf.most = 1024;
    hf_list.has_compiler = 1;
}

static void test_gpu_hip_library(void) {
    const char *names[2] = {"libinfer-no-such-library.so.9", NULL};
    memset(&hf_list, 0, sizeof hf_list);
    CHECK(!infer__hip_load(&hf_list, names, 1));
#if defined(INFER_NO_RUNTIME_LINKING)
    CHECK_STR(hf_list.why_not, "built with INFER_NO_RUNTIME_LINKING");
#else
    CHECK_STR(hf_list.why_not, "libinfer-no-such-library.so.9 was not found");
#  if !defined(_WIN32) && !defined(__APPLE__)
    names[1] = "libm.so.6"; /* a library that is something else */
    if (infer__lib_open(names[1])) {
        CHECK(!infer__hip_load(&hf_list, names, 2));
        CHECK_STR(hf_list.why_not, "libm.so.6 has no hipRuntimeGetVersion");
    }
    hf_list.version = 9900; /* of which there is no compiler */
    if (!infer__lib_open("libhiprtc.so")) {
        CHECK(!infer__hiprtc_load(&hf_list));
        CHECK_STR(hf_list.no_compiler, "libhiprtc.so.99 was not found");
    }
#  endif
#endif
    CHECK(hf_list.n == 0 && !hf_list.has_compiler);
}

static void test_gpu_hip_nothing(void) {
    hf_reset();
    hf.code = 100;
    hf_list_make();
    CHECK_STR(hf_list.why_not, "HIP was found, but no device");
    hf.code = 0;
    hf_list_make();
    CHECK_STR(hf_list.why_not, "HIP was found, but no device");
    hf.n = -3;
    hf_list_make();
    CHECK_STR(hf_list.why_not, "HIP was found, but no device");
    hf.code = 719;
    hf_list_make();
    CHECK_STR(hf_list.why_not, "hipGetDeviceCount failed: hipErrorLaunchFailure (719)");
    hf.code = 12345;
    hf_list_make();
    CHECK_STR(hf_list.why_not, "hipGetDeviceCount failed: code of the vendor (12345)");
    hf.fail_name = "hipRuntimeGetVersion";
    hf.fail_code = 1;
    hf_list_make();
    CHECK_STR(hf_list.why_not, "hipRuntimeGetVersion failed: hipErrorInvalidValue (1)");
    hf.fail_name = NULL;
    hf.version = 40521187;
    hf_list_make();
    CHECK_STR(hf_list.why_not, "ROCm 5.0 is needed, the HIP runtime is of 4.5");
    hf.version = -1;
    hf_list_make();
    CHECK_STR(hf_list.why_not, "ROCm 5.0 is needed, the HIP runtime is of 0.0");
}

/* The same list whatever the order in which the runtime numbers devices. */
static void test_gpu_hip_order(void) {
    static const char *const want[] = {"Big (gfx942)", "Twin (gfx1100)", "Twin (gfx1100) #2", "Small (gfx906)",
                                       "Inside (gfx1103)", "New (gfx9999)"};
    static hf_device all[6];
    const size_t gib = (size_t)1 << 24;
    int turn, i;
    hf_reset();
    hf_device_add("New", "gfx9999", 99 * gib);
    hf_device_add("Twin", "gfx1100", 24 * gib);
    hf_device_add("Inside", "gfx1103", 64 * gib);
    hf_device_add("Twin", "gfx1100", 24 * gib);
    hf_device_add("Small", "gfx906:sramecc+:xnack-", 16 * gib);
    hf_device_add(" Big\t ", "gfx942:sramecc+", 99 * gib);
    hf.devices[1].bus = 7;
    hf.devices[3].bus = 3;
    hf.devices[2].integrated = 1;
    memcpy(all, hf.devices, sizeof all);
    for (turn = 0; turn < 12; turn++) {
        for (i = 0; i < 6; i++) hf.devices[i] = all[turn & 1 ? (11 - i - turn / 2) % 6 : (i + turn / 2) % 6];
        hf_list_make();
        CHECK(hf_list.n == 6);
        for (i = 0; i < 6 && i < hf_list.n; i++) {
            const infer__hip_row *r = &hf_list.rows[i];
            CHECK_STR(r->info.name, want[i]);
            CHECK(r->info.usable == (i < 5) && r->info.unified == (i == 4) && r->info.backend == INFER_HIP);
            CHECK(r->info.total == hf.devices[r->ordinal].total);
        }
        CHECK(hf.devices[hf_list.rows[1].ordinal].bus == 3 && hf.devices[hf_list.rows[2].ordinal].bus == 7);
        CHECK_STR(hf_list.rows[0].arch, "gfx942");
        CHECK_STR(hf_list.rows[3].arch, "gfx906");
        CHECK(hf_list.rows[1].hash == hf_list.rows[2].hash && hf_list.rows[1].hash != hf_list.rows[3].hash);
    }
}

/* More than there is room for: the best stay. Names that are no texts. */
static void test_gpu_hip_many(void) {
    static char names[300][16], longer[300];
    int i;
    hf_reset();
    for (i = 0; i < 300; i++) {
        snprintf(names[i], sizeof names[i], "D%d", i);
        hf_device_add(names[i], "gfx900", (size_t)(1000 + (i < 256 ? i : 0)) << 10);
    }
    hf_list_make();
    CHECK(hf_list.n == INFER__HIP_MAX_DEVICES);
    CHECK_STR(hf_list.rows[0].info.name, "D255 (gfx900)");
    CHECK_STR(hf_list.rows[31].info.name, "D224 (gfx900)");
    hf.n = 0;
    memset(longer, 'x', 299);
    hf_device_add(longer, "gfx900", 1 << 20);
    hf_list_make();
    CHECK(hf_list.n == 1 && strlen(hf_list.rows[0].info.name) == 75 + strlen(" (gfx900)"));
    hf.devices[0].name = "A\x01 \xc3\xbc\xff";
    hf_list_make();
    CHECK_STR(hf_list.rows[0].info.name, "A? \xc3\xbc? (gfx900)");
    hf.devices[0].name = NULL; /* the call fails */
    hf_list_make();
    CHECK_STR(hf_list.rows[0].info.name, "AMD GPU (?)");
    CHECK_STR(hf_list.rows[0].info.why_not, "the runtime does not tell its chip");
}

static void test_gpu_hip_limits(void) {
    static const char *const odd[] = {"", "gfx", "gfx9", "GFX906", "nvidia", "gfx90a -O0", "gfx90\xc3\xbc",
                                      "gfx1234567890123456789012345678901234567890123456789012345678901234567890"};
    static const struct { const char *arch; int32_t version; } chips[] = {
        {"gfx803", 500}, {"gfx90a", 500}, {"gfx1036", 502}, {"gfx1100", 503}, {"gfx942", 507}, {"gfx1151", 604},
        {"gfx1201", 604}, {"gfx950", 700}};
    const infer_device_info *info = &hf_list.rows[0].info;
    char text[120];
    size_t i;
#define LIMIT(change, text) \
    do { \
        hf_reset(); \
        hf_device_add("card", "gfx1100", (size_t)1 << 30); \
        change; \
        hf_list_make(); \
        check_detail = #change; \
        CHECK(hf_list.n == 1 && info->usable == !(text)[0]); \
        CHECK_STR(info->why_not, text); \
    } while (0)
    LIMIT((void)0, "");
    LIMIT(hf.old_layout = 1, "");
    LIMIT(hf.devices[0].group = 63, "groups of 64 work-items are needed, it has 63");
    LIMIT(hf.devices[0].local = 16383, "16384 bytes of local memory are needed, it has 16383");
    LIMIT(hf.devices[0].total = 0, "the runtime says that it has no memory");
    LIMIT(hf.devices[0].arch = "gfx1310", "it is a gfx1310, for which nothing is known of the compiler; try OpenCL");
    LIMIT(hf.version = 50221153, "the compiler of ROCm 5.2 does not know gfx1100, 5.3 does; try OpenCL");
    LIMIT((hf.fail_name = "hipDeviceTotalMem", hf.fail_code = 1), "the runtime says that it has no memory");
    LIMIT((hf.fail_name = "hipDeviceGetAttribute", hf.fail_code = 1), "groups of 64 work-items are needed, it has 0");
#if !defined(INFER_NO_RUNTIME_LINKING) && !defined(_WIN32)
    if (!infer__lib_open("libhiprtc.so"))
        LIMIT((hf.version = 990000000, hf_list.has_compiler = 0),
              "no compiler (libhiprtc.so.99 was not found); try OpenCL");
#endif
    for (i = 0; i < INFER__COUNT(odd); i++) LIMIT(hf.devices[0].arch = odd[i], "the runtime does not tell its chip");
#undef LIMIT
    for (i = 0; i < INFER__COUNT(chips); i++) {
        hf_reset();
        hf_device_add("card", check_detail = chips[i].arch, (size_t)1 << 30);
        hf.version = chips[i].version / 100 * 10000000 + chips[i].version % 100 * 100000 + 99999;
        hf_list_make();
        CHECK(info->usable);
        hf.version = chips[i].version % 100 ? hf.version - 100000 : hf.version - 10000000 + 900000;
        hf_list_make();
        if (chips[i].version == 500) continue; /* such a runtime is refused altogether */
        CHECK(!info->usable);
        snprintf(text, sizeof text, "does not know %s, %d.%d does", chips[i].arch, (int)chips[i].version / 100,
                 (int)chips[i].version % 100);
        CHECK_HAS(info->why_not, text);
    }
}

/* ---- everything once, and what fails ---------------------------------------------------------------------------------- */

static struct infer__hip hip_saved;

/* The driver sees the made-up runtime with two devices; the second is the better one, row 0, and not the current one. */
static void hf_install(void) {
    hip->devices(NULL);
    if (!hip_saved.once.state.v) hip_saved = infer__hip;
    hf_reset();
    hf_device_add("first", "gfx906", 1 << 20);
    hf_device_add("second", "gfx90a:xnack-", 2 << 20);
    infer__hip.api = hf_api();
    infer__hip.has_compiler = 1;
    infer__hip.n = 0;
    infer__hip.why_not[0] = 0;
    infer__hip_list(&infer__hip);
    CHECK(infer__hip.n == 2 && infer__hip.rows[0].ordinal == 1);
    hf.calls = 0;
}
static void hf_closed(void) {
    int i;
    for (i = 0; i < HF_KINDS; i++) CHECK(hf.live[i] == 0);
}
static void hf_uninstall(void) {
    check_detail = "";
    hf_closed();
    infer__hip = hip_saved;
    memset(&hip_saved, 0, sizeof hip_saved);
}

static const char *const hf_pieces[2] = {"first half ", "and second half"};
static infer__gpu_source hf_source(const infer_cache *cache) {
    infer__gpu_source s;
    s.text = hf_pieces;
    s.n_text = 2;
    s.name = "test";
    s.hash = 0x0123456789abcdefu;
    s.cache = cache;
    return s;
}

/* The thread's current device is another one before every call. */
#define HIP(call) (hf.current = 0, hip->call)
enum { HF_N = 100 };
typedef struct { uint32_t n, pad0; float by, pad1; } hf_args;

/* Open, compile, run, record, replay, time, close. What is not open stays NULL. Returns the first error. */
static infer_result hf_story(infer__mem *mem, const infer_cache *cache, infer_error *err) {
    void *device = NULL, *program = NULL, *queue = NULL, *kernel = NULL, *recording = NULL;
    uint64_t b[2] = {0, 0};
    const uint32_t groups[3] = {2, 1, 1};
    hf_args a = {HF_N, 0, 3.0f, 0};
    infer__gpu_source s = hf_source(cache);
    float x[HF_N], y[HF_N];
    double seconds[2] = {-1, -1};
    int32_t i, n = -1;
    infer_result r = HIP(open(&device, mem, 0, err));
    for (i = 0; i < HF_N; i++) { x[i] = (float)i; y[i] = -1; }
    if (!r) r = HIP(load(device, &s, &program, err));
    if (!r) r = HIP(queue_open(&queue, device, err));
    if (!r) r = HIP(kernel_open(&kernel, queue, program, "k_scale", 64, err));
    for (i = 0; i < 2 && !r; i++) r = HIP(alloc(device, sizeof x, &b[i], err));
    if (!r) r = HIP(upload(queue, b[0], 0, x, sizeof x, err));
    if (!r) r = HIP(timing(queue, 1, err));
    if (!r) r = HIP(launch(queue, kernel, groups, 64, b, 2, &a, sizeof a, err));
    if (!r) r = HIP(record(queue, err));
    if (!r) r = HIP(launch(queue, kernel, groups, 64, b, 2, &a, sizeof a, err));
    if (!r) r = HIP(copy(queue, b[0], 0, b[1], 0, sizeof x, err)); /* x *= 3 */
    if (!r) r = HIP(record_end(queue, &recording, err));
    for (i = 0; i < 2 && !r; i++) r = HIP(replay(queue, recording, err));
    if (!r) r = HIP(copy(queue, b[1], 0, b[0], sizeof x / 2, 8, err)); /* y[0], y[1] = x[50], x[51] */
    if (!r) r = HIP(download(queue, b[1], 0, y, sizeof y, err));
    if (!r) r = HIP(sync(queue, err));
    for (i = 0; i < HF_N && !r; i++) CHECK(y[i] == 9.0f * (float)(i < 2 ? 50 + i : i));
    if (!r) r = HIP(times(queue, seconds, 2, &n, err));
    if (!r) CHECK(n == 1 && seconds[0] == 0.25 && seconds[1] == -1);
    if (queue) HIP(recording_close(queue, recording));
    if (queue) HIP(kernel_close(queue, kernel));
    HIP(release(device, b[0]));
    HIP(release(device, b[1]));
    HIP(unload(device, program));
    HIP(queue_close(queue));
    HIP(close(device));
    return r;
}

static void test_gpu_hip_story(void) {
    infer_device_info info;
    infer__mem mem;
    infer_error err;
    void *device = NULL;
    hf_install();
    infer__mem_init(&mem, NULL, 0);
    err.message[0] = 0;
    check_detail = err.message;
    CHECK(hf_story(&mem, NULL, &err) == INFER_OK);
    CHECK(infer__atomic_get(&mem.used) == 0);
    CHECK_STR(hf.text, "first half and second half");
    CHECK_STR(hf.options, "--offload-arch=gfx90a -ffp-contract=off -fno-gpu-flush-denormals-to-zero ");
    hip->info(0, &info);
    CHECK(info.usable && info.total == 2 << 20 && info.free == 1 << 20);
    hf.fail_name = "hipMemGetInfo";
    hf.fail_code = 1;
    hip->info(0, &info);
    CHECK(info.free == info.total);
    hip->info(2, &info);
    CHECK(!info.usable && !info.name[0]);
    hf.fail_name = NULL;
    CHECK(hip->open(&device, &mem, 2, &err) == INFER_ERR_DEVICE && !device);
    CHECK_STR(err.message, "there is no HIP device 2, there are 2");
    CHECK(hip->open(&device, &mem, -1, &err) == INFER_ERR_DEVICE && !device);
    infer__hip.rows[1].info.usable = 0;
    snprintf(infer__hip.rows[1].info.why_not, 20, "it is old");
    CHECK(hip->open(&device, &mem, 1, &err) == INFER_ERR_DEVICE && !device);
    CHECK_STR(err.message, "it cannot be used: it is old");
    infer__hip.n = 0;
    snprintf(infer__hip.why_not, 20, "none");
    CHECK(hip->open(&device, &mem, 0, &err) == INFER_ERR_DEVICE && !device);
    CHECK_STR(err.message, "no HIP device: none");
    hf_uninstall();
}

/* May this call fail without an error? What only gives back, and the waits before that. */
static int hf_may_fail(const char *name) {
    return strstr(name, "Destroy") || strcmp(name, "hipFree") == 0 || strcmp(name, "hipModuleUnload") == 0 ||
           (strcmp(name, "hipStreamSynchronize") == 0 && hf.waits > 1);
}

/* The story with call after call failing. warm: the program comes from the cache. Returns calls. */
static long hf_break(infer__hip_code code, int warm) {
    infer_cache cache = ocl_cache();
    infer__mem mem;
    infer_error err;
    char want[160];
    const char *name;
    infer__mem_init(&mem, NULL, 0);
    if (warm) CHECK(hf_story(&mem, &cache, &err) == INFER_OK);
    for (hf.fail_at = 1;; hf.fail_at++) {
        infer_result r;
        int memory, rtc;
        infer__error_clear(&err);
        hf.calls = hf.waits = 0;
        hf.failed = NULL;
        hf.fail_code = code;
        hf.log = NULL;
        if (!warm) cache = ocl_cache();
        r = hf_story(&mem, &cache, &err);
        CHECK(infer__atomic_get(&mem.used) == 0);
        hf_closed();
        check_detail = hf.failed ? hf.failed : "no call";
        if (hf.calls < hf.fail_at) break;
        if (r == INFER_OK) { /* of the set-ups before something is given back the result is not looked at either */
            CHECK(hf.failed && (hf_may_fail(hf.failed) || strcmp(hf.failed, "hipSetDevice") == 0 ||
                                (warm && strcmp(hf.failed, "hipModuleLoadData") == 0)));
            continue;
        }
        rtc = strncmp(hf.failed, "hiprtc", 6) == 0;
        name = rtc ? hf_hiprtcGetErrorString(code) : hf_hipGetErrorName(code);
        snprintf(want, sizeof want, "%s failed: %s (%d)", hf.failed, name ? name : "code of the vendor", (int)code);
        CHECK_HAS(err.message, want);
        memory = code == (rtc ? 1 : 2);
        CHECK(r == err.code && r == (memory ? INFER_ERR_MEMORY : INFER_ERR_DEVICE));
    }
    CHECK(!hf.failed);
    hf.fail_at = 0;
    return hf.calls;
}

static void test_gpu_hip_failures(void) {
    hf_install();
    hf.log = NULL;
    CHECK(hf_break(719, 0) >= 60);
    CHECK(hf_break(2, 0) >= 60);
    CHECK(hf_break(1, 0) >= 60);
    CHECK(hf_break(2, 1) >= 50);
    ocl_cache();
    hf_uninstall();
}

/* The library's own memory runs out, at every allocation. */
static void test_gpu_hip_oom(void) {
    infer_allocator counting = {NULL, check_alloc, check_free};
    infer_cache cache = ocl_cache();
    infer__mem mem;
    infer_error err;
    int errors = 0;
    infer_result r;
    hf_install();
    infer__mem_init(&mem, &counting, 0);
    check_live = 0;
    for (check_fail_at = 1;; check_fail_at++) {
        check_allocs = 0;
        infer__error_clear(&err);
        if (check_fail_at < 6) cache = ocl_cache();
        r = hf_story(&mem, &cache, &err);
        CHECK(check_live == 0 && infer__atomic_get(&mem.used) == 0);
        hf_closed();
        if (check_allocs < check_fail_at) break;
        CHECK(r == INFER_OK || (r == INFER_ERR_MEMORY && strncmp(err.message, "no memory ", 10) == 0));
        errors += r != INFER_OK;
    }
    check_fail_at = 0;
    CHECK(r == INFER_OK && errors >= 5); /* device, program, text, binary, queue, events */
    ocl_cache();
    hf_uninstall();
}

/* ---- single functions --------------------------------------------------------------------------------------------------- */

typedef struct hf_open { void *device, *program, *queue, *kernel; uint64_t b[2]; infer__mem mem; infer_error err; } hf_open;
static int hf_begin(hf_open *o) {
    infer__gpu_source s = hf_source(NULL);
    memset(o, 0, sizeof *o);
    hf_install();
    infer__mem_init(&o->mem, NULL, 0);
    check_detail = o->err.message;
    CHECK(hip->open(&o->device, &o->mem, 0, &o->err) == INFER_OK);
    if (!o->device || hip->load(o->device, &s, &o->program, &o->err)) return 0;
    CHECK(hip->queue_open(&o->queue, o->device, &o->err) == INFER_OK);
    CHECK(hip->kernel_open(&o->kernel, o->queue, o->program, "k_scale", 64, &o->err) == INFER_OK);
    CHECK(hip->alloc(o->device, 256, &o->b[0], &o->err) == INFER_OK);
    CHECK(hip->alloc(o->device, 256, &o->b[1], &o->err) == INFER_OK);
    return o->queue && o->b[0] && o->b[1];
}
static void hf_end(hf_open *o) {
    HIP(release(o->device, o->b[0]));
    HIP(release(o->device, o->b[1]));
    HIP(queue_close(o->queue));
    HIP(unload(o->device, o->program));
    HIP(close(o->device));
    CHECK(infer__atomic_get(&o->mem.used) == 0);
    hf_uninstall();
}

static void test_gpu_hip_calls(void) {
    static const uint32_t none[3][3] = {{0, 1, 1}, {1, 0, 1}, {1, 1, 0}}, many[3] = {0x4000000, 1, 1}, one[3] = {1, 1, 1};
    static char large[2048];
    hf_args a = {64, 0, 2.0f, 0};
    uint64_t buf = 7;
    void *kernel = NULL;
    hf_open o;
    int i;
    if (!hf_begin(&o)) return;
    CHECK(hip->memory(o.device) == 1 << 20);
    CHECK(hip->kernel_open(&kernel, o.queue, o.program, "k_other", 64, &o.err) == INFER_ERR_DEVICE && !kernel);
    CHECK_STR(o.err.message, "hipModuleGetFunction failed: code of the vendor (500)");
    hf.most = 32;
    CHECK(hip->kernel_open(&kernel, o.queue, o.program, "k_scale", 64, &o.err) == INFER_ERR_DEVICE && !kernel);
    CHECK_STR(o.err.message, "k_scale needs groups of 64 work-items, the device runs 32");
    CHECK(hip->alloc(o.device, 4 << 20, &buf, &o.err) == INFER_ERR_MEMORY && buf == 0);
    CHECK_STR(o.err.message, "hipMalloc failed: hipErrorOutOfMemory (2)");
    CHECK(hip->launch(o.queue, o.kernel, many, 64, o.b, 2, &a, sizeof a, &o.err) == INFER_ERR_DEVICE);
    CHECK_STR(o.err.message, "4294967296 work-items are too many");
    CHECK(hip->launch(o.queue, o.kernel, one, 64, o.b, 2, large, sizeof large, &o.err) == INFER_ERR_DEVICE);
    CHECK_STR(o.err.message, "2048 bytes of arguments are too many");
    hf.calls = 0; /* nothing to do: no call is made */
    CHECK(hip->alloc(o.device, 0, &buf, &o.err) == INFER_OK && buf == 0);
    hip->release(o.device, 0);
    CHECK(hip->upload(o.queue, o.b[0], 1 << 20, NULL, 0, &o.err) == INFER_OK);
    CHECK(hip->download(o.queue, o.b[0], 1 << 20, NULL, 0, &o.err) == INFER_OK);
    CHECK(hip->copy(o.queue, o.b[0], 0, o.b[0], 0, 0, &o.err) == INFER_OK);
    for (i = 0; i < 3; i++)
        CHECK(hip->launch(o.queue, o.kernel, none[i], 64, o.b, 2, &a, sizeof a, &o.err) == INFER_OK);
    hip->unload(o.device, NULL);
    hip->queue_close(NULL);
    hip->close(NULL);
    hip->recording_close(o.queue, NULL);
    CHECK(hf.calls == 0);
    hf_end(&o);
}

/* What a compiler says ends up in the message; sizes that cannot be. */
static void test_gpu_hip_log(void) {
    infer__gpu_source s = hf_source(NULL);
    void *program = NULL;
    hf_open o;
    if (!hf_begin(&o)) return;
#define LOG(text, end) \
    do { \
        hf.log = text; \
        CHECK(hip->load(o.device, &s, &program, &o.err) == INFER_ERR_DEVICE && !program); \
        CHECK_STR(o.err.message, "hiprtcCompileProgram failed: HIPRTC_ERROR_COMPILATION (6): " end); \
    } while (0)
    LOG("warning: x\ntest:1:2: error: y\n   z = 1;\r\n\t^\n", "test:1:2: error: y z = 1; ^ ");
    LOG("something\nelse", "something else");
    LOG("", "no log");
    hf.log_size = (size_t)-1;
    LOG("error", "no log");
    hf.log_size = (16 << 20) + 1;
    LOG("error", "no log");
    hf.log_size = 0;
    hf.fail_name = "hiprtcGetProgramLog";
    LOG("error", "no log");
    hf.fail_name = "hiprtcGetProgramLogSize";
    hf.fail_code = 1;
    LOG("error", "no log");
#undef LOG
    hf.fail_name = hf.log = NULL;
    hf.code_size = 1;
    CHECK(hip->load(o.device, &s, &program, &o.err) == INFER_ERR_DEVICE && !program);
    CHECK_STR(o.err.message, "hiprtcGetCodeSize says 0 bytes");
    hf.code_size = (size_t)1 << 30;
    CHECK(hip->load(o.device, &s, &program, &o.err) == INFER_ERR_DEVICE && !program);
    CHECK_STR(o.err.message, "hiprtcGetCodeSize says 1073741824 bytes");
    hf_end(&o);
}

static void test_gpu_hip_cache(void) {
    infer_cache cache = ocl_cache();
    infer__mem mem;
    infer_error err;
    hf_install();
    infer__mem_init(&mem, NULL, 0);
    CHECK(hf_story(&mem, &cache, &err) == INFER_OK && hf.builds == 1 && ocl_kept.puts == 1);
    CHECK(strncmp(ocl_kept.key, "infer-hip-", 10) == 0 && ocl_kept.n == 16 + 40);
    CHECK(hf_story(&mem, &cache, &err) == INFER_OK && hf.builds == 1 && ocl_kept.puts == 1);
    ocl_kept.data[30] ^= 1; /* the runtime never sees it */
    CHECK(hf_story(&mem, &cache, &err) == INFER_OK && hf.builds == 2 && ocl_kept.puts == 2);
    infer__hip.rows[0].hash++; /* another runtime: asks for another key, so finds nothing of this one's */
    CHECK(hf_story(&mem, &cache, &err) == INFER_OK && hf.builds == 3 && ocl_kept.puts == 3);
    hf.fail_at = 3; /* open and load set the device; the runtime does not want what was kept */
    hf.fail_code = 200;
    hf.calls = 0;
    CHECK(hf_story(&mem, &cache, &err) == INFER_OK && hf.builds == 4 && ocl_kept.puts == 4);
    CHECK_STR(hf.failed, "hipModuleLoadData");
    CHECK(infer__atomic_get(&mem.used) == 0);
    ocl_cache();
    hf_uninstall();
}

/* What does not belong into a recording ends it; the queue goes on as if there had been none. */
static void test_gpu_hip_record(void) {
    const uint32_t groups[3] = {1, 1, 1};
    hf_args a = {64, 0, 2.0f, 0};
    float x[64];
    void *recording = NULL;
    hf_open o;
    infer_result r;
    int i;
    if (!hf_begin(&o)) return;
    for (i = 0; i < 64; i++) x[i] = (float)i;
    CHECK(hip->record_end(o.queue, &recording, &o.err) == INFER_ERR_DEVICE && !recording);
    CHECK_STR(o.err.message, "no recording was begun");
    for (i = 0; i < 5; i++) {
        CHECK(hip->record(o.queue, &o.err) == INFER_OK);
        CHECK(hip->launch(o.queue, o.kernel, groups, 64, o.b, 2, &a, sizeof a, &o.err) == INFER_OK);
        r = i == 0 ? hip->upload(o.queue, o.b[0], 0, x, sizeof x, &o.err)
          : i == 1 ? hip->download(o.queue, o.b[0], 0, x, sizeof x, &o.err)
          : i == 2 ? hip->sync(o.queue, &o.err)
          : i == 3 ? hip->record(o.queue, &o.err) : hip->replay(o.queue, NULL, &o.err);
        CHECK(r == INFER_ERR_DEVICE);
        CHECK_HAS(o.err.message, " while launches are recorded: the recording is dropped");
        CHECK(hip->record_end(o.queue, &recording, &o.err) == INFER_ERR_DEVICE && !recording);
        CHECK(hf.live[HF_GRAPH] == 0);
    }
    CHECK(hip->upload(o.queue, o.b[0], 0, x, sizeof x, &o.err) == INFER_OK);
    CHECK(hip->sync(o.queue, &o.err) == INFER_OK);
    infer__hip.api.hipGraphLaunch = NULL;
    CHECK(hip->record(o.queue, &o.err) == INFER_ERR_DEVICE);
    CHECK_STR(o.err.message, "this HIP runtime has no graphs");
    infer__hip.api.hipGraphLaunch = hf_hipGraphLaunch;
    CHECK(hip->record(o.queue, &o.err) == INFER_OK); /* and the queue closes in the middle of it */
    hf_end(&o);
}

/* More launches than there is room for times at first; fewer asked for; none that are recorded. */
static void test_gpu_hip_times(void) {
    enum { MANY = 700 };
    static double seconds[MANY];
    const uint32_t groups[3] = {1, 1, 1};
    hf_args a = {64, 0, 2.0f, 0};
    void *recording = NULL;
    int32_t n = -1, i, turn;
    hf_open o;
    if (!hf_begin(&o)) return;
    CHECK(hip->launch(o.queue, o.kernel, groups, 64, o.b, 2, &a, sizeof a, &o.err) == INFER_OK); /* not timed */
    for (turn = 0; turn < 3; turn++) {
        CHECK(hip->timing(o.queue, 1, &o.err) == INFER_OK);
        for (i = 0; i < MANY; i++)
            CHECK(hip->launch(o.queue, o.kernel, groups, 64, o.b, 2, &a, sizeof a, &o.err) == INFER_OK);
        CHECK(hip->record(o.queue, &o.err) == INFER_OK);
        CHECK(hip->launch(o.queue, o.kernel, groups, 64, o.b, 2, &a, sizeof a, &o.err) == INFER_OK);
        CHECK(hip->record_end(o.queue, &recording, &o.err) == INFER_OK);
        hip->recording_close(o.queue, recording);
        CHECK(hip->sync(o.queue, &o.err) == INFER_OK);
        memset(seconds, 0, sizeof seconds);
        CHECK(hip->times(o.queue, seconds, MANY - turn, &n, &o.err) == INFER_OK && n == MANY);
        for (i = 0; i < MANY; i++) CHECK(seconds[i] == (i < MANY - turn ? 0.25 : 0));
        CHECK(hf.live[HF_EVENT] == 2 * MANY); /* used again */
        CHECK(hip->times(o.queue, seconds, MANY, &n, &o.err) == INFER_OK && n == 0);
    }
    CHECK(hip->launch(o.queue, o.kernel, groups, 64, o.b, 2, &a, sizeof a, &o.err) == INFER_OK);
    CHECK(hip->timing(o.queue, 0, &o.err) == INFER_OK);
    CHECK(hip->times(o.queue, seconds, MANY, &n, &o.err) == INFER_OK && n == 0);
    hf_end(&o);
}

static void suite_gpu_hip(void) {
    RUN(test_gpu_hip_library);
    RUN(test_gpu_hip_nothing);
    RUN(test_gpu_hip_order);
    RUN(test_gpu_hip_many);
    RUN(test_gpu_hip_limits);
    RUN(test_gpu_hip_story);
    RUN(test_gpu_hip_failures);
    RUN(test_gpu_hip_oom);
    RUN(test_gpu_hip_calls);
    RUN(test_gpu_hip_log);
    RUN(test_gpu_hip_cache);
    RUN(test_gpu_hip_record);
    RUN(test_gpu_hip_times);
}
