/* ring.h: what the files of infer-mpi share.
 *
 * infer-mpi is `infer` on several ranks of MPI: rank 0 runs the command, with the first layers, the embedding and the head;
 * the others run the layers that follow (manual of infer.h, section 22). Frames go round: from rank 0 to 1, on to the last
 * one, and results back to 0. Several contexts may have passes under way at the same time, a tag each.
 * With --split T, T ranks share a range of layers: rank r is part r % T of range r / T. Every part has the same rows, so
 * frames go from a part to the same part of the next range, and rank 0 gives passes to the parts of the first range.
 *
 * main.c: options, start and end of ranks. cut.c: which layers a rank has. front.c: rank 0's hooks in the commands.
 * worker.c: the other ranks. transport.c: frames. gather.c: exchanges of parts. watch.c: which ranks are alive.
 */
#ifndef RING_H
#define RING_H

#include "../infer/cli.h"

enum { RING_MOST = 1024, SPLIT_MOST = 64 }; /* ranks; parts of a range, as in infer_model_params */

typedef struct ring_options {
    const char *layers;  /* --layers 0-11,12-23; NULL = by memory */
    int split;           /* ranks that share a range, */
    double least;        /* and bytes from which a matrix is in parts: 0 = the library's */
    double timeout;      /* seconds without a sign of life */
    double start;        /* seconds until all ranks are there */
    double delay, rate;  /* of every frame, for tests: seconds; bytes a second, 0 = no limit */
    int spin;            /* wait without sleeping */
} ring_options;

extern ring_options ring;
extern int ring_rank, ring_size;
/* Ranges of layers; the rank's, and its part of it. */
int ring_ranges(void);
int ring_range(void);
int ring_part(void);

/* What rank 0 tells the others before they open the model. */
typedef struct ring_job {
    infer_model_params params; /* without what points into rank 0; with the rank's layers */
    int32_t threads, verbose;
    char path[4096];
} ring_job;

/* ---- transport.c ---------------------------------------------------------------------------- */

enum { FRAME_PASS, FRAME_HEAD, FRAME_JOB, FRAME_BYE, FRAME_FAIL, FRAME_BEAT };
typedef struct frame {
    uint64_t kind, context;
    uint64_t size, n, back; /* bytes of the message; floats of rows; floats that are expected back */
    double due;             /* not to be looked at before, on the sender's clock */
} frame;
/* A frame as it travels: the head, the message, the rows. */
typedef struct frame_buf {
    frame *head; /* NULL = no memory yet */
    size_t cap;
} frame_buf;
void *frame_message(const frame_buf *b);
float *frame_rows(const frame_buf *b); /* aligned to 8 bytes */
/* A frame of this kind with room for a message and rows; b is empty. 0 = no memory. */
int frame_make(frame_buf *b, uint64_t kind, uint64_t size, uint64_t n);
/* The same room in a frame that is there, which stays. */
int frame_reserve(frame_buf *b, uint64_t size, uint64_t n);
enum { TAG_JOB, TAG_FAIL, TAG_BEAT, TAG_PASS, TAG_REPLY, TAG_MOST = TAG_REPLY + 16000 };
/* The buffer is the transport's, and b empty: it is sent while the caller goes on. 0: the ring is broken. */
int frame_send(int to, int tag, frame_buf *b);
int frame_receive(int from, int tag, frame_buf *b);
int frame_poll(int tag, frame_buf *b); /* from anybody: the rank, -1 = nothing is there */
void frames_flush(double seconds);     /* wait for what is on its way */

/* ---- gather.c ------------------------------------------------------------------------------- */

int gather_start(void); /* of all ranks, once: the groups. 0 = MPI fails */
infer_result gather(void *user, float *values, const size_t *first, int32_t to, infer_error *err); /* infer_gather_fn */
void gather_times(uint64_t *exchanges, double *seconds);

/* ---- watch.c -------------------------------------------------------------------------------- */

int watch_start(void); /* the thread that sends and expects signs of life */
void watch_stop(void);
/* The ring cannot be used any more: the first reason stays. */
void ring_break(const char *format, ...) CLI_PRINTF(1, 2);
const char *ring_broken(void); /* the reason, NULL = it is whole */
infer_result ring_error(infer_error *err); /* that reason as a callback's error */
/* Between two looks; since: when the first one was (platform_clock); expected: seconds from then on until what is waited for
 * comes, 0 = not known. */
void ring_pause(double since, double expected);

/* ---- cut.c, front.c, worker.c --------------------------------------------------------------- */

/* The first layer of every range, ring_ranges() + 1 numbers. of_ranks: bytes of memory of each rank. 0 after saying why not. */
int cut_layers(const char *command, const char *path, const infer_model_params *params, const double *of_ranks, int32_t *first);
void front_hooks(const double *of_ranks); /* from now on the commands' model is cut */
void worker_run(void);                      /* until rank 0 says goodbye, or the ring breaks */

#endif
