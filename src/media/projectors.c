/* projectors.c: the types of projector files, and what a file says about preprocessing.
 *
 * Owns:  INFER__PROJECTORS, a row for each clip.projector_type: how pictures are cut and sized, texts around media,
 *        how many tokens come out; and the reading of clip.* keys that preprocessing needs.
 * May not know: weights. The encoder's keys are the encoder's.
 * To add a type: a row; a new way of cutting is a function infer__cut_*, a new spectrogram an infer__mel.
 */
#include "prepare.h"
#include <math.h>

/* ---- sizes ------------------------------------------------------------------------------------- */

static int64_t infer__token_side(const infer__media_settings *s) { return (int64_t)s->patch * s->merge; }

static void infer__cut_canvas(infer__cut *out, int32_t from, int64_t width, int64_t height, int32_t filter,
                              int32_t stretch) {
    infer__canvas *c = &out->canvas[out->n++];
    c->width = width;
    c->height = height;
    c->from = from;
    c->filter = filter;
    c->stretch = stretch;
}

static void infer__cut_one(infer__cut *out) {
    out->columns = out->rows = out->single = 1;
    out->overview = -1;
}

/* A square of the encoder's size. */
static void infer__cut_fixed(const infer__media_settings *s, int32_t w, int32_t h, infer__cut *out) {
    (void)w;
    (void)h;
    infer__cut_canvas(out, -1, s->image_size, s->image_size, s->row->filter, s->row->stretch);
    infer__cut_one(out);
}

/* Both sides as multiples of `step` near w x h, or near that with its longer side `longest`; then, in float32 as
 * llama.cpp has it, both scaled alike until they keep to the limits. Of a picture that is too long for one row of
 * tokens the longer side is cut (llama.cpp exceeds the maximum). */
static void infer__size_near(const infer__media_settings *s, int64_t step, int32_t longest, int32_t w, int32_t h,
                             int64_t *width, int64_t *height) {
    const float fw = (float)w, fh = (float)h, f = (float)step;
    if (longest > 0) {
        const float scale = INFER__MIN((float)longest / fw, (float)longest / fh);
        *width = (int64_t)ceilf(fw * scale / f) * step;
        *height = (int64_t)ceilf(fh * scale / f) * step;
    } else {
        *width = INFER__MAX(step, (int64_t)roundf(fw / f) * step);
        *height = INFER__MAX(step, (int64_t)roundf(fh / f) * step);
    }
    if (s->max_pixels > 0 && *width * *height > s->max_pixels) {
        const float beta = sqrtf(fh * fw / (float)s->max_pixels);
        *height = INFER__MAX(step, (int64_t)floorf(fh / beta / f) * step);
        *width = INFER__MAX(step, (int64_t)floorf(fw / beta / f) * step);
        if (*width > *height) *width = INFER__MIN(*width, INFER__MAX(s->max_pixels / *height / step, 1) * step);
        else *height = INFER__MIN(*height, INFER__MAX(s->max_pixels / *width / step, 1) * step);
    } else if (s->min_pixels > 0 && *width * *height < s->min_pixels) {
        const float beta = sqrtf((float)s->min_pixels / (fh * fw));
        *height = (int64_t)ceilf(fh * beta / f) * step;
        *width = (int64_t)ceilf(fw * beta / f) * step;
    }
}

/* As many patches as the picture has, within limits; where a file has a longer side, near that. */
static void infer__cut_near(const infer__media_settings *s, int32_t w, int32_t h, infer__cut *out) {
    int64_t width, height;
    infer__size_near(s, infer__token_side(s), s->longest, w, h, &width, &height);
    infer__cut_canvas(out, -1, width, height, s->row->filter, s->row->stretch);
    infer__cut_one(out);
}

/* Tiles of the encoder's size. */
static void infer__cut_tiles(infer__cut *out, const infer__media_settings *s, int64_t columns, int64_t rows) {
    out->columns = columns;
    out->rows = rows;
    out->tiles = out->n;
    infer__cut_canvas(out, -1, columns * s->image_size, rows * s->image_size, INFER__RESIZE_BICUBIC, 0);
}

/* A stretched overview, and for pictures larger than that the grid that shows most of their pixels; of such grids the
 * one that wastes the fewest. */
static void infer__cut_grids(const infer__media_settings *s, int32_t w, int32_t h, infer__cut *out) {
    int64_t best = 0, waste = INT64_MAX;
    int32_t i, choice = 0;
    if (s->n_grids == 0) {
        infer__cut_fixed(s, w, h, out);
        return;
    }
    infer__cut_canvas(out, -1, s->image_size, s->image_size, INFER__RESIZE_BICUBIC, 1);
    if (w <= s->image_size && h <= s->image_size) return;
    for (i = 0; i < s->n_grids; i++) {
        const int64_t gw = (int64_t)s->grids[i][0] * s->image_size, gh = (int64_t)s->grids[i][1] * s->image_size;
        const float scale = INFER__MIN((float)gw / (float)w, (float)gh / (float)h);
        int64_t shown = (int64_t)((float)w * scale) * (int64_t)((float)h * scale);
        shown = INFER__MIN(shown, (int64_t)w * h);
        if (shown > best || (shown == best && gw * gh - shown < waste)) {
            best = shown;
            waste = gw * gh - shown;
            choice = i;
        }
    }
    infer__cut_tiles(out, s, s->grids[choice][0], s->grids[choice][1]);
}

/* LLaVA-UHD, MiniCPM-V: sides as multiples of a patch, at least one. */
static int64_t infer__uhd_round(int64_t length, int64_t patch) {
    return INFER__MAX((int64_t)(roundf((float)length / (float)patch) * (float)patch), patch);
}
/* The size with about the area of the encoder's picture; w x h itself where that is smaller and may not grow. */
static void infer__uhd_size(const infer__media_settings *s, int64_t w, int64_t h, int grow, int64_t *width,
                            int64_t *height) {
    if (grow || w * h > (int64_t)s->image_size * s->image_size) {
        const float ratio = (float)w / (float)h;
        h = (int64_t)((float)s->image_size / sqrtf(ratio));
        w = (int64_t)((float)h * ratio);
    }
    *width = infer__uhd_round(w, infer__token_side(s));
    *height = infer__uhd_round(h, infer__token_side(s));
}

/* At most 9 tiles of any size: about as many as the picture is larger than the encoder's, in the grid whose aspect
 * ratio is nearest to the picture's. */
static void infer__cut_uhd(const infer__media_settings *s, int32_t w, int32_t h, infer__cut *out) {
    const int64_t side = s->image_size;
    const float ratio = (float)w * (float)h / (float)(side * side), shape = (float)log((double)((float)w / (float)h));
    const int64_t ideal = ratio < 9 ? (int64_t)ceilf(ratio) : 9;
    float best = infer__bits_f32(0x7f7fffffu);
    int64_t n, m, width, height;
    if (w <= side && h <= side) {
        infer__cut_canvas(out, -1, side, side, INFER__RESIZE_BICUBIC, 1);
        return;
    }
    infer__uhd_size(s, w, h, 0, &width, &height);
    infer__cut_canvas(out, -1, width, height, INFER__RESIZE_BICUBIC, 1);
    out->columns = out->rows = out->tiles = 1;
    for (n = ideal - 1; n <= ideal + 1; n++) {
        if (n == 1 || n > 9) continue;
        for (m = 1; m <= n; m++) {
            float error = n % m ? best : (float)fabs((double)shape - log((double)m / (double)(n / m)));
            if (error >= best) continue;
            best = error;
            out->columns = m;
            out->rows = n / m;
        }
    }
    infer__uhd_size(s, infer__uhd_round(w, out->columns) / out->columns, infer__uhd_round(h, out->rows) / out->rows, 1,
                    &width, &height);
    infer__cut_canvas(out, -1, width * out->columns, height * out->rows, INFER__RESIZE_BICUBIC, 0);
}

/* The longer side as the file says, then stretched to whole tiles, of which the overview is made. Without that key, or
 * with limits of the caller's: tiles of a letterboxed picture. */
static void infer__cut_idefics3(const infer__media_settings *s, int32_t w, int32_t h, infer__cut *out) {
    const int32_t filter = s->row->filter, side = s->image_size;
    const double ratio = (double)w / h;
    int64_t width, height;
    if (s->longest == 0 || s->limited) {
        infer__size_near(s, side, s->longest, w, h, &width, &height);
        infer__cut_canvas(out, -1, side, side, INFER__RESIZE_BICUBIC, 1);
        infer__cut_tiles(out, s, width / side, height / side);
        return;
    }
    width = w >= h ? s->longest : INFER__MAX((int64_t)(s->longest * ratio), 1);
    height = w >= h ? INFER__MAX((int64_t)(s->longest / ratio), 1) : s->longest;
    if (w >= h) height += height % 2;
    else width += width % 2;
    out->columns = (width + side - 1) / side;
    out->rows = (height + side - 1) / side;
    infer__cut_canvas(out, -1, width, height, filter, 1);
    infer__cut_canvas(out, 0, out->columns * side, out->rows * side, filter, 1);
    infer__cut_canvas(out, 1, side, side, filter, 1);
    out->tiles = 1;
    out->overview = 2;
}

/* LFM2: a picture of more than twice the largest size becomes 2 to 10 tiles of 512 pixels, in the grid whose aspect
 * ratio is nearest to the picture's; of equally near ones a larger grid if the picture fills half of it. */
enum { INFER__LFM2_TILE = 512 };
static void infer__cut_lfm2(const infer__media_settings *s, int32_t w, int32_t h, infer__cut *out) {
    const double cell = (double)infer__token_side(s); /* rint: halves to even, unlike roundf */
    const double bw = INFER__MAX(rint((double)(float)w / cell) * cell, (double)s->patch);
    const double bh = INFER__MAX(rint((double)(float)h / cell) * cell, (double)s->patch);
    const float shape = (float)w / (float)h, area = (float)((int64_t)w * h);
    float best = infer__bits_f32(0x7f7fffffu);
    int64_t width, height, n, columns;
    infer__size_near(s, infer__token_side(s), 0, w, h, &width, &height);
    infer__cut_canvas(out, -1, width, height, INFER__RESIZE_BILINEAR, 1);
    if (!(bw * bh > (double)s->max_pixels * 2)) {
        infer__cut_one(out);
        return;
    }
    for (n = 2; n <= 10; n++)
        for (columns = 1; columns <= n; columns++) {
            const float error = fabsf(shape - (float)columns / (float)(n / columns));
            if (n % columns || error > best) continue;
            if (error == best && !(area > 0.5f * (float)(INFER__LFM2_TILE * INFER__LFM2_TILE * n))) continue;
            best = error;
            out->columns = columns;
            out->rows = n / columns;
        }
    out->tiles = out->n;
    infer__cut_canvas(out, -1, out->columns * INFER__LFM2_TILE, out->rows * INFER__LFM2_TILE, INFER__RESIZE_BILINEAR,
                      0);
}

/* ---- tokens of sounds -------------------------------------------------------------------------- */

/* Whisper's convolutions halve the frames; groups of `stack` frames are filled up before that. */
static int32_t infer__count_stacked(int32_t frames, int32_t stack) { return (frames + stack - 1) / stack / 2; }
static int32_t infer__count_stacked_pooled(int32_t frames, int32_t stack) {
    return infer__count_stacked(frames, stack) / 2;
}
static int32_t infer__count_pooled(int32_t frames, int32_t stack) { (void)stack; return frames / 4; }
static int32_t infer__count_ends(int32_t frames, int32_t stack) { return frames / 2 / stack + 2; }
static int32_t infer__count_hundreds(int32_t frames, int32_t stack) { (void)stack; return frames / 100 * 13; }
/* Two convolutions of stride 2. */
static int32_t infer__count_quarter(int32_t frames, int32_t stack) { (void)stack; return ((frames + 1) / 2 + 1) / 2; }
static int32_t infer__count_frames(int32_t frames, int32_t stack) { (void)stack; return frames; }

/* ---- the table --------------------------------------------------------------------------------- */

static const infer__mel INFER__MEL_WHISPER = {
    .window = 400, .fft = 400, .before = 200, .reflect = 1, .silence = 3000, .chunk = 3000, .unit = 1};
static const infer__mel INFER__MEL_QWEN3A = {
    .window = 400, .fft = 400, .before = 200, .reflect = 2, .chunk = 800, .unit = 100};
static const infer__mel INFER__MEL_GEMMA4A = {
    .window = 320, .fft = 512, .before = 160, .chunk = 3000, .unit = 1, .apart = 1, .plain = 1};

static const infer__mel INFER__MEL_GEMMA4UA = {.raw = INFER__SAMPLES, .chunk = INT32_MAX, .unit = 1};

static const infer__tile_marks INFER__MARKS_IDEFICS3 = {
    .overview_before = "\n\n<fake_token_around_image><global-img>", .overview_after = "<fake_token_around_image>",
    .before = {"<fake_token_around_image><row_", "_col_", ">"}, .row_end = "\n"};
static const infer__tile_marks INFER__MARKS_LFM2 = {
    .overview_before = "<|img_thumbnail|>", .before = {"<|img_row_", "_col_", "|>"}};
static const infer__tile_marks INFER__MARKS_MINICPM_2 = {
    .overview_before = "<image>", .overview_after = "</image>", .all_before = "<slice>", .all_after = "</slice>",
    .before = {"<image>"}, .after = "</image>", .row_end = "\n", .overview_first = 1};
static const infer__tile_marks INFER__MARKS_MINICPM_3 = {
    .overview_before = "<image>", .overview_after = "</image>", .before = {"<slice>"}, .after = "</slice>",
    .row_end = "\n", .overview_first = 1};

#define INFER__SCALE "clip.vision.projector.scale_factor"
#define INFER__MERGE "clip.vision.spatial_merge_size"
#define IMAGE(n, ...) {.name = n, .kind = INFER__MEDIA_IMAGE, __VA_ARGS__}
#define SOUND(n, m, ...) {.name = n, .kind = INFER__MEDIA_SOUND, .mel = &INFER__MEL_##m, __VA_ARGS__}
#define QWEN_VL .cut = infer__cut_near, .merge_key = INFER__MERGE, .merge = 2, .min_tokens = 8, .max_tokens = 4096, \
                .frames = 2, .grid = 1, .before = "<|vision_start|>", .after = "<|vision_end|>"
#define QWEN_2A .count = infer__count_pooled, .before = "<|audio_bos|>", .after = "<|audio_eos|>"
#define KIMI    .cut = infer__cut_near, .merge_key = INFER__SCALE, .merge = 1
static const infer__projector INFER__PROJECTORS[] = {
    IMAGE("cogvlm", .cut = infer__cut_grids, .grids = INFER__GRIDS_KEY, .merge = 1, .colour = 0x7a7468, .tokens = INFER__TOKENS_ENDS),
    IMAGE("dots_ocr", .cut = infer__cut_near, .merge_key = INFER__SCALE, .pixel_keys = 2,
          .before = "<|img|>", .after = "<|endofimg|>"),
    IMAGE("gemma3", .cut = infer__cut_fixed, .filter = INFER__RESIZE_BILINEAR, .merge_key = INFER__SCALE, .merge = 4,
          .non_causal = 1, .before = "<start_of_image>", .after = "<end_of_image>"),
    IMAGE("gemma3nv", .cut = infer__cut_fixed, .filter = INFER__RESIZE_BILINEAR, .merge = 1,
          .tokens = INFER__TOKENS_SIDE, .before = "<start_of_image>", .after = "<end_of_image>"),
    IMAGE("gemma4uv", .cut = infer__cut_near, .merge_key = INFER__SCALE, .merge = 3, .min_tokens = 70,
          .max_tokens = 1120, .non_causal = 1, .before = "<|image>", .after = "<image|>"),
    IMAGE("gemma4v", .cut = infer__cut_near, .merge_key = INFER__SCALE, .merge = 3, .min_tokens = 70,
          .max_tokens = 1120, .non_causal = 1, .causal_at = {1536, 2560}, .before = "<|image>", .after = "<image|>"),
    IMAGE("glm4v", .cut = infer__cut_near, .merge_key = INFER__MERGE, .merge = 2, .min_tokens = 8, .max_tokens = 4096,
          .grid = 1, .before = "<|begin_of_image|>", .after = "<|end_of_image|>"),
    IMAGE("idefics3", .longest = INFER__LONGEST_KEY, .cut = infer__cut_idefics3, .marks = &INFER__MARKS_IDEFICS3, .filter = INFER__RESIZE_LANCZOS,
          .merge_key = INFER__SCALE, .merge = 1),
    IMAGE("internvl", .cut = infer__cut_grids, .grids = INFER__GRIDS_AREA, .merge_key = INFER__SCALE, .merge = 1, .before = "<img>",
          .after = "</img>"),
    IMAGE("janus_pro", .cut = infer__cut_grids, .grids = INFER__GRIDS_KEY, .merge = 1, .colour = 0x7f7f7f),
    IMAGE("kimik25", KIMI, .min_tokens = 2, .max_tokens = 4096, .pixel_keys = 1, .before = "<|media_begin|>",
          .after = "<|media_end|>", .other = {"<|begin_of_image|>", "<|end_of_image|>"}),
    IMAGE("kimivl", KIMI, .min_tokens = 8, .max_tokens = 1024, .before = "<|media_start|>", .after = "<|media_end|>"),
    IMAGE("lfm2", .cut = infer__cut_lfm2, .marks = &INFER__MARKS_LFM2, .merge_key = INFER__SCALE, .merge = 1,
          .min_tokens = 64, .max_tokens = 256, .before = "<|image_start|>", .after = "<|image_end|>"),
    IMAGE("lightonocr", .longest = INFER__LONGEST_ALWAYS, .cut = infer__cut_near, .merge_key = INFER__MERGE, .merge = 1,
          .tokens = INFER__TOKENS_BREAKS, .before = "<|im_start|>", .after = "<|im_end|>"),
    IMAGE("llama4", .cut = infer__cut_grids, .grids = INFER__GRIDS_SIDES, .merge_key = INFER__SCALE, .merge = 1, .before = "<|image_start|>",
          .after = "<|image_end|>"),
    IMAGE("minimax_m3", .cut = infer__cut_near, .stretch = 1, .merge_key = INFER__MERGE, .merge = 2, .min_tokens = 8,
          .max_tokens = 576, .before = "]<]start of image[>[", .after = "]<]end of image[>["),
    IMAGE("mlp", .cut = infer__cut_grids, .grids = INFER__GRIDS_KEY, .merge = 1, .colour = 0x7a7468),
    IMAGE("paddleocr", .cut = infer__cut_near, .merge = 2, .pixel_keys = 2, .grid = 1, .before = "<|IMAGE_START|>",
          .after = "<|IMAGE_END|>"),
    IMAGE("phi4", .cut = infer__cut_near, .filter = INFER__RESIZE_BILINEAR, .merge = 1, .pixel_keys = 2),
    IMAGE("pixtral", .cut = infer__cut_near, .merge_key = INFER__MERGE, .merge = 1, .min_tokens = 8,
          .max_tokens = 1024, .tokens = INFER__TOKENS_BREAKS, .after = "[IMG_END]"),
    IMAGE("qwen2.5o", QWEN_VL),
    IMAGE("qwen2.5vl_merger", QWEN_VL),
    IMAGE("qwen2vl_merger", QWEN_VL),
    IMAGE("qwen3vl_merger", QWEN_VL),
    IMAGE("resampler", .versions = {2}, .cut = infer__cut_uhd, .marks = &INFER__MARKS_MINICPM_2, .merge = 1,
          .tokens = INFER__TOKENS_QUERIES),
    IMAGE("resampler", .versions = {3, 4, 5, 6, 100045}, .cut = infer__cut_uhd, .marks = &INFER__MARKS_MINICPM_3,
          .merge = 1, .tokens = INFER__TOKENS_QUERIES),
    SOUND("gemma4a", GEMMA4A, .count = infer__count_quarter, .before = "<|audio>",
          .after = "<audio|>"),
    SOUND("gemma4ua", GEMMA4UA, .count = infer__count_frames, .before = "<|audio>", .after = "<audio|>"),
    SOUND("glma", WHISPER, .count = infer__count_ends, .stacks = 1),
    SOUND("musicflamingo", WHISPER, .count = infer__count_pooled, .before = "<sound>"),
    SOUND("qwen2.5o", WHISPER, QWEN_2A),
    SOUND("qwen2a", WHISPER, QWEN_2A),
    SOUND("qwen3a", QWEN3A, .count = infer__count_hundreds, .before = "<|audio_start|>",
          .after = "<|audio_end|>"),
    SOUND("ultravox", WHISPER, .count = infer__count_stacked, .stacks = 1),
    SOUND("voxtral", WHISPER, .count = infer__count_stacked_pooled, .stacks = 1, .before = "[BEGIN_AUDIO]"),
};
#undef IMAGE
#undef SOUND
#undef QWEN_VL
#undef QWEN_2A
#undef KIMI

/* ---- settings ---------------------------------------------------------------------------------- */

/* The integer of a key: 1, or 0 where it is missing and not required; else an error that names it. */
static int infer__media_int(const infer__gguf *g, const char *key, int32_t low, int32_t high, int required,
                            int32_t *out, infer_error *err) {
    uint32_t v;
    const int found = infer__gguf_u32(g, key, &v, err);
    if (found < 0) return found;
    if (!found && required) return infer__error(err, INFER_ERR_FORMAT, "metadata key \"%s\" is missing", key);
    if (found && (v < (uint32_t)low || v > (uint32_t)high))
        return infer__error(err, INFER_ERR_FORMAT, "metadata key \"%s\": %lu is out of range (%d to %d)", key,
                            (unsigned long)v, (int)low, (int)high);
    if (found) *out = (int32_t)v;
    return found;
}

static infer_result infer__media_floats(const infer__gguf *g, const char *key, float low, float out[3],
                                        infer_error *err) {
    const infer__kv *kv = infer__gguf_find(g, key);
    int i;
    if (!kv || !infer__kv_is_numbers(kv) || kv->n < 3)
        return infer__error(err, INFER_ERR_FORMAT, "metadata key \"%s\" %s", key,
                            kv ? "is no array of 3 numbers" : "is missing");
    for (i = 0; i < 3; i++) {
        out[i] = (float)infer__kv_number(kv, (uint64_t)i);
        if (!(out[i] >= low && out[i] <= 1000))
            return infer__error(err, INFER_ERR_FORMAT, "metadata key \"%s\": number %d is out of range", key, i);
    }
    return INFER_OK;
}

static infer_result infer__media_grid(infer__media_settings *s, int64_t columns, int64_t rows, const char *key,
                                      infer_error *err) {
    if (s->n_grids == INFER__GRIDS || columns < 1 || rows < 1 || columns > 64 || rows > 64)
        return infer__error(err, INFER_ERR_FORMAT, "metadata key \"%s\": %s", key,
                            s->n_grids == INFER__GRIDS ? "too many grids" : "a grid needs 1 to 64 tiles per side");
    s->grids[s->n_grids][0] = (int16_t)columns;
    s->grids[s->n_grids++][1] = (int16_t)rows;
    return INFER_OK;
}

/* The grids that a picture may become. */
static infer_result infer__media_grids(const infer__gguf *g, infer__media_settings *s, infer_error *err) {
    static const char *const points = "clip.vision.image_grid_pinpoints", *const min = "clip.vision.preproc_min_tiles",
                             *const max = "clip.vision.preproc_max_tiles";
    const infer__kv *kv;
    int32_t low = 1, high = 12, a, b;
    uint64_t i;
    infer_result r = INFER_OK;
    if (s->row->grids == INFER__GRIDS_SIDES) {
        for (a = 1; a <= 3; a++)
            for (b = 1; b <= 3 && r == INFER_OK; b++)
                if (a * b > 1) r = infer__media_grid(s, a, b, "", err);
    } else if (s->row->grids == INFER__GRIDS_AREA) {
        if ((a = infer__media_int(g, max, 1, 64, 0, &high, err)) < 0) return (infer_result)a;
        if ((a = infer__media_int(g, min, 1, high, 0, &low, err)) < 0) return (infer_result)a;
        for (a = low; a <= high; a++) /* as llama.cpp has it: both sides are at least `low` */
            for (b = INFER__MAX((low + a - 1) / a, low); b <= high / a && r == INFER_OK; b++)
                r = infer__media_grid(s, a, b, max, err);
        if (s->n_grids == 0)
            return infer__error(err, INFER_ERR_FORMAT, "metadata key \"%s\": no grid has %d to %d tiles", min, (int)low,
                                (int)high);
    } else if (s->row->grids == INFER__GRIDS_KEY && (kv = infer__gguf_find(g, points)) != NULL) {
        if (!infer__kv_is_numbers(kv) || kv->n % 2)
            return infer__error(err, INFER_ERR_FORMAT, "metadata key \"%s\" is no array of pairs", points);
        for (i = 0; i < kv->n && r == INFER_OK; i += 2) {
            const double w = infer__kv_number(kv, i), h = infer__kv_number(kv, i + 1), side = s->image_size;
            if (!(w >= side && h >= side && w <= 64 * side && h <= 64 * side) || fmod(w, side) != 0 ||
                fmod(h, side) != 0)
                return infer__error(err, INFER_ERR_UNSUPPORTED,
                                    "metadata key \"%s\": pair %d is no multiple of the image size %d", points,
                                    (int)(i / 2), (int)s->image_size);
            r = infer__media_grid(s, (int64_t)(w / side), (int64_t)(h / side), points, err);
        }
    }
    return r;
}

/* Limits of a picture's pixels: the caller's, or the file's, or the row's. */
static infer_result infer__media_limits(const infer__gguf *g, const infer__media_options *o, infer__media_settings *s,
                                        infer_error *err) {
    const int64_t area = infer__token_side(s) * infer__token_side(s);
    const int32_t required = s->row->pixel_keys == 2;
    int32_t low = 0, high = 0, r;
    if (s->row->pixel_keys) {
        r = infer__media_int(g, "clip.vision.image_min_pixels", 1, 1 << 26, required, &low, err);
        if (r >= 0) r = infer__media_int(g, "clip.vision.image_max_pixels", 1, 1 << 26, required, &high, err);
        if (r < 0) return (infer_result)r;
    }
    s->min_pixels = low && high ? low : s->row->min_tokens * area;
    s->max_pixels = low && high ? high : s->row->max_tokens * area;
    if (s->min_pixels > s->max_pixels)
        return infer__error(err, INFER_ERR_FORMAT,
                            "metadata key \"clip.vision.image_min_pixels\": more than the maximum");
    if (o->min_tokens < 0 || o->max_tokens < 0 || o->min_tokens > 1 << 20 || o->max_tokens > 1 << 20 ||
        (o->max_tokens && o->min_tokens > o->max_tokens))
        return infer__error(err, INFER_ERR_ARGUMENT, "min_image_tokens %d, max_image_tokens %d: expected 0 or 1 to %d, "
                            "in this order", (int)o->min_tokens, (int)o->max_tokens, 1 << 20);
    s->limited = o->min_tokens || o->max_tokens;
    if (o->min_tokens) s->min_pixels = o->min_tokens * area;
    if (o->max_tokens) s->max_pixels = o->max_tokens * area;
    return INFER_OK;
}

static infer_result infer__media_image_keys(const infer__gguf *g, const infer__media_options *o,
                                            infer__media_settings *s, infer_error *err) {
    const infer__projector *row = s->row;
    int32_t width = 0, version = 2, i, r;
    infer_result result;
    s->merge = row->merge;
    if ((r = infer__media_int(g, "clip.vision.image_size", 1, 8192, 1, &s->image_size, err)) < 0 ||
        (r = infer__media_int(g, "clip.vision.patch_size", 1, 1024, 1, &s->patch, err)) < 0 ||
        (r = infer__media_int(g, "clip.vision.projection_dim", 1, 1 << 24, 1, &width, err)) < 0 ||
        (row->merge_key && (r = infer__media_int(g, row->merge_key, 1, 64, row->merge == 0, &s->merge, err)) < 0))
        return (infer_result)r;
    if (infer__token_side(s) > s->image_size && row->cut != infer__cut_near)
        return infer__error(err, INFER_ERR_FORMAT, "metadata key \"clip.vision.image_size\": %d is less than a token's "
                            "%d pixels", (int)s->image_size, (int)infer__token_side(s));
    if (infer__token_side(s) > 1024 || (row->cut == infer__cut_lfm2 && INFER__LFM2_TILE % infer__token_side(s) != 0))
        return infer__error(err, INFER_ERR_UNSUPPORTED,
                            "metadata key \"clip.vision.patch_size\": tokens of %d pixels are "
                            "not supported",
                            (int)infer__token_side(s));
    if (row->longest) {
        if (row->longest == INFER__LONGEST_ALWAYS) s->longest = s->image_size;
        if ((r = infer__media_int(g, "clip.vision.preproc_image_size", 1, 65536, 0, &s->longest, err)) < 0)
            return (infer_result)r;
    }
    if (row->tokens == INFER__TOKENS_QUERIES) {
        if ((r = infer__media_int(g, "clip.minicpmv_version", 0, INT32_MAX, 0, &version, err)) < 0 ||
            (r = infer__media_int(g, "clip.minicpmv_query_num", 0, 65536, 0, &s->queries, err)) < 0)
            return (infer_result)r;
        if (s->queries == 0) s->queries = row->versions[0] == 2 ? 96 : 64;
    }
    s->breaks = row->tokens == INFER__TOKENS_BREAKS && infer__gguf_tensor_find(g, "v.token_embd.img_break") != NULL;
    s->non_causal = row->non_causal;
    for (i = 0; i < 2; i++) s->non_causal &= row->causal_at[i] != width;
    result = infer__media_floats(g, "clip.vision.image_mean", -1000, s->mean, err);
    if (result == INFER_OK) result = infer__media_floats(g, "clip.vision.image_std", 1e-6f, s->std, err);
    if (result == INFER_OK) result = infer__media_grids(g, s, err);
    if (result == INFER_OK) result = infer__media_limits(g, o, s, err);
    return result;
}

static infer_result infer__media_sound_keys(const infer__gguf *g, infer__media_settings *s, infer_error *err) {
    const int32_t raw = s->row->mel->raw;
    int32_t r = infer__media_int(g, "clip.audio.num_mel_bins", 1, raw ? raw : 512, 1, &s->bins, err);
    if (raw) s->bins = raw;
    if (r >= 0 && s->row->stacks)
        r = infer__media_int(g, "clip.audio.projector.stack_factor", 1, 64, 1, &s->stack, err);
    return r < 0 ? (infer_result)r : INFER_OK;
}

/* The row of a type, NULL = it is not supported. */
static const infer__projector *infer__projector_find(const infer__gguf *g, int kind, const infer__str *type,
                                                     infer_error *err, int32_t *failed) {
    size_t i, j;
    for (i = 0; i < INFER__COUNT(INFER__PROJECTORS); i++) {
        const infer__projector *row = &INFER__PROJECTORS[i];
        int32_t version = 2;
        if (row->kind != kind || strlen(row->name) != type->n || memcmp(row->name, type->s, (size_t)type->n) != 0)
            continue;
        if (!row->versions[0]) return row;
        *failed = infer__media_int(g, "clip.minicpmv_version", 0, INT32_MAX, 0, &version, err);
        if (*failed < 0) return NULL;
        for (j = 0; j < INFER__COUNT(row->versions); j++)
            if (row->versions[j] == (version ? version : 2)) return row;
    }
    return NULL;
}

static infer_result infer__media_read_kind(const infer__gguf *g, int kind, const infer__media_options *o,
                                           infer__media_settings *s, infer_error *err) {
    const int image = kind == INFER__MEDIA_IMAGE;
    int32_t has = 0, r = infer__gguf_bool(g, image ? "clip.has_vision_encoder" : "clip.has_audio_encoder", &has, err);
    infer__str type = {"", 0};
    char name[84];
    if (r <= 0 || !has) return r < 0 ? (infer_result)r : INFER_OK;
    r = infer__gguf_str(g, "clip.projector_type", &type, err);
    if (r == 0) r = infer__gguf_str(g, image ? "clip.vision.projector_type" : "clip.audio.projector_type", &type, err);
    if (r < 0) return (infer_result)r;
    if (r == 0) return infer__error(err, INFER_ERR_FORMAT, "metadata key \"clip.projector_type\" is missing");
    r = 0;
    s->row = infer__projector_find(g, kind, &type, err, &r);
    if (r < 0) return (infer_result)r;
    if (!s->row) {
        infer__format(name, sizeof name, "%.*s", (int)INFER__MIN(type.n, 80), type.s);
        return infer__error(err, INFER_ERR_UNSUPPORTED, "projector type \"%s\" is not supported for %s%s", name,
                            image ? "pictures" : "sound", infer__gguf_peek(g, "clip.minicpmv_version") ?
                            " (or not this clip.minicpmv_version)" : "");
    }
    s->before = s->row->before;
    s->after = s->row->after;
    if (o->vocab && s->row->other[0] &&
        infer__vocab_find(o->vocab, s->row->other[0], strlen(s->row->other[0])) >= 0) {
        s->before = s->row->other[0];
        s->after = s->row->other[1];
    }
    s->mrope = o->mrope;
    s->stack = 1;
    return image ? infer__media_image_keys(g, o, s, err) : infer__media_sound_keys(g, s, err);
}

static void infer__media_read_one(const infer__gguf *g, int kind, const infer__media_options *o,
                                  infer__media_settings *s) {
    infer_error why;
    if (infer__media_read_kind(g, kind, o, s, &why) == INFER_OK) return;
    memset(s, 0, sizeof *s);
    s->why = why;
}

static infer_result infer__media_settings_read(const infer__gguf *g, const infer__media_options *options,
                                               infer__media_file *out, infer_error *err) {
    static const infer__media_options none = {0, 0, 0, NULL};
    const infer__media_options *o = options ? options : &none;
    infer__str arch = {"", 0};
    const infer_error *why;
    int32_t r = infer__gguf_str(g, "general.architecture", &arch, err);
    memset(out, 0, sizeof *out);
    if (r < 0) return (infer_result)r;
    if (arch.n != 4 || memcmp(arch.s, "clip", 4) != 0)
        return infer__error(err, INFER_ERR_FORMAT, "no projector file: general.architecture is \"%.*s\", not \"clip\"",
                            (int)INFER__MIN(arch.n, 80), arch.s);
    infer__media_read_one(g, INFER__MEDIA_IMAGE, o, &out->image);
    infer__media_read_one(g, INFER__MEDIA_SOUND, o, &out->sound);
    if (out->image.row || out->sound.row) return INFER_OK;
    why = out->image.why.code ? &out->image.why : &out->sound.why;
    if (why->code) return infer__error(err, why->code, "%s", why->message);
    return infer__error(err, INFER_ERR_FORMAT,
                        "the projector file has neither clip.has_vision_encoder nor clip.has_audio_encoder");
}
