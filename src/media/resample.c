/* resample.c: sound at another rate.
 *
 * Owns:  a polyphase filter: a sinc under a Kaiser window, 64 zero crossings to each side at the lower of both rates.
 * Rules: up to 0.9 of the lower Nyquist frequency nothing changes (within 0.001 dB); from there on upwards it falls to
 *        -100 dB at the Nyquist frequency. Times are exact fractions, so nothing drifts. Outside there is silence.
 */
#include "media.h"

enum { INFER__SINC_CROSSINGS = 64, INFER__SINC_PHASES = 1024 };

/* The modified Bessel function I0, by its series. */
static double infer__bessel(double x) {
    double sum = 1, term = 1;
    int i;
    for (i = 1; i < 60; i++) sum += term *= x / 2 / i * (x / 2 / i);
    return sum;
}

/* The coefficients of one phase: out[i] belongs to the sample i - half + 1 behind the last one, `at` of the way to the
 * next; scale: cutoff per sample, 1 = the Nyquist frequency. Their sum is 1. */
static void infer__resample_phase(float *out, int n, double at, double scale) {
    const double pi = 3.14159265358979323846, beta = 10.06; /* -100 dB (Kaiser 1974: 0.1102 (dB - 8.7)) */
    double sum = 0, width = n / 2.0;
    int i;
    for (i = 0; i < n; i++) {
        double x = i - n / 2 + 1 - at, u = x / width, v = x * scale * pi;
        double w = u * u < 1 ? infer__bessel(beta * sqrt(1 - u * u)) : 0;
        w *= v * v < 1e-16 ? 1 : sin(v) / v;
        out[i] = (float)w;
        sum += w;
    }
    for (i = 0; i < n; i++) out[i] = (float)(out[i] / sum);
}

/* In 8 sums, so that a compiler can use vectors. n is a multiple of 8. */
static float infer__resample_dot(const float *a, const float *b, int n) {
    float s[8] = { 0, 0, 0, 0, 0, 0, 0, 0 };
    int i, k;
    for (i = 0; i < n; i += 8) {
        INFER__UNROLL
        for (k = 0; k < 8; k++) s[k] += a[i + k] * b[i + k];
    }
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

static infer_result infer__resample(infer__media *m, infer_sound *sound, int32_t rate) {
    uint64_t up = (uint64_t)rate, down = (uint64_t)sound->rate, a, b, n, i, room;
    double ratio, scale;
    int taps, phases, k;
    float *table, *in, *out;
    infer_result r = INFER_OK;
    if (rate == sound->rate) return INFER_OK;
    for (a = up, b = down; b != 0; n = a % b, a = b, b = n) continue;
    up /= a;
    down /= a;
    ratio = up < down ? (double)down / (double)up : 1; /* how much longer the filter is than at the lower rate */
    scale = 0.95 / ratio;                              /* the middle of the way from 0.9 to 1 */
    taps = (int)(2 * INFER__SINC_CROSSINGS * ratio / 8 + 1) * 8;
    /* Phases of the table: all that occur, or enough to interpolate between two neighbours. */
    phases = (int)INFER__MIN(up, (uint64_t)(INFER__SINC_PHASES / ratio) + 16);
    n = (sound->n * up + down - 1) / down; /* no overflow: n samples are in memory, up is below 2^20 */
    room = (uint64_t)(phases + 1) * (uint64_t)taps;
    out = (float *)infer__alloc(&m->mem, n * sizeof(float));
    in = (float *)infer__calloc(&m->mem, sound->n + 2 * (uint64_t)taps, sizeof(float)); /* silence around */
    table = (float *)infer__alloc(&m->mem, room * sizeof(float));
    if (!out || !in || !table) r = infer__media_memory(m, (n + sound->n + room) * sizeof(float));
    if (r == INFER_OK) memcpy(in + taps, sound->samples, sound->n * sizeof(float));
    for (k = 0; r == INFER_OK && k <= phases; k++) {
        infer__resample_phase(table + (size_t)k * (size_t)taps, taps, (double)k / phases, scale);
        r = infer__media_work(m, 4 * (uint64_t)taps);
    }
    for (i = 0; r == INFER_OK && i < n; i++) {
        uint64_t at = i * down / up, part = i * down % up * (uint64_t)phases; /* part / up: the phase */
        const float *x = in + at + taps - (taps / 2 - 1), *row = table + (size_t)(part / up) * (size_t)taps;
        float between = (float)(part % up) / (float)up, y = infer__resample_dot(x, row, taps);
        if (between > 0) y += between * (infer__resample_dot(x, row + taps, taps) - y);
        out[i] = y;
        r = infer__media_work(m, (uint64_t)taps / 32);
    }
    infer__free(&m->mem, table);
    infer__free(&m->mem, in);
    if (r != INFER_OK) {
        infer__free(&m->mem, out);
        return r;
    }
    infer__free(&m->mem, sound->samples);
    sound->samples = out;
    sound->n = (size_t)n;
    sound->rate = rate;
    return INFER_OK;
}
