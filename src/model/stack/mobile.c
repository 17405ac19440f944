/* mobile.c: Gemma 3n's encoder of pictures, MobileNet V5: blocks of convolutions, each a layer of the stack.
 *
 * How:   what goes from block to block is no stream: positions get fewer, and wider. So it is a plane in scratch of the
 *        host (infer__picture.grid), such an encoder is on the CPU, and the stream is zeros until the first step of the
 *        head. Kernels of 1 x 1 are products with all positions, larger ones with what they read at each, a piece at a
 *        time; kernels of one column each are no products. In attention all heads share their keys and values: so
 *        scores and sums are products, too, with the heads of positions as rows.
 * Facts: MobileNet V4 is arXiv 2404.10518; V5 has no paper: timm's published code, whose weights these are, and what
 *        tools/mtmd of llama.cpp does. Norms are RMS norms of a position's values.
 * Start: infer__block_convs_run, infer__block_queries_run; infer__step_stem, infer__step_fuse.
 */
#include "../model.h"

enum {
    INFER__BLOCK_PIECE = 576, /* positions of a product: those of 24 x 24, of which a picture of 768 has multiples */
    INFER__BLOCK_SIDE = 16,   /* of the embeddings, at most: more are averaged */
    INFER__BLOCK_KERNEL = 7   /* sides of a kernel at most */
};

/* The convolutions of a block, of which it has some, in order. */
enum {
    INFER__BLOCK_ACT = 1,
    INFER__BLOCK_DEPTH = 2,  /* a kernel for each column */
    INFER__BLOCK_HALVES = 4, /* in the first block of a stage it reads every second position */
    INFER__BLOCK_ENDS = 8,   /* it gives the block's result */
    INFER__BLOCK_ADDS = 16,  /* which is added to what the block reads */
    INFER__BLOCK_LARGE = 32  /* its kernel is not 1 x 1 */
};
static const struct { int16_t slot; uint8_t how; } INFER__BLOCK_CONVS[] = {
    { INFER__W_EDGE_EXP, INFER__BLOCK_LARGE | INFER__BLOCK_ACT | INFER__BLOCK_HALVES },
    { INFER__W_EDGE_PROJ, INFER__BLOCK_ENDS },
    { INFER__W_DW_START, INFER__BLOCK_LARGE | INFER__BLOCK_DEPTH },
    { INFER__W_PW_EXP, INFER__BLOCK_ACT },
    { INFER__W_DW_MID, INFER__BLOCK_LARGE | INFER__BLOCK_DEPTH | INFER__BLOCK_ACT | INFER__BLOCK_HALVES },
    { INFER__W_PW_PROJ, INFER__BLOCK_ENDS } };

/* ---- opening ----------------------------------------------------------------------------------------------------- */

INFER__INLINE int32_t infer__block_root(int64_t n) { return (int32_t)(sqrt((double)n) + 0.5); }
INFER__INLINE int32_t infer__block_pad(int32_t cols) {
    return (cols + INFER__LANES - 1) / INFER__LANES * INFER__LANES;
}

/* A block's kind, by the tensors that it has; NULL = there is no such block. */
static const infer__sublayer_kind *infer__block_kind(const infer_model *m, int32_t stage, int32_t block) {
    static const struct { const char *part; const infer__sublayer_kind *kind; } parts[] = {
        { "conv_exp", &INFER__KIND_MOBILE_EDGE },
        { "conv_pwl", &INFER__KIND_MOBILE_EDGE },
        { "attn.query.proj", &INFER__KIND_MOBILE_QUERIES },
        { "attn.output.proj", &INFER__KIND_MOBILE_QUERIES },
        { "pw_exp.conv", &INFER__KIND_MOBILE_INVERTED },
        { "pw_proj.conv", &INFER__KIND_MOBILE_INVERTED } };
    char name[64];
    size_t i;
    for (i = 0; i < INFER__COUNT(parts); i++) {
        infer__format(name, sizeof name, "v.blk.%d.%d.%s.weight", (int)stage, (int)block, parts[i].part);
        if (infer__gguf_tensor_find(&m->gguf, name)) return parts[i].kind;
    }
    return NULL;
}

/* Blocks are those that the file has tensors of: its block_count is of something else. */
static void infer__blocks_keys(infer__keys *k, infer__hparams *hp) {
    infer__stack *s = &k->m->stack;
    const int32_t side = (s->image + 15) / 16;
    int32_t stage, n;
    hp->n_layer = hp->n_block = 0;
    for (stage = 0; stage < INFER__BLOCK_STAGES && !k->failed; stage++) {
        for (n = 0; hp->n_layer < INFER__MAX_LAYERS && infer__block_kind(k->m, stage, n); n++) hp->n_layer++;
        s->ends[stage] = hp->n_layer;
        if (n > 0) continue;
        k->failed = 1;
        infer__error(k->err, INFER_ERR_FORMAT, "the file has no tensors of block v.blk.%d.0", (int)stage);
    }
    if (!k->failed && side > INFER__BLOCK_SIDE &&
        (side % INFER__BLOCK_SIDE || side > INFER__BLOCK_SIDE * INFER__BLOCK_SIDE))
        infer__key_misfit(k, "image_size", "a multiple of 256 up to 4096, or up to 256");
}

static void infer__blocks_part(infer_model *m, infer__layer *l) {
    const infer__stack *s = &m->stack;
    for (l->block = 0; l->index >= s->ends[l->block]; l->block++) {}
    l->sub = l->index - (l->block ? s->ends[l->block - 1] : 0);
    l->on_host = 1;
    infer__stack_part(m, l, infer__block_kind(m, l->block, l->sub));
}

/* Sides of what a layer reads, and gives; columns of what n layers give. */
static int32_t infer__block_in(const infer_model *m, const infer__layer *l) {
    return (m->stack.image + (2 << (l->block + (l->sub > 0))) - 1) >> (1 + l->block + (l->sub > 0));
}
static int32_t infer__block_out(const infer_model *m, const infer__layer *l) {
    return (m->stack.image + (4 << l->block) - 1) >> (2 + l->block);
}
static int32_t infer__block_cols(const infer_model *m, int32_t n) {
    return n ? m->layers[n - 1].sub_cols : m->layers[0].w[INFER__W_STACK_IN_M0].rows;
}

/* A kernel, and the norm of its results: it reads positions of *cols values, which become those of its results. */
static infer_result infer__block_fits(const infer_model *m, const infer__layer *l, int slot, int how, int64_t *cols,
                                      infer_error *err) {
    const infer__weight *w = &l->w[slot];
    const infer__gguf_tensor *t = &m->gguf.tensors[w->tensor - 1];
    const int32_t most = how & INFER__BLOCK_LARGE ? INFER__BLOCK_KERNEL : 1, depth = how & INFER__BLOCK_DEPTH;
    const int32_t side = infer__block_root(depth ? w->cols : w->cols / INFER__MAX(*cols, 1));
    const infer_result r = infer__need(l, slot + 1, err);
    if (side % 2 == 0 || side > most || w->rows > INFER__MAX_DIM || (t->n_dims > 2 && t->dims[0] != (uint64_t)side) ||
        (depth ? w->rows != *cols || w->cols != side * side : w->cols != side * side * *cols))
        return infer__error(err, INFER_ERR_FORMAT,
                            "tensor %s: %d kernels of %d values, for %d columns: sides are equal, odd, and up to %d",
                            w->name, (int)w->rows, (int)w->cols, (int)*cols, (int)most);
    *cols = w->rows;
    return r ? r : infer__flow_fits(w + 1, *cols, err);
}

static infer_result infer__block_convs_check(const infer_model *m, infer__layer *l, infer_error *err) {
    int64_t cols = infer__block_cols(m, l->index);
    infer_result r = INFER_OK;
    int halved = l->sub > 0;
    size_t i;
    for (i = 0; i < INFER__COUNT(INFER__BLOCK_CONVS) && !r; i++) {
        const int slot = INFER__BLOCK_CONVS[i].slot, how = INFER__BLOCK_CONVS[i].how;
        if (l->w[slot].type) r = infer__block_fits(m, l, slot, how, &cols, err);
        else if (l->w[slot + 1].type) r = infer__need(l, slot, err);
        halved |= l->w[slot].type && how & INFER__BLOCK_HALVES;
    }
    if (!r && !halved) r = infer__need(l, INFER__W_DW_MID, err);
    l->sub_cols = (int32_t)cols;
    return r ? r : infer__flow_fits(&l->w[INFER__W_LAYER_SCALE], cols, err);
}

static infer_result infer__block_queries_check(const infer_model *m, infer__layer *l, infer_error *err) {
    const infer__weight *w = l->w, *none = &w[INFER__W_STACK_END];
    int64_t cols = infer__block_cols(m, l->index), k = cols, v = cols, q = cols, out;
    infer_result r = infer__flow_fits(&w[INFER__W_QUERIES_NORM], cols, err);
    int slot, downs = 0;
    if (!r && l->sub == 0) r = infer__need(l, INFER__W_DW_MID, err); /* a stage begins with what halves it */
    for (slot = INFER__W_KEYS_DOWN; slot <= INFER__W_VALUES_DOWN_NORM; slot++) downs += w[slot].type != NULL;
    for (slot = INFER__W_KEYS_DOWN; slot <= INFER__W_VALUES_DOWN && downs && !r; slot += 2) { /* all of them, or none */
        r = infer__need(l, slot, err);
        if (!r) r = infer__block_fits(m, l, slot, INFER__BLOCK_DEPTH | INFER__BLOCK_LARGE, &cols, err);
    }
    if (!r) r = infer__flow_matrix(&w[INFER__W_QUERIES], none, 0, &q, err);
    if (!r) r = infer__flow_matrix(&w[INFER__W_QUERIES_KEYS], none, 0, &k, err);
    if (!r) r = infer__flow_matrix(&w[INFER__W_QUERIES_VALUES], none, 0, &v, err);
    out = q;
    if (!r) r = infer__flow_matrix(&w[INFER__W_QUERIES_OUT], none, 0, &out, err);
    if (!r && (k < 1 || k != v || q % k || q > INFER__MAX_DIM))
        r = infer__error(err, INFER_ERR_FORMAT, "tensor %s: heads of %d and %d values, of %d", w[INFER__W_QUERIES].name,
                         (int)k, (int)v, (int)q);
    if (!r && out != cols) r = infer__flow_rows(&w[INFER__W_QUERIES_OUT], cols, err);
    l->sub_cols = (int32_t)cols;
    return r ? r : infer__flow_fits(&w[INFER__W_LAYER_SCALE], cols, err);
}

/* Kernels of columns as float32, position by position; rows are padded with zeros. */
static infer_result infer__block_taps(infer_model *m, infer__weight *w, infer_error *err) {
    const int32_t cols = w->rows, taps = w->cols, stride = infer__block_pad(cols);
    const char *removed;
    float *to = NULL, from[INFER__BLOCK_KERNEL * INFER__BLOCK_KERNEL];
    int32_t i, k;
    if (w->data && !(to = (float *)infer__arena_alloc(&m->arena, (uint64_t)taps * (uint64_t)stride * sizeof *to)))
        return infer__error(err, INFER_ERR_MEMORY, "no memory for %s", w->name);
    for (i = 0; to && i < stride; i++) {
        memset(from, 0, sizeof from);
        if (i < cols) w->type->decode((const uint8_t *)w->data + (uint64_t)i * w->row_bytes, from, taps);
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

static infer_result infer__block_split(infer_model *m, infer__layer *l, infer_error *err) {
    static const int16_t depths[] = { INFER__W_DW_START, INFER__W_DW_MID, INFER__W_KEYS_DOWN, INFER__W_VALUES_DOWN };
    infer__weight *w = &l->w[INFER__W_EDGE_EXP];
    infer_result r = INFER_OK;
    size_t i;
    if (w->type) r = infer__weight_turn(m, w, 0, w->cols / infer__block_cols(m, l->index), err);
    for (i = 0; i < INFER__COUNT(depths) && !r; i++)
        if (l->w[depths[i]].type) r = infer__block_taps(m, &l->w[depths[i]], err);
    w = &l->w[INFER__W_LAYER_SCALE];
    return r || !w->type ? r : infer__weight_inverse(m, w, err);
}

/* The longest rows, and most of them, of a layer's products. */
static void infer__block_needs(const infer_model *m, const infer__layer *l, infer__needs *n) {
    const int32_t side = infer__block_in(m, l);
    int i;
    n->rows = INFER__MAX(n->rows, INFER__BLOCK_PIECE);
    for (i = INFER__W_EDGE_EXP; i <= INFER__W_LAYER_SCALE; i++)
        if (l->w[i].type) infer__need_cols(n, l->w[i].cols);
    if (l->w[INFER__W_QUERIES].type) infer__need_cols(n, side * side);
}

static void infer__block_describe(infer__text_out *o, const infer_model *m, const infer__layer *l, const char *in) {
    (void)in;
    infer__text_add(o, "    positions = block of convolutions(positions)  # %d x %d of %d values\n",
                    (int)infer__block_out(m, l), (int)infer__block_out(m, l), (int)l->sub_cols);
}

/* ---- scratch ----------------------------------------------------------------------------------------------------- */

/* Rooms: what layers give each other; results of kernels of columns, and queries; of products; a piece of what a
 * product reads, or of what is added, or what keys are made of; keys and values; values by columns; what the fusion
 * reads. */
enum {
    INFER__ROOM_X, INFER__ROOM_DEPTH, INFER__ROOM_WIDE, INFER__ROOM_READ, INFER__ROOM_KEYS, INFER__ROOM_VALUES,
    INFER__ROOM_KEPT
};

static void infer__room_takes(infer__picture *p, int room, int32_t rows, int32_t cols) {
    const uint64_t n = (uint64_t)rows * (uint64_t)infer__block_pad(cols);
    p->rooms[room + 1] = INFER__MAX(p->rooms[room + 1], n);
}

static void infer__block_rooms(const infer_model *m, const infer__layer *l, infer__picture *p) {
    const infer__weight *w = l->w;
    const int32_t side = infer__block_in(m, l), out = infer__block_out(m, l), heads = w[INFER__W_QUERIES_KEYS].rows;
    int32_t rows = side * side;
    size_t i;
    infer__room_takes(p, INFER__ROOM_X, out * out, l->sub_cols);
    infer__room_takes(p, INFER__ROOM_READ, INFER__BLOCK_PIECE, l->sub_cols);
    for (i = 0; i < INFER__COUNT(INFER__BLOCK_CONVS); i++) {
        const infer__weight *v = &w[INFER__BLOCK_CONVS[i].slot];
        const int how = INFER__BLOCK_CONVS[i].how;
        if (!v->type) continue;
        if (how & INFER__BLOCK_HALVES) rows = out * out;
        if (how & INFER__BLOCK_DEPTH) infer__room_takes(p, INFER__ROOM_DEPTH, rows, v->cols);
        else if (!(how & INFER__BLOCK_ENDS)) infer__room_takes(p, INFER__ROOM_WIDE, rows, v->rows);
        infer__room_takes(p, INFER__ROOM_READ, INFER__BLOCK_PIECE, v->cols);
    }
    if (!w[INFER__W_QUERIES].type) return;
    infer__room_takes(p, INFER__ROOM_WIDE, rows, l->sub_cols);
    infer__room_takes(p, INFER__ROOM_DEPTH, rows, w[INFER__W_QUERIES].rows);
    if (w[INFER__W_KEYS_DOWN].type) rows = infer__half(side) * infer__half(side);
    infer__room_takes(p, INFER__ROOM_READ, rows, l->sub_cols);
    infer__room_takes(p, INFER__ROOM_KEYS, rows, 2 * heads);
    infer__room_takes(p, INFER__ROOM_VALUES, heads, rows);
    infer__room_takes(p, INFER__ROOM_READ, INFER__BLOCK_PIECE, rows);
}

/* The layer whose result the fusion reads beside the last one's. */
static const infer__layer *infer__block_kept(const infer_model *m) {
    return &m->layers[m->stack.ends[INFER__BLOCK_STAGES - 2] - 1];
}

static infer_result infer__blocks_sizes(const infer_model *m, int32_t width, int32_t height, infer__picture *p,
                                        infer_error *err) {
    if (width != m->stack.image || height != width)
        return infer__error(err, INFER_ERR_ARGUMENT, "a picture of %d x %d: the model reads %d x %d", (int)width,
                            (int)height, (int)m->stack.image, (int)m->stack.image);
    p->nx = p->ny = INFER__MIN(infer__block_out(m, infer__block_kept(m)), INFER__BLOCK_SIDE);
    p->patches = p->rows = p->tokens = p->nx * p->ny;
    return INFER_OK;
}

static infer_result infer__blocks_fill(infer_model *m, infer__picture *p, const float *values, infer_error *err) {
    const infer__weight *stem = &m->layers[0].w[INFER__W_STACK_IN_M0];
    const infer__weight *w = &m->layers[m->hp.n_layer - 1].w[INFER__W_STACK_HEAD_M0];
    const int32_t image = m->stack.image, half = infer__half(image), side = infer__block_out(m, infer__block_kept(m));
    int32_t i;
    for (i = 0; i < m->hp.n_layer; i++) infer__block_rooms(m, &m->layers[i], p);
    infer__room_takes(p, INFER__ROOM_X, half * half, stem->rows);
    infer__room_takes(p, INFER__ROOM_READ, INFER__BLOCK_PIECE, stem->cols);
    infer__room_takes(p, INFER__ROOM_WIDE, side * side, INFER__MAX(w[0].cols, w[1].rows));
    infer__room_takes(p, INFER__ROOM_DEPTH, side * side, w[0].rows);
    infer__room_takes(p, INFER__ROOM_KEPT, side * side, infer__block_kept(m)->sub_cols);
    for (i = 0; i <= INFER__ROOM_KEPT; i++) p->rooms[i + 1] += p->rooms[i];
    if (p->rooms[i] >= (uint64_t)1 << 48 || !infer__picture_buf(m, &p->pixels[0], (int64_t)image * image, 3) ||
        !infer__picture_buf(m, &p->grid, (int64_t)p->rooms[i], 1))
        return infer__error(err, INFER_ERR_MEMORY, "no memory for a picture of %d x %d", (int)image, (int)image);
    memcpy(p->pixels[0].host, values, (size_t)p->pixels[0].bytes);
    return INFER_OK;
}

/* ---- a pass ------------------------------------------------------------------------------------------------------ */

static infer__tensor infer__block_room(const infer_context *c, int room, int32_t rows, int32_t cols) {
    infer__tensor t = infer__view((infer__buf *)(uintptr_t)&c->picture->grid, c->picture->rooms[room], rows, cols);
    t.stride = infer__block_pad(cols);
    return t;
}

static infer__plane infer__block_plane(const infer_context *c, int room, int32_t side, int32_t cols) {
    infer__plane p;
    p.t = infer__block_room(c, room, side * side, cols);
    p.side = side;
    return p;
}

static void infer__block_norm(infer_context *c, const infer__weight *w, int how, const infer__tensor *y) {
    infer__norm_args a;
    memset(&a, 0, sizeof a);
    a.x = a.y = *y;
    a.weight = w;
    a.kind = INFER__NORM_RMS;
    a.n_groups = 1;
    a.eps = 1e-6f;
    infer__ops_of(&c->ctx)->norm(&c->ctx, &a);
    if (how & INFER__BLOCK_ACT) infer__act_rows(c, INFER__ACT_GELU_TANH, y, y);
}

/* y = a convolution of x with w and bias b, its norm, and that divided by `times`. b, norm: NULL = none, times: of type
 * NULL. */
static void infer__block_conv(infer_context *c, const infer__weight *w, const infer__weight *b,
                              const infer__weight *norm, const infer__weight *times, int how, const infer__plane *x,
                              const infer__tensor *y) {
    const int depth = how & INFER__BLOCK_DEPTH, step = how & INFER__BLOCK_HALVES ? 2 : 1;
    const int32_t side = infer__block_root(depth ? w->rows : w->cols / x->t.cols);
    int32_t i, n;
    if (depth) {
        infer__cpu_plane(&c->ctx, x, side, step, (const float *)w->data, 0, y);
        infer__block_norm(c, norm, how, y);
    }
    for (i = 0; i < y->rows && !depth && infer__ok(&c->ctx); i += n) {
        infer__tensor rows, from, to;
        n = INFER__MIN(INFER__BLOCK_PIECE, y->rows - i);
        rows = to = infer__some_rows(y, i, n);
        if (how & INFER__BLOCK_ADDS) to = infer__block_room(c, INFER__ROOM_READ, n, y->cols);
        if (side > 1) {
            from = infer__block_room(c, INFER__ROOM_READ, n, w->cols);
            infer__cpu_plane(&c->ctx, x, side, step, NULL, i, &from);
        } else from = infer__some_rows(&x->t, i, n);
        infer__product(c, &from, w, b, &to);
        if (norm) infer__block_norm(c, norm, how, &to);
        if (times->type) infer__times(c, times, &to);
        if (how & INFER__BLOCK_ADDS) infer__add_to(c, &to, &rows);
    }
}

static void infer__block_end(infer_context *c, const infer__layer *l) {
    const int32_t side = infer__block_out(c->model, l);
    const infer__plane x = infer__block_plane(c, INFER__ROOM_X, side, l->sub_cols),
                       kept = infer__block_plane(c, INFER__ROOM_KEPT, side, l->sub_cols);
    infer__trace(c, l->index, "block", &x.t);
    if (l == infer__block_kept(c->model)) infer__copy_rows(c, &x.t, &kept.t);
}

static void infer__block_convs_run(infer_context *c, const infer__layer *l, infer__sublayer *s) {
    const int32_t cols = infer__block_cols(c->model, l->index);
    infer__plane x = infer__block_plane(c, INFER__ROOM_X, infer__block_in(c->model, l), cols), y;
    size_t i;
    (void)s;
    for (i = 0; i < INFER__COUNT(INFER__BLOCK_CONVS); i++) {
        const infer__weight *w = &l->w[INFER__BLOCK_CONVS[i].slot];
        int how = INFER__BLOCK_CONVS[i].how, room = INFER__ROOM_WIDE;
        if (!w->type) continue;
        if (l->sub > 0) how &= ~INFER__BLOCK_HALVES;
        if (how & INFER__BLOCK_DEPTH) room = INFER__ROOM_DEPTH;
        if (how & INFER__BLOCK_ENDS) room = INFER__ROOM_X;
        if (how & INFER__BLOCK_ENDS && l->sub > 0 && w->rows == cols) how |= INFER__BLOCK_ADDS;
        y = infer__block_plane(c, room, how & INFER__BLOCK_HALVES ? infer__half(x.side) : x.side,
                               how & INFER__BLOCK_DEPTH ? w->cols : w->rows);
        infer__block_conv(c, w, NULL, w + 1, &l->w[how & INFER__BLOCK_ENDS ? INFER__W_LAYER_SCALE : INFER__W_STACK_END],
                          how, &x, &y.t);
        x = y;
    }
    infer__block_end(c, l);
}

/* Rows as a matrix. */
static infer__weight infer__block_matrix(const infer__tensor *t) {
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

/* Scores of queries, which are heads of positions, their softmax, and sums of values, which take their place. kv: keys,
 * then values. */
static void infer__block_attend(infer_context *c, const infer__tensor *kv, const infer__tensor *q) {
    const infer__tensor k = infer__columns(kv, 0, q->cols), v = infer__columns(kv, q->cols, q->cols);
    const infer__tensor turned = infer__block_room(c, INFER__ROOM_VALUES, v.cols, v.rows);
    const infer__weight keys = infer__block_matrix(&k), values = infer__block_matrix(&turned);
    infer__tensor some, scores;
    int32_t i, j;
    for (i = 0; i < v.rows; i++)
        for (j = 0; j < v.cols; j++) infer__row(&turned, j)[i] = infer__row(&v, i)[j];
    infer__scale_rows(c, 1 / sqrtf((float)q->cols), q);
    for (i = 0; i < q->rows && infer__ok(&c->ctx); i += some.rows) {
        some = infer__some_rows(q, i, INFER__MIN(INFER__BLOCK_PIECE, q->rows - i));
        scores = infer__block_room(c, INFER__ROOM_READ, some.rows, v.rows);
        infer__product(c, &some, &keys, NULL, &scores);
        infer__cpu_softmax(&c->ctx, &scores);
        infer__product(c, &scores, &values, NULL, &some);
    }
}

static void infer__block_queries_run(infer_context *c, const infer__layer *l, infer__sublayer *s) {
    const infer__weight *w = l->w, *none = &w[INFER__W_STACK_END];
    const int32_t side = infer__block_in(c->model, l), cols = l->sub_cols;
    const infer__plane x = infer__block_plane(c, INFER__ROOM_X, side, cols),
                       h = infer__block_plane(c, INFER__ROOM_WIDE, side, cols);
    const int32_t down = w[INFER__W_KEYS_DOWN].type != NULL, dim = w[INFER__W_QUERIES_KEYS].rows;
    const infer__plane less = infer__block_plane(c, INFER__ROOM_READ, infer__half(side), cols),
                       *from = down ? &less : &h;
    const infer__tensor kv = infer__block_room(c, INFER__ROOM_KEYS, from->t.rows, 2 * dim);
    infer__plane q = infer__block_plane(c, INFER__ROOM_DEPTH, side, w[INFER__W_QUERIES].rows);
    infer__tensor t;
    int i;
    (void)s;
    infer__copy_rows(c, &x.t, &h.t);
    infer__block_norm(c, &w[INFER__W_QUERIES_NORM], 0, &h.t);
    for (i = 0; i < 2; i++) {
        const infer__weight *kernel = &w[i ? INFER__W_VALUES_DOWN : INFER__W_KEYS_DOWN];
        t = infer__columns(&kv, i * dim, dim);
        if (down)
            infer__block_conv(c, kernel, NULL, kernel + 1, none, INFER__BLOCK_DEPTH | INFER__BLOCK_HALVES, &h, &less.t);
        infer__block_conv(c, &w[INFER__W_QUERIES_KEYS + i], NULL, NULL, none, 0, from, &t);
    }
    q.t.stride = q.t.cols; /* heads are rows, too */
    infer__block_conv(c, &w[INFER__W_QUERIES], NULL, NULL, none, 0, &h, &q.t);
    t = infer__view(q.t.buf, q.t.offset / sizeof(float), q.t.rows * (q.t.cols / dim), dim);
    if (infer__ok(&c->ctx)) infer__block_attend(c, &kv, &t);
    infer__block_conv(c, &w[INFER__W_QUERIES_OUT], NULL, NULL, &w[INFER__W_LAYER_SCALE], INFER__BLOCK_ADDS, &q, &x.t);
    infer__block_end(c, l);
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

/* The shapes of the first convolution, or of the fusion's two. */
static infer_result infer__blocks_flow(const infer_model *m, const infer__step *s, const infer__weight *w,
                                       const infer__weight *v, infer__flow *f, infer_error *err) {
    const int stem = s->kind == INFER__STEP_STEM;
    int64_t cols = stem ? 27 : infer__block_kept(m)->sub_cols + (int64_t)infer__block_cols(m, m->hp.n_layer);
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
    return r || stem || cols == f->cols ? r : infer__flow_rows(w + 1, f->cols, err);
}

/* The picture's plane; the stream is zeros. */
static void infer__step_stem(infer__walk *w, const infer__weight *m, const infer__weight *v) {
    infer_context *c = w->c;
    const infer__picture *p = c->picture;
    const int32_t side = c->model->stack.image;
    const infer__plane y = infer__block_plane(c, INFER__ROOM_X, infer__half(side), m->rows);
    const infer__tensor t = infer__walk_room(w, 1, p->rows, c->model->hp.n_embd);
    infer__plane x;
    x.t = infer__view((infer__buf *)(uintptr_t)&p->pixels[0], 0, side * side, 3);
    x.side = side;
    infer__block_conv(c, m, infer__opt(v + 1), v, &w->l->w[INFER__W_STACK_END], INFER__BLOCK_ACT | INFER__BLOCK_HALVES,
                      &x, &y.t);
    memset(infer__row(&t, 0), 0, (size_t)t.rows * (size_t)t.stride * sizeof(float));
    infer__walk_to(w, t, 1);
}

/* Positions of the last but one stage, with the nearest ones of the last: through two matrices, and then the mean of
 * those that become an embedding. */
static void infer__step_fuse(infer__walk *w, const infer__weight *m, const infer__weight *v) {
    infer_context *c = w->c;
    const infer__layer *kept = infer__block_kept(c->model);
    const infer__weight *none = &w->l->w[INFER__W_STACK_END];
    const int32_t side = infer__block_out(c->model, kept), from = infer__block_out(c->model, w->l), n = c->picture->nx;
    const infer__plane first = infer__block_plane(c, INFER__ROOM_KEPT, side, kept->sub_cols),
                       last = infer__block_plane(c, INFER__ROOM_X, from, w->l->sub_cols),
                       both = infer__block_plane(c, INFER__ROOM_WIDE, side, m->cols),
                       wide = infer__block_plane(c, INFER__ROOM_DEPTH, side, m->rows),
                       all = infer__block_plane(c, INFER__ROOM_WIDE, side, m[1].rows);
    const infer__tensor y = infer__walk_room(w, 1, n * n, m[1].rows);
    int32_t i;
    for (i = 0; i < side * side; i++) {
        float *to = infer__row(&both.t, i);
        const int32_t nearest = i / side * from / side * from + i % side * from / side;
        memcpy(to, infer__row(&first.t, i), (size_t)first.t.cols * sizeof *to);
        memcpy(to + first.t.cols, infer__row(&last.t, nearest), (size_t)last.t.cols * sizeof *to);
    }
    infer__block_conv(c, m, NULL, v, none, INFER__BLOCK_ACT, &both, &wide.t);
    infer__block_conv(c, m + 1, NULL, v + 1, none, 0, &wide, &all.t);
    memset(infer__row(&y, 0), 0, (size_t)y.rows * (size_t)y.stride * sizeof(float));
    for (i = 0; i < side * side; i++)
        c->ctx.kernels->axpy(infer__row(&y, i / side * n / side * n + i % side * n / side), infer__row(&all.t, i),
                             (float)(n * n) / (float)(side * side), y.cols);
    infer__walk_to(w, y, 1);
}
