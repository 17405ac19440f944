/* mobile.c: Gemma 3n's encoder of pictures, MobileNet V5: blocks of convolutions, each a layer of the stack.
 *
 * How:   what goes from block to block is no stream: positions get fewer, and wider. So it is a plane in scratch of the
 *        host (infer__picture.grid), such an encoder is on the CPU, and the stream is zeros until the first step of the
 *        head. Kernels of 1 x 1 are products with all positions, larger ones with what they read at each, a piece at a
 *        time; kernels of one column each are no products. In attention all heads share their keys and values: so
 *        scores and sums are products, too, with the heads of positions as rows.
 * Facts: MobileNet V4 is arXiv 2404.10518; V5 has no paper: timm's published code, whose weights these are, and what
 *        tools/mtmd of llama.cpp does. Norms are RMS norms of a position's values.
 * Start: infer__mobile_convs_run, infer__mobile_queries_run; infer__step_stem, infer__step_fuse.
 */
#include "../model.h"

enum {
    INFER__MOBILE_PIECE = 576, /* positions of a product: those of 24 x 24, of which a picture of 768 has multiples */
    INFER__MOBILE_SIDE = 16,   /* of the embeddings, at most: more are averaged */
    INFER__MOBILE_IMAGE = 4096,
    INFER__MOBILE_SIDES = 7    /* of a kernel at most */
};

/* ---- opening ----------------------------------------------------------------------------------------------------- */

/* The convolutions of a block, of which it has some, in order. depth: a kernel for each column; halves: in the first
 * block of a stage it reads every second position; ends: it gives the block's result; most: sides of its kernel. */
typedef struct infer__mobile_conv { int16_t slot; uint8_t depth, act, halves, ends, most; } infer__mobile_conv;
static const infer__mobile_conv INFER__MOBILE_CONVS[] = {
    { INFER__W_EDGE_EXP, 0, 1, 1, 0, INFER__MOBILE_SIDES }, { INFER__W_EDGE_PROJ, 0, 0, 0, 1, 1 },
    { INFER__W_DW_START, 1, 0, 0, 0, INFER__MOBILE_SIDES }, { INFER__W_PW_EXP, 0, 1, 0, 0, 1 },
    { INFER__W_DW_MID, 1, 1, 1, 0, INFER__MOBILE_SIDES },   { INFER__W_PW_PROJ, 0, 0, 0, 1, 1 } };

INFER__INLINE int32_t infer__mobile_root(int64_t n) { return (int32_t)(sqrt((double)n) + 0.5); }
INFER__INLINE int32_t infer__mobile_pad(int32_t cols) {
    return (cols + INFER__LANES - 1) / INFER__LANES * INFER__LANES;
}

static int infer__mobile_has(const infer_model *m, int32_t stage, int32_t block, const char *part) {
    char name[64];
    infer__format(name, sizeof name, "v.blk.%d.%d.%s.weight", (int)stage, (int)block, part);
    return infer__gguf_tensor_find(&m->gguf, name) != NULL;
}

/* Blocks are those that the file has tensors of: its block_count is of something else. */
static void infer__mobile_keys(infer__keys *k, infer__hparams *hp) {
    static const char *const parts[] = { "conv_exp", "attn.query.proj", "pw_exp.conv", "dw_start.conv" };
    infer__stack *s = &k->m->stack;
    int32_t stage, n, i, side = s->image;
    if (k->failed) return;
    hp->n_layer = hp->n_block = 0;
    for (stage = 0; stage < INFER__BLOCK_STAGES; stage++) {
        for (n = 0;; n++) {
            for (i = 0; i < 4 && !infer__mobile_has(k->m, stage, n, parts[i]); i++) {}
            if (i == 4 || hp->n_layer == INFER__MAX_LAYERS) break;
            hp->n_layer++;
        }
        s->ends[stage] = hp->n_layer;
        if (n > 0) continue;
        k->failed = 1;
        infer__error(k->err, INFER_ERR_FORMAT, "the file has no block v.blk.%d.0", (int)stage);
        return;
    }
    for (i = 0; i < INFER__BLOCK_STAGES; i++) side = infer__half(side);
    if (s->image > INFER__MOBILE_IMAGE || (side > INFER__MOBILE_SIDE && side % INFER__MOBILE_SIDE))
        infer__key_misfit(k, "image_size", "a multiple of 256 up to 4096, or up to 256");
}

static void infer__mobile_parts(infer_model *m, infer__layer *l) {
    const infer__stack *s = &m->stack;
    for (l->block = 0; l->index >= s->ends[l->block]; l->block++) {}
    l->sub = l->index - (l->block ? s->ends[l->block - 1] : 0);
    infer__stack_part(m, l, infer__mobile_has(m, l->block, l->sub, "conv_exp")          ? &INFER__KIND_MOBILE_EDGE
                            : infer__mobile_has(m, l->block, l->sub, "attn.query.proj") ? &INFER__KIND_MOBILE_QUERIES
                                                                                        : &INFER__KIND_MOBILE_INVERTED);
}

/* Sides of what layer l reads and gives; columns of what is left after n layers. */
static int32_t infer__mobile_side(const infer_model *m, int32_t halvings) {
    int32_t side = m->stack.image;
    for (; halvings > 0; halvings--) side = infer__half(side);
    return side;
}
static int32_t infer__mobile_in(const infer_model *m, const infer__layer *l) {
    return infer__mobile_side(m, 1 + l->block + (l->sub > 0));
}
static int32_t infer__mobile_out(const infer_model *m, const infer__layer *l) {
    return infer__mobile_side(m, 2 + l->block);
}
static int32_t infer__mobile_cols(const infer_model *m, int32_t n) {
    static const int16_t last[] = { INFER__W_EDGE_PROJ, INFER__W_PW_PROJ, INFER__W_QUERIES_OUT };
    int i = 0;
    if (n == 0) return m->layers[0].w[INFER__W_STACK_IN_M0].rows;
    while (i < 2 && !m->layers[n - 1].w[last[i]].type) i++;
    return m->layers[n - 1].w[last[i]].rows;
}

/* A kernel of up to `most` x `most`, and the norm of its results: it reads positions of *cols values, which become those
 * of its results. */
static infer_result infer__mobile_fits(const infer_model *m, const infer__layer *l, int slot, int depth, int most,
                                       int64_t *cols, infer_error *err) {
    const infer__weight *w = &l->w[slot];
    const infer__gguf_tensor *t = &m->gguf.tensors[w->tensor - 1];
    const int32_t side = infer__mobile_root(depth ? w->cols : w->cols / INFER__MAX(*cols, 1));
    infer_result r;
    if (side % 2 == 0 || side > most || w->rows > INFER__MAX_DIM ||
        (t->n_dims > 2 && t->dims[0] != (uint64_t)side) ||
        (depth ? w->rows != *cols || w->cols != side * side : w->cols != side * side * *cols))
        return infer__error(err, INFER_ERR_FORMAT,
                            "tensor %s: %d kernels of %d values, for %d columns: sides are equal, odd, and up to %d", w->name,
                            (int)w->rows, (int)w->cols, (int)*cols, most);
    *cols = w->rows;
    r = infer__need(l, slot + 1, err);
    return r ? r : infer__flow_fits(w + 1, *cols, err);
}

static infer_result infer__mobile_convs_check(const infer_model *m, infer__layer *l, infer_error *err) {
    int64_t cols = infer__mobile_cols(m, l->index);
    infer_result r = INFER_OK;
    int halved = l->sub > 0;
    size_t i;
    for (i = 0; i < INFER__COUNT(INFER__MOBILE_CONVS) && !r; i++) {
        const infer__mobile_conv *v = &INFER__MOBILE_CONVS[i];
        if (!l->w[v->slot].type) {
            r = infer__only_with(m, l, v->slot + 1, v->slot, err);
            continue;
        }
        r = infer__mobile_fits(m, l, v->slot, v->depth, v->most, &cols, err);
        halved |= v->halves;
    }
    if (!r && !halved) r = infer__need(l, INFER__W_DW_MID, err);
    return r ? r : infer__flow_fits(&l->w[INFER__W_LAYER_SCALE], cols, err);
}

static infer_result infer__mobile_queries_check(const infer_model *m, infer__layer *l, infer_error *err) {
    const infer__weight *w = l->w, *k = &w[INFER__W_QUERIES_KEYS], *v = &w[INFER__W_QUERIES_VALUES];
    int64_t cols = infer__mobile_cols(m, l->index), n[4];
    infer_result r = infer__flow_fits(&w[INFER__W_QUERIES_NORM], cols, err);
    int i;
    for (i = 0; i < 4; i++) n[i] = cols;
    if (!r && l->sub == 0) r = infer__need(l, INFER__W_DW_MID, err); /* a stage begins with what halves it */
    for (i = 0; i < 2 && !r; i++) {
        const int slot = i ? INFER__W_VALUES_DOWN : INFER__W_KEYS_DOWN;
        if (w[slot].type) r = infer__mobile_fits(m, l, slot, 1, INFER__MOBILE_SIDES, &n[i], err);
        else if (w[INFER__W_KEYS_DOWN].type || w[INFER__W_VALUES_DOWN].type) r = infer__need(l, slot, err);
        else r = infer__only_with(m, l, slot + 1, slot, err);
    }
    if (!r) r = infer__flow_matrix(&w[INFER__W_QUERIES], &w[INFER__W_STACK_END], 0, &n[2], err);
    if (!r) r = infer__flow_matrix(k, &w[INFER__W_STACK_END], 0, &n[0], err);
    if (!r) r = infer__flow_matrix(v, &w[INFER__W_STACK_END], 0, &n[1], err);
    n[3] = n[2];
    if (!r) r = infer__flow_matrix(&w[INFER__W_QUERIES_OUT], &w[INFER__W_STACK_END], 0, &n[3], err);
    if (!r && (n[0] < 1 || n[0] != n[1] || n[2] % n[0] || n[2] > INFER__MAX_DIM))
        r = infer__error(err, INFER_ERR_FORMAT, "tensors %s and %s: heads of %d and %d values, of %d", k->name, v->name,
                         (int)n[0], (int)n[1], (int)n[2]);
    if (!r && n[3] != cols) r = infer__flow_rows(&w[INFER__W_QUERIES_OUT], cols, err);
    return r ? r : infer__flow_fits(&w[INFER__W_LAYER_SCALE], cols, err);
}

/* Kernels of columns as float32, position by position; rows are padded with zeros. */
static infer_result infer__mobile_taps(infer_model *m, infer__weight *w, infer_error *err) {
    const int32_t cols = w->rows, taps = w->cols, stride = infer__mobile_pad(cols);
    const char *removed;
    float *to = NULL, from[INFER__MOBILE_SIDES * INFER__MOBILE_SIDES];
    int32_t i, k;
    if (w->data) {
        to = (float *)infer__arena_alloc(&m->arena, (uint64_t)taps * (uint64_t)stride * sizeof *to);
        if (!to) return infer__error(err, INFER_ERR_MEMORY, "no memory for %s", w->name);
        memset(to, 0, (size_t)taps * (size_t)stride * sizeof *to);
    }
    for (i = 0; to && i < cols; i++) {
        w->type->decode((const uint8_t *)w->data + (uint64_t)i * w->row_bytes, from, taps);
        for (k = 0; k < taps; k++) to[(int64_t)k * stride + i] = from[k];
    }
    w->type = infer__quant_find(0, &removed); /* F32 */
    w->data = to;
    w->rows = taps;
    w->cols = cols;
    w->row_bytes = (uint64_t)stride * sizeof *to;
    w->tensor = 0;
    return INFER_OK;
}

static infer_result infer__mobile_split(infer_model *m, infer__layer *l, infer_error *err) {
    static const int16_t depths[] = { INFER__W_DW_START, INFER__W_DW_MID, INFER__W_KEYS_DOWN, INFER__W_VALUES_DOWN };
    infer__weight *w = &l->w[INFER__W_EDGE_EXP];
    infer_result r = INFER_OK;
    size_t i;
    if (w->type) r = infer__weight_turn(m, w, 0, w->cols / infer__mobile_cols(m, l->index), err);
    for (i = 0; i < INFER__COUNT(depths) && !r; i++)
        if (l->w[depths[i]].type) r = infer__mobile_taps(m, &l->w[depths[i]], err);
    w = &l->w[INFER__W_LAYER_SCALE];
    return r || !w->type ? r : infer__weight_inverse(m, w, err);
}

/* ---- scratch ----------------------------------------------------------------------------------------------------- */

enum { /* rooms: what layers give each other; results of kernels of columns, and queries; of products; a piece of what
        * a product reads, and of what is added; keys and values; what the fusion reads of an earlier stage */
    INFER__ROOM_X, INFER__ROOM_DEPTH, INFER__ROOM_WIDE, INFER__ROOM_READ, INFER__ROOM_GIVE, INFER__ROOM_DOWN,
    INFER__ROOM_KEYS, INFER__ROOM_VALUES, INFER__ROOM_TURNED, INFER__ROOM_KEPT, INFER__ROOMS
};
typedef struct infer__mobile { infer_context *c; const infer__layer *l; uint64_t at[INFER__ROOMS + 1]; } infer__mobile;

static void infer__room_takes(uint64_t *at, int room, int32_t rows, int32_t cols) {
    const uint64_t n = (uint64_t)rows * (uint64_t)infer__mobile_pad(cols);
    at[room + 1] = INFER__MAX(at[room + 1], n);
}

static void infer__mobile_layer_rooms(const infer_model *m, const infer__layer *l, uint64_t *at) {
    const infer__weight *w = l->w;
    const int32_t side = infer__mobile_in(m, l), out = infer__mobile_out(m, l), cols = infer__mobile_cols(m, l->index);
    const int32_t piece = INFER__MOBILE_PIECE;
    int32_t rows = side * side;
    size_t i;
    infer__room_takes(at, INFER__ROOM_X, rows, cols);
    infer__room_takes(at, INFER__ROOM_X, out * out, infer__mobile_cols(m, l->index + 1));
    infer__room_takes(at, INFER__ROOM_GIVE, piece, infer__mobile_cols(m, l->index + 1));
    for (i = 0; i < INFER__COUNT(INFER__MOBILE_CONVS); i++) {
        const infer__mobile_conv *v = &INFER__MOBILE_CONVS[i];
        if (!w[v->slot].type) continue;
        if (v->halves) rows = out * out;
        if (v->depth) infer__room_takes(at, INFER__ROOM_DEPTH, rows, w[v->slot].cols);
        else if (!v->ends) infer__room_takes(at, INFER__ROOM_WIDE, rows, w[v->slot].rows);
        if (v->most > 1 && !v->depth) infer__room_takes(at, INFER__ROOM_READ, piece, w[v->slot].cols);
    }
    if (!w[INFER__W_QUERIES].type) return;
    infer__room_takes(at, INFER__ROOM_WIDE, rows, cols);
    infer__room_takes(at, INFER__ROOM_DEPTH, rows, w[INFER__W_QUERIES].rows);
    if (w[INFER__W_KEYS_DOWN].type) rows = infer__half(side) * infer__half(side);
    infer__room_takes(at, INFER__ROOM_DOWN, rows, cols);
    infer__room_takes(at, INFER__ROOM_KEYS, rows, w[INFER__W_QUERIES_KEYS].rows);
    infer__room_takes(at, INFER__ROOM_VALUES, rows, w[INFER__W_QUERIES_KEYS].rows);
    infer__room_takes(at, INFER__ROOM_TURNED, w[INFER__W_QUERIES_KEYS].rows, rows);
    infer__room_takes(at, INFER__ROOM_READ, piece, rows);
}

/* The layer whose result the fusion reads beside the last one's. */
static int32_t infer__mobile_kept(const infer_model *m) { return m->stack.ends[INFER__BLOCK_STAGES - 2] - 1; }

/* at: where rooms begin, in floats, and where the last one ends. */
static void infer__mobile_rooms(const infer_model *m, uint64_t at[INFER__ROOMS + 1]) {
    const infer__weight *w = &m->layers[m->hp.n_layer - 1].w[INFER__W_STACK_HEAD_M0];
    const infer__layer *kept = &m->layers[infer__mobile_kept(m)];
    const int32_t side = infer__mobile_out(m, kept), piece = INFER__MOBILE_PIECE;
    int32_t i;
    memset(at, 0, (INFER__ROOMS + 1) * sizeof *at);
    for (i = 0; i < m->hp.n_layer; i++) infer__mobile_layer_rooms(m, &m->layers[i], at);
    infer__room_takes(at, INFER__ROOM_READ, piece, m->layers[0].w[INFER__W_STACK_IN_M0].cols);
    infer__room_takes(at, INFER__ROOM_READ, piece, w[0].cols);
    infer__room_takes(at, INFER__ROOM_WIDE, piece, w[0].rows);
    infer__room_takes(at, INFER__ROOM_DEPTH, side * side, w[1].rows);
    infer__room_takes(at, INFER__ROOM_KEPT, side * side, infer__mobile_cols(m, kept->index + 1));
    for (i = 0; i < INFER__ROOMS; i++) at[i + 1] += at[i];
}

static infer_result infer__mobile_sizes(const infer_model *m, int32_t width, int32_t height, infer__picture *p,
                                        infer_error *err) {
    const int32_t side = infer__mobile_out(m, &m->layers[infer__mobile_kept(m)]);
    if (width != m->stack.image || height != m->stack.image)
        return infer__error(err, INFER_ERR_ARGUMENT, "a picture of %d x %d: the model reads %d x %d", (int)width,
                            (int)height, (int)m->stack.image, (int)m->stack.image);
    p->nx = p->ny = INFER__MIN(side, INFER__MOBILE_SIDE);
    p->patches = p->rows = p->tokens = p->nx * p->ny;
    return INFER_OK;
}

static infer_result infer__mobile_fill(infer_model *m, infer__picture *p, const float *values, infer_error *err) {
    const int64_t side = m->stack.image;
    uint64_t at[INFER__ROOMS + 1];
    infer__mobile_rooms(m, at);
    if (at[INFER__ROOMS] >= (uint64_t)1 << 48 || !infer__picture_buf(m, &p->pixels[0], side * side, 3) ||
        !infer__picture_buf(m, &p->grid, (int64_t)at[INFER__ROOMS], 1))
        return infer__error(err, INFER_ERR_MEMORY, "no memory for the planes of a picture of %d x %d", (int)side,
                            (int)side);
    memcpy(p->pixels[0].host, values, (size_t)p->pixels[0].bytes);
    return INFER_OK;
}

/* ---- a pass ------------------------------------------------------------------------------------------------------ */

static infer__mobile infer__mobile_begin(infer_context *c, const infer__layer *l) {
    infer__mobile r;
    r.c = c;
    r.l = l;
    infer__mobile_rooms(c->model, r.at);
    return r;
}

static infer__tensor infer__mobile_room(const infer__mobile *r, int room, int32_t rows, int32_t cols) {
    infer__tensor t = infer__view((infer__buf *)(uintptr_t)&r->c->picture->grid, r->at[room], rows, cols);
    t.stride = infer__mobile_pad(cols);
    return t;
}

static infer__plane infer__mobile_plane(const infer__mobile *r, int room, int32_t side, int32_t cols) {
    infer__plane p;
    p.t = infer__mobile_room(r, room, side * side, cols);
    p.high = p.wide = side;
    return p;
}

static void infer__mobile_norm(const infer__mobile *r, const infer__weight *w, int act, const infer__tensor *x,
                               const infer__tensor *y) {
    infer__norm_args a;
    memset(&a, 0, sizeof a);
    a.x = *x;
    a.y = *y;
    a.weight = w;
    a.kind = INFER__NORM_RMS;
    a.n_groups = 1;
    a.eps = 1e-6f;
    infer__ops_of(&r->c->ctx)->norm(&r->c->ctx, &a);
    if (act) infer__act_rows(r->c, INFER__ACT_GELU_TANH, y, y);
}

/* Products of w, with bias b, and what a kernel of its size reads at each position of x, or at every second one; norm
 * NULL: none; times: what results are divided by (type NULL: nothing); adds: they are added to y. */
typedef struct infer__mobile_product {
    const infer__weight *w, *b, *norm, *times;
    int act, adds, step;
} infer__mobile_product;
static void infer__mobile_multiply(const infer__mobile *r, const infer__mobile_product *p, const infer__plane *x,
                                   const infer__tensor *y) {
    const int32_t side = infer__mobile_root(p->w->cols / x->t.cols);
    int32_t i;
    for (i = 0; i < y->rows && infer__ok(&r->c->ctx); i += INFER__MOBILE_PIECE) {
        const int32_t n = INFER__MIN(INFER__MOBILE_PIECE, y->rows - i);
        const infer__tensor rows = infer__some_rows(y, i, n);
        infer__tensor to = p->adds ? infer__mobile_room(r, INFER__ROOM_GIVE, n, y->cols) : rows, from;
        if (side > 1) {
            from = infer__mobile_room(r, INFER__ROOM_READ, n, p->w->cols);
            infer__cpu_plane(&r->c->ctx, x, side, p->step, NULL, i, &from);
        } else from = infer__some_rows(&x->t, i, n);
        infer__product(r->c, &from, p->w, p->b, &to);
        if (p->norm) infer__mobile_norm(r, p->norm, p->act, &to, &to);
        if (p->times && p->times->type) infer__times(r->c, p->times, &to);
        if (p->adds) infer__add_to(r->c, &to, &rows);
    }
}

static void infer__mobile_end(const infer__mobile *r) {
    const infer__layer *l = r->l;
    const infer_model *m = r->c->model;
    infer__plane x = infer__mobile_plane(r, INFER__ROOM_X, infer__mobile_out(m, l), infer__mobile_cols(m, l->index + 1));
    infer__plane to = infer__mobile_plane(r, INFER__ROOM_KEPT, x.wide, x.t.cols);
    infer__trace(r->c, l->index, "block", &x.t);
    if (l->index == infer__mobile_kept(m)) infer__copy_rows(r->c, &x.t, &to.t);
}

static void infer__mobile_convs_run(infer_context *c, const infer__layer *l, infer__sublayer *s) {
    const infer__mobile r = infer__mobile_begin(c, l);
    const int32_t cols = infer__mobile_cols(c->model, l->index);
    infer__plane x = infer__mobile_plane(&r, INFER__ROOM_X, infer__mobile_in(c->model, l), cols), y;
    size_t i;
    (void)s;
    for (i = 0; i < INFER__COUNT(INFER__MOBILE_CONVS); i++) {
        const infer__mobile_conv *v = &INFER__MOBILE_CONVS[i];
        const infer__weight *w = &l->w[v->slot];
        infer__mobile_product p;
        if (!w->type) continue;
        memset(&p, 0, sizeof p);
        p.step = v->halves && l->sub == 0 ? 2 : 1;
        y = infer__mobile_plane(&r, v->depth ? INFER__ROOM_DEPTH : v->ends ? INFER__ROOM_X : INFER__ROOM_WIDE,
                                p.step == 2 ? infer__half(x.wide) : x.wide, v->depth ? w->cols : w->rows);
        if (v->depth) {
            infer__cpu_plane(&c->ctx, &x, infer__mobile_root(w->rows), p.step, (const float *)w->data, 0, &y.t);
            infer__mobile_norm(&r, w + 1, v->act, &y.t, &y.t);
        } else {
            p.w = w;
            p.norm = w + 1;
            p.act = v->act;
            p.times = v->ends ? &l->w[INFER__W_LAYER_SCALE] : NULL;
            p.adds = v->ends && l->sub > 0 && y.t.cols == cols;
            infer__mobile_multiply(&r, &p, &x, &y.t);
        }
        x = y;
    }
    infer__mobile_end(&r);
}

/* Rows as a matrix. */
static infer__weight infer__mobile_matrix(const infer__tensor *t) {
    const char *removed;
    infer__weight w;
    memset(&w, 0, sizeof w);
    w.name = "of a picture";
    w.type = infer__quant_find(0, &removed); /* F32 */
    w.data = infer__row(t, 0);
    w.rows = t->rows;
    w.cols = t->cols;
    w.row_bytes = (uint64_t)t->stride * sizeof(float);
    return w;
}

/* Keys, or values: of every second position where the block has kernels for that. */
static infer__tensor infer__mobile_seen(const infer__mobile *r, const infer__plane *x, int down, int slot, int room) {
    const infer__weight *w = &r->l->w[down];
    infer__mobile_product p;
    infer__plane at = *x;
    infer__tensor y;
    memset(&p, 0, sizeof p);
    p.w = &r->l->w[slot];
    if (w->type) {
        at = infer__mobile_plane(r, INFER__ROOM_DOWN, infer__half(x->wide), x->t.cols);
        infer__cpu_plane(&r->c->ctx, x, infer__mobile_root(w->rows), 2, (const float *)w->data, 0, &at.t);
        infer__mobile_norm(r, w + 1, 0, &at.t, &at.t);
    }
    y = infer__mobile_room(r, room, at.t.rows, p.w->rows);
    infer__mobile_multiply(r, &p, &at, &y);
    return y;
}

/* Scores of heads, their softmax, and sums of values, which take the place of queries. */
static void infer__mobile_attend(const infer__mobile *r, const infer__tensor *k, const infer__tensor *v,
                                 infer__tensor *q) {
    infer__tensor turned = infer__mobile_room(r, INFER__ROOM_TURNED, v->cols, v->rows), some, scores;
    infer__weight keys, values;
    int32_t i, j;
    for (i = 0; i < v->rows; i++)
        for (j = 0; j < v->cols; j++) infer__row(&turned, j)[i] = infer__row(v, i)[j];
    keys = infer__mobile_matrix(k);
    values = infer__mobile_matrix(&turned);
    infer__scale_rows(r->c, 1 / sqrtf((float)q->cols), q);
    for (i = 0; i < q->rows && infer__ok(&r->c->ctx); i += INFER__MOBILE_PIECE) {
        some = infer__some_rows(q, i, INFER__MIN(INFER__MOBILE_PIECE, q->rows - i));
        scores = infer__mobile_room(r, INFER__ROOM_READ, some.rows, k->rows);
        infer__product(r->c, &some, &keys, NULL, &scores);
        infer__cpu_softmax(&r->c->ctx, &scores);
        infer__product(r->c, &scores, &values, NULL, &some);
    }
}

static void infer__mobile_queries_run(infer_context *c, const infer__layer *l, infer__sublayer *s) {
    const infer__mobile r = infer__mobile_begin(c, l);
    const int32_t side = infer__mobile_in(c->model, l), wide = l->w[INFER__W_QUERIES].rows;
    infer__plane x = infer__mobile_plane(&r, INFER__ROOM_X, side, infer__mobile_cols(c->model, l->index));
    infer__plane h = infer__mobile_plane(&r, INFER__ROOM_WIDE, side, x.t.cols), q = x;
    infer__tensor k, v, heads;
    infer__mobile_product p;
    (void)s;
    memset(&p, 0, sizeof p);
    infer__mobile_norm(&r, &l->w[INFER__W_QUERIES_NORM], 0, &x.t, &h.t);
    k = infer__mobile_seen(&r, &h, INFER__W_KEYS_DOWN, INFER__W_QUERIES_KEYS, INFER__ROOM_KEYS);
    v = infer__mobile_seen(&r, &h, INFER__W_VALUES_DOWN, INFER__W_QUERIES_VALUES, INFER__ROOM_VALUES);
    q.t = infer__mobile_room(&r, INFER__ROOM_DEPTH, x.t.rows, wide);
    q.t.stride = wide; /* heads are rows, too */
    p.w = &l->w[INFER__W_QUERIES];
    infer__mobile_multiply(&r, &p, &h, &q.t);
    heads = q.t;
    heads.cols = heads.stride = k.cols;
    heads.rows *= wide / k.cols;
    if (infer__ok(&c->ctx)) infer__mobile_attend(&r, &k, &v, &heads);
    p.w = &l->w[INFER__W_QUERIES_OUT];
    p.times = &l->w[INFER__W_LAYER_SCALE];
    p.adds = 1;
    infer__mobile_multiply(&r, &p, &q, &x.t);
    infer__mobile_end(&r);
}

/* The longest rows, and most of them, of a layer's products. */
static void infer__mobile_needs(const infer_model *m, const infer__layer *l, infer__needs *n) {
    const int32_t side = infer__mobile_in(m, l);
    int i;
    n->rows = INFER__MAX(n->rows, INFER__MOBILE_PIECE);
    for (i = INFER__W_EDGE_EXP; i <= INFER__W_LAYER_SCALE; i++)
        if (l->w[i].type) infer__need_cols(n, l->w[i].cols);
    if (l->w[INFER__W_QUERIES].type) infer__need_cols(n, side * side);
}

#if INFER__HAS_GPU
static const char *infer__mobile_lacks(const infer__ops *ops, const infer__layer *l) {
    (void)ops, (void)l;
    return "convolutions of a picture";
}
#endif

#if INFER__HAS_DESCRIBE
static void infer__mobile_describe(infer__text_out *o, const infer_model *m, const infer__layer *l, const char *in) {
    int i;
    (void)m, (void)in;
    for (i = INFER__W_EDGE_EXP; i < INFER__W_LAYER_SCALE; i++)
        if (l->w[i].type && l->w[i].rows > 1)
            infer__text_add(o, "    convolution %s  # %d x %d %s\n", l->w[i].name, (int)l->w[i].rows, (int)l->w[i].cols,
                            l->w[i].type->name);
}
#endif

/* ---- steps ------------------------------------------------------------------------------------------------------- */

/* The shapes of the first convolution, and of the fusion's two. */
static infer_result infer__mobile_flow(const infer_model *m, const infer__step *s, const infer__weight *w,
                                       const infer__weight *v, infer__flow *f, infer_error *err) {
    const int stem = s->kind == INFER__STEP_STEM;
    int64_t cols = stem ? 27 : infer__mobile_cols(m, infer__mobile_kept(m) + 1) + (int64_t)infer__mobile_cols(m, m->hp.n_layer);
    infer_result r = INFER_OK;
    int i;
    for (i = 0; i < (stem ? 1 : 2) && !r; i++) {
        f->widest = INFER__MAX(f->widest, cols);
        r = infer__flow_matrix(w + i, stem ? v + 1 : &m->layers[0].w[INFER__W_STACK_END], 0, &cols, err);
        if (!r) r = infer__flow_fits(v + i, cols, err);
        if (!r && cols > INFER__MAX_DIM)
            r = infer__error(err, INFER_ERR_FORMAT, "tensor %s: rows of %lld values", w[i].name, (long long)cols);
    }
    f->cols = m->hp.n_embd;
    if (!r && !stem && cols != f->cols) r = infer__flow_rows(w + 1, f->cols, err);
    return r;
}

/* The picture's plane; the stream is zeros. */
static void infer__step_stem(infer__walk *w, const infer__weight *m, const infer__weight *v) {
    const infer__mobile r = infer__mobile_begin(w->c, w->l);
    const infer__picture *p = w->c->picture;
    const int32_t side = w->c->model->stack.image;
    const infer__tensor y = infer__mobile_room(&r, INFER__ROOM_X, infer__half(side) * infer__half(side), m->rows);
    const infer__tensor t = infer__walk_room(w, 1, p->rows, w->c->model->hp.n_embd);
    infer__mobile_product s;
    infer__plane x;
    x.t = infer__view((infer__buf *)(uintptr_t)&p->pixels[0], 0, side * side, 3);
    x.high = x.wide = side;
    memset(&s, 0, sizeof s);
    s.w = m;
    s.b = infer__opt(v + 1);
    s.norm = v;
    s.act = 1;
    s.step = 2;
    infer__mobile_multiply(&r, &s, &x, &y);
    memset(infer__row(&t, 0), 0, (size_t)t.rows * (size_t)t.stride * sizeof(float));
    infer__walk_to(w, t, 1);
}

/* Positions of the last but one stage, with the nearest ones of the last: through two matrices, and then the mean of
 * those that become an embedding. */
static void infer__step_fuse(infer__walk *w, const infer__weight *m, const infer__weight *v) {
    infer_context *c = w->c;
    const infer__mobile r = infer__mobile_begin(c, w->l);
    const infer__layer *kept = &c->model->layers[infer__mobile_kept(c->model)];
    const infer__plane first =
        infer__mobile_plane(&r, INFER__ROOM_KEPT, infer__mobile_out(c->model, kept), infer__mobile_cols(c->model, kept->index + 1));
    const infer__plane last = infer__mobile_plane(&r, INFER__ROOM_X, infer__mobile_out(c->model, w->l),
                                                  infer__mobile_cols(c->model, c->model->hp.n_layer));
    const infer__tensor all = infer__mobile_room(&r, INFER__ROOM_DEPTH, first.t.rows, m[1].rows);
    const infer__tensor y = infer__walk_room(w, 1, c->picture->tokens, m[1].rows);
    const int32_t side = first.wide, k = side / c->picture->nx;
    int32_t i, j;
    for (i = 0; i < first.t.rows && infer__ok(&c->ctx); i += INFER__MOBILE_PIECE) {
        const int32_t n = INFER__MIN(INFER__MOBILE_PIECE, first.t.rows - i);
        infer__tensor from = infer__mobile_room(&r, INFER__ROOM_READ, n, m->cols);
        infer__tensor wide = infer__mobile_room(&r, INFER__ROOM_WIDE, n, m->rows), to = infer__some_rows(&all, i, n);
        for (j = 0; j < n; j++) {
            const int32_t at = (i + j) / side * last.high / side * last.wide + (i + j) % side * last.wide / side;
            memcpy(infer__row(&from, j), infer__row(&first.t, i + j), (size_t)first.t.cols * sizeof(float));
            memcpy(infer__row(&from, j) + first.t.cols, infer__row(&last.t, at), (size_t)last.t.cols * sizeof(float));
        }
        infer__product(c, &from, m, NULL, &wide);
        infer__mobile_norm(&r, v, 1, &wide, &wide);
        infer__product(c, &wide, m + 1, NULL, &to);
        infer__mobile_norm(&r, v + 1, 0, &to, &to);
    }
    memset(infer__row(&y, 0), 0, (size_t)y.rows * (size_t)y.stride * sizeof(float));
    for (i = 0; i < all.rows; i++)
        c->ctx.kernels->axpy(infer__row(&y, i / side / k * c->picture->nx + i % side / k), infer__row(&all, i),
                             1.0f / (float)(k * k), y.cols);
    infer__walk_to(w, y, 1);
}
