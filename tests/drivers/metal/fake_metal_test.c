/* fake_metal_test.c: proof that the double of Metal sees mistakes. Each row plants one in a process of its own and reads
 * what the double says there. cc fake_metal_test.c -ldl; fake_metal_test LIBRARY; a line per failure.
 * A program makes its mistake where a driver would: by messages. `fine` is the same without one.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef void *id;
typedef struct { unsigned long w, h, d; } size3;
static void (*message)(void);
static const char *(*selector)(const char *name);
static id (*class_of)(const char *name);
static void *(*push)(void);
static void (*pop)(void *pool);
static id (*device_of)(void);

/* S(type of the result, object, selector, types of the arguments)(arguments) */
#define S(result, types) ((result(*) types)message)
#define SEL(name) selector(name)

static id send(id o, const char *sel) { return S(id, (id, const char *))(o, SEL(sel)); }
static id buffer(id d, unsigned long n, unsigned long options) {
    return S(id, (id, const char *, unsigned long, unsigned long))(d, SEL("newBufferWithLength:options:"), n, options);
}
static id string(const char *s) {
    return S(id, (id, const char *, const char *))(class_of("NSString"), SEL("stringWithUTF8String:"), s);
}
static float *contents(id b) { return (float *)send(b, "contents"); }

static const char text[] =
    "#include <metal_stdlib>\nusing namespace metal;\nstruct add_args { uint n; float by; };\n"
    "[[max_total_threads_per_threadgroup(64)]] kernel void k_add(device float *x [[buffer(0)]],\n"
    "    constant add_args &a [[buffer(1)]], uint3 at [[thread_position_in_threadgroup]],\n"
    "    uint3 group [[threadgroup_position_in_grid]]) {\n"
    "    threadgroup float part[64];\n    part[at.x] = a.by;\n"
    "    threadgroup_barrier(mem_flags::mem_threadgroup);\n"
    "    if (group.x * 64 + at.x < a.n) x[group.x * 64 + at.x] += part[63 - at.x];\n}\n"
    "kernel void k_sum(device float *x [[buffer(0)]], uint lane [[thread_index_in_simdgroup]]) {\n"
    "    float sum = simd_sum(x[lane]);\n    float most = simd_max(x[lane]);\n"
    "    float other = simd_shuffle_xor(x[lane], 1);\n"
    "    x[32 + lane] = sum; x[64 + lane] = most; x[96 + lane] = other;\n}\n"
    "kernel void k_matrix(device float *x [[buffer(0)]]) {\n"
    "    simdgroup_float8x8 a, b, c = make_filled_simdgroup_matrix<float, 8>(1.0f);\n"
    "    simdgroup_load(a, x, 8);\n    simdgroup_load(b, x + 64, 8, 0, true);\n"
    "    simdgroup_multiply_accumulate(c, a, b, c);\n    simdgroup_store(c, x + 128, 8);\n}\n"
    "kernel void k_halves(device half *x [[buffer(0)]]) {\n"
    "    simdgroup_half8x8 a, b;\n    simdgroup_float8x8 c = simdgroup_float8x8(0.0f);\n"
    "    simdgroup_load(a, x, 8);\n    simdgroup_load(b, x + 64, 8);\n"
    "    simdgroup_multiply_accumulate(c, a, b, c);\n    simdgroup_store(c, (device float *)(x + 128), 8);\n}\n"
    "kernel void k_race(device float *x [[buffer(0)]], uint3 at [[thread_position_in_threadgroup]]) {\n"
    "    threadgroup float part[64];\n    part[at.x] = x[at.x];\n    x[at.x] = part[63 - at.x];\n}\n";

/* What most rows need. */
typedef struct scene { id device, library, queue, commands, encoder, buffer; void *pool; } scene;

static id pipeline(scene *s, const char *name) {
    id err = NULL, f = S(id, (id, const char *, id))(s->library, SEL("newFunctionWithName:"), string(name)), p;
    p = S(id, (id, const char *, id, id *))(s->device, SEL("newComputePipelineStateWithFunction:error:"), f, &err);
    send(f, "release");
    return p;
}

static void begin(scene *s) {
    id err = NULL, options = send(class_of("MTLCompileOptions"), "new");
    memset(s, 0, sizeof *s);
    s->pool = push();
    s->device = device_of();
    S(void, (id, const char *, signed char))(options, SEL("setFastMathEnabled:"), 0);
    s->library = S(id, (id, const char *, id, id, id *))(s->device, SEL("newLibraryWithSource:options:error:"), string(text),
                                                         options, &err);
    if (!s->library)
        fprintf(stderr, "%s\n", (const char *)send(send(err, "localizedDescription"), "UTF8String"));
    send(options, "release");
    s->queue = send(s->device, "newCommandQueue");
    s->buffer = buffer(s->device, 1024, 0);
    s->commands = send(s->queue, "commandBuffer");
    s->encoder = send(s->commands, "computeCommandEncoder");
}

static void use(scene *s, const char *name) {
    id p = pipeline(s, name);
    S(void, (id, const char *, id))(s->encoder, SEL("setComputePipelineState:"), p);
    send(p, "release");
}
static void bind(scene *s, id b, unsigned long index) {
    S(void, (id, const char *, id, unsigned long, unsigned long))(s->encoder, SEL("setBuffer:offset:atIndex:"), b, 0, index);
}
static void bytes(scene *s, const void *p, unsigned long n, unsigned long index) {
    S(void, (id, const char *, const void *, unsigned long, unsigned long))(s->encoder, SEL("setBytes:length:atIndex:"), p, n,
                                                                            index);
}
static void dispatch(scene *s, unsigned long groups, unsigned long size) {
    size3 g = {0, 1, 1}, t = {0, 1, 1};
    g.w = groups;
    t.w = size;
    S(void, (id, const char *, size3, size3))(s->encoder, SEL("dispatchThreadgroups:threadsPerThreadgroup:"), g, t);
}
static void add(scene *s, unsigned n, float by) {
    struct { unsigned n; float by; } a;
    a.n = n;
    a.by = by;
    use(s, "k_add");
    bind(s, s->buffer, 0);
    bytes(s, &a, sizeof a, 1);
    dispatch(s, (n + 63) / 64, 64);
}
static void finish(scene *s) {
    send(s->encoder, "endEncoding");
    send(s->commands, "commit");
    send(s->commands, "waitUntilCompleted");
}
static void end(scene *s) {
    send(s->buffer, "release");
    send(s->queue, "release");
    send(s->library, "release");
    send(s->device, "release");
    pop(s->pool);
}
static void require(int ok, const char *what) {
    if (!ok) fprintf(stderr, "wrong: %s\n", what);
}

/* ---- the rows ------------------------------------------------------------------------------------------------------ */

static void fine(scene *s) {
    int i;
    float *x = contents(s->buffer);
    for (i = 0; i < 256; i++) x[i] = (float)i;
    add(s, 200, 2);
    add(s, 100, 3);
    require(x[5] == 5, "nothing happens before the wait");
    finish(s);
    require(x[5] == 10 && x[150] == 152 && x[200] == 200, "sums");
    require(S(unsigned long, (id, const char *))(s->commands, SEL("status")) == 4, "completed");
}
static void early(scene *s) { /* results are read before the wait */
    float *x = contents(s->buffer);
    x[0] = 1;
    add(s, 1, 2);
    send(s->encoder, "endEncoding");
    send(s->commands, "commit");
    require(x[0] == 3, "read before the wait");
    send(s->commands, "waitUntilCompleted");
}
static void collectives(scene *s) {
    int i;
    float *x = contents(s->buffer);
    for (i = 0; i < 32; i++) x[i] = (float)(i == 7 ? 100 : i);
    use(s, "k_sum");
    bind(s, s->buffer, 0);
    dispatch(s, 1, 32);
    finish(s);
    for (i = 0; i < 32; i++) require(x[32 + i] == 589 && x[64 + i] == 100 && x[96 + i] == x[i ^ 1], "collectives");
}
static void matrices(scene *s) {
    int i, j, k;
    float *x = contents(s->buffer), want;
    for (i = 0; i < 128; i++) x[i] = (float)(i * 7 % 11) - 5;
    use(s, "k_matrix");
    bind(s, s->buffer, 0);
    dispatch(s, 1, 32);
    finish(s);
    for (i = 0; i < 8; i++)
        for (j = 0; j < 8; j++) {
            for (want = 1, k = 0; k < 8; k++) want += x[i * 8 + k] * x[64 + j * 8 + k];
            require(x[128 + i * 8 + j] == want, "a product of matrices");
        }
}
static void halves(scene *s) {
    int i, j;
    float *x = contents(s->buffer), want;
    unsigned short *h = (unsigned short *)x;
    for (i = 0; i < 64; i++) {
        h[i] = i / 8 == i % 8 ? 0x4000 : 0; /* 2 on the diagonal */
        h[64 + i] = (unsigned short)(0x3c00 + i * 16); /* 1 + i / 64 */
    }
    use(s, "k_halves");
    bind(s, s->buffer, 0);
    dispatch(s, 1, 32);
    finish(s);
    for (i = 0; i < 64; i++) {
        j = i;
        want = 2 * (1 + (float)j / 64);
        require(x[64 + i] == want, "a product of matrices of halves");
    }
}
static void unknown(scene *s) { send(s->buffer, "contentss"); }
static void not_for_it(scene *s) { send(s->queue, "contents"); }
static void unregistered(scene *s) { S(id, (id, const char *))(s->queue, "commandBuffer"); }
static void after_release(scene *s) {
    send(s->buffer, "release");
    send(s->buffer, "contents");
}
static void no_object(scene *s) { send(&s->pool, "retain"); }
static void twice_released(scene *s) {
    id b = buffer(s->device, 16, 0), p = push();
    send(b, "autorelease");
    send(b, "autorelease");
    pop(p);
}
static void leak(scene *s) { buffer(s->device, 16, 0); }
static void retained(scene *s) { send(s->buffer, "retain"); }
static void no_pool(scene *s) {
    pop(s->pool);
    send(s->queue, "commandBuffer");
    s->pool = push();
}
static void two_encoders(scene *s) { send(s->commands, "blitCommandEncoder"); }
static void not_ended(scene *s) { send(s->commands, "commit"); }
static void after_end(scene *s) {
    send(s->encoder, "endEncoding");
    add(s, 4, 1);
}
static void committed_twice(scene *s) {
    finish(s);
    send(s->commands, "commit");
}
static void not_committed(scene *s) {
    send(s->encoder, "endEncoding");
    send(s->commands, "waitUntilCompleted");
}
static void no_pipeline(scene *s) { dispatch(s, 1, 1); }
static void too_many(scene *s) {
    use(s, "k_add");
    dispatch(s, 1, 128);
}
static void much_bytes(scene *s) {
    static char a[5000];
    bytes(s, a, sizeof a, 1);
}
static void far_index(scene *s) { bind(s, s->buffer, 31); }
static void few_bytes(scene *s) {
    int a = 1;
    add(s, 4, 1);
    bytes(s, &a, sizeof a, 1);
    dispatch(s, 1, 64);
    finish(s);
}
static void nothing_bound(scene *s) {
    use(s, "k_sum");
    dispatch(s, 1, 32);
    finish(s);
}
static void behind(scene *s) {
    add(s, 257, 1);
    finish(s);
}
static void odd_copy(scene *s) {
    id blit;
    send(s->encoder, "endEncoding");
    blit = send(s->commands, "blitCommandEncoder");
    S(void, (id, const char *, id, unsigned long, id, unsigned long, unsigned long))(
        blit, SEL("copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:"), s->buffer, 0, s->buffer, 16, 6);
    send(blit, "endEncoding");
}
static void long_copy(scene *s) {
    id blit;
    send(s->encoder, "endEncoding");
    blit = send(s->commands, "blitCommandEncoder");
    S(void, (id, const char *, id, unsigned long, id, unsigned long, unsigned long))(
        blit, SEL("copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:"), s->buffer, 0, s->buffer, 1000, 28);
    send(blit, "endEncoding");
}
static void private_contents(scene *s) {
    id b = buffer(s->device, 16, 2 << 4);
    contents(b);
    send(b, "release");
}
static void race(scene *s) { /* a barrier is missing: the first half of the results cannot be there */
    int i;
    float *x = contents(s->buffer);
    for (i = 0; i < 64; i++) x[i] = (float)i;
    use(s, "k_race");
    bind(s, s->buffer, 0);
    dispatch(s, 1, 64);
    finish(s);
    for (i = 0; i < 64; i++) require(x[i] == (float)(63 - i), "a barrier is missing");
}

static const struct { void (*run)(scene *s); const char *says; } rows[] = {
    {fine, ""}, {collectives, ""}, {matrices, ""}, {halves, ""},
    {early, "read before the wait"}, {race, "a barrier is missing"},
    {unknown, "unrecognized selector contentss sent to MTLBuffer"}, {not_for_it, "contents sent to MTLCommandQueue"},
    {unregistered, "did not give"}, {after_release, "was released"}, {no_object, "no object"},
    {twice_released, "once too often"}, {leak, "MTLBuffer is left"}, {retained, "MTLBuffer is left"},
    {no_pool, "without a pool"}, {two_encoders, "a second encoder"}, {not_ended, "with an open encoder"},
    {after_end, "after endEncoding"}, {committed_twice, "committed twice"}, {not_committed, "was not committed"},
    {no_pipeline, "without a pipeline"}, {too_many, "128 threads in a threadgroup, the pipeline takes 64"},
    {much_bytes, "5000 bytes"}, {far_index, "index 31"}, {few_bytes, "4 bytes at index 1, it takes 8"},
    {nothing_bound, "nothing is bound at index 0"}, {behind, "touched byte 1024 of memory of 1024 bytes"},
    {odd_copy, "no multiple of 4"}, {long_copy, "a copy of 28 bytes"}, {private_contents, "private buffer"},
};

static int open_library(const char *path) {
    void *lib = dlopen(path, RTLD_NOW);
    if (!lib) return 0;
#define GET(pointer, name) do { void *p_ = dlsym(lib, name); if (!p_) return 0; memcpy(&(pointer), &p_, sizeof p_); } while (0)
    GET(message, "objc_msgSend");
    GET(selector, "sel_registerName");
    GET(class_of, "objc_getClass");
    GET(push, "objc_autoreleasePoolPush");
    GET(pop, "objc_autoreleasePoolPop");
    GET(device_of, "MTLCreateSystemDefaultDevice");
    return 1;
}

/* Row i in a process: its stderr, and how it ended. */
static int attempt(const char *path, int i, char *said, size_t cap) {
    int to[2], status = 0;
    size_t n = 0;
    ssize_t got;
    pid_t child;
    if (pipe(to)) return -1;
    fflush(NULL);
    child = fork();
    if (child == 0) {
        scene s;
        dup2(to[1], 2);
        close(to[0]);
        if (!open_library(path)) {
            fprintf(stderr, "%s", dlerror());
            _exit(2);
        }
        begin(&s);
        rows[i].run(&s);
        if (i >= 6) { send(s.encoder, "endEncoding"); } /* ended at least once */
        end(&s);
        exit(0);
    }
    close(to[1]);
    while (n + 1 < cap && (got = read(to[0], said + n, cap - 1 - n)) > 0) n += (size_t)got;
    said[n] = 0;
    close(to[0]);
    waitpid(child, &status, 0);
    return status;
}

int main(int argc, char **argv) {
    static char said[4000];
    int i, failed = 0, n = (int)(sizeof rows / sizeof *rows);
    if (argc != 2) return 2;
    for (i = 0; i < n; i++) {
        int status = attempt(argv[1], i, said, sizeof said);
        int ok = rows[i].says[0] ? strstr(said, rows[i].says) != NULL && (i < 6 || status != 0) : status == 0 && !said[0];
        if (ok) continue;
        failed++;
        fprintf(stderr, "FAILED row %d: want \"%s\", status %d, got:\n%s\n", i, rows[i].says, status, said);
    }
    printf("fake Metal: %d rows, %d failures\n", n, failed);
    return failed != 0;
}
