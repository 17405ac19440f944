/* test_gpu_metal.c: driver_metal.c on the double of Metal (tests/drivers/metal/fake_metal.c): devices, memory that the CPU
 * sees and memory that it does not, order of what is queued, times, and every failure that the double can bring about.
 * Built with INFER__METAL_LIBRARY, the double's path. Comes after test_gpu_models.c, whose helpers it uses.
 * After every test the double must have seen no mistake, and nothing of a device may be left.
 */
static struct metal_double {
    void (*fail)(const char *list);
    void (*devices)(const char *list);
    long (*mistakes)(void);
    long (*live)(int print);
    long (*fired)(void);
    void (*forgive)(void);
    int there;
} metal_double;

static int metal_there(void) {
    static int tried;
    struct metal_double *m = &metal_double;
    const char *missing = NULL;
    void *lib;
    if (tried) return m->there;
    tried = 1;
    lib = infer__lib_open(INFER__METAL_LIBRARY);
    if (!lib) return 0;
    INFER__GPU_LOOK_UP(m->fail, lib, "fake_metal_fail", missing)
    INFER__GPU_LOOK_UP(m->devices, lib, "fake_metal_devices", missing)
    INFER__GPU_LOOK_UP(m->mistakes, lib, "fake_metal_mistakes", missing)
    INFER__GPU_LOOK_UP(m->live, lib, "fake_metal_live", missing)
    INFER__GPU_LOOK_UP(m->fired, lib, "fake_metal_fired", missing)
    INFER__GPU_LOOK_UP(m->forgive, lib, "fake_metal_forgive", missing)
    m->there = missing == NULL;
    return m->there;
}
#define METAL_NEED() do { if (!metal_there()) SKIP("no double of Metal"); } while (0)

static const infer__driver *const metal_only[] = {&infer__metal_driver, NULL};

/* The list of devices as if the process had just begun. */
static void metal_start(const char *devices, const char *faults) {
    struct infer__metal *m = &infer__metal;
    int32_t i;
    for (i = 0; i < m->n; i++) INFER__MTL(release, m->rows[i].device);
    memset(m, 0, sizeof *m);
    metal_double.devices(devices);
    metal_double.fail(faults);
}

static void metal_clean(void) {
    metal_double.fail("");
    CHECK(metal_double.mistakes() == 0);
    CHECK(metal_double.live(1) == 0);
}

/* ---- devices ------------------------------------------------------------------------------------------------------- */

static void test_metal_devices(void) {
    infer_device_info d;
    const char *why = NULL;
    METAL_NEED();
    metal_start("ndou", "");
    CHECK(infer__metal_driver.devices(&why) == 4);
    CHECK_STR(why, "");
    infer__metal_driver.info(0, &d);
    CHECK(d.usable && d.unified && d.backend == INFER_METAL && d.total == 8ull << 30 && d.free == d.total);
    CHECK_STR(d.name, "Double of Metal (unified)");
    CHECK(infer__metal.rows[0].tier == 7 && infer__metal.rows[1].tier == 0 && infer__metal.rows[2].tier == 0);
    infer__metal_driver.info(1, &d);
    CHECK(d.usable && !d.unified);
    infer__metal_driver.info(2, &d);
    CHECK(d.usable && d.unified);
    CHECK_STR(d.name, "Double of Metal (unified) #2");
    infer__metal_driver.info(3, &d);
    CHECK(!d.usable);
    CHECK_STR(d.why_not, "macOS 10.15 or iOS 13 is needed");
    metal_start("u", "nodevice");
    CHECK(infer__metal_driver.devices(&why) == 0);
    CHECK_STR(why, "Metal was found, but no device");
    metal_start("", "");
    CHECK(infer__metal_driver.devices(&why) == 0);
    CHECK_STR(why, "Metal was found, but no device");
    metal_start("uuuuuuuuuuuuuuuuuuuuu", "");
    CHECK(infer__metal_driver.devices(NULL) == 16);
    metal_start("u", "");
    metal_clean();
}

/* ---- an open device and a queue ------------------------------------------------------------------------------------ */

typedef struct metal_pair {
    infer__mem mem;
    void *device, *queue, *program;
    infer_error err;
} metal_pair;

static const char metal_text[] =
    "#include <metal_stdlib>\nusing namespace metal;\n"
    "struct scale_args { uint n; float by; uint pad0, pad1; };\n"
    "[[max_total_threads_per_threadgroup(64)]] kernel void k_scale(device float *x [[buffer(0)]],\n"
    "    device float *y [[buffer(1)]], constant scale_args &a [[buffer(2)]],\n"
    "    uint3 at [[thread_position_in_threadgroup]], uint3 group [[threadgroup_position_in_grid]]) {\n"
    "    uint i = group.x * 64 + at.x;\n    if (i < a.n) y[i] = x[i] * a.by + 1.0f;\n}\n"
    "[[max_total_threads_per_threadgroup(64)]] kernel void k_split(device float *x [[buffer(0)]],\n"
    "    uint3 at [[thread_position_in_threadgroup]]) {\n"
    "    threadgroup float part[64];\n    part[at.x] = x[at.x];\n"
    "    if (at.x != 5) threadgroup_barrier(mem_flags::mem_threadgroup);\n    x[at.x] = part[63 - at.x];\n}\n";

static infer_result metal_load(metal_pair *p, const char *text, void **program) {
    infer__gpu_source s;
    const char *pieces[2];
    memset(&s, 0, sizeof s);
    pieces[0] = "/* two pieces */\n";
    pieces[1] = text;
    s.text = pieces;
    s.n_text = 2;
    s.name = "test";
    return infer__metal_driver.load(p->device, &s, program, &p->err);
}

static int metal_open(metal_pair *p, const char *kind) {
    memset(p, 0, sizeof *p);
    infer__mem_init(&p->mem, NULL, 0);
    metal_start(kind, "");
    CHECK(infer__metal_driver.open(&p->device, &p->mem, 0, &p->err) == INFER_OK);
    CHECK(p->device && infer__metal_driver.queue_open(&p->queue, p->device, &p->err) == INFER_OK);
    CHECK(p->queue && metal_load(p, metal_text, &p->program) == INFER_OK);
    CHECK_STR(p->err.message, "");
    return p->program != NULL;
}

static void metal_close(metal_pair *p) {
    infer__metal_driver.queue_close(p->queue);
    infer__metal_driver.unload(p->device, p->program);
    infer__metal_driver.close(p->device);
    CHECK(infer__atomic_get(&p->mem.used) == 0);
    metal_clean();
}

typedef struct metal_scale_args { uint32_t n; float by; uint32_t pad[2]; } metal_scale_args;

static infer_result metal_scale(metal_pair *p, void *kernel, uint64_t x, uint64_t y, uint32_t n, float by) {
    uint32_t groups[3] = {(n + 63) / 64, 1, 1};
    uint64_t bufs[2];
    metal_scale_args a;
    memset(&a, 0, sizeof a);
    a.n = n;
    a.by = by;
    bufs[0] = x;
    bufs[1] = y;
    return infer__metal_driver.launch(p->queue, kernel, groups, 64, bufs, 2, &a, sizeof a, &p->err);
}

static uint64_t metal_alloc(metal_pair *p, uint64_t bytes) {
    uint64_t h = 0;
    CHECK(infer__metal_driver.alloc(p->device, bytes, &h, &p->err) == INFER_OK && (h || !bytes));
    return h;
}

#define METAL_OK(call) CHECK((call) == INFER_OK)

/* Every begin and length of 0 .. 9 bytes, and more than fits the staging memory; what lies beside stays as it was. */
static void metal_bytes_case(const char *kind) {
    const infer__driver *d = &infer__metal_driver;
    enum { SMALL = 40, BIG = (9 << 20) + 3 };
    unsigned char want[SMALL], put[SMALL], got[SMALL], *big = (unsigned char *)malloc(BIG), *back = (unsigned char *)malloc(BIG);
    metal_pair p;
    uint64_t small_buf, big_buf;
    uint32_t at, n, i;
    if (!metal_open(&p, kind)) return;
    small_buf = metal_alloc(&p, SMALL - 1);
    big_buf = metal_alloc(&p, BIG);
    for (i = 0; i < SMALL; i++) want[i] = (unsigned char)(i * 7 + 1);
    METAL_OK(d->upload(p.queue, small_buf, 0, want, SMALL - 1, &p.err));
    METAL_OK(d->sync(p.queue, &p.err));
    for (at = 0; at < 9; at++)
        for (n = 0; n <= 9; n++) {
            for (i = 0; i < n; i++) want[at + i] = put[i] = (unsigned char)(want[at + i] * 5 + 3);
            METAL_OK(d->upload(p.queue, small_buf, at, put, n, &p.err));
            METAL_OK(d->sync(p.queue, &p.err));
            memset(got, 0, sizeof got);
            METAL_OK(d->download(p.queue, small_buf, at, got, n, &p.err));
            METAL_OK(d->download(p.queue, small_buf, 0, got + 10, 29, &p.err));
            METAL_OK(d->sync(p.queue, &p.err));
            CHECK(memcmp(got, want + at, n) == 0 && memcmp(got + 10, want, 29) == 0);
        }
    for (i = 0; i < BIG; i++) big[i] = (unsigned char)(i * 2654435761u >> 24);
    METAL_OK(d->upload(p.queue, big_buf, 0, big, BIG, &p.err));
    METAL_OK(d->download(p.queue, big_buf, 1, back, BIG - 1, &p.err));
    METAL_OK(d->sync(p.queue, &p.err));
    CHECK(memcmp(back, big + 1, BIG - 1) == 0);
    METAL_OK(d->copy(p.queue, big_buf, 4096, big_buf, 8, 1000, &p.err));
    METAL_OK(d->download(p.queue, big_buf, 4092, back, 1008, &p.err));
    METAL_OK(d->sync(p.queue, &p.err));
    CHECK(memcmp(back, big + 4092, 4) == 0 && memcmp(back + 4, big + 8, 1000) == 0 && memcmp(back + 1004, big + 5096, 4) == 0);
    CHECK(d->copy(p.queue, big_buf, 2, big_buf, 8, 4, &p.err) == INFER_ERR_DEVICE);
    CHECK_HAS(p.err.message, "whole words");
    METAL_OK(d->sync(p.queue, &p.err));
    d->release(p.device, small_buf);
    d->release(p.device, big_buf);
    d->release(p.device, metal_alloc(&p, 0));
    metal_close(&p);
    free(big);
    free(back);
}

static void test_metal_bytes(void) {
    METAL_NEED();
    metal_bytes_case("u");
    metal_bytes_case("d");
}

/* Things happen in the order in which they were queued, whatever comes between. */
static void metal_order_case(const char *kind) {
    const infer__driver *d = &infer__metal_driver;
    enum { N = 100, MANY = 40 };
    float x[N], y[N], first[N], got[MANY][4];
    metal_pair p;
    void *kernel = NULL;
    uint64_t bx, by;
    uint32_t i;
    int k;
    if (!metal_open(&p, kind)) return;
    METAL_OK(d->kernel_open(&kernel, p.queue, p.program, "k_scale", 64, &p.err));
    bx = metal_alloc(&p, sizeof x);
    by = metal_alloc(&p, sizeof y);
    for (i = 0; i < N; i++) x[i] = (float)i;
    METAL_OK(d->upload(p.queue, bx, 0, x, sizeof x, &p.err));
    METAL_OK(metal_scale(&p, kernel, bx, by, N, 2)); /* y = 2 x + 1 */
    METAL_OK(d->download(p.queue, by, 0, first, sizeof first, &p.err));
    METAL_OK(metal_scale(&p, kernel, bx, by, N, 3)); /* overwrites what is being downloaded */
    for (i = 0; i < N; i++) y[i] = -1;
    METAL_OK(d->upload(p.queue, bx, 0, y, sizeof y, &p.err)); /* what the second launch reads */
    METAL_OK(metal_scale(&p, kernel, bx, bx, 4, 5));
    METAL_OK(d->copy(p.queue, bx, 16, by, 16, 16, &p.err));
    METAL_OK(d->download(p.queue, bx, 0, x, sizeof x, &p.err));
    METAL_OK(d->download(p.queue, by, 0, y, sizeof y, &p.err));
    METAL_OK(d->sync(p.queue, &p.err));
    for (i = 0; i < N; i++) {
        CHECK(first[i] == 2 * (float)i + 1 && y[i] == 3 * (float)i + 1);
        CHECK(x[i] == (i < 4 ? -4.0f : i < 8 ? y[i] : -1.0f));
    }
    for (i = 0; i < 4; i++) x[i] = 0;
    METAL_OK(d->upload(p.queue, bx, 0, x, sizeof x, &p.err));
    for (k = 0; k < MANY; k++) { /* more downloads than are kept */
        METAL_OK(metal_scale(&p, kernel, bx, bx, 4, 1));
        METAL_OK(d->download(p.queue, bx, 0, got[k], sizeof got[k], &p.err));
    }
    METAL_OK(d->sync(p.queue, &p.err));
    for (k = 0; k < MANY; k++) CHECK(got[k][0] == (float)k + 1 && got[k][3] == (float)k + 1);
    for (k = 0; k < 64 * 20; k++) METAL_OK(metal_scale(&p, kernel, bx, bx, 4, 1)); /* more than are on their way */
    METAL_OK(d->download(p.queue, bx, 0, x, 16, &p.err));
    METAL_OK(d->sync(p.queue, &p.err));
    CHECK(x[0] == MANY + 64 * 20);
    METAL_OK(metal_scale(&p, kernel, bx, bx, 4, 1)); /* and closed while it is queued */
    METAL_OK(d->download(p.queue, bx, 0, x, 16, &p.err));
    d->kernel_close(p.queue, kernel);
    d->release(p.device, bx);
    d->release(p.device, by);
    metal_close(&p);
}

static void test_metal_order(void) {
    METAL_NEED();
    metal_order_case("u");
    metal_order_case("d");
}

static void test_metal_times(void) {
    const infer__driver *d = &infer__metal_driver;
    metal_pair p;
    void *kernel = NULL;
    double t[400];
    uint64_t b;
    int32_t n = -1, i;
    METAL_NEED();
    if (!metal_open(&p, "u")) return;
    METAL_OK(d->kernel_open(&kernel, p.queue, p.program, "k_scale", 64, &p.err));
    b = metal_alloc(&p, 4000);
    METAL_OK(metal_scale(&p, kernel, b, b, 1000, 2));
    METAL_OK(d->timing(p.queue, 1, &p.err));
    METAL_OK(d->times(p.queue, t, 400, &n, &p.err));
    CHECK(n == 0);
    for (i = 0; i < 300; i++) {
        METAL_OK(metal_scale(&p, kernel, b, b, 1000, 2));
        if (i % 7 == 0) METAL_OK(d->copy(p.queue, b, 0, b, 16, 16, &p.err)); /* is not counted */
    }
    METAL_OK(d->sync(p.queue, &p.err));
    METAL_OK(d->times(p.queue, t, 3, &n, &p.err));
    CHECK(n == 300);
    METAL_OK(d->times(p.queue, t, 3, &n, &p.err));
    CHECK(n == 0);
    for (i = 0; i < 3; i++) CHECK(t[i] > 0 && t[i] < 10);
    METAL_OK(d->timing(p.queue, 0, &p.err));
    METAL_OK(metal_scale(&p, kernel, b, b, 1000, 2));
    METAL_OK(d->sync(p.queue, &p.err));
    METAL_OK(d->times(p.queue, t, 3, &n, &p.err));
    CHECK(n == 0);
    d->kernel_close(p.queue, kernel);
    d->release(p.device, b);
    metal_close(&p);
}

/* ---- failures of single calls -------------------------------------------------------------------------------------- */

static void metal_error(metal_pair *p, infer_result got, infer_result want, const char *words) {
    CHECK(got == want && p->err.code == want);
    CHECK_HAS(p->err.message, words);
    infer__error_clear(&p->err);
    metal_double.fail("");
}

static void test_metal_refused(void) {
    const infer__driver *d = &infer__metal_driver;
    metal_pair p;
    void *o = NULL;
    uint64_t h = 1;
    uint32_t groups[3] = {1, 1, 1};
    char args[5000];
    METAL_NEED();
    if (!metal_open(&p, "d")) return;
    metal_error(&p, d->alloc(p.device, (4ull << 30) + 1, &h, &p.err), INFER_ERR_MEMORY, "at most 4294967296");
    CHECK(h == 0);
    metal_error(&p, d->alloc(p.device, UINT64_MAX, &h, &p.err), INFER_ERR_MEMORY, "at most");
    metal_double.fail("buffer:1");
    metal_error(&p, d->alloc(p.device, 100, &h, &p.err), INFER_ERR_MEMORY, "newBufferWithLength failed");
    metal_double.fail("buffer:1");
    metal_error(&p, d->queue_open(&o, p.device, &p.err), INFER_ERR_MEMORY, "newBufferWithLength failed");
    CHECK(o == NULL);
    metal_double.fail("queue");
    metal_error(&p, d->queue_open(&o, p.device, &p.err), INFER_ERR_DEVICE, "newCommandQueue failed");
    metal_double.fail("library");
    metal_error(&p, metal_load(&p, metal_text, &o), INFER_ERR_DEVICE,
                "newLibraryWithSource failed: program_source:12:3: error: planted by the test");
    CHECK(o == NULL);
    metal_error(&p, metal_load(&p, "kernel void k(device float *x [[buffer(0)]]) { x[0] = y; }\n", &o), INFER_ERR_DEVICE, "error:");
    metal_double.fail("function");
    metal_error(&p, d->kernel_open(&o, p.queue, p.program, "k_scale", 64, &p.err), INFER_ERR_DEVICE, "there is no k_scale");
    metal_error(&p, d->kernel_open(&o, p.queue, p.program, "k_scales", 64, &p.err), INFER_ERR_DEVICE, "there is no k_scales");
    metal_double.fail("pipeline");
    metal_error(&p, d->kernel_open(&o, p.queue, p.program, "k_scale", 64, &p.err), INFER_ERR_DEVICE, "planted by the test");
    metal_double.fail("threads");
    metal_error(&p, d->kernel_open(&o, p.queue, p.program, "k_scale", 64, &p.err), INFER_ERR_DEVICE, "the device runs 32");
    CHECK(o == NULL);
    memset(args, 0, sizeof args);
    metal_error(&p, d->launch(p.queue, NULL, groups, 64, NULL, 0, args, sizeof args, &p.err), INFER_ERR_DEVICE, "at most 4096");
    groups[1] = 0;
    METAL_OK(d->launch(p.queue, NULL, groups, 64, NULL, 0, args, 16, &p.err));
    infer__error_clear(&p.err);
    metal_error(&p, d->open(&o, &p.mem, 7, &p.err), INFER_ERR_DEVICE, "no Metal device 7");
    metal_close(&p);
    metal_start("n", "");
    infer__mem_init(&p.mem, NULL, 0);
    metal_error(&p, d->open(&o, &p.mem, 0, &p.err), INFER_ERR_DEVICE, "cannot be used: macOS");
    metal_start("u", "nodevice");
    metal_error(&p, d->open(&o, &p.mem, 0, &p.err), INFER_ERR_DEVICE, "no Metal device");
    metal_start("u", "");
    metal_clean();
}

/* A launch that fails is told by the sync, once; nothing is downloaded; then the queue goes on. */
static void test_metal_late_errors(void) {
    static const struct { const char *faults; infer_result code; const char *words; } rows[] = {
        {"command:1", INFER_ERR_DEVICE, "Caused GPU Timeout Error"}, {"memory:1", INFER_ERR_MEMORY, "Insufficient Memory"}};
    const infer__driver *d = &infer__metal_driver;
    metal_pair p;
    void *kernel = NULL;
    float x[4] = {1, 2, 3, 4};
    uint64_t b;
    size_t i;
    METAL_NEED();
    if (!metal_open(&p, "u")) return;
    METAL_OK(d->kernel_open(&kernel, p.queue, p.program, "k_scale", 64, &p.err));
    b = metal_alloc(&p, sizeof x);
    for (i = 0; i < INFER__COUNT(rows); i++) {
        METAL_OK(d->upload(p.queue, b, 0, x, sizeof x, &p.err));
        metal_double.fail(rows[i].faults);
        METAL_OK(metal_scale(&p, kernel, b, b, 4, 2));
        METAL_OK(d->download(p.queue, b, 0, x, sizeof x, &p.err));
        metal_error(&p, d->sync(p.queue, &p.err), rows[i].code, rows[i].words);
        CHECK(x[0] == 1 && x[3] == 4);
        METAL_OK(d->sync(p.queue, &p.err));
    }
    metal_double.fail("encoder:1");
    metal_error(&p, metal_scale(&p, kernel, b, b, 4, 2), INFER_ERR_DEVICE, "computeCommandEncoder failed");
    metal_double.fail("commandbuffer:1");
    METAL_OK(metal_scale(&p, kernel, b, b, 4, 2)); /* the one of before is still there */
    METAL_OK(d->sync(p.queue, &p.err));
    metal_error(&p, metal_scale(&p, kernel, b, b, 4, 2), INFER_ERR_DEVICE, "commandBuffer failed");
    metal_double.fail("encoder:1");
    metal_error(&p, d->copy(p.queue, b, 0, b, 8, 8, &p.err), INFER_ERR_DEVICE, "blitCommandEncoder failed");
    METAL_OK(d->upload(p.queue, b, 0, x, sizeof x, &p.err));
    METAL_OK(metal_scale(&p, kernel, b, b, 4, 2));
    METAL_OK(d->download(p.queue, b, 0, x, sizeof x, &p.err));
    METAL_OK(d->sync(p.queue, &p.err));
    CHECK(x[0] == 3 && x[3] == 9);
    d->kernel_close(p.queue, kernel);
    d->release(p.device, b);
    metal_close(&p);
}

/* ---- a model's life ------------------------------------------------------------------------------------------------ */

/* Each of the calls of a kind fails once. */
static void metal_fault_rounds(const char *kind, const char *words, int step, const float *want) {
    static float got[512];
    char list[40];
    int i, failures = 0;
    for (i = 1; check_bad < 5; i += i < 20 ? 1 : step) {
        infer_error e;
        infer_result r;
        memset(&e, 0, sizeof e);
        memset(got, 0, sizeof got);
        snprintf(list, sizeof list, "%s%d", kind, i);
        check_detail = list;
        metal_double.fail(list);
        r = gpu_fault_scenario(got, &e);
        CHECK(check_live == 0 && metal_double.live(1) == 0 && metal_double.mistakes() == 0);
        if (metal_double.fired() == 0) break;
        if (r) {
            failures++;
            CHECK(r == INFER_ERR_DEVICE || r == INFER_ERR_MEMORY);
            CHECK_HAS(e.message, words);
        }
        if (got[0] != 0) CHECK(check_nmse(got, want, 512) <= GPU_LIMIT);
    }
    CHECK(i > 3 && (failures > 0 || strcmp(kind, "encoder:") == 0));
    check_detail = "";
}

static void test_metal_model_faults(void) {
    static float want[512];
    static const struct { const char *kind, *words; } rows[] = {{"buffer:", "newBufferWithLength failed"},
        {"command:", "Caused GPU Timeout Error"}, {"memory:", "Insufficient Memory"}, {"encoder:", "Encoder failed"},
        {"commandbuffer:", "commandBuffer failed"}};
    static const char *const always[][2] = {{"library", "planted by the test"}, {"pipeline", "planted by the test"},
        {"queue", "newCommandQueue failed"}, {"function", "there is no k_"}, {"threads", "the device runs 32"}};
    infer_error e;
    size_t i, k;
    METAL_NEED();
    if (check_backend() != INFER_METAL) SKIP("CHECK_BACKEND is not metal");
    for (k = 0; k < 2; k++) {
        metal_start(k ? "d" : "u", "");
        check_fail_at = check_live = 0;
        CHECK(gpu_fault_scenario(want, &e) == INFER_OK);
        for (i = 0; i < INFER__COUNT(rows); i++) metal_fault_rounds(rows[i].kind, rows[i].words, 3, want);
    }
    for (i = 0; i < INFER__COUNT(always); i++) { /* nothing of the kind works, from the first call on */
        infer_model_params mp;
        infer_model *m = NULL;
        infer_session *s = NULL;
        infer_result r;
        check_detail = always[i][0];
        memset(&mp, 0, sizeof mp);
        memset(&e, 0, sizeof e);
        mp.backend = INFER_METAL;
        mp.gpu_layers = 3;
        metal_double.fail(always[i][0]);
        r = infer_model_open(&m, check_data("models/stories260K.F32.gguf"), &mp, &e);
        if (!r) r = infer_session_create(&s, m, NULL, &e);
        CHECK(r == INFER_ERR_DEVICE && s == NULL);
        CHECK_HAS(e.message, always[i][1]);
        CHECK(infer_model_close(m) == INFER_OK);
    }
    check_detail = "";
    metal_clean();
}

/* Two threads with a queue each, on one device. */
typedef struct metal_worker { metal_pair *p; void *kernel; uint64_t b; float x[64]; int bad; } metal_worker;

static void metal_work(void *arg) {
    metal_worker *w = (metal_worker *)arg;
    const infer__driver *d = &infer__metal_driver;
    metal_pair mine = *w->p;
    int i, k;
    if (d->queue_open(&mine.queue, mine.device, &mine.err)) {
        w->bad++;
        return;
    }
    w->bad += d->kernel_open(&w->kernel, mine.queue, mine.program, "k_scale", 64, &mine.err) != INFER_OK;
    w->bad += d->alloc(mine.device, sizeof w->x, &w->b, &mine.err) != INFER_OK;
    for (i = 0; i < 100 && !w->bad; i++) {
        for (k = 0; k < 64; k++) w->x[k] = (float)(i + k);
        w->bad += d->upload(mine.queue, w->b, 0, w->x, sizeof w->x, &mine.err) != INFER_OK;
        for (k = 0; k < 3; k++) w->bad += metal_scale(&mine, w->kernel, w->b, w->b, 64, 1) != INFER_OK;
        w->bad += d->download(mine.queue, w->b, 0, w->x, sizeof w->x, &mine.err) != INFER_OK;
        w->bad += d->sync(mine.queue, &mine.err) != INFER_OK;
        for (k = 0; k < 64; k++) w->bad += w->x[k] != (float)(i + k + 3);
    }
    d->kernel_close(mine.queue, w->kernel);
    d->release(mine.device, w->b);
    d->queue_close(mine.queue);
}

static void test_metal_threads(void) {
    metal_pair p;
    metal_worker w[2];
    infer__thread threads[2];
    int i;
    METAL_NEED();
    if (!metal_open(&p, "u")) return;
    memset(w, 0, sizeof w);
    for (i = 0; i < 2; i++) {
        w[i].p = &p;
        CHECK(infer__thread_start(&threads[i], metal_work, &w[i]));
    }
    for (i = 0; i < 2; i++) {
        infer__thread_join(&threads[i]);
        CHECK(w[i].bad == 0);
    }
    metal_close(&p);
}

/* What a kernel does wrong ends its command buffer, and says which work-item it was. */
static void test_metal_kernel_faults(void) {
    const infer__driver *d = &infer__metal_driver;
    metal_pair p;
    void *kernel = NULL, *other = NULL;
    uint64_t b;
    uint32_t groups[3] = {1, 1, 1};
    METAL_NEED();
    if (!metal_open(&p, "u")) return;
    METAL_OK(d->kernel_open(&kernel, p.queue, p.program, "k_split", 64, &p.err));
    METAL_OK(d->kernel_open(&other, p.queue, p.program, "k_scale", 64, &p.err));
    b = metal_alloc(&p, 256);
    METAL_OK(d->launch(p.queue, kernel, groups, 64, &b, 1, NULL, 0, &p.err));
    metal_error(&p, d->sync(p.queue, &p.err), INFER_ERR_DEVICE, "k_split: the work-items of group (0, 0, 0) went different ways");
    METAL_OK(metal_scale(&p, other, b, b, 65, 1)); /* 64 floats */
    metal_error(&p, d->sync(p.queue, &p.err), INFER_ERR_DEVICE, "k_scale: work-item 0 of group (1, 0, 0) touched byte 256");
    METAL_OK(d->launch(p.queue, other, groups, 64, &b, 1, NULL, 0, &p.err));
    metal_error(&p, d->sync(p.queue, &p.err), INFER_ERR_DEVICE, "k_scale: nothing is bound at index 1");
    d->kernel_close(p.queue, kernel);
    d->kernel_close(p.queue, other);
    d->release(p.device, b);
    CHECK(metal_double.mistakes() == 3);
    metal_double.forgive();
    metal_close(&p);
}

static void suite_gpu_metal(void) {
    RUN(test_metal_devices);
    RUN(test_metal_bytes);
    RUN(test_metal_order);
    RUN(test_metal_times);
    RUN(test_metal_refused);
    RUN(test_metal_late_errors);
    RUN(test_metal_threads);
    RUN(test_metal_kernel_faults);
    RUN(test_metal_model_faults);
}
