/* embed.c: `infer embed`, one vector per text. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

enum { RECORD_SEPARATOR = 0x1E };

typedef struct embedder {
    infer_model *model;
    infer_context *context;
    infer_session *session;
    int32_t width;
} embedder;

/* The vector of one text, to out[width]. The session is emptied first. */
static int embed_text(const embedder *e, const char *text, size_t n, float *out) {
    infer_token *ids;
    infer_step step;
    infer_error err;
    infer_result r;
    size_t count;
    if (!cli_tokenize("embed", e->model, text, n, INFER_TEXT_ADD_SPECIAL, &ids, &count)) return 0;
    if (count == 0) {
        free(ids);
        cli_fail("embed", "a text without tokens has no vector");
        return 0;
    }
    memset(&step, 0, sizeof step);
    step.session = e->session;
    step.tokens = ids;
    step.n = (int32_t)count;
    step.outputs = INFER_OUT_HIDDEN;
    infer_session_rewind(e->session, 0);
    r = infer_eval(e->context, &step, 1, &err);
    if (r == INFER_OK) r = infer_session_embedding(e->session, out, &err);
    free(ids);
    if (r == INFER_CONTEXT_FULL) {
        cli_fail("embed", "a text of %lu tokens does not fit into the context (--ctx)", (unsigned long)count);
    } else if (r != INFER_OK) {
        cli_fail("embed", "%s", err.message);
    }
    return r == INFER_OK;
}

static int embed_all(const embedder *e, const char *data, size_t n, float *out) {
    size_t start = 0, end, row = 0;
    while (start <= n) {
        const char *mark = memchr(data + start, RECORD_SEPARATOR, n - start);
        end = mark ? (size_t)(mark - data) : n;
        if (!embed_text(e, data + start, end - start, out + row * (size_t)e->width)) return 0;
        row++;
        start = end + 1;
    }
    return 1;
}

static int write_vectors(const char *out, const float *x, size_t rows, size_t width) {
    size_t i, k;
    if (out) {
        FILE *file = cli_create("embed", out);
        int32_t v = (int32_t)rows;
        if (file == NULL) return 0;
        cli_write_i32(file, &v, 1);
        v = (int32_t)width;
        cli_write_i32(file, &v, 1);
        for (i = 0; i < rows; i++) {
            v = (int32_t)i;
            cli_write_i32(file, &v, 1);
        }
        cli_write_f32(file, x, rows * width);
        return cli_close("embed", file, out);
    }
    for (i = 0; i < rows; i++) {
        for (k = 0; k < width; k++) printf(k ? " %.9g" : "%.9g", (double)x[i * width + k]);
        putchar('\n');
    }
    return 1;
}

static int embed_file(embedder *e, const cli_common *common, const char *texts, const char *out) {
    infer_model_info info;
    infer_context_params params;
    size_t n, i, rows = 1;
    char *data;
    float *x = NULL;
    int ok = 0;
    if (infer_model_get_info(e->model, &info) != INFER_OK) return 0;
    if (!info.computes) {
        cli_fail("embed", "%s", infer_model_why_not(e->model));
        return 0;
    }
    e->width = info.width;
    data = cli_read_file("embed", texts, &n);
    if (data == NULL) return 0;
    for (i = 0; i < n; i++) rows += data[i] == RECORD_SEPARATOR;
    cli_context_params(common, &params);
    x = cli_alloc("embed", rows, (size_t)e->width * sizeof *x);
    if (x && cli_session("embed", e->model, &params, cli_cells(common, e->model, 0), &e->context, &e->session)) {
        ok = embed_all(e, data, n, x) && write_vectors(out, x, rows, (size_t)e->width);
        infer_session_destroy(e->session);
        infer_context_destroy(e->context);
    }
    free(x);
    free(data);
    return ok;
}

int cmd_embed(int argc, char **argv) {
    const char *texts = NULL, *out = NULL, *args[1];
    int status, ok;
    const cli_option options[] = {
        {"--texts", OPT_STRING, &texts, "FILE", "the texts, separated by byte 0x1E; - is stdin", 0, 0},
        {"--out", OPT_STRING, &out, "OUT", "write int32 n, int32 width, n int32 (0, 1, ...), n x width float32", 0, 0},
    };
    const cli_spec spec = {"embed",
                           "MODEL --texts FILE",
                           "One vector per text, pooled as the model says and scaled to length 1. Without --out one\n"
                           "line of numbers per text.\n",
                           options,
                           2,
                           TAKES_MODEL | TAKES_DEVICE | TAKES_COMPUTE | TAKES_CONTEXT,
                           1,
                           1};
    cli_common common;
    embedder e;
    if (!cli_parse(&spec, argc, argv, &common, args, &status)) return status;
    if (texts == NULL) return cli_usage_error("embed", "--texts FILE is missing");
    memset(&e, 0, sizeof e);
    e.model = cli_open("embed", args[0], &common, 0);
    if (e.model == NULL) return CLI_FAILED;
    ok = embed_file(&e, &common, texts, out);
    infer_model_close(e.model);
    return ok ? CLI_DONE : CLI_FAILED;
}
