/* imatrix_eval.h: importance from a text. */
#ifndef IMATRIX_EVAL_H
#define IMATRIX_EVAL_H

#include "imatrix.h"

/* Set sums, common and with_output; the rest is zero. To be given to imatrix_eval_close in any case. */
typedef struct imatrix_eval {
    imatrix_sums *sums; /* chunk_size is set */
    cli_common *common;
    int with_output; /* also of output.weight */
    infer_model *model;
    infer_model_info info;
    infer_tensor_info *tensors;
    int32_t n_tensors, output; /* output: output.weight, -1 = there is none */
    imatrix_sum **of;          /* of each tensor; NULL = no input yet */
    infer_context *context;
    infer_session *session;
    infer_token bos, *ids;
    int failed; /* what is wrong has been said */
} imatrix_eval;

int imatrix_eval_open(imatrix_eval *e, const char *path);
/* What the sums have already must fit the model. */
int imatrix_eval_fit(imatrix_eval *e, const char *path);
int imatrix_eval_begin(imatrix_eval *e);
/* One chunk; 1 also after Ctrl-C, and then nothing is added. */
int imatrix_eval_chunk(imatrix_eval *e, const infer_token *tokens);
void imatrix_eval_close(imatrix_eval *e);

#endif
