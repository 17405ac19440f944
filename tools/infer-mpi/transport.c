/* transport.c: frames over MPI. Sends do not wait; a receive looks, pauses and looks again, so that a rank that is gone
 * is noticed. Any thread may call these (MPI_THREAD_MULTIPLE).
 *
 * --delay and --rate make a slow network of a fast one: a frame says when it would have arrived, and the receiver waits
 * for that time. All ranks must have one clock, so this is for ranks on one machine.
 */
#include "ring.h"

#include <mpi.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { SENDS_MOST = 256 }; /* on their way at a time */

static struct sending {
    MPI_Request request;
    void *data;
} sends[SENDS_MOST];
static int n_sends;
static double link_free; /* when the simulated link has sent all */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static size_t message_room(uint64_t size) { return (size_t)(size + 7) / 8 * 8; }
void *frame_message(const frame_buf *b) { return (char *)b->head + sizeof *b->head; }
float *frame_rows(const frame_buf *b) {
    return (float *)(void *)((char *)b->head + sizeof *b->head + message_room(b->head->size));
}

static size_t frame_bytes(uint64_t size, uint64_t n) {
    return sizeof(frame) + message_room(size) + (size_t)n * sizeof(float);
}

static int grow(frame_buf *b, size_t bytes) {
    void *p;
    if (bytes <= b->cap) return 1;
    p = realloc(b->head, bytes);
    if (p == NULL) {
        ring_break("rank %d: out of memory for a frame of %lu bytes", ring_rank, (unsigned long)bytes);
        return 0;
    }
    b->head = p;
    b->cap = bytes;
    return 1;
}

int frame_reserve(frame_buf *b, uint64_t size, uint64_t n) {
    if (size > INT32_MAX || n > INT32_MAX / sizeof(float) || frame_bytes(size, n) > INT32_MAX) {
        ring_break("rank %d: a frame of more than 2 GiB: use a smaller --batch", ring_rank);
        return 0;
    }
    return grow(b, frame_bytes(size, n));
}

int frame_make(frame_buf *b, uint64_t kind, uint64_t size, uint64_t n) {
    if (!frame_reserve(b, size, n)) return 0;
    memset(b->head, 0, sizeof *b->head);
    b->head->kind = kind;
    b->head->size = size;
    b->head->n = n;
    return 1;
}

static void free_done(void) {
    int i = 0, done;
    while (i < n_sends) {
        if (MPI_Test(&sends[i].request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) done = 1;
        if (done) {
            free(sends[i].data);
            sends[i] = sends[--n_sends];
        } else i++;
    }
}

/* When a frame of so many bytes arrives. */
static double due(size_t bytes) {
    const double now = platform_clock();
    if (ring.delay <= 0 && ring.rate <= 0) return 0;
    if (link_free < now) link_free = now;
    if (ring.rate > 0) link_free += (double)bytes / ring.rate;
    return link_free + ring.delay;
}

int frame_send(int to, int tag, frame_buf *b) {
    const size_t bytes = frame_bytes(b->head->size, b->head->n);
    const double since = platform_clock();
    int ok = 0;
    for (;;) {
        pthread_mutex_lock(&lock);
        free_done();
        if (n_sends < SENDS_MOST || ring_broken()) break;
        pthread_mutex_unlock(&lock);
        ring_pause(since, 0);
    }
    b->head->due = due(bytes);
    if (!ring_broken()) {
        sends[n_sends].data = b->head;
        ok = MPI_Isend(b->head, (int)bytes, MPI_BYTE, to, tag, MPI_COMM_WORLD, &sends[n_sends].request) == MPI_SUCCESS;
        n_sends += ok;
    }
    pthread_mutex_unlock(&lock);
    if (!ok) {
        ring_break("rank %d: cannot send to rank %d", ring_rank, to);
        free(b->head);
    }
    b->head = NULL;
    b->cap = 0;
    return ok;
}

/* 1 = a frame is in b, 0 = none is there, -1 = the ring is broken. */
static int look(int from, int tag, frame_buf *b, int *sender) {
    MPI_Message message;
    MPI_Status status;
    int there = 0, bytes = 0;
    if (MPI_Improbe(from, tag, MPI_COMM_WORLD, &there, &message, &status) != MPI_SUCCESS) {
        ring_break("rank %d: cannot receive from rank %d", ring_rank, from);
        return -1;
    }
    if (!there) return 0;
    if (sender) *sender = status.MPI_SOURCE;
    if (MPI_Get_count(&status, MPI_BYTE, &bytes) != MPI_SUCCESS || bytes < (int)sizeof(frame) || !grow(b, (size_t)bytes) ||
        MPI_Mrecv(b->head, bytes, MPI_BYTE, &message, MPI_STATUS_IGNORE) != MPI_SUCCESS ||
        b->head->size > (uint64_t)bytes || b->head->n > (uint64_t)bytes || frame_bytes(b->head->size, b->head->n) != (size_t)bytes) {
        ring_break("rank %d: a malformed frame of rank %d", ring_rank, status.MPI_SOURCE);
        return -1;
    }
    return 1;
}

int frame_receive(int from, int tag, frame_buf *b) {
    static double took[2]; /* how long the last two frames were waited for: the shorter wait is expected again, so that
                            * one after a long pass, or without requests, does not make the next frame late */
    double since = platform_clock(), expected;
    int r;
    pthread_mutex_lock(&lock);
    expected = took[0] < took[1] ? took[0] : took[1];
    pthread_mutex_unlock(&lock);
    while ((r = look(from, tag, b, NULL)) == 0) {
        if (ring_broken()) return 0;
        ring_pause(since, expected);
    }
    pthread_mutex_lock(&lock);
    took[0] = took[1];
    took[1] = platform_clock() - since;
    pthread_mutex_unlock(&lock);
    since = platform_clock();
    while (r > 0 && b->head->due > platform_clock() && !ring_broken()) ring_pause(since, b->head->due - since);
    return r > 0;
}

int frame_poll(int tag, frame_buf *b) {
    int sender = -1;
    return look(MPI_ANY_SOURCE, tag, b, &sender) > 0 ? sender : -1;
}

void frames_flush(double seconds) {
    const double since = platform_clock();
    int left = 1;
    while (left && platform_clock() < since + seconds) {
        pthread_mutex_lock(&lock);
        free_done();
        left = n_sends;
        pthread_mutex_unlock(&lock);
        if (left) ring_pause(since, 0);
    }
}
