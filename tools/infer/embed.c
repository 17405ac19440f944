/* embed.c: `infer embed`, one vector per text. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

enum { AS_TEXT, AS_JSON, AS_JSONL, AS_CSV };

typedef struct embedder {
    int form;
    FILE *file;      /* of --out */
    float *rows;     /* of --out: all of them, since their number comes first */
    int32_t *texts;  /* and which texts they are of */
    size_t n, cap;
    int32_t width;
    int tokens;      /* a text has a vector for each token */
    int failed;
} embedder;

static void print_row(const embedder *e, const float *v, int32_t width) {
    int32_t k;
    for (k = 0; k < width; k++) {
        if (e->form == AS_TEXT || e->form == AS_CSV) printf("%s%.9g", k == 0 ? "" : e->form == AS_CSV ? "," : " ", (double)v[k]);
        else {
            printf(k ? ", " : "[");
            json_number(stdout, v[k]);
        }
    }
    if (e->form == AS_JSON || e->form == AS_JSONL) putchar(']');
}

static void print_text(const embedder *e, int32_t text, const float *v, int32_t rows, int32_t width) {
    int32_t i;
    if (e->form == AS_JSON) printf(text ? ",\n  " : "[\n  ");
    if (e->form == AS_JSON || e->form == AS_JSONL)
        printf("{\"index\": %ld, \"%s\": %s", (long)text, e->tokens ? "embeddings" : "embedding", e->tokens ? "[" : "");
    for (i = 0; i < rows; i++) {
        if (e->form == AS_CSV) printf("%ld,", (long)text);
        if (i && (e->form == AS_JSON || e->form == AS_JSONL)) printf(", ");
        print_row(e, v + (size_t)i * (size_t)width, width);
        if (e->form == AS_TEXT || e->form == AS_CSV) putchar('\n');
    }
    if (e->form == AS_JSON || e->form == AS_JSONL) printf(e->tokens ? "]}" : "}");
    if (e->form == AS_JSONL) putchar('\n');
}

static int each(void *user, int32_t text, const float *v, int32_t rows, int32_t width, const infer_error *error) {
    embedder *e = (embedder *)user;
    void *p;
    int32_t i;
    (void)error; /* the first one ends the call */
    e->width = width;
    if (e->file == NULL) {
        print_text(e, text, v, rows, width);
        return 0;
    }
    if (e->n + (size_t)rows > e->cap) {
        e->cap = 2 * e->cap + (size_t)rows + 64;
        p = cli_grow("embed", e->rows, e->cap, (size_t)width * sizeof *e->rows);
        if (p) e->rows = (float *)p;
        e->failed |= p == NULL;
        p = cli_grow("embed", e->texts, e->cap, sizeof *e->texts);
        if (p) e->texts = (int32_t *)p;
        e->failed |= p == NULL;
        if (e->failed) return 1;
    }
    memcpy(e->rows + e->n * (size_t)width, v, (size_t)rows * (size_t)width * sizeof *v);
    for (i = 0; i < rows; i++) e->texts[e->n++] = text;
    return 0;
}

static int embed(embedder *e, infer_model *model, infer_context *context, const cli_texts *t, infer_embed_params *p, const char *out) {
    infer_model_info info;
    infer_error err;
    cli_progress bar;
    int32_t head[2];
    int ok = infer_model_get_info(model, &info) == INFER_OK;
    e->tokens = p->pooling == INFER_POOL_NONE || (p->pooling == INFER_POOL_DEFAULT && ok && info.pooling == INFER_POOL_NONE);
    if (out && (e->file = cli_create("embed", out)) == NULL) return 0;
    p->each = each;
    p->user = e;
    p->progress = cli_progress_show;
    p->progress_user = &bar;
    cli_progress_begin(&bar, "embedding");
    if (out == NULL && platform_is_terminal(stdout)) cli_progress_end(&bar); /* the vectors are progress enough */
    ok = infer_embed(context, t->ids ? NULL : t->texts, (int32_t)t->n, p, NULL, &err) == INFER_OK;
    cli_progress_end(&bar);
    if (!ok && !e->failed) cli_fail("embed", "%s", err.message);
    if (!out) {
        if (ok && e->form == AS_JSON) printf(t->n ? "\n]\n" : "[]\n");
        return ok;
    }
    head[0] = (int32_t)e->n;
    head[1] = e->width;
    if (ok && cli_write_i32(e->file, head, 2) && cli_write_i32(e->file, e->texts, e->n))
        cli_write_f32(e->file, e->rows, e->n * (size_t)e->width);
    if (!cli_close("embed", e->file, out)) ok = 0;
    if (!ok && strcmp(out, "-") != 0) platform_remove(out);
    free(e->rows);
    free(e->texts);
    return ok;
}

int cmd_embed(int argc, char **argv) {
    const char *out = NULL, *args[1];
    int64_t pooling = -1, normalize = 2, dimensions = 0, longer = 0;
    int jsonl = 0, csv = 0, status, ok;
    cli_texts_from from;
    infer_embed_params p;
    const cli_option options[] = {
        CLI_TEXTS_OPTIONS(from),
        CLI_IDS_OPTION(from),
        {"--prefix", OPT_TEXT, &p.prefix, "TEXT", "text to put before each text, such as \"query: \" (default: the --lora adapter's)", 0, 0},
        {"--pooling", OPT_CHOICE, &pooling, "none|mean|first|last|rank", "how token vectors become one (default: as the model specifies)", 0, 0},
        {"--normalize", OPT_INT, &normalize, "N", "2 = Euclidean norm (default), 1 = sum of absolute values, 0 = none", 0, 2},
        {"--dimensions", OPT_INT, &dimensions, "D", "keep only the first D values", 0, INT32_MAX},
        {"--long", OPT_CHOICE, &longer, "error|cut|windows", "what to do with texts that are too long (default: error)", 0, 0},
        {"--out", OPT_STRING, &out, "OUT", "write a binary file: int32 n, int32 width, n int32 (text numbers), n x width float32", 0, 0},
        {"--jsonl", OPT_FLAG, &jsonl, NULL, "one JSON object per line", 0, 0},
        {"--csv", OPT_FLAG, &csv, NULL, "one line per vector: the text's number, then the values", 0, 0},
    };
    const cli_spec spec = {"embed",
                           "MODEL --texts FILE",
                           "Embed texts: one vector per text, pooled as the model specifies and scaled to length 1.\n"
                           "Prints one line of numbers per text unless --out is given.\n",
                           options,
                           sizeof options / sizeof options[0],
                           TAKES_MODEL | TAKES_DEVICE | TAKES_COMPUTE | TAKES_CONTEXT | TAKES_ADAPTERS | TAKES_JSON,
                           1,
                           1};
    cli_common common;
    cli_texts texts;
    infer_model *model;
    infer_context *context = NULL;
    embedder e;
    memset(&from, 0, sizeof from);
    memset(&p, 0, sizeof p);
    if (!cli_parse(&spec, argc, argv, &common, args, &status)) return status;
    if (common.json + jsonl + csv > 1) return cli_usage_error("embed", "--json, --jsonl and --csv exclude each other");
    if (out && !cli_check_output("embed", out, (const char *const[]){args[0], from.texts, from.ids}, 3)) return CLI_USAGE;
    status = cli_texts_read("embed", &from, &texts);
    memset(&e, 0, sizeof e);
    e.form = common.json ? AS_JSON : jsonl ? AS_JSONL : csv ? AS_CSV : AS_TEXT;
    p.pooling = (infer_pooling)(pooling < 0 ? INFER_POOL_DEFAULT : INFER_POOL_NONE + pooling);
    p.normalize = normalize == 0 ? -1 : (int32_t)normalize;
    p.dimensions = (int32_t)dimensions;
    p.long_texts = (int32_t)longer;
    cli_texts_params(&texts, &p);
    if (status == CLI_DONE) {
        model = cli_open("embed", args[0], &common, 0);
        if (model && p.prefix == NULL) p.prefix = cli_adapters_prefix();
        ok = model && cli_embed_context("embed", model, &common, &context) && embed(&e, model, context, &texts, &p, out);
        infer_context_destroy(context);
        cli_model_close(model);
        status = ok ? CLI_DONE : CLI_FAILED;
    }
    cli_texts_free(&texts);
    return status;
}
