/* perplexity.c: the report of `infer perplexity`: models by their size, and one model along its text. */
#include "../quality/quality.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct { const char *title, *heads; report_axis axis; } WHATS[] = {
    {"Size and perplexity", "model|#bytes|#perplexity|#+/-", {"perplexity", 0, 1}},
    {"Size and KL divergence", "model|#bytes|#perplexity|#+/-|#ln of ratio|#+/-|#KL mean|#+/-|#median|#99 %|#maximum|#top 1 %|#p RMS %",
     {"mean KL divergence from the reference, in nats", 0, 1}},
    {"Size and accuracy", "model|#bytes|#accuracy %|#+/-|#right|#questions", {"accuracy, %", 0, 0}},
};

enum { MAX_FIGURES = 12, NAME = 512 };

static double *two(double *to, quality_figure f, double factor) {
    *to++ = factor * f.value;
    *to++ = factor * f.error;
    return to;
}

/* What the columns after the first hold. */
static void figures(int what, const quality_result *res, double *to) {
    const quality_sums *s = &res->sums;
    *to++ = (double)res->bytes;
    if (what == QUALITY_CHOICES) {
        to = two(to, quality_accuracy(res), 100);
        *to++ = (double)res->choices.right;
        *to++ = (double)res->choices.questions;
        return;
    }
    to = two(to, quality_perplexity(s->loss, s->loss2, s->n), 1);
    if (what == QUALITY_PERPLEXITY) return;
    to = two(two(to, quality_log_ratio(s), 1), quality_mean(s->kl, s->kl2, s->n), 1);
    *to++ = (double)res->kl_median;
    *to++ = (double)res->kl_99;
    *to++ = (double)res->kl_max;
    *to++ = 100 * quality_top_1(res);
    *to = 100 * quality_p_rms(s).value;
}

/* Of several models a row each, of one a row for each figure. */
static void show_table(report *r, int what, const char *const *models, const quality_result *results, size_t n) {
    const char *head;
    double x[MAX_FIGURES];
    char name[48] = "";
    size_t i, k;
    report_table(r, n > 1 ? WHATS[what].heads : "figure|#value");
    for (i = 0; n > 1 && i < n; i++) {
        figures(what, &results[i], x);
        report_row(r);
        report_cell(r, models[i]);
        for (k = 0, head = strchr(WHATS[what].heads, '|'); head; head = strchr(head + 1, '|')) report_number(r, x[k++]);
    }
    figures(what, &results[0], x);
    for (k = 0, head = strchr(WHATS[what].heads, '|'); n == 1 && head; head = strchr(head + 1, '|')) {
        const int same = strncmp(head, "|#+/-", 5) == 0; /* of the figure before */
        if (same) snprintf(name + strlen(name), sizeof name - strlen(name), " +/-");
        else snprintf(name, sizeof name, "%.*s", (int)strcspn(head + 2, "|"), head + 2);
        report_row(r);
        report_cell(r, name);
        report_number(r, x[k++]);
    }
    report_table_end(r);
}

static void show_course(report *r, int what, const quality_course *c, const char *title, const char *along) {
    const report_axis x = {along, 0, 0}, y = {what == QUALITY_KL ? "KL divergence" : "perplexity", 0, 0};
    double values[QUALITY_BINS];
    size_t i;
    for (i = 0; i < c->n; i++) values[i] = what == QUALITY_KL ? c->mean[i] : exp(c->mean[i]);
    report_figure(r, title, c->n == QUALITY_BINS ? "Neighbours are taken together." : NULL);
    report_line(r, &x, &y, c->at, values, c->n);
    report_table(r, what == QUALITY_KL ? "#at|#KL divergence" : "#at|#perplexity");
    for (i = 0; i < c->n; i++) {
        report_row(r);
        report_number(r, c->at[i]);
        report_number(r, values[i]);
    }
    report_table_end(r);
    report_figure_end(r);
}

void report_quality(report *r, int what, const char *const *models, const quality_result *results, size_t n) {
    static const report_axis x = {"size of the file", 1, 0};
    report_point *points = cli_alloc(r->command, n, sizeof *points);
    char (*names)[NAME] = cli_alloc(r->command, n, sizeof *names);
    size_t i;
    if (points == NULL || names == NULL) {
        free(points);
        free(names);
        r->body.failed = 1;
        return;
    }
    if (what != QUALITY_CHOICES) report_fact(r, "tokens", "%lu are predicted", (unsigned long)results[0].sums.n);
    if (what == QUALITY_KL) {
        const quality_figure base = quality_perplexity(results[0].sums.base, results[0].sums.base2, results[0].sums.n);
        report_fact(r, "reference", "perplexity %.6g +/- %.4g", base.value, base.error);
    }
    report_figure(r, n > 1 ? WHATS[what].title : "Figures", n > 1 ? "Bars are one standard deviation of the mean." : NULL);
    for (i = 0; i < n; i++) {
        const quality_result *res = &results[i];
        const quality_figure f = what == QUALITY_CHOICES ? quality_accuracy(res)
                                 : what == QUALITY_KL    ? quality_mean(res->sums.kl, res->sums.kl2, res->sums.n)
                                                         : quality_perplexity(res->sums.loss, res->sums.loss2, res->sums.n);
        const double factor = what == QUALITY_CHOICES ? 100 : 1;
        snprintf(names[i], NAME, "%s", cli_base_name(models[i]));
        if (strlen(names[i]) > 5 && strcmp(names[i] + strlen(names[i]) - 5, ".gguf") == 0) names[i][strlen(names[i]) - 5] = 0;
        points[i].name = names[i];
        points[i].x = (double)res->bytes;
        points[i].y = factor * f.value;
        points[i].error = factor * f.error;
    }
    if (n > 1 || !r->html) report_points(r, &x, &WHATS[what].axis, points, n);
    show_table(r, what, models, results, n);
    report_figure_end(r);
    free(points);
    free(names);
    if (n > 1 || what == QUALITY_CHOICES) return;
    show_course(r, what, &results[0].by_window, "Along the text", "window");
    show_course(r, what, &results[0].by_position, "By position in the window", "position");
}
