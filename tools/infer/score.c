/* score.c: `infer rerank`, how well texts answer a query, and `infer classify`, the labels of texts. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

/* The parameters and objects of both commands. */
typedef struct scorer {
    cli_texts texts;
    cli_common common;
    infer_model *model;
    infer_context *context;
    infer_embed_params p;
    cli_progress bar;
    float *scores;
} scorer;

static int scorer_open(scorer *s, const char *command, const char *path, const cli_texts_from *from) {
    infer_model_info info;
    size_t each = 1;
    const int status = cli_texts_read(command, from, &s->texts);
    if (status != CLI_DONE) return status;
    cli_texts_params(&s->texts, &s->p);
    s->model = cli_open(command, path, &s->common, 0);
    if (s->model == NULL || !cli_embed_context(command, s->model, &s->common, &s->context)) return CLI_FAILED;
    if (infer_model_get_info(s->model, &info) == INFER_OK && info.labels > 0) each = (size_t)info.labels;
    s->scores = (float *)cli_alloc(command, s->texts.n * each + 1, sizeof *s->scores);
    s->p.progress = cli_progress_show;
    s->p.progress_user = &s->bar;
    cli_progress_begin(&s->bar, "reading texts");
    return s->scores ? CLI_DONE : CLI_FAILED;
}

static int scorer_close(scorer *s, int status) {
    free(s->scores);
    infer_context_destroy(s->context);
    cli_model_close(s->model);
    cli_texts_free(&s->texts);
    return status;
}

/* ---- rerank --------------------------------------------------------------------------------- */

typedef struct ranked { float score; size_t text; } ranked;

static int better(const void *a, const void *b) {
    const ranked *x = (const ranked *)a, *y = (const ranked *)b;
    if (x->score > y->score) return -1;
    if (x->score < y->score) return 1;
    return x->text < y->text ? -1 : x->text > y->text;
}

static int print_ranked(const scorer *s) {
    ranked *r = (ranked *)cli_alloc("rerank", s->texts.n + 1, sizeof *r);
    size_t i;
    if (r == NULL) return CLI_FAILED;
    for (i = 0; i < s->texts.n; i++) {
        r[i].score = s->scores[i];
        r[i].text = i;
    }
    qsort(r, s->texts.n, sizeof *r, better);
    if (s->common.json) printf("[");
    for (i = 0; i < s->texts.n; i++) {
        if (!s->common.json) {
            printf("%.9g\t%lu\n", (double)r[i].score, (unsigned long)r[i].text);
            continue;
        }
        printf("%s{\"index\": %lu, \"score\": ", i ? ",\n " : "", (unsigned long)r[i].text);
        json_number(stdout, r[i].score);
        printf("}");
    }
    if (s->common.json) printf("]\n");
    free(r);
    return CLI_DONE;
}

int cmd_rerank(int argc, char **argv) {
    const char *args[1], *query = NULL;
    int64_t longer = 0;
    int status;
    cli_texts_from from;
    infer_error err;
    infer_result result;
    scorer s;
    const cli_option options[] = {
        {"--query", OPT_STRING, &query, "TEXT", "the query that the texts should answer", 0, 0},
        CLI_TEXTS_OPTIONS(from),
        {"--instruction", OPT_TEXT, &s.p.prefix, "TEXT", "what to judge by, for models that take an instruction", 0, 0},
        {"--prompt", OPT_TEXT, &s.p.pair, "TEXT", "a prompt with {query} and {document} instead of the file's", 0, 0},
        {"--long", OPT_CHOICE, &longer, "error|cut", "what to do with texts that are too long (default: error)", 0, 0},
    };
    const cli_spec spec = {"rerank",
                           "MODEL --query TEXT --texts FILE",
                           "Rank texts by how well they answer the query: one line per text, best first, with its\n"
                           "score and its number (from 0).\n",
                           options,
                           sizeof options / sizeof options[0],
                           TAKES_MODEL | TAKES_DEVICE | TAKES_COMPUTE | TAKES_CONTEXT | TAKES_ADAPTERS | TAKES_JSON,
                           1,
                           1};
    memset(&from, 0, sizeof from);
    memset(&s, 0, sizeof s);
    if (!cli_parse(&spec, argc, argv, &s.common, args, &status)) return status;
    if (query == NULL) return cli_usage_error("rerank", "--query TEXT is missing");
    s.p.long_texts = (int32_t)longer;
    status = scorer_open(&s, "rerank", args[0], &from);
    if (status != CLI_DONE) return scorer_close(&s, status);
    result = infer_rerank(s.context, query, s.texts.texts, (int32_t)s.texts.n, &s.p, s.scores, &err);
    cli_progress_end(&s.bar);
    if (result != INFER_OK)
        return scorer_close(&s, cli_fail("rerank", "%s", err.message));
    return scorer_close(&s, print_ranked(&s));
}

/* ---- classify ------------------------------------------------------------------------------- */

static void print_label(const scorer *s, int32_t label) {
    char name[256];
    size_t n;
    if (infer_model_label(s->model, label, name, sizeof name, &n) != INFER_OK) snprintf(name, sizeof name, "%ld", (long)label);
    if (s->common.json) json_text(stdout, name);
    else printf("%s", name);
}

/* A line per text: its number, then labels with their probabilities, the best first. */
static int print_labels(const scorer *s, int32_t labels) {
    ranked *r = (ranked *)cli_alloc("classify", (size_t)labels, sizeof *r);
    size_t i;
    int32_t k;
    if (r == NULL) return CLI_FAILED;
    if (s->common.json) printf("[");
    for (i = 0; i < s->texts.n; i++) {
        for (k = 0; k < labels; k++) {
            r[k].score = s->scores[i * (size_t)labels + (size_t)k];
            r[k].text = (size_t)k;
        }
        qsort(r, (size_t)labels, sizeof *r, better);
        if (s->common.json) printf("%s{\"index\": %lu, \"labels\": [", i ? ",\n " : "", (unsigned long)i);
        else printf("%lu", (unsigned long)i);
        for (k = 0; k < labels; k++) {
            printf(s->common.json ? "%s{\"label\": " : "%s", !s->common.json ? "\t" : k ? ", " : "");
            print_label(s, (int32_t)r[k].text);
            printf(s->common.json ? ", \"probability\": " : " %.6f", (double)r[k].score);
            if (s->common.json) json_number(stdout, r[k].score);
            if (s->common.json) printf("}");
        }
        printf(s->common.json ? "]}" : "\n");
    }
    if (s->common.json) printf("]\n");
    free(r);
    return CLI_DONE;
}

int cmd_classify(int argc, char **argv) {
    const char *args[1];
    int64_t longer = 0;
    int status;
    cli_texts_from from;
    infer_model_info info;
    infer_error err;
    infer_result result;
    scorer s;
    const cli_option options[] = {
        CLI_TEXTS_OPTIONS(from),
        CLI_IDS_OPTION(from),
        {"--prefix", OPT_TEXT, &s.p.prefix, "TEXT", "text to put before each text", 0, 0},
        {"--long", OPT_CHOICE, &longer, "error|cut", "what to do with texts that are too long (default: error)", 0, 0},
    };
    const cli_spec spec = {"classify",
                           "MODEL --texts FILE",
                           "Classify texts: one line per text with its number (from 0) and the labels with their\n"
                           "probabilities, most likely first.\n",
                           options,
                           sizeof options / sizeof options[0],
                           TAKES_MODEL | TAKES_DEVICE | TAKES_COMPUTE | TAKES_CONTEXT | TAKES_ADAPTERS | TAKES_JSON,
                           1,
                           1};
    memset(&from, 0, sizeof from);
    memset(&s, 0, sizeof s);
    if (!cli_parse(&spec, argc, argv, &s.common, args, &status)) return status;
    s.p.long_texts = (int32_t)longer;
    status = scorer_open(&s, "classify", args[0], &from);
    if (status != CLI_DONE) return scorer_close(&s, status);
    result = infer_classify(s.context, s.texts.ids ? NULL : s.texts.texts, (int32_t)s.texts.n, &s.p, s.scores, &err);
    cli_progress_end(&s.bar);
    if (result != INFER_OK || infer_model_get_info(s.model, &info) != INFER_OK)
        return scorer_close(&s, cli_fail("classify", "%s", err.message));
    return scorer_close(&s, print_labels(&s, info.labels));
}
