/* sound.c: what a pass needs of a sound: the rows of its spectrogram, and steps of convolutions.
 *
 * How:  rows of Whisper's convolutions are values side by side in memory, so its input is a view of rows that overlap
 *       (three of them, with one of zeros before and after all). Qwen3-Audio's spectrogram is cut into chunks of 100
 *       frames; each goes through three convolutions of two dimensions before the next one does, in scratch of the
 *       host: such an encoder is on the CPU.
 * Start: infer__sound_fill, infer__step_conv, infer__step_chunks.
 */
#include "../model.h"

enum {
    INFER__CHUNK_WIDE = 100, /* frames */
    INFER__CHUNK_ROWS = 13   /* of the pass: half of half of half */
};

INFER__INLINE int32_t infer__half(int32_t n) { return (n + 1) / 2; }
static int infer__chunked(const infer_model *m) { return m->stack.row->places == INFER__PLACES_CHUNKS; }

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static void infer__sound_keys(infer__keys *k) {
    infer__stack *s = &k->m->stack;
    s->bins = infer__key_int(k, "num_mel_bins", 1, INFER__SAMPLES, 0, 1);
    if (s->row->flags & INFER__STACK_SAMPLES) s->bins = INFER__SAMPLES;
    else if (!k->failed && s->bins > 512) infer__key_misfit(k, "num_mel_bins", "more than 512");
    s->merged = infer__chunked(k->m) ? infer__half(infer__half(infer__half(s->bins))) : s->merge;
    s->pooled = 2;
}

static int infer__chunks_slots(infer_model *m, const infer__step *s, int matrix, int vector) {
    char name[64];
    int i, ok = 1;
    for (i = 0; i < 3 && ok; i++) {
        infer__format(name, sizeof name, s->name, i + 1);
        ok = infer__stack_name(m, matrix + i, name, ".weight", INFER__D_ANY, INFER__D_KERNEL, 1) &&
             infer__stack_name(m, vector + i, name, ".bias", INFER__D_ONE, INFER__D_ANY, 1);
    }
    return ok;
}

/* ---- a sound's rows ---------------------------------------------------------------------------------------------- */

static infer_result infer__sound_sizes(const infer_model *m, int32_t frames, int32_t bins, infer__picture *p,
                                       infer_error *err) {
    const infer__stack *s = &m->stack;
    const int32_t unit = infer__chunked(m) ? INFER__CHUNK_WIDE : m->stack.row->places ? 2 : 1,
                  rows = infer__chunked(m) ? INFER__CHUNK_ROWS : 1;
    const infer__step *step;
    int32_t each = 2; /* frames of a row */
    if (bins != s->bins)
        return infer__error(err, INFER_ERR_ARGUMENT, "a spectrogram of %d bins: the model reads %d", (int)bins,
                            (int)s->bins);
    if (frames < 1 || frames % unit || frames >= 1 << 20)
        return infer__error(err, INFER_ERR_ARGUMENT,
                            "a sound of %d frames: the model reads multiples of %d below 2^20", (int)frames, (int)unit);
    p->nx = frames;
    p->ny = bins;
    p->patches = p->rows = p->tokens = infer__subsampled(m) ? infer__half(infer__half(frames)) : frames / unit * rows;
    if (s->row->places && s->wide < (infer__chunked(m) ? rows : p->rows))
        return infer__error(err, INFER_ERR_ARGUMENT, "a sound of %d frames: the model has learned %d positions",
                            (int)frames, (int)s->wide);
    for (step = s->row->head; step->kind; step++) {
        if (step->kind == INFER__STEP_POOL) {
            p->tokens /= s->pooled;
            each *= s->pooled;
        }
        if (step->kind == INFER__STEP_MERGE) /* as llama.cpp counts: frames are filled up, and what is left dropped */
            p->tokens = step->flags & INFER__STEP_FILLED ? (frames + s->merged - 1) / s->merged / each
                                                         : p->tokens / s->merged;
        if (step->kind == INFER__STEP_WRAP) p->tokens += 2;
    }
    if (p->tokens < 1)
        return infer__error(err, INFER_ERR_ARGUMENT, "a sound of %d frames is too short for an embedding", (int)frames);
    return INFER_OK;
}

/* What the first convolution of chunks reads: for every second bin and frame the 3 x 3 around it. */
static void infer__sound_gather(const infer__picture *p, const float *values, float *to) {
    const int32_t high = infer__half(p->ny), wide = infer__half(INFER__CHUNK_WIDE);
    int32_t chunk, y, x, i, j;
    for (chunk = 0; chunk < p->nx / INFER__CHUNK_WIDE; chunk++)
        for (y = 0; y < high; y++)
            for (x = 0; x < wide; x++)
                for (j = 2 * y - 1; j <= 2 * y + 1; j++)
                    for (i = 2 * x - 1; i <= 2 * x + 1; i++)
                        *to++ = j < 0 || j >= p->ny || i < 0 || i >= INFER__CHUNK_WIDE
                                    ? 0
                                    : values[(int64_t)j * p->nx + chunk * INFER__CHUNK_WIDE + i];
}

/* Frames, between two of zeros. */
static void infer__sound_turn(const infer__picture *p, const float *values, float *to) {
    int32_t i, j;
    memset(to, 0, (size_t)p->ny * sizeof *to);
    to += p->ny;
    for (i = 0; i < p->nx; i++)
        for (j = 0; j < p->ny; j++) *to++ = values[(int64_t)j * p->nx + i];
    memset(to, 0, (size_t)p->ny * sizeof *to);
}

/* Channels of the convolutions of chunks. */
static int32_t infer__chunk_channels(const infer_model *m, int i) {
    return m->layers[0].w[INFER__W_STACK_IN_M0 + i].rows;
}
static int32_t infer__chunk_piece(const infer__picture *p) { return INFER__MAX(p->rows, INFER__CHUNK_PIECE); }

/* Scratch of chunks: the results of the first two convolutions, with borders of zeros; pieces of what a convolution
 * reads, and gives. Floats: */
static void infer__chunk_scratch(const infer_model *m, const infer__picture *p, int64_t at[4]) {
    const int64_t piece = infer__chunk_piece(p);
    int64_t most = 0;
    int32_t high = infer__half(p->ny), wide = infer__half(INFER__CHUNK_WIDE);
    int i;
    for (i = 0; i < 3; i++) most = INFER__MAX(most, infer__chunk_channels(m, i));
    for (i = 0; i < 2; i++, high = infer__half(high), wide = infer__half(wide))
        at[i] = (int64_t)(high + 2) * (wide + 2) * infer__chunk_channels(m, i);
    at[2] = 9 * piece * most;
    at[3] = piece * most;
}

static infer_result infer__sound_fill(infer_model *m, infer__picture *p, const float *values, infer_error *err) {
    const uint64_t row = (uint64_t)m->hp.n_embd * sizeof(float);
    int64_t at[4], positions;
    int32_t i;
    int ok;
    if (infer__chunked(m)) {
        infer__chunk_scratch(m, p, at);
        positions = (int64_t)p->nx / INFER__CHUNK_WIDE * infer__half(p->ny) * infer__half(INFER__CHUNK_WIDE);
        ok = infer__picture_buf(m, &p->pixels[0], positions, 9) &&
             infer__picture_buf(m, &p->grid, at[0] + at[1] + at[2] + at[3], 1);
        if (ok) memset(p->grid.host, 0, (size_t)(at[0] + at[1]) * sizeof(float));
    } else ok = infer__picture_buf(m, &p->pixels[0], p->nx + 2, p->ny);
    if (infer__subsampled(m)) ok = ok && infer__conformer_fill(m, p);
    else if (m->stack.row->places)
        ok = ok && infer__picture_buf(m, &p->pixels[1], 1, INFER__MAX(m->hp.n_embd, infer__chunk_channels(m, 0))) &&
             infer__picture_buf(m, &p->places, p->rows, m->hp.n_embd);
    if (!ok) return infer__error(err, INFER_ERR_MEMORY, "no memory for a sound of %d frames", (int)p->nx);
    if (p->pixels[1].host) memset(p->pixels[1].host, 0, (size_t)p->pixels[1].bytes);
    if (infer__chunked(m)) infer__sound_gather(p, values, (float *)p->pixels[0].host);
    else infer__sound_turn(p, values, (float *)p->pixels[0].host);
    for (i = 0; i < p->rows && m->stack.row->places; i++)
        memcpy((char *)p->places.host + (uint64_t)i * row,
               m->stack.table + (int64_t)(infer__chunked(m) ? i % INFER__CHUNK_ROWS : i) * m->hp.n_embd, (size_t)row);
    return INFER_OK;
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

static void infer__step_frames(infer__walk *w) {
    const infer__picture *p = w->c->picture;
    const infer__tensor all = infer__walk_host(w, &p->pixels[0], 1, p->nx + 2, p->ny);
    infer__walk_to(w, infer__some_rows(&all, 1, p->nx), 1);
}

static const float *infer__walk_zeros(const infer__walk *w) { return (const float *)w->c->picture->pixels[1].host; }

static void infer__step_conv(infer__walk *w, const infer__step *s, const infer__weight *m, const infer__weight *b) {
    const int32_t n = w->t.rows / s->of;
    infer__tensor x = w->t, all = infer__walk_room(w, 1, n + 2, m->rows), from, to;
    int32_t i;
    x.offset -= (uint64_t)x.stride * sizeof(float);
    x.rows = n;
    x.cols *= 3;
    x.stride *= s->of;
    infer__walk_row(w, &all, 0, infer__walk_zeros(w));
    infer__walk_row(w, &all, n + 1, infer__walk_zeros(w));
    all = infer__some_rows(&all, 1, n);
    for (i = 0; i < n; i += w->rows) { /* no more at once than the pass has rows */
        from = infer__some_rows(&x, i, INFER__MIN(w->rows, n - i));
        to = infer__some_rows(&all, i, from.rows);
        infer__product(w->c, &from, m, infer__opt(b), &to);
    }
    infer__walk_to(w, all, 1);
}

/* The rows of t, and others of zeros. */
static void infer__step_fill(infer__walk *w, int32_t rows) {
    infer__tensor y, to;
    int32_t i;
    if (rows <= w->t.rows) return;
    y = infer__walk_room(w, 1, rows, w->t.cols);
    to = infer__some_rows(&y, 0, w->t.rows);
    infer__copy_rows(w->c, &w->t, &to);
    for (i = w->t.rows; i < rows; i++) infer__walk_row(w, &y, i, infer__walk_zeros(w));
    infer__walk_to(w, y, 1);
}

static void infer__step_glu(infer__walk *w, const infer__step *s) {
    const int32_t n = w->t.cols / 2;
    const infer__tensor first = infer__columns(&w->t, 0, n), gate = infer__columns(&w->t, n, n);
    const infer__tensor y = infer__walk_room(w, 1, w->t.rows, n);
    infer__copy_rows(w->c, &first, &y);
    infer__gate(w->c, s->of, &gate, &y);
    infer__walk_to(w, y, 1);
}

/* ---- chunks ------------------------------------------------------------------------------------------------------ */

static infer_result infer__chunks_flow(const infer_model *m, const infer__weight *w, const infer__weight *v,
                                       infer__flow *f, infer_error *err) {
    infer_result r = INFER_OK;
    int i;
    f->cols = 1;
    for (i = 0; i < 3 && !r; i++) {
        f->cols *= 9;
        f->widest = INFER__MAX(f->widest, f->cols);
        r = infer__flow_matrix(w + i, v + i, 0, &f->cols, err);
    }
    f->cols *= m->stack.merged;
    return r;
}

/* A grid of positions in scratch: high x wide rows of cols values, with a border of zeros around them. */
typedef struct infer__chunk_grid { uint64_t at; int32_t high, wide, cols; } infer__chunk_grid;

/* n positions of line y, from position x on; both count the border. */
static infer__tensor infer__chunk_line(const infer__picture *p, const infer__chunk_grid *g, int32_t y, int32_t x,
                                       int32_t n) {
    const uint64_t row = (uint64_t)y * (uint64_t)(g->wide + 2) + (uint64_t)x;
    return infer__view((infer__buf *)(uintptr_t)&p->grid, g->at + row * (uint64_t)g->cols, n, g->cols);
}

/* What a convolution reads for `lines` lines of its result, from line y on: of each of its kernel's lines three
 * positions are next to each other. */
static void infer__chunk_read(infer_context *c, const infer__chunk_grid *g, int32_t y, int32_t lines,
                              const infer__tensor *to) {
    const int32_t wide = to->rows / lines;
    int32_t i, k;
    for (i = 0; i < lines; i++)
        for (k = 0; k < 3; k++) {
            infer__tensor x = infer__chunk_line(c->picture, g, 2 * (y + i) + k, 0, wide), part;
            x.cols = 3 * g->cols;
            x.stride = 2 * g->cols;
            part = infer__some_rows(to, i * wide, wide);
            part = infer__columns(&part, k * x.cols, x.cols);
            infer__copy_rows(c, &x, &part);
        }
}

static void infer__step_chunks(infer__walk *w, const infer__step *s, const infer__weight *m, const infer__weight *b) {
    infer_context *c = w->c;
    const infer__picture *p = c->picture;
    const int32_t high = infer__half(p->ny), wide = infer__half(INFER__CHUNK_WIDE);
    infer__tensor t = infer__walk_room(w, 1, p->rows, (int64_t)c->model->stack.merged * m[2].rows), x, y, line, to;
    infer__buf *scratch = (infer__buf *)(uintptr_t)&p->grid;
    infer__chunk_grid g[3];
    int64_t at[4];
    int32_t chunk, first, i, k, lines;
    infer__chunk_scratch(c->model, p, at);
    for (i = 0; i < 3; i++) {
        g[i].at = i ? (uint64_t)at[0] : 0;
        g[i].high = i ? infer__half(g[i - 1].high) : high;
        g[i].wide = i ? infer__half(g[i - 1].wide) : wide;
        g[i].cols = m[i].rows;
    }
    for (chunk = 0; chunk < p->nx / INFER__CHUNK_WIDE; chunk++)
        for (i = 0; i < 3; i++)
            for (first = 0; first < g[i].high && infer__ok(&c->ctx); first += lines) {
                lines = INFER__MIN(infer__chunk_piece(p) / g[i].wide, g[i].high - first);
                if (i == 0) {
                    const int64_t before = ((int64_t)chunk * high + first) * wide;
                    x = infer__view((infer__buf *)(uintptr_t)&p->pixels[0], 9 * (uint64_t)before, lines * wide, 9);
                } else {
                    x = infer__view(scratch, (uint64_t)(at[0] + at[1]), lines * g[i].wide, 9 * g[i - 1].cols);
                    infer__chunk_read(c, &g[i - 1], first, lines, &x);
                }
                y = infer__view(scratch, (uint64_t)(at[0] + at[1] + at[2]), x.rows, g[i].cols);
                infer__product(c, &x, m + i, infer__opt(b + i), &y);
                for (k = 0; k < lines; k++) { /* to the next grid; or bins side by side, a row for a position in time */
                    line = infer__some_rows(&y, k * g[i].wide, g[i].wide);
                    to = i < 2 ? infer__chunk_line(p, &g[i], first + k + 1, 1, g[i].wide)
                               : infer__some_rows(&t, chunk * INFER__CHUNK_ROWS, INFER__CHUNK_ROWS);
                    if (i == 2) to = infer__columns(&to, (first + k) * g[i].cols, g[i].cols);
                    infer__act_rows(c, s->of, &line, &to);
                }
            }
    infer__walk_to(w, t, 1);
}
