/* main.c: `infer-mpi`: the commands of infer, over the ranks of an MPI job. */
#include "ring.h"

#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#if defined(__linux__)
#  include <sys/prctl.h>
#endif

ring_options ring = {NULL, 1, 0, 5, 60, 0, 0, 0};
int ring_rank, ring_size = 1;

int ring_ranges(void) { return ring_size / ring.split; }
int ring_range(void) { return ring_rank / ring.split; }
int ring_part(void) { return ring_rank % ring.split; }

int infer_main(int argc, char **argv); /* tools/infer/main.c */

static const char HELP[] =
    "usage: mpirun -n RANKS infer-mpi [OPTIONS] COMMAND ...\n\n"
    "A command of `infer` (run, bench, chat, serve, embed, perplexity, logits, ...; infer --help) with the model's layers over\n"
    "the ranks: rank 0 has the first ones, the embedding and the head, and all input and output; the others have the rest.\n"
    "Every rank opens the model by the same path. Results are those of one process, bit for bit.\n\n"
    "  --layers RANGES     the layers of each rank: 0-11,12-23 (default: by their memory)\n"
    "  --split N           N ranks, one after the other, share each range: rows of its wide matrices, on CPUs\n"
    "  --split-least BYTES matrices that are smaller stay whole on every rank (default 1048576)\n"
    "  --timeout SECONDS   how long a rank may give no sign of life (default 5)\n"
    "  --start SECONDS     how long it may take until all ranks are there (default 60)\n"
    "  --spin              wait without sleeping: for cores that are the job's alone\n"
    "  --delay MS          a network that takes as long for every frame, for tests on one machine\n"
    "  --rate MBPS         and carries as many 1e6 bytes a second\n";

static int number(const char *text, double least, double *out) {
    char *end;
    *out = strtod(text, &end);
    return end != text && *end == 0 && *out >= least && *out < 1e12;
}

/* A rank that dies or stands still within MPI_Init would be waited for: no thread of ours runs yet. */
static void too_late(int unused) {
    static const char text[] = "infer-mpi: not all ranks are there after the time of --start\n";
    (void)unused;
    if (write(2, text, sizeof text - 1) < 0) _exit(CLI_FAILED);
    _exit(CLI_FAILED);
}

/* Takes our options, which come before the command. Returns where that is, -1 = wrong usage. */
static int parse(int argc, char **argv) {
    int i;
    double x = 0;
    for (i = 1; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
        const char *name = argv[i];
        if (strcmp(name, "--help") == 0 || strcmp(name, "--version") == 0) break;
        if (strcmp(name, "--spin") == 0) {
            ring.spin = 1;
            continue;
        }
        if (i + 1 >= argc) return -1;
        i++;
        if (strcmp(name, "--layers") == 0) ring.layers = argv[i];
        else if (strcmp(name, "--split") == 0 && number(argv[i], 1, &x) && x <= SPLIT_MOST && x == (int)x) ring.split = (int)x;
        else if (strcmp(name, "--split-least") == 0 && number(argv[i], 1, &x)) ring.least = x;
        else if (strcmp(name, "--timeout") == 0 && number(argv[i], 0.1, &x)) ring.timeout = x;
        else if (strcmp(name, "--start") == 0 && number(argv[i], 1, &x)) ring.start = x;
        else if (strcmp(name, "--delay") == 0 && number(argv[i], 0, &x)) ring.delay = x * 1e-3;
        else if (strcmp(name, "--rate") == 0 && number(argv[i], 0, &x)) ring.rate = x * 1e6;
        else return -1;
    }
    return i;
}

/* Bytes of memory that each rank may have: its machine's, or container's, shared by the ranks there. */
static int gather_memory(double *out) {
    infer_device_info info;
    MPI_Comm local;
    double own = 0;
    int n = 1;
    if (MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &local) != MPI_SUCCESS) return 0;
    if (MPI_Comm_size(local, &n) != MPI_SUCCESS || n < 1) n = 1;
    MPI_Comm_free(&local);
    if (infer_device_get(0, &info) == INFER_OK) own = (double)info.total / n;
    return MPI_Gather(&own, 1, MPI_DOUBLE, out, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD) == MPI_SUCCESS;
}

/* Rank 0's command is over: goodbye to the others, whether they wait for a job or for passes. */
static void say_goodbye(void) {
    frame_buf b = {NULL, 0};
    int r;
    for (r = 1; r < ring_size; r++)
        if (frame_make(&b, FRAME_BYE, 0, 0)) frame_send(r, TAG_JOB, &b);
    for (r = 1; r <= ring.split && r < ring_size; r++) /* it goes on from these */
        if (frame_make(&b, FRAME_BYE, 0, 0)) frame_send(r, TAG_PASS, &b);
}

int main(int argc, char **argv) {
    static double memory[RING_MOST];
    int provided = 0, at, status = CLI_DONE;
    at = parse(argc, argv);
    signal(SIGALRM, too_late);
    alarm(ring.start < 1e9 ? (unsigned)ring.start : 1000000000u);
#if defined(__linux__)
    prctl(PR_SET_TIMERSLACK, 1000ul); /* of all threads from here on: ns; 50 us otherwise, longer than most pauses */
#endif
    if (MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS) return CLI_FAILED;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &ring_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ring_size);
    alarm(0);
    if (at < 0 || at >= argc || strcmp(argv[at], "--help") == 0 || provided < MPI_THREAD_MULTIPLE || ring_size > RING_MOST ||
        ring_size % ring.split) {
        status = at > 0 && at < argc && strcmp(argv[at], "--help") == 0 ? CLI_DONE : CLI_USAGE;
        if (ring_rank == 0 && at > 0 && provided < MPI_THREAD_MULTIPLE) fprintf(stderr, "infer-mpi: this MPI has no MPI_THREAD_MULTIPLE\n");
        else if (ring_rank == 0 && at > 0 && ring_size % ring.split)
            fprintf(stderr, "infer-mpi: --split %d: %d ranks are no multiple of that\n", ring.split, ring_size);
        else if (ring_rank == 0) fputs(HELP, status == CLI_DONE ? stdout : stderr);
        MPI_Finalize();
        return status;
    }
    if (!watch_start()) ring_break("rank %d: no thread", ring_rank);
    if (!gather_memory(memory) || !gather_start()) ring_break("rank %d: MPI fails", ring_rank);
    if (ring_rank == 0) {
        argv[at - 1] = argv[0];
        front_hooks(memory);
        status = infer_main(argc - at + 1, argv + at - 1);
        if (!ring_broken()) say_goodbye();
    } else worker_run();
    if (!ring_broken()) frames_flush(ring.timeout);
    if (ring_broken()) {
        if (ring_rank == 0 && status == CLI_DONE) {
            fprintf(stderr, "infer-mpi: %s\n", ring_broken());
            status = CLI_FAILED;
        }
        fflush(NULL);
        if (ring_rank == 0) MPI_Abort(MPI_COMM_WORLD, status);
        for (;;) sleep(1); /* the watching thread, or rank 0, ends the job */
    }
    MPI_Barrier(MPI_COMM_WORLD); /* signs of life are for those that still work */
    watch_stop();
    frames_flush(1);
    MPI_Finalize();
    return status;
}
