/* imatrix_eval.c: importance from a text: it is cut into chunks, each is evaluated by itself from its beginning, and every matrix's inputs
 * are squared and added up. */
#include "imatrix_eval.h"
#include "../quality/quality.h"

#include <stdlib.h>
#include <string.h>

/* ---- sums ----------------------------------------------------------------------------------- */

/* Loops of fixed length are vectorised without -O3, and with the squares apart although sum and x might overlap. */
static void add_squares(float *sum, const float *x, size_t n) {
    enum { STEP = 16 };
    float squares[STEP];
    size_t i, k;
    for (i = 0; i + STEP <= n; i += STEP) {
        for (k = 0; k < STEP; k++) squares[k] = x[i + k] * x[i + k];
        for (k = 0; k < STEP; k++) sum[i + k] += squares[k];
    }
    for (; i < n; i++) sum[i] += x[i] * x[i];
}

/* infer_inputs_fn */
static void add_inputs(void *user, int32_t tensor, int32_t matrix, const float *x, size_t rows, size_t cols) {
    imatrix_eval *e = user;
    imatrix_sum *t = e->of[tensor];
    size_t i;
    if (t == NULL && !e->failed) {
        infer_tensor_info *info = &e->tensors[tensor];
        t = e->of[tensor] = imatrix_sums_add(e->sums, info->name, info->dims[0] * info->dims[2], info->dims[2]);
    }
    if (t == NULL) {
        e->failed = 1;
        return;
    }
    for (i = 0; i < rows; i++) add_squares(t->chunk + (size_t)matrix * cols, x + i * cols, cols);
    t->chunk_counts[matrix] += (double)rows;
}

/* ---- the model ------------------------------------------------------------------------------ */

/* What was added up before must fit the model. */
static int check_sum(imatrix_eval *e, imatrix_sum *t, const char *path) {
    const infer_tensor_info *info = NULL;
    int32_t i;
    for (i = 0; i < e->n_tensors && !info; i++)
        if (strcmp(e->tensors[i].name, t->name) == 0) {
            info = &e->tensors[i];
            e->of[i] = t;
        }
    if (info == NULL) return cli_fail(e->sums->command, "%s has no tensor %s: --in is of another model", path, t->name) == CLI_DONE;
    if (t->n_values != info->dims[0] * info->dims[2] || (t->n_counts != 1 && t->n_counts != info->dims[2]))
        return cli_fail(e->sums->command, "%s: %s has %lu columns, --in %lu: it is of another model", path, t->name, (unsigned long)(info->dims[0] * info->dims[2]),
                        (unsigned long)t->n_values) == CLI_DONE;
    return imatrix_spread(e->sums->command, t, info->dims[2]);
}

static int has_further_blocks(const imatrix_eval *e) {
    int32_t i;
    for (i = 0; i < e->n_tensors; i++)
        if (strstr(e->tensors[i].name, ".nextn.")) return 1;
    return 0;
}

static int list_tensors(imatrix_eval *e) {
    int32_t i;
    e->n_tensors = infer_tensor_count(e->model);
    e->tensors = cli_grow(e->sums->command, e->tensors, (size_t)e->n_tensors + 1, sizeof *e->tensors);
    if (e->tensors == NULL) return 0;
    for (i = 0; i < e->n_tensors; i++)
        if (infer_tensor_get(e->model, i, &e->tensors[i]) != INFER_OK) return 0;
    return 1;
}

static int open_once(imatrix_eval *e, const char *path, int mtp) {
    cli_model_close(e->model);
    e->common->mtp = mtp;
    e->model = cli_open(e->sums->command, path, e->common, 0);
    return e->model && list_tensors(e) && infer_model_get_info(e->model, &e->info) == INFER_OK;
}

/* Blocks of multi-token prediction are read if the library knows them: they are quantised like layers. */
static int open_model(imatrix_eval *e, const char *path) {
    if (!open_once(e, path, 0)) return 0;
    if (e->info.computes && has_further_blocks(e) && (!open_once(e, path, 1) || (!e->info.computes && !open_once(e, path, 0)))) return 0;
    return e->info.computes || cli_fail(e->sums->command, "%s: %s", path, infer_model_why_not(e->model)) == CLI_DONE;
}

int imatrix_eval_open(imatrix_eval *e, const char *path) {
    if (!open_model(e, path)) return 0;
    e->of = cli_alloc(e->sums->command, (size_t)e->n_tensors + 1, sizeof *e->of);
    if (e->of == NULL) return 0;
    memset((void *)e->of, 0, ((size_t)e->n_tensors + 1) * sizeof *e->of);
    for (e->output = 0; e->output < e->n_tensors && strcmp(e->tensors[e->output].name, "output.weight") != 0; e->output++) {}
    if (e->output == e->n_tensors) e->output = -1;
    return 1;
}

int imatrix_eval_fit(imatrix_eval *e, const char *path) {
    size_t i;
    for (i = 0; i < e->sums->n; i++)
        if (!check_sum(e, e->sums->items[i], path)) return 0;
    return 1;
}

void imatrix_eval_close(imatrix_eval *e) {
    infer_session_destroy(e->session);
    infer_context_destroy(e->context);
    free(e->tensors);
    free((void *)e->of);
    free(e->ids);
    cli_model_close(e->model);
}

/* ---- chunks --------------------------------------------------------------------------------- */

int imatrix_eval_begin(imatrix_eval *e) {
    const char *command = e->sums->command;
    const size_t size = (size_t)e->sums->chunk_size;
    const int whole = e->info.embedding_only || e->info.masked || e->info.decoder_start >= 0; /* tokens see each other */
    infer_context_params params;
    if (e->info.context && size > (size_t)e->info.context)
        fprintf(stderr, "warning: the model was trained for %ld positions: chunks of %lu may say little\n", (long)e->info.context, (unsigned long)size);
    cli_context_params(e->common, &params);
    if (whole && params.batch < (int32_t)size) params.batch = (int32_t)size;
    params.inputs = add_inputs;
    params.inputs_user = e;
    e->bos = quality_bos(e->model);
    e->ids = cli_alloc(command, size, sizeof *e->ids);
    return e->ids && cli_session(command, e->model, &params, (int32_t)size, &e->context, &e->session);
}

/* The head's inputs are the last hidden states; its product itself is not needed. */
static void add_output(imatrix_eval *e) {
    int32_t i;
    for (i = 0; i < (int32_t)e->sums->chunk_size && !e->failed; i++) {
        const float *x = infer_session_hidden(e->session, i);
        if (x) add_inputs(e, e->output, 0, x, 1, (size_t)e->tensors[e->output].dims[0]);
        else e->failed = cli_fail(e->sums->command, "no hidden state at position %ld", (long)i) != CLI_DONE;
    }
}

/* A model with an encoder reads the chunk, and then answers it with the same text. */
static int encode(imatrix_eval *e) {
    const int32_t n = (int32_t)e->sums->chunk_size;
    if (e->info.decoder_start < 0) return 1;
    if (infer_session_encode(e->session, e->ids, n) != INFER_OK && !cli_run_interrupted())
        return cli_fail(e->sums->command, "%s", infer_session_error(e->session)->message) == CLI_DONE;
    memmove(e->ids + 1, e->ids, ((size_t)n - 1) * sizeof *e->ids);
    e->ids[0] = e->info.decoder_start;
    return 1;
}

int imatrix_eval_chunk(imatrix_eval *e, const infer_token *tokens) {
    const int32_t n = (int32_t)e->sums->chunk_size;
    const int output = e->with_output && e->output >= 0;
    memcpy(e->ids, tokens, (size_t)n * sizeof *tokens);
    if (e->bos >= 0) e->ids[0] = e->bos;
    infer_session_rewind(e->session, 0);
    if (!encode(e)) return 0;
    if (!cli_run_interrupted() && !quality_step(e->sums->command, e->context, e->session, e->ids, n, output ? INFER_OUT_HIDDEN : INFER_OUT_NONE)) return 0;
    if (cli_run_interrupted()) return 1;
    if (output) add_output(e);
    return !e->failed && imatrix_chunk_done(e->sums);
}
