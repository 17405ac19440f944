/* encode_iq.c: blocks of the code book types with the least error: IQ1_S, IQ1_M, IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS,
 * IQ3_S.
 *
 * Owns:  the `search` of their rows. May not know: tensors, files.
 * How:   x = d * unit * (2 * code + 1) * level, d of 256 values, a code of 16 or 32. From d that the power of the
 *        values suggests, each group takes the code with the least error, from the one that its power suggests up and
 *        down for as long as that helps; then d is fitted to what was chosen, and entries are chosen again.
 * Speed: a code is tried only until its error exceeds the best; see encode_grids.c.
 * Start: infer__iq_fit, infer__iq2_xxs_pack.
 */
#include "quant_types.h"
#include "quant_iq_tables.h"

enum { INFER__IQ_TURNS = 2, INFER__DOWN = 32 };

typedef struct infer__iq {
    int values; /* of an entry: 8 or 4 */
    int levels; /* of a value: 3 or 8 */
    float level[8];
    int group, codes; /* values that share a code: 16 or 32; 8 or 16 */
    int even;         /* of eight signs an even number are minus */
    int shifted;      /* 8 or 32: no signs; levels are 1/8 higher or lower, for so many values together */
    float unit;
    float power;  /* of levels: the root of the mean square that groups often have */
    float lowest; /* the lowest level of uniform entries */
    int patience; /* codes that may be no better before the search ends */
} infer__iq;

/* Eight values: one entry or two. */
typedef struct infer__octet {
    int16_t index[2]; /* -1 = not known */
    uint8_t wrong;    /* of two entries, 1 or 2 has a wrong sign */
    uint8_t down;
} infer__octet;

typedef struct infer__iq_group {
    infer__octet octet[4];
    int code;
    float error;
} infer__iq_group;

/* A block of 256 values: what is given, and what is chosen. */
typedef struct infer__iq_block {
    infer__parts parts[64]; /* of entries; for levels that are shifted down INFER__DOWN further */
    float wx[256];
    float power[32], power_second[32]; /* sum w x^2 of eight values, and of the second four */
    uint8_t signs[32];
    infer__iq_group group[16], best[16];
    /* for the file */
    uint16_t index[64];
    uint8_t down[32], code[16];
} infer__iq_block;

INFER__INLINE int infer__odd(int bits) {
    bits ^= bits >> 4;
    bits ^= bits >> 2;
    return (bits ^ bits >> 1) & 1;
}
INFER__INLINE int infer__iq_odd(const infer__iq *t, const infer__iq_block *k, int e) {
    return t->even && infer__odd(k->signs[e]);
}

/* Eight values of two entries. As infer__octet_find. */
static int infer__octet_of_two(const infer__iq *t, const infer__book *b, const infer__iq_block *k, int e, float inverse,
                               const infer__octet *old, infer__octet *out, float *cost) {
    const infer__parts *p = &k->parts[2 * e];
    float right[2], wrong[2];
    int h, found[2];
    right[0] = *cost + k->power_second[e] * inverse * inverse; /* the second costs no less than its power */
    for (h = 0; h < 2; h++) {
        if (h) right[1] = *cost - right[0];
        out->index[h] = (int16_t)infer__book_find(b, p + h, 0, inverse, old->index[h], &right[h]);
        if (out->index[h] < 0) return 0;
    }
    if (infer__iq_odd(t, k, e)) {
        for (h = 0; h < 2; h++) {
            wrong[h] = *cost - right[!h];
            if (h && found[0] >= 0) wrong[1] = infer__lesser(wrong[1], wrong[0] + right[1] - right[0]);
            found[h] = infer__book_find(b, p + h, 1, inverse, old->index[h], &wrong[h]);
        }
        if (found[0] < 0 && found[1] < 0) return 0;
        h = found[1] >= 0;
        out->index[h] = (int16_t)found[h];
        out->wrong = (uint8_t)(1 + h);
        right[h] = wrong[h];
    }
    *cost = right[0] + right[1];
    return 1;
}

/* The best entries of the eight values e at a scale, when their cost is below *cost, which it then replaces: 1; else 0.
 * shifts: bit 0 = up may be, bit 1 = down. old: what they were at another scale. */
static int infer__octet_find(const infer__iq *t, const infer__book *b, const infer__iq_block *k, int e, float inverse,
                             int shifts, const infer__octet *old, infer__octet *out, float *cost) {
    int h, done = 0;
    out->index[1] = -1;
    out->wrong = out->down = 0;
    if (t->values == 4) return infer__octet_of_two(t, b, k, e, inverse, old, out, cost);
    for (h = 0; h < 2; h++) {
        const int down = h ^ old->down; /* the old one first: it makes *cost low */
        int found;
        if (!(shifts >> down & 1)) continue;
        found = infer__book_find(b, &k->parts[e + INFER__DOWN * down], infer__iq_odd(t, k, e), inverse, old->index[0],
                                 cost);
        if (found < 0) continue;
        out->index[0] = (int16_t)found;
        out->down = (uint8_t)down;
        done = 1;
    }
    return done;
}

/* A group at the scale s, if its error is below that of r, which it then replaces: 1; else 0. */
static int infer__iq_group_with(const infer__iq *t, const infer__book *b, const infer__iq_block *k, int g, float s,
                                int shifts, infer__iq_group *r) {
    const int n = t->group / 8;
    const float inverse = 1.0f / s;
    infer__octet now[4];
    float error = 0;
    int i;
    for (i = 0; i < n; i++) {
        const int e = g * n + i;
        float cost = infer__lesser((r->error - error - k->power[e]) * inverse * inverse, INFER__COST_MAX);
        if (!infer__octet_find(t, b, k, e, inverse, shifts, &r->octet[i], &now[i], &cost)) return 0;
        error += k->power[e] + s * s * cost;
        if (!(error < r->error)) return 0;
    }
    memcpy(r->octet, now, (size_t)n * sizeof now[0]);
    r->error = error;
    return 1;
}
static int infer__iq_try(const infer__iq *t, const infer__book *b, const infer__iq_block *k, int g, float s,
                         infer__iq_group *r) {
    const int first = 1 << r->octet[0].down;
    int done;
    if (t->shifted != 32) return infer__iq_group_with(t, b, k, g, s, t->shifted ? 3 : 1, r);
    done = infer__iq_group_with(t, b, k, g, s, first, r);
    return infer__iq_group_with(t, b, k, g, s, 3 - first, r) || done;
}

/* The best code, from `guess` on. */
static void infer__iq_codes(const infer__iq *t, const infer__book *b, const infer__iq_block *k, int g, float d,
                            int guess, infer__iq_group *r) {
    int code, step;
    r->code = guess;
    infer__iq_try(t, b, k, g, d * (float)(2 * guess + 1), r);
    for (step = -1; step <= 1 && r->code == guess; step += 2) {
        int failed = 0;
        for (code = guess + step; code >= 0 && code < t->codes && failed < t->patience; code += step) {
            failed++;
            if (!infer__iq_try(t, b, k, g, d * (float)(2 * code + 1), r)) continue;
            r->code = code;
            failed = 0;
        }
    }
}

/* What a group adds to the sums for the best d, xv / vv. */
static void infer__iq_sums(const infer__iq *t, const infer__book *b, const infer__iq_block *k, int g,
                           const infer__iq_group *r, float *xv, float *vv) {
    const int n = t->group / t->values;
    const float v = (float)(2 * r->code + 1);
    int i;
    for (i = 0; i < n; i++) {
        const int two = t->values == 4, e = g * n + i;
        const infer__octet *o = &r->octet[two ? i / 2 : i];
        const int odd = two ? o->wrong == 1 + i % 2 : infer__iq_odd(t, k, e);
        float square, twice;
        infer__entry_sums(b, &k->parts[e + INFER__DOWN * o->down], o->index[two ? i % 2 : 0], odd, &square, &twice);
        *xv += 0.5f * twice * v;
        *vv += square * v * v;
    }
}

static void infer__iq_begin(const infer__iq *t, const float *x, const float *w, infer__iq_block *k) {
    float level[2][8];
    int j, e;
    memset(k->signs, 0, sizeof k->signs);
    memset(k->power, 0, sizeof k->power);
    memset(k->power_second, 0, sizeof k->power_second);
    for (j = 0; j < 256; j++) {
        const float power = w[j] * x[j] * x[j];
        k->wx[j] = w[j] * (t->shifted ? x[j] : fabsf(x[j]));
        k->signs[j / 8] = (uint8_t)(k->signs[j / 8] | (x[j] < 0) << j % 8);
        k->power[j / 8] += power;
        if (j % 8 >= 4) k->power_second[j / 8] += power;
    }
    for (j = 0; j < t->levels; j++) {
        level[0][j] = t->level[j] + (t->shifted ? 0.125f : 0);
        level[1][j] = t->level[j] - 0.125f;
    }
    for (e = 0; e < 256 / t->values; e++) {
        const int at = e * t->values;
        if (t->values == 4) infer__parts_of_4(&k->parts[e], level[0], w + at, k->wx + at);
        else infer__parts_of_8(&k->parts[e], level[0], w + at, k->wx + at);
        if (t->shifted) infer__parts_of_8(&k->parts[e + INFER__DOWN], level[1], w + at, k->wx + at);
    }
}

/* The scale of each group that its power suggests, and the largest. Values of one magnitude become lowest levels, for
 * which every code book has an entry. */
static float infer__iq_wanted(const infer__iq *t, const infer__iq_block *k, const float *x, const float *w,
                              float *want) {
    float top = 0, p[16] = {0}, q[16] = {0}, power = 0, sum = 0, most = infer__fit_top(x, 256);
    int g, j;
    for (j = 0; j < 256; j++) {
        g = j / t->group;
        q[g] += w[j];
        sum += w[j];
        if (j % 8) continue;
        p[g] += k->power[j / 8];
        power += k->power[j / 8];
    }
    for (g = 0; g < 256 / t->group; g++) {
        want[g] = q[g] > 0 ? sqrtf(p[g] / q[g]) / (most * most * sum < 1.1f * power ? t->lowest : t->power) : 0;
        if (want[g] > top) top = want[g];
    }
    return top;
}

/* What was chosen, as files have it. */
static void infer__iq_end(const infer__iq *t, const infer__book *b, infer__iq_block *k) {
    const int n = t->group / 8;
    int e, h;
    for (e = 0; e < 32; e++) {
        const infer__octet *o = &k->best[e / n].octet[e % n];
        k->down[e] = o->down;
        k->code[e / n] = (uint8_t)k->best[e / n].code;
        for (h = 0; h < 8 / t->values; h++) {
            const int at = 8 * e + t->values * h;
            k->index[at / t->values] = (uint16_t)o->index[h];
            if (t->values == 4 ? o->wrong == 1 + h : infer__iq_odd(t, k, e)) {
                const int j = at + infer__wrong_one(b, o->index[h], t->level, k->wx + at);
                k->signs[e] = (uint8_t)(k->signs[e] ^ 1 << j % 8);
            }
        }
    }
}

/* Returns d, an fp16. All sums are far from overflow: w is at most 1, and |x| at most 1e18. */
static float infer__iq_fit(const infer__iq *t, const infer__book *b, const float *x, const float *w,
                           infer__iq_block *k) {
    const int groups = 256 / t->group;
    float want[16], d, best = 3.4e38f, best_d = 0, top;
    int g, i, turn;
    infer__iq_begin(t, x, w, k);
    top = infer__iq_wanted(t, k, x, w, want);
    for (g = 0; g < groups; g++)
        for (i = 0; i < 4; i++) {
            static const infer__octet none = {{-1, -1}, 0, 0}, zero = {{0, 0}, 0, 0};
            k->group[g].octet[i] = none;
            k->best[g].octet[i] = zero;
            k->best[g].code = 0;
        }
    d = infer__f16_round(1.1f * top / ((float)(2 * t->codes - 1) * t->unit)); /* room for groups that want more */
    for (turn = 0; turn < INFER__IQ_TURNS && d > 0; turn++) {
        const float scale = d * t->unit;
        float error = 0, xv = 0, vv = 0;
        for (g = 0; g < groups; g++) {
            infer__iq_group *r = &k->group[g];
            r->error = 3.4e38f;
            if (turn == 0)
                infer__iq_codes(t, b, k, g, scale, infer__fit_int((want[g] / scale - 1) / 2, 0, t->codes - 1), r);
            else infer__iq_try(t, b, k, g, scale * (float)(2 * r->code + 1), r);
            error += r->error;
            infer__iq_sums(t, b, k, g, r, &xv, &vv);
        }
        if (!(error < best)) break;
        best = error;
        best_d = d;
        memcpy(k->best, k->group, sizeof k->group);
        d = vv > 0 ? infer__f16_round(xv / (vv * t->unit)) : 0;
    }
    infer__iq_end(t, b, k);
    return best_d;
}

/* ---- layouts: see quant_iq.c ------------------------------------------------------------------ */

/* Four fields of seven signs, and a code on top. */
static void infer__iq_store_signs(const infer__iq_block *k, int i, uint8_t *p) {
    uint32_t v = (uint32_t)k->code[i] << 28;
    int j;
    for (j = 0; j < 4; j++) v |= (uint32_t)(k->signs[4 * i + j] & 127) << 7 * j;
    infer__store_u16(p, (uint16_t)(v & 0xffff));
    infer__store_u16(p + 2, (uint16_t)(v >> 16));
}
/* n codes of four bits. */
static void infer__iq_store_codes(const infer__iq_block *k, int n, uint8_t *p) {
    int i;
    for (i = 0; i < n; i += 2) p[i / 2] = (uint8_t)(k->code[i] | k->code[i + 1] << 4);
}

static void infer__iq2_xxs_pack(const infer__iq_block *k, float d, uint8_t *b) {
    int i;
    infer__store_scale(b, d);
    for (i = 0; i < 32; i++) b[2 + 8 * (i / 4) + i % 4] = (uint8_t)k->index[i];
    for (i = 0; i < 8; i++) infer__iq_store_signs(k, i, b + 6 + 8 * i);
}
static void infer__iq2_xs_pack(const infer__iq_block *k, float d, uint8_t *b) {
    int i;
    infer__store_scale(b, d);
    for (i = 0; i < 32; i++) infer__store_u16(b + 2 + 2 * i, (uint16_t)(k->index[i] | (k->signs[i] & 127) << 9));
    infer__iq_store_codes(k, 16, b + 66);
}
static void infer__iq2_s_pack(const infer__iq_block *k, float d, uint8_t *b) {
    int i;
    infer__store_scale(b, d);
    for (i = 0; i < 32; i++) {
        b[2 + i] = (uint8_t)(k->index[i] & 255);
        b[66 + i / 4] = (uint8_t)(b[66 + i / 4] | (k->index[i] >> 8) << 2 * (i % 4));
    }
    memcpy(b + 34, k->signs, 32);
    infer__iq_store_codes(k, 16, b + 74);
}
static void infer__iq3_xxs_pack(const infer__iq_block *k, float d, uint8_t *b) {
    int i;
    infer__store_scale(b, d);
    for (i = 0; i < 64; i++) b[2 + i] = (uint8_t)k->index[i];
    for (i = 0; i < 8; i++) infer__iq_store_signs(k, i, b + 66 + 4 * i);
}
static void infer__iq3_s_pack(const infer__iq_block *k, float d, uint8_t *b) {
    int i;
    infer__store_scale(b, d);
    for (i = 0; i < 64; i++) {
        b[2 + i] = (uint8_t)(k->index[i] & 255);
        b[66 + i / 8] = (uint8_t)(b[66 + i / 8] | (k->index[i] >> 8) << i % 8);
    }
    memcpy(b + 74, k->signs, 32);
    infer__iq_store_codes(k, 8, b + 106);
}
static void infer__iq1_s_pack(const infer__iq_block *k, float d, uint8_t *b) {
    int i, j;
    infer__store_scale(b, d);
    for (i = 0; i < 8; i++) {
        int high = k->code[i] << 12 | k->down[4 * i] << 15;
        for (j = 0; j < 4; j++) {
            b[2 + 4 * i + j] = (uint8_t)(k->index[4 * i + j] & 255);
            high |= (k->index[4 * i + j] >> 8) << 3 * j;
        }
        infer__store_u16(b + 34 + 2 * i, (uint16_t)high);
    }
}
static void infer__iq1_m_pack(const infer__iq_block *k, float d, uint8_t *b) {
    const int bits = infer__f32_f16(d);
    int i;
    for (i = 0; i < 32; i++) {
        b[i] = (uint8_t)(k->index[i] & 255);
        b[32 + i / 2] = (uint8_t)(b[32 + i / 2] | (k->index[i] >> 8 | k->down[i] << 3) << 4 * (i % 2));
    }
    for (i = 0; i < 4; i++) {
        const uint8_t *c = k->code + 4 * i;
        infer__store_u16(b + 48 + 2 * i,
                         (uint16_t)((bits >> 4 * i & 15) << 12 | c[3] << 9 | c[2] << 6 | c[1] << 3 | c[0]));
    }
}

/* A row's `search`. The ordered code book is made once per call: as long as a fraction of a block takes. */
#define INFER__SEARCH_GRID(name, grid, bytes, ...) \
    static void infer__##name##_search(const float *src, const float *importance, void *dst, int64_t n) { \
        static const infer__iq type = {__VA_ARGS__}; \
        uint8_t *block = (uint8_t *)dst; \
        float x[256], w[256]; \
        infer__iq_block k; \
        infer__book book; \
        infer__book_make(&book, type.values, grid, (int)INFER__COUNT(grid)); \
        for (; n >= 256; n -= 256, src += 256, block += (bytes)) { \
            infer__search_begin(src, importance, 256, x, w); \
            if (importance) importance += 256; \
            memset(block, 0, bytes); \
            infer__##name##_pack(&k, infer__iq_fit(&type, &book, x, w, &k), block); \
        } \
    }
/* clang-format off */
INFER__SEARCH_GRID(iq2_xxs, infer__iq2xxs_grid, 66, 8, 3, {8, 25, 43}, 32, 16, 1, 0, 0.125f, 22, 8, 3)
INFER__SEARCH_GRID(iq2_xs, infer__iq2xs_grid, 74, 8, 3, {8, 25, 43}, 16, 16, 1, 0, 0.125f, 22, 8, 3)
INFER__SEARCH_GRID(iq2_s, infer__iq2s_grid, 82, 8, 3, {8, 25, 43}, 16, 16, 0, 0, 0.125f, 22, 8, 3)
INFER__SEARCH_GRID(iq3_xxs, infer__iq3xxs_grid, 98, 4, 8, {4, 12, 20, 28, 36, 44, 52, 62}, 32, 16, 1, 0, 0.25f, 24, 4, 3)
INFER__SEARCH_GRID(iq3_s, infer__iq3s_grid, 110, 4, 8, {1, 3, 5, 7, 9, 11, 13, 15}, 32, 16, 0, 0, 1, 6, 1, 3)
INFER__SEARCH_GRID(iq1_s, infer__iq1s_grid, 50, 8, 3, {-1, 0, 1}, 32, 8, 0, 32, 1, 0.8f, 1.125f, 1)
INFER__SEARCH_GRID(iq1_m, infer__iq1s_grid, 56, 8, 3, {-1, 0, 1}, 16, 8, 0, 8, 1, 0.8f, 1.125f, 1)
/* clang-format on */
#undef INFER__SEARCH_GRID
#undef INFER__COST_MAX
