/* encode_grids.c: the entry of a code book with the least error, for types whose index names 8 or 4 values at once.
 *
 * Owns:  the search in a code book, which is exact. May not know: blocks, how scales are found.
 * How:   for levels v and a scale s the error is sum w (x - s v)^2 = sum w x^2 + s^2 * cost, cost = square - twice / s,
 *        square = sum w v^2, twice = sum 2 w x v. A value has few levels: 3 (IQ1, IQ2) or 8 (IQ3). An entry is two
 *        halves, and a half is two parts of 9 or 8 kinds (two values of 3 levels, or one of 8). square and twice of
 *        each kind of each part are made once and serve all scales. For a scale, the costs of all second halves are
 *        made; first halves that could not be better even with the best second half are skipped.
 * Signs: IQ2 and IQ3 have positive levels, and signs. Seven stored bits are eight signs of which an even number are
 *        minus; where an odd number are, one value gets the wrong sign: which one, and which entry then, is one search.
 */
#include "quant_types.h"
#include "quant_iq_tables.h"

enum {
    INFER__PART_ROOM = 12, /* 9 kinds in whole vectors */
    INFER__HALVES_MAX = 9 * INFER__PART_ROOM,
    INFER__ENTRIES_MAX = 2048
};
#define INFER__COST_MAX 1e30f

/* A code book, entries ordered by the kind of their first half: room * kind of the first part + that of the second. */
typedef struct infer__book {
    const uint16_t *grid;
    int values; /* of an entry: 8, with 9 kinds of parts in a room of 12; or 4, with 8 in 8 */
    uint16_t start[INFER__HALVES_MAX + 1];
    uint16_t index[INFER__ENTRIES_MAX];
    uint8_t second[INFER__ENTRIES_MAX]; /* the kind of the second half */
} infer__book;

/* The kind of part k, 0..3. */
INFER__INLINE int infer__part_kind(int values, int entry, int k) {
    return values == 4 ? entry >> 4 * k & 7 : 3 * infer__iq_level(entry, 2 * k) + infer__iq_level(entry, 2 * k + 1);
}
INFER__INLINE int infer__half_kind(int values, int entry, int half) {
    const int room = values == 4 ? 8 : INFER__PART_ROOM;
    return room * infer__part_kind(values, entry, 2 * half) + infer__part_kind(values, entry, 2 * half + 1);
}

static void infer__book_make(infer__book *b, int values, const uint16_t *grid, int n) {
    uint16_t next[INFER__HALVES_MAX];
    int i, h;
    b->grid = grid;
    b->values = values;
    memset(b->start, 0, sizeof b->start);
    for (i = 0; i < n; i++) b->start[infer__half_kind(values, grid[i], 0) + 1]++;
    for (h = 0; h < INFER__HALVES_MAX; h++) {
        next[h] = b->start[h];
        b->start[h + 1] = (uint16_t)(b->start[h + 1] + b->start[h]);
    }
    for (i = 0; i < n; i++) {
        const int at = next[infer__half_kind(values, grid[i], 0)]++;
        b->index[at] = (uint16_t)i;
        b->second[at] = (uint8_t)infer__half_kind(values, grid[i], 1);
    }
}

/* Sums of each kind of the four parts of an entry. wrong: `twice` with the wrong sign for the value where it costs
 * least. */
typedef struct infer__parts {
    float square[4][INFER__PART_ROOM], twice[4][INFER__PART_ROOM], wrong[4][INFER__PART_ROOM];
} infer__parts;

/* wx: w * x, or w * |x| where there are signs. */
static void infer__parts_of_8(infer__parts *p, const float *level, const float *w, const float *wx) {
    int k, i, j;
    for (k = 0; k < 4; k++, w += 2, wx += 2) {
        float square[2][3], twice[2][3];
        for (j = 0; j < 2; j++)
            for (i = 0; i < 3; i++) {
                square[j][i] = w[j] * level[i] * level[i];
                twice[j][i] = 2 * wx[j] * level[i];
            }
        for (i = 0; i < 3; i++)
            for (j = 0; j < 3; j++) {
                p->square[k][3 * i + j] = square[0][i] + square[1][j];
                p->twice[k][3 * i + j] = twice[0][i] + twice[1][j];
                p->wrong[k][3 * i + j] = fabsf(twice[0][i] - twice[1][j]);
            }
        for (i = 9; i < INFER__PART_ROOM; i++) { /* no kinds */
            p->square[k][i] = INFER__COST_MAX;
            p->twice[k][i] = p->wrong[k][i] = 0;
        }
    }
}
static void infer__parts_of_4(infer__parts *p, const float *level, const float *w, const float *wx) {
    int k, i;
    for (k = 0; k < 4; k++)
        for (i = 0; i < 8; i++) {
            p->square[k][i] = w[k] * level[i] * level[i];
            p->twice[k][i] = 2 * wx[k] * level[i];
            p->wrong[k][i] = -p->twice[k][i];
        }
}

INFER__INLINE float infer__lesser(float a, float b) { return a < b ? a : b; }

/* The least of a room. */
INFER__INLINE float infer__least(const float *x, int room) {
    float m[4];
    int i, k;
    for (k = 0; k < 4; k++) m[k] = infer__lesser(x[k], x[k + 4]);
    for (i = 8; i < room; i += 4)
        for (k = 0; k < 4; k++) m[k] = infer__lesser(m[k], x[i + k]);
    return infer__lesser(infer__lesser(m[0], m[2]), infer__lesser(m[1], m[3]));
}

/* The least of half[second[0 .. n - 1]]: two chains, for each step waits for the last. */
INFER__INLINE float infer__least_of(const float *half, const uint8_t *second, int n) {
    float a = 3.4e38f, b = 3.4e38f;
    int i;
    for (i = 0; i + 1 < n; i += 2) {
        a = infer__lesser(a, half[second[i]]);
        b = infer__lesser(b, half[second[i + 1]]);
    }
    return infer__lesser(i < n ? infer__lesser(a, half[second[i]]) : a, b);
}

/* Looks at the entries of the first half h, whose cost is `first`: 1 and *cost, *at when one is below *cost. */
INFER__INLINE int infer__book_look(const infer__book *b, int h, float first, const float *half, float *cost, int *at) {
    const int end = b->start[h + 1];
    const float least = infer__least_of(half, b->second + b->start[h], end - b->start[h]);
    int i;
    if (!(first + least < *cost)) return 0;
    for (i = b->start[h]; i < end - 1 && half[b->second[i]] > least; i++) {}
    *cost = first + least;
    *at = i;
    return 1;
}

/* The entry with the least cost, when it is below *cost, which it then replaces; else -1. known: the caller's *cost is
 * that of an entry, so it is low already. */
INFER__INLINE int infer__book_right(const infer__book *b, const infer__parts *parts, int kinds, int room, float inverse,
                                    int known, float *cost) {
    float part[4][INFER__PART_ROOM], half[INFER__HALVES_MAX], low, low_next;
    int k, p, q, at = -1;
    for (k = 0; k < 4; k++)
        for (p = 0; p < room; p++) part[k][p] = parts->square[k][p] - inverse * parts->twice[k][p];
    low = infer__least(part[2], room) + infer__least(part[3], room);
    low_next = low + infer__least(part[1], room);
    if (!(infer__least(part[0], room) + low_next < *cost)) return -1;
    for (p = 0; p < kinds; p++)
        for (q = 0; q < room; q++) half[room * p + q] = part[2][p] + part[3][q];
    if (!known) { /* the most likely first half makes *cost low */
        int p_best = 0, q_best = 0;
        for (p = 1; p < kinds; p++) {
            if (part[0][p] < part[0][p_best]) p_best = p;
            if (part[1][p] < part[1][q_best]) q_best = p;
        }
        infer__book_look(b, room * p_best + q_best, part[0][p_best] + part[1][q_best], half, cost, &at);
    }
    for (p = 0; p < kinds; p++) {
        if (!(part[0][p] + low_next < *cost)) continue;
        for (q = 0; q < kinds; q++) {
            const float first = part[0][p] + part[1][q];
            if (first + low < *cost) infer__book_look(b, room * p + q, first, half, cost, &at);
        }
    }
    return at < 0 ? -1 : b->index[at];
}

/* The same with one wrong sign. */
INFER__INLINE int infer__book_wrong(const infer__book *b, const infer__parts *parts, int kinds, int room, float inverse,
                                    float *cost) {
    float part[4][INFER__PART_ROOM], wrong[4][INFER__PART_ROOM], half[INFER__HALVES_MAX], half_wrong[INFER__HALVES_MAX];
    float low, low_wrong = 3.4e38f, next, next_wrong;
    int k, p, q, i, at = -1;
    for (k = 0; k < 4; k++)
        for (p = 0; p < room; p++) {
            part[k][p] = parts->square[k][p] - inverse * parts->twice[k][p];
            wrong[k][p] = parts->square[k][p] - inverse * parts->wrong[k][p];
        }
    for (p = 0; p < kinds; p++) {
        for (q = 0; q < room; q++) {
            half[room * p + q] = part[2][p] + part[3][q];
            half_wrong[room * p + q] = infer__lesser(part[2][p] + wrong[3][q], wrong[2][p] + part[3][q]);
        }
        low_wrong = infer__lesser(low_wrong, infer__least(half_wrong + room * p, room));
    }
    low = infer__least(part[2], room) + infer__least(part[3], room);
    next = infer__least(part[1], room);
    next_wrong = infer__least(wrong[1], room);
    for (p = 0; p < kinds; p++) {
        if (!(infer__lesser(part[0][p] + next + low_wrong, part[0][p] + next_wrong + low) < *cost) &&
            !(wrong[0][p] + next + low < *cost))
            continue;
        for (q = 0; q < kinds; q++) {
            const float first = part[0][p] + part[1][q];
            const float first_wrong = infer__lesser(part[0][p] + wrong[1][q], wrong[0][p] + part[1][q]);
            if (!(infer__lesser(first + low_wrong, first_wrong + low) < *cost)) continue;
            for (i = b->start[room * p + q]; i < b->start[room * p + q + 1]; i++) {
                const float e = infer__lesser(first + half_wrong[b->second[i]], first_wrong + half[b->second[i]]);
                if (e < *cost) *cost = e, at = i;
            }
        }
    }
    return at < 0 ? -1 : b->index[at];
}

/* square and twice of an entry; odd: with one wrong sign. */
static void infer__entry_sums(const infer__book *b, const infer__parts *p, int index, int odd, float *square,
                              float *twice) {
    float change = -3.4e38f;
    int k;
    *square = *twice = 0;
    for (k = 0; k < 4; k++) {
        const int kind = infer__part_kind(b->values, b->grid[index], k);
        *square += p->square[k][kind];
        *twice += p->twice[k][kind];
        change = INFER__MAX(change, p->wrong[k][kind] - p->twice[k][kind]);
    }
    if (odd) *twice += change;
}

/* The entry with the least cost at the scale 1 / inverse, when it is below *cost, which it then replaces; else -1.
 * guess: an entry that is likely to be good, or -1. */
static int infer__book_find(const infer__book *b, const infer__parts *p, int odd, float inverse, int guess,
                            float *cost) {
    int found, known = 0;
    if (guess >= 0) {
        float square, twice;
        infer__entry_sums(b, p, guess, odd, &square, &twice);
        known = square - inverse * twice < *cost;
        if (known) *cost = square - inverse * twice;
    }
    if (b->values == 8)
        found = odd ? infer__book_wrong(b, p, 9, INFER__PART_ROOM, inverse, cost)
                    : infer__book_right(b, p, 9, INFER__PART_ROOM, inverse, known, cost);
    else
        found =
            odd ? infer__book_wrong(b, p, 8, 8, inverse, cost) : infer__book_right(b, p, 8, 8, inverse, known, cost);
    return found < 0 && known ? guess : found;
}

/* Of n values the one whose wrong sign costs least. */
static int infer__wrong_one(const infer__book *b, int index, const float *level, const float *wx) {
    float least = 3.4e38f;
    int j, found = 0;
    for (j = 0; j < b->values; j++) {
        const int entry = b->grid[index];
        const float e = wx[j] * level[b->values == 4 ? entry >> 4 * j & 7 : infer__iq_level(entry, j)];
        if (e < least) least = e, found = j;
    }
    return found;
}
