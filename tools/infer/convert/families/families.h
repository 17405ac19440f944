/* families.h: the families of models, a file for each kind of them. A file has rows for the classes that config.json may name, and what rows
 * of keys and names cannot say: keys_* writes keys, tensor_* makes a tensor (1 = made, 0 = not its own, -1 = failed), rest_* makes what has
 * no tensor in the checkpoint. */
#ifndef FAMILIES_H
#define FAMILIES_H

#include "../convert.h"

#define END_KEYS {NULL, 0, NULL, 0}
#define END_NAMES {NULL, NULL, 0}
#define ROTARY(share) {"rope.dimension_count", KEY_ROTARY, NULL, share}

enum { ANY_CONTEXT = 1 << 20 }; /* positions, where the config has no limit */

/* Their rows; the last one's classes are NULL. */
extern const family DENSE_FAMILIES[], EXPERTS_FAMILIES[], GRANITE_FAMILIES[], GEMMA_FAMILIES[], LINEAR_FAMILIES[], OLDER_FAMILIES[], ENCODERS_FAMILIES[];

/* ---- families.c: rows that several have ---- */
extern const key_row LLAMA[], QWEN_MOE[];
extern const name_row AFTER[], FEED_FORWARD[];
/* Matrices of n experts, one below the other. transposed: those of GGUF are. 1, or -1. */
int experts_below(checkpoint *c, st_tensor *t, int64_t layer, const char *what, uint64_t n, int transposed);

/* ---- dense.c ---- */
int keys_windows(checkpoint *c); /* which layers have a sliding window, from layer_types */
int rest_llama3(checkpoint *c);  /* factors of frequencies, where the config asks for them */

/* ---- linear.c ---- */
int keys_granite_hybrid(checkpoint *c);
int keys_bamba(checkpoint *c);
int tensor_mamba2(checkpoint *c, st_tensor *t, int64_t layer, const char *rest);

/* ---- encoders.c ---- */
int keys_pooling(checkpoint *c);

#endif
