/* encode.c: opening a stack of a projector file, and encoding pictures with it.
 *
 * Owns:  what a pass needs of a picture, on the host: the order of patches, their pixels, embeddings of positions.
 * Order: patches that are merged follow each other, blocks from left to right and from the top down; class tokens come
 *        last, wherever the model has them: attention does not see the order of rows.
 * Start: infer__stack_encode.
 */
#include "../model.h"

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static infer_result infer__stack_open(infer_model **out, const infer__gguf_origin *origin, int32_t kind,
                                      const infer_model_params *params, infer_error *err) {
    infer_model_params p;
    infer__gguf_opening files;
    infer__building x;
    infer_model *m;
    infer_result r;
    memset(&p, 0, sizeof p);
    memset(&x, 0, sizeof x);
    if (params) p = *params;
    p.vocab_only = p.mtp = 0;
    p.pre = NULL;
    *out = NULL;
    r = infer__model_start(&m, &p, INFER_VERSION, err);
    if (r) return r;
    m->stack.kind = kind;
    infer__gguf_begin(&files, &m->gguf, &m->mem, &m->report, origin);
    r = infer__gguf_step(&files, &m->gguf, NULL, err);
    if (!r) r = infer__model_build(m, &x, NULL, err);
    if (!r && m->why_code) r = infer__error(err, m->why_code, "%s", m->why_not);
    if (!r) {
        *out = m;
        return r;
    }
    infer__upload_free(m, &x.upload);
    infer__model_free(m);
    return r;
}

static int32_t infer__stack_width(const infer_model *m) { return m->hp.n_out; }

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

/* The sizes of a picture's pass. */
static infer_result infer__picture_sizes(const infer_model *m, int32_t width, int32_t height, infer__picture *p,
                                         infer_error *err) {
    const infer__stack *s = &m->stack;
    const int32_t side = s->patch * s->merge;
    const infer__step *step;
    memset(p, 0, sizeof *p);
    if (width < 1 || height < 1 || width % side || height % side)
        return infer__error(err, INFER_ERR_ARGUMENT, "a picture of %d x %d: sides are multiples of %d here", (int)width,
                            (int)height, (int)side);
    p->nx = width / s->patch;
    p->ny = height / s->patch;
    if ((int64_t)p->nx * p->ny >= 1 << 20)
        return infer__error(err, INFER_ERR_LIMIT, "a picture of %d x %d has too many patches", (int)width, (int)height);
    p->patches = p->rows = p->tokens = p->nx * p->ny;
    for (step = s->row->head; step->kind; step++)
        if (step->kind == INFER__STEP_MERGE || step->kind == INFER__STEP_POOL) p->tokens /= s->merge * s->merge;
    if (s->row->places == INFER__PLACES_LEARNED && p->rows != s->table_rows)
        return infer__error(err, INFER_ERR_ARGUMENT, "a picture of %d x %d has %d patches, the model has learned %d",
                            (int)width, (int)height, (int)p->rows, (int)s->table_rows);
    return INFER_OK;
}

static int32_t infer__stack_tokens(const infer_model *m, int32_t width, int32_t height, infer_error *err) {
    infer__picture p;
    return infer__picture_sizes(m, width, height, &p, err) ? 0 : p.tokens;
}

static infer_result infer__stack_context(infer_context **out, infer_model *m, const infer_context_params *params,
                                         int32_t width, int32_t height, infer_error *err) {
    infer_context_params p;
    infer__picture sizes;
    infer_result r = infer__picture_sizes(m, width, height, &sizes, err);
    if (r) return r;
    memset(&p, 0, sizeof p);
    if (params) p = *params;
    p.batch = p.cells = sizes.rows;
    p.sessions = 1;
    p.kv_type = INFER_KV_DEFAULT;
    return infer__context_make(out, m, &p, INFER__SESSIONS_OWN, err);
}

/* ---- a picture's rows -------------------------------------------------------------------------------------------- */

/* The patch of a row: blocks of merge x merge. */
static void infer__picture_at(const infer__stack *s, const infer__picture *p, int32_t row, int32_t *x, int32_t *y) {
    const int32_t k = s->merge, block = row / (k * k), in = row % (k * k), wide = p->nx / k;
    *x = block % wide * k + in % k;
    *y = block / wide * k + in / k;
}

/* The pixels of patches, colour by colour. */
static void infer__picture_cut(const infer__stack *s, const infer__picture *p, const float *values, float *to) {
    const int32_t side = s->patch;
    const int64_t line = 3 * (int64_t)p->nx * side;
    int32_t row, x, y, c, i, j;
    for (row = 0; row < p->patches; row++) {
        const float *from;
        infer__picture_at(s, p, row, &x, &y);
        from = values + (int64_t)y * side * line + 3 * (int64_t)x * side;
        for (c = 0; c < 3; c++)
            for (j = 0; j < side; j++)
                for (i = 0; i < side; i++) *to++ = from[j * line + 3 * (int64_t)i + c];
    }
}

/* Embeddings of positions, and of class tokens. */
static void infer__picture_places(const infer_model *m, const infer__picture *p, float *to) {
    const infer__stack *s = &m->stack;
    const size_t bytes = (size_t)m->hp.n_embd * sizeof(float);
    int32_t row, x, y;
    for (row = 0; row < p->patches; row++, to += m->hp.n_embd) {
        infer__picture_at(s, p, row, &x, &y);
        memcpy(to, s->table + ((int64_t)y * p->nx + x) * m->hp.n_embd, bytes);
    }
}

static int infer__picture_buf(infer_model *m, infer__buf *b, int32_t rows, int32_t cols) {
    b->bytes = (uint64_t)rows * (uint64_t)cols * sizeof(float);
    b->host = infer__alloc(&m->mem, b->bytes);
    return b->host != NULL;
}

static infer_result infer__picture_fill(infer_model *m, infer__picture *p, const float *values, const float *second,
                                        infer_error *err) {
    const int32_t pixels = 3 * m->stack.patch * m->stack.patch;
    int ok = infer__picture_buf(m, &p->pixels[0], p->patches, pixels);
    if (ok && second) ok = infer__picture_buf(m, &p->pixels[1], p->patches, pixels);
    if (ok && m->stack.row->places) ok = infer__picture_buf(m, &p->places, p->rows, m->hp.n_embd);
    if (!ok) return infer__error(err, INFER_ERR_MEMORY, "no memory for a picture of %d patches", (int)p->patches);
    infer__picture_cut(&m->stack, p, values, (float *)p->pixels[0].host);
    if (second) infer__picture_cut(&m->stack, p, second, (float *)p->pixels[1].host);
    if (m->stack.row->places) infer__picture_places(m, p, (float *)p->places.host);
    return INFER_OK;
}

static void infer__picture_free(infer_model *m, infer__picture *p) {
    infer__free(&m->mem, p->pixels[0].host);
    infer__free(&m->mem, p->pixels[1].host);
    infer__free(&m->mem, p->places.host);
}

/* ---- encoding ---------------------------------------------------------------------------------------------------- */

/* A pass over the picture's rows, in a session of its own; the context is claimed. */
static infer_result infer__picture_eval(infer_context *c, infer__picture *p, const infer_session_params *session,
                                        infer_error *err) {
    infer_session_params sp;
    infer_session *s;
    infer_step step;
    infer_result r;
    memset(&sp, 0, sizeof sp);
    if (session) sp = *session;
    sp.context = p->rows;
    r = infer__session_make(&s, c, &sp, err);
    if (r) return r;
    memset(&step, 0, sizeof step);
    step.session = s;
    step.embeddings = (const float *)p->pixels[0].host; /* not read: the first layer makes the stream */
    step.n = p->rows;
    c->picture = p;
    infer__session_claim(s); /* unused by others: it cannot fail */
    r = infer__eval_steps(c, &step, 1, err);
    c->picture = NULL;
    infer__session_free(s);
    if (!r && !c->ctx.kernels->finite(p->out, (int64_t)p->tokens * c->model->hp.n_out))
        r = infer__error(err, INFER_ERR_STATE, "an embedding has a value that is not finite");
    return r;
}

static infer_result infer__stack_encode(infer_context *c, const float *values, int32_t width, int32_t height,
                                        const float *second, const infer_session_params *session, float *out,
                                        infer_error *err) {
    infer_model *m = c->model;
    infer__picture p;
    infer_result r = infer__picture_sizes(m, width, height, &p, err);
    if (r) return r;
    if (p.rows > c->plan.batch)
        return infer__error(err, INFER_ERR_ARGUMENT, "a picture of %d patches: the context has room for %d",
                            (int)p.rows, (int)c->plan.batch);
    if ((r = infer__context_claim(c, "encoding", err)) != INFER_OK) return r;
    p.out = out;
    r = infer__picture_fill(m, &p, values, second, err);
    if (!r) r = infer__picture_eval(c, &p, session, err);
    infer__picture_free(m, &p);
    infer__context_leave(c);
    return r;
}
