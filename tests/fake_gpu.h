/* fake_gpu.h: a made-up GPU API (an infer__driver) for tests of what stands above drivers: any call of it can fail, and
 * what its user forgets or mixes up is seen.
 *
 * Owns:  fake_drivers, three APIs over one set of functions; `fake`, what they count and record.
 * Rules: memory is the host's, every object a block of its own, so that leaks and late uses are seen. Kernels do
 *        nothing. What a queue is given happens at its sync, in order. A call that fails leaves rubbish behind and
 *        says "fakeNAME: error -N" when it was call N. The suite lists the devices, after fake_reset; an API without
 *        any is one row, as everywhere.
 * Start: fake_reset, fake_device, fake_closed.
 */
#ifndef FAKE_GPU_H
#define FAKE_GPU_H

enum { FAKE_HIP, FAKE_OPENCL, FAKE_METAL, FAKE_APIS, FAKE_DEVICES = 3, FAKE_PENDING = 256 };
typedef enum fake_kind { FAKE_DEVICE = 1, FAKE_QUEUE, FAKE_PROGRAM, FAKE_KERNEL, FAKE_MEMORY, FAKE_KINDS } fake_kind;

/* A device, queue, program, kernel or block of device memory. */
typedef struct fake_object {
    fake_kind kind;
    struct fake_object *device;          /* NULL for a device */
    struct fake_object *queue;           /* of a kernel */
    char name[80];                       /* "base" of a program, "base k_norm" of a kernel */
    int32_t group;                       /* of a kernel */
    uint64_t bytes;
    char *data;
    int32_t index, children; /* of a device: its number, and what was made on it and is there */
    int uses, released; /* memory: work on its way that needs it; the block lives until that is done */
} fake_object;

/* A copy on its way: a side without an object is the host's. */
typedef struct fake_work {
    fake_object *queue, *to, *from;
    char *dst;
    const char *src;
    size_t bytes;
} fake_work;

static struct {
    struct {
        const char *why_not; /* without devices */
        int32_t n;
        infer_device_info info[FAKE_DEVICES];
    } apis[FAKE_APIS];
    int32_t tier;           /* of fake_ptx_drivers */
    long calls, fail_at;    /* of those that can fail; the number of the one that does, from 1, 0 = none */
    long work, work_failed; /* uploads, downloads, copies and launches; how many when a call failed */
    int live[FAKE_KINDS];   /* open ones */
    uint64_t room[FAKE_DEVICES], used[FAKE_DEVICES]; /* bytes that allocations on a device may take, 0 = any; took */
    int32_t no_open;        /* index + 1 of a device that cannot be opened */
    int loads, syncs, n_pending;
    fake_work pending[FAKE_PENDING];
    int32_t opened;              /* index of the device that was opened last */
    char module[80], kernel[80]; /* loaded last, opened last */
    int32_t group, shared;       /* of that kernel; bytes of shared memory that one asked for last */
    infer_cache cache;           /* of the last load */
    char launched[80];           /* the last launch */
    char entries[64][40];        /* the names of all kernels that were launched */
    uint32_t groups[3], args[64];
} fake;

/* ---- what suites call ------------------------------------------------------------------------------------------- */

/* A library that every system has, and that is no GPU's. */
static INFER__UNUSED const char *fake_other_library(void) {
#if defined(_WIN32)
    return "kernel32.dll";
#elif defined(__APPLE__)
    return "/usr/lib/libSystem.B.dylib";
#else
    return "libm.so.6";
#endif
}

/* No devices, nothing counted. */
static void fake_reset(long fail_at) {
    memset(&fake, 0, sizeof fake);
    fake.fail_at = fail_at;
}

/* One more device of an API; why_not: NULL = usable. */
static infer_device_info *fake_device(int api, const char *name, const char *why_not) {
    infer_device_info *info = &fake.apis[api].info[fake.apis[api].n++];
    snprintf(info->name, sizeof info->name, "%s", name);
    info->usable = why_not == NULL;
    if (why_not) snprintf(info->why_not, sizeof info->why_not, "%s", why_not);
    return info;
}

/* Everything was closed and no work was left behind. */
static void fake_closed(void) {
    int i;
    for (i = 0; i < FAKE_KINDS; i++) CHECK(fake.live[i] == 0);
    CHECK(fake.n_pending == 0);
}

/* ---- calls and objects ------------------------------------------------------------------------------------------ */

static infer_result fake_call(const char *what, infer_result code, infer_error *err) {
    CHECK(err != NULL && err->code == INFER_OK);
    if (++fake.calls != fake.fail_at) return INFER_OK;
    fake.work_failed = fake.work;
    return infer__error(err, code, "%s: error %ld", what, -fake.calls);
}

/* The object of a handle, which has to be of this kind. */
static fake_object *fake_is(const void *p, fake_kind kind) {
    fake_object *o = (fake_object *)(uintptr_t)p;
    CHECK(o != NULL && o->kind == kind);
    return o;
}
static fake_object *fake_memory(uint64_t handle) {
    fake_object *m = fake_is((const void *)(uintptr_t)handle, FAKE_MEMORY);
    CHECK(m->data != NULL && !m->released);
    return m;
}

/* *out: what a failed call leaves is not used. */
static infer_result fake_make(void **out, void *device, fake_kind kind, const char *what, infer_result code,
                              infer_error *err) {
    infer_result r = fake_call(what, code, err);
    fake_object *o;
    *out = (void *)&fake;
    if (kind != FAKE_DEVICE) fake_is(device, FAKE_DEVICE);
    if (r) return r;
    *out = o = (fake_object *)calloc(1, sizeof *o);
    o->kind = kind;
    o->device = (fake_object *)device;
    fake.live[kind]++;
    if (o->device) o->device->children++;
    return INFER_OK;
}
static void fake_drop(void *p, const void *device, fake_kind kind) {
    fake_object *o = fake_is(p, kind);
    CHECK(o->device == device);
    fake.live[kind]--;
    if (o->device) o->device->children--;
    free(o);
}

/* ---- devices ---------------------------------------------------------------------------------------------------- */

static int32_t fake_devices(int api, const char **why_not) {
    if (why_not) *why_not = fake.apis[api].why_not;
    return fake.apis[api].n;
}
static void fake_info(int api, int32_t index, infer_device_info *out) {
    CHECK(index >= 0 && index < fake.apis[api].n);
    *out = fake.apis[api].info[index];
}
static int32_t fake_hip_devices(const char **why_not) { return fake_devices(FAKE_HIP, why_not); }
static int32_t fake_opencl_devices(const char **why_not) { return fake_devices(FAKE_OPENCL, why_not); }
static int32_t fake_metal_devices(const char **why_not) { return fake_devices(FAKE_METAL, why_not); }
static void fake_hip_info(int32_t index, infer_device_info *out) { fake_info(FAKE_HIP, index, out); }
static void fake_opencl_info(int32_t index, infer_device_info *out) { fake_info(FAKE_OPENCL, index, out); }
static void fake_metal_info(int32_t index, infer_device_info *out) { fake_info(FAKE_METAL, index, out); }

static infer_result fake_open(void **device, infer__mem *mem, int32_t index, infer_error *err) {
    infer_result r;
    CHECK(mem != NULL);
    fake.opened = index;
    if (fake.no_open == index + 1) return infer__error(err, INFER_ERR_DEVICE, "fakeOpen: error -1");
    r = fake_make(device, NULL, FAKE_DEVICE, "fakeOpen", INFER_ERR_DEVICE, err);
    if (!r) ((fake_object *)*device)->index = index;
    return r;
}
static void fake_close(void *device) {
    CHECK(fake_is(device, FAKE_DEVICE)->children == 0);
    fake_drop(device, NULL, FAKE_DEVICE);
}

static infer_result fake_alloc(void *device, uint64_t bytes, uint64_t *handle, infer_error *err) {
    void *p;
    int32_t d = fake_is(device, FAKE_DEVICE)->index;
    infer_result r;
    fake_object *m;
    if (fake.room[d] && fake.used[d] + bytes > fake.room[d])
        return infer__error(err, INFER_ERR_MEMORY, "fakeAlloc: no room");
    r = fake_make(&p, device, FAKE_MEMORY, "fakeAlloc", INFER_ERR_MEMORY, err);
    m = (fake_object *)p;
    *handle = (uint64_t)(uintptr_t)p;
    CHECK(bytes > 0);
    if (r) return r;
    fake.used[d] += bytes;
    m->bytes = bytes;
    m->data = (char *)malloc((size_t)bytes);
    memset(m->data, 0xa5, (size_t)bytes);
    return INFER_OK;
}
static void fake_memory_free(fake_object *m) {
    if (!m->released || m->uses) return;
    free(m->data);
    free(m);
}
static void fake_release(void *device, uint64_t handle) {
    fake_object *m = fake_memory(handle);
    CHECK(m->device == fake_is(device, FAKE_DEVICE));
    fake.live[FAKE_MEMORY]--;
    m->device->children--;
    fake.used[m->device->index] -= m->bytes;
    m->released = 1;
    fake_memory_free(m);
}

/* ---- programs and kernels --------------------------------------------------------------------------------------- */

static infer_result fake_load(void *device, const infer__gpu_source *s, void **program, infer_error *err) {
    uint64_t hash = INFER__FNV;
    infer_result r;
    int32_t i;
    for (i = 0; i < s->n_text; i++) hash = infer__fnv(hash, s->text[i], strlen(s->text[i]));
    CHECK(hash == s->hash && s->cache);
    if (strncmp(s->text[0], ".version", 8) == 0) CHECK(s->n_text == 1 && strstr(s->text[0], ".visible .entry k_") != NULL);
    else CHECK(s->n_text >= 3 && strstr(s->text[0], "#define KERNEL") && strstr(s->text[s->n_text - 1], "KERNEL("));
    fake.cache = *s->cache;
    fake.loads++;
    snprintf(fake.module, sizeof fake.module, "%s", s->name);
    r = fake_make(program, device, FAKE_PROGRAM, "fakeBuild", INFER_ERR_DEVICE, err);
    if (!r) memcpy(((fake_object *)*program)->name, fake.module, sizeof fake.module);
    return r;
}
static void fake_unload(void *device, void *program) { fake_drop(program, device, FAKE_PROGRAM); }

static infer_result fake_kernel_open(void **kernel, void *queue, void *program, const char *name, int32_t group,
                                     infer_error *err) {
    fake_object *q = fake_is(queue, FAKE_QUEUE), *p = fake_is(program, FAKE_PROGRAM), *k;
    infer_result r = fake_make(kernel, q->device, FAKE_KERNEL, "fakeKernel", INFER_ERR_DEVICE, err);
    CHECK(p->device == q->device && strlen(name) < 40);
    snprintf(fake.kernel, sizeof fake.kernel, "%.39s %.39s", p->name, name);
    fake.group = group;
    if (r) return r;
    k = (fake_object *)*kernel;
    k->queue = q;
    k->group = group;
    memcpy(k->name, fake.kernel, sizeof fake.kernel);
    return INFER_OK;
}
static infer_result fake_shared(void *queue, void *kernel, int32_t bytes, infer_error *err) {
    CHECK(fake_is(kernel, FAKE_KERNEL)->queue == fake_is(queue, FAKE_QUEUE));
    fake.shared = bytes;
    return fake_call("fakeShared", INFER_ERR_DEVICE, err);
}
static void fake_kernel_close(void *queue, void *kernel) {
    fake_object *q = fake_is(queue, FAKE_QUEUE);
    CHECK(fake_is(kernel, FAKE_KERNEL)->queue == q);
    fake_drop(kernel, q->device, FAKE_KERNEL);
}

/* ---- queues ----------------------------------------------------------------------------------------------------- */

static infer_result fake_queue_open(void **queue, void *device, infer_error *err) {
    return fake_make(queue, device, FAKE_QUEUE, "fakeQueue", INFER_ERR_DEVICE, err);
}
static void fake_queue_close(void *queue) {
    int i;
    for (i = 0; i < fake.n_pending; i++) CHECK(fake.pending[i].queue != queue);
    fake_drop(queue, fake_is(queue, FAKE_QUEUE)->device, FAKE_QUEUE);
}

/* The place in device memory. */
static char *fake_place(const fake_object *m, uint64_t offset, uint64_t bytes) {
    CHECK(bytes > 0 && offset <= m->bytes && bytes <= m->bytes - offset);
    return m->data + offset;
}
/* Keep a copy for the sync. */
static infer_result fake_later(void *queue, const char *what, fake_work w, uint64_t bytes, infer_error *err) {
    infer_result r = fake_call(what, INFER_ERR_DEVICE, err);
    w.queue = fake_is(queue, FAKE_QUEUE);
    w.bytes = (size_t)bytes;
    CHECK((!w.to || w.to->device == w.queue->device) && (!w.from || w.from->device == w.queue->device));
    CHECK(w.dst && w.src && fake.n_pending < FAKE_PENDING);
    if (r || fake.n_pending == FAKE_PENDING) return r;
    if (w.to) w.to->uses++;
    if (w.from) w.from->uses++;
    fake.pending[fake.n_pending++] = w;
    return INFER_OK;
}
static infer_result fake_upload(void *queue, uint64_t to, uint64_t offset, const void *src, uint64_t bytes,
                                infer_error *err) {
    fake_work w;
    memset(&w, 0, sizeof w);
    fake.work++;
    w.to = fake_memory(to);
    w.dst = fake_place(w.to, offset, bytes);
    w.src = (const char *)src;
    return fake_later(queue, "fakeUpload", w, bytes, err);
}
static infer_result fake_download(void *queue, uint64_t from, uint64_t offset, void *dst, uint64_t bytes,
                                  infer_error *err) {
    fake_work w;
    memset(&w, 0, sizeof w);
    fake.work++;
    w.from = fake_memory(from);
    w.dst = (char *)dst;
    w.src = fake_place(w.from, offset, bytes);
    return fake_later(queue, "fakeDownload", w, bytes, err);
}
static infer_result fake_copy(void *queue, uint64_t to, uint64_t to_offset, uint64_t from, uint64_t from_offset,
                              uint64_t bytes, infer_error *err) {
    fake_work w;
    memset(&w, 0, sizeof w);
    fake.work++;
    w.to = fake_memory(to);
    w.from = fake_memory(from);
    w.dst = fake_place(w.to, to_offset, bytes);
    w.src = fake_place(w.from, from_offset, bytes);
    return fake_later(queue, "fakeCopy", w, bytes, err);
}
static infer_result fake_launch(void *queue, void *kernel, const uint32_t *groups, int32_t group, const uint64_t *bufs,
                                int32_t n_bufs, const void *args, uint32_t args_size, infer_error *err) {
    const fake_object *k = fake_is(kernel, FAKE_KERNEL);
    int32_t i;
    fake.work++;
    CHECK(k->queue == fake_is(queue, FAKE_QUEUE) && group == k->group);
    CHECK(args && args_size % 16 == 0 && args_size <= sizeof fake.args);
    memcpy(fake.args, args, args_size);
    for (i = 0; i < 3; i++) CHECK((fake.groups[i] = groups[i]) > 0);
    for (i = 0; i < n_bufs; i++) CHECK(fake_memory(bufs[i])->device == k->device); /* optional ones too */
    memcpy(fake.launched, k->name, sizeof fake.launched);
    for (i = 0; i < 64 && fake.entries[i][0] && strcmp(fake.entries[i], strchr(k->name, ' ') + 1) != 0; i++) {}
    if (i < 64) snprintf(fake.entries[i], sizeof fake.entries[i], "%.39s", strchr(k->name, ' ') + 1);
    return fake_call("fakeLaunch", INFER_ERR_DEVICE, err);
}

/* A sync that fails has done the work all the same: nothing reads or writes the caller's memory after it. */
static infer_result fake_sync(void *queue, infer_error *err) {
    int i, kept = 0;
    fake_is(queue, FAKE_QUEUE);
    for (i = 0; i < fake.n_pending; i++) {
        fake_work w = fake.pending[i];
        if (w.queue != queue) {
            fake.pending[kept++] = w;
            continue;
        }
        memcpy(w.dst, w.src, w.bytes);
        if (w.to) w.to->uses--;
        if (w.from) w.from->uses--;
        if (w.to) fake_memory_free(w.to);
        if (w.from && w.from != w.to) fake_memory_free(w.from);
    }
    fake.n_pending = kept;
    fake.syncs++;
    return fake_call("fakeSync", INFER_ERR_DEVICE, err);
}

/* ---- the tables ------------------------------------------------------------------------------------------------- */

static int32_t fake_tier(void *device) {
    fake_is(device, FAKE_DEVICE);
    return fake.tier;
}
static int32_t fake_processors(void *device) {
    fake_is(device, FAKE_DEVICE);
    return 3;
}
#define FAKE_DRIVER(api, upper) FAKE_DRIVER_OF(api, api, upper, INFER__FORM_SOURCE)
#define FAKE_DRIVER_OF(name_, api, upper, form_) static const infer__driver fake_##name_ = { \
    .name = #name_, .backend = INFER_##upper, .devices = fake_##api##_devices, .info = fake_##api##_info, \
    .form = form_, .tier = fake_tier, .processors = fake_processors, \
    .open = fake_open, .close = fake_close, .alloc = fake_alloc, .release = fake_release, .load = fake_load, \
    .unload = fake_unload, .queue_open = fake_queue_open, .queue_close = fake_queue_close, \
    .kernel_open = fake_kernel_open, .kernel_close = fake_kernel_close, .upload = fake_upload, \
    .download = fake_download, .copy = fake_copy, .launch = fake_launch, .sync = fake_sync, \
    .shared = fake_shared, \
}
FAKE_DRIVER(hip, HIP);
FAKE_DRIVER(opencl, OPENCL);
FAKE_DRIVER(metal, METAL);
static const infer__driver *const fake_drivers[] = {&fake_hip, &fake_opencl, &fake_metal, NULL};
/* An API of form PTX: the devices of the made-up OpenCL. */
FAKE_DRIVER_OF(ptx, opencl, CUDA, INFER__FORM_PTX);
static const infer__driver *const fake_ptx_drivers[] = {&fake_ptx, NULL};
/* And one of form METAL. */
FAKE_DRIVER_OF(simd, metal, METAL, INFER__FORM_METAL);
static INFER__UNUSED const infer__driver *const fake_simd_drivers[] = {&fake_simd, NULL};
/* And of form HIP: the devices of the made-up OpenCL. */
FAKE_DRIVER_OF(matrix, opencl, HIP, INFER__FORM_HIP);
static INFER__UNUSED const infer__driver *const fake_matrix_drivers[] = {&fake_matrix, NULL};
#undef FAKE_DRIVER
#undef FAKE_DRIVER_OF

#endif
