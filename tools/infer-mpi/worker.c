/* worker.c: a rank with later layers, or a part of layers: waits for a pass, runs it, sends the rows on. A context for each
 * of rank 0's is made when its first message comes. Any failure is told rank 0 and ends the job.
 *
 * All parts of a range must run passes in one order. Those of the first range get them in that order, and give them on so;
 * to part 0 of the second range rank 0 sends them from several threads, so that one puts them into order again. */
#include "ring.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

typedef struct answering {
    uint64_t number;
    infer_context *context;
    struct answering *next;
} answering;

static infer_model *model;
static answering *contexts;
static ring_job job;
static uint64_t held, most; /* bytes of the allocator */
static double busy;         /* seconds in passes */
static uint64_t passes;

static void *counted_alloc(void *user, size_t size, size_t align) {
    void *p = malloc(size);
    (void)user;
    (void)align;
    if (p == NULL) return NULL;
    held += size;
    if (held > most) most = held;
    return p;
}

static void counted_free(void *user, void *p, size_t size) {
    (void)user;
    held -= size;
    free(p);
}

static void fail(const char *format, ...) CLI_PRINTF(1, 2);
static void fail(const char *format, ...) {
    char text[500];
    frame_buf b = {NULL, 0};
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (frame_make(&b, FRAME_FAIL, strlen(text), 0)) {
        memcpy(frame_message(&b), text, strlen(text));
        frame_send(0, TAG_FAIL, &b);
        frames_flush(1);
    }
}

static void say(const infer_context *context) {
    infer_memory m;
    if (!job.verbose || infer_context_memory(context, &m) != INFER_OK) return;
    if (ring.split > 1) fprintf(stderr, "info: rank %d: part %d of %d\n", ring_rank, ring_part(), ring.split);
    fprintf(stderr, "info: rank %d: layers %ld to %ld, %.0f bytes of weights, %.0f of cache, %.0f of the rest; %.0f are held of the allocator\n",
            ring_rank, (long)job.params.first_layer, (long)(job.params.first_layer + job.params.layers - 1), (double)m.weights,
            (double)m.cache, (double)m.scratch, (double)held);
}

/* The context that answers rank 0's; NULL after a failure. */
static infer_context *find(const infer_rows_info *info) {
    infer_context_params params = info->params;
    infer_error err;
    answering *a;
    for (a = contexts; a && a->number != info->context; a = a->next) {}
    if (a) return a->context;
    a = calloc(1, sizeof *a);
    params.threads = job.threads;
    params.gather = gather;
    if (a == NULL || infer_context_create(&a->context, model, &params, &err) != INFER_OK) {
        fail("%s", a ? err.message : "out of memory");
        free(a);
        return NULL;
    }
    a->number = info->context;
    a->next = contexts;
    contexts = a;
    say(a->context);
    return a->context;
}

static void forget(uint64_t number) {
    answering **p = &contexts, *a;
    while (*p && (*p)->number != number) p = &(*p)->next;
    a = *p;
    if (a == NULL) return;
    *p = a->next;
    infer_context_destroy(a->context);
    free(a);
}

/* A pass, in and out of b. 0 after a failure. */
static int run_pass(frame_buf *b) {
    infer_context *context;
    infer_rows_info info;
    infer_error err;
    const frame in = *b->head;
    const double start = platform_clock();
    size_t n = (size_t)in.n, cap = n > in.back ? n : (size_t)in.back;
    if (infer_rows_read(frame_message(b), in.size, &info, &err) != INFER_OK) {
        fail("%s", err.message);
        return 0;
    }
    if (info.last) {
        forget(info.context);
        return 1;
    }
    context = find(&info);
    if (context == NULL || !frame_reserve(b, in.size, cap)) return 0;
    if (infer_context_rows(context, frame_message(b), in.size, frame_rows(b), n, cap, &n, &err) != INFER_OK) {
        fail("%s", err.message);
        return 0;
    }
    b->head->n = n;
    if (info.head) b->head->kind = FRAME_HEAD;
    busy += platform_clock() - start;
    passes++;
    return 1;
}

static void pass_on(frame_buf *b) {
    if (b->head->kind == FRAME_HEAD) return; /* it was for the first range */
    if (ring_rank + ring.split < ring_size) {
        frame_send(ring_rank + ring.split, TAG_PASS, b);
    } else if (b->head->kind == FRAME_PASS && b->head->back && ring_part() == 0) {
        const float *rows = frame_rows(b);
        b->head->size = 0; /* the rows alone */
        memmove(frame_rows(b), rows, (size_t)b->head->n * sizeof *rows);
        frame_send(0, TAG_REPLY + (int)(b->head->context % (TAG_MOST - TAG_REPLY)), b);
    }
}

/* ---- in order ------------------------------------------------------------------------------- */

typedef struct early { frame_buf frame; uint64_t pass; struct early *next; } early;
static early *held_back; /* frames that came too early, in the order in which they came */
static uint64_t next_pass = 1;

/* The first that can be run now, taken out: the next pass, or another message with none of its context before it. */
static int take(frame_buf *b) {
    early **p, *before, *x;
    for (p = &held_back; (x = *p) != NULL; p = &x->next) {
        for (before = held_back; before != x && before->frame.head->context != x->frame.head->context; before = before->next) {}
        if (before != x || (x->pass && x->pass != next_pass) || (x->frame.head->kind == FRAME_BYE && held_back->next)) continue;
        next_pass += x->pass != 0;
        *p = x->next;
        *b = x->frame;
        free(x);
        return 1;
    }
    return 0;
}

static int next_frame(frame_buf *b) {
    const int from = ring_range() ? ring_rank - ring.split : 0;
    if (ring.split == 1 || ring_rank != ring.split) return frame_receive(from, TAG_PASS, b);
    free(b->head);
    b->head = NULL;
    b->cap = 0;
    while (!take(b)) {
        early **end = &held_back, *x = calloc(1, sizeof *x);
        infer_rows_info info;
        if (x == NULL) ring_break("rank %d: out of memory", ring_rank);
        if (x == NULL || !frame_receive(from, TAG_PASS, &x->frame)) {
            free(x);
            return 0;
        }
        if (x->frame.head->kind == FRAME_PASS && infer_rows_read(frame_message(&x->frame), x->frame.head->size, &info, NULL) == INFER_OK)
            x->pass = info.pass;
        while (*end) end = &(*end)->next;
        *end = x;
    }
    return 1;
}

static int open_model(void) {
    infer_error err;
    job.params.allocator.alloc = counted_alloc;
    job.params.allocator.free = counted_free;
    if (infer_model_open(&model, job.path, &job.params, &err) != INFER_OK) {
        model = NULL;
        fail("%s: %s", job.path, err.message);
        return 0;
    }
    return 1;
}

void worker_run(void) {
    frame_buf b = {NULL, 0};
    int ok = frame_receive(0, TAG_JOB, &b), bye = 0;
    uint64_t exchanges;
    double exchanging;
    if (ok && b.head->kind == FRAME_JOB && b.head->size == sizeof job) {
        memcpy(&job, frame_message(&b), sizeof job);
        ok = open_model();
        while (ok && !bye && next_frame(&b)) {
            bye = b.head->kind == FRAME_BYE;
            ok = bye || run_pass(&b);
            if (ok) pass_on(&b);
        }
    }
    while (contexts) forget(contexts->number);
    if (ok && job.verbose && ring.split > 1) {
        gather_times(&exchanges, &exchanging);
        fprintf(stderr, "info: rank %d: %.0f exchanges in %.3f s, in passes\n", ring_rank, (double)exchanges, exchanging);
    }
    if (ok && job.verbose)
        fprintf(stderr, "info: rank %d: %.0f passes in %.3f s of work; %.0f bytes at most\n", ring_rank, (double)passes, busy, (double)most);
    infer_model_close(model);
    free(b.head);
    while (!ok && !ring_broken()) ring_pause(0, 0); /* rank 0 says what happened, and ends the job */
}
