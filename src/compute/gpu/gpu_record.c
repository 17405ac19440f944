/* gpu_record.c: recording passes of a recurring shape and replaying them as a whole; timing of launches.
 *
 * Owns:  the recordings of a context's queue, and the seconds that the device took for each op.
 * Rules: the arguments of a launch depend only on the shape of a pass; the values per token are in one buffer that is
 *        written before (infer__gpu_begin). A shape is noted the first time, recorded the second time, and replayed
 *        from then on: most shapes of prompts occur once. A failed recording costs one pass but no result.
 * Start: infer__gpu_record, infer__gpu_times.
 */
#include "gpu.h"

#ifndef INFER_NO_GPU

/* ---- recordings -------------------------------------------------------------------------------------------------- */

/* The entry of a shape; else a free one, or the one used longest ago, emptied. */
static infer__gpu_recording *infer__gpu_recording_of(struct infer__gpu_run *run, uint64_t shape) {
    infer__gpu_recording *best = run->recordings, *r;
    for (r = run->recordings; r < run->recordings + INFER__GPU_RECORDINGS; r++) {
        if (r->used && r->shape == shape) return r;
        if (r->used < best->used) best = r;
    }
    if (best->handle) run->driver->recording_close(run->queue, best->handle);
    memset(best, 0, sizeof *best);
    best->shape = shape;
    return best;
}

static int infer__gpu_record(infer__ctx *c, uint64_t shape) {
    struct infer__gpu_run *run = c->run;
    infer__gpu_recording *r;
    uint32_t bucket = infer__gpu_attention_bucket(c); /* determines the grid of attention */
    infer_error err;
    int again;
    shape = infer__fnv(shape, &bucket, sizeof bucket);
    if (!infer__ok(c) || !run->driver->record || run->times) return INFER__RECORD_NOT;
    r = infer__gpu_recording_of(run, shape);
    again = r->used != 0;
    r->used = ++run->passes;
    infer__error_clear(&err);
    if (r->handle) {
        if (run->driver->replay(run->queue, r->handle, &err)) infer__gpu_fail(c, "replay", &err);
        else c->launches += r->launches;
        return INFER__RECORD_DONE;
    }
    if (!again || r->refused) return INFER__RECORD_NOT;
    if (run->driver->record(run->queue, &err)) {
        r->refused = 1;
        return INFER__RECORD_NOT;
    }
    run->recording = r;
    r->launches = c->launches;
    return INFER__RECORD_NOW;
}

static int infer__gpu_record_end(infer__ctx *c) {
    struct infer__gpu_run *run = c->run;
    infer__gpu_recording *r = run->recording;
    uint64_t before = r->launches;
    infer_error err;
    infer_result code;
    run->recording = NULL;
    infer__error_clear(&err);
    code = run->driver->record_end(run->queue, &r->handle, &err);
    if (code) r->handle = NULL;
    r->launches = c->launches - before;
    if (!infer__ok(c)) { /* an op failed or the pass was cancelled: the recording is incomplete */
        if (r->handle) run->driver->recording_close(run->queue, r->handle);
        memset(r, 0, sizeof *r);
        return 1;
    }
    if (!code) {
        infer__error_clear(&err);
        if (run->driver->replay(run->queue, r->handle, &err)) infer__gpu_fail(c, "replay", &err);
        return 1;
    }
    infer__gpu_forget(run); /* nothing that was recorded has been executed */
    r->refused = 1; /* the driver cannot keep this one */
    c->launches = before;
    return 0;
}

static void infer__gpu_recordings_close(struct infer__gpu_run *run) {
    int32_t i;
    for (i = 0; i < INFER__GPU_RECORDINGS; i++)
        if (run->recordings[i].handle) run->driver->recording_close(run->queue, run->recordings[i].handle);
}

/* ---- timing ------------------------------------------------------------------------------------------------------ */

/* At the start of a pass: enable timing of launches if the context is profiled and the driver supports it. The only
 * allocation during evals. */
static void infer__gpu_timing(infer__ctx *c) {
    struct infer__gpu_run *run = c->run;
    infer_error err;
    if (!c->profiling || run->times || !run->driver->timing) return;
    infer__error_clear(&err);
    run->times = (double *)infer__calloc(c->mem, INFER__GPU_TIMED, sizeof *run->times + 1);
    if (!run->times) infer__fail(c, INFER_ERR_MEMORY, "no memory for the times of launches");
    else if (run->driver->timing(run->queue, 1, &err)) infer__gpu_fail(c, "timing", &err);
}

/* The profile rows of launches whose times are not known yet are stored after the times. */
static uint8_t *infer__gpu_timed_rows(struct infer__gpu_run *run) { return (uint8_t *)(run->times + INFER__GPU_TIMED); }

/* Attribute the launches since the last op to this one. */
static void infer__gpu_timed(infer__ctx *c, const char *op, uint64_t bytes) {
    struct infer__gpu_run *run = c->run;
    infer__profile *p = infer__op_row(c, op);
    if (!p) return;
    p->calls++;
    p->bytes += bytes;
    for (; run->n_timed < run->n_launched && run->n_timed < INFER__GPU_TIMED; run->n_timed++)
        infer__gpu_timed_rows(run)[run->n_timed] = (uint8_t)(p - c->profile);
}

/* After a sync: add the launches' times to their ops. */
static void infer__gpu_times(infer__ctx *c) {
    struct infer__gpu_run *run = c->run;
    infer_error err;
    int32_t i, n = 0;
    if (!run->times || run->n_launched == 0) return;
    infer__error_clear(&err);
    if (run->driver->times(run->queue, run->times, INFER__GPU_TIMED, &n, &err)) infer__gpu_fail(c, "times", &err);
    n = INFER__MIN(n, run->n_timed);
    for (i = 0; i < n; i++) c->profile[infer__gpu_timed_rows(run)[i]].seconds += run->times[i];
    run->n_timed = run->n_launched = 0;
}

#endif
