/* bench_draft.c: `infer bench --lookup|--draft FILE|--mtp`: a generation without drafts and with them, alternately,
 * after the same prompt: tokens drafted at a time, tokens accepted, and the gain. Greedy; on the CPU both write the
 * same tokens. */
#include "../cli.h"

#include <stdlib.h>
#include <string.h>

typedef struct written { infer_token *tokens; int32_t n, cap; } written;

static int keep(void *user, infer_token token, float logprob, const infer_top *top, int32_t n_top) {
    written *w = user;
    (void)logprob;
    (void)top;
    (void)n_top;
    if (w->n < w->cap) w->tokens[w->n] = token;
    w->n++;
    return 0;
}

/* Seconds of a generation from the end of the prompt. */
static int run(const bench_draft *b, int drafts, written *out, infer_generate_info *info, double *seconds) {
    infer_session *s = drafts ? b->session : b->plain;
    infer_generate_params g;
    double start;
    memset(&g, 0, sizeof g);
    g.max_tokens = b->fresh;
    g.ignore_end = 1;
    g.token = keep;
    g.user = out;
    g.lookup = drafts && b->lookup;
    g.mtp = drafts && b->mtp;
    g.draft = drafts ? b->draft : NULL;
    out->n = 0;
    if (infer_session_sync(s, b->ids, b->n_ids, NULL) == INFER_OK) {
        start = platform_clock();
        if (infer_generate(s, NULL, NULL, &g, info) == INFER_OK && info->new_tokens > 0) {
            *seconds = platform_clock() - start;
            return 1;
        }
    }
    return cli_fail("bench", "%s", infer_session_error(s)->message) == CLI_DONE;
}

int bench_drafts(const bench_draft *b) {
    double *plain = cli_alloc("bench", (size_t)b->rounds, sizeof *plain), *with = cli_alloc("bench", (size_t)b->rounds, sizeof *with);
    written first, second;
    infer_generate_info info;
    double seconds;
    int32_t i;
    int ok, same = 1;
    memset(&first, 0, sizeof first);
    memset(&second, 0, sizeof second);
    memset(&info, 0, sizeof info);
    first.cap = second.cap = b->fresh;
    first.tokens = cli_alloc("bench", (size_t)b->fresh, sizeof *first.tokens);
    second.tokens = cli_alloc("bench", (size_t)b->fresh, sizeof *second.tokens);
    ok = plain && with && first.tokens && second.tokens && run(b, 1, &first, &info, &seconds); /* warm */
    for (i = 0; ok && i < b->rounds; i++) {
        ok = run(b, 0, &first, &info, &plain[i]) && run(b, 1, &second, &info, &with[i]);
        same = same && ok && first.n == second.n && memcmp(first.tokens, second.tokens, (size_t)first.n * sizeof *first.tokens) == 0;
    }
    if (ok) {
        const double n = second.n;
        const double passes = n - info.accepted; /* every pass begins with a token that was chosen, not drafted */
        const double alone = cli_median(plain, b->rounds), drafted = cli_median(with, b->rounds);
        if (b->json)
            printf("{\"prompt_tokens\": %ld, \"new_tokens\": %ld, \"tps\": %.4f, \"draft_tps\": %.4f, \"gain\": %.4f, \"drafted\": %ld, "
                   "\"accepted\": %ld, \"accepted_length\": %.4f, \"same\": %s}\n",
                   (long)b->n_ids, (long)second.n, n / alone, n / drafted,
                   alone / drafted, (long)info.drafted, (long)info.accepted, n / passes, same ? "true" : "false");
        else
            printf("generation  %ld tokens after %ld: %.2f tokens/s, with drafts %.2f: %.2f times\n"
                   "drafts      %ld tokens, %ld accepted: %.2f tokens per pass; %s\n",
                   (long)second.n, (long)b->n_ids, n / alone, n / drafted,
                   alone / drafted, (long)info.drafted, (long)info.accepted, n / passes,
                   same ? "the same tokens" : "OTHER TOKENS than without");
    }
    free(plain);
    free(with);
    free(first.tokens);
    free(second.tokens);
    return ok;
}
