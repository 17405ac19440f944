/* media.c: what all decoders share, and the way from a file to a picture or a sound.
 *
 * Owns:  which format a file has; limits; orientation; the memory of results.
 * Rules: a format is recognised by its first bytes, never by a name. Formats that are known but not read have rows,
 *        so that they are refused by name.
 */
#include "media.h"

enum { INFER__PICTURE = 1, INFER__SOUND, INFER__OTHER };
typedef infer_result (*infer__image_decoder)(infer__media *m, const uint8_t *p, size_t n, infer_image *out);

/* How files begin. '?' stands for any byte. */
typedef struct infer__signature {
    const char *name;
    int kind;
    int n;
    const char *bytes;
    infer__image_decoder image; /* NULL: not read as a picture */
    int wav;
} infer__signature;
static const infer__signature infer__signatures[] = {
    { "PNG", INFER__PICTURE, 8, "\x89PNG\r\n\x1a\n", infer__png_decode, 0 },
    { "JPEG", INFER__PICTURE, 3, "\xff\xd8\xff", infer__jpeg_decode, 0 },
    { "PPM", INFER__PICTURE, 2, "P5", infer__ppm_decode, 0 },
    { "PPM", INFER__PICTURE, 2, "P6", infer__ppm_decode, 0 },
    { "WAV", INFER__SOUND, 12, "RIFF????WAVE", NULL, 1 },
    { "WAV", INFER__SOUND, 12, "RF64????WAVE", NULL, 1 },
    { "WAV", INFER__SOUND, 12, "BW64????WAVE", NULL, 1 },
    { "GIF", INFER__PICTURE, 4, "GIF8", NULL, 0 },
    { "WebP", INFER__PICTURE, 12, "RIFF????WEBP", NULL, 0 },
    { "BMP", INFER__PICTURE, 2, "BM", NULL, 0 },
    { "TIFF", INFER__PICTURE, 4, "II*\0", NULL, 0 },
    { "TIFF", INFER__PICTURE, 4, "MM\0*", NULL, 0 },
    { "AVIF", INFER__PICTURE, 12, "????ftypavif", NULL, 0 },
    { "HEIC", INFER__PICTURE, 10, "????ftyphe", NULL, 0 },
    { "HEIC", INFER__PICTURE, 11, "????ftypmif", NULL, 0 },
    { "JPEG XL", INFER__PICTURE, 2, "\xff\x0a", NULL, 0 },
    { "JPEG XL", INFER__PICTURE, 8, "\0\0\0\x0cJXL ", NULL, 0 },
    { "JPEG 2000", INFER__PICTURE, 8, "\0\0\0\x0cjP  ", NULL, 0 },
    { "text PPM, PBM or PAM", INFER__PICTURE, 2, "P1", NULL, 0 },
    { "text PPM, PBM or PAM", INFER__PICTURE, 2, "P2", NULL, 0 },
    { "text PPM, PBM or PAM", INFER__PICTURE, 2, "P3", NULL, 0 },
    { "text PPM, PBM or PAM", INFER__PICTURE, 2, "P4", NULL, 0 },
    { "text PPM, PBM or PAM", INFER__PICTURE, 2, "P7", NULL, 0 },
    { "QOI", INFER__PICTURE, 4, "qoif", NULL, 0 },
    { "ICO", INFER__PICTURE, 4, "\0\0\1\0", NULL, 0 },
    { "Photoshop", INFER__PICTURE, 4, "8BPS", NULL, 0 },
    { "SVG", INFER__PICTURE, 4, "<svg", NULL, 0 },
    { "MP3", INFER__SOUND, 3, "ID3", NULL, 0 },
    { "MP3", INFER__SOUND, 2, "\xff\xfb", NULL, 0 },
    { "MP3", INFER__SOUND, 2, "\xff\xf3", NULL, 0 },
    { "MP3", INFER__SOUND, 2, "\xff\xf2", NULL, 0 },
    { "AAC", INFER__SOUND, 2, "\xff\xf1", NULL, 0 },
    { "FLAC", INFER__SOUND, 4, "fLaC", NULL, 0 },
    { "Ogg", INFER__SOUND, 4, "OggS", NULL, 0 },
    { "AIFF", INFER__SOUND, 11, "FORM????AIF", NULL, 0 },
    { "big-endian WAV", INFER__SOUND, 12, "RIFX????WAVE", NULL, 0 },
    { "Wave64", INFER__SOUND, 4, "riff", NULL, 0 },
    { "AU", INFER__SOUND, 4, ".snd", NULL, 0 },
    { "CAF", INFER__SOUND, 4, "caff", NULL, 0 },
    { "AMR", INFER__SOUND, 5, "#!AMR", NULL, 0 },
    { "MP4", INFER__OTHER, 8, "????ftyp", NULL, 0 },
    { "Matroska", INFER__OTHER, 4, "\x1a\x45\xdf\xa3", NULL, 0 },
    { "PDF", INFER__OTHER, 4, "%PDF", NULL, 0 },
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
    if (p->max_seconds < 0) return infer__error(err, INFER_ERR_ARGUMENT, "max_seconds is negative");
    if (p->max_seconds == 0) p->max_seconds = 3600;
    if (p->max_pixels == 0) p->max_pixels = (uint64_t)1 << 26;
    infer__mem_init(&m->mem, &p->allocator, p->max_memory);
    infer__watch_begin(&m->watch, &p->limits, 20);
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
    if (width == 0 || height == 0)
        return infer__error(m->err, INFER_ERR_FORMAT, "%s: a picture of %llux%llu pixels", m->format,
                            (unsigned long long)width, (unsigned long long)height);
    if (width > INT32_MAX || height > INT32_MAX || width > m->params.max_pixels / height ||
        width * height > SIZE_MAX / 16)
        return infer__error(m->err, INFER_ERR_LIMIT, "%s: %llux%llu pixels are more than the limit of %llu", m->format,
                            (unsigned long long)width, (unsigned long long)height,
                            (unsigned long long)m->params.max_pixels);
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

/* The row of what the file begins with, when it is one that is wanted; else an error that names it. */
static infer_result infer__media_find(infer__media *m, infer__source *s, int kind, const infer__signature **out) {
    uint8_t head[12];
    size_t n = (size_t)INFER__MIN(s->io.size, sizeof head), i;
    infer_result r = infer__source_read(s, 0, head, n, m->err);
    int j;
    if (r != INFER_OK) return r;
    for (i = 0; i < INFER__COUNT(infer__signatures); i++) {
        const infer__signature *row = &infer__signatures[i];
        for (j = 0; j < row->n && (size_t)j < n; j++)
            if (row->bytes[j] != '?' && (uint8_t)row->bytes[j] != head[j]) break;
        if (j < row->n) continue;
        m->format = row->name;
        *out = row;
        if (kind == INFER__PICTURE ? row->image != NULL : row->wav) return INFER_OK;
        if (row->image || row->wav)
            return infer__error(m->err, INFER_ERR_FORMAT, "the file is a %s (%s), not a %s",
                                row->wav ? "sound" : "picture", row->name, row->wav ? "picture" : "sound");
        return infer__error(m->err, INFER_ERR_UNSUPPORTED, "%s %s are not supported", row->name,
                            row->kind == INFER__PICTURE ? "images"
                            : row->kind == INFER__SOUND ? "sounds"
                                                        : "files");
    }
    if (n < sizeof head)
        return infer__error(m->err, INFER_ERR_FORMAT, "a file of %d bytes is neither a picture nor a sound", (int)n);
    return infer__error(m->err, INFER_ERR_FORMAT,
                        "the format is not known: the file begins with the bytes %02x %02x %02x %02x", head[0], head[1],
                        head[2], head[3]);
}

/* Give a result its owner: the memory that its data is freed through. */
static infer_result infer__media_own(infer__media *m, void **owner) {
    infer__mem *mem = (infer__mem *)infer__alloc(&m->mem, sizeof *mem);
    if (!mem) return infer__media_memory(m, sizeof *mem);
    *mem = m->mem;
    *owner = mem;
    return INFER_OK;
}

static void infer__media_free(void *owner, void *data) {
    infer__mem mem;
    if (!owner) return;
    mem = *(infer__mem *)owner; /* which is freed through itself */
    infer__free(&mem, data);
    infer__free(&mem, owner);
}

static infer_result infer__image_read(infer__media *m, infer__source *s, infer_image *out) {
    const infer__signature *row = NULL;
    const uint8_t *p = (const uint8_t *)s->io.mapped;
    uint8_t *copy = NULL;
    uint64_t n = s->io.size, limit = m->params.max_pixels;
    infer_result r = infer__media_find(m, s, INFER__PICTURE, &row);
    if (r != INFER_OK) return r;
    limit = limit > UINT64_MAX / 16 ? UINT64_MAX : 8 * limit + ((uint64_t)16 << 20); /* 16 bits RGBA, and what is beside */
    if (n > limit || n > SIZE_MAX / 2)
        return infer__error(m->err, INFER_ERR_LIMIT, "%s: the file has %llu bytes, a picture at most %llu", row->name,
                            (unsigned long long)n, (unsigned long long)limit);
    if (!p) {
        p = copy = (uint8_t *)infer__alloc(&m->mem, n);
        if (!copy) return infer__media_memory(m, n);
        r = infer__source_read(s, 0, copy, n, m->err);
    }
    if (r == INFER_OK) r = row->image(m, p, (size_t)n, out);
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
    const infer__signature *row;
    infer_result r = infer__media_find(m, s, INFER__SOUND, &row);
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
