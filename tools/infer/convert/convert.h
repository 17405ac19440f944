/* convert.h: a Hugging Face folder as a model. file_open (files/files.h) opens one as it opens a GGUF file, so that
 * `convert`, `quantize`, `diff`, `hash` and `run` can read either.
 *
 * config.json becomes keys (keys.c; a family's own in families/), tensors get the names of GGUF (names.c), and what is
 * laid out in another way there is read through views (views.c) when its bytes are asked for: nothing is stored twice.
 * Functions return 0 after saying what is wrong, unless they say otherwise. */
#ifndef CONVERT_H
#define CONVERT_H

#include "../files/files.h"
#include "safetensors.h"

/* ---- views.c -------------------------------------------------------------------------------- */

enum { VIEW_LOOPS = 6 };
/* Values of a source in another order: loops from the outside in, `step` values apart in the source. */
typedef struct view {
    const st_tensor *from;
    const st_tensor *scales; /* of F8: a factor for each block of scale_rows x scale_cols values. MXFP4: a byte for each block */
    uint64_t scale_rows, scale_cols;
    uint64_t first;          /* value (MXFP4: block of 16 bytes) that it begins at */
    int n_loops;
    struct {
        uint64_t n, step;
    } loops[VIEW_LOOPS];
    uint64_t n;      /* values in all */
    int zeros;       /* not the source's values, but zeros in their place */
    float factor[2]; /* multiplied with in float32, one after the other; 1 = not */
    uint64_t row, lead, real; /* row > 0: of each `row` values `real` ones behind `lead` are the source's, the others zeros */
} view;

enum { TYPE_F32 = 0, TYPE_F16 = 1, TYPE_BF16 = 30, TYPE_MXFP4 = 39 }; /* storage types of GGUF */
int32_t type_of_source(int type); /* the one with the same bytes; -1 = there is none */
/* What happens to values on the way. */
enum { MADE_COPY, MADE_PLUS_1, MADE_NEG_EXP, MADE_MXFP4 };

/* A tensor of the model: its views one after the other, or values of its own. */
typedef struct made {
    view *views;
    size_t n_views;
    int op;
    float *values; /* NULL: views */
} made;

/* ---- checkpoint.c --------------------------------------------------------------------------- */

typedef struct family family;
typedef struct checkpoint {
    const char *command, *folder;
    infer_json *config, *generation; /* config.json, generation_config.json (NULL = absent) */
    const infer_json *text; /* the part of the config that is the language model's; may be config itself */
    const family *family;
    const char *arch; /* the GGUF name */
    st_files st;
    gguf_out keys;
    file_model *m; /* being filled in */
    made *made;    /* of m->tensors */
    uint64_t n_layers, n_embd, n_head, n_head_kv, head_dim, n_vocab; /* as far as the config says; 0 = it does not */
    uint64_t n_next; /* layers that predict further tokens, after the others */
    int natural;     /* as checkpoint_open was asked; so is this: */
    const char *pre;
    size_t left_out; /* tensors of image and sound encoders, and of layers that predict further tokens */
    int partial;     /* the tensors are those that an adapter is for; others may be missing */
    const char **unsaid; /* of a config made from a file's keys: what was looked up and is not there; or NULL */
    struct window {        /* views.c: what was read last of a source that is not read in its order; of its scales */
        const st_tensor *of;
        unsigned char *bytes;
        uint64_t first, n, cap;
    } windows[2];
    unsigned char *raw; /* views.c: pieces of what is being made */
    float *values;
    struct lora *lora; /* it is an adapter; or NULL */
} checkpoint;

/* ---- config.c ------------------------------------------------------------------------------- */

/* The value under the first of these names ("a|b|c.d") that is there and not null, in the text's part or else in all; NULL = none. */
#define CFG_LAYER_TYPES "layer_types|layers_block_type"
#define CFG_EXPERTS "num_local_experts|num_experts|n_routed_experts|moe_num_experts"
#define CFG_HEADS_KV "num_key_value_heads|n_kv_heads|num_kv_heads|n_head_kv|attn_config.kv_n_heads"
const infer_json *cfg(const checkpoint *c, const char *names);
uint64_t cfg_int(const checkpoint *c, const char *names, uint64_t otherwise); /* also when it is no whole number from 0 to 2^53 */
double cfg_number(const checkpoint *c, const char *names, double otherwise);
int cfg_true(const checkpoint *c, const char *names, int otherwise);
const char *cfg_text(const checkpoint *c, const char *names); /* NULL = none */
/* The same of rope_parameters or rope_scaling; kind: "full_attention", "sliding_attention" where a config has several. */
const infer_json *cfg_rope(const checkpoint *c, const char *kind, const char *name);
int cfg_says(const infer_json *v, const char *text); /* is it this string? */
/* How many values of a head are rotated, of `all`. share: what is if the config does not say. */
uint64_t cfg_rotated(const checkpoint *c, uint64_t all, double share);
/* Element `layer` of layer_types, or what a list of the layers with attention says; NULL = there is none. */
const char *cfg_layer_type(const checkpoint *c, uint64_t layer);
/* Is the layer's type one of these words, which | separates? */
int cfg_is_type(const checkpoint *c, uint64_t layer, const char *types);
int cfg_is_word(const char *words, const char *word);
/* Is the head the embedding? -1 = it does not say. Of a model with several parts the outer config says it, if any. */
int cfg_tied(const checkpoint *c);
/* A file of the folder, to be freed; *out is NULL where there is none, which is an error if it is needed. */
int cfg_file(const char *command, const char *folder, const char *name, int needed, infer_json **out);

/* ---- checks.c ------------------------------------------------------------------------------- */

/* Refuse what the architecture cannot compute, before and after keys and tensors are made. */
int check_config(const checkpoint *c);
int check_made(const checkpoint *c);

/* ---- keys.c --------------------------------------------------------------------------------- */

enum { KEY_INT, KEY_FLOAT, KEY_BOOL, KEY_TEXT, KEY_IS_INT, KEY_IS_FLOAT, KEY_IS_BOOL, KEY_IS_TEXT, KEY_ROTARY, KEY_HEAD, KEY_DROP };
/* ARCH.key from the config (`from` as in cfg), `is` where it has none and `is` is not NO_DEFAULT. KEY_IS_*: `is` itself, or the text
 * `from`. KEY_ROTARY: cfg_rotated of a head. KEY_HEAD: all of it. KEY_DROP: no such key, whatever was written before. */
typedef struct key_row {
    const char *key;
    int kind;
    const char *from;
    double is;
} key_row;
#define NO_DEFAULT (-1e300)
/* Keys of all models: sizes, rotation, norms, experts. */
int keys_common(checkpoint *c);
extern const key_row KEYS_COMMON[]; /* those of them that are rows */
int keys_rows(checkpoint *c, const key_row *rows);
void key_int(checkpoint *c, const char *key, uint64_t x); /* under the architecture's name */
void key_float(checkpoint *c, const char *key, double x);
void key_bool(checkpoint *c, const char *key, int x);
void key_text(checkpoint *c, const char *key, const char *x);
void key_ints(checkpoint *c, const char *key, const uint64_t *x, uint64_t n); /* an array, one for each layer */
void key_bools(checkpoint *c, const char *key, const int *x, uint64_t n);
/* Is layer i one with this type? An array of flags over all layers. */
int key_layers_of(checkpoint *c, const char *key, const char *type);

/* ---- views.c, continued --------------------------------------------------------------------- */

/* A new tensor of the model, its dims as GGUF has them (dims[0] is a row). type: as its first view's source. NULL = out of memory. */
made *make(checkpoint *c, const char *name, int n_dims, const uint64_t *dims);
/* A view of `from`, beginning at value `first`; then its loops, from the outside in. A view without loops is one value. */
view *make_view(checkpoint *c, made *m, st_tensor *from, uint64_t first);
void view_loop(view *v, uint64_t n, uint64_t step); /* v may be NULL */
/* As the source is, its dims reversed. squeezed: dims of 1 are left out. */
made *make_whole(checkpoint *c, const char *name, st_tensor *from, int squeezed);
/* Values of its own, in float32; n of them. */
made *make_values(checkpoint *c, const char *name, uint64_t n, float **values);
/* Everything is there: sizes and types agree. */
int make_done(checkpoint *c);
void made_drop(checkpoint *c, size_t i, size_t after); /* `after`: tensors that follow */
int made_read(checkpoint *c, const file_tensor *t, uint64_t offset, void *to, size_t n);

/* ---- names.c -------------------------------------------------------------------------------- */

/* What happens to a tensor besides its new name. */
enum { NAME_COPY, NAME_PLUS_1, NAME_NEG_EXP, NAME_ROTARY_Q, NAME_ROTARY_K, NAME_TRANSPOSED, NAME_SQUEEZED, NAME_HALVES, NAME_QKV,
       NAME_EXPERTS, NAME_HEADS, NAME_HEADS_KV, NAME_DROPPED };
/* A name without .weight and .bias, or all of it where it has neither; `to` likewise, "a|b" for NAME_HALVES (of the rows), "a|b|c" for
 * NAME_QKV (the rows of all heads, of K's and of V's). NAME_EXPERTS, NAME_HEADS*: # in `from` is a number; all of them are put together. */
typedef struct name_row {
    const char *from, *to;
    int what;
} name_row;

/* All tensors of the checkpoint to tensors of the model. */
int names_apply(checkpoint *c);
/* A tensor by the rows for its name in a layer (-1: outside of layers). */
int name_by_rows(checkpoint *c, st_tensor *t, int64_t layer, const char *rest);
int name_of_other_part(const char *name); /* of image and sound encoders */
/* "blk.LAYER.what" to out (128 bytes). */
const char *name_in(char *out, int64_t layer, const char *what);

/* ---- families/families.c ----------------------------------------------------------------------------- */

enum {
    ROTARY_PAIRS = 1,  /* its Q and K are stored for halves, but the architecture rotates pairs: rows are reordered */
    NORMS_PLUS_1 = 2,  /* norms have weights around 0 */
    ENCODER = 4,       /* no causal mask */
    NEXT_BLOCKS = 8,   /* layers after the others that predict further tokens are kept */
    V_TILED = 16,      /* heads of values are stored for each head of keys one after the other, but read in turn */
    ROUTES_SIGMOID = 32, /* scores of experts are sigmoids where the config does not say */
    ROTARY_PARTLY = 64   /* with ROTARY_PAIRS: half of each head, unless the config says another share */
};
struct family {
    const char *classes; /* of config.json's "architectures", separated by | */
    const char *arch;
    const char *act[2]; /* names of the activation in the config, and what it may be; NULL: hidden_act|hidden_activation, silu|swish */
    int (*fits)(checkpoint *c); /* of several rows with a class the first that fits; NULL = always */
    int flags;
    const key_row *keys;   /* or NULL */
    const name_row *names; /* before the common ones; or NULL */
    int (*own_keys)(checkpoint *c);
    /* A tensor that a row cannot describe. rest: its name in layer `layer` (-1 = outside of layers). 1 = made, -1 = not its own. */
    int (*own_tensor)(checkpoint *c, st_tensor *t, int64_t layer, const char *rest);
    int (*own_rest)(checkpoint *c); /* when all others are made */
};
/* The row for config.json; NULL after saying that there is none. */
const family *family_of(checkpoint *c);
/* The row for an architecture, *others = 1 where folders of several kinds become such files; NULL = there is none. */
const family *family_of_arch(const char *arch, int *others);

/* ---- checkpoint.c ---------------------------------------------------------------------------- */

/* Opens a folder as a model. file_close closes it. natural: tensors have the types that are written when none is asked for (F8: BF16);
 * else types that lose nothing (F8: F32). pre: the pre-tokenizer's name, NULL = found from its rules. */
int checkpoint_open(file_model *m, const char *command, const char *folder, int natural, const char *pre);
void checkpoint_close(checkpoint *c);
int checkpoint_is_file(const checkpoint *c, const char *path); /* is it one of the files read? */
void checkpoint_sizes(checkpoint *c);    /* c->n_*, from its config */
int checkpoint_take_keys(checkpoint *c); /* what was written to c->keys becomes the model's */

/* ---- lora.c, lora_base.c, lora_fused.c, lora_pairs.c ----------------------------------------------------------- */

/* A matrix W of the checkpoint that an adapter is for: W += alpha / rank * B A. */
typedef struct lora_module {
    char *name;
    st_tensor *a, *b; /* [experts][rank][inputs], [outputs][rank][experts]; in the adapter's own files */
    uint64_t rank, n_experts;
    double alpha;
    int parameter; /* W is no module's weight, but a parameter that a module of experts has */
    int embedding; /* W is [inputs][outputs], and so it is: */
    int turned;    /* where a checkpoint stores matrices so */
} lora_module;

/* An adapter as PEFT (Hugging Face) saves it. The matrices that it is for go the way of the base's own tensors, through the same rows and
 * views, but have no values: what becomes of a matrix's rows is then done to those of B, and of its columns to those of A. */
typedef struct lora {
    const char *command, *folder;
    infer_json *config; /* adapter_config.json */
    char *base_path;
    file_model base;     /* the model */
    checkpoint *out;     /* the adapter as a file */
    file_model to;       /* tensors of the base that are changed, */
    checkpoint *through; /* made from one for each module, by name */
    lora_module *modules;
    size_t n_modules;
    double alpha;       /* adapter.lora.alpha */
    const char *unsaid; /* as through->unsaid */
} lora;

int lora_is(const char *folder); /* is there an adapter in it? */
/* Opens it as the GGUF file of an adapter. base: the model's path; NULL = what adapter_config.json names, if it is here. */
int lora_open(file_model *m, const char *command, const char *folder, const char *base);
void lora_close(lora *l);
/* The config of the base, to l->through: its folder's, or one made from its file's keys. */
int lora_base(lora *l);
/* Where the base's file has one tensor in place of several of l->to, these become one. */
int lora_fuse(lora *l);
/* Pairs A, B of l->out from the views of l->through. *turned: modules were found to be stored transposed, as [inputs][outputs]; nothing is made then. */
int lora_pairs(lora *l, int *turned);

#endif
