/* diff.h: the two parts of `infer diff`: what differs (diff.c), and by how much (diff_values.c). */
#ifndef DIFF_H
#define DIFF_H

#include "files.h"

typedef struct diff_side {
    file_model file;
    infer_model *model; /* the same file, once values of it were needed */
} diff_side;

typedef struct diff_values {
    int known;           /* 0: the shapes differ, so there are no figures */
    double largest;      /* of |b - a|; HUGE_VAL when one is not finite */
    double nmse;         /* sum((b - a)^2) / sum(a^2); HUGE_VAL when that is not finite */
    uint64_t differing;  /* values */
} diff_values;

/* Two tensors of one name. *same: they do not differ at all. CLI_DONE, or the exit status after saying why. */
int diff_compare(diff_side *a, diff_side *b, const cli_common *common, const file_tensor *ta, const file_tensor *tb,
                 int *same, diff_values *out);

#endif
