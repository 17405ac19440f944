/* test_double.h: the driver API as test_double.c uses it, loaded from the double, and what makes a kernel of a few lines of PTX.
 * Nothing is taken from NVIDIA's header: the declarations here are a second look at the same documentation.
 */
#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef unsigned long long devptr;
#define FUNCTIONS(F) \
    F(cuInit, (unsigned)) F(cuDriverGetVersion, (int *)) F(cuDeviceGetCount, (int *)) F(cuDeviceGet, (int *, int)) \
    F(cuDeviceGetName, (char *, int, int)) F(cuDeviceGetAttribute, (int *, int, int)) F(cuDeviceTotalMem_v2, (size_t *, int)) \
    F(cuDeviceGetUuid, (void *, int)) F(cuDeviceGetUuid_v2, (void *, int)) F(cuDeviceGetPCIBusId, (char *, int, int)) \
    F(cuDevicePrimaryCtxRetain, (void **, int)) F(cuDevicePrimaryCtxRelease_v2, (int)) \
    F(cuDevicePrimaryCtxGetState, (int, unsigned *, int *)) F(cuCtxPushCurrent_v2, (void *)) \
    F(cuCtxPopCurrent_v2, (void **)) F(cuCtxSetCurrent, (void *)) F(cuCtxGetCurrent, (void **)) F(cuCtxSynchronize, (void)) \
    F(cuMemGetInfo_v2, (size_t *, size_t *)) F(cuMemAlloc_v2, (devptr *, size_t)) F(cuMemFree_v2, (devptr)) \
    F(cuMemAllocHost_v2, (void **, size_t)) F(cuMemHostAlloc, (void **, size_t, unsigned)) F(cuMemFreeHost, (void *)) \
    F(cuMemHostRegister_v2, (void *, size_t, unsigned)) F(cuMemHostUnregister, (void *)) F(cuMemcpyHtoD_v2, (devptr, const void *, size_t)) \
    F(cuMemcpyDtoH_v2, (void *, devptr, size_t)) F(cuMemcpyDtoD_v2, (devptr, devptr, size_t)) \
    F(cuMemcpyHtoDAsync_v2, (devptr, const void *, size_t, void *)) F(cuMemcpyDtoHAsync_v2, (void *, devptr, size_t, void *)) \
    F(cuMemcpyDtoDAsync_v2, (devptr, devptr, size_t, void *)) F(cuMemsetD8_v2, (devptr, unsigned char, size_t)) \
    F(cuMemsetD8Async, (devptr, unsigned char, size_t, void *)) F(cuStreamCreate, (void **, unsigned)) F(cuStreamDestroy_v2, (void *)) \
    F(cuStreamSynchronize, (void *)) F(cuStreamQuery, (void *)) F(cuStreamWaitEvent, (void *, void *, unsigned)) \
    F(cuStreamBeginCapture_v2, (void *, int)) F(cuStreamEndCapture, (void *, void **)) F(cuStreamIsCapturing, (void *, int *)) \
    F(cuGraphInstantiateWithFlags, (void **, void *, unsigned long long)) F(cuGraphInstantiate_v2, (void **, void *, void **, char *, size_t)) \
    F(cuGraphLaunch, (void *, void *)) F(cuGraphDestroy, (void *)) F(cuGraphExecDestroy, (void *)) F(cuEventCreate, (void **, unsigned)) \
    F(cuEventRecord, (void *, void *)) F(cuEventSynchronize, (void *)) F(cuEventQuery, (void *)) \
    F(cuEventElapsedTime, (float *, void *, void *)) F(cuEventDestroy_v2, (void *)) \
    F(cuModuleLoadDataEx, (void **, const void *, unsigned, int *, void **)) F(cuModuleLoadData, (void **, const void *)) \
    F(cuModuleUnload, (void *)) F(cuModuleGetFunction, (void **, void *, const char *)) F(cuFuncGetAttribute, (int *, int, void *)) \
    F(cuFuncSetAttribute, (void *, int, int)) F(cuLinkCreate_v2, (unsigned, int *, void **, void **)) \
    F(cuLinkAddData_v2, (void *, int, void *, size_t, const char *, unsigned, int *, void **)) F(cuLinkComplete, (void *, void **, size_t *)) \
    F(cuLinkDestroy, (void *)) F(cuGetErrorName, (int, const char **)) F(cuGetErrorString, (int, const char **)) \
    F(cuGetProcAddress_v2, (const char *, void **, int, unsigned long long, int *)) \
    F(cuOccupancyMaxActiveBlocksPerMultiprocessor, (int *, void *, int, size_t)) \
    F(cuLaunchKernel, (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **)) \
    F(fake_cuda_live, (void))
#define DECLARE(name, args) static int(*name) args;
FUNCTIONS(DECLARE)
static const char *(*fake_cuda_message)(void);

static int passed, failed;
static const char *section = "";
static void check(int ok, int line, const char *what, long long a, long long b) {
    if (ok) {
        passed++;
        return;
    }
    failed++;
    printf("FAILED %s, line %d: %s (%lld, %lld; %.300s)\n", section, line, what, a, b, fake_cuda_message());
}
#define CHECK(x) check(!!(x), __LINE__, #x, 0, 0)
#define EQ(a, b) \
    do { \
        long long a_ = (long long)(a), b_ = (long long)(b); \
        check(a_ == b_, __LINE__, #a " == " #b, a_, b_); \
    } while (0)

static void set(const char *name, const char *value) {
    if (value) setenv(name, value, 1);
    else unsetenv(name);
}

/* ---- a device, and kernels of a few lines ---------------------------------------------------------------------------- */

enum { WORDS = 4096 };
static void *context;
static devptr out_at, in_at;
static uint32_t in[WORDS], out[WORDS];

static void up(void) { /* a context with two buffers of WORDS words */
    EQ(cuInit(0), 0);
    EQ(cuDevicePrimaryCtxRetain(&context, 0), 0);
    EQ(cuCtxSetCurrent(context), 0);
    EQ(cuMemAlloc_v2(&out_at, sizeof out), 0);
    EQ(cuMemAlloc_v2(&in_at, sizeof in), 0);
}
static void down(void) { /* also after an error that sticks */
    cuMemFree_v2(out_at);
    cuMemFree_v2(in_at);
    EQ(cuDevicePrimaryCtxRelease_v2(0), 0);
    EQ(cuCtxSetCurrent(NULL), 0);
}

/* The registers are %p, %h, %r, %f, %rd, %d with numbers below 40; %rd0 out, %rd1 in, %r0 n, %r1 thread, %rd3 and %rd4 the
 * thread's words of out and in. Statements before the first "|" stand outside the kernel. */
static char *kernel_text(const char *body, int target, const char *version) {
    static char text[65536];
    const char *bar = strchr(body, '|');
    const char *inside = bar && strncmp(body, ".", 1) == 0 ? bar + 1 : body;
    snprintf(text, sizeof text,
             ".version %s\n.target sm_%d\n.address_size 64\n%.*s\n"
             ".visible .entry k(.param .u64 pa, .param .u64 pb, .param .u32 pn)\n{\n"
             ".reg .pred %%p<40>; .reg .b16 %%h<40>; .reg .b32 %%r<80>; .reg .f32 %%f<40>; .reg .b64 %%rd<40>; .reg .f64 %%d<40>;\n"
             "ld.param.u64 %%rd0, [pa];\nld.param.u64 %%rd1, [pb];\nld.param.u32 %%r0, [pn];\nmov.u32 %%r1, %%tid.x;\n"
             "mul.wide.u32 %%rd2, %%r1, 4;\nadd.s64 %%rd3, %%rd0, %%rd2;\nadd.s64 %%rd4, %%rd1, %%rd2;\n%s\nret;\n}\n",
             version, target, inside == body ? 0 : (int)(bar - body), body, inside);
    return text;
}
static int load(void **module, void **function, const char *body, int target) {
    int rc = cuModuleLoadData(module, kernel_text(body, target, target >= 90 ? "7.8" : target >= 80 ? "7.0" : "6.3"));
    return rc ? rc : cuModuleGetFunction(function, *module, "k");
}
/* Loads, runs in one block, waits, reads out; 0 or the first error. */
static int run_blocks(const char *body, int target, unsigned blocks, unsigned threads, unsigned n, unsigned dynamic) {
    void *m, *f, *params[3] = {&out_at, &in_at, &n};
    int rc = load(&m, &f, body, target), rc2;
    if (rc) return rc;
    rc = cuMemcpyHtoD_v2(in_at, in, sizeof in);
    if (!rc) rc = cuMemsetD8_v2(out_at, 0, sizeof out);
    if (!rc) rc = cuLaunchKernel(f, blocks, 1, 1, threads, 1, 1, dynamic, NULL, params, NULL);
    if (!rc) rc = cuCtxSynchronize();
    if (!rc) rc = cuMemcpyDtoH_v2(out, out_at, sizeof out);
    rc2 = cuModuleUnload(m);
    return rc ? rc : rc2;
}
static int run(const char *body, int target, unsigned threads) { return run_blocks(body, target, 1, threads, threads, 0); }

/* A kernel that must fail with this code, saying this; the context starts anew. */
static void fails(int line, const char *body, int target, unsigned threads, int code, const char *says) {
    int rc = run(body, target, threads);
    check(rc == code, line, "the kernel's error", rc, code);
    check(rc != code || strstr(fake_cuda_message(), says) != NULL, line, says, 0, 0);
    if (rc >= 700) {
        down();
        up();
    }
}
#define FAILS(body, target, threads, code, says) fails(__LINE__, body, target, threads, code, says)

static int load_library(const char *path) {
    void *h = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!h) {
        printf("%s\n", dlerror());
        return 0;
    }
#define LOAD(name, args) \
    *(void **)&name = dlsym(h, #name); \
    if (!name) { \
        printf("FAILED: %s is not exported\n", #name); \
        return 0; \
    }
    FUNCTIONS(LOAD)
    *(void **)&fake_cuda_message = dlsym(h, "fake_cuda_message");
    return fake_cuda_message != NULL;
}
