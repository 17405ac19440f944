/* stack.h: stacks of projector files ("mmproj"): encoders of pictures and sound, beside a text model.
 *
 * Owns:  their rows (rows.c), the steps before and after their layers (steps.c), what a pass knows of a picture.
 * How:   a stack is a model of its own, with its own contexts: layers, weights, devices, plan are those of every model.
 *        Rows of a pass are patches. The first layer begins with a part that makes the stream of them, the last one
 *        ends with one that gives the embeddings; both are lists of steps.
 * Start: rows.c, then infer__walk_run.
 */
#ifndef INFER__STACK_H
#define INFER__STACK_H

enum { INFER__STACK_NONE, INFER__STACK_VISION, INFER__STACK_AUDIO };

/* One step: t is the tensor that the step before it left. Names of tensors without ".weight", ".bias". */
enum {
    INFER__STEP_END,
    INFER__STEP_PATCHES, /* t = the pixels of each patch, in the order of the kernel of a convolution */
    INFER__STEP_MATRIX,  /* t = t W (+ b) */
    INFER__STEP_FRAME,   /* t = t + W times the pixels of the second frame; name: of the tensor, as it is */
    INFER__STEP_PLACES,  /* t = t + the positions' embeddings; with rows for class tokens */
    INFER__STEP_NORM,    /* t = norm(t) */
    INFER__STEP_ACT,     /* t = act(t) */
    INFER__STEP_GATED,   /* t = act(t W other) * t W name */
    INFER__STEP_STREAM,  /* t = the stream */
    INFER__STEP_DROP,    /* without the rows of class tokens */
    INFER__STEP_MERGE,   /* the rows of merge x merge patches, which follow each other, become one */
    INFER__STEP_POOL,    /* or their mean */
    INFER__STEP_KEEP,    /* t is kept, beside what others keep */
    INFER__STEP_KEPT,    /* where streams are kept, t is the last of them: t = all of them, side by side */
    INFER__STEP_JOIN,    /* t = t, and then what is kept */
    INFER__STEP_SCALE,   /* t = t * root of the width */
    INFER__STEP_STD,     /* t = (t - name) * other */
    INFER__STEP_BREAKS,  /* between rows of the grid comes a row of its own */
    INFER__STEP_WRAP,    /* before all rows comes one, and after them */
    INFER__STEP_RESAMPLE, /* t = attention of learned queries to t */
    INFER__STEP_FRAMES,  /* t = the frames of a sound, between two of zeros; a row of the pass is two of them */
    INFER__STEP_CONV,    /* t = a convolution of three rows, of every of-th; it is between rows of zeros, too */
    INFER__STEP_CHUNKS,  /* t = three convolutions of chunks of a spectrogram, of is the activation of each: sound.c */
    INFER__STEP_GLU,     /* t = its first half * act(the second half) */
    INFER__STEP_SUBSAMPLE, /* t = two convolutions of a spectrogram, which halve it, with norms: conformer.c */
    INFER__STEP_RELATE,  /* t = attention to the last rows, whose distances count, too: conformer.c */
    INFER__STEP_TAPS,    /* t = a causal convolution of each column */
    INFER__STEP_ADD,     /* stream = stream + t * of / 2 */
    INFER__STEP_STEM,    /* mobile.c: the first convolution of a picture, with a norm, and maybe a bias; t = zeros */
    INFER__STEP_FUSE,    /* t = what layers of two stages gave, by two matrices with norms */
    INFER__STEPS
};
enum { /* infer__step.flags */
    INFER__STEP_BIAS = 1,       /* there is a bias; else there is none */
    INFER__STEP_MAY_BIAS = 2,   /* there may be one */
    INFER__STEP_MAY = 4,        /* nothing happens where the file has not the tensor */
    INFER__STEP_TRANSPOSED = 8, /* W is stored with rows and columns exchanged */
    INFER__STEP_BARE = 16,      /* a norm without weights */
    INFER__STEP_UNFOLDED = 32,  /* of merged rows W reads value by value those of all patches */
    INFER__STEP_FILLED = 64     /* the last merged row may have zeros */
};
/* of: INFER__NORM_*, or INFER__ACT_*; INFER__STEP_OWN: the layers'. eps 0: the layers'. */
enum { INFER__STEP_OWN = 255 };
typedef struct infer__step {
    uint8_t kind, flags, of;
    float eps;
    const char *name, *other;
} infer__step;

/* Where embeddings of positions come from. */
enum {
    INFER__PLACES_NONE,
    INFER__PLACES_LEARNED, /* a row of the table for each patch of a picture of one size */
    INFER__PLACES_RESIZED, /* the table is a square, these: resized to the picture. Triangles, wider where it shrinks */
    INFER__PLACES_CORNERS, /* bilinear, corners on corners */
    INFER__PLACES_CUBIC,   /* bicubic, a = -0.75 */
    INFER__PLACES_SUMS,    /* two tables, of columns and rows */
    INFER__PLACES_BUCKETS, /* the table is a square: the nearest of its places */
    INFER__PLACES_FRAMES,  /* the table's first rows */
    INFER__PLACES_CHUNKS   /* and again for each chunk */
};

/* infer__stack_row.turn: how heads are rotated: the first half of the pairs by one coordinate, the second by the
 * other. */
enum {
    INFER__TURN_YX = 1,
    INFER__TURN_XY = 2,
    INFER__TURN_BETWEEN = 4, /* frequencies of the second half are between those of the first */
    INFER__TURN_BLOCKS = 8,  /* each half of a head has pairs of its own */
    INFER__TURN_THIRDS = 16  /* of a head's thirds the last two, of even width, are rotated */
};
enum { INFER__CLASS_NONE, INFER__CLASS_FIRST, INFER__CLASS_LAST }; /* where positions have the class token */
enum { /* infer__stack_row.biases */
    INFER__BIAS_NORMS = 1, INFER__BIAS_ATTENTION = 2, INFER__BIAS_FFN = 4, INFER__BIAS_KEYS = 8, INFER__BIASES = 15,
    INFER__NEEDS_GATE = 16, INFER__NEEDS_GATE_BIAS = 32, INFER__NEEDS_NORMS = 64, /* of heads and results */
    INFER__NEEDS_TIMES = 128
};
#if defined(INFER_NO_MEDIA)
enum { INFER__SAMPLES = 640 }; /* as media/prepare.h, which is not there */
#endif
/* infer__stack_row.flags */
enum {
    INFER__STACK_SKIPS = 1,    /* the last layer is not run; or feature_layer names those whose results are read */
    INFER__STACK_WINDOWS = 2,  /* of layers, n_wa_pattern says which */
    INFER__STACK_COLUMNS = 4,  /* merged rows go down columns */
    INFER__STACK_SIGNED = 8,   /* pixels become 2 v - 1 */
    INFER__STACK_WIDE = 16,    /* patches are as large as what is merged: there is nothing to merge */
    INFER__STACK_ACT = 32,     /* the activation of FFNs is the row's, whatever keys say */
    INFER__STACK_RANGES = 64,  /* linear layers may have ranges: infer__weight.range */
    INFER__STACK_RESAMPLES = 128,
    INFER__STACK_AFTER = 256,  /* norms of layers come after attention and FFN */
    INFER__STACK_OWN = 512,    /* layers are the steps `beside`, whose t is their result */
    INFER__STACK_SAMPLES = 1024, /* frames are INFER__SAMPLES samples, whatever the key of bins says */
    INFER__STACK_BLOCKS = 2048   /* layers are blocks of convolutions, in so many stages: mobile.c */
};
enum { INFER__BLOCK_STAGES = 4 };

/* A row: what a type of projector does that its file does not say. */
typedef struct infer__stack_row {
    infer__arch arch; /* of the layers; name: clip.projector_type */
    uint8_t kind;     /* INFER__STACK_* */
    uint8_t merge;    /* sides of what is merged or pooled, where no key says it */
    const char *merge_key; /* which does; NULL = none */
    uint8_t places;   /* INFER__PLACES_* */
    uint8_t cls;      /* INFER__CLASS_* */
    uint8_t biases;   /* INFER__BIAS_*, INFER__NEEDS_*: what layers must have */
    uint8_t turn;     /* INFER__TURN_*; 0 = heads are not rotated */
    uint16_t flags;   /* INFER__STACK_* */
    float theta;      /* base of the rotation; 0 = 10000 */
    const infer__step *input, *beside, *head; /* beside: after layers that have its tensors, or OWN; NULL = none */
} infer__stack_row;

/* The stack of a model; row NULL: it is none. */
typedef struct infer__stack {
    const infer__stack_row *row;
    int32_t kind, image, patch, merge; /* image: the file's size of pictures */
    int32_t bins, merged, pooled;      /* of a spectrogram; rows that a step MERGE, POOL makes one of */
    int32_t window, every;             /* sides of windows in merged patches; every n-th layer has none; 0 = none has */
    int32_t list;                      /* numbers of a row that list a window: 0 = there are none */
    int32_t features[8], n_features;   /* layers whose input is read, the last one: whose result */
    int32_t n_beside;                  /* parts beside the layers */
    int32_t ranged;                    /* values of rows that are clamped before products; 0 = none are */
    int32_t queries;                   /* learned ones of a resampler; 0 = there is none */
    int32_t ends[INFER__BLOCK_STAGES];       /* layers up to the end of each stage of blocks */
    const float *table, *vectors[3]; /* embeddings of positions; of the class token; vectors of the head's last steps */
    int32_t wide, high;              /* of the table: that of a grid, or how many rows; 0 = there is none */
    const float *query;              /* of a resampler: queries x n_out */
    infer__tensor_slot slots[INFER__W_STACK_END - INFER__W_STACK_IN_M0]; /* of layers; name NULL: not used */
} infer__stack;

/* The picture or sound of a running pass. Arrays on the host: patches of frames, rows of PLACES; out: the result.
 * Of sounds nx are frames, ny bins, pixels[0] what the first convolution reads, pixels[1] zeros; of blocks of
 * convolutions pixels[0] is the picture, grid their planes. */
typedef struct infer__picture {
    int32_t nx, ny, patches, rows, tokens; /* patches; rows of the pass, with class tokens */
    infer__buf pixels[2], places, lists, grid; /* grid: places of rows for a resampler; scratch on the host */
    int32_t *axis[2]; /* rows: y and x of each */
    uint64_t rooms[8]; /* of blocks: where scratch begins in grid, in floats */
    float *out;
    infer_progress_fn progress; /* after every layer; NULL = none */
    void *progress_user;
} infer__picture;

/* api/model_api.c: an empty model. */
static infer_result infer__model_start(infer_model **out, const infer_model_params *params, uint32_t version,
                                       infer_error *err);
/* Open a stack of a projector file, of this kind; params as of the text model. *out NULL: the file has none. */
static infer_result infer__stack_open(infer_model **out, const infer__gguf_origin *origin, int32_t kind,
                                      const infer_model_params *params, infer_error *err);
/* 1 when the file has a stack of this kind. */
static int infer__stack_in(const infer__gguf *g, int32_t kind);
/* Floats of one embedding. */
static int32_t infer__stack_width(const infer_model *m);
/* Embeddings of a picture of this size, which is a preprocessed one; 0 when there can be none: *err says why. Of a
 * sound, here and below, width: frames; height: bins. */
static int32_t infer__stack_tokens(const infer_model *m, int32_t width, int32_t height, infer_error *err);
/* A context for pictures up to this many patches; params: its threads, processors. */
static infer_result infer__stack_context(infer_context **out, infer_model *m, const infer_context_params *params,
                                         int32_t width, int32_t height, infer_error *err);
/* 1 when a context has room for a picture of this size. */
static int infer__stack_fits(const infer_context *c, int32_t width, int32_t height);
/* Encode a picture or sound: values: [height][width][3], normalised, or [bins][frames]; second: the next frame of a
 * video, or NULL. The context is not claimed. session: its progress and trace, NULL = none. */
static infer_result infer__stack_encode(infer_context *c, const float *values, int32_t width, int32_t height,
                                        const float *second, const infer_session_params *session, float *out,
                                        infer_error *err);

/* steps.c: a row's lists, each with the slots of its first matrix and vector; the next step and its slots */
typedef struct infer__steps { const infer__step *s; int matrix, vector; } infer__steps;
static infer__steps infer__steps_in(const infer_model *m);
static infer__steps infer__steps_beside(const infer_model *m);
static infer__steps infer__steps_head(const infer_model *m);
static void infer__steps_next(infer__steps *s);
/* rows.c, for other parts of opening */
static infer_result infer__stack_find(infer_model *m, infer_error *err);
static const char *infer__stack_prefix(const infer_model *m); /* of its keys: clip.vision */
static const infer__tensor_slot *infer__stack_slot(const infer_model *m, int s);
/* The name of a layer's tensor becomes the one in projector files. */
static void infer__stack_rename(char *name, size_t cap);
/* Of a layer: how it is rotated, and whether it has windows. */
static void infer__stack_turn(infer__keys *k, infer__layer *l);
/* steps.c: factors become what is divided by. */
static infer_result infer__weight_inverse(infer_model *m, infer__weight *w, infer_error *err);
/* sound.c: keys; names of tensors of chunks; the shape of their convolutions; what a pass has of a sound */
static void infer__sound_keys(infer__keys *k);
static int infer__chunks_slots(infer_model *m, const infer__step *s, int matrix, int vector);
static infer_result infer__sound_sizes(const infer_model *m, int32_t frames, int32_t bins, infer__picture *p,
                                       infer_error *err);
static infer_result infer__sound_fill(infer_model *m, infer__picture *p, const float *values, infer_error *err);
/* mobile.c: keys; the part of a layer; sizes and scratch of a picture; shapes of its steps, and they */
static void infer__blocks_keys(infer__keys *k, infer__hparams *hp);
static void infer__blocks_part(infer_model *m, infer__layer *l);
static void infer__stack_part(const infer_model *m, infer__layer *l, const infer__sublayer_kind *kind); /* rows.c */
static infer_result infer__blocks_sizes(const infer_model *m, int32_t width, int32_t height, infer__picture *p,
                                        infer_error *err);
static infer_result infer__blocks_fill(infer_model *m, infer__picture *p, const float *values, infer_error *err);
static int infer__picture_buf(infer_model *m, infer__buf *b, int64_t rows, int64_t cols); /* picture.c */
static int infer__stack_name(infer_model *m, int slot, const char *name, const char *end, int rows, int cols, int need);
/* ---- steps.c, and sound.c, which has some of them --------------------------------------------------------------- */

/* Width of t, and the patches that a row of it is made of, or its rows for a row of the pass. room: floats per patch of
 * the largest t; cols: of the widest row. */
typedef struct infer__flow { int64_t cols, share, times, room, widest; } infer__flow;

/* Where the steps of a part are. */
typedef struct infer__walk {
    infer_context *c;
    const infer__layer *l;
    int64_t room;
    int32_t rows, at; /* of the pass; the room of t */
    infer__tensor t, x;
} infer__walk;

/* A matrix with its bias, for an input of *cols values, which become those of its result; turned: as it is stored. */
static infer_result infer__flow_matrix(const infer__weight *w, const infer__weight *b, int turned, int64_t *cols,
                                       infer_error *err);
static infer_result infer__chunks_flow(const infer_model *m, const infer__weight *w, const infer__weight *v,
                                       infer__flow *f, infer_error *err);
/* A tensor in the room that is `ahead` of t's; it is t; one row of it from the host; rows of the host. */
static infer__tensor infer__walk_room(const infer__walk *w, int32_t ahead, int32_t rows, int64_t cols);
static void infer__walk_to(infer__walk *w, infer__tensor y, int32_t ahead);
static void infer__walk_row(infer__walk *w, const infer__tensor *y, int32_t row, const float *from);
static infer__tensor infer__walk_host(infer__walk *w, const infer__buf *from, int32_t ahead, int32_t rows,
                                      int32_t cols);
enum { INFER__CHUNK_PIECE = 256 }; /* least rows for which scratch of products of chunks is made */
static void infer__step_frames(infer__walk *w);
static void infer__step_conv(infer__walk *w, const infer__step *s, const infer__weight *m, const infer__weight *b);
static void infer__step_chunks(infer__walk *w, const infer__step *s, const infer__weight *m, const infer__weight *b);
static void infer__step_glu(infer__walk *w, const infer__step *s);
static infer_result infer__blocks_flow(const infer_model *m, const infer__step *s, const infer__weight *w,
                                       const infer__weight *v, infer__flow *f, infer_error *err);
static void infer__step_stem(infer__walk *w, const infer__weight *m, const infer__weight *v);
static void infer__step_fuse(infer__walk *w, const infer__weight *m, const infer__weight *v);
static void infer__step_fill(infer__walk *w, int32_t rows);
/* conformer.c: names of tensors; shapes; what a pass has of a sound; the steps. m, v: a step's first matrix, vector */
enum { INFER__RELATE_ROWS = 12, INFER__RELATE_TAPS = 5 };
static int infer__subsampled(const infer_model *m);
static int infer__conformer_slots(infer_model *m, const infer__step *s, int matrix, int vector);
static infer_result infer__conformer_flow(const infer_model *m, const infer__layer *l, infer__steps s, infer__flow *f,
                                          infer_error *err);
static infer_result infer__conformer_split(infer_model *m, int kind, infer__weight *w, infer_error *err);
static int infer__conformer_fill(infer_model *m, infer__picture *p);
static void infer__step_subsample(infer__walk *w, const infer__weight *m, const infer__weight *v);
static void infer__step_relate(infer__walk *w, const infer__weight *m, const infer__weight *v);
static void infer__step_taps(infer__walk *w, const infer__weight *m, const infer__weight *v);

/* rows.c: the ranges of a layer's matrices: infer__weight.range */
static infer_result infer__stack_ranges(infer_model *m, infer__layer *l, infer_error *err);
static int infer__stack_range(const infer_model *m, const char *name); /* a tensor that is one */
static void infer__resample_keys(infer__keys *k, infer__hparams *hp);
static int infer__stack_other(const infer_model *m, const char *name); /* a tensor of the file's other stack */
static infer_result infer__stack_needs(const infer_model *m, infer_error *err);
#endif
