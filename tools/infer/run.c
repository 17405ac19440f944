/* run.c: `infer run`, continue a text. Only the continuation goes to stdout, as it is generated; statistics go to
 * stderr. */
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

static void print_json(const reply *r, const infer_token *prompt, size_t n_prompt, const infer_stats *stats,
                       const infer_best *best, uint64_t seed) {
    int32_t i;
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
    for (i = 0; best && i < best->n; i++) {
        const infer_best_reply *one = &best->replies[i];
        printf(i ? ", {\"seed\": %llu, \"logprob\": " : ", \"replies\": [{\"seed\": %llu, \"logprob\": ",
               (unsigned long long)(seed + (uint64_t)i));
        json_number(stdout, one->logprob);
        printf(", \"text\": ");
        json_string(stdout, one->text, one->n_text);
        printf(", \"tokens\": ");
        json_ids(stdout, one->tokens, (size_t)one->n_tokens);
        printf("}");
    }
    if (best) printf("], \"best\": %ld", (long)best->best);
    printf("}\n");
}

static void print_statistics(const infer_generate_info *info, const infer_stats *stats, uint64_t seed, double load_s,
                             double media_s) {
    static const char *const WHY[] = {"", "limit", "end token", "stop text", "context full", "callback", "Ctrl-C",
                                      "end of the grammar", "time"};
    fprintf(stderr, "load %.2f s | ", load_s);
    if (media_s > 0) fprintf(stderr, "media %.2f s | ", media_s);
    fprintf(stderr,
            "prompt %ld tokens, %.1f tokens/s | new %ld tokens, %.1f tokens/s | stopped by: %s | "
            "seed %llu\n",
            (long)info->prompt_tokens,
            stats->prompt_seconds > 0 ? (double)stats->prompt_tokens / stats->prompt_seconds : 0.0,
            (long)info->new_tokens, stats->new_seconds > 0 ? (double)stats->new_tokens / stats->new_seconds : 0.0,
            info->stop_reason >= 0 && info->stop_reason <= INFER_STOP_TIME ? WHY[info->stop_reason] : "",
            (unsigned long long)seed);
    if (info->drafted > 0)
        fprintf(stderr, "drafts: %ld of %ld tokens accepted\n", (long)info->accepted, (long)info->drafted);
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
    const char *behind; /* the text after the gap to fill (--fim); NULL = none */
    size_t n_behind;
    const char *draft_path;
    infer_session *draft; /* of the model there */
    cli_list stop, stop_ids;
    infer_token *stop_tokens; /* those of stop_ids */
    double seconds, scale;
    int64_t on_full, keep, best_of, logprobs, next; /* logprobs -1 = not asked for */
    const char *negative_prompt;
    infer_session *negative;  /* holds that */
    cli_media media;
    double media_s; /* that encoding took */
} request;

/* Cells for the whole reply, but not more than the model's trained context unless --ctx says so. */
static int32_t cells_needed(const infer_model *model, const cli_common *common, size_t n) {
    infer_model_info info;
    int32_t cells = cli_cells(common, model, 0);
    if (common->ctx > 0 || common->ctx_whole || n <= (size_t)cells || infer_model_get_info(model, &info) != INFER_OK) return cells;
    return info.context > 0 && n > (size_t)info.context ? info.context : (int32_t)n;
}

/* Several continuations, of which the likeliest is the reply. */
static infer_result best_of(const request *q, infer_session *session, infer_sampler *const *samplers,
                            infer_generate_params *g, infer_best **best, infer_generate_info *info) {
    reply *r = g->user;
    const infer_best_reply *one;
    infer_result result;
    g->token = NULL;
    result = infer_generate_best(session, samplers, (int32_t)q->best_of, q->behind ? NULL : q->prompt, g, best);
    if (result != INFER_OK) return result;
    one = &(*best)->replies[(*best)->best];
    *info = one->info;
    r->tokens = cli_alloc("run", (size_t)one->n_tokens + 1, sizeof *r->tokens);
    if (r->tokens == NULL) r->failed = 1;
    else if (one->n_tokens) memcpy(r->tokens, one->tokens, (size_t)one->n_tokens * sizeof *r->tokens);
    r->n_tokens = r->tokens ? (size_t)one->n_tokens : 0;
    return INFER_OK;
}

/* The continuation, to the callbacks above. samplers: one, or best_of. */
static int reply_to(const request *q, infer_session *session, infer_sampler *const *samplers, const infer_token *prompt,
                    size_t n_prompt, reply *r, infer_best **best, infer_generate_info *info) {
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
    g.stop_tokens = q->stop_tokens;
    g.n_stop_tokens = q->stop_ids.n;
    g.seconds = q->seconds;
    g.on_full = q->on_full == 1 ? INFER_FULL_SLIDE : INFER_FULL_STOP;
    g.keep_first = q->keep < 0 ? (int32_t)n_prompt : (int32_t)q->keep;
    g.negative = q->negative;
    g.guidance = (float)q->scale;
    g.media = q->media.items;
    g.n_media = q->media.n;
    cli_run_begin(session);
    result = q->behind ? infer_session_eval(session, prompt, (int32_t)n_prompt) : INFER_OK;
    if (result == INFER_OK)
        result = q->best_of > 1 ? best_of(q, session, samplers, &g, best, info)
                                : infer_generate(session, samplers[0], q->behind ? NULL : q->prompt, &g, info);
    if (q->behind) info->prompt_tokens = (int32_t)n_prompt;
    cli_run_end();
    if (cli_run_interrupted() && (result == INFER_CANCELLED || info->stop_reason == INFER_STOP_CALLBACK)) {
        info->stop_reason = INFER_STOP_CANCELLED;
        result = INFER_OK;
    }
    if (result == INFER_CONTEXT_FULL) {
        cli_fail("run", "the prompt does not fit into a context of %ld positions (--ctx)",
                 (long)infer_session_capacity(session));
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

/* The same from a model that fills in masked tokens: the whole text at once, when it is complete. */
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

/* The prompt and the text after the gap; with --ctx the parts next to the gap that fit. */
static int gap_tokens(const infer_model *model, const request *q, const cli_common *common, infer_token **out, size_t *n) {
    const int64_t most = common->ctx > q->limit + 4 ? common->ctx - q->limit : 0;
    infer_error err;
    if (infer_infill(model, q->prompt, q->prompt_length, q->behind, q->n_behind, (int32_t)most, NULL, 0, n, &err) != INFER_OK)
        return cli_fail("run", "%s", err.message) == CLI_DONE;
    *out = cli_alloc("run", *n, sizeof **out);
    return *out && infer_infill(model, q->prompt, q->prompt_length, q->behind, q->n_behind, (int32_t)most, *out, *n, n, &err) == INFER_OK;
}

/* The session with guidance's negative prompt, in the same context. */
static int hold_negative(request *q, const infer_model *model, infer_context *context, int32_t cells) {
    infer_session_params params;
    infer_token *ids = NULL;
    infer_error err;
    size_t n;
    infer_result r;
    memset(&params, 0, sizeof params);
    params.context = cells;
    if (q->negative_prompt == NULL) return 1;
    if (!cli_tokenize("run", model, q->negative_prompt, strlen(q->negative_prompt),
                      INFER_TEXT_ADD_SPECIAL | (q->special ? INFER_TEXT_PARSE_SPECIAL : 0), &ids, &n))
        return 0;
    r = infer_session_create_in(&q->negative, context, &params, &err);
    if (r != INFER_OK) cli_fail("run", "%s", err.message);
    else if (n == 0 || n > (size_t)cells) {
        cli_fail("run", "--negative-prompt has %lu tokens, and the context %ld positions", (unsigned long)n, (long)cells);
        r = INFER_CONTEXT_FULL;
    } else {
        cli_run_begin(q->negative);
        r = infer_session_eval(q->negative, ids, (int32_t)n);
        cli_run_end();
        if (r != INFER_OK) cli_fail("run", "%s", infer_session_error(q->negative)->message);
    }
    free(ids);
    return r == INFER_OK;
}

/* Samplers of following seeds; 0 after saying why. */
static int make_samplers(const request *q, infer_model *model, const cli_common *common, uint64_t seed,
                         infer_sampler **samplers) {
    int64_t i;
    for (i = 0; i < q->best_of; i++) {
        samplers[i] = cli_sampler("run", model, &common->sampling, seed + (uint64_t)i);
        if (samplers[i] == NULL) return 0;
    }
    return 1;
}

/* The cells of all sessions together: several replies each have their own cells after the prompt. */
static void more_cells(const request *q, size_t n_prompt, int32_t cells, infer_context_params *params) {
    const int64_t each = q->limit > 0 ? q->limit + 32 : cells;
    int64_t all = q->negative_prompt ? 2 * (int64_t)cells : q->best_of > 1 ? (int64_t)n_prompt + 32 : cells;
    if (q->best_of > 1) all = q->best_of <= (INT32_MAX - all) / each ? all + q->best_of * each : INT32_MAX;
    params->cells = all > INT32_MAX ? INT32_MAX : (int32_t)all;
    params->sessions = q->best_of > 1 ? (int32_t)q->best_of + 1 : q->negative_prompt ? 2 : 0;
}

/* Everything after the model is open. */
static int generate(infer_model *model, request *q, cli_common *common, double started) {
    cli_drafter other;
    infer_context_params params;
    infer_model_info model_info;
    infer_context *context = NULL;
    infer_session *session = NULL;
    infer_sampler **samplers = cli_alloc("run", (size_t)q->best_of, sizeof *samplers), *sampler = NULL;
    infer_best *best = NULL;
    infer_generate_info info;
    infer_stats stats;
    infer_token *prompt = NULL;
    reply r;
    int64_t i;
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
    if (samplers == NULL) return 0;
    for (i = 0; i < q->best_of; i++) samplers[i] = NULL;
    if (!cli_list_ids("run", "--stop-token", &q->stop_ids, &q->stop_tokens)) {
        free(samplers);
        return 0;
    }
    if (q->behind ? !gap_tokens(model, q, common, &prompt, &n_prompt)
                  : !cli_media_tokenize("run", model, q->prompt, q->prompt_length,
                                        INFER_TEXT_ADD_SPECIAL | (q->special ? INFER_TEXT_PARSE_SPECIAL : 0), &q->media,
                                        &prompt, &n_prompt)) {
        free(samplers);
        return 0;
    }
    if (cli_grammar("run", model, &common->sampling) && make_samplers(q, model, common, seed, samplers)) sampler = samplers[0];
    cli_context_params(common, &params);
    cells = cells_needed(model, common, n_prompt + (size_t)q->limit);
    if (infer_model_get_info(model, &model_info) != INFER_OK) model_info.masked = 0;
    if (model_info.masked) params.batch = cells; /* all in one pass */
    else more_cells(q, n_prompt, cells, &params);
    if (model_info.masked && q->limit == 0) q->limit = 128;
    if (model_info.masked && (q->best_of > 1 || q->negative_prompt || q->media.n))
        cli_fail("run", "%s is not for a diffusion model", q->best_of > 1 ? "--best-of" : q->media.n ? "--image" : "--negative-prompt");
    else if (sampler && cli_drafter_open("run", &other, q->draft_path, common, &params, cells) &&
        cli_session("run", model, &params, cells, &context, &session) && hold_negative(q, model, context, cells)) {
        q->draft = other.session;
        load_s = platform_clock() - started - q->media_s;
        ok = q->logprobs >= 0 || q->next ? cli_logprobs("run", model, session, prompt, n_prompt, (int32_t)q->logprobs, (int32_t)q->next)
             : model_info.masked         ? fill_in(q, model, session, sampler, prompt, n_prompt, seed, &r, &info)
                                         : reply_to(q, session, samplers, prompt, n_prompt, &r, &best, &info);
        infer_session_stats(session, &stats);
        if (best) for (stats.new_tokens = 0, i = 0; i < best->n; i++) stats.new_tokens += (uint64_t)best->replies[i].n_tokens;
        if (q->lookup || q->mtp || q->draft || best) stats.new_seconds = platform_clock() - started - q->media_s - load_s - stats.prompt_seconds;
        if (ok && q->logprobs < 0 && !q->next) {
            if (common->json) print_json(&r, prompt, n_prompt, &stats, best, seed);
            else if (r.line_open) end_line();
            print_statistics(&info, &stats, seed, load_s, q->media_s);
            for (i = 0; best && i < best->n; i++)
                fprintf(stderr, "reply %ld, seed %llu: mean logprob %.4f%s\n", (long)i, (unsigned long long)(seed + (uint64_t)i),
                        best->replies[i].logprob, i == best->best ? ", the best" : "");
        }
    }
    infer_best_free(best);
    infer_session_destroy(q->negative);
    infer_session_destroy(session);
    infer_context_destroy(context);
    cli_drafter_close(&other);
    for (i = 0; i < q->best_of; i++) infer_sampler_destroy(samplers[i]);
    free(samplers);
    infer_grammar_destroy(common->sampling.grammar);
    free(prompt);
    free(r.text);
    free(r.tokens);
    return ok;
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
        {"--stop-token", OPT_LIST, &q.stop_ids, "ID", "stop at this token, as at an end token; may be repeated", 0, 0},
        {"--seconds", OPT_FLOAT, &q.seconds, "S", "stop after S seconds", 0, 0},
        {"--on-full", OPT_CHOICE, &q.on_full, "stop|slide", "when the context is full: stop, or drop the older half and go on", 0, 0},
        {"--keep-first|--keep", OPT_INT, &q.keep, "N", "--on-full slide: never drop the first N tokens; -1 = the prompt", -1, INT32_MAX / 2},
        {"--best-of", OPT_INT, &q.best_of, "N", "write N texts, with seeds from --seed on, and print the likeliest (mean logprob)", 1, 4096},
        {"--negative-prompt|--cfg-negative-prompt", OPT_STRING, &q.negative_prompt, "TEXT", "guidance: steer away from what would follow this text", 0, 0},
        {"--cfg-scale", OPT_FLOAT, &q.scale, "S", "guidance: how far; 1 = not at all (default 1.5)", 0, 0},
        {"--prompt-logprobs", OPT_INT, &q.logprobs, "K",
         "print no text, but a JSON line per token of the prompt: its logprob, and the K likeliest there", 0, INT32_MAX / 2},
        {"--top-next", OPT_INT, &q.next, "N", "print no text, but a JSON line of the N likeliest tokens after the prompt", 1, INT32_MAX / 2},
        {"--special|-sp", OPT_FLAG, &q.special, NULL, "parse special tokens written in the prompt", 0, 0},
        {"--ignore-end", OPT_FLAG, &q.ignore_end, NULL, "do not stop at end tokens", 0, 0},
        {"--lookup", OPT_FLAG, &q.lookup, NULL, "speculate from earlier text: the same output, faster", 0, 0},
        {"--draft|-md,--model-draft", OPT_STRING, &q.draft_path, "FILE", "speculate with this smaller model of the same vocabulary", 0, 0},
        {"--mtp", OPT_FLAG, &q.mtp, NULL, "speculate with the model's own multi-token prediction blocks", 0, 0},
        {"--steps", OPT_INT, &q.steps, "N", "diffusion models: number of passes (default: one per token)", 1, INT32_MAX / 2},
        {"--block", OPT_INT, &q.block, "N", "diffusion models: tokens per block, filled from left to right (default: -n)", 1, INT32_MAX / 2},
        {"--order", OPT_CHOICE, &q.order, "confidence|entropy|margin|random|left", "diffusion models: which tokens of a block to fill first", 0, 0},
        {"-cnv,--conversation,-i,--interactive,-st,--single-turn", OPT_INSTEAD, &converse, NULL, NULL, 0, 0},
        {"-no-cnv,--no-conversation", OPT_FLAG, &plain, NULL, NULL, 0, 0},
    };
    const cli_spec spec = {"run",
                           "MODEL -p TEXT",
                           "Continue a text; `infer chat` holds a conversation. Pictures and sounds are where the prompt has\n"
                           "<__media__>, or all before it. Only the continuation goes to stdout;\n"
                           "statistics go to stderr. Ctrl-C stops and still prints them (exit status 130). Sampling\n"
                           "defaults come from the file where it has some (general.sampling.*). Every run differs\n"
                           "unless --seed is given. --json prints one object:\n"
                           "{\"text\", \"tokens\", \"prompt_tokens\", \"prompt_tps\", \"tps\"} (tokens of the prompt below -1\n"
                           "are a picture's or a sound's); --best-of adds \"best\" and \"replies\":\n"
                           "[{\"seed\", \"logprob\", \"text\", \"tokens\"}]. Lines of --prompt-logprobs: {\"position\", \"token\",\n"
                           "\"text\", \"logprob\", \"top\": [{\"token\", \"text\", \"logprob\"}]}; of --top-next: {\"next\": [...]}.\n",
                           options,
                           (int)(sizeof options / sizeof options[0]),
                           TAKES_MODEL | TAKES_DEVICE | TAKES_COMPUTE | TAKES_CONTEXT | TAKES_ADAPTERS | TAKES_SEED |
                               TAKES_JSON | TAKES_SAMPLING | TAKES_MEDIA | TAKES_PROJECTOR,
                           1,
                           2};
    cli_common common;
    infer_model *model;
    char *data = NULL;
    double started = platform_clock(), opened;
    memset(&q, 0, sizeof q);
    q.best_of = 1;
    q.logprobs = -1;
    if (!cli_parse(&spec, argc, argv, &common, args, &status)) return status;
    if (converse) return cmd_chat(argc, argv); /* which reads the same words */
    if ((prompt != NULL) + (prompt_path != NULL) + (args[1] != NULL) != 1)
        return cli_usage_error("run", "give one prompt: -p TEXT or -f FILE (for a conversation: infer chat %s)", args[0]);
    if (limit == 0) return cli_usage_error("run", "-n: expected 1 or more, or -1 for no limit, got 0");
    if (q.best_of > 1 && (q.logprobs >= 0 || q.next))
        return cli_usage_error("run", "%s and --best-of exclude each other", q.next ? "--top-next" : "--prompt-logprobs");
    if (common.media.n && (behind_path || q.logprobs >= 0 || q.next))
        return cli_usage_error("run", "--image is not for %s", behind_path ? "--fim" : q.next ? "--top-next" : "--prompt-logprobs");
    q.limit = limit < 0 ? 0 : limit;
    common.mtp = q.mtp;
    q.prompt = data = cli_prompt("run", args[1] ? args[1] : prompt, prompt_path, escapes, &q.prompt_length);
    q.prompt = data = cli_media_prompt("run", data, &q.prompt_length, common.media.n);
    ok = data != NULL;
    if (ok && behind_path) ok = (q.behind = behind = cli_read_file("run", behind_path, &q.n_behind)) != NULL;
    model = ok ? cli_open("run", args[0], &common, 0) : NULL;
    opened = platform_clock();
    cli_catch_interrupts();
    ok = model != NULL && cli_media_open_all("run", model, &common, &q.media);
    q.media_s = q.media.n ? platform_clock() - opened : 0;
    ok = ok && generate(model, &q, &common, started);
    cli_media_free(&q.media);
    cli_model_close(model);
    free(data);
    free(behind);
    free(q.stop_tokens);
    return cli_run_interrupted() ? CLI_INTERRUPTED : ok ? CLI_DONE : CLI_FAILED;
}
