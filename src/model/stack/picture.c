/* picture.c: what a pass needs of a picture, on the host: the order of patches, their pixels, embeddings of positions,
 * windows.
 *
 * Order: patches that are merged follow each other, blocks from left to right and from the top down, in windows or down
 *        columns where a row says so. Class tokens come last, wherever the model has them: attention does not see the
 *        order of rows.
 * Start: infer__picture_sizes, infer__picture_fill.
 */
#include "../model.h"

static infer_result infer__picture_sizes(const infer_model *m, int32_t width, int32_t height, infer__picture *p,
                                         infer_error *err) {
    const infer__stack *s = &m->stack;
    const int32_t side = s->patch * s->merge;
    const infer__step *step;
    memset(p, 0, sizeof *p);
    if (s->kind == INFER__STACK_AUDIO) return infer__sound_sizes(m, width, height, p, err);
    if (s->row->flags & INFER__STACK_BLOCKS) return infer__blocks_sizes(m, width, height, p, err);
    if (width < 1 || height < 1 || width % side || height % side)
        return infer__error(err, INFER_ERR_ARGUMENT, "a picture of %d x %d: sides are multiples of %d here", (int)width,
                            (int)height, (int)side);
    p->nx = width / s->patch;
    p->ny = height / s->patch;
    if ((int64_t)p->nx * p->ny >= 1 << 20)
        return infer__error(err, INFER_ERR_LIMIT, "a picture of %d x %d has too many patches", (int)width, (int)height);
    p->patches = p->tokens = p->nx * p->ny;
    p->rows = p->patches + (s->vectors[0] != NULL);
    for (step = s->row->head; step->kind; step++) {
        if (step->kind == INFER__STEP_MERGE || step->kind == INFER__STEP_POOL) p->tokens /= s->merged;
        if (step->kind == INFER__STEP_BREAKS && s->vectors[1]) p->tokens += p->ny / s->merge - 1;
        if (step->kind == INFER__STEP_WRAP) p->tokens += 2;
        if (step->kind == INFER__STEP_RESAMPLE) p->tokens = s->queries;
    }
    if (s->row->places == INFER__PLACES_LEARNED && p->rows != s->wide)
        return infer__error(err, INFER_ERR_ARGUMENT, "a picture of %d x %d has %d patches, the model has learned %d",
                            (int)width, (int)height, (int)p->rows, (int)s->wide);
    if (s->row->places == INFER__PLACES_SUMS && INFER__MAX(p->nx, p->ny) > s->wide)
        return infer__error(err, INFER_ERR_ARGUMENT, "a picture of %d x %d patches, the model has learned %d",
                            (int)p->nx, (int)p->ny, (int)s->wide);
    return INFER_OK;
}

/* ---- order ------------------------------------------------------------------------------------------------------- */

/* Rows of the blocks [x, x + wide) x [y, y + high), from row `at` on. */
static int32_t infer__picture_blocks(const infer__stack *s, infer__picture *p, int32_t at, int32_t x, int32_t y,
                                     int32_t wide, int32_t high) {
    const int down = s->row->flags & INFER__STACK_COLUMNS;
    const int32_t k = s->merge, lines = down ? wide : high, each = down ? high : wide;
    int32_t i, j, in;
    for (i = 0; i < lines; i++)
        for (j = 0; j < each; j++)
            for (in = 0; in < k * k; in++, at++) {
                p->axis[0][at] = (y + (down ? j : i)) * k + in / k;
                p->axis[1][at] = (x + (down ? i : j)) * k + in % k;
            }
    return at;
}

static void infer__picture_order(const infer__stack *s, infer__picture *p) {
    const int32_t wide = p->nx / s->merge, high = p->ny / s->merge;
    const int32_t w = s->list ? s->window : wide, h = s->list ? s->window : high;
    int32_t x, y, row = 0, first, i, j, *list = (int32_t *)p->lists.host;
    for (y = 0; y < high; y += h)
        for (x = 0; x < wide; x += w) {
            first = row;
            row = infer__picture_blocks(s, p, row, x, y, INFER__MIN(w, wide - x), INFER__MIN(h, high - y));
            for (i = first; s->list && i < row; i++) { /* the rows of a window see each other */
                list[(int64_t)i * s->list] = row - first;
                for (j = first; j < row; j++) list[(int64_t)i * s->list + 1 + j - first] = j;
            }
        }
}

/* The embedding that comes out as number `token`, of a picture in windows. */
static int32_t infer__picture_token(const infer__stack *s, const infer__picture *p, int32_t token) {
    const int32_t row = token * s->merge * s->merge;
    return p->axis[0][row] / s->merge * (p->nx / s->merge) + p->axis[1][row] / s->merge;
}

/* ---- pixels ------------------------------------------------------------------------------------------------------ */

/* The pixels of patches, colour by colour. */
static void infer__picture_cut(const infer__stack *s, const infer__picture *p, const float *values, float *to) {
    const float times = s->row->flags & INFER__STACK_SIGNED ? 2.0f : 1.0f, plus = times > 1 ? -1.0f : 0.0f;
    const int32_t side = s->patch;
    const int64_t line = 3 * (int64_t)p->nx * side;
    int32_t row, c, i, j;
    for (row = 0; row < p->patches; row++) {
        const float *from = values + (int64_t)p->axis[0][row] * side * line + 3 * (int64_t)p->axis[1][row] * side;
        for (c = 0; c < 3; c++)
            for (j = 0; j < side; j++)
                for (i = 0; i < side; i++) *to++ = from[j * line + 3 * (int64_t)i + c] * times + plus;
    }
}

/* ---- embeddings of positions ------------------------------------------------------------------------------------- */

static double infer__cubic(double x) { /* Keys, "Cubic convolution interpolation", a = -0.75 */
    const double a = -0.75;
    x = fabs(x);
    if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/* How much each of n places of a table counts for place i of `to`. */
static void infer__spot_weights(int places, int32_t n, int32_t to, int32_t i, double *w) {
    const int corners = places == INFER__PLACES_CORNERS;
    const double step = corners && to > 1 && n > 1 ? (double)(n - 1) / (to - 1) : (double)n / to;
    const double x = corners ? i * step : (i + 0.5) * step - 0.5, reach = INFER__MAX(step, 1.0);
    double sum = 0;
    int32_t j;
    memset(w, 0, (size_t)n * sizeof *w);
    if (places == INFER__PLACES_RESIZED) {
        for (j = 0; j < n; j++) sum += w[j] = INFER__MAX(1 - fabs(j - x) / reach, 0.0);
        for (j = 0; j < n; j++) w[j] /= sum;
        return;
    }
    for (j = (int32_t)floor(x) - 1; j <= (int32_t)floor(x) + 2; j++) /* beyond the edges is what is on them */
        w[INFER__MIN(INFER__MAX(j, 0), n - 1)] +=
            places == INFER__PLACES_CUBIC ? infer__cubic(x - j) : INFER__MAX(1 - fabs(x - j), 0.0);
}

/* to += times * a row of the table. */
static void infer__spot_sum(const infer_model *m, int64_t row, double times, float *to) {
    const float *from = m->stack.table + row * m->hp.n_embd;
    int32_t i;
    for (i = 0; i < m->hp.n_embd; i++) to[i] += (float)times * from[i];
}

/* weights: of each column, then of each line, of the table. */
static void infer__spot_at(const infer_model *m, const infer__picture *p, int32_t x, int32_t y, const double *weights,
                            float *to) {
    const infer__stack *s = &m->stack;
    const double *across = weights + (int64_t)x * s->wide,
                 *down = weights + (int64_t)p->nx * s->wide + (int64_t)y * s->high;
    const int32_t first = s->row->cls == INFER__CLASS_FIRST && s->vectors[0];
    int32_t i, j;
    switch (s->row->places) {
    case INFER__PLACES_LEARNED: infer__spot_sum(m, first + (int64_t)y * p->nx + x, 1, to); return;
    case INFER__PLACES_SUMS:
        infer__spot_sum(m, x, 1, to);
        infer__spot_sum(m, s->wide + (int64_t)y, 1, to);
        return;
    case INFER__PLACES_BUCKETS:
        infer__spot_sum(m, (int64_t)s->high * y / p->ny * s->wide + (int64_t)s->wide * x / p->nx, 1, to);
        return;
    default: break;
    }
    for (j = 0; j < s->high; j++)
        for (i = 0; i < s->wide && down[j] != 0; i++)
            if (across[i] != 0) infer__spot_sum(m, (int64_t)j * s->wide + i, down[j] * across[i], to);
}

/* Embeddings of positions, and those of class tokens. */
static infer_result infer__picture_places(infer_model *m, const infer__picture *p, infer_error *err) {
    const infer__stack *s = &m->stack;
    const uint64_t width = (uint64_t)m->hp.n_embd;
    float *to = (float *)p->places.host;
    double *w = NULL;
    int32_t i;
    if (s->row->places >= INFER__PLACES_RESIZED && s->row->places <= INFER__PLACES_CUBIC) {
        w = (double *)infer__alloc(
            &m->mem, ((uint64_t)p->nx * (uint64_t)s->wide + (uint64_t)p->ny * (uint64_t)s->high) * sizeof *w);
        if (!w) return infer__error(err, INFER_ERR_MEMORY, "no memory for positions of %d patches", (int)p->patches);
        for (i = 0; i < p->nx; i++) infer__spot_weights(s->row->places, s->wide, p->nx, i, w + (int64_t)i * s->wide);
        for (i = 0; i < p->ny; i++)
            infer__spot_weights(s->row->places, s->high, p->ny, i,
                                  w + (int64_t)p->nx * s->wide + (int64_t)i * s->high);
    }
    memset(to, 0, (size_t)p->rows * width * sizeof *to);
    for (i = 0; i < p->patches; i++) infer__spot_at(m, p, p->axis[1][i], p->axis[0][i], w, to + (uint64_t)i * width);
    infer__free(&m->mem, w);
    if (!s->vectors[0]) return INFER_OK;
    to += (uint64_t)p->patches * width;
    memcpy(to, s->vectors[0], width * sizeof *to);
    infer__spot_sum(m, s->row->cls == INFER__CLASS_FIRST ? 0 : s->wide - 1, 1, to);
    return INFER_OK;
}

/* Places for the keys of a resampler: sine and cosine of x, then of y, times frequencies. Its rows, of which none are
 * merged, go from left to right and from the top down: the first one in a column or line has what the others have. */
static void infer__picture_grid(const infer_model *m, const infer__picture *p) {
    const int32_t n = m->hp.n_out / 4;
    float *to = (float *)p->grid.host;
    int32_t row, axis, first, i;
    for (row = 0; row < p->patches; row++)
        for (axis = 1; axis >= 0; axis--, to += 2 * n) {
            first = axis ? p->axis[1][row] : p->axis[0][row] * p->nx;
            INFER__ASSERT(first <= row && p->axis[axis][first] == p->axis[axis][row]);
            if (first < row) memcpy(to, to - 4 * (int64_t)n * (row - first), 2 * (size_t)n * sizeof *to);
            for (i = 0; i < n && first == row; i++) {
                const double angle = p->axis[axis][row] * pow(10000.0, -(double)i / n);
                to[i] = (float)sin(angle);
                to[n + i] = (float)cos(angle);
            }
        }
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

static int infer__picture_buf(infer_model *m, infer__buf *b, int64_t rows, int64_t cols) {
    b->bytes = (uint64_t)rows * (uint64_t)cols * sizeof(float);
    b->host = infer__alloc(&m->mem, b->bytes);
    return b->host != NULL;
}

static infer_result infer__picture_fill(infer_model *m, infer__picture *p, const float *values, const float *second,
                                        infer_error *err) {
    const infer__stack *s = &m->stack;
    const int32_t pixels = 3 * s->patch * s->patch;
    const infer__step *step = s->row->input;
    int ok, i, frames;
    if (s->kind == INFER__STACK_AUDIO) return infer__sound_fill(m, p, values, err);
    if (s->row->flags & INFER__STACK_BLOCKS) return infer__blocks_fill(m, p, values, err);
    ok = infer__picture_buf(m, &p->pixels[0], p->patches, pixels);
    while (step->kind && step->kind != INFER__STEP_FRAME) step++;
    frames = step->kind != 0; /* a picture is a frame twice */
    p->axis[0] = (int32_t *)infer__calloc(&m->mem, 2 * (uint64_t)p->rows, sizeof(int32_t));
    if (ok && frames && second) ok = infer__picture_buf(m, &p->pixels[1], p->patches, pixels);
    if (ok && s->table) ok = infer__picture_buf(m, &p->places, p->rows, m->hp.n_embd);
    if (ok && s->list) ok = infer__picture_buf(m, &p->lists, p->rows, s->list);
    if (ok && s->queries) ok = infer__picture_buf(m, &p->grid, p->patches, m->hp.n_out);
    if (!ok || !p->axis[0])
        return infer__error(err, INFER_ERR_MEMORY, "no memory for a picture of %d patches", (int)p->patches);
    p->axis[1] = p->axis[0] + p->rows;
    infer__picture_order(s, p);
    infer__picture_cut(s, p, values, (float *)p->pixels[0].host);
    if (p->pixels[1].host) infer__picture_cut(s, p, second, (float *)p->pixels[1].host);
    if (s->queries) infer__picture_grid(m, p);
    if (s->table) {
        const infer_result r = infer__picture_places(m, p, err);
        if (r) return r;
    }
    for (i = 0; i < p->patches && s->row->cls; i++) { /* class tokens are at 0, 0: of rotation alone */
        p->axis[0][i]++;
        p->axis[1][i]++;
    }
    return INFER_OK;
}

static void infer__picture_free(infer_model *m, infer__picture *p) {
    infer__free(&m->mem, p->pixels[0].host);
    infer__free(&m->mem, p->pixels[1].host);
    infer__free(&m->mem, p->places.host);
    infer__free(&m->mem, p->lists.host);
    infer__free(&m->mem, p->grid.host);
    infer__free(&m->mem, p->axis[0]);
}
