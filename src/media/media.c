/* media.c: what all decoders share, and the way from a file to a picture or a sound.
 *
 * Owns:  which format a file has; limits; orientation; the memory of results.
 * Rules: a format is recognised by its first bytes, never by a name. Formats that are known but not read have rows,
 *        so that they are refused by name.
 */
#include "media.h"

typedef infer_result (*infer__image_decoder)(infer__media *m, const uint8_t *p, size_t n, infer_image *out);

/* How files begin that are read; '?' stands for any byte. Without a decoder of pictures: a sound. */
static const struct {
    const char *name;
    int n;
    const char *bytes;
    infer__image_decoder image;
} infer__media_formats[] = {
    {"PNG", 8, "\x89PNG\r\n\x1a\n", infer__png_decode},
    {"JPEG", 3, "\xff\xd8\xff", infer__jpeg_decode},
    {"PPM", 2, "P5", infer__ppm_decode},
    {"PPM", 2, "P6", infer__ppm_decode},
    {"WAV", 12, "RIFF????WAVE", NULL},
    {"WAV", 12, "RF64????WAVE", NULL},
    {"WAV", 12, "BW64????WAVE", NULL},
};
/* And those that are not read. */
static const struct { const char *name; int n; const char *bytes; } infer__media_others[] = {
    { "GIF images", 4, "GIF8" },
    { "WebP images", 12, "RIFF????WEBP" },
    { "BMP images", 2, "BM" },
    { "TIFF images", 4, "II*\0" },
    { "TIFF images", 4, "MM\0*" },
    { "AVIF images", 12, "????ftypavif" },
    { "HEIC images", 10, "????ftyphe" },
    { "HEIC images", 11, "????ftypmif" },
    { "JPEG XL images", 2, "\xff\x0a" },
    { "JPEG XL images", 8, "\0\0\0\x0cJXL " },
    { "JPEG 2000 images", 8, "\0\0\0\x0cjP  " },
    { "PBM images", 2, "P1" },
    { "text PGM images", 2, "P2" },
    { "text PPM images", 2, "P3" },
    { "PBM images", 2, "P4" },
    { "PAM images", 2, "P7" },
    { "QOI images", 4, "qoif" },
    { "ICO images", 4, "\0\0\1\0" },
    { "PSD images", 4, "8BPS" },
    { "SVG images", 4, "<svg" },
    { "MP3 sounds", 3, "ID3" },
    { "MP3 sounds", 2, "\xff\xfb" },
    { "MP3 sounds", 2, "\xff\xf3" },
    { "MP3 sounds", 2, "\xff\xf2" },
    { "AAC sounds", 2, "\xff\xf1" },
    { "FLAC sounds", 4, "fLaC" },
    { "Ogg sounds", 4, "OggS" },
    { "AIFF sounds", 11, "FORM????AIF" },
    { "big-endian WAV sounds", 12, "RIFX????WAVE" },
    { "Wave64 sounds", 4, "riff" },
    { "AU sounds", 4, ".snd" },
    { "CAF sounds", 4, "caff" },
    { "AMR sounds", 5, "#!AMR" },
    { "MP4 files", 8, "????ftyp" },
    { "Matroska files", 4, "\x1a\x45\xdf\xa3" },
    { "PDF files", 4, "%PDF" },
};

static infer_result infer__media_begin(infer__media *m, const infer_media_params *params, infer_error *err) {
    infer_media_params *p = &m->params;
    memset(m, 0, sizeof *m);
    m->err = err;
    m->orientation = 1;
    m->format = "";
    infer__error_clear(err);
    if (params) *p = *params;
    if (infer__reserved_check(p->reserved, "infer_media_params", err)) return INFER_ERR_ARGUMENT;
    if (!p->allocator.alloc != !p->allocator.free)
        return infer__error(err, INFER_ERR_ARGUMENT, "allocator: alloc and free must both be given, or neither");
    if (p->rate != 0 && (p->rate < 1000 || p->rate > 1000000))
        return infer__error(err, INFER_ERR_ARGUMENT, "rate: expected 1000 to 1000000 samples per second, got %ld",
                            (long)p->rate);
    if (!(p->max_seconds >= 0))
        return infer__error(err, INFER_ERR_ARGUMENT, "max_seconds is negative, or not a number");
    if (p->max_seconds == 0) p->max_seconds = 3600;
    if (p->max_pixels == 0) p->max_pixels = (uint64_t)1 << 26;
    infer__mem_init(&m->mem, &p->allocator, p->max_memory);
    infer__watch_begin(&m->watch, &p->limits, 10 * INFER__WATCH_SECONDS);
    return INFER_OK;
}

static infer_result infer__media_bad(infer__media *m, uint64_t at, const char *why) {
    return infer__error(m->err, INFER_ERR_FORMAT, "%s, byte %llu: %s", m->format, (unsigned long long)at, why);
}

static infer_result infer__media_lacks(infer__media *m, const char *what) {
    return infer__error(m->err, INFER_ERR_UNSUPPORTED, "%s: %s not supported", m->format, what);
}

static infer_result infer__media_memory(infer__media *m, uint64_t bytes) {
    return infer__error(m->err, INFER_ERR_MEMORY, "%s: no memory for %llu bytes", m->format, (unsigned long long)bytes);
}

static infer_result infer__media_work(infer__media *m, uint64_t units) {
    if (infer__watch_work(&m->watch, units)) return INFER_OK;
    return infer__watch_error(&m->watch, "decoding", m->err);
}

static infer_result infer__media_size(infer__media *m, uint64_t width, uint64_t height) {
    uint64_t limit = INFER__MIN(m->params.max_pixels, SIZE_MAX / 16); /* sizes of memory do not overflow */
    if (width == 0 || height == 0)
        return infer__error(m->err, INFER_ERR_FORMAT, "%s: a picture of %llux%llu pixels", m->format,
                            (unsigned long long)width, (unsigned long long)height);
    if (width > INT32_MAX || height > INT32_MAX || width > limit / height)
        return infer__error(m->err, INFER_ERR_LIMIT, "%s: %llux%llu pixels are more than the limit of %llu", m->format,
                            (unsigned long long)width, (unsigned long long)height, (unsigned long long)limit);
    return INFER_OK;
}

static infer_result infer__media_pixels(infer__media *m, infer_image *out, uint64_t width, uint64_t height) {
    out->width = (int32_t)width;
    out->height = (int32_t)height;
    out->rgb = (uint8_t *)infer__alloc(&m->mem, width * height * 3);
    return out->rgb ? INFER_OK : infer__media_memory(m, width * height * 3);
}

/* ---- orientation (EXIF 2.32, 4.6.4: tag 0x112 of the first directory) ---------------------------- */

static int infer__exif_orientation(const uint8_t *p, size_t n) {
    int big;
    uint32_t at, i, entries;
#define INFER__U16(q) ((uint32_t)(big ? (q)[0] << 8 | (q)[1] : (q)[1] << 8 | (q)[0]))
    if (n < 8 || (memcmp(p, "II*\0", 4) != 0 && memcmp(p, "MM\0*", 4) != 0)) return 1;
    big = p[0] == 'M';
    at = big ? INFER__U16(p + 4) << 16 | INFER__U16(p + 6) : INFER__U16(p + 6) << 16 | INFER__U16(p + 4);
    if (at > n || n - at < 2) return 1;
    entries = INFER__U16(p + at);
    for (i = 0; i < entries && (n - at - 2) / 12 > i; i++) {
        const uint8_t *e = p + at + 2 + 12 * i;
        if (INFER__U16(e) != 0x112 || INFER__U16(e + 2) != 3) continue;
        return INFER__U16(e + 8) >= 1 && INFER__U16(e + 8) <= 8 ? (int)INFER__U16(e + 8) : 1;
    }
#undef INFER__U16
    return 1;
}

/* Turn the picture as its orientation says: the pixel at (x, y) comes from (y, x) when rows and columns are exchanged,
 * counted from the other end where it is flipped. */
static infer_result infer__media_turn(infer__media *m, infer_image *image) {
    int o = m->orientation, exchange = o >= 5, flip_x = o == 2 || o == 3 || o == 7 || o == 8;
    int flip_y = o == 3 || o == 4 || o == 6 || o == 7;
    ptrdiff_t w = image->width, h = image->height, step_x = flip_x ? -3 : 3, step_y = flip_y ? -3 * w : 3 * w, x, y;
    ptrdiff_t columns = exchange ? h : w, rows = exchange ? w : h, step = exchange ? step_y : step_x;
    uint8_t *from = image->rgb + (flip_x ? 3 * (w - 1) : 0) + (flip_y ? 3 * w * (h - 1) : 0), *to;
    infer_image turned;
    infer_result r;
    if (o == 1 || m->params.unrotated) return INFER_OK;
    if ((r = infer__media_pixels(m, &turned, (uint64_t)columns, (uint64_t)rows)) != INFER_OK) return r;
    for (to = turned.rgb, y = 0; y < rows; y++) {
        const uint8_t *q = from + y * (exchange ? step_x : step_y);
        for (x = 0; x < columns; x++, to += 3) memcpy(to, q + x * step, 3);
    }
    infer__free(&m->mem, image->rgb);
    image->rgb = turned.rgb;
    image->width = turned.width;
    image->height = turned.height;
    return INFER_OK;
}

/* ---- from a file ---------------------------------------------------------------------------------- */

static int infer__media_begins(const uint8_t *head, size_t n, const char *bytes, int length) {
    int i;
    for (i = 0; i < length && (size_t)i < n && (bytes[i] == '?' || (uint8_t)bytes[i] == head[i]); i++) continue;
    return i == length;
}

/* Which format the file has: INFER_OK, *image is its decoder (NULL for sounds), m->format its name; else an error that
 * names it. */
static infer_result infer__media_find(infer__media *m, infer__source *s, int picture, infer__image_decoder *image) {
    uint8_t head[12] = { 0 };
    size_t n = (size_t)INFER__MIN(s->io.size, sizeof head), i;
    infer_result r = infer__source_read(s, 0, head, n, m->err);
    if (r != INFER_OK) return r;
    for (i = 0; i < INFER__COUNT(infer__media_formats); i++) {
        if (!infer__media_begins(head, n, infer__media_formats[i].bytes, infer__media_formats[i].n)) continue;
        m->format = infer__media_formats[i].name;
        *image = infer__media_formats[i].image;
        if (!*image == !picture) return INFER_OK;
        return infer__error(m->err, INFER_ERR_FORMAT, "the file is a %s (%s), not a %s", picture ? "sound" : "picture",
                            m->format, picture ? "picture" : "sound");
    }
    for (i = 0; i < INFER__COUNT(infer__media_others); i++)
        if (infer__media_begins(head, n, infer__media_others[i].bytes, infer__media_others[i].n))
            return infer__error(m->err, INFER_ERR_UNSUPPORTED, "%s are not supported", infer__media_others[i].name);
    return infer__error(m->err, INFER_ERR_FORMAT,
                        "the format is not known: a file of %llu bytes that begins with %02x %02x %02x %02x",
                        (unsigned long long)s->io.size, head[0], head[1], head[2], head[3]);
}

/* Give a result its owner: the memory that its data is freed through. */
static infer_result infer__media_own(infer__media *m, void **owner) {
    infer__mem *mem = (infer__mem *)infer__alloc(&m->mem, sizeof *mem);
    if (!mem) return infer__media_memory(m, sizeof *mem);
    *mem = m->mem;
    *owner = mem;
    return INFER_OK;
}

static infer_result infer__image_read(infer__media *m, infer__source *s, infer_image *out) {
    infer__image_decoder decode = NULL;
    const uint8_t *p = (const uint8_t *)s->io.mapped;
    uint8_t *copy = NULL;
    uint64_t n = s->io.size, limit = m->params.max_pixels;
    infer_result r = infer__media_find(m, s, 1, &decode);
    if (r != INFER_OK) return r;
    limit =
        limit > UINT64_MAX / 16 ? UINT64_MAX : 8 * limit + ((uint64_t)16 << 20); /* 16 bits RGBA, and what is beside */
    if (n > limit || n > SIZE_MAX / 2)
        return infer__error(m->err, INFER_ERR_LIMIT, "%s: the file has %llu bytes, a picture at most %llu", m->format,
                            (unsigned long long)n, (unsigned long long)limit);
    if (!p) {
        p = copy = (uint8_t *)infer__alloc(&m->mem, n);
        if (!copy) return infer__media_memory(m, n);
        r = infer__source_read(s, 0, copy, n, m->err);
    }
    if (r == INFER_OK) r = decode(m, p, (size_t)n, out);
    infer__free(&m->mem, copy);
    if (r == INFER_OK) r = infer__media_turn(m, out);
    if (r == INFER_OK) r = infer__media_own(m, &out->owner);
    if (r != INFER_OK) {
        infer__free(&m->mem, out->rgb);
        memset(out, 0, sizeof *out);
    }
    return r;
}

/* The end of all ways to a sound. */
static infer_result infer__sound_end(infer__media *m, infer_result r, infer_sound *out) {
    if (r == INFER_OK && m->params.rate != 0) r = infer__resample(m, out, m->params.rate);
    if (r == INFER_OK) r = infer__media_own(m, &out->owner);
    if (r != INFER_OK) {
        infer__free(&m->mem, out->samples);
        memset(out, 0, sizeof *out);
    }
    return r;
}

static infer_result infer__sound_read(infer__media *m, infer__source *s, infer_sound *out) {
    infer__image_decoder none;
    infer_result r = infer__media_find(m, s, 0, &none);
    return infer__sound_end(m, r == INFER_OK ? infer__wav_decode(m, s, out) : r, out);
}

static infer_result infer__sound_from(infer__media *m, const float *samples, size_t frames, int32_t channels,
                                      int32_t rate, infer_sound *out) {
    infer_result r;
    m->format = "samples";
    if (channels < 1 || channels > 64 || rate < 1000 || rate > 1000000 || !samples || frames == 0)
        return infer__error(m->err, INFER_ERR_ARGUMENT,
                            "expected samples of 1 to 64 channels, 1000 to 1000000 per second; got %llu frames of %ld, "
                            "%ld per second",
                            (unsigned long long)frames, (long)channels, (long)rate);
    if ((double)frames > m->params.max_seconds * rate || frames > SIZE_MAX / 8)
        return infer__error(m->err, INFER_ERR_LIMIT, "%.1f seconds of sound are more than the limit of %g",
                            (double)frames / rate, m->params.max_seconds);
    out->n = frames;
    out->rate = rate;
    out->samples = (float *)infer__alloc(&m->mem, (uint64_t)frames * sizeof(float));
    r = out->samples ? infer__sound_mix(m, samples, frames, channels, out->samples)
                     : infer__media_memory(m, (uint64_t)frames * sizeof(float));
    return infer__sound_end(m, r, out);
}
