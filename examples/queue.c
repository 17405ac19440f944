/* queue.c: many requests with the same beginning, one by one and in a queue: the same texts, and how long each takes.
 *
 *   cc -O2 examples/queue.c -o queue -lm -lpthread
 *   ./queue model.gguf 16          requests; 64 without a number
 *
 * Think of a system prompt or a document that every request begins with. The queue evaluates it once. */
#define INFER_IMPLEMENTATION
#include "../infer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 256, BEGINNING = 1000, NEW = 16 };

static infer_error err;
static int fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, err.message);
    return 1;
}

/* BEGINNING tokens that all prompts have, then what request k asks. */
static char *make_prompt(const infer_model *model, int32_t k) {
    static const char story[] = "Once upon a time there was a girl who had a red ball. She lost it in the park. ";
    static const char *const names[] = { "Lily", "Tom", "Mia", "Ben" };
    char *text = calloc(1, BEGINNING * sizeof story);
    size_t n = 0;
    while (text && n < BEGINNING) {
        strcat(text, story);
        if (infer_tokenize(model, text, strlen(text), 0, NULL, 0, &n, &err)) return NULL;
    }
    if (text) sprintf(text + strlen(text), "%s found %d balls and", names[k % 4], (int)k + 2);
    return text;
}

/* What infer_generate writes: one by one, in a session that is emptied every time. */
typedef struct sink { char text[4096]; size_t n; } sink;
static int keep(void *user, const char *text, size_t n) {
    sink *s = user;
    if (s->n + n >= sizeof s->text) return 1;
    memcpy(s->text + s->n, text, n);
    s->n += n;
    return 0;
}

int main(int argc, char **argv) {
    const int32_t n = argc > 2 ? atoi(argv[2]) : 64;
    static char *prompts[MOST];
    static sink alone[MOST];
    static infer_request *requests[MOST];
    infer_model *model;
    infer_session *session;
    infer_queue *queue;
    infer_queue_stats stats;
    infer_session_params sp = { 0 };
    infer_queue_params qp = { 0 };
    infer_request_params p = { 0 };
    infer_request_info info;
    infer_stats one_by_one;
    double seconds, together = 0;
    int32_t k, same = 0;

    if (argc < 2 || n < 1 || n > MOST) return fprintf(stderr, "usage: queue model.gguf [requests, at most %d]\n", MOST), 1;
    if (infer_model_open(&model, argv[1], NULL, &err)) return fail("open");
    for (k = 0; k < n; k++)
        if (!(prompts[k] = make_prompt(model, k))) return fail("prompt");
    p.generate.max_tokens = NEW;

    sp.context = BEGINNING + 256;
    if (infer_session_create(&session, model, &sp, &err)) return fail("session");
    for (k = 0; k < n; k++) {
        p.generate.text = keep;
        p.generate.user = &alone[k];
        infer_session_rewind(session, 0);
        if (infer_generate(session, NULL, prompts[k], &p.generate, NULL)) return puts(infer_session_error(session)->message), 1;
    }
    infer_session_stats(session, &one_by_one);
    seconds = one_by_one.prompt_seconds + one_by_one.new_seconds;
    infer_session_destroy(session);

    qp.positions = sp.context;
    qp.slots = n;
    qp.context.cells = sp.context + n * 128; /* the beginning, and room for each one's end */
    p.generate.text = NULL;
    if (infer_queue_create(&queue, model, &qp, &err)) return fail("queue");
    for (k = 0; k < n; k++) {
        p.prompt = prompts[k];
        if (infer_queue_submit(queue, &p, &requests[k], &err)) return fail("submit");
    }
    for (k = 0; k < n; k++) {
        if (infer_request_wait(requests[k]) != INFER_OK) return err = *infer_request_error(requests[k]), fail("request");
        infer_request_get_info(requests[k], &info);
        if (info.seconds > together) together = info.seconds;
        same += strcmp(infer_request_text(requests[k], NULL), alone[k].text) == 0;
    }
    infer_queue_get_stats(queue, &stats);
    printf("%d requests, %d texts as alone\n", (int)n, (int)same);
    printf("prompt tokens evaluated %llu, shared %llu, again %llu\n", (unsigned long long)stats.prompt_tokens,
           (unsigned long long)stats.reused, (unsigned long long)stats.again);
    fprintf(stderr, "one by one %.2f s, queue %.2f s: %.1f times\n", seconds, together, seconds / together);

    for (k = 0; k < n; k++) {
        infer_request_close(requests[k]);
        free(prompts[k]);
    }
    infer_queue_destroy(queue);
    infer_model_close(model);
    return same != n;
}
