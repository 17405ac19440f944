/* frame_loop.c: a loop of 60 frames a second without threads in which a character speaks: a model opens and text is generated in slices of 4 ms a frame.
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

int main(int argc, char **argv) {
    infer_loading *loading;
    infer_model *model;
    infer_session *session;
    infer_generation *speech;
    infer_model_params mp = { 0 };
    infer_generate_params p = { 0 };
    infer_error err;
    infer_result r;
    const char *text;
    double longest = 0, sum = 0;
    int frames = 0;

    if (argc < 3) return fprintf(stderr, "usage: frame_loop model.gguf \"prompt\" [tokens]\n"), 1;
    mp.preload = 1; /* no frame waits for pages of the file that are touched for the first time */
    p.max_tokens = argc > 3 ? atoi(argv[3]) : 64;
    if (infer_model_open_begin(&loading, argv[1], &mp, &err)) return fprintf(stderr, "%s\n", err.message), 1;
    while ((r = infer_loading_step(loading, SLICE_MS, &err)) == INFER_MORE) /* ... a frame with a bar that grows ... */
        sleep_until(now() + (FRAME_MS - SLICE_MS) * 1e-3);
    infer_loading_end(loading, &model);
    if (r != INFER_OK || infer_session_create(&session, model, NULL, &err) ||
        infer_generation_begin(&speech, session, NULL, argv[2], &p, &err))
        return fprintf(stderr, "%s\n", err.message), 1;

    do { /* several characters at once: infer_queue_step instead, examples/queue.c */
        const double frame = now();
        double slice;
        /* ... input, physics, drawing: they have the rest of the frame ... */
        slice = now();
        r = infer_generation_next(speech, SLICE_MS, &text, NULL);
        slice = now() - slice;
        fputs(text, stdout);
        fflush(stdout);
        if (slice > longest) longest = slice;
        sum += slice;
        frames++;
        if (r == INFER_MORE) sleep_until(frame + FRAME_MS * 1e-3);
    } while (r == INFER_MORE);
    printf("\n");
    fprintf(stderr, "%d frames, slices of %.2f ms on average, %.2f at most\n", frames, 1e3 * sum / frames, 1e3 * longest);
    if (r != INFER_OK) fprintf(stderr, "%s\n", infer_session_error(session)->message);

    infer_generation_end(speech);
    infer_session_destroy(session);
    infer_model_close(model);
    return 0;
}
