/* test_gpu_list.c: which OpenCL devices there are, over made-up platforms: finding the library, the order of the list, odd
 * answers, limits, free memory. Needs no OpenCL. */

/* ---- made-up platforms ------------------------------------------------------------------------------------------- */

typedef struct ocl_fake {
    const char *name, *version, *profile, *extensions;
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
    case INFER__CL_DEVICE_EXTENSIONS: s = f->extensions; break;
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
    f.extensions = "cl_khr_fp64 cl_khr_integer_dot_product";
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
    names[1] = fake_other_library();
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
    CHECK_STR(ocl_list.why_not, "OpenCL was found, but no driver for it");
    ocl_world.code = 0;
    ocl_world_list();
    CHECK_STR(ocl_list.why_not, "OpenCL was found, but no driver for it");
    ocl_world.code = -6;
    ocl_world_list();
    CHECK_STR(ocl_list.why_not, "clGetPlatformIDs failed: CL_OUT_OF_HOST_MEMORY (-6)");
    ocl_world_set(&p, NULL);
    ocl_world_list();
    CHECK_STR(ocl_list.why_not, "OpenCL was found, but no device");
    p.code = -1;
    ocl_world_list();
    CHECK_STR(ocl_list.why_not, "OpenCL was found, but no device");
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
        for (i = 0; i < 10; i++) { /* 6 + 4, each list rotated, and reversed in odd rounds */
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

static void suite_gpu_list(void) {
    RUN(test_gpu_opencl_library);
    RUN(test_gpu_opencl_nothing);
    RUN(test_gpu_opencl_order);
    RUN(test_gpu_opencl_many);
    RUN(test_gpu_opencl_odd);
    RUN(test_gpu_opencl_limits);
    RUN(test_gpu_opencl_free_memory);
}
