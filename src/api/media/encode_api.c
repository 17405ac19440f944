/* encode_api.c: pictures and sounds for prompts: argument checks, and calls of model/stack/senses.c. */
#include "../../model/model.h"

static infer_result infer__encode_call(infer_media **out, infer_model *model, const infer_image *images, int32_t n,
                                       const infer_sound *sound, const infer_encode_params *params, infer_error *err) {
    infer_result r;
    if (!out || !model) return infer__error(err, INFER_ERR_ARGUMENT, "%s is NULL", out ? "model" : "out");
    infer__error_clear(err);
    infer__model_hold(model);
    r = infer__media_encode(out, model, images, n, sound, params, err);
    return infer__model_let(model, r);
}

INFER_API infer_result infer_media_encode(infer_media **out, infer_model *model, const infer_image *images, int32_t n,
                                          const infer_encode_params *params, infer_error *err) {
    if (out) *out = NULL;
    if (!INFER__HAS_MEDIA) return infer__left_out(err, "pictures and sound", "INFER_NO_MEDIA");
    if (!images || n < 1)
        return infer__error(err, INFER_ERR_ARGUMENT, images ? "n is %d" : "images is NULL", (int)n);
    return infer__encode_call(out, model, images, n, NULL, params, err);
}

INFER_API infer_result infer_media_encode_sound(infer_media **out, infer_model *model, const infer_sound *sound,
                                                const infer_encode_params *params, infer_error *err) {
    infer_media_params at;
    infer_sound other;
    infer_result r;
    if (out) *out = NULL;
    if (!INFER__HAS_MEDIA) return infer__left_out(err, "pictures and sound", "INFER_NO_MEDIA");
    if (!sound) return infer__error(err, INFER_ERR_ARGUMENT, "sound is NULL");
    if (sound->rate == INFER__SOUND_RATE || !sound->samples || sound->n < 1)
        return infer__encode_call(out, model, NULL, 0, sound, params, err);
    memset(&at, 0, sizeof at);
    at.rate = INFER__SOUND_RATE;
    if (model) at.allocator = model->params.allocator;
    r = infer_sound_convert(&other, sound->samples, sound->n, 1, sound->rate, &at, err);
    if (r == INFER_OK) r = infer__encode_call(out, model, NULL, 0, &other, params, err);
    infer_sound_free(&other);
    return r;
}

INFER_API int32_t infer_media_positions(const infer_media *media, int32_t *embeddings) {
    if (embeddings) *embeddings = media ? media->rows : 0;
    return media ? media->positions : 0;
}

INFER_API const float *infer_media_embeddings(const infer_media *media, int32_t number, int32_t *n, int32_t *width) {
    int32_t i;
    for (i = 0; INFER__HAS_MEDIA && media && i < media->n_parts; i++) {
        if (!media->parts[i].rows || number-- > 0) continue;
        if (n) *n = media->parts[i].n;
        if (width) *width = media->model->hp.n_embd * (1 + media->model->hp.n_deepstack);
        return media->parts[i].rows;
    }
    return NULL;
}

INFER_API infer_result infer_media_tokens(const infer_model *model, const char *text, size_t n, int32_t flags,
                                          infer_media *const *media, int32_t n_media, infer_token *out, size_t cap,
                                          size_t *count, infer_error *err) {
    infer_segment segment;
    infer__ids x;
    infer_result r;
    const int begins = n_media > 0 && (flags & INFER_TEXT_ADD_SPECIAL); /* once, not for each piece of the text */
    if (count) *count = 0;
    if (!INFER__HAS_MEDIA) return infer__left_out(err, "pictures and sound", "INFER_NO_MEDIA");
    r = infer__text_check(model, "text", text, n, flags, INFER_TEXT_SPECIAL, out, cap, count, err);
    if (r == INFER_OK) r = infer__media_check(model, media, n_media, err);
    if (r != INFER_OK) return r;
    infer__error_clear(err);
    infer__model_hold(model);
    memset(&segment, 0, sizeof segment);
    memset(&x, 0, sizeof x);
    segment.text = text;
    segment.n = n;
    x.mem = infer__model_mem(model);
    x.model = model;
    if (begins) flags &= ~INFER_TEXT_ADD_SPECIAL;
    r = infer__ids_make(&x, &segment, 1, NULL, flags, media, n_media, err);
    if (r == INFER_OK && begins) r = infer__ids_begin(&x, err);
    if (r == INFER_OK) {
        *count = x.n;
        if (cap > 0 && x.n > 0) memcpy(out, x.ids, INFER__MIN(cap, x.n) * sizeof *out);
    }
    infer__ids_free(&x);
    return infer__model_let(model, r);
}
