/* test_gpu_opencl.c: the OpenCL driver, called directly, on the first usable device, through wrappers that count objects and
 * make calls fail. */

/* ---- a real device, through wrappers ----------------------------------------------------------------------------- */

static const infer__driver *const ocl = &infer__opencl_driver;

/* The first usable device, or -1. */
static int32_t ocl_find(void) {
    int32_t i, n = ocl->devices(NULL);
    for (i = 0; i < n; i++) {
        infer_device_info info;
        ocl->info(i, &info);
        if (info.usable) return i;
    }
    return -1;
}

enum { OCL_CONTEXT, OCL_QUEUE, OCL_BUFFER, OCL_PROGRAM, OCL_KERNEL, OCL_EVENT, OCL_KINDS };
static infer__cl ocl_real;
static int ocl_live[OCL_KINDS], ocl_sources, ocl_binaries, ocl_finishes, ocl_flushes, ocl_builds[2]; /* builds: without DOT4, with */
static long ocl_calls, ocl_fail_at;         /* the call in a row that fails, 0 = none */
static const char *ocl_fail_name;           /* and calls of this name, or NULL */
static infer__cl_int ocl_fail_code, ocl_status; /* status: what clCreateProgramWithBinary says about a binary */
static const char *ocl_failed;              /* what failed last */
static const char *ocl_log;                 /* instead of the build log */
static size_t ocl_log_size, ocl_binary_size; /* instead of the real ones */

static int ocl_fails(const char *name, infer__cl_int *code) {
    ocl_calls++;
    if (ocl_calls != ocl_fail_at && !(ocl_fail_name && strcmp(ocl_fail_name, name) == 0)) return 0;
    if (ocl_fail_code == 0 && strncmp(name, "clCreate", 8) != 0) return 0; /* 0: success, but no object */
    ocl_failed = name;
    *code = ocl_fail_code;
    return 1;
}
#define OCL_CALL(name, params, args) \
    static infer__cl_int INFER__CL_CALL ocl_##name params { \
        infer__cl_int code; \
        return ocl_fails(#name, &code) ? code : ocl_real.name args; \
    }
#define OCL_MAKE(type, name, kind, params, args) \
    static type INFER__CL_CALL ocl_##name params { \
        type made = ocl_fails(#name, code) ? NULL : ocl_real.name args; \
        if (made) ocl_live[kind]++; \
        return made; \
    }
#define OCL_DROP(type, name, kind) \
    static infer__cl_int INFER__CL_CALL ocl_##name(type x) { \
        infer__cl_int code = 0; \
        ocl_fails(#name, &code); /* done all the same */ \
        CHECK(ocl_live[kind]-- > 0); \
        ocl_real.name(x); \
        return code; \
    }
OCL_MAKE(infer__cl_context, clCreateContext, OCL_CONTEXT,
         (const intptr_t *p, infer__cl_uint n, const infer__cl_device *ids, infer__cl_notify f, void *u,
          infer__cl_int *code),
         (p, n, ids, f, u, code))
OCL_DROP(infer__cl_context, clReleaseContext, OCL_CONTEXT)
OCL_MAKE(infer__cl_queue, clCreateCommandQueue, OCL_QUEUE,
         (infer__cl_context c, infer__cl_device d, infer__cl_bits p, infer__cl_int *code), (c, d, p, code))
OCL_DROP(infer__cl_queue, clReleaseCommandQueue, OCL_QUEUE)
OCL_MAKE(infer__cl_mem, clCreateBuffer, OCL_BUFFER,
         (infer__cl_context c, infer__cl_bits f, size_t n, void *h, infer__cl_int *code), (c, f, n, h, code))
OCL_DROP(infer__cl_mem, clReleaseMemObject, OCL_BUFFER)
OCL_DROP(infer__cl_program, clReleaseProgram, OCL_PROGRAM)
OCL_MAKE(infer__cl_kernel, clCreateKernel, OCL_KERNEL, (infer__cl_program p, const char *s, infer__cl_int *code),
         (p, s, code))
OCL_DROP(infer__cl_kernel, clReleaseKernel, OCL_KERNEL)
static infer__cl_int INFER__CL_CALL ocl_clBuildProgram(infer__cl_program p, infer__cl_uint n, const infer__cl_device *d,
                                                       const char *o, infer__cl_built f, void *u) {
    infer__cl_int code;
    ocl_builds[strstr(o, "-DINFER_DOT4") != NULL]++;
    return ocl_fails("clBuildProgram", &code) ? code : ocl_real.clBuildProgram(p, n, d, o, f, u);
}
static infer__cl_int INFER__CL_CALL ocl_clFlush(infer__cl_queue q) {
    infer__cl_int code;
    ocl_flushes++;
    return ocl_fails("clFlush", &code) ? code : ocl_real.clFlush(q);
}
OCL_CALL(clGetKernelWorkGroupInfo,
         (infer__cl_kernel k, infer__cl_device d, infer__cl_uint w, size_t c, void *t, size_t *n),
         (k, d, w, c, t, n))
OCL_CALL(clSetKernelArg, (infer__cl_kernel k, infer__cl_uint i, size_t n, const void *v), (k, i, n, v))
OCL_CALL(clEnqueueWriteBuffer, (infer__cl_queue q, infer__cl_mem m, infer__cl_uint b, size_t o, size_t n, const void *p,
                                infer__cl_uint w, const infer__cl_event *l, infer__cl_event *e),
         (q, m, b, o, n, p, w, l, e))
OCL_CALL(clEnqueueReadBuffer, (infer__cl_queue q, infer__cl_mem m, infer__cl_uint b, size_t o, size_t n, void *p,
                               infer__cl_uint w, const infer__cl_event *l, infer__cl_event *e),
         (q, m, b, o, n, p, w, l, e))
OCL_CALL(clEnqueueCopyBuffer, (infer__cl_queue q, infer__cl_mem f, infer__cl_mem t, size_t a, size_t b, size_t n,
                               infer__cl_uint w, const infer__cl_event *l, infer__cl_event *e),
         (q, f, t, a, b, n, w, l, e))
OCL_CALL(clGetEventProfilingInfo, (infer__cl_event e, infer__cl_uint w, size_t c, void *t, size_t *n), (e, w, c, t, n))
OCL_DROP(infer__cl_event, clReleaseEvent, OCL_EVENT)
static infer__cl_int INFER__CL_CALL ocl_clEnqueueNDRangeKernel(infer__cl_queue q, infer__cl_kernel k, infer__cl_uint d,
                                                               const size_t *o, const size_t *g, const size_t *s,
                                                               infer__cl_uint w, const infer__cl_event *l,
                                                               infer__cl_event *e) {
    infer__cl_int code;
    if (ocl_fails("clEnqueueNDRangeKernel", &code)) return code;
    code = ocl_real.clEnqueueNDRangeKernel(q, k, d, o, g, s, w, l, e);
    if (!code && e) ocl_live[OCL_EVENT]++;
    return code;
}

static infer__cl_program INFER__CL_CALL ocl_clCreateProgramWithSource(infer__cl_context c, infer__cl_uint n,
                                                                      const char *const *text, const size_t *lengths,
                                                                      infer__cl_int *code) {
    infer__cl_program p = ocl_fails("clCreateProgramWithSource", code)
                        ? NULL : ocl_real.clCreateProgramWithSource(c, n, text, lengths, code);
    ocl_sources++;
    if (p) ocl_live[OCL_PROGRAM]++;
    return p;
}
static infer__cl_program INFER__CL_CALL ocl_clCreateProgramWithBinary(infer__cl_context c, infer__cl_uint n,
                                                                      const infer__cl_device *ids, const size_t *sizes,
                                                                      const unsigned char *const *data,
                                                                      infer__cl_int *status, infer__cl_int *code) {
    infer__cl_program p = ocl_fails("clCreateProgramWithBinary", code)
                        ? NULL : ocl_real.clCreateProgramWithBinary(c, n, ids, sizes, data, status, code);
    ocl_binaries++;
    if (p) ocl_live[OCL_PROGRAM]++;
    if (p && ocl_status) *status = ocl_status;
    return p;
}
static infer__cl_int INFER__CL_CALL ocl_clGetProgramInfo(infer__cl_program p, infer__cl_uint what, size_t cap, void *to,
                                                         size_t *n) {
    infer__cl_int code;
    if (ocl_fails("clGetProgramInfo", &code)) return code;
    code = ocl_real.clGetProgramInfo(p, what, cap, to, n);
    if (ocl_binary_size && what == INFER__CL_PROGRAM_BINARY_SIZES)
        *(size_t *)to = ocl_binary_size == 1 ? 0 : ocl_binary_size; /* 1: says that there is none */
    return code;
}
static infer__cl_int INFER__CL_CALL ocl_clGetProgramBuildInfo(infer__cl_program p, infer__cl_device d,
                                                              infer__cl_uint what, size_t cap, void *to, size_t *n) {
    infer__cl_int code;
    size_t size = ocl_log ? strlen(ocl_log) + 1 : 0;
    if (ocl_fails("clGetProgramBuildInfo", &code)) return code;
    if (!ocl_log) return ocl_real.clGetProgramBuildInfo(p, d, what, cap, to, n);
    if (n) *n = ocl_log_size ? ocl_log_size : size;
    if (to) memcpy(to, ocl_log, size);
    return 0;
}
static infer__cl_int INFER__CL_CALL ocl_clFinish(infer__cl_queue q) {
    infer__cl_int code = 0, real;
    ocl_finishes++;
    ocl_fails("clFinish", &code);
    real = ocl_real.clFinish(q); /* always: host memory is about to go */
    return code ? code : real;
}

static void ocl_wrap(void) {
    infer__cl *cl = &infer__opencl.cl;
    if (!ocl_real.clFinish) ocl_real = *cl; /* the table may still be wrapped, by a test that gave up */
#define OCL_PUT(result, name, args) cl->name = ocl_##name;
#define ocl_clGetPlatformIDs ocl_real.clGetPlatformIDs
#define ocl_clGetPlatformInfo ocl_real.clGetPlatformInfo
#define ocl_clGetDeviceIDs ocl_real.clGetDeviceIDs
#define ocl_clGetDeviceInfo ocl_real.clGetDeviceInfo
    INFER__CL_FUNCTIONS(OCL_PUT)
#undef OCL_PUT
    memset(ocl_live, 0, sizeof ocl_live);
    ocl_fail_at = 0;
    ocl_fail_name = ocl_failed = ocl_log = NULL;
    ocl_fail_code = ocl_status = 0;
    ocl_log_size = ocl_binary_size = 0;
}
static void ocl_count(void) {
    ocl_calls = 0;
    ocl_sources = ocl_binaries = ocl_finishes = ocl_flushes = ocl_builds[0] = ocl_builds[1] = 0;
    ocl_failed = NULL;
}
static void ocl_unwrap(void) {
    int i;
    infer__opencl.cl = ocl_real;
    for (i = 0; i < OCL_KINDS; i++) CHECK(ocl_live[i] == 0);
}

/* ---- programs ---------------------------------------------------------------------------------------------------- */

/* Two pieces, cut inside a word, as an unpacked module may be. */
static const char *const ocl_text[2] = {
    "struct scale_args { uint n, add; float by; uint pad0; };\n"
    "__kernel __attribute__((reqd_work_group_size(64, 1, 1)))\n"
    "void k_scale(__global const float *x, __global float *y, const struct scale_args a) {\n"
    "    uint i = (uint)get_group_id(0) * 64 + (uint)get_local_id(0);\n"
    "    if (i < a.n) y[i] = (a.add ? y[i] : 0.0f) + x[i] * a.b",
    "y;\n}\n"
    "struct place_args { uint nx, ny, limit, pad0; };\n"
    "__kernel __attribute__((reqd_work_group_size(64, 1, 1)))\n"
    "void k_place(__global uint *y, __global const uint *maybe, const struct place_args a) {\n"
    "    uint gx = (uint)get_group_id(0), gy = (uint)get_group_id(1), gz = (uint)get_group_id(2);\n"
    "    uint lid = (uint)get_local_id(0), v = gx | gy << 8 | gz << 16 | lid << 24;\n"
    "    if (a.limit) v += maybe[0];\n"
    "    y[((gz * a.ny + gy) * a.nx + gx) * 64 + lid] = v;\n"
    "}\n"
    "__kernel __attribute__((reqd_work_group_size(64, 1, 1)))\n"
    "void k_bare(__global uint *y) { y[(uint)get_local_id(0)] += 1; }\n"};
typedef struct { uint32_t n, add; float by; uint32_t pad0; } ocl_scale_args;
typedef struct { uint32_t nx, ny, limit, pad0; } ocl_place_args;

static infer__gpu_source ocl_source(const infer_cache *cache) {
    infer__gpu_source s;
    s.text = ocl_text;
    s.n_text = 2;
    s.name = "test";
    s.hash = 0x0123456789abcdefu;
    s.cache = cache;
    return s;
}

/* Open, compile, run a kernel, bring the result back, close. What is not open stays NULL. Returns the first error. */
enum { OCL_N = 100 };
static infer_result ocl_story(int32_t index, infer__mem *mem, const infer_cache *cache, infer_error *err) {
    void *device = NULL, *program = NULL, *queue = NULL, *kernel = NULL;
    uint64_t b[2] = {0, 0};
    const uint32_t groups[3] = {2, 1, 1};
    ocl_scale_args a = {OCL_N, 0, 3.0f, 0};
    float x[OCL_N], y[OCL_N];
    infer__gpu_source s = ocl_source(cache);
    int32_t i;
    infer_result r = ocl->open(&device, mem, index, err);
    for (i = 0; i < OCL_N; i++) { x[i] = (float)i; y[i] = -1; }
    if (!r) r = ocl->load(device, &s, &program, err);
    if (!r) r = ocl->queue_open(&queue, device, err);
    if (!r) r = ocl->kernel_open(&kernel, queue, program, "k_scale", 64, err);
    for (i = 0; i < 2 && !r; i++) r = ocl->alloc(device, sizeof x, &b[i], err);
    if (!r) r = ocl->upload(queue, b[0], 0, x, sizeof x, err);
    if (!r) r = ocl->launch(queue, kernel, groups, 64, b, 2, &a, sizeof a, err);
    if (!r) r = ocl->copy(queue, b[1], 0, b[0], sizeof x / 2, 8, err); /* y[0], y[1] = x[50], x[51] */
    if (!r) r = ocl->download(queue, b[1], 0, y, sizeof y, err);
    if (!r) r = ocl->sync(queue, err);
    for (i = 0; i < OCL_N && !r; i++) CHECK(y[i] == (i < 2 ? (float)(50 + i) : 3.0f * (float)i));
    if (queue) ocl->kernel_close(queue, kernel);
    ocl->release(device, b[0]);
    ocl->release(device, b[1]);
    ocl->unload(device, program);
    ocl->queue_close(queue);
    ocl->close(device);
    return r;
}

/* A cache with one place. */
static struct {
    char key[128], asked[128];
    uint8_t *data;
    size_t n, says, second; /* says: size to claim, 0 = n; second: what the second call returns, 0 = the same */
    int gets, puts;
} ocl_kept;
static size_t ocl_cache_get(void *user, const char *key, void *dst, size_t cap) {
    CHECK(user == &ocl_kept);
    ocl_kept.gets++;
    snprintf(ocl_kept.asked, sizeof ocl_kept.asked, "%s", key);
    if (dst && ocl_kept.n) memcpy(dst, ocl_kept.data, cap < ocl_kept.n ? cap : ocl_kept.n);
    if (dst && ocl_kept.second) return ocl_kept.second;
    return ocl_kept.says ? ocl_kept.says : ocl_kept.n;
}
static void ocl_cache_put(void *user, const char *key, const void *data, size_t n) {
    CHECK(user == &ocl_kept && n > 0);
    ocl_kept.puts++;
    snprintf(ocl_kept.key, sizeof ocl_kept.key, "%s", key);
    free(ocl_kept.data);
    ocl_kept.data = (uint8_t *)malloc(n);
    memcpy(ocl_kept.data, data, n);
    ocl_kept.n = n;
}
static infer_cache ocl_cache(void) {
    infer_cache c;
    free(ocl_kept.data);
    memset(&ocl_kept, 0, sizeof ocl_kept);
    c.user = &ocl_kept;
    c.get = ocl_cache_get;
    c.put = ocl_cache_put;
    return c;
}

static void test_gpu_opencl_story(void) {
    infer__mem mem;
    infer_error err;
    infer_device_info info;
    const char *why = NULL;
    void *device = NULL;
    int32_t index = ocl_find(), n = ocl->devices(&why);
    char text[80];
    CHECK_STR(ocl->name, "opencl");
    CHECK(ocl->backend == INFER_OPENCL);
    infer__mem_init(&mem, NULL, 0);
    CHECK((n == 0) == (why && why[0]));
    CHECK(ocl->open(&device, &mem, n, &err) == INFER_ERR_DEVICE && device == NULL);
    snprintf(text, sizeof text, "there is no OpenCL device %d, there are %d", (int)n, (int)n);
    CHECK_HAS(err.message, n ? text : "no OpenCL device: ");
    CHECK(ocl->open(&device, &mem, -1, &err) == INFER_ERR_DEVICE && device == NULL);
    ocl->info(n, &info);
    CHECK(info.usable == 0 && info.name[0] == 0);
    if (index < 0) SKIP("no OpenCL device");
    ocl->info(index, &info);
    CHECK(info.total > 0 && info.free > 0 && info.free <= info.total && info.name[0] && info.usable == 1);
    CHECK(!info.why_not[0] && info.backend == INFER_OPENCL);
    err.message[0] = 0;
    check_detail = err.message;
    CHECK(ocl_story(index, &mem, NULL, &err) == INFER_OK);
    CHECK(infer__atomic_get(&mem.used) == 0);
    ocl_wrap();
    CHECK(ocl_story(index, &mem, NULL, &err) == INFER_OK);
    ocl_unwrap();
    infer__opencl.rows[index].info.usable = 0;
    CHECK(ocl->open(&device, &mem, index, &err) == INFER_ERR_DEVICE && device == NULL);
    CHECK_HAS(err.message, " cannot be used: ");
    infer__opencl.rows[index].info.usable = 1;
}

/* A device of which everything is open, for the tests below. */
typedef struct ocl_open { void *device, *program, *queue; infer__mem mem; infer_error err; } ocl_open;
static int ocl_begin(ocl_open *o, int32_t index) {
    infer__gpu_source s = ocl_source(NULL);
    infer__mem_init(&o->mem, NULL, 0);
    infer__error_clear(&o->err);
    check_detail = o->err.message;
    o->program = o->queue = NULL;
    CHECK(ocl->open(&o->device, &o->mem, index, &o->err) == INFER_OK);
    if (!o->device) return 0;
    CHECK(ocl->load(o->device, &s, &o->program, &o->err) == INFER_OK);
    CHECK(ocl->queue_open(&o->queue, o->device, &o->err) == INFER_OK);
    return o->program && o->queue;
}
static void ocl_end(ocl_open *o) {
    check_detail = "";
    ocl->queue_close(o->queue);
    ocl->unload(o->device, o->program);
    ocl->close(o->device);
    CHECK(infer__atomic_get(&o->mem.used) == 0);
}

static void ocl_check_places(ocl_open *o, void *kernel, uint64_t buf, const uint32_t groups[3]) {
    enum { MOST = 2 * 3 * 4 * 64 };
    uint32_t y[MOST], i, n = groups[0] * groups[1] * groups[2] * 64;
    uint64_t bufs[2];
    ocl_place_args a = {0, 0, 0, 0};
    a.nx = groups[0];
    a.ny = groups[1];
    bufs[0] = buf;
    bufs[1] = 0; /* not looked at: a null pointer is fine */
    for (i = 0; i < MOST; i++) y[i] = 0xeeeeeeeeu;
    CHECK(ocl->upload(o->queue, buf, 0, y, sizeof y, &o->err) == INFER_OK);
    CHECK(ocl->launch(o->queue, kernel, groups, 64, bufs, 2, &a, sizeof a, &o->err) == INFER_OK);
    CHECK(ocl->download(o->queue, buf, 0, y, sizeof y, &o->err) == INFER_OK);
    CHECK(ocl->sync(o->queue, &o->err) == INFER_OK);
    for (i = 0; i < MOST; i++) {
        uint32_t g = i / 64, want = 0xeeeeeeeeu;
        if (i < n)
            want = g % groups[0] | g / groups[0] % groups[1] << 8 | g / groups[0] / groups[1] << 16 | (i % 64) << 24;
        CHECK(y[i] == want);
    }
}

static void test_gpu_opencl_run(void) {
    static const uint32_t grids[][3] = {{2, 3, 4}, {4, 3, 2}, {1, 1, 1}, {0, 1, 1}, {1, 0, 1}, {1, 1, 0}, {5, 1, 2}};
    const uint32_t one[3] = {1, 1, 1};
    uint32_t y[64 + 16], i;
    uint64_t buf = 7, none = 7, bufs[2];
    ocl_place_args a = {1, 1, 1, 0};
    void *place = NULL, *bare = NULL, *kernel = NULL;
    ocl_open o;
    int32_t index = ocl_find();
    if (index < 0) SKIP("no OpenCL device");
    ocl_wrap();
    if (!ocl_begin(&o, index)) return;
    CHECK(ocl->kernel_open(&place, o.queue, o.program, "k_place", 64, &o.err) == INFER_OK);
    CHECK(ocl->kernel_open(&bare, o.queue, o.program, "k_bare", 64, &o.err) == INFER_OK);
    if (!place || !bare) return;
    CHECK(ocl->kernel_open(&kernel, o.queue, o.program, "k_nothing", 64, &o.err) == INFER_ERR_DEVICE && !kernel);
    CHECK_STR(o.err.message, "clCreateKernel failed: CL_INVALID_KERNEL_NAME (-46)");
    CHECK(ocl->kernel_open(&kernel, o.queue, o.program, "k_bare", 1 << 30, &o.err) == INFER_ERR_DEVICE && !kernel);
    CHECK_HAS(o.err.message, "k_bare needs groups of 1073741824 work-items");

    CHECK(ocl->alloc(o.device, 2 * 3 * 4 * 64 * 4, &buf, &o.err) == INFER_OK && buf != 0);
    for (i = 0; i < INFER__COUNT(grids); i++) ocl_check_places(&o, place, buf, grids[i]);

    /* order, offsets, copies inside a buffer, a kernel without args */
    for (i = 0; i < 80; i++) y[i] = i;
    CHECK(ocl->upload(o.queue, buf, 0, y, 64 * 4, &o.err) == INFER_OK);
    CHECK(ocl->launch(o.queue, bare, one, 64, &buf, 1, NULL, 0, &o.err) == INFER_OK);      /* i + 1 */
    CHECK(ocl->copy(o.queue, buf, 64 * 4, buf, 8 * 4, 16 * 4, &o.err) == INFER_OK);        /* 64.. = 9 .. 24 */
    CHECK(ocl->upload(o.queue, buf, 4 * 4, y + 70, 2 * 4, &o.err) == INFER_OK);            /* 4, 5 = 70, 71 */
    CHECK(ocl->launch(o.queue, bare, one, 64, &buf, 1, NULL, 0, &o.err) == INFER_OK);      /* + 1 below 64 */
    CHECK(ocl->download(o.queue, buf, 4, y + 1, 79 * 4, &o.err) == INFER_OK);
    CHECK(ocl->sync(o.queue, &o.err) == INFER_OK);
    for (i = 1; i < 80; i++) CHECK(y[i] == (i >= 64 ? i - 64 + 9 : i == 4 || i == 5 ? i + 67 : i + 2));

    /* a second buffer that is there */
    bufs[0] = buf;
    bufs[1] = 0;
    CHECK(ocl->alloc(o.device, 4, &bufs[1], &o.err) == INFER_OK);
    i = 5;
    CHECK(ocl->upload(o.queue, bufs[1], 0, &i, 4, &o.err) == INFER_OK);
    CHECK(ocl->launch(o.queue, place, one, 64, bufs, 2, &a, sizeof a, &o.err) == INFER_OK);
    CHECK(ocl->download(o.queue, buf, 0, y, 8, &o.err) == INFER_OK);
    CHECK(ocl->sync(o.queue, &o.err) == INFER_OK);
    CHECK(y[0] == 5 && y[1] == (1u << 24) + 5);

    /* nothing to do: no call is made */
    ocl_count();
    CHECK(ocl->alloc(o.device, 0, &none, &o.err) == INFER_OK && none == 0);
    ocl->release(o.device, none);
    CHECK(ocl->upload(o.queue, buf, 1 << 20, NULL, 0, &o.err) == INFER_OK);
    CHECK(ocl->download(o.queue, buf, 1 << 20, NULL, 0, &o.err) == INFER_OK);
    CHECK(ocl->copy(o.queue, buf, 0, buf, 0, 0, &o.err) == INFER_OK);
    for (i = 3; i < 6; i++) CHECK(ocl->launch(o.queue, bare, grids[i], 64, &buf, 1, NULL, 0, &o.err) == INFER_OK);
    CHECK(ocl_calls == 0);
    ocl->release(o.device, bufs[1]);
    ocl->release(o.device, buf);
    ocl->kernel_close(o.queue, place);
    ocl->kernel_close(o.queue, bare);
    ocl->kernel_close(o.queue, NULL);
    ocl->unload(o.device, NULL);
    ocl->queue_close(NULL);
    ocl->close(NULL);
    ocl_end(&o);
    ocl_unwrap();
}

/* Buffers that are too large, by the device's word and by the driver's. */
static void test_gpu_opencl_large(void) {
    ocl_open o;
    uint64_t buf = 7, most;
    char text[64];
    int32_t index = ocl_find();
    if (index < 0) SKIP("no OpenCL device");
    ocl_wrap();
    if (!ocl_begin(&o, index)) return;
    most = infer__opencl.rows[index].max_alloc;
    CHECK(most >= (uint64_t)1 << 20);
    ocl_count();
    CHECK(ocl->alloc(o.device, most + 1, &buf, &o.err) == INFER_ERR_MEMORY && buf == 0);
    snprintf(text, sizeof text, "a buffer of %.0f bytes: ", (double)(most + 1));
    CHECK_HAS(o.err.message, text);
    snprintf(text, sizeof text, " takes at most %.0f in one", (double)most);
    CHECK_HAS(o.err.message, text);
    CHECK(ocl->alloc(o.device, UINT64_MAX, &buf, &o.err) == INFER_ERR_MEMORY && buf == 0);
    CHECK(ocl_calls == 0);
    infer__opencl.rows[index].max_alloc = UINT64_MAX; /* now the driver has to say it */
    CHECK(ocl->alloc(o.device, sizeof(size_t) < 8 ? 0xffffff00u : (uint64_t)1 << 60, &buf, &o.err) == INFER_ERR_MEMORY);
    CHECK(buf == 0);
    CHECK_HAS(o.err.message, "clCreateBuffer failed: CL_");
    infer__opencl.rows[index].max_alloc = most;
    ocl_end(&o);
    ocl_unwrap();
}

/* ---- failures ---------------------------------------------------------------------------------------------------- */

/* May this call fail without an error? Releases, the caller's cache, and the wait before a queue is closed. */
static int ocl_may_fail(const char *name, int warm) {
    if (strncmp(name, "clRelease", 9) == 0 || strcmp(name, "clGetProgramInfo") == 0) return 1;
    if (strcmp(name, "clFinish") == 0) return ocl_finishes > 1; /* the first one is sync */
    return warm && (strcmp(name, "clCreateProgramWithBinary") == 0 || strcmp(name, "clBuildProgram") == 0);
}

/* The story, with call after call failing in one way. warm: the program comes from the cache. Returns calls. */
static long ocl_break(int32_t index, infer__cl_int code, int warm) {
    infer_cache cache = ocl_cache();
    infer__mem mem;
    infer_error err;
    char want[160];
    int kind;
    infer__mem_init(&mem, NULL, 0);
    if (warm) CHECK(ocl_story(index, &mem, &cache, &err) == INFER_OK);
    for (ocl_fail_at = 1;; ocl_fail_at++) {
        infer_result r;
        infer__error_clear(&err);
        ocl_count();
        ocl_fail_code = code;
        if (!warm) cache = ocl_cache();
        r = ocl_story(index, &mem, &cache, &err);
        CHECK(infer__atomic_get(&mem.used) == 0);
        for (kind = 0; kind < OCL_KINDS; kind++) CHECK(ocl_live[kind] == 0);
        check_detail = ocl_failed ? ocl_failed : "no call";
        if (ocl_calls < ocl_fail_at) break;
        if (r == INFER_OK || !ocl_failed) {
            CHECK(r == INFER_OK && (!ocl_failed || ocl_may_fail(ocl_failed, warm)));
            continue;
        }
        snprintf(want, sizeof want, "%s failed: CL_%s (%d)", ocl_failed, infer__cl_code_name(code), (int)code);
        CHECK_HAS(err.message, want);
        kind = code == -4 || (strcmp(ocl_failed, "clCreateBuffer") == 0 && (code == -5 || code == -6 || code == -61));
        CHECK(r == err.code && r == (kind ? INFER_ERR_MEMORY : INFER_ERR_DEVICE));
    }
    CHECK(!ocl_failed);
    ocl_fail_at = 0;
    return ocl_calls;
}

static void test_gpu_opencl_failures(void) {
    int32_t index = ocl_find();
    if (index < 0) SKIP("no OpenCL device");
    ocl_wrap();
    CHECK(ocl_break(index, -5, 0) >= 25);
    CHECK(ocl_kept.puts == 1);
    CHECK(ocl_break(index, 0, 0) >= 25);
    CHECK(ocl_break(index, -4, 1) >= 20);
    ocl_cache();
    ocl_unwrap();
}

/* A device that lists packed dot products: programs are built with them, and without where the compiler refuses that. */
static void test_gpu_opencl_dots(void) {
    static const char *const refuses[] = {
        "#ifdef INFER_DOT4\n#error no such function\n#endif\n"
        "__kernel void k_bare(__global uint *y) { y[(uint)get_local_id(0)] += 1; }\n"};
    static const char *const broken[] = {"__kernel void k_bare(__global uint *y) { y[0] = no_such_name; }\n"};
    const int32_t index = ocl_find();
    int32_t dots, i;
    infer__mem mem;
    infer_error err;
    if (index < 0) SKIP("no OpenCL device");
    dots = infer__opencl.rows[index].dots;
    infer__mem_init(&mem, NULL, 0);
    ocl_wrap();
    CHECK(dots == infer__cl_has(&infer__opencl.cl, infer__opencl.rows[index].device, "cl_khr_integer_dot_product"));
    CHECK(infer__cl_has(&infer__opencl.cl, infer__opencl.rows[index].device, "cl_khr_byte_addressable_store"));
    CHECK(!infer__cl_has(&infer__opencl.cl, infer__opencl.rows[index].device, "cl_khr_byte_addressable"));
    for (i = 0; i < 4; i++) { /* not listed, listed, and a compiler that refuses it; a program with a mistake */
        infer__gpu_source s = ocl_source(NULL);
        void *device = NULL, *program = NULL;
        infer__opencl.rows[index].dots = i > 0;
        if (i > 1) s.text = i == 2 ? refuses : broken;
        if (i > 1) s.n_text = 1;
        ocl_count();
        infer__error_clear(&err);
        CHECK(ocl->open(&device, &mem, index, &err) == INFER_OK);
        CHECK((ocl->load(device, &s, &program, &err) == INFER_OK) == (i < 3));
        CHECK(ocl_builds[1] == (i > 0) && ocl_builds[0] == (i != 1));
        if (i == 3) CHECK_HAS(err.message, "clBuildProgram failed: CL_BUILD_PROGRAM_FAILURE (-11)");
        ocl->unload(device, program);
        ocl->close(device);
    }
    infer__opencl.rows[index].dots = dots;
    CHECK(infer__atomic_get(&mem.used) == 0);
    ocl_unwrap();
}

/* What was launched goes to the device every 32 launches, and when that fails the launch says so. */
static void test_gpu_opencl_flush(void) {
    ocl_place_args args = {1, 1, 0, 0};
    const uint32_t groups[3] = {1, 1, 1};
    uint64_t mem = 0, bufs[2];
    void *kernel = NULL;
    int32_t index = ocl_find(), i;
    ocl_open o;
    if (index < 0) SKIP("no OpenCL device");
    ocl_wrap();
    if (!ocl_begin(&o, index)) return;
    ocl_count();
    CHECK(ocl->alloc(o.device, 256, &mem, &o.err) == INFER_OK);
    CHECK(ocl->kernel_open(&kernel, o.queue, o.program, "k_place", 64, &o.err) == INFER_OK);
    bufs[0] = bufs[1] = mem;
    for (i = 1; i <= 100 && kernel; i++) {
        CHECK(ocl->launch(o.queue, kernel, groups, 64, bufs, 2, &args, sizeof args, &o.err) == INFER_OK);
        if (i == 70) CHECK(ocl->sync(o.queue, &o.err) == INFER_OK && ocl_flushes == 2); /* the count begins again */
    }
    CHECK(ocl_flushes == 2);
    ocl_fail_name = "clFlush";
    ocl_fail_code = -36;
    for (i = 0; i < 2 && kernel; i++) {
        infer_result r = ocl->launch(o.queue, kernel, groups, 64, bufs, 2, &args, sizeof args, &o.err);
        CHECK(r == (i == 1 ? INFER_ERR_DEVICE : INFER_OK));
    }
    CHECK_STR(o.err.message, "clFlush failed: CL_INVALID_COMMAND_QUEUE (-36)");
    ocl_fail_name = NULL;
    if (kernel) ocl->kernel_close(o.queue, kernel);
    ocl->release(o.device, mem);
    ocl_end(&o);
    ocl_unwrap();
}

/* Which codes mean that memory is missing. */
static void test_gpu_opencl_codes(void) {
    static const struct { const char *call; infer__cl_int code; infer_result want; } rows[] = {
        {"clCreateBuffer", -4, INFER_ERR_MEMORY}, {"clCreateBuffer", -5, INFER_ERR_MEMORY},
        {"clCreateBuffer", -6, INFER_ERR_MEMORY}, {"clCreateBuffer", -61, INFER_ERR_MEMORY},
        {"clCreateBuffer", -34, INFER_ERR_DEVICE}, {"clCreateBuffer", -9999, INFER_ERR_DEVICE},
        {"clEnqueueNDRangeKernel", -4, INFER_ERR_MEMORY}, {"clEnqueueNDRangeKernel", -5, INFER_ERR_DEVICE},
        {"clEnqueueNDRangeKernel", -6, INFER_ERR_DEVICE}, {"clFinish", -36, INFER_ERR_DEVICE},
        {"clCreateContext", -6, INFER_ERR_DEVICE}};
    int32_t index = ocl_find();
    infer__mem mem;
    infer_error err;
    char want[120];
    size_t i;
    if (index < 0) SKIP("no OpenCL device");
    ocl_wrap();
    infer__mem_init(&mem, NULL, 0);
    for (i = 0; i < INFER__COUNT(rows); i++) {
        check_detail = rows[i].call;
        ocl_fail_name = rows[i].call;
        ocl_fail_code = rows[i].code;
        CHECK(ocl_story(index, &mem, NULL, &err) == rows[i].want && err.code == rows[i].want);
        snprintf(want, sizeof want, "%s failed: CL_%s (%d)", rows[i].call, infer__cl_code_name(rows[i].code),
                 (int)rows[i].code);
        CHECK_HAS(err.message, want);
    }
    CHECK_STR(infer__cl_code_name(-5), "OUT_OF_RESOURCES");
    CHECK_STR(infer__cl_code_name(-9999), "code of the vendor");
    check_detail = "";
    ocl_fail_name = "clEnqueueNDRangeKernel";
    ocl_fail_code = -5;
    CHECK(ocl_story(index, &mem, NULL, &err) == INFER_ERR_DEVICE);
    CHECK_STR(err.message, "clEnqueueNDRangeKernel failed: CL_OUT_OF_RESOURCES (-5)");
    CHECK(infer__atomic_get(&mem.used) == 0);
    ocl_unwrap();
}

/* The library's own memory runs out, at every allocation. */
static void test_gpu_opencl_oom(void) {
    infer_allocator counting = {NULL, check_alloc, check_free};
    infer_cache cache = ocl_cache();
    infer__mem mem;
    infer_error err;
    int32_t index = ocl_find();
    int errors = 0;
    infer_result r;
    if (index < 0) SKIP("no OpenCL device");
    ocl_wrap();
    infer__mem_init(&mem, &counting, 0);
    check_live = 0;
    for (check_fail_at = 1;; check_fail_at++) {
        check_allocs = 0;
        infer__error_clear(&err);
        r = ocl_story(index, &mem, &cache, &err);
        CHECK(check_live == 0 && infer__atomic_get(&mem.used) == 0);
        if (check_allocs < check_fail_at) break;
        CHECK(r == INFER_OK || (r == INFER_ERR_MEMORY && strncmp(err.message, "no memory ", 10) == 0));
        errors += r != INFER_OK;
    }
    check_fail_at = 0;
    CHECK(r == INFER_OK && errors == 2); /* device, queue; the cache goes without */
    ocl_cache();
    ocl_unwrap();
}

/* What a compiler says ends up in the message. */
static void test_gpu_opencl_log(void) {
    static const char *const wrong[1] = {"__kernel void k_wrong(__global float *y) { y[0] = no_such_name; }\n"};
    static char longer[100000];
    infer__gpu_source s = ocl_source(NULL);
    void *program = NULL;
    ocl_open o;
    int32_t index = ocl_find();
    if (index < 0) SKIP("no OpenCL device");
    ocl_wrap();
    if (!ocl_begin(&o, index)) return;
    s.text = wrong;
    s.n_text = 1;
    s.name = "wrong";
    CHECK(ocl->load(o.device, &s, &program, &o.err) == INFER_ERR_DEVICE && !program);
    CHECK_HAS(o.err.message, "clBuildProgram failed: CL_BUILD_PROGRAM_FAILURE (-11): ");
    CHECK_HAS(o.err.message, "no_such_name");
    CHECK_HAS(o.err.message, "rror");
#define LOG(text, end) \
    do { \
        ocl_log = text; \
        check_detail = #text; \
        CHECK(ocl->load(o.device, &s, &program, &o.err) == INFER_ERR_DEVICE && !program); \
        CHECK_STR(strstr(o.err.message, "(-11)") ? strstr(o.err.message, "(-11)") + 5 : "", end); \
    } while (0)
    LOG("warning: x\nprogram:1:2: error: y\n   z = 1;\r\n\t^\n", ": program:1:2: error: y z = 1; ^ ");
    LOG("a\nb\nXERROR", ": XERROR");
    LOG("Error: first\nerror: second", ": Error: first error: second");
    LOG("err\nerro\nsomething else\n", ": err erro something else ");
    LOG("", ": no log");
    LOG("  \n", ": no log");
    ocl_log_size = (size_t)-1; /* a size that cannot be */
    LOG("error", ": no log");
    ocl_log_size = (16 << 20) + 1;
    LOG("error", ": no log");
    ocl_log_size = 50; /* more than it writes */
    LOG("error", ": error");
    ocl_log_size = 0;
    memset(longer, 'w', sizeof longer - 1);
    longer[600] = '\n';
    memcpy(longer + 601, "error \xc3\xbc here\n", 14);
    ocl_log = longer;
    CHECK(ocl->load(o.device, &s, &program, &o.err) == INFER_ERR_DEVICE);
    CHECK_HAS(o.err.message, ": error \xc3\xbc here wwww");
    CHECK(strlen(o.err.message) > 400 && strlen(o.err.message) < sizeof o.err.message);
    ocl_log = NULL;
    ocl_fail_name = "clGetProgramBuildInfo";
    ocl_fail_code = -30;
    CHECK(ocl->load(o.device, &s, &program, &o.err) == INFER_ERR_DEVICE);
    CHECK_HAS(o.err.message, ": no log");
#undef LOG
    ocl_fail_name = NULL;
    ocl_end(&o);
    ocl_unwrap();
}

/* A group that does not fit, a size that is not known. */
static infer__cl_int INFER__CL_CALL ocl_small_group(infer__cl_kernel k, infer__cl_device d, infer__cl_uint what,
                                                    size_t cap, void *to, size_t *n) {
    (void)k; (void)d; (void)n;
    CHECK(what == INFER__CL_KERNEL_WORK_GROUP_SIZE && cap == sizeof(size_t));
    *(size_t *)to = 63;
    return 0;
}
static void test_gpu_opencl_group(void) {
    ocl_open o;
    void *kernel = NULL;
    int32_t index = ocl_find(), rusticl;
    if (index < 0) SKIP("no OpenCL device");
    rusticl = infer__opencl.rows[index].rusticl;
    ocl_wrap();
    if (!ocl_begin(&o, index)) return;
    infer__opencl.cl.clGetKernelWorkGroupInfo = ocl_small_group;
    infer__opencl.rows[index].rusticl = 0;
    CHECK(ocl->kernel_open(&kernel, o.queue, o.program, "k_scale", 64, &o.err) == INFER_ERR_DEVICE && !kernel);
    CHECK_STR(o.err.message, "k_scale needs groups of 64 work-items, the device runs 63");
    infer__opencl.rows[index].rusticl = 1; /* whose answer is not believed */
    CHECK(ocl->kernel_open(&kernel, o.queue, o.program, "k_scale", 64, &o.err) == INFER_OK && kernel);
    if (kernel) ocl->kernel_close(o.queue, kernel);
    infer__opencl.rows[index].rusticl = rusticl;
    ocl_end(&o);
    ocl_unwrap();
}

/* Launches are timed when that is asked for, and every call of it may fail. */
static infer_result ocl_times(ocl_open *o, double *seconds, int32_t *n) {
    ocl_place_args args = {1, 1, 0, 0};
    uint32_t groups[3] = {1, 1, 1};
    uint64_t mem = 0, bufs[2];
    void *kernel = NULL;
    infer_result r;
    int i;
    infer__error_clear(&o->err);
    *n = -1;
    r = ocl->timing(o->queue, 1, &o->err);
    if (!r) r = ocl->alloc(o->device, 256, &mem, &o->err);
    if (!r) r = ocl->kernel_open(&kernel, o->queue, o->program, "k_place", 64, &o->err);
    bufs[0] = bufs[1] = mem;
    for (i = 0; i < 3 && !r; i++) r = ocl->launch(o->queue, kernel, groups, 64, bufs, 2, &args, sizeof args, &o->err);
    if (!r) r = ocl->sync(o->queue, &o->err);
    if (!r) r = ocl->times(o->queue, seconds, 2, n, &o->err);
    if (!r) CHECK(*n == 3);
    if (!r) r = ocl->times(o->queue, seconds, 2, n, &o->err);
    if (!r) CHECK(*n == 0);
    if (kernel) ocl->kernel_close(o->queue, kernel);
    if (mem) ocl->release(o->device, mem);
    return r;
}
static void test_gpu_opencl_times(void) {
    ocl_open o;
    int32_t index = ocl_find(), n, k;
    long calls;
    double seconds[2] = {-1, -1};
    if (index < 0) SKIP("no OpenCL device");
    ocl_wrap();
    if (!ocl_begin(&o, index)) return;
    ocl_count();
    CHECK(ocl_times(&o, seconds, &n) == INFER_OK);
    CHECK(seconds[0] >= 0 && seconds[0] < 60 && seconds[1] >= 0);
    calls = ocl_calls;
    CHECK(calls > 10);
    for (k = 1; k <= calls; k++) {
        ocl_calls = 0;
        ocl_fail_at = k;
        ocl_fail_code = -5;
        if (ocl_times(&o, seconds, &n)) CHECK(o.err.code == INFER_ERR_DEVICE || o.err.code == INFER_ERR_MEMORY);
        ocl_fail_at = 0;
    }
    CHECK(ocl_times(&o, seconds, &n) == INFER_OK); /* and still works */
    CHECK(ocl->timing(o.queue, 0, &o.err) == INFER_OK);
    ocl_end(&o);
    ocl_unwrap();
}

/* ---- the caller's cache ------------------------------------------------------------------------------------------ */

/* Run the story with a cache that is as the caller made it: what was used, and it must work in any case. */
static void ocl_cached(int32_t index, const infer_cache *cache, int sources, int binaries, int puts) {
    infer__mem mem;
    infer_error err;
    infer__mem_init(&mem, NULL, 0);
    ocl_count();
    ocl_kept.puts = 0;
    CHECK(ocl_story(index, &mem, cache, &err) == INFER_OK);
    CHECK(ocl_sources == sources);
    CHECK(ocl_binaries == binaries);
    CHECK(ocl_kept.puts == puts);
    CHECK(infer__atomic_get(&mem.used) == 0);
}

static void test_gpu_opencl_cache(void) {
    infer_cache cache = ocl_cache(), half;
    int32_t index = ocl_find(), i;
    size_t n, at[5];
    const char *k = ocl_kept.key;
    if (index < 0) SKIP("no OpenCL device");
    ocl_wrap();
    ocl_cached(index, &cache, 1, 0, 1);
    CHECK(ocl_kept.n > 16 && memcmp(ocl_kept.data, "infercl1", 8) == 0);
    CHECK(strncmp(k, "infer-opencl-", 13) == 0 && strlen(k) == 13 + 16 + 5);
    CHECK(strspn(k + 13, "0123456789abcdef") == 16);
    CHECK_STR(k + 13 + 16, "-test");
    CHECK_STR(ocl_kept.asked, k);
    check_detail = "found";
    ocl_cached(index, &cache, 0, 1, 0);
    CHECK_STR(ocl_kept.asked, k);
    n = ocl_kept.n;
    at[0] = 0; at[1] = 8; at[2] = 16; at[3] = n / 2; at[4] = n - 1;
    for (i = 0; i < 5; i++) {
        check_detail = "a changed byte";
        ocl_kept.data[at[i]] ^= 1;
        ocl_cached(index, &cache, 1, 0, 1); /* and the driver never sees it */
    }
    for (i = 0; i < 4; i++) {
        check_detail = "cut";
        ocl_kept.n = i == 0 ? 5 : i == 1 ? 16 : i == 2 ? 17 : ocl_kept.n - 1;
        ocl_cached(index, &cache, 1, 0, 1);
    }
    check_detail = "sizes that cannot be";
    ocl_kept.says = (size_t)-1;
    ocl_cached(index, &cache, 1, 0, 1);
    ocl_kept.says = ((size_t)256 << 20) + 1;
    ocl_kept.gets = 0;
    ocl_cached(index, &cache, 1, 0, 1);
    CHECK(ocl_kept.gets == 1); /* not fetched */
    ocl_kept.says = ocl_kept.n + 1;
    ocl_cached(index, &cache, 1, 0, 1);
    ocl_kept.says = 0;
    ocl_kept.second = 10; /* something else at the second call */
    ocl_cached(index, &cache, 1, 0, 1);
    ocl_kept.second = 0;
    check_detail = "the driver does not want it";
    ocl_fail_name = "clCreateProgramWithBinary";
    ocl_fail_code = -42;
    ocl_cached(index, &cache, 1, 1, 1);
    ocl_fail_code = 0;
    ocl_cached(index, &cache, 1, 1, 1);
    ocl_fail_name = NULL;
    ocl_status = -42;
    ocl_cached(index, &cache, 1, 1, 1);
    ocl_status = 0;
    check_detail = "no binary to be had";
    cache = ocl_cache();
    for (i = 0; i < 3; i++) {
        ocl_binary_size = i == 0 ? 1 : i == 1 ? (size_t)-1 : ((size_t)256 << 20) - 15;
        ocl_cached(index, &cache, 1, 0, 0);
    }
    ocl_binary_size = 0;
    check_detail = "half a cache";
    half = cache;
    half.put = NULL;
    ocl_cached(index, &half, 1, 0, 0);
    half = cache;
    half.get = NULL;
    ocl_cached(index, &half, 1, 0, 1);
    ocl_cached(index, &cache, 0, 1, 0);
    ocl_cached(index, &half, 1, 0, 1);
    half.put = NULL;
    ocl_cached(index, &half, 1, 0, 0);
    ocl_cache();
    ocl_unwrap();
}

/* Everything that a binary depends on is in the key; and another key's program is not taken for this one's. */
static void test_gpu_opencl_key(void) {
    infer_cache cache = ocl_cache();
    infer__gpu_source s = ocl_source(&cache);
    ocl_open o;
    void *p = NULL;
    char first[128];
    uint64_t *hash;
    int32_t index = ocl_find(), i;
    if (index < 0) SKIP("no OpenCL device");
    ocl_wrap();
    if (!ocl_begin(&o, index)) return;
    hash = &infer__opencl.rows[index].hash;
    CHECK(ocl->load(o.device, &s, &p, &o.err) == INFER_OK);
    ocl->unload(o.device, p);
    snprintf(first, sizeof first, "%s", ocl_kept.key);
    for (i = 0; i < 4; i++) {
        if (i == 0) s.hash ^= (uint64_t)1 << 63;
        if (i == 1) s.name = "tes";
        if (i == 2) s.name = "a-module-with-a-name-that-is-too-long-for-a-key-that-a-caller-would-use-as-a-file";
        if (i == 3) *hash ^= 1;
        ocl_count();
        p = NULL;
        CHECK(ocl->load(o.device, &s, &p, &o.err) == INFER_OK);
        ocl->unload(o.device, p);
        CHECK(strcmp(ocl_kept.key, first) != 0 && strlen(ocl_kept.key) < 96);
        CHECK(ocl_sources == 1 && ocl_binaries == 0);
        snprintf(first, sizeof first, "%s", ocl_kept.key);
    }
    *hash ^= 1;
    ocl_end(&o);
    ocl_cache();
    ocl_unwrap();
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */

typedef struct ocl_worker { ocl_open *o; int bad; uint32_t number; infer_error err; infer__thread thread; } ocl_worker;

/* A queue and a kernel of its own on a device that others use. */
static void ocl_work(void *arg) {
    ocl_worker *w = (ocl_worker *)arg;
    void *queue = NULL, *kernel = NULL;
    uint64_t b[2] = {0, 0};
    const uint32_t groups[3] = {1, 1, 1};
    ocl_scale_args a = {64, 1, 0, 0};
    float x[64], y[64];
    int i, turn;
    infer_result r = ocl->queue_open(&queue, w->o->device, &w->err);
    if (!r) r = ocl->kernel_open(&kernel, queue, w->o->program, "k_scale", 64, &w->err);
    for (i = 0; i < 2 && !r; i++) r = ocl->alloc(w->o->device, sizeof x, &b[i], &w->err);
    for (i = 0; i < 64; i++) { x[i] = (float)i; y[i] = (float)w->number; }
    if (!r) r = ocl->upload(queue, b[0], 0, x, sizeof x, &w->err);
    if (!r) r = ocl->upload(queue, b[1], 0, y, sizeof y, &w->err);
    a.by = (float)w->number;
    for (turn = 0; turn < 20 && !r; turn++) r = ocl->launch(queue, kernel, groups, 64, b, 2, &a, sizeof a, &w->err);
    if (!r) r = ocl->download(queue, b[1], 0, y, sizeof y, &w->err);
    if (!r) r = ocl->sync(queue, &w->err);
    for (i = 0; i < 64 && !r; i++) w->bad += y[i] != (float)w->number * (float)(1 + 20 * i);
    w->bad += r != INFER_OK;
    if (queue) ocl->kernel_close(queue, kernel);
    ocl->release(w->o->device, b[0]);
    ocl->release(w->o->device, b[1]);
    ocl->queue_close(queue);
}

static void test_gpu_opencl_threads(void) {
    ocl_open o;
    ocl_worker w[3];
    int started[3], i;
    int32_t index = ocl_find();
    if (index < 0) SKIP("no OpenCL device");
    if (!ocl_begin(&o, index)) return;
    memset(w, 0, sizeof w);
    for (i = 0; i < 3; i++) {
        w[i].o = &o;
        w[i].number = (uint32_t)i + 1;
        started[i] = strstr(infer__opencl.rows[index].info.name, "Oclgrind") == NULL && /* crashes */
                     infer__thread_start(&w[i].thread, ocl_work, &w[i]);
        if (!started[i]) ocl_work(&w[i]);
    }
    for (i = 0; i < 3; i++) {
        if (started[i]) infer__thread_join(&w[i].thread);
        check_detail = w[i].err.message;
        CHECK(w[i].bad == 0);
    }
    check_detail = "";
    ocl_end(&o);
}

static void suite_gpu_opencl(void) {
    RUN_DEVICE(test_gpu_opencl_story);
    RUN_DEVICE(test_gpu_opencl_run);
    RUN_DEVICE(test_gpu_opencl_large);
    RUN_DEVICE(test_gpu_opencl_failures);
    RUN_DEVICE(test_gpu_opencl_codes);
    RUN_DEVICE(test_gpu_opencl_dots);
    RUN_DEVICE(test_gpu_opencl_flush);
    RUN_DEVICE(test_gpu_opencl_oom);
    RUN_DEVICE(test_gpu_opencl_log);
    RUN_DEVICE(test_gpu_opencl_group);
    RUN_DEVICE(test_gpu_opencl_times);
    RUN_DEVICE(test_gpu_opencl_cache);
    RUN_DEVICE(test_gpu_opencl_key);
    RUN_DEVICE(test_gpu_opencl_threads);
}
