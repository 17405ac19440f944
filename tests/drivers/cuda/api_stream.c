/* api_stream.c: streams, events, captures and graphs. A stream is a list of operations that have not run. They run when somebody
 * waits: for the stream, an event on it, the context, or by freeing memory. A capture is a list that runs when its graph is launched.
 */
#include "fake.h"

static void append(op_list *l, op *o) {
    o->next = NULL;
    if (l->last) l->last->next = o;
    else l->first = o;
    l->last = o;
}
static void drop_event(event *e) {
    if (--e->refs == 0) free(e);
}
static void drop_exec(exec *x) {
    if (--x->refs) return;
    while (x->ops.first) {
        op *o = x->ops.first;
        x->ops.first = o->next;
        fake_free_op(o);
    }
    free(x);
}
void fake_free_op(op *o) {
    if (o->e) drop_event(o->e);
    if (o->exec) drop_exec(o->exec);
    free(o->params);
    free(o);
}
static void clear(op_list *l) {
    while (l->first) {
        op *o = l->first;
        l->first = o->next;
        fake_free_op(o);
    }
    l->last = NULL;
}

stream *fake_stream(void *handle) {
    context *c = fake_current();
    if ((uintptr_t)handle <= 2) return c->null;
    return (stream *)fake_find(K_STREAM, handle);
}
stream *fake_new_stream(context *c, int blocking) {
    stream *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    s->blocking = blocking;
    fake_add(&s->o, K_STREAM, c);
    return s;
}

/* ---- running ------------------------------------------------------------------------------------------------------------- */

static int reach(event *e, uint64_t number) { /* run what comes before the record, on whatever stream that is */
    int rc = 0;
    while (e->done < number && e->stream && e->stream->ops.first && !rc) {
        stream *s = e->stream;
        rc = fake_drain(s);
    }
    return rc;
}

static int run(context *c, op *o) {
    ptx_range *d = NULL, *s = NULL;
    int rc = 0;
    if (o->kind <= OP_SET) {
        if (o->kind != OP_TO_HOST) d = fake_range(o->dst, o->bytes);
        if (o->kind == OP_TO_HOST || o->kind == OP_COPY) s = fake_range(o->src, o->bytes);
        if ((o->kind != OP_TO_HOST && !d) || ((o->kind == OP_TO_HOST || o->kind == OP_COPY) && !s)) {
            fake_log("error 700: a copy of %zu bytes runs after its memory was freed", o->bytes);
            return E_ILLEGAL_ADDRESS;
        }
    }
    switch (o->kind) {
    case OP_TO_DEVICE: memcpy(d->host + (o->dst - d->base), o->host, o->bytes); break;
    case OP_TO_HOST: memcpy(o->host, s->host + (o->src - s->base), o->bytes); break;
    case OP_COPY:
        memmove(d->host + (o->dst - d->base), s->host + (o->src - s->base), o->bytes);
        if (d->known && s->known) {
            memmove(d->known + (o->dst - d->base), s->known + (o->src - s->base), o->bytes);
            return 0;
        }
        break;
    case OP_SET: memset(d->host + (o->dst - d->base), (int)o->value, o->bytes); break;
    case OP_KERNEL: return fake_run_kernel(c, o);
    case OP_RECORD:
        o->e->time = fake_now();
        if (o->number > o->e->done) o->e->done = o->number;
        break;
    case OP_WAIT: return reach(o->e, o->number);
    default:
        for (op *x = o->exec->ops.first; x && !rc; x = x->next) rc = run(c, x);
        return rc;
    }
    if (d) fake_known(d, o->dst, o->bytes);
    return 0;
}

int fake_drain(stream *s) {
    context *c = s->o.ctx;
    while (s->ops.first && !c->sticky) {
        op *o = s->ops.first;
        int rc;
        s->ops.first = o->next;
        if (!s->ops.first) s->ops.last = NULL;
        rc = run(c, o);
        fake_free_op(o);
        fake_stick(c, rc);
        if (rc) return rc;
    }
    if (c->sticky) clear(&s->ops);
    return c->sticky;
}
int fake_drain_context(context *c, int only_blocking) {
    for (object *o = fake_objects[K_STREAM]; o; o = o->next) {
        stream *s = (stream *)o;
        int rc = o->ctx == c && (s->blocking || !only_blocking) ? fake_drain(s) : 0;
        if (rc) return rc;
    }
    return 0;
}

int fake_legacy(context *c) {
    int rc = 0;
    for (object *o = fake_objects[K_STREAM]; o; o = o->next) {
        stream *s = (stream *)o;
        if (o->ctx == c && s->blocking && s->capture) s->capture->invalid = 1, rc = E_CAPTURE_IMPLICIT;
    }
    return rc ? rc : fake_drain_context(c, 1);
}

int fake_enqueue(stream *s, op *o) {
    context *c = s->o.ctx;
    int rc = 0;
    if (s->capture) {
        if (s->capture->invalid) rc = E_CAPTURE_INVALIDATED;
        else {
            append(&s->capture->ops, o);
            s->joined = 0;
            return 0;
        }
    } else if (s == c->null) {
        rc = fake_legacy(c);
    } else if (s->blocking) {
        rc = fake_drain(c->null);
    }
    if (rc) {
        fake_free_op(o);
        return rc;
    }
    append(&s->ops, o);
    return 0;
}

int fake_unsafe(void) {
    int rc = 0;
    for (object *o = fake_objects[K_STREAM]; o; o = o->next) {
        capture *k = ((stream *)o)->capture;
        if (!k || k->mode == 2 || (k->mode == 1 && !pthread_equal(k->thread, pthread_self()))) continue;
        k->invalid = 1, rc = E_CAPTURE_UNSUPPORTED;
    }
    return rc;
}

/* ---- streams --------------------------------------------------------------------------------------------------------------- */

API int cuCtxSynchronize(void);
API int cuCtxSynchronize(void) {
    int rc = 0;
    ENTER(NEED_CTX);
    for (object *o = fake_objects[K_STREAM]; o; o = o->next)
        if (o->ctx == fake_current() && ((stream *)o)->capture)
            ((stream *)o)->capture->invalid = 1, rc = E_CAPTURE_UNSUPPORTED;
    LEAVE(rc ? rc : fake_drain_context(fake_current(), 0));
}
API int cuStreamCreate(void **out, unsigned flags);
API int cuStreamCreate(void **out, unsigned flags) {
    stream *s;
    ENTER(NEED_CTX);
    REQUIRE(out && flags <= 1, E_INVALID_VALUE);
    s = fake_new_stream(fake_current(), !flags);
    REQUIRE(s, E_OUT_OF_MEMORY);
    *out = s;
    LEAVE(0);
}
#define STREAM(handle) \
    (s = fake_stream(handle)); \
    REQUIRE(s, E_INVALID_HANDLE)

static void end_capture(stream *s) { /* of all streams that take part */
    capture *k = s->capture;
    for (object *o = fake_objects[K_STREAM]; o; o = o->next)
        if (((stream *)o)->capture == k) ((stream *)o)->capture = NULL;
    for (object *o = fake_objects[K_EVENT]; o; o = o->next)
        if (((event *)o)->capture == k) ((event *)o)->capture = NULL;
    clear(&k->ops);
    free(k);
}
API int cuStreamDestroy_v2(void *handle);
API int cuStreamDestroy_v2(void *handle) {
    stream *s;
    int rc;
    ENTER(NEED_CTX | IS_FREE);
    STREAM(handle);
    REQUIRE((uintptr_t)handle > 2, E_INVALID_HANDLE);
    if (s->capture) {
        if (s->capture->origin == s) end_capture(s);
        else s->capture->invalid = 1;
    }
    rc = fake_drain(s);
    for (object *o = fake_objects[K_EVENT]; o; o = o->next)
        if (((event *)o)->stream == s) ((event *)o)->stream = NULL;
    fake_remove(&s->o);
    free(s);
    LEAVE(rc);
}
API int cuStreamSynchronize(void *handle);
API int cuStreamSynchronize(void *handle) {
    stream *s;
    int rc;
    ENTER(NEED_CTX);
    STREAM(handle);
    if (s->capture) {
        s->capture->invalid = 1;
        LEAVE(E_CAPTURE_UNSUPPORTED);
    }
    if (s == s->o.ctx->null && (rc = fake_legacy(s->o.ctx))) LEAVE(rc);
    LEAVE(fake_drain(s));
}
API int cuStreamQuery(void *handle);
API int cuStreamQuery(void *handle) { /* not ready once, so that callers wait */
    stream *s;
    int rc;
    ENTER(NEED_CTX);
    STREAM(handle);
    if (s->capture) {
        s->capture->invalid = 1;
        LEAVE(E_CAPTURE_UNSUPPORTED);
    }
    if (!s->ops.first) LEAVE(0);
    rc = fake_drain(s);
    LEAVE(rc ? rc : E_NOT_READY);
}

/* ---- events ------------------------------------------------------------------------------------------------------------------ */

API int cuEventCreate(void **out, unsigned flags);
API int cuEventCreate(void **out, unsigned flags) {
    event *e;
    ENTER(NEED_CTX);
    REQUIRE(out && flags <= 7, E_INVALID_VALUE);
    e = calloc(1, sizeof *e);
    REQUIRE(e, E_OUT_OF_MEMORY);
    e->flags = flags, e->refs = 1;
    fake_add(&e->o, K_EVENT, fake_current());
    *out = e;
    LEAVE(0);
}
#define EVENT(handle) \
    (e = (event *)fake_find(K_EVENT, handle)); \
    REQUIRE(e, E_INVALID_HANDLE)
API int cuEventDestroy_v2(void *handle);
API int cuEventDestroy_v2(void *handle) {
    event *e;
    ENTER(NEED_CTX | IS_FREE);
    EVENT(handle);
    fake_remove(&e->o);
    drop_event(e);
    LEAVE(0);
}
API int cuEventRecord(void *handle, void *stream_handle);
API int cuEventRecord(void *handle, void *stream_handle) {
    event *e;
    stream *s;
    op *o;
    int rc;
    ENTER(NEED_CTX);
    EVENT(handle);
    STREAM(stream_handle);
    REQUIRE(e->o.ctx == s->o.ctx, E_INVALID_HANDLE);
    if (s->capture) {
        if (s->capture->invalid) LEAVE(E_CAPTURE_INVALIDATED);
        e->capture = s->capture, e->stream = s; /* only an edge of the graph */
        LEAVE(0);
    }
    o = calloc(1, sizeof *o);
    REQUIRE(o, E_OUT_OF_MEMORY);
    o->kind = OP_RECORD, o->e = e, o->number = e->wanted + 1;
    e->refs++;
    rc = fake_enqueue(s, o);
    if (!rc) e->wanted++, e->stream = s, e->capture = NULL;
    LEAVE(rc);
}
API int cuEventSynchronize(void *handle);
API int cuEventSynchronize(void *handle) {
    event *e;
    ENTER(NEED_CTX);
    EVENT(handle);
    if (e->capture) {
        e->capture->invalid = 1;
        LEAVE(E_CAPTURED_EVENT);
    }
    LEAVE(reach(e, e->wanted));
}
API int cuEventQuery(void *handle);
API int cuEventQuery(void *handle) {
    event *e;
    int rc;
    ENTER(NEED_CTX);
    EVENT(handle);
    if (e->capture) {
        e->capture->invalid = 1;
        LEAVE(E_CAPTURED_EVENT);
    }
    if (e->done >= e->wanted) LEAVE(0);
    rc = reach(e, e->wanted);
    LEAVE(rc ? rc : E_NOT_READY);
}
API int cuEventElapsedTime(float *ms, void *start, void *end);
API int cuEventElapsedTime(float *ms, void *start, void *end) {
    event *e, *f;
    ENTER(NEED_CTX);
    EVENT(start);
    f = e;
    EVENT(end);
    REQUIRE(ms, E_INVALID_VALUE);
    REQUIRE(e->wanted && f->wanted && !((e->flags | f->flags) & 2), E_INVALID_HANDLE);
    if (e->done < e->wanted || f->done < f->wanted) LEAVE(E_NOT_READY);
    *ms = (float)(e->time - f->time);
    LEAVE(0);
}
API int cuStreamWaitEvent(void *stream_handle, void *handle, unsigned flags);
API int cuStreamWaitEvent(void *stream_handle, void *handle, unsigned flags) {
    event *e;
    stream *s;
    op *o;
    ENTER(NEED_CTX);
    STREAM(stream_handle);
    EVENT(handle);
    REQUIRE(flags <= 1, E_INVALID_VALUE);
    if (e->capture) { /* the stream joins the capture, or the capture's stream waits for a branch */
        if (e->capture->invalid) LEAVE(E_CAPTURE_INVALIDATED);
        if (!s->capture) s->capture = e->capture, s->joined = 0, s->capture->streams++;
        else if (s->capture != e->capture) LEAVE(902);
        else if (e->stream) e->stream->joined = 1;
        LEAVE(0);
    }
    if (s->capture) { /* waits for something outside: not allowed */
        s->capture->invalid = 1;
        LEAVE(905);
    }
    if (e->done >= e->wanted) LEAVE(0);
    o = calloc(1, sizeof *o);
    REQUIRE(o, E_OUT_OF_MEMORY);
    o->kind = OP_WAIT, o->e = e, o->number = e->wanted;
    e->refs++;
    LEAVE(fake_enqueue(s, o));
}

/* ---- graphs -------------------------------------------------------------------------------------------------------------------- */

API int cuStreamBeginCapture_v2(void *handle, int mode);
API int cuStreamBeginCapture_v2(void *handle, int mode) {
    stream *s;
    ENTER(NEED_CTX);
    STREAM(handle);
    REQUIRE(mode >= 0 && mode <= 2, E_INVALID_VALUE);
    REQUIRE((uintptr_t)handle > 2, E_CAPTURE_UNSUPPORTED);
    REQUIRE(!s->capture, E_ILLEGAL_STATE);
    s->capture = calloc(1, sizeof *s->capture);
    REQUIRE(s->capture, E_OUT_OF_MEMORY);
    s->capture->origin = s, s->capture->mode = mode, s->capture->thread = pthread_self(), s->capture->streams = 1;
    LEAVE(0);
}
API int cuStreamIsCapturing(void *handle, int *status);
API int cuStreamIsCapturing(void *handle, int *status) {
    stream *s;
    ENTER(NEED_CTX);
    STREAM(handle);
    REQUIRE(status, E_INVALID_VALUE);
    *status = !s->capture ? 0 : s->capture->invalid ? 2 : 1;
    LEAVE(0);
}
API int cuStreamEndCapture(void *handle, void **out);
API int cuStreamEndCapture(void *handle, void **out) {
    stream *s;
    graph *g;
    int rc = 0;
    ENTER(NEED_CTX);
    STREAM(handle);
    REQUIRE(out, E_INVALID_VALUE);
    *out = NULL;
    REQUIRE(s->capture && s->capture->origin == s, E_ILLEGAL_STATE);
    REQUIRE(s->capture->mode == 2 || pthread_equal(s->capture->thread, pthread_self()), E_CAPTURE_WRONG_THREAD);
    if (s->capture->invalid) rc = E_CAPTURE_INVALIDATED;
    for (object *o = fake_objects[K_STREAM]; o && !rc; o = o->next) {
        stream *t = (stream *)o;
        if (t->capture == s->capture && t != s && !t->joined) rc = E_CAPTURE_UNJOINED;
    }
    g = rc ? NULL : calloc(1, sizeof *g);
    if (g) {
        fake_add(&g->o, K_GRAPH, fake_current());
        g->ops = s->capture->ops;
        s->capture->ops.first = s->capture->ops.last = NULL;
        *out = g;
    }
    end_capture(s);
    LEAVE(rc ? rc : g ? 0 : E_OUT_OF_MEMORY);
}
static int instantiate(void **out, void *handle) {
    graph *g = (graph *)fake_find(K_GRAPH, handle);
    exec *x;
    if (!g) return E_INVALID_VALUE;
    if (!out) return E_INVALID_VALUE;
    x = calloc(1, sizeof *x);
    if (!x) return E_OUT_OF_MEMORY;
    x->refs = 1;
    for (op *o = g->ops.first; o; o = o->next) {
        op *c = malloc(sizeof *c);
        if (c) *c = *o, c->params = NULL;
        if (c && o->params && (c->params = malloc(o->f->f->param_bytes + 16)))
            memcpy(c->params, o->params, o->f->f->param_bytes);
        if (!c || (o->params && !c->params)) {
            free(c);
            drop_exec(x);
            return E_OUT_OF_MEMORY;
        }
        if (c->exec) c->exec->refs++;
        if (c->e) c->e->refs++;
        append(&x->ops, c);
    }
    fake_add(&x->o, K_EXEC, fake_current());
    *out = x;
    return 0;
}
API int cuGraphInstantiateWithFlags(void **out, void *g, unsigned long long flags);
API int cuGraphInstantiateWithFlags(void **out, void *g, unsigned long long flags) {
    ENTER(NEED_CTX);
    REQUIRE(flags <= 15, E_INVALID_VALUE);
    LEAVE(instantiate(out, g));
}
API int cuGraphInstantiate_v2(void **out, void *g, void **node, char *log, size_t size);
API int cuGraphInstantiate_v2(void **out, void *g, void **node, char *log, size_t size) {
    ENTER(NEED_CTX);
    if (node) *node = NULL;
    if (log && size) *log = 0;
    LEAVE(instantiate(out, g));
}
API int cuGraphLaunch(void *handle, void *stream_handle);
API int cuGraphLaunch(void *handle, void *stream_handle) {
    exec *x;
    stream *s;
    op *o;
    ENTER(NEED_CTX);
    x = (exec *)fake_find(K_EXEC, handle);
    REQUIRE(x, E_INVALID_VALUE);
    STREAM(stream_handle);
    for (o = x->ops.first; o; o = o->next) /* its kernels may have gone with their module */
        REQUIRE(o->kind != OP_KERNEL || fake_find(K_FUNCTION, o->f), E_INVALID_HANDLE);
    o = calloc(1, sizeof *o);
    REQUIRE(o, E_OUT_OF_MEMORY);
    o->kind = OP_GRAPH, o->exec = x;
    x->refs++;
    LEAVE(fake_enqueue(s, o));
}
API int cuGraphDestroy(void *handle);
API int cuGraphDestroy(void *handle) {
    graph *g;
    ENTER(NEED_INIT);
    g = (graph *)fake_find(K_GRAPH, handle);
    REQUIRE(g, E_INVALID_VALUE);
    fake_remove(&g->o);
    clear(&g->ops);
    free(g);
    LEAVE(0);
}
API int cuGraphExecDestroy(void *handle);
API int cuGraphExecDestroy(void *handle) {
    exec *x;
    ENTER(NEED_INIT);
    x = (exec *)fake_find(K_EXEC, handle);
    REQUIRE(x, E_INVALID_VALUE);
    fake_remove(&x->o);
    drop_exec(x);
    LEAVE(0);
}
