/* wav.c: WAV sounds (Microsoft's RIFF WAVE; RF64 and BW64: EBU Tech 3306, ITU-R BS.2088; A-law and mu-law: ITU-T
 * G.711).
 *
 * Owns:  chunks, sample formats, the mean of channels.
 * Rules: read in pieces, so that memory is taken for the result alone. Streams whose writer did not know their size
 *        last to the end of the file.
 */
#include "media.h"

enum { INFER__WAV_CHANNELS = 64, INFER__WAV_PIECE = 16384 };
typedef enum infer__wav_kind {
    INFER__WAV_PCM, INFER__WAV_FLOAT, INFER__WAV_A_LAW, INFER__WAV_MU_LAW, INFER__WAV_OTHER
} infer__wav_kind;
typedef struct infer__wav_format {
    infer__wav_kind kind;
    int channels, bytes; /* of a sample */
    uint32_t rate;
} infer__wav_format;
/* Format tags; those behind INFER__WAV_OTHER are refused by name. */
static const struct { uint16_t tag; infer__wav_kind kind; const char *name; } infer__wav_tags[] = {
    { 1, INFER__WAV_PCM, "PCM" },       { 3, INFER__WAV_FLOAT, "float" },       { 6, INFER__WAV_A_LAW, "A-law" },
    { 7, INFER__WAV_MU_LAW, "mu-law" }, { 2, INFER__WAV_OTHER, "MS ADPCM" },    { 0x11, INFER__WAV_OTHER, "IMA ADPCM" },
    { 0x31, INFER__WAV_OTHER, "GSM" },  { 0x50, INFER__WAV_OTHER, "MPEG" },     { 0x55, INFER__WAV_OTHER, "MP3" },
    { 0xff, INFER__WAV_OTHER, "AAC" },  { 0x161, INFER__WAV_OTHER, "WMA" },     { 0xf1ac, INFER__WAV_OTHER, "FLAC" },
};

static infer_result infer__wav_format_read(infer__media *m, uint64_t at, const uint8_t *p, size_t n,
                                           infer__wav_format *f) {
    static const uint8_t guid[14] = { 0, 0, 0, 0, 0x10, 0, 0x80, 0, 0, 0xaa, 0, 0x38, 0x9b, 0x71 };
    char what[64];
    uint32_t tag, bits, align, i;
    if (n < 16) return infer__media_bad(m, at, "the format is damaged");
    tag = infer__load_u16(p);
    f->channels = infer__load_u16(p + 2);
    f->rate = infer__load_u32(p + 4);
    align = infer__load_u16(p + 12);
    bits = infer__load_u16(p + 14);
    if (tag == 0xfffe) { /* extensible: the tag begins a GUID */
        if (n < 40) return infer__media_bad(m, at, "the format is damaged");
        if (memcmp(p + 26, guid, 14) != 0) return infer__media_lacks(m, "a format with a GUID of its own is");
        tag = infer__load_u16(p + 24);
    }
    for (i = 0; i < INFER__COUNT(infer__wav_tags) && infer__wav_tags[i].tag != tag; i++) continue;
    if (i == INFER__COUNT(infer__wav_tags)) infer__format(what, sizeof what, "format 0x%x is", (unsigned)tag);
    else infer__format(what, sizeof what, "%s is", infer__wav_tags[i].name);
    if (i == INFER__COUNT(infer__wav_tags) || infer__wav_tags[i].kind == INFER__WAV_OTHER)
        return infer__media_lacks(m, what);
    f->kind = infer__wav_tags[i].kind;
    infer__format(what, sizeof what, "%d channels are", f->channels);
    if (f->channels > INFER__WAV_CHANNELS) return infer__media_lacks(m, what);
    if (f->channels == 0 || align % (uint32_t)f->channels || (bits + 7) / 8 != align / (uint32_t)f->channels)
        return infer__media_bad(m, at, "bits per sample, channels and bytes per frame contradict each other");
    f->bytes = (int)(align / (uint32_t)f->channels);
    infer__format(what, sizeof what, "%s of %lu bits is", infer__wav_tags[i].name, (unsigned long)bits);
    if (f->kind == INFER__WAV_PCM     ? bits < 1 || bits > 32
        : f->kind == INFER__WAV_FLOAT ? bits != 32 && bits != 64
                                      : bits != 8)
        return infer__media_lacks(m, what);
    infer__format(what, sizeof what, "%lu samples per second are", (unsigned long)f->rate);
    if (f->rate < 1000 || f->rate > 1000000) return infer__media_lacks(m, what);
    return INFER_OK;
}

/* G.711: a sign, three bits that say how far a mantissa of four bits is shifted; the result has 16 bits. */
static float infer__wav_law(uint8_t v, int mu) {
    int code = v ^ (mu ? 0xff : 0xd5), shift = code >> 4 & 7, x = (code & 15) << 4;
    if (mu) x = ((x >> 1) + 0x84) << shift, x -= 0x84; /* 16 = the mantissa's leading 1, and 0.5; times 8 */
    else x = shift ? (x + 0x108) << (shift - 1) : x + 8;
    return (float)((code & 0x80) != 0 ? -x : x) / 32768;
}

/* n samples as floats. */
static void infer__wav_floats(const infer__wav_format *f, const uint8_t *p, size_t n, float *out) {
    size_t i;
    int k;
    for (i = 0; i < n; i++, p += f->bytes) {
        uint32_t v = 0;
        if (f->kind == INFER__WAV_FLOAT && f->bytes == 4) {
            out[i] = infer__load_f32(p);
        } else if (f->kind == INFER__WAV_FLOAT) {
            uint64_t u = infer__load_u64(p);
            double d;
            memcpy(&d, &u, 8);
            out[i] = (u >> 52 & 0x7ff) >= 1023 + 127 ? infer__bits_f32(0x7f800000u) : (float)d; /* refused */
        } else if (f->kind == INFER__WAV_PCM) { /* in the upper bits of 32 */
            for (k = 0; k < f->bytes; k++) v = v >> 8 | (uint32_t)p[k] << 24;
            if (f->bytes == 1) v ^= 0x80000000u; /* bytes are unsigned */
            out[i] = (float)((double)(int32_t)v / 2147483648.0);
        } else {
            out[i] = infer__wav_law(p[0], f->kind == INFER__WAV_MU_LAW);
        }
    }
}

static infer_result infer__sound_mix(infer__media *m, const float *in, size_t frames, int channels, float *out) {
    size_t i;
    int k;
    for (i = 0; i < frames; i++, in += channels) {
        double sum = 0;
        for (k = 0; k < channels; k++) {
            if ((infer__f32_bits(in[k]) & 0x7fffffffu) >= 0x49742400u) /* 10^6: sums of the resampler stay finite */
                return infer__error(m->err, INFER_ERR_FORMAT, "sample %llu is not a number, or not below 1000000",
                                    (unsigned long long)i);
            sum += in[k];
        }
        out[i] = (float)(sum / channels);
    }
    return INFER_OK;
}

static infer_result infer__wav_samples(infer__media *m, infer__source *s, const infer__wav_format *f, uint64_t at,
                                       uint64_t bytes, infer_sound *out) {
    size_t frame = (size_t)(f->bytes * f->channels), piece = INFER__WAV_PIECE / frame, done = 0;
    uint64_t frames = bytes / frame;
    uint8_t raw[INFER__WAV_PIECE];
    float *floats;
    infer_result r = INFER_OK;
    if (frames == 0) return infer__media_bad(m, at, "there are no samples");
    if ((double)frames > m->params.max_seconds * f->rate || frames > SIZE_MAX / 8)
        return infer__error(m->err, INFER_ERR_LIMIT, "%s: %.1f seconds are more than the limit of %g", m->format,
                            (double)frames / f->rate, m->params.max_seconds);
    out->n = (size_t)frames;
    out->rate = (int32_t)f->rate;
    out->samples = (float *)infer__alloc(&m->mem, frames * sizeof(float));
    if (!out->samples) return infer__media_memory(m, frames * sizeof(float));
    floats = (float *)infer__alloc(&m->mem, sizeof(float) * INFER__WAV_PIECE);
    if (!floats) return infer__media_memory(m, sizeof(float) * INFER__WAV_PIECE);
    while (r == INFER_OK && done < frames) {
        size_t n = (size_t)INFER__MIN(piece, frames - done);
        r = infer__source_read(s, at + done * frame, raw, n * frame, m->err);
        if (r == INFER_OK) {
            infer__wav_floats(f, raw, n * (size_t)f->channels, floats);
            r = infer__sound_mix(m, floats, n, f->channels, out->samples + done);
        }
        if (r == INFER_OK) r = infer__media_work(m, INFER__WAV_PIECE / 8);
        done += n;
    }
    infer__free(&m->mem, floats);
    return r;
}

static infer_result infer__wav_decode(infer__media *m, infer__source *s, infer_sound *out) {
    uint8_t head[40];
    infer__wav_format f = { INFER__WAV_OTHER, 0, 0, 0 };
    uint64_t at = 12, size, left, long_size = 0; /* of data: of RF64, which says it in a chunk of its own */
    uint32_t riff;
    int known = 0, format;
    infer_result r = infer__source_read(s, 0, head, 12, m->err);
    if (r != INFER_OK) return r;
    riff = infer__load_u32(head + 4);
    for (;; at += size + (size & 1)) {
        if (at > s->io.size || s->io.size - at < 8) return infer__media_bad(m, s->io.size, "there are no samples");
        if ((r = infer__source_read(s, at, head, 8, m->err)) != INFER_OK) return r;
        if ((r = infer__media_work(m, 64)) != INFER_OK) return r;
        size = infer__load_u32(head + 4);
        at += 8;
        left = s->io.size - at;
        if (memcmp(head, "data", 4) == 0) {
            if (!known) return infer__media_bad(m, at, "samples before their format");
            if (size == 0xffffffffu && long_size) size = long_size;
            else if (size == 0xffffffffu || (size == 0x7ffff000u && size > left) ||
                     (size == 0 && (riff == 0 || riff == 0xffffffffu)))
                size = left - left % (uint64_t)(f.bytes * f.channels); /* FFmpeg; SoX; others */
            if (size > left) return infer__media_bad(m, s->io.size, "the file ends early");
            if (size % (uint64_t)(f.bytes * f.channels)) return infer__media_bad(m, at, "the last frame is incomplete");
            return infer__wav_samples(m, s, &f, at, size, out);
        }
        if (size > left) return infer__media_bad(m, s->io.size, "the file ends early");
        format = memcmp(head, "fmt ", 4) == 0;
        if (!format && memcmp(head, "ds64", 4) != 0) continue;
        if ((r = infer__source_read(s, at, head, INFER__MIN(size, sizeof head), m->err)) != INFER_OK) return r;
        if (!format) long_size = size >= 16 ? infer__load_u64(head + 8) : 0; /* behind the file's own */
        else if (known++) return infer__media_bad(m, at, "a second format");
        else if ((r = infer__wav_format_read(m, at, head, (size_t)size, &f)) != INFER_OK) return r;
    }
}
