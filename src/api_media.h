/* api_media.h: the part of the public interface that turns files of pictures and sound into pixels and samples.
 * Included by api.h, at the point where its types are needed. */
#ifndef INFER_API_MEDIA_H
#define INFER_API_MEDIA_H

/* ---- pictures and sound --------------------------------------------------------------------- */

/* Pixels. A host with decoders of its own fills in width, height and rgb, and leaves owner NULL. */
typedef struct infer_image {
    int32_t width, height; /* both at least 1 */
    uint8_t *rgb;          /* height * width * 3: rows from the top, without gaps; red, green, blue of sRGB */
    void *owner;           /* the library's own: what infer_image_free frees */
} infer_image;
/* Samples of one channel, -1 .. 1; float files may exceed that. A host with decoders of its own fills it in and leaves
 * owner NULL. */
typedef struct infer_sound {
    float *samples;
    size_t n;
    int32_t rate; /* samples per second */
    void *owner;  /* the library's own: what infer_sound_free frees */
} infer_sound;

/* Zero in any field means the default. */
typedef struct infer_media_params {
    uint64_t max_pixels; /* of a picture, checked before memory is taken; 0 = 2^26 (67 million, which take 201 MB) */
    double max_seconds;  /* of a sound, likewise; 0 = 3600 */
    uint64_t max_memory; /* bytes of the whole call, the result's included; 0 = no limit */
    int32_t rate;        /* of the samples; 0 = as in the file. Resampled where the file has another one */
    int32_t unrotated;   /* 1 = pixels as they are stored, whatever orientation the file's EXIF data has */
    infer_limits limits; /* seconds (20), cancel */
    infer_allocator allocator;
    uint64_t reserved[4]; /* 0: fields of later versions (section 20) */
} infer_media_params;

/* Read a picture: PNG, JPEG (8 bits; baseline and progressive) or PPM (P5, P6); its first bytes say which. Grey becomes
 * RGB, 16 bits become their high byte, transparency is dropped, and EXIF orientation is applied. Other formats are
 * refused by name. The path is UTF-8; a file in memory, or behind callbacks, is needed only during the call. On error
 * *out is zeros. Free with infer_image_free.
 * Errors: IO, FORMAT (also for incomplete files), UNSUPPORTED, LIMIT (too many pixels, seconds), MEMORY, CANCELLED. */
INFER_API infer_result infer_image_open(infer_image *out, const char *path, const infer_media_params *params,
                                        infer_error *err);
INFER_API infer_result infer_image_decode(infer_image *out, const void *data, size_t size,
                                          const infer_media_params *params, infer_error *err);
INFER_API infer_result infer_image_open_io(infer_image *out, const infer_io *io, const infer_media_params *params,
                                           infer_error *err);
/* Also of zeros and NULL; an image without owner stays as it is. */
INFER_API void infer_image_free(infer_image *image);

/* Read a sound: WAV with PCM of 8, 16, 24 or 32 bits, floats of 32 or 64, A-law or mu-law; any rate, up to 64 channels,
 * whose mean is taken. Everything else as for pictures; free with infer_sound_free. */
INFER_API infer_result infer_sound_open(infer_sound *out, const char *path, const infer_media_params *params,
                                        infer_error *err);
INFER_API infer_result infer_sound_decode(infer_sound *out, const void *data, size_t size,
                                          const infer_media_params *params, infer_error *err);
INFER_API infer_result infer_sound_open_io(infer_sound *out, const infer_io *io, const infer_media_params *params,
                                           infer_error *err);
/* The same from samples of the caller's: frames x channels floats, `rate` frames per second. */
INFER_API infer_result infer_sound_convert(infer_sound *out, const float *samples, size_t frames, int32_t channels,
                                           int32_t rate, const infer_media_params *params, infer_error *err);
INFER_API void infer_sound_free(infer_sound *sound);

/* ---- pictures and sounds in prompts ---------------------------------------------------------- */

/* Where a picture or sound is in a text. */
#define INFER_MEDIA_MARKER "<__media__>"

/* A model sees and hears by its projector, a file of its own (infer_model_params.projector). A picture or sound is
 * encoded once and then used in any number of prompts and sessions of the model: in the prompt of infer_generate or
 * infer_generation_begin and in requests (infer_generate_params.media), in conversations (infer_chat_params.media), or
 * as tokens (infer_media_tokens, infer_session_media). */
typedef struct infer_encode_params {
    int32_t min_tokens,
        max_tokens; /* of a picture, for projectors that take pictures of any size; 0 = as the file says */
    int32_t threads;                /* 0 = as infer_context_params.threads */
    infer_progress_fn progress;     /* called after every layer; non-zero cancels */
    void *progress_user;
    /* Receives each tensor before it is encoded: pixels, height rows of 3 * width values (red, green, blue,
     * normalised), or a spectrogram, height mel bins of width frames. embedding: number of infer_media_embeddings;
     * frame: 1 = the second one of a video. NULL = none */
    void (*prepared)(void *user, int32_t embedding, int32_t frame, const float *values, int32_t width, int32_t height);
    void *prepared_user;
    uint64_t reserved[4]; /* 0: fields of later versions (section 20) */
} infer_encode_params;
/* Encode a picture, or n frames of a video that become one (where the projector merges frames; alike in size), or a
 * sound (of any rate). Pixels are needed only during the call. *out: free it with infer_media_free. The same picture
 * encoded before, and kept (infer_model_params.media_kept), is not encoded again. One call encodes at a time, others
 * wait; any thread may call, but for a callback of this call, which is refused.
 * Errors: UNSUPPORTED (no projector, or none of this kind), ARGUMENT (a picture without pixels), LIMIT (too large),
 * STATE (refused), MEMORY, CANCELLED. */
INFER_API infer_result infer_media_encode(infer_media **out, infer_model *model, const infer_image *images, int32_t n,
                                          const infer_encode_params *params, infer_error *err);
INFER_API infer_result infer_media_encode_sound(infer_media **out, infer_model *model, const infer_sound *sound,
                                                const infer_encode_params *params, infer_error *err);
/* Positions that it takes in a prompt, with the tokens around it; of these, embeddings; 0 for NULL. */
INFER_API int32_t infer_media_positions(const infer_media *media, int32_t *embeddings);
/* The embeddings themselves: number 0, 1, .. of what it consists of (tiles of a picture, pieces of a long sound), *n
 * rows of *width floats, which live as long as the media; NULL when there are no more. For hosts that use a projector
 * without a text model: its file can be opened as a model, in any way; such a model encodes, and has neither text nor
 * sessions. */
INFER_API const float *infer_media_embeddings(const infer_media *media, int32_t number, int32_t *n, int32_t *width);
/* The tokens of a text with a marker for each of n_media pictures and sounds: as infer_tokenize with these flags gives
 * them (of INFER_TEXT_ADD_SPECIAL only BOS), and tokens below -1 for embeddings, whose values depend on the picture
 * alone. *count is the full number; at most cap are written. Errors: ARGUMENT (markers and n_media differ; another
 * model's media), MEMORY. */
INFER_API infer_result infer_media_tokens(const infer_model *model, const char *text, size_t n, int32_t flags,
                                          infer_media *const *media, int32_t n_media, infer_token *out, size_t cap,
                                          size_t *count, infer_error *err);
/* What tokens below -1 stand for in later evals of the session (infer_media_tokens gives such tokens): n pictures and
 * sounds of its model. media is the caller's and in use until the next call of this; NULL, 0 = nothing any more. What
 * the session has evaluated, it keeps: such positions can be computed again, and compared, forked and saved as others.
 * A rewind cannot end inside a picture; after an eval that does, the picture's other rows come first. Errors: ARGUMENT,
 * STATE (the session is in use). */
INFER_API infer_result infer_session_media(infer_session *session, infer_media *const *media, int32_t n);
/* Drop the caller's reference: what uses it keeps it. NULL is accepted. INFER_ERR_STATE: it was freed before. */
INFER_API infer_result infer_media_free(infer_media *media);
#endif
