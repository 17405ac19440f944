/* run.c: `infer run`, continue a text. The continuation alone goes to stdout, as it comes; figures to stderr. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

/* What the callbacks collect. */
typedef struct reply {
    int to_stdout;
    int line_open; /* the text does not end in a newline */
    char *text; /* kept for --json */
    size_t n, cap;
    infer_token *tokens;
    size_t n_tokens, cap_tokens;
    int failed;
} reply;

static int take_text(void *user, const char *utf8, size_t n) {
    reply *r = user;
    if (cli_run_interrupted()) return 1;
    cli_progress_end(&cli_prompt_bar);
    if (n > 0) r->line_open = utf8[n - 1] != '\n';
    if (r->to_stdout) {
        fwrite(utf8, 1, n, stdout);
        fflush(stdout);
        return ferror(stdout) != 0;
    }
    if (n > r->cap - r->n) {
        char *grown = cli_grow("run", r->text, (r->n + n) * 2, 1);
        if (grown == NULL) {
            r->failed = 1;
            return 1;
        }
        r->text = grown;
        r->cap = (r->n + n) * 2;
    }
    memcpy(r->text + r->n, utf8, n);
    r->n += n;
    return 0;
}

static int take_token(void *user, infer_token token, float logprob, const infer_top *top, int32_t n_top) {
    reply *r = user;
    (void)logprob;
    (void)top;
    (void)n_top;
    if (r->n_tokens == r->cap_tokens) {
        infer_token *grown = cli_grow("run", r->tokens, r->cap_tokens * 2 + 256, sizeof *grown);
        if (grown == NULL) {
            r->failed = 1;
            return 1;
        }
        r->tokens = grown;
        r->cap_tokens = r->cap_tokens * 2 + 256;
    }
    r->tokens[r->n_tokens++] = token;
    return 0;
}

static void print_json(const reply *r, const infer_token *prompt, size_t n_prompt, const infer_stats *stats) {
    printf("{\"text\": ");
    json_string(stdout, r->text ? r->text : "", r->n);
    printf(", \"tokens\": ");
    json_ids(stdout, r->tokens, r->n_tokens);
    printf(", \"prompt_tokens\": ");
    json_ids(stdout, prompt, n_prompt);
    printf(", \"prompt_tps\": ");
    json_number(stdout, stats->prompt_seconds > 0 ? (double)stats->prompt_tokens / stats->prompt_seconds : 0);
    printf(", \"tps\": ");
    json_number(stdout, stats->new_seconds > 0 ? (double)stats->new_tokens / stats->new_seconds : 0);
    printf("}\n");
}

static void print_statistics(const infer_generate_info *info, const infer_stats *stats, uint64_t seed, double load_s) {
    static const char *const WHY[] = {"", "limit", "end token", "stop text", "context full", "callback", "Ctrl-C",
                                      "end of the grammar"};
    fprintf(stderr,
            "load %.2f s | prompt %ld tokens, %.1f tokens/s | new %ld tokens, %.1f tokens/s | stopped by: %s | "
            "seed %llu\n",
            load_s, (long)info->prompt_tokens,
            stats->prompt_seconds > 0 ? (double)stats->prompt_tokens / stats->prompt_seconds : 0.0,
            (long)info->new_tokens, stats->new_seconds > 0 ? (double)stats->new_tokens / stats->new_seconds : 0.0,
            info->stop_reason >= 0 && info->stop_reason <= INFER_STOP_GRAMMAR ? WHY[info->stop_reason] : "",
            (unsigned long long)seed);
    if (info->drafted > 0)
        fprintf(stderr, "drafts: %ld of %ld tokens were right\n", (long)info->accepted, (long)info->drafted);
}

/* Statistics begin on a line of their own, but what a script reads from stdout stays the continuation alone. */
static void end_line(void) {
    fflush(stdout);
    if (platform_same_stream(stdout, stderr)) fputc('\n', stderr);
    else if (platform_is_terminal(stdout)) fputc('\n', stdout);
}

typedef struct request {
    const char *prompt;
    size_t prompt_length;
    int64_t limit, least;
    int64_t steps, block, order; /* of models that fill in masked tokens */
    int special, ignore_end, lookup, mtp;
    const char *behind; /* the text behind the gap that is to be filled (--fim); NULL = there is none */
    size_t n_behind;
    const char *draft_path;
    infer_session *draft; /* of the model there */
    cli_list stop;
} request;

/* Room for the whole reply, but no more than the model was made for unless --ctx says so. */
static int32_t cells_needed(const infer_model *model, const cli_common *common, size_t n) {
    infer_model_info info;
    int32_t cells = cli_cells(common, model, 0);
    if (common->ctx > 0 || common->ctx_whole || n <= (size_t)cells || infer_model_get_info(model, &info) != INFER_OK) return cells;
    return info.context > 0 && n > (size_t)info.context ? info.context : (int32_t)n;
}

/* The continuation, to the callbacks above. */
static int reply_to(const request *q, infer_session *session, infer_sampler *sampler, const infer_token *prompt,
                    size_t n_prompt, reply *r, infer_generate_info *info) {
    infer_generate_params g;
    infer_result result;
    memset(&g, 0, sizeof g);
    g.max_tokens = (int32_t)q->limit;
    g.stop = q->stop.items;
    g.n_stop = q->stop.n;
    g.ignore_end = q->ignore_end;
    g.min_tokens = (int32_t)q->least;
    g.text_flags = q->special ? INFER_TEXT_PARSE_SPECIAL : 0;
    g.text = take_text;
    g.token = take_token;
    g.user = r;
    g.lookup = q->lookup;
    g.mtp = q->mtp;
    g.draft = q->draft;
    cli_run_begin(session);
    result = q->behind ? infer_session_eval(session, prompt, (int32_t)n_prompt) : INFER_OK;
    if (result == INFER_OK) result = infer_generate(session, sampler, q->behind ? NULL : q->prompt, &g, info);
    if (q->behind) info->prompt_tokens = (int32_t)n_prompt;
    cli_run_end();
    if (cli_run_interrupted() && (result == INFER_CANCELLED || info->stop_reason == INFER_STOP_CALLBACK)) {
        info->stop_reason = INFER_STOP_CANCELLED;
        result = INFER_OK;
    }
    if (result == INFER_CONTEXT_FULL) {
        cli_fail("run", "the prompt does not fit into a context of %ld positions (--ctx)",
                 (long)infer_session_context(session));
    } else if (result != INFER_OK) {
        cli_fail("run", "%s", infer_session_error(session)->message);
    }
    return result == INFER_OK && !r->failed;
}

/* Tokens before an end token, or all. */
static int32_t written(const infer_model *model, const request *q, const infer_token *tokens, int32_t n) {
    int32_t i;
    for (i = 0; i < n && (q->ignore_end || !(infer_token_flags(model, tokens[i]) & INFER_TOKEN_END)); i++) {}
    return i;
}

/* The same from a model that fills in masked tokens: all of the text at once, when it is whole. */
static int fill_in(const request *q, const infer_model *model, infer_session *session, infer_sampler *sampler,
                   const infer_token *prompt, size_t n_prompt, uint64_t seed, reply *r, infer_generate_info *info) {
    infer_fill_params p;
    infer_token *out = cli_grow("run", NULL, (size_t)q->limit, sizeof *out);
    size_t n_text;
    char *text;
    int32_t n;
    if (out == NULL) return 0;
    memset(&p, 0, sizeof p);
    p.n = (int32_t)q->limit;
    p.steps = (int32_t)q->steps;
    p.block = (int32_t)q->block;
    p.order = (int32_t)q->order;
    p.seed = seed;
    cli_run_begin(session);
    if (infer_session_fill(session, sampler, prompt, (int32_t)n_prompt, &p, out) != INFER_OK) {
        cli_run_end();
        cli_fail("run", "%s", infer_session_error(session)->message);
        free(out);
        return 0;
    }
    cli_run_end();
    n = written(model, q, out, p.n);
    info->stop_reason = n < p.n ? INFER_STOP_TOKEN : INFER_STOP_LIMIT;
    info->prompt_tokens = (int32_t)n_prompt;
    info->new_tokens = n;
    r->tokens = out;
    r->n_tokens = (size_t)n;
    text = cli_detokenize("run", model, out, (size_t)n, q->special ? INFER_TEXT_WRITE_SPECIAL : 0, &n_text);
    if (text) take_text(r, text, n_text);
    free(text);
    return text != NULL && !r->failed;
}

/* The prompt and what is behind the gap; with --ctx what is next to the gap and fits. */
static int gap_tokens(const infer_model *model, const request *q, const cli_common *common, infer_token **out, size_t *n) {
    const int64_t most = common->ctx > q->limit + 4 ? common->ctx - q->limit : 0;
    infer_error err;
    if (infer_infill(model, q->prompt, q->prompt_length, q->behind, q->n_behind, (int32_t)most, NULL, 0, n, &err) != INFER_OK)
        return cli_fail("run", "%s", err.message) == CLI_DONE;
    *out = cli_alloc("run", *n, sizeof **out);
    return *out && infer_infill(model, q->prompt, q->prompt_length, q->behind, q->n_behind, (int32_t)most, *out, *n, n, &err) == INFER_OK;
}

/* Everything after the model is open. */
static int generate(infer_model *model, request *q, cli_common *common, double started) {
    cli_drafter other;
    infer_context_params params;
    infer_model_info model_info;
    infer_context *context = NULL;
    infer_session *session = NULL;
    infer_sampler *sampler = NULL;
    infer_generate_info info;
    infer_stats stats;
    infer_token *prompt = NULL;
    reply r;
    size_t n_prompt = 0;
    int32_t cells;
    double load_s;
    uint64_t seed = common->seed_given ? (uint64_t)common->seed : cli_random_seed();
    int ok = 0;
    memset(&other, 0, sizeof other);
    memset(&r, 0, sizeof r);
    memset(&info, 0, sizeof info);
    memset(&stats, 0, sizeof stats);
    r.to_stdout = !common->json;
    if (q->behind ? !gap_tokens(model, q, common, &prompt, &n_prompt)
                  : !cli_tokenize("run", model, q->prompt, q->prompt_length,
                                  INFER_TEXT_ADD_SPECIAL | (q->special ? INFER_TEXT_PARSE_SPECIAL : 0), &prompt,
                                  &n_prompt))
        return 0;
    if (cli_grammar("run", model, &common->sampling)) sampler = cli_sampler("run", model, &common->sampling, seed);
    cli_context_params(common, &params);
    cells = cells_needed(model, common, n_prompt + (size_t)q->limit);
    if (infer_model_get_info(model, &model_info) != INFER_OK) model_info.masked = 0;
    if (model_info.masked) params.batch = cells; /* all in one pass */
    if (model_info.masked && q->limit == 0) q->limit = 128;
    cli_catch_interrupts();
    if (sampler && cli_drafter_open("run", &other, q->draft_path, common, &params, cells) &&
        cli_session("run", model, &params, cells, &context, &session)) {
        q->draft = other.session;
        load_s = platform_clock() - started;
        ok = model_info.masked ? fill_in(q, model, session, sampler, prompt, n_prompt, seed, &r, &info)
                               : reply_to(q, session, sampler, prompt, n_prompt, &r, &info);
        infer_session_stats(session, &stats);
        if (q->lookup || q->mtp || q->draft) stats.new_seconds = platform_clock() - started - load_s - stats.prompt_seconds;
        if (ok && common->json) print_json(&r, prompt, n_prompt, &stats);
        else if (ok && r.line_open) end_line();
        if (ok) print_statistics(&info, &stats, seed, load_s);
    }
    infer_session_destroy(session);
    infer_context_destroy(context);
    cli_drafter_close(&other);
    infer_sampler_destroy(sampler);
    infer_grammar_destroy(common->sampling.grammar);
    free(prompt);
    free(r.text);
    free(r.tokens);
    return ok;
}

static void release(request *q, cli_common *common) {
    free((void *)q->stop.items);
    cli_sampling_free(&common->sampling);
}

int cmd_run(int argc, char **argv) {
    const char *prompt = NULL, *prompt_path = NULL, *behind_path = NULL, *args[2];
    char *behind = NULL;
    int64_t limit = 128;
    int status, ok, escapes = 0, converse = 0, plain = 0;
    request q;
    const cli_option options[] = {
        {"-p,--prompt", OPT_STRING, &prompt, "TEXT", "the text to continue", 0, 0},
        {"-f,--file", OPT_STRING, &prompt_path, "FILE", "read it from a file; - is stdin", 0, 0},
        {"--fim", OPT_STRING, &behind_path, "FILE", "fill the gap between the prompt and this file's text", 0, 0},
        {"-e,--escape", OPT_FLAG, &escapes, NULL, "\\n, \\t and so on in the prompt stand for newline, tab ...", 0, 0},
        {"-n|--predict,--n-predict", OPT_INT, &limit, "N", "maximum number of tokens (default 128); -1 = no limit", -1, INT32_MAX / 2},
        {"--min-tokens", OPT_INT, &q.least, "N", "suppress end tokens until N tokens are written", 1, INT32_MAX / 2},
        {"--stop|-r,--reverse-prompt", OPT_LIST, &q.stop, "TEXT", "stop before this text; may be repeated", 0, 0},
        {"--special|-sp", OPT_FLAG, &q.special, NULL, "parse special tokens written in the prompt", 0, 0},
        {"--ignore-end", OPT_FLAG, &q.ignore_end, NULL, "do not stop at end tokens", 0, 0},
        {"--lookup", OPT_FLAG, &q.lookup, NULL, "speculate from earlier text: the same output, faster", 0, 0},
        {"--draft|-md,--model-draft", OPT_STRING, &q.draft_path, "FILE", "speculate with this smaller model of the same vocabulary", 0, 0},
        {"--mtp", OPT_FLAG, &q.mtp, NULL, "speculate with the model's own multi-token prediction block", 0, 0},
        {"--steps", OPT_INT, &q.steps, "N", "diffusion models: number of passes (default: one per token)", 1, INT32_MAX / 2},
        {"--block", OPT_INT, &q.block, "N", "diffusion models: tokens per block, filled from left to right (default: -n)", 1, INT32_MAX / 2},
        {"--order", OPT_CHOICE, &q.order, "confidence|entropy|margin|random|left", "diffusion models: which tokens of a block to fill first", 0, 0},
        {"-cnv,--conversation,-i,--interactive,-st,--single-turn", OPT_INSTEAD, &converse, NULL, NULL, 0, 0},
        {"-no-cnv,--no-conversation", OPT_FLAG, &plain, NULL, NULL, 0, 0},
    };
    const cli_spec spec = {"run",
                           "MODEL -p TEXT",
                           "Continue a text; `infer chat` holds a conversation. Only the continuation goes to stdout;\n"
                           "statistics go to stderr. Ctrl-C stops and still prints them (exit status 130). Sampling\n"
                           "defaults come from the file where it has some (general.sampling.*). Every run differs\n"
                           "unless --seed is given. --json prints one object:\n"
                           "{\"text\", \"tokens\", \"prompt_tokens\", \"prompt_tps\", \"tps\"}.\n",
                           options,
                           (int)(sizeof options / sizeof options[0]),
                           TAKES_MODEL | TAKES_DEVICE | TAKES_COMPUTE | TAKES_CONTEXT | TAKES_ADAPTERS | TAKES_SEED |
                               TAKES_JSON | TAKES_SAMPLING,
                           1,
                           2};
    cli_common common;
    infer_model *model;
    char *data = NULL;
    double started = platform_clock();
    memset(&q, 0, sizeof q);
    if (!cli_parse(&spec, argc, argv, &common, args, &status)) {
        release(&q, &common);
        return status;
    }
    if (converse) { /* chat reads the same words */
        release(&q, &common);
        return cmd_chat(argc, argv);
    }
    if ((prompt != NULL) + (prompt_path != NULL) + (args[1] != NULL) != 1) {
        release(&q, &common);
        return cli_usage_error("run", "give one prompt: -p TEXT or -f FILE (for a conversation: infer chat %s)", args[0]);
    }
    if (limit == 0) {
        release(&q, &common);
        return cli_usage_error("run", "-n: expected 1 or more, or -1 for no limit, got 0");
    }
    q.limit = limit < 0 ? 0 : limit;
    common.mtp = q.mtp;
    q.prompt = data = cli_prompt("run", args[1] ? args[1] : prompt, prompt_path, escapes, &q.prompt_length);
    ok = data != NULL;
    if (ok && behind_path) ok = (q.behind = behind = cli_read_file("run", behind_path, &q.n_behind)) != NULL;
    model = ok ? cli_open("run", args[0], &common, 0) : NULL;
    ok = model != NULL && generate(model, &q, &common, started);
    cli_model_close(model);
    free(data);
    free(behind);
    release(&q, &common);
    return cli_run_interrupted() ? CLI_INTERRUPTED : ok ? CLI_DONE : CLI_FAILED;
}
