/* losses.c: perplexity and KL divergence from logits. The sums are those of llama.cpp's perplexity, so that figures can be compared. */
#include "quality.h"

#include <math.h>
#include <stdlib.h>

double quality_log_sum(const float *logits, int32_t n, float *max) {
    float m = logits[0];
    double sum = 0;
    int32_t i;
    for (i = 1; i < n; i++)
        if (logits[i] > m) m = logits[i];
    for (i = 0; i < n; i++) sum += expf(logits[i] - m);
    *max = m;
    return log(sum);
}

void quality_add(quality_sums *s, const float *logits, int32_t n, infer_token next) {
    float max;
    const double log_sum = quality_log_sum(logits, n, &max), loss = max + log_sum - logits[next];
    if (s->losses) s->losses[s->n] = (float)loss;
    s->loss += loss;
    s->loss2 += loss * loss;
    s->n++;
}

/* Less probable tokens than this add nothing that is seen: e^-16 is 1e-7. Files have no lower values. */
static const float LOWEST = -16;

static int32_t top(const float *x, int32_t n) {
    int32_t i, best = 0;
    for (i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

void quality_add_beside(quality_sums *s, const float *logits, const float *base, int32_t n, infer_token next) {
    float max;
    const double log_sum = quality_log_sum(logits, n, &max), loss = max + log_sum - logits[next], loss_base = -base[next];
    const double p_diff = exp(-loss) - exp(-loss_base);
    double kl = 0;
    int32_t i;
    for (i = 0; i < n; i++)
        if (base[i] > LOWEST) kl += exp((double)base[i]) * (base[i] - (logits[i] - max - log_sum));
    if (s->kls) s->kls[s->n] = (float)kl;
    s->loss += loss;
    s->loss2 += loss * loss;
    s->base += loss_base;
    s->base2 += loss_base * loss_base;
    s->both += loss * loss_base;
    s->kl += kl;
    s->kl2 += kl * kl;
    s->p_diff2 += p_diff * p_diff;
    s->p_diff4 += p_diff * p_diff * p_diff * p_diff;
    s->same_top += top(logits, n) == top(base, n);
    s->n++;
}

quality_figure quality_mean(double sum, double sum2, size_t n) {
    quality_figure f = {0, 0};
    double var;
    if (n == 0) return f;
    f.value = sum / (double)n;
    var = sum2 / (double)n - f.value * f.value;
    if (var > 0 && n > 1) f.error = sqrt(var / (double)(n - 1));
    return f;
}

quality_figure quality_perplexity(double loss, double loss2, size_t n) {
    quality_figure f = quality_mean(loss, loss2, n);
    f.value = exp(f.value);
    f.error *= f.value;
    return f;
}

quality_figure quality_log_ratio(const quality_sums *s) {
    const quality_figure a = quality_mean(s->loss, s->loss2, s->n), b = quality_mean(s->base, s->base2, s->n);
    quality_figure f = {a.value - b.value, 0};
    double var = 0;
    if (s->n > 1) var = a.error * a.error + b.error * b.error - 2 * (s->both / (double)s->n - a.value * b.value) / (double)(s->n - 1);
    if (var > 0) f.error = sqrt(var);
    return f;
}

quality_figure quality_p_rms(const quality_sums *s) {
    quality_figure f = quality_mean(s->p_diff2, s->p_diff4, s->n);
    f.value = sqrt(f.value);
    f.error = f.value > 0 ? 0.5 * f.error / f.value : 0;
    return f;
}

static int less(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return x < y ? -1 : x > y;
}

float quality_percentile(float *values, size_t n, double part) {
    const double at = part * (double)(n - 1);
    const size_t i = (size_t)at;
    qsort(values, n, sizeof *values, less);
    return i + 1 < n ? (float)(values[i] + (at - (double)i) * (values[i + 1] - values[i])) : values[n - 1];
}

void quality_course_of(const float *values, size_t n, int32_t window, int by_position, quality_course *out) {
    const size_t rows = (size_t)quality_rows(window), windows = n / rows, all = by_position ? rows : windows;
    double sum[QUALITY_BINS] = {0}, at[QUALITY_BINS] = {0}, count[QUALITY_BINS] = {0};
    size_t i;
    out->n = all < QUALITY_BINS ? all : QUALITY_BINS;
    for (i = 0; i < n; i++) {
        const size_t place = by_position ? i % rows : i / rows, bin = place * out->n / all;
        sum[bin] += (double)values[i];
        at[bin] += (double)place + (by_position ? (double)(window / 2) : 1);
        count[bin]++;
    }
    for (i = 0; i < out->n; i++) {
        out->at[i] = at[i] / count[i];
        out->mean[i] = sum[i] / count[i];
    }
}

double quality_top_1(const quality_result *r) { return (double)r->sums.same_top / (double)r->sums.n; }

quality_figure quality_accuracy(const quality_result *r) {
    const double right = (double)r->choices.right;
    return quality_mean(right, right, r->choices.questions); /* each is 0 or 1 */
}
