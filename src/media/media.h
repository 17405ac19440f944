/* media.h: the interface of the media layer: files of pictures and sound -> pixels and samples.
 *
 * Owns:  the decoders, one file or folder part per format, and what they share: limits, errors, memory of results.
 * Rules: everything read is untrusted: sizes are checked against the limits, and against what the file's bytes can
 *        hold, before memory is taken. What a decoder does not know it refuses by name; a file that ends early is an
 *        error. Knows nothing of models.
 * Start: infer__image_read, infer__sound_read (media.c).
 */
#ifndef INFER__MEDIA_H
#define INFER__MEDIA_H

#include "../base/base.h"
#include "../format/format.h"

/* One file that is decoded. */
typedef struct infer__media {
    infer__mem mem;
    infer__watch watch;
    infer_media_params params; /* with the defaults filled in */
    const char *format;        /* "PNG", for messages */
    int orientation;           /* EXIF's: 1 = as stored .. 8 */
    infer_error *err;
} infer__media;

/* Fills in the defaults; ARGUMENT when params make no sense. */
static infer_result infer__media_begin(infer__media *m, const infer_media_params *params, infer_error *err);
/* FORMAT: "PNG, byte 33: WHY". */
static infer_result infer__media_bad(infer__media *m, uint64_t at, const char *why);
/* UNSUPPORTED: "JPEG: WHAT not supported"; what ends with "is" or "are". */
static infer_result infer__media_lacks(infer__media *m, const char *what);
/* MEMORY, for so many bytes. */
static infer_result infer__media_memory(infer__media *m, uint64_t bytes);
/* Count work: OK, or why the call has to end. */
static infer_result infer__media_work(infer__media *m, uint64_t units);
/* Check a picture's size against the limits; its pixels are then allocated by infer__media_pixels. */
static infer_result infer__media_size(infer__media *m, uint64_t width, uint64_t height);
static infer_result infer__media_pixels(infer__media *m, infer_image *out, uint64_t width, uint64_t height);
/* The orientation of an EXIF block (a TIFF header and what follows), 1 when there is none. */
static int infer__exif_orientation(const uint8_t *p, size_t n);

/* Decoders: the whole file in memory. On error the caller frees out->rgb. */
static infer_result infer__png_decode(infer__media *m, const uint8_t *p, size_t n, infer_image *out);
static infer_result infer__jpeg_decode(infer__media *m, const uint8_t *p, size_t n, infer_image *out);
static infer_result infer__ppm_decode(infer__media *m, const uint8_t *p, size_t n, infer_image *out);
/* All samples of a file as one channel at its own rate; the caller frees out->samples on error, too. */
static infer_result infer__wav_decode(infer__media *m, infer__source *s, infer_sound *out);
/* frames x channels floats -> one channel. INFER_ERR_FORMAT when one is not a number. */
static infer_result infer__sound_mix(infer__media *m, const float *in, size_t frames, int channels, float *out);
/* *sound at another rate; its samples are replaced. */
static infer_result infer__resample(infer__media *m, infer_sound *sound, int32_t rate);

/* What the public calls do. On success out->owner is an infer__mem, which it and the data are freed through. */
static infer_result infer__image_read(infer__media *m, infer__source *s, infer_image *out);
static infer_result infer__sound_read(infer__media *m, infer__source *s, infer_sound *out);
static infer_result infer__sound_from(infer__media *m, const float *samples, size_t frames, int32_t channels,
                                      int32_t rate, infer_sound *out);

/* ---- inflate.c ------------------------------------------------------------------------------- */

/* A zlib stream (RFC 1950, 1951) in pieces, into a buffer of exactly the size that it must have. */
typedef struct infer__inflate {
    const uint8_t *p, *end;                    /* the piece that is read */
    int (*next)(struct infer__inflate *inflate); /* sets p and end to the next one; 0 = there is none */
    void *user;
    infer__watch *watch;
    uint64_t bits;
    unsigned n_bits, padded; /* padded: zero bits behind the end of the last piece, of n_bits */
    uint8_t *out;
    size_t at, size;
} infer__inflate;
/* NULL, or what is wrong. When watch->r is set the call was stopped. */
static const char *infer__inflate_run(infer__inflate *z);

#endif
