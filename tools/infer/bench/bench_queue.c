/* bench_queue.c: `infer bench --requests`: many requests at a time, in a queue. Each has its own prompt, all of the
 * same length, and generates -n tokens; the time is measured from the first submission to the end of the last
 * request. */
#include "../cli.h"

#include <stdlib.h>
#include <string.h>

typedef struct request_round { double seconds, first; } request_round; /* first: until the first token, mean of the requests */

static int by_seconds(const void *a, const void *b) {
    const double x = ((const request_round *)a)->seconds, y = ((const request_round *)b)->seconds;
    return x < y ? -1 : x > y;
}

static int submit(infer_queue *queue, const bench_queue *b, int32_t k, infer_request **out) {
    infer_request_params p;
    infer_error err;
    uint32_t x = 12345u + (uint32_t)k;
    infer_token *ids = cli_alloc("bench", (size_t)b->tokens, sizeof *ids);
    infer_result r;
    int32_t i;
    if (!ids) return 0;
    for (i = 0; i < b->tokens; i++) {
        x = x * 1664525u + 1013904223u;
        ids[i] = (infer_token)((x >> 8) % (uint32_t)b->vocab);
    }
    memset(&p, 0, sizeof p);
    p.tokens = ids;
    p.n_tokens = b->tokens;
    p.generate.max_tokens = b->fresh;
    p.generate.ignore_end = 1;
    r = infer_queue_submit(queue, &p, out, &err);
    free(ids);
    return r == INFER_OK || cli_fail("bench", "%s", err.message) == CLI_DONE;
}

static int run(infer_queue *const *queues, const bench_queue *b, int32_t n, infer_request **requests, request_round *out) {
    const double start = platform_clock();
    infer_request_info info;
    int32_t k;
    int ok = 1;
    memset(out, 0, sizeof *out);
    memset((void *)requests, 0, (size_t)n * sizeof *requests);
    for (k = 0; ok && k < n; k++) ok = submit(queues[b->queues ? k % b->queues : 0], b, k, &requests[k]);
    if (ok && !b->queues) infer_queue_step(queues[0], -1);
    for (k = 0; ok && b->queues && k < n; k++) infer_request_wait(requests[k]); /* its result is looked at below */
    out->seconds = platform_clock() - start;
    for (k = 0; k < n; k++) {
        if (ok && infer_request_wait(requests[k]) != INFER_OK) {
            ok = 0;
            cli_fail("bench", "request %ld: %s", (long)k, infer_request_error(requests[k])->message);
        }
        if (ok && infer_request_get_info(requests[k], &info) == INFER_OK) out->first += info.first / n;
        infer_request_close(requests[k]);
    }
    return ok;
}

static int measure(const bench_queue *b, int32_t n, request_round *rounds) {
    infer_request **requests = cli_alloc("bench", (size_t)n, sizeof *requests);
    infer_queue_params params;
    const int32_t n_queues = b->queues ? b->queues : 1, each = (n + n_queues - 1) / n_queues;
    infer_queue **queues = cli_alloc("bench", (size_t)n_queues, sizeof *queues);
    infer_error err;
    int32_t i, made = 0;
    int ok = requests != NULL && queues != NULL;
    memset(&params, 0, sizeof params);
    params.context = b->context;
    params.slots = each;
    params.waiting = each;
    params.thread = b->queues > 0;
    params.kept = -1;
    params.positions = b->tokens + b->fresh + 1;
    params.prompt_rows = b->context.batch ? b->context.batch : 512;
    params.context.cells = each * (params.positions + 32);
    for (; ok && made < n_queues; made += ok)
        if (infer_queue_create(&queues[made], b->model, &params, &err) != INFER_OK) ok = cli_fail("bench", "%s", err.message) == CLI_DONE;
    if (ok) ok = run(queues, b, n, requests, &rounds[0]); /* warm */
    for (i = 0; ok && i < b->rounds; i++) ok = run(queues, b, n, requests, &rounds[i]);
    while (made > 0) infer_queue_destroy(queues[--made]);
    free((void *)queues);
    free((void *)requests);
    return ok;
}

int bench_requests(const bench_queue *b) {
    request_round *rounds = cli_alloc("bench", (size_t)b->rounds, sizeof *rounds);
    int32_t i;
    int ok = rounds != NULL;
    if (ok && b->json) printf("{\"prompt_tokens\": %ld, \"new_tokens\": %ld, \"requests\": [", (long)b->tokens, (long)b->fresh);
    for (i = 0; ok && i < b->n_counts; i++) {
        const int32_t n = b->counts[i];
        const request_round *r;
        double all = (double)n * (b->tokens + b->fresh);
        ok = measure(b, n, rounds);
        if (!ok) break;
        qsort(rounds, (size_t)b->rounds, sizeof *rounds, by_seconds);
        r = &rounds[b->rounds / 2];
        if (b->json)
            printf("%s{\"requests\": %ld, \"seconds\": %.6f, \"tps\": %.4f, \"new_tps\": %.4f, \"first_token_s\": %.6f}", i ? ", " : "",
                   (long)n, r->seconds, all / r->seconds, (double)n * b->fresh / r->seconds, r->first);
        else
            printf("requests    %4ld of %ld + %ld tokens: %.2f s, %.2f tokens/s, %.2f new ones; first token after %.3f s on average\n",
                   (long)n, (long)b->tokens, (long)b->fresh, r->seconds, all / r->seconds, (double)n * b->fresh / r->seconds, r->first);
        fflush(stdout);
    }
    if (b->json) printf("]}\n");
    free(rounds);
    return ok;
}
