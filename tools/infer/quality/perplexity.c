/* perplexity.c: `infer perplexity`, how well models predict a text. */
#include "quality.h"
#include "../files/files.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_MODELS = 64, WINDOW = 512 };

typedef struct job {
    const char *text_path, *save, *reference;
    int64_t chunks, form; /* chunks: at most so many windows or questions, 0 = all; form: CHOICES_* */
    cli_common common;
    char *data; /* of text_path */
    size_t n_data;
    int course; /* how figures change along the text is recorded */
} job;

/* ---- one model ------------------------------------------------------------------------------ */

typedef struct rows {
    quality_sums *sums;
    reference from, to; /* NULL files: none */
    int32_t vocab;
    const char *save; /* what `to` is written as */
} rows;

static int add_row(void *user, const float *logits, infer_token next) {
    rows *r = user;
    if (r->to.file && !reference_write(&r->to, logits)) return cli_fail("perplexity", "cannot write %s: is there space left?", r->save) == CLI_DONE;
    if (r->from.file) {
        const float *base = reference_read(&r->from);
        if (base == NULL) return 0;
        quality_add_beside(r->sums, logits, base, r->vocab, next);
    } else quality_add(r->sums, logits, r->vocab, next);
    return 1;
}

/* The text's tokens by this model. */
static int read_text(job *j, const infer_model *model, quality_text *text) {
    size_t n = j->n_data;
    memset(text, 0, sizeof *text);
    if (n > 0 && j->data[n - 1] == '\n') n--; /* as llama.cpp reads prompts */
    if (!cli_tokenize("perplexity", model, j->data, n, INFER_TEXT_ADD_SPECIAL, &text->tokens, &text->n)) return 0;
    text->size = j->common.ctx || j->common.ctx_whole ? cli_cells(&j->common, model, 0) : WINDOW;
    if (text->size < 4) return cli_fail("perplexity", "--ctx %ld: at least 4 positions are needed", (long)text->size) == CLI_DONE;
    if (text->n / (size_t)text->size < 2)
        return cli_fail("perplexity", "%s has %lu tokens: at least two windows of %ld are needed (--ctx)", j->text_path, (unsigned long)text->n,
                        (long)text->size) == CLI_DONE;
    text->n_windows = text->n / (size_t)text->size > INT32_MAX / (size_t)text->size ? INT32_MAX / text->size : (int32_t)(text->n / (size_t)text->size);
    return 1;
}

/* A reference's tokens must be the text's, as this model reads it, or what is beside it is of something else. */
static int same_text(job *j, const infer_model *model, const quality_text *of_reference) {
    quality_text text;
    const size_t n = of_reference->n;
    int ok = read_text(j, model, &text);
    if (ok && (text.size != of_reference->size || text.n < n || memcmp(text.tokens, of_reference->tokens, n * sizeof *text.tokens) != 0))
        ok = cli_fail("perplexity", "%s was made from another text, or with other tokens or windows", j->reference) == CLI_DONE;
    free(text.tokens);
    return ok;
}

static int measure(job *j, infer_model *model, quality_text *text, rows *r, out_file *out) {
    infer_model_info info;
    size_t n;
    if (infer_model_get_info(model, &info) != INFER_OK) return CLI_FAILED;
    r->vocab = info.vocab;
    if (j->reference) {
        if (!reference_open(&r->from, "perplexity", j->reference, text)) return CLI_FAILED;
        if (r->from.vocab != info.vocab)
            return cli_fail("perplexity", "%s is of a vocabulary of %ld tokens, the model has %ld", j->reference, (long)r->from.vocab, (long)info.vocab);
        if (j->common.ctx && j->common.ctx != text->size)
            return cli_fail("perplexity", "%s has windows of %ld, not %ld", j->reference, (long)text->size, (long)j->common.ctx);
        j->common.ctx = text->size;
        if (j->data && !same_text(j, model, text)) return CLI_FAILED;
    } else if (!read_text(j, model, text)) return CLI_FAILED;
    if (j->chunks > 0 && text->n_windows > j->chunks) text->n_windows = (int32_t)j->chunks;
    n = (size_t)text->n_windows * (size_t)quality_rows(text->size);
    if (j->reference) r->sums->kls = cli_alloc("perplexity", n, sizeof *r->sums->kls);
    else if (j->course) r->sums->losses = cli_alloc("perplexity", n, sizeof *r->sums->losses);
    if ((j->reference && r->sums->kls == NULL) || (!j->reference && j->course && r->sums->losses == NULL)) return CLI_FAILED;
    if (j->save && (!out_open(out, "perplexity", j->save) || !reference_create(&r->to, "perplexity", out->out.file, text, info.vocab))) return CLI_FAILED;
    return quality_eval("perplexity", model, &j->common, text, add_row, r);
}

static int answer(job *j, infer_model *model, choices_result *out) {
    choices c;
    memset(&c, 0, sizeof c);
    c.command = "perplexity";
    c.path = j->text_path;
    c.form = (int)j->form;
    c.data = j->data;
    c.n = j->n_data;
    return choices_eval(&c, model, &j->common, j->chunks, out);
}

static int run_model(job *j, const char *path, quality_result *res) {
    const int64_t ctx = j->common.ctx; /* what the reference says is of this model */
    out_file out;
    quality_text text;
    rows r;
    infer_model_info info;
    infer_model *model = cli_open("perplexity", path, &j->common, 0);
    int status = model && quality_predicts("perplexity", model) ? CLI_DONE : CLI_FAILED;
    memset(&out, 0, sizeof out);
    memset(&text, 0, sizeof text);
    memset(&r, 0, sizeof r);
    memset(res, 0, sizeof *res);
    r.sums = &res->sums;
    r.save = j->save;
    if (status == CLI_DONE && j->form != CHOICES_NONE) status = answer(j, model, &res->choices);
    else if (status == CLI_DONE) status = measure(j, model, &text, &r, &out);
    if (model && infer_model_get_info(model, &info) == INFER_OK) res->bytes = info.file_bytes;
    if (status == CLI_DONE && j->save && (!out_close(&out) || !out_rename(&out))) status = CLI_FAILED;
    out_free(&out, status == CLI_DONE);
    if (status == CLI_DONE && j->course && j->form == CHOICES_NONE) {
        const float *values = res->sums.kls ? res->sums.kls : res->sums.losses;
        quality_course_of(values, res->sums.n, text.size, 0, &res->by_window);
        quality_course_of(values, res->sums.n, text.size, 1, &res->by_position);
    }
    if (status == CLI_DONE && res->sums.kls) { /* this sorts them */
        res->kl_median = quality_percentile(res->sums.kls, res->sums.n, 0.5);
        res->kl_99 = quality_percentile(res->sums.kls, res->sums.n, 0.99);
        res->kl_max = res->sums.kls[res->sums.n - 1];
    }
    free(res->sums.kls);
    free(res->sums.losses);
    res->sums.kls = res->sums.losses = NULL;
    free(text.tokens);
    reference_close(&r.from);
    reference_close(&r.to);
    cli_model_close(model);
    j->common.ctx = ctx;
    return status;
}

/* ---- output --------------------------------------------------------------------------------- */

static double chance(const quality_result *r) { return (double)r->choices.questions / (double)r->choices.answers; }

static void print_text(const job *j, const quality_result *r) {
    const quality_sums *s = &r->sums;
    const quality_figure p = quality_perplexity(s->loss, s->loss2, s->n), a = quality_accuracy(r);
    if (j->form != CHOICES_NONE) {
        printf("accuracy      %.3f +/- %.3f %%  (%lu of %lu questions; chance %.1f %%)\n", 100 * a.value, 100 * a.error, (unsigned long)r->choices.right,
               (unsigned long)r->choices.questions, 100 * chance(r));
        return;
    }
    printf("perplexity    %.4f +/- %.5f  (%lu tokens)\n", p.value, p.error, (unsigned long)s->n);
    if (j->reference) {
        const quality_figure base = quality_perplexity(s->base, s->base2, s->n), ratio = quality_log_ratio(s), kl = quality_mean(s->kl, s->kl2, s->n);
        const quality_figure rms = quality_p_rms(s);
        printf("reference     %.4f +/- %.5f\n", base.value, base.error);
        printf("ln of ratio   %.6f +/- %.6f\n", ratio.value, ratio.error);
        printf("KL divergence %.6f +/- %.6f, median %.6f, 99 %% %.6f, maximum %.6f\n", kl.value, kl.error, (double)r->kl_median, (double)r->kl_99,
               (double)r->kl_max);
        printf("same top 1    %.3f %%\n", 100 * quality_top_1(r));
        printf("RMS of p      %.3f +/- %.3f %%\n", 100 * rms.value, 100 * rms.error);
    }
}

static void json_field(const char *name, double x) {
    printf(", \"%s\": ", name);
    json_number(stdout, x);
}

static void print_json(const job *j, const char *path, const quality_result *r, int named) {
    const quality_sums *s = &r->sums;
    const quality_figure p = quality_perplexity(s->loss, s->loss2, s->n);
    printf("{");
    if (named) {
        printf("\"model\": ");
        json_text(stdout, path);
        printf(", ");
    }
    if (j->form != CHOICES_NONE) {
        printf("\"accuracy\": ");
        json_number(stdout, quality_accuracy(r).value);
        json_field("error", quality_accuracy(r).error);
        json_field("chance", chance(r));
        printf(", \"right\": %lu, \"questions\": %lu}", (unsigned long)r->choices.right, (unsigned long)r->choices.questions);
        return;
    }
    printf("\"perplexity\": ");
    json_number(stdout, p.value);
    json_field("error", p.error);
    printf(", \"tokens\": %lu", (unsigned long)s->n);
    if (j->reference) {
        const quality_figure base = quality_perplexity(s->base, s->base2, s->n), ratio = quality_log_ratio(s), kl = quality_mean(s->kl, s->kl2, s->n);
        json_field("reference", base.value);
        json_field("log_ratio", ratio.value);
        json_field("log_ratio_error", ratio.error);
        json_field("kl_mean", kl.value);
        json_field("kl_error", kl.error);
        json_field("kl_median", r->kl_median);
        json_field("kl_99", r->kl_99);
        json_field("kl_max", r->kl_max);
        json_field("top1", quality_top_1(r));
        json_field("p_rms", quality_p_rms(s).value);
    }
    printf("}");
}

/* A row per model, its name last, so that columns stand below each other. */
static void print_table_row(const job *j, const char *path, const quality_result *r) {
    const quality_sums *s = &r->sums;
    const quality_figure p = quality_perplexity(s->loss, s->loss2, s->n);
    char size[32];
    printf("%9s ", cli_bytes_text((double)r->bytes, size));
    if (j->form != CHOICES_NONE) printf("%10.3f %7.3f", 100 * quality_accuracy(r).value, 100 * quality_accuracy(r).error);
    else printf("%12.4f %9.4f", p.value, p.error);
    if (j->reference)
        printf(" %10.6f %10.6f %10.6f %8.3f %8.3f", quality_mean(s->kl, s->kl2, s->n).value, (double)r->kl_median, (double)r->kl_99, 100 * quality_top_1(r),
               100 * quality_p_rms(s).value);
    printf("  %s\n", path);
}

/* ---- the command ---------------------------------------------------------------------------- */

static int run_all(job *j, const char **models, int n, quality_result *results) {
    int i, status = CLI_DONE;
    if (j->common.json && n > 1) printf("[");
    for (i = 0; i < n && status == CLI_DONE; i++) {
        const quality_result *r = &results[i];
        status = run_model(j, models[i], &results[i]);
        if (status != CLI_DONE) break;
        if (j->common.json) {
            if (i) printf(",\n ");
            print_json(j, models[i], r, n > 1);
        } else if (n > 1) {
            if (i == 0) {
                printf("%9s ", "size");
                if (j->form != CHOICES_NONE) printf("%10s %7s", "accuracy %", "+/-");
                else printf("%12s %9s", "perplexity", "+/-");
                if (j->reference) printf(" %10s %10s %10s %8s %8s", "KL mean", "median", "99 %", "top 1 %", "p RMS %");
                printf("  model\n");
            }
            print_table_row(j, models[i], r);
        } else print_text(j, r);
        fflush(stdout);
    }
    if (j->common.json && (n > 1 || status == CLI_DONE)) printf(n > 1 ? "]\n" : "\n");
    return status;
}

int cmd_perplexity(int argc, char **argv) {
    const char *models[MAX_MODELS], *inputs[MAX_MODELS + 3];
    quality_result *results;
    report r = {0};
    job j;
    int status, n = 0;
    const cli_option options[] = {
        {"-f,--file", OPT_STRING, &j.text_path, "FILE", "the text; - is stdin", 0, 0},
        {"--chunks|--hellaswag-tasks,--winogrande-tasks,--multiple-choice-tasks", OPT_INT, &j.chunks, "N", "only the first N windows or questions", 1, INT32_MAX},
        {"--choices", OPT_CHOICE, &j.form, CHOICES_FORMS, "the file holds questions: how many the model answers", 0, 0},
        {"--save-logits|--save-all-logits", OPT_STRING, &j.save, "OUT", "write the probabilities of all tokens, for --reference", 0, 0},
        {"--reference|--kl-divergence-base", OPT_STRING, &j.reference, "FILE",
         "what --save-logits wrote for a better model, such as the one that was quantised: adds KL divergence", 0, 0},
    };
    const cli_spec spec = {"perplexity",
                           "MODEL... -f FILE",
                           "How well a model predicts a text: the exponential of its mean loss, and one standard deviation. The text is\n"
                           "cut into windows of --ctx tokens (default 512), each read by itself from its beginning; tokens of its second\n"
                           "half count. The same figure as llama.cpp's, whose files of probabilities are read and written. Several models\n"
                           "give a table. With --reference:\n"
                           "  KL divergence  of the reference's probabilities from the model's, over all tokens, in nats\n"
                           "  same top 1     how often both find the same token most probable\n"
                           "  RMS of p       root mean square difference of the probability of the text's token\n"
                           "With --choices the file holds questions with several answers, and the one whose tokens are most probable is taken:\n"
                           "HellaSwag (six lines each), Winogrande (CSV), or llama.cpp's binary tasks (ARC, MMLU, TruthfulQA).\n"
                           "--report shows sizes and figures of several models, and of one how it does along the text.\n",
                           options,
                           sizeof options / sizeof options[0],
                           TAKES_JSON | TAKES_MODEL | TAKES_DEVICE | TAKES_COMPUTE | TAKES_CONTEXT | TAKES_ADAPTERS | TAKES_REPORT,
                           1,
                           MAX_MODELS};
    memset(&j, 0, sizeof j);
    j.form = CHOICES_NONE;
    if (!cli_parse(&spec, argc, argv, &j.common, models, &status)) return status;
    while (n < MAX_MODELS && models[n]) n++;
    if (j.text_path == NULL && j.reference == NULL) return cli_usage_error("perplexity", "give a text: -f FILE");
    if (j.save && n > 1) return cli_usage_error("perplexity", "--save-logits is for one model");
    if (j.form != CHOICES_NONE && (j.save || j.reference || j.text_path == NULL))
        return cli_usage_error("perplexity", "--choices takes a file (-f), and no probabilities");
    inputs[0] = j.save;
    inputs[1] = j.text_path;
    inputs[2] = j.reference;
    memcpy((void *)(inputs + 3), (const void *)models, (size_t)n * sizeof *models);
    if (j.save && !cli_check_output("perplexity", j.save, inputs + 1, (size_t)n + 2)) return CLI_USAGE;
    if (j.common.report) {
        status = report_open(&r, "perplexity", j.common.report, inputs, (size_t)n + 3);
        if (status != CLI_DONE) return status;
    }
    j.course = j.common.report != NULL && n == 1;
    results = cli_alloc("perplexity", (size_t)n, sizeof *results);
    if (j.text_path) j.data = cli_read_file("perplexity", j.text_path, &j.n_data);
    status = results && (j.data || !j.text_path) ? CLI_DONE : CLI_FAILED;
    if (status == CLI_DONE) {
        cli_catch_interrupts();
        status = run_all(&j, models, n, results);
    }
    if (status == CLI_DONE && r.path) {
        const char *of = j.text_path ? j.text_path : j.reference;
        report_begin(&r, j.form != CHOICES_NONE ? "Questions of" : "Perplexity on", cli_base_name(of), argc, argv);
        report_quality(&r, j.form != CHOICES_NONE ? QUALITY_CHOICES : j.reference ? QUALITY_KL : QUALITY_PERPLEXITY, models, results, (size_t)n);
    }
    free(results);
    free(j.data);
    return report_close(&r, status);
}
