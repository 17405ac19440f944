/* driver_cuda_launch.c: CUDA queues: launches, their times, recordings (graphs); the driver's table.
 *
 * Owns:  infer__cuda_driver.
 * Rules: those of driver_cuda.c, which has the rest.
 * Start: infer__cuda_launch.
 */
#include "gpu.h"

#if !defined(INFER_NO_GPU) && !defined(INFER_NO_CUDA)

/* ---- launches ---------------------------------------------------------------------------------------------------- */

enum { INFER__CU_PARAMS = 512 /* bytes of a launch's pointers and args */, INFER__CU_MAX_EVENTS = 1 << 20 };

static int infer__cu_more_events(infer__cuda_queue *q) {
    int32_t cap = q->cap_events ? q->cap_events * 2 : 256;
    infer__cu_event *events = NULL;
    if (cap <= INFER__CU_MAX_EVENTS)
        events = (infer__cu_event *)infer__realloc(q->device->mem, q->events, (uint64_t)cap, sizeof *events);
    if (!events) return 0;
    q->events = events;
    q->cap_events = cap;
    return 1;
}

/* Record the next event; 1 also when launches are not timed. */
static int infer__cu_mark(infer__cuda_queue *q, infer__cu_try *t) {
    if (!q->timing || q->recording) return 1;
    if (q->n_events == q->made_events) {
        if (q->made_events == q->cap_events && !infer__cu_more_events(q)) {
            t->call = "room for cuEventCreate";
            t->code = INFER__CU_OUT_OF_MEMORY;
            return 0;
        }
        if (!INFER__CU_DO(*t, cuEventCreate, (&q->events[q->n_events], 0))) return 0;
        q->made_events++;
    }
    return INFER__CU_DO(*t, cuEventRecord, (q->events[q->n_events++], q->stream));
}

/* Launch; with timing, events separate the launches, and each begins when the one before has ended. */
static int infer__cu_go(infer__cuda_queue *q, const infer__cuda_kernel *k, const uint32_t *groups, int32_t group,
                        void **extra, infer__cu_try *t) {
    infer__cu_attribute_value early;
    infer__cu_config c;
    if (!k->early || q->timing)
        return INFER__CU_DO(*t, cuLaunchKernel, (k->function, groups[0], groups[1], groups[2], (unsigned)group, 1, 1,
                                                 (unsigned)k->shared, q->stream, NULL, extra));
    memset(&early, 0, sizeof early);
    early.id = INFER__CU_LAUNCH_EARLY;
    early.value.on = 1;
    memset(&c, 0, sizeof c);
    memcpy(c.grid, groups, sizeof c.grid);
    c.block[0] = (uint32_t)group;
    c.block[1] = c.block[2] = 1;
    c.shared = (uint32_t)k->shared;
    c.stream = q->stream;
    c.attributes = &early;
    c.n = 1;
    return INFER__CU_DO(*t, cuLaunchKernelEx, (&c, k->function, NULL, extra));
}

/* A kernel's parameters: pointers, then the struct, as PTX lays them out. */
static infer_result infer__cuda_launch(void *queue, void *kernel, const uint32_t *groups, int32_t group,
                                       const uint64_t *bufs, int32_t n_bufs, const void *args, uint32_t args_size,
                                       infer_error *err) {
    infer__cuda_queue *q = (infer__cuda_queue *)queue;
    const infer__cuda_kernel *k = (const infer__cuda_kernel *)kernel;
    uint64_t params[INFER__CU_PARAMS / 8];
    size_t size = (size_t)n_bufs * sizeof *params + args_size;
    void *extra[5];
    infer__cu_try t;
    infer_result r;
    int ok;
    if (groups[0] == 0 || groups[1] == 0 || groups[2] == 0) return INFER_OK;
    if (size > sizeof params)
        return infer__error(err, INFER_ERR_DEVICE, "%llu bytes of parameters are too many", (unsigned long long)size);
    memcpy(params, bufs, (size_t)n_bufs * sizeof *params);
    if (args_size) memcpy(params + n_bufs, args, args_size);
    extra[0] = (void *)(uintptr_t)INFER__CU_PARAM_BUFFER;
    extra[1] = params;
    extra[2] = (void *)(uintptr_t)INFER__CU_PARAM_SIZE;
    extra[3] = &size;
    extra[4] = NULL;
    r = infer__cu_enter(q->device, err);
    if (r) return r;
    ok = infer__cu_mark(q, &t) && infer__cu_go(q, k, groups, group, extra, &t) && infer__cu_mark(q, &t);
    if (!ok) q->n_events -= q->n_events % 2; /* half a pair */
    return infer__cu_end(q->device, ok, err, &t);
}

static infer_result infer__cuda_timing(void *queue, int32_t on, infer_error *err) {
    infer__cuda_queue *q = (infer__cuda_queue *)queue;
    (void)err;
    q->timing = on != 0;
    q->n_events = 0;
    return INFER_OK;
}

static infer_result infer__cuda_times(void *queue, double *seconds, int32_t cap, int32_t *n, infer_error *err) {
    infer__cuda_queue *q = (infer__cuda_queue *)queue;
    infer__cu_try t;
    int32_t i;
    int ok = 1;
    infer_result r;
    *n = 0;
    r = infer__cu_enter(q->device, err);
    if (r) return r;
    *n = q->n_events / 2;
    for (i = 0; ok && i < *n && i < cap; i++) {
        float ms = 0;
        ok = INFER__CU_DO(t, cuEventElapsedTime, (&ms, q->events[2 * i], q->events[2 * i + 1]));
        seconds[i] = (double)ms / 1000;
    }
    q->n_events = 0;
    return infer__cu_end(q->device, ok, err, &t);
}

/* ---- recordings: CUDA graphs ------------------------------------------------------------------------------------- */

static infer_result infer__cuda_record(void *queue, infer_error *err) {
    infer__cuda_queue *q = (infer__cuda_queue *)queue;
    infer__cu_try t;
    infer_result r;
    if (!infer__cuda.graphs)
        return infer__error(err, INFER_ERR_UNSUPPORTED, "the driver has no graphs: CUDA 11.4 brought them");
    r = infer__cu_enter_apart(q, "record", err);
    if (r) return r;
    r = infer__cu_end(q->device, INFER__CU_DO(t, cuStreamBeginCapture_v2, (q->stream, INFER__CU_CAPTURE_THREAD)), err,
                      &t);
    q->recording = r == INFER_OK;
    return r;
}

static infer_result infer__cuda_record_end(void *queue, void **recording, infer_error *err) {
    infer__cuda_queue *q = (infer__cuda_queue *)queue;
    infer__cu_graph graph = NULL;
    infer__cu_exec exec = NULL;
    infer__cu_try t;
    infer_result r;
    int ok;
    *recording = NULL;
    if (!q->recording) return infer__error(err, INFER_ERR_STATE, "there is no recording to end");
    r = infer__cu_enter(q->device, err);
    if (r) return r;
    q->recording = 0;
    ok = INFER__CU_DO(t, cuStreamEndCapture, (q->stream, &graph)) &&
         INFER__CU_DO(t, cuGraphInstantiateWithFlags, (&exec, graph, 0));
    if (graph) infer__cuda.cu.cuGraphDestroy(graph);
    r = infer__cu_end(q->device, ok, err, &t);
    if (!r) *recording = exec;
    return r;
}

static infer_result infer__cuda_replay(void *queue, void *recording, infer_error *err) {
    infer__cuda_queue *q = (infer__cuda_queue *)queue;
    infer__cu_try t;
    infer_result r = infer__cu_enter_apart(q, "replay", err);
    if (r) return r;
    return infer__cu_end(q->device, INFER__CU_DO(t, cuGraphLaunch, ((infer__cu_exec)recording, q->stream)), err, &t);
}

static void infer__cuda_recording_close(void *queue, void *recording) {
    int entered;
    if (!recording) return;
    entered = infer__cu_enter_anyway(((infer__cuda_queue *)queue)->device);
    infer__cuda.cu.cuGraphExecDestroy((infer__cu_exec)recording);
    infer__cu_leave_if(entered);
}

static const infer__driver infer__cuda_driver = {
    .name = "cuda",
    .backend = INFER_CUDA,
    .devices = infer__cuda_devices,
    .info = infer__cuda_info,
    .open = infer__cuda_open,
    .close = infer__cuda_close,
    .alloc = infer__cuda_alloc,
    .release = infer__cuda_release,
    .load = infer__cuda_load,
    .cached = infer__cuda_cached,
    .build = infer__cuda_build,
    .take = infer__cuda_take,
    .unload = infer__cuda_unload,
    .queue_open = infer__cuda_queue_open,
    .queue_close = infer__cuda_queue_close,
    .kernel_open = infer__cuda_kernel_open,
    .kernel_close = infer__cuda_kernel_close,
    .upload = infer__cuda_upload,
    .download = infer__cuda_download,
    .copy = infer__cuda_copy,
    .launch = infer__cuda_launch,
    .sync = infer__cuda_sync,
    .form = INFER__FORM_PTX,
    .tier = infer__cuda_tier,
    .processors = infer__cuda_processors,
    .identity = infer__cuda_identity,
    .memory = infer__cuda_memory,
    .shared = infer__cuda_shared,
    .early = infer__cuda_early,
    .record = infer__cuda_record,
    .record_end = infer__cuda_record_end,
    .replay = infer__cuda_replay,
    .recording_close = infer__cuda_recording_close,
    .timing = infer__cuda_timing,
    .times = infer__cuda_times,
};

#endif
