/* media_api.c: pictures and sounds for callers: which file, and src/media/media.c does the rest. */
#include "../../media/media.h"

/* Into the picture or the sound, from the path or io, of which one each is given. */
static infer_result infer__media_call(infer_image *image, infer_sound *sound, const char *path, const infer_io *io,
                                      const infer_media_params *params, infer_error *err) {
#if defined(INFER_NO_MEDIA)
    if (image) memset(image, 0, sizeof *image);
    if (sound) memset(sound, 0, sizeof *sound);
    (void)path, (void)io, (void)params;
    return infer__left_out(err, "pictures and sound", "INFER_NO_MEDIA");
#else
    infer__media m;
    infer__source s;
    infer_result r;
    if (!image && !sound) return infer__error(err, INFER_ERR_ARGUMENT, "out is NULL");
    if (image) memset(image, 0, sizeof *image);
    else memset(sound, 0, sizeof *sound);
    if ((r = infer__media_begin(&m, params, err)) != INFER_OK) return r;
    memset(&s, 0, sizeof s);
    if (io) s.io = *io;
    if (path) r = infer__source_open_path(&s, path, INFER__MAP_NEVER, err);
    else if (!s.io.read && !s.io.mapped)
        r = infer__error(err, INFER_ERR_ARGUMENT, "there is no file: its path, io or data is NULL");
    if (r == INFER_OK) r = image ? infer__image_read(&m, &s, image) : infer__sound_read(&m, &s, sound);
    infer__source_close(&s, &m.mem);
    return r;
#endif
}

INFER_API infer_result infer_image_open(infer_image *out, const char *path, const infer_media_params *params,
                                        infer_error *err) {
    return infer__media_call(out, NULL, path, NULL, params, err);
}
INFER_API infer_result infer_image_open_io(infer_image *out, const infer_io *io, const infer_media_params *params,
                                           infer_error *err) {
    return infer__media_call(out, NULL, NULL, io, params, err);
}
INFER_API infer_result infer_image_decode(infer_image *out, const void *data, size_t size,
                                          const infer_media_params *params, infer_error *err) {
    const infer_io io = { NULL, NULL, size, data };
    return infer__media_call(out, NULL, NULL, &io, params, err);
}
INFER_API infer_result infer_sound_open(infer_sound *out, const char *path, const infer_media_params *params,
                                        infer_error *err) {
    return infer__media_call(NULL, out, path, NULL, params, err);
}
INFER_API infer_result infer_sound_open_io(infer_sound *out, const infer_io *io, const infer_media_params *params,
                                           infer_error *err) {
    return infer__media_call(NULL, out, NULL, io, params, err);
}
INFER_API infer_result infer_sound_decode(infer_sound *out, const void *data, size_t size,
                                          const infer_media_params *params, infer_error *err) {
    const infer_io io = { NULL, NULL, size, data };
    return infer__media_call(NULL, out, NULL, &io, params, err);
}

INFER_API infer_result infer_sound_convert(infer_sound *out, const float *samples, size_t frames, int32_t channels,
                                           int32_t rate, const infer_media_params *params, infer_error *err) {
#if defined(INFER_NO_MEDIA)
    if (out) memset(out, 0, sizeof *out);
    (void)samples, (void)frames, (void)channels, (void)rate, (void)params;
    return infer__left_out(err, "pictures and sound", "INFER_NO_MEDIA");
#else
    infer__media m;
    infer_result r;
    if (!out) return infer__error(err, INFER_ERR_ARGUMENT, "out is NULL");
    memset(out, 0, sizeof *out);
    if ((r = infer__media_begin(&m, params, err)) != INFER_OK) return r;
    return infer__sound_from(&m, samples, frames, channels, rate, out);
#endif
}

/* What was read; nothing else has an owner. */
static void infer__media_free(void *owner, void *data) {
    infer__mem mem = *(infer__mem *)owner; /* which is freed through itself */
    infer__free(&mem, data);
    infer__free(&mem, owner);
}
INFER_API void infer_image_free(infer_image *image) {
    if (!image || !image->owner) return;
    infer__media_free(image->owner, image->rgb);
    memset(image, 0, sizeof *image);
}
INFER_API void infer_sound_free(infer_sound *sound) {
    if (!sound || !sound->owner) return;
    infer__media_free(sound->owner, sound->samples);
    memset(sound, 0, sizeof *sound);
}
