/* prepare.c: a picture as entries of pixels, and the list of texts and media that stands in its place in a prompt.
 *
 * Owns:  the order of tiles, overviews and their markers, token counts, and what fills entries: resizing, padding,
 *        cutting, normalising.
 * Rules: sizes come first: a list is planned, and refused, before its pixels are touched.
 */
#include "prepare.h"
#include <math.h>

#define INFER__PICTURE_SIDE ((int64_t)1 << 24)   /* of a picture given */
#define INFER__PICTURE_PIXELS ((int64_t)1 << 28)
#define INFER__CANVAS_SIDE 65536                 /* of one that the encoder sees */
#define INFER__CANVAS_PIXELS ((int64_t)1 << 26)
#define INFER__CANVAS_TILES 4096

static void infer__media_list_free(infer__media_list *list) {
    if (!list || !list->arena.mem) return;
    infer__free(list->arena.mem, list->values);
    infer__arena_free(&list->arena);
    memset(list, 0, sizeof *list);
}

/* Room for so many pieces and entries; both counts of the list stay 0. */
static infer_result infer__media_list_room(infer__media_list *list, infer__mem *mem, int64_t pieces, int64_t entries,
                                           infer_error *err) {
    list->arena.mem = mem;
    list->pieces = (infer__media_piece *)infer__arena_alloc(&list->arena, (uint64_t)pieces * sizeof *list->pieces);
    list->entries = (infer__media_entry *)infer__arena_alloc(&list->arena, (uint64_t)entries * sizeof *list->entries);
    if (list->pieces && list->entries) return INFER_OK;
    infer__media_list_free(list);
    return infer__error(err, INFER_ERR_MEMORY, "out of memory for a picture or sound of %lld parts",
                        (long long)entries);
}

static void infer__media_text(infer__media_list *list, const char *text) {
    if (!text) return;
    list->pieces[list->n_pieces].kind = INFER__MEDIA_TEXT;
    list->pieces[list->n_pieces++].text = text;
}

/* A medium of the entry that comes next. */
static infer__media_piece *infer__media_medium(infer__media_list *list, int kind, int32_t n_tokens) {
    infer__media_piece *p = &list->pieces[list->n_pieces++];
    p->kind = kind;
    p->entry = list->n_entries;
    p->n_entries = 1;
    p->n_tokens = p->n_pos = p->nx = n_tokens;
    p->ny = 1;
    list->n_tokens += n_tokens;
    list->n_entries++;
    return p;
}

/* Memory for the values of all entries, `channels` per width and height. */
static infer_result infer__media_list_values(infer__media_list *list, int channels, infer_error *err) {
    uint64_t n = 0;
    int32_t i;
    for (i = 0; i < list->n_entries; i++)
        n += (uint64_t)list->entries[i].width * (uint64_t)list->entries[i].height * (uint64_t)channels;
    infer__free(list->arena.mem, list->values);
    list->values = (float *)infer__alloc(list->arena.mem, n * sizeof(float)); /* below 2^36: sizes are limited */
    if (!list->values)
        return infer__error(err, INFER_ERR_MEMORY, "out of memory for %llu values of a picture or sound",
                            (unsigned long long)n);
    for (i = 0, n = 0; i < list->n_entries; i++) {
        infer__media_entry *e = &list->entries[i];
        e->values = list->values + n;
        n += (uint64_t)e->width * (uint64_t)e->height * (uint64_t)channels;
    }
    return INFER_OK;
}

static void infer__media_list_empty(infer__media_list *list) {
    int32_t i;
    infer__free(list->arena.mem, list->values);
    list->values = NULL;
    for (i = 0; i < list->n_entries; i++) list->entries[i].values = NULL;
}

/* ---- plan -------------------------------------------------------------------------------------- */

static infer_result infer__picture_check(const infer_image *images, int32_t n, int32_t frames, infer_error *err) {
    int32_t i;
    if (n < 1 || n > INFER__MAX(frames, 1))
        return infer__error(err, INFER_ERR_ARGUMENT, "%d pictures as one: expected 1%s", (int)n,
                            frames > 1 ? " or 2" : ", which is all that this projector merges");
    for (i = 0; i < n; i++) {
        const int64_t w = images[i].width, h = images[i].height;
        if (w < 1 || h < 1 || w > INFER__PICTURE_SIDE || h > INFER__PICTURE_SIDE || w * h > INFER__PICTURE_PIXELS)
            return infer__error(err, w < 1 || h < 1 ? INFER_ERR_ARGUMENT : INFER_ERR_LIMIT,
                                "a picture of %lld x %lld pixels: expected 1 or more, and at most %lld", (long long)w,
                                (long long)h, (long long)INFER__PICTURE_PIXELS);
        if (w != images[0].width || h != images[0].height)
            return infer__error(err, INFER_ERR_ARGUMENT, "frames of a video: one is %lld x %lld, another %d x %d",
                                (long long)w, (long long)h, (int)images[0].width, (int)images[0].height);
    }
    return INFER_OK;
}

static infer_result infer__cut_check(const infer__cut *cut, const infer_image *image, infer_error *err) {
    int32_t i;
    for (i = 0; i < cut->n; i++) {
        const infer__canvas *c = &cut->canvas[i];
        INFER__ASSERT(c->width > 0 && c->height > 0);
        if (c->width <= INFER__CANVAS_SIDE && c->height <= INFER__CANVAS_SIDE &&
            c->width * c->height <= INFER__CANVAS_PIXELS && cut->columns * cut->rows <= INFER__CANVAS_TILES)
            continue;
        return infer__error(err, INFER_ERR_LIMIT,
                            "a picture of %d x %d pixels would become %lld x %lld in %lld tiles: at "
                            "most %lld, %d per side, in %d tiles are supported",
                            (int)image->width, (int)image->height, (long long)c->width, (long long)c->height,
                            (long long)(cut->columns * cut->rows), (long long)INFER__CANVAS_PIXELS, INFER__CANVAS_SIDE,
                            INFER__CANVAS_TILES);
    }
    return INFER_OK;
}

static int32_t infer__picture_tokens(const infer__media_settings *s, int32_t width, int32_t height) {
    const int32_t nx = width / s->patch / s->merge, ny = height / s->patch / s->merge;
    switch (s->row->tokens) {
    case INFER__TOKENS_ENDS: return nx * ny + 2;
    case INFER__TOKENS_BREAKS: return nx * ny + (s->breaks ? ny - 1 : 0);
    case INFER__TOKENS_QUERIES: return s->queries;
    case INFER__TOKENS_SIDE: return s->image_size / s->patch;
    default: return nx * ny;
    }
}

static infer__media_piece *infer__picture_piece(infer__media_list *list, const infer__media_settings *s,
                                                int32_t canvas, int64_t x, int64_t y, int64_t width, int64_t height) {
    infer__media_entry *e = &list->entries[list->n_entries];
    infer__media_piece *p;
    e->width = (int32_t)width;
    e->height = (int32_t)height;
    e->canvas = canvas;
    e->x = (int32_t)x;
    e->y = (int32_t)y;
    p = infer__media_medium(list, INFER__MEDIA_IMAGE, infer__picture_tokens(s, e->width, e->height));
    p->non_causal = s->non_causal;
    return p;
}

static void infer__picture_overview(infer__media_list *list, const infer__media_settings *s,
                                    const infer__tile_marks *m) {
    const infer__canvas *c = &list->cut.canvas[INFER__MAX(list->cut.overview, 0)];
    if (list->cut.overview < 0) return;
    infer__media_text(list, m->overview_before);
    infer__picture_piece(list, s, list->cut.overview, 0, 0, c->width, c->height);
    infer__media_text(list, m->overview_after);
}

/* Text before a tile: 0 = no memory. */
static int infer__picture_mark(infer__media_list *list, const infer__tile_marks *m, int64_t row, int64_t column) {
    char text[120];
    const char *copy = m->before[0];
    if (m->before[1]) {
        size_t n = infer__format(text, sizeof text, "%s%d%s%d%s", m->before[0], (int)row + 1, m->before[1],
                                 (int)column + 1, m->before[2]);
        copy = infer__arena_text(&list->arena, text, n);
        if (!copy) return 0;
    }
    infer__media_text(list, copy);
    return 1;
}

static int infer__picture_tiles(infer__media_list *list, const infer__media_settings *s, const infer__tile_marks *m) {
    const infer__cut *cut = &list->cut;
    const infer__canvas *c = &cut->canvas[cut->tiles];
    int64_t x, y, width, height;
    if (cut->columns * cut->rows == 0) return 1;
    width = c->width / cut->columns;
    height = c->height / cut->rows;
    infer__media_text(list, m->all_before);
    for (y = 0; y < cut->rows; y++) {
        for (x = 0; x < cut->columns; x++) {
            if (!infer__picture_mark(list, m, y, x)) return 0;
            infer__picture_piece(list, s, cut->tiles, x * width, y * height, width, height);
            infer__media_text(list, m->after);
        }
        if (y + 1 < cut->rows) infer__media_text(list, m->row_end);
    }
    infer__media_text(list, m->all_after);
    return 1;
}

/* A picture that is one medium, or two frames that are. */
static void infer__picture_single(infer__media_list *list, const infer__media_settings *s, int32_t n) {
    const infer__canvas *c = &list->cut.canvas[0];
    infer__media_piece *p = infer__picture_piece(list, s, 0, 0, 0, c->width, c->height);
    if (n == 2) {
        list->entries[1] = list->entries[0];
        list->entries[1].picture = 1;
        p->n_entries = list->n_entries = 2;
    }
    if (s->row->grid && s->mrope) {
        p->grid = 1;
        p->nx = (int32_t)(c->width / infer__token_side(s));
        p->ny = (int32_t)(c->height / infer__token_side(s));
        p->n_pos = INFER__MAX(p->nx, p->ny);
    }
}

static infer_result infer__media_plan(infer__mem *mem, const infer__media_settings *s, const infer_image *images,
                                      int32_t n, infer__media_list *out, infer_error *err) {
    static const infer__tile_marks none = {0};
    const infer__tile_marks *m = s->row->marks ? s->row->marks : &none;
    infer_result r = infer__picture_check(images, n, s->row->frames, err);
    int ok = 1;
    memset(out, 0, sizeof *out);
    if (r != INFER_OK) return r;
    s->row->cut(s, images[0].width, images[0].height, &out->cut);
    r = infer__cut_check(&out->cut, &images[0], err);
    if (r != INFER_OK) {
        memset(out, 0, sizeof *out);
        return r;
    }
    r = infer__media_list_room(out, mem, 8 + 4 * out->cut.columns * out->cut.rows,
                               2 + out->cut.columns * out->cut.rows, err);
    if (r != INFER_OK) return r;
    out->width = images[0].width;
    out->height = images[0].height;
    infer__media_text(out, s->before);
    if (out->cut.single) {
        infer__picture_single(out, s, n);
    } else {
        if (m->overview_first) infer__picture_overview(out, s, m);
        ok = infer__picture_tiles(out, s, m);
        if (!m->overview_first) infer__picture_overview(out, s, m);
    }
    infer__media_text(out, s->after);
    if (ok) return INFER_OK;
    infer__media_list_free(out);
    return infer__error(err, INFER_ERR_MEMORY, "out of memory for the tiles of a picture");
}

/* ---- fill -------------------------------------------------------------------------------------- */

/* Canvas c of a picture (or of another canvas) `src` of w x h; NULL = failed. */
static uint8_t *infer__canvas_make(infer__mem *mem, const infer__canvas *c, uint32_t colour, const uint8_t *src,
                                   int32_t w, int32_t h, infer_error *err) {
    const int32_t width = (int32_t)c->width, height = (int32_t)c->height;
    const size_t stride = (size_t)width * 3, n = stride * (size_t)height;
    uint8_t *rgb = (uint8_t *)infer__alloc(mem, n);
    int32_t dw = width, dh = height;
    size_t i;
    if (!rgb) {
        infer__error(err, INFER_ERR_MEMORY, "out of memory for a picture of %d x %d", (int)width, (int)height);
        return NULL;
    }
    if (!c->stretch) { /* sides by the smaller ratio, in float32 and rounded up */
        const float ratio = INFER__MIN((float)width / (float)w, (float)height / (float)h);
        dw = (int32_t)INFER__MIN(ceilf((float)w * ratio), (float)width);
        dh = (int32_t)INFER__MIN(ceilf((float)h * ratio), (float)height);
        dw = INFER__MAX(dw, 1);
        dh = INFER__MAX(dh, 1);
        if (dw < width || dh < height)
            for (i = 0; i < n; i++) rgb[i] = (uint8_t)(colour >> (16 - i % 3 * 8));
    }
    if (infer__resize(mem, c->filter, src, w, h, rgb + stride * (size_t)((height - dh) / 2) +
                      (size_t)((width - dw) / 2) * 3, dw, dh, stride, err) == INFER_OK)
        return rgb;
    infer__free(mem, rgb);
    return NULL;
}

/* Canvases of one picture, and the entries that are cut out of them. */
static infer_result infer__pixels_fill(infer__media_list *list, const infer__media_settings *s, int32_t picture,
                                        const infer_image *image, float (*value)[256], infer_error *err) {
    infer__mem *mem = list->arena.mem;
    const infer__cut *cut = &list->cut;
    uint8_t *rgb[INFER__CANVASES] = {NULL, NULL, NULL};
    int32_t i, x, y, made = 0;
    for (; made < cut->n; made++) {
        const infer__canvas *c = &cut->canvas[made], *from = c->from < 0 ? NULL : &cut->canvas[c->from];
        rgb[made] = infer__canvas_make(mem, c, cut->single ? s->row->colour : 0, from ? rgb[c->from] : image->rgb,
                                       from ? (int32_t)from->width : image->width,
                                       from ? (int32_t)from->height : image->height, err);
        if (!rgb[made]) break;
    }
    for (i = 0; made == cut->n && i < list->n_entries; i++) {
        const infer__media_entry *e = &list->entries[i];
        float *to = e->values;
        if (e->picture != picture) continue;
        for (y = 0; y < e->height; y++) {
            const uint8_t *p = rgb[e->canvas] + ((size_t)(e->y + y) * (size_t)cut->canvas[e->canvas].width +
                                                 (size_t)e->x) * 3;
            for (x = 0; x < e->width; x++, p += 3, to += 3) {
                to[0] = value[0][p[0]];
                to[1] = value[1][p[1]];
                to[2] = value[2][p[2]];
            }
        }
    }
    for (i = 0; i < INFER__CANVASES; i++) infer__free(mem, rgb[i]);
    return made == cut->n ? INFER_OK : INFER_ERR_MEMORY;
}

static infer_result infer__media_fill(infer__media_list *list, const infer__media_settings *s,
                                      const infer_image *images, infer_error *err) {
    float value[3][256];
    infer_result r;
    int32_t i, j, n = 1;
    for (i = 0; i < list->n_entries; i++) n = INFER__MAX(n, list->entries[i].picture + 1);
    for (i = 0; i < n; i++)
        if (!images[i].rgb || images[i].width != list->width || images[i].height != list->height)
            return infer__error(err, INFER_ERR_ARGUMENT, "a picture of %d x %d, planned as %d x %d, or without pixels",
                                (int)images[i].width, (int)images[i].height, (int)list->width, (int)list->height);
    for (i = 0; i < 3; i++)
        for (j = 0; j < 256; j++) {
            float v = (float)j / 255.0f;
            INFER__ROUNDED(v);
            value[i][j] = (v - s->mean[i]) / s->std[i];
        }
    r = infer__media_list_values(list, 3, err);
    for (i = 0; r == INFER_OK && i < n; i++) r = infer__pixels_fill(list, s, i, &images[i], value, err);
    if (r != INFER_OK) infer__media_list_empty(list);
    return r;
}
