/* jpeg.c: JPEG pictures: baseline, extended and progressive ones of 8 bits with Huffman codes (ITU-T T.81).
 *
 * Owns:  segments, the order of scans, memory; jpeg.h says what the other parts own.
 * Rules: a picture is complete or an error. Of sequential pictures all components have to be there; progressive ones
 *        end with their EOI, since anything before it may be missing a scan.
 */
#include "jpeg.h"

enum { INFER__JPEG_SCANS = 500 }; /* more are an attack: each passes over the whole picture */

static infer_result infer__jpeg_bad(infer__jpeg *z, const char *why) { return infer__media_bad(z->m, z->at, why); }

static infer_result infer__jpeg_frame(infer__jpeg *z, const uint8_t *p, size_t n) {
    infer_result r;
    uint64_t blocks = 0;
    char what[64];
    int i, k;
    if (n < 6) return infer__jpeg_bad(z, "the frame's header is damaged");
    if (z->n_components) return infer__jpeg_bad(z, "a second frame");
    infer__format(what, sizeof what, "%d bits are", p[0]);
    if (p[0] != 8) return infer__media_lacks(z->m, what);
    z->height = (uint32_t)p[1] << 8 | p[2];
    z->width = (uint32_t)p[3] << 8 | p[4];
    if (z->height == 0 && z->width) return infer__media_lacks(z->m, "a height that follows the first scan (DNL) is");
    if ((r = infer__media_size(z->m, z->width, z->height)) != INFER_OK) return r;
    infer__format(what, sizeof what, "%d components are", p[5]);
    if (p[5] != 1 && p[5] != 3 && p[5] != 4) return infer__media_lacks(z->m, what);
    if (n != 6 + 3 * (size_t)p[5]) return infer__jpeg_bad(z, "the frame's header is damaged");
    z->n_components = p[5];
    for (i = 0; i < z->n_components; i++) {
        infer__jpeg_component *c = &z->c[i];
        const uint8_t *q = p + 6 + 3 * i;
        c->id = q[0];
        c->h = q[1] >> 4;
        c->v = q[1] & 15;
        c->table = q[2];
        if (c->h < 1 || c->h > 4 || c->v < 1 || c->v > 4 || c->table > 3)
            return infer__jpeg_bad(z, "a component's sampling or table does not exist");
        for (k = 0; k < i; k++)
            if (z->c[k].id == c->id) return infer__jpeg_bad(z, "two components have the same number");
        if (z->n_components == 1) c->h = c->v = 1; /* nothing is relative to it */
        z->h_max = INFER__MAX(z->h_max, c->h);
        z->v_max = INFER__MAX(z->v_max, c->v);
    }
    z->mcus_across = (z->width + 8 * (uint32_t)z->h_max - 1) / (8 * (uint32_t)z->h_max);
    z->mcus_down = (z->height + 8 * (uint32_t)z->v_max - 1) / (8 * (uint32_t)z->v_max);
    for (i = 0; i < z->n_components; i++) {
        infer__jpeg_component *c = &z->c[i];
        infer__format(what, sizeof what, "sampling factors %dx%d of %dx%d are", c->h, c->v, z->h_max, z->v_max);
        if (z->h_max % c->h || z->v_max % c->v) return infer__media_lacks(z->m, what);
        c->width = (z->width * (uint32_t)c->h + (uint32_t)z->h_max - 1) / (uint32_t)z->h_max;
        c->height = (z->height * (uint32_t)c->v + (uint32_t)z->v_max - 1) / (uint32_t)z->v_max;
        c->own_across = (c->width + 7) / 8;
        c->own_down = (c->height + 7) / 8;
        c->across = z->mcus_across * (uint32_t)c->h;
        c->down = z->mcus_down * (uint32_t)c->v;
        blocks += (uint64_t)c->own_across * c->own_down;
    }
    if (blocks / 8 > z->n) return infer__jpeg_bad(z, "the file ends early"); /* a block takes a bit or more */
    for (i = 0; i < z->n_components; i++) {
        infer__jpeg_component *c = &z->c[i];
        blocks = (uint64_t)c->across * c->down;
        c->plane = (uint8_t *)infer__alloc(&z->m->mem, blocks * 64);
        if (!c->plane) return infer__media_memory(z->m, blocks * 64);
        if (z->progressive) c->blocks = (int16_t *)infer__calloc(&z->m->mem, blocks, 128);
        if (z->progressive && !c->blocks) return infer__media_memory(z->m, blocks * 128);
    }
    return INFER_OK;
}

static infer_result infer__jpeg_quant(infer__jpeg *z, const uint8_t *p, size_t n) {
    while (n > 0) {
        int wide = p[0] >> 4, table = p[0] & 15, i;
        if (wide > 1 || table > 3 || n < 1 + 64 * (size_t)(wide + 1))
            return infer__jpeg_bad(z, "a quantisation table is damaged");
        for (i = 0; i < 64; i++)
            z->quant[table][infer__jpeg_natural[i]] = (uint16_t)(wide ? p[1 + 2 * i] << 8 | p[2 + 2 * i] : p[1 + i]);
        z->quant_set[table] = 1;
        p += 1 + 64 * (wide + 1);
        n -= 1 + 64 * (size_t)(wide + 1);
    }
    return INFER_OK;
}

static infer_result infer__jpeg_codes(infer__jpeg *z, const uint8_t *p, size_t n) {
    while (n > 0) {
        size_t i, total = 0;
        for (i = 1; n >= 17 && i <= 16; i++) total += p[i];
        if (n < 17 || p[0] >> 4 > 1 || (p[0] & 15) > 3 || total > 256 || n - 17 < total ||
            !infer__jpeg_build(&z->codes[p[0] >> 4][p[0] & 15], p + 1, p + 17))
            return infer__jpeg_bad(z, "a table of codes is damaged");
        p += 17 + total;
        n -= 17 + total;
    }
    return INFER_OK;
}

/* The header of a scan, and its data. */
static infer_result infer__jpeg_scan_begin(infer__jpeg *z, const uint8_t *p, size_t n) {
    static const char bad[] = "the header of a scan is damaged";
    int i, k, blocks = 0;
    if (!z->n_components) return infer__jpeg_bad(z, "a scan before the frame's header");
    if (n < 1 || p[0] < 1 || p[0] > 4 || n != 4 + 2 * (size_t)p[0]) return infer__jpeg_bad(z, bad);
    if (++z->n_scans > INFER__JPEG_SCANS)
        return infer__error(z->m->err, INFER_ERR_LIMIT, "JPEG: more than %d scans", INFER__JPEG_SCANS);
    z->n_scan = p[0];
    z->first = p[n - 3];
    z->last = p[n - 2];
    z->high = p[n - 1] >> 4;
    z->low = p[n - 1] & 15;
    if (z->progressive) {
        if (z->last > 63 || z->first > z->last || z->low > 13 || (z->first == 0) != (z->last == 0) ||
            (z->first && z->n_scan > 1) || (z->high && z->high != z->low + 1))
            return infer__jpeg_bad(z, bad);
    } else {
        z->first = z->high = z->low = 0; /* some writers leave something there */
    }
    for (i = 0; i < z->n_scan; i++) {
        infer__jpeg_component *c = z->c;
        for (k = 0; k < z->n_components && c->id != p[1 + 2 * i]; k++) c++;
        if (k == z->n_components) return infer__jpeg_bad(z, bad);
        for (k = 0; k < i; k++)
            if (z->scan[k] == c) return infer__jpeg_bad(z, bad);
        z->scan[i] = c;
        blocks += c->h * c->v;
        c->dc = p[2 + 2 * i] >> 4;
        c->ac = p[2 + 2 * i] & 15;
        if (c->dc > 3 || c->ac > 3) return infer__jpeg_bad(z, bad);
        if (z->first == 0 && !z->high && !z->codes[0][c->dc].set)
            return infer__jpeg_bad(z, "a scan's codes are missing");
        if ((z->first || !z->progressive) && !z->codes[1][c->ac].set)
            return infer__jpeg_bad(z, "a scan's codes are missing");
        if (!z->progressive && c->begun) return infer__jpeg_bad(z, "a component occurs twice");
        if (!c->begun && !z->quant_set[c->table]) return infer__jpeg_bad(z, "a quantisation table is missing");
        if (!c->begun) memcpy(c->quant, z->quant[c->table], sizeof c->quant);
        c->begun = 1;
    }
    if (z->n_scan > 1 && blocks > 10) return infer__jpeg_bad(z, bad);
    z->at += n + 2;
    return infer__jpeg_scan(z);
}

static infer_result infer__jpeg_finish(infer__jpeg *z, infer_image *out) {
    infer_result r = infer__media_pixels(z->m, out, z->width, z->height);
    uint32_t x, y;
    int i;
    for (i = 0; z->progressive && i < z->n_components; i++) {
        infer__jpeg_component *c = &z->c[i];
        const int16_t *block = c->blocks;
        for (y = 0; y < c->down && r == INFER_OK; y++) {
            for (x = 0; x < c->across; x++, block += 64)
                infer__jpeg_idct(block, c->quant, 63, c->plane + ((size_t)y * c->across * 8 + x) * 8,
                                 (size_t)c->across * 8);
            r = infer__media_work(z->m, 4 * (uint64_t)c->across);
        }
        infer__free(&z->m->mem, c->blocks);
        c->blocks = NULL;
    }
    return r == INFER_OK ? infer__jpeg_colours(z, out) : r;
}

/* 1: all components have data, so that a sequential picture is complete. */
static int infer__jpeg_complete(const infer__jpeg *z) {
    int i, n = 0;
    for (i = 0; i < z->n_components; i++) n += z->c[i].begun;
    return n > 0 && n == z->n_components;
}

/* Segment after segment, until the picture is complete. */
static infer_result infer__jpeg_segments(infer__jpeg *z) {
    static const char *const frames[16] = {NULL,
                                           NULL,
                                           NULL,
                                           "lossless coding is",
                                           NULL,
                                           "hierarchical coding is",
                                           "hierarchical coding is",
                                           "hierarchical coding is",
                                           NULL,
                                           "arithmetic coding is",
                                           "arithmetic coding is",
                                           "arithmetic coding is",
                                           NULL,
                                           "arithmetic coding is",
                                           "arithmetic coding is",
                                           "arithmetic coding is"};
    infer_result r = INFER_OK;
    while (r == INFER_OK && (z->progressive || !infer__jpeg_complete(z))) {
        const uint8_t *p;
        int marker;
        size_t n;
        while (z->at < z->n && z->p[z->at] != 0xff)
            z->at++; /* as other decoders do, what is between segments is skipped */
        while (z->at < z->n && z->p[z->at] == 0xff) z->at++;
        if (z->at == z->n) return infer__jpeg_bad(z, "the file ends early");
        marker = z->p[z->at++];
        if (marker == 0 || marker == 1 || (marker >= 0xd0 && marker <= 0xd8)) continue; /* without content */
        if (marker == 0xd9) {
            if (!infer__jpeg_complete(z)) return infer__jpeg_bad(z, "a component has no data");
            return INFER_OK;
        }
        if (z->n - z->at < 2) return infer__jpeg_bad(z, "the file ends early");
        n = (size_t)z->p[z->at] << 8 | z->p[z->at + 1];
        if (n < 2) return infer__jpeg_bad(z, "the length of a segment is damaged");
        if (n > z->n - z->at) return infer__jpeg_bad(z, "the file ends early");
        p = z->p + z->at + 2;
        n -= 2;
        if (marker == 0xda) {
            r = infer__jpeg_scan_begin(z, p, n);
            continue;
        }
        if (marker >= 0xc0 && marker <= 0xcf && frames[marker & 15])
            return infer__media_lacks(z->m, frames[marker & 15]);
        if (marker == 0xc4) r = infer__jpeg_codes(z, p, n);
        else if (marker == 0xdb) r = infer__jpeg_quant(z, p, n);
        else if (marker == 0xdd && n == 2) z->restart = (uint32_t)p[0] << 8 | p[1];
        else if (marker == 0xdd) r = infer__jpeg_bad(z, "the length of a segment is damaged");
        else if (marker == 0xe0 && n >= 5 && memcmp(p, "JFIF\0", 5) == 0) z->jfif = 1;
        else if (marker == 0xee && n >= 12 && memcmp(p, "Adobe", 5) == 0) z->adobe = p[11];
        else if (marker == 0xe1 && n >= 6 && memcmp(p, "Exif\0\0", 6) == 0)
            z->m->orientation = infer__exif_orientation(p + 6, n - 6);
        else if (marker >= 0xc0 && marker <= 0xc2) {
            z->progressive = marker == 0xc2;
            r = infer__jpeg_frame(z, p, n);
        }
        z->at += n + 2;
    }
    return r;
}

static infer_result infer__jpeg_decode(infer__media *m, const uint8_t *p, size_t n, infer_image *out) {
    infer__jpeg *z = (infer__jpeg *)infer__calloc(&m->mem, 1, sizeof *z);
    infer_result r;
    int i;
    if (!z) return infer__media_memory(m, sizeof *z);
    z->m = m;
    z->p = p;
    z->n = n;
    z->at = 2;
    z->adobe = -1;
    r = infer__jpeg_segments(z);
    if (r == INFER_OK) r = infer__jpeg_finish(z, out);
    for (i = 0; i < 4; i++) {
        infer__free(&m->mem, z->c[i].blocks);
        infer__free(&m->mem, z->c[i].plane);
    }
    infer__free(&m->mem, z);
    return r;
}
