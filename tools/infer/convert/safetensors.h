/* safetensors.h: the tensors of a folder of safetensors files.
 *
 * The format (huggingface/safetensors): 8 bytes with the length of the header, the header in JSON ({name: {dtype, shape,
 * data_offsets}}), the data. A model is model.safetensors, or several files that model.safetensors.index.json lists.
 * Nothing in them is trusted. Functions return 0 after saying what is wrong. */
#ifndef SAFETENSORS_H
#define SAFETENSORS_H

#include "../cli.h"

enum { ST_F32, ST_F16, ST_BF16, ST_F8_E4M3, ST_U8, ST_I8, ST_I32, ST_I64, ST_F64, ST_BOOL, ST_N_TYPES };
enum { ST_DIMS = 6 };
extern const int st_type_bytes[ST_N_TYPES];

typedef struct st_tensor {
    char *name;
    int type, n_dims;
    uint64_t dims[ST_DIMS]; /* the last one is the length of a row */
    uint64_t n;             /* values */
    int file;
    uint64_t offset; /* in its file */
    int used;        /* by a tensor of the model, or known to be of no use */
} st_tensor;

/* Zero-initialised: closed. */
typedef struct st_files {
    const char *command;
    char **paths;
    int n_paths;
    st_tensor *tensors; /* by name */
    size_t n;
    FILE *file; /* the one that is open, and where it is */
    int open;
    uint64_t at;
} st_files;

/* `stem`: "model", or "adapter_model" for adapters. */
int st_open(st_files *s, const char *command, const char *folder, const char *stem);
void st_close(st_files *s);
st_tensor *st_find(const st_files *s, const char *name); /* NULL = there is none */
/* n values from `first` on, as they are stored. */
int st_read(st_files *s, const st_tensor *t, uint64_t first, void *to, size_t n);
/* FOLDER/NAME, to be freed. */
char *st_path(const char *command, const char *folder, const char *name);

#endif
