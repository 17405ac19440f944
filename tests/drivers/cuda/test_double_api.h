/* test_double_api.h: the part of test_double.c that tests the driver API: refusals, order in time, captures, planned errors. */

static void test_before(void) { /* before cuInit */
    int n;
    void *p;
    section = "before cuInit";
    EQ(cuDeviceGetCount(&n), 3);
    EQ(cuDevicePrimaryCtxRetain(&p, 0), 3);
    set("FAKE_CUDA_STUB", "1");
    EQ(cuInit(0), 34);
    EQ(cuDriverGetVersion(&n), 34);
    set("FAKE_CUDA_STUB", NULL);
    set("FAKE_CUDA_DEVICES", "0");
    EQ(cuInit(0), 100);
    set("FAKE_CUDA_DEVICES", NULL);
    set("FAKE_CUDA_FAIL", "cuInit:1=999");
    EQ(cuInit(0), 999);
    EQ(cuInit(0), 0);
    set("FAKE_CUDA_FAIL", NULL);
}

static void test_api(void) {
    unsigned flags;
    int n, d, status;
    char name[64], id[16];
    size_t bytes, left;
    devptr a, b;
    void *m, *f, *p, *c;
    const char *text;
    section = "devices";
    set("FAKE_CUDA_DEVICES", "2");
    EQ(cuDeviceGetCount(&n), 0);
    EQ(n, 2);
    EQ(cuDeviceGet(&d, 1), 0);
    EQ(cuDeviceGet(&d, 2), 101);
    EQ(cuDeviceGetName(name, sizeof name, 1), 0);
    EQ(cuDeviceGetUuid(id, 1), 0);
    EQ(cuDeviceGetUuid_v2(id, 1), 0);
    EQ(cuDeviceGetPCIBusId(name, sizeof name, 1), 0);
    EQ(cuDeviceGetAttribute(&n, 10, 0), 0);
    EQ(n, 32);
    EQ(cuDeviceGetAttribute(&n, 100000, 0), 1);
    set("FAKE_CUDA_CAPABILITY", "90");
    EQ(cuDeviceGetAttribute(&n, 75, 0), 0);
    EQ(n, 9);
    set("FAKE_CUDA_CAPABILITY", NULL);
    EQ(cuDriverGetVersion(&n), 0);
    EQ(n, 12040);
    EQ(cuGetErrorName(700, &text), 0);
    CHECK(!strcmp(text, "CUDA_ERROR_ILLEGAL_ADDRESS"));
    EQ(cuGetErrorString(2, &text), 0);
    CHECK(!strcmp(text, "out of memory"));
    EQ(cuGetErrorName(12345, &text), 1);
    EQ(cuGetProcAddress_v2("cuMemAlloc", &p, 12000, 0, &status), 0);
    CHECK(p == *(void **)&cuMemAlloc_v2);
    EQ(cuGetProcAddress_v2("cuNoSuch", &p, 12000, 0, &status), 500);
    section = "contexts";
    EQ(cuCtxPushCurrent_v2((void *)&n), 201);
    EQ(cuCtxPopCurrent_v2(&c), 0);
    CHECK(c == context);
    EQ(cuCtxPopCurrent_v2(&c), 201);
    EQ(cuMemAlloc_v2(&a, 64), 201);
    EQ(cuCtxSynchronize(), 201);
    EQ(cuDevicePrimaryCtxGetState(1, &flags, &n), 0);
    EQ(n, 0);
    EQ(cuDevicePrimaryCtxRetain(&c, 1), 0);
    EQ(cuDevicePrimaryCtxGetState(1, &flags, &n), 0);
    EQ(n, 1);
    EQ(cuCtxPushCurrent_v2(c), 0);
    EQ(cuMemAlloc_v2(&b, 64), 0); /* of the second device: the first one's kernels may not touch it */
    EQ(cuCtxSetCurrent(context), 0);
    EQ(cuCtxGetCurrent(&p), 0);
    CHECK(p == context);
    {
        char body[256];
        snprintf(body, sizeof body, "mov.u64 %%rd10, %llu; st.global.u32 [%%rd10], %%r1;", b);
        FAILS(body, 61, 1, 700, "out of bounds");
    }
    EQ(cuCtxSetCurrent(c), 0);
    EQ(cuMemFree_v2(b), 0);
    EQ(cuDevicePrimaryCtxRelease_v2(1), 0);
    EQ(cuDevicePrimaryCtxRelease_v2(1), 201);
    EQ(cuMemAlloc_v2(&b, 64), 201); /* its context has ended */
    EQ(cuCtxSetCurrent(context), 0);
    set("FAKE_CUDA_DEVICES", NULL);
    section = "memory of the API";
    set("FAKE_CUDA_MEMORY", "1M");
    EQ(cuMemGetInfo_v2(&left, &bytes), 0);
    EQ(bytes, 1 << 20);
    EQ(left, (1 << 20) - sizeof in - sizeof out);
    EQ(cuMemAlloc_v2(&a, left + 1), 2);
    EQ(cuMemAlloc_v2(&a, 0), 1);
    EQ(cuMemAlloc_v2(&a, (size_t)-1), 2);
    EQ(cuMemAlloc_v2(&a, left), 0);
    EQ(cuMemAlloc_v2(&b, 1), 2);
    EQ(cuMemFree_v2(a + 4), 1);
    EQ(cuMemFree_v2(a), 0);
    EQ(cuMemFree_v2(a), 1);
    EQ(cuMemFree_v2(0), 0);
    set("FAKE_CUDA_MEMORY", NULL);
    EQ(cuMemcpyHtoD_v2(out_at, in, sizeof out + 1), 1);
    EQ(cuMemcpyHtoD_v2(out_at - 4, in, 4), 1);
    EQ(cuMemcpyDtoH_v2(out, out_at + sizeof out, 1), 1);
    EQ(cuMemcpyDtoD_v2(a, out_at, 4), 1); /* freed */
    EQ(cuMemAllocHost_v2(&p, 100), 0);
    EQ(cuMemFreeHost(p), 0);
    EQ(cuMemFreeHost(p), 1);
    EQ(cuMemHostAlloc(&p, 100, 16), 1);
    EQ(cuMemHostAlloc(&p, 100, 2), 0);
    EQ(cuMemFreeHost(p), 0);
    EQ(cuMemHostRegister_v2(in, sizeof in, 0), 0);
    EQ(cuMemHostRegister_v2(in + 1, 4, 0), 712);
    EQ(cuMemHostUnregister(in), 0);
    EQ(cuMemHostUnregister(in), 713);
    section = "modules";
    EQ(cuModuleLoadData(&m, "garbage that is no image"), 200);
    EQ(cuModuleLoadData(&m, ".version 6.3\n.target sm_61\nnonsense"), 218);
    EQ(cuModuleLoadData(&m, kernel_text("", 61, "9.9")), 222);
    EQ(cuModuleLoadData(&m, kernel_text("", 80, "7.0")), 209);
    set("FAKE_CUDA_DRIVER", "9000");
    EQ(cuModuleLoadData(&m, kernel_text("", 61, "6.3")), 222);
    EQ(cuModuleLoadData(&m, kernel_text("", 61, "6.0")), 0);
    EQ(cuModuleUnload(m), 0);
    set("FAKE_CUDA_DRIVER", NULL);
    {
        char log[300] = "";
        int options[2] = {5, 6};
        void *values[2] = {log, (void *)sizeof log};
        EQ(cuModuleLoadDataEx(&m, kernel_text("frobnicate.u32 %r1, %r2;", 61, "6.3"), 2, options, values), 218);
        CHECK(strstr(log, "frobnicate.u32"));
        CHECK(strstr(log, "line 15"));
        EQ((uintptr_t)values[1], strlen(log) + 1);
    }
    EQ(load(&m, &f, "add.s32 %r1, %r2, %rd1;", 61), 218);
    EQ(load(&m, &f, "add.s32 %r1, %r2;", 61), 218);
    EQ(load(&m, &f, "add.rz.f32 %f1, %f2, %f3;", 61), 218); /* a rounding that is not here is an error, not another rounding */
    EQ(load(&m, &f, "cvt.f32.s32 %f1, %r1;", 61), 218);
    EQ(load(&m, &f, "bra nowhere;", 61), 218);
    EQ(load(&m, &f, "ld.global.u32 %r200, [%rd1];", 61), 218);
    EQ(load(&m, &f, ".shared .align 4 .b8 sh[64];|bar.sync 0;", 61), 0);
    EQ(cuModuleGetFunction(&p, m, "none"), 500);
    EQ(cuModuleGetFunction(&p, &n, "k"), 400);
    EQ(cuFuncGetAttribute(&n, 0, f), 0);
    EQ(n, 1024);
    EQ(cuFuncGetAttribute(&n, 1, f), 0);
    EQ(n, 0); /* not named, so not placed */
    EQ(cuFuncGetAttribute(&n, 99, f), 1);
    EQ(cuFuncGetAttribute(&n, 0, &n), 400);
    EQ(cuFuncSetAttribute(f, 8, 49153), 1);
    set("FAKE_CUDA_CAPABILITY", "80");
    EQ(cuFuncSetAttribute(f, 8, 100000), 0);
    set("FAKE_CUDA_CAPABILITY", NULL);
    EQ(cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, f, 256, 0), 0);
    EQ(n, 8);
    section = "launches";
    {
        unsigned count = 1;
        void *params[3] = {&out_at, &in_at, &count}, *extra[5], *holes[3] = {&out_at, NULL, &count};
        struct { devptr a, b; unsigned n; } packed = {out_at, in_at, 1};
        size_t size = sizeof packed;
#define LAUNCH(fn, g, t, shared, stream, pp, ee) cuLaunchKernel(fn, g, 1, 1, t, 1, 1, shared, stream, pp, ee)
        EQ(LAUNCH(f, 0, 32, 0, NULL, params, NULL), 1);
        EQ(LAUNCH(f, 1, 0, 0, NULL, params, NULL), 1);
        EQ(LAUNCH(f, 1, 1025, 0, NULL, params, NULL), 1);
        EQ(LAUNCH(f, 1, 32, 200000, NULL, params, NULL), 1);
        EQ(LAUNCH(f, 1, 32, 90000, NULL, params, NULL), 0);
        EQ(LAUNCH(f, 1, 32, 0, NULL, NULL, NULL), 1);
        EQ(LAUNCH(f, 1, 32, 0, NULL, holes, NULL), 1);
        EQ(LAUNCH(&n, 1, 32, 0, NULL, params, NULL), 400);
        EQ(LAUNCH(f, 1, 32, 0, &n, params, NULL), 400);
        EQ(cuLaunchKernel(f, 1, 70000, 1, 32, 1, 1, 0, NULL, params, NULL), 1);
        EQ(cuLaunchKernel(f, 1, 1, 1, 32, 32, 2, 0, NULL, params, NULL), 1);
        extra[0] = (void *)1, extra[1] = &packed, extra[2] = (void *)2, extra[3] = &size, extra[4] = NULL;
        EQ(LAUNCH(f, 1, 32, 0, NULL, NULL, extra), 0);
        EQ(LAUNCH(f, 1, 32, 0, NULL, params, extra), 1);
        size = 8;
        EQ(LAUNCH(f, 1, 32, 0, NULL, NULL, extra), 1);
        EQ(cuModuleUnload(m), 0);
        EQ(cuModuleUnload(m), 400);
        EQ(LAUNCH(f, 1, 32, 0, NULL, params, NULL), 400);
        size = sizeof packed;
        packed.n = 77;
        EQ(load(&m, &f, "st.global.u32 [%rd3], %r0;", 61), 0);
        EQ(LAUNCH(f, 1, 32, 0, NULL, NULL, extra), 0);
        EQ(cuMemcpyDtoH_v2(out, out_at, sizeof out), 0);
        EQ(out[31], 77);
        EQ(cuModuleUnload(m), 0);
    }
    section = "linking";
    {
        char log[300] = "", copy[4096];
        int options[2] = {5, 6};
        void *values[2] = {log, (void *)sizeof log}, *link, *image;
        snprintf(copy, sizeof copy, "%s", kernel_text("st.global.u32 [%rd3], %r1;", 61, "6.3"));
        EQ(cuLinkCreate_v2(2, options, values, &link), 0);
        EQ(cuLinkAddData_v2(link, 1, (void *)"nonsense", 8, "k", 0, NULL, NULL), 218);
        CHECK(log[0]);
        EQ(cuLinkComplete(link, &image, &bytes), 1);
        EQ(cuLinkAddData_v2(link, 1, copy, strlen(copy), "k", 0, NULL, NULL), 0);
        EQ(cuLinkComplete(link, &image, &bytes), 0);
        p = malloc(bytes);
        memcpy(p, image, bytes);
        EQ(cuLinkDestroy(link), 0);
        EQ(cuLinkDestroy(link), 400);
        EQ(cuModuleLoadData(&m, p), 0);
        EQ(cuModuleUnload(m), 0);
        set("FAKE_CUDA_CAPABILITY", "90");
        EQ(cuModuleLoadData(&m, p), 209);
        set("FAKE_CUDA_CAPABILITY", NULL);
        ((char *)p)[5] ^= 1;
        EQ(cuModuleLoadData(&m, p), 200);
        free(p);
    }
}

/* What is asynchronous happens late: when somebody waits. */
static void test_async(void) {
    void *s, *t, *e, *g, *m, *f;
    uint32_t x = 1, y = 0;
    unsigned n = 1;
    float ms = -1;
    void *params[3] = {&out_at, &in_at, &n};
    section = "time";
    EQ(cuStreamCreate(&s, 1), 0);
    EQ(cuStreamCreate(&t, 1), 0);
    EQ(cuStreamCreate(&e, 7), 1);
    EQ(cuEventCreate(&e, 0), 0);
    EQ(cuEventCreate(&g, 0), 0);
    EQ(cuEventElapsedTime(&ms, e, g), 400); /* never recorded */
    EQ(cuMemcpyHtoDAsync_v2(out_at, &x, 4, s), 0);
    EQ(cuMemcpyDtoHAsync_v2(&y, out_at, 4, s), 0);
    x = 2; /* too early, and so what arrives is 2 */
    EQ(y, 0);
    EQ(cuStreamQuery(s), 600);
    EQ(cuStreamQuery(s), 0);
    EQ(y, 2);
    EQ(load(&m, &f, "mov.u32 %r10, 0; L: add.u32 %r10, %r10, 1; setp.lt.u32 %p1, %r10, 100000; @%p1 bra L; st.global.u32 [%rd3], %r10;", 61), 0);
    EQ(cuEventRecord(e, s), 0);
    EQ(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, params, NULL), 0);
    EQ(cuEventRecord(g, s), 0);
    EQ(cuEventElapsedTime(&ms, e, g), 600);
    EQ(cuMemcpyDtoHAsync_v2(&y, out_at, 4, t), 0);
    EQ(cuEventQuery(e), 600);
    EQ(cuEventSynchronize(g), 0);
    EQ(cuEventElapsedTime(&ms, e, g), 0);
    CHECK(ms > 0.01f && ms < 10000.0f);
    EQ(cuStreamWaitEvent(t, g, 0), 0);
    EQ(cuStreamSynchronize(t), 0);
    EQ(y, 100000);
    /* a stream that waits for an event makes the other one run */
    EQ(cuMemsetD8Async(out_at, 1, 4, s), 0);
    EQ(cuEventRecord(e, s), 0);
    EQ(cuStreamWaitEvent(t, e, 0), 0);
    EQ(cuMemcpyDtoDAsync_v2(out_at + 4, out_at, 4, t), 0);
    EQ(cuMemcpyDtoHAsync_v2(&y, out_at + 4, 4, t), 0);
    EQ(cuStreamSynchronize(t), 0);
    EQ(y, 0x01010101);
    /* without the event there is no order: t is first */
    EQ(cuMemsetD8Async(out_at, 2, 4, s), 0);
    EQ(cuMemcpyDtoHAsync_v2(&y, out_at, 4, t), 0);
    EQ(cuStreamSynchronize(t), 0);
    EQ(y, 0x01010101);
    /* the legacy stream does not wait for a stream that does not block, but for one that does */
    EQ(cuMemcpyDtoH_v2(&y, out_at, 4), 0);
    EQ(y, 0x01010101);
    EQ(cuStreamSynchronize(s), 0);
    EQ(cuStreamDestroy_v2(t), 0);
    EQ(cuStreamDestroy_v2(t), 400);
    EQ(cuStreamCreate(&t, 0), 0);
    EQ(cuMemsetD8Async(out_at, 3, 4, t), 0);
    EQ(cuMemcpyDtoH_v2(&y, out_at, 4), 0);
    EQ(y, 0x03030303);
    /* an event that is destroyed before it has happened */
    EQ(cuEventRecord(e, s), 0);
    EQ(cuEventDestroy_v2(e), 0);
    EQ(cuEventDestroy_v2(e), 400);
    EQ(cuStreamSynchronize(s), 0);
    EQ(cuEventCreate(&e, 2), 0);
    EQ(cuEventRecord(e, s), 0);
    EQ(cuEventSynchronize(e), 0);
    EQ(cuEventElapsedTime(&ms, e, g), 400); /* has no time */
    EQ(cuStreamSynchronize(&x), 400);
    EQ(cuEventRecord(&x, s), 400);
    CHECK(fake_cuda_live() > 0);
    EQ(cuEventDestroy_v2(e), 0);
    EQ(cuEventDestroy_v2(g), 0);
    EQ(cuStreamDestroy_v2(s), 0);
    EQ(cuStreamDestroy_v2(t), 0);
    EQ(cuModuleUnload(m), 0);
}

static void test_capture(void) {
    void *s, *t, *e, *g, *x, *m, *f, *params[3];
    unsigned n = 5, k;
    uint32_t y = 0;
    int status;
    devptr a;
    section = "captures";
    params[0] = &out_at, params[1] = &in_at, params[2] = &n;
    EQ(cuStreamCreate(&s, 1), 0);
    EQ(cuStreamCreate(&t, 1), 0);
    EQ(cuEventCreate(&e, 2), 0);
    EQ(load(&m, &f, "ld.global.u32 %r10, [%rd3]; add.u32 %r10, %r10, %r0; st.global.u32 [%rd3], %r10;", 61), 0);
    EQ(cuMemsetD8_v2(out_at, 0, 64), 0);
    EQ(cuStreamEndCapture(s, &g), 401);
    EQ(cuStreamBeginCapture_v2(NULL, 0), 900);
    EQ(cuStreamBeginCapture_v2(s, 0), 0);
    EQ(cuStreamBeginCapture_v2(s, 0), 401);
    EQ(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, params, NULL), 0);
    n = 100; /* arguments were read by the call */
    EQ(cuMemcpyDtoHAsync_v2(&y, out_at, 4, s), 0);
    EQ(cuStreamIsCapturing(s, &status), 0);
    EQ(status, 1);
    EQ(cuStreamEndCapture(s, &g), 0);
    EQ(cuStreamIsCapturing(s, &status), 0);
    EQ(status, 0);
    EQ(cuStreamSynchronize(s), 0);
    EQ(y, 0); /* nothing has run */
    EQ(cuGraphInstantiateWithFlags(&x, g, 0), 0);
    EQ(cuGraphDestroy(g), 0);
    EQ(cuGraphDestroy(g), 1);
    for (k = 0; k < 3; k++) EQ(cuGraphLaunch(x, s), 0);
    EQ(y, 0);
    EQ(cuStreamSynchronize(s), 0);
    EQ(y, 15);
    EQ(cuGraphLaunch(x, s), 0);
    EQ(cuGraphExecDestroy(x), 0); /* what is under way ends well */
    EQ(cuStreamSynchronize(s), 0);
    EQ(y, 20);
    EQ(cuGraphLaunch(x, s), 1);
    /* a second stream joins and is joined */
    EQ(cuStreamBeginCapture_v2(s, 1), 0);
    EQ(cuEventRecord(e, s), 0);
    EQ(cuStreamWaitEvent(t, e, 0), 0);
    EQ(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, t, params, NULL), 0);
    EQ(cuStreamEndCapture(t, &g), 401);
    EQ(cuEventSynchronize(e), 907);
    EQ(cuStreamEndCapture(s, &g), 901);
    EQ(cuStreamBeginCapture_v2(s, 1), 0);
    EQ(cuEventRecord(e, s), 0);
    EQ(cuStreamWaitEvent(t, e, 0), 0);
    EQ(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, t, params, NULL), 0);
    EQ(cuStreamEndCapture(s, &g), 904);
    EQ(cuStreamBeginCapture_v2(s, 1), 0);
    EQ(cuEventRecord(e, s), 0);
    EQ(cuStreamWaitEvent(t, e, 0), 0);
    EQ(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, t, params, NULL), 0);
    EQ(cuEventRecord(e, t), 0);
    EQ(cuStreamWaitEvent(s, e, 0), 0);
    EQ(cuStreamEndCapture(s, &g), 0);
    EQ(cuGraphInstantiate_v2(&x, g, NULL, NULL, 0), 0);
    EQ(cuGraphLaunch(x, s), 0);
    EQ(cuStreamSynchronize(s), 0);
    EQ(cuMemcpyDtoH_v2(&y, out_at, 4), 0);
    EQ(y, 120);
    EQ(cuGraphExecDestroy(x), 0);
    EQ(cuGraphDestroy(g), 0);
    /* what a capture forbids; each spoils it */
    for (k = 0; k < 7; k++) {
        int rc;
        EQ(cuStreamBeginCapture_v2(s, 0), 0);
        rc = k == 0 ? cuStreamSynchronize(s) : k == 1 ? cuCtxSynchronize() : k == 2 ? cuMemAlloc_v2(&a, 64) : k == 3 ? cuMemFree_v2(in_at)
             : k == 4 ? cuMemcpyDtoH_v2(&y, out_at, 4) : k == 5 ? cuModuleUnload(m) : cuStreamQuery(s);
        check(rc == 900, __LINE__, "a call that a capture forbids", rc, k);
        EQ(cuStreamIsCapturing(s, &status), 0);
        EQ(status, 2);
        EQ(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, params, NULL), 901);
        EQ(cuStreamEndCapture(s, &g), 901);
        CHECK(g == NULL);
    }
    EQ(cuStreamBeginCapture_v2(s, 2), 0); /* relaxed */
    EQ(cuMemAlloc_v2(&a, 64), 0);
    EQ(cuMemFree_v2(a), 0);
    EQ(cuStreamEndCapture(s, &g), 0);
    EQ(cuGraphDestroy(g), 0);
    EQ(cuStreamDestroy_v2(t), 0);
    EQ(cuStreamCreate(&t, 0), 0);
    EQ(cuStreamBeginCapture_v2(t, 2), 0); /* of a stream that blocks: the legacy stream would have to wait */
    EQ(cuMemsetD8Async(out_at, 0, 4, NULL), 906);
    EQ(cuStreamEndCapture(t, &g), 901);
    EQ(cuStreamDestroy_v2(s), 0);
    EQ(cuStreamDestroy_v2(t), 0);
    EQ(cuEventDestroy_v2(e), 0);
    EQ(cuModuleUnload(m), 0);
}

static void test_planned(void) {
    devptr a[4];
    void *s;
    section = "planned errors";
    set("FAKE_CUDA_FAIL", "cuMemAlloc_v2:3=2,cuStreamCreate:1=999");
    EQ(cuMemAlloc_v2(&a[0], 64), 0);
    EQ(cuMemAlloc_v2(&a[1], 64), 0);
    EQ(cuMemAlloc_v2(&a[2], 64), 2);
    EQ(cuMemAlloc_v2(&a[3], 64), 0);
    EQ(cuStreamCreate(&s, 0), 999);
    EQ(cuMemFree_v2(a[0]), 999); /* 999 sticks; memory is freed all the same */
    EQ(cuMemFree_v2(a[1]), 999);
    EQ(cuMemFree_v2(a[3]), 999);
    down();
    up();
    set("FAKE_CUDA_FAIL", "cuLaunchKernel:2=719");
    EQ(run("st.global.u32 [%rd3], %r1;", 61, 32), 0);
    EQ(run("st.global.u32 [%rd3], %r1;", 61, 32), 719);
    EQ(cuCtxSynchronize(), 719);
    EQ(cuMemAlloc_v2(&a[0], 64), 719);
    set("FAKE_CUDA_FAIL", NULL);
    EQ(cuCtxSynchronize(), 719);
    down();
    EQ(fake_cuda_live(), 0);
    up();
    EQ(run("st.global.u32 [%rd3], %r1;", 61, 32), 0);
}

/* PTX that a compiler wrote: it loads on a device that can do everything. */
static void test_files(int n, char **paths) {
    static char text[4 << 20];
    section = "files";
    set("FAKE_CUDA_CAPABILITY", "120");
    set("FAKE_CUDA_DRIVER", "13000");
    for (int k = 0; k < n; k++) {
        FILE *f = fopen(paths[k], "rb");
        size_t size = f ? fread(text, 1, sizeof text - 1, f) : 0;
        void *m = NULL;
        int rc;
        if (f) fclose(f);
        text[size] = 0;
        set("FAKE_CUDA_CAPABILITY", strstr(text, ".target sm_90a") ? "90" : "120"); /* such code runs nowhere else */
        rc = cuModuleLoadData(&m, text);
        check(rc == 0, __LINE__, paths[k], rc, 0);
        if (!rc) cuModuleUnload(m);
    }
    set("FAKE_CUDA_CAPABILITY", NULL);
    set("FAKE_CUDA_DRIVER", NULL);
}
