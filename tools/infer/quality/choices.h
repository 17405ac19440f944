/* choices.h: questions with several answers, of which a model finds one most probable. */
#ifndef CHOICES_H
#define CHOICES_H

#include "../cli.h"

enum { CHOICES_NONE = -1, CHOICES_HELLASWAG, CHOICES_WINOGRANDE, CHOICES_TASKS, CHOICES_MAX = 100 };
#define CHOICES_FORMS "hellaswag|winogrande|tasks"

/* A text of a file, which stays there. */
typedef struct choice_text { const char *s; size_t n; } choice_text;
typedef struct choice {
    choice_text end;  /* what follows the question */
    int right;
} choice;
/* before + ends[i] + after, for each i. The answers of Winogrande are in the middle, and what follows them counts. */
typedef struct question {
    choice_text before, after;
    choice ends[CHOICES_MAX];
    int n, space; /* a space comes before an end */
} question;

/* ---- choices.c ------------------------------------------------------------------------------ */

typedef struct choices {
    const char *command, *path;
    int form;
    const char *data; /* zero-terminated */
    size_t n, at;
    size_t number; /* of questions read */
} choices;
/* Checks the beginning; 0 after saying what is wrong. */
int choices_begin(choices *c);
/* The next question: 1; at the end 0; -1 after saying what is wrong. */
int choices_next(choices *c, question *q);

/* ---- choices_eval.c ------------------------------------------------------------------------- */

typedef struct choices_result {
    size_t questions, right, answers; /* answers: of all questions, for what chance would find */
} choices_result;
/* limit: at most so many questions, 0 = all. An exit status. */
int choices_eval(choices *c, infer_model *model, const cli_common *common, int64_t limit, choices_result *out);

#endif
