/* sampler_cases.h: the inputs of tests/data/sampler-cases.txt: rows of stages, logits and histories from a seed. Shared by
 * the program that records what llama.cpp leaves (record_sampler.c) and the test that compares (test_sampler_stages.c). */
#ifndef SAMPLER_CASES_H
#define SAMPLER_CASES_H
#include <stdint.h>

enum { CASE_PENALTY, CASE_TOP_K, CASE_TOP_P, CASE_MIN_P, CASE_TYPICAL, CASE_SIGMA, CASE_TEMP, CASE_XTC, CASE_DRY,
       CASE_MIROSTAT, CASE_MIROSTAT_2, CASE_ADAPTIVE, CASE_INFILL, CASE_USUAL };
typedef struct sampler_case {
    int what;
    float p[4];
    int breakers; /* DRY: the usual ones */
} sampler_case;
static const sampler_case SAMPLER_CASES[] = {
    {CASE_PENALTY, {64, 1.1f, 0, 0}, 0},      {CASE_PENALTY, {20, 1.3f, 0.5f, 0.25f}, 0},
    {CASE_PENALTY, {64, 0.8f, -0.2f, 1}, 0},  {CASE_TOP_K, {1, 0, 0, 0}, 0},
    {CASE_TOP_K, {40, 0, 0, 0}, 0},           {CASE_TOP_P, {0.95f, 0, 0, 0}, 0},
    {CASE_TOP_P, {0.5f, 0, 0, 0}, 0},         {CASE_TOP_P, {0.999f, 0, 0, 0}, 0},
    {CASE_MIN_P, {0.05f, 0, 0, 0}, 0},        {CASE_MIN_P, {0.5f, 0, 0, 0}, 0},
    {CASE_TYPICAL, {0.2f, 0, 0, 0}, 0},       {CASE_TYPICAL, {0.9f, 0, 0, 0}, 0},
    {CASE_TYPICAL, {0.99f, 0, 0, 0}, 0},      {CASE_SIGMA, {1, 0, 0, 0}, 0},
    {CASE_SIGMA, {2.5f, 0, 0, 0}, 0},         {CASE_TEMP, {0.8f, 0, 1, 0}, 0},
    {CASE_TEMP, {0.8f, 0.5f, 1, 0}, 0},       {CASE_TEMP, {1, 2, 0.5f, 0}, 0},
    {CASE_TEMP, {1.5f, 0.7f, 3, 0}, 0},       {CASE_XTC, {1, 0.1f, 0, 0}, 0},
    {CASE_XTC, {1, 0.01f, 0, 0}, 0},          {CASE_DRY, {0.8f, 1.75f, 2, 64}, 0},
    {CASE_DRY, {2, 1.2f, 1, 200}, 0},         {CASE_DRY, {0.8f, 1.75f, 2, 200}, 1},
    {CASE_DRY, {1, 4, 0, 200}, 1},            {CASE_MIROSTAT, {5, 0.1f, 100, 0}, 0},
    {CASE_MIROSTAT, {3, 0.5f, 100, 0}, 0},    {CASE_MIROSTAT_2, {5, 0.1f, 0, 0}, 0},
    {CASE_MIROSTAT_2, {2, 0.5f, 0, 0}, 0},    {CASE_ADAPTIVE, {0.3f, 0.9f, 0, 0}, 0},
    {CASE_ADAPTIVE, {0.05f, 0.5f, 0, 0}, 0},  {CASE_INFILL, {0, 0, 0, 0}, 0},
    {CASE_USUAL, {0, 0, 0, 0}, 0},
};
enum { N_SAMPLER_CASES = (int)(sizeof SAMPLER_CASES / sizeof SAMPLER_CASES[0]), SAMPLER_VARIANTS = 12,
       SAMPLER_HISTORY = 160, SAMPLER_SHOWN = 16, SAMPLER_STEPS = 3 };

static uint32_t sampler_case_next(uint32_t *state) { return *state = *state * 1664525u + 1013904223u; }

/* How many logits; infill and DRY with breakers have the vocabulary's size. */
static int32_t sampler_case_size(const sampler_case *c, int variant) {
    static const int32_t SIZES[4] = {5, 40, 300, 2048};
    return c->what == CASE_INFILL || c->breakers ? 2048 : SIZES[variant % 4];
}
/* Logits of 24 bits, so that every float is exact; three spreads. step: mirostat's second choice has others. For infill a
 * few short texts, of which some begin alike, are likely, and the end token more or less so. */
static void sampler_case_logits(float *x, int32_t n, int what, int variant, int step) {
    uint32_t state = (uint32_t)(variant * 977 + step * 131 + 5);
    float scale = variant / 4 == 0 ? 1.0f : variant / 4 == 1 ? 0.25f : 2.0f;
    int32_t i;
    for (i = 0; i < n; i++) x[i] = ((float)(int32_t)(sampler_case_next(&state) >> 8) / 1048576.0f - 8.0f) * scale;
    for (i = 0; i < 2 + variant / 3 && what == CASE_INFILL; i++) {
        x[259 + sampler_case_next(&state) % 40] = 24.0f + (float)(int32_t)(sampler_case_next(&state) >> 8) / 8388608.0f;
        x[2] = 12.0f + 4.0f * (float)(variant % 4);
    }
}
/* A history with repetitions; tokens of the whole vocabulary, or of a few. */
static void sampler_case_history(int32_t *t, int32_t n_vocab, int variant) {
    uint32_t state = (uint32_t)(variant * 31 + 7);
    int32_t few = variant % 3 == 0 ? n_vocab : variant % 3 == 1 ? 4 : 12, i;
    if (few > n_vocab) few = n_vocab;
    for (i = 0; i < SAMPLER_HISTORY; i++) {
        t[i] = (int32_t)((sampler_case_next(&state) >> 16) % (uint32_t)few);
        if (variant % 3 == 0 && i >= 40 && i % 40 < 25) t[i] = t[i - 40]; /* a long repetition */
    }
    for (i = 0; i < 6; i++) t[SAMPLER_HISTORY - 6 + i] = t[60 + i];
}
#endif
