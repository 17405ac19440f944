/* bench.c: `infer bench`, tokens per second, and how far that is from what the memory can do.
 *
 * Prompt and generation are measured apart, each from an empty session, with fixed pseudo-random ids (a model that
 * repeats itself would hit the same experts and look faster). Medians of -r rounds; the first round of all, which
 * pays for page faults, is reported as first_token_s and counts for nothing else. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_PROFILE = 64, BANDWIDTH_PASSES = 9 };

typedef struct bench {
    infer_model *model;
    infer_context *context;
    infer_session *session;
    infer_model_info info;
    int32_t prompt, fresh, rounds, threads; /* tokens of a prompt, tokens to generate */
    infer_token *ids;
    double *prompt_s, *fresh_s;
    double load_s, first_s, evaluated_s, wall_s; /* evaluated: all evals; wall: the measured rounds */
    double bandwidth, cpu_share;
    int share_is_exact;
    uint64_t peak_rss;
    infer_stats stats;
} bench;

/* ---- memory bandwidth ------------------------------------------------------------------------ */

typedef struct reader {
    uint64_t *data;
    size_t words; /* of one thread */
    uint64_t sums[64];
} reader;

static void touch(void *arg, int i) {
    reader *r = arg;
    memset(r->data + (size_t)i * r->words, 1, r->words * sizeof *r->data);
}

/* Look for a byte that is not there: most C libraries do that with the widest loads of the machine. */
static void read_by_search(void *arg, int i) {
    reader *r = arg;
    r->sums[i] = memchr(r->data + (size_t)i * r->words, 2, r->words * sizeof *r->data) != NULL;
}

/* For the others: eight sums side by side, so that loads and not additions are what takes time. */
static void read_by_sum(void *arg, int i) {
    reader *r = arg;
    const uint64_t *x = r->data + (size_t)i * r->words;
    uint64_t s[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    size_t k;
    for (k = 0; k + 8 <= r->words; k += 8) {
        s[0] += x[k];
        s[1] += x[k + 1];
        s[2] += x[k + 2];
        s[3] += x[k + 3];
        s[4] += x[k + 4];
        s[5] += x[k + 5];
        s[6] += x[k + 6];
        s[7] += x[k + 7];
    }
    r->sums[i] = s[0] + s[1] + s[2] + s[3] + s[4] + s[5] + s[6] + s[7];
}

/* Bytes per second that `threads` threads read together, the best of a few passes of both ways; 0 when it cannot be
 * measured. */
static double measure_bandwidth(int threads) {
    size_t bytes = (size_t)512 << 20;
    reader *r = calloc(1, sizeof *r);
    double best = 0;
    int pass;
    if (r == NULL) return 0;
    while (bytes >= (size_t)32 << 20 && (r->data = malloc(bytes)) == NULL) bytes /= 2;
    if (r->data) {
        r->words = bytes / sizeof *r->data / (size_t)threads / 8 * 8;
        if (platform_run_threads(threads, touch, r)) {
            for (pass = 0; pass < BANDWIDTH_PASSES; pass++) {
                double start = platform_clock(), took;
                if (!platform_run_threads(threads, pass % 2 ? read_by_sum : read_by_search, r)) break;
                took = platform_clock() - start;
                if (took > 0 && (double)(r->words * 8) * threads / took > best) {
                    best = (double)(r->words * 8) * threads / took;
                }
            }
        }
    }
    free(r->data);
    free(r);
    return best;
}

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
 * does not tell: CPU time of the process / (wall x threads), which also counts a thread that had nothing to do. */
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

static int run_prompt(bench *b, double *seconds) {
    double start;
    if (infer_session_rewind(b->session, 0) != INFER_OK) return 0;
    start = platform_clock();
    if (!eval(b, b->ids, b->prompt)) return 0;
    *seconds = platform_clock() - start;
    return 1;
}

static int run_fresh(bench *b, double *seconds) {
    double start;
    int32_t i;
    if (infer_session_rewind(b->session, 0) != INFER_OK) return 0;
    start = platform_clock();
    for (i = 0; i < b->fresh; i++) {
        if (!eval(b, b->ids + i, 1) || !choose(b)) return 0;
    }
    *seconds = platform_clock() - start;
    return 1;
}

static int run_rounds(bench *b) {
    clocks *from = calloc(1, sizeof *from), *to = calloc(1, sizeof *to);
    double start = platform_clock();
    int32_t i;
    int ok = from && to && eval(b, b->ids, b->prompt > 0 ? b->prompt : 1) && choose(b);
    b->first_s = platform_clock() - start;
    if (ok && b->prompt > 0 && b->fresh > 0) ok = eval(b, b->ids, 1); /* warm up the one-token path as well */
    if (ok) read_clocks(from);
    for (i = 0; ok && i < b->rounds; i++) {
        if (b->prompt > 0) ok = run_prompt(b, &b->prompt_s[i]);
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

/* ---- results --------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Sorts x. */
static double median(double *x, int32_t n) {
    qsort(x, (size_t)n, sizeof *x, by_value);
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

static double rate(double tokens, double seconds) { return seconds > 0 ? tokens / seconds : 0; }

static void print_profile(const bench *b, int json) {
    infer_profile_row rows[MAX_PROFILE];
    int32_t i, n = 0;
    double rest = b->evaluated_s;
    if (infer_session_profile(b->session, rows, MAX_PROFILE, &n) != INFER_OK) n = 0;
    if (n > MAX_PROFILE) n = MAX_PROFILE;
    if (json)
        printf(", \"profile\": [");
    else
        printf("\n%-20s %10s %10s %7s %12s %8s\n", "operation", "calls", "seconds", "share", "MB", "GB/s");
    for (i = 0; i < n; i++) {
        double gbs = rate((double)rows[i].bytes * 1e-9, rows[i].seconds);
        rest -= rows[i].seconds;
        if (json) {
            printf("{\"op\": ");
            json_text(stdout, rows[i].op);
            printf(", \"calls\": %.0f, \"seconds\": %.6f, \"bytes\": %.0f, \"gbs\": %.3f}, ", (double)rows[i].calls,
                   rows[i].seconds, (double)rows[i].bytes, gbs);
        } else {
            printf("%-20s %10.0f %10.4f %6.1f%% %12.1f %8.2f\n", rows[i].op, (double)rows[i].calls, rows[i].seconds,
                   100 * rate(rows[i].seconds, b->evaluated_s), (double)rows[i].bytes * 1e-6, gbs);
        }
    }
    if (json)
        printf("{\"op\": \"rest\", \"calls\": 0, \"seconds\": %.6f, \"bytes\": 0, \"gbs\": 0}]", rest);
    else
        printf("%-20s %10s %10.4f %6.1f%%\n", "rest", "", rest, 100 * rate(rest, b->evaluated_s));
}

static void print_results(bench *b, const char *path, const char *backend, int json, int profile) {
    double prompt_s = b->prompt > 0 ? median(b->prompt_s, b->rounds) : 0;
    double fresh_s = b->fresh > 0 ? median(b->fresh_s, b->rounds) : 0;
    double prompt_tps = rate(b->prompt, prompt_s), tps = rate(b->fresh, fresh_s);
    double gbs = (double)b->stats.weight_bytes * tps * 1e-9, bandwidth = b->bandwidth * 1e-9;
    char a[32];
    if (json) {
        printf("{\"model\": ");
        json_text(stdout, cli_base_name(path));
        printf(", \"type\": ");
        json_text(stdout, b->info.quant);
        printf(", \"backend\": \"%s\", \"threads\": %ld, \"prompt_tokens\": %ld, \"new_tokens\": %ld, "
               "\"prompt_tps\": %.4f, \"tps\": %.4f, "
               "\"gbs\": %.4f, \"bandwidth_gbs\": %.4f, \"bandwidth_share\": %.4f, \"load_s\": %.6f, "
               "\"first_token_s\": %.6f, \"peak_rss_bytes\": %.0f, \"cpu_share\": %.4f",
               backend, (long)b->threads, (long)b->prompt, (long)b->fresh, prompt_tps, tps, gbs, bandwidth,
               rate(gbs, bandwidth), b->load_s, b->first_s, (double)b->peak_rss, b->cpu_share);
        if (profile) print_profile(b, 1);
        printf("}\n");
        return;
    }
    printf("model       %s, %s, %s parameters, %s\n", cli_base_name(path), b->info.arch,
           cli_count_text((double)b->info.parameters, a), b->info.quant);
    printf("where       %s, %ld threads\n", backend, (long)b->threads);
    printf("load        %.3f s, then %.3f s to the first token\n", b->load_s, b->first_s);
    if (b->prompt > 0) {
        printf("prompt      %ld tokens at %.2f tokens/s (%.2f to %.2f)\n", (long)b->prompt, prompt_tps,
               rate(b->prompt, b->prompt_s[b->rounds - 1]), rate(b->prompt, b->prompt_s[0]));
    }
    if (b->fresh > 0) {
        printf("generation  %ld tokens at %.2f tokens/s (%.2f to %.2f)\n", (long)b->fresh, tps,
               rate(b->fresh, b->fresh_s[b->rounds - 1]), rate(b->fresh, b->fresh_s[0]));
        printf("reads       %s of weights a token: %.2f GB/s of %.2f GB/s = %.0f %%\n",
               cli_bytes_text((double)b->stats.weight_bytes, a), gbs, bandwidth, 100 * rate(gbs, bandwidth));
    }
    printf("memory      %s at most\n", cli_bytes_text((double)b->peak_rss, a));
    printf("cores       %s %.0f %% of one\n",
           b->share_is_exact ? "no thread got less than" : "a thread used on average", 100 * b->cpu_share);
    if (profile) print_profile(b, 0);
}

static int prepare(bench *b, const cli_common *common, int profile, double started) {
    infer_context_params params;
    int32_t i, n = b->prompt > b->fresh ? b->prompt : b->fresh;
    uint32_t x = 12345;
    if (infer_model_get_info(b->model, &b->info) != INFER_OK) return 0;
    if (!b->info.computes) {
        cli_fail("bench", "%s", infer_model_why_not(b->model));
        return 0;
    }
    if (b->info.embedding_only) b->fresh = 0;
    cli_context_params(common, &params);
    b->threads = params.threads ? params.threads : platform_cores();
    if (b->threads > 64) b->threads = 64;
    params.threads = b->threads;
    params.profile = profile;
    b->ids = cli_alloc("bench", (size_t)n + 1, sizeof *b->ids);
    b->prompt_s = cli_alloc("bench", (size_t)b->rounds, sizeof *b->prompt_s);
    b->fresh_s = cli_alloc("bench", (size_t)b->rounds, sizeof *b->fresh_s);
    if (!b->ids || !b->prompt_s || !b->fresh_s) return 0;
    for (i = 0; i <= n; i++) {
        x = x * 1664525u + 1013904223u;
        b->ids[i] = (infer_token)((x >> 8) % (uint32_t)(b->info.vocab > 0 ? b->info.vocab : 1));
    }
    n = common->ctx ? (int32_t)common->ctx : n + 16;
    if (!cli_session("bench", b->model, &params, n, &b->context, &b->session)) return 0;
    b->load_s = platform_clock() - started;
    return 1;
}

int cmd_bench(int argc, char **argv) {
    const char *args[1];
    int64_t prompt = 512, fresh = 128, rounds = 5;
    int profile = 0, status, ok;
    const cli_option options[] = {
        {"-p", OPT_INT, &prompt, "N", "tokens of the prompt (default 512; 0 = none)", 0, 1 << 24},
        {"-n", OPT_INT, &fresh, "N", "tokens to generate (default 128; 0 = none)", 0, 1 << 24},
        {"-r", OPT_INT, &rounds, "N", "rounds, of which the median counts (default 5)", 1, 10000},
        {"--profile", OPT_FLAG, &profile, NULL, "a table per operation; measuring costs a few percent", 0, 0},
    };
    const cli_spec spec = {
        "bench",
        "MODEL",
        "Tokens per second of a prompt and of a generation, each from an empty context, and the share of the memory's\n"
        "bandwidth that generation reaches. Medians of the rounds.\n\n"
        "  gbs             bytes of weights that one token reads x tokens per second\n"
        "  bandwidth_gbs   what the same number of threads read from memory, measured in the same run\n"
        "  load_s          opening the file and making the context\n"
        "  first_token_s   the first prompt and its next token, nothing warm\n"
        "  peak_rss_bytes  memory of the process, mapped weights included, bandwidth measurement excluded\n"
        "  cpu_share       smallest share of a core that a thread got: time running / (running + waiting for a core).\n"
        "                  Below 0.95 something else used the machine. Only Linux tells per thread; elsewhere it is\n"
        "                  CPU time of the process / (wall time x threads), which counts idle threads as well\n\n"
        "With --json, --profile adds a key \"profile\".\n",
        options,
        4,
        TAKES_MODEL | TAKES_DEVICE | TAKES_COMPUTE | TAKES_CONTEXT | TAKES_JSON,
        1,
        1};
    cli_common common;
    bench b;
    double started;
    if (!cli_parse(&spec, argc, argv, &common, args, &status)) return status;
    if (prompt == 0 && fresh == 0) return cli_usage_error("bench", "-p 0 -n 0 leaves nothing to measure");
    memset(&b, 0, sizeof b);
    b.prompt = (int32_t)prompt;
    b.fresh = (int32_t)fresh;
    b.rounds = (int32_t)rounds;
    started = platform_clock();
    b.model = cli_open("bench", args[0], &common, 0);
    ok = b.model != NULL && prepare(&b, &common, profile, started) && run_rounds(&b);
    if (ok) {
        infer_memory memory;
        memset(&memory, 0, sizeof memory);
        infer_context_memory(b.context, &memory);
        b.peak_rss = platform_peak_rss();
        b.bandwidth = measure_bandwidth(b.threads);
        print_results(&b, args[0], cli_backend_name(&common, memory.device), common.json, profile);
    }
    infer_session_destroy(b.session);
    infer_context_destroy(b.context);
    infer_model_close(b.model);
    free(b.ids);
    free(b.prompt_s);
    free(b.fresh_s);
    return ok ? CLI_DONE : CLI_FAILED;
}
