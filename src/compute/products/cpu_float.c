/* cpu_float.c: the engine of matrix products with F32, F16 and BF16 weights: splitting a product into blocks.
 *
 * Owns:  infer__float_tile, and the activations that BF16 weights are multiplied with (infer__float_prepare).
 * How:   few columns: the weight is read in the file's layout and converted in registers; memory is the limit. One
 *        column (generation) takes row after row, more take four rows side by side and prefetch the next four. Many
 *        columns (prompts): 32 rows are decoded for 64 steps along K (1,024 floats or 2,048 BF16 values: 4 KiB of a
 *        row) and multiplied with up to 192 columns, whose lanes are kept in the worker's scratch for the next 64
 *        steps. Of a block, 24 KiB of columns and 16 KiB of rows are in the L1 cache (48 KiB here), the other
 *        rows and the lanes (384 KiB) in the second. Levels with narrower blocks decode 16 rows for 16 steps, which
 *        all stay in the L1. Meanwhile the weights that are decoded next are prefetched (infer__float_ask).
 *        One core of a busy Zen 5, K = 8192 by 512 columns: F16 187 of 240 GFLOP/s, BF16 335 of 440; before, without
 *        cuts along K, F16 took 96 to 102.
 * Invariant: an element's lanes run over K in order, whatever the batch, the blocks or the threads.
 * Start: infer__float_tile.
 */
#include "cpu_float.h"

enum {
    INFER__FLOAT_PANEL = 192 /* columns whose lanes are kept */
};

/* Rows decoded at once, and for how many steps. They are read once per block of columns: wide blocks get them from the
 * L2 cache in time, for narrow ones they stay in the L1. Not so in plain C: cuts take scratch, and small machines run
 * that. */
static int infer__float_narrow(const struct infer__floats *f) { return f->need && f->cols < INFER__FLOAT_COLS; }
static int32_t infer__float_tile_rows(const struct infer__floats *f) { return infer__float_narrow(f) ? 16 : 32; }
static int32_t infer__float_cut(const struct infer__floats *f) { return infer__float_narrow(f) ? 16 : 64; }

/* Bytes from one decoded row to the next, of rows of so many values: no power of two, because of the cache's sets. */
static int32_t infer__float_stride(const struct infer__floats *f, int32_t cols) {
    const int64_t steps = ((int64_t)cols + 31) / 32 * 2; /* at most */
    return (int32_t)(INFER__MIN(steps, infer__float_cut(f)) + 1) * INFER__FLOAT_STEP;
}

/* The kind of a storage type, or -1. */
static int infer__float_kind(const infer__quant *q) {
    return q->id == 0 ? INFER__FLOAT_F32 : q->id == 1 ? INFER__FLOAT_F16 : q->id == 30 ? INFER__FLOAT_BF16 : -1;
}

/* The function that multiplies weights of a kind by tiles, or NULL. */
static const infer__float_tiled *infer__float_tiled_for(const infer__ctx *c, int kind) {
    const infer__float_tiled *tiled = c->floats->tiled;
    return tiled && tiled->by[kind].multiply ? tiled : NULL;
}

/* 1 when products with w run here and not by the definition; `prepared`: on the output of infer__float_prepare. */
static int infer__float_usable(const infer__ctx *c, const infer__weight *w, int32_t *prepared) {
    const int kind = infer__float_kind(w->type);
    const infer__float_tiled *tiled = kind < 0 ? NULL : infer__float_tiled_for(c, kind);
    *prepared = tiled ? tiled->by[kind].prepared : kind == INFER__FLOAT_BF16;
    return !c->exact && kind >= 0;
}

/* ---- scratch, activations ---------------------------------------------------------------------------------------- */

/* Floats of scratch: decoded rows; lanes, when a row is cut. */
static int64_t infer__float_scratch_len(const struct infer__floats *f, int32_t max_cols) {
    const int64_t rows = infer__float_tile_rows(f);
    int64_t tile = rows * (infer__float_stride(f, max_cols) / (int64_t)sizeof(float));
    int64_t lanes = rows * INFER__FLOAT_PANEL * INFER__LANES;
    tile = max_cols > infer__float_cut(f) * INFER__LANES ? tile + lanes : tile;
    return f->tiled ? INFER__MAX(tile, f->tiled->scratch) : tile;
}

/* Bytes of a prepared row. */
static int64_t infer__float_row_bytes(const struct infer__floats *f, int32_t cols) {
    return ((int64_t)cols + 31) / 32 * (f->pairs ? 64 : 128);
}

static uint64_t infer__float_x_bytes(uint32_t cpu, uint64_t rows, int32_t cols) {
    return rows * (uint64_t)infer__float_row_bytes(infer__floats_find(cpu), cols);
}

/* Prepare n rows for a product: those of x in order[0 .. n-1] / each (order NULL: all in turn), to `to`. */
static void infer__float_put(const struct infer__floats *f, const infer__tensor *x, const int32_t *order, int32_t each,
                             int32_t n, uint8_t *to) {
    void (*prepare)(const float *const *, int32_t, int64_t, uint8_t *) = f->tiled ? f->tiled->prepare : NULL;
    const float *row[16];
    int32_t i, w = 0;
    for (i = 0; i < n; i++) {
        row[w++] = infer__row(x, order ? order[i] / each : i);
        if (w < (prepare ? 16 : 1) && i + 1 < n) continue;
        if (prepare) prepare(row, w, x->cols, to);
        else f->prepare(row[0], to, x->cols);
        to += w * infer__float_row_bytes(f, x->cols);
        w = 0;
    }
}

typedef struct infer__float_job { infer__ctx *c; const infer__tensor *x; } infer__float_job;

static void infer__float_prepare_task(void *arg, int task, int worker) {
    const infer__float_job *job = (const infer__float_job *)arg;
    infer__tensor x = *job->x;
    (void)worker;
    x.offset += (uint64_t)task * 16 * (uint64_t)x.stride * sizeof(float);
    infer__float_put(job->c->floats, &x, NULL, 1, INFER__MIN(x.rows - task * 16, 16),
                     job->c->cpu->float_x + task * 16 * infer__float_row_bytes(job->c->floats, x.cols));
}

/* Prepare all rows of x, into c->cpu->float_x. */
static void infer__float_prepare(infer__ctx *c, const infer__tensor *x) {
    infer__float_job job;
    INFER__ASSERT((uint64_t)(x->rows * infer__float_row_bytes(c->floats, x->cols)) <= c->cpu->float_x_bytes);
    job.c = c;
    job.x = x;
    infer__cpu_run(c, (x->rows + 15) / 16, (int64_t)x->rows * x->cols, infer__float_prepare_task, &job);
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

/* Columns of the next block when n are left: as few blocks as possible, of about one width. */
static int32_t infer__float_block(const infer__float_product *p, int32_t n) {
    int32_t blocks = (n + p->f->cols - 1) / p->f->cols;
    return (n + blocks - 1) / blocks;
}

static int infer__float_few(const struct infer__floats *f, int kind, int32_t n_x) { return n_x <= f->few[kind]; }

/* Rows of a task at most: with few columns a core reads sequentially, with many there is enough work in a tile. */
static int32_t infer__float_task_rows(const infer__ctx *c, const infer__weight *w, int32_t n_x) {
    const int kind = infer__float_kind(w->type);
    const infer__float_tiled *tiled = infer__float_tiled_for(c, kind);
    if (tiled) return n_x <= 16 ? infer__task_rows(w) : tiled->by[kind].rows;
    return infer__float_few(c->floats, kind, n_x) ? infer__task_rows(w) : infer__float_tile_rows(c->floats);
}

/* Rows that are multiplied together: tasks are multiples of them. */
static int32_t infer__float_least(const infer__ctx *c, const infer__weight *w, int32_t n_x) {
    const int kind = infer__float_kind(w->type);
    const infer__float_tiled *tiled = infer__float_tiled_for(c, kind);
    if (!tiled) return INFER__FLOAT_ROWS;
    return n_x <= 16 ? INFER__GROUP : tiled->by[kind].together;
}

/* Lanes of `cols` columns to y: the first n (1 .. 4) rows. */
static void infer__float_results(const struct infer__floats *f, const float *lanes, int32_t cols, int32_t n, float *y,
                                 int64_t sy) {
    float t[INFER__FLOAT_COLS * INFER__FLOAT_ROWS];
    int32_t j;
    if (n == INFER__FLOAT_ROWS) {
        f->sums(lanes, cols, y, sy);
        return;
    }
    f->sums(lanes, cols, t, INFER__FLOAT_ROWS);
    for (j = 0; j < cols; j++) memcpy(y + j * sy, t + j * INFER__FLOAT_ROWS, (size_t)n * sizeof *y);
}

/* The part of activations past a multiple of 16, filled up with zeros, INFER__FLOAT_STEP bytes per column. */
static void infer__float_rest(const infer__float_product *p, const uint8_t *x, int32_t cols, uint8_t *rest) {
    size_t bytes = (size_t)(p->cols % INFER__LANES) * sizeof(float);
    int32_t j;
    memset(rest, 0, (size_t)cols * INFER__FLOAT_STEP);
    for (j = 0; j < cols; j++)
        memcpy(rest + j * INFER__FLOAT_STEP, x + j * p->sx + (int64_t)(p->cols / INFER__LANES) * INFER__FLOAT_STEP,
               bytes);
}

/* ---- few columns: weights as they are in the file ---------------------------------------------------------------- */

/* Four rows (at w, sw apart; sw 0: one row four times) of which `n` are wanted, to y. */
static void infer__float_stream_rows(const infer__float_product *p, const uint8_t *w, int64_t sw, const uint8_t *next,
                                     int32_t n, float *y) {
    static const int32_t values[INFER__FLOAT_KINDS] = {16, 16, 32}, bytes[INFER__FLOAT_KINDS] = {4, 2, 2};
    const infer__float_fn *fns = p->f->raw[p->kind];
    float lanes[INFER__FLOAT_COLS * INFER__FLOAT_LANES];
    uint8_t w_rest[INFER__FLOAT_ROWS * 64], x_rest[INFER__FLOAT_COLS * INFER__FLOAT_STEP];
    int32_t v = values[p->kind], left = p->cols % v, each = v * bytes[p->kind], j, c, i;
    int64_t steps = p->cols / v, x_step = p->prepared ? infer__float_row_bytes(p->f, 32) : INFER__FLOAT_STEP;
    if (left) {
        memset(w_rest, 0, sizeof w_rest);
        for (i = 0; i < INFER__FLOAT_ROWS; i++)
            memcpy(w_rest + i * each, w + i * sw + steps * each, (size_t)(left * bytes[p->kind]));
    }
    for (j = 0; j < p->n_x; j += c, next = w) {
        const uint8_t *x = p->x + j * p->sx;
        c = infer__float_block(p, p->n_x - j);
        memset(lanes, 0, (size_t)c * INFER__FLOAT_LANES * sizeof *lanes);
        fns[c](w, sw, x, p->sx, steps, next, next == w ? 0 : sw, lanes);
        if (left && p->prepared) fns[c](w_rest, each, x + steps * x_step, p->sx, 1, w, 0, lanes);
        else if (left) {
            infer__float_rest(p, x, c, x_rest);
            fns[c](w_rest, each, x_rest, INFER__FLOAT_STEP, 1, w, 0, lanes);
        }
        infer__float_results(p->f, lanes, c, n, y + j * p->sy, p->sy);
    }
}

static void infer__float_stream(const infer__float_product *p) {
    const uint8_t *w;
    int32_t r;
    if (p->n < INFER__FLOAT_ROWS) {
        for (r = 0; r < p->n; r++) infer__float_stream_rows(p, p->w + r * p->sw, 0, p->w, 1, p->y + r);
        return;
    }
    for (r = 0; r < p->n; r += INFER__FLOAT_ROWS) {
        if (r > p->n - INFER__FLOAT_ROWS) r = p->n - INFER__FLOAT_ROWS; /* some again, with the same result */
        w = p->w + r * p->sw;
        infer__float_stream_rows(p, w, p->sw,
                                 p->after + p->n - r >= 2 * INFER__FLOAT_ROWS ? w + INFER__FLOAT_ROWS * p->sw : w,
                                 INFER__FLOAT_ROWS, p->y + r);
    }
}

static void infer__float_add_bias(const infer__float_product *p, int32_t r, int32_t n, int32_t first, int32_t n_x) {
    int32_t j;
    for (j = first; p->bias && j < first + n_x; j++) {
        float *y = p->y + j * p->sy + r;
        infer__plus(y, y, p->bias + r, n);
    }
}

static void infer__float_sums_put(const infer__float_product *p, int32_t r, int32_t n, int32_t first, int32_t n_x,
                                  const float *sums, int32_t each) {
    int32_t j;
    for (j = first; j < first + n_x; j++, sums += each) {
        float *y = p->y + j * p->sy + r;
        if (p->bias) infer__plus(y, sums, p->bias + r, n);
        else memcpy(y, sums, (size_t)n * sizeof *y);
    }
}

/* ---- many columns: decoded rows ---------------------------------------------------------------------------------- */

/* Weights that are decoded next, `bytes` of each row: lines of 64 are prefetched, `each` per block. */
typedef struct infer__float_ahead { const uint8_t *row; int64_t sw, bytes, at; int32_t rows, each; } infer__float_ahead;

INFER__INLINE void infer__float_ask(infer__float_ahead *a) {
    int32_t n;
    for (n = INFER__CAN_PREFETCH ? a->each : 0; n > 0 && a->rows > 0; n--) {
        INFER__PREFETCH_FAR(a->row + a->at);
        a->at += 64;
        if (a->at < a->bytes) continue;
        a->at = 0;
        a->row += a->sw;
        a->rows--;
    }
}

/* Rows r .. r+n-1 (decoded from step s on, n_steps of them) times columns first .. first+n_x-1. */
static void infer__float_tile_cut(const infer__float_product *p, int32_t r, int32_t n, int32_t first, int32_t n_x,
                                  int64_t s, int64_t n_steps, int64_t all_steps, infer__float_ahead *ahead) {
    const infer__float_fn *fns = p->f->decoded[p->kind];
    float block[INFER__FLOAT_COLS * INFER__FLOAT_LANES];
    uint8_t rest[INFER__FLOAT_COLS * INFER__FLOAT_STEP];
    int whole = n_steps == all_steps, last = s + n_steps == all_steps;
    int left = last && !p->prepared && p->cols % INFER__LANES != 0;
    int32_t i, j, c, next;
    for (j = 0; j < n_x; j += c) {
        const uint8_t *x = p->x + (first + j) * p->sx;
        c = infer__float_block(p, n_x - j);
        if (left) infer__float_rest(p, x, c, rest);
        for (i = 0; i < n; i += INFER__FLOAT_ROWS) {
            const uint8_t *w = p->tile + i * p->stride;
            float *lanes = whole ? block : p->lanes + (j * infer__float_tile_rows(p->f) + i * c) * INFER__LANES;
            const uint8_t *ask = w; /* eight groups of rows ask for the next six columns */
            next = first + j + c + i / INFER__FLOAT_ROWS;
            infer__float_ask(ahead);
            if (next < p->n_x) ask = p->x + next * p->sx + s * INFER__FLOAT_STEP;
            if (whole && !left && n - i >= INFER__FLOAT_ROWS && p->f->whole[p->kind][c]) {
                p->f->whole[p->kind][c](w, p->stride, x, p->sx, n_steps, ask,
                                        p->y + (first + j) * p->sy + r + i, p->sy);
                continue;
            }
            if (s == 0) memset(lanes, 0, (size_t)c * INFER__FLOAT_LANES * sizeof *lanes);
            fns[c](w, p->stride, x + s * INFER__FLOAT_STEP, p->sx, n_steps - left, ask, 0, lanes);
            if (left)
                fns[c](w + (n_steps - 1) * p->f->step[p->kind], p->stride, rest, INFER__FLOAT_STEP, 1, w, 0,
                       lanes);
            if (last)
                infer__float_results(p->f, lanes, c, INFER__MIN(n - i, INFER__FLOAT_ROWS),
                                     p->y + (first + j) * p->sy + r + i, p->sy);
        }
        if (last) infer__float_add_bias(p, r, n, first + j, c);
    }
}

/* What follows byte `from` of rows r .. r+n-1 in n_bytes a row: more of these rows, or where those end, of the rows
 * below; to be asked for during so many blocks. */
static infer__float_ahead infer__float_following(const infer__float_product *p, int32_t r, int32_t n, int64_t from,
                                                 int64_t n_bytes, int64_t row_bytes, int32_t blocks) {
    infer__float_ahead a;
    int64_t lines;
    a.row = p->w + r * p->sw + from;
    a.sw = p->sw;
    a.rows = n;
    if (from >= row_bytes) {
        a.row = p->w + (r + n) * p->sw;
        a.rows = INFER__MIN(n, p->n + p->after - r - n);
        from = 0;
    }
    a.at = 0;
    a.bytes = INFER__MIN(n_bytes, row_bytes - from);
    lines = (a.bytes + 63) / 64 * n;
    a.each = (int32_t)((lines + blocks - 1) / blocks);
    return a;
}

static void infer__float_tiles(const infer__float_product *p) {
    static const int64_t bytes[INFER__FLOAT_KINDS] = {4, 2, 2};
    int64_t values = p->prepared && p->f->pairs ? 32 : 16; /* per step */
    int64_t all_steps =
        p->prepared && !p->f->pairs ? ((int64_t)p->cols + 31) / 32 * 2 : (p->cols + values - 1) / values;
    int64_t each = values * bytes[p->kind]; /* bytes of a step */
    int64_t s, n_steps, cuts = (all_steps + infer__float_cut(p->f) - 1) / infer__float_cut(p->f);
    int32_t r, n, first, n_x, i;
    for (r = 0; r < p->n; r += n) {
        n = INFER__MIN(p->n - r, infer__float_tile_rows(p->f));
        for (first = 0; first < p->n_x; first += n_x) {
            n_x = INFER__MIN(p->n_x - first, INFER__FLOAT_PANEL);
            for (s = 0; s < all_steps; s += n_steps) {
                infer__float_ahead ahead;
                n_steps = (all_steps + cuts - 1) / cuts;
                n_steps = INFER__MIN((n_steps + 3) & ~3, all_steps - s);
                for (i = 0; i < n; i++)
                    p->f->decode[p->kind](p->w + (r + i) * p->sw + s * each, p->tile + i * p->stride,
                                          INFER__MIN(p->cols - s * values, n_steps * values));
                for (; i % INFER__FLOAT_ROWS; i++) /* rows that are not there */
                    memset(p->tile + i * p->stride, 0, (size_t)p->stride);
                ahead = infer__float_following(p, r, n, (s + n_steps) * each, n_steps * each,
                                               p->cols * bytes[p->kind],
                                               (i / INFER__FLOAT_ROWS) * ((n_x + p->f->cols - 1) / p->f->cols));
                infer__float_tile_cut(p, r, n, first, n_x, s, n_steps, all_steps, &ahead);
            }
        }
    }
}

/* Rows r .. r+n-1 of w times n_x columns: y[j * sy + i] = row r + i times column j, plus bias[i] (NULL: none). x: the
 * columns, sx bytes apart: rows of float32, or n_x of the n_all columns that infer__float_put made: whole groups of 16
 * before them. */
static void infer__float_tile(const infer__ctx *c, const infer__weight *w, int32_t r, int32_t n, const void *x,
                              int64_t sx, int32_t n_x, int32_t n_all, const float *bias, float *y, int64_t sy,
                              int worker) {
    infer__float_product p;
    p.f = c->floats;
    p.kind = infer__float_kind(w->type);
    p.prepared = p.kind == INFER__FLOAT_BF16;
    p.w = (const uint8_t *)w->data + (uint64_t)r * w->row_bytes;
    p.sw = (int64_t)w->row_bytes;
    p.x = (const uint8_t *)x;
    p.sx = sx;
    p.n = n;
    p.after = w->rows - r - n;
    p.n_x = n_x;
    p.n_all = n_all;
    p.cols = w->cols;
    p.y = y;
    p.sy = sy;
    p.bias = bias;
    p.tile = (uint8_t *)infer__cpu_scratch(c, worker);
    p.stride = infer__float_stride(p.f, w->cols);
    p.lanes = (float *)(void *)(p.tile + infer__float_tile_rows(p.f) * p.stride);
    INFER__ASSERT(infer__float_scratch_len(p.f, w->cols) <= c->cpu->scratch_len);
    if (infer__float_tiled_for(c, p.kind)) p.f->tiled->by[p.kind].multiply(&p);
    else if (!infer__float_few(p.f, p.kind, n_x) || !p.f->raw[p.kind][1]) infer__float_tiles(&p);
    else {
        infer__float_stream(&p);
        infer__float_add_bias(&p, 0, n, 0, n_x);
    }
}
