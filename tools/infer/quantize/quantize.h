/* quantize.h: a model in another storage type.
 *
 * Functions return 0 after saying what is wrong. */
#ifndef QUANTIZE_H
#define QUANTIZE_H

#include "../imatrix/imatrix.h"
#include "../files/files.h"
#include "../report/report.h"

/* ---- recipes.c ------------------------------------------------------------------------------ */

/* What a TYPE of the command line means: a type for most matrices, and others for some. */
typedef struct recipe recipe;
const recipe *recipe_named(const char *name); /* any case; NULL = none */
/* All names, separated by spaces, in a static buffer. */
const char *recipe_names(void);
/* general.file_type of a model made by it. */
uint32_t recipe_file_type(const recipe *r);
const char *recipe_name(const recipe *r);
int type_info(int32_t id, infer_type_info *out); /* 0 = this build does not read it */
/* The id of a storage type that can be written, by its name in any case; -1 = none. */
int32_t type_named(const char *name, infer_type_info *out);

/* What names of tensors say of a model. */
typedef struct layout {
    int n_layers;
    int tied;      /* there is no output.weight */
    int64_t share; /* heads that share keys and values; 0 = unknown */
    int64_t experts;
    int importance; /* of columns is known: set by the caller */
} layout;
void layout_of(const file_model *m, layout *out);
/* The layer of "blk.7.attn_v.weight", "enc.blk.7.attn_v.weight", and what follows the number; -1 = none, and all of the name. */
int tensor_layer(const char *name, const char **rest);
/* Is it a matrix that loses little? Others stay as they are: vectors, routers, convolutions, positions, small pairs. */
int recipe_takes(const file_tensor *t);
/* The type that a recipe gives to such a tensor, before rows that do not fit. */
int32_t recipe_type(const recipe *r, const layout *l, const file_tensor *t);
/* Is its error without importance of columns so large that the user should hear of it? */
int type_wants_importance(int32_t type);
/* A type whose blocks fit into rows of this width: the same, or one of about its size. */
int32_t type_fitting(int32_t type, uint64_t width);

/* ---- prune.c -------------------------------------------------------------------------------- */

/* Removes layers, "0,3,4" of the model's block_count, and gives the others their places. An error where one of these would compute something else. */
int file_prune(file_model *m, const char *list);
/* The name that a tensor had before, to be freed. */
char *file_name_before(const file_model *m, const char *name);

/* ---- importance.c --------------------------------------------------------------------------- */

/* How much each column of each matrix counts. Zero-initialised: no matrix has any. */
typedef struct importance {
    imatrix_file file;
    const file_model *model; /* that it is for */
} importance;
/* A file without any tensor of m is of another model. */
int importance_open(importance *im, const char *command, const char *path, const file_model *m);
int importance_has(const importance *im, const file_tensor *t);
/* Of a tensor: dims[0] floats for each of *n_matrices (1, or one for each expert), to be freed. *out = NULL: it has none. */
int importance_read(importance *im, const file_tensor *t, float **out, uint64_t *n_matrices);
void importance_close(importance *im);

/* ---- convert.c ------------------------------------------------------------------------------ */

typedef struct converting {
    file_model *in;
    gguf_out *out; /* NULL: only the error is measured */
    int threads;
    uint64_t sample;  /* at most so many rows are read, spread over the tensor; 0 = all */
    out_progress *progress; /* or NULL */
} converting;
/* A tensor in another type. error (or NULL): the sum of squared differences over that of the values. An exit status. */
int convert_tensor(const converting *c, const file_tensor *t, int32_t type, const float *importance, uint64_t n_matrices, double *error);
uint64_t type_bytes(int32_t type, const file_tensor *t);

/* ---- target.c ------------------------------------------------------------------------------- */

/* The types of n tensors (types[i] < 0: it keeps what bytes[i] says) with the least error whose bytes are at most `most`. */
int target_types(const converting *c, importance *im, const file_tensor *const *tensors, size_t n, uint64_t most, int32_t *types, uint64_t *bytes);

/* ---- report/quantize.c ---------------------------------------------------------------------- */

/* What a TYPE makes of the model: bytes of the file, bits and mean error of a value (of those that stay as they are it is 0). */
typedef struct outcome {
    const char *name;
    uint64_t bytes;
    double bits, error; /* error: -1 = not measured */
} outcome;
/* to, errors (-1 = none): of each tensor of `in`. outcomes: of the TYPE, then of those that it is compared with. */
void report_quantize(report *r, const file_model *in, const file_tensor *to, const double *errors, const outcome *outcomes, size_t n_outcomes);

#endif
