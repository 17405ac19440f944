/* frame_loop.c: a loop of 60 frames a second without threads in which a character speaks: text is generated in slices of 4 ms a frame.
 *
 *   cc -O2 examples/frame_loop.c -o frame_loop -lm -lpthread
 *   ./frame_loop model.gguf "Once upon a time" 40
 *
 * Says at the end how long the frames' slices were. A slice is longer than asked for by a layer of the model at most. */
#define _POSIX_C_SOURCE 199309L
#define INFER_IMPLEMENTATION
#include "../infer.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { FRAME_MS = 16, SLICE_MS = 4 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void sleep_until(double time) {
    const double left = time - now();
    struct timespec t;
    t.tv_sec = (time_t)left;
    t.tv_nsec = (long)((left - (double)t.tv_sec) * 1e9);
    if (left > 0) nanosleep(&t, NULL);
}

static int show(void *user, const char *text, size_t n) {
    (void)user;
    fwrite(text, 1, n, stdout);
    fflush(stdout);
    return 0;
}

int main(int argc, char **argv) {
    infer_model *model;
    infer_queue *queue;
    infer_request *request;
    infer_model_params mp = { 0 };
    infer_queue_params qp = { 0 };
    infer_request_params p = { 0 };
    infer_error err;
    double longest = 0, sum = 0;
    int frames = 0, more = 1;

    if (argc < 3) return fprintf(stderr, "usage: frame_loop model.gguf \"prompt\" [tokens]\n"), 1;
    mp.preload = 1; /* no frame waits for pages of the file that are touched for the first time */
    qp.slots = 4;   /* characters that speak at once */
    p.prompt = argv[2];
    p.generate.max_tokens = argc > 3 ? atoi(argv[3]) : 64;
    p.generate.text = show;
    if (infer_model_open(&model, argv[1], &mp, &err) || infer_queue_create(&queue, model, &qp, &err) ||
        infer_queue_submit(queue, &p, &request, &err))
        return fprintf(stderr, "%s\n", err.message), 1;

    while (more) {
        const double frame = now();
        double slice;
        /* ... input, physics, drawing: they have the rest of the frame ... */
        slice = now();
        more = infer_queue_step(queue, SLICE_MS) == INFER_MORE;
        slice = now() - slice;
        if (slice > longest) longest = slice;
        sum += slice;
        frames++;
        if (more) sleep_until(frame + FRAME_MS * 1e-3);
    }
    printf("\n");
    fprintf(stderr, "%d frames, slices of %.2f ms on average, %.2f at most\n", frames, 1e3 * sum / frames, 1e3 * longest);
    if (infer_request_wait(request) != INFER_OK) fprintf(stderr, "%s\n", infer_request_error(request)->message);

    infer_request_close(request);
    infer_queue_destroy(queue);
    infer_model_close(model);
    return 0;
}
