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
/* Samples of one channel, -1 .. 1. A host with decoders of its own fills it in and leaves owner NULL. */
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
#endif
