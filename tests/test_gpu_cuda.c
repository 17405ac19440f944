/* test_gpu_cuda.c: the CUDA driver over a small made-up libcuda, whose calls can fail: finding the library, the list of
 * devices, what is made and let go of, contexts, large uploads, the caller's cache, recordings, times, a lost device.
 * Needs no CUDA. That the shipped PTX computes what it should is for the double in tests/drivers and for devices.
 *
 * The made-up library does copies and launches when it is waited for, in order: what is read too late or overwritten too
 * early is seen. Its kernel k_scale is y[i] = x[i] * by for n values. */
#include "fake_cuda.h"

static const infer__driver *const cud = &infer__cuda_driver;

/* ---- the library and the list ------------------------------------------------------------------------------------ */

static struct infer__cuda cud_list; /* what lists are made in: large, so not on the stack */

static void test_gpu_cuda_library(void) {
    const char *names[2] = {"libinfer-no-such-library.so.9", NULL};
    memset(&cud_list, 0, sizeof cud_list);
    CHECK(!infer__cuda_library(&cud_list, names, 1));
#if defined(INFER_NO_RUNTIME_LINKING)
    CHECK_STR(cud_list.why_not, "built with INFER_NO_RUNTIME_LINKING");
#else
    CHECK_STR(cud_list.why_not, "libinfer-no-such-library.so.9 was not found");
    names[1] = fake_other_library();
    check_detail = names[1];
    if (infer__lib_open(names[1])) {
        CHECK(!infer__cuda_library(&cud_list, names, 2));
        CHECK_HAS(cud_list.why_not, names[1]);
        CHECK_HAS(cud_list.why_not, " has no cuInit");
    }
#endif
}

static void cud_list_make(void) {
    memset(&cud_list, 0, sizeof cud_list);
    fakecu_table(&cud_list.cu);
    infer__cuda_list(&cud_list);
    CHECK((cud_list.n == 0) == (cud_list.why_not[0] != 0));
}

/* What there is to say when there is nothing to list. */
static void test_gpu_cuda_nothing(void) {
    static const struct { const char *call; int code; const char *want; } rows[] = {
        {"cuInit", 100, "cuInit failed: CUDA_ERROR_NO_DEVICE (100)"},
        {"cuInit", 803, "cuInit failed: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)"},
        {"cuInit", 12345, "cuInit failed: a code without a name (12345)"},
        {"cuDriverGetVersion", 1, "cuDriverGetVersion failed: FAKE_1 (1)"},
        {"cuDeviceGetCount", 999, "cuDeviceGetCount failed: FAKE_999 (999)"}};
    char want[120];
    size_t i;
    for (i = 0; i < INFER__COUNT(rows); i++) {
        fakecu_reset(1);
        fakecu.fail_name = rows[i].call;
        fakecu.fail_code = rows[i].code;
        fakecu.nameless = i < 3; /* the library cannot name its codes, like the toolkit's stub */
        cud_list_make();
        CHECK_STR(cud_list.why_not, rows[i].want);
    }
    fakecu_reset(0);
    cud_list_make();
    CHECK_STR(cud_list.why_not, "CUDA was found, but no device");
    fakecu_reset(1);
    fakecu.version = INFER__PTX_CUDA - 1000;
    cud_list_make();
    snprintf(want, sizeof want, "the driver is too old: it knows CUDA %d.0, %d.0 is needed", INFER__PTX_CUDA / 1000 - 1,
             INFER__PTX_CUDA / 1000);
    CHECK_STR(cud_list.why_not, want);
}

/* The list is the same whatever the order in which the library has the devices. */
static void test_gpu_cuda_order(void) {
    static const char *const want[] = {
        "Big (CUDA 12.4, capability 9.0)", "Twin (CUDA 12.4, capability 8.6)", "Twin (CUDA 12.4, capability 8.6) #2",
        "Small (CUDA 12.4, capability 8.6)", "Board (CUDA 12.4, capability 8.7)", "New (CUDA 12.4, capability 12.0)",
        "? (CUDA 12.4, capability 6.1)", "Old (CUDA 12.4, capability 6.0)"};
    fakecu_device d[8];
    int turn, i;
    memset(d, 0, sizeof d);
    for (i = 0; i < 8; i++) d[i].total = (size_t)8 << 20;
    d[0].name = "Big";    d[0].major = 9; d[0].minor = 0;
    d[1].name = "Twin";   d[1].major = 8; d[1].minor = 6; d[1].pci[1] = 1; d[1].pci[2] = 9;
    d[2].name = "Twin";   d[2].major = 8; d[2].minor = 6; d[2].pci[1] = 2; d[2].pci[2] = 3;
    d[3].name = "Small";  d[3].major = 8; d[3].minor = 6; d[3].total = 1 << 20;
    d[4].name = "Board";  d[4].major = 8; d[4].minor = 7; d[4].integrated = 1;
    d[5].name = "New";    d[5].major = 12; d[5].mode = 2; d[5].total = (size_t)9 << 20;
    d[6].name = NULL;     d[6].major = 6; d[6].minor = 1; d[6].total = 0;
    d[7].name = "Old";    d[7].major = 6; d[7].minor = 0;
    for (turn = 0; turn < 16; turn++) {
        fakecu_reset(8);
        for (i = 0; i < 8; i++) fakecu.devices[turn & 1 ? 7 - i : i] = d[(i + turn / 2) % 8];
        cud_list_make();
        CHECK(cud_list.n == 8);
        for (i = 0; i < cud_list.n && i < 8; i++) {
            CHECK_STR(cud_list.rows[i].info.name, want[i]);
            CHECK(cud_list.rows[i].info.usable == (i < 5) && cud_list.rows[i].info.backend == INFER_CUDA);
            CHECK(cud_list.rows[i].info.unified == (i == 4));
        }
        CHECK(cud_list.rows[1].place[1] == 1 && cud_list.rows[2].place[1] == 2);
        CHECK(cud_list.rows[1].hash == cud_list.rows[2].hash && cud_list.rows[1].hash != cud_list.rows[3].hash);
    }
    CHECK_STR(cud_list.rows[5].info.why_not, "its compute mode is set to \"prohibited\"");
    CHECK_STR(cud_list.rows[6].info.why_not, "its driver says that it has no memory");
    CHECK_STR(cud_list.rows[7].info.why_not, "compute capability 6.1 is needed, it has 6.0");
    CHECK(cud_list.rows[0].tier == 90 && cud_list.rows[5].tier == 120);
}

/* ---- a story ----------------------------------------------------------------------------------------------------- */

static struct infer__cuda cud_real;

/* The driver of this process, over n made-up devices; ends with cud_end. */
static void cud_begin(int n) {
    infer__cuda_devices(NULL); /* its once is done: nothing looks for a library from here on */
    cud_real = infer__cuda;
    fakecu_reset(n);
    infer__cuda.n = 0;
    infer__cuda.why_not[0] = 0;
    memset(infer__cuda.rows, 0, sizeof infer__cuda.rows);
    fakecu_table(&infer__cuda.cu);
    infer__cuda_list(&infer__cuda);
    fakecu.calls = 0;
}
static void cud_end(void) {
    fakecu_closed();
    infer__cuda = cud_real;
}

typedef struct { uint32_t n; float by; uint32_t pad[2]; } cud_scale_args;
static infer__gpu_source cud_source(const infer_cache *cache) {
    static const char *const text[] = {FAKECU_PTX};
    infer__gpu_source s;
    s.text = text;
    s.n_text = 1;
    s.name = "test";
    s.hash = 0x0123456789abcdefu;
    s.cache = cache;
    return s;
}

/* Open, compile, run a kernel, bring the result back, close. What is not open stays NULL. Returns the first error. */
enum { CUD_N = 100 };
static infer_result cud_story(infer__mem *mem, const infer_cache *cache, infer_error *err) {
    void *device = NULL, *program = NULL, *queue = NULL, *kernel = NULL, *recording = NULL;
    uint64_t b[2] = {0, 0};
    const uint32_t groups[3] = {2, 1, 1};
    cud_scale_args a = {CUD_N, 3.0f, {0, 0}};
    float x[CUD_N], y[CUD_N];
    double seconds[2];
    infer__gpu_source s = cud_source(cache);
    int32_t i, n;
    infer_result r = cud->open(&device, mem, 0, err);
    for (i = 0; i < CUD_N; i++) { x[i] = (float)i; y[i] = -1; }
    if (!r) r = cud->load(device, &s, &program, err);
    if (!r) r = cud->queue_open(&queue, device, err);
    if (!r) r = cud->kernel_open(&kernel, queue, program, "k_scale", 64, err);
    for (i = 0; i < 2 && !r; i++) r = cud->alloc(device, sizeof x, &b[i], err);
    if (!r) r = cud->upload(queue, b[0], 0, x, sizeof x, err);
    if (!r) r = cud->timing(queue, 1, err);
    if (!r) r = cud->launch(queue, kernel, groups, 64, b, 2, &a, sizeof a, err);
    if (!r) r = cud->timing(queue, 0, err);
    if (!r) r = cud->copy(queue, b[1], 0, b[0], sizeof x / 2, 8, err); /* y[0], y[1] = x[50], x[51] */
    if (!r) r = cud->record(queue, err);
    if (!r) r = cud->launch(queue, kernel, groups, 64, b, 2, &a, sizeof a, err);
    if (!r) r = cud->record_end(queue, &recording, err);
    if (!r) r = cud->download(queue, b[1], 0, y, sizeof y, err);
    if (!r) r = cud->sync(queue, err);
    for (i = 0; i < CUD_N && !r; i++) CHECK(y[i] == (i < 2 ? (float)(50 + i) : 3.0f * (float)i));
    if (!r) r = cud->replay(queue, recording, err);
    if (!r) r = cud->download(queue, b[1], 0, y, sizeof y, err);
    if (!r) r = cud->sync(queue, err);
    for (i = 0; i < CUD_N && !r; i++) CHECK(y[i] == 3.0f * (float)i);
    if (!r) r = cud->timing(queue, 1, err);
    if (!r) r = cud->launch(queue, kernel, groups, 64, b, 2, &a, sizeof a, err);
    if (!r) r = cud->sync(queue, err);
    if (!r) r = cud->times(queue, seconds, 2, &n, err);
    if (!r) CHECK(n == 1 && seconds[0] > 0);
    if (recording) cud->recording_close(queue, recording);
    if (queue) cud->kernel_close(queue, kernel);
    cud->release(device, b[0]);
    cud->release(device, b[1]);
    cud->unload(device, program);
    cud->queue_close(queue);
    cud->close(device);
    CHECK(fakecu.current == FAKECU_HOST && fakecu.depth == 1); /* as the host left it */
    return r;
}

static void test_gpu_cuda_story(void) {
    infer__mem mem;
    infer_error err;
    infer_device_info info;
    void *device = NULL;
    infer__mem_init(&mem, NULL, 0);
    CHECK_STR(cud->name, "cuda");
    CHECK(cud->backend == INFER_CUDA && cud->form == INFER__FORM_PTX);
    cud_begin(2);
    CHECK(cud_story(&mem, NULL, &err) == INFER_OK && infer__atomic_get(&mem.used) == 0);
    CHECK(cud->open(&device, &mem, 0, &err) == INFER_OK);
    cud->info(0, &info);
    CHECK(info.usable && info.total == fakecu.devices[0].total && info.free == info.total / 2);
    fakecu.fail_name = "cuDevicePrimaryCtxRetain";
    cud->info(0, &info);
    CHECK(info.usable && info.free == info.total);
    fakecu.fail_name = NULL;
    cud->close(device);
    cud->info(2, &info);
    CHECK(!info.usable && !info.name[0]);
    CHECK(cud->open(&device, &mem, 2, &err) == INFER_ERR_DEVICE && !device);
    CHECK_STR(err.message, "there is no CUDA device 2, there are 2");
    infer__cuda.rows[1].info.usable = 0;
    CHECK(cud->open(&device, &mem, 1, &err) == INFER_ERR_DEVICE && !device);
    CHECK_HAS(err.message, "it cannot be used");
    cud_end();
    cud_begin(0);
    CHECK(cud->open(&device, &mem, 0, &err) == INFER_ERR_DEVICE && !device);
    CHECK_HAS(err.message, "no CUDA device: CUDA was found, but no device");
    cud_end();
}

/* Every call of the library fails once, with three kinds of codes. */
static void test_gpu_cuda_failures(void) {
    static const int codes[] = {2, 719, 1};
    char want[120];
    infer__mem mem;
    infer_error err;
    infer_result r;
    long i, total;
    size_t k;
    infer__mem_init(&mem, NULL, 0);
    cud_begin(1);
    CHECK(cud_story(&mem, NULL, &err) == INFER_OK);
    total = fakecu.calls;
    cud_end();
    CHECK(total > 40);
    for (k = 0; k < INFER__COUNT(codes); k++) {
        for (i = 1; i <= total; i++) {
            cud_begin(1);
            fakecu.fail_at = i;
            fakecu.fail_code = codes[k];
            infer__error_clear(&err);
            r = cud_story(&mem, NULL, &err);
            check_detail = fakecu.failed ? fakecu.failed : "no call";
            CHECK(fakecu.failed != NULL && infer__atomic_get(&mem.used) == 0);
            if (r) { /* of a call that releases something nobody hears */
                CHECK(r == (codes[k] == 2 ? INFER_ERR_MEMORY : INFER_ERR_DEVICE) && err.code == r);
                snprintf(want, sizeof want, "%s failed: FAKE_%d (%d)", fakecu.failed, codes[k], codes[k]);
                CHECK_STR(err.message, want);
            } else CHECK(fakecu_releases(fakecu.failed));
            cud_end();
        }
    }
}

static void test_gpu_cuda_oom(void) {
    infer_allocator a;
    infer__mem mem;
    infer_error err;
    long i, total;
    memset(&a, 0, sizeof a);
    a.alloc = check_alloc;
    a.free = check_free;
    infer__mem_init(&mem, &a, 0);
    check_allocs = check_live = check_fail_at = 0;
    cud_begin(1);
    CHECK(cud_story(&mem, NULL, &err) == INFER_OK);
    total = check_allocs;
    CHECK(total == 4); /* device, queue, kernel, events */
    for (i = 1; i <= total; i++) {
        check_allocs = 0;
        check_fail_at = i;
        CHECK(cud_story(&mem, NULL, &err) == INFER_ERR_MEMORY && check_live == 0);
    }
    check_fail_at = 0;
    cud_end();
}

/* ---- a device that stays open ------------------------------------------------------------------------------------ */

typedef struct cud_open { void *device, *program, *queue, *kernel; infer__mem mem; infer_error err; } cud_open;
static int cud_open_all(cud_open *o) {
    infer__gpu_source s = cud_source(NULL);
    memset(o, 0, sizeof *o);
    infer__mem_init(&o->mem, NULL, 0);
    infer__error_clear(&o->err);
    CHECK(cud->open(&o->device, &o->mem, 0, &o->err) == INFER_OK);
    if (!o->device) return 0;
    CHECK(cud->load(o->device, &s, &o->program, &o->err) == INFER_OK);
    CHECK(cud->queue_open(&o->queue, o->device, &o->err) == INFER_OK);
    CHECK(cud->kernel_open(&o->kernel, o->queue, o->program, "k_scale", 64, &o->err) == INFER_OK);
    return o->kernel != NULL;
}
static void cud_close_all(cud_open *o) {
    cud->kernel_close(o->queue, o->kernel);
    cud->queue_close(o->queue);
    cud->unload(o->device, o->program);
    cud->close(o->device);
    CHECK(infer__atomic_get(&o->mem.used) == 0);
}

/* Uploads of all sizes around those of the stages; memory that the device cannot read by itself; faults on the way. */
static void test_gpu_cuda_large(void) {
    static const size_t sizes[] = {1, INFER__CU_STAGE_FROM - 1, INFER__CU_STAGE_FROM, INFER__CU_STAGE,
                                   INFER__CU_STAGE + 1, 3 * INFER__CU_STAGE + 777};
    const size_t most = sizes[INFER__COUNT(sizes) - 1];
    uint8_t *src = (uint8_t *)malloc(most), *dst = (uint8_t *)malloc(most);
    size_t i, k;
    int way;
    uint64_t b = 0;
    cud_open o;
    for (i = 0; i < most; i++) src[i] = (uint8_t)(i * 2654435761u >> 13);
    for (way = 0; way < 3; way++) { /* with stages; without memory for the second; without an event for the first */
        cud_begin(1);
        if (!cud_open_all(&o)) { CHECK(0); break; }
        fakecu.fail_name = way == 1 ? "cuMemAllocHost_v2" : way == 2 ? "cuEventCreate" : NULL;
        fakecu.fail_after = way == 1;
        fakecu.fail_code = 2;
        CHECK(cud->alloc(o.device, most + 16, &b, &o.err) == INFER_OK);
        for (k = 0; k < INFER__COUNT(sizes); k++) {
            memset(dst, 0, most);
            CHECK(cud->upload(o.queue, b, 16, src, sizes[k], &o.err) == INFER_OK);
            CHECK(cud->upload(o.queue, b, 8, src, 8, &o.err) == INFER_OK);
            CHECK(cud->download(o.queue, b, 16, dst, sizes[k], &o.err) == INFER_OK);
            CHECK(cud->sync(o.queue, &o.err) == INFER_OK);
            CHECK(memcmp(src, dst, sizes[k]) == 0);
        }
        CHECK((fakecu.live[FAKECU_PINNED] > 0) == (way == 0));
        if (way == 0) {
            fakecu.fail_name = "cuEventSynchronize";
            CHECK(cud->upload(o.queue, b, 0, src, most, &o.err) == INFER_ERR_MEMORY);
            CHECK_HAS(o.err.message, "cuEventSynchronize failed");
        }
        fakecu.fail_name = NULL;
        cud->release(o.device, b);
        cud_close_all(&o);
        cud_end();
    }
    free(src);
    free(dst);
}

/* What a kernel did wrong comes out at a sync; after it everything says so, and closing works. */
static void test_gpu_cuda_fatal(void) {
    static const int16_t ends[] = {214, 220, 226, 700, 719, 721, 810, 999}, goes_on[] = {0, 1, 2, 100, 209, 222, 701, 720, 801};
    size_t i;
    for (i = 0; i < INFER__COUNT(ends); i++) CHECK(infer__cu_fatal(ends[i]));
    for (i = 0; i < INFER__COUNT(goes_on); i++) CHECK(!infer__cu_fatal(goes_on[i]));
}

static void test_gpu_cuda_lost(void) {
    const uint32_t groups[3] = {1, 1, 1};
    cud_scale_args a = {1, 2.0f, {0, 0}};
    infer__gpu_source s = cud_source(NULL);
    uint64_t b[2] = {0, 0}, more = 0;
    float x = 1;
    void *p = NULL;
    int32_t n = 0;
    double second;
    cud_open o;
    cud_begin(1);
    if (!cud_open_all(&o)) { CHECK(0); cud_end(); return; }
    CHECK(cud->alloc(o.device, 4, &b[0], &o.err) == INFER_OK && cud->alloc(o.device, 4, &b[1], &o.err) == INFER_OK);
    CHECK(cud->memory(o.device) == fakecu.devices[0].total / 2 && cud->tier(o.device) == 80);
    CHECK(cud->launch(o.queue, o.kernel, groups, 64, b, 2, &a, sizeof a, &o.err) == INFER_OK);
    fakecu.sticky = 700;
    CHECK(cud->sync(o.queue, &o.err) == INFER_ERR_DEVICE);
    CHECK_STR(o.err.message, "cuStreamSynchronize failed: FAKE_700 (700)");
    fakecu.calls = 0;
#define LOST(call) \
    do { \
        infer__error_clear(&o.err); \
        CHECK((call) == INFER_ERR_DEVICE); \
        CHECK_STR(o.err.message, "the device was lost before: FAKE_700 (700)"); \
    } while (0)
    LOST(cud->sync(o.queue, &o.err));
    LOST(cud->alloc(o.device, 4, &more, &o.err));
    LOST(cud->upload(o.queue, b[0], 0, &x, 4, &o.err));
    LOST(cud->download(o.queue, b[0], 0, &x, 4, &o.err));
    LOST(cud->copy(o.queue, b[0], 0, b[1], 0, 4, &o.err));
    LOST(cud->launch(o.queue, o.kernel, groups, 64, b, 2, &a, sizeof a, &o.err));
    LOST(cud->load(o.device, &s, &p, &o.err));
    LOST(cud->queue_open(&p, o.device, &o.err));
    LOST(cud->kernel_open(&p, o.queue, o.program, "k_scale", 64, &o.err));
    LOST(cud->shared(o.queue, o.kernel, 1 << 16, &o.err));
    LOST(cud->record(o.queue, &o.err));
    LOST(cud->replay(o.queue, &x, &o.err));
    LOST(cud->times(o.queue, &second, 1, &n, &o.err));
    CHECK(cud->memory(o.device) == 0 && fakecu.calls == 0); /* the library was not asked */
    cud->release(o.device, b[0]);
    cud->release(o.device, b[1]);
    cud_close_all(&o);
    CHECK(fakecu.current == FAKECU_HOST && fakecu.depth == 1);
    cud_end();
}

/* ---- programs ---------------------------------------------------------------------------------------------------- */

static void test_gpu_cuda_programs(void) {
    static const char *const bad[] = {".version 6.0\nfoo"};
    infer__gpu_source s = cud_source(NULL);
    void *p = NULL;
    cud_open o;
    cud_begin(1);
    if (!cud_open_all(&o)) { CHECK(0); cud_end(); return; }
    s.text = bad;
    CHECK(cud->load(o.device, &s, &p, &o.err) == INFER_ERR_DEVICE && p == NULL);
    CHECK_STR(o.err.message, "cuModuleLoadDataEx failed: FAKE_218 (218): ptxas error: line 2 foo");
    fakecu.fail_name = "cuModuleLoadDataEx";
    fakecu.fail_code = 222;
    s = cud_source(NULL);
    CHECK(cud->load(o.device, &s, &p, &o.err) == INFER_ERR_DEVICE);
    CHECK_STR(o.err.message, "cuModuleLoadDataEx failed: FAKE_222 (222)");
    fakecu.fail_name = NULL;
    CHECK(cud->kernel_open(&p, o.queue, o.program, "k_none", 64, &o.err) == INFER_ERR_DEVICE && p == NULL);
    CHECK_STR(o.err.message, "cuModuleGetFunction failed: FAKE_500 (500)");
    CHECK(cud->kernel_open(&p, o.queue, o.program, "k_scale", 256, &o.err) == INFER_ERR_DEVICE && p == NULL);
    CHECK_STR(o.err.message, "k_scale needs groups of 256 threads, the device runs 128");
    cud_close_all(&o);
    cud_end();
}

/* Launches that begin before the ones before them have ended: not while times are taken, nor with old drivers. */
static void test_gpu_cuda_early(void) {
    const uint32_t groups[3] = {1, 1, 1};
    cud_scale_args a = {1, 2.0f, {0, 0}};
    uint64_t b[2] = {0, 0};
    cud_open o;
    int i;
    cud_begin(1);
    if (!cud_open_all(&o)) { CHECK(0); cud_end(); return; }
    CHECK(cud->alloc(o.device, 4, &b[0], &o.err) == INFER_OK && cud->alloc(o.device, 4, &b[1], &o.err) == INFER_OK);
    for (i = 0; i < 4; i++) {
        if (i == 1) cud->early(o.queue, o.kernel);
        if (i == 2) CHECK(cud->timing(o.queue, 1, &o.err) == INFER_OK);
        if (i == 3) CHECK(cud->timing(o.queue, 0, &o.err) == INFER_OK);
        CHECK(cud->launch(o.queue, o.kernel, groups, 64, b, 2, &a, sizeof a, &o.err) == INFER_OK);
        CHECK(fakecu.early == (i == 0 ? 0 : i < 3 ? 1 : 2));
    }
    fakecu.fail_name = "cuLaunchKernelEx";
    CHECK(cud->launch(o.queue, o.kernel, groups, 64, b, 2, &a, sizeof a, &o.err) == INFER_ERR_DEVICE);
    CHECK_STR(o.err.message, "cuLaunchKernelEx failed: FAKE_1 (1)");
    fakecu.fail_name = NULL;
    cud->kernel_close(o.queue, o.kernel);
    CHECK(cud->kernel_open(&o.kernel, o.queue, o.program, "k_scale", 64, &o.err) == INFER_OK);
    infer__cuda.cu.cuLaunchKernelEx = NULL;
    cud->early(o.queue, o.kernel);
    CHECK(cud->launch(o.queue, o.kernel, groups, 64, b, 2, &a, sizeof a, &o.err) == INFER_OK && fakecu.early == 2);
    cud->release(o.device, b[0]);
    cud->release(o.device, b[1]);
    cud_close_all(&o);
    cud_end();
}

/* Shared memory that launches ask for; a device that has less refuses. */
static void test_gpu_cuda_shared(void) {
    const uint32_t groups[3] = {1, 1, 1};
    cud_scale_args a = {1, 2.0f, {0, 0}};
    uint64_t b[2] = {0, 0};
    cud_open o;
    cud_begin(1);
    if (!cud_open_all(&o)) { CHECK(0); cud_end(); return; }
    CHECK(cud->alloc(o.device, 4, &b[0], &o.err) == INFER_OK && cud->alloc(o.device, 4, &b[1], &o.err) == INFER_OK);
    CHECK(cud->launch(o.queue, o.kernel, groups, 64, b, 2, &a, sizeof a, &o.err) == INFER_OK);
    CHECK(cud->shared(o.queue, o.kernel, 99328, &o.err) == INFER_OK && fakecu.shared == 99328);
    CHECK(cud->launch(o.queue, o.kernel, groups, 64, b, 2, &a, sizeof a, &o.err) == INFER_OK); /* fakecu compares */
    fakecu.fail_name = "cuFuncSetAttribute";
    CHECK(cud->shared(o.queue, o.kernel, 1 << 20, &o.err) == INFER_ERR_DEVICE);
    CHECK_STR(o.err.message, "cuFuncSetAttribute failed: FAKE_1 (1)");
    cud->release(o.device, b[0]);
    cud->release(o.device, b[1]);
    cud_close_all(&o);
    cud_end();
}

static struct { uint8_t data[256]; size_t n; char key[128]; int gets, puts; } cud_kept;
static size_t cud_cache_get(void *user, const char *key, void *dst, size_t cap) {
    CHECK(user == &cud_kept);
    cud_kept.gets++;
    if (strcmp(key, cud_kept.key) != 0) return 0;
    if (dst) memcpy(dst, cud_kept.data, INFER__MIN(cap, cud_kept.n));
    return cud_kept.n;
}
static void cud_cache_put(void *user, const char *key, const void *data, size_t n) {
    CHECK(user == &cud_kept && n <= sizeof cud_kept.data);
    cud_kept.puts++;
    cud_kept.n = n;
    memcpy(cud_kept.data, data, INFER__MIN(n, sizeof cud_kept.data));
    snprintf(cud_kept.key, sizeof cud_kept.key, "%s", key);
}

static void test_gpu_cuda_cache(void) {
    infer_cache c;
    infer__mem mem;
    infer_error err;
    infer_allocator a;
    memset(&cud_kept, 0, sizeof cud_kept);
    memset(&c, 0, sizeof c);
    c.user = &cud_kept;
    c.get = cud_cache_get;
    c.put = cud_cache_put;
    infer__mem_init(&mem, NULL, 0);
    cud_begin(1);
    CHECK(cud_story(&mem, &c, &err) == INFER_OK && cud_kept.puts == 1 && fakecu.links == 1 && fakecu.compiled == 0);
    CHECK_HAS(cud_kept.key, "infer-cuda-");
    CHECK(cud_story(&mem, &c, &err) == INFER_OK && cud_kept.puts == 1 && fakecu.links == 1 && fakecu.compiled == 0);
    fakecu.version = 12050; /* another driver: another key */
    infer__cuda.n = 0;
    infer__cuda_list(&infer__cuda);
    CHECK(cud_story(&mem, &c, &err) == INFER_OK && cud_kept.puts == 2 && fakecu.links == 2);
    cud_kept.data[cud_kept.n - 1] ^= 1; /* damaged */
    CHECK(cud_story(&mem, &c, &err) == INFER_OK && cud_kept.puts == 3 && fakecu.links == 3);
    cud_kept.n--; /* cut */
    CHECK(cud_story(&mem, &c, &err) == INFER_OK && cud_kept.puts == 4 && fakecu.links == 4);
    fakecu.refuse_binary = 1; /* one that does not load any more */
    CHECK(cud_story(&mem, &c, &err) == INFER_OK && cud_kept.puts == 4 && fakecu.compiled == 1);
    fakecu.refuse_binary = 0;
    c.get = NULL;
    fakecu.fail_name = "cuLinkComplete"; /* no binary: the driver compiles by itself */
    CHECK(cud_story(&mem, &c, &err) == INFER_OK && cud_kept.puts == 4 && fakecu.compiled == 2);
    fakecu.fail_name = "cuLinkCreate_v2";
    CHECK(cud_story(&mem, &c, &err) == INFER_OK && cud_kept.puts == 4 && fakecu.compiled == 3);
    fakecu.fail_name = NULL;
    memset(&a, 0, sizeof a);
    a.alloc = check_alloc;
    a.free = check_free;
    infer__mem_init(&mem, &a, 0);
    check_allocs = check_live = 0;
    check_fail_at = 2; /* no memory to keep it: no reason to stop */
    CHECK(cud_story(&mem, &c, &err) == INFER_OK && cud_kept.puts == 4 && fakecu.compiled == 3);
    check_fail_at = 0;
    cud_end();
}

/* ---- recordings and times ---------------------------------------------------------------------------------------- */

static void test_gpu_cuda_recordings(void) {
    const uint32_t groups[3] = {1, 1, 1};
    cud_scale_args a = {4, 2.0f, {0, 0}};
    float x[4] = {1, 2, 3, 4}, y[4];
    uint64_t b[2] = {0, 0}, turned[2];
    void *first = NULL, *second = NULL, *none = NULL;
    int i, k;
    cud_open o;
    cud_begin(1);
    if (!cud_open_all(&o)) { CHECK(0); cud_end(); return; }
    for (i = 0; i < 2; i++) CHECK(cud->alloc(o.device, sizeof x, &b[i], &o.err) == INFER_OK);
    turned[0] = b[1];
    turned[1] = b[0];
    CHECK(cud->upload(o.queue, b[0], 0, x, sizeof x, &o.err) == INFER_OK);
    CHECK(cud->record_end(o.queue, &none, &o.err) == INFER_ERR_STATE);
    CHECK(cud->record(o.queue, &o.err) == INFER_OK); /* y = 2 x, x = 2 y */
    CHECK(cud->launch(o.queue, o.kernel, groups, 64, b, 2, &a, sizeof a, &o.err) == INFER_OK);
    CHECK(cud->launch(o.queue, o.kernel, groups, 64, turned, 2, &a, sizeof a, &o.err) == INFER_OK);
    a.by = 100.0f; /* the args were taken */
    CHECK(cud->record_end(o.queue, &first, &o.err) == INFER_OK && first);
    CHECK(cud->record(o.queue, &o.err) == INFER_OK); /* x[0] = x[3] */
    CHECK(cud->copy(o.queue, b[0], 0, b[0], 12, 4, &o.err) == INFER_OK);
    CHECK(cud->record_end(o.queue, &second, &o.err) == INFER_OK && second);
    for (i = 0; i < 3; i++) CHECK(cud->replay(o.queue, first, &o.err) == INFER_OK);
    CHECK(cud->replay(o.queue, second, &o.err) == INFER_OK);
    CHECK(cud->download(o.queue, b[0], 0, y, sizeof y, &o.err) == INFER_OK);
    CHECK(cud->sync(o.queue, &o.err) == INFER_OK);
    for (i = 0; i < 4; i++) CHECK(y[i] == 64.0f * x[i ? i : 3]);
    for (k = 0; k < 4; k++) { /* what cannot be recorded */
        static const char *const what[] = {"upload", "download", "sync", "record"};
        check_detail = what[k];
        CHECK(cud->record(o.queue, &o.err) == INFER_OK);
        if (k == 0) CHECK(cud->upload(o.queue, b[0], 0, x, 4, &o.err) == INFER_ERR_STATE);
        if (k == 1) CHECK(cud->download(o.queue, b[0], 0, y, 4, &o.err) == INFER_ERR_STATE);
        if (k == 2) CHECK(cud->sync(o.queue, &o.err) == INFER_ERR_STATE);
        if (k == 3) CHECK(cud->record(o.queue, &o.err) == INFER_ERR_STATE);
        CHECK_HAS(o.err.message, what[k]);
        CHECK(cud->record_end(o.queue, &none, &o.err) == INFER_ERR_STATE && !none);
        CHECK(cud->sync(o.queue, &o.err) == INFER_OK);
    }
    cud->recording_close(o.queue, first);
    cud->recording_close(o.queue, second);
    CHECK(cud->record(o.queue, &o.err) == INFER_OK); /* closed while recording */
    for (i = 0; i < 2; i++) cud->release(o.device, b[i]);
    cud_close_all(&o);
    infer__cuda.graphs = 0;
    if (cud_open_all(&o)) {
        CHECK(cud->record(o.queue, &o.err) == INFER_ERR_UNSUPPORTED);
        CHECK_STR(o.err.message, "the driver has no graphs: CUDA 11.4 brought them");
        cud_close_all(&o);
    }
    cud_end();
}

static void test_gpu_cuda_times(void) {
    const uint32_t groups[3] = {1, 1, 1};
    cud_scale_args a = {0, 2.0f, {0, 0}};
    uint64_t b[2] = {0, 0};
    double seconds[400];
    int32_t n = -1;
    int i, turn;
    cud_open o;
    cud_begin(1);
    if (!cud_open_all(&o)) { CHECK(0); cud_end(); return; }
    for (turn = 0; turn < 2; turn++) {
        CHECK(cud->timing(o.queue, 1, &o.err) == INFER_OK);
        for (i = 0; i < 400; i++) CHECK(!cud->launch(o.queue, o.kernel, groups, 64, b, 2, &a, sizeof a, &o.err));
        CHECK(cud->sync(o.queue, &o.err) == INFER_OK);
        CHECK(cud->times(o.queue, seconds, 400 - turn, &n, &o.err) == INFER_OK && n == 400);
        for (i = 0; i < 399; i++) CHECK(seconds[i] > 0 && seconds[i] < 1); /* a pair is a launch apart */
        CHECK(cud->times(o.queue, seconds, 400, &n, &o.err) == INFER_OK && n == 0);
    }
    CHECK(fakecu.live[FAKECU_EVENT] == 800); /* made once */
    fakecu.fail_name = "cuLaunchKernel";
    fakecu.fail_code = 1;
    CHECK(cud->launch(o.queue, o.kernel, groups, 64, b, 2, &a, sizeof a, &o.err) == INFER_ERR_DEVICE);
    CHECK_STR(o.err.message, "cuLaunchKernel failed: FAKE_1 (1)");
    fakecu.fail_name = NULL; /* it has no time, and the next one has its own */
    CHECK(!cud->launch(o.queue, o.kernel, groups, 64, b, 2, &a, sizeof a, &o.err));
    CHECK(cud->sync(o.queue, &o.err) == INFER_OK);
    CHECK(cud->times(o.queue, seconds, 400, &n, &o.err) == INFER_OK && n == 1);
    CHECK(cud->timing(o.queue, 0, &o.err) == INFER_OK);
    CHECK(!cud->launch(o.queue, o.kernel, groups, 64, b, 2, &a, sizeof a, &o.err));
    CHECK(cud->times(o.queue, seconds, 400, &n, &o.err) == INFER_OK && n == 0);
    cud_close_all(&o);
    cud_end();
}

/* ---- the layer above --------------------------------------------------------------------------------------------- */

/* A model's programs on it: all of PTX, and the special ones of its tier. */
static void test_gpu_cuda_modules(void) {
    static const infer__driver *const only[] = {&infer__cuda_driver, NULL};
    const infer__kind_row *kind;
    infer__gpu *g = NULL;
    infer__mem mem;
    infer__buf buf;
    infer_error err;
    int32_t i, tier;
    for (tier = 61; tier <= 90; tier += 29) {
        infer__mem_init(&mem, NULL, 0);
        cud_begin(1);
        fakecu.devices[0].major = tier / 10;
        fakecu.devices[0].minor = tier % 10;
        infer__cuda.n = 0;
        infer__cuda_list(&infer__cuda);
        CHECK(infer__gpu_open_in(only, &g, &mem, NULL, INFER_CUDA, -1, NULL, &err) == INFER_OK);
        for (i = 0; g && i < INFER__MODULE_COUNT; i++) {
            const infer__module_row *row = infer__module_at(i);
            if (row->kind == INFER__MODULE_KV) CHECK(infer__gpu_use_kv(g, row->id, &err) == INFER_OK);
            if (row->kind == INFER__MODULE_TYPE)
                CHECK(infer__gpu_use_type(g, infer__quant_find(row->id, NULL), &err) == INFER_OK);
        }
        for (i = 0; g && i < INFER__MODULE_COUNT; i++) {
            const infer__module_row *row = infer__module_at(i);
            check_detail = row->name;
            kind = &INFER__KINDS[row->kind];
            CHECK(infer__gpu_has_program(g, row->kind, row->id) ==
                  (row->kind < INFER__MODULE_SPECIAL ||
                   (row->kind != INFER__MODULE_LATENT && /* no model wants it here */
                    kind->form == INFER__FORM_PTX && (kind->exact ? tier == kind->tier : tier >= kind->tier))));
        }
        check_detail = "";
        fakecu.fail_name = "cuMemAlloc_v2";
        fakecu.fail_code = 2;
        if (g) CHECK(infer__gpu_alloc(g, &buf, 1000, &err) == INFER_ERR_MEMORY);
        CHECK_HAS(err.message, ": 1000 bytes: cuMemAlloc_v2 failed: FAKE_2 (2)");
        infer__gpu_close(g);
        CHECK(infer__atomic_get(&mem.used) == 0);
        cud_end();
    }
}

/* Contexts are expensive: listing makes none, and a model one on each device that it uses. */
static void test_gpu_cuda_contexts(void) {
    infer_device_info info;
    infer__gpu *g = NULL;
    infer__mem mem;
    infer_error err;
    int32_t i, rows[16];
    char why_not[120];
    infer__mem_init(&mem, NULL, 0);
    cud_begin(8);
    for (i = 0; infer__gpu_info_in(infer__drivers, i, &info); i++)
        if (info.backend == INFER_CUDA) CHECK(info.usable && info.free == info.total);
    CHECK(infer__gpu_rows(infer__drivers, INFER_CUDA, 0, rows, 16, why_not, sizeof why_not) == 8);
    CHECK(infer__gpu_automatic(infer__drivers, 1) == rows[0]);
    CHECK(fakecu.made == 0);
    CHECK(infer__gpu_open_row(infer__drivers, &g, &mem, NULL, rows[2], NULL, &err) == INFER_OK);
    CHECK(fakecu.made == 1);
    for (i = 0; i < 8; i++) { /* what is free is known of the one that is in use */
        CHECK(infer__gpu_info_in(infer__drivers, rows[i], &info));
        CHECK(info.free == (i == 2 ? info.total / 2 : info.total));
    }
    CHECK(g && infer__gpu_memory(g) == (uint64_t)1 << 29);
    CHECK(fakecu.made == 1);
    infer__gpu_close(g);
    cud_end();
}

/* CUDA does not work in a child of fork(): said so before the driver's own error, or worse, comes. */
static void test_gpu_cuda_child(void) {
    infer__mem mem;
    infer_error err;
    void *device = NULL;
    infer__mem_init(&mem, NULL, 0);
    cud_begin(1);
    infer__cuda.process = infer__process() + 1;
    CHECK(cud->open(&device, &mem, 0, &err) == INFER_ERR_DEVICE && !device);
    CHECK_STR(err.message, "CUDA was started before fork() and does not work in the child: fork() first");
    CHECK(fakecu.made == 0);
    cud_end();
}

static void suite_gpu_cuda(void) {
    RUN(test_gpu_cuda_library);
    if (sizeof(void *) < 8) return; /* there CUDA is not */
    RUN(test_gpu_cuda_nothing);
    RUN(test_gpu_cuda_order);
    RUN(test_gpu_cuda_story);
    RUN(test_gpu_cuda_failures);
    RUN(test_gpu_cuda_oom);
    RUN(test_gpu_cuda_large);
    RUN(test_gpu_cuda_fatal);
    RUN(test_gpu_cuda_lost);
    RUN(test_gpu_cuda_programs);
    RUN(test_gpu_cuda_early);
    RUN(test_gpu_cuda_shared);
    RUN(test_gpu_cuda_cache);
    RUN(test_gpu_cuda_recordings);
    RUN(test_gpu_cuda_times);
    RUN(test_gpu_cuda_modules);
    RUN(test_gpu_cuda_contexts);
    RUN(test_gpu_cuda_child);
}
