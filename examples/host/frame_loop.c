/* frame_loop.c: a loop of 60 frames a second, without threads, in which a character speaks: the model opens and the text
 * is generated in slices of 4 ms a frame. At the end: how long the slices were; a layer longer than asked for, at most.
 *   cc -O2 examples/host/frame_loop.c -o frame_loop -lm -lpthread -ldl
 *   ./frame_loop model.gguf "Once upon a time" 40 */
#define _POSIX_C_SOURCE 199309L
#define INFER_IMPLEMENTATION
#include "../../infer.h"
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
    struct timespec t = { 0, (long)(left * 1e9) };
    if (left > 0) nanosleep(&t, NULL);
}

int main(int argc, char **argv) {
    infer_model_params mp = { .preload = 1 }; /* no frame waits for pages of the file that are touched for the first time */
    infer_generate_params p = { .max_tokens = argc > 3 ? atoi(argv[3]) : 64 };
    infer_error err = { 0, "usage: frame_loop model.gguf \"prompt\" [tokens]" };
    infer_loading *loading;
    infer_model *model = NULL;
    infer_session *session = NULL;
    infer_generation *speech = NULL;
    infer_result r;
    const char *text;
    double longest = 0, sum = 0, begun;
    int frames = 0;

    if (argc < 3 || infer_model_open_begin(&loading, argv[1], &mp, &err)) return fprintf(stderr, "%s\n", err.message), 1;
    while ((r = infer_loading_step(loading, SLICE_MS, &err)) == INFER_MORE) /* ... a frame with a bar that grows ... */
        sleep_until(now() + (FRAME_MS - SLICE_MS) * 1e-3);
    infer_loading_end(loading, &model);
    if (r != INFER_OK || infer_session_create(&session, model, NULL, &err) ||
        infer_generation_begin(&speech, session, NULL, argv[2], &p, &err))
        return fprintf(stderr, "%s\n", err.message), 1;
    do { /* ... input, physics, drawing ... Several characters at once: infer_queue_step, see examples/queue.c */
        begun = now();
        r = infer_generation_next(speech, SLICE_MS, &text, NULL);
        sum += now() - begun;
        longest = now() - begun > longest ? now() - begun : longest;
        frames++;
        fputs(text, stdout);
        fflush(stdout);
        if (r == INFER_MORE) sleep_until(begun + FRAME_MS * 1e-3);
    } while (r == INFER_MORE);
    fprintf(stderr, "\n%d frames, slices of %.2f ms on average, %.2f at most\n", frames, 1e3 * sum / frames, 1e3 * longest);
    infer_generation_end(speech); /* first the text, then its session, then the model */
    infer_session_destroy(session);
    return infer_model_close(model) != INFER_OK || r != INFER_OK;
}
