/* windows.c: a text cut into windows, and each of them evaluated. */
#include "quality.h"

#include <stdlib.h>
#include <string.h>

/* The empty text's first token, unless only an end is put there. */
infer_token quality_bos(const infer_model *model) {
    infer_token ids[4];
    infer_meta end;
    size_t n = 0;
    memset(&end, 0, sizeof end);
    if (infer_tokenize(model, "", 0, INFER_TEXT_ADD_SPECIAL, ids, 4, &n, NULL) != INFER_OK || n == 0 || n > 4) return -1;
    if (infer_meta_value(model, "tokenizer.ggml.add_eos_token", &end) == INFER_OK && end.u) n--;
    return n ? ids[0] : -1;
}

/* The first half is context only, and nothing follows the last token. */
int32_t quality_rows(int32_t size) { return size - 1 - size / 2; }

int32_t quality_piece(const infer_context_params *params, int32_t vocab) {
    enum { BYTES = 64 << 20, LEAST = 16 };
    int32_t n = (int32_t)(BYTES / sizeof(float) / (size_t)vocab);
    if (params->batch && n > params->batch) n = params->batch;
    return n < LEAST ? LEAST : n;
}

int quality_step(const char *command, infer_context *context, infer_session *session, const infer_token *ids, int32_t n, int32_t outputs) {
    infer_step step;
    infer_error err;
    memset(&step, 0, sizeof step);
    step.session = session;
    step.tokens = ids;
    step.n = n;
    step.outputs = outputs;
    return infer_eval(context, &step, 1, &err) == INFER_OK || cli_run_interrupted() || cli_fail(command, "%s", err.message) == CLI_DONE;
}

static int window(const char *command, infer_context *context, infer_session *session, const infer_token *ids, int32_t size, int32_t piece,
                  quality_row *row, void *user) {
    const int32_t first = size / 2, end = size - 1;
    int32_t at, n, i;
    infer_session_rewind(session, 0);
    if (!quality_step(command, context, session, ids, first, INFER_OUT_NONE)) return 0;
    for (at = first; at < end && !cli_run_interrupted(); at += n) {
        n = end - at < piece ? end - at : piece;
        if (!quality_step(command, context, session, ids + at, n, INFER_OUT_ALL)) return 0;
        for (i = 0; i < n && !cli_run_interrupted(); i++) {
            const float *logits = infer_session_logits(session, i);
            if (logits == NULL) return cli_fail(command, "no logits at position %ld", (long)(at + i)) == CLI_DONE;
            if (!row(user, logits, ids[at + i + 1])) return 0;
        }
    }
    return 1;
}

int quality_predicts(const char *command, const infer_model *model) {
    infer_model_info info;
    const char *why = NULL;
    if (infer_model_get_info(model, &info) != INFER_OK || !info.computes) why = infer_model_why_not(model);
    else if (info.embedding_only) why = "the model has no logits";
    else if (info.masked) why = "the model fills in masked tokens: it does not predict the next one";
    else if (info.decoder_start >= 0) why = "the model has an encoder, which reads another text";
    return why == NULL || cli_fail(command, "%s", why) == CLI_DONE;
}

static int check_tokens(const char *command, const quality_text *text, int32_t vocab) {
    size_t i;
    for (i = 0; i < (size_t)text->size * (size_t)text->n_windows; i++)
        if (text->tokens[i] < 0 || text->tokens[i] >= vocab)
            return cli_fail(command, "token %ld of the text is %ld: the vocabulary has %ld", (long)i, (long)text->tokens[i], (long)vocab) == CLI_DONE;
    return 1;
}

int quality_eval(const char *command, infer_model *model, const cli_common *common, const quality_text *text, quality_row *row, void *user) {
    const infer_token bos = quality_bos(model);
    infer_context_params params;
    infer_model_info info;
    infer_context *context = NULL;
    infer_session *session = NULL;
    infer_token *ids;
    cli_progress bar;
    int32_t i, piece;
    int ok;
    if (infer_model_get_info(model, &info) != INFER_OK || !check_tokens(command, text, info.vocab)) return CLI_FAILED;
    if (info.context && text->size > info.context)
        fprintf(stderr, "infer %s: the model was trained for %ld positions: windows of %ld may say little\n", command, (long)info.context, (long)text->size);
    ids = cli_alloc(command, (size_t)text->size, sizeof *ids);
    cli_context_params(common, &params);
    piece = quality_piece(&params, info.vocab);
    ok = ids && cli_session(command, model, &params, text->size, &context, &session);
    if (ok) cli_run_begin(session);
    cli_progress_begin(&bar, "evaluating");
    for (i = 0; ok && i < text->n_windows && !cli_run_interrupted(); i++) {
        memcpy(ids, text->tokens + (size_t)i * (size_t)text->size, (size_t)text->size * sizeof *ids);
        if (bos >= 0) ids[0] = bos;
        ok = window(command, context, session, ids, text->size, piece, row, user);
        cli_progress_show(&bar, (float)(i + 1) / (float)text->n_windows);
    }
    cli_progress_end(&bar);
    if (session) cli_run_end();
    infer_session_destroy(session);
    infer_context_destroy(context);
    free(ids);
    return !ok ? CLI_FAILED : cli_run_interrupted() ? CLI_INTERRUPTED : CLI_DONE;
}
