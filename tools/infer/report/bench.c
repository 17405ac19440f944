/* bench.c: the report of `infer bench`: rates, and the time of operations. */
#include "../bench/bench.h"

#include <stdio.h>

enum { MAX_RATES = MAX_PROMPTS + 1 };

/* What is measured is texts with --embed, tokens otherwise. */
static void show_rates(report *r, const bench *b) {
    const report_axis axis = {b->texts ? "texts per second" : "tokens per second", 0, 0};
    double values[MAX_RATES], low[MAX_RATES], high[MAX_RATES];
    const report_series series = {"", values, low, high};
    char names[MAX_RATES][48];
    const char *list[MAX_RATES];
    const int32_t last = b->rounds - 1;
    int32_t i, n = 0;
    for (i = 0; i < b->n_prompts; i++, n++) {
        const prompt *p = &b->prompts[i];
        const double work = b->texts ? b->texts : p->tokens;
        snprintf(names[n], sizeof names[n], b->texts ? "texts of %ld tokens" : "prompt of %ld", (long)p->tokens);
        values[n] = b->texts ? p->tps / p->tokens : p->tps;
        low[n] = bench_rate(work, p->seconds[last]);
        high[n] = bench_rate(work, p->seconds[0]);
    }
    if (b->fresh > 0) {
        snprintf(names[n], sizeof names[n], "generation of %ld", (long)b->fresh);
        values[n] = b->tps;
        low[n] = bench_rate(b->fresh, b->fresh_s[last]);
        high[n++] = bench_rate(b->fresh, b->fresh_s[0]);
    }
    for (i = 0; i < n; i++) list[i] = names[i];
    report_figure(r, "Rates", "Medians of the rounds; lines go from the slowest to the fastest.");
    report_bars(r, &axis, list, (size_t)n, &series, 1);
    report_table(r, b->texts ? "what|#texts/s|#lowest|#highest|#tokens/s|#% of the peak" : "what|#tokens/s|#lowest|#highest|#GB/s|#% of the peak");
    for (i = 0; i < n; i++) {
        const int generation = i == b->n_prompts;
        const double bandwidth = b->peaks.bandwidth * 1e-9;
        report_row(r);
        report_cell(r, names[i]);
        report_number(r, values[i]);
        report_number(r, low[i]);
        report_number(r, high[i]);
        if (b->texts) report_number(r, b->prompts[i].tps);
        else if (generation) report_number(r, b->gbs);
        else report_no_number(r);
        if (generation ? bandwidth > 0 : b->peak > 0) report_number(r, 100 * (generation ? bench_rate(b->gbs, bandwidth) : b->prompts[i].share));
        else report_no_number(r);
    }
    report_table_end(r);
    report_figure_end(r);
}

static void show_profile(report *r, const bench *b) {
    static const report_axis axis = {"seconds in all", 0, 0};
    infer_profile_row rows[MAX_PROFILE + 1];
    double seconds[MAX_PROFILE + 1], rest;
    const report_series series = {"", seconds, NULL, NULL};
    const char *names[MAX_PROFILE + 1];
    int32_t i, n = bench_profile(b, rows, &rest);
    const infer_profile_row other = {"rest", 0, 0, rest > 0 ? rest : 0};
    rows[n++] = other;
    for (i = 0; i < n; i++) {
        names[i] = rows[i].op;
        seconds[i] = rows[i].seconds;
    }
    report_figure(r, "Time by operation", "Of all rounds, the first one too.");
    report_bars(r, &axis, names, (size_t)n, &series, 1);
    report_table(r, "operation|#calls|#seconds|#share %|#MB|#GB/s");
    for (i = 0; i < n; i++) {
        report_row(r);
        report_cell(r, rows[i].op);
        report_number(r, (double)rows[i].calls);
        report_number(r, rows[i].seconds);
        report_number(r, 100 * bench_rate(rows[i].seconds, b->evaluated_s));
        report_number(r, (double)rows[i].bytes * 1e-6);
        report_number(r, bench_rate((double)rows[i].bytes * 1e-9, rows[i].seconds));
    }
    report_table_end(r);
    report_figure_end(r);
}

void report_bench(report *r, const bench *b, const char *backend, int profile) {
    char text[32];
    report_fact(r, "model", "%s, %s parameters, %s", b->info.arch, cli_count_text((double)b->info.parameters, text), b->info.quant);
    report_fact(r, "where", "%s, %ld threads", backend, (long)b->threads);
    report_fact(r, "peaks", "int8 %.0f, f32 %.0f G operations/s (%s, %s); memory %.2f GB/s", b->peaks.int8 * 1e-9, b->peaks.f32 * 1e-9, b->peaks.int8_by, b->peaks.f32_by,
                b->peaks.bandwidth * 1e-9);
    if (b->depth > 0) report_fact(r, "depth", "%ld tokens of context", (long)b->depth);
    report_fact(r, "load", "%.3f s, then %.3f s to the first token", b->load_s, b->first_s);
    report_fact(r, "memory", "%s at most", cli_bytes_text((double)b->peak_rss, text));
    report_fact(r, "cores", "%s %.0f %% of one", b->share_is_exact ? "no thread got less than" : "a thread used on average", 100 * b->cpu_share);
    show_rates(r, b);
    if (profile) show_profile(r, b);
}
