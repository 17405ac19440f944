/* gather.c: exchanges between the parts of a range (--split): collectives of a communicator of these ranks. They do not
 * wait in MPI: a rank looks, gives way and looks again, so that one that is gone is noticed. Values go through a buffer
 * of ours, since MPI may still write to it when a broken ring is left.
 *
 * --delay and --rate hold here, too: an exchange takes as long as a frame with what the others give.
 */
#include "ring.h"

#include <mpi.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

static MPI_Comm group = MPI_COMM_NULL;
static float *buffer;
static size_t room;
static uint64_t count;
static double waited;

int gather_start(void) {
    if (ring.split == 1) return 1;
    if (MPI_Comm_split(MPI_COMM_WORLD, ring_range(), ring_rank, &group) != MPI_SUCCESS) return 0;
    return MPI_Comm_set_errhandler(group, MPI_ERRORS_RETURN) == MPI_SUCCESS;
}

static int make_room(size_t n) {
    float *p;
    if (n <= room) return 1;
    p = realloc(buffer, n * sizeof *p);
    if (p == NULL) return 0;
    buffer = p;
    room = n;
    return 1;
}

/* Parts compute alike, so they are soon there: for the first millisecond a sleep costs more than it saves, and the rank
 * yields instead; then it pauses as for frames. */
static int wait_for(MPI_Request *request) {
    const double since = platform_clock();
    int done = 0;
    while (!done) {
        if (MPI_Test(request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
            ring_break("rank %d: an exchange with other parts fails", ring_rank);
            return 0;
        }
        if (done) break;
        if (ring_broken()) return 0;
        if (platform_clock() - since < 1e-3) sched_yield();
        else ring_pause(since, 0);
    }
    return 1;
}

static void slow_network(size_t floats) {
    const double since = platform_clock();
    const double until = since + ring.delay + (ring.rate > 0 ? (double)floats * sizeof(float) / ring.rate : 0);
    while (platform_clock() < until && !ring_broken()) ring_pause(since, 0);
}

infer_result gather(void *user, float *values, const size_t *first, int32_t to, infer_error *err) {
    const int own = ring_part();
    const size_t all = first[ring.split], mine = first[own + 1] - first[own];
    int counts[SPLIT_MOST], from[SPLIT_MOST], p, r;
    const double start = platform_clock();
    MPI_Request request;
    (void)user;
    if (all > INT32_MAX) ring_break("rank %d: an exchange of more than 2^31 values: use a smaller --batch", ring_rank);
    else if (!make_room(all)) ring_break("rank %d: out of memory for an exchange of %lu values", ring_rank, (unsigned long)all);
    for (p = 0; p < ring.split && !ring_broken(); p++) {
        from[p] = (int)first[p];
        counts[p] = (int)(first[p + 1] - first[p]);
    }
    if (!ring_broken()) {
        memcpy(buffer + first[own], values + first[own], mine * sizeof *values);
        r = to < 0 ? MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, buffer, counts, from, MPI_FLOAT, group, &request)
            : to == own ? MPI_Igatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, buffer, counts, from, MPI_FLOAT, to, group, &request)
                        : MPI_Igatherv(buffer + first[own], (int)mine, MPI_FLOAT, NULL, NULL, NULL, MPI_FLOAT, to, group, &request);
        if (r != MPI_SUCCESS) ring_break("rank %d: an exchange with other parts fails", ring_rank);
        else if (wait_for(&request) && (to < 0 || to == own)) {
            slow_network(all - mine);
            for (p = 0; p < ring.split; p++)
                if (p != own) memcpy(values + first[p], buffer + first[p], (size_t)counts[p] * sizeof *values);
        }
    }
    count++;
    waited += platform_clock() - start;
    return ring_broken() ? ring_error(err) : INFER_OK;
}

void gather_times(uint64_t *exchanges, double *seconds) {
    *exchanges = count;
    *seconds = waited;
}
