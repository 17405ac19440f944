/* logits.c: `infer logits`, the logits (or final hidden states) after every position of a list of ids. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

typedef struct job {
    infer_context *context;
    infer_session *session;
    const infer_token *ids, *source; /* source: what an encoder reads first; NULL = nothing */
    size_t n, n_source, step;
    cli_media media; /* what ids below -1 stand for; they have no rows */
    int32_t width, outputs;
    FILE *file;
} job;

/* Evaluate everything, `step` ids at a time, writing the rows of each step as they come. */
static int write_rows(const job *j) {
    size_t done, row;
    infer_error err;
    if (j->source && infer_session_encode(j->session, j->source, (int32_t)j->n_source) != INFER_OK) {
        cli_fail("logits", "%s", infer_session_error(j->session)->message);
        return 0;
    }
    for (done = 0; done < j->n; done += j->step) {
        infer_step step;
        infer_result r;
        memset(&step, 0, sizeof step);
        step.session = j->session;
        step.tokens = j->ids + done;
        step.n = (int32_t)(j->n - done < j->step ? j->n - done : j->step);
        step.outputs = j->outputs;
        r = infer_eval(j->context, &step, 1, &err);
        if (r == INFER_CONTEXT_FULL) {
            cli_fail("logits", "%lu ids do not fit into a context of %ld positions (--ctx)", (unsigned long)j->n,
                     (long)infer_session_capacity(j->session));
            return 0;
        }
        if (r != INFER_OK) {
            cli_fail("logits", "%s", err.message);
            return 0;
        }
        for (row = 0; row < (size_t)step.n; row++) {
            const float *x;
            if (j->ids[done + row] < 0) continue;
            x = j->outputs == INFER_OUT_HIDDEN ? infer_session_hidden(j->session, (int32_t)row)
                                                : infer_session_logits(j->session, (int32_t)row);
            if (x == NULL) {
                cli_fail("logits", "no result for id %lu", (unsigned long)(done + row));
                return 0;
            }
            if (!cli_write_f32(j->file, x, (size_t)j->width)) return 1; /* cli_close reports it */
        }
    }
    return 1;
}

/* The whole file. It is removed if the work fails: an incomplete file would look like a result. */
static int write_file(job *j, const char *out) {
    int32_t head[2];
    size_t i;
    int ok;
    j->file = cli_create("logits", out);
    if (j->file == NULL) return 0;
    for (i = 0, head[0] = 0; i < j->n; i++) head[0] += j->ids[i] >= 0;
    head[1] = j->width;
    ok = cli_write_i32(j->file, head, 2);
    for (i = 0; ok && i < j->n; i++) ok = j->ids[i] < 0 || cli_write_i32(j->file, j->ids + i, 1);
    ok = ok && write_rows(j);
    if (!cli_close("logits", j->file, out)) ok = 0;
    if (!ok && strcmp(out, "-") != 0) platform_remove(out);
    return ok;
}

static int evaluate(job *j, infer_model *model, const cli_common *common, int64_t batch, const char *out) {
    infer_context_params params;
    infer_model_info info;
    const size_t most = j->n > j->n_source ? j->n : j->n_source;
    int ok;
    if (infer_model_get_info(model, &info) != INFER_OK) return 0;
    if (!info.computes) {
        cli_fail("logits", "%s", infer_model_why_not(model));
        return 0;
    }
    if (info.embedding_only && j->outputs != INFER_OUT_HIDDEN) {
        cli_fail("logits", "the model has no logits: use --embeddings");
        return 0;
    }
    j->width = j->outputs == INFER_OUT_HIDDEN ? info.width : info.vocab;
    j->step = batch ? (size_t)batch : j->n;
    cli_context_params(common, &params);
    if (batch && batch < 512) params.batch = (int32_t)batch;
    if (j->n_source > (params.batch ? (size_t)params.batch : 512)) params.batch = (int32_t)j->n_source; /* one pass reads it */
    if (!cli_session("logits", model, &params, cli_cells(common, model, most), &j->context, &j->session)) return 0;
    ok = infer_session_media(j->session, j->media.items, j->media.n) == INFER_OK ||
         cli_fail("logits", "%s", infer_session_error(j->session)->message) == CLI_DONE;
    ok = ok && write_file(j, out);
    infer_session_destroy(j->session);
    infer_context_destroy(j->context);
    return ok;
}

/* The ids of a file: 0 after saying what is wrong. */
static int read_ids(const char *path, infer_token **ids, size_t *n) {
    size_t bytes;
    char *data = cli_read_file("logits", path, &bytes);
    int ok = data && cli_parse_ids("logits", path, data, bytes, ids, n);
    free(data);
    if (ok && *n == 0) ok = cli_fail("logits", "%s holds no ids", path) == CLI_DONE;
    if (ok && *n > INT32_MAX) ok = cli_fail("logits", "%s holds too many ids", path) == CLI_DONE;
    return ok;
}

int cmd_logits(int argc, char **argv) {
    const char *ids_path = NULL, *source_path = NULL, *out = NULL, *prompt = NULL, *args[1];
    char *text = NULL;
    size_t n_text = 0;
    int embeddings = 0, status, ok;
    int64_t batch = 0;
    const cli_option options[] = {
        {"--ids", OPT_STRING, &ids_path, "FILE", "whitespace-separated ids; - is stdin", 0, 0},
        {"-p,--prompt", OPT_STRING, &prompt, "TEXT", "a text instead of ids, special tokens parsed; pictures and sounds are at <__media__>, or before it", 0, 0},
        {"--encoder-ids", OPT_STRING, &source_path, "FILE", "encoder input of an encoder-decoder model (--ids is for the decoder)", 0, 0},
        {"--out", OPT_STRING, &out, "OUT", "output file; - is stdout", 0, 0},
        {"--embeddings", OPT_FLAG, &embeddings, NULL, "write the final hidden states instead", 0, 0},
        {"-b,--batch|--batch-size,-ub,--ubatch-size", OPT_INT, &batch, "N", "evaluate N ids per step (default: all at once)", 1, INT32_MAX},
    };
    const cli_spec spec = {"logits",
                           "MODEL --ids FILE --out OUT",
                           "Logits after every position; those of pictures and sounds are left out. OUT is little-endian:\n"
                           "int32 n, int32 width, n int32 ids, n x width float32.\n",
                           options,
                           sizeof options / sizeof options[0],
                           TAKES_MODEL | TAKES_DEVICE | TAKES_COMPUTE | TAKES_CONTEXT | TAKES_ADAPTERS | TAKES_MEDIA,
                           1,
                           1};
    cli_common common;
    infer_model *model;
    infer_token *ids = NULL, *source = NULL;
    job j;
    if (!cli_parse(&spec, argc, argv, &common, args, &status)) return status;
    if ((ids_path == NULL) == (prompt == NULL) || out == NULL)
        return cli_usage_error("logits", "--ids FILE (or -p TEXT) and --out OUT are needed");
    if (common.media.n && (!prompt || batch || source_path)) return cli_usage_error("logits", "--image is for -p TEXT alone");
    if (!cli_check_output("logits", out, (const char *const[]){args[0], ids_path, source_path}, 3) ||
        !cli_check_output("logits", out, common.media.items, (size_t)common.media.n))
        return CLI_USAGE;
    memset(&j, 0, sizeof j);
    j.outputs = embeddings ? INFER_OUT_HIDDEN : INFER_OUT_ALL;
    if (prompt) ok = (text = cli_media_prompt("logits", cli_prompt("logits", prompt, NULL, 0, &n_text), &n_text, common.media.n)) != NULL;
    else ok = read_ids(ids_path, &ids, &j.n);
    ok = ok && (source_path == NULL || read_ids(source_path, &source, &j.n_source));
    if (ok) {
        j.source = source;
        common.needs = (int64_t)(j.n > j.n_source ? j.n : j.n_source);
        if (common.needs <= 4096) common.needs = 0; /* see cli_cells */
        model = cli_open("logits", args[0], &common, 0);
        ok = model != NULL && cli_media_open_all("logits", model, &common, &j.media) &&
             (text == NULL || cli_media_tokenize("logits", model, text, n_text, INFER_TEXT_ADD_SPECIAL | INFER_TEXT_PARSE_SPECIAL, &j.media, &ids, &j.n));
        if (ok && j.n == 0) ok = cli_fail("logits", "the text is empty") == CLI_DONE;
        j.ids = ids;
        ok = ok && evaluate(&j, model, &common, batch, out);
        cli_media_free(&j.media);
        cli_model_close(model);
    }
    free(text);
    free(ids);
    free(source);
    return ok ? CLI_DONE : CLI_FAILED;
}
