/* mel.c: sounds as logarithmic mel spectrograms.
 *
 * Owns:  the Fourier transform, filter banks, windows, and how encoders want a sound cut into entries.
 * Way:   a transform takes two frames at once, as real and imaginary part; frames of nothing but appended zeros are not
 *        transformed. Sums are double: the reference's are float32, and 2e-4 away at most.
 * Source: O'Shaughnessy's (HTK) and Slaney's (Auditory Toolbox) mel scales; Whisper's log10, 8 below the maximum, / 4.
 */
#include "prepare.h"
#include <math.h>

enum { INFER__MEL_HOP = 160, INFER__MEL_RATE = 16000, INFER__MEL_PART = 30 * INFER__MEL_RATE, INFER__MEL_FFT = 512 };
#define INFER__MEL_SAMPLES ((uint64_t)INFER__MEL_RATE * 3600 * 24)

/* ---- Fourier transform -------------------------------------------------------------------------- */

typedef struct infer__complex { double re, im; } infer__complex;
INFER__INLINE infer__complex infer__complex_add(infer__complex a, infer__complex b) {
    a.re += b.re;
    a.im += b.im;
    return a;
}
INFER__INLINE infer__complex infer__complex_sub(infer__complex a, infer__complex b) {
    a.re -= b.re;
    a.im -= b.im;
    return a;
}
INFER__INLINE infer__complex infer__complex_mul(infer__complex a, infer__complex b) {
    infer__complex c;
    c.re = a.re * b.re - a.im * b.im;
    c.im = a.re * b.im + a.im * b.re;
    return c;
}
INFER__INLINE infer__complex infer__complex_times(infer__complex a, double s) {
    a.re *= s;
    a.im *= s;
    return a;
}
/* -i a */
INFER__INLINE infer__complex infer__complex_turn(infer__complex a) {
    infer__complex c;
    c.re = a.im;
    c.im = -a.re;
    return c;
}

/* x[0..r) -> its transform of r = 2, 4 or 5 points. */
INFER__INLINE void infer__fft_points(infer__complex *x, int r) {
    const double c1 = 0.30901699437494742, c2 = -0.80901699437494742; /* cosines and sines of 72 and 144 degrees */
    const double s1 = 0.95105651629515357, s2 = 0.58778525229247313;
    infer__complex a = infer__complex_add(x[0], x[r / 2]), b = infer__complex_sub(x[0], x[r / 2]), c, d, e;
    if (r == 2) {
        x[0] = a;
        x[1] = b;
        return;
    }
    if (r == 4) {
        c = infer__complex_add(x[1], x[3]);
        d = infer__complex_turn(infer__complex_sub(x[1], x[3]));
        x[0] = infer__complex_add(a, c);
        x[1] = infer__complex_add(b, d);
        x[2] = infer__complex_sub(a, c);
        x[3] = infer__complex_sub(b, d);
        return;
    }
    a = infer__complex_add(x[1], x[4]);
    b = infer__complex_sub(x[1], x[4]);
    c = infer__complex_add(x[2], x[3]);
    d = infer__complex_sub(x[2], x[3]);
    e = x[0];
    x[0] = infer__complex_add(e, infer__complex_add(a, c));
    {
        infer__complex p = infer__complex_add(e, infer__complex_add(infer__complex_times(a, c1),
                                                                    infer__complex_times(c, c2)));
        infer__complex q = infer__complex_add(e, infer__complex_add(infer__complex_times(a, c2),
                                                                    infer__complex_times(c, c1)));
        infer__complex u = infer__complex_turn(infer__complex_add(infer__complex_times(b, s1),
                                                                  infer__complex_times(d, s2)));
        infer__complex v = infer__complex_turn(infer__complex_sub(infer__complex_times(b, s2),
                                                                  infer__complex_times(d, s1)));
        x[1] = infer__complex_add(p, u);
        x[4] = infer__complex_sub(p, u);
        x[2] = infer__complex_add(q, v);
        x[3] = infer__complex_sub(q, v);
    }
}

/* One stage of Stockham's transform: n points, `step` transforms side by side, radix r; w[k] = exp(-2 pi i k / (n
 * step)). */
INFER__INLINE void infer__fft_stage(const infer__complex *in, infer__complex *out, const infer__complex *w, int n,
                                    int step, int r) {
    const int m = n / r;
    int p, q, k;
    infer__complex x[5];
    for (p = 0; p < m; p++)
        for (q = 0; q < step; q++) {
            for (k = 0; k < r; k++) x[k] = in[q + step * (p + m * k)];
            infer__fft_points(x, r);
            out[q + step * r * p] = x[0];
            for (k = 1; k < r; k++) out[q + step * (r * p + k)] = infer__complex_mul(x[k], w[p * k * step]);
        }
}

/* Of n = 2^a 5^b points; the result is in a or b, whichever is returned. */
static infer__complex *infer__fft(infer__complex *a, infer__complex *b, const infer__complex *w, int n) {
    int step = 1, r;
    while (n > 1) {
        infer__complex *t = a;
        r = n % 4 == 0 ? 4 : n % 5 == 0 ? 5 : 2;
        if (r == 4) infer__fft_stage(a, b, w, n, step, 4);
        else if (r == 5) infer__fft_stage(a, b, w, n, step, 5);
        else infer__fft_stage(a, b, w, n, step, 2);
        n /= r;
        step *= r;
        a = b;
        b = t;
    }
    return a;
}

/* ---- filters ------------------------------------------------------------------------------------ */

/* Hertz of mel value m, and back. Slaney's scale is linear below 1000 Hz, then 27 steps for a factor of 6.4. */
static double infer__mel_hertz(double m, int htk) {
    if (htk) return 700 * (pow(10, m / 2595) - 1);
    return m < 15 ? m * 200 / 3 : 1000 * exp((m - 15) * (log(6.4) / 27));
}
static double infer__mel_of(double hertz, int htk) {
    if (htk) return 2595 * log10(1 + hertz / 700);
    return hertz < 1000 ? hertz * 3 / 200 : 15 + log(hertz / 1000) / (log(6.4) / 27);
}

typedef struct infer__mel_work {
    const infer__mel *mel;
    int32_t bins;
    infer__complex w[INFER__MEL_FFT], a[INFER__MEL_FFT], b[INFER__MEL_FFT]; /* twiddles, and two frames */
    float window[INFER__MEL_FFT];
    double power[2][INFER__MEL_FFT / 2 + 1];
    int32_t first[512], count[512];  /* of a filter: its first frequency and how many it has */
    float *filters;                  /* bins rows of fft / 2 + 1 */
    const float *samples;
    int64_t n;                       /* samples of the part */
    double max;
} infer__mel_work;

/* Triangles between equal steps of the mel scale, from 0 to 8000 Hz; Slaney's have the area 1. */
static void infer__mel_filters(infer__mel_work *z) {
    const int htk = z->mel->plain, n = z->mel->fft / 2 + 1;
    const double end = infer__mel_of(INFER__MEL_RATE / 2, htk), hertz = (double)INFER__MEL_RATE / z->mel->fft;
    int32_t i, k;
    for (i = 0; i < z->bins; i++) {
        const double low = infer__mel_hertz(end * i / (z->bins + 1), htk);
        const double mid = infer__mel_hertz(end * (i + 1) / (z->bins + 1), htk);
        const double high = infer__mel_hertz(end * (i + 2) / (z->bins + 1), htk);
        z->first[i] = z->count[i] = 0;
        for (k = 0; k < n; k++) {
            const double f = k * hertz;
            double w = f >= low && f <= mid   ? (f - low) / (mid - low)
                       : f > mid && f <= high ? (high - f) / (high - mid)
                                              : 0;
            if (w <= 0) continue;
            if (!z->count[i]) z->first[i] = k;
            z->count[i] = k + 1 - z->first[i];
            z->filters[i * n + k] = (float)(htk ? w : w * 2 / (high - low));
        }
    }
}

static void infer__mel_begin(infer__mel_work *z, const infer__media_settings *s) {
    const double pi = 3.14159265358979323846;
    const int n = s->row->mel->fft;
    int i;
    z->mel = s->row->mel;
    z->bins = s->bins;
    for (i = 0; i < n; i++) {
        z->w[i].re = cos(2 * pi * i / n);
        z->w[i].im = -sin(2 * pi * i / n);
        z->window[i] = i < z->mel->window ? (float)(0.5 * (1 - cos(2 * pi * i / z->mel->window))) : 0;
    }
    infer__mel_filters(z);
}

static double infer__mel_sample(const infer__mel_work *z, int64_t at) {
    if (at < 0) at = z->mel->reflect ? -at : z->n;
    else if (at >= z->n && z->mel->reflect == 2) at = 2 * z->n - 2 - at;
    return at >= 0 && at < z->n ? z->samples[at] : 0;
}

/* The power spectra of frames f and f + 1. */
static void infer__mel_powers(infer__mel_work *z, int64_t f) {
    const int n = z->mel->fft;
    const int64_t at = f * INFER__MEL_HOP - z->mel->before;
    infer__complex *x;
    int i;
    if (at >= 0 && at + INFER__MEL_HOP + n <= z->n) {
        const float *p = z->samples + at;
        for (i = 0; i < n; i++) {
            z->a[i].re = (double)(z->window[i] * p[i]);
            z->a[i].im = (double)(z->window[i] * p[i + INFER__MEL_HOP]);
        }
    } else {
        for (i = 0; i < n; i++) {
            z->a[i].re = z->window[i] * infer__mel_sample(z, at + i);
            z->a[i].im = z->window[i] * infer__mel_sample(z, at + i + INFER__MEL_HOP);
        }
    }
    x = infer__fft(z->a, z->b, z->w, n);
    for (i = 0; i <= n / 2; i++) { /* the even and the odd part */
        const infer__complex u = x[i], v = x[i ? n - i : 0];
        const double re = u.re + v.re, im = u.im - v.im, re2 = u.im + v.im, im2 = v.re - u.re;
        z->power[0][i] = (re * re + im * im) / 4;
        z->power[1][i] = (re2 * re2 + im2 * im2) / 4;
        if (!z->mel->plain) continue;
        z->power[0][i] = sqrt(z->power[0][i]);
        z->power[1][i] = sqrt(z->power[1][i]);
    }
}

static float infer__mel_value(const infer__mel_work *z, const double *power, int32_t bin) {
    const float *w = z->filters + bin * (z->mel->fft / 2 + 1) + z->first[bin];
    const double *p = power + z->first[bin];
    const double least = z->mel->plain ? 0.001 : 5.960464477539063e-08; /* 2^-24 */
    double sum = 0;
    int32_t k;
    for (k = 0; k < z->count[bin]; k++) sum += p[k] * w[k];
    sum = INFER__MAX(sum, least);
    return (float)(z->mel->plain ? log(sum) : log10(sum));
}

/* ---- entries ------------------------------------------------------------------------------------ */

static int64_t infer__mel_frames(const infer__mel *m, int64_t samples) {
    if (m->raw) return (samples + m->raw - 1) / m->raw;
    if (m->apart) return INFER__MAX((samples + m->before - m->window - 1) / INFER__MEL_HOP + 1, 1);
    return samples / INFER__MEL_HOP + 1 + m->silence;
}
static int64_t infer__mel_parts(const infer__mel *m, int64_t samples) {
    return m->apart ? (samples + INFER__MEL_PART - 1) / INFER__MEL_PART : 1;
}
static int64_t infer__mel_part_samples(const infer__mel *m, int64_t samples, int64_t part) {
    return m->apart ? INFER__MIN(samples - part * INFER__MEL_PART, INFER__MEL_PART) : samples;
}

static infer_result infer__media_plan_sound(infer__mem *mem, const infer__media_settings *s, size_t samples,
                                            infer__media_list *out, infer_error *err) {
    const infer__mel *m = s->row->mel;
    const int64_t n = (int64_t)samples;
    int64_t part, at, parts, entries;
    infer_result r;
    memset(out, 0, sizeof *out);
    if (samples == 0) return infer__error(err, INFER_ERR_ARGUMENT, "a sound without samples");
    if (samples > INFER__MEL_SAMPLES)
        return infer__error(err, INFER_ERR_LIMIT, "a sound of more than 24 hours (%llu samples)",
                            (unsigned long long)samples);
    parts = infer__mel_parts(m, n);
    entries = m->apart ? parts : infer__mel_frames(m, n) / m->chunk + 1;
    r = infer__media_list_room(out, mem, entries + 2, entries, err);
    if (r != INFER_OK) return r;
    out->samples = n;
    infer__media_text(out, s->before);
    for (part = 0; part < parts; part++) {
        const int64_t frames = infer__mel_frames(m, infer__mel_part_samples(m, n, part));
        for (at = 0; at < frames; at += m->chunk) {
            infer__media_entry *e = &out->entries[out->n_entries];
            const int64_t here = INFER__MIN(frames - at, m->chunk);
            if (m->silence && here < m->chunk) break;
            e->picture = (int32_t)part;
            e->first = at;
            e->frames = here;
            e->width = (int32_t)((here + m->unit - 1) / m->unit * m->unit);
            e->height = s->bins;
            infer__media_medium(out, INFER__MEDIA_SOUND, s->row->count(e->width, s->stack));
        }
    }
    infer__media_text(out, s->after);
    return INFER_OK;
}

/* Whisper: nothing lies more than 8 below the sound's maximum; then about -1 .. 1. Frames that fill up are 0. */
static void infer__mel_normalise(infer__media_list *list, double max) {
    int32_t i, j;
    int64_t k;
    for (i = 0; i < list->n_entries; i++) {
        infer__media_entry *e = &list->entries[i];
        for (j = 0; j < e->height; j++) {
            float *v = e->values + (size_t)j * (size_t)e->width;
            for (k = 0; k < e->frames; k++) v[k] = (float)((INFER__MAX((double)v[k], max - 8) + 4) / 4);
        }
    }
}

/* Frame f of a part into the entry that has it, if one has. */
static void infer__mel_put(infer__mel_work *z, infer__media_list *list, int32_t part, int64_t f, const double *power) {
    const int32_t entry = z->mel->apart ? part : (int32_t)(f / z->mel->chunk);
    infer__media_entry *e = entry < list->n_entries ? &list->entries[entry] : NULL;
    int32_t i;
    for (i = 0; i < z->bins; i++) {
        const float v = infer__mel_value(z, power, i);
        z->max = INFER__MAX(z->max, (double)v);
        if (e && f - e->first < e->frames) e->values[(size_t)i * (size_t)e->width + (size_t)(f - e->first)] = v;
    }
}

static infer_result infer__mel_raw(infer__media_list *list, const float *samples, infer_error *err) {
    const infer_result r = infer__media_list_values(list, 1, err);
    infer__media_entry *e = list->entries;
    int64_t i;
    if (r != INFER_OK) return r;
    memset(e->values, 0, (size_t)e->width * (size_t)e->height * sizeof *e->values);
    for (i = 0; i < list->samples; i++) e->values[i % e->height * e->width + i / e->height] = samples[i];
    return r;
}

static infer_result infer__media_fill_sound(infer__media_list *list, const infer__media_settings *s,
                                            const float *samples, infer_error *err) {
    infer__mem *mem = list->arena.mem;
    const infer__mel *m = s->row->mel;
    infer__mel_work *z;
    int64_t part, f, i, j;
    infer_result r;
    for (i = 0; i < list->samples; i++)
        if (!infer__finite(samples[i]))
            return infer__error(err, INFER_ERR_ARGUMENT, "sample %lld of a sound is no finite number", (long long)i);
    if (m->raw) return infer__mel_raw(list, samples, err);
    z = (infer__mel_work *)infer__calloc(mem, 1, sizeof *z);
    if (z) z->filters = (float *)infer__calloc(mem, (uint64_t)s->bins, (uint64_t)(m->fft / 2 + 1) * sizeof(float));
    if (z && z->filters) r = infer__media_list_values(list, 1, err);
    else r = infer__error(err, INFER_ERR_MEMORY, "out of memory for the filters of a spectrogram");
    if (r == INFER_OK) {
        const float silence = (float)log10(5.960464477539063e-08);
        infer__mel_begin(z, s);
        z->max = silence;
        for (i = 0; i < list->n_entries; i++) { /* what frames of zeros have, and what fills up */
            const infer__media_entry *e = &list->entries[i];
            for (j = 0; j < (int64_t)e->width * e->height; j++) e->values[j] = m->silence ? silence : 0;
        }
        for (part = 0; part < infer__mel_parts(m, list->samples); part++) {
            int64_t frames, heard;
            z->samples = samples + part * INFER__MEL_PART;
            z->n = infer__mel_part_samples(m, list->samples, part);
            frames = infer__mel_frames(m, z->n);
            heard = (z->n + m->before + INFER__MEL_HOP - 1) / INFER__MEL_HOP; /* frames that begin before the end */
            if (m->silence) frames = INFER__MIN(frames, heard);
            for (f = 0; f < frames; f += 2) {
                infer__mel_powers(z, f);
                infer__mel_put(z, list, (int32_t)part, f, z->power[0]);
                if (f + 1 < frames) infer__mel_put(z, list, (int32_t)part, f + 1, z->power[1]);
            }
        }
        if (!m->plain) infer__mel_normalise(list, z->max);
    }
    if (z) infer__free(mem, z->filters);
    infer__free(mem, z);
    if (r != INFER_OK) infer__media_list_empty(list);
    return r;
}
