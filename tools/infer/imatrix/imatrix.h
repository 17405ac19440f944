/* imatrix.h: how much the columns of matrices count: the sums of the squares of what they are multiplied with.
 *
 * Functions return 0 after saying what is wrong. */
#ifndef IMATRIX_H
#define IMATRIX_H

#include "../files/files.h"

/* ---- imatrix_read.c ------------------------------------------------------------------------- */

/* Of a tensor: n_counts rows of sums, one for each of its matrices or for several alike. */
typedef struct imatrix_entry {
    char *name;
    uint64_t n_values, n_counts;
    const file_tensor *sums, *counts; /* GGUF */
    uint64_t at;                      /* the older form: where the values are in the file, and how many chunks were counted */
    float calls;
} imatrix_entry;

/* A file of llama-imatrix, as it writes them today (GGUF) or did before (old). Zero-initialised: closed. */
typedef struct imatrix_file {
    const char *command, *path;
    int open, old;
    file_model gguf;
    FILE *file; /* of the older form */
    imatrix_entry *entries; /* by name */
    size_t n;
    uint64_t chunks, chunk_size; /* 0 = the file does not say */
    char **datasets;
    size_t n_datasets;
} imatrix_file;

int imatrix_open(imatrix_file *f, const char *command, const char *path);
void imatrix_close(imatrix_file *f);
const imatrix_entry *imatrix_find(const imatrix_file *f, const char *name);
/* n_values sums and n_counts counts. Of the older form both are divided by the size of its chunks, which the file does not say. */
int imatrix_read(imatrix_file *f, const imatrix_entry *e, float *sums, float *counts);

/* ---- imatrix_sums.c ------------------------------------------------------------------------- */

/* Of a tensor: what whole chunks added up to, and what the running chunk has so far. Each chunk is summed by itself and then added, in
 * float32, so that a run that goes on from a file gives the same bits as one that was not interrupted. */
typedef struct imatrix_sum {
    char *name;
    uint64_t n_values, n_counts;
    float *total, *chunk;
    double *counts, *chunk_counts;
} imatrix_sum;

typedef struct imatrix_sums {
    const char *command;
    imatrix_sum **items;
    size_t n;
    char **datasets;
    size_t n_datasets;
    double tokens; /* of all chunks */
    uint64_t chunk_size;
} imatrix_sums;

void imatrix_sums_free(imatrix_sums *s);
/* A new one, all zeros; NULL after saying that there is no memory. */
imatrix_sum *imatrix_sums_add(imatrix_sums *s, const char *name, uint64_t n_values, uint64_t n_counts);
int imatrix_add_dataset(imatrix_sums *s, const char *name); /* unless it is there */
/* Adds what a file holds. */
int imatrix_merge(imatrix_sums *s, imatrix_file *f);
/* One count for several rows alike becomes one for each. */
int imatrix_spread(const char *command, imatrix_sum *t, uint64_t n_counts);
/* The running chunk is complete: adds it. */
int imatrix_chunk_done(imatrix_sums *s);
/* In llama-imatrix's GGUF form; the file appears when it is complete. */
int imatrix_write(const imatrix_sums *s, const char *path);

#endif
