/* prepare.h: the interface of the media layer's second half: pixels and samples -> what an encoder reads.
 *
 * Owns:  the table of projector types (projectors.c), the settings that a projector file gives, and the list that a
 *        picture or sound becomes: texts and media in prompt order, each medium with its tensors and token counts.
 * Rules: keys of the file and sizes of media are untrusted: checked before memory is taken. No weights, no ops: the
 *        encoder reads entries. llama.cpp's results are the reference (docs/projectors.md says where it is not
 *        followed).
 * Start: infer__media_settings_read, infer__media_plan (counts alone), infer__media_fill (tensors).
 */
#ifndef INFER__PREPARE_H
#define INFER__PREPARE_H

#include "../text/text.h"

/* ---- resize.c ---------------------------------------------------------------------------------- */

enum { INFER__RESIZE_BICUBIC, INFER__RESIZE_BILINEAR, INFER__RESIZE_LANCZOS };

/* RGB of w x h -> dw x dh, rows of dst `stride` bytes apart; all sizes at least 1 and checked by the caller. Pillow's
 * bits: horizontal pass first, weights of 22 bits, rounded to 8 bits between the passes. */
static infer_result infer__resize(infer__mem *mem, int filter, const uint8_t *src, int32_t w, int32_t h, uint8_t *dst,
                                  int32_t dw, int32_t dh, size_t stride, infer_error *err);

/* ---- projectors.c ------------------------------------------------------------------------------ */

enum { INFER__MEDIA_TEXT, INFER__MEDIA_IMAGE, INFER__MEDIA_SOUND };

/* A picture as it is before entries are cut out of it. */
typedef struct infer__canvas {
    int64_t width, height;
    int32_t from;    /* number of the canvas that it is made of, -1 = the picture */
    int32_t filter;  /* INFER__RESIZE_* */
    int32_t stretch; /* 0 = the aspect ratio is kept, and the rest filled with the row's colour */
} infer__canvas;
enum { INFER__CANVASES = 3 };
/* How a picture is cut: columns x rows tiles of one canvas, and an overview. */
typedef struct infer__cut {
    infer__canvas canvas[INFER__CANVASES];
    int32_t n;             /* canvases */
    int32_t tiles;         /* the canvas of the tiles */
    int32_t overview;      /* the canvas that is the overview, -1 = none */
    int64_t columns, rows; /* 0 = no tiles */
    int32_t single;        /* 1 = the one tile is the picture: no markers of tiles, and it has a grid */
} infer__cut;

/* Texts around tiles; NULL = none. */
typedef struct infer__tile_marks {
    const char *overview_before, *overview_after, *all_before, *all_after, *before[3], *after, *row_end;
    /* before: with row and column (from 1) between its parts, where it has a second one. row_end: between rows */
    int32_t overview_first;
} infer__tile_marks;

/* Samples of a frame where these are the encoder's input. */
enum { INFER__SAMPLES = 640 };

/* How a spectrogram is made; hops of 160 samples at 16 kHz. */
typedef struct infer__mel {
    int32_t window, fft; /* samples */
    int32_t before;      /* samples before the first frame, and what they are: */
    int32_t reflect;     /* 0 = zeros, 1 = the reflected beginning, 2 = and the end reflected, too */
    int32_t silence;     /* frames of zeros appended. Then only whole chunks count */
    int32_t chunk, unit; /* frames of an entry; the last one is filled up with zeros to a multiple of unit */
    int32_t apart;       /* 1 = each 30 s are a sound of their own */
    int32_t raw;         /* samples of a frame, which are its bins: no spectrogram */
    int32_t plain;       /* 1 = natural logarithm of magnitudes over HTK's filters; 0 = Whisper's normalised log10 */
} infer__mel;

struct infer__media_settings;
typedef void (*infer__cut_fn)(const struct infer__media_settings *s, int32_t w, int32_t h, infer__cut *out);

enum { /* what else an encoder gives, or gives instead of one token per merged patch */
    INFER__TOKENS_PLAIN, INFER__TOKENS_ENDS, /* begin and end */
    INFER__TOKENS_BREAKS, /* one between rows, if the file has their embedding */
    INFER__TOKENS_QUERIES, /* of a resampler */
    INFER__TOKENS_SIDE /* image size / patch size */
};

enum { /* grids of tiles that a picture may become */
    INFER__GRIDS_NONE, INFER__GRIDS_KEY, /* image_grid_pinpoints */
    INFER__GRIDS_AREA, /* those of min to max tiles */
    INFER__GRIDS_SIDES /* 1 to 3 per side */
};
enum { /* reads preproc_image_size: the length of the longer side */
    INFER__LONGEST_NONE, INFER__LONGEST_KEY, INFER__LONGEST_ALWAYS /* without the key the image size */
};

typedef struct infer__projector {
    const char *name;      /* clip.projector_type; with .versions: clip.minicpmv_version is one of them */
    int32_t kind;          /* INFER__MEDIA_IMAGE or _SOUND */
    int32_t versions[6];
    const char *before, *after; /* texts around the medium; NULL = none */
    const char *other[2];       /* these instead, if the vocabulary has the first */
    /* Pictures. */
    infer__cut_fn cut;
    const infer__tile_marks *marks;
    int32_t grids, longest; /* INFER__GRIDS_*, INFER__LONGEST_* */
    int32_t filter, stretch; /* of a picture without tiles */
    uint32_t colour;       /* of what letterboxing leaves of it: 0xrrggbb */
    const char *merge_key; /* patches per side of a token; NULL = merge */
    int32_t merge;         /* without the key; 0 = it is required */
    int32_t min_tokens, max_tokens; /* 0 = no limit */
    int32_t pixel_keys;    /* limits in pixels: 1 = instead of these where the file has them, 2 = required */
    int32_t tokens;        /* INFER__TOKENS_* */
    int32_t frames;        /* pictures that become one medium: 2, or 0 */
    int32_t grid;          /* tokens have a row and a column if the text model has M-RoPE */
    int32_t non_causal;    /* tokens of one picture see each other, */
    int32_t causal_at[2];  /* but not at these widths of the text model */
    /* Sounds. */
    const infer__mel *mel;
    int32_t (*count)(int32_t frames, int32_t stack); /* tokens of an entry */
    int32_t stacks;        /* reads clip.audio.projector.stack_factor */
} infer__projector;

/* What the caller says; zeros are defaults. */
typedef struct infer__media_options {
    int32_t min_tokens, max_tokens; /* of a picture, instead of the projector's limits; where its size varies */
    int32_t mrope;                  /* the text model has M-RoPE */
    const infer__vocab *vocab;      /* the text model's, or NULL */
} infer__media_options;

enum { INFER__GRIDS = 288 }; /* a type may choose from so many: 280 grids have at most 64 tiles */
typedef struct infer__media_settings {
    const infer__projector *row; /* NULL: the file has no encoder of this kind, or it is refused: */
    infer_error why;             /* code INFER_OK = there is none */
    const char *before, *after;
    int32_t image_size, patch, merge, longest; /* pixels, pixels, patches per side of a token, pixels or 0 */
    int64_t min_pixels, max_pixels;            /* 0 = no limit */
    int32_t limited;                           /* the limits are the caller's */
    float mean[3], std[3];
    int16_t grids[INFER__GRIDS][2];            /* columns, rows */
    int32_t n_grids;
    int32_t queries, breaks, mrope, non_causal;
    int32_t bins, stack;
} infer__media_settings;
typedef struct infer__media_file {
    infer__media_settings image, sound;
} infer__media_file;
/* Of a projector file. FORMAT or UNSUPPORTED name the key or the type: of a file with two encoders when both are
 * refused, else that is in .why of the one. */
static infer_result infer__media_settings_read(const infer__gguf *g, const infer__media_options *options,
                                               infer__media_file *out, infer_error *err);

/* ---- prepare.c, mel.c -------------------------------------------------------------------------- */

/* A tensor: rows of RGB pixels (height x 3 width), or [mel bins][frames]; NULL until it is filled in. */
typedef struct infer__media_entry {
    float *values;
    int32_t width, height;       /* pixels; frames and mel bins */
    int32_t picture, canvas, x, y; /* of a picture: what it is cut out of */
    int64_t first, frames;       /* of a sound: frames of the whole that it holds */
} infer__media_entry;
typedef struct infer__media_piece {
    int32_t kind;                /* INFER__MEDIA_*; a text is tokenised by itself, with special tokens */
    const char *text;
    int32_t entry, n_entries;    /* two frames of a video are one medium */
    int32_t n_tokens, n_pos;     /* n_pos: by how much positions advance */
    int32_t nx, ny, grid;        /* grid 1: token i has column i % nx and row i / nx (M-RoPE); 0: nx is n_tokens */
    int32_t non_causal;
} infer__media_piece;
typedef struct infer__media_list {
    infer__arena arena;
    infer__media_piece *pieces;
    infer__media_entry *entries;
    float *values;               /* of all entries */
    int32_t n_pieces, n_entries, n_tokens; /* n_tokens: of all media, without texts */
    infer__cut cut;
    int32_t width, height;       /* of the picture, or 0 */
    int64_t samples;             /* of the sound, or 0 */
} infer__media_list;

/* What n pictures become (one, or the frames of a video that are merged; alike in size) or a sound of 16 kHz; of images
 * only the sizes are read. The list is zeros on error, else free it. */
static infer_result infer__media_plan(infer__mem *mem, const infer__media_settings *s, const infer_image *images,
                                      int32_t n, infer__media_list *out, infer_error *err);
static infer_result infer__media_plan_sound(infer__mem *mem, const infer__media_settings *s, size_t samples,
                                            infer__media_list *out, infer_error *err);
/* The tensors of a planned list, from the same pictures or samples. On error the list has none. */
static infer_result infer__media_fill(infer__media_list *list, const infer__media_settings *s,
                                      const infer_image *images, infer_error *err);
static infer_result infer__media_fill_sound(infer__media_list *list, const infer__media_settings *s,
                                            const float *samples, infer_error *err);
static void infer__media_list_free(infer__media_list *list);

#endif
