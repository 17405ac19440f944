/* test_gpu_opencl.c: the OpenCL driver, called directly: the list of devices over made-up platforms (needs no OpenCL),
 * and everything else on the first usable device, through wrappers that count objects and make calls fail. */

#if defined(INFER_NO_GPU) || defined(INFER_NO_OPENCL)
static void suite_gpu_opencl(void) {}
#else

/* ---- made-up platforms ------------------------------------------------------------------------------------------- */

typedef struct ocl_fake {
    const char *name, *version, *profile;
    uint64_t type, total, max_alloc, local;
    uint32_t vendor, available, compiler, little, bits, unified, dims;
    size_t group, items, free_kib[2], free_bytes; /* free_bytes: how much of free_kib is returned */
} ocl_fake;
typedef struct ocl_fake_platform {
    const char *name;
    ocl_fake *devices[80];
    infer__cl_uint n, announced; /* announced: what it says when it is asked for the number; 0 = n */
    infer__cl_int code;          /* of clGetDeviceIDs */
} ocl_fake_platform;

static struct {
    ocl_fake_platform *platforms[80];
    infer__cl_uint n, announced;
    infer__cl_int code;
    int odd_sizes; /* values come with a wrong size */
} ocl_world;
static struct infer__opencl ocl_list; /* what the list is made in: large, so not on the stack */

static infer__cl_int INFER__CL_CALL ocl_fake_platforms(infer__cl_uint cap, infer__cl_platform *ids, infer__cl_uint *n) {
    infer__cl_uint i;
    for (i = 0; ids && i < cap && i < ocl_world.n; i++) ids[i] = (infer__cl_platform)(void *)ocl_world.platforms[i];
    if (n) *n = ocl_world.announced ? ocl_world.announced : ocl_world.n;
    return ocl_world.code;
}
static infer__cl_int INFER__CL_CALL ocl_fake_devices(infer__cl_platform p, infer__cl_bits types, infer__cl_uint cap,
                                                     infer__cl_device *ids, infer__cl_uint *n) {
    const ocl_fake_platform *f = (const ocl_fake_platform *)(void *)p;
    infer__cl_uint i;
    CHECK(types == INFER__CL_TYPE_ALL);
    for (i = 0; ids && i < cap && i < f->n; i++) ids[i] = (infer__cl_device)(void *)f->devices[i];
    if (n) *n = f->announced ? f->announced : f->n;
    return f->code;
}
static infer__cl_int ocl_answer(const void *value, size_t size, size_t cap, void *to, size_t *n) {
    if (!value || (to && cap < size)) return -30;
    if (to && size) memcpy(to, value, size);
    if (n) *n = size;
    return 0;
}
static infer__cl_int INFER__CL_CALL ocl_fake_platform_info(infer__cl_platform p, infer__cl_uint what, size_t cap,
                                                           void *to, size_t *n) {
    const ocl_fake_platform *f = (const ocl_fake_platform *)(void *)p;
    const char *s = what == INFER__CL_PLATFORM_NAME ? f->name : "OpenCL 3.0";
    CHECK(what == INFER__CL_PLATFORM_NAME || what == INFER__CL_PLATFORM_VERSION);
    return ocl_answer(s, s ? strlen(s) + 1 : 0, cap, to, n);
}
static infer__cl_int INFER__CL_CALL ocl_fake_info(infer__cl_device d, infer__cl_uint what, size_t cap, void *to,
                                                  size_t *n) {
    const ocl_fake *f = (const ocl_fake *)(void *)d;
    const void *p = NULL;
    const char *s = NULL;
    size_t size = 4, items[16];
    int i;
    for (i = 0; i < 16; i++) items[i] = i ? 1 : f->items;
    switch ((int)what) {
    case INFER__CL_DEVICE_NAME: s = f->name; break;
    case INFER__CL_DEVICE_VENDOR: s = "Example"; break;
    case INFER__CL_DRIVER_VERSION: s = "7"; break;
    case INFER__CL_DEVICE_VERSION: s = f->version; break;
    case INFER__CL_DEVICE_PROFILE: s = f->profile; break;
    case INFER__CL_DEVICE_TYPE: p = &f->type; size = 8; break;
    case INFER__CL_DEVICE_GLOBAL_MEM_SIZE: p = &f->total; size = 8; break;
    case INFER__CL_DEVICE_MAX_MEM_ALLOC_SIZE: p = &f->max_alloc; size = 8; break;
    case INFER__CL_DEVICE_LOCAL_MEM_SIZE: p = &f->local; size = 8; break;
    case INFER__CL_DEVICE_VENDOR_ID: p = &f->vendor; break;
    case INFER__CL_DEVICE_AVAILABLE: p = &f->available; break;
    case INFER__CL_DEVICE_COMPILER_AVAILABLE: p = &f->compiler; break;
    case INFER__CL_DEVICE_ENDIAN_LITTLE: p = &f->little; break;
    case INFER__CL_DEVICE_ADDRESS_BITS: p = &f->bits; break;
    case INFER__CL_DEVICE_HOST_UNIFIED_MEMORY: p = &f->unified; break;
    case INFER__CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS: p = &f->dims; break;
    case INFER__CL_DEVICE_MAX_WORK_GROUP_SIZE: p = &f->group; size = sizeof f->group; break;
    case INFER__CL_DEVICE_MAX_WORK_ITEM_SIZES: p = items; size = f->dims * sizeof items[0]; break;
    case INFER__CL_DEVICE_GLOBAL_FREE_MEMORY_AMD:
        CHECK(f->vendor == 0x1002); /* nobody else is asked */
        if (!f->free_bytes) return -30;
        p = f->free_kib;
        size = f->free_bytes;
        break;
    default: CHECK(!"known question");
    }
    if (s) return ocl_answer(s, strlen(s) + 1, cap, to, n);
    return ocl_answer(p, ocl_world.odd_sizes && size > 1 ? size - 1 : size, cap, to, n);
}

static ocl_fake ocl_device(const char *name, uint64_t type, uint64_t total) {
    ocl_fake f;
    memset(&f, 0, sizeof f);
    f.name = name;
    f.version = "OpenCL 1.2 x";
    f.profile = "FULL_PROFILE";
    f.type = type;
    f.total = total;
    f.max_alloc = total / 4;
    f.local = 32768;
    f.vendor = 0x10de;
    f.available = f.compiler = f.little = 1;
    f.bits = 64;
    f.dims = 3;
    f.group = f.items = 256;
    return f;
}

static void ocl_world_set(ocl_fake_platform *a, ocl_fake_platform *b) {
    memset(&ocl_world, 0, sizeof ocl_world);
    if (a) ocl_world.platforms[ocl_world.n++] = a;
    if (b) ocl_world.platforms[ocl_world.n++] = b;
}
static void ocl_world_list(void) {
    memset(&ocl_list, 0, sizeof ocl_list);
    ocl_list.cl.clGetPlatformIDs = ocl_fake_platforms;
    ocl_list.cl.clGetPlatformInfo = ocl_fake_platform_info;
    ocl_list.cl.clGetDeviceIDs = ocl_fake_devices;
    ocl_list.cl.clGetDeviceInfo = ocl_fake_info;
    infer__opencl_list(&ocl_list);
    CHECK((ocl_list.n == 0) == (ocl_list.why_not[0] != 0) || ocl_world.announced);
}

static void test_gpu_opencl_library(void) {
    const char *names[2] = {"libinfer-no-such-library.so.9", NULL};
    memset(&ocl_list, 0, sizeof ocl_list);
    CHECK(!infer__opencl_load(&ocl_list, names, 1));
#if defined(INFER_NO_RUNTIME_LINKING)
    CHECK_STR(ocl_list.why_not, "built with INFER_NO_RUNTIME_LINKING");
#else
    CHECK_STR(ocl_list.why_not, "libinfer-no-such-library.so.9 was not found");
    /* a library that is something else, in either place of the list */
#  if defined(_WIN32)
    names[1] = "kernel32.dll";
#  elif defined(__APPLE__)
    names[1] = "/usr/lib/libSystem.B.dylib";
#  else
    names[1] = "libm.so.6";
#  endif
    check_detail = names[1];
    if (infer__lib_open(names[1])) {
        CHECK(!infer__opencl_load(&ocl_list, names, 2));
        CHECK_HAS(ocl_list.why_not, " has no clGetPlatformIDs");
        CHECK_HAS(ocl_list.why_not, names[1]);
        memset(&ocl_list, 0, sizeof ocl_list);
        names[0] = names[1];
        names[1] = "libinfer-no-such-library.so.9";
        CHECK(!infer__opencl_load(&ocl_list, names, 2));
        CHECK_HAS(ocl_list.why_not, " has no clGetPlatformIDs");
    }
#endif
    CHECK(ocl_list.n == 0);
}

static void test_gpu_opencl_nothing(void) {
    ocl_fake_platform p;
    memset(&p, 0, sizeof p);
    p.name = "P";
    ocl_world_set(NULL, NULL);
    ocl_world.code = -1001;
    ocl_world_list();
    CHECK_STR(ocl_list.why_not, "OpenCL is there, but no driver for it");
    ocl_world.code = 0;
    ocl_world_list();
    CHECK_STR(ocl_list.why_not, "OpenCL is there, but no driver for it");
    ocl_world.code = -6;
    ocl_world_list();
    CHECK_STR(ocl_list.why_not, "clGetPlatformIDs failed: CL_OUT_OF_HOST_MEMORY (-6)");
    ocl_world_set(&p, NULL);
    ocl_world_list();
    CHECK_STR(ocl_list.why_not, "OpenCL is there, but no device");
    p.code = -1;
    ocl_world_list();
    CHECK_STR(ocl_list.why_not, "OpenCL is there, but no device");
    p.code = -5;
    ocl_world_list();
    CHECK_STR(ocl_list.why_not, "clGetDeviceIDs failed: CL_OUT_OF_RESOURCES (-5)");
    p.code = -12345;
    ocl_world_list();
    CHECK_STR(ocl_list.why_not, "clGetDeviceIDs failed: CL_code of the vendor (-12345)");
    CHECK(ocl_list.n == 0);
}

/* The list is the same whatever the order in which platforms and their devices come. */
static void test_gpu_opencl_order(void) {
    enum { CPU = 2, GPU = 4, ACCELERATOR = 8, OTHER = 16 };
    const uint64_t gib = (uint64_t)1 << 30;
    static const char *const want[] = {
        "big (P1)", "twin (P1)", "twin (P1) #2", "twin (P2)", "small (P1)", "accelerator (P2)",
        "accelerator and CPU (P1)", "CPU (P2)", "other (P1)", "not usable (P2)"};
    ocl_fake d[10];
    ocl_fake_platform p[2];
    int turn, i, at;
    d[0] = ocl_device("other", OTHER, 64 * gib);
    d[1] = ocl_device("small", GPU, 4 * gib);
    d[2] = ocl_device("twin", GPU | 1, 8 * gib);
    d[3] = ocl_device("accelerator and CPU", ACCELERATOR | CPU, 8 * gib);
    d[4] = ocl_device("twin", GPU, 8 * gib);
    d[5] = ocl_device("big", GPU, 16 * gib);
    d[6] = ocl_device("CPU", CPU, 512 * gib);
    d[7] = ocl_device("not usable", GPU, 99 * gib);
    d[7].compiler = 0;
    d[8] = ocl_device("accelerator", ACCELERATOR, 16 * gib);
    d[9] = ocl_device("twin", GPU, 8 * gib);
    for (turn = 0; turn < 40; turn++) {
        memset(p, 0, sizeof p);
        p[0].name = "P1";
        p[1].name = "P2";
        for (i = 0; i < 10; i++) { /* 6 + 4, each list turned, and reversed in odd turns */
            ocl_fake_platform *to = i < 6 ? &p[0] : &p[1];
            to->devices[to->n++] = i < 6 ? &d[(i + turn / 4) % 6] : &d[6 + (i - 6 + turn / 4) % 4];
        }
        for (i = 0; i < 2 && turn % 2; i++) {
            for (at = 0; at < (int)p[i].n / 2; at++) {
                ocl_fake *other = p[i].devices[at];
                p[i].devices[at] = p[i].devices[p[i].n - 1 - (infer__cl_uint)at];
                p[i].devices[p[i].n - 1 - (infer__cl_uint)at] = other;
            }
        }
        ocl_world_set(&p[turn / 2 % 2], &p[1 - turn / 2 % 2]);
        ocl_world_list();
        CHECK(ocl_list.n == 10);
        for (i = 0; i < ocl_list.n && i < 10; i++) {
            if (INFER__BIG_ENDIAN) continue; /* there nothing is usable, and the last row comes first */
            CHECK_STR(ocl_list.rows[i].info.name, want[i]);
            CHECK(ocl_list.rows[i].info.usable == (i < 9));
            CHECK(ocl_list.rows[i].info.backend == INFER_OPENCL);
        }
    }
    at = INFER__BIG_ENDIAN;
    CHECK(ocl_list.rows[at].hash != ocl_list.rows[at + 1].hash);
    CHECK(ocl_list.rows[at + 1].hash == ocl_list.rows[at + 2].hash);
}

/* 2 x 40 devices, the same 32 whatever the order; numbers after names that do not stand together. */
static void test_gpu_opencl_many(void) {
    static ocl_fake d[80];
    static ocl_fake_platform p[2];
    static char names[80][16];
    int i, turn;
    for (i = 0; i < 80; i++) {
        snprintf(names[i], sizeof names[i], "D%02d", i % 3 == 2 ? 2 : i);
        d[i] = ocl_device(names[i], 4, ((uint64_t)1000 - (uint64_t)i) << 20);
    }
    for (turn = 0; turn < 4; turn++) {
        memset(p, 0, sizeof p);
        p[0].name = p[1].name = "P";
        for (i = 0; i < 80; i++) {
            int from = turn & 1 ? 79 - i : i;
            p[i / 40].devices[p[i / 40].n++] = &d[from];
        }
        ocl_world_set(&p[turn / 2], &p[1 - turn / 2]);
        ocl_world_list();
        CHECK(ocl_list.n == INFER__CL_MAX_DEVICES);
        for (i = 0; i < ocl_list.n; i++) {
            char want[32];
            if (i % 3 != 2 || i == 2) snprintf(want, sizeof want, "D%02d (P)", i);
            else snprintf(want, sizeof want, "D02 (P) #%d", i / 3 + 1);
            CHECK_STR(ocl_list.rows[i].info.name, want);
            CHECK(ocl_list.rows[i].info.total == ((uint64_t)1000 - (uint64_t)i) << 20);
        }
    }
}

/* Counts, sizes and texts that cannot be. */
static void test_gpu_opencl_odd(void) {
    static char longer[3000];
    ocl_fake a = ocl_device("  A\t \n card\x01 \xc3\xbc\xff  ", 4, 1 << 30), b = ocl_device("B", 4, 1 << 20);
    ocl_fake_platform p, q;
    int at;
    memset(&p, 0, sizeof p);
    p.name = "P";
    p.devices[0] = &a;
    p.devices[1] = &b;
    p.devices[2] = &a; /* again */
    p.n = 3;
    p.announced = 0xffffffffu;
    q = p;
    q.name = " ";
    ocl_world_set(&p, NULL);
    ocl_world.announced = 0xffffffffu;
    ocl_world_list();
    CHECK(ocl_list.n == 2);
    CHECK_STR(ocl_list.rows[0].info.name, "A card? \xc3\xbc? (P)");
    CHECK_STR(ocl_list.rows[1].info.name, "B (P)");
    ocl_world.platforms[1] = &p; /* the same platform twice */
    ocl_world.n = 2;
    ocl_world_list();
    CHECK(ocl_list.n == 2);
    p.announced = 70; /* more than there are */
    ocl_world.announced = 3;
    ocl_world_list();
    CHECK(ocl_list.n == 2);

    memset(longer, 'x', sizeof longer - 1);
    a.name = longer; /* no such text is believed */
    b.name = longer + sizeof longer - 1000; /* but this one is cut */
    ocl_world_set(&q, NULL);
    ocl_world_list();
    CHECK(ocl_list.n == 2);
    CHECK_STR(ocl_list.rows[0].info.name, "? (?)");
    CHECK(strlen(ocl_list.rows[1].info.name) == 75 + strlen(" (?)"));
    memcpy(longer + sizeof longer - 1000 + 74, "\xc3\xbc", 2); /* cut in the middle of a character: it goes */
    ocl_world_list();
    CHECK(strlen(ocl_list.rows[1].info.name) == 74 + strlen(" (?)"));
    a.name = NULL;
    a.version = NULL;
    ocl_world_list();
    at = INFER__BIG_ENDIAN ? 0 : 1; /* behind the usable one, if there is one */
    CHECK_STR(ocl_list.rows[at].info.name, "? (?)");
    CHECK_STR(ocl_list.rows[at].info.why_not, "OpenCL 1.2 is needed, it has none");

    b.name = "B";
    ocl_world.odd_sizes = 1;
    ocl_world_list();
    CHECK(ocl_list.n == 2 && !ocl_list.rows[0].info.usable && ocl_list.rows[0].info.total == 0);
    CHECK_STR(ocl_list.rows[0].info.why_not, "it is not available");
}

static void test_gpu_opencl_limits(void) {
    static const struct { const char *version; int ok; } versions[] = {
        {"OpenCL 1.2 ", 1}, {"OpenCL 3.0 CUDA", 1}, {"OpenCL 10.0", 1}, {"OpenCL 1.10", 1}, {"OpenCL 1.1 x", 0},
        {"OpenCL 1.0", 0}, {"OpenCL 1", 0}, {"OpenCL x.9", 0}, {"1.2", 0}, {"", 0}};
    ocl_fake good = ocl_device("card", 4, (uint64_t)8 << 30), f;
    ocl_fake_platform p;
    const infer_device_info *info = &ocl_list.rows[0].info;
    size_t i;
    if (INFER__BIG_ENDIAN) return;
    memset(&p, 0, sizeof p);
    p.name = "P";
    p.n = 1;
    p.devices[0] = &f;
    ocl_world_set(&p, NULL);
#define LIMIT(change, text) \
    do { \
        f = good; \
        change; \
        ocl_world_list(); \
        check_detail = #change; \
        CHECK(ocl_list.n == 1 && info->usable == !(text)[0]); \
        CHECK_STR(info->why_not, text); \
    } while (0)
    LIMIT((void)0, "");
    LIMIT(f.available = 0, "it is not available");
    LIMIT(f.compiler = 0, "its driver has no compiler");
    LIMIT(f.profile = "EMBEDDED_PROFILE", "the full profile of OpenCL is needed, it has EMBEDDED_PROFILE");
    LIMIT(f.profile = NULL, "the full profile of OpenCL is needed, it has none");
    LIMIT(f.little = 0, "it is big-endian");
    LIMIT(f.bits = 32, "");
    LIMIT(f.bits = 16, "its addresses have 16 bits");
    LIMIT(f.group = f.items = 64, "");
    LIMIT(f.group = 63, "groups of 64 work-items are needed, it has 63");
    LIMIT(f.items = 1, "groups of 64 work-items are needed, it has 1");
    LIMIT(f.dims = 2, "groups of 64 work-items are needed, it has 0");
    LIMIT(f.dims = 16, "");
    LIMIT(f.dims = 17, "groups of 64 work-items are needed, it has 0");
    LIMIT(f.local = 16384, "");
    LIMIT(f.local = 16383, "16384 bytes of local memory are needed, it has 16383");
    LIMIT(f.total = 0, "its driver says that it has no memory");
    LIMIT(f.max_alloc = 0, "its driver says that it has no memory");
    LIMIT(f.version = "OpenCL 1.1 old", "OpenCL 1.2 is needed, it has OpenCL 1.1 old");
#undef LIMIT
    f = good;
    for (i = 0; i < INFER__COUNT(versions); i++) {
        check_detail = f.version = versions[i].version;
        ocl_world_list();
        CHECK(info->usable == versions[i].ok);
    }
    f = good;
    f.unified = 1;
    ocl_world_list();
    CHECK(info->unified == 1 && info->total == (uint64_t)8 << 30 && info->free == info->total);
    CHECK(ocl_list.rows[0].max_alloc == (uint64_t)2 << 30);
}

static void test_gpu_opencl_free_memory(void) {
    ocl_fake f = ocl_device("card", 4, (uint64_t)2 << 30);
    ocl_fake_platform p;
    const infer__cl_row *r = &ocl_list.rows[0];
    memset(&p, 0, sizeof p);
    p.name = "P";
    p.n = 1;
    p.devices[0] = &f;
    ocl_world_set(&p, NULL);
    f.free_kib[0] = 1000;
    f.free_bytes = 2 * sizeof(size_t);
    ocl_world_list();
    CHECK(infer__cl_free_memory(&ocl_list.cl, r) == (uint64_t)2 << 30); /* not AMD: not asked */
    f.vendor = 0x1002;
    ocl_world_list();
    CHECK(infer__cl_free_memory(&ocl_list.cl, r) == 1024000);
    f.free_bytes = sizeof(size_t);
    CHECK(infer__cl_free_memory(&ocl_list.cl, r) == 1024000);
    f.free_bytes = 4 * sizeof(size_t) / 8; /* an int */
    CHECK(sizeof(size_t) < 8 || infer__cl_free_memory(&ocl_list.cl, r) == (uint64_t)2 << 30);
    f.free_bytes = 0; /* the driver does not know */
    CHECK(infer__cl_free_memory(&ocl_list.cl, r) == (uint64_t)2 << 30);
    f.free_bytes = 2 * sizeof(size_t);
    f.free_kib[0] = 2 << 20; /* all of it */
    CHECK(infer__cl_free_memory(&ocl_list.cl, r) == (uint64_t)2 << 30);
    f.free_kib[0]++; /* more than there is */
    CHECK(infer__cl_free_memory(&ocl_list.cl, r) == (uint64_t)2 << 30);
    f.free_kib[0] = 0;
    CHECK(infer__cl_free_memory(&ocl_list.cl, r) == (uint64_t)2 << 30);
}

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

enum { OCL_CONTEXT, OCL_QUEUE, OCL_BUFFER, OCL_PROGRAM, OCL_KERNEL, OCL_KINDS };
static infer__cl ocl_real;
static int ocl_live[OCL_KINDS], ocl_sources, ocl_binaries, ocl_finishes;
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
OCL_CALL(clBuildProgram, (infer__cl_program p, infer__cl_uint n, const infer__cl_device *d, const char *o,
                          infer__cl_built f, void *u), (p, n, d, o, f, u))
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
OCL_CALL(clEnqueueNDRangeKernel, (infer__cl_queue q, infer__cl_kernel k, infer__cl_uint d, const size_t *o,
                                  const size_t *g, const size_t *s, infer__cl_uint w, const infer__cl_event *l,
                                  infer__cl_event *e),
         (q, k, d, o, g, s, w, l, e))

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
    ocl_sources = ocl_binaries = ocl_finishes = 0;
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
    CHECK_STR(o.err.message, "clCreateKernel failed: CL_INVALID_KERNEL_NAME (-46), kernel k_nothing");
    CHECK(ocl->kernel_open(&kernel, o.queue, o.program, "k_bare", 1 << 30, &o.err) == INFER_ERR_DEVICE && !kernel);
    CHECK_HAS(o.err.message, "kernel k_bare needs groups of 1073741824 work-items");

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
    CHECK_HAS(o.err.message, infer__opencl.rows[index].info.name);
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
        snprintf(want, sizeof want, "%s failed: CL_%s (%d), ", rows[i].call, infer__cl_code_name(rows[i].code),
                 (int)rows[i].code);
        CHECK_HAS(err.message, want);
    }
    CHECK_STR(infer__cl_code_name(-5), "OUT_OF_RESOURCES");
    CHECK_STR(infer__cl_code_name(-9999), "code of the vendor");
    check_detail = "";
    ocl_fail_name = "clEnqueueNDRangeKernel";
    ocl_fail_code = -5;
    CHECK(ocl_story(index, &mem, NULL, &err) == INFER_ERR_DEVICE);
    CHECK_STR(err.message, "clEnqueueNDRangeKernel failed: CL_OUT_OF_RESOURCES (-5), kernel k_scale");
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
    CHECK(r == INFER_OK && errors == 3); /* device, queue, kernel; the cache goes without */
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
    infer_device_info info;
    int32_t index = ocl_find();
    if (index < 0) SKIP("no OpenCL device");
    ocl->info(index, &info);
    ocl_wrap();
    if (!ocl_begin(&o, index)) return;
    s.text = wrong;
    s.n_text = 1;
    s.name = "wrong";
    CHECK(ocl->load(o.device, &s, &program, &o.err) == INFER_ERR_DEVICE && !program);
    CHECK_HAS(o.err.message, "clBuildProgram failed: CL_BUILD_PROGRAM_FAILURE (-11), module wrong on ");
    CHECK_HAS(o.err.message, info.name);
    CHECK_HAS(o.err.message, "no_such_name");
    CHECK_HAS(o.err.message, "rror");
#define LOG(text, end) \
    do { \
        ocl_log = text; \
        check_detail = #text; \
        CHECK(ocl->load(o.device, &s, &program, &o.err) == INFER_ERR_DEVICE && !program); \
        CHECK_HAS(o.err.message, info.name); \
        CHECK_STR(strstr(o.err.message, info.name) ? strstr(o.err.message, info.name) + strlen(info.name) : "", end); \
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
    char want[200];
    if (index < 0) SKIP("no OpenCL device");
    rusticl = infer__opencl.rows[index].rusticl;
    ocl_wrap();
    if (!ocl_begin(&o, index)) return;
    infer__opencl.cl.clGetKernelWorkGroupInfo = ocl_small_group;
    infer__opencl.rows[index].rusticl = 0;
    CHECK(ocl->kernel_open(&kernel, o.queue, o.program, "k_scale", 64, &o.err) == INFER_ERR_DEVICE && !kernel);
    snprintf(want, sizeof want, "kernel k_scale needs groups of 64 work-items, OpenCL device %s runs 63",
             infer__opencl.rows[index].info.name);
    CHECK_STR(o.err.message, want);
    infer__opencl.rows[index].rusticl = 1; /* whose answer is not believed */
    CHECK(ocl->kernel_open(&kernel, o.queue, o.program, "k_scale", 64, &o.err) == INFER_OK && kernel);
    if (kernel) ocl->kernel_close(o.queue, kernel);
    infer__opencl.rows[index].rusticl = rusticl;
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
    RUN(test_gpu_opencl_library);
    RUN(test_gpu_opencl_nothing);
    RUN(test_gpu_opencl_order);
    RUN(test_gpu_opencl_many);
    RUN(test_gpu_opencl_odd);
    RUN(test_gpu_opencl_limits);
    RUN(test_gpu_opencl_free_memory);
    RUN(test_gpu_opencl_story);
    RUN(test_gpu_opencl_run);
    RUN(test_gpu_opencl_large);
    RUN(test_gpu_opencl_failures);
    RUN(test_gpu_opencl_codes);
    RUN(test_gpu_opencl_oom);
    RUN(test_gpu_opencl_log);
    RUN(test_gpu_opencl_group);
    RUN(test_gpu_opencl_cache);
    RUN(test_gpu_opencl_key);
    RUN(test_gpu_opencl_threads);
}
#endif
