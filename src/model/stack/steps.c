/* steps.c: what comes before and after the layers of a stack, as parts of its first and last layer.
 *
 * Owns:  the kinds "patches", "embeddings beside" and "projector": each runs a list of steps (rows.c). t, the tensor
 *        that a step reads, is in one of three rooms of the work area; the step's result is in another one.
 * Rules: everything is an op, so that devices follow, but for steps of sound.c, conformer.c and mobile.c whose layers
 *        are on the host. Rows of patches that are merged follow each other (picture.c), so to merge them is another
 *        view of t.
 * Start: infer__walk_run.
 */
#include "../model.h"

enum { INFER__STEP_ROOMS = 3, INFER__RESAMPLE_HEAD = 128 /* values of a resampler's head */ };

static infer__steps infer__steps_in(const infer_model *m) {
    infer__steps s = { m->stack.row->input, INFER__W_STACK_IN_M0, INFER__W_STACK_IN_V0 };
    return s;
}
static infer__steps infer__steps_head(const infer_model *m) {
    infer__steps s = { m->stack.row->head, INFER__W_STACK_HEAD_M0, INFER__W_STACK_HEAD_V0 };
    return s;
}

static infer__steps infer__steps_beside(const infer_model *m) {
    infer__steps s = { m->stack.row->beside, INFER__W_STACK_BESIDE_M0, INFER__W_STACK_BESIDE_V0 };
    return s;
}

static void infer__steps_next(infer__steps *s) {
    static const struct { uint8_t kind, matrices, vectors; } takes[] = {
        { INFER__STEP_MATRIX, 1, 1 }, { INFER__STEP_FRAME, 1, 0 }, { INFER__STEP_PLACES, 1, 1 },
        { INFER__STEP_NORM, 0, 2 },   { INFER__STEP_GATED, 2, 2 }, { INFER__STEP_STD, 0, 2 },
        { INFER__STEP_BREAKS, 0, 1 }, { INFER__STEP_WRAP, 0, 2 },  { INFER__STEP_RESAMPLE, 5, 6 },
        { INFER__STEP_CONV, 1, 1 },   { INFER__STEP_CHUNKS, 3, 3 }, { INFER__STEP_SUBSAMPLE, 2, 6 },
        { INFER__STEP_RELATE, 4, 2 }, { INFER__STEP_TAPS, 1, 1 },     { INFER__STEP_STEM, 1, 2 },
        { INFER__STEP_FUSE, 2, 2 } };
    size_t i;
    for (i = 0; i < INFER__COUNT(takes); i++)
        if (takes[i].kind == s->s->kind) {
            s->matrix += takes[i].matrices;
            s->vector += takes[i].vectors;
        }
    s->s++;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static infer_result infer__flow_fits(const infer__weight *w, int64_t cols, infer_error *err) {
    if (!w->type || (w->rows == 1 ? w->cols : 0) == cols) return INFER_OK;
    return infer__error(err, INFER_ERR_FORMAT, "tensor %s has %d values, the model needs %d", w->name, (int)w->cols,
                        (int)cols);
}

/* A matrix with its bias; turned: as it is stored. */
static infer_result infer__flow_matrix(const infer__weight *w, const infer__weight *b, int turned, int64_t *cols,
                                       infer_error *err) {
    const int64_t in = turned ? w->rows : w->cols, out = turned ? w->cols : w->rows;
    if (in != *cols)
        return infer__error(err, INFER_ERR_FORMAT, "tensor %s has %d rows of %d, its input has %d values", w->name,
                            (int)w->rows, (int)w->cols, (int)*cols);
    *cols = out;
    return infer__flow_fits(b, out, err);
}

static infer_result infer__flow_shape(const infer__weight *w, int64_t rows, int64_t cols, infer_error *err) {
    if (!w->type || (w->rows == rows && w->cols == cols)) return INFER_OK;
    return infer__error(err, INFER_ERR_FORMAT, "tensor %s has %d rows of %d, the model needs %lld of %lld", w->name,
                        (int)w->rows, (int)w->cols, (long long)rows, (long long)cols);
}

static infer_result infer__flow_rows(const infer__weight *w, int64_t rows, infer_error *err) {
    return infer__error(err, INFER_ERR_FORMAT, "tensor %s has %d rows, the model needs %d", w->name, (int)w->rows,
                        (int)rows);
}

/* Queries, matrices of q, k, v, output; v: the norm of queries, and biases. */
static infer_result infer__resample_flow(const infer_model *m, const infer__weight *w, const infer__weight *v,
                                         int64_t cols, infer_error *err) {
    infer_result r;
    int64_t to = cols;
    int i;
    if (cols != m->hp.n_out) /* which its cache is made for */
        return infer__error(err, INFER_ERR_FORMAT, "key %s.projection_dim is %d, but the resampler reads %lld values",
                            infer__stack_prefix(m), (int)m->hp.n_out, (long long)cols);
    r = infer__flow_shape(w, m->stack.queries, cols, err);
    for (i = 0; i < 2 && !r; i++) r = infer__flow_fits(v + i, cols, err);
    for (i = 1; i < 5 && !r; i++) {
        r = infer__flow_matrix(w + i, v + 1 + i, 0, &to, err);
        if (!r && to != cols) r = infer__flow_rows(w + i, cols, err);
    }
    return r;
}

/* Follow the shape of t through the steps. */
static infer_result infer__steps_flow(const infer_model *m, const infer__layer *l, infer__steps s, infer__flow *f,
                                      infer_error *err) {
    infer_result r = INFER_OK;
    int64_t cols, more = 1;
    memset(f, 0, sizeof *f);
    f->share = f->times = 1;
    for (; s.s->kind && !r; infer__steps_next(&s)) {
        const infer__weight *w = &l->w[s.matrix], *v = &l->w[s.vector];
        cols = f->cols;
        if ((s.s->kind == INFER__STEP_MATRIX && !w->type) || (s.s->kind == INFER__STEP_NORM && !v->type)) {
            const infer__weight *bias = s.s->kind == INFER__STEP_NORM ? v + 1 : v;
            if (bias->type)
                r = infer__error(err, INFER_ERR_FORMAT, "tensor %s: what it belongs to is missing", bias->name);
        }
        if (s.s->kind == INFER__STEP_STD && !v->type != !v[1].type)
            r = infer__error(err, INFER_ERR_FORMAT, "tensors %s and %s: one of them is missing", s.s->name, s.s->other);
        if (r) break;
        switch (s.s->kind) {
        case INFER__STEP_PATCHES: f->cols = 3 * (int64_t)m->stack.patch * m->stack.patch; break;
        case INFER__STEP_MATRIX:
            if (w->type)
                r = infer__flow_matrix(w, v, s.s->flags & INFER__STEP_TRANSPOSED && w->tensor, &f->cols, err);
            break;
        case INFER__STEP_FRAME:
            cols = 3 * (int64_t)m->stack.patch * m->stack.patch;
            if (w->type) r = infer__flow_matrix(w, v, 0, &cols, err);
            if (!r && cols != f->cols) r = infer__flow_rows(w, f->cols, err);
            break;
        case INFER__STEP_GATED:
            r = infer__flow_matrix(w, v, 0, &f->cols, err);
            if (!r) r = infer__flow_matrix(w + 1, v + 1, 0, &cols, err);
            if (!r && cols != f->cols) r = infer__flow_rows(w + 1, f->cols, err);
            break;
        case INFER__STEP_NORM:
            r = infer__flow_fits(v, cols, err);
            if (!r) r = infer__flow_fits(v + 1, cols, err);
            break;
        case INFER__STEP_STREAM: f->cols = m->hp.n_embd; break;
        case INFER__STEP_MERGE:
            f->cols *= m->stack.merged;
            f->share *= m->stack.merged;
            if (s.s->flags & INFER__STEP_FILLED) more = 3;
            break;
        case INFER__STEP_POOL: f->share *= m->stack.pooled; break;
        case INFER__STEP_FRAMES:
            f->cols = m->stack.bins;
            f->times = more = 2;
            break;
        case INFER__STEP_CONV:
            f->cols *= 3;
            f->widest = INFER__MAX(f->widest, f->cols);
            r = infer__flow_matrix(w, v, 0, &f->cols, err);
            f->times /= s.s->of;
            break;
        case INFER__STEP_CHUNKS: r = infer__chunks_flow(m, w, v, f, err); break;
        case INFER__STEP_SUBSAMPLE: case INFER__STEP_RELATE: case INFER__STEP_TAPS: case INFER__STEP_ADD:
            r = infer__conformer_flow(m, l, s, f, err);
            break;
        case INFER__STEP_STEM: case INFER__STEP_FUSE: r = infer__blocks_flow(m, s.s, w, v, f, err); break;
        case INFER__STEP_GLU:
            f->cols /= 2;
            if (cols % 2) r = infer__error(err, INFER_ERR_FORMAT, "%d values are no two halves", (int)cols);
            break;
        case INFER__STEP_RESAMPLE: r = infer__resample_flow(m, w, v, cols, err); break;
        case INFER__STEP_KEPT: f->cols *= INFER__MAX(m->stack.n_features, 1); break;
        case INFER__STEP_JOIN: f->cols *= 1 + m->stack.n_beside; break;
        case INFER__STEP_STD: case INFER__STEP_WRAP: r = infer__flow_fits(v + 1, cols, err); /* fall through */
        case INFER__STEP_BREAKS:
            if (!r) r = infer__flow_fits(v, cols, err);
            more = v->type ? 3 : 1; /* rows: as many once more, or two */
            break;
        default: break;
        }
        f->widest = INFER__MAX(f->widest, f->cols);
        f->room = INFER__MAX(f->room, ((f->times + more - 1) * f->cols + f->share - 1) / f->share);
        if (!r && f->cols > INFER__MAX_DIM)
            r = infer__error(err, INFER_ERR_FORMAT, "rows of %lld values", (long long)f->cols);
    }
    return r;
}

/* w's values in another order, in the arena: numbers as they are, blocks as float32. TRANSPOSED, or with columns
 * [value][patch] as [patch][value]. */
static infer_result infer__weight_turn(infer_model *m, infer__weight *w, int transposed, int32_t patches,
                                       infer_error *err) {
    const int plain = w->type->values == 1 && (w->type->bytes == 2 || w->type->bytes == 4);
    const size_t size = plain ? (size_t)w->type->bytes : sizeof(float);
    const int32_t rows = w->rows, cols = w->cols;
    const char *removed;
    uint8_t *to = NULL;
    float *row = NULL;
    int64_t i, j, at;
    if (w->data) {
        to = (uint8_t *)infer__arena_alloc(&m->arena, (uint64_t)rows * (uint64_t)cols * size);
        if (to && !plain) row = (float *)infer__alloc(&m->mem, (uint64_t)cols * sizeof *row);
        if (!to || (!plain && !row)) return infer__error(err, INFER_ERR_MEMORY, "no memory for %s", w->name);
    }
    for (i = 0; to && i < rows; i++) {
        const uint8_t *from = (const uint8_t *)w->data + (uint64_t)i * w->row_bytes;
        if (!plain) w->type->decode(from, row, cols);
        if (!plain) from = (const uint8_t *)row;
        for (j = 0; j < cols; j++) {
            at = transposed ? j * rows + i : i * cols + j % patches * (cols / patches) + j / patches;
            memcpy(to + (size_t)at * size, from + (size_t)j * size, size);
        }
    }
    infer__free(&m->mem, row);
    if (!plain) w->type = infer__quant_find(0, &removed); /* F32 */
    w->data = to;
    w->rows = transposed ? cols : rows;
    w->cols = transposed ? rows : cols;
    w->row_bytes = (uint64_t)w->cols * size;
    w->tensor = 0;
    return INFER_OK;
}

static infer_result infer__weight_inverse(infer_model *m, infer__weight *w, infer_error *err) {
    const char *removed;
    float *to;
    int32_t i;
    if (!w->data) return INFER_OK;
    to = (float *)infer__arena_alloc(&m->arena, (uint64_t)w->cols * sizeof *to);
    if (!to) return infer__error(err, INFER_ERR_MEMORY, "no memory for %s", w->name);
    w->type->decode(w->data, to, w->cols);
    for (i = 0; i < w->cols; i++) to[i] = fabsf(to[i]) > 1e-30f ? 1 / to[i] : 1e30f;
    w->type = infer__quant_find(0, &removed); /* F32 */
    w->data = to;
    w->row_bytes = (uint64_t)w->cols * sizeof *to;
    w->tensor = 0;
    return INFER_OK;
}

/* A table that the host reads, as float32. */
static infer_result infer__weight_keep(infer_model *m, infer__weight *w, const float **out, infer_error *err) {
    const uint64_t n = (uint64_t)w->rows * (uint64_t)w->cols;
    float *to;
    int32_t i;
    *out = NULL;
    if (!w->type || !w->data) return INFER_OK;
    to = (float *)infer__arena_alloc(&m->arena, n * sizeof *to);
    if (!to) return infer__error(err, INFER_ERR_MEMORY, "no memory for %s", w->name);
    for (i = 0; i < w->rows; i++)
        w->type->decode((const uint8_t *)w->data + (uint64_t)i * w->row_bytes, to + (int64_t)i * w->cols, w->cols);
    *out = to;
    memset(w, 0, sizeof *w);
    return INFER_OK;
}

/* The shape of the table of positions. */
static infer_result infer__steps_table(infer_model *m, const infer__weight *w, infer_error *err) {
    infer__stack *s = &m->stack;
    const infer__gguf_tensor *t = w->type ? infer__gguf_tensor_find(&m->gguf, w->name) : NULL;
    if (!t) return INFER_OK;
    s->wide = w->rows;
    s->high = 1;
    if (s->row->places == INFER__PLACES_LEARNED || s->row->places >= INFER__PLACES_FRAMES) return INFER_OK;
    if (t->n_dims == 3) {
        s->wide = (int32_t)t->dims[1];
        s->high = (int32_t)t->dims[2];
        if ((int64_t)s->wide * s->high == w->rows && (s->row->places != INFER__PLACES_SUMS || s->high == 2))
            return INFER_OK;
        return infer__error(err, INFER_ERR_FORMAT, "tensor %s: it has %d rows of %d places", w->name, (int)s->high,
                            (int)s->wide);
    }
    s->wide = s->high = (int32_t)(sqrt((double)w->rows) + 0.5);
    if (s->row->places == INFER__PLACES_SUMS || (int64_t)s->wide * s->high != w->rows)
        return infer__error(err, INFER_ERR_FORMAT, "tensor %s: its %d rows are no %s", w->name, (int)w->rows,
                            s->row->places == INFER__PLACES_SUMS ? "two tables" : "square");
    return INFER_OK;
}

static infer_result infer__steps_split(infer_model *m, infer__layer *l, infer__steps s, infer_error *err) {
    infer_result r = INFER_OK;
    for (; s.s->kind && !r; infer__steps_next(&s)) {
        infer__weight *w = &l->w[s.matrix], *v = &l->w[s.vector];
        const int turned = s.s->flags & INFER__STEP_TRANSPOSED;
        switch (s.s->kind) {
        case INFER__STEP_MATRIX:
            if (w->type && w->tensor && (turned || s.s->flags & INFER__STEP_UNFOLDED))
                r = infer__weight_turn(m, w, turned, m->stack.merged, err);
            break;
        case INFER__STEP_CONV: r = infer__weight_turn(m, w, 0, 3, err); break;
        case INFER__STEP_CHUNKS:
            r = infer__weight_turn(m, w + 1, 0, 9, err);
            if (!r) r = infer__weight_turn(m, w + 2, 0, 9, err);
            break;
        case INFER__STEP_SUBSAMPLE: case INFER__STEP_RELATE: case INFER__STEP_TAPS:
            r = infer__conformer_split(m, s.s->kind, w, err);
            break;
        case INFER__STEP_STEM: r = infer__weight_turn(m, w, 0, 9, err); break;
        case INFER__STEP_RESAMPLE: r = infer__weight_keep(m, w, &m->stack.query, err); break;
        case INFER__STEP_PLACES:
            r = infer__steps_table(m, w, err);
            if (!r) r = infer__weight_keep(m, w, &m->stack.table, err);
            if (!r) r = infer__weight_keep(m, v, &m->stack.vectors[0], err);
            break;
        case INFER__STEP_STD: case INFER__STEP_WRAP:
            r = infer__weight_keep(m, v + 1, &m->stack.vectors[2], err); /* fall through */
        case INFER__STEP_BREAKS:
            if (!r) r = infer__weight_keep(m, v, &m->stack.vectors[1], err);
            break;
        default: break;
        }
    }
    return r;
}

/* ---- a pass ------------------------------------------------------------------------------------------------------ */

static int64_t infer__steps_room(const infer_model *m, const infer__layer *l, infer__steps s) {
    infer_error e;
    infer__flow f;
    infer__steps_flow(m, l, s, &f, &e);
    return f.room;
}
static void infer__steps_needs(const infer_model *m, const infer__layer *l, infer__steps s, infer__needs *n) {
    infer_error e;
    infer__flow f;
    infer__steps_flow(m, l, s, &f, &e);
    infer__need_cols(n, (int32_t)f.widest);
    if (s.s->kind == INFER__STEP_CHUNKS || s.s->kind == INFER__STEP_SUBSAMPLE)
        n->rows = INFER__MAX(n->rows, INFER__CHUNK_PIECE);
    if (m->stack.queries && s.s == m->stack.row->head)
        infer__need_attention(n, m->hp.n_out / INFER__RESAMPLE_HEAD, INFER__RESAMPLE_HEAD, INFER__RESAMPLE_HEAD);
}
/* A tensor in the next room. */
static infer__tensor infer__walk_room(const infer__walk *w, int32_t ahead, int32_t rows, int64_t cols) {
    const int32_t room = (w->at + ahead) % INFER__STEP_ROOMS;
    return infer__view(&w->c->at->work, (uint64_t)w->rows * (uint64_t)w->room * (uint64_t)room, rows, (int32_t)cols);
}

/* It is t. */
static void infer__walk_to(infer__walk *w, infer__tensor y, int32_t ahead) {
    w->t = y;
    w->at = (w->at + ahead) % INFER__STEP_ROOMS;
}

static void infer__rows_upload(infer_context *c, const infer__tensor *y, const void *from) {
    INFER__ASSERT(y->stride == y->cols || y->rows == 1);
    infer__ops_of(&c->ctx)->upload(&c->ctx, y->buf, y->offset, from,
                                   (uint64_t)y->rows * (uint64_t)y->cols * sizeof(float));
}

/* The host's rows: where layers run on the CPU, as they are. */
static infer__tensor infer__walk_host(infer__walk *w, const infer__buf *from, int32_t ahead, int32_t rows,
                                      int32_t cols) {
    infer__tensor y = infer__walk_room(w, ahead, rows, cols);
    if (w->c->at->x.host) return infer__view((infer__buf *)(uintptr_t)from, 0, rows, cols);
    infer__rows_upload(w->c, &y, from->host);
    return y;
}

static void infer__step_norm(infer__walk *w, const infer__step *s, const infer__weight *v) {
    const infer__tensor y = infer__walk_room(w, 1, w->t.rows, w->t.cols);
    infer__norm_args a = infer__norm_of(w->c, v, &w->t, &y);
    if (!v->type && s->flags & INFER__STEP_MAY && !(s->flags & INFER__STEP_BARE)) return;
    if (s->of != INFER__STEP_OWN) a.kind = s->of;
    if (s->eps > 0) a.eps = s->eps;
    infer__ops_of(&w->c->ctx)->norm(&w->c->ctx, &a);
    infer__walk_to(w, y, 1);
}

/* The mean of columns side by side. */
static void infer__step_pool(infer__walk *w) {
    const int32_t n = w->c->model->stack.pooled, cols = w->t.cols;
    infer__tensor all = w->t, y = infer__walk_room(w, 1, w->t.rows / n, cols), part;
    int32_t i;
    all.rows /= n;
    all.cols = all.stride = n * cols;
    for (i = 0; i < n; i++) {
        part = infer__columns(&all, i * cols, cols);
        if (i == 0) infer__copy_rows(w->c, &part, &y);
        else infer__add_to(w->c, &part, &y);
    }
    infer__scale_rows(w->c, 1.0f / (float)n, &y);
    infer__walk_to(w, y, 1);
}

/* What layers keep: rows of all that is kept, side by side. */
static infer__tensor infer__walk_kept(const infer__walk *w, int32_t rows, int32_t cols) {
    const infer__stack *s = &w->c->model->stack;
    const int32_t n = s->n_features ? s->n_features : s->n_beside;
    return infer__pass_kept(w->c, w->rows, s->list, rows, n * cols);
}

/* The number of a part among those that keep something. */
static int32_t infer__walk_index(const infer__walk *w, const infer__part *part) {
    const infer_model *m = w->c->model;
    int32_t i, k, n = 0;
    for (i = 0; i <= w->l->index; i++)
        for (k = 0; k < m->layers[i].n_parts && &m->layers[i].parts[k] != part; k++)
            n += m->layers[i].parts[k].kind == &INFER__KIND_STACK_BESIDE;
    return n;
}

static void infer__step_keep(infer__walk *w, int32_t index) {
    infer__tensor all = infer__walk_kept(w, w->t.rows, w->t.cols),
                  y = infer__columns(&all, index * w->t.cols, w->t.cols);
    infer__copy_rows(w->c, &w->t, &y);
}

static void infer__step_join(infer__walk *w) {
    const int32_t n = w->c->model->stack.n_beside, cols = w->t.cols;
    infer__tensor y, part, kept;
    if (!n) return;
    y = infer__walk_room(w, 1, w->t.rows, (1 + n) * (int64_t)cols);
    part = infer__columns(&y, 0, cols);
    infer__copy_rows(w->c, &w->t, &part);
    kept = infer__walk_kept(w, w->t.rows, cols);
    part = infer__columns(&y, cols, n * cols);
    infer__copy_rows(w->c, &kept, &part);
    infer__walk_to(w, y, 1);
}

/* One row of y from the host. */
static void infer__walk_row(infer__walk *w, const infer__tensor *y, int32_t row, const float *from) {
    const infer__tensor to = infer__some_rows(y, row, 1);
    infer__rows_upload(w->c, &to, from);
}

/* Rows of the grid, with a row before all, or between them. */
static void infer__step_breaks(infer__walk *w, int breaks) {
    const infer__stack *s = &w->c->model->stack;
    const int32_t lines = breaks ? w->c->picture->ny / s->merge : 1, n = w->t.rows / lines;
    infer__tensor y, from, to;
    int32_t i;
    if (!s->vectors[1]) return;
    y = infer__walk_room(w, 1, breaks ? w->t.rows + lines - 1 : w->t.rows + 2, w->t.cols);
    for (i = 0; i < lines; i++) {
        from = infer__some_rows(&w->t, i * n, n);
        to = infer__some_rows(&y, breaks ? i * (n + 1) : 1, n);
        infer__copy_rows(w->c, &from, &to);
        if (breaks && i < lines - 1) infer__walk_row(w, &y, i * (n + 1) + n, s->vectors[1]);
    }
    if (!breaks) infer__walk_row(w, &y, 0, s->vectors[1]);
    if (!breaks) infer__walk_row(w, &y, y.rows - 1, s->vectors[2]);
    infer__walk_to(w, y, 1);
}

/* All rows of y are this one: uploaded once, then copied, twice as many each time. */
static void infer__walk_repeat(infer__walk *w, const infer__tensor *y, const float *from) {
    infer__tensor x, to;
    int32_t n;
    infer__walk_row(w, y, 0, from);
    for (n = 1; n < y->rows; n *= 2) {
        x = infer__some_rows(y, 0, INFER__MIN(n, y->rows - n));
        to = infer__some_rows(y, n, x.rows);
        infer__copy_rows(w->c, &x, &to);
    }
}

/* t = (t - the one vector) * the other. */
static void infer__step_std(infer__walk *w) {
    const infer__stack *s = &w->c->model->stack;
    infer__tensor y = infer__walk_room(w, 1, w->t.rows, w->t.cols);
    infer__add_args less;
    infer__act_args times;
    int32_t k;
    if (!s->vectors[1]) return;
    memset(&less, 0, sizeof less);
    memset(&times, 0, sizeof times);
    less.x = times.up = y;
    less.y = times.x = times.y = w->t;
    less.scale = -1;
    times.kind = INFER__ACT_LINEAR;
    for (k = 1; k < 3; k++) {
        infer__walk_repeat(w, &y, s->vectors[k]);
        if (k == 1) infer__ops_of(&w->c->ctx)->add(&w->c->ctx, &less);
        else infer__ops_of(&w->c->ctx)->act(&w->c->ctx, &times);
    }
}

static void infer__step_places(infer__walk *w) {
    const infer__picture *p = w->c->picture;
    infer__tensor y = infer__walk_room(w, 1, p->rows, w->t.cols), to = y;
    if (!p->places.host) return;
    infer__rows_upload(w->c, &y, p->places.host);
    to.rows = w->t.rows;
    infer__add_to(w->c, &w->t, &to);
    infer__walk_to(w, y, 1);
}

static void infer__step_matrix(infer__walk *w, const infer__weight *m, const infer__weight *b) {
    infer__tensor y;
    if (!m->type) return; /* checked: it may be missing */
    y = infer__walk_room(w, 1, w->t.rows, m->rows);
    infer__product(w->c, &w->t, m, infer__opt(b), &y);
    infer__walk_to(w, y, 1);
}

static void infer__step_gated(infer__walk *w, const infer__step *s, const infer__weight *m, const infer__weight *b) {
    infer__tensor gate = infer__walk_room(w, 1, w->t.rows, m->rows), y = infer__walk_room(w, 2, w->t.rows, m->rows);
    infer__product(w->c, &w->t, m, infer__opt(b), &gate);
    infer__product(w->c, &w->t, m + 1, infer__opt(b + 1), &y);
    infer__gate(w->c, s->of == INFER__STEP_OWN ? w->c->model->hp.act : s->of, &gate, &y);
    infer__walk_to(w, y, 2);
}

/* ---- the resampler of MiniCPM-V (arXiv 2408.01800) --------------------------------------------------------------- */

/* Queries x attend to the rows t, whose keys have their places added; a row of the pass is only a place in its arrays
 * for a query. m: queries (kept), matrices of q, k, v, output; v: norm of queries, and biases. */
static void infer__step_resample(infer__walk *w, const infer__weight *m, const infer__weight *v,
                                 const infer__part *part) {
    infer_context *c = w->c;
    const infer__picture *p = c->picture;
    const int32_t cols = w->t.cols, n = w->t.rows, all = c->model->stack.queries;
    infer__kv_buf *keys = &c->cache.bufs[part->state[0]], *values = &c->cache.bufs[part->state[1]];
    infer__tensor y = infer__walk_room(w, 1, n, cols), z = infer__walk_room(w, 2, n, cols);
    infer__kv_store_args store;
    infer__attention_args at;
    infer__norm_args norm;
    int32_t i;
    infer__rows_upload(c, &y, p->grid.host);
    infer__add_to(c, &w->t, &y);
    infer__product(c, &y, m + 2, v + 3, &z);
    infer__product(c, &w->t, m + 3, v + 4, &y);
    memset(&store, 0, sizeof store);
    store.k = z;
    store.v = y;
    store.k_cache = keys;
    store.v_cache = values;
    store.group = INFER__GROUP_FULL;
    store.n_head = cols / INFER__RESAMPLE_HEAD;
    store.dim_k = store.dim_v = INFER__RESAMPLE_HEAD;
    infer__kv_store(&c->ctx, &store);
    y = infer__walk_room(w, 1, all, cols);
    z = infer__walk_room(w, 2, all, cols);
    infer__rows_upload(c, &y, c->model->stack.query);
    norm = infer__norm_of(c, v, &y, &y);
    norm.kind = INFER__NORM_LAYER;
    infer__ops_of(&c->ctx)->norm(&c->ctx, &norm);
    infer__product(c, &y, m + 1, v + 2, &z);
    memset(&at, 0, sizeof at);
    at.k_cache = keys;
    at.v_cache = values;
    at.group = INFER__GROUP_FULL;
    at.n_head = at.n_head_kv = store.n_head;
    at.dim_k = at.dim_v = INFER__RESAMPLE_HEAD;
    at.scale = 1.0f / sqrtf((float)INFER__RESAMPLE_HEAD);
    for (i = 0; i < all; i += n) { /* no more queries at once than the pass has rows */
        at.q = infer__some_rows(&z, i, INFER__MIN(n, all - i));
        at.y = infer__some_rows(&y, i, INFER__MIN(n, all - i));
        infer__ops_of(&c->ctx)->attention(&c->ctx, &at);
    }
    infer__product(c, &y, m + 4, v + 5, &z);
    infer__walk_to(w, z, 2);
}

static void infer__resample_keys(infer__keys *k, infer__hparams *hp) {
    uint32_t version = 0, n = 0;
    if (infer__gguf_u32(k->g, "clip.minicpmv_version", &version, k->err) < 0 ||
        infer__gguf_u32(k->g, "clip.minicpmv_query_num", &n, k->err) < 0)
        k->failed = 1;
    if (n == 0) n = version > 2 ? 64 : 96;
    k->m->stack.queries = (int32_t)INFER__MIN(n, 1 << 16);
    if (!k->failed && hp->n_out % INFER__RESAMPLE_HEAD) infer__key_misfit(k, "projection_dim", "not a multiple of 128");
}

static void infer__steps_state_head(infer_model *m, infer__layer *l, infer__part *p) {
    if (!m->stack.queries) return;
    p->state[0] = infer__state_add(m, l, INFER__STATE_KEYS, INFER__GROUP_FULL, m->hp.n_out / INFER__RESAMPLE_HEAD,
                                   INFER__RESAMPLE_HEAD);
    p->state[1] = infer__state_add(m, l, INFER__STATE_VALUES, INFER__GROUP_FULL, m->hp.n_out / INFER__RESAMPLE_HEAD,
                                   INFER__RESAMPLE_HEAD);
}

static void infer__step_run(infer__walk *w, const infer__steps *s, const infer__part *part) {
    infer_context *c = w->c;
    const infer__picture *p = c->picture;
    const infer__weight *m = &w->l->w[s->matrix], *v = &w->l->w[s->vector];
    const int32_t n = c->model->stack.merged, pixels = 3 * c->model->stack.patch * c->model->stack.patch;
    infer__tensor y, z;
    switch (s->s->kind) {
    case INFER__STEP_PATCHES: infer__walk_to(w, infer__walk_host(w, &p->pixels[0], 1, p->patches, pixels), 1); break;
    case INFER__STEP_MATRIX: infer__step_matrix(w, m, v); break;
    case INFER__STEP_FRAME:
        if (!m->type) break;
        y = infer__walk_host(w, &p->pixels[p->pixels[1].host != NULL], 1, p->patches, pixels);
        z = infer__walk_room(w, 2, w->t.rows, w->t.cols);
        infer__product(c, &y, m, NULL, &z);
        infer__add_to(c, &w->t, &z);
        infer__walk_to(w, z, 2);
        break;
    case INFER__STEP_PLACES: infer__step_places(w); break;
    case INFER__STEP_NORM: infer__step_norm(w, s->s, v); break;
    case INFER__STEP_ACT:
        infer__act_rows(c, s->s->of == INFER__STEP_OWN ? c->model->hp.act : s->s->of, &w->t, &w->t);
        break;
    case INFER__STEP_GATED: infer__step_gated(w, s->s, m, v); break;
    case INFER__STEP_STREAM: w->t = w->x; break;
    case INFER__STEP_DROP: w->t.rows = p->patches; break;
    case INFER__STEP_MERGE:
        if (s->s->flags & INFER__STEP_FILLED) infer__step_fill(w, p->tokens * n);
        w->t.rows /= n;
        w->t.cols = w->t.stride = n * w->t.cols;
        break;
    case INFER__STEP_POOL: infer__step_pool(w); break;
    case INFER__STEP_KEEP: infer__step_keep(w, infer__walk_index(w, part)); break;
    case INFER__STEP_KEPT:
        if (c->model->stack.n_features < 2) break;
        infer__step_keep(w, c->model->stack.n_features - 1);
        w->t = infer__walk_kept(w, w->t.rows, w->t.cols);
        break;
    case INFER__STEP_JOIN: infer__step_join(w); break;
    case INFER__STEP_SCALE: infer__scale_rows(c, sqrtf((float)c->model->hp.n_embd), &w->t); break;
    case INFER__STEP_STD: infer__step_std(w); break;
    case INFER__STEP_BREAKS: infer__step_breaks(w, 1); break;
    case INFER__STEP_WRAP: infer__step_breaks(w, 0); break;
    case INFER__STEP_RESAMPLE: infer__step_resample(w, m, v, part); break;
    case INFER__STEP_FRAMES: infer__step_frames(w); break;
    case INFER__STEP_CONV: infer__step_conv(w, s->s, m, v); break;
    case INFER__STEP_CHUNKS: infer__step_chunks(w, s->s, m, v); break;
    case INFER__STEP_GLU: infer__step_glu(w, s->s); break;
    case INFER__STEP_SUBSAMPLE: infer__step_subsample(w, m, v); break;
    case INFER__STEP_RELATE: infer__step_relate(w, m, v); break;
    case INFER__STEP_TAPS: infer__step_taps(w, m, v); break;
    case INFER__STEP_ADD: infer__add_scaled(c, &w->t, (float)s->s->of / 2, &w->x); break;
    case INFER__STEP_STEM: infer__step_stem(w, m, v); break;
    case INFER__STEP_FUSE: infer__step_fuse(w, m, v); break;
    default: break;
    }
}

static const char *infer__step_text(const infer__step *s) {
    static const char *const names[INFER__STEPS] = {"",           "patches",
                                                    "matrix",     "frame",
                                                    "positions",  "norm",
                                                    "act",        "gated",
                                                    "stream",     "drop",
                                                    "merge",      "pool",
                                                    "keep",       "kept",
                                                    "join",       "scale",
                                                    "std",        "breaks",
                                                    "wrap",       "resample",
                                                    "frames",     "convolution",
                                                    "chunks",     "halves",
                                                    "subsampled", "relative attention",
                                                    "taps",       "added",
                                                    "stem",       "fusion"};
    return names[s->kind];
}

static infer__tensor infer__walk_run(infer_context *c, const infer__layer *l, infer__steps s,
                                     const infer__sublayer *sub) {
    const infer__tensor *x = &sub->x;
    infer__walk w;
    memset(&w, 0, sizeof w);
    w.c = c;
    w.l = l;
    w.x = *x;
    w.rows = INFER__MAX(x->rows, c->model->stack.queries);
    w.room = infer__steps_room(c->model, l, s);
    for (; s.s->kind && infer__ok(&c->ctx); infer__steps_next(&s)) {
        infer__step_run(&w, &s, sub->part);
        infer__trace(c, l->index, infer__step_text(s.s), &w.t);
    }
    return w.t;
}

/* ---- as text ----------------------------------------------------------------------------------------------------- */

static void infer__steps_describe(infer__text_out *o, const infer__layer *l, infer__steps s) {
    for (; s.s->kind; infer__steps_next(&s)) {
        const infer__weight *w = &l->w[s.matrix];
        infer__text_add(o, "    %s", infer__step_text(s.s));
        if (s.s->name) infer__text_add(o, " %s", s.s->name);
        if (s.s->kind == INFER__STEP_MATRIX && w->type)
            infer__text_add(o, "  # %d x %d %s", (int)w->rows, (int)w->cols, w->type->name);
        infer__text_add(o, "\n");
    }
}

static const char *infer__steps_lacks(const infer__ops *ops, const infer__layer *l) {
    (void)ops;
    return l->on_host ? "steps of a projector that are no ops" : NULL;
}

/* ---- the kinds --------------------------------------------------------------------------------------------------- */

static infer_result infer__steps_ends(const infer_model *m, infer__steps s, const infer__flow *f, infer_error *err) {
    const int in = s.matrix == INFER__W_STACK_IN_M0;
    if (f->cols ==
        (in || (s.s == m->stack.row->beside && (m->stack.n_features || m->stack.row->flags & INFER__STACK_OWN))
             ? m->hp.n_embd
         : s.s == m->stack.row->beside ? m->hp.n_out
                                       : infer__stack_width(m)))
        return INFER_OK;
    return in ? infer__error(err, INFER_ERR_FORMAT, "the patches' embeddings are %d values, the layers need %d",
                             (int)f->cols, (int)m->hp.n_embd)
              : infer__error(err, INFER_ERR_FORMAT, "key %s.projection_dim is %d, but the projector gives %d values",
                             infer__stack_prefix(m), (int)m->hp.n_out, (int)f->cols);
}

static void infer__steps_end_in(infer_context *c, infer__tensor *t, infer__tensor *x) {
    const infer__picture *p = c->picture;
    infer__copy_rows(c, t, x);
    if (p->lists.host) {
        const infer__tensor y = infer__pass_kept(c, x->rows, 0, x->rows, c->model->stack.list);
        infer__rows_upload(c, &y, p->lists.host);
    }
}

static void infer__steps_end_head(infer_context *c, infer__tensor *t, infer__tensor *x) {
    (void)x;
    INFER__ASSERT(t->rows == c->picture->tokens && t->cols == infer__stack_width(c->model) && t->stride == t->cols);
    infer__ops_of(&c->ctx)->download(&c->ctx, t->buf, t->offset, c->picture->out,
                                     (uint64_t)t->rows * (uint64_t)t->cols * sizeof(float));
}

static void infer__steps_end_beside(infer_context *c, infer__tensor *t, infer__tensor *x) {
    if (c->model->stack.row->flags & INFER__STACK_OWN) infer__copy_rows(c, t, x);
}

/* The functions of a kind, for its list of steps. */
#define INFER__STEPS_FUNCTIONS(which)                                                                                  \
    static infer_result infer__steps_check_##which(const infer_model *m, infer__layer *l, infer_error *err) {          \
        const infer__steps s = infer__steps_##which(m);                                                                \
        infer__flow f;                                                                                                 \
        const infer_result r = infer__steps_flow(m, l, s, &f, err);                                                    \
        return r ? r : infer__steps_ends(m, s, &f, err);                                                               \
    }                                                                                                                  \
    static infer_result infer__steps_split_##which(infer_model *m, infer__layer *l, infer_error *err) {                \
        return infer__steps_split(m, l, infer__steps_##which(m), err);                                                 \
    }                                                                                                                  \
    static int64_t infer__steps_cols_##which(const infer_model *m, const infer__layer *l) {                            \
        return INFER__STEP_ROOMS * infer__steps_room(m, l, infer__steps_##which(m));                                   \
    }                                                                                                                  \
    static void infer__steps_needs_##which(const infer_model *m, const infer__layer *l, infer__needs *n) {             \
        infer__steps_needs(m, l, infer__steps_##which(m), n);                                                          \
    }                                                                                                                  \
    static void infer__steps_run_##which(infer_context *c, const infer__layer *l, infer__sublayer *s) {                \
        infer__tensor t = infer__walk_run(c, l, infer__steps_##which(c->model), s);                                   \
        if (infer__ok(&c->ctx)) infer__steps_end_##which(c, &t, &s->x);                                                \
    }                                                                                                                  \
    static void infer__steps_describe_##which(infer__text_out *o, const infer_model *m, const infer__layer *l,         \
                                              const char *in) {                                                        \
        (void)in;                                                                                                      \
        infer__steps_describe(o, l, infer__steps_##which(m));                                                          \
    }
INFER__STEPS_FUNCTIONS(in)
INFER__STEPS_FUNCTIONS(beside)
INFER__STEPS_FUNCTIONS(head)
#undef INFER__STEPS_FUNCTIONS
