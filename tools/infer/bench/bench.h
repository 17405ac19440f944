/* bench.h: what `infer bench` measures. */
#ifndef BENCH_H
#define BENCH_H

#include "../report/report.h"

enum { MAX_PROFILE = 64, MAX_PROMPTS = 16 };

typedef struct prompt {
    int32_t tokens;
    double *seconds; /* of every round; sorted in the end */
    double tps, gops, share; /* operations per second in 1e9, and of the peak that applies */
} prompt;

typedef struct bench {
    infer_model *model;
    infer_context *context;
    infer_session *session;
    infer_model_info info;
    prompt prompts[MAX_PROMPTS];
    int32_t n_prompts, depth, fresh, rounds, threads, cells; /* depth: tokens before those measured; fresh: generated */
    int32_t texts; /* that are embedded together; 0 = no embedding */
    infer_token *ids; /* of a prompt, or of all texts */
    const infer_token **text_ids;
    size_t *text_n;
    float *vectors;
    double *fresh_s;
    double load_s, first_s, evaluated_s, wall_s; /* evaluated: all evals; wall: the measured rounds */
    double cpu_share;
    int share_is_exact;
    uint64_t peak_rss, cache_bytes; /* cache: of the whole context */
    infer_stats stats;
    double layer_macs, head_macs; /* multiply-adds of a token in the layers' matrices, and in the output matrix */
    cli_peaks peaks;
    double tps, gbs, cache_gbs; /* of generation: tokens, and 1e9 bytes of weights and of the cache, per second */
    const char *peak_name; /* the peak that applies to this model's matrices, and its operations per second */
    double peak;
} bench;

/* Work over time; 0 when no time was measured. */
double bench_rate(double work, double seconds);
/* Rows of --profile, to at most MAX_PROFILE, and the seconds that none of them has. Returns how many. */
int32_t bench_profile(const bench *b, infer_profile_row *rows, double *rest);

/* ---- report/bench.c ------------------------------------------------------------------------- */

void report_bench(report *r, const bench *b, const char *backend, int profile);

#endif
