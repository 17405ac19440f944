/* front.c: rank 0: the commands of `infer`, with a model whose other layers are elsewhere. They do not know: the hooks
 * below give their model the first layers, and their contexts a way to the rest. */
#include "ring.h"

#include <stdlib.h>
#include <string.h>

static const double *memory; /* bytes of each rank */
static int is_cut; /* a command has opened its model; further ones (for drafts) are rank 0's alone */

/* A frame with a message of the library. 0: the ring is broken. */
static int pass_frame(frame_buf *b, const infer_rows_info *info, const void *message, size_t size, const float *rows, size_t n) {
    if (ring_broken() || !frame_make(b, FRAME_PASS, size, n)) return 0;
    b->head->context = info->context;
    memcpy(frame_message(b), message, size);
    if (n) memcpy(frame_rows(b), rows, n * sizeof *rows);
    return 1;
}

static infer_result rest(void *user, const void *message, size_t size, float *rows, size_t n, size_t back, infer_error *err) {
    infer_rows_info info;
    infer_result r = infer_rows_read(message, size, &info, err);
    frame_buf b = {NULL, 0};
    const int last = ring_size - ring.split; /* part 0 of the last range */
    int tag, ok;
    (void)user;
    if (r != INFER_OK) return r;
    tag = TAG_REPLY + (int)(info.context % (TAG_MOST - TAG_REPLY));
    ok = pass_frame(&b, &info, message, size, rows, n);
    if (ok) {
        b.head->back = back;
        ok = frame_send(ring.split, TAG_PASS, &b);
    }
    if (ok && back) {
        ok = frame_receive(last, tag, &b);
        if (ok && b.head->n != back) {
            ring_break("rank %d gives %lu numbers, %lu are expected", last, (unsigned long)b.head->n, (unsigned long)back);
            ok = 0;
        }
        if (ok) memcpy(rows, frame_rows(&b), back * sizeof *rows);
    }
    free(b.head);
    return ok ? INFER_OK : ring_error(err);
}

static infer_result share(void *user, const void *message, size_t size, const float *rows, size_t n, infer_error *err) {
    infer_rows_info info;
    infer_result r = infer_rows_read(message, size, &info, err);
    frame_buf b = {NULL, 0}; /* empty again after each frame that is sent */
    int p;
    (void)user;
    for (p = 1; p < ring.split && r == INFER_OK; p++)
        if (!pass_frame(&b, &info, message, size, rows, n) || !frame_send(p, TAG_PASS, &b)) r = ring_error(err);
    return r;
}

/* Every rank's layers, and what it needs to open the model. */
static int send_jobs(const char *path, const cli_common *common, const infer_model_params *params, const int32_t *first) {
    int r;
    for (r = 1; r < ring_size; r++) {
        frame_buf b = {NULL, 0};
        ring_job *job;
        if (!frame_make(&b, FRAME_JOB, sizeof *job, 0)) return 0;
        job = frame_message(&b);
        memset(job, 0, sizeof *job);
        job->params = *params;
        memset(&job->params.allocator, 0, sizeof job->params.allocator);
        memset(&job->params.cache, 0, sizeof job->params.cache);
        memset(&job->params.limits, 0, sizeof job->params.limits);
        job->params.log = NULL;
        job->params.progress = NULL;
        job->params.pre = job->params.projector = NULL;
        job->params.fit.rest = NULL;
        job->params.log_user = job->params.progress_user = NULL;
        job->params.first_layer = first[r / ring.split];
        job->params.layers = first[r / ring.split + 1] - first[r / ring.split];
        job->params.part = r % ring.split;
        job->params.parts = ring.split;
        job->params.part_least = (uint64_t)ring.least;
        job->threads = (int32_t)common->threads;
        job->verbose = common->verbose;
        memcpy(job->path, path, strlen(path) + 1);
        if (!frame_send(r, TAG_JOB, &b)) return 0;
    }
    return 1;
}

/* A warning when no matrix is in parts, since then the ranks of a range all compute the same. */
static void warn_whole(const char *path, const infer_model_params *params) {
    infer_model_params p = *params;
    infer_memory cut, whole;
    infer_error err;
    p.log = NULL;
    p.parts = ring.split;
    p.part_least = (uint64_t)ring.least;
    if (infer_model_memory_path(path, &p, NULL, &cut, &err) != INFER_OK) return; /* opening says why */
    p.part_least = UINT64_MAX;
    if (infer_model_memory_path(path, &p, NULL, &whole, &err) == INFER_OK && cut.weights == whole.weights)
        fprintf(stderr, "warning: %s: --split %d cuts nothing: every matrix is too small (--split-least)\n", path, ring.split);
}

static int front_open(const char *command, const char *path, const cli_common *common, infer_model_params *params) {
    int32_t first[RING_MOST + 1];
    if (ring_size == 1) return 1;
    if (is_cut) {
        fprintf(stderr, "warning: %s: all of it is rank 0's: ranks share the first model alone\n", path);
        return 1;
    }
    if (strlen(path) >= sizeof ((ring_job *)0)->path) return cli_fail(command, "%s: the name is too long", path) == CLI_DONE;
    if (platform_path_kind(path) == PLATFORM_FOLDER) return cli_fail(command, "%s: a folder: convert it first", path) == CLI_DONE;
    if (!cut_layers(command, path, params, memory, first)) return 0;
    if (ring.split > 1) warn_whole(path, params);
    params->layers = first[1];
    params->parts = ring.split;
    params->part_least = (uint64_t)ring.least;
    is_cut = 1;
    if (send_jobs(path, common, params, first)) return 1;
    return cli_fail(command, "%s", ring_broken()) == CLI_DONE;
}

static void front_context(infer_context_params *params) {
    params->rest = rest; /* contexts of whole models call none of these */
    params->share = share;
    params->gather = gather;
}

void front_hooks(const double *of_ranks) {
    static const cli_elsewhere_hooks hooks = {front_open, front_context};
    memory = of_ranks;
    cli_elsewhere = &hooks;
}
