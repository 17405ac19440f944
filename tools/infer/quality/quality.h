/* quality.h: how well a model predicts a text, alone and beside another model's probabilities.
 *
 * Functions return 0 after saying what is wrong. */
#ifndef QUALITY_H
#define QUALITY_H

#include "../report/report.h"
#include "choices.h"

/* ---- windows.c ------------------------------------------------------------------------------ */

/* A text as it is evaluated: windows of `size` tokens, each by itself, of which those of the second half are predicted. */
typedef struct quality_text {
    infer_token *tokens; /* n_windows * size of them are used */
    size_t n;
    int32_t size, n_windows;
} quality_text;
/* Called for each position whose next token counts, in order. Returns 0 to stop, after saying why. */
typedef int quality_row(void *user, const float *logits, infer_token next);

/* What vocabularies put before each window; -1 = nothing. */
infer_token quality_bos(const infer_model *model);
/* Models without a probability of the next token are refused by name. */
int quality_predicts(const char *command, const infer_model *model);
/* So many positions at a time keep their logits. */
int32_t quality_piece(const infer_context_params *params, int32_t vocab);
/* Appends tokens to a session; 1 also after Ctrl-C. */
int quality_step(const char *command, infer_context *context, infer_session *session, const infer_token *ids, int32_t n, int32_t outputs);
/* Positions of a window whose next token counts. */
int32_t quality_rows(int32_t size);
/* All windows, by a session of their size. An exit status. */
int quality_eval(const char *command, infer_model *model, const cli_common *common, const quality_text *text, quality_row *row, void *user);

/* ---- losses.c ------------------------------------------------------------------------------- */

/* Sums over positions: of a model's loss (the negative logarithm of the next token's probability), and beside a reference. */
typedef struct quality_sums {
    double loss, loss2;
    size_t n;
    double base, base2, both; /* the reference's loss; products of the two */
    double kl, kl2, p_diff2, p_diff4;
    size_t same_top;
    float *kls, *losses; /* KL divergence and loss of each position, or NULL */
} quality_sums;

/* The logarithm of the sum of the exponentials of logits, beside their maximum. */
double quality_log_sum(const float *logits, int32_t n, float *max);
void quality_add(quality_sums *s, const float *logits, int32_t n, infer_token next);
/* Beside what a reference says of the position, as reference_read gives it. */
void quality_add_beside(quality_sums *s, const float *logits, const float *base, int32_t n, infer_token next);

typedef struct quality_figure { double value, error; } quality_figure; /* error: one standard deviation of the mean */
quality_figure quality_perplexity(double loss, double loss2, size_t n);
quality_figure quality_mean(double sum, double sum2, size_t n);
/* ln of the perplexity over the reference's; positions are the same, so the error is less than that of two texts. */
quality_figure quality_log_ratio(const quality_sums *s);
/* RMS difference of the next token's probability. */
quality_figure quality_p_rms(const quality_sums *s);
/* Sorts the values: the one below which `part` of them are. */
float quality_percentile(float *values, size_t n, double part);

/* Values of positions, in the mean over bins of windows (1, 2, ...) or of positions in their window (its size / 2, ...). */
enum { QUALITY_BINS = 100 };
typedef struct quality_course {
    size_t n;
    double at[QUALITY_BINS], mean[QUALITY_BINS]; /* at: the middle of the bin */
} quality_course;
void quality_course_of(const float *values, size_t n, int32_t window, int by_position, quality_course *out);

/* What is measured of a model. */
typedef struct quality_result {
    quality_sums sums;
    choices_result choices;
    uint64_t bytes;
    float kl_median, kl_99, kl_max;
    quality_course by_window, by_position; /* of KL divergence or loss; n = 0: not recorded */
} quality_result;
double quality_top_1(const quality_result *r);
quality_figure quality_accuracy(const quality_result *r);

/* ---- report/perplexity.c -------------------------------------------------------------------- */

enum { QUALITY_PERPLEXITY, QUALITY_KL, QUALITY_CHOICES }; /* what is measured; QUALITY_KL: beside a reference */
void report_quality(report *r, int what, const char *const *models, const quality_result *results, size_t n);

/* ---- reference.c ---------------------------------------------------------------------------- */

/* Log-probabilities of all tokens at the positions of a text, in a file as llama.cpp's --kl-divergence-base has it: "_logits_",
 * int32 size of windows, size of the vocabulary, number of windows, the tokens, then of each position float32 step and lowest value,
 * and a uint16 for each token (and one more when their number is odd): lowest + step * that. Little-endian. */
typedef struct reference {
    const char *command, *path;
    FILE *file;
    int32_t vocab;
    unsigned char *row; /* of one position */
    float *values;
} reference;
/* Reads all before the first position; text->tokens is to be freed. To be given to reference_close in any case. */
int reference_open(reference *r, const char *command, const char *path, quality_text *text);
/* The next position's: vocab floats, valid until the next call; NULL after saying why. */
const float *reference_read(reference *r);
/* Writing: to a FILE. create: the caller looks for its errors at the end. write: 0 = it fails. */
int reference_create(reference *r, const char *command, FILE *file, const quality_text *text, int32_t vocab);
int reference_write(reference *r, const float *logits);
void reference_close(reference *r);

#endif
