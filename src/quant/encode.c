/* encode.c: the codes and scales of a block with the least error, for types that files have.
 *
 * Owns:  the searches; encode_blocks.c has the layouts. May not know: tensors, files.
 * Error: the sum of w * (x - value)^2, w the importance of a column (all equal without one). Infinities and NaN count
 *        as 0.
 * How:   codes follow from a scale, the best scale for given codes from least squares; several scales are tried first,
 *        and what is best is improved by turns until nothing changes. Of a block with scales of scales these are tried
 *        one up and one down.
 * Rules: codes are floats until a block is packed, and sums have eight lanes, which compilers make vectors of. The same
 *        bytes on every machine that has IEEE floats, but for fused multiply-add: a tie may go the other way.
 */
#include "quant_types.h"

enum { INFER__SUB_MAX = 16, INFER__FIT_TURNS = 4, INFER__FIT_LANES = 8 };
#define INFER__EACH_LANE for (k = 0; k < INFER__FIT_LANES; k++)

/* The multiples of a scale that codes stand for: all integers lo..hi, or the levels of a table, of which the middle
 * between two lies middles / 64 above lo, and the higher one steps above the other. */
typedef struct infer__grid {
    float lo, hi;
    const int16_t *middles, *steps; /* 15 each; NULL = integers */
} infer__grid;

INFER__INLINE float infer__lane_sum(const float *a) {
    return ((a[0] + a[1]) + (a[2] + a[3])) + ((a[4] + a[5]) + (a[6] + a[7]));
}

/* The nearest of the grid to each x * inverse, and the sums for the best scale of such codes: that is xq / qq, and
 * takes xq^2 / qq from the error. */
INFER__INLINE void infer__grid_sums(const infer__grid *g, const float *INFER__RESTRICT x,
                                    const float *INFER__RESTRICT w, int n, float inverse, float *INFER__RESTRICT q,
                                    float *xq, float *qq) {
    const float lo = g->lo, hi = g->hi;
    float a[INFER__FIT_LANES] = {0}, b[INFER__FIT_LANES] = {0};
    int j, k, i;
    for (j = 0; j < n; j += INFER__FIT_LANES) {
        float v[INFER__FIT_LANES], c[INFER__FIT_LANES];
        INFER__EACH_LANE {
            float t = x[j + k] * inverse;
            t = t < lo ? lo : t;
            v[k] = t > hi ? hi : t;
        }
        if (g->middles) { /* in 64ths; integers, which compilers compare in vectors */
            int32_t u[INFER__FIT_LANES], l[INFER__FIT_LANES] = {0};
            INFER__EACH_LANE u[k] = (int32_t)(64.0f * (v[k] - lo));
            for (i = 0; i < 15; i++) {
                const int32_t middle = g->middles[i], step = g->steps[i];
                INFER__EACH_LANE l[k] += -(int32_t)(u[k] > middle) & step;
            }
            INFER__EACH_LANE c[k] = (float)l[k] + lo;
        } else INFER__EACH_LANE c[k] = (float)(int)(v[k] - lo + 0.5f) + lo;
        INFER__EACH_LANE {
            const float wc = w[j + k] * c[k];
            q[j + k] = c[k];
            a[k] += wc * x[j + k];
            b[k] += wc * c[k];
        }
    }
    *xq = infer__lane_sum(a);
    *qq = infer__lane_sum(b);
}

/* x = d * q: returns d, codes to q. */
static float infer__fit_scaled(const infer__grid *g, const float *x, const float *w, int n, float *q) {
    float t[32], extreme = 0, best = 0, d = 0, xq, qq;
    const int tries = g->hi > 16 && !g->middles ? 4 : 10; /* steps of many codes are small anyway */
    int j, k, turn;
    for (j = 0; j < n; j++)
        if (fabsf(x[j]) > fabsf(extreme)) extreme = x[j];
    infer__grid_sums(g, x, w, n, 0, q, &xq, &qq);
    if (!(fabsf(extreme) > 1e-30f)) return 0;
    for (k = -tries; k < tries; k++) { /* the extreme value becomes the lowest of the grid, or nearly, or its highest */
        const int at = k < 0 ? -k - 1 : k;
        const float end = k < 0 ? g->lo : g->hi, step = g->hi > 16 ? 1.0f / 80 : g->hi > 2 ? 0.1f / g->hi : 0.05f;
        float inverse = end * (1.0f + step * (float)(2 * at - tries + 1)) / extreme;
        for (turn = 0; turn < 2; turn++) {
            infer__grid_sums(g, x, w, n, inverse, t, &xq, &qq);
            if (!(qq > 0) || !(xq * xq > best * qq)) break;
            best = xq * xq / qq;
            d = xq / qq;
            memcpy(q, t, (size_t)n * sizeof *q);
            if (!(fabsf(d) > 1e-30f)) break;
            inverse = 1.0f / d;
        }
    }
    for (turn = 0; turn < INFER__FIT_TURNS && fabsf(d) > 1e-30f; turn++) {
        infer__grid_sums(g, x, w, n, 1.0f / d, t, &xq, &qq);
        if (!(qq > 0) || !(xq * xq > best * qq)) break;
        best = xq * xq / qq;
        d = xq / qq;
        memcpy(q, t, (size_t)n * sizeof *q);
    }
    return d;
}

/* The sum of w * (x - (d * q - m))^2. */
INFER__INLINE float infer__fit_error(const float *INFER__RESTRICT x, const float *INFER__RESTRICT w,
                                     const float *INFER__RESTRICT q, int n, float d, float m) {
    float e[INFER__FIT_LANES] = {0};
    int j, k;
    for (j = 0; j < n; j += INFER__FIT_LANES)
        INFER__EACH_LANE {
            const float diff = x[j + k] + m - d * q[j + k];
            e[k] += w[j + k] * diff * diff;
        }
    return infer__lane_sum(e);
}

/* Codes 0..top of x = d * q - m for given d and m; returns the error. */
INFER__INLINE float infer__ranged_codes(const float *INFER__RESTRICT x, const float *INFER__RESTRICT w, int n, float d,
                                        float inverse, float m, float top, float *INFER__RESTRICT q) {
    float e[INFER__FIT_LANES] = {0};
    int j, k;
    for (j = 0; j < n; j += INFER__FIT_LANES)
        INFER__EACH_LANE {
            float v = (x[j + k] + m) * inverse, diff;
            v = v < 0 ? 0 : v;
            v = v > top ? top : v;
            v = (float)(int)(v + 0.5f);
            q[j + k] = v;
            diff = x[j + k] + m - d * v;
            e[k] += w[j + k] * diff * diff;
        }
    return infer__lane_sum(e);
}

/* Least squares for d and m of given codes: a minimum above 0 is none where the type cannot have it (any_min = 0). */
typedef struct infer__line { float sw, sx; } infer__line; /* sums of w, w x */
INFER__INLINE void infer__fit_line(const infer__line *l, const float *INFER__RESTRICT x, const float *INFER__RESTRICT w,
                                   const float *INFER__RESTRICT q, int n, int any_min, float *d, float *m) {
    float a[INFER__FIT_LANES] = {0}, b[INFER__FIT_LANES] = {0}, c[INFER__FIT_LANES] = {0}, sq, sqq, sxq, det;
    int j, k;
    for (j = 0; j < n; j += INFER__FIT_LANES)
        INFER__EACH_LANE {
            const float wq = w[j + k] * q[j + k];
            a[k] += wq;
            b[k] += wq * q[j + k];
            c[k] += wq * x[j + k];
        }
    sq = infer__lane_sum(a);
    sqq = infer__lane_sum(b);
    sxq = infer__lane_sum(c);
    det = l->sw * sqq - sq * sq;
    *m = 0;
    *d = sqq > 0 ? sxq / sqq : 0;
    if (!(det > 0) || (!any_min && !(sq * sxq - sqq * l->sx > 0))) return;
    *d = (l->sw * sxq - l->sx * sq) / det;
    *m = (sq * sxq - sqq * l->sx) / det;
}

/* x = d * q - m with codes 0..top: returns d. m >= 0 unless any_min. */
static float infer__fit_ranged(const float *x, const float *w, int n, float top, int any_min, float *q, float *m) {
    float t[32], lo = x[0], hi = x[0], d = 0, best, e, td, tm;
    infer__line line = {0, 0};
    int j, k, turn;
    for (j = 0; j < n; j++) {
        if (x[j] < lo) lo = x[j];
        if (x[j] > hi) hi = x[j];
        line.sw += w[j];
        line.sx += w[j] * x[j];
        q[j] = 0;
    }
    if (!any_min && lo > 0) lo = 0;
    *m = -lo;
    if (!(hi - lo > 1e-30f)) return 0;
    best = infer__fit_error(x, w, q, n, 0, *m);
    for (k = -6; k <= 6; k++) {
        const float inverse = (top + 0.15f * (float)k * (top > 8 ? 1.0f : 0.6f)) / (hi - lo);
        infer__ranged_codes(x, w, n, 1.0f / inverse, inverse, -lo, top, t);
        for (turn = 0; turn < 3; turn++) {
            infer__fit_line(&line, x, w, t, n, any_min, &td, &tm);
            e = infer__fit_error(x, w, t, n, td, tm);
            if (!(td > 1e-30f) || !(e < best)) break;
            best = e;
            d = td;
            *m = tm;
            memcpy(q, t, (size_t)n * sizeof *q);
            infer__ranged_codes(x, w, n, td, 1.0f / td, tm, top, t);
        }
    }
    return d;
}

/* ---- scales of scales ------------------------------------------------------------------------- */

/* A scale as it will be read: fp16, which ends at 65504. */
INFER__INLINE float infer__f16_round(float x) {
    return infer__f16_f32(infer__f32_f16(x > 65504.0f ? 65504.0f : x < -65504.0f ? -65504.0f : x));
}
INFER__INLINE float infer__fit_inverse(float d) { return fabsf(d) > 1e-30f ? 1.0f / d : 0.0f; }
INFER__INLINE int infer__fit_int(float x, int lo, int hi) {
    if (!infer__finite(x)) return hi;
    x = x < (float)lo ? (float)lo : x > (float)hi ? (float)hi : x;
    return (int)(x - (float)lo + 0.5f) + lo;
}

/* 256 values in `subs` groups; x = d * scales[i] * q (- dmin * mins[i]). */
typedef struct infer__blocks {
    int subs, lo, hi; /* of the scales */
    infer__grid grid; /* of the codes, or with minima 0..grid.hi */
} infer__blocks;

/* The scale of a group near the wanted one that leaves the least error, its codes to q. Returns how much it takes from
 * the error, twice the product less the square; sums for the best d to *xv and *vv. */
static float infer__fit_group(const infer__blocks *b, const float *x, const float *w, int n, float d, float want,
                              float *q, int8_t *scale, float *xv, float *vv) {
    const int guess = infer__fit_int(want * infer__fit_inverse(d), b->lo, b->hi);
    float t[32], best = 0, best_xq = 0, best_qq = 0, xq, qq;
    int k;
    *scale = 0;
    for (k = INFER__MAX(guess - 1, b->lo); k <= guess + 1 && k <= b->hi; k++) {
        const float ds = d * (float)k;
        float gain;
        infer__grid_sums(&b->grid, x, w, n, infer__fit_inverse(ds), t, &xq, &qq);
        gain = ds * (2.0f * xq - ds * qq);
        if (!(gain > best)) continue;
        best = gain;
        best_xq = xq;
        best_qq = qq;
        *scale = (int8_t)k;
        memcpy(q, t, (size_t)n * sizeof *q);
    }
    if (best == 0) infer__grid_sums(&b->grid, x, w, n, 0, q, &xq, &qq); /* a scale of 0, and any codes */
    *xv += best_xq * (float)*scale;
    *vv += best_qq * (float)(*scale * *scale);
    return best;
}

/* Returns d, an fp16. */
static float infer__fit_block(const infer__blocks *b, const float *x, const float *w, int8_t *scales, float *q) {
    const int n = 256 / b->subs;
    float t[256], want[INFER__SUB_MAX], top = 0, d, best_d = 0, best = 0, xq, qq;
    int8_t s[INFER__SUB_MAX];
    int i, turn;
    for (i = 0; i < b->subs; i++) {
        want[i] = infer__fit_scaled(&b->grid, x + i * n, w + i * n, n, t);
        if (fabsf(want[i]) > fabsf(top)) top = want[i];
    }
    memset(scales, 0, INFER__SUB_MAX);
    infer__grid_sums(&b->grid, x, w, 256, 0, q, &xq, &qq);
    d = infer__f16_round(top / (float)b->lo);
    for (turn = 0; turn < INFER__FIT_TURNS && fabsf(d) > 1e-30f; turn++) {
        float gain = 0, xv = 0, vv = 0;
        for (i = 0; i < b->subs; i++)
            gain += infer__fit_group(b, x + i * n, w + i * n, n, d, want[i], t + i * n, &s[i], &xv, &vv);
        if (!(gain > best)) break;
        best = gain;
        best_d = d;
        memcpy(scales, s, (size_t)b->subs);
        memcpy(q, t, sizeof t);
        if (!(vv > 0)) break;
        d = infer__f16_round(xv / vv);
    }
    return best_d;
}

/* The scale and minimum of a group near the wanted ones with the least error, which it returns. */
static float infer__fit_group_ranged(const infer__blocks *b, const float *x, const float *w, int n, float d, float m,
                                     const float *want, float *q, int8_t *scale, int8_t *min) {
    static const int8_t tries[9][2] = {{0, 0}, {0, 1}, {0, -1}, {1, 0}, {-1, 0}, {1, 1}, {-1, -1}, {1, -1}, {-1, 1}};
    const int guess = infer__fit_int(want[0] * infer__fit_inverse(d), 0, b->hi);
    const int by = infer__fit_int(want[1] * infer__fit_inverse(m), 0, b->hi);
    float t[32], best = 3.4e38f, e;
    int i;
    for (i = 0; i < 9; i++) {
        const int k = guess + tries[i][0], h = by + tries[i][1];
        if (k < 0 || k > b->hi || h < 0 || h > b->hi) continue;
        e = infer__ranged_codes(x, w, n, d * (float)k, infer__fit_inverse(d * (float)k), m * (float)h, b->grid.hi, t);
        if (!(e < best)) continue;
        best = e;
        *scale = (int8_t)k;
        *min = (int8_t)h;
        memcpy(q, t, (size_t)n * sizeof *q);
    }
    return best;
}

/* Least squares for d and m of x = d * (s q) - m * l. Returns 0 when there are none that a block may have. */
static int infer__fit_both(const float *x, const float *w, const float *q, const int8_t *s, const int8_t *l, int n,
                           float *d, float *m) {
    double aa = 0, ab = 0, bb = 0, ax = 0, bx = 0, det;
    int i;
    for (i = 0; i < 256; i++) {
        const double a = (double)s[i / n] * (double)q[i], c = -(double)l[i / n], wx = (double)w[i] * (double)x[i];
        aa += (double)w[i] * a * a;
        ab += (double)w[i] * a * c;
        bb += (double)w[i] * c * c;
        ax += wx * a;
        bx += wx * c;
    }
    det = aa * bb - ab * ab;
    if (det > 1e-12 * aa * bb && det > 0) {
        const double nd = (ax * bb - bx * ab) / det, nm = (bx * aa - ax * ab) / det;
        *d = infer__f16_round((float)nd);
        *m = infer__f16_round((float)nm);
        return *d > 0 && nm >= 0;
    }
    if (aa > 0) *d = infer__f16_round((float)(ax / aa));
    return aa > 0 && *d > 0;
}

/* Returns d; *dmin; both fp16. */
static float infer__fit_block_ranged(const infer__blocks *b, const float *x, const float *w, int8_t *scales,
                                     int8_t *mins, float *q, float *dmin) {
    const int n = 256 / b->subs;
    float t[256], want[INFER__SUB_MAX][2], most = 0, lowest = 0, d, m, best_d = 0, best = -1;
    int8_t s[INFER__SUB_MAX] = {0}, l[INFER__SUB_MAX] = {0};
    int i, turn;
    for (i = 0; i < b->subs; i++) {
        want[i][0] = infer__fit_ranged(x + i * n, w + i * n, n, b->grid.hi, 0, t, &want[i][1]);
        if (want[i][0] > most) most = want[i][0];
        if (want[i][1] > lowest) lowest = want[i][1];
    }
    memset(scales, 0, INFER__SUB_MAX);
    memset(mins, 0, INFER__SUB_MAX);
    memset(q, 0, sizeof t);
    *dmin = 0;
    d = infer__f16_round(most / (float)b->hi);
    m = infer__f16_round(lowest / (float)b->hi);
    for (turn = 0; turn < INFER__FIT_TURNS; turn++) {
        float error = 0;
        for (i = 0; i < b->subs; i++)
            error += infer__fit_group_ranged(b, x + i * n, w + i * n, n, d, m, want[i], t + i * n, &s[i], &l[i]);
        if (best >= 0 && !(error < best)) break;
        best = error;
        best_d = d;
        *dmin = m;
        memcpy(scales, s, (size_t)b->subs);
        memcpy(mins, l, (size_t)b->subs);
        memcpy(q, t, sizeof t);
        if (!infer__fit_both(x, w, t, s, l, n, &d, &m)) break;
    }
    return best_d;
}
#undef INFER__EACH_LANE
