/* logprobs.c: `infer run --prompt-logprobs` and `--top-next`: what the model expected of a prompt, as JSON lines.
 *
 * A prompt is scored in pieces, whose lines are written before the next one: memory stays small for any K. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

enum { PIECE = 256 };

/* "token": 5, "text": " a" of an id. */
static int print_token(const infer_model *model, infer_token id) {
    size_t n = 0;
    char small[64], *own = NULL;
    if (infer_token_text(model, id, small, sizeof small, &n) != INFER_OK) n = 0; /* a file without a vocabulary */
    if (n > sizeof small) {
        own = cli_alloc("run", n, 1);
        if (own == NULL || infer_token_text(model, id, own, n, &n) != INFER_OK) {
            free(own);
            return 0;
        }
    }
    printf("\"token\": %ld, \"text\": ", (long)id);
    json_string(stdout, own ? own : small, n);
    free(own);
    return 1;
}

static int print_top(const infer_model *model, const infer_top *top, int32_t k) {
    int32_t i, ok = 1;
    printf("[");
    for (i = 0; ok && i < k; i++) {
        printf(i ? ", {" : "{");
        ok = print_token(model, top[i].token);
        printf(", \"logprob\": ");
        json_number(stdout, top[i].logprob);
        printf("}");
    }
    printf("]");
    return ok;
}

static int score(const infer_model *model, infer_session *session, const infer_token *ids, size_t n, int32_t k) {
    float logprobs[PIECE];
    infer_top *top = k ? cli_alloc("run", (size_t)k * PIECE, sizeof *top) : NULL;
    size_t done, i, piece;
    int ok = k == 0 || top != NULL;
    for (done = 0; ok && done < n && !cli_run_interrupted(); done += piece) {
        piece = n - done < PIECE ? n - done : PIECE;
        if (infer_session_score(session, ids + done, (int32_t)piece, k, logprobs, top) != INFER_OK) {
            cli_fail("run", "%s", infer_session_error(session)->message);
            ok = 0;
        }
        cli_progress_end(&cli_prompt_bar);
        for (i = 0; ok && i < piece; i++) {
            const int first = done + i == 0; /* nothing predicts it */
            printf("{\"position\": %lu, ", (unsigned long)(done + i));
            ok = print_token(model, ids[done + i]);
            printf(", \"logprob\": ");
            if (first) printf("null");
            else json_number(stdout, logprobs[i]);
            printf(", \"top\": ");
            ok = ok && print_top(model, top + (size_t)k * i, first ? 0 : k);
            printf("}\n");
        }
    }
    free(top);
    return ok && !cli_run_interrupted();
}

int cli_logprobs(const char *command, const infer_model *model, infer_session *session, const infer_token *ids, size_t n,
                 int32_t k, int32_t next) {
    infer_model_info info;
    infer_top *top;
    int ok;
    if (infer_model_get_info(model, &info) != INFER_OK) return 0;
    if (n == 0) return cli_fail(command, "the prompt has no tokens") == CLI_DONE;
    if (n > (size_t)infer_session_capacity(session))
        return cli_fail(command, "the prompt does not fit into a context of %ld positions (--ctx)",
                        (long)infer_session_capacity(session)) == CLI_DONE;
    if (k > info.vocab || next > info.vocab)
        return cli_fail(command, "the vocabulary has %ld tokens, not %ld", (long)info.vocab,
                        (long)(k > next ? k : next)) == CLI_DONE;
    cli_run_begin(session);
    if (k >= 0) ok = score(model, session, ids, n, k);
    else ok = infer_session_eval(session, ids, (int32_t)n) == INFER_OK ||
              cli_fail(command, "%s", infer_session_error(session)->message) == CLI_DONE;
    cli_run_end();
    if (!ok || next == 0) return ok;
    top = cli_alloc(command, (size_t)next, sizeof *top);
    ok = top != NULL && (infer_session_top(session, -1, next, top) == INFER_OK ||
                         cli_fail(command, "%s", infer_session_error(session)->message) == CLI_DONE);
    if (ok) {
        printf("{\"next\": ");
        ok = print_top(model, top, next);
        printf("}\n");
    }
    free(top);
    return ok;
}
