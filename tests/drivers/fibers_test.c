/* fibers_test.c: tests of fibers.h by itself. cc -O2 fibers_test.c fibers.c -lpthread; prints a line per failure. */
#include "fibers.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;
#define CHECK(x) ((x) ? (void)0 : (void)(failures++, fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #x)))

static const fibers_calls *F;
static int broken; /* which mistake the kernel makes */
enum { FINE, NO_BARRIER, SOME_RETURN, TWO_BARRIERS, BEHIND, LOCAL_BEHIND, TOO_MUCH, WAVE_PART, TOLD, BEFORE, STACK_OUT };

static int deep(volatile char *p, int n) {
    volatile char room[4096];
    room[0] = (char)n;
    return n > 100000 ? p[0] : deep(room, n + 1) + room[0];
}

/* Sum of a row by halving, in memory of the group; the sum of the lanes of a wave by exchange. */
static void sum_rows(void *const *args, const fibers_item *me) {
    static const char key_a, key_b;
    const float *x = (const float *)args[0];
    float *y = (float *)args[1], *part = (float *)F->local(&key_a, me->size[0] * sizeof(float));
    uint32_t n = *(const uint32_t *)args[2], i, half;
    const uint64_t *all;
    float sum = 0;
    F->local(&key_b, broken == TOO_MUCH ? 40000 : 4);
    if (broken == SOME_RETURN && me->index == 7) return;
    for (i = me->index; i < n; i += me->size[0]) sum += x[(size_t)me->group[0] * n + i];
    if (broken == BEHIND && me->index == 3 && me->group[0] == 5) sum = x[10 * n];
    if (broken == BEFORE && me->index == 3 && me->group[0] == 5) sum = x[-500];
    if (broken == STACK_OUT && me->index == 3) sum = (float)deep((volatile char *)&n, 0);
    part[me->index] = sum;
    if (broken == LOCAL_BEHIND && me->index == 0) part[me->size[0]] = 1;
    if (broken == TOLD && me->index == 9) F->fail("no such thing");
    if (broken == TWO_BARRIERS && me->index == 7) F->barrier(11);
    else F->barrier(10);
    for (half = me->size[0] / 2; half > 0; half /= 2) {
        if (me->index < half) part[me->index] += part[me->index + half];
        if (broken != NO_BARRIER) F->barrier(12);
    }
    if (broken == WAVE_PART && me->lane == 1) return;
    all = F->exchange(me->index, 13);
    for (i = 0, sum = 0; i < me->lanes; i++) sum += (float)all[i];
    all = F->exchange(me->index * 2, 14);
    for (i = 0; i < me->lanes; i++) sum += (float)all[i];
    y[me->group[0] * (me->size[0] + 1) + me->index] = sum;
    if (me->index == 0) y[me->group[0] * (me->size[0] + 1) + me->size[0]] = part[0];
}

/* The words that the run ends with, "" when every result is right. */
static const char *attempt(int mistake, uint32_t size, uint32_t width) {
    enum { ROWS = 10, N = 1000 };
    static char why[400];
    float *x = (float *)fibers_alloc(ROWS * N * sizeof *x), *y = (float *)fibers_alloc(ROWS * (size + 1) * sizeof *y);
    uint32_t n = N, i, r, lane;
    void *args[3];
    fibers_launch l = {"sum_rows", sum_rows, args, {ROWS, 1, 1}, {0, 1, 1}, 0, 32768};
    broken = mistake;
    l.size[0] = size;
    l.width = width;
    args[0] = x;
    args[1] = y;
    args[2] = &n;
    for (i = 0; i < ROWS * N; i++) x[i] = (float)(i % 7);
    if (fibers_run(&l, why, sizeof why)) {
        for (r = 0; r < ROWS; r++) {
            float want = 0;
            for (i = 0; i < N; i++) want += x[r * N + i];
            if (y[r * (size + 1) + size] != want) snprintf(why, sizeof why, "row %u: wrong sum", r);
            for (i = 0; i < size; i++) {
                for (want = 0, lane = i / width * width; lane < size && lane < (i / width + 1) * width; lane++)
                    want += 3 * (float)lane;
                if (y[r * (size + 1) + i] != want) snprintf(why, sizeof why, "row %u, item %u: wrong exchange", r, i);
            }
        }
    }
    CHECK(fibers_free(x) && fibers_free(y));
    return why;
}

static void expect(int mistake, const char *words) {
    const char *why = attempt(mistake, 64, 32);
    if (!strstr(why, words) || (!words[0] && why[0])) {
        failures++;
        fprintf(stderr, "mistake %d: got \"%s\", want \"%s\"\n", mistake, why, words);
    }
}

int main(void) {
    static const struct { int mistake; const char *words; } rows[] = {
        {FINE, ""}, {NO_BARRIER, "wrong sum"}, {SOME_RETURN, "went different ways"}, {TWO_BARRIERS, "in line 11"},
        {BEHIND, "work-item 3 of group (5, 0, 0) touched byte 40000 of memory of 40000 bytes"},
        {LOCAL_BEHIND, "wrote behind its array 0 of 256 bytes"}, {TOO_MUCH, "more memory than a group has"},
        {WAVE_PART, "collective of its wave"}, {TOLD, "work-item 9 of group"}, {BEFORE, "touched byte -2000 of memory of 40000"},
        {STACK_OUT, "work-item 3"}, {FINE, ""}};
    char *p = (char *)fibers_alloc(13);
    size_t i;
    int k;
    F = fibers_table();
    for (k = 0; k < 3; k++)
        for (i = 0; i < sizeof rows / sizeof *rows; i++) expect(rows[i].mistake, rows[i].words);
    CHECK(!*attempt(FINE, 1, 32) && !*attempt(FINE, 256, 64) && !*attempt(FINE, 1024, 1) && !*attempt(FINE, 16, 7));
    CHECK(strstr(attempt(FINE, 1025, 32), "work-items of a group") && strstr(attempt(FINE, 64, 65), "of a wave"));
    p[13] = 1;
    CHECK(!fibers_free(p) && !fibers_free(&i) && fibers_free(NULL) && fibers_alloc(SIZE_MAX) == NULL);
    for (i = 0; i < 200; i++) CHECK(!*attempt(FINE, 64, 32));
    printf("fibers: %d failures\n", failures);
    return failures != 0;
}
