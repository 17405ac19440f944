/* bench.c: `infer bench`, tokens per second, and their share of the peak rates of memory and arithmetic (peaks.c). *
 *Prompts and generation are measured separately, each from a session of -d tokens (0: empty), with fixed pseudo-random
 *ids
 * (a model that repeats itself would hit the same experts and look faster). Medians of -r rounds; the very first round,
 * which includes page faults, is reported as first_token_s and not used otherwise. With --embed a prompt is many texts
 * of that length, and what is measured is infer_embed. */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

/* ---- how much of the cores we got ------------------------------------------------------------ */

typedef struct clocks {
    platform_thread threads[PLATFORM_MAX_THREADS];
    int n;
    double cpu, wall;
} clocks;

static void read_clocks(clocks *c) {
    c->n = platform_threads(c->threads, PLATFORM_MAX_THREADS);
    c->cpu = platform_cpu_seconds();
    c->wall = platform_clock();
}

/* The smallest ran / (ran + waited for a core) of the threads that worked between the two readings. Where the system
 * does not report these: CPU time of the process / (wall x threads), which also counts idle threads. */
static double smallest_share(const clocks *from, const clocks *to, int threads, int *exact) {
    double wall = to->wall - from->wall, share = 2;
    int i, k;
    for (i = 0; i < to->n; i++) {
        double ran = to->threads[i].ran, waited = to->threads[i].waited;
        for (k = 0; k < from->n; k++) {
            if (from->threads[k].id != to->threads[i].id) continue;
            ran -= from->threads[k].ran;
            waited -= from->threads[k].waited;
        }
        if (ran + waited > 0.05 * wall && ran / (ran + waited) < share) share = ran / (ran + waited);
    }
    *exact = share <= 1;
    if (*exact) return share;
    share = wall > 0 ? (to->cpu - from->cpu) / (wall * threads) : 0;
    return share > 1 ? 1 : share;
}

/* ---- rounds ---------------------------------------------------------------------------------- */

static int eval(bench *b, const infer_token *ids, int32_t n) {
    infer_step step;
    infer_error err;
    infer_result r;
    double start = platform_clock();
    memset(&step, 0, sizeof step);
    step.session = b->session;
    step.tokens = ids;
    step.n = n;
    step.outputs = b->info.embedding_only ? INFER_OUT_HIDDEN : INFER_OUT_LAST;
    r = infer_eval(b->context, &step, 1, &err);
    b->evaluated_s += platform_clock() - start;
    if (r == INFER_OK) return 1;
    cli_fail("bench", "%s", r == INFER_CONTEXT_FULL ? "the tokens do not fit into the context" : err.message);
    return 0;
}

/* The most likely next token, as a generation would choose it. */
static int choose(bench *b) {
    infer_token token;
    if (b->info.embedding_only || infer_session_sample(b->session, NULL, -1, &token) == INFER_OK) return 1;
    cli_fail("bench", "%s", infer_session_error(b->session)->message);
    return 0;
}

/* Pooled as the file says, but always one vector a text. */
static void embed_params(const bench *b, infer_embed_params *out) {
    memset(out, 0, sizeof *out);
    if (b->info.pooling == INFER_POOL_NONE) out->pooling = INFER_POOL_MEAN;
}

/* As many vectors as there are texts, which begin at different offsets in the same ids. */
static int run_texts(bench *b, const prompt *p, double *seconds) {
    infer_embed_params params;
    infer_error err;
    const double start = platform_clock();
    int32_t i;
    embed_params(b, &params);
    for (i = 0; i < b->texts; i++) {
        b->text_ids[i] = b->ids + i;
        b->text_n[i] = (size_t)p->tokens;
    }
    params.ids = b->text_ids;
    params.n_ids = b->text_n;
    if (infer_embed(b->context, NULL, b->texts, &params, b->vectors, &err) != INFER_OK)
        return cli_fail("bench", "%s", err.message) == CLI_DONE;
    *seconds = platform_clock() - start;
    b->evaluated_s += *seconds;
    return 1;
}

/* Each starts from the first `depth` tokens, which are in the cache. */
static int run_prompt(bench *b, const prompt *p, double *seconds) {
    double start;
    if (b->texts) return run_texts(b, p, seconds);
    if (infer_session_rewind(b->session, b->depth) != INFER_OK) return 0;
    start = platform_clock();
    if (!eval(b, b->ids + b->depth, p->tokens)) return 0;
    *seconds = platform_clock() - start;
    return 1;
}

static int run_fresh(bench *b, double *seconds) {
    double start;
    int32_t i;
    if (infer_session_rewind(b->session, b->depth) != INFER_OK) return 0;
    start = platform_clock();
    for (i = 0; i < b->fresh; i++) {
        if (!eval(b, b->ids + b->depth + i, 1) || !choose(b)) return 0;
    }
    *seconds = platform_clock() - start;
    return 1;
}

/* The first token, and all one-time costs: a prompt of every length and the one-token path. */
static int warm_up(bench *b) {
    double start = platform_clock(), seconds;
    int32_t k, first = b->n_prompts > 0 ? b->prompts[b->n_prompts - 1].tokens : 1;
    int ok = 1;
    if (b->texts) {
        for (k = 0; ok && k < b->n_prompts; k++) {
            ok = run_texts(b, &b->prompts[k], &seconds);
            if (k == 0) b->first_s = seconds;
        }
        return ok;
    }
    ok = eval(b, b->ids, first) && choose(b);
    b->first_s = platform_clock() - start;
    if (ok && b->depth > 0) ok = infer_session_rewind(b->session, 0) == INFER_OK && eval(b, b->ids, b->depth);
    for (k = 0; ok && k + 1 < b->n_prompts; k++) ok = run_prompt(b, &b->prompts[k], &seconds);
    if (ok && b->n_prompts > 0 && b->fresh > 0) {
        ok = infer_session_rewind(b->session, b->depth) == INFER_OK && eval(b, b->ids, 1);
    }
    return ok;
}

static int run_rounds(bench *b) {
    clocks *from = calloc(1, sizeof *from), *to = calloc(1, sizeof *to);
    int32_t i, k;
    int ok = from && to && warm_up(b);
    if (ok) read_clocks(from);
    for (i = 0; ok && i < b->rounds; i++) {
        for (k = 0; ok && k < b->n_prompts; k++) ok = run_prompt(b, &b->prompts[k], &b->prompts[k].seconds[i]);
        if (ok && b->fresh > 0) ok = run_fresh(b, &b->fresh_s[i]);
        if (platform_is_terminal(stderr)) fprintf(stderr, "\rround %ld of %ld", (long)i + 1, (long)b->rounds);
    }
    if (platform_is_terminal(stderr)) fprintf(stderr, "\r                    \r");
    if (ok) {
        read_clocks(to);
        b->wall_s = to->wall - from->wall;
        b->cpu_share = smallest_share(from, to, b->threads, &b->share_is_exact);
        infer_session_stats(b->session, &b->stats);
    }
    free(from);
    free(to);
    return ok;
}

/* ---- how much arithmetic a prompt is ------------------------------------------------------------ */

/* Multiply-adds of one token: every matrix of a layer, of experts only those that are used; the output matrix (or the
 * embedding, where it serves as one) is needed for the last token only. Attention's own products are not counted. */
static void count_macs(bench *b) {
    char key[96];
    infer_tensor_info t;
    infer_meta used;
    int32_t i;
    double experts = 0;
    snprintf(key, sizeof key, "%s.expert_used_count", b->info.arch);
    if (infer_meta_value(b->model, key, &used) == INFER_OK && used.kind <= INFER_META_FLOAT) experts = used.f;
    for (i = 0; infer_tensor_get(b->model, i, &t) == INFER_OK; i++) {
        double macs = (double)t.dims[0] * (double)t.rows;
        if (strncmp(t.name, "blk.", 4) != 0 || t.n_dims < 2) continue;
        if (strstr(t.name, "_exps.") && t.n_dims == 3) macs = macs / (double)t.dims[2] * experts;
        b->layer_macs += macs;
    }
    if (b->info.embedding_only) return;
    if (infer_tensor_find(b->model, "output.weight", &t) == INFER_OK ||
        infer_tensor_find(b->model, "token_embd.weight", &t) == INFER_OK) {
        b->head_macs = (double)t.dims[0] * (double)t.rows;
    }
}

/* Which peak a prompt is measured against: that of the type that holds most weights. F16 and F32 are multiplied in
 * float32, and so is BF16 where the CPU has no dot product for it; in encoders with AVX512-VNNI F16 and BF16 as integers
 * of 16 bits, at half the rate of those of 8; every other type can be multiplied as int8. On a GPU there is none: it has
 * not been measured. */
static void choose_peak(bench *b, int exact, int on_cpu) {
    const char *type = b->info.quant;
    const int halves = strcmp(type, "F16") == 0 || strcmp(type, "BF16") == 0;
    b->peak_name = "int8";
    b->peak = b->peaks.int8;
    if (!on_cpu) {
        b->peak_name = "none";
        b->peak = 0;
    } else if (!exact && halves && b->info.embedding_only && b->peaks.int16 > 0) {
        b->peak_name = "int16";
        b->peak = b->peaks.int16;
    } else if (!exact && strcmp(type, "BF16") == 0 && b->peaks.bf16 > 0) {
        b->peak_name = "bf16";
        b->peak = b->peaks.bf16;
    } else if (exact || halves || strcmp(type, "F32") == 0) {
        b->peak_name = "f32";
        b->peak = b->peaks.f32;
    }
}

/* ---- results --------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

double cli_median(double *x, int32_t n) {
    qsort(x, (size_t)n, sizeof *x, by_value);
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

double bench_rate(double work, double seconds) { return seconds > 0 ? work / seconds : 0; }

int32_t bench_profile(const bench *b, infer_profile_row *rows, double *rest) {
    int32_t i, n = 0;
    if (infer_session_profile(b->session, rows, MAX_PROFILE, &n) != INFER_OK) n = 0;
    if (n > MAX_PROFILE) n = MAX_PROFILE;
    *rest = b->evaluated_s;
    for (i = 0; i < n; i++) *rest -= rows[i].seconds;
    return n;
}

static void print_profile(const bench *b, int json) {
    infer_profile_row rows[MAX_PROFILE];
    double rest;
    const int32_t n = bench_profile(b, rows, &rest);
    int32_t i;
    if (json)
        printf(", \"profile\": [");
    else
        printf("\n%-20s %10s %10s %7s %12s %8s\n", "operation", "calls", "seconds", "share", "MB", "GB/s");
    for (i = 0; i < n; i++) {
        double gbs = bench_rate((double)rows[i].bytes * 1e-9, rows[i].seconds);
        if (json) {
            printf("{\"op\": ");
            json_text(stdout, rows[i].op);
            printf(", \"calls\": %.0f, \"seconds\": %.6f, \"bytes\": %.0f, \"gbs\": %.3f}, ", (double)rows[i].calls,
                   rows[i].seconds, (double)rows[i].bytes, gbs);
        } else {
            printf("%-20s %10.0f %10.4f %6.1f%% %12.1f %8.2f\n", rows[i].op, (double)rows[i].calls, rows[i].seconds,
                   100 * bench_rate(rows[i].seconds, b->evaluated_s), (double)rows[i].bytes * 1e-6, gbs);
        }
    }
    if (json)
        printf("{\"op\": \"rest\", \"calls\": 0, \"seconds\": %.6f, \"bytes\": 0, \"gbs\": 0}]", rest);
    else
        printf("%-20s %10s %10.4f %6.1f%%\n", "rest", "", rest, 100 * bench_rate(rest, b->evaluated_s));
}

static void finish(bench *b) {
    int32_t k;
    b->tps = b->fresh > 0 ? bench_rate(b->fresh, cli_median(b->fresh_s, b->rounds)) : 0;
    b->gbs = (double)b->stats.weight_bytes * b->tps * 1e-9;
    /* The cache was made for `cells` positions; a new token reads what is filled, on average half of the new ones. */
    b->cache_gbs = (double)b->cache_bytes / b->cells * (b->depth + b->fresh / 2.0) * b->tps * 1e-9;
    for (k = 0; k < b->n_prompts; k++) {
        prompt *p = &b->prompts[k];
        double seconds = cli_median(p->seconds, b->rounds), tokens = (double)p->tokens * (b->texts ? b->texts : 1);
        p->tps = bench_rate(tokens, seconds);
        p->gops = bench_rate(2e-9 * (b->layer_macs * tokens + (b->texts ? 0 : b->head_macs)), seconds);
        p->share = bench_rate(p->gops, b->peak * 1e-9);
    }
}

static void print_json(const bench *b, const prompt *last, const char *path, const char *backend) {
    double bandwidth = b->peaks.bandwidth * 1e-9;
    int32_t k;
    printf("{\"model\": ");
    json_text(stdout, cli_base_name(path));
    printf(", \"type\": ");
    json_text(stdout, b->info.quant);
    printf(", \"backend\": \"%s\", \"threads\": %ld, \"prompt_tokens\": %ld, \"new_tokens\": %ld, \"depth\": %ld, "
           "\"prompt_tps\": %.4f, \"tps\": %.4f, \"gbs\": %.4f, \"cache_gbs\": %.4f, \"bandwidth_gbs\": %.4f, "
           "\"bandwidth_share\": %.4f, ",
           backend, (long)b->threads, (long)last->tokens, (long)b->fresh, (long)b->depth, last->tps, b->tps, b->gbs,
           b->cache_gbs, bandwidth, bench_rate(b->gbs, bandwidth));
    printf("\"int8_gops\": %.2f, \"bf16_gflops\": %.2f, \"f32_gflops\": %.2f, ", b->peaks.int8 * 1e-9,
           b->peaks.bf16 * 1e-9, b->peaks.f32 * 1e-9);
    printf("\"int8_by\": \"%s\", \"bf16_by\": \"%s\", \"f32_by\": \"%s\", ", b->peaks.int8_by, b->peaks.bf16_by,
           b->peaks.f32_by);
    printf("\"prompt_gops\": %.3f, \"prompt_peak\": \"%s\", \"prompt_peak_share\": %.4f, \"prompts\": [", last->gops,
           b->peak_name, last->share);
    for (k = 0; k < b->n_prompts; k++) {
        const prompt *p = &b->prompts[k];
        printf("%s{\"tokens\": %ld, \"tps\": %.4f, ", k ? ", " : "", (long)p->tokens, p->tps);
        if (b->texts) printf("\"texts_per_s\": %.4f, ", p->tps / p->tokens);
        printf("\"gops\": %.3f, \"peak_share\": %.4f}", p->gops, p->share);
    }
    printf("], \"load_s\": %.6f, \"first_token_s\": %.6f, \"peak_rss_bytes\": %.0f, \"cpu_share\": %.4f", b->load_s,
           b->first_s, (double)b->peak_rss, b->cpu_share);
}

static void print_text(const bench *b, const char *path, const char *backend) {
    double bandwidth = b->peaks.bandwidth * 1e-9, gbs = b->gbs;
    int32_t k;
    char a[32];
    printf("model       %s, %s, %s parameters, %s\n", cli_base_name(path), b->info.arch,
           cli_count_text((double)b->info.parameters, a), b->info.quant);
    printf("where       %s, %ld threads\n", backend, (long)b->threads);
    if (b->peaks.bf16 > 0) snprintf(a, sizeof a, ", bf16 %.0f", b->peaks.bf16 * 1e-9);
    printf("peaks       int8 %.0f%s, f32 %.0f G operations/s (%s%s%s, %s); memory %.2f GB/s\n", b->peaks.int8 * 1e-9,
           b->peaks.bf16 > 0 ? a : "", b->peaks.f32 * 1e-9, b->peaks.int8_by, b->peaks.bf16 > 0 ? ", " : "",
           b->peaks.bf16_by, b->peaks.f32_by, bandwidth);
    printf("load        %.3f s, then %.3f s to the first token\n", b->load_s, b->first_s);
    if (b->depth > 0) printf("depth       measured after %ld tokens of context\n", (long)b->depth);
    for (k = 0; k < b->n_prompts; k++) {
        const prompt *p = &b->prompts[k];
        if (b->texts)
            printf("embedding   %ld texts of %ld tokens at %.2f texts/s, %.2f tokens/s (%.2f to %.2f)", (long)b->texts,
                   (long)p->tokens, p->tps / p->tokens, p->tps, bench_rate((double)p->tokens * b->texts, p->seconds[b->rounds - 1]),
                   bench_rate((double)p->tokens * b->texts, p->seconds[0]));
        else
            printf("prompt      %ld tokens at %.2f tokens/s (%.2f to %.2f)", (long)p->tokens, p->tps,
                   bench_rate(p->tokens, p->seconds[b->rounds - 1]), bench_rate(p->tokens, p->seconds[0]));
        if (b->peak > 0) printf(": %.0f G operations/s = %.0f %% of %s", p->gops, 100 * p->share, b->peak_name);
        printf("\n");
    }
    if (b->fresh > 0) {
        printf("generation  %ld tokens at %.2f tokens/s (%.2f to %.2f)\n", (long)b->fresh, b->tps,
               bench_rate(b->fresh, b->fresh_s[b->rounds - 1]), bench_rate(b->fresh, b->fresh_s[0]));
        printf("reads       %s of weights a token: %.2f GB/s of %.2f GB/s = %.0f %%",
               cli_bytes_text((double)b->stats.weight_bytes, a), gbs, bandwidth, 100 * bench_rate(gbs, bandwidth));
        if (b->depth > 0) {
            gbs += b->cache_gbs;
            printf("; with the cache %.2f GB/s = %.0f %%", gbs, 100 * bench_rate(gbs, bandwidth));
        }
        printf("\n");
    }
    printf("memory      %s at most\n", cli_bytes_text((double)b->peak_rss, a));
    printf("cores       %s %.0f %% of one\n",
           b->share_is_exact ? "no thread got less than" : "a thread used on average", 100 * b->cpu_share);
}

static void print_results(const bench *b, const char *path, const char *backend, int json, int profile) {
    static const prompt none;
    if (json) print_json(b, b->n_prompts > 0 ? &b->prompts[b->n_prompts - 1] : &none, path, backend);
    else print_text(b, path, backend);
    if (profile) print_profile(b, json);
    if (json) printf("}\n");
}

/* Positions of the longest measurement. */
static int32_t longest(const bench *b) {
    int32_t i, n = b->fresh;
    for (i = 0; i < b->n_prompts; i++)
        if (b->prompts[i].tokens > n) n = b->prompts[i].tokens;
    return n + b->depth;
}

/* A context suited to infer_embed, with one session for its statistics. */
static int prepare_texts(bench *b, infer_context_params *params, const cli_common *common) {
    infer_session_params session;
    infer_embed_params embed;
    infer_error err;
    int32_t width;
    memset(&session, 0, sizeof session);
    embed_params(b, &embed);
    width = infer_embed_width(b->model, &embed);
    b->text_ids = cli_alloc("bench", (size_t)b->texts, sizeof *b->text_ids);
    b->text_n = cli_alloc("bench", (size_t)b->texts, sizeof *b->text_n);
    b->vectors = cli_alloc("bench", (size_t)b->texts * (size_t)width + 1, sizeof *b->vectors);
    if (!b->text_ids || !b->text_n || !b->vectors) return 0;
    params->cells = (int32_t)common->ctx;
    if (infer_context_create(&b->context, b->model, params, &err) == INFER_OK && cli_adapters_use(b->context, &err) == INFER_OK &&
        infer_session_create_in(&b->session, b->context, &session, &err) == INFER_OK)
        return 1;
    return cli_fail("bench", "%s", err.message) == CLI_DONE;
}

static int prepare(bench *b, const cli_common *common, int profile, double started) {
    infer_context_params params;
    int32_t i, n = longest(b) + b->texts;
    uint32_t x = 12345;
    int ok;
    if (infer_model_get_info(b->model, &b->info) != INFER_OK) return 0;
    if (!b->info.computes) {
        cli_fail("bench", "%s", infer_model_why_not(b->model));
        return 0;
    }
    if (b->info.embedding_only || b->texts) b->fresh = 0;
    count_macs(b);
    cli_context_params(common, &params);
    b->threads = params.threads ? params.threads : platform_cores();
    if (b->threads > 64) b->threads = 64;
    params.threads = b->threads;
    params.profile = profile;
    for (i = 0; i < b->n_prompts; i++) {
        b->prompts[i].seconds = cli_alloc("bench", (size_t)b->rounds, sizeof *b->fresh_s);
        if (!b->prompts[i].seconds) return 0;
    }
    b->ids = cli_alloc("bench", (size_t)n + 1, sizeof *b->ids);
    b->fresh_s = cli_alloc("bench", (size_t)b->rounds, sizeof *b->fresh_s);
    if (!b->ids || !b->fresh_s) return 0;
    for (i = 0; i <= n; i++) {
        x = x * 1664525u + 1013904223u;
        b->ids[i] = (infer_token)((x >> 8) % (uint32_t)(b->info.vocab > 0 ? b->info.vocab : 1));
    }
    b->cells = (int32_t)(common->ctx ? common->ctx : common->needs);
    if (common->ctx_whole && b->info.context > b->cells) b->cells = b->info.context;
    ok = b->texts ? prepare_texts(b, &params, common)
                  : cli_session("bench", b->model, &params, b->cells, &b->context, &b->session);
    if (!ok) return 0;
    b->load_s = platform_clock() - started;
    return 1;
}

/* "512" or "4,8,16"; zeros are left out. Returns 0 after saying what is wrong. */
static int parse_list(int32_t *out, int32_t *count, const char *name, const char *text) {
    while (*text) {
        char word[32];
        const size_t length = strcspn(text, ",");
        const char *end = text + length;
        int64_t n = -1;
        snprintf(word, sizeof word, "%.*s", (int)(length < 31 ? length : 31), text);
        if (length > 30 || !cli_parse_count(word, &n) || n < 0 || n > 1 << 24 || (*end && end[1] == 0)) {
            cli_usage_error("bench", "%s: expected whole numbers with commas between them, got '%s'", name, text);
            return 0;
        }
        if (n > 0 && *count == MAX_PROMPTS) {
            cli_usage_error("bench", "%s takes %d numbers at most", name, MAX_PROMPTS);
            return 0;
        }
        if (n > 0) out[(*count)++] = (int32_t)n;
        text = *end ? end + 1 : end;
    }
    return 1;
}

static int run_requests(bench *b, const char *path, cli_common *common, const char *counts, int64_t queues, int others) {
    int32_t numbers[MAX_PROMPTS];
    bench_queue q;
    int ok;
    memset(&q, 0, sizeof q);
    if (others) return cli_usage_error("bench", "--requests goes with -p, -n and -r only");
    if (!parse_list(numbers, &q.n_counts, "--requests", counts)) return CLI_USAGE;
    if (q.n_counts == 0 || b->n_prompts != 1 || b->fresh == 0)
        return cli_usage_error("bench", "--requests needs numbers of requests, one length of prompts, and tokens to generate");
    common->needs = (int64_t)longest(b) + 16;
    cli_context_params(common, &q.context);
    q.context.cells = 0;
    q.tokens = b->prompts[0].tokens;
    q.fresh = b->fresh;
    q.rounds = b->rounds;
    q.counts = numbers;
    q.queues = (int32_t)queues;
    q.json = common->json;
    q.model = cli_open("bench", path, common, 0);
    ok = q.model && infer_model_get_info(q.model, &b->info) == INFER_OK;
    q.vocab = b->info.vocab > 0 ? b->info.vocab : 1;
    ok = ok && bench_requests(&q);
    cli_model_close(q.model);
    return ok ? CLI_DONE : CLI_FAILED;
}

/* The prompt: a file's tokens, or a bench prompt repeated, so that lookup finds matches. */
static int run_drafts(bench *b, const char *path, cli_common *common, const char *draft_path, const char *text_path, int lookup, int mtp) {
    bench_draft d;
    cli_drafter other, without; /* the model that drafts; the same model without the block that predicts */
    infer_context_params params;
    infer_token *ids = NULL;
    char *text = NULL;
    size_t n = (size_t)b->prompts[0].tokens, length = 0, i;
    int ok;
    memset(&d, 0, sizeof d);
    memset(&other, 0, sizeof other);
    memset(&without, 0, sizeof without);
    common->mtp = mtp;
    b->model = cli_open("bench", path, common, 0);
    ok = b->model != NULL && infer_model_get_info(b->model, &b->info) == INFER_OK;
    if (ok && text_path)
        ok = (text = cli_read_file("bench", text_path, &length)) != NULL &&
             cli_tokenize("bench", b->model, text, length, INFER_TEXT_ADD_SPECIAL, &ids, &n);
    else if (ok) {
        ids = cli_alloc("bench", n, sizeof *ids);
        ok = ids != NULL;
        for (i = 0; ok && i < n; i++) ids[i] = (infer_token)((uint32_t)(i % 31 * 7919 + 3) % (uint32_t)(b->info.vocab > 0 ? b->info.vocab : 1));
    }
    common->needs = (int64_t)n + b->fresh + 16;
    cli_context_params(common, &params);
    ok = ok && n <= INT32_MAX / 2 && cli_session("bench", b->model, &params, (int32_t)common->needs, &b->context, &b->session) &&
         cli_drafter_open("bench", &other, draft_path, common, &params, (int32_t)common->needs);
    common->mtp = 0;
    if (ok && mtp) ok = cli_drafter_open("bench", &without, path, common, &params, (int32_t)common->needs);
    if (ok) {
        d.session = b->session;
        d.draft = other.session;
        d.plain = mtp ? without.session : b->session;
        d.ids = ids;
        d.n_ids = (int32_t)n;
        d.fresh = b->fresh;
        d.rounds = b->rounds;
        d.lookup = lookup;
        d.mtp = mtp;
        d.json = common->json;
        ok = bench_drafts(&d);
    }
    infer_session_destroy(b->session);
    infer_context_destroy(b->context);
    cli_drafter_close(&other);
    cli_drafter_close(&without);
    cli_model_close(b->model);
    free(ids);
    free(text);
    return ok ? CLI_DONE : CLI_FAILED;
}

int cmd_bench(int argc, char **argv) {
    const char *args[1], *prompts = NULL, *lengths = NULL, *requests = NULL, *draft_path = NULL, *text_path = NULL;
    int64_t depth = 0, fresh = -1, rounds = 5, texts = 0, queues = 0;
    int32_t numbers[MAX_PROMPTS];
    int profile = 0, lookup = 0, mtp = 0, status, ok, i;
    const cli_option options[] = {
        {"-p", OPT_STRING, &prompts, "N,N,...", "prompt tokens (default 512; 0 = none); several lengths may be given", 0, 0},
        {"-n", OPT_INT, &fresh, "N", "tokens to generate (default 128; 0 = none)", 0, 1 << 24},
        {"-d", OPT_INT, &depth, "N", "start after N tokens of context (default 0)", 0, 1 << 24},
        {"--embed", OPT_STRING, &lengths, "N,N,...", "measure embedding texts of N tokens instead", 0, 0},
        {"--requests", OPT_STRING, &requests, "N,N,...", "measure N requests at a time instead, each with -p (default 128) and -n tokens", 0, 0},
        {"--queues", OPT_INT, &queues, "N", "with --requests: share them over N queues, each in a thread: for infer-mpi", 1, 256},
        {"--lookup", OPT_FLAG, &lookup, NULL, "compare generation with and without lookup drafts", 0, 0},
        {"--draft", OPT_STRING, &draft_path, "FILE", "compare with drafts by this model", 0, 0},
        {"--mtp", OPT_FLAG, &mtp, NULL, "compare with drafts by the model's multi-token prediction blocks", 0, 0},
        {"--text", OPT_STRING, &text_path, "FILE", "the text to continue with --lookup, --draft or --mtp", 0, 0},
        {"--texts", OPT_INT, &texts, "N", "texts per length of --embed (default 512)", 1, 1 << 20},
        {"-r", OPT_INT, &rounds, "N", "rounds; the median counts (default 5)", 1, 10000},
        {"--profile", OPT_FLAG, &profile, NULL, "print a table per operation (costs a few percent)", 0, 0},
    };
    const cli_spec spec = {
        "bench",
        "MODEL",
        "Measure tokens per second of prompt processing and of generation, each from an empty context (or after -d\n"
        "tokens), and how close they come to the memory bandwidth and the arithmetic peak. Figures are medians over\n"
        "the rounds. Bandwidth and peaks are measured in the same run, with the same number of threads.\n\n"
        "  gbs             bytes of weights that one token reads x tokens per second; cache_gbs: of keys and values\n"
        "  bandwidth_gbs   what the threads read from memory\n"
        "  int8_gops       int8 dot products, in operations (a multiplication and its addition are two); in the same\n"
        "                  way bf16_gflops, f32_gflops; 0 = this CPU, or --cpu-level, has none. int8_by: by what\n"
        "  prompt_gops     operations of the layers' matrices for every token, of the output matrix for the last;\n"
        "                  attention is not counted\n"
        "  prompt_peak     the peak that applies: f32 for F32, F16 and --exact, bf16 for BF16 if the CPU has it, else\n"
        "                  int8. prompt_peak_share: prompt_gops / that peak\n"
        "  draft_tps       with --lookup, --draft or --mtp: tokens per second. gain: ratio to the speed without drafts;\n"
        "                  accepted_length: tokens per pass, counting the one not drafted; same: output is identical\n"
        "  requests        with --requests: tokens of all of them per second, prompts included, and new_tps without\n"
        "                  prompts; first_token_s: until a request's first token, on average\n"
        "  prompts         every length of -p or --embed; prompt_tokens and prompt_tps are the last one's. Embeddings\n"
        "                  have texts_per_s too\n"
        "  load_s          opening the file and making the context\n"
        "  first_token_s   the first prompt and its next token, nothing warm\n"
        "  peak_rss_bytes  memory of the process, mapped weights included, bandwidth measurement excluded\n"
        "  cpu_share       smallest share of a core that a thread got: time running / (running + waiting for a core).\n"
        "                  Below 0.97 something else used the machine. Only Linux tells per thread; elsewhere it is\n"
        "                  CPU time of the process / (wall time x threads), which counts idle threads as well\n\n"
        "With --json, --profile adds a key \"profile\". --report shows the rates, with --profile also the time of operations.\n",
        options,
        sizeof options / sizeof options[0],
        TAKES_MODEL | TAKES_DEVICE | TAKES_COMPUTE | TAKES_CONTEXT | TAKES_ADAPTERS | TAKES_JSON | TAKES_REPORT,
        1,
        1};
    cli_common common;
    infer_model_params params;
    report r = {0};
    bench b;
    double started;
    if (!cli_parse(&spec, argc, argv, &common, args, &status)) return status;
    memset(&b, 0, sizeof b);
    if (lengths && (depth || prompts || fresh >= 0)) return cli_usage_error("bench", "--embed and -p, -n or -d exclude each other");
    if (fresh < 0) fresh = 128;
    if (!parse_list(numbers, &b.n_prompts, lengths ? "--embed" : "-p", lengths ? lengths : prompts ? prompts : requests ? "128" : "512"))
        return CLI_USAGE;
    for (i = 0; i < b.n_prompts; i++) b.prompts[i].tokens = numbers[i];
    if (b.n_prompts == 0 && (fresh == 0 || lengths))
        return cli_usage_error("bench", lengths ? "--embed 0 leaves nothing to measure" : "-p 0 -n 0 leaves nothing to measure");
    if (texts && !lengths) return cli_usage_error("bench", "--texts is for --embed");
    if (queues && !requests) return cli_usage_error("bench", "--queues is for --requests");
    if (lengths) b.texts = texts ? (int32_t)texts : 512;
    b.depth = (int32_t)depth;
    b.fresh = (int32_t)fresh;
    b.rounds = (int32_t)rounds;
    if (text_path && !lookup && !draft_path && !mtp) return cli_usage_error("bench", "--text is for --lookup, --draft and --mtp");
    if (common.report && (lookup || draft_path || mtp || requests)) return cli_usage_error("bench", "--report goes with -p, -n and --embed only");
    if (lookup || draft_path || mtp) {
        if (requests || lengths || depth || profile || b.fresh == 0 || b.n_prompts != 1)
            return cli_usage_error("bench", "--lookup, --draft and --mtp go with one -p or --text, -n and -r only");
        return run_drafts(&b, args[0], &common, draft_path, text_path, lookup, mtp);
    }
    if (requests) return run_requests(&b, args[0], &common, requests, queues, lengths || depth || profile);
    if (common.report) {
        status = report_open(&r, "bench", common.report, args, 1);
        if (status != CLI_DONE) return status;
    }
    common.needs = (int64_t)longest(&b) + 16;
    started = platform_clock();
    b.model = cli_open("bench", args[0], &common, 0);
    ok = b.model != NULL && prepare(&b, &common, profile, started) && run_rounds(&b);
    if (ok) {
        infer_memory memory;
        memset(&memory, 0, sizeof memory);
        infer_context_memory(b.context, &memory);
        b.cache_bytes = memory.cache;
        b.peak_rss = platform_peak_rss();
        cli_model_params("bench", &common, &params);
        cli_measure_peaks(b.threads, params.cpu_level, &b.peaks);
        choose_peak(&b, common.exact, memory.device == 0);
        finish(&b);
        print_results(&b, args[0], cli_backend_name(&memory), common.json, profile);
        if (r.path) {
            report_begin(&r, "Speed of", cli_base_name(args[0]), argc, argv);
            report_bench(&r, &b, cli_backend_name(&memory), profile);
        }
    }
    infer_session_destroy(b.session);
    infer_context_destroy(b.context);
    cli_model_close(b.model);
    free(b.ids);
    free((void *)b.text_ids);
    free(b.text_n);
    free(b.vectors);
    free(b.fresh_s);
    for (i = 0; i < MAX_PROMPTS; i++) free(b.prompts[i].seconds);
    return report_close(&r, ok ? CLI_DONE : CLI_FAILED);
}
