/* cancel.c: stop a running generation from another thread, then go on where it stopped.
 *
 *   cc -O2 examples/cancel.c -o cancel -lm -lpthread && ./cancel model.gguf "Once upon a time"
 *
 * infer_session_cancel is the one call on a session that any thread may make at any time (also a signal handler). It
 * stops the call that runs, and no later one. */
#define INFER_IMPLEMENTATION
#include "../infer.h"
#include <pthread.h>
#include <stdio.h>

typedef struct window {
    infer_session *session;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int pieces, pressed;
} window;

/* The user reads a while and presses Stop. */
static void *user_thread(void *arg) {
    window *w = arg;
    pthread_mutex_lock(&w->lock);
    while (w->pieces < 20) pthread_cond_wait(&w->changed, &w->lock);
    infer_session_cancel(w->session);
    w->pressed = 1;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

static int show(void *user, const char *text, size_t n) {
    window *w = user;
    fwrite(text, 1, n, stdout);
    pthread_mutex_lock(&w->lock);
    w->pieces++;
    pthread_cond_signal(&w->changed);
    /* a real program does not wait here; this one prints the same text every time */
    while (w->pieces == 20 && !w->pressed) pthread_cond_wait(&w->changed, &w->lock);
    pthread_mutex_unlock(&w->lock);
    return fflush(stdout);
}

int main(int argc, char **argv) {
    window w = { NULL, PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0 };
    infer_generate_params params = { .max_tokens = 64, .text = show, .user = &w };
    infer_generate_info info;
    infer_model *model = NULL;
    infer_error err = { 0, "" };
    infer_result r;
    pthread_t thread;

    if (argc != 3) {
        fprintf(stderr, "usage: cancel model.gguf PROMPT\n");
        return 2;
    }
    if (infer_model_open(&model, argv[1], NULL, &err) || infer_session_create(&w.session, model, NULL, &err)) {
        fprintf(stderr, "%s\n", err.message);
        infer_model_close(model);
        return 1;
    }
    if (pthread_create(&thread, NULL, user_thread, &w) != 0) return 1;
    r = infer_generate(w.session, NULL, argv[2], &params, &info);
    pthread_join(thread, NULL);
    printf("\n[%s after %d tokens, position %d]\n", infer_result_string(r), (int)info.new_tokens,
           (int)infer_session_position(w.session));

    /* The session stands at the last token that was evaluated. No prompt: go on from there. */
    params.max_tokens = 10;
    r = infer_generate(w.session, NULL, NULL, &params, &info);
    printf("\n[%s, position %d]\n", infer_result_string(r), (int)infer_session_position(w.session));
    infer_session_destroy(w.session);
    infer_model_close(model);
    return r != INFER_OK;
}
