/* watch.c: which ranks are alive. A thread of each rank sends a sign of life to rank 0, and rank 0 to all. Who has not
 * been heard of for --timeout seconds, whether dead, stopped or cut off, breaks the ring: every wait ends with that error,
 * and when nobody waits, this thread ends the job. MPI itself notices some deaths, and never a process that stands still.
 */
#include "ring.h"

#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LONGEST_SLEEP 0.01 /* seconds */

static pthread_t thread;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char reason[600];
static volatile int broken, stopping;
static double heard[RING_MOST];

void ring_break(const char *format, ...) {
    va_list list;
    va_start(list, format);
    pthread_mutex_lock(&lock);
    if (!broken) vsnprintf(reason, sizeof reason, format, list);
    broken = 1;
    pthread_mutex_unlock(&lock);
    va_end(list);
}

const char *ring_broken(void) { return broken ? reason : NULL; }

infer_result ring_error(infer_error *err) {
    err->code = INFER_ERR_IO;
    snprintf(err->message, sizeof err->message, "%.500s", ring_broken());
    return INFER_ERR_IO;
}

/* Looks cost a core that another rank may be computing on. The first half of the expected time is one sleep, of 10 ms at
 * most. From then on each sleep is a fiftieth of the time waited so far, or a twentieth when nothing is expected, and 1 ms at
 * most: what comes meanwhile is late by so much. */
void ring_pause(double since, double expected) {
    const double waited = platform_clock() - since, half = expected < 2 * LONGEST_SLEEP ? expected / 2 : LONGEST_SLEEP;
    double s = waited < half ? half - waited : waited * (half > 0 ? 0.02 : 0.05);
    struct timespec t = {0, 0};
    if (waited >= 0.02 && s > 0.001) s = 0.001;
    t.tv_nsec = (long)(s * 1e9);
    if (ring.spin || waited < 2e-5) sched_yield();
    else nanosleep(&t, NULL);
}

/* A sign of life to the rank; empty frames, so that one way of receiving does for all. */
static void beat(int to) {
    frame_buf b = {NULL, 0};
    if (frame_make(&b, FRAME_BEAT, 0, 0)) frame_send(to, TAG_BEAT, &b);
}

static void look_around(int first, int end) {
    frame_buf b = {NULL, 0};
    const double now = platform_clock();
    int r;
    while ((r = frame_poll(TAG_BEAT, &b)) >= 0) heard[r] = now;
    if (ring_rank == 0 && (r = frame_poll(TAG_FAIL, &b)) >= 0)
        ring_break("rank %d: %.*s", r, (int)(b.head->size < 500 ? b.head->size : 500), (const char *)frame_message(&b));
    free(b.head);
    for (r = first; r < end; r++)
        if (r != ring_rank && now - heard[r] > ring.timeout)
            ring_break("rank %d has not been heard of for %.0f s", r, ring.timeout);
}

/* The job's end, when nobody else has ended it: the reason is said by rank 0, by others only if that is the one gone. */
static void end_job(void) {
    struct timespec t = {2, 0};
    nanosleep(&t, NULL);
    if (stopping) return;
    fprintf(stderr, "infer-mpi: %s\n", reason);
    MPI_Abort(MPI_COMM_WORLD, CLI_FAILED);
}

static void *run(void *unused) {
    const int first = ring_rank ? 0 : 1, end = ring_rank ? 1 : ring_size; /* of those to be heard */
    double next = 0;
    (void)unused;
    while (!stopping && !broken) {
        struct timespec t = {0, 4000000};
        int r;
        if (platform_clock() >= next) {
            for (r = first; r < end; r++) beat(r);
            next = platform_clock() + (ring.timeout < 2 ? ring.timeout / 8 : 0.25);
        }
        look_around(first, end);
        nanosleep(&t, NULL);
    }
    if (broken && !stopping) end_job();
    return NULL;
}

int watch_start(void) {
    int r;
    for (r = 0; r < ring_size; r++) heard[r] = platform_clock();
    return pthread_create(&thread, NULL, run, NULL) == 0;
}

void watch_stop(void) {
    stopping = 1;
    pthread_join(thread, NULL);
}
