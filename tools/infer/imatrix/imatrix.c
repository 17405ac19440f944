/* imatrix.c: `infer imatrix`, which columns of a model's matrices count. */
#include "../quantize/quantize.h"
#include "imatrix_eval.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNK = 512, MAX_CHUNK = 1 << 24 };

typedef struct job {
    const char *model, *text, *out;
    cli_list in;
    int64_t chunks, from, save_every;
    int resume, special, with_output;
    cli_common common;
    imatrix_sums sums;
} job;

/* ---- what there is already ------------------------------------------------------------------ */

static int add_file(job *j, imatrix_file *f) {
    if (j->sums.chunk_size == 0) j->sums.chunk_size = f->chunk_size ? f->chunk_size : CHUNK;
    return imatrix_merge(&j->sums, f);
}

static int read_inputs(job *j) {
    int i, ok = 1;
    for (i = 0; ok && i < j->in.n; i++) {
        imatrix_file f;
        ok = imatrix_open(&f, "imatrix", j->in.items[i]) && add_file(j, &f);
        if (ok && f.chunks == 0) fprintf(stderr, "warning: %s does not say how many chunks it is of\n", f.path);
        imatrix_close(&f);
    }
    return ok;
}

/* --resume: OUT has the first chunks of the same text; *done: how many. */
static int read_before(job *j, int64_t *done) {
    imatrix_file f;
    int ok;
    *done = 0;
    if (!j->resume || platform_path_kind(j->out) == PLATFORM_ABSENT) return 1;
    ok = imatrix_open(&f, "imatrix", j->out);
    if (ok && (f.old || f.n_datasets != 1 || strcmp(f.datasets[0], j->text) != 0 || f.chunk_size != j->sums.chunk_size))
        ok = cli_fail("imatrix", "--resume: %s is not the beginning of this: it is of %s in chunks of %lu", j->out, f.n_datasets ? f.datasets[0] : "another text",
                      (unsigned long)f.chunk_size) == CLI_DONE;
    *done = (int64_t)f.chunks;
    if (ok) ok = add_file(j, &f);
    imatrix_close(&f);
    return ok;
}

/* ---- the text ------------------------------------------------------------------------------- */

/* Tokens from the first chunk that is to be evaluated on, *n chunks of them. */
static int read_text(job *j, const infer_model *model, infer_token **tokens, int64_t *n) {
    const int64_t size = (int64_t)j->sums.chunk_size;
    infer_model_info info;
    size_t bytes, count = 0, i;
    char *data = cli_read_file("imatrix", j->text, &bytes);
    int ok = data && infer_model_get_info(model, &info) == INFER_OK;
    if (ok && bytes > 0 && data[bytes - 1] == '\n') bytes--; /* as llama.cpp reads prompts */
    if (ok) ok = cli_tokenize("imatrix", model, data, bytes, INFER_TEXT_ADD_SPECIAL | (j->special ? INFER_TEXT_PARSE_SPECIAL : 0), tokens, &count);
    free(data);
    if (!ok) return 0;
    for (i = 0; i < count; i++)
        if ((*tokens)[i] < 0 || (*tokens)[i] >= info.vocab)
            return cli_fail("imatrix", "token %lu of the text is %ld: the vocabulary has %ld", (unsigned long)i, (long)(*tokens)[i], (long)info.vocab) == CLI_DONE;
    *n = (int64_t)count / size - j->from;
    if (*n >= 1) return 1;
    return cli_fail("imatrix", "%s has %lu tokens: at least %s of %ld are needed (--ctx)", j->text, (unsigned long)count,
                    j->from ? "one more chunk than --from-chunk" : "a chunk", (long)size) == CLI_DONE;
}

static int save(const job *j) { return imatrix_write(&j->sums, j->out); }

/* Chunks *done .. n - 1. An exit status. */
static int evaluate(job *j, imatrix_eval *e, const infer_token *tokens, int64_t n, int64_t *done) {
    const int64_t size = (int64_t)j->sums.chunk_size;
    int64_t saved = *done;
    cli_progress bar;
    int ok = imatrix_eval_begin(e);
    if (!ok) return CLI_FAILED;
    cli_run_begin(e->session);
    cli_progress_begin(&bar, "evaluating");
    while (ok && *done < n && !cli_run_interrupted()) {
        ok = imatrix_eval_chunk(e, tokens + (j->from + *done) * size);
        if (!ok || cli_run_interrupted()) break;
        ++*done;
        cli_progress_show(&bar, (float)*done / (float)n);
        if (j->save_every == 0 || *done - saved < j->save_every || *done == n) continue;
        ok = save(j);
        saved = *done;
    }
    cli_progress_end(&bar);
    cli_run_end();
    if (ok && *done > saved) ok = save(j);
    return !ok ? CLI_FAILED : cli_run_interrupted() ? CLI_INTERRUPTED : CLI_DONE;
}

/* ---- what to say ---------------------------------------------------------------------------- */

/* Matrices that `infer quantize` would change without knowing their columns. */
static void tell_missing(const imatrix_eval *e) {
    enum { SHOWN = 4 };
    char names[256] = "";
    size_t used = 0;
    int32_t i, n = 0;
    for (i = 0; i < e->n_tensors; i++) {
        const infer_tensor_info *info = &e->tensors[i];
        file_tensor t;
        memset(&t, 0, sizeof t);
        t.name = (char *)info->name;
        t.n_dims = info->n_dims;
        t.rows = info->rows;
        memcpy(t.dims, info->dims, sizeof t.dims);
        if (e->of[i] || i == e->output || strcmp(info->name, "token_embd.weight") == 0 || !recipe_takes(&t)) continue;
        if (n++ < SHOWN) used += (size_t)snprintf(names + used, sizeof names - used, "%s%.50s", used ? ", " : "", info->name);
    }
    if (n) fprintf(stderr, "warning: %ld matrices had no input: %s%s\n", (long)n, names, n > SHOWN ? ", ..." : "");
}

static void tell_experts(const imatrix_sums *s) {
    unsigned long matrices = 0, without = 0, tensors = 0;
    size_t i;
    uint64_t k;
    for (i = 0; i < s->n; i++) {
        const unsigned long before = without;
        for (k = 0; k < s->items[i]->n_counts; k++) without += s->items[i]->counts[k] == 0;
        tensors += without > before;
        if (without > before) matrices += (unsigned long)s->items[i]->n_counts;
    }
    if (without) fprintf(stderr, "warning: in %lu tensors, %lu of %lu experts have seen no input: a longer text helps\n", tensors, without, matrices);
}

static void tell_result(const job *j) {
    const double chunks = j->sums.tokens / (double)j->sums.chunk_size;
    tell_experts(&j->sums);
    fprintf(stderr, "%s: %lu tensors, %.0f chunks of %lu tokens\n", j->out, (unsigned long)j->sums.n, chunks, (unsigned long)j->sums.chunk_size);
}

/* ---- the command ---------------------------------------------------------------------------- */

static int set_size(job *j, const imatrix_eval *e) {
    const int64_t size = j->common.ctx_whole ? e->info.context : j->common.ctx ? j->common.ctx : CHUNK;
    if (size < 1 || size > MAX_CHUNK) return cli_fail("imatrix", "--ctx: 1 to %ld, not %ld", (long)MAX_CHUNK, (long)size) == CLI_DONE;
    j->sums.chunk_size = (uint64_t)size;
    return 1;
}

static int run_text(job *j) {
    imatrix_eval e;
    infer_token *tokens = NULL;
    int64_t n = 0, done = 0;
    int status = CLI_FAILED;
    memset(&e, 0, sizeof e);
    e.sums = &j->sums;
    e.common = &j->common;
    e.with_output = j->with_output;
    if (imatrix_eval_open(&e, j->model) && set_size(j, &e) && read_inputs(j) && read_before(j, &done) && imatrix_eval_fit(&e, j->model) &&
        read_text(j, e.model, &tokens, &n) && imatrix_add_dataset(&j->sums, j->text)) {
        if (j->chunks && n > j->chunks) n = j->chunks;
        if (e.with_output && e.output < 0) fprintf(stderr, "warning: there is no output.weight: the head is token_embd.weight, which gets no importance\n");
        status = done < n ? evaluate(j, &e, tokens, n, &done) : CLI_DONE;
        if (status == CLI_DONE) {
            tell_missing(&e);
            tell_result(j);
        } else if (status == CLI_INTERRUPTED && done > 0)
            fprintf(stderr, "infer imatrix: interrupted: %s has %ld of %ld chunks; --resume goes on\n", j->out, (long)done, (long)n);
    }
    free(tokens);
    imatrix_eval_close(&e);
    return status;
}

static int run_merge(job *j) {
    j->sums.chunk_size = (uint64_t)j->common.ctx;
    if (!read_inputs(j) || !save(j)) return CLI_FAILED;
    tell_result(j);
    return CLI_DONE;
}

static int check_usage(const job *j) {
    const char *const inputs[] = {j->text, j->model};
    int ok = 1;
    if (j->out == NULL) ok = cli_usage_error("imatrix", "give a file to write: --out FILE") == CLI_DONE;
    else if (j->text && !j->model) ok = cli_usage_error("imatrix", "give a model") == CLI_DONE;
    else if (!j->text && j->model) ok = cli_usage_error("imatrix", j->in.n ? "give a text (-f FILE), or no model: --in files alone are merged" : "give a text: -f FILE") == CLI_DONE;
    else if (!j->text && j->in.n == 0) ok = cli_usage_error("imatrix", "give a model and a text (-f FILE), or files to merge (--in FILE)") == CLI_DONE;
    else if (!j->text && (j->resume || j->chunks || j->from || j->save_every)) ok = cli_usage_error("imatrix", "without a text there are no chunks to evaluate") == CLI_DONE;
    else if (j->resume && j->in.n) ok = cli_usage_error("imatrix", "--resume reads OUT, and no --in beside it") == CLI_DONE;
    return ok && cli_check_output("imatrix", j->out, inputs, 2);
}

int cmd_imatrix(int argc, char **argv) {
    const char *args[1];
    job j;
    int status;
    const cli_option options[] = {
        {"-f,--file", OPT_STRING, &j.text, "FILE", "the text; - is stdin", 0, 0},
        {"-o,--out|--output-file,--output", OPT_STRING, &j.out, "FILE", "the file to write", 0, 0},
        {"--in|--in-file", OPT_LIST, &j.in, "FILE", "start from this file, or add it (GGUF, or the older .dat); may be repeated", 0, 0},
        {"--chunks", OPT_INT, &j.chunks, "N", "only the first N chunks", 1, INT32_MAX},
        {"--from-chunk|--chunk", OPT_INT, &j.from, "N", "skip the first N chunks", 0, INT32_MAX},
        {"--save-every|-ofreq,--output-frequency", OPT_INT, &j.save_every, "N", "also write OUT after every N chunks", 1, INT32_MAX},
        {"--resume", OPT_FLAG, &j.resume, NULL, "go on after the chunks that OUT has, if it exists", 0, 0},
        {"--process-output", OPT_FLAG, &j.with_output, NULL, "also of output.weight", 0, 0},
        {"--parse-special", OPT_FLAG, &j.special, NULL, "turn the text of control tokens into those tokens", 0, 0},
    };
    const cli_spec spec = {"imatrix",
                           "MODEL -f TEXT --out FILE",
                           "Which columns of a model's matrices count, for quantize --imatrix: the text is cut into chunks of --ctx tokens\n"
                           "(default 512), each is evaluated by itself from its beginning, and the squares of what every matrix is multiplied\n"
                           "with are added up, of each expert apart. The file is llama-imatrix's GGUF form. Runs on the CPU.\n"
                           "Without MODEL and -f the files of --in are merged: imatrix --in A --in B --out FILE.\n"
                           "OUT appears when it is complete. After Ctrl-C it has the chunks that were complete, and the exit status is 130;\n"
                           "--resume with the same options goes on, and the result is the same as without an interruption.\n",
                           options,
                           sizeof options / sizeof options[0],
                           TAKES_MODEL | TAKES_DEVICE | TAKES_COMPUTE | TAKES_CONTEXT,
                           0,
                           1};
    memset(&j, 0, sizeof j);
    j.sums.command = "imatrix";
    if (cli_parse(&spec, argc, argv, &j.common, args, &status)) {
        cli_common *c = &j.common;
        j.model = args[0];
        if (!check_usage(&j)) status = CLI_USAGE;
        else {
            if (c->backend == INFER_AUTO && c->device < 0 && c->devices == NULL) c->device = 0; /* the CPU */
            cli_catch_interrupts();
            status = j.text ? run_text(&j) : run_merge(&j);
        }
    }
    imatrix_sums_free(&j.sums);
    return status;
}
