/* synth.h: the parts of `infer synth`: shapes and architectures (synth_shapes.c), blocks of random values (synth_blocks.c), the
 * file (synth.c). */
#ifndef SYNTH_H
#define SYNTH_H

#include <stddef.h>
#include <stdint.h>

/* ---- synth_shapes.c ---- */

/* Keys and tensors are rows whose numbers are formulas of a shape's variables: "heads * head_dim", "kv_heads * (l % 4 = 3)". `l` is
 * the layer. Keys stand after the architecture's name, except for tokenizer.*. Operators: + - * / (whole), % = < and brackets; a name that the shape lacks is 0. `when`: a row counts where
 * this is not 0; NULL = always. */
typedef struct synth_key {
    char type; /* u u32, f f32, b flag, s a text; U, F, B: an array with one for each layer; I: i32 array of these numbers */
    const char *key, *value, *when;
} synth_key;

enum {
    SYNTH_MATRIX,
    SYNTH_MIXED, /* a matrix that mixtures give more bits in some layers */
    SYNTH_MORE,  /* in all */
    SYNTH_EMBED, /* MORE where the embedding is the output matrix too */
    SYNTH_NORM,  /* float32 near 1 */
    SYNTH_BIAS,  /* float32 near 0 */
    SYNTH_MINUS, /* float32 near -1 */
    SYNTH_FLOAT, /* a matrix in float32 */
    SYNTH_ROPE_FREQS
};
typedef struct synth_tensor {
    const char *name; /* after blk.N. in layers */
    int kind;
    const char *dims[4]; /* dims[0] is the length of a row; NULL = no more */
    const char *when;
} synth_tensor;

typedef struct synth_var {
    char name[16];
    double value;
} synth_var;
typedef struct synth_family synth_family;
typedef struct synth_shape {
    const char *name;
    const synth_family *family;
    synth_var vars[48];
    int n_vars;
} synth_shape;

enum { SYNTH_KEY_LISTS = 4, SYNTH_LAYER_LISTS = 8 };
/* An architecture: lists of rows, each ended by one without a name; NULL = no more. */
struct synth_family {
    const char *arch;
    const synth_key *keys[SYNTH_KEY_LISTS];
    const synth_tensor *front, *layer[SYNTH_LAYER_LISTS], *back;
};

/* NAME, or key=value,..., or NAME,key=value,...; 0 after saying what is wrong. */
int synth_parse(const char *text, synth_shape *s);
double synth_get(const synth_shape *s, const char *name); /* 0 when the shape has no such number */
double synth_value(const synth_shape *s, const char *formula, int64_t layer);
void synth_list_shapes(void); /* prints them, and the keys */

/* ---- synth_blocks.c ---- */

typedef struct synth_type {
    const char *name;
    uint32_t id, file_type;
    uint32_t values, bytes; /* per block */
    int more;               /* type of the matrices that a mixture gives more bits */
} synth_type;
enum { T_F32, T_F16, T_BF16, T_Q8_0, T_Q4_0, T_Q4_K, T_Q6_K, T_Q4_K_M, T_MXFP4, SYNTH_TYPES };
extern const synth_type synth_types[SYNTH_TYPES];

/* One block (for the plain types: one value) of the given mean and deviation; state: of a stream of random numbers. */
void synth_block(unsigned char *p, int type, double mean, double deviation, uint64_t *state);

#endif
