/* png.c: PNG pictures (ISO 15948, the third edition of W3C's "Portable Network Graphics").
 *
 * Owns:  chunks, filters, interlacing, from every colour type and depth to RGB.
 * Rules: the checksum of every chunk is checked, also of those that are skipped. 16 bits become their high byte; alpha
 *        and tRNS are dropped, so that a transparent pixel has the colour that the file gives it.
 */
#include "media.h"

typedef struct infer__png {
    infer__media *m;
    const uint8_t *p; /* the file */
    size_t n, at;     /* at: of the next chunk */
    size_t begin;     /* of this one, for messages */
    const uint8_t *data;
    uint32_t length;
    char type[5];
    infer_result r; /* of the last chunk */
    uint32_t width, height;
    int depth, colour, interlaced, channels;
    int n_palette;
    uint8_t palette[3 * 256];
    uint32_t crc[256]; /* of the byte i (annex D) */
} infer__png;

static uint32_t infer__png_u32(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}
static int infer__png_is(const infer__png *z, const char *type) { return memcmp(z->type, type, 4) == 0; }
static infer_result infer__png_bad(infer__png *z, const char *why) {
    return z->r = infer__media_bad(z->m, z->begin, why);
}

/* The next chunk, its checksum checked. */
static infer_result infer__png_chunk(infer__png *z) {
    const uint8_t *p = z->p + z->at;
    size_t left = z->n - z->at, i;
    uint32_t sum = 0xffffffffu;
    z->begin = z->at;
    if (left < 12) return infer__png_bad(z, "the file ends early");
    z->length = infer__png_u32(p);
    if (z->length > 0x7fffffffu) return infer__png_bad(z, "the length of a chunk is damaged");
    if (z->length > left - 12) return infer__png_bad(z, "the file ends early");
    for (i = 0; i < 4; i++) {
        z->type[i] = (char)p[4 + i];
        if ((uint8_t)((p[4 + i] | 32) - 'a') > 25) return infer__png_bad(z, "the type of a chunk is damaged");
    }
    for (i = 4; i < (size_t)z->length + 8; i++) sum = z->crc[(sum ^ p[i]) & 255] ^ sum >> 8;
    if (~sum != infer__png_u32(p + 8 + z->length)) return infer__png_bad(z, "the checksum of a chunk is wrong");
    z->data = p + 8;
    z->at += (size_t)z->length + 12;
    return z->r = infer__media_work(z->m, 1 + z->length / 16);
}

static infer_result infer__png_header(infer__png *z) {
    static const uint8_t depths[7] = { 31, 0, 24, 15, 24, 0, 24 }; /* by colour type: bit i = 1 << i bits are allowed */
    static const uint8_t channels[7] = { 1, 0, 3, 1, 2, 0, 4 };
    const uint8_t *d = z->data;
    int i;
    if (!infer__png_is(z, "IHDR") || z->length != 13) return infer__png_bad(z, "there is no header");
    z->width = infer__png_u32(d);
    z->height = infer__png_u32(d + 4);
    z->depth = d[8];
    z->colour = d[9];
    z->interlaced = d[12];
    for (i = 0; i < 5 && 1 << i != z->depth; i++) continue;
    if (z->colour > 6 || i == 5 || !(depths[z->colour] >> i & 1))
        return infer__png_bad(z, "the colour type or depth does not exist");
    if (d[10] != 0 || d[11] != 0 || d[12] > 1)
        return infer__png_bad(z, "the compression, filter or interlacing does not exist");
    z->channels = channels[z->colour];
    return infer__media_size(z->m, z->width, z->height);
}

/* Chunks before and after the pixels. */
static infer_result infer__png_other(infer__png *z, int pixels_seen) {
    char what[64];
    if (infer__png_is(z, "PLTE")) {
        if (pixels_seen || z->n_palette || z->length == 0 || z->length % 3 || z->length > 768)
            return infer__png_bad(z, "the palette is damaged");
        z->n_palette = (int)z->length / 3;
        memcpy(z->palette, z->data, z->length);
    } else if (infer__png_is(z, "eXIf")) {
        z->m->orientation = infer__exif_orientation(z->data, z->length);
    } else if (infer__png_is(z, "IDAT") || infer__png_is(z, "IHDR")) {
        return infer__png_bad(z, "a chunk in the wrong place");
    } else if (!(z->type[0] & 32)) { /* a capital letter: the picture cannot be shown without it */
        infer__format(what, sizeof what, "chunk %s is", z->type);
        return z->r = infer__media_lacks(z->m, what);
    }
    return INFER_OK;
}

/* The next IDAT, for inflate. Any other chunk ends the pixels and is looked at later. */
static int infer__png_next(infer__inflate *inflate) {
    infer__png *z = (infer__png *)inflate->user;
    size_t at = z->at;
    if (infer__png_chunk(z) != INFER_OK) return 0;
    if (!infer__png_is(z, "IDAT")) {
        z->at = at;
        return 0;
    }
    inflate->p = z->data;
    inflate->end = z->data + z->length;
    return 1;
}

/* Undo a row's filter (9.2); above: the row before it as it was, or zeros. 0: there is no such filter. */
static int infer__png_unfilter(int filter, uint8_t *row, const uint8_t *above, size_t n, size_t step) {
    size_t i;
    switch (filter) {
    case 0: return 1;
    case 1:
        for (i = step; i < n; i++) row[i] = (uint8_t)(row[i] + row[i - step]);
        return 1;
    case 2:
        for (i = 0; i < n; i++) row[i] = (uint8_t)(row[i] + above[i]);
        return 1;
    case 3:
        for (i = 0; i < n && i < step; i++) row[i] = (uint8_t)(row[i] + above[i] / 2);
        for (; i < n; i++) row[i] = (uint8_t)(row[i] + (row[i - step] + above[i]) / 2);
        return 1;
    case 4: /* whichever of left, above, above left is nearest to left + above - above left; in this order */
        for (i = 0; i < n && i < step; i++) row[i] = (uint8_t)(row[i] + above[i]);
        for (; i < n; i++) {
            int a = row[i - step], b = above[i], c = above[i - step], pa = b - c, pb = a - c, pc = pa + pb;
            pa = pa < 0 ? -pa : pa;
            pb = pb < 0 ? -pb : pb;
            pc = pc < 0 ? -pc : pc;
            row[i] = (uint8_t)(row[i] + (pa <= pb && pa <= pc ? a : pb <= pc ? b : c));
        }
        return 1;
    default: return 0;
    }
}

/* n pixels of a row as RGB, `step` bytes apart. 0: an index that the palette does not have. */
static int infer__png_row(const infer__png *z, const uint8_t *row, uint32_t n, uint8_t *to, size_t step) {
    size_t bytes = (size_t)(z->depth / 8), stride = bytes * (size_t)z->channels;
    int mask = (1 << INFER__MIN(z->depth, 8)) - 1, scale = z->colour == 3 ? 1 : 255 / mask;
    uint32_t i;
    for (i = 0; i < n; i++, to += step) {
        int v;
        if (z->depth >= 8) v = row[i * stride];
        else
            v = (row[i / (8 / (unsigned)z->depth)] >> (8 - z->depth - (int)(i * (unsigned)z->depth & 7)) & mask) *
                scale;
        if (z->colour == 3) {
            if (v >= z->n_palette) return 0;
            memcpy(to, z->palette + 3 * v, 3);
        } else if (z->channels >= 3) {
            to[0] = (uint8_t)v;
            to[1] = row[i * stride + bytes];
            to[2] = row[i * stride + 2 * bytes];
        } else {
            to[0] = to[1] = to[2] = (uint8_t)v;
        }
    }
    return 1;
}

/* Pass i of the interlaced ones has pixels (x0 + i dx, y0 + j dy); the last row: all pixels (8.2). */
static const uint8_t infer__png_passes[8][4] = { { 0, 0, 8, 8 }, { 4, 0, 8, 8 }, { 0, 4, 4, 8 }, { 2, 0, 4, 4 },
                                                 { 0, 2, 2, 4 }, { 1, 0, 2, 2 }, { 0, 1, 1, 2 }, { 0, 0, 1, 1 } };

/* The rows of all passes -> pixels; zeros: what is above the first. raw NULL: only count the bytes. */
static infer_result infer__png_rows(infer__png *z, uint8_t *raw, const uint8_t *zeros, infer_image *out,
                                    uint64_t *bytes) {
    int pass, bits = z->depth * z->channels;
    for (*bytes = 0, pass = z->interlaced ? 0 : 7; pass < 8 - z->interlaced; pass++) {
        const uint8_t *p = infer__png_passes[pass], *above = zeros;
        uint64_t w = ((uint64_t)z->width - p[0] + p[2] - 1) / p[2];
        uint64_t h = ((uint64_t)z->height - p[1] + p[3] - 1) / p[3];
        uint64_t row = (w * (uint64_t)bits + 7) / 8, y;
        if (z->width <= p[0] || z->height <= p[1]) continue;
        *bytes += h * (row + 1);
        for (y = 0; raw && y < h; y++, above = raw + 1, raw += row + 1) {
            uint8_t *to = out->rgb + 3 * ((p[1] + y * p[3]) * z->width + p[0]);
            if (!infer__png_unfilter(raw[0], raw + 1, above, (size_t)row, (size_t)INFER__MAX(bits / 8, 1)))
                return infer__png_bad(z, "a row's filter does not exist");
            if (!infer__png_row(z, raw + 1, (uint32_t)w, to, (size_t)3 * p[2]))
                return infer__png_bad(z, "a pixel has a colour that is not in the palette");
            if ((z->r = infer__media_work(z->m, 1 + row / 16)) != INFER_OK) return z->r;
        }
    }
    return INFER_OK;
}

/* The pixels: from the first IDAT, which is the chunk that was read, to the last. */
static infer_result infer__png_pixels(infer__png *z, infer_image *out) {
    infer__inflate inflate;
    uint8_t *raw;
    uint64_t bytes, zeros = ((uint64_t)z->width * (uint64_t)(z->depth * z->channels) + 7) / 8;
    size_t begin = z->begin;
    const char *why;
    infer_result r;
    if (z->colour == 3 && z->n_palette == 0) return infer__png_bad(z, "there is no palette");
    infer__png_rows(z, NULL, NULL, NULL, &bytes);
    if (bytes / 1032 > z->n) return infer__png_bad(z, "the file ends early"); /* deflate packs no tighter */
    if ((r = infer__media_pixels(z->m, out, z->width, z->height)) != INFER_OK) return r;
    raw = (uint8_t *)infer__alloc(&z->m->mem, bytes + zeros);
    if (!raw) return infer__media_memory(z->m, bytes + zeros);
    memset(raw + bytes, 0, (size_t)zeros);
    memset(&inflate, 0, sizeof inflate);
    inflate.p = z->data;
    inflate.end = z->data + z->length;
    inflate.next = infer__png_next;
    inflate.user = z;
    inflate.watch = &z->m->watch;
    inflate.out = raw;
    inflate.size = (size_t)bytes;
    why = infer__inflate_run(&inflate);
    if (z->r == INFER_OK && z->m->watch.r) z->r = infer__media_work(z->m, 0);
    z->begin = begin;
    if (z->r == INFER_OK && why) infer__png_bad(z, why);
    if (z->r == INFER_OK) infer__png_rows(z, raw, raw + bytes, out, &bytes);
    infer__free(&z->m->mem, raw);
    return z->r;
}

static infer_result infer__png_decode(infer__media *m, const uint8_t *p, size_t n, infer_image *out) {
    infer__png z;
    uint32_t i, k;
    infer_result r;
    memset(&z, 0, sizeof z);
    z.m = m;
    z.p = p;
    z.n = n;
    z.at = 8;
    for (i = 0; i < 256; i++)
        for (z.crc[i] = i, k = 0; k < 8; k++) z.crc[i] = z.crc[i] >> 1 ^ (z.crc[i] & 1 ? 0xedb88320u : 0);
    if ((r = infer__png_chunk(&z)) != INFER_OK || (r = infer__png_header(&z)) != INFER_OK) return r;
    for (;;) {
        if ((r = infer__png_chunk(&z)) != INFER_OK) return r;
        if (infer__png_is(&z, "IEND")) return out->rgb ? INFER_OK : infer__png_bad(&z, "there are no pixels");
        if (infer__png_is(&z, "IDAT") && !out->rgb) {
            if ((r = infer__png_pixels(&z, out)) != INFER_OK) return r;
            while (z.n - z.at >= 8 && memcmp(p + z.at + 4, "IDAT", 4) == 0) /* behind the end of the data: ignored */
                if ((r = infer__png_chunk(&z)) != INFER_OK) return r;
        } else if ((r = infer__png_other(&z, out->rgb != NULL)) != INFER_OK) {
            return r;
        }
    }
}
